/* beams: generates text by beam search with four beams, copying caches when a beam has several successors
     cc -O2 -o beams examples/cookbook/beams.c -lm && ./beams */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { WORDS = 50, WIDTH = 32, HEADS = 4, LONGEST = 20, BEAMS = 4, FLOATS = 8192 };
typedef struct beam {
    fold_cache cache;
    float memory[FLOATS], score; /* the score is the log-probability of its words */
    int word;                    /* the last one */
} beam;

static beam set[2][BEAMS]; /* of this step, and of the next */

/* Continues a beam with a word, in the place of `to`. */
static void extend(beam *to, const beam *from, int word, float score)
{
    fold_cache_copy(&to->cache, &from->cache);
    to->word = word;
    to->score = score;
}

/* Returns the log-probability of the best text that a number of beams find. */
static float search(fold_ctx *f, fold_transformer layer, fold_param words, fold_dense next, int beams)
{
    beam *now = set[0], *then = set[1];
    memset(set, 0, sizeof set);
    for (int i = 0; i < 2 * BEAMS; i++) {
        beam *b = &set[i / BEAMS][i % BEAMS];
        b->cache.memory = b->memory;
        b->cache.capacity = LONGEST;
        b->cache.heads = HEADS;
        b->cache.width = WIDTH;
    }
    now->word = 0;
    now->score = 0;
    for (int step = 0, count = 1; step < LONGEST; step++) {
        fold_node y[BEAMS];
        float scores[BEAMS * WORDS];
        int best[BEAMS];
        fold_ctx_reset(f);
        for (int b = 0; b < count; b++) {
            fold_node x = fold_transformer_step(f, &layer, &now[b].cache, fold_lookup(f, words, now[b].word));
            y[b] = fold_log_softmax(f, fold_dense_apply(f, &next, x));
        }
        if (fold_run(f, y, count)) return 0;
        for (int b = 0; b < count; b++)
            for (int word = 0; word < WORDS; word++)
                scores[b * WORDS + word] = now[b].score + fold_value(f, y[b])[word];
        /* [choose] */
        count = fold_top_k(scores, count * WORDS, beams, best);
        for (int b = 0; b < count; b++)
            extend(&then[b], &now[best[b] / WORDS], best[b] % WORDS, scores[best[b]]);
        /* [end] */
        beam *last = now;
        now = then;
        then = last;
    }
    return now->score;
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param words = fold_table_new(m, "words", WORDS, WIDTH);
    fold_transformer_desc desc = fold_transformer_desc_default();
    desc.width = WIDTH;
    desc.heads = HEADS;
    fold_transformer layer = fold_transformer_new(m, "layer", &desc);
    fold_dense next = fold_dense_new(m, "next", WIDTH, WORDS, FOLD_ACT_LINEAR);
    fold_ctx *f = fold_ctx_new(m, NULL);
    printf("one beam %.2f, ", (double)search(f, layer, words, next, 1));
    printf("four beams %.2f\n", (double)search(f, layer, words, next, BEAMS));
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
