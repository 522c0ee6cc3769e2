/* torch: loads a PyTorch sequence classifier (an nn.LSTM followed by an nn.Linear), runs it on sequences of
   any length and continues training it.

     cc -O2 -o torch examples/torch.c -lm && ./torch

   In Python, create net.lstm = nn.LSTM(8, 16) and net.head = nn.Linear(16, 3), or the same with other sizes,
   more layers or two directions. Save the network with safetensors.torch.save_file(net.state_dict(),
   "net.safetensors"), then run `./torch net.safetensors`. Without a file, the program writes a file with the
   same tensor names and reads it. The program prints net.head(net.lstm(x)[0][-1]) and trains with a
   classification loss. Then it saves the trained weights, loads them into a second model and checks that they
   are bit-identical. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_FIT_IMPLEMENTATION
#include "fold_fit.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "fold_torch.h"
#include "unfused.h"
#include <stdio.h>
#include <string.h>

enum { LONGEST = 40, INPUTS = 256, TRAINED = 2000, TESTED = 200 }; /* the most there are */
typedef struct network { fold_rnn_stack lstm; fold_dense head; int inputs, classes; } network;
static int failed(const char *message) { return fprintf(stderr, "torch: %s\n", message), 1; }

static int write_file(const char *path) /* a new Net(): uniform within 1 / sqrt(16) */
{
    static const struct { const char *name; fold_shape shape; } tensors[] = {
        { "lstm.weight_ih_l0", { 2, { 64, 8 } } }, { "lstm.weight_hh_l0", { 2, { 64, 16 } } },
        { "lstm.bias_ih_l0", { 1, { 64 } } },      { "lstm.bias_hh_l0", { 1, { 64 } } },
        { "head.weight", { 2, { 3, 16 } } },       { "head.bias", { 1, { 3 } } } };
    fold_model *m = fold_model_new(NULL);
    fold_param_desc desc = fold_param_desc_default();
    desc.init = FOLD_INIT_UNIFORM;
    desc.init_scale = 0.25f;
    for (int i = 0; i < 6; i++) {
        desc.name = tensors[i].name;
        desc.shape = tensors[i].shape;
        fold_param_new(m, &desc);
    }
    int wrong = fold_model_save(m, path, NULL) && failed(fold_model_message(m));
    fold_model_free(m);
    return wrong;
}

static int read_file(fold_model *m, network *n, const char *path)
{
    fold_torch *t = fold_torch_open(m, path);
    n->lstm = fold_torch_lstm(t, "lstm");
    n->head = fold_torch_linear(t, "head", FOLD_ACT_LINEAR);
    if (fold_torch_close(t)) return failed(fold_model_message(m)); /* a tensor that no call has read is an error, too */
    n->inputs = fold_param_shape(m, fold_param_find(m, "lstm.0.W")).dim[0] - n->lstm.cell[0].hidden; /* W: [x h] */
    n->classes = fold_param_shape(m, n->head.W).dim[1];
    return n->inputs > INPUTS && failed("it has more than 256 inputs");
}

/* Records the logits of a sequence that its number makes up. Its class is the largest of its last values. */
static fold_node record(fold_ctx *f, const network *n, int number, int *label)
{
    fold_random chance = fold_random_new(1, (uint64_t)number);
    float vector[INPUTS];
    fold_node x[LONGEST];
    const int length = 1 + fold_random_below(&chance, LONGEST);
    for (int t = 0; t < length; t++) {
        fold_random_gaussian(&chance, NULL, NULL, n->inputs, vector);
        x[t] = fold_input(f, vector, n->inputs); /* a copy */
    }
    *label = fold_argmax(vector, n->classes < n->inputs ? n->classes : n->inputs);
    fold_unroll_stack(f, &n->lstm, x, length, NULL, x, NULL);
    return fold_dense_apply(f, &n->head, x[length - 1]);
}

static fold_node loss(fold_ctx *f, int sample, void *user)
{
    int label;
    fold_node logits = record(f, (const network *)user, TESTED + sample, &label);
    return fold_softmax_xent(f, logits, label);
}

static double train(fold_model *m, network *n) /* returns the loss of the last epoch, -1 after an error */
{
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_adam adam = { 0.01f, 0, 0, 0, 0, 0 }; /* the rate; zeros are defaults */
    fold_fit_desc fit = fold_fit_desc_default(); /* 10 epochs in batches of 32 */
    fold_fit_report report;
    fit.ctx = fold_ctx_new(m, &training);
    fit.samples = TRAINED;
    fit.loss = loss;
    fit.user = n;
    fit.adam = &adam;
    int wrong = fold_fit(&fit, &report) && failed(fold_ctx_message(fit.ctx));
    fold_ctx_free(fit.ctx);
    return wrong ? -1 : report.loss;
}

static double examine(fold_model *m, const network *n) /* returns how many of 100 are right, -1 after an error */
{
    fold_node y[TESTED];
    int label[TESTED], guess[TESTED];
    fold_ctx *f = fold_ctx_new(m, NULL);
    for (int i = 0; i < TESTED; i++) y[i] = record(f, n, i, &label[i]);
    int wrong = fold_run(f, y, TESTED) && failed(fold_ctx_message(f));
    for (int i = 0; i < TESTED && !wrong; i++) guess[i] = fold_argmax(fold_value(f, y[i]), n->classes);
    printf("logits of the first sequence:");
    for (int k = 0; k < n->classes && !wrong; k++) printf(" %.4f", (double)fold_value(f, y[0])[k]);
    fold_ctx_free(f);
    puts("");
    return wrong ? -1 : 100 * fold_fit_accuracy(guess, label, TESTED);
}

int main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) return puts("usage: torch [FILE]"), strcmp(argv[1], "-h") != 0;
    const char *path = argc > 1 ? argv[1] : "net.safetensors";
    fold_model *m = fold_model_new(NULL), *again = fold_model_new(NULL);
    network n;
    if ((argc == 1 && write_file(path)) || read_file(m, &n, path)) return 1;
    double before = examine(m, &n), last = train(m, &n), after = examine(m, &n);
    if (before < 0 || last < 0 || after < 0) return 1;
    /* The same layers, made anew, take what was saved. */
    const fold_rnn_stack *s = &n.lstm;
    fold_rnn_stack_new(again, "lstm", fold_lstm_new, n.inputs, s->cell[0].hidden, s->layers, s->directions == 2);
    fold_dense_new(again, "head", s->directions * s->cell[0].hidden, n.classes, FOLD_ACT_LINEAR);
    if (fold_model_save(m, "trained.safetensors", NULL)) return failed(fold_model_message(m));
    if (fold_model_load(again, "trained.safetensors", NULL)) return failed(fold_model_message(again));
    int count;
    const float *a = fold_model_values(m, &count), *b = fold_model_values(again, NULL);
    int same = !memcmp(a, b, (size_t)count * sizeof *a);
    printf("RESULT torch right_before=%.1f right_after=%.1f loss=%.6f same=%d\n", before, after, last, same);
    fold_model_free(m);
    fold_model_free(again);
    return !same;
}
