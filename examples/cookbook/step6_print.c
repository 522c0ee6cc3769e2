/* step6_print: prints one ant's brain as plain C
     cc -O2 -o step6_print examples/cookbook/step6_print.c -lm && ./step6_print     reads ants.safetensors, writes ant.c */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "../fold_to_c.h"
#include <stdio.h>
#include "ants.h"

int main(void)
{
    static float zeros[HIDDEN];
    fold_model *m = fold_model_new(NULL);
    brain b = brain_new(m);
    if (fold_model_load(m, "ants.safetensors", NULL)) return puts(fold_model_message(m)), 1;
    FILE *file = fopen("ant.c", "w");
    if (!file) return puts("ant.c cannot be written"), 1;
    /* [print] */
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1; /* records the ops inside a GRU, which will be printed */
    fold_ctx *f = fold_ctx_new(m, &eager);
    fold_node seen = fold_input(f, zeros, 2), h = fold_input(f, zeros, HIDDEN);
    fold_state before = { h, FOLD_NULL_NODE }, after = fold_recurrent_apply(f, &b.memory, seen, before);
    fold_to_c_port in = { "crumb", seen, FOLD_NULL_NODE }, memory = { "memory", h, after.h };
    fold_to_c_port out = { "score", fold_dense_apply(f, &b.choose, after.h), FOLD_NULL_NODE };
    fold_to_c_desc ant = fold_to_c_desc_default();
    ant.name = "ant";
    ant.in = &in;
    ant.out = &out;
    ant.state = &memory;
    ant.n_in = ant.n_out = ant.n_state = 1;
    fold_to_c_result printed = fold_to_c(f, &ant, fold_to_file, file);
    if (printed.status || fclose(file)) return puts(printed.message), 1;
    /* [end] */
    printf("ant.c: %d bytes of weights, %d of memory per ant\n", (int)printed.weight_bytes, (int)printed.state_bytes);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
