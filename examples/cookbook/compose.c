/* compose: makes an RMS norm and SiLU from the built-in ops
     cc -O2 -o compose examples/cookbook/compose.c -lm && ./compose */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <math.h>
#include <stdio.h>

/* [ops] */
static fold_node silu(fold_ctx *f, fold_node x) { return fold_mul(f, x, fold_sigmoid(f, x)); }

static fold_node rms_norm(fold_ctx *f, fold_node x, fold_param gain) /* x / sqrt(mean of x^2) * gain */
{
    fold_node mean = fold_mean(f, fold_square(f, x), FOLD_ALL);
    fold_node normal = fold_div(f, x, fold_sqrt(f, fold_shift(f, mean, 1e-5f)));
    return fold_mul(f, normal, fold_use(f, gain));
}
/* [end] */

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_param gain = fold_gain_new(m, "gain", 3); /* ones */
    fold_ctx *f = fold_ctx_new(m, NULL);
    float x[3] = { 1, -2, 3 };
    fold_node y = silu(f, rms_norm(f, fold_input(f, x, 3), gain));
    if (fold_run(f, &y, 1)) {
        puts(fold_ctx_message(f));
        return 1;
    }
    double error = 0;
    for (int i = 0; i < 3; i++) {
        double u = x[i] / sqrt((1 + 4 + 9) / 3.0 + 1e-5), want = u / (1 + exp(-u));
        error = fmax(error, fabs(fold_value(f, y)[i] - want));
    }
    printf("largest error %.1e\n", error);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(error < 1e-6);
}
