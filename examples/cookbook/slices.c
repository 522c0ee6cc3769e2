/* slices: trains in slices of 0.3 ms, between other work of a frame
     cc -O2 -o slices examples/cookbook/slices.c -lm && ./slices */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { SAMPLES = 200, LENGTH = 20, HIDDEN = 32, STEPS = 5 };

static fold_node loss_of(fold_ctx *f, const fold_recurrent *r, const fold_dense *out)
{
    fold_node losses[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) { /* how many inputs were 1? */
        fold_node x[LENGTH];
        int length = 1 + i % LENGTH, ones = 0;
        for (int t = 0; t < length; t++) {
            int bit = (i * 7 + t * t) % 3 == 0;
            x[t] = fold_constant(f, (float)bit);
            ones += bit;
        }
        fold_node count = fold_dense_apply(f, out, fold_unroll(f, r, x, length, 0, NULL, NULL).h);
        losses[i] = fold_squared_error(f, count, fold_constant(f, (float)ones));
    }
    return fold_mean_n(f, losses, SAMPLES);
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_recurrent r = fold_gru_new(m, "r", 1, HIDDEN);
    fold_dense out = fold_dense_new(m, "out", HIDDEN, 1, FOLD_ACT_LINEAR);
    fold_adam adam = fold_adam_default();
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    desc.clock = fold_clock_monotonic;
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_node loss = FOLD_NULL_NODE;
    float first = 0, last = 0;
    int more = 0, steps = 0;
    while (steps < STEPS) { /* a frame */
        /* [frame] */
        if (!more) {
            fold_ctx_reset(f);
            loss = loss_of(f, &r, &out);
            fold_backward_begin(f, loss);
        }
        if (fold_run_more(f, 300000, &more)) return puts(fold_ctx_message(f)), 1; /* 0.3 ms of this frame */
        /* [end] */
        if (!more) {
            last = fold_scalar(f, loss);
            if (!steps++) first = last;
            adam.rate = 0.01f;
            fold_adam_step(m, &adam);
        }
        /* … draw the frame … */
    }
    printf("%d steps, the loss is %s\n", steps, last < first ? "smaller" : "no smaller");
    fold_ctx_free(f);
    fold_model_free(m);
    return !(last < first);
}
