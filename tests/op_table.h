/* op_table.h - the ops as data: how each is recorded, its reference by reference.h, and the shapes it is tested on. Whoever tests all ops does so by this table, so that a new op comes under all of these tests.
   Include it behind fold.h and check.h. MAX_SAMPLES and POOL may be set before. */

#ifndef OP_TABLE_H
#define OP_TABLE_H

#include "reference.h"
#include <stdlib.h>
#include <string.h>

#ifndef MAX_SAMPLES
#define MAX_SAMPLES 33
#endif
#ifndef POOL
#define POOL (1 << 18) /* floats: the data of all samples of a case */
#endif

/* ---- the table's form ----------------------------------------------------------------------
   A case is an op's row and one spec: the operands, then "-> shape" (else the first operand's), then "@" and
   attributes. An operand is [count*][kind]shape; "*" without a count is a list of 0 to 20 elements, varying
   from sample to sample. Without a kind it is an input of the sample. Kinds:
     r  input_ref                     s  one input shared by all samples     S  a shared op's result
     =  operand 0 once more           z  an input that gets no gradient      c  a condition, no gradient
     t  a distribution, no gradient   k  between 0 and 1, no gradient        n  its gradient is not asked for
     W V E F b  parameters, by handle: of linear, linear_t, lookup and convolutions, a vector
     p q      parameters, by fold_use: as by default, and a table for lookups */

enum { MAX_IN = 8, MAX_LIST = 40 };
enum { NO_CELL = 1, NOT_EMPTY = 2 }; /* of rows: not for cell bodies; lists have 1 to 20 elements */

typedef struct op_case op_case;
typedef struct op_row {
    const char *name;
    fold_node (*record)(fold_ctx *f, const op_case *c);
    int (*reference)(ref_tape *t, const op_case *c); /* of the values on the tape; the result's place there */
    const char *const *specs;
    float low, high;       /* range of the inputs */
    int flags;
    const fold_op_desc *user;
} op_row;

typedef struct operand { char kind; int count, size; fold_shape shape; } operand;

struct op_case {
    const op_row *row;
    int n_in, attr[4];
    operand in[MAX_IN];
    fold_shape out;
    int out_size, stride;                    /* floats of a sample's results */
    const float *data[MAX_IN][MAX_SAMPLES];  /* common operands: the same for all samples */
    const float *weight[MAX_SAMPLES];        /* the loss is the sum of dot(weight, output) */
    fold_param param[MAX_IN];
    fold_op op;
    fold_cell cell;
    /* of the sample being recorded or computed */
    int variety;                             /* what per-call data (labels, indices, factors) derives from */
    int count, in_cell;                      /* length of its lists */
    fold_node node[MAX_IN][MAX_LIST];
    int value[MAX_IN][MAX_LIST]; /* on the tape of its reference */
};
typedef fold_node leaves[MAX_IN][MAX_LIST];  /* where the gradients of a sample's operands arrive */

static int is(const operand *o, const char *kinds) { return o->kind && strchr(kinds, o->kind); }
static int size_of(const op_case *c, int k) { return c->in[k].size; }

/* ---- recording and references, op by op ---------------------------------------------------- */

#define RECORD(name, call) \
    static fold_node record_##name(fold_ctx *f, const op_case *c) { (void)f; return call; }
#define REFERENCE(name, call) \
    static int reference_##name(ref_tape *t, const op_case *c) { (void)t, (void)c; return call; }
#define X(k) c->node[k][0]
#define V(k) c->value[k][0]

/* An operand's elements as a list. */
static int list_of(ref_tape *t, const op_case *c, int k)
{
    return ref_join(t, c->value[k], c->count, ref_shape_of(c->in[k].shape.rank, c->in[k].shape.dim));
}

#define UNARY(name)                                                                                       \
    RECORD(name, fold_##name(f, X(0)))                                                                    \
    REFERENCE(name, ref_of(t, REF_##name, V(0)))
UNARY(neg)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(square)
UNARY(abs)
UNARY(sigmoid)
UNARY(tanh)
UNARY(relu)
UNARY(gelu_tanh)
UNARY(softplus)
UNARY(stop_gradient)
UNARY(gelu)
UNARY(silu)
UNARY(sin)
UNARY(cos)
UNARY(floor)
UNARY(softmax)
UNARY(log_softmax)

#define BINARY(name)                                                                                      \
    RECORD(name, fold_##name(f, X(0), X(1)))                                                              \
    REFERENCE(name, ref_of_two(t, REF_##name, V(0), V(1)))
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(minimum)
BINARY(maximum)
BINARY(matmul)
BINARY(dot)
BINARY(softmax_kl)
BINARY(bce)
BINARY(squared_error)

/* The second value is the sample's own: data, not structure. */
static float factor(const op_case *c) { return 0.5f + 0.25f * (float)c->variety; }
static float hundredth(const op_case *c) { return (float)c->attr[0] / 100.0f; }
#define WITH_NUMBER(name, number)                                                                         \
    RECORD(name, fold_##name(f, X(0), number))                                                            \
    REFERENCE(name, ref_with(t, REF_##name, V(0), (double)(number)))
WITH_NUMBER(scale, factor(c))
WITH_NUMBER(shift, factor(c))
WITH_NUMBER(leaky_relu, hundredth(c))
WITH_NUMBER(elu, hundredth(c))
WITH_NUMBER(pow, hundredth(c))
RECORD(clip, fold_clip(f, X(0), hundredth(c), (float)c->attr[1] / 100.0f))
static int reference_clip(ref_tape *t, const op_case *c)
{
    ref_attr a = ref_attrs((double)hundredth(c), 0, 0, 0, 0);
    a.z = (double)((float)c->attr[1] / 100.0f);
    return ref_apply(t, REF_clip, &a, &V(0), 1);
}
RECORD(huber, fold_huber(f, X(0), X(1), hundredth(c)))
static int reference_huber(ref_tape *t, const op_case *c)
{
    const int in[2] = { V(0), V(1) };
    const ref_attr a = ref_attrs((double)hundredth(c), 0, 0, 0, 0);
    return ref_apply(t, REF_huber, &a, in, 2);
}
RECORD(select, fold_select(f, X(0), X(1), X(2)))
static int reference_select(ref_tape *t, const op_case *c)
{
    const int in[3] = { V(0), V(1), V(2) };
    return ref_apply(t, REF_select, NULL, in, 3);
}

/* Products. linear: segments of x, then W and perhaps b; attribute 1: through a concat, 2: one after the other. */
static int first_param(const op_case *c)
{
    int k = 0;
    while (!is(&c->in[k], "WV")) k++;
    return k;
}
static int gather_nodes(const op_case *c, int operands, fold_node *all)
{
    int n = 0;
    for (int k = 0; k < operands; k++)
        for (int i = 0; i < c->in[k].count; i++) all[n++] = c->node[k][i];
    return n;
}
static int gather_values(const op_case *c, int operands, int *all)
{
    int n = 0;
    for (int k = 0; k < operands; k++)
        for (int i = 0; i < c->in[k].count; i++) all[n++] = c->value[k][i];
    return n;
}
static fold_node record_linear(fold_ctx *f, const op_case *c)
{
    fold_node x[MAX_IN * MAX_LIST];
    const int w = first_param(c), n = gather_nodes(c, w, x);
    const fold_param none = { 0, 0 }, b = w + 1 < c->n_in ? c->param[w + 1] : none;
    if (c->in[w].kind == 'V') return fold_linear_t(f, n > 1 ? fold_concat(f, x, n, 0) : x[0], c->param[w], b);
    if (c->attr[0] == 2) return fold_linear_then(f, fold_linear_first(f, x[0], c->param[w], b), x[1], c->param[w]);
    if (c->attr[0]) return fold_linear(f, fold_concat(f, x, n, 0), c->param[w], b);
    return n > 1 ? fold_linear_n(f, x, n, c->param[w], b) : fold_linear(f, x[0], c->param[w], b);
}
static int reference_linear(ref_tape *t, const op_case *c)
{
    int x[MAX_IN * MAX_LIST];
    const int w = first_param(c), n = gather_values(c, w, x);
    return ref_linear(t, x, n, V(w), w + 1 < c->n_in ? V(w + 1) : -1, c->in[w].kind == 'V');
}

/* Windows: attributes of conv are stride, padding, dilation and whether it is depthwise, of pools size, stride
   and padding. */
static fold_node record_conv(fold_ctx *f, const op_case *c)
{
    const fold_param none = { 0, 0 }, b = c->n_in > 2 ? c->param[2] : none;
    const fold_conv_desc desc = { c->attr[0], c->attr[1], c->attr[2], c->attr[3] };
    const fold_conv_desc *given = c->attr[0] ? &desc : NULL;
    return c->in[0].shape.rank == 2 ? fold_conv1d(f, X(0), c->param[1], b, given)
                                    : fold_conv2d(f, X(0), c->param[1], b, given);
}
static int reference_conv(ref_tape *t, const op_case *c)
{
    const int in[3] = { V(0), V(1), V(2) }, *n = c->attr;
    const ref_attr a = ref_attrs(0, n[0] ? n[0] : 1, n[1], n[2] ? n[2] : 1, n[3]);
    return ref_apply(t, REF_conv, &a, in, c->n_in);
}
static fold_node record_max_pool(fold_ctx *f, const op_case *c)
{
    return c->in[0].shape.rank == 2 ? fold_max_pool1d(f, X(0), c->attr[0], c->attr[1], c->attr[2])
                                    : fold_max_pool2d(f, X(0), c->attr[0], c->attr[1], c->attr[2]);
}
static fold_node record_mean_pool(fold_ctx *f, const op_case *c)
{
    return c->in[0].shape.rank == 2 ? fold_mean_pool1d(f, X(0), c->attr[0], c->attr[1], c->attr[2])
                                    : fold_mean_pool2d(f, X(0), c->attr[0], c->attr[1], c->attr[2]);
}
static int reference_pool(ref_tape *t, const op_case *c, int op)
{
    const ref_attr a = ref_attrs(0, c->attr[1] ? c->attr[1] : c->attr[0], c->attr[2], 1, c->attr[0]);
    return ref_apply(t, op, &a, &V(0), 1);
}
REFERENCE(max_pool, reference_pool(t, c, REF_max_pool))
REFERENCE(mean_pool, reference_pool(t, c, REF_mean_pool))

/* Over an axis, or all. */
#define REDUCTION(name)                                                                                   \
    RECORD(name, fold_##name(f, X(0), c->attr[0]))                                                        \
    REFERENCE(name, ref_along(t, REF_##name, V(0), c->attr[0] == FOLD_ALL ? REF_ALL : c->attr[0]))
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(amax)
REDUCTION(amin)
REDUCTION(logsumexp)
REDUCTION(prod)
REDUCTION(variance)
REDUCTION(cumsum)

/* Epsilon in thousandths, or the default. */
static float epsilon_of(const op_case *c) { return (float)c->attr[0] / 1000.0f; }
RECORD(layer_norm, fold_layer_norm(f, X(0), c->param[1], c->param[2], epsilon_of(c)))
RECORD(rms_norm, fold_rms_norm(f, X(0), c->param[1], epsilon_of(c)))
REFERENCE(layer_norm, ref_norm_by(t, V(0), V(1), V(2), (double)epsilon_of(c)))
REFERENCE(rms_norm, ref_norm_by(t, V(0), V(1), -1, (double)epsilon_of(c)))

/* Over lists; in a cell body by the reductions of a list cell. */
#define ELEMENTS c->node[0], (size_t)c->count
RECORD(sum_n, c->in_cell ? fold_list_sum(f, X(0)) : c->count ? fold_sum_n(f, ELEMENTS) : fold_zeros(f, c->out))
RECORD(mean_n, c->in_cell ? fold_list_mean(f, X(0)) : c->count ? fold_mean_n(f, ELEMENTS)
                                                               : fold_zeros(f, c->out))
RECORD(max_n, c->in_cell ? fold_list_max(f, X(0)) : fold_max_n(f, ELEMENTS))
RECORD(softmax_mean_n, c->in_cell ? fold_list_softmax_mean(f, X(0), X(1))
                      : c->count ? fold_softmax_mean_n(f, c->node[0], c->node[1], c->count) : fold_zeros(f, c->out))
REFERENCE(sum_n, ref_of(t, REF_list_sum, list_of(t, c, 0)))
REFERENCE(mean_n, ref_of(t, REF_list_mean, list_of(t, c, 0)))
REFERENCE(max_n, ref_of(t, REF_list_max, list_of(t, c, 0)))
static int reference_softmax_mean_n(ref_tape *t, const op_case *c)
{
    const int scores = list_of(t, c, 0);
    return ref_of_two(t, REF_list_softmax_mean, scores, list_of(t, c, 1));
}

/* Gates over a list: q's sum, and sum, mean or max (attribute) over k of sigmoid([q | x_k] W + b) * x_k. */
static fold_node gate(fold_ctx *f, const op_case *c, fold_node element)
{
    const fold_node x[2] = { X(0), element };
    return fold_mul(f, fold_sigmoid(f, fold_linear_n(f, x, 2, c->param[2], c->param[3])), element);
}
static fold_node record_gates(fold_ctx *f, const op_case *c)
{
    fold_node y[MAX_LIST], reduced;
    const int how = c->attr[0], body = c->in_cell;
    const size_t n = body ? 1 : (size_t)c->count;
    for (size_t i = 0; i < n; i++) y[i] = gate(f, c, c->node[1][i]);
    if (!n) reduced = fold_zeros(f, c->out);
    else if (how == 0) reduced = body ? fold_list_sum(f, y[0]) : fold_sum_n(f, y, (int)n);
    else if (how == 1) reduced = body ? fold_list_mean(f, y[0]) : fold_mean_n(f, y, (int)n);
    else reduced = body ? fold_list_max(f, y[0]) : fold_max_n(f, y, (int)n);
    return fold_add(f, reduced, fold_sum(f, X(0), 0));
}
static int reference_gates(ref_tape *t, const op_case *c)
{
    static const int how[] = { REF_list_sum, REF_list_mean, REF_list_max };
    const int x[2] = { V(0), list_of(t, c, 1) };
    const int open = ref_of(t, REF_sigmoid, ref_linear(t, x, 2, V(2), V(3), 0));
    const int reduced = ref_of(t, how[c->attr[0]], ref_of_two(t, REF_mul, open, x[1]));
    return ref_of_two(t, REF_add, reduced, ref_along(t, REF_sum, V(0), 0));
}

/* Lists of two to four components: the sum over k of the products of all components. */
static fold_node product_of_components(fold_ctx *f, const op_case *c, size_t element)
{
    fold_node x = c->node[0][element];
    for (int k = 1; k < c->n_in; k++) x = fold_mul(f, x, c->node[k][element]);
    return x;
}
static fold_node record_components(fold_ctx *f, const op_case *c)
{
    fold_node x[MAX_LIST];
    const size_t n = c->in_cell ? 1 : (size_t)c->count;
    for (size_t i = 0; i < n; i++) x[i] = product_of_components(f, c, i);
    return c->in_cell ? fold_list_sum(f, x[0]) : n ? fold_sum_n(f, x, (int)n) : fold_zeros(f, c->out);
}
static int reference_components(ref_tape *t, const op_case *c)
{
    int x = list_of(t, c, 0);
    for (int k = 1; k < c->n_in; k++) x = ref_of_two(t, REF_mul, x, list_of(t, c, k));
    return ref_of(t, REF_list_sum, x);
}

/* Moving values. */
static fold_node record_concat(fold_ctx *f, const op_case *c)
{
    fold_node x[MAX_IN * MAX_LIST];
    const int n = gather_nodes(c, c->n_in, x);
    return n == 2 && c->attr[0] == 0 ? fold_concat2(f, x[0], x[1]) : fold_concat(f, x, n, c->attr[0]);
}
static int reference_concat(ref_tape *t, const op_case *c)
{
    int x[MAX_IN * MAX_LIST];
    const int n = gather_values(c, c->n_in, x);
    return ref_concat(t, x, n, c->attr[0]);
}
RECORD(slice, fold_slice(f, X(0), c->attr[0], c->attr[1], c->attr[2]))
REFERENCE(slice, ref_slice(t, V(0), c->attr[0], c->attr[1], c->attr[2]))
/* Several windows at once: first * last + middle. */
static fold_node record_split(fold_ctx *f, const op_case *c)
{
    fold_node part[64];
    const int n = c->attr[0];
    fold_split(f, X(0), n, part);
    return fold_add(f, fold_mul(f, part[0], part[n - 1]), part[n / 2]);
}
static int reference_split(ref_tape *t, const op_case *c)
{
    const int n = c->attr[0], length = c->in[0].shape.dim[0] / n;
    const int first = ref_slice(t, V(0), 0, 0, length), last = ref_slice(t, V(0), 0, (n - 1) * length, length);
    const int product = ref_of_two(t, REF_mul, first, last);
    return ref_of_two(t, REF_add, product, ref_slice(t, V(0), 0, n / 2 * length, length));
}
RECORD(reshape, fold_reshape(f, X(0), c->out))
REFERENCE(reshape, ref_reshape(t, V(0), ref_shape_of(c->out.rank, c->out.dim)))
RECORD(identity, X(0))
REFERENCE(identity, ref_of(t, REF_copy, V(0)))
RECORD(transpose, fold_transpose(f, X(0), c->attr[0], c->attr[1]))
REFERENCE(transpose, ref_transpose(t, V(0), c->attr[0], c->attr[1]))
static int some_index(const op_case *c, int n) { return (c->variety * 5 + 2) % n; }
static const int *index_on(ref_tape *t, int index)
{
    int *at = ref_ints(t, 1);
    *at = index;
    return at;
}
RECORD(pick, fold_pick(f, X(0), some_index(c, size_of(c, 0)) - (c->variety % 2 ? size_of(c, 0) : 0)))
REFERENCE(pick, ref_pick(t, REF_pick, V(0), index_on(t, some_index(c, size_of(c, 0))), 1))
RECORD(lookup, fold_lookup(f, c->param[0], some_index(c, c->in[0].shape.dim[0])))
REFERENCE(lookup, ref_take(t, V(0), index_on(t, some_index(c, c->in[0].shape.dim[0])), 1, 1))
RECORD(constant, fold_constant(f, factor(c)))
static int reference_constant(ref_tape *t, const op_case *c)
{
    const double x = (double)factor(c);
    return ref_input(t, ref_shape1(1), REF_NODE, &x);
}
RECORD(one_hot, fold_one_hot(f, some_index(c, c->out_size), c->out_size))
static int reference_one_hot(ref_tape *t, const op_case *c)
{
    const int x = ref_input(t, ref_shape1(c->out_size), REF_NODE, NULL);
    t->value[x].v[some_index(c, c->out_size)] = 1;
    return x;
}
RECORD(zeros, fold_zeros(f, c->out))
REFERENCE(zeros, ref_input(t, ref_shape_of(c->out.rank, c->out.dim), REF_NODE, NULL))

/* Losses of labels. */
#define LABELLED(name)                                                                                    \
    RECORD(name, fold_##name(f, X(0), some_index(c, size_of(c, 0))))                                      \
    REFERENCE(name, ref_pick(t, REF_##name, V(0), index_on(t, some_index(c, size_of(c, 0))), 1))
LABELLED(softmax_xent)
LABELLED(hinge)

/* ---- ops of the user's ---------------------------------------------------------------------- */

static const char *infer_first(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)attr;
    for (int i = 1; i < n; i++)
        if (memcmp(&in[i], &in[0], sizeof *in)) return "needs values of one shape";
    out[0] = in[0];
    return NULL;
}
static const char *infer_both(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    out[1] = in[0];
    return infer_first(in, n, attr, out);
}
static int floats_of(const fold_shape *s)
{
    int n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}
static int wanted(const fold_rows *d) { return d->base || d->rows; }

/* powers: x^2 and x^3 */
static void powers_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r);
        float *square = fold_row(&c->out[0], r), *cube = fold_row(&c->out[1], r);
        for (int i = 0; i < floats_of(&c->in_shape[0]); i++) cube[i] = (square[i] = x[i] * x[i]) * x[i];
    }
}
static void powers_backward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows && wanted(&c->din[0]); r++) {
        const float *x = fold_row(&c->in[0], r), *ds = fold_row(&c->dout[0], r),
                    *dc = fold_row(&c->dout[1], r);
        float *dx = fold_row(&c->din[0], r);
        for (int i = 0; i < floats_of(&c->in_shape[0]); i++)
            dx[i] = 2 * x[i] * ds[i] + 3 * x[i] * x[i] * dc[i];
    }
}
static const fold_op_desc powers = { "powers", 1, 2, 0, 0, 0, 0, FOLD_NEEDS_IN, 0, infer_both,
                                    powers_forward, powers_backward, NULL };
static const fold_op_desc powers_one_row = { "powers_one_row", 1, 2, 0, 0, 0, 1, FOLD_NEEDS_IN, 0, infer_both,
                                            powers_forward, powers_backward, NULL };
static fold_node record_powers(fold_ctx *f, const op_case *c)
{
    const fold_node y = fold_op_apply(f, c->op, &X(0), 1, NULL, 0);
    return fold_sub(f, fold_out(f, y, 1), fold_out(f, y, 0));
}
static int reference_powers(ref_tape *t, const op_case *c)
{
    const int square = ref_of(t, REF_square, V(0));
    return ref_of_two(t, REF_sub, ref_of_two(t, REF_mul, square, V(0)), square);
}

/* mix: attr0 a - attr1 user b + data, through scratch; backward reads nothing */
static float mix_share = 0.5f;
static void mix_forward(const fold_op_call *c)
{
    const int n = floats_of(&c->in_shape[0]);
    for (int r = 0; r < c->rows; r++) {
        const float *a = fold_row(&c->in[0], r), *b = fold_row(&c->in[1], r);
        for (int i = 0; i < n; i++) 
            c->scratch[i] = (float)c->attr[0] * a[i] - (float)c->attr[1] * *(const float *)c->user * b[i];
        for (int i = 0; i < n; i++)
            fold_row(&c->out[0], r)[i] = c->scratch[i] + (float)c->data[r * c->data_step];
    }
}
static void mix_backward(const fold_op_call *c)
{
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < c->rows && wanted(&c->din[k]); r++)
            for (int i = 0; i < floats_of(&c->in_shape[0]); i++)
                fold_row(&c->din[k], r)[i] =
                    (k ? (float)-c->attr[1] * *(const float *)c->user : (float)c->attr[0]) *
                    fold_row(&c->dout[0], r)[i];
}
static const fold_op_desc mix = { "mix", 2, 1, 2, 0, 0, 0, 0, 128, infer_first, mix_forward, mix_backward,
                                  &mix_share };
static fold_node record_mix(fold_ctx *f, const op_case *c)
{
    const fold_node in[2] = { X(0), X(1) };
    const int32_t attr[2] = { c->attr[0], c->attr[1] };
    return fold_op_apply(f, c->op, in, 2, attr, (uint64_t)c->variety);
}
static int reference_mix(ref_tape *t, const op_case *c)
{
    const int a = ref_with(t, REF_scale, V(0), c->attr[0]);
    const int b = ref_with(t, REF_scale, V(1), c->attr[1] * (double)mix_share);
    return ref_with(t, REF_shift, ref_of_two(t, REF_sub, a, b), c->variety);
}

/* forward only: no gradient passes */
static void twice_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < floats_of(&c->in_shape[0]); i++)
            fold_row(&c->out[0], r)[i] = 2 * fold_row(&c->in[0], r)[i];
}
static const fold_op_desc twice = { "twice", 1, 1, 0, 0, 0, 0, 0, 0, infer_first, twice_forward, NULL, NULL };
REFERENCE(twice, ref_with(t, REF_scale, ref_of(t, REF_stop_gradient, V(0)), 2))
RECORD(twice, fold_op_apply(f, c->op, &X(0), 1, NULL, 0))

/* a list op of two components: the sum over k of a_k b_k */
static void pairs_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < floats_of(&c->out_shape[0]); i++) {
            float sum = 0;
            for (int e = c->list[r]; e < c->list[r + 1]; e++)
                sum += fold_row(&c->in[0], e)[i] * fold_row(&c->in[1], e)[i];
            fold_row(&c->out[0], r)[i] = sum;
        }
}
static void pairs_backward(const fold_op_call *c)
{
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < c->rows && wanted(&c->din[k]); r++)
            for (int e = c->list[r]; e < c->list[r + 1]; e++)
                for (int i = 0; i < floats_of(&c->out_shape[0]); i++)
                    fold_row(&c->din[k], e)[i] = fold_row(&c->dout[0], r)[i] * fold_row(&c->in[1 - k], e)[i];
}
static const fold_op_desc pairs = { "pairs", 2, 1, 0, 1, 0, 0, FOLD_NEEDS_IN, 0, infer_first,
                                   pairs_forward, pairs_backward, NULL };
static fold_node record_pairs(fold_ctx *f, const op_case *c)
{
    fold_node x[2 * MAX_LIST];
    for (int i = 0; i < 2 * c->count; i++) x[i] = c->node[i % 2][i / 2];
    return fold_op_apply(f, c->op, x, 2 * (size_t)c->count, NULL, 0);
}
static int reference_pairs(ref_tape *t, const op_case *c)
{
    const int left = list_of(t, c, 0);
    return ref_of(t, REF_list_sum, ref_of_two(t, REF_mul, left, list_of(t, c, 1)));
}

/* ---- the table ------------------------------------------------------------------------------ */

#define SPECS(name, ...) static const char *const name[] = { __VA_ARGS__, NULL };
SPECS(elements, "1", "5", "15", "16", "17", "31", "64", "100", "3x5", "2x3x4x2", "r7", "s9", "S17", "p5",
      "q3x4")
SPECS(broadcast, "1 1", "7 7", "16 16", "100 100", "3x5 3x5", "2x3x4x5 2x3x4x5", "7 =7", "3x5 =3x5", "16 1",
      "100 1", "1 17 -> 17", "33x3 1", "3x5 5", "5 3x5 -> 3x5", "2x3x4 3x4", "2x3x17 17", "2x3x4x5 4x5",
      "4x1 1", "7 s7", "s5 3x5 -> 3x5", "6 S6", "1 s1", "s8 s8", "7 n7", "n7 7", "n3x5 5", "31 p31",
      "p1 9 -> 9", "3x4 q3x4", "s8 p8", "1 1x1 -> 1x1", "1x1 1", "1x1 1x1x1 -> 1x1x1", "2x1 1x2x1 -> 1x2x1",
      "3 1x1 -> 1x3", "2x3 1x1", "3x4 3x1", "3x1 3x4 -> 3x4", "3x1 4 -> 3x4", "4 3x1 -> 3x4", "1x5 3x1 -> 3x5",
      "2x3x4 2x1x4", "2x1x4 3x1 -> 2x3x4", "2x1x4x1 3x1x5 -> 2x3x4x5", "1x3x1x5 2x1x4x1 -> 2x3x4x5",
      "1x17 40x1 -> 40x17", "3x1 1x70 -> 3x70", "70x1 1x3 -> 70x3", "3x4 s3x1", "3x1 =3x1", "p3x4 3x1 -> 3x4", "3x1 n4 -> 3x4",
      "600x1 1x2 -> 600x2")
SPECS(last_axis_of, "1", "5", "16", "17", "100", "3x5", "2x3x17", "s5", "p16")
SPECS(axes, "1 -> 1 @0", "7 -> 1 @0", "7 -> 1 @-1", "7 -> 1 @all", "100 -> 1 @0", "3x5 -> 5 @0", "3x5 -> 3 @1",
      "3x5 -> 1 @all", "3x5 -> 3 @-1", "2x3x4 -> 3x4 @0", "2x3x4 -> 2x4 @1", "2x3x4 -> 2x3 @2", "2x3x4 -> 1 @all", "2x3x4 -> 2x4 @-2",
      "2x3x4x5 -> 3x4x5 @0", "2x3x4x5 -> 2x4x5 @1", "2x3x4x5 -> 2x3x5 @2", "2x3x4x5 -> 2x3x4 @3",
      "1x17 -> 17 @0", "17x1 -> 17 @1", "4x16 -> 4 @1", "31x20 -> 20 @0", "s5 -> 1 @0", "p3x4 -> 4 @0")
SPECS(along, "1 @0", "7 @0", "7 @-1", "100 @0", "3x5 @0", "3x5 @1", "2x3x4 @0", "2x3x4 @1", "2x3x4 @-1", "2x3x4x5 @-3",
      "1x17 @0", "s5 @0", "p3x4 @0")
SPECS(few, "1 -> 1 @0", "7 -> 1 @all", "3x5 -> 5 @0", "3x5 -> 3 @-1", "2x3x4 -> 2x4 @1", "1x17 -> 17 @0", "s5 -> 1 @0",
      "p3x4 -> 4 @0")
SPECS(products, "3x4 4x5 -> 3x5", "4 4x5 -> 5", "3x4 4 -> 3", "1x1 1x1", "2x17 17x16 -> 2x16",
      "16x5 5x31 -> 16x31", "7x15 15x1 -> 7x1", "20x33 33x20 -> 20x20", "4x4 =4x4", "3x4 s4x5 -> 3x5",
      "s3x4 4x5 -> 3x5", "s3x4 4 -> 3", "3x4 p4x5 -> 3x5", "4 p4x5 -> 5", "s3x4 p4x5 -> 3x5",
      "p3x4 4x5 -> 3x5", "3x4 q4x5 -> 3x5", "q3x4 4 -> 3",
      "3x70 70x65 -> 3x65", "70 70x65 -> 65", "13x7 7x130 -> 13x130", "20x17 17 -> 20", "2x3x4 2x4x5 -> 2x3x5",
      "3x5x7 3x7x17 -> 3x5x17", "1x2x3 1x3x16 -> 1x2x16", "s2x5x4 2x4x3 -> 2x5x3", "2x4x4 =2x4x4")
SPECS(dots, "1 1 -> 1", "7 7 -> 1", "16 16 -> 1", "17 17 -> 1", "100 100 -> 1", "3x5 3x5 -> 1", "9 =9 -> 1",
      "31 s31 -> 1", "5 p5 -> 1")
SPECS(grids, "1x1x1 F1x1x1x1 -> 1x1x1", "3x3x1 F3x3x1x1 b1 -> 1x1x1", "5x4x3 F3x3x3x5 b5 -> 3x2x5",
      "4x5x2 F3x3x2x17 b17 -> 4x5x17 @1,1", "6x5x16 F3x3x16x20 b20 -> 6x5x20 @1,1",
      "6x5x20 F3x2x20x16 -> 6x6x16 @1,1", "7x6x5 F2x3x5x4 b4 -> 3x2x4 @2", "7x7x17 F3x3x17x3 b3 -> 4x4x3 @2,1",
      "8x7x3 F3x3x3x18 b18 -> 4x3x18 @1,0,2", "5x6x16 F3x3x16x16 b16 -> 5x6x16 @1,2,2",
      "9x8x2 F3x2x2x5 b5 -> 4x5x5 @2,2,3", "5x5x4 F3x3x4x6 b6 -> 3x3x6 @3,5,3",
      "16x17x1 F5x5x1x8 b8 -> 12x13x8", "5x4x3 F5x4x3x7 b7 -> 1x1x7", "s5x4x3 F3x3x3x16 b16 -> 5x4x16 @1,1",
      "n5x4x3 F3x3x3x5 b5 -> 3x2x5", "p3x3x2 F2x2x2x3 -> 2x2x3")
SPECS(lines, "1x1 F1x1x1 -> 1x1", "9x1 F3x1x4 b4 -> 9x4 @1,1", "20x3 F5x3x17 b17 -> 8x17 @2",
      "31x16 F3x16x16 b16 -> 27x16 @1,0,2", "300x2 F7x2x3 b3 -> 100x3 @3,3", "17x20 F1x20x33 b33 -> 17x33",
      "12x7 F4x1x7 b7 -> 7x7 @2,2,1,1", "s9x3 F3x3x5 -> 7x5")
SPECS(depthwise_grids, "5x6x1 F3x3x1x1 b1 -> 5x6x1 @1,1,1,1", "5x4x3 F3x3x1x3 -> 3x2x3 @1,0,1,1",
      "5x6x17 F3x3x1x17 b17 -> 5x6x17 @1,1,1,1", "7x8x8 F3x2x1x8 b8 -> 4x5x8 @2,1,1,1",
      "7x8x33 F2x3x1x33 b33 -> 5x4x33 @1,0,2,1", "6x5x16 F3x3x1x16 b16 -> 3x3x16 @2,2,2,1",
      "s5x5x4 F3x3x1x4 b4 -> 5x5x4 @1,1,1,1")
SPECS(pools, "1x1x1 @1", "4x6x3 -> 2x3x3 @2", "5x7x17 -> 2x3x17 @2", "5x6x8 -> 3x3x8 @3,2,1",
      "7x5x16 -> 5x3x16 @3,1", "4x4x33 -> 4x4x33 @3,1,1", "9x1 -> 4x1 @2", "31x5 -> 11x5 @3,3,1",
      "20x16 -> 10x16 @4,2,1", "8x9x2 -> 2x3x2 @1,4", "s4x4x3 -> 2x2x3 @2", "p4x6 -> 2x6 @2")
SPECS(linears, "4 W4x3 -> 3", "3x4 W4x5 b5 -> 3x5", "20x17 W17x31 b31 -> 20x31", "2x3x4 W4x17 b17 -> 2x3x17",
      "3 5 W8x4 b4 -> 4", "3 =3 W6x4 b4 -> 4", "3 5 16 1 7 W32x17 b17 -> 17", "17 15 W32x100 b100 -> 100",
      "9*3 W27x4 b4 -> 4", "16*2 W32x20 b20 -> 20", "32*2 W64x20 b20 -> 20", "3 s5 W8x4 b4 -> 4",
      "s3 5 W8x4 b4 -> 4", "s7 W7x4 b4 -> 4", "p3 4 W7x5 b5 -> 5", "r4 W4x5 b5 -> 5",
      "300 W300x200 b200 -> 200", "130 70 W200x130 b130 -> 130", "n8 W8x5 b5 -> 5", "3 n5 W8x20 b20 -> 20",
      "n3 5 W8x20 b20 -> 20", "5 n17 3 W25x20 b20 -> 20")
SPECS(linears_in_steps, "3 5 W8x4 b4 -> 4 @2", "17 16 W33x31 -> 31 @2", "1 64 W65x64 b64 -> 64 @2", "300 150 W450x5 b5 -> 5 @2")
SPECS(concat_linears, "3 5 W8x4 b4 -> 4 @1", "17 16 3 W36x31 b31 -> 31 @1", "9*3 W27x4 b4 -> 4 @1",
      "40*2 W80x5 b5 -> 5 @1", "3 s5 W8x4 b4 -> 4 @1", "4 =4 W8x4 b4 -> 4 @1")
SPECS(linears_t, "4 V3x4 -> 3", "3x4 V5x4 b5 -> 3x5", "17 V16x17 b16 -> 16", "3 5 V4x8 b4 -> 4",
      "16 16 V17x32 b17 -> 17", "s7 V4x7 b4 -> 4", "300 V200x300 b200 -> 200")
SPECS(norms, "1 b1 b1", "5 b5 b5", "16 b16 b16", "17 b17 b17", "100 b100 b100", "3x5 b5 b5", "2x3x7 b7 b7",
      "s5 b5 b5", "7 b7 b7 @100")
SPECS(rms_norms, "1 b1", "5 b5", "16 b16", "17 b17", "100 b100", "3x5 b5", "2x3x7 b7 @100", "s5 b5", "9 b9 @1")
SPECS(lists, "*1", "*5", "*16", "*17", "*3x4")
SPECS(softmax_means, "*1 *1 -> 1", "*1 *5 -> 5", "*1 *17 -> 17", "*1 *3x4 -> 3x4", "*2 *6 -> 6", "*3 *3x4 -> 3x4")
SPECS(gated, "3 *5 W8x5 b5 -> 5 @0", "3 *5 W8x5 b5 -> 5 @1", "16 *17 W33x17 b17 -> 17 @0",
      "s3 *5 W8x5 b5 -> 5 @0")
SPECS(gated_max, "3 *5 W8x5 b5 -> 5 @2", "16 *17 W33x17 b17 -> 17 @2")
SPECS(several_lists, "*5 *5", "*17 *1 *17", "*3x4 *3x4 *1 *3x4")
SPECS(concats, "5 -> 5 @0", "3 4 -> 7 @0", "3 4 5 -> 12 @0", "3 =3 -> 6 @0", "9*1 -> 9 @0", "40*3 -> 120 @0",
      "2x3 1x3 -> 3x3 @0", "2x3 2x4 -> 2x7 @1", "2x3 2x4 -> 2x7 @-1", "2x3x2 2x1x2 -> 2x4x2 @1", "2x2x3 2x2x4 2x2x1 -> 2x2x8 @2",
      "3 s4 -> 7 @0", "3 p4 -> 7 @0")
SPECS(slices, "7 -> 3 @0,2,3", "7 -> 3 @0,-4,3", "4x5 -> 4x2 @-1,-2,2", "4x5 -> 2x5 @-2,1,2", "7 -> 7 @0,0,7", "20 -> 17 @0,1,17", "4x5 -> 2x5 @0,1,2", "4x5 -> 4x2 @1,3,2",
      "2x3x4 -> 2x3x1 @2,1,1", "2x3x4 -> 2x2x4 @1,1,2", "s7 -> 3 @0,2,3", "p7 -> 3 @0,2,3")
SPECS(splits, "6 -> 3 @2", "5 -> 5 @1", "15 -> 5 @3", "64 -> 4 @16", "64 -> 1 @64", "6x4 -> 2x4 @3",
      "s6 -> 2 @3")
SPECS(reshapes, "6 -> 2x3", "2x3 -> 6", "2x3x4 -> 4x6", "1 -> 1x1x1x1", "s6 -> 3x2", "p6 -> 3x2")
SPECS(transposes, "3x5 -> 5x3 @0,1", "3x5 -> 5x3 @-1,-2", "2x3x4 -> 4x3x2 @0,2", "2x3x4 -> 3x2x4 @1,0", "2x3x4x5 -> 2x5x4x3 @1,3",
      "3x3 @0,0", "17x16 -> 16x17 @0,1", "1x9 -> 9x1 @0,1", "11x2x70 -> 70x2x11 @0,2", "2x5x4x3 -> 2x4x5x3 @2,1",
      "2x3x4 @1,1", "s3x5 -> 5x3 @0,1")
SPECS(scalars, "1 -> 1", "7 -> 1", "100 -> 1", "3x5 -> 1", "s7 -> 1", "p7 -> 1")
SPECS(selects, "c5 5 5", "c17 17 17", "c3x4 3x4 3x4", "c5 s5 5", "c5 5 p5", "c1 1 1")
SPECS(one_number, "-> 1")
SPECS(one_hots, "-> 1", "-> 17")
SPECS(some_zeros, "-> 3x4", "-> 17")
SPECS(tables, "E7x4 -> 4", "E5 -> 1", "E3x2x3 -> 2x3", "E1x17 -> 17", "E40x100 -> 100")
SPECS(identities, "5", "17", "3x4", "r5", "s5", "S5", "p5", "p3x4", "q3x4")
SPECS(no_gradients, "z5", "z3x4", "z17")
SPECS(labels, "1 -> 1", "5 -> 1", "15 -> 1", "16 -> 1", "17 -> 1", "100 -> 1", "s5 -> 1")
SPECS(distributions, "1 t1 -> 1", "5 t5 -> 1", "16 t16 -> 1", "17 t17 -> 1", "100 t100 -> 1")
SPECS(probabilities, "1 k1 -> 1", "5 k5 -> 1", "17 k17 -> 1", "100 k100 -> 1", "3x4 k3x4 -> 1", "p5 k5 -> 1")
SPECS(differences, "1 1 -> 1 @70", "5 5 -> 1 @70", "17 17 -> 1 @70", "100 100 -> 1 @70", "3x4 3x4 -> 1 @130",
      "5 n5 -> 1 @70", "5 s5 -> 1 @70", "5 =5 -> 1 @70", "5 p5 -> 1 @70")
SPECS(slopes, "5 @10", "17 @10", "3x4 @-50")
SPECS(exponents, "5 @200", "17 @50", "3x4 @-150", "9 @0", "100 @-100", "40 @317")
SPECS(whole_exponents, "5 @200", "17 @300", "3x4 @-100")
SPECS(bounds, "5 @-50,75", "17 @0,100", "3x4 @25,25")
SPECS(user_mixes, "5 5 @2,3", "17 17 @2,3", "3x4 s3x4 @1,-2", "p5 5 @2,3", "5 =5 @2,3")
SPECS(user_lists, "*5 *5", "*3x4 *3x4")

#define FUNCTIONS(name) record_##name, reference_##name
#define ROW(name, specs, low, high) { #name, FUNCTIONS(name), specs, low, high, 0, NULL }
#define LIST(name, specs, low, high, flags) { #name, FUNCTIONS(name), specs, low, high, flags, NULL }
#define USER(op, name, specs, flags) { "user op " #op, FUNCTIONS(name), specs, -2, 2, flags, &op }
static const op_row rows[] = {
    ROW(neg, elements, -2, 2),
    ROW(exp, elements, -3, 3),
    ROW(log, elements, 0.1f, 5),
    ROW(sqrt, elements, 0.1f, 5),
    ROW(square, elements, -2, 2),
    ROW(abs, elements, -2, 2),
    ROW(sigmoid, elements, -6, 6),
    ROW(tanh, elements, -4, 4),
    ROW(relu, elements, -2, 2),
    ROW(gelu_tanh, elements, -4, 4),
    ROW(softplus, elements, -6, 6),
    ROW(leaky_relu, slopes, -2, 2),
    ROW(elu, slopes, -4, 4),
    ROW(gelu, elements, -4, 4),
    ROW(silu, elements, -6, 6),
    ROW(sin, elements, -9, 9),
    ROW(cos, elements, -9, 9),
    ROW(pow, exponents, 0.1f, 5),
    ROW(pow, whole_exponents, -3, -0.5f),
    ROW(clip, bounds, -2, 2),
    ROW(floor, no_gradients, -4, 4),
    ROW(scale, elements, -2, 2),
    ROW(shift, elements, -2, 2),
    ROW(stop_gradient, no_gradients, -2, 2),
    ROW(add, broadcast, -2, 2),
    ROW(sub, broadcast, -2, 2),
    ROW(mul, broadcast, -2, 2),
    ROW(div, broadcast, 0.5f, 2),
    ROW(minimum, broadcast, -2, 2),
    ROW(maximum, broadcast, -2, 2),
    ROW(select, selects, -2, 2),
    ROW(matmul, products, -1, 1),
    ROW(dot, dots, -1, 1),
    ROW(conv, grids, -1, 1),
    ROW(conv, lines, -1, 1),
    ROW(conv, depthwise_grids, -1, 1),
    ROW(max_pool, pools, -2, 2),
    ROW(mean_pool, pools, -2, 2),
    ROW(linear, linears, -1, 1),
    ROW(linear, concat_linears, -1, 1),
    ROW(linear, linears_in_steps, -1, 1),
    ROW(linear, linears_t, -1, 1),
    ROW(sum, axes, -2, 2),
    ROW(mean, axes, -2, 2),
    ROW(amax, axes, -2, 2),
    ROW(amin, axes, -2, 2),
    ROW(variance, axes, -2, 2),
    ROW(logsumexp, axes, -4, 4),
    ROW(prod, few, -2, 2),
    ROW(cumsum, along, -2, 2),
    ROW(softmax, last_axis_of, -4, 4),
    ROW(log_softmax, last_axis_of, -4, 4),
    ROW(layer_norm, norms, -2, 2),
    ROW(rms_norm, rms_norms, -2, 2),
    LIST(sum_n, lists, -2, 2, 0),
    LIST(mean_n, lists, -2, 2, 0),
    LIST(max_n, lists, -2, 2, NOT_EMPTY),
    LIST(softmax_mean_n, softmax_means, -2, 2, 0),
    LIST(gates, gated, -1, 1, 0),
    LIST(gates, gated_max, -1, 1, NOT_EMPTY),
    LIST(components, several_lists, -2, 2, 0),
    ROW(concat, concats, -2, 2),
    ROW(slice, slices, -2, 2),
    ROW(split, splits, -2, 2),
    ROW(reshape, reshapes, -2, 2),
    ROW(transpose, transposes, -2, 2),
    ROW(pick, scalars, -2, 2),
    ROW(identity, identities, -2, 2),
    LIST(lookup, tables, -2, 2, NO_CELL),
    LIST(constant, one_number, 0, 0, NO_CELL),
    LIST(one_hot, one_hots, 0, 0, NO_CELL),
    LIST(zeros, some_zeros, 0, 0, NO_CELL),
    ROW(softmax_xent, labels, -4, 4),
    ROW(hinge, labels, -2, 2),
    ROW(softmax_kl, distributions, -4, 4),
    ROW(bce, probabilities, -4, 4),
    ROW(squared_error, differences, -2, 2),
    ROW(huber, differences, -2, 2),
    USER(powers, powers, elements, 0),
    USER(powers_one_row, powers, elements, 0),
    USER(mix, mix, user_mixes, 0),
    USER(twice, twice, no_gradients, 0),
    USER(pairs, pairs, user_lists, NO_CELL | NOT_EMPTY),
};

/* ---- cases ---------------------------------------------------------------------------------- */

static float pool[POOL];
static size_t pool_used;

static int is_param(const operand *o) { return is(o, "WVEFbpq"); }
static int is_used(const operand *o) { return is(o, "pq"); }
static int is_common(const operand *o) { return is(o, "WVEFbpqsS"); }
static int is_list(const operand *o) { return !o->count; }
static int most_elements(const operand *o) { return o->count ? o->count : 20; }

static fold_shape parse_shape(const char **text)
{
    fold_shape s = { 0, { 0, 0, 0, 0 } };
    do {
        char *end;
        s.dim[s.rank++] = (int)strtol(*text, &end, 10);
        *text = end;
    } while (s.rank < FOLD_MAX_RANK && **text == 'x' && (*text)++);
    return s;
}

static void parse_operand(operand *o, const char **text)
{
    const size_t digits = strspn(*text, "0123456789");
    o->count = 1;
    if ((*text)[digits] == '*') {
        o->count = digits ? atoi(*text) : 0;
        *text += digits + 1;
    }
    o->kind = strspn(*text, "0123456789") ? 0 : *(*text)++;
    o->shape = parse_shape(text);
    o->size = floats_of(&o->shape);
}

static void parse(op_case *c, const op_row *row, const char *spec)
{
    memset(c, 0, sizeof *c);
    c->row = row;
    while (*spec && *spec != '-' && *spec != '@') {
        parse_operand(&c->in[c->n_in++], &spec);
        spec += *spec == ' ';
    }
    c->out = c->in[0].shape;
    if (*spec == '-') {
        spec += 3;
        c->out = parse_shape(&spec);
        spec += *spec == ' ';
    }
    for (int i = 0; *spec++; i++) {
        char *end = (char *)(uintptr_t)spec + 3;
        c->attr[i] = strncmp(spec, "all", 3) ? (int)strtol(spec, &end, 10) : FOLD_ALL;
        spec = end;
    }
    c->out_size = floats_of(&c->out);
    c->stride = c->out_size;
    for (int k = 0; k < c->n_in; k++)
        if (!is_common(&c->in[k])) c->stride += most_elements(&c->in[k]) * c->in[k].size;
}

/* Under gcc's AddressSanitizer operands are read where they lie, and nothing may be read behind them. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { GAP = 8, IN_PLACE = 1 };
#define GUARD(at, bytes) __asan_poison_memory_region(at, bytes)
#define UNGUARD(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
enum { GAP = 0, IN_PLACE = 0 };
#define GUARD(at, bytes) (void)(at)
#define UNGUARD(at, bytes) (void)(at)
#endif

static const float *draw(check_random *r, const op_case *c, const operand *o)
{
    const size_t n = (size_t)(most_elements(o) * o->size);
    float *x = pool + pool_used, sum = 0;
    pool_used += n + GAP;
    if (!CHECK_SAYS(pool_used <= POOL, "the pool is too small")) exit(1);
    GUARD(x + n, GAP * sizeof *x);
    random_fill(r, x, n, is(o, "ctk") ? 0.1f : c->row->low, is(o, "ctk") ? 1 : c->row->high);
    for (size_t i = 0; i < n && is(o, "c"); i++) x[i] *= random_below(r, 2) ? 1.0f : -1.0f;
    if (!is(o, "t")) return x;
    if (n > 2) x[1] = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    for (size_t i = 0; i < n; i++) x[i] /= sum;
    return x;
}

/* Elements in a sample's lists: 0 to 20, scrambled; the rows' flags say whether none is possible. */
static int elements_of(const op_case *c, int sample)
{
    return c->row->flags & NOT_EMPTY ? 1 + (sample * 8 + 3) % 20 : (sample * 8 + 3) % 21;
}

static void fill(op_case *c)
{
    check_random r = { 7 };
    const operand weights = { 0, 1, c->out_size, c->out };
    const op_row unit = { "", NULL, NULL, NULL, -1, 1, 0, NULL };
    op_case weighed = *c;
    weighed.row = &unit;
    UNGUARD(pool, sizeof pool);
    pool_used = 0;
    for (int s = 0; s < MAX_SAMPLES; s++) {
        for (int k = 0; k < c->n_in; k++) {
            const operand *o = &c->in[k];
            const int most = most_elements(o) * o->size, read = is_list(o) && !is_common(o) ? elements_of(c, s) * o->size : most;
            c->data[k][s] = s && is_common(o) ? c->data[k][0] : draw(&r, c, o);
            GUARD(c->data[k][s] + read, (size_t)(most - read) * sizeof *pool);
        }
        c->weight[s] = draw(&r, &weighed, &weights);
    }
}

enum { WINDOWS = 1, IN_CELL = 2, INFERENCE = 4 }; /* how a case is recorded */

static void choose_sample(op_case *c, int sample, int how)
{
    c->variety = how & IN_CELL ? 0 : sample; /* data in a cell is constant */
    c->count = elements_of(c, sample);
}

/* Puts a sample's operands on a tape, where its reference finds them. */
static inline void load(ref_tape *t, op_case *c, int sample, int how)
{
    choose_sample(c, sample, how);
    ref_begin(t);
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        const int n = is_list(o) ? c->count : o->count;
        if (is(o, "=")) c->value[k][0] = c->value[0][0];
        for (int i = 0; i < n && !is(o, "="); i++) {
            c->value[k][i] = ref_input(t, ref_shape_of(o->shape.rank, o->shape.dim), REF_NODE, NULL);
            for (int e = 0; e < o->size; e++)
                t->value[c->value[k][i]].v[e] = (double)c->data[k][sample][i * o->size + e];
        }
    }
}

static inline void add_params(op_case *c, fold_model *m)
{
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        fold_param_desc d;
        char name[2] = { (char)('a' + k), 0 };
        if (!is_param(o)) continue;
        memset(&d, 0, sizeof d);
        d.name = name;
        d.shape = o->shape;
        d.values = c->data[k][0];
        d.uses = is(o, "V")    ? FOLD_FOR_LINEAR_T
                 : is(o, "Eq") ? FOLD_FOR_LOOKUP
                 : is(o, "F")  ? FOLD_FOR_CONV
                               : 0;
        c->param[k] = fold_param_new(m, &d);
    }
    if (c->row->user) c->op = fold_op_new(m, c->row->user);
    CHECK_SAYS(!*fold_model_message(m), "%s", fold_model_message(m));
    CHECK_INT(fold_model_status(m), FOLD_OK);
}

/* ---- recording a case ------------------------------------------------------------------------ */

/* The body of a case's cell: fixed operands come first, then the components of its list. */
static void cell_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    op_case c = *(const op_case *)user;
    c.in_cell = 1;
    c.variety = 0; /* data in a body is constant */
    for (int from_list = 0; from_list < 2; from_list++)
        for (int k = 0; k < c.n_in; k++) {
            if (is_used(&c.in[k]) && from_list) c.node[k][0] = fold_use(f, c.param[k]);
            if (is_param(&c.in[k]) || is_list(&c.in[k]) != from_list) continue;
            for (int i = 0; i < (from_list ? 1 : c.in[k].count); i++) c.node[k][i] = *in++;
        }
    out[0] = c.row->record(f, &c);
}

/* Makes the case's cell; 0 when it can have none. */
static inline int make_cell(op_case *c, fold_model *m)
{
    fold_cell_desc d;
    memset(&d, 0, sizeof d);
    d.name = c->row->name;
    d.body = cell_body;
    d.user = c;
    d.n_out = 1;
    for (int k = 0; k < c->n_in; k++) {
        if (is_param(&c->in[k])) continue;
        if (is_list(&c->in[k])) d.list[d.n_list++] = c->in[k].shape;
        if (d.n_in + c->in[k].count > FOLD_MAX_CELL_IN) return 0;
        for (int i = 0; i < c->in[k].count; i++) d.in[d.n_in++] = c->in[k].shape;
    }
    if ((c->row->flags & NO_CELL) || d.n_in + d.n_list == 0) return 0;
    c->cell = fold_cell_new(m, &d);
    return CHECK_SAYS(c->cell.id, "%s", fold_model_message(m));
}

static fold_node call_cell(fold_ctx *f, const op_case *c)
{
    fold_node in[FOLD_MAX_CELL_IN], list[FOLD_MAX_LIST * MAX_LIST];
    int n = 0, components = 0;
    for (int k = 0; k < c->n_in; k++) {
        if (is_param(&c->in[k])) continue;
        for (int i = 0; i < c->in[k].count; i++) in[n++] = c->node[k][i];
        components += is_list(&c->in[k]);
    }
    if (!components) return fold_call(f, c->cell, in, n);
    for (int k = 0, at = 0; k < c->n_in; k++) {
        if (!is_list(&c->in[k])) continue;
        for (int i = 0; i < c->count; i++) list[i * components + at] = c->node[k][i];
        at++;
    }
    return fold_call_n(f, c->cell, in, n, list, c->count);
}

static inline fold_node record_case(fold_ctx *f, const op_case *c, int how)
{
    return how & IN_CELL ? call_cell(f, c) : c->row->record(f, c);
}

/* A flat value (or list of them) as part of an op's result, one float past its start, in the operand's shape. */
static fold_node in_a_window(fold_ctx *f, const operand *o, fold_node flat)
{
    const float border = 9;
    const fold_node wide[3] = { fold_constant(f, border), flat, fold_constant(f, border) };
    return fold_reshape(f, fold_slice(f, fold_concat(f, wide, 3, 0), 0, 1, o->size), o->shape);
}

/* Records element x of an operand; the node its gradient arrives at goes to *leaf. */
static fold_node record_operand(fold_ctx *f, const operand *o, const float *x, int how, fold_node *leaf)
{
    fold_node y;
    if (how & WINDOWS) {
        *leaf = fold_input(f, x, o->size);
        y = in_a_window(f, o, *leaf);
    } else {
        *leaf = y = is(o, "r") || IN_PLACE ? fold_input_ref(f, x, o->shape)
            : o->shape.rank == 1 ? fold_input(f, x, o->size) : fold_input_shaped(f, x, o->shape);
        if (is(o, "S")) y = fold_scale(f, y, 1);
    }
    return is(o, "sS") ? fold_shared(f, y) : y;
}

/* Records the operands that are common to all samples, or those of one. */
static inline void record_operands(fold_ctx *f, op_case *c, int common, int sample, int how, leaves leaf)
{
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        const int n = is_list(o) ? c->count : o->count;
        if (is(o, "=")) c->node[k][0] = c->node[0][0];
        else if (is_used(o)) c->node[k][0] = how & IN_CELL ? c->node[k][0] : fold_use(f, c->param[k]);
        if (is_param(o) || is(o, "=") || is_common(o) != common) continue;
        for (int i = 0; i < n; i++) {
            c->node[k][i] = record_operand(f, o, c->data[k][sample] + i * o->size, how, &leaf[k][i]);
            if (!(how & INFERENCE) && !is(o, "n")) fold_keep_grad(f, leaf[k][i]);
        }
    }
}

/* ---- contexts of all kinds ------------------------------------------------------------------- */

typedef struct mode {
    const char *name;
    int eager, dedupe;
    fold_schedule schedule;
    size_t group_bytes;
    int threads;
} mode;
static const mode modes[] = {
    { "ratio", 0, 0, FOLD_SCHEDULE_RATIO, 0, 0 },
    { "eager", 1, 0, FOLD_SCHEDULE_RATIO, 0, 0 },
    { "depth", 0, 0, FOLD_SCHEDULE_DEPTH, 0, 0 },
    { "agenda", 0, 0, FOLD_SCHEDULE_AGENDA, 0, 0 },
    { "one group", 0, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX, 0 },
    { "small groups", 0, 0, FOLD_SCHEDULE_RATIO, 1, 0 },
    { "three threads", 0, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX, 3 },
    { "dedupe", 0, 1, FOLD_SCHEDULE_RATIO, 0, 0 },
    { "eager, dedupe", 1, 1, FOLD_SCHEDULE_RATIO, 0, 0 },
};
enum { N_MODES = sizeof modes / sizeof *modes };

/* Stands for threads: their parts in another order, so that a part that reads another's result fails. */
static void backwards(int n, fold_task *task, void *user, void *none)
{
    (void)none;
    while (n-- > 0) task(n, user);
}

static inline fold_ctx *new_ctx(fold_model *m, const mode *how, int training)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.eager = how->eager;
    d.dedupe = how->dedupe;
    d.schedule = how->schedule;
    d.group_bytes = how->group_bytes;
    d.threads = how->threads;
    d.parallel_for = backwards;
    return fold_ctx_new(m, &d);
}

#endif /* OP_TABLE_H */
