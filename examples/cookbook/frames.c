/* frames: records agents that come and go, one by one, in a context that caches its plans
     cc -O2 -o frames examples/cookbook/frames.c -lm && ./frames */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { SENSES = 4, HIDDEN = 16, AGENTS = 100, FRAMES = 60 };
static float senses[AGENTS][SENSES], memory[AGENTS][HIDDEN]; /* they outlive a frame */

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_recurrent brain = fold_gru_new(m, "brain", SENSES, HIDDEN);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.plan_cache_bytes = 1 << 20;
    fold_ctx *f = fold_ctx_new(m, &desc);
    for (int frame = 0; frame < FRAMES; frame++) {
        int present = 50 + frame % 10; /* agents come and go */
        fold_node h[AGENTS];
        fold_ctx_reset(f);
        for (int i = 0; i < present; i++) {
            senses[i][0] = (float)((i + frame) % 5);
            fold_state before = { fold_input(f, memory[i], HIDDEN), FOLD_NULL_NODE };
            h[i] = fold_recurrent_apply(f, &brain, fold_input(f, senses[i], SENSES), before).h;
        }
        if (fold_run(f, h, present)) return puts(fold_ctx_message(f)), 1;
        fold_read(f, h, present, memory[0]);
    }
    fold_stats stats = fold_ctx_stats(f);
    printf("%d agents in %d batch, %d of %d frames not scheduled\n", stats.run_nodes, stats.batches,
           stats.plan_hits, FRAMES);
    fold_ctx_free(f);
    fold_model_free(m);
    return memory[0][0] == 0; /* fails if nothing was written */
}
