/* transformer: an encoder (Vaswani et al. 2017) is trained from scratch on sentences of different lengths,
   without padding.

     cc -O2 -o transformer examples/transformer.c -lm && ./transformer
     ./transformer --data DIR

   A sentence is one list of words. The sums of word and position vectors go through two pre-norm blocks of
   attention and feed-forward layers (fold_transformer), and the mean over the words predicts a class. A block
   takes three nodes, however long the sentence is: a call of a cell, attention, and a call of another cell.

   Without --data, the program generates sentences of 4 to 48 words. Three of the words are names, each
   occurring once, and the class is the order of the three, one of six. Every bag of words occurs equally
   often with each order, so a network that ignores word positions is right in one case out of six. With
   --data, the program reads the Stanford Sentiment Treebank (Socher et al. 2013) from
   DIR/sst/{train,dev,test}.txt. It uses the words of each sentence and its class, one of five, but no
   phrases.

   The weights of the epoch that is best on the dev sentences are kept and tested. Then the program measures
   three things, in batches of 64:
   - Sentences per second, without padding and padded. The padded form has the same weights, but every
     sentence is as long as the longest of its batch, and padding is computed like any other word, attention
     included. A mask, which would cost extra, is not applied, so only the time of the padded form means
     anything, not its answers.
   - The share of a training step that attention takes, forward and backward. It comes from the trace
     (fold_ctx_visit_times), which has the time of each batch and of scheduling.
   - Whether a sentence gives the same bits in a batch as alone in an eager context. Seconds are processor
     time; everything takes about thirty. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#define FOLD_FIT_IMPLEMENTATION
#include "fold_fit.h"
#include "options.h"
#include "unfused.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    UNKNOWN = 0,                /* the word that stands for all words seen less than twice, and that pads */
    NAMES = 3, FILLERS = 60, SHORTEST = 4, LONGEST = 48,                 /* the program makes up sentences of these */
    MOST_CLASSES = 6, MOST_BLOCKS = 8, TRAIN_BATCH = 32, BATCH = 64
};
static const float dropout_rate = 0.1f, learning_rate = 0.001f;
static const double warm_up = 0.05;        /* in this part of the training the rate rises, then it falls */

typedef struct options {
    const char *data; uint64_t seed; int epochs, limit, width, heads, blocks; double seconds;
} options;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "transformer: %s%s\n", what, detail);
    exit(1);
}

static double seconds_since(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }

/* ---- the network --------------------------------------------------------------------------- */

typedef struct sentence { const int *words; int length, label; } sentence;
typedef struct corpus { sentence *sentences; int count; int *words; size_t n_words; } corpus;
typedef struct dataset { corpus train, dev, test; int classes, words, longest; } dataset;

typedef struct net {
    fold_param words, positions;
    fold_transformer block[MOST_BLOCKS];
    int blocks;
    fold_norm last;
    fold_dense label;
    int *order;                          /* numbers the words of the longest sentence: 0, 1, … */
} net;

static fold_transformer new_block(fold_model *m, int number, int width, int heads)
{
    fold_transformer_desc block = fold_transformer_desc_default();
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    block.width = width;
    block.heads = heads;
    block.activation = FOLD_ACT_GELU_TANH;
    block.norm_first = 1;
    block.dropout = dropout_rate;
    return fold_transformer_new(m, name, &block);
}

static net new_net(fold_model *m, const options *o, const dataset *d)
{
    net n;
    memset(&n, 0, sizeof n);
    n.words = fold_table_new(m, "words", d->words, o->width);
    n.positions = fold_table_new(m, "positions", d->longest, o->width);
    n.blocks = o->blocks;
    for (int i = 0; i < n.blocks; i++) n.block[i] = new_block(m, i, o->width, o->heads);
    n.last = fold_norm_new(m, "last", o->width, FOLD_NORM_LAYER, 0);
    n.label = fold_dense_new(m, "label", o->width, d->classes, FOLD_ACT_LINEAR);
    n.order = (int *)malloc((size_t)d->longest * sizeof *n.order);
    if (!n.order) fail("out of memory", "");
    for (int i = 0; i < d->longest; i++) n.order[i] = i;
    return n;
}

/* Records a sentence; returns its logits. */
static fold_node record(fold_ctx *f, const net *n, const int *words, int length)
{
    const fold_node word = fold_list_lookup(f, n->words, words, length);
    fold_node x = fold_add(f, word, fold_list_lookup(f, n->positions, n->order, length));
    x = fold_dropout(f, x, dropout_rate);
    for (int i = 0; i < n->blocks; i++) x = fold_transformer_apply(f, &n->block[i], x, 0);
    return fold_dense_apply(f, &n->label, fold_list_mean(f, fold_norm_apply(f, &n->last, x)));
}

/* ---- sentences ----------------------------------------------------------------------------- */

static corpus new_corpus(size_t sentences, size_t words)
{
    corpus c = { NULL, 0, NULL, 0 };
    c.sentences = (sentence *)malloc(sentences * sizeof *c.sentences);
    c.words = (int *)malloc(words * sizeof *c.words);
    if (!c.sentences || !c.words) fail("out of memory", "");
    return c;
}

/* Closes a sentence whose words are at the end of the corpus. */
static void add_sentence(dataset *d, corpus *c, int length, int label)
{
    sentence *s = &c->sentences[c->count++];
    s->words = c->words + c->n_words;
    s->length = length;
    s->label = label;
    c->n_words += (size_t)length;
    if (length > d->longest) d->longest = length;
}

static void generate_sentence(uint64_t *random, dataset *d, corpus *c)
{
    const int length = SHORTEST + (int)data_random_below(random, LONGEST - SHORTEST + 1);
    int *words = c->words + c->n_words, place[NAMES];
    for (int i = 0; i < length; i++) words[i] = 1 + NAMES + (int)data_random_below(random, FILLERS);
    for (int name = 0; name < NAMES; name++) {
        do place[name] = (int)data_random_below(random, (size_t)length);
        while (words[place[name]] <= NAMES);
        words[place[name]] = 1 + name;
    }
    const int before_first = (place[1] < place[0]) + (place[2] < place[0]);
    add_sentence(d, c, length, 2 * before_first + (place[2] < place[1]));
}

static void generate_corpus(uint64_t *random, dataset *d, corpus *c, int count)
{
    *c = new_corpus((size_t)count, (size_t)count * LONGEST);
    for (int i = 0; i < count; i++) generate_sentence(random, d, c);
}

/* Takes the leaves of each tree, which stand in order, and the class of its root. */
static void read_corpus(const char *dir, const char *name, int limit, int add, data_vocab *v, dataset *d, corpus *c)
{
    const data_ptb desc = { { add, UNKNOWN, 1, 0 }, 5, 2, (size_t)limit };
    data_trees trees;
    data_set set;
    data_error e;
    char path[1024];
    memset(&trees, 0, sizeof trees);
    memset(&set, 0, sizeof set);
    memset(&e, 0, sizeof e);
    data_path(path, sizeof path, dir, name);
    if (data_load_trees(&set, &trees, &desc, v, path, &e)) fail(e.text, "");
    *c = new_corpus(set.count, trees.n_nodes);
    for (size_t i = 0; i < set.count; i++) {
        const int32_t *tree = data_ints(&set, 0, i, NULL);
        int length = 0;
        for (int32_t k = tree[0]; k <= tree[1]; k++) {
            const data_node *p = &trees.nodes[k];
            if (p->child < 0) c->words[c->n_words + (size_t)length++] = v->words[p->word].count > 1 ? p->word : UNKNOWN;
        }
        add_sentence(d, c, length, data_ints(&set, 1, i, NULL)[0]);
    }
    data_trees_free(&trees);
    data_set_free(&set);
}

/* Fills d and returns where it came from. A folder asked for must be there; FOLD_DATA may lack this one. */
static const char *load_data(const options *o, dataset *d)
{
    const char *dir = o->data ? o->data : getenv("FOLD_DATA");
    char path[1024];
    uint64_t random = o->seed;
    memset(d, 0, sizeof *d);
    if (o->data || (dir && *dir && data_path(path, sizeof path, dir, "sst/train.txt"))) {
        data_vocab v;
        memset(&v, 0, sizeof v);
        data_vocab_add(&v, " ", 1); /* UNKNOWN; no word of a file holds a space */
        read_corpus(dir, "sst/train.txt", o->limit, 1, &v, d, &d->train);
        read_corpus(dir, "sst/dev.txt", 0, 0, &v, d, &d->dev);
        read_corpus(dir, "sst/test.txt", 0, 0, &v, d, &d->test);
        d->classes = 5;
        d->words = (int)v.n_words;
        data_vocab_free(&v);
        return "sst";
    }
    generate_corpus(&random, d, &d->train, o->limit ? o->limit : 4000);
    generate_corpus(&random, d, &d->dev, 300);
    generate_corpus(&random, d, &d->test, 600);
    d->classes = 6;
    d->words = 1 + NAMES + FILLERS;
    return "generated";
}

static void free_corpus(corpus *c)
{
    free(c->sentences);
    free(c->words);
}

/* ---- training and testing ------------------------------------------------------------------ */

typedef struct trainer {
    const options *o; const dataset *data;
    fold_model *model; net n;
    fold_ctx *training, *inference, *eager;
    fold_adam adam;
    float *logits, *alone; int *padded;   /* hold all test or dev sentences; the words of a padded one */
    time_left left;
} trainer;

/* Tells the contexts nanoseconds of processor time. */
static uint64_t nanoseconds(void *user)
{
    (void)user;
    return (uint64_t)clock() * (uint64_t)(1000000000 / CLOCKS_PER_SEC);
}

static int smaller(int a, int b) { return a < b ? a : b; }

/* Pads the words with UNKNOWN up to a length. */
static const int *pad(trainer *t, const sentence *s, int length)
{
    for (int i = 0; i < length; i++) t->padded[i] = i < s->length ? s->words[i] : UNKNOWN;
    return t->padded;
}

/* Computes the logits of all sentences of a corpus, `batch` of them in each run. */
static void predict(trainer *t, fold_ctx *f, const corpus *c, int batch, int padded, float *logits)
{
    fold_node roots[BATCH];
    for (int at = 0; at < c->count; at += batch) {
        const int count = smaller(batch, c->count - at);
        int longest = 0;
        for (int i = 0; i < count; i++)
            if (c->sentences[at + i].length > longest) longest = c->sentences[at + i].length;
        fold_ctx_reset(f);
        for (int i = 0; i < count; i++) {
            const sentence *s = &c->sentences[at + i];
            roots[i] = padded ? record(f, &t->n, pad(t, s, longest), longest) : record(f, &t->n, s->words, s->length);
        }
        if (fold_run(f, roots, count) || fold_read(f, roots, count, logits + at * t->data->classes))
            fail(fold_ctx_message(f), "");
    }
}

static double evaluate(trainer *t, const corpus *c)
{
    const int classes = t->data->classes;
    int right = 0;
    predict(t, t->inference, c, BATCH, 0, t->logits);
    for (int i = 0; i < c->count; i++)
        right += fold_argmax(t->logits + i * classes, classes) == c->sentences[i].label;
    return 100.0 * right / c->count;
}

static fold_node loss_of(fold_ctx *f, int sample, void *user)
{
    const trainer *t = (const trainer *)user;
    const sentence *s = &t->data->train.sentences[sample];
    return fold_softmax_xent(f, record(f, &t->n, s->words, s->length), s->label);
}

static double dev_accuracy(fold_model *m, void *user)
{
    trainer *t = (trainer *)user;
    (void)m;
    return evaluate(t, &t->data->dev);
}

/* Sets the rate of the next step: it rises, then falls to zero. */
static int progress(const fold_fit_report *report, void *user)
{
    trainer *t = (trainer *)user;
    const double epochs = report->epoch + (double)report->trained / t->data->train.count;
    const double done = epochs / t->o->epochs;
    t->adam.rate = learning_rate * (float)(done < warm_up ? done / warm_up : (1 - done) / (1 - warm_up));
    time_left_show(&t->left, done, 1, "epoch %d: %d of %d sentences", report->epoch + 1, report->trained, t->data->train.count);
    if (report->epoch_end) {
        time_left_end(&t->left);
        printf("epoch %d: loss %.3f, %.2f %% of the dev sentences\n", report->epoch + 1, report->loss, report->metric);
    }
    return 0;
}

static fold_fit_report train(trainer *t)
{
    fold_fit_desc fit = fold_fit_desc_default();
    fold_fit_report report;
    t->adam = fold_adam_default();
    t->adam.rate = learning_rate / 100;
    fit.ctx = t->training;
    fit.samples = t->data->train.count;
    fit.loss = loss_of;
    fit.metric = dev_accuracy;
    fit.progress = progress;
    fit.user = t;
    fit.batch = TRAIN_BATCH;
    fit.epochs = t->o->epochs;
    fit.seed = t->o->seed;
    fit.adam = &t->adam;
    fit.clip = 1;
    fit.keep_best = 1;
    if (fold_fit(&fit, &report)) fail(fold_ctx_message(t->training), "");
    return report;
}

/* ---- measuring ----------------------------------------------------------------------------- */

typedef struct share { double all, attention; } share;

/* Adds the time of planning, or of a batch. */
static int add_time(const fold_seen *seen, void *user)
{
    share *s = (share *)user;
    const double nanoseconds = (double)(seen->end_ns - seen->start_ns);
    s->all += nanoseconds;
    if (seen->what == FOLD_SEEN_TIME && !strncmp(seen->name, "list_attention", 14)) s->attention += nanoseconds;
    return 0;
}

/* Returns the part that attention took of the traced time of the last run. */
static double attention_part(const fold_ctx *f)
{
    share s = { 0, 0 };
    if (fold_ctx_visit_times(f, add_time, &s)) fail("no trace", "");
    return s.all > 0 ? s.attention / s.all : 0;
}

/* Measures attention's share of the time of training steps, in per cent. The first step only warms up. */
static double attention_share(trainer *t)
{
    const corpus *c = &t->data->train;
    fold_node losses[BATCH];
    fold_ctx *f = t->training;
    double sum = 0;
    int runs = 0;
    for (int at = 0; at < c->count && runs < 11; at += BATCH) {
        const int count = smaller(BATCH, c->count - at);
        fold_ctx_reset(f);
        for (int i = 0; i < count; i++) losses[i] = loss_of(f, at + i, t);
        if (fold_backward(f, fold_mean_n(f, losses, count))) fail(fold_ctx_message(f), "");
        if (runs++) sum += attention_part(f);
    }
    fold_grads_clear(t->model);
    return runs > 1 ? 100 * sum / (runs - 1) : 100 * attention_part(f);
}

/* Measures test sentences a second, as they are and padded in turn, for so many seconds each. */
static void speeds(trainer *t, double *plain, double *padded)
{
    const corpus *c = &t->data->test;
    double seconds[2] = { 0, 0 };
    int passes = 0;
    do {
        for (int form = 0; form < 2; form++) {
            const clock_t start = clock();
            predict(t, t->inference, c, BATCH, form, t->logits);
            seconds[form] += seconds_since(start);
        }
        passes++;
    } while (seconds[0] < t->o->seconds);
    *plain = seconds[0] > 0 ? passes * (double)c->count / seconds[0] : 0;
    *padded = seconds[1] > 0 ? passes * (double)c->count / seconds[1] : 0;
}

/* Returns how many rows padded batches of the test sentences compute, divided by the words there are. */
static double padded_words(const corpus *c)
{
    double rows = 0;
    for (int at = 0; at < c->count; at += BATCH) {
        const int count = smaller(BATCH, c->count - at);
        int longest = 0;
        for (int i = 0; i < count; i++)
            if (c->sentences[at + i].length > longest) longest = c->sentences[at + i].length;
        rows += (double)count * longest;
    }
    return rows / (double)c->n_words;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void start(trainer *t, const options *o, const dataset *d)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default(), eager = fold_ctx_desc_default();
    const int most = d->dev.count > d->test.count ? d->dev.count : d->test.count;
    memset(t, 0, sizeof *t);
    model.seed = o->seed;
    training.training = 1;
    training.clock = nanoseconds;
    training.trace_bytes = 1 << 20;
    eager.eager = 1;
    t->o = o;
    t->data = d;
    t->model = fold_model_new(&model);
    if (!t->model) fail("out of memory", "");
    t->n = new_net(t->model, o, d);
    if (fold_model_status(t->model)) fail(fold_model_message(t->model), "");
    t->training = fold_ctx_new(t->model, &training);
    t->inference = fold_ctx_new(t->model, NULL);
    t->eager = fold_ctx_new(t->model, &eager);
    t->logits = (float *)malloc((size_t)most * MOST_CLASSES * sizeof *t->logits);
    t->alone = (float *)malloc((size_t)most * MOST_CLASSES * sizeof *t->alone);
    t->padded = (int *)malloc((size_t)d->longest * sizeof *t->padded);
    if (!t->training || !t->inference || !t->eager || !t->logits || !t->alone || !t->padded) fail("out of memory", "");
}

static void finish(trainer *t)
{
    free(t->logits);
    free(t->alone);
    free(t->padded);
    free(t->n.order);
    fold_ctx_free(t->eager);
    fold_ctx_free(t->inference);
    fold_ctx_free(t->training);
    fold_model_free(t->model);
}

/* Returns the accuracy on the test sentences by the same weights in 8 or 16 bits, those of tables too, in per cent. */
static double quantized(const trainer *t, int bits)
{
    const fold_quantize_desc all = { 0, 1, bits };
    fold_model_desc desc = fold_model_desc_default();
    trainer small = *t;
    desc.inference = 1;
    small.model = fold_model_new(&desc);
    small.n = new_net(small.model, t->o, t->data);
    fold_values_copy(small.model, t->model);
    if (fold_model_quantize(small.model, &all)) fail(fold_model_message(small.model), "");
    small.inference = fold_ctx_new(small.model, NULL);
    if (!small.inference) fail("out of memory", "");
    const double accuracy = evaluate(&small, &t->data->test);
    fold_ctx_free(small.inference);
    fold_model_free(small.model);
    free(small.n.order);
    return accuracy;
}

/* Trains, tests and measures; returns whether sentences alone gave the same bits. */
static int run(trainer *t, const char *data_name)
{
    const corpus *c = &t->data->test;
    const fold_fit_report report = train(t);
    const double accuracy = evaluate(t, c), share = attention_share(t);
    double plain, padded;
    predict(t, t->eager, c, 1, 0, t->alone);
    const size_t size = (size_t)c->count * (size_t)t->data->classes * sizeof *t->logits;
    const int identical = !memcmp(t->logits, t->alone, size);
    const double bytes = quantized(t, 8), halves = quantized(t, 16);
    speeds(t, &plain, &padded);
    printf("%.2f %% of the test sentences; alone: %s bits\n", accuracy, identical ? "the same" : "OTHER");
    printf("weights in bytes: %.2f %%, in bfloat16: %.2f %%\n", bytes, halves);
    printf("%.0f sentences/s, padded %.0f: it computes %.2f times as many words\n", plain, padded, padded_words(c));
    printf("training %.0f sentences/s, of which attention takes %.1f %% of the time\n", report.per_second, share);
    printf("RESULT transformer accuracy=%.2f infer_per_s=%.0f train_per_s=%.0f padded_infer_per_s=%.0f "
           "attention_share=%.1f bytes_accuracy=%.2f bf16_accuracy=%.2f identical=%d data=%s\n", accuracy, plain, report.per_second,
           padded, share, bytes, halves, identical, data_name);
    return identical;
}

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 12, 0, 64, 4, 2, 2 };
    const option table[8] = {
        option_of_text("--data", &o.data, "DIR", "reads DIR/sst/{train,dev,test}.txt; else $FOLD_DATA, else sentences are made up"),
        option_of_seed("--seed", &o.seed, "of weights, order, dropout and sentences"),
        option_of_whole("--epochs", &o.epochs, 1, 1000, "of training"),
        option_of_whole("--limit", &o.limit, 1, 1000000, "uses so many training sentences only"),
        option_of_whole("--width", &o.width, 1, 4096, "of a word's vector; feed-forward layers are 4 times as wide"),
        option_of_whole("--heads", &o.heads, 1, 4096, "of attention, a divisor of the width"),
        option_of_whole("--blocks", &o.blocks, 1, MOST_BLOCKS, "of attention and feed-forward layer"),
        option_of_number("--seconds", &o.seconds, 0, 1e6, "to time the test sentences for"),
    };
    options_read(argc, argv, "Trains a transformer encoder on sentences of uneven lengths, without padding.", table,
                 OPTION_COUNT(table));
    if (o.width % o.heads) fail("--heads must divide --width", "");
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    dataset data;
    trainer t;
    const char *data_name = load_data(&o, &data);
    printf("%d training, %d dev and %d test sentences, %d words\n", data.train.count, data.dev.count, data.test.count,
           data.words);
    start(&t, &o, &data);
    const int identical = run(&t, data_name);
    finish(&t);
    free_corpus(&data.train);
    free_corpus(&data.dev);
    free_corpus(&data.test);
    return !identical;
}
