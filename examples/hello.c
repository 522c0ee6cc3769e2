/* cc -O2 -o hello examples/hello.c -lm && ./hello      learns to find the largest digit in a tree */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <stdio.h>

enum { HIDDEN = 32, BATCH = 64 };
typedef struct { fold_param digits; fold_dense join, classify; fold_random chance; } net;

/* One sample, a random tree, by plain recursion. Nothing is computed here: each call records what is to be done. */
static fold_node tree(fold_ctx *f, net *n, int depth, int *largest)
{
    if (depth == 0 || fold_random_below(&n->chance, 4) == 0) {
        int digit = fold_random_below(&n->chance, 10);
        if (digit > *largest) *largest = digit;
        return fold_lookup(f, n->digits, digit);
    }
    fold_node left = tree(f, n, depth - 1, largest);
    fold_node right = tree(f, n, depth - 1, largest);
    return fold_dense_apply(f, &n->join, fold_concat2(f, left, right));
}

int main(void)
{
    net n;
    fold_model *m = fold_model_new(NULL);
    n.digits = fold_table_new(m, "digits", 10, HIDDEN);
    n.join = fold_dense_new(m, "join", 2 * HIDDEN, HIDDEN, FOLD_ACT_TANH);
    n.classify = fold_dense_new(m, "classify", HIDDEN, 10, FOLD_ACT_LINEAR);
    n.chance = fold_random_new(1, 0);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    for (int step = 0; step <= 2000; step++) {
        fold_node loss[BATCH];
        fold_ctx_reset(f); /* forget the recording of the previous step */
        for (int i = 0; i < BATCH; i++) {
            int largest = 0;
            fold_node root = tree(f, &n, 4, &largest);
            loss[i] = fold_softmax_xent(f, fold_dense_apply(f, &n.classify, root), largest); /* cross entropy */
        }
        fold_node mean = fold_mean_n(f, loss, BATCH);
        if (fold_backward(f, mean) || fold_adam_step(m, &adam)) return puts(fold_ctx_message(f)), 1;
        if (step % 400 == 0) printf("step %4d  loss %.4f  %d calls in %d batches\n", step, (double)fold_scalar(f, mean),
                                    fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    }
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
