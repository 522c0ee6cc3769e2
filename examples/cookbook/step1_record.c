/* step1_record: three ants that each see a different number of crumbs decide in the same run
     cc -O2 -o step1_record examples/cookbook/step1_record.c -lm && ./step1_record */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include "ants.h"

int main(void)
{
    /* [record] */
    float near_nest[3][2] = { { 2, 0 }, { -1, 1 }, { 3, 3 } }, at_tree[1][2] = { { 0, -2 } };
    fold_model *m = fold_model_new(NULL); /* owns the weights */
    brain b = brain_new(m);
    fold_ctx *f = fold_ctx_new(m, NULL);  /* records and runs */
    fold_node score[3];
    score[0] = think(f, &b, near_nest, 3);
    score[1] = think(f, &b, at_tree, 1);
    score[2] = think(f, &b, NULL, 0); /* sees nothing */
    if (fold_run(f, score, 3)) return puts(fold_ctx_message(f)), 1;
    for (int i = 0; i < 3; i++) printf("ant %d goes %s\n", i, way_name[fold_argmax(fold_value(f, score[i]), WAYS)]);
    /* [end] */
    fold_stats stats = fold_ctx_stats(f);
    printf("%d calls in %d batches\n", stats.run_nodes, stats.batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
