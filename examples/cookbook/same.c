/* same: shows that a sample gives the same bits alone and in a batch
     cc -O2 -o same examples/cookbook/same.c -lm && ./same */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 40, WIDTH = 100, CLASSES = 10 };

static fold_node answer(fold_ctx *f, const fold_mlp *mlp, int sample)
{
    float x[WIDTH];
    for (int i = 0; i < WIDTH; i++) x[i] = (float)((i * 37 + sample * 11) % 101) / 50 - 1;
    return fold_mlp_apply(f, mlp, fold_input(f, x, WIDTH));
}

int main(void)
{
    const int sizes[] = { WIDTH, WIDTH, CLASSES };
    fold_model *m = fold_model_new(NULL);
    fold_mlp mlp = fold_mlp_new(m, "mlp", sizes, 2, FOLD_ACT_RELU);
    fold_ctx *together = fold_ctx_new(m, NULL), *alone = fold_ctx_new(m, NULL);
    fold_node y[SAMPLES];
    int differ = 0;
    for (int i = 0; i < SAMPLES; i++) y[i] = answer(together, &mlp, i);
    if (fold_run(together, y, SAMPLES)) puts(fold_ctx_message(together));
    for (int i = 0; i < SAMPLES; i++) {
        fold_ctx_reset(alone);
        fold_node one = answer(alone, &mlp, i);
        if (fold_run(alone, &one, 1)) puts(fold_ctx_message(alone));
        differ += memcmp(fold_value(together, y[i]), fold_value(alone, one), sizeof(float) * CLASSES) != 0;
    }
    printf("%d of %d samples differ\n", differ, SAMPLES);
    fold_ctx_free(together);
    fold_ctx_free(alone);
    fold_model_free(m);
    return differ;
}
