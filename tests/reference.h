/* reference.h - an oracle that shares nothing with fold.h: values and gradients of every op, list op, loss,
   layer and cell, in double precision, of one sample, written from their formulas. Tests of single ops,
   kernels, layers and random sessions all compare with it; tests/test_reference.c compares it with difference
   quotients of itself.

   An op is a row of REF_OPS: a function of values and one of gradients, which see one row, or a whole list. A
   tape holds what was computed, so that layers are compositions of ops:

       ref_begin(t);
       const int x = ref_input(t, ref_shape1(3), REF_NODE, values), y = ref_of(t, REF_tanh, x);
       t->value[y].g[0] = 1;
       ref_backward(t);                // t->value[x].g is the gradient

   Every result comes with a bound of how far floats may be from it. For an op it is the accuracy that fold.h
   states in its section on contracts: so many units in the last place of the result, or of the sum of the
   magnitudes of the terms that it is a sum of. For a composition of ops it is what the result of the last is
   moved by when all those before it are moved by what they may be wrong, each up or down by chance (Monte
   Carlo arithmetic, Parker 1997).

   Include it behind nothing. C99 and C++17. */

#ifndef REFERENCE_H
#define REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values and calls --------------------------------------------------------------------------- */

enum { REF_RANK = 4, REF_NODE = -1, REF_ALL = 1 << 20 }; /* rows of what is no list; axis: all of them */
typedef struct ref_shape { int rank, dim[REF_RANK]; } ref_shape;

/* The numbers of a call: x and z: a factor, slope, exponent, rate, epsilon or bound, and a second bound; i:
   axes, a part's start and length, windows' stride, padding and dilation, heads; index: n rows, labels or
   edges. */
typedef struct ref_attr {
    double x, z;
    int i[4], n;
    const int *index;
    uint64_t key;
    ref_shape shape;
} ref_attr;

/* An operand as an op sees it, and where the op adds: gradients (dx), the magnitudes of the terms they are
   sums of (dm), what rounding decides (de), and how many terms of one sum there are. */
typedef struct ref_operand {
    ref_shape shape;
    int rows;
    const double *x;
    double *dx, *dm, *de, terms;
} ref_operand;

/* One row of a call of an op, or all. Forward writes y and s, the magnitudes of terms; backward reads y and
   dy. */
typedef struct ref_call {
    int n, rows, row;
    ref_operand *in;
    ref_shape out;
    double *y, *s;
    const double *dy;
    double terms;
    const ref_attr *a;
} ref_call;

static inline ref_shape ref_shape_of(int rank, const int *dim)
{
    ref_shape s = { rank, { 0, 0, 0, 0 } };
    memcpy(s.dim, dim, (size_t)rank * sizeof *dim);
    return s;
}
static inline ref_shape ref_shape1(int n) { return ref_shape_of(1, &n); }
static inline ref_shape ref_shape2(int rows, int columns)
{
    const int dim[2] = { rows, columns };
    return ref_shape_of(2, dim);
}
static inline int ref_size(const ref_shape *s)
{
    int n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}
static inline int ref_last(const ref_shape *s) { return s->dim[s->rank - 1]; }
static inline void ref_add(ref_operand *o, int i, double term, double magnitude)
{
    o->dx[i] += term;
    o->dm[i] += fabs(magnitude);
}

/* A unit in the last place of a float of this size. */
static inline double ref_ulp(double size)
{
    uint64_t bits;
    if (!(fabs(size) < 1e300)) return size;
    memcpy(&bits, &size, sizeof bits);
    bits = bits >> 52 & 0x7ff; /* the exponent and 1023; in the same place the unit's is put */
    bits = (bits > 1023 - 126 ? bits : 1023 - 126) - 23;
    bits <<= 52;
    memcpy(&size, &bits, sizeof size);
    return size;
}

/* ---- shapes of results -------------------------------------------------------------------------- */

static void ref_same_shape(ref_call *c) { c->out = c->in[0].shape; }
static void ref_scalar_shape(ref_call *c) { c->out = ref_shape1(1); }
static void ref_given_shape(ref_call *c) { c->out = c->a->shape; }
/* Shapes meet from the last axis on. */
static void ref_broadcast_shape(ref_call *c)
{
    c->out = c->in[0].shape;
    for (int k = 1; k < c->n; k++) {
        const ref_shape *own = &c->in[k].shape;
        for (int more = own->rank - c->out.rank; more > 0; more--) {
            memmove(c->out.dim + 1, c->out.dim, (size_t)c->out.rank++ * sizeof(int));
            c->out.dim[0] = 1;
        }
        for (int i = 0; i < own->rank; i++) {
            int *dim = &c->out.dim[c->out.rank - own->rank + i];
            *dim = *dim > own->dim[i] ? *dim : own->dim[i];
        }
    }
}
static int ref_axis(const ref_shape *s, int axis) { return axis < 0 ? axis + s->rank : axis; }
static void ref_without_axis_shape(ref_call *c)
{
    const int axis = ref_axis(&c->in[0].shape, c->a->i[0]);
    c->out = c->in[0].shape;
    if (axis >= REF_ALL || c->out.rank == 1) {
        c->out = ref_shape1(1);
        return;
    }
    memmove(c->out.dim + axis, c->out.dim + axis + 1, (size_t)(c->out.rank - axis - 1) * sizeof(int));
    c->out.rank--;
}
/* A value is seen as [outer][length][inner] around an axis. */
typedef struct ref_around { int outer, length, inner; } ref_around;
static ref_around ref_around_axis(const ref_shape *s, int axis)
{
    ref_around a = { 1, 1, 1 };
    for (int i = 0; i < s->rank; i++) {
        if (axis == REF_ALL || i == ref_axis(s, axis)) a.length *= s->dim[i];
        else if (i < ref_axis(s, axis)) a.outer *= s->dim[i];
        else a.inner *= s->dim[i];
    }
    return a;
}

/* ---- maps of one value -------------------------------------------------------------------------- */

/* y of x, and its slope there, with the other numbers of the call; how large the terms of both are. */
#define REF_MAP_SUM(name, value, size, slope, slope_size)                                                  \
    static void ref_##name##_forward(ref_call *c)                                                          \
    {                                                                                                      \
        const double p = c->a->x, q = c->a->z;                                                             \
        for (int i = 0; i < ref_size(&c->out); i++) {                                                      \
            const double x = c->in[0].x[i], y = (value);                                                   \
            c->y[i] = y;                                                                                   \
            c->s[i] = fabs(size);                                                                          \
        }                                                                                                  \
        (void)p, (void)q;                                                                                  \
    }                                                                                                      \
    static void ref_##name##_backward(ref_call *c)                                                         \
    {                                                                                                      \
        const double p = c->a->x, q = c->a->z;                                                             \
        for (int i = 0; i < ref_size(&c->out); i++) {                                                      \
            const double x = c->in[0].x[i], y = c->y[i];                                                   \
            (void)x, (void)y;                                                                              \
            ref_add(&c->in[0], i, c->dy[i] * (slope), c->dy[i] * (slope_size));                            \
        }                                                                                                  \
        (void)p, (void)q;                                                                                  \
    }
#define REF_MAP(name, value, slope) REF_MAP_SUM(name, value, y, slope, slope)
static const double ref_pi = 3.14159265358979323846;
static double ref_logistic(double x) { return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
/* log(1 + e^x) */
static double ref_log1pexp(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
/* The tanh form of GELU_TANH (Hendrycks and Gimpel 2016) is x logistic(2 u), as (1 + tanh u) / 2 is that. */
static double ref_gelu_tanh_argument(double x) { return 2 * sqrt(2 / ref_pi) * (x + 0.044715 * x * x * x); }
static double ref_gelu_tanh_slope(double x)
{
    return 2 * sqrt(2 / ref_pi) * (1 + 3 * 0.044715 * x * x) * x;
}
/* The normal distribution and its density. */
static double ref_normal(double x) { return 0.5 * erfc(-x / sqrt(2)); }
static double ref_density(double x) { return exp(-0.5 * x * x) / sqrt(2 * ref_pi); }
static double ref_power(double x, double exponent)
{
    return exponent == 0 ? (isnan(x) ? x : 1) : pow(x, exponent);
}

REF_MAP(copy, x, 1)
REF_MAP(stop_gradient, x, 0)
REF_MAP(neg, -x, -1)
REF_MAP(scale, x * p, p)
REF_MAP(shift, x + p, 1)
REF_MAP(exp, exp(x), exp(x))
REF_MAP(log, log(x), 1 / x)
REF_MAP(sqrt, sqrt(x), 0.5 / sqrt(x))
REF_MAP(square, x * x, 2 * x)
REF_MAP(abs, fabs(x), x > 0 ? 1 : x < 0 ? -1 : 0)
REF_MAP_SUM(sigmoid, ref_logistic(x), y, ref_logistic(x) * ref_logistic(-x), ref_logistic(x))
REF_MAP_SUM(tanh, tanh(x), y, 1 - tanh(x) * tanh(x), 1)
/* As in PyTorch: NaN passes, and relu passes its gradient, bounds do not. */
REF_MAP(relu, x <= 0 ? 0 : x, x <= 0 ? 0 : 1)
REF_MAP(leaky_relu, x > 0 ? x : x * p, x > 0 ? 1 : p)
REF_MAP(elu, x > 0 ? x : p * expm1(x), x > 0 ? 1 : p * exp(x))
REF_MAP_SUM(gelu_tanh, x * ref_logistic(ref_gelu_tanh_argument(x)), y,
            ref_logistic(ref_gelu_tanh_argument(x)) *
                (1 + ref_gelu_tanh_slope(x) * ref_logistic(-ref_gelu_tanh_argument(x))),
            ref_logistic(ref_gelu_tanh_argument(x)) * (1 + fabs(ref_gelu_tanh_slope(x))))
REF_MAP_SUM(gelu, x * ref_normal(x), y, ref_normal(x) + x * ref_density(x),
            ref_normal(x) + fabs(x) * ref_density(x))
/* Below -87, where silu is less than 2e-36, so is its accuracy. */
REF_MAP_SUM(silu, x * ref_logistic(x), x < -87 ? 16 * y - ldexp(1, -122) : y,
            ref_logistic(x) * (1 + x * ref_logistic(-x)), ref_logistic(x) * (1 + fabs(x)))
REF_MAP(softplus, ref_log1pexp(x), ref_logistic(x))
REF_MAP_SUM(sin, sin(x), y, cos(x), cos(x))
REF_MAP_SUM(cos, cos(x), y, -sin(x), sin(x))
REF_MAP(pow, ref_power(x, p), p == 0 ? 0 : p * ref_power(x, p - 1))
REF_MAP(floor, floor(x), 0)
REF_MAP(at_least, x < p ? p : x, x >= p)
REF_MAP(at_most, x > p ? p : x, x <= p)
REF_MAP(clip, x < p ? p : x > q ? q : x, x >= p && x <= q)

/* The mask is a function of the context's key, the draw and the element: splitmix64 (Steele et al. 2014). */
static uint64_t ref_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
enum { REF_DRAW }; /* in a call's numbers i: which draw of its cell it is */
static double ref_mask(const ref_call *c, int element)
{
    const uint64_t draw = c->a->key + ((uint64_t)c->a->i[REF_DRAW] + 1) * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t row = ref_mix(draw + (uint64_t)(c->row + 1) * UINT64_C(0xd1342543de82ef95));
    const uint64_t bits = ref_mix(row + (uint64_t)element * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    return bits < (uint64_t)(c->a->x * 4294967296.0) ? 0 : 1 / (1 - c->a->x);
}
static void ref_dropout_forward(ref_call *c)
{
    for (int i = 0; i < ref_size(&c->out); i++) {
        c->y[i] = ref_mask(c, i) == 0 ? 0 : c->in[0].x[i] * ref_mask(c, i);
        c->s[i] = fabs(c->y[i]);
    }
}
static void ref_dropout_backward(ref_call *c)
{
    for (int i = 0; i < ref_size(&c->out); i++) {
        const double term = ref_mask(c, i) == 0 ? 0 : c->dy[i] * ref_mask(c, i);
        ref_add(&c->in[0], i, term, term);
    }
}

/* ---- maps of two values, and of three ----------------------------------------------------------- */

/* Where the value of an operand is that belongs to element i of the output: axes of 1, and missing ones,
   repeat. */
static int ref_repeated(const ref_shape *own_shape, const ref_shape *out, int i)
{
    int at = 0;
    for (int axis = out->rank - 1, own = own_shape->rank - 1, step = 1; axis >= 0 && own >= 0;
         axis--, own--) {
        at += i % out->dim[axis] % own_shape->dim[own] * step;
        step *= own_shape->dim[own];
        i /= out->dim[axis];
    }
    return at;
}
#define REF_BINARY(name, value, slope_a, slope_b)                                                          \
    static void ref_##name##_forward(ref_call *c)                                                          \
    {                                                                                                      \
        for (int i = 0; i < ref_size(&c->out); i++) {                                                      \
            const double a = c->in[0].x[ref_repeated(&c->in[0].shape, &c->out, i)];                        \
            const double b = c->in[1].x[ref_repeated(&c->in[1].shape, &c->out, i)];                        \
            c->y[i] = (value);                                                                             \
            c->s[i] = fabs(c->y[i]);                                                                       \
        }                                                                                                  \
    }                                                                                                      \
    static void ref_##name##_backward(ref_call *c)                                                         \
    {                                                                                                      \
        for (int k = 0; k < 2; k++) c->in[k].terms += ref_size(&c->out) / ref_size(&c->in[k].shape);       \
        for (int i = 0; i < ref_size(&c->out); i++) {                                                      \
            const int at_a = ref_repeated(&c->in[0].shape, &c->out, i);                                    \
            const int at_b = ref_repeated(&c->in[1].shape, &c->out, i);                                    \
            const double a = c->in[0].x[at_a], b = c->in[1].x[at_b], g = c->dy[i];                         \
            (void)a, (void)b;                                                                              \
            ref_add(&c->in[0], at_a, g * (slope_a), g * (slope_a));                                        \
            ref_add(&c->in[1], at_b, g * (slope_b), g * (slope_b));                                        \
        }                                                                                                  \
    }
REF_BINARY(add, a + b, 1, 1)
REF_BINARY(sub, a - b, 1, -1)
REF_BINARY(mul, a * b, b, a)
REF_BINARY(div, a / b, 1 / b, -a / (b * b))
/* NaN if one is, as in PyTorch; b where they are equal. The gradient goes to what is taken, at NaN to both. */
static int ref_takes(double a, double b, int least, int first)
{
    const int takes_a = least ? a < b : a > b;
    return isnan(a) || isnan(b) || takes_a == first;
}
#define REF_TAKEN(a, b, least) (isnan(a) || (!isnan(b) && ref_takes(a, b, least, 1)) ? (a) : (b))
REF_BINARY(minimum, REF_TAKEN(a, b, 1), ref_takes(a, b, 1, 1), ref_takes(a, b, 1, 0))
REF_BINARY(maximum, REF_TAKEN(a, b, 0), ref_takes(a, b, 0, 1), ref_takes(a, b, 0, 0))

static void ref_select_forward(ref_call *c)
{
    for (int i = 0; i < ref_size(&c->out); i++) {
        c->y[i] = c->in[c->in[0].x[i] > 0 ? 1 : 2].x[i];
        c->s[i] = fabs(c->y[i]);
    }
}
static void ref_select_backward(ref_call *c)
{
    for (int i = 0; i < ref_size(&c->out); i++)
        ref_add(&c->in[c->in[0].x[i] > 0 ? 1 : 2], i, c->dy[i], c->dy[i]);
}

/* ---- products ----------------------------------------------------------------------------------- */

/* x W + b, or x W^T + b (i[0]), for each line of x. */
static int ref_weight_at(const ref_call *c, int i, int j)
{
    return c->a->i[0] ? j * ref_last(&c->in[0].shape) + i : i * ref_last(&c->out) + j;
}
static void ref_linear_shape(ref_call *c)
{
    c->out = c->in[0].shape;
    c->out.dim[c->out.rank - 1] = c->in[1].shape.dim[c->a->i[0] ? 0 : 1];
}
static void ref_linear_forward(ref_call *c)
{
    const int n = ref_last(&c->out), inputs = ref_last(&c->in[0].shape);
    c->terms = inputs;
    for (int at = 0; at < ref_size(&c->out); at++) {
        const double *x = c->in[0].x + at / n * inputs;
        c->y[at] = c->n > 2 ? c->in[2].x[at % n] : 0;
        c->s[at] = fabs(c->y[at]);
        for (int i = 0; i < inputs; i++) {
            const double term = x[i] * c->in[1].x[ref_weight_at(c, i, at % n)];
            c->y[at] += term;
            c->s[at] += fabs(term);
        }
    }
}
static void ref_linear_backward(ref_call *c)
{
    const int n = ref_last(&c->out), inputs = ref_last(&c->in[0].shape), lines = ref_size(&c->out) / n;
    c->in[0].terms += n;
    for (int k = 1; k < c->n; k++) c->in[k].terms += lines;
    for (int at = 0; at < ref_size(&c->out); at++) {
        const int first = at / n * inputs;
        for (int i = 0; i < inputs; i++) {
            const int w = ref_weight_at(c, i, at % n);
            const double to_x = c->dy[at] * c->in[1].x[w], to_w = c->dy[at] * c->in[0].x[first + i];
            ref_add(&c->in[0], first + i, to_x, to_x);
            ref_add(&c->in[1], w, to_w, to_w);
        }
        if (c->n > 2) ref_add(&c->in[2], at % n, c->dy[at], c->dy[at]);
    }
}

/* [m,k] [k,n], [k] [k,n], [m,k] [k], [b,m,k] [b,k,n]: i[0] to i[3] are set to b, m, k and n by its shape. */
typedef struct ref_sizes { int batch, rows, inner, columns; } ref_sizes;
static ref_sizes ref_matmul_sizes(const ref_call *c)
{
    const ref_shape *a = &c->in[0].shape, *b = &c->in[1].shape;
    ref_sizes s = { a->rank == 3 ? a->dim[0] : 1, 0, ref_last(a), 0 };
    s.rows = ref_size(a) / s.inner / s.batch;
    s.columns = ref_size(b) / s.inner / s.batch;
    return s;
}
static void ref_matmul_shape(ref_call *c)
{
    const ref_shape *a = &c->in[0].shape, *b = &c->in[1].shape;
    c->out = *a;
    if (b->rank == 1) c->out.rank--;
    else c->out.dim[c->out.rank - 1] = ref_last(b);
}
static void ref_matmul_forward(ref_call *c)
{
    const ref_sizes z = ref_matmul_sizes(c);
    c->terms = z.inner;
    for (int at = 0; at < ref_size(&c->out); at++) {
        const int line = at / z.columns, batch = line / z.rows;
        c->y[at] = c->s[at] = 0;
        for (int i = 0; i < z.inner; i++) {
            const double term = c->in[0].x[line * z.inner + i] *
                                c->in[1].x[(batch * z.inner + i) * z.columns + at % z.columns];
            c->y[at] += term;
            c->s[at] += fabs(term);
        }
    }
}
static void ref_matmul_backward(ref_call *c)
{
    const ref_sizes z = ref_matmul_sizes(c);
    c->in[0].terms += z.columns;
    c->in[1].terms += z.rows;
    for (int at = 0; at < ref_size(&c->out); at++) {
        const int line = at / z.columns, batch = line / z.rows;
        for (int i = 0; i < z.inner; i++) {
            const int a = line * z.inner + i, b = (batch * z.inner + i) * z.columns + at % z.columns;
            const double to_a = c->dy[at] * c->in[1].x[b], to_b = c->dy[at] * c->in[0].x[a];
            ref_add(&c->in[0], a, to_a, to_a);
            ref_add(&c->in[1], b, to_b, to_b);
        }
    }
}

static void ref_dot_forward(ref_call *c)
{
    const int n = ref_size(&c->in[0].shape);
    c->terms = n;
    for (int i = 0; i < n; i++) {
        c->y[0] += c->in[0].x[i] * c->in[1].x[i];
        c->s[0] += fabs(c->in[0].x[i] * c->in[1].x[i]);
    }
}
static void ref_dot_backward(ref_call *c)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ref_size(&c->in[0].shape); i++) {
            const double term = c->dy[0] * c->in[1 - k].x[i];
            ref_add(&c->in[k], i, term, term);
        }
}

/* Windows over a grid [height x width x channels], or over a line, which is a grid one high without padding
   above. i: stride, padding, dilation, and of filters whether each channel has its own, of pools the size. */
typedef struct ref_grid { int height, width, channels; } ref_grid;
static ref_grid ref_grid_of(const ref_shape *s)
{
    const ref_grid g = { s->rank == 2 ? 1 : s->dim[0], s->dim[s->rank - 2], s->dim[s->rank - 1] };
    return g;
}
/* Where value (line, column) of the output finds tap (u, v) in x; -1: in the padding. */
static int ref_tap(const ref_call *c, int line, int column, int u, int v)
{
    const ref_grid in = ref_grid_of(&c->in[0].shape);
    const int row = line * c->a->i[0] + u * c->a->i[2] - (c->in[0].shape.rank == 3 ? c->a->i[1] : 0);
    const int at = column * c->a->i[0] + v * c->a->i[2] - c->a->i[1];
    return row < 0 || row >= in.height || at < 0 || at >= in.width ? -1 : (row * in.width + at) * in.channels;
}
static int ref_filter_height(const ref_shape *W, const ref_shape *x) { return x->rank == 2 ? 1 : W->dim[0]; }
static void ref_window_shape(ref_call *c, int high, int wide, int channels)
{
    const ref_shape *x = &c->in[0].shape;
    const int size[2] = { high, wide }, axes = x->rank - 1;
    c->out = *x;
    for (int i = 0; i < axes; i++) {
        const int reach = (size[2 - axes + i] - 1) * c->a->i[2] + 1;
        c->out.dim[i] = (x->dim[i] + 2 * c->a->i[1] - reach) / c->a->i[0] + 1;
    }
    c->out.dim[axes] = channels;
}
static void ref_conv_shape(ref_call *c)
{
    const ref_shape *W = &c->in[1].shape;
    ref_window_shape(c, ref_filter_height(W, &c->in[0].shape), W->dim[W->rank - 3], ref_last(W));
}
/* Goes through all products of a convolution; `each` gets the places in y, x and W. */
static void ref_conv_each(ref_call *c, void (*each)(ref_call *c, int y, int x, int w))
{
    const ref_grid in = ref_grid_of(&c->in[0].shape), out = ref_grid_of(&c->out);
    const ref_shape *W = &c->in[1].shape;
    const int high = ref_filter_height(W, &c->in[0].shape), wide = W->dim[W->rank - 3], apart = c->a->i[3];
    for (int y = 0; y < ref_size(&c->out); y++)
        for (int tap = 0; tap < high * wide; tap++) {
            const int o = y % out.channels, place = y / out.channels;
            const int x = ref_tap(c, place / out.width, place % out.width, tap / wide, tap % wide);
            for (int k = 0; k < (apart ? 1 : in.channels) && x >= 0; k++)
                each(c, y, apart ? x + o : x + k, ((apart ? tap : tap * in.channels + k)) * out.channels + o);
        }
}
static void ref_conv_value(ref_call *c, int y, int x, int w)
{
    c->y[y] += c->in[0].x[x] * c->in[1].x[w];
    c->s[y] += fabs(c->in[0].x[x] * c->in[1].x[w]);
}
static void ref_conv_slope(ref_call *c, int y, int x, int w)
{
    const double to_x = c->dy[y] * c->in[1].x[w], to_w = c->dy[y] * c->in[0].x[x];
    ref_add(&c->in[0], x, to_x, to_x);
    ref_add(&c->in[1], w, to_w, to_w);
}
static void ref_conv_forward(ref_call *c)
{
    const int n = ref_last(&c->out);
    c->terms = ref_size(&c->in[1].shape) / n;
    for (int i = 0; i < ref_size(&c->out) && c->n > 2; i++) {
        c->y[i] = c->in[2].x[i % n];
        c->s[i] = fabs(c->y[i]);
    }
    ref_conv_each(c, ref_conv_value);
}
static void ref_conv_backward(ref_call *c)
{
    const int n = ref_last(&c->out);
    c->in[0].terms += ref_size(&c->in[1].shape) / ref_last(&c->in[0].shape);
    for (int k = 1; k < c->n; k++) c->in[k].terms += ref_size(&c->out) / n;
    ref_conv_each(c, ref_conv_slope);
    for (int i = 0; i < ref_size(&c->out) && c->n > 2; i++) ref_add(&c->in[2], i % n, c->dy[i], c->dy[i]);
}
static void ref_pool_shape(ref_call *c)
{
    ref_window_shape(c, c->a->i[3], c->a->i[3], ref_last(&c->in[0].shape));
}
/* The places in x of one window's values; returns how many there are. */
static int ref_window(const ref_call *c, int y, int *at)
{
    const ref_grid out = ref_grid_of(&c->out);
    const int size = c->a->i[3], place = y / out.channels;
    int n = 0;
    for (int u = 0; u < (c->in[0].shape.rank == 3 ? size : 1); u++)
        for (int v = 0; v < size; v++) {
            const int x = ref_tap(c, place / out.width, place % out.width, u, v);
            if (x >= 0) at[n++] = x + y % out.channels;
        }
    return n;
}
enum { REF_WINDOW = 1024 };
/* The first that is largest, or the first NaN, of values `step` apart. */
static int ref_first_extreme(const double *x, const int *at, int n, int least)
{
    int best = 0;
    for (int i = 1; i < n && !isnan(x[at[best]]); i++)
        if (isnan(x[at[i]]) || (least ? x[at[i]] < x[at[best]] : x[at[i]] > x[at[best]])) best = i;
    return at[best];
}
static void ref_max_pool_forward(ref_call *c)
{
    int at[REF_WINDOW];
    for (int i = 0; i < ref_size(&c->out); i++) {
        const int n = ref_window(c, i, at);
        c->y[i] = c->in[0].x[ref_first_extreme(c->in[0].x, at, n, 0)];
        c->s[i] = fabs(c->y[i]);
    }
}
static void ref_max_pool_backward(ref_call *c)
{
    int at[REF_WINDOW];
    c->in[0].terms += c->a->i[3] * c->a->i[3];
    for (int i = 0; i < ref_size(&c->out); i++) {
        const int n = ref_window(c, i, at);
        ref_add(&c->in[0], ref_first_extreme(c->in[0].x, at, n, 0), c->dy[i], c->dy[i]);
    }
}
static void ref_mean_pool_forward(ref_call *c)
{
    int at[REF_WINDOW];
    c->terms = c->a->i[3] * c->a->i[3];
    for (int i = 0; i < ref_size(&c->out); i++) {
        const int n = ref_window(c, i, at);
        for (int k = 0; k < n; k++) {
            c->y[i] += c->in[0].x[at[k]] / n;
            c->s[i] += fabs(c->in[0].x[at[k]]) / n;
        }
    }
}
static void ref_mean_pool_backward(ref_call *c)
{
    int at[REF_WINDOW];
    c->in[0].terms += c->a->i[3] * c->a->i[3];
    for (int i = 0; i < ref_size(&c->out); i++) {
        const int n = ref_window(c, i, at);
        for (int k = 0; k < n; k++) ref_add(&c->in[0], at[k], c->dy[i] / n, c->dy[i] / n);
    }
}

/* ---- reductions, and what goes along an axis ---------------------------------------------------- */

/* Goes along the axis i[0] of x: for each of its lines `line` is called, with where the line is. */
typedef struct ref_line { int out, first, step, n; } ref_line;
static void ref_each_line(ref_call *c, void (*line)(ref_call *c, ref_line at))
{
    const ref_around s = ref_around_axis(&c->in[0].shape, c->a->i[0]);
    for (int i = 0; i < s.outer * s.inner; i++) {
        const ref_line at = { i, i / s.inner * s.length * s.inner + i % s.inner, s.inner, s.length };
        line(c, at);
    }
}
#define REF_REDUCTION(name)                                                                                \
    static void ref_##name##_forward(ref_call *c) { ref_each_line(c, ref_##name##_line); }                 \
    static void ref_##name##_backward(ref_call *c) { ref_each_line(c, ref_##name##_slope); }
#define REF_X(at, i) (c->in[0].x[(at).first + (i) * (at).step])

static void ref_sum_line(ref_call *c, ref_line at)
{
    c->terms = at.n;
    for (int i = 0; i < at.n; i++) {
        c->y[at.out] += REF_X(at, i);
        c->s[at.out] += fabs(REF_X(at, i));
    }
}
static void ref_sum_slope(ref_call *c, ref_line at)
{
    for (int i = 0; i < at.n; i++) ref_add(&c->in[0], at.first + i * at.step, c->dy[at.out], c->dy[at.out]);
}
REF_REDUCTION(sum)

static void ref_mean_line(ref_call *c, ref_line at)
{
    ref_sum_line(c, at);
    c->y[at.out] /= at.n;
    c->s[at.out] /= at.n;
}
static void ref_mean_slope(ref_call *c, ref_line at)
{
    for (int i = 0; i < at.n; i++)
        ref_add(&c->in[0], at.first + i * at.step, c->dy[at.out] / at.n, c->dy[at.out] / at.n);
}
REF_REDUCTION(mean)

static int ref_extreme_of(const ref_call *c, ref_line at, int least)
{
    int best = at.first;
    for (int i = 1; i < at.n && !isnan(c->in[0].x[best]); i++) {
        const double x = REF_X(at, i), y = c->in[0].x[best];
        if (isnan(x) || (least ? x < y : x > y)) best = at.first + i * at.step;
    }
    return best;
}
static void ref_take_extreme(ref_call *c, ref_line at, int least)
{
    c->y[at.out] = c->in[0].x[ref_extreme_of(c, at, least)];
    c->s[at.out] = fabs(c->y[at.out]);
}
static void ref_amax_line(ref_call *c, ref_line at) { ref_take_extreme(c, at, 0); }
static void ref_amin_line(ref_call *c, ref_line at) { ref_take_extreme(c, at, 1); }
static void ref_amax_slope(ref_call *c, ref_line at)
{
    ref_add(&c->in[0], ref_extreme_of(c, at, 0), c->dy[at.out], c->dy[at.out]);
}
static void ref_amin_slope(ref_call *c, ref_line at)
{
    ref_add(&c->in[0], ref_extreme_of(c, at, 1), c->dy[at.out], c->dy[at.out]);
}
REF_REDUCTION(amax)
REF_REDUCTION(amin)

/* Mean and mean magnitude of a line. */
static void ref_means(const ref_call *c, ref_line at, double *mean, double *size)
{
    *mean = *size = 0;
    for (int i = 0; i < at.n; i++) {
        *mean += REF_X(at, i) / at.n;
        *size += fabs(REF_X(at, i)) / at.n;
    }
}
static void ref_variance_line(ref_call *c, ref_line at)
{
    double mean, size;
    ref_means(c, at, &mean, &size);
    c->terms = at.n;
    for (int i = 0; i < at.n; i++) {
        const double d = REF_X(at, i) - mean;
        c->y[at.out] += d * d / at.n;
        c->s[at.out] += fabs(d) * (fabs(d) + size) / at.n;
    }
    c->s[at.out] += ref_ulp(size) * size;
}
static void ref_variance_slope(ref_call *c, ref_line at)
{
    double mean, size;
    ref_means(c, at, &mean, &size);
    c->in[0].terms = at.n;
    for (int i = 0; i < at.n; i++)
        ref_add(&c->in[0], at.first + i * at.step, c->dy[at.out] * 2 / at.n * (REF_X(at, i) - mean),
                c->dy[at.out] * 2 / at.n * (fabs(REF_X(at, i)) + size));
}
REF_REDUCTION(variance)

/* log sum e^x, less the largest x. */
static double ref_largest(const ref_call *c, ref_line at) { return c->in[0].x[ref_extreme_of(c, at, 0)]; }
static double ref_log_sum(const ref_call *c, ref_line at)
{
    double sum = 0;
    for (int i = 0; i < at.n; i++) sum += exp(REF_X(at, i) - ref_largest(c, at));
    return log(sum);
}
static void ref_logsumexp_line(ref_call *c, ref_line at)
{
    const double log_sum = ref_log_sum(c, at), largest = ref_largest(c, at);
    c->terms = at.n;
    c->y[at.out] = largest + log_sum;
    c->s[at.out] = fabs(largest) + log_sum + 1;
}
static void ref_logsumexp_slope(ref_call *c, ref_line at)
{
    const double y = ref_largest(c, at) + ref_log_sum(c, at);
    for (int i = 0; i < at.n; i++) {
        const double x = REF_X(at, i), term = c->dy[at.out] * exp(x - y);
        ref_add(&c->in[0], at.first + i * at.step, term, term * (1 + fabs(x) + fabs(y)));
    }
}
REF_REDUCTION(logsumexp)

static void ref_prod_line(ref_call *c, ref_line at)
{
    c->terms = at.n;
    c->y[at.out] = 1;
    for (int i = 0; i < at.n; i++) c->y[at.out] *= REF_X(at, i);
    c->s[at.out] = fabs(c->y[at.out]);
}
static void ref_prod_slope(ref_call *c, ref_line at)
{
    c->in[0].terms = at.n;
    for (int i = 0; i < at.n; i++) {
        double term = c->dy[at.out];
        for (int k = 0; k < at.n; k++) term *= k == i ? 1 : REF_X(at, k);
        ref_add(&c->in[0], at.first + i * at.step, term, term);
    }
}
REF_REDUCTION(prod)

static void ref_cumsum_line(ref_call *c, ref_line at)
{
    c->terms = at.n;
    for (int i = 0; i < at.n; i++)
        for (int k = 0; k <= i; k++) {
            c->y[at.first + i * at.step] += REF_X(at, k);
            c->s[at.first + i * at.step] += fabs(REF_X(at, k));
        }
}
static void ref_cumsum_slope(ref_call *c, ref_line at)
{
    c->in[0].terms = at.n;
    for (int i = 0; i < at.n; i++)
        for (int k = 0; k <= i; k++)
            ref_add(&c->in[0], at.first + k * at.step, c->dy[at.first + i * at.step],
                    c->dy[at.first + i * at.step]);
}
REF_REDUCTION(cumsum)

/* Line i of the last axis. */
static ref_line ref_last_line(const ref_shape *s, int i)
{
    const ref_line at = { i, i * ref_last(s), 1, ref_last(s) };
    return at;
}
/* softmax(x)[i], and how many times its unit in the last place the rounding of x[i] - the largest counts. */
static double ref_probability(const ref_call *c, ref_line at, int i)
{
    return exp(REF_X(at, i) - ref_largest(c, at) - ref_log_sum(c, at));
}
static double ref_depth(const ref_call *c, ref_line at, int i)
{
    return 1 + ref_largest(c, at) - REF_X(at, i);
}
#define REF_EACH_LAST(c, line)                                                \
    for (int at_ = 0; at_ < ref_size(&(c)->out) / ref_last(&(c)->out); at_++) \
    line((c), ref_last_line(&(c)->out, at_))

static void ref_softmax_line(ref_call *c, ref_line at)
{
    c->terms = at.n;
    for (int i = 0; i < at.n; i++) {
        c->y[at.first + i] = ref_probability(c, at, i);
        c->s[at.first + i] = c->y[at.first + i] * ref_depth(c, at, i);
    }
}
static void ref_softmax_slope(ref_call *c, ref_line at)
{
    const double *y = c->y + at.first, *g = c->dy + at.first;
    double dot = 0, size = 0;
    c->in[0].terms = at.n;
    for (int i = 0; i < at.n; i++) {
        dot += g[i] * y[i];
        size += fabs(g[i] * y[i]) * ref_depth(c, at, i);
    }
    for (int i = 0; i < at.n; i++)
        ref_add(&c->in[0], at.first + i, y[i] * (g[i] - dot),
                y[i] * ref_depth(c, at, i) * (fabs(g[i]) + size));
}
static void ref_softmax_forward(ref_call *c) { REF_EACH_LAST(c, ref_softmax_line); }
static void ref_softmax_backward(ref_call *c) { REF_EACH_LAST(c, ref_softmax_slope); }

static void ref_log_softmax_line(ref_call *c, ref_line at)
{
    const double largest = ref_largest(c, at), log_sum = ref_log_sum(c, at);
    c->terms = at.n;
    for (int i = 0; i < at.n; i++) {
        c->y[at.first + i] = REF_X(at, i) - largest - log_sum;
        c->s[at.first + i] = fabs(largest) + fabs(REF_X(at, i)) + log_sum + 1;
    }
}
static void ref_log_softmax_slope(ref_call *c, ref_line at)
{
    const double *g = c->dy + at.first;
    double sum = 0, size = 0;
    c->in[0].terms = at.n;
    for (int i = 0; i < at.n; i++) {
        sum += g[i];
        size += fabs(g[i]);
    }
    for (int i = 0; i < at.n; i++) {
        const double p = ref_probability(c, at, i),
                     far = 1 + fabs(c->y[at.first + i]) + fabs(ref_largest(c, at));
        ref_add(&c->in[0], at.first + i, g[i] - p * sum, fabs(g[i]) + p * far * size);
    }
}
static void ref_log_softmax_forward(ref_call *c) { REF_EACH_LAST(c, ref_log_softmax_line); }
static void ref_log_softmax_backward(ref_call *c) { REF_EACH_LAST(c, ref_log_softmax_slope); }

/* Layer norm (Ba et al. 2016): (x - mean) / sqrt(variance + x) gain + bias. Without a bias it is RMS norm
   (Zhang and Sennrich 2019): x / sqrt(mean square + x) gain. */
typedef struct ref_norm { double mean, size, deviation; } ref_norm;
static ref_norm ref_norm_of(const ref_call *c, ref_line at)
{
    ref_norm n = { 0, 0, 0 };
    double square = 0;
    if (c->n > 2) ref_means(c, at, &n.mean, &n.size);
    for (int i = 0; i < at.n; i++) square += (REF_X(at, i) - n.mean) * (REF_X(at, i) - n.mean) / at.n;
    n.deviation = sqrt(square + c->a->x);
    return n;
}
static void ref_norm_line(ref_call *c, ref_line at)
{
    const ref_norm n = ref_norm_of(c, at);
    c->terms = at.n;
    for (int i = 0; i < at.n; i++) {
        const double bias = c->n > 2 ? c->in[2].x[i] : 0, gain = c->in[1].x[i];
        c->y[at.first + i] = (REF_X(at, i) - n.mean) / n.deviation * gain + bias;
        c->s[at.first + i] = (fabs(REF_X(at, i)) + n.size) / n.deviation * fabs(gain) + fabs(bias);
    }
}
static void ref_norm_slope(ref_call *c, ref_line at)
{
    const ref_norm n = ref_norm_of(c, at);
    double sum = 0, sum_size = 0, dot = 0, dot_size = 0;
    c->in[0].terms += at.n;
    for (int k = 1; k < c->n; k++) c->in[k].terms += 1;
    for (int i = 0; i < at.n; i++) {
        const double g = c->dy[at.first + i] * c->in[1].x[i], x = (REF_X(at, i) - n.mean) / n.deviation;
        const double size = (fabs(REF_X(at, i)) + n.size) / n.deviation, own = c->dy[at.first + i];
        sum += c->n > 2 ? g / at.n : 0;
        sum_size += c->n > 2 ? fabs(g) / at.n : 0;
        dot += g * x / at.n;
        dot_size += fabs(g) * size / at.n;
        ref_add(&c->in[1], i, own * x, own * size);
        if (c->n > 2) ref_add(&c->in[2], i, own, own);
    }
    for (int i = 0; i < at.n; i++) {
        const double g = c->dy[at.first + i] * c->in[1].x[i], x = (REF_X(at, i) - n.mean) / n.deviation;
        const double size = (fabs(REF_X(at, i)) + n.size) / n.deviation;
        ref_add(&c->in[0], at.first + i, (g - sum - x * dot) / n.deviation,
                (fabs(g) + sum_size + size * dot_size) / n.deviation);
    }
}
static void ref_norm_forward(ref_call *c) { REF_EACH_LAST(c, ref_norm_line); }
static void ref_norm_backward(ref_call *c) { REF_EACH_LAST(c, ref_norm_slope); }

/* ---- moving values --------------------------------------------------------------------------- */

static void ref_concat_shape(ref_call *c)
{
    c->out = c->in[0].shape;
    const int axis = ref_axis(&c->out, c->a->i[0]);
    for (int k = 1; k < c->n; k++) c->out.dim[axis] += c->in[k].shape.dim[axis];
}
/* Where element i of operand k lies in the output, of which `before` along the axis come before it. */
static int ref_concat_at(const ref_call *c, int k, int before, int i)
{
    const ref_around whole = ref_around_axis(&c->out, c->a->i[0]),
                     own = ref_around_axis(&c->in[k].shape, c->a->i[0]);
    const int block = own.length * own.inner;
    return i / block * whole.length * whole.inner + before * whole.inner + i % block;
}
static void ref_move(ref_call *c, ref_operand *o, int from, int to)
{
    if (c->dy) {
        ref_add(o, from, c->dy[to], c->dy[to]);
        return;
    }
    c->y[to] = o->x[from];
    c->s[to] = fabs(o->x[from]);
}
static void ref_concat_move(ref_call *c)
{
    for (int k = 0, before = 0; k < c->n; k++) {
        for (int i = 0; i < ref_size(&c->in[k].shape); i++)
            ref_move(c, &c->in[k], i, ref_concat_at(c, k, before, i));
        before += c->in[k].shape.dim[ref_axis(&c->out, c->a->i[0])];
    }
}
/* i: axis, start, length */
static void ref_slice_shape(ref_call *c)
{
    c->out = c->in[0].shape;
    c->out.dim[ref_axis(&c->out, c->a->i[0])] = c->a->i[2];
}
static void ref_slice_move(ref_call *c)
{
    const ref_around s = ref_around_axis(&c->in[0].shape, c->a->i[0]);
    const int start = c->a->i[1] < 0 ? c->a->i[1] + s.length : c->a->i[1], block = c->a->i[2] * s.inner;
    for (int i = 0; i < ref_size(&c->out); i++)
        ref_move(c, &c->in[0], (i / block * s.length + start) * s.inner + i % block, i);
}
static void ref_reshape_move(ref_call *c)
{
    for (int i = 0; i < ref_size(&c->out); i++) ref_move(c, &c->in[0], i, i);
}
static void ref_transpose_shape(ref_call *c)
{
    c->out = c->in[0].shape;
    const int a = ref_axis(&c->out, c->a->i[0]), b = ref_axis(&c->out, c->a->i[1]), dim = c->out.dim[a];
    c->out.dim[a] = c->out.dim[b];
    c->out.dim[b] = dim;
}
static void ref_transpose_move(ref_call *c)
{
    const ref_shape *s = &c->in[0].shape;
    const int a = ref_axis(s, c->a->i[0]), b = ref_axis(s, c->a->i[1]);
    for (int to = 0; to < ref_size(&c->out); to++) {
        int index[REF_RANK], from = 0;
        for (int i = s->rank - 1, rest = to; i >= 0; rest /= c->out.dim[i--]) index[i] = rest % c->out.dim[i];
        const int swap = index[a];
        index[a] = index[b];
        index[b] = swap;
        for (int i = 0; i < s->rank; i++) from = from * s->dim[i] + index[i];
        ref_move(c, &c->in[0], from, to);
    }
}
/* The index of this row, or the only one. Indices below 0 count from the end. */
static int ref_index(const ref_call *c, int end)
{
    const int index = c->a->index[c->row >= 0 && c->a->n > 1 ? c->row : 0];
    return index < 0 ? index + end : index;
}
static void ref_pick_move(ref_call *c) { ref_move(c, &c->in[0], ref_index(c, ref_size(&c->in[0].shape)), 0); }
#define REF_MOVES(name)                                                                                    \
    static void ref_##name##_forward(ref_call *c) { ref_##name##_move(c); }                                \
    static void ref_##name##_backward(ref_call *c) { ref_##name##_move(c); }
REF_MOVES(concat)
REF_MOVES(slice)
REF_MOVES(reshape)
REF_MOVES(transpose)
REF_MOVES(pick)

/* ---- losses: each gives [1]; targets get no gradient ----------------------------------------- */

static ref_line ref_all(const ref_call *c)
{
    const ref_line at = { 0, 0, 1, ref_size(&c->in[0].shape) };
    return at;
}
/* -log softmax(x)[label] */
static void ref_softmax_xent_forward(ref_call *c)
{
    const ref_line at = ref_all(c);
    const double largest = ref_largest(c, at), log_sum = ref_log_sum(c, at),
                 x = REF_X(at, ref_index(c, at.n));
    c->terms = at.n;
    c->y[0] = largest - x + log_sum;
    c->s[0] = fabs(largest) + fabs(x) + log_sum + 1;
}
static void ref_softmax_xent_backward(ref_call *c)
{
    const ref_line at = ref_all(c);
    const int label = ref_index(c, at.n);
    c->in[0].terms = at.n;
    for (int i = 0; i < at.n; i++) {
        const double p = ref_probability(c, at, i), far = ref_depth(c, at, i);
        ref_add(&c->in[0], i, c->dy[0] * (p - (i == label)), c->dy[0] * (p * far + (i == label)));
    }
}
/* The sum over j but the label of max(0, 1 + x[j] - x[label]) (Weston and Watkins 1999). Where a float cannot
   tell whether a margin is above 0 either gradient will do. */
static void ref_hinge_forward(ref_call *c)
{
    const int n = ref_size(&c->in[0].shape), label = ref_index(c, n);
    const double *x = c->in[0].x;
    c->terms = n;
    for (int j = 0; j < n; j++) {
        const double margin = 1 + x[j] - x[label], size = 1 + fabs(x[j]) + fabs(x[label]);
        c->y[0] += j == label || margin <= 0 ? 0 : margin;
        c->s[0] += j == label || margin < -ref_ulp(size) ? 0 : size;
    }
}
static void ref_hinge_backward(ref_call *c)
{
    const int n = ref_size(&c->in[0].shape), label = ref_index(c, n);
    const double *x = c->in[0].x;
    c->in[0].terms = n;
    for (int j = 0; j < n; j++) {
        const double margin = 1 + x[j] - x[label], size = 1 + fabs(x[j]) + fabs(x[label]);
        if (j == label) continue;
        if (margin != 0 && fabs(margin) <= ref_ulp(size)) {
            c->in[0].de[j] += fabs(c->dy[0]);
            c->in[0].de[label] += fabs(c->dy[0]);
        }
        if (margin <= 0) continue;
        ref_add(&c->in[0], j, c->dy[0], c->dy[0]);
        ref_add(&c->in[0], label, -c->dy[0], c->dy[0]);
    }
}
/* The sum of t (log t - log softmax(x)) */
static void ref_softmax_kl_forward(ref_call *c)
{
    const ref_line at = ref_all(c);
    const double largest = ref_largest(c, at), log_sum = ref_log_sum(c, at);
    c->terms = at.n;
    for (int i = 0; i < at.n; i++) {
        const double t = c->in[1].x[i], x = REF_X(at, i);
        if (t <= 0) continue;
        c->y[0] += t * (log(t) - (x - largest - log_sum));
        c->s[0] += t * (fabs(log(t)) + fabs(x) + fabs(largest) + log_sum + 1);
    }
}
static void ref_softmax_kl_backward(ref_call *c)
{
    const ref_line at = ref_all(c);
    double total = 0;
    c->in[0].terms = 2 * at.n; /* the target's sum is rounded too */
    for (int i = 0; i < at.n; i++) total += c->in[1].x[i] > 0 ? c->in[1].x[i] : 0;
    for (int i = 0; i < at.n; i++) {
        const double t = c->in[1].x[i] > 0 ? c->in[1].x[i] : 0, p = ref_probability(c, at, i);
        ref_add(&c->in[0], i, c->dy[0] * (p * total - t), c->dy[0] * (p * ref_depth(c, at, i) + t));
    }
}
/* Sums over pairs: a term, its magnitude, and slopes in a and b. */
#define REF_PAIRED(name, term, size, slope_a, slope_b, slope_size)                                         \
    static void ref_##name##_forward(ref_call *c)                                                          \
    {                                                                                                      \
        const double p = c->a->x;                                                                          \
        c->terms = ref_size(&c->in[0].shape);                                                              \
        for (int i = 0; i < ref_size(&c->in[0].shape); i++) {                                              \
            const double a = c->in[0].x[i], b = c->in[1].x[i], d = a - b;                                  \
            c->y[0] += (term);                                                                             \
            c->s[0] += (size);                                                                             \
            (void)d;                                                                                       \
        }                                                                                                  \
        (void)p;                                                                                           \
    }                                                                                                      \
    static void ref_##name##_backward(ref_call *c)                                                         \
    {                                                                                                      \
        const double p = c->a->x;                                                                          \
        for (int i = 0; i < ref_size(&c->in[0].shape); i++) {                                              \
            const double a = c->in[0].x[i], b = c->in[1].x[i], d = a - b, g = c->dy[0];                    \
            (void)d;                                                                                       \
            ref_add(&c->in[0], i, g * (slope_a), g * (slope_size));                                        \
            ref_add(&c->in[1], i, g * (slope_b), g * (slope_size));                                        \
        }                                                                                                  \
        (void)p;                                                                                           \
    }
REF_PAIRED(bce, ref_log1pexp(a) - a * b, ref_log1pexp(a) + fabs(a * b), ref_logistic(a) - b, 0,
           ref_logistic(a) + fabs(b))
REF_PAIRED(squared_error, d * d, d * d, 2 * d, -2 * d, 2 * fabs(d))
/* Huber 1964 */
static double ref_bounded(double d, double delta) { return d > delta ? delta : d < -delta ? -delta : d; }
REF_PAIRED(huber, fabs(d) <= p ? d * d / 2 : p * (fabs(d) - p / 2),
           fabs(d) <= p ? d * d / 2 : p * (fabs(d) + p / 2), ref_bounded(d, p), -ref_bounded(d, p),
           fabs(ref_bounded(d, p)))

/* ---- over whole lists ------------------------------------------------------------------------ */

/* Rows of x by index: of a list, or of a table, whose first axis has them. The result is a list, or with i[0]
   a node. */
static void ref_take_shape(ref_call *c)
{
    c->out = c->in[0].shape;
    if (c->in[0].rows == REF_NODE && c->out.rank == 1) c->out = ref_shape1(1);
    else if (c->in[0].rows == REF_NODE)
        memmove(c->out.dim, c->out.dim + 1, (size_t)--c->out.rank * sizeof(int));
    c->rows = c->a->i[0] ? REF_NODE : c->a->n;
}
static void ref_take_move(ref_call *c)
{
    const int size = ref_size(&c->out);
    c->in[0].terms += c->dy ? c->a->n : 0;
    for (int i = 0; i < c->a->n * size; i++)
        ref_move(c, &c->in[0], c->a->index[i / size] * size + i % size, i);
}
REF_MOVES(take)
/* The rows of a list as one value, and back. */
static void ref_stacked_shape(ref_call *c)
{
    const ref_shape row = c->in[0].shape;
    c->out.rank = row.rank + 1;
    c->out.dim[0] = c->in[0].rows;
    memcpy(c->out.dim + 1, row.dim, (size_t)row.rank * sizeof(int));
    c->rows = REF_NODE;
}
static void ref_unstacked_shape(ref_call *c)
{
    ref_take_shape(c);
    c->rows = c->in[0].shape.dim[0];
}
static void ref_all_move(ref_call *c)
{
    const int rows = c->rows == REF_NODE ? 1 : c->rows;
    for (int i = 0; i < rows * ref_size(&c->out); i++) ref_move(c, &c->in[0], i, i);
}
REF_MOVES(all)
/* Lists, and nodes as lists of one row, end to end. */
static void ref_join_shape(ref_call *c)
{
    c->out = c->n ? c->in[0].shape : c->a->shape;
    c->rows = 0;
    for (int k = 0; k < c->n; k++) c->rows += c->in[k].rows == REF_NODE ? 1 : c->in[k].rows;
}
static void ref_join_move(ref_call *c)
{
    const int size = ref_size(&c->out);
    for (int k = 0, before = 0; k < c->n; k++) {
        const int rows = c->in[k].rows == REF_NODE ? 1 : c->in[k].rows;
        for (int i = 0; i < rows * size; i++) ref_move(c, &c->in[k], i, before * size + i);
        before += rows;
    }
}
REF_MOVES(join)

/* Reductions of rows. Without an index they are one value of all rows; with one, n in i[0], row j is of the
   rows k with index[k] = j, in the order of k. */
static void ref_groups_shape(ref_call *c)
{
    c->out = c->in[c->n - 1].shape;
    c->rows = c->a->index ? c->a->i[0] : REF_NODE;
}
static int ref_groups(const ref_call *c) { return c->a->index ? c->a->i[0] : 1; }
static int ref_group_of(const ref_call *c, int row) { return c->a->index ? c->a->index[row] : 0; }
static int ref_group_size(const ref_call *c, int group)
{
    int n = 0;
    for (int k = 0; k < c->in[0].rows; k++) n += ref_group_of(c, k) == group;
    return n;
}
static void ref_rows_sum(ref_call *c, int mean)
{
    const int size = ref_size(&c->out), groups = ref_groups(c);
    c->terms = c->in[0].rows;
    for (int k = 0; k < c->in[0].rows; k++) {
        const int to = ref_group_of(c, k) * size;
        for (int i = 0; i < size; i++) {
            c->y[to + i] += c->in[0].x[k * size + i];
            c->s[to + i] += fabs(c->in[0].x[k * size + i]);
        }
    }
    for (int j = 0; j < groups && mean; j++)
        for (int i = 0, n = ref_group_size(c, j); i < size && n; i++) {
            c->y[j * size + i] /= n;
            c->s[j * size + i] /= n;
        }
}
static void ref_rows_sum_slope(ref_call *c, int mean)
{
    const int size = ref_size(&c->out);
    for (int k = 0; k < c->in[0].rows; k++) {
        const int from = ref_group_of(c, k), n = mean ? ref_group_size(c, from) : 1;
        for (int i = 0; i < size; i++)
            ref_add(&c->in[0], k * size + i, c->dy[from * size + i] / n, c->dy[from * size + i] / n);
    }
}
static void ref_rows_sum_forward(ref_call *c) { ref_rows_sum(c, 0); }
static void ref_rows_sum_backward(ref_call *c) { ref_rows_sum_slope(c, 0); }
static void ref_rows_mean_forward(ref_call *c) { ref_rows_sum(c, 1); }
static void ref_rows_mean_backward(ref_call *c) { ref_rows_sum_slope(c, 1); }
/* The row that element i of a group's maximum comes from, the first that is, or the first NaN; -1: there is
   none. */
static int ref_best_row(const ref_call *c, int group, int i)
{
    const int size = ref_size(&c->out);
    int best = -1;
    for (int k = 0; k < c->in[0].rows; k++) {
        if (ref_group_of(c, k) != group) continue;
        const double x = c->in[0].x[k * size + i], y = best < 0 ? 0 : c->in[0].x[best * size + i];
        if (best < 0 || (!isnan(y) && (isnan(x) || x > y))) best = k;
    }
    return best;
}
static void ref_rows_max_move(ref_call *c)
{
    const int size = ref_size(&c->out);
    for (int at = 0; at < ref_groups(c) * size; at++) {
        const int best = ref_best_row(c, at / size, at % size);
        if (best >= 0) ref_move(c, &c->in[0], best * size + at % size, at);
    }
}
REF_MOVES(rows_max)

/* The sum of values weighted by softmax of their scores (Bahdanau et al. 2015), for each of the heads. */
typedef struct ref_look {
    double weight, depth;
} ref_look; /* of one row; how far rounding the score counts */
static ref_look ref_look_at(const ref_call *c, int row, int head)
{
    const int heads = ref_size(&c->in[0].shape), group = ref_group_of(c, row);
    double largest = -HUGE_VAL, sum = 0;
    for (int k = 0; k < c->in[0].rows; k++)
        if (ref_group_of(c, k) == group) largest = fmax(largest, c->in[0].x[k * heads + head]);
    for (int k = 0; k < c->in[0].rows; k++)
        if (ref_group_of(c, k) == group) sum += exp(c->in[0].x[k * heads + head] - largest);
    const double x = c->in[0].x[row * heads + head];
    const ref_look look = { exp(x - largest) / sum, 1 + largest - x };
    return look;
}
static void ref_softmax_mean_sizes(const ref_call *c) /* the magnitudes of the terms of each result */
{
    const int size = ref_size(&c->out), part = size / ref_size(&c->in[0].shape);
    memset(c->s, 0, (size_t)(ref_groups(c) * size) * sizeof *c->s);
    for (int k = 0; k < c->in[0].rows; k++)
        for (int i = 0; i < size; i++) {
            const ref_look look = ref_look_at(c, k, i / part);
            c->s[ref_group_of(c, k) * size + i] += fabs(look.weight * c->in[1].x[k * size + i]) * look.depth;
        }
}
static void ref_softmax_mean_forward(ref_call *c)
{
    const int size = ref_size(&c->out), part = size / ref_size(&c->in[0].shape);
    c->terms = 2 * c->in[0].rows; /* the weights are summed, too */
    ref_softmax_mean_sizes(c);
    for (int k = 0; k < c->in[0].rows; k++)
        for (int i = 0; i < size; i++)
            c->y[ref_group_of(c, k) * size + i] += ref_look_at(c, k, i / part).weight * c->in[1].x[k * size + i];
}
static void ref_softmax_mean_backward(ref_call *c)
{
    const int size = ref_size(&c->out), heads = ref_size(&c->in[0].shape), part = size / heads;
    c->in[0].terms = part + 3 * c->in[0].rows; /* of the result, which it subtracts, and of the weight */
    c->in[1].terms = c->in[0].rows;
    ref_softmax_mean_sizes(c);
    for (int k = 0; k < c->in[0].rows; k++)
        for (int i = 0; i < size; i++) {
            const ref_look look = ref_look_at(c, k, i / part);
            const int to = ref_group_of(c, k) * size + i;
            const double g = c->dy[to] * look.weight, v = c->in[1].x[k * size + i];
            ref_add(&c->in[1], k * size + i, g, g * look.depth);
            ref_add(&c->in[0], k * heads + i / part, g * (v - c->y[to]),
                    fabs(g) * look.depth * (fabs(v) + c->s[to]));
        }
}

/* Multi-head attention (Vaswani et al. 2017) of q, k and v. i: heads, causal; or by edges, n of them: index
   has the keys' rows, then the queries'. */
static void ref_attention_shape(ref_call *c)
{
    c->out = c->in[2].shape;
    c->rows = c->in[0].rows;
}
/* The keys that query i sees: how many, and their rows. */
enum { REF_SEEN = 4096 };
static int ref_seen(const ref_call *c, int i, int *row)
{
    const int queries = c->in[0].rows == REF_NODE ? 1 : c->in[0].rows, keys = c->in[1].rows;
    int n = 0;
    for (int e = 0; e < c->a->n && c->a->index; e++)
        if (c->a->index[c->a->n + e] == i) row[n++] = c->a->index[e];
    for (int k = 0; k < keys && !c->a->index; k++)
        if (!c->a->i[1] || k <= i + keys - queries) row[n++] = k;
    return n;
}
/* Weights of what query i sees in a head; returns how far the rounding of scores counts. */
static double ref_weights(const ref_call *c, int i, int head, const int *row, int n, double *weight)
{
    const int width = ref_size(&c->in[0].shape), part = width / c->a->i[0];
    const double *q = c->in[0].x + i * width + head * part;
    double largest = -HUGE_VAL, sum = 0, far = 0;
    for (int k = 0; k < n; k++) {
        double size = 0;
        weight[k] = 0;
        for (int j = 0; j < part; j++) {
            const double term = q[j] * c->in[1].x[row[k] * width + head * part + j] / sqrt(part);
            weight[k] += term;
            size += fabs(term);
        }
        largest = fmax(largest, weight[k]);
        far = fmax(far, size);
    }
    for (int k = 0; k < n; k++) sum += weight[k] = exp(weight[k] - largest);
    for (int k = 0; k < n; k++) weight[k] /= sum;
    return 1 + 2 * far;
}
static void ref_attention_forward(ref_call *c)
{
    const int size = ref_size(&c->out), heads = c->a->i[0], part = size / heads,
              queries = c->rows == REF_NODE ? 1 : c->rows;
    int row[REF_SEEN];
    double weight[REF_SEEN];
    c->terms = 2 * (c->in[1].rows + c->a->n) + ref_size(&c->in[0].shape) / heads; /* as softmax_mean */
    for (int i = 0; i < queries; i++)
        for (int head = 0; head < heads; head++) {
            const int n = ref_seen(c, i, row);
            const double far = ref_weights(c, i, head, row, n, weight);
            for (int k = 0; k < n; k++)
                for (int j = head * part; j < (head + 1) * part; j++) {
                    c->y[i * size + j] += weight[k] * c->in[2].x[row[k] * size + j];
                    c->s[i * size + j] += weight[k] * fabs(c->in[2].x[row[k] * size + j]) * far;
                }
        }
}
static void ref_attention_backward(ref_call *c)
{
    const int size = ref_size(&c->out), heads = c->a->i[0], part = size / heads,
              queries = c->rows == REF_NODE ? 1 : c->rows;
    const int width = ref_size(&c->in[0].shape), narrow = width / heads;
    int row[REF_SEEN];
    double weight[REF_SEEN], slope[REF_SEEN], slope_size[REF_SEEN];
    for (int k = 0; k < 3; k++) c->in[k].terms += 3 * (c->in[1].rows + c->a->n) + queries + part + narrow;
    for (int i = 0; i < queries; i++)
        for (int head = 0; head < heads; head++) {
            const int n = ref_seen(c, i, row);
            const double far = ref_weights(c, i, head, row, n, weight);
            double mean = 0, mean_size = 0;
            for (int k = 0; k < n; k++) {
                slope[k] = slope_size[k] = 0;
                for (int j = head * part; j < (head + 1) * part; j++) {
                    const double g = c->dy[i * size + j], v = c->in[2].x[row[k] * size + j];
                    slope[k] += g * v;
                    slope_size[k] += fabs(g * v);
                    ref_add(&c->in[2], row[k] * size + j, g * weight[k], g * weight[k] * far);
                }
                mean += weight[k] * slope[k];
                mean_size += weight[k] * slope_size[k];
            }
            for (int k = 0; k < n; k++)
                for (int j = head * narrow; j < (head + 1) * narrow; j++) {
                    const double g = weight[k] * (slope[k] - mean) / sqrt(narrow);
                    const double size_of_g = weight[k] * (slope_size[k] + mean_size) / sqrt(narrow) * far;
                    const double q = c->in[0].x[i * width + j], key = c->in[1].x[row[k] * width + j];
                    ref_add(&c->in[0], i * width + j, g * key, size_of_g * key);
                    ref_add(&c->in[1], row[k] * width + j, g * q, size_of_g * q);
                }
        }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* name; the functions; shape of the result; whether it sees whole lists, and only moves values; the accuracy
   of values and of gradients, in units in the last place of the magnitude of the terms, to which half a unit
   comes for each term of a sum. */
enum { REF_WHOLE = 1, REF_MOVED = 2 };
#define REF_OPS(X)                                                                                         \
    X(copy, copy, same, REF_MOVED, 0, 0)                                                                   \
    X(stop_gradient, stop_gradient, same, 0, 0, 0)                                                         \
    X(neg, neg, same, 0, 0, 0)                                                                             \
    X(abs, abs, same, 0, 0, 0)                                                                             \
    X(relu, relu, same, 0, 0, 0)                                                                           \
    X(floor, floor, same, 0, 0, 0)                                                                         \
    X(at_least, at_least, same, 0, 0, 0)                                                                   \
    X(at_most, at_most, same, 0, 0, 0)                                                                     \
    X(clip, clip, same, 0, 0, 0)                                                                           \
    X(select, select, same_as_values, 0, 0, 0)                                                             \
    X(scale, scale, same, 0, 1, 1)                                                                         \
    X(shift, shift, same, 0, 1, 1)                                                                         \
    X(leaky_relu, leaky_relu, same, 0, 1, 1)                                                               \
    X(square, square, same, 0, 1, 1)                                                                       \
    X(sqrt, sqrt, same, 0, 2, 2)                                                                           \
    X(dropout, dropout, same, 0, 2, 2)                                                                     \
    X(exp, exp, same, 0, 2, 3)                                                                             \
    X(log, log, same, 0, 2, 3)                                                                             \
    X(sigmoid, sigmoid, same, 0, 3, 4)                                                                     \
    X(tanh, tanh, same, 0, 3, 4)                                                                           \
    X(elu, elu, same, 0, 2, 3)                                                                             \
    X(gelu_tanh, gelu_tanh, same, 0, 8, 8)                                                                           \
    X(gelu, gelu, same, 0, 8, 8)                                                                   \
    X(silu, silu, same, 0, 4, 6)                                                                           \
    X(softplus, softplus, same, 0, 2, 3)                                                                   \
    X(sin, sin, same, 0, 2, 3)                                                                             \
    X(cos, cos, same, 0, 2, 3)                                                                             \
    X(pow, pow, same, 0, 4, 6)                                                                             \
    X(add, add, broadcast, 0, 1, 1)                                                                        \
    X(sub, sub, broadcast, 0, 1, 1)                                                                        \
    X(mul, mul, broadcast, 0, 1, 1)                                                                        \
    X(div, div, broadcast, 0, 2, 3)                                                                        \
    X(minimum, minimum, broadcast, 0, 0, 0)                                                                \
    X(maximum, maximum, broadcast, 0, 0, 0)                                                                \
    X(linear, linear, linear, 0, 1, 1)                                                                     \
    X(matmul, matmul, matmul, 0, 1, 1)                                                                     \
    X(dot, dot, scalar, 0, 1, 1)                                                                           \
    X(conv, conv, conv, 0, 1, 1)                                                                           \
    X(max_pool, max_pool, pool, 0, 0, 0)                                                                   \
    X(mean_pool, mean_pool, pool, 0, 2, 2)                                                                 \
    X(sum, sum, without_axis, 0, 1, 1)                                                                     \
    X(mean, mean, without_axis, 0, 2, 2)                                                                   \
    X(amax, amax, without_axis, 0, 0, 0)                                                                   \
    X(amin, amin, without_axis, 0, 0, 0)                                                                   \
    X(variance, variance, without_axis, 0, 2, 3)                                                           \
    X(logsumexp, logsumexp, without_axis, 0, 4, 4)                                                         \
    X(prod, prod, without_axis, 0, 1, 1)                                                                   \
    X(cumsum, cumsum, same, 0, 1, 1)                                                                       \
    X(softmax, softmax, same, 0, 4, 4)                                                                     \
    X(log_softmax, log_softmax, same, 0, 4, 4)                                                             \
    X(layer_norm, norm, same, 0, 4, 6)                                                                     \
    X(rms_norm, norm, same, 0, 4, 6)                                                                       \
    X(concat, concat, concat, REF_MOVED, 0, 0)                                                             \
    X(slice, slice, slice, REF_MOVED, 0, 0)                                                                \
    X(reshape, reshape, given, REF_MOVED, 0, 0)                                                            \
    X(transpose, transpose, transpose, REF_MOVED, 0, 0)                                                    \
    X(pick, pick, scalar, REF_MOVED, 0, 0)                                                                 \
    X(softmax_xent, softmax_xent, scalar, 0, 4, 4)                                                         \
    X(hinge, hinge, scalar, 0, 1, 1)                                                                       \
    X(softmax_kl, softmax_kl, scalar, 0, 4, 4)                                                             \
    X(bce, bce, scalar, 0, 4, 4)                                                                           \
    X(squared_error, squared_error, scalar, 0, 2, 2)                                                       \
    X(huber, huber, scalar, 0, 2, 2)                                                                       \
    X(list_take, take, take, REF_WHOLE | REF_MOVED, 0, 0)                                                  \
    X(list_join, join, join, REF_WHOLE | REF_MOVED, 0, 0)                                                  \
    X(list_stack, all, stacked, REF_WHOLE | REF_MOVED, 0, 0)                                               \
    X(list_unstack, all, unstacked, REF_WHOLE | REF_MOVED, 0, 0)                                           \
    X(list_sum, rows_sum, groups, REF_WHOLE, 1, 1)                                                         \
    X(list_mean, rows_mean, groups, REF_WHOLE, 2, 2)                                                       \
    X(list_max, rows_max, groups, REF_WHOLE, 0, 0)                                                         \
    X(list_softmax_mean, softmax_mean, groups, REF_WHOLE, 4, 6)                                            \
    X(list_attention, attention, attention, REF_WHOLE, 8, 8)

static void ref_same_as_values_shape(ref_call *c) { c->out = c->in[1].shape; }

enum ref_op {
#define REF_ENUM(name, function, shape, flags, value, gradient) REF_##name,
    REF_OPS(REF_ENUM) REF_OP_COUNT
};
static const struct ref_row {
    const char *name;
    void (*forward)(ref_call *c), (*backward)(ref_call *c), (*shape)(ref_call *c);
    int flags;
    double units[2];
} ref_rows[] = {
#define REF_ROW(name, function, shape, flags, value, gradient)                         \
    { #name, ref_##function##_forward, ref_##function##_backward, ref_##shape##_shape, \
      flags, { value, gradient } },
    REF_OPS(REF_ROW)
};

/* ---- the tape -------------------------------------------------------------------------------- */

/* rows: of a list, or REF_NODE. v and b: the values, and how far floats may be from them. Of the gradient: g
   itself, the sum of its contributions' magnitudes m, the sum of what they may be wrong by gb, how many there
   are (n), and of how many terms: an engine may add these in any order, not contribution by contribution. */
typedef struct ref_value {
    ref_shape shape;
    int rows, n, terms;
    double *v, *b, *g, *m, *gb;
} ref_value;
typedef struct ref_step { int op, out, n; const int *in; ref_attr a; } ref_step;
typedef struct ref_param { const char *name; ref_shape shape; const double *v; int on_tape; } ref_param;

#ifndef REF_TAPE
#define REF_TAPE 20000 /* values on a tape */
#endif
enum { REF_VALUES = REF_TAPE, REF_INTS = 200000, REF_PARAMS = 200, REF_OPERANDS = 2000, REF_POOL = 300 * REF_TAPE };
typedef struct ref_tape {
    int n_values, n_steps, n_params, ints_used;
    size_t used;
    uint64_t noise; /* 0: none. Else results are wrong by as much as they may be, up or down */
    ref_value value[REF_VALUES];
    ref_step step[REF_VALUES];
    ref_param param[REF_PARAMS];
    int ints[REF_INTS];
    double pool[REF_POOL];
} ref_tape;

static inline void ref_full(int holds)
{
    if (holds) return;
    printf("reference.h: the tape is full\n");
    exit(1);
}
static inline double *ref_doubles(ref_tape *t, size_t n)
{
    double *x = t->pool + t->used;
    ref_full((t->used += n) <= REF_POOL);
    memset(x, 0, n * sizeof *x);
    return x;
}
static inline int *ref_ints(ref_tape *t, int n)
{
    ref_full((t->ints_used += n) <= REF_INTS);
    return t->ints + t->ints_used - n;
}
/* Forgets all but the parameters' names and values. */
static inline void ref_begin(ref_tape *t)
{
    t->n_values = t->n_steps = t->ints_used = 0;
    t->used = 0;
    t->noise = 0;
    for (int i = 0; i < t->n_params; i++) t->param[i].on_tape = -1;
}
static inline size_t ref_count(const ref_value *x)
{
    return (size_t)ref_size(&x->shape) * (size_t)(x->rows == REF_NODE ? 1 : x->rows);
}
static inline int ref_new(ref_tape *t, ref_shape shape, int rows)
{
    ref_full(t->n_values < REF_VALUES);
    ref_value *x = &t->value[t->n_values];
    x->shape = shape;
    x->rows = rows;
    x->n = x->terms = 0;
    const size_t n = ref_count(x);
    x->v = ref_doubles(t, 5 * n);
    x->b = x->v + n;
    x->g = x->b + n;
    x->m = x->g + n;
    x->gb = x->m + n;
    return t->n_values++;
}
static inline int ref_input(ref_tape *t, ref_shape shape, int rows, const double *v)
{
    const int x = ref_new(t, shape, rows);
    if (v && ref_count(&t->value[x])) memcpy(t->value[x].v, v, ref_count(&t->value[x]) * sizeof *v);
    return x;
}
static inline int ref_parameter(ref_tape *t, const char *name)
{
    for (int i = 0; i < t->n_params; i++) {
        ref_param *p = &t->param[i];
        if (strcmp(p->name, name)) continue;
        if (p->on_tape < 0) p->on_tape = ref_input(t, p->shape, REF_NODE, p->v);
        return p->on_tape;
    }
    printf("reference.h: there is no parameter '%s'\n", name);
    exit(1);
}
/* "layer.name" */
static inline int ref_part(ref_tape *t, const char *layer, const char *name)
{
    char text[200];
    snprintf(text, sizeof text, "%.90s.%s", layer, name);
    return ref_parameter(t, text);
}

/* What each of an op's results may be wrong by: as an error, up or down, if there shall be some. */
static inline double ref_moved(ref_tape *t, double x, double by)
{
    if (!t->noise || !(by > 0)) return x;
    t->noise += UINT64_C(0x9e3779b97f4a7c15);
    const double share = (double)(int64_t)ref_mix(t->noise) / 9223372036854775808.0; /* -1 to 1 */
    return x + by * (share < 0 ? share - 1 : share + 1) / 2;
}
static inline double ref_bound(double units, double terms, double size)
{
    return size > 0 || isnan(size) ? (units + 0.5 * terms) * ref_ulp(size) + (units + terms) * ref_ulp(0) : 0;
}

/* The operands of a step, of one row or whole. to: where gradients go, NULL in forward. */
static inline void ref_point(const ref_tape *t, const ref_step *s, int row, ref_operand *in,
                             double *const *to)
{
    const int whole = ref_rows[s->op].flags & REF_WHOLE;
    for (int k = 0; k < s->n; k++) {
        const ref_value *x = &t->value[s->in[k]];
        const int all = whole || x->rows == REF_NODE;
        const size_t at = all ? 0 : (size_t)row * (size_t)ref_size(&x->shape);
        in[k].shape = x->shape;
        in[k].rows = x->rows;
        in[k].x = x->v + at;
        if (!to) continue;
        in[k].terms = all ? in[k].terms : 0;
        in[k].dx = to[k] + at;
        in[k].dm = in[k].dx + ref_count(x);
        in[k].de = in[k].dm + ref_count(x);
    }
}
/* Calls an op's function for every row, or once. y and sizes: of the result; dy: its gradient, NULL in
   forward. */
static inline double ref_call_rows(ref_tape *t, const ref_step *s, ref_operand *in, double *y, double *sizes,
                                   const double *dy, double *const *to)
{
    const struct ref_row *op = &ref_rows[s->op];
    const ref_value *out = &t->value[s->out];
    const int once = (op->flags & REF_WHOLE) || out->rows == REF_NODE;
    ref_call c = { s->n, out->rows, -1, in, out->shape, NULL, NULL, NULL, 0, &s->a };
    for (int row = 0; row < (once ? 1 : out->rows); row++) {
        const size_t at = (size_t)row * (size_t)ref_size(&out->shape);
        ref_point(t, s, row, in, to);
        c.row = once ? -1 : row;
        c.y = y + at;
        c.s = sizes + at;
        c.dy = dy ? dy + at : NULL;
        c.terms = 0;
        (dy ? op->backward : op->forward)(&c);
    }
    return c.terms;
}

static inline void ref_compute(ref_tape *t, const ref_step *s)
{
    static ref_operand in[REF_OPERANDS];
    static double *values[REF_OPERANDS];
    const struct ref_row *op = &ref_rows[s->op];
    ref_value *out = &t->value[s->out];
    const size_t n = ref_count(out), used = t->used;
    memset(out->v, 0, 2 * n * sizeof *out->v);
    const double terms = ref_call_rows(t, s, in, out->v, out->b, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        out->b[i] = ref_bound(op->units[0], terms, out->b[i]);
        out->v[i] = ref_moved(t, out->v[i], out->b[i]);
    }
    if (!(op->flags & REF_MOVED)) return;
    for (int k = 0; k < s->n; k++) { /* bounds move as values do */
        values[k] = t->value[s->in[k]].v;
        t->value[s->in[k]].v = t->value[s->in[k]].b;
    }
    ref_call_rows(t, s, in, out->b, ref_doubles(t, n), NULL, NULL);
    for (int k = s->n - 1; k >= 0; k--) t->value[s->in[k]].v = values[k];
    t->used = used;
}
static inline int ref_apply(ref_tape *t, int op, const ref_attr *a, const int *in, int n)
{
    static const ref_attr none = { 0, 0, { 0, 0, 0, 0 }, 0, NULL, 0, { 0, { 0, 0, 0, 0 } } };
    static ref_operand operands[REF_OPERANDS];
    ref_step *s = &t->step[t->n_steps];
    int *own = ref_ints(t, n);
    ref_full(t->n_steps++ < REF_VALUES && n <= REF_OPERANDS);
    if (n) memcpy(own, in, (size_t)n * sizeof *in);
    s->op = op;
    s->n = n;
    s->in = own;
    s->a = a ? *a : none;
    ref_call c = { n, REF_NODE, -1, operands, ref_shape1(1), NULL, NULL, NULL, 0, &s->a };
    ref_point(t, s, 0, operands, NULL);
    for (int k = 0; k < n; k++) c.rows = operands[k].rows != REF_NODE ? operands[k].rows : c.rows;
    ref_rows[op].shape(&c);
    s->out = ref_new(t, c.out, c.rows);
    ref_compute(t, s);
    return s->out;
}
/* A gradient that all have contributed to: the rounding of its sum. */
static inline void ref_complete(ref_tape *t, ref_value *x)
{
    for (size_t i = 0; i < ref_count(x) && x->n > 1; i++) {
        const double bound = ref_bound(0, x->terms - 1, x->m[i]);
        x->g[i] = ref_moved(t, x->g[i], bound);
        x->gb[i] += bound;
    }
}
/* Adds what a step gives to the gradients of its operands. */
static inline void ref_differentiate(ref_tape *t, const ref_step *s)
{
    static ref_operand in[REF_OPERANDS];
    static double *to[REF_OPERANDS], *moved[REF_OPERANDS];
    const struct ref_row *op = &ref_rows[s->op];
    const ref_value *out = &t->value[s->out];
    const size_t used = t->used, n = ref_count(out);
    double *sizes = ref_doubles(t, n);
    for (size_t i = 0; i < n; i++) sizes[i] = fabs(out->v[i]);
    for (int k = 0; k < s->n; k++) {
        to[k] = ref_doubles(t, 3 * ref_count(&t->value[s->in[k]]));
        moved[k] = ref_doubles(t, 3 * ref_count(&t->value[s->in[k]]));
        in[k].terms = 0;
    }
    if (op->flags & REF_MOVED) ref_call_rows(t, s, in, out->v, sizes, out->gb, moved);
    for (int k = 0; k < s->n; k++) in[k].terms = 0;
    ref_call_rows(t, s, in, out->v, sizes, out->g, to);
    for (int k = 0; k < s->n; k++) {
        ref_value *x = &t->value[s->in[k]];
        const size_t count = ref_count(x);
        const int beside = x->rows == REF_NODE && !(op->flags & REF_WHOLE) && out->rows > 1; /* a list */
        const double terms = in[k].terms + (beside ? out->rows : 0);
        for (size_t i = 0; i < count; i++) {
            const double bound = ref_bound(op->units[1], terms, to[k][count + i]);
            x->g[i] += ref_moved(t, to[k][i], bound + to[k][2 * count + i]);
            x->m[i] += fabs(to[k][i]);
            x->gb[i] += bound + to[k][2 * count + i] + moved[k][i];
        }
        x->n++;
        x->terms += terms > 1 ? (int)terms : 1;
    }
    t->used = used;
}
/* From the gradients g of what the tape has, which the caller has set, to those of all that it was made of. */
static inline void ref_backward(ref_tape *t)
{
    int step = t->n_steps - 1;
    for (int x = t->n_values - 1; x >= 0; x--) {
        ref_complete(t, &t->value[x]);
        if (step >= 0 && t->step[step].out == x) ref_differentiate(t, &t->step[step--]);
    }
}

/* The op that rounds; REF_OP_COUNT: there are several, or a sum of gradients does. */
static inline int ref_rounds(const ref_tape *t)
{
    int op = -1;
    for (int i = 0; i < t->n_steps; i++) {
        if (!(ref_rows[t->step[i].op].flags & REF_MOVED)) op = op < 0 ? t->step[i].op : REF_OP_COUNT;
        if (t->value[t->step[i].out].n > 1) op = REF_OP_COUNT;
    }
    return op < 0 ? REF_copy : op;
}
/* Sets the gradients of results: adds to g, m and gb, and counts in n. */
typedef void ref_seed(ref_tape *t, const void *user);
static inline void ref_seeded_backward(ref_tape *t, ref_seed *seed, const void *user)
{
    for (int v = 0; v < t->n_values; v++) {
        memset(t->value[v].g, 0, 3 * ref_count(&t->value[v]) * sizeof(double));
        t->value[v].n = 0;
    }
    seed(t, user);
    ref_backward(t);
}
/* The bounds of a composition, as told above: of values, and with a seed of gradients too. */
enum { REF_MOVES = 8 };
static inline void ref_move_all(ref_tape *t, ref_seed *seed, const void *user)
{
    const size_t used = t->used;
    double *kept = ref_doubles(t, 2 * used), *far = kept + used;
    memcpy(kept, t->pool, used * sizeof *kept);
    for (int k = 0; k < REF_MOVES; k++) {
        t->noise = (uint64_t)k + 1;
        for (int i = 0; i < t->n_steps; i++) ref_compute(t, &t->step[i]);
        if (seed) ref_seeded_backward(t, seed, user);
        for (size_t i = 0; i < used; i++) {
            const double by = fabs(t->pool[i] - kept[i]);
            far[i] = by > far[i] ? by : far[i];
        }
    }
    memcpy(t->pool, kept, used * sizeof *kept);
    for (int v = 0; v < t->n_values; v++) {
        ref_value *x = &t->value[v];
        for (size_t i = 0; i < ref_count(x); i++) {
            x->b[i] += 2 * far[(size_t)(x->v - t->pool) + i];
            x->gb[i] += 2 * far[(size_t)(x->g - t->pool) + i];
        }
    }
    t->noise = 0;
    t->used = used;
}
static inline void ref_bounds(ref_tape *t)
{
    if (ref_rounds(t) == REF_OP_COUNT) ref_move_all(t, NULL, NULL);
}
static inline void ref_gradients(ref_tape *t, ref_seed *seed, const void *user)
{
    ref_seeded_backward(t, seed, user);
    if (ref_rounds(t) == REF_OP_COUNT) ref_move_all(t, seed, user);
}

/* ---- ops by name ----------------------------------------------------------------------------- */

static inline ref_attr ref_attrs(double x, int a, int b, int c, int d)
{
    const ref_attr attr = { x, 0, { a, b, c, d }, 0, NULL, 0, { 0, { 0, 0, 0, 0 } } };
    return attr;
}
static inline int ref_of(ref_tape *t, int op, int x) { return ref_apply(t, op, NULL, &x, 1); }
static inline int ref_of_two(ref_tape *t, int op, int a, int b)
{
    const int in[2] = { a, b };
    return ref_apply(t, op, NULL, in, 2);
}
static inline int ref_with(ref_tape *t, int op, int x, double number)
{
    const ref_attr a = ref_attrs(number, 0, 0, 0, 0);
    return ref_apply(t, op, &a, &x, 1);
}
static inline int ref_along(ref_tape *t, int op, int x, int axis)
{
    const ref_attr a = ref_attrs(0, axis, 0, 0, 0);
    return ref_apply(t, op, &a, &x, 1);
}
static inline int ref_concat(ref_tape *t, const int *x, int n, int axis)
{
    const ref_attr a = ref_attrs(0, axis, 0, 0, 0);
    return n == 1 ? x[0] : ref_apply(t, REF_concat, &a, x, n);
}
static inline int ref_slice(ref_tape *t, int x, int axis, int start, int length)
{
    const ref_attr a = ref_attrs(0, axis, start, length, 0);
    return ref_apply(t, REF_slice, &a, &x, 1);
}
static inline int ref_reshape(ref_tape *t, int x, ref_shape shape)
{
    ref_attr a = ref_attrs(0, 0, 0, 0, 0);
    a.shape = shape;
    return ref_apply(t, REF_reshape, &a, &x, 1);
}
static inline int ref_transpose(ref_tape *t, int x, int a, int b)
{
    const ref_attr axes = ref_attrs(0, a, b, 0, 0);
    return ref_apply(t, REF_transpose, &axes, &x, 1);
}
static inline int ref_pick(ref_tape *t, int op, int x, const int *index, int n) /* losses with labels, too */
{
    ref_attr a = ref_attrs(0, 0, 0, 0, 0);
    a.index = index;
    a.n = n;
    return ref_apply(t, op, &a, &x, 1);
}
/* concat(x...) W + b; b < 0: none */
static inline int ref_linear(ref_tape *t, const int *x, int n, int W, int b, int transposed)
{
    const int in[3] = { ref_concat(t, x, n, 0), W, b };
    const ref_attr a = ref_attrs(0, transposed, 0, 0, 0);
    return ref_apply(t, REF_linear, &a, in, b < 0 ? 2 : 3);
}
static inline int ref_affine(ref_tape *t, int x, const char *layer) /* x W + b of a layer */
{
    return ref_linear(t, &x, 1, ref_part(t, layer, "W"), ref_part(t, layer, "b"), 0);
}
static inline int ref_take(ref_tape *t, int x, const int *index, int n, int node)
{
    ref_attr a = ref_attrs(0, node, 0, 0, 0);
    a.index = index;
    a.n = n;
    return ref_apply(t, REF_list_take, &a, &x, 1);
}
static inline int ref_join(ref_tape *t, const int *x, int n, ref_shape shape) /* the shape: of no rows */
{
    ref_attr a = ref_attrs(0, 0, 0, 0, 0);
    a.shape = shape;
    return ref_apply(t, REF_list_join, &a, x, n);
}
static inline int ref_sum_to(ref_tape *t, int op, const int *in, int n_in, const int *to, int n)
{
    ref_attr a = ref_attrs(0, n, 0, 0, 0);
    a.index = to;
    return ref_apply(t, op, &a, in, n_in);
}
/* from and to: n edges, or NULL */
static inline int ref_attention(ref_tape *t, const int *qkv, int heads, int causal, const int *from_to, int n)
{
    ref_attr a = ref_attrs(0, heads, causal, 0, 0);
    a.index = from_to;
    a.n = n;
    return ref_apply(t, REF_list_attention, &a, qkv, 3);
}
static inline int ref_norm_by(ref_tape *t, int x, int gain, int bias, double epsilon) /* bias < 0: RMS norm */
{
    const int in[3] = { x, gain, bias };
    const ref_attr a = ref_attrs(epsilon == 0 ? (double)1e-5f : epsilon, 0, 0, 0, 0);
    return ref_apply(t, bias < 0 ? REF_rms_norm : REF_layer_norm, &a, in, bias < 0 ? 2 : 3);
}
static inline int ref_dropout(ref_tape *t, int x, double rate, uint64_t key, int draw)
{
    ref_attr a = ref_attrs(rate, draw, 0, 0, 0);
    a.key = key;
    return rate > 0 ? ref_apply(t, REF_dropout, &a, &x, 1) : x;
}
/* (x - mean) / sqrt(variance + epsilon) */
static inline int ref_standardize(ref_tape *t, int x, int mean, int variance, double epsilon)
{
    const int deviation =
        ref_of(t, REF_sqrt, ref_with(t, REF_shift, variance, epsilon == 0 ? (double)1e-5f : epsilon));
    return ref_of_two(t, REF_div, ref_of_two(t, REF_sub, x, mean), deviation);
}

/* ---- layers ------------------------------------------------------------------------------------- */

enum ref_activation {
    REF_ACT_LINEAR,
    REF_ACT_RELU,
    REF_ACT_TANH,
    REF_ACT_SIGMOID,
    REF_ACT_GELU_TANH,
    REF_ACT_GELU,
    REF_ACT_SILU
};
static inline int ref_activate(ref_tape *t, int x, int activation)
{
    static const int op[] = { REF_copy, REF_relu, REF_tanh, REF_sigmoid, REF_gelu_tanh, REF_gelu, REF_silu };
    return activation == REF_ACT_LINEAR ? x : ref_of(t, op[activation], x);
}
static inline int ref_dense(ref_tape *t, const char *layer, int x, int activation)
{
    return ref_activate(t, ref_affine(t, x, layer), activation);
}
static inline int ref_mlp(ref_tape *t, const char *name, int x, int layers, int hidden)
{
    for (int i = 0; i < layers; i++) {
        char layer[160];
        snprintf(layer, sizeof layer, "%.90s.%d", name, i);
        x = ref_dense(t, layer, x, i + 1 < layers ? hidden : REF_ACT_LINEAR);
    }
    return x;
}
typedef struct ref_state { int h, c; } ref_state;
static inline int ref_gate(ref_tape *t, int z, int i, int hidden, int op) /* the i-th `hidden` columns */
{
    return ref_of(t, op, ref_slice(t, z, -1, i * hidden, hidden));
}
static inline int ref_width(const ref_tape *t, int x) { return ref_last(&t->value[x].shape); }

/* c = i u + what is kept, h = o tanh(c) */
static inline ref_state ref_lstm_end(ref_tape *t, int i, int u, int o, int kept)
{
    ref_state s = { 0, ref_of_two(t, REF_mul, i, u) };
    if (kept >= 0) s.c = ref_of_two(t, REF_add, s.c, kept);
    s.h = ref_of_two(t, REF_mul, o, ref_of(t, REF_tanh, s.c));
    return s;
}
/* Elman 1990, by tanh and by relu */
static inline ref_state ref_elman_step(ref_tape *t, const char *name, int x, ref_state s, int activation)
{
    const int xh[2] = { x, s.h };
    s.h = ref_of(t, activation, ref_affine(t, ref_concat(t, xh, 2, 0), name));
    return s;
}
static inline ref_state ref_rnn_step(ref_tape *t, const char *name, int x, ref_state s)
{
    return ref_elman_step(t, name, x, s, REF_tanh);
}
static inline ref_state ref_rnn_relu_step(ref_tape *t, const char *name, int x, ref_state s)
{
    return ref_elman_step(t, name, x, s, REF_relu);
}
/* Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000 */
static inline ref_state ref_lstm_step(ref_tape *t, const char *name, int x, ref_state s)
{
    const int xh[2] = { x, s.h }, n = ref_width(t, s.h), z = ref_affine(t, ref_concat(t, xh, 2, 0), name);
    const int kept = ref_of_two(t, REF_mul, ref_gate(t, z, 1, n, REF_sigmoid), s.c);
    return ref_lstm_end(t, ref_gate(t, z, 0, n, REF_sigmoid), ref_gate(t, z, 3, n, REF_tanh),
                        ref_gate(t, z, 2, n, REF_sigmoid), kept);
}
/* Cho et al. 2014, the reset gate after the product, as PyTorch's GRU has it */
static inline ref_state ref_gru_step(ref_tape *t, const char *name, int x, ref_state s)
{
    const int n = ref_width(t, s.h), a = ref_affine(t, x, name);
    const int b = ref_linear(t, &s.h, 1, ref_part(t, name, "U"), ref_part(t, name, "c"), 0);
    const int both = ref_of_two(t, REF_add, ref_slice(t, a, -1, 0, 2 * n), ref_slice(t, b, -1, 0, 2 * n));
    const int r = ref_gate(t, both, 0, n, REF_sigmoid), z = ref_gate(t, both, 1, n, REF_sigmoid);
    const int reset = ref_of_two(t, REF_mul, r, ref_slice(t, b, -1, 2 * n, n));
    const int u = ref_of(t, REF_tanh, ref_of_two(t, REF_add, ref_slice(t, a, -1, 2 * n, n), reset));
    const int fresh = ref_of_two(t, REF_mul, ref_with(t, REF_shift, ref_of(t, REF_neg, z), 1), u);
    s.h = ref_of_two(t, REF_add, fresh, ref_of_two(t, REF_mul, z, s.h));
    return s;
}
typedef ref_state ref_recurrent_step(ref_tape *t, const char *name, int x, ref_state s);
static inline ref_state ref_zeros(ref_tape *t, int hidden)
{
    const ref_state s = { ref_input(t, ref_shape1(hidden), REF_NODE, NULL),
                          ref_input(t, ref_shape1(hidden), REF_NODE, NULL) };
    return s;
}
/* y[i] is the output of x[i]; returns the last state. y may be x. */
static inline ref_state ref_unroll(ref_tape *t, ref_recurrent_step *step, const char *name, const int *x,
                                   int n, int reverse, ref_state s, int *y)
{
    for (int k = 0; k < n; k++) {
        const int at = reverse ? n - 1 - k : k;
        s = step(t, name, x[at], s);
        y[at] = s.h;
    }
    return s;
}
/* Layers in both directions: y[i] is that of the top, which reads forwards, then that in reverse. */
enum { REF_STEPS = 320 };
static inline void ref_stack(ref_tape *t, ref_recurrent_step *step, const char *name, const int *x, int n,
                             int hidden, int layers, int *y, ref_state *last)
{
    int in[REF_STEPS], there[REF_STEPS], back[REF_STEPS];
    ref_full(n <= REF_STEPS);
    for (int i = 0; i < n; i++) in[i] = x[i];
    for (int layer = 0; layer < layers; layer++) {
        char one[160], other[160];
        snprintf(one, sizeof one, "%.90s.%d", name, layer);
        snprintf(other, sizeof other, "%.90s.%d.reverse", name, layer);
        const ref_state a = ref_unroll(t, step, one, in, n, 0, ref_zeros(t, hidden), there);
        const ref_state b = ref_unroll(t, step, other, in, n, 1, ref_zeros(t, hidden), back);
        for (int i = 0; i < n; i++) {
            const int both[2] = { there[i], back[i] };
            in[i] = ref_concat(t, both, 2, 0);
        }
        if (!last) continue;
        last[2 * layer] = a;
        last[2 * layer + 1] = b;
    }
    for (int i = 0; i < n; i++) y[i] = in[i];
}
/* N-ary tree-LSTM, equations 9 to 14 of Tai et al. 2015; a leaf sees its input alone. */
static inline ref_state ref_tree_leaf(ref_tape *t, const char *name, int x)
{
    char leaf[160];
    snprintf(leaf, sizeof leaf, "%.90s.leaf", name);
    const int z = ref_affine(t, x, leaf), n = ref_width(t, z) / 3;
    return ref_lstm_end(t, ref_gate(t, z, 0, n, REF_sigmoid), ref_gate(t, z, 2, n, REF_tanh),
                        ref_gate(t, z, 1, n, REF_sigmoid), -1);
}
static inline ref_state ref_tree_inner(ref_tape *t, const char *name, const ref_state *child, int arity)
{
    char inner[160];
    int h[8], kept = -1;
    snprintf(inner, sizeof inner, "%.90s.inner", name);
    for (int k = 0; k < arity; k++) h[k] = child[k].h;
    const int n = ref_width(t, h[0]), z = ref_affine(t, ref_concat(t, h, arity, 0), inner);
    for (int k = 0; k < arity; k++) {
        const int one = ref_of_two(t, REF_mul, ref_gate(t, z, 2 + k, n, REF_sigmoid), child[k].c);
        kept = k ? ref_of_two(t, REF_add, kept, one) : one;
    }
    return ref_lstm_end(t, ref_gate(t, z, 0, n, REF_sigmoid), ref_gate(t, z, 2 + arity, n, REF_tanh),
                        ref_gate(t, z, 1, n, REF_sigmoid), kept);
}
/* Child-sum tree-LSTM, equations 2 to 8 of Tai et al. 2015 */
static inline ref_state ref_child_sum(ref_tape *t, const char *name, int x, const ref_state *child,
                                      int n_children, int hidden)
{
    int sum = ref_zeros(t, hidden).h, kept = -1;
    for (int k = 0; k < n_children; k++) {
        const int xh[2] = { x, child[k].h };
        const int z = ref_linear(t, xh, 2, ref_part(t, name, "W_f"), ref_part(t, name, "b_f"), 0);
        const int one = ref_of_two(t, REF_mul, ref_of(t, REF_sigmoid, z), child[k].c);
        kept = k ? ref_of_two(t, REF_add, kept, one) : one;
        sum = ref_of_two(t, REF_add, sum, child[k].h);
    }
    const int xs[2] = { x, sum }, z = ref_affine(t, ref_concat(t, xs, 2, 0), name);
    return ref_lstm_end(t, ref_gate(t, z, 0, hidden, REF_sigmoid), ref_gate(t, z, 2, hidden, REF_tanh),
                        ref_gate(t, z, 1, hidden, REF_sigmoid), kept);
}
/* Norms: x gain + bias (fixed), layer norm, RMS norm. */
enum ref_norm_kind { REF_NORM_LAYER, REF_NORM_RMS, REF_NORM_FIXED };
static inline int ref_norm_layer(ref_tape *t, const char *name, int x, int kind, double epsilon)
{
    const int gain = ref_part(t, name, "gain");
    if (kind == REF_NORM_RMS) return ref_norm_by(t, x, gain, -1, epsilon);
    const int bias = ref_part(t, name, "bias");
    if (kind == REF_NORM_LAYER) return ref_norm_by(t, x, gain, bias, epsilon);
    return ref_of_two(t, REF_add, ref_of_two(t, REF_mul, x, gain), bias);
}
/* Vaswani et al. 2017 */
static inline int ref_attention_layer(ref_tape *t, const char *name, int q, int k, int v, int heads,
                                      int causal)
{
    static const char *const parts[] = { "query", "key", "value", "joined" };
    char layer[4][160];
    for (int i = 0; i < 4; i++) snprintf(layer[i], sizeof layer[i], "%.90s.%s", name, parts[i]);
    const int qkv[3] = { ref_affine(t, q, layer[0]), ref_affine(t, k, layer[1]), ref_affine(t, v, layer[2]) };
    return ref_affine(t, ref_attention(t, qkv, heads, causal, NULL, 0), layer[3]);
}
/* A transformer's layer: norms behind its parts (Vaswani et al. 2017), or before them (Xiong et al. 2020).
   attention: the name of its attention, NULL: name.attention. With a rate of dropout, of what attention found
   and of both dense layers' results, key is that of its draws. */
typedef struct ref_transformer {
    const char *attention;
    int heads, activation, norm_first, norm;
    double epsilon, dropout;
    uint64_t key;
} ref_transformer;
static inline int ref_transformer_layer(ref_tape *t, const char *name, const ref_transformer *d, int x,
                                        int causal)
{
    static const char *const parts[] = { "attention", "attention_norm", "dense_norm", "inner", "outer" };
    char part[5][160];
    for (int i = 0; i < 5; i++) snprintf(part[i], sizeof part[i], "%.90s.%s", name, parts[i]);
    const int seen = d->norm_first ? ref_norm_layer(t, part[1], x, d->norm, d->epsilon) : x;
    const int found =
        ref_attention_layer(t, d->attention ? d->attention : part[0], seen, seen, seen, d->heads, causal);
    int y = ref_of_two(t, REF_add, x, ref_dropout(t, found, d->dropout, d->key, 0));
    if (!d->norm_first) y = ref_norm_layer(t, part[1], y, d->norm, d->epsilon);
    const int fed = d->norm_first ? ref_norm_layer(t, part[2], y, d->norm, d->epsilon) : y;
    const int inner = ref_dropout(t, ref_dense(t, part[3], fed, d->activation), d->dropout, d->key, 1);
    y = ref_of_two(t, REF_add, y, ref_dropout(t, ref_affine(t, inner, part[4]), d->dropout, d->key, 2));
    return d->norm_first ? y : ref_norm_layer(t, part[2], y, d->norm, d->epsilon);
}
/* Such layers one after another, without dropout, and with has_norm a norm of what the last one gives. */
static inline int ref_encoder(ref_tape *t, const char *name, int layers, int heads, int x, int causal, int has_norm)
{
    const ref_transformer each = { NULL, heads, REF_ACT_RELU, 0, REF_NORM_LAYER, 0, 0, 0 };
    char part[160];
    for (int i = 0; i < layers; i++) {
        snprintf(part, sizeof part, "%.90s.layers.%d", name, i);
        x = ref_transformer_layer(t, part, &each, x, causal);
    }
    snprintf(part, sizeof part, "%.90s.norm", name);
    return has_norm ? ref_norm_layer(t, part, x, REF_NORM_LAYER, 0) : x;
}

/* -- policies' ops, over the last axis or all ----------------------------------------------------- */

/* -sum p log p of p = softmax(x) */
static inline int ref_entropy(ref_tape *t, int x)
{
    const int product = ref_of_two(t, REF_mul, ref_of(t, REF_softmax, x), ref_of(t, REF_log_softmax, x));
    return ref_of(t, REF_neg, ref_along(t, REF_sum, product, -1));
}
/* Of independent normal distributions, s being the logarithms of their deviations: the sum of
   -(x - mean)^2 / (2 e^(2 s)) - s - log(2 pi) / 2, and that of s + log(2 pi e) / 2, with the constants as
   floats. */
static inline int ref_log_density(ref_tape *t, int x, int mean, int s)
{
    const int apart =
        ref_of_two(t, REF_mul, ref_of_two(t, REF_sub, x, mean), ref_of(t, REF_exp, ref_of(t, REF_neg, s)));
    const int square = ref_with(t, REF_scale, ref_of(t, REF_square, apart), -0.5);
    const int all = ref_with(t, REF_shift, ref_of_two(t, REF_sub, square, s), -(double)0.9189385332046727f);
    return ref_along(t, REF_sum, all, REF_ALL);
}
static inline int ref_normal_entropy(ref_tape *t, int s)
{
    return ref_along(t, REF_sum, ref_with(t, REF_shift, s, (double)1.418938533204673f), REF_ALL);
}

#endif /* REFERENCE_H */
