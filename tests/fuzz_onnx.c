/* Opening hostile ONNX files: whatever the bytes, a file is refused with a message, or it is read and runs. Memory stays within 8
   times the file and 16 MB.

   With libFuzzer:    clang -g -O1 -DLIBFUZZER -fsanitize=fuzzer,address,undefined -o build/fuzz_onnx tests/fuzz_onnx.c -lm
                      build/fuzz_onnx -max_len=16384 FOLDER
   As a program:      cc -g -O1 -fsanitize=address,undefined -o build/fuzz_onnx tests/fuzz_onnx.c -lm
                      build/fuzz_onnx [--runs N] [--seed N] [FILE...]     random changes of a good file, or of these */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "../examples/fold_onnx.h"
#include "check.h"
#include "models.h"
#include "../examples/options.h"
#include "write_onnx.h"
#include <stdlib.h>

enum { LONGEST = 1 << 21, MOST_RUN = 1 << 16, MOST = 64 };

static void must(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_onnx: %s\n", what);
    abort();
}

static long read_files;

/* Records and runs what was read, unless it is too large to be run so often. */
static void run(fold_model *m, fold_onnx *o)
{
    static float values[MOST_RUN];
    fold_onnx_value in[MOST], out[MOST];
    int n_in = fold_onnx_input_count(o), n_out = 0;
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_random chance = fold_random_new(1, 1);
    for (int i = 0; i < MOST_RUN; i++) values[i] = (float)(i % 17) / 8 - 1;
    if (n_in > MOST) n_in = MOST;
    for (int i = 0; i < n_in; i++) {
        const fold_onnx_tensor tensor = fold_onnx_input(o, i);
        memset(&in[i], 0, sizeof in[i]);
        in[i].name = tensor.name;
        in[i].values = values;
        if (tensor.count > MOST_RUN) n_in = i;
    }
    for (int i = 0; i < fold_onnx_output_count(o) && n_out < MOST; i++)
        if (fold_onnx_output(o, i).count) out[n_out++].name = fold_onnx_output(o, i).name;
    if (n_in == fold_onnx_input_count(o) && !fold_onnx_record(o, f, in, n_in, &chance, out, n_out)) {
        for (int i = 0; i < n_out; i++) fold_keep(f, out[i].node);
        must(!fold_run(f, NULL, 0), fold_ctx_message(f));
        for (int i = 0; i < n_out; i++) {
            const float *y = fold_value(f, out[i].node);
            volatile float last = y[fold_onnx_find(o, out[i].name).count - 1];
            (void)last;
        }
    }
    must(!fold_ctx_status(f), fold_ctx_message(f));
    fold_ctx_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    purse p = { 0, 0, -1, 0 };
    fold_model_desc model = purse_desc(&p);
    model.inference = 1;
    fold_model *m = fold_model_new(&model);
    fold_onnx_desc desc = fold_onnx_desc_default();
    desc.max_bytes = 4 * size + (8 << 20);
    fold_onnx *o = fold_onnx_open_memory(m, data, size, &desc);
    must(!o == (fold_model_status(m) != FOLD_OK) && !o == (*fold_model_message(m) != 0), "a file is read, or there is a message");
    must(p.most <= 8 * size + (16 << 20), "memory");
    read_files += o != NULL;
    if (o) run(m, o);
    fold_onnx_close(o);
    fold_model_free(m);
    must(!p.held, "all memory is given back");
    return 0;
}

#ifndef LIBFUZZER
/* Changes some bytes, mostly of the structure: values of weights are the longest part of a file. */
static size_t change(fold_random *r, unsigned char *b, size_t size)
{
    const int changes = 1 + fold_random_below(r, 4);
    for (int i = 0; i < changes && size > 8; i++) {
        const size_t at = (size_t)fold_random_below(r, (int)size), to = (size_t)fold_random_below(r, (int)size);
        const size_t n = 1 + (size_t)fold_random_below(r, 16);
        switch (fold_random_below(r, 6)) {
        case 0: b[at] = (unsigned char)fold_random_below(r, 256); break;
        case 1: b[at] = (unsigned char)(b[at] + fold_random_below(r, 5) - 2); break;
        case 2: b[at] ^= (unsigned char)(1 << fold_random_below(r, 8)); break;
        case 3: size = at + 1; break;
        case 4:
            if (at + n < size && to + n < size) memmove(b + to, b + at, n);
            break;
        default:
            if (at + n < size) memmove(b + at, b + at + n, size - at - n), size -= n;
            break;
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    static unsigned char good[16][LONGEST], changed[LONGEST];
    static message network;
    size_t size[16];
    int files = 0;
    long long runs = 2000, seed = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--runs")) runs = option_whole(argc, argv, i++, 0, 1000000000);
        else if (!strcmp(argv[i], "--seed")) seed = option_whole(argc, argv, i++, 0, INT64_MAX);
        else if (files < 16) {
            FILE *file = fopen(argv[i], "rb");
            must(file != NULL, argv[i]);
            size[files] = fread(good[files], 1, LONGEST, file);
            fclose(file);
            LLVMFuzzerTestOneInput(good[files], size[files]);
            files++;
        }
    }
    if (!files) {
        write_network(&network);
        memcpy(good[0], network.bytes, size[0] = network.size);
        files = 1;
        LLVMFuzzerTestOneInput(good[0], size[0]);
        must(read_files == 1, "the network that is written is read");
    }
    read_files = 0;
    for (long long i = 0; i < runs; i++) {
        fold_random r = fold_random_new((uint64_t)seed, (uint64_t)i);
        const int which = fold_random_below(&r, files);
        memcpy(changed, good[which], size[which]);
        unsigned char *exact = (unsigned char *)malloc(size[which]); /* so that reading beyond the end is seen */
        const size_t n = change(&r, changed, size[which]);
        memcpy(exact, changed, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    printf("RESULT fuzz_onnx runs=%lld read=%ld\n", runs, read_files);
    return 0;
}
#endif
