/* test_record.c - recordings as files (examples/fold_record.h): round trips of every op, cells and lists, what is refused, and files
   that lie.

     cc -O2 -o test_record tests/test_record.c -lm && ./test_record */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <stdlib.h>

/* The memory of the companion, which ends before allocation `allocations_left`; -1: it never does. */
static long allocations_left = -1;
static int memory_ends(void) { return allocations_left >= 0 && allocations_left-- == 0; }
static void *ending_malloc(size_t size) { return memory_ends() ? NULL : malloc(size); }
static void *ending_calloc(size_t n, size_t size) { return memory_ends() ? NULL : calloc(n, size); }
static void *ending_realloc(void *old, size_t size) { return memory_ends() ? NULL : realloc(old, size); }
#define malloc ending_malloc
#define calloc ending_calloc
#define realloc ending_realloc
#define FOLD_RECORD_IMPLEMENTATION
#include "../examples/fold_record.h"
#undef malloc
#undef calloc
#undef realloc
#include "check.h"
#define MAX_SAMPLES 4
#include "op_table.h"

typedef struct text { char *bytes; size_t size, room; } text;

static int append(const void *bytes, size_t size, void *user)
{
    text *t = (text *)user;
    if (t->size + size + 1 > t->room) {
        t->room = 2 * (t->size + size) + 4096;
        t->bytes = (char *)realloc(t->bytes, t->room);
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    t->bytes[t->size] = 0;
    return 0;
}
static text nothing(void)
{
    const text t = { NULL, 0, 0 };
    return t;
}

/* What a context prints of its plan. The line of leaves goes, since those that no call reads are not written, and references have
   become values. */
static text plan_of(fold_ctx *f)
{
    text t = nothing();
    fold_ctx_print(f, append, &t);
    for (char *at = t.bytes; (at = strstr(at, "input_ref")) != NULL;) memmove(at + 5, at + 9, strlen(at + 9) + 1);
    char *leaves = strstr(t.bytes, "leaves: "), *end = leaves ? strchr(leaves, '\n') : NULL;
    if (end) memmove(leaves, end + 1, strlen(end));
    return t;
}
static int same_plan(fold_ctx *f, fold_ctx *g)
{
    text one = plan_of(f), other = plan_of(g);
    const int same = !strcmp(one.bytes, other.bytes);
    if (!same && check.verbose) printf("%s\n---- played:\n%s\n", one.bytes, other.bytes);
    free(one.bytes);
    free(other.bytes);
    return same;
}

/* Plays what was written: the hashes, bits of all ways, and the plan must be those of the recording. */
static void plays_the_same(const char *name, fold_ctx *f, const text *t)
{
    fold_record_result result;
    fold_record *r = fold_record_read(t->bytes, t->size, &result);
    if (!CHECK_SAYS(r != NULL, "%s: %s", name, result.message)) {
        if (check.verbose) printf("%s\n", t->bytes);
        return;
    }
    const fold_record_about about = fold_record_describe(r);
    result = fold_record_compare(r, NULL, -1);
    CHECK_SAYS(!result.status && !result.differ && result.values, "%s, eager: %d values, %d differ: %s", name, result.values, result.differ, result.message);
    for (int way = 0; way < 3; way++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.schedule = way == 1 ? FOLD_SCHEDULE_DEPTH : FOLD_SCHEDULE_RATIO;
        desc.dedupe = way == 2;
        result = fold_record_compare(r, &desc, -1);
        CHECK_SAYS(!result.status && !result.differ && result.values, "%s, way %d: %d values, %d differ: %s", name, way, result.values, result.differ, result.message);
    }
    const fold_ctx_desc alone = fold_ctx_desc_default();
    for (int sample = 0; sample < (about.samples ? about.samples : about.outputs); sample++) {
        result = fold_record_compare(r, &alone, sample);
        CHECK_SAYS(!result.status && !result.differ, "%s, sample %d: %s", name, sample, result.message);
    }
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = about.training;
    fold_ctx *g = fold_ctx_new(fold_record_model(r), &desc);
    fold_node root[64];
    int n = 0;
    result = fold_record_play(r, g, -1);
    for (; n < about.outputs && n < 64; n++) root[n] = fold_record_output(r, n);
    CHECK_SAYS(!fold_run(g, root, n) && (!strcmp(about.schedule, "eager") || same_plan(f, g)), "%s: the plan differs", name);
    fold_ctx_free(g);
    fold_record_free(r);
}

/* Writes a recording whose values `root` have been run, and plays it. */
static void round_trip(const char *name, fold_ctx *f, const fold_node *root, int n, const fold_node *loss)
{
    text t = nothing();
    fold_record_desc desc = fold_record_desc_default();
    desc.outputs = root;
    desc.n_outputs = n;
    desc.losses = loss;
    desc.n_losses = loss != NULL;
    fold_status status = fold_run(f, root, n);
    CHECK_SAYS(!status, "%s: %s", name, fold_ctx_message(f));
    const fold_record_result result = fold_record_write(f, &desc, append, &t);
    if (CHECK_SAYS(!result.status, "%s: %s", name, result.message)) plays_the_same(name, f, &t);
    free(t.bytes);
}

/* ---- every op, as in op_table.h ---------------------------------------------------------------- */

static void one_case(op_case *c, int how, int eager)
{
    static leaves leaf;
    fold_node out[MAX_SAMPLES + 1], sum[MAX_SAMPLES];
    char name[200];
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc desc = fold_ctx_desc_default();
    fill(c);
    add_params(c, m);
    snprintf(name, sizeof name, "%s%s%s", c->row->name, how & IN_CELL ? " in a cell" : "", eager ? ", eager" : "");
    desc.training = 1;
    desc.eager = eager;
    if (!(how & IN_CELL) || make_cell(c, m)) {
        fold_ctx *f = fold_ctx_new(m, &desc);
        record_operands(f, c, 1, 0, how, leaf);
        for (int s = 0; s < MAX_SAMPLES; s++) {
            choose_sample(c, s, how);
            record_operands(f, c, 0, s, how, leaf);
            out[s] = record_case(f, c, how);
            sum[s] = fold_sum(f, out[s], FOLD_ALL);
        }
        out[MAX_SAMPLES] = fold_sum_n(f, sum, MAX_SAMPLES);
        if (c->row->user) {
            text t = nothing();
            fold_run(f, out, MAX_SAMPLES + 1);
            const fold_record_result result = fold_record_write(f, NULL, append, &t);
            CHECK_SAYS(result.status && strstr(result.message, "cannot be written: the code of a user-defined op"), "%s: %s", name, result.message);
            free(t.bytes);
        } else round_trip(name, f, out, MAX_SAMPLES + 1, &out[MAX_SAMPLES]);
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

static void every_op(void)
{
    static op_case c;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (int spec = 0; rows[row].specs[spec]; spec++) {
            parse(&c, &rows[row], rows[row].specs[spec]);
            if (c.stride > 3000) continue;
            one_case(&c, spec % 2 ? WINDOWS : 0, 0);
            if (spec < 3) {
                one_case(&c, IN_CELL | (spec % 2 ? 0 : WINDOWS), 0);
                one_case(&c, spec % 2 ? IN_CELL : 0, 1);
            }
        }
}

/* ---- lists ----------------------------------------------------------------------------------- */

enum { WIDE = 4, ROWS = 6 };
typedef struct net { fold_model *m; fold_param W, b, table, line, dilated, separate; fold_dense dense; fold_cell pair, weighed; } net;
typedef struct recording { fold_ctx *f; net n; fold_node x, y, scores, lookups, node; int rows; } recording;
typedef fold_node calls(const recording *r);

static const int index_of[ROWS + 2] = { 2, 0, 1, 1, 0, 2, 1, 0 }, to[ROWS + 2] = { 1, 0, 2, 2, 1, 0, 0, 1 }, in_order[ROWS + 2] = { 0, 0, 1, 2, 2, 2, 2, 2 };

static void pair_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node sum = fold_linear_n(f, in, 2, n->W, n->b);
    out[0] = fold_tanh(f, fold_slice(f, sum, 0, 1, WIDE - 1));
    out[1] = sum;
    out[2] = fold_use(f, n->b);
}
/* A cell with a list of two components: its product has inputs that are the same for all elements, and others. */
static void weighed_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node both[2] = { in[0], in[1] };
    const fold_node gate = fold_sigmoid(f, fold_linear_n(f, both, 2, n->W, n->b));
    out[0] = fold_list_softmax_mean(f, in[2], fold_mul(f, gate, fold_dropout(f, in[1], 0.5f)));
    out[1] = fold_add(f, out[0], fold_list_max(f, in[1]));
}
static fold_cell new_cell(net *n, const char *name, fold_cell_body *body, int n_in, int n_list, int n_out)
{
    fold_cell_desc d = fold_cell_desc_default();
    d.name = name;
    d.body = body;
    d.user = n;
    d.user_size = sizeof *n;
    d.n_in = n_in;
    d.n_list = n_list;
    d.n_out = n_out;
    for (int i = 0; i < n_in; i++) d.in[i] = fold_shape1(WIDE);
    d.list[0] = fold_shape1(WIDE);
    d.list[1] = fold_shape1(1);
    return fold_cell_new(n->m, &d);
}
static net new_net(void)
{
    net n;
    n.m = fold_model_new(NULL);
    n.W = fold_weight_new(n.m, "W", 2 * WIDE, WIDE);
    n.b = fold_gain_new(n.m, "b # ;%", WIDE);
    n.table = fold_table_new(n.m, "words", 9, WIDE);
    n.line = fold_filter_new(n.m, "line", fold_shape3(3, WIDE, 5));
    n.dilated = fold_filter_new(n.m, "dilated", fold_shape3(3, WIDE, 1));
    n.separate = fold_filter_new(n.m, "separate", fold_shape3(2, 1, WIDE));
    n.dense = fold_dense_new(n.m, "dense", WIDE, 3, FOLD_ACT_RELU);
    n.pair = new_cell(&n, "pair", pair_body, 2, 0, 3);
    n.weighed = new_cell(&n, "weighed", weighed_body, 1, 2, 2);
    return n;
}

#define LISTED(name, call) static fold_node call_##name(const recording *r) { return call; }
LISTED(take, fold_list_take(r->f, r->x, index_of, 5))
LISTED(few_of_many, fold_list_take(r->f, fold_list_take(r->f, r->x, index_of, 5), index_of, 1))
LISTED(join, fold_list_join(r->f, &r->x, 2))
LISTED(one_list, fold_list_join(r->f, &r->lookups, 1))
LISTED(at, fold_list_at(r->f, fold_tanh(r->f, r->x), -1))
LISTED(part_of_row, fold_exp(r->f, fold_slice(r->f, fold_list_at(r->f, fold_tanh(r->f, r->x), 1), 0, 1, 2)))
LISTED(looked_up_row, fold_exp(r->f, fold_list_at(r->f, r->lookups, 1)))
LISTED(stack, fold_exp(r->f, fold_slice(r->f, fold_list_stack(r->f, fold_tanh(r->f, r->x)), 0, 1, 2)))
LISTED(stacked_lookups, fold_exp(r->f, fold_list_stack(r->f, r->lookups)))
LISTED(unstack, fold_exp(r->f, fold_list_unstack(r->f, fold_list_stack(r->f, r->x))))
LISTED(node_less_list, fold_sub(r->f, r->node, r->x))
LISTED(list_less_node, fold_sub(r->f, r->x, r->node))
LISTED(two_lists, fold_select(r->f, r->x, r->node, r->y))
LISTED(part_of_rows, fold_sub(r->f, fold_slice(r->f, r->x, 0, 1, 2), fold_slice(r->f, r->y, 0, 2, 2)))
LISTED(halves, fold_reshape(r->f, fold_softmax(r->f, fold_reshape(r->f, r->x, fold_shape2(2, 2))), fold_shape1(WIDE)))
LISTED(sum, fold_list_sum(r->f, r->x))
LISTED(mean, fold_list_mean(r->f, fold_slice(r->f, r->x, 0, 1, 2)))
LISTED(max, fold_list_max(r->f, r->x))
LISTED(softmax_mean, fold_list_softmax_mean(r->f, r->scores, r->x))
LISTED(standardize, fold_list_standardize(r->f, r->x, 0))
LISTED(sum_to, fold_list_sum_to(r->f, r->x, to, r->rows, 4))
LISTED(mean_to, fold_list_mean_to(r->f, r->x, in_order, r->rows, 3))
LISTED(max_to, fold_list_max_to(r->f, r->x, to, r->rows, 3))
LISTED(softmax_mean_to, fold_list_softmax_mean_to(r->f, r->scores, r->x, to, r->rows, 5))
LISTED(softmax, fold_list_softmax(r->f, r->x))
LISTED(log_softmax, fold_list_log_softmax(r->f, r->scores))
LISTED(logsumexp, fold_list_logsumexp(r->f, r->x))
LISTED(entropy, fold_list_softmax_entropy(r->f, r->scores))
LISTED(choice, fold_list_choice_xent(r->f, r->scores, 2))
LISTED(softmax_to, fold_list_softmax_to(r->f, r->x, to, r->rows, 3))
LISTED(log_softmax_to, fold_list_log_softmax_to(r->f, r->x, in_order, r->rows, 7))
LISTED(logsumexp_to, fold_list_logsumexp_to(r->f, r->x, to, r->rows, 4))
LISTED(entropy_to, fold_list_softmax_entropy_to(r->f, r->x, to, r->rows, 3))
static fold_node call_choice_to(const recording *r)
{
    static const int label[3] = { 1, 4, 2 }, sorted[3] = { 0, 2, 3 };
    const fold_node a = fold_list_choice_xent_to(r->f, r->scores, label, to, r->rows, 3);
    return fold_add(r->f, a, fold_list_choice_xent_to(r->f, r->scores, sorted, in_order, r->rows, 3));
}
LISTED(attention, fold_list_attention(r->f, r->x, r->y, r->y, 2, 0))
LISTED(causal, fold_list_attention(r->f, r->x, r->y, r->x, 2, 1))
LISTED(one_query, fold_list_attention(r->f, r->node, r->lookups, r->y, 1, 0))
LISTED(edges, fold_list_attention_to(r->f, r->x, r->y, r->x, 2, index_of, to, ROWS))
LISTED(weights, fold_list_attention_weights(r->f, r->x, r->y, 2, 1))
LISTED(weights_to, fold_list_attention_weights_to(r->f, r->x, r->y, 2, index_of, in_order, 4))
LISTED(conv, fold_conv1d(r->f, r->x, r->n.line, FOLD_NULL_PARAM, NULL))
static fold_node call_convs(const recording *r)
{
    const fold_conv_desc wide = { 1, 2, 2, 0 }, apart = { 2, 1, 1, 1 }, narrow = { 1, 0, 1, 0 };
    const fold_node a = fold_conv1d(r->f, r->x, r->n.line, FOLD_NULL_PARAM, &wide), b = fold_conv1d(r->f, r->lookups, r->n.separate, r->n.b, &apart);
    const fold_node c = fold_conv1d(r->f, r->x, r->n.dilated, FOLD_NULL_PARAM, &wide), d = fold_conv1d(r->f, fold_list_take(r->f, r->x, to, 2), r->n.line, FOLD_NULL_PARAM, &narrow);
    const fold_node sums[3] = { fold_sum(r->f, fold_list_sum(r->f, a), 0), fold_sum(r->f, fold_list_sum(r->f, fold_exp(r->f, b)), 0), fold_sum(r->f, fold_list_sum(r->f, c), 0) };
    return fold_add(r->f, fold_sum_n(r->f, sums, 3), fold_sum(r->f, fold_list_sum(r->f, d), 0));
}
LISTED(pools, fold_add(r->f, fold_max_pool1d(r->f, r->x, 2, 1, 1), fold_mean_pool1d(r->f, r->y, 2, 1, 1)))
LISTED(each, fold_pick_each(r->f, r->x, index_of, r->rows))
LISTED(xent_each, fold_softmax_xent_each(r->f, r->x, index_of, r->rows))
LISTED(hinge_each, fold_hinge_each(r->f, r->x, index_of, r->rows))
LISTED(same_label, fold_softmax_xent(r->f, r->x, 3))
LISTED(dense, fold_dense_apply(r->f, &r->n.dense, r->x))
LISTED(norm, fold_rms_norm(r->f, r->x, r->n.b, 0))
LISTED(positions, fold_exp(r->f, fold_list_positions(r->f, r->n.table, 3, 4)))
LISTED(dropouts, fold_add(r->f, fold_dropout(r->f, r->x, 0.25f), fold_dropout(r->f, r->x, 0.5f)))
static fold_node call_pairs(const recording *r)
{
    const fold_node lists[2] = { r->x, r->y }, mixed[2] = { r->node, r->x }, other[2] = { r->x, r->node };
    const fold_node a = fold_call(r->f, r->n.pair, lists, 2), b = fold_call(r->f, r->n.pair, mixed, 2), c = fold_call(r->f, r->n.pair, other, 2);
    const fold_node sum = fold_add(r->f, fold_out(r->f, a, 1), fold_out(r->f, c, 1));
    return fold_add(r->f, fold_add(r->f, sum, fold_out(r->f, b, 2)), fold_sum(r->f, fold_list_sum(r->f, b), 0));
}
static fold_node call_elements(const recording *r)
{
    const fold_node lists[2] = { r->x, r->scores };
    fold_node element[6];
    for (int i = 0; i < 3; i++) {
        element[2 * i] = i ? fold_list_at(r->f, r->x, i) : fold_lookup(r->f, r->n.table, 5);
        element[2 * i + 1] = fold_list_at(r->f, r->scores, i);
    }
    const fold_node a = fold_call_list(r->f, r->n.weighed, &r->node, 1, lists), b = fold_call_n(r->f, r->n.weighed, &r->node, 1, element, 3);
    return fold_sub(r->f, fold_out(r->f, a, 1), fold_out(r->f, b, 0));
}
static fold_node call_of_nodes(const recording *r)
{
    fold_node element[3], score[3];
    for (int i = 0; i < 3; i++) {
        element[i] = i ? fold_lookup(r->f, r->n.table, i) : fold_use(r->f, r->n.b);
        score[i] = fold_list_at(r->f, r->scores, i);
    }
    const fold_node a = fold_softmax_mean_n(r->f, score, element, 3), b = fold_list_sum(r->f, fold_list_join(r->f, element, 3)), both[2] = { a, b };
    return fold_max_n(r->f, both, 2);
}

static const struct { const char *name; calls *call; } listed[] = {
#define ROW_OF(name) { #name, call_##name },
    ROW_OF(take) ROW_OF(few_of_many) ROW_OF(join) ROW_OF(one_list) ROW_OF(at) ROW_OF(part_of_row) ROW_OF(looked_up_row) ROW_OF(stack) ROW_OF(stacked_lookups) ROW_OF(unstack)
    ROW_OF(node_less_list) ROW_OF(list_less_node) ROW_OF(two_lists) ROW_OF(part_of_rows) ROW_OF(halves) ROW_OF(sum) ROW_OF(mean) ROW_OF(max) ROW_OF(softmax_mean)
    ROW_OF(standardize) ROW_OF(sum_to) ROW_OF(mean_to) ROW_OF(max_to) ROW_OF(softmax_mean_to) ROW_OF(softmax) ROW_OF(log_softmax) ROW_OF(logsumexp) ROW_OF(entropy)
    ROW_OF(choice) ROW_OF(softmax_to) ROW_OF(log_softmax_to) ROW_OF(logsumexp_to) ROW_OF(entropy_to) ROW_OF(choice_to) ROW_OF(attention) ROW_OF(causal) ROW_OF(one_query)
    ROW_OF(edges) ROW_OF(weights) ROW_OF(weights_to) ROW_OF(conv) ROW_OF(convs) ROW_OF(pools) ROW_OF(each) ROW_OF(xent_each) ROW_OF(hinge_each) ROW_OF(same_label)
    ROW_OF(dense) ROW_OF(norm) ROW_OF(positions) ROW_OF(dropouts) ROW_OF(pairs) ROW_OF(elements) ROW_OF(of_nodes)
};
enum { LISTED_CALLS = sizeof listed / sizeof *listed };

/* The inputs of one sample: lists of 5 to 7 rows. */
static recording record_inputs(fold_ctx *f, const net *n, int sample)
{
    static float x[2][(ROWS + 2) * WIDE];
    static const int words[ROWS + 2] = { 1, 8, 0, 1, 3, 3, 2, 7 };
    check_random random = { (uint64_t)(sample + 1) };
    recording r;
    memset(&r, 0, sizeof r);
    r.f = f;
    r.n = *n;
    r.rows = ROWS - 1 + sample % 3;
    for (int i = 0; i < 2; i++) random_fill(&random, x[i], (ROWS + 2) * WIDE, -1, 1);
    r.x = fold_list_input(f, x[0], r.rows, fold_shape1(WIDE));
    r.y = fold_list_input(f, x[1], r.rows, fold_shape1(WIDE));
    r.scores = fold_list_input(f, x[1], r.rows, fold_shape1(1));
    r.lookups = fold_list_lookup(f, n->table, words, r.rows);
    r.node = fold_input(f, x[0] + sample, WIDE);
    return r;
}

static fold_node summed(fold_ctx *f, fold_node x)
{
    return fold_sum(f, fold_list_length(f, x) < 0 ? x : fold_list_sum(f, x), FOLD_ALL);
}

static void lists_with(int eager, int training)
{
    for (int k = 0; k < LISTED_CALLS; k++) {
        const net n = new_net();
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = training;
        desc.eager = eager;
        fold_ctx *f = fold_ctx_new(n.m, &desc);
        fold_node out[4], part[3];
        fold_dropout_seed(f, 5);
        for (int s = 0; s < 3; s++) {
            const recording r = record_inputs(f, &n, s);
            out[s] = listed[k].call(&r);
            part[s] = summed(f, out[s]);
        }
        out[3] = fold_sum_n(f, part, 3);
        round_trip(listed[k].name, f, out, 4, training ? &out[3] : NULL);
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}
static void trained_lists(void) { lists_with(0, 1); }
static void lists_for_inference(void) { lists_with(0, 0); }
static void eager_lists(void) { lists_with(1, 1); }

/* ---- layers ---------------------------------------------------------------------------------- */

static void layers_in(const fold_ctx_desc *desc)
{
    const net n = new_net();
    fold_rnn_stack stack = fold_rnn_stack_new(n.m, "stack", fold_lstm_new, WIDE, WIDE, 2, 1);
    fold_recurrent gru = fold_gru_new(n.m, "gru", WIDE, WIDE);
    fold_child_sum tree = fold_child_sum_new(n.m, "tree", WIDE, WIDE);
    fold_transformer_desc layer_desc = fold_transformer_desc_default();
    fold_transformer layer[1];
    layer_desc.width = WIDE;
    layer_desc.heads = 2;
    layer_desc.dropout = 0.25f;
    const fold_encoder encoder = fold_encoder_new(n.m, "encoder", layer, 1, &layer_desc, 1);
    fold_ctx *f = fold_ctx_new(n.m, desc);
    fold_node out[13], part[3][4], loss[3];
    for (int s = 0; s < 3; s++) {
        const recording r = record_inputs(f, &n, s);
        fold_state last;
        out[4 * s] = fold_unroll_stack_list(f, &stack, r.lookups, NULL, NULL);
        fold_unroll_list(f, &gru, r.x, 1, NULL, &last);
        out[4 * s + 1] = last.h;
        fold_state child[3];
        for (int i = 0; i < 3; i++) child[i] = fold_child_sum_apply(f, &tree, fold_list_at(f, r.lookups, i), NULL, 0);
        out[4 * s + 2] = fold_child_sum_apply(f, &tree, fold_use(f, n.b), child, 1 + s).h;
        out[4 * s + 3] = fold_encoder_apply(f, &encoder, r.x, s == 1);
        for (int i = 0; i < 4; i++) part[s][i] = summed(f, out[4 * s + i]);
        loss[s] = fold_sum_n(f, part[s], 4);
    }
    out[12] = fold_mean_n(f, loss, 3);
    round_trip("layers", f, out, 13, desc->training ? &out[12] : NULL);
    fold_ctx_free(f);
    fold_model_free(n.m);
}
static void all_layers(void)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    layers_in(&desc);
    desc.training = 1;
    layers_in(&desc);
    desc.eager = 1;
    layers_in(&desc);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A recording of everything that a file may hold. */
static fold_ctx *record_everything(net *n, fold_node *loss)
{
    *n = new_net();
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    fold_ctx *f = fold_ctx_new(n->m, &desc);
    fold_node part[LISTED_CALLS];
    for (int k = 0; k < LISTED_CALLS; k++) {
        const recording r = record_inputs(f, n, 0);
        part[k] = summed(f, listed[k].call(&r));
    }
    *loss = fold_sum_n(f, part, LISTED_CALLS);
    fold_run(f, loss, 1);
    return f;
}
static text everything(void)
{
    net n;
    fold_node loss;
    text t = nothing();
    fold_ctx *f = record_everything(&n, &loss);
    fold_record_desc written = fold_record_desc_default();
    written.losses = &loss;
    written.n_losses = 1;
    const fold_record_result result = fold_record_write(f, &written, append, &t);
    CHECK_SAYS(!result.status, "%s", result.message);
    fold_ctx_free(f);
    fold_model_free(n.m);
    return t;
}

/* A recording of one loss and its product. */
static text trained_product(void)
{
    text t = nothing();
    const net n = new_net();
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    fold_ctx *f = fold_ctx_new(n.m, &desc);
    const recording r = record_inputs(f, &n, 0);
    const fold_node y = fold_tanh(f, fold_dense_apply(f, &n.dense, r.node)), loss = fold_sum(f, y, 0);
    fold_record_desc written = fold_record_desc_default();
    written.losses = &loss;
    written.n_losses = 1;
    CHECK(!fold_run(f, &loss, 1) && !fold_record_write(f, &written, append, &t).status);
    fold_ctx_free(f);
    fold_model_free(n.m);
    return t;
}

/* Reads, and plays if it can be read. */
static fold_record_result try_file(const char *bytes, size_t size)
{
    fold_record_result result;
    fold_record *r = fold_record_read(bytes, size, &result);
    CHECK((r == NULL) == (result.status != FOLD_OK) && (!result.status || result.message[0]));
    if (r) result = fold_record_compare(r, NULL, -1);
    if (r && !result.status) {
        const fold_ctx_desc desc = fold_ctx_desc_default();
        const fold_record_result batched = fold_record_compare(r, &desc, -1);
        CHECK_SAYS(!batched.differ, "%s", batched.message);
    }
    fold_record_free(r);
    return result;
}

static void hostile(void)
{
    static const char digits[] = "0123456789*+x-; \n", *const numbers[] = { "0", "1", "-1", "7", "2147483647", "4294967295", "99999999999999999999", "1x1", "4x4x4x4", "1*", "ffffffff" };
    check_random random = { 11 };
    const text t = everything();
    char *bytes = (char *)malloc(2 * t.size + 64);
    int read = 0;
    for (int turn = 0; turn < 1500; turn++) {
        size_t size = t.size, at = (size_t)random_below(&random, (int)size), count = (size_t)random_below(&random, 40);
        memcpy(bytes, t.bytes, size);
        count = count < size - at ? count : size - at;
        switch (turn % 5) {
        case 0: bytes[at] = digits[random_below(&random, (int)sizeof digits - 1)]; break;
        case 1: bytes[at] = (char)random_below(&random, 256); break;
        case 2: memmove(bytes + at, bytes + at + count, size - at - count), size -= count; break;
        case 3: memmove(bytes + at + count, bytes + at, size - at), size += count; break;
        default: { /* another number in place of a word */
            const char *number = numbers[random_below(&random, (int)(sizeof numbers / sizeof *numbers))];
            while (at && bytes[at - 1] != ' ') at--;
            for (count = 0; at + count < size && bytes[at + count] > ' ';) count++;
            memmove(bytes + at + strlen(number), bytes + at + count, size - at - count);
            memcpy(bytes + at, number, strlen(number));
            size = size + strlen(number) - count;
        }
        }
        read += !try_file(bytes, size).status;
    }
    for (size_t size = 0; size < t.size; size += t.size / 40) CHECK(try_file(t.bytes, size).status == FOLD_BAD_ARGUMENT);
    CHECK_SAYS(read > 30, "only %d files of 1500 can still be played", read);
    free(bytes);
    free(t.bytes);
}

/* Every allocation fails once: while writing, reading, and comparing. */
static void no_memory(void)
{
    net n;
    fold_node loss;
    fold_ctx *f = record_everything(&n, &loss);
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_record_result result, batched;
    fold_record *r;
    text t = everything();
    int failed = 1;
    for (long k = 0; failed; k++) {
        text other = nothing();
        allocations_left = k;
        result = fold_record_write(f, NULL, append, &other);
        failed = allocations_left < 0;
        allocations_left = -1;
        CHECK_INT(result.status, failed ? FOLD_NO_MEMORY : FOLD_OK);
        free(other.bytes);
    }
    failed = 1;
    for (long k = 0; failed; k++) {
        allocations_left = k;
        r = fold_record_read(t.bytes, t.size, &result);
        failed = allocations_left < 0;
        allocations_left = -1;
        CHECK_INT(result.status, failed ? FOLD_NO_MEMORY : FOLD_OK);
        fold_record_free(r);
    }
    r = fold_record_read(t.bytes, t.size, NULL);
    failed = 1;
    for (long k = 0; failed; k += k < 40 ? 1 : 17) {
        allocations_left = k;
        result = fold_record_compare(r, NULL, -1);
        batched = fold_record_compare(r, &desc, 0);
        failed = allocations_left < 0;
        allocations_left = -1;
        CHECK_INT(failed, result.status == FOLD_NO_MEMORY || batched.status == FOLD_NO_MEMORY);
    }
    CHECK(!result.status && !result.differ && !batched.differ);
    fold_record_free(r);
    fold_ctx_free(f);
    fold_model_free(n.m);
    free(t.bytes);
}

/* Here no allocation is left out: neither values nor gradients are silently not compared. */
static void no_memory_to_compare(void)
{
    text t = trained_product();
    fold_record *r = fold_record_read(t.bytes, t.size, NULL);
    int failed = 1;
    for (long k = 0; failed; k++) {
        allocations_left = k;
        const fold_record_result result = fold_record_compare(r, NULL, -1);
        failed = allocations_left < 0;
        allocations_left = -1;
        CHECK_INT(result.status, failed ? FOLD_NO_MEMORY : FOLD_OK);
    }
    fold_record_free(r);
    free(t.bytes);
}

/* Puts `by` in the place of the first `word` after the first `line`. */
static fold_record_result altered(const text *t, const char *line, const char *word, const char *by)
{
    char *bytes = (char *)malloc(t->size + 64);
    const char *at = strstr(t->bytes, line);
    at = at ? strstr(at, word) : NULL;
    fold_record_result result;
    memset(&result, 0, sizeof result);
    if (CHECK_SAYS(at != NULL, "no '%s' with '%s'", line, word)) {
        const size_t before = (size_t)(at - t->bytes), size = t->size - strlen(word) + strlen(by);
        memcpy(bytes, t->bytes, before);
        memcpy(bytes + before, by, strlen(by));
        memcpy(bytes + before + strlen(by), at + strlen(word), t->size - before - strlen(word));
        result = try_file(bytes, size);
    }
    free(bytes);
    return result;
}

#define FOUR(words) words words words words
#define ALL_32(words) FOUR(words words words words words words words words)
#define CONCAT_32(id, size) "op " #id " concat in 32 " ALL_32(size " ") "out 1 " /* then the result's shape */

/* Files made to read or take more memory than they name. */
static const struct { const char *text, *message; } greedy[] = {
    /* results of leaves that are larger than what they are, and have a hash */
    { "param p 0 1 values 0 ; use 1 1 out 1 1000000 hash 1 ; op 2 tanh in 1 1 out 1 1 from 1 1 ; outputs 1 2 1 losses 0 end", "a result has a different shape in the file" },
    { "input 1 out 1 1 rows 1000000 hash 1 values 0 ; outputs 1 1 1 losses 0 end", "a result has a different number of rows in the file" },
    /* targets, of which fold.h stores where each begins */
    { "list 1 out 1 1 rows 1 values 0 ; op 2 list_softmax in 1 1 out 1 1 from 1 1* index 1 2147483646 rows 1 ; outputs 0 losses 0 end", "the recording has more than 2^26 values" },
    /* a body of 1000 floats for each of 70000 elements of a list that is one operand */
    { "define c in 0 list 1 1 ; " CONCAT_32(2, "1") "32 from 32 " ALL_32("1 ") "attr 1 0 ; " CONCAT_32(3, "32") "1024 from 32 " ALL_32("2 ") "attr 1 0 ; "
      "op 4 sum_n in 1 1024 out 1 1024 from 1 3 ; outputs 1 4 1024 ; "
      "list 1 out 1 1 rows 70000 values 0*70000 ; cell 2 1 list 1 1 out 1 1024 from 1 1* ; outputs 1 2 1024 losses 0 end", "the recording has more than 2^26 values" },
    /* 1000 draws of a dropout before the one that is in the body, for each of 70000 rows; the same with one of them is played */
    { "define c in 1 1 list 0 ; op 2 dropout in 1 1 out 1 1 from 1 1 attr 1 3f000000 data 3e8 ; outputs 1 2 1 ; "
      "list 1 out 1 1 rows 70000 values 0*70000 ; cell 2 1 list 1 1 out 1 1 from 1 1* lists 1 rows 70000 ; outputs 1 2* 1 losses 0 end", "the recording has more than 2^26 values" },
    { "define c in 1 1 list 0 ; op 2 dropout in 1 1 out 1 1 from 1 1 attr 1 3f000000 data 3e8 ; outputs 1 2 1 ; "
      "list 1 out 1 1 rows 7 values 0*7 ; cell 2 1 list 1 1 out 1 1 from 1 1* lists 1 rows 7 ; outputs 1 2* 1 losses 0 end", "" },
    /* more inputs than `lists` has bits */
    { "input 1 out 1 1 values 0 ; op 2 concat in 33 " ALL_32("1 ") "1 out 1 33 from 33 " ALL_32("1 ") "1 attr 1 0 ; outputs 0 losses 0 end", "a number is not as it must be, at '33'" },
    /* shapes whose sum is no int, or nearly so */
    { "define c in 1 67108864 list 0 ;", "a shape is not as it must be" },
    { "define c in 1 67108863 list 0 ; " CONCAT_32(2, "67108863") "1 from 32 " ALL_32("1 ") "attr 1 0 ; outputs 1 2 1 ; outputs 0 losses 0 end", "the result is too large" },
};

static void greedy_files(void)
{
    for (size_t i = 0; i < sizeof greedy / sizeof *greedy; i++) {
        text t = nothing();
        const char *begin = "fold_record 1 kernels k schedule s training 1 ";
        append(begin, strlen(begin), &t);
        append(greedy[i].text, strlen(greedy[i].text), &t);
        const fold_record_result result = try_file(t.bytes, t.size);
        CHECK_INT(result.status != FOLD_OK, greedy[i].message[0] != 0);
        CHECK_TEXT(result.message, greedy[i].message);
        free(t.bytes);
    }
}

/* A file that says something else than what was recorded. */
static void lies(void)
{
    text t = nothing();
    fold_model *m = fold_model_new(NULL);
    const float one = 1, two[2] = { 2, 3 };
    fold_param_desc p = fold_param_desc_default();
    p.name = "p";
    p.shape = fold_shape1(2);
    p.values = two;
    const fold_param bias = fold_param_new(m, &p);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node x = fold_scale(f, fold_constant(f, one), 2), y = fold_add(f, fold_tanh(f, x), fold_use(f, bias));
    fold_run(f, &y, 1);
    CHECK(!fold_record_write(f, NULL, append, &t).status);
    CHECK_INT(try_file(t.bytes, t.size).differ, 0);
    fold_record_result result = altered(&t, "input", "3f800000", "3f900000");
    CHECK_INT(result.differ, 1);
    CHECK_TEXT(result.message, "node 5 (add, sample 0): values here are not those in the file");
    CHECK_INT(altered(&t, "param", "40000000", "40000001").differ, 1);
    CHECK_INT(altered(&t, "op", "data 40000000", "data 40400000").differ, 1);
    CHECK_INT(altered(&t, "op", "tanh", "relu").differ, 1);
    CHECK_TEXT(altered(&t, "fold_record", "1", "2").message, "version '2' of the format, must be 1");
    CHECK_TEXT(altered(&t, "op", "tanh", "tan").message, "there is no such op, at 'tan'");
    CHECK_TEXT(altered(&t, "op", "tanh", "attention_step").message, "this op cannot be played");
    CHECK_TEXT(altered(&t, "op", "out 1 1", "out 1 2").message, "a result has a different shape in the file");
    CHECK_TEXT(altered(&t, "input", "3f800000", "3f800000*2").message, "values are not as they must be");
    CHECK_INT(altered(&t, "input", "3f800000", "").line, altered(&t, "input", "3f800000", "g").line);
    fold_ctx_free(f);
    fold_model_free(m);
    free(t.bytes);
}

/* Ways that differ: what the eager context computed is changed, as if a batch computed other bits. */
static void ways_that_differ(void)
{
    text t = trained_product();
    const fold_ctx_desc desc = fold_ctx_desc_default();
    fold_record *record = fold_record_read(t.bytes, t.size, NULL);
    fold_record_result result = fold_record_compare(record, NULL, -1);
    CHECK(!result.status && !result.differ && record->wanted[record->top.n_ids - 1] == 1);
    record->want[record->top.n_ids - 1][0] += 1; /* the loss */
    result = fold_record_compare(record, &desc, -1);
    CHECK_INT(result.differ, 1);
    CHECK_TEXT(result.message, " (sum, 1, sample 0): float 0 is ");
    record->want[record->top.n_ids - 2][2] += 1; /* and the value that it reads, which must be found as the first */
    result = fold_record_compare(record, &desc, -1);
    CHECK_INT(result.differ, 2);
    CHECK_TEXT(result.message, " (tanh, 3, sample 0): float 2 is ");
    CHECK_INT(fold_record_compare(record, &desc, 0).differ, 2);
    fold_record_compare(record, NULL, -1); /* computes them again */
    CHECK_INT(fold_record_compare(record, &desc, -1).differ, 0);
    for (size_t i = 0; i < record->n_params; i++) record->want_grad[i][0] += 1;
    result = fold_record_compare(record, &desc, -1);
    CHECK_INT(result.differ, 2);
    CHECK_TEXT(result.message, "dense.W: float 0 is ");
    result = fold_record_compare(record, &desc, 1);
    CHECK_INT(result.status, FOLD_BAD_ARGUMENT);
    CHECK_TEXT(result.message, "sample is 1, must be below 1");
    fold_record_free(record);
    free(t.bytes);
}

static int stop_at_once(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 1; }

static const char *refusal(fold_ctx *f, const fold_record_desc *desc)
{
    static fold_record_result result;
    text t = nothing();
    result = fold_record_write(f, desc, append, &t);
    CHECK(result.status);
    free(t.bytes);
    return result.message;
}

static void refused(void)
{
    static float memory[512];
    const net n = new_net();
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    fold_record_desc desc = fold_record_desc_default();
    fold_record_result result;
    fold_node node[2];
    recording r = record_inputs(f, &n, 0);
    fold_cache cache;
    memset(&cache, 0, sizeof cache);
    cache.memory = memory;
    cache.capacity = 8;
    cache.heads = 2;
    cache.width = WIDE;
    node[0] = fold_attention_step(f, &cache, r.x, r.y, r.y);
    CHECK_TEXT(refusal(f, NULL), "attention_step cannot be written: the rows of its cache");
    fold_ctx_reset(f);
    r = record_inputs(f, &n, 0);
    node[0] = fold_tanh(f, r.node);
    node[1] = fold_slice(f, node[0], 0, 1, 2);
    desc.outputs = &node[1];
    desc.n_outputs = 1;
    CHECK_TEXT(refusal(f, &desc), "call fold_run or fold_backward before");
    desc.losses = node;
    desc.n_losses = 1;
    CHECK_TEXT(refusal(f, &desc), "losses need a context with `training`");
    desc.n_losses = 0;
    desc.n_outputs = -1;
    CHECK_TEXT(refusal(f, &desc), "their number is negative");
    CHECK_INT(fold_record_write(f, NULL, stop_at_once, NULL).status, FOLD_IO);
    CHECK_INT(fold_record_write(f, NULL, NULL, NULL).status, FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_record_write(NULL, NULL, append, NULL).status, FOLD_BAD_ARGUMENT);
    fold_ctx_fail(f, FOLD_BAD_STATE, "wrong");
    CHECK_TEXT(refusal(f, NULL), "the context has an error: wrong");
    CHECK(!fold_record_read(NULL, 5, &result));
    CHECK_TEXT(result.message, "'fold_record' is missing");
    CHECK(!fold_record_read("fold_record", 11, NULL));
    CHECK_INT(fold_record_play(NULL, f, 0).status, FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_record_compare(NULL, NULL, 0).status, FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_record_describe(NULL).calls, 0);
    CHECK(!fold_record_model(NULL) && fold_node_is_null(fold_record_output(NULL, 0)) && fold_node_is_null(fold_record_loss(NULL, 0)));
    fold_record_free(NULL);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Names that a file cannot hold or would not show. */
static void names(void)
{
    text t = nothing();
    char name[140];
    net n = new_net();
    memset(name, 'n', sizeof name);
    name[FOLD_RECORD__NAME - 1] = 0;
    const fold_param longest = fold_bias_new(n.m, name, WIDE);
    name[FOLD_RECORD__NAME - 1] = 'n';
    name[FOLD_RECORD__NAME] = 0;
    const fold_param longer = fold_bias_new(n.m, name, WIDE);
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    const fold_node both[2] = { fold_use(f, longest), fold_use(f, n.b) };
    const fold_node y = fold_call(f, new_cell(&n, "", pair_body, 2, 0, 3), both, 2);
    CHECK(!fold_run(f, &y, 1) && !fold_record_write(f, NULL, append, &t).status);
    CHECK(t.bytes && strstr(t.bytes, "define ? in 2 4 4 list 0 ;"));
    CHECK_INT(try_file(t.bytes, t.size).status, FOLD_OK);
    fold_ctx_reset(f);
    const fold_node z = fold_exp(f, fold_use(f, longer));
    CHECK_INT(fold_run(f, &z, 1), FOLD_OK);
    CHECK_TEXT(refusal(f, NULL), "nnn' has over 127 bytes");
    fold_ctx_free(f);
    fold_model_free(n.m);
    free(t.bytes);
}

/* Attention has a second result for its gradient, which is no reason to have no hash. */
static void hash_of_attention(void)
{
    text t = nothing();
    const net n = new_net();
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    fold_ctx *f = fold_ctx_new(n.m, &desc);
    const recording r = record_inputs(f, &n, 0);
    const fold_node y = call_attention(&r);
    CHECK(!fold_run(f, &y, 1) && !fold_record_write(f, NULL, append, &t).status);
    const char *op = strstr(t.bytes, "list_attention"), *hash = op ? strstr(op, " hash") : NULL;
    CHECK(hash && hash < strchr(op, ';'));
    plays_the_same("attention", f, &t);
    fold_ctx_free(f);
    fold_model_free(n.m);
    free(t.bytes);
}

/* Weights that have no floats any more. */
static void quantised(void)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    const fold_param W = fold_weight_new(m, "W", 32, 64);
    static const float x[32] = { 1 };
    CHECK_INT(fold_model_quantize(m, NULL), FOLD_OK);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node y = fold_linear(f, fold_input(f, x, 32), W, FOLD_NULL_PARAM);
    fold_run(f, &y, 1);
    CHECK_TEXT(refusal(f, NULL), "parameter 'W' is quantised; write before fold_model_quantize");
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Only what is used is written: the rows of a table, and the calls of the last run. Views can be outputs. */
static void what_is_used(void)
{
    text t = nothing();
    const net n = new_net();
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    const fold_node x = fold_lookup(f, n.table, 7), y = fold_tanh(f, x), z = fold_slice(f, y, 0, 1, 2), unused = fold_exp(f, x);
    fold_record_desc desc = fold_record_desc_default();
    desc.outputs = &z;
    desc.n_outputs = 1;
    CHECK(!fold_node_is_null(unused) && !fold_run(f, &z, 1));
    CHECK(!fold_record_write(f, &desc, append, &t).status);
    CHECK(strstr(t.bytes, "param words 4 9x4 rows 1 7 ") && !strstr(t.bytes, "exp") && !strstr(t.bytes, "join.W"));
    CHECK(strstr(t.bytes, "outputs 1 2+1 2\n") != NULL);
    plays_the_same("views", f, &t);
    const fold_node later = fold_square(f, z); /* reads a result of an earlier run */
    CHECK(!fold_run(f, &later, 1));
    t.size = 0;
    CHECK(!fold_record_write(f, NULL, append, &t).status);
    CHECK(strstr(t.bytes, "input 1 out 1 4") && strstr(t.bytes, "op 2 square in 1 2 out 1 2 from 1 1+1"));
    CHECK_INT(try_file(t.bytes, t.size).differ, 0);
    free(t.bytes);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("every op", every_op);
    check_run("lists", trained_lists);
    check_run("lists for inference", lists_for_inference);
    check_run("eager lists", eager_lists);
    check_run("layers", all_layers);
    check_run("what is used", what_is_used);
    check_run("hash of attention", hash_of_attention);
    check_run("names", names);
    check_run("lies", lies);
    check_run("greedy files", greedy_files);
    check_run("ways that differ", ways_that_differ);
    check_run("refused", refused);
    check_run("quantised", quantised);
    check_run("no memory", no_memory);
    check_run("no memory to compare", no_memory_to_compare);
    check_run("hostile files", hostile);
    return check_finish();
}
