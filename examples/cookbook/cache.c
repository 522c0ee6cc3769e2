/* cache: writes a text word by word, with a KV cache
     cc -O2 -o cache examples/cookbook/cache.c -lm && ./cache */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 50, WIDTH = 32, HEADS = 4, LONGEST = 40 };

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param words = fold_table_new(m, "words", WORDS, WIDTH);
    fold_transformer_desc desc = fold_transformer_desc_default();
    desc.width = WIDTH;
    desc.heads = HEADS;
    fold_transformer layer = fold_transformer_new(m, "layer", &desc);
    fold_dense next = fold_dense_new(m, "next", WIDTH, WORDS, FOLD_ACT_LINEAR);

    /* [cache] */
    static fold_cache cache; /* zeros; one for each layer and sequence */
    cache.capacity = LONGEST;
    cache.heads = HEADS;
    cache.width = WIDTH;
    cache.memory = (float *)malloc(fold_cache_bytes(&cache));
    /* [end] */
    fold_ctx_desc settings = fold_ctx_desc_default();
    settings.plan_cache_bytes = 1 << 20;
    fold_ctx *f = fold_ctx_new(m, &settings);
    for (int step = 0, word = 0; step < LONGEST; step++) {
        fold_ctx_reset(f);
        /* [step] */
        fold_node x = fold_transformer_step(f, &layer, &cache, fold_lookup(f, words, word));
        fold_node logits = fold_dense_apply(f, &next, x);
        if (fold_run(f, &logits, 1)) return puts(fold_ctx_message(f)), 1;
        word = fold_argmax(fold_value(f, logits), WORDS);
        /* [end] */
    }
    printf("%d rows, %d plans replayed\n", cache.length, fold_ctx_stats(f).plan_hits);
    free(cache.memory);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
