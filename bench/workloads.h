/* workloads.h - the networks and the data of every workload. A workload is a row of the table at the end. */

enum { MAX_NODES = 1024, HEAD = 50 };

typedef enum optimiser { OPT_NONE, OPT_SGD, OPT_ADAGRAD, OPT_ADAM } optimiser;

/* Sizes of a workload; the command line may change each. */
typedef struct sizes {
    int batch, input, hidden, words, classes;
    int min, max;   /* of a sample: nodes of a tree, leaves, tokens */
    int softmax, cells;
} sizes;

/* One node or token. Trees: first child and next sibling (child-sum), or left and right (binary); -1: none. */
typedef struct item { int word, child, next, label; } item;
/* Its items are items[first .. first + count). root: items of its tree or trees. */
typedef struct sample { int root[2], first, count; float target[8]; } sample;
/* The samples of one batch. */
typedef struct recording {
    item *items; int n_items, cap_items;
    sample *samples; int n_samples;
    float *values;               /* mnist-mlp: images */
    double units, flop_infer, flop_train;
} recording;

/* Parameters and layers; each workload uses its own. */
typedef struct net {
    sizes s;
    fold_param words;
    fold_child_sum child_sum;
    fold_tree_lstm tree;
    fold_recurrent lstm[2];
    fold_dense head, classes;
    fold_mlp mlp;
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
static void push(roots *out, fold_node x)
{
    if (out->n == out->cap) {
        out->cap = out->cap ? 2 * out->cap : 1024;
        out->node = (fold_node *)take(out->node, out->cap, sizeof *out->node);
    }
    out->node[out->n++] = x;
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
    n->words = fold_table(m, "words", s->words, s->input);
    fold_param_freeze(m, n->words, 1);
    n->child_sum = fold_child_sum_new(m, "tree", s->input, s->hidden);
    n->head = fold_dense_new(m, "head", 2 * s->hidden, HEAD, FOLD_SIGMOID);
    n->classes = fold_dense_new(m, "classes", HEAD, s->classes, FOLD_LINEAR);
}
static fold_state sick_tree(fold_ctx *f, const net *n, const recording *r, int i)
{
    fold_state children[MAX_NODES];
    size_t count = 0;
    for (int k = r->items[i].child; k >= 0; k = r->items[k].next) children[count++] = sick_tree(f, n, r, k);
    return fold_child_sum_node(f, &n->child_sum, fold_lookup(f, n->words, r->items[i].word), children, count);
}
static void sick_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const fold_node a = sick_tree(f, n, r, x->root[0]).h, b = sick_tree(f, n, r, x->root[1]).h;
    const fold_node features = fold_concat2(f, fold_mul(f, a, b), fold_abs(f, fold_sub(f, a, b)));
    const fold_node y = fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, features));
    push(out, training ? fold_softmax_kl(f, y, fold_input(f, x->target, n->s.classes)) : fold_softmax(f, y));
}

/* ---- treelstm-sst and treelstm-tiny ------------------------------------------------------- */

/* A full binary tree split at uniform places; its root is its last item. */
static int random_binary_tree(recording *r, const sizes *s, uint64_t *random, int leaves)
{
    const int label = random_below(random, s->classes ? s->classes : 1);
    if (leaves == 1) return new_item(r, random_below(random, s->words), -1, -1, label);
    const int split = 1 + random_below(random, leaves - 1);
    const int left = random_binary_tree(r, s, random, split);
    const int right = random_binary_tree(r, s, random, leaves - split);
    return new_item(r, 0, left, right, label);
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
    n->words = fold_table(m, "words", s->words, s->input);
    fold_param_freeze(m, n->words, 1);
    n->tree = fold_tree_lstm_new(m, "tree", s->input, s->hidden, 2);
    if (s->classes) n->classes = fold_dense_new(m, "classes", s->hidden, s->classes, FOLD_LINEAR);
}
static fold_state sst_tree(fold_ctx *f, const net *n, const recording *r, int i, int training, roots *out)
{
    const item *at = &r->items[i];
    fold_state s;
    if (at->child < 0) {
        s = fold_tree_lstm_leaf(f, &n->tree, fold_lookup(f, n->words, at->word));
    } else {
        fold_state children[2];
        children[0] = sst_tree(f, n, r, at->child, training, out);
        children[1] = sst_tree(f, n, r, at->next, training, out);
        s = fold_tree_lstm_inner(f, &n->tree, children);
    }
    if (n->s.classes) {
        const fold_node y = fold_dense_apply(f, &n->classes, s.h);
        push(out, training ? fold_softmax_xent(f, y, at->label) : y);
    }
    return s;
}
static void sst_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const fold_state s = sst_tree(f, n, r, x->root[0], training, out);
    if (!n->s.classes) push(out, s.h);
}

/* ---- lstm-lm and chain -------------------------------------------------------------------- */

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
    n->words = fold_table(m, "words", s->words, s->input);
    n->lstm[0] = fold_lstm_new(m, "lstm0", s->input, s->hidden);
    n->lstm[1] = fold_lstm_new(m, "lstm1", s->hidden, s->hidden);
    if (s->softmax) n->classes = fold_dense_new(m, "next", s->hidden, s->words, FOLD_LINEAR);
}
/* Without softmax a token's loss is the sum of its state: gradients flow as far, and nothing is predicted. */
static void lm_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_state a = fold_recurrent_start(f, &n->lstm[0]), b = fold_recurrent_start(f, &n->lstm[1]);
    for (int i = x->first; i < x->first + x->count; i++) {
        a = fold_recurrent_step(f, &n->lstm[0], fold_lookup(f, n->words, r->items[i].word), a);
        b = fold_recurrent_step(f, &n->lstm[1], a.h, b);
        if (n->s.softmax) push(out, fold_softmax_xent(f, fold_dense_apply(f, &n->classes, b.h), r->items[i].label));
        else push(out, training ? fold_sum(f, b.h, FOLD_ALL) : b.h);
    }
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
    n->words = fold_table(m, "words", n->s.words, n->s.input);
    fold_param_freeze(m, n->words, 1);
    n->lstm[0] = fold_lstm_new(m, "lstm", n->s.input, n->s.hidden);
}
static void chain_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    fold_state a = fold_recurrent_start(f, &n->lstm[0]);
    for (int i = x->first; i < x->first + x->count; i++)
        a = fold_recurrent_step(f, &n->lstm[0], fold_lookup(f, n->words, r->items[i].word), a);
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
    n->mlp = fold_mlp_new(m, "mlp", widths, 3, FOLD_RELU);
}
static void mnist_record(fold_ctx *f, const net *n, const recording *r, const sample *x, int training, roots *out)
{
    const float *image = r->values + (size_t)x->first * (size_t)n->s.input;
    const fold_node y = fold_mlp_apply(f, &n->mlp, fold_input_ref(f, image, fold_shape1(n->s.input)));
    push(out, training ? fold_softmax_xent(f, y, x->root[0]) : y);
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
    { "chain", "tokens", OPT_SGD, { 1, 150, 150, 10000, 0, 200, 200, 0, 1 }, chain_generate, chain_build, chain_record },
};
enum { N_WORKLOADS = sizeof workloads / sizeof workloads[0] };
