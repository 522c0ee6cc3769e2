/* test_lists_errors.c - every mistake with lists has its message, and nothing is lost by it.
       cc -O2 -o test_lists_errors tests/test_lists_errors.c -lm && ./test_lists_errors */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "scenes.h"
#include <limits.h>

static const fold_shape vector = { 1, { WIDTH, 0, 0, 0 } };

/* -- mistakes ---------------------------------------------------------------------------------------------------------- */

typedef struct mistakes {
    fold_ctx *f, *other;
    net n;
    fold_node v, w, one, block, l0, l1, l3, l4, wide3, score3, score4, foreign, stale, pair[2], cells_lists[2]; /* anew for each */
} mistakes;

static void record_mistakes(mistakes *x)
{
    static const float data[64] = { 0 };
    fold_ctx *f = x->f;
    fold_ctx_reset(f);
    x->stale = x->l3;
    x->v = fold_input(f, data, WIDTH);
    x->w = fold_input(f, data, WIDTH + 1);
    x->one = fold_constant(f, 1);
    x->block = fold_input_shaped(f, data, fold_shape2(3, WIDTH));
    x->l0 = fold_list_input(f, data, 0, vector);
    x->l1 = fold_list_input(f, data, 1, vector);
    x->l3 = fold_list_input(f, data, 3, vector);
    x->l4 = fold_list_input(f, data, 4, vector);
    x->wide3 = fold_list_input(f, data, 3, fold_shape1(WIDTH + 1));
    x->score3 = fold_sum(f, x->l3, 0);
    x->score4 = fold_sum(f, x->l4, 0);
    fold_ctx_reset(x->other);
    x->foreign = fold_list_input(x->other, data, 3, vector);
}

static fold_node pair_of(mistakes *x, fold_node a, fold_node b, fold_node (*record)(fold_ctx *f, const fold_node *in, int n))
{
    x->pair[0] = a;
    x->pair[1] = b;
    return record(x->f, x->pair, 2);
}
static fold_node concat_of(fold_ctx *f, const fold_node *in, int n) { return fold_concat(f, in, n, 0); }
static fold_node lists_of(mistakes *x, int n_in, fold_node a, fold_node b)
{
    x->pair[0] = a;
    x->pair[1] = b;
    return fold_call_list(x->f, x->n.neighbours, &x->v, n_in, x->pair);
}
static fold_node call_of(mistakes *x, fold_cell cell, fold_node a, fold_node b)
{
    x->pair[0] = a;
    x->pair[1] = b;
    return fold_call(x->f, cell, x->pair, 2);
}

static void expect(mistakes *x, const char *call, fold_node result, fold_status want, const char *word, const char *other)
{
    const char *message = fold_ctx_message(x->f);
    CHECK_SAYS(fold_node_is_null(result), "%s is not null", call);
    CHECK_SAYS(names_call(call, message), "%s: \"%s\" names another call", call, message);
    CHECK_SAYS(fold_ctx_status(x->f) == want, "%s: status '%s', message '%s'", call, fold_status_text(fold_ctx_status(x->f)), message);
    CHECK_SAYS(strstr(message, word) && strstr(message, other), "%s: \"%s\" lacks \"%s\" or \"%s\"", call, message, word, other);
    record_mistakes(x);
    CHECK_SAYS(!fold_ctx_status(x->f) && !fold_run(x->f, &x->l3, 1), "%s: reset does not clear: %s", call, fold_ctx_message(x->f));
    record_mistakes(x);
}
#define BAD_IN(call, status, word, other) expect(x, #call, call, FOLD_##status, word, other)
#define BAD(call, status, word, other) expect(&x, #call, call, FOLD_##status, word, other)

static void open_mistakes(mistakes *x)
{
    const setting plain = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 };
    memset(x, 0, sizeof *x);
    net_open(&x->n, fold_model_new(NULL));
    x->f = open_setting(x->n.m, &plain, 1);
    x->other = open_setting(x->n.m, &plain, 1);
    record_mistakes(x);
}
static void close_mistakes(mistakes *x)
{
    fold_ctx_free(x->f);
    fold_ctx_free(x->other);
    fold_model_free(x->n.m);
}

static void mistaken_lengths(void)
{
    static mistakes x;
    static const int to[2] = { 0, 1 }, low[3] = { 0, 1, 2 };
    open_mistakes(&x);
    fold_ctx *f = x.f;
    BAD(fold_add(f, x.l3, x.l4), BAD_SHAPE, "add", "3 and 4");
    BAD(fold_add(f, x.l1, x.l4), BAD_SHAPE, "add", "1 and 4");
    BAD(fold_mul(f, x.l3, x.l0), BAD_SHAPE, "mul", "3 and 0");
    BAD(fold_add(f, x.l3, x.wide3), BAD_SHAPE, "add", "[6], [7]");
    BAD(fold_add(f, x.l3, x.block), BAD_SHAPE, "add: the node has more axes than the list's rows", "fold_list_stack");
    BAD(fold_mul(f, x.block, x.l4), BAD_SHAPE, "mul: the node has more axes", "(inputs [6], [3 x 6])");
    BAD(fold_maximum(f, x.l0, fold_use(f, x.n.W)), BAD_SHAPE, "fold_list_unstack", "[6], [6 x 6]");
    BAD(fold_list_stack(f, x.l0), BAD_SHAPE, "list_stack: the list has 0 rows of rank 1", "needs 1 or more");
    BAD(fold_list_stack(f, fold_reshape(f, x.l3, fold_shape4(1, 1, 2, 3))), BAD_SHAPE, "list_stack", "3 rows of rank 4");
    BAD(fold_select(f, x.v, x.l3, x.l4), BAD_SHAPE, "select", "3 and 4");
    BAD(fold_select(f, x.l3, x.l3, x.l4), BAD_SHAPE, "select: lists must be equal in length", "inputs 0 and 2 have 3 and 4 rows");
    BAD(pair_of(&x, x.l3, x.l4, concat_of), BAD_SHAPE, "concat", "3 and 4");
    BAD(call_of(&x, x.n.halves, x.l3, x.l4), BAD_SHAPE, "halves", "3 and 4");
    BAD(call_of(&x, x.n.halves, x.l3, x.wide3), BAD_SHAPE, "halves", "[7]");
    BAD(lists_of(&x, 1, x.l3, x.l4), BAD_SHAPE, "neighbours", "3 and 4");
    BAD(fold_list_softmax_mean(f, x.score3, x.l4), BAD_SHAPE, "list_softmax_mean", "3 and 4");
    BAD(fold_list_softmax_mean(f, x.wide3, x.l3), BAD_SHAPE, "score must be [1]", "[7]");
    BAD(fold_list_softmax_mean_to(f, x.wide3, x.l3, low, 3, 3), BAD_SHAPE, "score must be [1], or [heads]", "[7], [6]");
    BAD(fold_softmax_mean_n(f, &x.v, &x.w, 1), BAD_SHAPE, "score must be [1], or [heads]", "[6], [7]");
    BAD(fold_list_attention(f, x.l3, x.l3, x.l4, 1, 0), BAD_SHAPE, "attention", "3 and 4");
    BAD(fold_list_attention(f, x.l3, x.wide3, x.l3, 1, 0), BAD_SHAPE, "attention", "[7]");
    BAD(fold_list_attention(f, x.l3, x.l3, x.l3, 4, 0), BAD_SHAPE, "list_attention", "heads is 4");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l4, 1, to, to, 2), BAD_SHAPE, "list_attention_to", "3 and 4");
    BAD(fold_list_attention_to(f, x.l3, x.wide3, x.l3, 1, to, to, 2), BAD_SHAPE, "attention", "[7]");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l3, 4, to, to, 2), BAD_SHAPE, "list_attention_to", "heads is 4");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l3, 1, to, to, INT_MAX), BAD_SHAPE, "list_attention_to", "2147483647 edges to 3 rows");
    BAD(pair_of(&x, x.l3, x.wide3, fold_list_join), BAD_SHAPE, "list_join", "[7]");
    BAD(pair_of(&x, x.v, x.w, fold_list_join), BAD_SHAPE, "list", "[7]");
    close_mistakes(&x);
}

/* A list is one sequence: its first state is no list of states. */
static fold_node unrolled(mistakes *x, fold_node h, fold_node c)
{
    const fold_state begin = { h, c };
    return fold_unroll_list(x->f, &x->n.lstm, x->l3, 0, &begin, NULL);
}
static fold_node unrolled_stack(mistakes *x, const fold_rnn_stack *stack, int at, fold_node list)
{
    fold_state begin[2];
    for (int i = 0; i < 2; i++) begin[i] = fold_recurrent_zeros(x->f, &stack->cell[i]);
    begin[at / 2].h = at % 2 ? begin[at / 2].h : list;
    begin[at / 2].c = at % 2 ? list : begin[at / 2].c;
    return fold_unroll_stack_list(x->f, stack, x->l3, begin, NULL);
}
static void bad_beginnings(mistakes *x)
{
    const fold_rnn_stack stack = fold_rnn_stack_new(x->n.m, "stack", fold_lstm_new, WIDTH, WIDTH, 1, 1);
    static const fold_state none[2];
    BAD_IN(fold_unroll_list(x->f, &x->n.lstm, x->l3, 0, none, NULL), BAD_ARGUMENT, "unroll_list: begin must have both h and c", "");
    BAD_IN(fold_unroll_stack_list(x->f, &stack, x->l3, none, NULL), BAD_ARGUMENT, "unroll_stack_list: begin must have both h and c", "");
    BAD_IN(unrolled(x, x->l3, x->v), BAD_SHAPE, "unroll_list: begin[0].h is a list of 3 rows", "a single node");
    BAD_IN(unrolled(x, x->v, x->l1), BAD_SHAPE, "unroll_list: begin[0].c is a list of 1 rows", "a single node");
    BAD_IN(unrolled_stack(x, &stack, 0, x->l3), BAD_SHAPE, "unroll_stack_list: begin[0].h is a list of 3 rows", "");
    BAD_IN(unrolled_stack(x, &stack, 3, x->l0), BAD_SHAPE, "unroll_stack_list: begin[1].c is a list of 0 rows", "");
}

static void mistaken_kinds(void)
{
    static mistakes x;
    open_mistakes(&x);
    fold_ctx *f = x.f;
    static const int to[4] = { 0, 1, 0, 1 };
    BAD(pair_of(&x, x.l3, x.l3, fold_sum_n), BAD_SHAPE, "sum_n", "fold_list_join");
    BAD(pair_of(&x, x.v, x.l3, fold_mean_n), BAD_SHAPE, "mean_n", "fold_list_join");
    BAD(pair_of(&x, x.l1, x.v, fold_max_n), BAD_SHAPE, "max_n", "fold_list_join");
    BAD(fold_softmax_mean_n(f, &x.one, &x.l1, 1), BAD_SHAPE, "softmax_mean_n", "fold_list_join");
    BAD(fold_sum_n(f, &x.l0, 1), BAD_SHAPE, "sum_n", "fold_list_join");
    BAD(fold_shared(f, x.l3), BAD_SHAPE, "shared", "list");
    BAD(fold_list_at(f, x.v, 0), BAD_SHAPE, "list_at", "list");
    BAD(fold_list_take(f, x.v, to, 2), BAD_SHAPE, "list_take", "list");
    BAD(fold_list_stack(f, x.v), BAD_SHAPE, "list_stack", "list");
    BAD(fold_unroll_list(f, &x.n.gru, x.v, 0, NULL, NULL), BAD_SHAPE, "unroll_list: the input is a node, must be a list", "");
    BAD(fold_unroll_list(f, &x.n.lstm, x.wide3, 0, NULL, NULL), BAD_SHAPE, "lstm", "[7]");
    BAD(fold_unroll_list(f, NULL, x.l3, 0, NULL, NULL), BAD_ARGUMENT, "unroll_list: the cell is null", "");
    bad_beginnings(&x);
    BAD(fold_list_unstack(f, x.l3), BAD_SHAPE, "list_unstack: x is a list already", "");
    BAD(fold_list_sum(f, x.v), BAD_SHAPE, "list_sum", "list");
    BAD(fold_list_mean(f, x.v), BAD_SHAPE, "list_mean", "list");
    BAD(fold_list_max(f, x.v), BAD_SHAPE, "list_max", "list");
    BAD(fold_list_softmax_mean(f, x.one, x.l3), BAD_SHAPE, "list_softmax_mean", "list");
    BAD(fold_list_softmax_mean(f, x.score3, x.v), BAD_SHAPE, "list_softmax_mean", "list");
    BAD(fold_list_sum_to(f, x.v, to, 4, 2), BAD_SHAPE, "list_sum_to", "list");
    BAD(fold_list_softmax_mean_to(f, x.score4, x.v, to, 4, 2), BAD_SHAPE, "list_softmax_mean_to", "list");
    BAD(fold_list_attention(f, x.v, x.v, x.l3, 1, 0), BAD_SHAPE, "attention", "list");
    BAD(fold_list_attention_to(f, x.v, x.l3, x.l3, 1, to, to, 2), BAD_SHAPE, "list_attention_to: the input is a node", "list_unstack");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.v, 1, to, to, 2), BAD_SHAPE, "list_attention_to: the input is a node", "list_unstack");
    BAD(fold_pick_each(f, x.v, to, 4), BAD_SHAPE, "pick_each", "list");
    BAD(fold_softmax_xent_each(f, x.v, to, 4), BAD_SHAPE, "softmax_xent_each", "list");
    BAD(lists_of(&x, 1, x.l3, x.v), BAD_SHAPE, "neighbours", "list");
    BAD((x.pair[0] = x.pair[1] = x.l3, fold_call_list(f, x.n.neighbours, &x.l3, 1, x.pair)), BAD_CELL, "neighbours", "list");
    BAD(fold_call_list(f, x.n.gate, &x.v, 1, x.pair), BAD_ARGUMENT, "gate", "list");
    BAD(fold_call_n(f, x.n.neighbours, &x.v, 1, &x.l3, 1), BAD_SHAPE, "neighbours", "list");
    BAD((fold_backward(f, x.l3), fold_out(f, x.stale, 0)), BAD_SHAPE, "backward", "list");
    BAD((fold_backward(f, x.score3), fold_out(f, x.stale, 0)), BAD_SHAPE, "backward", "list");
    close_mistakes(&x);
}

static void mistaken_arguments(void)
{
    static mistakes x;
    open_mistakes(&x);
    fold_ctx *f = x.f;
    static const int low[3] = { 0, -1, 2 }, high[3] = { 0, 2, 6 }, goes[3] = { 0, 0, 1 }, ends[2] = { 2, 0 }, starts[2] = { 0, 0 };
    static const float data[4] = { 0 };
    const fold_shape hollow = { 2, { 3, 0, 0, 0 } };
    BAD(fold_list_input(f, data, -1, vector), BAD_ARGUMENT, "list_input", "-1");
    BAD(fold_list_input(f, NULL, 2, vector), BAD_ARGUMENT, "list_input", "NULL");
    BAD(fold_list_input(f, data, 2, hollow), BAD_SHAPE, "list_input", "at least 1");
    BAD(fold_list_input_ref(f, data, -2, vector), BAD_ARGUMENT, "list_input_ref", "-2");
    BAD(fold_list_input_ref(f, NULL, 1, vector), BAD_ARGUMENT, "list_input_ref", "NULL");
    BAD(fold_list_lookup(f, x.n.W, low, 1), BAD_ARGUMENT, "'W'", "FOLD_FOR_LOOKUP");
    BAD(fold_list_lookup(f, x.n.words, low, 3), BAD_ARGUMENT, "list_lookup: rows[1] is -1", "[0, 11) of table 'words'");
    BAD(fold_list_lookup(f, x.n.words, NULL, 3), BAD_ARGUMENT, "list_lookup", "NULL");
    BAD(fold_list_lookup(f, x.n.words, low, -3), BAD_ARGUMENT, "list_lookup", "-3");
    BAD(fold_list_lookup(f, x.n.none, low, 1), BAD_HANDLE, "lookup", "parameter");
    BAD(fold_list_join(f, &x.v, 0), BAD_ARGUMENT, "list", "fold_list_input");
    BAD(fold_list_join(f, &x.v, -1), BAD_ARGUMENT, "list", "-1");
    BAD(fold_list_join(f, NULL, 1), BAD_ARGUMENT, "list", "NULL");
    BAD(fold_list_join(f, &x.l3, 0), BAD_ARGUMENT, "list_join", "fold_list_input");
    BAD(fold_list_join(f, NULL, 2), BAD_ARGUMENT, "list_join", "NULL");
    BAD(fold_list_at(f, x.l3, 3), BAD_ARGUMENT, "i is 3", "[-3, 3)");
    BAD(fold_list_at(f, x.l3, -4), BAD_ARGUMENT, "list_at: i is -4", "[-3, 3)");
    BAD(fold_list_at(f, x.l0, -1), BAD_ARGUMENT, "list_at: i is -1", "[0, 0)");
    BAD(fold_list_at(f, x.l0, 0), BAD_ARGUMENT, "list_at", "[0, 0)");
    BAD(fold_list_max(f, x.l0), BAD_ARGUMENT, "list_max", "empty");
    BAD(fold_list_take(f, x.l3, low, 3), BAD_ARGUMENT, "index[1] is -1", "[0, 3)");
    BAD(fold_list_take(f, x.l3, high, 3), BAD_ARGUMENT, "index[2] is 6", "[0, 3)");
    BAD(fold_list_take(f, x.l0, high, 1), BAD_ARGUMENT, "index[0] is 0", "[0, 0)");
    BAD(fold_list_take(f, x.l3, NULL, 1), BAD_ARGUMENT, "list_take", "NULL");
    BAD(fold_list_positions(f, x.n.words, 0, WORDS + 1), BAD_ARGUMENT, "list_positions: 12 rows from row 0 on are outside 'words' (11 rows)", "");
    BAD(fold_list_positions(f, x.n.words, WORDS, 1), BAD_ARGUMENT, "list_positions: 1 rows from row 11 on", "");
    BAD(fold_list_positions(f, x.n.words, -1, 1), BAD_ARGUMENT, "list_positions: 1 rows from row -1 on", "");
    BAD(fold_list_positions(f, x.n.words, 2, -1), BAD_ARGUMENT, "list_positions: -1 rows from row 2 on", "");
    BAD(fold_list_logsumexp(f, x.l0), BAD_SHAPE, "list_logsumexp: the list is empty", "");
    BAD(fold_list_softmax(f, x.v), BAD_SHAPE, "list_softmax: the input is a node", "list_unstack");
    BAD(fold_list_choice_xent(f, x.score3, 3), BAD_ARGUMENT, "list_choice_xent: label is 3, must be in [0, 3)", "");
    BAD(fold_list_choice_xent(f, x.score3, -1), BAD_ARGUMENT, "list_choice_xent: label is -1", "");
    BAD(fold_list_choice_xent(f, x.l0, 0), BAD_ARGUMENT, "list_choice_xent: label is 0, must be in [0, 0)", "");
    BAD(fold_list_softmax_to(f, x.score3, goes, 3, -1), BAD_ARGUMENT, "list_softmax_to", "-1");
    BAD(fold_list_log_softmax_to(f, x.score3, low, 2, 3), BAD_ARGUMENT, "list_log_softmax_to: edges is 2, but the list has 3 rows", "");
    BAD(fold_list_logsumexp_to(f, x.score3, high, 3, 5), BAD_ARGUMENT, "list_logsumexp_to: to[2] is 6", "[0, 5)");
    BAD(fold_list_softmax_entropy_to(f, x.score3, NULL, 3, 3), BAD_ARGUMENT, "list_softmax_entropy_to", "NULL");
    BAD(fold_list_choice_xent_to(f, x.score3, high, goes, 3, 3), BAD_ARGUMENT, "list_choice_xent_to: label[2] is 6", "[0, 3)");
    BAD(fold_list_choice_xent_to(f, x.score3, ends, goes, 3, 2), BAD_ARGUMENT, "list_choice_xent_to: label[0] is edge 2, which goes to row 1", "");
    BAD(fold_list_choice_xent_to(f, x.score3, starts, goes, 3, 2), BAD_ARGUMENT, "list_choice_xent_to: label[1] is edge 0, which goes to row 0", "");
    BAD(fold_list_take(f, x.l3, high, -1), BAD_ARGUMENT, "list_take", "-1");
    BAD(fold_list_sum_to(f, x.l3, low, 3, 3), BAD_ARGUMENT, "list_sum_to", "-1");
    BAD(fold_list_mean_to(f, x.l3, high, 3, 6), BAD_ARGUMENT, "list_mean_to: to[2] is 6", "[0, 6)");
    BAD(fold_list_max_to(f, x.l3, NULL, 3, 3), BAD_ARGUMENT, "list_max_to", "NULL");
    BAD(fold_list_sum_to(f, x.l3, high, 3, -1), BAD_ARGUMENT, "list_sum_to", "-1");
    BAD(fold_list_softmax_mean_to(f, x.score3, x.l3, high, 3, 0), BAD_ARGUMENT, "list_softmax_mean_to", "[0, 0)");
    BAD(fold_list_attention(f, x.l3, x.l3, x.l3, 0, 0), BAD_ARGUMENT, "attention", "heads is 0");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l3, 0, high, high, 1), BAD_ARGUMENT, "list_attention_to", "heads is 0");
    BAD(fold_list_attention_to(f, x.l3, x.l4, x.l4, 1, low, high, 2), BAD_ARGUMENT, "list_attention_to", "from[1] is -1");
    BAD(fold_list_attention_to(f, x.l3, x.l4, x.l4, 1, high, high, 3), BAD_ARGUMENT, "from[2] is 6", "[0, 4)");
    BAD(fold_list_attention_to(f, x.l3, x.l4, x.l4, 1, high + 1, high, 2), BAD_ARGUMENT, "list_attention_to", "from[1] is 6");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l3, 1, NULL, high, 1), BAD_ARGUMENT, "list_attention_to", "NULL");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l3, 1, high, NULL, 1), BAD_ARGUMENT, "list_attention_to", "NULL");
    BAD(fold_list_attention_to(f, x.l3, x.l3, x.l3, 1, high, high, -1), BAD_ARGUMENT, "list_attention_to", "-1");
    BAD(fold_pick_each(f, x.l3, high, 3), BAD_ARGUMENT, "index[2] is 6", "[0, 6)");
    BAD(fold_list_sum_to(f, x.l3, low, 4, 3), BAD_ARGUMENT, "list_sum_to: edges is 4, but the list has 3 rows", "");
    BAD(fold_list_mean_to(f, x.l1, low, 0, 3), BAD_ARGUMENT, "list_mean_to: edges is 0, but the list has 1 row", "");
    BAD(fold_list_max_to(f, x.l3, low, -1, 3), BAD_ARGUMENT, "list_max_to: edges is -1, but the list has 3 rows", "");
    BAD(fold_list_softmax_mean_to(f, x.score3, x.l3, low, 2, 3), BAD_ARGUMENT, "list_softmax_mean_to: edges is 2, but the list has 3 rows", "");
    BAD(fold_pick_each(f, x.l3, high, 2), BAD_ARGUMENT, "pick_each: n is 2, but the list has 3 rows", "");
    BAD(fold_pick_each(f, x.l0, high, 1), BAD_ARGUMENT, "pick_each: n is 1, but the list has 0 rows", "");
    BAD(fold_softmax_xent_each(f, x.l4, high, 3), BAD_ARGUMENT, "softmax_xent_each: n is 3, but the list has 4 rows", "");
    BAD(fold_hinge_each(f, x.l3, high, -3), BAD_ARGUMENT, "hinge_each: n is -3, but the list has 3 rows", "");
    BAD(fold_pick_each(f, x.l3, NULL, 3), BAD_ARGUMENT, "pick_each", "NULL");
    BAD(fold_softmax_xent_each(f, x.l3, low, 3), BAD_ARGUMENT, "label[1] is -1", "[0, 6)");
    BAD(lists_of(&x, 0, x.l3, x.l3), BAD_ARGUMENT, "neighbours", "n_in is 0, must be 1");
    BAD(fold_call_list(f, x.n.neighbours, &x.v, 1, NULL), BAD_ARGUMENT, "neighbours", "NULL");
    BAD(fold_tanh(f, x.stale), BAD_HANDLE, "tanh", "fold_ctx_reset");
    BAD(fold_list_at(f, x.foreign, 0), BAD_HANDLE, "list_at", "another context");
    BAD(pair_of(&x, x.l3, x.foreign, fold_list_join), BAD_HANDLE, "list_join", "another context");
    close_mistakes(&x);
}

/* More rows than an int counts. */
static void too_many_rows(void)
{
    static mistakes x;
    static const float data[1] = { 0 };
    open_mistakes(&x);
    fold_ctx *f = x.f;
    const int half = 1 << 30;
    fold_node three[3];
    for (int i = 0; i < 3; i++) three[i] = fold_list_input_ref(f, data, half, fold_shape1(1));
    CHECK_INT(fold_list_length(f, three[0]), half);
    BAD(fold_list_join(f, three, 3), BAD_SHAPE, "list_join", "rows");
    three[0] = fold_list_input_ref(f, data, half, fold_shape1(1));
    BAD(fold_add(f, three[0], x.v), BAD_SHAPE, "add", "exceed a list's 2147483647");
    close_mistakes(&x);
}

static void mistaken_caches(void)
{
    static mistakes x;
    static float memory[64 * WIDTH + 3 * WIDTH];
    const setting plain = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 };
    fold_cache cache = { memory, 3, 2, WIDTH, 0, 0, { 0 } }, empty = cache, odd = cache, wide = cache;
    empty.memory = NULL;
    odd.heads = 4;
    wide.width = WIDTH + 2;
    CHECK(fold_cache_bytes(&cache) == sizeof memory);
    CHECK(!fold_cache_bytes(&odd) && !fold_cache_bytes(NULL));
    odd.capacity = INT_MAX;
    open_mistakes(&x);
    BAD(fold_attention_step(x.f, &cache, x.v, x.v, x.v), BAD_STATE, "attention_step", "fold_list_attention");
    fold_ctx_free(x.f);
    fold_ctx *f = x.f = open_setting(x.n.m, &plain, 0);
    record_mistakes(&x);
    BAD(fold_attention_step(f, NULL, x.v, x.v, x.v), BAD_ARGUMENT, "attention_step", "NULL");
    BAD(fold_attention_step(f, &empty, x.v, x.v, x.v), BAD_ARGUMENT, "no memory", "capacity 3");
    BAD(fold_attention_step(f, &odd, x.v, x.v, x.v), BAD_ARGUMENT, "attention_step", "heads 4");
    BAD(fold_attention_step(f, &wide, x.v, x.v, x.v), BAD_SHAPE, "attention_step", "6 and 6 values, those of the cache 8 and 8");
    BAD(fold_attention_step(f, &cache, x.w, x.v, x.v), BAD_SHAPE, "attention_step", "[7]");
    BAD(fold_attention_step(f, &cache, x.l3, x.l3, x.l4), BAD_SHAPE, "attention_step", "rows: 3, 3, 4");
    BAD(fold_attention_step(f, &cache, x.v, x.l3, x.l3), BAD_SHAPE, "attention_step", "rows: -1, 3, 3");
    BAD(fold_attention_step(f, &cache, x.l4, x.l4, x.l4), BAD_SHAPE, "0 rows in the cache and 4 more", "capacity of 3");
    CHECK(!fold_node_is_null(fold_attention_step(f, &cache, x.v, x.v, x.v)));
    BAD(fold_attention_step(f, &cache, x.v, x.v, x.v), BAD_STATE, "attention_step", "fold_cache_truncate");
    CHECK_INT(fold_cache_truncate(&cache, 1), FOLD_BAD_ARGUMENT); /* what was recorded has not run */
    CHECK_INT(fold_cache_truncate(&cache, -1), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_cache_truncate(NULL, 0), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_cache_truncate(&cache, 0), FOLD_OK);
    const fold_node y = fold_attention_step(f, &cache, x.l3, x.l3, x.l3);
    CHECK_SAYS(!fold_run(f, &y, 1), "%s", fold_ctx_message(f));
    CHECK_INT(cache.length, 3);
    close_mistakes(&x);
}

/* In a body a value stands for one row: only the reductions are there, for the elements of a list. */
enum { IN_BODY = 17 };
static void mistaken_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    static const int index[2] = { 0, 0 };
    static const float x[WIDTH] = { 0 };
    static fold_cache cache;
    fold_param table = fold_param_find(fold_ctx_model(f), "words");
    switch (*(const int *)user) {
    case 0: out[0] = fold_list_input(f, x, 1, vector); break;
    case 1: out[0] = fold_list_input_ref(f, x, 1, vector); break;
    case 2: out[0] = fold_list_lookup(f, table, index, 1); break;
    case 3: out[0] = fold_list_join(f, in, 1); break;
    case 4: out[0] = fold_list_join(f, in, 1); break;
    case 5: out[0] = fold_list_at(f, in[0], 0); break;
    case 6: out[0] = fold_list_take(f, in[0], index, 1); break;
    case 7: out[0] = fold_list_sum_to(f, in[0], index, 1, 1); break;
    case 8: out[0] = fold_list_attention(f, in[0], in[0], in[0], 1, 0); break;
    case 9: out[0] = fold_pick_each(f, in[0], index, 1); break;
    case 10: out[0] = fold_softmax_xent_each(f, in[0], index, 1); break;
    case 11: out[0] = fold_list_attention_to(f, in[0], in[0], in[0], 1, index, index, 1); break;
    case 12: out[0] = fold_attention_step(f, &cache, in[0], in[0], in[0]); break;
    case 13: out[0] = fold_list_stack(f, in[0]); break;
    case 14: out[0] = fold_list_unstack(f, in[0]); break;
    case 15: out[0] = fold_list_softmax(f, in[0]); break;
    default: out[0] = fold_list_sum(f, in[0]);
    }
}
static void mistaken_bodies(void)
{
    static const char *const words[IN_BODY] = { "list_input", "list_input_ref", "list_lookup", "list", "list_join", "list_at",
                                                "list_take", "list_sum_to", "attention", "pick_each", "softmax_xent_each",
                                                "list_attention_to", "attention_step", "list_stack", "list_unstack", "list_softmax", "list_sum" };
    for (int i = 0; i < IN_BODY; i++) {
        fold_cell_desc d = fold_cell_desc_default();
        fold_model *m = fold_model_new(NULL);
        fold_table_new(m, "words", WORDS, WIDTH);
        d.name = "wrong";
        d.body = mistaken_body;
        d.user = &i;
        d.n_in = d.n_out = 1;
        d.in[0] = vector;
        CHECK_SAYS(!fold_cell_new(m, &d).id, "%s in a body", words[i]);
        CHECK_SAYS(fold_model_status(m) == FOLD_BAD_CELL, "%s in a body: %s", words[i], fold_status_text(fold_model_status(m)));
        CHECK_SAYS(strstr(fold_model_message(m), words[i]), "%s in a body: %s", words[i], fold_model_message(m));
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("lists: mistaken lengths", mistaken_lengths);
    check_run("lists: mistaken kinds", mistaken_kinds);
    check_run("lists: mistaken arguments", mistaken_arguments);
    check_run("lists: too many rows", too_many_rows);
    check_run("lists: mistaken caches", mistaken_caches);
    check_run("lists: in bodies", mistaken_bodies);
    return check_finish();
}
