/* test_growth.c - what grows as its input does: work, memory, kernel calls. Work is counted, not timed (count_steps.h), so a bound
   is close, and holds on a machine that has other things to do.
       cc -O2 -o test_growth tests/test_growth.c -lm */

#if (defined(__unix__) || defined(__APPLE__)) && !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700
#endif
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#endif
#undef FOLD__MOVE_ARRAYS /* what is moved each time is moved ever more often */
#ifndef FOLD_ONLY_PORTABLE
#define FOLD_ONLY_PORTABLE /* work is the same with any kernels */
#endif
#include "count_steps.h"
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#include "check.h"

/* -- planning ---------------------------------------------------------------------------------------- */

/* What planning takes grows with the calls, whatever the number of kinds that feed each other in one long chain: memory, work, and
   the batches that it finds. The clock is of steps. */
static uint64_t clock_of_steps(void *user)
{
    (void)user;
    return (uint64_t)counted_steps;
}
static void many_kinds_in_a_circle(void)
{
    enum { CALLS = 6000, FEW = 50, MANY = 1500 };
    static fold_param matrix[MANY];
    fold_stats stats[2];
    fold_model *m = fold_model_new(NULL);
    const float x[2] = { 1, -2 };
    for (int i = 0; i < MANY; i++) {
        char name[12];
        snprintf(name, sizeof name, "%d", i);
        matrix[i] = fold_weight_new(m, name, 2, 2);
    }
    for (int many = 0; many < 2; many++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.clock = clock_of_steps;
        fold_ctx *f = fold_ctx_new(m, &d);
        fold_node h = fold_input(f, x, 2);
        for (int i = 0; i < CALLS; i++) h = fold_linear(f, h, matrix[i % (many ? MANY : FEW)], FOLD_NULL_PARAM);
        CHECK_INT(fold_backward(f, fold_sum(f, h, FOLD_ALL)), FOLD_OK);
        stats[many] = fold_ctx_stats(f);
        CHECK_INT(stats[many].batches, CALLS + 1);
        CHECK_INT(stats[many].lower_bound, CALLS + 1);
        fold_ctx_free(f);
    }
    CHECK_SAYS(stats[1].peak_bytes < 4 * stats[0].peak_bytes, "%lu bytes with many kinds, %lu with few", (unsigned long)stats[1].peak_bytes,
               (unsigned long)stats[0].peak_bytes);
    if (check.verbose) printf("planned in %lu and %lu steps\n", (unsigned long)stats[0].schedule_ns, (unsigned long)stats[1].schedule_ns);
    /* 30 times as many kinds, each planned once */
    CHECK_SAYS(stats[1].schedule_ns < 9 * stats[0].schedule_ns / 4, "planned in %lu steps with many kinds, in %lu with few",
               (unsigned long)stats[1].schedule_ns, (unsigned long)stats[0].schedule_ns);
    fold_model_free(m);
}

/* -- lists ------------------------------------------------------------------------------------------- */

/* A loss over many lists of a row, or one list of many rows; its gradient is 2 x. Returns the steps that it takes. */
static long long many(fold_model *m, int lists, int rows, int training, fold_stats *s)
{
    static float x[1000000];
    static fold_node loss[10000];
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < lists * rows; i++) x[i] = (float)(i % 7 - 3);
    const long long before = counted_steps;
    fold_node first = { 0, 0 };
    for (int i = 0; i < lists; i++) {
        const fold_node in = fold_list_input_ref(f, x + i * rows, rows, fold_shape1(1));
        if (!i) first = in;
        loss[i] = fold_list_sum(f, fold_square(f, in));
    }
    if (training) fold_keep_grad(f, first);
    const fold_node root = fold_sum_n(f, loss, lists);
    CHECK_SAYS(!(training ? fold_backward(f, root) : fold_run(f, &root, 1)), "%s", fold_ctx_message(f));
    const long long steps = counted_steps - before;
    double want = 0;
    for (int i = 0; i < lists * rows; i++) want += (double)x[i] * (double)x[i];
    CHECK_NEAR(fold_scalar(f, root), want, want * 1e-6);
    for (int i = 0; i < rows && training; i += 97) CHECK(fold_grad(f, first)[i] == 2 * x[i]);
    *s = fold_ctx_stats(f);
    fold_ctx_free(f);
    return steps;
}

/* Memory, kernel calls and work grow as the rows do: ten times, where squares would grow a hundred times. */
static void many_rows(void)
{
    static const int sizes[2][2][2] = { { { 1000, 1 }, { 10000, 1 } }, { { 1, 100000 }, { 1, 1000000 } } };
    fold_model *m = fold_model_new(NULL);
    for (int way = 0; way < 4; way++) {
        fold_stats s[2];
        long long work[2];
        for (int large = 0; large < 2; large++) {
            const int *size = sizes[way % 2][large];
            work[large] = many(m, size[0], size[1], way / 2, &s[large]);
        }
        if (check.verbose) printf("way %d: %lld and %lld steps\n", way, work[0], work[1]);
        CHECK_SAYS(work[1] <= 14 * work[0], "way %d: %lld and %lld steps", way, work[0], work[1]);
        CHECK_SAYS(s[1].peak_bytes < 14 * s[0].peak_bytes, "way %d: %zu and %zu bytes", way, s[0].peak_bytes, s[1].peak_bytes);
        CHECK_SAYS(s[1].kernel_calls <= 14 * s[0].kernel_calls, "way %d: %d and %d calls", way, s[0].kernel_calls, s[1].kernel_calls);
        const size_t rows = way % 2 ? 1000000 : 10000, each = s[1].peak_bytes / rows;
        CHECK_SAYS(each <= (way % 2 ? 128u : 1500u), "way %d: %zu bytes a row", way, each);
    }
    fold_model_free(m);
}

/* -- parameters -------------------------------------------------------------------------------------- */

typedef struct growing_file { size_t n, capacity; unsigned char *bytes; } growing_file;
static int to_growing(const void *bytes, size_t n, void *user)
{
    growing_file *file = (growing_file *)user;
    if (file->n + n > file->capacity) {
        file->capacity = 2 * (file->n + n);
        unsigned char *moved = (unsigned char *)realloc(file->bytes, file->capacity);
        if (!moved) return 1;
        file->bytes = moved;
    }
    memcpy(file->bytes + file->n, bytes, n);
    file->n += n;
    return 0;
}
static fold_model *model_of(int inference)
{
    fold_model_desc d = fold_model_desc_default();
    d.inference = inference;
    return fold_model_new(&d);
}
static fold_model *model_of_many(int inference, int columns, int count)
{
    fold_model *m = model_of(inference);
    for (int i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "layers.%d.weight", i);
        fold_weight_new(m, name, 2, columns);
    }
    return m;
}
static fold_status step_adam(fold_model *m)
{
    const fold_adam o = fold_adam_default();
    return fold_adam_step(m, &o);
}
static growing_file file_of_model(fold_model *m, int state)
{
    growing_file file = { 0, 0, NULL };
    fold_save_desc d = fold_save_desc_default();
    d.state = state;
    CHECK_INT(fold_model_save_to(m, to_growing, &file, &d), FOLD_OK);
    return file;
}

/* Each does what it does to a model of so many parameters, and returns the steps of that alone. */
typedef long long with_many(int count);
static long long make_each(int count)
{
    const long long before = counted_steps;
    fold_model *m = model_of_many(0, 2, count);
    const long long steps = counted_steps - before;
    fold_model_free(m);
    return steps;
}
static long long save_many(int count, int state, int quantised)
{
    const fold_quantize_desc all = { 1, 0, 0 };
    fold_model *m = model_of_many(quantised, 16, count);
    if (state) CHECK_INT(step_adam(m), FOLD_OK);
    if (quantised) CHECK_INT(fold_model_quantize(m, &all), FOLD_OK);
    const long long before = counted_steps;
    growing_file file = file_of_model(m, state);
    const long long steps = counted_steps - before;
    free(file.bytes);
    fold_model_free(m);
    return steps;
}
static long long save_floats(int count) { return save_many(count, 0, 0); }
static long long save_state(int count) { return save_many(count, 1, 0); }
static long long save_bytes(int count) { return save_many(count, 0, 1); }
static long long load_state(int count)
{
    fold_load_desc d = fold_load_desc_default();
    fold_model *m = model_of_many(0, 2, count);
    d.state = 1;
    CHECK_INT(step_adam(m), FOLD_OK);
    growing_file file = file_of_model(m, 1);
    const long long before = counted_steps;
    CHECK_INT(fold_model_load_memory(m, file.bytes, file.n, &d), FOLD_OK);
    const long long steps = counted_steps - before;
    free(file.bytes);
    fold_model_free(m);
    return steps;
}
static long long write_each(int count)
{
    fold_model *m = model_of_many(0, 2, count);
    const long long before = counted_steps;
    for (int i = 0; i < count; i++) {
        const fold_param param = fold_param_at(m, i);
        CHECK(fold_values_write_begin(m, param) && fold_grads_write_begin(m, param));
        fold_values_write_end(m, param);
        fold_grads_write_end(m, param);
    }
    const long long steps = counted_steps - before;
    fold_model_free(m);
    return steps;
}
static long long take_each_of_torch(int count)
{
    fold_model *m = model_of_many(0, 2, count), *taker = fold_model_new(NULL);
    growing_file file = file_of_model(m, 0);
    const long long before = counted_steps;
    fold_torch *torch = fold_torch_open_memory(taker, file.bytes, file.n);
    for (int i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "layers.%d", i);
        fold_torch_linear(torch, name, FOLD_ACT_LINEAR);
    }
    CHECK_INT(fold_torch_close(torch), FOLD_OK);
    const long long steps = counted_steps - before;
    free(file.bytes);
    fold_model_free(m);
    fold_model_free(taker);
    return steps;
}
static long long quantise_with_cells(int count)
{
    const fold_quantize_desc all = { 1, 0, 0 };
    fold_model *m = model_of(1);
    for (int i = 0; i < count / 8; i++) {
        char name[40];
        snprintf(name, sizeof name, "cell %d", i);
        fold_gru_new(m, name, 2, 16);
    }
    const long long before = counted_steps;
    CHECK_INT(fold_model_quantize(m, &all), FOLD_OK);
    const long long steps = counted_steps - before;
    fold_model_free(m);
    return steps;
}

/* What is done to every parameter is eight times the work for eight times as many, where the square is 64 times. */
static void many_parameters(void)
{
    static const struct { const char *name; with_many *steps; } each[] = {
        { "making each", make_each },
        { "saving", save_floats },           { "saving state", save_state },
        { "saving bytes", save_bytes },      { "loading state", load_state },
        { "writing each", write_each },
        { "taking each of PyTorch's", take_each_of_torch }, { "quantising with cells", quantise_with_cells }
    };
    enum { FEW = 250 };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const long long few = each[i].steps(FEW), many = each[i].steps(8 * FEW);
        CHECK_SAYS(many <= 12 * few, "%s: %d parameters took %lld steps, %d took %lld", each[i].name, FEW, few, 8 * FEW, many);
        if (check.verbose) printf("%s: %lld and %lld steps\n", each[i].name, few, many);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("growth: many kinds in a circle", many_kinds_in_a_circle);
    check_run("growth: many rows", many_rows);
    check_run("growth: many parameters", many_parameters);
    return check_finish();
}
