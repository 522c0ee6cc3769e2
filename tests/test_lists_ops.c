/* test_lists_ops.c - every op of the table on lists: a list of n rows gives, bit for bit, what n single nodes
   give: values, gradients of its rows, of parameters and shared values. A node beside a list gets the sum of
   what its rows give, in their order. In every mode, with windows, in cells, by threads and instruction sets.
       cc -O2 -o test_lists_ops tests/test_lists_ops.c -lm && ./test_lists_ops */

#define FOLD__SHARED_WORK 4000 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "kernel_sets.h"
#define MAX_SAMPLES 320
#define POOL (1 << 21)
#include "op_table.h"

/* ---- rows as nodes of their own, and as lists ------------------------------------------------------ */

/* A recording has a list of each length; its rows are samples of the case, one list after the other. */
enum { LISTS = 5, BESIDE_NONE = 0, LARGE_ROW = 400, LARGEST_ROW = 1000, LARGEST = 1 << 21 };
#if defined(LONGEST_LIST)
enum { LONGEST = LONGEST_LIST };
#elif defined(__SANITIZE_ADDRESS__) /* much slower, and it has seen all in fewer rows */
enum { LONGEST = 20 };
#else
enum { LONGEST = 40 }; /* tests/all takes 300: more rows than a block of kernels has */
#endif
static int lengths[LISTS] = { 2, 0, 17, 1, LONGEST };

/* Many rows meet the limits on their number, and so do those of a few floats. The largest rows took a third of the time: of them
   tests/all has more. */
static void choose_lengths(const op_case *c)
{
    const int few = LONGEST <= 40 && c->stride > LARGEST_ROW;
    lengths[2] = few ? 7 : 17;
    lengths[LISTS - 1] = few ? 10 : c->stride > LARGE_ROW ? 30 : LONGEST;
}

static int first_row(int list)
{
    int first = 0;
    for (int i = 0; i < list; i++) first += lengths[i];
    return first;
}

/* A way to record a case: `how` of the table; `beside` has a bit for each operand that is one node beside the
   lists, with the values of their first row. Only lists [from, to). */
typedef struct way { int how, beside, from, to; } way;

static int is_own(const op_case *c, int k) { return !is_common(&c->in[k]) && !is(&c->in[k], "="); }
static int is_beside(const way *w, int k) { return w->beside >> k & 1; }
static int has_gradient(const op_case *c, int k) { return is_own(c, k) && !is(&c->in[k], "n"); }

/* Where the gradient of operand k's element e begins in the results of a row: its value comes first. */
static int place_of(const op_case *c, int k, int e)
{
    int at = c->out_size + e * c->in[k].size;
    for (int i = 0; i < k; i++)
        if (!is_common(&c->in[i])) at += c->in[i].count * c->in[i].size;
    return at;
}

static int floats_of_results(const op_case *c)
{
    int n = MAX_SAMPLES * c->stride;
    for (int k = 0; k < c->n_in; k++) n += is_common(&c->in[k]) ? c->in[k].size : 0;
    return n;
}

static float rows_pool[1 << 21]; /* what input_ref refers to */
static size_t rows_used;

static const float *gather_rows(const float *const *x, int n, int offset, int size)
{
    float *to = rows_pool + rows_used;
    rows_used += (size_t)(n * size);
    if (!CHECK_SAYS(rows_used <= sizeof rows_pool / sizeof *rows_pool, "the pool is too small")) exit(1);
    for (int i = 0; i < n; i++) memcpy(to + i * size, x[i] + offset, (size_t)size * sizeof *to);
    return to;
}

static fold_node record_list(fold_ctx *f, const op_case *c, int k, int e, int list, int how, fold_node *leaf)
{
    const operand *o = &c->in[k];
    const int n = lengths[list];
    const float *x = gather_rows(c->data[k] + first_row(list), n, e * o->size, o->size);
    if (how & WINDOWS) return in_a_window(f, o, *leaf = fold_list_input(f, x, n, fold_shape1(o->size)));
    return *leaf = is(o, "r") ? fold_list_input_ref(f, x, n, o->shape) : fold_list_input(f, x, n, o->shape);
}

/* The data of one row, or of all rows of a list (row < 0), as the operands of the next call. */
static void record_own(fold_ctx *f, op_case *c, int list, int row, const way *w, leaves leaf)
{
    const int first = first_row(list);
    c->variety = w->how & IN_CELL ? 0 : list;
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        const int sample = is_beside(w, k) ? first : first + row, alone = row >= 0 || is_beside(w, k);
        if (is(o, "=")) c->node[k][0] = c->node[0][0];
        if (!is_own(c, k)) continue;
        for (int e = 0; e < o->count; e++) {
            c->node[k][e] =
                alone ? record_operand(f, o, c->data[k][sample] + e * o->size, w->how, &leaf[k][e])
                      : record_list(f, c, k, e, list, w->how, &leaf[k][e]);
            if (!(w->how & INFERENCE) && has_gradient(c, k)) fold_keep_grad(f, leaf[k][e]);
        }
    }
}

/* Copies the gradients that arrived at the operands of a call with n rows (of a node: 1), the first of them
   `row`, to the results; without rows those of nodes beside the list must be zeros. */
static void read_own(fold_ctx *f, const op_case *c, int row, int n, int alone, const way *w, leaves leaf,
                     float *r)
{
    for (int k = 0; k < c->n_in; k++)
        for (int e = 0; e < c->in[k].count && has_gradient(c, k); e++) {
            const int size = c->in[k].size, there = alone || is_beside(w, k) ? 1 : n;
            const float *g = fold_grad(f, leaf[k][e]);
            if (!CHECK_SAYS(g, "no gradient of operand %d: %s", k, fold_ctx_message(f))) continue;
            for (int i = 0; i < size && there > n; i++) CHECK_SAYS(g[i] == 0, "a gradient from no rows");
            for (int i = 0; i < there && there <= n; i++)
                memcpy(r + (row + i) * c->stride + place_of(c, k, e), g + i * size, (size_t)size * sizeof *r);
        }
}

static void read_common(fold_ctx *f, const op_case *c, leaves leaf, float *r)
{
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        if (!is_common(o)) continue;
        const float *g = is_param(o) ? fold_param_grad(fold_ctx_model(f), c->param[k]) : fold_grad(f, leaf[k][0]);
        if (CHECK_SAYS(g, "no gradient of operand %d: %s", k, fold_ctx_message(f)))
            memcpy(r, g, (size_t)o->size * sizeof *r);
        r += o->size;
    }
}

/* Rows of a window do not lie end to end: fold_read copies them. */
static void read_value(fold_ctx *f, const op_case *c, fold_node y, int row, int n, float *r)
{
    static float value[LARGEST];
    const fold_shape shape = fold_node_shape(f, y);
    if (!CHECK_SAYS(!fold_read(f, &y, 1, value), "no value of %d rows: %s", n, fold_ctx_message(f))) return;
    CHECK(!memcmp(&shape, &c->out, sizeof shape));
    for (int i = 0; i < n; i++)
        memcpy(r + (row + i) * c->stride, value + i * c->out_size, (size_t)c->out_size * sizeof *r);
}

static int execute(fold_ctx *f, const way *w, const fold_node *y, const fold_node *loss, int n)
{
    const fold_status status = w->how & INFERENCE ? fold_run(f, y, n) : fold_backward(f, fold_sum_n(f, loss, n));
    return CHECK_SAYS(!status, "%s", fold_ctx_message(f));
}

static void begin(fold_ctx *f, op_case *c, const way *w, leaves common, float *r)
{
    rows_used = 0;
    memset(r, 0, (size_t)floats_of_results(c) * sizeof *r);
    fold_ctx_reset(f);
    fold_grads_clear(fold_ctx_model(f));
    record_operands(f, c, 1, 0, w->how, common);
}

/* Every row by a call of its own. */
static int run_singles(op_case *c, fold_ctx *f, const way *w, float *r)
{
    static leaves leaf[MAX_SAMPLES], common;
    static fold_node y[MAX_SAMPLES], loss[MAX_SAMPLES];
    int count = 0;
    begin(f, c, w, common, r);
    for (int list = w->from; list < w->to; list++)
        for (int i = 0; i < lengths[list]; i++, count++) {
            record_own(f, c, list, i, w, leaf[count]);
            fold_keep(f, y[count] = record_case(f, c, w->how));
            const float *weight = c->weight[first_row(list) + i];
            loss[count] = fold_dot(f, y[count], fold_input_shaped(f, weight, c->out));
        }
    if (!execute(f, w, y, loss, count)) return 0;
    for (int i = 0; i < count; i++) {
        read_value(f, c, y[i], first_row(w->from) + i, 1, r);
        if (!(w->how & INFERENCE)) read_own(f, c, first_row(w->from) + i, 1, 1, w, leaf[i], r);
    }
    if (!(w->how & INFERENCE)) read_common(f, c, common, r + MAX_SAMPLES * c->stride);
    return 1;
}

/* Every list by one call. */
static int run_lists(op_case *c, fold_ctx *f, const way *w, float *r)
{
    static leaves leaf[LISTS], common;
    fold_node y[LISTS], loss[LISTS];
    int count = 0;
    begin(f, c, w, common, r);
    for (int list = w->from; list < w->to; list++, count++) {
        const int n = lengths[list];
        record_own(f, c, list, -1, w, leaf[count]);
        fold_keep(f, y[count] = record_case(f, c, w->how));
        CHECK_INT(fold_list_length(f, y[count]), n);
        const float *weights = gather_rows(c->weight + first_row(list), n, 0, c->out_size);
        loss[count] = fold_list_sum(f, fold_dot(f, y[count], fold_list_input(f, weights, n, c->out)));
    }
    if (!execute(f, w, y, loss, count)) return 0;
    for (int i = 0; i < count; i++) {
        const int list = w->from + i;
        read_value(f, c, y[i], first_row(list), lengths[list], r);
        if (!(w->how & INFERENCE)) read_own(f, c, first_row(list), lengths[list], 0, w, leaf[i], r);
    }
    if (!(w->how & INFERENCE)) read_common(f, c, common, r + MAX_SAMPLES * c->stride);
    return 1;
}

/* ---- what must be the same ---------------------------------------------------------------------------- */

static float want[LARGEST], got[LARGEST], merged[LARGEST];

/* What single rows gave to copies of a node becomes the gradient of the one node beside their list: their sum in
   row order, from zero, at the list's first row. */
static void sum_beside(const op_case *c, const way *w, float *r)
{
    for (int k = 0; k < c->n_in; k++)
        for (int e = 0; e < c->in[k].count * c->in[k].size && is_beside(w, k); e++)
            for (int list = w->from; list < w->to; list++) {
                float sum = 0;
                for (int i = 0; i < lengths[list]; i++) {
                    float *part = r + (first_row(list) + i) * c->stride + place_of(c, k, 0) + e;
                    sum = sum + *part;
                    *part = 0;
                }
                if (lengths[list]) r[first_row(list) * c->stride + place_of(c, k, 0) + e] = sum;
            }
}

/* Gain and bias of norms are summed by blocks of rows: another recording may give them other last bits. */
static void compare_common(const op_case *c, const char *name, const way *w, const float *a, const float *b)
{
    for (int k = 0; k < c->n_in; k++) {
        const int size = is_common(&c->in[k]) ? c->in[k].size : 0;
        for (int i = 0; i < size; i++) {
            const int near = strstr(c->row->name, "_norm") && k > 0 &&
                             fabs((double)(a[i] - b[i])) <= 1e-5 * (1 + fabs((double)b[i]));
            if (!CHECK_SAYS(near || !memcmp(a + i, b + i, sizeof *a),
                            "%s%s, beside %d: gradient %d of operand %d is %.9g, by single nodes %.9g", name,
                            w->how & IN_CELL ? ", in a cell" : "", w->beside, i, k, (double)a[i], (double)b[i]))
                break;
        }
        a += size;
        b += size;
    }
}

static void compare_rows(const op_case *c, const char *name, const way *w, const float *a, const float *b)
{
    const int from = first_row(w->from) * c->stride, to = first_row(w->to) * c->stride;
    int at = from;
    while (at < to && !memcmp(a + at, b + at, sizeof *a)) at++;
    CHECK_SAYS(at == to, "%s%s%s%s, beside %d: row %d, float %d of %d (%d of the value) is %.9g, alone %.9g",
               name, w->how & WINDOWS ? ", windows" : "", w->how & IN_CELL ? ", in a cell" : "",
               w->how & INFERENCE ? ", inference" : "", w->beside, at / c->stride, at % c->stride, c->stride,
               c->out_size, (double)a[at], (double)b[at]);
}

/* Lists in one context against `want`. */
static void same_as_singles(op_case *c, fold_ctx *f, const char *name, const way *w)
{
    if (!run_lists(c, f, w, got)) {
        printf("    in mode '%s'\n", name);
        return;
    }
    compare_rows(c, name, w, got, want);
    if (!(w->how & INFERENCE) && w->to - w->from == LISTS)
        compare_common(c, name, w, got + MAX_SAMPLES * c->stride, want + MAX_SAMPLES * c->stride);
}

/* A shared value or a parameter taken as a value is a node beside each list: the sum of a list's rows is one
   contribution. The right factor of a matmul is a weight, whose gradient sums all rows, and so does what the ops
   of a cell's body take, but for the input of a product. */
static int is_summed_by_lists(const op_case *c, int k, const way *w)
{
    const int factor = !strcmp(c->row->name, "matmul") && k == 1, product = !strcmp(c->row->name, "linear");
    if (is(&c->in[k], "p") && factor) return 0;
    return is(&c->in[k], "sS") || (is(&c->in[k], "pq") && (product || !(w->how & IN_CELL)));
}
static void sum_shared(op_case *c, fold_ctx *f, const way *w)
{
    int any = 0;
    for (int k = 0; k < c->n_in; k++) any |= is_summed_by_lists(c, k, w);
    for (int list = w->from; list < w->to && any; list++) {
        const way alone = { w->how, w->beside, list, list + 1 };
        float *to = want + MAX_SAMPLES * c->stride, *from = got + MAX_SAMPLES * c->stride;
        if (lengths[list] && !run_singles(c, f, &alone, got)) return;
        for (int k = 0; k < c->n_in; k++) {
            const int size = is_common(&c->in[k]) ? c->in[k].size : 0;
            for (int i = 0; i < size && is_summed_by_lists(c, k, w); i++)
                to[i] = (list > w->from ? to[i] : 0) + (lengths[list] ? from[i] : 0);
            to += size;
            from += size;
        }
    }
}

/* Ops in a row, of which the first may be of nodes alone and then runs once: eager lists tell what is wanted. */
static int is_composed(const op_case *c) { return !strcmp(c->row->name, "linear") && c->attr[0] == 2; }

static int singles(op_case *c, fold_ctx *f, const way *w)
{
    if (w->beside && is_composed(c)) {
        fold_ctx *eager = new_ctx(fold_ctx_model(f), &modes[1], 1);
        const int played = run_lists(c, eager, w, want);
        fold_ctx_free(eager);
        return played;
    }
    const int ran = run_singles(c, f, w, want);
    if (ran) sum_beside(c, w, want);
    if (ran && !(w->how & INFERENCE)) sum_shared(c, f, w);
    return ran;
}

/* Merging changes the order of sums over samples: what is common is compared among contexts that merge. */
static void in_merging_modes(op_case *c, fold_ctx **f, const way *w)
{
    const float *kept = want + MAX_SAMPLES * c->stride;
    const size_t bytes = (size_t)(floats_of_results(c) - MAX_SAMPLES * c->stride) * sizeof *want;
    static float common[LARGEST];
    memcpy(common, kept, bytes);
    for (int i = 0, seen = 0; i < N_MODES; i++) {
        if (!modes[i].dedupe) continue;
        if (!seen++ && run_lists(c, f[i], w, merged))
            memcpy(want + MAX_SAMPLES * c->stride, merged + MAX_SAMPLES * c->stride, bytes);
        same_as_singles(c, f[i], modes[i].name, w);
    }
    memcpy(want + MAX_SAMPLES * c->stride, common, bytes);
}

/* Other schedules put a node beside lists into batches of its own as well: they are only asked without one. */
static void in_every_mode(op_case *c, fold_ctx **f, const way *w)
{
    if (!singles(c, f[0], w)) return;
    for (int i = 0; i < N_MODES; i++)
        if (!modes[i].dedupe && (!w->beside || modes[i].schedule == FOLD_SCHEDULE_RATIO))
            same_as_singles(c, f[i], modes[i].name, w);
    in_merging_modes(c, f, w);
}

/* Each list alone has the bits it has in company. */
static void lists_alone(op_case *c, fold_ctx **f)
{
    for (int list = 0; list < LISTS; list++) {
        const way w = { 0, BESIDE_NONE, list, list + 1 };
        same_as_singles(c, f[0], "alone", &w);
    }
}

static void by_threads(op_case *c, fold_model *m, const way *w)
{
    for (int threads = 2; threads <= 4; threads++)
        for (int one_group = 0; one_group < 2; one_group++) {
            const mode how = { "threads", 0, 0, FOLD_SCHEDULE_RATIO, one_group ? SIZE_MAX : 1, threads };
            fold_ctx *f = new_ctx(m, &how, 1);
            same_as_singles(c, f, one_group ? "threads, one group" : "threads, groups", w);
            fold_ctx_free(f);
        }
}

static void in_inference(op_case *c, fold_model *m)
{
    const way w = { INFERENCE, BESIDE_NONE, 0, LISTS };
    for (int i = 0; i < 3; i++) {
        fold_ctx *f = new_ctx(m, &modes[i], 0);
        if (i || singles(c, f, &w)) same_as_singles(c, f, modes[i].name, &w);
        fold_ctx_free(f);
    }
}

#ifdef FOLD_REPRODUCIBLE
enum { PORTABLE_MATCHES = 1 };
#else
enum { PORTABLE_MATCHES = 0 };
#endif

/* Instruction sets with FMA give the bits of the best; the portable one those of its own single nodes. */
static void on_other_machines(const op_case *original, const char *best)
{
    const way w = { 0, BESIDE_NONE, 0, LISTS };
    op_case here = *original, *c = &here; /* has the other models' handles */
    for (int i = KERNEL_SETS - 1; i >= 0; i--) {
        fold_model *m = strcmp(best, kernel_set[i]) ? kernel_set_model(kernel_set[i]) : NULL;
        if (!m) continue;
        add_params(c, m);
        for (int eager = 0; eager < 2; eager++) {
            fold_ctx *f = new_ctx(m, &modes[eager], 1);
            if (!PORTABLE_MATCHES && !eager && !strcmp(kernel_set[i], "portable")) singles(c, f, &w);
            same_as_singles(c, f, kernel_set[i], &w);
            fold_ctx_free(f);
        }
        fold_model_free(m);
    }
}

/* ---- a case, every way it can run ------------------------------------------------------------------------- */

/* An element-wise op takes no node of more axes than the rows beside it. */
static int is_wider(const op_case *c, int beside)
{
    static const char *const names[] = { "add", "sub", "mul", "div", "minimum", "maximum" };
    for (int i = 0; i < 6; i++)
        if (!strcmp(c->row->name, names[i]))
            return c->in[beside == 1 ? 0 : 1].shape.rank > c->in[beside == 1 ? 1 : 0].shape.rank;
    return 0;
}

/* Each operand as a node beside the others' lists, and as the one list beside the others. */
static void with_nodes_beside(op_case *c, fold_ctx **f, int how)
{
    int own = 0, all = 0;
    for (int k = 0; k < c->n_in; k++) {
        own += is_own(c, k);
        all |= is_own(c, k) << k;
    }
    for (int k = 0; k < c->n_in && own > 1; k++)
        for (int others = 0; others < (own > 2 ? 2 : 1) && is_own(c, k); others++) {
            const way w = { how, others ? all & ~(1 << k) : 1 << k, 0, LISTS };
            if (how & IN_CELL || !is_wider(c, w.beside)) in_every_mode(c, f, &w);
        }
}

/* A null operand beside lists is an error of its own call. */
static void with_null(op_case *c, fold_ctx *f)
{
    static leaves leaf, common;
    const way w = { 0, BESIDE_NONE, 0, LISTS };
    const fold_node null = { 0, 0 };
    for (int k = 0; k < c->n_in; k++) {
        if (!is_own(c, k) || !strcmp(c->row->name, "identity")) continue; /* which is no call */
        begin(f, c, &w, common, got);
        record_own(f, c, 2, -1, &w, leaf);
        c->node[k][0] = null;
        CHECK(fold_node_is_null(record_case(f, c, 0)));
        CHECK_TEXT(fold_ctx_message(f), " is the null node");
        CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
    }
    begin(f, c, &w, common, got);
    record_own(f, c, 2, -1, &w, leaf);
    CHECK_INT(fold_list_length(f, record_case(f, c, 0)), lengths[2]);
}

static void in_every_way(op_case *c, fold_model *m, fold_ctx **f)
{
    const way plain = { 0, BESIDE_NONE, 0, LISTS }, windows = { WINDOWS, BESIDE_NONE, 0, LISTS };
    const way in_cell = { IN_CELL, BESIDE_NONE, 0, LISTS };
    in_every_mode(c, f, &plain);
    by_threads(c, m, &plain);
    lists_alone(c, f);
    on_other_machines(c, fold_model_isa(m));
    for (int i = 0; i < 2; i++)
        if (i || singles(c, f[0], &windows)) same_as_singles(c, f[i], modes[i].name, &windows);
    in_inference(c, m);
    with_nodes_beside(c, f, 0);
    with_null(c, f[0]);
    if (!make_cell(c, m)) return;
    in_every_mode(c, f, &in_cell);
    with_nodes_beside(c, f, IN_CELL);
}

/* Ops over nodes in any number have no lists among them, and sources have no operands. */
static int takes_lists(const op_case *c)
{
    int own = 0;
    for (int k = 0; k < c->n_in; k++) {
        if (is_list(&c->in[k])) return 0;
        own += is_own(c, k);
    }
    return own > 0;
}

static void test_case(const op_row *row, const char *spec)
{
    static op_case c;
    fold_ctx *f[N_MODES];
    char name[160];
    parse(&c, row, spec);
    snprintf(name, sizeof name, "lists: %s: %s", row->name, spec);
    if (!takes_lists(&c) || !check_begin(name)) return;
    choose_lengths(&c);
    fill(&c);
    fold_model *m = fold_model_new(NULL);
    add_params(&c, m);
    for (int i = 0; i < N_MODES; i++) f[i] = new_ctx(m, &modes[i], 1);
    if (CHECK(floats_of_results(&c) <= LARGEST)) in_every_way(&c, m, f);
    for (int i = 0; i < N_MODES; i++) fold_ctx_free(f[i]);
    fold_model_free(m);
    check_end();
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int j = 0; rows[i].specs[j]; j++) test_case(&rows[i], rows[i].specs[j]);
    return check_finish();
}
