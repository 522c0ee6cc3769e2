/* op: adds a user-defined op, the cube of each element, with its gradient
     cc -O2 -o op examples/cookbook/op.c -lm && ./op */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

static const char *cube_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in, (void)attr;
    out[0] = in[0]; /* the result has the shape of the input */
    return in[0].rank == 1 ? NULL : "needs a vector";
}
/* [forward] */
static void cube_forward(const fold_op_call *c) /* for all rows of a batch */
{
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r);
        float *y = fold_row(&c->out[0], r);
        for (int i = 0; i < c->in_shape[0].dim[0]; i++) y[i] = x[i] * x[i] * x[i];
    }
}
/* [end] */
static void cube_backward(const fold_op_call *c) /* no row: that gradient is not needed */
{
    for (int r = 0; r < c->rows && fold_row(&c->din[0], r); r++) {
        const float *x = fold_row(&c->in[0], r), *dy = fold_row(&c->dout[0], r);
        float *dx = fold_row(&c->din[0], r);
        for (int i = 0; i < c->in_shape[0].dim[0]; i++) dx[i] = 3 * x[i] * x[i] * dy[i];
    }
}

int main(void)
{
    static const float values[3] = { 1, -2, 3 };
    fold_model *m = fold_model_new(NULL);
    fold_op_desc desc = fold_op_desc_default();
    desc.name = "cube";
    desc.n_in = desc.n_out = 1;
    desc.infer = cube_infer;
    desc.forward = cube_forward;
    desc.backward = cube_backward;
    desc.needs = FOLD_NEEDS_IN; /* backward reads x */
    fold_op cube = fold_op_new(m, &desc);
    fold_param_desc param = fold_param_desc_default();
    param.name = "p";
    param.shape = fold_shape1(3);
    param.values = values;
    fold_param p = fold_param_new(m, &param);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_node x = fold_use(f, p);
    fold_node y = fold_op_apply(f, cube, &x, 1, NULL, 0);
    if (fold_backward(f, fold_sum(f, y, FOLD_ALL))) return puts(fold_ctx_message(f)), 1;
    const float *gradient = fold_param_grad(m, p);
    printf("gradient %g %g %g\n", (double)gradient[0], (double)gradient[1], (double)gradient[2]);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
