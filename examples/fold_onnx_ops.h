/* fold_onnx_ops.h - what each op of an ONNX file does. This is the second file of fold_onnx.h, which includes
   it: copy both into the same folder, and include fold_onnx.h.

   Each op has a row in the table at the end: the number of its inputs, the supported attributes, and the
   function that opens a node. This computes outputs that are constant; for others it adds a step, with the
   function that records it. The comment above the table lists what each opset changed. */

#if defined(FOLD_ONNX_IMPLEMENTATION) && !defined(FOLD__ONNX_OPS)
#define FOLD__ONNX_OPS
#ifndef FOLD__ONNX_IMPLEMENTED
#error "include fold_onnx.h, which includes fold_onnx_ops.h"
#endif

/* ---- element-wise ops ------------------------------------------------------------------------- */

/* A function of doubles and its C text. fold_onnx_print prints the text for ops that fold.h lacks; formulas
   of such ops call no other function, so their bits are the same everywhere. Doubles of at least 2^52 =
   4503599627370496 are whole numbers. */
#define FOLD_ONNX__FORMULA(name, ...) FOLD_ONNX__FORMULA_OF(name, __VA_ARGS__)
#define FOLD_ONNX__FORMULA_OF(name, ...)                                        \
    static double fold_onnx__##name##_of(double own_a, double own_b)            \
    {                                                                           \
        double own_y;                                                           \
        (void)own_b;                                                            \
        __VA_ARGS__                                                             \
        return own_y;                                                           \
    }                                                                           \
    static const fold_onnx__formula fold_onnx__##name[1] = { { fold_onnx__##name##_of, #__VA_ARGS__ } };

FOLD_ONNX__FORMULA(add, own_y = own_a + own_b;)
FOLD_ONNX__FORMULA(sub, own_y = own_a - own_b;)
FOLD_ONNX__FORMULA(mul, own_y = own_a * own_b;)
FOLD_ONNX__FORMULA(div, own_y = own_a / own_b;)
FOLD_ONNX__FORMULA(min, own_y = own_a != own_a || own_a < own_b ? own_a : own_b;)
FOLD_ONNX__FORMULA(max, own_y = own_a != own_a || own_a > own_b ? own_a : own_b;)
FOLD_ONNX__FORMULA(less, own_y = own_a < own_b;)
FOLD_ONNX__FORMULA(less_equal, own_y = own_a <= own_b;)
FOLD_ONNX__FORMULA(greater, own_y = own_a > own_b;)
FOLD_ONNX__FORMULA(greater_equal, own_y = own_a >= own_b;)
FOLD_ONNX__FORMULA(equal, own_y = own_a == own_b;) /* NaN equals nothing */
FOLD_ONNX__FORMULA(and, own_y = own_a != 0 && own_b != 0;)
FOLD_ONNX__FORMULA(or, own_y = own_a != 0 || own_b != 0;)
FOLD_ONNX__FORMULA(xor, own_y = (own_a != 0) != (own_b != 0);)
FOLD_ONNX__FORMULA(not, own_y = own_a == 0;)
FOLD_ONNX__FORMULA(is_nan, own_y = own_a != own_a;)
FOLD_ONNX__FORMULA(not_zero, own_y = own_a != 0;)
FOLD_ONNX__FORMULA(sign, own_y = own_a > 0 ? 1 : own_a < 0 ? -1 : own_a - own_a;)
FOLD_ONNX__FORMULA(neg, own_y = -own_a;)
FOLD_ONNX__FORMULA(reciprocal, own_y = 1 / own_a;)
/* for constants only */
FOLD_ONNX__FORMULA(abs, own_y = fabs(own_a);)
FOLD_ONNX__FORMULA(exp, own_y = exp(own_a);)
FOLD_ONNX__FORMULA(log, own_y = log(own_a);)
FOLD_ONNX__FORMULA(sqrt, own_y = sqrt(own_a);)
FOLD_ONNX__FORMULA(floor, own_y = floor(own_a);)
FOLD_ONNX__FORMULA(ceil, own_y = ceil(own_a);)
FOLD_ONNX__FORMULA(sin, own_y = sin(own_a);)
FOLD_ONNX__FORMULA(cos, own_y = cos(own_a);)

/* Rounds to the nearest whole number, halves to the even one. 0 keeps its sign. */
#define FOLD_ONNX__NEAREST                                                                \
    own_y = own_a;                                                                        \
    if (own_a > -4503599627370496.0 && own_a < 4503599627370496.0) {                      \
        const long long own_whole = (long long)own_a;                                     \
        const double own_rest = own_a - (double)own_whole;                                \
        const double own_least = own_whole % 2 ? 0.5 : 0.50000000000000011;               \
        own_y = (double)(own_whole + (own_rest >= own_least) - (own_rest <= -own_least)); \
        if (own_y == 0)                                                                   \
            own_y = own_a * 0;                                                            \
    }
FOLD_ONNX__FORMULA(nearest_whole, FOLD_ONNX__NEAREST)
/* Truncates. Integers have no negative zero. */
#define FOLD_ONNX__TRUNC(y)                                \
    if (y > -4503599627370496.0 && y < 4503599627370496.0) \
        y = (double)(long long)y;
FOLD_ONNX__FORMULA(trunc, own_y = own_a; FOLD_ONNX__TRUNC(own_y))
FOLD_ONNX__FORMULA(whole_div, own_y = own_a / own_b; FOLD_ONNX__TRUNC(own_y))
static double fold_onnx__round(const fold_onnx__value *value, double number)
{
    return value->is_integer ? fold_onnx__trunc_of(number, 0) : (double)(float)number;
}

/* Converts to 8 bits, wrapping. */
#define FOLD_ONNX__BYTE(least)                                         \
    own_y = own_a;                                                     \
    if (own_y > -4503599627370496.0 && own_y < 4503599627370496.0) {   \
        own_y = (double)(((long long)own_y - least) % 256);            \
        own_y += own_y < 0 ? 256 + least : least;                      \
    }
FOLD_ONNX__FORMULA(to_uint8, FOLD_ONNX__BYTE(0))
FOLD_ONNX__FORMULA(to_int8, FOLD_ONNX__BYTE(-128))

/* The remainder is exact, and has the sign of a. */
#define FOLD_ONNX__REMAINDER                                         \
    double own_rest = own_a < 0 ? -own_a : own_a;                    \
    const double own_by = own_b < 0 ? -own_b : own_b;                \
    own_y = own_a;                                                   \
    if (!(own_rest - own_rest == 0) || !(own_by > 0))                \
        own_y = (own_a - own_a) / (own_b - own_b);                   \
    else if (own_rest >= own_by) {                                   \
        while (own_rest >= own_by) {                                 \
            double own_part = own_by;                                \
            while (own_part <= own_rest / 2)                         \
                own_part *= 2;                                       \
            own_rest -= own_part;                                    \
        }                                                            \
        own_y = own_a < 0 ? -own_rest : own_rest;                    \
    }
FOLD_ONNX__FORMULA(fmod, FOLD_ONNX__REMAINDER)
FOLD_ONNX__FORMULA(whole_fmod, FOLD_ONNX__REMAINDER own_y += 0.0;)
/* The remainder with the sign of b. */
#define FOLD_ONNX__MODULO                               \
    FOLD_ONNX__REMAINDER                                \
    if (own_y < 0 ? own_b > 0 : own_y > 0 && own_b < 0) \
        own_y += own_b;                                 \
    own_y += 0.0;
FOLD_ONNX__FORMULA(mod, FOLD_ONNX__MODULO)

/* erf(x) as x P(x^2), fitted for |x| up to 3.95, to within 3e-13. Beyond that it is 1 or -1 in float. */
#define FOLD_ONNX__ERF                                                                            \
    static const double own_of[23] = {                                                            \
        0.358000769593852, -0.178769505371224, 0.133176554963779, -0.108638594504752,             \
        0.0904913961027041, -0.0743160151244299, 0.0588574094963502, -0.0443270754996763,         \
        0.0314870063516764, -0.0210096379533542, 0.0131497575402629, -0.00772149857460007,        \
        0.00426094995059383, -0.00221681488843273, 0.00108603845167938, -0.000497222773957321,    \
        0.000218677819459626, -9.78799762479255e-05, 3.85697676423461e-05, -9.90116796310531e-06, \
        3.70219472061078e-06, -3.16217085312322e-06, 1.02685720905475e-06 };                      \
    const double own_at = own_a * own_a / 7.80125 - 1;                                            \
    int own_k;                                                                                    \
    own_y = own_of[22];                                                                           \
    for (own_k = 21; own_k >= 0; own_k--)                                                         \
        own_y = own_y * own_at + own_of[own_k];                                                   \
    own_y = own_a > 3.95 ? 1 : own_a < -3.95 ? -1 : own_y * own_a;
FOLD_ONNX__FORMULA(erf, FOLD_ONNX__ERF)

/* The arc tangent of own_x: a series, after the argument is reduced to at most 0.42. */
#define FOLD_ONNX__ATAN                                                                      \
    double own_t = own_x < 0 ? -own_x : own_x, own_base = 0;                                 \
    if (own_t > 2.4142135623730949) {                                                        \
        own_base = 1.5707963267948966;                                                       \
        own_t = -1 / own_t;                                                                  \
    } else if (own_t > 0.41421356237309503) {                                                \
        own_base = 0.78539816339744828;                                                      \
        own_t = (own_t - 1) / (own_t + 1);                                                   \
    }                                                                                        \
    for (own_k = 27, own_y = 0; own_k > 0; own_k -= 2)                                       \
        own_y = 1.0 / own_k - own_y * own_t * own_t;                                         \
    own_y = own_x < 0 ? -own_base - own_y * own_t : own_base + own_y * own_t;
FOLD_ONNX__FORMULA(atan, int own_k; const double own_x = own_a; FOLD_ONNX__ATAN)
/* asin(a) = atan(a / sqrt(1 - a^2)), with the root by Newton's method. */
#define FOLD_ONNX__ASIN                                                                      \
    int own_k;                                                                               \
    double own_root = own_a >= -1 && own_a <= 1 ? 1 : (own_a - own_a) / (own_a - own_a);     \
    for (own_k = 0; own_k < 40; own_k++)                                                     \
        own_root = (own_root + (1 - own_a) * (1 + own_a) / own_root) / 2;                    \
    const double own_x = own_a / own_root;                                                   \
    FOLD_ONNX__ATAN
FOLD_ONNX__FORMULA(asin, FOLD_ONNX__ASIN)
FOLD_ONNX__FORMULA(acos, FOLD_ONNX__ASIN own_y = 1.5707963267948966 - own_y;)

/* Powers with small whole exponents are products; others are exp(b log |a|), computed from series. */
#define FOLD_ONNX__POWER                                                                                 \
    const int own_is_far = !(own_b > -9e15 && own_b < 9e15); /* then b is even */                        \
    long long own_whole = own_is_far ? 0 : (long long)own_b, own_n;                                      \
    double own_m = own_a < 0 ? -own_a : own_a;                                                           \
    own_y = 1;                                                                                           \
    if (own_b == (double)own_whole && own_whole > -1024 && own_whole < 1024) {                           \
        for (own_m = own_a, own_n = own_whole < 0 ? -own_whole : own_whole; own_n > 0; own_n /= 2) {     \
            if (own_n % 2)                                                                               \
                own_y *= own_m;                                                                          \
            own_m *= own_m;                                                                              \
        }                                                                                                \
        if (own_whole < 0)                                                                               \
            own_y = 1 / own_y;                                                                           \
    } else if (own_a != own_a || own_b != own_b ||                                                       \
               (own_a < 0 && own_a - own_a == 0 && !own_is_far && own_b != (double)own_whole))           \
        own_y = own_a == 1 ? 1 : (own_a - own_a) / (own_a - own_a);                                      \
    else {                                                                                               \
        double own_log = own_m > 1 ? 1e300 : -1e300, own_s, own_power; /* infinity; 0 */                 \
        int own_k, own_e = 0;                                                                            \
        if (own_m > 0 && own_m - own_m == 0) {                                                           \
            for (; own_m > 1.5; own_m /= 2)                                                              \
                own_e++;                                                                                 \
            for (; own_m < 0.75; own_m *= 2)                                                             \
                own_e--;                                                                                 \
            own_s = (own_m - 1) / (own_m + 1);                                                           \
            for (own_k = 23, own_log = 0; own_k > 0; own_k -= 2)                                         \
                own_log = own_log * own_s * own_s + 2.0 / own_k;                                         \
            own_log = own_log * own_s + own_e * 0.69314718055994531;                                     \
        }                                                                                                \
        own_power = own_log == 0 ? 0 : own_b * own_log;                                                  \
        own_power = own_power > 800 ? 800 : own_power < -800 ? -800 : own_power;                         \
        own_e = (int)(own_power * 1.4426950408889634);                                                   \
        own_power -= own_e * 0.69314718055994531;                                                        \
        for (own_k = 20; own_k > 0; own_k--)                                                             \
            own_y = 1 + own_y * own_power / own_k;                                                       \
        for (; own_e > 0; own_e--)                                                                       \
            own_y *= 2;                                                                                  \
        for (; own_e < 0; own_e++)                                                                       \
            own_y /= 2;                                                                                  \
        if (own_whole % 2 && own_b == (double)own_whole && (own_a < 0 || (own_a == 0 && 1 / own_a < 0))) \
            own_y = -own_y;                                                                              \
    }
FOLD_ONNX__FORMULA(pow, FOLD_ONNX__POWER)
/* Raised a little before truncation, so that the square root of 4 is 2. */
#define FOLD_ONNX__WHOLE_POWER \
    FOLD_ONNX__POWER           \
    own_y *= 1.000000000001;   \
    FOLD_ONNX__TRUNC(own_y)
FOLD_ONNX__FORMULA(whole_pow, FOLD_ONNX__WHOLE_POWER)

/* Rounds to half precision: a significand of 11 bits, or fewer below 2^-14. */
#define FOLD_ONNX__TO_HALF                                                         \
    double own_m = own_a < 0 ? -own_a : own_a, own_step = 5.9604644775390625e-08;  \
    own_y = own_a;                                                                 \
    if (own_m >= 65520)                                                            \
        own_y = own_a * 1e300 * 1e300;                                             \
    else if (own_m > 0) {                                                          \
        while (own_m >= own_step * 2048)                                           \
            own_step *= 2;                                                         \
        const int own_n = (int)(own_m / own_step);                                 \
        own_m = own_m / own_step - own_n;                                          \
        own_m = (own_n + (own_m > 0.5 || (own_m == 0.5 && own_n % 2))) * own_step; \
        own_y = own_a < 0 ? -own_m : own_m;                                        \
    }
FOLD_ONNX__FORMULA(to_half, FOLD_ONNX__TO_HALF)

static fold_node fold_onnx__one_over(fold_ctx *f, fold_node x) { return fold_div(f, fold_constant(f, 1), x); }
static fold_node fold_onnx__tan(fold_ctx *f, fold_node x)
{
    const fold_node sine = fold_sin(f, x);
    return fold_div(f, sine, fold_cos(f, x));
}
static fold_node fold_onnx__divide_by(fold_ctx *f, fold_node x, float number)
{
    return fold_div(f, x, fold_constant(f, number));
}
static fold_node fold_onnx__rounded_up(fold_ctx *f, fold_node x)
{
    return fold_neg(f, fold_floor(f, fold_neg(f, x)));
}
static fold_node fold_onnx__hard_sigmoid(fold_ctx *f, fold_node x, float alpha, float beta)
{
    return fold_clip(f, fold_shift(f, fold_scale(f, x, alpha), beta), 0, 1);
}
static fold_node fold_onnx__hard_swish(fold_ctx *f, fold_node x)
{
    return fold_mul(f, x, fold_onnx__hard_sigmoid(f, x, 1 / 6.0f, 0.5f));
}
static fold_node fold_onnx__mish(fold_ctx *f, fold_node x)
{
    return fold_mul(f, x, fold_tanh(f, fold_softplus(f, x)));
}
static fold_node fold_onnx__softsign(fold_ctx *f, fold_node x)
{
    return fold_div(f, x, fold_shift(f, fold_abs(f, x), 1));
}
static fold_node fold_onnx__swish(fold_ctx *f, fold_node x, float alpha)
{
    return alpha == 1 ? fold_silu(f, x) : fold_mul(f, x, fold_sigmoid(f, fold_scale(f, x, alpha)));
}
static fold_node fold_onnx__selu(fold_ctx *f, fold_node x, float alpha, float gamma)
{
    return fold_scale(f, fold_elu(f, x, alpha), gamma);
}
/* This and the next are exact for x > 0. */
static fold_node fold_onnx__celu(fold_ctx *f, fold_node x, float alpha)
{
    const fold_node below = fold_onnx__divide_by(f, fold_at_most(f, x, 0), alpha);
    const fold_node above = fold_relu(f, x);
    return fold_add(f, above, fold_elu(f, below, alpha));
}
static fold_node fold_onnx__prelu(fold_ctx *f, fold_node x, fold_node slope)
{
    const fold_node above = fold_relu(f, x);
    return fold_add(f, above, fold_mul(f, slope, fold_at_most(f, x, 0)));
}

static int fold_onnx__no_broadcast(fold_onnx *o, int one, int other)
{
    return FOLD_ONNX__REFUSE(o, "axes of %d and %d values do not broadcast", one, other);
}

/* Replaces dims by the shape to which a and dims broadcast, as in fold.h. */
static int fold_onnx__meet(fold_onnx *o, const fold_onnx__dims *a, fold_onnx__dims *dims)
{
    const fold_onnx__dims had = *dims;
    dims->rank = a->rank > had.rank ? a->rank : had.rank;
    for (int k = 0; k < dims->rank; k++) {
        const int own = k + a->rank - dims->rank, other = k + had.rank - dims->rank;
        const int x = own < 0 ? 1 : a->dim[own], y = other < 0 ? 1 : had.dim[other];
        if (x != y && x != 1 && y != 1)
            return fold_onnx__no_broadcast(o, x, y);
        dims->dim[k] = x == 1 ? y : x;
    }
    return fold_onnx__size(o, dims);
}

/* Whether an element-wise result has integers or booleans. Its type is that of the first operand that is not
   a condition; truth values are booleans. */
static int fold_onnx__makes_whole(fold_onnx *o)
{
    const fold_onnx__op *op = o->node.op;
    return op->flags & FOLD_ONNX__TRUTH ||
           fold_onnx__in(o, !op->number && !op->calls.two && o->node.n_in == 3)->is_integer;
}

/* Computes an output from constants. An op without `number` is Where, whose first input chooses. */
static int fold_onnx__compute(fold_onnx *o, const fold_onnx__dims *dims)
{
    const fold_onnx__op *op = o->node.op;
    const int n = o->node.n_in, whole = fold_onnx__makes_whole(o);
    fold_onnx__view *view = FOLD_ONNX__SCRATCH(o, fold_onnx__view, n);
    int *index = FOLD_ONNX__SCRATCH(o, int, n *FOLD_ONNX_RANK);
    double *x = FOLD_ONNX__SCRATCH(o, double, n),
           *numbers = fold_onnx__fix(o, fold_onnx__out(o), dims, whole);
    for (int i = 0; i < n && !o->failed; i++)
        view[i] = fold_onnx__repeated(o, &fold_onnx__in(o, i)->dims, dims);
    for (int i = 0; i < fold_onnx__out(o)->count && !o->failed; i++) {
        for (int k = 0; k < n; k++)
            x[k] = fold_onnx__number(fold_onnx__in(o, k),
                                     fold_onnx__next_source(&view[k], index + k * FOLD_ONNX_RANK));
        double y = op->number ? x[0] : x[x[0] != 0 ? 1 : 2];
        if (op->most == 1)
            y = op->number->of(y, y);
        for (int k = 1; k < n && op->number; k++)
            y = op->number->of(y, x[k]);
        if (whole && op->number && !(fabs(y) <= INT_MAX)) /* int32 could wrap, and int64 be rounded */
            return FOLD_ONNX__REFUSE(o, "the integer %g: a division by 0, or too large", y);
        numbers[i] = fold_onnx__round(fold_onnx__out(o), y);
    }
    return !o->failed;
}

/* Element-wise ops that fold.h lacks, for equal shapes. Those with FOLD_ONNX__STOPS have no gradient. */
static void fold_onnx__map_forward(const fold_op_call *c)
{
    const fold_onnx__formula *formula = (const fold_onnx__formula *)c->user;
    const int count = fold_onnx__elements(c->out_shape[0]);
    for (int row = 0; row < c->rows; row++) {
        const float *a = fold_row(&c->in[0], row), *b = fold_row(&c->in[c->n_in - 1], row);
        float *out = fold_row(&c->out[0], row);
        for (int i = 0; i < count; i++)
            out[i] = (float)formula->of((double)a[i], (double)b[i]);
    }
}

/* The derivative of a function of one number. */
static double fold_onnx__slope_of_one(const fold_onnx__formula *f, double a)
{
    return f == fold_onnx__acos   ? -1 / sqrt(1 - a * a)
           : f == fold_onnx__asin ? 1 / sqrt(1 - a * a)
           : f == fold_onnx__atan ? 1 / (1 + a * a)
           : f == fold_onnx__erf  ? 1.1283791670955126 * exp(-a * a)
                                  : 1; /* rounding to half precision */
}

static double fold_onnx__slope_of_two(const fold_onnx__formula *f, double a, double b, int of)
{
    if (f == fold_onnx__fmod)
        return of ? -fold_onnx__trunc_of(a / b, 0) : 1;
    if (!of)
        return b == 0 ? 0 : b * pow(a, b - 1);
    return a == 0 && b >= 0 ? 0 : pow(a, b) * log(a);
}

static void fold_onnx__map_backward(const fold_op_call *c)
{
    const fold_onnx__formula *f = (const fold_onnx__formula *)c->user;
    const int count = fold_onnx__elements(c->out_shape[0]);
    for (int of = 0; of < c->n_in; of++)
        for (int row = 0; row < c->rows && fold_row(&c->din[of], row); row++) {
            const float *a = fold_row(&c->in[0], row), *b = fold_row(&c->in[c->n_in - 1], row);
            const float *out = fold_row(&c->dout[0], row);
            float *in = fold_row(&c->din[of], row);
            for (int i = 0; i < count; i++)
                in[i] = (float)(c->n_in == 1 ? fold_onnx__slope_of_one(f, (double)a[i])
                                             : fold_onnx__slope_of_two(f, (double)a[i], (double)b[i], of)) *
                        out[i];
        }
}

static void fold_onnx__record_own(fold_onnx *o, const fold_onnx__step *s, const fold_node *in, fold_node *out)
{
    if (s->n_in == 3)
        out[0] = fold_select(o->f, in[0], in[1], in[2]);
    else
        out[0] = fold_onnx__apply_own(o->f, s->own, in, s->n_in, o->values[s->out[0]].shape);
}

/* An element-wise step of one input. If the input is a permutation of another value, the step reads that
   value, and its result is permuted instead. */
static int fold_onnx__one_step(fold_onnx *o, const fold_onnx__calls *calls, int input, float first,
                               float second)
{
    const fold_onnx__move *move;
    const fold_onnx__dims dims = fold_onnx__in(o, input)->dims;
    const int base = fold_onnx__base(o, o->node.in[input], &move);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    if ((calls->with || calls->between != fold_clip) && !isfinite(first + second))
        return FOLD_ONNX__REFUSE(o, "a number that is not finite");
    fold_onnx__out(o)->is_integer = fold_onnx__in(o, input)->is_integer;
    s.calls = *calls;
    s.stops = (o->node.op->flags & FOLD_ONNX__STOPS) != 0;
    s.real[0] = first;
    s.real[1] = second;
    return fold_onnx__reads(o, &s, 0, base, NULL, fold_shape1(1)) &&
           fold_onnx__makes_moved(o, &s, &o->values[base].dims, move, &dims);
}

static int fold_onnx__open_gelu(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const ways[2] = { "none", "tanh" };
    fold_onnx__calls calls = o->node.op->calls;
    (void)from;
    calls.one = fold_onnx__word(o, "approximate", ways, 2) ? fold_gelu_tanh : fold_gelu;
    return fold_onnx__one_step(o, &calls, 0, 0, 0);
}

static int fold_onnx__open_clip(fold_onnx *o, const fold_onnx__value *from)
{
    const double low = fold_onnx__setting(o, 1, (double)fold_onnx__real(o, "min", -FLT_MAX)),
                 high = fold_onnx__setting(o, 2, (double)fold_onnx__real(o, "max", FLT_MAX));
    if (!(low <= high) || low == (double)INFINITY || high == -(double)INFINITY)
        return FOLD_ONNX__REFUSE(o, "no value is between %g and %g", low, high);
    if (!fold_onnx__is_fixed(o, o->node.in[0]))
        return fold_onnx__one_step(o, &o->node.op->calls, 0, (float)low, (float)high);
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &from->dims, from->is_integer);
    for (int i = 0; numbers && i < from->count; i++) {
        const double x = fold_onnx__number(from, i);
        numbers[i] = x < low ? low : x > high ? high : x;
    }
    return numbers != NULL;
}

static fold_node fold_onnx__less_from(fold_ctx *f, fold_node x, float number)
{
    return fold_shift(f, fold_neg(f, x), number);
}

/* With a constant number as one operand, sums, differences, products and quotients are calls of one input.
   The number is data, so that calls with different numbers are batched. Returns 0 for any other op. */
static int fold_onnx__joins_number(fold_onnx *o, int rank)
{
    const fold_onnx__formula *op = o->node.op->number;
    const int is_sum = op == fold_onnx__add || op == fold_onnx__sub;
    double number = 0;
    int power;
    for (int x = 0; x < 2 && (is_sum || op == fold_onnx__mul || op == fold_onnx__div); x++) {
        fold_onnx__calls calls = { NULL, NULL, NULL, NULL, NULL, NULL };
        if (fold_onnx__in(o, x)->dims.rank < rank || !fold_onnx__scalar(o, o->node.in[!x], &number))
            continue;
        const double inverse = op == fold_onnx__div ? 1 / number : 1;
        if (op == fold_onnx__sub && !x)
            number = -number;
        if ((op == fold_onnx__div && x) || !isfinite((float)number) || !isfinite((float)inverse))
            continue;
        const int is_exact = frexp(number, &power) == (number < 0 ? -0.5 : 0.5); /* and so is its inverse */
        if (op == fold_onnx__div && is_exact)
            number = inverse;
        if (is_sum ? number != 0 || !signbit(number) : number != 1)
            calls.with = is_sum                             ? fold_shift
                         : op != fold_onnx__div || is_exact ? fold_scale
                                                            : fold_onnx__divide_by;
        if (op == fold_onnx__sub && x)
            calls.with = fold_onnx__less_from;
        if (!is_sum && number == -1)
            calls.one = fold_neg, calls.with = NULL;
        return fold_onnx__one_step(o, &calls, x, (float)number, 0);
    }
    return 0;
}

/* Lets the node compute a formula instead of what its row in the table says. */
static void fold_onnx__computes(fold_onnx *o, const fold_onnx__formula *number, int flags)
{
    fold_onnx__op *op = FOLD_ONNX__PASSING(o, fold_onnx__op, 1);
    if (!op)
        return;
    *op = *o->node.op;
    memset(&op->calls, 0, sizeof op->calls);
    op->number = number;
    op->flags = flags;
    o->node.op = op;
}

static int fold_onnx__joins(fold_onnx *o); /* several ops that are one of fold.h */
/* Element-wise ops of one to three inputs, or of any number, such as sums; these go from the left. */
static int fold_onnx__open_elements(fold_onnx *o, const fold_onnx__value *from)
{
    if (o->node.op->number == fold_onnx__div && from->is_integer)
        fold_onnx__computes(o, fold_onnx__whole_div, FOLD_ONNX__INTEGERS | FOLD_ONNX__STOPS);
    const fold_onnx__op *op = o->node.op;
    const int n = o->node.n_in, *in = o->node.in, chooses = n == 3 && !op->calls.two;
    const int stops = (op->flags & (FOLD_ONNX__STOPS | FOLD_ONNX__TRUTH)) != 0;
    fold_onnx__dims dims = { 0, { 0 } };
    for (int i = 0; i < n && !o->failed; i++)
        fold_onnx__meet(o, &fold_onnx__in(o, i)->dims, &dims);
    if (o->failed)
        return 0;
    if (fold_onnx__all_fixed(o) && (chooses || op->number))
        return fold_onnx__compute(o, &dims);
    if (!op->calls.two && (op->calls.one || op->calls.with || op->calls.between))
        return fold_onnx__one_step(o, &op->calls, 0, fold_onnx__real(o, "alpha", op->alpha),
                                   fold_onnx__real(o, "beta", op->beta));
    if (op->calls.two && n == 2 && (fold_onnx__joins(o) || fold_onnx__joins_number(o, dims.rank)))
        return 1;
    fold_onnx__step s =
        fold_onnx__begin(o, op->calls.two ? fold_onnx__record_calls : fold_onnx__record_own, n);
    s.calls = op->calls;
    s.real[0] = (float)n; /* by which a mean is divided */
    for (int i = 0; i < n && !o->failed; i++) {
        const fold_onnx__view view = fold_onnx__repeated(o, &fold_onnx__in(o, i)->dims, &dims);
        fold_onnx__reads(o, &s, i, in[i], op->calls.two ? NULL : &view, fold_onnx__shape(&dims));
    }
    fold_onnx__out(o)->is_integer = fold_onnx__makes_whole(o);
    s.stops = stops;
    if (!op->calls.two && n < 3)
        s.own = fold_onnx__own_op(o, op->type, n, fold_onnx__map_forward,
                                  stops ? NULL : fold_onnx__map_backward, op->number);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &dims);
}

static int fold_onnx__open_pow(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__calls calls = { NULL, NULL, fold_pow, NULL, NULL, NULL };
    double exponent = 0;
    /* fold_pow ignores the sign of zero, and does not accept exponents that are 0, infinite or large */
    const int is_number = fold_onnx__scalar(o, o->node.in[1], &exponent) && fabs(exponent) <= 64 &&
                          exponent != 0 && (exponent == -1 || fmod(exponent, 2) != -1) &&
                          fold_onnx__in(o, 1)->dims.rank <= from->dims.rank;
    if (from->is_integer) /* powers of integers are integers */
        fold_onnx__computes(o, fold_onnx__whole_pow, FOLD_ONNX__INTEGERS | FOLD_ONNX__STOPS);
    if (!is_number || fold_onnx__all_fixed(o) || from->is_integer)
        return fold_onnx__open_elements(o, from);
    if (exponent == 1 || exponent == 2 || exponent == -1)
        calls.with = NULL;
    if (exponent == 2)
        calls.one = fold_square;
    if (exponent == -1)
        calls.one = fold_onnx__one_over;
    return fold_onnx__one_step(o, &calls, 0, (float)exponent, 0);
}

static int fold_onnx__open_selu(fold_onnx *o, const fold_onnx__value *from)
{
    const int is_old = o->version < 6;
    (void)from;
    return fold_onnx__one_step(o, &o->node.op->calls, 0,
                               fold_onnx__real(o, "alpha", is_old ? 1.6732f : o->node.op->alpha),
                               fold_onnx__real(o, "gamma", is_old ? 1.0507f : o->node.op->beta));
}

static fold_node fold_onnx__thresholded(fold_ctx *f, fold_node x, float alpha)
{
    const fold_node above = fold_shift(f, x, -alpha);
    return fold_select(f, above, x, fold_clip(f, x, 0, 0));
}

static fold_node fold_onnx__shrink(fold_ctx *f, fold_node x, float lambda, float bias)
{
    const fold_node below = fold_shift(f, fold_neg(f, x), -lambda);
    const fold_node raised = fold_shift(f, x, bias), zero = fold_clip(f, x, 0, 0);
    const fold_node rest = fold_select(f, below, raised, zero);
    const fold_node above = fold_shift(f, x, -lambda), lowered = fold_shift(f, x, -bias);
    return fold_select(f, above, lowered, rest);
}

static int fold_onnx__open_shrink(fold_onnx *o, const fold_onnx__value *from)
{
    (void)from;
    return fold_onnx__one_step(o, &o->node.op->calls, 0, fold_onnx__real(o, "lambd", 0.5f),
                               fold_onnx__real(o, "bias", 0));
}

/* The slope broadcasts to the shape of x, but x does not broadcast to that of the slope. */
static int fold_onnx__open_prelu(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__value *slope = fold_onnx__in(o, 1);
    fold_onnx__dims dims = from->dims;
    if (o->version < 7 && slope->count != 1)
        return FOLD_ONNX__REFUSE(o, "%d slopes before opset 7", slope->count);
    if (fold_onnx__meet(o, &slope->dims, &dims) && !fold_onnx__same_dims(&dims, &from->dims))
        return FOLD_ONNX__REFUSE(o, "slopes of a larger shape");
    return !o->failed && fold_onnx__open_elements(o, from);
}

static int fold_onnx__open_mod(fold_onnx *o, const fold_onnx__value *from)
{
    const int like_c = fold_onnx__whole(o, "fmod", 0) != 0;
    if (like_c && from->is_integer)
        fold_onnx__computes(o, fold_onnx__whole_fmod, FOLD_ONNX__INTEGERS | FOLD_ONNX__STOPS);
    else if (like_c)
        fold_onnx__computes(o, fold_onnx__fmod, FOLD_ONNX__FREEZES);
    else if (!from->is_integer)
        return FOLD_ONNX__REFUSE(o, "floats need fmod=1");
    return fold_onnx__open_elements(o, from);
}

/* A cast changes values if floats become integers, numbers become booleans, or bits are lost. */
static int fold_onnx__open_cast(fold_onnx *o, const fold_onnx__value *from)
{
    const int to = fold_onnx__whole(o, "to", 0);
    const fold_onnx__type *type = fold_onnx__type_of((uint64_t)to);
    const fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    fold_onnx__value *out = fold_onnx__out(o);
    if (!type)
        return fold_onnx__no_type(o, (uint64_t)to);
    const int changes = to == FOLD_ONNX__BOOL || to == FOLD_ONNX__HALF || type->is_integer == 2 ||
                        (type->is_integer && !from->is_integer);
    if (changes)
        fold_onnx__computes(o,
                            to == FOLD_ONNX__HALF    ? fold_onnx__to_half
                            : to == FOLD_ONNX__BOOL  ? fold_onnx__not_zero
                            : type->is_integer != 2  ? fold_onnx__trunc
                            : to == FOLD_ONNX__UINT8 ? fold_onnx__to_uint8
                                                     : fold_onnx__to_int8,
                            FOLD_ONNX__INTEGERS | (to == FOLD_ONNX__HALF ? 0 : FOLD_ONNX__STOPS) |
                                (to == FOLD_ONNX__BOOL ? FOLD_ONNX__TRUTH : 0));
    if (!(changes ? fold_onnx__open_elements(o, from)
                  : fold_onnx__emit(o, &view, o->node.out[0], &view.dims)))
        return 0;
    out->is_integer = type->is_integer;
    out->type = type;
    for (int i = 0; out->numbers && i < out->count; i++)
        out->numbers[i] = fold_onnx__round(out, out->numbers[i]);
    return 1;
}

/* ---- quantisation ----------------------------------------------------------------------------- */

/* number: whether it quantises (or else dequantises), whether it has a zero point, the least and the largest
   result. */
static void fold_onnx__record_quantize(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                       fold_node *out)
{
    const int *n = s->number, rank = o->has_list ? fold_onnx__most_axes(o->f, in, s->n_in) : 0;
    const fold_node scale = fold_onnx__with_axes(o->f, in[1], rank),
                    zero = n[1] ? fold_onnx__with_axes(o->f, in[2], rank) : scale;
    fold_node x = fold_onnx__with_axes(o->f, in[0], rank);
    if (!n[0] && n[1])
        x = fold_sub(o->f, x, zero);
    if (!n[0]) {
        out[0] = fold_mul(o->f, x, scale);
        return;
    }
    x = fold_div(o->f, x, scale);
    x = fold_onnx__apply_own(o->f, s->own, &x, 1, fold_node_shape(o->f, x));
    out[0] = fold_clip(o->f, n[1] ? fold_add(o->f, x, zero) : x, (float)n[2], (float)n[3]);
}

/* A view with the scale (or zero point) of each element of x. The input has one scale for all of x, for each
   index of the axis, or for each block along it. `own` becomes a view that only has to broadcast to x. */
static fold_onnx__view fold_onnx__scales(fold_onnx *o, int input, fold_onnx__view *own)
{
    const fold_onnx__dims *x = &fold_onnx__in(o, 0)->dims, *scale = &fold_onnx__in(o, input)->dims;
    const int is_one = fold_onnx__in(o, input)->count == 1, block = fold_onnx__whole(o, "block_size", 0);
    const int axis = is_one ? 0 : fold_onnx__axis_of(o, fold_onnx__in(o, 0), 1);
    fold_onnx__dims line = *x, one = { 1, { 1 } };
    for (int k = 0; k < line.rank; k++)
        line.dim[k] = k == axis ? x->dim[k] : 1;
    if (is_one || !block) {
        if (!is_one && !o->failed && (scale->rank != 1 || scale->dim[0] != x->dim[axis]))
            FOLD_ONNX__REFUSE(o, "'%.60s' does not fit axis %d", fold_onnx__in(o, input)->name, axis);
        *own = fold_onnx__view_of(o, is_one ? &one : &line);
        return fold_onnx__repeated(o, &own->dims, x);
    }
    fold_onnx__view view = fold_onnx__view_of(o, scale);
    line = *scale;
    if (axis < line.rank && block > 0 && line.dim[axis] == (x->dim[axis] - 1) / block + 1)
        line.dim[axis] = x->dim[axis];
    if (!fold_onnx__same_dims(&line, x))
        FOLD_ONNX__REFUSE(o, "'%.60s' does not fit blocks of %d", fold_onnx__in(o, input)->name, block);
    const int *had = view.at[axis];
    int *at = o->failed ? NULL : FOLD_ONNX__SCRATCH(o, int, x->dim[axis]);
    for (int i = 0; at && i < x->dim[axis]; i++)
        at[i] = had[i / block];
    view.dims = *x;
    view.at[axis] = at;
    return *own = view;
}

/* The type that QuantizeLinear makes, and its least and largest numbers. */
static const fold_onnx__type *fold_onnx__quantized(fold_onnx *o, int *least, int *largest)
{
    const fold_onnx__value *zero = fold_onnx__has_in(o, 2) ? fold_onnx__in(o, 2) : NULL;
    const int told = fold_onnx__whole(o, "output_dtype", 0);
    const fold_onnx__type *type =
        zero ? zero->type : fold_onnx__type_of((uint64_t)(told ? told : FOLD_ONNX__UINT8));
    if (!type || type->type < FOLD_ONNX__UINT8 || type->type > FOLD_ONNX__INT16)
        return FOLD_ONNX__REFUSE(o, "a zero point that is not of 8 or 16 bits"), (const fold_onnx__type *)0;
    const int half = 128 << (type->size == 2 ? 8 : 0),
              is_signed = type->type == FOLD_ONNX__INT8 || type->type == FOLD_ONNX__INT16;
    *least = is_signed ? -half : 0;
    *largest = *least + 2 * half - 1;
    return type;
}

/* QuantizeLinear and DequantizeLinear. For constants, such as weights, the results are constants too,
   computed with quotients that are rounded to float, like those of other values. */
static int fold_onnx__open_quantize(fold_onnx *o, const fold_onnx__value *from)
{
    const int quantizes = o->node.type[0] == 'Q', n = o->node.n_in;
    fold_onnx__value *out = fold_onnx__out(o);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_quantize, n);
    fold_onnx__view own[3], view[3];
    int index[3][FOLD_ONNX_RANK] = { { 0 } };
    const fold_onnx__type *type = quantizes ? fold_onnx__quantized(o, &s.number[2], &s.number[3]) : NULL;
    for (int i = 1; i < n && !o->failed; i++)
        view[i] = fold_onnx__scales(o, i, &own[i]);
    if (o->failed)
        return 0;
    double *numbers = fold_onnx__all_fixed(o) ? fold_onnx__fix(o, out, &from->dims, 0) : NULL;
    out->is_integer = type ? type->is_integer : 0;
    out->type = type;
    for (int i = 0; numbers && i < from->count; i++) {
        const double x = fold_onnx__number(from, i),
                     scale =
                         fold_onnx__number(fold_onnx__in(o, 1), fold_onnx__next_source(&view[1], index[1])),
                     zero = n == 3 ? fold_onnx__number(fold_onnx__in(o, 2),
                                                       fold_onnx__next_source(&view[2], index[2]))
                                   : 0;
        numbers[i] = quantizes ? fold_onnx__nearest_whole->of((double)(float)(x / scale), 0) + zero
                               : (double)(float)(x - zero) * scale;
        if (quantizes)
            numbers[i] = fold_onnx__min_of(fold_onnx__max_of(numbers[i], s.number[2]), s.number[3]);
    }
    if (numbers || o->failed)
        return numbers != NULL;
    s.number[0] = s.stops = quantizes;
    s.number[1] = n == 3;
    fold_onnx__reads(o, &s, 0, o->node.in[0], NULL, fold_shape1(1));
    for (int i = 1; i < n; i++)
        fold_onnx__reads(o, &s, i, o->node.in[i], &own[i], fold_onnx__shape(&own[i].dims));
    if (quantizes)
        s.own = fold_onnx__own_op(o, "Round", 1, fold_onnx__map_forward, NULL, fold_onnx__nearest_whole);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

/* The scale is 1 / 255 of the range of x and 0, or 1 if that range is empty. */
static void fold_onnx__record_dynamic_quantize(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                               fold_node *out)
{
    fold_ctx *f = o->f;
    const fold_shape scalar = fold_shape1(1);
    const fold_node x = fold_onnx__part(f, in[0], 0, s->number[0]), one = fold_constant(f, 1);
    const fold_node low = fold_at_most(f, fold_amin(f, x, 0), 0),
                    range = fold_sub(f, fold_at_least(f, fold_amax(f, x, 0), 0), low);
    const fold_node ones = fold_add(f, fold_scale(f, range, 0), one);
    out[1] = fold_select(f, range, fold_onnx__divide_by(f, range, 255), ones);
    const fold_node zero = fold_clip(f, fold_div(f, fold_neg(f, low), out[1]), 0, 255);
    out[2] = fold_onnx__apply_own(f, s->own, &zero, 1, scalar);
    const fold_node scaled = fold_div(f, x, out[1]);
    out[0] = fold_add(f, fold_onnx__apply_own(f, s->own, &scaled, 1, fold_shape1(s->number[0])), out[2]);
    out[0] = fold_clip(f, out[0], 0, 255);
}

static int fold_onnx__open_dynamic_quantize(fold_onnx *o, const fold_onnx__value *from)
{
    static const fold_onnx__dims scalar = { 0, { 0 } };
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_dynamic_quantize, 1);
    s.number[0] = from->count;
    s.stops = 1;
    s.own = fold_onnx__own_op(o, "Round", 1, fold_onnx__map_forward, NULL, fold_onnx__nearest_whole);
    fold_onnx__reads(o, &s, 0, o->node.in[0], NULL, fold_shape1(1));
    for (int i = 2; i >= 0; i--) {
        if (!fold_onnx__has_out(o, i))
            continue;
        fold_onnx__makes(o, &s, i, o->node.out[i], i ? &scalar : &from->dims);
        o->values[o->node.out[i]].is_integer = i == 1 ? 0 : 2;
        o->values[o->node.out[i]].type = i == 1 ? NULL : fold_onnx__type_of(FOLD_ONNX__UINT8);
    }
    return !o->failed;
}

/* ---- several ops that are one of fold.h --------------------------------------------------------- */

/* An op that is joined into a later one runs only if its own result is requested. */
static fold_onnx__recorder fold_onnx__record_linear, fold_onnx__record_layer_norm;

/* Input i of the op that makes a value; 0 if that op has a different type. */
static int fold_onnx__input_of(const fold_onnx *o, int index, const char *type, int i)
{
    const fold_onnx__step *s = fold_onnx__maker(o, index);
    return s && !strcmp(s->op->type, type) ? s->from[i] : 0;
}

/* The value whose mean over the last axis this one is; 0 if it is no such mean. */
static int fold_onnx__mean_of(const fold_onnx *o, int index)
{
    const int from = fold_onnx__input_of(o, index, "ReduceMean", 0);
    if (!o->values[from].dims.rank)
        return 0;
    fold_onnx__dims kept = o->values[from].dims;
    kept.dim[kept.rank - 1] = 1;
    return fold_onnx__same_dims(&kept, &o->values[index].dims) ? from : 0;
}

/* Returns x if the value is x - mean(x), or else 0. */
static int fold_onnx__centred(const fold_onnx *o, int index)
{
    const int from = fold_onnx__input_of(o, index, "Sub", 0);
    return fold_onnx__mean_of(o, fold_onnx__input_of(o, index, "Sub", 1)) == from ? from : 0;
}

/* Joins a product with its bias, or a norm with its gain or bias, if that is a constant row. */
static int fold_onnx__joins_row(fold_onnx *o)
{
    const int adds = o->node.op->number == fold_onnx__add;
    for (int side = 0; side < 2 && (adds || o->node.op->number == fold_onnx__mul); side++) {
        const fold_onnx__dims *made = &fold_onnx__in(o, side)->dims, *row = &fold_onnx__in(o, !side)->dims;
        const fold_onnx__step *before = fold_onnx__maker(o, o->node.in[side]);
        const int count = row->rank ? row->dim[row->rank - 1] : 0;
        if (!before || !fold_onnx__is_fixed(o, o->node.in[!side]) ||
            fold_onnx__in(o, !side)->count != count || row->rank > made->rank ||
            count != made->dim[made->rank - 1])
            continue;
        const int is_linear = before->record == fold_onnx__record_linear && before->n_in == 1 && adds &&
                              fold_param_is_null(before->param[1]);
        const int is_norm = before->record == fold_onnx__record_layer_norm && before->number[0] <= adds;
        if (!is_linear && !is_norm)
            continue;
        fold_onnx__step s = *before;
        s.op = o->node.op;
        s.from = o->node.in;
        s.out[1] = s.out[2] = 0;
        s.number[0] = is_linear ? 1 : 1 + adds; /* a norm: 1 with a gain, 2 with a bias */
        return fold_onnx__vector(o, o->node.in[!side], count, 1, &s.param[adds]) &&
               fold_onnx__makes(o, &s, 0, o->node.out[0], made);
    }
    return 0;
}

/* Joins (x - mean) / sqrt(mean((x - mean)^2) + epsilon) over the last axis. */
static int fold_onnx__joins_norm(fold_onnx *o)
{
    const int x = fold_onnx__centred(o, o->node.in[0]),
              sum = fold_onnx__input_of(o, o->node.in[1], "Sqrt", 0);
    const int variance = fold_onnx__input_of(o, sum, "Add", 0), square = fold_onnx__mean_of(o, variance);
    const int again = fold_onnx__input_of(o, square, "Mul", 0);
    double epsilon = 0, two = 0;
    if (o->node.op->number != fold_onnx__div || !x || fold_onnx__is_fixed(o, x))
        return 0;
    if (!fold_onnx__same_dims(&o->values[square].dims, &o->values[x].dims) ||
        !fold_onnx__same_dims(&o->values[sum].dims, &o->values[variance].dims))
        return 0;
    if (!fold_onnx__scalar(o, fold_onnx__input_of(o, sum, "Add", 1), &epsilon) || !(epsilon > 0))
        return 0;
    const int by_mul = again == fold_onnx__input_of(o, square, "Mul", 1) && fold_onnx__centred(o, again) == x;
    const int by_pow = fold_onnx__scalar(o, fold_onnx__input_of(o, square, "Pow", 1), &two) && two == 2 &&
                       fold_onnx__centred(o, fold_onnx__input_of(o, square, "Pow", 0)) == x;
    if (!by_mul && !by_pow)
        return 0;
    const fold_onnx__dims *dims = &o->values[x].dims;
    const int width = dims->dim[dims->rank - 1];
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_layer_norm, 1);
    s.real[0] = (float)epsilon;
    return fold_onnx__reads(o, &s, 0, x, NULL, fold_shape1(1)) &&
           fold_onnx__fill(o, o->node.out[0], width, 1, &s.param[0]) &&
           fold_onnx__fill(o, o->node.out[0], width, 0, &s.param[1]) &&
           fold_onnx__makes(o, &s, 0, o->node.out[0], dims);
}

static int fold_onnx__joins(fold_onnx *o) { return fold_onnx__joins_row(o) || fold_onnx__joins_norm(o); }

/* ---- ops that move elements -------------------------------------------------------------------- */

static int fold_onnx__emit_shape(fold_onnx *o, const fold_onnx__dims *dims)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0);
    const fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    const int count = fold_onnx__size(o, dims);
    if (count && count != from->count)
        return FOLD_ONNX__REFUSE(o, "%d values into a shape of %d, for a batch of 1", from->count, count);
    return fold_onnx__emit(o, &view, o->node.out[0], dims);
}

static int fold_onnx__open_identity(fold_onnx *o, const fold_onnx__value *from)
{
    return fold_onnx__emit_shape(o, &from->dims);
}

static int fold_onnx__open_reshape(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims;
    int open = -1;
    long long known = 1;
    const int zero = fold_onnx__whole(o, "allowzero", 0);
    dims.rank = fold_onnx__list(o, "shape", 1, dims.dim, FOLD_ONNX_RANK);
    for (int k = 0; k < dims.rank; k++) {
        if (dims.dim[k] == 0 && !zero && k < from->dims.rank)
            dims.dim[k] = from->dims.dim[k];
        if (dims.dim[k] == -1 && open < 0)
            open = k;
        else if (dims.dim[k] < 1 || dims.dim[k] > from->count)
            return FOLD_ONNX__REFUSE(o, "%d values into an axis of %d", from->count, dims.dim[k]);
        else if (known <= from->count)
            known *= dims.dim[k];
    }
    if (open >= 0)
        dims.dim[open] = (int)(from->count / known);
    return dims.rank < 0 ? FOLD_ONNX__REFUSE(o, "no shape") : fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_flatten(fold_onnx *o, const fold_onnx__value *from)
{
    int axis = fold_onnx__whole(o, "axis", 1);
    if (axis != from->dims.rank)
        axis = fold_onnx__axis(o, axis, from->dims.rank);
    const fold_onnx__dims dims = { 2,
                                   { fold_onnx__product(&from->dims, 0, axis),
                                     fold_onnx__product(&from->dims, axis, from->dims.rank) } };
    return fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_squeeze(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims = { 0, { 0 } };
    unsigned marks;
    const int named = fold_onnx__marked_axes(o, from->dims.rank, 0, &marks);
    for (int k = 0; k < from->dims.rank && named != -2; k++)
        if (named > 0 ? !(marks >> k & 1) : from->dims.dim[k] != 1)
            dims.dim[dims.rank++] = from->dims.dim[k];
    return fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_unsqueeze(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims = { 0, { 0 } };
    unsigned marks;
    const int named = fold_onnx__marked_axes(o, from->dims.rank, 1, &marks);
    if (named < 0)
        return FOLD_ONNX__REFUSE(o, "no axes");
    for (int k = 0; dims.rank < from->dims.rank + named; dims.rank++)
        dims.dim[dims.rank] = marks >> dims.rank & 1 ? 1 : from->dims.dim[k++];
    return fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_transpose(fold_onnx *o, const fold_onnx__value *from)
{
    const int rank = from->dims.rank;
    int order[FOLD_ONNX_RANK], seen = 0;
    const int count = fold_onnx__list(o, "perm", -1, order, FOLD_ONNX_RANK);
    if (count != -1 && count != rank)
        return FOLD_ONNX__REFUSE(o, "perm has %d axes, not %d", count, rank);
    for (int i = 0; i < rank; i++) {
        order[i] = count == -1 ? rank - 1 - i : fold_onnx__axis(o, order[i], rank);
        seen |= 1 << order[i];
    }
    if (seen != (1 << rank) - 1)
        return FOLD_ONNX__REFUSE(o, "perm names an axis twice");
    const fold_onnx__view all = fold_onnx__view_of(o, &from->dims), view = fold_onnx__permuted(&all, order);
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_expand(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims;
    dims.rank = fold_onnx__list(o, NULL, 1, dims.dim, FOLD_ONNX_RANK);
    if (dims.rank < 0 || !fold_onnx__size(o, &dims) || !fold_onnx__meet(o, &from->dims, &dims))
        return 0;
    const fold_onnx__view view = fold_onnx__repeated(o, &from->dims, &dims);
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

/* A negative index counts from the end. The result is clamped to [low, high]. */
static int fold_onnx__index(int index, int count, int low, int high)
{
    if (index < 0)
        index += count;
    return index < low ? low : index > high ? high : index;
}

static int fold_onnx__open_slice(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const names[4] = { "starts", "ends", "axes", NULL };
    int list[4][FOLD_ONNX_RANK], n[4], seen = 0; /* starts, ends, axes, steps */
    for (int i = 0; i < 4; i++) {
        n[i] = fold_onnx__list(o, names[i], 1 + i, list[i], FOLD_ONNX_RANK);
        if (n[i] < (i < 2 ? 0 : -1) || (n[i] >= 0 && n[i] != n[0]) || n[0] > from->dims.rank)
            return FOLD_ONNX__REFUSE(o, "starts, ends, axes and steps of different lengths");
    }
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    for (int i = 0; i < n[0]; i++) {
        const int axis = fold_onnx__axis(o, n[2] < 0 ? i : list[2][i], from->dims.rank),
                  step = n[3] < 0 ? 1 : list[3][i], back = step < 0;
        if (!step || step == -INT_MAX || seen >> axis & 1)
            return FOLD_ONNX__REFUSE(o, "a step of %d, or an axis that is named twice", step);
        const int count = from->dims.dim[axis], start = fold_onnx__index(list[0][i], count, 0, count - back);
        const int end = fold_onnx__index(list[1][i], count, -back, count - back);
        const int left = back ? start - end : end - start;
        if (left < 1)
            return FOLD_ONNX__REFUSE(o, "axis %d would be empty", axis);
        seen |= 1 << axis;
        fold_onnx__take_axis(o, &view, axis, start, step, (left - 1) / (back ? -step : step) + 1);
    }
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_split(fold_onnx *o, const fold_onnx__value *from)
{
    int parts[FOLD_ONNX__MOST_OUT], begin = 0;
    const int axis = fold_onnx__axis_of(o, from, 0), n = o->node.n_out,
              count = fold_onnx__list(o, "split", 1, parts, FOLD_ONNX__MOST_OUT);
    if ((count != -1 && count != n) || n > FOLD_ONNX__MOST_OUT)
        return FOLD_ONNX__REFUSE(o, "%d parts and %d outputs", count, n);
    if (count == -1 && o->version < 18 && from->dims.dim[axis] % n)
        return FOLD_ONNX__REFUSE(o, "%d parts that are not equal, of %d values", n, from->dims.dim[axis]);
    const fold_onnx__view all = fold_onnx__view_of(o, &from->dims);
    const int had = all.dims.dim[axis];
    for (int i = 0; i < n && !o->failed; begin += parts[i++]) {
        fold_onnx__view view = all;
        if (count == -1)
            parts[i] = i < n - 1 ? (had + n - 1) / n : had - begin;
        if (parts[i] < 1 || parts[i] > had - begin || (i == n - 1 && parts[i] != had - begin))
            return FOLD_ONNX__REFUSE(o, "parts that do not make up axis %d", axis);
        fold_onnx__take_axis(o, &view, axis, begin, 1, parts[i]);
        if (fold_onnx__has_out(o, i))
            fold_onnx__emit(o, &view, o->node.out[i], &view.dims);
    }
    return !o->failed;
}

/* Gather copies runs of values from [outer x count x run]. Returns where the run of an index begins, or -1 if
   there is none: the values are then NaN. */
static int fold_onnx__looked_up(const int *size, float index)
{
    index += index < 0 ? (float)size[0] : 0;
    return index >= 0 && index < (float)size[0] ? (int)index * size[1] : -1;
}

static void fold_onnx__gather_forward(const fold_op_call *c)
{
    const int *size = (const int *)c->user, run = size[1]; /* count and run */
    const int n = fold_onnx__elements(c->in_shape[1]), all = fold_onnx__elements(c->out_shape[0]) / run;
    for (int row = 0; row < c->rows; row++)
        for (int i = 0; i < all; i++) {
            const int at = fold_onnx__looked_up(size, fold_row(&c->in[1], row)[i % n]);
            const float *from = fold_row(&c->in[0], row) + (size_t)(i / n) * (size_t)(size[0] * run);
            for (int k = 0; k < run; k++)
                fold_row(&c->out[0], row)[i * run + k] = at < 0 ? NAN : from[at + k];
        }
}

static void fold_onnx__gather_backward(const fold_op_call *c)
{
    const int *size = (const int *)c->user, run = size[1];
    const int n = fold_onnx__elements(c->in_shape[1]), all = fold_onnx__elements(c->out_shape[0]) / run;
    for (int row = 0; row < c->rows; row++) {
        float *table = fold_row(&c->din[0], row), *index = fold_row(&c->din[1], row);
        if (index)
            memset(index, 0, (size_t)n * sizeof *index);
        if (table)
            memset(table, 0, (size_t)fold_onnx__elements(c->in_shape[0]) * sizeof *table);
        for (int i = 0; i < all && table; i++) {
            const int at = fold_onnx__looked_up(size, fold_row(&c->in[1], row)[i % n]);
            for (int k = 0; k < run && at >= 0; k++)
                table[i / n * size[0] * run + at + k] += fold_row(&c->dout[0], row)[i * run + k];
        }
    }
}

static int fold_onnx__open_gather_by_input(fold_onnx *o, const fold_onnx__dims *dims, int axis)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_own, 2);
    int *size = FOLD_ONNX__KEPT(o, int, 2);
    for (int i = 0; i < 2; i++)
        fold_onnx__reads(o, &s, i, o->node.in[i], NULL, fold_shape1(1));
    if (!size || o->failed)
        return 0;
    size[0] = from->dims.dim[axis];
    size[1] = fold_onnx__product(&from->dims, axis + 1, from->dims.rank);
    s.own =
        fold_onnx__own_op(o, "onnx gather", 2, fold_onnx__gather_forward, fold_onnx__gather_backward, size);
    fold_onnx__out(o)->is_integer = from->is_integer;
    return fold_onnx__makes(o, &s, 0, o->node.out[0], dims);
}

static int fold_onnx__open_gather(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__value *index = fold_onnx__in(o, 1);
    const int axis = fold_onnx__axis_of(o, from, 0), more = index->dims.rank;
    fold_onnx__dims dims = from->dims;
    if ((dims.rank += more - 1) > FOLD_ONNX_RANK)
        return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    for (int k = axis; k < dims.rank; k++)
        dims.dim[k] = k < axis + more ? index->dims.dim[k - axis] : from->dims.dim[k + 1 - more];
    if (index->origin != FOLD_ONNX__FIXED)
        return fold_onnx__open_gather_by_input(o, &dims, axis);
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    const int *at = view.at[axis];
    int *taken = view.at[axis] = FOLD_ONNX__SCRATCH(o, int, index->count);
    view.dims.dim[axis] = index->count;
    for (int i = 0; i < index->count && !o->failed; i++)
        taken[i] = at[fold_onnx__axis(o, fold_onnx__near(fold_onnx__number(index, i)), from->dims.dim[axis])];
    return fold_onnx__emit(o, &view, o->node.out[0], &dims);
}

static int fold_onnx__open_pad(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const modes[4] = { "constant", "edge", "reflect", "wrap" };
    int pads[2 * FOLD_ONNX_RANK], axes[FOLD_ONNX_RANK];
    const int count = fold_onnx__list(o, "pads", 1, pads, 2 * FOLD_ONNX_RANK),
              n_axes = fold_onnx__list(o, NULL, 3, axes, FOLD_ONNX_RANK);
    const int n = n_axes == -1 ? from->dims.rank : n_axes;
    const int beyond = fold_onnx__word(o, "mode", modes, 4);
    if (count != 2 * n)
        return FOLD_ONNX__REFUSE(o, "%d pads of %d axes", count, n);
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    view.pad = (float)fold_onnx__setting(o, 2, (double)fold_onnx__real(o, "value", 0));
    for (int i = 0; i < n; i++) {
        const int axis = fold_onnx__axis(o, n_axes == -1 ? i : axes[i], from->dims.rank);
        const long long total = (long long)pads[i] + pads[n + i] + view.dims.dim[axis];
        if (total < 1 || total > FOLD_ONNX__MOST_VALUES || pads[i] > FOLD_ONNX__MOST_VALUES ||
            pads[i] < -FOLD_ONNX__MOST_VALUES || (beyond > 0 && (pads[i] < 0 || pads[n + i] < 0)))
            return FOLD_ONNX__REFUSE(o, "pads of %d and %d", pads[i], pads[n + i]);
        fold_onnx__take_beyond(o, &view, axis, -pads[i], 1, (int)total, beyond);
    }
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_tile(fold_onnx *o, const fold_onnx__value *from)
{
    int times[FOLD_ONNX_RANK];
    const int rank = from->dims.rank, count = fold_onnx__list(o, NULL, 1, times, FOLD_ONNX_RANK);
    if (count != rank || o->version < 6)
        return FOLD_ONNX__REFUSE(o, "opset %d, %d repeats of %d axes", o->version, count, rank);
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    for (int k = 0; k < rank; k++) {
        if (times[k] < 1 || times[k] > FOLD_ONNX__MOST_VALUES / view.dims.dim[k])
            return FOLD_ONNX__REFUSE(o, "%d repeats", times[k]);
        fold_onnx__take_beyond(o, &view, k, 0, 1, times[k] * view.dims.dim[k], FOLD_ONNX__WRAP);
    }
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_trilu(fold_onnx *o, const fold_onnx__value *from)
{
    const double diagonal = fold_onnx__setting(o, 1, 0), most = FOLD_ONNX__MOST_VALUES;
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    if (from->dims.rank < 2)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d", from->dims.rank);
    view.cuts = fold_onnx__whole(o, "upper", 1) ? -1 : 1;
    view.diagonal = (int)(diagonal < -most ? -most : diagonal < most ? diagonal : most);
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

/* SpaceToDepth turns the pixels of blocks into channels, DepthToSpace channels into blocks. */
static int fold_onnx__open_blocks(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const modes[2] = { "DCR", "CRD" };
    static const int orders[3][6] = { { 0, 3, 4, 1, 5, 2 }, { 0, 1, 4, 2, 5, 3 }, { 0, 3, 5, 1, 2, 4 } };
    const int way = !strcmp(o->node.type, "SpaceToDepth") ? 2 : fold_onnx__word(o, "mode", modes, 2),
              b = fold_onnx__whole(o, "blocksize", 0), *x = from->dims.dim;
    if (from->dims.rank != 4 || b < 1 || b > 4096 || (way == 2 ? x[2] % b || x[3] % b : x[1] % (b * b)))
        return FOLD_ONNX__REFUSE(o, "blocks of %d, which do not fit an input of rank %d", b, from->dims.rank);
    const int c = way == 2 ? x[1] : x[1] / b / b, h = way == 2 ? x[2] / b : x[2],
              w = way == 2 ? x[3] / b : x[3];
    const fold_onnx__dims cut[3] = { { 6, { x[0], b, b, c, h, w } },
                                     { 6, { x[0], c, b, b, h, w } },
                                     { 6, { x[0], c, h, b, w, b } } };
    const fold_onnx__dims deep = { 4, { x[0], c * b * b, h, w } }, wide = { 4, { x[0], c, h * b, w * b } };
    const fold_onnx__view all = fold_onnx__view_of(o, &cut[way]),
                          view = fold_onnx__permuted(&all, orders[way]);
    return fold_onnx__emit(o, &view, o->node.out[0], way == 2 ? &deep : &wide);
}

/* Compares indices [outer x 1 x inner] with places [depth x 1]. A negative index counts from the end. Floats
   are truncated. */
static void fold_onnx__record_one_hot(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                      fold_node *out)
{
    const int depth = s->number[0];
    const fold_node places = fold_reshape(o->f, fold_use(o->f, s->param[0]), fold_shape2(depth, 1));
    const fold_node below = fold_floor(o->f, fold_relu(o->f, fold_neg(o->f, in[0])));
    fold_node x = fold_sub(o->f, fold_floor(o->f, fold_relu(o->f, in[0])), below); /* passes no gradient */
    const fold_node is_negative = fold_clip(o->f, fold_neg(o->f, x), 0, 1);
    x = fold_add(o->f, x, fold_scale(o->f, is_negative, (float)depth));
    x = fold_shift(o->f, fold_neg(o->f, fold_abs(o->f, fold_sub(o->f, x, places))), 1);
    out[0] = fold_shift(o->f, fold_scale(o->f, fold_relu(o->f, x), s->real[1] - s->real[0]), s->real[0]);
}

static int fold_onnx__one_hot_step(fold_onnx *o, const fold_onnx__dims *dims, int axis)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0), *values = fold_onnx__in(o, 2);
    const int inner = fold_onnx__product(dims, axis + 1, dims->rank), depth = dims->dim[axis];
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_one_hot, 1);
    double *places = FOLD_ONNX__SCRATCH(o, double, depth);
    for (int i = 0; places && i < depth; i++)
        places[i] = i;
    for (int i = 0; i < 2; i++)
        s.real[i] = (float)fold_onnx__number(values, i);
    s.number[0] = depth;
    s.stops = 1;
    fold_onnx__out(o)->is_integer = values->is_integer;
    fold_onnx__reads_shape(o, &s, 0, o->node.in[0], fold_shape3(from->count / inner, 1, inner));
    return fold_onnx__supply(o, o->node.out[0], places, depth, &s.param[0]) &&
           fold_onnx__makes(o, &s, 0, o->node.out[0], dims);
}

static int fold_onnx__open_one_hot(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__value *values = fold_onnx__in(o, 2);
    const int rank = from->dims.rank + 1, axis = fold_onnx__axis(o, fold_onnx__whole(o, "axis", -1), rank);
    const double depth = fold_onnx__setting(o, 1, 0);
    fold_onnx__dims dims = from->dims;
    if (rank > FOLD_ONNX_RANK)
        return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    if (values->origin != FOLD_ONNX__FIXED || values->count != 2)
        return FOLD_ONNX__REFUSE(o, "'%.60s' is not two constant numbers", values->name);
    dims.rank = rank;
    dims.dim[axis] = fold_onnx__near(depth);
    for (int k = axis + 1; k < rank; k++)
        dims.dim[k] = from->dims.dim[k - 1];
    if (o->failed || from->origin != FOLD_ONNX__FIXED)
        return fold_onnx__size(o, &dims) && fold_onnx__one_hot_step(o, &dims, axis);
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, values->is_integer);
    const int inner = fold_onnx__product(&dims, axis + 1, rank);
    for (int i = 0; numbers && i < fold_onnx__out(o)->count; i++) {
        const int place = i / inner % dims.dim[axis], line = i / inner / dims.dim[axis];
        const double index = fold_onnx__number(from, line * inner + i % inner);
        numbers[i] = fold_onnx__number(values, (index < 0 ? index + depth : index) == place);
    }
    return numbers != NULL;
}

/* Dropout after training: the same values, and a mask that keeps all of them. */
static int fold_onnx__open_dropout(fold_onnx *o, const fold_onnx__value *from)
{
    const double ratio = fold_onnx__setting(o, 1, 0.5), trains = fold_onnx__setting(o, 2, 0);
    if ((trains != 0 || (o->version < 7 && !fold_onnx__whole(o, "is_test", 0))) && ratio != 0)
        return FOLD_ONNX__REFUSE(o, "it drops values; export the network for inference");
    double *mask = fold_onnx__has_out(o, 1)
                       ? fold_onnx__fix(o, &o->values[o->node.out[1]], &from->dims, o->version > 9)
                       : NULL;
    for (int i = 0; mask && i < from->count; i++)
        mask[i] = 1;
    return fold_onnx__emit_shape(o, &from->dims);
}

static void fold_onnx__record_concat(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    out[0] = s->n_in == 1 ? in[0] : fold_concat(o->f, in, s->n_in, s->number[0]);
}

static int fold_onnx__open_concat(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__dims *first = &from->dims;
    fold_onnx__dims dims = *first;
    const int n = o->node.n_in, axis = fold_onnx__axis_of(o, from, 1), fixed = fold_onnx__all_fixed(o);
    const int whole = from->is_integer;
    int begin = 0;
    dims.dim[axis] = 0;
    for (int i = 0; i < n; i++) {
        fold_onnx__dims other = fold_onnx__in(o, i)->dims;
        const int more = axis < other.rank ? other.dim[axis] : 0;
        if (axis < other.rank)
            other.dim[axis] = first->dim[axis];
        if (!fold_onnx__same_dims(&other, first))
            return FOLD_ONNX__REFUSE(o, "'%.60s' has a different shape", fold_onnx__in(o, i)->name);
        dims.dim[axis] += more;
        if (dims.dim[axis] && !fold_onnx__size(o, &dims))
            return 0;
    }
    const int outer = fold_onnx__product(&dims, 0, axis), all = fold_onnx__product(&dims, axis, dims.rank);
    double *numbers = fixed ? fold_onnx__fix(o, fold_onnx__out(o), &dims, whole) : NULL;
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_concat, n);
    s.number[0] = outer > 1;
    s.n_in = 0;
    fold_onnx__out(o)->is_integer = whole;
    for (int i = 0; i < n && !o->failed; i++) {
        const fold_onnx__value *part = fold_onnx__in(o, i);
        const int own = part->count / outer;
        if (!fixed && own)
            fold_onnx__reads_shape(o, &s, s.n_in++, o->node.in[i], fold_onnx__along(outer, own, 1));
        for (int k = 0; fixed && k < part->count; k++)
            numbers[k / own * all + begin + k % own] = fold_onnx__number(part, k);
        begin += own;
    }
    return fixed ? !o->failed : fold_onnx__makes(o, &s, 0, o->node.out[0], &dims);
}

static int fold_onnx__open_shape(fold_onnx *o, const fold_onnx__value *from)
{
    const int rank = from->dims.rank,
              start = fold_onnx__index(fold_onnx__whole(o, "start", 0), rank, 0, rank),
              end = fold_onnx__index(fold_onnx__whole(o, "end", rank), rank, 0, rank);
    const fold_onnx__dims dims = { 1, { end > start ? end - start : 0 } };
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, 1);
    for (int i = 0; numbers && i < end - start; i++)
        numbers[i] = from->dims.dim[start + i];
    return numbers != NULL;
}

static int fold_onnx__open_size(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__dims scalar = { 0, { 0 } };
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &scalar, 1);
    return numbers && (*numbers = from->count, 1);
}

static int fold_onnx__open_range(fold_onnx *o, const fold_onnx__value *from)
{
    const double start = fold_onnx__setting(o, 0, 0), limit = fold_onnx__setting(o, 1, 0),
                 delta = fold_onnx__setting(o, 2, 1), n = ceil((limit - start) / delta);
    if (!(n <= (double)FOLD_ONNX__MOST_VALUES))
        return FOLD_ONNX__REFUSE(o, "%g values", n);
    const fold_onnx__dims dims = { 1, { n > 0 ? (int)n : 0 } };
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, from->is_integer);
    for (int i = 0; numbers && i < dims.dim[0]; i++)
        numbers[i] = fold_onnx__round(from, start + i * delta);
    return numbers != NULL;
}

static int fold_onnx__open_constant(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const names[4] = { "value_float", "value_int", "value_floats", "value_ints" };
    static const int fields[4] = { 2, 3, 7, 8 };
    fold_onnx__field field;
    fold_onnx__value *out = fold_onnx__out(o);
    (void)from;
    if (fold_onnx__attribute(o, "value", 5, &field))
        return fold_onnx__read_tensor(o, field.bytes, out);
    for (int i = 0; i < 4; i++) {
        const fold_onnx__type *type =
            fold_onnx__type_of(i % 2 ? (int)FOLD_ONNX__INT64 : (int)FOLD_ONNX__FLOAT);
        if (!fold_onnx__attribute(o, names[i], i > 1 ? -fields[i] : fields[i], &field))
            continue;
        const fold_onnx__dims dims = { i > 1,
                                       { fold_onnx__numbers(o, field.bytes, fields[i], type, NULL, 0) } };
        double *numbers = fold_onnx__fix(o, out, &dims, type->is_integer);
        if (numbers && i < 2)
            *numbers = fold_onnx__decode(type->type, field.value);
        return numbers && (i < 2 || fold_onnx__read_listed(o, field.bytes, fields[i], type, out));
    }
    return FOLD_ONNX__REFUSE(o, "no value of a supported type");
}

static int fold_onnx__open_constant_of_shape(fold_onnx *o, const fold_onnx__value *from)
{
    (void)from;
    fold_onnx__dims dims;
    fold_onnx__field field;
    fold_onnx__value single;
    memset(&single, 0, sizeof single);
    dims.rank = fold_onnx__list(o, NULL, 0, dims.dim, FOLD_ONNX_RANK);
    if (dims.rank < 0)
        return 0;
    const int is_told = fold_onnx__attribute(o, "value", 5, &field);
    if (is_told && (!fold_onnx__read_tensor(o, field.bytes, &single) || single.count != 1))
        return FOLD_ONNX__REFUSE(o, "%d values to fill it with", single.count);
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, single.is_integer);
    for (int i = 0; numbers && is_told && i < fold_onnx__out(o)->count; i++)
        numbers[i] = fold_onnx__number(&single, 0);
    return numbers != NULL;
}

/* ---- ops along axes --------------------------------------------------------------------------- */

/* An input as [outer x count x inner], where `count` combines the marked axes. `kept` is the input's shape
   without those, or with 1 in their place. */
typedef struct fold_onnx__lines {
    fold_onnx__view view;
    int order[FOLD_ONNX_RANK], outer, count, inner;
    fold_onnx__dims kept;
} fold_onnx__lines;

/* Marked axes that are adjacent are read in place if the op allows that; others are moved to the end. */
static fold_onnx__lines fold_onnx__reads_lines(fold_onnx *o, fold_onnx__step *s, unsigned marks, int keeps,
                                               int in_place)
{
    const fold_onnx__dims *from = &fold_onnx__in(o, 0)->dims;
    const fold_onnx__view all = fold_onnx__view_of(o, from);
    fold_onnx__lines l;
    int last = 0, n = 0, next = 0;
    memset(&l, 0, sizeof l);
    for (int ends = 0; ends < 2; ends++)
        for (int k = 0; k < from->rank; k++) {
            const int is_marked = (int)(marks >> k & 1);
            if (is_marked == ends)
                l.order[next++] = k;
            if (is_marked && ends)
                last = k + 1, n++;
            if (!ends && (!is_marked || keeps))
                l.kept.dim[l.kept.rank++] = is_marked ? 1 : from->dim[k];
        }
    const int together = in_place && (n == 0 || last - l.order[next - n] == n);
    l.view = together ? all : fold_onnx__permuted(&all, l.order);
    l.inner = together && n ? fold_onnx__product(from, last, from->rank) : 1;
    l.count = fold_onnx__product(&l.view.dims, together ? last - n : next - n, together ? last : next);
    l.outer = fold_onnx__in(o, 0)->count / l.count / l.inner;
    fold_onnx__reads(o, s, 0, o->node.in[0], &l.view, fold_onnx__along(l.outer, l.count, l.inner));
    return l;
}

/* Makes the output of a step whose result has the shape of its lines; axes are moved back. */
static int fold_onnx__makes_lines(fold_onnx *o, fold_onnx__step *s, const fold_onnx__lines *l)
{
    int back[FOLD_ONNX_RANK];
    for (int k = 0; k < l->view.dims.rank; k++)
        back[l->order[k]] = k;
    return fold_onnx__makes_permuted(o, s, &l->view.dims, back);
}

static int fold_onnx__open_reduce(fold_onnx *o, const fold_onnx__value *from)
{
    unsigned marks;
    const fold_onnx__calls *calls = &o->node.op->calls;
    const int named = fold_onnx__marked_axes(o, from->dims.rank, 0, &marks),
              is_plain = !calls->one && !calls->after;
    if (named == -2)
        return 0;
    const int all = named < 1 && !fold_onnx__whole(o, "noop_with_empty_axes", 0);
    if (all) /* a global pool, which reads one input, keeps the first two axes */
        marks = o->node.op->most == 1 ? ~3u : ~0u;
    /* runtimes disagree on this */
    if (named < 1 && !all && !is_plain)
        return FOLD_ONNX__REFUSE(o, "there are no axes to reduce");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, marks, fold_onnx__whole(o, "keepdims", 1), 1);
    s.calls = o->node.op->calls;
    s.number[0] = l.inner > 1 || l.outer > 1;
    fold_onnx__out(o)->is_integer = from->is_integer;
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &l.kept);
}

/* A sum from the end reverses the values, and then the sums. A sum that excludes the value itself shifts the
   values by one, so that they begin with a 0. */
static int fold_onnx__open_cumsum(fold_onnx *o, const fold_onnx__value *from)
{
    const int back = fold_onnx__whole(o, "reverse", 0) != 0, late = fold_onnx__whole(o, "exclusive", 0) != 0;
    const int axis = fold_onnx__axis(o, fold_onnx__near(fold_onnx__setting(o, 1, 0)), from->dims.rank);
    const int n = from->dims.dim[axis], outer = fold_onnx__product(&from->dims, 0, axis),
              inner = fold_onnx__product(&from->dims, axis + 1, from->dims.rank);
    fold_onnx__view in = fold_onnx__view_of(o, &from->dims), out = in;
    fold_onnx__take_axis(o, &in, axis, back ? n - 1 + late : -late, back ? -1 : 1, n);
    fold_onnx__take_axis(o, &out, axis, back ? n - 1 : 0, back ? -1 : 1, n);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    s.calls.along = fold_cumsum;
    s.number[0] = inner > 1 || outer > 1;
    fold_onnx__out(o)->is_integer = from->is_integer;
    fold_onnx__reads(o, &s, 0, o->node.in[0], &in, fold_onnx__along(outer, n, inner));
    return fold_onnx__makes_view(o, &s, &from->dims, &out);
}

/* A vector of zeros stays as it is. */
static void fold_onnx__record_lp_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                      fold_node *out)
{
    const int squares = s->number[0] == 2;
    const fold_node sum = fold_sum(o->f, squares ? fold_square(o->f, in[0]) : fold_abs(o->f, in[0]), -1);
    const fold_node size = fold_at_least(o->f, sum, FLT_MIN);
    out[0] = fold_div(o->f, in[0],
                      fold_onnx__reshape(o->f, squares ? fold_sqrt(o->f, size) : size,
                                         fold_onnx__along(s->number[1], 1, 1)));
}

static int fold_onnx__open_lp_norm(fold_onnx *o, const fold_onnx__value *from)
{
    const int axis = fold_onnx__axis_of(o, from, -1);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_lp_norm, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, 1u << axis, 1, 0);
    s.number[0] = fold_onnx__whole(o, "p", 2);
    s.number[1] = l.outer;
    if (s.number[0] != 1 && s.number[0] != 2)
        return FOLD_ONNX__REFUSE(o, "p of %d, not 1 or 2", s.number[0]);
    return fold_onnx__makes_lines(o, &s, &l);
}

/* Computed relative to the largest value, so that large values lose no precision. */
static fold_node fold_onnx__log_softmax(fold_ctx *f, fold_node x)
{
    fold_shape shape = fold_node_shape(f, x);
    if (shape.rank > 1)
        shape.dim[shape.rank - 1] = 1;
    const fold_node largest = fold_stop_gradient(f, fold_amax(f, x, -1));
    return fold_log_softmax(f, fold_sub(f, x, shape.rank > 1 ? fold_reshape(f, largest, shape) : largest));
}

static int fold_onnx__open_softmax(fold_onnx *o, const fold_onnx__value *from)
{
    const int flat = o->version < 13; /* then all axes from this one on count as one */
    const int axis = fold_onnx__axis_of(o, from, flat ? 1 : -1);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, (flat ? ~0u : 1u) << axis, 1, 0);
    s.calls = o->node.op->calls;
    return fold_onnx__makes_lines(o, &s, &l);
}

/* The index of the largest value along the last axis. NaN counts as the largest. */
static void fold_onnx__argmax_forward(const fold_op_call *c)
{
    const int takes_last = *(const int *)c->user;
    const int n = c->in_shape[0].dim[c->in_shape[0].rank - 1],
              lines = fold_onnx__elements(c->in_shape[0]) / n;
    for (int row = 0; row < c->rows; row++)
        for (int line = 0; line < lines; line++) {
            const float *x = fold_row(&c->in[0], row) + (size_t)line * (size_t)n;
            int best = 0;
            for (int i = 1; i < n; i++)
                if (!isnan(x[best]) && (x[i] > x[best] || isnan(x[i]) || (takes_last && x[i] == x[best])))
                    best = i;
            fold_row(&c->out[0], row)[line] = (float)best;
        }
}

static void fold_onnx__record_argmax(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    const fold_shape shape = fold_node_shape(o->f, in[0]);
    fold_node x = s->number[1] ? fold_neg(o->f, in[0]) : in[0]; /* the smallest */
    if (s->noise && o->chance) { /* a choice, by the Gumbel-max method */
        for (int i = 0; i < fold_onnx__elements(shape); i++)
            s->noise[i] = (float)-log(-log((double)fold_random_uniform(o->chance) + 0x1p-25));
        x = fold_add(o->f, x, fold_input_shaped(o->f, s->noise, shape));
    }
    out[0] = fold_onnx__apply_own(o->f, s->own, &x, 1, fold_shape1(s->number[0]));
}

static int fold_onnx__open_argmax(fold_onnx *o, const fold_onnx__value *from)
{
    static const int takes[2] = { 0, 1 };
    const int chooses = !strcmp(o->node.type, "Multinomial"),
              axis = fold_onnx__axis_of(o, from, chooses ? -1 : 0),
              last = fold_onnx__whole(o, "select_last_index", 0) != 0;
    if (fold_onnx__whole(o, "sample_size", 1) != 1)
        return FOLD_ONNX__REFUSE(o, "more than one sample");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_argmax, 1);
    const fold_onnx__lines l =
        fold_onnx__reads_lines(o, &s, 1u << axis, fold_onnx__whole(o, "keepdims", 1), 0);
    s.number[0] = l.outer;
    s.number[1] = !strcmp(o->node.type, "ArgMin");
    s.stops = 1;
    if (chooses)
        s.noise = FOLD_ONNX__KEPT(o, float, from->count);
    s.own = fold_onnx__own_op(o, chooses ? "onnx choice" : "onnx argmax", 1, fold_onnx__argmax_forward, NULL,
                              &takes[last]);
    fold_onnx__out(o)->is_integer = 1;
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &l.kept);
}

/* The largest or smallest values of constants. Equal values keep their order. */
static int fold_onnx__open_top(fold_onnx *o, const fold_onnx__value *from)
{
    const int axis = fold_onnx__axis_of(o, from, -1), largest = fold_onnx__whole(o, "largest", 1) != 0;
    fold_onnx__dims dims = from->dims;
    if (o->failed || from->origin != FOLD_ONNX__FIXED)
        return FOLD_ONNX__REFUSE(o, "values that are not constant");
    const double k = fold_onnx__setting(o, 1, fold_onnx__whole(o, "k", 0));
    const int n = dims.dim[axis], inner = fold_onnx__product(&dims, axis + 1, dims.rank);
    if (!(k >= 1 && k <= n && k * from->count <= (double)FOLD_ONNX__MOST_VALUES))
        return FOLD_ONNX__REFUSE(o, "%g of %d values", k, n);
    const int most = dims.dim[axis] = (int)k;
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, from->is_integer), *places = NULL;
    if (fold_onnx__has_out(o, 1))
        places = fold_onnx__fix(o, &o->values[o->node.out[1]], &dims, 1);
    char *taken = o->failed ? NULL : FOLD_ONNX__SCRATCH(o, char, from->count);
    for (int i = 0; taken && i < from->count / n * most; i++) {
        const int first = i / inner / most * n * inner + i % inner;
        int best = -1;
        for (int at = first; at < first + n * inner; at += inner) {
            const double value = fold_onnx__number(from, at),
                         had = fold_onnx__number(from, best < 0 ? at : best);
            if (!taken[at] && (best < 0 || (largest ? value > had : value < had)))
                best = at;
        }
        taken[best] = 1;
        numbers[i] = fold_onnx__number(from, best);
        if (places)
            places[i] = (best - first) / inner;
    }
    return !o->failed;
}

/* Normal numbers or, without a generator, their mean. */
static void fold_onnx__record_random(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    (void)in;
    for (int i = 0; i < s->number[0]; i++)
        s->noise[i] = s->real[0] + s->real[1] * (o->chance ? fold_random_normal(o->chance) : 0);
    out[0] = fold_input(o->f, s->noise, s->number[0]);
}

static int fold_onnx__open_random(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_random, 0);
    s.number[0] = from->count;
    s.real[0] = fold_onnx__real(o, "mean", 0);
    s.real[1] = fold_onnx__real(o, "scale", 1);
    s.noise = FOLD_ONNX__KEPT(o, float, s.number[0]);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

static void fold_onnx__record_layer_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                         fold_node *out)
{
    out[0] = s->number[1] ? fold_rms_norm(o->f, in[0], s->param[0], s->real[0])
                          : fold_layer_norm(o->f, in[0], s->param[0], s->param[1], s->real[0]);
    if (s->out[1])
        out[1] = fold_mean(o->f, in[0], -1);
    if (!s->out[2])
        return;
    const fold_node deviation = fold_sqrt(o->f, fold_shift(o->f, fold_variance(o->f, in[0], -1), s->real[0]));
    out[2] = fold_div(o->f, fold_constant(o->f, 1), deviation);
}

/* In fold.h an epsilon of 0 means the default. */
static float fold_onnx__epsilon(fold_onnx *o)
{
    const float epsilon = fold_onnx__real(o, "epsilon", 1e-5f);
    if (!(epsilon >= 0))
        FOLD_ONNX__REFUSE(o, "an epsilon that is negative");
    return epsilon != 0 ? epsilon : FLT_MIN;
}

static int fold_onnx__open_layer_norm(fold_onnx *o, const fold_onnx__value *from)
{
    const int axis = fold_onnx__axis_of(o, from, -1), beside = o->node.in[1];
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_layer_norm, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, ~0u << axis, 1, 0);
    s.number[0] = 2; /* it has a gain and a bias */
    s.number[1] = !strcmp(o->node.type, "RMSNormalization");
    s.real[0] = fold_onnx__epsilon(o);
    for (int i = 1; i < 3 && fold_onnx__has_in(o, i); i++) {
        fold_onnx__dims meets = from->dims;
        for (int k = 0; k < axis; k++)
            meets.dim[k] = 1;
        if (fold_onnx__meet(o, &fold_onnx__in(o, i)->dims, &meets) &&
            fold_onnx__product(&meets, 0, meets.rank) != l.count)
            return FOLD_ONNX__REFUSE(o, "'%.60s' does not fit the axes of the norm",
                                     fold_onnx__in(o, i)->name);
    }
    fold_onnx__vector(o, beside, l.count, 1, &s.param[0]);
    if (fold_onnx__has_in(o, 2))
        fold_onnx__vector(o, o->node.in[2], l.count, 1, &s.param[1]);
    else
        fold_onnx__fill(o, beside, l.count, 0, &s.param[1]);
    for (int i = 1; i < 3; i++)
        if (fold_onnx__has_out(o, i))
            fold_onnx__makes(o, &s, i, o->node.out[i], &l.kept);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

/* Batch norm of [values x channels] with given statistics or, in training, with those of the values; training
   also returns running statistics. */
static void fold_onnx__record_batch_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                         fold_node *out)
{
    const int trains = s->number[0];
    const fold_node x = fold_onnx__reshape(o->f, in[0], fold_shape2(s->number[1], s->number[2]));
    const fold_node mean = trains ? fold_mean(o->f, x, 0) : in[3];
    const fold_node variance = trains ? fold_variance(o->f, x, 0) : in[4];
    out[0] = fold_mul(o->f, fold_standardize(o->f, x, mean, variance, s->real[0]), in[1]);
    out[0] = fold_add(o->f, out[0], in[2]);
    for (int i = 1; i < 3 && trains; i++) {
        const fold_node now = fold_scale(o->f, i == 1 ? mean : variance, 1 - s->real[1]);
        out[i] = fold_add(o->f, fold_scale(o->f, in[2 + i], s->real[1]), now);
    }
}

static int fold_onnx__open_batch_norm(fold_onnx *o, const fold_onnx__value *from)
{
    if (from->dims.rank < 2)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d", from->dims.rank);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_batch_norm, 5);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, 1u << 1, 0, 0);
    const fold_onnx__dims channels = { 1, { l.count } };
    s.number[1] = l.outer;
    s.number[2] = l.count;
    if (o->version < 7 || fold_onnx__whole(o, "spatial", 1) != 1)
        return FOLD_ONNX__REFUSE(o, "opset %d, or spatial other than 1, is not supported", o->version);
    s.number[0] = fold_onnx__whole(o, "training_mode", o->version < 14 && o->node.n_out > 1) != 0;
    s.real[0] = fold_onnx__epsilon(o);
    s.real[1] = fold_onnx__real(o, "momentum", 0.9f);
    for (int i = 1; i < 5; i++) {
        const int index = o->node.in[i];
        if (fold_onnx__in(o, i)->count != l.count)
            return FOLD_ONNX__REFUSE(o, "'%.60s' is not %d values", fold_onnx__in(o, i)->name, l.count);
        if (i > 2 && fold_onnx__is_fixed(o, index))
            fold_onnx__use_constant(o, index, 1);
        fold_onnx__reads_shape(o, &s, i, index, fold_shape1(l.count));
    }
    for (int i = 1; i < 3 && s.number[0]; i++)
        if (fold_onnx__has_out(o, i))
            fold_onnx__makes(o, &s, i, o->node.out[i], &channels);
    return fold_onnx__makes_lines(o, &s, &l);
}

/* Normalises each row of [rows x values], then applies a gain and a bias per channel or group. */
static void fold_onnx__record_group_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                         fold_node *out)
{
    const int *n = s->number; /* rows, batch, gains, values of each */
    const fold_node mean = fold_reshape(o->f, fold_mean(o->f, in[0], -1), fold_shape2(n[0], 1)),
                    variance = fold_reshape(o->f, fold_variance(o->f, in[0], -1), fold_shape2(n[0], 1));
    const fold_node plain = fold_standardize(o->f, in[0], mean, variance, s->real[0]);
    out[0] = fold_mul(o->f, fold_onnx__reshape(o->f, plain, fold_shape3(n[1], n[2], n[3])), in[1]);
    out[0] = fold_add(o->f, out[0], in[2]);
}

/* In InstanceNormalization, each channel is a group. Before opset 21, gains and biases are per group. */
static int fold_onnx__open_group_norm(fold_onnx *o, const fold_onnx__value *from)
{
    const int channels = from->dims.dim[1], groups = fold_onnx__whole(o, "num_groups", channels);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_group_norm, 3);
    if (from->dims.rank < 2 || groups < 1 || channels % groups)
        return FOLD_ONNX__REFUSE(o, "%d groups of an input of rank %d", groups, from->dims.rank);
    const int batch = from->dims.dim[0], gains = o->version < 21 ? groups : channels;
    const int settings[5] = { batch * groups, batch, gains, from->count / batch / gains, 0 };
    memcpy(s.number, settings, sizeof settings);
    s.real[0] = fold_onnx__epsilon(o);
    fold_onnx__reads_shape(o, &s, 0, o->node.in[0], fold_shape2(settings[0], from->count / settings[0]));
    for (int i = 1; i < 3; i++) {
        if (fold_onnx__in(o, i)->count != gains)
            return FOLD_ONNX__REFUSE(o, "'%.60s' is not %d values", fold_onnx__in(o, i)->name, gains);
        fold_onnx__reads_shape(o, &s, i, o->node.in[i], fold_shape2(gains, 1));
    }
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

/* ---- products --------------------------------------------------------------------------------- */

/* If there are more inputs than the product reads, the last one is added. */
static void fold_onnx__record_linear(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    const int n = s->number[0]; /* inputs of the product */
    out[0] = n == 1 ? fold_linear(o->f, in[0], s->param[0], s->param[1]) : fold_matmul(o->f, in[0], in[1]);
    if (n == 2 && s->real[0] != 1)
        out[0] = fold_scale(o->f, out[0], s->real[0]);
    if (s->n_in > n)
        out[0] = fold_add(o->f, out[0], s->real[1] == 1 ? in[n] : fold_scale(o->f, in[n], s->real[1]));
}

/* Makes `scale` times a constant [inputs x outputs] the weight of a step. If the step's operand is a permuted
   row, the original row is read instead, and the rows of the weight are permuted. */
static int fold_onnx__reads_by_weight(fold_onnx *o, fold_onnx__step *s, const fold_onnx__view *from,
                                      const fold_onnx__view *all, int turned, int rows, float scale)
{
    fold_onnx__view view = *all;
    const int inputs = view.dims.dim[0];
    fold_onnx__weight wanted =
        fold_onnx__form(fold_onnx__in(o, 1), turned ? FOLD_ONNX__TURNED : FOLD_ONNX__AS_IT_IS, scale,
                        fold_shape2(inputs, view.dims.dim[1]));
    if (!fold_onnx__reads(o, s, 0, o->node.in[0], from, fold_onnx__along(rows, inputs, 1)))
        return 0;
    const fold_onnx__move *move;
    const int base = fold_onnx__base(o, s->in[0], &move);
    if (rows == 1 && move && !move->is_window) {
        int *to = view.at[0] = FOLD_ONNX__SCRATCH(o, int, inputs);
        for (int i = 0; to && i < inputs; i++)
            to[move->source[i / move->run] + i % move->run] = all->at[0][i];
        wanted.form = FOLD_ONNX__ALONE;
        fold_onnx__reads_shape(o, s, 0, base, move->shape);
    }
    return fold_onnx__weigh(o, wanted, &view, FOLD_FOR_LINEAR, 0, &s->param[0]);
}

/* A product of one or two operands, written as in Einsum: each axis has a label, and the result is summed
   over the labels that it lacks. For each label: its size, and how often operands have it. The kinds are the
   labels of the result that are in both operands, only in the first, and only in the second, in the order of
   the result; and all others. */
enum { FOLD_ONNX__LABELS = 128, FOLD_ONNX__MOST_LABELS = 3 * FOLD_ONNX_RANK + 1 };
enum { FOLD_ONNX__BOTH, FOLD_ONNX__ROWS, FOLD_ONNX__COLUMNS, FOLD_ONNX__SUMMED, FOLD_ONNX__KINDS };
typedef struct fold_onnx__equation {
    char has[2][FOLD_ONNX_RANK + 1], result[FOLD_ONNX_RANK + 1];
    char kinds[FOLD_ONNX__KINDS][FOLD_ONNX__MOST_LABELS];
    int size[FOLD_ONNX__LABELS], times[FOLD_ONNX__LABELS];
} fold_onnx__equation;

/* Reads a term of an equation, which has a letter for each axis, and returns its end. An ellipsis is the
   axes of `rank` that have no letter, or `dots` axes if rank is -1; the last of them has the label 8. */
static const char *fold_onnx__term(fold_onnx *o, const char *text, int rank, int dots, char *label)
{
    int n = 0, letters = 0;
    for (const char *at = text; *at && *at != ',' && *at != '-'; at++)
        letters += *at != ' ' && *at != '.';
    for (; *text && *text != ',' && *text != '-'; text++) {
        const int is_dots = !strncmp(text, "...", 3), is_letter = (*text | 32) >= 'a' && (*text | 32) <= 'z';
        const int count = !is_dots ? is_letter : rank < 0 ? dots : rank - letters;
        text += is_dots ? 2 : 0;
        if ((!is_dots && !is_letter && *text != ' ') || count < 0 || n + count > FOLD_ONNX_RANK)
            return FOLD_ONNX__REFUSE(o, "an equation that does not fit its operands"), text;
        for (int k = 0; k < count; k++)
            label[n++] = is_dots ? (char)(FOLD_ONNX_RANK - count + k + 1) : *text;
    }
    label[n] = 0;
    if (rank >= 0 && n != rank)
        FOLD_ONNX__REFUSE(o, "%d labels of %d axes", n, rank);
    return text;
}

/* A view of an operand whose axes are the labels of these kinds, after those of both operands. Along a label
   that the operand lacks, its values repeat; a label that it has twice takes the diagonal. */
static fold_onnx__view fold_onnx__labelled(fold_onnx *o, const fold_onnx__equation *e, int input, int kind,
                                           int next)
{
    const fold_onnx__dims *from = &fold_onnx__in(o, input)->dims;
    const fold_onnx__view all = fold_onnx__view_of(o, from);
    fold_onnx__view view = all;
    char labels[3 * FOLD_ONNX__MOST_LABELS];
    fold_onnx__format(labels, sizeof labels, "%s%s%s", e->kinds[0], e->kinds[kind], e->kinds[next]);
    if (strlen(labels) > FOLD_ONNX_RANK)
        fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    view.dims.rank = o->failed ? 0 : (int)strlen(labels);
    for (int k = 0; k < view.dims.rank && !o->failed; k++) {
        view.dims.dim[k] = e->size[(int)labels[k]];
        view.at[k] = FOLD_ONNX__SCRATCH(o, int, view.dims.dim[k]);
        for (int axis = 0; axis < from->rank && view.at[k]; axis++)
            for (int i = 0; e->has[input][axis] == labels[k] && i < from->dim[axis]; i++)
                view.at[k][i] += all.at[axis][i];
    }
    fold_onnx__size(o, &view.dims);
    return view;
}

/* If the equation has no result, that is the ellipsis, then all letters that occur once, in alphabetical
   order. */
static int fold_onnx__read_equation(fold_onnx *o, const char *text, fold_onnx__equation *e)
{
    int n = 0, dots = 0;
    for (int i = 0; i < 2 && i < o->node.n_in && e && !o->failed; i++) {
        const fold_onnx__dims *dims = &fold_onnx__in(o, i)->dims;
        text = fold_onnx__term(o, text + (i && *text == ','), dims->rank, 0, e->has[i]);
        for (int k = 0; k < dims->rank && !o->failed; k++) {
            int *size = &e->size[(int)e->has[i][k]];
            if (*size > 1 && dims->dim[k] > 1 && *size != dims->dim[k])
                return fold_onnx__no_broadcast(o, *size, dims->dim[k]);
            *size = dims->dim[k] > *size ? dims->dim[k] : *size;
            e->times[(int)e->has[i][k]]++;
        }
    }
    if (o->failed)
        return 0;
    for (int label = 1; label <= FOLD_ONNX_RANK; label++)
        dots += e->times[label] > 0;
    if (!strncmp(text, "->", 2))
        text = fold_onnx__term(o, text + 2, -1, dots, e->result);
    else
        for (int label = 1; label < FOLD_ONNX__LABELS; label++)
            if (label <= FOLD_ONNX_RANK ? e->times[label] > 0 : e->times[label] == 1) {
                if (n == FOLD_ONNX_RANK)
                    return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
                e->result[n++] = (char)label;
            }
    for (const char *at = e->result; *at; at++) {
        const int in_a = strchr(e->has[0], *at) != NULL, in_b = strchr(e->has[1], *at) != NULL;
        char *kind = e->kinds[in_a && in_b ? FOLD_ONNX__BOTH : in_a ? FOLD_ONNX__ROWS : FOLD_ONNX__COLUMNS];
        if ((!in_a && !in_b) || strchr(at + 1, *at))
            return FOLD_ONNX__REFUSE(o, "a result with a label twice, or of no operand");
        kind[strlen(kind)] = *at;
    }
    for (int label = 1; label < FOLD_ONNX__LABELS; label++)
        if (e->times[label] && !strchr(e->result, label))
            e->kinds[FOLD_ONNX__SUMMED][strlen(e->kinds[FOLD_ONNX__SUMMED])] = (char)label;
    return !o->failed && (!*text || FOLD_ONNX__REFUSE(o, "an equation that does not fit its operands"));
}

/* Ends a product of two operands [m x n], or of a batch of them: its labels are moved to their places in the
   result. */
static int fold_onnx__makes_product(fold_onnx *o, fold_onnx__step *s, const fold_onnx__equation *e,
                                    const fold_onnx__dims *made)
{
    char text[3 * FOLD_ONNX__MOST_LABELS];
    int order[FOLD_ONNX_RANK];
    fold_onnx__dims full = { (int)strlen(e->result), { 0 } };
    fold_onnx__format(text, sizeof text, "%s%s%s", e->kinds[FOLD_ONNX__BOTH], e->kinds[FOLD_ONNX__ROWS],
                      e->kinds[FOLD_ONNX__COLUMNS]);
    for (int i = 0; i < full.rank; i++) {
        full.dim[i] = e->size[(int)text[i]];
        order[i] = (int)(strchr(text, e->result[i]) - text);
    }
    const fold_onnx__view all = fold_onnx__view_of(o, &full), view = fold_onnx__permuted(&all, order);
    return fold_onnx__makes_view(o, s, made, &view);
}

/* alpha times the product of two operands, as matrices [rows x summed] and [summed x columns] or batches of
   them, plus beta times a third input. A constant matrix becomes a weight, and a constant row its bias. */
static int fold_onnx__multiplies(fold_onnx *o, const fold_onnx__equation *e, float alpha, float beta)
{
    const fold_onnx__view a = fold_onnx__labelled(o, e, 0, FOLD_ONNX__ROWS, FOLD_ONNX__SUMMED),
                          b = fold_onnx__labelled(o, e, 1, FOLD_ONNX__SUMMED, FOLD_ONNX__COLUMNS);
    const fold_onnx__value *c = fold_onnx__has_in(o, 2) && beta != 0 ? fold_onnx__in(o, 2) : NULL;
    const int batches = (int)strlen(e->kinds[FOLD_ONNX__BOTH]),
              rows = batches + (int)strlen(e->kinds[FOLD_ONNX__ROWS]),
              columns = batches + (int)strlen(e->kinds[FOLD_ONNX__SUMMED]), *in = o->node.in;
    if (o->failed)
        return 0;
    const int count = fold_onnx__product(&b.dims, 0, batches), m = fold_onnx__product(&a.dims, batches, rows),
              k = fold_onnx__product(&b.dims, batches, columns),
              n = fold_onnx__product(&b.dims, columns, b.dims.rank);
    const int linear = fold_onnx__is_fixed(o, in[1]) && count == 1 && b.dims.rank == 2 && columns == 1 &&
                       fold_onnx__in(o, 1)->dims.rank == 2 && fold_onnx__in(o, 1)->count == k * n;
    const int row = linear && c && fold_onnx__is_fixed(o, in[2]) &&
                    (c->count == 1 || (c->count == n && c->dims.dim[c->dims.rank - 1] == n));
    const fold_onnx__dims result = { 2, { m, n } }, made = { 3, { count, m, n } };
    fold_onnx__dims meets = result;
    if (c && (!fold_onnx__meet(o, &c->dims, &meets) || !fold_onnx__same_dims(&meets, &result)))
        return FOLD_ONNX__REFUSE(o, "a bias of another shape");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_linear, 2 - linear + (c && !row));
    s.number[0] = 2 - linear;
    s.real[0] = alpha;
    s.real[1] = beta;
    if (linear)
        fold_onnx__reads_by_weight(o, &s, &a, &b, e->has[1][0] == *e->kinds[FOLD_ONNX__COLUMNS], m, alpha);
    else
        fold_onnx__reads(o, &s, 0, in[0], &a, count > 1 ? fold_shape3(count, m, k) : fold_shape2(m, k));
    if (!linear)
        fold_onnx__reads(o, &s, 1, in[1], &b, count > 1 ? fold_shape3(count, k, n) : fold_shape2(k, n));
    if (row)
        fold_onnx__vector(o, in[2], n, beta, &s.param[1]);
    else if (c)
        fold_onnx__reads(o, &s, 2 - linear, in[2], NULL, fold_shape1(1));
    return fold_onnx__makes_product(o, &s, e, &made);
}

/* A product of matrices or, with MatMul, of batches of them and of vectors. */
static int fold_onnx__open_product(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const forms[2][3] = { { "k", "...mk", "...km" }, { "k", "...kn", "...nk" } };
    const fold_onnx__dims *a = &from->dims, *b = &fold_onnx__in(o, 1)->dims;
    const int least = !strcmp(o->node.type, "Gemm") ? 2 : 1, most = least == 2 ? 2 : FOLD_ONNX_RANK;
    const int turns_a = fold_onnx__whole(o, "transA", 0) != 0,
              turns_b = fold_onnx__whole(o, "transB", 0) != 0;
    const float alpha = fold_onnx__real(o, "alpha", 1), beta = fold_onnx__real(o, "beta", 1);
    fold_onnx__equation *e = FOLD_ONNX__SCRATCH(o, fold_onnx__equation, 1);
    char text[32];
    if (a->rank < least || b->rank < least || a->rank > most || b->rank > most ||
        a->dim[a->rank - 1 - turns_a] != b->dim[b->rank > 1 ? b->rank - 2 + turns_b : 0])
        return FOLD_ONNX__REFUSE(o, "matrices that do not fit");
    fold_onnx__format(text, sizeof text, "%s,%s->...%s%s", forms[0][a->rank > 1 ? 1 + turns_a : 0],
                      forms[1][b->rank > 1 ? 1 + turns_b : 0], a->rank > 1 ? "m" : "",
                      b->rank > 1 ? "n" : "");
    return fold_onnx__read_equation(o, text, e) && fold_onnx__multiplies(o, e, alpha, beta);
}

/* A single operand is moved, and summed over the axes that the result lacks. */
static int fold_onnx__open_einsum(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__equation *e = FOLD_ONNX__SCRATCH(o, fold_onnx__equation, 1);
    fold_onnx__field field;
    (void)from;
    if (!fold_onnx__attribute(o, "equation", 4, &field))
        return FOLD_ONNX__REFUSE(o, "no equation");
    if (!fold_onnx__read_equation(o, fold_onnx__copy_text(o, field.bytes), e))
        return 0;
    if (o->node.n_in == 2)
        return fold_onnx__multiplies(o, e, 1, 1);
    const fold_onnx__view a = fold_onnx__labelled(o, e, 0, FOLD_ONNX__ROWS, FOLD_ONNX__SUMMED);
    fold_onnx__dims kept = a.dims;
    kept.rank = (int)strlen(e->result);
    if (o->failed)
        return 0;
    if (kept.rank == a.dims.rank)
        return fold_onnx__emit(o, &a, o->node.out[0], &a.dims);
    const int outer = fold_onnx__product(&kept, 0, kept.rank),
              count = fold_onnx__product(&a.dims, kept.rank, a.dims.rank);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    s.calls.along = fold_sum;
    s.number[0] = outer > 1;
    fold_onnx__reads(o, &s, 0, o->node.in[0], &a, fold_onnx__along(outer, count, 1));
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &kept);
}

/* ---- convolutions and pools ------------------------------------------------------------------- */

/* How windows move along an axis. begin and end are padding, made is the number of windows. If `pads` is not
   FOLD_ONNX__GIVEN, the padding is computed: such that there is a window for each stride, with the odd one at
   the end (UPPER) or the beginning, or none. */
enum { FOLD_ONNX__GIVEN, FOLD_ONNX__UPPER, FOLD_ONNX__LOWER, FOLD_ONNX__VALID };
typedef struct fold_onnx__window {
    int stride, dilation, taps, reach, begin, end, made, pads;
} fold_onnx__window;
enum { FOLD_ONNX__MOST_WINDOWS = 3, FOLD_ONNX__MOST_REACH = 32767 };

static int fold_onnx__window_fits(fold_onnx *o, fold_onnx__window *w)
{
    const long long reach = (long long)(w->taps - 1) * w->dilation + 1;
    if (w->stride < 1 || w->dilation < 1 || w->stride > 4096 || w->dilation > 4096)
        return FOLD_ONNX__REFUSE(o, "a stride of %d, a dilation of %d", w->stride, w->dilation);
    if (w->taps < 1 || reach > FOLD_ONNX__MOST_REACH)
        return FOLD_ONNX__REFUSE(o, "a kernel of %d, a dilation of %d", w->taps, w->dilation);
    w->reach = (int)reach;
    return 1;
}

/* A transposed convolution of n values is an ordinary one, with reversed filters, of the values with zeros
   between them. begin and end become the padding of that, which is negative if values are cut off. `more` is
   additional length at the end; `wanted`, if not 0, is the length of the result. */
static int fold_onnx__transposed_window(fold_onnx *o, int n, int more, int wanted, fold_onnx__window *w)
{
    const int upper = w->pads == FOLD_ONNX__UPPER, same = upper || w->pads == FOLD_ONNX__LOWER,
              most = FOLD_ONNX__MOST_REACH;
    const long long spread = (long long)w->stride * (n - 1) + 1, whole = spread + w->reach - 1 + more;
    const long long given = wanted ? wanted : same ? (long long)w->stride * n : whole - w->begin - w->end;
    const long long extra = whole > given ? whole - given : 0;
    if (wanted || same)
        w->begin = (int)(upper ? extra / 2 : extra - extra / 2);
    if (whole > FOLD_ONNX__MOST_VALUES || given < 1 || given > most || more < 0 || more > most ||
        w->begin < 0 || w->begin > most || w->end < 0 || w->end > most)
        return FOLD_ONNX__REFUSE(o, "pads of %d and %d, of a kernel of %d", w->begin, w->end, w->reach);
    w->begin = w->reach - 1 - w->begin;
    w->made = (int)given;
    w->end = w->made + w->reach - 1 - (int)spread - w->begin;
    return 1;
}

/* The windows of n values. With ceil_mode the last one may reach beyond the padding, but not begin in it. */
static int fold_onnx__read_window(fold_onnx *o, int n, fold_onnx__window *w)
{
    const int most = FOLD_ONNX__MOST_REACH;
    if (w->pads != FOLD_ONNX__GIVEN) {
        const int full = ((n + w->stride - 1) / w->stride - 1) * w->stride + w->reach,
                  missing = w->pads == FOLD_ONNX__VALID || full < n ? 0 : full - n;
        w->begin = (missing + (w->pads == FOLD_ONNX__LOWER)) / 2;
        w->end = missing - w->begin;
    }
    if (w->begin < 0 || w->end < 0 || w->begin > most || w->end > most || n + w->begin + w->end < w->reach)
        return FOLD_ONNX__REFUSE(o, "pads of %d and %d, of a kernel of %d", w->begin, w->end, w->reach);
    const int more = fold_onnx__whole(o, "ceil_mode", 0) ? w->stride - 1 : 0;
    w->made = (n + w->begin + w->end - w->reach + more) / w->stride + 1;
    w->made -= more && (w->made - 1) * w->stride >= n + w->begin;
    return !o->failed;
}

/* The windows along each axis but the first two; those of a pool if filter is NULL. */
static int fold_onnx__read_windows(fold_onnx *o, const fold_onnx__dims *filter, fold_onnx__window *windows)
{
    static const char *const names[6] = { "strides",        "dilations",    "kernel_shape",
                                          "output_padding", "output_shape", "pads" };
    static const char *const ways[4] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const fold_onnx__dims *x = &fold_onnx__in(o, 0)->dims;
    const int axes = x->rank - 2, transposed = !strcmp(o->node.type, "ConvTranspose"),
              pads = fold_onnx__word(o, "auto_pad", ways, 4);
    int list[6][2 * FOLD_ONNX__MOST_WINDOWS] = { { 1, 1, 1 }, { 1, 1, 1 }, { 0 }, { 0 }, { 0 }, { 0 } };
    if (axes < 1 || axes > (filter ? 2 : FOLD_ONNX__MOST_WINDOWS))
        return FOLD_ONNX__REFUSE(o, "an input of rank %d", x->rank);
    for (int k = 0; k < axes && filter; k++)
        list[2][k] = filter->dim[2 + k];
    for (int i = 0; i < 6; i++) {
        const int count = fold_onnx__list(o, names[i], -1, list[i], 2 * FOLD_ONNX__MOST_WINDOWS);
        if (count != -1 && count != (i < 5 ? axes : 2 * axes))
            return FOLD_ONNX__REFUSE(o, "%s do not fit %d axes", names[i], axes);
    }
    for (int k = 0; k < axes && !o->failed; k++) {
        const fold_onnx__window w = { list[0][k], list[1][k],        list[2][k], 0,
                                      list[5][k], list[5][axes + k], 0,          pads };
        windows[k] = w;
        if (filter && w.taps != filter->dim[2 + k])
            return FOLD_ONNX__REFUSE(o, "a kernel of %d, and weights of %d", w.taps, filter->dim[2 + k]);
        if (!fold_onnx__window_fits(o, &windows[k]))
            return 0;
        if (transposed)
            fold_onnx__transposed_window(o, x->dim[2 + k], list[3][k], list[4][k], &windows[k]);
        else
            fold_onnx__read_window(o, x->dim[2 + k], &windows[k]);
    }
    return !o->failed;
}

/* Each sample of a batch, and each group of channels, is a separate convolution. */
static void fold_onnx__record_conv(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                   fold_node *out)
{
    const fold_param none = { 0, 0 };
    const int axes = s->number[0], groups = s->n_filters, samples = s->number[1];
    fold_node *made = s->nodes + s->n_in + FOLD_ONNX__OUTS;
    fold_shape image = fold_node_shape(o->f, in[0]);
    for (int k = 0; k < axes + 1 && samples > 1; k++)
        image.dim[k] = image.dim[k + 1];
    image.rank = axes + 1;
    const int channels = image.dim[axes] / groups;
    for (int i = 0; i < samples * groups; i++) {
        const int g = i % groups;
        fold_node x = samples == 1 ? in[0] : fold_slice(o->f, in[0], 0, i / groups, 1);
        x = fold_onnx__reshape(o->f, x, image);
        if (groups > 1)
            x = fold_slice(o->f, x, axes, g * channels, channels);
        made[i] = (axes == 1 ? fold_conv1d : fold_conv2d)(o->f, x, s->filters[g],
                                                          groups == 1 ? s->param[1] : none, &s->conv);
        if (groups > 1 && g == groups - 1)
            made[i / groups] = fold_concat(o->f, made + i - g, groups, axes);
    }
    out[0] = samples == 1 ? made[0] : fold_concat(o->f, made, samples, 0);
    if (groups > 1 && !fold_param_is_null(s->param[1]))
        out[0] = fold_add(o->f, out[0], fold_use(o->f, s->param[1]));
}

static void fold_onnx__record_pool(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                   fold_node *out)
{
    static fold_node (*const pools[2][2])(fold_ctx * f, fold_node x, int size, int stride,
                                          int padding) = { { fold_max_pool1d, fold_max_pool2d },
                                                           { fold_mean_pool1d, fold_mean_pool2d } };
    const int *n = s->number;
    out[0] = pools[n[1]][n[0] - 1](o->f, in[0], n[2], n[3], n[4]);
}

/* Plans the filters of a convolution. fold.h has [taps x inputs x outputs] instead of [outputs x inputs x
   taps] or, for a transposed convolution, [inputs x outputs x taps], whose taps are reversed. Each group has
   its own filter, unless each is a single channel. */
static void fold_onnx__read_filters(fold_onnx *o, fold_onnx__step *s, int groups, int transposed)
{
    static const int orders[2][2][4] = { { { 2, 1, 0 }, { 2, 0, 1 } }, { { 2, 3, 1, 0 }, { 2, 3, 0, 1 } } };
    const fold_onnx__value *filter = fold_onnx__in(o, 1);
    const int n = s->conv.depthwise ? 1 : groups, own = filter->dims.dim[0] / n;
    fold_onnx__view taps = fold_onnx__view_of(o, &filter->dims);
    for (int k = 2; k < filter->dims.rank && transposed; k++)
        fold_onnx__take_axis(o, &taps, k, filter->dims.dim[k] - 1, -1, filter->dims.dim[k]);
    s->n_filters = n;
    s->filters = FOLD_ONNX__KEPT(o, fold_param, n);
    s->nodes = FOLD_ONNX__KEPT(o, fold_node, s->n_in + FOLD_ONNX__OUTS + n * s->number[1]);
    for (int g = 0; g < n && !o->failed; g++) {
        fold_onnx__view view = taps;
        fold_onnx__take_axis(o, &view, 0, g * own, 1, own);
        view = fold_onnx__permuted(&view, orders[s->number[0] - 1][transposed && !s->conv.depthwise]);
        fold_onnx__weight wanted =
            fold_onnx__form(filter, n > 1 || transposed ? FOLD_ONNX__ALONE : FOLD_ONNX__TURNED, 1,
                            fold_onnx__shape_from(&view.dims, 0));
        fold_onnx__weigh(o, wanted, &view, FOLD_FOR_CONV, 0, &s->filters[g]);
    }
}

/* The input of a convolution, channels last. Padding that fold.h does not support is added here. For a
   transposed convolution, zeros are inserted between the values. */
static void fold_onnx__read_image(fold_onnx *o, fold_onnx__step *s, const fold_onnx__window *w,
                                  int transposed)
{
    static const int orders[2][4] = { { 0, 2, 1 }, { 0, 2, 3, 1 } };
    const fold_onnx__view all = fold_onnx__view_of(o, &fold_onnx__in(o, 0)->dims);
    const int axes = s->number[0];
    fold_onnx__view image = fold_onnx__permuted(&all, orders[axes - 1]);
    int equal = w[0].begin >= 0;
    for (int k = 0; k < axes && !o->failed; k++) {
        const int *had = image.at[1 + k], stride = transposed ? w[k].stride : 1;
        const int count = (image.dims.dim[1 + k] - 1) * stride + 1;
        int *at = stride > 1 ? FOLD_ONNX__SCRATCH(o, int, count) : NULL;
        for (int i = 0; at && i < count; i++)
            at[i] = i % stride ? -1 : had[i / stride];
        image.at[1 + k] = at ? at : image.at[1 + k];
        image.dims.dim[1 + k] = count;
        equal &= w[k].begin == w[0].begin && w[k].end == w[0].begin && w[0].begin < w[k].reach;
    }
    if (equal)
        s->conv.padding = w[0].begin;
    for (int k = 0; k < axes && !equal; k++)
        fold_onnx__take_axis(o, &image, 1 + k, -w[k].begin, 1, w[k].begin + image.dims.dim[1 + k] + w[k].end);
    fold_onnx__reads(o, s, 0, o->node.in[0], &image, fold_onnx__shape_from(&image.dims, s->number[1] == 1));
}

/* If strides differ from axis to axis, windows are computed with a stride of 1, and some are then dropped. */
static int fold_onnx__open_conv(fold_onnx *o, const fold_onnx__value *from)
{
    static const int back[2][4] = { { 0, 2, 1 }, { 0, 3, 1, 2 } };
    const fold_onnx__dims *x = &from->dims, *filter = &fold_onnx__in(o, 1)->dims;
    const int groups = fold_onnx__whole(o, "group", 1), axes = x->rank - 2,
              transposed = !strcmp(o->node.type, "ConvTranspose");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_conv, 1);
    fold_onnx__window w[FOLD_ONNX__MOST_WINDOWS];
    fold_onnx__dims made = { axes + 2, { x->dim[0] } };
    if (axes < 1 || axes > 2 || x->dim[0] > 1024 || filter->rank != x->rank)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d, %d samples", x->rank, x->dim[0]);
    if (groups < 1 || x->dim[1] % groups || filter->dim[0] % groups)
        return FOLD_ONNX__REFUSE(o, "%d groups of %d channels", groups, x->dim[1]);
    if (filter->dim[!transposed] != (transposed ? x->dim[1] : x->dim[1] / groups))
        return FOLD_ONNX__REFUSE(o, "weights of %d channels, not %d", filter->dim[!transposed],
                                 transposed ? x->dim[1] : x->dim[1] / groups);
    const int outputs = transposed ? filter->dim[1] * groups : filter->dim[0];
    if (!fold_onnx__read_windows(o, filter, w))
        return 0;
    const int differ = w[axes - 1].stride != w[0].stride;
    if (w[axes - 1].dilation != w[0].dilation)
        return FOLD_ONNX__REFUSE(o, "dilations that differ from axis to axis");
    s.number[0] = axes;
    s.number[1] = x->dim[0];
    s.conv.depthwise = groups > 1 && groups == x->dim[1] && outputs == groups;
    s.conv.stride = transposed || differ ? 1 : w[0].stride;
    s.conv.dilation = w[0].dilation;
    fold_onnx__read_image(o, &s, w, transposed);
    fold_onnx__read_filters(o, &s, groups, transposed);
    if (fold_onnx__has_in(o, 2))
        fold_onnx__vector(o, o->node.in[2], outputs, 1, &s.param[1]);
    for (int k = 0; k < axes; k++)
        made.dim[1 + k] =
            !differ || transposed ? w[k].made : x->dim[2 + k] + w[k].begin + w[k].end - w[k].reach + 1;
    made.dim[axes + 1] = outputs;
    const fold_onnx__view all = fold_onnx__view_of(o, &made);
    fold_onnx__view view = fold_onnx__permuted(&all, back[axes - 1]);
    for (int k = 0; k < axes && differ && !transposed; k++)
        fold_onnx__take_axis(o, &view, 2 + k, 0, w[k].stride, w[k].made);
    return fold_onnx__makes_view(o, &s, &made, &view);
}

/* Pools a view of a value along n axes from `first` on, which are moved to the front. *index and *view become
   those of the result; the last pool of the node makes its output. fold.h pads both ends of an axis equally,
   so surplus windows are dropped at the end; an axis with more padding there is therefore reversed. Padding
   that counts in means is added here. */
static int fold_onnx__pool(fold_onnx *o, int *index, fold_onnx__view *view, const fold_onnx__window *w,
                           int first, int n, int is_last)
{
    const int rank = view->dims.rank, is_mean = !strcmp(o->node.type, "AveragePool"),
              counts = is_mean && fold_onnx__whole(o, "count_include_pad", 0);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_pool, 1);
    int order[FOLD_ONNX_RANK], back[FOLD_ONNX_RANK], next = 0;
    const int padding = counts ? 0 : w[first].begin > w[first].end ? w[first].begin : w[first].end;
    const int settings[5] = { n, is_mean, w[first].taps, w[first].stride, padding };
    memcpy(s.number, settings, sizeof settings);
    for (int k = first; k < first + n; k++) {
        const int length = view->dims.dim[2 + k], turns = !counts && w[k].end > w[k].begin;
        if (counts)
            fold_onnx__take_axis(o, view, 2 + k, -w[k].begin, 1, w[k].begin + length + w[k].end);
        else
            fold_onnx__take_axis(o, view, 2 + k, turns ? length - 1 : 0, turns ? -1 : 1,
                                 w[k].end < 0 ? length + w[k].end : length);
    }
    for (int ends = 0; ends < 2; ends++)
        for (int k = 0; k < rank; k++)
            if ((k - 2 >= first && k - 2 < first + n) != ends)
                order[back[k] = next++] = k;
    const fold_onnx__view front = fold_onnx__permuted(view, order);
    fold_onnx__dims made = front.dims, flat = front.dims;
    flat.rank = n + 1;
    flat.dim[n] = fold_onnx__product(&made, n, rank);
    fold_onnx__reads(o, &s, 0, *index, &front, fold_onnx__shape_from(&flat, 0));
    for (int k = 0; k < n; k++)
        flat.dim[k] = made.dim[k] = (made.dim[k] + 2 * padding - w[first].taps) / w[first].stride + 1;
    const fold_onnx__view all = fold_onnx__view_of(o, &made);
    *view = fold_onnx__permuted(&all, back);
    for (int k = first; k < first + n; k++) {
        const int turns = !counts && w[k].end > w[k].begin;
        fold_onnx__take_axis(o, view, 2 + k, turns ? w[k].made - 1 : 0, turns ? -1 : 1, w[k].made);
    }
    if (is_last || o->failed)
        return fold_onnx__makes_view(o, &s, &flat, view);
    *index = fold_onnx__new_value(o, fold_onnx__out(o)->name);
    return fold_onnx__makes(o, &s, 0, *index, &flat);
}

/* Pools one axis after another, or two at once if the windows are squares. `end` becomes the padding that is
   used, which is negative if values are left over. */
static int fold_onnx__open_pool(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__window w[FOLD_ONNX__MOST_WINDOWS];
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    const int axes = from->dims.rank - 2, counts = fold_onnx__whole(o, "count_include_pad", 0);
    int index = o->node.in[0], together = axes == 2;
    if (fold_onnx__has_out(o, 1))
        return FOLD_ONNX__REFUSE(o, "the indices of the largest values");
    if (o->failed || !fold_onnx__read_windows(o, NULL, w))
        return 0;
    for (int k = 0; k < axes; k++) {
        const int end = (w[k].made - 1) * w[k].stride + w[k].taps - from->dims.dim[2 + k] - w[k].begin;
        if (w[k].dilation != 1)
            return FOLD_ONNX__REFUSE(o, "a dilation of %d", w[k].dilation);
        if (counts ? end > w[k].end : w[k].begin >= w[k].taps || end >= w[k].taps)
            return FOLD_ONNX__REFUSE(o, "pads of %d and %d, of a kernel of %d, which %s", w[k].begin, end,
                                     w[k].taps,
                                     counts ? "count only in part" : "leave a window without values");
        w[k].end = end;
        together &= w[k].taps == w[0].taps && w[k].stride == w[0].stride &&
                    (counts || (w[k].begin == w[0].begin && end <= w[0].begin));
    }
    for (int k = 0; k < axes; k += 1 + together)
        if (!fold_onnx__pool(o, &index, &view, w, k, 1 + together, k + 1 + together == axes))
            return 0;
    return 1;
}

/* ---- resizing --------------------------------------------------------------------------------- */

/* How an axis is resized: where its elements are in the input, and how that is rounded or interpolated. */
enum { FOLD_ONNX__HALF_PIXEL, FOLD_ONNX__PYTORCH, FOLD_ONNX__CORNERS, FOLD_ONNX__ASYMMETRIC };
enum { FOLD_ONNX__FOR_NN = 4, FOLD_ONNX__SYMMETRIC };
enum { FOLD_ONNX__NEAR_FLOOR, FOLD_ONNX__NEAR_CEIL, FOLD_ONNX__ROUND_DOWN, FOLD_ONNX__ROUND_UP };
enum { FOLD_ONNX__BY_NEAREST, FOLD_ONNX__BY_LINEAR, FOLD_ONNX__BY_CUBIC };
typedef struct fold_onnx__resize {
    int places, rounds, mode, is_smooth, leaves_out, made[FOLD_ONNX_RANK];
    float scale[FOLD_ONNX_RANK], slope;
} fold_onnx__resize;

/* Where element i of `made` is in an axis of n values. Other runtimes compute it in single precision. */
static double fold_onnx__place_of(const fold_onnx__resize *r, int i, int n, int made, float scale)
{
    const double at = (double)i, centre = (double)(float)((at + 0.5) / (double)scale),
                 lacks = 1 - made / ((double)scale * n);
    switch (r->places) {
    case FOLD_ONNX__PYTORCH: return made > 1 ? (double)(float)(centre - 0.5) : 0;
    case FOLD_ONNX__CORNERS: return made > 1 ? (double)(float)(at * (n - 1) / (made - 1)) : 0;
    case FOLD_ONNX__ASYMMETRIC: return (double)(float)(at / (double)scale);
    case FOLD_ONNX__FOR_NN: return centre;
    case FOLD_ONNX__SYMMETRIC: return n / 2.0 * lacks + centre - 0.5;
    default: return (double)(float)(centre - 0.5);
    }
}

static int fold_onnx__nearest_of(const fold_onnx__resize *r, double at, int n)
{
    const double whole = r->rounds == FOLD_ONNX__NEAR_FLOOR   ? ceil(at - 0.5)
                         : r->rounds == FOLD_ONNX__NEAR_CEIL  ? floor(at + 0.5)
                         : r->rounds == FOLD_ONNX__ROUND_DOWN ? floor(at)
                                                              : ceil(at);
    return whole < 0 ? 0 : whole < n ? (int)whole : n - 1;
}

/* The weight of a value at this distance: linear, or cubic (Keys 1981). */
static double fold_onnx__weight_at(const fold_onnx__resize *r, double x)
{
    const double a = (double)r->slope;
    x = fabs(x);
    if (r->mode == FOLD_ONNX__BY_LINEAR)
        return x < 1 ? 1 - x : 0;
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/* The weights [n x made] of an axis. Values outside it are those of the edge, or are left out. */
static int fold_onnx__interpolation(fold_onnx *o, const fold_onnx__resize *r, int n, int made, float scale,
                                    fold_param *param)
{
    const fold_onnx__dims dims = { 2, { n, made } };
    const double spread = r->is_smooth && scale < 1 ? (double)scale : 1, reach = r->mode / spread;
    double *weights = fold_onnx__size(o, &dims) ? FOLD_ONNX__SCRATCH(o, double, n *made) : NULL;
    for (int i = 0; weights && i < made; i++) {
        const double at = fold_onnx__place_of(r, i, n, made, scale);
        double sum = 0;
        for (int k = (int)ceil(at - reach); k <= at + reach; k++) {
            const int from = k < 0 ? 0 : k < n ? k : n - 1;
            const double weight = from != k && r->leaves_out ? 0 : fold_onnx__weight_at(r, (k - at) * spread);
            weights[from * made + i] += weight;
            sum += weight;
        }
        for (int k = 0; k < n && r->leaves_out; k++)
            weights[k * made + i] /= sum;
    }
    return fold_onnx__supply(o, o->node.out[0], weights, n * made, param);
}

/* Reads the scales or lengths of all axes, or of those that are listed. */
static int fold_onnx__read_scales(fold_onnx *o, fold_onnx__resize *r, const fold_onnx__dims *x)
{
    static const char *const policies[3] = { "stretch", "not_larger", "not_smaller" };
    const int is_resize = !strcmp(o->node.type, "Resize"), late = is_resize && o->version > 10, at = 1 + late,
              keeps = fold_onnx__word(o, "keep_aspect_ratio_policy", policies, 3);
    int axes[FOLD_ONNX_RANK];
    double told[FOLD_ONNX_RANK], best = 0; /* lengths or scales */
    const int listed = fold_onnx__list(o, "axes", -1, axes, FOLD_ONNX_RANK),
              n = listed < 0 ? x->rank : listed,
              has_lengths = late && fold_onnx__has_in(o, 3) && fold_onnx__in(o, 3)->count;
    const int count = fold_onnx__numbers_of(o, has_lengths ? NULL : "scales", 7, FOLD_ONNX__FLOAT,
                                            has_lengths ? 3 : at, told, FOLD_ONNX_RANK);
    if (count != n || o->failed)
        return FOLD_ONNX__REFUSE(o, "scales or sizes of %d axes, for %d", count, n);
    for (int k = 0; k < x->rank; k++)
        r->scale[k] = 1, r->made[k] = x->dim[k];
    for (int i = 0; i < n; i++) {
        const int axis = listed < 0 ? i : fold_onnx__axis(o, axes[i], x->rank), had = x->dim[axis];
        const double scale = has_lengths ? told[i] / had : told[i], length = scale * had;
        if (has_lengths && (!i || (keeps == 1 ? scale < best : scale > best)))
            best = scale;
        r->scale[axis] = (float)scale;
        r->made[axis] = fold_onnx__near(has_lengths ? told[i] : floor((double)r->scale[axis] * had));
        if (!(scale > 0) || !isfinite(r->scale[axis]) || r->made[axis] < 1)
            return FOLD_ONNX__REFUSE(o, "axis %d by a scale of %g, of %d values", axis, scale, had);
        if (r->places == FOLD_ONNX__CORNERS && fabs(length - r->made[axis]) > 1e-5 * length)
            return FOLD_ONNX__REFUSE(o, "align_corners and a length of %g, on which runtimes disagree",
                                     length);
    }
    for (int i = 0; i < n && keeps && has_lengths; i++) {
        const int axis = listed < 0 ? i : fold_onnx__axis(o, axes[i], x->rank);
        r->scale[axis] = (float)best;
        r->made[axis] = fold_onnx__near(floor(best * x->dim[axis] + 0.5));
    }
    return !o->failed;
}

/* Interpolates one axis after another, by a product with its weights. */
static void fold_onnx__record_resize(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    const fold_onnx__dims *from = &o->values[s->in[0]].dims, *to = &o->values[s->out[0]].dims;
    fold_node x = in[0];
    for (int k = 0; k < from->rank; k++) {
        const int n = from->dim[k], made = to->dim[k], outer = fold_onnx__product(to, 0, k),
                  inner = fold_onnx__product(from, k + 1, from->rank);
        if (fold_param_is_null(s->param[k]))
            continue;
        if (inner > 1)
            x = fold_transpose(o->f, fold_onnx__reshape(o->f, x, fold_shape3(outer, n, inner)), 1, 2);
        x = fold_onnx__reshape(o->f, x, fold_shape2(outer * inner, n));
        const fold_node weights = fold_use(o->f, s->param[k]);
        x = fold_matmul(o->f, x, fold_reshape(o->f, weights, fold_shape2(n, made)));
        if (inner > 1)
            x = fold_transpose(o->f, fold_reshape(o->f, x, fold_shape3(outer, inner, made)), 1, 2);
    }
    out[0] = x;
}

static int fold_onnx__open_resize(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const modes[3] = { "nearest", "linear", "cubic" };
    static const char *const places[6] = { "half_pixel", "pytorch_half_pixel",   "align_corners",
                                           "asymmetric", "tf_half_pixel_for_nn", "half_pixel_symmetric" };
    static const char *const rounds[4] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil" };
    const fold_onnx__dims *x = &from->dims;
    const int is_old = o->version < 11 || !strcmp(o->node.type, "Upsample");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_resize, 1);
    fold_onnx__resize r;
    memset(&r, 0, sizeof r);
    r.mode = fold_onnx__word(o, "mode", modes, 3);
    r.places =
        is_old ? FOLD_ONNX__ASYMMETRIC : fold_onnx__word(o, "coordinate_transformation_mode", places, 6);
    r.rounds = is_old ? FOLD_ONNX__ROUND_DOWN : fold_onnx__word(o, "nearest_mode", rounds, 4);
    r.slope = fold_onnx__real(o, "cubic_coeff_a", -0.75f);
    r.is_smooth = fold_onnx__whole(o, "antialias", 0) != 0;
    r.leaves_out = r.is_smooth || fold_onnx__whole(o, "exclude_outside", 0);
    if (!fold_onnx__read_scales(o, &r, x))
        return 0;
    fold_onnx__view view = fold_onnx__view_of(o, x);
    for (int k = 0; k < x->rank && !o->failed; k++) {
        const int n = x->dim[k], *had = view.at[k], made = view.dims.dim[k] = r.made[k];
        if (r.mode != FOLD_ONNX__BY_NEAREST) {
            if ((made != n || r.scale[k] != 1) && fold_onnx__size(o, &view.dims))
                fold_onnx__interpolation(o, &r, n, made, r.scale[k], &s.param[k]);
            continue;
        }
        if (o->version < 11 && r.scale[k] < 1)
            r.rounds = FOLD_ONNX__ROUND_UP;
        int *at = view.at[k] = FOLD_ONNX__SCRATCH(o, int, made);
        for (int i = 0; at && i < made; i++)
            at[i] = had[fold_onnx__nearest_of(&r, fold_onnx__place_of(&r, i, n, made, r.scale[k]), n)];
    }
    if (r.mode == FOLD_ONNX__BY_NEAREST)
        return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
    return fold_onnx__reads(o, &s, 0, o->node.in[0], NULL, fold_shape1(1)) &&
           fold_onnx__makes(o, &s, 0, o->node.out[0], &view.dims);
}

/* ---- recurrent layers ------------------------------------------------------------------------- */

struct fold_onnx__layer {
    int steps, batch, width, hidden, ways;
    int is_lstm, reverse, resets_late, peeps, batch_first;
    int gates, is_relu; /* gates 1: an RNN; is_relu: with relu, not tanh */
};
enum { FOLD_ONNX__PER_WAY = 7 }; /* parameters of each direction */

/* Gate k, in ONNX's order i o f c, of which c uses tanh. With peepholes, gates read the cell state. */
static fold_node fold_onnx__lstm_gate(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param,
                                      fold_node gates, fold_node c, int k)
{
    const fold_node gate = fold_onnx__part(f, gates, k * l->hidden, l->hidden);
    return !l->peeps ? gate : fold_sigmoid(f, fold_add(f, gate, fold_mul(f, fold_use(f, param[4 + k]), c)));
}

static void fold_onnx__lstm_step(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param, fold_node x,
                                 fold_node *state)
{
    const int n = l->hidden; /* x and h have separate biases, which train separately */
    const fold_node seen = fold_linear(f, x, param[0], param[1]);
    const fold_node all = fold_add(f, seen, fold_linear(f, state[0], param[2], param[3]));
    const fold_node update = fold_tanh(f, fold_onnx__part(f, all, 3 * n, n)),
                    gates = l->peeps ? all : fold_sigmoid(f, fold_onnx__part(f, all, 0, 3 * n)),
                    in = fold_onnx__lstm_gate(f, l, param, gates, state[1], 0),
                    keep = fold_onnx__lstm_gate(f, l, param, gates, state[1], 2);
    const fold_node kept = fold_mul(f, keep, state[1]);
    state[1] = fold_add(f, kept, fold_mul(f, in, update));
    const fold_node out = fold_onnx__lstm_gate(f, l, param, gates, state[1], 1);
    state[0] = fold_mul(f, out, fold_tanh(f, state[1]));
}

/* ONNX's order of gates is z r h. The reset is applied after the product with h, as in PyTorch, or before. */
static void fold_onnx__gru_step(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param, fold_node x,
                                fold_node *state)
{
    const int n = l->hidden;
    const fold_node h = state[0], a = fold_linear(f, x, param[0], param[1]),
                    b = fold_linear(f, h, param[2], param[3]);
    const fold_node of_x = fold_onnx__part(f, a, 0, 2 * n), of_h = fold_onnx__part(f, b, 0, 2 * n);
    const fold_node gates = fold_sigmoid(f, fold_add(f, of_x, of_h));
    const fold_node reset = fold_onnx__part(f, gates, n, n),
                    seen = l->resets_late ? fold_mul(f, reset, fold_onnx__part(f, b, 2 * n, n))
                                          : fold_linear(f, fold_mul(f, reset, h), param[4], param[5]),
                    fresh = fold_tanh(f, fold_add(f, fold_onnx__part(f, a, 2 * n, n), seen));
    const fold_node update = fold_onnx__part(f, gates, 0, n);
    state[0] = fold_add(f, fresh, fold_mul(f, update, fold_sub(f, h, fresh)));
}

static void fold_onnx__rnn_step(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param, fold_node x,
                                fold_node *state)
{
    const fold_node seen = fold_linear(f, x, param[0], param[1]);
    const fold_node all = fold_add(f, seen, fold_linear(f, state[0], param[2], param[3]));
    state[0] = l->is_relu ? fold_relu(f, all) : fold_tanh(f, all);
}

/* Each direction of each sequence of a batch is a separate chain of calls. */
static void fold_onnx__record_recurrent(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                        fold_node *out)
{
    const fold_onnx__layer *l = s->layer;
    const int n = l->hidden, states = 1 + l->is_lstm, chains = l->batch * l->ways;
    fold_node *y = s->nodes + s->n_in + FOLD_ONNX__OUTS, *last = y + l->steps * chains, state[2];
    for (int chain = 0; chain < chains; chain++) {
        const int b = chain / l->ways, way = chain % l->ways,
                  place = l->batch_first ? chain : way * l->batch + b;
        for (int i = 0; i < states; i++)
            state[i] = !s->in[1 + i] ? fold_zeros(o->f, fold_shape1(n))
                                     : fold_onnx__part(o->f, in[1 + i], place * n, n);
        for (int t = 0; t < l->steps; t++) {
            const int at = way || l->reverse ? l->steps - 1 - t : t;
            const int row = l->batch_first ? b * l->steps + at : at * l->batch + b;
            const fold_node x = fold_onnx__part(o->f, in[0], row * l->width, l->width);
            (l->gates == 4   ? fold_onnx__lstm_step
             : l->gates == 3 ? fold_onnx__gru_step
                             : fold_onnx__rnn_step)(o->f, l, s->param + FOLD_ONNX__PER_WAY * way, x, state);
            y[l->batch_first ? row * l->ways + way : (at * l->ways + way) * l->batch + b] = state[0];
        }
        for (int i = 0; i < states; i++)
            last[i * chains + place] = state[i];
    }
    for (int i = 0; i <= states; i++) {
        const int parts = i ? chains : l->steps * chains;
        const fold_node *part = i ? last + (i - 1) * chains : y;
        out[i] = parts == 1 ? part[0] : fold_concat(o->f, part, parts, 0);
    }
}

/* Plans the weight and the bias of some gates, which read x or h, from parts of the file's tensors. */
typedef struct fold_onnx__gates {
    int slot, reads_h, from, count;
} fold_onnx__gates;
static void fold_onnx__gate_params(fold_onnx *o, fold_onnx__step *s, int way, const fold_onnx__gates *gates)
{
    static const int order[3] = { 0, 2, 1 };
    const int n = s->layer->hidden, ways = s->layer->ways, rows = gates->reads_h ? n : s->layer->width,
              all = s->layer->gates * n, first = gates->from * n, columns = gates->count * n;
    const fold_onnx__dims whole = { 3, { ways, all, rows } }, biases = { 1, { ways * 2 * all } };
    fold_param *param = &s->param[FOLD_ONNX__PER_WAY * way + gates->slot];
    fold_onnx__view view = fold_onnx__view_of(o, &whole);
    fold_onnx__take_axis(o, &view, 0, way, 1, 1);
    fold_onnx__take_axis(o, &view, 1, first, 1, columns);
    view = fold_onnx__permuted(&view, order);
    fold_onnx__weigh_alone(o, fold_onnx__in(o, 1 + gates->reads_h), &view, fold_shape2(rows, columns),
                           FOLD_FOR_LINEAR, param);
    if (!fold_onnx__has_in(o, 3))
        return;
    view = fold_onnx__view_of(o, &biases);
    fold_onnx__take_axis(o, &view, 0, (2 * way + gates->reads_h) * all + first, 1, columns);
    fold_onnx__weigh_alone(o, fold_onnx__in(o, 3), &view, fold_shape1(columns), 0, param + 1);
}

static void fold_onnx__recurrent_params(fold_onnx *o, fold_onnx__step *s)
{
    static const fold_onnx__gates lstm[2] = { { 0, 0, 0, 4 }, { 2, 1, 0, 4 } },
                                  rnn[2] = { { 0, 0, 0, 1 }, { 2, 1, 0, 1 } },
                                  late[2] = { { 0, 0, 0, 3 }, { 2, 1, 0, 3 } },
                                  early[3] = { { 0, 0, 0, 3 }, { 2, 1, 0, 2 }, { 4, 1, 2, 1 } };
    const fold_onnx__layer *l = s->layer;
    const fold_onnx__gates *gates = l->is_lstm ? lstm : l->gates == 1 ? rnn : l->resets_late ? late : early;
    for (int way = 0; way < l->ways && !o->failed; way++) {
        for (int i = 0; i < 2 + (gates == early); i++)
            fold_onnx__gate_params(o, s, way, &gates[i]);
        for (int k = 0; k < 3 && l->peeps; k++) {
            const fold_onnx__dims all = { 1, { fold_onnx__in(o, 7)->count } };
            fold_onnx__view view = fold_onnx__view_of(o, &all);
            fold_onnx__take_axis(o, &view, 0, (3 * way + k) * l->hidden, 1, l->hidden);
            fold_onnx__weigh_alone(o, fold_onnx__in(o, 7), &view, fold_shape1(l->hidden), 0,
                                   &s->param[FOLD_ONNX__PER_WAY * way + 4 + k]);
        }
    }
}

static int fold_onnx__recurrent_fits(fold_onnx *o, const fold_onnx__layer *l)
{
    const int n = l->hidden, per_way = l->gates == 1 ? 1 : l->gates - 1;
    const long long weights = (long long)l->ways * l->gates * n, states = (long long)l->ways * l->batch * n;
    const long long counts[8] = { 0,      weights * l->width, weights * n, 2 * weights, l->batch, states,
                                  states, 3ll * l->ways * n };
    fold_onnx__field attribute, field;
    for (int i = 1; i < o->node.n_in; i++) {
        const fold_onnx__value *value = fold_onnx__in(o, i);
        if (!fold_onnx__has_in(o, i))
            continue;
        if (value->count != counts[i])
            return FOLD_ONNX__REFUSE(o, "the shape of '%.60s' does not match the others", value->name);
        if (i != 5 && i != 6 && value->origin != FOLD_ONNX__FIXED)
            return FOLD_ONNX__REFUSE(o, "'%.60s' is not constant", value->name);
        for (int k = 0; i == 4 && k < l->batch; k++)
            if (fold_onnx__number(value, k) != l->steps)
                return FOLD_ONNX__REFUSE(o, "sequences of different lengths");
    }
    if (fold_onnx__whole(o, "input_forget", 0))
        return FOLD_ONNX__REFUSE(o, "input_forget");
    if (!fold_onnx__attribute(o, "activations", -9, &attribute))
        return 1;
    for (int i = 0; fold_onnx__next_of(o, &attribute.bytes, 9, &field); i++)
        if (!fold_onnx__is(field.bytes, i % per_way || (per_way == 1 && !l->is_relu) ? "Tanh"
                                        : per_way == 1                               ? "Relu"
                                                                                     : "Sigmoid"))
            return FOLD_ONNX__REFUSE(o, "activations other than Sigmoid and Tanh; of RNN, Tanh or Relu");
    return !o->failed;
}

static int fold_onnx__open_recurrent(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const directions[3] = { "forward", "reverse", "bidirectional" };
    const fold_onnx__dims *x = &from->dims;
    fold_onnx__layer *l = FOLD_ONNX__KEPT(o, fold_onnx__layer, 1);
    fold_onnx__field words, word;
    if (!l)
        return 0;
    l->batch_first = fold_onnx__whole(o, "layout", 0) == 1;
    l->steps = x->dim[l->batch_first];
    l->batch = x->dim[!l->batch_first];
    l->width = x->dim[2];
    l->hidden = fold_onnx__whole(o, "hidden_size", 0);
    const int direction = fold_onnx__word(o, "direction", directions, 3);
    l->ways = direction == 2 ? 2 : 1;
    l->reverse = direction == 1;
    l->is_lstm = !strcmp(o->node.type, "LSTM");
    l->gates = l->is_lstm ? 4 : !strcmp(o->node.type, "GRU") ? 3 : 1;
    l->is_relu = fold_onnx__attribute(o, "activations", -9, &words) &&
                 fold_onnx__field_of(o, words.bytes, 9, &word) && fold_onnx__is(word.bytes, "Relu");
    l->resets_late = fold_onnx__whole(o, "linear_before_reset", 0) != 0;
    l->peeps = fold_onnx__has_in(o, 7);
    const int steps = l->steps, batch = l->batch, ways = l->ways, n = l->hidden;
    const fold_onnx__dims y[2] = { { 4, { steps, ways, batch, n } }, { 4, { batch, steps, ways, n } } },
                          state[2] = { { 3, { ways, batch, n } }, { 3, { batch, ways, n } } };
    if (x->rank != 3 || n < 1 || n > 65536)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d, %d hidden values", x->rank, n);
    if ((long long)steps * batch > 1024)
        return FOLD_ONNX__REFUSE(o, "%d steps of %d sequences, of at most 1024 together", steps, batch);
    if (!fold_onnx__recurrent_fits(o, l))
        return 0;
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_recurrent, 3);
    s.nodes = FOLD_ONNX__KEPT(o, fold_node, s.n_in + FOLD_ONNX__OUTS + (steps + 2) * batch * ways);
    s.layer = l;
    fold_onnx__recurrent_params(o, &s);
    for (int i = 0, input = 0; i < 3; input = 5 + i++) /* x, h, c */
        if (fold_onnx__has_in(o, input))
            fold_onnx__reads_shape(o, &s, i, o->node.in[input], fold_shape1(fold_onnx__in(o, input)->count));
    for (int i = 1 + l->is_lstm; i > 0; i--)
        if (fold_onnx__has_out(o, i))
            fold_onnx__makes(o, &s, i, o->node.out[i], &state[l->batch_first]);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &y[l->batch_first]);
}

/* ---- the table of ops ------------------------------------------------------------------------- */

#define FOLD_ONNX__AXIS(type, one)                                                                         \
    FOLD_ONNX__OP(type, 1, 1, "axis", fold_onnx__open_softmax, NULL, 0, 0, 0, one, NULL, NULL, NULL, NULL, \
                  NULL)
#define FOLD_ONNX__ONE(type, one, number, flags)                                                        \
    FOLD_ONNX__OP(type, 1, 1, "", fold_onnx__open_elements, number, 0, 0, flags, one, NULL, NULL, NULL, \
                  NULL, NULL)
#define FOLD_ONNX__WITH(type, with, alpha)                                                                  \
    FOLD_ONNX__OP(type, 1, 1, "alpha", fold_onnx__open_elements, NULL, alpha, 0, 0, NULL, NULL, with, NULL, \
                  NULL, NULL)
#define FOLD_ONNX__BETWEEN(type, most, attributes, open, between, alpha, beta)                             \
    FOLD_ONNX__OP(type, 1, most, attributes, open, NULL, alpha, beta, most == 3 ? FOLD_ONNX__INTEGERS : 0, \
                  NULL, NULL, NULL, between, NULL, NULL)
#define FOLD_ONNX__TWO(type, least, most, open, two, with, number, flags) \
    FOLD_ONNX__OP(type, least, most, "", open, number, 0, 0, flags, NULL, two, with, NULL, NULL, NULL)
#define FOLD_ONNX__MANY(type, least, most, two, number, flags) \
    FOLD_ONNX__TWO(type, least, most, fold_onnx__open_elements, two, NULL, number, flags)
#define FOLD_ONNX__TEST(type, inputs, number) \
    FOLD_ONNX__MANY(type, inputs, inputs, NULL, number, FOLD_ONNX__INTEGERS | FOLD_ONNX__TRUTH)
#define FOLD_ONNX__REDUCE(type, before, along, after, flags)                                            \
    FOLD_ONNX__OP(type, 1, 2, "axes keepdims noop_with_empty_axes", fold_onnx__open_reduce, NULL, 0, 0, \
                  flags, before, NULL, NULL, NULL, along, after)
#define FOLD_ONNX__GLOBAL(type, along) \
    FOLD_ONNX__OP(type, 1, 1, "", fold_onnx__open_reduce, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, along, NULL)
#define FOLD_ONNX__MOVE(type, least, most, attributes, open) \
    FOLD_ONNX__ROW(type, least, most, attributes, open, NULL, FOLD_ONNX__INTEGERS)
#define FOLD_ONNX__OTHER(type, least, most, words, open) \
    FOLD_ONNX__ROW(type, least, most, words, open, NULL, 0)
enum { FOLD_ONNX__ANY = 1 << 20 }; /* any number of inputs, all required */

/* How opsets up to 25 changed the way these ops are written, or what they compute. A number is the opset that
   made the change. Not listed: ops that never changed, and versions that only allow more types or negative
   axes.
     Softmax, LogSoftmax      before 13 all axes from `axis` (default 1) on are one; then only `axis` (-1)
     BatchNormalization       7, 8: `spatial`, which must be 1. 7 to 13: more than one output means training;
                              then `training_mode`. Before 7: refused
     Clip                     before 11 bounds are attributes, then inputs
     Pad                      before 11 pads and value are attributes, then inputs; 18: axes; 19: wrap
     Slice                    before 10 starts, ends and axes are attributes, then inputs, with steps
     Squeeze, Unsqueeze       before 13 axes are an attribute, then an input
     Split                    before 13 sizes are an attribute, then an input; 18: num_outputs, unequal parts
     Reduce...                before 18 (ReduceSum 13) axes are an attribute, then an input, and
                              noop_with_empty_axes. ReduceMax, ReduceMin of booleans (20): refused
     Reshape                  before 5 the shape is an attribute; 14: allowzero
     ArgMax                   12: select_last_index
     Pow                      12: the exponent may have a different type; the result has the base's
     Max, Min, Clip           12: integers
     QuantizeLinear,          13: axis; 19: types of 8-bit floats, which are refused; 21: block_size, 16 bits,
     DequantizeLinear         output_dtype; 23: precision. Sums are in float. 4 bits are refused
     Shape                    15: start, end
     Constant                 12: value_int, value_ints, value_float, value_floats
     Cast                     before 6 `to` is text: refused; 19: saturate, 24: round_mode, both for types
                              that are not supported
     Dropout                  before 7 is_test; 12: ratio and training_mode are inputs. Training is refused
     Resize                   10: scales are the second input, as in Upsample; then the third, sizes the
                              fourth; 18: axes, antialias, keep_aspect_ratio_policy; 19: half_pixel_symmetric
     Upsample                 before 9 scales are an attribute, before 7 there are two: refused
     GroupNormalization       before 21 gains and biases are per group, then per channel
     TopK                     before 10 k is an attribute, then an input; 11: largest
     LpNormalization          22: a vector of zeros stays as it is; here always
     AveragePool, MaxPool     7: count_include_pad; 8: indices, 10 (19): dilations, which are refused;
                              10: ceil_mode
     PRelu                    before 7 slopes are per channel: only a single one is supported
     Selu                     before 6 the defaults of alpha and gamma have 5 digits
     Tile                     before 6 a count and an axis are inputs: refused
     GRU, LSTM, RNN           14: layout
     Gemm                     11: C may be left out
     If                       refused unless the condition is known when the file is opened
   New in: ConstantOfShape, Where, Erf, IsNaN, OneHot, Shrink, Sign 9; Mod, ThresholdedRelu, QuantizeLinear,
   DequantizeLinear 10; CumSum, Range, DepthToSpace's mode, DynamicQuantizeLinear, Round 11; Celu,
   LessOrEqual, GreaterOrEqual, Einsum 12; HardSwish, Trilu 14; LayerNormalization 17; Mish,
   GroupNormalization 18; Gelu 20; RMSNormalization 23; Swish 24. */
static const fold_onnx__op fold_onnx__ops[] = {
    FOLD_ONNX__ONE("Abs", fold_abs, fold_onnx__abs, FOLD_ONNX__COUNTS),
    FOLD_ONNX__ONE("Exp", fold_exp, fold_onnx__exp, 0),
    FOLD_ONNX__ONE("Ceil", fold_onnx__rounded_up, fold_onnx__ceil, FOLD_ONNX__STOPS),
    FOLD_ONNX__ONE("Cos", fold_cos, fold_onnx__cos, 0),
    FOLD_ONNX__ONE("Floor", fold_floor, fold_onnx__floor, FOLD_ONNX__STOPS),
    FOLD_ONNX__ONE("HardSwish", fold_onnx__hard_swish, NULL, 0),
    FOLD_ONNX__ONE("Mish", fold_onnx__mish, NULL, 0),
    FOLD_ONNX__ONE("Round", NULL, fold_onnx__nearest_whole, FOLD_ONNX__STOPS),
    FOLD_ONNX__ONE("Sign", NULL, fold_onnx__sign, FOLD_ONNX__STOPS | FOLD_ONNX__INTEGERS),
    FOLD_ONNX__ONE("Sin", fold_sin, fold_onnx__sin, 0),
    FOLD_ONNX__ONE("Softsign", fold_onnx__softsign, NULL, 0),
    FOLD_ONNX__ONE("Log", fold_log, fold_onnx__log, 0),
    FOLD_ONNX__ONE("Neg", fold_neg, fold_onnx__neg, FOLD_ONNX__COUNTS),
    FOLD_ONNX__ONE("Relu", fold_relu, NULL, 0),
    FOLD_ONNX__ONE("Sigmoid", fold_sigmoid, NULL, 0),
    FOLD_ONNX__ONE("Softplus", fold_softplus, NULL, 0),
    FOLD_ONNX__ONE("Sqrt", fold_sqrt, fold_onnx__sqrt, 0),
    FOLD_ONNX__ONE("Tanh", fold_tanh, NULL, 0),
    FOLD_ONNX__ONE("Acos", NULL, fold_onnx__acos, 0),
    FOLD_ONNX__ONE("Asin", NULL, fold_onnx__asin, 0),
    FOLD_ONNX__ONE("Atan", NULL, fold_onnx__atan, 0),
    FOLD_ONNX__ONE("Tan", fold_onnx__tan, NULL, 0),
    FOLD_ONNX__ONE("Erf", NULL, fold_onnx__erf, 0),
    FOLD_ONNX__ONE("Reciprocal", fold_onnx__one_over, fold_onnx__reciprocal, 0),
    FOLD_ONNX__WITH("Elu", fold_elu, 1),
    FOLD_ONNX__WITH("LeakyRelu", fold_leaky_relu, 0.01f),
    FOLD_ONNX__WITH("Celu", fold_onnx__celu, 1),
    FOLD_ONNX__WITH("Swish", fold_onnx__swish, 1),
    FOLD_ONNX__WITH("ThresholdedRelu", fold_onnx__thresholded, 1),
    FOLD_ONNX__BETWEEN("HardSigmoid", 1, "alpha beta", fold_onnx__open_elements, fold_onnx__hard_sigmoid,
                       0.2f, 0.5f),
    FOLD_ONNX__BETWEEN("Selu", 1, "alpha gamma", fold_onnx__open_selu, fold_onnx__selu, 1.67326319f,
                       1.05070102f),
    FOLD_ONNX__BETWEEN("Shrink", 1, "bias lambd", fold_onnx__open_shrink, fold_onnx__shrink, 0, 0),
    FOLD_ONNX__TWO("PRelu", 2, 2, fold_onnx__open_prelu, fold_onnx__prelu, NULL, NULL, 0),
    FOLD_ONNX__MANY("Add", 2, 2, fold_add, fold_onnx__add, FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Div", 2, 2, fold_div, fold_onnx__div, FOLD_ONNX__FREEZES | FOLD_ONNX__INTEGERS),
    FOLD_ONNX__MANY("Mul", 2, 2, fold_mul, fold_onnx__mul, FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Sub", 2, 2, fold_sub, fold_onnx__sub, FOLD_ONNX__FREEZES | FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Max", 1, FOLD_ONNX__ANY, fold_maximum, fold_onnx__max, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__MANY("Min", 1, FOLD_ONNX__ANY, fold_minimum, fold_onnx__min, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__TWO("Mean", 1, FOLD_ONNX__ANY, fold_onnx__open_elements, fold_add, fold_onnx__divide_by, NULL,
                   0),
    FOLD_ONNX__MANY("Sum", 1, FOLD_ONNX__ANY, fold_add, fold_onnx__add, FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Where", 3, 3, NULL, NULL, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__TEST("And", 2, fold_onnx__and),
    FOLD_ONNX__TEST("Equal", 2, fold_onnx__equal),
    FOLD_ONNX__TEST("Greater", 2, fold_onnx__greater),
    FOLD_ONNX__TEST("GreaterOrEqual", 2, fold_onnx__greater_equal),
    FOLD_ONNX__TEST("IsNaN", 1, fold_onnx__is_nan),
    FOLD_ONNX__TEST("Less", 2, fold_onnx__less),
    FOLD_ONNX__TEST("LessOrEqual", 2, fold_onnx__less_equal),
    FOLD_ONNX__TEST("Not", 1, fold_onnx__not),
    FOLD_ONNX__TEST("Or", 2, fold_onnx__or),
    FOLD_ONNX__TEST("Xor", 2, fold_onnx__xor),
    FOLD_ONNX__ROW("Mod", 2, 2, "fmod", fold_onnx__open_mod, fold_onnx__mod,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES | FOLD_ONNX__STOPS),
    FOLD_ONNX__ROW("Pow", 2, 2, "", fold_onnx__open_pow, fold_onnx__pow,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES),
    FOLD_ONNX__OTHER("Gelu", 1, 1, "approximate", fold_onnx__open_gelu),
    FOLD_ONNX__BETWEEN("Clip", 3, "min max", fold_onnx__open_clip, fold_clip, 0, 0),
    FOLD_ONNX__MOVE("Cast", 1, 1, "round_mode saturate to", fold_onnx__open_cast),
    FOLD_ONNX__ROW("Concat", 1, FOLD_ONNX__ANY, "axis", fold_onnx__open_concat, NULL,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__EMPTY),
    FOLD_ONNX__MOVE("DepthToSpace", 1, 1, "blocksize mode", fold_onnx__open_blocks),
    FOLD_ONNX__ROW("DequantizeLinear", 2, 3, "axis block_size output_dtype", fold_onnx__open_quantize, NULL,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES),
    FOLD_ONNX__OTHER("DynamicQuantizeLinear", 1, 1, "", fold_onnx__open_dynamic_quantize),
    FOLD_ONNX__ROW("QuantizeLinear", 2, 3, "axis block_size output_dtype precision saturate",
                   fold_onnx__open_quantize, NULL, FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES),
    FOLD_ONNX__MOVE("Dropout", 1, 3, "is_test ratio seed", fold_onnx__open_dropout),
    FOLD_ONNX__MOVE("Expand", 2, 2, "", fold_onnx__open_expand),
    FOLD_ONNX__MOVE("Flatten", 1, 1, "axis", fold_onnx__open_flatten),
    FOLD_ONNX__MOVE("Gather", 2, 2, "axis", fold_onnx__open_gather),
    FOLD_ONNX__MOVE("Identity", 1, 1, "", fold_onnx__open_identity),
    FOLD_ONNX__MOVE("OneHot", 3, 3, "axis", fold_onnx__open_one_hot),
    FOLD_ONNX__MOVE("Pad", 1, 4, "mode pads value", fold_onnx__open_pad),
    FOLD_ONNX__MOVE("Reshape", 1, 2, "shape allowzero", fold_onnx__open_reshape),
    FOLD_ONNX__MOVE("Slice", 1, 5, "starts ends axes", fold_onnx__open_slice),
    FOLD_ONNX__MOVE("SpaceToDepth", 1, 1, "blocksize", fold_onnx__open_blocks),
    FOLD_ONNX__MOVE("Split", 1, 2, "axis split num_outputs", fold_onnx__open_split),
    FOLD_ONNX__MOVE("Squeeze", 1, 2, "axes", fold_onnx__open_squeeze),
    FOLD_ONNX__MOVE("Tile", 2, 2, "", fold_onnx__open_tile),
    FOLD_ONNX__MOVE("Transpose", 1, 1, "perm", fold_onnx__open_transpose),
    FOLD_ONNX__MOVE("TopK", 1, 2, "axis k largest sorted", fold_onnx__open_top),
    FOLD_ONNX__MOVE("Trilu", 1, 2, "upper", fold_onnx__open_trilu),
    FOLD_ONNX__MOVE("Unsqueeze", 1, 2, "axes", fold_onnx__open_unsqueeze),
    FOLD_ONNX__OTHER("Constant", 0, 0, "value value_float value_floats value_int value_ints",
                     fold_onnx__open_constant),
    FOLD_ONNX__ROW("ConstantOfShape", 1, 1, "value", fold_onnx__open_constant_of_shape, NULL,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__EMPTY),
    FOLD_ONNX__MOVE("If", 1, 1, "else_branch then_branch", fold_onnx__open_if),
    FOLD_ONNX__MOVE("Range", 3, 3, "", fold_onnx__open_range),
    FOLD_ONNX__MOVE("Shape", 1, 1, "start end", fold_onnx__open_shape),
    FOLD_ONNX__MOVE("Size", 1, 1, "", fold_onnx__open_size),
    FOLD_ONNX__GLOBAL("GlobalAveragePool", fold_mean),
    FOLD_ONNX__GLOBAL("GlobalMaxPool", fold_amax),
    FOLD_ONNX__REDUCE("ReduceL1", fold_abs, fold_sum, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__REDUCE("ReduceL2", fold_square, fold_sum, fold_sqrt, 0),
    FOLD_ONNX__REDUCE("ReduceLogSum", NULL, fold_sum, fold_log, 0),
    FOLD_ONNX__REDUCE("ReduceLogSumExp", NULL, fold_logsumexp, NULL, 0),
    FOLD_ONNX__REDUCE("ReduceMax", NULL, fold_amax, NULL, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__REDUCE("ReduceMean", NULL, fold_mean, NULL, 0),
    FOLD_ONNX__REDUCE("ReduceMin", NULL, fold_amin, NULL, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__REDUCE("ReduceProd", NULL, fold_prod, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__REDUCE("ReduceSum", NULL, fold_sum, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__REDUCE("ReduceSumSquare", fold_square, fold_sum, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__AXIS("Softmax", fold_softmax),
    FOLD_ONNX__AXIS("LogSoftmax", fold_onnx__log_softmax),
    FOLD_ONNX__MOVE("CumSum", 2, 2, "exclusive reverse", fold_onnx__open_cumsum),
    FOLD_ONNX__OTHER("LpNormalization", 1, 1, "axis p", fold_onnx__open_lp_norm),
    FOLD_ONNX__MOVE("ArgMax", 1, 1, "axis keepdims select_last_index", fold_onnx__open_argmax),
    FOLD_ONNX__MOVE("ArgMin", 1, 1, "axis keepdims select_last_index", fold_onnx__open_argmax),
    FOLD_ONNX__OTHER("Multinomial", 1, 1, "dtype sample_size seed", fold_onnx__open_argmax),
    FOLD_ONNX__MOVE("RandomNormalLike", 1, 1, "dtype mean scale seed", fold_onnx__open_random),
    FOLD_ONNX__OTHER("BatchNormalization", 5, 5, "epsilon momentum spatial training_mode",
                     fold_onnx__open_batch_norm),
    FOLD_ONNX__OTHER("GroupNormalization", 3, 3, "epsilon num_groups stash_type", fold_onnx__open_group_norm),
    FOLD_ONNX__OTHER("InstanceNormalization", 3, 3, "epsilon", fold_onnx__open_group_norm),
    FOLD_ONNX__OTHER("RMSNormalization", 2, 2, "axis epsilon stash_type", fold_onnx__open_layer_norm),
    FOLD_ONNX__OTHER("LayerNormalization", 2, 3, "axis epsilon stash_type", fold_onnx__open_layer_norm),
    FOLD_ONNX__OTHER("Einsum", 1, 2, "equation", fold_onnx__open_einsum),
    FOLD_ONNX__OTHER("Gemm", 2, 3, "alpha beta transA transB", fold_onnx__open_product),
    FOLD_ONNX__OTHER("MatMul", 2, 2, "", fold_onnx__open_product),
    FOLD_ONNX__OTHER("AveragePool", 1, 1,
                     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
                     fold_onnx__open_pool),
    FOLD_ONNX__MOVE("MaxPool", 1, 1, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
                    fold_onnx__open_pool),
    FOLD_ONNX__OTHER("Conv", 2, 3, "auto_pad dilations group kernel_shape pads strides",
                     fold_onnx__open_conv),
    FOLD_ONNX__OTHER("ConvTranspose", 2, 3,
                     "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
                     fold_onnx__open_conv),
    FOLD_ONNX__MOVE("Resize", 1, 4,
                    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
                    "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
                    fold_onnx__open_resize),
    FOLD_ONNX__MOVE("Upsample", 1, 2, "mode scales", fold_onnx__open_resize),
    FOLD_ONNX__ROW("GRU", 3, 6, "activations direction hidden_size layout linear_before_reset",
                   fold_onnx__open_recurrent, NULL, FOLD_ONNX__LEAVES),
    FOLD_ONNX__ROW("RNN", 3, 6, "activations direction hidden_size layout", fold_onnx__open_recurrent, NULL,
                   FOLD_ONNX__LEAVES),
    FOLD_ONNX__ROW("LSTM", 3, 8, "activations direction hidden_size input_forget layout",
                   fold_onnx__open_recurrent, NULL, FOLD_ONNX__LEAVES)
};

#endif /* FOLD_ONNX_IMPLEMENTATION */
