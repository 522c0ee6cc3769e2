/* step3_train: trains ants to go to the nearest crumb, and saves the weights
     cc -O2 -o step3_train examples/cookbook/step3_train.c -lm && ./step3_train     writes ants.safetensors */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include "ants.h"

enum { MEADOWS = 5, STEPS = 2000 };

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    brain b = brain_new(m);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.005f;
    for (int step = 0; step <= STEPS; step++) {
        /* [learn] */
        fold_node loss[MEADOWS * ANTS];
        fold_ctx_reset(f); /* forget the recording of the previous step */
        for (int i = 0; i < MEADOWS * ANTS; i++) {
            meadow w = meadow_new(step * MEADOWS + i / ANTS);
            float crumb[MOST][2];
            int n = look(&w, i % ANTS, crumb);
            loss[i] = fold_softmax_xent(f, think(f, &b, crumb, n), best_way(crumb, n));
        }
        fold_node mean = fold_mean_n(f, loss, MEADOWS * ANTS);
        if (fold_backward(f, mean) || fold_adam_step(m, &adam)) return puts(fold_ctx_message(f)), 1;
        /* [end] */
        if (step % 500 == 0)
            printf("step %4d  loss %.3f  %d calls in %d batches\n", step, (double)fold_scalar(f, mean),
                   fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    }
    /* [save] */
    if (fold_model_save(m, "ants.safetensors", NULL)) return puts(fold_model_message(m)), 1;
    /* [end] */
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
