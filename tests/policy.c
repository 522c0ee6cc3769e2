/* A robot's policy, the smallest program that runs a network: two dense layers, a GRU and a head, 30,666 weights, for some agents,
   replayed. tests/sizes builds it with less and less of the library and tells what is left.

     cc -Os -DFOLD_INFERENCE tests/policy.c -lm

   It takes its memory from a static array, reads no file and prints nothing, so that what is linked is the library's. It returns 0
   when it ran. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"

enum { OBSERVED = 16, HIDDEN = 64, ACTIONS = 10, STEPS = 3 };

typedef struct net {
    fold_dense first, second, head;
    fold_recurrent state;
} net;

static void step(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_state before = { in[1], { 0, 0 } };
    const fold_node x = fold_dense_apply(f, &n->second, fold_dense_apply(f, &n->first, in[0]));
    out[1] = fold_recurrent_apply(f, &n->state, x, before).h;
    out[0] = fold_dense_apply(f, &n->head, out[1]);
}

static unsigned char pool[1 << 20];
static size_t used;
static void *take(size_t size, size_t align, void *user)
{
    (void)user;
    used = (used + align - 1) / align * align;
    if (size > sizeof pool - used) return NULL;
    used += size;
    return pool + used - size;
}
static void leave(void *memory, size_t size, void *user) { (void)memory, (void)size, (void)user; }

int main(void)
{
    static float observed[OBSERVED], memory[HIDDEN];
    static net n;
    fold_model_desc of_model = fold_model_desc_default();
    of_model.inference = 1;
    of_model.memory.alloc = take;
    of_model.memory.free = leave;
    fold_model *m = fold_model_new(&of_model);
    n.first = fold_dense_new(m, "first", OBSERVED, HIDDEN, FOLD_ACT_RELU);
    n.second = fold_dense_new(m, "second", HIDDEN, HIDDEN, FOLD_ACT_RELU);
    n.state = fold_gru_new(m, "state", HIDDEN, HIDDEN);
    n.head = fold_dense_new(m, "head", HIDDEN, ACTIONS, FOLD_ACT_LINEAR);
    fold_cell_desc desc = fold_cell_desc_default();
    desc.name = "policy";
    desc.body = step;
    desc.user = &n;
    desc.n_in = desc.n_out = 2;
    desc.in[0] = fold_shape1(OBSERVED);
    desc.in[1] = fold_shape1(HIDDEN);
    const fold_cell policy = fold_cell_new(m, &desc);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node in[2];
    in[0] = fold_input_ref(f, observed, desc.in[0]);
    in[1] = fold_input_ref(f, memory, desc.in[1]);
    const fold_node call = fold_call(f, policy, in, 2), action = fold_out(f, call, 0);
    fold_output_ref(f, fold_out(f, call, 1), memory);
    int failed = fold_run(f, &action, 1) != FOLD_OK;
    for (int i = 1; i < STEPS; i++) failed |= fold_replay(f) != FOLD_OK;
    failed |= !fold_value(f, action);
#ifdef FOLD_INFERENCE
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    failed |= fold_ctx_status(fold_ctx_new(m, &training)) != FOLD_BAD_ARGUMENT;
#endif
#ifdef FOLD_PLAIN_CONTEXTS
    fold_ctx_desc merging = fold_ctx_desc_default();
    merging.dedupe = 1;
    failed |= fold_ctx_status(fold_ctx_new(m, &merging)) != FOLD_BAD_ARGUMENT;
#ifdef READ_MESSAGES /* not in builds that are measured */
    failed |= !strstr(fold_ctx_message(fold_ctx_new(m, &merging)), "FOLD_PLAIN_CONTEXTS left out");
#endif
#endif
    return failed;
}
