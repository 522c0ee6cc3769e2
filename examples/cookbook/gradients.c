/* gradients: writes gradients under the names of PyTorch, to compare
     cc -O2 -o gradients examples/cookbook/gradients.c -lm && cp tests/tagger.safetensors . && ./gradients */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../fold_torch.h"
#include <stdio.h>

enum { WORDS = 8 };

int main(void)
{
    static const fold_torch_layer layers[] = {
        { FOLD_TORCH_EMBEDDING, "words" },
        { FOLD_TORCH_LSTM, "lstm" },
        { FOLD_TORCH_LINEAR, "tag" }
    };
    static const int sentence[WORDS] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    static const int tags[WORDS] = { 0, 1, 2, 0, 1, 2, 0, 1 };
    fold_model *m = fold_model_new(NULL);
    fold_torch *t = fold_torch_open(m, "tagger.safetensors");
    fold_param words = fold_torch_embedding(t, "words");
    fold_rnn_stack lstm = fold_torch_lstm(t, "lstm");
    fold_dense tag = fold_torch_linear(t, "tag", FOLD_ACT_LINEAR);
    if (fold_torch_close(t)) return puts(fold_model_message(m)), 1;

    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_node x = fold_unroll_stack_list(f, &lstm, fold_list_lookup(f, words, sentence, WORDS), NULL, NULL);
    fold_node loss = fold_list_mean(f, fold_softmax_xent_each(f, fold_dense_apply(f, &tag, x), tags, WORDS));
    /* [save] */
    if (fold_backward(f, loss)) return puts(fold_ctx_message(f)), 1;
    if (fold_torch_save_grads(m, "grads.safetensors", layers, 3)) return puts(fold_model_message(m)), 1;
    /* [end] */
    printf("loss %.5f\n", (double)fold_scalar(f, loss));
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
