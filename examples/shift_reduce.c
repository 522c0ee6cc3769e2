/* shift_reduce: a stack machine with learned parts, like SPINN (Bowman et al. 2016), in which every sample
   runs its own program.

     cc -O2 -o shift_reduce examples/shift_reduce.c -lm && ./shift_reduce

   A sample is a list of words (the buffer) and a list of transitions. Shift pushes the next word onto the
   stack. Reduce replaces the top two entries with their composition, computed by a binary tree-LSTM (Tai et
   al. 2015). Before each transition, a tracking LSTM reads the front of the buffer and the top two entries;
   its state is an input to the composition. The machine below is a plain loop over one sample's transitions.
   All samples in a batch run together, even though their next transitions differ.

   The task is to evaluate nested expressions in Polish notation, such as - max 2 3 + 1 1, with arithmetic
   modulo 4. The operators min, max, + and - are just words, like the numbers. Answers are given only for
   whole expressions, so the machine has to work out for itself what the operators do. It trains on
   expressions with 1 to 8 operators and is tested on unseen ones with 4 to 8. With --chain 1, the transitions
   ignore the nesting, and the machine learns far less from the same words.

   With --data DIR, the program reads sentences and their parse trees from DIR/sst/{train,test}.txt instead
   (Socher et al. 2013). The machine trains on the sentiment of every phrase, in five classes, and is tested
   on whole sentences. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#include "options.h"
#include "unfused.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MODULUS = 4, OPERATORS = 4, UNKNOWN = 0, BATCH = 32, TEST_BATCH = 256, MAX_CLASSES = 5, NO_ANSWER = -1 };
enum { MAX_OPERATORS = 8, TEST_OPERATORS = 4 }; /* an expression has at most so many; a test expression at least */

typedef struct options {
    const char *data;
    uint64_t seed;
    int epochs, limit, hidden, tracking, chain;
    double seconds;
} options;
/* The nodes of a tree, in order, are its transitions: a leaf is a shift, an inner node a reduce. */
typedef struct task {
    data_set train, test;    /* fields of data_load_trees */
    data_trees trees;
    data_vocab words;
    int classes;
} task;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "shift_reduce: %s%s\n", what, detail);
    exit(1);
}

static double seconds_since(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- the network --------------------------------------------------------------------------- */

typedef struct net {
    fold_param words;                 /* each row is the h and c of a word */
    fold_param W_track, b_track, W_compose, b_compose;
    fold_cell track, compose;
    fold_dense answer;
    int hidden, tracking;
} net;

/* Takes the h of the buffer's top, of the stack's top and of its second entry, and the tracker's h and c. Gives its new
   h and c. */
static void track_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    fold_node g[4]; /* forget, input, output, new */
    fold_split(f, fold_linear_n(f, in, 4, n->W_track, n->b_track), 4, g);
    const fold_node kept = fold_mul(f, fold_sigmoid(f, g[0]), in[4]);
    const fold_node open = fold_sigmoid(f, g[1]), added = fold_mul(f, open, fold_tanh(f, g[3]));
    out[1] = fold_add(f, kept, added);
    const fold_node shown = fold_sigmoid(f, g[2]);
    out[0] = fold_mul(f, shown, fold_tanh(f, out[1]));
}

/* Takes the h of left, right and tracker, and the c of left and right. Gives h and c of both together. */
static void compose_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    fold_node g[5]; /* forget left, forget right, input, output, new */
    fold_split(f, fold_linear_n(f, in, 3, n->W_compose, n->b_compose), 5, g);
    const fold_node left = fold_mul(f, fold_sigmoid(f, g[0]), in[3]), right = fold_mul(f, fold_sigmoid(f, g[1]), in[4]);
    const fold_node open = fold_sigmoid(f, g[2]), added = fold_mul(f, open, fold_tanh(f, g[4]));
    out[1] = fold_add(f, fold_add(f, left, right), added);
    const fold_node shown = fold_sigmoid(f, g[3]);
    out[0] = fold_mul(f, shown, fold_tanh(f, out[1]));
}

/* Makes the biases of a cell: 1 for its forget gates, which are the first `forget` values, else 0. */
static fold_param gate_bias(fold_model *m, const char *name, int n, int forget)
{
    const fold_param b = fold_bias_new(m, name, n);
    float *values = fold_values_write_begin(m, b);
    for (int i = 0; values && i < forget; i++) values[i] = 1;
    fold_values_write_end(m, b);
    return b;
}

static void net_new(fold_model *m, net *n, const task *d, const options *o)
{
    const int h = o->hidden, t = o->tracking;
    fold_cell_desc cell = fold_cell_desc_default();
    n->hidden = h;
    n->tracking = t;
    n->words = fold_table_new(m, "words", (int)d->words.n_words, 2 * h);
    n->W_track = fold_weight_new(m, "track.W", 3 * h + t, 4 * t);
    n->b_track = gate_bias(m, "track.b", 4 * t, t);
    n->W_compose = fold_weight_new(m, "compose.W", 2 * h + t, 5 * h);
    n->b_compose = gate_bias(m, "compose.b", 5 * h, 2 * h);
    n->answer = fold_dense_new(m, "answer", h, d->classes, FOLD_ACT_LINEAR);
    cell.user = n;
    cell.n_in = 5;
    cell.n_out = 2;
    cell.name = "track";
    cell.body = track_body;
    for (int i = 0; i < 5; i++) cell.in[i] = fold_shape1(i < 3 ? h : t);
    n->track = fold_cell_new(m, &cell);
    cell.name = "compose";
    cell.body = compose_body;
    for (int i = 0; i < 5; i++) cell.in[i] = fold_shape1(i == 2 ? t : h);
    n->compose = fold_cell_new(m, &cell);
}

/* ---- the machine, for one sample ----------------------------------------------------------- */

typedef struct machine { fold_state *buffer, *stack; fold_node *losses; size_t n_losses, cap_losses; } machine;

static fold_state call(fold_ctx *f, fold_cell cell, const fold_node *in)
{
    const fold_node out = fold_call(f, cell, in, 5);
    const fold_state s = { fold_out(f, out, 0), fold_out(f, out, 1) };
    return s;
}

static fold_state word_state(fold_ctx *f, const net *n, int word)
{
    fold_node part[2];
    fold_split(f, fold_lookup(f, n->words, word), 2, part);
    const fold_state s = { part[0], part[1] };
    return s;
}

/* Records the loss of the entry on top of the stack. */
static void add_loss(fold_ctx *f, machine *k, const net *n, fold_node h, int label)
{
    if (k->n_losses == k->cap_losses) {
        k->cap_losses = k->cap_losses * 2 + 1024;
        k->losses = (fold_node *)realloc(k->losses, k->cap_losses * sizeof *k->losses);
        if (!k->losses) fail("out of memory", "");
    }
    k->losses[k->n_losses++] = fold_softmax_xent(f, fold_dense_apply(f, &n->answer, h), label);
}

/* Runs the program of a sample: its nodes from the first to the root. Returns the answer's logits. */
static fold_node run_machine(fold_ctx *f, machine *k, const net *n, const data_node *nodes, const int32_t *tree,
                             int learns)
{
    const fold_node nothing = fold_zeros(f, fold_shape1(n->hidden)), start = fold_zeros(f, fold_shape1(n->tracking));
    fold_state tracker = { start, start };
    size_t next = 0, words = 0, depth = 0;
    for (int32_t i = tree[0]; i <= tree[1]; i++)
        if (nodes[i].child < 0) k->buffer[words++] = word_state(f, n, nodes[i].word);
    for (int32_t i = tree[0]; i <= tree[1]; i++) {
        const fold_state *top = k->stack + depth; /* behind it */
        const fold_node seen[5] = { next < words ? k->buffer[next].h : nothing, depth > 0 ? top[-1].h : nothing,
                                    depth > 1 ? top[-2].h : nothing, tracker.h, tracker.c };
        tracker = call(f, n->track, seen);
        if (nodes[i].child < 0) {
            k->stack[depth++] = k->buffer[next++];
        } else {
            const fold_node both[5] = { top[-2].h, top[-1].h, tracker.h, top[-2].c, top[-1].c };
            depth--;
            k->stack[depth - 1] = call(f, n->compose, both);
        }
        if (learns && nodes[i].label != NO_ANSWER) add_loss(f, k, n, k->stack[depth - 1].h, nodes[i].label);
    }
    return fold_dense_apply(f, &n->answer, k->stack[0].h);
}

/* ---- data ---------------------------------------------------------------------------------- */

static int add_node(data_trees *t, const int *children, int word, int label)
{
    const int node = data_tree_node(t, children, children ? 2 : 0, word, label);
    if (node < 0) fail("out of memory", "");
    return node;
}

/* Makes an expression of so many operators as ((operator a) b). Returns its root, and tells its value. */
static int generate_expression(uint64_t *random, data_trees *t, int operators, int *value)
{
    int a = 0, b = 0, pair[2];
    if (!operators) {
        *value = (int)data_random_below(random, MODULUS);
        return add_node(t, NULL, OPERATORS + *value, NO_ANSWER);
    }
    const int op = (int)data_random_below(random, OPERATORS), left = (int)data_random_below(random, (size_t)operators);
    pair[0] = add_node(t, NULL, op, NO_ANSWER);
    pair[1] = generate_expression(random, t, left, &a);
    pair[0] = add_node(t, pair, -1, NO_ANSWER);
    pair[1] = generate_expression(random, t, operators - 1 - left, &b);
    *value = op == 0 ? (a < b ? a : b) : op == 1 ? (a > b ? a : b) : (op == 2 ? a + b : a - b + MODULUS) % MODULUS;
    return add_node(t, pair, -1, NO_ANSWER);
}

/* Exchanges the last tree for one of the same words that knows nothing of the nesting: it shifts and reduces in turn. */
static int make_chain(data_trees *t, size_t first)
{
    int words[2 * MAX_OPERATORS + 1] = { 0 }, n = 0, pair[2];
    for (size_t i = first; i < t->n_nodes; i++)
        if (t->nodes[i].child < 0) words[n++] = t->nodes[i].word;
    t->n_nodes = first;
    pair[0] = add_node(t, NULL, words[0], NO_ANSWER);
    for (int i = 1; i < n; i++) {
        pair[1] = add_node(t, NULL, words[i], NO_ANSWER);
        pair[0] = add_node(t, pair, -1, NO_ANSWER);
    }
    return pair[0];
}

static void generate(data_set *s, data_trees *t, uint64_t *random, size_t count, int least, int chain, data_error *e)
{
    int32_t *tree = (int32_t *)malloc(2 * count * sizeof *tree);
    if (!tree) fail("out of memory", "");
    for (size_t i = 0; i < count; i++) {
        const int operators = least + (int)data_random_below(random, (size_t)(MAX_OPERATORS - least + 1));
        int value = 0;
        tree[2 * i] = (int32_t)t->n_nodes;
        tree[2 * i + 1] = generate_expression(random, t, operators, &value);
        if (chain) tree[2 * i + 1] = make_chain(t, (size_t)tree[2 * i]);
        t->nodes[tree[2 * i + 1]].label = value;
    }
    data_add_trees(s, t, tree, count, e);
}

static const char *load_data(const options *o, task *d)
{
    static const char *const words[OPERATORS + MODULUS] = { "min", "max", "+", "-", "0", "1", "2", "3" };
    const data_ptb known = { { 1, UNKNOWN, 1, 0 }, MAX_CLASSES, 2, (size_t)o->limit };
    const data_ptb fresh = { { 0, UNKNOWN, 1, 0 }, MAX_CLASSES, 2, 0 };
    char path[1024];
    uint64_t random = o->seed;
    data_error e;
    memset(&e, 0, sizeof e);
    d->classes = o->data ? MAX_CLASSES : MODULUS;
    if (o->data && o->chain) fail("--chain is for generated expressions", "");
    if (o->data) {
        data_vocab_add(&d->words, " ", 1); /* UNKNOWN; no word of a file holds a space */
        data_path(path, sizeof path, o->data, "sst/train.txt");
        data_load_trees(&d->train, &d->trees, &known, &d->words, path, &e);
        data_path(path, sizeof path, o->data, "sst/test.txt");
        data_load_trees(&d->test, &d->trees, &fresh, &d->words, path, &e);
    } else {
        for (int i = 0; i < OPERATORS + MODULUS; i++) data_vocab_add(&d->words, words[i], strlen(words[i]));
        generate(&d->train, &d->trees, &random, o->limit ? (size_t)o->limit : 30000, 1, o->chain, &e);
        generate(&d->test, &d->trees, &random, 2000, TEST_OPERATORS, o->chain, &e);
    }
    if (e.text[0]) fail(e.text, "");
    return o->data ? "sst" : "generated";
}

static void free_data(task *d)
{
    data_set_free(&d->train);
    data_set_free(&d->test);
    data_trees_free(&d->trees);
    data_vocab_free(&d->words);
}

/* ---- training and testing ------------------------------------------------------------------ */

static double train_step(fold_ctx *f, machine *k, const net *n, const task *d, const data_iter *it,
                         const fold_adam *adam)
{
    fold_ctx_reset(f);
    k->n_losses = 0;
    for (size_t i = 0; i < it->size; i++)
        run_machine(f, k, n, d->trees.nodes, data_ints(&d->train, 0, it->index[i], NULL), 1);
    const fold_node mean = fold_scale(f, fold_sum_n(f, k->losses, (int)k->n_losses), 1.0f / (float)it->size);
    if (fold_backward(f, mean)) fail(fold_ctx_message(f), "");
    fold_grads_clip(fold_ctx_model(f), 5);
    if (fold_adam_step(fold_ctx_model(f), adam)) fail(fold_model_message(fold_ctx_model(f)), "");
    return (double)fold_scalar(f, mean);
}

/* Trains; the rate falls to zero along half a cosine. Returns the seconds it took. */
static double train(fold_ctx *f, machine *k, const net *n, const task *d, const options *o)
{
    const data_iter_desc batches = { BATCH, 1, o->seed };
    const clock_t start = clock();
    const size_t steps = (d->train.count + BATCH - 1) / BATCH * (size_t)o->epochs;
    fold_adam adam = fold_adam_default();
    data_iter it;
    data_error e;
    double loss = 0;
    time_left left = TIME_LEFT;
    memset(&e, 0, sizeof e);
    if (data_iter_new(&it, &d->train, &batches, &e)) fail(e.text, "");
    for (size_t step = 0; step < steps; step++) {
        if (!data_next(&it)) { data_reset(&it); data_next(&it); }
        adam.rate = 0.001f * (float)(1 + cos(3.14159265358979 * (double)step / (double)steps));
        loss += 0.02 * (train_step(f, k, n, d, &it, &adam) - loss); /* running average */
        time_left_show(&left, (double)step + 1, (double)steps, "epoch %zu: step %zu of %zu, loss %.3f", it.passes + 1, step + 1, steps, loss);
    }
    time_left_end(&left);
    data_iter_free(&it);
    return seconds_since(start);
}

/* Computes the logits of all test samples, `batch` of them together. */
static void predict(fold_ctx *f, machine *k, const net *n, const task *d, size_t batch, float *logits)
{
    fold_node out[TEST_BATCH];
    for (size_t at = 0; at < d->test.count; at += batch) {
        const size_t size = smaller(d->test.count - at, batch);
        fold_ctx_reset(f);
        for (size_t i = 0; i < size; i++)
            out[i] = run_machine(f, k, n, d->trees.nodes, data_ints(&d->test, 0, at + i, NULL), 0);
        if (fold_run(f, out, (int)size) || fold_read(f, out, (int)size, logits)) fail(fold_ctx_message(f), "");
        logits += size * (size_t)d->classes;
    }
}

/* Measures test samples per second, over at least `seconds`. */
static double speed(fold_ctx *f, machine *k, const net *n, const task *d, size_t batch, double seconds, float *logits)
{
    const clock_t start = clock();
    size_t done = 0;
    double elapsed;
    do {
        predict(f, k, n, d, batch, logits);
        done += d->test.count;
        elapsed = seconds_since(start);
    } while (elapsed < seconds);
    return (double)done / elapsed;
}

static double accuracy(const task *d, const float *logits)
{
    size_t right = 0;
    for (size_t i = 0; i < d->test.count; i++, logits += d->classes)
        right += fold_argmax(logits, d->classes) == data_ints(&d->test, 1, i, NULL)[0];
    return 100 * (double)right / (double)d->test.count;
}

/* Trains, tests and compares; returns whether both ways of running gave the same bits. */
static int run(const options *o, const task *d, const char *data_name)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default(), eager = fold_ctx_desc_default();
    const size_t size = d->test.count * (size_t)d->classes * sizeof(float);
    machine k = { NULL, NULL, NULL, 0, 0 };
    net n;
    model.seed = o->seed;
    training.training = 1;
    eager.eager = 1;
    fold_model *m = fold_model_new(&model);
    fold_ctx *trainer = fold_ctx_new(m, &training), *batched = fold_ctx_new(m, NULL), *single = fold_ctx_new(m, &eager);
    k.buffer = (fold_state *)malloc(d->trees.longest * sizeof *k.buffer);
    k.stack = (fold_state *)malloc(d->trees.longest * sizeof *k.stack);
    float *logits = (float *)malloc(size), *single_logits = (float *)malloc(size);
    if (!trainer || !batched || !single) fail("out of memory", "");
    if (!k.buffer || !k.stack || !logits || !single_logits) fail("out of memory", "");
    net_new(m, &n, d, o);
    if (fold_model_status(m)) fail(fold_model_message(m), "");

    const double seconds = train(trainer, &k, &n, d, o);
    const double train_speed = (double)d->train.count * o->epochs / seconds;
    const double batched_speed = speed(batched, &k, &n, d, TEST_BATCH, o->seconds, logits);
    const fold_stats s = fold_ctx_stats(batched);
    const double single_speed = speed(single, &k, &n, d, 1, o->seconds, single_logits);
    const int identical = !memcmp(logits, single_logits, size);
    printf("%d epochs in %.1f s: %.0f samples/s. The last run: %d calls and ops in %d batches\n", o->epochs, seconds,
           train_speed, s.run_nodes, s.batches + s.prologues);
    printf("test: %.0f samples/s in batches of %d, %.0f one at a time (%.1f times): %s outputs\n", batched_speed,
           TEST_BATCH, single_speed, batched_speed / single_speed, identical ? "equal" : "DIFFERENT");
    printf("RESULT shift_reduce accuracy=%.2f batched_per_s=%.0f eager_per_s=%.0f identical=%d", accuracy(d, logits),
           batched_speed, single_speed, identical);
    printf(" nodes=%d batches=%d train_per_s=%.0f data=%s seed=%llu\n", s.run_nodes, s.batches + s.prologues,
           train_speed, data_name, (unsigned long long)o->seed);
    free(logits); free(single_logits); free(k.buffer); free(k.stack); free(k.losses);
    fold_ctx_free(single);
    fold_ctx_free(batched);
    fold_ctx_free(trainer);
    fold_model_free(m);
    return identical;
}

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 3, 0, 64, 16, 0, 1 };
    const option table[8] = {
        option_of_text("--data", &o.data, "DIR", "reads DIR/sst/{train,test}.txt; else expressions are made up"),
        option_of_seed("--seed", &o.seed, "of weights, order and expressions"),
        option_of_whole("--epochs", &o.epochs, 1, 1000, "of training"),
        option_of_whole("--limit", &o.limit, 1, 10000000, "training samples; else 30000 expressions, or all trees"),
        option_of_whole("--hidden", &o.hidden, 1, 4096, "width of stack entries"),
        option_of_whole("--tracking", &o.tracking, 1, 4096, "width of the tracking LSTM"),
        option_of_whole("--chain", &o.chain, 0, 1, "1: shift and reduce in turn, whatever the nesting"),
        option_of_number("--seconds", &o.seconds, 0, 1000, "of the processor, to measure each speed for at least"),
    };
    options_read(argc, argv, "Trains a stack machine that every sample drives by its own transitions.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    task d;
    memset(&d, 0, sizeof d);
    const char *data_name = load_data(&o, &d);
    printf("data=%s: %zu training and %zu test samples, %zu words\n", data_name, d.train.count, d.test.count,
           d.words.n_words);
    const int identical = run(&o, &d, data_name);
    free_data(&d);
    return !identical;
}
