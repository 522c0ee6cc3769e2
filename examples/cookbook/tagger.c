/* tagger: loads a tagger that PyTorch trained, and tags a sentence
     cc -O2 -o tagger examples/cookbook/tagger.c -lm && cp tests/tagger.safetensors . && ./tagger */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../fold_torch.h"
#include <stdio.h>

enum { WORDS = 8, TAGS = 3 };

int main(void)
{
    static const int sentence[WORDS] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    fold_model *m = fold_model_new(NULL);

    /* [open] */
    fold_torch *t = fold_torch_open(m, "tagger.safetensors");
    fold_param words = fold_torch_embedding(t, "words");
    fold_rnn_stack lstm = fold_torch_lstm(t, "lstm");
    fold_dense tag = fold_torch_linear(t, "tag", FOLD_ACT_LINEAR);
    if (fold_torch_close(t)) return puts(fold_model_message(m)), 1; /* also fails if a tensor was not read */
    /* [end] */

    fold_ctx *f = fold_ctx_new(m, NULL);
    float logits[WORDS][TAGS];
    /* [run] */
    fold_node x = fold_unroll_stack_list(f, &lstm, fold_list_lookup(f, words, sentence, WORDS), NULL, NULL);
    fold_node y = fold_dense_apply(f, &tag, x);
    /* [end] */
    if (fold_run(f, &y, 1) || fold_read(f, &y, 1, logits[0])) {
        puts(fold_ctx_message(f));
        return 1;
    }
    printf("logits of the first %.3f %.3f %.3f\ntags", (double)logits[0][0], (double)logits[0][1],
           (double)logits[0][2]);
    for (int i = 0; i < WORDS; i++) printf(" %d", fold_argmax(logits[i], TAGS));
    puts("");
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
