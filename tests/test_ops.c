/* test_ops.c - every op and loss against reference.h, values and gradients; bits (eager, schedules, groups, number of samples, windows, cells,
   instruction sets), null nodes and bad calls.
       cc -O2 -o test_ops tests/test_ops.c -lm && ./test_ops */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include <limits.h>
#include "kernel_sets.h"
#include "op_table.h"
#include <stdlib.h>

static int read_grads(fold_ctx *f, const op_case *c, int common, leaves leaf, float *r)
{
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        const int n = is_list(o) ? c->count : o->count;
        if (is_common(o) != common) continue;
        if (is_param(o))
            memcpy(r, fold_param_grad(fold_ctx_model(f), c->param[k]), (size_t)o->size * sizeof *r);
        for (int i = 0; i < n && !is_param(o) && !is(o, "=n"); i++) {
            const float *g = fold_grad(f, leaf[k][i]);
            if (!CHECK_SAYS(g, "no gradient of operand %d: %s", k, fold_ctx_message(f))) return 0;
            memcpy(r + i * o->size, g, (size_t)o->size * sizeof *r);
        }
        r += most_elements(o) * o->size;
    }
    return 1;
}

/* Records and runs samples [first, first + n): each one's value and gradients go to r + its number * stride,
   the gradients common to all of them behind the last. */
static int run(op_case *c, fold_ctx *f, int first, int n, int how, float *r)
{
    static leaves leaf[MAX_SAMPLES], common;
    fold_node y[MAX_SAMPLES], loss[MAX_SAMPLES];
    const int inference = how & INFERENCE;
    fold_ctx_reset(f);
    fold_grads_clear(fold_ctx_model(f));
    record_operands(f, c, 1, 0, how, common);
    for (int s = first; s < first + n; s++) {
        choose_sample(c, s, how);
        record_operands(f, c, 0, s, how, leaf[s]);
        y[s - first] = record_case(f, c, how);
        fold_keep(f, y[s - first]);
        loss[s - first] = fold_dot(f, y[s - first], fold_input_shaped(f, c->weight[s], c->out));
    }
    const fold_node total = fold_sum_n(f, loss, n);
    const fold_status status = inference ? fold_run(f, y, n) : fold_backward(f, total);
    if (!CHECK_SAYS(!status, "%s", fold_ctx_message(f))) return 0;
    for (int s = first; s < first + n; s++) {
        const float *value = fold_value(f, y[s - first]);
        const fold_shape shape = fold_node_shape(f, y[s - first]);
        if (!CHECK_SAYS(value, "%s", fold_ctx_message(f))) return 0;
        CHECK(!memcmp(&shape, &c->out, sizeof shape));
        memcpy(r + s * c->stride, value, (size_t)c->out_size * sizeof *r);
        choose_sample(c, s, how);
        if (!inference && !read_grads(f, c, 0, leaf[s], r + s * c->stride + c->out_size)) return 0;
    }
    return inference || read_grads(f, c, 1, common, r + MAX_SAMPLES * c->stride);
}

/* ---- against the reference ------------------------------------------------------------------- */

static ref_tape tape;

static int result_size(const op_case *c)
{
    int n = MAX_SAMPLES * c->stride;
    for (int k = 0; k < c->n_in; k++) n += is_common(&c->in[k]) ? c->in[k].size : 0;
    return n;
}

/* What results must be, and how far they may be from it, in the order of `run`: it depends on the samples alone, so it is
   computed for the first results, and remembered for those of other modes. */
static struct { double want[1 << 18], bound[1 << 18], size[1 << 18]; int known; } expected;

typedef struct weighed { const float *weight; int result; } weighed;
static void weigh(ref_tape *t, const void *user) /* the loss is the sum of weight times result */
{
    const weighed *w = (const weighed *)user;
    ref_value *y = &t->value[w->result];
    for (size_t i = 0; i < ref_count(y); i++) {
        y->g[i] += (double)w->weight[i];
        y->m[i] += fabs((double)w->weight[i]);
    }
    y->n++;
}
/* The gradient of an operand of one sample; of one common to all samples it is the sum over them. */
static void expect_gradient(const op_case *c, int k, int at)
{
    const operand *o = &c->in[k];
    for (int i = 0; i < (is_list(o) ? c->count : o->count); i++) {
        const ref_value *x = &tape.value[c->value[k][i]];
        for (int e = 0; e < o->size; e++) {
            const int to = at + i * o->size + e;
            expected.want[to] += x->g[e];
            expected.size[to] += x->m[e];
            expected.bound[to] += is(o, "=n") ? HUGE_VAL : x->gb[e];
        }
    }
}
static void expect_sample(op_case *c, int s, int how)
{
    load(&tape, c, s, how);
    const weighed w = { c->weight[s], c->row->reference(&tape, c) };
    ref_gradients(&tape, weigh, &w);
    const ref_value *y = &tape.value[w.result];
    if (!CHECK_INT(ref_count(y), c->out_size)) return;
    memcpy(expected.want + s * c->stride, y->v, (size_t)c->out_size * sizeof(double));
    memcpy(expected.bound + s * c->stride, y->b, (size_t)c->out_size * sizeof(double));
    int own = s * c->stride + c->out_size, common = MAX_SAMPLES * c->stride;
    for (int k = 0; k < c->n_in; k++) {
        int *at = is_common(&c->in[k]) ? &common : &own;
        expect_gradient(c, k, *at);
        *at += most_elements(&c->in[k]) * c->in[k].size;
    }
}
static void against_reference(op_case *c, int n_samples, int how, const float *r)
{
    const int n = result_size(c), common = MAX_SAMPLES * c->stride;
    if (!expected.known) memset(&expected, 0, sizeof expected);
    for (int s = 0; s < n_samples && !expected.known; s++) expect_sample(c, s, how);
    for (int i = common; i < n && !expected.known; i++)
        expected.bound[i] += ref_bound(0, n_samples - 1, expected.size[i]);
    expected.known = 1;
    for (int i = 0; i < n; i++) {
        const double got = (double)r[i], want = expected.want[i];
        CHECK_SAYS(fabs(got - want) <= expected.bound[i], "%s %d of sample %d: %.9g, want %.9g +- %.3g",
                   i % c->stride < c->out_size ? "value" : "gradient", i % c->stride, i < common ? i / c->stride : -1, got, want,
                   expected.bound[i]);
    }
}

/* ---- a case, every way it can run -------------------------------------------------------------- */

static float results[4][1 << 18];

static void clear(const op_case *c, float *r) { memset(r, 0, (size_t)result_size(c) * sizeof *r); }

/* Runs n samples into `r` and compares the first n_floats of it with `want`. */
static void same_bits(op_case *c, fold_ctx *f, const char *name, int n, int how, float *r, const float *want,
                      int n_floats)
{
    int at = 0;
    clear(c, r);
    if (!run(c, f, 0, n, how, r)) { printf("    in mode '%s'\n", name); return; }
    while (at < n_floats && !memcmp(r + at, want + at, sizeof *r)) at++;
    CHECK_SAYS(at >= n_floats,
               "%s%s%s, %d samples: float %d of the results (sample %d, float %d of %d) is %.9g, not %.9g",
               name, how & WINDOWS ? ", windows" : "", how & IN_CELL ? ", in a cell" : "", n, at,
               at / c->stride, at % c->stride, c->stride, (double)r[at], (double)want[at]);
}

/* Every mode gives the same bits, in one way of recording; results[0] holds them afterwards. Merging
   identical calls changes how gradients are summed: contexts with dedupe agree among themselves. */
static void in_every_mode(op_case *c, fold_ctx **f, int n_samples, int how)
{
    for (int i = 0; i < N_MODES; i++) {
        float *want = results[modes[i].dedupe ? 3 : 0];
        if (i > 0 && modes[i - 1].dedupe == modes[i].dedupe) {
            same_bits(c, f[i], modes[i].name, n_samples, how, results[1], want, result_size(c));
            continue;
        }
        clear(c, want);
        if (!run(c, f[i], 0, n_samples, how, want)) return;
        against_reference(c, n_samples, how, want);
    }
}

/* Any number of samples in one recording gives each the bits it has alone. */
static void in_any_company(op_case *c, fold_ctx **f)
{
    static const int counts[] = { 2, 3, 7, MAX_SAMPLES };
    clear(c, results[2]);
    for (int s = 0; s < MAX_SAMPLES; s++)
        if (!run(c, f[0], s, 1, 0, results[2])) return;
    for (int i = 0; i < 4; i++)
        same_bits(c, f[0], "in company", counts[i], 0, results[1], results[2], counts[i] * c->stride);
    same_bits(c, f[1], "eager", MAX_SAMPLES, 0, results[3], results[1], result_size(c));
}

/* Values are the same in inference contexts. */
static void in_inference(op_case *c, fold_model *m, int n_samples)
{
    for (int i = 0; i < 2; i++) {
        fold_ctx *f = new_ctx(m, &modes[i], 0);
        clear(c, results[1]);
        if (run(c, f, 0, n_samples, INFERENCE, results[1]))
            for (int s = 0; s < n_samples; s++)
                CHECK_BITS(results[1] + s * c->stride, results[0] + s * c->stride, (size_t)c->out_size);
        fold_ctx_free(f);
    }
}

#ifdef FOLD_REPRODUCIBLE
enum { PORTABLE_MATCHES = 1 };
#else
enum { PORTABLE_MATCHES = 0 };
#endif

/* Instruction sets with FMA give the same bits, the portable one is near the reference. */
static void on_other_machines(const op_case *original, const char *best, int n_samples)
{
    op_case here = *original, *c = &here; /* has the other models' handles */
    for (int i = 0; i < KERNEL_SETS; i++) {
        fold_model *m = strcmp(best, kernel_set[i]) ? kernel_set_model(kernel_set[i]) : NULL;
        if (!m) continue;
        add_params(c, m);
        fold_ctx *f = new_ctx(m, &modes[0], 1);
        if (!PORTABLE_MATCHES && !strcmp(kernel_set[i], "portable")) {
            clear(c, results[1]);
            if (run(c, f, 0, n_samples, 0, results[1])) against_reference(c, n_samples, 0, results[1]);
        } else {
            same_bits(c, f, kernel_set[i], n_samples, 0, results[1], results[0], result_size(c));
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* A null operand is an error of its own call, which names it. After an error it is one more null, and the message stays. */
static void with_null(op_case *c, fold_ctx *f, int how)
{
    static leaves leaf;
    const fold_node null = { 0, 0 };
    if (!strcmp(c->row->name, "identity")) return; /* no call */
    choose_sample(c, 1, how);
    for (int k = 0; k < c->n_in; k++) {
        if (is_param(&c->in[k]) && (how & IN_CELL || !is_used(&c->in[k]))) continue;
        fold_ctx_reset(f);
        record_operands(f, c, 1, 0, how, leaf);
        record_operands(f, c, 0, 1, how, leaf);
        for (int after = 0; after < 2; after++) {
            c->node[k][0] = null;
            CHECK(fold_node_is_null(record_case(f, c, how)));
            CHECK_TEXT(fold_ctx_message(f), " is the null node");
            CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
        }
    }
    fold_ctx_reset(f);
    record_operands(f, c, 1, 0, how, leaf);
    record_operands(f, c, 0, 1, how, leaf);
    CHECK(!fold_node_is_null(record_case(f, c, how)));
}

/* All modes, operands that are windows, null operands. */
static void in_every_way(op_case *c, fold_ctx **f, int n_samples, int how)
{
    expected.known = 0;
    in_every_mode(c, f, n_samples, how);
    for (int i = 0; i < 2; i++)
        same_bits(c, f[i], modes[i].name, n_samples, how | WINDOWS, results[1], results[0], result_size(c));
    with_null(c, f[0], how);
}

static void test_case(const op_row *row, const char *spec)
{
    static op_case c;
    fold_ctx *f[N_MODES];
    char name[160];
    snprintf(name, sizeof name, "%s: %s", row->name, spec);
    if (!check_begin(name)) return;
    parse(&c, row, spec);
    fill(&c);
    fold_model *m = fold_model_new(NULL);
    add_params(&c, m);
    for (int i = 0; i < N_MODES; i++) f[i] = new_ctx(m, &modes[i], 1);
    int n_samples = 3;
    for (int k = 0; k < c.n_in; k++) n_samples = is_list(&c.in[k]) ? 21 : n_samples; /* every length once */
    if (CHECK(result_size(&c) <= (int)(sizeof results[0] / sizeof(float)))) {
        in_any_company(&c, f);
        in_every_way(&c, f, n_samples, 0);
        in_inference(&c, m, n_samples);
        on_other_machines(&c, fold_model_isa(m), n_samples);
        if (make_cell(&c, m)) in_every_way(&c, f, n_samples, IN_CELL);
    }
    for (int i = 0; i < N_MODES; i++) fold_ctx_free(f[i]);
    fold_model_free(m);
    check_end();
}

/* Products at the edges of the kernels: every pairing of these widths. */
static void test_product_sizes(void)
{
    static const int sizes[] = { 1, 5, 15, 16, 17, 31, 64, 100 };
    static const op_row row = ROW(linear, NULL, -1, 1);
    char spec[64];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            snprintf(spec, sizeof spec, "%d W%dx%d b%d -> %d", sizes[i], sizes[i], sizes[j], sizes[j],
                     sizes[j]);
            test_case(&row, spec);
            snprintf(spec, sizeof spec, "%d V%dx%d -> %d", sizes[i], sizes[j], sizes[i], sizes[j]);
            test_case(&row, spec);
        }
}

/* ---- gradients where a derivative jumps: the header says where they go ------------------------- */

RECORD(at_least, fold_at_least(f, X(0), (float)c->attr[0]))
RECORD(at_most, fold_at_most(f, X(0), (float)c->attr[0]))
RECORD(amin_b, fold_amin(f, X(1), 0))
RECORD(prod_b, fold_prod(f, fold_slice(f, X(1), 0, 0, 4), FOLD_ALL))
enum { TIED = 5 };
RECORD(stopped, fold_mul(f, X(0), fold_stop_gradient(f, X(1))))
RECORD(windows, fold_max_pool1d(f, fold_reshape(f, X(0), fold_shape2(TIED, 1)), 3, 1, 1))

static const float tied_a[TIED] = { 0, 1, 1, -1, 0 }, tied_b[TIED] = { 0, 1, 2, -1, -1 };
typedef struct tie {
    const char *name;
    fold_node (*record)(fold_ctx *f, const op_case *c);
    int attr;
    float da[TIED], db[TIED];
} tie;
static const tie ties[] = {
    { "abs", record_abs, 0, { 0, 1, 1, -1, 0 }, { 0 } },
    { "relu", record_relu, 0, { 0, 1, 1, 0, 0 }, { 0 } },
    { "elu", record_elu, 50, { 0.5f, 1, 1, 0.18393973f, 0.5f }, { 0 } },
    { "at_least", record_at_least, 1, { 0, 1, 1, 0, 0 }, { 0 } },
    { "at_most", record_at_most, 1, { 1, 1, 1, 1, 1 }, { 0 } },
    { "at_most", record_at_most, 0, { 1, 0, 0, 1, 1 }, { 0 } },
    { "pow", record_pow, 0, { 0, 0, 0, 0, 0 }, { 0 } },
    { "leaky_relu", record_leaky_relu, 50, { 0.5f, 1, 1, 0.5f, 0.5f }, { 0 } },
    { "minimum", record_minimum, 0, { 0, 0, 1, 0, 0 }, { 1, 1, 0, 1, 1 } },
    { "maximum", record_maximum, 0, { 0, 0, 0, 0, 1 }, { 1, 1, 1, 1, 0 } },
    { "max_pool1d", record_windows, 0, { 0, 3, 1, 0, 1 }, { 0 } },
    { "amax", record_amax, 0, { 0, 1, 0, 0, 0 }, { 0 } },
    { "amin", record_amin, 0, { 0, 0, 0, 1, 0 }, { 0 } },
    { "amin of two", record_amin_b, 0, { 0 }, { 0, 0, 0, 1, 0 } },
    { "prod with zeros", record_prod, 0, { 0, 0, 0, 0, 0 }, { 0 } },
    { "prod with a zero", record_prod_b, 0, { 0 }, { -2, 0, 0, 0, 0 } },
    { "max_n", record_max_n, 0, { 1, 1, 0, 1, 1 }, { 0, 0, 1, 0, 0 } },
    { "huber", record_huber, 50, { 0, 0, -0.5f, 0, 0.5f }, { 0, 0, 0.5f, 0, -0.5f } },
    { "stop_gradient", record_stopped, 0, { 0, 1, 2, -1, -1 }, { 0 } },
};

static void test_tie(const tie *t, const mode *how)
{
    static op_case c;
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = new_ctx(m, how, 1);
    const fold_node a = fold_input(f, tied_a, TIED), b = fold_input(f, tied_b, TIED);
    c.node[0][0] = a;
    c.node[0][1] = c.node[1][0] = b; /* a list's second element, or a second operand */
    c.count = 2;
    c.attr[0] = t->attr;
    const fold_node y = t->record(f, &c);
    fold_keep_grad(f, a);
    /* b may take no part: then it gets its gradient, of zeros, from an unused product */
    fold_keep_grad(f, b);
    const fold_node parts[2] = { fold_sum(f, y, FOLD_ALL), fold_scale(f, fold_sum(f, b, FOLD_ALL), 0) };
    CHECK_SAYS(!fold_backward(f, fold_sum_n(f, parts, 2)), "%s: %s", t->name, fold_ctx_message(f));
    const float *da = fold_grad(f, a), *db = fold_grad(f, b);
    for (int e = 0; e < TIED && da && db; e++) {
        CHECK_SAYS(da[e] == t->da[e], "%s, %s: da[%d] is %g", t->name, how->name, e, (double)da[e]);
        CHECK_SAYS(db[e] == t->db[e], "%s, %s: db[%d] is %g", t->name, how->name, e, (double)db[e]);
    }
    CHECK_SAYS(da && db, "%s: %s", t->name, fold_ctx_message(f));
    fold_ctx_free(f);
    fold_model_free(m);
}

static void test_ties(void)
{
    for (int i = 0; i < (int)(sizeof ties / sizeof *ties) * 2; i++) test_tie(&ties[i / 2], &modes[i % 2]);
}

/* Where exp would overflow, or a largest value is infinite. */
static void test_logsumexp_far(void)
{
    const float inf = (float)INFINITY, x[5][2] = { { 1000, 1000 }, { -inf, -inf }, { inf, 1 }, { -inf, 3 }, { -2000, -inf } };
    const float want[5] = { 1000.69315f, -inf, inf, 3, -2000 }, slope[5][2] = { { 0.5f, 0.5f }, { 0 }, { inf, 0 }, { 0, 1 }, { 1, 0 } };
    fold_model *m = fold_model_new(NULL);
    for (int how = 0; how < 2; how++) {
        fold_ctx *f = new_ctx(m, &modes[how], 1);
        for (int i = 0; i < 5; i++) {
            fold_ctx_reset(f);
            const fold_node in = fold_input(f, x[i], 2), y = fold_logsumexp(f, in, FOLD_ALL);
            fold_keep_grad(f, in);
            CHECK_SAYS(!fold_backward(f, y), "%s", fold_ctx_message(f));
            CHECK_SAYS(fold_scalar(f, y) == want[i], "of %d: %.9g", i, (double)fold_scalar(f, y));
            for (int k = 0; k < 2 && i != 2; k++)
                CHECK_SAYS(fabs((double)(fold_grad(f, in)[k] - slope[i][k])) < 1e-4, "slope of %d: %g", i, (double)fold_grad(f, in)[k]);
        }
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* ---- NaN and infinities ------------------------------------------------------------------------- */

/* What PyTorch 1.13 gives: values, and gradients of the loss that is 1, 2, 3… times the values. Numbers of operands and of
   their gradients stand apart by a bar. Three rows differ: gelu_tanh and silu are 0 at -infinity, where PyTorch has NaN, and a
   product's gradient is the product of all others, which PyTorch divides by the factor. fold_hinge is made as PyTorch's relu
   would make it, since its multi_margin_loss loses NaN. amax, amin, lists and pools give NaN's gradient to the first one. */
RECORD(pool_line, fold_max_pool1d(f, fold_reshape(f, X(0), fold_shape2(size_of(c, 0), 1)), 2, 0, 0))
RECORD(pool_grid, fold_max_pool2d(f, fold_reshape(f, X(0), fold_shape3(2, 3, 1)), 2, 1, 0))
RECORD(mean_line, fold_mean_pool1d(f, fold_reshape(f, X(0), fold_shape2(size_of(c, 0), 1)), 2, 0, 0))
RECORD(xent, fold_softmax_xent(f, X(0), c->attr[0]))
RECORD(hinge_of, fold_hinge(f, X(0), c->attr[0]))
RECORD(vector_times, fold_matmul(f, X(0), fold_reshape(f, X(1), fold_shape2(size_of(c, 0), size_of(c, 1) / size_of(c, 0)))))
static fold_node split_list(fold_ctx *f, fold_node x, int n)
{
    fold_node part[6];
    fold_split(f, x, n, part);
    return fold_list_join(f, part, n);
}
RECORD(list_max, fold_list_max(f, split_list(f, X(0), 3)))
RECORD(list_softmax_mean, fold_list_softmax_mean(f, split_list(f, X(0), 3), split_list(f, X(1), 3)))
RECORD(max_of_two, fold_max_n(f, &c->node[0][0], 2))
static fold_node record_list_max_to(fold_ctx *f, const op_case *c)
{
    static const int to[6] = { 0, 1, 0, 1, 0, 1 };
    const fold_node most = fold_list_max_to(f, split_list(f, X(0), 6), to, 6, 2);
    return fold_concat2(f, fold_list_at(f, most, 0), fold_list_at(f, most, 1));
}

enum { ODD = 9 }; /* numbers of an operand at most */
typedef struct odd_row {
    const char *name;
    fold_node (*record)(fold_ctx *f, const op_case *c);
    int attr[2];
    const char *x, *y, *dx;
} odd_row;
/* Zeros, infinities, NaN, subnormal and very large values: as libm has them (C's Annex F) where the op is a function of it, else by
   the formula, and its limits at infinity. fold.h says where it differs: no op hides NaN, so pow(nan, 0) is no 1; pow of -inf is
   NaN if the exponent is not whole, and so are sin and cos of large values. */
#define EDGES "0 -0 inf -inf nan 1e-42 -1e-42 3.4e38 -3.4e38"
static const odd_row odd_rows[] = {
    { "neg", record_neg, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 2 -0.5 -1.5 -inf inf", "-1 -2 -3 -4 -5 -6" },
    { "exp", record_exp, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 0.1353353 1.648721 4.481689 inf 0", "nan 0.2706706 4.946164 17.92676 inf 0" },
    { "log", record_log, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan nan -0.6931472 0.4054651 inf nan", "nan -1 6 2.666667 0 0" },
    { "sqrt", record_sqrt, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan nan 0.7071068 1.224745 inf nan", "nan nan 2.12132 1.632993 0 nan" },
    { "square", record_square, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 4 0.25 2.25 inf inf", "nan -8 3 12 inf -inf" },
    { "abs", record_abs, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 2 0.5 1.5 inf inf", "0 -2 3 4 5 -6" },
    { "sigmoid", record_sigmoid, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 0.1192029 0.6224594 0.8175744 1 0", "nan 0.2099872 0.7050111 0.5965859 0 0" },
    { "tanh", record_tanh, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -0.9640276 0.4621172 0.9051483 1 -1", "nan 0.1413016 2.359343 0.7228265 0 0" },
    { "relu", record_relu, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 0 0.5 1.5 inf 0", "1 0 3 4 5 0" },
    { "leaky_relu", record_leaky_relu, { 10 }, "nan -2 0.5 1.5 inf -inf", "nan -0.2 0.5 1.5 inf -inf", "0.1 0.2 3 4 5 0.6" },
    { "elu", record_elu, { 50 }, "nan -2 0.5 1.5 inf -inf", "nan -0.4323324 0.5 1.5 inf -0.5", "1 0.1353353 3 4 5 0" },
    { "gelu_tanh", record_gelu_tanh, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -0.04540229 0.345714 1.399572 inf -0", "nan -0.1721984 2.60211 4.510843 5 0" },
    { "gelu", record_gelu, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -0.0455001 0.3457312 1.399789 inf -0", "nan -0.1704637 2.602485 4.509877 5 0" },
    { "silu", record_silu, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -0.2384058 0.3112297 1.226362 inf -0", "nan -0.1815685 2.219883 4.165177 5 0" },
    { "softplus", record_softplus, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan 0.126928 0.974077 1.701413 inf 0", "nan 0.2384058 1.867378 3.270298 5 0" },
    { "sin", record_sin, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -0.9092974 0.4794255 0.997495 nan nan", "nan -0.8322937 2.632748 0.2829488 nan nan" },
    { "cos", record_cos, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -0.4161468 0.8775826 0.0707372 nan nan", "nan 1.818595 -1.438277 -3.98998 nan nan" },
    { "pow", record_pow, { 200 }, "nan -2 0.5 1.5 inf -inf", "nan 4 0.25 2.25 inf inf", "nan -8 3 12 inf -inf" },
    { "clip", record_clip, { -100, 100 }, "nan -2 0.5 1.5 inf -inf", "nan -1 0.5 1 1 -1", "0 0 3 0 0 0" },
    { "at_least", record_at_least, { -1 }, "nan -2 0.5 1.5 inf -inf", "nan -1 0.5 1.5 inf -1", "0 0 3 4 5 0" },
    { "at_most", record_at_most, { 1 }, "nan -2 0.5 1.5 inf -inf", "nan -2 0.5 1 1 -inf", "0 2 3 0 0 6" },
    { "floor", record_floor, { 0 }, "nan -2 0.5 1.5 inf -inf", "nan -2 0 1 inf -inf", "0 0 0 0 0 0" },
    { "minimum", record_minimum, { 0 }, "nan 1 nan inf -inf 2 | 1 nan nan nan nan 3", "nan nan nan nan nan 2", "1 2 3 4 5 6 | 1 2 3 4 5 0" },
    { "maximum", record_maximum, { 0 }, "nan 1 nan inf -inf 2 | 1 nan nan nan nan 3", "nan nan nan nan nan 3", "1 2 3 4 5 0 | 1 2 3 4 5 6" },
    { "minimum", record_minimum, { 0 }, "inf -inf 4 2 inf -inf | 1 1 inf -inf -inf inf", "1 -inf 4 -inf -inf -inf", "0 2 3 0 0 6 | 1 0 0 4 5 0" },
    { "maximum", record_maximum, { 0 }, "inf -inf 4 2 inf -inf | 1 1 inf -inf -inf inf", "inf 1 inf 2 inf inf", "1 0 0 4 5 0 | 0 2 3 0 0 6" },
    { "select", record_select, { 0 }, "nan 1 -1 1 -1 nan | 1 2 nan nan 5 nan | 1 nan 3 4 nan 6", "1 2 3 nan nan 6", "0 0 0 0 0 0 | 0 2 0 4 0 0 | 1 0 3 0 5 6" },
    { "amax", record_amax, { 0 }, "1 nan 3 2 nan 0", "nan", "0 1 0 0 0 0" },
    { "amin", record_amin, { 0 }, "1 nan 3 2 nan 0", "nan", "0 1 0 0 0 0" },
    { "amax", record_amax, { 0 }, "3 inf 1 -inf -inf 2", "inf", "0 1 0 0 0 0" },
    { "amin", record_amin, { 0 }, "3 inf 1 -inf -inf 2", "-inf", "0 0 0 1 0 0" },
    { "amax", record_amax, { 0 }, "nan 1 2 3 4 5", "nan", "1 0 0 0 0 0" },
    { "amin", record_amin, { 0 }, "nan 1 2 3 4 5", "nan", "1 0 0 0 0 0" },
    { "amax", record_amax, { 0 }, "1 2 3 4 inf nan", "nan", "0 0 0 0 0 1" },
    { "amin", record_amin, { 0 }, "1 2 3 4 inf nan", "nan", "0 0 0 0 0 1" },
    { "logsumexp", record_logsumexp, { 0 }, "1 nan 3 2 0.5 0", "nan", "nan nan nan nan nan nan" },
    { "variance", record_variance, { 0 }, "1 nan 3 2 0.5 0", "nan", "nan nan nan nan nan nan" },
    { "prod", record_prod, { 0 }, "1 nan 3 2 0.5 0.25", "nan", "nan 0.75 nan nan nan nan" },
    { "cumsum", record_cumsum, { 0 }, "1 2 nan 4 5 6", "1 3 nan nan nan nan", "21 20 18 15 11 6" },
    { "softmax", record_softmax, { 0 }, "1 nan 3 2 0.5 0", "nan nan nan nan nan nan", "nan nan nan nan nan nan" },
    { "softmax", record_softmax, { 0 }, "1 -inf 3 2 0.5 0", "0.08276948 0 0.6115883 0.2249908 0.05020222 0.03044919", "-0.186331 0 -0.1536333 0.1684722 0.08779346 0.08369861" },
    { "log_softmax", record_log_softmax, { 0 }, "1 nan 3 2 0.5 0", "nan nan nan nan nan nan", "nan nan nan nan nan nan" },
    { "max_n", record_max_of_two, { 0 }, "nan 1 nan inf 5 inf | 1 nan nan nan nan 3", "nan nan nan nan nan inf", "1 0 3 0 0 6 | 0 2 0 4 5 0" },
    { "list_max", record_list_max, { 0 }, "1 nan nan 4 3 nan", "nan nan", "0 2 1 0 0 0" },
    { "list_max", record_list_max, { 0 }, "1 -inf inf 4 3 -inf", "inf 4", "0 0 1 2 0 0" },
    { "list_max_to", record_list_max_to, { 0 }, "1 4 3 nan 5 6", "5 nan", "0 0 0 2 1 0" },
    { "max_pool1d", record_pool_line, { 0 }, "1 nan nan 4 inf -inf", "nan nan inf", "0 1 2 0 3 0" },
    { "max_pool1d", record_pool_line, { 0 }, "-inf -inf nan inf 3 nan", "-inf nan nan", "1 0 2 0 0 3" },
    { "max_pool2d", record_pool_grid, { 0 }, "1 2 3 4 5 nan", "5 nan", "0 0 0 0 1 2" },
    { "max_pool2d", record_pool_grid, { 0 }, "1 nan 3 4 5 6", "nan nan", "0 3 0 0 0 0" },
    { "mean_pool1d", record_mean_line, { 0 }, "1 nan 3 4 inf 6", "nan 3.5 inf", "0.5 0.5 1 1 1.5 1.5" },
    { "list_softmax_mean", record_list_softmax_mean, { 0 }, "1 nan 2 | 1 2 3 4 5 6", "nan nan", "nan nan nan | nan nan nan nan nan nan" },
    { "list_softmax_mean", record_list_softmax_mean, { 0 }, "1 -inf 2 | 1 2 3 4 nan 6", "nan 4.924234", "nan nan nan | 0.2689414 0.5378829 0 0 0.7310586 1.462117" },
    { "softmax_xent", record_xent, { 1 }, "1 2 nan 0 0.5 3", "nan", "nan nan nan nan nan nan" },
    { "softmax_xent", record_xent, { 1 }, "1 nan 2 0 0.5 3", "nan", "nan nan nan nan nan nan" },
    { "softmax_xent", record_xent, { 1 }, "1 0 2 0 -inf 3", "3.471745", "0.08443739 -0.9689372 0.2295246 0.03106278 0 0.6239125" },
    { "softmax_kl", record_softmax_kl, { 0 }, "1 nan 2 | 0.2 0.3 0.5", "nan", "nan nan nan" },
    { "softmax_kl", record_softmax_kl, { 0 }, "1 nan 2 | 0.5 0 0.5", "nan", "nan nan nan" },
    { "softmax_kl", record_softmax_kl, { 0 }, "1 3 2 | 0.2 nan 0.5", "nan", "nan nan nan" },
    { "bce", record_bce, { 0 }, "1 nan 2 | 0.2 0.3 0.5", "nan", "0.5310586 nan 0.380797" },
    { "bce", record_bce, { 0 }, "1 3 2 | 0.2 nan 0.5", "nan", "0.5310586 nan 0.380797" },
    { "bce", record_bce, { 0 }, "1 -inf 2 | 0.2 0 0.5", "2.24019", "0.5310586 0 0.380797" },
    { "bce", record_bce, { 0 }, "1 -inf 2 | 0.2 0.5 0.5", "inf", "0.5310586 -0.5 0.380797" },
    { "bce", record_bce, { 0 }, "-inf nan -inf | 0 0 0", "nan", "0 nan 0" },
    { "squared_error", record_squared_error, { 0 }, "1 nan 2 inf | 2 4 nan 4", "nan", "-2 nan nan inf | 2 nan nan -inf" },
    { "huber", record_huber, { 50 }, "1 nan 2 3.25 5 | 2 4 nan 3 7", "nan", "-0.5 nan nan 0.25 -0.5 | 0.5 nan nan -0.25 0.5" },
    { "huber", record_huber, { 50 }, "1 inf 2 3.25 -inf | 2 4 7 3 7", "inf", "-0.5 0.5 -0.5 0.25 -0.5 | 0.5 -0.5 0.5 -0.25 0.5" },
    { "hinge", record_hinge_of, { 1 }, "1 0.5 nan -3", "nan", "1 -2 1 0" },
    { "hinge", record_hinge_of, { 1 }, "1 nan 2 -3", "nan", "1 -3 1 1" },
    { "hinge", record_hinge_of, { 1 }, "1 0.5 -inf inf", "inf", "1 -2 0 1" },
    { "matmul", record_vector_times, { 0 }, "1 nan | 1 2 3 4", "nan nan", "5 11 | 1 2 nan nan" },
    { "neg", record_neg, { 0 }, EDGES, "-0 0 -inf inf nan -1.000527e-42 1.000527e-42 -3.4e+38 3.4e+38", "-1 -2 -3 -4 -5 -6 -7 -8 -9" },
    { "exp", record_exp, { 0 }, EDGES, "1 1 inf 0 nan 1 1 inf 0", "1 2 inf 0 nan 6 7 inf 0" },
    { "log", record_log, { 0 }, EDGES, "-inf -inf inf nan nan -96.70805 nan 88.72201 nan", "inf -inf 0 -0 nan inf -inf 2.352941e-38 -2.647059e-38" },
    { "sqrt", record_sqrt, { 0 }, EDGES, "0 -0 inf nan nan 1.000264e-21 nan 1.843909e+19 nan", "inf -inf 0 nan nan 2.99921e+21 nan 2.169305e-19 nan" },
    { "square", record_square, { 0 }, EDGES, "0 0 inf inf nan 0 0 inf inf", "0 -0 inf -inf nan 1.200633e-41 -1.400738e-41 inf -inf" },
    { "abs", record_abs, { 0 }, EDGES, "0 0 inf inf nan 1.000527e-42 1.000527e-42 3.4e+38 3.4e+38", "0 0 3 -4 0 6 -7 8 -9" },
    { "sigmoid", record_sigmoid, { 0 }, EDGES, "0.5 0.5 1 0 nan 0.5 0.5 1 0", "0.25 0.5 0 0 nan 1.5 1.75 0 0" },
    { "tanh", record_tanh, { 0 }, EDGES, "0 -0 1 -1 nan 1.000527e-42 -1.000527e-42 1 -1", "1 2 0 0 nan 6 7 0 0" },
    { "relu", record_relu, { 0 }, EDGES, "0 0 inf 0 nan 1.000527e-42 0 3.4e+38 0", "0 0 3 0 5 6 0 8 0" },
    { "leaky_relu", record_leaky_relu, { 10 }, EDGES, "0 -0 inf -inf nan 1.000527e-42 -9.949219e-44 3.4e+38 -3.4e+37", "0.1 0.2 3 0.4 0.5 6 0.7 8 0.9" },
    { "elu", record_elu, { 50 }, EDGES, "0 -0 inf -0.5 nan 1.000527e-42 -5.002636e-43 3.4e+38 -0.5", "0.5 1 3 0 5 6 3.5 8 0" },
    { "gelu_tanh", record_gelu_tanh, { 0 }, EDGES, "0 -0 inf -0 nan 5.002636e-43 -5.002636e-43 3.4e+38 -0", "0.5 1 3 0 nan 3 3.5 8 0" },
    { "gelu", record_gelu, { 0 }, EDGES, "0 -0 inf -0 nan 5.002636e-43 -5.002636e-43 3.4e+38 -0", "0.5 1 3 0 nan 3 3.5 8 0" },
    { "silu", record_silu, { 0 }, EDGES, "0 -0 inf -0 nan 5.002636e-43 -5.002636e-43 3.4e+38 -0", "0.5 1 3 0 nan 3 3.5 8 0" },
    { "softplus", record_softplus, { 0 }, EDGES, "0.6931472 0.6931472 inf 0 nan 0.6931472 0.6931472 3.4e+38 0", "0.5 1 3 0 nan 3 3.5 8 0" },
    { "sin", record_sin, { 0 }, EDGES, "0 -0 nan nan nan 1.000527e-42 -1.000527e-42 nan nan", "1 2 nan nan nan 6 7 nan nan" },
    { "cos", record_cos, { 0 }, EDGES, "1 1 nan nan nan 1 1 nan nan", "-0 0 nan nan nan -6.003163e-42 7.00369e-42 nan nan" },
    { "floor", record_floor, { 0 }, EDGES, "0 -0 inf -inf nan 0 -1 3.4e+38 -3.4e+38", "0 0 0 0 0 0 0 0 0" },
    { "scale", record_scale, { 0 }, EDGES, "0 -0 inf -inf nan 5.002636e-43 -5.002636e-43 1.7e+38 -1.7e+38", "0.5 1 1.5 2 2.5 3 3.5 4 4.5" },
    { "shift", record_shift, { 0 }, EDGES, "0.5 0.5 inf -inf nan 0.5 0.5 3.4e+38 -3.4e+38", "1 2 3 4 5 6 7 8 9" },
    { "stop_gradient", record_stop_gradient, { 0 }, EDGES, "0 -0 inf -inf nan 1.000527e-42 -1.000527e-42 3.4e+38 -3.4e+38", "0 0 0 0 0 0 0 0 0" },
    { "at_least", record_at_least, { 0 }, EDGES, "0 -0 inf 0 nan 1.000527e-42 0 3.4e+38 0", "1 2 3 0 0 6 0 8 0" },
    { "at_most", record_at_most, { 0 }, EDGES, "0 -0 0 -inf nan 0 -1.000527e-42 0 -3.4e+38", "1 2 0 4 0 0 7 0 9" },
    { "clip", record_clip, { -100, 100 }, EDGES, "0 -0 1 -1 nan 1.000527e-42 -1.000527e-42 1 -1", "1 2 0 0 0 6 7 0 0" },
    { "pow", record_pow, { 0 }, EDGES, "1 1 1 1 nan 1 1 1 1", "0 0 0 0 0 0 0 0 0" },
    { "pow", record_pow, { 100 }, EDGES, "0 -0 inf -inf nan 1.000527e-42 -1.000527e-42 3.4e+38 -3.4e+38", "1 2 3 4 nan 6 7 8 9" },
    { "pow", record_pow, { 200 }, EDGES, "0 0 inf inf nan 0 0 inf inf", "0 -0 inf -inf nan 1.200633e-41 -1.400738e-41 inf -inf" },
    { "pow", record_pow, { 300 }, EDGES, "0 -0 inf -inf nan 0 -0 inf -inf", "0 0 inf inf nan 0 0 inf inf" },
    { "pow", record_pow, { -100 }, EDGES, "inf -inf 0 -0 nan inf -inf 2.941177e-39 -2.941177e-39", "-inf -inf -0 -0 nan -inf -inf -0 -0" },
    { "pow", record_pow, { -200 }, EDGES, "inf inf 0 0 nan inf inf 0 0", "-inf inf -0 0 nan -inf inf -0 0" },
    { "pow", record_pow, { -300 }, EDGES, "inf -inf 0 -0 nan inf -inf 0 -0", "-inf -inf -0 -0 nan -inf -inf -0 -0" },
    { "pow", record_pow, { 50 }, EDGES, "0 0 inf nan nan 1.000264e-21 nan 1.843909e+19 nan", "inf inf 0 nan nan 2.99921e+21 nan 2.169305e-19 nan" },
    { "pow", record_pow, { -50 }, EDGES, "inf inf 0 nan nan 9.997366e+20 nan 5.423262e-20 nan", "-inf -inf -0 nan nan -inf nan -0 nan" },
    { "pow", record_pow, { 1677721500 }, EDGES, "0 -0 inf -inf nan 0 -0 inf -inf", "0 0 inf inf nan 0 0 inf inf" },
    { "add", record_add, { 0 }, "0 -0 0 inf inf -inf nan 3.4e38 3.4e38 | -0 -0 inf inf -inf 0 0 3.4e38 1e-42", "0 -0 inf inf nan -inf nan inf 3.4e+38", "1 2 3 4 5 6 7 8 9 | 1 2 3 4 5 6 7 8 9" },
    { "sub", record_sub, { 0 }, "0 -0 0 inf inf -inf nan 3.4e38 3.4e38 | -0 -0 inf inf -inf 0 0 3.4e38 1e-42", "0 0 -inf nan inf -inf nan 0 3.4e+38", "1 2 3 4 5 6 7 8 9 | -1 -2 -3 -4 -5 -6 -7 -8 -9" },
    { "mul", record_mul, { 0 }, "0 -0 0 inf inf -inf nan 3.4e38 3.4e38 | -0 -0 inf inf -inf 0 0 3.4e38 1e-42", "-0 0 nan inf -inf nan nan inf 0.0003401792", "-0 -0 inf inf -inf 0 0 inf 9.004744e-42 | 0 -0 0 inf inf -inf nan inf inf" },
    { "div", record_div, { 0 }, "0 -0 0 inf inf -inf nan 3.4e38 3.4e38 | -0 -0 inf inf -inf 0 0 3.4e38 1e-42", "nan nan 0 nan nan -inf nan 1 inf", "-inf -inf 0 0 -0 inf inf 2.352941e-38 inf | nan nan -0 nan nan inf nan -2.352941e-38 -inf" },
    { "minimum", record_minimum, { 0 }, "0 -0 0 -0 | -0 0 0 -0", "-0 0 0 -0", "0 0 0 0 | 1 2 3 4" },
    { "maximum", record_maximum, { 0 }, "0 -0 0 -0 | -0 0 0 -0", "-0 0 0 -0", "0 0 0 0 | 1 2 3 4" },
};

/* Reads numbers up to a bar, behind which it leaves *text; returns how many. */
static int read_numbers(const char **text, float *x)
{
    int n = 0;
    while (**text && **text != '|') {
        char *end;
        x[n++] = strtof(*text, &end);
        *text = end + strspn(end, " ");
    }
    *text += **text == '|';
    return n;
}
/* Zeros of values have signs; gradients are sums, where -0 is no other than 0. */
static void check_numbers(const char *text, const float *got, const char *what, int signs, const char *where)
{
    float want[ODD];
    const int n = read_numbers(&text, want);
    for (int i = 0; i < n && CHECK_SAYS(got, "%s of %s: there is none", what, where); i++) {
        const int same = got[i] == want[i] && (got[i] != 0 || !signs || !signbit(got[i]) == !signbit(want[i]));
        const int near = want[i] != 0 && !isinf(want[i]) && fabsf(got[i] - want[i]) <= 5e-6f * fabsf(want[i]) + 3e-45f;
        CHECK_SAYS(isnan(want[i]) ? isnan(got[i]) : same || near, "%s %d of %s: %g, want %g", what, i, where, (double)got[i], (double)want[i]);
    }
}
static void test_odd_row(fold_ctx *f, const odd_row *row, const char *where)
{
    static const float weights[ODD] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    static op_case c;
    float x[ODD];
    int n_in = 0;
    fold_ctx_reset(f);
    for (const char *text = row->x; *text; n_in++) {
        c.in[n_in].size = read_numbers(&text, x);
        c.node[n_in][0] = c.node[0][n_in] = fold_input(f, x, c.in[n_in].size); /* an operand, or an element of a list */
        fold_keep_grad(f, c.node[n_in][0]);
    }
    memcpy(c.attr, row->attr, sizeof row->attr);
    const fold_node y = row->record(f, &c);
    const fold_node loss = fold_dot(f, y, fold_input_shaped(f, weights, fold_node_shape(f, y)));
    fold_keep(f, y);
    if (!CHECK_SAYS(!fold_backward(f, loss), "%s: %s", where, fold_ctx_message(f))) return;
    check_numbers(row->y, fold_value(f, y), "value", 1, where);
    const char *text = row->dx;
    for (int k = 0; k < n_in && *text; k++) {
        const char *next = text;
        (void)read_numbers(&next, x);
        check_numbers(text, fold_grad(f, c.node[0][k]), "gradient", 0, where);
        text = next;
    }
}
static void test_odd_rows(void)
{
    char where[120];
    for (int set = 0; set < KERNEL_SETS; set++) {
        fold_model *m = kernel_set_model(kernel_set[set]);
        for (int how = 0; how < 2 && m; how++) {
            fold_ctx *f = new_ctx(m, &modes[how], 1);
            for (size_t i = 0; i < sizeof odd_rows / sizeof *odd_rows; i++) {
                snprintf(where, sizeof where, "%s(%s), %s, %s", odd_rows[i].name, odd_rows[i].x, kernel_set[set], modes[how].name);
                test_odd_row(f, &odd_rows[i], where);
            }
            fold_ctx_free(f);
        }
        fold_model_free(m);
    }
}

/* Of an op's result what depends on an element of an operand, as the reference tells when it is far above or below. */
static void find_dependent(op_case *c, int sample, int how, int k, int e, char *depends)
{
    static double y[1 << 12];
    float *element = (float *)(uintptr_t)(c->data[k][sample] + e), saved = *element;
    memset(depends, 0, (size_t)c->out_size);
    for (int way = 0; way < 3; way++) {
        *element = way ? way == 1 ? -100.0f : 100.0f : saved;
        load(&tape, c, sample, how);
        const double *v = tape.value[c->row->reference(&tape, c)].v;
        for (int i = 0; i < c->out_size && way; i++) depends[i] = (char)(depends[i] | (y[i] != v[i]));
        if (!way) memcpy(y, v, (size_t)c->out_size * sizeof *y);
    }
    *element = saved;
}

/* NaN in one element of an operand of the second sample, or of all: what depends on it is NaN, and no other bit changes,
   but for what is computed beside it, which may be NaN. results[0] holds what there is without NaN. An eager context has NaN
   where a batched one has it, in gradients too. */
static void nan_in_element(op_case *c, fold_ctx **f, int n_samples, int how, int k, int e, const char *where)
{
    static char depends[1 << 12];
    float *element = (float *)(uintptr_t)(c->data[k][1] + e), saved = *element;
    *element = (float)NAN;
    if (is_param(&c->in[k])) {
        fold_values_write_begin(fold_ctx_model(f[0]), c->param[k])[e] = (float)NAN;
        fold_values_write_end(fold_ctx_model(f[0]), c->param[k]);
    }
    clear(c, results[1]);
    clear(c, results[2]);
    const int ran = run(c, f[0], 0, n_samples, how, results[1]) && run(c, f[1], 0, n_samples, how, results[2]);
    *element = saved;
    if (is_param(&c->in[k])) {
        fold_values_write_begin(fold_ctx_model(f[0]), c->param[k])[e] = saved;
        fold_values_write_end(fold_ctx_model(f[0]), c->param[k]);
    }
    for (int i = 0; i < result_size(c); i++)
        CHECK_SAYS(isnan(results[1][i]) ? isnan(results[2][i]) : !memcmp(&results[1][i], &results[2][i], sizeof(float)),
                   "%s: float %d of the results is %g, eager %g", where, i, (double)results[1][i], (double)results[2][i]);
    for (int s = 0; s < n_samples && ran; s++) {
        const float *got = results[1] + s * c->stride, *want = results[0] + s * c->stride;
        const int sees = s == 1 || is_common(&c->in[k]);
        if (sees) find_dependent(c, s, how, k, e, depends);
        else CHECK_SAYS(!memcmp(got, want, (size_t)c->stride * sizeof *got), "%s: operand %d: sample %d differs", where, k, s);
        for (int i = 0; i < c->out_size && sees; i++)
            CHECK_SAYS(isnan(got[i]) || (!depends[i] && !memcmp(&got[i], &want[i], sizeof *got)),
                       "%s: element %d of operand %d is NaN, value %d of sample %d is %g", where, e, k, i, s, (double)got[i]);
    }
}
static void nan_in_case(op_case *c, fold_ctx **f, int how, const char *where)
{
    enum { SAMPLES = 3 };
    clear(c, results[0]);
    if (!run(c, f[0], 0, SAMPLES, how, results[0])) return;
    for (int k = 0; k < c->n_in; k++) {
        const int n = (is_list(&c->in[k]) ? elements_of(c, 1) : c->in[k].count) * c->in[k].size, looked_at[3] = { 0, n / 2, n - 1 };
        for (int i = n < 3 ? 3 - n : 0; i < 3 && !is(&c->in[k], "=c"); i++) /* NaN as a condition chooses like -1 */
            nan_in_element(c, f, SAMPLES, how, k, looked_at[i], where);
    }
}
static void test_nan_in(const op_row *row, const char *spec, const char *isa)
{
    static op_case c;
    char where[200];
    fold_model *m = kernel_set_model(isa);
    if (!m) return;
    parse(&c, row, spec);
    fill(&c);
    add_params(&c, m);
    fold_ctx *f[2] = { new_ctx(m, &modes[0], 1), new_ctx(m, &modes[1], 1) };
    for (int how = 0; how <= IN_CELL && (!how || make_cell(&c, m)); how += IN_CELL) {
        snprintf(where, sizeof where, "%s: %s, %s%s", row->name, spec, isa, how ? ", in a cell" : "");
        nan_in_case(&c, f, how, where);
    }
    fold_ctx_free(f[0]);
    fold_ctx_free(f[1]);
    fold_model_free(m);
}
/* Every op, on NaN in every operand, as the table has them first. */
static void test_nan_in_operands(void)
{
    for (int set = 0; set < KERNEL_SETS; set++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int j = 0; j < 4 && rows[i].specs[j]; j++) test_nan_in(&rows[i], rows[i].specs[j], kernel_set[set]);
}

/* What is dropped is multiplied by zero: NaN and infinities stay as NaN, going back too. */
static void test_dropout_of_nan(void)
{
    enum { N = 64 };
    const float odd[3] = { (float)NAN, (float)INFINITY, -2 };
    fold_model *m = fold_model_new(NULL);
    for (int how = 0; how < 2; how++) {
        fold_ctx *f = new_ctx(m, &modes[how], 1);
        for (int kind = 0; kind < 3; kind++)
            for (int back = 0; back < 2; back++) {
                float x[N], ones[N];
                fold_ctx_reset(f);
                for (int i = 0; i < N; i++) { x[i] = back ? 1 : odd[kind]; ones[i] = back ? odd[kind] : 1; }
                const fold_node in = fold_input(f, x, N), y = fold_dropout(f, in, 0.5f);
                fold_keep(f, y);
                fold_keep_grad(f, in);
                CHECK_SAYS(!fold_backward(f, fold_dot(f, y, fold_input(f, ones, N))), "%s", fold_ctx_message(f));
                const float *odd_one = back ? fold_grad(f, in) : fold_value(f, y), *other = back ? fold_value(f, y) : fold_grad(f, in);
                for (int i = 0; i < N && odd_one && other; i++) {
                    CHECK(other[i] == 0 || other[i] == 2);
                    if (other[i] == 0) CHECK_SAYS(kind == 2 ? odd_one[i] == 0 && !signbit(odd_one[i]) : isnan(odd_one[i]), "%g", (double)odd_one[i]);
                    else CHECK_SAYS(kind ? odd_one[i] == 2 * odd[kind] : isnan(odd_one[i]), "%g", (double)odd_one[i]);
                }
            }
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* ---- kept gradients ----------------------------------------------------------------------------- */

/* Gradients of ops with several readers and of windows; of several roots, in turn, they add up. */
static void test_kept_gradients(void)
{
    static const float v[4] = { 1, -2, 0.5f, 3 };
    fold_model *m = fold_model_new(NULL);
    for (int i = 0; i < N_MODES; i++) {
        fold_ctx *f = new_ctx(m, &modes[i], 1);
        const fold_node x = fold_input(f, v, 4), a = fold_square(f, x), last = fold_slice(f, a, 0, 2, 2);
        const fold_node y = fold_add(f, fold_mul(f, a, a), a);
        const fold_node root = fold_sum(f, y, 0), tail = fold_sum(f, last, 0);
        fold_keep_grad(f, a);
        fold_keep_grad(f, x);
        for (int pass = 1; pass <= 2; pass++) {
            CHECK_SAYS(!fold_backward(f, pass == 1 ? root : tail), "%s: %s", modes[i].name, fold_ctx_message(f));
            const float *da = fold_grad(f, a), *dx = fold_grad(f, x), *part = fold_grad(f, last);
            if (!CHECK_SAYS(da && dx && part, "%s: %s", modes[i].name, fold_ctx_message(f))) break;
            for (int e = 0; e < 4; e++) {
                const float want = 2 * v[e] * v[e] + 1 + (pass == 2 && e >= 2 ? 1.0f : 0.0f);
                CHECK_SAYS(da[e] == want, "%s: da[%d] is %g", modes[i].name, e, (double)da[e]);
                CHECK_SAYS(dx[e] == want * 2 * v[e], "%s: dx[%d] is %g", modes[i].name, e, (double)dx[e]);
                if (e >= 2) CHECK_SAYS(part[e - 2] == want, "%s: window %d", modes[i].name, e);
            }
        }
        CHECK(fold_scalar(f, root) == (1 + 16 + 0.0625f + 81) + (1 + 4 + 0.25f + 9));
        CHECK(fold_scalar(f, tail) == 0.25f + 9);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* ---- sums of many values ----------------------------------------------------------------------- */

/* The rule, in plain loops: blocks of 512 in sixteen lanes, or of 32 one after the other, joined by pairs. */
static float lanes_by_rule(const float *x, int n)
{
    float lane[16] = { 0 };
    for (int i = 0; i < n; i++) lane[i % 16] = lane[i % 16] + x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] = lane[i] + lane[i + half];
    return lane[0];
}
static float chain_by_rule(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum = sum + x[i];
    return sum;
}
static float sum_by_rule(const float *x, int n, int block, float (*of_block)(const float *, int))
{
    static float total[1 << 16];
    int count = 0;
    for (int at = 0; at < n || !count; at += block) total[count++] = of_block(x + at, n - at < block ? n - at : block);
    for (; count > 1; count = (count + 1) / 2) /* an odd one waits: the same tree as the largest powers of two first */
        for (int i = 0; i < count; i += 2) total[i / 2] = i + 1 < count ? total[i] + total[i + 1] : total[i];
    return total[0];
}

enum { MANY = 1000000, MOST_NODES = 5000, SUM_WIDTH = 70, SUM_RESULTS = 8 };
static int sum_width(int n) { return n > MOST_NODES ? 2 : SUM_WIDTH; }
static float column_factor(int column) { return (float)(1 << column % 5); } /* exact: sums have the same bits but for it */

static void sums_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    const fold_node x = fold_scale(f, in[0], 0.5f);
    out[0] = fold_list_sum(f, x);
    out[1] = fold_list_mean(f, x);
}

/* Sums and means of n values in all the ways there are. */
static int record_sums(fold_ctx *f, fold_cell cell, const float *values, const float *tall_rows, int n, fold_node *y)
{
    static fold_node list[MOST_NODES];
    const fold_node flat = fold_input_ref(f, values, fold_shape1(n));
    const fold_node tall = fold_input_ref(f, tall_rows, fold_shape2(n, sum_width(n)));
    int count = 0;
    y[count++] = fold_sum(f, flat, 0);
    y[count++] = fold_mean(f, flat, FOLD_ALL);
    y[count++] = fold_sum(f, tall, 0);
    y[count++] = fold_mean(f, tall, 0);
    if (n > MOST_NODES) return count;
    for (int i = 0; i < n; i++) list[i] = fold_input_ref(f, tall_rows + i * SUM_WIDTH, fold_shape1(SUM_WIDTH));
    y[count++] = fold_sum_n(f, list, n);
    y[count++] = fold_mean_n(f, list, n);
    const fold_node call = fold_call_n(f, cell, NULL, 0, list, n);
    y[count++] = fold_out(f, call, 0);
    y[count++] = fold_out(f, call, 1);
    return count;
}

/* Every column of a result is what the rule says, and near the exact sum. */
static void check_sums(fold_ctx *f, const fold_node *y, int count, const float *values, int n, double margin)
{
    const float lanes = sum_by_rule(values, n, 512, lanes_by_rule), chain = sum_by_rule(values, n, 32, chain_by_rule);
    const float part = 1.0f / (float)n;
    double exact = 0, size = 0;
    for (int i = 0; i < n; i++) {
        exact += (double)values[i];
        size += fabs((double)values[i]);
    }
    for (int k = 0; k < count; k++) {
        const float sum = k < 2 ? lanes : chain, half = k < 6 ? 1.0f : 0.5f, want = half * (k % 2 ? sum * part : sum);
        const double scale = (double)half * (k % 2 ? 1.0 / n : 1.0);
        for (int i = 0; i < (k < 2 ? 1 : sum_width(n)); i++) {
            const float *value = fold_value(f, y[k]);
            if (!CHECK_SAYS(value, "result %d of %d values: %s", k, n, fold_ctx_message(f))) break;
            const float got = value[i] / (k < 2 ? 1 : column_factor(i));
            CHECK_SAYS(got == want, "result %d of %d values, column %d: %.9g, by the rule %.9g", k, n, i, (double)got,
                       (double)want);
            CHECK_SAYS(fabs((double)got - exact * scale) <= margin * size * scale, "result %d of %d values: %.9g, exactly %.9g",
                       k, n, (double)got, exact * scale);
        }
    }
}

static void sums_of(const char *isa, const mode *how, int n, const float *values, const float *tall_rows)
{
    fold_cell_desc d;
    fold_node y[3][SUM_RESULTS], all[3 * SUM_RESULTS];
    int count = 0;
    fold_model *m = kernel_set_model(isa);
    if (!m) return;
    memset(&d, 0, sizeof d);
    d.name = "sums"; d.body = sums_body; d.n_out = 2;
    d.n_list = 1; d.list[0] = fold_shape1(SUM_WIDTH);
    const fold_cell cell = fold_cell_new(m, &d);
    fold_ctx *f = new_ctx(m, how, 0);
    const int length[3] = { n, n / 3 + 1, n }, samples = n > MOST_NODES ? 1 : 3; /* in company */
    for (int s = 0; s < samples; s++) {
        const int made = record_sums(f, cell, values, tall_rows, length[s], y[s]);
        for (int k = 0; k < made; k++) all[count++] = y[s][k];
    }
    CHECK_SAYS(!fold_run(f, all, count), "%s", fold_ctx_message(f));
    for (int s = 0; s < samples; s++)
        check_sums(f, y[s], length[s] > MOST_NODES ? 4 : SUM_RESULTS, values, length[s], 1e-6);
    fold_ctx_free(f);
    fold_model_free(m);
}

static void test_sums_of_many(void)
{
    static const int counts[] = { 1, 2, 15, 31, 32, 33, 63, 64, 65, 96, 97, 100, 511, 512, 513, 1024, 1025, 1535, 1537, 5000, MANY };
    static float values[MANY], tall_rows[MANY * 2];
    check_random r = { 8 };
    for (int equal = 0; equal < 2; equal++) {
        for (int i = 0; i < MANY; i++) values[i] = equal ? 0.7f : random_float(&r, 0, 1);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            const int width = sum_width(counts[k]);
            for (int i = 0; i < counts[k] * width; i++) tall_rows[i] = values[i / width] * column_factor(i % width);
            for (int i = 0; i < KERNEL_SETS; i++) sums_of(kernel_set[i], &modes[0], counts[k], values, tall_rows);
            for (int j = 1; j < (counts[k] > 100 ? 2 : N_MODES); j++)
                sums_of(NULL, &modes[j], counts[k], values, tall_rows);
        }
    }
}

/* ---- softmax means of many elements --------------------------------------------------------------- */

enum { MOST_IN_MEAN = 300, MEAN_WIDTH = 5, MEAN_RESULTS = MEAN_WIDTH + MOST_IN_MEAN * (1 + MEAN_WIDTH) };

/* The value and all gradients of a softmax mean of n elements, the loss being the sum of the result's squares. */
static int softmax_mean_of(fold_ctx *f, const float *scores, const float *values, int n, float *results_of)
{
    static fold_node score[MOST_IN_MEAN], value[MOST_IN_MEAN];
    fold_ctx_reset(f);
    for (int i = 0; i < n; i++) {
        score[i] = fold_input(f, scores + i, 1);
        value[i] = fold_input(f, values + i * MEAN_WIDTH, MEAN_WIDTH);
        fold_keep_grad(f, score[i]);
        fold_keep_grad(f, value[i]);
    }
    const fold_node y = fold_softmax_mean_n(f, score, value, n);
    fold_keep(f, y);
    if (!CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_square(f, y), 0)), "%s", fold_ctx_message(f))) return 0;
    memcpy(results_of, fold_value(f, y), MEAN_WIDTH * sizeof(float));
    for (int i = 0; i < n; i++) {
        results_of[MEAN_WIDTH + i] = fold_grad(f, score[i])[0];
        memcpy(results_of + MEAN_WIDTH + n + i * MEAN_WIDTH, fold_grad(f, value[i]), MEAN_WIDTH * sizeof(float));
    }
    return 1;
}

static void check_softmax_mean(const float *scores, const float *values, int n, const float *got)
{
    double y[MEAN_WIDTH] = { 0 }, sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)scores[i]);
    for (int i = 0; i < n * MEAN_WIDTH; i++)
        y[i % MEAN_WIDTH] += exp((double)scores[i / MEAN_WIDTH]) / sum * (double)values[i];
    for (int k = 0; k < MEAN_WIDTH; k++) CHECK_NEAR((double)got[k], y[k], 1e-6);
    for (int i = 0; i < n; i++) {
        const double weight = exp((double)scores[i]) / sum;
        double slope = 0;
        for (int k = 0; k < MEAN_WIDTH; k++) {
            slope += 2 * y[k] * weight * ((double)values[i * MEAN_WIDTH + k] - y[k]);
            CHECK_NEAR((double)got[MEAN_WIDTH + n + i * MEAN_WIDTH + k], 2 * y[k] * weight, 1e-6);
        }
        CHECK_NEAR((double)got[MEAN_WIDTH + i], slope, 1e-6);
    }
}

static void test_softmax_mean_of_many(void)
{
    static const int counts[] = { 1, 16, 63, 64, 65, 127, 128, 129, MOST_IN_MEAN };
    static const char *const isas[] = { "avx512", "avx2", "neon", "portable" };
    static float scores[MOST_IN_MEAN], values[MOST_IN_MEAN * MEAN_WIDTH], want[MEAN_RESULTS], got[MEAN_RESULTS];
    check_random r = { 21 };
    random_fill(&r, scores, MOST_IN_MEAN, -3, 3);
    random_fill(&r, values, MOST_IN_MEAN * MEAN_WIDTH, -1, 1);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const int n = counts[k];
        for (int i = 0, seen = 0; i < 4; i++) {
            fold_model_desc desc = fold_model_desc_default();
            desc.isa = isas[i];
            fold_model *m = fold_model_new(&desc);
            const int fused = PORTABLE_MATCHES || strcmp(isas[i], "portable");
            for (int how = 0; how < 2 && !fold_model_status(m); how++) {
                fold_ctx *f = new_ctx(m, &modes[how], 1);
                if (softmax_mean_of(f, scores, values, n, got)) check_softmax_mean(scores, values, n, got);
                if (fused && seen) CHECK_BITS(got, want, (size_t)(MEAN_WIDTH + n * (1 + MEAN_WIDTH)));
                if (fused) memcpy(want, got, sizeof want);
                seen |= fused;
                fold_ctx_free(f);
            }
            fold_model_free(m);
        }
    }
}

/* ---- dropout ----------------------------------------------------------------------------------- */

enum { DROPS = 1000, DROP_SAMPLES = 8 };

static void dropout_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const float rate = *(const float *)user;
    const fold_node once = fold_dropout(f, in[0], rate);
    out[0] = fold_add(f, once, fold_dropout(f, in[0], rate));
}

/* Two draws for each of n samples with keys first, first + 1 …; values and gradients. */
static void drop(fold_ctx *f, const fold_cell *cell, float rate, uint64_t first, int n, float *value,
                 float *grad)
{
    float ones[DROPS];
    fold_node x[DROP_SAMPLES], y[DROP_SAMPLES], loss[DROP_SAMPLES];
    for (int i = 0; i < DROPS; i++) ones[i] = 1;
    fold_ctx_reset(f);
    for (int s = 0; s < n; s++) {
        fold_dropout_seed(f, first + (uint64_t)s);
        x[s] = fold_input(f, ones, DROPS);
        if (cell) y[s] = fold_call(f, *cell, &x[s], 1);
        else dropout_body(f, &x[s], &y[s], &rate);
        fold_keep(f, y[s]);
        fold_keep_grad(f, x[s]);
        loss[s] = fold_sum(f, y[s], FOLD_ALL);
    }
    if (!CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, n)), "%s", fold_ctx_message(f))) return;
    CHECK_INT(fold_read(f, y, (size_t)n, value), FOLD_OK);
    for (int s = 0; s < n; s++) memcpy(grad + s * DROPS, fold_grad(f, x[s]), DROPS * sizeof *grad);
}

/* In a list cell each element has its own mask; eager and batched contexts draw the same. */
static void list_dropout_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    const fold_node x = fold_mul(f, fold_dropout(f, in[1], 0.5f), in[0]);
    out[0] = fold_add(f, fold_list_sum(f, fold_dropout(f, x, 0.25f)), fold_dropout(f, in[0], 0.5f));
}

static void test_list_dropout(void)
{
    enum { N = 64, LISTS = 5 };
    static float value[N_MODES][LISTS * N], grad[N_MODES][LISTS][N];
    float ones[N];
    fold_cell_desc d;
    fold_model *m = fold_model_new(NULL);
    for (int i = 0; i < N; i++) ones[i] = 1;
    memset(&d, 0, sizeof d);
    d.name = "drop from lists"; d.body = list_dropout_body; d.n_out = 1;
    d.n_in = d.n_list = 1; d.in[0] = d.list[0] = fold_shape1(N);
    const fold_cell cell = fold_cell_new(m, &d);
    for (int i = 0; i < N_MODES; i++) {
        fold_ctx *f = new_ctx(m, &modes[i], 1);
        fold_node x[LISTS], y[LISTS], loss[LISTS], list[LISTS];
        for (int s = 0; s < LISTS; s++) {
            fold_dropout_seed(f, (uint64_t)s + 1);
            x[s] = fold_input(f, ones, N);
            for (int k = 0; k < s; k++) list[k] = fold_input(f, ones, N);
            y[s] = fold_call_n(f, cell, &x[s], 1, list, s);
            fold_keep(f, y[s]);
            fold_keep_grad(f, x[s]);
            loss[s] = fold_sum(f, y[s], 0);
        }
        CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, LISTS)), "%s", fold_ctx_message(f));
        CHECK_INT(fold_read(f, y, LISTS, value[i]), FOLD_OK);
        for (int s = 0; s < LISTS; s++) memcpy(grad[i][s], fold_grad(f, x[s]), sizeof grad[i][s]);
        CHECK_BITS(value[i], value[0], LISTS * N);
        CHECK_BITS(grad[i][0], grad[0][0], LISTS * N);
        fold_ctx_free(f);
    }
    /* The list of two: each element gives 0 or 8/3, the fixed input 0 or 2. Were both elements' masks the
       same, there would be no 8/3 or 14/3. */
    int one_of_two = 0;
    for (int e = 0; e < N; e++) one_of_two += value[0][2 * N + e] > 2.5f && value[0][2 * N + e] < 5;
    CHECK(one_of_two > N / 8);
    fold_model_free(m);
}

/* Every draw is 0 or 1 / (1 - rate), and 1 on average, within five deviations of the mean of 2 n draws. */
static void check_mask(const float *value, int n, double rate)
{
    double mean = 0;
    for (int e = 0; e < n; e++) {
        const double draws = (double)value[e] * (1 - rate);
        mean += draws / (2.0 * n);
        CHECK_NEAR(draws, floor(draws + 0.5), 1e-5);
    }
    CHECK_NEAR(mean, 1 - rate, 5 * sqrt(rate * (1 - rate) / (2.0 * n)) + 1e-6);
}

static void test_dropout_rate(float rate)
{
    enum { ALL = DROP_SAMPLES * DROPS };
    static float value[ALL], grad[ALL], other[ALL], slope[ALL];
    fold_cell_desc d;
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f[3] = { new_ctx(m, &modes[0], 1), new_ctx(m, &modes[1], 1), new_ctx(m, &modes[0], 0) };
    memset(&d, 0, sizeof d);
    d.name = "drop"; d.body = dropout_body; d.user = &rate;
    d.n_in = d.n_out = 1; d.in[0] = fold_shape1(DROPS);
    const fold_cell cell = fold_cell_new(m, &d);
    drop(f[0], NULL, rate, 5, DROP_SAMPLES, value, grad);
    check_mask(value, ALL, (double)rate);
    CHECK_BITS(grad, value, ALL); /* the inputs are ones: the gradient is the mask */
    for (int way = 1; way < 4; way++) {
        drop(f[way % 2], way / 2 ? &cell : NULL, rate, 5, DROP_SAMPLES, other, slope);
        CHECK_BITS(other, value, ALL);
        CHECK_BITS(slope, grad, ALL);
    }
    drop(f[0], NULL, rate, 7, 1, other, slope); /* the third sample alone */
    CHECK_BITS(other, value + 2 * DROPS, DROPS);
    CHECK_INT(memcmp(value, value + DROPS, DROPS * sizeof *value) != 0, rate > 0); /* another key */
    /* without training: x itself, in cells too */
    const fold_node x = fold_input(f[2], value, DROPS), same = fold_dropout(f[2], x, rate);
    const fold_node call = fold_call(f[2], cell, &x, 1);
    CHECK(same.id == x.id && same.salt == x.salt);
    CHECK_INT(fold_run(f[2], &call, 1), FOLD_OK);
    for (int e = 0; e < DROPS; e++) CHECK(fold_value(f[2], call)[e] == 2 * value[e]);
    for (int i = 0; i < 3; i++) fold_ctx_free(f[i]);
    fold_model_free(m);
}

/* Masks of four steps of one context, the last drawn by a cell's body: each step in a recording of its own, or
   all in one. */
enum { DROP_STEPS = 4, DROP_N = 64 };
static void drop_steps(fold_ctx *f, fold_cell cell, int at_once, float *masks)
{
    float ones[DROP_N];
    fold_node y[DROP_STEPS];
    for (int i = 0; i < DROP_N; i++) ones[i] = 1;
    fold_ctx_reset(f);
    for (int step = 0; step < DROP_STEPS; step++) {
        if (!at_once) fold_ctx_reset(f);
        const fold_node x = fold_input(f, ones, DROP_N);
        y[step] = step < DROP_STEPS - 1 ? fold_dropout(f, x, 0.5f) : fold_call(f, cell, &x, 1);
        if (!at_once) CHECK_INT(fold_run(f, &y[step], 1), FOLD_OK);
        if (!at_once) CHECK_INT(fold_read(f, &y[step], 1, masks + step * DROP_N), FOLD_OK);
    }
    if (at_once) CHECK_INT(fold_run(f, y, DROP_STEPS), FOLD_OK);
    if (at_once) CHECK_INT(fold_read(f, y, DROP_STEPS, masks), FOLD_OK);
}

/* Draws go on from reset to reset: steps have masks of their own, and the same ones however samples are cut into
   recordings. fold_dropout_seed begins them anew. */
static void test_dropout_goes_on(void)
{
    enum { ALL = DROP_STEPS * DROP_N };
    static float rate = 0.5f, first[ALL], other[ALL];
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f[3] = { new_ctx(m, &modes[0], 1), new_ctx(m, &modes[0], 1), new_ctx(m, &modes[1], 1) };
    fold_cell cell[2];
    fold_cell_desc d = fold_cell_desc_default();
    d.body = dropout_body; d.user = &rate;
    d.n_in = d.n_out = 1; d.in[0] = fold_shape1(DROP_N);
    d.name = "one";
    cell[0] = fold_cell_new(m, &d);
    d.name = "two"; /* its draws are counted from its own first */
    cell[1] = fold_cell_new(m, &d);
    drop_steps(f[0], cell[1], 0, first);
    for (int a = 0; a < DROP_STEPS; a++)
        for (int b = 0; b < a; b++)
            CHECK(memcmp(first + a * DROP_N, first + b * DROP_N, DROP_N * sizeof *first) != 0);
    drop_steps(f[1], cell[0], 1, other);
    CHECK_BITS(other, first, ALL);
    drop_steps(f[2], cell[1], 0, other);
    CHECK_BITS(other, first, ALL);
    fold_dropout_seed(f[0], 0);
    drop_steps(f[0], cell[1], 0, other);
    CHECK_BITS(other, first, ALL);
    for (int i = 0; i < 3; i++) fold_ctx_free(f[i]);
    fold_model_free(m);
}

static void test_dropout(void)
{
    test_dropout_goes_on();
    test_dropout_rate(0);
    test_dropout_rate(0.1f);
    test_dropout_rate(0.5f);
    test_dropout_rate(0.9f);
}

/* ---- bad calls: null, the first error stays, and its message helps ------------------------------- */

typedef struct bad_calls {
    fold_model *m;
    fold_ctx *f, *inference;
    fold_param W, b, gain, table, theirs, line_filter, grid_filter; /* of 4 inputs and 3 outputs */
    fold_op mix;
    fold_cell cell, largest;
    fold_node v3, v4, m23, m34, k234, one, stale, foreign, list[2],
        parts[2]; /* recorded anew for each call */
} bad_calls;

static void two_inputs(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], in[1]);
}
static void largest_of_list(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_max(f, in[0]);
}

static void record_nodes(bad_calls *n)
{
    static const float x[24] = { 0 };
    fold_ctx *f = n->f;
    fold_ctx_reset(f);
    n->stale = n->v3;
    n->v3 = n->list[0] = fold_input(f, x, 3);
    n->v4 = n->list[1] = fold_input(f, x, 4);
    n->one = fold_constant(f, 1);
    n->m23 = fold_input_shaped(f, x, fold_shape2(2, 3));
    n->m34 = fold_input_shaped(f, x, fold_shape2(3, 4));
    n->k234 = fold_input_shaped(f, x, fold_shape3(2, 3, 4));
    fold_ctx_reset(n->inference);
    n->foreign = fold_input(n->inference, x, 3);
}

static void open_bad_calls(bad_calls *n, fold_model *other)
{
    fold_cell_desc d;
    memset(n, 0, sizeof *n);
    memset(&d, 0, sizeof d);
    n->m = fold_model_new(NULL);
    n->W = fold_weight_new(n->m, "W", 3, 2);
    n->b = fold_bias_new(n->m, "b", 3);
    n->gain = fold_gain_new(n->m, "gain", 3);
    n->table = fold_table_new(n->m, "words", 5, 3);
    n->line_filter = fold_filter_new(n->m, "filter", fold_shape3(2, 4, 3));
    n->grid_filter = fold_filter_new(n->m, "filter2", fold_shape4(2, 2, 4, 3));
    n->theirs = fold_bias_new(other, "theirs", 2);
    n->mix = fold_op_new(n->m, &mix);
    d.name = "pair";
    d.body = two_inputs;
    d.n_in = 2;
    d.n_out = 1;
    d.in[0] = d.in[1] = d.list[0] = fold_shape1(3);
    n->cell = fold_cell_new(n->m, &d);
    d.name = "largest";
    d.body = largest_of_list;
    d.n_in = 0;
    d.n_list = 1;
    n->largest = fold_cell_new(n->m, &d);
    n->f = new_ctx(n->m, &modes[0], 1);
    n->inference = new_ctx(n->m, &modes[0], 0);
    CHECK_SAYS(!*fold_ctx_message(n->f), "%s", fold_ctx_message(n->f));
    record_nodes(n);
}

static void close_bad_calls(bad_calls *n)
{
    fold_ctx_free(n->f);
    fold_ctx_free(n->inference);
    fold_model_free(n->m);
}

static void expect(bad_calls *n, const char *call, fold_node result, fold_status status, const char *word,
                   const char *other)
{
    const char *message = fold_ctx_message(n->f);
    char first[256];
    snprintf(first, sizeof first, "%s", message);
    CHECK_SAYS(fold_node_is_null(result), "%s is not null", call);
    CHECK_SAYS(names_call(call, message), "%s: \"%s\" names another call", call, message);
    CHECK_SAYS(fold_ctx_status(n->f) == status, "%s: status '%s'", call,
               fold_status_text(fold_ctx_status(n->f)));
    CHECK_SAYS(strstr(message, word) && strstr(message, other), "%s: \"%s\" lacks \"%s\" or \"%s\"", call,
               message, word, other);
    CHECK_SAYS(fold_node_is_null(fold_tanh(n->f, n->v3)), "%s: recording goes on", call);
    CHECK_SAYS(fold_node_is_null(fold_dot(n->f, n->v3, n->v4)), "%s: recording goes on", call);
    CHECK_SAYS(fold_run(n->f, &n->v3, 1) == status, "%s: running does not return the status", call);
    CHECK_SAYS(!strcmp(first, fold_ctx_message(n->f)), "%s: the first message is lost: %s", call,
               fold_ctx_message(n->f));
    record_nodes(n);
    CHECK_SAYS(!fold_ctx_status(n->f) && !fold_run(n->f, &n->v3, 1), "%s: reset does not clear: %s", call,
               fold_ctx_message(n->f));
    record_nodes(n);
}
#define BAD(call, status, word, other) expect(&n, #call, call, FOLD_##status, word, other)

static void test_bad_windows(void)
{
    enum { MOST = 32767 };
    fold_model *other = fold_model_new(NULL);
    bad_calls n;
    open_bad_calls(&n, other);
    fold_ctx *f = n.f;
    const fold_param none = { 0, 0 };
    const fold_conv_desc apart = { 0, 0, 0, 1 }, wide = { 0, 0, 4, 0 }, padded = { 0, 2, 0, 0 }, back = { -1, 0, 0, 0 },
                         inside = { 0, -1, 0, 0 }, far = { 0, 0, MOST + 1, 0 };
    BAD(fold_conv2d(f, n.m34, n.grid_filter, none, NULL), BAD_SHAPE, "conv2d: takes [height x width x channels]", "[3 x 4]");
    BAD(fold_conv1d(f, n.k234, n.line_filter, none, NULL), BAD_SHAPE, "conv1d: takes [length x channels]", "[2 x 3 x 4]");
    BAD(fold_conv2d(f, n.k234, n.line_filter, none, NULL), BAD_SHAPE, "conv2d: the filter must be [height", "[2 x 4 x 3]");
    BAD(fold_conv1d(f, n.m34, n.grid_filter, none, NULL), BAD_SHAPE, "conv1d: the filter must be [length", "[2 x 2 x 4 x 3]");
    BAD(fold_conv1d(f, n.m23, n.line_filter, none, NULL), BAD_SHAPE, "conv1d: the filter's inputs must be the channels of x; groups are not supported, except depthwise", "[2 x 3], [2 x 4 x 3]");
    BAD(fold_conv1d(f, n.m34, n.line_filter, none, &apart), BAD_SHAPE, "a depthwise filter must have 1 input", "[3 x 4], [2 x 4 x 3]");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.theirs, NULL), BAD_HANDLE, "conv1d", "parameter");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.W, NULL), BAD_SHAPE, "bias 'W' must be [3]", "filter");
    BAD(fold_conv1d(f, n.m34, n.W, none, NULL), BAD_ARGUMENT, "conv1d", "'W' was made without FOLD_FOR_CONV");
    BAD(fold_conv1d(f, n.m34, none, none, NULL), BAD_HANDLE, "conv1d", "parameter");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.b, &wide), BAD_SHAPE, "conv1d: the window spans more", "[3 x 4]");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.b, &padded), BAD_SHAPE, "conv1d: padding must be smaller", "[3 x 4]");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.b, &back), BAD_ARGUMENT, "conv1d: stride is -1", "must be in [0, 32767]");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.b, &inside), BAD_ARGUMENT, "padding is -1", "[0, 32767]");
    BAD(fold_conv1d(f, n.m34, n.line_filter, n.b, &far), BAD_ARGUMENT, "dilation is 32768", "[0, 32767]");
    BAD(fold_max_pool2d(f, n.m34, 2, 0, 0), BAD_SHAPE, "max_pool2d: takes [height x width x channels]", "[3 x 4]");
    BAD(fold_mean_pool1d(f, n.k234, 2, 0, 0), BAD_SHAPE, "mean_pool1d: takes [length x channels]", "[2 x 3 x 4]");
    BAD(fold_mean_pool2d(f, n.k234, 3, 0, 0), BAD_SHAPE, "mean_pool2d: the window spans more", "[2 x 3 x 4]");
    BAD(fold_max_pool1d(f, n.m34, 2, 0, 2), BAD_SHAPE, "max_pool1d: padding must be smaller", "[3 x 4]");
    BAD(fold_max_pool1d(f, n.m34, 0, 0, 0), BAD_ARGUMENT, "max_pool1d: size is 0", "must be in [1, 32767]");
    BAD(fold_max_pool1d(f, n.m34, MOST + 1, 1, 0), BAD_ARGUMENT, "max_pool1d: size is 32768", "must be in [1, 32767]");
    BAD(fold_max_pool1d(f, n.m34, 2, -1, 0), BAD_ARGUMENT, "max_pool1d: stride is -1", "[0, 32767]");
    BAD(fold_max_pool1d(f, n.stale, 2, 0, 0), BAD_HANDLE, "max_pool1d", "fold_ctx_reset");
    close_bad_calls(&n);
    fold_model_free(other);
}

static void test_bad_shapes(void)
{
    fold_model *other = fold_model_new(NULL);
    bad_calls n;
    open_bad_calls(&n, other);
    fold_ctx *f = n.f;
    const fold_param none = { 0, 0 };
    const fold_shape empty = { 0, { 0, 0, 0, 0 } }, deep = { 5, { 1, 1, 1, 1 } },
                     hollow = { 2, { 3, 0, 0, 0 } };
    const float x[3] = { 0 };
    BAD(fold_input(f, x, 0), BAD_SHAPE, "input", "at least 1");
    BAD(fold_input_shaped(f, x, empty), BAD_SHAPE, "input_shaped", "rank 1 to 4");
    BAD(fold_input_ref(f, x, deep), BAD_SHAPE, "input_ref", "rank 1 to 4");
    BAD(fold_zeros(f, hollow), BAD_SHAPE, "zeros", "at least 1");
    BAD(fold_zeros(f, fold_shape2(1 << 16, (1 << 14) + 1)), BAD_SHAPE, "zeros", "a shape is too large: a value has at most 1073741824 floats");
    BAD(fold_input_ref(f, x, fold_shape4(INT_MAX, INT_MAX, INT_MAX, INT_MAX)), BAD_SHAPE, "input_ref", "too large");
    BAD(fold_list_input(f, x, 0, fold_shape1(INT_MAX)), BAD_SHAPE, "list_input", "too large");
    for (int products = 0; products < 2; products++) { /* as ints, five times 2^30 adds up to 2^30 */
        fold_node most[5];
        for (int i = 0; i < 5; i++) most[i] = fold_input_ref(f, x, fold_shape1(1 << 30));
        if (products) BAD(fold_linear_n(f, most, 5, n.W, none), BAD_SHAPE, "has 2147483647 values, must have 3", "'W' is [3 x 2]");
        else BAD(fold_concat(f, most, 5, 0), BAD_SHAPE, "concat: the result is too large", "[1073741824], [1073741824]");
    }
    BAD(fold_linear(f, n.v4, n.W, none), BAD_SHAPE, "linear: the input has 4 values, must have 3", "'W' is [3 x 2]");
    BAD(fold_linear(f, n.v3, n.W, n.b), BAD_SHAPE, "bias 'b' must be [2]", "'W' is [3 x 2]");
    BAD(fold_linear_n(f, n.list, 2, n.W, none), BAD_SHAPE, "has 7 values", "'W' is [3 x 2]");
    BAD(fold_linear_first(f, n.v4, n.W, none), BAD_SHAPE, "linear_first: the input has 4 values, must have at most 3", "'W' is [3 x 2]");
    BAD(fold_linear_then(f, n.v3, n.v4, n.W), BAD_SHAPE, "linear_then: the input has 4 values", "'W' is [3 x 2]");
    BAD(fold_linear_then(f, n.v4, n.v3, n.W), BAD_SHAPE, "linear_then: the rows to start from do not have the shape", "[3], [4]");
    BAD(fold_linear(f, fold_concat2(f, n.v3, n.v4), n.W, none), BAD_SHAPE, "has 7 values", "'W' is [3 x 2]");
    BAD(fold_matmul(f, n.m23, n.m23), BAD_SHAPE, "matmul", "[2 x 3], [2 x 3]");
    BAD(fold_matmul(f, n.v3, n.v3), BAD_SHAPE, "matmul", "[3], [3]");
    BAD(fold_matmul(f, n.k234, n.v4), BAD_SHAPE, "matmul", "[2 x 3 x 4], [4]");
    BAD(fold_matmul(f, n.k234, n.m34), BAD_SHAPE, "matmul: needs a matrix", "[2 x 3 x 4], [3 x 4]");
    BAD(fold_matmul(f, n.k234, n.k234), BAD_SHAPE, "matmul: the inner dimensions", "[2 x 3 x 4], [2 x 3 x 4]");
    BAD(fold_matmul(f, n.k234, fold_zeros(f, fold_shape3(3, 4, 2))), BAD_SHAPE, "as many matrices", "[3 x 4 x 2]");
    BAD(fold_dot(f, n.v3, n.v4), BAD_SHAPE, "dot", "[3], [4]");
    BAD(fold_add(f, n.v3, n.v4), BAD_SHAPE, "add", "[3], [4]");
    BAD(fold_sub(f, n.m23, n.m34), BAD_SHAPE, "sub", "[2 x 3], [3 x 4]");
    BAD(fold_mul(f, n.k234, n.m23), BAD_SHAPE, "mul", "1 in neither");
    BAD(fold_div(f, n.v4, n.m23), BAD_SHAPE, "div", "[4], [2 x 3]");
    BAD(fold_minimum(f, n.v3, n.v4), BAD_SHAPE, "minimum", "[3], [4]");
    BAD(fold_maximum(f, n.v3, n.v4), BAD_SHAPE, "maximum", "[3], [4]");
    BAD(fold_select(f, n.v3, n.v3, n.v4), BAD_SHAPE, "select", "[3], [3], [4]");
    BAD(fold_sum(f, n.v3, 1), BAD_SHAPE, "sum", "no such axis");
    BAD(fold_mean(f, n.m23, 2), BAD_SHAPE, "mean", "[2 x 3]");
    BAD(fold_amax(f, n.m23, -3), BAD_SHAPE, "amax", "no such axis");
    BAD(fold_amin(f, n.m23, 2), BAD_SHAPE, "amin", "no such axis");
    BAD(fold_variance(f, n.v3, -2), BAD_SHAPE, "variance", "no such axis");
    BAD(fold_logsumexp(f, n.v3, 1), BAD_SHAPE, "logsumexp", "no such axis");
    BAD(fold_prod(f, n.v3, 1), BAD_SHAPE, "prod", "no such axis");
    BAD(fold_cumsum(f, n.m23, FOLD_ALL), BAD_SHAPE, "cumsum", "no such axis");
    BAD(fold_concat(f, n.list, 2, FOLD_ALL), BAD_SHAPE, "concat", "axis");
    BAD(fold_layer_norm(f, n.v4, n.gain, n.b, 0), BAD_SHAPE, "layer_norm", "[4], [3], [3]");
    BAD(fold_rms_norm(f, n.v4, n.gain, 0), BAD_SHAPE, "rms_norm", "[4], [3]");
    BAD(fold_one_hot(f, 0, 0), BAD_SHAPE, "one_hot", "at least 1");
    BAD(fold_sum_n(f, n.list, 2), BAD_SHAPE, "sum_n", "equal in shape");
    BAD(fold_max_n(f, n.list, 2), BAD_SHAPE, "max_n", "[3], [4]");
    BAD(fold_softmax_mean_n(f, n.list, n.list + 1, 1), BAD_SHAPE, "softmax_mean_n", "score");
    BAD(fold_concat(f, n.list, 2, 1), BAD_SHAPE, "concat", "axis");
    BAD(fold_concat2(f, n.m23, n.m34), BAD_SHAPE, "concat", "[2 x 3], [3 x 4]");
    BAD(fold_concat2(f, n.v3, n.m23), BAD_SHAPE, "concat", "ranks differ");
    BAD(fold_slice(f, n.v3, 0, 2, 2), BAD_SHAPE, "slice", "outside");
    BAD(fold_slice(f, n.m23, 1, -1, 2), BAD_SHAPE, "slice", "outside");
    BAD(fold_slice(f, n.m23, 1, 1, INT32_MAX), BAD_SHAPE, "slice", "outside");
    BAD(fold_slice(f, n.m23, 2, 0, 1), BAD_SHAPE, "slice", "axis");
    BAD((fold_split(f, n.v3, 2, n.parts), n.parts[1]), BAD_SHAPE, "split", "axis of x, 3");
    BAD(fold_reshape(f, n.m23, fold_shape1(5)), BAD_SHAPE, "reshape", "[2 x 3]");
    BAD(fold_reshape(f, n.m23, empty), BAD_SHAPE, "reshape", "rank 1 to 4");
    BAD(fold_transpose(f, n.m23, 0, 2), BAD_SHAPE, "transpose", "axis");
    BAD(fold_softmax_xent(f, n.m23, 0), BAD_SHAPE, "softmax_xent", "vector");
    BAD(fold_softmax_kl(f, n.v3, n.v4), BAD_SHAPE, "softmax_kl", "[3], [4]");
    BAD(fold_bce(f, n.v3, n.v4), BAD_SHAPE, "bce", "[3], [4]");
    BAD(fold_squared_error(f, n.v3, n.m23), BAD_SHAPE, "squared_error", "[2 x 3]");
    BAD(fold_huber(f, n.v3, n.v4, 1), BAD_SHAPE, "huber", "[3], [4]");
    BAD(fold_hinge(f, n.m23, 0), BAD_SHAPE, "hinge", "vector");
    BAD(fold_call(f, n.cell, n.list, 2), BAD_SHAPE, "pair", "input 1");
    BAD(fold_call_n(f, n.largest, NULL, 0, &n.v4, 1), BAD_SHAPE, "largest", "[4]");
    const int32_t attr[2] = { 1, 1 };
    BAD(fold_op_apply(f, n.mix, n.list, 2, attr, 0), BAD_SHAPE, "mix: needs values of one shape", "[3], [4]");
    close_bad_calls(&n);
    fold_model_free(other);
}

static void test_bad_arguments(void)
{
    fold_model *other = fold_model_new(NULL);
    bad_calls n;
    open_bad_calls(&n, other);
    fold_ctx *f = n.f;
    const fold_param none = { 0, 0 };
    const fold_op no_op = { 0, 0 };
    const fold_cell no_cell = { 0, 0 };
    const int32_t attr[2] = { 1, 1 };
    BAD(fold_input(f, NULL, 3), BAD_ARGUMENT, "input", "NULL");
    BAD(fold_linear(f, n.v3, n.table, none), BAD_ARGUMENT, "'words'", "FOLD_FOR_LINEAR");
    BAD(fold_linear_t(f, n.v3, n.W, none), BAD_ARGUMENT, "'W'", "FOLD_FOR_LINEAR_T");
    BAD(fold_linear_n(f, n.list, 0, n.W, none), BAD_ARGUMENT, "linear", "[1, 32]");
    BAD(fold_linear_n(f, NULL, 2, n.W, none), BAD_ARGUMENT, "linear", "NULL");
    BAD(fold_lookup(f, n.W, 0), BAD_ARGUMENT, "'W'", "FOLD_FOR_LOOKUP");
    BAD(fold_lookup(f, n.table, 5), BAD_ARGUMENT, "lookup: row is 5", "[0, 5) of table 'words'");
    BAD(fold_lookup(f, n.table, -1), BAD_ARGUMENT, "row is -1", "'words'");
    BAD(fold_dropout(f, n.v3, 1), BAD_ARGUMENT, "dropout", "rate is 1");
    BAD(fold_dropout(f, n.v3, -0.5f), BAD_ARGUMENT, "dropout", "-0.5");
    BAD(fold_sum_n(f, n.list, 0), BAD_ARGUMENT, "sum_n", "n is 0, so there is no shape; record fold_zeros instead");
    BAD(fold_mean_n(f, NULL, 0), BAD_ARGUMENT, "mean_n", "record fold_zeros");
    BAD(fold_sum_n(f, n.list, -1), BAD_ARGUMENT, "sum_n", "count is -1");
    BAD(fold_softmax_mean_n(f, n.list, n.list, -2), BAD_ARGUMENT, "softmax_mean_n", "count is -2");
    BAD(fold_call_n(f, n.largest, NULL, 0, n.list, -1), BAD_ARGUMENT, "largest", "count is -1");
    BAD(fold_op_apply(f, n.mix, n.list, -2, attr, 0), BAD_ARGUMENT, "mix", "n_in is -2");
    BAD(fold_max_n(f, n.list, 0), BAD_ARGUMENT, "max_n", "record fold_zeros");
    BAD(fold_softmax_mean_n(f, n.list, n.list, 0), BAD_ARGUMENT, "softmax_mean_n", "record fold_zeros");
    BAD(fold_softmax_mean_n(f, n.list, NULL, 2), BAD_ARGUMENT, "softmax_mean_n", "NULL");
    BAD(fold_concat(f, n.list, 0, 0), BAD_ARGUMENT, "concat", "at least 1");
    BAD((fold_split(f, n.v3, 0, n.parts), fold_tanh(f, n.v3)), BAD_ARGUMENT, "split", "n is 0");
    BAD(fold_pick(f, n.v3, 3), BAD_ARGUMENT, "index is 3", "[-3, 3)");
    BAD(fold_pick(f, n.v3, -4), BAD_ARGUMENT, "pick", "-4");
    BAD(fold_softmax_xent(f, n.v3, 3), BAD_ARGUMENT, "softmax_xent", "[0, 3)");
    BAD(fold_hinge(f, n.v3, -1), BAD_ARGUMENT, "hinge", "-1");
    BAD(fold_one_hot(f, 3, 3), BAD_ARGUMENT, "one_hot: index is 3", "[0, 3)");
    BAD(fold_one_hot(f, -1, 3), BAD_ARGUMENT, "one_hot", "-1");
    BAD(fold_rms_norm(f, n.v3, n.gain, -1), BAD_ARGUMENT, "rms_norm: epsilon", "-1");
    BAD(fold_layer_norm(f, n.v3, n.gain, n.b, (float)NAN), BAD_ARGUMENT, "layer_norm: epsilon", "nan");
    BAD(fold_rms_norm(f, n.v3, n.b, 0), BAD_ARGUMENT, "rms_norm: gain 'b'", "fold_gain_new");
    BAD(fold_rms_norm(f, n.v3, none, 0), BAD_HANDLE, "rms_norm", "parameter");
    BAD(fold_huber(f, n.v3, n.v3, 0), BAD_ARGUMENT, "huber", "delta");
    BAD(fold_clip(f, n.v3, 2, 1), BAD_ARGUMENT, "clip", "low (2) is above high (1)");
    BAD(fold_clip(f, n.v3, (float)NAN, 1), BAD_ARGUMENT, "clip", "nan");
    BAD(fold_pow(f, n.v3, (float)INFINITY), BAD_ARGUMENT, "pow", "exponent is inf, must be in (-inf, inf)");
    BAD(fold_call(f, n.cell, n.list, 1), BAD_ARGUMENT, "pair", "n_in is 1, must be 2");
    BAD(fold_call_n(f, n.cell, n.list, 2, n.list, 1), BAD_ARGUMENT, "pair", "no list");
    BAD(fold_call_n(f, n.largest, NULL, 0, NULL, 0), BAD_ARGUMENT, "largest", "empty");
    BAD(fold_out(f, n.v3, 1), BAD_ARGUMENT, "out", "i is 1");
    BAD(fold_op_apply(f, n.mix, n.list, 1, attr, 0), BAD_ARGUMENT, "mix", "n_in is 1, must be ");
    BAD(fold_op_apply(f, n.mix, n.list, 2, NULL, 0), BAD_ARGUMENT, "mix", "NULL");
    BAD(fold_linear(f, n.v3, none, none), BAD_HANDLE, "linear", "parameter");
    BAD(fold_linear(f, n.v3, n.W, n.theirs), BAD_HANDLE, "linear", "model");
    BAD(fold_lookup(f, n.theirs, 0), BAD_HANDLE, "lookup", "model");
    BAD(fold_use(f, n.theirs), BAD_HANDLE, "use", "model");
    BAD(fold_layer_norm(f, n.v3, n.b, none, 0), BAD_HANDLE, "layer_norm", "parameter");
    BAD(fold_layer_norm(f, n.v3, none, n.b, 0), BAD_HANDLE, "layer_norm", "parameter");
    BAD(fold_tanh(f, n.stale), BAD_HANDLE, "tanh", "fold_ctx_reset");
    BAD(fold_add(f, n.v3, n.foreign), BAD_HANDLE, "add", "another context");
    BAD(fold_sum_n(f, &n.stale, 1), BAD_HANDLE, "sum_n", "fold_ctx_reset");
    BAD(fold_reshape(f, n.foreign, fold_shape1(3)), BAD_HANDLE, "reshape", "another context");
    BAD(fold_call(f, no_cell, n.list, 2), BAD_HANDLE, "call", "cell");
    BAD(fold_op_apply(f, no_op, n.list, 2, attr, 0), BAD_HANDLE, "apply", "op");
    BAD(fold_list_sum(f, n.v3), BAD_SHAPE, "list", "body");
    close_bad_calls(&n);
    fold_model_free(other);
}

/* Running and reading. */
static void test_bad_runs(void)
{
    float values[3];
    fold_model *other = fold_model_new(NULL);
    const fold_node null = { 0, 0 };
    bad_calls n;
    open_bad_calls(&n, other);
    fold_ctx *f = n.f;
    BAD((fold_backward(f, n.v3), null), BAD_SHAPE, "backward", "[3]");
    BAD((fold_backward(f, n.stale), null), BAD_HANDLE, "backward", "fold_ctx_reset");
    BAD((fold_run(f, &n.foreign, 1), null), BAD_HANDLE, "run", "another context");
    BAD((fold_run(f, &n.v3, -1), null), BAD_ARGUMENT, "run", "count is -1");
    CHECK_INT(fold_read(f, &n.v3, -1, values), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "read: count is -1");
    BAD((fold_keep(f, n.stale), null), BAD_HANDLE, "keep", "fold_ctx_reset");
    BAD((fold_keep_grad(f, n.foreign), null), BAD_HANDLE, "keep_grad", "another context");
    CHECK_INT(fold_backward(n.inference, fold_sum(n.inference, n.foreign, 0)), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(n.inference), "inference");
    close_bad_calls(&n);
    fold_model_free(other);
}

/* Inputs of one weight, of which from pass to pass one more gets a gradient, and so more of the weight's rows are
   read: the bits are those of a model in which all of them had gradients from the beginning. */
static void back_rows(const char *isa, const int *size, int columns)
{
    enum { INPUTS = 3, MOST = 64 };
    static const char *const name[INPUTS] = { "x0", "x1", "x2" };
    const int all = size[0] + size[1] + size[2];
    check_random random = { 9 };
    float weight[MOST * MOST], factor[MOST], grad[2][INPUTS][MOST];
    fold_model *m[2] = { kernel_set_model(isa), kernel_set_model(isa) };
    fold_param W[2], x[2][INPUTS];
    const fold_param none = { 0 };
    for (int k = 0; k < 2 && m[0]; k++) {
        W[k] = fold_weight_new(m[k], "W", all, columns);
        for (int i = 0; i < INPUTS; i++) x[k][i] = fold_bias_new(m[k], name[i], size[i]);
    }
    for (int wanted = INPUTS - 1; wanted >= 0 && m[0]; wanted--) {
        random_fill(&random, weight, (size_t)(all * columns), -1, 1);
        random_fill(&random, factor, MOST, -1, 1);
        for (int k = 0; k < 2; k++) {
            fold_ctx_desc desc = fold_ctx_desc_default();
            desc.training = 1;
            fold_ctx *f = fold_ctx_new(m[k], &desc);
            fold_node in[INPUTS];
            memcpy(fold_values_write_begin(m[k], W[k]), weight, (size_t)(all * columns) * sizeof *weight);
            fold_values_write_end(m[k], W[k]);
            fold_grads_clear(m[k]);
            for (int i = 0; i < INPUTS; i++)
                in[i] = k || i >= wanted ? fold_use(f, x[k][i]) : fold_input(f, factor, size[i]);
            const fold_node y = fold_linear_n(f, in, INPUTS, W[k], none);
            CHECK_INT(fold_backward(f, fold_dot(f, y, fold_input(f, factor, columns))), FOLD_OK);
            for (int i = wanted; i < INPUTS; i++)
                memcpy(grad[k][i], fold_param_grad(m[k], x[k][i]), (size_t)size[i] * sizeof(float));
            fold_ctx_free(f);
        }
        for (int i = INPUTS - 1, row = all; i >= wanted; i--) {
            CHECK(!memcmp(grad[0][i], grad[1][i], (size_t)size[i] * sizeof(float)));
            for (int j = size[i] - 1; j >= 0; j--) {
                double sum = 0;
                row--;
                for (int c = 0; c < columns; c++) sum += (double)weight[row * columns + c] * (double)factor[c];
                CHECK_NEAR(grad[0][i][j], sum, 1e-5);
            }
        }
    }
    for (int k = 0; k < 2; k++) fold_model_free(m[k]);
}
static void test_back_rows(void)
{
    static const int sizes[][3] = { { 13, 11, 16 }, { 30, 20, 10 }, { 9, 12, 2 }, { 4, 3, 5 }, { 16, 32, 16 } };
    for (int set = 0; set < KERNEL_SETS; set++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            back_rows(kernel_set[set], sizes[i], 7);
            back_rows(kernel_set[set], sizes[i], 50);
        }
}

/* Rows whose sums or squares leave the range of floats are normalised as the formula says, on every instruction set, alone and
   among others. */
enum { FAR_MOST = 100 };
static void check_norm_far(fold_model *m, const char *isa, const fold_param *p, int n, float size, float epsilon, int equal)
{
    const float *gain = fold_param_value(m, p[0]);
    float x[FAR_MOST], factor[FAR_MOST], got[2][2][2 * FAR_MOST]; /* eager or not, op, values and gradients */
    check_random r = { (uint64_t)n };
    for (int i = 0; i < n; i++) {
        x[i] = (equal ? 1 : random_float(&r, -1, 1)) * size;
        factor[i] = random_float(&r, -1, 1);
    }
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        const float others[FAR_MOST] = { 1, 2 };
        for (int op = 0; op < 2; op++) {
            fold_ctx_reset(f);
            const fold_node in[2] = { fold_input(f, x, n), fold_input(f, others, n) }, c = fold_input(f, factor, n);
            fold_node y[2], loss[2];
            for (int i = 0; i < 2; i++) {
                y[i] = op ? fold_rms_norm(f, in[i], p[0], epsilon) : fold_layer_norm(f, in[i], p[0], p[1], epsilon);
                loss[i] = fold_dot(f, y[i], c);
            }
            fold_keep_grad(f, in[0]);
            fold_keep(f, y[0]);
            CHECK_SAYS(!fold_backward(f, fold_add(f, loss[0], loss[1])), "%s", fold_ctx_message(f));
            memcpy(got[eager][op], fold_value(f, y[0]), (size_t)n * sizeof(float));
            memcpy(got[eager][op] + n, fold_grad(f, in[0]), (size_t)n * sizeof(float));
        }
        fold_ctx_free(f);
    }
    for (int op = 0; op < 2; op++) {
        double mean = 0, square = 0, slope = 0, level = 0;
        for (int i = 0; i < n && !op; i++) mean += (double)x[i] / n;
        for (int i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
        const double deviation = sqrt(square + (double)epsilon);
        for (int i = 0; i < n; i++) {
            slope += (double)gain[i] * (double)factor[i] * ((double)x[i] - mean) / deviation / n;
            level += op ? 0 : (double)gain[i] * (double)factor[i] / n;
        }
        for (int i = 0; i < n; i++) {
            const double target = ((double)x[i] - mean) / deviation, y = target * (double)gain[i];
            const double grad = ((double)gain[i] * (double)factor[i] - level - target * slope) / deviation;
            const float *mine = got[0][op];
            CHECK_SAYS(fabs((double)mine[i] - y) < 2e-5, "%s, %s of %d times %g, epsilon %g: value %d is %g, want %g", isa,
                       op ? "rms_norm" : "layer_norm", n, (double)size, (double)epsilon, i, (double)mine[i], y);
            CHECK_SAYS(fabs((double)mine[n + i] - grad) < 2e-5 / deviation + 1e-44, "%s, %s of %d times %g, epsilon %g: gradient %d is %g, want %g",
                       isa, op ? "rms_norm" : "layer_norm", n, (double)size, (double)epsilon, i, (double)mine[n + i], grad);
        }
        CHECK_BITS(got[0][op], got[1][op], 2 * n);
    }
}
static void test_norms_far_out(void)
{
    static const struct { float size, epsilon; int equal; } row[] = {
        { 1, 1e-5f, 0 }, { 1e18f, 1e-5f, 0 }, { 3e19f, 1e-5f, 0 }, { 1e20f, 1e-5f, 0 }, { 1e30f, 1e-5f, 0 }, { 3.4e38f, 1e-5f, 0 },
        { 3.4e38f, 1e-5f, 1 }, { 1e20f, 1e38f, 0 }, { 1e-20f, 1e-5f, 0 }, { 1e-20f, 1e-45f, 0 }, { 1e-25f, 1e-40f, 0 },
        { 1e-30f, 1e-36f, 0 }, { 0, 1e-45f, 0 }
    };
    static const int sizes[] = { 1, 2, 4, 17, FAR_MOST };
    for (int set = 0; set < KERNEL_SETS; set++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            fold_model *m = kernel_set_model(kernel_set[set]);
            if (!m) continue;
            const fold_param p[2] = { fold_gain_new(m, "g", sizes[k]), fold_bias_new(m, "b", sizes[k]) };
            check_random r = { 8 };
            random_fill(&r, fold_values_write_begin(m, p[0]), (size_t)sizes[k], 0.5f, 1.5f);
            fold_values_write_end(m, p[0]);
            for (size_t i = 0; i < sizeof row / sizeof *row; i++)
                if (!row[i].equal || sizes[k] <= 4) /* of powers of two the mean is exact */
                    check_norm_far(m, kernel_set[set], p, sizes[k], row[i].size, row[i].epsilon, row[i].equal);
            fold_model_free(m);
        }
}

/* Products of matrices that lie apart, starting from others that do: the rows of each are those of vectors, and the sums of a
   training are those of the eager context. */
static void test_matrices_apart(void)
{
    enum { IN = 18, OUT = 20, ROWS = 4, TIMES = 5, ALL = IN * OUT };
    check_random random = { 77 };
    float x[ROWS * IN], start[ROWS * OUT], got[2][2 * OUT], row[OUT], grad[2][ALL];
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", IN, OUT);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        desc.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &desc);
        fold_node y[TIMES], apart[2], loss[TIMES];
        fold_grads_clear(m);
        random.state = 77;
        for (int i = 0; i < TIMES; i++) {
            random_fill(&random, x, ROWS * IN, -1, 1);
            random_fill(&random, start, ROWS * OUT, -1, 1);
            const fold_node all = fold_tanh(f, fold_input_shaped(f, x, fold_shape2(ROWS, IN)));
            const fold_node from = fold_tanh(f, fold_input_shaped(f, start, fold_shape2(ROWS, OUT)));
            const fold_node two = fold_slice(f, from, 0, 1, 2), read = i % 2 ? fold_slice(f, all, 0, 2, 2) : fold_slice(f, all, 0, 0, 2);
            y[i] = fold_linear_then(f, two, read, W);
            loss[i] = fold_sum(f, fold_square(f, y[i]), FOLD_ALL);
            loss[i] = fold_add(f, loss[i], fold_sum(f, fold_linear_then(f, from, all, W), FOLD_ALL)); /* not apart */
            fold_keep(f, y[i]);
            if (i != TIMES - 1) continue;
            for (int k = 0; k < 2; k++) {
                const fold_node one = fold_reshape(f, fold_slice(f, two, 0, k, 1), fold_shape1(OUT));
                apart[k] = fold_linear_then(f, one, fold_reshape(f, fold_slice(f, read, 0, k, 1), fold_shape1(IN)), W);
                fold_keep(f, apart[k]);
            }
        }
        CHECK_INT(fold_run(f, apart, 2), FOLD_OK);
        CHECK_INT(fold_backward(f, fold_mean_n(f, loss, TIMES)), FOLD_OK);
        memcpy(grad[eager], fold_param_grad(m, W), sizeof grad[eager]);
        CHECK_INT(fold_read(f, &y[TIMES - 1], 1, got[eager]), FOLD_OK);
        for (int k = 0; k < 2; k++) {
            CHECK_INT(fold_read(f, &apart[k], 1, row), FOLD_OK);
            CHECK_BITS(row, got[eager] + k * OUT, OUT);
        }
        fold_ctx_free(f);
    }
    CHECK_BITS(got[0], got[1], 2 * OUT);
    CHECK_BITS(grad[0], grad[1], ALL);
    fold_model_free(m);
}

/* A gradient in parts that are many small ones beside a large one far behind them: pieces that no mask of 64 holds. */
static void test_parts_far_apart(void)
{
    enum { WIDTH = 128 };
    check_random random = { 99 };
    float x[WIDTH], grad[2][WIDTH];
    random_fill(&random, x, WIDTH, -1, 1);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        fold_model *m = fold_model_new(NULL);
        desc.training = 1;
        desc.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &desc);
        const fold_node in = fold_input(f, x, WIDTH), y = fold_tanh(f, in);
        fold_node part[3];
        fold_keep_grad(f, in);
        part[0] = fold_sum(f, fold_square(f, fold_slice(f, y, 0, 96, 32)), FOLD_ALL);
        part[1] = fold_square(f, fold_slice(f, y, 0, 0, 1));
        part[2] = fold_square(f, fold_slice(f, y, 0, 1, 1));
        CHECK_INT(fold_backward(f, fold_sum_n(f, part, 3)), FOLD_OK);
        memcpy(grad[eager], fold_grad(f, in), sizeof grad[eager]);
        for (int i = 0; i < WIDTH; i++) {
            const double t = tanh((double)x[i]);
            CHECK_NEAR(grad[eager][i], i < 2 || i >= 96 ? 2 * t * (1 - t * t) : 0, 1e-5);
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
    CHECK_BITS(grad[0], grad[1], WIDTH);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int j = 0; rows[i].specs[j]; j++) test_case(&rows[i], rows[i].specs[j]);
    test_product_sizes();
    check_run("rows that gradients read", test_back_rows);
    check_run("matrices apart", test_matrices_apart);
    check_run("parts far apart", test_parts_far_apart);
    check_run("ties", test_ties);
    check_run("logsumexp far out", test_logsumexp_far);
    check_run("norms far out", test_norms_far_out);
    check_run("NaN and infinities", test_odd_rows);
    check_run("NaN in every operand", test_nan_in_operands);
    check_run("dropout of NaN", test_dropout_of_nan);
    check_run("kept gradients", test_kept_gradients);
    check_run("sums of many values", test_sums_of_many);
    check_run("softmax mean of many", test_softmax_mean_of_many);
    check_run("dropout", test_dropout);
    check_run("dropout in lists", test_list_dropout);
    check_run("bad shapes", test_bad_shapes);
    check_run("bad windows", test_bad_windows);
    check_run("bad arguments", test_bad_arguments);
    check_run("bad runs", test_bad_runs);
    return check_finish();
}
