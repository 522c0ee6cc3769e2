/* mpi_sick: data-parallel training over MPI, to the same bits as one process.

     cc -O2 -o mpi_sick examples/mpi_sick.c -lm                     one process: ./mpi_sick --shards 2
     mpicc -O2 -DUSE_MPI -o mpi_sick examples/mpi_sick.c -lm        ranks:       mpirun -np 2 ./mpi_sick
     make mpi                                                       both, compared for 2, 3 and 4 ranks

   Scores how much two trees have in common, by the model of treelstm_sick: a child-sum tree-LSTM (Tai, Socher and
   Manning 2015) and a head on l * r and |l - r|; here word vectors are learned too, so that gradients of lookups are
   exchanged as well. Pairs are generated. Every batch is dealt out to the ranks, pair by pair. Each rank records and
   runs its shard; then gradients, one contiguous span, are summed, and each rank takes the same optimiser step.

   Adding floats in another order changes their sum, and MPI_Allreduce may choose any order: with two ranks a + b is
   b + a, with more the bits would depend on it. So each rank gets one slice of all ranks' spans, adds it in rank order,
   and hands its sum to all: no more traffic than an all-reduce. One process with --shards N runs the shards one after
   another; fold_backward adds to the gradients, which is the same order. The hash of the trained parameters tells. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef USE_MPI
#include <mpi.h>
#else
#include <time.h>
#endif

enum { WIDTH = 50, CLASSES = 5, HEAD = 50, MEANINGS = 12, SYNONYMS = 2, MIN_WORDS = 5, MAX_WORDS = 15, HELD_OUT = 200 };
static const float learning_rate = 0.05f;

typedef struct options { uint64_t seed; int pairs, batch, epochs, hidden, shards; } options;
typedef struct ranks { int rank, count; } ranks; /* this process among how many */

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

static double wall_seconds(void)
{
#ifdef USE_MPI
    return MPI_Wtime();
#else
    return (double)clock() / CLOCKS_PER_SEC; /* one thread that never waits */
#endif
}

static int random_below(uint64_t *state, int n) { return (int)data_random_below(state, (size_t)n); }

/* ---- pairs -------------------------------------------------------------------------------- */

/* Two trees of one form: word i hangs below head[i] < i, word 0 is the root. */
typedef struct pair { int n, head[MAX_WORDS], word[2][MAX_WORDS]; float score; } pair;

/* Words of the second tree are synonyms of the first's or, in a share drawn for the pair, others: the score falls from 5
   to 1 with the share of new meanings. */
static void generate_pair(uint64_t *random, pair *p)
{
    int changed = 0;
    const float share = data_random_unit(random);
    p->n = MIN_WORDS + random_below(random, MAX_WORDS - MIN_WORDS + 1);
    for (int i = 0; i < p->n; i++) {
        const int meaning = random_below(random, MEANINGS);
        const int other = data_random_unit(random) < share ? random_below(random, MEANINGS) : meaning;
        p->head[i] = i ? random_below(random, i) : -1;
        p->word[0][i] = meaning * SYNONYMS + random_below(random, SYNONYMS);
        p->word[1][i] = other * SYNONYMS + random_below(random, SYNONYMS);
        changed += meaning != other;
    }
    p->score = 5 - 4 * (float)changed / (float)p->n;
}

static pair *generate_pairs(uint64_t seed, int n)
{
    pair *pairs = (pair *)allocate((size_t)n, sizeof *pairs);
    for (int i = 0; i < n; i++) generate_pair(&seed, &pairs[i]);
    return pairs;
}

/* ---- the network -------------------------------------------------------------------------- */

typedef struct net { fold_model *m; fold_param words; fold_child_sum tree; fold_dense head, classes; } net;

static net new_net(const options *o)
{
    fold_model_desc d = fold_model_desc_default();
    net n;
    d.seed = o->seed; /* all ranks start with the same values */
    n.m = fold_model_new(&d);
    if (!n.m) fail("out of memory", "");
    n.words = fold_table_new(n.m, "words", MEANINGS * SYNONYMS, WIDTH);
    n.tree = fold_child_sum_new(n.m, "tree", WIDTH, o->hidden);
    n.head = fold_dense_new(n.m, "head", 2 * o->hidden, HEAD, FOLD_ACT_SIGMOID);
    n.classes = fold_dense_new(n.m, "classes", HEAD, CLASSES, FOLD_ACT_LINEAR);
    if (fold_model_status(n.m)) fail("", fold_model_message(n.m));
    return n;
}

/* The state of a tree's root: children come behind their heads. */
static fold_node record_tree(fold_ctx *f, const net *n, const pair *p, int side)
{
    fold_state state[MAX_WORDS];
    for (int i = p->n - 1; i >= 0; i--) {
        fold_state children[MAX_WORDS];
        size_t count = 0;
        for (int k = i + 1; k < p->n; k++)
            if (p->head[k] == i) children[count++] = state[k];
        const fold_node x = fold_lookup(f, n->words, p->word[side][i]);
        state[i] = fold_child_sum_apply(f, &n->tree, x, children, (int)count);
    }
    return state[0].h;
}

/* KL divergence from the distribution over the two classes next to the score whose mean is the score. */
static fold_node record_loss(fold_ctx *f, const net *n, const pair *p)
{
    float target[CLASSES] = { 0 };
    const int low = p->score < 5 ? (int)p->score : 4;
    const fold_node l = record_tree(f, n, p, 0), r = record_tree(f, n, p, 1);
    const fold_node features = fold_concat2(f, fold_mul(f, l, r), fold_abs(f, fold_sub(f, l, r)));
    target[low] = p->score - (float)low;
    target[low - 1] = 1 - target[low];
    return fold_softmax_kl(f, fold_dense_apply(f, &n->classes, fold_dense_apply(f, &n->head, features)),
                           fold_input(f, target, CLASSES));
}

/* ---- training ----------------------------------------------------------------------------- */

/* Adds the gradients of one shard's part of a batch's mean loss: pairs shard, shard + of, shard + 2 of, … */
static void add_shard(fold_ctx *f, const net *n, const pair *pairs, int count, int shard, int of)
{
    fold_node *loss = (fold_node *)allocate((size_t)count, sizeof *loss);
    size_t own = 0;
    fold_ctx_reset(f);
    for (int i = shard; i < count; i += of) loss[own++] = record_loss(f, n, &pairs[i]);
    if (own && fold_backward(f, fold_scale(f, fold_sum_n(f, loss, (int)own), 1 / (float)count))) fail("", fold_ctx_message(f));
    free(loss);
}

#ifdef USE_MPI
/* The sum of all ranks' gradients, added in rank order, on every rank. */
static void sum_gradients(fold_model *m, const ranks *r)
{
    const fold_param all = { 0, 0 };
    int floats;
    const float *grads = fold_model_grads(m, &floats);
    const size_t count = (size_t)floats, n = (size_t)r->count, slice = (count + n - 1) / n;
    if (slice > INT_MAX) fail("too many parameters for one exchange", "");
    float *sent = (float *)allocate(n * slice, sizeof *sent), *got = (float *)allocate(n * slice, sizeof *got);
    memcpy(sent, grads, count * sizeof *grads);
    MPI_Alltoall(sent, (int)slice, MPI_FLOAT, got, (int)slice, MPI_FLOAT, MPI_COMM_WORLD);
    for (size_t k = 1; k < n; k++)
        for (size_t i = 0; i < slice; i++) got[i] += got[k * slice + i];
    MPI_Allgather(got, (int)slice, MPI_FLOAT, sent, (int)slice, MPI_FLOAT, MPI_COMM_WORLD);
    memcpy(fold_grads_write_begin(m, all), sent, count * sizeof *grads);
    fold_grads_write_end(m, all);
    free(sent);
    free(got);
}
#endif

static void train_batch(fold_ctx *f, const net *n, const options *o, const ranks *r, const pair *pairs, int count)
{
    fold_adagrad adagrad = fold_adagrad_default();
    adagrad.rate = learning_rate;
#ifdef USE_MPI
    (void)o;
    add_shard(f, n, pairs, count, r->rank, r->count);
    sum_gradients(n->m, r);
#else
    (void)r;
    for (int shard = 0; shard < o->shards; shard++) add_shard(f, n, pairs, count, shard, o->shards);
#endif
    if (fold_adagrad_step(n->m, &adagrad)) fail("", fold_model_message(n->m));
}

static double mean_loss(const net *n, const pair *pairs, int count)
{
    fold_ctx *f = fold_ctx_new(n->m, NULL);
    fold_node loss[HELD_OUT];
    if (!f) fail("out of memory", "");
    for (int i = 0; i < count; i++) loss[i] = record_loss(f, n, &pairs[i]);
    const fold_node mean = fold_mean_n(f, loss, count);
    if (fold_run(f, &mean, 1)) fail("", fold_ctx_message(f));
    const double value = (double)fold_scalar(f, mean);
    fold_ctx_free(f);
    return value;
}

static uint64_t hash_of(const fold_model *m) /* FNV-1a of all parameters, value by value */
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

/* Whether all ranks have this hash. */
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

/* Trains, and lets the first rank tell what came of it. Returns whether all ranks have the same parameters. */
static int run(const options *o, const ranks *r)
{
    const net n = new_net(o);
    pair *pairs = generate_pairs(o->seed, o->pairs), *held_out = generate_pairs(~o->seed, HELD_OUT);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(n.m, &training);
    if (!f) fail("out of memory", "");
    const double before = r->rank ? 0 : mean_loss(&n, held_out, HELD_OUT), start = wall_seconds();
    for (int epoch = 0; epoch < o->epochs; epoch++)
        for (int at = 0; at < o->pairs; at += o->batch)
            train_batch(f, &n, o, r, pairs + at, o->pairs - at < o->batch ? o->pairs - at : o->batch);
    const double seconds = wall_seconds() - start;
    const uint64_t hash = hash_of(n.m);
    const int same = all_same(hash);
    if (!r->rank) {
        printf("loss of held-out pairs: %.4f before training, %.4f after\n", before, mean_loss(&n, held_out, HELD_OUT));
        printf("RESULT mpi_sick ranks=%d shards=%d hash=%08lx%08lx same=%d pairs_per_s=%.0f data=generated\n", r->count,
               o->shards, (unsigned long)(hash >> 32), (unsigned long)(hash & 0xffffffffu), same,
               (double)o->pairs * o->epochs / seconds);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
    free(pairs);
    free(held_out);
    return same;
}

/* ---- command line ------------------------------------------------------------------------- */

static const char usage[] =
    "usage: mpi_sick [--seed N] [--pairs N] [--batch N] [--epochs N] [--hidden N] [--shards N]\n"
    "Trains a child-sum tree-LSTM on generated pairs of trees, data-parallel.\n"
    "  --seed N     of weights and pairs; default 1\n"
    "  --pairs N    default 2000\n"
    "  --batch N    pairs of all ranks together; default 32\n"
    "  --epochs N   default 4\n"
    "  --hidden N   width of the states; default 100\n"
    "  --shards N   in one process: shards a batch, one after another; default 1. With MPI: the ranks\n";

static int parse_int(const char *option, const char *text, long min, long max)
{
    char *end;
    const long x = strtol(text, &end, 10);
    if (end != text && !*end && x >= min && x <= max) return (int)x;
    fprintf(stderr, "mpi_sick: %s takes a whole number from %ld to %ld, not '%s'\n", option, min, max, text);
    fail("bad option", "");
    return 0;
}

static options parse_options(int argc, char **argv)
{
    options o = { 1, 2000, 32, 4, 100, 1 };
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(name, "--help")) { fputs(usage, stdout); exit(0); }
        if (!strcmp(name, "--seed")) o.seed = (uint64_t)parse_int(name, value, 0, INT_MAX);
        else if (!strcmp(name, "--pairs")) o.pairs = parse_int(name, value, 1, 1 << 24);
        else if (!strcmp(name, "--batch")) o.batch = parse_int(name, value, 1, 1 << 24);
        else if (!strcmp(name, "--epochs")) o.epochs = parse_int(name, value, 1, 10000);
        else if (!strcmp(name, "--hidden")) o.hidden = parse_int(name, value, 1, 4096);
        else if (!strcmp(name, "--shards")) o.shards = parse_int(name, value, 1, 4096);
        else { fputs(usage, stderr); fail("unknown option ", name); }
    }
    return o;
}

int main(int argc, char **argv)
{
    ranks r = { 0, 1 };
#ifdef USE_MPI
    MPI_Init(&argc, &argv);
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
