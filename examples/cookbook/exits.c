/* exits: each sample leaves a network after the first block that is sure of its class
     cc -O2 -o exits examples/cookbook/exits.c -lm && ./exits */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { SAMPLES = 100, BLOCKS = 8, WIDTH = 16, CLASSES = 3 };

static int is_sure(const float *logits)
{
    int best = fold_argmax(logits, CLASSES), sure = 1;
    for (int i = 0; i < CLASSES; i++) sure &= i == best || logits[best] - logits[i] > 0.5f;
    return sure;
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_dense block[BLOCKS], leave[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        block[i] = fold_dense_new(m, name, WIDTH, WIDTH, FOLD_ACT_TANH);
        snprintf(name, sizeof name, "leave%d", i);
        leave[i] = fold_dense_new(m, name, WIDTH, CLASSES, FOLD_ACT_LINEAR);
    }
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node h[SAMPLES], logits[SAMPLES];
    int active[SAMPLES], count = SAMPLES, round = 0, blocks = 0, batches = 0, recomputed = 0;
    fold_random chance = fold_random_new(1, 0);
    for (int i = 0; i < SAMPLES; i++) {
        float x[WIDTH];
        for (int k = 0; k < WIDTH; k++) x[k] = fold_random_normal(&chance);
        h[i] = fold_input(f, x, WIDTH);
        active[i] = i;
    }
    /* [rounds] */
    for (; count; round++) {
        for (int i = 0; i < count; i++) {
            fold_node *state = &h[active[i]];
            *state = fold_dense_apply(f, &block[round], *state);
            fold_keep(f, *state); /* the next round reads it */
            logits[i] = fold_dense_apply(f, &leave[round], *state);
        }
        if (fold_run(f, logits, count)) return puts(fold_ctx_message(f)), 1;
        blocks += count;
        batches += fold_ctx_stats(f).batches;
        recomputed += fold_ctx_stats(f).recomputed_nodes;
        int left = 0;
        for (int i = 0; i < count; i++)
            if (!is_sure(fold_value(f, logits[i])) && round < BLOCKS - 1) active[left++] = active[i];
        count = left;
    }
    /* [end] */
    printf("%d blocks in %d rounds, %d batches, %d nodes recomputed\n", blocks, round, batches, recomputed);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
