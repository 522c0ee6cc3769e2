/* models.h - what several tests make models and contexts with: memory that is counted and may run out, contexts for training, cells.
   Include it behind fold.h and check.h. */

#ifndef MODELS_H
#define MODELS_H

#include <stdlib.h>

/* Memory that is counted. `left` allocations more work, and then none; below 0: any number. `refused` counts those that did not. */
typedef struct purse { size_t held, most; int left, refused; } purse;

static inline void *purse_alloc(size_t size, size_t align, void *user)
{
    purse *p = (purse *)user;
    if (!p->left) return p->refused++, (void *)0;
    p->left -= p->left > 0;
    p->held += size;
    if (p->held > p->most) p->most = p->held;
    return aligned_block(size, align);
}
static inline void purse_free(void *block, size_t size, void *user)
{
    ((purse *)user)->held -= size;
    free_block(block);
}
static inline fold_model_desc purse_desc(purse *p)
{
    fold_model_desc d = fold_model_desc_default();
    d.memory.alloc = purse_alloc;
    d.memory.free = purse_free;
    d.memory.user = p;
    return d;
}

static inline fold_ctx *training_ctx(fold_model *m, int plans)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.plan_cache_bytes = plans ? 1 << 16 : 0;
    return fold_ctx_new(m, &d);
}
/* A cell of two vectors of so many floats. */
static inline fold_cell pair_cell(fold_model *m, const char *name, fold_cell_body *body, const void *user, size_t user_size, int n_out,
                                  int floats)
{
    fold_cell_desc d = fold_cell_desc_default();
    d.name = name;
    d.body = body;
    d.user = user;
    d.user_size = user_size;
    d.n_in = 2;
    d.n_out = n_out;
    d.in[0] = d.in[1] = fold_shape1(floats);
    return fold_cell_new(m, &d);
}
static inline void check_same_model(const fold_model *a, const fold_model *b)
{
    int n, k;
    const float *x = fold_model_values(a, &n), *y = fold_model_values(b, &k);
    CHECK_INT(n, k);
    CHECK_BITS(x, y, n);
    CHECK_INT(fold_model_steps(a), fold_model_steps(b));
}

#endif /* MODELS_H */
