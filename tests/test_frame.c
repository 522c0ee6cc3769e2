/* test_frame.c - programs with a frame or a control step: record once and run the same again with other data. What a
   replay gives is held against recordings made anew, in bits.
       cc -O2 -o test_frame tests/test_frame.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_DRAW_IMPLEMENTATION
#include "../examples/fold_draw.h"
#include "check.h"
#include "models.h"
#include <limits.h>
#include <stdlib.h>

enum { H = 8, CLASSES = 5, WORDS = 20, SAMPLES = 7, FRAMES = 5, ROWS = 3, FLOATS = 1 << 14 };

typedef struct net {
    fold_model *m;
    fold_param words, V, a;
    fold_recurrent cell;
} net;

/* What a frame reads: it is the caller's memory, which changes from frame to frame. */
typedef struct world {
    float sensors[SAMPLES][H], points[ROWS][H], memory[SAMPLES][H];
    int word[SAMPLES], label[SAMPLES], rows[ROWS], labels[ROWS];
} world;

static void net_new(net *n)
{
    memset(n, 0, sizeof *n);
    n->m = fold_model_new(NULL);
    n->words = fold_table_new(n->m, "words", WORDS, H);
    n->V = fold_weight_new(n->m, "V", H, CLASSES);
    n->a = fold_bias_new(n->m, "a", CLASSES);
    n->cell = fold_gru_new(n->m, "cell", H, H);
    CHECK_INT(fold_model_status(n->m), FOLD_OK);
}

static void world_at(world *w, int frame)
{
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < H; k++) w->sensors[i][k] = 0.1f * (float)((i * 7 + k * 3 + frame * 5) % 13 - 6);
        w->word[i] = (3 * i + 7 * frame) % WORDS;
        w->label[i] = (i + frame) % CLASSES;
    }
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < H; k++) w->points[i][k] = 0.2f * (float)((i + k * frame) % 7 - 3);
        w->rows[i] = (5 * i + frame) % WORDS;
        w->labels[i] = (2 * i + frame) % CLASSES;
    }
}

/* A frame of several agents. With refs it is to be replayed: indices are read again, states are written to
   the world, where the next frame reads them. */
typedef struct frame {
    fold_node state[SAMPLES], scores[SAMPLES], picked[SAMPLES], list, loss;
} frame;

static fold_node indexed(fold_ctx *f, fold_node x, const int *index, int n, int refs)
{
    if (refs) fold_index_ref(f, x, index, n);
    return x;
}
static void record(fold_ctx *f, const net *n, world *w, frame *r, int refs, float dropout)
{
    fold_node losses[2 * SAMPLES + 3];
    int count = 0;
    for (int i = 0; i < SAMPLES; i++) {
        const int *word = &w->word[i], *label = &w->label[i];
        const fold_node x = indexed(f, fold_lookup(f, n->words, *word), word, 1, refs);
        const fold_state before = { fold_input_ref(f, w->memory[i], fold_shape1(H)), FOLD_NULL_NODE };
        const fold_node in = fold_add(f, x, fold_input_ref(f, w->sensors[i], fold_shape1(H)));
        r->state[i] = fold_recurrent_apply(f, &n->cell, fold_dropout(f, in, dropout), before).h;
        r->scores[i] = fold_linear(f, r->state[i], n->V, n->a);
        r->picked[i] = indexed(f, fold_pick(f, r->scores[i], *label), label, 1, refs);
        losses[count++] = indexed(f, fold_softmax_xent(f, r->scores[i], *label), label, 1, refs);
        losses[count++] = indexed(f, fold_hinge(f, r->scores[i], *label), label, 1, refs);
        fold_keep(f, r->scores[i]);
        fold_keep(f, r->picked[i]);
        fold_keep(f, r->state[i]);
        fold_keep_grad(f, r->state[i]);
        if (refs) fold_output_ref(f, r->state[i], w->memory[i]);
    }
    const fold_node rows = indexed(f, fold_list_lookup(f, n->words, w->rows, ROWS), w->rows, ROWS, refs);
    const fold_node points = fold_list_input_ref(f, w->points[0], ROWS, fold_shape1(H));
    const fold_node x = fold_tanh(f, fold_dropout(f, fold_add(f, rows, points), dropout));
    r->list = fold_linear(f, x, n->V, n->a);
    fold_keep(f, r->list);
    losses[count++] = fold_list_sum(f, indexed(f, fold_softmax_xent_each(f, r->list, w->labels, ROWS), w->labels, ROWS, refs));
    losses[count++] = fold_list_sum(f, indexed(f, fold_pick_each(f, r->list, w->labels, ROWS), w->labels, ROWS, refs));
    losses[count++] = fold_list_sum(f, indexed(f, fold_hinge_each(f, r->list, w->labels, ROWS), w->labels, ROWS, refs));
    r->loss = fold_sum_n(f, losses, count);
}

/* All that a frame gives, as floats; returns how many. */
static size_t results(fold_ctx *f, const net *n, const frame *r, int training, float *to)
{
    float *at = to;
    int count;
    CHECK_INT(fold_read(f, r->scores, SAMPLES, at), FOLD_OK);
    at += SAMPLES * CLASSES;
    CHECK_INT(fold_read(f, r->picked, SAMPLES, at), FOLD_OK);
    at += SAMPLES;
    CHECK_INT(fold_read(f, &r->list, 1, at), FOLD_OK);
    at += ROWS * CLASSES;
    CHECK_INT(fold_read(f, &r->loss, 1, at++), FOLD_OK);
    if (!training) return (size_t)(at - to);
    for (int i = 0; i < SAMPLES; i++, at += H) memcpy(at, fold_grad(f, r->state[i]), H * sizeof *at);
    const float *grads = fold_model_grads(n->m, &count);
    memcpy(at, grads, (size_t)count * sizeof *at);
    return (size_t)(at - to) + (size_t)count;
}

/* A job system that runs the lanes one after another, the last first. */
static void one_by_one(int lanes, fold_task *task, void *user, void *pool)
{
    (void)pool;
    while (lanes-- > 0) task(lanes, user);
}

enum { ANEW, EAGER, BATCHED, SMALL_GROUPS, BY_DEPTH, KEPT_PLANS, THREADS, WAYS };
static fold_ctx_desc context_desc(int training, int way)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.eager = way <= EAGER;
    d.group_bytes = way == SMALL_GROUPS || way == THREADS ? 1 : 0;
    d.schedule = way == BY_DEPTH ? FOLD_SCHEDULE_DEPTH : FOLD_SCHEDULE_RATIO;
    d.plan_cache_bytes = way == KEPT_PLANS ? 1 << 20 : 0;
    d.threads = way == THREADS ? 3 : 0;
    d.parallel_for = one_by_one;
    return d;
}
static fold_ctx *context(const net *n, int training, int way)
{
    const fold_ctx_desc d = context_desc(training, way);
    return fold_ctx_new(n->m, &d);
}

/* Frames that are replayed give what frames recorded anew give: states go from one to the next, and an
   optimiser steps between them. */
static void frames_again(int training, float dropout)
{
    static float want[FRAMES][FLOATS], got[FLOATS];
    const fold_sgd sgd = { 0.05f, 0.9f, 0 };
    for (int way = 0; way < WAYS; way++) {
        net n;
        net_new(&n);
        world w;
        frame r;
        fold_ctx *f = context(&n, training, way);
        memset(&w, 0, sizeof w);
        fold_dropout_seed(f, 7);
        for (int at = 0; at < FRAMES; at++) {
            world_at(&w, at);
            if (at && way != ANEW) {
                CHECK_INT(fold_replay(f), FOLD_OK);
            } else {
                fold_ctx_reset(f);
                record(f, &n, &w, &r, way != ANEW, dropout);
                CHECK_INT(training ? fold_backward(f, r.loss) : fold_run(f, &r.loss, 1), FOLD_OK);
            }
            const size_t count = results(f, &n, &r, training, way == ANEW ? want[at] : got);
            if (way == ANEW) CHECK_INT(fold_read(f, r.state, SAMPLES, w.memory[0]), FOLD_OK);
            else CHECK_BITS(got, want[at], count);
            if (training) CHECK_INT(fold_sgd_step(n.m, &sgd), FOLD_OK);
        }
        CHECK_SAYS(memcmp(want[1], want[2], CLASSES * sizeof(float)), "frames are alike");
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}
static void inference(void) { frames_again(0, 0.0f); }
static void training(void) { frames_again(1, 0.0f); }
static void training_with_dropout(void) { frames_again(1, 0.5f); }

/* What is small stays on the caller's thread: a job system is called for what is worth it, and never with more
   lanes than there is work for. */
typedef struct handed { int calls, lanes, most; } handed;
static void count_calls(int lanes, fold_task *task, void *user, void *pool)
{
    handed *h = (handed *)pool;
    h->calls++;
    h->lanes += lanes;
    if (lanes > h->most) h->most = lanes;
    one_by_one(lanes, task, user, NULL);
}
static void small_work_stays(void)
{
    enum { LARGE = 256, WIDE = 256 };
    net n;
    net_new(&n);
    const fold_param W = fold_weight_new(n.m, "W", WIDE, WIDE);
    handed h = { 0, 0, 0 };
    world w;
    frame r;
    memset(&w, 0, sizeof w);
    world_at(&w, 0);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.threads = 4;
    d.parallel_for = count_calls;
    d.pool = &h;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    record(f, &n, &w, &r, 1, 0.0f);
    CHECK_INT(fold_backward(f, r.loss), FOLD_OK);
    CHECK_INT(fold_run(f, &r.loss, 1), FOLD_OK);
    CHECK_INT(fold_replay(f), FOLD_OK);
    CHECK_INT(h.calls, 0);
    CHECK_INT(fold_ctx_stats(f).groups, 1);
    for (int samples = 1; samples <= LARGE; samples *= LARGE) { /* 16 million multiplications, or 65536 */
        static float x[WIDE];
        fold_node y[LARGE];
        fold_ctx_reset(f);
        for (int i = 0; i < samples; i++)
            y[i] = fold_sum(f, fold_linear(f, fold_input(f, x, WIDE), W, FOLD_NULL_PARAM), FOLD_ALL);
        CHECK_INT(fold_run(f, y, samples), FOLD_OK);
        CHECK_INT(h.calls, samples == LARGE);
        CHECK_INT(fold_ctx_stats(f).groups, samples == LARGE ? 4 : 1);
        CHECK_INT(fold_backward(f, fold_sum_n(f, y, samples)), FOLD_OK);
        CHECK_INT(h.calls, samples == LARGE ? 3 : 0); /* groups and sums */
    }
    fold_ctx_free(f);
    d.threads = 8;
    d.training = 0;
    d.group_bytes = 1; /* a group for each sample */
    f = fold_ctx_new(n.m, &d);
    h.most = 0;
    fold_node y[5];
    for (int i = 0; i < 5; i++)
        y[i] = fold_tanh(f, fold_linear(f, fold_zeros(f, fold_shape1(WIDE)), W, FOLD_NULL_PARAM));
    CHECK_INT(fold_run(f, y, 5), FOLD_OK);
    CHECK_INT(h.most, 5);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A list read by one op alone, whole, and one index for all rows of a list, which is read again. */
static void lists_read_whole(void)
{
    for (int way = EAGER; way < WAYS; way++) {
        net n;
        net_new(&n);
        fold_ctx *f = context(&n, 1, way);
        const int taken[2] = { 2, 0 };
        float rows[ROWS * H];
        int label = 3;
        for (int i = 0; i < ROWS * H; i++) rows[i] = (float)(i % 5);
        const fold_node in = fold_list_input_ref(f, rows, ROWS, fold_shape1(H)), x = fold_square(f, in);
        const fold_node part = indexed(f, fold_pick(f, fold_list_take(f, x, taken, 2), label), &label, 1, 1);
        const fold_node beside = fold_scale(f, fold_input(f, rows, H), 2); /* indices must not be written to others */
        fold_keep_grad(f, in);
        fold_keep(f, part);
        fold_keep(f, beside);
        CHECK_INT(fold_backward(f, fold_list_sum(f, part)), FOLD_OK);
        for (int time = 0; time < 3; time++) {
            if (time) CHECK_INT(fold_replay(f), FOLD_OK);
            for (int i = 0; i < 2; i++) {
                const int at = taken[i] * H + label;
                CHECK_NEAR(fold_value(f, part)[i], rows[at] * rows[at], 0);
                CHECK_NEAR(fold_grad(f, in)[at], 2 * rows[at], 0);
            }
            for (int i = 0; i < H; i++) CHECK_NEAR(fold_value(f, beside)[i], 2 * (i % 5), 0);
            label = (label + 2) % H;
            for (int i = H; i < ROWS * H; i++) rows[i] += 1;
        }
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* Whether a value lies where it lay; where arrays move at requests alone, it need not. */
static int lies_there(const float **value, const float *now)
{
#ifdef FOLD__MOVE_ARRAYS
    *value = now;
#endif
    return *value == now;
}

/* Only what the last run computed is computed again; what it read of an earlier one stays. */
static void the_last_run(void)
{
    for (int way = EAGER; way < WAYS; way++) {
        net n;
        net_new(&n);
        fold_ctx *f = context(&n, 0, way);
        float x[H] = { 1, 2 }, y[H] = { 3, 4 }, out[H];
        const fold_node first = fold_square(f, fold_input_ref(f, x, fold_shape1(H)));
        CHECK_INT(fold_run(f, &first, 1), FOLD_OK);
        const fold_node second = fold_add(f, first, fold_input_ref(f, y, fold_shape1(H)));
        fold_output_ref(f, second, out);
        CHECK_INT(fold_run(f, &second, 1), FOLD_OK);
        CHECK_NEAR(out[1], 8, 0);
        const float *value = NULL;
        for (int time = 0; time < 3; time++) { /* the first of them may move values */
            x[1] = 10, y[1] = 5 + (float)time;
            CHECK_INT(fold_replay(f), FOLD_OK);
            if (time) CHECK(lies_there(&value, fold_value(f, second)));
            value = fold_value(f, second);
            CHECK_NEAR(fold_value(f, first)[1], 4, 0);
            CHECK_NEAR(value[1], 9 + time, 0);
            CHECK_NEAR(out[1], 9 + time, 0);
        }
        fold_values_write_begin(n.m, n.a);
        fold_values_write_end(n.m, n.a);
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "used values of an earlier run, and parameters have changed");
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

static int nowhere(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 0; }

/* A run that finds all there does nothing, and a replay does again the run before it. */
static void nothing_to_do(void)
{
    for (int way = EAGER; way < WAYS; way++)
        for (int sliced = 0; sliced < 2; sliced++) {
            net n;
            net_new(&n);
            fold_ctx *f = context(&n, 1, way);
            float x[H] = { 1, 2 }, out[2][H] = { { 0 } };
            int more = 7;
            const fold_node word = fold_lookup(f, n.words, 1);
            const fold_node y = fold_mul(f, word, fold_input_ref(f, x, fold_shape1(H)));
            fold_output_ref(f, y, out[0]);
            CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
            const fold_stats stats = fold_ctx_stats(f);
            const float *value = fold_value(f, y);
            const float times = value[1] / x[1];
            out[0][1] = -1;
            for (int again = 0; again < 3; again++) {
                const fold_node roots[3] = { y, word, y };
                const int count = again == 1 ? 0 : again == 2 ? 3 : 1;
                if (again == 1) fold_output_ref(f, y, out[1]);
                if (again == 2) CHECK_INT(fold_ctx_print(f, nowhere, NULL), FOLD_OK); /* arrays move */
                CHECK_INT(sliced ? fold_run_begin(f, roots, count) : fold_run(f, roots, count), FOLD_OK);
                if (sliced) CHECK_INT(fold_estimate_ns(f), 0);
                if (sliced) CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
                if (sliced) CHECK_INT(more, 0);
                CHECK_INT(fold_ctx_stats(f).run_nodes, 0);
                CHECK_INT(fold_ctx_stats(f).batches, 0);
                CHECK_INT(fold_ctx_stats(f).visited_nodes, 0);
                CHECK_INT(fold_ctx_stats(f).nodes, stats.nodes);
                CHECK_INT(fold_ctx_stats(f).plan_misses, stats.plan_misses);
                CHECK(lies_there(&value, fold_value(f, y)));
                CHECK_NEAR(out[0][1], -1, 0); /* it was not computed again, */
                CHECK_NEAR(out[1][1], again ? value[1] : 0, 0); /* but is given where it was wanted since */
            }
            x[1] = 10;
            CHECK_INT(fold_replay(f), FOLD_OK);
            CHECK(lies_there(&value, fold_value(f, y)));
            CHECK_NEAR(value[1], 10 * times, 1e-6);
            CHECK_NEAR(out[0][1], value[1], 0);
            CHECK_NEAR(out[1][1], value[1], 0);
            if (way != EAGER) CHECK_INT(fold_ctx_stats(f).batches, stats.batches);
            const fold_node loss = fold_sum(f, fold_square(f, word), FOLD_ALL); /* nor does it add gradients */
            CHECK_INT(fold_backward(f, loss), FOLD_OK);
            const float grad = fold_param_grad(n.m, n.words)[H];
            CHECK_INT(sliced ? fold_run_begin(f, &loss, 1) : fold_run(f, &loss, 1), FOLD_OK);
            if (sliced) CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
            CHECK_NEAR(fold_param_grad(n.m, n.words)[H], grad, 0);
            CHECK_INT(fold_replay(f), FOLD_OK);
            CHECK_NEAR(fold_param_grad(n.m, n.words)[H], 2 * grad, 0);
            fold_ctx_free(f);
            fold_model_free(n.m);
        }
}

/* What a run refuses, for an index that is out of range, loses nothing: neither the last run, which can be
   replayed, nor one that is begun. */
static void refusals_lose_nothing(void)
{
    for (int way = BATCHED; way < WAYS; way++)
        for (int backward = 0; backward < 2; backward++) {
            net n;
            net_new(&n);
            fold_ctx *f = context(&n, 1, way);
            float x[H] = { 1, 2 };
            int row = 1, more = 1;
            const fold_node word = indexed(f, fold_lookup(f, n.words, row), &row, 1, 1);
            const fold_node y = fold_mul(f, word, fold_input_ref(f, x, fold_shape1(H)));
            const fold_node loss = fold_sum(f, y, FOLD_ALL);
            fold_keep(f, y);
            CHECK_INT(backward ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
            const float before = fold_value(f, y)[1];
            for (int begun = 0; begun < 2; begun++) {
                if (begun) CHECK_INT(fold_replay_begin(f), FOLD_OK);
                row = WORDS;
                CHECK_INT(fold_backward(f, loss), FOLD_BAD_ARGUMENT);
                CHECK_TEXT(fold_ctx_message(f), "index 20 in row 0");
                CHECK_INT(fold_replay(f), FOLD_BAD_ARGUMENT);
                CHECK_NEAR(fold_value(f, y)[1], before * (begun ? 2 : 1), 0);
                row = 1;
                x[1] = begun ? 8 : 4;
                CHECK_INT(begun ? fold_run_more(f, 0, &more) : fold_replay(f), FOLD_OK);
                CHECK_NEAR(fold_value(f, y)[1], before * (begun ? 4 : 2), 0);
            }
            fold_values_write_begin(n.m, n.a);
            fold_values_write_end(n.m, n.a); /* so that all runs again, with an index out of range */
            row = -1;
            CHECK_INT(fold_run(f, &loss, 1), FOLD_BAD_ARGUMENT);
            CHECK_INT(fold_run_begin(f, &loss, 1), FOLD_BAD_ARGUMENT);
            row = 2;
            CHECK_INT(fold_replay(f), FOLD_OK);
            fold_ctx_free(f);
            fold_model_free(n.m);
        }
}

/* What dedupe made one stays one in replays, and two inputs by reference are two whatever they hold. */
static void replays_of_merged_calls(void)
{
    for (int way = EAGER; way < WAYS; way++) {
        net n;
        net_new(&n);
        fold_ctx_desc d = context_desc(1, way);
        d.dedupe = 1;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        float x[2][H] = { { 1, 2 }, { 1, 2 } };
        fold_node y[4], in[2];
        for (int i = 0; i < 2; i++) in[i] = fold_input_ref(f, x[i], fold_shape1(H));
        for (int i = 0; i < 4; i++) { /* words 3, 3, 3, 4; inputs 0, 1, 0, 1 */
            y[i] = fold_linear(f, fold_add(f, fold_lookup(f, n.words, i == 3 ? 4 : 3), in[i % 2]), n.V, n.a);
            fold_keep(f, y[i]);
        }
        const fold_node loss = fold_sum(f, fold_square(f, fold_sum_n(f, y, 4)), FOLD_ALL);
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        for (int time = 0; time < 3; time++) {
            float want[4][CLASSES];
            if (time) x[0][0] += 1, x[1][1] -= 3;
            if (time) CHECK_INT(fold_replay(f), FOLD_OK);
            CHECK(fold_value(f, y[0]) == fold_value(f, y[2]));
            CHECK(!time == !memcmp(fold_value(f, y[0]), fold_value(f, y[1]), CLASSES * sizeof(float)));
            fold_ctx *alone = context(&n, 0, ANEW);
            for (int i = 0; i < 4; i++) {
                const fold_node word = fold_lookup(alone, n.words, i == 3 ? 4 : 3);
                const fold_node z = fold_linear(alone, fold_add(alone, word, fold_input(alone, x[i % 2], H)), n.V, n.a);
                CHECK_INT(fold_read(alone, &z, 1, want[i]), FOLD_OK);
                CHECK_BITS(fold_value(f, y[i]), want[i], CLASSES);
            }
            fold_ctx_free(alone);
        }
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* A choice among the rows of a list reads its label from the caller's memory, and none of its relatives does. */
static void choices_again(void)
{
    enum { ROWS = 7 };
    static float x[ROWS], want[1 + ROWS], got[1 + ROWS];
    const int to[ROWS] = { 0, 0, 1, 0, 1, 1, 0 }, each[2] = { 3, 4 };
    for (int i = 0; i < ROWS; i++) x[i] = (float)(i * i % 5) - 1;
    for (int way = 0; way < WAYS; way++) {
        net n;
        net_new(&n);
        fold_ctx *f = context(&n, 1, way), *g = context(&n, 1, way);
        int label = 2;
        const fold_node scores = fold_list_input(f, x, ROWS, fold_shape1(1)), cost = fold_list_choice_xent(f, scores, label);
        fold_keep(f, cost);
        fold_index_ref(f, cost, &label, 1);
        fold_keep_grad(f, scores);
        CHECK_INT(fold_backward(f, fold_scale(f, cost, 1.5f)), FOLD_OK);
        for (label = ROWS - 1; label >= -1; label--) {
            if (label == -1) {
                CHECK_INT(fold_replay(f), FOLD_BAD_ARGUMENT);
                CHECK_TEXT(fold_ctx_message(f), "index -1 in row 0");
                CHECK_TEXT(fold_ctx_message(f), "is not in [0, 7)");
                break;
            }
            CHECK_INT(fold_replay(f), FOLD_OK);
            got[0] = fold_scalar(f, cost);
            CHECK_INT(fold_ctx_status(f), FOLD_OK);
            memcpy(got + 1, fold_grad(f, scores), ROWS * sizeof *got);
            fold_ctx_reset(g);
            const fold_node vector = fold_input(g, x, ROWS), loss = fold_softmax_xent(g, vector, label);
            fold_keep(g, loss);
            fold_keep_grad(g, vector);
            CHECK_INT(fold_backward(g, fold_scale(g, loss, 1.5f)), FOLD_OK);
            want[0] = fold_scalar(g, loss);
            memcpy(want + 1, fold_grad(g, vector), ROWS * sizeof *want);
            CHECK_BITS(got, want, 1 + ROWS);
        }
        fold_ctx_reset(f);
        const fold_node edges = fold_list_input(f, x, ROWS, fold_shape1(1));
        fold_index_ref(f, fold_list_choice_xent_to(f, edges, each, to, ROWS, 2), each, 2);
        CHECK_TEXT(fold_ctx_message(f), "(list_softmax_xent) has no index; [list_]lookup, pick, softmax_xent, hinge, choice_xent have one");
        fold_ctx_free(f);
        fold_ctx_free(g);
        fold_model_free(n.m);
    }
}

/* What cannot be replayed is refused; nothing is lost. */
static void refused(void)
{
    for (int way = EAGER; way <= BATCHED; way++) {
        net n;
        net_new(&n);
        fold_ctx *f = context(&n, 1, way);
        float x[H] = { 1, 2 };
        int row = 1;
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "replay: nothing was run since the reset");
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        const fold_node word = indexed(f, fold_lookup(f, n.words, row), &row, 1, 1);
        const fold_node y = fold_mul(f, word, fold_input_ref(f, x, fold_shape1(H)));
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        float want[H];
        CHECK_INT(fold_read(f, &y, 1, want), FOLD_OK);
        for (int bad = -1; bad < WORDS + 2; bad += WORDS + 1) {
            row = bad;
            CHECK_INT(fold_replay(f), FOLD_BAD_ARGUMENT);
            CHECK_TEXT(fold_ctx_message(f), "in row 0 of node");
            CHECK_TEXT(fold_ctx_message(f), bad < 0 ? "index -1" : "index 20");
            CHECK_TEXT(fold_ctx_message(f), "is not in [0, 20)");
        }
        row = 1;
        CHECK_BITS(fold_value(f, y), want, H);
        CHECK_INT(fold_replay(f), FOLD_OK);
        CHECK_BITS(fold_value(f, y), want, H);
        const fold_node z = fold_square(f, y);
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "something was recorded or newly kept since the last run");
        CHECK_INT(fold_run(f, &z, 1), FOLD_OK);
        CHECK_INT(fold_replay(f), FOLD_OK);
        fold_param_freeze(n.m, n.V, 1);
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "frozen");
        fold_ctx_reset(f);
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        fold_index_ref(f, fold_square(f, fold_input(f, x, H)), &row, 1);
        CHECK_TEXT(fold_ctx_message(f), "(square) has no index");
        CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
        fold_ctx_reset(f);
        fold_index_ref(f, fold_lookup(f, n.words, 1), &row, 2);
        CHECK_TEXT(fold_ctx_message(f), "index_ref: 2 indices for node 1 (lookup), which needs 1");
        fold_ctx_reset(f);
        const fold_node two = fold_list_input(f, x, 2, fold_shape1(2));
        const int both[2] = { 1, 0 };
        fold_index_ref(f, fold_pick(f, two, 1), &row, 1); /* one index of all rows */
        fold_index_ref(f, fold_pick_each(f, two, both, 2), both, 2);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        fold_index_ref(f, fold_pick_each(f, two, both, 2), both, 1);
        CHECK_TEXT(fold_ctx_message(f), "index_ref: 1 indices for node");
        CHECK_TEXT(fold_ctx_message(f), "(pick), which needs 2");
        fold_ctx_reset(f);
        fold_index_ref(f, fold_list_lookup(f, n.words, NULL, 0), NULL, 0);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        fold_index_ref(f, fold_lookup(f, n.words, 1), NULL, 1);
        CHECK_TEXT(fold_ctx_message(f), "index_ref");
        fold_ctx_reset(f);
        fold_output_ref(f, fold_lookup(f, n.words, 1), NULL);
        CHECK_TEXT(fold_ctx_message(f), "output_ref");
        fold_ctx_reset(f);
        row = WORDS;
        const fold_node late = indexed(f, fold_lookup(f, n.words, 1), &row, 1, 1);
        CHECK_INT(fold_run(f, &late, 1), way == EAGER ? FOLD_OK : FOLD_BAD_ARGUMENT);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        row = 2;
        CHECK_INT(fold_run(f, &late, 1), FOLD_OK);
        fold_ctx_free(f);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = way == EAGER;
        d.dedupe = 1;
        f = fold_ctx_new(n.m, &d);
        fold_index_ref(f, fold_lookup(f, n.words, 1), &row, 1);
        CHECK_TEXT(fold_ctx_message(f), "index_ref: not possible with dedupe");
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
    CHECK_INT(fold_replay(NULL), FOLD_BAD_ARGUMENT);
    fold_index_ref(NULL, FOLD_NULL_NODE, NULL, 0);
    fold_output_ref(NULL, FOLD_NULL_NODE, NULL);
}

/* -- edges that change ------------------------------------------------------------------------- */

enum { HERD = 12, MOST_EDGES = 4090, GIVEN = HERD * CLASSES };
typedef struct herd {
    float state[HERD][H];
    int pairs, from[MOST_EDGES], to[MOST_EDGES];
} herd;

/* Frames have few edges, none, more to one agent than scores are held at a time, others in no order, and most. */
static void herd_at(herd *w, int time)
{
    static const int pairs[] = { 5, 0, MOST_EDGES - 1, 60, MOST_EDGES };
    w->pairs = pairs[time];
    for (int i = 0; i < HERD * H; i++) w->state[i / H][i % H] = 0.1f * (float)((i * 5 + time * 3) % 17 - 8);
    for (int k = 0; k < w->pairs; k++) {
        w->from[k] = (7 * k + time) % HERD;
        w->to[k] = time == 2 ? (k ? 3 : 1) : time == 3 ? (5 * k + 2) % HERD : k * HERD / w->pairs;
    }
}

/* Two attentions along the same edges, of which the second reads the first. */
static fold_node herd_record(fold_ctx *f, const net *n, const herd *w, int refs, fold_node *scores)
{
    fold_node x = fold_list_input_ref(f, w->state[0], HERD, fold_shape1(H));
    for (int round = 0; round < 2; round++) {
        const fold_node keys = fold_scale(f, x, 2), seen = fold_list_attention_to(f, x, keys, x, 2, w->from, w->to, w->pairs);
        if (refs) fold_edges_ref(f, seen, w->from, w->to, &w->pairs, MOST_EDGES);
        x = fold_add(f, seen, fold_scale(f, x, 0.5f));
    }
    *scores = fold_linear(f, x, n->V, n->a);
    fold_keep(f, *scores);
    return fold_list_sum(f, fold_sum(f, fold_square(f, *scores), FOLD_ALL));
}

/* A replay reads how many edges there are, and which, and gives the bits of a frame recorded anew. */
static void edges_again(void)
{
    static herd w;
    static float want[2][FRAMES][FLOATS], got[FLOATS];
    for (int at = 0; at < 2 * WAYS; at++) {
        const int training = at % 2, way = at / 2;
        net n;
        net_new(&n);
        fold_ctx *f = context(&n, training, way);
        fold_node scores, loss;
        size_t bytes = 0;
        for (int time = 0; time < FRAMES; time++) {
            int count = 0;
            herd_at(&w, time);
            if (time && way != ANEW) {
                CHECK_INT(fold_replay(f), FOLD_OK);
            } else {
                fold_ctx_reset(f);
                loss = herd_record(f, &n, &w, way != ANEW, &scores);
                CHECK_INT(training ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
            }
            float *to = way == ANEW ? want[training][time] : got;
            CHECK_INT(fold_read(f, &scores, 1, to), FOLD_OK);
            CHECK_INT(fold_read(f, &loss, 1, to + GIVEN), FOLD_OK);
            const float *grads = fold_model_grads(n.m, &count);
            memcpy(to + GIVEN + 1, grads, (size_t)count * sizeof *to);
            if (way != ANEW) CHECK_BITS(got, want[training][time], (size_t)(GIVEN + 1 + count));
            if (time == 1) bytes = fold_ctx_stats(f).bytes; /* of the first replay */
            if (time > 1 && way != ANEW) CHECK_INT(fold_ctx_stats(f).bytes, bytes);
            fold_grads_clear(n.m);
        }
        CHECK_SAYS(memcmp(want[training][0], want[training][1], GIVEN * sizeof(float)), "frames are alike");
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* What measures with the recorded frame's few edges measures for the most: frames recorded anew and replays fit into that. */
static void edges_in_a_block(void)
{
    static herd w;
    for (int training = 0; training < 2; training++) {
        net n;
        net_new(&n);
        fold_ctx_desc d = context_desc(training, BATCHED);
        fold_node scores, loss;
        size_t size = 0;
        char *raw = NULL;
        for (int in_block = 0; in_block < 2; in_block++) {
            d.measure = !in_block;
            herd_at(&w, 1);
            if (in_block) {
                raw = (char *)malloc(size + 64);
                d.memory.block = raw + (64 - (uintptr_t)raw % 64) % 64;
                d.memory.block_size = size;
            }
            fold_ctx *f = fold_ctx_new(n.m, &d);
            loss = herd_record(f, &n, &w, 1, &scores);
            CHECK_INT(training ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
            for (int time = 0; time < FRAMES; time++) {
                herd_at(&w, time);
                if (in_block) {
                    fold_ctx_reset(f);
                    loss = herd_record(f, &n, &w, 1, &scores);
                    CHECK_INT(training ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
                }
                CHECK_INT(fold_replay(f), FOLD_OK);
            }
            size = fold_ctx_stats(f).block_bytes;
            fold_ctx_free(f);
        }
        free(raw);
        fold_model_free(n.m);
    }
}

/* A wrong number or index is an error of the run; a wrong call breaks the recording. */
static void edges_refused(void)
{
    static herd w;
    for (int way = EAGER; way < WAYS; way++) {
        net n;
        net_new(&n);
        fold_ctx *f = context(&n, 0, way);
        fold_node scores;
        float was[GIVEN];
        herd_at(&w, 0);
        const fold_node loss = herd_record(f, &n, &w, 1, &scores);
        CHECK_INT(fold_run(f, &loss, 1), FOLD_OK);
        CHECK_INT(fold_read(f, &scores, 1, was), FOLD_OK);
        static const struct { int pairs, from, to; const char *says; } bad[] = {
            { MOST_EDGES + 1, 0, 0, " has 4091 edges, not in [0, 4090]" }, { -1, 0, 0, " has -1 edges, not in [0, 4090]" },
            { 5, HERD, 0, "edges_ref: index 12 in edge 4 of node " },   { 5, -1, 0, "edges_ref: index -1 in edge 4 of node " },
            { 5, 0, HERD, " is not in [0, 12)" },                      { 5, 0, -7, "edges_ref: index -7 in edge 4 of node " }
        };
        for (int i = 0; i < 6; i++) {
            herd_at(&w, 0);
            w.pairs = bad[i].pairs;
            w.from[4] = bad[i].from;
            w.to[4] = bad[i].to;
            CHECK_INT(fold_replay(f), FOLD_BAD_ARGUMENT);
            CHECK_TEXT(fold_ctx_message(f), bad[i].says);
            CHECK_INT(fold_ctx_status(f), FOLD_OK);
        }
        herd_at(&w, 0);
        CHECK_INT(fold_replay(f), FOLD_OK);
        CHECK_BITS(fold_value(f, scores), was, GIVEN);
        for (int i = 0; i < 7; i++) {
            static const char *const says[] = { "edges_ref: node ", " (scale) has no edges", " (list_attention) has no edges",
                                                "edges_ref: max_edges is 4, but node ", "edges_ref", "are too many: edges + ",
                                                "(list_attention) has already been run, or has an edges_ref" };
            fold_ctx_reset(f);
            const fold_node x = fold_list_input_ref(f, w.state[0], HERD, fold_shape1(H));
            fold_node seen = fold_list_attention_to(f, x, x, x, 2, w.from, w.to, w.pairs);
            if (i == 0) CHECK_INT(fold_run(f, &seen, 1), FOLD_OK);
            if (i == 1) seen = fold_scale(f, seen, 2);
            if (i == 2) seen = fold_list_attention(f, x, x, x, 2, 0);
            if (i == 6) fold_edges_ref(f, seen, w.from, w.to, &w.pairs, 9);
            fold_edges_ref(f, seen, i == 4 ? NULL : w.from, w.to, &w.pairs, i == 3 ? 4 : i == 5 ? INT_MAX : 5);
            CHECK_TEXT(fold_ctx_message(f), says[i]);
            CHECK(fold_ctx_status(f) != FOLD_OK);
        }
        fold_ctx_free(f);
        fold_ctx_desc d = context_desc(0, way);
        d.dedupe = 1;
        f = fold_ctx_new(n.m, &d);
        herd_record(f, &n, &w, 1, &scores);
        CHECK_TEXT(fold_ctx_message(f), "edges_ref: not possible with dedupe");
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
    fold_edges_ref(NULL, FOLD_NULL_NODE, NULL, NULL, NULL, 0);
}

/* -- slices of time -------------------------------------------------------------------------- */

/* A clock that goes on as an op works: 500 for each call of its kernel, and 100 for each row. */
static uint64_t work_clock;
static uint64_t clock_of_work(void *user)
{
    (void)user;
    return work_clock;
}
static const char *slow_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in; (void)attr;
    out[0] = in[0];
    return NULL;
}
static void slow_forward(const fold_op_call *call)
{
    work_clock += 500 + 100 * (uint64_t)call->rows;
    for (int row = 0; row < call->rows; row++)
        for (int k = 0; k < call->out_shape[0].dim[0]; k++) fold_row(&call->out[0], row)[k] = 0.5f * fold_row(&call->in[0], row)[k];
}
static void slow_backward(const fold_op_call *call)
{
    work_clock += 1000 + 200 * (uint64_t)call->rows;
    for (int row = 0; row < call->rows && fold_row(&call->din[0], row); row++)
        for (int k = 0; k < call->out_shape[0].dim[0]; k++) fold_row(&call->din[0], row)[k] = 0.5f * fold_row(&call->dout[0], row)[k];
}

typedef struct slow_net {
    fold_model *m;
    fold_op slow;
    fold_param words, W, b;
} slow_net;
static fold_op slow_op(const slow_net *n, int number)
{
    fold_op_desc d = fold_op_desc_default();
    char name[20] = "slow";
    if (number) snprintf(name, sizeof name, "slow %d", number);
    d.name = name;
    d.n_in = d.n_out = 1;
    d.infer = slow_infer;
    d.forward = slow_forward;
    d.backward = slow_backward;
    return fold_op_new(n->m, &d);
}
static void slow_new(slow_net *n)
{
    n->m = fold_model_new(NULL);
    n->slow = slow_op(n, 0);
    n->words = fold_table_new(n->m, "words", WORDS, H);
    n->W = fold_weight_new(n->m, "W", H, H);
    n->b = fold_bias_new(n->m, "b", H);
}

/* Chains of 1 to 5 links, each with the slow op and a product; their sum. */
enum { CHAINS = 60 };
static fold_node chains(fold_ctx *f, const slow_net *n, fold_node *ends)
{
    fold_node losses[CHAINS];
    for (int i = 0; i < CHAINS; i++) {
        fold_node x = fold_lookup(f, n->words, i % WORDS);
        for (int link = 0; link <= i % 5; link++) {
            x = fold_op_apply(f, n->slow, &x, 1, NULL, 0);
            x = fold_tanh(f, fold_linear(f, x, n->W, n->b));
        }
        ends[i] = x;
        fold_keep(f, x);
        losses[i] = fold_sum(f, x, FOLD_ALL);
    }
    return fold_sum_n(f, losses, CHAINS);
}

enum { AT_ONCE, SLICED, IN_GROUPS, ON_THREADS, REPLAYED, SLICE_WAYS };
static fold_ctx *slow_context(const slow_net *n, int training, int way)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.clock = clock_of_work;
    d.group_bytes = way == IN_GROUPS || way == ON_THREADS ? 1 : SIZE_MAX;
    d.threads = way == ON_THREADS ? 3 : 0;
    d.parallel_for = one_by_one;
    return fold_ctx_new(n->m, &d);
}

/* A run in slices gives the bits of a run at once; what it will take is known; no slice takes longer. */
static void slices(int training)
{
    static float want[FLOATS], got[FLOATS];
    for (int way = 0; way < SLICE_WAYS; way++) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = slow_context(&n, training, way);
        fold_node ends[CHAINS];
        for (int time = 0; time < 6; time++) { /* the first runs are to learn */
            const uint64_t limit = time < 5 ? 0 : 2000;
            int slice_count = 0, more = 1, count;
            fold_node loss = FOLD_NULL_NODE;
            if (way != REPLAYED || !time) {
                fold_ctx_reset(f);
                loss = chains(f, &n, ends);
            }
            fold_grads_clear(n.m);
            const uint64_t start = work_clock;
            if (way == AT_ONCE) CHECK_INT(training ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
            else if (way == REPLAYED && time) CHECK_INT(fold_replay_begin(f), FOLD_OK);
            else CHECK_INT(training ? fold_backward_begin(f, loss) : fold_run_begin(f, &loss, 1), FOLD_OK);
            const double estimate = (double)fold_estimate_ns(f);
            for (; more && way != AT_ONCE; slice_count++) {
                const uint64_t begin = work_clock;
                CHECK(!fold_value(f, ends[0]) || way == REPLAYED);
                CHECK_INT(fold_run_more(f, limit, &more), FOLD_OK);
                const int took = (int)(work_clock - begin);
                if (limit) CHECK_SAYS(took <= 2600, "way %d: a slice took %d", way, took);
            }
            const double took = (double)(work_clock - start);
            if (limit && way != AT_ONCE) CHECK_SAYS(slice_count > 8, "%d slices", slice_count);
            if (!limit && time > 1 && way != AT_ONCE) /* slices cut batches, which then take longer */
                CHECK_SAYS(estimate > 0.9 * took && estimate < 1.1 * took, "way %d: %g estimated, %g taken", way, estimate, took);
            CHECK_INT(fold_read(f, ends, CHAINS, got), FOLD_OK);
            const float *grads = fold_model_grads(n.m, &count);
            count = training ? count : 0;
            memcpy(got + CHAINS * H, grads, (size_t)count * sizeof *got);
            if (way == AT_ONCE) memcpy(want, got, sizeof want);
            CHECK_BITS(got, want, CHAINS * H + count);
        }
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* A cell, called row by row, that reads one part of a node: the rest of the node's gradient is zero, and a slice that goes on in the
   middle of a list keeps what the one before gave to the part. */
static void part_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const slow_net *n = (const slow_net *)user;
    const fold_node both = fold_mul(f, fold_slice(f, in[0], 0, 0, H / 2), fold_slice(f, in[1], 0, 0, H / 2));
    out[0] = fold_op_apply(f, n->slow, &both, 1, NULL, 0);
}
static void slices_of_parts(void)
{
    enum { COUNT = 3, ROWS = 150 };
    static float want[FLOATS], got[FLOATS];
    static int words[ROWS];
    slow_net n;
    slow_new(&n);
    const fold_cell part = pair_cell(n.m, "part", part_body, &n, 0, 1, H);
    fold_ctx *f = slow_context(&n, 1, SLICED);
    for (int row = 0; row < ROWS; row++) words[row] = row % WORDS;
    for (int time = 0; time < 4; time++) {
        fold_node losses[COUNT];
        int slice_count = 0, more = 1, count;
        fold_ctx_reset(f);
        for (int i = 0; i < COUNT; i++) {
            const fold_node in[2] = { fold_list_lookup(f, n.words, words, ROWS - 7 * i), fold_tanh(f, fold_lookup(f, n.words, i)) };
            losses[i] = fold_sum(f, fold_list_sum(f, fold_out(f, fold_call(f, part, in, 2), 0)), FOLD_ALL);
        }
        const fold_node root = fold_sum_n(f, losses, COUNT);
        fold_grads_clear(n.m);
        CHECK_INT(time ? fold_backward_begin(f, root) : fold_backward(f, root), FOLD_OK);
        for (; time && more; slice_count++) CHECK_INT(fold_run_more(f, time < 3 ? 0 : 2000, &more), FOLD_OK);
        if (time == 3) CHECK_SAYS(slice_count > 8, "%d slices", slice_count);
        const float *grads = fold_model_grads(n.m, &count);
        memcpy(time ? got : want, grads, (size_t)count * sizeof *got);
        if (time) CHECK_BITS(got, want, count);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void slices_of_inference(void) { slices(0); }
static void slices_of_training(void) { slices(1); }

/* -- slices of long lists -------------------------------------------------------------------- */

/* Lists, long ones, an empty one and one of one row, which all kinds of row-wise calls read: several at a time,
   whole or in part, beside a node, in cells that also make values of the call, and one after another. */
enum { LISTS = 4, LIST_ROWS = 200, SEEN = 7 };
static const int list_length[LISTS] = { 120, 0, 1, 79 };
typedef struct list_net {
    slow_net n;
    fold_recurrent r;
    fold_cell beside;
    float in[LIST_ROWS * H];
} list_net;

/* out[0] is of each row, out[1] of the call. */
static void beside_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const slow_net *n = (const slow_net *)user;
    out[1] = fold_tanh(f, fold_linear(f, in[1], n->W, n->b));
    const fold_node product = fold_linear(f, fold_mul(f, in[0], in[1]), n->W, FOLD_NULL_PARAM);
    out[0] = fold_mul(f, fold_dropout(f, fold_sigmoid(f, product), 0.2f), out[1]);
}
static void list_net_new(list_net *l)
{
    memset(l, 0, sizeof *l);
    slow_new(&l->n);
    l->r = fold_gru_new(l->n.m, "r", H, H);
    l->beside = pair_cell(l->n.m, "beside", beside_body, &l->n, sizeof l->n, 2, H);
    for (int i = 0; i < LIST_ROWS * H; i++) l->in[i] = 0.1f * (float)(i * 37 % 41 - 20);
}

/* The loss of one list. What is to be compared goes to `seen`. */
static fold_node loss_of_list(fold_ctx *f, const list_net *l, const float *rows, int length, fold_node *seen)
{
    const int few[3] = { length - 1, 0, length - 1 }, word[3] = { 3, 1, 3 };
    const fold_node x = fold_list_input_ref(f, rows, length, fold_shape1(H));
    const fold_node side = fold_tanh(f, fold_input(f, l->in + 5 * length, H));
    const fold_node slow = fold_op_apply(f, l->n.slow, &x, 1, NULL, 0);
    const fold_node y = fold_tanh(f, fold_linear(f, slow, l->n.W, l->n.b));
    const fold_node z = fold_dropout(f, fold_mul(f, fold_add(f, y, side), fold_use(f, l->n.b)), 0.3f);
    const fold_node both[2] = { z, side }, call = fold_call(f, l->beside, both, 2);
    const fold_node joined = fold_list_join(f, both, 2), of_call = fold_out(f, call, 1);
    fold_state s = { fold_out(f, call, 0), FOLD_NULL_NODE };
    for (int time = 0; time < 3; time++) s = fold_recurrent_apply(f, &l->r, y, s);
    fold_node some = fold_slice(f, s.h, 0, 2, 3); /* and nobody reads the rest */
    const fold_node taken = length ? fold_list_take(f, y, few, 3) : fold_list_lookup(f, l->n.words, word, 3);
    fold_node loss = fold_add(f, fold_list_sum(f, fold_square(f, joined)), fold_list_mean(f, fold_square(f, taken)));
    loss = fold_add(f, loss, fold_mul(f, of_call, fold_list_sum(f, fold_mul(f, z, slow))));
    if (length) loss = fold_add(f, loss, fold_list_at(f, y, length / 2));
    loss = fold_add(f, fold_sum(f, loss, FOLD_ALL), fold_sum(f, fold_list_sum(f, fold_square(f, some)), FOLD_ALL));
    const fold_node all[SEEN] = { x, side, y, z, s.h, call, of_call };
    memcpy(seen, all, sizeof all);
    for (int i = 0; i < SEEN; i++) {
        if (i) fold_keep(f, seen[i]);
        if (i != 3) fold_keep_grad(f, seen[i]);
    }
    return loss;
}
static fold_node losses_of_lists(fold_ctx *f, const list_net *l, fold_node *seen)
{
    fold_node losses[LISTS];
    const float *rows = l->in;
    for (int i = 0; i < LISTS; rows += list_length[i++] * H)
        losses[i] = loss_of_list(f, l, rows, list_length[i], seen + SEEN * i);
    return fold_sum_n(f, losses, LISTS);
}

/* All that was seen, and the gradients of parameters; returns how many floats. */
static int results_of_lists(fold_ctx *f, const list_net *l, const fold_node *seen, int training, float *to)
{
    int count = 0, n_grads;
    for (int i = 0; i < LISTS * SEEN; i++) {
        const int rows = fold_list_length(f, seen[i]), floats = H * (rows < 0 ? 1 : rows);
        for (int grad = 0; grad <= training; grad++) {
            const float *from = grad ? fold_grad(f, seen[i]) : fold_value(f, seen[i]);
            if (grad && i % SEEN == 3) continue;
            if (!CHECK_SAYS(from, "%s of %d: %s", grad ? "gradient" : "value", i, fold_ctx_message(f))) continue;
            memcpy(to + count, from, (size_t)floats * sizeof *to);
            count += floats;
        }
    }
    const float *grads = fold_model_grads(l->n.m, &n_grads);
    memcpy(to + count, grads, (size_t)(training ? n_grads : 0) * sizeof *to);
    return training ? count + n_grads : count;
}

/* Lists may be cut anywhere, and the bits are those of an eager context. The clock ticks, so short slices cut
   every batch down to its rows. */
static uint64_t ticking_clock(void *user);
static void lists_cut(void)
{
    static const uint64_t limit[] = { 0, 0, 1, 10, 150, 1000, 5000 };
    static float want[FLOATS * 4], got[FLOATS * 4];
    for (int training = 0; training < 2; training++)
        for (int way = 0; way < 7; way++) {
            list_net l;
            list_net_new(&l);
            fold_node seen[LISTS * SEEN];
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = training;
            d.eager = way == 0;
            d.clock = ticking_clock;
            d.group_bytes = way % 2 ? SIZE_MAX : 1;
            fold_ctx *f = fold_ctx_new(l.n.m, &d);
            for (int time = 0; time < 3; time++) { /* recorded, the same again, replayed */
                int more = way > 1;
                fold_grads_clear(l.n.m);
                if (time < 2) {
                    fold_ctx_reset(f);
                    fold_dropout_seed(f, 5);
                    const fold_node loss = losses_of_lists(f, &l, seen);
                    if (!more) CHECK_INT(training ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
                    else CHECK_INT(training ? fold_backward_begin(f, loss) : fold_run_begin(f, &loss, 1), FOLD_OK);
                } else {
                    CHECK_INT(more ? fold_replay_begin(f) : fold_replay(f), FOLD_OK);
                }
                while (more) CHECK_INT(fold_run_more(f, limit[way], &more), FOLD_OK);
                const int count = results_of_lists(f, &l, seen, training, way ? got : want + time * FLOATS);
                if (way) CHECK_BITS(got, want + time * FLOATS, count);
            }
            fold_ctx_free(f);
            fold_model_free(l.n.m);
        }
}

/* What cannot go on is told, and nothing is lost. */
static void slices_refused(void)
{
    slow_net n;
    slow_new(&n);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node ends[CHAINS];
        int more = 7;
        d.eager = eager;
        d.training = 1;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "run_more: no run in progress; call fold_run_begin");
        CHECK_INT(more, 0);
        fold_node loss = chains(f, &n, ends);
        CHECK_INT(fold_run_begin(f, ends, CHAINS), FOLD_OK);
        CHECK_INT(fold_run_more(f, 1000, &more), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "a time limit needs a clock");
        if (!eager) CHECK(!fold_value(f, ends[0]));
        if (!eager) CHECK_TEXT(fold_ctx_message(f), "not finished");
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
        CHECK_INT(more, 0);
        CHECK(fold_value(f, ends[0]) != NULL);
        CHECK_INT(fold_run_more(f, 0, NULL), FOLD_BAD_STATE);
        CHECK_INT(fold_backward_begin(f, loss), FOLD_OK);
        loss = fold_square(f, loss);
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "something was recorded");
        CHECK_INT(fold_backward_begin(f, loss), FOLD_OK);
        fold_values_write_begin(n.m, n.b);
        fold_values_write_end(n.m, n.b);
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "parameters changed");
        fold_ctx_reset(f);
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_BAD_STATE);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        CHECK_INT(fold_run_begin(f, NULL, 1), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_ctx_message(f), "run_begin");
        fold_ctx_reset(f);
        CHECK_INT(fold_run_begin(f, NULL, 0), FOLD_OK);
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* -- what comes between ----------------------------------------------------------------------- */

static fold_ctx *small_context(const slow_net *n, int eager)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.eager = eager;
    d.clock = clock_of_work;
    d.group_bytes = 1;
    return fold_ctx_new(n->m, &d);
}

/* What is named to be kept after a run, or while one is begun, is computed by the next. */
static void kept_between(void)
{
    for (int eager = 0; eager < 2; eager++) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = small_context(&n, eager);
        float first[H], out[H] = { 0 };
        int more;
        const fold_node x = fold_lookup(f, n.words, 1), y = fold_tanh(f, fold_linear(f, x, n.W, n.b));
        const fold_node z = fold_square(f, y), loss = fold_sum(f, z, FOLD_ALL);
        fold_output_ref(f, x, first);
        fold_keep_grad(f, x);
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        fold_keep_grad(f, y);
        CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "something was recorded or newly kept since the last run");
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        CHECK_INT(fold_backward_begin(f, loss), FOLD_OK);
        fold_keep_grad(f, z);
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "something was recorded, printed or kept");
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        CHECK(fold_grad(f, z) != NULL);
        fold_output_ref(f, y, out);
        CHECK_INT(fold_replay(f), eager ? FOLD_OK : FOLD_BAD_STATE); /* an eager one has the value */
        CHECK_INT(fold_backward_begin(f, loss), FOLD_OK);
        fold_output_ref(f, z, first);
        CHECK_INT(fold_run_more(f, 0, &more), eager ? FOLD_OK : FOLD_BAD_STATE);
        CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
        CHECK(fold_value(f, y) != NULL);
        CHECK_BITS(out, fold_value(f, y), H);
        CHECK_BITS(first, fold_value(f, z), H);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* Ops that are added between replays, or between slices, move those of the model. */
static void ops_between(void)
{
    slow_net n;
    slow_new(&n);
    fold_ctx *f = small_context(&n, 0);
    float want[H];
    int more = 1, added = 0;
    fold_node y = fold_lookup(f, n.words, 1);
    for (int link = 0; link < 3; link++) y = fold_op_apply(f, n.slow, &y, 1, NULL, 0);
    CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
    CHECK_INT(fold_read(f, &y, 1, want), FOLD_OK);
    for (int round = 0; round < 3; round++) {
        for (int more_ops = 0; more_ops < 20; more_ops++) slow_op(&n, ++added);
        CHECK_INT(fold_replay(f), FOLD_OK);
        CHECK_BITS(fold_value(f, y), want, H);
    }
    CHECK_INT(fold_replay_begin(f), FOLD_OK);
    while (more) {
        CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
        for (int more_ops = 0; more_ops < 100; more_ops++) slow_op(&n, ++added);
    }
    CHECK_BITS(fold_value(f, y), want, H);
    CHECK_INT(fold_replay_begin(f), FOLD_OK);
    fold_bias_new(n.m, "late", H);
    CHECK_INT(fold_run_more(f, 1, &more), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(f), "parameters changed");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A backward that is given up after any of its slices leaves nothing behind once gradients are cleared. */
static void given_up(void)
{
    static float want[FLOATS];
    for (int way = AT_ONCE; way <= IN_GROUPS; way++) {
        int more = 1, count;
        for (int cut = -1; more; cut++) {
            slow_net n;
            slow_new(&n);
            fold_ctx *f = slow_context(&n, 1, way);
            fold_node ends[CHAINS], loss = chains(f, &n, ends);
            if (cut >= 0) CHECK_INT(fold_backward_begin(f, loss), FOLD_OK);
            for (int slice = 0; slice < cut && more; slice++)
                CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
            fold_grads_clear(n.m);
            if (cut % 2) fold_ctx_reset(f);
            if (cut % 2) loss = chains(f, &n, ends);
            CHECK_INT(fold_backward(f, loss), FOLD_OK);
            const float *grads = fold_model_grads(n.m, &count);
            if (cut < 0) memcpy(want, grads, (size_t)count * sizeof *grads);
            CHECK_BITS(grads, want, count);
            fold_ctx_free(f);
            fold_model_free(n.m);
            cut += cut > 20 ? 6 : 0;
        }
    }
}

/* While a replay goes on in slices, and after it is given up, nothing that is half old and half new can be read;
   whatever is run next makes all new. */
static void half_done(void)
{
    enum { REPLAY, ANOTHER_RUN, ANOTHER_BEGUN, BACKWARD, RESET, ENDS };
    static float want[2][FLOATS], got[FLOATS];
    for (int end = REPLAY; end < ENDS; end++) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = slow_context(&n, 1, SLICED), *alone = slow_context(&n, 1, AT_ONCE);
        fold_node ends[CHAINS];
        float x[H] = { 1, 2 };
        int more = 1;
        const fold_node in = fold_input_ref(f, x, fold_shape1(H)), before = fold_tanh(f, in);
        CHECK_INT(fold_run(f, &before, 1), FOLD_OK);
        const fold_node loss = chains(f, &n, ends);
        fold_keep_grad(f, ends[0]);
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        CHECK_INT(fold_read(f, ends, CHAINS, want[0]), FOLD_OK);
        fold_values_write_begin(n.m, n.b)[0] += 1;
        fold_values_write_end(n.m, n.b);
        fold_node same[CHAINS];
        chains(alone, &n, same);
        CHECK_INT(fold_run(alone, same, CHAINS), FOLD_OK);
        CHECK_INT(fold_read(alone, same, CHAINS, want[1]), FOLD_OK);
        CHECK_INT(fold_replay_begin(f), FOLD_OK);
        CHECK_INT(fold_read(f, ends, CHAINS, got), FOLD_OK); /* as nothing is computed yet */
        CHECK_BITS(got, want[0], CHAINS * H);
        for (int slice = 0; slice < 5; slice++) CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
        CHECK(more);
        CHECK(!fold_value(f, ends[0]) && !fold_value(f, ends[CHAINS - 1]) && !fold_grad(f, ends[0]));
        CHECK_TEXT(fold_ctx_message(f), "grad: the begun run has not finished");
        CHECK(fold_value(f, in) == x);
        CHECK_INT(fold_read(f, ends, CHAINS, got), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "read: the begun run has not finished; call fold_run_more");
        if (end == RESET) {
            fold_ctx_reset(f);
            const fold_node anew = fold_tanh(f, fold_input(f, x, H));
            CHECK_INT(fold_run(f, &anew, 1), FOLD_OK);
            CHECK(fold_value(f, anew) != NULL);
        } else {
            const fold_node later = end == REPLAY ? FOLD_NULL_NODE : fold_square(f, ends[0]);
            if (end == REPLAY) CHECK_INT(fold_replay_begin(f), FOLD_OK);
            else CHECK_INT(fold_replay_begin(f), FOLD_BAD_STATE);
            if (end == REPLAY) CHECK(!fold_value(f, ends[0]));
            if (end == REPLAY) CHECK_INT(fold_replay(f), FOLD_OK);
            if (end != REPLAY) CHECK(!fold_value(f, ends[0]));
            if (end == ANOTHER_RUN) CHECK_INT(fold_run(f, &later, 1), FOLD_OK);
            if (end == BACKWARD) CHECK_INT(fold_backward(f, loss), FOLD_OK);
            if (end == ANOTHER_BEGUN) {
                CHECK_INT(fold_run_begin(f, &later, 1), FOLD_OK);
                CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
                CHECK(!fold_value(f, ends[0]));
                CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
            }
            CHECK_INT(fold_read(f, ends, CHAINS, got), FOLD_OK);
            CHECK_BITS(got, want[1], CHAINS * H);
            CHECK(!fold_value(f, before)); /* after a change of parameters it is not known to hold */
        }
        fold_ctx_free(f);
        fold_ctx_free(alone);
        fold_model_free(n.m);
    }
}

/* The same without a change of parameters: what the next run does not compute anew is not there any more. */
static void half_done_by_inputs(void)
{
    enum { DEEP = 4 };
    for (int begun = 0; begun < 2; begun++) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = slow_context(&n, 0, SLICED);
        fold_node y[DEEP], root, kept;
        float x[H] = { 1, 2 };
        int more = 1;
        y[0] = fold_input_ref(f, x, fold_shape1(H));
        for (int i = 1; i < DEEP; i++) y[i] = fold_op_apply(f, n.slow, &y[i - 1], 1, NULL, 0);
        root = fold_square(f, y[1]);
        kept = fold_square(f, y[DEEP - 1]);
        fold_keep(f, y[DEEP - 1]);
        fold_keep(f, kept);
        CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
        x[1] = 32;
        CHECK_INT(fold_replay_begin(f), FOLD_OK);
        CHECK_NEAR(fold_value(f, y[DEEP - 1])[1], 0.25f, 0);
        CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
        CHECK_INT(more, 1);
        const fold_node later = fold_scale(f, y[DEEP - 1], 2); /* which may be old or new */
        CHECK(!fold_value(f, y[DEEP - 1]));
        CHECK_TEXT(fold_ctx_message(f), "value: the begun run has not finished");
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_BAD_STATE);
        CHECK_INT(begun ? fold_run_begin(f, &later, 1) : fold_run(f, &later, 1), FOLD_OK);
        if (begun) CHECK_TEXT(fold_value(f, kept) ? "" : fold_ctx_message(f), "value: the begun run has not finished");
        if (begun) CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
        CHECK_NEAR(fold_value(f, later)[1], 8, 0);
        CHECK_NEAR(fold_value(f, y[DEEP - 1])[1], 4, 0);
        CHECK_NEAR(fold_value(f, kept)[1], 16, 0);
        CHECK(!fold_value(f, root));
        CHECK_TEXT(fold_ctx_message(f), "was not kept");
        CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
        CHECK_NEAR(fold_value(f, root)[1], 256, 0);
        CHECK_INT(fold_replay_begin(f), FOLD_OK);
        CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* Weights and biases with two uses, whose sums slices cut. */
static uint64_t ticking_clock(void *user)
{
    (void)user;
    return work_clock += 100;
}
static void sums_cut(void)
{
    static float want[FLOATS];
    for (int cut = 0; cut < 5; cut++) {
        slow_net n;
        slow_new(&n);
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node losses[CHAINS];
        int count, more = 1;
        const fold_param wide = fold_weight_new(n.m, "wide", H, 70), bias = fold_bias_new(n.m, "bias", 70);
        d.training = 1;
        d.clock = ticking_clock;
        d.group_bytes = SIZE_MAX;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int i = 0; i < CHAINS; i++) {
            const fold_node x = fold_lookup(f, n.words, i % WORDS), y = fold_linear(f, x, wide, bias);
            const fold_node z = fold_add(f, fold_linear(f, fold_tanh(f, x), wide, FOLD_NULL_PARAM), y);
            losses[i] = fold_sum(f, fold_mul(f, z, y), FOLD_ALL);
        }
        const fold_node loss = fold_sum_n(f, losses, CHAINS);
        CHECK_INT(cut ? fold_backward_begin(f, loss) : fold_backward(f, loss), FOLD_OK);
        while (cut && more) CHECK_INT(fold_run_more(f, (uint64_t)(cut * cut * 50), &more), FOLD_OK);
        const float *grads = fold_model_grads(n.m, &count);
        if (!cut) memcpy(want, grads, (size_t)count * sizeof *grads);
        CHECK_BITS(grads, want, count);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* An allocator that spoils what it takes back. */
static void *spoiling_alloc(size_t size, size_t align, void *user)
{
    (void)user;
    return aligned_block(size, align);
}
static void spoiling_free(void *memory, size_t size, void *user)
{
    (void)user;
    memset(memory, 0xa5, size);
    free_block(memory);
}

/* A model's parameters and ops move. */
static void move_model(const slow_net *n, int *added)
{
    for (int i = 0; i < 40; i++) slow_op(n, ++*added);
    fold_model_size size = fold_model_measure(n->m);
    size.values *= (size_t)*added;
    size.packs *= (size_t)*added;
    CHECK_INT(fold_model_reserve(n->m, &size), FOLD_OK);
}

/* What batches know of their ops stays from replay to replay, until the model's arrays move: of chains, whose
   first products run for all links at once, and of an op of the program's own. */
static void replayed_often(void)
{
    enum { LINKS = 5, REPLAYS = 8 };
    static float inputs[2][LINKS][H], want[REPLAYS][2 * H];
    for (int way = AT_ONCE; way <= SLICED; way++) {
        slow_net n;
        fold_model_desc d = fold_model_desc_default();
        d.memory.alloc = spoiling_alloc;
        d.memory.free = spoiling_free;
        n.m = fold_model_new(&d);
        n.slow = slow_op(&n, 0);
        const fold_recurrent cell = fold_gru_new(n.m, "cell", H, H);
        const fold_child_sum tree = fold_child_sum_new(n.m, "tree", H, H);
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.clock = ticking_clock;
        desc.group_bytes = SIZE_MAX;
        fold_ctx *f = fold_ctx_new(n.m, &desc);
        fold_node ends[2];
        for (int time = 0, added = 0; time < REPLAYS; time++) {
            int more = way == SLICED && time > 4;
            for (int i = 0; i < 2 * LINKS * H; i++) inputs[i / (LINKS * H)][i / H % LINKS][i % H] = 0.1f * (float)((i * (time + 3)) % 17);
            if (way == AT_ONCE) fold_ctx_reset(f);
            for (int i = 0; i < 2 && (way == AT_ONCE || !time); i++) {
                fold_state state = fold_recurrent_zeros(f, &cell);
                for (int link = 0; link < LINKS; link++)
                    state = fold_recurrent_apply(f, &cell, fold_input_ref(f, inputs[i][link], fold_shape1(H)), state);
                fold_state leaves[3];
                for (int leaf = 0; leaf < 3; leaf++) leaves[leaf] = fold_child_sum_apply(f, &tree, state.h, NULL, 0);
                state = fold_child_sum_apply(f, &tree, state.h, leaves, 2 + i); /* lists of two lengths */
                ends[i] = fold_op_apply(f, n.slow, &state.h, 1, NULL, 0);
            }
            if (time == 3) move_model(&n, &added);
            if (way == AT_ONCE || !time) CHECK_INT(fold_run(f, ends, 2), FOLD_OK);
            else CHECK_INT(more ? fold_replay_begin(f) : fold_replay(f), FOLD_OK);
            for (int slice = 0; more; slice++) {
                CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
                if (slice == 2 && time == 6) move_model(&n, &added);
            }
            float got[2 * H];
            CHECK_INT(fold_read(f, ends, 2, way == AT_ONCE ? want[time] : got), FOLD_OK);
            if (way == SLICED) CHECK_BITS(got, want[time], 2 * H);
        }
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* A measuring context that is run in slices computes nothing either, whatever its memory holds. */
static void measured_in_slices(void)
{
    enum { BYTES = 1 << 20 };
    void *memory = malloc(BYTES);
    for (int eager = 0; eager < 2; eager++) {
        slow_net n;
        slow_new(&n);
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node losses[CHAINS];
        int count, more = 1, changed = 0;
        memset(memory, '?', BYTES);
        d.training = d.measure = 1;
        d.eager = eager;
        d.clock = clock_of_work;
        d.group_bytes = 1;
        d.memory.block = memory;
        d.memory.block_size = BYTES;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int i = 0; i < CHAINS; i++) { /* two uses of W, which are summed apart */
            const fold_node x = fold_tanh(f, fold_linear(f, fold_lookup(f, n.words, i % WORDS), n.W, n.b));
            losses[i] = fold_sum(f, fold_linear(f, x, n.W, FOLD_NULL_PARAM), FOLD_ALL);
        }
        CHECK_INT(fold_backward_begin(f, fold_sum_n(f, losses, CHAINS)), FOLD_OK);
        CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
        CHECK_INT(more, !eager); /* as if it took longer than this */
        if (more) CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
        CHECK_INT(more, 0);
        const float *grads = fold_model_grads(n.m, &count);
        for (int i = 0; i < count; i++) changed += grads[i] != 0;
        CHECK_INT(changed, 0);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
    free(memory);
}

/* A begun run that has nothing to do is finished by its first slice, though printing moved arrays before it. */
static int write_nothing(const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    return 0;
}
static void nothing_to_do_after_printing(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node y = fold_tanh(f, fold_constant(f, 0.5f));
    int more = 1;
    CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
    CHECK_INT(fold_ctx_print(f, write_nothing, NULL), FOLD_OK);
    CHECK_INT(fold_run_begin(f, &y, 1), FOLD_OK);
    CHECK_SAYS(!fold_run_more(f, 0, &more) && !more, "%s", fold_ctx_message(f));
    CHECK_NEAR(fold_scalar(f, y), tanh(0.5), 1e-6);
    fold_ctx_free(f);
    fold_model_free(m);
}

static uint64_t clock_that_leaps(void *user)
{
    static uint64_t now;
    (void)user;
    return now += 300;
}
/* A run that is given up is planned anew, and both plans may be there: measuring tells their room. */
static void measured_given_up(void)
{
    size_t bytes = 0;
    for (int round = 0; round < 2; round++) { /* measuring, in a block */
        fold_model *m = fold_model_new(NULL);
        fold_ctx_desc d = fold_ctx_desc_default();
        int more = 0;
        d.training = 1;
        d.measure = !round;
        d.group_bytes = SIZE_MAX;
        d.clock = clock_that_leaps;
        void *memory = malloc(bytes + 1);
        d.memory.block = round ? memory : NULL;
        d.memory.block_size = bytes;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node x = fold_constant(f, 0.5f), four[4] = { x, x, x, x };
        fold_keep(f, fold_tanh(f, fold_stack(f, four, 4)));
        CHECK_INT(fold_run_begin(f, NULL, 0), FOLD_OK);
        CHECK_INT(fold_run_more(f, 500, &more), FOLD_OK);
        CHECK_INT(more, 1);
        CHECK_SAYS(!fold_run(f, NULL, 0), "%s", fold_ctx_message(f));
        bytes = fold_ctx_stats(f).block_bytes;
        fold_ctx_free(f);
        fold_model_free(m);
        free(memory);
    }
}

/* A replay after a change of parameters leaves no value of the old ones behind: what it does not compute is
   computed by the next run, and given where it was wanted. */
static void parameters_between(void)
{
    float want[3][H];
    for (int eager = 0; eager < 2; eager++) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = small_context(&n, eager);
        float out[H];
        const fold_node x = fold_lookup(f, n.words, 1), loss = fold_sum(f, fold_use(f, n.b), FOLD_ALL);
        const fold_node beside = fold_tanh(f, fold_linear(f, x, n.W, n.b));
        fold_output_ref(f, beside, out);
        CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        for (int step = 0; step < 2; step++) {
            const fold_sgd sgd = { 0.5f, 0, 0 };
            CHECK_INT(fold_sgd_step(n.m, &sgd), FOLD_OK);
            CHECK_INT(fold_replay(f), FOLD_OK);
        }
        const fold_node upon = fold_square(f, beside);
        CHECK_INT(fold_run(f, &upon, 1), FOLD_OK);
        CHECK(fold_value(f, beside) != NULL);
        CHECK_BITS(out, fold_value(f, beside), H);
        if (!eager) CHECK_INT(fold_read(f, &beside, 1, want[0]), FOLD_OK);
        if (!eager) CHECK_INT(fold_read(f, &upon, 1, want[1]), FOLD_OK);
        CHECK_BITS(fold_value(f, beside), want[0], H);
        CHECK_BITS(fold_value(f, upon), want[1], H);
        fold_ctx_reset(f);
        const fold_node anew = fold_tanh(f, fold_linear(f, fold_lookup(f, n.words, 1), n.W, n.b));
        CHECK_INT(fold_run(f, &anew, 1), FOLD_OK);
        CHECK_BITS(fold_value(f, anew), want[0], H);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* Dropout that no run has needed yet draws on with the others. */
static void draws_between(void)
{
    float want[H];
    for (int eager = 1; eager >= 0; eager--) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = small_context(&n, eager);
        const fold_node x = fold_lookup(f, n.words, 1), root = fold_dropout(f, x, 0.5f);
        const fold_node later = fold_dropout(f, x, 0.5f);
        CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
        for (int again = 0; again < 3; again++) CHECK_INT(fold_replay(f), FOLD_OK);
        CHECK_INT(fold_run(f, &later, 1), FOLD_OK);
        if (eager) CHECK_INT(fold_read(f, &later, 1, want), FOLD_OK);
        CHECK_BITS(fold_value(f, later), want, H);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* A backward that an index refused touches no kept gradient, and one that reaches nothing clears them when it
   is replayed. */
static void kept_grads_between(void)
{
    for (int eager = 0; eager < 2; eager++) {
        slow_net n;
        slow_new(&n);
        fold_ctx *f = small_context(&n, eager);
        const float one[1] = { 1 };
        int row = WORDS;
        const fold_node x = indexed(f, fold_lookup(f, n.words, 1), &row, 1, 1);
        const fold_node loss = fold_sum(f, x, FOLD_ALL), alone = fold_square(f, fold_input(f, one, 1));
        fold_keep_grad(f, x);
        if (!eager) CHECK_INT(fold_backward(f, loss), FOLD_BAD_ARGUMENT);
        CHECK(!fold_grad(f, x));
        row = 2;
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        CHECK_NEAR(fold_grad(f, x)[1], 1, 0);
        CHECK_INT(fold_backward(f, alone), FOLD_OK);
        CHECK_NEAR(fold_grad(f, x)[1], 1, 0);
        CHECK_INT(fold_replay(f), FOLD_OK);
        CHECK_NEAR(fold_grad(f, x)[1], 0, 0);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* -- memory known ahead ---------------------------------------------------------------------- */

/* What a measuring context says is what a context takes that computes; a block of that size is enough, and
   nothing was computed. */
static void measured(void)
{
    for (int way = EAGER; way < WAYS; way++)
        for (int training = 0; training < 2; training++) {
            net n;
            net_new(&n);
            world w;
            frame r;
            size_t bytes[3] = { 0 };
            void *memory = NULL;
            memset(&w, 0, sizeof w);
            world_at(&w, 0);
            for (int round = 0; round < 3; round++) { /* measuring, with an allocator, in a block */
                fold_ctx_desc d = context_desc(training, way);
                d.measure = round == 0;
                if (d.measure) d.parallel_for = NULL;
                if (round == 2) {
                    memory = malloc(bytes[0]);
                    d.memory.block = memory;
                    d.memory.block_size = bytes[0];
                }
                fold_ctx *f = fold_ctx_new(n.m, &d);
                record(f, &n, &w, &r, 1, 0.5f);
                CHECK_INT(training ? fold_backward(f, r.loss) : fold_run(f, &r.loss, 1), FOLD_OK);
                CHECK_INT(fold_replay(f), FOLD_OK);
                if (round == 0) {
                    int count;
                    float sum = 0;
                    CHECK(!fold_value(f, r.loss));
                    CHECK_TEXT(fold_ctx_message(f), "value: a measuring context computes nothing");
                    CHECK(!fold_grad(f, r.state[0]));
                    CHECK_TEXT(fold_ctx_message(f), training ? "grad: a measuring context" : "grad");
                    const float *grads = fold_model_grads(n.m, &count);
                    for (int i = 0; i < count; i++) sum += grads[i] * grads[i];
                    CHECK_NEAR(sum, 0, 0);
                    CHECK_NEAR(w.memory[0][0], 0, 0);
                } else {
                    CHECK(fold_value(f, r.loss) != NULL);
                }
                bytes[round] = fold_ctx_stats(f).block_bytes;
                if (round) CHECK_INT(bytes[round], bytes[0]);
                fold_ctx_free(f);
                free(round == 2 ? memory : NULL);
                memset(w.memory, 0, sizeof w.memory);
                fold_grads_clear(n.m);
            }
            fold_model_free(n.m);
        }
}

/* In a block arrays move when others grow: what is asked for between a run and its replay changes nothing. */
static void moved_in_a_block(void)
{
    enum { REFS = 3000, BYTES = 1 << 22 };
    static float out[REFS];
    for (int way = BATCHED; way < WAYS; way++)
        for (int backward = 0; backward < 2; backward++) {
            net n;
            net_new(&n);
            fold_ctx_desc d = context_desc(1, way);
            float x[2][H] = { { 0 } }, want[2] = { 0, 0 };
            d.memory.block = malloc(BYTES);
            d.memory.block_size = BYTES;
            fold_ctx *f[2] = { fold_ctx_new(n.m, &d), context(&n, 1, way) };
            for (int i = 0; i < 2; i++) { /* the second is not in a block, and records anew */
                fold_node sum[SAMPLES], kept, loss;
                for (int time = 0; time < 3; time++) {
                    for (int k = 0; k < H; k++) x[i][k] = 0.1f * (float)(k + time);
                    if (i || !time) {
                        fold_ctx_reset(f[i]);
                        for (int k = 0; k < SAMPLES; k++) {
                            fold_state state = { fold_input_ref(f[i], x[i], fold_shape1(H)), FOLD_NULL_NODE };
                            for (int link = 0; link <= k; link++)
                                state.h = fold_recurrent_apply(f[i], &n.cell, state.h, state).h;
                            sum[k] = fold_sum(f[i], fold_linear(f[i], state.h, n.V, n.a), FOLD_ALL);
                        }
                        kept = fold_sum_n(f[i], sum, SAMPLES);
                        fold_keep(f[i], kept);
                        loss = fold_square(f[i], kept);
                        CHECK_INT(backward ? fold_backward(f[i], loss) : fold_run(f[i], &loss, 1), FOLD_OK);
                    } else {
                        for (int k = 0; k < REFS / 2; k++) fold_output_ref(f[i], kept, &out[k + time % 2 * REFS / 2]);
                        CHECK_INT(fold_replay(f[i]), FOLD_OK);
                        CHECK_BITS(&out[REFS / 2 - 1 + time % 2 * REFS / 2], fold_value(f[i], kept), 1);
                    }
                    if (!i && time) want[time - 1] = fold_scalar(f[i], loss);
                    if (i && time) CHECK_BITS(&want[time - 1], fold_value(f[i], loss), 1);
                }
                fold_ctx_free(f[i]);
            }
            fold_model_free(n.m);
            free(d.memory.block);
        }
}

/* An allocator that never takes anything back. */
typedef struct bump {
    unsigned char *bytes;
    size_t at, size;
} bump;
static void *bump_alloc(size_t size, size_t align, void *user)
{
    bump *b = (bump *)user;
    const size_t at = (b->at + align - 1) / align * align;
    if (at + size > b->size) return NULL;
    b->at = at + size;
    return b->bytes + at;
}
static void bump_free(void *memory, size_t size, void *user) { (void)memory, (void)size, (void)user; }

/* A model that reserves what another one holds asks for each array once. */
static void model_reserved(void)
{
    fold_model_size size;
    size_t used[3];
    bump b = { NULL, 0, 1 << 22 };
    b.bytes = (unsigned char *)malloc(b.size);
    memset(&size, 0, sizeof size);
    for (int round = 0; round < 3; round++) { /* without, with, and with one byte too little */
        fold_model_desc d = fold_model_desc_default();
        const fold_sgd sgd = { 0.1f, 0.9f, 0 };
        d.memory.alloc = bump_alloc;
        d.memory.free = bump_free;
        d.memory.user = &b;
        b.at = 0;
        b.size = round < 2 ? 1 << 22 : size.values;
        fold_model *m = fold_model_new(&d);
        CHECK_INT(fold_model_reserve(m, round ? &size : NULL), round < 2 ? FOLD_OK : FOLD_NO_MEMORY);
        if (round == 2) CHECK_TEXT(fold_model_message(m), "reserve: out of memory for ");
        if (round == 2) break;
        for (int i = 0; i < 8; i++) {
            char name[16];
            snprintf(name, sizeof name, "W%d", i);
            fold_weight_new(m, name, 64, 64);
        }
        fold_table_new(m, "words", WORDS, H);
        fold_sgd_step(m, &sgd);
        CHECK_INT(fold_model_status(m), FOLD_OK);
        const fold_model_size now = fold_model_measure(m);
        CHECK(!round || !memcmp(&now, &size, sizeof size));
        size = now;
        used[round] = b.at;
        CHECK_INT(size.values, size.grads);
        CHECK_INT(size.values, size.state);
    }
    const size_t arrays = size.values + size.grads + size.packs + size.state;
    CHECK_SAYS(used[1] < arrays + arrays / 4, "%d bytes for arrays of %d", (int)used[1], (int)arrays);
    CHECK_SAYS(2 * used[1] < used[0], "%d bytes reserved, %d without", (int)used[1], (int)used[0]);
    CHECK_INT(fold_model_reserve(NULL, &size), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_model_measure(NULL).values, 0);
    const fold_memory none = fold_model_memory(NULL);
    CHECK(!none.alloc && !none.free && !none.user && !none.block && !none.block_size);
    free(b.bytes);
}

/* A model in a block: made of what it is made of, and trained for a step, of which each call may fail. */
static fold_status build(fold_model *m, const fold_model_size *size, float *values)
{
    const fold_adam adam = { 0.1f, 0, 0, 0, 0, 0 };
    slow_net n;
    memset(&n, 0, sizeof n);
    n.m = m;
    fold_model_reserve(m, size);
    const fold_recurrent cell = fold_gru_new(m, "cell", H, H);
    const fold_param words = fold_table_new(m, "words", WORDS, H);
    const fold_op slow = slow_op(&n, 0);
    fold_ctx_desc d = fold_ctx_desc_default();
    static char memory[1 << 20];
    d.training = 1;
    d.memory.block = memory;
    d.memory.block_size = sizeof memory;
    fold_ctx *f = fold_ctx_new(m, &d);
    fold_state state = fold_recurrent_zeros(f, &cell);
    for (int i = 0; i < 3; i++) state = fold_recurrent_apply(f, &cell, fold_lookup(f, words, i), state);
    const fold_node y = fold_op_apply(f, slow, &state.h, 1, NULL, 0);
    fold_backward(f, fold_sum(f, y, FOLD_ALL));
    fold_adam_step(m, &adam);
    int count;
    const float *made = fold_model_values(m, &count);
    if (values && !fold_model_status(m)) memcpy(values, made, (size_t)count * sizeof *made);
    const fold_status status = fold_model_status(m);
    fold_ctx_free(f);
    return status;
}

/* To load a file, a block of the model's size is too small, and the message says how large it must be. */
typedef struct file_bytes {
    char bytes[1 << 16];
    size_t size, at;
} file_bytes;
static int keep_bytes(const void *bytes, size_t size, void *user)
{
    file_bytes *file = (file_bytes *)user;
    if (size > sizeof file->bytes - file->size) return 1;
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
    return 0;
}
static size_t next_bytes(void *bytes, size_t size, void *user)
{
    file_bytes *file = (file_bytes *)user;
    const size_t left = file->size - file->at, n = size < left ? size : left;
    memcpy(bytes, file->bytes + file->at, n);
    file->at += n;
    return n;
}
static void load_in_a_block(const fold_model_size *size, char *block, size_t block_size, size_t needed)
{
    static file_bytes file;
    fold_model_desc d = fold_model_desc_default();
    d.memory.block = block;
    d.memory.block_size = block_size;
    file.size = 0;
    fold_model *m = fold_model_new(&d);
    CHECK_INT(build(m, size, NULL), FOLD_OK);
    CHECK_INT(fold_model_save_to(m, keep_bytes, &file, NULL), FOLD_OK);
    fold_model_free(m);
    size_t room = needed;
    int turns = 0;
    for (fold_status status = FOLD_NO_MEMORY; status && turns < 20; turns++) {
        d.memory.block_size = room;
        m = fold_model_new(&d);
        CHECK_INT(build(m, size, NULL), FOLD_OK);
        file.at = 0;
        status = fold_model_load_from(m, next_bytes, &file, NULL);
        const char *number = strstr(fold_model_message(m), "bytes, needs ");
        if (status && CHECK_SAYS(number != NULL, "\"%s\" tells no bytes", fold_model_message(m))) {
            CHECK_TEXT(fold_model_message(m), "load: out of memory; the model's block has ");
            CHECK((size_t)strtoul(number + 13, NULL, 10) > room);
            room = (size_t)strtoul(number + 13, NULL, 10);
        }
        fold_model_free(m);
    }
    CHECK_SAYS(turns > 1 && turns < 20, "%d turns", turns);
}

/* A block of the size that is told holds a model, wherever it begins, and one byte less does not. */
static char said_of_block[300];
static void note_error(const char *message, void *user)
{
    (void)user;
    snprintf(said_of_block, sizeof said_of_block, "%s", message);
}

static void model_in_a_block(void)
{
    enum { LARGE = 1 << 18, FLOATS_OF_IT = 4096 };
    static float want[FLOATS_OF_IT], got[FLOATS_OF_IT];
    char *large = (char *)malloc(LARGE);
    fold_model_desc d = fold_model_desc_default();
    fold_model *m = fold_model_new(&d);
    CHECK_INT(build(m, NULL, want), FOLD_OK);
    const fold_model_size size = fold_model_measure(m);
    CHECK_INT(size.block_bytes, 0);
    fold_model_free(m);
    d.memory.block = large;
    d.memory.block_size = LARGE;
    size_t bytes[2];
    for (int reserved = 0; reserved < 2; reserved++) {
        memset(large, '?', LARGE);
        m = fold_model_new(&d);
        CHECK((char *)m >= large && (char *)m < large + LARGE);
        CHECK_INT(build(m, reserved ? &size : NULL, got), FOLD_OK);
        CHECK_BITS(got, want, FLOATS_OF_IT);
        fold_model_size now = fold_model_measure(m);
        bytes[reserved] = now.block_bytes;
        now.block_bytes = 0;
        CHECK(!memcmp(&now, &size, sizeof size));
        fold_model_free(m);
    }
    const size_t arrays = size.values + size.grads + size.packs + size.state + size.state2 + size.params + size.cells;
    CHECK_SAYS(bytes[1] < bytes[0] && bytes[1] > arrays, "%d bytes reserved, %d without, arrays of %d", (int)bytes[1],
               (int)bytes[0], (int)arrays);
    for (int less = 0; less < 3; less++) { /* at the worst place: 63 bytes lie before it */
        char *block = (char *)malloc(bytes[1] + 64);
        d.memory.block = block + (65 - (uintptr_t)block % 64) % 64;
        d.memory.block_size = bytes[1] - (size_t)less;
        m = fold_model_new(&d);
        memset(got, 0, sizeof got);
        CHECK_INT(build(m, &size, got), less ? FOLD_NO_MEMORY : FOLD_OK);
        if (less) CHECK_TEXT(fold_model_message(m), " or more: see fold_model_measure");
        else CHECK_BITS(got, want, FLOATS_OF_IT);
        fold_model_free(m);
        free(block);
    }
    size_t told = 100; /* a block of as many bytes as the message says comes further, until it is large enough */
    int turns = 0;
    for (fold_status status = FOLD_NO_MEMORY; status && turns < 100; turns++) {
        const size_t room = told;
        char *block = (char *)malloc(room + 64), *text = said_of_block;
        d.memory.block = block + (65 - (uintptr_t)block % 64) % 64;
        d.memory.block_size = room;
        d.error = note_error;
        text[0] = 0;
        m = fold_model_new(&d);
        status = m ? build(m, &size, got) : FOLD_NO_MEMORY;
        if (status) {
            const char *number = strstr(text, m ? "bytes, needs " : "alone needs ");
            CHECK_INT(status, FOLD_NO_MEMORY);
            if (!CHECK_SAYS(number != NULL, "\"%s\" tells no bytes", text)) turns = 100;
            else told = (size_t)strtoul(number + (m ? 13 : 12), NULL, 10);
            CHECK_SAYS(told > room && told <= bytes[1], "%lu bytes after %lu, of %lu: %s", (unsigned long)told, (unsigned long)room,
                       (unsigned long)bytes[1], text);
        }
        fold_model_free(m);
        free(block);
    }
    CHECK_SAYS(turns > 2 && turns < 100, "%d turns", turns);
    d.error = NULL;
    int none = 0, full = 0;
    for (size_t room = 0; room < bytes[1]; room += 500) { /* whatever fails, nothing else does */
        char *block = (char *)malloc(room ? room : 1);
        d.memory.block = block;
        d.memory.block_size = room;
        m = fold_model_new(&d);
        none += !m;
        if (m) full += build(m, room % 1000 ? &size : NULL, NULL) == FOLD_NO_MEMORY;
        if (m) CHECK_INT(fold_model_status(m), FOLD_NO_MEMORY);
        fold_model_free(m);
        free(block);
    }
    CHECK(none > 0 && full > 10);
    load_in_a_block(&size, large, LARGE, bytes[1]);
    free(large);
}

/* What contexts give back to a model's block is used again, in pieces and as a whole. */
static void block_used_again(void)
{
    enum { BYTES = 1 << 20, LARGE = 1 << 18, TIMES = 24 };
    char *block = (char *)malloc(BYTES);
    size_t bytes = BYTES;
    fold_ctx_desc large = fold_ctx_desc_default();
    large.plan_cache_bytes = LARGE;
    for (int exactly = 0; exactly < 2; exactly++) {
        fold_model_desc d = fold_model_desc_default();
        d.memory.block = block;
        d.memory.block_size = bytes;
        fold_model *m = fold_model_new(&d);
        const fold_param W = fold_weight_new(m, "W", H, H);
        fold_ctx *f[3] = { fold_ctx_new(m, &large), NULL, NULL };
        CHECK_INT(fold_ctx_status(f[0]), FOLD_OK);
        fold_ctx_free(f[0]);
        bytes = fold_model_measure(m).block_bytes; /* with nothing beside it; in the end all is free again */
        for (int time = 0; time < TIMES && exactly; time++) {
            const int order[3] = { time % 3, (time + 1 + time / 3 % 2) % 3, (time + 2 - time / 3 % 2) % 3 };
            float x[H] = { 1, 2 };
            fold_node y[3];
            for (int i = 0; i < 3; i++) {
                f[i] = fold_ctx_new(m, NULL);
                y[i] = fold_linear(f[i], fold_input(f[i], x, H), W, FOLD_NULL_PARAM);
                CHECK_INT(fold_run(f[i], &y[i], 1), FOLD_OK);
            }
            CHECK_BITS(fold_value(f[0], y[0]), fold_value(f[2], y[2]), H);
            for (int i = 0; i < 3; i++) fold_ctx_free(f[order[i]]);
            f[0] = fold_ctx_new(m, &large);
            CHECK(f[0] && !fold_ctx_status(f[0]));
            fold_ctx_free(f[0]);
            CHECK_INT(fold_model_measure(m).block_bytes, bytes);
        }
        fold_model_free(m);
    }
    free(block);
}

/* -- watching -------------------------------------------------------------------------------- */

typedef struct zones {
    int depth, deepest, begun, plans, slow_calls;
} zones;
static void note_zone(int begin, const char *name, int calls, void *user)
{
    zones *z = (zones *)user;
    z->depth += begin ? 1 : -1;
    if (z->depth > z->deepest) z->deepest = z->depth;
    if (!begin) return;
    z->begun++;
    z->plans += !strcmp(name, "plan");
    if (!strcmp(name, "slow")) z->slow_calls += calls;
}
static int to_text(const void *bytes, size_t count, void *user)
{
    char *text = (char *)user;
    memcpy(text + strlen(text), bytes, count);
    return 0;
}
static int occurrences(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

/* Zones begin and end around planning and every batch; the trace is that of the slow run. */
static void watched(void)
{
    static char text[1 << 16];
    slow_net n;
    slow_new(&n);
    zones z = { 0, 0, 0, 0, 0 };
    fold_ctx_desc d = fold_ctx_desc_default();
    d.clock = clock_of_work;
    d.trace_bytes = 1 << 16;
    d.trace_over_ns = 5000;
    d.zone = note_zone;
    d.zone_user = &z;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    for (int run = 0; run < 3; run++) {
        fold_node ends[CHAINS];
        fold_ctx_reset(f);
        const fold_node loss = chains(f, &n, ends), *root = run == 1 ? &loss : &ends[0]; /* the second is slow */
        if (run != 1) {
            fold_ctx_reset(f);
            ends[0] = fold_lookup(f, n.words, 1);
            ends[0] = fold_op_apply(f, n.slow, ends, 1, NULL, 0);
        }
        z.begun = z.plans = z.slow_calls = 0;
        CHECK_INT(fold_run(f, root, 1), FOLD_OK);
        const fold_stats stats = fold_ctx_stats(f);
        CHECK_INT(z.depth, 0);
        CHECK_INT(z.deepest, 1);
        CHECK_INT(z.plans, 1);
        CHECK_INT(z.begun, 1 + stats.batches + stats.prologues);
        CHECK_INT(z.slow_calls, run == 1 ? CHAINS * 3 : 1);
        memset(text, 0, sizeof text);
        CHECK_INT(fold_draw_trace(f, to_text, text), FOLD_OK);
        CHECK(run ? occurrences(text, "\"name\":\"slow\"") == 5 : !strstr(text, "slow"));
        CHECK_TEXT(text, "\"dropped\":0}");
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Where nothing is timed nothing is estimated: without a clock, and in eager contexts. */
static void nothing_estimated(void)
{
    for (int way = 0; way < 4; way++) {
        const int eager = way & 1, timed = way >> 1;
        slow_net n;
        slow_new(&n);
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node ends[CHAINS];
        int more = 1;
        d.eager = eager;
        d.clock = timed ? clock_of_work : NULL;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        CHECK_INT(fold_estimate_ns(f), 0); /* nor where nothing was run */
        chains(f, &n, ends);
        CHECK_INT(fold_run(f, ends, CHAINS), FOLD_OK);
        CHECK((fold_estimate_ns(f) > 0) == (timed && !eager));
        CHECK_INT(fold_replay_begin(f), FOLD_OK);
        CHECK((fold_estimate_ns(f) > 0) == (timed && !eager));
        CHECK_INT(fold_run_more(f, 0, &more), FOLD_OK);
        CHECK((fold_estimate_ns(f) > 0) == (timed && !eager));
        fold_ctx_reset(f);
        CHECK_INT(fold_estimate_ns(f), 0);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
    CHECK_INT(fold_estimate_ns(NULL), 0);
}

/* What sums of gradients take is learned as what batches take: here each step takes one tick of the clock. */
static uint64_t clock_of_calls(void *user)
{
    (void)user;
    return work_clock += 1000;
}
static void sums_are_estimated(void)
{
    slow_net n;
    fold_ctx_desc d = fold_ctx_desc_default();
    double estimate = 0;
    slow_new(&n);
    d.training = 1;
    d.clock = clock_of_calls;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    fold_node x = fold_lookup(f, n.words, 1);
    for (int link = 0; link < 3; link++) x = fold_tanh(f, fold_linear(f, x, n.W, n.b));
    CHECK_INT(fold_backward(f, fold_sum(f, x, FOLD_ALL)), FOLD_OK);
    int steps = 0;
    for (int again = 0; again < 100; again++) {
        CHECK_INT(fold_replay_begin(f), FOLD_OK);
        estimate = (double)fold_estimate_ns(f);
        steps = 0;
        for (int more = 1; more; steps++) CHECK_INT(fold_run_more(f, 1, &more), FOLD_OK);
    }
    CHECK_INT(steps, 15); /* three links of two ops and the sum, forward and backward, and the sums of gradients */
    CHECK_SAYS(estimate > 1000 * steps - 10 && estimate < 1000 * steps + 10, "%d steps: %g", steps, estimate);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Batches whose times are linear in their rows are known exactly, large ones and small: what is left is told between slices. */
static void what_is_left(void)
{
    slow_net n;
    fold_node ends[CHAINS];
    slow_new(&n);
    fold_ctx *f = slow_context(&n, 1, SLICED);
    CHECK_INT(fold_backward(f, chains(f, &n, ends)), FOLD_OK);
    for (int time = 0; time < 20; time++) {
        double left[64];
        int slice_count = 0;
        CHECK_INT(fold_replay_begin(f), FOLD_OK);
        const uint64_t start = work_clock;
        uint64_t at[64];
        for (int more = 1; more && slice_count < 64; slice_count++) {
            left[slice_count] = (double)fold_estimate_ns(f);
            at[slice_count] = work_clock - start;
            CHECK_INT(fold_run_more(f, 14000, &more), FOLD_OK); /* longer than any batch: none is cut */
        }
        CHECK(slice_count > 4 && slice_count < 64);
        for (int slice = 0; slice < slice_count && time > 10; slice++) {
            const double want = (double)(work_clock - start - at[slice]);
            CHECK_SAYS(left[slice] > want - 100 && left[slice] < want + 100, "slice %d: %g left, %g estimated", slice, want, left[slice]);
        }
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A backward looks at all nodes, and so does a run after a change of parameters; a run that goes on at those
   that are new, and keeps no plan. */
static void seen_and_kept(void)
{
    enum { STEPS = 5 };
    slow_net n;
    slow_new(&n);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.plan_cache_bytes = 1 << 16;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    for (int again = 0; again < 4; again++) { /* the same structure: its first run is kept, and then replayed */
        fold_ctx_reset(f);
        fold_node x = fold_lookup(f, n.words, again);
        for (int step = 0; step < STEPS; step++) {
            const fold_stats before = fold_ctx_stats(f);
            const int nodes = before.nodes;
            x = fold_tanh(f, fold_linear(f, x, n.W, n.b));
            CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
            const fold_stats stats = fold_ctx_stats(f);
            CHECK_INT(stats.visited_nodes, step ? stats.nodes - nodes : stats.nodes);
            CHECK_INT(stats.plan_hits - before.plan_hits, again >= 2 && !step);
            if (step) CHECK_INT(stats.cached_bytes, before.cached_bytes);
            if (!step) CHECK((stats.cached_bytes > before.cached_bytes) == (again == 1));
        }
    }
    const size_t kept = fold_ctx_stats(f).cached_bytes;
    CHECK(kept > 0);
    const fold_node y = fold_tanh(f, fold_lookup(f, n.words, 7)), loss = fold_sum(f, y, FOLD_ALL);
    CHECK_INT(fold_backward(f, loss), FOLD_OK); /* which needs none of the nodes before */
    CHECK_INT(fold_ctx_stats(f).visited_nodes, fold_ctx_stats(f).nodes);
    CHECK(fold_ctx_stats(f).run_nodes <= 2);
    CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
    CHECK_INT(fold_ctx_stats(f).visited_nodes, 2); /* from y on, which was computed, but not kept */
    CHECK_INT(fold_ctx_stats(f).recomputed_nodes, 1);
    fold_values_write_begin(n.m, n.b);
    fold_values_write_end(n.m, n.b);
    CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
    CHECK_INT(fold_ctx_stats(f).visited_nodes, fold_ctx_stats(f).nodes);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A slow run is kept beside the last one, in half of the room that both have. */
static void half_the_room(void)
{
    enum { EVENTS = 12, BYTES = 32 * EVENTS };
    static char text[1 << 16];
    slow_net n;
    slow_new(&n);
    for (uint64_t over = 0; over < 2; over++)
        for (int batches = EVENTS / 2; batches <= EVENTS + 1; batches++) {
            fold_ctx_desc d = fold_ctx_desc_default();
            char dropped[40];
            d.clock = clock_of_work;
            d.trace_bytes = BYTES;
            d.trace_over_ns = over;
            fold_ctx *f = fold_ctx_new(n.m, &d);
            fold_node x = fold_lookup(f, n.words, 1);
            for (int batch = 0; batch < batches; batch++) x = fold_op_apply(f, n.slow, &x, 1, NULL, 0);
            CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
            CHECK_INT(fold_ctx_stats(f).batches, batches);
            memset(text, 0, sizeof text);
            CHECK_INT(fold_draw_trace(f, to_text, text), FOLD_OK);
            const int room = over ? EVENTS / 2 : EVENTS;
            CHECK_INT(occurrences(text, "\"name\":\"slow\""), batches < room ? batches : room);
            snprintf(dropped, sizeof dropped, "\"dropped\":%d}", batches < room ? 0 : batches - room);
            CHECK_TEXT(text, dropped);
            fold_ctx_free(f);
        }
    fold_model_free(n.m);
}

/* Memory that runs out after so many allocations. */
static void *counted_alloc(size_t size, size_t align, void *user)
{
    int *left = (int *)user;
    if (!*left) return NULL;
    *left -= *left > 0;
    return aligned_block(size, align);
}
static void counted_free(void *block, size_t size, void *user)
{
    (void)size, (void)user;
    if (block) free_block(block);
}

/* -- what is kept, when a replay or a run in slices leaves it out -------------------------------- */

typedef struct pair {
    fold_model *m;
    fold_param W, U;
    fold_ctx *f;
    float x, metric;
    fold_node in, loss, kept;
} pair;

/* The loss reads W; what is kept, and copied to `metric`, reads U alone. */
static void pair_new(pair *p, int copies)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.clock = clock_of_work;
    p->m = fold_model_new(NULL);
    p->W = fold_weight_new(p->m, "W", 1, 1);
    p->U = fold_weight_new(p->m, "U", 1, 1);
    p->f = fold_ctx_new(p->m, &d);
    p->x = 1, p->metric = -7;
    p->in = fold_input_ref(p->f, &p->x, fold_shape1(1));
    p->loss = fold_linear(p->f, p->in, p->W, FOLD_NULL_PARAM);
    p->kept = fold_linear(p->f, p->in, p->U, FOLD_NULL_PARAM);
    if (copies) fold_output_ref(p->f, p->kept, &p->metric);
    else fold_keep(p->f, p->kept);
}

static void pair_free(pair *p)
{
    fold_ctx_free(p->f);
    fold_model_free(p->m);
}

static void write_value(fold_model *m, fold_param p, float value)
{
    fold_values_write_begin(m, p)[0] = value;
    fold_values_write_end(m, p);
}

/* A replay of a backward leaves out what the loss does not need, and parameters have changed since that ran. */
static void left_out_by_a_replay(void)
{
    for (int copies = 0; copies < 2; copies++) {
        pair p;
        pair_new(&p, copies);
        CHECK_INT(fold_run(p.f, &p.loss, 1), FOLD_OK);
        CHECK_INT(fold_backward(p.f, p.loss), FOLD_OK);
        write_value(p.m, p.U, 42);
        CHECK_INT(fold_replay(p.f), FOLD_OK);
        CHECK(fold_value(p.f, p.kept) == NULL);
        CHECK_TEXT(fold_ctx_message(p.f), "value: node 3 (linear) is kept, but the last run or replay did not compute it");
        CHECK_INT(fold_run(p.f, &p.loss, 1), FOLD_OK);
        CHECK_NEAR(fold_scalar(p.f, p.kept), 42, 0);
        if (copies) CHECK_NEAR(p.metric, 42, 0);
        CHECK_INT(fold_run(p.f, &p.loss, 1), FOLD_OK); /* now there is nothing to do */
        CHECK_INT(fold_ctx_stats(p.f).run_nodes, 0);
        pair_free(&p);
    }
}

/* A value that is there gets an output of its own, and a replay after a change of parameters leaves it out. */
static void output_of_a_value_left_out(void)
{
    pair p;
    pair_new(&p, 0);
    write_value(p.m, p.U, 2);
    CHECK_INT(fold_run(p.f, &p.loss, 1), FOLD_OK);
    CHECK_INT(fold_backward(p.f, p.loss), FOLD_OK);
    write_value(p.m, p.U, 42);
    fold_output_ref(p.f, p.kept, &p.metric);
    CHECK_INT(fold_replay(p.f), FOLD_OK);
    CHECK_NEAR(p.metric, -7, 0); /* not the value of the old parameter */
    CHECK_INT(fold_run(p.f, &p.loss, 1), FOLD_OK);
    CHECK_NEAR(p.metric, 42, 0);
    pair_free(&p);
}

static void doubles(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_scale(f, in[0], 2);
    out[1] = fold_scale(f, in[0], 3);
}

/* A call runs once more for an output that was not kept, and its other output is computed, too. */
static void outputs_of_a_call(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_cell_desc d = fold_cell_desc_default();
    d.name = "doubles", d.body = doubles, d.n_in = 1, d.in[0] = fold_shape1(1), d.n_out = 2;
    const fold_cell cell = fold_cell_new(m, &d);
    fold_ctx *f = fold_ctx_new(m, NULL);
    float x = 1, copied = 0;
    const fold_node in = fold_input_ref(f, &x, fold_shape1(1)), call = fold_call(f, cell, &in, 1), other = fold_neg(f, in);
    fold_output_ref(f, fold_out(f, call, 1), &copied);
    CHECK_INT(fold_run(f, &other, 1), FOLD_OK);
    CHECK_NEAR(copied, 3, 0);
    x = 10;
    CHECK_INT(fold_run(f, &call, 1), FOLD_OK);
    CHECK_NEAR(fold_scalar(f, call), 20, 0);
    CHECK_NEAR(fold_scalar(f, fold_out(f, call, 1)), (double)copied, 0);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Kept gradients of a backward that was given up begin again from zero; before its first slice nothing is lost. */
static void kept_gradients_given_up(void)
{
    for (int replays = 0; replays < 2; replays++)
        for (int slices = 0, more = 1; more; slices++) {
            pair p;
            pair_new(&p, 0);
            const fold_node loss = fold_add(p.f, p.loss, fold_mul(p.f, p.loss, p.loss));
            write_value(p.m, p.W, 3);
            fold_keep_grad(p.f, p.loss);
            CHECK_INT(fold_backward(p.f, loss), FOLD_OK);
            CHECK_NEAR(fold_grad(p.f, p.loss)[0], 7, 0);
            CHECK_INT(replays ? fold_replay_begin(p.f) : fold_backward_begin(p.f, loss), FOLD_OK);
            for (int slice = 0; slice < slices && more; slice++) fold_run_more(p.f, 1, &more);
            CHECK(slices || fold_grad(p.f, p.loss));
            CHECK_INT(fold_run(p.f, &loss, 1), FOLD_OK);
            const float *grad = fold_grad(p.f, p.loss), left = grad ? *grad : 0;
            CHECK_NEAR(left, more && slices ? 0 : slices && !replays ? 14 : 7, 0);
            CHECK_INT(fold_backward(p.f, loss), FOLD_OK);
            CHECK_NEAR(fold_grad(p.f, p.loss)[0], left + 7, 0);
            CHECK(slices < 50);
            pair_free(&p);
        }
}

/* A backward whose root depends on nothing that has a gradient takes the memory of kept gradients before it writes. */
static void memory_before_writing(void)
{
    for (int room = 0; room < 200; room++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        int allocations = -1;
        d.memory.alloc = counted_alloc;
        d.memory.free = counted_free;
        d.memory.user = &allocations;
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, &d);
        float x = 1, copied = 0;
        static float wide[5000];
        const fold_node in = fold_input_ref(f, &x, fold_shape1(1)), root = fold_scale(f, in, 2);
        fold_output_ref(f, root, &copied);
        fold_keep_grad(f, fold_input(f, wide, 5000)); /* the root does not read it */
        allocations = room;
        const fold_status status = fold_backward(f, root);
        CHECK_INT(status, status ? FOLD_NO_MEMORY : FOLD_OK);
        CHECK_NEAR(copied, status ? 0 : 2, 0);
        if (!status) room = 200;
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*test)(void); } tests[] = {
        { "frame: inference replayed", inference },
        { "frame: training replayed", training },
        { "frame: training with dropout replayed", training_with_dropout },
        { "frame: small work stays", small_work_stays },
        { "frame: lists read whole replayed", lists_read_whole },
        { "frame: the last run replayed", the_last_run },
        { "frame: nothing to do", nothing_to_do },
        { "frame: refusals lose nothing", refusals_lose_nothing },
        { "frame: replays of merged calls", replays_of_merged_calls },
        { "frame: choices that are replayed", choices_again },
        { "frame: replays that are refused", refused },
        { "frame: edges that change", edges_again },
        { "frame: edges that change in a block", edges_in_a_block },
        { "frame: edges that are refused", edges_refused },
        { "frame: slices of inference", slices_of_inference },
        { "frame: slices of lists that read a part of a node", slices_of_parts },
        { "frame: slices of training", slices_of_training },
        { "frame: slices that cut lists", lists_cut },
        { "frame: slices that are refused", slices_refused },
        { "frame: kept between runs", kept_between },
        { "frame: ops added between runs", ops_between },
        { "frame: replayed often", replayed_often },
        { "frame: backward given up", given_up },
        { "frame: half done", half_done },
        { "frame: half done by inputs", half_done_by_inputs },
        { "frame: sums cut by slices", sums_cut },
        { "frame: slices of a measuring context", measured_in_slices },
        { "frame: a run that is given up is measured", measured_given_up },
        { "frame: nothing to do, after printing", nothing_to_do_after_printing },
        { "frame: parameters changed between runs", parameters_between },
        { "frame: draws between runs", draws_between },
        { "frame: kept gradients between runs", kept_grads_between },
        { "frame: memory measured", measured },
        { "frame: moved in a block", moved_in_a_block },
        { "frame: a model's memory reserved", model_reserved },
        { "frame: a model in a block", model_in_a_block },
        { "frame: a model's block used again", block_used_again },
        { "frame: watched", watched },
        { "frame: nothing estimated", nothing_estimated },
        { "frame: what sums take is learned", sums_are_estimated },
        { "frame: what is left is estimated", what_is_left },
        { "frame: seen and kept", seen_and_kept },
        { "frame: half the room", half_the_room },
        { "frame: left out by a replay", left_out_by_a_replay },
        { "frame: an output of a value left out", output_of_a_value_left_out },
        { "frame: outputs of a call", outputs_of_a_call },
        { "frame: kept gradients given up", kept_gradients_given_up },
        { "frame: memory before writing", memory_before_writing },
    };
    check_start(argc, argv);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) check_run(tests[i].name, tests[i].test);
    return check_finish();
}
