/* treelstm_sst: a constituency tree-LSTM (Tai, Socher and Manning 2015) predicts the sentiment of every phrase of a
   sentence. Its word vectors start at random.

     cc -O2 -o treelstm_sst examples/treelstm_sst.c -lm
     ./treelstm_sst --data DIR

   It reads the Stanford Sentiment Treebank (Socher et al. 2013) as DIR/sst/{train,dev,test}.txt. A line is a binary tree, such
   as (3 (2 a) (3 (4 great) (2 film))). Every node has a class from 0, very negative, to 4, very positive. Without data it
   generates small trees of the same kind.

   Every node is trained, and roots are evaluated: among five classes, and among two, with sentences of class 2 left out. The
   two-class answer comes from the same model: p(3) + p(4) against p(0) + p(1). Evaluation uses the running average of the
   weights (Polyak and Juditsky 1992). The epoch with the largest sum of the two accuracies on the dev trees is chosen, and
   the test trees are looked at once, at the end. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#include "options.h"
#include "unfused.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CLASSES = 5, NEUTRAL = 2, UNKNOWN = 0,  /* UNKNOWN: the vector of words not in the training trees */
    BATCH = 25, CHUNK = 100,                /* trees trained, evaluated together */
    AVERAGE_EVERY = 10, AVERAGE_POWER = 3   /* steps between updates of the running average; see train_step */
};
static const float word_deviation = 0.01f, dropout_rate = 0.5f, learning_rate = 0.05f;
static const int hidden_singletons = 30;    /* per cent of the words seen once that are read as UNKNOWN */

typedef struct options { const char *data; uint64_t seed; int epochs, limit, hidden; } options;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "treelstm_sst: %s%s\n", what, detail);
    exit(1);
}

/* Makes room for `n` items of `size` bytes in an array that doubles. */
static void *grow(void *items, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap) return items;
    while (*cap < n) *cap = *cap ? *cap * 2 : 1024;
    items = realloc(items, *cap * size);
    if (!items) fail("out of memory", "");
    return items;
}

static int random_below(uint64_t *state, int n) { return (int)data_random_below(state, (size_t)n); }

/* ---- the network -------------------------------------------------------------------------- */

typedef struct dataset {
    data_vocab words;
    data_trees trees;              /* holds those of all sets */
    data_set train, dev, test;     /* field 0 gives first node and root, 1 the root's class */
} dataset;

typedef struct net {
    fold_param words;
    fold_tree_lstm tree;
    fold_dense label;
    const dataset *data;
    fold_state *stack;             /* holds phrases while a tree is recorded */
} net;
/* Recording needs this in training only. */
typedef struct lesson {
    fold_node *losses; size_t n_losses, cap_losses;
    uint64_t random;
} lesson;

static net new_net(fold_model *m, const dataset *d, int hidden)
{
    net n;
    fold_param_desc words;
    memset(&words, 0, sizeof words);
    words.name = "words";
    words.shape = fold_shape2((int)d->words.n_words, hidden);
    words.init = FOLD_INIT_NORMAL;
    words.init_scale = word_deviation;
    words.uses = FOLD_FOR_LOOKUP;
    n.data = d;
    n.stack = (fold_state *)malloc(d->trees.longest * sizeof *n.stack);
    if (!n.stack) fail("out of memory", "");
    n.words = fold_param_new(m, &words);
    n.tree = fold_tree_lstm_new(m, "tree", hidden, hidden, 2);
    n.label = fold_dense_new(m, "label", hidden, CLASSES, FOLD_ACT_LINEAR);
    return n;
}

/* UNKNOWN learns from words that were seen once. */
static int training_word(lesson *l, const data_vocab *words, int i)
{
    const int hide = words->words[i].count == 1 && random_below(&l->random, 100) < hidden_singletons;
    return hide ? UNKNOWN : i;
}

/* Records a tree, whose nodes come after their children; training adds the loss of each. Returns its root's h. */
static fold_node record_tree(fold_ctx *f, const net *n, const int32_t *tree, lesson *l)
{
    fold_state *top = n->stack; /* behind it */
    for (int32_t i = tree[0]; i <= tree[1]; i++) {
        const data_node *p = &n->data->trees.nodes[i];
        if (p->child < 0) {
            const int word = l ? training_word(l, &n->data->words, p->word) : p->word;
            const fold_node x = fold_lookup(f, n->words, word);
            *top++ = fold_tree_lstm_apply_leaf(f, &n->tree, fold_dropout(f, x, dropout_rate));
        } else {
            top--;
            top[-1] = fold_tree_lstm_apply_inner(f, &n->tree, top - 1);
        }
        if (!l) continue;
        const fold_node logits = fold_dense_apply(f, &n->label, fold_dropout(f, top[-1].h, dropout_rate));
        l->losses = (fold_node *)grow(l->losses, &l->cap_losses, l->n_losses + 1, sizeof *l->losses);
        l->losses[l->n_losses++] = fold_softmax_xent(f, logits, p->label);
    }
    return n->stack[0].h;
}

typedef struct accuracy { double five, two; } accuracy; /* per cent */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static accuracy evaluate(fold_ctx *f, const net *n, const data_set *s)
{
    fold_node roots[CHUNK];
    float p[CHUNK][CLASSES];
    size_t right5 = 0, right2 = 0, polar = 0;
    for (size_t at = 0; at < s->count; at += CHUNK) {
        const size_t count = smaller(s->count - at, CHUNK);
        fold_ctx_reset(f);
        for (size_t i = 0; i < count; i++) {
            const fold_node h = record_tree(f, n, data_ints(s, 0, at + i, NULL), NULL);
            roots[i] = fold_softmax(f, fold_dense_apply(f, &n->label, h));
        }
        if (fold_run(f, roots, (int)count) || fold_read(f, roots, (int)count, p[0])) fail(fold_ctx_message(f), "");
        for (size_t i = 0; i < count; i++) {
            const int label = data_ints(s, 1, at + i, NULL)[0];
            int best = 0;
            for (int k = 1; k < CLASSES; k++)
                if (p[i][k] > p[i][best]) best = k;
            right5 += best == label;
            polar += label != NEUTRAL;
            right2 += label != NEUTRAL && (p[i][3] + p[i][4] > p[i][0] + p[i][1]) == (label > NEUTRAL);
        }
    }
    accuracy a = { 100 * (double)right5 / (double)s->count, 0 };
    if (polar) a.two = 100 * (double)right2 / (double)polar;
    return a;
}

/* ---- trees --------------------------------------------------------------------------------- */

/* ---- generated trees ---------------------------------------------------------------------- */

static int add_node(dataset *d, const int *children, int word, int label)
{
    const int node = data_tree_node(&d->trees, children, children ? 2 : 0, word, label);
    if (node < 0) fail("out of memory", "");
    return node;
}

/* Makes a leaf, one of 40 words of a kind. */
static int generate_word(uint64_t *random, dataset *d, const char *kind, int score)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%s%d", kind, random_below(random, 40));
    return add_node(d, NULL, data_vocab_add(&d->words, text, (size_t)length), score + NEUTRAL);
}

/* Makes a phrase of `size` words. Its score, -2 to 2, follows from its parts: "not" turns the sign, "very"
   doubles, and else the parts add up. */
static int generate_phrase(uint64_t *random, dataset *d, int size)
{
    static const char *const kinds[CLASSES] = { "awful", "dull", "plain", "nice", "superb" };
    const int score = random_below(random, CLASSES) - NEUTRAL, form = random_below(random, 5);
    if (size < 2) return generate_word(random, d, kinds[score + NEUTRAL], score);
    const int split = form < 2 ? 1 : 1 + random_below(random, size - 1);
    int part[2];
    part[0] = form < 2 ? generate_word(random, d, form ? "very" : "not", 0) : generate_phrase(random, d, split);
    part[1] = generate_phrase(random, d, size - split);
    const int a = d->trees.nodes[part[0]].label - NEUTRAL, b = d->trees.nodes[part[1]].label - NEUTRAL;
    const int sum = form == 0 ? -b : form == 1 ? 2 * b : a + b;
    return add_node(d, part, -1, NEUTRAL + (sum > 2 ? 2 : sum < -2 ? -2 : sum));
}

static void generate_trees(uint64_t *random, int n, dataset *d, data_set *s, data_error *e)
{
    int32_t *tree = (int32_t *)malloc(2 * (size_t)n * sizeof *tree);
    if (!tree) fail("out of memory", "");
    for (int i = 0; i < n; i++) {
        tree[2 * i] = (int32_t)d->trees.n_nodes;
        tree[2 * i + 1] = generate_phrase(random, d, 1 + random_below(random, 16));
    }
    data_add_trees(s, &d->trees, tree, (size_t)n, e);
}

static void read_trees(const char *dir, const char *name, int limit, int add_words, dataset *d, data_set *s,
                       data_error *e)
{
    const data_ptb desc = { { add_words, UNKNOWN, 1, 0 }, CLASSES, 2, (size_t)limit };
    char path[1024];
    data_path(path, sizeof path, dir, name);
    data_load_trees(s, &d->trees, &desc, &d->words, path, e);
}

/* Fills d and returns where it came from. A folder asked for must be there; FOLD_DATA may lack this one. */
static const char *load_data(const options *o, dataset *d)
{
    const char *dir = o->data ? o->data : getenv("FOLD_DATA"), *from = "sst";
    char path[1024];
    uint64_t random = o->seed;
    data_error e;
    memset(&e, 0, sizeof e);
    data_vocab_add(&d->words, " ", 1); /* UNKNOWN; no word of a file holds a space */
    if (o->data || (dir && *dir && data_path(path, sizeof path, dir, "sst/train.txt"))) {
        read_trees(dir, "sst/train.txt", o->limit, 1, d, &d->train, &e);
        read_trees(dir, "sst/dev.txt", 0, 0, d, &d->dev, &e);
        read_trees(dir, "sst/test.txt", 0, 0, d, &d->test, &e);
    } else {
        from = "generated";
        generate_trees(&random, o->limit ? o->limit : 2000, d, &d->train, &e);
        generate_trees(&random, 300, d, &d->dev, &e);
        generate_trees(&random, 600, d, &d->test, &e);
    }
    if (e.text[0]) fail(e.text, "");
    return from;
}

static void free_data(dataset *d)
{
    data_set_free(&d->train);
    data_set_free(&d->dev);
    data_set_free(&d->test);
    data_trees_free(&d->trees);
    data_vocab_free(&d->words);
}

/* ---- training ----------------------------------------------------------------------------- */

typedef struct trainer {
    const options *o; const dataset *data;
    fold_model *model; net n;
    fold_ctx *training, *inference;
    size_t *order;                            /* the order of the training trees changes each epoch */
    float *average, *best; int n_weights;      /* running average of all weights, and that of the best epoch */
    uint64_t steps;
    time_left left;
    lesson l;
} trainer;

/* Takes a step of Adagrad on the trees order[at .. at + count). */
static void train_step(trainer *t, size_t at, size_t count, const fold_adagrad *adagrad)
{
    fold_ctx *f = t->training;
    fold_ctx_reset(f);
    t->l.n_losses = 0;
    for (size_t i = 0; i < count; i++) {
        fold_dropout_seed(f, data_random(&t->l.random));
        record_tree(f, &t->n, data_ints(&t->data->train, 0, t->order[at + i], NULL), &t->l);
    }
    const fold_node loss = fold_scale(f, fold_sum_n(f, t->l.losses, (int)t->l.n_losses), 1.0f / (float)count);
    if (fold_backward(f, loss) || fold_adagrad_step(t->model, adagrad)) fail(fold_ctx_message(f), "");
    if (++t->steps % AVERAGE_EVERY) return;
    /* polynomial decay (Shamir and Zhang 2013): about the last third of all steps so far */
    const float keep = (float)t->steps / (float)(t->steps + AVERAGE_POWER * AVERAGE_EVERY);
    const float *values = fold_model_values(t->model, NULL);
    for (int i = 0; i < t->n_weights; i++) t->average[i] = values[i] + keep * (t->average[i] - values[i]);
}

static void train_epoch(trainer *t, int epoch)
{
    const fold_adagrad adagrad = { learning_rate, 1e-8f, 0 };
    const size_t n = t->data->train.count;
    for (size_t i = n; i > 1; i--) { /* Fisher and Yates */
        const size_t j = (size_t)(data_random(&t->l.random) % i), k = t->order[i - 1];
        t->order[i - 1] = t->order[j];
        t->order[j] = k;
    }
    for (size_t at = 0; at < n; at += BATCH) {
        train_step(t, at, smaller(n - at, BATCH), &adagrad);
        time_left_show(&t->left, epoch - 1 + (double)at / (double)n, t->o->epochs, "epoch %d: %zu of %zu trees", epoch, at, n);
    }
    time_left_end(&t->left);
}

/* Makes the model's weights `other`, and `other` what they were. */
static void swap_weights(trainer *t, float *other)
{
    const fold_param all = { 0, 0 };
    float *values = fold_values_write_begin(t->model, all);
    for (int i = 0; i < t->n_weights; i++) {
        const float value = values[i];
        values[i] = other[i];
        other[i] = value;
    }
    fold_values_write_end(t->model, all);
}

static void start(trainer *t, const options *o, const dataset *d)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default();
    memset(t, 0, sizeof *t);
    model.seed = o->seed;
    training.training = 1;
    t->o = o;
    t->data = d;
    t->l.random = ~o->seed;
    t->model = fold_model_new(&model);
    if (!t->model) fail("out of memory", "");
    t->n = new_net(t->model, d, o->hidden);
    if (fold_model_status(t->model)) fail(fold_model_message(t->model), "");
    t->training = fold_ctx_new(t->model, &training);
    t->inference = fold_ctx_new(t->model, NULL);
    const float *values = fold_model_values(t->model, &t->n_weights);
    t->order = (size_t *)malloc(d->train.count * sizeof *t->order);
    t->average = (float *)malloc((size_t)t->n_weights * sizeof *t->average);
    t->best = (float *)malloc((size_t)t->n_weights * sizeof *t->best);
    if (!t->training || !t->inference || !t->order || !t->average || !t->best) fail("out of memory", "");
    memcpy(t->average, values, (size_t)t->n_weights * sizeof *values);
    for (size_t i = 0; i < d->train.count; i++) t->order[i] = i;
}

static void finish(trainer *t)
{
    free(t->order);
    free(t->average);
    free(t->best);
    free(t->l.losses);
    free(t->n.stack);
    fold_ctx_free(t->inference);
    fold_ctx_free(t->training);
    fold_model_free(t->model);
}

static double seconds_since(clock_t start_time) { return (double)(clock() - start_time) / CLOCKS_PER_SEC; }

/* Judges the test trees by the same weights in bytes. */
static accuracy test_in_bytes(const trainer *t)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    fold_model *small = fold_model_new(&desc);
    if (!small) fail("out of memory", "");
    const net n = new_net(small, t->data, t->o->hidden);
    fold_values_copy(small, t->model);
    if (fold_model_quantize(small, NULL)) fail(fold_model_message(small), "");
    fold_ctx *f = fold_ctx_new(small, NULL);
    if (!f) fail("out of memory", "");
    const accuracy result = evaluate(f, &n, &t->data->test);
    fold_ctx_free(f);
    fold_model_free(small);
    free(n.stack);
    return result;
}

static void train(trainer *t, const char *data_name)
{
    const clock_t started = clock();
    accuracy best = { 0, 0 };
    double training_seconds = 0;
    int best_epoch = 0;
    for (int epoch = 1; epoch <= t->o->epochs; epoch++) {
        const clock_t epoch_started = clock();
        train_epoch(t, epoch);
        training_seconds += seconds_since(epoch_started);
        swap_weights(t, t->average);
        const accuracy dev = evaluate(t->inference, &t->n, &t->data->dev);
        if (!best_epoch || dev.five + dev.two > best.five + best.two) {
            best = dev;
            best_epoch = epoch;
            memcpy(t->best, fold_model_values(t->model, NULL), (size_t)t->n_weights * sizeof *t->best);
        }
        swap_weights(t, t->average);
        printf("epoch %d: dev %.2f %% of five, %.2f %% of two\n", epoch, dev.five, dev.two);
    }
    swap_weights(t, t->best);
    const accuracy test = evaluate(t->inference, &t->n, &t->data->test), bytes = test_in_bytes(t);
    printf("epoch %d, best on dev: %.2f %% of five classes, %.2f %% of two; %.1f s of training per epoch\n",
           best_epoch, best.five, best.two, training_seconds / t->o->epochs);
    printf("RESULT treelstm_sst accuracy5=%.2f accuracy2=%.2f epochs=%d seconds=%.1f", test.five, test.two,
           t->o->epochs, seconds_since(started));
    printf(" bytes5=%.2f bytes2=%.2f", bytes.five, bytes.two);
    printf(" data=%s seed=%llu dev5=%.2f dev2=%.2f best_epoch=%d epoch_seconds=%.2f\n", data_name,
           (unsigned long long)t->o->seed, best.five, best.two, best_epoch, training_seconds / t->o->epochs);
}

/* ---- command line ------------------------------------------------------------------------- */

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 8, 0, 150 };
    const option table[5] = {
        option_of_text("--data", &o.data, "DIR", "reads DIR/sst/{train,dev,test}.txt; else $FOLD_DATA, else trees are made up"),
        option_of_seed("--seed", &o.seed, "of weights, order, dropout and trees"),
        option_of_whole("--epochs", &o.epochs, 1, 1000, "of training"),
        option_of_whole("--limit", &o.limit, 1, INT_MAX, "uses the first N training trees only"),
        option_of_whole("--hidden", &o.hidden, 1, 4096, "width of word vectors and states"),
    };
    options_read(argc, argv, "Trains a constituency tree-LSTM on the Stanford Sentiment Treebank. Seconds are processor time.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    dataset data;
    trainer t;
    memset(&data, 0, sizeof data);
    const char *data_name = load_data(&o, &data);
    printf("%zu training, %zu dev and %zu test trees, %zu words\n", data.train.count, data.dev.count,
           data.test.count, data.words.n_words);
    start(&t, &o, &data);
    train(&t, data_name);
    finish(&t);
    free_data(&data);
    return 0;
}
