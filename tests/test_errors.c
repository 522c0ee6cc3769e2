/* test_errors.c - mistakes: calls in a cell's body that have no place there, mistaken reads, nothing to do, NULL and null
   handles at every public call. What a call says is tested with what it does.
       cc -O2 -o test_errors tests/test_errors.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_FIT_IMPLEMENTATION
#include "../examples/fold_fit.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#include "check.h"
#include <limits.h>
#include <stdlib.h>

static fold_ctx *context(fold_model *m, int training, int eager)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.eager = eager;
    return fold_ctx_new(m, &d);
}
static fold_node input2(fold_ctx *f, float a, float b)
{
    float x[2];
    x[0] = a;
    x[1] = b;
    return fold_input(f, x, 2);
}

/* -- in a body ------------------------------------------------------------------------------- */

enum { RUN, BACKWARD, VALUE, SCALAR, READ, GRAD, RESET, SEED, KEEP, KEEP_GRAD, MAKE, NOTHING, MISTAKES };
static int mistake, mistakes_when_eager;
static fold_model *body_model;
static fold_ctx *eager_context; /* calls the body; NULL: it is being traced */
static float seen;

static void inner_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_tanh(f, in[0]);
}
static fold_cell_desc cell_desc(const char *name, fold_cell_body *body)
{
    fold_cell_desc d = fold_cell_desc_default();
    d.name = name;
    d.body = body;
    d.n_in = 1;
    d.in[0] = fold_shape1(2);
    d.n_out = 1;
    return d;
}
static void mistaken_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const int eager = f == eager_context;
    fold_cell_desc d;
    float two[2];
    (void)user;
    out[0] = fold_tanh(f, in[0]);
    switch (eager == mistakes_when_eager ? mistake : NOTHING) {
    case RUN: CHECK_SAYS(fold_run(f, in, 1) == FOLD_BAD_CELL, "run in a body"); break;
    case BACKWARD: CHECK_SAYS(fold_backward(f, in[0]) == FOLD_BAD_CELL, "backward in a body"); break;
    case VALUE: CHECK_INT(fold_value(f, in[0]) != NULL, eager); break;
    case SCALAR:
        seen = fold_scalar(f, out[0]);
        CHECK(isnan(seen) != eager);
        break;
    case READ: CHECK_INT(fold_read(f, in, 1, two), eager ? FOLD_OK : FOLD_BAD_CELL); break;
    case GRAD: CHECK(!fold_grad(f, in[0])); break;
    case RESET: fold_ctx_reset(f); break;
    case SEED: fold_dropout_seed(f, 7); break;
    case KEEP: fold_keep(f, out[0]); break;
    case KEEP_GRAD: fold_keep_grad(f, out[0]); break;
    case MAKE:
        d = cell_desc("inner", inner_body);
        CHECK_INT(fold_cell_new(body_model, &d).id != 0, eager); /* made, but the call has an error */
        break;
    default: break;
    }
}

/* A body is traced before there are values: whoever asks for one is told. */
static void in_a_traced_body(void)
{
    static const char *const says[MISTAKES] = { "run: ",   "backward: ",        "value: ",           "scalar: ",
                                                "read: ",  "grad: ",            "fold_ctx_reset: ", "fold_dropout_seed: ",
                                                "keep: ",  "keep_grad: ",
                                                "'inner'", "" };
    mistakes_when_eager = 0;
    eager_context = NULL;
    for (mistake = 0; mistake < MISTAKES; mistake++) {
        fold_model *m = body_model = fold_model_new(NULL);
        const fold_cell_desc d = cell_desc("outer", mistaken_body);
        const fold_cell cell = fold_cell_new(m, &d);
        CHECK_SAYS((fold_model_status(m) == FOLD_BAD_CELL) == (mistake != NOTHING), "mistake %d: %s", mistake,
                   fold_model_message(m));
        CHECK_INT(cell.id != 0, mistake == NOTHING);
        CHECK_TEXT(fold_model_message(m), says[mistake]);
        if (mistake != NOTHING && mistake != MAKE) CHECK_TEXT(fold_model_message(m), "'outer'");
        if (mistake == SCALAR) CHECK_TEXT(fold_model_message(m), "eager");
        fold_model_clear_error(m); /* and all goes on */
        const fold_cell_desc good = cell_desc("good", inner_body);
        CHECK(fold_cell_new(m, &good).id != 0);
        fold_model_free(m);
    }
}

/* In an eager body there are values; what cannot be done there is told. */
static void in_an_eager_body(void)
{
    for (mistake = 0; mistake < MISTAKES; mistake++) {
        fold_model *m = body_model = fold_model_new(NULL);
        const int reads = mistake == VALUE || mistake == SCALAR || mistake == READ || mistake == GRAD ||
                          mistake == NOTHING;
        mistakes_when_eager = 1;
        eager_context = NULL;
        const fold_cell_desc d = cell_desc("outer", mistaken_body);
        const fold_cell cell = fold_cell_new(m, &d);
        fold_ctx *f = eager_context = context(m, 1, 1);
        const fold_node x = input2(f, 0.5f, -1);
        const fold_node y = fold_call(f, cell, &x, 1);
        CHECK_SAYS((fold_ctx_status(f) == FOLD_OK) == reads, "mistake %d: %s", mistake, fold_ctx_message(f));
        CHECK_INT(fold_node_is_null(y), !reads);
        if (!reads) CHECK_INT(fold_ctx_status(f), FOLD_BAD_CELL);
        if (mistake == KEEP_GRAD) CHECK_TEXT(fold_ctx_message(f), "keep_grad: not allowed in a cell body");
        if (mistake == SCALAR) CHECK_NEAR(seen, tanh(0.5), 1e-6);
        if (mistake == MAKE) CHECK_TEXT(fold_ctx_message(f), "cell 'inner': cells cannot be created");
        mistakes_when_eager = 2; /* no more */
        fold_model_clear_error(m);
        fold_ctx_reset(f);
        const fold_node again = input2(f, 0.5f, -1);
        CHECK_INT(fold_backward(f, fold_sum(f, fold_call(f, cell, &again, 1), FOLD_ALL)), FOLD_OK);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* An eager body sees the elements of its list as one node, which has no value of its own. */
static void list_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_sum(f, in[0]);
    if (f != eager_context) return;
    CHECK(!fold_value(f, in[0]));
    CHECK_TEXT(fold_ctx_message(f), "represents the elements of a list");
    CHECK_INT(fold_node_shape(f, in[0]).dim[0], 2);
    CHECK_NEAR(fold_scalar(f, out[0]), 4, 0);
}
static void in_an_eager_list_body(void)
{
    fold_model *m = body_model = fold_model_new(NULL);
    fold_cell_desc d = cell_desc("list", list_body);
    d.n_in = 0;
    d.n_list = 1;
    d.list[0] = fold_shape1(2);
    eager_context = NULL;
    const fold_cell cell = fold_cell_new(m, &d);
    CHECK_TEXT(fold_model_message(m), "");
    fold_ctx *f = eager_context = context(m, 1, 1);
    const fold_node list[2] = { input2(f, 1, 2), input2(f, 3, 4) };
    const fold_node sum = fold_call_n(f, cell, NULL, 0, list, 2);
    CHECK_NEAR(fold_value(f, sum)[1], 6, 0);
    CHECK_INT(fold_ctx_status(f), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- mistaken reads -------------------------------------------------------------------------- */

/* A message has this text and no other. */
static void expect_message(fold_ctx *f, const char *text)
{
    CHECK_SAYS(!strcmp(fold_ctx_message(f), text), "\"%s\" is not \"%s\"", fold_ctx_message(f), text);
}

/* What is read too early is not said to be left out. */
static void reads_before_a_run(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = context(m, 1, 0), *eager = context(m, 1, 1);
    float two[2];
    for (int turn = 0; turn < 2; turn++) {
        const fold_node x = input2(f, 1, 2), inside = fold_tanh(f, x), y = fold_sum(f, inside, FOLD_ALL);
        CHECK(fold_value(f, x) && !fold_value(f, y));
        expect_message(f, "value: nothing has been run yet");
        CHECK(isnan(fold_scalar(f, y)));
        expect_message(f, "scalar: nothing has been run yet");
        CHECK(!fold_grad(f, x));
        expect_message(f, "grad: nothing has been run yet");
        CHECK_INT(fold_read(f, &y, 1, two), FOLD_BAD_STATE);
        expect_message(f, "read: nothing has been run yet");
        CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        CHECK(!isnan(fold_scalar(f, y)) && isnan(fold_scalar(f, inside)));
        expect_message(f, "scalar: node 2 (tanh) was not kept; make it a root, or fold_keep it before the run");
        CHECK(!fold_grad(f, x));
        expect_message(f, "grad: node 1 (input) has no gradient; call fold_keep_grad before fold_backward");
        fold_ctx_reset(f); /* and all is as it was */
    }
    const fold_node x = input2(eager, 1, 2), y = fold_sum(eager, x, FOLD_ALL);
    CHECK_NEAR(fold_scalar(eager, y), 3, 0);
    CHECK(!fold_grad(eager, x));
    expect_message(eager, "grad: nothing has been run yet");
    const fold_node rows = fold_list_input(f, two, 2, fold_shape1(1));
    CHECK(isnan(fold_scalar(f, rows)));
    expect_message(f, "scalar: node 1 (input) is a list");
    fold_ctx_free(f);
    fold_ctx_free(eager);
    fold_model_free(m);
}

static void mistaken_reads(void)
{
    for (int eager = 0; eager < 2; eager++) {
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = context(m, 1, eager), *other = context(m, 1, eager);
        const fold_node null = { 0, 0 }, old = input2(f, 5, 6), theirs = input2(other, 7, 8);
        float two[4] = { 0, 0, 0, 0 };
        fold_ctx_reset(f);
        const fold_node x = input2(f, 1, 2), inside = fold_scale(f, x, 2), y = fold_shift(f, inside, 1);
        fold_keep_grad(f, x);
        CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        CHECK_TEXT(fold_ctx_message(f), "");
        for (int way = 0; way < 9; way++) {
            const fold_node two_sizes[2] = { y, fold_sum(f, y, FOLD_ALL) }, bad[2] = { y, null };
            CHECK_INT(fold_run(f, two_sizes, 2), FOLD_OK);
            const char *says = "";
            switch (way) {
            case 0:
                if (eager) continue; /* there it is kept */
                CHECK(!fold_value(f, inside));
                says = "fold_keep it before the run";
                break;
            case 1:
                if (eager) continue;
                CHECK_INT(fold_read(f, &inside, 1, two), FOLD_BAD_STATE);
                says = "read: node 2 (scale) was not kept";
                break;
            case 2: CHECK(!fold_grad(f, y)); says = "fold_keep_grad before fold_backward"; break;
            case 3: CHECK(!fold_value(f, old)); says = "from before the last fold_ctx_reset"; break;
            case 4: CHECK(isnan(fold_scalar(f, theirs))); says = "another context"; break;
            case 5: CHECK_INT(fold_node_shape(f, old).rank, 0); says = "node_shape: "; break;
            case 6: CHECK_INT(fold_read(f, two_sizes, 2, two), FOLD_BAD_SHAPE); says = "x[1] has 1 values"; break;
            case 7: CHECK_INT(fold_read(f, bad, 2, two), FOLD_BAD_ARGUMENT); says = "null"; break;
            default: CHECK_INT(fold_read(f, NULL, 2, two), FOLD_BAD_ARGUMENT); says = "NULL"; break;
            }
            CHECK_TEXT(fold_ctx_message(f), says);
            CHECK_SAYS(fold_ctx_status(f) == FOLD_OK, "read %d: %s", way, fold_ctx_message(f));
            CHECK(fold_value(f, y) && fold_value(f, y)[1] == 5);
            CHECK_INT(strlen(fold_ctx_message(f)), 0); /* of the last read */
            CHECK_INT(fold_read(f, &y, 1, two), FOLD_OK);
            CHECK(two[0] == 3 && two[1] == 5);
            const fold_node z = fold_square(f, y);
            CHECK_INT(fold_run(f, &z, 1), FOLD_OK);
            CHECK_NEAR(fold_value(f, z)[0], 9, 0);
        }
        CHECK_INT(fold_backward(f, fold_sum(f, y, FOLD_ALL)), FOLD_OK);
        CHECK_NEAR(fold_grad(f, x)[0], 2, 0);
        fold_ctx_free(f);
        fold_ctx_free(other);
        fold_model_free(m);
    }
}

/* An error of recording stays whatever is read. */
static void reads_keep_errors(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = context(m, 0, 0);
    const fold_node null = { 0, 0 }, x = input2(f, 1, 2);
    fold_reshape(f, x, fold_shape1(3));
    CHECK(!fold_value(f, null));
    CHECK_INT(fold_ctx_status(f), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_ctx_message(f), "reshape");
    CHECK_INT(fold_read(f, &x, 1, NULL), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_ctx_message(f), "reshape");
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- wrong settings --------------------------------------------------------------------------- */

static void in_order(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    for (int i = 0; i < n; i++) task(i, user);
}
static void *some_memory(size_t size, size_t align, void *user)
{
    (void)align;
    (void)user;
    CHECK_SAYS(!size, "an allocator without free is asked for memory");
    return NULL;
}
static int to_nowhere(const void *bytes, size_t size, void *user)
{
    (void)bytes;
    (void)size;
    (void)user;
    return 0;
}

static int seen_nothing(const fold_seen *call, void *user)
{
    (void)call;
    (void)user;
    return 0;
}

/* A context of wrong settings says so, does nothing else, and no reset makes it forget that. */
static void wrong_settings(void)
{
    static double block[64];
    int least[7] = { 0 }; /* bytes of a block */
    for (int way = 0; way < 7; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_ctx_desc d = fold_ctx_desc_default();
        const char *says = "";
        d.training = way & 1;
        switch (way) {
        case 0: d.schedule = FOLD_SCHEDULE_COUNT; says = "schedule is 3"; break;
        case 1: d.threads = -2; says = "threads is -2"; break;
        case 2: d.threads = 4; says = "threads is 4, but parallel_for is NULL"; break;
        case 3: d.memory.alloc = some_memory; says = "memory.alloc is set, but memory.free is NULL"; break;
        case 4:
            d.memory.block = (void *)((uintptr_t)block / 64 * 64 + 65); /* 63 bytes before a multiple of 64 */
            d.memory.block_size = 100;
            says = " bytes (see fold_ctx_desc.measure)";
            break;
        case 5:
            d.memory.block = (void *)((uintptr_t)block / 64 * 64 + 64);
            d.memory.block_size = 100;
            says = " bytes (see fold_ctx_desc.measure)";
            break;
        default: d.threads = 4; d.parallel_for = in_order; /* nothing is wrong */
        }
        fold_ctx *f = fold_ctx_new(m, &d);
        CHECK(f != NULL);
        sscanf(fold_ctx_message(f), "fold_ctx_desc: memory.block_size is 100, a context alone needs %d", &least[way]);
        for (int turn = 0; turn < 2 && *says; turn++) {
            CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
            CHECK_TEXT(fold_ctx_message(f), says);
            const fold_node x = input2(f, 1, 2);
            CHECK(fold_node_is_null(x) && !fold_value(f, x));
            CHECK_INT(fold_run(f, &x, 1), FOLD_BAD_ARGUMENT);
            CHECK_INT(fold_backward(f, x), FOLD_BAD_ARGUMENT);
            CHECK_INT(fold_ctx_print(f, to_nowhere, NULL), FOLD_OK);
            CHECK_INT(fold_ctx_visit(f, seen_nothing, NULL), FOLD_OK);
            CHECK_INT(fold_ctx_visit_times(f, seen_nothing, NULL), FOLD_OK);
            CHECK_INT(fold_ctx_stats(f).nodes, 0);
            CHECK(fold_ctx_model(f) == m);
            CHECK_TEXT(fold_ctx_message(f), says);
            fold_ctx_reset(f);
        }
        if (!*says) CHECK_INT(fold_ctx_status(f), FOLD_OK);
        CHECK_INT(fold_model_status(m), FOLD_OK);
        fold_ctx_free(f);
        f = context(m, 0, 0); /* the model is none the worse */
        const fold_node x = input2(f, 1, 2);
        CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
        fold_ctx_free(f);
        fold_model_free(m);
    }
    CHECK(least[5] > 100);
    CHECK_INT(least[4], least[5] + 63); /* as much as lies before the first multiple of 64 */
}

/* A model of threads that nothing can run says so; when that is forgotten, its steps are made on one. */
static void wrong_threads_of_a_model(void)
{
    static const char *const says[3] = { "fold_model_desc: threads is -2", "fold_model_desc: threads is 4, but parallel_for is NULL", "" };
    for (int way = 0; way < 3; way++) {
        fold_model_desc d = fold_model_desc_default();
        d.threads = way ? 4 : -2;
        d.parallel_for = way < 2 ? NULL : in_order;
        fold_model *m = fold_model_new(&d);
        CHECK_INT(fold_model_status(m), way < 2 ? FOLD_BAD_ARGUMENT : FOLD_OK);
        CHECK_TEXT(fold_model_message(m), says[way]);
        CHECK_INT(fold_param_is_null(fold_bias_new(m, "b", 2)), way < 2);
        fold_model_clear_error(m);
        fold_bias_new(m, "c", 2);
        const fold_sgd sgd = { 0.1f, 0, 0 };
        CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
        fold_model_free(m);
    }
}

/* -- nothing to do --------------------------------------------------------------------------- */

static void nothing_to_do(void)
{
    for (int way = 0; way < 4; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = context(m, way & 1, way >> 1);
        float one = 3;
        for (int frame = 0; frame < 3; frame++) { /* with no agents, with some, with none */
            fold_ctx_reset(f);
            CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
            CHECK_INT(fold_read(f, NULL, 0, NULL), FOLD_OK);
            CHECK_INT(fold_read(f, NULL, 0, &one), FOLD_OK);
            const fold_node x = frame == 1 ? input2(f, 1, 2) : fold_zeros(f, fold_shape1(2));
            CHECK_INT(fold_run(f, &x, 0), FOLD_OK);
            const fold_node kept = fold_shift(f, x, 1);
            fold_keep(f, kept);
            CHECK_INT(fold_run(f, NULL, 0), FOLD_OK); /* what is kept runs all the same */
            CHECK(fold_value(f, kept) && fold_value(f, kept)[0] == (frame == 1 ? 2 : 1));
            CHECK_INT(fold_ctx_stats(f).run_nodes, way >> 1 ? 0 : 1);
        }
        CHECK_NEAR(one, 3, 0);
        CHECK_INT(fold_run(f, NULL, 1), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_ctx_message(f), "run: roots is NULL");
        fold_ctx_reset(f);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* -- NULL and null handles ------------------------------------------------------------------- */

/* What every public call is given: no context and model or good ones, no arrays and structs or zeros, counts of all
   kinds. Handles are null. */
typedef struct given {
    fold_model *m;
    fold_ctx *f;
    int n;
    const char *name;
    fold_node *nodes;
    fold_state *states;
    float *floats;
    int *ints;
    const void *zeros;
    fold_writer *write;
    fold_recurrent_maker *make;
    fold_random *random;
    fold_cache *cache;
} given;

/* All public functions but those of fold_pool, which test_threads calls: what they give without a context or a model,
   name, arguments. Those of test_threads are in the list below it. */
#define ZERO(type) (const type *)g->zeros
static va_list no_arguments; /* a format that is NULL reads none */
#define PUBLIC_CALLS(X) \
    X(VOID, fold_shape1, (g->n)) \
    X(VOID, fold_shape2, (g->n, g->n)) \
    X(VOID, fold_shape3, (g->n, g->n, g->n)) \
    X(VOID, fold_shape4, (g->n, g->n, g->n, g->n)) \
    X(VOID, fold_status_text, (FOLD_OK)) \
    X(VOID, fold_to_file, (NULL, 0, NULL)) \
    X(VOID, fold_model_desc_default, ()) \
    X(MODEL, fold_model_new, (ZERO(fold_model_desc))) \
    X(VOID, fold_model_free, (NULL)) \
    X(STATUS, fold_model_status, (m)) \
    X(TEXT, fold_model_message, (m)) \
    X(STATUS, fold_model_fail, (m, FOLD_BAD_ARGUMENT, NULL)) \
    X(VOID, fold_format, (NULL, 0, NULL, no_arguments)) \
    X(STATUS, fold_ctx_fail, (f, FOLD_BAD_ARGUMENT, NULL)) \
    X(VOID, fold_model_memory, (m)) \
    X(VOID, fold_model_clear_error, (m)) \
    X(TEXT, fold_model_isa, (m)) \
    X(VOID, fold_model_measure, (m)) \
    X(STATUS, fold_model_reserve, (m, ZERO(fold_model_size))) \
    X(VOID, fold_param_desc_default, ()) \
    X(HANDLE, fold_param_new, (m, ZERO(fold_param_desc))) \
    X(HANDLE, fold_weight_new, (m, g->name, g->n, g->n)) \
    X(HANDLE, fold_bias_new, (m, g->name, g->n)) \
    X(HANDLE, fold_gain_new, (m, g->name, g->n)) \
    X(HANDLE, fold_filter_new, (m, g->name, shape)) \
    X(HANDLE, fold_table_new, (m, g->name, g->n, g->n)) \
    X(HANDLE, fold_param_find, (m, g->name)) \
    X(NUMBER, fold_param_count, (m)) \
    X(HANDLE, fold_param_at, (m, g->n)) \
    X(TEXT, fold_param_name, (m, param)) \
    X(SHAPE, fold_param_shape, (m, param)) \
    X(VOID, fold_param_freeze, (m, param, g->n)) \
    X(POINTER, fold_param_value, (m, param)) \
    X(POINTER, fold_param_grad, (m, param)) \
    X(POINTER, fold_model_values, (m, g->ints)) \
    X(POINTER, fold_model_grads, (m, g->ints)) \
    X(POINTER, fold_values_write_begin, (m, param)) \
    X(VOID, fold_values_write_end, (m, param)) \
    X(POINTER, fold_grads_write_begin, (m, param)) \
    X(VOID, fold_grads_write_end, (m, param)) \
    X(NUMBER, fold_grads_rows, (m, param, g->n, g->ints)) \
    X(VOID, fold_grads_write_rows_end, (m, param, g->ints, g->n)) \
    X(STATUS, fold_values_copy, (m, m)) \
    X(STATUS, fold_values_fill, (m, NULL, ZERO(fold_array), g->n)) \
    X(STATUS, fold_values_average, (m, NULL, 0.5f)) \
    X(VOID, fold_quantize_desc_default, ()) \
    X(STATUS, fold_model_quantize, (m, NULL)) \
    X(STATUS, fold_model_seal, (m)) \
    X(VOID, fold_param_quantized, (m, param)) \
    X(VOID, fold_model_scale_rates, (m, g->n, 0.5f, 0.5f)) \
    X(VOID, fold_ctx_desc_default, ()) \
    X(VOID, fold_clock_monotonic, (NULL)) \
    X(CONTEXT, fold_ctx_new, (m, ZERO(fold_ctx_desc))) \
    X(VOID, fold_ctx_free, (NULL)) \
    X(POINTER, fold_ctx_model, (f)) \
    X(VOID, fold_ctx_reset, (f)) \
    X(STATUS, fold_ctx_status, (f)) \
    X(TEXT, fold_ctx_message, (f)) \
    X(VOID, fold_dropout_seed, (f, 1)) \
    X(VOID, fold_node_is_null, (node)) \
    X(VOID, fold_param_is_null, (param)) \
    X(NODE, fold_input, (f, g->floats, g->n)) \
    X(NODE, fold_input_shaped, (f, g->floats, shape)) \
    X(NODE, fold_input_bytes, (f, (const uint8_t *)g->floats, shape, 0.5f)) \
    X(NODE, fold_list_input_bytes, (f, (const uint8_t *)g->floats, g->n, shape, 0.5f)) \
    X(NODE, fold_input_ref, (f, g->floats, shape)) \
    X(NODE, fold_constant, (f, 0.5f)) \
    X(NODE, fold_one_hot, (f, g->n, g->n)) \
    X(NODE, fold_zeros, (f, shape)) \
    X(NODE, fold_lookup, (f, param, g->n)) \
    X(NODE, fold_use, (f, param)) \
    X(NODE, fold_shared, (f, node)) \
    X(NODE, fold_linear, (f, node, param, param)) \
    X(NODE, fold_linear_n, (f, g->nodes, g->n, param, param)) \
    X(NODE, fold_linear_first, (f, node, param, param)) \
    X(NODE, fold_linear_then, (f, node, node, param)) \
    X(NODE, fold_linear_t, (f, node, param, param)) \
    X(VOID, fold_conv_desc_default, ()) \
    X(NODE, fold_conv2d, (f, node, param, param, ZERO(fold_conv_desc))) \
    X(NODE, fold_conv1d, (f, node, param, param, ZERO(fold_conv_desc))) \
    X(NODE, fold_max_pool2d, (f, node, g->n, g->n, g->n)) \
    X(NODE, fold_max_pool1d, (f, node, g->n, g->n, g->n)) \
    X(NODE, fold_mean_pool2d, (f, node, g->n, g->n, g->n)) \
    X(NODE, fold_mean_pool1d, (f, node, g->n, g->n, g->n)) \
    X(NODE, fold_matmul, (f, node, node)) \
    X(NODE, fold_dot, (f, node, node)) \
    X(NODE, fold_add, (f, node, node)) \
    X(NODE, fold_sub, (f, node, node)) \
    X(NODE, fold_mul, (f, node, node)) \
    X(NODE, fold_div, (f, node, node)) \
    X(NODE, fold_minimum, (f, node, node)) \
    X(NODE, fold_maximum, (f, node, node)) \
    X(NODE, fold_scale, (f, node, 0.5f)) \
    X(NODE, fold_shift, (f, node, 0.5f)) \
    X(NODE, fold_neg, (f, node)) \
    X(NODE, fold_exp, (f, node)) \
    X(NODE, fold_log, (f, node)) \
    X(NODE, fold_sqrt, (f, node)) \
    X(NODE, fold_square, (f, node)) \
    X(NODE, fold_abs, (f, node)) \
    X(NODE, fold_sigmoid, (f, node)) \
    X(NODE, fold_tanh, (f, node)) \
    X(NODE, fold_relu, (f, node)) \
    X(NODE, fold_leaky_relu, (f, node, 0.5f)) \
    X(NODE, fold_gelu_tanh, (f, node)) \
    X(NODE, fold_softplus, (f, node)) \
    X(NODE, fold_gelu, (f, node)) \
    X(NODE, fold_silu, (f, node)) \
    X(NODE, fold_elu, (f, node, 0.5f)) \
    X(NODE, fold_sin, (f, node)) \
    X(NODE, fold_cos, (f, node)) \
    X(NODE, fold_pow, (f, node, 0.5f)) \
    X(NODE, fold_floor, (f, node)) \
    X(NODE, fold_clip, (f, node, 0, 0.5f)) \
    X(NODE, fold_at_least, (f, node, 0.5f)) \
    X(NODE, fold_at_most, (f, node, 0.5f)) \
    X(NODE, fold_softmax, (f, node)) \
    X(NODE, fold_log_softmax, (f, node)) \
    X(NODE, fold_sum, (f, node, g->n)) \
    X(NODE, fold_mean, (f, node, g->n)) \
    X(NODE, fold_amax, (f, node, g->n)) \
    X(NODE, fold_amin, (f, node, g->n)) \
    X(NODE, fold_variance, (f, node, g->n)) \
    X(NODE, fold_logsumexp, (f, node, g->n)) \
    X(NODE, fold_prod, (f, node, g->n)) \
    X(NODE, fold_cumsum, (f, node, g->n)) \
    X(NODE, fold_layer_norm, (f, node, param, param, 0.5f)) \
    X(NODE, fold_rms_norm, (f, node, param, 0.5f)) \
    X(NODE, fold_standardize, (f, node, node, node, 0.5f)) \
    X(NODE, fold_dropout, (f, node, 0.5f)) \
    X(NODE, fold_sum_n, (f, g->nodes, g->n)) \
    X(NODE, fold_mean_n, (f, g->nodes, g->n)) \
    X(NODE, fold_max_n, (f, g->nodes, g->n)) \
    X(NODE, fold_softmax_mean_n, (f, g->nodes, g->nodes, g->n)) \
    X(NODE, fold_concat, (f, g->nodes, g->n, g->n)) \
    X(NODE, fold_concat2, (f, node, node)) \
    X(NODE, fold_stack, (f, g->nodes, g->n)) \
    X(VOID, fold_unstack, (f, node, g->n, g->nodes)) \
    X(NODE, fold_slice, (f, node, g->n, g->n, g->n)) \
    X(VOID, fold_split, (f, node, g->n, g->nodes)) \
    X(NODE, fold_reshape, (f, node, shape)) \
    X(NODE, fold_transpose, (f, node, g->n, g->n)) \
    X(NODE, fold_pick, (f, node, g->n)) \
    X(NODE, fold_select, (f, node, node, node)) \
    X(NODE, fold_stop_gradient, (f, node)) \
    X(NODE, fold_softmax_xent, (f, node, g->n)) \
    X(NODE, fold_softmax_kl, (f, node, node)) \
    X(NODE, fold_bce, (f, node, node)) \
    X(NODE, fold_squared_error, (f, node, node)) \
    X(NODE, fold_huber, (f, node, node, 0.5f)) \
    X(NODE, fold_hinge, (f, node, g->n)) \
    X(NODE, fold_softmax_entropy, (f, node)) \
    X(NODE, fold_gaussian_log_prob, (f, node, node, node)) \
    X(NODE, fold_gaussian_entropy, (f, node)) \
    X(VOID, fold_keep, (f, node)) \
    X(VOID, fold_keep_grad, (f, node)) \
    X(VOID, fold_index_ref, (f, node, g->ints, g->n)) \
    X(VOID, fold_edges_ref, (f, node, g->ints, g->ints, g->ints, g->n)) \
    X(VOID, fold_output_ref, (f, node, g->floats)) \
    X(STATUS, fold_replay, (f)) \
    X(STATUS, fold_run_begin, (f, g->nodes, g->n)) \
    X(STATUS, fold_backward_begin, (f, node)) \
    X(STATUS, fold_replay_begin, (f)) \
    X(STATUS, fold_run_more, (f, 0, g->ints)) \
    X(VOID, fold_estimate_ns, (f)) \
    X(STATUS, fold_run, (f, g->nodes, g->n)) \
    X(STATUS, fold_backward, (f, node)) \
    X(POINTER, fold_value, (f, node)) \
    X(POINTER, fold_grad, (f, node)) \
    X(REAL, fold_scalar, (f, node)) \
    X(SHAPE, fold_node_shape, (f, node)) \
    X(STATUS, fold_read, (f, g->nodes, g->n, g->floats)) \
    X(VOID, fold_sgd_default, ()) \
    X(VOID, fold_adagrad_default, ()) \
    X(VOID, fold_rmsprop_default, ()) \
    X(VOID, fold_adam_default, ()) \
    X(STATUS, fold_sgd_step, (m, ZERO(fold_sgd))) \
    X(STATUS, fold_adagrad_step, (m, ZERO(fold_adagrad))) \
    X(STATUS, fold_rmsprop_step, (m, ZERO(fold_rmsprop))) \
    X(STATUS, fold_adam_step, (m, ZERO(fold_adam))) \
    X(VOID, fold_grads_clear, (m)) \
    X(REAL, fold_grads_clip, (m, 0.5f)) \
    X(VOID, fold_cell_desc_default, ()) \
    X(HANDLE, fold_cell_new, (m, ZERO(fold_cell_desc))) \
    X(NODE, fold_call, (f, cell, g->nodes, g->n)) \
    X(NODE, fold_call_n, (f, cell, g->nodes, g->n, g->nodes, g->n)) \
    X(NODE, fold_out, (f, node, g->n)) \
    X(NODE, fold_list_sum, (f, node)) \
    X(NODE, fold_list_mean, (f, node)) \
    X(NODE, fold_list_max, (f, node)) \
    X(NODE, fold_list_softmax_mean, (f, node, node)) \
    X(NODE, fold_list_standardize, (f, node, 0.5f)) \
    X(NODE, fold_list_input, (f, g->floats, g->n, shape)) \
    X(NODE, fold_list_input_ref, (f, g->floats, g->n, shape)) \
    X(NODE, fold_list_lookup, (f, param, g->ints, g->n)) \
    X(NODE, fold_list_join, (f, g->nodes, g->n)) \
    X(NODE, fold_list_at, (f, node, g->n)) \
    X(VOID, fold_list_length, (f, node)) \
    X(NODE, fold_list_take, (f, node, g->ints, g->n)) \
    X(NODE, fold_list_stack, (f, node)) \
    X(NODE, fold_list_positions, (f, param, g->n, g->n)) \
    X(NODE, fold_unroll_list, (f, ZERO(fold_recurrent), node, 0, NULL, NULL)) \
    X(NODE, fold_unroll_stack_list, (f, ZERO(fold_rnn_stack), node, NULL, NULL)) \
    X(NODE, fold_list_softmax, (f, node)) \
    X(NODE, fold_list_log_softmax, (f, node)) \
    X(NODE, fold_list_logsumexp, (f, node)) \
    X(NODE, fold_list_softmax_entropy, (f, node)) \
    X(NODE, fold_list_choice_xent, (f, node, g->n)) \
    X(NODE, fold_list_softmax_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_log_softmax_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_logsumexp_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_softmax_entropy_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_choice_xent_to, (f, node, g->ints, g->ints, g->n, g->n)) \
    X(NODE, fold_list_unstack, (f, node)) \
    X(NODE, fold_list_sum_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_mean_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_max_to, (f, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_softmax_mean_to, (f, node, node, g->ints, g->n, g->n)) \
    X(NODE, fold_list_attention, (f, node, node, node, g->n, g->n)) \
    X(NODE, fold_list_attention_weights, (f, node, node, g->n, 0)) \
    X(NODE, fold_list_attention_weights_to, (f, node, node, g->n, g->ints, g->ints, g->n)) \
    X(NODE, fold_list_attention_to, (f, node, node, node, g->n, g->ints, g->ints, g->n)) \
    X(NUMBER, fold_cache_bytes, (ZERO(fold_cache))) \
    X(STATUS, fold_cache_truncate, (g->cache, g->n)) \
    X(STATUS, fold_cache_copy, (g->cache, g->cache)) \
    X(NODE, fold_attention_step, (f, g->cache, node, node, node)) \
    X(NODE, fold_conv1d_step, (f, g->cache, node, param, param, NULL)) \
    X(NODE, fold_pick_each, (f, node, g->ints, g->n)) \
    X(NODE, fold_softmax_xent_each, (f, node, g->ints, g->n)) \
    X(NODE, fold_hinge_each, (f, node, g->ints, g->n)) \
    X(NODE, fold_call_list, (f, cell, g->nodes, g->n, g->nodes)) \
    X(VOID, fold_dense_new, (m, g->name, g->n, g->n, FOLD_ACT_RELU)) \
    X(NODE, fold_dense_apply, (f, ZERO(fold_dense), node)) \
    X(VOID, fold_mlp_new, (m, g->name, g->ints, g->n, FOLD_ACT_RELU)) \
    X(NODE, fold_mlp_apply, (f, ZERO(fold_mlp), node)) \
    X(VOID, fold_conv_new, (m, g->name, shape, ZERO(fold_conv_desc), FOLD_ACT_RELU)) \
    X(NODE, fold_conv_apply, (f, ZERO(fold_conv), node)) \
    X(VOID, fold_norm_new, (m, g->name, g->n, FOLD_NORM_LAYER, 0.5f)) \
    X(NODE, fold_norm_apply, (f, ZERO(fold_norm), node)) \
    X(VOID, fold_attention_new, (m, g->name, g->n, g->n)) \
    X(NODE, fold_attention_apply, (f, ZERO(fold_attention), node, node, node, g->n)) \
    X(VOID, fold_transformer_desc_default, ()) \
    X(VOID, fold_transformer_new, (m, g->name, ZERO(fold_transformer_desc))) \
    X(STATUS, fold_transformer_assemble, (m, g->name, NULL)) \
    X(VOID, fold_encoder_new, (m, g->name, NULL, g->n, ZERO(fold_transformer_desc), g->n)) \
    X(NODE, fold_encoder_apply, (f, ZERO(fold_encoder), node, 0)) \
    X(NODE, fold_transformer_apply, (f, ZERO(fold_transformer), node, g->n)) \
    X(NODE, fold_transformer_step, (f, ZERO(fold_transformer), g->cache, node)) \
    X(VOID, fold_rnn_new, (m, g->name, g->n, g->n)) \
    X(VOID, fold_rnn_relu_new, (m, g->name, g->n, g->n)) \
    X(VOID, fold_lstm_new, (m, g->name, g->n, g->n)) \
    X(VOID, fold_gru_new, (m, g->name, g->n, g->n)) \
    X(STATE, fold_recurrent_zeros, (f, ZERO(fold_recurrent))) \
    X(STATE, fold_recurrent_apply, (f, ZERO(fold_recurrent), node, state)) \
    X(STATE, fold_unroll, (f, ZERO(fold_recurrent), g->nodes, g->n, g->n, g->states, g->nodes)) \
    X(VOID, fold_rnn_stack_new, (m, g->name, g->make, g->n, g->n, g->n, g->n)) \
    X(STATUS, fold_unroll_stack, (f, ZERO(fold_rnn_stack), g->nodes, g->n, g->states, g->nodes, g->states)) \
    X(VOID, fold_tree_lstm_new, (m, g->name, g->n, g->n, g->n)) \
    X(STATE, fold_tree_lstm_apply_leaf, (f, ZERO(fold_tree_lstm), node)) \
    X(STATE, fold_tree_lstm_apply_inner, (f, ZERO(fold_tree_lstm), g->states)) \
    X(VOID, fold_child_sum_new, (m, g->name, g->n, g->n)) \
    X(STATE, fold_child_sum_apply, (f, ZERO(fold_child_sum), node, g->states, g->n)) \
    X(VOID, fold_rate_factor, (ZERO(fold_rates), 1)) \
    X(VOID, fold_save_desc_default, ()) \
    X(VOID, fold_load_desc_default, ()) \
    X(STATUS, fold_model_save_to, (m, g->write, NULL, ZERO(fold_save_desc))) \
    X(STATUS, fold_model_load_memory, (m, g->zeros, 0, ZERO(fold_load_desc))) \
    X(STATUS, fold_model_read_in_place, (m, g->zeros, 0)) \
    X(STATUS, fold_model_load_from, (m, NULL, NULL, ZERO(fold_load_desc))) \
    X(STATUS, fold_model_save, (m, NULL, ZERO(fold_save_desc))) \
    X(STATUS, fold_model_load, (m, NULL, ZERO(fold_load_desc))) \
    X(STATUS, fold_model_print_file_memory, (m, NULL, 0, g->write, NULL)) \
    X(STATUS, fold_model_print_file, (m, NULL, g->write, NULL)) \
    X(NUMBER, fold_model_steps, (m)) \
    X(TENSORS, fold_tensors_open, (m, NULL)) \
    X(TENSORS, fold_tensors_open_memory, (m, g->zeros, 0)) \
    X(STATUS, fold_tensors_close, (NULL)) \
    X(POINTER, fold_tensors_model, (NULL)) \
    X(NUMBER, fold_tensors_count, (NULL)) \
    X(VOID, fold_tensors_find, (NULL, g->name)) \
    X(POINTER, fold_tensors_at, (NULL, g->n).name) \
    X(STATUS, fold_tensors_read, (NULL, g->n, 0, 1, NULL, 1)) \
    X(VOID, fold_tensors_take, (NULL, g->n)) \
    X(STATUS, fold_tensors_missing, (NULL, g->name, g->name)) \
    X(STATUS, fold_ctx_print, (f, g->write, NULL)) \
    X(STATUS, fold_ctx_print_splits, (f, g->write, NULL)) \
    X(STATUS, fold_ctx_visit, (f, NULL, NULL)) \
    X(STATUS, fold_ctx_visit_times, (f, NULL, NULL)) \
    X(STATUS, fold_cell_visit, (m, cell, NULL, NULL)) \
    X(STATUS, fold_model_print, (m, g->write, NULL)) \
    X(VOID, fold_ctx_stats, (f)) \
    X(VOID, fold_row, (ZERO(fold_rows), g->n)) \
    X(VOID, fold_op_desc_default, ()) \
    X(HANDLE, fold_op_new, (m, ZERO(fold_op_desc))) \
    X(NODE, fold_op_apply, (f, op, g->nodes, g->n, g->ints, 1)) \
    X(NODE, fold_op_apply_whole, (f, op, g->nodes, g->n, g->ints, 1, g->n)) \
    X(VOID, fold_random_new, (1, 2)) \
    X(NUMBER, fold_random_bits, (g->random)) \
    X(NUMBER, fold_random_uniform, (g->random)) \
    X(NUMBER, fold_random_normal, (g->random)) \
    X(NUMBER, fold_random_below, (g->random, g->n)) \
    X(VOID, fold_random_shuffle, (g->random, g->n < 64 ? g->n : 64, g->ints)) \
    X(VOID, fold_random_gaussian, (g->random, g->floats, NULL, g->n < 64 ? g->n : 64, g->floats)) \
    X(VOID, fold_random_softmax, (g->random, g->floats, g->n < 64 ? g->n : 64)) \
    X(VOID, fold_random_row, (g->random, f, node)) \
    X(VOID, fold_random_softmax_n, (g->random, g->floats, NULL, g->n < 64 ? g->n : 64, g->ints)) \
    X(VOID, fold_random_weighted, (g->random, g->floats, g->n < 64 ? g->n : 64)) \
    X(VOID, fold_argmax, (g->floats, g->n < 64 ? g->n : 64)) \
    X(VOID, fold_finite, (g->floats, g->n < 64 ? g->n : 64)) \
    X(VOID, fold_top_k, (g->floats, g->n < 64 ? g->n : 64, g->n, g->ints))
/* Those of examples/fold_fit.h. */
#define FIT_CALLS(X) \
    X(VOID, fold_fit_desc_default, ()) \
    X(STATUS, fold_fit, (ZERO(fold_fit_desc), NULL)) \
    X(VOID, fold_fit_predict_desc_default, ()) \
    X(STATUS, fold_fit_predict, (ZERO(fold_fit_predict_desc))) \
    X(VOID, fold_fit_accuracy, (g->ints, g->ints, g->n < 64 ? g->n : 64)) \
    X(VOID, fold_fit_f1, (g->ints, g->ints, g->n < 64 ? g->n : 64, g->n)) \
    X(REAL, fold_fit_perplexity, (NULL, g->n)) \
    X(VOID, fold_fit_pearson, (g->floats, g->floats, g->n < 64 ? g->n : 64))
/* Those of examples/fold_torch.h. */
#define TORCH_CALLS(X) \
    X(TORCH, fold_torch_open, (m, NULL)) \
    X(TORCH, fold_torch_open_memory, (m, g->zeros, 0)) \
    X(STATUS, fold_torch_close, (NULL)) \
    X(VOID, fold_torch_skip, (NULL, g->name)) \
    X(HANDLE, fold_torch_param, (NULL, g->name, 0)) \
    X(HANDLE, fold_torch_embedding, (NULL, g->name)) \
    X(HANDLE, fold_torch_linear, (NULL, g->name, FOLD_ACT_RELU).W) \
    X(HANDLE, fold_torch_conv, (NULL, g->name, ZERO(fold_conv_desc), FOLD_ACT_RELU).W) \
    X(HANDLE, fold_torch_norm, (NULL, g->name, FOLD_NORM_FIXED, 0).gain) \
    X(NUMBER, fold_torch_encoder, (NULL, g->name, NULL, g->n, ZERO(fold_transformer_desc)).layers) \
    X(NUMBER, fold_torch_rnn, (NULL, g->name).layers) \
    X(NUMBER, fold_torch_rnn_relu, (NULL, g->name).layers) \
    X(NUMBER, fold_torch_lstm, (NULL, g->name).layers) \
    X(NUMBER, fold_torch_gru, (NULL, g->name).layers) \
    X(HANDLE, fold_torch_attention, (NULL, g->name, g->n).query.W) \
    X(HANDLE, fold_torch_transformer, (NULL, g->name, ZERO(fold_transformer_desc)).inner.W)
static const char *const calls_elsewhere[] = { "fold_pool_new", "fold_pool_free", "fold_pool_for" };

static int silent_writer(const void *bytes, size_t n, void *user)
{
    (void)user;
    (void)bytes;
    (void)n;
    return 0;
}

static int none; /* neither a context nor a model is given */
static void gave_status(const char *name, fold_status got)
{
    if (none) CHECK_SAYS(got == FOLD_BAD_ARGUMENT, "%s gave status %d", name, (int)got);
}
static void gave_null(const char *name, int is_null)
{
    if (none) CHECK_SAYS(is_null, "%s gave something", name);
}
#define AS_STATUS(name, call) gave_status(#name, call)
#define AS_NODE(name, call) gave_null(#name, fold_node_is_null(call))
#define AS_STATE(name, call) gave_null(#name, fold_node_is_null((call).h))
#define AS_HANDLE(name, call) gave_null(#name, !(call).id)
#define AS_NUMBER(name, call) gave_null(#name, !(call))
#define AS_POINTER(name, call) gave_null(#name, !(call))
#define AS_REAL(name, call) gave_null(#name, !((call) > 0))
#define AS_SHAPE(name, call) gave_null(#name, !(call).rank)
#define AS_TEXT(name, call) CHECK_SAYS(none == 2 || (call) != NULL, "%s gave no text", #name)
#define AS_VOID(name, call) (void)(call)
#define AS_MODEL(name, call) fold_model_free(call)
#define AS_TENSORS(name, call) gave_status(#name, fold_tensors_close(call))
#define AS_TORCH(name, call) gave_status(#name, fold_torch_close(call))
#define AS_CONTEXT(name, call) fold_ctx_free(call)

#define PUBLIC_NAME(kind, name, arguments) #name,
#define PUBLIC_CALL(kind, name, arguments) \
    if (check.verbose) printf("%s\n", #name); \
    AS_##kind(name, name arguments);
static void call_all(const given *g)
{
    fold_model *m = g->m;
    fold_ctx *f = g->f;
    const fold_node node = { 0, 0 };
    const fold_param param = { 0, 0 };
    const fold_cell cell = { 0, 0 };
    const fold_op op = { 0, 0 };
    const fold_state state = { { 0, 0 }, { 0, 0 } };
    const fold_shape shape = { 0, { 0, 0, 0, 0 } };
    PUBLIC_CALLS(PUBLIC_CALL)
    FIT_CALLS(PUBLIC_CALL)
    TORCH_CALLS(PUBLIC_CALL)
}

static void null_everywhere(void)
{
    enum { ROOM = 64 };
    static const int counts[] = { 0, 1, 3, -1, 1000 };
    static fold_node nodes[ROOM];
    static fold_state states[ROOM];
    static float floats[ROOM];
    static int ints[ROOM];
    static const double zeros[512] = { 0 }; /* larger than any struct */
    for (int way = 0; way < 4; way++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts - (size_t)(way >> 1); i++) {
            given g = { NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL };
            fold_random random = { 0, 0 };
            fold_cache cache = { NULL, 0, 0, 0, 0, 0, { 0 } };
            none = !(way & 1);
            g.n = counts[i];
            if (!none) {
                g.random = &random;
                g.cache = &cache;
                g.m = fold_model_new(NULL);
                g.f = context(g.m, (int)i & 1, (int)i >> 1 & 1);
            }
            if (way >> 1) {
                g.name = "x";
                g.nodes = nodes;
                g.states = states;
                g.floats = floats;
                g.ints = ints;
                g.zeros = zeros;
                g.write = silent_writer;
                g.make = fold_lstm_new;
            }
            call_all(&g);
            fold_ctx_free(g.f);
            fold_model_free(g.m);
        }
    CHECK_TEXT(fold_ctx_message(NULL), "no context: fold_ctx_new returned NULL");
    CHECK_TEXT(fold_model_message(NULL), "no model");
    CHECK_INT(fold_ctx_status(NULL), FOLD_BAD_ARGUMENT);
}

/* Every function that fold.h declares is called above. */
static void all_calls_are_listed(void)
{
    static const char *const listed[] = { PUBLIC_CALLS(PUBLIC_NAME) };
    char line[512], name[64];
    int declared = 0;
    FILE *file = fopen("fold.h", "r");
    if (!file) file = fopen("../fold.h", "r");
    if (!CHECK(file != NULL)) return;
    while (fgets(line, sizeof line, file) && !strstr(line, "   IMPLEMENTATION")) {
        if (strncmp(line, "FOLD_API ", 9)) continue;
        char *end = strchr(line, '('), *begin = end;
        if (!CHECK_SAYS(end != NULL, "no function in: %s", line)) continue;
        while (begin > line && begin[-1] != ' ' && begin[-1] != '*') begin--;
        snprintf(name, sizeof name, "%.*s", (int)(end - begin), begin);
        int found = 0;
        for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) found |= !strcmp(listed[i], name);
        for (size_t i = 0; i < sizeof calls_elsewhere / sizeof *calls_elsewhere; i++)
            found |= !strcmp(calls_elsewhere[i], name);
        CHECK_SAYS(found, "%s is not in PUBLIC_CALLS", name);
        declared++;
    }
    fclose(file);
    CHECK_INT(declared, sizeof listed / sizeof *listed + sizeof calls_elsewhere / sizeof *calls_elsewhere);
}

/* Counts in structs that no function made are not believed. */
static void absurd_counts(void)
{
    static const int counts[] = { 100, 100000, -1, -100000, INT_MAX, INT_MIN };
    static fold_node nodes[64];
    static fold_state states[64];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int way = 0; way < 7; way++) {
            const int n = counts[i];
            fold_model *m = fold_model_new(NULL);
            fold_ctx *f = context(m, 0, 0);
            fold_tree_lstm tree = fold_tree_lstm_new(m, "tree", 2, 2, 2);
            fold_rnn_stack stack = fold_rnn_stack_new(m, "stack", fold_gru_new, 2, 2, 1, 0);
            fold_recurrent gru = stack.cell[0];
            fold_mlp mlp;
            memset(&mlp, 0, sizeof mlp);
            const fold_node x = input2(f, 1, 2);
            switch (way) {
            case 0: tree.arity = n; fold_tree_lstm_apply_inner(f, &tree, states); break;
            case 1: stack.layers = n; fold_unroll_stack(f, &stack, &x, 1, NULL, nodes, states); break;
            case 2: stack.directions = n; fold_unroll_stack(f, &stack, &x, 1, NULL, nodes, states); break;
            case 3: mlp.layers = n; fold_mlp_apply(f, &mlp, x); break;
            case 4:
                if (n > 0) { gru.hidden = n; fold_recurrent_zeros(f, &gru); break; } /* a valid shape as such */
                gru.hidden = n;
                fold_recurrent_zeros(f, &gru);
                break;
            case 5: fold_child_sum_new(m, "sum", n, n); break;
            default: fold_lstm_new(m, "lstm", n, n); break;
            }
            if (way < 4) CHECK_SAYS(fold_ctx_status(f) == FOLD_BAD_ARGUMENT, "way %d, %d: %s", way, n, fold_ctx_message(f));
            if (way < 4) CHECK_TEXT(fold_ctx_message(f), way == 3 ? "layers" : way ? "rnn_stack" : "arity");
            if (way > 4 && (n < 0 || n > 1000000)) CHECK_INT(fold_model_status(m), FOLD_BAD_ARGUMENT);
            fold_ctx_free(f);
            fold_model_free(m);
        }
}

/* -- what sanitizers find -------------------------------------------------------------------- */

static void cell_of_many_inputs(void)
{
    for (int way = 0; way < 2; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_cell_desc d = cell_desc("many", inner_body);
        if (way) d.n_in = INT_MAX;
        d.n_list = INT_MAX;
        CHECK(!fold_cell_new(m, &d).id);
        CHECK_TEXT(fold_model_message(m), way ? "n_in is 2147483647, must be in [0, 16]" : "n_list is 2147483647, must be in [0, 4]");
        fold_model_free(m);
    }
}

/* A plan of a recording without operands, calls or roots. */
static void plans_of_nothing(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.plan_cache_bytes = 100000;
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < 5; i++) {
        fold_ctx_reset(f);
        CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
        const fold_node x = input2(f, 1, 2);
        CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
    }
    CHECK(fold_ctx_stats(f).plan_hits > 0);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- a forgotten operand ------------------------------------------------------------------------ */

static void remember_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], fold_list_sum(f, in[1]));
}

/* The call that is given a null node, or another shape than a cell was made with, names itself and the operand, and
   nothing later hides it. */
static void forgotten_operands(void)
{
    enum { SHAPES = 16 };
    for (int eager = 0; eager < 2; eager++) {
        fold_model *m = fold_model_new(NULL);
        const fold_recurrent lstm = fold_lstm_new(m, "l2", 2, 2), gru = fold_gru_new(m, "g", 2, 2);
        const fold_child_sum tree = fold_child_sum_new(m, "tree", 2, 2);
        fold_cell_desc d = cell_desc("sum", remember_body);
        d.n_in = d.n_list = 1;
        d.list[0] = fold_shape1(2);
        const fold_cell cell = fold_cell_new(m, &d);
        fold_ctx *f = context(m, 0, eager);
        for (int which = 0;; which++) {
            fold_ctx_reset(f);
            const fold_node null = FOLD_NULL_NODE, x = input2(f, 1, 2);
            const fold_node rows = fold_list_input(f, (const float[4]){ 1, 2, 3, 4 }, 2, fold_shape1(2));
            const fold_node some[4] = { x, x, null, x };
            const fold_state no_c = { x, null }, no_h = { null, x }, child[2] = { { x, x }, { x, null } };
            const fold_node wide = fold_input(f, (const float[3]){ 1, 2, 3 }, 3);
            const fold_state wide_h = { wide, x }, wide_c = { x, wide };
            fold_node y = null;
            const char *says = NULL;
#define FORGETS(call, message) y = call, says = message; break
            switch (which) {
            case 0: FORGETS(fold_tanh(f, null), "tanh: the input is the null node");
            case 1: FORGETS(fold_mul(f, x, null), "mul: input 1 is the null node");
            case 2: FORGETS(fold_concat(f, some, 4, 0), "concat: input 2 is the null node");
            case 3: FORGETS(fold_sum_n(f, some, 4), "sum_n: element 2 is the null node");
            case 4: FORGETS(fold_recurrent_apply(f, &lstm, x, no_c).h, "l2: input 2 (c) is the null node");
            case 5: FORGETS(fold_recurrent_apply(f, &gru, x, no_h).h, "g: input 1 (h) is the null node");
            case 6: FORGETS(fold_recurrent_apply(f, &gru, null, no_c).h, "g: input 0 (x) is the null node");
            case 7: FORGETS(fold_child_sum_apply(f, &tree, x, child, 2).h, "tree: element 1 is the null node");
            case 8: FORGETS(fold_call_n(f, cell, &x, 1, some, 4), "sum: element 2 is the null node");
            case 9: FORGETS(fold_call_list(f, cell, &null, 1, &rows), "sum: the input is the null node");
            case 10: FORGETS(fold_call_list(f, cell, &x, 1, &null), "sum: the input is the null node");
            case 11: FORGETS(fold_list_attention(f, rows, rows, null, 1, 0), "list_attention: input 2 is the null node");
            case 12: FORGETS(fold_list_softmax_mean(f, rows, null), "list_softmax_mean: input 1 is the null node");
            case 13: FORGETS(fold_stack(f, some, 4), "stack: input 2 is the null node");
            case 14: FORGETS(fold_list_join(f, some, 4), "list_join: input 2 is the null node");
            case 15: FORGETS(fold_list_take(f, null, NULL, 0), "list_take: the input is the null node");
            case SHAPES: FORGETS(fold_recurrent_apply(f, &gru, x, wide_h).h, "g: h is [3], must be [2]");
            case SHAPES + 1: FORGETS(fold_recurrent_apply(f, &lstm, x, wide_c).h, "l2: c is [3], must be [2]");
            case SHAPES + 2: FORGETS(fold_recurrent_apply(f, &lstm, wide, no_c).h, "l2: input 2 (c) is the null node");
            case SHAPES + 3: FORGETS(fold_recurrent_apply(f, &gru, wide, wide_c).h, "g: x is [3], must be [2]");
            case SHAPES + 4: FORGETS(fold_child_sum_apply(f, &tree, wide, NULL, 0).h, "tree: x is [3], must be [2]");
            case SHAPES + 5: FORGETS(fold_child_sum_apply(f, &tree, x, &wide_h, 1).h, "tree: h of its children is [3], must be [2]");
            case SHAPES + 6: FORGETS(fold_child_sum_apply(f, &tree, x, &wide_c, 1).h, "tree: c of its children is [3], must be [2]");
            case SHAPES + 7: FORGETS(fold_call_n(f, cell, &wide, 1, some, 2), "sum: input 0 is [3], must be [2]");
            case SHAPES + 8: FORGETS(fold_call_n(f, cell, &x, 1, &wide, 1), "sum: component 0 of its list is [3], must be [2]");
            default: break;
            }
            if (!says) break;
            CHECK(fold_node_is_null(y));
            CHECK_INT(fold_ctx_status(f), strstr(says, "must be [") ? FOLD_BAD_SHAPE : FOLD_BAD_ARGUMENT);
            if (strcmp(fold_ctx_message(f), says)) CHECK_SAYS(0, "\"%s\", wanted \"%s\"", fold_ctx_message(f), says);
            CHECK(fold_node_is_null(fold_mul(f, x, null))); /* the first error stays */
            CHECK(fold_run(f, &x, 1) == fold_ctx_status(f) && !strcmp(fold_ctx_message(f), says));
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* -- errors that are told ---------------------------------------------------------------------- */

typedef struct told { int count; char message[256]; } told;
static void tell(const char *message, void *user)
{
    told *all = (told *)user;
    all->count++;
    snprintf(all->message, sizeof all->message, "%s", message);
}

static int print_and_record(const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size;
    fold_tanh((fold_ctx *)user, FOLD_NULL_NODE);
    return 0;
}

/* The first error that sticks is told once, by the model or by the context that has it, and again after it was cleared. */
static void errors_are_told(void)
{
    for (int eager = 0; eager < 2; eager++) {
        told of_model = { 0, "" }, of_ctx = { 0, "" };
        fold_model_desc model_desc = fold_model_desc_default();
        model_desc.error = tell;
        model_desc.error_user = &of_model;
        fold_model *m = fold_model_new(&model_desc);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.error = tell;
        d.error_user = &of_ctx;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int time = 1; time < 4; time++) {
            fold_ctx_reset(f);
            const fold_node x = input2(f, 1, 2);
            fold_value(f, FOLD_NULL_NODE); /* nothing sticks */
            CHECK_INT(fold_ctx_print(f, print_and_record, f), FOLD_OK);
            CHECK_INT(of_ctx.count, time - 1);
            fold_tanh(f, FOLD_NULL_NODE);
            CHECK_INT(of_ctx.count, time);
            CHECK_TEXT(of_ctx.message, "tanh: the input is the null node");
            fold_pick(f, x, 9);
            CHECK(fold_run(f, &x, 1) != FOLD_OK);
            CHECK_INT(of_ctx.count, time);
        }
        CHECK_INT(of_model.count, 0);
        fold_ctx_reset(f);
        fold_cell_new(m, NULL);
        fold_weight_new(m, "W", -1, 2);
        CHECK_INT(of_model.count, 1);
        CHECK_TEXT(of_model.message, fold_model_message(m));
        fold_model_clear_error(m);
        fold_weight_new(m, "W", -1, 2);
        CHECK_INT(of_model.count, 2);
        fold_model_clear_error(m);
        CHECK_INT(of_ctx.count, 3);
        fold_ctx_free(f);
        d.threads = -1; /* a context that can do nothing but tell why */
        f = fold_ctx_new(m, &d);
        CHECK_INT(of_ctx.count, 4);
        CHECK_TEXT(of_ctx.message, fold_ctx_message(f));
        fold_ctx_free(f);
        static float block[64]; /* too small */
        d.threads = 0;
        d.memory.block = block;
        d.memory.block_size = sizeof block;
        f = fold_ctx_new(m, &d);
        CHECK_INT(of_ctx.count, 5);
        CHECK_TEXT(of_ctx.message, fold_ctx_message(f));
        fold_ctx_free(f);
        fold_model_free(m);
        model_desc.isa = "none";
        m = fold_model_new(&model_desc);
        CHECK_INT(of_model.count, 3);
        CHECK_TEXT(of_model.message, "isa 'none' is unknown");
        fold_model_free(m);
    }
}

/* -- calls like the one before ---------------------------------------------------------------- */

static void add_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], in[1]);
}

/* A call that is like one before it is recorded by a short way: what is not like it is noticed all the same. */
static void calls_like_others(void)
{
    enum { SAME, SHAPE, NOTHING_AT_ALL, STALE, OTHERS, COUNT, PARAM, LIST, CASES };
    static const char *const says[CASES] = { "", "add: input 1 is [3], must be [2]", "add: input 1 is the null node", "the node is from", "the node is from",
                                             "n_in is 1, must be 2", "", "" };
    fold_model *m = fold_model_new(NULL);
    fold_cell_desc d = cell_desc("add", add_body);
    d.n_in = 2;
    d.in[1] = fold_shape1(2);
    const fold_cell cell = fold_cell_new(m, &d);
    const fold_param gain = fold_gain_new(m, "gain", 2);
    fold_ctx *f = context(m, 0, 0), *other = context(m, 0, 0);
    const float three[3] = { 1, 2, 3 }, four[4] = { 1, 2, 3, 4 };
    for (int which = 0; which < CASES; which++) {
        fold_ctx_reset(f);
        const fold_node stale = input2(f, 9, 9), others = input2(other, 9, 9);
        float sum[2] = { 0, 0 };
        fold_ctx_reset(f);
        fold_node in[2] = { input2(f, 1, 2), input2(f, 3, 4) };
        const fold_node first = fold_call(f, cell, in, 2), second = fold_call(f, cell, in, 2);
        CHECK(fold_run(f, &second, 1) == FOLD_OK && fold_read(f, &second, 1, sum) == FOLD_OK);
        CHECK(second.id != first.id && sum[0] == 4 && sum[1] == 6);
        switch (which) {
        case SHAPE: in[1] = fold_input(f, three, 3); break;
        case NOTHING_AT_ALL: in[1].id = 0; break;
        case STALE: in[1] = stale; break;
        case OTHERS: in[1] = others; break;
        case PARAM: in[1] = fold_use(f, gain); break;
        case LIST: in[1] = fold_list_input(f, four, 2, fold_shape1(2)); break;
        default: break;
        }
        const fold_node y = fold_call(f, cell, in, which == COUNT ? 1 : 2);
        CHECK_SAYS(fold_node_is_null(y) == (which > SAME && which < PARAM), "case %d", which);
        CHECK_TEXT(fold_ctx_message(f), says[which]);
        if (which == PARAM)
            CHECK(fold_run(f, &y, 1) == FOLD_OK && fold_read(f, &y, 1, sum) == FOLD_OK && sum[0] == 2 && sum[1] == 3);
        if (which == LIST) CHECK_INT(fold_list_length(f, y), 2);
        CHECK_INT(fold_ctx_status(f) == FOLD_OK, !says[which][0]);
    }
    fold_ctx_free(f);
    fold_ctx_free(other);
    fold_model_free(m);
}

/* -- mistakes that a message tells apart -------------------------------------------------------- */

static int body_leaves_null;
static void input_ref_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    static const float one[2] = { 1, 2 };
    (void)user;
    out[0] = fold_add(f, in[0], fold_input_ref(f, one, fold_shape1(2)));
}
static void sum_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_sum_n(f, in, 1);
}
static void shared_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_shared(f, fold_shared(f, in[0])); /* of no effect here */
}
static void listing_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], fold_list_max(f, in[1]));
}
static void summing_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], fold_list_sum(f, in[1]));
}
static void calling_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_call(f, *(const fold_cell *)user, in, 1);
}
static void wide_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_node wide = fold_concat2(f, in[0], in[0]);
    out[0] = fold_call(f, *(const fold_cell *)user, &wide, 1);
}
static void lonely_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_call(f, *(const fold_cell *)user, in, 0);
}
static void forgetful_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    if (!body_leaves_null) out[0] = fold_tanh(f, in[0]);
}

static const char *shape_of_first(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static void copies(const fold_op_call *c)
{
    for (int row = 0; row < c->rows; row++) memcpy(fold_row(&c->out[0], row), fold_row(&c->in[0], row), 2 * sizeof(float));
}
static fold_op op_like(fold_model *m, int is_list, int is_whole)
{
    fold_op_desc d = fold_op_desc_default();
    d.name = "copy";
    d.n_in = d.n_out = 1;
    d.is_list = is_list;
    d.is_whole = is_whole;
    d.infer = shape_of_first;
    d.forward = copies;
    return fold_op_new(m, &d);
}
static void own_op_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_op_apply(f, *(const fold_op *)user, in, 1, NULL, 0);
}
static void own_whole_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_op_apply_whole(f, *(const fold_op *)user, in, 1, NULL, 0, 2);
}

#define CTX_SAYS(call, status, text)               \
    do {                                           \
        (void)(call);                              \
        CHECK_INT(fold_ctx_status(f), status);     \
        CHECK_TEXT(fold_ctx_message(f), text);     \
        fold_ctx_reset(f);                         \
    } while (0)
#define MODEL_SAYS(call, status, text)             \
    do {                                           \
        (void)(call);                              \
        CHECK_INT(fold_model_status(m), status);   \
        CHECK_TEXT(fold_model_message(m), text);   \
        fold_model_clear_error(m);                 \
    } while (0)

static void mistakes_in_cells(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_cell_desc d = cell_desc("c", inner_body), with_list = cell_desc("l", listing_body);
    const fold_cell inner = fold_cell_new(m, &d);
    with_list.n_list = 1;
    with_list.list[0] = fold_shape1(2);
    const fold_cell listing = fold_cell_new(m, &with_list);
    with_list.name = "s";
    with_list.body = summing_body;
    const fold_cell summing = fold_cell_new(m, &with_list);
    MODEL_SAYS((d = cell_desc("c", input_ref_body), fold_cell_new(m, &d)), FOLD_BAD_CELL, "input_ref: not allowed in a cell body");
    MODEL_SAYS((d = cell_desc("c", sum_body), fold_cell_new(m, &d)), FOLD_BAD_CELL, "sum_n: not allowed in a cell body; use the fold_list_");
    MODEL_SAYS((d = cell_desc("c", calling_body), d.user = &summing, fold_cell_new(m, &d)), FOLD_BAD_CELL,
               "cell 's': a cell with a list cannot be called in a cell body");
    MODEL_SAYS((d = cell_desc("c", wide_body), d.user = &inner, fold_cell_new(m, &d)), FOLD_BAD_SHAPE, "cell 'c'");
    MODEL_SAYS((d = cell_desc("o", lonely_body), d.user = &inner, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT,
               "cell 'o': cell 'c': n_in is 0, must be 1");
    const fold_op whole = op_like(m, 0, 1), by_list = op_like(m, 1, 0), plain = op_like(m, 0, 0);
    MODEL_SAYS((d = cell_desc("c", own_op_body), d.user = &by_list, fold_cell_new(m, &d)), FOLD_BAD_CELL,
               "copy: a list op, which is not allowed in a cell body");
    MODEL_SAYS((d = cell_desc("c", own_whole_body), d.user = &whole, fold_cell_new(m, &d)), FOLD_BAD_CELL, "copy: not allowed in a cell body");
    MODEL_SAYS((d = cell_desc("c", inner_body), d.n_in = 0, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "n_in and n_list are 0");
    MODEL_SAYS((d = cell_desc("c", inner_body), d.n_in = -1, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "n_in is -1, must be in [0, 16]");
    MODEL_SAYS((d = cell_desc("c", inner_body), d.n_list = -1, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "n_list is -1, must be in [0, 4]");
    MODEL_SAYS((d = cell_desc("c", inner_body), d.n_out = 0, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "n_out is 0, must be in [1, 8]");
    MODEL_SAYS((d = cell_desc("c", inner_body), d.n_out = 9, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "n_out is 9, must be in [1, 8]");
    MODEL_SAYS((d = cell_desc("c", inner_body), d.n_list = 1, fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT,
               "a shape needs rank 1 to 4");
    MODEL_SAYS((d = cell_desc("c", NULL), fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "name or body is NULL");
    MODEL_SAYS((d = cell_desc(NULL, inner_body), fold_cell_new(m, &d)), FOLD_BAD_ARGUMENT, "name or body is NULL");
    MODEL_SAYS((d = cell_desc("shared", shared_body), fold_cell_new(m, &d)), FOLD_OK, "");

    d = cell_desc("forgetful", forgetful_body);
    const fold_cell forgetful = fold_cell_new(m, &d);
    MODEL_SAYS((body_leaves_null = 1, d = cell_desc("c", calling_body), d.user = &forgetful, fold_cell_new(m, &d)), FOLD_BAD_CELL,
               "cell 'forgetful': the body left output 0 null");
    body_leaves_null = 0;

    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(m, 0, eager);
        fold_node x = input2(f, 1, 2);
        CTX_SAYS(fold_call_n(f, listing, &x, 1, NULL, 3), FOLD_BAD_ARGUMENT, "l: ");
        x = input2(f, 1, 2);
        fold_node none = fold_list_input(f, NULL, 0, fold_shape1(2));
        CTX_SAYS(fold_call_list(f, listing, &x, 1, &none), FOLD_BAD_ARGUMENT, "the list is empty, so it has no maximum");
        x = input2(f, 1, 2);
        CTX_SAYS(fold_op_apply(f, whole, &x, 1, NULL, 0), FOLD_BAD_ARGUMENT, "the op has is_whole; use fold_op_apply_whole");
        x = input2(f, 1, 2);
        CTX_SAYS(fold_op_apply_whole(f, plain, &x, 1, NULL, 0, 2), FOLD_BAD_ARGUMENT, "the op has no is_whole");
        x = input2(f, 1, 2);
        CTX_SAYS(fold_op_apply_whole(f, whole, &x, 1, NULL, 0, -2), FOLD_BAD_ARGUMENT, "rows at least -1");
        CTX_SAYS(fold_op_apply_whole(f, whole, &x, 1, NULL, 0, 2), FOLD_BAD_HANDLE, "copy: "); /* of before the reset */
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

static void mistakes_with_values(void)
{
    static const float values[16] = { 1, 2, 3, 4 };
    fold_model *m = fold_model_new(NULL);
    const fold_param b = fold_bias_new(m, "b", 2), W = fold_weight_new(m, "W", 4, 2), none = { 0, 0 };
    fold_ctx *f = context(m, 1, 0);
    fold_node x[2], null = { 0, 0 };
    CTX_SAYS(fold_stack(f, NULL, 2), FOLD_BAD_ARGUMENT, "stack");
    x[0] = x[1] = fold_input_shaped(f, values, fold_shape4(1, 2, 1, 2));
    CTX_SAYS(fold_stack(f, x, 2), FOLD_BAD_SHAPE, "stack: values must have rank 1 to 3");
    CTX_SAYS(fold_list_input(f, values, INT_MAX, fold_shape1(4)), FOLD_BAD_SHAPE, "exceed a list's 2147483647 values");
    x[0] = fold_tanh(f, input2(f, 1, 2));
    fold_run(f, x, 1);
    CTX_SAYS(fold_list_input_ref(f, fold_value(f, x[0]), 1, fold_shape1(2)), FOLD_BAD_ARGUMENT, "list_input_ref: values are this context's own, which may move");
    x[0] = fold_tanh(f, input2(f, 1, 2));
    fold_run(f, x, 1);
    CTX_SAYS(fold_input_ref(f, fold_value(f, x[0]), fold_shape1(2)), FOLD_BAD_ARGUMENT, "input_ref: values are this context's own, which may move");
    x[0] = fold_list_input(f, values, 3, fold_shape1(1));
    x[1] = fold_list_input(f, values, 2, fold_shape1(2));
    CTX_SAYS(fold_list_softmax_mean(f, x[0], x[1]), FOLD_BAD_SHAPE, "lists must be equal in length, have 3 and 2 rows");
    CTX_SAYS(fold_list_softmax_mean_to(f, x[0], x[1], (const int *)(const void *)values, 1, 1), FOLD_BAD_HANDLE, "list_softmax_mean_to");
    x[0] = fold_list_input(f, values, 3, fold_shape1(1));
    x[1] = fold_list_input(f, values, 2, fold_shape1(2));
    CTX_SAYS(fold_list_softmax_mean_to(f, x[0], x[1], (const int *)(const void *)values, 1, 1), FOLD_BAD_SHAPE,
             "list_softmax_mean_to: lists must be equal in length, have 3 and 2 rows");
    x[0] = x[1] = fold_input_shaped(f, values, fold_shape2(2, 2));
    CTX_SAYS(fold_linear_n(f, x, 2, W, none), FOLD_BAD_SHAPE, "linear_n: several inputs must be vectors");
    x[0] = fold_input(f, values, 2);
    x[1] = fold_input_shaped(f, values, fold_shape2(2, 2));
    CTX_SAYS(fold_linear_n(f, x, 2, W, none), FOLD_BAD_SHAPE, "linear_n: several inputs must be vectors");
    x[0] = fold_input_shaped(f, values, fold_shape2(2, 2));
    x[1] = fold_input(f, values, 2);
    CTX_SAYS(fold_linear_n(f, x, 2, W, none), FOLD_BAD_SHAPE, "linear_n: several inputs must be vectors");
    x[0] = fold_list_input(f, values, 2, fold_shape2(2, 2));
    CTX_SAYS(fold_list_attention(f, x[0], x[0], x[0], 1, 0), FOLD_BAD_SHAPE, "rows must be vectors");
    x[0] = fold_input_ref(f, values, fold_shape2(1 << 20, 1)); /* nothing is read: it does not run */
    x[1] = fold_input_ref(f, values, fold_shape2(1, 1 << 20));
    CTX_SAYS(fold_matmul(f, x[0], x[1]), FOLD_BAD_SHAPE, "matmul: the result would be empty, or have more than");
    x[0] = fold_use(f, b);
    CTX_SAYS(fold_keep_grad(f, x[0]), FOLD_BAD_ARGUMENT, "keep_grad: x is a parameter; call fold_param_grad instead");
    x[0] = fold_tanh(f, fold_use(f, b)); /* shared already, once more: the same */
    x[1] = fold_shared(f, x[0]);
    CHECK_INT(fold_shared(f, x[1]).id, x[1].id);
    CHECK_INT(fold_shared(f, fold_use(f, b)).id, fold_use(f, b).id);
    x[0] = input2(f, 1, 2);
    x[1] = input2(f, 1, 2);
    CTX_SAYS(fold_index_ref(f, x[0], (const int *)(const void *)values, 1), FOLD_BAD_ARGUMENT, "index_ref");
    x[0] = fold_use(f, b);
    CTX_SAYS(fold_index_ref(f, x[0], (const int *)(const void *)values, 1), FOLD_BAD_ARGUMENT, "index_ref");
    CTX_SAYS(fold_dense_apply(f, NULL, null), FOLD_BAD_ARGUMENT, "dense: the layer is NULL");
    fold_ctx_free(f);
    fold_model_free(m);
}

static void mistakes_in_layers(void)
{
    fold_model *m = fold_model_new(NULL);
    const fold_tree_lstm tree = fold_tree_lstm_new(m, "tree", 2, 2, 2);
    const fold_dense dense = fold_dense_new(m, "dense", 2, 2, FOLD_ACT_TANH);
    fold_ctx *f = context(m, 0, 0);
    float memory[256];
    fold_cache cache = { memory, 4, 1, 2, 0, 0, { 0 } };
    CHECK(dense.W.id && tree.inner.id);
    CTX_SAYS(fold_tree_lstm_apply_inner(f, &tree, NULL), FOLD_BAD_ARGUMENT, "tree_lstm");
    const fold_node of_before = input2(f, 1, 2);
    fold_ctx_reset(f);
    const fold_node x = input2(f, 1, 2);
    CTX_SAYS(fold_attention_step(f, &cache, of_before, x, x), FOLD_BAD_HANDLE, "attention_step: ");
    fold_ctx_free(f);
    fold_model_free(m);
}

static void *take_nothing(size_t size, size_t align, void *user)
{
    (void)size;
    (void)align;
    (void)user;
    return NULL;
}

static void mistakes_with_parameters(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param_desc d = fold_param_desc_default();
    fold_op_desc op = fold_op_desc_default();
    d.name = "p";
    d.shape = fold_shape1(2);
    MODEL_SAYS((d.rate_set = 16, fold_param_new(m, &d)), FOLD_BAD_ARGUMENT, "rate_set is 16, must be in [0, 15]");
    MODEL_SAYS((d.rate_set = -1, fold_param_new(m, &d)), FOLD_BAD_ARGUMENT, "rate_set is -1, must be in [0, 15]");
    d.rate_set = 0;
    MODEL_SAYS((d.uses = FOLD_FOR_LINEAR, fold_param_new(m, &d)), FOLD_BAD_ARGUMENT, "a weight for fold_linear or fold_linear_t must have rank 2");
    MODEL_SAYS((d.uses = FOLD_FOR_LINEAR_T, fold_param_new(m, &d)), FOLD_BAD_ARGUMENT, "a weight for fold_linear or fold_linear_t must have rank 2");
    MODEL_SAYS((d.uses = FOLD_FOR_CONV, fold_param_new(m, &d)), FOLD_BAD_ARGUMENT, "a filter must have rank 3 or 4");
    d.uses = 0;
    MODEL_SAYS((d.name = "", fold_param_new(m, &d)), FOLD_BAD_ARGUMENT, "the name is missing");
    d.name = "p";

    fold_op_desc good = op;
    good.name = "o";
    good.n_in = good.n_out = 1;
    good.infer = shape_of_first;
    good.forward = copies;
    MODEL_SAYS(fold_op_new(m, NULL), FOLD_BAD_ARGUMENT, "op '': name, infer or forward is NULL");
    MODEL_SAYS((op = good, op.name = NULL, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "name, infer or forward is NULL");
    MODEL_SAYS((op = good, op.infer = NULL, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o': name, infer or forward is NULL");
    MODEL_SAYS((op = good, op.forward = NULL, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_in = 0, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_in = -2, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_in = FOLD_MAX_IN + 1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_out = 0, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_out = FOLD_MAX_OUT + 1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_attr = -1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.n_attr = 5, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.scratch = -1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.is_list = 1, op.n_in = -1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.is_list = 1, op.n_in = 3, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.is_list = 1, op.n_out = 2, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.is_whole = op.is_list = 1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.is_whole = op.one_row = 1, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, op.is_whole = 1, op.n_in = FOLD_MAX_IN, fold_op_new(m, &op)), FOLD_BAD_ARGUMENT, "op 'o'");
    MODEL_SAYS((op = good, fold_op_new(m, &op)), FOLD_OK, "");
    fold_model_free(m);

    fold_fit_desc fit = fold_fit_desc_default();
    fold_save_desc save = fold_save_desc_default();
    const size_t too_much = 101 << 20;
    char *config = (char *)malloc(too_much);
    m = fold_model_new(NULL);
    if (config) {
        memset(config, 'c', too_much);
        config[too_much - 1] = 0;
        save.config = config;
        CHECK_INT(fold_model_save_to(m, fold_to_file, NULL, &save), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_model_message(m), "save: names and config exceed 100 MB");
    }
    free(config);
    fold_ctx *f = context(m, 1, 0);
    CHECK_INT(fold_ctx_fail(f, FOLD_IO, "loop: \"x\x1b[2J\xff\""), FOLD_IO);
    CHECK_INT(strcmp(fold_ctx_message(f), "loop: \"x?[2J?\""), 0);
    CHECK_INT(fold_ctx_fail(f, FOLD_BAD_SHAPE, "second"), FOLD_IO);
    CHECK(fold_node_is_null(fold_constant(f, 1)));
    CHECK_INT(fold_model_status(m), FOLD_OK);
    fold_ctx_reset(f);
    CHECK_INT(fold_ctx_fail(f, FOLD_OK, NULL), FOLD_BAD_ARGUMENT);
    fold_ctx_reset(f);
    CHECK_INT(fold_ctx_status(f), FOLD_OK);
    fit.ctx = f;
    CHECK(fold_fit(&fit, NULL) == FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "fit: loss is NULL");
    fold_ctx_free(f);
    fold_model_free(m);
    fold_model_desc desc = fold_model_desc_default();
    desc.memory.alloc = take_nothing; /* and nothing to free it by */
    CHECK(!fold_model_new(&desc));
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("in a traced body", in_a_traced_body);
    check_run("in an eager body", in_an_eager_body);
    check_run("in an eager body with a list", in_an_eager_list_body);
    check_run("reads before a run", reads_before_a_run);
    check_run("mistaken reads", mistaken_reads);
    check_run("mistaken reads keep an error", reads_keep_errors);
    check_run("wrong settings", wrong_settings);
    check_run("wrong threads of a model", wrong_threads_of_a_model);
    check_run("nothing to do", nothing_to_do);
    check_run("NULL at every call", null_everywhere);
    check_run("every call is listed", all_calls_are_listed);
    check_run("absurd counts", absurd_counts);
    check_run("a cell of many inputs", cell_of_many_inputs);
    check_run("plans of nothing", plans_of_nothing);
    check_run("forgotten operands", forgotten_operands);
    check_run("errors are told", errors_are_told);
    check_run("calls like the one before", calls_like_others);
    check_run("mistakes in cells", mistakes_in_cells);
    check_run("mistakes with values", mistakes_with_values);
    check_run("mistakes in layers", mistakes_in_layers);
    check_run("mistakes with parameters", mistakes_with_parameters);
    return check_finish();
}
