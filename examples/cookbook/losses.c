/* losses: trains one body with two heads and two losses
     cc -O2 -o losses examples/cookbook/losses.c -lm && ./losses */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { N = 64 };

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_dense body = fold_dense_new(m, "body", 2, 16, FOLD_ACT_TANH);
    fold_dense which = fold_dense_new(m, "which", 16, 2, FOLD_ACT_LINEAR);
    fold_dense how_far = fold_dense_new(m, "how_far", 16, 1, FOLD_ACT_LINEAR);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.01f;
    float first = 0, second = 0;
    for (int step = 0; step < 400; step++) {
        fold_node side[N], distance[N];
        fold_ctx_reset(f);
        for (int i = 0; i < N; i++) {
            float x[2] = { (float)(i % 8) / 4 - 1, (float)(i / 8) / 4 - 1 };
            fold_node h = fold_dense_apply(f, &body, fold_input(f, x, 2));
            fold_node target = fold_constant(f, x[0] * x[0] + x[1] * x[1]);
            side[i] = fold_softmax_xent(f, fold_dense_apply(f, &which, h), x[0] + x[1] > 0);
            distance[i] = fold_squared_error(f, fold_dense_apply(f, &how_far, h), target);
        }
        /* [backward] */
        fold_node a = fold_mean_n(f, side, N), b = fold_mean_n(f, distance, N);
        fold_keep(f, a); /* to read it, though it is not the root */
        fold_keep(f, b);
        fold_node loss = fold_add(f, a, fold_scale(f, b, 0.5f));
        if (fold_backward(f, loss) || fold_adam_step(m, &adam)) return puts(fold_ctx_message(f)), 1;
        /* [end] */
        first = fold_scalar(f, a);
        second = fold_scalar(f, b);
    }
    printf("losses %.3f and %.3f\n", (double)first, (double)second);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(first < 0.2f && second < 0.2f);
}
