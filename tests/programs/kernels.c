/* Prints the kernels that programs run on: cc -I. with an object of the implementation. */
#include "fold.h"
#include <stdio.h>
int main(void)
{
    fold_model *m = fold_model_new(NULL);
    puts(fold_model_isa(m));
    fold_model_free(m);
    return 0;
}
