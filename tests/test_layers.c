/* test_layers.c - layers against reference.h, values and gradients, optimisers against double
   precision step by step, initialisers by their statistics, tied parameters, values of other models, random numbers
   and policies.
       cc -O2 -o test_layers tests/test_layers.c -lm && ./test_layers */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include <float.h>
#include "kernel_sets.h"
#ifndef LONGEST_LIST
#define LONGEST_LIST 8
#endif
#define REF_TAPE (20000 + 100 * LONGEST_LIST)
#include "reference.h"

/* ---- parameters in double precision ---------------------------------------------------------- */

enum { MAX_PARAMS = 48, MAX_VALUES = 1 << 16, MAX_PROBES = 600 };

/* A model's parameters as the references see them. */
typedef struct mirror {
    fold_model *m;
    int n, size[MAX_PARAMS];
    double *value[MAX_PARAMS];
    double pool[MAX_VALUES];
} mirror;

static int floats_of(fold_shape s)
{
    int n = 1;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    return n;
}

static void read_values(mirror *p, fold_model *m)
{
    size_t used = 0;
    p->m = m;
    p->n = fold_param_count(m);
    for (int i = 0; i < p->n && CHECK(p->n <= MAX_PARAMS); i++) {
        const fold_param handle = fold_param_at(m, i);
        p->size[i] = floats_of(fold_param_shape(m, handle));
        p->value[i] = p->pool + used;
        used += (size_t)p->size[i];
        if (!CHECK(used <= MAX_VALUES)) return;
        for (int e = 0; e < p->size[i]; e++) p->value[i][e] = (double)fold_param_value(m, handle)[e];
    }
}

static const double *values(const mirror *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (!strcmp(fold_param_name(p->m, fold_param_at(p->m, i)), name)) return p->value[i];
    CHECK_SAYS(0, "there is no parameter '%s'", name);
    return p->pool;
}

/* Random values for all parameters, biases included, so that nothing hides behind a zero. */
static void randomise(fold_model *m, uint64_t seed)
{
    check_random r = { seed };
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_param p = fold_param_at(m, i);
        const size_t n = (size_t)floats_of(fold_param_shape(m, p));
        random_fill(&r, fold_values_write_begin(m, p), n, -0.5f, 0.5f);
        fold_values_write_end(m, p);
    }
}

/* The model's gradients against central differences of a loss computed from the mirror. */
static void compare_grads(mirror *p, double (*loss)(const mirror *p))
{
    const double h = 1e-5;
    for (int i = 0; i < p->n; i++) {
        const fold_param handle = fold_param_at(p->m, i);
        const float *grad = fold_param_grad(p->m, handle);
        const int probes = p->size[i] < MAX_PROBES ? p->size[i] : MAX_PROBES;
        for (int k = 0; k < probes; k++) {
            const int e = probes < MAX_PROBES ? k : (int)((long long)k * 7919 % p->size[i]);
            const double x = p->value[i][e];
            p->value[i][e] = x + h;
            const double above = loss(p);
            p->value[i][e] = x - h;
            const double below = loss(p), want = (above - below) / (2 * h);
            p->value[i][e] = x;
            const char *name = fold_param_name(p->m, handle);
            CHECK_SAYS(fabs((double)grad[e] - want) <= 2e-5 * (1 + fabs(want)),
                       "gradient %d of %s is %.9g, want %.9g", e, name, (double)grad[e], want);
        }
    }
}

/* ---- optimisers ------------------------------------------------------------------------------- */

enum { STEPS = 7, ROWS = 6, WIDTH = 3, DENSE = 20, MOST = 40 };

/* One parameter of the reference: values and the optimiser's two states. */
typedef struct weights {
    double w[MOST], s[MOST], v[MOST], g[MOST];
    int touched[MOST]; /* per value */
} weights;

typedef struct optimiser {
    const char *name;
    double rate, a, b, epsilon, decay;  /* a, b: momentum, rho or the betas */
    int kind;                           /* 0 sgd, 1 adagrad, 2 rmsprop, 3 adam, 4 adamw */
} optimiser;
static const optimiser optimisers[] = {
    { "sgd", 0.1, 0, 0, 0, 0, 0 },                    { "sgd, decay", 0.1, 0, 0, 0, 0.01, 0 },
    { "momentum", 0.1, 0.9, 0, 0, 0, 0 },             { "momentum, decay", 0.1, 0.9, 0, 0, 0.01, 0 },
    { "momentum 1", 0.1, 1, 0, 0, 0, 0 },
    { "adagrad", 0.05, 0, 0, 1e-8, 0, 1 },            { "adagrad, decay", 0.05, 0, 0, 1e-8, 0.01, 1 },
    { "rmsprop", 0.01, 0.9, 0, 1e-8, 0, 2 },          { "rmsprop, decay", 0.01, 0.9, 0, 1e-8, 0.01, 2 },
    { "adam", 0.01, 0.9, 0.999, 1e-8, 0, 3 },         { "adam, decay", 0.01, 0.9, 0.999, 1e-8, 0.01, 3 },
    { "adam, other betas", 0.01, 0.5, 0.9, 0.1, 0, 3 }, { "adamw", 0.01, 0.9, 0.999, 1e-8, 0.01, 4 },
};

static fold_status take_step(fold_model *m, const optimiser *o)
{
    const float rate = (float)o->rate, a = (float)o->a, b = (float)o->b;
    const float epsilon = (float)o->epsilon, decay = (float)o->decay;
    const fold_sgd sgd = { rate, a, decay };
    const fold_adagrad adagrad = { rate, epsilon, decay };
    const fold_rmsprop rmsprop = { rate, a, epsilon, decay };
    const fold_adam adam = { rate, a, b, epsilon, decay, o->kind == 4 };
    switch (o->kind) {
    case 0: return fold_sgd_step(m, &sgd);
    case 1: return fold_adagrad_step(m, &adagrad);
    case 2: return fold_rmsprop_step(m, &rmsprop);
    default: return fold_adam_step(m, &adam);
    }
}

/* One step of the reference for the touched values; `t` counts from 1. */
static void reference_step(const optimiser *o, weights *p, int n, int t, double group_rate,
                           double group_decay)
{
    const double rate = o->rate * group_rate, decay = o->decay * group_decay;
    for (int i = 0; i < n; i++) {
        if (!p->touched[i]) continue;
        double g = p->g[i] + (o->kind == 4 ? 0 : decay * p->w[i]);
        switch (o->kind) {
        case 0:
            p->v[i] = o->a * p->v[i] + g;
            p->w[i] -= rate * p->v[i];
            break;
        case 1:
            p->s[i] += g * g;
            p->w[i] -= rate * g / (sqrt(p->s[i]) + o->epsilon);
            break;
        case 2:
            p->s[i] = o->a * p->s[i] + (1 - o->a) * g * g;
            p->w[i] -= rate * g / (sqrt(p->s[i]) + o->epsilon);
            break;
        default:
            p->v[i] = o->a * p->v[i] + (1 - o->a) * g;
            p->s[i] = o->b * p->s[i] + (1 - o->b) * g * g;
            if (o->kind == 4) p->w[i] -= rate * decay * p->w[i];
            g = p->v[i] / (1 - pow(o->a, t));
            p->w[i] -= rate * g / (sqrt(p->s[i] / (1 - pow(o->b, t))) + o->epsilon);
        }
    }
}

/* What the optimisers are tried on: all that differs in how a parameter is updated. */
enum { PLAIN, GROUPED, FROZEN, BUFFER, TABLE, KINDS };
static const char *const kind_names[KINDS] = { "plain", "grouped", "frozen", "buffer", "table" };
static int size_of_kind(int kind) { return kind == TABLE ? ROWS * WIDTH : DENSE; }

static fold_model *optimised_model(fold_param *p, weights *w)
{
    fold_model *m = fold_model_new(NULL);
    check_random r = { 11 };
    for (int k = 0; k < KINDS; k++) {
        float start[DENSE];
        fold_param_desc d;
        memset(&d, 0, sizeof d);
        memset(&w[k], 0, sizeof w[k]);
        random_fill(&r, start, DENSE, -1, 1);
        for (int i = 0; i < DENSE; i++) w[k].w[i] = (double)start[i];
        d.name = kind_names[k];
        d.shape = k == TABLE ? fold_shape2(ROWS, WIDTH) : fold_shape1(DENSE);
        d.values = start;
        d.uses = k == TABLE ? FOLD_FOR_LOOKUP : 0;
        d.frozen = k == FROZEN;
        d.buffer = k == BUFFER;
        d.rate_set = k == GROUPED ? 3 : 0;
        p[k] = fold_param_new(m, &d);
    }
    fold_model_scale_rates(m, 3, 0.5f, 2);
    CHECK_SAYS(!*fold_model_message(m), "%s", fold_model_message(m));
    return m;
}

/* Records a loss whose gradients are random numbers, and notes them. Two rows of the table are looked up, the
   first of them twice. */
static fold_node random_loss(fold_ctx *f, const fold_param *p, weights *w, check_random *r, int step)
{
    const int row[3] = { step % ROWS, step * step % ROWS, step % ROWS };
    fold_node term[KINDS + 2];
    for (int k = 0; k < KINDS + 2; k++) {
        const int kind = k < TABLE ? k : TABLE, first = k < TABLE ? 0 : row[k - TABLE] * WIDTH;
        const int n = kind == TABLE ? WIDTH : DENSE;
        float c[DENSE];
        random_fill(r, c, DENSE, -1, 1);
        for (int i = 0; i < n; i++) {
            w[kind].g[first + i] += (double)c[i];
            w[kind].touched[first + i] = 1;
        }
        const fold_node x = kind == TABLE ? fold_lookup(f, p[TABLE], row[k - TABLE]) : fold_use(f, p[k]);
        term[k] = fold_dot(f, x, fold_input(f, c, n));
    }
    return fold_sum_n(f, term, KINDS + 2);
}

static void test_optimiser(const optimiser *o)
{
    fold_param p[KINDS];
    weights w[KINDS];
    check_random r = { 5 };
    fold_model *m = optimised_model(p, w);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    for (int step = 1; step <= STEPS; step++) {
        fold_ctx_reset(f);
        const int frozen = step != 4; /* it thaws for one step */
        fold_param_freeze(m, p[FROZEN], frozen);
        CHECK_SAYS(!fold_backward(f, random_loss(f, p, w, &r, step)), "%s", fold_ctx_message(f));
        CHECK_INT(take_step(m, o), FOLD_OK);
        for (int k = 0; k < KINDS; k++) {
            const int n = size_of_kind(k), fixed = k == BUFFER || (k == FROZEN && frozen);
            const int made = k == FROZEN ? 1 : step; /* steps, by which its bias is corrected */
            if (!fixed) reference_step(o, &w[k], n, made, k == GROUPED ? 0.5 : 1, k == GROUPED ? 2 : 1);
            for (int i = 0; i < n; i++) {
                const double got = (double)fold_param_value(m, p[k])[i], want = w[k].w[i];
                const double margin = k == BUFFER || (k == FROZEN && step < 4) ? 0 : 2e-6;
                const char *name = kind_names[k];
                CHECK_SAYS(fabs(got - want) <= margin, "step %d, %s[%d] is %.9g, want %.9g", step, name, i,
                           got, want);
                CHECK_SAYS(fold_param_grad(m, p[k])[i] == 0, "step %d leaves a gradient of %s", step, name);
            }
            memset(w[k].g, 0, sizeof w[k].g);
            memset(w[k].touched, 0, sizeof w[k].touched);
        }
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Each parameter begins with the bias correction of its own first step, whenever it does: as torch.optim, which counts each
   one's steps. Steps of plain SGD leave state and counts as they are, those of momentum begin them anew. */
enum { EARLY, THAWED, SOMETIMES, ADDED, LATE_TABLE, LATE_KINDS, LATE_STEPS = 130 };
static fold_param late_param(fold_model *m, int kind, weights *w)
{
    static const char *const name[LATE_KINDS] = { "early", "thawed", "sometimes", "added", "table" };
    float start[DENSE];
    check_random r = { (uint64_t)kind };
    fold_param_desc d = fold_param_desc_default();
    random_fill(&r, start, DENSE, -1, 1);
    memset(w, 0, sizeof *w);
    for (int i = 0; i < DENSE; i++) w->w[i] = (double)start[i];
    d.name = name[kind];
    d.shape = kind == LATE_TABLE ? fold_shape2(ROWS, WIDTH) : fold_shape1(DENSE);
    d.uses = kind == LATE_TABLE ? FOLD_FOR_LOOKUP : 0;
    d.values = start;
    return fold_param_new(m, &d);
}
static void test_late(const optimiser *o)
{
    static const optimiser sgd = { "sgd", 0.1, 0, 0, 0, 0, 0 }, momentum = { "momentum", 0.1, 0.9, 0, 0, 0, 0 };
    static const int thaws[LATE_KINDS] = { 0, 40, 0, 50, 45 };
    fold_param p[LATE_KINDS];
    weights w[LATE_KINDS];
    int made[LATE_KINDS] = { 0 };
    fold_model *m = fold_model_new(NULL);
    check_random r = { 3 };
    for (int k = 0; k < LATE_KINDS; k++)
        if (k != ADDED) p[k] = late_param(m, k, &w[k]);
    for (int step = 0; step < LATE_STEPS; step++) {
        const optimiser *rule = step >= 70 && step < 75 ? &sgd : step == 100 ? &momentum : o;
        if (step == thaws[ADDED]) p[ADDED] = late_param(m, ADDED, &w[ADDED]);
        for (int k = 0; k < LATE_KINDS; k++) {
            const int frozen = step < thaws[k] || (k == SOMETIMES && step / 10 % 3 == 1), n = k == LATE_TABLE ? ROWS * WIDTH : DENSE;
            if (k == ADDED && step < thaws[ADDED]) continue;
            if (step == 100 || step == 101) memset(w[k].v, 0, sizeof w[k].v), memset(w[k].s, 0, sizeof w[k].s), made[k] = 0;
            fold_param_freeze(m, p[k], frozen);
            float *g = fold_grads_write_begin(m, p[k]);
            for (int i = 0; i < n; i++) {
                const int touched = k != LATE_TABLE || i / WIDTH == step % ROWS;
                w[k].g[i] = touched ? (double)(g[i] = random_float(&r, -1, 1)) : 0;
                w[k].touched[i] = touched;
            }
            fold_grads_write_end(m, p[k]);
            if (frozen) continue;
            made[k] += rule != &sgd;
            if (rule != &sgd) reference_step(rule, &w[k], n, made[k], 1, 1);
            else for (int i = 0; i < n; i++) w[k].w[i] -= sgd.rate * w[k].g[i];
        }
        CHECK_INT(take_step(m, rule), FOLD_OK);
        for (int k = 0; k < LATE_KINDS; k++)
            for (int i = 0; i < (k == LATE_TABLE ? ROWS * WIDTH : DENSE) && !(k == ADDED && step < thaws[ADDED]); i++) {
                const double got = (double)fold_param_value(m, p[k])[i];
                CHECK_SAYS(fabs(got - w[k].w[i]) <= 3e-7, "step %d, %s[%d] is %.9g, want %.9g", step, fold_param_name(m, p[k]), i, got, w[k].w[i]);
                w[k].w[i] = got; /* the next step from the same value: roundings do not add up */
            }
    }
    fold_model_free(m);
}

static void test_clip(void)
{
    fold_param p[KINDS];
    weights w[KINDS];
    check_random r = { 6 };
    fold_model *m = optimised_model(p, w);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    CHECK_INT(fold_backward(f, random_loss(f, p, w, &r, 2)), FOLD_OK);
    double norm = 0;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < size_of_kind(k) && k != FROZEN && k != BUFFER; i++) norm += w[k].g[i] * w[k].g[i];
    norm = sqrt(norm);
    CHECK_NEAR(fold_grads_clip(m, 100), norm, 1e-5 * norm); /* within the limit: nothing changes */
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < KINDS; k++)
            for (int i = 0; i < size_of_kind(k) && k != FROZEN && k != BUFFER; i++)
                CHECK_NEAR(fold_param_grad(m, p[k])[i], w[k].g[i] * (pass ? 0.25 / norm : 1), 1e-5);
        if (!pass) CHECK_NEAR(fold_grads_clip(m, 0.25f), norm, 1e-5 * norm);
    }
    CHECK_NEAR(fold_grads_clip(m, 0.25f), 0.25, 1e-6);
    fold_grads_clear(m);
    CHECK(fold_grads_clip(m, 1) == 0);
    int count;
    const float *grads = fold_model_grads(m, &count);
    for (int i = 0; i < count; i++) CHECK(grads[i] == 0);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Far out of float's range when squared, either way. */
static void test_clip_range(void)
{
    static const float sizes[] = { 1e-30f, 1e-25f, 1e25f, 1e30f };
    fold_model *m = fold_model_new(NULL);
    const fold_param p = fold_bias_new(m, "p", 2000);
    float *g = fold_grads_write_begin(m, p);
    fold_grads_write_end(m, p);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const double norm = (double)sizes[s] * sqrt(2000.0);
        for (int i = 0; i < 2000; i++) g[i] = i & 1 ? sizes[s] : -sizes[s];
        CHECK_NEAR(fold_grads_clip(m, sizes[s]), norm, 1e-5 * norm);
        CHECK_NEAR(fold_grads_clip(m, sizes[s]), sizes[s], 1e-5 * (double)sizes[s]);
    }
    for (int i = 0; i < 2000; i++) g[i] = i == 1999 ? NAN : 1; /* not finite: all stay as they are */
    CHECK(isnan(fold_grads_clip(m, 1)) && fold_param_grad(m, p)[0] == 1);
    g[1999] = -INFINITY;
    CHECK(isinf(fold_grads_clip(m, 1)) && fold_param_grad(m, p)[0] == 1 && g[1999] == -INFINITY);
    fold_model_free(m);
}

/* ---- optimisers: the same bits by every instruction set, and packed weights that follow ----------- */

enum { SPREAD = 15 };
static const struct { int rows, columns; unsigned uses; } spread[SPREAD] = {
    { 1, 0, 0 }, { 7, 0, 0 }, { 16, 0, 0 }, { 33, 0, 0 }, { 37, 45, FOLD_FOR_LINEAR }, { 40, 5, FOLD_FOR_LINEAR },
    { 5, 40, FOLD_FOR_LINEAR }, { 150, 70, FOLD_FOR_LINEAR }, { 65, 100, FOLD_FOR_LINEAR_T },
    { 30, 1, FOLD_FOR_LOOKUP },
    { 30, 3, FOLD_FOR_LOOKUP }, { 30, 17, FOLD_FOR_LOOKUP }, { 30, 30, FOLD_FOR_LOOKUP }, { 30, 48, FOLD_FOR_LOOKUP },
    { 33, 19, FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T },
};

static fold_model *spread_model(const char *isa, fold_param *p)
{
    fold_model *m = kernel_set_model(isa);
    for (int i = 0; m && i < SPREAD; i++) {
        char name[8];
        fold_param_desc d;
        memset(&d, 0, sizeof d);
        snprintf(name, sizeof name, "%d", i);
        d.name = name;
        d.shape = spread[i].columns ? fold_shape2(spread[i].rows, spread[i].columns) : fold_shape1(spread[i].rows);
        d.init = FOLD_INIT_UNIFORM;
        d.init_scale = 1;
        d.uses = spread[i].uses;
        d.rate_set = i % 3;
        p[i] = fold_param_new(m, &d);
    }
    if (m) fold_model_scale_rates(m, 2, 0.5f, 2);
    return m;
}

static float spread_value(check_random *r)
{
    static const float special[] = { 0, -0.0f, 1e-20f, -3e-20f, 1e20f, -1e-30f };
    return random_below(r, 20) ? random_float(r, -1, 1) : special[random_below(r, 6)];
}

/* Gradients: dense ones written in place, those of tables by lookups of a few rows. */
static void spread_gradients(fold_model *m, fold_ctx *f, const fold_param *p, check_random *r)
{
    fold_node term[SPREAD * 4];
    int terms = 0;
    fold_ctx_reset(f);
    for (int i = 0; i < SPREAD; i++) {
        float *g = fold_grads_write_begin(m, p[i]), c[64];
        const int n = spread[i].columns ? spread[i].columns : 1, lookup = (spread[i].uses & FOLD_FOR_LOOKUP) != 0;
        for (int e = 0; e < spread[i].rows * n && !lookup; e++) g[e] = spread_value(r);
        if (!lookup) fold_grads_write_end(m, p[i]);
        for (int k = 0; k < 4 && lookup; k++) {
            for (int e = 0; e < n; e++) c[e] = spread_value(r);
            const fold_node x = fold_lookup(f, p[i], (k * k * 7 + random_below(r, 3)) % spread[i].rows);
            term[terms++] = fold_dot(f, x, fold_input(f, c, n));
        }
    }
    CHECK_SAYS(!fold_backward(f, fold_sum_n(f, term, terms)), "%s", fold_ctx_message(f));
}

/* Products with a model's weights, forward and to their inputs: what its packs give. */
static size_t spread_products(fold_model *m, const fold_param *p, float *out)
{
    const fold_param none = { 0, 0 };
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    check_random r = { 3 };
    size_t used = 0;
    for (int i = 0; i < SPREAD; i++)
        for (unsigned use = FOLD_FOR_LINEAR; use <= FOLD_FOR_LINEAR_T; use *= 2) {
            const int t = use == FOLD_FOR_LINEAR_T, inputs = t ? spread[i].columns : spread[i].rows;
            const int outputs = t ? spread[i].rows : spread[i].columns;
            float x[256];
            if (!(spread[i].uses & use)) continue;
            random_fill(&r, x, (size_t)inputs, -1, 1);
            const fold_node in = fold_input(f, x, inputs), h = fold_tanh(f, in);
            const fold_node y = t ? fold_linear_t(f, h, p[i], none) : fold_linear(f, h, p[i], none);
            fold_keep(f, y);
            fold_keep_grad(f, h);
            CHECK_SAYS(!fold_backward(f, fold_dot(f, y, y)), "%s", fold_ctx_message(f));
            memcpy(out + used, fold_value(f, y), (size_t)outputs * sizeof *out);
            used += (size_t)outputs;
            memcpy(out + used, fold_grad(f, h), (size_t)inputs * sizeof *out);
            used += (size_t)inputs;
        }
    fold_grads_clear(m);
    fold_ctx_free(f);
    return used;
}

/* A model that never took a step, of the same values, computes the same. */
static void compare_packs(fold_model *m, const fold_param *p, const char *isa)
{
    static float got[4096], want[4096];
    fold_param q[SPREAD];
    const fold_param all = { 0, 0 };
    fold_model *fresh = spread_model(isa, q);
    int count;
    const float *values = fold_model_values(m, &count);
    memcpy(fold_values_write_begin(fresh, all), values, (size_t)count * sizeof *values);
    fold_values_write_end(fresh, all);
    const size_t n = spread_products(m, p, got);
    CHECK(n > 500 && n <= 4096 && n == spread_products(fresh, q, want));
    CHECK_BITS(got, want, n);
    fold_model_free(fresh);
}

/* The rules have no fused operations: even the plain portable kernels agree. The norm of gradients has. */
#ifdef FOLD_REPRODUCIBLE
enum { FUSED_PORTABLE = 1 };
#else
enum { FUSED_PORTABLE = 0 };
#endif
static void test_same_bits(const optimiser *o, int clip)
{
    static float first[1 << 16];
    size_t had = 0;
    int count;
    int tried = 0;
    for (int k = 0; k < KERNEL_SETS; k++) {
        fold_param p[SPREAD];
        check_random r = { 17 };
        fold_ctx_desc training = fold_ctx_desc_default();
        fold_model *m = clip && !FUSED_PORTABLE && !k ? NULL : spread_model(kernel_set[k], p);
        if (!m) continue; /* not on this machine */
        training.training = 1;
        fold_ctx *f = fold_ctx_new(m, &training);
        for (int step = 0; step < STEPS; step++) {
            spread_gradients(m, f, p, &r);
            if (clip) CHECK(fold_grads_clip(m, 2) > 2);
            CHECK_INT(take_step(m, o), FOLD_OK);
            if (step == 3) compare_packs(m, p, kernel_set[k]);
        }
        const float *values = fold_model_values(m, &count), *grads = fold_model_grads(m, NULL);
        for (int i = 0; i < count; i++) CHECK(grads[i] == 0);
        if (!had) memcpy(first, values, (size_t)count * sizeof *values);
        had = (size_t)count;
        CHECK((size_t)count < sizeof first / sizeof *first);
        CHECK_BITS(values, first, count);
        compare_packs(m, p, kernel_set[k]);
        tried++;
        fold_ctx_free(f);
        fold_model_free(m);
    }
    CHECK(tried > 0 || clip);
}
static void test_clip_same_bits(void) { test_same_bits(&optimisers[0], 1); }

static void test_defaults(void)
{
    const fold_sgd sgd = fold_sgd_default();
    const fold_adagrad adagrad = fold_adagrad_default();
    const fold_rmsprop rmsprop = fold_rmsprop_default();
    const fold_adam adam = fold_adam_default();
    CHECK(sgd.rate == 0.01f && sgd.momentum == 0 && sgd.decay == 0);
    CHECK(adagrad.rate == 0.05f && adagrad.epsilon == 1e-8f && adagrad.decay == 0);
    CHECK(rmsprop.rate == 0.001f && rmsprop.rho == 0.9f && rmsprop.epsilon == 1e-8f && rmsprop.decay == 0);
    CHECK(adam.rate == 0.001f && adam.beta1 == 0.9f && adam.beta2 == 0.999f && adam.epsilon == 1e-8f);
    CHECK(adam.decay == 0 && !adam.decoupled);
}

/* Settings with nothing but a rate are the defaults with that rate, for weights without a gradient too; the next to
   nothing is what one asks for who wants no momentum. */
enum { ONLY_RATE, DEFAULTS, NEXT_TO_NOTHING };
static fold_status step_with(fold_model *m, int rule, int how)
{
    fold_adagrad adagrad = fold_adagrad_default();
    fold_rmsprop rmsprop = fold_rmsprop_default();
    fold_adam adam = fold_adam_default();
    if (how == ONLY_RATE) {
        memset(&adagrad, 0, sizeof adagrad);
        memset(&rmsprop, 0, sizeof rmsprop);
        memset(&adam, 0, sizeof adam);
    }
    adagrad.rate = rmsprop.rate = adam.rate = 0.01f;
    if (how == NEXT_TO_NOTHING) {
        rmsprop.rho = adam.beta1 = 1e-9f;
        adagrad.epsilon = 1e-30f;
    }
    return rule == 0 ? fold_adagrad_step(m, &adagrad) : rule == 1 ? fold_rmsprop_step(m, &rmsprop) : fold_adam_step(m, &adam);
}

static void settings_with_zeros(void)
{
    enum { N = 40, TURNS = 4 };
    for (int rule = 0; rule < 3; rule++) {
        float end[3][N];
        for (int how = ONLY_RATE; how <= NEXT_TO_NOTHING; how++) {
            fold_model *m = fold_model_new(NULL);
            const fold_param p = fold_bias_new(m, "p", N);
            for (int step = 0; step < TURNS; step++) {
                float *g = fold_grads_write_begin(m, p);
                for (int i = 0; i < N; i++) g[i] = i % 3 && step < TURNS - 1 ? (float)(i - 20) * 0.1f : 0; /* the last step: none */
                fold_grads_write_end(m, p);
                if (step == TURNS - 1) memcpy(end[how], fold_param_value(m, p), sizeof end[how]);
                CHECK_INT(step_with(m, rule, how), FOLD_OK);
            }
            const float *values = fold_param_value(m, p);
            for (int i = 0; i < N; i++) {
                CHECK_SAYS(isfinite(values[i]), "rule %d, settings %d: value %d is %g", rule, how, i, (double)values[i]);
                CHECK_SAYS(i % 3 || values[i] == 0, "rule %d, settings %d: value %d moves without a gradient", rule, how, i);
            }
            if (how == NEXT_TO_NOTHING)
                for (int i = 0; i < N; i++) CHECK_NEAR(values[i], end[how][i], 1e-7); /* no momentum is left */
            memcpy(end[how], values, sizeof end[how]);
            fold_model_free(m);
        }
        CHECK_BITS(end[ONLY_RATE], end[DEFAULTS], N);
    }
}

/* ---- initialisers ------------------------------------------------------------------------------- */

enum { TALL = 120, SHORT = 80 };

typedef struct init_row {
    const char *name;
    fold_init init;
    float scale;
    double mean, deviation;
    int uniform;
} init_row;
static const init_row inits[] = {
    { "zeros", FOLD_INIT_ZEROS, 0, 0, 0, 0 },
    { "constant", FOLD_INIT_CONSTANT, 0.75f, 0.75, 0, 0 },
    { "uniform", FOLD_INIT_UNIFORM, 0.3f, 0, 0.173205080757, 1 },      /* 0.3 / sqrt(3) */
    { "normal", FOLD_INIT_NORMAL, 0.2f, 0, 0.2, 0 },
    { "uniform, scale 0", FOLD_INIT_UNIFORM, 0, 0, 0.577350269190, 1 }, /* that of 1 */
    { "normal, scale 0", FOLD_INIT_NORMAL, 0, 0, 1, 0 },
    { "constant, scale 0", FOLD_INIT_CONSTANT, 0, 0, 0, 0 },
    { "Glorot", FOLD_INIT_GLOROT, 0, 0, 0.1, 1 },                      /* sqrt(6 / 200) / sqrt(3) */
    { "Glorot, gain 2", FOLD_INIT_GLOROT, 2, 0, 0.2, 1 },
    { "He", FOLD_INIT_HE, 0, 0, 0.129099444874, 0 },                   /* sqrt(2 / 120) */
    { "He, gain 0.5", FOLD_INIT_HE, 0.5f, 0, 0.064549722437, 0 },
};

static fold_param initialised(fold_model *m, const char *name, fold_shape shape, fold_init init, float scale)
{
    fold_param_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.shape = shape;
    d.init = init;
    d.init_scale = scale;
    return fold_param_new(m, &d);
}

/* Mean and variance within five deviations of their estimates; uniform values fill their range. */
static void check_statistics(const float *x, int n, const init_row *want)
{
    double mean = 0, variance = 0, largest = 0;
    for (int i = 0; i < n; i++) mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) {
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
        largest = fmax(largest, fabs((double)x[i]));
    }
    const double bound = want->deviation * sqrt(3.0), square = want->deviation * want->deviation;
    CHECK_NEAR(mean, want->mean, 1e-9 + 5 * want->deviation / sqrt((double)n));
    CHECK_NEAR(variance, square, 1e-9 + 5 * square * sqrt(2.0 / n));
    if (want->uniform) CHECK(largest <= bound * (1 + 1e-6) && largest > 0.99 * bound);
}

static void test_init(const init_row *row)
{
    fold_model_desc d = fold_model_desc_default();
    fold_model *m = fold_model_new(&d), *again = fold_model_new(&d);
    d.seed = 1;
    fold_model *other = fold_model_new(&d);
    const fold_shape shape = fold_shape2(TALL, SHORT);
    const fold_param p = initialised(m, "p", shape, row->init, row->scale);
    const fold_param q = initialised(m, "q", shape, row->init, row->scale);
    const fold_param twin = initialised(again, "p", shape, row->init, row->scale);
    const fold_param stranger = initialised(other, "p", shape, row->init, row->scale);
    const size_t bytes = TALL * SHORT * sizeof(float);
    const float *x = fold_param_value(m, p);
    check_statistics(x, TALL * SHORT, row);
    CHECK_BITS(fold_param_value(again, twin), x, TALL * SHORT);
    const int random = row->deviation != 0; /* then another seed or another parameter has other values */
    CHECK_INT(memcmp(fold_param_value(other, stranger), x, bytes) != 0, random);
    CHECK_INT(memcmp(fold_param_value(m, q), x, bytes) != 0, random);
    fold_model_free(m);
    fold_model_free(again);
    fold_model_free(other);
}

static void test_orthogonal(void)
{
    static const int sizes[][2] = { { TALL, SHORT }, { SHORT, TALL }, { SHORT, SHORT }, { 1, 7 }, { 7, 1 } };
    for (int i = 0; i < 10; i++) {
        const int rows = sizes[i / 2][0], columns = sizes[i / 2][1], n = rows < columns ? rows : columns;
        const double gain = i % 2 ? 1.5 : 1;
        fold_model *m = fold_model_new(NULL);
        const fold_shape shape = fold_shape2(rows, columns);
        const fold_param p = initialised(m, "w", shape, FOLD_INIT_ORTHOGONAL, i % 2 ? (float)gain : 0);
        const float *w = fold_param_value(m, p);
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) {
                double dot = 0;
                for (int k = 0; k < rows * columns / n; k++)
                    dot += rows < columns ? (double)w[a * columns + k] * (double)w[b * columns + k]
                                          : (double)w[k * columns + a] * (double)w[k * columns + b];
                dot -= (a == b) * gain * gain;
                CHECK_SAYS(fabs(dot) < 1e-5, "[%d x %d]: vectors %d and %d: %g", rows, columns, a, b, dot);
            }
        fold_model_free(m);
    }
}

/* The shorthands' initial values. */
static void test_shorthands(void)
{
    static const init_row weight = { "", FOLD_INIT_GLOROT, 0, 0, 0.1, 1 };
    static const init_row table = { "", FOLD_INIT_NORMAL, 0, 0, 0.1, 0 };
    fold_model *m = fold_model_new(NULL);
    const fold_param w = fold_weight_new(m, "w", TALL, SHORT), e = fold_table_new(m, "e", TALL, SHORT);
    const fold_param b = fold_bias_new(m, "b", 7), g = fold_gain_new(m, "g", 7);
    check_statistics(fold_param_value(m, w), TALL * SHORT, &weight);
    check_statistics(fold_param_value(m, e), TALL * SHORT, &table);
    for (int i = 0; i < 7; i++) CHECK(fold_param_value(m, b)[i] == 0 && fold_param_value(m, g)[i] == 1);
    CHECK_INT(fold_param_shape(m, g).rank, 1);
    fold_model_free(m);
}

/* ---- the gain of a layer norm ------------------------------------------------------------------------ */

static void norm_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *p = (const fold_param *)user;
    out[0] = fold_layer_norm(f, in[0], p[0], p[1], 0);
}

/* A gain that nobody gave values would make every value the bias: an error where it is recorded, in a cell when it is made.
   Zeros that somebody asked for, or that came from a file, are gains like any others. */
static void test_gain(void)
{
    static const float x[4] = { 1, 2, 3, 6 }, zeros[4] = { 0, 0, 0, 0 };
    for (int inference = 0; inference < 2; inference++)
        for (int eager = 0; eager < 2; eager++) {
            fold_model_desc md = fold_model_desc_default();
            fold_ctx_desc d = fold_ctx_desc_default();
            fold_param_desc pd = fold_param_desc_default();
            md.inference = inference;
            d.eager = eager;
            fold_model *m = fold_model_new(&md);
            fold_param p[2] = { fold_bias_new(m, "forgotten", 4), fold_bias_new(m, "b", 4) };
            pd.name = "constant";
            pd.shape = fold_shape1(4);
            pd.init = FOLD_INIT_CONSTANT;
            const fold_param constant = fold_param_new(m, &pd);
            pd.name = "given";
            pd.init = FOLD_INIT_ZEROS;
            pd.values = zeros;
            const fold_param given = fold_param_new(m, &pd), ones = fold_gain_new(m, "ones", 4);
            fold_ctx *f = fold_ctx_new(m, &d);
            const fold_status want = inference ? FOLD_OK : FOLD_BAD_ARGUMENT;
            fold_layer_norm(f, fold_input(f, x, 4), p[0], p[1], 0);
            CHECK_INT(fold_ctx_status(f), want);
            if (want) CHECK_TEXT(fold_ctx_message(f), "layer_norm: gain 'forgotten' is all zeros");
            fold_cell_desc c = fold_cell_desc_default();
            c.name = "norm";
            c.body = norm_body;
            c.user = p;
            c.user_size = sizeof p;
            c.n_in = c.n_out = 1;
            c.in[0] = fold_shape1(4);
            fold_cell_new(m, &c);
            CHECK_INT(fold_model_status(m), want);
            if (want) CHECK_TEXT(fold_model_message(m), "gain 'forgotten' is all zeros");
            fold_model_clear_error(m);
            fold_ctx_reset(f);
            fold_layer_norm(f, fold_input(f, x, 4), constant, p[1], 0);
            fold_layer_norm(f, fold_input(f, x, 4), given, p[1], 0);
            const fold_node y = fold_layer_norm(f, fold_input(f, x, 4), ones, p[1], 0);
            CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
            CHECK_NEAR(fold_value(f, y)[3], 3 / sqrt(3.5), 1e-4);
            fold_values_write_begin(m, p[0])[3] = 2;
            fold_values_write_end(m, p[0]);
            fold_cell_new(m, &c);
            CHECK_INT(fold_model_status(m), FOLD_OK);
            fold_ctx_free(f);
            fold_model_free(m);
        }
}

/* ---- layers: references ------------------------------------------------------------------------- */

enum { SAMPLES = 5, WORDS = 9, MAX_WIDTH = 24, MAX_CHILDREN = 3, MAX_STEPS = LONGEST_LIST };

/* What the layer under test is, and its sizes. Inputs are rows of a lookup table, so that their gradients are
   compared as well. */
enum { ENCODED = 2 };
typedef struct layer_case layer_case;
typedef struct layer_row {
    const char *name;
    void (*make)(fold_model *m, layer_case *c);
    fold_state (*record)(fold_ctx *f, const layer_case *c, int sample);
    ref_state (*reference)(ref_tape *t, const layer_case *c, int sample); /* h and, if there is one, c */
    int option, has_c;  /* an activation, the number of children, or whether to read in reverse */
} layer_row;

struct layer_case {
    const layer_row *row;
    int inputs, hidden, outputs;
    fold_param words;
    fold_dense dense;
    fold_mlp mlp;
    fold_recurrent recurrent;
    fold_tree_lstm tree;
    fold_child_sum child_sum;
    fold_rnn_stack stack;
    fold_attention attention;
    fold_transformer transformer, layers[ENCODED];
    fold_encoder encoder;
    fold_norm norm;
    fold_conv conv;
    float weight_h[SAMPLES][MAX_WIDTH], weight_c[SAMPLES][MAX_WIDTH]; /* the loss: their dot with the state */
};

static int word_of(int sample, int position) { return (sample * 5 + position * 2 + 1) % WORDS; }
static int *ints_on(ref_tape *t, int n, int first)
{
    int *at = ref_ints(t, n);
    for (int i = 0; i < n; i++) at[i] = first + i;
    return at;
}
static int word(ref_tape *t, int sample, int position)
{
    return ref_take(t, ref_parameter(t, "words"), ints_on(t, 1, word_of(sample, position)), 1, 1);
}
static ref_state only(int h)
{
    const ref_state s = { h, -1 };
    return s;
}
static fold_node look_up(fold_ctx *f, const layer_case *c, int sample, int position)
{
    return fold_lookup(f, c->words, word_of(sample, position));
}

/* -- dense and mlp -- */

static void make_dense(fold_model *m, layer_case *c)
{
    c->dense = fold_dense_new(m, "dense", c->inputs, c->hidden, (fold_activation)c->row->option);
}
static fold_state record_dense(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_state s = { fold_dense_apply(f, &c->dense, look_up(f, c, sample, 0)), { 0, 0 } };
    return s;
}
static ref_state reference_dense(ref_tape *t, const layer_case *c, int sample)
{
    return only(ref_dense(t, "dense", word(t, sample, 0), c->row->option));
}
static void make_mlp(fold_model *m, layer_case *c)
{
    const int sizes[4] = { c->inputs, c->hidden, 7, c->hidden };
    c->mlp = fold_mlp_new(m, "mlp", sizes, 3, (fold_activation)c->row->option);
}
static fold_state record_mlp(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_state s = { fold_mlp_apply(f, &c->mlp, look_up(f, c, sample, 0)), { 0, 0 } };
    return s;
}
static ref_state reference_mlp(ref_tape *t, const layer_case *c, int sample)
{
    return only(ref_mlp(t, "mlp", word(t, sample, 0), 3, c->row->option));
}

/* -- recurrent: sequences of 1 to 5 steps -- */

static int sequence_length(int sample) { return 1 + sample; }
#define MAKE_RECURRENT(name)                                                                              \
    static void make_##name(fold_model *m, layer_case *c)                                                 \
    {                                                                                                     \
        c->recurrent = fold_##name##_new(m, #name, c->inputs, c->hidden);                                 \
    }
MAKE_RECURRENT(rnn)
MAKE_RECURRENT(rnn_relu)
MAKE_RECURRENT(lstm)
MAKE_RECURRENT(gru)
static fold_state record_sequence(fold_ctx *f, const layer_case *c, int sample)
{
    fold_state s = fold_recurrent_zeros(f, &c->recurrent);
    for (int t = 0; t < sequence_length(sample); t++)
        s = fold_recurrent_apply(f, &c->recurrent, look_up(f, c, sample, t), s);
    return s;
}

#define SEQUENCE(name)                                                                                    \
    static ref_state reference_##name(ref_tape *t, const layer_case *c, int sample)                       \
    {                                                                                                     \
        ref_state s = ref_zeros(t, c->hidden);                                                            \
        for (int k = 0; k < sequence_length(sample); k++)                                                 \
            s = ref_##name##_step(t, #name, word(t, sample, k), s);                                       \
        return s;                                                                                         \
    }
SEQUENCE(rnn)
SEQUENCE(rnn_relu)
SEQUENCE(lstm)
SEQUENCE(gru)

/* -- unrolling: 0 to 7 steps or, with longer lists, to as many as they have; the outputs weighted by their places -- */

static int unrolled_length(int sample)
{
    static const int longer[SAMPLES] = { 0, 1, 2, 17, MAX_STEPS };
    return MAX_STEPS > 17 ? longer[sample] : sample ? 2 * sample - 1 : 0;
}
static double place_weight(int t) { return 0.25 * (t % 8 + 1); }
static int record_words(fold_ctx *f, const layer_case *c, int sample, fold_node *x)
{
    const int n = unrolled_length(sample);
    for (int t = 0; t < n; t++) x[t] = look_up(f, c, sample, t);
    return n;
}
static fold_node weighted_sum(fold_ctx *f, const fold_node *y, int n, int width)
{
    fold_node term[MAX_STEPS];
    for (int t = 0; t < n; t++) term[t] = fold_scale(f, y[t], (float)place_weight(t));
    return n ? fold_sum_n(f, term, n) : fold_zeros(f, fold_shape1(width));
}

/* Two calls, of which the second begins with the state of the first. */
static fold_state record_unrolled(fold_ctx *f, const layer_case *c, int sample)
{
    fold_node x[MAX_STEPS], y[MAX_STEPS];
    const fold_recurrent *r = &c->recurrent;
    const int n = record_words(f, c, sample, x), cut = n / 3;
    fold_state s;
    if (c->row->option) {
        s = fold_unroll(f, r, x + cut, n - cut, 1, NULL, y + cut);
        s = fold_unroll(f, r, x, cut, 1, &s, y);
    } else {
        s = fold_unroll(f, r, x, cut, 0, NULL, y);
        s = fold_unroll(f, r, x + cut, n - cut, 0, &s, y + cut);
    }
    const int end = c->row->option ? 0 : n - 1;
    CHECK(!n || !memcmp(&s.h, &y[end], sizeof s.h));
    s.h = weighted_sum(f, y, n, c->hidden);
    return s;
}
static int weighted(ref_tape *t, const int *y, int n, int width)
{
    int term[MAX_STEPS];
    for (int k = 0; k < n; k++) term[k] = ref_with(t, REF_scale, y[k], place_weight(k));
    return ref_of(t, REF_list_sum, ref_join(t, term, n, ref_shape1(width)));
}
#define UNROLLED(name)                                                                                    \
    static ref_state unrolled_##name(ref_tape *t, const layer_case *c, int sample)                        \
    {                                                                                                     \
        int x[MAX_STEPS];                                                                                 \
        const int n = unrolled_length(sample);                                                            \
        for (int k = 0; k < n; k++) x[k] = word(t, sample, k);                                            \
        ref_state s = ref_zeros(t, c->hidden);                                                            \
        s = ref_unroll(t, ref_##name##_step, #name, x, n, c->row->option, s, x);                          \
        s.h = weighted(t, x, n, c->hidden);                                                               \
        return s;                                                                                         \
    }
UNROLLED(rnn)
UNROLLED(rnn_relu)
UNROLLED(lstm)
UNROLLED(gru)

/* A loop with three states of two shapes: h = tanh(x W + h U + b), m = m / 2 + h, k = k / 2 + 1/4; each step's
   output is m k. */
static void make_own(fold_model *m, layer_case *c)
{
    c->dense = fold_dense_new(m, "own", c->inputs + c->hidden, c->hidden, FOLD_ACT_TANH);
}
static fold_state record_own(fold_ctx *f, const layer_case *c, int sample)
{
    fold_node x[MAX_STEPS], y[MAX_STEPS];
    fold_node h = fold_zeros(f, fold_shape1(c->hidden)), m = h, k = fold_zeros(f, fold_shape1(1));
    const int n = record_words(f, c, sample, x);
    for (int i = 0; i < n; i++) {
        const int at = c->row->option ? n - 1 - i : i;
        h = fold_dense_apply(f, &c->dense, fold_concat2(f, x[at], h));
        m = fold_add(f, fold_scale(f, m, 0.5f), h);
        k = fold_shift(f, fold_scale(f, k, 0.5f), 0.25f);
        y[at] = fold_mul(f, m, k);
    }
    const fold_state s = { weighted_sum(f, y, n, c->hidden), fold_mul(f, m, k) };
    return s;
}
static ref_state reference_own(ref_tape *t, const layer_case *c, int sample)
{
    const int n = unrolled_length(sample);
    int y[MAX_STEPS], h = ref_zeros(t, c->hidden).h, m = ref_zeros(t, c->hidden).h, k = ref_zeros(t, 1).h;
    for (int i = 0; i < n; i++) {
        const int at = c->row->option ? n - 1 - i : i, xh[2] = { word(t, sample, at), h };
        h = ref_dense(t, "own", ref_concat(t, xh, 2, 0), REF_ACT_TANH);
        m = ref_of_two(t, REF_add, ref_with(t, REF_scale, m, 0.5), h);
        k = ref_with(t, REF_shift, ref_with(t, REF_scale, k, 0.5), 0.25);
        y[at] = ref_of_two(t, REF_mul, m, k);
    }
    const ref_state s = { weighted(t, y, n, c->hidden), ref_of_two(t, REF_mul, m, k) };
    return s;
}

/* Two layers of LSTMs in both directions. h: of the top's outputs, those in reverse doubled; c: of all final states. */
enum { STACKED = 2 };
static void make_stack(fold_model *m, layer_case *c)
{
    c->stack = fold_rnn_stack_new(m, "stack", fold_lstm_new, c->inputs, c->hidden, STACKED, 1);
}
static fold_state record_stack(fold_ctx *f, const layer_case *c, int sample)
{
    fold_node y[MAX_STEPS], term[2 * STACKED];
    fold_state last[2 * STACKED], s;
    const int n = record_words(f, c, sample, y);
    CHECK_SAYS(!fold_unroll_stack(f, &c->stack, y, n, NULL, y, last), "%s", fold_ctx_message(f));
    for (int t = 0; t < n; t++) {
        fold_node half[2];
        fold_split(f, y[t], 2, half);
        y[t] = fold_add(f, half[0], fold_scale(f, half[1], 2));
    }
    for (int i = 0; i < 2 * STACKED; i++)
        term[i] = fold_scale(f, fold_mul(f, last[i].h, last[i].c), (float)place_weight(i));
    s.h = weighted_sum(f, y, n, c->hidden);
    s.c = fold_sum_n(f, term, 2 * STACKED);
    return s;
}
static ref_state reference_stack(ref_tape *t, const layer_case *c, int sample)
{
    int y[MAX_STEPS] = { 0 }, term[2 * STACKED];
    ref_state last[2 * STACKED];
    const int n = unrolled_length(sample), width = c->hidden;
    for (int k = 0; k < n; k++) y[k] = word(t, sample, k);
    ref_stack(t, ref_lstm_step, "stack", y, n, width, STACKED, y, last);
    for (int k = 0; k < n; k++) {
        const int doubled = ref_with(t, REF_scale, ref_slice(t, y[k], 0, width, width), 2);
        y[k] = ref_of_two(t, REF_add, ref_slice(t, y[k], 0, 0, width), doubled);
    }
    for (int i = 0; i < 2 * STACKED; i++)
        term[i] = ref_with(t, REF_scale, ref_of_two(t, REF_mul, last[i].h, last[i].c), place_weight(i));
    const ref_state s = { weighted(t, y, n, width), ref_of(t, REF_list_sum, ref_join(t, term, 2 * STACKED, ref_shape1(width))) };
    return s;
}

/* -- lists: 0 to 7 words; the rows of the result weighted by their places -- */

static fold_node list_of_words(fold_ctx *f, const layer_case *c, int sample, int shift)
{
    int index[MAX_STEPS];
    const int n = unrolled_length(sample);
    for (int t = 0; t < n; t++) index[t] = word_of(sample, t + shift);
    return fold_list_lookup(f, c->words, index, n);
}
static int words(ref_tape *t, int sample, int shift)
{
    const int n = unrolled_length(sample);
    int *index = ref_ints(t, n);
    for (int k = 0; k < n; k++) index[k] = word_of(sample, k + shift);
    return ref_take(t, ref_parameter(t, "words"), index, n, 0);
}
static fold_state weighted_list(fold_ctx *f, fold_node list, int width)
{
    fold_node y[MAX_STEPS];
    const int n = fold_list_length(f, list);
    for (int t = 0; t < n; t++) y[t] = fold_list_at(f, list, t);
    const fold_state s = { weighted_sum(f, y, n > 0 ? n : 0, width), { 0, 0 } };
    return s;
}
static ref_state weighted_rows(ref_tape *t, int list, int width)
{
    int y[MAX_STEPS];
    const int n = t->value[list].rows;
    for (int k = 0; k < n; k++) y[k] = ref_take(t, list, ints_on(t, 1, k), 1, 1);
    return only(weighted(t, y, n, width));
}

/* Two calls, of which the second begins with the state of the first. */
static fold_state record_unrolled_list(fold_ctx *f, const layer_case *c, int sample)
{
    int index[MAX_STEPS];
    const int n = unrolled_length(sample), cut = n / 3, reverse = c->row->option;
    for (int t = 0; t < n; t++) index[t] = word_of(sample, t);
    const fold_node front = fold_list_lookup(f, c->words, index, cut), back = fold_list_lookup(f, c->words, index + cut, n - cut);
    fold_node y[2];
    fold_state s, last;
    y[reverse] = fold_unroll_list(f, &c->recurrent, reverse ? back : front, reverse, NULL, &s);
    y[!reverse] = fold_unroll_list(f, &c->recurrent, reverse ? front : back, reverse, &s, &last);
    s = weighted_list(f, fold_list_join(f, y, 2), c->hidden);
    s.c = last.c;
    return s;
}

static int heads_of(const layer_case *c) { return c->hidden % 4 ? 1 : 4; }
static void make_attention(fold_model *m, layer_case *c)
{
    c->dense = fold_dense_new(m, "to", c->inputs, c->hidden, FOLD_ACT_LINEAR);
    c->attention = fold_attention_new(m, "attention", c->hidden, heads_of(c));
}
/* Words look at other words, of which there is one more; option: only at those up to the next. */
static fold_state record_attention(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_node all[2] = { list_of_words(f, c, sample, 1), look_up(f, c, sample, 8) };
    const fold_node q = fold_dense_apply(f, &c->dense, list_of_words(f, c, sample, 0));
    const fold_node k = fold_dense_apply(f, &c->dense, fold_list_join(f, all, 2));
    return weighted_list(f, fold_attention_apply(f, &c->attention, q, k, k, c->row->option), c->hidden);
}
static ref_state reference_attention(ref_tape *t, const layer_case *c, int sample)
{
    const int all[2] = { words(t, sample, 1), word(t, sample, 8) }, q = ref_affine(t, words(t, sample, 0), "to");
    const int k = ref_affine(t, ref_join(t, all, 2, ref_shape1(c->inputs)), "to");
    return weighted_rows(t, ref_attention_layer(t, "attention", q, k, k, heads_of(c), c->row->option), c->hidden);
}

/* option 0: norms after, as in the paper. 1: before, of mean squares, causal. */
static void make_transformer(fold_model *m, layer_case *c)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    const int first = c->row->option;
    d.width = c->hidden;
    d.heads = heads_of(c);
    d.inner = c->hidden + 2;
    d.activation = first ? FOLD_ACT_GELU : FOLD_ACT_TANH;
    d.norm_first = first;
    d.norm = first ? FOLD_NORM_RMS : FOLD_NORM_LAYER;
    d.epsilon = first ? 0.01f : 0;
    c->dense = fold_dense_new(m, "to", c->inputs, c->hidden, FOLD_ACT_LINEAR);
    c->transformer = fold_transformer_new(m, "layer", &d);
}
static fold_state record_transformer(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_node x = fold_dense_apply(f, &c->dense, list_of_words(f, c, sample, 0));
    return weighted_list(f, fold_transformer_apply(f, &c->transformer, x, c->row->option), c->hidden);
}
static ref_state reference_transformer(ref_tape *t, const layer_case *c, int sample)
{
    const int first = c->row->option;
    const ref_transformer d = { NULL, heads_of(c), first ? REF_ACT_GELU : REF_ACT_TANH, first,
                                first ? REF_NORM_RMS : REF_NORM_LAYER, first ? (double)0.01f : 0, 0, 0 };
    return weighted_rows(t, ref_transformer_layer(t, "layer", &d, ref_affine(t, words(t, sample, 0), "to"), first), c->hidden);
}

/* option: without a last norm, causal. */
static void make_encoder(fold_model *m, layer_case *c)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = c->hidden;
    d.heads = heads_of(c);
    d.inner = 3;
    c->dense = fold_dense_new(m, "to", c->inputs, c->hidden, FOLD_ACT_LINEAR);
    c->encoder = fold_encoder_new(m, "encoder", c->layers, ENCODED, &d, !c->row->option);
}
static fold_state record_encoder(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_node x = fold_dense_apply(f, &c->dense, list_of_words(f, c, sample, 0));
    return weighted_list(f, fold_encoder_apply(f, &c->encoder, x, c->row->option), c->hidden);
}
static ref_state reference_encoder(ref_tape *t, const layer_case *c, int sample)
{
    const int x = ref_affine(t, words(t, sample, 0), "to");
    return weighted_rows(t, ref_encoder(t, "encoder", ENCODED, heads_of(c), x, c->row->option, !c->row->option), c->hidden);
}

/* A norm of every kind after a dense layer, of lists. */
static void make_norm(fold_model *m, layer_case *c)
{
    c->dense = fold_dense_new(m, "to", c->inputs, c->hidden, FOLD_ACT_LINEAR);
    c->norm = fold_norm_new(m, "norm", c->hidden, (fold_norm_kind)c->row->option, 0.25f);
}
static fold_state record_norm(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_node x = fold_dense_apply(f, &c->dense, list_of_words(f, c, sample, 0));
    return weighted_list(f, fold_norm_apply(f, &c->norm, x), c->hidden);
}
static ref_state reference_norm(ref_tape *t, const layer_case *c, int sample)
{
    return weighted_rows(t, ref_norm_layer(t, "norm", ref_affine(t, words(t, sample, 0), "to"), c->row->option, 0.25), c->hidden);
}

/* A list less its mean, divided by its deviation, then by statistics that are the sample's first word and its square. */
static void make_standard(fold_model *m, layer_case *c) { c->dense = fold_dense_new(m, "to", c->inputs, c->hidden, FOLD_ACT_TANH); }
static fold_state record_standard(fold_ctx *f, const layer_case *c, int sample)
{
    const fold_node mean = fold_dense_apply(f, &c->dense, look_up(f, c, sample, 0)), square = fold_square(f, mean);
    fold_node x = fold_dense_apply(f, &c->dense, list_of_words(f, c, sample, 0));
    x = fold_list_standardize(f, x, c->row->option ? 0.25f : 0);
    return weighted_list(f, fold_standardize(f, x, mean, square, 0.5f), c->hidden);
}
static ref_state reference_standard(ref_tape *t, const layer_case *c, int sample)
{
    const int given = ref_dense(t, "to", word(t, sample, 0), REF_ACT_TANH), x = ref_dense(t, "to", words(t, sample, 0), REF_ACT_TANH);
    const int mean = ref_of(t, REF_list_mean, x), apart = ref_of_two(t, REF_sub, x, mean);
    const int variance = ref_of(t, REF_list_mean, ref_of(t, REF_square, apart));
    const int y = ref_standardize(t, x, mean, variance, c->row->option ? 0.25 : 0);
    return weighted_rows(t, ref_standardize(t, y, given, ref_of(t, REF_square, given), 0.5), c->hidden);
}

/* A filter of two taps over four words side by side. */
enum { LINE = 4 };
static void make_conv(fold_model *m, layer_case *c)
{
    const fold_conv_desc d = { 2, 1, 0, 0 };
    c->conv = fold_conv_new(m, "conv", fold_shape3(2, c->inputs, c->hidden), &d, FOLD_ACT_TANH);
}
static fold_state record_conv(fold_ctx *f, const layer_case *c, int sample)
{
    fold_node x[LINE];
    for (int t = 0; t < LINE; t++) x[t] = look_up(f, c, sample, t);
    const fold_state s = { fold_sum(f, fold_conv_apply(f, &c->conv, fold_stack(f, x, LINE)), 0), { 0, 0 } };
    return s;
}
static ref_state reference_conv(ref_tape *t, const layer_case *c, int sample)
{
    int line[LINE];
    for (int k = 0; k < LINE; k++) line[k] = ref_reshape(t, word(t, sample, k), ref_shape2(1, c->inputs));
    const int in[3] = { ref_concat(t, line, LINE, 0), ref_parameter(t, "conv.W"), ref_parameter(t, "conv.b") };
    const ref_attr a = ref_attrs(0, 2, 1, 1, 0);
    return only(ref_along(t, REF_sum, ref_of(t, REF_tanh, ref_apply(t, REF_conv, &a, in, 3)), 0));
}

/* -- trees: random, the same for record and reference -- */

typedef struct walk { check_random random; int sample, position; } walk;
static walk start_walk(int sample)
{
    const walk w = { { (uint64_t)sample + 40 }, sample, 0 };
    return w;
}

static void make_tree(fold_model *m, layer_case *c)
{
    c->tree = fold_tree_lstm_new(m, "tree", c->inputs, c->hidden, c->row->option);
}
static fold_state record_tree_node(fold_ctx *f, const layer_case *c, walk *w, int depth)
{
    fold_state child[MAX_CHILDREN];
    if (!depth || !random_below(&w->random, 3))
        return fold_tree_lstm_apply_leaf(f, &c->tree, look_up(f, c, w->sample, w->position++));
    for (int k = 0; k < c->row->option; k++) child[k] = record_tree_node(f, c, w, depth - 1);
    return fold_tree_lstm_apply_inner(f, &c->tree, child);
}
static fold_state record_tree(fold_ctx *f, const layer_case *c, int sample)
{
    walk w = start_walk(sample);
    return record_tree_node(f, c, &w, sample % 4);
}

static ref_state reference_tree_node(ref_tape *t, const layer_case *c, walk *w, int depth)
{
    ref_state child[MAX_CHILDREN];
    if (!depth || !random_below(&w->random, 3)) return ref_tree_leaf(t, "tree", word(t, w->sample, w->position++));
    for (int k = 0; k < c->row->option; k++) child[k] = reference_tree_node(t, c, w, depth - 1);
    return ref_tree_inner(t, "tree", child, c->row->option);
}
static ref_state reference_tree(ref_tape *t, const layer_case *c, int sample)
{
    walk w = start_walk(sample);
    return reference_tree_node(t, c, &w, sample % 4);
}

/* Any number of children, none included. */
static int children_at(walk *w, int depth) { return depth ? random_below(&w->random, MAX_CHILDREN + 1) : 0; }
static void make_child_sum(fold_model *m, layer_case *c)
{
    c->child_sum = fold_child_sum_new(m, "sum", c->inputs, c->hidden);
}
static fold_state record_child_sum_node(fold_ctx *f, const layer_case *c, walk *w, int depth)
{
    fold_state child[MAX_CHILDREN];
    const int n = children_at(w, depth);
    const fold_node x = look_up(f, c, w->sample, w->position++);
    for (int k = 0; k < n; k++) child[k] = record_child_sum_node(f, c, w, depth - 1);
    return fold_child_sum_apply(f, &c->child_sum, x, child, n);
}
static fold_state record_child_sum(fold_ctx *f, const layer_case *c, int sample)
{
    walk w = start_walk(sample);
    return record_child_sum_node(f, c, &w, sample % 4);
}
static ref_state reference_child_sum_node(ref_tape *t, const layer_case *c, walk *w, int depth)
{
    ref_state child[MAX_CHILDREN];
    const int n = children_at(w, depth), x = word(t, w->sample, w->position++);
    for (int k = 0; k < n; k++) child[k] = reference_child_sum_node(t, c, w, depth - 1);
    return ref_child_sum(t, "sum", x, child, n, c->hidden);
}
static ref_state reference_child_sum(ref_tape *t, const layer_case *c, int sample)
{
    walk w = start_walk(sample);
    return reference_child_sum_node(t, c, &w, sample % 4);
}

static const layer_row layers[] = {
    { "dense, linear", make_dense, record_dense, reference_dense, FOLD_ACT_LINEAR, 0 },
    { "dense, relu", make_dense, record_dense, reference_dense, FOLD_ACT_RELU, 0 },
    { "dense, tanh", make_dense, record_dense, reference_dense, FOLD_ACT_TANH, 0 },
    { "dense, sigmoid", make_dense, record_dense, reference_dense, FOLD_ACT_SIGMOID, 0 },
    { "dense, gelu_tanh", make_dense, record_dense, reference_dense, FOLD_ACT_GELU_TANH, 0 },
    { "mlp, tanh", make_mlp, record_mlp, reference_mlp, FOLD_ACT_TANH, 0 },
    { "dense, gelu", make_dense, record_dense, reference_dense, FOLD_ACT_GELU, 0 },
    { "mlp, silu", make_mlp, record_mlp, reference_mlp, FOLD_ACT_SILU, 0 },
    { "mlp, gelu_tanh", make_mlp, record_mlp, reference_mlp, FOLD_ACT_GELU_TANH, 0 },
    { "rnn", make_rnn, record_sequence, reference_rnn, 0, 0 },
    { "rnn of relu", make_rnn_relu, record_sequence, reference_rnn_relu, 0, 0 },
    { "lstm", make_lstm, record_sequence, reference_lstm, 0, 1 },
    { "gru", make_gru, record_sequence, reference_gru, 0, 0 },
    { "unrolled rnn", make_rnn, record_unrolled, unrolled_rnn, 0, 0 },
    { "unrolled lstm", make_lstm, record_unrolled, unrolled_lstm, 0, 1 },
    { "unrolled gru", make_gru, record_unrolled, unrolled_gru, 0, 0 },
    { "unrolled lstm, reverse", make_lstm, record_unrolled, unrolled_lstm, 1, 1 },
    { "unrolled gru, reverse", make_gru, record_unrolled, unrolled_gru, 1, 0 },
    { "unrolled rnn of relu", make_rnn_relu, record_unrolled_list, unrolled_rnn_relu, 0, 0 },
    { "lstm over a list", make_lstm, record_unrolled_list, unrolled_lstm, 0, 1 },
    { "gru over a list, reverse", make_gru, record_unrolled_list, unrolled_gru, 1, 0 },
    { "a loop of plain ops", make_own, record_own, reference_own, 0, 1 },
    { "a loop of plain ops, reverse", make_own, record_own, reference_own, 1, 1 },
    { "stack of lstms in both directions", make_stack, record_stack, reference_stack, 0, 1 },
    { "attention", make_attention, record_attention, reference_attention, 0, 0 },
    { "attention, causal", make_attention, record_attention, reference_attention, 1, 0 },
    { "transformer", make_transformer, record_transformer, reference_transformer, 0, 0 },
    { "transformer, norms first, causal", make_transformer, record_transformer, reference_transformer, 1, 0 },
    { "encoder", make_encoder, record_encoder, reference_encoder, 0, 0 },
    { "encoder without a norm, causal", make_encoder, record_encoder, reference_encoder, 1, 0 },
    { "norm, layer", make_norm, record_norm, reference_norm, FOLD_NORM_LAYER, 0 },
    { "norm, rms", make_norm, record_norm, reference_norm, FOLD_NORM_RMS, 0 },
    { "norm, fixed", make_norm, record_norm, reference_norm, FOLD_NORM_FIXED, 0 },
    { "standardised lists", make_standard, record_standard, reference_standard, 0, 0 },
    { "standardised lists, with an epsilon", make_standard, record_standard, reference_standard, 1, 0 },
    { "conv", make_conv, record_conv, reference_conv, 0, 0 },
    { "tree_lstm, 1 child", make_tree, record_tree, reference_tree, 1, 1 },
    { "tree_lstm, 2 children", make_tree, record_tree, reference_tree, 2, 1 },
    { "tree_lstm, 3 children", make_tree, record_tree, reference_tree, 3, 1 },
    { "child_sum", make_child_sum, record_child_sum, reference_child_sum, 0, 1 },
};

/* ---- layers: the test ----------------------------------------------------------------------------- */

static layer_case layer;

/* What the reference has: states of all samples, and gradients of parameters, the sums over samples, in the order of the
   mirror's values; each with how far floats may be from it. */
static struct { double h[2][SAMPLES][MAX_WIDTH], c[2][SAMPLES][MAX_WIDTH], want[MAX_VALUES], size[MAX_VALUES], bound[MAX_VALUES]; } expected;
static ref_tape tape;

typedef struct weighed { ref_state s; int sample; } weighed;
static void softmax_one(ref_tape *t, int x, const float *weight)
{
    ref_value *y = &t->value[x];
    for (size_t i = 0; i < ref_count(y); i++) {
        y->g[i] += (double)weight[i];
        y->m[i] += fabs((double)weight[i]);
    }
    y->n++;
}
static void weigh(ref_tape *t, const void *user)
{
    const weighed *w = (const weighed *)user;
    softmax_one(t, w->s.h, layer.weight_h[w->sample]);
    if (layer.row->has_c) softmax_one(t, w->s.c, layer.weight_c[w->sample]);
}
static void expect_state(int x, double (*to)[SAMPLES][MAX_WIDTH], int sample)
{
    memcpy(to[0][sample], tape.value[x].v, (size_t)layer.hidden * sizeof(double));
    memcpy(to[1][sample], tape.value[x].b, (size_t)layer.hidden * sizeof(double));
}
static void expect(mirror *p)
{
    memset(&expected, 0, sizeof expected);
    tape.n_params = p->n;
    for (int i = 0; i < p->n; i++) {
        const fold_param handle = fold_param_at(p->m, i);
        const fold_shape shape = fold_param_shape(p->m, handle);
        const ref_param named = { fold_param_name(p->m, handle), ref_shape_of(shape.rank, shape.dim), p->value[i], -1 };
        tape.param[i] = named;
    }
    for (int s = 0; s < SAMPLES; s++) {
        ref_begin(&tape);
        const weighed w = { layer.row->reference(&tape, &layer, s), s };
        ref_gradients(&tape, weigh, &w);
        expect_state(w.s.h, expected.h, s);
        if (layer.row->has_c) expect_state(w.s.c, expected.c, s);
        for (int i = 0; i < p->n; i++) {
            if (tape.param[i].on_tape < 0) continue;
            const ref_value *x = &tape.value[tape.param[i].on_tape];
            const ptrdiff_t at = p->value[i] - p->pool;
            for (int e = 0; e < p->size[i]; e++) {
                expected.want[at + e] += x->g[e];
                expected.size[at + e] += x->m[e];
                expected.bound[at + e] += x->gb[e];
            }
        }
    }
}
static void near(const char *what, int i, double got, double want, double bound)
{
    CHECK_SAYS(fabs(got - want) <= bound, "%s %d is %.9g, want %.9g +- %.3g", what, i, got, want, bound);
}
static void compare_with_expected(const mirror *p)
{
    for (int i = 0; i < p->n; i++) {
        const fold_param handle = fold_param_at(p->m, i);
        const float *grad = fold_param_grad(p->m, handle);
        const ptrdiff_t at = p->value[i] - p->pool;
        for (int e = 0; e < p->size[i]; e++)
            near(fold_param_name(p->m, handle), e, (double)grad[e], expected.want[at + e],
                 expected.bound[at + e] + ref_bound(0, SAMPLES - 1, expected.size[at + e]));
    }
}

typedef struct layer_result { float h[SAMPLES][MAX_WIDTH], c[SAMPLES][MAX_WIDTH], loss; } layer_result;

/* Records samples [first, first + n), runs them forward and backward, reads the states. */
static void run_layer(fold_ctx *f, int first, int n, layer_result *r)
{
    fold_node loss[2 * SAMPLES];
    fold_state state[SAMPLES];
    const size_t size = (size_t)layer.hidden * sizeof(float);
    int terms = 0;
    fold_grads_clear(fold_ctx_model(f));
    fold_ctx_reset(f);
    for (int s = first; s < first + n; s++) {
        state[s] = layer.row->record(f, &layer, s);
        CHECK(fold_node_is_null(state[s].c) == !layer.row->has_c);
        fold_keep(f, state[s].h);
        loss[terms++] = fold_dot(f, state[s].h, fold_input(f, layer.weight_h[s], layer.hidden));
        if (!layer.row->has_c) continue;
        fold_keep(f, state[s].c);
        loss[terms++] = fold_dot(f, state[s].c, fold_input(f, layer.weight_c[s], layer.hidden));
    }
    const fold_node total = fold_sum_n(f, loss, terms);
    if (!CHECK_SAYS(!fold_backward(f, total), "%s", fold_ctx_message(f))) return;
    r->loss = fold_scalar(f, total);
    for (int s = first; s < first + n; s++) {
        memcpy(r->h[s], fold_value(f, state[s].h), size);
        if (layer.row->has_c) memcpy(r->c[s], fold_value(f, state[s].c), size);
    }
}

typedef struct layer_mode { int eager; fold_schedule schedule; size_t group_bytes; } layer_mode;

static void test_layer(const layer_row *row, int inputs, int hidden)
{
    static const layer_mode modes[] = {
        { 0, FOLD_SCHEDULE_RATIO, 0 }, { 1, FOLD_SCHEDULE_RATIO, 0 }, { 0, FOLD_SCHEDULE_DEPTH, 0 },
        { 0, FOLD_SCHEDULE_AGENDA, 0 }, { 0, FOLD_SCHEDULE_RATIO, 1 }, { 0, FOLD_SCHEDULE_RATIO, SIZE_MAX },
    };
    static mirror p;
    static float grads[MAX_VALUES];
    static layer_result first, other;
    int count;
    check_random r = { 3 };
    fold_model *m = fold_model_new(NULL);
    memset(&layer, 0, sizeof layer);
    memset(&first, 0, sizeof first);
    layer.row = row;
    layer.inputs = inputs;
    layer.hidden = hidden;
    layer.words = fold_table_new(m, "words", WORDS, inputs);
    random_fill(&r, layer.weight_h[0], SAMPLES * MAX_WIDTH, -1, 1);
    random_fill(&r, layer.weight_c[0], SAMPLES * MAX_WIDTH, -1, 1);
    row->make(m, &layer);
    randomise(m, 17);
    read_values(&p, m);
    CHECK_SAYS(!*fold_model_message(m), "%s", fold_model_message(m));
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = modes[i].eager;
        d.schedule = modes[i].schedule;
        d.group_bytes = modes[i].group_bytes;
        fold_ctx *f = fold_ctx_new(m, &d);
        memset(&other, 0, sizeof other);
        run_layer(f, 0, SAMPLES, i ? &other : &first);
        const float *g = fold_model_grads(m, &count);
        if (!i && CHECK(count <= MAX_VALUES)) {
            memcpy(grads, g, (size_t)count * sizeof *g);
            expect(&p);
            compare_with_expected(&p);
        } else {
            CHECK_SAYS(!memcmp(&first, &other, sizeof first), "states differ in mode %d", i);
            CHECK_BITS(g, grads, count);
        }
        memset(&other, 0, sizeof other);
        for (int s = 0; s < SAMPLES; s++) run_layer(f, s, 1, &other); /* each alone */
        other.loss = first.loss;
        CHECK_SAYS(!memcmp(&first, &other, sizeof first), "states alone differ in mode %d", i);
        fold_ctx_free(f);
    }
    for (int s = 0; s < SAMPLES; s++) {
        for (int i = 0; i < hidden; i++) {
            near("h", i, (double)first.h[s][i], expected.h[0][s][i], expected.h[1][s][i]);
            if (row->has_c) near("c", i, (double)first.c[s][i], expected.c[0][s][i], expected.c[1][s][i]);
        }
    }
    fold_model_free(m);
}

/* Forget gates start open: their biases are 1, all others 0. */
static void test_forget_biases(void)
{
    enum { H = 4 };
    static const struct { const char *name; int n, from, to; } want[] = {
        { "rnn.b", H, 0, 0 },           { "gru.b", 3 * H, 0, 0 }, { "gru.c", 3 * H, 0, 0 },
        { "lstm.b", 4 * H, H, 2 * H },  { "sum.b", 3 * H, 0, 0 }, { "sum.b_f", H, 0, H },
        { "tree.leaf.b", 3 * H, 0, 0 }, { "tree.inner.b", 5 * H, 2 * H, 4 * H },
    };
    fold_model *m = fold_model_new(NULL);
    fold_lstm_new(m, "lstm", 3, H);
    fold_tree_lstm_new(m, "tree", 3, H, 2);
    fold_child_sum_new(m, "sum", 3, H);
    fold_gru_new(m, "gru", 3, H);
    fold_rnn_new(m, "rnn", 3, H);
    for (int i = 0; i < (int)(sizeof want / sizeof *want); i++) {
        const fold_param p = fold_param_find(m, want[i].name);
        if (!CHECK_SAYS(p.id && floats_of(fold_param_shape(m, p)) == want[i].n, "%s", want[i].name)) continue;
        for (int k = 0; k < want[i].n; k++)
            CHECK_SAYS(fold_param_value(m, p)[k] == (float)(k >= want[i].from && k < want[i].to), "%s[%d]",
                       want[i].name, k);
    }
    CHECK_SAYS(!*fold_model_message(m), "%s", fold_model_message(m));
    fold_model_free(m);
}

/* ---- tied parameters: one table for looking up and for both kinds of linear -------------------------- */

enum { TIED_ROWS = 6, TIED_WIDTH = 3 };

/* y += x W, for rows [row, row + k) of W [.. x n] */
static void add_product(double *y, int n, const double *x, int k, const double *W, int row)
{
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++) y[j] += x[i] * W[(row + i) * n + j];
}
static double tied_loss(const mirror *p)
{
    const double *E = values(p, "E");
    double loss = 0;
    for (int s = 0; s < SAMPLES; s++) {
        double h[TIED_WIDTH], z[TIED_ROWS] = { 0 }, y[TIED_WIDTH] = { 0 }, sum = 0;
        for (int j = 0; j < TIED_WIDTH; j++) h[j] = tanh(E[(s * 2) % TIED_ROWS * TIED_WIDTH + j]);
        for (int i = 0; i < TIED_ROWS; i++)
            for (int j = 0; j < TIED_WIDTH; j++) z[i] += h[j] * E[i * TIED_WIDTH + j];
        add_product(y, TIED_WIDTH, z, TIED_ROWS, E, 0);
        for (int i = 0; i < TIED_ROWS; i++) sum += exp(z[i]);
        loss += log(sum) - z[(s + 1) % TIED_ROWS];
        for (int j = 0; j < TIED_WIDTH; j++) loss += y[j] * y[j];
    }
    return loss;
}
static fold_node record_tied(fold_ctx *f, fold_param E, int s)
{
    const fold_param none = { 0, 0 };
    const fold_node h = fold_tanh(f, fold_lookup(f, E, s * 2 % TIED_ROWS)), z = fold_linear_t(f, h, E, none);
    const fold_node y = fold_linear(f, z, E, none);
    return fold_add(f, fold_softmax_xent(f, z, (s + 1) % TIED_ROWS), fold_dot(f, y, y));
}

/* A step after a dense gradient updates all rows; the next, of lookups alone, only those looked up. */
static void step_tied(fold_model *m, fold_ctx *f, fold_param E)
{
    const optimiser adam = { "adam", 0.01, 0.9, 0.999, 1e-8, 0.1, 3 };
    weights w;
    memset(&w, 0, sizeof w);
    for (int step = 1; step <= 3; step++) {
        const int row = step == 2 ? 4 : -1; /* -1: all */
        if (row >= 0) {
            fold_ctx_reset(f);
            CHECK_INT(fold_backward(f, fold_sum(f, fold_lookup(f, E, row), 0)), FOLD_OK);
        } else if (step == 3) {
            fold_node loss[SAMPLES];
            fold_ctx_reset(f);
            for (int s = 0; s < SAMPLES; s++) loss[s] = record_tied(f, E, s);
            CHECK_INT(fold_backward(f, fold_sum_n(f, loss, SAMPLES)), FOLD_OK);
        }
        for (int i = 0; i < TIED_ROWS * TIED_WIDTH; i++) {
            w.w[i] = (double)fold_param_value(m, E)[i];
            w.g[i] = (double)fold_param_grad(m, E)[i];
            w.touched[i] = row < 0 || i / TIED_WIDTH == row;
        }
        CHECK_INT(take_step(m, &adam), FOLD_OK);
        reference_step(&adam, &w, TIED_ROWS * TIED_WIDTH, step, 1, 1);
        for (int i = 0; i < TIED_ROWS * TIED_WIDTH; i++)
            CHECK_SAYS(fabs((double)fold_param_value(m, E)[i] - w.w[i]) < 1e-6, "step %d, value %d", step, i);
    }
}

static void test_tied(void)
{
    static mirror p;
    float eager_grad[TIED_ROWS * TIED_WIDTH];
    fold_model *m = fold_model_new(NULL);
    fold_param_desc d;
    memset(&d, 0, sizeof d);
    d.name = "E";
    d.shape = fold_shape2(TIED_ROWS, TIED_WIDTH);
    d.uses = FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T;
    const fold_param E = fold_param_new(m, &d);
    randomise(m, 23);
    read_values(&p, m);
    for (int eager = 1; eager >= 0; eager--) {
        fold_node loss[SAMPLES], total;
        fold_ctx_desc training = fold_ctx_desc_default();
        training.training = 1;
        training.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &training);
        fold_grads_clear(m);
        for (int s = 0; s < SAMPLES; s++) loss[s] = record_tied(f, E, s);
        total = fold_sum_n(f, loss, SAMPLES);
        CHECK_SAYS(!fold_backward(f, total), "%s", fold_ctx_message(f));
        CHECK_NEAR(fold_scalar(f, total), tied_loss(&p), 1e-5);
        CHECK_INT(fold_grads_rows(m, E, 0, NULL), -1);
        compare_grads(&p, tied_loss);
        if (eager) memcpy(eager_grad, fold_param_grad(m, E), sizeof eager_grad);
        else CHECK_BITS(fold_param_grad(m, E), eager_grad, TIED_ROWS * TIED_WIDTH);
        if (!eager) step_tied(m, f, E);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* ---- gradients written from outside ------------------------------------------------------------------ */

static fold_status add_written(fold_ctx *f, fold_param E, fold_param W, fold_param b)
{
    fold_ctx_reset(f);
    return fold_backward(f, fold_softmax_xent(f, fold_linear(f, fold_lookup(f, E, 2), W, b), 1));
}

/* What is written stays when a run adds to it, reaches rows never looked up, and is cleared by a step. */
static void test_written(void)
{
    enum { N = 512 };
    float own[N], first[N];
    int count;
    fold_model *m = fold_model_new(NULL);
    const fold_param E = fold_table_new(m, "E", ROWS, WIDTH), W = fold_weight_new(m, "W", WIDTH, 4), b = fold_bias_new(m, "b", 4);
    fold_ctx_desc training = fold_ctx_desc_default();
    const fold_sgd sgd = { 0.1f, 0, 0 };
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    const fold_param all = { 0, 0 };
    const float *g = fold_model_grads(m, &count);
    if (!CHECK(count <= N)) return;
    CHECK_SAYS(!add_written(f, E, W, b), "%s", fold_ctx_message(f));
    memcpy(own, g, (size_t)count * sizeof *g);
    fold_grads_clear(m);
    float *write = fold_grads_write_begin(m, all);
    CHECK(write == g);
    for (int k = 0; k < 2; k++) { /* only what belongs to a parameter: gaps stay zero */
        const fold_param p = fold_param_at(m, k);
        const size_t at = (size_t)(fold_param_grad(m, p) - g), n = (size_t)floats_of(fold_param_shape(m, p));
        for (size_t i = at; i < at + n; i++) { write[i] = 0.25f; own[i] += 0.25f; }
    }
    fold_grads_write_end(m, all);
    write = fold_grads_write_begin(m, b); /* one parameter */
    CHECK(write == fold_param_grad(m, b));
    for (int i = 0; i < 4; i++) { write[i] = 0.25f; own[write + i - g] += 0.25f; }
    fold_grads_write_end(m, b);
    CHECK_SAYS(!add_written(f, E, W, b), "%s", fold_ctx_message(f));
    CHECK_BITS(g, own, count);
    memcpy(first, fold_model_values(m, NULL), (size_t)count * sizeof *g);
    CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
    for (int i = 0; i < count; i++) {
        CHECK_NEAR(fold_model_values(m, NULL)[i], first[i] - 0.1f * own[i], 1e-6);
        CHECK(g[i] == 0);
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Rows of a table are told as lookups reach them, written and noted alone, and moved by a step: no others. */
static void test_written_rows(void)
{
    const int written[] = { 4, 2, 4 }, wrong[] = { 1, ROWS };
    int rows[ROWS] = { 0 };
    fold_model *m = fold_model_new(NULL);
    const fold_param E = fold_table_new(m, "E", ROWS, WIDTH), W = fold_weight_new(m, "W", WIDTH, 4), b = fold_bias_new(m, "b", 4);
    const fold_sgd sgd = { 1, 0, 0.5f }; /* decay moves touched rows without a gradient too */
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    CHECK_INT(fold_grads_rows(m, E, ROWS, rows), 0);
    CHECK_INT(fold_grads_rows(m, W, 0, NULL), -1); /* before any backward, too */
    CHECK_SAYS(!add_written(f, E, W, b), "%s", fold_ctx_message(f));
    CHECK_INT(fold_grads_rows(m, E, ROWS, rows), 1);
    CHECK_INT(rows[0], 2);
    CHECK_INT(fold_grads_rows(m, W, 0, NULL), -1);
    float *grad = fold_grads_write_begin(m, E), before[ROWS * WIDTH], gradient[ROWS * WIDTH];
    for (int i = 0; i < WIDTH; i++) grad[4 * WIDTH + i] += 0.5f;
    fold_grads_write_rows_end(m, E, written, 3);
    CHECK_INT(fold_grads_rows(m, E, 1, rows), 2);
    CHECK_INT(rows[0], 2);
    CHECK_INT(fold_grads_rows(m, E, ROWS, rows), 2);
    CHECK_INT(rows[1], 4);
    memcpy(before, fold_param_value(m, E), sizeof before);
    memcpy(gradient, grad, sizeof gradient);
    CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        const int touched = i / WIDTH == 2 || i / WIDTH == 4;
        CHECK_NEAR(fold_param_value(m, E)[i], touched ? before[i] - gradient[i] - 0.5f * before[i] : before[i], 1e-6);
    }
    CHECK_INT(fold_grads_rows(m, E, ROWS, rows), 0);
    fold_grads_write_rows_end(m, E, wrong, 2);
    CHECK_INT(fold_grads_rows(m, E, ROWS, rows), 1);
    CHECK_INT(rows[0], 1);
    CHECK_INT(fold_model_status(m), FOLD_BAD_ARGUMENT);
    CHECK_SAYS(strstr(fold_model_message(m), "fold_grads_write_rows_end: row"), "%s", fold_model_message(m));
    fold_ctx_free(f);
    fold_model_free(m);
}

/* ---- kept gradients of the outputs of a stack in both directions --------------------------------------- */

/* Each output is read by a linear and its loss alone: d loss / d y = V (softmax(y V) - label). */
static void test_stack_grads(void)
{
    enum { LENGTH = 4, INPUTS = 3, LABELS = 5 };
    const fold_param none = { 0, 0 };
    fold_model *m = fold_model_new(NULL);
    const fold_rnn_stack stack = fold_rnn_stack_new(m, "stack", fold_gru_new, INPUTS, WIDTH, 2, 1);
    const fold_param V = fold_weight_new(m, "V", 2 * WIDTH, LABELS);
    static float eager_grad[LENGTH][2 * WIDTH];
    randomise(m, 31);
    for (int eager = 1; eager >= 0; eager--) {
        fold_node x[LENGTH], y[LENGTH], loss[LENGTH];
        fold_state last[4];
        check_random r = { 5 };
        fold_ctx_desc training = fold_ctx_desc_default();
        training.training = 1;
        training.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &training);
        for (int t = 0; t < LENGTH; t++) {
            float word[INPUTS];
            random_fill(&r, word, INPUTS, -1, 1);
            x[t] = fold_input(f, word, INPUTS);
        }
        CHECK_SAYS(!fold_unroll_stack(f, &stack, x, LENGTH, NULL, y, last), "%s", fold_ctx_message(f));
        for (int t = 0; t < LENGTH; t++) {
            if (t % 2) fold_keep_grad(f, y[t]); /* before it is read, or after */
            loss[t] = fold_softmax_xent(f, fold_linear(f, y[t], V, none), t % LABELS);
            if (t % 2 == 0) fold_keep_grad(f, y[t]);
            fold_keep(f, y[t]);
        }
        CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, LENGTH)), "%s", fold_ctx_message(f));
        for (int t = 0; t < LENGTH; t++) {
            const float *got = fold_grad(f, y[t]), *value = fold_value(f, y[t]), *v = fold_param_value(m, V);
            double p[LABELS] = { 0 }, sum = 0;
            for (int i = 0; i < 2 * WIDTH; i++)
                for (int k = 0; k < LABELS; k++) p[k] += (double)value[i] * (double)v[i * LABELS + k];
            for (int k = 0; k < LABELS; k++) sum += p[k] = exp(p[k]);
            for (int i = 0; i < 2 * WIDTH; i++) {
                double want = -(double)v[i * LABELS + t % LABELS];
                for (int k = 0; k < LABELS; k++) want += (double)v[i * LABELS + k] * p[k] / sum;
                CHECK_SAYS(fabs((double)got[i] - want) < 1e-5, "step %d, value %d: %g, want %g", t, i, (double)got[i], want);
            }
            if (eager) memcpy(eager_grad[t], got, sizeof eager_grad[t]);
            else CHECK_BITS(got, eager_grad[t], 2 * WIDTH);
        }
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* ---- layers of lists --------------------------------------------------------------------------------- */

static fold_transformer transformer_of(fold_model *m, const char *name, int width, int heads, float dropout)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = width;
    d.heads = heads;
    d.dropout = dropout;
    return fold_transformer_new(m, name, &d);
}

/* A transformer's dropout changes what training computes, to the same bits in eager contexts, and nothing in inference. */
static void test_transformer_dropout(void)
{
    enum { ROWS = 6, D = 8 };
    float x[ROWS * D], y[5][ROWS * D];
    check_random r = { 21 };
    fold_model *m = fold_model_new(NULL);
    const fold_transformer with = transformer_of(m, "with", D, 2, 0.5f), without = transformer_of(m, "without", D, 2, 0);
    const int half = fold_param_count(m) / 2;
    randomise(m, 3);
    for (int i = 0; i < half; i++) {
        const fold_param from = fold_param_at(m, i), to = fold_param_at(m, half + i);
        const size_t n = (size_t)floats_of(fold_param_shape(m, from));
        memcpy(fold_values_write_begin(m, to), fold_param_value(m, from), n * sizeof(float));
        fold_values_write_end(m, to);
    }
    random_fill(&r, x, ROWS * D, -1, 1);
    for (int way = 0; way < 5; way++) { /* trained: batched, eager, without dropout; inference: with, without */
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = way < 3;
        d.eager = way == 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_transformer *of = way == 2 || way == 4 ? &without : &with;
        const fold_node out = fold_transformer_apply(f, of, fold_list_input(f, x, ROWS, fold_shape1(D)), 0);
        CHECK_SAYS(!fold_run(f, &out, 1) && !fold_read(f, &out, 1, y[way]), "%s", fold_ctx_message(f));
        fold_ctx_free(f);
    }
    CHECK_BITS(y[0], y[1], ROWS * D);
    CHECK_BITS(y[2], y[4], ROWS * D);
    CHECK_BITS(y[3], y[4], ROWS * D);
    for (int i = 0; i < ROWS; i++) CHECK(memcmp(y[0] + i * D, y[2] + i * D, D * sizeof(float)) != 0);
    fold_model_free(m);
}

/* Parts from elsewhere: keys and values of another width, one query that is a node. */
static void test_attention_of_parts(void)
{
    enum { D = 4, OTHER = 7, ROWS = 3 };
    fold_model *m = fold_model_new(NULL);
    fold_attention a = fold_attention_new(m, "a", D, 2);
    a.key = fold_dense_new(m, "key", OTHER, D, FOLD_ACT_LINEAR);
    a.value = fold_dense_new(m, "value", OTHER, D, FOLD_ACT_LINEAR);
    randomise(m, 4);
    float x[D], rest[ROWS * OTHER], y[2][D];
    check_random r = { 5 };
    random_fill(&r, x, D, -1, 1);
    random_fill(&r, rest, ROWS * OTHER, -1, 1);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node keys = fold_list_input(f, rest, ROWS, fold_shape1(OTHER));
    const fold_node one = fold_attention_apply(f, &a, fold_input(f, x, D), keys, keys, 0);
    const fold_node list = fold_attention_apply(f, &a, fold_list_input(f, x, 1, fold_shape1(D)), keys, keys, 0);
    const fold_node both[2] = { one, list };
    CHECK_INT(fold_list_length(f, one), -1);
    CHECK_SAYS(!fold_run(f, both, 2), "%s", fold_ctx_message(f));
    for (int i = 0; i < 2; i++) CHECK_INT(fold_read(f, &both[i], 1, y[i]), FOLD_OK);
    CHECK_BITS(y[0], y[1], D);
    fold_ctx_free(f);
    fold_model_free(m);
}

static void test_layers_that_cannot_be(void)
{
    static const char *const says[] = { "conv 'x': the filter has rank 2, not 3 or 4", "attention 'x': 4 heads do not divide the width 6",
                                        "attention 'x': 0 heads do not divide the width 6", "transformer 'x': desc is NULL",
                                        "transformer 'x': 0 inputs, 0 outputs", "norm 'x': 0 inputs, 0 outputs",
                                        "transformer 'x': dropout is 1, must be in [0, 1)", "attention 'x.attention': 4 heads do not divide the width 6" };
    static const char *const says_ctx[] = { "list_standardize: the input must be a list", "list_standardize: epsilon is -1, must be in [0, inf)",
                                            "standardize: shapes do not broadcast",
                                            "transformer_apply: the input is a node, must be a list; fold_list_unstack makes a list of its rows",
                                            "encoder_apply: the input is a node, must be a list; fold_list_unstack makes a list of its rows",
                                            "layer: input 0 is [1], must be [6]" };
    const float x[6] = { 1, 2, 3, 4, 5, 6 };
    for (int way = 0; way < 8; way++) {
        fold_model *m = fold_model_new(NULL);
        switch (way) {
        case 0: fold_conv_new(m, "x", fold_shape2(3, 4), NULL, FOLD_ACT_RELU); break;
        case 1: fold_attention_new(m, "x", 6, 4); break;
        case 2: fold_attention_new(m, "x", 6, 0); break;
        case 3: fold_transformer_new(m, "x", NULL); break;
        case 4: transformer_of(m, "x", 0, 1, 0); break;
        case 5: fold_norm_new(m, "x", 0, FOLD_NORM_RMS, 0); break;
        case 6: transformer_of(m, "x", 6, 2, 1); break;
        default: transformer_of(m, "x", 6, 4, 0); break;
        }
        CHECK(fold_model_status(m) != FOLD_OK);
        CHECK_TEXT(fold_model_message(m), says[way]);
        fold_model_free(m);
    }
    for (int way = 0; way < 6; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        const fold_transformer layer = transformer_of(m, "layer", 6, 2, 0);
        const fold_encoder encoder = { &layer, 1, 0, { { 0, 0 }, { 0, 0 }, FOLD_NORM_LAYER, 0 } };
        const fold_node one = fold_input(f, x, 6), two = fold_input(f, x, 2), list = fold_list_input(f, x, 6, fold_shape1(1));
        switch (way) {
        case 0: fold_list_standardize(f, one, 0); break;
        case 1: fold_list_standardize(f, list, -1); break;
        case 2: fold_standardize(f, one, two, two, 0); break;
        case 3: fold_transformer_apply(f, &layer, one, 0); break;
        default: fold_encoder_apply(f, &encoder, way == 4 ? one : list, 0); break;
        }
        CHECK(fold_ctx_status(f) != FOLD_OK);
        CHECK_TEXT(fold_ctx_message(f), says_ctx[way]);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Deviations whose squares overflow make no zeros of a list: NaN says that there is no such value. */
static void test_list_standardize_far_out(void)
{
    static const struct { float size; int finite; } row[] = { { 1, 1 }, { 1e19f, 1 }, { 2e19f, 0 }, { 3e38f, 0 } };
    for (int at = 0; at < 8; at++) {
        const float size = row[at / 2].size, x[4] = { size, 1, -size, -1 };
        fold_model *m = fold_model_new(NULL);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = at % 2;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node y = fold_list_standardize(f, fold_list_input(f, x, 2, fold_shape1(2)), 1e-9f);
        fold_run(f, &y, 1);
        const float *got = fold_value(f, y);
        for (int i = 0; got && i < 4; i++) {
            const float want = i < 2 ? 1.0f : -1.0f, apart = got[i] - want;
            CHECK_SAYS(i % 2 || row[at / 2].finite ? apart < 1e-6f && apart > -1e-6f : got[i] != got[i], "%g of %g", (double)got[i], (double)size);
        }
        CHECK(got != NULL);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* ---- names ------------------------------------------------------------------------------------------- */

/* Makes a layer of one kind; the longest of its parameters' names has so many bytes more. */
static void name_dense(fold_model *m, const char *name) { fold_dense_new(m, name, 2, 3, FOLD_ACT_TANH); }
static void name_mlp(fold_model *m, const char *name)
{
    static const int sizes[3] = { 2, 3, 2 };
    fold_mlp_new(m, name, sizes, 2, FOLD_ACT_TANH);
}
static void name_lstm(fold_model *m, const char *name) { fold_lstm_new(m, name, 2, 3); }
static void name_gru(fold_model *m, const char *name) { fold_gru_new(m, name, 2, 3); }
static void name_stack(fold_model *m, const char *name) { fold_rnn_stack_new(m, name, fold_rnn_new, 2, 3, 2, 1); }
static void name_tree(fold_model *m, const char *name) { fold_tree_lstm_new(m, name, 2, 3, 2); }
static void name_child_sum(fold_model *m, const char *name) { fold_child_sum_new(m, name, 2, 3); }
static void name_conv(fold_model *m, const char *name) { fold_conv_new(m, name, fold_shape3(2, 2, 3), NULL, FOLD_ACT_TANH); }
static void name_norm(fold_model *m, const char *name) { fold_norm_new(m, name, 2, FOLD_NORM_LAYER, 0); }
static void name_attention(fold_model *m, const char *name) { fold_attention_new(m, name, 4, 2); }
static void name_transformer(fold_model *m, const char *name)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = 4;
    d.heads = 2;
    fold_transformer_new(m, name, &d);
}
static const struct { const char *kind; void (*make)(fold_model *m, const char *name); size_t more; } named[] = {
    { "conv", name_conv, 2 }, { "norm", name_norm, 5 }, { "attention", name_attention, 9 }, { "transformer", name_transformer, 20 },
    { "dense", name_dense, 2 }, { "mlp", name_mlp, 4 }, { "lstm", name_lstm, 2 }, { "gru", name_gru, 2 },
    { "rnn_stack", name_stack, 12 }, { "tree_lstm", name_tree, 8 }, { "child_sum", name_child_sum, 4 }
};

/* Names are kept whole or refused: two that were cut could be the same one. */
static void test_long_names(void)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        for (size_t over = 0; over < 2; over++) {
            char name[160];
            size_t longest = 0;
            fold_model *m = fold_model_new(NULL);
            memset(name, 'n', sizeof name);
            name[127 - named[i].more + over] = 0;
            named[i].make(m, name);
            for (int k = 0; k < fold_param_count(m); k++) {
                const char *full = fold_param_name(m, fold_param_at(m, k));
                CHECK(!strncmp(full, name, strlen(name)) && full[strlen(name)] == '.');
                if (strlen(full) > longest) longest = strlen(full);
            }
            CHECK_SAYS(fold_model_status(m) == (over ? FOLD_BAD_ARGUMENT : FOLD_OK), "%s: %s", named[i].kind, fold_model_message(m));
            CHECK_SAYS(over ? longest < 128 : longest == 127, "%s: the longest name has %d bytes", named[i].kind, (int)longest);
            if (over) CHECK_TEXT(fold_model_message(m), "together are longer than 127 bytes");
            fold_model_free(m);
        }
}

/* After steps of another optimiser one begins as in a new model: the state of momentum is no sum of squares. */
enum { STEPPED = 70 };
static void one_step(fold_model *m, fold_param p, const optimiser *o, float shift)
{
    float *w = fold_values_write_begin(m, p);
    for (int i = 0; i < STEPPED; i++) w[i] = 0.25f * (float)(i % 6) + shift;
    fold_values_write_end(m, p);
    float *g = fold_grads_write_begin(m, p);
    for (int i = 0; i < STEPPED; i++) g[i] = (float)(i % 7 - 3) * (1 + shift);
    fold_grads_write_end(m, p);
    CHECK_INT(take_step(m, o), FOLD_OK);
}
static void test_other_optimiser(void)
{
    static const optimiser each[] = {
        { "momentum", 0.1, 0.9, 0, 0, 0, 0 }, { "rmsprop", 0.01, 0.9, 0, 1e-8, 0, 2 }, { "adam", 0.01, 0.9, 0.999, 1e-8, 0, 3 }
    };
    for (int before = 0; before < 3; before++)
        for (int after = 0; after < 3; after++) {
            fold_model *m = fold_model_new(NULL), *fresh = fold_model_new(NULL);
            const fold_param p = fold_bias_new(m, "p", STEPPED), q = fold_bias_new(fresh, "p", STEPPED);
            for (int i = 0; i < 3; i++) one_step(m, p, &each[before], 0.5f);
            one_step(m, p, &each[after], 0);
            one_step(fresh, q, &each[after], 0);
            const int same = !memcmp(fold_param_value(m, p), fold_param_value(fresh, q), STEPPED * sizeof(float));
            CHECK_SAYS(same == (before != after), "%s after %s: %s", each[after].name, each[before].name,
                       same ? "it began anew" : "it did not begin anew");
            CHECK_INT(fold_model_steps(m), before == after ? 4 : 1);
            fold_model_free(m);
            fold_model_free(fresh);
        }
}

/* ---- rows that a step changes: those that the root's gradient reached ------------------------------------ */

enum { REACHED, STOPPED, STOPPED_LATER, DEAD_INPUT, UNUSED_OUTPUT, USED_OUTPUT, STOPPED_IN_BODY, TARGET, SHARED_ROW, ONLY_KEPT,
       NEVER_READ, TOUCH_ROWS };
enum { TIED_NOWHERE, TIED_DEAD, TIED_STOPPED, TIED_STOPPED_IN_BODY, TIED_UNUSED, TIED_WAYS }; /* the last: all rows */
typedef struct touching { fold_model *m; fold_param E, T; fold_cell body; int way; } touching;

static void touching_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const touching *n = (const touching *)user;
    const fold_param none = { 0, 0 };
    const fold_node dead = fold_tanh(f, in[0]);
    fold_node unused = fold_square(f, in[1]);
    if (n->way == TIED_DEAD) fold_linear_t(f, dead, n->T, none);
    if (n->way == TIED_UNUSED) unused = fold_add(f, unused, fold_sum(f, fold_linear_t(f, in[1], n->T, none), FOLD_ALL));
    out[0] = fold_add(f, fold_tanh(f, in[2]), fold_stop_gradient(f, fold_square(f, in[3])));
    if (n->way == TIED_STOPPED_IN_BODY)
        out[0] = fold_add(f, out[0], fold_stop_gradient(f, fold_sum(f, fold_linear_t(f, in[3], n->T, none), FOLD_ALL)));
    out[1] = unused;
}

/* A first loss that reaches all rows, or one of each kind; gradients in double to E's and T's mirrors. */
static fold_node touching_loss(fold_ctx *f, const touching *n, int first, weights *e, weights *t)
{
    const float c[WIDTH] = { 0.5f, -1, 2 };
    const fold_param none = { 0, 0 };
    fold_node row[TOUCH_ROWS], term[TOUCH_ROWS + TIED_ROWS], in[4];
    int terms = 0;
    memset(e->g, 0, sizeof e->g);
    memset(t->g, 0, sizeof t->g);
    const fold_node weight = fold_input(f, c, WIDTH);
    for (int k = 0; k < TOUCH_ROWS; k++) row[k] = fold_lookup(f, n->E, k == NEVER_READ && !first ? 0 : k);
    for (int k = 0; k < (first ? TIED_ROWS : 1); k++) {
        term[terms++] = fold_dot(f, weight, fold_lookup(f, n->T, k));
        for (int i = 0; i < WIDTH; i++) t->g[k * WIDTH + i] = (double)c[i];
    }
    for (int k = 0; k < TOUCH_ROWS; k++)
        for (int i = 0; i < WIDTH; i++) {
            const double y = tanh(e->w[k * WIDTH + i]);
            e->touched[k * WIDTH + i] = first || k == REACHED || k == UNUSED_OUTPUT || k == USED_OUTPUT || k == SHARED_ROW;
            if (first || k == REACHED || k == SHARED_ROW) e->g[k * WIDTH + i] = (double)c[i];
            if (!first && k == USED_OUTPUT) e->g[k * WIDTH + i] = (double)c[i] * (1 - y * y);
        }
    for (int i = 0; i < TIED_ROWS * WIDTH; i++) t->touched[i] = first || i < WIDTH || n->way == TIED_UNUSED;
    for (int k = 0; k < TOUCH_ROWS && first; k++) term[terms++] = fold_dot(f, weight, row[k]);
    if (first) return fold_sum_n(f, term, (size_t)terms);
    in[0] = row[DEAD_INPUT];
    in[1] = row[UNUSED_OUTPUT];
    in[2] = row[USED_OUTPUT];
    in[3] = row[STOPPED_IN_BODY];
    term[terms++] = fold_dot(f, weight, row[REACHED]);
    term[terms++] = fold_dot(f, weight, fold_stop_gradient(f, row[STOPPED]));
    term[terms++] = fold_dot(f, weight, fold_stop_gradient(f, fold_exp(f, row[STOPPED_LATER])));
    term[terms++] = fold_dot(f, weight, fold_call(f, n->body, in, 4));
    term[terms++] = fold_bce(f, weight, row[TARGET]);
    term[terms++] = fold_dot(f, weight, fold_shared(f, row[SHARED_ROW]));
    if (n->way == TIED_STOPPED)
        term[terms++] = fold_stop_gradient(f, fold_sum(f, fold_linear_t(f, weight, n->T, none), FOLD_ALL));
    fold_keep(f, fold_square(f, row[ONLY_KEPT]));
    return fold_sum_n(f, term, (size_t)terms);
}

static void test_touched(void)
{
    const optimiser ways[2] = { { "momentum", 0.1, 0.9, 0, 0, 0.2, 0 }, { "adam", 0.01, 0.9, 0.999, 1e-8, 0.2, 3 } };
    for (int k = 0; k < 2 * TIED_WAYS * 2; k++) { /* eager and batched */
        static weights e, t;
        touching n;
        fold_cell_desc c = fold_cell_desc_default();
        fold_param_desc d = fold_param_desc_default();
        fold_ctx_desc training = fold_ctx_desc_default();
        n.way = k / 4;
        n.m = fold_model_new(NULL);
        n.E = fold_table_new(n.m, "E", TOUCH_ROWS, WIDTH);
        d.name = "T";
        d.shape = fold_shape2(TIED_ROWS, WIDTH);
        d.uses = FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T;
        n.T = fold_param_new(n.m, &d);
        randomise(n.m, 41);
        c.name = "touching";
        c.body = touching_body;
        c.user = &n;
        c.n_in = 4;
        c.n_out = 2;
        for (int i = 0; i < 4; i++) c.in[i] = fold_shape1(WIDTH);
        n.body = fold_cell_new(n.m, &c);
        training.training = 1;
        training.eager = k % 2;
        fold_ctx *f = fold_ctx_new(n.m, &training);
        memset(&e, 0, sizeof e);
        memset(&t, 0, sizeof t);
        for (int i = 0; i < TOUCH_ROWS * WIDTH; i++) e.w[i] = (double)fold_param_value(n.m, n.E)[i];
        for (int i = 0; i < TIED_ROWS * WIDTH; i++) t.w[i] = (double)fold_param_value(n.m, n.T)[i];
        for (int step = 1; step < 3; step++) {
            fold_ctx_reset(f);
            CHECK_SAYS(!fold_backward(f, touching_loss(f, &n, step == 1, &e, &t)), "%s", fold_ctx_message(f));
            CHECK_INT(take_step(n.m, &ways[k / 2 % 2]), FOLD_OK);
            reference_step(&ways[k / 2 % 2], &e, TOUCH_ROWS * WIDTH, step, 1, 1);
            reference_step(&ways[k / 2 % 2], &t, TIED_ROWS * WIDTH, step, 1, 1);
            for (int i = 0; i < TOUCH_ROWS * WIDTH; i++)
                CHECK_SAYS(fabs((double)fold_param_value(n.m, n.E)[i] - e.w[i]) < 1e-6, "%s, %s, step %d, row %d: %g, want %g",
                           ways[k / 2 % 2].name, k % 2 ? "eager" : "batched", step, i / WIDTH, (double)fold_param_value(n.m, n.E)[i], e.w[i]);
            for (int i = 0; i < TIED_ROWS * WIDTH; i++)
                CHECK_SAYS(fabs((double)fold_param_value(n.m, n.T)[i] - t.w[i]) < 1e-6, "%s, %s, step %d, tied %d, row %d: %g, want %g",
                           ways[k / 2 % 2].name, k % 2 ? "eager" : "batched", step, n.way, i / WIDTH,
                           (double)fold_param_value(n.m, n.T)[i], t.w[i]);
        }
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* Backwards add up where a table is looked into by one and a weight of the next. */
static void test_tied_twice(void)
{
    for (int k = 0; k < 4; k++) { /* eager and batched; lookups first and last */
        const fold_param none = { 0, 0 };
        const float x[WIDTH] = { 1, -2, 3 };
        fold_param_desc d = fold_param_desc_default();
        fold_ctx_desc training = fold_ctx_desc_default();
        fold_model *m = fold_model_new(NULL);
        d.name = "T";
        d.shape = fold_shape2(TIED_ROWS, WIDTH);
        d.uses = FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T;
        const fold_param T = fold_param_new(m, &d);
        training.training = 1;
        training.eager = k % 2;
        fold_ctx *f = fold_ctx_new(m, &training);
        for (int step = 0; step < 2; step++)
            if (step == k / 2) CHECK_INT(fold_backward(f, fold_sum(f, fold_lookup(f, T, 2), FOLD_ALL)), FOLD_OK);
            else CHECK_INT(fold_backward(f, fold_sum(f, fold_linear_t(f, fold_input(f, x, WIDTH), T, none), FOLD_ALL)), FOLD_OK);
        for (int i = 0; i < TIED_ROWS * WIDTH; i++)
            CHECK_NEAR(fold_param_grad(m, T)[i], x[i % WIDTH] + (i / WIDTH == 2 ? 1 : 0), 0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* ---- values of another model ------------------------------------------------------------------------ */

/* Copied values and moved ones, in the packs too, on every instruction set; gradients and state stay. */
static void test_values_of_another(void)
{
    for (int k = 0; k < KERNEL_SETS; k++) {
        fold_param p[SPREAD], q[SPREAD];
        fold_model *m = spread_model(kernel_set[k], p), *other = m ? spread_model(kernel_set[k], q) : NULL;
        const fold_sgd momentum = { 0.1f, 0.9f, 0 };
        check_random r = { 5 };
        int count;
        if (!m) continue;
        fold_ctx_desc training = fold_ctx_desc_default();
        training.training = 1;
        fold_ctx *f = fold_ctx_new(m, &training);
        spread_gradients(m, f, p, &r);
        CHECK_INT(fold_sgd_step(m, &momentum), FOLD_OK);
        spread_gradients(m, f, p, &r);
        randomise(m, 2); /* those of the step are up to 1e20 */
        randomise(other, 3);
        fold_model_scale_rates(m, 2, 1, 1);
        const float *mine = fold_model_values(m, &count), *theirs = fold_model_values(other, NULL);
        const float *grads = fold_model_grads(m, NULL);
        static float before[1 << 16], grads_before[1 << 16];
        if (!CHECK(count <= 1 << 16)) return;
        memcpy(before, mine, (size_t)count * sizeof *mine);
        memcpy(grads_before, grads, (size_t)count * sizeof *grads);
        CHECK_INT(fold_values_average(m, other, 0.25f), FOLD_OK);
        for (int i = 0; i < count; i++)
            CHECK_NEAR(mine[i], before[i] + 0.25 * ((double)theirs[i] - (double)before[i]), 1e-6);
        CHECK_BITS(grads, grads_before, count);
        CHECK_INT(fold_model_steps(m), 1);
        fold_grads_clear(m);
        compare_packs(m, p, kernel_set[k]);
        CHECK_INT(fold_values_copy(m, other), FOLD_OK);
        CHECK_BITS(mine, theirs, count);
        compare_packs(m, p, kernel_set[k]);
        memcpy(before, mine, (size_t)count * sizeof *mine);
        CHECK_INT(fold_values_average(m, other, 0), FOLD_OK);
        CHECK_INT(fold_values_copy(m, m), FOLD_OK);
        CHECK_INT(fold_values_average(m, m, 0.5f), FOLD_OK);
        CHECK_BITS(mine, before, count);
        fold_ctx_free(f);
        fold_model_free(m);
        fold_model_free(other);
    }
}

/* Arrays fill a layer, and no other; what does not fit is named, and then nothing changes. */
static void test_values_from_arrays(void)
{
    static const float W[6] = { 1, 2, 3, 4, 5, 6 }, b[3] = { 10, 20, 30 }, x[2] = { 1, -1 };
    for (int inference = 0; inference < 2; inference++) {
        fold_model_desc d = fold_model_desc_default();
        d.inference = inference;
        fold_model *m = fold_model_new(&d);
        const fold_dense other = fold_dense_new(m, "dd", 2, 3, FOLD_ACT_LINEAR), layer = fold_dense_new(m, "d", 2, 3, FOLD_ACT_LINEAR);
        fold_gru_new(m, "g", 2, 3);
        const float *theirs = fold_param_value(m, other.W), untouched = theirs[0];
        const fold_array none = { NULL, NULL, 0 };
        const struct { const char *name; fold_array array[3]; int n; fold_status status; const char *says; } row[] = {
            { "d", { { "W", W, 6 }, { "b", b, 2 }, none }, 2, FOLD_BAD_SHAPE, "fold_values_fill: 'd.b' has 3 values, but its array 2" },
            { "d", { { "W", W, 6 }, none, none }, 1, FOLD_BAD_ARGUMENT, "fold_values_fill: no array for parameter 'd.b'" },
            { "d", { { "W", W, 6 }, { "b", NULL, 3 }, none }, 2, FOLD_BAD_ARGUMENT, "fold_values_fill: no array for parameter 'd.b'" },
            { "d", { { "W", W, 6 }, { "b", b, 3 }, { "c", b, 3 } }, 3, FOLD_BAD_ARGUMENT, "fold_values_fill: 1 of 3 arrays match no parameter of 'd'" },
            { "e", { { "W", W, 6 }, { "b", b, 3 }, none }, 2, FOLD_BAD_ARGUMENT, "fold_values_fill: 2 of 2 arrays match no parameter of 'e'" },
            { "g", { { "W", W, 6 }, { "b", b, 3 }, none }, 2, FOLD_BAD_SHAPE, "fold_values_fill: 'g.W' has 18 values, but its array 6" },
            { "", { { "d.W", W, 6 }, { "d.b", b, 3 }, none }, 2, FOLD_BAD_ARGUMENT, "fold_values_fill: no array for parameter 'dd.W'" },
            { NULL, { none, none, none }, 2, FOLD_BAD_ARGUMENT, "fold_values_fill: name is NULL" },
            { "d", { { "b", b, 3 }, { "W", W, 6 }, none }, 2, FOLD_OK, "" },
        };
        for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
            float before[6];
            memcpy(before, fold_param_value(m, layer.W), sizeof before);
            CHECK_INT(fold_values_fill(m, row[i].name, row[i].array, row[i].n), row[i].status);
            CHECK_SAYS(!strcmp(fold_model_message(m), row[i].says), "row %d: \"%s\"", (int)i, fold_model_message(m));
            CHECK_BITS(fold_param_value(m, layer.W), row[i].status ? before : W, 6);
            fold_model_clear_error(m);
        }
        CHECK_BITS(fold_param_value(m, other.W), &untouched, 1);
        fold_ctx *f = fold_ctx_new(m, NULL);
        const fold_node y = fold_dense_apply(f, &layer, fold_input(f, x, 2));
        CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        for (int i = 0; i < 3; i++) CHECK_NEAR(fold_value(f, y)[i], b[i] - 3, 0); /* with packs that are new too */
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* An inference model gets the values too. Models that differ are refused, and nothing changes. */
static void test_values_of_a_stranger(void)
{
    static const char *const says[] = { "parameter 1 is 'b' [3], but 'c' [3] in the other model",
                                        "parameter 1 is 'b' [3], but 'b' [4] in the other model",
                                        "parameter 1 is 'b' [3], but 'b' [3 x 1] in the other model",
                                        "the model has 2 parameters, the other 1", "from is NULL",
                                        "share is 1.5, must be in [0, 1]", "share is nan, must be in [0, 1]", "" };
    for (int way = 0; way < 2 * 8; way++) {
        const int wrong = way / 2, average = way % 2;
        fold_model_desc inference = fold_model_desc_default();
        inference.inference = 1;
        fold_model *m = fold_model_new(&inference), *other = fold_model_new(NULL);
        const fold_param W = fold_weight_new(m, "W", 2, 3);
        fold_bias_new(m, "b", 3);
        const float before = *fold_param_value(m, W);
        fold_weight_new(other, "W", 2, 3);
        randomise(other, 1);
        if (wrong == 2) fold_weight_new(other, "b", 3, 1);
        else if (wrong != 3) fold_bias_new(other, wrong == 0 ? "c" : "b", wrong == 1 ? 4 : 3);
        if ((wrong == 5 || wrong == 6) && !average) { fold_model_free(m); fold_model_free(other); continue; }
        const float share = wrong == 5 ? 1.5f : wrong == 6 ? NAN : 1;
        const fold_model *from = wrong == 4 ? NULL : other;
        const fold_status status = average ? fold_values_average(m, from, share) : fold_values_copy(m, from);
        CHECK_INT(status, fold_model_status(m));
        CHECK_INT(status == FOLD_OK, wrong == 7);
        CHECK_TEXT(fold_model_message(m), wrong == 7 ? "" : average ? "fold_values_average: " : "fold_values_copy: ");
        CHECK_TEXT(fold_model_message(m), says[wrong]);
        CHECK_INT(fold_model_status(other), FOLD_OK);
        if (wrong == 7) CHECK_NEAR(*fold_param_value(m, W), *fold_param_value(other, fold_param_find(other, "W")), 1e-7);
        else CHECK_NEAR(*fold_param_value(m, W), before, 0);
        if (wrong != 7) CHECK_INT(fold_values_copy(m, m), status); /* an error stays */
        fold_model_free(m);
        fold_model_free(other);
    }
}

/* ---- chance and choice ---------------------------------------------------------------------------- */

/* The numbers of another program, in Python: splitmix64's finaliser of key, draw and element, Box and Muller's normals,
   Gumbel's maximum. */
static void test_random(void)
{
    static const int uniform[] = { 6360271, 1090596, 9775164, 11131418 }, below[] = { 2, 5, 5, 5, 2, 5, 5, 4 };
    static const double normal[] = { 0.542828625, -1.14569716, 0.807935258, -0.64603727 };
    static const double elements[] = { 0.542828625, 1.28266856, -0.511216947, 0.893432251, 0.113296037 };
    static const int by_logits[] = { 2, 0, 2, 2, 0, 4, 0, 2, 4, 2, 4, 2, 4, 2, 0, 2 };
    static const int by_weights[] = { 2, 0, 2, 2, 0, 3, 0, 2, 3, 2, 3, 2, 3, 0, 0, 2 };
    static const int shuffled[] = { 6, 5, 3, 4, 7, 1, 2, 0 };
    const float logits[] = { 0.5f, -1, 2, -INFINITY, 1.5f }, weights[] = { 1, 0, 3, 2 };
    const float mean[] = { 1, 2, 3, 4, 5 }, deviation[] = { 1, 2, 0.5f, 0, 1 };
    fold_random zero = { 0, 0 }, r = fold_random_new(7, 3);
    const fold_random begin = r;
    float values[5];
    int items[8];
    CHECK(fold_random_bits(&zero) == UINT64_C(0xe220a8397b1dcdaf) && fold_random_bits(&zero) == UINT64_C(0x6e789e6aa1b965f4));
    CHECK_INT(zero.draw, 2);
    CHECK(fold_random_bits(&r) == UINT64_C(0x610ccf0e704fc5e0) && r.draw == 1);
    r.draw = 5;
    CHECK(fold_random_bits(&r) == UINT64_C(0xded2b0a905f836bf));
    r = begin;
    for (int i = 0; i < 4; i++) CHECK_NEAR(fold_random_uniform(&r) * 16777216.0f, uniform[i], 0);
    r = begin;
    for (int i = 0; i < 4; i++) CHECK_NEAR(fold_random_normal(&r), normal[i], 1e-6);
    r = begin;
    for (int i = 0; i < 8; i++) CHECK_INT(fold_random_below(&r, 10), below[i]);
    r = begin;
    for (int i = 0; i < 16; i++) CHECK_INT(fold_random_softmax(&r, logits, 5), by_logits[i]);
    CHECK_INT(r.draw, 16);
    r = begin;
    for (int i = 0; i < 16; i++) CHECK_INT(fold_random_weighted(&r, weights, 4), by_weights[i]);
    CHECK_INT(r.draw, 16);
    r = begin;
    fold_random_gaussian(&r, mean, deviation, 5, values);
    for (int i = 0; i < 5; i++) CHECK_NEAR(values[i], mean[i] + deviation[i] * elements[i], 1e-5);
    CHECK_INT(r.draw, 1);
    r = begin;
    for (int i = 0; i < 8; i++) items[i] = i;
    fold_random_shuffle(&r, 8, items);
    for (int i = 0; i < 8; i++) CHECK_INT(items[i], shuffled[i]);
    CHECK_INT(r.draw, 7);
}

/* A model and a program that have a seed in common do not draw the same. */
static void test_apart(void)
{
    fold_model_desc d = fold_model_desc_default();
    for (d.seed = 0; d.seed < 3; d.seed++) {
        fold_model *m = fold_model_new(&d);
        const fold_param p = initialised(m, "p", fold_shape1(8), FOLD_INIT_NORMAL, 1);
        for (uint64_t stream = 0; stream < 100; stream++) {
            fold_random r = fold_random_new(d.seed, stream);
            const float drawn = fold_random_normal(&r);
            for (int i = 0; i < 8; i++) CHECK(fold_param_value(m, p)[i] != drawn);
        }
        fold_model_free(m);
    }
}

/* What is drawn has the frequencies that it should: every count within five deviations. */
static void count_choices(int (*choose)(fold_random *r, const float *values, int n), const float *given, const double *chance, int n)
{
    enum { DRAWS = 20000, MOST_CHOICES = 8 };
    int count[MOST_CHOICES] = { 0 };
    for (uint64_t stream = 0; stream < 2; stream++) { /* draws of one generator, and the first ones of many */
        fold_random one = fold_random_new(1, 0);
        memset(count, 0, sizeof count);
        for (int i = 0; i < DRAWS; i++) {
            fold_random other = fold_random_new(2, (uint64_t)i);
            const int chosen = choose(stream ? &other : &one, given, n);
            if (CHECK(chosen >= 0 && chosen < n)) count[chosen]++;
        }
        for (int i = 0; i < n; i++) CHECK_NEAR(count[i], DRAWS * chance[i], 5 * sqrt(DRAWS * chance[i] * (1 - chance[i])));
    }
}
static int choose_below(fold_random *r, const float *values, int n)
{
    (void)values;
    return fold_random_below(r, n);
}
static int choose_by_normal(fold_random *r, const float *bounds, int n)
{
    const float value = fold_random_normal(r);
    for (int i = 0; i < n - 1; i++)
        if (value < bounds[i]) return i;
    return n - 1;
}
static int choose_by_uniform(fold_random *r, const float *bounds, int n)
{
    const float value = fold_random_uniform(r);
    for (int i = 0; i < n - 1; i++)
        if (value < bounds[i]) return i;
    return CHECK(value >= 0 && value < 1) ? n - 1 : -1;
}
static void test_frequencies(void)
{
    const float logits[] = { 1, -INFINITY, 3, 0, -2 }, weights[] = { 0, 2, 1, 0, 5, 0 }, bounds[] = { -1, 0, 1.5f };
    const float quarters[] = { 0.25f, 0.5f, 0.75f };
    const double sum = exp(1.0) + exp(3.0) + 1 + exp(-2.0), equal[] = { 0.25, 0.25, 0.25, 0.25 };
    const double by_logits[] = { exp(1.0) / sum, 0, exp(3.0) / sum, 1 / sum, exp(-2.0) / sum };
    const double by_weights[] = { 0, 0.25, 0.125, 0, 0.625, 0 };
    const double normal[] = { 0.158655254, 0.341344746, 0.433192799, 0.066807201 };
    count_choices(fold_random_softmax, logits, by_logits, 5);
    count_choices(fold_random_weighted, weights, by_weights, 6);
    count_choices(choose_below, NULL, equal, 4);
    count_choices(choose_by_normal, bounds, normal, 4);
    count_choices(choose_by_uniform, quarters, equal, 4);
}

/* One draw of several heads: their frequencies, also together, and the log-probability of each pair. Shares may all be
   too large or too small for sums, masked ones among them, and more than the parts that sums are kept of. */
static void test_heads(void)
{
    enum { DRAWS = 20000, SECOND = 200 };
    for (int kind = 0; kind < 3; kind++) {
        const float moved = kind == 0 ? 0 : kind == 1 ? 1e4f : -1e4f;
        const int sizes[] = { 3, SECOND };
        float logits[3 + SECOND];
        double chance[3 + SECOND], sum[2] = { 0, 0 };
        int count[3 + SECOND] = { 0 }, both = 0;
        fold_random r = fold_random_new(5, (uint64_t)kind);
        for (int i = 0; i < 3 + SECOND; i++) {
            const int masked = i == 1 || i == 3 || i == 2 + SECOND;
            logits[i] = masked ? -INFINITY : moved + (float)(i % 7) * 0.5f;
            sum[i >= 3] += chance[i] = masked ? 0 : exp(0.5 * (i % 7));
        }
        for (int i = 0; i < 3 + SECOND; i++) chance[i] /= sum[i >= 3];
        for (int i = 0; i < DRAWS; i++) {
            int chosen[2];
            const float log_chance = fold_random_softmax_n(&r, logits, sizes, 2, chosen);
            if (!CHECK(chosen[0] >= 0 && chosen[0] < 3 && chosen[1] >= 0 && chosen[1] < SECOND)) return;
            CHECK_NEAR(log_chance, log(chance[chosen[0]] * chance[3 + chosen[1]]), 1e-6);
            count[chosen[0]]++;
            count[3 + chosen[1]]++;
            both += chosen[0] == 2 && chosen[1] == 6;
        }
        CHECK_INT(r.draw, DRAWS);
        for (int i = 0; i < 3 + SECOND; i++) CHECK_NEAR(count[i], DRAWS * chance[i], 5 * sqrt(DRAWS * chance[i] * (1 - chance[i])));
        CHECK_NEAR(both, DRAWS * chance[2] * chance[9], 5 * sqrt(DRAWS * chance[2] * chance[9]));
    }
}

static void test_no_heads(void)
{
    const float logits[] = { 1, 2, 3, NAN, -INFINITY, INFINITY, 7 };
    const int sizes[] = { 3, 1, 1, 0, -2, 2 };
    int chosen[6];
    fold_random r = fold_random_new(1, 2);
    CHECK(isnan(fold_random_softmax_n(&r, logits, sizes, 6, chosen)) && r.draw == 1);
    CHECK(chosen[0] >= 0);
    for (int i = 1; i < 5; i++) CHECK_INT(chosen[i], -1);
    CHECK_INT(chosen[5], 0);
    CHECK_NEAR(fold_random_softmax_n(&r, logits + 5, sizes + 5, 1, chosen), 0, 0);
    CHECK_NEAR(fold_random_softmax_n(&r, logits, sizes, 0, chosen), 0, 0);
    CHECK(isnan(fold_random_softmax_n(NULL, logits, sizes, 6, chosen)) && chosen[0] == -1);
    CHECK(isnan(fold_random_softmax_n(&r, NULL, sizes, 6, chosen)) && isnan(fold_random_softmax_n(&r, logits, NULL, 6, chosen)));
    CHECK(isnan(fold_random_softmax_n(&r, logits, sizes, 6, NULL)));
    r = fold_random_new(7, 3);
    const fold_random same = r;
    const int first = fold_random_softmax(&r, logits, 3);
    r = same;
    CHECK(fold_random_softmax_n(&r, logits, sizes, 1, chosen) < 0 && chosen[0] == first); /* one head is that call */
}

static void test_no_choice(void)
{
    const float bad[] = { 1, NAN, 2 }, none[] = { -INFINITY, -INFINITY }, sure[] = { -INFINITY, -3, -INFINITY, INFINITY };
    const float zeros[] = { 0, 0 }, negative[] = { 1, -1 }, infinite[] = { 1, INFINITY };
    fold_random r = fold_random_new(1, 2);
    CHECK_INT(fold_random_softmax(&r, bad, 3), -1);
    CHECK_INT(fold_random_softmax(&r, none, 2), -1);
    CHECK_INT(fold_random_softmax(&r, sure, 0), -1);
    CHECK_INT(fold_random_softmax(&r, sure, 3), 1);
    CHECK_INT(fold_random_softmax(&r, sure, 4), 3);
    CHECK_INT(fold_random_softmax(&r, NULL, 4), -1);
    CHECK_INT(fold_random_weighted(&r, bad, 3), -1);
    CHECK_INT(fold_random_weighted(&r, zeros, 2), -1);
    CHECK_INT(fold_random_weighted(&r, negative, 2), -1);
    CHECK_INT(fold_random_weighted(&r, infinite, 2), -1);
    CHECK_INT(fold_random_below(&r, 0), 0);
    CHECK_INT(fold_random_below(&r, 1), 0);
    CHECK_INT(r.draw, 12);
    CHECK(fold_random_bits(NULL) == 0 && fold_random_uniform(NULL) == 0 && fold_random_normal(NULL) == 0);
}

static void test_largest(void)
{
    const float values[] = { 1, 5, NAN, 5, -2, 7, 0, 5 }, lost[] = { NAN, NAN };
    static const int want[] = { 5, 1, 3, 7, 0, 6, 4 };
    CHECK_INT(fold_argmax(values, 8), 5);
    CHECK_INT(fold_argmax(values, 5), 1); /* the first of two */
    CHECK_INT(fold_argmax(values, 0), -1);
    CHECK_INT(fold_argmax(lost, 2), -1);
    CHECK_INT(fold_argmax(NULL, 2), -1);
    CHECK(fold_finite(values, 2) && !fold_finite(values, 3) && fold_finite(values + 3, 5) && !fold_finite(lost, 2));
    for (int at = 0; at < 5; at++) {
        const float odd[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -1e-45f };
        float all[5] = { 1, -2, 0, FLT_MAX, -FLT_MAX };
        all[at] = odd[at];
        CHECK_INT(fold_finite(all, 5), at > 2);
        CHECK_INT(fold_finite(all, at), 1); /* it stands behind those */
    }
    CHECK(fold_finite(lost, 0) && fold_finite(lost, -1) && !fold_finite(NULL, 2) && !fold_finite(NULL, 0));
    for (int k = -1; k < 10; k++) {
        int index[9] = { -7, -7, -7, -7, -7, -7, -7, -7, -7 };
        const int found = k < 0 ? 0 : k < 7 ? k : 7;
        CHECK_INT(fold_top_k(values, 8, k, index), found);
        for (int i = 0; i < 9; i++) CHECK_INT(index[i], i < found ? want[i] : -7);
    }
}

/* Policies' ops against their formulas in double precision, and their gradients, for nodes and for lists. */
enum { CHOICES = 3 };
static mirror policy_mirror;
static double entropy_of(const double *logits)
{
    double sum = 0, entropy = 0;
    for (int i = 0; i < CHOICES; i++) sum += exp(logits[i]);
    for (int i = 0; i < CHOICES; i++) entropy -= exp(logits[i]) / sum * log(exp(logits[i]) / sum);
    return entropy;
}
static double policy_loss(const mirror *p)
{
    const double *l = values(p, "logits"), *mean = values(p, "mean"), *s = values(p, "s"), *x = values(p, "x");
    const double pi = 3.14159265358979323846;
    double density = 0, spread = 0;
    for (int i = 0; i < CHOICES; i++) {
        density += -(x[i] - mean[i]) * (x[i] - mean[i]) / (2 * exp(2 * s[i])) - s[i] - 0.5 * log(2 * pi);
        spread += s[i] + 0.5 * log(2 * pi * exp(1.0));
    }
    return entropy_of(l) + 2 * density + 3 * spread;
}
static void test_policy_ops(void)
{
    for (int way = 0; way < 4; way++) { /* eager and batched, nodes and lists of one row */
        static const char *const names[] = { "logits", "mean", "s", "x" };
        fold_model *m = fold_model_new(NULL);
        fold_ctx_desc training = fold_ctx_desc_default();
        fold_node in[4];
        mirror *p = &policy_mirror;
        training.training = 1;
        training.eager = way & 1;
        fold_ctx *f = fold_ctx_new(m, &training);
        for (int i = 0; i < 4; i++) fold_bias_new(m, names[i], CHOICES);
        randomise(m, 5);
        read_values(p, m);
        for (int i = 0; i < 4; i++) {
            in[i] = fold_use(f, fold_param_find(m, names[i]));
            if (way >> 1) in[i] = fold_list_join(f, &in[i], 1);
        }
        fold_node term[3];
        term[0] = fold_softmax_entropy(f, in[0]);
        term[1] = fold_scale(f, fold_gaussian_log_prob(f, in[3], in[1], in[2]), 2);
        term[2] = fold_scale(f, fold_gaussian_entropy(f, in[2]), 3);
        for (int i = 0; i < 3 && way >> 1; i++) term[i] = fold_list_sum(f, term[i]);
        const fold_node loss = fold_sum_n(f, term, 3);
        CHECK_SAYS(!fold_backward(f, loss), "%s", fold_ctx_message(f));
        CHECK_NEAR(fold_scalar(f, loss), policy_loss(p), 1e-5);
        compare_grads(p, policy_loss);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* A choice that is ruled out costs nothing and gets no gradient; one deviation serves all. */
static void test_policy_edges(void)
{
    const float ruled_out[CHOICES] = { 0, -1e9f, 0 }, mean[CHOICES] = { 0, 0, 0 }, shape[2] = { 0, 0 };
    fold_model *m = fold_model_new(NULL);
    const fold_param p = fold_bias_new(m, "p", CHOICES);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    memcpy(fold_values_write_begin(m, p), ruled_out, sizeof ruled_out);
    fold_values_write_end(m, p);
    const fold_node x = fold_input(f, mean, CHOICES), entropy = fold_softmax_entropy(f, fold_use(f, p));
    const fold_node density = fold_gaussian_log_prob(f, x, x, fold_constant(f, 0));
    fold_keep(f, density);
    CHECK_INT(fold_backward(f, entropy), FOLD_OK);
    CHECK_NEAR(fold_scalar(f, entropy), log(2.0), 1e-6);
    CHECK_NEAR(fold_scalar(f, density), -0.5 * CHOICES * log(2 * 3.14159265358979323846), 1e-5);
    for (int i = 0; i < CHOICES; i++) CHECK_NEAR(fold_param_grad(m, p)[i], 0, 1e-7);
    CHECK(fold_node_is_null(fold_gaussian_log_prob(f, x, fold_input(f, shape, 2), x)));
    CHECK_TEXT(fold_ctx_message(f), "gaussian_log_prob");
    fold_ctx_free(f);
    fold_model_free(m);
}

/* The first table of a model, made in a cell's body: layers get projections for its words when the body is traced. */
static void tied_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    fold_param_desc d = fold_param_desc_default();
    (void)user;
    d.name = "tied";
    d.shape = fold_shape2(4, 2);
    d.init = FOLD_INIT_GLOROT;
    d.uses = FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T;
    out[0] = fold_linear_t(f, in[0], fold_param_new(fold_ctx_model(f), &d), FOLD_NULL_PARAM);
}
static void table_in_a_body(void)
{
    int signatures[2] = { 0, 0 };
    for (int first = 0; first < 2; first++) {
        fold_model *m = fold_model_new(NULL);
        if (first) fold_table_new(m, "t", 3, 2);
        const fold_recurrent rnn = fold_rnn_new(m, "rnn", 2, 2);
        fold_cell_desc d = fold_cell_desc_default();
        d.name = "c";
        d.body = tied_body;
        d.n_in = d.n_out = 1;
        d.in[0] = fold_shape1(2);
        const fold_cell cell = fold_cell_new(m, &d);
        CHECK_SAYS(cell.id && !fold_model_status(m), "%s", fold_model_message(m));
        fold_ctx_desc c = fold_ctx_desc_default();
        c.dedupe = 1;
        fold_ctx *f = fold_ctx_new(m, &c);
        fold_node x[3];
        for (int i = 0; i < 3; i++) x[i] = fold_lookup(f, fold_param_find(m, "tied"), i % 2);
        fold_node y = fold_unroll(f, &rnn, x, 3, 0, NULL, NULL).h;
        y = fold_call(f, cell, &y, 1);
        CHECK_SAYS(!fold_run(f, &y, 1), "%s", fold_ctx_message(f));
        signatures[first] = fold_ctx_stats(f).signatures;
        fold_ctx_free(f);
        fold_model_free(m);
    }
    CHECK_INT(signatures[0], signatures[1]); /* words are projected in both */
}

/* Rates by their formulas in double precision. */
static double rate_wanted(const fold_rates *r, int step)
{
    const double pi = 3.14159265358979323846, end = (double)r->end;
    if (step < r->warm_up) return (step + 1.0) / r->warm_up;
    if (r->kind == FOLD_RATE_STEP) return r->every ? pow(r->factor == 0 ? 0.1 : (double)r->factor, step / r->every) : 1;
    if (r->kind == FOLD_RATE_CONSTANT || !r->steps) return 1;
    const double t = step < r->steps ? (double)(step - r->warm_up) / (r->steps - r->warm_up) : 1;
    return end + (1 - end) * (r->kind == FOLD_RATE_LINEAR ? 1 - t : (1 + cos(pi * t)) / 2);
}
static void rates_follow_formulas(void)
{
    static const fold_rates rates[] = {
        { FOLD_RATE_CONSTANT, 0, 0, 0, 0, 0 },   { FOLD_RATE_CONSTANT, 5, 20, 0.5f, 3, 0.5f },
        { FOLD_RATE_LINEAR, 0, 20, 0, 0, 0 },    { FOLD_RATE_LINEAR, 5, 20, 0.25f, 0, 0 },
        { FOLD_RATE_COSINE, 0, 1000, 0, 0, 0 },  { FOLD_RATE_COSINE, 7, 20, 0.1f, 0, 0 },
        { FOLD_RATE_COSINE, 0, 0, 0, 0, 0 },     { FOLD_RATE_LINEAR, 30, 20, 0.5f, 0, 0 },
        { FOLD_RATE_STEP, 0, 0, 0, 4, 0 },       { FOLD_RATE_STEP, 2, 0, 0, 3, 0.5f },
        { FOLD_RATE_STEP, 0, 0, 0, 0, 0.5f },    { FOLD_RATE_COSINE, 20, 20, 0.5f, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (int step = 0; step < 1010; step += step < 40 ? 1 : 37)
            CHECK_SAYS(fabs((double)fold_rate_factor(&rates[i], (uint64_t)step) - rate_wanted(&rates[i], step)) < 1e-6,
                       "rates %d, step %d: %.9g, want %.9g", (int)i, step,
                       (double)fold_rate_factor(&rates[i], (uint64_t)step), rate_wanted(&rates[i], step));
    CHECK(fold_rate_factor(&rates[4], 0) == 1 && fold_rate_factor(&rates[4], UINT64_MAX) == 0);
    CHECK(fold_rate_factor(NULL, 3) == 1);
}

int main(int argc, char **argv)
{
    static const int sizes[][2] = { { 3, 5 }, { 17, 20 } };
    char name[96];
    check_start(argc, argv);
    skip_missing_kernel_sets();
    for (size_t i = 0; i < 2 * sizeof layers / sizeof *layers; i++) {
        const int *size = sizes[i % 2];
        snprintf(name, sizeof name, "%s, %d inputs, %d hidden", layers[i / 2].name, size[0], size[1]);
        if (!check_begin(name)) continue;
        test_layer(&layers[i / 2], size[0], size[1]);
        check_end();
    }
    for (size_t i = 0; i < sizeof optimisers / sizeof *optimisers; i++) {
        if (!check_begin(optimisers[i].name)) continue;
        test_optimiser(&optimisers[i]);
        check_end();
    }
    for (size_t i = 0; i < sizeof optimisers / sizeof *optimisers; i++) {
        snprintf(name, sizeof name, "%s, the same bits", optimisers[i].name);
        if (!check_begin(name)) continue;
        test_same_bits(&optimisers[i], 0);
        check_end();
    }
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
        if (!check_begin(inits[i].name)) continue;
        test_init(&inits[i]);
        check_end();
    }
    for (size_t i = 0; i < sizeof optimisers / sizeof *optimisers; i++) {
        snprintf(name, sizeof name, "%s, steps of each parameter", optimisers[i].name);
        if (optimisers[i].kind < 3 || !check_begin(name)) continue;
        test_late(&optimisers[i]);
        check_end();
    }
    check_run("clip", test_clip);
    check_run("clip, far out of range", test_clip_range);
    check_run("clip, the same bits", test_clip_same_bits);
    check_run("defaults", test_defaults);
    check_run("settings with zeros", settings_with_zeros);
    check_run("orthogonal", test_orthogonal);
    check_run("shorthands", test_shorthands);
    check_run("gain of a layer norm", test_gain);
    check_run("forget biases", test_forget_biases);
    check_run("tied", test_tied);
    check_run("another optimiser", test_other_optimiser);
    check_run("written gradients", test_written);
    check_run("written rows of gradients", test_written_rows);
    check_run("touched rows", test_touched);
    check_run("tied, two backwards", test_tied_twice);
    check_run("gradients of a stack's outputs", test_stack_grads);
    check_run("dropout of a transformer", test_transformer_dropout);
    check_run("attention of parts", test_attention_of_parts);
    check_run("layers that cannot be", test_layers_that_cannot_be);
    check_run("a list far out of range", test_list_standardize_far_out);
    check_run("long names", test_long_names);
    check_run("values of another model", test_values_of_another);
    check_run("values from arrays", test_values_from_arrays);
    check_run("values of a stranger", test_values_of_a_stranger);
    check_run("random numbers", test_random);
    check_run("random numbers apart from initial values", test_apart);
    check_run("frequencies", test_frequencies);
    check_run("heads", test_heads);
    check_run("no heads", test_no_heads);
    check_run("no choice", test_no_choice);
    check_run("the largest", test_largest);
    check_run("policies", test_policy_ops);
    check_run("policies at the edges", test_policy_edges);
    check_run("layers: a table made in a body", table_in_a_body);
    check_run("rates follow their formulas", rates_follow_formulas);
    return check_finish();
}
