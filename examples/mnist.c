/* mnist: a plain 784-200-100-10 network classifies handwritten digits. It is written for one image and runs
   in batches.

     cc -O2 -o mnist examples/mnist.c -lm
     ./mnist --data DIR

   The program follows sections 2.1 and 2.2 of TorchFold's notebook: first inference, then training with Adam
   and cross entropy on 5,000 images. It runs each of them twice: in batches of 32, and one image at a time.
   Only the context differs, batched or eager, and the results must be bit-identical. Then the program trains
   the network fully, with a learning rate that falls from 0.001 to zero along half a cosine. After 12 epochs,
   which take 11 seconds, the network classifies 98.4 % of the test images correctly.

   Images and labels are read from DIR/mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte (LeCun et al. 1998).
   Without --data, the program draws digits from a 5 x 7 font, randomly moved, scaled, slanted and blurred,
   with noise. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#include "options.h"
#include "unfused.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, BATCH = 32, TEST_BATCH = 250, SHOWN = 1000, NOTEBOOK = 5000 };

typedef struct options { const char *data; uint64_t seed; int epochs, limit; double seconds; } options;
typedef struct sets { data_set train, test; } sets; /* fields: 0 images, 1 labels */

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "mnist: %s%s\n", what, detail);
    exit(1);
}

static double seconds_since(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- the network, for one image ------------------------------------------------------------ */

static fold_node classify(fold_ctx *f, const fold_mlp *net, const float *image)
{
    return fold_mlp_apply(f, net, fold_input_ref(f, image, fold_shape1(PIXELS)));
}

/* ---- data ---------------------------------------------------------------------------------- */

/* The rows of a digit's shape go from the top, and bit 4 is the leftmost of five columns. */
static const unsigned char font[CLASSES][7] = {
    { 14, 17, 19, 21, 25, 17, 14 }, { 4, 12, 4, 4, 4, 4, 14 },    { 14, 17, 1, 2, 4, 8, 31 },
    { 31, 2, 4, 2, 1, 17, 14 },     { 2, 6, 10, 18, 31, 2, 2 },   { 31, 16, 30, 1, 1, 17, 14 },
    { 6, 8, 16, 30, 17, 17, 14 },   { 31, 1, 2, 4, 8, 8, 8 },     { 14, 17, 17, 14, 17, 17, 14 },
    { 14, 17, 17, 15, 1, 2, 12 },
};

static float between(uint64_t *r, float low, float high) { return low + (high - low) * data_random_unit(r); }

static void generate_image(uint64_t *random, int digit, float *image)
{
    const float wide = between(random, 2.2f, 4.2f), high = between(random, 2.2f, 3.6f);
    const float slant = between(random, -0.4f, 0.4f), ink = between(random, 0.4f, 1);
    const float x0 = between(random, 11, 17), y0 = between(random, 11, 17);
    for (int i = 0; i < PIXELS; i++) {
        const float y = ((float)(i / SIDE) - y0) / high, x = ((float)(i % SIDE) - x0) / wide + slant * y;
        const int row = (int)floorf(y + 3.5f), column = (int)floorf(x + 2.5f);
        const int inside = row >= 0 && row < 7 && column >= 0 && column < 5;
        const int on = inside && (font[digit][row] >> (4 - column) & 1);
        image[i] = (on ? ink : 0) + between(random, 0, 0.4f);
    }
}

static void generate(data_set *s, size_t count, uint64_t *random, data_error *e)
{
    float *images = (float *)malloc(count * PIXELS * sizeof *images);
    int32_t *labels = (int32_t *)malloc(count * sizeof *labels);
    data_field image = { "image", 0, DATA_FLOAT, 2, { SIDE, SIDE, 0, 0 }, images, NULL, 1 };
    data_field label = { "label", 1, DATA_INT, 1, { 1, 0, 0, 0 }, labels, NULL, 1 };
    if (!images || !labels) fail("out of memory", "");
    for (size_t i = 0; i < count; i++) {
        labels[i] = (int32_t)data_random_below(random, CLASSES);
        generate_image(random, (int)labels[i], images + i * PIXELS);
    }
    data_add(s, &image, count, e);
    data_add(s, &label, count, e);
}

static void load(data_set *s, const char *dir, const char *images, const char *labels, data_error *e)
{
    char path[1024];
    size_t length = 0;
    data_path(path, sizeof path, dir, images);
    data_load_idx(s, "image", 0, path, e);
    data_path(path, sizeof path, dir, labels);
    data_load_idx(s, "label", 1, path, e);
    if (e->text[0]) return;
    const data_field *f = s->field;
    if (f[0].rank != 2 || f[0].dim[0] != SIDE || f[0].dim[1] != SIDE) fail("not 28 x 28 pixels in ", images);
    for (size_t i = 0; i < s->count; i++)
        if (data_ints(s, 1, i, &length)[0] >= CLASSES || length != 1) fail("no labels of 0 to 9 in ", labels);
}

/* Fills d and returns where it came from. A folder asked for must be there; FOLD_DATA may lack this one. */
static const char *load_data(const options *o, sets *d)
{
    const char *dir = o->data ? o->data : getenv("FOLD_DATA"), *from = "mnist";
    char path[1024];
    data_error e;
    uint64_t random = o->seed;
    memset(&e, 0, sizeof e);
    if (dir && *dir && data_path(path, sizeof path, dir, "mnist/train-images-idx3-ubyte")) {
        load(&d->train, dir, "mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte", &e);
        load(&d->test, dir, "mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte", &e);
    } else {
        if (o->data) fail("no mnist/train-images-idx3-ubyte in ", o->data);
        from = "generated";
        generate(&d->train, 10000, &random, &e);
        generate(&d->test, 2000, &random, &e);
    }
    if (e.text[0]) fail(e.text, "");
    if (o->limit && (size_t)o->limit < d->train.count) d->train.count = (size_t)o->limit;
    return from;
}

/* ---- forward alone ------------------------------------------------------------------------- */

/* Computes the logits of the first n images, `batch` of them together. */
static void predict(fold_ctx *f, const fold_mlp *net, const data_set *s, size_t n, size_t batch, float *logits)
{
    fold_node out[TEST_BATCH];
    for (size_t at = 0; at < n; at += batch) {
        const size_t size = smaller(n - at, batch);
        fold_ctx_reset(f);
        for (size_t i = 0; i < size; i++) out[i] = classify(f, net, data_floats(s, 0, at + i));
        if (fold_run(f, out, (int)size) || fold_read(f, out, (int)size, logits + at * CLASSES)) fail(fold_ctx_message(f), "");
    }
}

static double accuracy(fold_ctx *f, const fold_mlp *net, const data_set *s)
{
    size_t right = 0;
    float *logits = (float *)malloc(s->count * CLASSES * sizeof *logits);
    if (!logits) fail("out of memory", "");
    predict(f, net, s, s->count, TEST_BATCH, logits);
    for (size_t i = 0; i < s->count; i++) right += fold_argmax(logits + i * CLASSES, CLASSES) == data_ints(s, 1, i, NULL)[0];
    free(logits);
    return 100 * (double)right / (double)s->count;
}

/* Measures images per second, over at least `seconds`. */
static double forward_speed(fold_ctx *f, const fold_mlp *net, const data_set *s, size_t n, size_t batch, double seconds,
                            float *logits)
{
    const clock_t start = clock();
    size_t done = 0;
    double elapsed;
    do {
        predict(f, net, s, n, batch, logits);
        done += n;
        elapsed = seconds_since(start);
    } while (elapsed < seconds);
    return (double)done / elapsed;
}

/* ---- training ------------------------------------------------------------------------------ */

/* Holds a network, and everything that trains it. */
typedef struct learner { fold_model *model; fold_mlp net; fold_ctx *f; fold_adam adam; data_iter it; } learner;

static const int sizes[] = { PIXELS, 200, 100, CLASSES };

static void learner_new(learner *l, const options *o, const data_set *s, size_t batch, int eager)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default();
    const data_iter_desc batches = { batch, 1, o->seed };
    data_error e;
    memset(&e, 0, sizeof e);
    model.seed = o->seed;
    training.training = 1;
    training.eager = eager;
    l->adam = fold_adam_default();
    l->model = fold_model_new(&model);
    l->net = fold_mlp_new(l->model, "digit", sizes, 3, FOLD_ACT_RELU);
    l->f = fold_ctx_new(l->model, &training);
    if (!l->f) fail("out of memory", "");
    if (fold_model_status(l->model)) fail(fold_model_message(l->model), "");
    if (data_iter_new(&l->it, s, &batches, &e)) fail(e.text, "");
}

static void learner_free(learner *l)
{
    data_iter_free(&l->it);
    fold_ctx_free(l->f);
    fold_model_free(l->model);
}

/* Learns from the next batch, which there is always. Returns how many of it were classified rightly before. */
static size_t learn(learner *l)
{
    const data_set *s = l->it.set;
    fold_ctx *f = l->f;
    fold_node logits[BATCH], losses[BATCH];
    size_t right = 0;
    if (!data_next(&l->it)) { data_reset(&l->it); data_next(&l->it); }
    fold_ctx_reset(f);
    for (size_t i = 0; i < l->it.size; i++) {
        const size_t example = l->it.index[i];
        logits[i] = classify(f, &l->net, data_floats(s, 0, example));
        losses[i] = fold_softmax_xent(f, logits[i], (int)data_ints(s, 1, example, NULL)[0]);
        fold_keep(f, logits[i]);
    }
    if (fold_backward(f, fold_mean_n(f, losses, (int)l->it.size))) fail(fold_ctx_message(f), "");
    for (size_t i = 0; i < l->it.size; i++)
        right += fold_argmax(fold_value(f, logits[i]), CLASSES) == data_ints(s, 1, l->it.index[i], NULL)[0];
    if (fold_adam_step(l->model, &l->adam)) fail(fold_model_message(l->model), "");
    return right;
}

/* Does the notebook's 2.2: trains on 5,000 images, or all of fewer, from the beginning and shows the accuracy on every 1,000. Then it
   trains for as long as it takes to tell its speed, in images per second. *weights gets those after them. */
static double notebook(const options *o, const data_set *s, size_t batch, int eager, const char *name, float **weights)
{
    learner l;
    clock_t start;
    const size_t images = smaller(s->count, NOTEBOOK);
    size_t seen = 0, counted = 0, right = 0, bytes;
    int n_weights;
    double elapsed;
    learner_new(&l, o, s, batch, eager);
    printf("%-34s", name);
    for (start = clock(); seen < images;) {
        right += learn(&l);
        seen += l.it.size;
        if (seen / SHOWN == (seen - l.it.size) / SHOWN) continue;
        printf(" %5.1f", 100 * (double)right / (double)(seen - counted));
        counted = seen;
        right = 0;
    }
    const float *values = fold_model_values(l.model, &n_weights);
    bytes = (size_t)n_weights * sizeof *values;
    *weights = (float *)malloc(bytes);
    if (!*weights) fail("out of memory", "");
    memcpy(*weights, values, bytes);
    for (; elapsed = seconds_since(start), elapsed < o->seconds; seen += l.it.size) learn(&l);
    printf(" %%  %9.0f images/s\n", (double)seen / elapsed);
    learner_free(&l);
    return (double)seen / elapsed;
}

static void train_epoch(learner *l, int epoch, int epochs, time_left *left)
{
    const size_t steps = (l->it.set->count + BATCH - 1) / BATCH;
    size_t right = 0, seen = 0;
    for (size_t step = 0; step < steps; step++) {
        const double progress = ((double)epoch + (double)step / (double)steps) / (double)epochs;
        l->adam.rate = 0.0005f * (float)(1 + cos(3.14159265358979 * progress));
        right += learn(l);
        seen += l->it.size;
        time_left_show(left, progress, 1, "epoch %d: %zu of %zu images, %.2f %% right", epoch + 1, seen, l->it.set->count,
                       100 * (double)right / (double)seen);
    }
    time_left_end(left);
}

/* ---- all of it ----------------------------------------------------------------------------- */

typedef struct outcome { double forward, eager_forward, train, eager_train; int identical; } outcome;

/* Does 2.1 and 2.2 of the notebook. */
static void compare(const options *o, const sets *d, outcome *r)
{
    const size_t n = smaller(d->train.count, NOTEBOOK), size = n * CLASSES;
    fold_ctx_desc desc = fold_ctx_desc_default();
    learner l;
    int n_weights;
    float *logits[2], *weights[3];
    learner_new(&l, o, &d->train, BATCH, 0);
    fold_ctx *batched = fold_ctx_new(l.model, NULL);
    desc.eager = 1;
    fold_ctx *eager = fold_ctx_new(l.model, &desc);
    for (int i = 0; i < 2; i++) logits[i] = (float *)malloc(size * sizeof(float));
    if (!batched || !eager || !logits[0] || !logits[1]) fail("out of memory", "");
    r->forward = forward_speed(batched, &l.net, &d->train, n, BATCH, o->seconds, logits[0]);
    r->eager_forward = forward_speed(eager, &l.net, &d->train, n, 1, o->seconds, logits[1]);
    r->identical = !memcmp(logits[0], logits[1], size * sizeof(float));
    printf("2.1 forward: %.0f images/s in batches of %d, %.0f one at a time (%.1f times)\n", r->forward, BATCH,
           r->eager_forward, r->forward / r->eager_forward);
    printf("2.2 training: %% right of every %d images before learning from them\n", SHOWN);
    r->train = notebook(o, &d->train, BATCH, 0, "steps of 32, batched", &weights[0]);
    r->eager_train = notebook(o, &d->train, BATCH, 1, "steps of 32, one at a time (eager)", &weights[1]);
    notebook(o, &d->train, 1, 1, "a step for every image (eager)", &weights[2]);
    fold_model_values(l.model, &n_weights);
    r->identical &= !memcmp(weights[0], weights[1], (size_t)n_weights * sizeof(float));
    for (int i = 0; i < 2; i++) free(logits[i]);
    for (int i = 0; i < 3; i++) free(weights[i]);
    fold_ctx_free(eager);
    fold_ctx_free(batched);
    learner_free(&l);
}

/* Tells the accuracy on the test images by the same weights in bytes. */
static double accuracy_in_bytes(const learner *l, const data_set *test)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    fold_model *small = fold_model_new(&desc);
    const fold_mlp net = fold_mlp_new(small, "digit", sizes, 3, FOLD_ACT_RELU);
    fold_values_copy(small, l->model);
    if (fold_model_quantize(small, NULL)) fail(fold_model_message(small), "");
    fold_ctx *f = fold_ctx_new(small, NULL);
    if (!f) fail("out of memory", "");
    const double right = accuracy(f, &net, test);
    fold_ctx_free(f);
    fold_model_free(small);
    return right;
}

/* Trains and tests; returns the accuracy on the test images, in per cent. */
static double train(const options *o, const sets *d, double *in_bytes)
{
    learner l;
    const clock_t start = clock();
    double test;
    learner_new(&l, o, &d->train, BATCH, 0);
    fold_ctx *f = fold_ctx_new(l.model, NULL);
    if (!f) fail("out of memory", "");
    time_left left = TIME_LEFT;
    for (int epoch = 0; epoch < o->epochs; epoch++) {
        train_epoch(&l, epoch, o->epochs, &left);
        printf("epoch %d: %.2f %% of the test images right\n", epoch + 1, accuracy(f, &l.net, &d->test));
    }
    test = accuracy(f, &l.net, &d->test);
    printf("%d epochs of %zu images in %.1f s: %.2f %% of %zu test images right\n", o->epochs, d->train.count,
           seconds_since(start), test, d->test.count);
    *in_bytes = accuracy_in_bytes(&l, &d->test);
    printf("weights in bytes: %.2f %%\n", *in_bytes);
    fold_ctx_free(f);
    learner_free(&l);
    return test;
}

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 12, 0, 1 };
    const option table[5] = {
        option_of_text("--data", &o.data, "DIR", "reads DIR/mnist/*-ubyte; else $FOLD_DATA, else digits are made up"),
        option_of_seed("--seed", &o.seed, "of weights, order and digits"),
        option_of_whole("--epochs", &o.epochs, 1, 1000, "of the training in earnest"),
        option_of_whole("--limit", &o.limit, 1, 1000000000, "uses the first N training images only"),
        option_of_number("--seconds", &o.seconds, 0, 1000, "of the processor, to measure each speed for at least"),
    };
    options_read(argc, argv, "Trains a network of three layers on images of digits, in batches and one at a time.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    sets d;
    outcome r;
    memset(&d, 0, sizeof d);
    const char *data_name = load_data(&o, &d);
    printf("data=%s: %zu training and %zu test images\n", data_name, d.train.count, d.test.count);
    compare(&o, &d, &r);
    double in_bytes;
    const double test = train(&o, &d, &in_bytes);
    printf("RESULT mnist accuracy=%.2f forward_per_s=%.0f eager_forward_per_s=%.0f train_per_s=%.0f", test, r.forward,
           r.eager_forward, r.train);
    printf(" eager_train_per_s=%.0f identical=%d bytes_accuracy=%.2f data=%s seed=%llu epochs=%d\n", r.eager_train, r.identical,
           in_bytes, data_name, (unsigned long long)o.seed, o.epochs);
    data_set_free(&d.train);
    data_set_free(&d.test);
    return !r.identical;
}
