/* mpi_sick: data-parallel training over MPI, bit-identical to training in one process.

     cc -O2 -o mpi_sick examples/mpi_sick.c -lm -lpthread           one process: ./mpi_sick --shards 2
     mpicc -O2 -DUSE_MPI -o mpi_sick examples/mpi_sick.c -lm -lpthread      ranks: mpirun -np 2 ./mpi_sick
     make mpi                                                       both, compared for 2, 3 and 4 ranks

   The model scores how similar two sentences are, like the one in treelstm_sick: a child-sum tree-LSTM (Tai,
   Socher and Manning 2015) and a classifier over l * r and |l - r|. Here the word vectors are trained too, so
   that the gradients of lookup tables are exchanged as well. With --data DIR (or FOLD_DATA), the program
   reads SICK (Marelli et al. 2014) from DIR/sick/{train,dev}/{a,b}.{toks,parents} and sim.txt. Each line of
   .toks holds a sentence's words, each line of .parents the number of each word's head (0 for the root), and
   each line of sim.txt a score from 1 to 5. Without data, the program makes up pairs. The pairs of every
   batch are dealt to the ranks so that all get about the same number of words. Each rank records and runs its
   own pairs (its shard). Then the gradients are summed, and every rank takes the same optimiser step.

   Adding floats in a different order changes the sum, and MPI_Allreduce may choose any order. With two ranks
   that does no harm, since a + b is b + a; with more, the bits would depend on the order. So each rank
   receives one slice of every rank's gradients, adds the slices in rank order, and sends the sum to all
   ranks. This needs no more traffic than an all-reduce. For the gradient of the word table, each rank sends
   only the rows that its shard has looked up, with their indices, if these need fewer bytes than the whole
   table; every rank adds these rows in rank order too. One process with --shards N runs the shards one after
   another, and fold_backward adds to the gradients, so the order is the same. The program prints a hash of
   the trained parameters, so that you can compare runs. bench/log/threads.md explains what limits scaling to
   more ranks. */
#define FOLD_USE_THREADS
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
#ifdef USE_MPI
#include <mpi.h>
#endif

enum { CLASSES = 5, HEAD = 50, MEANINGS = 12, SYNONYMS = 2, MIN_WORDS = 5, GENERATED_WORDS = 15, MAX_WORDS = 64, HELD_OUT = 200 };
static const float learning_rate = 0.05f;

typedef enum way { BY_SIZE, ROWS, TABLE } way; /* tells how the table's gradient travels */
typedef struct options { const char *data; uint64_t seed; int pairs, batch, epochs, width, hidden, shards, threads; way exchange; } options;
typedef struct ranks { int rank, count; } ranks; /* this process, and how many there are */

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "mpi_sick: %s%s\n", what, detail);
#ifdef USE_MPI
    MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    exit(1);
}

static void *allocate(size_t n, size_t size)
{
    void *items = calloc(n, size);
    if (!items) fail("out of memory", "");
    return items;
}

static double wall_seconds(void) { return 1e-9 * (double)fold_clock_monotonic(NULL); }

static int random_below(uint64_t *state, int n) { return (int)data_random_below(state, (size_t)n); }

/* ---- the network -------------------------------------------------------------------------- */

typedef struct tree { int n, head[MAX_WORDS], word[MAX_WORDS]; } tree; /* head -1: the root */
typedef struct pair { tree side[2]; float score; } pair;
typedef struct corpus { pair *train, *held_out; int n_train, n_held_out, words; const char *name; } corpus;

typedef struct net { fold_model *m; fold_param words; fold_child_sum tree; fold_dense head, classes; } net;

static net new_net(const options *o, int words)
{
    fold_model_desc d = fold_model_desc_default();
    net n;
    d.seed = o->seed; /* all ranks start with the same values */
    n.m = fold_model_new(&d);
    if (!n.m) fail("out of memory", "");
    n.words = fold_table_new(n.m, "words", words, o->width); /* the first: gradients of all others are one span behind it */
    n.tree = fold_child_sum_new(n.m, "tree", o->width, o->hidden);
    n.head = fold_dense_new(n.m, "head", 2 * o->hidden, HEAD, FOLD_ACT_SIGMOID);
    n.classes = fold_dense_new(n.m, "classes", HEAD, CLASSES, FOLD_ACT_LINEAR);
    if (fold_model_status(n.m)) fail("", fold_model_message(n.m));
    return n;
}

static fold_state record_node(fold_ctx *f, const net *n, const tree *t, int i)
{
    fold_state children[MAX_WORDS];
    int count = 0;
    for (int k = 0; k < t->n; k++)
        if (t->head[k] == i) children[count++] = record_node(f, n, t, k);
    return fold_child_sum_apply(f, &n->tree, fold_lookup(f, n->words, t->word[i]), children, count);
}
static fold_node record_tree(fold_ctx *f, const net *n, const tree *t)
{
    int root = 0;
    while (t->head[root] >= 0) root++;
    return record_node(f, n, t, root).h;
}

/* Records the KL divergence from the distribution over the two classes next to the score whose mean is the score. */
static fold_node record_loss(fold_ctx *f, const net *n, const pair *p)
{
    float target[CLASSES] = { 0 };
    const int low = p->score < 5 ? (int)p->score : 4;
    const fold_node l = record_tree(f, n, &p->side[0]), r = record_tree(f, n, &p->side[1]);
    const fold_node product = fold_mul(f, l, r), distance = fold_abs(f, fold_sub(f, l, r));
    const fold_node features = fold_concat2(f, product, distance);
    target[low] = p->score - (float)low;
    target[low - 1] = 1 - target[low];
    const fold_node logits = fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, features));
    return fold_softmax_kl(f, logits, fold_input(f, target, CLASSES));
}

/* ---- pairs -------------------------------------------------------------------------------- */

/* The second tree has synonyms of the first's words and, in a share that is drawn for the pair, other words. The score
   falls from 5 to 1 with the share of new meanings. */
static void generate_pair(uint64_t *random, pair *p)
{
    int changed = 0;
    const float share = data_random_unit(random);
    const int n = MIN_WORDS + random_below(random, GENERATED_WORDS - MIN_WORDS + 1);
    p->side[0].n = p->side[1].n = n;
    for (int i = 0; i < n; i++) {
        const int meaning = random_below(random, MEANINGS);
        const int other = data_random_unit(random) < share ? random_below(random, MEANINGS) : meaning;
        p->side[0].head[i] = p->side[1].head[i] = i ? random_below(random, i) : -1;
        p->side[0].word[i] = meaning * SYNONYMS + random_below(random, SYNONYMS);
        p->side[1].word[i] = other * SYNONYMS + random_below(random, SYNONYMS);
        changed += meaning != other;
    }
    p->score = 5 - 4 * (float)changed / (float)n;
}

static pair *generate_pairs(uint64_t seed, int n)
{
    pair *pairs = (pair *)allocate((size_t)n, sizeof *pairs);
    for (int i = 0; i < n; i++) generate_pair(&seed, &pairs[i]);
    return pairs;
}

static int words_of(const pair *p) { return p->side[0].n + p->side[1].n; }

/* ---- SICK --------------------------------------------------------------------------------- */

static void sick_path(char *path, size_t size, const char *dir, const char *set, const char *name)
{
    char below[64];
    snprintf(below, sizeof below, "sick/%s/%s", set, name);
    if (!data_path(path, size, dir, below)) fail("cannot open ", path);
}

/* Reads lines of words, or of numbers as words; returns the field's index in the set. */
static int load_words(data_set *s, const char *name, data_vocab *v, const char *dir, const char *set)
{
    const data_words words = { 1, -1, 0, 0 };
    data_error e = { { 0 }, 0 };
    char path[1024];
    sick_path(path, sizeof path, dir, set, name);
    if (data_load_lines(s, name, &words, v, path, &e)) fail("", e.text);
    return s->n_fields - 1;
}

/* Returns a head's number, which the vocabulary of numbers has as text, or -1 for that of a root. */
static int head_of(const data_vocab *numbers, int word)
{
    char text[16] = "", *end;
    const data_word *w = &numbers->words[word];
    if (w->length < sizeof text) memcpy(text, numbers->text + w->text, w->length);
    const long head = strtol(text, &end, 10);
    if (end == text || *end || head < 0 || head > MAX_WORDS) fail("a head must be the number of a word, not ", text);
    return (int)head - 1;
}

/* Makes a sentence from its words and heads, which must lead to one root. */
static void read_tree(const data_set *s, int words, int heads, const data_vocab *numbers, size_t line, tree *t)
{
    size_t n, n_heads;
    const int32_t *word = data_ints(s, words, line, &n), *head = data_ints(s, heads, line, &n_heads);
    int roots = 0;
    if (n != n_heads) fail("not as many heads as words in ", s->field[heads].name);
    if (n > MAX_WORDS) fail("a sentence is too long in ", s->field[words].name);
    t->n = (int)n;
    for (int i = 0; i < t->n; i++) {
        t->word[i] = word[i];
        t->head[i] = head_of(numbers, head[i]);
        if (t->head[i] >= t->n) fail("a head is behind the last word in ", s->field[heads].name);
        roots += t->head[i] < 0;
    }
    for (int i = 0; i < t->n; i++) {
        int at = i, steps = 0;
        while (t->head[at] >= 0 && steps++ < t->n) at = t->head[at];
        if (t->head[at] >= 0 || roots != 1) fail("heads do not make a tree in ", s->field[heads].name);
    }
}

static pair *read_pairs(const char *dir, const char *set, data_vocab *words, data_vocab *numbers, int *n)
{
    const data_field score = { "score", 1, DATA_FLOAT, 1, { 1 }, NULL, NULL, 0 };
    const data_csv csv = { ',', 0, &score, 1 };
    char path[1024];
    data_set s;
    data_error e = { { 0 }, 0 };
    memset(&s, 0, sizeof s);
    const int toks[2] = { load_words(&s, "a.toks", words, dir, set), load_words(&s, "b.toks", words, dir, set) };
    const int heads[2] = { load_words(&s, "a.parents", numbers, dir, set), load_words(&s, "b.parents", numbers, dir, set) };
    sick_path(path, sizeof path, dir, set, "sim.txt");
    if (data_load_csv(&s, &csv, path, &e)) fail("", e.text);
    pair *pairs = (pair *)allocate(s.count, sizeof *pairs);
    *n = (int)s.count;
    for (size_t i = 0; i < s.count; i++) {
        pairs[i].score = *data_floats(&s, s.n_fields - 1, i);
        if (!(pairs[i].score >= 1 && pairs[i].score <= 5)) fail("a score is a number from 1 to 5: ", path);
        for (int side = 0; side < 2; side++) read_tree(&s, toks[side], heads[side], numbers, i, &pairs[i].side[side]);
    }
    data_set_free(&s);
    return pairs;
}

/* Reads the pairs, or makes them up. A folder asked for must have them; FOLD_DATA may lack them. */
static corpus load_corpus(const options *o)
{
    corpus c = { NULL, NULL, o->pairs, HELD_OUT, MEANINGS * SYNONYMS, "generated" };
    const char *dir = o->data ? o->data : getenv("FOLD_DATA");
    char path[1024];
    if (!o->data && (!dir || !*dir || !data_path(path, sizeof path, dir, "sick/train/sim.txt"))) {
        c.train = generate_pairs(o->seed, c.n_train);
        c.held_out = generate_pairs(~o->seed, c.n_held_out);
        return c;
    }
    data_vocab words, numbers;
    memset(&words, 0, sizeof words);
    memset(&numbers, 0, sizeof numbers);
    c.train = read_pairs(dir, "train", &words, &numbers, &c.n_train);
    c.held_out = read_pairs(dir, "dev", &words, &numbers, &c.n_held_out);
    c.words = (int)words.n_words;
    c.name = "sick";
    if (o->pairs < c.n_train) c.n_train = o->pairs;
    data_vocab_free(&words);
    data_vocab_free(&numbers);
    return c;
}

/* ---- the sum of gradients ----------------------------------------------------------------- */

/* Sums over all steps of exchanging gradients: seconds until the last rank was there, seconds from then on, bytes that
   came from other ranks, and steps in which rows travelled. The best are the shortest step and the shortest exchange,
   which a busy machine disturbs least. */
typedef struct traffic { double waited, took, bytes, best_step, best_exchange; int steps, by_rows; } traffic;

#ifdef USE_MPI
/* Room is kept from step to step, since fresh memory costs more than writing to it. */
typedef struct room { void *items; size_t bytes; } room;
typedef struct exchange { way by; traffic *traffic; room sent, got, rows, own, counts; } exchange;

static void *need(room *x, size_t n, size_t size)
{
    if (n * size > x->bytes) {
        free(x->items);
        x->bytes = 2 * n * size;
        x->items = allocate(x->bytes, 1);
    }
    return x->items;
}

/* Gives every rank the sum of all ranks' spans, added in rank order. */
static void sum_span(float *grads, size_t count, const ranks *r, exchange *x)
{
    const size_t n = (size_t)r->count, slice = (count + n - 1) / n;
    if (slice > INT_MAX) fail("too many parameters for one exchange", "");
    float *sent = (float *)need(&x->sent, n * slice, sizeof *sent), *got = (float *)need(&x->got, n * slice, sizeof *got);
    memcpy(sent, grads, count * sizeof *grads);
    memset(sent + count, 0, (n * slice - count) * sizeof *grads);
    MPI_Alltoall(sent, (int)slice, MPI_FLOAT, got, (int)slice, MPI_FLOAT, MPI_COMM_WORLD);
    for (size_t k = 1; k < n; k++)
        for (size_t i = 0; i < slice; i++) got[i] += got[k * slice + i];
    MPI_Allgather(got, (int)slice, MPI_FLOAT, sent, (int)slice, MPI_FLOAT, MPI_COMM_WORLD);
    memcpy(grads, sent, count * sizeof *grads);
    x->traffic->bytes += 2.0 * (double)((n - 1) * slice * sizeof *grads);
}

/* Adds all ranks' rows in rank order. `counts` are the rows of each rank, `places` the sums of those before it. */
static void sum_rows(const net *n, const ranks *r, const int *own, int *counts, int *places, exchange *x)
{
    const int width = fold_param_shape(n->m, n->words).dim[1], last = r->count - 1, total = places[last] + counts[last];
    const size_t size = (size_t)width * sizeof(float);
    float *grads = fold_grads_write_begin(n->m, n->words), *sent = (float *)need(&x->sent, (size_t)counts[r->rank] + 1, size);
    float *got = (float *)need(&x->got, (size_t)total + 1, size);
    int *rows = (int *)need(&x->rows, (size_t)total + 1, sizeof *rows);
    for (int i = 0; i < counts[r->rank]; i++) {
        memcpy(sent + (size_t)i * (size_t)width, grads + (size_t)own[i] * (size_t)width, size);
        memset(grads + (size_t)own[i] * (size_t)width, 0, size);
    }
    x->traffic->bytes += (double)(total - counts[r->rank]) * (double)(size + sizeof *rows);
    MPI_Allgatherv(own, counts[r->rank], MPI_INT, rows, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int k = 0; k < r->count; k++) { counts[k] *= width; places[k] *= width; }
    MPI_Allgatherv(sent, counts[r->rank], MPI_FLOAT, got, counts, places, MPI_FLOAT, MPI_COMM_WORLD);
    for (int i = 0; i < total; i++)
        for (int k = 0; k < width; k++) grads[(size_t)rows[i] * (size_t)width + (size_t)k] += got[(size_t)i * (size_t)width + (size_t)k];
    fold_grads_write_rows_end(n->m, n->words, rows, total);
    x->traffic->by_rows++;
}

/* Sums the table's gradient, as rows if fewer bytes come to each rank so. All ranks decide the same. */
static void sum_table(const net *n, const ranks *r, exchange *x)
{
    const fold_shape shape = fold_param_shape(n->m, n->words);
    const double table = 2.0 * shape.dim[0] * shape.dim[1];
    int *own = (int *)need(&x->own, (size_t)shape.dim[0], sizeof *own), *counts = (int *)need(&x->counts, 2 * (size_t)r->count, sizeof *counts);
    int *places = counts + r->count;
    const int count = fold_grads_rows(n->m, n->words, shape.dim[0], own);
    if (count < 0) fail("the table is read by more than lookups", "");
    MPI_Allgather(&count, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    places[0] = 0;
    for (int k = 1; k < r->count; k++) places[k] = places[k - 1] + counts[k - 1];
    const double rows = (double)(places[r->count - 1] + counts[r->count - 1]) * (shape.dim[1] + 1);
    if (x->by == ROWS || (x->by == BY_SIZE && rows < table)) {
        sum_rows(n, r, own, counts, places, x);
        return;
    }
    sum_span(fold_grads_write_begin(n->m, n->words), (size_t)shape.dim[0] * (size_t)shape.dim[1], r, x);
    fold_grads_write_end(n->m, n->words);
}

static void sum_gradients(const net *n, const ranks *r, exchange *x)
{
    int floats;
    const fold_param all = { 0, 0 };
    const double arrived = wall_seconds();
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = wall_seconds();
    traffic *t = x->traffic;
    const float *grads = fold_model_grads(n->m, &floats);
    const size_t first = (size_t)(fold_param_grad(n->m, fold_param_at(n->m, 1)) - grads);
    sum_table(n, r, x);
    sum_span(fold_grads_write_begin(n->m, all) + first, (size_t)floats - first, r, x);
    for (int k = 1; k < fold_param_count(n->m); k++) fold_grads_write_end(n->m, fold_param_at(n->m, k));
    const double took = wall_seconds() - began;
    t->waited += began - arrived;
    t->took += took;
    t->best_exchange = t->steps && t->best_exchange < took ? t->best_exchange : took;
}

static void close_exchange(exchange *x)
{
    room *const rooms[] = { &x->sent, &x->got, &x->rows, &x->own, &x->counts };
    for (int i = 0; i < 5; i++) free(rooms[i]->items);
}
#else
typedef struct exchange { way by; traffic *traffic; } exchange; /* one process has nothing to exchange */
static void close_exchange(exchange *x) { (void)x; }
#endif

/* ---- training ----------------------------------------------------------------------------- */

typedef struct dealt { int words, at; } dealt;

static int more_words(const void *a, const void *b)
{
    const dealt *x = (const dealt *)a, *y = (const dealt *)b;
    return x->words != y->words ? y->words - x->words : x->at - y->at;
}

/* Puts the longest pairs of the batch first. Dealt out there and back, all shards get about as many words. */
static dealt *deal(const pair *pairs, int count)
{
    dealt *order = (dealt *)allocate((size_t)count, sizeof *order);
    for (int i = 0; i < count; i++) {
        order[i].words = words_of(&pairs[i]);
        order[i].at = i;
    }
    qsort(order, (size_t)count, sizeof *order, more_words);
    return order;
}

/* Adds the gradients of one shard's part of a batch's mean loss. */
static void add_shard(fold_ctx *f, const net *n, const pair *pairs, const dealt *order, int count, int shard, int of)
{
    fold_node *loss = (fold_node *)allocate((size_t)count, sizeof *loss);
    int own = 0;
    fold_ctx_reset(f);
    for (int i = 0; i < count; i++)
        if ((i / of % 2 ? of - 1 - i % of : i % of) == shard) loss[own++] = record_loss(f, n, &pairs[order[i].at]);
    if (own && fold_backward(f, fold_scale(f, fold_sum_n(f, loss, own), 1 / (float)count))) fail("", fold_ctx_message(f));
    free(loss);
}

static void train_batch(fold_ctx *f, const net *n, const options *o, const ranks *r, const pair *pairs, int count, exchange *x)
{
    fold_adagrad adagrad = fold_adagrad_default();
    const double began = wall_seconds();
    dealt *order = deal(pairs, count);
    adagrad.rate = learning_rate;
#ifdef USE_MPI
    add_shard(f, n, pairs, order, count, r->rank, r->count);
    (void)o;
    sum_gradients(n, r, x);
#else
    (void)r;
    for (int shard = 0; shard < o->shards; shard++) add_shard(f, n, pairs, order, count, shard, o->shards);
#endif
    if (fold_adagrad_step(n->m, &adagrad)) fail("", fold_model_message(n->m));
    free(order);
    traffic *t = x->traffic;
    const double step = wall_seconds() - began;
    if (!t->steps || (count == o->batch && step < t->best_step)) t->best_step = step; /* a last batch may be short */
    t->steps++;
}

static double mean_loss(const net *n, const pair *pairs, int count)
{
    fold_ctx *f = fold_ctx_new(n->m, NULL);
    fold_node *loss = (fold_node *)allocate((size_t)count, sizeof *loss);
    if (!f) fail("out of memory", "");
    for (int i = 0; i < count; i++) loss[i] = record_loss(f, n, &pairs[i]);
    const fold_node mean = fold_mean_n(f, loss, count);
    if (fold_run(f, &mean, 1)) fail("", fold_ctx_message(f));
    const double value = (double)fold_scalar(f, mean);
    fold_ctx_free(f);
    free(loss);
    return value;
}

static uint64_t hash_of(const fold_model *m) /* takes FNV-1a of all parameters, value by value */
{
    uint64_t hash = 14695981039346656037u;
    for (int k = 0; k < fold_param_count(m); k++) {
        const fold_param p = fold_param_at(m, k);
        const fold_shape s = fold_param_shape(m, p);
        const float *value = fold_param_value(m, p);
        for (int i = 0; i < s.dim[0] * (s.rank > 1 ? s.dim[1] : 1); i++) {
            uint32_t bits;
            memcpy(&bits, &value[i], sizeof bits);
            for (int byte = 0; byte < 4; byte++) hash = (hash ^ (bits >> 8 * byte & 255)) * 1099511628211u;
        }
    }
    return hash;
}

/* Tells whether all ranks have this hash. */
static int all_same(uint64_t hash)
{
#ifdef USE_MPI
    uint64_t least, most;
    MPI_Allreduce(&hash, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&hash, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return least == most;
#else
    (void)hash;
    return 1;
#endif
}

static fold_ctx *new_ctx(const net *n, const options *o, fold_pool *pool)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    if (pool) {
        d.threads = o->threads;
        d.parallel_for = fold_pool_for;
        d.pool = pool;
    }
    fold_ctx *f = fold_ctx_new(n->m, &d);
    if (!f) fail("out of memory", "");
    return f;
}

static void print_result(const options *o, const ranks *r, const corpus *c, double loss, double seconds, uint64_t hash, int same, const traffic *t)
{
    const double a_step = 1e3 / t->steps;
    printf("a step takes %.2f ms, at best %.2f\n", seconds * a_step, 1e3 * t->best_step);
    if (r->count > 1)
        printf("of it: waits %.2f for the last rank, exchanges %.3f MB in %.2f, at best %.2f; rows travelled in %d of %d steps\n",
               t->waited * a_step, 1e-6 * t->bytes / t->steps, t->took * a_step, 1e3 * t->best_exchange, t->by_rows, t->steps);
    printf("RESULT mpi_sick ranks=%d shards=%d threads=%d loss=%.7f hash=%08lx%08lx same=%d pairs_per_s=%.0f data=%s\n", r->count,
           o->shards, o->threads, loss, (unsigned long)(hash >> 32), (unsigned long)(hash & 0xffffffffu), same,
           (double)c->n_train * o->epochs / seconds, c->name);
}

/* Trains, and lets the first rank tell the result. Returns whether all ranks have the same parameters. */
static int run(const options *o, const ranks *r)
{
    const corpus c = load_corpus(o);
    const net n = new_net(o, c.words);
    fold_pool *pool = o->threads > 1 ? fold_pool_new(o->threads) : NULL;
    traffic t;
    exchange x;
    memset(&t, 0, sizeof t);
    memset(&x, 0, sizeof x);
    x.by = o->exchange;
    x.traffic = &t;
    if (o->threads > 1 && !pool) fail("no threads to be had", "");
    fold_ctx *f = new_ctx(&n, o, pool);
    const double before = r->rank ? 0 : mean_loss(&n, c.held_out, c.n_held_out), start = wall_seconds();
    time_left left = TIME_LEFT;
    for (int epoch = 0; epoch < o->epochs; epoch++)
        for (int at = 0; at < c.n_train; at += o->batch) {
            train_batch(f, &n, o, r, c.train + at, c.n_train - at < o->batch ? c.n_train - at : o->batch, &x);
            if (!r->rank) time_left_show(&left, epoch + (double)at / c.n_train, o->epochs, "epoch %d of %d", epoch + 1, o->epochs);
        }
    time_left_end(&left);
    const double seconds = wall_seconds() - start;
    const uint64_t hash = hash_of(n.m);
    const int same = all_same(hash);
    if (!r->rank) {
        const double after = mean_loss(&n, c.held_out, c.n_held_out);
        printf("loss of held-out pairs: %.4f before training, %.4f after\n", before, after);
        print_result(o, r, &c, after, seconds, hash, same, &t);
    }
    close_exchange(&x);
    fold_ctx_free(f);
    fold_pool_free(pool);
    fold_model_free(n.m);
    free(c.train);
    free(c.held_out);
    return same;
}

/* ---- command line ------------------------------------------------------------------------- */

static way parse_way(const char *text)
{
    static const char *const names[] = { "auto", "rows", "table" };
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) return (way)i;
    fail("--exchange is auto, rows or table, not ", text);
    return BY_SIZE;
}

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 2000, 32, 4, 50, 100, 1, 1, BY_SIZE };
    const char *how = "auto";
    const option table[10] = {
        option_of_text("--data", &o.data, "DIR", "reads SICK in DIR/sick; else $FOLD_DATA, else pairs are made up"),
        option_of_seed("--seed", &o.seed, "of weights and pairs"),
        option_of_whole("--pairs", &o.pairs, 1, 1 << 24, "made up, or taken at most"),
        option_of_whole("--batch", &o.batch, 1, 1 << 24, "pairs of all ranks together"),
        option_of_whole("--epochs", &o.epochs, 1, 10000, "of training"),
        option_of_whole("--width", &o.width, 1, 4096, "of word vectors"),
        option_of_whole("--hidden", &o.hidden, 1, 4096, "width of the states"),
        option_of_whole("--shards", &o.shards, 1, 4096, "of a batch in one process, one after another; with MPI the ranks"),
        option_of_whole("--threads", &o.threads, 1, 64, "of each process"),
        option_of_text("--exchange", &how, "HOW", "the gradient of the words travels: auto (of fewer bytes), rows or table"),
    };
    options_read(argc, argv, "Trains a child-sum tree-LSTM on pairs of trees, data-parallel.", table,
                 OPTION_COUNT(table));
    o.exchange = parse_way(how);
    return o;
}

int main(int argc, char **argv)
{
    ranks r = { 0, 1 };
#ifdef USE_MPI
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.count);
#endif
    options o = parse_options(argc, argv);
#ifdef USE_MPI
    o.shards = r.count;
#endif
    const int same = run(&o, &r);
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return same ? 0 : 1;
}
