/* quantize: trains a classifier, then runs it with int8 weights
     cc -O2 -o quantize examples/cookbook/quantize.c -lm && ./quantize */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { IN = 64, HIDDEN = 256, CLASSES = 4, SAMPLES = 200 };

typedef struct network { fold_model *m; fold_dense first, second; } network;

static network new_network(int inference) /* always the same parameters, under the same names */
{
    network n;
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = inference;
    n.m = fold_model_new(&desc);
    n.first = fold_dense_new(n.m, "first", IN, HIDDEN, FOLD_ACT_RELU);
    n.second = fold_dense_new(n.m, "second", HIDDEN, HIDDEN, FOLD_ACT_RELU);
    fold_weight_new(n.m, "last", HIDDEN, CLASSES);
    return n;
}
static fold_node logits(fold_ctx *f, const network *n, int sample) /* a wave; its class is the frequency */
{
    float x[IN];
    for (int i = 0; i < IN; i++) {
        x[i] = (float)((i * (1 + sample % CLASSES) * 3 + sample) % 32) / 16 - 1;
        x[i] += (float)(i * sample % 7) / 7;
    }
    const fold_param none = { 0, 0 };
    fold_node h = fold_dense_apply(f, &n->first, fold_input(f, x, IN));
    return fold_linear(f, fold_dense_apply(f, &n->second, h), fold_param_find(n->m, "last"), none);
}
static void train(const network *n)
{
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(n->m, &training);
    fold_adam adam = fold_adam_default();
    for (int step = 0; step < 100; step++) {
        fold_node loss[20];
        fold_ctx_reset(f);
        for (int i = 0; i < 20; i++) loss[i] = fold_softmax_xent(f, logits(f, n, step * 20 + i), i % CLASSES);
        if (fold_backward(f, fold_mean_n(f, loss, 20)) || fold_adam_step(n->m, &adam))
            puts(fold_ctx_message(f));
    }
    fold_ctx_free(f);
}
static int right(const network *n) /* returns how many classes are found */
{
    fold_ctx *f = fold_ctx_new(n->m, NULL);
    fold_node y[SAMPLES];
    int found = 0;
    for (int i = 0; i < SAMPLES; i++) y[i] = logits(f, n, 5000 + i);
    if (fold_run(f, y, SAMPLES)) puts(fold_ctx_message(f));
    for (int i = 0; i < SAMPLES; i++) found += fold_argmax(fold_value(f, y[i]), CLASSES) == i % CLASSES;
    fold_ctx_free(f);
    return found;
}

int main(void)
{
    network trained = new_network(0), small = new_network(1);
    train(&trained);
    /* [quantize] */
    fold_values_copy(small.m, trained.m); /* or fold_model_load */
    fold_model_size before = fold_model_measure(small.m);
    int by_float = right(&small);
    if (fold_model_quantize(small.m, NULL)) puts(fold_model_message(small.m));
    fold_model_size after = fold_model_measure(small.m);
    /* [end] */
    int by_int8 = right(&small);
    printf("float: %d of %d right, int8: %d\n", by_float, SAMPLES, by_int8);
    printf("%d KB became %d KB\n", (int)((before.values + before.packs) / 1024),
           (int)((after.values + after.packs) / 1024));
    fold_model_free(trained.m);
    fold_model_free(small.m);
    return by_int8 < by_float - 4;
}
