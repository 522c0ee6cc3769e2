/* weights: weights the losses of samples, and takes the mean over tokens
     cc -O2 -o weights examples/cookbook/weights.c -lm && ./weights */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { SENTENCES = 24, LONGEST = 12, WORDS = 20, TAGS = 4, WIDTH = 16, STEPS = 300 };

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param words = fold_table_new(m, "words", WORDS, WIDTH);
    fold_dense tag = fold_dense_new(m, "tag", WIDTH, TAGS, FOLD_ACT_LINEAR);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    fold_random random = fold_random_new(1, 1);
    float mean = 0;
    adam.rate = 0.03f;
    for (int step = 0; step < STEPS; step++) {
        fold_node loss[SENTENCES];
        float sum_of_weights = 0;
        fold_ctx_reset(f);
        for (int i = 0; i < SENTENCES; i++) {
            int length = 1 + i % LONGEST, word[LONGEST], label[LONGEST];
            for (int t = 0; t < length; t++) {
                word[t] = fold_random_below(&random, WORDS);
                label[t] = word[t] % TAGS;
            }
            fold_node logits = fold_dense_apply(f, &tag, fold_list_lookup(f, words, word, length));
            /* [loss] */
            fold_node each = fold_softmax_xent_each(f, logits, label, length); /* a loss for each token */
            float weight = i % 3 ? 1.0f : 0.25f;                               /* a third is less reliable */
            loss[i] = fold_scale(f, fold_list_sum(f, each), weight);
            sum_of_weights += weight * (float)length;
            /* [end] */
        }
        /* [mean] */
        fold_node total = fold_scale(f, fold_sum_n(f, loss, SENTENCES), 1 / sum_of_weights);
        /* [end] */
        if (fold_backward(f, total) || fold_adam_step(m, &adam)) return puts(fold_ctx_message(f)), 1;
        mean = fold_scalar(f, total);
    }
    printf("weighted mean a token %.3f, %d batches\n", (double)mean, fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(mean < 0.1f);
}
