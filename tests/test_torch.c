/* test_torch.c - layers from files of PyTorch's, against what PyTorch computed with them: values, gradients, the same bits
   in eager contexts; the layers that _new makes are the same; every error by its message. Tensors of any file, too.
       cc -O2 -o test_torch tests/test_torch.c -lm && ./test_torch
       ./test_torch FILE...        files of tests/make_torch.py instead of tests/torch.safetensors; the modules go to FILE.out */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#include "check.h"
#include "models.h"
#include <limits.h>
#include <stdlib.h>

/* ---- cases of a file ------------------------------------------------------------------------ */

enum { LINEAR, EMBEDDING, NORM, CONV, RNN, LSTM, GRU, ATTENTION, TRANSFORMER, CNN, RELU, ENCODER, LINE, KINDS, OPTIONS = 8, MOST = 1 << 14 };
static const char *const kinds[] = { "linear", "embedding", "norm", "conv", "rnn", "lstm", "gru", "attention", "transformer", "cnn", "relu",
                                     "encoder", "line" };

/* The tensors of a file's cases, as parameters of a model that has nothing else. */
typedef struct cases { fold_model *m; const char *path; int count; } cases;
typedef struct tensor { const float *values; fold_shape shape; int size; } tensor;

static tensor tensor_of(const cases *c, int number, const char *part)
{
    char name[64];
    tensor t = { NULL, { 0, { 0, 0, 0, 0 } }, 1 };
    snprintf(name, sizeof name, "%d.%s", number, part);
    const fold_param p = fold_param_find(c->m, name);
    t.values = fold_param_is_null(p) ? NULL : fold_param_value(c->m, p);
    t.shape = fold_param_shape(c->m, p);
    for (int i = 0; i < t.shape.rank; i++) t.size *= t.shape.dim[i];
    return t;
}

static const char *const parts[] = { "options", "x", "y", "dx", "dp", "k", "v", "g." }; /* the last begins names */
enum { PARTS = sizeof parts / sizeof *parts };

static cases read_cases(const char *path)
{
    cases c = { fold_model_new(NULL), path, 0 };
    fold_torch *t = fold_torch_open(c.m, path);
    const fold_param count = fold_torch_param(t, "cases", 0);
    if (!CHECK_SAYS(t != NULL, "%s", fold_model_message(c.m))) return c;
    c.count = (int)fold_param_value(c.m, count)[0];
    for (int i = 0; i < c.count; i++)
        for (int k = 0; k < PARTS; k++) {
            char name[64];
            snprintf(name, sizeof name, "%d.%s", i, parts[k]);
            fold_torch_param(t, name, 0);
            if (k < 3) CHECK_TEXT(fold_model_message(c.m), "");
            fold_model_clear_error(c.m); /* not every case has all */
        }
    fold_torch_skip(t, "");
    CHECK_INT(fold_torch_close(t), FOLD_OK);
    return c;
}

/* ---- a module -------------------------------------------------------------------------------- */

typedef struct module {
    int kind;
    const float *options;
    fold_dense dense;
    fold_param table;
    fold_norm norm;
    fold_conv conv;
    fold_rnn_stack stack;
    fold_attention attention;
    fold_transformer transformer;
    fold_encoder encoder;
} module;
enum { ENCODER_ROOM = 4 };
static fold_transformer encoder_layers[ENCODER_ROOM]; /* of the module that is loaded */

static fold_conv_desc conv_desc(const float *options)
{
    fold_conv_desc d = { (int)options[2], (int)options[3], (int)options[4], (int)options[5] };
    return d;
}
static fold_transformer_desc transformer_desc(const float *options)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.heads = (int)options[1];
    d.activation = (fold_activation)(int)options[2];
    d.norm_first = (int)options[3];
    d.epsilon = options[5];
    d.dropout = 0;
    return d;
}

/* The calls under test, of the module of a name. */
static module take_module(fold_torch *t, const cases *c, int number, const char *name)
{
    module it;
    char part[3][64];
    memset(&it, 0, sizeof it);
    it.options = tensor_of(c, number, "options").values;
    it.kind = (int)it.options[0];
    for (int i = 0; i < 3; i++) {
        static const char *const names[3] = { "conv", "norm", "out" };
        snprintf(part[i], sizeof part[i], "%s%s%s", name, *name ? "." : "", names[i]);
    }
    const fold_conv_desc conv = conv_desc(it.options), same = { 1, 1, 1, 0 };
    const fold_transformer_desc transformer = transformer_desc(it.options);
    switch (it.kind) {
    case LINEAR: it.dense = fold_torch_linear(t, name, (fold_activation)(int)it.options[1]); break;
    case EMBEDDING: it.table = fold_torch_embedding(t, name); break;
    case NORM: it.norm = fold_torch_norm(t, name, (fold_norm_kind)(int)it.options[1], it.options[2]); break;
    case CONV: it.conv = fold_torch_conv(t, name, &conv, (fold_activation)(int)it.options[1]); break;
    case RNN: it.stack = fold_torch_rnn(t, name); break;
    case LSTM: it.stack = fold_torch_lstm(t, name); break;
    case GRU: it.stack = fold_torch_gru(t, name); break;
    case ATTENTION: it.attention = fold_torch_attention(t, name, (int)it.options[1]); break;
    case TRANSFORMER: it.transformer = fold_torch_transformer(t, name, &transformer); break;
    case RELU: it.stack = fold_torch_rnn_relu(t, name); break;
    case ENCODER: it.encoder = fold_torch_encoder(t, name, encoder_layers, ENCODER_ROOM, &transformer); break;
    case LINE: it.conv = fold_torch_conv(t, part[0], &conv, (fold_activation)(int)it.options[1]); break;
    default:
        it.conv = fold_torch_conv(t, part[0], &same, FOLD_ACT_LINEAR);
        it.norm = fold_torch_norm(t, part[1], FOLD_NORM_FIXED, 0);
        it.dense = fold_torch_linear(t, part[2], FOLD_ACT_LINEAR);
    }
    return it;
}

/* All tensors but those of the case's module are skipped, so that closing tells if one of it was not read. */
static module load_module(fold_model *m, const cases *c, int number)
{
    fold_torch *t = fold_torch_open(m, c->path);
    char name[32];
    snprintf(name, sizeof name, "%d.m", number);
    const module it = take_module(t, c, number, name);
    for (int i = 0; i < c->count; i++) {
        snprintf(name, sizeof name, "%d.", i);
        if (i != number) fold_torch_skip(t, name);
    }
    for (int k = 0; k < PARTS; k++) {
        snprintf(name, sizeof name, "%d.%s", number, parts[k]);
        fold_torch_skip(t, name);
    }
    fold_torch_skip(t, "cases");
    CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
    return it;
}

enum { BYTES = 1 << 16 };
typedef struct file { size_t n; unsigned char bytes[BYTES]; } file;
static int to_file(const void *bytes, size_t n, void *user)
{
    file *to = (file *)user;
    if (to->n + n > BYTES) return 1;
    memcpy(to->bytes + to->n, bytes, n);
    to->n += n;
    return 0;
}

/* Writes the file that PyTorch writes if the module is the network itself: its names have no prefix. */
static void network_file(file *to, const char *path, int number)
{
    char prefix[32];
    fold_model *m = fold_model_new(NULL), *none = fold_model_new(NULL);
    fold_tensors *t = fold_tensors_open(none, path);
    snprintf(prefix, sizeof prefix, "%d.m.", number);
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor tensor = fold_tensors_at(t, i);
        fold_param_desc desc = fold_param_desc_default();
        if (strncmp(tensor.name, prefix, strlen(prefix)) || !strcmp(tensor.dtype, "I64")) continue;
        desc.name = tensor.name + strlen(prefix);
        desc.shape.rank = tensor.rank;
        memcpy(desc.shape.dim, tensor.dim, sizeof desc.shape.dim);
        const fold_param p = fold_param_new(m, &desc);
        fold_tensors_read(t, i, 0, (size_t)tensor.count, fold_values_write_begin(m, p), 1);
        fold_values_write_end(m, p);
    }
    to->n = 0;
    CHECK_SAYS(!fold_model_save_to(m, to_file, to, NULL), "%s", fold_model_message(m));
    fold_tensors_close(t);
    fold_model_free(none);
    fold_model_free(m);
}
static module load_network(fold_model *m, const cases *c, int number, const file *it)
{
    fold_torch *t = fold_torch_open_memory(m, it->bytes, it->n);
    const module made = take_module(t, c, number, "");
    CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
    return made;
}

static fold_node list_of(fold_ctx *f, tensor t)
{
    return fold_list_input(f, t.values, t.shape.dim[0], fold_shape1(t.shape.dim[1]));
}
/* Channels from the front to the back, and the other way round. */
static fold_node channels_last(fold_ctx *f, fold_node x)
{
    if (fold_node_shape(f, x).rank == 2) return fold_transpose(f, x, 0, 1);
    return fold_transpose(f, fold_transpose(f, x, 0, 1), 1, 2);
}
static fold_node channels_first(fold_ctx *f, fold_node x)
{
    if (fold_node_shape(f, x).rank == 2) return fold_transpose(f, x, 0, 1);
    return fold_transpose(f, fold_transpose(f, x, 0, 2), 1, 2);
}

static fold_node record_cnn(fold_ctx *f, const module *it, fold_node x)
{
    fold_node y = fold_norm_apply(f, &it->norm, fold_conv_apply(f, &it->conv, channels_last(f, x)));
    y = channels_first(f, fold_max_pool2d(f, fold_relu(f, y), 2, 0, 0));
    const fold_shape s = fold_node_shape(f, y);
    return fold_dense_apply(f, &it->dense, fold_reshape(f, y, fold_shape1(s.dim[0] * s.dim[1] * s.dim[2])));
}
static fold_node record_lookup(fold_ctx *f, const module *it, tensor x)
{
    int rows[64];
    if (!CHECK(x.size <= 64)) return FOLD_NULL_NODE;
    for (int i = 0; i < x.size; i++) rows[i] = (int)x.values[i];
    return fold_list_lookup(f, it->table, rows, x.size);
}
static fold_node record(fold_ctx *f, const module *it, const cases *c, int number, fold_node *x)
{
    const tensor in = tensor_of(c, number, "x"), k = tensor_of(c, number, "k"), v = tensor_of(c, number, "v");
    const int grid = in.shape.rank == 3 || it->kind == CONV;
    const float *options = it->options;
    *x = it->kind == EMBEDDING ? FOLD_NULL_NODE : grid ? fold_input_shaped(f, in.values, in.shape) : list_of(f, in);
    switch (it->kind) {
    case LINEAR: return fold_dense_apply(f, &it->dense, *x);
    case EMBEDDING: return record_lookup(f, it, in);
    case NORM: return grid ? channels_first(f, fold_norm_apply(f, &it->norm, channels_last(f, *x))) : fold_norm_apply(f, &it->norm, *x);
    case CONV: return channels_first(f, fold_conv_apply(f, &it->conv, channels_last(f, *x)));
    case ATTENTION: {
        const fold_node key = k.values ? list_of(f, k) : *x;
        const fold_node value = v.values ? list_of(f, v) : *x;
        return fold_attention_apply(f, &it->attention, *x, key, value, (int)options[2]);
    }
    case TRANSFORMER: return fold_transformer_apply(f, &it->transformer, *x, (int)options[4]);
    case ENCODER: return fold_encoder_apply(f, &it->encoder, *x, (int)options[4]);
    case LINE: return fold_mean_pool1d(f, fold_max_pool1d(f, fold_conv_apply(f, &it->conv, *x), 3, 1, 1), 2, 1, 1);
    case CNN: return record_cnn(f, it, *x);
    default: return fold_unroll_stack_list(f, &it->stack, *x, NULL, NULL);
    }
}

/* The sum of y's values times the factors that tests/make_torch.py has. */
static fold_node loss_of(fold_ctx *f, fold_node y, int size)
{
    static float factors[MOST];
    const fold_shape shape = fold_node_shape(f, y);
    const int rows = fold_list_length(f, y);
    if (!CHECK(size <= MOST)) return FOLD_NULL_NODE;
    for (int i = 0; i < size; i++) factors[i] = (float)(i * 7 % 11 - 5) / 8;
    if (rows < 0) return fold_sum(f, fold_mul(f, y, fold_input_shaped(f, factors, shape)), FOLD_ALL);
    const fold_node all = fold_list_input(f, factors, rows, shape);
    return fold_list_sum(f, fold_sum(f, fold_mul(f, y, all), FOLD_ALL));
}

/* ---- beside PyTorch -------------------------------------------------------------------------- */

enum { LAYERS = 3, TENSOR = 1 << 17, FLOATS = 1 << 19 }; /* the largest of a seed of tests/make_torch.py */
typedef struct results { float y[MOST], dx[MOST], *grads; int grad_count; } results;

static void compare(const char *what, const float *got, tensor want)
{
    double largest = 0;
    for (int i = 0; i < want.size; i++) largest = fmax(largest, fabs((double)want.values[i]));
    for (int i = 0; i < want.size; i++)
        CHECK_SAYS(fabs((double)got[i] - (double)want.values[i]) <= 2e-5 * (0.1 + largest), "%s: value %d is %.9g, PyTorch's %.9g",
                   what, i, (double)got[i], (double)want.values[i]);
}
/* The sum of all parameters times their gradients. */
static void compare_weights(fold_model *m, double want)
{
    double sum = 0, size = 0;
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_param p = fold_param_at(m, i);
        const fold_shape s = fold_param_shape(m, p);
        int n = 1;
        for (int axis = 0; axis < s.rank; axis++) n *= s.dim[axis];
        for (int k = 0; k < n; k++) {
            const double term = (double)fold_param_value(m, p)[k] * (double)fold_param_grad(m, p)[k];
            sum += term;
            size += fabs(term);
        }
    }
    CHECK_SAYS(fabs(sum - want) <= 1e-5 * (0.1 + size), "parameters times gradients are %.9g, PyTorch's %.9g", sum, want);
}

typedef struct listed { fold_torch_layer layers[LAYERS]; char names[LAYERS][64]; int n; } listed;
static void list_module(listed *to, const cases *c, fold_tensors *t, int number, int is_network);

/* Gradients that go out in PyTorch's layout are PyTorch's own, by name. Those of a batch norm are of another module. */
static void compare_grads(const cases *c, int number, fold_model *m, int is_network)
{
    static float want[TENSOR];
    char prefix[32], name[96];
    int compared = 0;
    listed list;
    fold_model *out = fold_model_new(NULL), *none = fold_model_new(NULL);
    fold_tensors *t = fold_tensors_open(none, c->path);
    list_module(&list, c, t, number, is_network);
    CHECK_SAYS(!fold_torch_export_grads(out, m, list.layers, list.n), "%s", fold_model_message(out));
    snprintf(prefix, sizeof prefix, "%d.g.", number);
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor there = fold_tensors_at(t, i);
        if (strncmp(there.name, prefix, strlen(prefix)) || !CHECK(there.count <= TENSOR)) continue;
        if (is_network) snprintf(name, sizeof name, "%s", there.name + strlen(prefix));
        else snprintf(name, sizeof name, "%d.m.%s", number, there.name + strlen(prefix));
        const fold_param p = fold_param_find(out, name);
        const fold_shape shape = fold_param_shape(out, p);
        const tensor grad = { want, shape, (int)there.count };
        fold_tensors_read(t, i, 0, (size_t)there.count, want, 1);
        compared++;
        if (CHECK_SAYS(there.rank == shape.rank && !memcmp(there.dim, shape.dim, sizeof(int) * (size_t)shape.rank), "'%s' has no gradient, or another shape", name))
            compare(name, fold_param_value(out, p), grad);
    }
    for (int i = 0; i < list.n; i++) compared += list.layers[i].kind == FOLD_TORCH_BATCH_NORM ? 2 : 0; /* none of one without weights */
    CHECK_INT(compared, fold_param_count(out));
    fold_tensors_close(t);
    fold_model_free(none);
    fold_model_free(out);
}

/* network: a file whose network is the case's module alone; NULL: the file of all cases. */
static void run_case(const cases *c, int number, int eager, const file *network, results *r)
{
    fold_model *m = fold_model_new(NULL);
    const module it = network ? load_network(m, c, number, network) : load_module(m, c, number);
    const tensor y = tensor_of(c, number, "y"), dx = tensor_of(c, number, "dx"), dp = tensor_of(c, number, "dp");
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    desc.eager = eager;
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_node x;
    const fold_node out = record(f, &it, c, number, &x);
    fold_keep(f, out);
    if (dx.values) fold_keep_grad(f, x);
    if (CHECK_SAYS(!fold_backward(f, loss_of(f, out, y.size)), "%s", fold_ctx_message(f))) {
        CHECK_INT(fold_read(f, &out, 1, r->y), FOLD_OK);
        compare("y", r->y, y);
        if (dx.values) memcpy(r->dx, fold_grad(f, x), (size_t)dx.size * sizeof(float));
        if (dx.values) compare("the gradient of x", r->dx, dx);
        compare_weights(m, (double)dp.values[0]);
        compare_grads(c, number, m, network != NULL);
        const float *grads = fold_model_grads(m, &r->grad_count);
        r->grads = (float *)malloc((size_t)r->grad_count * sizeof(float));
        memcpy(r->grads, grads, (size_t)r->grad_count * sizeof(float));
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

static void test_file(const char *path)
{
    static results one, other;
    if (check_begin(path)) check_end();
    const cases c = read_cases(path);
    for (int i = 0; i < c.count; i++) {
        const tensor options = tensor_of(&c, i, "options"), y = tensor_of(&c, i, "y"), dx = tensor_of(&c, i, "dx");
        char name[160];
        const int kind = (int)options.values[0];
        snprintf(name, sizeof name, "%s: case %d, %s", path, i, kind >= 0 && kind < KINDS ? kinds[kind] : "?");
        if (!check_begin(name)) continue;
        one.grads = other.grads = NULL;
        run_case(&c, i, 0, NULL, &one);
        run_case(&c, i, 1, NULL, &other);
        if (CHECK(one.grads && other.grads)) {
            CHECK(!memcmp(one.y, other.y, (size_t)y.size * sizeof(float)));
            if (dx.values) CHECK(!memcmp(one.dx, other.dx, (size_t)dx.size * sizeof(float)));
            CHECK(!memcmp(one.grads, other.grads, (size_t)one.grad_count * sizeof(float)));
        }
        free(one.grads);
        free(other.grads);
        check_end();
    }
    fold_model_free(c.m);
}

/* ---- files made here ------------------------------------------------------------------------- */

/* "name 2x3, other 4, …": tensors of floats from 1/16 to 7/16 or, with ! before the shape, of another type, I64. */
static void make_file(file *to, const char *tensors)
{
    static char header[BYTES / 4];
    size_t length = 0, data = 0;
    length += (size_t)snprintf(header, sizeof header, "{");
    for (const char *at = tensors; *at;) {
        const size_t name = strcspn(at, " ");
        const char *shape = at + name + 1;
        const int other = *shape == '!';
        size_t size = 1;
        length += (size_t)snprintf(header + length, sizeof header - length, "%s\"%.*s\":{\"dtype\":\"%s\",\"shape\":[",
                                   at == tensors ? "" : ",", (int)name, at, other ? "I64" : "F32");
        for (shape += other; *shape && *shape != ','; shape += *shape == 'x') {
            char *end;
            const long dim = strtol(shape, &end, 10);
            size *= (size_t)dim;
            length += (size_t)snprintf(header + length, sizeof header - length, "%ld%s", dim, *end == 'x' ? "," : "");
            shape = end;
        }
        size *= other ? 8 : 4;
        length += (size_t)snprintf(header + length, sizeof header - length, "],\"data_offsets\":[%lu,%lu]}", (unsigned long)data,
                                   (unsigned long)(data + size));
        data += size;
        at = shape + (*shape == ',') + (*shape == ',' && shape[1] == ' ');
    }
    length += (size_t)snprintf(header + length, sizeof header - length, "}");
    for (int k = 0; k < 8; k++) to->bytes[k] = (unsigned char)((uint64_t)length >> 8 * k);
    memcpy(to->bytes + 8, header, length);
    to->n = 8 + length + data;
    if (!CHECK(to->n <= BYTES)) to->n = 8;
    for (size_t i = 0; i + 4 <= data; i += 4) {
        const float value = (float)(1 + i / 4 % 7) / 16;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        for (int k = 0; k < 4; k++) to->bytes[8 + length + i + (size_t)k] = (unsigned char)(bits >> 8 * k);
    }
}

static void call_linear(fold_torch *t) { fold_torch_linear(t, "fc", FOLD_ACT_LINEAR); }
static void call_linear_of_none(fold_torch *t) { fold_torch_linear(t, NULL, FOLD_ACT_LINEAR); }
static void call_nameless(fold_torch *t) { fold_torch_linear(t, "", FOLD_ACT_LINEAR); }
static void call_table(fold_torch *t) { fold_torch_embedding(t, "words"); }
static void call_param(fold_torch *t) { fold_torch_param(t, "p", 0); }
static void call_layer_norm(fold_torch *t) { fold_torch_norm(t, "n", FOLD_NORM_LAYER, 0); }
static void call_batch_norm(fold_torch *t) { fold_torch_norm(t, "n", FOLD_NORM_FIXED, 0); }
static void call_conv(fold_torch *t) { fold_torch_conv(t, "c", NULL, FOLD_ACT_LINEAR); }
static void call_lstm(fold_torch *t) { fold_torch_lstm(t, "r"); }
static void call_gru(fold_torch *t) { fold_torch_gru(t, "r"); }
static void call_attention(fold_torch *t) { fold_torch_attention(t, "a", 2); }
static void call_depthwise(fold_torch *t)
{
    const fold_conv_desc d = { 0, 0, 0, 1 };
    fold_torch_conv(t, "c", &d, FOLD_ACT_LINEAR);
}
static void call_transformer(fold_torch *t)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.heads = 2;
    fold_torch_transformer(t, "l", &d);
}
static void call_transformer_of_8(fold_torch *t)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.heads = 2;
    d.width = 8;
    fold_torch_transformer(t, "l", &d);
}
static void call_rms(fold_torch *t) { fold_torch_norm(t, "n", FOLD_NORM_RMS, 0); }
static void call_transformer_of_rms(fold_torch *t)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.heads = 2;
    d.norm = FOLD_NORM_RMS;
    fold_torch_transformer(t, "l", &d);
}
static void call_encoder(fold_torch *t)
{
    static fold_transformer layers[2];
    fold_transformer_desc d = fold_transformer_desc_default();
    d.heads = 2;
    fold_torch_encoder(t, "", layers, 2, &d);
}
static void call_no_desc(fold_torch *t) { fold_torch_transformer(t, "l", NULL); }

#define HEADS "a.in_proj_weight 12x4, a.in_proj_bias 12, a.out_proj.weight 4x4, a.out_proj.bias 4"
#define LAYER_HEADS "l.self_attn.in_proj_weight 12x4, l.self_attn.in_proj_bias 12, l.self_attn.out_proj.weight 4x4, l.self_attn.out_proj.bias 4"
#define LAYER_REST "l.norm1.weight 4, l.norm1.bias 4, l.norm2.weight 4, l.norm2.bias 4"
#define LSTM_8 "r.weight_ih_l0 8x3, r.weight_hh_l0 8x2, r.bias_ih_l0 8, r.bias_hh_l0 8"

static const struct complaint { const char *tensors; void (*call)(fold_torch *t); fold_status status; const char *says; } complaints[] = {
    { "fc.weight 4x3, fc.bias 4", call_linear, FOLD_OK, "" },
    { "weight 4x3", call_nameless, FOLD_OK, "" },
    { LSTM_8, call_lstm, FOLD_OK, "" },
    { HEADS, call_attention, FOLD_OK, "" },
    { LAYER_HEADS ", l.linear1.weight 5x4, l.linear1.bias 5, l.linear2.weight 4x5, l.linear2.bias 4, " LAYER_REST, call_transformer, FOLD_OK, "" },
    { "net.fc.weight 4x3", call_linear, FOLD_BAD_ARGUMENT, "torch: 'fc.weight' is not in the file; nearest: 'net.fc.weight'$" },
    { "weight 4x3", call_linear, FOLD_BAD_ARGUMENT, "torch: 'fc.weight' is not in the file; nearest: 'weight'$" },
    { "fd.weight 4x3, a.b.fc.weight 4x3, gc.weight 4x3", call_linear, FOLD_BAD_ARGUMENT, "torch: 'fc.weight' is not in the file; nearest: 'a.b.fc.weight'$" },
    { "rnn.weight_hh_l0 8x2, rnn.weight_ih_l0 8x3, q.weight_ih_l1 8x3", call_lstm, FOLD_BAD_ARGUMENT, "torch: 'r.weight_ih_l0' is not in the file; nearest: 'rnn.weight_ih_l0'$" },
    { "t 4x3, eight 4x3, afc.weight 4x3", call_linear, FOLD_BAD_ARGUMENT, "torch: 'fc.weight' is not in the file; nearest: 'afc.weight'$" },
    { "", call_linear, FOLD_BAD_ARGUMENT, "torch: 'fc.weight' is not in the file$" },
    { "fc.weight 4x3", call_linear_of_none, FOLD_BAD_ARGUMENT, "torch: name is NULL" },
    { "fc.weight 4x3x1", call_linear, FOLD_BAD_SHAPE, "torch: 'fc.weight' is [4 x 3 x 1] in the file, expected [? x ?]" },
    { "fc.weight 1x1x1x1x1", call_linear, FOLD_BAD_SHAPE, "torch: 'fc.weight' is of more than 4 axes in the file, expected [? x ?]" },
    { "fc.weight 4x3, fc.bias 3", call_linear, FOLD_BAD_SHAPE, "torch: 'fc.bias' is [3] in the file, expected [4]" },
    { "fc.weight !4x3, fc.bias 4", call_linear, FOLD_BAD_ARGUMENT, "torch: 'fc.weight' is of type I64; F32, F16, BF16 and F64 are read" },
    { "fc.weight 0x3, fc.bias 0", call_linear, FOLD_BAD_ARGUMENT, "3 inputs, 0 outputs" },
    { "fc.weight 99999999x0", call_linear, FOLD_BAD_ARGUMENT, "0 inputs, 99999999 outputs" },
    { "fc.weight 4x3, fc.bias 4, fd.weight 4x3, fd.bias 4", call_linear, FOLD_BAD_ARGUMENT,
      "torch: unread tensors: 'fd.bias' and 1 more; read them, or call fold_torch_skip" },
    { "words.weight 4", call_table, FOLD_BAD_SHAPE, "torch: 'words.weight' is [4] in the file, expected [? x ?]" },
    { "words.weight 4x0", call_table, FOLD_BAD_ARGUMENT, "each dimension at least 1" },
    { "p 1x1x1x1x1", call_param, FOLD_BAD_SHAPE, "torch: 'p' is of more than 4 axes" },
    { "p !1", call_param, FOLD_BAD_ARGUMENT, "torch: 'p' is of type I64" },
    { "n.weight 4, n.bias 5", call_layer_norm, FOLD_BAD_SHAPE, "torch: 'n.bias' is [5] in the file, expected [4]" },
    { "n.weight 4x2", call_layer_norm, FOLD_BAD_SHAPE, "torch: 'n' has a normalized_shape of 2 axes, which fold.h does not support$" },
    { "n.weight 4x2x2x2x2", call_layer_norm, FOLD_BAD_SHAPE, "torch: 'n' has a normalized_shape of 5 axes, which" },
    { "n.weight 4, n.bias 4", call_batch_norm, FOLD_BAD_ARGUMENT, "torch: 'n.running_mean' is not in the file" },
    { "n.weight 4, n.bias 4, n.running_mean 4, n.running_var 4", call_layer_norm, FOLD_BAD_SHAPE,
      "torch: the file has 'n.running_mean', as nn.BatchNorm has: read it with FOLD_NORM_FIXED$" },
    { "n.weight 4, n.running_mean 4, n.running_var 4", call_rms, FOLD_BAD_SHAPE, "torch: the file has 'n.running_mean', as nn.BatchNorm has" },
    { "n.weight 4, n.bias 4", call_rms, FOLD_BAD_SHAPE, "torch: the file has 'n.bias', which nn.RMSNorm lacks: read it with FOLD_NORM_LAYER$" },
    { "n.weight 4", call_rms, FOLD_OK, "" },
    { "n.running_mean 4, n.running_var 3", call_batch_norm, FOLD_BAD_SHAPE, "torch: 'n.running_var' is [3] in the file, expected [4]" },
    { "n.running_mean 0, n.running_var 3", call_batch_norm, FOLD_BAD_ARGUMENT, "0 inputs, 0 outputs" },
    { "c.weight 4x3", call_conv, FOLD_BAD_SHAPE, "torch: 'c.weight' is [4 x 3] in the file, expected [? x ? x ? x ?]" },
    { "c.weight 4x3x0", call_conv, FOLD_BAD_ARGUMENT, "each dimension at least 1" },
    { "c.weight 4x3x2x2", call_depthwise, FOLD_BAD_SHAPE, "torch: 'c' has groups of 3 channels, which fold.h does not support$" },
    { "c.weight 4x3", call_depthwise, FOLD_BAD_SHAPE, "torch: 'c.weight' is [4 x 3] in the file, expected [? x 1 x ? x ?]" },
    { "c.weight 4x3x2x2, c.bias 3", call_conv, FOLD_BAD_SHAPE,
      "torch: 'c' has a weight of [4 x 3 x 2 x 2] and a bias of [3], as nn.ConvTranspose2d has, which fold.h does not support$" },
    { "c.weight 4x3x5, c.bias 6", call_conv, FOLD_BAD_SHAPE, /* two groups */
      "torch: 'c' has a weight of [4 x 3 x 5] and a bias of [6], as nn.ConvTranspose1d has, which fold.h does not support$" },
    { "c.weight 4x1x2x2, c.bias 3", call_depthwise, FOLD_BAD_SHAPE, "torch: 'c' has a weight of [4 x 1 x 2 x 2] and a bias of [3], as nn.ConvTranspose2d" },
    { "c.weight 4x3x2x2, c.bias 5", call_conv, FOLD_BAD_SHAPE, "torch: 'c.bias' is [5] in the file, expected [4]$" },
    { "c.weight 4x0x2x2, c.bias 3", call_conv, FOLD_BAD_SHAPE, "torch: 'c.bias' is [3] in the file, expected [4]$" },
    { "r.weight_hh_l0 8x2", call_lstm, FOLD_BAD_ARGUMENT, "torch: 'r.weight_ih_l0' is not in the file" },
    { "r.weight_ih_l0 8x3, r.weight_hh_l0 8x1", call_lstm, FOLD_BAD_SHAPE, "torch: 'r.weight_ih_l0' is [8 x 3] in the file, expected [4 x 3]" },
    { "r.weight_ih_l0 8x3, r.weight_hh_l0 8x2, r.bias_ih_l0 6", call_lstm, FOLD_BAD_SHAPE, "torch: 'r.bias_ih_l0' is [6] in the file, expected [8]" },
    { "r.weight_ih_l0 8x3, r.weight_hh_l0 8x2", call_gru, FOLD_BAD_SHAPE, "torch: 'r.weight_ih_l0' is [8 x 3] in the file, expected [6 x 3]" },
    { "r.weight_ih_l0 8x0, r.weight_hh_l0 8x2", call_lstm, FOLD_BAD_ARGUMENT, "0 inputs, 2 outputs" },
    { "r.weight_ih_l0 0x3, r.weight_hh_l0 0x999999999", call_lstm, FOLD_BAD_ARGUMENT, "3 inputs, 999999999 outputs" },
    { LSTM_8 ", r.weight_ih_l1 8x3, r.weight_hh_l1 8x2", call_lstm, FOLD_BAD_SHAPE, "torch: 'r.weight_ih_l1' is [8 x 3] in the file, expected [8 x 2]" },
    { LSTM_8 ", r.weight_ih_l0_reverse 8x3", call_lstm, FOLD_BAD_ARGUMENT, "torch: 'r.weight_hh_l0_reverse' is not in the file$" },
    { "r.weight_ih_l0 8x3, r.weight_hh_l0 8x1, r.weight_hr_l0 1x2", call_lstm, FOLD_BAD_SHAPE,
      "torch: 'r' has a proj_size of 1, which fold.h does not support$" },
    { "a.in_proj_weight 12x4", call_attention, FOLD_BAD_ARGUMENT, "torch: 'a.out_proj.weight' is not in the file" },
    { "a.in_proj_weight 12x4, a.out_proj.weight 0x4", call_attention, FOLD_BAD_ARGUMENT, "0 inputs, 0 outputs" },
    { "a.in_proj_weight 12x3, a.out_proj.weight 4x4", call_attention, FOLD_BAD_SHAPE, "torch: 'a.in_proj_weight' is [12 x 3] in the file, expected [12 x 4]" },
    { "a.q_proj_weight 4x4, a.k_proj_weight 3x5, a.v_proj_weight 4x5, a.out_proj.weight 4x4", call_attention, FOLD_BAD_SHAPE,
      "torch: 'a.k_proj_weight' is [3 x 5] in the file, expected [4 x ?]" },
    { "a.in_proj_weight 9x3, a.out_proj.weight 3x3", call_attention, FOLD_BAD_ARGUMENT, "attention 'a': 2 heads do not divide the width 3" },
    { HEADS ", a.bias_k 1x1x4, a.bias_v 1x1x4", call_attention, FOLD_BAD_SHAPE,
      "torch: the file has 'a.bias_k', of add_bias_kv, which fold.h does not support$" },
    { LAYER_HEADS ", l.self_attn.bias_k 1x1x4", call_transformer, FOLD_BAD_SHAPE, "torch: the file has 'l.self_attn.bias_k', of add_bias_kv" },
    { LAYER_HEADS ", l.multihead_attn.out_proj.weight 4x4, " LAYER_REST, call_transformer, FOLD_BAD_SHAPE,
      "torch: the file has 'l.multihead_attn.out_proj.weight', of an nn.TransformerDecoderLayer, which fold.h does not support$" },
    { LAYER_HEADS ", l.linear1.weight 5x4, l.linear2.weight 4x5, " LAYER_REST, call_transformer_of_rms, FOLD_BAD_SHAPE,
      "torch: the file has 'l.norm1.bias', which nn.RMSNorm lacks: read it with FOLD_NORM_LAYER$" },
    { "weight 3", call_encoder, FOLD_BAD_ARGUMENT, "torch: 'layers.0.self_attn.out_proj.weight' is not in the file; nearest: 'weight'$" },
    { LAYER_HEADS, call_transformer_of_8, FOLD_BAD_SHAPE, "torch: 'l.self_attn.out_proj.weight' is [4 x 4] in the file, expected [8 x 8]" },
    { LAYER_HEADS ", l.linear1.weight 5x4, l.linear2.weight 4x6", call_transformer, FOLD_BAD_SHAPE,
      "torch: 'l.linear2.weight' is [4 x 6] in the file, expected [4 x 5]" },
    { LAYER_HEADS ", l.linear1.weight 0x4, l.linear2.weight 4x0, " LAYER_REST, call_transformer, FOLD_BAD_ARGUMENT, "4 inputs, 0 outputs" },
    { LAYER_HEADS ", l.linear1.weight 5x4, l.linear2.weight 4x5, " LAYER_REST, call_no_desc, FOLD_BAD_ARGUMENT, "0 heads do not divide" },
};

static void what_does_not_match_is_told(void)
{
    static file it;
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        const struct complaint *row = &complaints[i];
        fold_model *m = fold_model_new(NULL);
        make_file(&it, row->tensors);
        unsigned char *exact = (unsigned char *)malloc(it.n); /* so that a sanitizer sees what is read behind it */
        memcpy(exact, it.bytes, it.n);
        fold_torch *t = fold_torch_open_memory(m, exact, it.n);
        CHECK_SAYS(t != NULL, "%s: %s", row->tensors, fold_model_message(m));
        row->call(t);
        const fold_status status = fold_torch_close(t);
        CHECK_SAYS(status == row->status, "%s: status %d: %s", row->tensors, (int)status, fold_model_message(m));
        const size_t end = strcspn(row->says, "$"); /* the message ends there */
        if (row->says[end]) CHECK_SAYS(strlen(fold_model_message(m)) == end && !strncmp(fold_model_message(m), row->says, end), "%s", fold_model_message(m));
        else CHECK_TEXT(fold_model_message(m), row->says);
        if (!row->status) CHECK_SAYS(!fold_model_message(m)[0], "%s: %s", row->tensors, fold_model_message(m));
        free(exact);
        fold_model_free(m);
    }
}

/* ---- tied weights ----------------------------------------------------------------------------- */

#define ENCODER_LAYER(n)                                                                                                                    \
    "e.layers." n ".self_attn.in_proj_weight 12x4, e.layers." n ".self_attn.in_proj_bias 12, e.layers." n ".self_attn.out_proj.weight 4x4, " \
    "e.layers." n ".self_attn.out_proj.bias 4, e.layers." n ".linear1.weight 6x4, e.layers." n ".linear1.bias 6, e.layers." n               \
    ".linear2.weight 4x6, e.layers." n ".linear2.bias 4, e.layers." n ".norm1.weight 4, e.layers." n ".norm1.bias 4, e.layers." n           \
    ".norm2.weight 4, e.layers." n ".norm2.bias 4"
/* A file of a header and the bytes of its data. */
static void put_file(file *to, const char *header, const char *data, size_t size)
{
    const size_t length = strlen(header);
    memset(to->bytes, 0, 8);
    to->bytes[0] = (unsigned char)length;
    to->bytes[1] = (unsigned char)(length >> 8);
    memcpy(to->bytes + 8, header, length);
    memcpy(to->bytes + 8 + length, data, size);
    to->n = 8 + length + size;
}
#define TIED_TENSOR "\"emb.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}"
static const char tied_data[] = "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40"; /* 1 to 6 */
static const struct { const char *header, *name; int found; } tied[] = {
    { "{\"__metadata__\":{\"format\":\"pt\",\"head.weight\":\"emb.weight\"}," TIED_TENSOR "}", "head", 1 },
    { "{" TIED_TENSOR ", \"__metadata__\" : { \"head.weight\" : \"emb.weight\" , \"a}\" : \"{\\\"\" } }", "head", 1 },
    { "{\"__metadata__\":{\"a\\\\\":\"\\\"\",\"b{\":\"}\",\"h\\u00e9\\ud83d\\ude00\\t\\\"\\/\\\\.weight\":\"emb\\u002eweight\"}," TIED_TENSOR "}",
      "h\xc3\xa9\xf0\x9f\x98\x80\t\"/\\", 1 },
    { "{\"__metadata__\":{\"x.weight\":\"emb.weight\",\"y.weight\":\"none\",\"head.weight\":\"emb.weight\"}," TIED_TENSOR "}", "head", 1 },
    { "{\"__metadata__\":{\"head.weight\":\"none\"}," TIED_TENSOR "}", "head", 0 }, /* the other is not there either */
    { "{\"__metadata__\":{\"emb.weight\":\"head.weight\"}," TIED_TENSOR "}", "head", 0 },
    { "{\"__metadata__\":{}," TIED_TENSOR "}", "head", 0 },
    { "{\"config\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[24,24]}," TIED_TENSOR "}", "head", 0 },
};
/* Files of save_model have a tensor that modules share once, and note its other names. */
static void tied_weights_are_read(void)
{
    static const float turned[6] = { 1, 3, 5, 2, 4, 6 };
    static file it;
    const char *path = "build/torch_tied.safetensors";
    for (int i = 0; i < 2 * (int)(sizeof tied / sizeof *tied); i++) {
        const int row = i / 2, by_path = i % 2;
        fold_model *m = fold_model_new(NULL);
        put_file(&it, tied[row].header, tied_data, 24);
        FILE *out = by_path ? fopen(path, "wb") : NULL;
        if (out) {
            fwrite(it.bytes, 1, it.n, out);
            fclose(out);
        }
        fold_torch *t = by_path ? fold_torch_open(m, path) : fold_torch_open_memory(m, it.bytes, it.n);
        const fold_param words = fold_torch_embedding(t, "emb");
        CHECK_SAYS(!fold_model_status(m) && fold_param_value(m, words)[5] == 6, "row %d: %s", row, fold_model_message(m));
        const fold_dense head = fold_torch_linear(t, tied[row].name, FOLD_ACT_LINEAR);
        if (tied[row].found && CHECK_SAYS(!fold_model_status(m), "row %d: %s", row, fold_model_message(m)))
            CHECK_BITS(fold_param_value(m, head.W), turned, 6);
        if (!tied[row].found) CHECK_TEXT(fold_model_message(m), "torch: 'head.weight' is not in the file");
        fold_torch_skip(t, "config");
        CHECK_INT(fold_torch_close(t), tied[row].found ? FOLD_OK : FOLD_BAD_ARGUMENT);
        fold_model_free(m);
    }
    remove(path);
}
/* Whatever is looked for, such as layers that an encoder counts, and a parameter of either name; one that was read by its other
   name alone is no tensor that is left. */
static void all_calls_know_tied_weights(void)
{
    static file it;
    static char metadata[2048], header[4096];
    static fold_transformer layers[3];
    static const char *const parts_of_a_layer[] = { "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight", "self_attn.out_proj.bias",
        "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias" };
    fold_transformer_desc desc = fold_transformer_desc_default();
    fold_model *m = fold_model_new(NULL);
    size_t at = 0;
    uint64_t length = 0;
    desc.heads = 2;
    make_file(&it, ENCODER_LAYER("0"));
    for (int i = 0; i < 24; i++)
        at += (size_t)snprintf(metadata + at, sizeof metadata - at, "%s\"e.layers.%d.%s\":\"e.layers.0.%s\"", i ? "," : "", 1 + i / 12,
                               parts_of_a_layer[i % 12], parts_of_a_layer[i % 12]);
    for (int k = 0; k < 8; k++) length |= (uint64_t)it.bytes[k] << 8 * k;
    snprintf(header, sizeof header, "{\"__metadata__\":{%s},%.*s", metadata, (int)length - 1, (const char *)it.bytes + 9);
    const size_t data = it.n - 8 - (size_t)length;
    unsigned char *copy = (unsigned char *)malloc(data);
    memcpy(copy, it.bytes + it.n - data, data);
    put_file(&it, header, (const char *)copy, data);
    free(copy);
    fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
    CHECK_INT(fold_tensors_count(t), 12);
    CHECK_INT(fold_torch_encoder(t, "e", layers, 3, &desc).layers, 3);
    CHECK_SAYS(!fold_torch_close(t), "%s", fold_model_message(m));
    CHECK_INT(fold_param_count(m), 3 * 16);
    fold_model_free(m);
    m = fold_model_new(NULL);
    put_file(&it, tied[0].header, tied_data, 24);
    t = fold_torch_open_memory(m, it.bytes, it.n);
    const fold_param shared = fold_torch_param(t, "head.weight", FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T);
    CHECK_SAYS(!fold_torch_close(t), "%s", fold_model_message(m));
    CHECK_TEXT(fold_param_name(m, shared), "head.weight");
    fold_model_free(m);
}

/* Nine layers are one too many. */
static void too_many_layers(void)
{
    static file it;
    static char tensors[1024];
    size_t at = 0;
    fold_model *m = fold_model_new(NULL);
    for (int i = 0; i < 9; i++)
        at += (size_t)snprintf(tensors + at, sizeof tensors - at, "%sr.weight_ih_l%d 4x1, r.weight_hh_l%d 4x1", i ? ", " : "", i, i);
    make_file(&it, tensors);
    fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
    fold_torch_lstm(t, "r");
    CHECK_INT(fold_torch_close(t), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "make is NULL, or layers (9) is not 1 to 8");
    fold_model_free(m);
}

/* A file that cannot be read gives a handle all the same: calls give nothing, and closing tells the error. */
static void refused(fold_model *m, fold_torch *t, fold_status status, const char *says)
{
    CHECK(t != NULL);
    CHECK_INT(fold_model_status(m), FOLD_OK); /* nothing is lost yet */
    CHECK_TEXT(fold_model_message(m), says);
    CHECK(fold_param_is_null(fold_torch_linear(t, "fc", FOLD_ACT_LINEAR).W) && fold_param_is_null(fold_torch_param(t, "fc.weight", 0)));
    CHECK_INT(fold_model_status(m), status);
    fold_torch_skip(t, "");
    CHECK_INT(fold_torch_close(t), status);
    CHECK_TEXT(fold_model_message(m), says);
    CHECK_INT(fold_param_count(m), 0);
    fold_model_clear_error(m);
}
static void what_cannot_be_opened_is_told(void)
{
    static file it;
    fold_model *m = fold_model_new(NULL);
    fold_torch *first = fold_torch_open(m, "build/there is no such file");
    refused(m, fold_torch_open_memory(m, "", 0), FOLD_IO, "load: the file ends too early");
    CHECK_INT(fold_torch_close(first), FOLD_IO); /* nothing was asked for */
    CHECK_INT(fold_model_status(m), FOLD_OK);
    CHECK(!fold_param_is_null(fold_bias_new(m, "b", 1)));
    fold_model_free(m);
    m = fold_model_new(NULL);
    refused(m, fold_torch_open(m, "build/there is no such file"), FOLD_IO, "load: 'build/there is no such file': ");
    refused(m, fold_torch_open(m, NULL), FOLD_BAD_ARGUMENT, "load: path is NULL");
    refused(m, fold_torch_open_memory(m, NULL, 8), FOLD_BAD_ARGUMENT, "load: bytes is NULL");
    refused(m, fold_torch_open_memory(m, "PK\3\4\0\0\0\0\0\0\0\0", 12), FOLD_IO,
            "load: an archive of torch.save, not a safetensors file; write one with safetensors.torch");
    make_file(&it, "fc.weight 4x3");
    for (size_t n = 0; n < it.n; n++) refused(m, fold_torch_open_memory(m, it.bytes, n), FOLD_IO, "load: "); /* wherever it is cut */
    CHECK_INT(fold_torch_close(NULL), FOLD_BAD_ARGUMENT);
    CHECK(!fold_torch_open(NULL, "x") && !fold_torch_open_memory(NULL, "", 0));
    fold_model_free(m);
}

/* From a path, a file is read to its end and not beyond. */
static void files_by_path_are_whole(void)
{
    static file it;
    const char *path = "build/torch_cut.safetensors";
    make_file(&it, "fc.weight 4x3, fc.bias 4");
    for (int more = -1; more < 2; more++) {
        fold_model *m = fold_model_new(NULL);
        FILE *out = fopen(path, "wb");
        if (!CHECK(out != NULL)) { fold_model_free(m); return; }
        it.bytes[it.n] = 0;
        fwrite(it.bytes, 1, more < 0 ? it.n - 1 : it.n + (size_t)more, out);
        fclose(out);
        fold_torch *t = fold_torch_open(m, path);
        CHECK_TEXT(fold_model_message(m), more < 0 ? "ends too early" : more ? "has more than its data" : "");
        fold_torch_skip(t, "fc.");
        CHECK_INT(fold_torch_close(t), more ? FOLD_IO : FOLD_OK);
        fold_model_free(m);
    }
    remove(path);
}

static fold_model *model_of(purse *p)
{
    const fold_model_desc d = purse_desc(p);
    return fold_model_new(&d);
}
static void read_tagger(fold_model *m)
{
    fold_torch *t = fold_torch_open(m, "tests/tagger.safetensors");
    fold_torch_embedding(t, "words");
    fold_torch_lstm(t, "lstm");
    fold_torch_linear(t, "tag", FOLD_ACT_LINEAR);
    fold_torch_close(t);
}
static void read_tied(fold_model *m)
{
    fold_torch *t = fold_torch_open(m, "build/torch_memory.safetensors");
    fold_torch_linear(t, "head", FOLD_ACT_LINEAR);
    fold_torch_close(t);
}
/* After k allocations there is no memory: an error says so, and all that was taken comes back. */
static void memory_runs_out_of(void (*read)(fold_model *m))
{
    int k = 0, told = 0;
    for (int ended = 0; !ended && k < 200; k++) {
        purse p = { 0, 0, k, 0 };
        fold_model *m = model_of(&p);
        read(m);
        ended = !p.refused;
        if (m) CHECK_SAYS(fold_model_status(m) == (ended ? FOLD_OK : FOLD_NO_MEMORY), "allocation %d: %s", k, fold_model_message(m));
        told += m && !ended;
        fold_model_free(m);
        CHECK_SAYS(!p.held, "allocation %d: %lu bytes are not returned", k, (unsigned long)p.held);
    }
    CHECK(k < 200 && told > 10);
}
static void memory_runs_out(void)
{
    static file it;
    FILE *out = fopen("build/torch_memory.safetensors", "wb");
    put_file(&it, tied[0].header, tied_data, 24);
    if (!CHECK(out != NULL)) return;
    fwrite(it.bytes, 1, it.n, out);
    fclose(out);
    memory_runs_out_of(read_tagger);
    memory_runs_out_of(read_tied);
    remove("build/torch_memory.safetensors");
}

/* A header that promises more than there is costs no more memory than the file's size asks for. */
static void promises_cost_nothing(void)
{
    static const struct { const char *header; fold_status status; } promise[] = {
        { "{\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[1024,268435456],\"data_offsets\":[0,1099511627776]}}", FOLD_IO },
        { "{\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[1,1152921504606846975],\"data_offsets\":[0,4611686018427387900]}}", FOLD_IO },
        { "{\"fc.weight\":{\"dtype\":\"F64\",\"shape\":[1,1000000000000000000],\"data_offsets\":[0,8000000000000000000]}}", FOLD_NO_MEMORY },
    };
    const char *path = "build/torch_promise.safetensors";
    for (int i = 0; i < 3; i++) {
        purse p = { 0, 0, 1000, 0 };
        unsigned char head[8] = { 0 };
        FILE *out = fopen(path, "wb");
        if (!CHECK(out != NULL)) return;
        head[0] = (unsigned char)strlen(promise[i].header);
        fwrite(head, 1, 8, out);
        fputs(promise[i].header, out);
        fclose(out);
        fold_model *m = model_of(&p);
        const fold_status status = fold_torch_close(fold_torch_open(m, path));
        CHECK_SAYS(status == promise[i].status || (sizeof(size_t) < 8 && status == FOLD_NO_MEMORY), "promise %d: %s",
                   i, fold_model_message(m));
        CHECK_SAYS(p.most < 500000, "promise %d takes %lu bytes", i, (unsigned long)p.most);
        fold_model_free(m);
    }
    remove(path);
}

/* ---- tensors of any file, and errors of one's own ----------------------------------------------- */

static const char types_header[] =
    "{\"f\":{\"dtype\":\"F32\",\"shape\":[ 1, 2 ],\"data_offsets\":[0,8]},\"h\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[8,10]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[10,16]},\"d\":{\"dtype\":\"F64\",\"shape\":[1,1,1,1,1,1,1,1,2,1],\"data_offsets\":[16,32]},"
    "\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[32,40]},\"q\":{\"dtype\":\"Q5\",\"shape\":[8],\"data_offsets\":[40,45]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3000000000],\"data_offsets\":[45,45]}}";
static const char types_data[] =
    "\x00\x00\x80\x3f\x00\x00\x00\xc0" "\x00\x3e" "\x80\x3f\x00\x40\x40\x40"
    "\x00\x00\x00\x00\x00\x00\xd0\x3f\x00\x00\x00\x00\x00\x00\xe0\xbf" "\x05\0\0\0\0\0\0\0" "\1\2\3\4\5";

static void tensors_are_told(void)
{
    static const struct { const char *name, *dtype; uint64_t count; int rank, first, second; } told[] = {
        { "f", "F32", 2, 2, 1, 2 }, { "h", "F16", 1, 1, 1, 0 }, { "b", "BF16", 3, 1, 3, 0 }, { "d", "F64", 2, 10, 1, 1 },
        { "i", "I64", 1, 1, 1, 0 }, { "q", "another", 8, 1, 8, 0 }, { "none", "F32", 0, 2, 0, INT_MAX },
    };
    static file it;
    fold_model *m = fold_model_new(NULL);
    put_file(&it, types_header, types_data, sizeof types_data - 1);
    fold_tensors *t = fold_tensors_open_memory(m, it.bytes, it.n);
    CHECK_SAYS(!fold_model_status(m), "%s", fold_model_message(m));
    CHECK(fold_tensors_model(t) == m);
    CHECK_INT(fold_tensors_count(t), 7);
    for (int i = 0; i < 7; i++) {
        const fold_tensor tensor = fold_tensors_at(t, i);
        if (!CHECK(tensor.name && tensor.dtype)) continue;
        CHECK(!strcmp(tensor.name, told[i].name) && !strcmp(tensor.dtype, told[i].dtype));
        CHECK_SAYS(tensor.count == told[i].count && tensor.rank == told[i].rank && tensor.dim[0] == told[i].first &&
                   tensor.dim[1] == told[i].second, "%s: rank %d, [%d x %d]", tensor.name, tensor.rank, tensor.dim[0], tensor.dim[1]);
        CHECK_INT(fold_tensors_find(t, told[i].name), i);
        CHECK_INT(tensor.taken, 0);
    }
    CHECK_INT(fold_tensors_at(t, 3).dim[FOLD_TENSOR_RANK - 1], 1);
    CHECK(!fold_tensors_at(t, -1).name && !fold_tensors_at(t, 7).name);
    CHECK_INT(fold_tensors_find(t, "F"), -1);
    CHECK_INT(fold_tensors_find(t, NULL), -1);
    CHECK_INT(fold_tensors_find(NULL, "f"), -1);
    fold_tensors_take(t, 2);
    fold_tensors_take(t, -1);
    fold_tensors_take(t, 7);
    for (int i = 0; i < 7; i++) CHECK_INT(fold_tensors_at(t, i).taken, i == 2);
    CHECK_INT(fold_tensors_close(t), FOLD_OK);
    fold_model_free(m);
}

static void values_are_read(void)
{
    static file it;
    float out[8] = { 9, 9, 9, 9, 9, 9, 9, 9 };
    fold_model *m = fold_model_new(NULL);
    put_file(&it, types_header, types_data, sizeof types_data - 1);
    fold_tensors *t = fold_tensors_open_memory(m, it.bytes, it.n);
    CHECK_INT(fold_tensors_read(t, 0, 0, 2, out, 1), FOLD_OK);
    CHECK(out[0] == 1 && out[1] == -2 && out[2] == 9);
    CHECK_INT(fold_tensors_read(t, 1, 0, 1, out, 1), FOLD_OK);
    CHECK(out[0] == 1.5f);
    CHECK_INT(fold_tensors_read(t, 2, 1, 2, out, 3), FOLD_OK);
    CHECK(out[0] == 2 && out[1] == -2 && out[2] == 9 && out[3] == 3);
    CHECK_INT(fold_tensors_read(t, 3, 1, 1, out, 1), FOLD_OK);
    CHECK(out[0] == -0.5f);
    CHECK_INT(fold_tensors_read(t, 3, 2, 0, NULL, 1), FOLD_OK); /* nothing, at the end */
    CHECK_INT(fold_tensors_read(t, 6, 0, 0, out, 1), FOLD_OK);
    CHECK_INT(fold_tensors_close(t), FOLD_OK);
    fold_model_free(m);
}

static void mistaken_reads_are_told(void)
{
    static const struct { int index; size_t from, count; int place; const char *says; } wrong[] = {
        { -1, 0, 1, 1, "tensors: no such tensor, or out is NULL" }, { 7, 0, 1, 1, "tensors: no such tensor, or out is NULL" },
        { 0, 0, 1, 0, "tensors: no such tensor, or out is NULL" }, { 0, 0, 3, 1, "tensors: 'f' has 2 values, not 3 from 0 on" },
        { 0, 2, 1, 1, "tensors: 'f' has 2 values, not 1 from 2 on" }, { 0, 3, 0, 1, "tensors: 'f' has 2 values, not 0 from 3 on" },
        { 0, 1, SIZE_MAX, 1, "tensors: 'f' has 2 values, not " }, { 0, SIZE_MAX, 2, 1, "tensors: 'f' has 2 values, not 2 from " },
        { 4, 0, 1, 1, "tensors: 'i' is of type I64; F32, F16, BF16 and F64 are read" },
        { 5, 0, 1, 1, "tensors: 'q' is of type another; F32, F16, BF16 and F64 are read" },
    };
    static file it;
    fold_model *m = fold_model_new(NULL);
    put_file(&it, types_header, types_data, sizeof types_data - 1);
    fold_tensors *t = fold_tensors_open_memory(m, it.bytes, it.n);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        float out[4] = { 9, 9, 9, 9 };
        CHECK_INT(fold_tensors_read(t, wrong[i].index, wrong[i].from, wrong[i].count, wrong[i].place ? out : NULL, 1), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_model_message(m), wrong[i].says);
        CHECK_INT(fold_tensors_read(t, 0, 0, 2, out, 1), FOLD_BAD_ARGUMENT); /* the error stays, and nothing is written */
        CHECK(out[0] == 9 && out[1] == 9);
        fold_model_clear_error(m);
    }
    CHECK_INT(fold_tensors_missing(t, "audio", "ff"), FOLD_BAD_ARGUMENT);
    CHECK_INT(strcmp(fold_model_message(m), "audio: 'ff' is not in the file; nearest: 'f'"), 0);
    fold_model_clear_error(m);
    fold_tensors_take(t, 0);
    CHECK_INT(fold_tensors_missing(t, NULL, "hh"), FOLD_BAD_ARGUMENT);
    CHECK_INT(strcmp(fold_model_message(m), "tensors: 'hh' is not in the file; nearest: 'h'"), 0);
    fold_model_clear_error(m);
    CHECK_INT(fold_tensors_missing(t, "audio", NULL), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "audio: '' is not in the file");
    CHECK_INT(fold_tensors_close(t), FOLD_BAD_ARGUMENT);
    fold_model_free(m);
}

/* The first error stays, whoever made it; no message moves a terminal's cursor. */
static int told_errors;
static void count_error(const char *message, void *user)
{
    told_errors++;
    snprintf((char *)user, 300, "%s", message);
}
static void errors_of_ones_own(void)
{
    char told[300] = "", much[600];
    fold_model_desc desc = fold_model_desc_default();
    desc.error = count_error;
    desc.error_user = told;
    fold_model *m = fold_model_new(&desc);
    told_errors = 0;
    CHECK_INT(fold_model_fail(m, FOLD_IO, "onnx: \"x\x1b[2J\xff\n\xc3\xa9\""), FOLD_IO);
    CHECK_INT(strcmp(fold_model_message(m), "onnx: \"x?[2J??\xc3\xa9\""), 0);
    CHECK_INT(fold_model_fail(m, FOLD_BAD_SHAPE, "second"), FOLD_IO);
    CHECK_TEXT(fold_model_message(m), "onnx: ");
    CHECK(fold_param_is_null(fold_bias_new(m, "b", 2)));
    CHECK_INT(told_errors, 1);
    CHECK_TEXT(told, "onnx: ");
    fold_model_clear_error(m);
    CHECK_INT(fold_model_fail(m, FOLD_OK, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(strlen(fold_model_message(m)), 0);
    fold_model_clear_error(m);
    memset(much, 'a', sizeof much - 1);
    much[sizeof much - 1] = 0;
    CHECK_INT(fold_model_fail(m, FOLD_NO_MEMORY, much), FOLD_NO_MEMORY);
    CHECK_INT(strlen(fold_model_message(m)), 240);
    CHECK_TEXT(fold_model_message(m) + 237, "a..");
    CHECK_INT(fold_model_fail(NULL, FOLD_IO, "x"), FOLD_BAD_ARGUMENT);
    fold_model_free(m);
}

/* ---- what is loaded is what _new makes ----------------------------------------------------------- */

static void make_twins(fold_model *m)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    fold_dense_new(m, "fc", 3, 4, FOLD_ACT_LINEAR);
    fold_table_new(m, "words", 5, 2);
    fold_conv_new(m, "c", fold_shape4(2, 5, 3, 4), NULL, FOLD_ACT_RELU);
    fold_norm_new(m, "n", 4, FOLD_NORM_LAYER, 0);
    fold_norm_new(m, "bn", 3, FOLD_NORM_FIXED, 0);
    fold_rnn_stack_new(m, "r", fold_lstm_new, 3, 2, 1, 1);
    fold_rnn_stack_new(m, "g", fold_gru_new, 3, 2, 1, 0);
    fold_attention_new(m, "a", 4, 2);
    d.width = 4;
    d.heads = 2;
    d.inner = 5;
    fold_transformer_new(m, "l", &d);
}
static void take_twins(fold_model *m, const file *it)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    fold_torch *t = fold_torch_open_memory(m, it->bytes, it->n);
    fold_torch_linear(t, "fc", FOLD_ACT_LINEAR);
    fold_torch_embedding(t, "words");
    fold_torch_conv(t, "c", NULL, FOLD_ACT_RELU);
    fold_torch_norm(t, "n", FOLD_NORM_LAYER, 0);
    fold_torch_norm(t, "bn", FOLD_NORM_FIXED, 0);
    fold_torch_lstm(t, "r");
    fold_torch_gru(t, "g");
    fold_torch_attention(t, "a", 2);
    d.heads = 2;
    fold_torch_transformer(t, "l", &d);
    CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
}
static void loaded_is_what_new_makes(void)
{
    static file it, saved;
    fold_model *loaded = fold_model_new(NULL), *made = fold_model_new(NULL);
    int n = 0, other = 0;
    make_file(&it, "fc.weight 4x3, fc.bias 4, words.weight 5x2, c.weight 4x3x2x5, n.weight 4, bn.running_mean 3, bn.running_var 3, "
                   "bn.num_batches_tracked !1, r.weight_ih_l0 8x3, r.weight_hh_l0 8x2, r.bias_ih_l0 8, r.bias_hh_l0 8, "
                   "r.weight_ih_l0_reverse 8x3, r.weight_hh_l0_reverse 8x2, r.bias_ih_l0_reverse 8, r.bias_hh_l0_reverse 8, "
                   "g.weight_ih_l0 6x3, g.weight_hh_l0 6x2, " HEADS ", " LAYER_HEADS
                   ", l.linear1.weight 5x4, l.linear1.bias 5, l.linear2.weight 4x5, l.linear2.bias 4, " LAYER_REST);
    take_twins(loaded, &it);
    make_twins(made);
    CHECK_INT(fold_param_count(loaded), fold_param_count(made));
    for (int i = 0; i < fold_param_count(made); i++) {
        const fold_shape a = fold_param_shape(loaded, fold_param_at(loaded, i)), b = fold_param_shape(made, fold_param_at(made, i));
        CHECK(!strcmp(fold_param_name(loaded, fold_param_at(loaded, i)), fold_param_name(made, fold_param_at(made, i))));
        CHECK(!memcmp(&a, &b, sizeof a));
    }
    saved.n = 0;
    CHECK_INT(fold_model_save_to(loaded, to_file, &saved, NULL), FOLD_OK);
    CHECK_INT(fold_model_load_memory(made, saved.bytes, saved.n, NULL), FOLD_OK);
    const float *a = fold_model_values(loaded, &n), *b = fold_model_values(made, &other);
    CHECK(n == other && !memcmp(a, b, (size_t)n * sizeof(float)));
    fold_model_free(loaded);
    fold_model_free(made);
}

/* A transformer's layer whose parts were loaded one by one, as from files with other names, does what the whole does. */
static void parts_make_a_whole(void)
{
    static file it;
    enum { D = 4, ROWS = 3 };
    float x[ROWS * D], y[2][ROWS * D];
    fold_model *m = fold_model_new(NULL);
    fold_transformer_desc d = fold_transformer_desc_default();
    fold_transformer whole, parts;
    make_file(&it, LAYER_HEADS ", l.linear1.weight 5x4, l.linear1.bias 5, l.linear2.weight 4x5, l.linear2.bias 4, " LAYER_REST);
    fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
    memset(&parts, 0, sizeof parts);
    parts.attention = fold_torch_attention(t, "l.self_attn", 2);
    parts.attention_norm = fold_torch_norm(t, "l.norm1", FOLD_NORM_LAYER, 0);
    parts.inner = fold_torch_linear(t, "l.linear1", FOLD_ACT_SILU);
    parts.outer = fold_torch_linear(t, "l.linear2", FOLD_ACT_LINEAR);
    parts.dense_norm = fold_torch_norm(t, "l.norm2", FOLD_NORM_LAYER, 0);
    CHECK_INT(fold_transformer_assemble(m, "parts", &parts), FOLD_OK);
    d.heads = 2;
    d.activation = FOLD_ACT_SILU;
    whole = fold_torch_transformer(t, "l", &d);
    CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
    for (int i = 0; i < ROWS * D; i++) x[i] = (float)(i * 5 % 7) / 4;
    fold_ctx *f = fold_ctx_new(m, NULL);
    for (int i = 0; i < 2; i++) {
        const fold_node in = fold_list_input(f, x, ROWS, fold_shape1(D));
        const fold_node out = fold_transformer_apply(f, i ? &whole : &parts, in, 0);
        CHECK_SAYS(!fold_run(f, &out, 1) && !fold_read(f, &out, 1, y[i]), "%s", fold_ctx_message(f));
    }
    CHECK(!memcmp(y[0], y[1], sizeof y[0]) && y[0][0] != y[0][1]);
    parts.outer.W = parts.inner.W; /* does not fit */
    CHECK_INT(fold_transformer_assemble(m, "parts", &parts), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_model_message(m), "cell 'parts': dense_apply: ");
    fold_model_clear_error(m);
    CHECK_INT(fold_transformer_assemble(m, "parts", NULL), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "transformer: the layer is NULL");
    fold_model_clear_error(m);
    memset(&parts, 0, sizeof parts);
    CHECK(fold_transformer_assemble(m, "parts", &parts) != FOLD_OK);
    CHECK_TEXT(fold_model_message(m), "cell 'parts': ");
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A bias that the module has not is zero, and stays so when the layer is trained; one that it has is trained. */
static void missing_biases_stay_zero(void)
{
    static file it;
    for (int with = 0; with < 2; with++) {
        fold_model *m = fold_model_new(NULL);
        make_file(&it, with ? "fc.weight 4x3, fc.bias 4, " LSTM_8 : "fc.weight 4x3, r.weight_ih_l0 8x3, r.weight_hh_l0 8x2");
        fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
        const fold_dense fc = fold_torch_linear(t, "fc", FOLD_ACT_LINEAR);
        const fold_rnn_stack r = fold_torch_lstm(t, "r");
        CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
        const fold_param bias[2] = { fc.b, fold_param_find(m, "r.0.b") };
        float before[2];
        for (int i = 0; i < 2; i++) before[i] = fold_param_value(m, bias[i])[0];
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        fold_ctx *f = fold_ctx_new(m, &desc);
        const float x[3] = { 0.01f, -0.02f, 0.01f };
        const fold_sgd sgd = { 0.1f, 0, 0 };
        fold_node h = fold_input(f, x, 3);
        const fold_node y = fold_sum(f, fold_dense_apply(f, &fc, h), FOLD_ALL);
        fold_unroll_stack(f, &r, &h, 1, NULL, &h, NULL);
        CHECK_SAYS(!fold_backward(f, fold_add(f, y, fold_sum(f, h, FOLD_ALL))), "%s", fold_ctx_message(f));
        CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
        for (int i = 0; i < 2; i++) {
            const float after = fold_param_value(m, bias[i])[0];
            if (with) CHECK(before[i] != 0 && after != before[i]);
            else CHECK(before[i] == 0 && after == 0);
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* One step from zeros: what relu gives, tanh gives as the tangent of it where it is above 0. */
static void recurrence_of_relu(void)
{
    static file it;
    float h[2][2];
    make_file(&it, "r.weight_ih_l0 2x3, r.weight_hh_l0 2x2, r.bias_ih_l0 2, r.bias_hh_l0 2");
    for (int relu = 0; relu < 2; relu++) {
        fold_model *m = fold_model_new(NULL);
        fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
        const fold_rnn_stack r = relu ? fold_torch_rnn_relu(t, "r") : fold_torch_rnn(t, "r");
        CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
        fold_ctx *f = fold_ctx_new(m, NULL);
        const float x[3] = { 2, -3, 0.5f };
        const fold_node y = fold_unroll_stack_list(f, &r, fold_list_input(f, x, 1, fold_shape1(3)), NULL, NULL);
        CHECK_SAYS(!fold_run(f, &y, 1), "%s", fold_ctx_message(f));
        CHECK_INT(fold_read(f, &y, 1, h[relu]), FOLD_OK);
        fold_ctx_free(f);
        fold_model_free(m);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(h[0][i] != 0);
        CHECK_SAYS(fabs(tanh((double)h[1][i]) - fmax((double)h[0][i], 0)) < 1e-6, "%g, by tanh %g", (double)h[1][i], (double)h[0][i]);
    }
}

/* An encoder read in one call gives what its layers and its norm give one by one. */
static void encoders_are_layers(void)
{
    static file it;
    static const float x[12] = { 1, -2, 0.5f, 3, 0, 1, 2, -1, 0.25f, 4, -3, 1 };
    fold_transformer_desc desc = fold_transformer_desc_default();
    desc.heads = 2;
    for (int norm = 0; norm < 3; norm++) {
        float got[2][12];
        desc.epsilon = norm == 2 ? 0.5f : 0; /* that of layers: the last norm keeps PyTorch's default */
        make_file(&it, norm ? ENCODER_LAYER("0") ", " ENCODER_LAYER("1") ", e.norm.weight 4, e.norm.bias 4" : ENCODER_LAYER("0"));
        for (int whole = 0; whole < 2; whole++) {
            fold_model *m = fold_model_new(NULL);
            fold_transformer layer[2];
            fold_encoder e;
            fold_norm last;
            fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
            if (whole) e = fold_torch_encoder(t, "e", layer, 2, &desc);
            else {
                layer[0] = fold_torch_transformer(t, "e.layers.0", &desc);
                if (norm) layer[1] = fold_torch_transformer(t, "e.layers.1", &desc);
                if (norm) last = fold_torch_norm(t, "e.norm", FOLD_NORM_LAYER, 0);
            }
            CHECK_SAYS(fold_torch_close(t) == FOLD_OK, "%s", fold_model_message(m));
            fold_ctx *f = fold_ctx_new(m, NULL);
            fold_node y = fold_list_input(f, x, 3, fold_shape1(4));
            if (whole) y = fold_encoder_apply(f, &e, y, 1);
            else {
                for (int i = 0; i <= !!norm; i++) y = fold_transformer_apply(f, &layer[i], y, 1);
                if (norm) y = fold_norm_apply(f, &last, y);
            }
            CHECK_SAYS(!fold_run(f, &y, 1), "%s", fold_ctx_message(f));
            CHECK_INT(fold_read(f, &y, 1, got[whole]), FOLD_OK);
            if (whole) { /* one made by sizes has the same parameters */
                fold_model *other = fold_model_new(NULL);
                desc.width = 4;
                desc.inner = 6;
                fold_encoder_new(other, "e", layer, 1 + !!norm, &desc, norm);
                desc.width = desc.inner = 0;
                CHECK_SAYS(fold_param_count(other) == fold_param_count(m), "%s", fold_model_message(other));
                for (int i = 0; i < fold_param_count(m); i++)
                    CHECK(fold_param_find(other, fold_param_name(m, fold_param_at(m, i))).id);
                fold_model_free(other);
            }
            fold_ctx_free(f);
            fold_model_free(m);
        }
        CHECK_BITS(got[1], got[0], 12);
    }
    fold_transformer layer;
    fold_model *m = fold_model_new(NULL);
    fold_encoder_new(m, "e", &layer, 0, &desc, 0);
    CHECK_TEXT(fold_model_message(m), "encoder 'e': desc or layer is NULL, or layers (0) is below 1");
    fold_model_clear_error(m);
    CHECK_INT(fold_encoder_new(m, "e", &layer, 1, &desc, 0).layers, 0);
    CHECK_TEXT(fold_model_message(m), "encoder 'e': 0 inputs, 0 outputs");
    fold_model_clear_error(m);
    make_file(&it, ENCODER_LAYER("0") ", " ENCODER_LAYER("1"));
    fold_torch *t = fold_torch_open_memory(m, it.bytes, it.n);
    CHECK_INT(fold_torch_encoder(t, "e", &layer, 1, &desc).layers, 0);
    CHECK_TEXT(fold_model_message(m), "torch: 'e' has 2 or more layers, but room is 1");
    fold_torch_close(t);
    fold_model_free(m);
}

/* ---- PyTorch's layout out, and raw floats ------------------------------------------------------- */

/* The layers of a case's module, which is without biases when its file has none. */
static void list_module(listed *to, const cases *c, fold_tensors *t, int number, int is_network)
{
    static const int of[KINDS] = { FOLD_TORCH_LINEAR, FOLD_TORCH_EMBEDDING, FOLD_TORCH_NORM, FOLD_TORCH_CONV, FOLD_TORCH_RNN,
                                   FOLD_TORCH_LSTM, FOLD_TORCH_GRU, FOLD_TORCH_ATTENTION, FOLD_TORCH_TRANSFORMER, 0,
                                   FOLD_TORCH_RNN, FOLD_TORCH_ENCODER, FOLD_TORCH_CONV };
    static const char *const parts[LAYERS] = { ".conv", ".norm", ".out" };
    static const int cnn[LAYERS] = { FOLD_TORCH_CONV | FOLD_TORCH_NO_BIAS, FOLD_TORCH_BATCH_NORM, FOLD_TORCH_LINEAR };
    const float *options = tensor_of(c, number, "options").values;
    const int kind = (int)options[0];
    char prefix[32];
    int biases = 0, is_cell = 0, weights = 0;
    snprintf(prefix, sizeof prefix, "%d.m.", number);
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const char *name = fold_tensors_at(t, i).name;
        if (strncmp(name, prefix, strlen(prefix))) continue;
        biases |= strstr(name, "bias") != NULL;
        weights |= strstr(name, "weight") != NULL;
        is_cell |= !strcmp(name + strlen(prefix), "weight_ih");
    }
    to->n = kind == CNN ? LAYERS : 1;
    for (int i = 0; i < to->n; i++) {
        if (is_network) snprintf(to->names[i], sizeof to->names[i], "%s", kind == CNN || kind == LINE ? parts[i] + 1 : "");
        else snprintf(to->names[i], sizeof to->names[i], "%d.m%s", number, kind == CNN || kind == LINE ? parts[i] : "");
        to->layers[i].name = to->names[i];
        to->layers[i].kind = kind == CNN ? cnn[i] : of[kind] | (biases || kind == NORM ? 0 : FOLD_TORCH_NO_BIAS) | (is_cell ? FOLD_TORCH_CELL : 0);
        if (kind == NORM && (int)options[1] == FOLD_NORM_FIXED) to->layers[i].kind = FOLD_TORCH_BATCH_NORM | (weights ? 0 : FOLD_TORCH_NO_BIAS);
    }
}

/* Reads what PyTorch's tensor becomes by fold.h and back: the first of two biases is their sum where fold.h has one, and the
   second is zero. */
static void read_as_it_comes_out(fold_tensors *t, int index, float *values, int has_two_biases)
{
    static float other[TENSOR];
    char name[96];
    const fold_tensor tensor = fold_tensors_at(t, index);
    fold_tensors_read(t, index, 0, (size_t)tensor.count, values, 1);
    snprintf(name, sizeof name, "%s", tensor.name);
    char *second = strstr(name, "bias_");
    if (!second || has_two_biases) return;
    if (!strncmp(second, "bias_hh", 7)) memset(values, 0, (size_t)tensor.count * sizeof *values);
    if (!strncmp(second, "bias_hh", 7)) return;
    memcpy(second, "bias_hh", 7);
    fold_tensors_read(t, fold_tensors_find(t, name), 0, (size_t)tensor.count, other, 1);
    for (uint64_t i = 0; i < tensor.count; i++) values[i] += other[i];
}

/* Every tensor of the module is there with its shape and bytes, in the order of the file, which is that of state_dict. The
   statistics of a batch norm are in its gain and bias or, if it has none, nearly what they were. `prefix` begins its names. */
static void exported(fold_tensors *t, const char *prefix, const listed *list, fold_model *m)
{
    static float values[TENSOR];
    int there = 0, last = -1;
    fold_model *out = fold_model_new(NULL);
    CHECK_SAYS(!fold_torch_export(out, m, list->layers, list->n), "%s", fold_model_message(out));
    for (int i = 0; i < fold_param_count(out); i++) {
        const fold_param p = fold_param_at(out, i);
        const fold_shape shape = fold_param_shape(out, p);
        const char *name = fold_param_name(out, p);
        const int index = fold_tensors_find(t, name), kind = list->layers[list->n == 1 ? 0 : strstr(name, "norm") ? 1 : 0].kind;
        const fold_tensor tensor = fold_tensors_at(t, index);
        if (!CHECK_SAYS(index > last && tensor.rank == shape.rank && tensor.count <= TENSOR, "'%s' has another place or rank", name)) continue;
        CHECK_SAYS(!memcmp(tensor.dim, shape.dim, sizeof(int) * (size_t)shape.rank), "'%s' has another shape", name);
        read_as_it_comes_out(t, index, values, (kind & 15) == FOLD_TORCH_GRU);
        if (kind == (FOLD_TORCH_BATCH_NORM | FOLD_TORCH_NO_BIAS))
            for (int k = 0; k < (int)tensor.count; k++) CHECK_SAYS(fabs((double)values[k] - (double)fold_param_value(out, p)[k]) < 1e-6, "'%s' has other values", name);
        else if (kind != FOLD_TORCH_BATCH_NORM)
            CHECK_SAYS(!memcmp(values, fold_param_value(out, p), (size_t)tensor.count * sizeof *values), "'%s' has other values", name);
        last = index;
        there++;
    }
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const char *name = fold_tensors_at(t, i).name;
        there -= !strncmp(name, prefix, strlen(prefix)) && !strstr(name, "num_batches");
    }
    CHECK_SAYS(!there, "'%s': %d tensors too many", prefix, there);
    fold_model_free(out);
}

/* The module's tensors, one after the other, load to what reading them by name loads; saved, they load again. */
static void loaded_raw(fold_tensors *t, const char *prefix, const listed *list, fold_model *m)
{
    static float floats[FLOATS], before[FLOATS];
    const char *path = "build/torch_raw.bin";
    size_t count = 0;
    int size = 0;
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor tensor = fold_tensors_at(t, i);
        if (strncmp(tensor.name, prefix, strlen(prefix))) continue;
        if (!CHECK(count + (size_t)tensor.count <= FLOATS)) return;
        fold_tensors_read(t, i, 0, (size_t)tensor.count, floats + count, 1);
        count += (size_t)tensor.count;
    }
    const float *values = fold_model_values(m, &size);
    if (!CHECK(size <= FLOATS)) return;
    memcpy(before, values, (size_t)size * sizeof *values);
    for (int turn = 0; turn < 2; turn++) {
        if (turn) CHECK_SAYS(!fold_torch_save_raw(m, path, list->layers, list->n), "%s", fold_model_message(m));
        for (int i = 0; i < fold_param_count(m); i++) {
            const fold_shape shape = fold_param_shape(m, fold_param_at(m, i));
            size_t all = sizeof(float);
            for (int axis = 0; axis < shape.rank; axis++) all *= (size_t)shape.dim[axis];
            const char last = fold_param_name(m, fold_param_at(m, i))[strlen(fold_param_name(m, fold_param_at(m, i))) - 1];
            if ((list->layers[0].kind & FOLD_TORCH_NO_BIAS) && (last == 'b' || last == 'c')) continue; /* it stays zero */
            memset(fold_values_write_begin(m, fold_param_at(m, i)), 0x44, all);
            fold_values_write_end(m, fold_param_at(m, i));
        }
        if (turn) fold_torch_load_raw(m, path, list->layers, list->n);
        else fold_torch_load_raw_memory(m, floats, count, list->layers, list->n);
        CHECK_SAYS(!fold_model_status(m), "'%s': %s", prefix, fold_model_message(m));
        CHECK_SAYS(!memcmp(before, fold_model_values(m, NULL), (size_t)size * sizeof *values), "'%s', turn %d: other values", prefix, turn);
    }
    remove(path);
}

/* With a place to write to, all modules go into one file there, which PyTorch can load. */
static void modules_go_out_and_in(const char *path, const char *to)
{
    const cases c = read_cases(path);
    fold_model *none = fold_model_new(NULL), *all = fold_model_new(NULL);
    fold_tensors *t = fold_tensors_open(none, path);
    for (int i = 0; i < c.count; i++) {
        listed list;
        fold_model *m = fold_model_new(NULL);
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%d.m.", i);
        load_module(m, &c, i);
        list_module(&list, &c, t, i, 0);
        exported(t, prefix, &list, m);
        if (to) CHECK_SAYS(!fold_torch_export(all, m, list.layers, list.n), "%s", fold_model_message(all));
        if ((list.layers[list.n / 2].kind & ~FOLD_TORCH_NO_BIAS) != FOLD_TORCH_BATCH_NORM) loaded_raw(t, prefix, &list, m);
        fold_model_free(m);
    }
    if (to) CHECK_SAYS(!fold_model_save(all, to, NULL), "%s", fold_model_message(all));
    fold_tensors_close(t);
    fold_model_free(none);
    fold_model_free(all);
    fold_model_free(c.m);
}
static void what_pytorch_made_goes_out_and_in(void) { modules_go_out_and_in("tests/torch.safetensors", NULL); }

/* A module of every kind as the network itself, "": it does what PyTorch's does, its gradients are PyTorch's, and it goes out
   and in, named by the calls here or by _new. */
static void network_goes_out_and_in(const cases *c, int number, const file *it)
{
    static file saved;
    listed list;
    fold_model *m = fold_model_new(NULL), *none = fold_model_new(NULL), *again = fold_model_new(NULL);
    fold_tensors *all = fold_tensors_open(none, c->path), *t = fold_tensors_open_memory(none, it->bytes, it->n);
    load_network(m, c, number, it);
    list_module(&list, c, all, number, 1);
    exported(t, "", &list, m);
    if ((list.layers[list.n / 2].kind & ~FOLD_TORCH_NO_BIAS) != FOLD_TORCH_BATCH_NORM) loaded_raw(t, "", &list, m);
    saved.n = 0; /* by the names of the model */
    CHECK_INT(fold_model_save_to(m, to_file, &saved, NULL), FOLD_OK);
    load_network(again, c, number, it);
    CHECK_SAYS(!fold_model_load_memory(again, saved.bytes, saved.n, NULL), "%s", fold_model_message(again));
    fold_tensors_close(all);
    fold_tensors_close(t);
    fold_model_free(again);
    fold_model_free(none);
    fold_model_free(m);
}
static void networks_themselves(void)
{
    static results r;
    static file it;
    const cases c = read_cases("tests/torch.safetensors");
    int seen[KINDS] = { 0 };
    for (int i = 0; i < c.count; i++) {
        network_file(&it, c.path, i);
        r.grads = NULL;
        run_case(&c, i, 0, &it, &r);
        CHECK(r.grads != NULL);
        free(r.grads);
        network_goes_out_and_in(&c, i, &it);
        seen[(int)tensor_of(&c, i, "options").values[0]]++;
    }
    for (int kind = 0; kind < KINDS; kind++) CHECK_SAYS(seen[kind], "no case is of %s", kinds[kind]);
    fold_model_free(c.m);
}

/* Layers that _new names "" are written, too. */
static void made_networks_go_out(void)
{
    static const struct { int kind, tensors; const char *first; } rows[] = {
        { FOLD_TORCH_LINEAR, 2, "weight" }, { FOLD_TORCH_CONV, 2, "weight" }, { FOLD_TORCH_NORM, 2, "weight" }, { FOLD_TORCH_BATCH_NORM, 4, "weight" },
        { FOLD_TORCH_RNN, 4, "weight_ih_l0" }, { FOLD_TORCH_LSTM, 8, "weight_ih_l0" }, { FOLD_TORCH_GRU | FOLD_TORCH_CELL, 4, "weight_ih" },
        { FOLD_TORCH_ATTENTION, 4, "in_proj_weight" }, { FOLD_TORCH_TRANSFORMER, 12, "self_attn.in_proj_weight" },
        { FOLD_TORCH_ENCODER, 26, "layers.0.self_attn.in_proj_weight" },
    };
    fold_transformer_desc desc = fold_transformer_desc_default();
    desc.width = 4;
    desc.heads = 2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const fold_torch_layer layer = { rows[i].kind, "" };
        fold_model *m = fold_model_new(NULL), *out = fold_model_new(NULL), *grads = fold_model_new(NULL);
        fold_transformer layers[2];
        switch (rows[i].kind & ~FOLD_TORCH_CELL) {
        case FOLD_TORCH_LINEAR: fold_dense_new(m, "", 3, 2, FOLD_ACT_LINEAR); break;
        case FOLD_TORCH_CONV: fold_conv_new(m, "", fold_shape3(2, 3, 4), NULL, FOLD_ACT_LINEAR); break;
        case FOLD_TORCH_NORM: fold_norm_new(m, "", 3, FOLD_NORM_LAYER, 0); break;
        case FOLD_TORCH_BATCH_NORM: fold_norm_new(m, "", 3, FOLD_NORM_FIXED, 0); break;
        case FOLD_TORCH_RNN: fold_rnn_stack_new(m, "", fold_rnn_new, 3, 2, 1, 0); break;
        case FOLD_TORCH_LSTM: fold_rnn_stack_new(m, "", fold_lstm_new, 3, 2, 1, 1); break;
        case FOLD_TORCH_GRU: fold_gru_new(m, "", 3, 2); break;
        case FOLD_TORCH_ATTENTION: fold_attention_new(m, "", 4, 2); break;
        case FOLD_TORCH_TRANSFORMER: fold_transformer_new(m, "", &desc); break;
        default: fold_encoder_new(m, "", layers, 2, &desc, 1);
        }
        CHECK_SAYS(!fold_torch_export(out, m, &layer, 1), "kind %d: %s", rows[i].kind, fold_model_message(out));
        CHECK_INT(fold_param_count(out), rows[i].tensors);
        CHECK_TEXT(fold_param_name(out, fold_param_at(out, 0)), rows[i].first);
        CHECK_SAYS(!fold_torch_export_grads(grads, m, &layer, 1), "kind %d: %s", rows[i].kind, fold_model_message(grads));
        fold_model_free(grads);
        fold_model_free(out);
        fold_model_free(m);
    }
}
/* Parts that a program made one by one, and named without a dot, are those of "" as well. */
static void parts_of_the_network(void)
{
    const fold_torch_layer layers[2] = { { FOLD_TORCH_ATTENTION, "" }, { FOLD_TORCH_ENCODER, "" } };
    fold_transformer_desc desc = fold_transformer_desc_default();
    fold_model *m = fold_model_new(NULL), *out = fold_model_new(NULL);
    desc.width = 4;
    desc.heads = 2;
    fold_dense_new(m, "query", 4, 4, FOLD_ACT_LINEAR);
    fold_dense_new(m, "key", 4, 4, FOLD_ACT_LINEAR);
    fold_dense_new(m, "value", 4, 4, FOLD_ACT_LINEAR);
    fold_dense_new(m, "joined", 4, 4, FOLD_ACT_LINEAR);
    fold_transformer_new(m, "layers.0", &desc);
    CHECK_SAYS(!fold_torch_export(out, m, layers, 2), "%s", fold_model_message(out));
    CHECK_INT(fold_param_count(out), 16);
    fold_model_free(out);
    fold_model_free(m);
}

static void out_to_pytorch(const char *path)
{
    char name[300], to[300];
    snprintf(name, sizeof name, "%s: modules go out and in", path);
    snprintf(to, sizeof to, "%s.out", path);
    if (check_begin(name)) {
        modules_go_out_and_in(path, to);
        check_end();
    }
}

/* ---- what does not fit the layers --------------------------------------------------------------- */

static const fold_torch_layer two_layers[2] = { { FOLD_TORCH_LINEAR, "fc" }, { FOLD_TORCH_LSTM, "r" } };
static fold_model *model_of_two(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_dense_new(m, "fc", 3, 2, FOLD_ACT_LINEAR);
    fold_rnn_stack_new(m, "r", fold_lstm_new, 2, 1, 1, 0);
    return m;
}
enum { TWO = 2 * 3 + 2 + 4 * 2 + 4 + 4 + 4 };

static void counts_of_raw_floats_are_told(void)
{
    static const struct { int count; const char *says; } rows[] = {
        { 0, "torch: the array has 0 floats, too few for 'fc.weight'; the layers take 28" },
        { 6, "torch: the array has 6 floats, too few for 'fc.bias'; the layers take 28" },
        { 27, "torch: the array has 27 floats, too few for 'r.bias_hh_l0'; the layers take 28" },
        { TWO, "" },
        { 29, "torch: the array has 29 floats, the layers take 28" },
    };
    const char *path = "build/torch_count.bin";
    float values[TWO + 1];
    for (int i = 0; i <= TWO; i++) values[i] = (float)(i + 1);
    for (int k = 0; k < 5; k++)
        for (int of_file = 0; of_file < 2; of_file++) {
            int n;
            fold_model *m = model_of_two();
            const float first = fold_model_values(m, &n)[0];
            FILE *file = fopen(path, "wb");
            if (!CHECK(file != NULL)) return;
            fwrite(values, sizeof *values, (size_t)rows[k].count, file);
            fclose(file);
            const fold_status status = of_file ? fold_torch_load_raw(m, path, two_layers, 2)
                                               : fold_torch_load_raw_memory(m, values, (size_t)rows[k].count, two_layers, 2);
            CHECK_INT(status, rows[k].count == TWO ? FOLD_OK : FOLD_BAD_SHAPE);
            if (of_file) CHECK_TEXT(fold_model_message(m), rows[k].count == TWO ? "" : "torch: 'build/torch_count.bin' has ");
            else CHECK_TEXT(fold_model_message(m), rows[k].says);
            CHECK(rows[k].count == TWO ? fold_model_values(m, &n)[0] == 1 : fold_model_values(m, &n)[0] == first);
            fold_model_free(m);
        }
    remove(path);
}

/* The last layer of a list is wrong: nothing is loaded, and no file is begun. */
static void layers_that_are_not_there_are_told(void)
{
    static const struct { fold_torch_layer layer; const char *says; } rows[] = {
        { { FOLD_TORCH_LINEAR, "head" }, "torch: the model has no parameter 'head.W'" },
        { { FOLD_TORCH_PARAM, NULL }, "torch: the model has no parameter ''" },
        { { FOLD_TORCH_GRU, "r" }, "torch: the model has no parameter 'r.0.U'" },
        { { FOLD_TORCH_LSTM, "fc" }, NULL },
        { { FOLD_TORCH_ATTENTION, "fc" }, "torch: the model has no parameter 'fc.query.W'" },
        { { FOLD_TORCH_TRANSFORMER, "fc" }, "torch: the model has no parameter 'fc.attention.query.W'" },
        { { FOLD_TORCH_EMBEDDING, "r" }, "torch: the model has no parameter 'r'" },
        { { 40, "fc" }, "torch: 40 is no kind of layer" },
    };
    const char *path = "build/torch_missing.bin";
    float values[TWO] = { 0 };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const fold_torch_layer layers[2] = { { FOLD_TORCH_LINEAR, "fc" }, rows[k].layer };
        fold_model *m = model_of_two(), *out = fold_model_new(NULL);
        const float first = fold_model_values(m, NULL)[0];
        if (rows[k].says) {
            CHECK_INT(fold_torch_load_raw_memory(m, values, TWO, layers, 2), FOLD_BAD_ARGUMENT);
            CHECK_TEXT(fold_model_message(m), rows[k].says);
            CHECK(fold_model_values(m, NULL)[0] == first);
            fold_model_clear_error(m);
            CHECK_INT(fold_torch_save_raw(m, path, layers, 2), FOLD_BAD_ARGUMENT);
            fold_model_clear_error(m);
            FILE *file = fopen(path, "rb");
            CHECK(!file);
            if (file) fclose(file);
            CHECK_INT(fold_torch_export(out, m, layers, 2), FOLD_BAD_ARGUMENT);
            CHECK_TEXT(fold_model_message(out), rows[k].says);
            CHECK_TEXT(fold_model_message(m), "");
        }
        fold_model_free(m);
        fold_model_free(out);
    }
}

static void raw_mistakes_are_told(void)
{
    const char *path = "build/torch_mistake.bin";
    float values[TWO] = { 0 };
    fold_model *m = model_of_two(), *out = fold_model_new(NULL);
    CHECK_INT(fold_torch_load_raw_memory(m, NULL, 0, two_layers, 2), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "torch: values is NULL");
    CHECK_INT(fold_torch_load_raw_memory(m, values, TWO, two_layers, 2), FOLD_BAD_ARGUMENT); /* the error stays */
    CHECK_INT(fold_torch_save(m, path, two_layers, 2), FOLD_BAD_ARGUMENT);
    fold_model_clear_error(m);
    CHECK_INT(fold_torch_load_raw_memory(m, values, TWO, NULL, 2), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "torch: layers is NULL");
    fold_model_clear_error(m);
    CHECK_INT(fold_torch_load_raw(m, NULL, two_layers, 2), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "torch: path is NULL");
    fold_model_clear_error(m);
    CHECK_INT(fold_torch_load_raw(m, "build/no such folder/x", two_layers, 2), FOLD_IO);
    CHECK_TEXT(fold_model_message(m), "torch: 'build/no such folder/x' cannot be opened");
    fold_model_clear_error(m);
    CHECK_INT(fold_torch_save_raw(m, "build/no such folder/x", two_layers, 2), FOLD_IO);
    fold_model_clear_error(m);
    FILE *file = fopen(path, "wb");
    if (CHECK(file != NULL)) {
        fwrite("12345", 1, 5, file);
        fclose(file);
        CHECK_INT(fold_torch_load_raw(m, path, two_layers, 2), FOLD_IO);
        CHECK_TEXT(fold_model_message(m), "torch: 'build/torch_mistake.bin' ends within a float");
        fold_model_clear_error(m);
    }
    CHECK_INT(fold_torch_export(out, m, two_layers, 2), FOLD_OK);
    CHECK_INT(fold_torch_export(out, m, two_layers, 1), FOLD_BAD_ARGUMENT); /* a tensor of the name is there */
    CHECK(fold_torch_export(NULL, m, two_layers, 1) && fold_torch_export(out, NULL, two_layers, 1));
    CHECK(fold_torch_load_raw(NULL, path, two_layers, 1) && fold_torch_load_raw_memory(NULL, values, 1, two_layers, 1));
    CHECK(fold_torch_save_raw(NULL, path, two_layers, 1) && fold_torch_save(NULL, path, two_layers, 1));
    CHECK(fold_torch_export_grads(NULL, m, two_layers, 1) && fold_torch_export_grads(out, NULL, two_layers, 1));
    CHECK(fold_torch_save_grads(NULL, path, two_layers, 1));
    fold_model_free(out);
    fold_model_free(m);
    remove(path);
}

/* Gradients go to a file as tensors of PyTorch's names; those of a frozen bias are zeros. */
static void gradients_go_out(void)
{
    const char *path = "build/torch_grads.safetensors";
    const float x[3] = { 1, 2, 3 }, wanted[8] = { 1, 2, 3, 1, 2, 3, 0, 0 };
    float got[8];
    fold_model *m = fold_model_new(NULL), *none = fold_model_new(NULL);
    const fold_dense fc = fold_dense_new(m, "fc", 3, 2, FOLD_ACT_LINEAR);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    fold_param_freeze(m, fc.b, 1);
    fold_ctx *f = fold_ctx_new(m, &desc);
    CHECK_INT(fold_backward(f, fold_sum(f, fold_dense_apply(f, &fc, fold_input(f, x, 3)), FOLD_ALL)), FOLD_OK);
    CHECK_SAYS(!fold_torch_save_grads(m, path, two_layers, 1), "%s", fold_model_message(m));
    fold_tensors *t = fold_tensors_open(none, path);
    const int weight = fold_tensors_find(t, "fc.weight"), bias = fold_tensors_find(t, "fc.bias");
    const fold_tensor tensor = fold_tensors_at(t, weight);
    CHECK_INT(fold_tensors_count(t), 2);
    CHECK(tensor.rank == 2 && tensor.dim[0] == 2 && tensor.dim[1] == 3);
    fold_tensors_read(t, weight, 0, 6, got, 1);
    fold_tensors_read(t, bias, 0, 2, got + 6, 1);
    CHECK_BITS(got, wanted, 8);
    fold_tensors_close(t);
    CHECK_INT(fold_torch_save_grads(m, path, two_layers, 2), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "torch: the model has no parameter 'r.0.W'");
    fold_ctx_free(f);
    fold_model_free(none);
    fold_model_free(m);
    remove(path);
}

/* A batch norm that was loaded goes out and comes in again with the same bits. It has no raw form to load from. */
static void batch_norms_come_back(void)
{
    static const fold_torch_layer norm = { FOLD_TORCH_BATCH_NORM, "n" };
    const char *path = "build/torch_norm.safetensors";
    float values[12] = { 0 };
    fold_model *m = fold_model_new(NULL), *again = fold_model_new(NULL);
    const fold_norm n = fold_norm_new(m, "n", 3, FOLD_NORM_FIXED, 0);
    for (int i = 0; i < 3; i++) fold_values_write_begin(m, n.gain)[i] = 0.7f + (float)i / 3;
    fold_values_write_end(m, n.gain);
    CHECK_SAYS(!fold_torch_save(m, path, &norm, 1), "%s", fold_model_message(m));
    fold_torch *t = fold_torch_open(again, path);
    const fold_norm back = fold_torch_norm(t, "n", FOLD_NORM_FIXED, 0);
    CHECK_SAYS(!fold_torch_close(t), "%s", fold_model_message(again));
    CHECK(!memcmp(fold_param_value(m, n.gain), fold_param_value(again, back.gain), 3 * sizeof(float)));
    CHECK_INT(fold_torch_load_raw_memory(m, values, 12, &norm, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "torch: 'n.running_mean' is folded into a gain and a bias, and cannot be loaded from raw floats");
    fold_model_free(m);
    fold_model_free(again);
    remove(path);
}

/* One without weights, affine=False, goes out as its statistics alone, and comes in again as it was. */
static void batch_norms_without_weights(void)
{
    static const struct { float gain, bias; const char *says; } rows[] = {
        { 1, 0, "" }, { 0.37f, -2, "" }, { 316.2f, 40, "" }, { 1e-3f, 5, "" }, { 0.99999f, 1e-6f, "" },
        { 0, 1, "torch: gain 1 of 'n' is 0; without a weight in the batch norm it must be in (0, 316.2]" },
        { -0.5f, 1, "torch: gain 1 of 'n' is -0.5; without a weight" }, { 317, 1, "torch: gain 1 of 'n' is 317; without a weight" }, { NAN, 1, "torch: gain 1 of 'n' is " },
    };
    static const fold_torch_layer norm = { FOLD_TORCH_BATCH_NORM | FOLD_TORCH_NO_BIAS, "n" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static file it;
        fold_model *m = fold_model_new(NULL), *out = fold_model_new(NULL), *again = fold_model_new(NULL), *grads = fold_model_new(NULL);
        const fold_norm n = fold_norm_new(m, "n", 2, FOLD_NORM_FIXED, 0);
        fold_values_write_begin(m, n.gain)[1] = rows[i].gain;
        fold_values_write_begin(m, n.bias)[1] = rows[i].bias;
        fold_values_write_end(m, n.gain);
        fold_values_write_end(m, n.bias);
        CHECK_INT(fold_torch_export(out, m, &norm, 1), *rows[i].says ? FOLD_BAD_ARGUMENT : FOLD_OK);
        CHECK_TEXT(fold_model_message(out), rows[i].says);
        if (!*rows[i].says) {
            CHECK_INT(fold_param_count(out), 2);
            it.n = 0;
            CHECK_INT(fold_model_save_to(out, to_file, &it, NULL), FOLD_OK);
            fold_torch *t = fold_torch_open_memory(again, it.bytes, it.n);
            const fold_norm back = fold_torch_norm(t, "n", FOLD_NORM_FIXED, 0);
            CHECK_SAYS(!fold_torch_close(t), "%s", fold_model_message(again));
            const double gain = (double)fold_param_value(again, back.gain)[1], bias = (double)fold_param_value(again, back.bias)[1];
            CHECK_SAYS(fabs(gain / (double)rows[i].gain - 1) < 2e-7 && fabs(bias - (double)rows[i].bias) <= 3e-7 * fabs((double)rows[i].bias),
                       "%g and %g come back as %g and %g", (double)rows[i].gain, (double)rows[i].bias, gain, bias);
            CHECK_SAYS(!fold_torch_export_grads(grads, m, &norm, 1), "%s", fold_model_message(grads));
            CHECK_INT(fold_param_count(grads), 0); /* the module has no parameters */
        }
        fold_model_free(grads);
        fold_model_free(again);
        fold_model_free(out);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    int files = 0;
    check_start(argc, argv);
    for (int i = 1; i < argc; i++)
        if (strstr(argv[i], ".safetensors")) {
            test_file(argv[i]);
            out_to_pytorch(argv[i]);
            files++;
        }
    if (files) return check_finish();
    test_file("tests/torch.safetensors");
    check_run("what does not match is told", what_does_not_match_is_told);
    check_run("recurrence of relu", recurrence_of_relu);
    check_run("encoders are layers", encoders_are_layers);
    check_run("tied weights are read", tied_weights_are_read);
    check_run("all calls know tied weights", all_calls_know_tied_weights);
    check_run("too many layers", too_many_layers);
    check_run("what cannot be opened is told", what_cannot_be_opened_is_told);
    check_run("files by path are whole", files_by_path_are_whole);
    check_run("memory runs out", memory_runs_out);
    check_run("promises cost nothing", promises_cost_nothing);
    check_run("tensors are told", tensors_are_told);
    check_run("values are read", values_are_read);
    check_run("mistaken reads are told", mistaken_reads_are_told);
    check_run("errors of one's own", errors_of_ones_own);
    check_run("loaded is what _new makes", loaded_is_what_new_makes);
    check_run("parts make a whole", parts_make_a_whole);
    check_run("missing biases stay zero", missing_biases_stay_zero);
    check_run("what PyTorch made goes out and in", what_pytorch_made_goes_out_and_in);
    check_run("counts of raw floats are told", counts_of_raw_floats_are_told);
    check_run("layers that are not there are told", layers_that_are_not_there_are_told);
    check_run("raw mistakes are told", raw_mistakes_are_told);
    check_run("networks themselves", networks_themselves);
    check_run("networks that _new made go out", made_networks_go_out);
    check_run("parts of the network", parts_of_the_network);
    check_run("gradients go out", gradients_go_out);
    check_run("batch norms come back", batch_norms_come_back);
    check_run("batch norms without weights", batch_norms_without_weights);
    return check_finish();
}
