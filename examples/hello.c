/* cc -O2 -o hello examples/hello.c -lm && ./hello      learns to find the largest digit of a tree of digits */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <stdio.h>
enum { H = 32, BATCH = 64 };
typedef struct { fold_param digit, W, b, V, a; fold_cell join; } net;
static int draw(int n) { static unsigned s = 1; return (int)((s = s * 1664525u + 1013904223u) >> 16) % n; }
static void join(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{   /* a cell: traced once, recorded as one node per call */
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, ((const net *)user)->W, ((const net *)user)->b));
}
static fold_node tree(fold_ctx *f, const net *n, int depth, int *largest)
{   /* one random sample, by plain recursion */
    int digit = draw(10), leaf = depth == 0 || draw(4) == 0;
    if (leaf && digit > *largest) *largest = digit;
    if (leaf) return fold_lookup(f, n->digit, digit);
    fold_node left = tree(f, n, depth - 1, largest), in[2] = { left, tree(f, n, depth - 1, largest) };
    return fold_call(f, n->join, in, 2);
}
int main(void)
{
    fold_model *m = fold_model_new(NULL);
    net n = { fold_table_new(m, "digit", 10, H), fold_weight_new(m, "W", 2 * H, H), fold_bias_new(m, "b", H),
              fold_weight_new(m, "V", H, 10), fold_bias_new(m, "a", 10), { 0, 0 } };
    n.join = fold_cell_new(m, &(fold_cell_desc){ .name = "join", .body = join, .user = &n, .n_in = 2,
                                                 .in = { fold_shape1(H), fold_shape1(H) }, .n_out = 1 });
    fold_ctx *f = fold_ctx_new(m, &(fold_ctx_desc){ .training = 1 });
    fold_adam adam = fold_adam_default();
    for (int step = 0; step <= 2000; step++, fold_ctx_reset(f)) { /* reset forgets a step's recording */
        fold_node loss[BATCH], total;
        for (int i = 0, largest = 0; i < BATCH; i++, largest = 0) {
            fold_node root = tree(f, &n, 4, &largest);
            loss[i] = fold_softmax_xent(f, fold_linear(f, root, n.V, n.a), largest);
        }
        total = fold_mean_n(f, loss, BATCH); /* 64 trees of different shapes run as a few large batches */
        if (fold_backward(f, total) || fold_adam_step(m, &adam)) { puts(fold_ctx_message(f)); return 1; }
        if (step % 400 == 0) printf("step %4d  loss %.4f  %d batches\n", step, (double)fold_scalar(f, total), fold_ctx_stats(f).batches);
    }
    fold_ctx_free(f), fold_model_free(m);
}
