/* test_lists.c - lists as values: where they come from, windows and rows of them, nodes beside them, reductions,
   cells mapped over them, recurrence; in all settings against the eager context, and against single nodes.
       cc -O2 -o test_lists tests/test_lists.c -lm && ./test_lists */

#define FOLD__SHARED_WORK 500 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_DRAW_IMPLEMENTATION
#include "../examples/fold_draw.h"
#include "../examples/policy.h"
#include "check.h"
#include "models.h"
#include "scenes.h"

/* -- scenes: sources, windows, rows ----------------------------------------------------------------------- */

static int least(int n, int least_of) { return n < least_of ? least_of : n; }
static const fold_shape vector = { 1, { WIDTH, 0, 0, 0 } };

static fold_node words_of(play *p, int n)
{
    int row[MAX_ROWS];
    for (int i = 0; i < n; i++) row[i] = random_below(&p->random, WORDS);
    return fold_list_lookup(p->f, p->n->words, row, n);
}

static fold_node sources(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    fold_node list[MAX_ROWS], x[6];
    int row[MAX_ROWS];
    for (int i = 0; i < n; i++) row[i] = (i * i + p->sample) % WORDS;
    x[0] = see(p, some_list(p, n));
    x[1] = see(p, fold_list_input_ref(f, p->fixed, n, vector));
    x[2] = words_of(p, n);
    x[3] = see(p, fold_reshape(f, fold_list_lookup(f, p->n->table, row, n), vector));
    for (int i = 0; i <= n; i++) list[i] = i % 3 ? some_node(p) : fold_tanh(f, some_node(p));
    x[4] = see(p, fold_list_join(f, list, n + 1));
    const fold_node parts[5] = { x[4], list[0], x[0], some_list(p, 0), x[1] };
    x[5] = see(p, fold_list_join(f, parts, 5));
    CHECK_INT(fold_list_length(f, x[5]), 3 * n + 2);
    for (int i = 0; i < 6; i++) x[i] = see(p, fold_sigmoid(f, x[i]));
    return totals(p, x, 6);
}

/* A list of nodes gives them their gradients beside other readers; rows of it are nodes again. */
static fold_node nodes_and_back(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size + 1;
    fold_node list[MAX_ROWS], x[4];
    const fold_node twice = list[0] = see(p, fold_tanh(f, some_node(p)));
    for (int i = 1; i < n; i++) list[i] = see(p, fold_tanh(f, some_node(p)));
    list[n - 1] = twice;
    x[0] = see(p, fold_square(f, fold_list_join(f, list, n)));
    for (int i = 0; i < n; i++) list[i] = fold_mul(f, list[i], fold_list_at(f, x[0], n - 1 - i));
    x[1] = see(p, fold_list_join(f, list, n));
    x[2] = see(p, fold_list_at(f, x[1], n / 2));
    x[3] = list[n - 1];
    return totals(p, x, 4);
}

static fold_node windows(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, rows_of(p, p->size, fold_shape2(4, WIDTH)))); /* readers of parts that overlap */
    fold_node part[4], y[6];
    fold_split(f, x, 4, part);
    const fold_node low = fold_slice(f, x, 0, 0, 3), high = see(p, fold_slice(f, x, 0, 1, 3));
    for (int i = 0; i < 4; i++) part[i] = fold_reshape(f, part[i], vector);
    y[0] = see(p, fold_mul(f, low, high));
    y[1] = fold_add(f, part[0], part[3]);
    y[2] = see(p, fold_linear(f, part[1], p->n->W, p->n->b));
    y[3] = fold_slice(f, part[2], 0, 2, 3);
    y[4] = fold_slice(f, x, 1, 2, 2);
    y[5] = fold_square(f, fold_slice(f, fold_slice(f, part[2], 0, 1, 4), 0, 1, 2));
    return totals(p, y, 6);
}

/* One row, the same row twice, and all rows by at, beside readers of the whole. */
static fold_node rows_by_at(play *p)
{
    fold_ctx *f = p->f;
    const int n = least(p->size, 1);
    const fold_node x = see(p, fold_gelu_tanh(f, some_list(p, n)));
    fold_node row[MAX_ROWS], y[6];
    for (int i = 0; i < n; i++) row[i] = fold_scale(f, fold_list_at(f, x, i), (float)(i + 1));
    y[0] = see(p, fold_sum_n(f, row, n));
    y[1] = see(p, fold_exp(f, x));
    y[2] = see(p, fold_list_at(f, x, p->sample % 2 ? -1 : n - 1));
    y[3] = fold_slice(f, fold_list_at(f, x, n - 1), 0, 1, 3);
    y[4] = see(p, fold_linear(f, fold_list_at(f, x, n / 2), p->n->W, p->n->none));
    y[5] = see(p, fold_list_at(f, y[1], 0));
    return totals(p, y, 6);
}

/* Only rows of a list are read, and not all of them: the others have a gradient of zeros. */
static fold_node some_rows_only(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size + 3)));
    return total(p, fold_mul(f, fold_list_at(f, x, 1), fold_list_at(f, x, p->size + 1)));
}

static fold_node contributions(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size + 1)));
    const fold_node z = see(p, fold_mul(f, x, x)), both = fold_add(f, z, x);
    fold_node y[5];
    y[0] = see(p, fold_linear(f, x, p->n->W, p->n->b));
    y[1] = see(p, fold_softmax(f, both));
    y[2] = fold_list_at(f, both, p->size);
    y[3] = fold_list_mean(f, z);
    y[4] = see(p, fold_div(f, x, fold_shift(f, z, 1.5f)));
    return totals(p, y, 5);
}

/* -- nodes beside lists ------------------------------------------------------------------------------------- */

static fold_node beside(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size))), a = see(p, fold_tanh(f, some_node(p)));
    const fold_node parts[3] = { a, x, a };
    fold_node y[9];
    y[0] = see(p, fold_sub(f, a, x));
    y[1] = see(p, fold_sub(f, x, a));
    y[2] = fold_mul(f, fold_sum(f, a, 0), x);
    y[3] = see(p, fold_div(f, a, fold_shift(f, fold_square(f, x), 1)));
    y[4] = fold_concat(f, parts, 3, 0);
    y[5] = see(p, fold_linear_n(f, parts, 2, p->n->U, p->n->b));
    y[6] = fold_linear_n(f, parts + 1, 2, p->n->U, p->n->none);
    y[7] = fold_select(f, x, a, fold_square(f, x));
    y[8] = fold_dot(f, x, a);
    return totals(p, y, 9);
}

/* Products read the parts of a concatenation, of lists and of nodes beside them, whose gradient may be kept. */
static fold_node concatenations(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    const fold_node x = fold_tanh(f, some_list(p, p->size)), a = see(p, fold_tanh(f, some_node(p)));
    const fold_node pair[3][2] = { { x, fold_square(f, x) }, { a, x }, { x, a } };
    fold_node y[6];
    for (int i = 0; i < 6; i++) {
        const fold_node both = fold_concat(f, pair[i % 3], 2, 0);
        y[i] = see(p, fold_linear(f, i < 3 ? both : see(p, both), n->U, n->b));
    }
    return totals(p, y, 6);
}

/* Rows of many shapes, and matrices beside them; a shared value and a parameter. */
static fold_node products(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, rows_of(p, p->size, fold_shape2(2, 3)))), v = some_list(p, p->size);
    const fold_node node = fold_tanh(f, some_node(p)), small = fold_slice(f, node, 0, 0, 3);
    fold_node y[7];
    y[0] = see(p, fold_matmul(f, x, fold_reshape(f, node, fold_shape2(3, 2))));
    y[1] = see(p, fold_matmul(f, fold_reshape(f, node, fold_shape2(2, 3)), fold_transpose(f, x, 0, 1)));
    y[2] = fold_matmul(f, v, fold_use(f, p->n->matrix));
    y[3] = see(p, fold_matmul(f, x, small));
    y[4] = fold_add(f, v, fold_shared(f, fold_tanh(f, fold_use(f, p->n->gain))));
    y[5] = see(p, fold_sub(f, fold_use(f, p->n->gain), v));
    y[6] = fold_amax(f, x, 1);
    return totals(p, y, 7);
}

/* What depends on no list stays one value, beside lists of two lengths. */
static fold_node two_lengths(play *p)
{
    fold_ctx *f = p->f;
    const fold_node a = see(p, fold_linear(f, some_node(p), p->n->W, p->n->b));
    const fold_node x = see(p, fold_mul(f, some_list(p, p->size), a)), y = see(p, fold_mul(f, a, some_list(p, 4)));
    const fold_node parts[2] = { fold_list_sum(f, x), fold_list_mean(f, y) };
    CHECK_INT(fold_list_length(f, a), -1);
    CHECK_INT(fold_list_length(f, parts[0]), -1);
    return totals(p, parts, 2);
}

/* A list that all samples read. */
static fold_node shared_list(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_mul(f, p->common, some_node(p)));
    const fold_node y[3] = { x, fold_linear(f, p->common, p->n->W, p->n->b), fold_list_at(f, p->common, p->sample % 5) };
    return totals(p, y, 3);
}

/* -- reductions ------------------------------------------------------------------------------------------------ */

/* Ops of one's own over whole lists: of an input, a window and looked-up rows; beside a node and a parameter. */
static fold_node own_ops(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = some_list(p, p->size), a = see(p, fold_sigmoid(f, fold_pick(f, some_node(p), 0)));
    fold_node in[2] = { fold_tanh(f, x), a }, y[4];
    y[0] = see(p, fold_op_apply_whole(f, p->n->decay, in, 2, NULL, 0, p->size));
    in[0] = words_of(p, p->size);
    y[1] = see(p, fold_op_apply_whole(f, p->n->decay, in, 2, NULL, 0, p->size));
    in[0] = fold_slice(f, y[0], 0, 1, 3);
    in[1] = fold_slice(f, fold_use(f, p->n->bias), 0, 2, 1);
    y[2] = see(p, fold_op_apply_whole(f, p->n->decay, in, 2, NULL, 0, p->size));
    y[3] = see(p, fold_add(f, y[0], y[1]));
    return totals(p, y, 4);
}

static fold_node reductions(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size))), score = fold_dot(f, x, some_node(p));
    fold_node y[5];
    y[0] = see(p, fold_list_sum(f, x));
    y[1] = see(p, fold_list_mean(f, fold_square(f, x)));
    y[2] = see(p, fold_list_softmax_mean(f, score, x));
    y[3] = see(p, fold_list_max(f, fold_list_join(f, y, 3)));
    y[4] = p->size ? see(p, fold_list_max(f, fold_neg(f, x))) : y[0];
    return totals(p, y, 5);
}

/* -- layers and cells -------------------------------------------------------------------------------------------- */

static fold_node layers(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    fold_state s;
    fold_node y[6];
    const fold_node x = see(p, some_list(p, p->size));
    y[0] = see(p, fold_mlp_apply(f, &n->mlp, x));
    y[1] = see(p, fold_layer_norm(f, fold_add(f, x, y[0]), n->gain, n->bias, 0));
    s.h = fold_tanh(f, y[1]);
    s.c = fold_input(f, p->fixed, WIDTH);
    s = fold_recurrent_apply(f, &n->lstm, x, s);
    y[2] = see(p, s.h);
    y[3] = see(p, s.c);
    y[4] = fold_log_softmax(f, fold_linear(f, s.h, n->V, n->none));
    y[5] = fold_softmax_xent(f, fold_linear(f, y[1], n->V, n->none), p->sample % CLASSES);
    return totals(p, y, 6);
}

static fold_node cells(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    const fold_node x = see(p, some_list(p, p->size)), both[2] = { x, fold_tanh(f, some_list(p, p->size)) };
    fold_node y[8];
    y[0] = see(p, fold_call(f, n->gate, &x, 1));
    const fold_node halves = fold_call(f, n->halves, both, 2), swapped[2] = { y[0], fold_out(f, halves, 0) };
    for (int i = 0; i < 3; i++) y[1 + i] = i ? see(p, fold_out(f, halves, i)) : fold_out(f, halves, i);
    const fold_node nested = fold_call(f, n->nested, swapped, 2);
    y[4] = see(p, fold_out(f, nested, 0));
    y[5] = see(p, fold_slice(f, fold_out(f, nested, 1), 0, 2, 4));
    y[6] = fold_out(f, fold_call(f, n->halves, swapped, 2), 1); /* the other outputs are not used */
    y[7] = fold_list_sum(f, y[5]);
    return totals(p, y, 8);
}

/* A node beside a list in a call: first, second, and outputs that depend on no list. */
static fold_node cells_beside(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, some_list(p, p->size)), a = see(p, fold_tanh(f, some_node(p)));
    const fold_node first[2] = { a, x }, second[2] = { x, a }, neither[2] = { a, fold_sigmoid(f, a) };
    const fold_node call[3] = { fold_call(f, p->n->apart, first, 2), fold_call(f, p->n->apart, second, 2),
                                fold_call(f, p->n->apart, neither, 2) };
    fold_node y[12];
    for (int i = 0; i < 12; i++) y[i] = i % 5 ? fold_out(f, call[i / 4], i % 4) : see(p, fold_out(f, call[i / 4], i % 4));
    CHECK_INT(fold_list_length(f, y[0]), -1); /* of the first call, of the node alone */
    CHECK_INT(fold_list_length(f, y[1]), p->size);
    CHECK_INT(fold_list_length(f, y[2]), p->size);
    CHECK_INT(fold_list_length(f, y[3]), -1);
    CHECK_INT(fold_list_length(f, y[4]), p->size);
    CHECK_INT(fold_list_length(f, y[5]), -1);
    CHECK_INT(fold_list_length(f, y[10]), -1);
    return totals(p, y, 12);
}

static fold_node dropouts(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, some_list(p, p->size)), a = fold_tanh(f, some_node(p));
    const fold_node both[2] = { x, a }, first[2] = { a, x };
    fold_node y[4];
    y[0] = see(p, fold_dropout(f, x, 0.5f));
    y[1] = see(p, fold_dropout(f, fold_mul(f, y[0], x), 0.25f));
    y[2] = see(p, fold_call(f, p->n->drops, both, 2));
    y[3] = see(p, fold_call(f, p->n->drops, first, 2));
    return totals(p, y, 4);
}

/* A cell's list as whole lists, and as nodes, in one recording. */
static fold_node called_both_ways(play *p, fold_cell cell, int outputs)
{
    fold_ctx *f = p->f;
    const fold_node query = see(p, fold_tanh(f, some_node(p)));
    const fold_node lists[2] = { see(p, some_list(p, p->size)), see(p, fold_tanh(f, some_list(p, p->size))) };
    fold_node element[2 * MAX_ROWS], y[6];
    const int n = p->size < 5 ? p->size : 5;
    for (int i = 0; i < n; i++) {
        element[2 * i] = fold_list_at(f, lists[1], i);
        element[2 * i + 1] = some_node(p);
    }
    const fold_node whole = fold_call_list(f, cell, &query, 1, lists);
    const fold_node single = fold_call_n(f, cell, &query, 1, element, n);
    CHECK_INT(fold_list_length(f, whole), -1);
    for (int i = 0; i < 2 * outputs; i++) y[i] = see(p, fold_out(f, i < outputs ? whole : single, i % outputs));
    return totals(p, y, 2 * outputs);
}
static fold_node whole_lists(play *p) { return called_both_ways(p, p->n->neighbours, 2); }
static fold_node joined_parts(play *p) { return called_both_ways(p, p->n->joined, 3); }

/* A GRU mapped over agents, frame by frame, in one recording. */
static fold_node frames(play *p)
{
    fold_ctx *f = p->f;
    fold_state s = { { 0, 0 }, { 0, 0 } };
    fold_node y[FRAMES];
    s.h = some_list(p, p->size);
    for (int t = 0; t < FRAMES; t++) {
        const fold_node seen = fold_add(f, some_list(p, p->size), fold_list_mean(f, s.h)); /* all agents see their mean */
        s = fold_recurrent_apply(f, &p->n->gru, seen, s);
        y[t] = t % 2 ? s.h : see(p, s.h);
    }
    return totals(p, y, FRAMES);
}

/* Agents come and go. */
static fold_node changing_frames(play *p)
{
    fold_ctx *f = p->f;
    fold_state s = { { 0, 0 }, { 0, 0 } };
    fold_node y[FRAMES], parts[2];
    s.h = some_list(p, p->size);
    for (int t = 0; t < FRAMES; t++) {
        s = fold_recurrent_apply(f, &p->n->gru, some_list(p, p->size + t), s);
        y[t] = see(p, s.h);
        parts[0] = s.h;
        parts[1] = some_node(p);
        s.h = see(p, fold_list_join(f, parts, 2));
    }
    return totals(p, y, FRAMES);
}

/* No rows, in all places. */
static fold_node nothing_at_all(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    const fold_node x = see(p, some_list(p, 0)), w = see(p, fold_list_lookup(f, n->words, NULL, 0)), a = some_node(p);
    const fold_node joined[2] = { x, w }, pair[2] = { x, a }, lists[2] = { x, w };
    const fold_node more[3] = { x, some_list(p, p->size), w };
    fold_node y[9];
    y[0] = see(p, fold_linear(f, fold_tanh(f, x), n->W, n->b));
    y[1] = see(p, fold_mul(f, y[0], a));
    y[2] = see(p, fold_list_join(f, joined, 2));
    y[3] = see(p, fold_list_sum(f, y[2]));
    y[4] = see(p, fold_list_mean(f, fold_layer_norm(f, w, n->gain, n->bias, 0)));
    y[5] = see(p, fold_list_softmax_mean(f, fold_dot(f, x, a), w));
    y[6] = see(p, fold_out(f, fold_call(f, n->halves, pair, 2), 0));
    y[7] = see(p, fold_out(f, fold_call_list(f, n->neighbours, &a, 1, lists), 0));
    y[8] = see(p, fold_tanh(f, fold_list_join(f, more, 3)));
    return totals(p, y, 9);
}

static fold_node stacks(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size))), parts[3] = { x, some_node(p), fold_square(f, x) };
    fold_node y[WIDTH + 1], all[3];
    y[WIDTH] = see(p, fold_stack(f, parts, 3));
    fold_unstack(f, y[WIDTH], 3, all);
    all[0] = fold_mul(f, all[0], all[2]);
    fold_unstack(f, all[0], WIDTH, y);
    return totals(p, y, WIDTH + 1);
}

/* Sequences of lists: the steps of an unrolled layer are frames. */
static fold_node unrolled(play *p)
{
    fold_node x[FRAMES], y[FRAMES + 1];
    fold_state begin = { { 0, 0 }, { 0, 0 } };
    for (int t = 0; t < FRAMES; t++) x[t] = t % 2 ? some_node(p) : some_list(p, p->size);
    begin.h = fold_tanh(p->f, some_list(p, p->size));
    y[FRAMES] = see(p, fold_unroll(p->f, &p->n->gru, x, FRAMES, 0, &begin, y).h);
    for (int t = 0; t < FRAMES; t++) y[t] = see(p, y[t]);
    return totals(p, y, FRAMES);
}

/* Gradients end where they are told to. */
static fold_node stopped(play *p)
{
    fold_ctx *f = p->f;
    const fold_node x = see(p, some_list(p, p->size)), w = words_of(p, p->size);
    const fold_node y[3] = { fold_mul(f, x, fold_stop_gradient(f, w)), fold_stop_gradient(f, fold_mul(f, x, w)),
                             fold_bce(f, x, fold_sigmoid(f, w)) };
    return totals(p, y, 3);
}

/* -- lists against single nodes --------------------------------------------------------------------------------- */

enum { MOST_ROWS = 300, SLOTS = 12, TWIN_FLOATS = 1 << 17 };
static const int twin_lengths[] = { 0, 1, 2, 17, 31, 33, MOST_ROWS };
enum { TWIN_LENGTHS = sizeof twin_lengths / sizeof *twin_lengths };

/* One of two recordings of the same rows: as lists, or as single nodes. What is to be compared goes to a slot: a
   list, or its rows. */
typedef struct twin {
    fold_ctx *f;
    const net *n;
    int single, rows, slot, losses;
    fold_node noted[SLOTS][MOST_ROWS], loss[MOST_ROWS];
} twin;
enum { ALL_ROWS = -1 };

static const float *twin_data(int part)
{
    static float x[4][MOST_ROWS * WIDTH];
    check_random r = { (uint64_t)part + 3 };
    random_fill(&r, x[part], MOST_ROWS * WIDTH, -1, 1);
    return x[part];
}

static fold_node note(twin *t, int row, fold_node x)
{
    fold_keep(t->f, x);
    fold_keep_grad(t->f, x);
    return t->noted[t->slot++][row < 0 ? 0 : row] = x;
}

/* A row of the data, or all of them. */
static fold_node twin_input(twin *t, int part, int row)
{
    const float *x = twin_data(part);
    return note(t, row, row < 0 ? fold_list_input(t->f, x, t->rows, vector) : fold_input(t->f, x + row * WIDTH, WIDTH));
}
static fold_node twin_lookup(twin *t, int row)
{
    int index[MOST_ROWS];
    for (int i = 0; i < t->rows; i++) index[i] = i * i % WORDS;
    return row < 0 ? fold_list_lookup(t->f, t->n->words, index, t->rows) : fold_lookup(t->f, t->n->words, index[row]);
}
static void twin_loss(twin *t, int row, fold_node y)
{
    const fold_node square = fold_dot(t->f, y, y);
    t->loss[t->losses++] = row < 0 ? fold_list_sum(t->f, square) : square;
}

static void twin_gru(twin *t, int row)
{
    fold_state s = { { 0, 0 }, { 0, 0 } };
    s.h = twin_input(t, 0, row);
    for (int frame = 1; frame < 4; frame++) s = fold_recurrent_apply(t->f, &t->n->gru, twin_input(t, frame, row), s);
    twin_loss(t, row, note(t, row, s.h));
}

static void twin_cell(twin *t, int row)
{
    const fold_node in[2] = { twin_input(t, 0, row), twin_input(t, 1, row) };
    const fold_node call = fold_call(t->f, t->n->nested, in, 2);
    const fold_node a = note(t, row, fold_out(t->f, call, 0)), b = note(t, row, fold_out(t->f, call, 1));
    twin_loss(t, row, fold_mul(t->f, a, fold_slice(t->f, b, 0, 1, WIDTH)));
}

static void twin_words(twin *t, int row)
{
    const fold_node x = note(t, row, twin_lookup(t, row));
    twin_loss(t, row, note(t, row, fold_mul(t->f, fold_linear(t->f, x, t->n->W, t->n->b), x)));
}

static void twin_mlp(twin *t, int row)
{
    const fold_node x = twin_input(t, 0, row);
    twin_loss(t, row, note(t, row, fold_add(t->f, fold_mlp_apply(t->f, &t->n->mlp, x), fold_gelu_tanh(t->f, x))));
}

/* The reductions over rows: of a list, or of n nodes. */
static void twin_reductions(twin *t, int row)
{
    fold_node x[MOST_ROWS], s[MOST_ROWS], y[4];
    fold_ctx *f = t->f;
    const int n = t->single ? t->rows : 1;
    for (int i = 0; i < n; i++, t->slot -= t->single ? 2 : 0) {
        x[i] = fold_tanh(f, twin_input(t, 0, t->single ? i : ALL_ROWS));
        s[i] = note(t, t->single ? i : ALL_ROWS, fold_sum(f, x[i], 0));
    }
    t->slot = 2;
    y[0] = !t->single ? fold_list_sum(f, x[0]) : n ? fold_sum_n(f, x, n) : fold_zeros(f, vector);
    y[1] = !t->single ? fold_list_mean(f, x[0]) : n ? fold_mean_n(f, x, n) : fold_zeros(f, vector);
    y[2] = !t->single ? fold_list_softmax_mean(f, s[0], x[0]) : n ? fold_softmax_mean_n(f, s, x, n) : fold_zeros(f, vector);
    y[3] = !t->rows ? y[0] : t->single ? fold_max_n(f, x, n) : fold_list_max(f, x[0]);
    for (int i = 0; i < 4; i++) note(t, ALL_ROWS, y[i]);
    t->loss[t->losses++] = fold_dot(f, y[0], y[1]);
    t->loss[t->losses++] = fold_dot(f, y[2], y[3]);
    (void)row;
}

/* A cell of a list with whole lists, and with nodes. */
static void twin_call_list(twin *t, int row)
{
    fold_node x[2 * MOST_ROWS];
    fold_ctx *f = t->f;
    const fold_node query = fold_input(f, twin_data(2), WIDTH);
    const int n = t->single ? t->rows : 1;
    for (int i = 0; i < n; i++, t->slot -= t->single ? 2 : 0)
        for (int part = 0; part < 2; part++) x[2 * i + part] = twin_input(t, part, t->single ? i : ALL_ROWS);
    t->slot = 2;
    note(t, ALL_ROWS, query);
    const fold_node call = t->single ? fold_call_n(f, t->n->neighbours, &query, 1, x, n)
                                     : fold_call_list(f, t->n->neighbours, &query, 1, x);
    for (int i = 0; i < 2; i++) t->loss[t->losses++] = fold_dot(f, query, note(t, ALL_ROWS, fold_out(f, call, i)));
    (void)row;
}

static const struct {
    const char *name;
    void (*record)(twin *t, int row);
    int per_row, listed; /* listed: slots with a row for each row of the data */
    int reordered;       /* lists use a weight in another order: frame by frame */
} twins[] = {
    { "gru", twin_gru, 1, SLOTS, 1 }, { "nested cells", twin_cell, 1, SLOTS, 0 }, { "lookups", twin_words, 1, SLOTS, 0 },
    { "mlp", twin_mlp, 1, SLOTS, 0 }, { "reductions", twin_reductions, 0, 2, 0 }, { "lists of cells", twin_call_list, 0, 2, 0 },
};

/* Values and gradients of all slots, row by row, and from *params on the parameters' gradients; how many floats. */
static int run_twin(fold_ctx *f, const net *n, int which, int rows, int single, float *to, int *params)
{
    static twin t;
    int at = 0, count;
    memset(&t, 0, offsetof(twin, noted));
    t.f = f;
    t.n = n;
    t.rows = rows;
    t.single = single;
    fold_ctx_reset(f);
    fold_grads_clear(n->m);
    for (int row = 0; row < (single && twins[which].per_row ? rows : 1); row++) {
        t.slot = 0;
        twins[which].record(&t, single && twins[which].per_row ? row : ALL_ROWS);
    }
    if (single && !rows && twins[which].per_row) return 0;
    const fold_node root = fold_sum_n(f, t.loss, t.losses);
    if (!CHECK_SAYS(!fold_backward(f, root), "%s: %s", twins[which].name, fold_ctx_message(f))) return 0;
    for (int slot = 0; slot < t.slot; slot++) {
        const int listed = slot < twins[which].listed, nodes = single && listed ? rows : 1;
        for (int i = 0; i < 2 * nodes; i++) {
            const fold_node x = t.noted[slot][i / 2];
            const int length = fold_list_length(f, x), size = fold_node_shape(f, x).dim[0];
            const int all = (listed ? rows : 1) * size, n_floats = (length < 0 ? 1 : length) * size;
            float *place = to + at + i % 2 * all + i / 2 * size;
            const float *grad = i % 2 ? fold_grad(f, x) : NULL;
            if (!CHECK_SAYS(i % 2 ? grad != NULL : !fold_read(f, &x, 1, place), "%s, slot %d: %s", twins[which].name, slot,
                            fold_ctx_message(f))) return 0;
            if (grad) memcpy(place, grad, (size_t)n_floats * sizeof *to);
        }
        at += 2 * (listed ? rows : 1) * fold_node_shape(f, t.noted[slot][0]).dim[0];
    }
    const float *grads = fold_model_grads(n->m, &count);
    memcpy(to + at, grads, (size_t)count * sizeof *to);
    *params = at;
    return at + count;
}

static void lists_are_rows(void)
{
    static float want[TWIN_FLOATS], got[TWIN_FLOATS];
    net n;
    net_open(&n, fold_model_new(NULL));
    const setting plain = { "ratio", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 }, eager = { "eager", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, 0 };
    fold_ctx *f[2] = { open_setting(n.m, &plain, 1), open_setting(n.m, &eager, 1) };
    for (int which = 0; which < (int)(sizeof twins / sizeof *twins); which++)
        for (int k = 0; k < TWIN_LENGTHS; k++) {
            int params = 0;
            const int count = run_twin(f[0], &n, which, twin_lengths[k], 1, want, &params);
            for (int i = 0; i < 2 && count; i++) {
                CHECK_INT(run_twin(f[i], &n, which, twin_lengths[k], 0, got, &params), count);
                const int exact = twins[which].reordered ? params : count;
                for (int at = exact; at < count; at++) CHECK_NEAR(got[at], want[at], 1e-5 * (1 + fabs((double)want[at])));
                if (!CHECK_BITS(got, want, exact)) printf("    %s, %d rows, eager %d\n", twins[which].name, twin_lengths[k], i);
            }
        }
    fold_ctx_free(f[0]);
    fold_ctx_free(f[1]);
    fold_model_free(n.m);
}

/* Training steps: a list of words, some of them repeated, is n lookups. */
static void lookups_train(void)
{
    static float want[TWIN_FLOATS];
    const fold_adam adam = { 0.1f, 0, 0, 0, 0.01f, 0 };
    for (int single = 1; single >= 0; single--) {
        net n;
        int count;
        net_open(&n, fold_model_new(NULL));
        const setting plain = { "ratio", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 };
        fold_ctx *f = open_setting(n.m, &plain, 1);
        for (int step = 0; step < 4; step++) {
            static float shown_floats[TWIN_FLOATS];
            int params;
            run_twin(f, &n, 2, 5, single, shown_floats, &params); /* rows 0 1 4 9 5: others are not touched */
            CHECK_INT(fold_adam_step(n.m, &adam), FOLD_OK);
        }
        const float *values = fold_model_values(n.m, &count);
        if (single) memcpy(want, values, (size_t)count * sizeof *want);
        else CHECK_BITS(values, want, count);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* -- what the engine makes of lists ---------------------------------------------------------------------------------- */

/* A list is one node whatever its length, and lists of all lengths are one batch. */
static void one_node(void)
{
    net n;
    net_open(&n, fold_model_new(NULL));
    fold_stats s[2];
    for (int mixed = 0; mixed < 2; mixed++) {
        const setting whole = { "one group", FOLD_SCHEDULE_RATIO, SIZE_MAX, 0, 0, 0, 0 };
        fold_ctx *f = open_setting(n.m, &whole, 1);
        fold_node loss[21];
        for (int i = 0; i < 21; i++) {
            const fold_node x = fold_list_input(f, twin_data(0), mixed ? i * 8 % 21 : 10, vector);
            const fold_node y = fold_call(f, n.gate, &x, 1);
            loss[i] = fold_list_sum(f, fold_dot(f, y, fold_layer_norm(f, x, n.gain, n.bias, 0)));
        }
        CHECK_INT(fold_backward(f, fold_sum_n(f, loss, 21)), FOLD_OK);
        s[mixed] = fold_ctx_stats(f);
        fold_ctx_free(f);
        fold_grads_clear(n.m);
    }
    CHECK_INT(s[1].nodes, s[0].nodes);
    CHECK_SAYS(s[0].nodes <= 21 * 6 + 2, "%d nodes", s[0].nodes);
    CHECK_INT(s[1].batches, s[0].batches);
    CHECK_INT(s[1].batches, 5); /* gate, layer_norm, dot, list_sum, sum_n */
    CHECK_INT(s[1].kernel_calls, s[0].kernel_calls);
    fold_model_free(n.m);
}

/* A layer of a transformer is at most five nodes, and one more for backward, whatever the length. */
static void layer_nodes(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = 4;
    d.heads = 2;
    const fold_transformer layer = fold_transformer_new(m, "layer", &d);
    for (int training = 0; training < 2; training++) {
        for (int rows = 1; rows < 200; rows = 3 * rows + 5) {
            static float x[200 * 4];
            fold_ctx_desc ctx = fold_ctx_desc_default();
            ctx.training = training;
            fold_ctx *f = fold_ctx_new(m, &ctx);
            fold_node y = fold_list_input(f, x, rows, fold_shape1(4));
            const int before = fold_ctx_stats(f).nodes;
            y = fold_transformer_apply(f, &layer, y, 0);
            CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
            CHECK_INT(fold_ctx_stats(f).nodes - before, 5 + training);
            fold_ctx_free(f);
        }
    }
    fold_model_free(m);
}

/* Groups are cut by rows, not by nodes. */
static void groups_count_rows(void)
{
    net n;
    net_open(&n, fold_model_new(NULL));
    fold_stats s[2];
    for (int large = 0; large < 2; large++) {
        const setting budget = { "64 KB", FOLD_SCHEDULE_RATIO, 1 << 16, 0, 0, 0, 0 };
        fold_ctx *f = open_setting(n.m, &budget, 1);
        fold_node loss[32];
        for (int i = 0; i < 32; i++) {
            const fold_node x = fold_list_input(f, twin_data(0), large ? MOST_ROWS : 2, vector);
            loss[i] = fold_list_sum(f, fold_sum(f, fold_mlp_apply(f, &n.mlp, x), 0));
        }
        CHECK_INT(fold_backward(f, fold_sum_n(f, loss, 32)), FOLD_OK);
        s[large] = fold_ctx_stats(f);
        fold_ctx_free(f);
        fold_grads_clear(n.m);
    }
    CHECK_SAYS(s[0].groups <= 4, "%d groups of lists of 2", s[0].groups);
    CHECK_SAYS(s[1].groups >= 16, "%d groups of lists of %d", s[1].groups, MOST_ROWS);
    fold_model_free(n.m);
}

/* Plans replay where lengths are the same, whatever the data, rows and indices are. */
static fold_node record_plan(fold_ctx *f, const net *n, int data, int length, fold_node *shown_node)
{
    fold_node loss[3];
    int row[MOST_ROWS];
    for (int i = 0; i < 3; i++) {
        const int rows = length + 2 * i;
        for (int k = 0; k < rows; k++) row[k] = (k * (data + 2) + i) % WORDS;
        const fold_node x = fold_list_input(f, twin_data(data), rows, vector), w = fold_list_lookup(f, n->words, row, rows);
        const fold_node both[2] = { fold_mul(f, x, w), fold_tanh(f, x) };
        const fold_node all = fold_scale(f, fold_list_join(f, both, 2), (float)(data + 1));
        loss[i] = fold_list_sum(f, fold_dot(f, all, fold_linear(f, all, n->W, n->b)));
    }
    fold_keep(f, loss[1]);
    *shown_node = loss[1];
    return fold_sum_n(f, loss, 3);
}
static void plans(void)
{
    net n;
    net_open(&n, fold_model_new(NULL));
    const setting kept = { "plans", FOLD_SCHEDULE_RATIO, 0, 1 << 20, 0, 0, 0 }, eager = { "eager", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, 0 };
    static const struct { int data, length, hits; } run[] = { { 0, 3, 0 }, { 1, 3, 0 }, { 2, 3, 1 }, { 0, 4, 1 }, { 1, 0, 1 }, { 2, 4, 1 }, { 0, 3, 2 }, { 1, 4, 3 } };
    fold_ctx *f = open_setting(n.m, &kept, 1), *twin_of = open_setting(n.m, &eager, 1);
    for (int i = 0; i < (int)(sizeof run / sizeof *run); i++) {
        fold_node shown_node[2];
        int count;
        static float want[TWIN_FLOATS];
        fold_ctx_reset(f);
        fold_ctx_reset(twin_of);
        fold_grads_clear(n.m);
        CHECK_INT(fold_backward(twin_of, record_plan(twin_of, &n, run[i].data, run[i].length, &shown_node[0])), FOLD_OK);
        const float *grads = fold_model_grads(n.m, &count);
        memcpy(want, grads, (size_t)count * sizeof *want);
        fold_grads_clear(n.m);
        CHECK_INT(fold_backward(f, record_plan(f, &n, run[i].data, run[i].length, &shown_node[1])), FOLD_OK);
        CHECK_BITS(fold_model_grads(n.m, NULL), want, count);
        CHECK(fold_scalar(f, shown_node[1]) == fold_scalar(twin_of, shown_node[0]));
        CHECK_SAYS(fold_ctx_stats(f).plan_hits == run[i].hits, "run %d: %d plans replayed", i, fold_ctx_stats(f).plan_hits);
    }
    fold_ctx_free(f);
    fold_ctx_free(twin_of);
    fold_model_free(n.m);
}

/* Calls of lists that differ in length, rows or data are not taken for equal. */
static void merged_calls(void)
{
    static const int row[2][4] = { { 1, 2, 3, 2 }, { 1, 2, 3, 4 } };
    net n;
    net_open(&n, fold_model_new(NULL));
    const setting merging = { "merging", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 1 };
    fold_ctx *f = open_setting(n.m, &merging, 0);
    fold_node y[5];
    for (int i = 0; i < 5; i++) {
        const fold_node w = fold_list_lookup(f, n.words, row[i == 4], i == 3 ? 3 : 4);
        y[i] = fold_linear(f, w, i == 2 ? n.W : n.matrix, n.none);
        fold_keep(f, y[i]);
    }
    CHECK_INT(fold_run(f, y, 5), FOLD_OK);
    for (int i = 0; i < 4; i++) CHECK(i == 0 || y[i].id != y[i + 1].id);
    CHECK_BITS(fold_value(f, y[3]), fold_value(f, y[0]), 3 * 3);
    CHECK_BITS(fold_value(f, y[4]), fold_value(f, y[0]), 3 * 3);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A call draws once: what comes after it has the masks it has after a single node. Rows have masks of their own, by
   their index: a shorter list has those of a longer one's first rows. */
static void dropout_masks(void)
{
    enum { ROWS = 9, N = 40 };
    static float ones[ROWS * N];
    fold_model *m = fold_model_new(NULL);
    for (int i = 0; i < ROWS * N; i++) ones[i] = 1;
    for (int eager = 0; eager < 2; eager++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
        fold_ctx *f = open_setting(m, &s, 1);
        fold_node y[6];
        for (int i = 0; i < 3; i++) {
            fold_dropout_seed(f, 7);
            const fold_node x = i < 2 ? fold_list_input(f, ones, i ? 4 : ROWS, fold_shape1(N)) : fold_input(f, ones, N);
            y[i] = fold_dropout(f, x, 0.5f);
            y[3 + i] = fold_dropout(f, fold_input(f, ones, N), 0.5f);
        }
        for (int i = 0; i < 6; i++) fold_keep(f, y[i]);
        CHECK_INT(fold_run(f, y, 6), FOLD_OK);
        const float *mask = fold_value(f, y[0]);
        for (int i = 0; i < ROWS * N; i++) CHECK(mask[i] == 0 || mask[i] == 2);
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < i; k++) CHECK(memcmp(mask + i * N, mask + k * N, N * sizeof *mask) != 0);
        CHECK_BITS(fold_value(f, y[1]), mask, 4 * N);
        CHECK_BITS(fold_value(f, y[4]), fold_value(f, y[3]), N);
        CHECK_BITS(fold_value(f, y[5]), fold_value(f, y[3]), N);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* Bytes become values, as one node and as rows; they are copied, and mistakes are named. */
static void bytes(void)
{
    fold_model *m = fold_model_new(NULL);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        uint8_t given[6] = { 0, 1, 127, 128, 254, 255 };
        static const float want[6] = { 0, 1, 127, 128, 254, 255 };
        const float factor = 1 / 255.0f;
        const fold_node x[3] = { fold_input_bytes(f, given, fold_shape2(2, 3), factor), fold_list_input_bytes(f, given, 3, fold_shape1(2), 2),
                                 fold_list_input_bytes(f, NULL, 0, fold_shape1(2), 2) };
        memset(given, 7, sizeof given);
        CHECK_INT(fold_run(f, x, 3), FOLD_OK);
        for (int i = 0; i < 6; i++) {
            CHECK_NEAR(fold_value(f, x[0])[i], want[i] * factor, 0);
            CHECK_NEAR(fold_value(f, x[1])[i], 2 * want[i], 0);
        }
        CHECK_INT(fold_node_shape(f, x[0]).dim[1], 3);
        CHECK(fold_list_length(f, x[1]) == 3 && fold_list_length(f, x[2]) == 0);
        CHECK(fold_node_is_null(fold_input_bytes(f, NULL, fold_shape1(2), 1)));
        CHECK_TEXT(fold_ctx_message(f), "input_bytes: bytes is NULL");
        fold_ctx_reset(f);
        CHECK(fold_node_is_null(fold_list_input_bytes(f, NULL, 2, fold_shape1(2), 1)));
        CHECK_TEXT(fold_ctx_message(f), "list_input_bytes: bytes is NULL");
        fold_ctx_reset(f);
        CHECK(fold_node_is_null(fold_input_bytes(f, given, fold_shape1(0), 1)));
        CHECK_TEXT(fold_ctx_message(f), "input_bytes");
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* -- running and reading --------------------------------------------------------------------------------------------- */

static void reading(void)
{
    net n;
    net_open(&n, fold_model_new(NULL));
    for (int eager = 0; eager < 2; eager++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
        fold_ctx *f = open_setting(n.m, &s, 1);
        const float *x = twin_data(0);
        const fold_node list = fold_neg(f, fold_list_input(f, x, 3, vector)), node = fold_neg(f, fold_input(f, x, WIDTH));
        const fold_node none = fold_neg(f, fold_list_input(f, NULL, 0, vector)), all[4] = { list, none, node, list };
        const fold_node null = { 0, 0 };
        float got[7 * WIDTH];
        for (int i = 0; i < 3; i++) {
            fold_keep(f, all[i]);
            fold_keep_grad(f, all[i]);
        }
        const fold_node parts[3] = { fold_list_sum(f, list), fold_list_sum(f, none), node };
        CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_sum_n(f, parts, 3), 0)), "%s", fold_ctx_message(f));
        CHECK_INT(fold_list_length(f, list), 3);
        CHECK_INT(fold_list_length(f, none), 0);
        CHECK_INT(fold_list_length(f, node), -1);
        CHECK_INT(fold_list_length(f, null), -1);
        CHECK_INT(fold_list_length(NULL, list), -1);
        CHECK_INT(fold_node_shape(f, list).rank, 1);
        CHECK_INT(fold_node_shape(f, none).dim[0], WIDTH);
        CHECK(fold_value(f, none) != NULL);
        CHECK(fold_grad(f, none) != NULL);
        CHECK_INT((uintptr_t)fold_value(f, list) % 64, 0u);
        CHECK_INT(fold_read(f, all, 4, got), FOLD_OK);
        for (int i = 0; i < 7 * WIDTH; i++) CHECK(got[i] == -x[i - (i < 3 * WIDTH ? 0 : i < 4 * WIDTH ? 3 : 4) * WIDTH]);
        for (int i = 0; i < 3 * WIDTH; i++) CHECK(fold_grad(f, list)[i] == 1);
        CHECK(isnan(fold_scalar(f, list)));
        CHECK_TEXT(fold_ctx_message(f), "list");
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        CHECK(fold_backward(f, fold_sum(f, list, 0)) != FOLD_OK);
        CHECK_TEXT(fold_ctx_message(f), "list");
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* More is recorded on top of what ran, with gradients of both runs. */
static void on_top(void)
{
    static float want[2][4 * MOST_ROWS * WIDTH], want_grads[TWIN_FLOATS];
    net n;
    net_open(&n, fold_model_new(NULL));
    for (int way = 0; way < 6; way++) {
        const setting s = { "", (fold_schedule)(way % 3), way > 3 ? 1 : 0, 0, 0, way == 0, 0 };
        fold_ctx *f = open_setting(n.m, &s, 1);
        fold_node x[2], y[2];
        int count;
        fold_grads_clear(n.m);
        for (int run = 0; run < 2; run++) {
            x[run] = run ? y[0] : fold_list_input(f, twin_data(0), 23, vector);
            y[run] = fold_tanh(f, fold_linear(f, x[run], n.W, n.b));
            fold_keep(f, y[run]);
            fold_keep_grad(f, x[run]);
            if (!run) fold_keep_grad(f, y[0]);
            const fold_node row = fold_list_at(f, y[run], 3);
            const fold_node parts[2] = { fold_sum(f, row, 0), fold_list_sum(f, fold_sum(f, fold_square(f, y[run]), 0)) };
            CHECK_SAYS(!fold_backward(f, fold_sum_n(f, parts, 2)), "%s", fold_ctx_message(f));
            for (int k = 0; k <= run; k++) {
                const float *g = fold_grad(f, x[k]), *v = fold_value(f, y[k]);
                if (!CHECK_SAYS(g && v, "%s", fold_ctx_message(f))) continue;
                float *to = want[run] + 2 * k * 23 * WIDTH;
                if (!way) memcpy(to, g, 23 * WIDTH * sizeof *g);
                if (!way) memcpy(to + 23 * WIDTH, v, 23 * WIDTH * sizeof *v);
                CHECK_BITS(g, to, 23 * WIDTH);
                CHECK_BITS(v, to + 23 * WIDTH, 23 * WIDTH);
            }
        }
        const float *grads = fold_model_grads(n.m, &count);
        if (!way) memcpy(want_grads, grads, (size_t)count * sizeof *grads);
        CHECK_BITS(grads, want_grads, count);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* Pictures and prints tell how many rows are looked up. */
static char printed[1 << 14];
static int to_text(const void *bytes, size_t size, void *user)
{
    (void)user;
    strncat(printed, (const char *)bytes, size < sizeof printed - strlen(printed) - 1 ? size : 0);
    return 0;
}
static void printing(void)
{
    static const int row[3] = { 4, 2, 4 };
    net n;
    net_open(&n, fold_model_new(NULL));
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    const fold_node y = fold_list_sum(f, fold_tanh(f, fold_list_lookup(f, n.words, row, 3)));
    CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
    fold_ctx_print(f, to_text, NULL);
    CHECK_TEXT(printed, "leaves: 3 rows of words");
    CHECK_TEXT(printed, "3 in lists");
    printed[0] = 0;
    fold_draw_dot(f, to_text, NULL);
    CHECK_TEXT(printed, "words, 3 rows");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Rows by at, of a concatenation and of looked-up rows, are nodes; merging tells lists of different lengths apart,
   and ends however many lists are looked up. */
static void rows_are_nodes(void)
{
    static const float data[12 * WIDTH] = { 0 };
    static const int row[3] = { 4, 2, 4 };
    net n;
    net_open(&n, fold_model_new(NULL));
    for (int way = 0; way < 4; way++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = way & 1;
        d.dedupe = way >> 1;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        const fold_node x = fold_list_lookup(f, n.words, row, 3), at = fold_list_at(f, x, 1), v = fold_input(f, data, 1);
        const fold_node parts[2] = { fold_list_input(f, data, 4, vector), fold_list_input(f, data, 4, vector) };
        const fold_node joined = fold_concat(f, parts, 2, 0), one = fold_linear(f, fold_list_at(f, joined, 3), n.U, n.none);
        CHECK_INT(fold_list_length(f, one), -1);
        fold_node in[2] = { x, v };
        CHECK_INT(fold_list_length(f, fold_op_apply_whole(f, n.decay, in, 2, NULL, 0, 2)), 2);
        CHECK_INT(fold_list_length(f, fold_op_apply_whole(f, n.decay, in, 2, NULL, 0, 3)), 3);
        fold_keep_grad(f, x);
        const fold_node sums[3] = { fold_list_sum(f, x), at, one };
        const fold_node total = fold_add(f, fold_sum(f, fold_sum_n(f, sums, 2), FOLD_ALL), fold_sum(f, sums[2], FOLD_ALL));
        CHECK_INT(fold_backward(f, total), FOLD_OK);
        for (int i = 0; i < 3 * WIDTH; i++) CHECK(fold_grad(f, x)[i] == (i / WIDTH == 1 ? 2.0f : 1.0f));
        fold_grads_clear(n.m);
        fold_ctx_reset(f);
        for (int i = 0; i < 2000; i++) CHECK(fold_list_length(f, fold_list_lookup(f, n.words, row, 2)) == 2);
        CHECK(!fold_node_is_null(fold_tanh(f, fold_lookup(f, n.words, 1))));
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* Recurrence over a list in one call: both directions, from a state, over windows and looked-up rows. */
static fold_node unrolled_lists(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    int word[MAX_ROWS];
    fold_node y[7];
    fold_state last[2];
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size))), one = some_node(p);
    const fold_state begin = { one, fold_tanh(f, one) };
    for (int i = 0; i < p->size; i++) word[i] = random_below(&p->random, WORDS);
    y[0] = see(p, fold_unroll_list(f, &n->gru, x, 0, NULL, &last[0]));
    y[1] = see(p, fold_unroll_list(f, &n->lstm, y[0], 1, &begin, &last[1]));
    y[2] = see(p, fold_unroll_list(f, &n->lstm, fold_list_lookup(f, n->words, word, p->size), 0, NULL, NULL));
    y[3] = see(p, fold_unroll_list(f, &n->gru, fold_slice(f, fold_concat2(f, x, y[1]), 0, 3, WIDTH), 0, NULL, NULL));
    y[4] = see(p, last[0].h);
    y[5] = last[1].h;
    y[6] = last[1].c;
    return totals(p, y, 7);
}

/* One call over a list has the bits of a call over its rows as nodes: values, final states, gradients. */
enum { MOST_STEPS = 300, STEP_FLOATS = 3 * MOST_STEPS * WIDTH + 8 * WIDTH };
typedef struct recurrent_net { fold_model *m; fold_recurrent rnn, lstm; fold_rnn_stack one_way, two_way; } recurrent_net;

static int keep_floats(fold_ctx *f, fold_node x, float *to, int gradient)
{
    const fold_shape shape = fold_node_shape(f, x);
    const int rows = fold_list_length(f, x), floats = (rows < 0 ? 1 : rows) * shape.dim[0];
    if (gradient) memcpy(to, fold_grad(f, x), (size_t)floats * sizeof *to);
    else CHECK_SAYS(!fold_read(f, &x, 1, to), "%s", fold_ctx_message(f));
    return floats;
}

static int run_recurrent(fold_ctx *f, const recurrent_net *n, int kind, int steps, int listed, float *to)
{
    static float x[MOST_STEPS * WIDTH], weight[2 * MOST_STEPS * WIDTH];
    static fold_node row[MOST_STEPS], out[MOST_STEPS];
    const fold_rnn_stack *stack = kind == 3 ? &n->one_way : &n->two_way;
    const fold_recurrent *layer = kind == 0 ? &n->rnn : &n->lstm;
    fold_state first[4], last[4];
    const fold_state *begin = steps == 2 ? NULL : first;
    const int stacked = kind >= 3, width = kind == 4 ? 2 * WIDTH : WIDTH, reverse = kind == 2;
    check_random r = { 21 };
    random_fill(&r, x, MOST_STEPS * WIDTH, -1, 1);
    random_fill(&r, weight, 2 * MOST_STEPS * WIDTH, -1, 1);
    memset(last, 0, sizeof last);
    fold_ctx_reset(f);
    fold_grads_clear(n->m);
    for (int i = 0; i < 4; i++) {
        first[i].h = fold_input(f, weight + i, WIDTH);
        first[i].c = kind == 0 || kind == 3 ? FOLD_NULL_NODE : fold_input(f, weight + 4 + i, WIDTH);
    }
    const fold_node list = fold_list_input(f, x, steps, vector);
    fold_node all;
    for (int i = 0; i < steps && !listed; i++) row[i] = fold_list_at(f, list, i);
    if (listed && stacked) all = fold_unroll_stack_list(f, stack, list, begin, last);
    else if (listed) all = fold_unroll_list(f, layer, list, reverse, begin, last);
    else if (stacked) fold_unroll_stack(f, stack, row, steps, begin, out, last);
    else last[0] = fold_unroll(f, layer, row, steps, reverse, begin, out);
    if (!listed) all = steps ? fold_list_join(f, out, steps) : fold_list_input(f, x, 0, fold_shape1(width));
    CHECK_SAYS(fold_list_length(f, all) == steps && fold_node_shape(f, all).dim[0] == width, "%s", fold_ctx_message(f));
    fold_keep(f, all);
    fold_keep(f, last[0].h);
    fold_keep_grad(f, list);
    fold_keep_grad(f, first[0].h);
    const fold_node weighed = fold_dot(f, all, fold_list_input(f, weight, steps, fold_shape1(width)));
    const fold_node loss = fold_add(f, fold_list_sum(f, weighed), fold_sum(f, last[0].h, FOLD_ALL));
    if (!CHECK_SAYS(!fold_backward(f, loss), "%d steps: %s", steps, fold_ctx_message(f))) return 0;
    int at = keep_floats(f, all, to, 0), count;
    at += keep_floats(f, last[0].h, to + at, 0);
    if (steps) at += keep_floats(f, list, to + at, 1);
    if (begin) at += keep_floats(f, first[0].h, to + at, 1);
    const float *grads = fold_model_grads(n->m, &count);
    memcpy(to + at, grads, (size_t)count * sizeof *to);
    return at + count;
}
static void lists_are_unrolled(void)
{
    static const int lengths[] = { 0, 1, 2, 17, MOST_STEPS };
    static float want[STEP_FLOATS + 20000], got[STEP_FLOATS + 20000];
    for (int k = 0; k < KERNEL_SETS * 2; k++) {
        recurrent_net n;
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, k % 2, 0 };
        if (!(n.m = kernel_set_model(kernel_set[k / 2]))) continue;
        n.rnn = fold_rnn_new(n.m, "rnn", WIDTH, WIDTH);
        n.lstm = fold_lstm_new(n.m, "lstm", WIDTH, WIDTH);
        n.one_way = fold_rnn_stack_new(n.m, "one", fold_gru_new, WIDTH, WIDTH, 2, 0);
        n.two_way = fold_rnn_stack_new(n.m, "two", fold_lstm_new, WIDTH, WIDTH, 2, 1);
        fold_ctx *f = open_setting(n.m, &s, 1);
        for (int i = 0; i < 25; i++) {
            const int kind = i / 5, steps = lengths[i % 5], floats = run_recurrent(f, &n, kind, steps, 0, want);
            CHECK_INT(run_recurrent(f, &n, kind, steps, 1, got), floats);
            if (!CHECK_BITS(got, want, floats)) printf("    kind %d, %d steps, %s\n", kind, steps, kernel_set[k / 2]);
        }
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* One call with a list of agents takes the memory of a call for each, forward and backward, and gives the same bits. */
enum { AGENTS = 4099, AGENT_FLOATS = HIDDEN + ACTIONS };

/* Gives the outputs of all agents, or the gradients; returns how many floats. */
static int run_agents(fold_ctx *f, const policy *p, const float *x, int n, int listed, int training, int slices, float *to)
{
    static fold_node y[AGENTS];
    static int label[AGENTS];
    fold_model *m = fold_ctx_model(f);
    const float *memory = x + AGENTS * OBSERVED;
    int more = slices, count;
    fold_ctx_reset(f);
    fold_grads_clear(m);
    for (int i = 0; i < (listed ? 1 : n); i++) {
        const fold_node in[2] = {
            listed ? fold_list_input_ref(f, x, n, fold_shape1(OBSERVED)) : fold_input_ref(f, x + i * OBSERVED, fold_shape1(OBSERVED)),
            listed ? fold_list_input_ref(f, memory, n, fold_shape1(HIDDEN))
                   : fold_input_ref(f, memory + i * HIDDEN, fold_shape1(HIDDEN)) };
        label[i] = i % ACTIONS;
        y[i] = fold_call(f, p->cell, in, 2);
        if (training) y[i] = listed ? fold_softmax_xent_each(f, y[i], label, n) : fold_softmax_xent(f, y[i], label[i]);
        else fold_output_ref(f, y[i], to + i * ACTIONS), fold_output_ref(f, fold_out(f, y[i], 1), to + n * ACTIONS + i * HIDDEN);
    }
    if (training) y[0] = listed ? fold_list_mean(f, y[0]) : fold_mean_n(f, y, n);
    if (!slices) training ? fold_backward(f, y[0]) : fold_run(f, y, listed ? 1 : n);
    else training ? fold_backward_begin(f, y[0]) : fold_run_begin(f, y, 1);
    while (more && !fold_run_more(f, 100000, &more)) continue;
    CHECK_SAYS(!fold_ctx_status(f), "%s", fold_ctx_message(f));
    if (!training) return n * AGENT_FLOATS;
    const float *grads = fold_model_grads(m, &count);
    memcpy(to, grads, (size_t)count * sizeof *to);
    return count;
}
static uint64_t ticks(void *user) { return *(uint64_t *)user += 1000; }
static void lists_run_in_strips(void)
{
    uint64_t now = 0;
    static float x[AGENTS * (OBSERVED + HIDDEN)], want[AGENTS * AGENT_FLOATS], got[AGENTS * AGENT_FLOATS];
    check_random r = { 3 };
    random_fill(&r, x, AGENTS * (OBSERVED + HIDDEN), -1, 1);
    policy p;
    fold_model *m = fold_model_new(NULL);
    policy_new(&p, m);
    for (int k = 0; k < 16; k++) {
        const int training = k & 1, sliced = k >> 1 & 1, n = k & 4 ? AGENTS : 500;
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = training;
        fold_ctx *f = fold_ctx_new(m, &d);
        d.group_bytes = k & 8 ? 50000 : 0;
        d.threads = k & 8 ? 3 : 0;
        d.parallel_for = from_the_last;
        d.clock = sliced ? ticks : NULL;
        d.clock_user = &now;
        fold_ctx *g = fold_ctx_new(m, &d);
        const int floats = run_agents(f, &p, x, n, 0, training, 0, want);
        CHECK_INT(run_agents(g, &p, x, n, 1, training, sliced, got), floats);
        if (!CHECK_BITS(got, want, floats)) printf("    setting %d\n", k);
        memset(got, 0, sizeof got);
        if (!training) CHECK(!fold_replay(g) && !memcmp(got, want, (size_t)floats * sizeof *got));
        const size_t bytes = fold_ctx_stats(g).value_bytes, most = k & 8 ? (size_t)5 << 17 : (size_t)2 << 20;
        CHECK_SAYS(bytes <= most, "%d agents take %zu bytes", n, bytes);
        fold_ctx_free(f);
        fold_ctx_free(g);
    }
    fold_model_free(m);
}

/* Networks that may not run some rows at a time: a cell with what depends on the node beside its list alone; one row of a list
   that all read; a gradient of a part of the rows' values; a gradient that is kept; a call of the list as a whole; a row of a table
   that is trained. */
enum { STRIP_ROWS = 300, STRIP_WIDTH = 4 };
static void beside_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *W = (const fold_param *)user, none = { 0, 0 };
    out[0] = fold_tanh(f, fold_mul(f, in[0], fold_tanh(f, fold_linear(f, in[1], *W, none))));
}
static void kept_whole(void)
{
    static float x[STRIP_ROWS * STRIP_WIDTH], got[2][STRIP_ROWS * STRIP_WIDTH];
    check_random r = { 8 };
    random_fill(&r, x, STRIP_ROWS * STRIP_WIDTH, -1, 1);
    for (int way = 0; way < 12; way++) {
        const int kind = way / 2, training = way & 1;
        fold_model *m = fold_model_new(NULL);
        const fold_param W = fold_weight_new(m, "W", STRIP_WIDTH, STRIP_WIDTH), V = fold_weight_new(m, "V", STRIP_WIDTH, STRIP_WIDTH),
                         T = fold_table_new(m, "T", STRIP_WIDTH, STRIP_WIDTH), none = { 0, 0 };
        const fold_cell cell = pair_cell(m, "beside", beside_body, &V, 0, 1, STRIP_WIDTH);
        float grads[2][3 * STRIP_WIDTH * STRIP_WIDTH], loss[2];
        for (int eager = 0; eager < 2; eager++) {
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = training;
            d.eager = eager;
            d.group_bytes = 1;
            fold_ctx *f = fold_ctx_new(m, &d);
            const fold_node rows = fold_list_input_ref(f, x, STRIP_ROWS, fold_shape1(STRIP_WIDTH));
            const fold_node product = fold_linear(f, rows, W, none), beside[2] = { product, fold_input(f, x + 4, STRIP_WIDTH) };
            fold_node y = product;
            if (kind == 0) y = fold_call(f, cell, beside, 2);
            if (kind == 1) y = fold_mul(f, rows, fold_list_at(f, fold_tanh(f, y), STRIP_ROWS - 1));
            if (kind == 2) y = fold_slice(f, fold_tanh(f, y), 0, 1, 2);
            if (kind == 3) y = fold_mul(f, fold_tanh(f, y), y);
            if (kind == 4) y = fold_list_softmax(f, fold_sum(f, fold_tanh(f, y), FOLD_ALL));
            if (kind == 5) y = fold_mul(f, y, fold_lookup(f, T, 1));
            if (kind == 3) fold_keep_grad(f, product);
            if (kind != 1 || !training) fold_keep(f, y);
            const fold_node total = fold_list_mean(f, fold_sum(f, fold_square(f, y), FOLD_ALL));
            fold_grads_clear(m);
            CHECK_INT(training ? fold_backward(f, total) : fold_run(f, &total, 1), FOLD_OK);
            fold_grads_clear(m);
            CHECK_INT(fold_replay(f), FOLD_OK); /* over what the first run left */
            loss[eager] = fold_scalar(f, total);
            memset(got[eager], 0, sizeof got[eager]);
            if (kind != 1 || !training) CHECK_INT(fold_read(f, &y, 1, got[eager]), FOLD_OK);
            if (kind == 3 && training && CHECK(fold_grad(f, product))) memcpy(got[eager], fold_grad(f, product), sizeof got[eager]);
            memset(grads[eager], 0, sizeof grads[eager]);
            const fold_param trained[3] = { W, V, T };
            for (int i = 0; i < 3; i++)
                if (fold_param_grad(m, trained[i])) memcpy(grads[eager] + 16 * i, fold_param_grad(m, trained[i]), sizeof grads[eager] / 3);
            fold_ctx_free(f);
        }
        if (!CHECK_BITS(got[0], got[1], STRIP_ROWS * STRIP_WIDTH) | !CHECK_BITS(loss, loss + 1, 1) |
            !CHECK_BITS(grads[0], grads[1], 3 * STRIP_WIDTH * STRIP_WIDTH))
            printf("    kind %d, %s\n", kind, training ? "training" : "inference");
        fold_model_free(m);
    }
}

static void weighed_sum(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *W = (const fold_param *)user, none = { 0, 0 };
    out[0] = fold_list_sum(f, fold_add(f, in[1], fold_linear(f, in[0], *W, none)));
}
static void weighed_rows(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *W = (const fold_param *)user, none = { 0, 0 };
    out[0] = fold_add(f, in[1], fold_linear(f, in[0], *W, none));
}
/* A call with an empty list leaves out what its elements alone need, and adds nothing of it to a weight's gradient, batched or
   eager. The gradient of the first call underflows to -0. It would become 0 if the second call added anything. Portable kernels round
   the product before they add it to a sum of 0, so that it is 0 anyway, and no sign can show. */
static void sums_of_no_rows(void)
{
    static const float tiny[2] = { -1e-30f, 1 }, row = 1;
    for (int way = 0; way < 4; way++) {
        const int eager = way & 1, rows = way >> 1;
        fold_model *m = fold_model_new(NULL);
        const fold_param W = fold_weight_new(m, "W", 1, 1);
        fold_cell_desc d = fold_cell_desc_default();
        d.name = "weighed";
        d.body = rows ? weighed_rows : weighed_sum;
        d.user = &W;
        d.n_in = 1 + rows;
        d.n_list = !rows;
        d.in[0] = d.in[1] = d.list[0] = fold_shape1(1);
        d.n_out = 1;
        const fold_cell cell = fold_cell_new(m, &d);
        const setting how = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
        fold_ctx *f = open_setting(m, &how, 1);
        fold_node part[2];
        for (int i = 0; i < 2; i++) {
            const fold_node x = fold_input(f, &tiny[i], 1), list = fold_list_input(f, &row, 1 - i, fold_shape1(1)), in[2] = { x, list };
            part[i] = rows ? fold_list_sum(f, fold_call(f, cell, in, 2)) : fold_call_list(f, cell, in, 1, &list);
        }
        CHECK_INT(fold_backward(f, fold_scale(f, fold_sum_n(f, part, 2), 1e-30f)), FOLD_OK);
        const float *grad = fold_param_grad(m, W);
        const int shows = strcmp(fold_model_isa(m), "portable") != 0;
        CHECK_SAYS(*grad == 0 && (signbit(*grad) || !shows), "way %d: %g", way, (double)*grad);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    check_scene("lists: sources", sources);
    check_scene("lists: nodes and back", nodes_and_back);
    check_scene("lists: windows", windows);
    check_scene("lists: rows by at", rows_by_at);
    check_scene("lists: some rows only", some_rows_only);
    check_scene("lists: contributions", contributions);
    check_scene("lists: nodes beside", beside);
    check_scene("lists: concatenations", concatenations);
    check_scene("lists: products", products);
    check_scene("lists: two lengths", two_lengths);
    check_scene("lists: one that all samples read", shared_list);
    check_scene("lists: reductions", reductions);
    check_scene("lists: ops of one's own", own_ops);
    check_scene("lists: layers", layers);
    check_scene("lists: cells", cells);
    check_scene("lists: cells, nodes beside", cells_beside);
    check_scene("lists: dropout", dropouts);
    check_scene("lists: whole lists of cells", whole_lists);
    check_scene("lists: joined parts of elements", joined_parts);
    check_scene("lists: frames", frames);
    check_scene("lists: changing frames", changing_frames);
    check_scene("lists: no rows", nothing_at_all);
    check_scene("lists: stacks", stacks);
    check_scene("lists: unrolled", unrolled);
    check_scene("lists: unrolled in one call", unrolled_lists);
    check_scene("lists: stopped gradients", stopped);
    check_run("lists: unrolled as nodes", lists_are_unrolled);
    check_run("lists: in strips", lists_run_in_strips);
    check_run("lists: kept whole", kept_whole);
    check_run("lists: as single nodes", lists_are_rows);
    check_run("lists: rows are nodes", rows_are_nodes);
    check_run("lists: printing", printing);
    check_run("lists: lookups train", lookups_train);
    check_run("lists: one node", one_node);
    check_run("lists: nodes of a layer", layer_nodes);
    check_run("lists: groups count rows", groups_count_rows);
    check_run("lists: plans", plans);
    check_run("lists: merged calls", merged_calls);
    check_run("lists: dropout masks", dropout_masks);
    check_run("lists: bytes", bytes);
    check_run("lists: sums of no rows", sums_of_no_rows);
    check_run("lists: reading", reading);
    check_run("lists: on top", on_top);
    return check_finish();
}
