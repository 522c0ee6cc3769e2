/* test_faults.c - memory that runs out anywhere: every kind of recording in blocks of all sizes, and with each request
   for memory refused in turn. What fails says so, loses nothing, and works again once there is memory.
       cc -O2 -o test_faults tests/test_faults.c -lm && ./test_faults */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_FIT_IMPLEMENTATION
#include "../examples/fold_fit.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#define FOLD_DRAW_IMPLEMENTATION
#include "../examples/fold_draw.h"
#include "check.h"

enum { H = 4, WORDS = 9, STEPS = 3, MAX_GRADS = 1 << 13 };

/* -- an allocator that refuses ------------------------------------------------------------------------------- */

typedef struct refusing {
    long requests, refused, live;
    long at;     /* the request to be refused, from 1; 0: none */
    int forever; /* and all that follow */
} refusing;

static void *take(size_t size, size_t align, void *user)
{
    refusing *r = (refusing *)user;
    r->requests++;
    if (r->at && (r->forever ? r->requests >= r->at : r->requests == r->at)) {
        r->refused++;
        return NULL;
    }
    void *block = aligned_block(size, align);
    if (block) memset(block, 0x5a, size); /* nothing may rely on zeros */
    r->live += block != NULL;
    return block;
}
static void give_back(void *block, size_t size, void *user)
{
    (void)size;
    ((refusing *)user)->live--;
    free_block(block);
}
static fold_memory memory_of(refusing *r)
{
    fold_memory memory;
    memset(&memory, 0, sizeof memory);
    memset(r, 0, sizeof *r);
    memory.alloc = take;
    memory.free = give_back;
    memory.user = r;
    return memory;
}

/* -- a model with all that recordings use ------------------------------------------------------------------ */

typedef struct world {
    fold_model *m;
    fold_param table, thin, W, V, b, one, filter, wide;
    fold_cell cell, listing, copying;
    fold_op twice, most, rows;
    fold_recurrent lstm;
    fold_rnn_stack stack;
    fold_transformer transformer;
    fold_tree_lstm tree;
    fold_child_sum sum;
} world;

static const fold_shape vector = { 1, { H, 0, 0, 0 } };

static void body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const world *w = (const world *)user;
    out[0] = fold_tanh(f, fold_add(f, fold_linear(f, in[0], w->W, w->b), in[1]));
    out[1] = fold_mul(f, out[0], fold_use(f, w->b));
}
static void listing_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    fold_node called[2];
    const world *w = (const world *)user;
    called[0] = in[0];
    called[1] = fold_list_sum(f, in[1]);
    const fold_node call = fold_call(f, w->cell, called, 2);
    out[0] = fold_out(f, call, 1);
    out[1] = fold_sigmoid(f, in[1]); /* by element, so that fold_call_list gives a list */
    out[1] = fold_list_mean(f, out[1]);
}
static void copying_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)f;
    out[0] = in[0];
    out[1] = in[0];
    out[2] = fold_use(f, ((const world *)user)->b);
}
static const char *same_shape(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static void twice_forward(const fold_op_call *c)
{
    for (int row = 0; row < c->rows; row++)
        for (int i = 0; i < H; i++) fold_row(&c->out[0], row)[i] = 2 * fold_row(&c->in[0], row)[i];
}
static void twice_backward(const fold_op_call *c)
{
    for (int row = 0; row < c->rows; row++)
        for (int i = 0; i < H; i++) fold_row(&c->din[0], row)[i] = 2 * fold_row(&c->dout[0], row)[i];
}
static void most_forward(const fold_op_call *c)
{
    for (int row = 0; row < c->rows; row++)
        for (int i = 0; i < H; i++) {
            float most = -1;
            for (int k = c->list[row]; k < c->list[row + 1]; k++)
                if (fold_row(&c->in[0], k)[i] > most) most = fold_row(&c->in[0], k)[i];
            fold_row(&c->out[0], row)[i] = most;
        }
}

/* Makes the world; its model may be NULL or have an error, when memory is refused. */
static void world_new(world *w, const fold_memory *memory, int inference)
{
    fold_model_desc d = fold_model_desc_default();
    fold_cell_desc cell = fold_cell_desc_default();
    fold_op_desc op = fold_op_desc_default();
    fold_transformer_desc transformer = fold_transformer_desc_default();
    memset(w, 0, sizeof *w);
    if (memory) d.memory = *memory;
    d.inference = inference;
    w->m = fold_model_new(&d);
    w->table = fold_table_new(w->m, "table", WORDS, H);
    w->thin = fold_table_new(w->m, "thin", WORDS, 3);
    w->W = fold_weight_new(w->m, "W", H, H);
    w->V = fold_weight_new(w->m, "V", 2 * H, H);
    w->b = fold_gain_new(w->m, "b", H);
    w->one = fold_gain_new(w->m, "one", 1);
    w->filter = fold_filter_new(w->m, "filter", fold_shape3(2, H, H));
    w->wide = fold_filter_new(w->m, "wide", fold_shape3(5, H, H));
    cell.user = w;
    cell.name = "cell";
    cell.body = body;
    cell.n_in = cell.n_out = 2;
    cell.in[0] = cell.in[1] = vector;
    w->cell = fold_cell_new(w->m, &cell);
    cell.name = "copying";
    cell.body = copying_body;
    cell.n_in = 1;
    cell.n_out = 3;
    w->copying = fold_cell_new(w->m, &cell);
    cell.name = "listing";
    cell.body = listing_body;
    cell.n_out = 2;
    cell.n_list = 1;
    cell.list[0] = vector;
    w->listing = fold_cell_new(w->m, &cell);
    op.name = "twice";
    op.n_in = op.n_out = 1;
    op.infer = same_shape;
    op.forward = twice_forward;
    op.backward = twice_backward;
    w->twice = fold_op_new(w->m, &op);
    op.name = "most";
    op.is_list = op.one_row = 1;
    op.forward = most_forward;
    op.backward = NULL;
    w->most = fold_op_new(w->m, &op);
    op.name = "rows";
    op.is_list = op.one_row = 0;
    op.is_whole = 1;
    op.forward = twice_forward;
    op.backward = twice_backward;
    w->rows = fold_op_new(w->m, &op);
    w->lstm = fold_lstm_new(w->m, "lstm", H, H);
    w->stack = fold_rnn_stack_new(w->m, "stack", fold_gru_new, H, H, 2, 1);
    transformer.width = H;
    transformer.heads = 2;
    transformer.dropout = 0.1f;
    w->transformer = fold_transformer_new(w->m, "transformer", &transformer);
    w->tree = fold_tree_lstm_new(w->m, "tree", H, H, 2);
    w->sum = fold_child_sum_new(w->m, "sum", H, H);
}

/* -- recordings of every kind: each gives a loss ---------------------------------------------------------- */

static const float numbers[STEPS * 2 * H] = { 0.5f, -1, 2, 0.25f, -0.75f, 1.5f, 0.125f, -2, 1, 0.375f, -0.5f, 0.0625f,
                                              1, 2, 3, 4, -1, -2, -3, -4, 0.5f, 0.25f, 0.125f, 1 };
static const int three[STEPS] = { 2, 0, 1 }, words[STEPS] = { 4, 8, 4 };

static fold_node inputs(fold_ctx *f, const world *w)
{
    fold_node x[8];
    const fold_shape square = fold_shape2(2, 2);
    x[0] = fold_reshape(f, fold_input_ref(f, numbers, square), vector);
    x[1] = fold_reshape(f, fold_input_shaped(f, numbers + 1, square), vector);
    x[2] = fold_one_hot(f, 2, H);
    x[3] = fold_add(f, fold_zeros(f, vector), fold_constant(f, 0.5f));
    x[4] = fold_lookup(f, w->table, 3);
    x[5] = fold_use(f, w->b);
    x[6] = fold_shared(f, fold_tanh(f, fold_use(f, w->b)));
    x[7] = fold_mul(f, x[4], x[6]);
    fold_keep(f, x[4]);
    fold_keep_grad(f, x[7]);
    return fold_sum(f, fold_max_n(f, x, 8), FOLD_ALL);
}
static fold_node joined(fold_ctx *f, const world *w)
{
    fold_node x[3], part[3];
    x[0] = fold_use(f, w->b);
    x[1] = fold_input(f, numbers, H);
    x[2] = fold_lookup(f, w->table, 1);
    const fold_node two = fold_concat(f, x, 2, 0), all = fold_stack(f, x, 3);
    fold_unstack(f, all, 3, part);
    const fold_node sum = fold_add(f, fold_linear_n(f, x, 2, w->V, w->b), fold_linear(f, two, w->V, w->b));
    const fold_node turned = fold_transpose(f, all, 0, 1), again = fold_matmul(f, turned, all);
    const fold_node cut = fold_slice(f, again, 1, 1, 2), conv = fold_conv1d(f, all, w->filter, w->b, NULL);
    const fold_node norm = fold_layer_norm(f, part[1], w->b, x[0].id ? w->b : w->b, 0);
    const fold_node most = fold_max_pool1d(f, conv, 2, 1, 0), first = fold_linear_first(f, x[1], w->V, w->b);
    const fold_node then = fold_linear_then(f, first, x[2], w->V), back = fold_linear(f, then, w->W, w->b);
    part[0] = fold_sum(f, cut, FOLD_ALL);
    part[1] = fold_sum(f, most, FOLD_ALL);
    part[2] = fold_dot(f, fold_dropout(f, back, 0.25f), fold_add(f, sum, norm));
    return fold_sum_n(f, part, 3);
}
static fold_node convolved(fold_ctx *f, const world *w) /* parameters where a row is wanted, which are copied */
{
    const fold_node row = fold_reshape(f, fold_use(f, w->W), fold_shape2(H, H));
    fold_node x[2];
    x[0] = fold_sum(f, fold_conv1d(f, row, w->filter, w->b, NULL), 0);
    x[1] = fold_linear(f, fold_use(f, w->b), w->W, w->b);
    const fold_node all = fold_sum_n(f, x, 2);
    x[0] = fold_use(f, w->b);
    x[1] = all;
    return fold_mul(f, fold_sum(f, fold_mean_n(f, x, 2), FOLD_ALL), fold_squared_error(f, all, x[0]));
}
static fold_node of_lists(fold_ctx *f, const world *w)
{
    fold_node x[4];
    x[0] = fold_list_input(f, numbers, STEPS, vector);
    x[1] = fold_list_input_ref(f, numbers + H, STEPS, vector);
    x[2] = fold_list_lookup(f, w->table, words, STEPS);
    x[3] = fold_use(f, w->b);
    const fold_node all = fold_list_join(f, x, 4), taken = fold_list_take(f, all, three, STEPS);
    const fold_node dense = fold_tanh(f, fold_linear(f, taken, w->W, w->b));
    const fold_node sent = fold_list_sum_to(f, dense, three, STEPS, STEPS), mean = fold_list_mean_to(f, sent, three, STEPS, 2 + 1);
    const fold_node most = fold_list_max_to(f, mean, three, STEPS, STEPS), score = fold_dot(f, most, dense);
    x[0] = fold_list_softmax_mean_to(f, score, dense, three, STEPS, STEPS);
    x[1] = fold_list_attention(f, x[0], dense, x[2], 2, 1);
    x[2] = fold_list_attention_to(f, x[1], dense, most, 2, three, three, STEPS);
    x[3] = fold_list_standardize(f, x[2], 0.1f);
    const fold_node picked = fold_pick_each(f, x[3], three, STEPS), loss = fold_softmax_xent_each(f, x[2], three, STEPS);
    x[0] = fold_list_sum(f, fold_add(f, picked, loss));
    x[1] = fold_sum(f, fold_list_softmax_mean(f, score, dense), FOLD_ALL);
    x[2] = fold_sum(f, fold_add(f, fold_list_max(f, dense), fold_list_mean(f, all)), FOLD_ALL);
    x[3] = fold_sum(f, fold_list_at(f, all, 2), FOLD_ALL);
    return fold_add(f, fold_sum_n(f, x, 4), fold_list_mean(f, fold_hinge_each(f, dense, three, STEPS)));
}
static fold_node of_nothing(fold_ctx *f, const world *w) /* lists and sums of no rows */
{
    fold_node x[2];
    const fold_node none = fold_list_input(f, NULL, 0, vector), no_words = fold_list_lookup(f, w->table, NULL, 0);
    const fold_node seen = fold_list_attention(f, no_words, none, none, 2, 0);
    x[0] = fold_list_softmax_mean(f, none, none);
    x[1] = fold_list_sum(f, fold_linear(f, fold_add(f, none, seen), w->W, w->b));
    const fold_node sent = fold_list_sum_to(f, none, NULL, 0, 2), taken = fold_list_take(f, none, NULL, 0);
    return fold_add(f, fold_sum(f, fold_sum_n(f, x, 2), FOLD_ALL),
                    fold_sum(f, fold_add(f, fold_list_mean(f, sent), fold_list_mean(f, taken)), FOLD_ALL));
}
static fold_node of_cells(fold_ctx *f, const world *w)
{
    fold_node in[3], list[4], part[4];
    in[0] = fold_input(f, numbers, H);
    in[1] = fold_lookup(f, w->table, 2);
    const fold_node call = fold_call(f, w->cell, in, 2), copy = fold_call(f, w->copying, in, 1);
    list[0] = fold_out(f, call, 0);
    list[1] = fold_out(f, copy, 1);
    list[2] = in[1];
    list[3] = fold_out(f, copy, 2);
    const fold_node listed = fold_call_n(f, w->listing, in, 1, list, 4), none = fold_call_n(f, w->listing, in, 1, NULL, 0);
    const fold_node lists = fold_list_lookup(f, w->table, words, STEPS);
    const fold_node whole = fold_call_list(f, w->listing, in, 1, &lists);
    in[0] = lists;
    in[1] = fold_out(f, whole, 0);
    const fold_node by_rows = fold_call(f, w->cell, in, 2);
    part[0] = fold_list_sum(f, fold_out(f, by_rows, 1));
    part[1] = fold_add(f, fold_out(f, listed, 0), fold_out(f, none, 1));
    part[2] = fold_out(f, call, 1);
    part[3] = fold_out(f, whole, 1);
    return fold_sum(f, fold_sum_n(f, part, 4), FOLD_ALL);
}
static fold_node of_own_ops(fold_ctx *f, const world *w)
{
    fold_node x[3];
    x[0] = fold_use(f, w->b);
    x[1] = fold_input(f, numbers, H);
    x[2] = fold_op_apply(f, w->twice, &x[1], 1, NULL, 0);
    const fold_node most = fold_add(f, fold_op_apply(f, w->most, x, 3, NULL, 0), fold_op_apply(f, w->most, x + 1, 2, NULL, 0));
    const fold_node list = fold_list_lookup(f, w->table, words, STEPS);
    const fold_node rows = fold_op_apply_whole(f, w->rows, &list, 1, NULL, 0, STEPS);
    const fold_node by_rows = fold_op_apply(f, w->twice, &rows, 1, NULL, 0);
    return fold_add(f, fold_dot(f, most, fold_list_sum(f, by_rows)), fold_sum(f, x[2], FOLD_ALL));
}
static fold_node unrolled(fold_ctx *f, const world *w)
{
    fold_node x[STEPS], out[STEPS], part[4];
    fold_state state[4], children[2];
    for (int i = 0; i < STEPS; i++) x[i] = fold_lookup(f, w->table, words[i]);
    part[0] = fold_unroll(f, &w->lstm, x, STEPS, 0, NULL, out).h;
    part[1] = fold_unroll(f, &w->lstm, x, STEPS, 1, NULL, NULL).h;
    fold_unroll_stack(f, &w->stack, x, STEPS, NULL, out, state);
    part[2] = fold_slice(f, out[0], 0, 0, H);
    children[0] = fold_tree_lstm_apply_leaf(f, &w->tree, x[0]);
    children[1] = fold_tree_lstm_apply_leaf(f, &w->tree, x[1]);
    children[0] = fold_tree_lstm_apply_inner(f, &w->tree, children);
    part[3] = fold_child_sum_apply(f, &w->sum, x[0], children, 2).h;
    return fold_sum(f, fold_sum_n(f, part, 4), FOLD_ALL);
}
static fold_node attending(fold_ctx *f, const world *w)
{
    const fold_node x = fold_list_lookup(f, w->table, words, STEPS), y = fold_transformer_apply(f, &w->transformer, x, 1);
    return fold_list_sum(f, fold_softmax_entropy(f, fold_attention_apply(f, &w->transformer.attention, y, x, y, 0)));
}
static fold_node in_circles(fold_ctx *f, const world *w) /* two signatures that feed each other */
{
    fold_node x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = fold_lookup(f, w->table, i);
        for (int k = 0; k < 3 + i; k++) x[i] = fold_sigmoid(f, fold_add(f, fold_tanh(f, x[i]), x[i]));
    }
    return fold_sum(f, fold_sum_n(f, x, 3), FOLD_ALL);
}
static fold_node a_few(fold_ctx *f, const world *w) /* rows of a long list */
{
    int many[6 * STEPS];
    for (int i = 0; i < 6 * STEPS; i++) many[i] = i % WORDS;
    const fold_node list = fold_tanh(f, fold_list_lookup(f, w->table, many, 6 * STEPS));
    const fold_node few = fold_list_take(f, list, three, STEPS);
    return fold_add(f, fold_list_sum(f, fold_sum(f, few, FOLD_ALL)), fold_list_mean(f, fold_sum(f, list, FOLD_ALL)));
}
static fold_node over_rows(fold_ctx *f, const world *w) /* what each row of a list sees of the others */
{
    fold_node part[4];
    const fold_node x = fold_add(f, fold_list_lookup(f, w->table, words, STEPS), fold_list_positions(f, w->table, 1, STEPS));
    const fold_node share = fold_list_softmax_to(f, fold_sum(f, x, FOLD_ALL), three, STEPS, STEPS);
    part[0] = fold_sum(f, fold_list_stack(f, fold_slice(f, x, 0, 1, 2)), FOLD_ALL);
    part[1] = fold_list_sum(f, fold_mul(f, share, fold_sum(f, x, FOLD_ALL)));
    part[2] = fold_list_logsumexp(f, share);
    part[3] = fold_list_sum(f, fold_sum(f, fold_conv1d(f, x, w->filter, w->b, NULL), FOLD_ALL));
    return fold_sum_n(f, part, 4);
}
static fold_node referring(fold_ctx *f, const world *w) /* edges that replays read */
{
    static const int edges = STEPS;
    const fold_node x = fold_list_lookup(f, w->table, words, STEPS);
    const fold_node seen = fold_list_attention_to(f, x, x, x, 2, three, three, STEPS);
    fold_edges_ref(f, seen, three, three, &edges, 2 * STEPS);
    return fold_list_sum(f, fold_sum(f, seen, FOLD_ALL));
}
static fold_node a_parameter(fold_ctx *f, const world *w) /* the root is nothing but a parameter */
{
    return fold_use(f, w->one);
}
static fold_node in_steps(fold_ctx *f, const world *w) /* keys and values of what came before */
{
    static float memory[2][1024];
    static fold_cache cache[2];
    for (int i = 0; i < 2; i++) {
        memset(&cache[i], 0, sizeof cache[i]);
        cache[i].memory = memory[i];
        cache[i].capacity = 2 * STEPS;
        cache[i].heads = 2;
        cache[i].width = H;
        CHECK(fold_cache_bytes(&cache[i]) <= sizeof memory[i]);
    }
    const fold_node list = fold_list_lookup(f, w->table, words, STEPS), one = fold_lookup(f, w->table, 1), b = fold_use(f, w->b);
    const fold_node all = fold_attention_step(f, &cache[0], list, list, list), single = fold_attention_step(f, &cache[1], b, one, one);
    return fold_add(f, fold_sum(f, single, FOLD_ALL), fold_list_sum(f, fold_sum(f, all, FOLD_ALL)));
}

typedef fold_node recording(fold_ctx *f, const world *w);
static const struct { const char *name; recording *record; int trains; } recordings[] = {
    { "inputs", inputs, 1 },     { "joined", joined, 1 },         { "convolved", convolved, 1 }, { "lists", of_lists, 1 },
    { "nothing", of_nothing, 1 }, { "cells", of_cells, 1 },       { "own ops", of_own_ops, 1 },  { "unrolled", unrolled, 1 },
    { "attending", attending, 1 }, { "parameter", a_parameter, 1 }, { "steps", in_steps, 0 },
    { "circles", in_circles, 1 }, { "a few", a_few, 1 },          { "rows", over_rows, 1 },      { "references", referring, 1 },
};
enum { RECORDINGS = sizeof recordings / sizeof *recordings, BETWEEN = 10 }; /* the first ones come between two of another */

static const struct { const char *name; int training, eager, dedupe, slices; fold_schedule schedule; size_t plan_cache_bytes; } ways[] = {
    { "training", 1, 0, 0, 0, FOLD_SCHEDULE_RATIO, 0 },      { "inference", 0, 0, 0, 0, FOLD_SCHEDULE_RATIO, 0 },
    { "eager", 1, 1, 0, 0, FOLD_SCHEDULE_RATIO, 0 },         { "eager inference", 0, 1, 1, 0, FOLD_SCHEDULE_RATIO, 0 },
    { "merging by depth", 1, 0, 1, 0, FOLD_SCHEDULE_DEPTH, 0 }, { "agenda in slices", 1, 0, 0, 1, FOLD_SCHEDULE_AGENDA, 9999 },
};
enum { WAYS = sizeof ways / sizeof *ways };

static fold_ctx *context(const world *w, int way, const fold_memory *memory)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = ways[way].training;
    d.eager = ways[way].eager;
    d.dedupe = ways[way].dedupe;
    d.schedule = ways[way].schedule;
    d.plan_cache_bytes = ways[way].plan_cache_bytes;
    if (memory) d.memory = *memory;
    return fold_ctx_new(w->m, &d);
}

/* What an execution gave: the status of the run, the loss and all gradients. */
typedef struct result { fold_status status; float loss, copy, grads[MAX_GRADS]; } result;

static int write_nowhere(const void *bytes, size_t size, void *user)
{
    (void)bytes;
    *(size_t *)user += size;
    return 0;
}

static void execute(fold_ctx *f, const world *w, int way, int which, result *got)
{
    int n, more = 1;
    size_t written = 0;
    memset(got, 0, sizeof *got);
    fold_grads_clear(w->m);
    fold_dropout_seed(f, 5);
    const fold_node loss = recordings[which].record(f, w);
    const fold_node root = recordings[which].record == a_parameter ? loss : fold_scale(f, loss, 0.5f);
    fold_output_ref(f, root, &got->copy);
    fold_keep(f, loss);
    if (ways[way].slices) {
        got->status = ways[way].training && recordings[which].trains ? fold_backward_begin(f, root) : fold_run_begin(f, &root, 1);
        while (more && !got->status) got->status = fold_run_more(f, 0, &more);
    } else if (ways[way].training && recordings[which].trains)
        got->status = fold_backward(f, root);
    else
        got->status = fold_run(f, &root, 1);
    const float *grads = fold_model_grads(w->m, &n);
    for (int i = 0; i < n && got->status; i++) CHECK_SAYS(grads[i] == 0, "%s: it failed, and gradient %d is %g", ways[way].name, i, (double)grads[i]);
    if (!got->status) got->status = fold_replay(f);
    if (!got->status) got->status = fold_read(f, &loss, 1, &got->loss);
    memcpy(got->grads, grads, (size_t)n * sizeof *grads);
    if (got->status) return;
    fold_ctx_print(f, write_nowhere, &written);
    fold_ctx_print_splits(f, write_nowhere, &written);
    fold_draw_dot(f, write_nowhere, &written);
    fold_draw_svg(f, write_nowhere, &written);
}

static int skipped(int way, int which)
{
    return (ways[way].training && !recordings[which].trains) || (ways[way].dedupe && recordings[which].record == referring);
}

/* Either all is as without a fault, or there was no memory, and the context says so. */
static int fine_or_said(fold_ctx *f, const result *got, const result *want, const char *name, int way)
{
    if (got->status == FOLD_OK)
        return CHECK_SAYS(!memcmp(got, want, sizeof *got), "%s, %s: other results", name, ways[way].name);
    return CHECK_SAYS(got->status == FOLD_NO_MEMORY, "%s, %s: %s", name, ways[way].name, fold_ctx_message(f)) &&
           CHECK_TEXT(fold_ctx_message(f), "memory");
}

/* -- the tests -------------------------------------------------------------------------------------------------- */

/* Contexts in blocks of all sizes up to the measured one. What does not fit fails; less is recorded then, and fits. */
static void blocks_too_small(void)
{
    static char block[1 << 20];
    static result want, got;
    world w;
    world_new(&w, NULL, 0);
    CHECK_INT(fold_model_status(w.m), FOLD_OK);
    for (int way = 0; way < WAYS; way++)
        for (int which = 0; which < RECORDINGS; which++) {
            if (skipped(way, which)) continue;
            fold_ctx *f = context(&w, way, NULL);
            execute(f, &w, way, which, &want);
            CHECK_SAYS(!want.status, "%s, %s: %s", recordings[which].name, ways[way].name, fold_ctx_message(f));
            const size_t full = fold_ctx_stats(f).block_bytes;
            fold_ctx_free(f);
            fold_memory memory;
            memset(&memory, 0, sizeof memory);
            memory.block = block;
            CHECK(full < sizeof block);
            int failed = 0, fitted = 0;
            for (memory.block_size = full / 8; memory.block_size < full + full / 8; memory.block_size += full / 160 / 64 * 64 + 64) {
                f = context(&w, way, &memory);
                if (!fold_ctx_status(f)) {
                    execute(f, &w, way, which, &got);
                    if (!fine_or_said(f, &got, &want, recordings[which].name, way)) return;
                    failed += got.status != FOLD_OK;
                    fitted += got.status == FOLD_OK;
                    fold_ctx_reset(f);
                    CHECK_INT(fold_ctx_status(f), FOLD_OK);
                    if (!got.status && ways[way].plan_cache_bytes) { /* kept the second time; another, and by the kept plan */
                        execute(f, &w, way, which, &got);
                        fold_ctx_reset(f);
                        execute(f, &w, way, (which + 1) % BETWEEN, &got);
                        fold_ctx_reset(f);
                        execute(f, &w, way, which, &got);
                        if (!fine_or_said(f, &got, &want, recordings[which].name, way)) return;
                    }
                }
                fold_ctx_free(f);
            }
            CHECK_SAYS(failed && fitted, "%s, %s: %d failed, %d fitted", recordings[which].name, ways[way].name, failed, fitted);
        }
    fold_model_free(w.m);
}

/* Each request of a context refused in turn, alone or with all that follow; then it gets what it wants. */
static void each_request(void)
{
    static result want, got;
    world w;
    refusing r;
    world_new(&w, NULL, 0);
    for (int way = 0; way < WAYS; way++)
        for (int which = 0; which < RECORDINGS; which++) {
            if (skipped(way, which)) continue;
            fold_memory memory = memory_of(&r);
            fold_ctx *f = context(&w, way, &memory);
            execute(f, &w, way, which, &want);
            fold_ctx_free(f);
            int refused = 0;
            for (int forever = 0; forever < 2; forever++)
                for (long at = 1, more = 1; more; at++) {
                    memory = memory_of(&r);
                    r.at = at;
                    r.forever = forever;
                    f = context(&w, way, &memory);
                    if (f) {
                        execute(f, &w, way, which, &got);
                        if (!fine_or_said(f, &got, &want, recordings[which].name, way)) return;
                        refused += got.status != FOLD_OK;
                        more = r.refused;
                        r.at = 0;
                        fold_ctx_reset(f);
                        execute(f, &w, way, which, &got);
                        if (!fold_ctx_status(f)) CHECK(!memcmp(&got, &want, sizeof got));
                        else CHECK_TEXT(fold_ctx_message(f), "memory"); /* making it failed: it stays so */
                    }
                    fold_ctx_free(f);
                    CHECK_INT(r.live, 0);
                }
            CHECK(refused > 0);
        }
    fold_model_free(w.m);
}

/* A list that runs some rows at a time, with each request of its context refused. */
static void strips_without_memory(void)
{
    enum { ROWS = 300, DEEP = 60 };
    static float numbers_of_rows[ROWS * H], want[ROWS * H], got[ROWS * H];
    world w;
    refusing r;
    world_new(&w, NULL, 0);
    for (int i = 0; i < ROWS * H; i++) numbers_of_rows[i] = (float)(i % 17) * 0.1f;
    long at = 0, more = 1;
    for (; more && at < 1000; at++) { /* the first time none */
        const fold_memory memory = memory_of(&r);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.memory = memory;
        d.group_bytes = 1;
        r.at = at;
        fold_ctx *f = fold_ctx_new(w.m, &d);
        fold_node list = fold_list_input(f, numbers_of_rows, ROWS, vector);
        for (int i = 0; i < DEEP; i++) list = fold_tanh(f, fold_scale(f, list, 1.1f));
        const fold_status status = fold_run(f, &list, 1);
        if (!status) fold_read(f, &list, 1, at ? got : want);
        if (!at) CHECK(!status && fold_ctx_stats(f).kernel_calls > 2 * DEEP);
        if (!status && at) CHECK(!memcmp(want, got, sizeof got));
        if (status && f) CHECK_TEXT(fold_ctx_message(f), "memory");
        more = !at || r.refused;
        fold_ctx_free(f);
        CHECK_INT(r.live, 0);
    }
    CHECK(at > 5);
    fold_model_free(w.m);
}

/* Calls that record, each alone, and what they give; `x` is a vector, `list` a list of three. */
enum { CALLS = 45 };
static fold_node call(fold_ctx *f, const world *w, int which, fold_node x, fold_node list)
{
    static float memory[1024];
    static const fold_conv_desc padded = { 0, 1, 0, 0 };
    static fold_cache cache; /* a reset gives a step up that did not run */
    fold_node two[4];
    fold_state state;
    two[0] = two[1] = two[2] = two[3] = x;
    switch (which) {
    case 0: return fold_zeros(f, fold_shape1(1000));
    case 1: return fold_concat(f, two, 4, 0); /* a new shape of a new signature */
    case 2: return fold_sum_n(f, two, 3);
    case 3: return fold_softmax_mean_n(f, two, two, 2);
    case 4: return fold_list_lookup(f, w->table, words, STEPS);
    case 5: return fold_lookup(f, w->table, 1);
    case 6: return fold_use(f, w->V);
    case 7: return fold_reshape(f, x, fold_shape2(2, 2));
    case 8: return fold_slice(f, x, 0, 1, 2);
    case 9: return fold_stack(f, two, 2);
    case 10: return fold_input_ref(f, numbers, fold_shape1(17));
    case 11: return fold_input(f, numbers, 18);
    case 12: return fold_call(f, w->cell, two, 2);
    case 13: return fold_call_n(f, w->listing, two, 1, two, 2);
    case 14: return fold_call_list(f, w->listing, two, 1, &list);
    case 15: return fold_call(f, w->cell, (two[0] = list, two), 2);
    case 16: return fold_list_take(f, list, three, STEPS);
    case 17: return fold_list_sum_to(f, list, three, STEPS, STEPS);
    case 18: return fold_list_attention_to(f, list, list, list, 2, three, three, STEPS);
    case 19: return fold_list_input(f, numbers, 3, fold_shape1(5));
    case 20: return fold_list_input_ref(f, numbers, 3, fold_shape1(6));
    case 21: return fold_list_join(f, (two[1] = list, two), 2);
    case 22: return fold_tanh(f, list);
    case 23: return fold_max_n(f, two, 2);
    case 24: return fold_op_apply(f, w->twice, two, 1, NULL, 0);
    case 25: return fold_op_apply_whole(f, w->rows, &list, 1, NULL, 0, STEPS);
    case 26: return fold_linear_n(f, two, 2, w->V, w->b);
    case 27: return fold_list_standardize(f, list, 0.1f);
    case 28: return fold_pick_each(f, list, three, STEPS);
    case 29: return fold_recurrent_apply(f, &w->lstm, x, fold_recurrent_zeros(f, &w->lstm)).h;
    case 30:
        state = fold_tree_lstm_apply_leaf(f, &w->tree, x);
        return fold_child_sum_apply(f, &w->sum, x, &state, 1).h;
    case 31: return fold_sum_n(f, (two[0] = fold_use(f, w->b), two), 2);
    case 32: return fold_transpose(f, fold_reshape(f, x, fold_shape2(2, 2)), 0, 1);
    case 35: return fold_concat(f, two, 4, 0);
    case 34: return fold_list_lookup(f, w->thin, words, STEPS);
    case 36: return fold_list_attention_weights(f, list, list, 2, 0);
    case 33: return fold_list_take(f, fold_list_input_ref(f, numbers, 6 * H, fold_shape1(1)), three, STEPS);
    case 37: return fold_conv1d(f, list, w->wide, w->b, &padded);
    case 38: return fold_list_positions(f, w->table, 1, STEPS);
    case 39: return fold_list_stack(f, fold_slice(f, list, 0, 1, 2));
    case 40: return fold_list_softmax_to(f, fold_slice(f, list, 0, 0, 1), three, STEPS, STEPS);
    case 41: return fold_list_logsumexp(f, fold_slice(f, list, 0, 0, 1));
    default:
        memset(&cache, 0, sizeof cache);
        cache.memory = memory;
        cache.capacity = STEPS;
        cache.heads = which > CALLS - 3;
        cache.width = H;
        if (!cache.heads) return fold_conv1d_step(f, &cache, fold_use(f, w->b), w->filter, w->b, NULL);
        return which == CALLS - 1 ? fold_attention_step(f, &cache, list, list, list)
                                  : fold_attention_step(f, &cache, fold_use(f, w->b), x, x);
    }
}

/* Each call behind so many nodes, shapes, values or signatures that some array is full, with no memory for more. */
static void full_arrays(void)
{
    world w;
    refusing r;
    world_new(&w, NULL, 0);
    int refused = 0;
    for (int way = 0; way < WAYS; way++)
        for (int fill = 0; fill < 4; fill++)
            for (int n = 0; n < 70; n += ways[way].slices ? 7 : 1)
                for (int which = 0; which < CALLS; which++) {
                    if (which >= CALLS - 3 && ways[way].training) continue;
                    const fold_memory memory = memory_of(&r);
                    fold_ctx *f = context(&w, way, &memory);
                    const fold_node x = fold_input(f, numbers, H), list = fold_list_input(f, numbers, STEPS, vector);
                    fold_use(f, w.b);
                    fold_concat2(f, fold_concat2(f, x, x), x);
                    for (int i = 0; i < (fill % 2 ? n : n + 65); i++) /* room for 128 shapes is taken at once */
                        if (fill == 0) fold_zeros(f, fold_shape1(i + 30));
                        else if (fill == 1) fold_lookup(f, w.table, i % WORDS);
                        else if (fill == 2) fold_concat2(f, x, fold_zeros(f, fold_shape1(i + 30)));
                        else fold_add(f, x, x);
                    r.at = r.requests + 1;
                    r.forever = 1;
                    const fold_node made = call(f, &w, which, x, list);
                    refused += fold_ctx_status(f) != FOLD_OK;
                    if (fold_ctx_status(f)) {
                        CHECK_SAYS(fold_ctx_status(f) == FOLD_NO_MEMORY, "call %d: %s", which, fold_ctx_message(f));
                        CHECK_SAYS(fold_node_is_null(made), "call %d gives a node", which);
                        CHECK_TEXT(fold_ctx_message(f), "memory");
                    }
                    r.at = 0;
                    fold_ctx_reset(f);
                    const fold_node again = fold_tanh(f, fold_input(f, numbers, H));
                    CHECK_INT(fold_run(f, &again, 1), FOLD_OK);
                    CHECK_NEAR(fold_value(f, again)[0], tanh(0.5), 1e-6);
                    fold_ctx_free(f);
                    CHECK_INT(r.live, 0);
                }
    CHECK(refused > 0);
    fold_model_free(w.m);
}

/* Wrong settings, and no memory even for the context that says so. */
static void settings_without_memory(void)
{
    refusing r;
    const fold_memory memory = memory_of(&r);
    world w;
    world_new(&w, &memory, 0); /* which such a context takes its memory from */
    const long live = r.live;
    fold_ctx_desc d = fold_ctx_desc_default();
    d.schedule = (fold_schedule)77;
    int made = 0;
    for (r.at = 1; !made && CHECK(r.at < 200); r.at++) {
        r.requests = 0;
        r.forever = 1;
        fold_ctx *f = fold_ctx_new(w.m, &d);
        made = f != NULL;
        CHECK(!made || r.at > 1);
        if (made) CHECK_TEXT(fold_ctx_message(f), "schedule");
        fold_ctx_free(f);
        CHECK_INT(r.live, live);
    }
    fold_model_free(w.m);
}

/* A model whose making is refused memory anywhere: it is not there, or has an error, and all that is made of it is null. */
static void each_request_of_a_model(void)
{
    for (int inference = 0; inference < 2; inference++) {
        int refused = 0;
        for (long at = 1, more = 1; more; at++) {
            world w;
            refusing r;
            const fold_memory memory = memory_of(&r);
            r.at = at;
            world_new(&w, &memory, inference);
            more = r.refused;
            if (w.m && fold_model_status(w.m)) {
                refused++;
                CHECK_INT(fold_model_status(w.m), FOLD_NO_MEMORY);
                CHECK_TEXT(fold_model_message(w.m), "memory");
            } else
                CHECK_SAYS(!w.m || !more, "request %ld was refused, and nothing said so", at);
            fold_model_free(w.m);
            CHECK_INT(r.live, 0);
        }
        CHECK(refused > 0);
    }
}

/* -- files and bytes -------------------------------------------------------------------------------------------- */

enum { WIDE = 24, FILE_BYTES = 1 << 16 };
enum { SAVE, SAVE_AS, LOAD, LOAD_FROM, LOAD_INTO_BYTES, LOAD_BYTES, IN_PLACE, BYTES_IN_PLACE, QUANTIZE, LOOK_UP, TORCH, FIT, PRINT, FILE_WAYS };
typedef struct bytes { size_t n, at; char byte[FILE_BYTES]; } bytes;

static int write_bytes(const void *from, size_t size, void *user)
{
    bytes *b = (bytes *)user;
    if (size > sizeof b->byte - b->n) return 1;
    memcpy(b->byte + b->n, from, size);
    b->n += size;
    return 0;
}
static size_t read_bytes(void *to, size_t size, void *user)
{
    bytes *b = (bytes *)user;
    if (size > b->n - b->at) size = b->n - b->at;
    memcpy(to, b->byte + b->at, size);
    b->at += size;
    return size;
}

/* Parameters of all kinds that bytes are made of. */
typedef struct wide { fold_model *m; fold_param W, table, tied, b; } wide;
static void wide_params(wide *w)
{
    fold_param_desc d = fold_param_desc_default();
    w->W = fold_weight_new(w->m, "W", WIDE, WIDE);
    w->table = fold_table_new(w->m, "table", WORDS, WIDE);
    d.name = "tied";
    d.shape = fold_shape2(WIDE, WIDE);
    d.uses = FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T;
    w->tied = fold_param_new(w->m, &d);
    w->b = fold_gain_new(w->m, "b", WIDE);
}
static wide wide_new(const fold_memory *memory, int inference, int params)
{
    wide w;
    fold_model_desc d = fold_model_desc_default();
    memset(&w, 0, sizeof w);
    if (memory) d.memory = *memory;
    d.inference = inference;
    w.m = fold_model_new(&d);
    if (params) wide_params(&w);
    return w;
}
static fold_status in_bytes(fold_model *m)
{
    fold_quantize_desc d = fold_quantize_desc_default();
    d.min_values = 1;
    d.tables = 1;
    return fold_model_quantize(m, &d);
}

static bytes file_of_floats, file_of_bytes, file_of_torch;
static void make_files(void)
{
    fold_save_desc d = fold_save_desc_default();
    const fold_adam adam = fold_adam_default();
    wide w = wide_new(NULL, 0, 1);
    file_of_floats.n = file_of_bytes.n = file_of_torch.n = 0;
    CHECK_INT(fold_adam_step(w.m, &adam), FOLD_OK);
    d.state = 1;
    d.config = "wide";
    CHECK_INT(fold_model_save_to(w.m, write_bytes, &file_of_floats, &d), FOLD_OK);
    fold_model_free(w.m);
    w = wide_new(NULL, 1, 1);
    CHECK_INT(in_bytes(w.m), FOLD_OK);
    CHECK_INT(fold_model_save_to(w.m, write_bytes, &file_of_bytes, NULL), FOLD_OK);
    fold_model_free(w.m);
    w = wide_new(NULL, 0, 0);
    fold_weight_new(w.m, "fc.weight", WIDE, H);
    fold_bias_new(w.m, "fc.bias", WIDE);
    fold_gain_new(w.m, "norm.weight", WIDE);
    fold_bias_new(w.m, "norm.bias", WIDE);
    CHECK_INT(fold_model_save_to(w.m, write_bytes, &file_of_torch, NULL), FOLD_OK);
    fold_model_free(w.m);
}

static fold_node sample_loss(fold_ctx *f, int sample, void *user)
{
    const wide *w = (const wide *)user;
    return fold_sum(f, fold_linear(f, fold_lookup(f, w->table, sample), w->W, w->b), FOLD_ALL);
}
static fold_status fit(wide *w)
{
    const fold_adam adam = fold_adam_default();
    fold_ctx_desc context_desc = fold_ctx_desc_default();
    fold_fit_desc d = fold_fit_desc_default();
    fold_fit_report report;
    context_desc.training = 1;
    d.ctx = fold_ctx_new(w->m, &context_desc);
    d.loss = sample_loss;
    d.user = w;
    d.samples = WORDS;
    d.epochs = d.keep_best = 1;
    d.adam = &adam;
    const fold_status status = d.ctx ? fold_fit(&d, &report) : FOLD_NO_MEMORY;
    if (status && d.ctx) {
        CHECK_INT(report.ended, FOLD_FIT_ERROR);
        CHECK(strstr(fold_ctx_message(d.ctx), "memory") || strstr(fold_model_message(w->m), "memory"));
    }
    fold_ctx_free(d.ctx);
    return status;
}

/* Does one thing with files or bytes to a model that is ready for it; the model's status. */
static fold_status with_a_file(wide *w, int way)
{
    static bytes file, copy;
    fold_load_desc d = fold_load_desc_default();
    size_t written = 0;
    fold_torch *t;
    fold_ctx *f;
    file.n = 0;
    d.state = way == LOAD || way == LOAD_FROM;
    switch (way) {
    case SAVE: return fold_model_save_to(w->m, write_bytes, &file, NULL);
    case SAVE_AS: return fold_model_save(w->m, "build/faults.safetensors", NULL);
    case LOAD: return fold_model_load_memory(w->m, file_of_floats.byte, file_of_floats.n, &d);
    case LOAD_FROM:
        copy = file_of_floats;
        return fold_model_load_from(w->m, read_bytes, &copy, &d);
    case LOAD_INTO_BYTES: return fold_model_load_memory(w->m, file_of_floats.byte, file_of_floats.n, &d);
    case LOAD_BYTES: return fold_model_load_memory(w->m, file_of_bytes.byte, file_of_bytes.n, &d);
    case IN_PLACE:
    case BYTES_IN_PLACE:
        if (way == BYTES_IN_PLACE && in_bytes(w->m)) return fold_model_status(w->m);
        copy = way == IN_PLACE ? file_of_floats : file_of_bytes;
        fold_model_read_in_place(w->m, copy.byte, copy.n);
        wide_params(w);
        return fold_model_status(w->m);
    case QUANTIZE: return in_bytes(w->m);
    case LOOK_UP:
        f = fold_ctx_new(w->m, NULL);
        for (int i = 0; f && i < 30; i++) fold_list_lookup(f, w->table, words, STEPS), fold_lookup(f, w->table, i % WORDS);
        if (f && fold_ctx_status(f)) CHECK_TEXT(fold_ctx_message(f), "memory");
        fold_ctx_free(f);
        return fold_model_status(w->m);
    case TORCH:
        t = fold_torch_open_memory(w->m, file_of_torch.byte, file_of_torch.n);
        fold_torch_linear(t, "fc", FOLD_ACT_TANH);
        fold_torch_norm(t, "norm", FOLD_NORM_LAYER, 0);
        return t ? fold_torch_close(t) : fold_model_status(w->m);
    case FIT: return fit(w);
    default: return fold_model_print_file_memory(w->m, file_of_floats.byte, file_of_floats.n, write_nowhere, &written) == FOLD_OK ? FOLD_OK : FOLD_NO_MEMORY;
    }
}

/* Each request of what reads, writes and turns into bytes refused in turn: an error that says so, and the values of before. */
static void each_request_of_a_file(void)
{
    static float before[WIDE * WIDE * 4];
    make_files();
    for (int way = 0; way < FILE_WAYS; way++) {
        const int inference = way > SAVE_AS && way != LOAD && way != LOAD_FROM && way != TORCH && way != FIT && way != PRINT;
        int refused = 0;
        for (long at = 1, more = 1; more && CHECK(at < 1000); at++) {
            int n;
            refusing r;
            const fold_memory memory = memory_of(&r);
            wide w = wide_new(&memory, inference, way != IN_PLACE && way != BYTES_IN_PLACE && way != TORCH);
            if (way == LOAD_INTO_BYTES || way == LOAD_BYTES || way == LOOK_UP) CHECK_INT(in_bytes(w.m), FOLD_OK);
            const float *values = fold_model_values(w.m, &n);
            CHECK(n < (int)(sizeof before / sizeof *before));
            if (n) memcpy(before, values, (size_t)n * sizeof *before);
            r.at = r.requests + at;
            const fold_status status = with_a_file(&w, way);
            more = r.refused;
            refused += status != FOLD_OK;
            CHECK_SAYS(status == FOLD_OK || status == FOLD_NO_MEMORY, "way %d, request %ld: %s", way, at, fold_model_message(w.m));
            if (status && way != PRINT && way != FIT) CHECK_TEXT(fold_model_message(w.m), "memory");
            if (status && n && way != IN_PLACE && way != BYTES_IN_PLACE && way != TORCH) {
                values = fold_model_values(w.m, &n);
                CHECK_BITS(values, before, n);
            }
            r.at = 0;
            fold_model_clear_error(w.m);
            if (status && way != IN_PLACE && way != BYTES_IN_PLACE && way != TORCH) CHECK_INT(with_a_file(&w, way), FOLD_OK);
            fold_model_free(w.m);
            CHECK_INT(r.live, 0);
        }
        CHECK_SAYS(refused > 0 || way == LOOK_UP || way == SAVE, "way %d asks for nothing", way);
    }
}

/* A writer that stops anywhere is an error of saving, whatever the weights are. */
static int write_some(const void *from, size_t size, void *user)
{
    size_t *left = (size_t *)user;
    (void)from;
    if (size > *left) return 1;
    *left -= size;
    return 0;
}
static void writers_that_stop(void)
{
    for (int bits = 8; bits <= 32; bits *= 2) {
        wide w = wide_new(NULL, 1, 1);
        fold_quantize_desc d = fold_quantize_desc_default();
        size_t n = 0;
        d.min_values = d.tables = 1;
        d.bits = bits;
        if (bits < 32) CHECK_INT(fold_model_quantize(w.m, &d), FOLD_OK);
        CHECK_INT(fold_model_save_to(w.m, write_nowhere, &n, NULL), FOLD_OK);
        for (size_t most = 0; most <= n; most += most < 100 ? 1 : 53) {
            size_t left = most + 53 > n ? n : most;
            const int all = left == n;
            CHECK_INT(fold_model_save_to(w.m, write_some, &left, NULL), all ? FOLD_OK : FOLD_IO);
            fold_model_clear_error(w.m);
        }
        fold_model_free(w.m);
    }
}

/* A table that is added after a training run begins without a touched row, whatever lies in the memory that marks get. */
static void table_after_a_run(void)
{
    refusing r;
    const fold_memory memory = memory_of(&r);
    fold_model *m = fold_model_new(NULL);
    fold_param table[2] = { fold_table_new(m, "first", 6, 3), { 0, 0 } };
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.memory = memory;
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int turn = 0; turn < 2; turn++) {
        if (turn) table[1] = fold_table_new(m, "second", 500, 3);
        for (int step = 0; step < 2; step++) { /* the first step touches a row that the second does not */
            fold_ctx_reset(f);
            fold_grads_clear(m);
            const fold_node both[2] = { fold_sum(f, fold_lookup(f, table[0], 2 + step), FOLD_ALL),
                                        fold_sum(f, fold_lookup(f, table[turn], 4 + step), FOLD_ALL) };
            CHECK_INT(fold_backward(f, fold_sum_n(f, both, 2)), FOLD_OK);
            for (int row = 0; row < 6; row++) {
                const float want[2] = { (float)((row == 2 + step) + (!turn && row == 4 + step)), (float)(row == 4 + step) };
                for (int which = 0; which <= turn; which++)
                    CHECK_SAYS(fold_param_grad(m, table[which])[3 * row] == want[which], "turn %d, step %d, table %d, row %d: %g",
                               turn, step, which, row, (double)fold_param_grad(m, table[which])[3 * row]);
            }
        }
    }
    fold_ctx_free(f);
    fold_model_free(m);
    CHECK_INT(r.live, 0);
}

/* Names that are no text, or long, are told so that a terminal can show them. */
static void names_in_messages(void)
{
    refusing r;
    const fold_memory memory = memory_of(&r);
    fold_model *m = wide_new(&memory, 0, 0).m;
    make_files();
    fold_bias_new(m, "a\x1b\n\xc3\xa4 b\x7f( \t\r\b!", 3);
    CHECK(fold_model_load_memory(m, file_of_floats.byte, file_of_floats.n, NULL) != FOLD_OK);
    CHECK_TEXT(fold_model_message(m), "a??\xc3\xa4 b?( ??\?!");
    fold_model_free(m);
    m = wide_new(&memory, 0, 0).m;
    fold_bias_new(m, "a name that is longer than all that a message has room for, and goes on and on", 3);
    CHECK(fold_model_load_memory(m, file_of_floats.byte, file_of_floats.n, NULL) != FOLD_OK);
    CHECK_TEXT(fold_model_message(m), "a name that is longer than all that a message has room for, a..");
    CHECK(!strstr(fold_model_message(m), "on and on"));
    fold_model_free(m);
}

/* A file that ends anywhere is an error, from memory and read in pieces; what is not asked for is skipped as carefully. */
static void files_that_end(void)
{
    static bytes copy;
    refusing r; /* nothing, but that memory is counted */
    const fold_memory memory = memory_of(&r);
    wide w = wide_new(&memory, 0, 1);
    fold_load_desc d = fold_load_desc_default();
    d.prefix = "x.";
    d.allow_missing = d.allow_unknown = 1;
    make_files();
    for (size_t n = 0; n <= file_of_floats.n; n += n < 2000 ? 1 : 97) {
        const size_t size = n + 97 > file_of_floats.n ? file_of_floats.n : n;
        for (int skips = 0; skips < 2; skips++) {
            copy = file_of_floats;
            copy.n = size;
            const fold_status status = fold_model_load_from(w.m, read_bytes, &copy, skips ? &d : NULL);
            CHECK_SAYS((status == FOLD_OK) == (size == file_of_floats.n), "%zu bytes: %s", size, fold_model_message(w.m));
            fold_model_clear_error(w.m);
            CHECK_INT(fold_model_load_memory(w.m, file_of_floats.byte, size, skips ? &d : NULL) == FOLD_OK, size == file_of_floats.n);
            fold_model_clear_error(w.m);
        }
    }
    fold_model_free(w.m);
    CHECK_INT(r.live, 0);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("faults: blocks of all sizes", blocks_too_small);
    check_run("faults: each request of a context", each_request);
    check_run("faults: each request of a list in strips", strips_without_memory);
    check_run("faults: full arrays", full_arrays);
    check_run("faults: settings without memory", settings_without_memory);
    check_run("faults: each request of a model", each_request_of_a_model);
    check_run("faults: each request of a file", each_request_of_a_file);
    check_run("faults: files that end", files_that_end);
    check_run("faults: writers that stop", writers_that_stop);
    check_run("faults: a table that is added after a run", table_after_a_run);
    check_run("faults: names in messages", names_in_messages);
    return check_finish();
}
