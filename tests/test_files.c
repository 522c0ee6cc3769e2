/* test_files.c - models in safetensors files. Writes build/files_*.safetensors for tests/check_safetensors.py and reads those
   that it writes, build/python_*.safetensors, when they are there.
       cc -O2 -o test_files tests/test_files.c -lm */

#if defined(__unix__) || defined(__APPLE__)
#define WATCHED_DISK 1 /* fold.h's calls that make a file last go through functions of this test */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static int watched_flock(int file, int how);
static size_t watched_fwrite(const void *bytes, size_t size, size_t count, FILE *file);
static int watched_fsync(int file);
static int watched_rename(const char *from, const char *to);
#define flock(file, how) watched_flock(file, how) /* not struct flock */
#define fwrite watched_fwrite
#define fsync watched_fsync
#define rename watched_rename
#endif
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#include "check.h"
#include "models.h"
#include <fenv.h>
#include <stdlib.h>
#ifdef WATCHED_DISK
#undef flock
#undef fwrite
#undef fsync
#undef rename
#endif

enum { BYTES = 1 << 16, WORDS = 20, H = 5 };

/* -- text from formats ------------------------------------------------------------------------- */

static int formatted(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = fold_format(text, size, format, args);
    va_end(args);
    return length;
}
static void format_same(const char *format, ...) CHECK_PRINTF(1, 2);
static void format_same(const char *format, ...)
{
    for (size_t size = 0; size < 40; size += 13) {
        char mine[40] = "..", libc[40] = "..";
        va_list args, again;
        va_start(args, format);
        va_copy(again, args);
        const int length = fold_format(mine, size, format, args);
        CHECK_SAYS(length == vsnprintf(libc, size, format, again) && !memcmp(mine, libc, sizeof mine), "%s: '%s' for '%s'", format, mine, libc);
        va_end(args);
        va_end(again);
    }
}
/* The header's own text from formats is libc's, whatever fits. */
static void formats(void)
{
    static const double number[] = { 0, 1, 0.1, -0.05, 1e-8, 0.001, 1e-5, 0.0001, 12345.6, 999999, 999999.6, 1e6, 123456789, 1e30,
                                     -2.5e-7, 1e300, 1e-300, 0x1p-1074, 0.5, 100, 0.00012345678 };
    char text[4] = "abc";
    CHECK_INT(formatted(NULL, 0, "%d", 123), 3);
    CHECK_INT(formatted(NULL, sizeof text, "%d", 123), 3);
    CHECK_INT(formatted(text, sizeof text, NULL), 0);
    CHECK_INT(text[0], 0);
    format_same("%d %d %d%%", INT_MIN, 0, INT_MAX);
    format_same("%u %x %lu %llu", 4000000000u, 0xfeu, 123456789ul, 18446744073709551615ull);
    format_same("'%s' '%.3s' '%-6s' '%.60s' %c", "text", "text", "text", "", 'x');
    format_same("%03d|%11lu|%04x|%-8s|%-18s|", 7, 123ul, 0xau, "F32", "a name");
    format_same("%05d|%02d|%012g|%6d|%-6d|", -42, -7, -0.25, -42, -42);
    char cut[8] = "ab%6\0cd"; /* where a field ends too early, so does the text */
    CHECK_INT(formatted(text, sizeof text, cut), 2);
    CHECK_TEXT(text, "ab");
    static const double whole[] = { 4294967296.0, 0, -0.0, 0.5, 0.6, 1.5, 2.5, -0.5, -0.7, -1.5, 3.7, 99999.95, 0.49999999999999994,
                                    123456789.75, 4503599627370497.5, 1e15 + 0.5, 1e19 };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) format_same("%.0f bytes, %g", whole[i], whole[i]);
    static const double large[] = { 0x1p64, -0x1p64, 1e300, HUGE_VAL };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        char as_whole[40], as_number[40];
        formatted(as_whole, sizeof as_whole, "%.0f", large[i]);
        formatted(as_number, sizeof as_number, "%g", large[i]);
        CHECK_SAYS(!strcmp(as_whole, as_number), "'%s' and '%s'", as_whole, as_number);
    }
    format_same("%g %g %g", fabs((double)NAN), HUGE_VAL, -HUGE_VAL); /* no constants to tcc, whose NaN has a sign */
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) format_same("%g", number[i]);
    static const double between[] = { 100000.5, 100001.5, 999999.5, -999998.5, 1234565, 1234575, 12345650, 7.1543749999999999, 2.495515e-5, 0.5000005,
                                      0x1.fffffffffffffp1023, 0x1p-1022, 1e22, 1e23, 5e-324 };
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) format_same("%g", between[i]); /* two of six digits, of equals the even */
    check_random r = { 1 };
    for (int i = 0; i < 2000; i++) format_same("%g", (random_unit(&r) - 0.5) * pow(10, 80 * random_unit(&r) - 40));
    for (int i = 0; i < 2000; i++) format_same("%g", (double)(float)(random_below(&r, 1000000) * 1e-5));
    for (int i = 0; i < 2000; i++) format_same("%g", (100000 + (double)random_below(&r, 900000) + 0.5) * (double)(1 << random_below(&r, 20)));
    for (int i = 0; i < 2000; i++) format_same("%.0f", (random_unit(&r) - 0.5) * pow(10, 19 * random_unit(&r)));
}

/* -- files in memory -------------------------------------------------------------------------- */

/* limit: writing stops there. piece: reading hands out as much at most, and ends early when it is 1 short of what was asked. */
typedef struct block { size_t n, at, limit; unsigned char bytes[BYTES]; } block;
static int to_block(const void *bytes, size_t n, void *user)
{
    block *b = (block *)user;
    if (b->n + n > b->limit) return 1;
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return 0;
}
static size_t from_block(void *bytes, size_t n, void *user)
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
/* A file of a header and so many bytes of data, other ones each time. */
static block *file_of(block *b, const char *header, size_t data)
{
    static unsigned start;
    const size_t length = strlen(header);
    start++;
    empty_block(b);
    for (int k = 0; k < 8; k++) b->bytes[b->n++] = (unsigned char)((uint64_t)length >> 8 * k);
    memcpy(b->bytes + b->n, header, length);
    b->n += length;
    for (size_t i = 0; i < data; i++) b->bytes[b->n++] = (unsigned char)(i + start);
    return b;
}
/* The float at a place of a file: files are little-endian on every machine. */
static float number_at(const block *b, size_t at)
{
    uint32_t bits = 0;
    float number;
    for (int k = 0; k < 4; k++) bits |= (uint32_t)b->bytes[at + (size_t)k] << 8 * k;
    memcpy(&number, &bits, sizeof number);
    return number;
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
    n.words = fold_table_new(n.m, "words \"quoted\" \\ \xc3\xbc\xe2\x82\xac\xf0\x9f\x8c\xb3", WORDS, H);
    n.frozen = fold_table_new(n.m, "frozen", WORDS, H);
    n.W = fold_weight_new(n.m, "layer.W", 2 * H, 3 * H);
    n.b = fold_bias_new(n.m, "layer.b", 3 * H);
    p.name = "tied";
    p.shape = fold_shape2(H, 3 * H);
    p.uses = FOLD_FOR_LINEAR_T | FOLD_FOR_LOOKUP;
    p.init = FOLD_INIT_NORMAL;
    p.init_scale = 0.3f;
    n.tied = fold_param_new(n.m, &p);
    p.name = "V";
    p.shape = fold_shape3(2, H, 1);
    p.uses = 0;
    p.rate_set = 3;
    n.V = fold_param_new(n.m, &p);
    fold_param_freeze(n.m, n.frozen, 1);
    fold_model_scale_rates(n.m, 3, 0.5f, 2);
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
        fold_ctx_reset(f);
        for (int k = 0; k < 4; k++) loss[k] = loss_of(f, n, (uint64_t)(4 * i + k));
        CHECK_INT(fold_backward(f, fold_mean_n(f, loss, 4)), FOLD_OK);
        CHECK_INT(step(n->m), FOLD_OK);
    }
}
static block *saved(block *b, fold_model *m, int state)
{
    fold_save_desc d = fold_save_desc_default();
    d.state = state;
    CHECK_INT(fold_model_save_to(m, to_block, empty_block(b), &d), FOLD_OK);
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
                CHECK_INT(fold_model_save(whole.m, "build/files_state.safetensors", &s), FOLD_OK);
            } else {
                saved(&b, whole.m, 1);
            }
            train(g, &other, step_adam, 50, 3); /* values, state and plans that the file must replace */
            if (way == 0) status = fold_model_load_memory(other.m, b.bytes, b.n, &d);
            if (way == 1) status = fold_model_load_from(other.m, from_block, &b, &d);
            if (way == 2) status = fold_model_load(other.m, "build/files_state.safetensors", &d);
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

/* States have the names that fold.h tells, and what the formulas say after a first step of gradient 2. */
static void names_of_states(void)
{
    static block b;
    static const struct { const char *name; double value; int rule; } states[] = {
        { "optimizer.momentum.W", 2, 0 }, { "optimizer.squares.W", 4, 1 }, { "optimizer.squares.W", 0.01 * 4, 2 },
        { "optimizer.adam.m.W", 0.1 * 2, 3 }, { "optimizer.adam.v.W", 0.001 * 4, 3 },
    };
    for (size_t at = 0; at < sizeof states / sizeof *states; at++) {
        fold_model *m = fold_model_new(NULL);
        const fold_param W = fold_bias_new(m, "W", 1);
        fold_sgd sgd = fold_sgd_default();
        const fold_adagrad adagrad = fold_adagrad_default();
        fold_rmsprop rmsprop = fold_rmsprop_default();
        const fold_adam adam = fold_adam_default();
        float state = 0;
        sgd.momentum = 0.9f;
        rmsprop.rho = 0.99f;
        fold_grads_write_begin(m, W)[0] = 2;
        fold_grads_write_end(m, W);
        CHECK_INT(states[at].rule == 0   ? fold_sgd_step(m, &sgd)
                  : states[at].rule == 1 ? fold_adagrad_step(m, &adagrad)
                  : states[at].rule == 2 ? fold_rmsprop_step(m, &rmsprop)
                                         : fold_adam_step(m, &adam), FOLD_OK);
        saved(&b, m, 1);
        fold_tensors *t = fold_tensors_open_memory(m, b.bytes, b.n);
        CHECK_INT(fold_tensors_count(t), states[at].rule == 3 ? 3 : 2);
        CHECK_INT(fold_tensors_read(t, fold_tensors_find(t, states[at].name), 0, 1, &state, 1), FOLD_OK);
        CHECK_SAYS(fabs((double)state / states[at].value - 1) < 1e-4, "%s is %g, want %g", states[at].name, (double)state, states[at].value);
        fold_tensors_close(t);
        fold_model_free(m);
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
    CHECK_INT(fold_model_load_memory(other.m, b.bytes, b.n, &d), FOLD_OK);
    fold_param_freeze(n.m, n.W, 0);
    train(f, &n, step_adam, 4, 3);
    train(g, &other, step_adam, 4, 3);
    check_same_model(other.m, n.m);
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(n.m);
    fold_model_free(other.m);
}

/* Counts of steps that differ by parameter go into files and come back: late ones go on as without a save. */
static void counts_of_steps(void)
{
    static block b;
    for (int way = 0; way < 3; way++) {
        net n = make_net(1), other = make_net(2);
        fold_ctx *f = training_ctx(n.m, 0), *g = training_ctx(other.m, 0);
        fold_load_desc d = fold_load_desc_default();
        fold_param late[2];
        float gradient[2] = { 0.5f, -2 };
        d.state = 1;
        fold_param_freeze(n.m, n.W, 1);
        train(f, &n, step_adam, 0, 20);
        train(f, &n, step_sgd, 20, 2); /* counts for none */
        fold_param_freeze(n.m, n.W, 0);
        late[0] = fold_bias_new(n.m, "late", 2);
        if (way > 0) train(f, &n, step_adam, 22, 3); /* otherwise neither made a step yet */
        if (way > 1) fold_param_freeze(n.m, n.b, 1);
        if (way > 1) train(f, &n, step_adam, 25, 3);
        saved(&b, n.m, 1);
        late[1] = fold_bias_new(other.m, "late", 2);
        fold_tensors *t = fold_tensors_open_memory(n.m, b.bytes, b.n);
        CHECK((fold_tensors_find(t, "optimizer.adam.step.late") >= 0) && fold_tensors_find(t, "optimizer.adam.step.frozen") < 0);
        fold_tensors_close(t);
        if (!CHECK_INT(fold_model_load_memory(other.m, b.bytes, b.n, &d), FOLD_OK)) puts(fold_model_message(other.m));
        check_same_model(n.m, other.m);
        fold_param_freeze(n.m, n.b, 0);
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 2; k++) {
                fold_model *m = k ? other.m : n.m;
                if (i == 1) fold_param_freeze(m, k ? other.frozen : n.frozen, 0);
                memcpy(fold_grads_write_begin(m, late[k]), gradient, sizeof gradient);
                fold_grads_write_end(m, late[k]);
                train(k ? g : f, k ? &other : &n, step_adam, 30 + i, 1);
            }
        check_same_model(n.m, other.m);
        static block again;
        saved(&b, n.m, 1);
        saved(&again, other.m, 1);
        CHECK(b.n == again.n && !memcmp(b.bytes, again.bytes, b.n));
        fold_ctx_free(f);
        fold_ctx_free(g);
        fold_model_free(n.m);
        fold_model_free(other.m);
    }
}

/* Files of 0.3.0 have one count. It is that of all parameters whose state they have; the others make a first step. */
static void file_without_counts(void)
{
    static const uint32_t data[] = { 0xbb3f92e2, 0x3b322efc, 0, 0, 0x3f0f9db4, 0xbe303afe, 0x3c654656, 0x3acf0a93 };
    static const char header[] = /* written by fold.h 0.3.0 */
        "{\"__metadata__\":{\"producer\":\"fold.h 0.3.0\",\"optimizer\":\"adam\",\"steps\":\"3\"},"
        "\"trained\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"frozen\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"optimizer.adam.m.trained\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},\"optimizer.adam.v.trained\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}";
    static block b;
    const double rate = 0.001, beta1 = (double)0.9f, beta2 = (double)0.999f, gradient = 0.25;
    fold_model *m = fold_model_new(NULL);
    const fold_param p[2] = { fold_bias_new(m, "trained", 2), fold_bias_new(m, "frozen", 2) };
    fold_load_desc d = fold_load_desc_default();
    d.state = 1;
    fold_param_freeze(m, p[1], 1);
    file_of(&b, header, sizeof data);
    for (size_t i = 0; i < sizeof data; i++) b.bytes[8 + sizeof header - 1 + i] = (unsigned char)(data[i / 4] >> 8 * (i % 4));
    CHECK_INT(fold_model_load_memory(m, b.bytes, b.n, &d), FOLD_OK);
    CHECK_INT(fold_model_steps(m), 3);
    fold_param_freeze(m, p[1], 0);
    double want[2][2];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++) {
            const size_t at = 8 + sizeof header - 1 + (size_t)(4 * i);
            const int made = k ? 1 : 4;
            const double m1 = beta1 * (k ? 0 : (double)number_at(&b, at + 16)) + (1 - beta1) * gradient;
            const double v = beta2 * (k ? 0 : (double)number_at(&b, at + 24)) + (1 - beta2) * gradient * gradient;
            want[k][i] = (double)fold_param_value(m, p[k])[i] - rate * m1 / (1 - pow(beta1, made)) / (sqrt(v / (1 - pow(beta2, made))) + 1e-8);
            fold_grads_write_begin(m, p[k])[i] = (float)gradient;
            fold_grads_write_end(m, p[k]);
        }
    const fold_adam adam = fold_adam_default();
    CHECK_INT(fold_adam_step(m, &adam), FOLD_OK);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++) CHECK_NEAR(fold_param_value(m, p[k])[i], want[k][i], 1e-7);
    fold_model_free(m);
}

/* What a context computes after a load is what a fresh one computes: packs, transposed packs, kept plans. */
static void contexts_follow(void)
{
    static block b;
    net n = make_net(1), other = make_net(2);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = eager;
        d.plan_cache_bytes = eager ? 0 : 1 << 16;
        fold_ctx *f = fold_ctx_new(n.m, &d), *g = fold_ctx_new(other.m, &d);
        fold_ctx *training = training_ctx(n.m, 1);
        train(training, &n, step_momentum, 0, 2);
        for (int turn = 0; turn < 3; turn++) {
            fold_ctx_reset(f);
            fold_ctx_reset(g);
            const fold_node x = loss_of(f, &n, 3), y = loss_of(g, &other, 3);
            CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
            CHECK_INT(fold_run(g, &y, 1), FOLD_OK);
            CHECK((fold_scalar(f, x) == fold_scalar(g, y)) == (turn > 0));
            if (turn) continue;
            saved(&b, n.m, 0);
            CHECK_INT(fold_model_load_memory(other.m, b.bytes, b.n, NULL), FOLD_OK);
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

/* -- what is read ----------------------------------------------------------------------------- */

/* A model of W [2 x 3] and b [1]. */
static fold_model *small_model(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_weight_new(m, "W", 2, 3);
    fold_bias_new(m, "b", 1);
    return m;
}
#define GOOD "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}"

/* Loads the file and checks that it says so and changes nothing; says NULL: it loads. Through memory and through a reader. */
static void loads(fold_model *m, block *b, const fold_load_desc *d, fold_status status, const char *says)
{
    static float before[BYTES / 4];
    int n;
    for (int way = 0; way < 2; way++) {
        const float *x = fold_model_values(m, &n);
        if (n) memcpy(before, x, (size_t)n * sizeof *x);
        unsigned char *exact = (unsigned char *)malloc(b->n + !b->n); /* the sanitizers see a read beyond it */
        memcpy(exact, b->bytes, b->n);
        b->at = 0;
        const fold_status got = way ? fold_model_load_from(m, from_block, b, d) : fold_model_load_memory(m, exact, b->n, d);
        free(exact);
        if (status != FOLD_IO || way == 0 || got) CHECK_SAYS(got == status, "status %d instead of %d: %s", (int)got, (int)status, fold_model_message(m));
        if (says && got) CHECK_TEXT(fold_model_message(m), says);
        if (got && n) CHECK_BITS(x, before, n);
        CHECK_SAYS(says ? !way || got || b->at < b->n : !got, "it should say \"%s\"", says ? says : "");
        fold_model_clear_error(m);
    }
}

static const struct { const char *header; int data; fold_status status; const char *says; } headers[] = {
    { GOOD, 28, FOLD_OK, NULL },
    { " " GOOD, 28, FOLD_IO, "expected {" },
    { GOOD " \n\t ", 28, FOLD_OK, NULL },
    { GOOD "x", 28, FOLD_IO, "something follows" },
    { GOOD GOOD, 28, FOLD_IO, "something follows" },
    { GOOD, 27, FOLD_IO, "ends too early" },
    { GOOD, 29, FOLD_IO, "more than its data" },
    { "", 0, FOLD_IO, "expected {" },
    { "{}", 0, FOLD_BAD_ARGUMENT, "'W' is not in the file" },
    { "{", 0, FOLD_IO, "expected a string (byte 1 " },
    { "{,}", 0, FOLD_IO, "expected a string" },
    { "[]", 0, FOLD_IO, "expected {" },
    { "null", 0, FOLD_IO, "expected {" },
    { "{\"W\"}", 0, FOLD_IO, "expected :" },
    { "{\"W\":[[[[[[[[", 0, FOLD_IO, "expected {" },
    { "{\"W\":{}}", 0, FOLD_IO, "expected a string" },
    { "{\"W\":{\"dtype\":\"F32\"}}", 0, FOLD_IO, "lacks" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3]}}", 24, FOLD_IO, "lacks" },
    { "{\"W\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "repeated or unknown member" },
    { "{\"W\":{\"dtype\":\"F32\",\"stride\":[2,3],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "repeated or unknown member" },
    { "{\"W\":{\"dtype\":32,\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "expected a string" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3,],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "expected a whole number" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,-3],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "expected a whole number" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3.0],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "expected ]" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,03],\"data_offsets\":[0,24]}}", 24, FOLD_IO, "begins with 0" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24,24]}}", 24, FOLD_IO, "expected ]" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,0]}}", 24, FOLD_IO, "do not fit" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,25]}}", 25, FOLD_IO, "do not fit" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,28]}}", 28, FOLD_IO, "do not fit" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, FOLD_IO, "overflows" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, FOLD_IO, "overflows" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2147483648,2147483648],\"data_offsets\":[0,0]}}", 0, FOLD_IO, "do not fit" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0, FOLD_IO, "out of range" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8999999999999999976,9000000000000000000]}}", 24, FOLD_BAD_ARGUMENT, "'b' is not in" },
    { "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]}}", 28, FOLD_OK, NULL },
    { "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]},\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 28, FOLD_OK, NULL },
    { "{\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[24,28]},\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 28, FOLD_OK, NULL },
    { "{ \"b\" :\t{ \"data_offsets\" : [ 24 , 28 ] , \"shape\" : [ 1 ] , \"dtype\" : \"F32\" },\r\n\"\\u0057\":{\"dtype\":\"F\\u00332\",\"shape\":[2,3],"
      "\"data_offsets\":[0,24]}}", 28, FOLD_OK, NULL },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]}}", 24, FOLD_IO, "overlap those before, or leave a gap" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]}}", 32, FOLD_IO, "overlap those before, or leave a gap" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]}}", 32, FOLD_IO, "overlap those before, or leave a gap" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]}}", 48, FOLD_IO, "twice" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"\\u0057\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]}}", 48, FOLD_IO, "twice" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_SHAPE,
      "W is [3 x 2] in the file, [2 x 3] in the model" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[1,1,1,2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_SHAPE,
      "more than 4 axes" },
    { "{\"W\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_ARGUMENT,
      "W is of type I32; F32, F16, BF16, F64 and I8 are read" },
    { "{\"W\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_ARGUMENT, "type another" },
    { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_ARGUMENT, "'b' is not in" },
    { "{\"c\\n\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}," GOOD, 28, FOLD_IO, "expected a string" },
    { "{\"\\ud83d\\ude00\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[28,28]},\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_ARGUMENT, "the model has no '\xf0\x9f\x98\x80'" },
    { "{\"\\n\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[28,28]},\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, FOLD_BAD_ARGUMENT, "the model has no '?\?[2J'" },
    { "{\"\\ud83d\":1}", 0, FOLD_IO, "invalid escape" }, { "{\"\\ud83d\\u0041\":1}", 0, FOLD_IO, "invalid escape" },
    { "{\"\\ude00\":1}", 0, FOLD_IO, "invalid escape" }, { "{\"\\u0000\":1}", 0, FOLD_IO, "invalid escape" },
    { "{\"\\u12g4\":1}", 0, FOLD_IO, "invalid escape" }, { "{\"\\x\":1}", 0, FOLD_IO, "invalid escape" },
    { "{\"\\", 0, FOLD_IO, "invalid escape" }, { "{\"\\u12", 0, FOLD_IO, "invalid escape" },
    { "{\"\xff\":1}", 0, FOLD_IO, "not UTF-8" }, { "{\"\xc0\x80\":1}", 0, FOLD_IO, "not UTF-8" }, { "{\"\xed\xa0\x80\":1}", 0, FOLD_IO, "not UTF-8" },
    { "{\"\xe2\x82", 0, FOLD_IO, "not UTF-8" }, { "{\"a\nb\":1}", 0, FOLD_IO, "not UTF-8" }, { "{\"abc", 0, FOLD_IO, "does not end" },
    { "{\"__metadata__\":{}," "\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}",
      28, FOLD_OK, NULL },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, FOLD_IO, "second __metadata__" },
    { "{\"__metadata__\":{\"steps\":1}}", 0, FOLD_IO, "expected a string" },
    { "{\"__metadata__\":{\"config\":\"a\",\"config\":\"b\"}}", 0, FOLD_IO, "the metadata repeat a key" },
    { "{\"__metadata__\":null}", 0, FOLD_IO, "expected {" },
};

static void bad_headers(void)
{
    static block b;
    fold_model *m = small_model();
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        loads(m, file_of(&b, headers[i].header, (size_t)headers[i].data), NULL, headers[i].status, headers[i].says);
    file_of(&b, "{}", 0); /* lengths of headers that are none */
    for (int k = 0; k < 8; k++) {
        memset(b.bytes, 0, 8);
        b.bytes[k] = 200;
        loads(m, &b, NULL, FOLD_IO, k < 4 ? "" : "exceed 100 MB");
    }
    memset(b.bytes, 255, 8);
    loads(m, &b, NULL, FOLD_IO, "exceed 100 MB");
    fold_model_free(m);
}

/* A file that ends anywhere, or whose memory does, changes nothing; nor does one with a byte changed, unless it loads. */
static void cut_and_changed(void)
{
    static block b, whole;
    net n = make_net(1), other = make_net(2);
    fold_ctx *f = training_ctx(n.m, 0);
    fold_load_desc d = fold_load_desc_default();
    int size;
    const float *x = fold_model_values(other.m, &size);
    static float before[BYTES / 4];
    int loaded = 0;
    d.state = 1;
    memcpy(before, x, (size_t)size * sizeof *x);
    train(f, &n, step_adam, 0, 2);
    saved(&whole, n.m, 1);
    for (size_t length = 0; length < whole.n; length += length > 3000 ? 51 : 1) {
        memcpy(&b, &whole, sizeof b);
        b.n = length;
        loads(other.m, &b, &d, FOLD_IO, "");
        CHECK_BITS(x, before, size);
    }
    CHECK_INT(fold_model_steps(other.m), 0);
    for (size_t at = 0; at < 1400; at++) {
        memcpy(&b, &whole, sizeof b);
        b.bytes[at] ^= (unsigned char)(1u << at % 8);
        const fold_status status = fold_model_load_memory(other.m, b.bytes, b.n, &d);
        loaded += !status;
        if (status) CHECK(fold_model_message(other.m)[0] != 0);
        if (status && !loaded) CHECK_BITS(x, before, size);
        fold_model_clear_error(other.m);
    }
    CHECK_SAYS(loaded > 0 && loaded < 100, "%d loaded", loaded); /* blanks, the producer, the count of steps */
    fold_ctx_free(f);
    fold_model_free(n.m);
    fold_model_free(other.m);
}

/* -- memory that runs out --------------------------------------------------------------------------- */

static void out_of_memory(void)
{
    static block b;
    net n = make_net(1);
    fold_ctx *f = training_ctx(n.m, 0);
    train(f, &n, step_adam, 0, 2);
    saved(&b, n.m, 1);
    purse p = { 0, 0, -1, 0 };
    fold_model_desc md = purse_desc(&p);
    fold_model *m = fold_model_new(&md);
    for (int i = 0; i < fold_param_count(n.m); i++) {
        fold_param_desc d = fold_param_desc_default();
        d.name = fold_param_name(n.m, fold_param_at(n.m, i));
        d.shape = fold_param_shape(n.m, fold_param_at(n.m, i));
        fold_param_new(m, &d);
    }
    CHECK_TEXT(fold_model_message(m), "");
    fold_load_desc d = fold_load_desc_default();
    d.state = 1;
    d.allow_missing = 1;
    const size_t held = p.held;
    int calls = 0;
    fold_status status = FOLD_NO_MEMORY;
    for (; status && calls < 20; calls++) {
        int size;
        static float before[BYTES / 4];
        const float *x = fold_model_values(m, &size);
        memcpy(before, x, (size_t)size * sizeof *x);
        p.left = calls;
        b.at = 0;
        status = fold_model_load_from(m, from_block, &b, &d);
        if (!status) break;
        CHECK_INT(status, FOLD_NO_MEMORY);
        CHECK_TEXT(fold_model_message(m), "out of memory");
        CHECK_BITS(x, before, size);
        CHECK_INT(fold_model_steps(m), 0);
        fold_model_clear_error(m);
    }
    CHECK_INT(calls, 6); /* header, table, order, data, two states */
    check_same_model(m, n.m);
    p.left = 1 << 20;
    const size_t now = p.held;
    p.most = now;
    memset(b.bytes, 255, 8); /* a header of 100 MB that is not there takes no memory */
    b.bytes[4] = b.bytes[5] = b.bytes[6] = b.bytes[7] = 0;
    b.bytes[3] = 5;
    b.at = 0;
    CHECK_INT(fold_model_load_from(m, from_block, &b, &d), FOLD_IO);
    CHECK_INT(p.held, now);
    CHECK(now > held && p.most < now + 300000);
    fold_ctx_free(f);
    fold_model_free(n.m);
    fold_model_free(m);
    CHECK_INT(p.held, 0);
}

/* -- other types ---------------------------------------------------------------------------------- */

static void types(void)
{
    enum { VALUES = 10 };
    const struct { uint16_t half; float value; } halves[VALUES] = { /* tcc: NAN is no constant */
        { 0x3c00, 1 }, { 0xc000, -2 }, { 0x7bff, 65504 }, { 0x0400, 6.103515625e-05f }, { 0x0001, 5.9604644775390625e-08f },
        { 0x83ff, -6.097555160522461e-05f }, { 0x7c00, (float)INFINITY }, { 0xfc00, -(float)INFINITY }, { 0x8000, -0.0f },
        { 0x7e00, (float)NAN },
    };
    const float values[VALUES] = { 1.5f, -2, 0, 3.4028234663852886e38f, 1.401298464324817e-45f, -0.333333343f,
                                          (float)INFINITY, -(float)INFINITY, -0.0f, (float)NAN };
    static const char *const type[] = { "F16", "BF16", "F64" };
    static block b;
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", 2, VALUES / 2);
    for (int t = 0; t < 3; t++) {
        char header[200];
        const size_t width = t == 2 ? 8 : 2;
        snprintf(header, sizeof header, "{\"W\":{\"dtype\":\"%s\",\"shape\":[2,%d],\"data_offsets\":[0,%d]}}", type[t], VALUES / 2,
                 (int)(VALUES * width));
        file_of(&b, header, VALUES * width);
        for (size_t i = 0; i < VALUES; i++) {
            const double d = (double)values[i];
            uint64_t bits = 0;
            uint32_t single;
            memcpy(&single, &values[i], 4);
            if (t == 2) memcpy(&bits, &d, 8);
            else bits = t ? single >> 16 : halves[i].half;
            for (size_t k = 0; k < width; k++) b.bytes[b.n - VALUES * width + i * width + k] = (unsigned char)(bits >> 8 * k);
        }
        loads(m, &b, NULL, FOLD_OK, NULL);
        for (int i = 0; i < VALUES; i++) {
            float want = t ? values[i] : halves[i].value;
            uint32_t bits;
            memcpy(&bits, &want, 4);
            if (t == 1) bits &= 0xffff0000u;
            memcpy(&want, &bits, 4);
            const float *got = fold_param_value(m, W) + i;
            if (isnan(want)) CHECK(isnan(*got));
            else CHECK_BITS(got, &want, 1);
        }
    }
    fold_model_free(m);
}

/* Doubles become the nearest floats wherever the host has the processor round, subnormal ones where it flushes. */
static void types_whatever_the_host_has_set(void)
{
    static const double values[6] = { 1.0 / 3, -1.0 / 3, 0.1, 1e-40, -1e-45, 16777217.5 };
    float nearest[6];
    static block b;
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", 2, 3);
    file_of(&b, "{\"W\":{\"dtype\":\"F64\",\"shape\":[2,3],\"data_offsets\":[0,48]}}", 48);
    for (int i = 0; i < 6; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], 8);
        for (int k = 0; k < 8; k++) b.bytes[b.n - 48 + (size_t)(i * 8 + k)] = (unsigned char)(bits >> 8 * k);
        nearest[i] = (float)values[i];
    }
    for (int mode = 0; mode < 3; mode++) {
#ifdef FE_UPWARD
        fesetround(mode == 0 ? FE_UPWARD : mode == 1 ? FE_DOWNWARD : FE_TONEAREST);
#endif
#if defined(__SSE__) || defined(_M_X64)
        if (mode == 2) _mm_setcsr(_mm_getcsr() | 0x8040u);
#endif
        loads(m, &b, NULL, FOLD_OK, NULL);
#if defined(__SSE__) || defined(_M_X64)
        _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
        CHECK_BITS(fold_param_value(m, W), nearest, 6);
    }
#ifdef FE_UPWARD
    fesetround(FE_TONEAREST);
#endif
    fold_model_free(m);
}

/* -- settings ------------------------------------------------------------------------------------- */

#define PREFIXED "{\"enc.W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"enc.b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}," \
                 "\"W\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[28,37]}}"
#define NEARLY "{\"state.abc.W\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"stxte.firxt.W\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}" /* letters to change: 5 and 2 */
#define ONLY_B "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"other\":{\"dtype\":\"BOOL\",\"shape\":[600],\"data_offsets\":[4,604]}}"

static void settings(void)
{
    static block b;
    fold_model *m = small_model();
    fold_load_desc d = fold_load_desc_default();
    float b_want;
    char config[8];
    loads(m, file_of(&b, PREFIXED, 37), NULL, FOLD_BAD_ARGUMENT, "W is of type U8");
    d.prefix = "enc.";
    loads(m, &b, &d, FOLD_OK, NULL);
    b_want = number_at(&b, 8 + strlen(PREFIXED) + 24);
    CHECK_BITS(fold_param_value(m, fold_param_find(m, "b")), &b_want, 1);
    d.prefix = "dec.";
    loads(m, &b, &d, FOLD_BAD_ARGUMENT, "load: 'dec.W' is not in the file; nearest: 'W'");
    d.prefix = "state.first.";
    loads(m, file_of(&b, NEARLY, 8), &d, FOLD_BAD_ARGUMENT, "'state.first.W' is not in the file; nearest: 'stxte.firxt.W'");
    d = fold_load_desc_default();
    d.allow_missing = 1;
    loads(m, file_of(&b, ONLY_B, 604), &d, FOLD_BAD_ARGUMENT, "the model has no 'other'");
    d.allow_unknown = 1;
    const float W0 = fold_param_value(m, fold_param_find(m, "W"))[0];
    loads(m, &b, &d, FOLD_OK, NULL);
    b_want = number_at(&b, 8 + strlen(ONLY_B));
    CHECK_BITS(fold_param_value(m, fold_param_find(m, "b")), &b_want, 1);
    CHECK_BITS(fold_param_value(m, fold_param_find(m, "W")), &W0, 1);
    d.allow_missing = 0;
    loads(m, &b, &d, FOLD_BAD_ARGUMENT, "'W' is not in the file");

    d = fold_load_desc_default(); /* config: there, absent, too long; before there are parameters */
    d.config = config;
    d.config_size = sizeof config;
    fold_save_desc s = fold_save_desc_default();
    s.config = "h=\"1\"\n\x7f";
    CHECK_INT(fold_model_save_to(m, to_block, empty_block(&b), &s), FOLD_OK);
    loads(m, &b, &d, FOLD_OK, NULL);
    CHECK(!strcmp(config, s.config));
    fold_model *bare = fold_model_new(NULL);
    d.allow_unknown = 1;
    config[0] = 0;
    loads(bare, &b, &d, FOLD_OK, NULL);
    CHECK(!strcmp(config, s.config));
    d.config_size = 7;
    loads(m, &b, &d, FOLD_BAD_ARGUMENT, "config needs 8 bytes");
    CHECK(!strcmp(config, s.config));
    d.config_size = sizeof config;
    loads(m, file_of(&b, GOOD, 28), &d, FOLD_OK, NULL);
    CHECK(!config[0]);
    fold_model_free(bare);
    fold_model_free(m);
}

/* A load that finds nothing says so; what was loaded before an error does not count. */
static void counts(void)
{
    static block b;
    net n = make_net(1);
    fold_model *m = small_model();
    fold_load_desc d = fold_load_desc_default();
    int loaded = -1;
    d.loaded = &loaded;
    loads(m, file_of(&b, GOOD, 28), &d, FOLD_OK, NULL);
    CHECK_INT(loaded, 2);
    loads(m, file_of(&b, ONLY_B, 604), &d, FOLD_BAD_ARGUMENT, "'W' is not in the file");
    CHECK_INT(loaded, 0);
    d.allow_missing = d.allow_unknown = 1;
    loads(m, &b, &d, FOLD_OK, NULL);
    CHECK_INT(loaded, 1);
    d.prefix = "encoder."; /* of another program, say */
    loads(m, &b, &d, FOLD_OK, NULL);
    CHECK_INT(loaded, 0);
    d = fold_load_desc_default();
    d.loaded = &loaded;
    d.state = 1;
    fold_ctx *f = training_ctx(n.m, 0);
    train(f, &n, step_adam, 0, 1);
    saved(&b, n.m, 1);
    CHECK_INT(fold_model_load_memory(n.m, b.bytes, b.n, &d), FOLD_OK);
    CHECK_INT(loaded, 6 + 2 * 5); /* one is frozen */
    loaded = -1;
    fold_bias_new(m, "b", 1);
    CHECK_INT(fold_model_load_memory(m, b.bytes, b.n, &d), FOLD_BAD_ARGUMENT); /* the model has an error */
    CHECK_INT(loaded, 0);
    fold_ctx_free(f);
    fold_model_free(n.m);
    fold_model_free(m);
}

static const char *listed(const fold_model *m, const char *path, fold_status status)
{
    static block b;
    CHECK_INT(fold_model_print_file(m, path, to_block, empty_block(&b)), status);
    b.bytes[b.n] = 0;
    return (const char *)b.bytes;
}

/* What a file holds, whatever the model, and whatever state that is in. */
static void listing(void)
{
    static const char path[] = "build/files_listed.safetensors";
    static const char header[] =
        "{\"__metadata__\":{\"config\":\"h=5\",\"optimizer\":\"adam\",\"steps\":\"12\"},"
        "\"zz\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
        "\"a.weight\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[12,20]},"
        "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,2],\"data_offsets\":[20,22]},"
        "\"new\":{\"dtype\":\"F8_E5M2\",\"shape\":[4],\"data_offsets\":[22,26]}}";
    static block b, held;
    fold_model *m = small_model();
    file_of(&b, header, 26);
    FILE *file = fopen(path, "wb");
    if (!CHECK(file)) return;
    fwrite(b.bytes, 1, b.n, file);
    fclose(file);
    fold_bias_new(m, "b", 1); /* an error, which stays */
    char before[256];
    snprintf(before, sizeof before, "%s", fold_model_message(m));
    static const char want[] = "tensors     shape               type           bytes\n"
                               "a.weight    [1]                 I64                8\n"
                               "deep        of rank 5 or more   U8                 2\n"
                               "new         [4]                 another            4\n"
                               "zz          [2 x 3]             BF16              12\n"
                               "4 tensors, 26 bytes of data; optimizer adam, steps 12; config of 3 bytes\n";
    const char *text = listed(m, path, FOLD_OK);
    check_that(!strcmp(text, want), __FILE__, __LINE__, "it says\n%s\nand should say\n%s", text, want);
    CHECK(!strcmp(fold_model_message(m), before));
    CHECK_INT(fold_model_print_file_memory(m, b.bytes, b.n, to_block, empty_block(&held)), FOLD_OK);
    CHECK(held.n == sizeof want - 1 && !memcmp(held.bytes, want, held.n));
    CHECK_INT(fold_model_print_file_memory(m, b.bytes, 40, to_block, empty_block(&held)), FOLD_IO);
    held.bytes[held.n] = 0;
    CHECK_TEXT((const char *)held.bytes, "load: the file ends");
    for (int i = 0; i < 2; i++) { /* a rule without its steps, and steps without a rule */
        file_of(&b, i ? "{\"__metadata__\":{\"steps\":\"3\"}}" : "{\"__metadata__\":{\"optimizer\":\"adam\"}}", 0);
        CHECK_INT(fold_model_print_file_memory(m, b.bytes, b.n, to_block, empty_block(&held)), FOLD_OK);
        held.bytes[held.n] = 0;
        CHECK_TEXT((const char *)held.bytes, "\n0 tensors, 0 bytes of data\n");
    }
    CHECK_INT(fold_model_print_file_memory(m, NULL, 40, to_block, &held), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_model_print_file_memory(NULL, b.bytes, b.n, to_block, &held), FOLD_BAD_ARGUMENT);
    file = fopen(path, "wb");
    fputs("PK\3\4, which is of another kind", file);
    fclose(file);
    CHECK_TEXT(listed(m, path, FOLD_IO), "not a safetensors file");
    CHECK_TEXT(listed(m, "build/no such file", FOLD_IO), "no such file");
    CHECK(!strcmp(fold_model_message(m), before));
    CHECK_INT(fold_model_print_file(NULL, path, to_block, &b), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_model_print_file(m, NULL, to_block, &b), FOLD_BAD_ARGUMENT);
    fold_model_clear_error(m);
    CHECK_INT(fold_model_save(m, path, NULL), FOLD_OK);
    CHECK_TEXT(listed(m, path, FOLD_OK), "\n2 tensors, 28 bytes of data\n");
    empty_block(&b)->limit = 30;
    CHECK_INT(fold_model_print_file(m, path, to_block, &b), FOLD_IO);
    CHECK_TEXT(fold_model_message(m), "");
    remove(path);
    fold_model_free(m);
}

/* A count that is none is refused. */
static void counts_that_are_none(void)
{
    static const struct { float count; const char *shape; fold_status status; } row[] = {
        { 2, "[1]", FOLD_OK }, { 0, "[1]", FOLD_OK }, { 16777216, "[1]", FOLD_OK }, { -1, "[1]", FOLD_BAD_ARGUMENT },
        { 1.5f, "[1]", FOLD_BAD_ARGUMENT }, { NAN, "[1]", FOLD_BAD_ARGUMENT }, { HUGE_VALF, "[1]", FOLD_BAD_ARGUMENT },
        { 1e30f, "[1]", FOLD_BAD_ARGUMENT }, { 2, "[1,1]", FOLD_BAD_SHAPE }
    };
    static block b;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char header[600];
        fold_model *m = fold_model_new(NULL);
        fold_bias_new(m, "b", 1);
        fold_load_desc d = fold_load_desc_default();
        d.state = 1;
        snprintf(header, sizeof header, "{\"__metadata__\":{\"optimizer\":\"adam\",\"steps\":\"7\"},"
                 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                 "\"optimizer.adam.step.b\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[4,8]},"
                 "\"optimizer.adam.m.b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                 "\"optimizer.adam.v.b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", row[i].shape);
        file_of(&b, header, 16);
        uint32_t bits;
        memcpy(&bits, &row[i].count, sizeof bits);
        memset(b.bytes + b.n - 16, 0, 16);
        for (int k = 0; k < 4; k++) b.bytes[b.n - 12 + (size_t)k] = (unsigned char)(bits >> 8 * k);
        loads(m, &b, &d, row[i].status, row[i].status == FOLD_BAD_ARGUMENT ? "not a number of steps" : row[i].status ? "is [1 x 1] in the file, [1] in the model" : NULL);
        fold_model_free(m);
    }
}

static void state_settings(void)
{
    static block b;
    net n = make_net(1), other = make_net(2);
    fold_ctx *f = training_ctx(n.m, 0);
    fold_load_desc d = fold_load_desc_default();
    train(f, &n, step_adagrad, 0, 2);
    saved(&b, n.m, 0);
    d.state = 1;
    loads(n.m, &b, &d, FOLD_BAD_ARGUMENT, "the file has no optimiser state");
    CHECK_INT(fold_model_steps(n.m), 2);
    saved(&b, n.m, 1);
    d.state = 0; /* values alone */
    loads(other.m, &b, &d, FOLD_OK, NULL);
    CHECK_INT(fold_model_steps(other.m), 0);
    d.state = d.allow_missing = 1;
    saved(&b, other.m, 0);
    loads(n.m, &b, &d, FOLD_OK, NULL); /* a fresh start */
    CHECK_INT(fold_model_steps(n.m), 0);
    fold_ctx *g = training_ctx(other.m, 0);
    train(f, &n, step_rmsprop, 0, 2);
    train(g, &other, step_rmsprop, 0, 2);
    check_same_model(n.m, other.m);
    d.allow_missing = 0;
    loads(n.m, file_of(&b, "{\"__metadata__\":{\"optimizer\":\"lion\",\"steps\":\"1\"}}", 0), &d, FOLD_IO, "not from fold.h");
    loads(n.m, file_of(&b, "{\"__metadata__\":{\"optimizer\":\"adam\",\"steps\":\"-1\"}}", 0), &d, FOLD_IO, "not from fold.h");
    loads(n.m, file_of(&b, "{\"__metadata__\":{\"optimizer\":\"adam\",\"steps\":\"1111111111111111111\"}}", 0), &d, FOLD_IO, "not from fold.h");
    fold_model *m = small_model();
    loads(m, file_of(&b, "{\"__metadata__\":{\"optimizer\":\"momentum\",\"steps\":\"1\"},"
          "\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28), &d,
          FOLD_BAD_ARGUMENT, "the optimiser's state of W is not in the file");
    fold_model_desc md = fold_model_desc_default();
    md.inference = 1;
    fold_model *inference = fold_model_new(&md);
    loads(inference, file_of(&b, "{}", 0), &d, FOLD_BAD_STATE, "made for inference");
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(n.m);
    fold_model_free(other.m);
    fold_model_free(m);
    fold_model_free(inference);
}

/* -- what fails loses nothing ---------------------------------------------------------------------- */

static int errors_told;
static void count_errors(const char *message, void *user)
{
    (void)message, (void)user;
    errors_told++;
}
static size_t read_nothing(void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    return 0;
}
static int write_nothing(const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    return 1;
}
enum { NO_FILE, NO_FILE_MISSING, NO_PATH, NO_BYTES, NO_READER, CUT, EMPTY, OTHER, UNKNOWN, NO_STATE, READER, SAVE_NOWHERE, SAVE_NO_PATH, SAVE_WRITER,
       SAVE_CONFIG, OPEN, OPEN_CUT, WAYS_TO_FAIL };
static fold_status fail_by(int way, fold_model *m, const block *good, const block *other)
{
    fold_load_desc load = fold_load_desc_default();
    fold_save_desc save = fold_save_desc_default();
    load.allow_missing = way == NO_FILE_MISSING;
    load.state = way == NO_STATE;
    save.config = way == SAVE_CONFIG ? "\x80" : NULL;
    switch (way) {
    case NO_FILE:
    case NO_FILE_MISSING: return fold_model_load(m, "build/there is no such file", &load);
    case NO_PATH: return fold_model_load(m, NULL, NULL);
    case NO_BYTES: return fold_model_load_memory(m, NULL, 8, NULL);
    case NO_READER: return fold_model_load_from(m, NULL, NULL, NULL);
    case CUT: return fold_model_load_memory(m, good->bytes, good->n - 1, NULL);
    case EMPTY: return fold_model_load_memory(m, "", 0, NULL);
    case OTHER: return fold_model_load_memory(m, other->bytes, other->n, NULL);
    case UNKNOWN: load.allow_missing = 1; return fold_model_load_memory(m, other->bytes, other->n, &load);
    case NO_STATE: return fold_model_load_memory(m, good->bytes, good->n, &load);
    case READER: return fold_model_load_from(m, read_nothing, NULL, NULL);
    case SAVE_NOWHERE: return fold_model_save(m, "build/no such folder/x", NULL);
    case SAVE_NO_PATH: return fold_model_save(m, NULL, NULL);
    case SAVE_WRITER: return fold_model_save_to(m, write_nothing, NULL, NULL);
    case SAVE_CONFIG: return fold_model_save(m, "build/files_config.safetensors", &save);
    case OPEN: return fold_tensors_close(fold_tensors_open(m, "build/there is no such file"));
    default: return fold_tensors_close(fold_tensors_open_memory(m, good->bytes, good->n - 1));
    }
}

/* The call returns its status and the model has its message, but no error: it and its contexts go on. */
static void failing_loses_nothing(void)
{
    static block good, other;
    static const float x[2] = { 1, -2 };
    fold_model *of = fold_model_new(NULL);
    fold_bias_new(of, "other", 2);
    CHECK_INT(fold_model_save_to(of, to_block, empty_block(&other), NULL), FOLD_OK);
    fold_model_free(of);
    for (int way = 0; way < WAYS_TO_FAIL; way++) {
        fold_model_desc desc = fold_model_desc_default();
        fold_ctx_desc training = fold_ctx_desc_default();
        fold_sgd sgd = { 0.1f, 0, 0 };
        desc.error = count_errors;
        errors_told = 0;
        fold_model *m = fold_model_new(&desc);
        const fold_param W = fold_weight_new(m, "W", 2, 2);
        training.training = 1;
        fold_ctx *f = fold_ctx_new(m, &training);
        CHECK_INT(fold_model_save_to(m, to_block, empty_block(&good), NULL), FOLD_OK);
        const fold_node y = fold_linear(f, fold_input(f, x, 2), W, FOLD_NULL_PARAM); /* recorded before it, and goes on */
        const fold_status status = fail_by(way, m, &good, &other);
        CHECK_SAYS(status != FOLD_OK, "way %d", way);
        CHECK_SAYS(strlen(fold_model_message(m)) > 10, "way %d: \"%s\"", way, fold_model_message(m));
        CHECK_SAYS(!fold_model_status(m) && !fold_ctx_status(f) && !errors_told, "way %d: %s", way, fold_model_message(m));
        CHECK_INT(fold_backward(f, fold_sum(f, fold_tanh(f, y), FOLD_ALL)), FOLD_OK);
        CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
        CHECK(!fold_param_is_null(fold_bias_new(m, "b", 2)));
        CHECK_INT(fold_model_save_to(m, to_block, empty_block(&good), NULL), FOLD_OK);
        CHECK_INT(strlen(fold_model_message(m)), 0); /* of the last call */
        fold_model_fail(m, FOLD_BAD_STATE, "mine");
        CHECK_INT(fail_by(way, m, &good, &other), FOLD_BAD_STATE); /* an error that is there stays */
        CHECK_INT(strcmp(fold_model_message(m), "mine"), 0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Whoever needs a tensor of a file that could not be opened has lost something: that is an error, with the reason. */
static void tensors_of_no_file(void)
{
    for (int way = 0; way < 2; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_tensors *t = fold_tensors_open(m, "build/there is no such file");
        float x;
        CHECK_INT(fold_tensors_count(t), 0);
        CHECK_INT(fold_model_status(m), FOLD_OK);
        CHECK_INT(way ? fold_tensors_missing(t, "audio", "mean") : fold_tensors_read(t, 0, 0, 1, &x, 1), FOLD_IO);
        CHECK_INT(fold_model_status(m), FOLD_IO);
        CHECK_TEXT(fold_model_message(m), "load: 'build/there is no such file': ");
        CHECK_INT(fold_tensors_close(t), FOLD_IO);
        fold_model_free(m);
    }
}

/* -- saving that fails ---------------------------------------------------------------------------- */

static void cannot_save(void)
{
    static const char *const bad[] = { "optimizer.W", "optimizer.", "__metadata__", "\xff", "a\xed\xa0\x80", "a\xc2" };
    static const char *const good[] = { "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf" };
    static block b;
    net n = make_net(1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fold_model *m = fold_model_new(NULL);
        fold_bias_new(m, bad[i], 1);
        CHECK_INT(fold_model_status(m), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_model_message(m), i < 3 ? "the name is reserved in files" : "parameter '': the name is not UTF-8");
        CHECK_INT(fold_param_count(m), 0);
        fold_model_clear_error(m);
        CHECK(!fold_param_is_null(fold_bias_new(m, "optimizer", 1))); /* alone it is a name like any other */
        CHECK_INT(fold_model_save_to(m, to_block, empty_block(&b), NULL), FOLD_OK);
        fold_model_free(m);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) { /* names can be the first and last characters of each length */
        fold_model *m = fold_model_new(NULL);
        fold_bias_new(m, good[i], 1);
        CHECK_INT(fold_model_save_to(m, to_block, empty_block(&b), NULL), FOLD_OK);
        fold_model_free(m);
    }
    fold_save_desc s = fold_save_desc_default();
    s.config = "\x80";
    CHECK_INT(fold_model_save_to(n.m, to_block, empty_block(&b), &s), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(n.m), "config is not UTF-8");
    fold_model_clear_error(n.m);
    for (size_t limit = 0; limit < 1900; limit += 100) { /* in the header and in the data */
        empty_block(&b)->limit = limit;
        CHECK_INT(fold_model_save_to(n.m, to_block, &b, NULL), FOLD_IO);
        CHECK_TEXT(fold_model_message(n.m), "the writer stopped");
        fold_model_clear_error(n.m);
    }
    CHECK_INT(fold_model_save_to(n.m, NULL, NULL, NULL), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(n.m), "save: write is NULL");
    CHECK_INT(fold_model_save_to(n.m, to_block, empty_block(&b), NULL), FOLD_OK); /* the model has no error */
    CHECK_INT(strlen(fold_model_message(n.m)), 0);
    CHECK_INT(fold_model_save_to(NULL, to_block, &b, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_model_load_memory(n.m, NULL, 3, NULL), FOLD_BAD_ARGUMENT);
    fold_model_clear_error(n.m);
    CHECK_INT(fold_model_load_from(n.m, NULL, NULL, NULL), FOLD_BAD_ARGUMENT);
    fold_model_clear_error(n.m);
    fold_model_free(n.m);
}

static long file_size(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fclose(file);
    return size;
}

/* A file is replaced as a whole or not at all. */
static void paths(void)
{
    static const char path[] = "build/files_plain.safetensors";
    net n = make_net(1);
    fold_save_desc s = fold_save_desc_default();
    s.config = "{\"hidden\": 5, \"name\": \"\xc3\xbc\"}";
    remove(path);
    CHECK_INT(fold_model_load(n.m, path, NULL), FOLD_IO);
    CHECK_TEXT(fold_model_message(n.m), path);
    CHECK_INT(fold_model_load(n.m, path, NULL), FOLD_IO);
    fold_model_clear_error(n.m);
    CHECK_INT(fold_model_save(n.m, path, &s), FOLD_OK);
    const long size = file_size(path);
    CHECK(size > 2000);
    fold_model *bad = fold_model_new(NULL);
    fold_bias_new(bad, "\xff", 1);
    CHECK_INT(fold_model_save(bad, path, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(file_size(path), size);
    CHECK_INT(file_size("build/files_plain.safetensors.tmp"), -1);
    fold_model_free(bad);
    CHECK_INT(fold_model_save(n.m, path, &s), FOLD_OK); /* over one that is there */
    CHECK_INT(file_size(path), size);
    CHECK_INT(file_size("build/files_plain.safetensors.tmp"), -1);
    CHECK_INT(fold_model_load(n.m, path, NULL), FOLD_OK);
    FILE *file = fopen(path, "ab");
    fputc(' ', file);
    fclose(file);
    CHECK_INT(fold_model_load(n.m, path, NULL), FOLD_IO);
    CHECK_TEXT(fold_model_message(n.m), "more than its data");
    fold_model_clear_error(n.m);
    CHECK_INT(fold_model_save(n.m, path, &s), FOLD_OK);
    CHECK_INT(fold_model_save(n.m, "build/no such folder/x", NULL), FOLD_IO);
    CHECK_TEXT(fold_model_message(n.m), "build/no such folder/x");
    fold_model_clear_error(n.m);
    CHECK_INT(fold_model_save(n.m, NULL, NULL), FOLD_BAD_ARGUMENT);
    fold_model_clear_error(n.m);
    CHECK_INT(fold_model_load(n.m, "build", NULL), FOLD_IO);
    fold_model_clear_error(n.m);
    fold_model_free(n.m);
    fold_model *none = fold_model_new(NULL);
    CHECK_INT(fold_model_save(none, "build/files_none.safetensors", NULL), FOLD_OK);
    CHECK_INT(fold_model_load(none, "build/files_none.safetensors", NULL), FOLD_OK);
    fold_model_free(none);
    file = fopen("build/files_few", "wb");
    if (CHECK(file)) {
        CHECK(fold_to_file(NULL, 16, file) && !fold_to_file(NULL, 0, file) && fold_to_file("a", 1, NULL) && !fold_to_file("a", 1, file));
        fclose(file);
    }
    file = fopen("/dev/full", "wb"); /* a disk that is full, where the system has one */
    if (!file) return;
    n = make_net(1);
    CHECK_INT(fold_model_save_to(n.m, fold_to_file, file, NULL) || fflush(file) ? FOLD_IO : FOLD_OK, FOLD_IO);
    fclose(file);
    fold_model_free(n.m);
}

/* -- the disk ------------------------------------------------------------------------------------- */

#ifdef WATCHED_DISK
/* What was done, a letter each: a draft locked, a file or a folder synced, a name given; the one of `fails` fails. At the one of `dies`
   the process is killed, in writing (W) when half is written, and before that of `meets` something else is done. */
static char disk_log[16], disk_fails, disk_dies, disk_meets;
static int disk_writes;
static void (*disk_meeting)(void);
static int disk_note(char what)
{
    const size_t n = strlen(disk_log);
    if (n + 1 < sizeof disk_log && what != 'W') disk_log[n] = what;
    if (what == disk_dies && (what != 'W' || ++disk_writes == 150)) kill(getpid(), SIGKILL);
    if (what == disk_meets) {
        disk_meets = 0;
        disk_meeting();
    }
    if (what != disk_fails) return 0;
    errno = EIO;
    return -1;
}
static int watched_flock(int file, int how)
{
    const int failed = disk_note('L');
    return failed ? failed : flock(file, how);
}
static size_t watched_fwrite(const void *bytes, size_t size, size_t count, FILE *file)
{
    return disk_note('W') ? 0 : fwrite(bytes, size, count, file);
}
static int watched_fsync(int file)
{
    struct stat s;
    const char what = fstat(file, &s) ? '?' : S_ISDIR(s.st_mode) ? 'D' : S_ISREG(s.st_mode) && s.st_size ? 'F' : 'e';
    const int failed = disk_note(what);
    return failed ? failed : fsync(file);
}
static int watched_rename(const char *from, const char *to)
{
    const int failed = disk_note('R');
    return failed ? failed : rename(from, to);
}
static const char *disk_begin(char fails)
{
    memset(disk_log, 0, sizeof disk_log);
    disk_fails = fails;
    disk_dies = disk_meets = 0;
    disk_writes = 0;
    return disk_log;
}

/* The whole file is on the disk before it gets its name, and then the name is; a failure leaves what was there alone. */
static void disk_order(void)
{
    static const char *const paths[] = { "build/files_disk.safetensors", "files_disk.safetensors" };
    net n = make_net(1), other = make_net(2);
    for (int i = 0; i < 2; i++) {
        char draft[64];
        snprintf(draft, sizeof draft, "%s.tmp", paths[i]);
        remove(paths[i]);
        disk_begin(0);
        CHECK_INT(fold_model_save(n.m, paths[i], NULL), FOLD_OK);
        CHECK_SAYS(!strcmp(disk_log, "LFRD"), "the disk saw '%s'", disk_log);
        for (const char *fails = "WFR"; *fails; fails++) {
            disk_begin(*fails);
            CHECK_INT(fold_model_save(other.m, paths[i], NULL), FOLD_IO);
            CHECK_TEXT(fold_model_message(other.m), strerror(EIO));
            CHECK_INT(file_size(draft), -1);
            fold_model_clear_error(other.m);
        }
        disk_begin('D'); /* the new file is there, but may not outlast a loss of power */
        CHECK_INT(fold_model_save(n.m, paths[i], NULL), FOLD_IO);
        CHECK_TEXT(fold_model_message(n.m), strerror(EIO));
        fold_model_clear_error(n.m);
        disk_begin(0);
        CHECK_INT(file_size(draft), -1);
        CHECK_INT(fold_model_load(other.m, paths[i], NULL), FOLD_OK);
        check_same_model(other.m, n.m);
        remove(paths[i]);
        fold_model_free(other.m);
        other = make_net(2);
    }
    fold_model_free(n.m);
    fold_model_free(other.m);
}

/* Folders, pipes, devices and links stay what they are. */
static void disk_no_file(void)
{
    static const char folder[] = "build/files_folder", fifo[] = "build/files_pipe", link[] = "build/files_link",
                      away[] = "build/files_link_to_nothing";
    const char *const paths[] = { folder, fifo, link, away };
    net n = make_net(1);
    FILE *file = fopen("build/files_target", "wb");
    fputs("target", file);
    fclose(file);
    for (int i = 0; i < 4; i++) i ? (void)unlink(paths[i]) : (void)rmdir(paths[i]);
    CHECK(!mkdir(folder, 0777) && !mkfifo(fifo, 0666) && !symlink("files_target", link) && !symlink("files_none", away));
    for (int i = 0; i < 4; i++) {
        char draft[64];
        struct stat before, after;
        snprintf(draft, sizeof draft, "%s.tmp", paths[i]);
        CHECK(!lstat(paths[i], &before));
        CHECK_INT(fold_model_save(n.m, paths[i], NULL), FOLD_IO);
        CHECK_TEXT(fold_model_message(n.m), "is not a regular file");
        CHECK_TEXT(fold_model_message(n.m), paths[i]);
        fold_model_clear_error(n.m);
        CHECK_INT(file_size(draft), -1);
        CHECK(!lstat(paths[i], &after) && before.st_mode == after.st_mode && before.st_ino == after.st_ino);
    }
    CHECK_INT(file_size("build/files_target"), 6);
    for (int i = 0; i < 4; i++) i ? (void)unlink(paths[i]) : (void)rmdir(paths[i]);
    remove("build/files_target");
    fold_model_free(n.m);
}
#endif

#ifndef _WIN32
/* Where there are no locks, what another saver to the same path is writing, or left when it died, is not touched. */
static void disk_without_locks(void)
{
    static const char path[] = "build/files_two.safetensors";
    enum { OTHERS = 3, LIMIT = 100 };
    char draft[64];
    net n = make_net(1);
#ifdef WATCHED_DISK
    disk_begin('L');
#endif
    for (int i = 0; i < LIMIT; i++) {
        snprintf(draft, sizeof draft, i ? "%s.%d.tmp" : "%s.tmp", path, i);
        remove(draft);
        FILE *file = i < OTHERS ? fopen(draft, "wb") : NULL;
        if (!file) continue;
        fputs("mine", file);
        fclose(file);
    }
    remove(path);
    CHECK_INT(fold_model_save(n.m, path, NULL), FOLD_OK);
    CHECK(file_size(path) > 1000);
    for (int i = 0; i < LIMIT; i++) {
        snprintf(draft, sizeof draft, i ? "%s.%d.tmp" : "%s.tmp", path, i);
        CHECK_INT(file_size(draft), i < OTHERS ? 4 : -1);
        FILE *file = fopen(draft, "wb");
        if (file) fclose(file);
    }
    CHECK_INT(fold_model_save(n.m, path, NULL), FOLD_IO);
    CHECK_TEXT(fold_model_message(n.m), "files_two.safetensors.tmp' and 99 more exist");
    for (int i = 0; i < LIMIT; i++) {
        snprintf(draft, sizeof draft, i ? "%s.%d.tmp" : "%s.tmp", path, i);
        remove(draft);
    }
    remove(path);
    fold_model_free(n.m);
#ifdef WATCHED_DISK
    disk_begin(0);
#endif
}
#endif

#ifdef WATCHED_DISK
static const char shared_path[] = "build/files_shared/model.safetensors", shared_draft[] = "build/files_shared/model.safetensors.tmp";

/* How many files lie in the folder of the shared path, and their bytes. */
static int shared_files(long *bytes)
{
    int count = 0;
    DIR *folder = opendir("build/files_shared");
    *bytes = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char path[300];
        snprintf(path, sizeof path, "build/files_shared/%.200s", entry->d_name);
        if (entry->d_name[0] == '.') continue;
        *bytes += file_size(path);
        count++;
    }
    if (folder) closedir(folder);
    return count;
}
/* A folder with nothing in it. */
static void shared_begin(void)
{
    long bytes;
    char path[80];
    disk_begin(0);
    mkdir("build/files_shared", 0777);
    remove(shared_path);
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, i ? "%s.%d.tmp" : "%s.tmp", shared_path, i);
        remove(path);
    }
    CHECK_INT(shared_files(&bytes), 0);
}
/* 40,000 values that are all `value`. */
static fold_model *model_of(int value)
{
    fold_model *m = fold_model_new(NULL);
    const fold_param big = fold_table_new(m, "big", 200, 200);
    float *values = fold_values_write_begin(m, big);
    for (int i = 0; i < 200 * 200; i++) values[i] = (float)value;
    fold_values_write_end(m, big);
    return m;
}
/* The value that a whole file holds, else -1. */
static int value_of_file(const char *path)
{
    fold_model *m = model_of(-1);
    const int bad = fold_model_load(m, path, NULL) != FOLD_OK;
    const float *values = fold_param_value(m, fold_param_find(m, "big"));
    const int value = bad ? -1 : (int)values[0];
    for (int i = 0; i < 200 * 200; i++) CHECK(values[i] == (float)value);
    fold_model_free(m);
    return value;
}

/* A saver that is killed leaves the file of before or the new one as a whole, and one draft, which the next saver removes. */
static void disk_killed_savers(void)
{
    static const char points[] = "LWFRD";
    long bytes, whole;
    shared_begin();
    fold_model *m = model_of(0);
    CHECK_INT(fold_model_save(m, shared_path, NULL), FOLD_OK);
    fold_model_free(m);
    shared_files(&whole);
    for (int i = 1, before = 0; i <= 300; i++) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (!child) {
            m = model_of(i);
            disk_dies = points[i % 5];
            fold_model_save(m, shared_path, NULL);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (points[i % 5] == 'D') before = i;
        CHECK_INT(value_of_file(shared_path), before);
        const int files = shared_files(&bytes);
        CHECK_SAYS(files <= 2 && bytes <= 2 * whole, "after %d killed savers %d files of %ld bytes", i, files, bytes);
    }
    m = model_of(1000);
    CHECK_INT(fold_model_save(m, shared_path, NULL), FOLD_OK);
    CHECK_INT(shared_files(&bytes), 1);
    for (int i = 0; i < 100; i++) { /* as an older fold.h left them */
        char draft[80];
        snprintf(draft, sizeof draft, i ? "%s.%d.tmp" : "%s.tmp", shared_path, i);
        FILE *file = fopen(draft, "wb");
        if (file) fclose(file);
    }
    CHECK_INT(fold_model_save(m, shared_path, NULL), FOLD_OK);
    CHECK_INT(shared_files(&bytes), 100);
    fold_model_free(m);
    shared_begin();
}

/* Another saver, in the same process, at a point of a save. */
static fold_model *other_saver;
static void save_meanwhile(void)
{
    CHECK_INT(fold_model_save(other_saver, shared_path, NULL), FOLD_OK);
    CHECK_INT(value_of_file(shared_path), 2);
}
/* Two savers meet at each point of a save: both succeed, the last name given wins, and no draft stays. Before the first has locked its
   draft the second takes it for one that was left, and removes it. */
static void disk_savers_meet(void)
{
    long bytes;
    fold_model *m = model_of(1);
    other_saver = model_of(2);
    for (const char *point = "LWFRD"; *point; point++) {
        shared_begin();
        disk_meets = *point;
        disk_meeting = save_meanwhile;
        CHECK_SAYS(fold_model_save(m, shared_path, NULL) == FOLD_OK, "%c: %s", *point, fold_model_message(m));
        CHECK_INT(value_of_file(shared_path), *point == 'D' ? 2 : 1);
        CHECK_SAYS(shared_files(&bytes) == 1, "%c: drafts are left", *point);
        fold_model_clear_error(m);
    }
    shared_begin();
    const int file = open(shared_draft, O_WRONLY | O_CREAT | O_EXCL, 0666);
    CHECK(file >= 0 && !rename(shared_draft, shared_path)); /* it was opened as a draft, and is the file by now */
    CHECK_INT(fold__disk_lock(file, shared_draft), 0);
    close(file);
    fold_model_free(m);
    fold_model_free(other_saver);
    shared_begin();
}

/* Processes that save to one path at the same time. */
static void disk_many_savers(void)
{
    enum { SAVERS = 4, SAVES = 40 };
    pid_t child[SAVERS];
    long bytes;
    shared_begin();
    fflush(stdout);
    for (int i = 0; i < SAVERS; i++) {
        if ((child[i] = fork()) != 0) continue;
        fold_model *m = model_of(i);
        int failed = 0;
        for (int save = 0; save < SAVES; save++) failed += fold_model_save(m, shared_path, NULL) != FOLD_OK;
        if (failed) puts(fold_model_message(m));
        fflush(stdout);
        _exit(failed);
    }
    for (int i = 0; i < SAVERS; i++) {
        int status = -1;
        CHECK(waitpid(child[i], &status, 0) == child[i]);
        CHECK_INT(status, 0);
    }
    const int value = value_of_file(shared_path);
    CHECK(value >= 0 && value < SAVERS);
    CHECK_INT(shared_files(&bytes), 1);
    shared_begin();
}

/* What has the name of a draft and is none stays: a folder, a pipe, a link and what it leads to. */
static void disk_no_draft(void)
{
    fold_model *m = model_of(1);
    for (int kind = 0; kind < 3; kind++) {
        struct stat there;
        shared_begin();
        FILE *target = fopen("build/files_target", "wb");
        fputs("target", target);
        fclose(target);
        CHECK(!(kind == 0 ? mkdir(shared_draft, 0777) : kind == 1 ? mkfifo(shared_draft, 0666) : symlink("../files_target", shared_draft)));
        CHECK_INT(fold_model_save(m, shared_path, NULL), FOLD_OK);
        CHECK(!lstat(shared_draft, &there) && !S_ISREG(there.st_mode));
        CHECK_INT(file_size("build/files_target"), 6);
        remove(shared_draft);
        remove("build/files_target");
    }
    fold_model_free(m);
    shared_begin();
}
#endif

/* Files of tests/check_safetensors.py: other orders, blanks, escapes, types, an empty tensor, a scalar. */
static void from_python(void)
{
    static const char *const type[] = { "F32", "F64", "F16", "BF16" };
    static const float values[6] = { 0, 0.5f, 1, 1.5f, 2, 2.5f };
    int found = 0;
    for (int i = 0; i < 4; i++) {
        char path[64], config[32], want[32];
        fold_load_desc d = fold_load_desc_default();
        snprintf(path, sizeof path, "build/python_%s.safetensors", type[i]);
        snprintf(want, sizeof want, "%s \xe2\x82\xac", type[i]);
        if (file_size(path) < 0) continue;
        found++;
        d.allow_unknown = 1;
        d.config = config;
        d.config_size = sizeof config;
        fold_model *m = fold_model_new(NULL);
        const fold_param W = fold_weight_new(m, "W", 2, 3), b = fold_bias_new(m, "\xc3\xbc\xf0\x9f\x8c\xb3", 1);
        if (!CHECK_INT(fold_model_load(m, path, &d), FOLD_OK)) puts(fold_model_message(m));
        CHECK_BITS(fold_param_value(m, W), values, 6);
        CHECK_NEAR(fold_param_value(m, b)[0], -1, 0);
        CHECK(!strcmp(config, want));
        fold_model_free(m);
    }
    if (found < 4) check_skip("files written by Python (%d of 4 are there)", found);
}

/* Bytes with a scale for each column, and for each row; and a file of ours with both, for Python. */
static void bytes_and_python(void)
{
    static const float columns[6] = { 0, 0.5f, 31.75f, 6, -63.5f, 1.25f }, rows[6] = { 0, 2, 254, 1.5f, -63.5f, 2.5f };
    static const char path[] = "build/python_I8.safetensors";
    fold_model_desc desc = fold_model_desc_default();
    const fold_quantize_desc small = { 1, 0, 0 };
    if (file_size(path) < 0) check_skip("bytes written by Python (they are not there)");
    else {
        fold_model *m = fold_model_new(NULL);
        const fold_param W = fold_weight_new(m, "W", 2, 3), T = fold_weight_new(m, "T", 2, 3);
        if (!CHECK_INT(fold_model_load(m, path, NULL), FOLD_OK)) puts(fold_model_message(m));
        CHECK_BITS(fold_param_value(m, W), columns, 6);
        CHECK_BITS(fold_param_value(m, T), rows, 6);
        fold_model_free(m);
    }
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    fold_param_desc d = fold_param_desc_default();
    d.name = "T";
    d.shape = fold_shape2(30, 7);
    d.uses = FOLD_FOR_LINEAR_T;
    d.init = FOLD_INIT_NORMAL;
    fold_param_new(m, &d);
    fold_weight_new(m, "W", 9, 33);
    fold_filter_new(m, "filter", fold_shape4(2, 2, 3, 17));
    fold_bias_new(m, "b", 33);
    fold_model_quantize(m, &small);
    CHECK_INT(fold_model_save(m, "build/files_bytes.safetensors", NULL), FOLD_OK);
    fold_model_free(m);
}

/* -- reading in place -------------------------------------------------------------------------- */

/* A network that reads weights in all ways: wide and narrow, beyond the last column, by rows, as filters, as operands. `V` is the last
   of the image, and its columns are no multiple of 16. */
typedef struct readers { fold_model *m; fold_param words, tied, gain, V; fold_conv conv, deep; fold_dense odd, head; fold_recurrent state; } readers;
enum { SEEN = 6, READERS_OUT = 3 };
static readers readers_in(fold_model *m)
{
    readers n;
    fold_conv_desc apart = { 0, 1, 0, 1 };
    fold_param_desc tied = fold_param_desc_default();
    n.m = m;
    n.words = fold_table_new(m, "words \"quoted\"", WORDS, 20);
    tied.name = "tied";
    tied.shape = fold_shape2(WORDS, 20);
    tied.uses = FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T;
    tied.init = FOLD_INIT_NORMAL;
    n.tied = fold_param_new(m, &tied);
    n.gain = fold_gain_new(m, "gain", 20);
    n.conv = fold_conv_new(m, "conv", fold_shape4(3, 3, 1, 20), NULL, FOLD_ACT_TANH);
    n.deep = fold_conv_new(m, "deep", fold_shape4(3, 3, 1, 20), &apart, FOLD_ACT_TANH);
    n.odd = fold_dense_new(m, "odd", 20, 40, FOLD_ACT_TANH);
    n.state = fold_gru_new(m, "state", 40, 16);
    n.head = fold_dense_new(m, "head", 16, 7, FOLD_ACT_LINEAR);
    n.V = fold_weight_new(m, "V", 16, 20);
    return n;
}
/* Three values that have read every parameter. */
static void readers_apply(fold_ctx *f, const readers *n, int sample, fold_node *out)
{
    const fold_node word = fold_lookup(f, n->words, sample % WORDS), other = fold_lookup(f, n->tied, (3 * sample) % WORDS);
    const fold_node x = fold_mul(f, fold_rms_norm(f, fold_add(f, word, other), n->gain, 0), fold_use(f, n->gain));
    const fold_node h = fold_recurrent_apply(f, &n->state, fold_dense_apply(f, &n->odd, x), fold_recurrent_zeros(f, &n->state)).h;
    const fold_node grid = fold_conv_apply(f, &n->conv, fold_reshape(f, fold_concat2(f, h, fold_slice(f, x, 0, 0, 9)), fold_shape3(5, 5, 1)));
    out[0] = fold_dense_apply(f, &n->head, h);
    out[1] = fold_linear_t(f, fold_linear(f, h, n->V, FOLD_NULL_PARAM), n->tied, FOLD_NULL_PARAM);
    out[2] = fold_sum(f, fold_conv_apply(f, &n->deep, grid), FOLD_ALL);
}
enum { READERS_FLOATS = 7 + WORDS + 1 };
static void readers_run(const readers *n, int eager, float *got)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    fold_node out[SEEN * READERS_OUT];
    d.eager = eager;
    fold_ctx *f = fold_ctx_new(n->m, &d);
    for (int sample = 0; sample < SEEN; sample++) readers_apply(f, n, sample, out + sample * READERS_OUT);
    CHECK_SAYS(fold_run(f, out, SEEN * READERS_OUT) == FOLD_OK, "%s", fold_ctx_message(f));
    for (int i = 0; i < SEEN * READERS_OUT; i++) {
        const size_t length = i % READERS_OUT == 0 ? 7 : i % READERS_OUT == 1 ? WORDS : 1;
        memcpy(got, fold_value(f, out[i]), length * sizeof *got);
        got += length;
    }
    fold_ctx_free(f);
}
static fold_model *inference_model(const char *isa)
{
    fold_model_desc d = fold_model_desc_default();
    d.inference = 1;
    d.isa = isa;
    d.seed = 7;
    return fold_model_new(&d);
}
/* Every value of a model is another. */
static void vary(fold_model *m)
{
    int count;
    float *values = fold_values_write_begin(m, FOLD_NULL_PARAM);
    fold_model_values(m, &count);
    for (int i = 0; i < count; i++) values[i] = (float)((i * 37) % 101 - 50) / 96;
    fold_values_write_end(m, FOLD_NULL_PARAM);
}
static int is_little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first;
}

static void in_place_error(fold_model *m, fold_status status, const char *says)
{
    CHECK_INT(fold_model_status(m), status);
    CHECK_TEXT(fold_model_message(m), says);
    fold_model_clear_error(m);
}

/* A network by a kernel set, with values; 0 where the machine lacks the set. */
static int varied_readers(const char *isa, readers *n)
{
    *n = readers_in(inference_model(isa));
    if (!fold_model_status(n->m)) {
        vary(n->m);
        return 1;
    }
    check_skip("read in place by %s (not on this machine, or not compiled in)", isa);
    fold_model_free(n->m);
    return 0;
}

static void in_place(void)
{
    static block file, again;
    static const char *const isas[] = { NULL, "portable", "avx2" };
    if (!is_little_endian()) {
        fold_model *m = inference_model(NULL);
        fold_model_read_in_place(m, "", 1);
        in_place_error(m, FOLD_BAD_STATE, "not little-endian");
        fold_model_free(m);
        return;
    }
    for (int set = 0; set < 3; set++) {
        float want[SEEN * READERS_FLOATS], got[SEEN * READERS_FLOATS];
        readers n;
        if (!varied_readers(isas[set], &n)) continue;
        readers_run(&n, 1, want);
        CHECK_INT(fold_model_save_to(n.m, to_block, empty_block(&file), NULL), FOLD_OK);
        const fold_model_size copied = fold_model_measure(n.m);
        fold_model_free(n.m);
        const block before = file;
        readers twice[2];
        for (int which = 0; which < 2; which++) {
            fold_model *m = inference_model(isas[set]);
            CHECK_INT(fold_model_read_in_place(m, file.bytes, file.n), FOLD_OK);
            twice[which] = readers_in(m);
            CHECK_SAYS(fold_model_status(m) == FOLD_OK, "%s", fold_model_message(m));
        }
        for (int which = 0; which < 4; which++) {
            const readers *mine = &twice[which % 2];
            if (which == 2) CHECK_INT(fold_model_seal(mine->m), FOLD_OK);
            readers_run(mine, which / 2, got);
            CHECK_SAYS(!memcmp(got, want, sizeof got), "%s, run %d: other bits than of a copy", fold_model_isa(mine->m), which);
        }
        const fold_model_size held = fold_model_measure(twice[0].m);
        CHECK_INT(held.values, 0);
        CHECK_SAYS(held.packs < copied.packs / 4, "%.0f bytes of packs, %.0f of a copy", (double)held.packs,
                   (double)copied.packs); /* tied and V */
        CHECK_INT(held.marks, 0);
        CHECK_INT(held.tracing, 0);
        for (int i = 0; i < fold_param_count(twice[1].m); i++) {
            const unsigned char *at = (const unsigned char *)fold_param_value(twice[1].m, fold_param_at(twice[1].m, i));
            CHECK(at > file.bytes && at < file.bytes + file.n);
        }
        CHECK_INT(fold_model_save_to(twice[1].m, to_block, empty_block(&again), NULL), FOLD_OK);
        CHECK(again.n == file.n && !memcmp(again.bytes, file.bytes, file.n));
        CHECK_INT(fold_model_quantize(twice[1].m, NULL), FOLD_OK);
        CHECK_INT(fold_param_quantized(twice[1].m, twice[1].odd.W).bits, 32); /* of 800 values */
        CHECK_INT(fold_param_quantized(twice[1].m, fold_param_find(twice[1].m, "state.W")).bits, 8);
        readers_run(&twice[1], 0, got);
        readers_run(&twice[1], 1, want);
        CHECK_SAYS(!memcmp(got, want, sizeof got), "%s: in bytes other bits than eager", fold_model_isa(twice[1].m));
        CHECK(!memcmp(&before, &file, sizeof file));
        for (int which = 0; which < 2; which++) fold_model_free(twice[which].m);
    }
}

/* Recurrent and tree layers set a part of a bias when they are made: not in an image, which has its values. */
static void recurrent_in_place(void)
{
    enum { WIDTH = 4 };
    static block file;
    const float x[WIDTH] = { 0.5f, -1, 2, 0.25f };
    float got[2][4 * WIDTH];
    for (int image = 0; image < 1 + is_little_endian(); image++) {
        fold_model *m = inference_model(NULL);
        if (image) CHECK_INT(fold_model_read_in_place(m, file.bytes, file.n), FOLD_OK);
        const fold_recurrent lstm = fold_lstm_new(m, "lstm", WIDTH, WIDTH), gru = fold_gru_new(m, "gru", WIDTH, WIDTH);
        const fold_tree_lstm tree = fold_tree_lstm_new(m, "tree", WIDTH, WIDTH, 2);
        const fold_child_sum sum = fold_child_sum_new(m, "sum", WIDTH, WIDTH);
        if (!CHECK_SAYS(!fold_model_status(m), "%s", fold_model_message(m))) return;
        if (!image) vary(m);
        if (!image) CHECK_INT(fold_model_save_to(m, to_block, empty_block(&file), NULL), FOLD_OK);
        fold_ctx *f = fold_ctx_new(m, NULL);
        const fold_node in = fold_input(f, x, WIDTH);
        fold_state pair[2];
        fold_node y[4];
        y[0] = fold_recurrent_apply(f, &lstm, in, fold_recurrent_zeros(f, &lstm)).h;
        y[1] = fold_recurrent_apply(f, &gru, in, fold_recurrent_zeros(f, &gru)).h;
        pair[0] = pair[1] = fold_tree_lstm_apply_leaf(f, &tree, in);
        y[2] = fold_tree_lstm_apply_inner(f, &tree, pair).h;
        y[3] = fold_child_sum_apply(f, &sum, in, pair, 2).h;
        CHECK_INT(fold_run(f, y, 4), FOLD_OK);
        CHECK_INT(fold_read(f, y, 4, got[image]), FOLD_OK);
        if (image) CHECK_BITS(got[1], got[0], 4 * WIDTH);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* A model of bytes beside one whose bytes are in an image, which takes no memory for them where products are plain loops. */
static void in_place_bytes(void)
{
    static block file, again;
    static const char *const isas[] = { NULL, "portable", "avx2" };
    static const fold_quantize_desc all = { 1, 1, 0 };
    if (!is_little_endian()) {
        check_skip("bytes read in place (little-endian machines do)");
        return;
    }
    for (int set = 0; set < 3; set++) {
        float want[SEEN * READERS_FLOATS], got[SEEN * READERS_FLOATS];
        readers n;
        if (!varied_readers(isas[set], &n)) continue;
        CHECK_INT(fold_model_quantize(n.m, &all), FOLD_OK);
        readers_run(&n, 1, want);
        CHECK_INT(fold_model_save_to(n.m, to_block, empty_block(&file), NULL), FOLD_OK);
        const fold_model_size copied = fold_model_measure(n.m);
        fold_model_free(n.m);
        fold_model *m = inference_model(isas[set]);
        CHECK_INT(fold_model_quantize(m, &all), FOLD_OK);
        CHECK_INT(fold_model_read_in_place(m, file.bytes, file.n), FOLD_OK);
        n = readers_in(m);
        CHECK_SAYS(fold_model_status(m) == FOLD_OK, "%s", fold_model_message(m));
        for (int run = 0; run < 4; run++) {
            if (run == 2) CHECK_INT(fold_model_seal(m), FOLD_OK);
            readers_run(&n, run % 2, got);
            CHECK_SAYS(!memcmp(got, want, sizeof got), "%s, run %d: other bits than of a copy", fold_model_isa(m), run);
        }
        const fold_model_size held = fold_model_measure(m);
        const int loops = !FOLD__PAIRS && !strcmp(fold_model_isa(m), "portable");
        CHECK_INT(held.values, 0);
        CHECK_SAYS(held.packs < (loops ? copied.packs / 8 : copied.packs), "%s: %.0f bytes of packs, %.0f of a copy", fold_model_isa(m),
                   (double)held.packs, (double)copied.packs);
        CHECK_INT(fold_param_quantized(m, n.words).bits, 8);
        CHECK_INT(fold_param_quantized(m, n.V).bits, 8);
        CHECK(!fold_param_value(m, n.V) && !fold_param_value(m, n.words) && fold_param_value(m, n.head.b));
        CHECK_INT(fold_model_save_to(m, to_block, empty_block(&again), NULL), FOLD_OK);
        CHECK(again.n == file.n && !memcmp(again.bytes, file.bytes, file.n));
        CHECK_INT(fold_model_quantize(m, &all), FOLD_OK); /* there is nothing left to do */
        readers_run(&n, 0, got);
        CHECK(!memcmp(got, want, sizeof got));
        fold_model_print(m, to_block, empty_block(&again));
        again.bytes[again.n] = 0;
        CHECK_TEXT((const char *)again.bytes, "8 bits, error 0  in place");
        CHECK_INT(fold_model_load_memory(m, file.bytes, file.n, NULL), FOLD_BAD_STATE);
        in_place_error(m, FOLD_OK, "load: words \"quoted\" is read in place and cannot be changed"); /* bytes, the first */
        CHECK(!fold_values_write_begin(m, n.V));
        in_place_error(m, FOLD_BAD_STATE, "fold_values_write_begin: parameter 'V' is read in place from an image");
        fold_model_free(m);
    }
}

/* Products of a weight whose bytes are all 5, with a scale of a half. */
static void sums_of_fives(fold_model *m, fold_param W, unsigned uses)
{
    const float x[6] = { 127, -3, 5, 0, 77, 1 };
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node in = fold_input(f, x, 6);
    const fold_node y = uses == FOLD_FOR_LINEAR_T ? fold_linear_t(f, in, W, FOLD_NULL_PARAM) : fold_linear(f, in, W, FOLD_NULL_PARAM);
    CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
    const int columns = fold_param_shape(m, W).dim[uses != FOLD_FOR_LINEAR_T];
    for (int j = 0; j < columns; j++) CHECK(fold_value(f, y)[j] == 2.5f * (127 - 3 + 5 + 77 + 1));
    fold_ctx_free(f);
}

/* What bytes in an image must be. The first of each row is what the model has of them, all files hold the same 160 bytes. */
static void in_place_bytes_errors(void)
{
#define SCALES(shape, begin, end) "{\"W.scale\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]},"
#define WEIGHT(shape, begin, end) "\"W\":{\"dtype\":\"I8\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}}"
    static const fold_quantize_desc all = { 1, 1, 0 };
    static const struct { int rank, rows, columns; unsigned uses; size_t data; const char *header; fold_status status; const char *says; } rows[] = {
        { 2, 6, 16, 0, 160, SCALES("[16]", "0", "64") WEIGHT("[6,16]", "64", "160"), FOLD_OK, "" },
        { 2, 16, 6, FOLD_FOR_LINEAR_T, 160, SCALES("[16,1]", "0", "64") WEIGHT("[16,6]", "64", "160"), FOLD_OK, "" },
        { 2, 6, 17, 0, 170, SCALES("[17]", "0", "68") WEIGHT("[6,17]", "68", "170"), FOLD_OK, "" },
        { 2, 18, 6, FOLD_FOR_LINEAR_T, 180, SCALES("[18,1]", "0", "72") WEIGHT("[18,6]", "72", "180"), FOLD_OK, "" },
        { 2, 6, 16, FOLD_FOR_LOOKUP, 120, SCALES("[6,1]", "0", "24") WEIGHT("[6,16]", "24", "120"), FOLD_OK, "" },
        { 2, 6, 16, FOLD_FOR_LOOKUP, 160, SCALES("[16]", "0", "64") WEIGHT("[6,16]", "64", "160"), FOLD_BAD_SHAPE,
          "read in place: W.scale has a scale a column; its use needs one a row" },
        { 2, 6, 16, 0, 120, SCALES("[6,1]", "0", "24") WEIGHT("[6,16]", "24", "120"), FOLD_BAD_SHAPE,
          "read in place: W.scale has a scale a row; its use needs one a column" },
        { 2, 6, 16, 0, 120, SCALES("[6]", "0", "24") WEIGHT("[6,16]", "24", "120"), FOLD_BAD_SHAPE,
          "load: W.scale is [6] in the file; scales of W are [16] or [6 x 1]" },
        { 2, 5, 16, 0, 160, SCALES("[16]", "0", "64") WEIGHT("[6,16]", "64", "160"), FOLD_BAD_SHAPE,
          "read in place: W is [6 x 16] in the image, [5 x 16] in the model" },
        { 2, 16, 6, 0, 88, SCALES("[6]", "0", "24") "\"X\":{\"dtype\":\"I8\",\"shape\":[64],\"data_offsets\":[24,88]}}", FOLD_BAD_ARGUMENT,
          "read in place: 'W' is not in the image" },
        { 2, 16, 6, 0, 120, SCALES("[6]", "0", "24") WEIGHT("[16,6]", "24", "120"), FOLD_BAD_ARGUMENT,
          "read in place: W is of type I8, but fold_model_quantize would keep it float" },
        { 2, 16, 16, FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T, 320, SCALES("[16]", "0", "64") WEIGHT("[16,16]", "64", "320"), FOLD_BAD_ARGUMENT,
          "read in place: W is of type I8, but fold_model_quantize would keep it float" },
        { 1, 16, 0, 0, 80, SCALES("[16]", "0", "64") WEIGHT("[16]", "64", "80"), FOLD_BAD_ARGUMENT,
          "read in place: W is of type I8, but fold_model_quantize would keep it float" },
        { 2, 6, 16, 0, 96, "{" WEIGHT("[6,16]", "0", "96"), FOLD_BAD_ARGUMENT, "load: W is of type I8, but its scales, 'W.scale', are not in the file" },
        { 2, 6, 16, 0, 162, "{\"A\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}," 
          "\"W.scale\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[2,66]}," WEIGHT("[6,16]", "66", "162"), FOLD_BAD_ARGUMENT,
          "read in place: W.scale is not aligned to 4 bytes; align the image" },
        { 2, 6, 16, 0, 160, SCALES("[16]", "64", "128") "\"U\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64]}," 
          "\"W\":{\"dtype\":\"I8\",\"shape\":[2,16],\"data_offsets\":[128,160]}}", FOLD_BAD_SHAPE,
          "read in place: W is [2 x 16] in the image, [6 x 16] in the model" },
    };
#undef SCALES
#undef WEIGHT
    static block file;
    if (!is_little_endian()) return;
    for (int wrong = 0; wrong < 6; wrong++)
        for (size_t i = 0; i < (wrong ? 1 : sizeof rows / sizeof *rows); i++) {
            static const float scale[] = { 0.5f, 0.5f, (float)NAN, -1, 0, 0.5f };
            static const char *const says[] = { "", "load: W has the int8 value -128", "load: W.scale has the scale nan, not in [0, ",
                                                "load: W.scale has the scale -1, not in [0, ", "load: W has the int8 value 5 with scale 0",
                                                "read in place: W is of type I8; call fold_model_quantize before creating it" };
            static const fold_status status[] = { FOLD_OK, FOLD_BAD_ARGUMENT, FOLD_BAD_ARGUMENT, FOLD_BAD_ARGUMENT, FOLD_BAD_ARGUMENT, FOLD_BAD_STATE };
            char header[512];
            strcpy(header, rows[i].header);
            while (strlen(header) % 4) strcat(header, " ");
            file_of(&file, header, rows[i].data);
            memset(file.bytes + file.n - rows[i].data, 5, rows[i].data);
            for (int k = 0; k < (i == 2 ? 17 : i == 3 ? 18 : 16); k++) memcpy(file.bytes + 8 + strlen(header) + 4 * k, &scale[wrong], 4);
            if (i == 14) memset(file.bytes + file.n - rows[i].data, 0x3e, 66); /* scales elsewhere */
            if (i == 4 || i == 6) memset(file.bytes + file.n - 96, 5, 96);
            if (wrong == 1) file.bytes[file.n - 1] = 0x80;
            fold_model *m = inference_model(NULL);
            if (wrong < 5) CHECK_INT(fold_model_quantize(m, &all), FOLD_OK);
            unsigned char *image = (unsigned char *)malloc(file.n);
            memcpy(image, file.bytes, file.n);
            CHECK_INT(fold_model_read_in_place(m, image, file.n), FOLD_OK);
            fold_param_desc d = fold_param_desc_default();
            d.name = "W";
            d.shape.rank = rows[i].rank;
            d.shape.dim[0] = rows[i].rows;
            d.shape.dim[1] = rows[i].columns;
            d.uses = rows[i].uses;
            const fold_param W = fold_param_new(m, &d);
            CHECK_INT(fold_model_status(m), wrong ? status[wrong] : rows[i].status);
            CHECK_TEXT(fold_model_message(m), wrong ? says[wrong] : rows[i].says);
            CHECK(fold_param_is_null(W) == (fold_model_status(m) != FOLD_OK));
            CHECK_INT(fold_param_quantized(m, W).bits, fold_model_status(m) ? 0 : 8);
            fold_model_clear_error(m);
            CHECK_INT(fold_param_count(m), !fold_param_is_null(W));
            if (!fold_param_is_null(W) && rows[i].uses != FOLD_FOR_LOOKUP) sums_of_fives(m, W, rows[i].uses);
            fold_model_free(m);
            free(image);
        }
}

/* Images that are cut or changed, in memory of exactly their size (so that sanitizers watch its ends): an error, or a network that
   runs. */
static void in_place_changed_of(int in_bytes)
{
    static block file;
    static float got[SEEN * READERS_FLOATS];
    static const fold_quantize_desc all = { 1, 1, 0 };
    check_random r = { 5 };
    int fine = 0;
    readers n = readers_in(inference_model(NULL));
    vary(n.m);
    if (in_bytes) fold_model_quantize(n.m, &all);
    CHECK_INT(fold_model_save_to(n.m, to_block, empty_block(&file), NULL), FOLD_OK);
    fold_model_free(n.m);
    const size_t header = 8 + (size_t)file.bytes[0] + 256 * (size_t)file.bytes[1];
    for (int i = 0; i < 400; i++) {
        const size_t size = i % 4 ? file.n : (size_t)random_below(&r, (int)file.n);
        unsigned char *image = (unsigned char *)malloc(size ? size : 1);
        memcpy(image, file.bytes, size);
        for (int changes = i % 4; changes > 1 && size; changes--)
            image[(size_t)random_below(&r, (int)(size < header ? size : header))] = (unsigned char)random_below(&r, 256);
        if (i % 4 == 1) /* a digit for another */
            for (size_t at = 8 + (size_t)random_below(&r, (int)header - 8); at < header; at++)
                if (image[at] >= '0' && image[at] <= '9') { image[at] = (unsigned char)('0' + random_below(&r, 10)); break; }
        n.m = inference_model(i % 8 < 4 ? NULL : "portable");
        if (in_bytes) fold_model_quantize(n.m, &all);
        fold_model_read_in_place(n.m, image, size);
        n = readers_in(n.m);
        if (!fold_model_status(n.m)) {
            fine++;
            readers_run(&n, i % 2, got);
        }
        fold_model_free(n.m);
        free(image);
    }
    CHECK_SAYS(fine > 4 && fine < 200, "%d of 400 images were fine", fine);
}
static void in_place_changed(void)
{
    for (int in_bytes = 0; in_bytes < 2 * is_little_endian(); in_bytes++) in_place_changed_of(in_bytes);
}

/* What cannot be done with an image, or with what is read in one. */
static void in_place_errors(void)
{
    static block file, said;
    static float values[16];
    if (!is_little_endian()) return;
    file_of(&file, "{\"W\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[0,64]},"
                   "\"half\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[64,72]}} ", 72);
    while ((file.n - 72) % 4) { /* a header of a multiple of 4 bytes */
        memmove(file.bytes + file.n - 71, file.bytes + file.n - 72, 72);
        file.bytes[file.n - 72] = ' ';
        file.bytes[0]++;
        file.n++;
    }
    fold_model *m = inference_model(NULL), *other = inference_model(NULL);
    CHECK_INT(fold_model_read_in_place(NULL, file.bytes, file.n), FOLD_BAD_ARGUMENT);
    fold_model_read_in_place(m, file.bytes, file.n - 1);
    in_place_error(m, FOLD_IO, "ends too early");
    fold_model_read_in_place(m, "no file at all", 14);
    in_place_error(m, FOLD_IO, "safetensors");
    CHECK(!fold_param_is_null(fold_weight_new(m, "own", 2, 2))); /* no image: as ever */
    memmove(file.bytes + 1, file.bytes, file.n);
    CHECK_INT(fold_model_read_in_place(m, file.bytes + 1, file.n), FOLD_OK);
    fold_weight_new(m, "W", 4, 4);
    in_place_error(m, FOLD_BAD_ARGUMENT, "W is not aligned to 4 bytes");
    memmove(file.bytes, file.bytes + 1, file.n);
    CHECK_INT(fold_model_read_in_place(m, file.bytes, file.n), FOLD_OK);
    fold_weight_new(m, "U", 4, 4);
    in_place_error(m, FOLD_BAD_ARGUMENT, "read in place: 'U' is not in the image; nearest: 'W'");
    fold_weight_new(m, "W", 4, 5);
    in_place_error(m, FOLD_BAD_SHAPE, "W is [4 x 4] in the image, [4 x 5] in the model");
    fold_bias_new(m, "half", 4);
    in_place_error(m, FOLD_BAD_ARGUMENT, "half is of type F16");
    CHECK_INT(fold_param_count(m), 1);
    const fold_param W = fold_weight_new(m, "W", 4, 4);
    CHECK(!fold_param_is_null(W) && fold_model_status(m) == FOLD_OK);
    CHECK(!fold_values_write_begin(m, W));
    in_place_error(m, FOLD_BAD_STATE, "'W' is read in place");
    CHECK(!fold_values_write_begin(m, FOLD_NULL_PARAM));
    in_place_error(m, FOLD_BAD_STATE, "'W' is read in place");
    fold_load_desc desc = fold_load_desc_default();
    desc.allow_missing = desc.allow_unknown = 1;
    CHECK_INT(fold_model_load_memory(m, file.bytes, file.n, &desc), FOLD_BAD_STATE);
    in_place_error(m, FOLD_OK, "W is read in place");
    CHECK_INT(fold_torch_close(fold_torch_open_memory(m, file.bytes, file.n)), FOLD_BAD_STATE);
    in_place_error(m, FOLD_OK, "read in place");
    fold_model_print(m, to_block, empty_block(&said));
    said.bytes[said.n] = 0;
    CHECK_TEXT((const char *)said.bytes, "in place");
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    const fold_node y = fold_linear(f, fold_input(f, values, 4), W, FOLD_NULL_PARAM);
    CHECK(fold_backward(f, fold_sum(f, y, FOLD_ALL)) != FOLD_OK && fold_ctx_message(f)[0]);
    fold_ctx_free(f);
    CHECK(!fold_param_grad(m, W));
    const fold_sgd sgd = { 0.1f, 0, 0 };
    fold_sgd_step(m, &sgd);
    in_place_error(m, FOLD_BAD_STATE, "inference");
    fold_param_desc own = fold_param_desc_default();
    own.name = "given";
    own.shape = fold_shape1(4);
    own.values = values;
    CHECK(!fold_param_is_null(fold_param_new(m, &own)));
    CHECK_INT(fold_model_read_in_place(m, NULL, 0), FOLD_OK);
    CHECK(!fold_param_is_null(fold_bias_new(m, "later", 4)));
    fold_weight_new(other, "own", 2, 2);
    fold_weight_new(other, "W", 4, 4);
    fold_param_new(other, &own);
    fold_bias_new(other, "later", 4);
    fold_values_copy(m, other);
    in_place_error(m, FOLD_BAD_STATE, "'W' is read in place");
    fold_values_copy(other, m);
    in_place_error(other, FOLD_BAD_STATE, "'W' is read in place in the other model");
    fold_values_average(other, m, 0.5f);
    in_place_error(other, FOLD_BAD_STATE, "'W' is read in place in the other model");
    fold_model_free(m);
    m = fold_model_new(NULL);
    fold_model_read_in_place(m, file.bytes, file.n);
    in_place_error(m, FOLD_BAD_STATE, "the model can be trained");
    CHECK_INT(fold_model_seal(NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_model_seal(m), FOLD_OK);
    fold_weight_new(m, "W", 4, 4);
    in_place_error(m, FOLD_BAD_STATE, "parameter 'W': the model is sealed");
    fold_cell_new(m, NULL);
    in_place_error(m, FOLD_BAD_STATE, "cell '': the model is sealed");
    fold_op_new(m, NULL);
    in_place_error(m, FOLD_BAD_STATE, "op '': the model is sealed");
    fold_model_free(m);
    fold_model_free(other);
}

/* Each parameter finds its own tensor, whatever its name: names of one hash (FNV-1a), names that end as those of scales do, and names
   that JSON writes in another way. */
static void in_place_names(void)
{
    static const char *const names[] = { "costarring", "liquid", "altarage", "zinke", "W", "W.scale", "W.scale.scale", ".scale", "scale",
                                         "W.scale.", "\"\\\n\xc3\xbc", "{}", "a:b,c" };
    enum { NAMES = sizeof names / sizeof *names };
    static block file;
    if (!is_little_endian()) return;
    fold_model *m = fold_model_new(NULL);
    for (int i = 0; i < NAMES; i++) fold_bias_new(m, names[i], 3);
    vary(m);
    CHECK_INT(fold_model_save_to(m, to_block, empty_block(&file), NULL), FOLD_OK);
    fold_model *other = inference_model(NULL);
    CHECK_INT(fold_model_read_in_place(other, file.bytes, file.n), FOLD_OK);
    for (int i = NAMES; i-- > 1;) {
        const fold_param mine = fold_param_find(m, names[i]), there = fold_bias_new(other, names[i], 3);
        if (CHECK_SAYS(!fold_model_status(other), "%s", fold_model_message(other)))
            CHECK_BITS(fold_param_value(other, there), fold_param_value(m, mine), 3);
    }
    fold_bias_new(other, "liquids", 3);
    in_place_error(other, FOLD_BAD_ARGUMENT, "'liquids' is not in the image");
    file_of(&file, "{}", 0);
    CHECK_INT(fold_model_read_in_place(other, file.bytes, file.n), FOLD_OK); /* another image, of nothing */
    fold_bias_new(other, names[0], 3);
    in_place_error(other, FOLD_BAD_ARGUMENT, "'costarring' is not in the image");
    fold_model_free(other);
    other = inference_model(NULL); /* bytes and their scales, of a name that ends as those of scales do */
    fold_weight_new(other, "V.scale", 64, 32);
    vary(other);
    CHECK_INT(fold_model_quantize(other, NULL), FOLD_OK);
    CHECK_INT(fold_model_save_to(other, to_block, empty_block(&file), NULL), FOLD_OK);
    fold_model_free(other);
    other = inference_model(NULL);
    CHECK_INT(fold_model_quantize(other, NULL), FOLD_OK);
    CHECK_INT(fold_model_read_in_place(other, file.bytes, file.n), FOLD_OK);
    fold_weight_new(other, "V.scale", 64, 32);
    CHECK_SAYS(!fold_model_status(other), "%s", fold_model_message(other));
    fold_model_free(m);
    fold_model_free(other);
}

/* A path of UTF-8 names the same file everywhere; on Windows that is for wide calls to say. One that is no UTF-8 is
   of the code page there, and any bytes elsewhere. */
static void names_beyond_ascii(void)
{
    static const char *const paths[] = { "build/files_gr\xc3\xbc\xc3\x9f.safetensors", "build/files_\xe9t\xe9.safetensors" };
    for (int i = 0; i < 2; i++) {
        fold_model *m = fold_model_new(NULL), *other = fold_model_new(NULL);
        fold_param b = fold_bias_new(m, "b", 2), c = fold_bias_new(other, "b", 2);
        const float values[] = { 3, -4 };
        memcpy(fold_values_write_begin(m, b), values, sizeof values);
        fold_values_write_end(m, b);
        for (int again = 0; again < 2; again++) /* the second replaces the first */
            CHECK_SAYS(!fold_model_save(m, paths[i], NULL), "%s", fold_model_message(m));
        CHECK_SAYS(!fold_model_load(other, paths[i], NULL), "%s", fold_model_message(other));
        CHECK_BITS(fold_param_value(other, c), values, 2);
        CHECK_TEXT(listed(m, paths[i], FOLD_OK), "b");
#ifdef _WIN32
        static const wchar_t *const wide[] = { L"build/files_gr\u00fc\u00df.safetensors", L"build/files_\u00e9t\u00e9.safetensors" };
        CHECK(!_wremove(wide[i]));
#else
        CHECK(!remove(paths[i]));
#endif
        fold_model_free(m);
        fold_model_free(other);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("files: names beyond ASCII", names_beyond_ascii);
    check_run("files: text from formats", formats);
    check_run("files: training continues", continues);
    check_run("files: frozen after some steps", frozen_later);
    check_run("files: counts of steps", counts_of_steps);
    check_run("files: a file without counts of steps", file_without_counts);
    check_run("files: counts of steps that are none", counts_that_are_none);
    check_run("files: contexts follow", contexts_follow);
    check_run("files: headers", bad_headers);
    check_run("files: cut and changed", cut_and_changed);
    check_run("files: out of memory", out_of_memory);
    check_run("files: types", types);
    check_run("files: types, whatever the host has set", types_whatever_the_host_has_set);
    check_run("files: settings", settings);
    check_run("files: settings of state", state_settings);
    check_run("files: names of states", names_of_states);
    check_run("files: how many were loaded", counts);
    check_run("files: listing", listing);
    check_run("files: what fails loses nothing", failing_loses_nothing);
    check_run("files: tensors of no file", tensors_of_no_file);
    check_run("files: saving that fails", cannot_save);
    check_run("files: paths", paths);
#ifdef WATCHED_DISK
    check_run("files: order of writing to disk", disk_order);
    check_run("files: never over what is no file", disk_no_file);
#endif
#ifndef _WIN32
    check_run("files: savers without locks", disk_without_locks);
#endif
#ifdef WATCHED_DISK
    check_run("files: savers that are killed", disk_killed_savers);
    check_run("files: two savers meet", disk_savers_meet);
    check_run("files: many savers to one path", disk_many_savers);
    check_run("files: no draft is removed that is none", disk_no_draft);
#endif
    check_run("files: from Python", from_python);
    check_run("files: bytes and Python", bytes_and_python);
    check_run("files: read in place", in_place);
    check_run("files: recurrent layers read in place", recurrent_in_place);
    check_run("files: bytes read in place", in_place_bytes);
    check_run("files: errors of bytes in place", in_place_bytes_errors);
    check_run("files: images that are cut and changed", in_place_changed);
    check_run("files: errors of reading in place", in_place_errors);
    check_run("files: names in an image", in_place_names);
    return check_finish();
}
