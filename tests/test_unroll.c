/* test_unroll.c - unrolling beside the loop one would write by hand: the same bits, nodes and batches; merged outputs,
   stacks, errors. Gradients: tests/test_layers.c.
       cc -O2 -o test_unroll tests/test_unroll.c -lm && ./test_unroll */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"

enum { SAMPLES = 6, STEPS = 40, WIDTH = 7, HIDDEN = 12, FLOATS = SAMPLES * STEPS * WIDTH, MAX_GRADS = 1 << 15 };
static const int lengths[SAMPLES] = { 3, 0, STEPS, 1, 17, 3 };

/* What every test starts from: cells, a training context, and uneven sequences in both layouts. */
typedef struct bed {
    fold_model *m;
    fold_ctx *f;
    fold_recurrent rnn, lstm, gru;
    fold_rnn_stack stack;
    float values[FLOATS], weight[STEPS * HIDDEN]; /* [samples x steps x width] */
} bed;

static fold_ctx *new_context(fold_model *m, int eager)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.eager = eager;
    return fold_ctx_new(m, &d);
}

static void open_bed(bed *b)
{
    check_random r = { 5 };
    memset(b, 0, sizeof *b);
    b->m = fold_model_new(NULL);
    b->rnn = fold_rnn_new(b->m, "rnn", WIDTH, HIDDEN);
    b->lstm = fold_lstm_new(b->m, "lstm", WIDTH, HIDDEN);
    b->gru = fold_gru_new(b->m, "gru", WIDTH, HIDDEN);
    b->stack = fold_rnn_stack_new(b->m, "stack", fold_gru_new, WIDTH, HIDDEN, 3, 1);
    b->f = new_context(b->m, 0);
    random_fill(&r, b->values, FLOATS, -1, 1);
    random_fill(&r, b->weight, STEPS * HIDDEN, -1, 1);
    CHECK_SAYS(!fold_ctx_status(b->f), "%s", fold_ctx_message(b->f));
}
static void close_bed(bed *b)
{
    fold_ctx_free(b->f);
    fold_model_free(b->m);
}

/* Records the inputs of sample i and returns how many there are. */
static int inputs_of(fold_ctx *f, const bed *b, int i, fold_node *x)
{
    for (int t = 0; t < lengths[i]; t++) x[t] = fold_input_ref(f, b->values + (i * STEPS + t) * WIDTH, fold_shape1(WIDTH));
    return lengths[i];
}
static fold_node weighted(fold_ctx *f, const bed *b, fold_node y, int t)
{
    return fold_dot(f, y, fold_input(f, b->weight + t * HIDDEN, HIDDEN));
}
/* A loss of all outputs, summed in one order. */
static fold_node loss_of(fold_ctx *f, const bed *b, const fold_node *out)
{
    fold_node term[SAMPLES * STEPS];
    size_t n = 0;
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 0; t < lengths[i]; t++) term[n++] = weighted(f, b, out[i * STEPS + t], t);
    return fold_sum_n(f, term, (int)n);
}

typedef struct outcome {
    float loss, grads[MAX_GRADS], out[SAMPLES * STEPS][HIDDEN];
    int count, nodes, batches, bound;
} outcome;

/* Runs forward and backward, and notes what came of it. */
static void finish(fold_ctx *f, const bed *b, const fold_node *out, outcome *o)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 0; t < lengths[i]; t++) fold_keep(f, out[i * STEPS + t]);
    const fold_node loss = loss_of(f, b, out);
    fold_grads_clear(b->m);
    if (!CHECK_SAYS(!fold_backward(f, loss), "%s", fold_ctx_message(f))) return;
    o->loss = fold_scalar(f, loss);
    const float *g = fold_model_grads(b->m, &o->count);
    if (CHECK(o->count <= MAX_GRADS)) memcpy(o->grads, g, (size_t)o->count * sizeof *g);
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 0; t < lengths[i]; t++)
            memcpy(o->out[i * STEPS + t], fold_value(f, out[i * STEPS + t]), sizeof o->out[0]);
    const fold_stats s = fold_ctx_stats(f);
    o->nodes = s.run_nodes;
    o->batches = s.batches;
    o->bound = s.lower_bound;
}

static void same_outcome(const outcome *a, const outcome *b, const char *what)
{
    CHECK_SAYS(!memcmp(&a->loss, &b->loss, sizeof a->loss), "%s: the loss differs", what);
    CHECK_SAYS(!memcmp(a->out, b->out, sizeof a->out), "%s: outputs differ", what);
    CHECK_SAYS(a->count && !memcmp(a->grads, b->grads, sizeof a->grads), "%s: gradients differ", what);
}

/* ---- beside a loop by hand ---------------------------------------------------------------------- */

static void by_hand(fold_ctx *f, const bed *b, const fold_recurrent *r, int reverse, fold_node *out)
{
    for (int i = 0; i < SAMPLES; i++) {
        fold_state s = fold_recurrent_zeros(f, r);
        for (int k = 0; k < lengths[i]; k++) {
            const int t = reverse ? lengths[i] - 1 - k : k;
            s = fold_recurrent_apply(f, r, fold_input(f, b->values + (i * STEPS + t) * WIDTH, WIDTH), s);
            out[i * STEPS + t] = s.h;
        }
    }
}
static void unrolled(fold_ctx *f, const bed *b, const fold_recurrent *r, int reverse, fold_node *out)
{
    for (int i = 0; i < SAMPLES; i++) {
        fold_node x[STEPS];
        const int n = inputs_of(f, b, i, x);
        fold_unroll(f, r, x, n, reverse, NULL, out + i * STEPS);
    }
}

static void test_by_hand(void)
{
    static outcome want, got;
    static fold_node out[SAMPLES * STEPS];
    bed b;
    open_bed(&b);
    const fold_recurrent *const cells[3] = { &b.rnn, &b.lstm, &b.gru };
    for (int k = 0; k < 6; k++) {
        fold_ctx_reset(b.f);
        by_hand(b.f, &b, cells[k / 2], k % 2, out);
        finish(b.f, &b, out, &want);
        CHECK(want.loss != 0);
        fold_ctx_reset(b.f);
        unrolled(b.f, &b, cells[k / 2], k % 2, out);
        finish(b.f, &b, out, &got);
        same_outcome(&got, &want, "by hand");
        CHECK_INT(got.nodes, want.nodes);
        CHECK_INT(got.batches, want.batches);
        CHECK_INT(got.batches, STEPS + 2); /* the longest sample's steps, the dots, their sum */
        fold_ctx *eager = new_context(b.m, 1);
        unrolled(eager, &b, cells[k / 2], k % 2, out);
        finish(eager, &b, out, &got);
        same_outcome(&got, &want, "eager");
        fold_ctx_free(eager);
    }
    close_bed(&b);
}

/* ---- merged outputs ----------------------------------------------------------------------------- */

/* A value of all steps has the bits of the steps, and passes the same gradients on. */
static void test_merged(void)
{
    static outcome want, got;
    static fold_node out[SAMPLES * STEPS];
    bed b;
    open_bed(&b);
    unrolled(b.f, &b, &b.lstm, 0, out);
    finish(b.f, &b, out, &want);
    for (int eager = 0; eager < 2; eager++) {
        fold_node merged[SAMPLES], term[SAMPLES];
        size_t terms = 0;
        fold_ctx *f = new_context(b.m, eager);
        unrolled(f, &b, &b.lstm, 0, out);
        for (int i = 0; i < SAMPLES; i++) {
            if (!lengths[i]) continue;
            const fold_shape all = fold_shape2(lengths[i], HIDDEN);
            merged[i] = fold_stack(f, out + i * STEPS, lengths[i]);
            const fold_shape made = fold_node_shape(f, merged[i]);
            CHECK(made.rank == 2 && made.dim[0] == all.dim[0] && made.dim[1] == HIDDEN);
            fold_keep(f, merged[i]);
            term[terms++] = fold_dot(f, merged[i], fold_input_shaped(f, b.weight, all));
        }
        fold_grads_clear(b.m);
        CHECK_SAYS(!fold_backward(f, fold_sum_n(f, term, (int)terms)), "%s", fold_ctx_message(f));
        memcpy(got.grads, fold_model_grads(b.m, &got.count), (size_t)want.count * sizeof(float));
        CHECK_BITS(got.grads, want.grads, want.count);
        for (int i = 0; i < SAMPLES; i++)
            if (lengths[i]) CHECK_BITS(fold_value(f, merged[i]), want.out[i * STEPS], (size_t)(lengths[i] * HIDDEN));
        fold_ctx_free(f);
    }
    close_bed(&b);
}

static void test_stack_and_unstack(void)
{
    float values[24];
    fold_node row[6], again[6], scalar[4];
    bed b;
    open_bed(&b);
    for (int i = 0; i < 24; i++) values[i] = (float)(i + 1);
    const fold_node x = fold_input_shaped(b.f, values, fold_shape3(2, 3, 4));
    fold_unstack(b.f, x, 2, row);
    CHECK_INT(fold_node_shape(b.f, row[1]).rank, 2);
    fold_unstack(b.f, row[1], 3, again);
    fold_unstack(b.f, again[2], 4, scalar);
    CHECK_INT(fold_node_shape(b.f, scalar[3]).rank, 1);
    const fold_node back = fold_stack(b.f, row, 2), flat = fold_stack(b.f, scalar, 4);
    CHECK_INT(fold_node_shape(b.f, back).rank, 3);
    fold_node roots[3] = { back, scalar[3], flat };
    CHECK_SAYS(!fold_run(b.f, roots, 3), "%s", fold_ctx_message(b.f));
    CHECK_BITS(fold_value(b.f, back), values, 24);
    CHECK(fold_scalar(b.f, scalar[3]) == 24);
    CHECK_BITS(fold_value(b.f, flat), values + 20, 4);
    CHECK_INT(fold_node_shape(b.f, flat).dim[0], 4);
    CHECK_INT(fold_node_shape(b.f, flat).rank, 2);
    CHECK(fold_node_is_null(fold_stack(b.f, row, 0)));
    CHECK_TEXT(fold_ctx_message(b.f), "stack: n is 0, must be at least 1");
    fold_ctx_reset(b.f);
    row[0] = fold_input(b.f, values, 3);
    row[1] = fold_input(b.f, values, 4);
    CHECK(fold_node_is_null(fold_stack(b.f, row, 2)));
    CHECK_TEXT(fold_ctx_message(b.f), "stack: values must be equal in shape (inputs [3], [4])");
    fold_ctx_reset(b.f);
    fold_unstack(b.f, fold_input(b.f, values, 3), 2, row);
    CHECK(fold_node_is_null(row[0]) && fold_node_is_null(row[1]));
    CHECK_TEXT(fold_ctx_message(b.f), "unstack: n is 2, must equal the first axis of x, 3");
    close_bed(&b);
}

/* ---- stacks ------------------------------------------------------------------------------------- */

/* Gives every second sample beginnings, others for each layer and direction; NULL: zeros. */
static const fold_state *stack_begins(fold_ctx *f, int i, fold_state begin[6])
{
    float h[HIDDEN];
    for (int k = 0; k < 6 && i % 2; k++) {
        for (int at = 0; at < HIDDEN; at++) h[at] = (float)(k + at) / 20;
        begin[k].h = fold_input(f, h, HIDDEN);
        begin[k].c = FOLD_NULL_NODE;
    }
    return i % 2 ? begin : NULL;
}

/* Three layers in both directions, a loop per direction by hand. */
static void stack_by_hand(fold_ctx *f, const bed *b, int i, fold_node *y, fold_state *last)
{
    fold_node x[STEPS], down[STEPS];
    fold_state begins[6];
    const int n = inputs_of(f, b, i, x);
    const fold_state *begin = stack_begins(f, i, begins);
    for (int layer = 0; layer < 3; layer++) {
        fold_state s = begin ? begin[2 * layer] : fold_recurrent_zeros(f, &b->stack.cell[2 * layer]);
        for (int t = 0; t < n; t++) down[t] = (s = fold_recurrent_apply(f, &b->stack.cell[2 * layer], x[t], s)).h;
        last[2 * layer] = s;
        s = begin ? begin[2 * layer + 1] : fold_recurrent_zeros(f, &b->stack.cell[2 * layer + 1]);
        for (int t = n - 1; t >= 0; t--) {
            s = fold_recurrent_apply(f, &b->stack.cell[2 * layer + 1], x[t], s);
            down[t] = fold_concat2(f, down[t], s.h);
        }
        last[2 * layer + 1] = s;
        memcpy(x, down, (size_t)n * sizeof *x);
    }
    memcpy(y, x, (size_t)n * sizeof *x);
}
static void stack_applied(fold_ctx *f, const bed *b, int i, fold_node *y, fold_state *last)
{
    fold_node x[STEPS];
    fold_state begins[6];
    const int n = inputs_of(f, b, i, x);
    const fold_state *begin = stack_begins(f, i, begins);
    CHECK_SAYS(!fold_unroll_stack(f, &b->stack, x, n, begin, y, last), "%s", fold_ctx_message(f));
}

/* Its first half of outputs, so that the tests above can weigh them; all are kept and compared in `both`. */
typedef void record_stack(fold_ctx *f, const bed *b, int i, fold_node *y, fold_state *last);
static void run_stack(fold_ctx *f, const bed *b, record_stack *record, outcome *o, float *both, float *ends)
{
    static fold_node out[SAMPLES * STEPS], half[SAMPLES * STEPS];
    static fold_state last[SAMPLES][6];
    fold_ctx_reset(f);
    for (int i = 0; i < SAMPLES; i++) {
        record(f, b, i, out + i * STEPS, last[i]);
        for (int k = 0; k < 6; k++) fold_keep(f, last[i][k].h);
        for (int t = 0; t < lengths[i]; t++) {
            fold_node parts[2];
            fold_keep(f, out[i * STEPS + t]);
            fold_split(f, out[i * STEPS + t], 2, parts);
            half[i * STEPS + t] = fold_add(f, parts[0], parts[1]);
        }
    }
    finish(f, b, half, o);
    for (int i = 0; i < SAMPLES; i++) {
        for (int t = 0; t < lengths[i]; t++)
            memcpy(both + (i * STEPS + t) * 2 * HIDDEN, fold_value(f, out[i * STEPS + t]), 2 * HIDDEN * sizeof *both);
        for (int k = 0; k < 6; k++)
            memcpy(ends + (i * 6 + k) * HIDDEN, fold_value(f, last[i][k].h), HIDDEN * sizeof *ends);
    }
}

static void test_stack(void)
{
    static outcome want, got;
    static float both[2][SAMPLES * STEPS * 2 * HIDDEN], ends[2][SAMPLES * 6 * HIDDEN];
    bed b;
    open_bed(&b);
    CHECK(fold_param_find(b.m, "stack.2.reverse.U").id);
    run_stack(b.f, &b, stack_by_hand, &want, both[0], ends[0]);
    for (int kind = 0; kind < 5; kind++) { /* batched, eager, in a block of the exact size, with other schedules */
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_ctx *f = kind ? NULL : b.f;
        void *memory = NULL;
        if (kind == 1) f = new_context(b.m, 1);
        if (kind >= 2) {
            d.training = 1;
            d.schedule = (fold_schedule)(kind - 2);
            d.memory.block_size = fold_ctx_stats(b.f).block_bytes * (kind == 2 ? 1 : 2);
            memory = aligned_block(d.memory.block_size, 64);
            d.memory.block = memory;
            f = fold_ctx_new(b.m, &d);
        }
        if (!CHECK(f)) return;
        run_stack(f, &b, stack_applied, &got, both[1], ends[1]);
        same_outcome(&got, &want, "stack");
        CHECK_BITS(both[1], both[0], SAMPLES * STEPS * 2 * HIDDEN);
        CHECK_BITS(ends[1], ends[0], SAMPLES * 6 * HIDDEN);
        if (kind != 1) CHECK_INT(got.nodes, want.nodes);
        if (!kind || kind == 2) CHECK_INT(got.batches, want.batches);
        if (kind) fold_ctx_free(f);
        if (memory) free_block(memory);
    }
    close_bed(&b);
}

/* ---- errors ------------------------------------------------------------------------------------- */

static void expect(const bed *b, int null, const char *text)
{
    CHECK_SAYS(null, "what was returned is not null (%s)", text);
    CHECK_TEXT(fold_ctx_message(b->f), text);
    CHECK(fold_ctx_status(b->f) != FOLD_OK);
    fold_ctx_reset(b->f);
}

static void test_unroll_errors(void)
{
    fold_recurrent none;
    fold_node x[STEPS], out[STEPS];
    fold_state s;
    bed b;
    open_bed(&b);
    memset(&none, 0, sizeof none);
    fold_ctx *f = b.f;
    inputs_of(f, &b, 2, x);
    memset(out, 0xff, sizeof out);
    s = fold_unroll(f, &b.lstm, x, -1, 0, NULL, out);
    expect(&b, fold_node_is_null(s.h) && fold_node_is_null(s.c), "unroll: a sequence cannot have -1 steps");
    s = fold_unroll(f, NULL, x, 2, 0, NULL, out);
    expect(&b, fold_node_is_null(s.h) && fold_node_is_null(out[1]), "unroll: the cell is null");
    s = fold_unroll(f, &none, x, 2, 0, NULL, NULL);
    expect(&b, fold_node_is_null(s.h), "unroll: the cell is null");
    s = fold_unroll(f, &b.lstm, NULL, 2, 0, NULL, out);
    expect(&b, fold_node_is_null(s.h), "unroll: x is NULL");
    s = fold_unroll(f, &b.lstm, x, 2, 0, NULL, out); /* nodes from before the reset */
    expect(&b, fold_node_is_null(s.h), "the node is from another context, or from before the last fold_ctx_reset");
    x[0] = fold_input(f, b.values, WIDTH);
    x[1].id = 0;
    s = fold_unroll(f, &b.lstm, x, 2, 0, NULL, out);
    expect(&b, fold_node_is_null(s.h), "unroll: input 1 of 2 is null");
    x[0] = fold_input(f, b.values, WIDTH + 1);
    s = fold_unroll(f, &b.lstm, x, 1, 0, NULL, out);
    expect(&b, fold_node_is_null(s.h) && fold_node_is_null(out[0]),
           "lstm: x is [8], must be [7]");
    s = fold_recurrent_zeros(f, &b.gru);
    s = fold_unroll(f, &b.lstm, x, 0, 0, &s, NULL);
    expect(&b, fold_node_is_null(s.h), "unroll: begin must have both h and c");
    s = fold_recurrent_zeros(f, &b.lstm);
    s = fold_unroll(f, &b.gru, x, 0, 0, &s, NULL);
    expect(&b, fold_node_is_null(s.h), "unroll: begin must have h, and a null c");
    close_bed(&b);
}

static void test_stack_errors(void)
{
    fold_rnn_stack none;
    fold_node x[2], out[2];
    fold_state last[6];
    bed b;
    open_bed(&b);
    memset(&none, 0, sizeof none);
    x[0] = x[1] = fold_input(b.f, b.values, WIDTH - 1);
    CHECK(fold_unroll_stack(b.f, &b.stack, x, 2, NULL, out, last) == FOLD_BAD_SHAPE);
    expect(&b, fold_node_is_null(out[1]) && fold_node_is_null(last[5].h),
           "stack.0: x is [6], must be [7]");
    CHECK(fold_unroll_stack(b.f, &none, x, 2, NULL, out, last) == FOLD_BAD_ARGUMENT);
    expect(&b, fold_node_is_null(out[0]), "unroll_stack: the stack is NULL");
    CHECK(fold_unroll_stack(b.f, &b.stack, x, -2, NULL, out, last) == FOLD_BAD_ARGUMENT);
    expect(&b, fold_node_is_null(last[0].h), "unroll_stack: a sequence cannot have -2 steps");
    fold_rnn_stack_new(b.m, "tall", fold_rnn_new, 3, 4, FOLD_MAX_LAYERS + 1, 0);
    CHECK_TEXT(fold_model_message(b.m), "rnn_stack 'tall': make is NULL, or layers (9) is not 1 to 8");
    fold_model_clear_error(b.m);
    close_bed(&b);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("beside a loop by hand", test_by_hand);
    check_run("merged outputs", test_merged);
    check_run("stack and unstack", test_stack_and_unstack);
    check_run("stacks in both directions", test_stack);
    check_run("errors of unrolling", test_unroll_errors);
    check_run("errors of stacks", test_stack_errors);
    return check_finish();
}
