/* graph: predicts the mean degree of random graphs, recording one node per vertex
     cc -O2 -o graph examples/cookbook/graph.c -lm && ./graph */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { HIDDEN = 16, GRAPHS = 32, MOST = 8, ROUNDS = 2 };
typedef struct { fold_param begin, W, b; fold_dense answer; } net;

static int draw(int n)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (int)(state >> 16) % n;
}

static fold_node loss_of_graph(fold_ctx *f, const net *n) /* of a guess at the mean number of neighbours */
{
    int nodes = 2 + draw(MOST - 1), linked[MOST][MOST] = { { 0 } }, links = 0;
    fold_node h[MOST], next[MOST], around[MOST];
    for (int i = 0; i < nodes; i++) {
        h[i] = fold_use(f, n->begin);
        for (int j = 0; j < i; j++)
            links += linked[i][j] = linked[j][i] = draw(2);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < nodes; i++) {
            /* [vertex] */
            int count = 0;
            for (int j = 0; j < nodes; j++)
                if (linked[i][j]) around[count++] = h[j];
            fold_node seen = count ? fold_sum_n(f, around, count) : fold_zeros(f, fold_shape1(HIDDEN));
            fold_node both[2] = { h[i], seen };
            next[i] = fold_tanh(f, fold_linear_n(f, both, 2, n->W, n->b));
            /* [end] */
        }
        memcpy(h, next, sizeof h);
    }
    fold_node guess = fold_dense_apply(f, &n->answer, fold_mean_n(f, h, nodes));
    return fold_squared_error(f, guess, fold_constant(f, 2.0f * (float)links / (float)nodes));
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    net n;
    n.begin = fold_bias_new(m, "begin", HIDDEN);
    n.W = fold_weight_new(m, "W", 2 * HIDDEN, HIDDEN);
    n.b = fold_bias_new(m, "b", HIDDEN);
    n.answer = fold_dense_new(m, "answer", HIDDEN, 1, FOLD_ACT_LINEAR);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.01f;
    float mean = 0;
    for (int step = 0; step < 400; step++) {
        fold_node loss[GRAPHS];
        fold_ctx_reset(f);
        for (int i = 0; i < GRAPHS; i++)
            loss[i] = loss_of_graph(f, &n);
        fold_node total = fold_mean_n(f, loss, GRAPHS);
        if (fold_backward(f, total) || fold_adam_step(m, &adam)) {
            puts(fold_ctx_message(f));
            return 1;
        }
        mean = fold_scalar(f, total);
    }
    printf("squared error %.3f\n", (double)mean);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(mean < 0.1f);
}
