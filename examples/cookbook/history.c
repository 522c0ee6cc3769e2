/* history: eight robots encode the last second with causal convolutions, one row per frame
     cc -O2 -o history examples/cookbook/history.c -lm && ./history */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { ROBOTS = 8, SENSED = 12, CHANNELS = 16, TAPS = 3, LAYERS = 3, ACTIONS = 4, SECONDS = 2 };
enum { FURTHEST = 16 }; /* the last dilation */

int main(void)
{
    static float memory[ROBOTS][LAYERS][((TAPS - 1) * FURTHEST + 1) * CHANNELS];
    fold_model *m = fold_model_new(NULL);
    fold_conv layer[LAYERS];
    static fold_cache past[ROBOTS][LAYERS]; /* zeros, but for what is set below */
    for (int i = 0, dilation = 1, inputs = SENSED; i < LAYERS; i++, dilation *= 4, inputs = CHANNELS) {
        const fold_conv_desc desc = { 0, 0, dilation, 0 }; /* default stride, no padding */
        char name[8];
        snprintf(name, sizeof name, "conv%d", i);
        layer[i] = fold_conv_new(m, name, fold_shape3(TAPS, inputs, CHANNELS), &desc, FOLD_ACT_RELU);
        for (int robot = 0; robot < ROBOTS; robot++) {
            past[robot][i].memory = memory[robot][i];
            past[robot][i].capacity = (TAPS - 1) * dilation + 1; /* rows */
            past[robot][i].width = inputs;
        }
    }
    fold_dense act = fold_dense_new(m, "act", CHANNELS, ACTIONS, FOLD_ACT_TANH);
    fold_ctx_desc settings = fold_ctx_desc_default();
    settings.plan_cache_bytes = 1 << 20;
    fold_ctx *f = fold_ctx_new(m, &settings);
    for (int frame = 0; frame < 50 * SECONDS; frame++) {
        fold_node action[ROBOTS];
        fold_ctx_reset(f);
        for (int robot = 0; robot < ROBOTS; robot++) {
            float sensed[SENSED] = { 0 };
            sensed[robot] = (float)frame;
            /* [step] */
            fold_node x = fold_input(f, sensed, SENSED);
            for (int i = 0; i < LAYERS; i++) {
                fold_cache *rows = &past[robot][i];
                x = fold_relu(f, fold_conv1d_step(f, rows, x, layer[i].W, layer[i].b, &layer[i].desc));
            }
            action[robot] = fold_dense_apply(f, &act, x);
            /* [end] */
        }
        if (fold_run(f, action, ROBOTS)) return puts(fold_ctx_message(f)), 1;
    }
    fold_stats stats = fold_ctx_stats(f);
    printf("%d nodes in %d batches, %d plans replayed\n", stats.run_nodes, stats.batches, stats.plan_hits);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
