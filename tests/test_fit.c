/* test_fit.c - loops of training and prediction, and measures of results: examples/fold_fit.h.
       cc -O2 -o test_fit tests/test_fit.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <stdio.h>
#include <string.h>

/* What fold_fit.h opens to change it is not opened when a test says so. */
static int changes_fail;
static FILE *open_file(const char *path, const char *mode) { return changes_fail && strchr(mode, '+') ? NULL : fopen(path, mode); }
#define fopen open_file
#define FOLD_FIT_IMPLEMENTATION
#include "../examples/fold_fit.h"
#undef fopen
#include "check.h"
#include "models.h"
#include <limits.h>
#include <stddef.h>

/* -- the training loop ---------------------------------------------------------------------------- */

/* Which side of a line a point is on, with dropout; what the callbacks saw. */
typedef struct task {
    fold_param W, b, V;
    float rate;
    int calls, epochs, stop_at, null_at, order[64], errors_told;
    int spoil_at, spoiled; /* the call whose loss gets no number, or no gradient; its sample */
    float spoil;           /* what is added; 0: a root of zero */
    double metrics[16], seen_loss;
    int n_metrics;
    fold_model *m;
} task;
enum { SAMPLES = 50 };

static fold_model *make_task(task *t, uint64_t seed)
{
    fold_model_desc d = fold_model_desc_default();
    d.seed = seed;
    memset(t, 0, sizeof *t);
    t->m = fold_model_new(&d);
    t->W = fold_weight_new(t->m, "W", 2, 8);
    t->b = fold_bias_new(t->m, "b", 8);
    t->V = fold_weight_new(t->m, "V", 8, 2);
    t->stop_at = t->null_at = t->spoil_at = -1;
    return t->m;
}
static fold_node point_scores(fold_ctx *f, const task *t, size_t sample, int *label)
{
    check_random r = { sample };
    const float x[2] = { random_float(&r, -1, 1), random_float(&r, -1, 1) };
    const fold_param none = { 0, 0 };
    fold_node h = fold_tanh(f, fold_linear(f, fold_input(f, x, 2), t->W, t->b));
    *label = x[0] > 0.5f * x[1];
    if (t->rate > 0) h = fold_dropout(f, h, t->rate);
    return fold_linear(f, h, t->V, none);
}
static fold_node point_loss(fold_ctx *f, int sample, void *user)
{
    task *t = (task *)user;
    int label;
    const fold_node y = point_scores(f, t, (size_t)sample, &label), none = { 0, 0 };
    if (t->calls < 64) t->order[t->calls] = (int)sample;
    if (t->calls++ == t->null_at) return none;
    const fold_node loss = fold_softmax_xent(f, y, label);
    if (t->calls - 1 != t->spoil_at) return loss;
    t->spoiled = sample;
    return fold_add(f, loss, t->spoil == 0 ? fold_sqrt(f, fold_scale(f, loss, 0)) : fold_constant(f, t->spoil));
}
static double accuracy(fold_model *m, void *user)
{
    const task *t = (const task *)user;
    fold_ctx *f = fold_ctx_new(m, NULL);
    task still = *t;
    int right = 0;
    still.rate = 0;
    for (size_t i = 0; i < 200; i++) {
        int label;
        const fold_node y = point_scores(f, &still, 1000 + i, &label);
        if (fold_run(f, &y, 1)) break;
        right += (fold_value(f, y)[1] > fold_value(f, y)[0]) == label;
    }
    fold_ctx_free(f);
    return right / 200.0;
}
static double scripted(fold_model *m, void *user)
{
    task *t = (task *)user;
    (void)m;
    return t->metrics[t->n_metrics++];
}
static int watch(const fold_fit_report *r, void *user)
{
    task *t = (task *)user;
    t->seen_loss = r->loss;
    CHECK(r->trained <= SAMPLES && r->loss == r->loss && r->per_second >= 0);
    if (r->ended == FOLD_FIT_ERROR || r->ended == FOLD_FIT_DIVERGED) t->errors_told++;
    if (r->epoch_end) t->epochs++;
    return t->stop_at >= 0 && t->calls >= t->stop_at;
}
static fold_fit_desc task_desc(task *t, fold_ctx *f)
{
    fold_fit_desc d = fold_fit_desc_default();
    d.ctx = f;
    d.samples = SAMPLES;
    d.loss = point_loss;
    d.user = t;
    d.batch = 8;
    d.progress = watch;
    return d;
}

static void fit_converges(void)
{
    const fold_sgd sgd = { 0.5f, 0.5f, 0 };
    const fold_adagrad adagrad = { 0.1f, 1e-8f, 0 };
    const fold_rmsprop rmsprop = { 0.01f, 0.9f, 1e-8f, 0 };
    fold_adam adam = fold_adam_default();
    adam.rate = 0.02f;
    for (int k = 0; k < 4; k++) {
        task t;
        fold_fit_report r;
        fold_model *m = make_task(&t, 1);
        fold_ctx *f = training_ctx(m, 1);
        fold_fit_desc d = task_desc(&t, f);
        d.epochs = 30;
        d.metric = accuracy;
        d.clip = k == 0 ? 1.0f : 0;
        if (k == 0) d.sgd = &sgd;
        if (k == 1) d.adagrad = &adagrad;
        if (k == 2) d.rmsprop = &rmsprop;
        if (k == 3) d.adam = &adam;
        CHECK_INT(fold_fit(&d, &r), FOLD_OK);
        CHECK_SAYS(r.metric > 0.9 && r.best >= r.metric && r.loss < 0.3, "optimiser %d: metric %g, best %g, loss %g", k, r.metric, r.best, r.loss);
        CHECK_INT(r.ended, FOLD_FIT_EPOCHS);
        CHECK_INT(r.epoch, 29);
        CHECK_INT(t.epochs, 30);
        CHECK_INT(t.calls, 30 * SAMPLES);
        CHECK_INT(fold_model_steps(m), 30 * 7);
        CHECK(t.seen_loss == r.loss);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* One parameter p and five points: a loss is (p x - y)^2, and its weight one of these. */
typedef struct weighed {
    fold_param p;
    float weight[5];
    int asked;
} weighed;
static const float line_x[5] = { 1, -2, 0.5f, 3, 1.5f }, line_y[5] = { 2, 1, -1, 0.25f, 4 };
static fold_node line_loss(fold_ctx *f, int sample, void *user)
{
    const weighed *w = (const weighed *)user;
    const fold_node y = fold_scale(f, fold_use(f, w->p), line_x[sample]);
    return fold_sum(f, fold_square(f, fold_sub(f, y, fold_constant(f, line_y[sample]))), FOLD_ALL);
}
static float line_weight(int sample, void *user)
{
    weighed *w = (weighed *)user;
    w->asked++;
    return w->weight[sample];
}

/* Weights: every step is that of the formula in double, and the report's loss is a mean by weights, too. */
static void fit_by_weights(void)
{
    static const struct { float weight[5]; const char *says; } cases[] = {
        { { 1, 0, 2.5f, 12, 0.5f }, NULL },
        { { 0, 1e-3f, 0, 7, 0 }, NULL },
        { { 1, 1, 1, -0.5f, 1 }, "fit: the weight of sample 3 is -0.5" },
        { { 1, NAN, 1, 1, 1 }, "fit: the weight of sample 1 is " },
        { { 1, 1, INFINITY, 1, 1 }, "fit: the weight of sample 2 is " },
        { { 1, 1, 1, 0, 0 }, "fit: all weights of samples 3 to 4 in epoch 0 are 0" },
    };
    const fold_sgd sgd = { 0.05f, 0, 0 };
    for (int at = 0; at < 6; at++) {
        weighed w;
        fold_fit_report report;
        fold_model *m = fold_model_new(NULL);
        w.p = fold_bias_new(m, "p", 1);
        memcpy(w.weight, cases[at].weight, sizeof w.weight);
        w.asked = 0;
        fold_ctx *f = training_ctx(m, 1);
        fold_fit_desc d = fold_fit_desc_default();
        d.ctx = f;
        d.samples = 5;
        d.batch = 3;
        d.epochs = 2;
        d.in_order = 1;
        d.loss = line_loss;
        d.weight = line_weight;
        d.user = &w;
        d.sgd = &sgd;
        CHECK_INT(fold_fit(&d, &report), cases[at].says ? FOLD_BAD_ARGUMENT : FOLD_OK);
        if (cases[at].says) CHECK_TEXT(fold_ctx_message(f), cases[at].says);
        double p = 0, sum = 0, weights = 0;
        const float *fitted = fold_model_values(m, NULL);
        for (int first = 0; first < 20 && !cases[at].says; first += 5) { /* batches of 3 and 2, twice */
            const int begin = first % 10 ? 3 : 0, end = first % 10 ? 5 : 3;
            double slope = 0, all = 0;
            if (!begin) sum = weights = 0;
            for (int i = begin; i < end; i++) {
                const double error = p * (double)line_x[i] - (double)line_y[i], weight = (double)w.weight[i];
                slope += weight * 2 * error * (double)line_x[i];
                sum += weight * error * error;
                all += weight;
            }
            weights += all;
            p -= (double)sgd.rate * slope / all;
        }
        if (cases[at].says) CHECK_INT(report.ended, FOLD_FIT_ERROR);
        else CHECK(fabs((double)fitted[0] - p) < 1e-6 && fabs(p) > 0.01);
        if (!cases[at].says) CHECK_SAYS(fabs(report.loss - sum / weights) < 1e-5, "loss %g, by the formula %g", report.loss, sum / weights);
        CHECK(w.asked > 0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

static void in_turn(int n, fold_task *work, void *user, void *pool)
{
    ++*(int *)pool;
    for (int i = n; i-- > 0;) work(i, user);
}

/* The same bits from the same seed: eager, with kept plans and threads, and from an interrupted training; others from another seed. */
static void fit_repeats(void)
{
    enum { TASKS = 6 };
    task t[TASKS];
    fold_model *m[TASKS];
    fold_adam adam = fold_adam_default();
    int turns = 0;
    for (int k = 0; k < TASKS; k++) {
        fold_ctx_desc c = fold_ctx_desc_default();
        c.training = 1;
        c.eager = k == 1;
        if (k == 5) {
            c.threads = 3;
            c.parallel_for = in_turn;
            c.pool = &turns;
            c.group_bytes = 1;
            c.plan_cache_bytes = 1 << 16;
        }
        m[k] = make_task(&t[k], 1);
        t[k].rate = 0.2f;
        fold_ctx *f = fold_ctx_new(m[k], &c);
        fold_fit_desc d = task_desc(&t[k], f);
        d.adam = &adam;
        d.epochs = k == 3 ? 2 : 5;
        d.seed = k == 2;
        d.in_order = k == 4;
        d.last_path = k == 3 ? "build/fit_last.safetensors" : NULL;
        CHECK_INT(fold_fit(&d, NULL), FOLD_OK);
        fold_ctx_free(f);
    }
    task u;
    fold_model *again = make_task(&u, 9);
    fold_load_desc load = fold_load_desc_default();
    load.state = 1;
    CHECK_INT(fold_model_load(again, "build/fit_last.safetensors", &load), FOLD_OK);
    u.rate = 0.2f;
    fold_ctx *f = training_ctx(again, 0);
    fold_fit_desc d = task_desc(&u, f);
    d.adam = &adam;
    d.first_epoch = (int)(fold_model_steps(again) / 7);
    d.epochs = 3;
    CHECK_INT(d.first_epoch, 2);
    CHECK_INT(fold_fit(&d, NULL), FOLD_OK);
    check_same_model(m[1], m[0]);
    check_same_model(again, m[0]);
    check_same_model(m[5], m[0]);
    CHECK(turns > 0);
    int n;
    const float *x = fold_model_values(m[0], &n), *y = fold_model_values(m[2], &n);
    CHECK(memcmp(x, y, (size_t)n * sizeof *x));
    int seen[SAMPLES] = { 0 }, moved = 0;
    for (int i = 0; i < SAMPLES; i++) {
        seen[t[0].order[i]]++;
        moved += t[0].order[i] != i;
        CHECK_INT(t[4].order[i], i);
    }
    for (int i = 0; i < SAMPLES; i++) CHECK_INT(seen[i], 1);
    CHECK(moved > SAMPLES / 2);
    fold_ctx_free(f);
    fold_model_free(again);
    for (int k = 0; k < TASKS; k++) fold_model_free(m[k]);
}

/* What it does is what a loop by hand does, whatever gradients were there before. */
static void fit_by_hand(void)
{
    task t, u;
    const fold_sgd sgd = { 0.5f, 0.9f, 0 };
    fold_model *m = make_task(&t, 1), *n = make_task(&u, 1);
    fold_ctx *f = training_ctx(m, 0), *g = training_ctx(n, 0);
    fold_fit_desc d = task_desc(&t, f);
    fold_node loss[8];
    d.sgd = &sgd;
    d.in_order = 1;
    d.clip = 0.05f;
    d.epochs = 2;
    CHECK_INT(fold_backward(f, point_loss(f, 3, &t)), FOLD_OK);
    CHECK_INT(fold_fit(&d, NULL), FOLD_OK);
    int clipped = 0;
    for (size_t i = 0; i < 2 * SAMPLES; i += i % SAMPLES == 48 ? 2 : 8) {
        const size_t first = i % SAMPLES, count = first == 48 ? 2 : 8;
        fold_ctx_reset(g);
        for (size_t k = 0; k < count; k++) loss[k] = point_loss(g, (int)(first + k), &u);
        fold_backward(g, fold_mean_n(g, loss, (int)count));
        clipped += fold_grads_clip(n, 0.05f) > 0.05;
        fold_sgd_step(n, &sgd);
    }
    CHECK(clipped > 0);
    check_same_model(m, n);
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(m);
    fold_model_free(n);
}

/* A sample's dropout is that of (seed, epoch, sample), whatever the order. */
static void fit_dropout(void)
{
    task t;
    const fold_sgd still = { 0, 0, 0 };
    fold_model *m = make_task(&t, 1);
    fold_ctx *f = training_ctx(m, 0);
    fold_fit_desc d = task_desc(&t, f);
    double loss[4];
    t.rate = 0.5f;
    d.sgd = &still;
    d.epochs = 1;
    for (int k = 0; k < 4; k++) {
        fold_fit_report r;
        d.in_order = k == 1;
        d.first_epoch = k == 2;
        d.seed = k == 3;
        CHECK_INT(fold_fit(&d, &r), FOLD_OK);
        loss[k] = r.loss;
    }
    CHECK_NEAR(loss[1], loss[0], 1e-6);
    CHECK(fabs(loss[2] - loss[0]) > 1e-4 && fabs(loss[3] - loss[0]) > 1e-4 && fabs(loss[3] - loss[2]) > 1e-4);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* What a seed draws stays the same from version to version: the order of samples, and how many of 64 values dropout keeps. */
typedef struct drawn { fold_param b; int calls, order[20], kept[20]; double sum; } drawn;
static fold_node drawn_loss(fold_ctx *f, int sample, void *user)
{
    drawn *d = (drawn *)user;
    float ones[64];
    for (int i = 0; i < 64; i++) ones[i] = 1;
    d->order[d->calls++] = sample;
    return fold_add(f, fold_sum(f, fold_dropout(f, fold_input(f, ones, 64), 0.5f), FOLD_ALL), fold_use(f, d->b));
}
static int count_kept(const fold_fit_report *r, void *user)
{
    drawn *d = (drawn *)user;
    if (r->epoch_end) return 0;
    const double sum = r->loss * r->trained, before = r->trained > 1 ? d->sum : 0;
    d->kept[d->calls - 1] = (int)((sum - before) / 2 + 0.5); /* what is kept is doubled */
    d->sum = sum;
    return 0;
}
static void fit_draws(void)
{
    static const int order[20] = { 2, 1, 5, 0, 7, 4, 6, 8, 3, 9, 6, 0, 4, 8, 1, 3, 9, 7, 5, 2 };
    static const int kept[20] = { 28, 34, 30, 28, 32, 32, 34, 33, 36, 37, 31, 35, 34, 33, 32, 33, 34, 31, 26, 33 };
    const fold_sgd still = { 0, 0, 0 };
    fold_model *m = fold_model_new(NULL);
    drawn seen;
    memset(&seen, 0, sizeof seen);
    seen.b = fold_bias_new(m, "b", 1);
    fold_fit_desc d = fold_fit_desc_default();
    d.ctx = training_ctx(m, 0);
    d.samples = 10;
    d.loss = drawn_loss;
    d.progress = count_kept;
    d.user = &seen;
    d.batch = 1;
    d.epochs = 2;
    d.seed = 5;
    d.sgd = &still;
    CHECK_SAYS(!fold_fit(&d, NULL), "%s", fold_ctx_message(d.ctx));
    for (int i = 0; i < 20; i++) {
        CHECK_INT(seen.order[i], order[i]);
        CHECK_INT(seen.kept[i], kept[i]);
    }
    fold_ctx_free(d.ctx);
    fold_model_free(m);
}

/* Stops when it should, and the best epoch's values come back. */
static void fit_stops(void)
{
    static const double rises[] = { 0.5, 0.7, 0.6, 0.7, 0.65, 0.9 }, falls[] = { 3, 2, 2.5, 1, 1.5, 1.2 }, bad[] = { 0, 0, 0 };
    enum { VALUES = 2 * 8 + 16 + 2 * 8 }; /* a bias begins at a multiple of 16 */
    float best[VALUES];
    const fold_sgd sgd = { 0.1f, 0.9f, 0 };
    task t;
    fold_fit_report r;
    fold_model *m = make_task(&t, 1);
    fold_ctx *f = training_ctx(m, 0);
    fold_fit_desc d = task_desc(&t, f);
    d.sgd = &sgd;
    d.metric = scripted;
    d.patience = 2;
    d.best_path = "build/fit_best.safetensors";
    d.config = "h=8";
    memcpy(t.metrics, rises, sizeof rises);
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.ended, FOLD_FIT_PATIENCE);
    CHECK_INT(r.epoch, 3);
    CHECK_INT(r.best_epoch, 1);
    CHECK_NEAR(r.best, 0.7, 0);
    int count;
    memcpy(best, fold_model_values(m, &count), sizeof best);
    CHECK_INT(count, VALUES);
    char config[8];
    fold_load_desc load = fold_load_desc_default();
    load.config = config;
    load.config_size = sizeof config;
    CHECK_INT(fold_model_load(m, d.best_path, &load), FOLD_OK);
    CHECK(!strcmp(config, "h=8"));
    CHECK(memcmp(best, fold_model_values(m, NULL), sizeof best));
    memcpy(best, fold_model_values(m, NULL), sizeof best);
    fold_ctx_free(f);
    fold_model_free(m);

    m = make_task(&t, 1); /* the same, kept in memory */
    f = training_ctx(m, 0);
    d = task_desc(&t, f);
    d.sgd = &sgd;
    d.metric = scripted;
    d.patience = 2;
    d.keep_best = 1;
    memcpy(t.metrics, rises, sizeof rises);
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.best_epoch, 1);
    CHECK_BITS(fold_model_values(m, NULL), best, VALUES);
    t.n_metrics = 0; /* smaller is better; then never better than the first; then NaN */
    d.smaller_is_better = 1;
    d.epochs = 6;
    memcpy(t.metrics, falls, sizeof falls);
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.best_epoch, 3);
    CHECK_INT(r.epoch, 5);
    CHECK_NEAR(r.best, 1, 0);
    t.n_metrics = 0;
    memcpy(t.metrics, bad, sizeof bad);
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.epoch, 2);
    CHECK_INT(r.best_epoch, 0);
    t.n_metrics = 0;
    t.metrics[0] = t.metrics[1] = (double)NAN;
    d.first_epoch = 7;
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.epoch, 8);
    CHECK_INT(r.best_epoch, -1);
    CHECK_INT(r.ended, FOLD_FIT_PATIENCE);
    d = task_desc(&t, f); /* progress */
    d.sgd = &sgd;
    t.calls = 0;
    t.stop_at = SAMPLES + 16;
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.ended, FOLD_FIT_PROGRESS);
    CHECK_INT(r.epoch, 1);
    CHECK_INT(r.trained, 16);
    CHECK_INT(t.calls, SAMPLES + 16);
    CHECK(r.best == r.metric && r.best_epoch == 0); /* the mean loss of epoch 0 */
    fold_ctx_free(f);
    fold_model_free(m);
}

/* What is asked after an epoch can end it: a metric that breaks the context, progress. */
static fold_ctx *training_context;
static double breaking_metric(fold_model *m, void *user)
{
    (void)m;
    (void)user;
    fold_input(training_context, NULL, 1); /* an error */
    return 1;
}
static int stop_after_an_epoch(const fold_fit_report *r, void *user)
{
    ((task *)user)->epochs += r->epoch_end;
    return r->epoch_end;
}
static void fit_ends(void)
{
    const fold_sgd sgd = { 0.1f, 0, 0 };
    task t;
    fold_fit_report r;
    fold_model *m = make_task(&t, 1);
    fold_ctx *f = training_context = training_ctx(m, 0);
    fold_fit_desc d = task_desc(&t, f);
    d.sgd = &sgd;
    d.metric = breaking_metric;
    CHECK(fold_fit(&d, &r) != FOLD_OK);
    CHECK_INT(r.ended, FOLD_FIT_ERROR);
    CHECK_INT(r.epoch, 0);
    CHECK_INT(r.best_epoch, -1);
    fold_ctx_reset(f);
    t.epochs = 0;
    d.metric = NULL;
    d.progress = stop_after_an_epoch;
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.ended, FOLD_FIT_PROGRESS);
    CHECK_INT(r.epoch, 0);
    CHECK_INT(t.epochs, 1);
    d.progress = NULL;
    d.epochs = 2;
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(r.epoch, 1);
    CHECK_INT(fold_fit(&d, NULL), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A loss or a gradient that is no number ends it before the step that would spoil the weights. */
static void fit_diverges(void)
{
    const fold_adam adam = fold_adam_default();
    for (int way = 0; way < 8; way++) { /* infinite, NaN, a gradient, large; the same eager */
        task t, stopped;
        fold_fit_report r;
        fold_model *m = make_task(&t, 1), *other = make_task(&stopped, 1);
        fold_ctx_desc c = fold_ctx_desc_default();
        c.training = 1;
        c.eager = way / 4;
        fold_ctx *f = fold_ctx_new(m, &c), *g = fold_ctx_new(other, &c);
        fold_fit_desc d = task_desc(&t, f), e = task_desc(&stopped, g);
        char text[80];
        d.adam = e.adam = &adam;
        d.clip = e.clip = way % 4 == 2 ? 1.0f : 0;
        t.rate = stopped.rate = 0.2f;
        t.spoil_at = SAMPLES + 20;
        t.spoil = way % 4 == 0 ? -INFINITY : way % 4 == 1 ? (float)NAN : 0;
        stopped.stop_at = SAMPLES + 16;
        if (way % 4 == 3) t.spoil = 3e38f;
        CHECK_INT(fold_fit(&e, NULL), FOLD_OK);
        if (way % 4 == 3) { /* finite, though larger than any that is wanted */
            CHECK_INT(fold_fit(&d, &r), FOLD_OK);
            CHECK_INT(r.ended, FOLD_FIT_EPOCHS);
        } else {
            CHECK_INT(fold_fit(&d, &r), FOLD_BAD_STATE);
            snprintf(text, sizeof text, "fit: the loss of sample %d in epoch 1 is %s", t.spoiled, way % 4 ? "NaN" : "infinite");
            CHECK_TEXT(fold_ctx_message(f), way % 4 == 2 ? "fit: the gradient's norm of samples 16 to 23 in epoch 1 is infinite" : text);
            CHECK_INT(r.ended, FOLD_FIT_DIVERGED);
            CHECK_INT(r.epoch, 1);
            CHECK_INT(r.trained, 16);
            CHECK_INT(t.errors_told, 1);
            CHECK_INT(fold_model_steps(m), 7 + 2);
            CHECK_INT(fold_model_status(m), FOLD_OK);
            CHECK_INT(fold_model_steps(m), fold_model_steps(other));
            int count;
            const float *values = fold_model_values(m, &count), *grads = fold_model_grads(m, NULL);
            CHECK_BITS(values, fold_model_values(other, NULL), count);
            for (int i = 0; i < count; i++) CHECK_NEAR(grads[i], 0, 0);
            t.spoil_at = -1;
            CHECK_INT(fold_fit(&d, &r), FOLD_OK); /* with a smaller rate, say */
            CHECK(r.loss == r.loss);
        }
        fold_ctx_free(f);
        fold_ctx_free(g);
        fold_model_free(m);
        fold_model_free(other);
    }
}

/* Errors of settings, of the loss, of files. */
static void fit_errors(void)
{
    const fold_sgd sgd = { 0.1f, 0, 0 };
    const fold_adam adam = fold_adam_default();
    task t;
    fold_fit_report r;
    fold_model *m = make_task(&t, 1);
    fold_ctx *f = training_ctx(m, 0), *inference = fold_ctx_new(m, NULL);
    fold_fit_desc d = task_desc(&t, f);
    CHECK_INT(fold_fit(NULL, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_fit(&d, &r), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "exactly one of sgd, adagrad, rmsprop and adam");
    CHECK_INT(r.ended, FOLD_FIT_ERROR);
    d.sgd = &sgd;
    d.adam = &adam;
    CHECK_INT(fold_fit(&d, &r), FOLD_BAD_ARGUMENT);
    d.adam = NULL;
    d.batch = d.epochs = 0; /* the defaults: 10 epochs of batches of 32 */
    CHECK_INT(fold_fit(&d, &r), FOLD_OK);
    CHECK_INT(t.epochs, 10);
    CHECK_INT(t.calls, 10 * SAMPLES);
    CHECK_INT(fold_model_steps(m), 10 * ((SAMPLES + 31) / 32));
    d = task_desc(&t, inference);
    d.sgd = &sgd;
    CHECK_INT(fold_fit(&d, &r), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(inference), "inference");
    d = task_desc(&t, f);
    d.sgd = &sgd;
    t.calls = 0;
    t.null_at = SAMPLES + 20;
    t.errors_told = 0;
    d.metric = scripted;
    d.keep_best = 1;
    const uint64_t steps = fold_model_steps(m);
    CHECK_INT(fold_fit(&d, &r), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "fit: the loss of sample ");
    CHECK_INT(r.ended, FOLD_FIT_ERROR);
    CHECK_INT(t.errors_told, 1); /* but not that settings are wrong */
    CHECK_INT(r.epoch, 1);
    CHECK_INT(r.trained, 16);
    CHECK_INT(t.calls, SAMPLES + 21);
    CHECK_INT(fold_model_steps(m) - steps, 7 + 2);
    t.null_at = -1;
    t.V = t.W; /* what the loss does wrong is reported with its own message */
    CHECK_INT(fold_fit(&d, &r), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_ctx_message(f), "linear");
    t.V = fold_param_find(m, "V");
    t.n_metrics = 0;
    CHECK_INT(fold_fit(&d, &r), FOLD_OK); /* and the next one begins afresh */
    d.last_path = "build/no such folder/x";
    t.n_metrics = 0;
    CHECK_INT(fold_fit(&d, &r), FOLD_IO);
    CHECK_TEXT(fold_ctx_message(f), "no such folder");
    CHECK_INT(r.epoch, 0);
    fold_ctx_free(f);
    fold_ctx_free(inference);
    fold_model_free(m);

    purse p = { 0, 0, -1, 0 };
    fold_model_desc md = purse_desc(&p);
    m = fold_model_new(&md);
    fold_bias_new(m, "b", 1);
    f = training_ctx(m, 0);
    d = task_desc(&t, f);
    d.sgd = &sgd;
    d.keep_best = 1;
    const size_t held = p.held;
    for (p.left = 0; p.left < 3; p.left++) {
        const int left = p.left;
        CHECK_INT(fold_fit(&d, &r), FOLD_NO_MEMORY);
        CHECK_TEXT(fold_ctx_message(f), "fit: out of memory");
        CHECK_INT(p.held, held);
        p.left = left;
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* fold_fit with rates takes the steps of a program that sets the rate itself, by every optimiser, to the same bits;
   what is not told is that of its epochs. */
typedef struct own_rates {
    task t; /* first: what records is handed it */
    fold_rates rates;
    fold_sgd sgd;
    fold_adagrad adagrad;
    fold_rmsprop rmsprop;
    fold_adam adam;
    int step, by_hand;
} own_rates;
static int set_rate(const fold_fit_report *r, void *user)
{
    own_rates *o = (own_rates *)user;
    const float factor = fold_rate_factor(&o->rates, (uint64_t)o->step);
    if (r->epoch_end) return 0;
    if (!o->by_hand) CHECK_NEAR(r->rate_factor, factor, 0);
    o->step++;
    if (!o->by_hand) return 0;
    const float next = fold_rate_factor(&o->rates, (uint64_t)o->step);
    o->sgd.rate = 0.5f * next;
    o->adagrad.rate = 0.1f * next;
    o->rmsprop.rate = o->adam.rate = 0.01f * next;
    return 0;
}
static void fit_changes_the_rate(void)
{
    enum { FIT_EPOCHS = 3, BATCHES = 7 }; /* 50 samples in batches of 8 */
    for (int way = 0; way < 4 * 3; way++) {
        static own_rates o[2];
        fold_model *m[2];
        for (int hand = 0; hand < 2; hand++) {
            m[hand] = make_task(&o[hand].t, 1);
            fold_ctx *f = training_ctx(m[hand], 0);
            fold_fit_desc d = task_desc(&o[hand].t, f);
            const fold_rates rates = { way / 4 == 0 ? FOLD_RATE_COSINE : way / 4 == 1 ? FOLD_RATE_STEP : FOLD_RATE_LINEAR,
                                       way / 4 == 1 ? 0 : 3, 0, 0.125f, 0, 0.5f };
            d.rates = o[hand].rates = rates;
            o[hand].rates.steps = FIT_EPOCHS * BATCHES;
            o[hand].rates.every = BATCHES;
            o[hand].step = -1;
            o[hand].by_hand = hand;
            const fold_fit_report before = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
            if (hand) set_rate(&before, &o[hand]); /* the rate of the first step */
            else { o[hand].step = 0; o[hand].sgd.rate = 0.5f; o[hand].adagrad.rate = 0.1f; o[hand].rmsprop.rate = o[hand].adam.rate = 0.01f; }
            if (hand) memset(&d.rates, 0, sizeof d.rates);
            d.epochs = FIT_EPOCHS;
            d.progress = set_rate;
            d.user = &o[hand];
            if (way % 4 == 0) d.sgd = &o[hand].sgd;
            if (way % 4 == 1) d.adagrad = &o[hand].adagrad;
            if (way % 4 == 2) d.rmsprop = &o[hand].rmsprop;
            if (way % 4 == 3) d.adam = &o[hand].adam;
            CHECK_SAYS(!fold_fit(&d, NULL), "%s", fold_ctx_message(f));
            CHECK_INT(o[hand].step, FIT_EPOCHS * BATCHES);
            fold_ctx_free(f);
        }
        check_same_model(m[0], m[1]);
        fold_model_free(m[0]);
        fold_model_free(m[1]);
    }
}

/* Continued, it goes on where it was, when the number of steps is told. */
static void fit_continues_the_rate(void)
{
    const fold_sgd sgd = { 0.5f, 0, 0 };
    task t[2];
    fold_model *m[2];
    for (int way = 0; way < 2; way++) {
        m[way] = make_task(&t[way], 1);
        fold_ctx *f = training_ctx(m[way], 0);
        fold_fit_desc d = task_desc(&t[way], f);
        fold_fit_report r;
        d.sgd = &sgd;
        d.epochs = way ? 2 : 4;
        d.rates.kind = FOLD_RATE_COSINE;
        d.rates.steps = way ? 4 * 7 : 0;
        CHECK_INT(fold_fit(&d, &r), FOLD_OK);
        d.first_epoch = 2;
        if (way) CHECK_INT(fold_fit(&d, &r), FOLD_OK);
        CHECK_NEAR(r.rate_factor, fold_rate_factor(&d.rates, 27), way ? 0 : 1);
        fold_ctx_free(f);
    }
    check_same_model(m[0], m[1]);
    fold_model_free(m[0]);
    fold_model_free(m[1]);
}

/* -- settings -------------------------------------------------------------------------------------- */

/* Where a setting is, and values of it: those that are refused, with what the message says of the range, and those that are
   taken. Those of an optimiser have it as their owner. */
typedef struct refusal {
    const char *owner, *name;
    size_t at;
    int is_whole, n_bad, n_good;
    double bad[4];
    const char *range;
    double good[3];
} refusal;
#define OF(owner, field, name) #owner, name, offsetof(fold_##owner, field)
#define ANY_AMOUNT 0, 4, 2, { (double)NAN, -1e-3, (double)INFINITY, -(double)INFINITY }, "[0, inf)", { 0, 0.5, 0 }
#define UNDER_1 0, 4, 2, { (double)NAN, -1e-3, 1, (double)INFINITY }, "[0, 1)", { 0, 0.5, 0 }
#define ANY_COUNT 1, 2, 3, { -1, INT_MIN, 0, 0 }, "[0, inf)", { 0, 1, 2 }
static const refusal refusals[] = {
    { OF(fit_desc, samples, "samples"), 1, 3, 2, { 0, -1, INT_MIN, 0 }, "[1, inf)", { 1, 20, 0 } },
    { OF(fit_desc, batch, "batch"), ANY_COUNT },
    { OF(fit_desc, epochs, "epochs"), ANY_COUNT },
    { OF(fit_desc, first_epoch, "first_epoch"), 1, 4, 3, { -1, INT_MIN, INT_MAX, INT_MAX - 1 }, "[0, 2147483645]", { 0, 3, INT_MAX - 2 } },
    { OF(fit_desc, patience, "patience"), ANY_COUNT },
    { OF(fit_desc, clip, "clip"), 0, 3, 3, { (double)NAN, -1e-3, -(double)INFINITY, 0 }, "[0, inf]", { 0, 0.5, (double)INFINITY } },
    { OF(fit_desc, rates.kind, "rates.kind"), 1, 3, 3, { -1, 4, INT_MAX, 0 }, "[0, 3]", { 0, 2, 3 } },
    { OF(fit_desc, rates.warm_up, "rates.warm_up"), ANY_COUNT },
    { OF(fit_desc, rates.steps, "rates.steps"), ANY_COUNT },
    { OF(fit_desc, rates.end, "rates.end"), ANY_AMOUNT },
    { OF(fit_desc, rates.every, "rates.every"), ANY_COUNT },
    { OF(fit_desc, rates.factor, "rates.factor"), ANY_AMOUNT },
    { OF(sgd, rate, "sgd.rate"), ANY_AMOUNT },
    { OF(sgd, momentum, "sgd.momentum"), 0, 3, 3, { (double)NAN, -1e-3, 1.001, 0 }, "[0, 1]", { 0, 0.5, 1 } },
    { OF(sgd, decay, "sgd.decay"), ANY_AMOUNT },
    { OF(adagrad, rate, "adagrad.rate"), ANY_AMOUNT },
    { OF(adagrad, epsilon, "adagrad.epsilon"), ANY_AMOUNT },
    { OF(adagrad, decay, "adagrad.decay"), ANY_AMOUNT },
    { OF(rmsprop, rate, "rmsprop.rate"), ANY_AMOUNT },
    { OF(rmsprop, rho, "rmsprop.rho"), UNDER_1 },
    { OF(rmsprop, epsilon, "rmsprop.epsilon"), ANY_AMOUNT },
    { OF(rmsprop, decay, "rmsprop.decay"), ANY_AMOUNT },
    { OF(adam, rate, "adam.rate"), ANY_AMOUNT },
    { OF(adam, beta1, "adam.beta1"), UNDER_1 },
    { OF(adam, beta2, "adam.beta2"), UNDER_1 },
    { OF(adam, epsilon, "adam.epsilon"), ANY_AMOUNT },
    { OF(adam, decay, "adam.decay"), ANY_AMOUNT },
};

typedef struct file { unsigned char bytes[1 << 14]; size_t n; } file;
static int to_file(const void *bytes, size_t n, void *user)
{
    file *to = (file *)user;
    if (n > sizeof to->bytes - to->n) return 1;
    memcpy(to->bytes + to->n, bytes, n);
    to->n += n;
    return 0;
}
/* Values, the optimiser's state, steps and gradients. */
static void all_of(fold_model *m, file *to)
{
    fold_save_desc with_state = fold_save_desc_default();
    int count;
    const float *grads = fold_model_grads(m, &count);
    with_state.state = 1;
    to->n = 0;
    CHECK_INT(fold_model_save_to(m, to_file, to, &with_state), FOLD_OK);
    CHECK_INT(to_file(grads, (size_t)count * sizeof *grads, to), 0);
}

typedef struct optimisers { fold_sgd sgd; fold_adagrad adagrad; fold_rmsprop rmsprop; fold_adam adam; } optimisers;
static fold_fit_desc desc_of(task *t, fold_ctx *f, const refusal *row, optimisers *o)
{
    fold_fit_desc d = task_desc(t, f);
    o->sgd = fold_sgd_default();
    o->adagrad = fold_adagrad_default();
    o->rmsprop = fold_rmsprop_default();
    o->adam = fold_adam_default();
    d.samples = 10;
    d.epochs = 2;
    if (!strcmp(row->owner, "sgd")) d.sgd = &o->sgd;
    else if (!strcmp(row->owner, "adagrad")) d.adagrad = &o->adagrad;
    else if (!strcmp(row->owner, "rmsprop")) d.rmsprop = &o->rmsprop;
    else d.adam = &o->adam;
    return d;
}
static void set(const refusal *row, fold_fit_desc *d, optimisers *o, double value)
{
    const float real = (float)value;
    const int whole = row->is_whole ? (int)value : 0;
    unsigned char *owner = (unsigned char *)d;
    if (d->sgd) owner = (unsigned char *)&o->sgd;
    if (d->adagrad) owner = (unsigned char *)&o->adagrad;
    if (d->rmsprop) owner = (unsigned char *)&o->rmsprop;
    if (d->adam && !strcmp(row->owner, "adam")) owner = (unsigned char *)&o->adam;
    memcpy(owner + row->at, row->is_whole ? (const void *)&whole : (const void *)&real, 4);
}

/* Each setting: bad values are refused by name and value, and nothing has changed; good ones train. */
static void settings_are_checked(void)
{
    static file before, after;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        for (int k = 0; k < refusals[i].n_bad + refusals[i].n_good; k++) {
            const refusal *row = &refusals[i];
            const int is_bad = k < row->n_bad;
            const double value = is_bad ? row->bad[k] : row->good[k - row->n_bad];
            char says[120];
            task t;
            optimisers o;
            fold_fit_report r;
            fold_model *m = make_task(&t, 1);
            fold_ctx *f = training_ctx(m, 0);
            fold_fit_desc d = desc_of(&t, f, row, &o);
            CHECK_SAYS(!fold_fit(&d, NULL), "%s", fold_ctx_message(f)); /* so that there is state */
            CHECK_INT(fold_backward(f, point_loss(f, 3, &t)), FOLD_OK); /* and gradients */
            all_of(m, &before);
            const int calls = t.calls;
            set(row, &d, &o, value);
            const fold_status status = fold_fit(&d, &r);
            CHECK_SAYS(status == (is_bad ? FOLD_BAD_ARGUMENT : FOLD_OK), "%s %g: status %d: %s", row->name, value, (int)status, fold_ctx_message(f));
            if (is_bad) {
                all_of(m, &after);
                CHECK_SAYS(after.n == before.n && !memcmp(after.bytes, before.bytes, before.n), "%s %g: something has changed", row->name, value);
                CHECK_SAYS(t.calls == calls, "%s %g: a loss was recorded", row->name, value);
                CHECK_INT(r.ended, FOLD_FIT_ERROR);
                if (value != value) snprintf(says, sizeof says, "fit: %s is ", row->name); /* some print -nan */
                else snprintf(says, sizeof says, row->is_whole ? "fit: %s is %.0f, must be in %s" : "fit: %s is %g, must be in %s", row->name, (double)(row->is_whole ? value : (double)(float)value), row->range);
                CHECK_TEXT(fold_ctx_message(f), says);
                CHECK_TEXT(fold_ctx_message(f), row->range);
            }
            fold_ctx_free(f);
            fold_model_free(m);
        }
}

/* -- a run that goes on ---------------------------------------------------------------------------- */

typedef struct going_on {
    double metrics[8]; /* of the run before, three epochs, and of the one that goes on */
    int smaller, epochs, patience, paths, keep;
    double best; /* what must come out */
    int best_epoch, of_best_file, of_kept, ended_at;
} going_on;
enum { BEST = 1, LAST = 2 };
static const going_on run_on[] = { /* of_…: the epoch whose values are there in the end; -1: no file */
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 0, BEST | LAST, 0, 0.95, 1, 1, 5, 5 },
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 0, BEST, 1, 0.95, 1, 1, 1, 5 },
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 0, LAST, 0, 0.95, 1, -1, 5, 5 },
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 0, LAST, 1, 0.95, 1, -1, 4, 5 }, /* the best of its own */
    { { 0.70, 0.95, 0.80, 0.50, 0.96, 0.55 }, 0, 3, 0, BEST | LAST, 1, 0.96, 4, 4, 4, 5 },
    { { 0.70, 0.95, 0.80, 0.95, 0.95, 0.95 }, 0, 3, 0, BEST | LAST, 1, 0.95, 1, 1, 1, 5 }, /* as good is no better */
    { { 3, 0.1, 2, 1, 0.2, 0.05 }, 1, 3, 0, BEST | LAST, 1, 0.05, 5, 5, 5, 5 },
    { { 3, 0.1, 2, 1, 0.2, 0.5 }, 1, 3, 0, BEST | LAST, 1, 0.1, 1, 1, 1, 5 },
    { { -3, -0.1, -2, -1, -0.2, -0.5 }, 0, 3, 0, BEST | LAST, 1, -0.1, 1, 1, 1, 5 },
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 3, BEST | LAST, 0, 0.95, 1, 1, 4, 4 }, /* patience lives on */
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 2, LAST, 0, 0.95, 1, -1, 3, 3 },
    { { 0.70, 0.95, 0.80, 0.96, 0.60, 0.55 }, 0, 3, 2, LAST, 0, 0.96, 3, -1, 5, 5 },
    { { (double)NAN, (double)NAN, (double)NAN, 0.50, 0.60, 0.55 }, 0, 3, 0, BEST | LAST, 1, 0.60, 4, 4, 4, 5 }, /* there was no best */
    { { 1.0 / 3, 2.0 / 3, 0, 0.6666666666666, 0.66666666666666668, 0 }, 0, 3, 0, BEST | LAST, 0, 2.0 / 3, 1, 1, 5, 5 }, /* the note has its bits */
    { { (double)INFINITY, 1, 1, 1, 1, 1 }, 0, 3, 0, BEST | LAST, 1, (double)INFINITY, 0, 0, 0, 5 },
    { { 0.70, 0.95, 0.80, 0.50, 0.60, 0.55 }, 0, 3, 0, 0, 1, 0.60, 4, -1, 4, 5 }, /* without a file nothing is known */
};
static const char *const best_file = "build/fit_run_best.safetensors", *const last_file = "build/fit_run_last.safetensors";

/* Values of W after each epoch, so that those of a file or of a model can be found among them. */
typedef struct history { task t; float after[8][16]; int count; } history;
static double scripted_and_seen(fold_model *m, void *user)
{
    history *h = (history *)user;
    memcpy(h->after[h->count++], fold_param_value(m, h->t.W), sizeof h->after[0]);
    return h->t.metrics[h->t.n_metrics++];
}
static int epoch_of(const history *h, const float *W)
{
    for (int i = 0; i < h->count; i++)
        if (!memcmp(h->after[i], W, sizeof h->after[i])) return i;
    return -1;
}
static fold_fit_report part_of_run(history *h, const going_on *row, int first, int epochs, const char *config, const fold_adam *adam)
{
    fold_fit_report r;
    fold_ctx *f = training_ctx(h->t.m, 0);
    fold_fit_desc d = task_desc(&h->t, f);
    d.adam = adam;
    d.metric = scripted_and_seen;
    d.user = h;
    d.progress = NULL;
    d.smaller_is_better = row->smaller;
    d.first_epoch = first;
    d.epochs = epochs;
    d.patience = first ? row->patience : 0;
    d.keep_best = first ? row->keep : 0;
    d.best_path = row->paths & BEST ? best_file : NULL;
    d.last_path = row->paths & LAST ? last_file : NULL;
    d.config = config;
    CHECK_SAYS(!fold_fit(&d, &r), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
    return r;
}
/* The file has the config that was given, and loads like any other. */
static void loads_with_config(const history *h, const char *path, const char *config, int state)
{
    char got[200] = "none";
    task t;
    fold_model *m = make_task(&t, 5);
    fold_load_desc load = fold_load_desc_default();
    load.config = got;
    load.config_size = sizeof got;
    load.state = state;
    CHECK_SAYS(!fold_model_load(m, path, &load), "%s", fold_model_message(m));
    CHECK_SAYS(!strcmp(got, config ? config : ""), "config is '%s', was '%s'", got, config ? config : "");
    CHECK(epoch_of(h, fold_param_value(m, t.W)) >= 0);
    fold_model_free(m);
}
static void runs_go_on(void)
{
    static const char *const configs[] = { NULL, "h=8", "", "\"fit\":\"epoch 9, 4024000000000000, 10\" \\ \xc3\xa9 and more than the note itself takes, by far: 0123456789 0123456789" };
    const fold_adam adam = fold_adam_default();
    for (int i = 0; i < 4 * (int)(sizeof run_on / sizeof *run_on); i++) {
        static history h;
        const going_on *row = &run_on[i / 4];
        const char *config = configs[i % 4];
        h.count = 0;
        make_task(&h.t, 1);
        memcpy(h.t.metrics, row->metrics, sizeof row->metrics);
        remove(best_file);
        remove(last_file);
        part_of_run(&h, row, 0, 3, config, &adam);
        if (row->paths & LAST) loads_with_config(&h, last_file, config, 1);
        const fold_fit_report r = part_of_run(&h, row, 3, row->epochs, config, &adam);
        CHECK_SAYS(r.best == row->best && r.best_epoch == row->best_epoch, "row %d: best %.17g of epoch %d, must be %.17g of %d", i / 4, r.best, r.best_epoch, row->best, row->best_epoch);
        CHECK_SAYS(r.epoch == row->ended_at, "row %d ends at epoch %d", i / 4, r.epoch);
        CHECK_SAYS(epoch_of(&h, fold_param_value(h.t.m, h.t.W)) == row->of_kept, "row %d: the values are of epoch %d", i / 4, epoch_of(&h, fold_param_value(h.t.m, h.t.W)));
        if (row->paths & BEST) {
            task t;
            fold_model *m = make_task(&t, 3);
            CHECK_INT(fold_model_load(m, best_file, NULL), FOLD_OK);
            CHECK_SAYS(epoch_of(&h, fold_param_value(m, t.W)) == row->of_best_file, "row %d: best_path is of epoch %d", i / 4, epoch_of(&h, fold_param_value(m, t.W)));
            fold_model_free(m);
            loads_with_config(&h, best_file, config, 0);
        }
        if (row->paths & LAST) loads_with_config(&h, last_file, config, 1);
        fold_model_free(h.t.m);
    }
    remove(best_file);
    remove(last_file);
}

/* A run that begins at 0 is a new one, whatever lies at its paths; so is one behind a file without a note or one that is none. */
static void new_runs_know_nothing(void)
{
    static const going_on row = { { 0.9, 0.8, 0.7, 0.5, 0.6, 0.4 }, 0, 3, 0, BEST, 1, 0, 0, 0, 0, 0 };
    static const char *const broken[] = { "", "12345678", "12345678{", "\377\377\377\377\377\377\377\377{\"__metadata__\":{\"a\":\"b\",\"fit\":\"epoch ",
        "12345678,\"fit\":\"epoch 1, 3fee66666666666", "12345678,\"fit\":\"epoch 1, 3fee66666666666g", "12345678,\"fit\":\"epoch 1 3fee666666666666" };
    const fold_adam adam = fold_adam_default();
    for (int way = 0; way < 2 + (int)(sizeof broken / sizeof *broken); way++) {
        static history h;
        h.count = 0;
        make_task(&h.t, 1);
        memcpy(h.t.metrics, row.metrics, sizeof row.metrics);
        remove(best_file);
        part_of_run(&h, &row, 0, 3, NULL, &adam);
        if (way == 1) CHECK_INT(fold_model_save(h.t.m, best_file, NULL), FOLD_OK); /* as 0.3.0 does */
        FILE *out = way > 1 ? fopen(best_file, "wb") : NULL;
        if (out) {
            fwrite(broken[way - 2], 1, strlen(broken[way - 2]), out);
            fclose(out);
        }
        const fold_fit_report r = part_of_run(&h, &row, way ? 3 : 0, 3, NULL, &adam);
        CHECK_SAYS(r.best == 0.6 && r.best_epoch == (way ? 4 : 1), "way %d: best %g of epoch %d", way, r.best, r.best_epoch);
        CHECK_INT(epoch_of(&h, fold_param_value(h.t.m, h.t.W)), way ? 4 : 5); /* keep_best is of the second run alone */
        fold_model_free(h.t.m);
    }
    remove(best_file);
}

/* A file that cannot be opened a second time lacks the note, and is whole. */
static void files_without_a_note(void)
{
    static const going_on row = { { 0.9, 0.8, 0.7, 0.5, 0.6, 0.4 }, 0, 3, 0, BEST | LAST, 0, 0, 0, 0, 0, 0 };
    static history h;
    const fold_adam adam = fold_adam_default();
    h.count = 0;
    make_task(&h.t, 1);
    memcpy(h.t.metrics, row.metrics, sizeof row.metrics);
    changes_fail = 1;
    part_of_run(&h, &row, 0, 3, "h=8", &adam);
    changes_fail = 0;
    loads_with_config(&h, best_file, "h=8", 0);
    loads_with_config(&h, last_file, "h=8", 1);
    const fold_fit_report r = part_of_run(&h, &row, 3, 3, "h=8", &adam);
    CHECK(r.best == 0.6 && r.best_epoch == 4);
    fold_model_free(h.t.m);
    remove(best_file);
    remove(last_file);
}

/* A best_path that notes the best, but whose values are not those of the model: keep_best keeps its own. */
static void best_values_may_lack(void)
{
    static const going_on row = { { 0.9, 0.8, 0.7, 0.5, 0.6, 0.4 }, 0, 3, 0, BEST, 1, 0, 0, 0, 0, 0 };
    static const struct { const char *was, *is; } changes[] = { { "\"V\"", "\"X\"" }, { "I32", "I32" }, { "[2,8]", "[4,4]" }, { "[2,8]", "[2,8]" } };
    const fold_adam adam = fold_adam_default();
    for (int i = 0; i < 4; i++) {
        static history h;
        static file it;
        h.count = 0;
        make_task(&h.t, 1);
        memcpy(h.t.metrics, row.metrics, sizeof row.metrics);
        remove(best_file);
        part_of_run(&h, &row, 0, 3, NULL, &adam);
        FILE *stream = fopen(best_file, "rb");
        if (!CHECK(stream != NULL)) return;
        it.n = fread(it.bytes, 1, sizeof it.bytes, stream);
        fclose(stream);
        for (size_t at = 8; at + 8 < it.n; at++) {
            if (i == 1 && !memcmp(it.bytes + at, "F32", 3)) memcpy(it.bytes + at, "I32", 3);
            if (!memcmp(it.bytes + at, changes[i].was, strlen(changes[i].was))) memcpy(it.bytes + at, changes[i].is, strlen(changes[i].is));
        }
        stream = fopen(best_file, "wb");
        if (!CHECK(stream != NULL)) return;
        fwrite(it.bytes, 1, it.n, stream);
        fclose(stream);
        const fold_fit_report r = part_of_run(&h, &row, 3, 3, NULL, &adam);
        CHECK(r.best == 0.9 && r.best_epoch == 0);
        const int kept = epoch_of(&h, fold_param_value(h.t.m, h.t.W));
        CHECK_SAYS(kept == (i < 2 ? 4 : 0), "change %d: the values are of epoch %d", i, kept); /* the shape is not looked at, but the count */
        fold_model_free(h.t.m);
    }
    remove(best_file);
}

/* ---- fold_fit_predict ---- */

typedef struct prediction {
    task *t;
    int next, calls, null_at;
    float scores[2 * SAMPLES];
} prediction;
static fold_node record_scores(fold_ctx *f, int sample, void *user)
{
    prediction *p = (prediction *)user;
    const fold_node none = { 0, 0 };
    int label;
    p->calls++;
    return sample == p->null_at ? none : point_scores(f, p->t, (size_t)sample, &label);
}
static void take_scores(fold_ctx *f, int sample, fold_node output, void *user)
{
    prediction *p = (prediction *)user;
    CHECK_INT(sample, p->next++);
    CHECK_INT(fold_node_shape(f, output).dim[0], 2);
    CHECK_INT(fold_read(f, &output, 1, p->scores + 2 * sample), FOLD_OK);
}
static void predicts(void)
{
    static prediction p;
    task t;
    fold_model *m = make_task(&t, 1);
    for (int way = 0; way < 6; way++) { /* the default, one, some at the end, more than there are; eager, training */
        static const int batches[] = { 0, 1, 7, 100, 8, 8 };
        fold_ctx_desc c = fold_ctx_desc_default();
        fold_fit_predict_desc d = fold_fit_predict_desc_default();
        c.eager = way == 4;
        c.training = way == 5;
        fold_ctx *f = fold_ctx_new(m, &c), *alone = fold_ctx_new(m, NULL);
        memset(&p, 0, sizeof p);
        p.t = &t;
        p.null_at = -1;
        d.ctx = f;
        d.samples = SAMPLES;
        d.record = record_scores;
        d.take = take_scores;
        d.user = &p;
        d.batch = batches[way];
        CHECK_INT(fold_fit_predict(&d), FOLD_OK);
        CHECK(p.next == SAMPLES && p.calls == SAMPLES);
        for (size_t i = 0; i < SAMPLES; i++) {
            int label;
            fold_ctx_reset(alone);
            const fold_node y = point_scores(alone, &t, i, &label);
            CHECK_INT(fold_run(alone, &y, 1), FOLD_OK);
            CHECK_BITS(p.scores + 2 * i, fold_value(alone, y), 2);
        }
        fold_ctx_free(f);
        fold_ctx_free(alone);
    }
    fold_model_free(m);
}
static void predict_errors(void)
{
    static const char *const says[] = { "predict: record is NULL", "predict: take is NULL",
                                        "predict: samples is -1, must be in [0, inf)", "predict: batch is -1, must be in [0, inf)",
                                        "predict: the output of sample 9 is the null node" };
    static prediction p;
    task t;
    fold_model *m = make_task(&t, 1);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_fit_predict_desc d;
    CHECK_INT(fold_fit_predict(NULL), FOLD_BAD_ARGUMENT);
    for (int wrong = 0; wrong < 6; wrong++) {
        memset(&p, 0, sizeof p);
        p.t = &t;
        p.null_at = wrong == 4 ? 9 : -1;
        d = fold_fit_predict_desc_default();
        d.ctx = f;
        d.samples = wrong == 2 ? -1 : wrong == 5 ? 0 : SAMPLES;
        d.record = wrong == 0 ? NULL : record_scores;
        d.take = wrong == 1 ? NULL : take_scores;
        d.user = &p;
        d.batch = wrong == 3 ? -1 : 8;
        CHECK_INT(fold_fit_predict(&d), wrong == 5 ? FOLD_OK : FOLD_BAD_ARGUMENT);
        if (wrong < 5) CHECK_TEXT(fold_ctx_message(f), says[wrong]);
        CHECK_INT(p.next, wrong == 4 ? 8 : 0); /* of the batches before */
    }
    fold_ctx_free(f);
    fold_model_free(m);

    purse little = { 0, 0, -1, 0 };
    fold_model_desc md = purse_desc(&little);
    m = fold_model_new(&md);
    f = fold_ctx_new(m, NULL);
    const size_t held = little.held;
    little.left = 0;
    d.ctx = f;
    d.samples = SAMPLES;
    CHECK_INT(fold_fit_predict(&d), FOLD_NO_MEMORY);
    CHECK_TEXT(fold_ctx_message(f), "predict: out of memory");
    CHECK_INT(little.held, held);
    fold_ctx_free(f);
    fold_model_free(m);
    CHECK_INT(little.held, 0);
}

/* They take memory where the model does: in a block from the block, and give it back. */
static void in_a_block(void)
{
    static unsigned char bytes[1 << 20];
    static prediction p;
    const fold_sgd sgd = { 0.1f, 0.9f, 0 };
    fold_model_desc desc = fold_model_desc_default();
    desc.memory.block = bytes;
    desc.memory.block_size = sizeof bytes;
    task t, other;
    make_task(&other, 1);
    make_task(&t, 1);
    fold_model_free(t.m);
    t.m = fold_model_new(&desc);
    t.W = fold_weight_new(t.m, "W", 2, 8);
    t.b = fold_bias_new(t.m, "b", 8);
    t.V = fold_weight_new(t.m, "V", 8, 2);
    CHECK_INT(fold_values_copy(t.m, other.m), FOLD_OK);
    for (int way = 0; way < 2; way++) {
        task *each = way ? &other : &t;
        fold_ctx *f = training_ctx(each->m, 0);
        fold_fit_desc d = task_desc(each, f);
        d.sgd = &sgd;
        d.keep_best = 1;
        CHECK_SAYS(!fold_fit(&d, NULL), "%s", fold_ctx_message(f));
        fold_ctx_free(f);
    }
    check_same_model(t.m, other.m);
    fold_fit_predict_desc d = fold_fit_predict_desc_default();
    memset(&p, 0, sizeof p);
    p.t = &t;
    p.null_at = -1;
    d.ctx = fold_ctx_new(t.m, NULL);
    d.samples = SAMPLES;
    d.record = record_scores;
    d.take = take_scores;
    d.user = &p;
    CHECK_INT(fold_fit_predict(&d), FOLD_OK);
    CHECK_INT(p.next, SAMPLES);
    fold_ctx_free(d.ctx);
    fold_model_free(t.m);
    fold_model_free(other.m);
}

/* Some systems' isnan is of floats. */
static int no_number(double x) { return x != x; }

static void measures(void)
{
    static const int guess[] = { 0, 1, 2, 1, 1, 0 }, label[] = { 0, 1, 1, 1, 0, 2 };
    const float loss[] = { 0.5f, 1.5f, 1 }, a[] = { 1, 2, 3, 4 }, b[] = { 4, 2, 8, 6 }, flat[] = { 5, 5, 5, 5 };
    CHECK_NEAR(fold_fit_accuracy(guess, label, 6), 0.5, 1e-12);
    CHECK_NEAR(fold_fit_f1(guess, label, 6, 1), 4.0 / 6, 1e-12); /* precision 2 / 3, recall 2 / 3 */
    CHECK_NEAR(fold_fit_f1(guess, label, 6, 0), 2.0 / 4, 1e-12);
    CHECK_NEAR(fold_fit_f1(guess, label, 5, 2), 0, 0);
    CHECK_NEAR(fold_fit_f1(guess, label, 6, 7), 0, 0);
    CHECK_NEAR(fold_fit_perplexity(loss, 3), exp(1.0), 1e-12);
    CHECK_NEAR(fold_fit_pearson(a, b, 4), 0.6, 1e-12);
    CHECK_NEAR(fold_fit_pearson(a, a, 4), 1, 1e-12);
    CHECK(no_number(fold_fit_pearson(a, flat, 4)) && no_number(fold_fit_pearson(a, b, 1)) && no_number(fold_fit_pearson(NULL, b, 4)));
    CHECK(no_number(fold_fit_accuracy(guess, label, 0)) && no_number(fold_fit_accuracy(NULL, label, 6)) && no_number(fold_fit_f1(guess, NULL, 6, 1)));
    CHECK(no_number(fold_fit_perplexity(loss, 0)) && no_number(fold_fit_perplexity(NULL, 3)));
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("fit: converges", fit_converges);
    check_run("fit: repeats", fit_repeats);
    check_run("fit: by hand", fit_by_hand);
    check_run("fit: by weights", fit_by_weights);
    check_run("fit: dropout", fit_dropout);
    check_run("fit: what a seed draws", fit_draws);
    check_run("fit: stops", fit_stops);
    check_run("fit: what can end it", fit_ends);
    check_run("fit: diverges", fit_diverges);
    check_run("fit: errors", fit_errors);
    check_run("fit: the rate changes", fit_changes_the_rate);
    check_run("fit: the rate of a training continued", fit_continues_the_rate);
    check_run("fit: settings are checked", settings_are_checked);
    check_run("fit: runs go on", runs_go_on);
    check_run("fit: new runs know nothing", new_runs_know_nothing);
    check_run("fit: files without a note", files_without_a_note);
    check_run("fit: best values may lack", best_values_may_lack);
    check_run("predict: every sample", predicts);
    check_run("predict: errors", predict_errors);
    check_run("fit, predict: in a block", in_a_block);
    check_run("measures", measures);
    return check_finish();
}
