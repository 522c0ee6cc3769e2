/* policy.h - a small robot's policy: two dense layers, a GRU for its memory, and a head. examples/export.c trains it,
   examples/firmware.c runs it on a microcontroller. Include it after fold.h. */

enum { OBSERVED = 16, HIDDEN = 64, ACTIONS = 10 };

typedef struct policy {
    fold_dense first, second, head;
    fold_recurrent state;
    fold_cell cell; /* takes observations [16] and memory [64], gives actions [10] and memory [64] */
} policy;

static void policy_step(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const policy *p = (const policy *)user;
    const fold_state before = { in[1], FOLD_NULL_NODE };
    const fold_node seen = fold_dense_apply(f, &p->second, fold_dense_apply(f, &p->first, in[0]));
    out[1] = fold_recurrent_apply(f, &p->state, seen, before).h;
    out[0] = fold_dense_apply(f, &p->head, out[1]);
}

static void policy_new(policy *p, fold_model *m)
{
    p->first = fold_dense_new(m, "first", OBSERVED, HIDDEN, FOLD_ACT_RELU);
    p->second = fold_dense_new(m, "second", HIDDEN, HIDDEN, FOLD_ACT_RELU);
    p->state = fold_gru_new(m, "state", HIDDEN, HIDDEN);
    p->head = fold_dense_new(m, "head", HIDDEN, ACTIONS, FOLD_ACT_LINEAR);
    fold_cell_desc desc = fold_cell_desc_default();
    desc.name = "policy";
    desc.body = policy_step;
    desc.user = p;
    desc.n_in = desc.n_out = 2;
    desc.in[0] = fold_shape1(OBSERVED);
    desc.in[1] = fold_shape1(HIDDEN);
    p->cell = fold_cell_new(m, &desc);
}
