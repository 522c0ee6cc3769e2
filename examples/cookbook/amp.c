/* amp: prints an LSTM with a dense layer as one C file that does not need fold.h
     cc -O2 -o amp examples/cookbook/amp.c -lm && ./amp     writes amp_network.c */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "../fold_to_c.h"
#include <stdio.h>

enum { HIDDEN = 16 };

int main(void)
{
    static float zeros[HIDDEN];
    fold_model *m = fold_model_new(NULL); /* a trained one would be loaded */
    fold_recurrent lstm = fold_lstm_new(m, "lstm", 1, HIDDEN);
    fold_dense head = fold_dense_new(m, "head", HIDDEN, 1, FOLD_ACT_LINEAR);
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1; /* calls of cells become their ops */
    fold_ctx *f = fold_ctx_new(m, &eager);
    fold_node x = fold_input(f, zeros, 1);
    fold_node h = fold_input(f, zeros, HIDDEN), c = fold_input(f, zeros, HIDDEN);
    fold_state before = { h, c }, after = fold_recurrent_apply(f, &lstm, x, before);
    fold_node y = fold_dense_apply(f, &head, after.h);
    FILE *file = fopen("amp_network.c", "w");
    if (!file) return puts("amp_network.c cannot be written"), 1;
    /* [states] */
    fold_to_c_port in = { "x", x, FOLD_NULL_NODE }, out = { "y", y, FOLD_NULL_NODE };
    fold_to_c_port states[2] = { { "h", h, after.h }, { "c", c, after.c } }; /* kept from step to step */
    /* [end] */
    fold_to_c_desc amp = fold_to_c_desc_default();
    amp.name = "amp";
    amp.in = &in;
    amp.out = &out;
    amp.state = states;
    amp.n_in = amp.n_out = 1;
    amp.n_state = 2;
    fold_to_c_result printed = fold_to_c(f, &amp, fold_to_file, file);
    if (printed.status) return puts(printed.message), 1;
    fclose(file);
    printf("%d bytes of weights, %d of states\n", (int)printed.weight_bytes, (int)printed.state_bytes);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
