/* One file of two that include every companion twice and call each once: main with FAMILY_MAIN, other_file without. */
#include "family.h"
#include "family.h"
#include <stdio.h>
#include <string.h>

int other_file(void);

static int nowhere(const void *text, size_t size, void *user) { return (void)text, (void)size, user != NULL; }

/* Counts calls that answer as they should, without a model. */
static int calls(void)
{
    const int guess[2] = { 1, 2 }, label[2] = { 1, 3 };
    float two[2] = { 1, 3 };
    const fold_to_c_desc desc = fold_to_c_desc_default();
    int right = fold_fit_accuracy(guess, label, 2) == 0.5;
    right += fold_rl_standardize(two, 2) == 1 && two[1] > 0;
    right += fold_onnx_open_memory(NULL, "", 0, NULL) == NULL;
    right += fold_torch_open_memory(NULL, "", 0) == NULL;
    right += fold_to_c(NULL, &desc, nowhere, NULL).status == FOLD_BAD_ARGUMENT;
    right += fold_draw_svg(NULL, nowhere, NULL) == FOLD_BAD_ARGUMENT;
    right += fold_record_write(NULL, NULL, nowhere, NULL).status == FOLD_BAD_ARGUMENT;
#ifdef FAMILY_POOL /* a library with threads says so to its users */
    fold_pool *pool = fold_pool_new(2);
    right -= pool == NULL;
    fold_pool_free(pool);
#endif
    right += yours_draw() + yours_fit() + yours_data() == 6;
    return right;
}

#ifdef FAMILY_MAIN
int main(void)
{
    const int here = calls(), there = other_file();
    printf("%d and %d of 8 calls are right\n", here, there);
    return here != 8 || there != 8;
}
#else
int other_file(void) { return calls(); }
#endif
