/* A shared library with an implementation of its own, for cc -I. -DVALUE=name: a weight's initial value. */
#define FOLD_IMPLEMENTATION
#include "fold.h"
float VALUE(void);
float VALUE(void)
{
    fold_model *m = fold_model_new(NULL);
    const float value = fold_param_value(m, fold_weight_new(m, "W", 2, 2))[1];
    fold_model_free(m);
    return value;
}
