/* char_lm: a character language model learns from lines of different lengths in three ways: padded, in
   buckets, and without padding.

     cc -O2 -o char_lm examples/char_lm.c -lm
     ./char_lm --data FILE

   The program reads the lines of any text file; without --data it makes up sentences. The model is a stack of
   two LSTMs. A line of n characters takes n + 1 steps: each step predicts the next character, and the last
   one predicts the end of the line. The model, the data, the optimiser and the number of lines per batch are
   the same in all three ways:
     padded     Every line of a batch is padded to the length of the batch's longest line.
     bucketed   Every batch contains lines of a single bucket, all padded to the bucket's length. You can give
                the lengths; by default, each bucket has enough lines for four batches. Each batch comes from a
                random bucket, chosen in proportion to the number of lines it has left. Batches with the same
                numbers of steps and lines have the same network, so it is scheduled once and its plan is then
                reused (fold_ctx_desc.plan_cache_bytes).
     dynamic    Every line keeps its own length. Nothing is padded.
   Padding repeats the end-of-line character, and a mask of 0 removes its loss. In all three ways the loss of
   a batch is the mean over the lines' own steps, so the three losses must agree, and the program checks that
   they do. The loss of each held-out line must be bit-identical in all three ways. Gradients are sums over
   all steps, and padding changes the order of these sums, so the gradients of one batch agree except for
   rounding. Padded and dynamic training see the same batches and must reach nearly the same perplexity. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#include "options.h"
#include "unfused.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LAYERS = 2, WIDTH = 32,       /* the vectors of characters are as wide */
    MAX_STEPS = 256,              /* longer lines are cut */
    MAX_BATCH = 256, MAX_BUCKETS = 64,
    ENOUGH = 4,                   /* batches of lines make a bucket */
    PLAN_BYTES = 64 << 20
};
static const float learning_rate = 0.004f, clip = 1;

typedef struct options {
    const char *data;
    uint64_t seed;
    int epochs, limit, hidden, batch, n_buckets, buckets[MAX_BUCKETS];
} options;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "char_lm: %s%s\n", what, detail);
    exit(1);
}

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

static int random_below(uint64_t *state, int n) { return (int)data_random_below(state, (size_t)n); }

static void shuffle(int *x, int n, uint64_t *random)
{
    for (int i = n - 1; i > 0; i--) {
        const int k = random_below(random, i + 1), kept = x[i];
        x[i] = x[k];
        x[k] = kept;
    }
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }
static uint64_t nanoseconds(void *user)
{
    (void)user;
    return (uint64_t)(seconds() * 1e9);
}

/* ---- the network -------------------------------------------------------------------------- */

/* Holds lines of characters. Symbol 0 stands before a line and for its end. */
typedef struct corpus {
    unsigned char *text; size_t n_text, cap_text;
    size_t *first; size_t n_lines, cap_lines;   /* line i is text[first[i]] .. text[first[i + 1]] */
    int symbol[256], n_symbols, n_cut;          /* gives each byte its symbol; counts lines that were cut */
    int *train, *test, n_train, n_test;
} corpus;
static int steps_of(const corpus *c, int line) { return (int)(c->first[line + 1] - c->first[line]) + 1; }

/* Returns the symbol that step `t` of a line reads. It must predict that of the next step. */
static int symbol_at(const corpus *c, int line, int t)
{
    return t > 0 && t < steps_of(c, line) ? c->symbol[c->text[c->first[line] + (size_t)t - 1]] : 0;
}

/* The network of a padded batch depends on so many lines of so many steps. With 0 steps each line is as long as it is. */
typedef struct key { int steps, lines; } key;

typedef struct net { fold_model *m; fold_param characters; fold_rnn_stack lstm; fold_dense out; } net;

static net new_net(const corpus *c, int hidden, uint64_t seed, int inference)
{
    fold_model_desc d = fold_model_desc_default();
    net n;
    d.seed = seed;
    d.inference = inference;
    n.m = fold_model_new(&d);
    if (!n.m) fail("out of memory", "");
    n.characters = fold_table_new(n.m, "characters", c->n_symbols, WIDTH);
    n.lstm = fold_rnn_stack_new(n.m, "lstm", fold_lstm_new, WIDTH, hidden, LAYERS, 0);
    n.out = fold_dense_new(n.m, "out", hidden, c->n_symbols, FOLD_ACT_LINEAR);
    if (fold_model_status(n.m)) fail("", fold_model_message(n.m));
    return n;
}

static fold_ctx *new_context(const net *n, int training)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.plan_cache_bytes = PLAN_BYTES;
    d.clock = nanoseconds;
    fold_ctx *f = fold_ctx_new(n->m, &d);
    if (!f) fail("out of memory", "");
    return f;
}

/* Records the loss of a line's own steps, summed. With steps > 0 it unrolls to so many, with a mask. */
static fold_node record_line(fold_ctx *f, const net *n, const corpus *c, int line, int steps)
{
    fold_node x[MAX_STEPS], loss[MAX_STEPS];
    const int own = steps_of(c, line), all = steps ? steps : own;
    int at = 0;
    do x[at] = fold_lookup(f, n->characters, symbol_at(c, line, at)); while (++at < all);
    fold_unroll_stack(f, &n->lstm, x, all, NULL, x, NULL);
    for (int t = 0; t < all; t++) {
        loss[t] = fold_softmax_xent(f, fold_dense_apply(f, &n->out, x[t]), symbol_at(c, line, t + 1));
        if (steps) loss[t] = fold_scale(f, loss[t], t < own ? 1.0f : 0.0f);
    }
    return fold_sum_n(f, loss, all);
}

/* Runs the network of a key over these lines and adds to the gradients. Returns the lines' own steps. */
static int add_gradients(fold_ctx *f, const net *n, const corpus *c, key k, const int *line)
{
    fold_node loss[MAX_BATCH];
    int own = 0;
    fold_ctx_reset(f);
    for (int i = 0; i < k.lines; i++) {
        loss[i] = record_line(f, n, c, line[i], k.steps);
        own += steps_of(c, line[i]);
    }
    const fold_node mean = fold_scale(f, fold_sum_n(f, loss, k.lines), 1 / (float)own);
    if (fold_backward(f, mean)) fail("", fold_ctx_message(f));
    return own;
}

/* ---- lines -------------------------------------------------------------------------------- */

/* Adds the first MAX_STEPS - 1 bytes of a line. An empty line is none. */
static void add_line(corpus *c, const char *text, size_t length)
{
    if (length && text[length - 1] == '\r') length--;
    if (!length) return;
    if (length > MAX_STEPS - 1) { length = MAX_STEPS - 1; c->n_cut++; }
    c->text = (unsigned char *)grow(c->text, &c->cap_text, c->n_text + length, 1);
    c->first = (size_t *)grow(c->first, &c->cap_lines, c->n_lines + 2, sizeof *c->first);
    memcpy(c->text + c->n_text, text, length);
    c->first[c->n_lines++] = c->n_text;
    c->n_text += length;
    c->first[c->n_lines] = c->n_text;
}

static void read_lines(corpus *c, const char *path, int limit)
{
    char *text = NULL;
    size_t cap = 0, size = 0, got;
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot open ", path);
    do {
        text = (char *)grow(text, &cap, size + 65536, 1);
        got = fread(text + size, 1, 65536, file);
        size += got;
    } while (got);
    if (ferror(file)) fail("cannot read ", path);
    fclose(file);
    for (size_t at = 0; at < size && c->n_lines < (size_t)limit;) {
        const char *end = (const char *)memchr(text + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - text) - at : size - at;
        add_line(c, text + at, length);
        at += length + 1;
    }
    free(text);
    if (c->n_lines < 20) fail("fewer than 20 lines in ", path);
}

static size_t put(char *line, size_t at, const char *word)
{
    const size_t length = strlen(word);
    if (at + length + 2 > MAX_STEPS) return at;
    if (at) line[at++] = ' ';
    memcpy(line + at, word, length);
    return at + length;
}

/* Makes a sentence up. Its clauses have an object three times in four, and `and` or `that` joins them, with chances that
   make most sentences short and a few long. A number agrees with its verb. */
static void generate_line(corpus *c, uint64_t *random)
{
    static const char *const things[] = { "robot", "cat", "gardener", "river", "old captain", "engine",
                                          "neighbour", "moon" };
    static const char *const verbs[] = { "see", "follow", "repair", "remember", "paint", "lift", "avoid", "count" };
    static const char *const joints[] = { "and", "while", "because", "but" };
    char line[MAX_STEPS], word[32];
    size_t at = 0;
    for (int more = 1; more;) {
        const int many = random_below(random, 2);
        at = put(line, at, many ? "two" : "the");
        snprintf(word, sizeof word, "%s%s", things[random_below(random, 8)], many ? "s" : "");
        at = put(line, at, word);
        snprintf(word, sizeof word, "%s%s", verbs[random_below(random, 8)], many ? "" : "s");
        at = put(line, at, word);
        if (random_below(random, 4)) {
            at = put(line, at, "the");
            at = put(line, at, things[random_below(random, 8)]);
        }
        more = random_below(random, 100) < 45;
        if (more) at = put(line, at, joints[random_below(random, 4)]);
    }
    add_line(c, line, at);
}

/* Fills c and returns where it came from. One line in ten is held out. */
static const char *load_corpus(const options *o, corpus *c)
{
    uint64_t random = o->seed;
    if (o->data) read_lines(c, o->data, o->limit ? o->limit : INT_MAX / 2);
    else for (int n = o->limit ? o->limit : 1600; n > 0; n--) generate_line(c, &random);
    int *order = (int *)allocate(c->n_lines, sizeof *order);
    for (int i = 0; i < (int)c->n_lines; i++) order[i] = i;
    shuffle(order, (int)c->n_lines, &random);
    c->n_test = (int)c->n_lines / 10;
    c->n_train = (int)c->n_lines - c->n_test;
    c->test = order;
    c->train = order + c->n_test;
    c->n_symbols = 1;
    for (size_t i = 0; i < c->n_text; i++)
        if (!c->symbol[c->text[i]]) c->symbol[c->text[i]] = c->n_symbols++;
    return o->data ? "file" : "generated";
}

static void free_corpus(corpus *c)
{
    free(c->text);
    free(c->first);
    free(c->test);
}

/* ---- batches ------------------------------------------------------------------------------ */

enum { PADDED, BUCKETED, DYNAMIC, WAYS };
static const char *const way_names[WAYS] = { "padded", "bucketed", "dynamic" };

/* An epoch holds batch after batch of lines. */
typedef struct epoch { int *line, n_batches; key *batch; } epoch;

/* Bucket b holds training lines of end[b - 1] < steps <= end[b]. */
typedef struct buckets { int n, end[MAX_BUCKETS], lines[MAX_BUCKETS]; } buckets;

static int bucket_of(const buckets *b, int steps)
{
    int i = 0;
    while (b->end[i] < steps) i++;
    return i;
}

/* Makes the buckets asked for, or one wherever ENOUGH batches of lines have come together. The last takes in the longest. */
static buckets make_buckets(const options *o, const corpus *c)
{
    int count[MAX_STEPS + 1] = { 0 }, longest = 0, gathered = 0;
    buckets b;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < c->n_train; i++) count[steps_of(c, c->train[i])]++;
    for (int i = 0; i < (int)c->n_lines; i++)
        if (steps_of(c, i) > longest) longest = steps_of(c, i);
    for (int steps = 1; steps < longest && !o->n_buckets && b.n < MAX_BUCKETS - 1; steps++) {
        gathered += count[steps];
        if (gathered < ENOUGH * o->batch) continue;
        b.end[b.n++] = steps;
        gathered = 0;
    }
    for (int i = 0; i < o->n_buckets && o->buckets[i] < longest; i++) b.end[b.n++] = o->buckets[i];
    b.end[b.n++] = longest;
    for (int i = 0; i < c->n_train; i++) b.lines[bucket_of(&b, steps_of(c, c->train[i]))]++;
    return b;
}

/* Makes the batches of a bucketed epoch. Each comes from a bucket drawn with a chance of its share of the lines left. */
static void draw_from_buckets(const buckets *b, int batch, const int *start, epoch *e, uint64_t *random)
{
    int left[MAX_BUCKETS], total = 0, at = 0;
    int *line = (int *)allocate((size_t)start[b->n], sizeof *line);
    for (int i = 0; i < b->n; i++) total += left[i] = b->lines[i];
    while (at < total) {
        int draw = random_below(random, total - at), i = 0;
        while (draw >= left[i]) draw -= left[i++];
        const key k = { b->end[i], left[i] < batch ? left[i] : batch };
        left[i] -= k.lines;
        memcpy(line + at, e->line + start[i] + left[i], (size_t)k.lines * sizeof *line);
        at += k.lines;
        e->batch[e->n_batches++] = k;
    }
    free(e->line);
    e->line = line;
}

/* Puts the training lines of an epoch into batches, by the way and a seed. */
static epoch make_epoch(const options *o, const corpus *c, const buckets *b, int way, uint64_t seed)
{
    int start[MAX_BUCKETS + 1] = { 0 }, fill[MAX_BUCKETS];
    epoch e = { NULL, 0, NULL };
    e.line = (int *)allocate((size_t)c->n_train, sizeof *e.line);
    e.batch = (key *)allocate((size_t)(c->n_train / o->batch + MAX_BUCKETS), sizeof *e.batch);
    memcpy(e.line, c->train, (size_t)c->n_train * sizeof *e.line);
    shuffle(e.line, c->n_train, &seed);
    if (way == BUCKETED) {
        int *sorted = (int *)allocate((size_t)c->n_train, sizeof *sorted);
        for (int i = 0; i < b->n; i++) { fill[i] = start[i]; start[i + 1] = start[i] + b->lines[i]; }
        for (int i = 0; i < c->n_train; i++) sorted[fill[bucket_of(b, steps_of(c, e.line[i]))]++] = e.line[i];
        free(e.line);
        e.line = sorted;
        draw_from_buckets(b, o->batch, start, &e, &seed);
        return e;
    }
    for (int at = 0; at < c->n_train; at += o->batch) {
        key k = { 0, c->n_train - at < o->batch ? c->n_train - at : o->batch };
        for (int i = at; i < at + k.lines && way == PADDED; i++)
            if (steps_of(c, e.line[i]) > k.steps) k.steps = steps_of(c, e.line[i]);
        e.batch[e.n_batches++] = k;
    }
    return e;
}

static void free_epoch(epoch *e)
{
    free(e->line);
    free(e->batch);
}

/* ---- training ----------------------------------------------------------------------------- */

typedef struct trainer {
    net n;
    fold_ctx *f;
    double seconds, steps, padding, scheduling, running; /* the seconds are of training, in processor time */
    double batches, updates, replayed, perplexity;
} trainer;

/* `part` of `parts` epochs, of all ways together, are done. */
static void train_epoch(trainer *w, const corpus *c, const epoch *e, const char *name, time_left *left, int part, int parts)
{
    fold_adam adam = fold_adam_default();
    adam.rate = learning_rate;
    const int *line = e->line;
    const int hits = fold_ctx_stats(w->f).plan_hits;
    for (int i = 0; i < e->n_batches; line += e->batch[i++].lines) {
        const key k = e->batch[i];
        const double start = seconds();
        const int own = add_gradients(w->f, &w->n, c, k, line);
        fold_grads_clip(w->n.m, clip);
        fold_adam_step(w->n.m, &adam);
        w->seconds += seconds() - start;
        const fold_stats s = fold_ctx_stats(w->f);
        w->steps += own;
        w->padding += k.steps ? k.steps * k.lines - own : 0;
        w->scheduling += (double)s.schedule_ns * 1e-9;
        w->running += (double)s.run_ns * 1e-9;
        w->batches += (double)s.batches;
        w->updates++;
        time_left_show(left, part + (i + 1.0) / e->n_batches, parts, "%s: batch %d of %d", name, i + 1, e->n_batches);
    }
    w->replayed += (double)(fold_ctx_stats(w->f).plan_hits - hits);
    time_left_end(left);
}

/* Returns to how many steps a way unrolls a held-out line; 0: to its own. */
static int unrolled_steps(const corpus *c, const buckets *b, int way, int line)
{
    if (way == DYNAMIC) return 0;
    return b->end[way == PADDED ? b->n - 1 : bucket_of(b, steps_of(c, line))];
}

/* Returns the losses of all held-out lines, recorded the way's way. */
static void held_out_losses(const net *n, const corpus *c, const buckets *b, int way, float *losses)
{
    fold_ctx *f = new_context(n, 0);
    fold_node loss[MAX_BATCH];
    for (int at = 0; at < c->n_test; at += MAX_BATCH) {
        const int lines = c->n_test - at < MAX_BATCH ? c->n_test - at : MAX_BATCH;
        fold_ctx_reset(f);
        for (int i = 0; i < lines; i++)
            loss[i] = record_line(f, n, c, c->test[at + i], unrolled_steps(c, b, way, c->test[at + i]));
        if (fold_run(f, loss, lines)) fail("", fold_ctx_message(f));
        fold_read(f, loss, (size_t)lines, losses + at);
    }
    fold_ctx_free(f);
}

static double perplexity(const net *n, const corpus *c)
{
    float *losses = (float *)allocate((size_t)c->n_test, sizeof *losses);
    double sum = 0, steps = 0;
    held_out_losses(n, c, NULL, DYNAMIC, losses);
    for (int i = 0; i < c->n_test; i++) {
        sum += (double)losses[i];
        steps += steps_of(c, c->test[i]);
    }
    free(losses);
    return exp(sum / steps);
}

/* Returns the gradients of the first held-out lines' loss, recorded the way's way. The caller frees them. */
static float *gradients(const net *n, const corpus *c, const buckets *b, int way, int *count)
{
    fold_ctx *f = new_context(n, 1);
    fold_node loss[MAX_BATCH];
    const int lines = c->n_test < MAX_BATCH ? c->n_test : MAX_BATCH;
    for (int i = 0; i < lines; i++) loss[i] = record_line(f, n, c, c->test[i], unrolled_steps(c, b, way, c->test[i]));
    fold_grads_clear(n->m);
    if (fold_backward(f, fold_sum_n(f, loss, lines))) fail("", fold_ctx_message(f));
    const float *g = fold_model_grads(n->m, count);
    float *copy = (float *)memcpy(allocate((size_t)*count, sizeof *g), g, (size_t)*count * sizeof *g);
    fold_grads_clear(n->m);
    fold_ctx_free(f);
    return copy;
}

/* Whether losses are equal; how far gradients are apart, as a share of the largest, and perplexities after training. */
typedef struct agreement { int losses; double gradients, perplexity; } agreement;
static const double most_gradients = 1e-5, most_perplexity = 0.02;

/* Returns the largest difference of `count` numbers, as a share of the largest number; infinity if one is none. */
static double apart(const float *a, const float *b, int count)
{
    double most = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        const double difference = fabs((double)a[i] - (double)b[i]);
        if (!(difference <= DBL_MAX)) return HUGE_VAL;
        most = fmax(most, difference);
        largest = fmax(largest, fabs((double)b[i]));
    }
    return most > 0 ? most / largest : 0;
}

/* Compares what the ways get from one model, and how well the same batches trained padded and dynamic. */
static agreement compare(const trainer *ways, const corpus *c, const buckets *b)
{
    agreement a = { 1, 0, 0 };
    float *loss[WAYS], *grad[WAYS];
    int count;
    for (int w = 0; w < WAYS; w++) {
        loss[w] = (float *)allocate((size_t)c->n_test, sizeof **loss);
        held_out_losses(&ways[DYNAMIC].n, c, b, w, loss[w]);
        grad[w] = gradients(&ways[DYNAMIC].n, c, b, w, &count);
    }
    for (int w = 0; w < WAYS; w++) {
        a.losses &= !memcmp(loss[w], loss[DYNAMIC], (size_t)c->n_test * sizeof **loss);
        a.gradients = fmax(a.gradients, apart(grad[w], grad[DYNAMIC], count));
    }
    for (int w = 0; w < WAYS; w++) { free(loss[w]); free(grad[w]); }
    a.perplexity = fabs(ways[PADDED].perplexity / ways[DYNAMIC].perplexity - 1);
    return a;
}

static void print_buckets(const corpus *c, const buckets *b)
{
    printf("%d lines to train on, %d held out, %d characters; %d lines were cut to %d\n", c->n_train, c->n_test,
           c->n_symbols - 1, c->n_cut, MAX_STEPS - 1);
    printf("buckets, steps x lines:");
    for (int i = 0; i < b->n; i++) printf(" %dx%d", b->end[i], b->lines[i]);
    putchar('\n');
}

static double waste(const trainer *w) { return w->padding / (w->padding + w->steps); } /* the share of padding among all steps */

static void print_ways(const trainer *ways, const agreement *a)
{
    puts("\n            tokens/s  padding  perplexity  batches   plans     share of time");
    puts("                                           a step    replayed  scheduling  running  recording, optimiser");
    for (int i = 0; i < WAYS; i++) {
        const trainer *w = &ways[i];
        printf("%-9s %10.0f %7.1f%% %11.3f %8.1f %8.0f%%", way_names[i], w->steps / w->seconds, 100 * waste(w),
               w->perplexity, w->batches / w->updates, 100 * w->replayed / w->updates);
        printf(" %10.1f%% %7.1f%% %7.1f%%\n", 100 * w->scheduling / w->seconds, 100 * w->running / w->seconds,
               100 * (1 - (w->scheduling + w->running) / w->seconds));
    }
    printf("losses of held-out lines are %s; gradients differ by %.2g of the largest (at most %.0g is allowed),\n"
           "perplexities of padded and dynamic training by %.2g (at most %.0g)\n",
           a->losses ? "equal" : "NOT EQUAL", a->gradients, most_gradients, a->perplexity, most_perplexity);
}

/* Hashes the weights of all ways: they are the same in every run. */
static uint64_t hash_of(const trainer *ways)
{
    uint64_t hash = RESULT_HASH;
    for (int w = 0; w < WAYS; w++) {
        int count;
        const float *values = fold_model_values(ways[w].n.m, &count);
        hash = result_hash(hash, values, (size_t)count * sizeof *values);
    }
    return hash;
}

/* Tells the perplexity by the same weights in bytes. */
static double perplexity_in_bytes(const net *n, const corpus *c, int hidden)
{
    const net small = new_net(c, hidden, 0, 1);
    fold_values_copy(small.m, n->m);
    if (fold_model_quantize(small.m, NULL)) fail("", fold_model_message(small.m));
    const double result = perplexity(&small, c);
    fold_model_free(small.m);
    return result;
}

/* Trains the three ways in turns, epoch by epoch. Returns whether they agree. */
static int run(const options *o, const corpus *c, const char *data_name)
{
    const buckets b = make_buckets(o, c);
    trainer ways[WAYS];
    memset(ways, 0, sizeof ways);
    print_buckets(c, &b);
    time_left left = TIME_LEFT;
    for (int i = 0; i < WAYS; i++) {
        ways[i].n = new_net(c, o->hidden, o->seed, 0);
        ways[i].f = new_context(&ways[i].n, 1);
    }
    for (int round = 0; round < o->epochs; round++) {
        for (int i = 0; i < WAYS; i++) {
            epoch e = make_epoch(o, c, &b, i, o->seed + (uint64_t)round + 1);
            train_epoch(&ways[i], c, &e, way_names[i], &left, round * WAYS + i, o->epochs * WAYS);
            ways[i].perplexity = perplexity(&ways[i].n, c);
            free_epoch(&e);
        }
        printf("epoch %d: perplexity %.3f padded, %.3f bucketed, %.3f dynamic\n", round + 1, ways[0].perplexity,
               ways[1].perplexity, ways[2].perplexity);
    }
    const agreement a = compare(ways, c, &b);
    print_ways(ways, &a);
    printf("RESULT char_lm");
    for (int i = 0; i < WAYS; i++) printf(" %s_per_s=%.0f", way_names[i], ways[i].steps / ways[i].seconds);
    printf(" bytes_perplexity=%.4f", perplexity_in_bytes(&ways[DYNAMIC].n, c, o->hidden));
    printf(" perplexity=%.4f bucketed_perplexity=%.4f", ways[DYNAMIC].perplexity, ways[BUCKETED].perplexity);
    for (int i = 0; i < WAYS; i++) printf(" %s_waste=%.4f", way_names[i], waste(&ways[i]));
    const int close_gradients = a.gradients <= most_gradients, close_perplexity = a.perplexity <= most_perplexity;
    printf(" same_losses=%d close_gradients=%d close_perplexity=%d hash=%016llx epochs=%d data=%s\n", a.losses,
           close_gradients, close_perplexity, (unsigned long long)hash_of(ways), o->epochs, data_name);
    for (int i = 0; i < WAYS; i++) {
        fold_ctx_free(ways[i].f);
        fold_model_free(ways[i].n.m);
    }
    return a.losses && close_gradients && close_perplexity;
}

/* ---- command line ------------------------------------------------------------------------- */

static long parse_number(const char *name, const char *text, char **end, long min, long max)
{
    const long x = strtol(text, end, 10);
    if (*end == text || x < min || x > max) {
        fprintf(stderr, "char_lm: %s takes whole numbers from %ld to %ld, not '%s'\n", name, min, max, text);
        exit(1);
    }
    return x;
}
static void parse_buckets(options *o, const char *text)
{
    char *at = (char *)text; /* only read */
    for (int last = 1;; at++) {
        if (o->n_buckets == MAX_BUCKETS - 1) fail("too many buckets: ", text);
        last = (int)parse_number("--buckets", at, &at, last + 1, MAX_STEPS);
        o->buckets[o->n_buckets++] = last;
        if (!*at) return;
        if (*at != ',') fail("--buckets takes numbers with commas between them, not ", text);
    }
}

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 3, 0, 128, 32, 0, { 0 } };
    const char *steps = NULL;
    const option table[7] = {
        option_of_text("--data", &o.data, "FILE", "a text, one sample a line; else sentences are made up"),
        option_of_seed("--seed", &o.seed, "of weights, order and sentences"),
        option_of_whole("--epochs", &o.epochs, 1, 1000, "of training"),
        option_of_whole("--limit", &o.limit, 20, INT_MAX, "uses so many lines only"),
        option_of_whole("--hidden", &o.hidden, 1, 4096, "width of the two LSTMs"),
        option_of_whole("--batch", &o.batch, 1, MAX_BATCH, "lines a batch"),
        option_of_text("--buckets", &steps, "N,N", "steps of the buckets, rising; else one wherever 4 batches have come together"),
    };
    options_read(argc, argv, "Trains a language model of characters padded, bucketed, and on lines as long as they are. Times are processor time.", table,
                 OPTION_COUNT(table));
    if (steps) parse_buckets(&o, steps);
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    corpus c;
    memset(&c, 0, sizeof c);
    const char *data_name = load_corpus(&o, &c);
    const int agree = run(&o, &c, data_name);
    free_corpus(&c);
    return agree ? 0 : 1;
}
