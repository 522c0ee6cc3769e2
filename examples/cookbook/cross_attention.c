/* cross_attention: learns to reverse a string of digits, with cross-attention from a decoder to an encoder
     cc -O2 -o cross_attention examples/cookbook/cross_attention.c -lm && ./cross_attention */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { DIGITS = 10, START = DIGITS, WIDTH = 32, HEADS = 4, LONGEST = 8, BATCH = 16, STEPS = 500 };
typedef struct net {
    fold_param words, places;
    fold_transformer encoder;
    fold_attention itself, other; /* of the decoder: to what it has written so far, and to what it reads */
    fold_norm norm[3];
    fold_dense inner, outer, next;
} net;

static fold_node embed(fold_ctx *f, const net *n, const int *words, int count)
{
    fold_node said = fold_list_lookup(f, n->words, words, count);
    return fold_add(f, said, fold_list_positions(f, n->places, 0, count));
}

/* [decode] */
/* Each row of x attends to the rows up to itself, then to all of `read`, a list of any length. */
static fold_node decode(fold_ctx *f, const net *n, fold_node x, fold_node read)
{
    x = fold_norm_apply(f, &n->norm[0], fold_add(f, x, fold_attention_apply(f, &n->itself, x, x, x, 1)));
    x = fold_norm_apply(f, &n->norm[1], fold_add(f, x, fold_attention_apply(f, &n->other, x, read, read, 0)));
    fold_node y = fold_dense_apply(f, &n->outer, fold_dense_apply(f, &n->inner, x));
    return fold_norm_apply(f, &n->norm[2], fold_add(f, x, y));
}
/* [end] */

static net new_net(fold_model *m)
{
    fold_transformer_desc desc = fold_transformer_desc_default();
    net n;
    desc.width = WIDTH;
    desc.heads = HEADS;
    n.words = fold_table_new(m, "words", DIGITS + 1, WIDTH);
    n.places = fold_table_new(m, "places", LONGEST + 1, WIDTH);
    n.encoder = fold_transformer_new(m, "encoder", &desc);
    n.itself = fold_attention_new(m, "itself", WIDTH, HEADS);
    n.other = fold_attention_new(m, "other", WIDTH, HEADS);
    n.inner = fold_dense_new(m, "inner", WIDTH, 4 * WIDTH, FOLD_ACT_RELU);
    n.outer = fold_dense_new(m, "outer", 4 * WIDTH, WIDTH, FOLD_ACT_LINEAR);
    n.next = fold_dense_new(m, "next", WIDTH, DIGITS, FOLD_ACT_LINEAR);
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "norm%d", i);
        n.norm[i] = fold_norm_new(m, name, WIDTH, FOLD_NORM_LAYER, 0);
    }
    return n;
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    net n = new_net(m);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    fold_random random = fold_random_new(1, 1);
    float mean = 0;
    for (int step = 0; step < STEPS; step++) {
        fold_node loss[BATCH];
        fold_ctx_reset(f);
        for (int i = 0; i < BATCH; i++) {
            int length = 2 + i % (LONGEST - 1), digits[LONGEST], target[LONGEST], before[LONGEST] = { START };
            for (int t = 0; t < length; t++)
                digits[t] = target[length - 1 - t] = fold_random_below(&random, DIGITS);
            for (int t = 1; t < length; t++) before[t] = target[t - 1];
            fold_node read = fold_transformer_apply(f, &n.encoder, embed(f, &n, digits, length), 0);
            fold_node written = decode(f, &n, embed(f, &n, before, length), read);
            fold_node logits = fold_dense_apply(f, &n.next, written);
            loss[i] = fold_list_mean(f, fold_softmax_xent_each(f, logits, target, length));
        }
        fold_node total = fold_mean_n(f, loss, BATCH);
        adam.rate = 0.003f;
        if (fold_backward(f, total) || fold_adam_step(m, &adam)) return puts(fold_ctx_message(f)), 1;
        mean = fold_scalar(f, total);
    }
    fold_stats stats = fold_ctx_stats(f);
    printf("loss %.2f, %d calls in %d batches\n", (double)mean, stats.run_nodes, stats.batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(mean < 0.5f);
}
