/* test_engine.c - the engine from outside: schedules and their lower bound, groups, running and reading, merged calls, and
   what a user is told about each mistake.
       cc -O2 -o test_engine tests/test_engine.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include <stdlib.h>

enum { H = 8, CLASSES = 5, WORDS = 50, SAMPLES = 24, MAX_TREE = 64, MAX_FLOATS = 1 << 16 };

/* -- a model ------------------------------------------------------------------------------- */

typedef struct net {
    fold_model *m;
    fold_param embed, W, b, V, a, gain, frozen;
    fold_tree_lstm tree;
    fold_recurrent lstm;
    fold_cell neighbours, list_max;
} net;

/* query; list of (key, value): attention over any number of neighbours */
static void neighbours_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node key = fold_tanh(f, fold_linear(f, in[1], n->W, n->b));
    out[0] = fold_add(f, in[0], fold_list_softmax_mean(f, fold_dot(f, in[0], key), in[2]));
}
static void list_max_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_max(f, in[0]);
}

static fold_cell_desc cell_desc(const char *name, fold_cell_body *body, const void *user, int n_in, int n_list,
                                int n_out)
{
    fold_cell_desc d;
    memset(&d, 0, sizeof d);
    d.name = name; d.body = body; d.user = user;
    d.n_in = n_in; d.n_list = n_list; d.n_out = n_out;
    for (int i = 0; i < n_in; i++) d.in[i] = fold_shape1(H);
    for (int i = 0; i < n_list; i++) d.list[i] = fold_shape1(H);
    return d;
}

static void net_new(net *n)
{
    memset(n, 0, sizeof *n);
    n->m = fold_model_new(NULL);
    n->embed = fold_table_new(n->m, "embed", WORDS, H);
    n->W = fold_weight_new(n->m, "W", H, H);
    n->b = fold_bias_new(n->m, "b", H);
    n->V = fold_weight_new(n->m, "V", H, CLASSES);
    n->a = fold_bias_new(n->m, "a", CLASSES);
    n->gain = fold_gain_new(n->m, "gain", H);
    n->frozen = fold_weight_new(n->m, "frozen", H, H);
    n->tree = fold_tree_lstm_new(n->m, "tree", H, H, 2);
    n->lstm = fold_lstm_new(n->m, "lstm", H, H);
    fold_param_freeze(n->m, n->frozen, 1);
    const fold_cell_desc neighbours = cell_desc("neighbours", neighbours_body, n, 1, 2, 1);
    const fold_cell_desc list_max = cell_desc("list_max", list_max_body, NULL, 0, 1, 1);
    n->neighbours = fold_cell_new(n->m, &neighbours);
    n->list_max = fold_cell_new(n->m, &list_max);
    CHECK_INT(fold_model_status(n->m), FOLD_OK);
}

static fold_ctx *context(const net *n, int training, int eager, fold_schedule schedule, size_t group_bytes)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training; d.eager = eager; d.schedule = schedule; d.group_bytes = group_bytes;
    return fold_ctx_new(n->m, &d);
}
static fold_ctx *trainer(const net *n) { return context(n, 1, 0, FOLD_SCHEDULE_RATIO, 0); }

static fold_node word(fold_ctx *f, const net *n, int i) { return fold_lookup(f, n->embed, i % WORDS); }
static fold_node vector(fold_ctx *f, int size)
{
    float x[32];
    for (int i = 0; i < size; i++) x[i] = 0.25f * (float)(i - 3);
    return fold_input(f, x, size);
}
static fold_node classify(fold_ctx *f, const net *n, fold_node h, int label)
{
    return fold_softmax_xent(f, fold_linear(f, h, n->V, n->a), label % CLASSES);
}

/* A sample: some nonlinear work on words that depend on its number, ending in a scalar. */
static fold_node small_loss(fold_ctx *f, const net *n, int i)
{
    const fold_node x = fold_tanh(f, fold_linear(f, word(f, n, i), n->W, n->b));
    if (i % 3 == 0) return classify(f, n, fold_mul(f, x, word(f, n, 3 * i)), i);
    return classify(f, n, fold_tanh(f, fold_linear(f, x, n->W, n->b)), i);
}

/* Copies all parameter gradients and clears them; how many there are. */
static int take_grads(fold_model *m, float *to)
{
    int n;
    const float *g = fold_model_grads(m, &n);
    memcpy(to, g, (size_t)n * sizeof *g);
    fold_grads_clear(m);
    return n;
}
static float got_grads[MAX_FLOATS], want_grads[MAX_FLOATS];

/* -- schedules: the lower bound, computed here from the trees alone ---------------------------- */

enum signature { LEAF, INNER, OUTPUT, LOSS, TOTAL, SIGNATURES };

/* Per node the longest chain of each signature that ends there or before; per recording the longest. */
typedef struct bounds { int chain[SIGNATURES]; } bounds;

static bounds chain_over(bounds a, bounds b, enum signature s)
{
    for (int i = 0; i < SIGNATURES; i++) a.chain[i] = a.chain[i] > b.chain[i] ? a.chain[i] : b.chain[i];
    a.chain[s]++;
    return a;
}
static int bound_of(bounds b)
{
    int sum = 0;
    for (int i = 0; i < SIGNATURES; i++) sum += b.chain[i];
    return sum;
}

typedef struct trees {
    int every_node;             /* outputs at every node, or at the root */
    bounds all;                 /* of the recording; each sample's bound goes to `sum` */
    int sum;
    fold_node loss[SAMPLES * MAX_TREE], total;
    size_t n_losses;
} trees;

static void output(fold_ctx *f, const net *n, trees *t, bounds *sample, fold_node h, bounds b, int label)
{
    const bounds none = { { 0 } };
    t->loss[t->n_losses++] = classify(f, n, h, label);
    *sample = chain_over(*sample, chain_over(chain_over(b, none, OUTPUT), none, LOSS), TOTAL);
}

/* A random tree of some leaves: neighbours merge until one is left. */
static void record_tree(fold_ctx *f, const net *n, trees *t, check_random *r)
{
    const bounds none = { { 0 } };
    fold_state s[MAX_TREE];
    bounds b[MAX_TREE], sample = none;
    int count = 1 + random_below(r, 20);
    for (int i = 0; i < count; i++) {
        s[i] = fold_tree_lstm_apply_leaf(f, &n->tree, word(f, n, random_below(r, WORDS)));
        b[i] = chain_over(none, none, LEAF);
        if (t->every_node || count == 1) output(f, n, t, &sample, s[i].h, b[i], i);
    }
    while (count > 1) {
        const int at = random_below(r, count - 1);
        s[at] = fold_tree_lstm_apply_inner(f, &n->tree, s + at);
        b[at] = chain_over(b[at], b[at + 1], INNER);
        memmove(s + at + 1, s + at + 2, (size_t)(count - at - 2) * sizeof *s);
        memmove(b + at + 1, b + at + 2, (size_t)(count - at - 2) * sizeof *b);
        count--;
        if (t->every_node || count == 1) output(f, n, t, &sample, s[at].h, b[at], at);
    }
    sample.chain[TOTAL] = 0;
    t->sum += bound_of(sample);
    t->all = chain_over(t->all, sample, TOTAL);
    t->all.chain[TOTAL] = 1;
}

static void record_trees(fold_ctx *f, const net *n, trees *t, int every_node, uint64_t seed)
{
    check_random r = { seed };
    memset(t, 0, sizeof *t);
    t->every_node = every_node;
    fold_ctx_reset(f);
    for (int i = 0; i < SAMPLES; i++) record_tree(f, n, t, &r);
    t->total = fold_sum_n(f, t->loss, (int)t->n_losses);
}

static void lower_bound(void)
{
    static const char *const where[] = { "root", "every node" };
    static trees t;
    net n;
    net_new(&n);
    fold_ctx *whole = context(&n, 1, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX),
             *single = context(&n, 1, 0, FOLD_SCHEDULE_RATIO, 1);
    fold_ctx *inference = context(&n, 0, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX);
    for (int k = 0; k < 20; k++) {
        record_trees(whole, &n, &t, k % 2, (uint64_t)k);
        CHECK_INT(fold_backward(whole, t.total), FOLD_OK);
        const fold_stats s = fold_ctx_stats(whole);
        CHECK_SAYS(s.lower_bound == bound_of(t.all), "output at the %s: lower bound %d, want %d",
                   where[k % 2], s.lower_bound, bound_of(t.all));
        CHECK_SAYS(s.batches == bound_of(t.all), "output at the %s: %d batches, the bound is %d",
                   where[k % 2], s.batches, bound_of(t.all));
        CHECK_INT(s.groups, 1u);
        record_trees(inference, &n, &t, k % 2, (uint64_t)k);
        CHECK_INT(fold_run(inference, &t.total, 1), FOLD_OK);
        CHECK_SAYS(fold_ctx_stats(inference).batches == bound_of(t.all),
                   "inference, output at the %s: %d batches, the bound is %d", where[k % 2],
                   fold_ctx_stats(inference).batches, bound_of(t.all));
        record_trees(single, &n, &t, k % 2, (uint64_t)k); /* each sample its own group, then the sum */
        CHECK_INT(fold_backward(single, t.total), FOLD_OK);
        const fold_stats g = fold_ctx_stats(single);
        CHECK_INT(g.groups, SAMPLES + 1u);
        CHECK_SAYS(g.lower_bound == t.sum + 1, "sample by sample: lower bound %d, want %d", g.lower_bound,
                   t.sum + 1);
        CHECK_SAYS(g.batches == g.lower_bound, "sample by sample: %d batches, the bound is %d", g.batches,
                   g.lower_bound);
    }
    fold_ctx_free(whole);
    fold_ctx_free(single);
    fold_ctx_free(inference);
    fold_model_free(n.m);
}

/* Each group meets its bound whatever the budget; every schedule gives the same values and gradients. */
static void budgets_and_schedules(void)
{
    static const size_t budgets[] = { SIZE_MAX, 0, 1 << 16, 1 << 14, 1 << 12, 1 };
    static trees t;
    net n;
    float want = 0;
    net_new(&n);
    int groups = 0, count = 0;
    for (int schedule = 0; schedule < FOLD_SCHEDULE_COUNT; schedule++)
        for (int k = 0; k < 6; k++) {
            fold_ctx *f = context(&n, 1, 0, (fold_schedule)schedule, budgets[k]);
            record_trees(f, &n, &t, 1, 5);
            CHECK_INT(fold_backward(f, t.total), FOLD_OK);
            const fold_stats s = fold_ctx_stats(f);
            CHECK_SAYS(s.batches >= s.lower_bound, "%d batches, fewer than the bound %d", s.batches,
                       s.lower_bound);
            CHECK(schedule != FOLD_SCHEDULE_RATIO || s.batches == s.lower_bound);
            CHECK(!k || schedule || s.groups >= groups);
            CHECK_SAYS((s.groups == 1) == (s.one_group[0] != 0), "%d groups, but: '%s'", s.groups,
                       s.one_group);
            groups = s.groups;
            const float got = fold_scalar(f, t.total);
            if (!schedule && !k) { want = got; count = take_grads(n.m, want_grads); }
            CHECK_BITS(&got, &want, 1);
            if (schedule || k) take_grads(n.m, got_grads);
            else memcpy(got_grads, want_grads, (size_t)count * sizeof *got_grads);
            CHECK_BITS(got_grads, want_grads, count);
            fold_ctx_free(f);
        }
    CHECK_INT(groups, SAMPLES + 1u);
    fold_model_free(n.m);
}

/* Chains: the input's projection is one batch for all steps, the recurrence one batch a step. */
static void chains(void)
{
    net n;
    net_new(&n);
    fold_ctx *f = context(&n, 1, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX);
    fold_node loss[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        fold_state s = fold_recurrent_zeros(f, &n.lstm);
        for (int k = 0; k <= i; k++) s = fold_recurrent_apply(f, &n.lstm, word(f, &n, i * k), s);
        loss[i] = classify(f, &n, s.h, i);
    }
    CHECK_INT(fold_backward(f, fold_sum_n(f, loss, SAMPLES)), FOLD_OK);
    const fold_stats s = fold_ctx_stats(f);
    CHECK_INT(s.lower_bound, SAMPLES + 3u);
    CHECK_SAYS(s.batches >= SAMPLES + 3 && s.batches <= SAMPLES + 4, "%d batches", s.batches);
    CHECK_INT(s.run_nodes, SAMPLES * (SAMPLES + 1u) / 2 + 2 * SAMPLES + 1);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* -- lists ----------------------------------------------------------------------------------- */

enum { BY_CELL, BY_OP, BY_CHILD_SUM, LIST_KINDS };

static fold_node over_list(fold_ctx *f, const net *n, const fold_child_sum *sum, int kind, int i, int count)
{
    fold_node list[64];
    fold_state children[32];
    const fold_node query = word(f, n, i);
    for (int k = 0; k < count; k++) {
        const fold_node x = word(f, n, 7 * i + k), y = word(f, n, 5 * i + 2 * k);
        list[kind == BY_CELL ? 2 * k : k] = kind == BY_CELL ? x : fold_dot(f, query, x);
        list[kind == BY_CELL ? 2 * k + 1 : count + k] = y;
        children[k].h = x;
        children[k].c = y;
    }
    if (kind == BY_CHILD_SUM) return fold_child_sum_apply(f, sum, query, children, count).h;
    if (kind == BY_OP) return count ? fold_softmax_mean_n(f, list, list + count, count) : fold_zeros(f, fold_shape1(H));
    return fold_out(f, fold_call_n(f, n->neighbours, &query, 1, list, count), 0);
}

static void list_lengths(void)
{
    net n;
    net_new(&n);
    const fold_child_sum sum = fold_child_sum_new(n.m, "child_sum", H, H);
    for (int kind = 0; kind < LIST_KINDS; kind++) {
        int batches = 0, calls = 0;
        for (int mixed = 0; mixed < 2; mixed++) {
            fold_ctx *f = context(&n, 1, 0, FOLD_SCHEDULE_RATIO, SIZE_MAX);
            fold_node loss[21];
            size_t elements = 0;
            for (int i = 0; i < 21; i++) {
                const int count = mixed ? (i * 8) % 21 : 10; /* as many elements in all */
                elements += (size_t)count;
                loss[i] = classify(f, &n, over_list(f, &n, &sum, kind, i, count), i);
            }
            CHECK_INT(fold_backward(f, fold_mean_n(f, loss, 21)), FOLD_OK);
            const fold_stats s = fold_ctx_stats(f);
            CHECK_INT(s.list_elements, elements + 21); /* the mean is a list too */
            if (!mixed) { batches = s.batches; calls = s.kernel_calls; }
            const int leaves = mixed && kind == BY_CHILD_SUM; /* nodes without children are a cell of their own */
            CHECK_INT(s.batches, batches + leaves);
            if (!leaves) CHECK_INT(s.kernel_calls, calls);
            fold_ctx_free(f);
            fold_grads_clear(n.m);
        }
    }
    fold_model_free(n.m);
}

/* -- ordinary training programs keep their groups ---------------------------------------------- */

enum { SUMMED, AVERAGED, RUNNING_SUM, SCALED, WEIGHTED, SCALED_TOTAL, TWO_HEADS, REGULARISED, PROGRAMS };
static const char *const program_names[PROGRAMS] = {
    "summed", "averaged", "running sum", "scaled", "weighted", "scaled total", "two heads", "regularised"
};

static fold_node program(fold_ctx *f, const net *n, int which)
{
    fold_node loss[SAMPLES], second[SAMPLES], total, penalty;
    for (int i = 0; i < SAMPLES; i++) {
        const fold_node h =
            fold_tanh(f, fold_linear(f, fold_mul(f, word(f, n, i), word(f, n, 2 * i)), n->W, n->b));
        loss[i] = classify(f, n, i % 4 ? h : fold_tanh(f, fold_linear(f, h, n->W, n->b)), i);
        second[i] = fold_squared_error(f, h, word(f, n, i + 1));
        if (which == SCALED) loss[i] = fold_scale(f, loss[i], 1.0f / (float)(i + 1));
        if (which == WEIGHTED) loss[i] = fold_mul(f, loss[i], fold_constant(f, 0.1f * (float)i));
        if (which == TWO_HEADS)
            loss[i] = fold_add(f, fold_scale(f, loss[i], 0.7f), fold_scale(f, second[i], 0.3f));
    }
    if (which == AVERAGED) return fold_mean_n(f, loss, SAMPLES);
    total = loss[0];
    for (int i = 1; i < SAMPLES && which == RUNNING_SUM; i++) total = fold_add(f, total, loss[i]);
    if (which == RUNNING_SUM) return total;
    total = fold_sum_n(f, loss, SAMPLES);
    if (which == SCALED_TOTAL)
        return fold_scale(f, fold_add(f, total, fold_mean_n(f, second, SAMPLES)), 1.0f / (float)SAMPLES);
    if (which != REGULARISED) return total;
    penalty = fold_sum(f, fold_square(f, fold_use(f, n->W)), FOLD_ALL);
    penalty = fold_add(f, penalty, fold_sum(f, fold_square(f, fold_use(f, n->V)), FOLD_ALL));
    return fold_add(f, total, fold_scale(f, penalty, 0.01f));
}

static void programs(void)
{
    net n;
    net_new(&n);
    for (int which = 0; which < PROGRAMS; which++) {
        float want = 0;
        size_t count = 0;
        for (int way = 0; way < 3; way++) { /* eager, one group, groups */
            fold_ctx *f = context(&n, 1, !way, FOLD_SCHEDULE_RATIO, way == 2 ? 2000 : SIZE_MAX);
            const fold_node root = program(f, &n, which);
            CHECK_INT(fold_backward(f, root), FOLD_OK);
            const fold_stats s = fold_ctx_stats(f);
            if (way == 2)
                CHECK_SAYS(s.groups > 2 && !s.one_group[0], "%s: %d groups: %s", program_names[which],
                           s.groups, s.one_group);
            const float got = fold_scalar(f, root);
            if (!way) { want = got; count = (size_t)take_grads(n.m, want_grads); }
            else take_grads(n.m, got_grads);
            CHECK_SAYS(!memcmp(&got, &want, sizeof got), "%s: %.9g, want %.9g", program_names[which],
                       (double)got, (double)want);
            if (way) CHECK_SAYS(CHECK_BITS(got_grads, want_grads, count), "%s", program_names[which]);
            fold_ctx_free(f);
        }
    }
    fold_model_free(n.m);
}

/* -- running and reading ----------------------------------------------------------------------- */

/* An LSTM in primitive ops: one sequence's values fill a third of the default budget. */
static fold_node plain_lstm(fold_ctx *f, fold_param W, fold_param b, int hidden, int steps)
{
    fold_node h = fold_zeros(f, fold_shape1(hidden)), c = h, x = fold_zeros(f, fold_shape1(hidden));
    for (int t = 0; t < steps; t++) {
        const fold_node in[2] = { x, h };
        fold_node gate[4], y = fold_linear_n(f, in, 2, W, b);
        fold_split(f, fold_sigmoid(f, fold_slice(f, y, 0, 0, 3 * hidden)), 3, gate);
        gate[3] = fold_tanh(f, fold_slice(f, y, 0, 3 * hidden, hidden));
        const fold_node kept = fold_mul(f, gate[1], c), added = fold_mul(f, gate[0], gate[3]);
        c = fold_add(f, kept, added);
        h = fold_mul(f, gate[2], fold_tanh(f, c));
    }
    return h;
}

static void one_after_another(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    for (int i = 0; i < n; i++) task(i, user);
}

/* Counts the calls of each group. */
static int count_calls(const fold_seen *seen, void *user)
{
    if (seen->what == FOLD_SEEN_CALL && seen->group < 16) ((int *)user)[seen->group]++;
    return 0;
}
/* The last group is not left with what the others had no room for. */
static void groups_are_even(void)
{
    enum { WIDE = 256, MOST = 4000, STEP = 250 };
    static fold_node y[MOST];
    const fold_param none = { 0, 0 };
    int most_groups = 0;
    fold_model *m = fold_model_new(NULL);
    const fold_param V = fold_weight_new(m, "V", WIDE, WIDE);
    for (int count = STEP; count <= MOST; count += STEP) {
        int calls[16] = { 0 };
        fold_ctx *f = fold_ctx_new(m, NULL);
        const fold_node x = fold_zeros(f, fold_shape1(WIDE));
        for (int i = 0; i < count; i++) y[i] = fold_linear(f, fold_shift(f, x, (float)i), V, none);
        CHECK_INT(fold_run(f, y, count), FOLD_OK);
        CHECK_INT(fold_ctx_visit(f, count_calls, calls), FOLD_OK);
        const int groups = fold_ctx_stats(f).groups;
        for (int group = 1; group < groups; group++)
            CHECK_SAYS(2 * calls[group] > calls[0], "%d samples: group %d of %d has %d calls, the first %d", count, group, groups,
                       calls[group], calls[0]);
        most_groups = groups > most_groups ? groups : most_groups;
        fold_ctx_free(f);
    }
    CHECK_SAYS(most_groups > 3, "%d groups", most_groups);
    fold_model_free(m);
}
/* Of the default budget a group takes more where batches would be of few rows, the more so where weights are large; threads get as
   many groups each. */
static void groups_hold_rows(void)
{
    enum { SEQUENCES = 24, HIDDEN = 128, STEPS = 40, WIDE = 2048, LAYERS = 16, COUNT = 100 };
    fold_model_desc inference = fold_model_desc_default();
    fold_ctx_desc d = fold_ctx_desc_default();
    const fold_param none = { 0, 0 };
    fold_node y[COUNT];
    inference.inference = 1;
    fold_model *m = fold_model_new(&inference);
    const fold_param W = fold_weight_new(m, "W", 2 * HIDDEN, 4 * HIDDEN), b = fold_bias_new(m, "b", 4 * HIDDEN), V = fold_weight_new(m, "V", WIDE, WIDE);
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < SEQUENCES; i++) y[i] = plain_lstm(f, W, b, HIDDEN, STEPS);
    CHECK_INT(fold_run(f, y, SEQUENCES), FOLD_OK);
    fold_stats s = fold_ctx_stats(f);
    CHECK_SAYS(s.groups > 1 && s.run_nodes >= 6 * s.batches, "%d calls in %d batches of %d groups", s.run_nodes, s.batches, s.groups);
    fold_ctx_free(f);
    d.measure = 1; /* plans alone */
    for (int threads = 1; threads <= 2; threads++) {
        d.threads = threads;
        d.parallel_for = one_after_another;
        f = fold_ctx_new(m, &d);
        for (int i = 0; i < COUNT; i++) {
            y[i] = fold_zeros(f, fold_shape1(WIDE));
            for (int k = 0; k < LAYERS; k++) y[i] = fold_tanh(f, fold_linear(f, y[i], V, none));
        }
        CHECK_INT(fold_run(f, y, COUNT), FOLD_OK);
        s = fold_ctx_stats(f);
        CHECK_SAYS(s.groups == (threads == 1 ? 3 : 4), "%d threads: %d groups", threads, s.groups); /* of 32 samples at least, or 25 each */
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* Samples of equal bytes in all: many narrow ones make groups of one budget. Few wide ones make larger groups, without a backward
   since batches have few rows, with one since each group passes over the gradient of a large weight. */
static void groups_beyond_the_budget(void)
{
    static const struct { int count, width, training, groups; } cases[] = { { 360, 128, 0, 3 }, { 60, 768, 0, 1 }, { 360, 128, 1, 7 }, { 60, 768, 1, 2 } };
    enum { MOST = 360, LAYERS = 8 };
    static fold_node y[MOST];
    const fold_param none = { 0, 0 };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        const int count = cases[at].count, width = cases[at].width;
        fold_model *m = fold_model_new(NULL);
        const fold_param V = fold_weight_new(m, "V", width, width);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = cases[at].training;
        d.measure = 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int i = 0; i < count; i++) {
            y[i] = fold_zeros(f, fold_shape1(width));
            for (int k = 0; k < LAYERS; k++) y[i] = fold_tanh(f, fold_linear(f, y[i], V, none));
            if (d.training) y[i] = fold_sum(f, y[i], FOLD_ALL);
        }
        CHECK_INT(d.training ? fold_backward(f, fold_sum_n(f, y, count)) : fold_run(f, y, count), FOLD_OK);
        CHECK_INT(fold_ctx_stats(f).groups - d.training, cases[at].groups); /* in training the tail is one, too */
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Groups take turns in one memory: what they would take apart is counted from the recording. */
static void memory_is_reused(void)
{
    enum { COUNT = 100, WIDTH = 16, OPS = 3 };
    fold_ctx_desc d = fold_ctx_desc_default();
    float x[WIDTH] = { 1, 2, 3 };
    fold_node y[COUNT];
    fold_model *m = fold_model_new(NULL);
    d.group_bytes = 1;
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < COUNT; i++) y[i] = fold_square(f, fold_sigmoid(f, fold_tanh(f, fold_input(f, x, WIDTH))));
    CHECK_INT(fold_run(f, y, COUNT), FOLD_OK);
    const fold_stats s = fold_ctx_stats(f);
    CHECK_INT(s.groups, COUNT);
    CHECK_INT(s.without_reuse_bytes, COUNT * OPS * WIDTH * sizeof(float));
    CHECK_SAYS(s.value_bytes > 0 && s.value_bytes < s.without_reuse_bytes / 5, "%zu bytes of %zu", s.value_bytes, s.without_reuse_bytes);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* One sample that is a chain: by nodes, over a list, with a reader of all second outputs at the end, of lists, of
   calls that each have a list, or of steps that also read the one CHAIN_BACK before, further than a block of rows reaches. */
enum { CHAIN_WIDTH = 8, CHAIN_BACK = 41, CHAIN_IN = 4, CHAIN_ROWS = 6 };
enum { CHAIN_OF_NODES, CHAIN_OVER_LIST, CHAIN_READ_LATE, CHAIN_OF_LISTS, CHAIN_WITH_LISTS, CHAIN_LOOKS_BACK, CHAINS };
static void looks_at_list(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_node seen = fold_linear(f, in[1], fold_param_find(fold_ctx_model(f), "W"), FOLD_NULL_PARAM);
    (void)user;
    out[0] = fold_tanh(f, fold_list_sum(f, fold_mul(f, fold_tanh(f, seen), in[0])));
}
static fold_node long_chain(fold_ctx *f, int way, const fold_recurrent *layer, fold_cell looks, const float *x, int n)
{
    const fold_recurrent *gru = &layer[way == CHAIN_READ_LATE];
    fold_node *all = (fold_node *)malloc((size_t)n * sizeof *all);
    const fold_param W = fold_param_find(fold_ctx_model(f), "W");
    fold_state last = fold_recurrent_zeros(f, gru);
    fold_node root = FOLD_NULL_NODE;
    if (way == CHAIN_OF_LISTS) root = fold_list_input(f, x, CHAIN_ROWS, fold_shape1(CHAIN_WIDTH));
    if (way == CHAIN_OVER_LIST) fold_unroll_list(f, gru, fold_list_input(f, x, n, fold_shape1(CHAIN_IN)), 0, NULL, &last);
    for (int t = 0; t < n && way != CHAIN_OVER_LIST; t++) {
        if (way == CHAIN_WITH_LISTS) {
            const fold_node list[2] = { fold_input(f, x + t, CHAIN_WIDTH), fold_input(f, x + 2 * t, CHAIN_WIDTH) };
            last.h = fold_call_n(f, looks, &last.h, 1, list, 1 + t % 2);
        } else if (way == CHAIN_OF_LISTS) root = fold_tanh(f, fold_linear(f, root, W, FOLD_NULL_PARAM));
        else if (way == CHAIN_LOOKS_BACK) {
            const fold_node back = t < CHAIN_BACK ? fold_input(f, x + t, CHAIN_WIDTH) : all[t - CHAIN_BACK];
            last.c = last.h = fold_tanh(f, fold_add(f, fold_linear(f, last.h, W, FOLD_NULL_PARAM), back));
        } else last = fold_recurrent_apply(f, gru, fold_input(f, x + CHAIN_IN * t, CHAIN_IN), last);
        all[t] = last.c;
    }
    root = way == CHAIN_OF_LISTS ? fold_list_sum(f, root) : way == CHAIN_READ_LATE ? fold_sum_n(f, all, n) : last.h;
    free(all);
    return root;
}

/* Rows that nobody reads any more are used again, so a chain takes as much memory however long it is. What a prologue
   leaves is read soon, even if states are not. The bits are those of an eager context, twice in a plan that is kept. */
static void chains_use_rows_again(void)
{
    enum { MOST = 600 };
    static float x[MOST * CHAIN_IN];
    fold_model *m = fold_model_new(NULL);
    const fold_recurrent gru = fold_gru_new(m, "gru", CHAIN_IN, CHAIN_WIDTH), lstm = fold_lstm_new(m, "lstm", CHAIN_IN, CHAIN_WIDTH);
    const fold_recurrent layer[2] = { gru, lstm };
    fold_cell_desc looking = fold_cell_desc_default();
    fold_weight_new(m, "W", CHAIN_WIDTH, CHAIN_WIDTH);
    looking.name = "looks";
    looking.body = looks_at_list;
    looking.n_in = looking.n_list = looking.n_out = 1;
    looking.in[0] = looking.list[0] = fold_shape1(CHAIN_WIDTH);
    const fold_cell looks = fold_cell_new(m, &looking);
    for (int i = 0; i < MOST * CHAIN_IN; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int way = 0; way < CHAINS * FOLD_SCHEDULE_COUNT; way++) {
        size_t bytes[2];
        for (int length = 0; length < 2; length++) {
            float value[2][CHAIN_WIDTH];
            const int n = length ? MOST : MOST / 2;
            for (int eager = 0; eager < 2; eager++) {
                fold_ctx_desc d = fold_ctx_desc_default();
                d.eager = eager;
                d.schedule = (fold_schedule)(way / CHAINS);
                d.group_bytes = 1000;
                fold_ctx *f = fold_ctx_new(m, &d);
                const fold_node root = long_chain(f, way % CHAINS, layer, looks, x, n);
                CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
                if (!eager) {
                    bytes[length] = fold_ctx_stats(f).value_bytes;
                    CHECK_INT(fold_replay(f), FOLD_OK);
                }
                memcpy(value[eager], fold_value(f, root), sizeof value[eager]);
                fold_ctx_free(f);
            }
            CHECK_SAYS(!memcmp(value[0], value[1], sizeof value[0]), "way %d: other bits", way);
        }
        const size_t states = way % CHAINS == CHAIN_READ_LATE ? MOST / 2 * (2 * CHAIN_WIDTH * sizeof(float) + 12 * sizeof(float *)) : 0;
        CHECK_SAYS(bytes[1] <= bytes[0] + states + 256, "way %d: %zu and %zu bytes", way, bytes[0], bytes[1]);
    }
    fold_model_free(m);
}

/* backward(a) then backward(b), with runs and more recording between, eager and batched: gradients are those
   of a alone plus those of b alone. */
static void several_roots(void)
{
    static float part[2][MAX_FLOATS];
    net n;
    net_new(&n);
    size_t count = 0;
    for (int k = 0; k < 2; k++) {
        fold_ctx *f = trainer(&n);
        fold_node loss[4];
        for (int i = 0; i < 4; i++) loss[i] = small_loss(f, &n, 4 * k + i);
        CHECK_INT(fold_backward(f, fold_mean_n(f, loss, 4)), FOLD_OK);
        count = (size_t)take_grads(n.m, part[k]);
        fold_ctx_free(f);
    }
    for (size_t i = 0; i < count; i++) want_grads[i] = part[0][i] + part[1][i];
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 1, eager, FOLD_SCHEDULE_RATIO, 0);
        fold_node loss[8], root[2];
        for (int i = 0; i < 8; i++) loss[i] = small_loss(f, &n, i);
        root[0] = fold_mean_n(f, loss, 4);
        CHECK_INT(fold_run(f, root, 1), FOLD_OK);
        const float before = fold_scalar(f, root[0]);
        CHECK_INT(fold_backward(f, root[0]), FOLD_OK);
        root[1] = fold_mean_n(f, loss + 4, 4);
        CHECK_INT(fold_backward(f, root[1]), FOLD_OK);
        const float after = fold_scalar(f, root[0]);
        CHECK_BITS(&after, &before, 1);
        take_grads(n.m, got_grads);
        CHECK_BITS(got_grads, want_grads, count);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* Recording goes on after a run, on top of what was kept, and gives what one run of everything gives. */
static void more_recording(void)
{
    float want[3][H], got[H];
    size_t count = 0;
    net n;
    net_new(&n);
    for (int pieces = 0; pieces < 4; pieces++) { /* eager and batched, at once and in three runs */
        fold_ctx *f = context(&n, 1, pieces % 2 == 0, FOLD_SCHEDULE_RATIO, 0);
        fold_state s = fold_recurrent_zeros(f, &n.lstm);
        fold_node h[3];
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 4; i++) s = fold_recurrent_apply(f, &n.lstm, word(f, &n, 5 * k + i), s);
            h[k] = s.h;
            fold_keep(f, s.h);
            fold_keep(f, s.c);
            if (pieces >= 2) CHECK_INT(fold_run(f, &h[k], 1), FOLD_OK);
            if (pieces >= 2) CHECK_BITS(fold_value(f, h[k]), want[k], H);
        }
        CHECK_INT(fold_run(f, &h[2], 1), FOLD_OK);
        for (int k = 0; k < 3; k++) {
            if (!pieces) CHECK_INT(fold_read(f, &h[k], 1, want[k]), FOLD_OK);
            CHECK_INT(fold_read(f, &h[k], 1, got), FOLD_OK);
            CHECK_BITS(got, want[k], H);
        }
        CHECK_INT(fold_backward(f, fold_sum(f, s.h, FOLD_ALL)), FOLD_OK);
        if (!pieces) count = (size_t)take_grads(n.m, want_grads);
        else take_grads(n.m, got_grads);
        if (pieces) CHECK_BITS(got_grads, want_grads, count);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* A run on top of earlier ones looks at what is new, and back to what it must compute: a decoder's steps,
   each on the kept state of the last one, on inputs and an encoding from the beginning. */
static void runs_of_what_is_new(void)
{
    enum { STEPS = 6 };
    float want[STEPS][H], got[H];
    size_t count = 0;
    net n;
    net_new(&n);
    for (int pieces = 0; pieces < 4; pieces++) { /* eager and batched, at once and step by step */
        fold_ctx *f = context(&n, 1, pieces % 2 == 0, FOLD_SCHEDULE_RATIO, 0);
        const fold_node bias = fold_use(f, n.b), first = word(f, &n, 1);
        const fold_node forgotten = fold_tanh(f, fold_linear(f, first, n.W, n.b));
        const fold_node encoded = fold_shared(f, fold_tanh(f, word(f, &n, 2)));
        fold_state s = fold_recurrent_zeros(f, &n.lstm);
        fold_node out[STEPS];
        fold_keep(f, encoded);
        for (int step = 0; step < STEPS; step++) {
            const int before = fold_ctx_stats(f).nodes;
            s = fold_recurrent_apply(f, &n.lstm, fold_add(f, word(f, &n, 5 * step), first), s);
            fold_keep(f, s.c);
            fold_node sum = fold_add(f, fold_mul(f, s.h, encoded), bias);
            if (step == 3) sum = fold_add(f, sum, forgotten);
            out[step] = fold_slice(f, sum, 0, 0, H);
            fold_keep(f, s.h);
            if (pieces < 2) continue;
            CHECK_INT(fold_run(f, &out[step], 1), FOLD_OK);
            CHECK_BITS(fold_value(f, out[step]), want[step], H);
            if (pieces % 2 == 0 || !step) continue;
            const fold_stats stats = fold_ctx_stats(f);
            if (step == 3) CHECK(stats.visited_nodes > before && stats.visited_nodes < stats.nodes);
            else CHECK_INT(stats.visited_nodes, stats.nodes - before);
        }
        CHECK_INT(fold_run(f, out, STEPS), FOLD_OK);
        for (int step = 0; step < STEPS; step++) {
            if (!pieces) CHECK_INT(fold_read(f, &out[step], 1, want[step]), FOLD_OK);
            CHECK_INT(fold_read(f, &out[step], 1, got), FOLD_OK);
            CHECK_BITS(got, want[step], H);
        }
        if (pieces == 3) CHECK_INT(fold_ctx_stats(f).visited_nodes, 0);
        CHECK_INT(fold_backward(f, fold_sum(f, fold_sum_n(f, out, STEPS), FOLD_ALL)), FOLD_OK);
        if (!pieces) count = (size_t)take_grads(n.m, want_grads);
        else take_grads(n.m, got_grads);
        if (pieces) CHECK_BITS(got_grads, want_grads, count);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* Random recordings that go on behind runs, with what a run must compute kept here by simple rules: which values are
   there, and which calls some run has computed with the parameters as they are. */
enum { GROWN = 60 };
typedef struct growing {
    fold_ctx *f;
    check_random chance;
    int n, from[GROWN][2];       /* calls; the values that each reads: 2 * call + output, or -1 */
    fold_node value[2 * GROWN];
    char kept[2 * GROWN], there[2 * GROWN], computed[GROWN], runs[GROWN];
} growing;

static void both_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], in[1]);
    out[1] = fold_tanh(f, fold_mul(f, in[0], in[1]));
}
static void grow_call(growing *g, const net *n, fold_cell both)
{
    const int call = g->n++, kind = random_below(&g->chance, 3), two = kind == 0;
    fold_node in[2];
    for (int i = 0; i < 2; i++) {
        const int other = call ? random_below(&g->chance, 2 * call + 1) - 1 : -1;
        g->from[call][i] = i && !two ? -1 : other;
        in[i] = other < 0 ? word(g->f, n, call) : g->value[other];
    }
    g->value[2 * call] = two ? fold_call(g->f, both, in, 2) : kind == 1 ? fold_tanh(g->f, in[0]) : fold_linear(g->f, in[0], n->W, n->b);
    g->value[2 * call + 1] = two ? fold_out(g->f, g->value[2 * call], 1) : g->value[2 * call];
    for (int output = 0; output < 2; output++)
        if (random_below(&g->chance, 6) == 0) {
            g->kept[2 * call + output] = 1;
            if (!two) g->kept[2 * call] = g->kept[2 * call + 1] = 1;
            fold_keep(g->f, g->value[2 * call + output]);
        }
}
/* What it takes to have a value; `all` computes values that are there, too. */
static void grow_need(growing *g, int value, int all)
{
    const int call = value / 2;
    if (value < 0 || (g->there[value] && !all) || g->runs[call]) return;
    g->runs[call] = 1;
    grow_need(g, g->from[call][0], all);
    grow_need(g, g->from[call][1], all);
}
/* Runs a random value, going back or not, and checks how many calls were computed, and how many of them again. */
static int grow_run(growing *g, int backward, int changed)
{
    const int root = random_below(&g->chance, 2 * g->n), all = backward || changed;
    int calls = 0, again = 0;
    memset(g->runs, 0, sizeof g->runs);
    grow_need(g, root, all);
    for (int value = 0; value < 2 * g->n; value++)
        if (g->kept[value] && (!g->there[value] || changed)) grow_need(g, value, all);
    if (changed) memset(g->computed, 0, sizeof g->computed);
    for (int call = 0; call < g->n; call++) {
        calls += g->runs[call];
        again += g->runs[call] && g->computed[call];
        g->computed[call] |= g->runs[call];
    }
    for (int value = 0; value < 2 * g->n; value++) {
        const int same = g->value[value].id == g->value[root].id;
        if (g->runs[value / 2]) g->there[value] |= same || g->kept[value];
        else if (changed) g->there[value] = 0;
    }
    if (backward) CHECK_INT(fold_backward(g->f, fold_slice(g->f, g->value[root], 0, 0, 1)), FOLD_OK);
    else if (random_below(&g->chance, 3)) CHECK_INT(fold_run(g->f, &g->value[root], 1), FOLD_OK);
    else {
        int more = 1;
        CHECK_INT(fold_run_begin(g->f, &g->value[root], 1), FOLD_OK);
        while (more && !fold_run_more(g->f, 0, &more)) continue;
    }
    CHECK_INT(fold_ctx_stats(g->f).run_nodes, calls);
    CHECK_INT(fold_ctx_stats(g->f).recomputed_nodes, again);
    return again;
}

static void recomputed_nodes(void)
{
    net n;
    int again = 0, again_backward = 0;
    net_new(&n);
    const fold_cell_desc d = cell_desc("both", both_body, NULL, 2, 0, 2);
    const fold_cell both = fold_cell_new(n.m, &d);
    for (int way = 0; way < 120; way++) {
        growing g;
        memset(&g, 0, sizeof g);
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        desc.schedule = (fold_schedule)(way % 3);
        desc.plan_cache_bytes = way % 2 ? 1 << 16 : 0;
        g.f = fold_ctx_new(n.m, &desc);
        for (int life = 0; life < 3; life++) { /* the same recording three times: the last by kept plans */
            fold_ctx *const f = g.f;
            memset(&g, 0, sizeof g);
            g.f = f;
            g.chance.state = 7 + (uint64_t)way;
            fold_ctx_reset(f);
            while (g.n < GROWN - 5) {
                for (int calls = 1 + random_below(&g.chance, 5); calls; calls--) grow_call(&g, &n, both);
                const int backward = random_below(&g.chance, 5) == 0, changed = random_below(&g.chance, 12) == 0 && g.n > 20;
                if (changed) {
                    fold_values_write_begin(n.m, n.b);
                    fold_values_write_end(n.m, n.b);
                }
                const int more = grow_run(&g, backward, changed);
                again += backward ? 0 : more;
                again_backward += backward ? more : 0;
                if (random_below(&g.chance, 4) || !fold_ctx_stats(f).run_nodes) continue;
                const fold_stats before = fold_ctx_stats(f);
                if (fold_replay(f) == FOLD_OK) CHECK_INT(fold_ctx_stats(f).recomputed_nodes, before.recomputed_nodes);
            }
        }
        fold_ctx_free(g.f);
    }
    CHECK(again > 1000 && again_backward > 1000);
    fold_model_free(n.m);
}

/* Parameters change between two runs of one recording: it runs anew. Eager values were computed when
   recorded: they are refused. */
static void changed_parameters(void)
{
    net n;
    net_new(&n);
    const fold_sgd sgd = { 0.5f, 0, 0 };
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 1, eager, FOLD_SCHEDULE_RATIO, 0);
        const fold_node loss = small_loss(f, &n, 1);
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        const float before = fold_scalar(f, loss);
        CHECK_INT(fold_sgd_step(n.m, &sgd), FOLD_OK);
        CHECK_INT(fold_backward(f, loss), eager ? FOLD_BAD_STATE : FOLD_OK);
        if (eager) CHECK_TEXT(fold_ctx_message(f), "parameters changed");
        const float again = eager ? 0 : fold_scalar(f, loss);
        fold_grads_clear(n.m);
        fold_ctx_reset(f);
        const fold_node fresh = small_loss(f, &n, 1);
        CHECK_INT(fold_backward(f, fresh), FOLD_OK);
        const float after = fold_scalar(f, fresh);
        CHECK(after < before);
        if (!eager) CHECK_BITS(&again, &after, 1);
        fold_grads_clear(n.m);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* What is kept runs again when parameters changed, though no root needs it; with and without plans, which must tell the two apart. */
static void kept_after_a_change(void)
{
    const float data[4] = { 1, -2, 3, 0.5f };
    for (int plans = 0; plans < 2; plans++) {
        net n;
        net_new(&n);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.plan_cache_bytes = plans ? 100000 : 0;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int turn = 0; turn < 6; turn++) {
            fold_ctx_reset(f);
            const fold_node x = fold_input(f, data, 4), start[2] = { x, x };
            const fold_node kept = fold_tanh(f, fold_linear_n(f, start, 2, n.W, n.b));
            const fold_node root = fold_sum(f, fold_mul(f, fold_use(f, n.b), fold_use(f, n.b)), FOLD_ALL);
            fold_keep(f, kept);
            CHECK_INT(fold_run(f, &kept, 1), FOLD_OK);
            const float before = fold_value(f, kept)[0];
            if (turn % 3 == 2) {
                float *b = fold_values_write_begin(n.m, n.b);
                b[0] += 0.25f;
                fold_values_write_end(n.m, n.b);
            }
            CHECK_INT(fold_backward(f, root), FOLD_OK);
            const float *after = fold_value(f, kept);
            if (CHECK_SAYS(!!after, "turn %d, plans %d: %s", turn, plans, fold_ctx_message(f)))
                CHECK_INT(after[0] != before, turn % 3 == 2);
            fold_grads_clear(n.m);
        }
        CHECK(!plans || fold_ctx_stats(f).plan_hits > 0);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* A run of what is there computes nothing, but after a parameter was frozen it plans anew, and then can be replayed. */
static void run_after_freezing(void)
{
    net n;
    net_new(&n);
    fold_ctx *f = context(&n, 0, 0, FOLD_SCHEDULE_RATIO, 0);
    const fold_node root = fold_tanh(f, fold_use(f, n.b));
    CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
    CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
    CHECK_INT(fold_ctx_stats(f).batches, 0);
    fold_param_freeze(n.m, n.b, 1);
    CHECK_INT(fold_replay(f), FOLD_BAD_STATE);
    CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
    CHECK_INT(fold_replay(f), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void evaluation_between_steps(void)
{
    static float want[MAX_FLOATS];
    int count = 0;
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        net n;
        net_new(&n);
        fold_ctx *f = trainer(&n), *e = context(&n, 0, 0, FOLD_SCHEDULE_RATIO, 0);
        const fold_adam adam = fold_adam_default();
        for (int step = 0; step < 6; step++) {
            fold_node loss[SAMPLES], test[3];
            fold_ctx_reset(f);
            for (int i = 0; i < SAMPLES; i++) {
                loss[i] = small_loss(f, &n, step + i);
                if (evaluates && i == SAMPLES / 2) {
                    fold_ctx_reset(e);
                    for (int k = 0; k < 3; k++) test[k] = small_loss(e, &n, k);
                    CHECK_INT(fold_run(e, test, 3), FOLD_OK);
                    CHECK(fold_scalar(e, test[2]) > 0);
                }
            }
            CHECK_INT(fold_backward(f, fold_mean_n(f, loss, SAMPLES)), FOLD_OK);
            CHECK_INT(fold_adam_step(n.m, &adam), FOLD_OK);
        }
        const float *values = fold_model_values(n.m, &count);
        if (!evaluates) memcpy(want, values, (size_t)count * sizeof *want);
        CHECK_BITS(values, want, count);
        fold_ctx_free(f);
        fold_ctx_free(e);
        fold_model_free(n.m);
    }
}

static void kept_nodes(void)
{
    net n;
    net_new(&n);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 1, eager, FOLD_SCHEDULE_RATIO, 0);
        const float data[4] = { 1, -2, 3, 0.5f };
        const fold_node x = fold_input(f, data, 4), both[2] = { x, x };
        const fold_node y = fold_square(f, x), half = fold_slice(f, y, 0, 2, 2),
                        joined = fold_concat(f, both, 2, 0);
        const fold_node unused = fold_exp(f, x), linear = fold_linear(f, joined, n.W, n.b);
        const fold_node root = fold_add(f, fold_sum(f, y, FOLD_ALL), fold_sum(f, linear, FOLD_ALL));
        fold_keep(f, half);
        fold_keep(f, joined);
        fold_keep(f, unused);
        fold_keep_grad(f, half);
        fold_keep_grad(f, y);
        fold_keep_grad(f, root);
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        CHECK_NEAR(fold_value(f, half)[0], 9, 0);
        CHECK_NEAR(fold_value(f, half)[1], 0.25, 0);
        CHECK_NEAR(fold_value(f, joined)[5], -2, 0);
        CHECK_NEAR(fold_value(f, unused)[0], 2.718281828, 1e-6);
        CHECK_NEAR(fold_grad(f, y)[3], 1, 0);
        CHECK_NEAR(fold_grad(f, half)[1], 1, 0);
        CHECK_NEAR(fold_grad(f, root)[0], 1, 0);
        CHECK_INT(fold_node_shape(f, half).dim[0], 2);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        CHECK(!fold_grad(f, linear)); /* not asked for */
        CHECK_TEXT(fold_ctx_message(f), "fold_keep_grad before fold_backward");
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* -- gradients of concatenations that products read -------------------------------------------- */

enum { HALF = H / 2 };
enum { KEEP_LATE = 1, READ_TWICE = 2, BY_ROWS = 4, MERGED = 8, READINGS = 16 };

/* W by rows [inputs x outputs], or by columns; what reads c is W alone, or a sum of squares too. */
static void concat_reference(const float *W, const float *b, const float *c, int how, double *dc)
{
    for (int i = 0; i < H; i++) dc[i] = how & READ_TWICE ? 2 * (double)c[i] : 0;
    for (int j = 0; j < H; j++) {
        double y = (double)b[j];
        for (int i = 0; i < H; i++) y += (double)c[i] * (double)W[how & BY_ROWS ? j * H + i : i * H + j];
        for (int i = 0; i < H; i++) dc[i] += 2 * y * (double)W[how & BY_ROWS ? j * H + i : i * H + j];
    }
}

typedef struct concats { fold_model *m; fold_param W, b; } concats;
static fold_node read_concat(fold_ctx *f, const concats *n, int how, fold_node c)
{
    const fold_node y = how & BY_ROWS ? fold_linear_t(f, c, n->W, n->b) : fold_linear(f, c, n->W, n->b);
    const fold_node squares = fold_sum(f, fold_square(f, y), FOLD_ALL);
    return how & READ_TWICE ? fold_add(f, squares, fold_sum(f, fold_square(f, c), FOLD_ALL)) : squares;
}

/* Two samples, of which the first keeps gradients: of c, its parts and the parameters, to `grads`. */
static int concat_grads(fold_ctx *f, const concats *n, int how, const float *x, float *grads)
{
    fold_node loss[2], part[2][2], c[2];
    fold_ctx_reset(f);
    for (int s = 0; s < 2; s++) {
        part[s][0] = fold_input(f, x, HALF);
        part[s][1] = fold_scale(f, fold_input(f, x + HALF, HALF), s ? 2 : 1);
        c[s] = fold_concat(f, part[s], 2, 0);
        if (!s && !(how & KEEP_LATE)) fold_keep_grad(f, c[0]);
        loss[s] = read_concat(f, n, how, c[s]);
    }
    const fold_node window = fold_slice(f, c[0], 0, HALF, HALF); /* its gradient is that part of the whole's */
    if (how & KEEP_LATE) fold_keep_grad(f, window);
    for (int i = 0; i < 2; i++) fold_keep_grad(f, part[0][i]);
    CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, 2)), "%s", fold_ctx_message(f));
    if (!CHECK_SAYS(fold_grad(f, window) == fold_grad(f, c[0]) + HALF, "%s", fold_ctx_message(f))) return 0;
    memcpy(grads, fold_grad(f, c[0]), H * sizeof *grads);
    for (int i = 0; i < 2; i++) memcpy(grads + H + i * HALF, fold_grad(f, part[0][i]), HALF * sizeof *grads);
    return 2 * H + take_grads(n->m, grads + 2 * H);
}

static void kept_concatenations(void)
{
    const float x[H] = { 1, -0.5f, 0.25f, 2, -1, 0.75f, 0.5f, -0.125f };
    concats n;
    fold_param_desc w = fold_param_desc_default();
    n.m = fold_model_new(NULL);
    w.name = "W";
    w.shape = fold_shape2(H, H);
    w.uses = FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T;
    w.init = FOLD_INIT_GLOROT;
    n.W = fold_param_new(n.m, &w);
    n.b = fold_bias_new(n.m, "b", H);
    for (int how = 0; how < READINGS; how++) {
        double want[H];
        int count = 0;
        concat_reference(fold_param_value(n.m, n.W), fold_param_value(n.m, n.b), x, how, want);
        for (int way = 0; way < 3; way++) { /* eager; batched; replayed */
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = 1;
            d.eager = way == 0;
            d.dedupe = (how & MERGED) != 0;
            d.plan_cache_bytes = way == 2 ? 1u << 20 : 0;
            fold_ctx *f = fold_ctx_new(n.m, &d);
            for (int round = 0; round < (way == 2 ? 3 : 1); round++) {
                count = concat_grads(f, &n, how, x, way ? got_grads : want_grads);
                if (way) CHECK_BITS(got_grads, want_grads, count);
            }
            if (way == 2) CHECK_INT(fold_ctx_stats(f).plan_hits, 1);
            for (int i = 0; i < 2 * H && !way; i++)
                CHECK_SAYS(fabs((double)want_grads[i] - want[i % H]) < 1e-5, "reading %d: the gradient of value %d is %g, want %g",
                           how, i, (double)want_grads[i], want[i % H]);
            fold_ctx_free(f);
        }
    }
    fold_model_free(n.m);
}

/* A gradient asked for between two backwards gets the second alone; products of parts given one by one are no reading of
   their concatenation. */
static void concatenations_kept_between(void)
{
    const float x[H] = { 1, -0.5f, 0.25f, 2, -1, 0.75f, 0.5f, -0.125f };
    concats n;
    double want[H];
    n.m = fold_model_new(NULL);
    n.W = fold_weight_new(n.m, "W", H, H);
    n.b = fold_bias_new(n.m, "b", H);
    concat_reference(fold_param_value(n.m, n.W), fold_param_value(n.m, n.b), x, 0, want);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        const fold_node part[2] = { fold_input(f, x, HALF), fold_input(f, x + HALF, HALF) }, c = fold_concat(f, part, 2, 0);
        const fold_node of_parts = fold_linear_n(f, part, 2, n.W, n.b), root = read_concat(f, &n, 0, c),
                        other = fold_sum(f, of_parts, FOLD_ALL);
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        fold_keep_grad(f, c);
        CHECK_INT(fold_backward(f, other), FOLD_OK);
        for (int i = 0; i < H; i++) CHECK_NEAR(fold_grad(f, c)[i], 0, 0);
        for (int times = 1; times < 3; times++) {
            CHECK_INT(fold_backward(f, root), FOLD_OK);
            for (int i = 0; i < H; i++) CHECK_NEAR(fold_grad(f, c)[i], times * want[i], 1e-5);
        }
        const float got = fold_scalar(f, root);
        if (eager) CHECK_BITS(&got, &want_grads[0], 1);
        else want_grads[0] = got;
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* -- products by windows of a parameter ---------------------------------------------------------- */

/* matmul by W [4 x 8] seen as [rows x columns] from float `at` on: where that is, how, and in a cell's body or not. */
typedef struct window_row { const char *name; int first, length, rows, columns; } window_row;
static const window_row windows[] = {
    { "whole", 0, 4, 4, 8 },           { "reshaped", 0, 4, 8, 4 },        { "flat", 0, 4, 2, 16 },
    { "rows", 1, 2, 2, 8 },            { "rows, reshaped", 2, 2, 4, 4 },  { "one row", 3, 1, 1, 8 },
    { "one row, reshaped", 3, 1, 8, 1 },
};
typedef struct by_window { fold_param W; const window_row *row; } by_window;

static fold_node window_of(fold_ctx *f, const by_window *n)
{
    const fold_node part = fold_slice(f, fold_use(f, n->W), 0, n->row->first, n->row->length);
    return fold_reshape(f, part, fold_shape2(n->row->rows, n->row->columns));
}
static void by_window_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_matmul(f, in[0], window_of(f, (const by_window *)user));
}

/* loss = sum of (j + 1) y[j] over two samples, y = x M: exact in integers. */
static void product_by_window(const window_row *row)
{
    const int rows = row->rows, columns = row->columns, at = row->first * 8;
    for (int way = 0; way < 8; way++) { /* eager, in a cell, a matrix on the left */
        by_window n;
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_cell_desc c = cell_desc("by window", by_window_body, &n, 1, 0, 1);
        float values[32], x[32];
        double grad[32] = { 0 }, want = 0;
        fold_node loss[2];
        fold_model *m = fold_model_new(NULL);
        n.W = fold_weight_new(m, "W", 4, 8);
        n.row = row;
        for (int i = 0; i < 32; i++) {
            values[i] = (float)(i % 7 - 3);
            x[i] = (float)(i % 5 - 2);
        }
        memcpy(fold_values_write_begin(m, n.W), values, sizeof values);
        fold_values_write_end(m, n.W);
        c.in[0] = way & 4 ? fold_shape2(1, rows) : fold_shape1(rows);
        const fold_cell cell = fold_cell_new(m, &c);
        d.training = 1;
        d.eager = way & 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int s = 0; s < 2; s++) {
            fold_node in = fold_input_shaped(f, x + s, c.in[0]), weights[16];
            const fold_node y = way & 2 ? fold_call(f, cell, &in, 1) : fold_matmul(f, in, window_of(f, &n));
            for (int j = 0; j < columns; j++) {
                weights[j] = fold_scale(f, fold_pick(f, y, j), (float)(j + 1));
                for (int i = 0; i < rows; i++) {
                    want += (j + 1) * (double)x[s + i] * (double)values[at + i * columns + j];
                    grad[at + i * columns + j] += (j + 1) * (double)x[s + i];
                }
            }
            loss[s] = fold_sum_n(f, weights, columns);
        }
        const fold_node root = fold_sum_n(f, loss, 2);
        CHECK_SAYS(!fold_backward(f, root), "%s: %s", row->name, fold_ctx_message(f));
        CHECK_SAYS((double)fold_scalar(f, root) == want, "%s, way %d: %g, want %g", row->name, way, (double)fold_scalar(f, root), want);
        for (int i = 0; i < 32; i++)
            CHECK_SAYS((double)fold_param_grad(m, n.W)[i] == grad[i], "%s, way %d: the gradient of value %d is %g, want %g",
                       row->name, way, i, (double)fold_param_grad(m, n.W)[i], grad[i]);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}
static void products_by_windows(void)
{
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) product_by_window(&windows[i]);
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", 4, 8);
    const float x[4] = { 1, 2, 3, 4 };
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_matmul(f, fold_input(f, x, 4), fold_reshape(f, fold_use(f, W), fold_shape2(8, 4))); /* fits W, but not this */
    CHECK_INT(fold_ctx_status(f), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_ctx_message(f), "[8 x 4]");
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- roots that are windows ----------------------------------------------------------------------- */

static void pair_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_square(f, in[0]);
    out[1] = fold_scale(f, in[0], 3);
}

/* Element `at` of what is differentiated, with d element / d x and / d table, of which row 1 is looked up, in `want`. */
enum { OF_OP, OF_CALL, OF_OUTPUT, OF_STACK, OF_LOOKUP, OF_PARAMETER, OF_MATRIX, OF_INPUT, WINDOW_ROOTS };
static fold_node window_root(fold_ctx *f, const concats *n, fold_cell pair, int of, int at, fold_node x, fold_node row,
                             double want[2][H])
{
    const float *value = fold_param_value(n->m, n->W) + H;
    const double slope = (double)(at % 2 ? 2 : -1);
    fold_node y = x, parts[H];
    memset(want, 0, 2 * sizeof *want);
    switch (of) {
    case OF_OP:
        y = fold_mul(f, x, row);
        want[0][at] = (double)value[at];
        want[1][at] = slope;
        break;
    case OF_CALL:
        y = fold_call(f, pair, &row, 1);
        want[1][at] = 2 * (double)value[at];
        break;
    case OF_OUTPUT:
        y = fold_out(f, fold_call(f, pair, &x, 1), 1);
        want[0][at] = 3;
        break;
    case OF_STACK: /* losses of H samples, of which one is the root */
        for (int i = 0; i < H; i++) parts[i] = fold_dot(f, fold_scale(f, x, (float)i), row);
        fold_unstack(f, fold_stack(f, parts, H), H, parts);
        for (int i = 0; i < H; i++) {
            want[0][i] = at * (double)value[i];
            want[1][i] = at * (i % 2 ? 2 : -1);
        }
        return parts[at];
    case OF_LOOKUP:
        y = row;
        want[1][at] = 1;
        break;
    case OF_PARAMETER:
        y = fold_reshape(f, fold_slice(f, fold_use(f, n->W), 0, 1, 1), fold_shape1(H));
        want[1][at] = 1;
        break;
    case OF_MATRIX:
        y = fold_reshape(f, fold_scale(f, x, 2), fold_shape2(H, 1));
        want[0][at] = 2;
        break;
    default: want[0][at] = 1;
    }
    return fold_slice(f, y, 0, at, 1);
}

static void roots_that_are_windows(void)
{
    enum { FIRST = 2, SECOND = 5 };
    fold_cell_desc c = cell_desc("pair", pair_body, NULL, 1, 0, 2);
    concats n;
    n.m = fold_model_new(NULL);
    n.W = fold_table_new(n.m, "W", 3, H);
    const fold_cell pair = fold_cell_new(n.m, &c);
    const fold_param scalar = fold_bias_new(n.m, "scalar", 1);
    for (int way = 0; way < 4; way++) /* eager; batched; in groups; with plans kept */
        for (int of = 0; of < WINDOW_ROOTS; of++) {
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = 1;
            d.eager = way == 0;
            d.group_bytes = way == 2 ? 1 : 0;
            d.plan_cache_bytes = way == 3 ? 1u << 20 : 0;
            fold_ctx *f = fold_ctx_new(n.m, &d);
            for (int round = 0; round < 3; round++) {
                const int at = round == 1 ? FIRST : SECOND;
                double want[2][H];
                float data[H];
                fold_ctx_reset(f);
                fold_grads_clear(n.m);
                for (int i = 0; i < H; i++) data[i] = i % 2 ? 2 : -1;
                const fold_node x = fold_input(f, data, H), row = fold_lookup(f, n.W, 1);
                fold_keep_grad(f, x);
                const fold_node root = window_root(f, &n, pair, of, at, x, row, want);
                CHECK_SAYS(!fold_backward(f, root), "root %d: %s", of, fold_ctx_message(f));
                CHECK_SAYS(!isnan(fold_scalar(f, root)), "root %d: %s", of, fold_ctx_message(f));
                if (!CHECK_SAYS(fold_grad(f, x), "root %d: %s", of, fold_ctx_message(f))) continue;
                for (int i = 0; i < H; i++) {
                    CHECK_SAYS(fabs((double)fold_grad(f, x)[i] - want[0][i]) < 1e-6, "root %d, way %d: d / d x[%d] is %g, want %g",
                               of, way, i, (double)fold_grad(f, x)[i], want[0][i]);
                    const float got = fold_param_grad(n.m, n.W)[H + i];
                    CHECK_SAYS(fabs((double)got - want[1][i]) < 1e-6, "root %d, way %d: d / d row[%d] is %g, want %g", of, way, i,
                               (double)got, want[1][i]);
                }
            }
            fold_ctx_reset(f);
            fold_grads_clear(n.m);
            const fold_node whole = fold_use(f, scalar);
            for (int times = 1; times < 3; times++) {
                CHECK_SAYS(!fold_backward(f, whole), "%s", fold_ctx_message(f));
                CHECK_NEAR(fold_param_grad(n.m, scalar)[0], times, 0);
            }
            fold_ctx_free(f);
        }
    fold_model_free(n.m);
}

/* -- what gradients do not reach -------------------------------------------------------------------- */

/* A kept gradient of -0 stays so when another backward, of calls in one batch with what it reaches, passes by. */
static void stopped_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, fold_stop_gradient(f, fold_tanh(f, in[0])), in[1]);
}
static void kept_zeros(void)
{
    const fold_cell_desc c = cell_desc("stopped", stopped_body, NULL, 2, 0, 1);
    const float want[H] = { -0.5f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f };
    net n;
    net_new(&n);
    const fold_cell stopped = fold_cell_new(n.m, &c);
    for (int way = 0; way < 4; way++) /* eager; of an input, or of an op */
        for (int run = 0; run < 2; run++) { /* kept nodes run before the second backward */
            fold_ctx *f = context(&n, 1, way & 1, FOLD_SCHEDULE_RATIO, 0);
            fold_node x = vector(f, H);
            if (way & 2) x = fold_square(f, x);
            fold_keep_grad(f, x);
            const fold_node y = fold_scale(f, x, -0.5f), other = fold_square(f, word(f, &n, 1)), in[2] = { x, other };
            CHECK_SAYS(!fold_backward(f, fold_slice(f, y, 0, 0, 1)), "%s", fold_ctx_message(f));
            CHECK_BITS(fold_grad(f, x), want, H);
            const fold_node late = fold_tanh(f, fold_scale(f, x, 2));
            fold_keep(f, late);
            if (run) CHECK_INT(fold_run(f, &late, 1), FOLD_OK);
            const fold_node root = fold_sum(f, fold_call(f, stopped, in, 2), FOLD_ALL);
            CHECK_SAYS(!fold_backward(f, root), "%s", fold_ctx_message(f));
            CHECK_BITS(fold_grad(f, x), want, H);
            fold_ctx_free(f);
        }
    fold_model_free(n.m);
}

/* Calls behind fold_stop_gradient, in one batch with others, add nothing to a weight's gradient: no infinity times zero. */
static void stopped_calls(void)
{
    float huge[H], one[H];
    net n;
    net_new(&n);
    for (int i = 0; i < H; i++) {
        huge[i] = (float)INFINITY;
        one[i] = 1;
    }
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 1, eager, FOLD_SCHEDULE_RATIO, 0);
        const fold_node near = fold_linear(f, fold_input(f, one, H), n.W, n.b), far = fold_linear(f, fold_input(f, huge, H), n.W, n.b);
        const fold_node target = fold_stop_gradient(f, fold_minimum(f, far, fold_constant(f, 2)));
        CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_add(f, near, target), FOLD_ALL)), "%s", fold_ctx_message(f));
        for (int i = 0; i < H * H; i++) CHECK_NEAR(fold_param_grad(n.m, n.W)[i], 1, 0);
        for (int i = 0; i < H; i++) CHECK_NEAR(fold_param_grad(n.m, n.b)[i], 1, 0);
        fold_grads_clear(n.m);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* What samples share is of the head whether or not it runs: keeping it does not change the order of sums. */
static void merged_and_kept(void)
{
    net n;
    net_new(&n);
    int count = 0;
    for (int way = 0; way < 4; way++) { /* eager or not, what is shared kept or not */
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node loss[3], first = { 0, 0 }, shared = { 0, 0 };
        d.training = d.dedupe = 1;
        d.eager = way & 1;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int s = 0; s < 3; s++) {
            const fold_node x = fold_tanh(f, fold_linear(f, word(f, &n, s), n.W, n.b));
            if (!s) first = x;
            shared = fold_exp(f, first); /* no loss reads it */
            loss[s] = fold_sum(f, fold_square(f, x), FOLD_ALL);
        }
        if (way & 2) fold_keep(f, shared);
        CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, 3)), "%s", fold_ctx_message(f));
        count = take_grads(n.m, way ? got_grads : want_grads);
        if (way) CHECK_BITS(got_grads, want_grads, count);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

static void unkept_nodes(void)
{
    net n;
    net_new(&n);
    fold_ctx *f = context(&n, 0, 0, FOLD_SCHEDULE_RATIO, 0);
    for (int way = 0; way < 3; way++) {
        fold_ctx_reset(f);
        const fold_node x = fold_tanh(f, word(f, &n, 1)), y = fold_sum(f, x, FOLD_ALL);
        if (way) CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        float copy[H];
        if (way < 2) CHECK(!fold_value(f, way ? x : y)); /* not kept; not run */
        else CHECK_INT(fold_read(f, &x, 1, copy), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), way ? "keep" : "run");
    }
    fold_ctx_reset(f);
    const fold_node y = fold_sum(f, word(f, &n, 1), FOLD_ALL);
    CHECK(isnan(fold_scalar(f, y)));
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* -- merged calls ------------------------------------------------------------------------------ */

static fold_node repetitive(fold_ctx *f, const net *n, fold_node *twice)
{
    fold_node loss[8];
    for (int i = 0; i < 8; i++) { /* words repeat, so do the calls on them */
        fold_state s = fold_tree_lstm_apply_leaf(f, &n->tree, word(f, n, i % 2)), pair[2];
        pair[0] = s;
        pair[1] = fold_tree_lstm_apply_leaf(f, &n->tree, word(f, n, 0));
        s = fold_tree_lstm_apply_inner(f, &n->tree, pair);
        if (i < 2) twice[i] = s.h;
        if (i > 5) twice[i - 4] = s.h;
        loss[i] = classify(f, n, s.h, i % 4);
    }
    return fold_sum_n(f, loss, 8);
}

static void merged_calls(void)
{
    net n;
    float values[2][4][H], want = 0;
    size_t count = 0, nodes[2] = { 0, 0 };
    net_new(&n);
    for (int way = 0; way < 4; way++) { /* plain, eager merged, merged, merged in groups */
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node twice[4];
        d.training = 1;
        d.dedupe = way > 0;
        d.eager = way == 1;
        d.group_bytes = way == 3 ? 1000 : SIZE_MAX;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        const fold_node root = repetitive(f, &n, twice);
        for (int i = 0; i < 4; i++) fold_keep(f, twice[i]);
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        CHECK_INT(twice[0].id == twice[2].id && twice[1].id == twice[3].id, way > 0);
        for (int i = 0; i < 4; i++) CHECK_INT(fold_read(f, &twice[i], 1, values[way > 0][i]), FOLD_OK);
        CHECK_BITS(values[way > 0][0], values[0][0], 4 * H);
        const float got = fold_scalar(f, root);
        if (!way) want = got;
        CHECK_BITS(&got, &want, 1);
        if (way != 1) nodes[way > 0] = (size_t)fold_ctx_stats(f).run_nodes;
        if (way == 1) count = (size_t)take_grads(n.m, want_grads);
        else take_grads(n.m, got_grads);
        if (way > 1) CHECK_BITS(got_grads, want_grads, count);
        fold_ctx_free(f);
    }
    CHECK_INT(nodes[0], 8u * 5 + 1);
    CHECK_INT(nodes[1], 11u); /* 2 leaves, 2 inner nodes, 2 linear, 4 losses, the sum */
    fold_model_free(n.m);
}

/* Using a node twice makes the recording that asking for it twice makes, but only the second is of several samples:
   the two have no plan in common. */
static void merged_plans(void)
{
    net n;
    fold_ctx_desc d = fold_ctx_desc_default();
    net_new(&n);
    d.training = d.dedupe = 1;
    d.plan_cache_bytes = 1u << 20;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    for (int round = 0; round < 4; round++) {
        fold_node loss[2], x = { 0, 0 };
        fold_ctx_reset(f);
        for (int i = 0; i < 2; i++) {
            if (!i || round == 3) x = fold_tree_lstm_apply_leaf(f, &n.tree, word(f, &n, 1)).h;
            loss[i] = fold_sum(f, i ? fold_tanh(f, x) : fold_sigmoid(f, x), FOLD_ALL);
        }
        CHECK_INT(fold_backward(f, fold_sum_n(f, loss, 2)), FOLD_OK);
        CHECK_INT(fold_ctx_stats(f).nodes, 8);
        CHECK_INT(fold_ctx_stats(f).plan_hits, round < 2 ? 0 : 1);
        CHECK_INT(fold_ctx_stats(f).groups, round < 3 ? 1 : 2);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Sequences and trees over few words: each word's products are computed once, whatever states they meet. */
enum { WORDS_READ = 6, READERS = 5, DISTINCT = 3 };
typedef struct readers { fold_model *m; fold_param words; fold_recurrent of[3]; fold_child_sum tree; } readers;

static void readers_new(readers *n)
{
    n->m = fold_model_new(NULL);
    n->words = fold_table_new(n->m, "words", 4, 5);
    n->of[0] = fold_rnn_new(n->m, "rnn", 5, H);
    n->of[1] = fold_lstm_new(n->m, "lstm", 5, H);
    n->of[2] = fold_gru_new(n->m, "gru", 5, H);
    n->tree = fold_child_sum_new(n->m, "tree", 5, H);
}

static fold_node read_words(fold_ctx *f, const readers *n, int sample)
{
    fold_node last[4];
    fold_state child[WORDS_READ];
    for (int k = 0; k < 3; k++) {
        fold_state s = fold_recurrent_zeros(f, &n->of[k]);
        for (int t = 0; t < WORDS_READ; t++) s = fold_recurrent_apply(f, &n->of[k], fold_lookup(f, n->words, (sample + t * t) % DISTINCT), s);
        last[k] = s.h;
    }
    for (int t = 0; t < WORDS_READ; t++)
        child[t] = fold_child_sum_apply(f, &n->tree, fold_lookup(f, n->words, (sample * t) % DISTINCT), child, t < 3 ? 0 : t);
    last[3] = child[WORDS_READ - 1].h;
    return fold_sum(f, fold_square(f, fold_concat(f, last, 4, 0)), FOLD_ALL);
}

static void merged_products(void)
{
    static float plain[MAX_FLOATS];
    readers n;
    float want = 0;
    size_t count = 0;
    readers_new(&n);
    for (int way = 0; way < 4; way++) { /* plain, eager merged, merged, merged in groups */
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node loss[READERS];
        d.training = 1;
        d.dedupe = way > 0;
        d.eager = way == 1;
        d.group_bytes = way == 3 ? 1000 : SIZE_MAX;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int i = 0; i < READERS; i++) loss[i] = read_words(f, &n, i);
        const fold_node root = fold_sum_n(f, loss, READERS);
        fold_keep(f, root);
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        const float got = fold_scalar(f, root);
        if (!way) want = got;
        CHECK_BITS(&got, &want, 1);
        count = (size_t)take_grads(n.m, way == 0 ? plain : way == 1 ? want_grads : got_grads);
        for (size_t i = 0; i < count && way == 1; i++)
            CHECK_SAYS(fabsf(plain[i] - want_grads[i]) < 1e-5f, "%zu: %g, want %g", i, (double)want_grads[i], (double)plain[i]);
        if (way > 1) CHECK_BITS(got_grads, want_grads, count);
        if (way == 3) CHECK_SAYS(fold_ctx_stats(f).groups > 3, "%d groups", fold_ctx_stats(f).groups);
        fold_ctx_free(f);
    }
    fold_ctx_desc d = fold_ctx_desc_default();
    d.dedupe = 1;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    fold_state s = fold_recurrent_zeros(f, &n.of[1]);
    for (int t = 0; t < WORDS_READ; t++) s = fold_recurrent_apply(f, &n.of[1], fold_lookup(f, n.words, t % DISTINCT), s);
    CHECK_INT(fold_run(f, &s.h, 1), FOLD_OK);
    CHECK_INT(fold_ctx_stats(f).run_nodes, WORDS_READ + DISTINCT); /* its steps, and a product for every word */
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A call is found again among all that read the same operands last, however many there are, and no other is. */
static void merged_exactly(void)
{
    enum { MANY = 700 };
    static fold_node other[MANY], sum[MANY], part[MANY];
    net n;
    net_new(&n);
    const fold_param many = fold_table_new(n.m, "many", MANY, 2 * H);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.dedupe = 1;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int again = 0; again < 2; again++) { /* a reset forgets what was read */
            fold_ctx_reset(f);
            for (int i = 0; i < MANY; i++) other[i] = fold_tanh(f, fold_lookup(f, many, i));
            const fold_node last = fold_zeros(f, fold_shape1(2 * H));
            for (int i = 0; i < MANY; i++) {
                sum[i] = fold_add(f, other[i], last);
                part[i] = fold_relu(f, fold_slice(f, other[i], 0, i % H, H));
            }
            for (int i = 0; i < MANY; i++) {
                CHECK_INT(fold_add(f, other[i], last).id, sum[i].id);
                CHECK_INT(fold_tanh(f, fold_lookup(f, many, i)).id, other[i].id);
                CHECK_INT(fold_relu(f, fold_slice(f, other[i], 0, i % H, H)).id, part[i].id);
                CHECK(i == 0 || sum[i].id != sum[i - 1].id);
                CHECK(fold_relu(f, fold_slice(f, other[i], 0, i % H + 1, H)).id != part[i].id);
                CHECK(fold_sub(f, other[i], last).id != sum[i].id);
                CHECK(fold_add(f, last, other[i]).id != sum[i].id);
            }
            CHECK_SAYS(!fold_ctx_status(f), "%s", fold_ctx_message(f));
        }
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* A layer that reads words is given products of all its inputs, so that its steps share batches; a word must have the
   width that the layer takes. */
static fold_node words_and_others(fold_ctx *f, const net *n, int others)
{
    const float x[H] = { 0.5f, -1, 2 };
    fold_node end[8];
    for (int i = 0; i < 8; i++) {
        fold_state s = fold_recurrent_zeros(f, &n->lstm);
        for (int t = 0; t < 5; t++)
            s = fold_recurrent_apply(f, &n->lstm, others && (i + t) % 3 == 1 ? fold_input(f, x, H) : word(f, n, (i + t) % 4), s);
        end[i] = s.h;
    }
    return fold_sum(f, fold_sum_n(f, end, 8), FOLD_ALL);
}
static void merged_words_and_others(void)
{
    net n;
    int batches[2];
    net_new(&n);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.dedupe = 1;
    for (int others = 0; others < 2; others++) {
        float value[2];
        for (int eager = 0; eager < 2; eager++) {
            d.eager = eager;
            fold_ctx *f = fold_ctx_new(n.m, &d);
            const fold_node root = words_and_others(f, &n, others);
            CHECK_SAYS(!fold_run(f, &root, 1), "%s", fold_ctx_message(f));
            value[eager] = fold_scalar(f, root);
            if (!eager) batches[others] = fold_ctx_stats(f).batches;
            fold_ctx_free(f);
        }
        CHECK_BITS(&value[0], &value[1], 1);
    }
    CHECK_SAYS(batches[1] <= batches[0] + 1, "%d batches, words alone %d", batches[1], batches[0]);
    const fold_param narrow = fold_table_new(n.m, "narrow", 3, H - 1);
    d.eager = 0;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    CHECK(fold_node_is_null(fold_recurrent_apply(f, &n.lstm, fold_lookup(f, narrow, 1), fold_recurrent_zeros(f, &n.lstm)).h));
    CHECK_INT(fold_ctx_status(f), FOLD_BAD_SHAPE);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Every output of a merged call can be a shared operand, or a window of it, of calls in samples' groups. */
static fold_node on_shared(fold_ctx *f, const net *n, int which)
{
    fold_node loss[8];
    for (int i = 0; i < 8; i++) {
        const fold_state leaf = fold_tree_lstm_apply_leaf(f, &n->tree, word(f, n, 0));
        const fold_node chosen = which ? leaf.c : leaf.h, part = fold_slice(f, chosen, 0, 0, H);
        float own[H];
        for (int k = 0; k < H; k++) own[k] = (float)(i * H + k) * 0.01f;
        const fold_node x = fold_mul(f, fold_linear(f, fold_input(f, own, H), n->W, n->b), fold_shared(f, chosen));
        loss[i] = fold_sum(f, fold_square(f, fold_add(f, x, fold_shared(f, part))), FOLD_ALL);
    }
    return fold_sum_n(f, loss, 8);
}

static void merged_shared(void)
{
    net n;
    net_new(&n);
    for (int which = 0; which < 2; which++)
        for (int way = 0; way < 3; way++) { /* eager; one group; groups */
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = d.dedupe = 1;
            d.eager = way == 0;
            d.group_bytes = way == 2 ? 1 : SIZE_MAX;
            fold_ctx *f = fold_ctx_new(n.m, &d);
            CHECK_INT(fold_backward(f, on_shared(f, &n, which)), FOLD_OK);
            if (way == 2) CHECK_SAYS(fold_ctx_stats(f).groups > 2, "%d groups", fold_ctx_stats(f).groups);
            const size_t count = (size_t)take_grads(n.m, way ? got_grads : want_grads);
            if (way) CHECK_BITS(got_grads, want_grads, count);
            fold_ctx_free(f);
        }
    fold_model_free(n.m);
}

/* In a block that a run has filled, what is found again takes memory from other arrays, which move. */
static void merged_in_a_block(void)
{
    enum { N = 200, AGAIN = 30 };
    static fold_node y[N];
    net n;
    float want[2] = { 0, 0 };
    size_t bytes = 0;
    net_new(&n);
    const fold_param many = fold_table_new(n.m, "many", N, H);
    for (size_t extra = 0; extra <= 3 * 65536; extra += 65536 / 4) {
        fold_ctx_desc d = fold_ctx_desc_default();
        void *memory = NULL;
        d.dedupe = 1;
        if (bytes) {
            memory = malloc(bytes + extra + 64);
            d.memory.block = (void *)(((uintptr_t)memory + 63) / 64 * 64);
            d.memory.block_size = bytes + extra;
        }
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int again = 0; again < 2; again++) {
            fold_ctx_reset(f);
            for (int i = 0; i < N; i++) {
                fold_node x = fold_lookup(f, many, i);
                for (int k = 0; k < AGAIN * again; k++) x = fold_lookup(f, many, i);
                y[i] = fold_tanh(f, fold_linear(f, x, n.W, n.b));
            }
            const fold_node root = fold_sum(f, fold_sum_n(f, y, N), FOLD_ALL);
            CHECK_SAYS(!fold_run(f, &root, 1), "%s", fold_ctx_message(f));
            const float got = fold_scalar(f, root);
            if (bytes) CHECK_BITS(&got, &want[again], 1);
            else want[again] = got;
        }
        if (!bytes) bytes = fold_ctx_stats(f).block_bytes;
        fold_ctx_free(f);
        free(memory);
    }
    fold_model_free(n.m);
}

/* A recurrent layer put together by hand has no cell for multiplied words. */
static void lstm_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_state before = { in[1], in[2] };
    const fold_state after = fold_recurrent_apply(f, (const fold_recurrent *)user, in[0], before);
    out[0] = after.h;
    out[1] = after.c;
}
static void own_recurrent(void)
{
    net n;
    fold_ctx_desc d = fold_ctx_desc_default();
    fold_cell_desc c = fold_cell_desc_default();
    net_new(&n);
    fold_recurrent own = n.lstm;
    c.name = "own";
    c.body = lstm_body;
    c.user = &n.lstm;
    c.n_in = 3;
    c.in[0] = c.in[1] = c.in[2] = fold_shape1(H);
    c.n_out = 2;
    own.cell = fold_cell_new(n.m, &c);
    CHECK_SAYS(!fold_model_status(n.m), "%s", fold_model_message(n.m));
    d.dedupe = 1;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    const fold_node with = fold_recurrent_apply(f, &n.lstm, word(f, &n, 1), fold_recurrent_zeros(f, &n.lstm)).h;
    const fold_node without = fold_recurrent_apply(f, &own, word(f, &n, 1), fold_recurrent_zeros(f, &own)).h;
    const fold_node both[2] = { with, without };
    float values[2][H];
    CHECK_SAYS(!fold_run(f, both, 2), "%s", fold_ctx_message(f));
    CHECK_INT(fold_read(f, both, 2, values[0]), FOLD_OK);
    CHECK_BITS(values[0], values[1], H);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A word is multiplied once, whether its table was made before the layers or after; where there is none, layers
   have no cells for multiplied words. */
static void words_of_later_tables(void)
{
    enum { STATES = 3, SIZE = 5 };
    int signatures[2] = { 0, 0 };
    size_t cells[3];
    for (int way = 0; way < 3; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_param table = FOLD_NULL_PARAM;
        if (way == 0) table = fold_table_new(m, "table", 2, SIZE);
        const fold_recurrent gru = fold_gru_new(m, "gru", SIZE, SIZE);
        const fold_child_sum tree = fold_child_sum_new(m, "tree", SIZE, SIZE);
        if (way == 1) table = fold_table_new(m, "table", 2, SIZE);
        cells[way] = fold_model_measure(m).cells;
        fold_ctx_desc d = fold_ctx_desc_default();
        d.dedupe = 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int i = 0; i < STATES && way < 2; i++) {
            fold_node x = fold_lookup(f, table, 1);
            float before[SIZE] = { (float)i };
            const fold_state state = { fold_input(f, before, SIZE), fold_input(f, before, SIZE) };
            const fold_node both[2] = { fold_recurrent_apply(f, &gru, x, state).h,
                                        fold_child_sum_apply(f, &tree, x, &state, 1).h };
            CHECK_SAYS(!fold_run(f, both, 2), "%s", fold_ctx_message(f));
        }
        if (way < 2) signatures[way] = fold_ctx_stats(f).signatures;
        fold_ctx_free(f);
        fold_model_free(m);
    }
    CHECK_INT(signatures[1], signatures[0]);
    CHECK_INT(cells[1], cells[0]);
    CHECK_INT(cells[2] * 2, cells[0]);
}

/* The gradient of a call's value that its one list element uses is written as it comes: -0 stays. */
static void score_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_softmax_mean(f, fold_dot(f, in[0], in[1]), in[1]);
}
static void signs_of_zero(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_cell_desc c = fold_cell_desc_default();
    const float a[4] = { 1, 2, 3, 4 }, b[4] = { 0, -1, 0.5f, 0 }, z[4] = { -1, 0, 0, -2 };
    float want[4] = { 0, 0, 0, 0 };
    c.name = "score";
    c.body = score_body;
    c.n_in = c.n_list = c.n_out = 1;
    c.in[0] = c.list[0] = fold_shape1(4);
    const fold_cell cell = fold_cell_new(m, &c);
    for (int k = 0; k < 6; k++) { /* lists of 0 to 2 elements, eager first */
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = k % 2 == 0;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node x = fold_input(f, a, 4), list[2] = { fold_input(f, b, 4), fold_input(f, b, 4) };
        fold_keep_grad(f, x);
        const fold_node y = fold_call_n(f, cell, &x, 1, list, (size_t)(k / 2));
        CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_mul(f, y, fold_input(f, z, 4)), FOLD_ALL)), "%s", fold_ctx_message(f));
        const float *got = fold_grad(f, x);
        if (d.eager) memcpy(want, got, sizeof want);
        else CHECK_BITS(got, want, 4);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* In a cell, a bias that alone is trained, far from its output: y = v . tanh(W x + b), so dy/db = v (1 - tanh^2). */
static void inner_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *inner = (const fold_param *)user;
    out[0] = fold_linear(f, fold_tanh(f, fold_linear(f, in[0], inner[0], inner[1])), inner[2], FOLD_NULL_PARAM);
}
static void bias_alone(void)
{
    static const float W[2][2] = { { 0.5f, -0.25f }, { 0.125f, 0.75f } }, b[2] = { 0.25f, -0.5f }, v[2] = { 2, -3 }, x[2] = { 1, 2 };
    const fold_array values[] = { { "W", &W[0][0], 4 }, { "b", b, 2 }, { "v", v, 2 } };
    fold_model *m = fold_model_new(NULL);
    fold_param inner[3];
    inner[0] = fold_weight_new(m, "W", 2, 2);
    inner[1] = fold_bias_new(m, "b", 2);
    inner[2] = fold_weight_new(m, "v", 2, 1);
    fold_cell_desc c = cell_desc("inner", inner_body, inner, 1, 0, 1);
    c.in[0] = fold_shape1(2);
    const fold_cell cell = fold_cell_new(m, &c);
    CHECK_INT(fold_values_fill(m, "", values, 3), FOLD_OK);
    fold_param_freeze(m, inner[0], 1);
    fold_param_freeze(m, inner[2], 1);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node in = fold_input(f, x, 2);
        fold_grads_clear(m);
        CHECK_INT(fold_backward(f, fold_call(f, cell, &in, 1)), FOLD_OK);
        for (int i = 0; i < 2; i++) {
            const double y = tanh((double)W[0][i] + 2 * (double)W[1][i] + (double)b[i]), want = (double)v[i] * (1 - y * y);
            const float *got = fold_param_grad(m, inner[1]);
            CHECK_SAYS(got && fabs((double)got[i] - want) < 1e-5, "%d: %g, want %g", i, got ? (double)got[i] : 0, want);
        }
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* The first node of a recording may be a call that parameters alone bear on: it is computed anew after they changed. */
static void sum_product_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *of = (const fold_param *)user;
    out[0] = fold_linear(f, fold_list_sum(f, in[0]), of[0], of[1]);
}
static void first_call_anew(void)
{
    static const float W[4] = { 1, 2, 3, 4 }, before[2] = { 1, 2 }, after[2] = { 3, 4 };
    const fold_array old_values[] = { { "W", W, 4 }, { "b", before, 2 } }, new_values[] = { { "W", W, 4 }, { "b", after, 2 } };
    fold_model *m = fold_model_new(NULL);
    fold_param of[2];
    of[0] = fold_weight_new(m, "W", 2, 2);
    of[1] = fold_bias_new(m, "b", 2);
    fold_cell_desc c = cell_desc("sum", sum_product_body, of, 0, 1, 1);
    c.list[0] = fold_shape1(2);
    const fold_cell cell = fold_cell_new(m, &c);
    fold_ctx *f = fold_ctx_new(m, NULL);
    CHECK_INT(fold_values_fill(m, "", old_values, 2), FOLD_OK);
    const fold_node first = fold_call(f, cell, NULL, 0);
    fold_keep(f, first);
    CHECK_INT(fold_run(f, &first, 1), FOLD_OK);
    CHECK_BITS(fold_value(f, first), before, 2);
    CHECK_INT(fold_values_fill(m, "", new_values, 2), FOLD_OK);
    const fold_node other = fold_scale(f, fold_input(f, before, 2), 2);
    CHECK_INT(fold_run(f, &other, 1), FOLD_OK);
    CHECK_BITS(fold_value(f, first), after, 2);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A list op of one's own, in batches and row by row: the sum of squares over lists of 2, 3 and 1 elements. */
static const char *squares_shape(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static void squares_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < 4; i++) {
            float sum = 0;
            for (int k = c->list[r]; k < c->list[r + 1]; k++) sum += fold_row(&c->in[0], k)[i] * fold_row(&c->in[0], k)[i];
            fold_row(&c->out[0], r)[i] = sum;
        }
}
static void squares_backward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int k = c->list[r]; k < c->list[r + 1]; k++)
            for (int i = 0; i < 4; i++) fold_row(&c->din[0], k)[i] = 2 * fold_row(&c->in[0], k)[i] * fold_row(&c->dout[0], r)[i];
}
static void own_list_op(void)
{
    enum { LISTS = 3, ELEMENTS = 6 };
    static const int begin[LISTS + 1] = { 0, 2, 5, 6 };
    float x[ELEMENTS][4];
    for (int k = 0; k < ELEMENTS; k++)
        for (int i = 0; i < 4; i++) x[k][i] = (float)(1 + k + 10 * i); /* all sums are exact */
    for (int way = 0; way < 4; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_op_desc op = fold_op_desc_default();
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node in[ELEMENTS], out[LISTS], loss[LISTS];
        op.name = "squares";
        op.n_in = op.n_out = op.is_list = 1;
        op.one_row = way > 1;
        op.needs = FOLD_NEEDS_IN;
        op.infer = squares_shape;
        op.forward = squares_forward;
        op.backward = squares_backward;
        const fold_op squares = fold_op_new(m, &op);
        d.training = 1;
        d.eager = way % 2;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int k = 0; k < ELEMENTS; k++) fold_keep_grad(f, in[k] = fold_input(f, x[k], 4));
        for (int list = 0; list < LISTS; list++) {
            out[list] = fold_op_apply(f, squares, in + begin[list], begin[list + 1] - begin[list], NULL, 0);
            fold_keep(f, out[list]);
            loss[list] = fold_scale(f, fold_sum(f, out[list], FOLD_ALL), (float)(list + 1));
        }
        CHECK_INT(fold_backward(f, fold_sum_n(f, loss, LISTS)), FOLD_OK);
        for (int list = 0; list < LISTS; list++)
            for (int i = 0; i < 4; i++) {
                float want = 0;
                for (int k = begin[list]; k < begin[list + 1]; k++) {
                    const float grad = 2 * (float)(list + 1) * x[k][i];
                    want += x[k][i] * x[k][i];
                    CHECK_BITS(&fold_grad(f, in[k])[i], &grad, 1);
                }
                CHECK_BITS(&fold_value(f, out[list])[i], &want, 1);
            }
        if (!d.eager) CHECK_INT(fold_ctx_stats(f).one_row_calls, op.one_row ? 2 * LISTS : 0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* An op of two outputs on list elements: batches run it, an eager context says that it does not. */
static fold_op two_op;
static const char *two_shapes(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    out[0] = out[1] = in[0];
    return NULL;
}
static void two_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < 4; i++) {
            fold_row(&c->out[0], r)[i] = 2 * fold_row(&c->in[0], r)[i];
            fold_row(&c->out[1], r)[i] = 3 * fold_row(&c->in[0], r)[i];
        }
}
static void two_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_node y = fold_op_apply(f, two_op, in, 1, NULL, 0);
    (void)user;
    out[0] = fold_list_sum(f, fold_add(f, y, fold_scale(f, fold_out(f, y, 1), 100)));
}
static void two_outputs_of_elements(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_op_desc op;
    fold_cell_desc c = fold_cell_desc_default();
    const float v[2][4] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 } };
    memset(&op, 0, sizeof op);
    op.name = "two";
    op.n_in = 1;
    op.n_out = 2;
    op.infer = two_shapes;
    op.forward = two_forward;
    two_op = fold_op_new(m, &op);
    c.name = "both";
    c.body = two_body;
    c.n_list = c.n_out = 1;
    c.list[0] = fold_shape1(4);
    const fold_cell cell = fold_cell_new(m, &c);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node list[2] = { fold_input(f, v[0], 4), fold_input(f, v[1], 4) }, y = fold_call_n(f, cell, NULL, 0, list, 2);
        CHECK_INT(fold_run(f, &y, 1), eager ? FOLD_BAD_CELL : FOLD_OK);
        if (eager) CHECK_TEXT(fold_ctx_message(f), "two: an eager context runs no op with several outputs on list elements");
        else CHECK_SAYS(fabsf(fold_value(f, y)[3] - 302 * 12) < 0.01f, "%g", (double)fold_value(f, y)[3]);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* In a cell, one of an op's outputs that nothing reads: its gradient is zeros when the op goes backward. */
static void two_backward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows && fold_row(&c->din[0], r); r++)
        for (int i = 0; i < 4; i++) fold_row(&c->din[0], r)[i] = 2 * fold_row(&c->dout[0], r)[i] + 3 * fold_row(&c->dout[1], r)[i];
}
static void one_of_two_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_node y = fold_op_apply(f, two_op, in, 1, NULL, 0);
    out[0] = fold_square(f, fold_out(f, y, *(const int *)user));
}
static void one_output_unread(void)
{
    for (int way = 0; way < 4; way++) {
        const int which = way % 2;
        fold_model *m = fold_model_new(NULL);
        fold_op_desc op = fold_op_desc_default();
        fold_cell_desc c = fold_cell_desc_default();
        fold_ctx_desc d = fold_ctx_desc_default();
        op.name = "two";
        op.n_in = 1;
        op.n_out = 2;
        op.infer = two_shapes;
        op.forward = two_forward;
        op.backward = two_backward;
        two_op = fold_op_new(m, &op);
        c.name = "one of two";
        c.body = one_of_two_body;
        c.user = &which;
        c.user_size = sizeof which;
        c.n_in = c.n_out = 1;
        c.in[0] = fold_shape1(4);
        const fold_cell cell = fold_cell_new(m, &c);
        const fold_param p = fold_bias_new(m, "p", 4);
        fold_values_write_begin(m, p)[3] = 0.5f;
        fold_values_write_end(m, p);
        d.training = 1;
        d.eager = way > 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node x = fold_use(f, p), y = fold_call(f, cell, &x, 1), z = fold_call(f, cell, &x, 1);
        CHECK_INT(fold_backward(f, fold_sum(f, fold_add(f, y, z), FOLD_ALL)), FOLD_OK);
        CHECK(fold_param_grad(m, p)[3] == 2 * (which ? 3 * 3 : 2 * 2)); /* twice that of a square of so many x */
        CHECK(fold_param_grad(m, p)[0] == 0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Lookups of one row, recorded first, read in another order: their gradients are added in record order, whatever the groups and
   threads. The sums of 1e8, 1 and -1e8 tell the order. */
static void lookups_in_order(void)
{
    static const int order[2][4] = { { 0, 2, 1, 3 }, { 0, 1, 2, 3 } };
    static const float by[4] = { 1e8f, 1, -1e8f, 1 };
    for (int k = 0; k < 2; k++) {
        float want[4] = { 0, 0, 0, 0 };
        for (int way = 0; way < 4; way++) { /* eager, one group, a group a sample, threads */
            fold_model *m = fold_model_new(NULL);
            fold_ctx_desc d = fold_ctx_desc_default();
            const fold_param words = fold_table_new(m, "words", 5, 4), tags = fold_table_new(m, "tags", 3, 4);
            fold_node x[4], loss[4];
            d.training = 1;
            d.eager = way == 0;
            d.group_bytes = way == 2 ? 1 : d.group_bytes;
            d.threads = way == 3 ? 3 : 1;
            d.parallel_for = one_after_another;
            fold_ctx *f = fold_ctx_new(m, &d);
            for (int i = 0; i < 4; i++) x[i] = fold_lookup(f, words, 2);
            for (int i = 0; i < 4; i++) {
                const fold_node y = fold_add(f, fold_scale(f, x[order[k][i]], by[i]), fold_lookup(f, tags, i % 3));
                loss[i] = fold_sum(f, y, FOLD_ALL);
            }
            CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, 4)), "%s", fold_ctx_message(f));
            CHECK(way != 2 || k == 0 || fold_ctx_stats(f).groups > 3); /* each sample for itself where the order allows it */
            if (d.eager) memcpy(want, fold_param_grad(m, words) + 8, sizeof want);
            else CHECK_BITS(fold_param_grad(m, words) + 8, want, 4);
            fold_ctx_free(f);
            fold_model_free(m);
        }
    }
}

/* A weight used by calls and by list elements, where all lists are empty, and products that underflow to -0. */
static void call_and_elements_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param none = { 0, 0 }, W = *(const fold_param *)user;
    out[0] = fold_add(f, fold_list_sum(f, fold_linear(f, in[1], W, none)), fold_linear(f, in[0], W, none));
}
static void empty_lists_only(void)
{
    const float x[4] = { -1e-30f, 1, -1, 2 };
    float want[16];
    for (int way = 0; way < 2; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_cell_desc c = fold_cell_desc_default();
        const fold_param W = fold_weight_new(m, "W", 4, 4);
        c.name = "both";
        c.body = call_and_elements_body;
        c.user = &W;
        c.user_size = sizeof W;
        c.n_in = c.n_list = c.n_out = 1;
        c.in[0] = c.list[0] = fold_shape1(4);
        const fold_cell cell = fold_cell_new(m, &c);
        d.training = 1;
        d.eager = way == 0;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node in = fold_input(f, x, 4), y = fold_call_n(f, cell, &in, 1, NULL, 0);
        CHECK_SAYS(!fold_backward(f, fold_scale(f, fold_sum(f, y, FOLD_ALL), 1e-30f)), "%s", fold_ctx_message(f));
        if (d.eager) memcpy(want, fold_param_grad(m, W), sizeof want);
        else CHECK_BITS(fold_param_grad(m, W), want, 16);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Lists of nothing, as of an agent without neighbours in the first frame: a context that has no operands at all, or none
   behind that of another call. */
static void sum_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_list_sum(f, in[0]);
    (void)user;
}
static fold_node nothing(fold_ctx *f, fold_cell sum, int which)
{
    const float x = 1;
    const fold_shape eight = fold_shape1(8);
    const fold_node none = fold_list_input(f, &x, 0, eight);
    switch (which) {
    case 0: return fold_call_n(f, sum, NULL, 0, NULL, 0);
    case 1: return fold_list_sum(f, none);
    case 2: return fold_list_softmax_mean(f, fold_list_input(f, &x, 0, fold_shape1(1)), none);
    default: return fold_add(f, fold_call_n(f, sum, NULL, 0, NULL, 0), fold_zeros(f, eight));
    }
}
static void nothing_first(void)
{
    const float zeros[8] = { 0 };
    fold_model *m = fold_model_new(NULL);
    fold_cell_desc of_list = fold_cell_desc_default();
    of_list.name = "sum", of_list.body = sum_body;
    of_list.n_list = of_list.n_out = 1;
    of_list.list[0] = fold_shape1(8);
    const fold_cell sum_of = fold_cell_new(m, &of_list);
    for (int way = 0; way < 16; way++) { /* alone or beside a list of one, in inference and training */
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = way / 4 % 2;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node one = fold_constant(f, 1), eight = fold_zeros(f, fold_shape1(8));
        const fold_node beside = way < 8 ? eight : fold_softmax_mean_n(f, &one, &eight, 1), root[2] = { nothing(f, sum_of, way % 4), beside };
        CHECK_SAYS(!fold_run(f, root, 2), "%s", fold_ctx_message(f));
        CHECK_BITS(fold_value(f, root[0]), zeros, 8);
        const fold_node sum = fold_sum(f, fold_add(f, root[0], beside), FOLD_ALL);
        CHECK_SAYS(!d.training || !fold_backward(f, sum), "%s", fold_ctx_message(f));
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* x W of x in three parts: of parts begun elsewhere those of one length overlap. */
static fold_node in_parts(fold_ctx *f, fold_node x, fold_param W, int k, int first)
{
    const fold_param none = { 0, 0 };
    const int at[4] = { 0, first, first + k / 3, k };
    fold_node part[3];
    for (int i = 0; i < 3; i++) part[i] = fold_slice(f, x, 0, at[i], at[i + 1] - at[i]);
    return fold_sum(f, fold_tanh(f, fold_linear_n(f, part, 3, W, none)), FOLD_ALL);
}

/* A weight that several ops multiply by in ways of their own (its uses), of every size beside those of the blocks sums are made by. */
static fold_node used_often(fold_ctx *f, fold_param W, fold_param b, int k, int n, int parts, check_random *r)
{
    static float x[1024];
    const fold_param none = { 0, 0 };
    fold_node term[4];
    random_fill(r, x, (size_t)(k + n), -1, 1);
    const fold_node from = fold_input(f, x, k), part[2] = { fold_slice(f, from, 0, 0, k / 3), fold_slice(f, from, 0, k / 3, k - k / 3) };
    if (parts) return fold_add(f, in_parts(f, from, W, k, k / 3), in_parts(f, from, W, k, k / 5));
    term[0] = fold_tanh(f, fold_linear(f, from, W, b));
    term[1] = fold_sigmoid(f, fold_linear(f, fold_scale(f, from, 0.5f), W, none));
    term[2] = fold_mul(f, term[1], fold_linear_n(f, part, 2, W, b));
    term[3] = fold_tanh(f, fold_linear_t(f, fold_input(f, x + k, n), W, none));
    for (int i = 0; i < 4; i++) term[i] = fold_sum(f, term[i], FOLD_ALL);
    return fold_sum_n(f, term, 4);
}
static void weights_used_often(void)
{
    static const int size[][2] = { { 150, 200 }, { 64, 64 }, { 65, 80 }, { 63, 81 }, { 130, 5 }, { 3, 129 }, { 129, 145 }, { 200, 450 } };
    static float want[200 * 450];
    for (size_t t = 0; t < sizeof size / sizeof *size; t++) {
        const int k = size[t][0], n = size[t][1];
        const size_t floats = (size_t)k * (size_t)n;
        for (int way = 0; way < (k < 5 ? 3 : 6); way++) { /* eager, one group, several; twice: to a gradient of zeros, and to that; then by parts */
            fold_model *m = fold_model_new(NULL);
            fold_ctx_desc d = fold_ctx_desc_default();
            fold_param_desc w = fold_param_desc_default();
            fold_node loss[9];
            check_random r = { 7 + t };
            w.name = "W";
            w.shape = fold_shape2(k, n);
            w.uses = FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T;
            w.init = FOLD_INIT_GLOROT;
            const fold_param W = fold_param_new(m, &w), b = fold_bias_new(m, "b", n);
            d.training = 1;
            d.eager = way % 3 == 0;
            d.group_bytes = way % 3 == 2 ? 1 : d.group_bytes;
            fold_ctx *f = fold_ctx_new(m, &d);
            for (int run = 0; run < 2; run++) {
                fold_ctx_reset(f);
                for (int i = 0; i < 9; i++) loss[i] = used_often(f, W, b, k, n, way > 2, &r);
                CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, 9)), "%s", fold_ctx_message(f));
                CHECK(d.eager || (fold_ctx_stats(f).groups > 1) == (way % 3 == 2));
            }
            if (d.eager) memcpy(want, fold_param_grad(m, W), floats * sizeof *want);
            else CHECK_BITS(fold_param_grad(m, W), want, floats);
            fold_ctx_free(f);
            fold_model_free(m);
        }
    }
}

static void unmerged_dropout(void)
{
    net n;
    net_new(&n);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = d.dedupe = 1;
    for (int eager = 0; eager < 2; eager++) {
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        float ones[32];
        for (int i = 0; i < 32; i++) ones[i] = 1;
        const fold_node x = fold_input(f, ones, 32);
        fold_node y[4];
        fold_dropout_seed(f, 1);
        y[0] = fold_dropout(f, x, 0.5f);
        y[1] = fold_dropout(f, x, 0.5f); /* the next draw */
        fold_dropout_seed(f, 2);
        y[2] = fold_dropout(f, x, 0.5f);
        fold_dropout_seed(f, 1);
        y[3] = fold_dropout(f, x, 0.5f); /* the first again */
        CHECK(y[0].id != y[1].id && y[0].id != y[2].id && y[1].id != y[2].id);
        CHECK_INT(fold_run(f, y, 4), FOLD_OK);
        float v[4][32];
        CHECK_INT(fold_read(f, y, 4, v[0]), FOLD_OK);
        CHECK(memcmp(v[0], v[1], sizeof v[0]) && memcmp(v[0], v[2], sizeof v[0]) &&
              memcmp(v[1], v[2], sizeof v[0]));
        CHECK_BITS(v[3], v[0], 32);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* -- mistakes: a status, the null node, and a message that names the op and the shapes ----------- */

typedef struct other {
    fold_node node;
    fold_param param;
    fold_cell cell;
} other; /* of another context or model */
static other foreign;

#define BAD(name, expression) \
    static fold_node bad_##name(fold_ctx *f, const net *n) { (void)n; return expression; }
static const fold_param no_param = { 0, 0 };
static const fold_cell no_cell = { 0, 0 };

static fold_node list_of(fold_ctx *f, fold_node a, fold_node b, int weigh)
{
    const fold_node both[2] = { a, b };
    return weigh ? fold_softmax_mean_n(f, &a, &b, 1) : fold_sum_n(f, both, 2);
}
static fold_node call_with(fold_ctx *f, fold_cell c, fold_node a, int count)
{
    const fold_node in[2] = { a, a };
    return fold_call(f, c, in, count);
}
static fold_node joined(fold_ctx *f, fold_node a, fold_node b, int axis)
{
    const fold_node both[2] = { a, b };
    return fold_concat(f, both, 2, axis);
}
static fold_node part(fold_ctx *f, fold_node x, int n)
{
    fold_node parts[3];
    fold_split(f, x, n, parts);
    return parts[0];
}
static fold_node list_call(fold_ctx *f, fold_cell c, const fold_node *in, int n_in, fold_node element,
                           size_t count)
{
    const fold_node list[2] = { element, element };
    return fold_call_n(f, c, in, n_in, count ? list : NULL, (int)count);
}
static fold_node leaf_call(fold_ctx *f, const net *n)
{
    const fold_node x = vector(f, H);
    return fold_call(f, n->tree.leaf, &x, 1);
}

BAD(linear, fold_linear(f, vector(f, 3), n->W, n->b))
BAD(linear_bias, fold_linear(f, vector(f, H), n->W, n->a))
BAD(linear_table, fold_linear(f, vector(f, H), n->embed, no_param))
BAD(linear_t, fold_linear_t(f, vector(f, H), n->W, n->b))
BAD(linear_none, fold_linear(f, vector(f, H), no_param, n->b))
BAD(linear_n, fold_linear_n(f, NULL, 2, n->W, n->b))
BAD(foreign_param, fold_linear(f, vector(f, H), foreign.param, no_param))
BAD(foreign_use, fold_use(f, foreign.param))
BAD(foreign_node, fold_tanh(f, foreign.node))
BAD(foreign_cell, call_with(f, foreign.cell, vector(f, H), 1))
BAD(no_cell, call_with(f, no_cell, vector(f, H), 1))
BAD(add, fold_add(f, vector(f, 3), vector(f, 5)))
BAD(matmul, fold_matmul(f, fold_use(f, n->V), fold_transpose(f, fold_use(f, n->V), 0, 0)))
BAD(dot, fold_dot(f, vector(f, 3), vector(f, 4)))
BAD(select, fold_select(f, vector(f, 3), vector(f, 3), vector(f, 4)))
BAD(concat, joined(f, fold_use(f, n->W), fold_use(f, n->V), 0))
BAD(concat_axis, joined(f, vector(f, 3), vector(f, 3), 1))
BAD(concat_none, fold_concat(f, NULL, 2, 0))
BAD(concat_zero, fold_concat(f, &foreign.node, 0, 0))
BAD(slice, fold_slice(f, vector(f, 5), 0, 3, 3))
BAD(slice_axis, fold_slice(f, vector(f, 5), -2, 0, 1))
BAD(slice_overflow, fold_slice(f, vector(f, 5), 0, 2147483647, 2147483647))
BAD(slice_empty, fold_slice(f, vector(f, 5), 0, 2, 0))
BAD(split, part(f, vector(f, 5), 2))
BAD(split_zero, (fold_split(f, vector(f, 5), 2, NULL), vector(f, 5)))
BAD(reshape, fold_reshape(f, vector(f, 6), fold_shape2(4, 2)))
BAD(transpose, fold_transpose(f, vector(f, 6), 0, 1))
BAD(sum_axis, fold_sum(f, vector(f, 6), 1))
BAD(pick, fold_pick(f, vector(f, 6), 6))
BAD(pick_negative, fold_pick(f, vector(f, 6), -7))
BAD(xent, fold_softmax_xent(f, vector(f, 4), 4))
BAD(xent_matrix, fold_softmax_xent(f, fold_use(f, n->W), 0))
BAD(hinge, fold_hinge(f, vector(f, 4), -3))
BAD(huber, fold_huber(f, vector(f, 4), vector(f, 4), 0))
BAD(dropout, fold_dropout(f, vector(f, 4), 1))
BAD(layer_norm, fold_layer_norm(f, vector(f, 4), n->gain, n->gain, 0))
BAD(lookup, fold_lookup(f, n->embed, WORDS))
BAD(lookup_negative, fold_lookup(f, n->embed, -1))
BAD(lookup_weight, fold_lookup(f, n->W, 0))
BAD(sum_n_empty, fold_sum_n(f, NULL, 0))
BAD(max_n_empty, fold_max_n(f, NULL, 0))
BAD(mean_n_null, fold_mean_n(f, NULL, 3))
BAD(list_shapes, list_of(f, vector(f, 3), vector(f, 4), 0))
BAD(softmax_mean, list_of(f, vector(f, 3), vector(f, 4), 1))
BAD(softmax_mean_empty, fold_softmax_mean_n(f, NULL, NULL, 0))
BAD(input, fold_input(f, NULL, 3))
BAD(input_negative, fold_input(f, fold_param_value(n->m, n->W), -3))
BAD(input_huge, fold_input_shaped(f, fold_param_value(n->m, n->W), fold_shape3(1 << 20, 1 << 20, 1 << 20)))
BAD(input_ref, fold_input_ref(f, NULL, fold_shape1(3)))
BAD(zeros, fold_zeros(f, fold_shape2(3, 0)))
BAD(call_count, call_with(f, n->tree.leaf, vector(f, H), 2))
BAD(call_shape, call_with(f, n->tree.leaf, vector(f, H + 1), 1))
BAD(call_null, fold_call(f, n->tree.leaf, NULL, 1))
BAD(call_n, list_call(f, n->tree.leaf, &foreign.node, 1, vector(f, H), 2))
BAD(list_shape, list_call(f, n->list_max, NULL, 0, vector(f, 3), 2))
BAD(list_empty, list_call(f, n->list_max, NULL, 0, foreign.node, 0))
BAD(out, fold_out(f, leaf_call(f, n), 2))
BAD(out_negative, fold_out(f, leaf_call(f, n), -1))
BAD(list_sum, fold_list_sum(f, vector(f, 3)))

static const struct {
    const char *name;
    fold_node (*record)(fold_ctx *f, const net *n);
    fold_status status;
    const char *says[2];
} mistakes[] = {
#define ROW(name, status, first, second) { #name, bad_##name, FOLD_##status, { first, second } },
    ROW(linear, BAD_SHAPE, "linear: the input has 3 values", "'W' is [8 x 8]")
    ROW(linear_bias, BAD_SHAPE, "linear", "bias 'a' must be [8]")
    ROW(linear_table, BAD_ARGUMENT, "linear", "'embed'")
    ROW(linear_t, BAD_ARGUMENT, "linear_t", "'W'")
    ROW(linear_none, BAD_HANDLE, "linear", "parameter")
    ROW(linear_n, BAD_ARGUMENT, "linear", "")
    ROW(foreign_param, BAD_HANDLE, "linear", "parameter")
    ROW(foreign_use, BAD_HANDLE, "use", "parameter")
    ROW(foreign_node, BAD_HANDLE, "tanh", "another context")
    ROW(foreign_cell, BAD_HANDLE, "call", "cell")
    ROW(no_cell, BAD_HANDLE, "call", "cell")
    ROW(add, BAD_SHAPE, "add: ", "[3], [5]")
    ROW(matmul, BAD_SHAPE, "matmul: ", "[8 x 5], [8 x 5]")
    ROW(dot, BAD_SHAPE, "dot: ", "[3], [4]")
    ROW(select, BAD_SHAPE, "select: ", "[3], [3], [4]")
    ROW(concat, BAD_SHAPE, "concat: ", "[8 x 8], [8 x 5]")
    ROW(concat_axis, BAD_SHAPE, "concat: ", "axis")
    ROW(concat_none, BAD_ARGUMENT, "concat", "")
    ROW(concat_zero, BAD_ARGUMENT, "concat", "")
    ROW(slice, BAD_SHAPE, "slice: ", "[5]")
    ROW(slice_axis, BAD_SHAPE, "slice: ", "axis")
    ROW(slice_overflow, BAD_SHAPE, "slice: ", "[5]")
    ROW(slice_empty, BAD_SHAPE, "slice: ", "[5]")
    ROW(split, BAD_SHAPE, "split: ", "axis of x, 5")
    ROW(split_zero, BAD_ARGUMENT, "split", "NULL")
    ROW(reshape, BAD_SHAPE, "reshape: ", "[6]")
    ROW(transpose, BAD_SHAPE, "transpose: ", "axis")
    ROW(sum_axis, BAD_SHAPE, "sum: ", "axis")
    ROW(pick, BAD_ARGUMENT, "pick: index is 6", "[-6, 6)")
    ROW(pick_negative, BAD_ARGUMENT, "pick: index is -7", "[-6, 6)")
    ROW(xent, BAD_ARGUMENT, "softmax_xent", "[0, 4)")
    ROW(xent_matrix, BAD_SHAPE, "softmax_xent: ", "[8 x 8]")
    ROW(hinge, BAD_ARGUMENT, "hinge", "-3")
    ROW(huber, BAD_ARGUMENT, "huber", "delta")
    ROW(dropout, BAD_ARGUMENT, "dropout", "rate is 1")
    ROW(layer_norm, BAD_SHAPE, "layer_norm: ", "[4], [8], [8]")
    ROW(lookup, BAD_ARGUMENT, "lookup: row is 50", "[0, 50)")
    ROW(lookup_negative, BAD_ARGUMENT, "lookup: row is -1", "[0, 50)")
    ROW(lookup_weight, BAD_ARGUMENT, "lookup", "'W'")
    ROW(sum_n_empty, BAD_ARGUMENT, "sum_n", "fold_zeros")
    ROW(max_n_empty, BAD_ARGUMENT, "max_n", "fold_zeros")
    ROW(mean_n_null, BAD_ARGUMENT, "mean_n", "NULL")
    ROW(list_shapes, BAD_SHAPE, "sum_n: ", "[3], [4]")
    ROW(softmax_mean, BAD_SHAPE, "softmax_mean_n: ", "score")
    ROW(softmax_mean_empty, BAD_ARGUMENT, "softmax_mean_n", "fold_zeros")
    ROW(input, BAD_ARGUMENT, "input", "NULL")
    ROW(input_negative, BAD_SHAPE, "input", "dimension")
    ROW(input_huge, BAD_SHAPE, "input", "")
    ROW(input_ref, BAD_ARGUMENT, "input_ref", "NULL")
    ROW(zeros, BAD_SHAPE, "", "dimension")
    ROW(call_count, BAD_ARGUMENT, "'tree.leaf'", "n_in is 2, must be 1")
    ROW(call_shape, BAD_SHAPE, "tree.leaf", "is [9], must be [8]")
    ROW(call_null, BAD_ARGUMENT, "tree.leaf", "NULL")
    ROW(call_n, BAD_ARGUMENT, "'tree.leaf'", "no list")
    ROW(list_shape, BAD_SHAPE, "list_max", "is [3], must be [8]")
    ROW(list_empty, BAD_ARGUMENT, "'list_max'", "empty")
    ROW(out, BAD_ARGUMENT, "out", "i is 2")
    ROW(out_negative, BAD_ARGUMENT, "out", "i is -1")
    ROW(list_sum, BAD_SHAPE, "list", "cell body")
#undef ROW
};

static void each_mistake(void)
{
    net n, m;
    net_new(&n);
    net_new(&m);
    fold_ctx *elsewhere = trainer(&m);
    foreign.node = word(elsewhere, &m, 1);
    foreign.param = m.W;
    foreign.cell = m.tree.leaf;
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 1, eager, FOLD_SCHEDULE_RATIO, 0);
        for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
            fold_ctx_reset(f);
            const fold_node bad = mistakes[i].record(f, &n),
                            after = fold_tanh(f, fold_linear(f, bad, n.W, n.b));
            CHECK_SAYS(fold_node_is_null(bad) && fold_node_is_null(after), "%s: gave a node", mistakes[i].name);
            CHECK_SAYS(fold_ctx_status(f) == mistakes[i].status, "%s: status '%s', message '%s'",
                       mistakes[i].name, fold_status_text(fold_ctx_status(f)), fold_ctx_message(f));
            for (int k = 0; k < 2; k++) CHECK_TEXT(fold_ctx_message(f), mistakes[i].says[k]);
            CHECK(fold_node_is_null(small_loss(f, &n, 1)));
            CHECK_INT(fold_run(f, &after, 1), mistakes[i].status);
            CHECK_INT(fold_backward(f, after), mistakes[i].status);
            CHECK_INT(fold_model_status(n.m), FOLD_OK);
            fold_ctx_reset(f);
            CHECK_INT(fold_ctx_status(f), FOLD_OK);
            CHECK_INT(fold_backward(f, small_loss(f, &n, 1)), FOLD_OK);
        }
        fold_ctx_free(f);
    }
    fold_ctx_free(elsewhere);
    fold_model_free(m.m);
    fold_model_free(n.m);
}

/* Handles of a recording are stale after a reset, at every call that takes one. */
static void stale_handles(void)
{
    net n;
    net_new(&n);
    fold_ctx *f = trainer(&n);
    const fold_node old = small_loss(f, &n, 1), null = { 0, 0 };
    for (int way = 0; way < 8; way++) {
        float x[H];
        fold_ctx_reset(f);
        word(f, &n, 1);
        switch (way) {
        case 0: CHECK_INT(fold_run(f, &old, 1), FOLD_BAD_HANDLE); break;
        case 1: CHECK_INT(fold_backward(f, old), FOLD_BAD_HANDLE); break;
        case 2: CHECK(!fold_value(f, old)); break;
        case 3: CHECK(!fold_grad(f, old)); break;
        case 4: fold_keep(f, old); break;
        case 5: fold_keep_grad(f, old); break;
        case 6: CHECK_INT(fold_read(f, &old, 1, x), FOLD_BAD_HANDLE); break;
        default: CHECK_INT(fold_node_shape(f, old).rank, 0);
        }
        const int reads = way == 2 || way == 3 || way > 5; /* is no error of the context */
        CHECK_SAYS(fold_ctx_status(f) == (reads ? FOLD_OK : FOLD_BAD_HANDLE), "call %d: %s", way, fold_ctx_message(f));
        CHECK_TEXT(fold_ctx_message(f), "before the last fold_ctx_reset");
    }
    fold_ctx_reset(f);
    CHECK(fold_run(f, &null, 1) != FOLD_OK);
    fold_ctx_reset(f);
    CHECK(fold_backward(f, null) != FOLD_OK);
    fold_ctx_reset(f);
    CHECK_INT(fold_run(f, NULL, 1), FOLD_BAD_ARGUMENT);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void wrong_roots(void)
{
    net n;
    net_new(&n);
    fold_ctx *f = context(&n, 0, 0, FOLD_SCHEDULE_RATIO, 0), *t = trainer(&n);
    CHECK_INT(fold_backward(f, small_loss(f, &n, 1)), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(f), "training");
    CHECK_INT(fold_backward(t, fold_tanh(t, vector(t, 3))), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_ctx_message(t), "[3]");
    fold_ctx_reset(t);
    fold_keep_grad(f, vector(f, 1));
    CHECK(fold_ctx_status(f) != FOLD_OK);
    CHECK_INT(fold_backward(t, small_loss(t, &n, 1)), FOLD_OK);
    fold_ctx_free(f);
    fold_ctx_free(t);
    fold_model_free(n.m);
}

static void null_pointers(void)
{
    fold_model_desc md = fold_model_desc_default();
    net n;
    net_new(&n);
    CHECK(!fold_ctx_new(NULL, NULL));
    fold_ctx_free(NULL);
    fold_model_free(NULL);
    md.isa = "abacus";
    fold_model *none = fold_model_new(&md);
    if (CHECK(none)) {
        CHECK_INT(fold_model_status(none), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_model_message(none), "isa 'abacus'");
        CHECK_INT(fold_weight_new(none, "W", 2, 2).id, 0u);
        CHECK_INT(fold_lstm_new(none, "lstm", 2, 2).cell.id, 0u);
        CHECK_INT(fold_param_count(none), 0);
        fold_ctx *f = fold_ctx_new(none, NULL);
        CHECK(fold_node_is_null(fold_constant(f, 1)));
        CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_ctx_message(f), "abacus");
        fold_ctx_free(f);
        fold_model_clear_error(none); /* goes on with the best there is */
        CHECK(fold_weight_new(none, "W", 2, 2).id && !fold_model_status(none));
    }
    fold_model_free(none);
    CHECK_INT(fold_param_find(n.m, "nothing").id, 0u);
    CHECK(!fold_param_value(n.m, no_param) && !fold_param_grad(n.m, no_param));
    CHECK_INT(fold_param_at(n.m, -1).id, 0u);
    CHECK_INT(fold_param_at(n.m, 1000).id, 0u);
    fold_model_free(n.m);
}

/* -- mistakes in the model show in its contexts -------------------------------------------------- */

static void body_lookup(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)in;
    out[0] = fold_lookup(f, ((const net *)user)->embed, 0);
}
static void body_input(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], vector(f, H));
}
static void body_nothing(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)f; (void)in; (void)out; (void)user;
}
static void body_shapes(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_linear(f, fold_slice(f, in[0], 0, 0, 3), ((const net *)user)->W, no_param);
}
static void body_elements(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_tanh(f, in[1]);
}

static void model_errors(void)
{
    static const struct {
        const char *name;
        fold_cell_body *body;
        int n_list;
        const char *says;
    } rows[] = {
        { "looks up", body_lookup, 0, "lookup" },
        { "makes inputs", body_input, 0, "input" },
        { "gives nothing", body_nothing, 0, "null" },
        { "has bad shapes", body_shapes, 0, "linear: the input has 3 values" },
        { "gives elements", body_elements, 1, "element" },
    };
    net n;
    net_new(&n);
    fold_ctx *f = trainer(&n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const fold_cell_desc d = cell_desc(rows[i].name, rows[i].body, &n, 1, rows[i].n_list, 1);
        fold_ctx_reset(f);
        CHECK_INT(fold_cell_new(n.m, &d).id, 0u);
        CHECK(fold_model_status(n.m) != FOLD_OK);
        CHECK_TEXT(fold_model_message(n.m), rows[i].name);
        CHECK_TEXT(fold_model_message(n.m), rows[i].says);
        CHECK_INT(fold_ctx_status(f), fold_model_status(n.m));
        CHECK_TEXT(fold_ctx_message(f), rows[i].name);
        CHECK(fold_node_is_null(small_loss(f, &n, 1)));
        fold_model_clear_error(n.m);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        CHECK_INT(fold_backward(f, small_loss(f, &n, 1)), FOLD_OK);
    }
    CHECK_INT(fold_weight_new(n.m, "W", 3, 3).id, 0u);
    CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "'W'");
    fold_model_clear_error(n.m);
    CHECK_INT(fold_weight_new(n.m, "negative", -3, 3).id, 0u);
    fold_model_clear_error(n.m);
    CHECK_INT(fold_cell_new(n.m, NULL).id, 0u);
    CHECK_INT(fold_model_status(n.m), FOLD_BAD_ARGUMENT);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A body that does something else when it is called again is found out by an eager context. */
enum { SAME, OTHER_OP, OTHER_OPERAND, OTHER_SCALE, MORE, FEWER, MOODS };
static void moody_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const int mood = *(const int *)user;
    fold_node x = mood == OTHER_OP ? fold_sigmoid(f, in[0]) : fold_tanh(f, in[mood == OTHER_OPERAND]);
    x = fold_scale(f, x, mood == OTHER_SCALE ? 3 : 2);
    if (mood != FEWER) x = fold_square(f, x);
    if (mood == MORE) x = fold_neg(f, x);
    out[0] = x;
}
static void bodies_that_change(void)
{
    int mood = SAME;
    net n;
    net_new(&n);
    const fold_cell_desc d = cell_desc("moody", moody_body, &mood, 2, 0, 1);
    const fold_cell cell = fold_cell_new(n.m, &d);
    fold_ctx *f = context(&n, 1, 1, FOLD_SCHEDULE_RATIO, 0);
    for (; mood < MOODS; mood++) {
        fold_ctx_reset(f);
        const fold_node in[2] = { word(f, &n, 1), word(f, &n, 2) }, call = fold_call(f, cell, in, 2);
        CHECK_SAYS(fold_ctx_status(f) == (mood ? FOLD_BAD_CELL : FOLD_OK), "mood %d: %s", mood,
                   fold_ctx_message(f));
        CHECK_INT(fold_node_is_null(call), mood != SAME);
        if (mood) CHECK_TEXT(fold_ctx_message(f), "'moody'");
    }
    mood = SAME;
    fold_ctx_reset(f);
    CHECK_INT(fold_backward(f, small_loss(f, &n, 1)), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* What is known of signatures from earlier runs holds until parameters are frozen or their table begins anew. */
static void small_gradients(fold_ctx *f, fold_model *m, const fold_param p[2], float *grads)
{
    const float x[3] = { 0.5f, -1, 2 };
    const fold_param none = { 0, 0 };
    fold_grads_clear(m);
    fold_ctx_reset(f);
    const fold_node h = fold_tanh(f, fold_linear(f, fold_input(f, x, 3), p[0], none)), y = fold_tanh(f, fold_linear(f, h, p[1], none));
    CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_mul(f, y, y), FOLD_ALL)), "%s", fold_ctx_message(f));
    for (int i = 0; i < 2; i++) memcpy(grads + 12 * i, fold_param_grad(m, p[i]), 12 * sizeof *grads);
}
static void known_signatures(void)
{
    enum { MANY = 8300 }; /* more than a context keeps */
    static fold_node many[MANY];
    float grads[2][24];
    const float one = -1;
    fold_model *m = fold_model_new(NULL);
    const fold_param p[2] = { fold_weight_new(m, "V", 3, 4), fold_weight_new(m, "W", 4, 3) };
    fold_ctx_desc d = fold_ctx_desc_default();
    fold_ctx *f[2];
    d.training = 1;
    for (int eager = 0; eager < 2; eager++) { d.eager = eager; f[eager] = fold_ctx_new(m, &d); }
    for (int time = 0; time < 5; time++) {
        if (time < 3) fold_param_freeze(m, p[1], time % 2 == 0);
        if (time == 3) { /* another context, which begins with what it forgets */
            fold_ctx_free(f[0]);
            d.eager = 0;
            f[0] = fold_ctx_new(m, &d);
            const fold_node x = fold_input(f[0], &one, 1);
            for (int i = 0; i < MANY; i++) many[i] = fold_leaky_relu(f[0], x, 1e-4f * (float)i);
            CHECK_SAYS(!fold_run(f[0], many, MANY), "%s", fold_ctx_message(f[0]));
            for (int i = 0; i < MANY; i += 100) CHECK(fold_scalar(f[0], many[i]) == -1e-4f * (float)i);
        }
        for (int eager = 0; eager < 2; eager++) small_gradients(f[eager], m, p, grads[eager]);
        CHECK_BITS(grads[0], grads[1], 24);
        CHECK_INT(grads[0][12] != 0, time == 1);
        CHECK(grads[0][0] != 0);
    }
    for (int eager = 0; eager < 2; eager++) fold_ctx_free(f[eager]);
    fold_model_free(m);
}

/* How the stages of a cell run is kept from run to run, apart for every set of inputs that close its cycle, with a prologue
   and without, and by what gets gradients. There are more ways than a context keeps. */
enum { WAYS = 7 };
static void ways_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *p = (const fold_param *)user;
    fold_node y = fold_add(f, fold_tanh(f, in[1]), fold_linear_n(f, in, WAYS, p[0], p[1]));
    for (int i = 2; i < WAYS; i++) y = fold_add(f, y, fold_mul(f, in[i], fold_sigmoid(f, in[i - 1])));
    out[0] = fold_tanh(f, y);
}
static float one_way(fold_ctx *f, fold_cell cell, int mask, int chains, int backward)
{
    const float x[2][3] = { { 0.5f, -1, 2 }, { 1, 0.25f, -0.5f } };
    fold_node root[16], in[WAYS];
    fold_ctx_reset(f);
    for (int chain = 0; chain < chains; chain++) {
        root[chain] = fold_input(f, x[chain % 2], 3);
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < WAYS; i++) in[i] = mask >> i & 1 ? root[chain] : fold_input(f, x[(step + i) % 2], 3);
            root[chain] = fold_call(f, cell, in, WAYS);
        }
    }
    const fold_node sum = fold_sum(f, chains > 1 ? fold_sum_n(f, root, chains) : root[0], FOLD_ALL);
    CHECK_INT(backward ? fold_backward(f, sum) : fold_run(f, &sum, 1), FOLD_OK);
    return fold_scalar(f, sum);
}
static void kept_stages(void)
{
    enum { TIMES = 500, FIRST = 150, N = 3 * WAYS * 3 + 3 };
    fold_model *m = fold_model_new(NULL);
    const fold_param p[2] = { fold_weight_new(m, "W", WAYS * 3, 3), fold_bias_new(m, "b", 3) };
    fold_cell_desc c = cell_desc("ways", ways_body, p, WAYS, 0, 1);
    for (int i = 0; i < WAYS; i++) c.in[i] = fold_shape1(3);
    const fold_cell cell = fold_cell_new(m, &c);
    fold_ctx_desc d = fold_ctx_desc_default();
    fold_ctx *f[2];
    d.training = 1;
    for (int eager = 0; eager < 2; eager++) { d.eager = eager; f[eager] = fold_ctx_new(m, &d); }
    size_t most[2] = { 0, 0 };
    int prologues[2] = { 0, 0 };
    for (int time = 0; time < TIMES; time++) {
        const int mask = 1 + time * 37 % 127, chains = time % 3 ? 1 : 9, backward = time % 8 > 2;
        float loss[2], grads[2][N];
        if (time > 400 && time % 10 == 0) fold_param_freeze(m, p[0], time % 20 == 0);
        for (int eager = 0; eager < 2; eager++) {
            fold_grads_clear(m);
            loss[eager] = one_way(f[eager], cell, mask, chains, backward);
            memcpy(grads[eager], fold_param_grad(m, p[0]), 9 * WAYS * sizeof(float));
            memcpy(grads[eager] + 9 * WAYS, fold_param_grad(m, p[1]), 3 * sizeof(float));
        }
        CHECK_BITS(&loss[0], &loss[1], 1);
        CHECK_BITS(grads[0], grads[1], N);
        const fold_stats stats = fold_ctx_stats(f[0]);
        const int late = time >= FIRST;
        most[late] = stats.plan_bytes > most[late] ? stats.plan_bytes : most[late];
        prologues[chains > 1] += stats.prologues;
    }
    CHECK_SAYS(most[1] <= most[0] + most[0] / 4, "%zu bytes of plans, %zu at first", most[1], most[0]);
    CHECK(prologues[0] > 0 && !prologues[1]);
    for (int eager = 0; eager < 2; eager++) fold_ctx_free(f[eager]);
    fold_model_free(m);
}

/* What kept stages read may move from run to run: values of parameters, since others are made; programs of signatures, since
   others are recorded; scratch and the group's rows, since a batch is larger. Two contexts keep stages of one model. */
static void moved_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *p = (const fold_param *)user;
    const fold_node both[2] = { in[0], in[1] };
    fold_node y = fold_tanh(f, fold_linear_n(f, both, 2, p[0], p[1]));
    out[0] = fold_add(f, fold_mul(f, y, fold_use(f, p[2])), fold_mul(f, in[0], fold_sigmoid(f, y)));
}
static void moved_stages(void)
{
    enum { TIMES = 24, WIDE = 40 };
    fold_model *m = fold_model_new(NULL);
    const fold_param p[3] = { fold_weight_new(m, "W", 6, 3), fold_bias_new(m, "b", 3), fold_bias_new(m, "u", 3) };
    fold_cell_desc c = cell_desc("moved", moved_body, p, 2, 0, 1);
    c.in[0] = c.in[1] = fold_shape1(3);
    const fold_cell cell = fold_cell_new(m, &c);
    fold_ctx_desc d = fold_ctx_desc_default();
    fold_ctx *f[3];
    d.training = 1;
    for (int i = 0; i < 3; i++) { d.eager = i == 2; f[i] = fold_ctx_new(m, &d); }
    for (int time = 0; time < TIMES; time++) {
        float loss[3], grads[3][24];
        for (int i = 0; i < 3; i++) {
            fold_node root[WIDE];
            const int chains = i < 2 && time % 4 == 1 + i ? WIDE : 1;
            fold_ctx_reset(f[i]);
            fold_grads_clear(m);
            for (int chain = 0; chain < chains; chain++) {
                const float x[2][3] = { { 0.5f, -1, 2 }, { 1, 0.25f, -0.5f } };
                root[chain] = fold_input(f[i], x[0], 3);
                for (int step = 0; step < 3; step++) {
                    const fold_node in[2] = { root[chain], fold_input(f[i], x[1], 3) };
                    root[chain] = fold_call(f[i], cell, in, 2);
                }
            }
            fold_node sum = fold_sum(f[i], root[0], FOLD_ALL); /* gradients of the other chains are zeros */
            for (int chain = 1; chain < chains; chain++)
                sum = fold_add(f[i], sum, fold_scale(f[i], fold_sum(f[i], root[chain], FOLD_ALL), 0));
            CHECK_INT(fold_backward(f[i], sum), FOLD_OK);
            loss[i] = fold_scalar(f[i], sum);
            memcpy(grads[i], fold_param_grad(m, p[0]), 18 * sizeof(float));
            memcpy(grads[i] + 18, fold_param_grad(m, p[1]), 3 * sizeof(float));
            memcpy(grads[i] + 21, fold_param_grad(m, p[2]), 3 * sizeof(float));
            if (i < 2 && time % 5 == 2) { /* more programs */
                const fold_node more = fold_scale(f[i], fold_zeros(f[i], fold_shape1(time + 5)), 2);
                CHECK_INT(fold_run(f[i], &more, 1), FOLD_OK);
            }
        }
        for (int i = 0; i < 2; i++) {
            CHECK_BITS(&loss[i], &loss[2], 1);
            CHECK_BITS(grads[i], grads[2], 24);
        }
        const fold_sgd step = fold_sgd_default();
        CHECK_INT(fold_sgd_step(m, &step), FOLD_OK);
        if (time % 3 == 0) { /* more parameters */
            char name[16];
            snprintf(name, sizeof name, "more %d", time);
            fold_weight_new(m, name, 50 * (time + 1), 7);
        }
    }
    for (int i = 0; i < 3; i++) fold_ctx_free(f[i]);
    fold_model_free(m);
}

/* A cell of many more ops than the recording has nodes. */
static void large_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = in[0];
    for (int i = 0; i < 400; i++) out[0] = i % 2 ? fold_tanh(f, out[0]) : fold_softmax(f, out[0]);
}
static void large_cell(void)
{
    const float values[4] = { 1, 2, 3, 4 };
    fold_model *m = fold_model_new(NULL);
    fold_cell_desc d = cell_desc("large", large_body, NULL, 1, 0, 1);
    float result[2][2];
    d.in[0] = fold_shape1(4);
    const fold_cell cell = fold_cell_new(m, &d);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        desc.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &desc);
        const fold_node x = fold_input(f, values, 4);
        fold_keep_grad(f, x);
        const fold_node y = fold_pick(f, fold_call(f, cell, &x, 1), 1);
        CHECK_INT(fold_backward(f, y), FOLD_OK);
        result[eager][0] = fold_scalar(f, y);
        result[eager][1] = fold_grad(f, x)[0];
        fold_ctx_free(f);
    }
    CHECK_INT(memcmp(result[0], result[1], sizeof result[0]), 0);
    fold_model_free(m);
}

/* -- what a change could break unnoticed (tests/mutants) ---------------------------------------- */

/* A shared window: calls read it where it begins, and its gradient goes there. */
static void shared_windows(void)
{
    net n;
    net_new(&n);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 1, eager, FOLD_SCHEDULE_RATIO, 0);
        const fold_node whole = vector(f, 8), window = fold_shared(f, fold_slice(f, whole, 0, 4, 4));
        fold_node loss[3];
        double want = 0, grad[4] = { 0 };
        fold_keep_grad(f, whole);
        for (int s = 0; s < 3; s++) {
            const float x[4] = { 1, 0.5f * (float)s, -2, (float)(s * s) };
            loss[s] = fold_dot(f, window, fold_neg(f, fold_input(f, x, 4)));
            for (int i = 0; i < 4; i++) {
                want -= (double)x[i] * 0.25 * (i + 1);
                grad[i] -= (double)x[i];
            }
        }
        const fold_node root = fold_sum_n(f, loss, 3);
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        CHECK_NEAR(fold_scalar(f, root), want, 1e-5);
        for (int i = 0; i < 8; i++) CHECK_NEAR(fold_grad(f, whole)[i], i < 4 ? 0 : grad[i - 4], 1e-5);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

static fold_node chain_of(fold_ctx *f, const net *n, int length)
{
    fold_node x = vector(f, H);
    for (int i = 0; i < length; i++) x = fold_tanh(f, fold_linear(f, x, n->W, n->b));
    return fold_sum(f, x, FOLD_ALL);
}
static float run_chain(fold_ctx *f, const net *n, int length)
{
    fold_ctx_reset(f);
    const fold_node x = chain_of(f, n, length);
    CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
    return fold_scalar(f, x);
}

/* Each of many structures in turn, two chains of up to 32 each, has its plan at the third sight. */
static void plans_of_many(const net *n, int structures, size_t plan_cache_bytes)
{
    static float first[1024];
    fold_ctx_desc d = fold_ctx_desc_default();
    d.plan_cache_bytes = plan_cache_bytes;
    fold_ctx *f = fold_ctx_new(n->m, &d);
    for (int sight = 0; sight < 4; sight++) {
        for (int i = 0; i < structures; i++) {
            fold_ctx_reset(f);
            const fold_node x = fold_add(f, chain_of(f, n, 1 + i % 32), chain_of(f, n, 1 + i / 32));
            CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
            const float value = fold_scalar(f, x);
            if (!sight) first[i] = value;
            CHECK_BITS(&value, &first[i], 1);
        }
        CHECK_INT(fold_ctx_stats(f).plan_hits, sight < 2 ? 0 : (sight - 1) * structures);
    }
    CHECK(fold_ctx_stats(f).cached_bytes <= plan_cache_bytes);
    fold_ctx_free(f);
}

/* A cache of little room, which drops plans all the time, gives the right ones. */
static void plans_of_a_full_cache(const net *n)
{
    enum { STRUCTURES = 300 };
    static float first[STRUCTURES];
    fold_ctx_desc d = fold_ctx_desc_default();
    check_random r = { 1 };
    d.plan_cache_bytes = 60000;
    fold_ctx *f = fold_ctx_new(n->m, &d);
    for (int i = 0; i < 6000; i++) {
        const int which = i < STRUCTURES ? i : random_below(&r, random_below(&r, STRUCTURES) + 1);
        fold_ctx_reset(f);
        const fold_node x = fold_add(f, chain_of(f, n, 1 + which % 18), chain_of(f, n, 1 + which / 18));
        CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
        const float value = fold_scalar(f, x);
        if (i < STRUCTURES) first[which] = value;
        CHECK_BITS(&value, &first[which], 1);
    }
    const fold_stats stats = fold_ctx_stats(f);
    CHECK_SAYS(stats.plan_hits > 500 && stats.plan_misses > 2000, "%d hits, %d misses", stats.plan_hits, stats.plan_misses);
    fold_ctx_free(f);
}

/* How many of three plans are there after the last was made. */
static int plans_left(const net *n, size_t plan_cache_bytes)
{
    static const int length[3] = { 9, 4, 7 };
    float value[3];
    fold_ctx_desc d = fold_ctx_desc_default();
    d.plan_cache_bytes = plan_cache_bytes;
    fold_ctx *f = fold_ctx_new(n->m, &d);
    for (int i = 0; i < 6; i++) value[i / 2] = run_chain(f, n, length[i / 2]);
    CHECK_INT(fold_ctx_stats(f).plan_hits, 0);
    for (int i = 2; i >= 0; i--) {
        const float again = run_chain(f, n, length[i]);
        CHECK_BITS(&again, &value[i], 1);
    }
    const int left = (int)fold_ctx_stats(f).plan_hits;
    fold_ctx_free(f);
    return left;
}

/* When a plan is dropped for a new one, those that stay are found where they are now. */
static void dropped_plans(void)
{
    net n;
    net_new(&n);
    size_t enough = 64;
    plans_of_many(&n, 65, 1 << 20);
    plans_of_many(&n, 1000, 8 << 20);
    plans_of_a_full_cache(&n);
    while (enough < 1000000 && plans_left(&n, enough) < 3) enough += 64;
    CHECK_INT(plans_left(&n, enough), 3);
    CHECK_INT(plans_left(&n, enough - 64), 2); /* the first was dropped for the third */
    fold_model_free(n.m);
}

/* Recordings that differ in one thing alone do not get each other's plans. */
enum { A_TABLE, A_PARAMETER, A_LENGTH, AN_OFFSET, AN_OPERAND, A_ROOT, A_KEPT_VALUE, DIFFERENCES };
static fold_node differing(fold_ctx *f, const fold_param *tables, const fold_param *gains, int in, int second, fold_node *kept)
{
    static const int rows[3] = { 1, 3, 2 };
    const int is[DIFFERENCES] = { in == A_TABLE && second,   in == A_PARAMETER && second, in == A_LENGTH && second,    in == AN_OFFSET && second,
                                  in == AN_OPERAND && second, in == A_ROOT && second,      in == A_KEPT_VALUE && second };
    const fold_node x = fold_lookup(f, tables[is[A_TABLE]], 1), gain = fold_use(f, gains[is[A_PARAMETER]]);
    const fold_node words = fold_list_lookup(f, tables[0], rows, is[A_LENGTH] ? 3 : 2);
    const fold_node h = fold_tanh(f, fold_mul(f, x, gain)), power = fold_exp(f, h);
    const fold_node part = fold_slice(f, is[AN_OPERAND] ? power : h, 0, is[AN_OFFSET] ? 2 : 0, 2);
    const fold_node one = fold_sum(f, fold_mul(f, part, part), FOLD_ALL);
    const fold_node two = fold_sum(f, fold_list_sum(f, fold_mul(f, words, gain)), FOLD_ALL);
    const fold_node loss = fold_add(f, one, two), steeper = fold_scale(f, fold_mul(f, loss, one), 3);
    *kept = is[A_KEPT_VALUE] ? power : h;
    fold_keep(f, *kept);
    return is[A_ROOT] ? loss : steeper;
}
static void plans_told_apart(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param_desc d = fold_param_desc_default();
    fold_param tables[2], gains[2];
    static float want[DIFFERENCES][2][128];
    for (int i = 0; i < 2; i++) {
        tables[i] = fold_table_new(m, i ? "words" : "other words", 6, 4);
        d.name = i ? "gain" : "other gain";
        d.shape = fold_shape1(4);
        d.init = FOLD_INIT_UNIFORM;
        d.init_scale = 1;
        gains[i] = fold_param_new(m, &d);
        fold_param_freeze(m, tables[i], i); /* what is frozen needs another plan */
        fold_param_freeze(m, gains[i], i);
    }
    for (int keeps = 0; keeps < 2; keeps++)
        for (int in = 0; in < DIFFERENCES; in++) {
            fold_ctx_desc c = fold_ctx_desc_default();
            c.training = 1;
            c.plan_cache_bytes = keeps ? 1 << 20 : 0;
            fold_ctx *f = fold_ctx_new(m, &c);
            for (int turn = 0; turn < 8; turn++) {
                float got[sizeof want[0][0] / sizeof(float)];
                int n = 0;
                fold_node kept;
                fold_grads_clear(m);
                const fold_node root = differing(f, tables, gains, in, turn % 2, &kept);
                CHECK_SAYS(!fold_backward(f, root), "%s", fold_ctx_message(f));
                const float *grads = fold_model_grads(m, &n), *value = fold_value(f, kept);
                if (!CHECK(grads && value && n + 5 <= (int)(sizeof got / sizeof *got))) continue;
                memset(got, 0, sizeof got);
                memcpy(got, value, 4 * sizeof *got);
                got[4] = fold_scalar(f, root);
                memcpy(got + 5, grads, (size_t)n * sizeof *got);
                if (!keeps) memcpy(want[in][turn % 2], got, sizeof got);
                else CHECK_BITS(got, want[in][turn % 2], sizeof got / sizeof *got);
                fold_ctx_reset(f);
            }
            CHECK(keeps ? fold_ctx_stats(f).plan_hits >= 4 : !fold_ctx_stats(f).plan_hits); /* those kept when they come again */
            fold_ctx_free(f);
        }
    fold_model_free(m);
}

/* Where only a part of a value is used the rest has no gradient, whatever lay in that memory before. */
static void partly_used(void)
{
    net n;
    net_new(&n);
    fold_ctx *f = trainer(&n);
    for (int turn = 0; turn < 4; turn++) {
        fold_node loss[SAMPLES], x[SAMPLES], y[SAMPLES];
        fold_ctx_reset(f);
        for (int s = 0; s < SAMPLES; s++) {
            x[s] = vector(f, H);
            y[s] = fold_tanh(f, fold_linear(f, x[s], n.W, n.b));
            const fold_node both = fold_exp(f, fold_concat2(f, turn % 2 ? fold_slice(f, x[s], 0, 2, 3) : x[s],
                                                            turn % 2 ? fold_slice(f, y[s], 0, 1, 2) : y[s]));
            fold_keep_grad(f, x[s]);
            fold_keep_grad(f, y[s]);
            loss[s] = fold_scale(f, fold_sum(f, both, FOLD_ALL), 1000);
        }
        CHECK_INT(fold_backward(f, fold_sum_n(f, loss, SAMPLES)), FOLD_OK);
        for (int s = 0; s < SAMPLES && turn % 2; s++)
            for (int i = 0; i < H; i++)
                if (i < 1 || i > 2) CHECK_NEAR(fold_grad(f, y[s])[i], 0, 0);
        fold_grads_clear(n.m);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Chains of many matrices, as of relations or experts, picked by chance. */
enum { MATRICES = 150, LINES = 40, LINKS = 30, LINE = 4 };
static int picked[LINES * LINKS]; /* of line i the link j is at i * LINKS + j */

/* How good it is to run a matrix next: the share of its calls left that are ready, times that share of the highest, times their height. */
static float merit_of(const int *at, int matrix)
{
    int ready = 0, left = 0, height = 0, high_ready = 0, high_left = 0;
    for (int line = 0; line < LINES; line++)
        for (int link = at[line]; link < LINKS; link++) {
            if (picked[line * LINKS + link] != matrix) continue;
            if (LINKS - link > height) { height = LINKS - link; high_ready = high_left = 0; }
            left++;
            ready += link == at[line];
            high_left += LINKS - link == height;
            high_ready += LINKS - link == height && link == at[line];
        }
    return ready ? (float)ready * (float)high_ready * (float)height / ((float)left * (float)high_left) : -1;
}
/* How many batches the ratio makes where signatures are many; of equally good ones it takes the one that was recorded first. */
static int batches_by_ratio(void)
{
    int at[LINES] = { 0 }, met[MATRICES] = { 0 }, order[MATRICES], n_order = 0, batches = 0;
    for (int i = 0; i < LINES * LINKS; i++)
        if (!met[picked[i]]++) order[n_order++] = picked[i];
    for (int done = 0; done < LINES * LINKS; batches++) {
        int best = 0;
        float most = -1;
        for (int i = 0; i < n_order; i++) {
            const float merit = merit_of(at, order[i]);
            if (merit > most) { best = order[i]; most = merit; }
        }
        for (int line = 0; line < LINES; line++)
            if (at[line] < LINKS && picked[line * LINKS + at[line]] == best) { at[line]++; done++; }
    }
    return batches;
}
/* No order has fewer batches: the sum over matrices of the most links of one line that it has. */
static int bound_of_lines(void)
{
    int bound = 0;
    for (int matrix = 0; matrix < MATRICES; matrix++) {
        int most = 0;
        for (int line = 0; line < LINES; line++) {
            int links = 0;
            for (int link = 0; link < LINKS; link++) links += picked[line * LINKS + link] == matrix;
            if (links > most) most = links;
        }
        bound += most;
    }
    return bound;
}
static void many_signatures(void)
{
    static float want[LINES][LINE];
    const float x[LINE] = { 1, -2, 3, 0.5f };
    check_random r = { 5 };
    for (int i = 0; i < LINES * LINKS; i++) picked[i] = random_below(&r, MATRICES);
    for (int way = 0; way < 3; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_param matrix[MATRICES];
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_node ends[LINES];
        for (int i = 0; i < MATRICES; i++) {
            char name[12];
            snprintf(name, sizeof name, "%d", i);
            matrix[i] = fold_weight_new(m, name, LINE, LINE);
        }
        d.eager = !way;
        d.schedule = way == 2 ? FOLD_SCHEDULE_AGENDA : FOLD_SCHEDULE_RATIO;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int line = 0; line < LINES; line++) {
            ends[line] = fold_input(f, x, LINE);
            for (int link = 0; link < LINKS; link++)
                ends[line] = fold_linear(f, ends[line], matrix[picked[line * LINKS + link]], FOLD_NULL_PARAM);
        }
        CHECK_INT(fold_run(f, ends, LINES), FOLD_OK);
        if (way == 1) CHECK_INT(fold_ctx_stats(f).batches, batches_by_ratio());
        if (way == 1) CHECK_INT(fold_ctx_stats(f).lower_bound, bound_of_lines());
        for (int line = 0; line < LINES; line++) {
            if (!way) memcpy(want[line], fold_value(f, ends[line]), sizeof want[line]);
            else CHECK_BITS(fold_value(f, ends[line]), want[line], LINE);
        }
        fold_ctx_reset(f); /* what was asked for stays, what was not is not known */
        CHECK_INT(fold_ctx_stats(f).lower_bound, way == 1 ? bound_of_lines() : 0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Networks that mix kinds of calls. */
enum { KINDS = 60, MIXED = 4, MIXED_SAMPLES = 32, LETTERS = 40 };
typedef struct mixed { fold_ctx *f; const fold_param *one, *two; check_random random; fold_node leaf; } mixed;
static fold_node mixed_one(const mixed *x, int kind, fold_node in) { return fold_linear(x->f, in, x->one[kind], FOLD_NULL_PARAM); }
static fold_node mixed_two(const mixed *x, int kind, fold_node a, fold_node b)
{
    const fold_node both[2] = { a, b };
    return fold_linear_n(x->f, both, 2, x->two[kind], FOLD_NULL_PARAM);
}
/* A binary tree; few kinds are frequent. */
static fold_node mixed_tree(mixed *x, int kinds, int leaves)
{
    if (leaves == 1) return mixed_one(x, 0, x->leaf);
    const int split = 1 + random_below(&x->random, leaves - 1), kind = random_below(&x->random, 1 + random_below(&x->random, kinds));
    const fold_node left = mixed_tree(x, kinds, split);
    return mixed_two(x, kind, left, mixed_tree(x, kinds, leaves - split));
}
/* Letters in a row; words lead over some of them, and where they end all that comes is averaged. */
static fold_node mixed_lattice(mixed *x)
{
    fold_node letter[LETTERS + 1], in[2];
    letter[0] = x->leaf;
    for (int i = 1; i <= LETTERS; i++) {
        letter[i] = mixed_one(x, 0, letter[i - 1]);
        if (i < 5 || random_below(&x->random, 2)) continue;
        in[0] = letter[i];
        in[1] = mixed_one(x, 1, letter[i - 2 - random_below(&x->random, 3)]);
        letter[i] = fold_mean_n(x->f, in, 2);
    }
    return letter[LETTERS];
}
/* A stack, a buffer read backwards, a tracker of both, and an action that shifts or reduces. */
static fold_node mixed_parser(mixed *x)
{
    fold_node word[LETTERS + 1], stack[LETTERS + 1], tracker = x->leaf;
    const int words = 5 + random_below(&x->random, LETTERS - 5);
    int left = words, top = 0;
    word[0] = stack[0] = x->leaf;
    for (int i = 1; i <= words; i++) word[i] = mixed_two(x, 0, x->leaf, word[i - 1]);
    while (left || top > 1) {
        tracker = mixed_two(x, 1, mixed_two(x, 2, tracker, stack[top]), word[left]);
        const fold_node action = mixed_one(x, 3, tracker);
        if (top < 2 || (left && random_below(&x->random, 2))) stack[++top] = mixed_one(x, 4, word[left--]);
        else { stack[top - 1] = mixed_two(x, 5, stack[top - 1], stack[top]); top--; }
        stack[top] = mixed_two(x, 6, stack[top], action);
    }
    return stack[1];
}
/* Limbs of four kinds send messages up and then down. */
static fold_node mixed_limbs(mixed *x)
{
    fold_node up[LETTERS], down[LETTERS];
    int parent[LETTERS], kind[LETTERS];
    const int limbs = 3 + random_below(&x->random, 18);
    for (int i = 0; i < limbs; i++) {
        parent[i] = i ? random_below(&x->random, i) : 0;
        kind[i] = random_below(&x->random, 4);
    }
    for (int i = limbs - 1; i >= 0; i--) {
        fold_node in[LETTERS];
        int n = 0;
        in[n++] = x->leaf;
        for (int child = i + 1; child < limbs; child++)
            if (parent[child] == i) in[n++] = up[child];
        up[i] = mixed_one(x, kind[i], fold_sum_n(x->f, in, n));
    }
    for (int i = 0; i < limbs; i++) down[i] = mixed_two(x, kind[i], up[i], i ? down[parent[i]] : x->leaf);
    return fold_mean_n(x->f, down, limbs);
}
static const int mixed_kinds[] = { 1, 2, 5, 10, 16, 20, KINDS };
enum { MIXED_TREES = sizeof mixed_kinds / sizeof *mixed_kinds, MIXED_NETS = MIXED_TREES + 3 };
static void mixed_record(mixed *x, int net, uint64_t seed, fold_node *root)
{
    const float leaf[MIXED] = { 0.5f, -1, 2, 0.25f };
    x->random.state = seed;
    fold_ctx_reset(x->f);
    x->leaf = fold_input(x->f, leaf, MIXED);
    for (int i = 0; i < MIXED_SAMPLES; i++)
        root[i] = net < MIXED_TREES        ? mixed_tree(x, mixed_kinds[net], 5 + random_below(&x->random, 30))
                  : net == MIXED_TREES     ? mixed_lattice(x)
                  : net == MIXED_TREES + 1 ? mixed_parser(x)
                                           : mixed_limbs(x);
}
/* The default schedule never makes more batches than the others, and the same bits. */
static void mixed_networks(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param one[KINDS], two[KINDS];
    fold_ctx *f[FOLD_SCHEDULE_COUNT];
    for (int i = 0; i < KINDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "one%d", i);
        one[i] = fold_weight_new(m, name, MIXED, MIXED);
        snprintf(name, sizeof name, "two%d", i);
        two[i] = fold_weight_new(m, name, 2 * MIXED, MIXED);
    }
    for (int schedule = 0; schedule < FOLD_SCHEDULE_COUNT; schedule++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.schedule = (fold_schedule)schedule;
        d.group_bytes = SIZE_MAX;
        f[schedule] = fold_ctx_new(m, &d);
    }
    for (int net = 0; net < MIXED_NETS; net++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            fold_node root[FOLD_SCHEDULE_COUNT][MIXED_SAMPLES];
            int batches[FOLD_SCHEDULE_COUNT];
            for (int schedule = 0; schedule < FOLD_SCHEDULE_COUNT; schedule++) {
                mixed x = { f[schedule], one, two, { 0 }, { 0, 0 } };
                mixed_record(&x, net, seed, root[schedule]);
                CHECK_INT(fold_run(f[schedule], root[schedule], MIXED_SAMPLES), FOLD_OK);
                batches[schedule] = fold_ctx_stats(f[schedule]).batches;
                CHECK_SAYS(batches[0] <= batches[schedule], "net %d, seed %d: %d batches, by schedule %d only %d", net,
                           (int)seed, batches[0], schedule, batches[schedule]);
                CHECK(fold_ctx_stats(f[schedule]).lower_bound <= batches[0]);
                for (int i = 0; i < MIXED_SAMPLES; i++)
                    CHECK_BITS(fold_value(f[schedule], root[schedule][i]), fold_value(f[0], root[0][i]), MIXED);
            }
        }
    for (int schedule = 0; schedule < FOLD_SCHEDULE_COUNT; schedule++) fold_ctx_free(f[schedule]);
    fold_model_free(m);
}

/* Parameters are found among many, those with names of one hash too ("costarring" and "liquor" by FNV-1a). */
static void many_names(void)
{
    static const char *const same_hash[] = { "costarring", "liquor", "declinate", "macallums" };
    enum { NAMES = 3000, OF_ONE_HASH = 4 };
    char name[16];
    fold_model *m = fold_model_new(NULL);
    CHECK_INT(fold_param_find(m, "liquor").id, 0u);
    for (int i = 0; i < NAMES + OF_ONE_HASH; i++) {
        snprintf(name, sizeof name, "%d.weight", i);
        CHECK(!fold_param_is_null(fold_bias_new(m, i < NAMES ? name : same_hash[i - NAMES], 1)));
    }
    for (int i = 0; i < NAMES + OF_ONE_HASH; i++) {
        snprintf(name, sizeof name, "%d.weight", i);
        CHECK_INT(fold_param_find(m, i < NAMES ? name : same_hash[i - NAMES]).id, fold_param_at(m, i).id);
        snprintf(name, sizeof name, "%d.bias", i);
        CHECK(fold_param_is_null(fold_param_find(m, name)));
    }
    CHECK(fold_param_is_null(fold_bias_new(m, "liquor", 1)));
    CHECK_TEXT(fold_model_message(m), "parameter 'liquor'");
    fold_model_free(m);
}

/* Plans of other roots are told apart, and those of other parts of a value, which are left out of the hash. */
static void plans_of_equal_hashes(void)
{
    enum { NODES = 50, ROUNDS = 8 };
    static const int root[2][2] = { { 5, 40 }, { 6, 9 } };
    static const float x[2] = { 1, 2 };
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.plan_cache_bytes = 1 << 20;
    for (int parts = 0; parts < 2; parts++) {
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int round = 0; round < ROUNDS; round++) {
            const int other = round % 2, part = parts && other;
            const int *at = root[parts ? 0 : other];
            fold_node y[NODES], roots[2];
            float values[2];
            fold_ctx_reset(f);
            const fold_node from = fold_slice(f, fold_input(f, x, 2), 0, part, 1);
            for (int i = 0; i < NODES; i++) y[i] = fold_scale(f, from, (float)i);
            for (int i = 0; i < 2; i++) roots[i] = y[at[i]];
            CHECK_INT(fold_run(f, roots, 2), FOLD_OK);
            CHECK_INT(fold_read(f, roots, 2, values), FOLD_OK);
            for (int i = 0; i < 2; i++) CHECK_NEAR(values[i], (float)at[i] * x[part], 0);
        }
        CHECK(fold_ctx_stats(f).plan_hits > ROUNDS / 2 - 2);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* A leaf with a gradient that a sample reads, and what joins all samples reads too: no place to cut lies behind that sample. */
static void leaf_of_sample_and_tail(void)
{
    enum { COUNT = 6 };
    const float one = 0.5f, two = -0.25f;
    float grad[2][2], value[2];
    fold_model *m = fold_model_new(NULL);
    const fold_param b = fold_gain_new(m, "b", 1);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        d.group_bytes = 64; /* a group for each sample, where it can be */
        fold_ctx *f = fold_ctx_new(m, &d);
        fold_node loss[COUNT];
        const fold_node scale = fold_input(f, &one, 1), shift = fold_input(f, &two, 1);
        fold_keep_grad(f, scale);
        fold_keep_grad(f, shift);
        fold_grads_clear(m);
        for (int i = 0; i < COUNT; i++) {
            const float x = (float)i;
            fold_node y = fold_tanh(f, fold_mul(f, fold_input(f, &x, 1), fold_tanh(f, fold_use(f, b))));
            if (i == 3) y = fold_exp(f, fold_mul(f, y, scale));
            if (i == 4) y = fold_exp(f, fold_add(f, y, shift));
            loss[i] = fold_square(f, y);
        }
        const fold_node root = fold_mul(f, fold_sum_n(f, loss, COUNT), fold_add(f, scale, shift));
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        value[eager] = fold_scalar(f, root);
        grad[eager][0] = fold_grad(f, scale)[0];
        grad[eager][1] = fold_grad(f, shift)[0];
        fold_ctx_free(f);
    }
    CHECK_BITS(&value[0], &value[1], 1);
    CHECK_BITS(grad[0], grad[1], 2);
    fold_model_free(m);
}

/* Words of which only some parts are read, in groups that take turns in one region behind what all samples share by dedupe: the
   gradient of the rest is zero, which is written when its group runs, not before others have been there. */
static void parts_of_leaves_in_groups(void)
{
    enum { COUNT = 12, WIDTH = 48, PART = 8 };
    static float grad[2][COUNT * WIDTH];
    fold_model *m = fold_model_new(NULL);
    const fold_param table = fold_table_new(m, "table", COUNT, WIDTH), gain = fold_gain_new(m, "gain", PART);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        d.dedupe = 1;
        d.group_bytes = 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        fold_node loss[COUNT];
        fold_grads_clear(m);
        for (int i = 0; i < COUNT; i++) {
            const fold_node word = fold_lookup(f, table, i);
            const fold_node first = fold_slice(f, word, 0, i % 3 * PART, PART), last = fold_slice(f, word, 0, WIDTH - PART, PART);
            fold_node y = fold_mul(f, fold_mul(f, fold_tanh(f, first), fold_exp(f, last)), fold_tanh(f, fold_use(f, gain)));
            for (int more = 0; more < i; more++) y = fold_tanh(f, y);
            loss[i] = fold_sum(f, y, FOLD_ALL);
        }
        CHECK_INT(fold_backward(f, fold_sum_n(f, loss, COUNT)), FOLD_OK);
        CHECK_SAYS(eager || fold_ctx_stats(f).groups > 4, "%d groups: %s", fold_ctx_stats(f).groups, fold_ctx_stats(f).one_group);
        memcpy(grad[eager], fold_param_grad(m, table), sizeof grad[eager]);
        fold_ctx_free(f);
    }
    CHECK_BITS(grad[0], grad[1], COUNT * WIDTH);
    for (int i = 0; i < COUNT; i++) CHECK(grad[0][i * WIDTH + 3 * PART] == 0 && grad[0][i * WIDTH + WIDTH - 1] != 0);
    fold_model_free(m);
}

/* A parameter that a cell's product reads as its row, and a shared value that a call reads which has no gradient. */
static void param_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param *p = (const fold_param *)user, none = { 0, 0 };
    out[0] = fold_tanh(f, fold_add(f, in[0], fold_linear(f, fold_use(f, p[0]), p[1], none)));
}
static void parameters_as_rows(void)
{
    enum { COUNT = 3, WIDTH = 4 };
    float grad[2][WIDTH * (WIDTH + 1)], x[WIDTH];
    fold_model *m = fold_model_new(NULL);
    fold_param p[2];
    fold_cell_desc cell = fold_cell_desc_default();
    p[0] = fold_gain_new(m, "b", WIDTH);
    p[1] = fold_weight_new(m, "W", WIDTH, WIDTH);
    cell.name = "cell";
    cell.body = param_body;
    cell.user = p;
    cell.n_in = cell.n_out = 1;
    cell.in[0] = fold_shape1(WIDTH);
    const fold_cell c = fold_cell_new(m, &cell);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        fold_node y[COUNT], apart[COUNT];
        fold_grads_clear(m);
        const fold_node shared = fold_shared(f, fold_tanh(f, fold_use(f, p[0])));
        for (int i = 0; i < COUNT; i++) {
            for (int k = 0; k < WIDTH; k++) x[k] = 0.25f * (float)(i - k);
            const fold_node in = fold_input(f, x, WIDTH);
            y[i] = fold_sum(f, fold_mul(f, fold_call(f, c, &in, 1), shared), FOLD_ALL);
            apart[i] = fold_mul(f, in, shared);
            fold_keep(f, apart[i]);
        }
        y[1] = fold_add(f, y[1], fold_sum(f, apart[1], FOLD_ALL)); /* the others are computed, and lead to no loss */
        CHECK_INT(fold_backward(f, fold_sum_n(f, y, COUNT)), FOLD_OK);
        CHECK_NEAR(fold_value(f, apart[2])[0], 0.5 * tanh(1), 1e-6);
        memcpy(grad[eager], fold_param_grad(m, p[0]), WIDTH * sizeof(float));
        memcpy(grad[eager] + WIDTH, fold_param_grad(m, p[1]), WIDTH * WIDTH * sizeof(float));
        fold_ctx_free(f);
    }
    CHECK_BITS(grad[0], grad[1], WIDTH * (WIDTH + 1));
    CHECK(grad[0][0] != 0 && grad[0][WIDTH] != 0);
    fold_model_free(m);
}

/* An eager call copies what it is given, or what it makes, only in training, and only where gradients are put together: an
   input that the body reads twice or in part, an output that it reads, inputs in one value that it reads in another order. */
enum { ONCE, TWICE, IN_PART, TURNED, INSIDE, BODIES };
static void border_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const int *kind = (const int *)user;
    const fold_node early = *kind == TURNED ? fold_sigmoid(f, in[1]) : fold_tanh(f, in[0]);
    const fold_node late = *kind == TURNED ? fold_tanh(f, in[0]) : fold_sigmoid(f, in[1]);
    if (*kind == TWICE) out[0] = fold_mul(f, early, fold_add(f, in[0], late));
    else if (*kind == IN_PART) out[0] = fold_mul(f, late, fold_sum(f, fold_slice(f, in[0], 0, 3, 2), FOLD_ALL));
    else out[0] = fold_mul(f, early, late);
    out[1] = fold_tanh(f, *kind == INSIDE ? out[0] : late);
}
static int count_copies(const fold_seen *seen, void *user)
{
    *(int *)user += seen->what == FOLD_SEEN_CALL && !strcmp(seen->name, "copy");
    return 0;
}
static int border_copies(const net *n, fold_cell cell, int twins, int training, int eager, float *grads)
{
    fold_ctx *f = context(n, training, eager, FOLD_SCHEDULE_RATIO, 0);
    const fold_node x = fold_lookup(f, n->embed, 3), z = fold_lookup(f, n->embed, 4);
    fold_node y = fold_tanh(f, fold_linear(f, x, n->W, n->b)), parts[9];
    int copies = 0;
    for (int i = 0; i < 3; i++) { /* y has contributions of three calls, and of others between */
        const fold_node in[2] = { y, twins ? y : z }, call = fold_call(f, cell, in, 2);
        parts[3 * i] = fold_sum(f, fold_mul(f, fold_out(f, call, 0), fold_scale(f, y, 1.1f + (float)i)), FOLD_ALL);
        parts[3 * i + 1] = fold_sum(f, fold_mul(f, fold_out(f, call, 1), fold_out(f, call, 0)), FOLD_ALL);
        parts[3 * i + 2] = fold_sum(f, fold_tanh(f, fold_out(f, call, 1)), FOLD_ALL);
    }
    const fold_node loss = fold_sum_n(f, parts, 9);
    fold_grads_clear(n->m);
    CHECK_INT(training ? fold_backward(f, loss) : fold_run(f, &loss, 1), FOLD_OK);
    grads[0] = fold_scalar(f, loss);
    if (training) memcpy(grads + 1, fold_param_grad(n->m, n->W), H * H * sizeof *grads);
    if (eager) CHECK_INT(fold_ctx_visit(f, count_copies, &copies), FOLD_OK);
    fold_ctx_free(f);
    return copies;
}
static void eager_borders(void)
{
    static const int want[BODIES][2] = { { 0, 0 }, { 1, 2 }, { 1, 2 }, { 0, 2 }, { 1, 1 } }; /* apart, twins */
    float grads[2][H * H + 1];
    net n;
    net_new(&n);
    for (int kind = 0; kind < BODIES; kind++) {
        fold_cell_desc d = cell_desc("border", border_body, &kind, 2, 0, 2);
        d.user_size = sizeof kind;
        const fold_cell cell = fold_cell_new(n.m, &d);
        for (int twins = 0; twins < 2; twins++)
            for (int training = 0; training < 2; training++) {
                CHECK_INT(border_copies(&n, cell, twins, training, 1, grads[0]), training ? 3 * want[kind][twins] : 0);
                border_copies(&n, cell, twins, training, 0, grads[1]);
                CHECK_BITS(grads[0], grads[1], training ? H * H + 1 : 1);
            }
    }
    fold_model_free(n.m);
}

/* A body sees an input that was joined outside as one value, as it did when traced. */
static void joined_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_linear(f, in[0], n->W, n->b);
}
static void joined_outside(void)
{
    float value[2][H];
    net n;
    net_new(&n);
    const fold_cell_desc d = cell_desc("joined", joined_body, &n, 1, 0, 1);
    const fold_cell cell = fold_cell_new(n.m, &d);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 0, eager, FOLD_SCHEDULE_RATIO, 0);
        const float x[H] = { .1f, -.7f, .3f, .9f, -.2f, .6f, .5f, -.4f };
        const fold_node joined = fold_concat2(f, fold_input(f, x, 3), fold_input(f, x + 3, H - 3)), y = fold_call(f, cell, &joined, 1);
        CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        CHECK_SAYS(fold_value(f, y) != NULL, "%s", fold_ctx_message(f));
        if (fold_value(f, y)) memcpy(value[eager], fold_value(f, y), sizeof value[eager]);
        fold_ctx_free(f);
    }
    CHECK_BITS(value[0], value[1], H);
    fold_model_free(n.m);
}

/* What a body reads in an eager call is what it read when traced. */
static int reads_other;
static fold_node from_outside;
static void fickle_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    const fold_node first = fold_tanh(f, reads_other == 1 ? in[1] : reads_other == 2 ? from_outside : in[0]);
    const fold_node second = fold_sigmoid(f, in[1]);
    out[0] = fold_sub(f, first, reads_other == 3 ? first : reads_other == 4 ? in[1] : second);
}
static void fickle_bodies(void)
{
    const float x[2][H] = { { 1, 2 }, { 3 } };
    net n;
    net_new(&n);
    reads_other = 0;
    const fold_cell_desc d = cell_desc("fickle", fickle_body, NULL, 2, 0, 1);
    const fold_cell cell = fold_cell_new(n.m, &d);
    for (int way = 0; way < 10; way++) {
        fold_ctx *f = context(&n, way & 1, 1, FOLD_SCHEDULE_RATIO, 0);
        const fold_node one = fold_input(f, x[0], H), two = fold_input(f, x[1], H), in[2] = { one, two };
        from_outside = fold_input(f, x[0], H);
        reads_other = 0;
        fold_call(f, cell, in, 2);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
        reads_other = way / 2;
        fold_call(f, cell, in, 2);
        CHECK_INT(fold_ctx_status(f), reads_other ? FOLD_BAD_CELL : FOLD_OK);
        if (reads_other) CHECK_TEXT(fold_ctx_message(f), "has different operands or attributes than when traced");
        fold_ctx_free(f);
    }
    reads_other = 0;
    fold_model_free(n.m);
}

/* Parameters and rows of tables as inputs of a call, whose body does not know that they are. */
static void turned_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_matmul(f, in[0], in[1]);
}
static void given_parameters(void)
{
    static const int rows[4] = { 7, 2, 30, 11 };
    static const float x[H] = { 1, 2, -3 };
    float value[2][2 * H];
    net n;
    net_new(&n);
    fold_cell_desc d = cell_desc("turned", turned_body, NULL, 2, 0, 1);
    d.in[0] = fold_shape2(1, H);
    d.in[1] = fold_shape2(H, H);
    const fold_cell cell = fold_cell_new(n.m, &d);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx *f = context(&n, 0, eager, FOLD_SCHEDULE_RATIO, 0);
        const fold_node row = fold_input_shaped(f, x, fold_shape2(1, H)), matrix = fold_use(f, n.W), in[2] = { row, matrix };
        const fold_node list = fold_list_lookup(f, n.embed, rows, 4);
        const fold_node product = fold_call(f, cell, in, 2), most = fold_call_list(f, n.list_max, NULL, 0, &list);
        const fold_node root[2] = { product, most };
        CHECK_INT(fold_run(f, root, 2), FOLD_OK);
        for (int i = 0; i < 2 && !fold_ctx_status(f); i++) memcpy(value[eager] + i * H, fold_value(f, root[i]), H * sizeof(float));
        fold_ctx_free(f);
    }
    CHECK_BITS(value[1], value[0], 2 * H);
    fold_model_free(n.m);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*test)(void); } tests[] = {
        { "engine: lower bound", lower_bound },
        { "engine: budgets and schedules", budgets_and_schedules },
        { "engine: chains", chains },
        { "engine: list lengths", list_lengths },
        { "engine: training programs keep groups", programs },
        { "engine: groups hold rows", groups_hold_rows },
        { "engine: groups beyond the budget", groups_beyond_the_budget },
        { "engine: groups are of about one size", groups_are_even },
        { "engine: memory is reused", memory_is_reused },
        { "rows of a chain are used again", chains_use_rows_again },
        { "engine: several roots", several_roots },
        { "engine: more recording after a run", more_recording },
        { "engine: runs of what is new", runs_of_what_is_new },
        { "engine: recomputed nodes", recomputed_nodes },
        { "engine: changed parameters", changed_parameters },
        { "engine: kept nodes after a change of parameters", kept_after_a_change },
        { "engine: a run after freezing", run_after_freezing },
        { "engine: evaluation between steps", evaluation_between_steps },
        { "engine: kept nodes", kept_nodes },
        { "engine: kept gradients of concatenations", kept_concatenations },
        { "engine: concatenations kept between", concatenations_kept_between },
        { "engine: products by windows of a parameter", products_by_windows },
        { "engine: roots that are windows", roots_that_are_windows },
        { "engine: kept zeros", kept_zeros },
        { "engine: calls behind stopped gradients", stopped_calls },
        { "engine: merged calls that are kept", merged_and_kept },
        { "engine: unkept nodes", unkept_nodes },
        { "engine: merged calls", merged_calls },
        { "engine: merged calls and kept plans", merged_plans },
        { "engine: merged products", merged_products },
        { "engine: merged calls, exactly", merged_exactly },
        { "engine: merged words and other inputs", merged_words_and_others },
        { "engine: merged calls as shared operands", merged_shared },
        { "engine: merged calls in a block", merged_in_a_block },
        { "engine: a recurrent layer of one's own", own_recurrent },
        { "engine: words of tables made before layers and after", words_of_later_tables },
        { "engine: signs of zero", signs_of_zero },
        { "engine: a bias trains alone", bias_alone },
        { "engine: the first call again", first_call_anew },
        { "engine: a list op of one's own", own_list_op },
        { "engine: ops of two outputs on elements", two_outputs_of_elements },
        { "engine: copies in eager calls", eager_borders },
        { "engine: joined outside of a body", joined_outside },
        { "engine: bodies that read something else", fickle_bodies },
        { "engine: parameters and tables given to calls", given_parameters },
        { "engine: one output that nothing reads", one_output_unread },
        { "engine: lookups in order", lookups_in_order },
        { "engine: empty lists only", empty_lists_only },
        { "engine: lists of nothing first", nothing_first },
        { "engine: weights used often", weights_used_often },
        { "engine: unmerged dropout", unmerged_dropout },
        { "engine: each mistake", each_mistake },
        { "engine: stale handles", stale_handles },
        { "engine: wrong roots", wrong_roots },
        { "engine: null pointers", null_pointers },
        { "engine: errors in the model", model_errors },
        { "engine: bodies that change", bodies_that_change },
        { "engine: what is known of signatures", known_signatures },
        { "engine: kept stages", kept_stages },
        { "engine: what kept stages read moves", moved_stages },
        { "engine: a large cell", large_cell },
        { "engine: shared windows", shared_windows },
        { "engine: dropped plans", dropped_plans },
        { "engine: plans told apart", plans_told_apart },
        { "engine: partly used values", partly_used },
        { "engine: many signatures", many_signatures },
        { "engine: mixed networks", mixed_networks },
        { "engine: many names", many_names },
    };
    check_start(argc, argv);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) check_run(tests[i].name, tests[i].test);
    check_run("engine: plans of equal hashes", plans_of_equal_hashes);
    check_run("engine: a leaf of a sample and of the tail", leaf_of_sample_and_tail);
    check_run("engine: parts of leaves in groups", parts_of_leaves_in_groups);
    check_run("engine: parameters as rows", parameters_as_rows);
    return check_finish();
}
