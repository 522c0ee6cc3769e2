/* step4_play: ants play before and after they load the weights that step3_train saved
     cc -O2 -o step4_play examples/cookbook/step4_play.c -lm && ./step4_play     reads ants.safetensors, from step3_train */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include "ants.h"

static int eaten_by(fold_model *m, const brain *b) /* in 300 frames of the same meadow */
{
    meadow w = meadow_new(-1);
    fold_ctx *f = fold_ctx_new(m, NULL);
    for (int frame = 0; frame < 300; frame++) {
        fold_node score[ANTS];
        fold_ctx_reset(f);
        for (int i = 0; i < ANTS; i++) {
            float crumb[MOST][2];
            int n = look(&w, i, crumb);
            score[i] = think(f, b, crumb, n);
        }
        if (fold_run(f, score, ANTS)) return puts(fold_ctx_message(f)), -1;
        for (int i = 0; i < ANTS; i++) walk(&w, i, fold_argmax(fold_value(f, score[i]), WAYS));
    }
    fold_ctx_free(f);
    return w.eaten;
}

int main(void)
{
    fold_model *m = fold_model_new(NULL); /* the same calls as in step3_train: a file has values, not the network */
    brain b = brain_new(m);
    printf("before: %d crumbs\n", eaten_by(m, &b));
    /* [load] */
    if (fold_model_load(m, "ants.safetensors", NULL)) return puts(fold_model_message(m)), 1;
    /* [end] */
    printf("after:  %d crumbs\n", eaten_by(m, &b));
    fold_model_free(m);
    return 0;
}
