/* resume: continues training from a checkpoint, to the same bits as without the interruption
     cc -O2 -o resume examples/cookbook/resume.c -lm && ./resume */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

/* [model] */
static fold_model *new_model(void) /* always the same parameters, under the same names */
{
    fold_model *m = fold_model_new(NULL);
    fold_weight_new(m, "W", 3, 2);
    fold_bias_new(m, "b", 2);
    return m;
}
/* [end] */

static void train(fold_model *m, int last) /* from the optimiser's steps so far to `last` */
{
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    for (int step = (int)fold_model_steps(m); step < last; step++) {
        float x[3] = { (float)(step % 5), 1, -1 };
        fold_ctx_reset(f);
        fold_node y = fold_linear(f, fold_input(f, x, 3), fold_param_find(m, "W"), fold_param_find(m, "b"));
        if (fold_backward(f, fold_softmax_xent(f, y, step % 2)) || fold_adam_step(m, &adam)) {
            puts(fold_ctx_message(f));
            break;
        }
    }
    fold_ctx_free(f);
}

int main(void)
{
    fold_model *at_once = new_model(), *before = new_model(), *after = new_model();
    train(at_once, 100);

    train(before, 60);
    /* [save] */
    fold_save_desc save = fold_save_desc_default();
    save.state = 1; /* the optimiser's state as well as the weights */
    fold_load_desc load = fold_load_desc_default();
    load.state = 1;
    if (fold_model_save(before, "checkpoint.safetensors", &save)) puts(fold_model_message(before));
    if (fold_model_load(after, "checkpoint.safetensors", &load)) puts(fold_model_message(after));
    /* [end] */
    train(after, 100);

    int n;
    const float *a = fold_model_values(at_once, &n), *b = fold_model_values(after, &n);
    int differ = memcmp(a, b, (size_t)n * sizeof(float)) != 0;
    puts(differ ? "the weights differ" : "the same bits as without the interruption");
    fold_model_free(at_once);
    fold_model_free(before);
    fold_model_free(after);
    return differ;
}
