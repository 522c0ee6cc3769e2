/* The op that the comment of section 15 of fold.h shows, here own_op.h, rounds to multiples of a step. An
   eager context does the same; the gradient of a sum is one. */
#include <math.h>
#include "fold.h"
#include "own_op.h"
int main(void)
{
    static const float x[3] = { 0.3f, -0.6f, 2 }, want[3] = { 0.25f, -0.5f, 2 };
    float step = 0.25f;
    int wrong = 0;
    for (int eager = 0; eager < 2; eager++) {
        fold_model *m = fold_model_new(NULL);
        fold_op rounded = round_new(m, &step);
        fold_param p = fold_bias_new(m, "p", 3);
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        desc.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &desc);
        for (int i = 0; i < 3; i++) fold_values_write_begin(m, p)[i] = x[i];
        fold_values_write_end(m, p);
        fold_node in = fold_use(f, p), y = fold_op_apply(f, rounded, &in, 1, NULL, 0);
        fold_keep(f, y);
        wrong += fold_backward(f, fold_sum(f, y, FOLD_ALL)) != FOLD_OK;
        for (int i = 0; i < 3 && !wrong; i++)
            wrong += fold_value(f, y)[i] != want[i] || fold_param_grad(m, p)[i] != 1;
        fold_ctx_free(f);
        fold_model_free(m);
    }
    return wrong;
}
