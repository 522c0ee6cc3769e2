/* cc -O2 -o test_files tests/test_files.c -lm

   Models in safetensors files, and fold_fit. Writes build/files_*.safetensors for tests/check_safetensors.py and reads those
   that it writes, build/python_*.safetensors, when they are there. */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include <stdlib.h>

enum { BYTES = 1 << 16, WORDS = 20, H = 5 };

/* -- files in memory -------------------------------------------------------------------------- */

/* limit: writing stops there. piece: reading hands out as much at most, and ends early when it is 1 short of what was asked. */
typedef struct block { size_t n, at, limit; unsigned char bytes[BYTES]; } block;
static int to_block(void *user, const void *bytes, size_t n)
{
    block *b = (block *)user;
    if (b->n + n > b->limit) return 1;
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return 0;
}
static size_t from_block(void *user, void *bytes, size_t n)
{
    block *b = (block *)user;
    const size_t part = n < b->n - b->at ? n : b->n - b->at;
    memcpy(bytes, b->bytes + b->at, part);
    b->at += part;
    return part;
}
static block *empty_block(block *b)
{
    b->n = b->at = 0;
    b->limit = BYTES;
    return b;
}
/* A file of a header and so many bytes of data, which count up from 0. */
static block *file_of(block *b, const char *header, size_t data)
{
    const size_t length = strlen(header);
    empty_block(b);
    for (int k = 0; k < 8; k++) b->bytes[b->n++] = (unsigned char)((uint64_t)length >> 8 * k);
    memcpy(b->bytes + b->n, header, length);
    b->n += length;
    for (size_t i = 0; i < data; i++) b->bytes[b->n++] = (unsigned char)i;
    return b;
}

/* -- a model with every kind of parameter ----------------------------------------------------- */

typedef struct net { fold_model *m; fold_param words, frozen, W, b, tied, V; } net;

static net make_net(uint64_t seed)
{
    net n;
    fold_model_desc d = fold_model_desc_default();
    fold_param_desc p = fold_param_desc_default();
    d.seed = seed;
    n.m = fold_model_new(&d);
    n.words = fold_table(n.m, "words \"quoted\" \\ \xc3\xbc\xe2\x82\xac\xf0\x9f\x8c\xb3", WORDS, H);
    n.frozen = fold_table(n.m, "frozen", WORDS, H);
    n.W = fold_weight(n.m, "layer.W", 2 * H, 3 * H);
    n.b = fold_bias(n.m, "layer.b", 3 * H);
    p.name = "tied";
    p.shape = fold_shape2(H, 3 * H);
    p.uses = FOLD_FOR_LINEAR_T | FOLD_FOR_LOOKUP;
    p.init = FOLD_INIT_NORMAL;
    p.init_scale = 0.3f;
    n.tied = fold_param_new(n.m, &p);
    p.name = "V";
    p.shape = fold_shape3(2, H, 1);
    p.uses = 0;
    p.group = 3;
    n.V = fold_param_new(n.m, &p);
    fold_param_freeze(n.m, n.frozen, 1);
    fold_group_rates(n.m, 3, 0.5f, 2);
    return n;
}

static fold_node loss_of(fold_ctx *f, const net *n, uint64_t sample)
{
    check_random r = { sample * 77 };
    const fold_node x[2] = { fold_lookup(f, n->words, random_below(&r, WORDS)), fold_lookup(f, n->frozen, random_below(&r, WORDS)) };
    const fold_node h = fold_tanh(f, fold_add(f, fold_linear_n(f, x, 2, n->W, n->b), fold_lookup(f, n->tied, random_below(&r, H))));
    const fold_node y = fold_add(f, fold_linear_t(f, h, n->tied, fold_param_at(n->m, -1)), fold_sum(f, fold_use(f, n->V), FOLD_ALL));
    return fold_softmax_xent(f, y, random_below(&r, H));
}

typedef fold_status stepper(fold_model *m);
static fold_status step_sgd(fold_model *m) { const fold_sgd o = { 0.1f, 0, 0.001f }; return fold_sgd_step(m, &o); }
static fold_status step_momentum(fold_model *m) { const fold_sgd o = { 0.1f, 0.9f, 0.001f }; return fold_sgd_step(m, &o); }
static fold_status step_adagrad(fold_model *m) { const fold_adagrad o = fold_adagrad_default(); return fold_adagrad_step(m, &o); }
static fold_status step_rmsprop(fold_model *m) { const fold_rmsprop o = fold_rmsprop_default(); return fold_rmsprop_step(m, &o); }
static fold_status step_adam(fold_model *m)
{
    fold_adam o = fold_adam_default();
    o.decay = 0.01f;
    o.decoupled = 1;
    return fold_adam_step(m, &o);
}
static const struct { const char *name; stepper *step; int parts; } optimisers[] = {
    { "none", step_sgd, 1 }, { "momentum", step_momentum, 2 }, { "squares", step_adagrad, 2 }, { "squares", step_rmsprop, 2 }, { "adam", step_adam, 3 }
};
enum { OPTIMISERS = sizeof optimisers / sizeof *optimisers };

/* Steps first..first+count of a training. */
static void train(fold_ctx *f, const net *n, stepper *step, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        fold_node loss[4];
        fold_reset(f);
        for (int k = 0; k < 4; k++) loss[k] = loss_of(f, n, (uint64_t)(4 * i + k));
        CHECK_INT(fold_backward(f, fold_mean_n(f, loss, 4)), FOLD_OK);
        CHECK_INT(step(n->m), FOLD_OK);
    }
}
static fold_ctx *training_ctx(fold_model *m, int plans)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.plan_bytes = plans ? 1 << 16 : 0;
    return fold_ctx_new(m, &d);
}
static void check_same_model(fold_model *a, fold_model *b)
{
    size_t n, k;
    const float *x = fold_model_values(a, &n), *y = fold_model_values(b, &k);
    CHECK_INT(n, k);
    CHECK_BITS(x, y, n);
    CHECK_INT(fold_model_steps(a), fold_model_steps(b));
}
static block *saved(block *b, fold_model *m, int state)
{
    fold_save_desc d = fold_save_desc_default();
    d.state = state;
    CHECK_INT(fold_save_to(m, to_block, empty_block(b), &d), FOLD_OK);
    CHECK_TEXT(fold_model_message(m), "");
    return b;
}

/* -- round trips ------------------------------------------------------------------------------ */

/* Training that goes on from a file is the training that was not interrupted, to the bit. */
static void continues(void)
{
    static block b;
    for (int k = 0; k < OPTIMISERS; k++)
        for (int way = 0; way < 3; way++) {
            net whole = make_net(1), other = make_net(2);
            fold_ctx *f = training_ctx(whole.m, 0), *g = training_ctx(other.m, 1);
            fold_load_desc d = fold_load_desc_default();
            fold_status status = FOLD_OK;
            d.state = 1;
            train(f, &whole, optimisers[k].step, 0, 6);
            if (way == 2) {
                fold_save_desc s = fold_save_desc_default();
                s.state = 1;
                CHECK_INT(fold_save(whole.m, "build/files_state.safetensors", &s), FOLD_OK);
            } else {
                saved(&b, whole.m, 1);
            }
            train(g, &other, step_adam, 50, 3); /* values, state and plans that the file must replace */
            if (way == 0) status = fold_load_memory(other.m, b.bytes, b.n, &d);
            if (way == 1) status = fold_load_from(other.m, from_block, &b, &d);
            if (way == 2) status = fold_load(other.m, "build/files_state.safetensors", &d);
            if (!CHECK_INT(status, FOLD_OK)) puts(fold_model_message(other.m));
            check_same_model(other.m, whole.m);
            train(f, &whole, optimisers[k].step, 6, 5);
            train(g, &other, optimisers[k].step, 6, 5);
            check_same_model(other.m, whole.m);
            fold_param_freeze(whole.m, whole.frozen, 0); /* its state, zero so far, counts from now on */
            fold_param_freeze(other.m, other.frozen, 0);
            train(f, &whole, optimisers[k].step, 11, 3);
            train(g, &other, optimisers[k].step, 11, 3);
            check_same_model(other.m, whole.m);
            fold_ctx_free(f);
            fold_ctx_free(g);
            fold_model_free(whole.m);
            fold_model_free(other.m);
        }
}

/* State of a parameter that was frozen later is not lost. */
static void frozen_later(void)
{
    static block b;
    net n = make_net(1), other = make_net(1);
    fold_ctx *f = training_ctx(n.m, 0), *g = training_ctx(other.m, 0);
    fold_load_desc d = fold_load_desc_default();
    d.state = 1;
    train(f, &n, step_adam, 0, 4);
    fold_param_freeze(n.m, n.W, 1);
    saved(&b, n.m, 1);
    CHECK_INT(fold_load_memory(other.m, b.bytes, b.n, &d), FOLD_OK);
    fold_param_freeze(n.m, n.W, 0);
    train(f, &n, step_adam, 4, 3);
    train(g, &other, step_adam, 4, 3);
    check_same_model(other.m, n.m);
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(n.m);
    fold_model_free(other.m);
}

/* What a context computes after a load is what a fresh one computes: packs, transposed packs, kept plans. */
static void contexts_follow(void)
{
    static block b;
    net n = make_net(1), other = make_net(2);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = eager;
        d.plan_bytes = eager ? 0 : 1 << 16;
        fold_ctx *f = fold_ctx_new(n.m, &d), *g = fold_ctx_new(other.m, &d);
        fold_ctx *training = training_ctx(n.m, 1);
        train(training, &n, step_momentum, 0, 2);
        for (int turn = 0; turn < 3; turn++) {
            fold_reset(f);
            fold_reset(g);
            const fold_node x = loss_of(f, &n, 3), y = loss_of(g, &other, 3);
            CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
            CHECK_INT(fold_run(g, &y, 1), FOLD_OK);
            CHECK((fold_scalar(f, x) == fold_scalar(g, y)) == (turn > 0));
            if (turn) continue;
            saved(&b, n.m, 0);
            CHECK_INT(fold_load_memory(other.m, b.bytes, b.n, NULL), FOLD_OK);
            if (eager) continue;
            CHECK_INT(fold_run(g, &y, 1), FOLD_OK); /* what is recorded already is computed anew */
            CHECK(fold_scalar(f, x) == fold_scalar(g, y));
        }
        fold_ctx_free(training);
        fold_ctx_free(f);
        fold_ctx_free(g);
    }
    fold_model_free(n.m);
    fold_model_free(other.m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("files: training continues", continues);
    check_run("files: frozen after some steps", frozen_later);
    check_run("files: contexts follow", contexts_follow);
    return check_finish();
}
