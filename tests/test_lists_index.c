/* test_lists_index.c - lists that read lists by index: rows taken, sums and attention to rows of another list,
   multi-head attention, an index of its own for every row. In all settings against the eager context; against plain
   loops in double precision, gradients by central differences of these.
       cc -O2 -o test_lists_index tests/test_lists_index.c -lm && ./test_lists_index */

#define FOLD__SHARED_WORK 500 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "scenes.h"

static const fold_shape vector = { 1, { WIDTH, 0, 0, 0 } };

/* -- scenes ------------------------------------------------------------------------------------------------------ */

/* n indices below `end`; of nothing none. */
static int some_indices(play *p, int *index, int n, int end)
{
    for (int i = 0; i < n && end; i++) index[i] = random_below(&p->random, end);
    return end ? n : 0;
}

static fold_node takes(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    int index[MAX_ROWS];
    fold_node y[8];
    const fold_node x = see(p, fold_tanh(f, some_list(p, n)));
    for (int i = 0; i < n; i++) index[i] = n - 1 - i;
    y[0] = see(p, fold_square(f, fold_list_take(f, x, index, n))); /* reversed */
    y[1] = see(p, fold_list_take(f, x, index, some_indices(p, index, n + 5, n))); /* unsorted, repeated, some never */
    y[2] = see(p, fold_list_take(f, x, index, 0));
    for (int i = 0; i < 9; i++) index[i] = 0;
    y[3] = n ? see(p, fold_list_take(f, fold_slice(f, x, 0, 1, 3), index, 9)) : x; /* one row of a window, nine times */
    y[4] = fold_mul(f, fold_list_take(f, y[1], index, some_indices(p, index, 3, n)), some_node(p));
    y[5] = fold_gelu_tanh(f, x);
    const int few = n / 5;
    some_indices(p, index, few, n > 3 ? 3 : n); /* few of many, repeated */
    y[6] = see(p, fold_list_take(f, x, index, few));
    y[7] = fold_square(f, fold_list_take(f, fold_slice(f, x, 0, 2, 2), index, few));
    return totals(p, y, 8);
}

/* Lists as values of all their rows, and back: whole, of windows, of looked-up rows, of one row taken apart. */
static fold_node stacks(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    int index[MAX_ROWS];
    fold_node y[9], of_all;
    const fold_node x = see(p, fold_tanh(f, some_list(p, n))), block = see(p, fold_input_ref(f, p->fixed, fold_shape2(5, WIDTH)));
    y[0] = see(p, fold_list_unstack(f, fold_tanh(f, block)));
    y[1] = see(p, fold_list_unstack(f, some_node(p)));
    y[2] = see(p, fold_list_unstack(f, fold_use(f, p->n->matrix)));
    y[3] = see(p, fold_list_unstack(f, fold_reshape(f, fold_mul(f, block, block), fold_shape3(2, 3, WIDTH - 1))));
    if (!n) return totals(p, y, 4);
    of_all = fold_list_stack(f, x);
    y[4] = see(p, fold_list_unstack(f, see(p, fold_cumsum(f, of_all, 0))));
    y[5] = fold_add(f, x, y[4]);
    y[6] = see(p, fold_sum(f, fold_square(f, fold_list_stack(f, fold_slice(f, x, 0, 2, 3))), 0)); /* of a window */
    y[7] = see(p, fold_list_unstack(f, fold_slice(f, of_all, 0, n / 2, n - n / 2)));
    y[8] = fold_mean(f, fold_list_stack(f, fold_list_lookup(f, p->n->table, index, some_indices(p, index, n, WORDS))), 0);
    return fold_add(f, fold_square(f, fold_mean(f, of_all, FOLD_ALL)), totals(p, y, 9));
}

/* Choices among rows, and among the edges of each row: some have none, one has most. */
static fold_node choices(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    int to[MAX_ROWS], label[MAX_ROWS];
    fold_node y[14];
    const fold_node x = see(p, fold_tanh(f, some_list(p, n))), score = see(p, fold_scale(f, fold_dot(f, x, some_node(p)), 5));
    some_indices(p, to, n, 4);
    y[0] = see(p, fold_list_softmax(f, score));
    y[1] = see(p, fold_list_softmax(f, x));
    y[2] = see(p, fold_list_log_softmax(f, fold_slice(f, x, 0, 1, 3))); /* a window */
    y[3] = see(p, fold_list_softmax_entropy(f, x));
    for (int i = 0; i < 2; i++) {
        y[4 * i + 4] = see(p, fold_list_softmax_to(f, x, to, n, 6));
        y[4 * i + 5] = see(p, fold_list_log_softmax_to(f, score, to, n, 6));
        y[4 * i + 6] = see(p, fold_list_logsumexp_to(f, x, to, n, 6));
        y[4 * i + 7] = see(p, fold_list_softmax_entropy_to(f, fold_slice(f, x, 0, 1, 3), to, n, 6));
        for (int k = 0; k < n; k++) to[k] = k / 8; /* then in order */
    }
    if (!n) return totals(p, y, 12);
    for (int k = 0; k < n; k++) to[label[n - 1 - k] = k] = n - 1 - k;
    y[12] = see(p, fold_list_logsumexp(f, score));
    y[13] = see(p, fold_list_choice_xent_to(f, x, label, to, n, n));
    return fold_add(f, fold_list_choice_xent(f, score, n / 2), totals(p, y, 14));
}

/* One list to another: unsorted, with rows that nothing goes to, with none at all. */
static fold_node sums_to(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    int to[MAX_ROWS];
    fold_node y[12];
    const fold_node x = see(p, fold_tanh(f, some_list(p, n))), score = see(p, fold_dot(f, x, some_node(p)));
    const fold_node heads = fold_slice(f, fold_mul(f, x, some_node(p)), 0, 2, 3);
    some_indices(p, to, n, 4);
    for (int i = 0; i < 2; i++) {
        y[6 * i] = see(p, fold_list_sum_to(f, x, to, n, 6));
        y[6 * i + 1] = see(p, fold_list_mean_to(f, x, to, n, 6));
        y[6 * i + 2] = see(p, fold_list_max_to(f, x, to, n, 6));
        y[6 * i + 3] = see(p, fold_list_softmax_mean_to(f, score, x, to, n, 6));
        y[6 * i + 4] = fold_list_sum_to(f, fold_slice(f, x, 0, 2, 3), to, n, 6);
        y[6 * i + 5] = see(p, fold_list_softmax_mean_to(f, heads, x, to, n, 6)); /* a score for each head */
        for (int k = 0; k < n; k++) to[k] = 5; /* then all to one */
    }
    return totals(p, y, 12);
}

static fold_node attention(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    const fold_node x = see(p, fold_tanh(f, some_list(p, n))), other = see(p, fold_tanh(f, some_list(p, 5)));
    const fold_node none = some_list(p, 0), q = fold_linear(f, x, p->n->W, p->n->none), k = fold_linear(f, x, p->n->W, p->n->b);
    const fold_node one = see(p, fold_tanh(f, some_node(p))), values = fold_matmul(f, x, fold_use(f, p->n->matrix));
    fold_node y[11];
    y[0] = see(p, fold_list_attention(f, x, x, x, 1, 0));             /* one list in three places */
    y[1] = see(p, fold_list_attention(f, q, k, x, 2, 0));
    y[2] = see(p, fold_list_attention(f, q, k, values, 3, 1));        /* causal, and narrower values */
    y[3] = see(p, fold_list_attention(f, q, other, fold_square(f, other), 6, 0));
    y[4] = see(p, fold_list_attention(f, x, other, other, 2, 1));     /* causal with other lengths: some see nothing */
    y[5] = see(p, fold_list_attention(f, other, x, x, 3, 1));
    y[6] = see(p, fold_list_attention(f, one, x, x, 2, 0));           /* one query: one node */
    y[7] = see(p, fold_list_attention(f, x, none, none, 2, 0));       /* no keys: zeros */
    y[8] = see(p, fold_list_attention(f, one, none, none, 1, 1));
    y[9] = see(p, fold_list_attention(f, none, x, x, 1, 0));
    y[10] = see(p, fold_list_attention(f, one, x, x, 1, 1));
    CHECK_INT(fold_list_length(f, y[6]), -1);
    CHECK_INT(fold_list_length(f, y[9]), 0);
    return totals(p, y, 11);
}

/* Attention by edges: unsorted, some twice; queries that see nothing, keys that nobody sees. */
static fold_node attention_to(play *p)
{
    fold_ctx *f = p->f;
    const int n = p->size;
    int from[MAX_ROWS], to[MAX_ROWS];
    const fold_node x = see(p, fold_tanh(f, some_list(p, n))), other = see(p, fold_tanh(f, some_list(p, 5)));
    const fold_node none = some_list(p, 0), q = fold_linear(f, x, p->n->W, p->n->none), k = fold_linear(f, x, p->n->W, p->n->b);
    const fold_node values = fold_matmul(f, x, fold_use(f, p->n->matrix));
    fold_node y[8];
    const int edges = some_indices(p, from, 3 * n + 2 < MAX_ROWS ? 3 * n + 2 : MAX_ROWS, n);
    some_indices(p, to, edges, n);
    y[0] = see(p, fold_list_attention_to(f, x, x, x, 2, from, to, edges)); /* one list in three places */
    y[1] = see(p, fold_list_attention_to(f, q, k, values, 3, from, to, edges));
    y[2] = see(p, fold_list_attention_to(f, q, k, fold_slice(f, x, 0, 2, 3), 1, to, from, edges / 2));
    some_indices(p, to, edges, 5);
    y[3] = see(p, fold_list_attention_to(f, other, x, fold_square(f, x), 6, from, to, edges));
    y[4] = see(p, fold_list_attention_to(f, x, other, other, 2, to, from, edges)); /* few keys */
    y[5] = see(p, fold_list_attention_to(f, x, none, none, 2, NULL, NULL, 0));
    y[6] = see(p, fold_list_attention_to(f, none, x, x, 1, NULL, NULL, 0));
    for (int i = 0; i < edges; i++) to[i] = 3;
    y[7] = see(p, fold_list_attention_to(f, other, k, x, 2, from, to, edges)); /* one sees all */
    return totals(p, y, 8);
}

/* Windows of one projection as queries, keys and values, as a transformer has them, two layers of it. */
static fold_node transformer(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    fold_node part[2];
    fold_node x = see(p, some_list(p, p->size));
    for (int layer = 0; layer < 2; layer++) {
        const fold_node norm = fold_layer_norm(f, x, n->gain, n->bias, 0), wide[2] = { norm, fold_tanh(f, x) };
        fold_split(f, fold_concat(f, wide, 2, 0), 2, part);
        const fold_node mixed = fold_list_attention(f, part[0], part[1], fold_slice(f, part[0], 0, 0, WIDTH), 2, layer);
        x = see(p, fold_add(f, x, fold_linear(f, mixed, n->W, n->b)));
        x = fold_add(f, x, fold_mlp_apply(f, &n->mlp, x));
    }
    return total(p, x);
}

/* Layers of the library's own, with dropout and without, and a list normed by its own rows in between. */
static fold_node layers(play *p)
{
    fold_ctx *f = p->f;
    fold_node y[3], x = see(p, some_list(p, p->size));
    x = y[0] = see(p, fold_transformer_apply(f, &p->n->block[0], x, p->sample % 2));
    x = y[1] = see(p, fold_list_standardize(f, x, 0.1f));
    y[2] = see(p, fold_transformer_apply(f, &p->n->block[1], x, 1));
    return totals(p, y, 3);
}

/* Messages along the edges of a graph: a GIN layer, and a layer of attention. */
static fold_node graph_layers(play *p)
{
    fold_ctx *f = p->f;
    const net *n = p->n;
    int from[MAX_ROWS], to[MAX_ROWS];
    const int nodes = p->size, edges = nodes ? nodes + 3 : 0;
    fold_node h = see(p, some_list(p, nodes));
    for (int i = 0; i < edges; i++) {
        from[i] = random_below(&p->random, nodes);
        to[i] = random_below(&p->random, nodes);
    }
    h = fold_mlp_apply(f, &n->mlp, fold_add(f, h, fold_list_sum_to(f, fold_list_take(f, h, from, edges), to, edges, nodes)));
    const fold_node z = see(p, fold_linear(f, h, n->W, n->none)), source = fold_list_take(f, z, from, edges);
    const fold_node ends[2] = { source, fold_list_take(f, z, to, edges) };
    const fold_node score = fold_leaky_relu(f, fold_sum(f, fold_linear_n(f, ends, 2, n->U, n->none), 0), 0.2f);
    h = see(p, fold_list_softmax_mean_to(f, score, source, to, edges, nodes));
    return total(p, h);
}

static fold_node labels(play *p)
{
    fold_ctx *f = p->f;
    int index[MAX_ROWS], label[MAX_ROWS];
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size))), logits = fold_linear(f, x, p->n->V, p->n->none);
    some_indices(p, index, p->size, WIDTH);
    some_indices(p, label, p->size, CLASSES);
    const fold_node y[3] = { see(p, fold_pick_each(f, x, index, p->size)), see(p, fold_softmax_xent_each(f, logits, label, p->size)), x };
    return totals(p, y, 3);
}

/* -- against plain loops in double precision ------------------------------------------------------------------------ */

enum indexed { TAKE, SUM_TO, MEAN_TO, MAX_TO, SOFTMAX_MEAN_TO, ATTENTION, ATTENTION_TO, PICK, XENT };
static const char *const indexed_name[] = { "take", "sum_to", "mean_to", "max_to", "softmax_mean_to", "attention", "attention_to",
                                            "pick", "xent" };
enum { MOST_INPUTS = 3, MOST_FLOATS = 1 << 13, MOST_INDICES = 700, MAX_PROBES = 150 };

/* rows: of the inputs (those of an attention's keys; queries: of the others, ONE_QUERY for a node); width: of the rows
   (of queries and keys); to: rows of the result, where an index names them, of attention_to the edges; index: how it is
   chosen; from: the keys of edges. */
enum { ONE_QUERY = -1 };
enum order { RANDOM, REVERSED, REPEATED, FIRST_ONLY };
typedef struct problem {
    enum indexed op;
    int rows, width, to, order, queries, heads, causal, values;
    int index[MOST_INDICES], from[MOST_INDICES], indices;
    int n_in, size[MOST_INPUTS], out_rows, out_width;
} problem;

static const problem problems[] = {
    { TAKE, 9, 5, 14, RANDOM }, { TAKE, 9, 5, 9, REVERSED }, { TAKE, 4, 17, 40, REPEATED }, { TAKE, 9, 5, 0, RANDOM },
    { TAKE, 0, 3, 0, RANDOM }, { TAKE, 1, 1, 33, FIRST_ONLY }, { TAKE, 300, 20, 400, RANDOM },
    { SUM_TO, 9, 5, 4, RANDOM }, { SUM_TO, 9, 5, 30, REVERSED }, { SUM_TO, 0, 5, 3, RANDOM }, { SUM_TO, 40, 16, 1, FIRST_ONLY },
    { SUM_TO, 300, 7, 20, RANDOM }, { SUM_TO, 0, 5, 0, RANDOM },
    { MEAN_TO, 9, 5, 4, RANDOM }, { MEAN_TO, 50, 3, 70, REPEATED }, { MEAN_TO, 0, 5, 3, RANDOM }, { MEAN_TO, 300, 1, 2, RANDOM },
    { MAX_TO, 9, 5, 4, RANDOM }, { MAX_TO, 50, 3, 70, REPEATED }, { MAX_TO, 0, 5, 3, RANDOM }, { MAX_TO, 300, 17, 2, RANDOM },
    { SOFTMAX_MEAN_TO, 9, 5, 4, RANDOM }, { SOFTMAX_MEAN_TO, 50, 3, 70, REPEATED }, { SOFTMAX_MEAN_TO, 0, 5, 3, RANDOM },
    { SOFTMAX_MEAN_TO, 300, 17, 2, RANDOM }, { SOFTMAX_MEAN_TO, 33, 1, 1, FIRST_ONLY }, { SOFTMAX_MEAN_TO, 700, 6, 2, RANDOM, 0, 3 },
    { SOFTMAX_MEAN_TO, 60, 10, 7, RANDOM, 0, 5 }, { SOFTMAX_MEAN_TO, 40, 40, 3, RANDOM, 0, 2 }, { SOFTMAX_MEAN_TO, 9, 140, 2, RANDOM, 0, 140 },
    { ATTENTION, 7, 6, 0, 0, 7, 1, 0, 6 }, { ATTENTION, 7, 6, 0, 0, 7, 2, 1, 6 }, { ATTENTION, 7, 6, 0, 0, 4, 3, 1, 9 },
    { ATTENTION, 4, 6, 0, 0, 7, 2, 1, 4 }, { ATTENTION, 130, 16, 0, 0, 20, 4, 0, 12 }, { ATTENTION, 70, 5, 0, 0, 75, 1, 1, 5 },
    { ATTENTION, 33, 64, 0, 0, 17, 2, 0, 32 }, { ATTENTION, 9, 6, 0, 0, ONE_QUERY, 2, 0, 6 },
    { ATTENTION, 9, 6, 0, 0, ONE_QUERY, 1, 1, 3 }, { ATTENTION, 0, 6, 0, 0, 3, 2, 0, 6 }, { ATTENTION, 0, 6, 0, 0, ONE_QUERY, 2, 1, 6 },
    { ATTENTION, 5, 6, 0, 0, 0, 2, 0, 6 }, { ATTENTION, 1, 1, 0, 0, 1, 1, 1, 1 },
    { ATTENTION_TO, 9, 6, 20, RANDOM, 7, 2, 0, 4 }, { ATTENTION_TO, 40, 32, 300, RANDOM, 20, 2, 0, 32 },
    { ATTENTION_TO, 30, 5, 600, RANDOM, 3, 1, 0, 7 }, { ATTENTION_TO, 4, 12, 50, REPEATED, 12, 3, 0, 9 },
    { ATTENTION_TO, 50, 20, 700, FIRST_ONLY, 3, 1, 0, 18 }, { ATTENTION_TO, 9, 6, 0, RANDOM, 7, 2, 0, 6 },
    { ATTENTION_TO, 0, 6, 0, RANDOM, 4, 1, 0, 6 }, { ATTENTION_TO, 5, 6, 0, RANDOM, 0, 1, 0, 6 },
    { ATTENTION_TO, 1, 1, 3, RANDOM, 1, 1, 0, 1 }, { ATTENTION_TO, 80, 8, 500, REVERSED, 100, 8, 0, 8 },
    { PICK, 9, 5, 0, RANDOM }, { PICK, 0, 5, 0, RANDOM }, { PICK, 300, 1, 0, RANDOM }, { PICK, 40, 33, 0, RANDOM },
    { XENT, 9, 5, 0, RANDOM }, { XENT, 0, 5, 0, RANDOM }, { XENT, 1, 17, 0, RANDOM }, { XENT, 40, 33, 0, RANDOM },
};

static int queries_of(const problem *p) { return p->queries == ONE_QUERY ? 1 : p->queries; }
static int attends(const problem *p) { return p->op == ATTENTION || p->op == ATTENTION_TO; }
static int heads_of(const problem *p) { return p->heads ? p->heads : 1; }

/* Sizes of inputs and result, and the index. */
static void set_up(problem *p)
{
    check_random r = { 77 };
    const int by_row = p->op == PICK || p->op == XENT;
    const int end = p->op == TAKE ? p->rows : by_row ? p->width : p->op == ATTENTION_TO ? p->queries : p->to;
    p->n_in = attends(p) ? 3 : p->op == SOFTMAX_MEAN_TO ? 2 : 1;
    p->size[p->n_in - 1] = p->rows * (attends(p) ? p->values : p->width);
    if (p->op == SOFTMAX_MEAN_TO) p->size[0] = p->rows * heads_of(p);
    if (attends(p)) p->size[0] = queries_of(p) * p->width;
    if (attends(p)) p->size[1] = p->rows * p->width;
    p->out_rows = attends(p) ? queries_of(p) : by_row ? p->rows : p->to;
    p->out_width = attends(p) ? p->values : by_row ? 1 : p->width;
    p->indices = p->op == TAKE || p->op == ATTENTION_TO ? p->to : p->rows;
    for (int i = 0; i < p->indices; i++) p->from[i] = random_below(&r, p->rows);
    for (int i = 0; i < p->indices && end; i++)
        p->index[i] = p->order == REVERSED     ? (end - 1 - i % end)
                      : p->order == REPEATED   ? i % 7 % end * (end > 40 ? 9 : 1)
                      : p->order == FIRST_ONLY ? 0
                                               : random_below(&r, end);
}

static fold_node record_indexed(fold_ctx *f, const problem *p, const fold_node *in)
{
    switch (p->op) {
    case TAKE: return fold_list_take(f, in[0], p->index, p->indices);
    case SUM_TO: return fold_list_sum_to(f, in[0], p->index, p->indices, p->to);
    case MEAN_TO: return fold_list_mean_to(f, in[0], p->index, p->indices, p->to);
    case MAX_TO: return fold_list_max_to(f, in[0], p->index, p->indices, p->to);
    case SOFTMAX_MEAN_TO: return fold_list_softmax_mean_to(f, in[0], in[1], p->index, p->indices, p->to);
    case ATTENTION: return fold_list_attention(f, in[0], in[1], in[2], p->heads, p->causal);
    case ATTENTION_TO: return fold_list_attention_to(f, in[0], in[1], in[2], p->heads, p->from, p->index, p->indices);
    case PICK: return fold_pick_each(f, in[0], p->index, p->indices);
    default: return fold_softmax_xent_each(f, in[0], p->index, p->indices);
    }
}

/* y = the sum over k of weight[k] row[k], weights being the softmax of n scores, which become exponentials. */
static void softmax_sum(double *score, const double *const *row, int n, int width, double *y)
{
    const double first = n ? score[0] : 0;
    double sum = 0;
    for (int i = 0; i < width; i++) y[i] = 0;
    for (int k = 0; k < n; k++) sum += score[k] = exp(score[k] - first);
    for (int k = 0; k < n * width; k++) y[k % width] += score[k / width] / sum * row[k / width][k % width];
}

/* The key rows that query q sees; how many. */
static int keys_seen(const problem *p, int q, int *key)
{
    const int causal = q + p->rows - queries_of(p) + 1;
    int n = 0;
    for (int k = 0; k < p->indices && p->op == ATTENTION_TO; k++)
        if (p->index[k] == q) key[n++] = p->from[k];
    for (int k = 0; k < (p->causal && causal < p->rows ? causal : p->rows) && p->op == ATTENTION; k++) key[n++] = k;
    return n;
}

static void reference_attention(const problem *p, double *const *in, double *y)
{
    static double score[MOST_INDICES];
    static const double *row[MOST_INDICES];
    static int key[MOST_INDICES];
    const int m = queries_of(p), d = p->width / p->heads, e = p->values / p->heads;
    for (int i = 0; i < m * p->heads; i++) {
        const int q = i / p->heads, head = i % p->heads, n = keys_seen(p, q, key);
        for (int k = 0; k < n; k++) {
            score[k] = 0;
            for (int j = 0; j < d; j++) score[k] += in[0][q * p->width + head * d + j] * in[1][key[k] * p->width + head * d + j];
            score[k] /= sqrt((double)d);
            row[k] = in[2] + key[k] * p->values + head * e;
        }
        softmax_sum(score, row, n, e, y + q * p->values + head * e);
    }
}

/* Row j of …_to, whose heads are equal parts. */
static void reference_to(const problem *p, double *const *in, int j, double *y)
{
    static double score[MOST_INDICES];
    static const double *row[MOST_INDICES];
    const int heads = heads_of(p), part = p->width / heads;
    int n = 0;
    for (int head = 0; head < heads; head++) {
        n = 0;
        for (int k = 0; k < p->rows; k++) {
            if (p->index[k] != j) continue;
            score[n] = p->op == SOFTMAX_MEAN_TO ? in[0][k * heads + head] : 0;
            row[n++] = in[p->n_in - 1] + k * p->width + head * part;
        }
        softmax_sum(score, row, n, part, y + head * part);
    }
    for (int i = 0; i < p->width && n; i++) {
        if (p->op == SUM_TO) y[i] *= n;
        for (int k = 0; k < n && p->op == MAX_TO; k++) y[i] = k ? fmax(y[i], row[k][i]) : row[0][i];
    }
}

static void reference_of(const problem *p, double *const *in, double *y)
{
    const int w = p->width;
    if (attends(p)) reference_attention(p, in, y);
    for (int i = 0; i < p->out_rows && !attends(p); i++) {
        if (p->op == TAKE) memcpy(y + i * w, in[0] + p->index[i] * w, (size_t)w * sizeof *y);
        else if (p->op == PICK) y[i] = in[0][i * w + p->index[i]];
        else if (p->op != XENT) reference_to(p, in, i, y + i * w);
        else {
            y[i] = -in[0][i * w + p->index[i]];
            double sum = 0;
            for (int k = 0; k < w; k++) sum += exp(in[0][i * w + k]);
            y[i] += log(sum);
        }
    }
}

static float problem_data[MOST_INPUTS][MOST_FLOATS], problem_weight[MOST_FLOATS];
static double problem_in[MOST_INPUTS][MOST_FLOATS];

static double reference_loss(const problem *p)
{
    static double y[MOST_FLOATS];
    double *in[MOST_INPUTS] = { problem_in[0], problem_in[1], problem_in[2] }, sum = 0;
    reference_of(p, in, y);
    for (int i = 0; i < p->out_rows * p->out_width; i++) sum += y[i] * (double)problem_weight[i];
    return sum;
}

/* What a problem must give, whoever computes it; of an input's gradients every so many. */
static double problem_want[MOST_FLOATS], problem_slope[MOST_INPUTS][MOST_FLOATS];
static int probe_step(const problem *p, int k) { return 1 + p->size[k] / MAX_PROBES; }

static void solve_problem(const problem *p)
{
    const double h = 1e-5;
    double *in[MOST_INPUTS] = { problem_in[0], problem_in[1], problem_in[2] };
    reference_of(p, in, problem_want);
    for (int k = 0; k < p->n_in; k++)
        for (int i = 0; i < p->size[k]; i += probe_step(p, k)) {
            double *x = &problem_in[k][i];
            const double before = *x;
            *x = before + h;
            const double above = reference_loss(p);
            *x = before - h;
            problem_slope[k][i] = (above - reference_loss(p)) / (2 * h);
            *x = before;
        }
}

static void compare_values(const problem *p, const char *where, const float *got)
{
    for (int i = 0; i < p->out_rows * p->out_width; i++) {
        const double want = problem_want[i];
        CHECK_SAYS(fabs((double)got[i] - want) <= 1e-5 * (1 + fabs(want)), "%s: value %d is %.9g, want %.9g", where, i,
                   (double)got[i], want);
    }
}

static void compare_gradient(const problem *p, const char *where, int k, const float *got)
{
    for (int i = 0; i < p->size[k]; i += probe_step(p, k)) {
        const double want = problem_slope[k][i];
        CHECK_SAYS(fabs((double)got[i] - want) <= 2e-5 * (1 + fabs(want)), "%s: gradient %d of input %d is %.9g, want %.9g",
                   where, i, k, (double)got[i], want);
    }
}

/* The gradient of a taken row is exactly the sum of its uses' in the order of the index, from zero. */
static void exact_take(const problem *p, const char *where, const float *got)
{
    for (int i = 0; i < p->size[0]; i++) {
        float sum = 0;
        for (int k = 0; k < p->indices; k++)
            if (p->index[k] == i / p->width) sum = sum + problem_weight[k * p->width + i % p->width];
        CHECK_SAYS(got[i] == sum, "%s: gradient %d is %.9g, by the rule %.9g", where, i, (double)got[i], (double)sum);
    }
}

static void fill_problem(const problem *p)
{
    check_random r = { 31 };
    for (int k = 0; k < p->n_in; k++) {
        if (!CHECK(p->size[k] <= MOST_FLOATS)) exit(1);
        random_fill(&r, problem_data[k], (size_t)p->size[k], -2, 2);
        for (int i = 0; i < p->size[k]; i++) problem_in[k][i] = (double)problem_data[k][i];
    }
    random_fill(&r, problem_weight, (size_t)(p->out_rows * p->out_width), -1, 1);
}

static void run_problem(const problem *p, fold_ctx *f, const char *where)
{
    fold_node in[MOST_INPUTS];
    const int node = p->op == ATTENTION && p->queries == ONE_QUERY;
    fold_ctx_reset(f);
    for (int k = 0; k < p->n_in; k++) {
        const int rows = k == 0 && attends(p) ? queries_of(p) : p->rows;
        const int width = p->op == SOFTMAX_MEAN_TO && k == 0 ? heads_of(p) : attends(p) && k == 2 ? p->values : p->width;
        in[k] = node && k == 0 ? fold_input(f, problem_data[k], width)
                               : fold_list_input(f, problem_data[k], rows, fold_shape1(width));
        fold_keep_grad(f, in[k]);
    }
    const fold_node y = record_indexed(f, p, in), row = fold_input(f, problem_weight, p->out_width);
    const fold_node weight = node ? row : fold_list_input(f, problem_weight, p->out_rows, fold_shape1(p->out_width));
    const fold_node loss = fold_dot(f, y, weight);
    fold_keep(f, y);
    CHECK_INT(fold_list_length(f, y), node ? -1 : p->out_rows);
    if (!CHECK_SAYS(!fold_backward(f, node ? loss : fold_list_sum(f, loss)), "%s: %s", where, fold_ctx_message(f))) return;
    compare_values(p, where, fold_value(f, y));
    for (int k = 0; k < p->n_in; k++) {
        const float *g = fold_grad(f, in[k]);
        if (!CHECK_SAYS(g, "%s: %s", where, fold_ctx_message(f))) continue;
        compare_gradient(p, where, k, g);
        if (p->op == TAKE) exact_take(p, where, g);
    }
}

static void against_references(void)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        static problem p;
        char where[120];
        p = problems[i];
        set_up(&p);
        fill_problem(&p);
        solve_problem(&p);
        for (int k = 0; k < KERNEL_SETS * 2; k++) {
            fold_model *m = kernel_set_model(kernel_set[k / 2]);
            const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, k % 2, 0 };
            if (!m) continue;
            fold_ctx *f = open_setting(m, &s, 1);
            snprintf(where, sizeof where, "%s of %d rows of %d, problem %d, %s%s", indexed_name[p.op], p.rows, p.width, (int)i,
                     kernel_set[k / 2], k % 2 ? ", eager" : "");
            run_problem(&p, f, where);
            fold_ctx_free(f);
            fold_model_free(m);
        }
    }
}

/* -- lists as values ---------------------------------------------------------------------------------------------------- */

/* A part of each row, [start, start + width), stacked; and the value's rows as a list. Gradients are the weights. */
static void stacked_part(fold_ctx *f, int n, int start, int width)
{
    static float x[300 * WIDTH], weight[300 * WIDTH];
    check_random r = { 5 };
    random_fill(&r, x, 300 * WIDTH, -1, 1);
    random_fill(&r, weight, 300 * WIDTH, -1, 1);
    fold_ctx_reset(f);
    const fold_node list = fold_list_input(f, x, n, vector), part = fold_slice(f, list, 0, start, width), y = fold_list_stack(f, part);
    const fold_shape shape = fold_node_shape(f, y);
    const fold_node rows = fold_list_unstack(f, fold_mul(f, y, fold_input_shaped(f, weight, fold_shape2(n, width))));
    CHECK(shape.rank == 2 && shape.dim[0] == n && shape.dim[1] == width && fold_list_length(f, y) == -1 && fold_list_length(f, rows) == n);
    fold_keep(f, y);
    fold_keep(f, rows);
    fold_keep_grad(f, list);
    if (!CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_list_sum(f, rows), FOLD_ALL)), "%s", fold_ctx_message(f))) return;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < WIDTH; k++) {
            const int inside = k >= start && k < start + width, at = i * width + k - start;
            CHECK_SAYS(!inside || (fold_value(f, y)[at] == x[i * WIDTH + k] && fold_value(f, rows)[at] == x[i * WIDTH + k] * weight[at]),
                       "%d rows: row %d, value %d", n, i, k);
            CHECK_SAYS(fold_grad(f, list)[i * WIDTH + k] == (inside ? weight[at] : 0), "%d rows: gradient %d of row %d", n, k, i);
        }
}
static void lists_as_values(void)
{
    static const int lengths[] = { 1, 2, 17, 300 };
    for (int k = 0; k < KERNEL_SETS * 2; k++) {
        fold_model *m = kernel_set_model(kernel_set[k / 2]);
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, k % 2, 0 };
        if (!m) continue;
        fold_ctx *f = open_setting(m, &s, 1);
        for (int i = 0; i < 4; i++) {
            stacked_part(f, lengths[i], 0, WIDTH);
            stacked_part(f, lengths[i], 2, 3);
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* -- choices among rows are those among the values of a vector, bit for bit ---------------------------------------------- */

enum { CHOICES = 5, MOST_CHOICES = 300, AS_LIST = 1, AS_SECOND, AS_EDGES };
static fold_node choice_of_vector(fold_ctx *f, int op, fold_node x, int n)
{
    switch (op) {
    case 0: return fold_softmax(f, x);
    case 1: return fold_log_softmax(f, x);
    case 2: return fold_logsumexp(f, x, 0);
    case 3: return fold_softmax_entropy(f, x);
    default: return fold_softmax_xent(f, x, n / 2);
    }
}
static fold_node choice_of_list(fold_ctx *f, int op, fold_node x, int n)
{
    switch (op) {
    case 0: return fold_list_softmax(f, x);
    case 1: return fold_list_log_softmax(f, x);
    case 2: return fold_list_logsumexp(f, x);
    case 3: return fold_list_softmax_entropy(f, x);
    default: return fold_list_choice_xent(f, x, n / 2);
    }
}
/* Of 2 n edges those with odd numbers go to row 1; row 2 has none, where it may be so. Gives row 1, or its edges. */
static fold_node choice_of_edges(fold_ctx *f, int op, fold_node x, int n)
{
    int to[2 * MOST_CHOICES], odd[MOST_CHOICES];
    const int label[2] = { 0, n / 2 * 2 + 1 };
    fold_node all;
    for (int e = 0; e < 2 * n; e++) to[e] = e % 2, odd[e / 2] = 2 * (e / 2) + 1;
    switch (op) {
    case 0: all = fold_list_softmax_to(f, x, to, 2 * n, 3); break;
    case 1: all = fold_list_log_softmax_to(f, x, to, 2 * n, 3); break;
    case 2: all = fold_list_logsumexp_to(f, x, to, 2 * n, 3); break;
    case 3: all = fold_list_softmax_entropy_to(f, x, to, 2 * n, 3); break;
    default: all = fold_list_choice_xent_to(f, x, label, to, 2 * n, 2);
    }
    if (op < 2) return fold_list_take(f, all, odd, n);
    return op == 4 ? fold_list_at(f, all, 1) : fold_add(f, fold_list_at(f, all, 1), fold_list_at(f, all, 2));
}

/* Value and gradient of x: as a list, as the second of two values in each row, as every second edge, or as a vector. */
static void run_choice(fold_ctx *f, int op, const float *x, const float *weight, int n, int how, float *to)
{
    float wide[2 * MOST_CHOICES];
    fold_node in, y, loss;
    fold_ctx_reset(f);
    for (int i = 0; i < n; i++) wide[2 * i] = -3 * x[i], wide[2 * i + 1] = x[i];
    switch (how) {
    case AS_LIST: in = fold_list_input(f, x, n, fold_shape1(1)); y = choice_of_list(f, op, in, n); break;
    case AS_SECOND:
        in = fold_list_input(f, wide, n, fold_shape1(2));
        y = fold_slice(f, choice_of_list(f, op, in, n), 0, 1, 1);
        break;
    case AS_EDGES: in = fold_list_input(f, wide, 2 * n, fold_shape1(1)); y = choice_of_edges(f, op, in, n); break;
    default: in = fold_input(f, x, n); y = choice_of_vector(f, op, in, n);
    }
    const int list = fold_list_length(f, y) >= 0, count = op < 2 ? n : 1;
    CHECK_INT(list, how && op < 2);
    loss = fold_mul(f, y, list ? fold_list_input(f, weight, n, fold_shape1(1)) : fold_input(f, weight, count));
    fold_keep(f, y);
    fold_keep_grad(f, in);
    loss = list ? fold_list_sum(f, loss) : fold_sum(f, loss, FOLD_ALL);
    if (!CHECK_SAYS(!fold_backward(f, loss) && !fold_read(f, &y, 1, to), "%d rows: %s", n, fold_ctx_message(f))) return;
    for (int i = 0; i < n; i++) to[count + i] = fold_grad(f, in)[how >= AS_SECOND ? 2 * i + 1 : i];
}
static void choices_are_vectors(void)
{
    enum { LENGTHS = 42 }; /* 1 to 40, 100 and 300 */
    static float want[2 * MOST_CHOICES], got[2 * MOST_CHOICES], x[MOST_CHOICES], weight[MOST_CHOICES];
    check_random r = { 3 };
    random_fill(&r, x, MOST_CHOICES, -9, 9);
    random_fill(&r, weight, MOST_CHOICES, -1, 1);
    for (int k = 0; k < KERNEL_SETS * 2 * CHOICES; k++) {
        fold_model *m = kernel_set_model(kernel_set[k / 2 / CHOICES]);
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, k % 2, 0 };
        const int op = k / 2 % CHOICES;
        if (!m) continue;
        fold_ctx *f = open_setting(m, &s, 1);
        for (int i = 0; i < 3 * LENGTHS; i++) {
            const int n = i / 3 < 40 ? i / 3 + 1 : i / 3 == 40 ? 100 : MOST_CHOICES, floats = (op < 2 ? n : 1) + n;
            run_choice(f, op, x, weight, n, 0, want);
            run_choice(f, op, x, weight, n, AS_LIST + i % 3, got);
            for (int at = 0; at < floats; at++) /* a zero has the same sign, too */
                CHECK_SAYS(!memcmp(&got[at], &want[at], sizeof *got), "%s, op %d of %d rows: float %d is %.9g, of a vector %.9g", kernel_set[k / 2 / CHOICES], op, n, at, (double)got[at], (double)want[at]);
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Rows of a table from one on are those looked up by an array: values and the table's gradient, replayed too. */
static void positions_are_lookups(void)
{
    static float want[2][WORDS * WIDTH], got[2][WORDS * WIDTH];
    net n;
    net_open(&n, fold_model_new(NULL));
    for (int k = 0; k < 2 * 4 * 2; k++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, k % 2, 0 };
        const int rows[4] = { 0, 1, 7, WORDS }, count = rows[k / 2 % 4], first = k / 8 ? (WORDS - count) / 2 : 0;
        fold_ctx *f = open_setting(n.m, &s, 1);
        for (int by_array = 0; by_array < 2; by_array++) {
            int index[WORDS];
            for (int i = 0; i < count; i++) index[i] = first + i;
            fold_ctx_reset(f);
            fold_grads_clear(n.m);
            const fold_node x = by_array ? fold_list_lookup(f, n.words, index, count) : fold_list_positions(f, n.words, first, count);
            const fold_node y = fold_square(f, x);
            fold_keep(f, y);
            CHECK_INT(fold_list_length(f, x), count);
            CHECK_SAYS(!fold_backward(f, fold_sum(f, fold_list_sum(f, y), FOLD_ALL)) && !fold_replay(f), "%s", fold_ctx_message(f));
            CHECK(!fold_read(f, &y, 1, by_array ? want[0] : got[0]));
            memcpy(by_array ? want[1] : got[1], fold_param_grad(n.m, n.words), sizeof want[1]);
            if (!by_array) continue;
            CHECK_BITS(got[0], want[0], count * WIDTH);
            CHECK_BITS(got[1], want[1], WORDS * WIDTH);
        }
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* A draw of a row is a draw of its floats; what cannot be read draws nothing, and says why. */
static void rows_are_drawn(void)
{
    static const float x[5] = { 1, 0, 2, -1, 0.5f };
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_random by_row = fold_random_new(1, 2), by_floats = by_row;
    const fold_node list = fold_list_input(f, x, 5, fold_shape1(1)), y = fold_tanh(f, list);
    const fold_node wide = fold_list_input(f, x, 2, fold_shape1(2)), none = fold_list_input(f, x, 0, fold_shape1(1));
    CHECK_INT(fold_random_row(&by_row, f, y), -1);
    CHECK_TEXT(fold_ctx_message(f), "value");
    CHECK(!fold_run(f, &y, 1));
    by_row = by_floats;
    for (int i = 0; i < 50; i++) CHECK_INT(fold_random_row(&by_row, f, y), fold_random_softmax(&by_floats, fold_value(f, y), 5));
    CHECK_INT(fold_random_row(&by_row, f, wide), -1);
    CHECK_INT(fold_random_row(&by_row, f, none), -1);
    CHECK_INT(fold_random_row(&by_row, f, fold_input(f, x, 1)), -1);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- …_to against the ops over nodes, bit for bit --------------------------------------------------------------------- */

enum { NODES = 90, GOALS = 5 };

static fold_node goal_of_nodes(fold_ctx *f, int op, const fold_node *score, const fold_node *x, int n)
{
    if (!n) return fold_zeros(f, vector);
    switch (op) {
    case 0: return fold_sum_n(f, x, n);
    case 1: return fold_mean_n(f, x, n);
    case 2: return fold_max_n(f, x, n);
    default: return fold_softmax_mean_n(f, score, x, n);
    }
}

/* Values and gradients of all rows; the rows that go to goal 3 are none, to goal 0 most. */
static void run_goals(fold_ctx *f, int op, int listed, float *to)
{
    static float data[NODES * (WIDTH + 1)];
    int goal[NODES];
    check_random r = { 13 };
    fold_node x[NODES], s[NODES], some_x[NODES], some_s[NODES], y[GOALS], loss[GOALS];
    random_fill(&r, data, NODES * (WIDTH + 1), -2, 2);
    for (int k = 0; k < NODES; k++) goal[k] = random_below(&r, 3) ? 0 : random_below(&r, GOALS) % 3 + (k % 9 == 4 ? 2 : 0);
    for (int k = 0; k < NODES; k++) goal[k] = goal[k] == 3 ? 4 : goal[k];
    fold_ctx_reset(f);
    for (int k = 0; k < (listed ? 1 : NODES); k++) {
        x[k] = listed ? fold_list_input(f, data, NODES, vector) : fold_input(f, data + k * WIDTH, WIDTH);
        s[k] = listed ? fold_list_input(f, data + NODES * WIDTH, NODES, fold_shape1(1)) : fold_input(f, data + NODES * WIDTH + k, 1);
        fold_keep_grad(f, x[k]);
        fold_keep_grad(f, s[k]);
    }
    fold_node all = { 0, 0 };
    if (listed) all = op == 0 ? fold_list_sum_to(f, x[0], goal, NODES, GOALS) : op == 1 ? fold_list_mean_to(f, x[0], goal, NODES, GOALS)
                      : op == 2 ? fold_list_max_to(f, x[0], goal, NODES, GOALS) : fold_list_softmax_mean_to(f, s[0], x[0], goal, NODES, GOALS);
    for (int j = 0; j < GOALS; j++) {
        int n = 0;
        for (int k = 0; k < NODES && !listed; k++) {
            if (goal[k] != j) continue;
            some_x[n] = x[k];
            some_s[n++] = s[k];
        }
        y[j] = listed ? fold_list_at(f, all, j) : goal_of_nodes(f, op, some_s, some_x, n);
        fold_keep(f, y[j]);
        loss[j] = fold_dot(f, y[j], y[j]);
    }
    CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, GOALS)), "%s", fold_ctx_message(f));
    fold_read(f, y, GOALS, to);
    to += GOALS * WIDTH;
    for (int k = 0; k < (listed ? 1 : NODES); k++) {
        const float *dx = fold_grad(f, x[k]), *ds = op == 3 ? fold_grad(f, s[k]) : NULL;
        const size_t rows = listed ? NODES : 1;
        if (!CHECK_SAYS(dx && (ds || op < 3), "%s", fold_ctx_message(f))) continue;
        memcpy(to + k * WIDTH, dx, rows * WIDTH * sizeof *to);
        if (ds) memcpy(to + NODES * WIDTH + k, ds, rows * sizeof *to);
    }
}

static void goals_are_nodes(void)
{
    enum { FLOATS = GOALS * WIDTH + NODES * (WIDTH + 1) };
    fold_model *m = fold_model_new(NULL);
    for (int op = 0; op < 4; op++) {
        static float want[FLOATS], got[FLOATS];
        for (int eager = 0; eager < 2; eager++) {
            const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
            fold_ctx *f = open_setting(m, &s, 1);
            if (!eager) run_goals(f, op, 0, want);
            run_goals(f, op, 1, got);
            if (!CHECK_BITS(got, want, FLOATS)) printf("    op %d, eager %d\n", op, eager);
            fold_ctx_free(f);
        }
    }
    fold_model_free(m);
}

/* Many takes of few rows of windows: what they give is added in their order, each take's sums made from zero before. */
static void few_of_many(void)
{
    enum { MANY = 60, ALL = 5, PART = 3, TAKES = 12, FEW = 7 };
    float x[MANY * ALL], weight[TAKES][FEW * PART];
    int index[TAKES][FEW];
    check_random r = { 9 };
    fold_model *m = fold_model_new(NULL);
    random_fill(&r, x, MANY * ALL, -1, 1);
    for (int t = 0; t < TAKES; t++) {
        random_fill(&r, weight[t], FEW * PART, -1, 1);
        for (int k = 0; k < FEW; k++) index[t][k] = random_below(&r, 9) * 7; /* rows meet often, in a take too */
    }
    for (int eager = 0; eager < 2; eager++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
        fold_ctx *f = open_setting(m, &s, 1);
        const fold_node list = fold_list_input(f, x, MANY, fold_shape1(ALL));
        fold_node loss[TAKES];
        fold_keep_grad(f, list);
        for (int t = 0; t < TAKES; t++) {
            const fold_node w = fold_list_input(f, weight[t], FEW, fold_shape1(PART)), part = fold_slice(f, list, 0, t % 3, PART);
            loss[t] = fold_list_sum(f, fold_dot(f, fold_list_take(f, part, index[t], FEW), w));
        }
        if (!CHECK_SAYS(!fold_backward(f, fold_sum_n(f, loss, TAKES)), "%s", fold_ctx_message(f))) return;
        for (int i = 0; i < MANY * ALL; i++) {
            float want = 0;
            for (int t = 0; t < TAKES; t++) {
                const int column = i % ALL - t % 3;
                float sum = 0;
                for (int k = 0; k < FEW && column >= 0 && column < PART; k++)
                    if (index[t][k] == i / ALL) sum = sum + weight[t][k * PART + column];
                want = want + sum;
            }
            CHECK_SAYS(fold_grad(f, list)[i] == want, "eager %d: gradient %d is %.9g, by the rule %.9g", eager, i,
                       (double)fold_grad(f, list)[i], (double)want);
        }
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* -- attention by edges against attention to all, bit for bit ----------------------------------------------------------- */

enum { ROWS = 23, EDGES = 200, WIDE = 34 };

/* Each row is what fold_list_attention gives its query with the rows that it sees. */
static void edges_are_takes(void)
{
    float x[3][ROWS * WIDE], want[ROWS * WIDE], got[ROWS * WIDE];
    int from[EDGES], to[EDGES];
    check_random r = { 5 };
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node in[3], row[ROWS];
    for (int k = 0; k < 3; k++) random_fill(&r, x[k], ROWS * WIDE, -2, 2);
    for (int e = 0; e < EDGES; e++) {
        from[e] = random_below(&r, ROWS);
        to[e] = random_below(&r, 3) ? random_below(&r, ROWS - 1) : 7; /* the last row sees nothing, the eighth much */
    }
    for (int k = 0; k < 3; k++) in[k] = fold_list_input(f, x[k], ROWS, fold_shape1(WIDE));
    for (int i = 0; i < ROWS; i++) {
        int seen[EDGES], n = 0;
        for (int e = 0; e < EDGES; e++)
            if (to[e] == i) seen[n++] = from[e];
        row[i] = fold_list_attention(f, fold_list_at(f, in[0], i), fold_list_take(f, in[1], seen, n),
                                     fold_list_take(f, in[2], seen, n), 2, 0);
    }
    const fold_node all = fold_list_attention_to(f, in[0], in[1], in[2], 2, from, to, EDGES);
    fold_keep(f, all);
    CHECK_SAYS(!fold_run(f, row, ROWS), "%s", fold_ctx_message(f));
    CHECK(!fold_read(f, row, ROWS, want) && !fold_read(f, &all, 1, got));
    CHECK_BITS(got, want, ROWS * WIDE);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Where all see all, gradients have the bits of fold_list_attention, too. */
static void all_edges_are_attention(void)
{
    static float x[3][ROWS * WIDE], result[2][4 * ROWS * WIDE];
    int from[ROWS * ROWS], to[ROWS * ROWS];
    check_random r = { 6 };
    fold_model *m = fold_model_new(NULL);
    for (int k = 0; k < 3; k++) random_fill(&r, x[k], ROWS * WIDE, -2, 2);
    for (int e = 0; e < ROWS * ROWS; e++) {
        from[e] = e / ROWS; /* in the order of the keys, whose order is that of what each query sees */
        to[e] = e % ROWS;
    }
    for (int by_edges = 0; by_edges < 2; by_edges++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 };
        fold_ctx *f = open_setting(m, &s, 1);
        fold_node in[3];
        for (int k = 0; k < 3; k++) fold_keep_grad(f, in[k] = fold_list_input(f, x[k], ROWS, fold_shape1(WIDE)));
        const fold_node y = by_edges ? fold_list_attention_to(f, in[0], in[1], in[2], 2, from, to, ROWS * ROWS)
                                     : fold_list_attention(f, in[0], in[1], in[2], 2, 0);
        fold_keep(f, y);
        if (CHECK_SAYS(!fold_backward(f, fold_list_sum(f, fold_dot(f, y, y))), "%s", fold_ctx_message(f))) {
            memcpy(result[by_edges], fold_value(f, y), sizeof x[0]);
            for (int k = 0; k < 3; k++) memcpy(result[by_edges] + (k + 1) * ROWS * WIDE, fold_grad(f, in[k]), sizeof x[0]);
        }
        fold_ctx_free(f);
    }
    CHECK_BITS(result[1], result[0], 4 * ROWS * WIDE);
    fold_model_free(m);
}

/* Plans replay with other indices, not with other lengths of them. */
static void plans_of_indices(void)
{
    static const struct { int n, seed, hits; } run[] = { { 8, 1, 0 }, { 8, 2, 0 }, { 9, 2, 0 }, { 8, 3, 1 }, { 0, 1, 1 }, { 0, 2, 1 } };
    fold_model *m = fold_model_new(NULL);
    const setting kept = { "", FOLD_SCHEDULE_RATIO, 0, 1 << 18, 0, 0, 0 }, eager = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, 0 };
    fold_ctx *f[2] = { open_setting(m, &kept, 1), open_setting(m, &eager, 1) };
    for (int i = 0; i < (int)(sizeof run / sizeof *run); i++) {
        float x[2][7 * WIDTH];
        for (int k = 0; k < 2; k++) {
            check_random r = { (uint64_t)run[i].seed };
            int index[9], to[9];
            for (int j = 0; j < 9; j++) index[j] = random_below(&r, 7);
            for (int j = 0; j < 9; j++) to[j] = random_below(&r, 4);
            random_fill(&r, x[k], 7 * WIDTH, -1, 1);
            fold_ctx_reset(f[k]);
            const fold_node in = fold_list_input(f[k], x[k], 7, vector), taken = fold_list_take(f[k], in, index, run[i].n);
            const fold_node sum = fold_list_sum_to(f[k], taken, to, run[i].n, 4), picked = fold_pick_each(f[k], taken, to, run[i].n);
            fold_keep_grad(f[k], in);
            const fold_node parts[2] = { fold_list_sum(f[k], fold_dot(f[k], sum, sum)), fold_list_sum(f[k], picked) };
            CHECK_SAYS(!fold_backward(f[k], fold_sum_n(f[k], parts, 2)), "%s", fold_ctx_message(f[k]));
            const float *g = fold_grad(f[k], in);
            if (CHECK(g != NULL)) memcpy(x[k], g, sizeof x[k]);
        }
        CHECK_BITS(x[0], x[1], 7 * WIDTH);
        CHECK_SAYS(fold_ctx_stats(f[0]).plan_hits == run[i].hits, "run %d: %d plans replayed", i, fold_ctx_stats(f[0]).plan_hits);
    }
    fold_ctx_free(f[0]);
    fold_ctx_free(f[1]);
    fold_model_free(m);
}

/* Plans of attention by edges replay while its scores need no more room, and never with too little. */
static void plans_of_edges(void)
{
    static const struct { int edges, to_one, hits; } run[] = { { 300, 0, 0 }, { 280, 0, 0 }, { 300, 0, 1 }, { 0, 0, 2 },
                                                               { 3000, 1, 2 }, { 290, 0, 3 }, { 3000, 0, 3 }, { 3000, 0, 4 } };
    enum { MOST = 3000, AGENTS = 40 };
    fold_model *m = fold_model_new(NULL);
    const setting kept = { "", FOLD_SCHEDULE_RATIO, 0, 1 << 18, 0, 0, 0 }, eager = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, 0 };
    fold_ctx *f[2] = { open_setting(m, &kept, 1), open_setting(m, &eager, 1) };
    for (int i = 0; i < (int)(sizeof run / sizeof *run); i++) {
        float x[2][AGENTS * WIDTH];
        for (int k = 0; k < 2; k++) {
            check_random r = { (uint64_t)i };
            static int from[MOST], to[MOST];
            for (int e = 0; e < MOST; e++) {
                from[e] = random_below(&r, AGENTS);
                to[e] = run[i].to_one ? 5 : random_below(&r, AGENTS);
            }
            random_fill(&r, x[k], AGENTS * WIDTH, -1, 1);
            fold_ctx_reset(f[k]);
            const fold_node in = fold_list_input(f[k], x[k], AGENTS, vector);
            fold_keep_grad(f[k], in);
            const fold_node y = fold_list_attention_to(f[k], in, in, in, 2, from, to, run[i].edges);
            CHECK_SAYS(!fold_backward(f[k], fold_list_sum(f[k], fold_dot(f[k], y, y))), "%s", fold_ctx_message(f[k]));
            const float *g = fold_grad(f[k], in);
            if (CHECK(g != NULL)) memcpy(x[k], g, sizeof x[k]);
        }
        CHECK_BITS(x[0], x[1], AGENTS * WIDTH);
        CHECK_SAYS(fold_ctx_stats(f[0]).plan_hits == run[i].hits, "run %d: %d plans replayed", i, fold_ctx_stats(f[0]).plan_hits);
    }
    fold_ctx_free(f[0]);
    fold_ctx_free(f[1]);
    fold_model_free(m);
}

/* -- attention to a cache against attention to all, bit for bit --------------------------------------------------- */

enum { SEQUENCES = 4, LONGEST = 140, STEP_HEADS = 3, STEP_WIDTH = 12, STEP_VALUES = 6 };
typedef struct grown {
    int length, at;
    float in[3][LONGEST * STEP_WIDTH], want[LONGEST * STEP_VALUES];
    fold_cache cache;
    float memory[192 * STEP_WIDTH + LONGEST * STEP_VALUES];
} grown;

static fold_node grown_rows(fold_ctx *f, const grown *g, int part, int count)
{
    const int width = part < 2 ? STEP_WIDTH : STEP_VALUES;
    const float *x = g->in[part] + g->at * width;
    return count == 1 ? fold_input(f, x, width) : fold_list_input(f, x, count, fold_shape1(width));
}

static void grown_open(fold_model *m, grown *g, int index, check_random *r)
{
    fold_ctx *f = fold_ctx_new(m, NULL);
    g->length = LONGEST - 11 * index;
    g->at = 0;
    for (int part = 0; part < 3; part++) random_fill(r, g->in[part], LONGEST * STEP_WIDTH, -2, 2);
    memset(&g->cache, 0, sizeof g->cache);
    memset(g->memory, 255, sizeof g->memory); /* not a number */
    g->cache.memory = g->memory;
    g->cache.capacity = LONGEST;
    g->cache.heads = STEP_HEADS;
    g->cache.width = STEP_WIDTH;
    g->cache.value_width = STEP_VALUES;
    CHECK(fold_cache_bytes(&g->cache) == sizeof g->memory);
    fold_node in[3];
    for (int part = 0; part < 3; part++) in[part] = grown_rows(f, g, part, g->length);
    const fold_node y = fold_list_attention(f, in[0], in[1], in[2], STEP_HEADS, 1);
    CHECK_SAYS(!fold_run(f, &y, 1) && !fold_read(f, &y, 1, g->want), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
}

/* Sequences begin with rows that are given, go on row by row, once go back, and end in turn. */
static void grow_together(fold_model *m, const setting *s)
{
    static grown all[SEQUENCES];
    check_random r = { 8 };
    fold_ctx *f = open_setting(m, s, 0);
    for (int i = 0; i < SEQUENCES; i++) grown_open(m, &all[i], i, &r);
    for (int step = 0, left = 1; left; step++) {
        fold_node found[SEQUENCES];
        int count[SEQUENCES];
        left = 0;
        fold_ctx_reset(f);
        for (int i = 0; i < SEQUENCES; i++) {
            grown *g = &all[i];
            if (step == 30) CHECK_INT(fold_cache_truncate(&g->cache, g->at -= 17), FOLD_OK);
            count[i] = step ? g->at < g->length : 25 * i;
            if (step && !count[i]) continue;
            found[left++] = fold_attention_step(f, &g->cache, grown_rows(f, g, 0, count[i]), grown_rows(f, g, 1, count[i]),
                                                grown_rows(f, g, 2, count[i]));
        }
        if (!CHECK_SAYS(!fold_run(f, found, left), "%s, step %d: %s", s->name, step, fold_ctx_message(f))) break;
        for (int i = 0, at = 0; i < SEQUENCES; i++) {
            grown *g = &all[i];
            if (step && !count[i]) continue;
            CHECK_BITS(fold_value(f, found[at]), g->want + g->at * STEP_VALUES, count[i] * STEP_VALUES);
            at++;
            g->at += count[i];
            CHECK_INT(g->cache.length, g->at);
        }
    }
    if (s->plan_cache_bytes) CHECK_SAYS(fold_ctx_stats(f).plan_hits > 50, "%d plans replayed", fold_ctx_stats(f).plan_hits);
    fold_ctx_free(f);
}
static void steps_are_attention(void)
{
    static const setting settings[] = { { "plain", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 },      { "depth", FOLD_SCHEDULE_DEPTH, 0, 0, 0, 0, 1 },
                                        { "groups", FOLD_SCHEDULE_AGENDA, 1, 0, 0, 0, 0 },    { "threads", FOLD_SCHEDULE_RATIO, 1, 0, 3, 0, 0 },
                                        { "plans", FOLD_SCHEDULE_RATIO, 0, 1 << 20, 0, 0, 0 }, { "eager", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, 0 } };
    for (int set = 0; set < KERNEL_SETS; set++) {
        fold_model *m = kernel_set_model(kernel_set[set]);
        for (size_t i = 0; m && i < sizeof settings / sizeof *settings; i++) grow_together(m, &settings[i]);
        fold_model_free(m);
    }
}

/* A replay does the same step again, with other data. */
static void step_again(void)
{
    float x[2][STEP_WIDTH], memory[64 * STEP_WIDTH + 3 * STEP_WIDTH];
    check_random r = { 9 };
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_cache cache = { memory, 3, STEP_HEADS, STEP_WIDTH, 0, 0, { 0 } };
    random_fill(&r, x[0], 2 * STEP_WIDTH, -1, 1);
    const fold_node in = fold_input_ref(f, x[0], fold_shape1(STEP_WIDTH)), y = fold_attention_step(f, &cache, in, in, in);
    CHECK(!fold_run(f, &y, 1));
    CHECK_BITS(fold_value(f, y), x[0], STEP_WIDTH); /* it sees itself alone */
    memcpy(x[0], x[1], sizeof x[0]);
    CHECK(!fold_replay(f));
    CHECK_BITS(fold_value(f, y), x[1], STEP_WIDTH);
    CHECK_INT(cache.length, 1);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A step of each of n caches; a bad frame has an index out of range. */
static void framed(fold_ctx *f, fold_cache *cache, int n, fold_param table, int frame, int bad, fold_node *y)
{
    fold_ctx_reset(f);
    const fold_node x = fold_lookup(f, table, frame % 5);
    for (int i = 0; i < n; i++) y[i] = fold_attention_step(f, &cache[i], x, x, x);
    if (bad) fold_lookup(f, table, 99);
}
/* A recording that fails gives up its steps, and those after it have the bits that they would have without it: by a
   context for all frames, or one for each, which may lie where the one before lay. */
static void given_up(void)
{
    enum { FRAMES = 20, AGENTS = 2 };
    static float memory[AGENTS + 1][64 * STEP_WIDTH + FRAMES * STEP_WIDTH];
    float want[STEP_WIDTH];
    fold_model *m = fold_model_new(NULL);
    const fold_param table = fold_table_new(m, "t", 5, STEP_WIDTH);
    for (int way = 0; way < 4; way++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_cache cache[AGENTS + 1] = { { NULL, FRAMES, STEP_HEADS, STEP_WIDTH, 0, 0, { 0 } } };
        d.eager = way / 2;
        for (int i = AGENTS; i >= 0; i--) {
            cache[i] = cache[0];
            cache[i].memory = memory[i];
        }
        fold_ctx *f = fold_ctx_new(m, &d), *good = fold_ctx_new(m, &d);
        for (int frame = 0, at = 0; frame < FRAMES; frame++) {
            const int bad = frame % 7 == 5;
            fold_node y[AGENTS], wanted;
            if (way % 2) {
                fold_ctx_free(f);
                f = fold_ctx_new(m, &d);
            }
            framed(f, cache, AGENTS, table, at, bad, y);
            CHECK_INT(cache[0].length, at); /* until the run */
            CHECK_SAYS(fold_run(f, y, AGENTS) == (bad ? FOLD_BAD_ARGUMENT : FOLD_OK), "frame %d: %s", frame, fold_ctx_message(f));
            at += !bad;
            for (int i = 0; i < AGENTS; i++) CHECK_INT(cache[i].length, at);
            if (bad) continue;
            framed(good, &cache[AGENTS], 1, table, at - 1, 0, &wanted);
            CHECK(!fold_run(good, &wanted, 1) && !fold_read(good, &wanted, 1, want));
            for (int i = 0; i < AGENTS; i++) CHECK_BITS(fold_value(f, y[i]), want, STEP_WIDTH);
        }
        fold_ctx_free(f);
        fold_ctx_free(good);
    }
    fold_model_free(m);
}

/* A copy of another capacity goes on as the cache does, and its memory is the caller's alone. */
static fold_node last_of_rows(fold_ctx *f, fold_cache *cache, float (*rows)[STEP_VALUES + STEP_WIDTH], int from, int to)
{
    const fold_shape shape = fold_shape1(STEP_VALUES + STEP_WIDTH);
    const fold_node all = fold_list_input(f, rows[from], to - from, shape);
    const fold_node k = fold_slice(f, all, 0, 0, STEP_WIDTH), v = fold_slice(f, all, 0, STEP_WIDTH, STEP_VALUES);
    return fold_attention_step(f, cache, k, k, v);
}
static void caches_are_copied(void)
{
    enum { MOST = 140 };
    static const int lengths[] = { 0, 1, 5, 64, 65, MOST - 2 };
    static float memory[3][(2 * MOST + 128) * (STEP_WIDTH + STEP_VALUES)], rows[MOST + 1][STEP_VALUES + STEP_WIDTH];
    float y[2][STEP_VALUES];
    check_random r = { 9 };
    random_fill(&r, rows[0], sizeof rows / sizeof(float), -1, 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int n = lengths[i];
        fold_cache a = { memory[0], MOST, STEP_HEADS, STEP_WIDTH, STEP_VALUES, 0, { 0 } }, b = a, small = a;
        b.memory = memory[1];
        b.capacity = MOST + 70;
        small.memory = memory[2];
        small.capacity = n - 1;
        for (size_t k = 0; k < sizeof memory[1] / sizeof(float); k++) memory[1][k] = memory[2][k] = 77;
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_node step = n ? last_of_rows(f, &a, rows, 0, n) : FOLD_NULL_NODE;
        CHECK_SAYS(!n || !fold_run(f, &step, 1), "%s", fold_ctx_message(f));
        CHECK_INT(fold_cache_copy(&b, &a), FOLD_OK);
        CHECK_INT(b.length, n);
        CHECK_INT(fold_cache_copy(&small, &a), FOLD_BAD_ARGUMENT);
        CHECK(!small.length && memory[2][0] == 77);
        for (int at = n; at < n + 2; at++) {
            fold_node both[2];
            fold_ctx_reset(f);
            both[0] = last_of_rows(f, &a, rows, at, at + 1);
            both[1] = last_of_rows(f, &b, rows, at, at + 1);
            CHECK_SAYS(!fold_run(f, both, 2), "%s", fold_ctx_message(f));
            CHECK_INT(fold_read(f, both, 1, y[0]), FOLD_OK);
            CHECK_INT(fold_read(f, both + 1, 1, y[1]), FOLD_OK);
            if (!CHECK_BITS(y[1], y[0], STEP_VALUES)) printf("    of %d rows, row %d\n", n, at);
        }
        fold_ctx_reset(f);
        step = last_of_rows(f, &b, rows, n + 2, n + 3); /* given up by the copy */
        CHECK_INT(fold_cache_copy(&b, &a), FOLD_OK);
        CHECK_SAYS(!fold_node_is_null(last_of_rows(f, &b, rows, n + 2, n + 3)), "%s", fold_ctx_message(f));
        fold_cache other[4] = { b, b, b, b };
        other[0].width *= 2;
        other[1].value_width *= 2;
        other[2].heads = 1;
        other[3].memory = NULL;
        for (int k = 0; k < 4; k++) CHECK_INT(fold_cache_copy(&other[k], &a), FOLD_BAD_ARGUMENT);
        CHECK_INT(fold_cache_copy(&b, &other[3]), FOLD_BAD_ARGUMENT);
        fold_ctx_free(f);
        fold_model_free(m);
    }
    fold_cache ring = { memory[0], 4, 0, 2, 0, 6, { 0 } }, other = { memory[1], 4, 0, 2, 0, 1, { 0 } }; /* full */
    for (ring.length = 0; ring.length < 10; ring.length++) { /* at most four rows of two, and nothing behind them */
        const int floats = ring.length < 4 ? 2 * ring.length : 8;
        for (int i = 0; i < 20; i++) memory[0][i] = (float)(i + 1), memory[1][i] = 0;
        CHECK_INT(fold_cache_copy(&other, &ring), FOLD_OK);
        CHECK_INT(other.length, ring.length);
        for (int i = 0; i < 20; i++) CHECK_NEAR(memory[1][i], i < floats ? i + 1 : 0, 0);
    }
    other.capacity = 5;
    CHECK_INT(fold_cache_copy(&other, &ring), FOLD_BAD_ARGUMENT);
}

/* Rows of one value look at each other by no edge, by one, by two or by three of all there are, in any order and twice the same:
   held to the formula. */
static void few_edges(void)
{
    enum { ROWS = 3, MOST_EDGES = 3 };
    static const float x[3][ROWS] = { { 1, -2, 0.5f }, { 0.7f, 1.5f, -1 }, { 3, 5, -4 } };
    static const float c[ROWS] = { 1, -3, 2 };
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int edges = 0, ways = 1; edges <= MOST_EDGES; edges++, ways *= ROWS * ROWS)
        for (int way = 0; way < ways; way++) {
            int from[MOST_EDGES + 1] = { 0 }, to[MOST_EDGES + 1] = { 0 };
            double y[ROWS] = { 0 }, total[ROWS] = { 0 }, grad[3][ROWS] = { { 0 } };
            for (int e = 0, rest = way; e < edges; e++, rest /= ROWS * ROWS) from[e] = rest % ROWS, to[e] = rest / ROWS % ROWS;
            for (int e = 0; e < edges; e++) total[to[e]] += exp((double)x[0][to[e]] * (double)x[1][from[e]]);
            for (int e = 0; e < edges; e++)
                y[to[e]] += exp((double)x[0][to[e]] * (double)x[1][from[e]]) / total[to[e]] * (double)x[2][from[e]];
            for (int e = 0; e < edges; e++) {
                const double q = (double)x[0][to[e]], k = (double)x[1][from[e]], v = (double)x[2][from[e]];
                const double of_v = (double)c[to[e]] * exp(q * k) / total[to[e]], of_score = of_v * (v - y[to[e]]);
                grad[0][to[e]] += of_score * k;
                grad[1][from[e]] += of_score * q;
                grad[2][from[e]] += of_v;
            }
            fold_node list[3];
            fold_ctx_reset(f);
            for (int i = 0; i < 3; i++) fold_keep_grad(f, list[i] = fold_list_input(f, x[i], ROWS, fold_shape1(1)));
            const fold_node z = fold_list_attention_to(f, list[0], list[1], list[2], 1, from, to, edges);
            fold_keep(f, z);
            fold_backward(f, fold_list_sum(f, fold_mul(f, z, fold_list_input(f, c, ROWS, fold_shape1(1)))));
            CHECK_SAYS(!fold_ctx_status(f), "%s", fold_ctx_message(f));
            for (int row = 0; row < ROWS && !fold_ctx_status(f); row++) {
                if (!CHECK_NEAR(fold_value(f, z)[row], y[row], 1e-5)) printf("    %d edges, way %d\n", edges, way);
                for (int i = 0; i < 3; i++)
                    if (!CHECK_NEAR(fold_grad(f, list[i])[row], grad[i][row], 1e-4)) printf("    of %c\n", "qkv"[i]);
            }
        }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A cache takes one step a run. The step of another recording takes its place; what was given up cannot be run. */
static void one_step(void)
{
    float memory[64 * STEP_WIDTH + 9 * STEP_WIDTH], x[STEP_WIDTH] = { 1, 2, 3 };
    fold_model *m = fold_model_new(NULL);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = eager;
        fold_cache cache = { memory, 9, STEP_HEADS, STEP_WIDTH, 0, 0, { 0 } };
        fold_ctx *f = fold_ctx_new(m, &d), *other = fold_ctx_new(m, &d);
        fold_node in = fold_input(f, x, STEP_WIDTH), y = fold_attention_step(f, &cache, in, in, in), z;
        CHECK(fold_node_is_null(fold_attention_step(f, &cache, in, in, in)));
        CHECK_TEXT(fold_ctx_message(f), "attention_step: the cache's last step has not run");
        fold_ctx_reset(f);
        in = fold_input(f, x, STEP_WIDTH);
        for (int step = 0; step < 3; step++) { /* one after the other in one recording, each with a run */
            y = fold_attention_step(f, &cache, in, in, in);
            CHECK_SAYS(!fold_run(f, &y, 1), "%s", fold_ctx_message(f));
            CHECK_INT(cache.length, step + 1);
        }
        y = fold_attention_step(f, &cache, in, in, in);
        CHECK(fold_cache_truncate(&cache, 2) == FOLD_OK);
        z = fold_attention_step(f, &cache, in, in, in);
        CHECK_SAYS(!fold_run(f, &z, 1), "%s", fold_ctx_message(f)); /* it needs not what was given up */
        CHECK_INT(cache.length, 3);
        y = fold_attention_step(f, &cache, in, in, in);
        z = fold_tanh(f, in);
        CHECK(eager || (!fold_run(f, &z, 1) && cache.length == 3)); /* nor does it need this one, which waits */
        in = fold_input(other, x, STEP_WIDTH);
        z = fold_attention_step(other, &cache, in, in, in);
        if (!eager) {
            CHECK_INT(fold_run(f, &y, 1), FOLD_BAD_STATE);
            CHECK_TEXT(fold_ctx_message(f), "was given up, by fold_cache_truncate or for another recording");
        }
        CHECK_INT(cache.length, 3);
        CHECK_SAYS(!fold_run(other, &z, 1), "%s", fold_ctx_message(other));
        CHECK_INT(cache.length, 4);
        fold_ctx_free(f);
        fold_ctx_free(other);
    }
    fold_model_free(m);
}

/* A layer's steps give the rows of the layer over the whole list. */
static void layer_steps(void)
{
    enum { LENGTH = 20, BEGINNING = 6, OF_LAYER = 8 };
    static float x[LENGTH * OF_LAYER], want[LENGTH * OF_LAYER], memory[64 * OF_LAYER + LENGTH * OF_LAYER];
    check_random r = { 10 };
    fold_model *m = fold_model_new(NULL);
    fold_transformer_desc desc = fold_transformer_desc_default();
    desc.width = OF_LAYER;
    desc.heads = 2;
    const fold_transformer layer = fold_transformer_new(m, "layer", &desc);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_cache cache = { memory, LENGTH, 2, OF_LAYER, 0, 0, { 0 } };
    random_fill(&r, x, LENGTH * OF_LAYER, -1, 1);
    fold_node y = fold_transformer_apply(f, &layer, fold_list_input(f, x, LENGTH, fold_shape1(OF_LAYER)), 1);
    CHECK_SAYS(!fold_run(f, &y, 1) && !fold_read(f, &y, 1, want), "%s", fold_ctx_message(f));
    for (int at = 0, count = BEGINNING; at < LENGTH; at += count, count = 1) {
        const float *from = x + at * OF_LAYER;
        fold_ctx_reset(f);
        y = fold_transformer_step(f, &layer, &cache,
                                  at ? fold_input(f, from, OF_LAYER) : fold_list_input(f, from, count, fold_shape1(OF_LAYER)));
        if (!CHECK_SAYS(!fold_run(f, &y, 1), "row %d: %s", at, fold_ctx_message(f))) break;
        CHECK_BITS(fold_value(f, y), want + at * OF_LAYER, count * OF_LAYER);
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- the weights of an attention ----------------------------------------------------------------------------------- */

/* Against softmax of scores in double precision: of all keys, of earlier ones, for a single query, along edges of which
   one occurs twice. A query that sees nothing gives nothing. */
static void weights_of_attention(void)
{
    enum { QUERIES = 5, KEYS = 7, SIZE = 6, HEADS = 2, EDGES = 8, MANY = 50000, ALL_KEYS = 0, EARLIER, SINGLE, ALONG, WAYS };
    static const int from[EDGES] = { 0, 6, 3, 3, 1, 2, 5, 4 }, to[EDGES] = { 0, 0, 1, 1, 1, 4, 4, 3 };
    static float zeros[MANY];
    check_random r = { 26 };
    float q[QUERIES * SIZE], k[KEYS * SIZE], got[QUERIES * HEADS * KEYS];
    random_fill(&r, q, QUERIES * SIZE, -2, 2);
    random_fill(&r, k, KEYS * SIZE, -2, 2);
    fold_model *m = fold_model_new(NULL);
    for (int way = 0; way < 2 * WAYS; way++) {
        const int how = way % WAYS, queries = how == SINGLE ? 1 : QUERIES;
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = way >= WAYS;
        d.eager = way == WAYS + 1;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node keys = fold_list_input(f, k, KEYS, fold_shape1(SIZE));
        const fold_node x = how == SINGLE ? fold_input(f, q, SIZE) : fold_list_input(f, q, QUERIES, fold_shape1(SIZE));
        const fold_node y = how == ALONG ? fold_list_attention_weights_to(f, x, keys, HEADS, from, to, EDGES)
                                         : fold_list_attention_weights(f, x, keys, HEADS, how == EARLIER);
        CHECK_SAYS(!fold_run(f, &y, 1) && !fold_read(f, &y, 1, got), "%s", fold_ctx_message(f));
        CHECK_INT(fold_list_length(f, y), how == SINGLE ? -1 : QUERIES);
        CHECK_INT(fold_node_shape(f, y).dim[0], HEADS * KEYS);
        for (int row = 0; row < queries; row++)
            for (int head = 0; head < HEADS; head++) {
                double sum = 0, e[KEYS];
                for (int key = 0; key < KEYS; key++) {
                    double times = how == EARLIER ? key <= row + KEYS - QUERIES : how != ALONG, score = 0;
                    for (int edge = 0; edge < EDGES && how == ALONG; edge++) times += from[edge] == key && to[edge] == row;
                    for (int i = head * SIZE / HEADS; i < (head + 1) * SIZE / HEADS; i++)
                        score += (double)q[row * SIZE + i] * (double)k[key * SIZE + i];
                    sum += e[key] = times * exp(score / sqrt((double)SIZE / HEADS));
                }
                for (int key = 0; key < KEYS; key++)
                    CHECK_NEAR(got[(row * HEADS + head) * KEYS + key], sum > 0 ? e[key] / sum : 0, 1e-6);
            }
        fold_ctx_reset(f);
        const fold_node none = fold_list_input(f, k, 0, fold_shape1(SIZE)), some = fold_list_input(f, k, KEYS, fold_shape1(SIZE));
        CHECK(fold_node_is_null(fold_list_attention_weights(f, some, how ? none : some, how ? HEADS : 0, 0)));
        CHECK_SAYS(!strcmp(fold_ctx_message(f), how ? "list_attention_weights: heads (2) times rows of k (0) must be in [1, 2147483647]" : "list_attention_weights: heads (0) times rows of k (7) must be in [1, 2147483647]"),
                   "%s", fold_ctx_message(f));
        fold_ctx_reset(f);
        const fold_node many = fold_list_input(f, zeros, MANY, fold_shape1(1));
        CHECK(fold_node_is_null(fold_list_attention_weights(f, many, many, 1, 0)));
        CHECK_TEXT(fold_ctx_message(f), "list_attention_weights: 50000 rows of 50000 values exceed a list's 2147483647 values");
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    check_scene("lists by index: take", takes);
    check_scene("lists by index: stacks", stacks);
    check_scene("lists by index: choices", choices);
    check_scene("lists by index: to", sums_to);
    check_scene("lists by index: attention", attention);
    check_scene("lists by index: attention by edges", attention_to);
    check_scene("lists by index: transformer", transformer);
    check_scene("lists by index: layers", layers);
    check_scene("lists by index: graphs", graph_layers);
    check_scene("lists by index: labels", labels);
    check_run("caches are copied", caches_are_copied);
    check_run("lists by index: against references", against_references);
    check_run("lists by index: lists as values", lists_as_values);
    check_run("lists by index: choices as vectors", choices_are_vectors);
    check_run("lists by index: rows are drawn", rows_are_drawn);
    check_run("lists by index: positions", positions_are_lookups);
    check_run("lists by index: goals as nodes", goals_are_nodes);
    check_run("lists by index: few of many", few_of_many);
    check_run("lists by index: edges as takes", edges_are_takes);
    check_run("lists by index: few edges", few_edges);
    check_run("lists by index: all edges", all_edges_are_attention);
    check_run("lists by index: plans of edges", plans_of_edges);
    check_run("lists by index: steps", steps_are_attention);
    check_run("lists by index: a step again", step_again);
    check_run("lists by index: steps given up", given_up);
    check_run("lists by index: one step a run", one_step);
    check_run("lists by index: steps of a layer", layer_steps);
    check_run("lists by index: weights of an attention", weights_of_attention);
    check_run("lists by index: plans", plans_of_indices);
    return check_finish();
}
