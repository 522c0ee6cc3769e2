/* treelstm_sick: scores how similar two sentences are, using a child-sum tree-LSTM over their dependency
   trees (Tai, Socher and Manning 2015). The program times it both batched and one pair at a time.

     cc -O2 -o treelstm_sick examples/treelstm_sick.c -lm
     ./treelstm_sick --data DIR --seeds 5

   SICK (Marelli et al. 2014) is read from DIR/sick/{train,dev,test}/{a,b}.{toks,parents} and sim.txt. Each
   line of .toks holds a sentence's words, each line of .parents the number of each word's head (0 for the
   root), and each line of sim.txt a score from 1 to 5. DIR/sick/glove840b300d.sick.words lists the words with
   GloVe vectors (Pennington et al. 2014); the vectors themselves are in glove840b300d.sick.f32le, row by row,
   little-endian. Without --data, the program generates pairs of trees whose score depends on how many words
   were replaced by words with a different meaning.

   Settings follow the paper. Word vectors are frozen, and states have 150 values. The classifier has 50
   sigmoid units over l * r and |l - r|, then five classes; the loss is the KL divergence from a target split
   between the two classes nearest the score. Adagrad trains for 10 epochs with a learning rate of 0.05, on
   the mean loss over batches of 25 pairs, with L2 regularisation of 1e-4 on all weights. Weights are
   initialised uniformly within 1 / sqrt(inputs) of 0, as in Torch. There are two differences: forget gate
   biases start at 1, and evaluation uses a running average of the weights (Polyak and Juditsky 1992). The
   epoch is chosen by Pearson correlation on the dev pairs; the test pairs are used only once, at the end. The
   mean squared error is computed on the expected score. */
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

enum {
    WIDTH = 300, CLASSES = 5, HEAD = 50,
    BATCH = 25, CHUNK = 256,               /* pairs trained, evaluated together */
    AVERAGE_EVERY = 10, AVERAGE_POWER = 3, /* steps between updates of the running average; see update_average */
    MAX_WORDS = 256, MAX_CHILDREN = 64,    /* a sentence and a word have no more */
    ROUNDS = 3                             /* so often the ways of running take turns to be measured */
};
static const float learning_rate = 0.05f, weight_decay = 1e-4f, epsilon = 1e-10f;

typedef struct options { const char *data; uint64_t seed; int seeds, epochs, limit, hidden; double seconds; } options;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "treelstm_sick: %s%s\n", what, detail);
    exit(1);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- the network -------------------------------------------------------------------------- */

typedef struct node { int word, child, sibling; } node; /* -1: has no child, no next sibling */
typedef struct pair { int root[2]; float score; } pair;
typedef struct corpus {
    node *nodes; size_t n_nodes, cap_nodes;
    pair *pairs; size_t n_pairs, cap_pairs;
} corpus;
typedef struct dataset { float *vectors; int n_words; corpus train, dev, test; } dataset;

typedef struct net { fold_param words; fold_child_sum tree; fold_dense head, classes; } net;

/* Starts all weight matrices uniform in +-1 / sqrt(inputs); biases stay as the layers made them. */
static void start_weights(fold_model *m, uint64_t seed)
{
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_param p = fold_param_at(m, i);
        const fold_shape shape = fold_param_shape(m, p);
        const int is_weight = shape.rank == 2 && strcmp(fold_param_name(m, p), "words") != 0;
        float *w = is_weight ? fold_values_write_begin(m, p) : NULL;
        const float bound = 1 / sqrtf((float)shape.dim[0]);
        for (int k = 0; w && k < shape.dim[0] * shape.dim[1]; k++) w[k] = bound * (2 * data_random_unit(&seed) - 1);
        if (w) fold_values_write_end(m, p);
    }
}

static net new_net(fold_model *m, const dataset *d, int hidden)
{
    net n;
    fold_param_desc words;
    memset(&words, 0, sizeof words);
    words.name = "words";
    words.shape = fold_shape2(d->n_words, WIDTH);
    words.values = d->vectors;
    words.uses = FOLD_FOR_LOOKUP;
    words.frozen = 1;
    n.words = fold_param_new(m, &words);
    n.tree = fold_child_sum_new(m, "tree", WIDTH, hidden);
    n.head = fold_dense_new(m, "head", 2 * hidden, HEAD, FOLD_ACT_SIGMOID);
    n.classes = fold_dense_new(m, "classes", HEAD, CLASSES, FOLD_ACT_LINEAR);
    return n;
}

/* Records the state of the phrase under word `i`. */
static fold_state record_tree(fold_ctx *f, const net *n, const corpus *c, int i)
{
    fold_state children[MAX_CHILDREN];
    size_t count = 0;
    for (int k = c->nodes[i].child; k >= 0; k = c->nodes[k].sibling) children[count++] = record_tree(f, n, c, k);
    return fold_child_sum_apply(f, &n->tree, fold_lookup(f, n->words, c->nodes[i].word), children, (int)count);
}

/* Records the classes' logits. */
static fold_node record_pair(fold_ctx *f, const net *n, const corpus *c, const pair *p)
{
    const fold_node l = record_tree(f, n, c, p->root[0]).h, r = record_tree(f, n, c, p->root[1]).h;
    const fold_node product = fold_mul(f, l, r), distance = fold_abs(f, fold_sub(f, l, r));
    const fold_node features = fold_concat2(f, product, distance);
    return fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, features));
}

/* Records the KL divergence from the distribution over the two classes next to the score whose mean is the score. */
static fold_node record_loss(fold_ctx *f, const net *n, const corpus *c, const pair *p)
{
    float target[CLASSES] = { 0 };
    const int low = p->score < 5 ? (int)p->score : 4;
    target[low] = p->score - (float)low;
    target[low - 1] = 1 - target[low];
    const fold_node logits = record_pair(f, n, c, p);
    return fold_softmax_kl(f, logits, fold_input(f, target, CLASSES));
}

/* Adds the gradients of the mean loss over pairs order[0 .. count), so many recorded together. */
static void add_gradients(fold_ctx *f, const net *n, const corpus *c, const size_t *order, size_t count,
                          size_t together)
{
    fold_node losses[CHUNK];
    for (size_t at = 0; at < count; at += together) {
        const size_t size = smaller(count - at, together);
        fold_ctx_reset(f);
        for (size_t i = 0; i < size; i++) losses[i] = record_loss(f, n, c, &c->pairs[order[at + i]]);
        const fold_node loss = fold_scale(f, fold_sum_n(f, losses, (int)size), 1.0f / (float)count);
        if (fold_backward(f, loss)) fail(fold_ctx_message(f), "");
    }
}

/* Computes the classes' probabilities for pairs first .. first + count, so many run together. */
static void predict(fold_ctx *f, const net *n, const corpus *c, size_t first, size_t count, size_t together,
                    float (*p)[CLASSES])
{
    fold_node roots[CHUNK];
    for (size_t at = 0; at < count; at += together) {
        const size_t size = smaller(count - at, together);
        fold_ctx_reset(f);
        for (size_t i = 0; i < size; i++)
            roots[i] = fold_softmax(f, record_pair(f, n, c, &c->pairs[first + at + i]));
        if (fold_run(f, roots, (int)size) || fold_read(f, roots, (int)size, p[at])) fail(fold_ctx_message(f), "");
    }
}

/* ---- trees -------------------------------------------------------------------------------- */

static void *allocate(size_t n, size_t size)
{
    void *items = calloc(n ? n : 1, size);
    if (!items) fail("out of memory", "");
    return items;
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

static int add_node(corpus *c, int word)
{
    if (c->n_nodes >= INT_MAX) fail("too many words", "");
    c->nodes = (node *)grow(c->nodes, &c->cap_nodes, c->n_nodes + 1, sizeof *c->nodes);
    node *n = &c->nodes[c->n_nodes];
    n->word = word;
    n->child = n->sibling = -1;
    return (int)c->n_nodes++;
}

static pair *add_pair(corpus *c)
{
    c->pairs = (pair *)grow(c->pairs, &c->cap_pairs, c->n_pairs + 1, sizeof *c->pairs);
    return &c->pairs[c->n_pairs++];
}

/* Makes node `i` its head's first child. Call it from the last word to the first, and children are in order. */
static void attach(corpus *c, int i, int head)
{
    c->nodes[i].sibling = c->nodes[head].child;
    c->nodes[head].child = i;
}

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct source { char path[1024]; char *start, *at, *end; int line; } source;

static void malformed(const source *t, const char *what)
{
    fprintf(stderr, "treelstm_sick: %s:%d: %s\n", t->path, t->line, what);
    exit(1);
}

/* Reads the whole of dir/sick/name, followed by a 0. Returns 0 when there is no such file. */
static int open_text(source *t, const char *dir, const char *name)
{
    size_t cap = 0, size = 0, got;
    memset(t, 0, sizeof *t);
    const int length = snprintf(t->path, sizeof t->path, "%s/sick/%s", dir, name);
    if (length < 0 || (size_t)length >= sizeof t->path) fail("path too long: ", dir);
    FILE *file = fopen(t->path, "rb");
    if (!file) return 0;
    do {
        t->start = (char *)grow(t->start, &cap, size + 65537, 1);
        got = fread(t->start + size, 1, 65536, file);
        size += got;
    } while (got);
    if (ferror(file)) fail("cannot read ", t->path);
    fclose(file);
    t->start[size] = 0;
    t->at = t->start;
    t->end = t->start + size;
    return 1;
}

static void need_text(source *t, const char *dir, const char *name)
{
    if (!open_text(t, dir, name)) fail("cannot open ", t->path);
}

/* Returns the next line, ended by a 0 in place, or NULL behind the last one. */
static char *next_line(source *t)
{
    char *line = t->at, *end;
    if (line == t->end) return NULL;
    end = (char *)memchr(line, '\n', (size_t)(t->end - line));
    t->at = end ? end + 1 : t->end;
    if (!end) end = t->end;
    if (end > line && end[-1] == '\r') end--;
    *end = 0;
    t->line++;
    return line;
}

/* Returns the next word of a line, ended by a 0 in place, or NULL behind the last one. */
static char *next_word(char **line)
{
    char *start = *line + strspn(*line, " ");
    char *end = start + strcspn(start, " ");
    *line = *end ? end + 1 : end;
    *end = 0;
    return *start ? start : NULL;
}

/* The n-th word has the n-th vector. */
static void read_words(data_vocab *v, const char *dir)
{
    source t;
    need_text(&t, dir, "glove840b300d.sick.words");
    for (char *line; (line = next_line(&t)) != NULL;)
        if (data_vocab_add(v, line, strlen(line)) != t.line - 1) malformed(&t, "the word is not a new one");
    free(t.start);
}

static int find_word(const data_vocab *v, const source *t, const char *name)
{
    const int row = data_vocab_find(v, name, strlen(name));
    if (row < 0) malformed(t, "a word is not in glove840b300d.sick.words");
    return row;
}

static int random_below(uint64_t *state, int n) { return (int)data_random_below(state, (size_t)n); }

/* Words without a vector of their own get values from -0.05 to 0.05, as published. The file has placeholders for
   them, zero or short: no true vector is shorter than 4, no placeholder longer than 1.3. */
static void read_vectors(dataset *d, const char *dir, size_t n_words)
{
    source t;
    uint64_t random = 1;
    need_text(&t, dir, "glove840b300d.sick.f32le");
    const size_t n = n_words * WIDTH;
    if ((size_t)(t.end - t.start) != 4 * n) fail("not 300 floats for every word in ", t.path);
    d->vectors = (float *)allocate(n, sizeof *d->vectors);
    for (size_t i = 0; i < n; i++) {
        const unsigned char *byte = (const unsigned char *)t.start + 4 * i;
        const uint32_t bits = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
                              (uint32_t)byte[3] << 24;
        memcpy(&d->vectors[i], &bits, sizeof bits);
    }
    for (size_t row = 0; row < n_words; row++) {
        float *v = d->vectors + row * WIDTH, square = 0;
        for (int k = 0; k < WIDTH; k++) square += v[k] * v[k];
        for (int k = 0; k < WIDTH && square < 4; k++) v[k] = 0.1f * data_random_unit(&random) - 0.05f;
    }
    d->n_words = (int)n_words;
    free(t.start);
}

/* Makes a sentence from its words and their heads; returns its root. */
static int read_tree(const data_vocab *v, source *words, source *heads, corpus *c)
{
    char *word_line = next_line(words), *head_line = next_line(heads);
    int head[MAX_WORDS], n = 0, root = -1;
    if (!word_line || !head_line) malformed(words, "the sentence or its heads are missing");
    const int first = (int)c->n_nodes;
    for (char *name; (name = next_word(&word_line)) != NULL; n++) {
        char *number = next_word(&head_line), *end;
        if (n == MAX_WORDS) malformed(words, "the sentence is too long");
        if (!number) malformed(heads, "fewer heads than words");
        const long value = strtol(number, &end, 10);
        if (*end || value < 0 || value > MAX_WORDS) malformed(heads, "a head must be the number of a word");
        head[n] = (int)value - 1;
        if (value == 0) root = n;
        add_node(c, find_word(v, words, name));
    }
    if (next_word(&head_line)) malformed(heads, "more heads than words");
    for (int i = n - 1; i >= 0; i--) { /* every word must lead to the root: no cycles, one root */
        int at = i, steps = 0, children = 0;
        while (at != root && at < n && head[at] >= 0 && steps++ < n) at = head[at];
        if (at != root) malformed(heads, "the heads do not make a tree");
        for (int k = 0; k < n; k++) children += head[k] == i;
        if (children > MAX_CHILDREN) malformed(heads, "a word has too many children");
        if (i != root) attach(c, first + i, first + head[i]);
    }
    if (root < 0) malformed(words, "the sentence is empty");
    return first + root;
}

/* Reads up to `limit` pairs (0: all) of dir/sick/set. */
static void read_pairs(const char *dir, const char *set, int limit, const data_vocab *v, corpus *c)
{
    static const char *const names[5] = { "a.toks", "b.toks", "a.parents", "b.parents", "sim.txt" };
    source t[5];
    char name[32], *line, *end;
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/%s", set, names[i]);
        need_text(&t[i], dir, name);
    }
    while ((!limit || c->n_pairs < (size_t)limit) && (line = next_line(&t[4])) != NULL) {
        const float score = strtof(line, &end);
        if (end == line || *end || !(score >= 1 && score <= 5)) malformed(&t[4], "a score is a number from 1 to 5");
        pair *p = add_pair(c);
        p->score = score;
        for (int side = 0; side < 2; side++) p->root[side] = read_tree(v, &t[side], &t[2 + side], c);
    }
    if (!c->n_pairs) fail("no pairs in ", t[4].path);
    for (int i = 0; i < 5; i++) free(t[i].start);
}

/* ---- generated pairs ---------------------------------------------------------------------- */

enum { MEANINGS = 40, SYNONYMS = 5 };

/* Makes up a tree of 5 to 15 words, each below a random earlier one. The second tree has synonyms of its words and,
   in a share that is drawn for the pair, other words. The score falls from 5 to 1 with the share of new meanings. */
static void generate_pair(uint64_t *random, corpus *c)
{
    int head[15], word[2][15], changed = 0;
    const int n = 5 + random_below(random, 11);
    const float share = data_random_unit(random);
    for (int i = 0; i < n; i++) {
        const int meaning = random_below(random, MEANINGS);
        const int other = data_random_unit(random) < share ? random_below(random, MEANINGS) : meaning;
        head[i] = i ? random_below(random, i) : -1;
        word[0][i] = meaning * SYNONYMS + random_below(random, SYNONYMS);
        word[1][i] = other * SYNONYMS + random_below(random, SYNONYMS);
        changed += meaning != other;
    }
    pair *p = add_pair(c);
    p->score = 5 - 4 * (float)changed / (float)n;
    for (int side = 0; side < 2; side++) {
        p->root[side] = (int)c->n_nodes;
        for (int i = 0; i < n; i++) add_node(c, word[side][i]);
        for (int i = n - 1; i > 0; i--) attach(c, p->root[side] + i, p->root[side] + head[i]);
    }
}

/* Makes up vectors: those of a meaning's words are its own, disturbed. */
static void generate_vectors(uint64_t *random, dataset *d)
{
    d->n_words = MEANINGS * SYNONYMS;
    d->vectors = (float *)allocate((size_t)d->n_words * WIDTH, sizeof *d->vectors);
    for (int i = 0; i < MEANINGS * WIDTH; i++) {
        const float value = data_random_unit(random) - 0.5f;
        float *v = d->vectors + (size_t)(i / WIDTH) * SYNONYMS * WIDTH + i % WIDTH;
        for (int k = 0; k < SYNONYMS; k++) v[k * WIDTH] = value + 0.5f * (data_random_unit(random) - 0.5f);
    }
}

/* Fills d and returns where it came from. A folder asked for must be there; FOLD_DATA may lack this one. */
static const char *load_data(const options *o, dataset *d)
{
    static const char *const names[3] = { "train", "dev", "test" };
    static const int generated[3] = { 1000, 200, 400 };
    const char *dir = o->data ? o->data : getenv("FOLD_DATA");
    corpus *const sets[3] = { &d->train, &d->dev, &d->test };
    uint64_t random = o->seed;
    source probe;
    if (dir && *dir && open_text(&probe, dir, "train/sim.txt")) {
        data_vocab v;
        memset(&v, 0, sizeof v);
        free(probe.start);
        read_words(&v, dir);
        read_vectors(d, dir, v.n_words);
        for (int i = 0; i < 3; i++) read_pairs(dir, names[i], o->limit, &v, sets[i]);
        data_vocab_free(&v);
        return "sick";
    }
    if (o->data) fail("no sick/train/sim.txt in ", o->data);
    generate_vectors(&random, d);
    for (int i = 0; i < 3; i++)
        for (int n = o->limit ? o->limit : generated[i]; n > 0; n--) generate_pair(&random, sets[i]);
    return "generated";
}

static void free_data(dataset *d)
{
    corpus *const sets[3] = { &d->train, &d->dev, &d->test };
    for (int i = 0; i < 3; i++) { free(sets[i]->nodes); free(sets[i]->pairs); }
    free(d->vectors);
}

/* ---- judging ------------------------------------------------------------------------------ */

typedef struct figures { double pearson, spearman, mse; } figures;
typedef struct ranked { double value; size_t index; } ranked;

static double correlation(const double *x, const double *y, size_t n)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) { mx += x[i] / (double)n; my += y[i] / (double)n; }
    for (size_t i = 0; i < n; i++) {
        const double dx = x[i] - mx, dy = y[i] - my;
        xx += dx * dx; yy += dy * dy; xy += dx * dy;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static int compare_ranked(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Replaces values by ranks; equal values share their mean rank. */
static void rank(double *x, size_t n)
{
    ranked *sorted = (ranked *)allocate(n, sizeof *sorted);
    for (size_t i = 0; i < n; i++) { sorted[i].value = x[i]; sorted[i].index = i; }
    qsort(sorted, n, sizeof *sorted, compare_ranked);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && sorted[end].value <= sorted[i].value; end++) {}
        for (size_t k = i; k < end; k++) x[sorted[k].index] = 0.5 * (double)(i + end - 1);
    }
    free(sorted);
}

static figures evaluate(fold_ctx *f, const net *n, const corpus *c)
{
    figures result = { 0, 0, 0 };
    double *expected = (double *)allocate(2 * c->n_pairs, sizeof *expected), *gold = expected + c->n_pairs;
    float (*p)[CLASSES] = (float (*)[CLASSES])allocate(c->n_pairs, sizeof *p);
    predict(f, n, c, 0, c->n_pairs, CHUNK, p);
    for (size_t i = 0; i < c->n_pairs; i++) {
        for (int k = 0; k < CLASSES; k++) expected[i] += (k + 1) * (double)p[i][k];
        gold[i] = (double)c->pairs[i].score;
        result.mse += (expected[i] - gold[i]) * (expected[i] - gold[i]) / (double)c->n_pairs;
    }
    result.pearson = correlation(expected, gold, c->n_pairs);
    rank(expected, c->n_pairs);
    rank(gold, c->n_pairs);
    result.spearman = correlation(expected, gold, c->n_pairs);
    free(p);
    free(expected);
    return result;
}

/* ---- training ----------------------------------------------------------------------------- */

typedef struct trainer {
    const dataset *data;
    fold_model *model; net n;
    fold_ctx *training, *inference;
    size_t *order;                            /* the order of the training pairs changes each epoch */
    float *average, *best; int n_weights;      /* running average of all weights, and that of the best epoch */
    uint64_t random, steps;
    time_left left; int epochs;
    fold_adagrad adagrad;
} trainer;

static void start(trainer *t, const options *o, const dataset *d, uint64_t seed)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default();
    memset(t, 0, sizeof *t);
    model.seed = seed;
    training.training = 1;
    t->data = d;
    t->epochs = o->epochs;
    t->random = ~seed;
    t->adagrad.rate = learning_rate;
    t->adagrad.epsilon = epsilon;
    t->adagrad.decay = weight_decay;
    t->model = fold_model_new(&model);
    if (!t->model) fail("out of memory", "");
    t->n = new_net(t->model, d, o->hidden);
    if (fold_model_status(t->model)) fail(fold_model_message(t->model), "");
    start_weights(t->model, seed);
    t->training = fold_ctx_new(t->model, &training);
    t->inference = fold_ctx_new(t->model, NULL);
    if (!t->training || !t->inference) fail("out of memory", "");
    fold_model_values(t->model, &t->n_weights);
    t->order = (size_t *)allocate(d->train.n_pairs, sizeof *t->order);
    t->average = (float *)allocate((size_t)t->n_weights, sizeof *t->average);
    t->best = (float *)allocate((size_t)t->n_weights, sizeof *t->best);
    memcpy(t->average, fold_model_values(t->model, NULL), (size_t)t->n_weights * sizeof *t->average);
    for (size_t i = 0; i < d->train.n_pairs; i++) t->order[i] = i;
}

static void finish(trainer *t)
{
    free(t->order);
    free(t->average);
    free(t->best);
    fold_ctx_free(t->inference);
    fold_ctx_free(t->training);
    fold_model_free(t->model);
}

static void adagrad_step(trainer *t)
{
    if (fold_adagrad_step(t->model, &t->adagrad)) fail(fold_model_message(t->model), "");
}

/* Polynomial decay (Shamir and Zhang 2013): the average is of about the last third of all steps so far. */
static void update_average(trainer *t)
{
    if (++t->steps % AVERAGE_EVERY) return;
    const float keep = (float)t->steps / (float)(t->steps + AVERAGE_POWER * AVERAGE_EVERY);
    const float *values = fold_model_values(t->model, NULL);
    for (int i = 0; i < t->n_weights; i++) t->average[i] = values[i] + keep * (t->average[i] - values[i]);
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

static void train_epoch(trainer *t, int epoch)
{
    const size_t n = t->data->train.n_pairs;
    for (size_t i = n; i > 1; i--) { /* Fisher and Yates */
        const size_t j = (size_t)(data_random(&t->random) % i), k = t->order[i - 1];
        t->order[i - 1] = t->order[j];
        t->order[j] = k;
    }
    for (size_t at = 0; at < n; at += BATCH) {
        const size_t count = smaller(n - at, BATCH);
        add_gradients(t->training, &t->n, &t->data->train, t->order + at, count, BATCH);
        adagrad_step(t);
        update_average(t);
        time_left_show(&t->left, epoch - 1 + (double)at / (double)n, t->epochs, "epoch %d: %zu of %zu pairs", epoch, at, n);
    }
    time_left_end(&t->left);
}

static double seconds_since(clock_t start_time) { return (double)(clock() - start_time) / CLOCKS_PER_SEC; }

/* Judges the test pairs by the same weights in bytes. */
static figures test_in_bytes(const trainer *t, int hidden)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    fold_model *small = fold_model_new(&desc);
    if (!small) fail("out of memory", "");
    const net n = new_net(small, t->data, hidden);
    fold_values_copy(small, t->model);
    if (fold_model_quantize(small, NULL)) fail(fold_model_message(small), "");
    fold_ctx *f = fold_ctx_new(small, NULL);
    if (!f) fail("out of memory", "");
    const figures result = evaluate(f, &n, &t->data->test);
    fold_ctx_free(f);
    fold_model_free(small);
    return result;
}

/* Trains, takes the weights of the best epoch and judges them on the test pairs. */
static figures train(trainer *t, const options *o, uint64_t seed)
{
    double seconds = 0, best = 0;
    int best_epoch = 0;
    for (int epoch = 1; epoch <= o->epochs; epoch++) {
        const clock_t started = clock();
        train_epoch(t, epoch);
        seconds += seconds_since(started);
        swap_weights(t, t->average);
        const figures dev = evaluate(t->inference, &t->n, &t->data->dev);
        if (!best_epoch || dev.pearson > best) {
            best = dev.pearson;
            best_epoch = epoch;
            memcpy(t->best, fold_model_values(t->model, NULL), (size_t)t->n_weights * sizeof *t->best);
        }
        swap_weights(t, t->average);
        printf("epoch %d: dev Pearson %.4f, MSE %.4f\n", epoch, dev.pearson, dev.mse);
    }
    swap_weights(t, t->best);
    const figures test = evaluate(t->inference, &t->n, &t->data->test);
    printf("seed %llu: epoch %d, dev Pearson %.4f; test Pearson %.4f, Spearman %.4f, MSE %.4f; %.1f s per epoch\n",
           (unsigned long long)seed, best_epoch, best, test.pearson, test.spearman, test.mse, seconds / o->epochs);
    return test;
}

/* ---- batched against one at a time --------------------------------------------------------- */

/* A way of running trains the weights with every `step` pairs. `together` of them are recorded and run at once. */
typedef struct way {
    const char *name; size_t step, together;
    fold_ctx *training, *inference;
    double pairs[2], seconds[2]; /* trained, inferred */
} way;
enum { ONE, BATCH_25, BATCH_256, WAYS };

/* Tells whether both contexts give the same bits: all test predictions, and the gradients of one minibatch. */
static int check_identical(trainer *t, const way *eager)
{
    const size_t n = t->data->test.n_pairs, count = smaller(t->data->train.n_pairs, BATCH);
    float (*p)[CLASSES] = (float (*)[CLASSES])allocate(2 * n, sizeof *p);
    float *grads = (float *)allocate((size_t)t->n_weights, sizeof *grads);
    predict(t->inference, &t->n, &t->data->test, 0, n, CHUNK, p);
    predict(eager->inference, &t->n, &t->data->test, 0, n, 1, p + n);
    add_gradients(t->training, &t->n, &t->data->train, t->order, count, count);
    memcpy(grads, fold_model_grads(t->model, NULL), (size_t)t->n_weights * sizeof *grads);
    fold_grads_clear(t->model);
    add_gradients(eager->training, &t->n, &t->data->train, t->order, count, count);
    const int same = !memcmp(p, p + n, n * sizeof *p) &&
                     !memcmp(grads, fold_model_grads(t->model, NULL), (size_t)t->n_weights * sizeof *grads);
    fold_grads_clear(t->model);
    free(grads);
    free(p);
    return same;
}

/* Trains (mode 0) or infers (mode 1) that way, step by step over the training pairs, for so many seconds. */
static void run_way(trainer *t, way *w, int mode, double seconds)
{
    float p[CHUNK][CLASSES];
    const corpus *c = &t->data->train;
    const clock_t started = clock();
    double elapsed;
    size_t at = 0;
    do {
        const size_t count = smaller(c->n_pairs - at, w->step);
        if (mode == 0) {
            add_gradients(w->training, &t->n, c, t->order + at, count, w->together);
            adagrad_step(t);
        } else {
            predict(w->inference, &t->n, c, at, count, w->together, p);
        }
        w->pairs[mode] += (double)count;
        at = at + count < c->n_pairs ? at + count : 0;
        elapsed = seconds_since(started);
    } while (elapsed < seconds);
    w->seconds[mode] += elapsed;
}

static double speed(const way *w, int mode) { return w->pairs[mode] / w->seconds[mode]; }

/* Measures all ways in turns, and prints the table of MXNet Fold beside its own figures. */
static int compare_ways(trainer *t, const options *o, way *ways)
{
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1;
    ways[ONE].inference = fold_ctx_new(t->model, &eager);
    eager.training = 1;
    ways[ONE].training = fold_ctx_new(t->model, &eager);
    if (!ways[ONE].inference || !ways[ONE].training) fail("out of memory", "");
    for (int i = BATCH_25; i < WAYS; i++) { ways[i].training = t->training; ways[i].inference = t->inference; }
    const int identical = check_identical(t, &ways[ONE]);
    time_left left = TIME_LEFT;
    for (int round = 0; round < ROUNDS; round++)
        for (int mode = 0; mode < 2; mode++)
            for (int i = 0; i < WAYS; i++) {
                time_left_show(&left, round * 2 * WAYS + mode * WAYS + i, ROUNDS * 2 * WAYS, "timing %s", mode ? "inference" : "training");
                run_way(t, &ways[i], mode, o->seconds / (double)ROUNDS);
            }
    time_left_end(&left);
    printf("\npairs per second                 training   inference   (processor time, one thread, %s)\n",
           fold_model_isa(t->model));
    for (int i = 0; i < WAYS; i++)
        printf("  %-29s %10.1f  %10.1f\n", ways[i].name, speed(&ways[i], 0), speed(&ways[i], 1));
    printf("  batches of 256 / one at a time  %8.2f x %9.2f x  (%s results)\n",
           speed(&ways[BATCH_256], 0) / speed(&ways[ONE], 0), speed(&ways[BATCH_256], 1) / speed(&ways[ONE], 1),
           identical ? "equal" : "DIFFERENT");
    puts("MXNet Fold's own figures, on another machine: 36 virtual cores of Haswell, batches of 256\n"
         "  no fold                            33.77       50.46\n"
         "  no fold, hybridised                66.79      131.86\n"
         "  fold                              201.11      315.54");
    fold_ctx_free(ways[ONE].inference);
    fold_ctx_free(ways[ONE].training);
    return identical;
}

static double deviation(double sum, double squares, int n)
{
    const double variance = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

/* Trains every seed, and measures with the last one's model. Returns whether batching changed nothing. */
static int run(const options *o, const dataset *d, const char *data_name)
{
    way ways[WAYS] = { { "one at a time (eager)", 256, 1, NULL, NULL, { 0, 0 }, { 0, 0 } },
                       { "batches of 25", 25, 25, NULL, NULL, { 0, 0 }, { 0, 0 } },
                       { "batches of 256", 256, 256, NULL, NULL, { 0, 0 }, { 0, 0 } } };
    double sum[3] = { 0, 0, 0 }, squares[3] = { 0, 0, 0 }, in_bytes = 0;
    int identical = 0;
    for (int s = 0; s < o->seeds; s++) {
        trainer t;
        start(&t, o, d, o->seed + (uint64_t)s);
        const figures test = train(&t, o, o->seed + (uint64_t)s);
        const double value[3] = { test.pearson, test.spearman, test.mse };
        in_bytes += test_in_bytes(&t, o->hidden).pearson / o->seeds;
        for (int k = 0; k < 3; k++) { sum[k] += value[k]; squares[k] += value[k] * value[k]; }
        if (s == o->seeds - 1) identical = compare_ways(&t, o, ways);
        finish(&t);
    }
    const int n = o->seeds;
    printf("\nmean (deviation) of %d: Pearson %.4f (%.4f), Spearman %.4f (%.4f), MSE %.4f (%.4f)\n", n,
           sum[0] / n, deviation(sum[0], squares[0], n), sum[1] / n, deviation(sum[1], squares[1], n),
           sum[2] / n, deviation(sum[2], squares[2], n));
    printf("weights in bytes: Pearson %.4f\n", in_bytes);
    printf("RESULT treelstm_sick pearson=%.4f spearman=%.4f mse=%.4f", sum[0] / n, sum[1] / n, sum[2] / n);
    printf(" train_per_s=%.0f infer_per_s=%.0f", speed(&ways[BATCH_256], 0), speed(&ways[BATCH_256], 1));
    printf(" eager_train_per_s=%.0f eager_infer_per_s=%.0f", speed(&ways[ONE], 0), speed(&ways[ONE], 1));
    printf(" train25_per_s=%.0f infer25_per_s=%.0f", speed(&ways[BATCH_25], 0), speed(&ways[BATCH_25], 1));
    printf(" identical=%d bytes_pearson=%.4f seeds=%d epochs=%d data=%s\n", identical, in_bytes, n, o->epochs, data_name);
    return identical;
}

/* ---- command line ------------------------------------------------------------------------- */

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 1, 10, 0, 150, 1 };
    const option table[7] = {
        option_of_text("--data", &o.data, "DIR", "reads DIR/sick; else $FOLD_DATA, else pairs are made up"),
        option_of_seed("--seed", &o.seed, "of weights, order and pairs"),
        option_of_whole("--seeds", &o.seeds, 1, 1000, "trains so many seeds from --seed on, and prints their mean"),
        option_of_whole("--epochs", &o.epochs, 1, 1000, "of training"),
        option_of_whole("--limit", &o.limit, 1, INT_MAX, "uses the first N pairs of each set only"),
        option_of_whole("--hidden", &o.hidden, 1, 4096, "width of the states"),
        option_of_number("--seconds", &o.seconds, 0.01, 1000, "to measure each way of running for"),
    };
    options_read(argc, argv, "Trains a child-sum tree-LSTM on SICK relatedness. Seconds are processor time.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    dataset data;
    memset(&data, 0, sizeof data);
    const char *data_name = load_data(&o, &data);
    printf("%zu training, %zu dev and %zu test pairs, %zu words in the training sentences, data=%s\n",
           data.train.n_pairs, data.dev.n_pairs, data.test.n_pairs, data.train.n_nodes, data_name);
    const int identical = run(&o, &data, data_name);
    free_data(&data);
    return identical ? 0 : 1;
}
