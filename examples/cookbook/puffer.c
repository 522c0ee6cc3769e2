/* puffer: loads the unnamed floats of a PufferLib policy and saves them for PyTorch
     cc -O2 -o puffer examples/cookbook/puffer.c -lm && ./puffer */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../fold_torch.h"
#include <stdio.h>

enum { SEES = 12, WIDTH = 32, DOES = 4 };
enum { FLOATS = SEES * WIDTH + WIDTH + WIDTH * DOES + DOES + WIDTH + 1 + 8 * WIDTH * (WIDTH + 1) };

int main(void)
{
    /* [layers] */
    static const fold_torch_layer layers[] = { /* in the order of the file */
        { FOLD_TORCH_LINEAR, "encoder" },
        { FOLD_TORCH_LINEAR, "actor" },
        { FOLD_TORCH_LINEAR, "value" },
        { FOLD_TORCH_LSTM, "lstm" }
    };
    /* [end] */
    static float floats[FLOATS];
    fold_model *m = fold_model_new(NULL);
    fold_dense_new(m, "encoder", SEES, WIDTH, FOLD_ACT_RELU);
    fold_dense_new(m, "actor", WIDTH, DOES, FOLD_ACT_LINEAR);
    fold_dense_new(m, "value", WIDTH, 1, FOLD_ACT_LINEAR);
    fold_rnn_stack_new(m, "lstm", fold_lstm_new, WIDTH, WIDTH, 1, 0);

    for (int i = 0; i < FLOATS; i++) floats[i] = (float)(i % 7 - 3) / 8;
    /* [load] */
    fold_torch_load_raw_memory(m, floats, FLOATS, layers, 4); /* for a file: fold_torch_load_raw */
    if (fold_torch_save(m, "puffer.safetensors", layers, 4)) return puts(fold_model_message(m)), 1;
    /* [end] */
    printf("%d floats\n", FLOATS);
    fold_model_free(m);
    return 0;
}
