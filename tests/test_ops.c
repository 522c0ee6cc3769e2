/* test_ops.c - every op and loss against plain double-precision references: values, gradients by central
   differences of the reference, bits (eager, schedules, groups, number of samples, windows, cells,
   instruction sets), null nodes and bad calls.
       cc -O2 -o test_ops tests/test_ops.c -lm && ./test_ops */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "kernel_sets.h"
#include <stdlib.h>

/* ---- the table's form ----------------------------------------------------------------------
   A case is an op's row and one spec: the operands, then "-> shape" (else the first operand's), then "@" and
   attributes. An operand is [count*][kind]shape; "*" without a count is a list of 0 to 20 elements, varying
   from sample to sample. Without a kind it is an input of the sample. Kinds:
     r  input_ref                     s  one input shared by all samples     S  a shared op's result
     =  operand 0 once more           z  an input that gets no gradient      c  a condition, no gradient
     t  a distribution, no gradient   k  between 0 and 1, no gradient        n  its gradient is not asked for
     W V E b  parameters, by handle: of linear, linear_t and lookup, a vector
     p q      parameters, by fold_use: as by default, and a table for lookups */

enum { MAX_IN = 8, MAX_LIST = 40, MAX_SAMPLES = 33, POOL = 1 << 18, MAX_PROBES = 1000 };
enum { NO_CELL = 1, NOT_EMPTY = 2 }; /* of rows: not for cell bodies; lists have 1 to 20 elements */

typedef struct op_case op_case;
typedef struct op_row {
    const char *name;
    fold_node (*record)(fold_ctx *f, const op_case *c);
    void (*reference)(const op_case *c, double *y);
    const char *const *specs;
    float low, high;       /* range of the inputs */
    double tolerance;      /* of values and gradients, times 1 + |wanted| */
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
    double *x[MAX_IN];
};
typedef fold_node leaves[MAX_IN][MAX_LIST];  /* where the gradients of a sample's operands arrive */

static int is(const operand *o, const char *kinds) { return o->kind && strchr(kinds, o->kind); }
static const double *input(const op_case *c, int k) { return c->x[k]; }
static int size_of(const op_case *c, int k) { return c->in[k].size; }
static int last_axis(const fold_shape *s) { return s->dim[s->rank - 1]; }

/* ---- recording and references, op by op ---------------------------------------------------- */

#define RECORD(name, call) \
    static fold_node record_##name(fold_ctx *f, const op_case *c) { (void)f; return call; }
#define X(k) c->node[k][0]

#define UNARY(name, y)                                                                                    \
    RECORD(name, fold_##name(f, X(0)))                                                                    \
    static void reference_##name(const op_case *c, double *out)                                           \
    {                                                                                                     \
        for (int i = 0; i < c->out_size; i++) {                                                           \
            const double x = input(c, 0)[i];                                                              \
            out[i] = (y);                                                                                 \
        }                                                                                                 \
    }
UNARY(neg, -x)
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(sqrt, sqrt(x))
UNARY(square, x * x)
UNARY(abs, fabs(x))
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(tanh, tanh(x))
UNARY(relu, x > 0 ? x : 0)
UNARY(gelu, 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))))
UNARY(softplus, log1p(exp(x)))
UNARY(stop_gradient, x)

#define BINARY(name, y)                                                                                   \
    RECORD(name, fold_##name(f, X(0), X(1)))                                                              \
    static void reference_##name(const op_case *c, double *out)                                           \
    {                                                                                                     \
        for (int i = 0; i < c->out_size; i++) {                                                           \
            const double a = input(c, 0)[i % size_of(c, 0)], b = input(c, 1)[i % size_of(c, 1)];          \
            out[i] = (y);                                                                                 \
        }                                                                                                 \
    }
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a * b)
BINARY(div, a / b)
BINARY(min, a < b ? a : b)
BINARY(max, a > b ? a : b)

/* The second value is the sample's own: data, not structure. */
static float factor(const op_case *c) { return 0.5f + 0.25f * (float)c->variety; }
static float hundredth(const op_case *c) { return (float)c->attr[0] / 100.0f; }
#define WITH_NUMBER(name, number, y)                                                                      \
    RECORD(name, fold_##name(f, X(0), number))                                                            \
    static void reference_##name(const op_case *c, double *out)                                           \
    {                                                                                                     \
        const double s = (double)(number);                                                                \
        for (int i = 0; i < c->out_size; i++) {                                                           \
            const double x = input(c, 0)[i];                                                              \
            out[i] = (y);                                                                                 \
        }                                                                                                 \
    }
WITH_NUMBER(scale, factor(c), x * s)
WITH_NUMBER(shift, factor(c), x + s)
WITH_NUMBER(leaky_relu, hundredth(c), x > 0 ? x : s * x)

RECORD(select, fold_select(f, X(0), X(1), X(2)))
static void reference_select(const op_case *c, double *out)
{
    for (int i = 0; i < c->out_size; i++) out[i] = input(c, input(c, 0)[i] > 0 ? 1 : 2)[i];
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
static void reference_linear(const op_case *c, double *y)
{
    const int w = first_param(c), n = last_axis(&c->out), transposed = c->in[w].kind == 'V';
    const int inputs = size_of(c, w) / n, rows = c->out_size / n;
    for (int i = 0; i < c->out_size; i++) y[i] = w + 1 < c->n_in ? input(c, w + 1)[i % n] : 0;
    for (int k = 0, at = 0; k < w; k++) {
        const int width = rows > 1 ? inputs : size_of(c, k) * c->in[k].count;
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < width; i++)
                for (int j = 0; j < n; j++)
                    y[r * n + j] += input(c, k)[r * width + i] *
                                    input(c, w)[transposed ? j * inputs + at + i : (at + i) * n + j];
        at += width;
    }
}

RECORD(matmul, fold_matmul(f, X(0), X(1)))
static void reference_matmul(const op_case *c, double *y)
{
    const int inner = c->in[1].shape.dim[0], n = size_of(c, 1) / inner, rows = size_of(c, 0) / inner;
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < n; j++) {
            y[r * n + j] = 0;
            for (int i = 0; i < inner; i++)
                y[r * n + j] += input(c, 0)[r * inner + i] * input(c, 1)[i * n + j];
        }
}
RECORD(dot, fold_dot(f, X(0), X(1)))
static void reference_dot(const op_case *c, double *y)
{
    y[0] = 0;
    for (int i = 0; i < size_of(c, 0); i++) y[0] += input(c, 0)[i] * input(c, 1)[i];
}

/* Reductions. A value is seen as [outer][length][inner] around an axis. */
typedef struct around { int outer, length, inner; } around;
static around around_axis(const fold_shape *s, int axis)
{
    around a = { 1, 1, 1 };
    for (int i = 0; i < s->rank; i++) {
        if (axis == FOLD_ALL || i == axis) a.length *= s->dim[i];
        else if (i < axis) a.outer *= s->dim[i];
        else a.inner *= s->dim[i];
    }
    return a;
}
#define REDUCTION(name, start, step, end)                                                                 \
    RECORD(name, fold_##name(f, X(0), c->attr[0]))                                                        \
    static void reference_##name(const op_case *c, double *y)                                             \
    {                                                                                                     \
        const around s = around_axis(&c->in[0].shape, c->attr[0]);                                        \
        for (int i = 0; i < s.outer * s.inner; i++) {                                                     \
            const double *x = input(c, 0) + i / s.inner * s.length * s.inner + i % s.inner;               \
            double a = (start);                                                                           \
            for (int t = 0; t < s.length; t++, x += s.inner) a = (step);                                  \
            y[i] = (end);                                                                                 \
        }                                                                                                 \
    }
REDUCTION(sum, 0, a + *x, a)
REDUCTION(mean, 0, a + *x, a / s.length)
REDUCTION(amax, *x, *x > a ? *x : a, a)

static double log_sum_exp(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp(x[i] - x[0]);
    return log(sum) + x[0];
}
RECORD(softmax, fold_softmax(f, X(0)))
RECORD(log_softmax, fold_log_softmax(f, X(0)))
static void reference_log_softmax(const op_case *c, double *y)
{
    const int n = last_axis(&c->out);
    for (int i = 0; i < c->out_size; i++) y[i] = input(c, 0)[i] - log_sum_exp(input(c, 0) + i / n * n, n);
}
static void reference_softmax(const op_case *c, double *y)
{
    reference_log_softmax(c, y);
    for (int i = 0; i < c->out_size; i++) y[i] = exp(y[i]);
}
RECORD(layer_norm, fold_layer_norm(f, X(0), c->param[1], c->param[2]))
static void reference_layer_norm(const op_case *c, double *y)
{
    const int n = last_axis(&c->out);
    for (int at = 0; at < c->out_size; at += n) {
        const double *x = input(c, 0) + at;
        double mean = 0, variance = 0;
        for (int i = 0; i < n; i++) mean += x[i] / n;
        for (int i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / n;
        for (int i = 0; i < n; i++)
            y[at + i] = (x[i] - mean) / sqrt(variance + 1e-5) * input(c, 1)[i] + input(c, 2)[i];
    }
}

/* Over lists; in a cell body by the reductions of a list cell. */
#define ELEMENTS c->node[0], (size_t)c->count
RECORD(sum_n, c->in_cell ? fold_list_sum(f, X(0)) : fold_sum_n_shaped(f, ELEMENTS, c->out))
RECORD(mean_n, c->in_cell ? fold_list_mean(f, X(0)) : c->count ? fold_mean_n(f, ELEMENTS)
                                                               : fold_zeros(f, c->out))
RECORD(max_n, c->in_cell ? fold_list_max(f, X(0)) : fold_max_n(f, ELEMENTS))
RECORD(attend_n, c->in_cell ? fold_list_attend(f, X(0), X(1))
                            : fold_attend_n_shaped(f, c->node[0], c->node[1], (size_t)c->count, c->out))
static void reference_sum_n(const op_case *c, double *y)
{
    for (int i = 0; i < c->out_size; i++) y[i] = 0;
    for (int i = 0; i < c->count * c->out_size; i++) y[i % c->out_size] += input(c, 0)[i];
}
static void reference_mean_n(const op_case *c, double *y)
{
    reference_sum_n(c, y);
    for (int i = 0; i < c->out_size && c->count; i++) y[i] /= c->count;
}
static void reference_max_n(const op_case *c, double *y)
{
    memcpy(y, input(c, 0), (size_t)c->out_size * sizeof *y);
    for (int i = 0; i < c->count * c->out_size; i++)
        y[i % c->out_size] = fmax(y[i % c->out_size], input(c, 0)[i]);
}
static void reference_attend_n(const op_case *c, double *y)
{
    const double total = c->count ? log_sum_exp(input(c, 0), c->count) : 0;
    for (int i = 0; i < c->out_size; i++) y[i] = 0;
    for (int i = 0; i < c->count * c->out_size; i++)
        y[i % c->out_size] += exp(input(c, 0)[i / c->out_size] - total) * input(c, 1)[i];
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
    if (how == 0 || !n) reduced = body ? fold_list_sum(f, y[0]) : fold_sum_n_shaped(f, y, (int)n, c->out);
    else if (how == 1) reduced = body ? fold_list_mean(f, y[0]) : fold_mean_n(f, y, (int)n);
    else reduced = body ? fold_list_max(f, y[0]) : fold_max_n(f, y, (int)n);
    return fold_add(f, reduced, fold_sum(f, X(0), 0));
}
static void reference_gates(const op_case *c, double *y)
{
    const int n = c->out_size, q = size_of(c, 0);
    double sum = 0;
    for (int j = 0; j < n; j++) y[j] = c->attr[0] == 2 ? -1e300 : 0;
    for (int k = 0; k < c->count; k++)
        for (int j = 0; j < n; j++) {
            double s = input(c, 3)[j];
            for (int i = 0; i < q + n; i++)
                s += (i < q ? input(c, 0)[i] : input(c, 1)[k * n + i - q]) * input(c, 2)[i * n + j];
            s = input(c, 1)[k * n + j] / (1 + exp(-s));
            y[j] = c->attr[0] == 2 ? fmax(y[j], s) : y[j] + s / (c->attr[0] == 1 ? c->count : 1);
        }
    for (int i = 0; i < q; i++) sum += input(c, 0)[i];
    for (int j = 0; j < n; j++) y[j] += sum;
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
    return c->in_cell ? fold_list_sum(f, x[0]) : fold_sum_n_shaped(f, x, (int)n, c->out);
}
static void reference_components(const op_case *c, double *y)
{
    for (int i = 0; i < c->out_size; i++) y[i] = 0;
    for (int i = 0; i < c->count * c->out_size; i++) {
        double x = input(c, 0)[i];
        for (int k = 1; k < c->n_in; k++) x *= input(c, k)[size_of(c, k) == 1 ? i / c->out_size : i];
        y[i % c->out_size] += x;
    }
}

/* Moving values. */
static fold_node record_concat(fold_ctx *f, const op_case *c)
{
    fold_node x[MAX_IN * MAX_LIST];
    const int n = gather_nodes(c, c->n_in, x);
    return n == 2 && c->attr[0] == 0 ? fold_concat2(f, x[0], x[1]) : fold_concat(f, x, n, c->attr[0]);
}
static void reference_concat(const op_case *c, double *y)
{
    const around whole = around_axis(&c->out, c->attr[0]);
    for (int k = 0, before = 0; k < c->n_in; k++)
        for (int e = 0; e < c->in[k].count; e++) {
            const int length = c->in[k].shape.dim[c->attr[0]] * whole.inner;
            const double *x = input(c, k) + e * size_of(c, k);
            for (int o = 0; o < whole.outer; o++)
                memcpy(y + o * whole.length * whole.inner + before, x + o * length,
                       (size_t)length * sizeof *y);
            before += length;
        }
}
RECORD(slice, fold_slice(f, X(0), c->attr[0], c->attr[1], c->attr[2]))
static void reference_slice(const op_case *c, double *y)
{
    const around s = around_axis(&c->in[0].shape, c->attr[0]);
    const int length = c->attr[2] * s.inner;
    for (int o = 0; o < s.outer; o++)
        memcpy(y + o * length, input(c, 0) + (o * s.length + c->attr[1]) * s.inner,
               (size_t)length * sizeof *y);
}
/* Several windows at once: first * last + middle. */
static fold_node record_split(fold_ctx *f, const op_case *c)
{
    fold_node part[64];
    const int n = c->attr[0];
    fold_split(f, X(0), n, part);
    return fold_add(f, fold_mul(f, part[0], part[n - 1]), part[n / 2]);
}
static void reference_split(const op_case *c, double *y)
{
    const int n = c->attr[0], size = c->out_size;
    const double *x = input(c, 0);
    for (int i = 0; i < size; i++) y[i] = x[i] * x[(n - 1) * size + i] + x[n / 2 * size + i];
}
static void reference_identity(const op_case *c, double *y)
{
    memcpy(y, input(c, 0), (size_t)c->out_size * sizeof *y);
}
RECORD(reshape, fold_reshape(f, X(0), c->out))
#define reference_reshape reference_identity
RECORD(identity, X(0))
RECORD(transpose, fold_transpose(f, X(0), c->attr[0], c->attr[1]))
static void reference_transpose(const op_case *c, double *y)
{
    const fold_shape *s = &c->in[0].shape;
    for (int at = 0; at < c->out_size; at++) {
        int index[FOLD_MAX_RANK], from = 0;
        for (int i = s->rank - 1, rest = at; i >= 0; rest /= c->out.dim[i--]) index[i] = rest % c->out.dim[i];
        const int swap = index[c->attr[0]];
        index[c->attr[0]] = index[c->attr[1]];
        index[c->attr[1]] = swap;
        for (int i = 0; i < s->rank; i++) from = from * s->dim[i] + index[i];
        y[at] = input(c, 0)[from];
    }
}
static int some_index(const op_case *c, int n) { return (c->variety * 5 + 2) % n; }
RECORD(pick, fold_pick(f, X(0), some_index(c, size_of(c, 0))))
static void reference_pick(const op_case *c, double *y) { y[0] = input(c, 0)[some_index(c, size_of(c, 0))]; }
RECORD(lookup, fold_lookup(f, c->param[0], some_index(c, c->in[0].shape.dim[0])))
static void reference_lookup(const op_case *c, double *y)
{
    const int row = some_index(c, c->in[0].shape.dim[0]);
    memcpy(y, input(c, 0) + row * c->out_size, (size_t)c->out_size * sizeof *y);
}
RECORD(constant, fold_constant(f, factor(c)))
static void reference_constant(const op_case *c, double *y) { y[0] = (double)factor(c); }
RECORD(zeros, fold_zeros(f, c->out))
static void reference_zeros(const op_case *c, double *y) { memset(y, 0, (size_t)c->out_size * sizeof *y); }

/* Losses. */
#define LABELLED(name, term)                                                                              \
    RECORD(name, fold_##name(f, X(0), some_index(c, size_of(c, 0))))                                      \
    static void reference_##name(const op_case *c, double *y)                                             \
    {                                                                                                     \
        const double *x = input(c, 0);                                                                    \
        const int n = size_of(c, 0), label = some_index(c, n);                                            \
        y[0] = 0;                                                                                         \
        for (int i = 0; i < n; i++) y[0] += (term);                                                       \
    }
#define PAIRED(name, call, term)                                                                          \
    RECORD(name, call)                                                                                    \
    static void reference_##name(const op_case *c, double *y)                                             \
    {                                                                                                     \
        y[0] = 0;                                                                                         \
        for (int i = 0; i < size_of(c, 0); i++) {                                                         \
            const double a = input(c, 0)[i], b = input(c, 1)[i];                                          \
            y[0] += (term);                                                                               \
        }                                                                                                 \
    }
LABELLED(softmax_xent, i == label ? log_sum_exp(x, n) - x[i] : 0)
LABELLED(hinge, i == label ? 0 : fmax(0, 1 + x[i] - x[label]))
PAIRED(softmax_kl, fold_softmax_kl(f, X(0), X(1)),
       b > 0 ? b * (log(b) - a + log_sum_exp(input(c, 0), size_of(c, 0))) : 0)
PAIRED(bce, fold_bce(f, X(0), X(1)), log1p(exp(a)) - a * b)
PAIRED(squared_error, fold_squared_error(f, X(0), X(1)), (a - b) * (a - b))
static double huber(double d, double delta) { return d <= delta ? d * d / 2 : delta * (d - delta / 2); }
PAIRED(huber, fold_huber(f, X(0), X(1), hundredth(c)), huber(fabs(a - b), (double)hundredth(c)))

/* ---- ops of the user's ---------------------------------------------------------------------- */

static const char *infer_first(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)attr;
    for (int i = 1; i < n; i++)
        if (memcmp(&in[i], &in[0], sizeof *in)) return "needs values of one shape";
    out[0] = out[1] = in[0];
    return NULL;
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
static const fold_op_desc powers = { "powers", 1, 2, 0, 0, 0, FOLD_NEEDS_IN, 0, infer_first,
                                    powers_forward, powers_backward };
static const fold_op_desc powers_one_row = { "powers_one_row", 1, 2, 0, 0, 1, FOLD_NEEDS_IN, 0, infer_first,
                                            powers_forward, powers_backward };
static fold_node record_powers(fold_ctx *f, const op_case *c)
{
    const fold_node y = fold_op_apply(f, c->op, &X(0), 1, NULL, 0);
    return fold_sub(f, fold_out(f, y, 1), fold_out(f, y, 0));
}
static void reference_powers(const op_case *c, double *y)
{
    for (int i = 0; i < c->out_size; i++) y[i] = input(c, 0)[i] * input(c, 0)[i] * (input(c, 0)[i] - 1);
}

/* mix: attr0 a - attr1 b + data, through scratch; backward reads nothing */
static void mix_forward(const fold_op_call *c)
{
    const int n = floats_of(&c->in_shape[0]);
    for (int r = 0; r < c->rows; r++) {
        const float *a = fold_row(&c->in[0], r), *b = fold_row(&c->in[1], r);
        for (int i = 0; i < n; i++) c->scratch[i] = (float)c->attr[0] * a[i] - (float)c->attr[1] * b[i];
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
                    (float)(k ? -c->attr[1] : c->attr[0]) * fold_row(&c->dout[0], r)[i];
}
static const fold_op_desc mix = { "mix", 2, 1, 2, 0, 0, 0, 128, infer_first, mix_forward, mix_backward };
static fold_node record_mix(fold_ctx *f, const op_case *c)
{
    const fold_node in[2] = { X(0), X(1) };
    const int32_t attr[2] = { c->attr[0], c->attr[1] };
    return fold_op_apply(f, c->op, in, 2, attr, (uint64_t)c->variety);
}
static void reference_mix(const op_case *c, double *y)
{
    for (int i = 0; i < c->out_size; i++)
        y[i] = c->attr[0] * input(c, 0)[i] - c->attr[1] * input(c, 1)[i] + c->variety;
}

/* forward only: no gradient passes */
static void twice_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < floats_of(&c->in_shape[0]); i++)
            fold_row(&c->out[0], r)[i] = 2 * fold_row(&c->in[0], r)[i];
}
static const fold_op_desc twice = { "twice", 1, 1, 0, 0, 0, 0, 0, infer_first, twice_forward, NULL };
static void reference_twice(const op_case *c, double *y)
{
    for (int i = 0; i < c->out_size; i++) y[i] = 2 * input(c, 0)[i];
}
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
static const fold_op_desc pairs = { "pairs", 2, 1, 0, 1, 0, FOLD_NEEDS_IN, 0, infer_first,
                                   pairs_forward, pairs_backward };
static fold_node record_pairs(fold_ctx *f, const op_case *c)
{
    fold_node x[2 * MAX_LIST];
    for (int i = 0; i < 2 * c->count; i++) x[i] = c->node[i % 2][i / 2];
    return fold_op_apply(f, c->op, x, 2 * (size_t)c->count, NULL, 0);
}
static void reference_pairs(const op_case *c, double *y)
{
    for (int i = 0; i < c->out_size; i++) y[i] = 0;
    for (int i = 0; i < c->count * c->out_size; i++) y[i % c->out_size] += input(c, 0)[i] * input(c, 1)[i];
}

/* ---- the table ------------------------------------------------------------------------------ */

#define SPECS(name, ...) static const char *const name[] = { __VA_ARGS__, NULL };
SPECS(elements, "1", "5", "15", "16", "17", "31", "64", "100", "3x5", "2x3x4x2", "r7", "s9", "S17", "p5",
      "q3x4")
SPECS(broadcast, "1 1", "7 7", "16 16", "100 100", "3x5 3x5", "2x3x4x5 2x3x4x5", "7 =7", "3x5 =3x5", "16 1",
      "100 1", "1 17 -> 17", "33x3 1", "3x5 5", "5 3x5 -> 3x5", "2x3x4 3x4", "2x3x17 17", "2x3x4x5 4x5",
      "4x1 1", "7 s7", "s5 3x5 -> 3x5", "6 S6", "1 s1", "s8 s8", "7 n7", "n7 7", "n3x5 5", "31 p31",
      "p1 9 -> 9", "3x4 q3x4", "s8 p8")
SPECS(last_axis_of, "1", "5", "16", "17", "100", "3x5", "2x3x17", "s5", "p16")
SPECS(axes, "1 -> 1 @0", "7 -> 1 @0", "7 -> 1 @-1", "100 -> 1 @0", "3x5 -> 5 @0", "3x5 -> 3 @1",
      "3x5 -> 1 @-1", "2x3x4 -> 3x4 @0", "2x3x4 -> 2x4 @1", "2x3x4 -> 2x3 @2", "2x3x4 -> 1 @-1",
      "2x3x4x5 -> 3x4x5 @0", "2x3x4x5 -> 2x4x5 @1", "2x3x4x5 -> 2x3x5 @2", "2x3x4x5 -> 2x3x4 @3",
      "1x17 -> 17 @0", "17x1 -> 17 @1", "4x16 -> 4 @1", "31x20 -> 20 @0", "s5 -> 1 @0", "p3x4 -> 4 @0")
SPECS(products, "3x4 4x5 -> 3x5", "4 4x5 -> 5", "3x4 4 -> 3", "1x1 1x1", "2x17 17x16 -> 2x16",
      "16x5 5x31 -> 16x31", "7x15 15x1 -> 7x1", "20x33 33x20 -> 20x20", "4x4 =4x4", "3x4 s4x5 -> 3x5",
      "s3x4 4x5 -> 3x5", "s3x4 4 -> 3", "3x4 p4x5 -> 3x5", "4 p4x5 -> 5", "s3x4 p4x5 -> 3x5",
      "p3x4 4x5 -> 3x5", "3x4 q4x5 -> 3x5", "q3x4 4 -> 3")
SPECS(dots, "1 1 -> 1", "7 7 -> 1", "16 16 -> 1", "17 17 -> 1", "100 100 -> 1", "3x5 3x5 -> 1", "9 =9 -> 1",
      "31 s31 -> 1", "5 p5 -> 1")
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
      "s5 b5 b5")
SPECS(lists, "*1", "*5", "*16", "*17", "*3x4")
SPECS(attends, "*1 *1 -> 1", "*1 *5 -> 5", "*1 *17 -> 17", "*1 *3x4 -> 3x4")
SPECS(gated, "3 *5 W8x5 b5 -> 5 @0", "3 *5 W8x5 b5 -> 5 @1", "16 *17 W33x17 b17 -> 17 @0",
      "s3 *5 W8x5 b5 -> 5 @0")
SPECS(gated_max, "3 *5 W8x5 b5 -> 5 @2", "16 *17 W33x17 b17 -> 17 @2")
SPECS(several_lists, "*5 *5", "*17 *1 *17", "*3x4 *3x4 *1 *3x4")
SPECS(concats, "5 -> 5 @0", "3 4 -> 7 @0", "3 4 5 -> 12 @0", "3 =3 -> 6 @0", "9*1 -> 9 @0", "40*3 -> 120 @0",
      "2x3 1x3 -> 3x3 @0", "2x3 2x4 -> 2x7 @1", "2x3x2 2x1x2 -> 2x4x2 @1", "2x2x3 2x2x4 2x2x1 -> 2x2x8 @2",
      "3 s4 -> 7 @0", "3 p4 -> 7 @0")
SPECS(slices, "7 -> 3 @0,2,3", "7 -> 7 @0,0,7", "20 -> 17 @0,1,17", "4x5 -> 2x5 @0,1,2", "4x5 -> 4x2 @1,3,2",
      "2x3x4 -> 2x3x1 @2,1,1", "2x3x4 -> 2x2x4 @1,1,2", "s7 -> 3 @0,2,3", "p7 -> 3 @0,2,3")
SPECS(splits, "6 -> 3 @2", "5 -> 5 @1", "15 -> 5 @3", "64 -> 4 @16", "64 -> 1 @64", "6x4 -> 2x4 @3",
      "s6 -> 2 @3")
SPECS(reshapes, "6 -> 2x3", "2x3 -> 6", "2x3x4 -> 4x6", "1 -> 1x1x1x1", "s6 -> 3x2", "p6 -> 3x2")
SPECS(transposes, "3x5 -> 5x3 @0,1", "2x3x4 -> 4x3x2 @0,2", "2x3x4 -> 3x2x4 @1,0", "2x3x4x5 -> 2x5x4x3 @1,3",
      "3x3 @0,0", "17x16 -> 16x17 @0,1", "1x9 -> 9x1 @0,1", "s3x5 -> 5x3 @0,1")
SPECS(scalars, "1 -> 1", "7 -> 1", "100 -> 1", "3x5 -> 1", "s7 -> 1", "p7 -> 1")
SPECS(selects, "c5 5 5", "c17 17 17", "c3x4 3x4 3x4", "c5 s5 5", "c5 5 p5", "c1 1 1")
SPECS(one_number, "-> 1")
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
SPECS(user_mixes, "5 5 @2,3", "17 17 @2,3", "3x4 s3x4 @1,-2", "p5 5 @2,3", "5 =5 @2,3")
SPECS(user_lists, "*5 *5", "*3x4 *3x4")

#define FUNCTIONS(name) record_##name, reference_##name
#define ROW(name, specs, low, high, margin) { #name, FUNCTIONS(name), specs, low, high, margin, 0, NULL }
#define LIST(name, specs, low, high, flags) { #name, FUNCTIONS(name), specs, low, high, 2e-5, flags, NULL }
#define USER(op, name, specs, flags) { "user op " #op, FUNCTIONS(name), specs, -2, 2, 1e-5, flags, &op }
static const op_row rows[] = {
    ROW(neg, elements, -2, 2, 0),
    ROW(exp, elements, -3, 3, 1e-6),
    ROW(log, elements, 0.1f, 5, 2e-6),
    ROW(sqrt, elements, 0.1f, 5, 1e-6),
    ROW(square, elements, -2, 2, 1e-6),
    ROW(abs, elements, -2, 2, 1e-8),
    ROW(sigmoid, elements, -6, 6, 1e-6),
    ROW(tanh, elements, -4, 4, 1e-6),
    ROW(relu, elements, -2, 2, 1e-8),
    ROW(gelu, elements, -4, 4, 2e-6),
    ROW(softplus, elements, -6, 6, 1e-6),
    ROW(leaky_relu, slopes, -2, 2, 1e-6),
    ROW(scale, elements, -2, 2, 1e-6),
    ROW(shift, elements, -2, 2, 1e-6),
    ROW(stop_gradient, no_gradients, -2, 2, 0),
    ROW(add, broadcast, -2, 2, 1e-5),
    ROW(sub, broadcast, -2, 2, 1e-5),
    ROW(mul, broadcast, -2, 2, 1e-5),
    ROW(div, broadcast, 0.5f, 2, 1e-5),
    ROW(min, broadcast, -2, 2, 1e-5),
    ROW(max, broadcast, -2, 2, 1e-5),
    ROW(select, selects, -2, 2, 1e-5),
    ROW(matmul, products, -1, 1, 1e-5),
    ROW(dot, dots, -1, 1, 1e-5),
    ROW(linear, linears, -1, 1, 2e-5),
    ROW(linear, concat_linears, -1, 1, 2e-5),
    ROW(linear, linears_in_steps, -1, 1, 2e-5),
    ROW(linear, linears_t, -1, 1, 2e-5),
    ROW(sum, axes, -2, 2, 1e-5),
    ROW(mean, axes, -2, 2, 1e-5),
    ROW(amax, axes, -2, 2, 1e-5),
    ROW(softmax, last_axis_of, -4, 4, 1e-5),
    ROW(log_softmax, last_axis_of, -4, 4, 1e-5),
    ROW(layer_norm, norms, -2, 2, 5e-5),
    LIST(sum_n, lists, -2, 2, 0),
    LIST(mean_n, lists, -2, 2, 0),
    LIST(max_n, lists, -2, 2, NOT_EMPTY),
    LIST(attend_n, attends, -2, 2, 0),
    LIST(gates, gated, -1, 1, 0),
    LIST(gates, gated_max, -1, 1, NOT_EMPTY),
    LIST(components, several_lists, -2, 2, 0),
    ROW(concat, concats, -2, 2, 0),
    ROW(slice, slices, -2, 2, 0),
    ROW(split, splits, -2, 2, 1e-5),
    ROW(reshape, reshapes, -2, 2, 0),
    ROW(transpose, transposes, -2, 2, 0),
    ROW(pick, scalars, -2, 2, 0),
    ROW(identity, identities, -2, 2, 0),
    LIST(lookup, tables, -2, 2, NO_CELL),
    LIST(constant, one_number, 0, 0, NO_CELL),
    LIST(zeros, some_zeros, 0, 0, NO_CELL),
    ROW(softmax_xent, labels, -4, 4, 1e-5),
    ROW(hinge, labels, -2, 2, 1e-5),
    ROW(softmax_kl, distributions, -4, 4, 1e-5),
    ROW(bce, probabilities, -4, 4, 1e-5),
    ROW(squared_error, differences, -2, 2, 2e-5),
    ROW(huber, differences, -2, 2, 1e-5),
    USER(powers, powers, elements, 0),
    USER(powers_one_row, powers, elements, 0),
    USER(mix, mix, user_mixes, 0),
    USER(twice, twice, no_gradients, 0),
    USER(pairs, pairs, user_lists, NO_CELL | NOT_EMPTY),
};

/* ---- cases ---------------------------------------------------------------------------------- */

static float pool[POOL];
static size_t pool_used;
static double numbers[MAX_IN][1 << 17]; /* the inputs of one sample, for the references */

static int is_param(const operand *o) { return is(o, "WVEbpq"); }
static int is_used(const operand *o) { return is(o, "pq"); }
static int is_common(const operand *o) { return is(o, "WVEbpqsS"); }
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
        char *end;
        c->attr[i] = (int)strtol(spec, &end, 10);
        spec = end;
    }
    c->out_size = floats_of(&c->out);
    c->stride = c->out_size;
    for (int k = 0; k < c->n_in; k++)
        if (!is_common(&c->in[k])) c->stride += most_elements(&c->in[k]) * c->in[k].size;
}

static const float *draw(check_random *r, const op_case *c, const operand *o)
{
    const size_t n = (size_t)(most_elements(o) * o->size);
    float *x = pool + pool_used, sum = 0;
    pool_used += n;
    if (!CHECK_SAYS(pool_used <= POOL, "the pool is too small")) exit(1);
    random_fill(r, x, n, is(o, "ctk") ? 0.1f : c->row->low, is(o, "ctk") ? 1 : c->row->high);
    for (size_t i = 0; i < n && is(o, "c"); i++) x[i] *= random_below(r, 2) ? 1.0f : -1.0f;
    if (!is(o, "t")) return x;
    if (n > 2) x[1] = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    for (size_t i = 0; i < n; i++) x[i] /= sum;
    return x;
}

static void fill(op_case *c)
{
    check_random r = { 7 };
    const operand weights = { 0, 1, c->out_size, c->out };
    const op_row unit = { "", NULL, NULL, NULL, -1, 1, 0, 0, NULL };
    op_case weighed = *c;
    weighed.row = &unit;
    pool_used = 0;
    for (int s = 0; s < MAX_SAMPLES; s++) {
        for (int k = 0; k < c->n_in; k++)
            c->data[k][s] = s && is_common(&c->in[k]) ? c->data[k][0] : draw(&r, c, &c->in[k]);
        c->weight[s] = draw(&r, &weighed, &weights);
    }
}

enum { WINDOWS = 1, IN_CELL = 2, INFERENCE = 4 }; /* how a case is recorded */

/* Elements in a sample's lists: 0 to 20, scrambled; the rows' flags say whether none is possible. */
static void choose_sample(op_case *c, int sample, int how)
{
    c->variety = how & IN_CELL ? 0 : sample; /* data in a cell is constant */
    c->count = c->row->flags & NOT_EMPTY ? 1 + (sample * 8 + 3) % 20 : (sample * 8 + 3) % 21;
}

static void add_params(op_case *c, fold_model *m)
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
        d.uses = is(o, "V") ? FOLD_FOR_LINEAR_T : is(o, "Eq") ? FOLD_FOR_LOOKUP : 0;
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
static int make_cell(op_case *c, fold_model *m)
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
    return fold_call_list(f, c->cell, in, n, list, c->count);
}

static fold_node record_case(fold_ctx *f, const op_case *c, int how)
{
    return how & IN_CELL ? call_cell(f, c) : c->row->record(f, c);
}

/* Records element x of an operand; the node its gradient arrives at goes to *leaf. With WINDOWS it is part of
   an op's result, one float past its start. */
static fold_node record_operand(fold_ctx *f, const operand *o, const float *x, int how, fold_node *leaf)
{
    fold_node y;
    if (how & WINDOWS) {
        const float border = 9;
        const fold_node wide[3] = { fold_constant(f, border), fold_input(f, x, o->size),
                                    fold_constant(f, border) };
        *leaf = wide[1];
        y = fold_reshape(f, fold_slice(f, fold_concat(f, wide, 3, 0), 0, 1, o->size), o->shape);
    } else {
        *leaf = y = is(o, "r") ? fold_input_ref(f, x, o->shape)
            : o->shape.rank == 1 ? fold_input(f, x, o->size) : fold_input_shaped(f, x, o->shape);
        if (is(o, "S")) y = fold_scale(f, y, 1);
    }
    return is(o, "sS") ? fold_shared(f, y) : y;
}

/* Records the operands that are common to all samples, or those of one. */
static void record_operands(fold_ctx *f, op_case *c, int common, int sample, int how, leaves leaf)
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

static void load(op_case *c, int sample, int how)
{
    choose_sample(c, sample, how);
    for (int k = 0; k < c->n_in; k++) {
        const int n = (is_list(&c->in[k]) ? c->count : c->in[k].count) * c->in[k].size;
        c->x[k] = is(&c->in[k], "=") ? c->x[0] : numbers[k];
        for (int i = 0; i < n && !is(&c->in[k], "="); i++) c->x[k][i] = (double)c->data[k][sample][i];
    }
}

static double loss_of(const op_case *c, int sample)
{
    static double y[1 << 12];
    double sum = 0;
    c->row->reference(c, y);
    for (int i = 0; i < c->out_size; i++) sum += y[i] * (double)c->weight[sample][i];
    return sum;
}

/* d loss / d element e of operand k, of one loaded sample */
static double difference(op_case *c, int sample, int k, int e)
{
    const double h = 1e-5, x = c->x[k][e];
    if (is(&c->in[k], "ctkz")) return 0;
    c->x[k][e] = x + h;
    const double above = loss_of(c, sample);
    c->x[k][e] = x - h;
    const double below = loss_of(c, sample);
    c->x[k][e] = x;
    return (above - below) / (2 * h);
}

static void compare(const op_case *c, const char *what, int k, int sample, int e, double got, double want)
{
    const double margin = (c->row->tolerance + (k < 0 ? 0 : 2e-6)) * (1 + fabs(want));
    CHECK_SAYS(fabs(got - want) <= margin, "%s %d of operand %d, sample %d: %.9g, want %.9g", what, e, k,
               sample, got, want);
}

/* Elements of an operand to look at: all, or the first, the last and some between. */
static int probe(int i, int n)
{
    if (n <= MAX_PROBES || i < 8) return i;
    return i < 16 ? n + 7 - i : (int)((long long)i * 7919 % n);
}

static void compare_common(op_case *c, int k, int n_samples, int how, const float *grad)
{
    static double want[MAX_PROBES];
    const int size = c->in[k].size, n = size < MAX_PROBES ? size : MAX_PROBES;
    memset(want, 0, sizeof want);
    for (int s = 0; s < n_samples; s++) {
        load(c, s, how);
        for (int i = 0; i < n; i++) want[i] += difference(c, s, k, probe(i, size));
    }
    for (int i = 0; i < n; i++)
        compare(c, "gradient", k, -1, probe(i, size), (double)grad[probe(i, size)], want[i]);
}

static void compare_sample(op_case *c, int s, const float *r)
{
    static double y[1 << 12];
    c->row->reference(c, y);
    for (int i = 0; i < c->out_size; i++) compare(c, "value", -1, s, i, (double)r[i], y[i]);
    r += c->out_size;
    for (int k = 0; k < c->n_in; k++) {
        const operand *o = &c->in[k];
        const int n = (is_list(o) ? c->count : o->count) * o->size;
        if (is_common(o)) continue;
        for (int e = 0; e < n && !is(o, "=n"); e++)
            compare(c, "gradient", k, s, e, (double)r[e], difference(c, s, k, e));
        r += most_elements(o) * o->size;
    }
}

static void against_reference(op_case *c, int n_samples, int how, const float *r)
{
    const float *common = r + MAX_SAMPLES * c->stride;
    for (int s = 0; s < n_samples; s++) {
        load(c, s, how);
        compare_sample(c, s, r + s * c->stride);
    }
    for (int k = 0; k < c->n_in; k++) {
        if (!is_common(&c->in[k])) continue;
        compare_common(c, k, n_samples, how, common);
        common += c->in[k].size;
    }
}

/* ---- a case, every way it can run -------------------------------------------------------------- */

static float results[4][1 << 18];

typedef struct mode { const char *name; int eager, dedupe; fold_schedule schedule; size_t group_bytes; } mode;
static const mode modes[] = {
    { "ratio", 0, 0, FOLD_SCHEDULE_RATIO, 0 },
    { "eager", 1, 0, FOLD_SCHEDULE_RATIO, 0 },
    { "depth", 0, 0, FOLD_SCHEDULE_DEPTH, 0 },
    { "agenda", 0, 0, FOLD_SCHEDULE_AGENDA, 0 },
    { "one group", 0, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX },
    { "small groups", 0, 0, FOLD_SCHEDULE_RATIO, 1 },
    { "dedupe", 0, 1, FOLD_SCHEDULE_RATIO, 0 },
    { "eager, dedupe", 1, 1, FOLD_SCHEDULE_RATIO, 0 },
};
enum { N_MODES = sizeof modes / sizeof *modes };

static fold_ctx *new_ctx(fold_model *m, const mode *how, int training)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.eager = how->eager;
    d.dedupe = how->dedupe;
    d.schedule = how->schedule;
    d.group_bytes = how->group_bytes;
    return fold_ctx_new(m, &d);
}

static int result_size(const op_case *c)
{
    int n = MAX_SAMPLES * c->stride;
    for (int k = 0; k < c->n_in; k++) n += is_common(&c->in[k]) ? c->in[k].size : 0;
    return n;
}

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

/* A null operand makes the result null, without an error. */
static void with_null(op_case *c, fold_ctx *f, int how)
{
    static leaves leaf;
    const fold_node null = { 0, 0 };
    fold_ctx_reset(f);
    choose_sample(c, 1, how);
    record_operands(f, c, 1, 0, how, leaf);
    record_operands(f, c, 0, 1, how, leaf);
    for (int k = 0; k < c->n_in; k++) {
        const fold_node node = c->node[k][0];
        if (is_param(&c->in[k]) && (how & IN_CELL || !is_used(&c->in[k]))) continue;
        c->node[k][0] = null;
        CHECK(fold_node_is_null(record_case(f, c, how)));
        CHECK_SAYS(!*fold_ctx_message(f), "%s", fold_ctx_message(f));
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        c->node[k][0] = node;
    }
    CHECK(!fold_node_is_null(record_case(f, c, how)));
}

/* All modes, operands that are windows, null operands. */
static void in_every_way(op_case *c, fold_ctx **f, int n_samples, int how)
{
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
    static const op_row row = ROW(linear, NULL, -1, 1, 2e-5);
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

RECORD(stopped, fold_mul(f, X(0), fold_stop_gradient(f, X(1))))

enum { TIED = 5 };
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
    { "leaky_relu", record_leaky_relu, 50, { 0.5f, 1, 1, 0.5f, 0.5f }, { 0 } },
    { "min", record_min, 0, { 0, 0, 1, 0, 0 }, { 1, 1, 0, 1, 1 } },
    { "max", record_max, 0, { 0, 0, 0, 0, 1 }, { 1, 1, 1, 1, 0 } },
    { "amax", record_amax, 0, { 0, 1, 0, 0, 0 }, { 0 } },
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
    const fold_node call = fold_call_list(f, cell, NULL, 0, list, n);
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

/* ---- attention over many elements --------------------------------------------------------------- */

enum { MOST_ATTENDED = 300, ATTEND_WIDTH = 5, ATTEND_RESULTS = ATTEND_WIDTH + MOST_ATTENDED * (1 + ATTEND_WIDTH) };

/* The value and all gradients of attention over n elements, the loss being the sum of the result's squares. */
static int attend_to(fold_ctx *f, const float *scores, const float *values, int n, float *results_of)
{
    static fold_node score[MOST_ATTENDED], value[MOST_ATTENDED];
    fold_ctx_reset(f);
    for (int i = 0; i < n; i++) {
        score[i] = fold_input(f, scores + i, 1);
        value[i] = fold_input(f, values + i * ATTEND_WIDTH, ATTEND_WIDTH);
        fold_keep_grad(f, score[i]);
        fold_keep_grad(f, value[i]);
    }
    const fold_node y = fold_attend_n(f, score, value, n);
    fold_keep(f, y);
    if (!CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_square(f, y), 0)), "%s", fold_ctx_message(f))) return 0;
    memcpy(results_of, fold_value(f, y), ATTEND_WIDTH * sizeof(float));
    for (int i = 0; i < n; i++) {
        results_of[ATTEND_WIDTH + i] = fold_grad(f, score[i])[0];
        memcpy(results_of + ATTEND_WIDTH + n + i * ATTEND_WIDTH, fold_grad(f, value[i]), ATTEND_WIDTH * sizeof(float));
    }
    return 1;
}

static void check_attention(const float *scores, const float *values, int n, const float *got)
{
    double y[ATTEND_WIDTH] = { 0 }, sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)scores[i]);
    for (int i = 0; i < n * ATTEND_WIDTH; i++)
        y[i % ATTEND_WIDTH] += exp((double)scores[i / ATTEND_WIDTH]) / sum * (double)values[i];
    for (int k = 0; k < ATTEND_WIDTH; k++) CHECK_NEAR((double)got[k], y[k], 1e-6);
    for (int i = 0; i < n; i++) {
        const double weight = exp((double)scores[i]) / sum;
        double slope = 0;
        for (int k = 0; k < ATTEND_WIDTH; k++) {
            slope += 2 * y[k] * weight * ((double)values[i * ATTEND_WIDTH + k] - y[k]);
            CHECK_NEAR((double)got[ATTEND_WIDTH + n + i * ATTEND_WIDTH + k], 2 * y[k] * weight, 1e-6);
        }
        CHECK_NEAR((double)got[ATTEND_WIDTH + i], slope, 1e-6);
    }
}

static void test_attention_to_many(void)
{
    static const int counts[] = { 1, 16, 63, 64, 65, 127, 128, 129, MOST_ATTENDED };
    static const char *const isas[] = { "avx512", "avx2", "neon", "portable" };
    static float scores[MOST_ATTENDED], values[MOST_ATTENDED * ATTEND_WIDTH], want[ATTEND_RESULTS], got[ATTEND_RESULTS];
    check_random r = { 21 };
    random_fill(&r, scores, MOST_ATTENDED, -3, 3);
    random_fill(&r, values, MOST_ATTENDED * ATTEND_WIDTH, -1, 1);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const int n = counts[k];
        for (int i = 0, seen = 0; i < 4; i++) {
            fold_model_desc desc = fold_model_desc_default();
            desc.isa = isas[i];
            fold_model *m = fold_model_new(&desc);
            const int fused = PORTABLE_MATCHES || strcmp(isas[i], "portable");
            for (int how = 0; how < 2 && !fold_model_status(m); how++) {
                fold_ctx *f = new_ctx(m, &modes[how], 1);
                if (attend_to(f, scores, values, n, got)) check_attention(scores, values, n, got);
                if (fused && seen) CHECK_BITS(got, want, (size_t)(ATTEND_WIDTH + n * (1 + ATTEND_WIDTH)));
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
            y[s] = fold_call_list(f, cell, &x[s], 1, list, s);
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
    CHECK(same.id == x.id && same.epoch == x.epoch);
    CHECK_INT(fold_run(f[2], &call, 1), FOLD_OK);
    for (int e = 0; e < DROPS; e++) CHECK(fold_value(f[2], call)[e] == 2 * value[e]);
    for (int i = 0; i < 3; i++) fold_ctx_free(f[i]);
    fold_model_free(m);
}

static void test_dropout(void)
{
    test_dropout_rate(0);
    test_dropout_rate(0.1f);
    test_dropout_rate(0.5f);
    test_dropout_rate(0.9f);
}

/* ---- bad calls: null, the first error stays, and its message helps ------------------------------- */

typedef struct bad_calls {
    fold_model *m;
    fold_ctx *f, *inference;
    fold_param W, b, gain, table, theirs;
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
    BAD(fold_input_shaped(f, x, empty), BAD_SHAPE, "input", "rank 1 to 4");
    BAD(fold_input_ref(f, x, deep), BAD_SHAPE, "input_ref", "rank 1 to 4");
    BAD(fold_zeros(f, hollow), BAD_SHAPE, "input", "at least 1");
    BAD(fold_linear(f, n.v4, n.W, none), BAD_SHAPE, "linear: input has 4 values", "W is [3 x 2]");
    BAD(fold_linear(f, n.v3, n.W, n.b), BAD_SHAPE, "bias b must be [2]", "W is [3 x 2]");
    BAD(fold_linear_n(f, n.list, 2, n.W, none), BAD_SHAPE, "has 7 values", "W is [3 x 2]");
    BAD(fold_linear_first(f, n.v4, n.W, none), BAD_SHAPE, "linear: input has 4 values", "W is [3 x 2]");
    BAD(fold_linear_then(f, n.v3, n.v4, n.W), BAD_SHAPE, "linear: input has 4 values", "W is [3 x 2]");
    BAD(fold_linear_then(f, n.v4, n.v3, n.W), BAD_SHAPE, "linear: the rows to start from have another shape", "[3], [4]");
    BAD(fold_linear(f, fold_concat2(f, n.v3, n.v4), n.W, none), BAD_SHAPE, "has 7 values", "W is [3 x 2]");
    BAD(fold_matmul(f, n.m23, n.m23), BAD_SHAPE, "matmul", "[2 x 3], [2 x 3]");
    BAD(fold_matmul(f, n.v3, n.v3), BAD_SHAPE, "matmul", "[3], [3]");
    BAD(fold_matmul(f, n.k234, n.v4), BAD_SHAPE, "matmul", "[2 x 3 x 4], [4]");
    BAD(fold_dot(f, n.v3, n.v4), BAD_SHAPE, "dot", "[3], [4]");
    BAD(fold_add(f, n.v3, n.v4), BAD_SHAPE, "add", "[3], [4]");
    BAD(fold_sub(f, n.m23, n.m34), BAD_SHAPE, "sub", "[2 x 3], [3 x 4]");
    BAD(fold_mul(f, n.k234, n.m23), BAD_SHAPE, "mul", "last axes");
    BAD(fold_div(f, n.v4, n.m23), BAD_SHAPE, "div", "[4], [2 x 3]");
    BAD(fold_min(f, n.v3, n.v4), BAD_SHAPE, "min", "[3], [4]");
    BAD(fold_max(f, n.v3, n.v4), BAD_SHAPE, "max", "[3], [4]");
    BAD(fold_select(f, n.v3, n.v3, n.v4), BAD_SHAPE, "select", "[3], [3], [4]");
    BAD(fold_sum(f, n.v3, 1), BAD_SHAPE, "sum", "no such axis");
    BAD(fold_mean(f, n.m23, 2), BAD_SHAPE, "mean", "[2 x 3]");
    BAD(fold_amax(f, n.m23, -2), BAD_SHAPE, "amax", "no such axis");
    BAD(fold_layer_norm(f, n.v4, n.gain, n.b), BAD_SHAPE, "layer_norm", "[4], [3], [3]");
    BAD(fold_sum_n(f, n.list, 2), BAD_SHAPE, "sum_n", "one shape");
    BAD(fold_max_n(f, n.list, 2), BAD_SHAPE, "max_n", "[3], [4]");
    BAD(fold_attend_n(f, n.list, n.list, 1), BAD_SHAPE, "attend_n", "score");
    BAD(fold_concat(f, n.list, 2, 1), BAD_SHAPE, "concat", "axis");
    BAD(fold_concat2(f, n.m23, n.m34), BAD_SHAPE, "concat", "[2 x 3], [3 x 4]");
    BAD(fold_concat2(f, n.v3, n.m23), BAD_SHAPE, "concat", "ranks differ");
    BAD(fold_slice(f, n.v3, 0, 2, 2), BAD_SHAPE, "slice", "outside");
    BAD(fold_slice(f, n.m23, 1, -1, 2), BAD_SHAPE, "slice", "outside");
    BAD(fold_slice(f, n.m23, 1, 1, INT32_MAX), BAD_SHAPE, "slice", "outside");
    BAD(fold_slice(f, n.m23, 2, 0, 1), BAD_SHAPE, "slice", "axis");
    BAD((fold_split(f, n.v3, 2, n.parts), n.parts[1]), BAD_SHAPE, "split", "[3]");
    BAD(fold_reshape(f, n.m23, fold_shape1(5)), BAD_SHAPE, "reshape", "[2 x 3]");
    BAD(fold_reshape(f, n.m23, empty), BAD_SHAPE, "reshape", "[2 x 3]");
    BAD(fold_transpose(f, n.m23, 0, 2), BAD_SHAPE, "transpose", "axis");
    BAD(fold_softmax_xent(f, n.m23, 0), BAD_SHAPE, "softmax_xent", "vector");
    BAD(fold_softmax_kl(f, n.v3, n.v4), BAD_SHAPE, "softmax_kl", "[3], [4]");
    BAD(fold_bce(f, n.v3, n.v4), BAD_SHAPE, "bce", "[3], [4]");
    BAD(fold_squared_error(f, n.v3, n.m23), BAD_SHAPE, "squared_error", "[2 x 3]");
    BAD(fold_huber(f, n.v3, n.v4, 1), BAD_SHAPE, "huber", "[3], [4]");
    BAD(fold_hinge(f, n.m23, 0), BAD_SHAPE, "hinge", "vector");
    BAD(fold_call(f, n.cell, n.list, 2), BAD_SHAPE, "pair", "input 1");
    BAD(fold_call_list(f, n.largest, NULL, 0, &n.v4, 1), BAD_SHAPE, "largest", "[4]");
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
    BAD(fold_linear_n(f, n.list, 0, n.W, none), BAD_ARGUMENT, "linear", "1 to 32");
    BAD(fold_linear_n(f, NULL, 2, n.W, none), BAD_ARGUMENT, "linear", "NULL");
    BAD(fold_lookup(f, n.W, 0), BAD_ARGUMENT, "'W'", "FOLD_FOR_LOOKUP");
    BAD(fold_lookup(f, n.table, 5), BAD_ARGUMENT, "row 5", "'words' has 5 rows");
    BAD(fold_lookup(f, n.table, -1), BAD_ARGUMENT, "row -1", "'words'");
    BAD(fold_dropout(f, n.v3, 1), BAD_ARGUMENT, "dropout", "rate 1");
    BAD(fold_dropout(f, n.v3, -0.5f), BAD_ARGUMENT, "dropout", "-0.5");
    BAD(fold_sum_n(f, n.list, 0), BAD_ARGUMENT, "sum_n", "_shaped");
    BAD(fold_mean_n(f, NULL, 0), BAD_ARGUMENT, "mean_n", "empty list");
    BAD(fold_sum_n(f, n.list, -1), BAD_ARGUMENT, "sum_n", "count of -1");
    BAD(fold_attend_n(f, n.list, n.list, -2), BAD_ARGUMENT, "attend_n", "count of -2");
    BAD(fold_call_list(f, n.largest, NULL, 0, n.list, -1), BAD_ARGUMENT, "largest", "count of -1");
    BAD(fold_op_apply(f, n.mix, n.list, -2, attr, 0), BAD_ARGUMENT, "mix", "-2 inputs");
    BAD(fold_max_n(f, n.list, 0), BAD_ARGUMENT, "max_n", "no maximum");
    BAD(fold_attend_n(f, n.list, n.list, 0), BAD_ARGUMENT, "attend_n", "_shaped");
    BAD(fold_attend_n(f, n.list, NULL, 2), BAD_ARGUMENT, "attend_n", "NULL");
    BAD(fold_concat(f, n.list, 0, 0), BAD_ARGUMENT, "concat", "at least one");
    BAD((fold_split(f, n.v3, 0, n.parts), fold_tanh(f, n.v3)), BAD_ARGUMENT, "split", "got 0");
    BAD(fold_pick(f, n.v3, 3), BAD_ARGUMENT, "index 3", "3 values");
    BAD(fold_pick(f, n.v3, -1), BAD_ARGUMENT, "pick", "-1");
    BAD(fold_softmax_xent(f, n.v3, 3), BAD_ARGUMENT, "softmax_xent", "3 values");
    BAD(fold_hinge(f, n.v3, -1), BAD_ARGUMENT, "hinge", "-1");
    BAD(fold_huber(f, n.v3, n.v3, 0), BAD_ARGUMENT, "huber", "delta");
    BAD(fold_call(f, n.cell, n.list, 1), BAD_ARGUMENT, "pair", "takes 2 inputs, got 1");
    BAD(fold_call_list(f, n.cell, n.list, 2, n.list, 1), BAD_ARGUMENT, "pair", "no list");
    BAD(fold_call_list(f, n.largest, NULL, 0, NULL, 0), BAD_ARGUMENT, "largest", "empty");
    BAD(fold_out(f, n.v3, 1), BAD_ARGUMENT, "out", "output 1");
    BAD(fold_op_apply(f, n.mix, n.list, 1, attr, 0), BAD_ARGUMENT, "mix", "1 inputs");
    BAD(fold_op_apply(f, n.mix, n.list, 2, NULL, 0), BAD_ARGUMENT, "mix", "NULL");
    BAD(fold_linear(f, n.v3, none, none), BAD_HANDLE, "linear", "parameter");
    BAD(fold_linear(f, n.v3, n.W, n.theirs), BAD_HANDLE, "linear", "model");
    BAD(fold_lookup(f, n.theirs, 0), BAD_HANDLE, "lookup", "model");
    BAD(fold_use(f, n.theirs), BAD_HANDLE, "use", "model");
    BAD(fold_layer_norm(f, n.v3, n.b, none), BAD_HANDLE, "use", "parameter");
    BAD(fold_tanh(f, n.stale), BAD_HANDLE, "tanh", "fold_ctx_reset");
    BAD(fold_add(f, n.v3, n.foreign), BAD_HANDLE, "add", "another context");
    BAD(fold_sum_n(f, &n.stale, 1), BAD_HANDLE, "sum_n", "fold_ctx_reset");
    BAD(fold_reshape(f, n.foreign, fold_shape1(3)), BAD_HANDLE, "reshape", "another context");
    BAD(fold_call(f, no_cell, n.list, 2), BAD_HANDLE, "call", "cell");
    BAD(fold_op_apply(f, no_op, n.list, 2, attr, 0), BAD_HANDLE, "apply", "op");
    BAD(fold_list_sum(f, n.v3), BAD_CELL, "list", "body");
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
    BAD((fold_run(f, &n.v3, -1), null), BAD_ARGUMENT, "run", "count of -1");
    CHECK_INT(fold_read(f, &n.v3, -1, values), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "read: a count of -1");
    BAD((fold_keep(f, n.stale), null), BAD_HANDLE, "keep", "fold_ctx_reset");
    BAD((fold_keep_grad(f, n.foreign), null), BAD_HANDLE, "keep_grad", "another context");
    CHECK_INT(fold_backward(n.inference, fold_sum(n.inference, n.foreign, 0)), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(n.inference), "inference");
    close_bad_calls(&n);
    fold_model_free(other);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int j = 0; rows[i].specs[j]; j++) test_case(&rows[i], rows[i].specs[j]);
    test_product_sizes();
    check_run("ties", test_ties);
    check_run("kept gradients", test_kept_gradients);
    check_run("sums of many values", test_sums_of_many);
    check_run("attention to many", test_attention_to_many);
    check_run("dropout", test_dropout);
    check_run("dropout in lists", test_list_dropout);
    check_run("bad shapes", test_bad_shapes);
    check_run("bad arguments", test_bad_arguments);
    check_run("bad runs", test_bad_runs);
    return check_finish();
}
