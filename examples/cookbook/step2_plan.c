/* step2_plan: prints how the decisions of twenty ants are batched
     cc -O2 -o step2_plan examples/cookbook/step2_plan.c -lm && ./step2_plan */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include "ants.h"

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    brain b = brain_new(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    meadow w = meadow_new(1);
    fold_node score[ANTS];
    for (int i = 0; i < ANTS; i++) {
        float crumb[MOST][2];
        int n = look(&w, i, crumb);
        score[i] = think(f, &b, crumb, n);
    }
    if (fold_run(f, score, ANTS)) return puts(fold_ctx_message(f)), 1;
    /* [plan] */
    fold_ctx_print(f, fold_to_file, stdout);
    fold_ctx_print_splits(f, fold_to_file, stdout);
    /* [end] */
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
