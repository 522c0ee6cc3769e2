/* Loading hostile files: whatever the bytes, a load that fails says why and changes nothing, one that succeeds is saved and
   loaded again to the same bits, memory and streams agree, and memory stays within a few times the file. Layers of PyTorch's
   are taken from the same bytes: each call gives a layer or says why not. So are parameters read in place, as floats or bytes.

   With libFuzzer:    clang -g -O1 -DLIBFUZZER -fsanitize=fuzzer,address,undefined -o build/fuzz_load tests/fuzz_load.c -lm
                      build/fuzz_load -max_len=4096 FOLDER
   As a program:      cc -g -O1 -fsanitize=address,undefined -o build/fuzz_load tests/fuzz_load.c -lm
                      build/fuzz_load [--runs N] [--seed N] [FILE...]     random changes of good files; files are replayed
   The first byte of an input chooses settings; the rest is the file. */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#include "check.h"
#include "models.h"
#include "../examples/options.h"
#include <stdlib.h>

enum { MOST = 1 << 16 };
typedef struct bytes { size_t n, at; unsigned char b[MOST]; } bytes;

static void must(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_load: %s\n", what);
    abort();
}

/* -- a small model whose memory is counted -------------------------------------------------------- */

/* Below 0 steps: for inference, its larger weight in bytes. */
static fold_model *make_model(purse *p, int steps)
{
    fold_model_desc d = purse_desc(p);
    const fold_adam adam = fold_adam_default();
    d.inference = steps < 0;
    fold_model *m = fold_model_new(&d);
    fold_weight_new(m, "W", 2, 16);
    fold_bias_new(m, "b\xc3\xbc", 1);
    fold_table_new(m, "t\"", 3, 2);
    for (int i = 0; i < steps; i++) {
        const fold_param all = { 0, 0 };
        int n;
        fold_model_grads(m, &n);
        float *g = fold_grads_write_begin(m, all);
        for (int k = 0; k < n; k++) g[k] = 0.01f * (float)(k + 1);
        fold_grads_write_end(m, all);
        fold_adam_step(m, &adam);
    }
    const fold_quantize_desc small = { 1, 0, 0 };
    if (steps < 0) must(!fold_model_quantize(m, &small) && !fold_param_value(m, fold_param_find(m, "W")), "it is quantized");
    return m;
}

static int to_bytes(const void *data, size_t n, void *user)
{
    bytes *b = (bytes *)user;
    if (b->n + n > MOST) return 1;
    memcpy(b->b + b->n, data, n);
    b->n += n;
    return 0;
}
static size_t from_bytes(void *data, size_t n, void *user)
{
    bytes *b = (bytes *)user;
    const size_t part = n < b->n - b->at ? n : b->n - b->at;
    memcpy(data, b->b + b->at, part);
    b->at += part;
    return part;
}
static void save(fold_model *m, bytes *to)
{
    fold_save_desc d = fold_save_desc_default();
    d.state = fold_param_grad(m, fold_param_at(m, 0)) != NULL;
    to->n = to->at = 0;
    must(!fold_model_save_to(m, to_bytes, to, &d), "it saves");
}

/* -- layers of PyTorch's --------------------------------------------------------------------------- */

/* A file with the tensors that every call below looks for. */
static void torch_file(bytes *to)
{
    static const struct { const char *name; int rank, dim[4]; } tensor[] = {
        { "a.weight", 2, { 3, 2 } }, { "a.bias", 1, { 3 } }, { "c.weight", 4, { 2, 1, 1, 2 } }, { "c.bias", 1, { 2 } },
        { "n.running_mean", 1, { 2 } }, { "n.running_var", 1, { 2 } }, { "n.weight", 1, { 2 } },
        { "r.weight_ih_l0", 2, { 4, 1 } }, { "r.weight_hh_l0", 2, { 4, 1 } }, { "r.bias_ih_l0", 1, { 4 } },
        { "r.weight_ih_l0_reverse", 2, { 4, 1 } }, { "r.weight_hh_l0_reverse", 2, { 4, 1 } },
        { "g.weight_ih", 2, { 3, 2 } }, { "g.weight_hh", 2, { 3, 1 } }, { "g.bias_ih", 1, { 3 } }, { "g.bias_hh", 1, { 3 } },
        { "l.self_attn.in_proj_weight", 2, { 6, 2 } }, { "l.self_attn.in_proj_bias", 1, { 6 } },
        { "l.self_attn.out_proj.weight", 2, { 2, 2 } }, { "l.linear1.weight", 2, { 3, 2 } }, { "l.linear2.weight", 2, { 2, 3 } },
        { "l.norm1.weight", 1, { 2 } }, { "l.norm2.weight", 1, { 2 } }, { "l.norm2.bias", 1, { 2 } },
    };
    purse p = { 0, 0, -1, 0 };
    fold_model_desc d = purse_desc(&p);
    fold_model *m = fold_model_new(&d);
    for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) {
        fold_param_desc t = fold_param_desc_default();
        t.name = tensor[i].name;
        t.shape.rank = tensor[i].rank;
        memcpy(t.shape.dim, tensor[i].dim, sizeof tensor[i].dim);
        t.init = FOLD_INIT_UNIFORM;
        t.uses = FOLD_FOR_LOOKUP;
        fold_param_new(m, &t);
    }
    must(!fold_model_save_to(m, to_bytes, to, NULL), "it saves");
    fold_model_free(m);
}

static int layers_taken;
static void take(fold_torch *t, int which)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.heads = 1 + (which & 1);
    switch (which) {
    case 0: fold_torch_linear(t, "a", FOLD_ACT_RELU); break;
    case 1: fold_torch_embedding(t, "a"); break;
    case 2: fold_torch_param(t, "c.bias", 0); break;
    case 3: fold_torch_conv(t, "c", NULL, FOLD_ACT_LINEAR); break;
    case 4: fold_torch_norm(t, "n", FOLD_NORM_FIXED, 0); break;
    case 5: fold_torch_norm(t, "l.norm2", FOLD_NORM_LAYER, 0); break;
    case 6: fold_torch_lstm(t, "r"); break;
    case 7: fold_torch_rnn(t, "r"); break;
    case 8: fold_torch_gru(t, "g"); break;
    case 9: fold_torch_attention(t, "l.self_attn", 2); break;
    default: fold_torch_transformer(t, "l", &d); break;
    }
}
/* Each tensor is found by its name, and its last values are read or refused with a message. */
static void read_tensors(fold_tensors *t)
{
    float last[8];
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor tensor = fold_tensors_at(t, i);
        const size_t n = tensor.count < 8 ? (size_t)tensor.count : 8;
        must(tensor.name && tensor.dtype && tensor.rank > 0 && fold_tensors_find(t, tensor.name) == i, "a tensor is told, and found by its name");
        const fold_status status = fold_tensors_read(t, i, (size_t)tensor.count - n, n, last, 1);
        must(!status || strstr(fold_model_message(fold_tensors_model(t)), "is of type"), "values of a file that was opened are there");
        fold_model_clear_error(fold_tensors_model(t));
        must(fold_tensors_read(t, i, (size_t)tensor.count - n, n + 1, last, 1) != FOLD_OK, "no value is behind the last");
        fold_model_clear_error(fold_tensors_model(t));
    }
}
static void take_layers(const unsigned char *data, size_t size)
{
    for (int which = 0; which < 12; which++) {
        purse p = { 0, 0, -1, 0 };
        fold_model *m = make_model(&p, 0);
        const size_t held = p.held;
        fold_torch *t = fold_torch_open_memory(m, data, size);
        must(t != NULL, "a file opens, or its handle remembers why it does not");
        must(p.most <= held + 3 * size + 2000, "memory stays within a few times the file, when opened");
        if (!which && !fold_model_message(m)[0]) read_tensors(t);
        take(t, which);
        layers_taken += !fold_model_message(m)[0];
        fold_torch_skip(t, "");
        const fold_status status = fold_torch_close(t);
        must(!status == !fold_model_message(m)[0], "an error of a file or of a layer says why");
        fold_model_free(m);
        must(!p.held, "memory is returned at the end");
    }
}

/* -- in place -------------------------------------------------------------------------------------- */

static int taken; /* parameters */

/* The bytes as an image: each parameter is there or says why not, and what is there can be read. */
static void read_image(const unsigned char *data, size_t size, int in_bytes)
{
    static const struct { const char *name; int rows, columns; unsigned uses; } wanted[] = {
        { "W", 2, 16, FOLD_FOR_LINEAR }, { "t\"", 3, 2, FOLD_FOR_LOOKUP }, { "W", 2, 16, FOLD_FOR_LOOKUP },
        { "a.weight", 3, 2, FOLD_FOR_LINEAR_T }, { "c.bias", 2, 0, 0 } };
    const fold_quantize_desc all = { 1, 1, 8 };
    const float x[2] = { 1, -2 };
    for (size_t which = 0; which < sizeof wanted / sizeof *wanted; which++) {
        purse p = { 0, 0, -1, 0 };
        fold_model_desc d = purse_desc(&p);
        d.inference = 1;
        d.isa = in_bytes % 2 ? "portable" : NULL;
        fold_model *m = fold_model_new(&d);
        if (in_bytes) must(!fold_model_quantize(m, &all), "nothing is quantized");
        fold_model_read_in_place(m, data, size);
        fold_param_desc desc = fold_param_desc_default();
        desc.name = wanted[which].name;
        desc.shape = wanted[which].columns ? fold_shape2(wanted[which].rows, wanted[which].columns) : fold_shape1(wanted[which].rows);
        desc.uses = wanted[which].uses;
        const fold_param W = fold_param_new(m, &desc);
        must(!fold_model_status(m) == !fold_param_is_null(W), "a parameter, or an error");
        must(!fold_model_status(m) == !fold_model_message(m)[0], "an error says why");
        if (!fold_model_status(m)) {
            taken++;
            must(fold_param_quantized(m, W).bits == (fold_param_value(m, W) ? 32 : 8), "floats, or bytes");
            fold_ctx *f = fold_ctx_new(m, NULL);
            const fold_node y = desc.uses == FOLD_FOR_LOOKUP     ? fold_lookup(f, W, 1)
                                : desc.uses == FOLD_FOR_LINEAR   ? fold_linear(f, fold_input(f, x, 2), W, FOLD_NULL_PARAM)
                                : desc.uses == FOLD_FOR_LINEAR_T ? fold_linear_t(f, fold_input(f, x, 2), W, FOLD_NULL_PARAM)
                                                                 : fold_square(f, fold_use(f, W));
            must(!fold_run(f, &y, 1) && fold_value(f, y) != NULL, "it is read");
            fold_ctx_free(f);
        }
        fold_model_free(m);
        must(!p.held, "memory is returned at the end");
    }
}

/* -- one input ------------------------------------------------------------------------------------ */

static int accepted;

static void one_input(const uint8_t *data, size_t size)
{
    static bytes before, after, other, input;
    purse p = { 0, 0, -1, 0 }, q = { 0, 0, -1, 0 };
    if (!size || size > MOST) return;
    const int settings = *data++;
    size--;
    fold_load_desc d = fold_load_desc_default();
    char config[16] = "";
    d.state = settings & 1;
    d.allow_missing = settings >> 1 & 1;
    d.allow_unknown = settings >> 2 & 1;
    d.prefix = settings & 8 ? "e." : NULL;
    d.config = settings & 16 ? config : NULL;
    d.config_size = sizeof config;
    const int steps = settings & 32 ? -1 : 1;
    fold_model *m = make_model(&p, steps), *n = make_model(&q, steps);
    save(m, &before);
    p.most = p.held;
    const size_t held = p.held;
    unsigned char *exact = (unsigned char *)malloc(size + !size);
    if (size) memcpy(exact, data, size);
    const fold_status status = fold_model_load_memory(m, exact, size, &d);
    must(p.held == held, "memory is returned");
    must(p.most <= held + 3 * size + 1000, "memory stays within a few times the file");
    take_layers(exact, size);
    read_image(exact, size, settings >> 6);
    free(exact);
    input.n = size;
    input.at = 0;
    if (size) memcpy(input.b, data, size);
    const fold_status streamed = fold_model_load_from(n, from_bytes, &input, &d);
    must(steps < 0 || status != FOLD_BAD_STATE, "no status of another kind");
    must(!status == !fold_model_message(m)[0], "an error says why");
    must(streamed == status || input.at < size, "a stream fails as memory does, unless it goes on");
    must(q.most <= q.held + 4 * size + 70000, "memory stays within a few times the file, when streamed");
    fold_model_clear_error(m);
    fold_model_clear_error(n);
    save(m, &after);
    if (status) must(before.n == after.n && !memcmp(before.b, after.b, after.n), "a load that fails changes nothing");
    save(n, &other);
    if (status == streamed) must(other.n == after.n && !memcmp(other.b, after.b, after.n), "memory and streams agree");
    if (!status) {
        d.state = steps > 0;
        d.allow_missing = 0;
        d.prefix = NULL;
        must(!fold_model_load_memory(n, after.b, after.n, &d), "what was saved is loaded");
        save(n, &other);
        must(other.n == after.n && !memcmp(other.b, after.b, after.n), "to the same bits");
    }
    accepted += !status;
    fold_model_free(m);
    fold_model_free(n);
    must(!p.held && !q.held, "memory is returned at the end");
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_input(data, size);
    return 0;
}
#else

/* -- as a program: random changes ----------------------------------------------------------------- */

static const char *const pieces[] = {
    "{", "}", "[", "]", "\"", ":", ",", "\\u0041", "\\ud83d\\ude00", "\\ud83d", "\\", "\xff", "\xe2\x82\xac", "0", "9", "18446744073709551615", "4294967296", "-1", "1e3",
    "\"W\"", ",4]", "[0,", "_l1", "\"__metadata__\"", "\"dtype\"", "\"F32\"", "\"BF16\"", "\"F64\"", "\"I8\"", "W.scale", "\"shape\":[]", "\"data_offsets\":[0,128]", "[2,16]", "[2,1]", "e.", "optimizer.adam.m.", "\"config\":\"x\"", "\"a.weight\":\"c.weight\"", "\\u00e9\\ud83d\\ude00"
};
enum { PIECES = sizeof pieces / sizeof *pieces };

static void insert(bytes *x, size_t at, const void *what, size_t n)
{
    if (x->n + n > MOST) return;
    memmove(x->b + at + n, x->b + at, x->n - at);
    memcpy(x->b + at, what, n);
    x->n += n;
}
static void cut(bytes *x, size_t at, size_t n)
{
    if (n > x->n - at) n = x->n - at;
    memmove(x->b + at, x->b + at + n, x->n - at - n);
    x->n -= n;
}
static void change(bytes *x, check_random *r)
{
    const size_t at = (size_t)random_below(r, (int)x->n);
    const char *piece = pieces[random_below(r, PIECES)];
    switch (random_below(r, 6)) {
    case 0: x->b[at] ^= (unsigned char)(1u << random_below(r, 8)); break;
    case 1: x->b[at] = (unsigned char)random_below(r, 256); break;
    case 2: cut(x, at, 1 + (size_t)random_below(r, 20)); break;
    case 3: insert(x, at, x->b + random_below(r, (int)x->n), 1); break;
    case 4: insert(x, at, piece, strlen(piece)); break;
    default: x->b[at] = (unsigned char)('0' + random_below(r, 10)); break;
    }
}
/* The header's length, made right again: changes get past the first check. */
static void mend(bytes *x, size_t data)
{
    const size_t length = x->n > 9 + data ? x->n - 9 - data : 0;
    for (size_t k = 0; k < 8 && x->n > 9; k++) x->b[1 + k] = (unsigned char)((uint64_t)length >> 8 * k);
}

int main(int argc, char **argv)
{
    long runs = 3000, seed = 1, replayed = 0;
    static bytes good, x;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--runs")) { runs = (long)option_whole(argc, argv, i++, 0, LONG_MAX); continue; }
        if (!strcmp(argv[i], "--seed")) { seed = (long)option_whole(argc, argv, i++, 0, LONG_MAX); continue; }
        FILE *file = fopen(argv[i], "rb");
        if (!file) { fprintf(stderr, "fuzz_load: cannot read %s\n", argv[i]); return 1; }
        x.n = fread(x.b, 1, MOST, file);
        fclose(file);
        one_input(x.b, x.n);
        replayed++;
    }
    purse p = { 0, 0, -1, 0 };
    check_random r = { (uint64_t)seed };
    for (long i = 0; i < runs; i++) {
        fold_save_desc d = fold_save_desc_default();
        const int steps = random_below(&r, 4) - 1;
        fold_model *m = make_model(&p, steps);
        const unsigned char settings = (unsigned char)random_below(&r, 256);
        d.state = random_below(&r, 2) && steps >= 0;
        d.config = random_below(&r, 2) ? "h=\"5\"" : NULL;
        good.n = good.at = 0;
        if (random_below(&r, 3)) must(!fold_model_save_to(m, to_bytes, &good, &d), "it saves");
        else torch_file(&good);
        x.n = 0;
        insert(&x, 0, &settings, 1);
        insert(&x, 1, good.b, good.n);
        const size_t data = good.n - 8 - (good.b[0] | (size_t)good.b[1] << 8);
        for (int k = random_below(&r, 6); k > 0 && x.n; k--) change(&x, &r);
        if (random_below(&r, 4)) mend(&x, data);
        one_input(x.b, x.n);
        fold_model_free(m);
    }
    printf("%ld inputs, %d loaded, %d layers of PyTorch's taken, %d parameters read in place, no complaint\n", runs + replayed, accepted,
           layers_taken, taken);
    return 0;
}
#endif
