/* parity: reads a sequence of bits, of any length, bit by bit and decides whether the number of ones is even
   or odd.

     cc -O2 -o parity examples/parity.c -lm && ./parity

   This is all it takes to train a network on sequences of different lengths. Nothing is padded, and the steps
   of all sequences share batches. The network learns from sequences of 1 to 12 bits and is tested on
   sequences of 100. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <stdio.h>
#include <string.h>

enum { HIDDEN = 16, BATCH = 64, LONGEST = 12, STEPS = 300, TESTS = 200, TEST_LENGTH = 100 };
typedef struct network { fold_param bits; fold_recurrent read; fold_dense answer; } network;

/* Draws a sequence and records it: two logits, for even and for odd. */
static fold_node record(fold_ctx *f, const network *n, fold_random *chance, int length, int *odd)
{
    int bits[TEST_LENGTH];
    fold_state last;
    *odd = 0;
    for (int t = 0; t < length; t++) *odd ^= bits[t] = fold_random_below(chance, 2);
    fold_unroll_list(f, &n->read, fold_list_lookup(f, n->bits, bits, length), 0, NULL, &last);
    return fold_dense_apply(f, &n->answer, last.h);
}

static int failed(fold_ctx *f) { return fprintf(stderr, "parity: %s\n", fold_ctx_message(f)), 1; }

static int train(fold_model *m, const network *n)
{
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.01f;
    fold_random chance = fold_random_new(1, 0);
    int wrong = 0;
    for (int step = 0; step < STEPS && !wrong; step++) {
        fold_node loss[BATCH];
        fold_ctx_reset(f); /* forgets the recording of the previous step */
        for (int i = 0; i < BATCH; i++) {
            int odd, length = 1 + fold_random_below(&chance, LONGEST);
            fold_node logits = record(f, n, &chance, length, &odd);
            loss[i] = fold_softmax_xent(f, logits, odd);
        }
        fold_node mean = fold_mean_n(f, loss, BATCH);
        wrong = fold_backward(f, mean) || fold_adam_step(m, &adam);
        if (wrong) failed(f);
        else if (step % 100 == 99) printf("step %4d  loss %.4f\n", step + 1, (double)fold_scalar(f, mean));
    }
    fold_ctx_free(f);
    return wrong;
}

/* Returns how many of 100 new sequences it gets right, -1 after an error. */
static double examine(fold_model *m, const network *n, int length)
{
    fold_ctx *f = fold_ctx_new(m, NULL); /* for inference */
    fold_random chance = fold_random_new(1, 1);
    fold_node logits[TESTS];
    int odd[TESTS], right = 0;
    for (int i = 0; i < TESTS; i++) logits[i] = record(f, n, &chance, length, &odd[i]);
    int wrong = fold_run(f, logits, TESTS) && failed(f);
    for (int i = 0; i < TESTS && !wrong; i++) right += fold_argmax(fold_value(f, logits[i]), 2) == odd[i];
    fold_ctx_free(f);
    return wrong ? -1 : 100.0 * right / TESTS;
}

int main(int argc, char **argv)
{
    if (argc > 1) return puts("usage: parity (it has no options)"), strcmp(argv[1], "-h") != 0;
    fold_model *m = fold_model_new(NULL);
    network n;
    n.bits = fold_table_new(m, "bits", 2, HIDDEN);
    n.read = fold_gru_new(m, "read", HIDDEN, HIDDEN);
    n.answer = fold_dense_new(m, "answer", HIDDEN, 2, FOLD_ACT_LINEAR);
    double before = examine(m, &n, LONGEST);
    if (train(m, &n)) return 1;
    int count;
    const unsigned char *bytes = (const unsigned char *)fold_model_values(m, &count);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < (size_t)count * sizeof(float); i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    const double short_ones = examine(m, &n, LONGEST), long_ones = examine(m, &n, TEST_LENGTH);
    printf("RESULT parity right_before=%.1f right_of_12=%.1f right_of_100=%.1f hash=%016llx\n", before,
           short_ones, long_ones, (unsigned long long)hash);
    fold_model_free(m);
    return 0;
}
