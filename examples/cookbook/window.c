/* window: runs a controller that reads the last second as one row, from a sliding window
     cc -O2 -o window examples/cookbook/window.c -lm && ./window */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { FRAMES = 50, SENSED = 12, ACTIONS = 4, SECONDS = 2 };

int main(void)
{
    static float window[FRAMES][SENSED]; /* the last second, the newest row last */
    const int sizes[] = { FRAMES * SENSED, 128, 64, ACTIONS };
    fold_model *m = fold_model_new(NULL);
    fold_mlp mlp = fold_mlp_new(m, "mlp", sizes, 3, FOLD_ACT_RELU);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node x = fold_input_ref(f, window[0], fold_shape1(FRAMES * SENSED));
    fold_node action = fold_tanh(f, fold_mlp_apply(f, &mlp, x));
    for (int frame = 0; frame < 50 * SECONDS; frame++) {
        float sensed[SENSED] = { 0 };
        sensed[frame % SENSED] = 1;
        memmove(window[0], window[1], sizeof window - sizeof window[0]);
        memcpy(window[FRAMES - 1], sensed, sizeof sensed);
        if (frame ? fold_replay(f) : fold_run(f, &action, 1)) return puts(fold_ctx_message(f)), 1;
    }
    printf("%d multiplications a frame\n", sizes[0] * sizes[1] + sizes[1] * sizes[2] + sizes[2] * sizes[3]);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
