/* lists: sentences through a transformer layer, molecules through a graph network, both as lists
     cc -O2 -o lists examples/cookbook/lists.c -lm && ./lists */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { WORDS = 50, WIDTH = 32, HEADS = 4, KINDS = 5 };

/* [messages] */
static fold_node messages(fold_ctx *f, const fold_mlp *mlp, fold_node h, const int *from, const int *to,
                          int bonds)
{
    fold_node neighbours = fold_list_take(f, h, from, bonds);                             /* gather */
    fold_node sums = fold_list_sum_to(f, neighbours, to, bonds, fold_list_length(f, h)); /* scatter */
    return fold_mlp_apply(f, mlp, fold_add(f, h, sums));
}
/* [end] */

int main(void)
{
    static const int sentences[] = { 3, 1, 4, 1, 5, 9, 2, 6 }, starts[] = { 0, 3, 4, 8 };
    static const int atoms[] = { 0, 1, 2, 0 }, from[] = { 0, 1, 1, 2, 2, 3 }, to[] = { 1, 0, 2, 1, 3, 2 };
    const int sizes[] = { WIDTH, WIDTH, WIDTH };
    fold_model *m = fold_model_new(NULL);
    fold_param words = fold_table_new(m, "words", WORDS, WIDTH);
    fold_param kinds = fold_table_new(m, "kinds", KINDS, WIDTH);
    fold_transformer_desc desc = fold_transformer_desc_default();
    desc.width = WIDTH;
    desc.heads = HEADS;
    fold_transformer layer = fold_transformer_new(m, "layer", &desc);
    fold_mlp mlp = fold_mlp_new(m, "messages", sizes, 2, FOLD_ACT_RELU);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node roots[5];
    for (int i = 0; i < 3; i++) { /* three words, one, four */
        /* [sentence] */
        fold_node x = fold_list_lookup(f, words, sentences + starts[i], starts[i + 1] - starts[i]);
        roots[i] = fold_list_mean(f, fold_transformer_apply(f, &layer, x, 0));
        /* [end] */
    }
    for (int i = 0; i < 2; i++) { /* chains of three atoms and of four */
        fold_node h = fold_list_lookup(f, kinds, atoms, 3 + i);
        roots[3 + i] = fold_list_sum(f, messages(f, &mlp, h, from, to, 4 + 2 * i));
    }
    if (fold_run(f, roots, 5)) {
        puts(fold_ctx_message(f));
        return 1;
    }
    fold_stats stats = fold_ctx_stats(f);
    printf("%d nodes in %d batches\n", stats.run_nodes, stats.batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
