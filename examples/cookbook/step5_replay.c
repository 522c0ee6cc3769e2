/* step5_replay: runs the ants of a game, one glance per tick, by replaying one recording in a static block
     cc -O2 -o step5_replay examples/cookbook/step5_replay.c -lm && ./step5_replay     reads ants.safetensors, from step3_train */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>
#include "ants.h"

static float glance[ANTS][2], memory[ANTS][HIDDEN]; /* the game writes the first, and each tick updates the second */
static float crumb[ANTS][MOST][2];
static unsigned char block[96 << 10]; /* all memory of the context */

/* [record] */
static fold_node record(fold_ctx *f, const brain *b) /* one tick of all ants: each list has a row per ant */
{
    fold_node seen = fold_list_input_ref(f, glance[0], ANTS, fold_shape1(2));
    fold_state before = { fold_list_input_ref(f, memory[0], ANTS, fold_shape1(HIDDEN)), FOLD_NULL_NODE };
    fold_output_ref(f, fold_recurrent_apply(f, &b->memory, seen, before).h, memory[0]); /* for the next tick */
    return fold_dense_apply(f, &b->choose, before.h);
}
/* [end] */

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    brain b = brain_new(m);
    if (fold_model_load(m, "ants.safetensors", NULL)) return puts(fold_model_message(m)), 1;
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.memory.block = block;
    desc.memory.block_size = sizeof block;
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_node score = record(f, &b);
    meadow w = meadow_new(-1);
    int count[ANTS], next[ANTS] = { 0 }; /* how many crumbs an ant sees, and which is next */
    for (int i = 0; i < ANTS; i++) count[i] = look(&w, i, crumb[i]);
    /* [tick] */
    for (int tick = 0; tick < 3000; tick++) {
        for (int i = 0; i < ANTS; i++)
            if (next[i] < count[i]) memcpy(glance[i], crumb[i][next[i]], sizeof glance[i]);
        if (tick ? fold_replay(f) : fold_run(f, &score, 1)) return puts(fold_ctx_message(f)), 1;
        for (int i = 0; i < ANTS; i++)
            if (next[i]++ == count[i]) { /* it has seen them all: it moves, looks around and begins again */
                walk(&w, i, fold_argmax(fold_value(f, score) + i * WAYS, WAYS));
                count[i] = look(&w, i, crumb[i]);
                next[i] = 0;
                memset(memory[i], 0, sizeof memory[i]);
            }
    }
    /* [end] */
    fold_stats stats = fold_ctx_stats(f);
    printf("%d crumbs; each tick: %d calls in %d batches; %d bytes of the block\n", w.eaten, stats.run_nodes,
           stats.batches, (int)stats.block_bytes);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
