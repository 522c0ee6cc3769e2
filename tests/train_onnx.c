/* train_onnx.c - trains the networks that tests/train_onnx.py wrote, as PyTorch did, and saves them as ONNX files again.
       python3 tests/train_onnx.py write FOLDER && ./train_onnx FOLDER && python3 tests/train_onnx.py back FOLDER */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "../examples/fold_onnx.h"

enum { SAMPLES = 2, STEPS = 20, MOST = 256 };
static int fails(const char *name, const char *why)
{
    printf("FAILED: %s: %s\n", name, why);
    return 1;
}
static int train(const char *folder, const char *name)
{
    char path[400], to[400];
    static float x[SAMPLES][MOST], target[SAMPLES][MOST];
    int counts[2] = { 0, 0 }, failed = 0;
    snprintf(path, sizeof path, "%.300s/%s.bin", folder, name);
    FILE *file = fopen(path, "rb"); /* on a little-endian machine, as PyTorch is */
    int is_there = file && fread(counts, sizeof *counts, 2, file) == 2 && counts[0] <= MOST && counts[1] <= MOST;
    for (int i = 0; i < SAMPLES && is_there; i++)
        is_there = fread(x[i], 4, (size_t)counts[0], file) == (size_t)counts[0] && fread(target[i], 4, (size_t)counts[1], file) == (size_t)counts[1];
    if (file) fclose(file);
    if (!is_there) return fails(path, "cannot be read");
    snprintf(path, sizeof path, "%.300s/%s.onnx", folder, name);
    snprintf(to, sizeof to, "%.300s/%s.trained.onnx", folder, name);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_onnx *o = fold_onnx_open(m, path, NULL);
    fold_sgd sgd = fold_sgd_default();
    sgd.rate = 0.005f;
    for (int step = 0; step < STEPS && o; step++) {
        fold_node loss[SAMPLES];
        fold_ctx_reset(f);
        for (int i = 0; i < SAMPLES; i++) {
            const fold_node none = { 0, 0 };
            fold_onnx_value in = { "x", x[i], none }, y = { "y", NULL, none };
            fold_onnx_record(o, f, &in, 1, NULL, &y, 1);
            const fold_node made = fold_reshape(f, y.node, fold_shape1(counts[1]));
            loss[i] = fold_sum(f, fold_square(f, fold_sub(f, made, fold_input(f, target[i], counts[1]))), -1);
        }
        if (fold_backward(f, fold_add(f, loss[0], loss[1]))) failed = fails(name, fold_ctx_message(f));
        fold_sgd_step(m, &sgd);
    }
    if (fold_onnx_save(m, path, to, NULL) || !o) failed = fails(name, fold_model_message(m));
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
    return failed;
}
int main(int argc, char **argv)
{
    static const char *const names[] = { "mlp", "conv", "gru", "lstm", "attention" };
    int failed = 0;
    for (int i = 0; i < 5 && argc > 1; i++) failed += train(argv[1], names[i]);
    return failed;
}
