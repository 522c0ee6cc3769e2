/* kernel_sets.h - the kernel sets there are, and which of them this machine has. Include it behind fold.h and check.h. */

#ifndef KERNEL_SETS_H
#define KERNEL_SETS_H

enum { KERNEL_SETS = 4 };
static const char *const kernel_set[KERNEL_SETS] = { "portable", "neon", "avx2", "avx512" };

/* A model of a kernel set (NULL: the best), or NULL where the machine or the compiler lacks it. */
static inline fold_model *kernel_set_model(const char *name)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.isa = name;
    fold_model *m = fold_model_new(&desc);
    if (!fold_model_status(m)) return m;
    fold_model_free(m);
    return NULL;
}

/* Says aloud which sets are missing, once a program. */
static inline void skip_missing_kernel_sets(void)
{
    for (int i = 0; i < KERNEL_SETS; i++) {
        fold_model *m = kernel_set_model(kernel_set[i]);
        if (!m) check_skip("kernels %s (not on this machine, or not compiled in)", kernel_set[i]);
        fold_model_free(m);
    }
}

#endif /* KERNEL_SETS_H */
