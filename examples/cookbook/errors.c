/* errors: makes a mistake, prints its message and continues
     cc -O2 -o errors examples/cookbook/errors.c -lm && ./errors */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

static void tell(const char *message, void *user) /* called at the first error: set a breakpoint here */
{
    (void)user;
    printf("at once: %s\n", message);
}

int main(void)
{
    const float x[3] = { 1, 2, 3 };
    fold_model *m = fold_model_new(NULL);
    fold_dense layer = fold_dense_new(m, "layer", 4, 2, FOLD_ACT_RELU);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.error = tell;
    fold_ctx *f = fold_ctx_new(m, &desc);

    /* [mistake] */
    fold_node y = fold_dense_apply(f, &layer, fold_input(f, x, 3)); /* the layer has 4 inputs */
    y = fold_tanh(f, y);                                            /* does nothing after an error */
    if (fold_run(f, &y, 1)) printf("after the run: %s\n", fold_ctx_message(f));
    fold_ctx_reset(f); /* forgets the error along with the recording */
    /* [end] */

    y = fold_tanh(f, fold_input(f, x, 3));
    int failed = fold_run(f, &y, 1) != FOLD_OK;
    printf("then %s\n", failed ? fold_ctx_message(f) : "all is well");
    fold_ctx_free(f);
    fold_model_free(m);
    return failed;
}
