/* workloads.h - the networks and the data of every workload. A workload is a row of the table at the end. */

#ifndef RL_ELSEWHERE /* tests/run links it beside this, since programs that it links to the same object have their own */
#define FOLD_RL_IMPLEMENTATION
#endif
#include "../examples/fold_rl.h"

enum { MAX_NODES = 1024, HEAD = 50, MAX_KINDS = 61 };

typedef enum optimiser { OPT_NONE, OPT_SGD, OPT_ADAGRAD, OPT_ADAM } optimiser;

/* Sizes of a workload; the command line may change each. */
typedef struct sizes {
    int batch, input, hidden, words, classes;
    int min, max;   /* of a sample: nodes of a tree, leaves, tokens */
    int softmax, cells;
} sizes;

/* One node or token. Trees, a parent before its children: first child and next sibling (child-sum), or left and right (binary); -1: none. */
typedef struct item { int word, child, next, label; } item;
/* Its items are items[first .. first + count). root: items of its tree or trees. */
typedef struct sample { int root[2], first, count; float target[8]; } sample;
/* The samples of one batch. */
typedef struct recording {
    item *items; int n_items, cap_items;
    sample *samples; int n_samples;
    float *values;               /* mnist-mlp: images; of others what their rows say */
    int *index; int n_index, cap_index; /* words, where a sample's edges come from and go to, labels */
    double units, flop_infer, flop_train;
} recording;

/* A kind of calls in a network that mixes some: tanh of a product of all its inputs, n of them. */
typedef struct node_kind { fold_param W; int n; } node_kind;
/* Parameters and layers; each workload uses its own. */
typedef struct net {
    sizes s;
    fold_param words;
    fold_child_sum child_sum;
    fold_tree_lstm tree;
    fold_recurrent lstm[4], crf;
    fold_param letters, key, transitions;
    fold_param W, b, W_f, b_f, leaf_W, leaf_b, lstm_W[4], lstm_b[4]; /* of the layers above, found by name */
    fold_dense head, classes, dense[4];
    fold_mlp mlp, rounds[4];
    fold_transformer block[2];
    fold_cell policy;
    fold_rl_policy learner;
    fold_cell kinds[MAX_KINDS];
    node_kind kind[MAX_KINDS];
} net;

/* What recording one batch hands back: losses in training, else outputs. */
typedef struct roots { fold_node *node; size_t n, cap; } roots;

typedef struct workload {
    const char *name, *unit;
    optimiser opt;       /* OPT_NONE: inference only */
    sizes s;
    void (*generate)(recording *r, const sizes *s, uint64_t *random);
    void (*build)(net *n, fold_model *m);
    void (*record)(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out);
} workload;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s%s\n", what, detail);
    exit(1);
}
static void *take(void *old, size_t n, size_t size)
{
    void *p = realloc(old, n * size + !n);
    if (!p) die("out of memory", "");
    return p;
}
static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int random_below(uint64_t *state, int n) { return n > 1 ? (int)(next_random(state) % (uint64_t)n) : 0; }

static int new_item(recording *r, int word, int child, int next, int label)
{
    const item it = { word, child, next, label };
    if (r->n_items == r->cap_items) {
        r->cap_items = r->cap_items ? 2 * r->cap_items : 1024;
        r->items = (item *)take(r->items, (size_t)r->cap_items, sizeof *r->items);
    }
    r->items[r->n_items] = it;
    return r->n_items++;
}
/* An inner item of a binary tree gets its children, which come behind it. */
static int with_children(recording *r, int i, int left, int right)
{
    r->items[i].child = left;
    r->items[i].next = right;
    return i;
}
static void push_index(recording *r, int i)
{
    if (r->n_index == r->cap_index) {
        r->cap_index = r->cap_index ? 2 * r->cap_index : 1024;
        r->index = (int *)take(r->index, (size_t)r->cap_index, sizeof *r->index);
    }
    r->index[r->n_index++] = i;
}
static void random_values(recording *r, size_t n, uint64_t *random)
{
    r->values = (float *)take(NULL, n, sizeof *r->values);
    for (size_t i = 0; i < n; i++) r->values[i] = (float)random_below(random, 2001) / 1000.0f - 1;
}
static void push(roots *out, fold_node x)
{
    if (out->n == out->cap) {
        out->cap = out->cap ? 2 * out->cap : 1024;
        out->node = (fold_node *)take(out->node, out->cap, sizeof *out->node);
    }
    out->node[out->n++] = x;
}

/* ---- cells, or the same network in primitive ops (--cells off) ---------------------------- */

/* c' = i u + kept, h' = o tanh c'. */
static fold_state plain_out(fold_ctx *f, fold_node i, fold_node o, fold_node u, fold_node kept)
{
    fold_state s;
    s.c = fold_node_is_null(kept) ? fold_mul(f, i, u) : fold_add(f, fold_mul(f, i, u), kept);
    s.h = fold_mul(f, o, fold_tanh(f, s.c));
    return s;
}
/* n gates of width h: all but the last through sigmoid, the last through tanh. */
static void plain_gates(fold_ctx *f, fold_node x, int h, int n, fold_node *gate)
{
    fold_split(f, fold_sigmoid(f, fold_slice(f, x, 0, 0, (n - 1) * h)), n - 1, gate);
    gate[n - 1] = fold_tanh(f, fold_slice(f, x, 0, (n - 1) * h, h));
}

static fold_state child_sum_node(fold_ctx *f, const net *n, fold_node x, const fold_state *children, size_t count)
{
    const int h = n->s.hidden;
    if (n->s.cells) return fold_child_sum_apply(f, &n->child_sum, x, children, (int)count);
    fold_node hs[MAX_NODES], kept[MAX_NODES], gate[3];
    const fold_node null = { 0, 0 }, wx = fold_linear_first(f, x, n->W, n->b), fx = count ? fold_linear_first(f, x, n->W_f, n->b_f) : null;
    for (size_t i = 0; i < count; i++) {
        hs[i] = children[i].h;
        kept[i] = fold_mul(f, fold_sigmoid(f, fold_linear_then(f, fx, hs[i], n->W_f)), children[i].c);
    }
    plain_gates(f, count ? fold_linear_then(f, wx, fold_sum_n(f, hs, (int)count), n->W) : wx, h, 3, gate);
    return plain_out(f, gate[0], gate[1], gate[2], count ? fold_sum_n(f, kept, (int)count) : null);
}
static fold_state tree_leaf(fold_ctx *f, const net *n, fold_node x)
{
    const fold_node null = { 0, 0 };
    fold_node gate[3];
    if (n->s.cells) return fold_tree_lstm_apply_leaf(f, &n->tree, x);
    plain_gates(f, fold_linear(f, x, n->leaf_W, n->leaf_b), n->s.hidden, 3, gate);
    return plain_out(f, gate[0], gate[1], gate[2], null);
}
static fold_state tree_inner(fold_ctx *f, const net *n, const fold_state *children)
{
    const fold_node hs[2] = { children[0].h, children[1].h };
    fold_node gate[5]; /* i o f f u */
    if (n->s.cells) return fold_tree_lstm_apply_inner(f, &n->tree, children);
    plain_gates(f, fold_linear_n(f, hs, 2, n->W, n->b), n->s.hidden, 5, gate);
    const fold_node left = fold_mul(f, gate[2], children[0].c), right = fold_mul(f, gate[3], children[1].c);
    return plain_out(f, gate[0], gate[1], gate[4], fold_add(f, left, right));
}
static fold_state lstm_step(fold_ctx *f, const net *n, int layer, fold_node x, fold_state s)
{
    const fold_node both[2] = { x, s.h };
    fold_node gate[4]; /* i f o u */
    if (n->s.cells) return fold_recurrent_apply(f, &n->lstm[layer], x, s);
    plain_gates(f, fold_linear_n(f, both, 2, n->lstm_W[layer], n->lstm_b[layer]), n->lstm[layer].hidden, 4, gate);
    return plain_out(f, gate[0], gate[2], gate[3], fold_mul(f, gate[1], s.c));
}

/* The handles of layers' weights, for networks without cells and for batching by hand; null where a workload has none. */
static void find_weights(net *n, const fold_model *m)
{
    static const char *const names[][2] = { { "lstm0.W", "lstm0.b" }, { "lstm1.W", "lstm1.b" }, { "lstm2.W", "lstm2.b" }, { "lstm3.W", "lstm3.b" } };
    const int binary = n->tree.arity == 2;
    n->W = fold_param_find(m, binary ? "tree.inner.W" : "tree.W");
    n->b = fold_param_find(m, binary ? "tree.inner.b" : "tree.b");
    n->W_f = fold_param_find(m, "tree.W_f");
    n->b_f = fold_param_find(m, "tree.b_f");
    n->leaf_W = fold_param_find(m, "tree.leaf.W");
    n->leaf_b = fold_param_find(m, "tree.leaf.b");
    for (int i = 0; i < 4; i++) {
        n->lstm_W[i] = fold_param_find(m, names[i][0]);
        n->lstm_b[i] = fold_param_find(m, names[i][1]);
    }
}

/* ---- treelstm-sick ------------------------------------------------------------------------ */

/* A tree whose nodes each hang under a uniform choice of the earlier ones; children stay in order. */
static int random_dependency_tree(recording *r, const sizes *s, uint64_t *random)
{
    const int n = s->min + random_below(random, s->max - s->min + 1), root = r->n_items;
    int last[MAX_NODES], inner = 0;
    for (int i = 0; i < n; i++) {
        const int at = new_item(r, random_below(random, s->words), -1, -1, 0);
        last[i] = -1;
        if (i == 0) continue;
        const int parent = random_below(random, i);
        if (last[parent] < 0) { r->items[root + parent].child = at; inner++; }
        else r->items[last[parent]].next = at;
        last[parent] = at;
    }
    const double in = s->input, h = s->hidden;
    const double x = 8 * in * h * n, u = 6 * h * h * inner + 2 * h * h * (n - 1); /* products of inputs, of states */
    r->units += n;
    r->flop_infer += x + u;
    r->flop_train += 2 * x + 3 * u;
    return root;
}
static void sick_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->first = r->n_items;
        for (int k = 0; k < 2; k++) x->root[k] = random_dependency_tree(r, s, random);
        x->count = r->n_items - x->first;
        const int low = random_below(random, s->classes - 1);
        x->target[low] = (float)random_below(random, 100) / 100.0f;
        x->target[low + 1] = 1 - x->target[low];
    }
}
static void sick_build(net *n, fold_model *m)
{
    const sizes *s = &n->s;
    n->words = fold_table_new(m, "words", s->words, s->input);
    fold_param_freeze(m, n->words, 1);
    n->child_sum = fold_child_sum_new(m, "tree", s->input, s->hidden);
    n->head = fold_dense_new(m, "head", 2 * s->hidden, HEAD, FOLD_ACT_SIGMOID);
    n->classes = fold_dense_new(m, "classes", HEAD, s->classes, FOLD_ACT_LINEAR);
}
static fold_state sick_tree(fold_ctx *f, const net *n, const recording *r, int i)
{
    fold_state children[MAX_NODES];
    size_t count = 0;
    for (int k = r->items[i].child; k >= 0; k = r->items[k].next) children[count++] = sick_tree(f, n, r, k);
    return child_sum_node(f, n, fold_lookup(f, n->words, r->items[i].word), children, count);
}
static void sick_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const fold_node a = sick_tree(f, n, r, x->root[0]).h, b = sick_tree(f, n, r, x->root[1]).h;
    const fold_node product = fold_mul(f, a, b), distance = fold_abs(f, fold_sub(f, a, b));
    const fold_node features = fold_concat2(f, product, distance);
    const fold_node y = fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, features));
    push(out, training ? fold_softmax_kl(f, y, fold_input(f, x->target, n->s.classes)) : fold_softmax(f, y));
}

/* ---- treelstm-sst and treelstm-tiny ------------------------------------------------------- */

/* A full binary tree split at uniform places, each item before its children: the order in which it is read. */
static int random_binary_tree(recording *r, const sizes *s, uint64_t *random, int leaves)
{
    const int label = random_below(random, s->classes ? s->classes : 1);
    if (leaves == 1) return new_item(r, random_below(random, s->words), -1, -1, label);
    const int split = 1 + random_below(random, leaves - 1), root = new_item(r, 0, -1, -1, label);
    const int left = random_binary_tree(r, s, random, split);
    const int right = random_binary_tree(r, s, random, leaves - split);
    return with_children(r, root, left, right);
}
static void sst_generate(recording *r, const sizes *s, uint64_t *random)
{
    const int half = (s->max - s->min) / 2;
    for (int i = 0; i < r->n_samples; i++) {
        const int leaves = s->min + random_below(random, half + 1) + random_below(random, half + 1);
        const double in = s->input, h = s->hidden, nodes = 2 * leaves - 1;
        const double x = 6 * in * h * leaves, u = 20 * h * h * (leaves - 1) + 2 * h * s->classes * nodes;
        sample *tree = &r->samples[i];
        tree->first = r->n_items;
        tree->root[0] = random_binary_tree(r, s, random, leaves);
        tree->count = r->n_items - tree->first;
        r->units += nodes;
        r->flop_infer += x + u;
        r->flop_train += 2 * x + 3 * u;
    }
}
static void sst_build(net *n, fold_model *m)
{
    const sizes *s = &n->s;
    n->words = fold_table_new(m, "words", s->words, s->input);
    fold_param_freeze(m, n->words, 1);
    n->tree = fold_tree_lstm_new(m, "tree", s->input, s->hidden, 2);
    if (s->classes) n->classes = fold_dense_new(m, "classes", s->hidden, s->classes, FOLD_ACT_LINEAR);
}
static fold_state sst_tree(fold_ctx *f, const net *n, const recording *r, int i, int training, roots *out)
{
    const item *at = &r->items[i];
    const fold_node null = { 0, 0 };
    const size_t own = out->n; /* outputs in the order of items */
    fold_state s;
    if (n->s.classes) push(out, null);
    if (at->child < 0) {
        s = tree_leaf(f, n, fold_lookup(f, n->words, at->word));
    } else {
        fold_state children[2];
        children[0] = sst_tree(f, n, r, at->child, training, out);
        children[1] = sst_tree(f, n, r, at->next, training, out);
        s = tree_inner(f, n, children);
    }
    if (n->s.classes) {
        const fold_node y = fold_dense_apply(f, &n->classes, s.h);
        out->node[own] = training ? fold_softmax_xent(f, y, at->label) : y;
    }
    return s;
}
static void sst_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const fold_state s = sst_tree(f, n, r, x->root[0], training, out);
    if (!n->s.classes) push(out, s.h);
}

/* ---- lstm-lm, gru and chain -------------------------------------------------------------------- */

/* Sequences of random words; each word's label is the next. */
static void sequence_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        r->samples[i].first = r->n_items;
        r->samples[i].count = s->min + random_below(random, s->max - s->min + 1);
        for (int k = 0, word = random_below(random, s->words); k < r->samples[i].count; k++) {
            const int next = random_below(random, s->words);
            new_item(r, word, -1, -1, next);
            word = next;
        }
        r->units += r->samples[i].count;
    }
}
static void lm_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double h = s->hidden;
    sequence_generate(r, s, random);
    r->flop_infer = r->units * (8 * (s->input + h) * h + 16 * h * h + (s->softmax ? 2 * h * s->words : 0));
    r->flop_train = 3 * r->flop_infer;
}
static void lm_build(net *n, fold_model *m)
{
    const sizes *s = &n->s;
    n->words = fold_table_new(m, "words", s->words, s->input);
    n->lstm[0] = fold_lstm_new(m, "lstm0", s->input, s->hidden);
    n->lstm[1] = fold_lstm_new(m, "lstm1", s->hidden, s->hidden);
    if (s->softmax) n->classes = fold_dense_new(m, "next", s->hidden, s->words, FOLD_ACT_LINEAR);
}
/* Without softmax a token's loss is the sum of its state: gradients flow as far, and nothing is predicted. */
static void lm_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_state a = fold_recurrent_zeros(f, &n->lstm[0]), b = fold_recurrent_zeros(f, &n->lstm[1]);
    for (int i = x->first; i < x->first + x->count; i++) {
        a = lstm_step(f, n, 0, fold_lookup(f, n->words, r->items[i].word), a);
        b = lstm_step(f, n, 1, a.h, b);
        if (n->s.softmax) push(out, fold_softmax_xent(f, fold_dense_apply(f, &n->classes, b.h), r->items[i].label));
        else push(out, training ? fold_sum(f, b.h, FOLD_ALL) : b.h);
    }
}

/* Sequences through two layers of GRU, as lstm-lm without its softmax. */
static void gru_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double h = s->hidden;
    sequence_generate(r, s, random);
    r->flop_infer = r->units * (6 * (s->input + h) * h + 12 * h * h);
    r->flop_train = 3 * r->flop_infer;
}
static void gru_build(net *n, fold_model *m)
{
    const sizes *s = &n->s;
    if (!s->cells) die("gru: only of cells", "");
    n->words = fold_table_new(m, "words", s->words, s->input);
    n->lstm[0] = fold_gru_new(m, "gru0", s->input, s->hidden);
    n->lstm[1] = fold_gru_new(m, "gru1", s->hidden, s->hidden);
}

static void chain_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double x = 8.0 * s->input * s->hidden, u = 8.0 * s->hidden * s->hidden;
    sequence_generate(r, s, random);
    r->flop_infer = r->units * (x + u);
    r->flop_train = r->units * (2 * x + 3 * u);
}
static void chain_build(net *n, fold_model *m)
{
    n->words = fold_table_new(m, "words", n->s.words, n->s.input);
    fold_param_freeze(m, n->words, 1);
    n->lstm[0] = fold_lstm_new(m, "lstm0", n->s.input, n->s.hidden);
}
static void chain_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_state a = fold_recurrent_zeros(f, &n->lstm[0]);
    for (int i = x->first; i < x->first + x->count; i++)
        a = lstm_step(f, n, 0, fold_lookup(f, n->words, r->items[i].word), a);
    push(out, training ? fold_sum(f, a.h, FOLD_ALL) : a.h);
}

/* ---- mnist-mlp ---------------------------------------------------------------------------- */

enum { MNIST_HIDDEN2 = 100 };

static void mnist_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double x = 2.0 * s->input * s->hidden, u = 2.0 * MNIST_HIDDEN2 * (s->hidden + s->classes);
    const size_t n = (size_t)r->n_samples * (size_t)s->input;
    r->values = (float *)take(NULL, n, sizeof *r->values);
    for (size_t i = 0; i < n; i++) r->values[i] = (float)random_below(random, 256) / 256.0f;
    for (int i = 0; i < r->n_samples; i++) {
        r->samples[i].first = i;
        r->samples[i].root[0] = random_below(random, s->classes);
    }
    r->units = r->n_samples;
    r->flop_infer = r->units * (x + u);
    r->flop_train = r->units * (2 * x + 3 * u);
}
static void mnist_build(net *n, fold_model *m)
{
    const int widths[] = { n->s.input, n->s.hidden, MNIST_HIDDEN2, n->s.classes };
    n->mlp = fold_mlp_new(m, "mlp", widths, 3, FOLD_ACT_RELU);
}
static void mnist_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const float *image = r->values + (size_t)x->first * (size_t)n->s.input;
    const fold_node y = fold_mlp_apply(f, &n->mlp, fold_input_ref(f, image, fold_shape1(n->s.input)));
    push(out, training ? fold_softmax_xent(f, y, x->root[0]) : y);
}

/* ---- lattice ------------------------------------------------------------------------------ */

/* Characters in a row; some also end one or two words that began up to four characters earlier (child, next: their starts). */
static void lattice_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double in = s->input, h = s->hidden;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        int inner = 0, edges = 0;
        x->first = r->n_items;
        x->count = s->min + random_below(random, s->max - s->min + 1);
        x->root[0] = random_below(random, s->classes);
        for (int k = 0; k < x->count; k++) {
            const int words = k > 4 ? random_below(random, 3) : 0;
            const int a = words > 0 ? x->first + k - 2 - random_below(random, 3) : -1;
            const int b = words > 1 ? x->first + k - 2 - random_below(random, 3) : -1;
            new_item(r, random_below(random, s->words), a, b, 0);
            inner += k > 0;
            edges += (k > 0) + words;
        }
        const double p = 8 * in * h * x->count, u = 6 * h * h * inner + 2 * h * h * edges + 2 * h * s->classes;
        r->units += x->count;
        r->flop_infer += p + u;
        r->flop_train += 3 * (p + u);
    }
}
static void lattice_build(net *n, fold_model *m)
{
    n->words = fold_table_new(m, "words", n->s.words, n->s.input);
    n->child_sum = fold_child_sum_new(m, "tree", n->s.input, n->s.hidden);
    n->classes = fold_dense_new(m, "classes", n->s.hidden, n->s.classes, FOLD_ACT_LINEAR);
}
/* A state for every character from the states where the words that end before it began: child-sum over a graph. */
static void lattice_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_state state[MAX_NODES], from[3];
    for (int k = 0; k < x->count; k++) {
        const item *it = &r->items[x->first + k];
        size_t count = 0;
        if (k > 0) from[count++] = state[k - 1];
        if (it->child >= 0) from[count++] = state[it->child - x->first];
        if (it->next >= 0) from[count++] = state[it->next - x->first];
        state[k] = child_sum_node(f, n, fold_lookup(f, n->words, it->word), from, count);
    }
    const fold_node y = fold_dense_apply(f, &n->classes, state[x->count - 1].h);
    push(out, training ? fold_softmax_xent(f, y, x->root[0]) : y);
}

/* ---- bilstm-tagger ------------------------------------------------------------------------ */

enum { TAGGER_LETTERS = 60, TAGGER_LETTER = 20, TAGGER_MLP = 32, TAGGER_RARE = 10 }; /* rare: per cent of the words */

/* A word is an item; a rare one leads to the items of its letters: child, and next of them. */
static void tagger_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double in = s->input, h = s->hidden, c = s->input / 2;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        double words, letters = 0;
        x->first = r->n_items;
        x->count = s->min + random_below(random, s->max - s->min + 1);
        for (int k = 0; k < x->count; k++) {
            const int word = random_below(random, s->words);
            new_item(r, word, -1, 0, random_below(random, s->classes));
        }
        for (int k = x->first; k < x->first + x->count; k++) {
            if (random_below(random, 100) >= TAGGER_RARE) continue;
            const int n = 3 + random_below(random, 8);
            r->items[k].child = r->n_items;
            r->items[k].next = n;
            letters += n;
            for (int j = 0; j < n; j++) new_item(r, random_below(random, TAGGER_LETTERS), -1, 0, 0);
        }
        words = x->count;
        r->units += words;
        r->flop_infer += words * (16 * (in + h) * h + 2 * TAGGER_MLP * (2 * h + s->classes)) + letters * 16 * (TAGGER_LETTER + c) * c;
    }
    r->flop_train = 3 * r->flop_infer;
}
static void tagger_build(net *n, fold_model *m)
{
    const sizes *s = &n->s;
    if (s->input % 2) die("the tagger's input must be even", "");
    n->words = fold_table_new(m, "words", s->words, s->input);
    n->letters = fold_table_new(m, "letters", TAGGER_LETTERS, TAGGER_LETTER);
    n->lstm[0] = fold_lstm_new(m, "lstm0", s->input, s->hidden);
    n->lstm[1] = fold_lstm_new(m, "lstm1", s->input, s->hidden);
    n->lstm[2] = fold_lstm_new(m, "lstm2", TAGGER_LETTER, s->input / 2);
    n->lstm[3] = fold_lstm_new(m, "lstm3", TAGGER_LETTER, s->input / 2);
    n->head = fold_dense_new(m, "head", 2 * s->hidden, TAGGER_MLP, FOLD_ACT_TANH);
    n->classes = fold_dense_new(m, "classes", TAGGER_MLP, s->classes, FOLD_ACT_LINEAR);
}
static fold_node tagger_word(fold_ctx *f, const net *n, const recording *r, const item *it)
{
    if (it->child < 0) return fold_lookup(f, n->words, it->word);
    fold_state a = fold_recurrent_zeros(f, &n->lstm[2]), b = fold_recurrent_zeros(f, &n->lstm[3]);
    for (int k = 0; k < it->next; k++) {
        a = lstm_step(f, n, 2, fold_lookup(f, n->letters, r->items[it->child + k].word), a);
        b = lstm_step(f, n, 3, fold_lookup(f, n->letters, r->items[it->child + it->next - 1 - k].word), b);
    }
    return fold_concat2(f, a.h, b.h);
}
static void tagger_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_node word[MAX_NODES], before[MAX_NODES];
    fold_state a = fold_recurrent_zeros(f, &n->lstm[0]), b = fold_recurrent_zeros(f, &n->lstm[1]);
    for (int k = 0; k < x->count; k++) {
        word[k] = tagger_word(f, n, r, &r->items[x->first + k]);
        a = lstm_step(f, n, 0, word[k], a);
        before[k] = a.h;
    }
    for (int k = x->count - 1; k >= 0; k--) {
        b = lstm_step(f, n, 1, word[k], b);
        const fold_node y = fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, fold_concat2(f, before[k], b.h)));
        push(out, training ? fold_softmax_xent(f, y, r->items[x->first + k].label) : y);
    }
}

/* ---- pointer ------------------------------------------------------------------------------ */

/* Words of a sentence, of which one is pointed at: root[0]. */
static void pointer_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double in = s->input, h = s->hidden;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->first = r->n_index;
        x->count = s->min + random_below(random, s->max - s->min + 1);
        for (int k = 0; k < x->count; k++) push_index(r, random_below(random, s->words));
        x->root[0] = random_below(random, x->count);
        r->units += x->count;
        r->flop_infer += x->count * (8 * (in + h) * h + 2 * h * h + 2 * h) + 2 * h * h;
    }
    r->flop_train = 3 * r->flop_infer;
}
static void pointer_build(net *n, fold_model *m)
{
    const int h = n->s.hidden;
    n->words = fold_table_new(m, "words", n->s.words, n->s.input);
    n->lstm[0] = fold_lstm_new(m, "lstm0", n->s.input, h);
    n->key = fold_weight_new(m, "key", h, h); /* a bias would change no choice */
    n->dense[0] = fold_dense_new(m, "query", h, h, FOLD_ACT_LINEAR);
}
/* A pointer network of one choice (Vinyals et al. 2015): the last state looks for a row. */
static void pointer_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_state last;
    const fold_node words = fold_list_lookup(f, n->words, r->index + x->first, x->count);
    const fold_node key = fold_linear(f, fold_unroll_list(f, &n->lstm[0], words, 0, NULL, &last), n->key, FOLD_NULL_PARAM);
    const fold_node score = fold_dot(f, key, fold_dense_apply(f, &n->dense[0], last.h));
    push(out, training ? fold_list_choice_xent(f, score, x->root[0]) : fold_list_softmax(f, score));
}

/* ---- crf ---------------------------------------------------------------------------------- */

/* Words of a sentence, their classes, and which transition each two neighbours make. */
static void crf_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double in = s->input, h = s->hidden, k = s->classes;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        const int count = s->min + random_below(random, s->max - s->min + 1);
        x->first = r->n_index;
        x->count = count;
        for (int at = 0; at < 2 * count; at++) push_index(r, random_below(random, at < count ? s->words : s->classes));
        for (int at = 1; at < count; at++) {
            const int *label = r->index + x->first + count;
            push_index(r, label[at] * s->classes + label[at - 1]);
        }
        r->units += count;
        r->flop_infer += count * (8 * (in + h) * h + 2 * h * k + 2 * k * k);
    }
    r->flop_train = 3 * r->flop_infer;
}
/* From the scores of a word's classes and those of all ways to the word before, the scores of all ways to it. */
static void crf_step(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node moves = fold_reshape(f, fold_use(f, n->transitions), fold_shape2(n->s.classes, n->s.classes));
    out[0] = fold_add(f, in[0], fold_logsumexp(f, fold_add(f, moves, in[1]), 1));
}
static void crf_build(net *n, fold_model *m)
{
    const int k = n->s.classes;
    fold_cell_desc cell = fold_cell_desc_default();
    n->words = fold_table_new(m, "words", n->s.words, n->s.input);
    n->lstm[0] = fold_lstm_new(m, "lstm0", n->s.input, n->s.hidden);
    n->classes = fold_dense_new(m, "classes", n->s.hidden, k, FOLD_ACT_LINEAR);
    n->transitions = fold_table_new(m, "transitions", k * k, 1);
    cell.name = "crf";
    cell.body = crf_step;
    cell.user = n;
    cell.user_size = sizeof *n;
    cell.n_in = 2;
    cell.n_out = 1;
    cell.in[0] = cell.in[1] = fold_shape1(k);
    n->crf.cell = fold_cell_new(m, &cell);
    n->crf.hidden = k;
}
/* A conditional random field over the states of an LSTM (Lafferty et al. 2001): all ways, less the one that is right. */
static void crf_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const int *word = r->index + x->first, *label = word + x->count, *moves = label + x->count;
    const fold_node h = fold_unroll_list(f, &n->lstm[0], fold_list_lookup(f, n->words, word, x->count), 0, NULL, NULL);
    const fold_node scores = fold_dense_apply(f, &n->classes, h);
    fold_node row[MAX_NODES];
    for (int k = 0; k < x->count; k++) row[k] = fold_list_at(f, scores, k);
    const fold_state begin = { row[0], { 0, 0 } };
    const fold_node all = fold_logsumexp(f, fold_unroll(f, &n->crf, row + 1, x->count - 1, 0, &begin, NULL).h, 0);
    if (!training) {
        push(out, all);
        return;
    }
    const fold_node seen = fold_list_sum(f, fold_pick_each(f, scores, label, x->count));
    const fold_node moved = fold_list_sum(f, fold_list_lookup(f, n->transitions, moves, x->count - 1));
    push(out, fold_sub(f, all, fold_add(f, seen, moved)));
}

/* ---- attention ---------------------------------------------------------------------------- */

/* An agent and its neighbours: one vector each, the agent's own first. */
static void attention_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double in = s->input, h = s->hidden;
    int vectors = 0;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->first = vectors;
        x->count = s->min - 1 + random_below(random, s->max - s->min + 1); /* neighbours: sizes count from 1 */
        x->root[0] = random_below(random, s->classes);
        vectors += 1 + x->count;
        const double input = 2 * in * h * (1 + x->count), other = 2 * (3 * h * h + h * s->classes) + 4 * h * h * x->count;
        r->flop_infer += input + other;
        r->flop_train += 2 * input + 3 * other;
    }
    r->units = vectors;
    random_values(r, (size_t)vectors * (size_t)s->input, random);
}
static void attention_build(net *n, fold_model *m)
{
    const sizes *s = &n->s;
    const int h = s->hidden;
    n->dense[0] = fold_dense_new(m, "self", s->input, h, FOLD_ACT_RELU);
    n->dense[1] = fold_dense_new(m, "other", s->input, h, FOLD_ACT_RELU);
    n->dense[2] = fold_dense_new(m, "query", h, h, FOLD_ACT_LINEAR);
    n->dense[3] = fold_dense_new(m, "key_value", h, 2 * h, FOLD_ACT_LINEAR);
    n->head = fold_dense_new(m, "head", 2 * h, h, FOLD_ACT_RELU);
    n->classes = fold_dense_new(m, "classes", h, s->classes, FOLD_ACT_LINEAR);
}
static void attention_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const fold_shape in = fold_shape1(n->s.input), h = fold_shape1(n->s.hidden);
    const float *values = r->values + (size_t)x->first * (size_t)n->s.input;
    fold_node score[MAX_NODES], value[MAX_NODES];
    const fold_node self = fold_dense_apply(f, &n->dense[0], fold_input_ref(f, values, in));
    const fold_node query = fold_scale(f, fold_dense_apply(f, &n->dense[2], self), 1 / sqrtf((float)n->s.hidden));
    for (int k = 0; k < x->count; k++) {
        const fold_node seen = fold_dense_apply(f, &n->dense[1], fold_input_ref(f, values + (size_t)(k + 1) * (size_t)n->s.input, in));
        fold_node both[2];
        fold_split(f, fold_dense_apply(f, &n->dense[3], seen), 2, both);
        score[k] = fold_dot(f, query, both[0]);
        value[k] = both[1];
    }
    const fold_node around = x->count ? fold_softmax_mean_n(f, score, value, x->count) : fold_zeros(f, h);
    const fold_node y = fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, fold_concat2(f, self, around)));
    push(out, training ? fold_softmax_xent(f, y, x->root[0]) : y);
}

/* ---- frame -------------------------------------------------------------------------------- */

enum { FRAME_HEADS = 2 };

/* Agents (words: how many) with what each observes and the state it had, which attend to neighbours: mostly to as many as they may.
   A sample's index has the neighbours, the agents that see them, and a label for every agent. */
static void frame_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double in = s->input, h = s->hidden;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->first = r->n_index;
        x->count = 0;
        x->root[0] = i * s->words;
        const int most = s->max - 1, least = s->min - 1; /* neighbours: sizes count from 1 */
        int *seen = (int *)take(NULL, (size_t)s->words, sizeof *seen);
        for (int k = 0; k < s->words; k++) {
            const int few = random_below(random, 5) < 2;
            x->count += seen[k] = few ? least + random_below(random, most - least + 1) : most - random_below(random, (most - least) / 5 + 1);
        }
        for (int k = 0; k < x->count; k++) push_index(r, random_below(random, s->words));
        for (int k = 0; k < s->words; k++)
            for (int j = 0; j < seen[k]; j++) push_index(r, k);
        for (int k = 0; k < s->words; k++) push_index(r, random_below(random, s->classes));
        free(seen);
        const double input = 6 * in * h, rest = 6 * h * h + 6 * h * h + 4 * h * s->classes, pairs = 4 * h * x->count;
        r->units += s->words;
        r->flop_infer += s->words * (input + rest) + pairs;
        r->flop_train += s->words * (2 * input + 3 * rest) + 3.5 * pairs;
    }
    random_values(r, (size_t)r->n_samples * (size_t)s->words * (size_t)(s->input + s->hidden), random);
}
static void frame_build(net *n, fold_model *m)
{
    const int h = n->s.hidden;
    if (h % FRAME_HEADS) die("frame: heads must divide what is hidden", "");
    n->lstm[0] = fold_gru_new(m, "state", n->s.input, h);
    n->dense[0] = fold_dense_new(m, "qkv", h, 3 * h, FOLD_ACT_LINEAR);
    n->classes = fold_dense_new(m, "policy", 2 * h, n->s.classes, FOLD_ACT_LINEAR);
}
static void frame_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const int agents = n->s.words, *from = r->index + x->first, *to = from + x->count, *label = to + x->count;
    const float *observed = r->values + (size_t)x->root[0] * (size_t)(n->s.input + n->s.hidden), *state = observed + agents * n->s.input;
    const fold_state before = { fold_list_input_ref(f, state, agents, fold_shape1(n->s.hidden)), { 0, 0 } };
    const fold_state now = fold_recurrent_apply(f, &n->lstm[0], fold_list_input_ref(f, observed, agents, fold_shape1(n->s.input)), before);
    fold_node part[3];
    fold_split(f, fold_dense_apply(f, &n->dense[0], now.h), 3, part);
    const fold_node around = fold_list_attention_to(f, part[0], part[1], part[2], FRAME_HEADS, from, to, x->count);
    const fold_node y = fold_dense_apply(f, &n->classes, fold_concat2(f, now.h, around));
    push(out, training ? fold_list_mean(f, fold_softmax_xent_each(f, y, label, agents)) : y);
    if (!training) push(out, now.h); /* for the next frame */
}

/* ---- graph -------------------------------------------------------------------------------- */

enum { GRAPH_ROUNDS = 4 };

/* Molecules: atoms in a tree, and as many bonds more as close some rings; each bond is two edges. A sample's index has the atoms'
   kinds, where edges come from and where they go. */
static void graph_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double h = s->hidden;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        const int atoms = s->min + random_below(random, s->max - s->min + 1), rings = atoms / 8, bonds = atoms - 1 + rings;
        x->first = r->n_index;
        x->count = atoms;
        x->root[0] = random_below(random, s->classes);
        x->root[1] = 2 * bonds;
        int *end = (int *)take(NULL, 2 * (size_t)bonds, sizeof *end);
        for (int k = 0; k < bonds; k++) {
            end[2 * k] = k < atoms - 1 ? k + 1 : random_below(random, atoms);
            end[2 * k + 1] = random_below(random, k < atoms - 1 ? k + 1 : atoms);
        }
        for (int k = 0; k < atoms; k++) push_index(r, random_below(random, s->words));
        for (int k = 0; k < 2 * bonds; k++) push_index(r, end[k]);
        for (int k = 0; k < 2 * bonds; k++) push_index(r, end[k ^ 1]);
        free(end);
        const double flop = 4 * h * h * GRAPH_ROUNDS * atoms + 2 * h * s->classes;
        r->units += atoms;
        r->flop_infer += flop;
        r->flop_train += 3 * flop;
    }
}
static void graph_build(net *n, fold_model *m)
{
    static const char *const names[GRAPH_ROUNDS] = { "round0", "round1", "round2", "round3" };
    const int widths[] = { n->s.hidden, n->s.hidden, n->s.hidden };
    n->words = fold_table_new(m, "kinds", n->s.words, n->s.hidden);
    for (int i = 0; i < GRAPH_ROUNDS; i++) n->rounds[i] = fold_mlp_new(m, names[i], widths, 2, FOLD_ACT_RELU);
    n->classes = fold_dense_new(m, "classes", n->s.hidden, n->s.classes, FOLD_ACT_LINEAR);
}
static void graph_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const int *kind = r->index + x->first, *from = kind + x->count, *to = from + x->root[1];
    fold_node h = fold_list_lookup(f, n->words, kind, x->count);
    for (int i = 0; i < GRAPH_ROUNDS; i++) {
        const fold_node around = fold_list_sum_to(f, fold_list_take(f, h, from, x->root[1]), to, x->root[1], x->count);
        h = fold_mlp_apply(f, &n->rounds[i], fold_add(f, h, around));
    }
    const fold_node y = fold_dense_apply(f, &n->classes, fold_list_sum(f, h));
    push(out, training ? fold_softmax_xent(f, y, x->root[0]) : y);
}

/* ---- transformer -------------------------------------------------------------------------- */

enum { TRANSFORMER_BLOCKS = 2, TRANSFORMER_HEADS = 4 };

/* What a batch of sentences takes: of a token six products of width x width, two of them four times as large, and attention. */
static void transformer_work(recording *r, const sizes *s)
{
    const double d = s->hidden;
    r->units = r->flop_infer = 0;
    for (int i = 0; i < r->n_samples; i++) {
        const double n = r->samples[i].count;
        r->units += n;
        r->flop_infer += TRANSFORMER_BLOCKS * n * (24 * d * d + 4 * n * d) + 2 * d * s->classes;
    }
    r->flop_train = 3 * r->flop_infer;
}
/* A sample's index has its words. */
static void transformer_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->first = r->n_index;
        x->count = s->min + random_below(random, s->max - s->min + 1);
        x->root[0] = random_below(random, s->classes);
        for (int k = 0; k < x->count; k++) push_index(r, random_below(random, s->words));
    }
    transformer_work(r, s);
}
static void transformer_build(net *n, fold_model *m)
{
    static const char *const names[TRANSFORMER_BLOCKS] = { "block0", "block1" };
    fold_transformer_desc block = fold_transformer_desc_default();
    block.width = n->s.hidden;
    block.heads = TRANSFORMER_HEADS;
    block.norm_first = 1;
    n->words = fold_table_new(m, "words", n->s.words, n->s.hidden);
    for (int i = 0; i < TRANSFORMER_BLOCKS; i++) n->block[i] = fold_transformer_new(m, names[i], &block);
    n->classes = fold_dense_new(m, "classes", n->s.hidden, n->s.classes, FOLD_ACT_LINEAR);
}
static void transformer_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_node y = fold_list_lookup(f, n->words, r->index + x->first, x->count);
    for (int i = 0; i < TRANSFORMER_BLOCKS; i++) y = fold_transformer_apply(f, &n->block[i], y, 0);
    y = fold_dense_apply(f, &n->classes, fold_list_mean(f, y));
    push(out, training ? fold_softmax_xent(f, y, x->root[0]) : y);
}

/* ---- policy ------------------------------------------------------------------------------- */

/* Agents (a batch of them) which each observe, remember and act. values: what all observe, what all remember, and room for what
   they will remember. */
static void policy_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double h = s->hidden;
    for (int i = 0; i < r->n_samples; i++) r->samples[i].first = i;
    r->units = r->n_samples;
    r->flop_infer = r->units * 2 * (s->input * h + h * h + 6 * h * h + h * s->classes);
    random_values(r, (size_t)r->n_samples * (size_t)(s->input + 2 * s->hidden), random);
}
static void policy_step(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node x = fold_dense_apply(f, &n->dense[1], fold_dense_apply(f, &n->dense[0], in[0]));
    const fold_state before = { in[1], { 0, 0 } };
    out[1] = fold_recurrent_apply(f, &n->lstm[0], x, before).h;
    out[0] = fold_dense_apply(f, &n->classes, out[1]);
}
static void policy_cell(net *n, fold_model *m, fold_cell_body *body, int n_in)
{
    const sizes *s = &n->s;
    fold_cell_desc cell = fold_cell_desc_default();
    n->dense[0] = fold_dense_new(m, "first", s->input, s->hidden, FOLD_ACT_RELU);
    n->dense[1] = fold_dense_new(m, "second", s->hidden, s->hidden, FOLD_ACT_RELU);
    if (n_in > 1) n->lstm[0] = fold_gru_new(m, "state", s->hidden, s->hidden);
    n->classes = fold_dense_new(m, "head", s->hidden, s->classes, FOLD_ACT_LINEAR);
    cell.name = "policy";
    cell.body = body;
    cell.user = n;
    cell.user_size = sizeof *n;
    cell.n_in = cell.n_out = n_in;
    cell.in[0] = fold_shape1(s->input);
    cell.in[1] = fold_shape1(s->hidden);
    n->policy = fold_cell_new(m, &cell);
}
static void policy_build(net *n, fold_model *m) { policy_cell(n, m, policy_step, 2); }
static void policy_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const int in = n->s.input, h = n->s.hidden, agents = r->n_samples;
    float *const memory = r->values + agents * in + x->first * h;
    fold_node both[2], step[2];
    (void)training;
    both[0] = fold_input_ref(f, r->values + x->first * in, fold_shape1(in));
    both[1] = fold_input_ref(f, memory, fold_shape1(h));
    if (n->s.cells) {
        const fold_node call = fold_call(f, n->policy, both, 2);
        step[0] = fold_out(f, call, 0);
        step[1] = fold_out(f, call, 1);
    } else policy_step(f, both, step, n);
    fold_output_ref(f, step[1], memory + agents * h);
    push(out, step[0]);
}

/* The same agents without a memory. */
static void policy_mlp_generate(recording *r, const sizes *s, uint64_t *random)
{
    policy_generate(r, s, random);
    r->flop_infer -= r->units * 12.0 * s->hidden * s->hidden;
}
static void policy_mlp_step(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node x = fold_dense_apply(f, &n->dense[1], fold_dense_apply(f, &n->dense[0], in[0]));
    out[0] = fold_dense_apply(f, &n->classes, x);
}
static void policy_mlp_build(net *n, fold_model *m) { policy_cell(n, m, policy_mlp_step, 1); }
static void policy_mlp_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const fold_node sees = fold_input_ref(f, r->values + x->first * n->s.input, fold_shape1(n->s.input));
    fold_node y;
    (void)training;
    if (n->s.cells) y = fold_call(f, n->policy, &sees, 1);
    else policy_mlp_step(f, &sees, &y, n);
    push(out, y);
}

/* ---- networks that mix kinds of calls: mixed-N, ed-lattice, shift-reduce, limbs ------------- */

/* A sample's index tells its calls: the kind, the number of inputs, and these. They count the sample's calls from 1; 0 is its leaf. */
enum { MEAN_OF = -1, SUM_OF = -2, MAX_JOINED = 32 };
static void mixed_begin(recording *r, sample *x)
{
    x->first = r->n_index;
    x->count = 0;
}
static int mixed_call(recording *r, sample *x, const sizes *s, int kind, int n, const int *in)
{
    push_index(r, kind);
    push_index(r, n);
    for (int i = 0; i < n; i++) push_index(r, in[i]);
    r->units++;
    if (kind >= 0) r->flop_infer += 2.0 * n * s->hidden * s->hidden;
    r->flop_train = 3 * r->flop_infer;
    return ++x->count;
}
static int mixed_one(recording *r, sample *x, const sizes *s, int kind, int in) { return mixed_call(r, x, s, kind, 1, &in); }
static int mixed_two(recording *r, sample *x, const sizes *s, int kind, int a, int b)
{
    const int both[2] = { a, b };
    return mixed_call(r, x, s, kind, 2, both);
}
static int mixed_three(recording *r, sample *x, const sizes *s, int kind, int a, int b, int c)
{
    const int all[3] = { a, b, c };
    return mixed_call(r, x, s, kind, 3, all);
}

/* Some kinds are frequent and most are rare: of the kinds 1 to n, k comes in proportion to 1 / k. */
static int mixed_kind(uint64_t *random, int n)
{
    double all = 0;
    int k = 1;
    for (int i = 1; i <= n; i++) all += 1.0 / i;
    for (double left = all * random_below(random, 1 << 24) / (1 << 24) - 1; left >= 0 && k < n; left -= 1.0 / k) k++;
    return k;
}
static int mixed_tree(recording *r, sample *x, const sizes *s, uint64_t *random, int leaves)
{
    if (leaves == 1) return mixed_one(r, x, s, 0, 0);
    const int split = 1 + random_below(random, leaves - 1), kind = mixed_kind(random, s->classes);
    const int left = mixed_tree(r, x, s, random, split), right = mixed_tree(r, x, s, random, leaves - split);
    return mixed_two(r, x, s, kind, left, right);
}
/* Binary trees of which leaves are of one kind, and inner nodes of some kinds (classes). */
static void trees_generate(recording *r, const sizes *s, uint64_t *random)
{
    const int half = (s->max - s->min) / 2;
    for (int i = 0; i < r->n_samples; i++) {
        mixed_begin(r, &r->samples[i]);
        mixed_tree(r, &r->samples[i], s, random, s->min + random_below(random, half + 1) + random_below(random, half + 1));
    }
    random_values(r, (size_t)s->hidden, random);
}
/* Letters in a row, and words that begin behind a letter and end at a later one, where all that ends is averaged. */
static void ed_lattice_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        const int n = s->min + random_below(random, s->max - s->min + 1);
        int state[MAX_NODES] = { 0 };
        mixed_begin(r, x);
        for (int k = 1; k <= n; k++) {
            int in[MAX_JOINED], count = 0;
            in[count++] = mixed_one(r, x, s, 0, state[k - 1]);
            for (int length = 2; length <= 4 && length < k; length++)
                if (!random_below(random, 6)) in[count++] = mixed_one(r, x, s, 1, state[k - length]);
            state[k] = count > 1 ? mixed_call(r, x, s, MEAN_OF, count, in) : in[0];
        }
    }
    random_values(r, (size_t)s->hidden, random);
}
/* A buffer that is read from its end, a tracker of buffer and stack, actions, the stack and its compositions. */
static void shift_reduce_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        const int words = s->min + random_below(random, s->max - s->min + 1);
        int buffer[MAX_NODES] = { 0 }, stack[MAX_NODES] = { 0 }, top = 0, left = words, tracker = 0;
        mixed_begin(r, x);
        for (int k = 1; k <= words; k++) buffer[k] = mixed_two(r, x, s, 0, 0, buffer[k - 1]);
        while (left || top > 1) {
            tracker = mixed_three(r, x, s, 1, tracker, buffer[left], stack[top]);
            const int action = mixed_one(r, x, s, 2, tracker);
            int value;
            if (top < 2 || (left && random_below(random, 2))) {
                value = mixed_one(r, x, s, 3, buffer[left--]);
                top++;
            } else {
                value = mixed_three(r, x, s, 4, stack[top - 1], stack[top], tracker);
                top--;
            }
            stack[top] = mixed_two(r, x, s, 5, value, action);
        }
    }
    random_values(r, (size_t)s->hidden, random);
}
/* Robots whose limbs are of four kinds: messages go up to the trunk and down again. */
static void limbs_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        int parent[MAX_JOINED], kind[MAX_JOINED], up[MAX_JOINED], down[MAX_JOINED];
        const int limbs = s->min + random_below(random, s->max - s->min + 1);
        mixed_begin(r, x);
        if (limbs > MAX_JOINED) die("limbs: at most 32", "");
        for (int k = 0; k < limbs; k++) {
            parent[k] = k ? random_below(random, k) : 0;
            kind[k] = random_below(random, 4);
        }
        for (int k = limbs - 1; k >= 0; k--) {
            int in[MAX_JOINED + 1], count = 0;
            in[count++] = 0;
            for (int child = k + 1; child < limbs; child++)
                if (parent[child] == k) in[count++] = up[child];
            up[k] = mixed_one(r, x, s, kind[k], mixed_call(r, x, s, SUM_OF, count, in));
        }
        for (int k = 0; k < limbs; k++) down[k] = mixed_two(r, x, s, 4 + kind[k], up[k], k ? down[parent[k]] : 0);
        mixed_call(r, x, s, MEAN_OF, limbs, down);
    }
    random_values(r, (size_t)s->hidden, random);
}
static void mixed_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const node_kind *k = (const node_kind *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, k->n, k->W, FOLD_NULL_PARAM));
}
static void mixed_build(net *n, fold_model *m, const char *inputs) /* a digit for each kind */
{
    for (int i = 0; inputs[i]; i++) {
        char name[16];
        fold_cell_desc cell = fold_cell_desc_default();
        node_kind *k = &n->kind[i];
        snprintf(name, sizeof name, "kind%d", i);
        k->n = inputs[i] - '0';
        k->W = fold_weight_new(m, name, k->n * n->s.hidden, n->s.hidden);
        cell.name = name;
        cell.body = mixed_body;
        cell.user = k;
        cell.user_size = sizeof *k;
        cell.n_in = k->n;
        cell.n_out = 1;
        for (int in = 0; in < k->n; in++) cell.in[in] = fold_shape1(n->s.hidden);
        n->kinds[i] = fold_cell_new(m, &cell);
    }
}
static void trees_build(net *n, fold_model *m)
{
    char inputs[MAX_KINDS + 1] = "1";
    if (n->s.classes >= MAX_KINDS) die("mixed: at most 60 kinds", "");
    for (int i = 1; i <= n->s.classes; i++) inputs[i] = '2';
    mixed_build(n, m, inputs);
}
static void ed_lattice_build(net *n, fold_model *m) { mixed_build(n, m, "11"); }
static void shift_reduce_build(net *n, fold_model *m) { mixed_build(n, m, "231132"); }
static void limbs_build(net *n, fold_model *m) { mixed_build(n, m, "11112222"); }
static void mixed_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_node value[4 * MAX_NODES + 1], in[MAX_JOINED + 1];
    const int *at = r->index + x->first;
    if (x->count > 4 * MAX_NODES) die("a sample has too many calls", "");
    value[0] = fold_input_ref(f, r->values, fold_shape1(n->s.hidden));
    for (int call = 1; call <= x->count; call++) {
        const int kind = *at++, count = *at++;
        for (int i = 0; i < count; i++) in[i] = value[*at++];
        if (kind == MEAN_OF) value[call] = fold_mean_n(f, in, count);
        else if (kind == SUM_OF) value[call] = fold_sum_n(f, in, count);
        else if (n->s.cells) value[call] = fold_call(f, n->kinds[kind], in, count);
        else mixed_body(f, in, &value[call], &n->kind[kind]);
    }
    push(out, training ? fold_sum(f, value[x->count], FOLD_ALL) : value[x->count]);
}

/* ---- ppo ---------------------------------------------------------------------------------- */

/* Segments of `max` steps of games, as PPO learns from them: a game ends at a step with a chance of one in `min`, and the next
   begins with a state of zeros. A sample's index has a move for each step, then whether the game ends there. Its values are
   observations, then for each step an advantage, a target and what the old log-probability is made of; the first state. */
static size_t ppo_values(const sizes *s) { return (size_t)s->max * (size_t)(s->input + 3) + 2 * (size_t)s->hidden; }
static void ppo_generate(recording *r, const sizes *s, uint64_t *random)
{
    const double h = s->hidden;
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->root[0] = i;
        x->first = r->n_index;
        x->count = s->max;
        for (int k = 0; k < s->max; k++) push_index(r, random_below(random, s->classes));
        for (int k = 0; k < s->max; k++) push_index(r, random_below(random, s->min) == 0);
    }
    random_values(r, (size_t)r->n_samples * ppo_values(s), random);
    for (size_t i = 0; i < (size_t)r->n_samples; i++)
        for (size_t k = 0; k < (size_t)s->max; k++) r->values[i * ppo_values(s) + (size_t)s->max * (size_t)(s->input + 2) + k] -= 2;
    r->units = (double)r->n_samples * s->max;
    r->flop_infer = r->units * 2 * (s->input * h + 8 * h * h + h * (s->classes + 1));
    r->flop_train = 3 * r->flop_infer;
}
static void ppo_build(net *n, fold_model *m)
{
    n->learner = fold_rl_policy_new(m, "player", fold_lstm_new, n->s.input, n->s.hidden, n->s.classes);
}
typedef struct ppo_part { int steps; const int *move, *ends; const float *senses, *advantage, *target, *old, *state; } ppo_part;
static ppo_part ppo_part_of(const net *n, const recording *r, const sample *x)
{
    ppo_part p;
    p.steps = x->count;
    p.move = r->index + x->first;
    p.ends = p.move + p.steps;
    p.senses = r->values + (size_t)x->root[0] * ppo_values(&n->s);
    p.advantage = p.senses + p.steps * n->s.input;
    p.target = p.advantage + p.steps;
    p.old = p.target + p.steps;
    p.state = p.old + p.steps;
    return p;
}
static void ppo_outputs(fold_ctx *f, const ppo_part *p, fold_node logits, fold_node value, int training, roots *out)
{
    static const fold_rl_ppo ppo = { 0.2f, 0.5f, 0.01f };
    if (!training) {
        push(out, logits);
        push(out, value);
        return;
    }
    const fold_rl_steps was = { p->old, p->advantage, p->target, p->steps };
    const fold_node now = fold_pick_each(f, fold_log_softmax(f, logits), p->move, p->steps);
    const fold_node entropy = fold_softmax_entropy(f, logits);
    push(out, fold_scale(f, fold_rl_ppo_loss(f, &ppo, &was, now, entropy, value), 1.0f / (float)p->steps));
}
static void ppo_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const ppo_part part = ppo_part_of(n, r, x);
    const int steps = part.steps, *ends = part.ends;
    const float *senses = part.senses, *state = part.state;
    const fold_state zeros = fold_recurrent_zeros(f, &n->learner.memory);
    fold_state s;
    s.h = fold_input_ref(f, state, fold_shape1(n->s.hidden));
    s.c = fold_input_ref(f, state + n->s.hidden, fold_shape1(n->s.hidden));
    fold_node actor[MAX_NODES], critic[MAX_NODES];
    if (steps > MAX_NODES) die("ppo: a segment has too many steps", "");
    for (int i = 0; i < steps; i++) {
        const fold_rl_step step = fold_rl_policy_apply(f, &n->learner, fold_input_ref(f, senses + i * n->s.input, fold_shape1(n->s.input)), s);
        actor[i] = step.actor;
        critic[i] = step.critic;
        s = ends[i] ? zeros : step.state;
    }
    const fold_node logits = fold_list_join(f, actor, steps), value = fold_list_join(f, critic, steps);
    ppo_outputs(f, &part, logits, value, training, out);
}

/* The same without a memory: all steps of a segment are one list. */
static void ppo_mlp_generate(recording *r, const sizes *s, uint64_t *random)
{
    ppo_generate(r, s, random);
    r->flop_infer -= r->units * 16.0 * s->hidden * s->hidden;
    r->flop_train = 3 * r->flop_infer;
}
static void ppo_mlp_build(net *n, fold_model *m)
{
    n->learner = fold_rl_policy_new(m, "player", NULL, n->s.input, n->s.hidden, n->s.classes);
}
static void ppo_mlp_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const ppo_part part = ppo_part_of(n, r, x);
    const fold_state none = { { 0, 0 }, { 0, 0 } };
    const fold_node sees = fold_list_input_ref(f, part.senses, part.steps, fold_shape1(n->s.input));
    const fold_rl_step all = fold_rl_policy_apply(f, &n->learner, sees, none);
    ppo_outputs(f, &part, all.actor, all.critic, training, out);
}

/* ---- the table ---------------------------------------------------------------------------- */

static const workload workloads[] = {
    /*                                        batch input hidden words classes min max softmax cells */
    { "treelstm-sick", "nodes", OPT_ADAGRAD, { 256, 300, 150, 2400, 5, 5, 15, 0, 1 }, sick_generate, sick_build, sick_record },
    { "treelstm-sst", "nodes", OPT_ADAGRAD, { 256, 300, 150, 10000, 5, 5, 35, 0, 1 }, sst_generate, sst_build, sst_record },
    { "treelstm-tiny", "nodes", OPT_NONE, { 256, 8, 8, 10000, 0, 5, 35, 0, 1 }, sst_generate, sst_build, sst_record },
    { "lstm-lm", "tokens", OPT_SGD, { 32, 200, 200, 10000, 0, 5, 60, 1, 1 }, lm_generate, lm_build, lm_record },
    { "lstm-lm", "tokens", OPT_SGD, { 32, 200, 200, 10000, 0, 5, 60, 0, 1 }, lm_generate, lm_build, lm_record },
    { "mnist-mlp", "images", OPT_ADAM, { 32, 784, 200, 1, 10, 1, 1, 0, 1 }, mnist_generate, mnist_build, mnist_record },
    { "gru", "tokens", OPT_SGD, { 32, 200, 200, 10000, 0, 5, 60, 0, 1 }, gru_generate, gru_build, lm_record },
    { "chain", "tokens", OPT_SGD, { 1, 150, 150, 10000, 0, 200, 200, 0, 1 }, chain_generate, chain_build, chain_record },
    { "lattice", "letters", OPT_SGD, { 64, 50, 100, 5000, 10, 10, 40, 0, 1 }, lattice_generate, lattice_build, lattice_record },
    { "bilstm-tagger", "words", OPT_SGD, { 32, 128, 50, 10000, 9, 5, 40, 0, 1 }, tagger_generate, tagger_build, tagger_record },
    { "pointer", "words", OPT_SGD, { 32, 128, 128, 10000, 0, 5, 40, 0, 1 }, pointer_generate, pointer_build, pointer_record },
    { "crf", "words", OPT_SGD, { 32, 128, 128, 10000, 9, 5, 40, 0, 1 }, crf_generate, crf_build, crf_record },
    { "attention", "vectors", OPT_ADAM, { 256, 16, 64, 1, 5, 1, 21, 0, 1 }, attention_generate, attention_build, attention_record },
    { "frame", "agents", OPT_ADAM, { 1, 16, 32, 500, 8, 1, 21, 0, 1 }, frame_generate, frame_build, frame_record },
    { "graph", "atoms", OPT_ADAM, { 32, 64, 64, 20, 2, 10, 100, 0, 1 }, graph_generate, graph_build, graph_record },
    { "transformer", "tokens", OPT_ADAM, { 32, 128, 128, 10000, 5, 5, 40, 0, 1 }, transformer_generate, transformer_build, transformer_record },
    { "policy", "agents", OPT_NONE, { 1, 16, 64, 1, 8, 1, 1, 0, 1 }, policy_generate, policy_build, policy_record },
    { "policy-mlp", "agents", OPT_NONE, { 1, 16, 64, 1, 8, 1, 1, 0, 1 }, policy_mlp_generate, policy_mlp_build, policy_mlp_record },
    { "ppo", "steps", OPT_ADAM, { 32, 32, 128, 1, 6, 20, 64, 0, 1 }, ppo_generate, ppo_build, ppo_record },
    { "ppo-mlp", "steps", OPT_ADAM, { 32, 32, 128, 1, 6, 20, 64, 0, 1 }, ppo_mlp_generate, ppo_mlp_build, ppo_mlp_record },
    { "mixed-1", "nodes", OPT_SGD, { 64, 64, 64, 1, 1, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "mixed-2", "nodes", OPT_SGD, { 64, 64, 64, 1, 2, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "mixed-5", "nodes", OPT_SGD, { 64, 64, 64, 1, 5, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "mixed-10", "nodes", OPT_SGD, { 64, 64, 64, 1, 10, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "mixed-16", "nodes", OPT_SGD, { 64, 64, 64, 1, 16, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "mixed-20", "nodes", OPT_SGD, { 64, 64, 64, 1, 20, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "mixed-60", "nodes", OPT_SGD, { 64, 64, 64, 1, 60, 5, 35, 0, 1 }, trees_generate, trees_build, mixed_record },
    { "ed-lattice", "nodes", OPT_SGD, { 64, 64, 64, 1, 1, 30, 70, 0, 1 }, ed_lattice_generate, ed_lattice_build, mixed_record },
    { "shift-reduce", "nodes", OPT_SGD, { 64, 64, 64, 1, 1, 5, 35, 0, 1 }, shift_reduce_generate, shift_reduce_build, mixed_record },
    { "limbs", "nodes", OPT_SGD, { 64, 64, 64, 1, 1, 4, 22, 0, 1 }, limbs_generate, limbs_build, mixed_record },
    { "primitive-ops", "nodes", OPT_SGD, { 64, 64, 64, 1000, 5, 5, 35, 0, 0 }, sst_generate, sst_build, sst_record },
};
enum { N_WORKLOADS = sizeof workloads / sizeof workloads[0] };
