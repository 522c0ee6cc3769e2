/* listops.c - a network shaped like its input learns to evaluate nested lists.

       cc -O2 -o listops examples/listops.c -lm && ./listops

   ListOps (Nangia and Bowman 2018) asks for the value of expressions such as [MAX 2 9 [MIN 4 7 ] 0 ]. The operators are
   MAX, MIN, MED (median) and SM (sum modulo 10). The expressions are generated here from the published distribution. The
   network follows the nesting by plain recursion, one expression at a time; fold.h runs the lists of all expressions of a
   batch together, whatever their depths and lengths.

   In the network the value of anything, digit or list, is a probability distribution over the ten digits. That of a list
   is computed from its operator and the sum of its arguments' distributions, because no operator depends on their order
   (Zaheer et al. 2017). It learns from the answers of whole expressions only. In the paper a tree-LSTM that is given the
   nesting reaches 98.7 % on test expressions. */

#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include "unfused.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DIGITS = 10, OPERATORS = 4, MIN_ARGS = 2, MAX_ARGS = 5, MAX_DEPTH = 20 };
enum { OP_MIN = DIGITS, OP_MAX, OP_MED, OP_SM, END }; /* these tokens follow the digits */
enum { POOL = 1000000, SET_SIZE = 1 << 21 };
enum { STEPS = 30000, FULL_STEPS = 200000 };
enum { HIDDEN = 128, OPERATOR_WIDTH = 16, BATCH = 32, TEST_BATCH = 256, DEV = 1000, REPORT_STEPS = 3000 };

static const double LIST_PROBABILITY = 0.25;
static const float one_hot[DIGITS][DIGITS] = {
    { 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, 1, 0, 0, 0, 0, 0, 0, 0 },
    { 0, 0, 0, 1, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 1, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 },
    { 0, 0, 0, 0, 0, 0, 1, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 1, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 },
    { 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }
};

typedef struct { int train, test, steps; uint64_t seed; double seconds; } options;
typedef struct { size_t start, length; int answer; } sample; /* start and number of its tokens */
typedef struct { unsigned char *tokens; size_t length, capacity; sample *samples; } data_set;
typedef struct { fold_param operators; fold_mlp mlp; fold_cell list; } net;
typedef struct { fold_node digit, logits; } value;

static void stop(const char *message)
{
    fprintf(stderr, "listops: %s\n", message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* SplitMix64 (Steele et al. 2014) */
static uint64_t random_bits(uint64_t *state) { return mix(*state += 0x9e3779b97f4a7c15u); }
static double random_unit(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }
static int random_below(uint64_t *state, int n) { return (int)(random_unit(state) * n); }

/* ---- the network ---- */

/* Takes the operator's vector and each argument's distribution, gives the list's distribution and its logits. */
static void list_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    fold_node arguments = fold_list_sum(f, in[1]);
    out[1] = fold_mlp_apply(f, &n->mlp, fold_concat2(f, in[0], arguments));
    out[0] = fold_softmax(f, out[1]);
}

static void net_new(fold_model *m, net *n)
{
    const int sizes[] = { OPERATOR_WIDTH + DIGITS, HIDDEN, HIDDEN, DIGITS };
    fold_cell_desc cell;
    n->operators = fold_table_new(m, "operators", OPERATORS, OPERATOR_WIDTH);
    n->mlp = fold_mlp_new(m, "list", sizes, 3, FOLD_ACT_RELU);
    memset(&cell, 0, sizeof cell);
    cell.name = "list";
    cell.body = list_body;
    cell.user = n;
    cell.n_in = 1;
    cell.in[0] = fold_shape1(OPERATOR_WIDTH);
    cell.n_list = 1;
    cell.list[0] = fold_shape1(DIGITS);
    cell.n_out = 2;
    n->list = fold_cell_new(m, &cell);
}

/* Records the expression at *at, and moves *at behind it. A digit's distribution serves as its logits too. */
static value record(fold_ctx *f, const net *n, const unsigned char **at)
{
    value v;
    int token = *(*at)++;
    if (token < DIGITS) {
        v.digit = v.logits = fold_input_ref(f, one_hot[token], fold_shape1(DIGITS));
        return v;
    }
    fold_node op = fold_lookup(f, n->operators, token - OP_MIN), arguments[MAX_ARGS];
    size_t count = 0;
    while (**at != END) arguments[count++] = record(f, n, at).digit;
    ++*at;
    fold_node call = fold_call_n(f, n->list, &op, 1, arguments, (int)count);
    v.digit = fold_out(f, call, 0);
    v.logits = fold_out(f, call, 1);
    return v;
}

static fold_node record_logits(fold_ctx *f, const net *n, const data_set *d, const sample *s)
{
    const unsigned char *at = d->tokens + s->start;
    return record(f, n, &at).logits;
}

/* ---- the task ---- */

static void push_token(data_set *d, int token)
{
    if (d->length == d->capacity) {
        d->capacity = d->capacity * 2 + 4096;
        d->tokens = (unsigned char *)realloc(d->tokens, d->capacity);
        if (!d->tokens) stop("out of memory");
    }
    d->tokens[d->length++] = (unsigned char)token;
}

static void push_expression(data_set *d, uint64_t *state, int depth)
{
    if (depth == MAX_DEPTH || random_unit(state) > LIST_PROBABILITY) {
        push_token(d, random_below(state, DIGITS));
        return;
    }
    push_token(d, OP_MIN + random_below(state, OPERATORS));
    for (int n = MIN_ARGS + random_below(state, MAX_ARGS - MIN_ARGS + 1); n > 0; n--)
        push_expression(d, state, depth + 1);
    push_token(d, END);
}

/* Returns the value of the expression at *at, and moves *at behind it. */
static int evaluate(const unsigned char **at)
{
    int sorted[MAX_ARGS], n = 0, sum = 0, token = *(*at)++;
    if (token < DIGITS) return token;
    for (; **at != END; n++) {
        int x = evaluate(at), i = n;
        for (; i > 0 && sorted[i - 1] > x; i--) sorted[i] = sorted[i - 1];
        sorted[i] = x;
        sum += x;
    }
    ++*at;
    switch (token) {
    case OP_MIN: return sorted[0];
    case OP_MAX: return sorted[n - 1];
    case OP_MED: return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2; /* mean of the two, rounded down */
    default: return sum % 10;
    }
}

/* Adds the expression's hash to the set; returns 0 when it was there. */
static int insert(uint64_t *set, const unsigned char *tokens, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++) hash = mix(hash * 16 + tokens[i] + 1);
    hash |= 1; /* zero marks a free place */
    size_t i = (size_t)(hash >> 32) % SET_SIZE;
    while (set[i] && set[i] != hash) i = (i + 1) % SET_SIZE;
    if (set[i]) return 0;
    set[i] = hash;
    return 1;
}

/* Draws `count` of a million expressions which are all distinct, in random order, as the published data are. So
   train, dev and test samples, which are slices of these, have no expression in common. */
static void generate(data_set *d, int count, uint64_t *state)
{
    uint64_t *set = (uint64_t *)calloc(SET_SIZE, sizeof *set);
    d->samples = (sample *)malloc((size_t)count * sizeof *d->samples);
    if (!set || !d->samples) stop("out of memory");
    for (int64_t distinct = 0, kept = 0; distinct < POOL;) {
        size_t start = d->length;
        push_expression(d, state, 1);
        if (insert(set, d->tokens + start, d->length - start) && ++distinct * count / POOL > kept) {
            const unsigned char *at = d->tokens + start;
            sample *s = &d->samples[kept++];
            s->start = start;
            s->length = d->length - start;
            s->answer = evaluate(&at);
        } else {
            d->length = start;
        }
    }
    for (int i = count - 1; i > 0; i--) {
        int j = random_below(state, i + 1);
        sample s = d->samples[i];
        d->samples[i] = d->samples[j];
        d->samples[j] = s;
    }
    free(set);
}

/* ---- training and testing ---- */

/* Computes the logits of `count` samples from `first` on, `batch` of them in each run. */
static void predict(fold_ctx *f, const net *n, const data_set *d, int first, int count, int batch,
                    float *logits)
{
    fold_node root[TEST_BATCH];
    for (int done = 0; done < count; done += batch) {
        size_t size = (size_t)(count - done < batch ? count - done : batch);
        fold_ctx_reset(f);
        for (size_t i = 0; i < size; i++)
            root[i] = record_logits(f, n, d, &d->samples[(size_t)(first + done) + i]);
        if (fold_run(f, root, (int)size) || fold_read(f, root, (int)size, logits + (size_t)done * DIGITS))
            stop(fold_ctx_message(f));
    }
}

static double accuracy(const data_set *d, int first, int count, const float *logits)
{
    int right = 0;
    for (int i = 0; i < count; i++)
        right += fold_argmax(logits + (size_t)i * DIGITS, DIGITS) == d->samples[first + i].answer;
    return (double)right / count;
}

/* The rate warms up, holds, and then falls to zero along half a cosine. */
static float rate_at(double progress)
{
    double warm = progress / 0.02, cool = 1 + cos(3.14159265358979 * (2 * progress - 1));
    return 0.003f * (float)(warm < 1 ? warm : progress < 0.5 ? 1 : cool / 2);
}

/* Draws so many training samples, and takes the shortest. */
static const sample *draw(const data_set *d, int count, int of, uint64_t *state)
{
    const sample *s = &d->samples[random_below(state, count)];
    for (; of > 1; of--) {
        const sample *other = &d->samples[random_below(state, count)];
        if (other->length < s->length) s = other;
    }
    return s;
}

/* Records, runs and learns from one batch of training samples; returns its mean loss. */
static double train_step(fold_ctx *f, const net *n, const data_set *d, const sample **batch,
                         const fold_adam *adam)
{
    fold_node losses[BATCH], mean;
    fold_model *m = fold_ctx_model(f);
    fold_ctx_reset(f);
    for (int i = 0; i < BATCH; i++)
        losses[i] = fold_softmax_xent(f, record_logits(f, n, d, batch[i]), batch[i]->answer);
    mean = fold_mean_n(f, losses, BATCH);
    if (fold_backward(f, mean)) stop(fold_ctx_message(f));
    fold_grads_clip(m, 1);
    if (fold_adam_step(m, adam)) stop(fold_model_message(m));
    return (double)fold_scalar(f, mean);
}

/* Steps alone decide what is learned. So a seed gives the same network, bit for bit, wherever there is time for
   all steps. `seconds` only end it early, and it says so. Three quarters of the steps prefer short
   expressions: they are learned from soonest, and cost least. Returns the seconds it took. */
static double train(fold_ctx *f, fold_ctx *dev, const net *n, const data_set *d, const options *o,
                    uint64_t *state)
{
    fold_adam adam = fold_adam_default();
    double start = now(), loss = 0, elapsed;
    const sample *batch[BATCH];
    float logits[DEV * DIGITS];
    int step = 0;
    for (; elapsed = now() - start, step < o->steps && elapsed < o->seconds; step++) {
        double progress = (step + 1.0) / o->steps;
        for (int i = 0; i < BATCH; i++) batch[i] = draw(d, o->train, progress < 0.75 ? 4 : 1, state);
        adam.rate = rate_at(progress);
        loss += train_step(f, n, d, batch, &adam) / (double)REPORT_STEPS;
        if ((step + 1) % REPORT_STEPS) continue;
        predict(dev, n, d, o->train, DEV, TEST_BATCH, logits);
        printf("training %3.0f %%  loss %.3f  dev accuracy %.1f %%  %.1f s, %.0f s left\n", 100 * progress, loss,
               100 * accuracy(d, o->train, DEV, logits), elapsed, elapsed * (1 / progress - 1));
        loss = 0;
    }
    if (step < o->steps)
        printf("OUT OF TIME after %d of %d steps: the network is unfinished, and another in each run\n", step,
               o->steps);
    return elapsed;
}

/* Measures samples per second on the test set, over at least a second. */
static double speed(fold_ctx *f, const net *n, const data_set *d, const options *o, int batch, float *logits)
{
    double start = now(), elapsed;
    int passes = 0;
    do {
        predict(f, n, d, o->train + DEV, o->test, batch, logits);
        passes++;
        elapsed = now() - start;
    } while (elapsed < 1);
    return (double)passes * o->test / elapsed;
}

/* Tells the accuracy on the test expressions by the same weights in 8 or 16 bits, those of tables too. */
static double quantized(const fold_model *trained, const data_set *d, const options *o, int bits, float *logits)
{
    const fold_quantize_desc all = { 0, 1, bits };
    fold_model_desc desc = fold_model_desc_default();
    net n;
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    net_new(m, &n);
    fold_values_copy(m, trained);
    if (fold_model_quantize(m, &all)) stop(fold_model_message(m));
    fold_ctx *f = fold_ctx_new(m, NULL);
    if (!f) stop("out of memory");
    predict(f, &n, d, o->train + DEV, o->test, TEST_BATCH, logits);
    fold_ctx_free(f);
    fold_model_free(m);
    return accuracy(d, o->train + DEV, o->test, logits);
}

/* Prints some short test expressions, and what the network makes of them. */
static void show_samples(const data_set *d, const options *o, const float *logits)
{
    static const char *const text[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
                                        "[MIN", "[MAX", "[MED", "[SM", "]" };
    for (int i = 0, shown = 0; i < o->test && shown < 4; i++) {
        const sample *s = &d->samples[o->train + DEV + i];
        if (s->length < 8 || s->length > 24) continue;
        for (size_t k = 0; k < s->length; k++) printf("%s ", text[d->tokens[s->start + k]]);
        printf("= %d, network: %d\n", s->answer, fold_argmax(logits + (size_t)i * DIGITS, DIGITS));
        shown++;
    }
}

/* Trains and tests; returns whether both ways of running gave the same bits. */
static int run(const options *o)
{
    fold_model_desc model_desc = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default(), eager = fold_ctx_desc_default();
    data_set d = { NULL, 0, 0, NULL };
    uint64_t state = mix(o->seed);
    net n;
    model_desc.seed = o->seed;
    model_desc.flush_subnormals = 1; /* gradients fade once it knows its samples, which is slow on Intel's */
    training.training = 1;
    eager.eager = 1;
    generate(&d, o->train + DEV + o->test, &state);
    fold_model *m = fold_model_new(&model_desc);
    fold_ctx *trainer = fold_ctx_new(m, &training), *batched = fold_ctx_new(m, NULL);
    fold_ctx *single = fold_ctx_new(m, &eager);
    size_t size = (size_t)o->test * DIGITS * sizeof(float);
    float *logits = (float *)malloc(size), *single_logits = (float *)malloc(size);
    if (!trainer || !batched || !single || !logits || !single_logits) stop("out of memory");
    net_new(m, &n);
    printf("data=generated train=%d dev=%d test=%d isa=%s\n", o->train, DEV, o->test, fold_model_isa(m));

    double seconds = train(trainer, batched, &n, &d, o, &state);
    double batched_speed = speed(batched, &n, &d, o, TEST_BATCH, logits);
    double single_speed = speed(single, &n, &d, o, 1, single_logits);
    double test_accuracy = accuracy(&d, o->train + DEV, o->test, logits);
    int identical = !memcmp(logits, single_logits, size);
    uint64_t hash = 0; /* covers all answers to the test expressions, to the bit */
    for (size_t i = 0; i < size / sizeof(float); i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = mix(hash + bits);
    }
    show_samples(&d, o, logits);
    printf("test accuracy %.2f %%; %.0f expressions/s in batches of %d, %.0f one at a time: %s outputs\n",
           100 * test_accuracy, batched_speed, TEST_BATCH, single_speed, identical ? "equal" : "DIFFERENT");
    const double bytes = quantized(m, &d, o, 8, single_logits), halves = quantized(m, &d, o, 16, single_logits);
    printf("weights in bytes: %.2f %%, in bfloat16: %.2f %%\n", 100 * bytes, 100 * halves);
    printf("RESULT listops accuracy=%.4f seconds=%.1f batched_per_s=%.0f eager_per_s=%.0f bytes_accuracy=%.4f "
           "bf16_accuracy=%.4f identical=%d hash=%016llx\n", test_accuracy, seconds, batched_speed, single_speed, bytes, halves,
           identical, (unsigned long long)hash);

    free(single_logits);
    free(logits);
    fold_ctx_free(single);
    fold_ctx_free(batched);
    fold_ctx_free(trainer);
    fold_model_free(m);
    free(d.samples);
    free(d.tokens);
    return identical;
}

int main(int argc, char **argv)
{
    options o = { 90000, 10000, STEPS, 1, 300 };
    int full = 0;
    const option table[6] = {
        option_of_flag("--full", &full, "trains longer, without a limit of time"),
        option_of_seed("--seed", &o.seed, "of the data and the network"),
        option_of_whole("--steps", &o.steps, 1, 1000000000, "of training"),
        option_of_number("--seconds", &o.seconds, 0.01, 1e9, "end training, however far it is"),
        option_of_whole("--train", &o.train, 1, 900000, "expressions for training"),
        option_of_whole("--test", &o.test, 1, 90000, "expressions for the test"),
    };
    options_read(argc, argv, "Learns to compute nested lists of digits.", table, OPTION_COUNT(table));
    if (full) {
        o.steps = FULL_STEPS;
        o.seconds = HUGE_VAL;
    }
    return run(&o) ? 0 : 1;
}
