/* difference.c - finds where an eager and a batched context differ:
   cc -O1 -g -o difference tests/programs/difference.c -lm && ./difference

   Put your program into `record`, as small as you can make it, and `see` around every op in question. Read values that
   differ from the front and gradients from the back: the first one is the culprit, the rest follow from it. `see` keeps
   nodes, which changes the plan and may hide a fault of memory. If it does, keep half of them. */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 1000, EAGER = 0, BATCHED = 1 };
static fold_node seen[2][MOST];
static int n_seen, side;

static fold_node see(fold_ctx *f, fold_node x)
{
    fold_keep(f, x);
    fold_keep_grad(f, x);
    return seen[side][n_seen++] = x;
}

static fold_node record(fold_ctx *f, fold_param W)
{
    fold_node loss[4];
    for (int i = 0; i < 4; i++) {
        float x[3] = { (float)i, 1, -1 };
        fold_node y = see(f, fold_input(f, x, 3));
        for (int step = 0; step <= i; step++)
            y = see(f, fold_tanh(f, see(f, fold_linear(f, y, W, FOLD_NULL_PARAM))));
        loss[i] = see(f, fold_sum(f, y, FOLD_ALL));
    }
    return fold_mean_n(f, loss, 4);
}

static int compare(const char *what, int node, const float *a, const float *b, fold_shape shape)
{
    int count = 1;
    for (int k = 0; k < shape.rank; k++) count *= shape.dim[k];
    for (int i = 0; a && b && i < count; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) == 0) continue;
        printf("%s of node %d, element %d: eager %.9g, batched %.9g\n", what, node, i, (double)a[i], (double)b[i]);
        return 1;
    }
    return 0;
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param W = fold_weight_new(m, "W", 3, 3);
    fold_ctx *f[2];
    for (side = EAGER; side <= BATCHED; side++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        desc.eager = side == EAGER;
        f[side] = fold_ctx_new(m, &desc);
        n_seen = 0;
        if (fold_backward(f[side], record(f[side], W))) puts(fold_ctx_message(f[side]));
    }
    int differ = 0;
    for (int i = 0; i < n_seen; i++) {
        fold_node a = seen[EAGER][i], b = seen[BATCHED][i];
        fold_shape shape = fold_node_shape(f[EAGER], a);
        differ += compare("value", i, fold_value(f[EAGER], a), fold_value(f[BATCHED], b), shape);
        differ += compare("gradient", i, fold_grad(f[EAGER], a), fold_grad(f[BATCHED], b), shape);
    }
    printf("%d nodes, %d differences\n", n_seen, differ);
    fold_ctx_free(f[EAGER]);
    fold_ctx_free(f[BATCHED]);
    fold_model_free(m);
    return differ;
}
