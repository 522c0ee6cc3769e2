/* onnx: runs a policy from an ONNX file for 256 agents at once
     cc -O2 -o onnx examples/cookbook/onnx.c -lm && cp tests/policy.onnx . && ./onnx */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "../fold_onnx.h"
#include <stdio.h>

enum { AGENTS = 256, SENSED = 4 };

int main(void)
{
    static float sensed[AGENTS][SENSED];
    fold_random chance = fold_random_new(1, 0);
    fold_random_gaussian(&chance, NULL, NULL, AGENTS * SENSED, sensed[0]);
    fold_model *m = fold_model_new(NULL);
    /* [open] */
    fold_onnx *o = fold_onnx_open(m, "policy.onnx", NULL); /* its weights become parameters of m */
    if (!o) return puts(fold_model_message(m)), 1;
    /* [end] */
    fold_ctx *f = fold_ctx_new(m, NULL);
    /* [record] */
    fold_onnx_value in = { "obs", NULL, fold_list_input(f, sensed[0], AGENTS, fold_shape1(SENSED)) };
    fold_onnx_value out = { "actions", NULL, FOLD_NULL_NODE };
    fold_onnx_record(o, f, &in, 1, NULL, &out, 1);
    if (fold_run(f, &out.node, 1)) return puts(fold_ctx_message(f)), 1;
    const float *actions = fold_value(f, out.node); /* a row for each agent */
    /* [end] */
    const int wide = fold_onnx_find(o, "actions").count;
    printf("%d agents, %d actions each, from %d nodes\n", AGENTS, wide, fold_ctx_stats(f).run_nodes);
    int failed = !fold_finite(actions, AGENTS * wide);
    fold_ctx_free(f);
    fold_onnx_close(o);
    fold_model_free(m);
    return failed;
}
