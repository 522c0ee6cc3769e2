/* cc -O2 -o test_errors tests/test_errors.c -lm

   Mistakes: calls in a cell's body that have no place there, mistaken reads, nothing to do, NULL and null
   handles at every public call. What a call says is tested with what it does. */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
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

enum { RUN, BACKWARD, VALUE, SCALAR, READ, GRAD, RESET, SEED, MAKE, NOTHING, MISTAKES };
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
    static const char *const says[MISTAKES] = { "run: ",   "backward: ",        "value: ",           "value: ",
                                                "value: ", "grad: ",            "fold_ctx_reset: ", "fold_dropout_seed: ",
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
        if (mistake == SCALAR) CHECK_NEAR(seen, tanh(0.5), 1e-6);
        if (mistake == MAKE) CHECK_TEXT(fold_ctx_message(f), "cell 'inner': a cell cannot be made");
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
    CHECK_TEXT(fold_ctx_message(f), "all elements of a list");
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
    const fold_node sum = fold_call_list(f, cell, NULL, 0, list, 2);
    CHECK_NEAR(fold_value(f, sum)[1], 6, 0);
    CHECK_INT(fold_ctx_status(f), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- mistaken reads -------------------------------------------------------------------------- */

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
                says = "was not kept";
                break;
            case 2: CHECK(!fold_grad(f, y)); says = "fold_keep_grad before fold_backward"; break;
            case 3: CHECK(!fold_value(f, old)); says = "from before the last fold_ctx_reset"; break;
            case 4: CHECK(isnan(fold_scalar(f, theirs))); says = "another context"; break;
            case 5: CHECK_INT(fold_node_shape(f, old).rank, 0); says = "node_shape: "; break;
            case 6: CHECK_INT(fold_read(f, two_sizes, 2, two), FOLD_BAD_SHAPE); says = "node 1 has 1 values"; break;
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
        CHECK_TEXT(fold_ctx_message(f), "run: a pointer is NULL");
        fold_ctx_reset(f);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("in a traced body", in_a_traced_body);
    check_run("in an eager body", in_an_eager_body);
    check_run("in an eager body with a list", in_an_eager_list_body);
    check_run("mistaken reads", mistaken_reads);
    check_run("mistaken reads keep an error", reads_keep_errors);
    check_run("nothing to do", nothing_to_do);
    return check_finish();
}
