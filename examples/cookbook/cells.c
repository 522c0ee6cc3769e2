/* cells: trains on random trees. Joining two subtrees is a cell: traced once, each call one node
     cc -O2 -o cells examples/cookbook/cells.c -lm && ./cells */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { HIDDEN = 32, BATCH = 64 };
typedef struct { fold_param digits, W, b; fold_dense classify; fold_cell join; } net;

/* [body] */
/* The body of a cell: traced once, then each call is one node. */
static void join(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, n->W, n->b));
}
/* [end] */

static int draw(int n)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (int)(state >> 16) % n;
}

/* One sample, a random tree, by plain recursion. */
static fold_node tree(fold_ctx *f, const net *n, int depth, int *largest)
{
    if (depth == 0 || draw(4) == 0) {
        int digit = draw(10);
        if (digit > *largest) *largest = digit;
        return fold_lookup(f, n->digits, digit);
    }
    fold_node child[2];
    child[0] = tree(f, n, depth - 1, largest);
    child[1] = tree(f, n, depth - 1, largest);
    /* [call] */
    return fold_call(f, n->join, child, 2);
    /* [end] */
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    net n;
    n.digits = fold_table_new(m, "digits", 10, HIDDEN);
    n.W = fold_weight_new(m, "join.W", 2 * HIDDEN, HIDDEN);
    n.b = fold_bias_new(m, "join.b", HIDDEN);
    n.classify = fold_dense_new(m, "classify", HIDDEN, 10, FOLD_ACT_LINEAR);
    /* [new] */
    fold_cell_desc cell = fold_cell_desc_default();
    cell.name = "join";
    cell.body = join;
    cell.user = &n;
    cell.n_in = 2;
    cell.in[0] = cell.in[1] = fold_shape1(HIDDEN);
    cell.n_out = 1;
    n.join = fold_cell_new(m, &cell);
    /* [end] */

    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    for (int step = 0; step <= 2000; step++) {
        fold_node loss[BATCH], mean;
        fold_ctx_reset(f); /* forget the recording of the previous step */
        for (int i = 0; i < BATCH; i++) {
            int largest = 0;
            fold_node root = tree(f, &n, 4, &largest);
            loss[i] = fold_softmax_xent(f, fold_dense_apply(f, &n.classify, root), largest);
        }
        mean = fold_mean_n(f, loss, BATCH); /* 64 trees of different shapes run as a few large batches */
        if (fold_backward(f, mean) || fold_adam_step(m, &adam)) {
            puts(fold_ctx_message(f));
            return 1;
        }
        if (step % 400 == 0)
            printf("step %4d  loss %.4f  %d calls in %d batches\n", step, (double)fold_scalar(f, mean),
                   fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    }
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
