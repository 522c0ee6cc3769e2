/* test_quantize.c - weights in bytes: what fold_model_quantize does and refuses, values beside the eager context's
   bit by bit and beside the float model's, rows that are not finite, and memory.
       cc -O2 -o test_quantize tests/test_quantize.c -lm && ./test_quantize [-v] [test…] */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "kernel_sets.h"
#include <float.h>

enum { IN = 13, H = 21, OUT = 19, WORDS = 37, IMAGE = 7, CHANNELS = 3, FILTERS = 18, SAMPLES = 30, LINES = 5 };

/* -- a network with a weight of every kind ------------------------------------------------------------- */

typedef struct net {
    fold_model *m;
    fold_param words, tied, W, b, U, V, both, filter, narrow, none;
    fold_cell node;
    fold_recurrent lstm;
    fold_transformer block;
} net;

/* A word; states of children. */
static void node_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node x[2] = { in[0], fold_list_sum(f, in[1]) };
    const fold_node gate = fold_sigmoid(f, fold_linear(f, in[1], n->V, n->none));
    out[0] = fold_tanh(f, fold_add(f, fold_linear_n(f, x, 2, n->U, n->b), fold_list_sum(f, fold_mul(f, gate, in[1]))));
    out[0] = fold_mul(f, out[0], fold_shift(f, fold_mean(f, fold_use(f, n->both), FOLD_ALL), 1));
}

static fold_param weight(fold_model *m, const char *name, fold_shape shape, unsigned uses)
{
    fold_param_desc d = fold_param_desc_default();
    d.name = name;
    d.shape = shape;
    d.uses = uses;
    d.init = FOLD_INIT_UNIFORM;
    d.init_scale = 0.5f;
    return fold_param_new(m, &d);
}

static int net_build(net *n, const fold_model_desc *desc)
{
    fold_cell_desc d = fold_cell_desc_default();
    memset(n, 0, sizeof *n);
    n->m = fold_model_new(desc);
    if (fold_model_status(n->m)) return 0;
    n->words = weight(n->m, "words", fold_shape2(WORDS, IN), FOLD_FOR_LOOKUP);
    n->tied = weight(n->m, "tied", fold_shape2(WORDS, H), FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T);
    n->W = weight(n->m, "W", fold_shape2(IN, H), 0);
    n->b = weight(n->m, "b", fold_shape1(H), 0);
    n->U = weight(n->m, "U", fold_shape2(IN + H, H), 0);
    n->V = weight(n->m, "V", fold_shape2(H, H), 0);
    n->both = weight(n->m, "both", fold_shape2(H, H), 0);
    n->filter = weight(n->m, "filter", fold_shape4(3, 3, CHANNELS, FILTERS), FOLD_FOR_CONV);
    n->narrow = weight(n->m, "narrow", fold_shape2(400, 5), 0);
    n->lstm = fold_lstm_new(n->m, "lstm", H, H);
    fold_transformer_desc block = fold_transformer_desc_default();
    block.width = 24;
    block.heads = 3;
    n->block = fold_transformer_new(n->m, "block", &block);
    d.name = "node"; d.body = node_body; d.user = n;
    d.n_in = 1; d.in[0] = fold_shape1(IN);
    d.n_list = 1; d.list[0] = fold_shape1(H);
    d.n_out = 1;
    n->node = fold_cell_new(n->m, &d);
    return 1;
}

static int net_open(net *n, const char *isa, int inference)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.isa = isa;
    desc.inference = inference;
    return net_build(n, &desc);
}

static float noise(int i) { return (float)((i * 7919 + 104729) % 2003 - 1001) / 1001; }

/* Sample s: a tree as deep as it has lines, then a step of an LSTM, an image, matrices, a layer over its lines, and the
   tied table. */
static fold_node record(fold_ctx *f, const net *n, int s)
{
    const int lines = 1 + s % LINES;
    float image[IMAGE * IMAGE * CHANNELS], rows[LINES * 24], x[400];
    fold_node children[LINES], part[4];
    for (int i = 0; i < IMAGE * IMAGE * CHANNELS; i++) image[i] = noise(i + 31 * s);
    for (int i = 0; i < LINES * 24; i++) rows[i] = noise(3 * i + 17 * s);
    for (int i = 0; i < 400; i++) x[i] = noise(5 * i + s);
    for (int i = 0; i < lines; i++) {
        const fold_node word = fold_lookup(f, n->words, (s * 5 + i) % WORDS);
        children[i] = fold_call_n(f, n->node, &word, 1, children, i < 3 ? i : 3);
    }
    fold_state state = { children[lines - 1], fold_linear(f, fold_lookup(f, n->words, s % WORDS), n->W, n->b) };
    state = fold_recurrent_apply(f, &n->lstm, children[0], state);
    const fold_conv_desc around = { 1, 1, 0, 0 };
    const fold_node shown = fold_conv2d(f, fold_input_shaped(f, image, fold_shape3(IMAGE, IMAGE, CHANNELS)), n->filter, n->none, &around);
    const fold_node start = fold_linear_first(f, fold_lookup(f, n->words, s % 7), n->U, n->b);
    const fold_node turned = fold_transformer_apply(f, &n->block, fold_list_input(f, rows, lines, fold_shape1(24)), 1);
    part[0] = fold_linear_t(f, state.h, n->tied, n->none);
    part[1] = fold_mean(f, fold_mean(f, shown, 0), 0);
    part[1] = fold_reshape(f, part[1], fold_shape1(FILTERS));
    part[2] = fold_linear(f, fold_linear_then(f, start, fold_lookup(f, n->tied, s % WORDS), n->U), n->both, n->none);
    part[3] = fold_list_sum(f, turned);
    return fold_concat2(f, fold_concat(f, part, 4, 0), fold_linear(f, fold_input(f, x, 400), n->narrow, n->none));
}
enum { VALUES = WORDS + FILTERS + H + 24 + 5 };

/* The values of all samples in a context of its own, by a run for each or one for all. */
static int run(const net *n, const fold_ctx_desc *desc, int together, float *values)
{
    fold_ctx *f = fold_ctx_new(n->m, desc);
    fold_node y[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        if (!together) fold_ctx_reset(f);
        y[s] = record(f, n, s);
        if (!together) fold_run(f, &y[s], 1);
        if (!together) fold_read(f, &y[s], 1, values + s * VALUES);
    }
    if (together) fold_run(f, y, SAMPLES);
    if (together) fold_read(f, y, SAMPLES, values);
    const int fine = CHECK_SAYS(!fold_ctx_status(f), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
    return fine;
}

static float as_float[SAMPLES * VALUES], want[SAMPLES * VALUES], got[SAMPLES * VALUES];

/* Eager, batched by each policy, with small groups, alone, and merged: one result, near that of floats. */
static void all_ways(const char *isa, int tables, int bits)
{
    static const fold_schedule policy[] = { FOLD_SCHEDULE_RATIO, FOLD_SCHEDULE_DEPTH, FOLD_SCHEDULE_AGENDA };
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_quantize_desc small = fold_quantize_desc_default();
    net n;
    double off = 0, size = 0;
    small.min_values = 1;
    small.tables = tables;
    small.bits = bits;
    if (!net_open(&n, isa, 1)) {
        fold_model_free(n.m);
        return;
    }
    run(&n, &desc, 1, as_float);
    CHECK_INT(fold_model_quantize(n.m, &small), FOLD_OK);
    desc.eager = 1;
    run(&n, &desc, 1, want);
    desc.eager = 0;
    for (int i = 0; i < 3; i++) {
        desc.schedule = policy[i];
        run(&n, &desc, 1, got);
        CHECK_BITS(got, want, SAMPLES * VALUES);
    }
    desc.group_bytes = 1;
    run(&n, &desc, 1, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    run(&n, &desc, 0, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    desc.dedupe = 1;
    run(&n, &desc, 1, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    for (int i = 0; i < SAMPLES * VALUES; i++) {
        off += (double)(want[i] - as_float[i]) * (double)(want[i] - as_float[i]);
        size += (double)as_float[i] * (double)as_float[i];
    }
    CHECK_SAYS(off > 0 && sqrt(off / size) < 0.02, "%s: results are %.4f from those of floats", isa, sqrt(off / size));
    fold_model_free(n.m);
}
static void every_kernel_set(void)
{
    for (int i = 0; i < KERNEL_SETS; i++) all_ways(kernel_set[i], i % 2, 8);
    for (int i = 0; i < KERNEL_SETS; i++) all_ways(kernel_set[i], (i + 1) % 2, 16);
}

/* -- one product by its definition --------------------------------------------------------------------- */

/* Integers as values, the largest of each row and column 127: bytes hold them as they are, and the product is exact. One
   column is of zeros. */
static void whole_numbers(void)
{
    float w[IN * H], b[H], x[IN], y[H];
    fold_model_desc desc = fold_model_desc_default();
    fold_quantize_desc small = { 1, 0, 0 };
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    const fold_param W = fold_weight_new(m, "W", IN, H), B = fold_bias_new(m, "b", H);
    for (int i = 0; i < IN * H; i++) w[i] = i % H == 3 ? 0 : i < H ? (float)(i % 2 ? 127 : -127) : (float)(i * 37 % 255 - 127);
    for (int i = 0; i < H; i++) b[i] = (float)(1000 * i);
    for (int i = 0; i < IN; i++) x[i] = i == 4 ? 127 : (float)(i * 53 % 255 - 127);
    memcpy(fold_values_write_begin(m, W), w, sizeof w);
    fold_values_write_end(m, W);
    memcpy(fold_values_write_begin(m, B), b, sizeof b);
    fold_values_write_end(m, B);
    fold_model_quantize(m, &small);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node out = fold_linear(f, fold_input(f, x, IN), W, B);
    CHECK_INT(fold_run(f, &out, 1), FOLD_OK);
    for (int j = 0; j < H; j++) {
        y[j] = 0;
        for (int i = 0; i < IN; i++) y[j] += x[i] * w[i * H + j];
        y[j] += b[j];
    }
    CHECK_BITS(fold_value(f, out), y, H);
    CHECK(fold_param_quantized(m, W).error == 0);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A row with an infinity or a NaN gives NaN, those beside it what they gave; tiny ones count as zeros. */
static void rows_at_the_edges(void)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN, 1e-37f, 0 };
    fold_model_desc desc = fold_model_desc_default();
    fold_quantize_desc small = { 1, 0, 0 };
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    const fold_param W = fold_weight_new(m, "W", IN, H), B = weight(m, "b", fold_shape1(H), 0);
    fold_model_quantize(m, &small);
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        fold_node y[10];
        float x[IN], alone[H];
        for (int s = 0; s < 10; s++) {
            for (int i = 0; i < IN; i++) x[i] = s % 2 ? (s > 6 ? 0 : noise(i)) * (s == 7 ? 0 : 1) : noise(i);
            if (s % 2) x[s] = odd[s / 2];
            y[s] = fold_linear(f, fold_input(f, x, IN), W, B);
        }
        CHECK_INT(fold_run(f, y, 10), FOLD_OK);
        memcpy(alone, fold_value(f, y[0]), sizeof alone);
        for (int s = 0; s < 10; s++)
            for (int j = 0; j < H; j++) {
                const float value = fold_value(f, y[s])[j];
                if (s % 2 == 0) CHECK(!memcmp(&value, &alone[j], sizeof value));
                else if (s < 6) CHECK(value != value);
                else CHECK(value == fold_param_value(m, B)[j]);
            }
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

/* Weights of 16 bits beside floats of the same values: what rows with an infinity, a NaN, the largest float or nothing give,
   alone and among others, few and many. NaN is one value here: its bits depend on the order of a sum's terms. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? 0x7fc00000u : bits;
}
static void halves_at_the_edges(void)
{
    enum { ROWS = 40, ODD = 6 };
    static const float odd[ODD] = { INFINITY, -INFINITY, NAN, FLT_MAX, 1e-40f, 0 };
    static const int counts[] = { 1, 3, ROWS };
    static float w[IN * H], x[ROWS][IN], y[2][ROWS * H];
    fold_quantize_desc halves = { 1, 0, 16 };
    for (int i = 0; i < IN * H; i++) w[i] = i % H == 2 ? 0 : (float)(i * 37 % 255 - 127) / 64; /* 8 bits: as they are */
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < IN; i++) x[row][i] = i == row % IN && row % 3 ? odd[row % ODD] : row % ODD ? noise(i + row) : 0;
    for (int set = 0; set < KERNEL_SETS; set++)
        for (int which = 0; which < 3; which++) {
            int nans = 0;
            for (int quantized = 0; quantized < 2; quantized++) {
                fold_model_desc desc = fold_model_desc_default();
                fold_ctx_desc way = fold_ctx_desc_default();
                fold_node node[ROWS];
                desc.inference = 1;
                desc.isa = kernel_set[set];
                fold_model *m = fold_model_new(&desc);
                const fold_param W = fold_weight_new(m, "W", IN, H);
                way.eager = which == 1;
                if (!fold_model_status(m)) {
                    memcpy(fold_values_write_begin(m, W), w, sizeof w);
                    fold_values_write_end(m, W);
                    if (quantized) CHECK_INT(fold_model_quantize(m, &halves), FOLD_OK);
                    CHECK(fold_param_quantized(m, W).error == 0);
                    fold_ctx *f = fold_ctx_new(m, &way);
                    for (int row = 0; row < counts[which]; row++)
                        node[row] = fold_linear(f, fold_input(f, x[row], IN), W, FOLD_NULL_PARAM);
                    CHECK_INT(fold_run(f, node, counts[which]), FOLD_OK);
                    fold_read(f, node, counts[which], y[quantized]);
                    fold_ctx_free(f);
                }
                fold_model_free(m);
            }
            for (int i = 0; i < counts[which] * H; i++) {
                nans += y[0][i] != y[0][i];
                CHECK_SAYS(bits_of(y[0][i]) == bits_of(y[1][i]), "%s: %g, of floats %g", kernel_set[set], (double)y[1][i], (double)y[0][i]);
            }
            if (which == 2) CHECK(nans > 3 * H && nans < ROWS * H / 2);
        }
}

/* -- what is quantized, and what that leaves ----------------------------------------------------------- */

static void report(void)
{
    static const struct { const char *name; int bits, values; } wants[] = {
        { "words", 32, 1 }, { "tied", 8, 1 }, { "W", 32, 1 }, { "b", 32, 1 }, { "U", 8, 0 }, { "V", 8, 0 },
        { "both", 8, 1 }, { "filter", 8, 0 }, { "narrow", 32, 1 }, { "lstm.W", 8, 0 }, { "lstm.b", 32, 1 } };
    fold_quantize_desc least = { 300, 0, 0 };
    net n;
    char text[4096] = "";
    net_open(&n, NULL, 1);
    const fold_model_size before = fold_model_measure(n.m);
    CHECK_INT(fold_model_quantize(n.m, &least), FOLD_OK);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const fold_param p = fold_param_find(n.m, wants[i].name);
        const fold_quantized q = fold_param_quantized(n.m, p);
        CHECK_SAYS(q.bits == wants[i].bits, "%s has %d bits", wants[i].name, q.bits);
        CHECK_SAYS(q.bits == 8 ? q.error > 0.001f && q.error < 0.01f : q.error == 0, "%s: error %g", wants[i].name, (double)q.error);
        CHECK_SAYS(!fold_param_value(n.m, p) == !wants[i].values, "values of %s", wants[i].name);
    }
    CHECK_INT(fold_param_quantized(n.m, n.none).bits, 0);
    CHECK_INT(fold_param_quantized(NULL, n.U).bits, 0);
    const fold_model_size after = fold_model_measure(n.m);
    CHECK_SAYS(after.values + after.packs < (before.values + before.packs) / 2, "%lu bytes of %lu are left",
               (unsigned long)(after.values + after.packs), (unsigned long)(before.values + before.packs));
    FILE *file = tmpfile();
    if (file) {
        fold_model_print(n.m, fold_to_file, file);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        CHECK_TEXT(text, "  8 bits, error 0.00");
    }
    fold_model_free(n.m);
}

/* Large weights take a quarter of their values; nothing else of them is left. */
static void memory_of_weights(void)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    fold_weight_new(m, "W", 512, 512);
    CHECK_INT(fold_model_quantize(m, NULL), FOLD_OK);
    const fold_model_size size = fold_model_measure(m);
    CHECK(size.values == 0);
    CHECK_SAYS(size.packs >= 512 * 512 && size.packs < 512 * 512 * 1.03, "%lu bytes", (unsigned long)size.packs);
    fold_model_free(m);
}

/* Parameters and cells that come later, and a second call for them. */
static void later(void)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_quantize_desc small = { 1, 0, 0 };
    net n;
    net_open(&n, NULL, 1);
    fold_model_quantize(n.m, &small);
    run(&n, &desc, 1, want);
    const fold_param late = weight(n.m, "late", fold_shape2(H, H), 0);
    CHECK_INT(fold_param_quantized(n.m, late).bits, 32);
    run(&n, &desc, 1, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    CHECK_INT(fold_model_quantize(n.m, &small), FOLD_OK);
    CHECK_INT(fold_param_quantized(n.m, late).bits, 8);
    run(&n, &desc, 1, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    fold_model_free(n.m);
}

/* -- errors -------------------------------------------------------------------------------------------- */

static void says(net *n, fold_status status, const char *text)
{
    CHECK_INT(fold_model_status(n->m), status);
    CHECK_TEXT(fold_model_message(n->m), text);
    fold_model_clear_error(n->m);
}
static void refusals(void)
{
    fold_quantize_desc d = { -1, 0, 0 };
    net n, other;
    CHECK_INT(fold_model_quantize(NULL, NULL), FOLD_BAD_ARGUMENT);
    net_open(&n, NULL, 0);
    fold_model_quantize(n.m, NULL);
    says(&n, FOLD_BAD_STATE, "fold_model_quantize: the model can be trained; set `inference` in its desc");
    fold_model_free(n.m);

    net_open(&n, NULL, 1);
    net_open(&other, NULL, 1);
    fold_model_quantize(n.m, &d);
    says(&n, FOLD_BAD_ARGUMENT, "fold_model_quantize: min_values is -1");
    d.min_values = 1;
    d.bits = 4;
    fold_model_quantize(n.m, &d);
    says(&n, FOLD_BAD_ARGUMENT, "fold_model_quantize: bits is 4, must be 8 or 16");
    d.bits = 16;
    fold_values_write_begin(n.m, n.U)[5] = (float)NAN;
    fold_values_write_end(n.m, n.U);
    fold_model_quantize(n.m, &d);
    says(&n, FOLD_BAD_ARGUMENT, "fold_model_quantize: parameter 'U' has a value that is not finite");
    d.bits = 0;
    fold_values_write_begin(n.m, n.U)[5] = (float)INFINITY;
    fold_values_write_end(n.m, n.U);
    fold_model_quantize(n.m, &d);
    says(&n, FOLD_BAD_ARGUMENT, "fold_model_quantize: parameter 'U' has a value that is not finite");
    CHECK_INT(fold_param_quantized(n.m, n.V).bits, 32); /* as it was */
    fold_values_write_begin(n.m, n.U)[5] = 1;
    fold_values_write_end(n.m, n.U);
    CHECK_INT(fold_model_quantize(n.m, &d), FOLD_OK);

    CHECK(!fold_values_write_begin(n.m, n.U));
    says(&n, FOLD_BAD_STATE, "fold_values_write_begin: parameter 'U' is quantised; write before fold_model_quantize, or load a file");
    CHECK(!fold_values_write_begin(n.m, n.none));
    says(&n, FOLD_BAD_STATE, "fold_values_write_begin: parameter 'tied' is quantised");
    CHECK(fold_values_write_begin(n.m, n.b) != NULL);
    fold_values_write_end(n.m, n.b);
    fold_values_copy(n.m, other.m);
    says(&n, FOLD_BAD_STATE, "fold_values_copy: parameter 'tied' is quantised");
    fold_values_copy(other.m, n.m);
    says(&other, FOLD_BAD_STATE, "fold_values_copy: parameter 'tied' is quantised in the other model");
    fold_values_average(n.m, other.m, 0.5f);
    says(&n, FOLD_BAD_STATE, "fold_values_average: parameter 'tied' is quantised");
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    CHECK(fold_node_is_null(fold_use(f, n.U)));
    CHECK_TEXT(fold_ctx_message(f), "use: parameter 'U' is quantised; only products and lookups read it");
    fold_ctx_free(f);
    fold_model_free(n.m);
    fold_model_free(other.m);
}

/* Training says what it says of every model made for inference. */
static void training(void)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    net n;
    net_open(&n, NULL, 1);
    fold_model_quantize(n.m, NULL);
    desc.training = 1;
    fold_ctx *f = fold_ctx_new(n.m, &desc);
    const fold_node loss = fold_sum(f, record(f, &n, 0), FOLD_ALL);
    CHECK_INT(fold_backward(f, loss), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(f), "model was made for inference");
    fold_ctx_free(f);
    fold_sgd sgd = fold_sgd_default();
    fold_sgd_step(n.m, &sgd);
    says(&n, FOLD_BAD_STATE, "optimiser: the model was made for inference");
    fold_model_free(n.m);
}

/* A recording made before is refused until the context is reset, whichever way it runs. */
static void recordings_before(void)
{
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        net n;
        net_open(&n, NULL, 1);
        desc.eager = eager;
        fold_ctx *f = fold_ctx_new(n.m, &desc);
        const fold_node used = fold_use(f, n.U), y = fold_sum(f, used, FOLD_ALL);
        CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        fold_model_quantize(n.m, NULL);
        const fold_node more = fold_square(f, used);
        CHECK_INT(fold_run(f, &more, 1), FOLD_BAD_STATE);
        CHECK_TEXT(fold_ctx_message(f), "fold_model_quantize changed the model; call fold_ctx_reset first");
        CHECK(!fold_value(f, used));
        fold_ctx_reset(f);
        const fold_node again = record(f, &n, 3);
        CHECK_SAYS(!fold_run(f, &again, 1), "%s", fold_ctx_message(f));
        fold_ctx_free(f);
        fold_model_free(n.m);
    }
}

/* -- files --------------------------------------------------------------------------------------------- */

typedef struct block { size_t n, at; unsigned char bytes[1 << 18]; } block;
static int to_block(const void *bytes, size_t n, void *user)
{
    block *b = (block *)user;
    if (b->n + n > sizeof b->bytes) return 1;
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return 0;
}
static size_t from_block(void *bytes, size_t n, void *user)
{
    block *b = (block *)user;
    const size_t part = n < b->n - b->at ? n : b->n - b->at;
    memcpy(bytes, b->bytes + b->at, part);
    b->at += part;
    return part;
}
static void save(fold_model *m, block *b)
{
    b->n = b->at = 0;
    CHECK_SAYS(!fold_model_save_to(m, to_block, b, NULL), "%s", fold_model_message(m));
}
static int load(fold_model *m, const block *b)
{
    return CHECK_SAYS(!fold_model_load_memory(m, b->bytes, b->n, NULL), "%s", fold_model_message(m));
}
/* Values that no initialiser gives. */
static void change(fold_model *m)
{
    const fold_param all = { 0, 0 };
    int count;
    fold_model_values(m, &count);
    float *values = fold_values_write_begin(m, all);
    for (int i = 0; i < count; i++) values[i] = 0.3f * noise(7 * i + 5);
    fold_values_write_end(m, all);
}

/* A quantized model by a file into one that was quantized before: same results, same file, on every kernel set. */
static void files_of_bytes(void)
{
    static block first, again, floats;
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_quantize_desc some = { 300, 0, 0 };
    for (int i = 0; i < KERNEL_SETS; i++) {
        net n, other;
        if (!net_open(&n, kernel_set[i], 1)) {
            fold_model_free(n.m);
            continue;
        }
        net_open(&other, kernel_set[i], 1);
        change(n.m);
        save(n.m, &floats);
        fold_model_quantize(n.m, &some);
        fold_model_quantize(other.m, &some);
        run(&n, &desc, 1, want);
        save(n.m, i ? &again : &first);
        if (i) CHECK_SAYS(again.n == first.n && !memcmp(again.bytes, first.bytes, first.n), "the file of %s differs", kernel_set[i]);
        CHECK(first.n < floats.n * 3 / 4);
        if (load(other.m, &first)) run(&other, &desc, 1, got);
        CHECK_BITS(got, want, SAMPLES * VALUES);
        CHECK(fold_param_quantized(other.m, other.U).error == 0);
        save(other.m, &again);
        CHECK(again.n == first.n && !memcmp(again.bytes, first.bytes, first.n));
        fold_model_free(other.m);
        net_open(&other, kernel_set[i], 1);
        fold_model_quantize(other.m, &some); /* floats become the same bytes */
        if (load(other.m, &floats)) run(&other, &desc, 1, got);
        CHECK_BITS(got, want, SAMPLES * VALUES);
        CHECK(fold_param_quantized(other.m, other.U).error == fold_param_quantized(n.m, n.U).error);
        again = first;
        fold_model_load_from(other.m, from_block, &again, NULL);
        run(&other, &desc, 1, got);
        CHECK_BITS(got, want, SAMPLES * VALUES);
        fold_model_free(n.m);
        fold_model_free(other.m);
    }
}

/* -- tables -------------------------------------------------------------------------------------------- */

enum { WIDE = 24, MAPS = 5 };
typedef struct shelf { fold_model *m; fold_param words, tied, maps, W; } shelf;

/* W has too few outputs for bytes, so what reads tables is floats. */
static void shelf_open(shelf *s, const char *isa, int inference)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = inference;
    desc.isa = isa;
    s->m = fold_model_new(&desc);
    s->words = weight(s->m, "words", fold_shape2(WORDS, WIDE), FOLD_FOR_LOOKUP);
    s->tied = weight(s->m, "tied", fold_shape2(WORDS, H), FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T);
    s->maps = weight(s->m, "maps", fold_shape3(MAPS, 2, 16), FOLD_FOR_LOOKUP);
    weight(s->m, "letters", fold_shape2(WORDS, 15), FOLD_FOR_LOOKUP);
    s->W = weight(s->m, "W", fold_shape2(WIDE, 7), 0);
}
enum { SHELF = 2 * WIDE + H + 32 + 7 + 4 };

/* Words one by one and in lists, of which a row and all are read; words that index tells, unless it is NULL. */
static fold_node shelf_record(fold_ctx *f, const shelf *s, int sample, const int *index)
{
    const int rows[4] = { sample, 3, WORDS - 1 - sample, 3 };
    const fold_node word = fold_lookup(f, s->words, sample), list = fold_list_lookup(f, s->words, rows, 1 + sample % 4);
    const fold_node map = fold_lookup(f, s->maps, sample % MAPS), other = fold_lookup(f, s->words, 0);
    if (index) fold_index_ref(f, other, index, 1);
    if (index) fold_index_ref(f, list, index, 1 + sample % 4);
    const fold_node each = fold_linear(f, list, s->W, FOLD_NULL_PARAM);
    const fold_node second = fold_list_at(f, fold_list_positions(f, s->words, sample / 2, 2), 1);
    const fold_node part[8] = { word, other, fold_lookup(f, s->tied, sample), fold_reshape(f, map, fold_shape1(32)),
                                fold_list_sum(f, each), fold_slice(f, fold_list_at(f, list, sample % 4 / 2), 0, 5, 2),
                                fold_slice(f, fold_lookup(f, s->words, 3), 0, 1, 1), fold_slice(f, second, 0, 1, 1) };
    return fold_concat(f, part, 8, 0);
}
static void shelf_run(const shelf *s, const fold_ctx_desc *desc, float *values)
{
    fold_ctx *f = fold_ctx_new(s->m, desc);
    fold_node y[WORDS];
    int index[4 * WORDS];
    for (int i = 0; i < 4 * WORDS; i++) index[i] = i * 5 % WORDS;
    for (int i = 0; i < WORDS; i++) y[i] = shelf_record(f, s, i, desc->dedupe ? NULL : &index[4 * i]);
    CHECK_SAYS(!fold_run(f, y, WORDS) && !fold_read(f, y, WORDS, values), "%s", fold_ctx_message(f));
    for (int i = 0; i < 4 * WORDS; i++) index[i] = i * 7 % WORDS;
    CHECK_SAYS(!fold_replay(f) && !fold_read(f, y, WORDS, values + WORDS * SHELF), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
}

/* A model with tables in bytes beside one whose tables have the floats that these bytes are. */
static void tables_of(int bits)
{
    static float by_floats[2 * WORDS * SHELF], by_bytes[2 * WORDS * SHELF];
    static block b, again;
    const fold_quantize_desc all = { 100, 1, bits };
    for (int i = 0; i < KERNEL_SETS; i++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        shelf floats, bytes;
        shelf_open(&bytes, kernel_set[i], 1);
        if (fold_model_status(bytes.m)) {
            fold_model_free(bytes.m);
            continue;
        }
        shelf_open(&floats, kernel_set[i], 1);
        CHECK_INT(fold_model_quantize(bytes.m, &all), FOLD_OK);
        CHECK(!fold_param_value(bytes.m, bytes.words) && !fold_param_value(bytes.m, bytes.tied) && !fold_param_value(bytes.m, bytes.maps));
        CHECK_INT(fold_param_quantized(bytes.m, bytes.words).bits, bits);
        CHECK_INT(fold_param_quantized(bytes.m, fold_param_find(bytes.m, "letters")).bits, 32);
        CHECK(fold_param_quantized(bytes.m, bytes.words).error > 0.001f && fold_param_quantized(bytes.m, bytes.words).error < 0.01f);
        save(bytes.m, &b);
        CHECK_TEXT((char *)b.bytes + 8, bits == 8 ? "\"maps.scale\":{\"dtype\":\"F32\",\"shape\":[5,2,1]" : "\"maps\":{\"dtype\":\"BF16\"");
        load(floats.m, &b);
        for (int way = 0; way < 3; way++) {
            desc.eager = way == 1;
            desc.dedupe = way == 2;
            shelf_run(&floats, &desc, by_floats);
            shelf_run(&bytes, &desc, by_bytes);
            CHECK_BITS(by_bytes, by_floats, 2 * WORDS * SHELF);
        }
        fold_model_free(floats.m);
        shelf_open(&floats, kernel_set[i], 1);
        change(floats.m);
        fold_model_quantize(floats.m, &all);
        load(floats.m, &b);
        save(floats.m, &again);
        CHECK(b.n == again.n && !memcmp(b.bytes, again.bytes, b.n));
        fold_model_free(floats.m);
        fold_model_free(bytes.m);
    }
}
static void tables(void)
{
    tables_of(8);
    tables_of(16);
}

/* -- in 16 bits ---------------------------------------------------------------------------------------- */

/* To the nearest of 8 bits, of two the even one, by its definition. */
static float rounded(float x)
{
    int exponent;
    const double fraction = frexp((double)x, &exponent);
    return (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}
static void round_values(fold_model *m, fold_param p)
{
    const fold_shape shape = fold_param_shape(m, p);
    float *values = fold_values_write_begin(m, p);
    int size = 1;
    for (int axis = 0; axis < shape.rank; axis++) size *= shape.dim[axis];
    for (int i = 0; i < size; i++) values[i] = rounded(values[i]);
    fold_values_write_end(m, p);
}
/* The values of a model in 16 bits beside those of one of floats that are as they were rounded; files there and back. */
static void halves_beside_floats(const char *isa, int tables)
{
    static block b, again;
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_quantize_desc all = { 1, tables, 16 };
    net floats, halves, later;
    if (!net_open(&floats, isa, 1)) {
        fold_model_free(floats.m);
        return;
    }
    round_values(floats.m, floats.both); /* which a cell reads as floats too, as lookups do what is tied */
    round_values(floats.m, floats.tied);
    net_open(&halves, isa, 1);
    fold_values_copy(halves.m, floats.m);
    CHECK_INT(fold_model_quantize(halves.m, &all), FOLD_OK);
    CHECK((fold_param_value(halves.m, halves.tied) == NULL) == (tables != 0) && fold_param_value(halves.m, halves.words));
    for (int i = 0; i < fold_param_count(floats.m); i++)
        if (fold_param_quantized(halves.m, fold_param_at(halves.m, i)).bits == 16) round_values(floats.m, fold_param_at(floats.m, i));
    desc.eager = 1;
    run(&floats, &desc, 1, want);
    for (int way = 0; way < 4; way++) { /* eager, batched, in small groups, alone */
        desc.eager = way == 0;
        desc.group_bytes = way == 2;
        run(&halves, &desc, way != 3, got);
        CHECK_BITS(got, want, SAMPLES * VALUES);
    }
    save(halves.m, &b);
    CHECK_TEXT((char *)b.bytes + 8, "\"U\":{\"dtype\":\"BF16\",\"shape\":[34,21]");
    net_open(&later, isa, 0);
    change(later.m);
    load(later.m, &b);
    run(&later, &desc, 1, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    save(later.m, &again); /* of floats */
    fold_model_free(later.m);
    for (int from = 0; from < 2; from++) {
        net_open(&later, isa, 1);
        change(later.m);
        fold_model_quantize(later.m, &all);
        load(later.m, from ? &again : &b);
        run(&later, &desc, 1, got);
        CHECK_BITS(got, want, SAMPLES * VALUES);
        save(later.m, &again);
        CHECK(b.n == again.n && !memcmp(b.bytes, again.bytes, b.n));
        fold_model_free(later.m);
    }
    fold_model_free(floats.m);
    fold_model_free(halves.m);
}
static void halves(void)
{
    for (int i = 0; i < KERNEL_SETS; i++) {
        halves_beside_floats(kernel_set[i], 0);
        halves_beside_floats(kernel_set[i], 1);
    }
}

/* A recording that is run again after a load reads the tables that were loaded; a tied table's product is that without `tables`. */
static void tables_later(void)
{
    static block b;
    const fold_quantize_desc all = { 100, 1, 0 }, weights = { 100, 0, 0 };
    shelf one, other;
    float x[H];
    fold_node y[3];
    shelf_open(&one, NULL, 1);
    shelf_open(&other, NULL, 1);
    change(other.m);
    fold_model_quantize(other.m, &weights);
    fold_ctx *g = fold_ctx_new(other.m, NULL);
    for (int i = 0; i < H; i++) x[i] = noise(i);
    y[2] = fold_linear_t(g, fold_input(g, x, H), other.tied, FOLD_NULL_PARAM);
    CHECK_INT(fold_run(g, &y[2], 1), FOLD_OK);
    CHECK_INT(fold_model_quantize(other.m, &all), FOLD_OK); /* tables that had floats lose them */
    CHECK(!fold_param_value(other.m, other.tied));
    save(other.m, &b);
    fold_model_quantize(one.m, &all);
    fold_ctx *f = fold_ctx_new(one.m, NULL);
    y[0] = fold_square(f, fold_lookup(f, one.words, 7));
    y[1] = fold_linear_t(f, fold_input(f, x, H), one.tied, FOLD_NULL_PARAM);
    CHECK_INT(fold_run(f, y, 2), FOLD_OK);
    const float before = fold_value(f, y[0])[0];
    load(one.m, &b);
    CHECK_INT(fold_replay(f), FOLD_OK);
    CHECK(fold_value(f, y[0])[0] != before);
    fold_ctx_reset(g);
    const fold_node word = fold_square(g, fold_lookup(g, other.words, 7));
    const fold_node product = fold_linear_t(g, fold_input(g, x, H), other.tied, FOLD_NULL_PARAM);
    const fold_node both[2] = { word, product };
    CHECK_INT(fold_run(g, both, 2), FOLD_OK);
    CHECK_BITS(fold_value(f, y[0]), fold_value(g, word), WIDE);
    CHECK_BITS(fold_value(f, y[1]), fold_value(g, product), WORDS);
    CHECK(fold_node_is_null(fold_use(f, one.words)));
    CHECK_TEXT(fold_ctx_message(f), "use: parameter 'words' is quantised");
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(one.m);
    fold_model_free(other.m);
}

/* The nearest bytes, by the definition: q = w times 127 / max, of values `step` apart. */
static void bytes_of(const float *w, int count, int step, int8_t *q, float *scale)
{
    float most = 0;
    for (int i = 0; i < count; i++) most = fabsf(w[i * step]) > most ? fabsf(w[i * step]) : most;
    *scale = most / 127;
    for (int i = 0; i < count; i++) q[i * step] = (int8_t)nearbyintf(w[i * step] * (127 / most));
}
static const unsigned char *data_of(const block *b)
{
    size_t length = 0;
    for (int k = 0; k < 8; k++) length |= (size_t)b->bytes[k] << 8 * k;
    return b->bytes + 8 + length;
}
/* A file's scales and bytes by their definition, and the floats that a model that is no quantized one makes of them. */
static void floats_of_bytes(void)
{
    static block b;
    static float w[IN * H], t[WORDS * H], scale[H + WORDS];
    static int8_t q[IN * H], r[WORDS * H];
    fold_quantize_desc small = { 1, 0, 0 };
    for (int inference = 0; inference < 2; inference++) {
        fold_model_desc desc = fold_model_desc_default();
        desc.inference = 1;
        fold_model *m = fold_model_new(&desc);
        fold_param W = fold_weight_new(m, "W", IN, H), T = weight(m, "T", fold_shape2(WORDS, H), FOLD_FOR_LINEAR_T);
        change(m);
        memcpy(w, fold_param_value(m, W), sizeof w);
        memcpy(t, fold_param_value(m, T), sizeof t);
        for (int j = 0; j < H; j++) bytes_of(w + j, IN, H, q + j, &scale[j]);
        for (int i = 0; i < WORDS; i++) bytes_of(t + i * H, H, 1, r + i * H, &scale[H + i]);
        fold_model_quantize(m, &small);
        save(m, &b);
        CHECK_TEXT((char *)b.bytes + 8, "\"W.scale\":{\"dtype\":\"F32\",\"shape\":[21],\"data_offsets\":[0,84]}");
        CHECK_TEXT((char *)b.bytes + 8, "\"T.scale\":{\"dtype\":\"F32\",\"shape\":[37,1],\"data_offsets\":[84,232]}");
        CHECK_TEXT((char *)b.bytes + 8, "\"W\":{\"dtype\":\"I8\",\"shape\":[13,21],\"data_offsets\":[232,505]}");
        CHECK(!memcmp(data_of(&b) + sizeof scale, q, sizeof q));
        CHECK(!memcmp(data_of(&b) + sizeof scale + sizeof q, r, sizeof r));
        for (int i = 0; i < H + WORDS; i++) {
            uint32_t bits = 0;
            float number;
            for (int k = 0; k < 4; k++) bits |= (uint32_t)data_of(&b)[4 * i + k] << 8 * k;
            memcpy(&number, &bits, sizeof number);
            CHECK(number == scale[i]);
        }
        fold_model_free(m);
        desc.inference = inference;
        m = fold_model_new(&desc);
        W = fold_weight_new(m, "W", IN, H);
        T = weight(m, "T", fold_shape2(WORDS, H), FOLD_FOR_LINEAR_T);
        load(m, &b);
        for (int i = 0; i < IN * H; i++) w[i] = scale[i % H] * (float)q[i];
        for (int i = 0; i < WORDS * H; i++) t[i] = scale[H + i / H] * (float)r[i];
        CHECK_BITS(fold_param_value(m, W), w, IN * H);
        CHECK_BITS(fold_param_value(m, T), t, WORDS * H);
        CHECK_INT(fold_param_quantized(m, W).bits, 32);
        fold_model_free(m);
    }
}

/* Values that 16 bits round: to the nearest, of two to the even one, the largest stays finite; and what is no number is refused. */
static void rounded_to_halves(void)
{
    static const struct { uint32_t from, to; } rounds[] = {
        { 0x3f800000u, 0x3f80u }, { 0x3f808000u, 0x3f80u }, { 0x3f808001u, 0x3f81u }, { 0x3f818000u, 0x3f82u },
        { 0xbf808001u, 0xbf81u }, { 0x7f7fffffu, 0x7f7fu }, { 0xff7fffffu, 0xff7fu }, { 0x7f7f7fffu, 0x7f7fu },
        { 0x00000001u, 0x0000u }, { 0x80000001u, 0x8000u }, { 0x00008000u, 0x0000u }, { 0x00018000u, 0x0002u },
        { 0x007fffffu, 0x0080u }, { 0x00000000u, 0x0000u }, { 0x80000000u, 0x8000u }, { 0x42ff0000u, 0x42ffu } };
    enum { COUNT = sizeof rounds / sizeof *rounds };
    static const uint32_t wrong[] = { 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu };
    fold_quantize_desc halves = { 1, 0, 16 };
    float w[32] = { 0 };
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        static block b;
        fold_model_desc desc = fold_model_desc_default();
        desc.inference = 1;
        net n = { 0 };
        fold_model *m = n.m = fold_model_new(&desc);
        const fold_param W = fold_weight_new(m, "W", 2, 16);
        for (int k = 0; k < COUNT; k++) memcpy(&w[k], &rounds[k].from, sizeof *w);
        if (i) memcpy(&w[17], &wrong[i - 1], sizeof *w);
        memcpy(fold_values_write_begin(m, W), w, sizeof w);
        fold_values_write_end(m, W);
        save(m, &b);
        fold_model_quantize(m, &halves);
        if (i) {
            says(&n, FOLD_BAD_ARGUMENT, "fold_model_quantize: parameter 'W' has a value that is not finite");
            fold_values_write_begin(m, W)[17] = 0;
            fold_values_write_end(m, W);
            CHECK_INT(fold_model_quantize(m, &halves), FOLD_OK);
            CHECK_INT(fold_model_load_memory(m, b.bytes, b.n, NULL), FOLD_BAD_ARGUMENT);
            says(&n, FOLD_OK, "load: W is quantised, but a value in the file is not finite");
        }
        save(m, &b);
        CHECK_TEXT((char *)b.bytes + 8, "\"W\":{\"dtype\":\"BF16\"");
        for (int k = 0; k < COUNT; k++) {
            const unsigned char *at = data_of(&b) + 2 * k;
            CHECK_SAYS((at[0] | (uint32_t)at[1] << 8) == rounds[k].to, "%08lx became %02x%02x", (unsigned long)rounds[k].from, at[1], at[0]);
        }
        fold_model_free(m);
    }
}

/* A file of W [2 x 16] and its scales, which are what it has of them: all 127, all 1, but for one of each. */
static void hostile_file(block *b, const char *header, float scale, int number, size_t data)
{
    const size_t length = strlen(header);
    uint32_t bits;
    memset(b, 0, sizeof *b);
    for (int k = 0; k < 8; k++) b->bytes[k] = (unsigned char)((uint64_t)length >> 8 * k);
    memcpy(b->bytes + 8, header, length);
    b->n = 8 + length;
    for (int i = 0; i < 16; i++) {
        const float one = i == 3 ? scale : 1;
        memcpy(&bits, &one, sizeof bits);
        for (int k = 0; k < 4; k++) b->bytes[b->n++] = (unsigned char)(bits >> 8 * k);
    }
    for (int i = 0; i < 32; i++) b->bytes[b->n++] = (unsigned char)(i == 3 ? number : 127);
    b->n -= 96 - data;
}
#define SCALE(type, shape, end) "{\"W.scale\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[0," end "]}"
#define BYTES(shape, begin, end) "\"W\":{\"dtype\":\"I8\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}}"
static void hostile_files(void)
{
    static const char good[] = SCALE("F32", "[16]", "64") "," BYTES("[2,16]", "64", "96");
    static const struct { const char *header; float scale; int number; size_t data; fold_status status; const char *says; } files[] = {
        { good, 1, 127, 96, FOLD_OK, "" },
        { good, 0, 0, 96, FOLD_BAD_ARGUMENT, "load: W has the int8 value 127 with scale 0" },
        { good, 1, -128, 96, FOLD_BAD_ARGUMENT, "load: W has the int8 value -128, not in [-127, 127]" },
        { good, (float)NAN, 1, 96, FOLD_BAD_ARGUMENT, "load: W.scale has the scale nan, not in [0, " },
        { good, (float)INFINITY, 1, 96, FOLD_BAD_ARGUMENT, "load: W.scale has the scale inf, not in [0, " },
        { good, -1, 1, 96, FOLD_BAD_ARGUMENT, "load: W.scale has the scale -1, not in [0, " },
        { good, FLT_MAX, 1, 96, FOLD_BAD_ARGUMENT, "load: W.scale has the scale 3.40282e+38, not in [0, 2.67939e+36]" },
        { good, 1, 1, 95, FOLD_IO, "load: the file ends too early" },
        { SCALE("F32", "[16]", "64") "," BYTES("[16,2]", "64", "96"), 1, 1, 96, FOLD_BAD_SHAPE, "load: W is [16 x 2] in the file, [2 x 16] in the model" },
        { SCALE("F32", "[16]", "64") "," BYTES("[2,16]", "64", "95"), 1, 1, 95, FOLD_IO, "data_offsets do not fit the type and shape" },
        { SCALE("F32", "[1,16]", "64") "," BYTES("[2,16]", "64", "96"), 1, 1, 96, FOLD_BAD_SHAPE,
          "load: W.scale is [1 x 16] in the file; scales of W are [16] or [2 x 1]" },
        { SCALE("F32", "[2]", "8") "," BYTES("[2,16]", "8", "40"), 1, 1, 40, FOLD_BAD_SHAPE,
          "load: W.scale is [2] in the file; scales of W are [16] or [2 x 1]" },
        { SCALE("F32", "[1,1,1,1,16]", "64") "," BYTES("[2,16]", "64", "96"), 1, 1, 96, FOLD_BAD_SHAPE, "load: W.scale is of more than 4 axes in the file" },
        { SCALE("F16", "[16]", "32") "," BYTES("[2,16]", "32", "64"), 1, 1, 64, FOLD_BAD_ARGUMENT, "load: W.scale is of type F16; scales are F32" },
        { "{" BYTES("[2,16]", "0", "32"), 1, 1, 32, FOLD_BAD_ARGUMENT, "load: W is of type I8, but its scales, 'W.scale', are not in the file" },
        { SCALE("F32", "[16]", "64") "}", 1, 1, 64, FOLD_BAD_ARGUMENT, "load: 'W' is not in the file" },
        { "{\"W\":{\"dtype\":\"F32\",\"shape\":[2,16],\"data_offsets\":[0,128]}}", (float)NAN, 1, 96, FOLD_IO, "load: the file ends too early" },
    };
    static block b, before, after;
    fold_quantize_desc small = { 1, 0, 0 };
    for (int quantized = 0; quantized < 2; quantized++)
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            fold_model_desc desc = fold_model_desc_default();
            desc.inference = 1;
            fold_model *m = fold_model_new(&desc);
            fold_weight_new(m, "W", 2, 16);
            if (quantized) fold_model_quantize(m, &small);
            save(m, &before);
            hostile_file(&b, files[i].header, files[i].scale, files[i].number, files[i].data);
            CHECK_INT(fold_model_load_memory(m, b.bytes, b.n, NULL), files[i].status);
            CHECK_TEXT(fold_model_message(m), files[i].says);
            fold_model_clear_error(m);
            CHECK_INT(fold_model_load_from(m, from_block, &b, NULL), files[i].status);
            fold_model_clear_error(m);
            save(m, &after);
            CHECK((before.n == after.n && !memcmp(before.bytes, after.bytes, after.n)) == (i > 0));
            fold_model_free(m);
        }
}

/* What has values is saved as floats; names that mean two things are not saved; floats for bytes must be finite; scales by rows. */
static void files_at_the_edges(void)
{
    static block b;
    static const char by_rows[] = SCALE("F32", "[2,1]", "8") "," BYTES("[2,16]", "8", "40");
    fold_model_desc desc = fold_model_desc_default();
    fold_quantize_desc small = { 1, 0, 0 };
    net n;
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    n.m = m;
    const fold_param W = fold_weight_new(m, "W", 2, 16), both = weight(m, "both", fold_shape2(16, 16), FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T);
    save(m, &b);
    fold_model_quantize(m, &small);
    CHECK(!fold_param_value(m, W) && fold_param_value(m, both));
    CHECK_INT(fold_param_quantized(m, both).bits, 8);
    unsigned char *const first = b.bytes + (data_of(&b) - b.bytes);
    first[2] = 0x80, first[3] = 0x7f; /* an infinity */
    first[0] = first[1] = 0;
    CHECK_INT(fold_model_load_memory(m, b.bytes, b.n, NULL), FOLD_BAD_ARGUMENT);
    says(&n, FOLD_OK, "load: W is quantised, but a value in the file is not finite");
    first[3] = 0x3f;
    load(m, &b);
    save(m, &b);
    CHECK_TEXT((char *)b.bytes + 8, "\"both\":{\"dtype\":\"F32\"");
    CHECK_TEXT((char *)b.bytes + 8, "\"W\":{\"dtype\":\"I8\"");
    CHECK(fold_param_is_null(fold_bias_new(m, "W.scale", 3)));
    says(&n, FOLD_BAD_ARGUMENT, "parameter 'W.scale': in files this is the name of an int8 parameter's scales");
    fold_model_free(m);
    m = fold_model_new(&desc);
    fold_weight_new(m, "W", 2, 16);
    fold_model_quantize(m, &small);
    hostile_file(&b, by_rows, 1, 5, 96);
    b.n = (size_t)(data_of(&b) - b.bytes) + 40; /* a scale of 1 for each row; the bytes are those of floats */
    for (int i = 0; i < 32; i++) b.bytes[b.n - 32 + (size_t)i] = (unsigned char)(i % 16 ? 254 : 2 - i / 16);
    load(m, &b);
    fold_model_free(m);
    m = fold_model_new(NULL);
    const fold_param V = fold_weight_new(m, "W", 2, 16);
    load(m, &b);
    CHECK(fold_param_value(m, V)[0] == 2 && fold_param_value(m, V)[16] == 1 && fold_param_value(m, V)[5] == -2);
    fold_model_free(m);
}

/* -- allocations that fail ----------------------------------------------------------------------------- */

typedef struct meter { long calls, fail_at; } meter;
static void *metered(size_t size, size_t align, void *user)
{
    meter *count = (meter *)user;
    if (++count->calls == count->fail_at) return NULL;
    char *raw = (char *)malloc(size + 2 * align);
    char *bytes = raw ? raw + align + (align - (uintptr_t)raw % align) % align : NULL;
    if (bytes) memcpy(bytes - sizeof raw, &raw, sizeof raw);
    return bytes;
}
static void released(void *ptr, size_t size, void *user)
{
    void *raw;
    (void)size;
    (void)user;
    memcpy(&raw, (char *)ptr - sizeof raw, sizeof raw);
    free(raw);
}
/* Only memory for the bytes is needed: without more, what is given back is kept. */
static void allocations_that_fail(void)
{
    for (long fails = 1; fails < 5; fails++) {
        meter count = { 0, 0 };
        fold_model_desc desc = fold_model_desc_default();
        desc.inference = 1;
        desc.memory.alloc = metered;
        desc.memory.free = released;
        desc.memory.user = &count;
        fold_model *m = fold_model_new(&desc);
        const fold_param W = fold_weight_new(m, "W", 64, 64), b = weight(m, "b", fold_shape1(64), 0);
        const float first = fold_param_value(m, W)[0], last = fold_param_value(m, b)[63];
        count.fail_at = count.calls + fails;
        CHECK_INT(fold_model_quantize(m, NULL), fails == 1 ? FOLD_NO_MEMORY : FOLD_OK);
        if (fails == 1) {
            CHECK_TEXT(fold_model_message(m), "fold_model_quantize: out of memory");
            fold_model_clear_error(m);
            CHECK(fold_param_value(m, W)[0] == first);
            CHECK_INT(fold_model_quantize(m, NULL), FOLD_OK);
        }
        CHECK_INT(fold_param_quantized(m, W).bits, 8);
        CHECK(fold_param_value(m, b)[63] == last);
        CHECK(fold_model_measure(m).values == 64 * sizeof(float));
        fold_model_free(m);
    }
}

static void in_a_block(void)
{
    static union { double aligned; char bytes[1 << 19]; } memory;
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_model_desc model = fold_model_desc_default();
    net n, other;
    net_open(&other, NULL, 1);
    fold_model_quantize(other.m, NULL);
    run(&other, &desc, 1, want);
    fold_model_free(other.m);
    model.memory.block = memory.bytes;
    model.memory.block_size = sizeof memory;
    model.inference = 1;
    net_build(&n, &model);
    CHECK_SAYS(!fold_model_quantize(n.m, NULL), "%s", fold_model_message(n.m));
    desc.memory.alloc = metered;
    desc.memory.free = released;
    meter count = { 0, 0 };
    desc.memory.user = &count;
    run(&n, &desc, 1, got);
    CHECK_BITS(got, want, SAMPLES * VALUES);
    fold_model_free(n.m);
}

/* Which weights become bytes, by their sides: outputs from 16 on, inputs up to 131072, values from `min_values` on. */
static void by_their_sides(void)
{
    static const struct { int rows, columns; unsigned uses; int bits; } cases[] = {
        { 16, 100, FOLD_FOR_LINEAR_T, 8 }, { 15, 100, FOLD_FOR_LINEAR_T, 32 }, { 16, 131072, FOLD_FOR_LINEAR_T, 8 },
        { 16, 131073, FOLD_FOR_LINEAR_T, 32 }, { 100, 16, FOLD_FOR_LINEAR, 8 }, { 100, 15, FOLD_FOR_LINEAR, 32 },
        { 131072, 16, FOLD_FOR_LINEAR, 8 }, { 131073, 16, FOLD_FOR_LINEAR, 32 }, { 16, 63, FOLD_FOR_LINEAR, 32 }, { 16, 64, FOLD_FOR_LINEAR, 8 },
        { 100, 16, FOLD_FOR_LOOKUP, 8 }, { 100, 15, FOLD_FOR_LOOKUP, 32 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fold_model_desc desc = fold_model_desc_default();
        fold_quantize_desc quantize = fold_quantize_desc_default();
        fold_param_desc d = fold_param_desc_default();
        quantize.tables = 1;
        desc.inference = 1;
        fold_model *m = fold_model_new(&desc);
        d.name = "W";
        d.shape = fold_shape2(cases[i].rows, cases[i].columns);
        d.uses = cases[i].uses;
        d.init = FOLD_INIT_NORMAL;
        const fold_param W = fold_param_new(m, &d);
        CHECK_INT(fold_model_quantize(m, &quantize), FOLD_OK);
        CHECK_SAYS(fold_param_quantized(m, W).bits == cases[i].bits, "[%d x %d]: %d bits", cases[i].rows, cases[i].columns,
                   fold_param_quantized(m, W).bits);
        fold_model_free(m);
    }
}

/* A weight that a body takes by fold_use and reads with no op, or with one that nothing reads: batched and eager run alike. */
enum { DEAD_USE, DEAD_OP, LIVE_OP };
typedef struct dead_net { fold_param W; int way; } dead_net;
static void dead_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const dead_net *n = (const dead_net *)user;
    const fold_param none = { 0, 0 };
    const fold_node used = fold_use(f, n->W), y = fold_linear(f, in[0], n->W, none);
    const fold_node sum = n->way == DEAD_USE ? y : fold_sum(f, used, FOLD_ALL);
    out[0] = n->way == LIVE_OP ? fold_add(f, y, sum) : y;
}
static void uses_that_are_dead(void)
{
    for (int k = 0; k < 6; k++) {
        dead_net n;
        float x[32] = { 1, -2, 0.5f }, got[2][32];
        fold_model_desc md = fold_model_desc_default();
        fold_cell_desc c = fold_cell_desc_default();
        fold_quantize_desc q = fold_quantize_desc_default();
        md.inference = 1;
        fold_model *m = fold_model_new(&md);
        n.way = k / 2;
        n.W = weight(m, "W", fold_shape2(32, 32), 0);
        c.name = "dead";
        c.body = dead_body;
        c.user = &n;
        c.n_in = c.n_out = 1;
        c.in[0] = fold_shape1(32);
        const fold_cell cell = fold_cell_new(m, &c);
        q.bits = k % 2 ? 16 : 8;
        CHECK_INT(fold_model_quantize(m, &q), FOLD_OK);
        CHECK_INT(fold_param_quantized(m, n.W).bits, q.bits);
        for (int eager = 0; eager < 2; eager++) {
            fold_ctx_desc d = fold_ctx_desc_default();
            d.eager = eager;
            fold_ctx *f = fold_ctx_new(m, &d);
            const fold_node in = fold_input(f, x, 32), y = fold_call(f, cell, &in, 1);
            CHECK_SAYS(!fold_run(f, &y, 1), "way %d, eager %d: %s", n.way, eager, fold_ctx_message(f));
            fold_read(f, &y, 1, got[eager]);
            fold_ctx_free(f);
        }
        CHECK_BITS(got[0], got[1], 32);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    check_run("every kernel set", every_kernel_set);
    check_run("whole numbers", whole_numbers);
    check_run("rows at the edges", rows_at_the_edges);
    check_run("halves at the edges", halves_at_the_edges);
    check_run("rounded to halves", rounded_to_halves);
    check_run("report", report);
    check_run("memory of weights", memory_of_weights);
    check_run("later", later);
    check_run("refusals", refusals);
    check_run("training", training);
    check_run("files of bytes", files_of_bytes);
    check_run("floats of bytes", floats_of_bytes);
    check_run("tables", tables);
    check_run("halves", halves);
    check_run("tables later", tables_later);
    check_run("hostile files", hostile_files);
    check_run("files at the edges", files_at_the_edges);
    check_run("recordings before", recordings_before);
    check_run("allocations that fail", allocations_that_fail);
    check_run("in a block", in_a_block);
    check_run("quantize: by their sides", by_their_sides);
    check_run("quantize: uses that are dead", uses_that_are_dead);
    return check_finish();
}
