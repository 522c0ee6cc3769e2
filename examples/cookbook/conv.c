/* conv: finds a pattern in sequences of any length by a convolution
     cc -O2 -o conv examples/cookbook/conv.c -lm && ./conv */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { WIDTH = 8, CHANNELS = 16, KERNEL = 3, LONGEST = 20, BATCH = 32 };

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param letters = fold_table_new(m, "letters", 4, WIDTH);
    fold_conv conv = fold_conv_new(m, "conv", fold_shape3(KERNEL, WIDTH, CHANNELS), NULL, FOLD_ACT_RELU);
    fold_dense classify = fold_dense_new(m, "classify", CHANNELS, 2, FOLD_ACT_LINEAR);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.01f;
    fold_random random = fold_random_new(1, 1);
    float mean = 0;
    for (int step = 0; step < 400; step++) {
        fold_node loss[BATCH];
        fold_ctx_reset(f);
        for (int i = 0; i < BATCH; i++) {
            int length = KERNEL + i % (LONGEST - KERNEL), letter[LONGEST], found = 0;
            for (int t = 0; t < length; t++) {
                letter[t] = fold_random_below(&random, 4);
                found |= t >= 2 && letter[t - 2] == 0 && letter[t] == 1; /* the pattern: 0 ? 1 */
            }
            /* [sequence] */
            fold_node y = fold_conv_apply(f, &conv, fold_list_lookup(f, letters, letter, length));
            loss[i] = fold_softmax_xent(f, fold_dense_apply(f, &classify, fold_list_max(f, y)), found);
            /* [end] */
        }
        fold_node total = fold_mean_n(f, loss, BATCH);
        if (fold_backward(f, total) || fold_adam_step(m, &adam)) {
            puts(fold_ctx_message(f));
            return 1;
        }
        mean = fold_scalar(f, total);
    }
    printf("loss %.4f, %d batches\n", (double)mean, fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(mean < 0.1f);
}
