/* padded: reads sequences of different lengths from a padded array, sample-first or time-first
     cc -O2 -o padded examples/cookbook/padded.c -lm && ./padded */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 3, STEPS = 5, WIDTH = 2, HIDDEN = 8 };
static float by_sample[SAMPLES][STEPS][WIDTH], by_time[STEPS][SAMPLES][WIDTH];
static const int length[SAMPLES] = { 5, 2, 3 };

static fold_node sample_of(fold_ctx *f, int s) /* the array is [samples x steps x width] */
{
    return fold_list_input_ref(f, by_sample[s][0], length[s], fold_shape1(WIDTH));
}
/* [by_time] */
static fold_node column_of(fold_ctx *f, fold_node all, int s) /* [steps x samples x width], as one list */
{
    int index[STEPS];
    for (int t = 0; t < length[s]; t++) index[t] = t * SAMPLES + s;
    return fold_list_take(f, all, index, length[s]);
}
/* [end] */

int main(void)
{
    for (int s = 0; s < SAMPLES; s++)
        for (int t = 0; t < STEPS; t++)
            for (int k = 0; k < WIDTH; k++)
                by_sample[s][t][k] = by_time[t][s][k] = (float)((s + 2 * t + k) % 5);
    fold_model *m = fold_model_new(NULL);
    fold_recurrent gru = fold_gru_new(m, "gru", WIDTH, HIDDEN);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node h[2 * SAMPLES];
    fold_node all = fold_list_input_ref(f, by_time[0][0], STEPS * SAMPLES, fold_shape1(WIDTH));
    for (int s = 0; s < SAMPLES; s++) {
        fold_state last, same;
        /* [unroll] */
        fold_unroll_list(f, &gru, sample_of(f, s), 0, NULL, &last);
        h[s] = last.h;
        /* [end] */
        fold_unroll_list(f, &gru, column_of(f, all, s), 0, NULL, &same);
        h[SAMPLES + s] = same.h;
    }
    float last[2][SAMPLES][HIDDEN];
    if (fold_run(f, h, 2 * SAMPLES)) return puts(fold_ctx_message(f)), 1;
    fold_read(f, h, 2 * SAMPLES, last[0][0]);
    int differ = memcmp(last[0], last[1], sizeof last[0]) != 0;
    printf("%d sequences; time first gives %s\n", SAMPLES, differ ? "other bits" : "the same bits");
    fold_ctx_free(f);
    fold_model_free(m);
    return differ;
}
