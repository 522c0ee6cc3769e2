/* test_settings.c - a setting that is NaN, out of its range or no member of its enum is refused, by name and value, and nothing has
   changed. Every row of the table tries some bad values and some good ones.
   Build and run:  cc -O2 -o test_settings tests/test_settings.c -lm && ./test_settings */
#define FOLD_IMPLEMENTATION
#include "../fold.h"

#include <ctype.h>
#include <stdio.h>
#include "check.h"

/* ---- a model in training, and what a refusal must leave as it was -------------------------------- */

typedef struct bytes { unsigned char at[1 << 16]; size_t n; } bytes;
static int to_bytes(const void *from, size_t size, void *user)
{
    bytes *to = (bytes *)user;
    if (size > sizeof to->at - to->n) return 1;
    memcpy(to->at + to->n, from, size);
    to->n += size;
    return 0;
}

typedef struct world {
    fold_model *m, *other;
    fold_ctx *f;
    fold_param W, filter, gain, bias;
    fold_status status; /* of the call, and its message */
    char says[400];
    int made; /* something that could be made was */
} world;

static const float row[6] = { 1, -2, 3, 0.5f, 2, -1 };

static void learn(world *w)
{
    fold_ctx_reset(w->f);
    const fold_node y = fold_linear(w->f, fold_input(w->f, row, 3), w->W, FOLD_NULL_PARAM);
    CHECK_INT(fold_backward(w->f, fold_sum(w->f, fold_square(w->f, y), FOLD_ALL)), FOLD_OK);
}

static void begin(world *w, int steps_of)
{
    fold_ctx_desc training = fold_ctx_desc_default();
    const fold_adam adam = fold_adam_default();
    const fold_sgd sgd = { 0.1f, 0.9f, 0 };
    memset(w, 0, sizeof *w);
    w->m = fold_model_new(NULL);
    w->W = fold_weight_new(w->m, "W", 3, 2);
    w->filter = fold_filter_new(w->m, "filter", fold_shape3(2, 2, 3));
    w->gain = fold_gain_new(w->m, "gain", 3);
    w->bias = fold_bias_new(w->m, "bias", 3);
    training.training = 1;
    w->f = fold_ctx_new(w->m, &training);
    for (int step = 0; step < 3; step++) {
        learn(w);
        if (steps_of) CHECK_INT(fold_adam_step(w->m, &adam), FOLD_OK);
        else CHECK_INT(fold_sgd_step(w->m, &sgd), FOLD_OK);
    }
    learn(w); /* gradients are there */
}

static void end(world *w)
{
    fold_ctx_free(w->f);
    fold_model_free(w->other);
    fold_model_free(w->m);
}

/* Parameters, moments, steps, gradients, and how many parameters, cells and ops there are. */
static void look(const world *w, bytes *to)
{
    fold_save_desc with_state = fold_save_desc_default();
    const fold_model_size size = fold_model_measure(w->m);
    const size_t made[2] = { size.cells, size.ops };
    int count = 0;
    const float *grads = fold_model_grads(w->m, &count);
    with_state.state = 1;
    to->n = 0;
    CHECK_INT(fold_model_save_to(w->m, to_bytes, to, &with_state), FOLD_OK);
    CHECK_INT(to_bytes(grads, (size_t)count * sizeof *grads, to), 0);
    CHECK_INT(to_bytes(made, sizeof made, to), 0);
}

/* ---- calls, each with one kind of settings ------------------------------------------------------- */

typedef union given {
    float number;
    float numbers[2];
    int whole;
    struct { int rate_set; float rate, decay; } scale;
    struct { fold_norm_kind kind; float epsilon; } norm_new;
    struct { int size, stride, padding; } pool;
    fold_activation activation;
    fold_model_desc model;
    fold_ctx_desc ctx;
    fold_param_desc param;
    fold_quantize_desc quantize;
    fold_conv_desc conv;
    fold_sgd sgd;
    fold_adagrad adagrad;
    fold_rmsprop rmsprop;
    fold_adam adam;
    fold_rates rates;
    fold_cell_desc cell;
    fold_op_desc op;
    fold_dense dense;
    fold_conv conv_layer;
    fold_norm norm;
    fold_transformer_desc transformer;
    fold_transformer assembled;
} given;

/* What a call that is not of w's own context or model says. */
static void said(world *w, fold_status status, const char *says)
{
    w->status = status;
    snprintf(w->says, sizeof w->says, "%s", says);
}
static void recorded(world *w, fold_node node) { w->made = !fold_node_is_null(node); }
static fold_node x3(world *w) { return fold_input(w->f, row, 3); }
static fold_node list3(world *w) { return fold_list_input(w->f, row, 2, fold_shape1(3)); }
static fold_node line(world *w) { return fold_input_shaped(w->f, row, fold_shape2(3, 2)); }

static fold_model *small_model(int inference)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = inference;
    fold_model *m = fold_model_new(&desc);
    fold_weight_new(m, "W", 32, 32);
    return m;
}

static void no_task(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    for (int i = 0; i < n; i++) task(i, user);
}
static void copy_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    for (int i = 0; i < FOLD_MAX_OUT; i++) out[i] = fold_tanh(f, in[0]);
}
static const char *infer(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n, (void)attr;
    return out[0] = in[0], NULL;
}
static void no_forward(const fold_op_call *call) { (void)call; }

static void start_model(world *w, given *g) { (void)w, g->model = fold_model_desc_default(), g->model.parallel_for = no_task; }
static void call_model(world *w, const given *g)
{
    fold_model *m = fold_model_new(&g->model);
    said(w, fold_model_status(m), fold_model_message(m));
    w->made = !fold_param_is_null(fold_bias_new(m, "b", 1));
    fold_model_free(m);
}
static void start_ctx(world *w, given *g) { (void)w, g->ctx = fold_ctx_desc_default(), g->ctx.parallel_for = no_task; }
static void call_ctx(world *w, const given *g)
{
    fold_ctx *f = fold_ctx_new(w->m, &g->ctx);
    said(w, fold_ctx_status(f), fold_ctx_message(f));
    w->made = !fold_node_is_null(fold_input(f, row, 3));
    fold_ctx_free(f);
}
static void start_param(world *w, given *g)
{
    (void)w;
    g->param = fold_param_desc_default();
    g->param.name = "q";
    g->param.shape = fold_shape2(3, 2);
    g->param.init = FOLD_INIT_UNIFORM;
}
static void start_constant(world *w, given *g) { start_param(w, g), g->param.init = FOLD_INIT_CONSTANT; }
static void start_given(world *w, given *g) { start_param(w, g), g->param.init = FOLD_INIT_ZEROS, g->param.values = row; }
static void call_param(world *w, const given *g) { w->made = !fold_param_is_null(fold_param_new(w->m, &g->param)); }
static void start_quantize(world *w, given *g) { w->other = small_model(1), g->quantize = fold_quantize_desc_default(); }
static void call_quantize(world *w, const given *g)
{
    const fold_param W = fold_param_at(w->other, 0);
    said(w, fold_model_quantize(w->other, &g->quantize), fold_model_message(w->other));
    w->made = fold_param_quantized(w->other, W).bits != 32;
}
static void start_zero(world *w, given *g) { (void)w, memset(g, 0, sizeof *g); }
static void call_conv1d(world *w, const given *g)
{
    recorded(w, fold_conv1d(w->f, line(w), w->filter, FOLD_NULL_PARAM, &g->conv));
}
static void call_conv_new(world *w, const given *g)
{
    w->made = !fold_param_is_null(fold_conv_new(w->m, "c", fold_shape3(2, 2, 3), &g->conv, FOLD_ACT_RELU).W);
}
static void call_conv_activation(world *w, const given *g)
{
    w->made = !fold_param_is_null(fold_conv_new(w->m, "c", fold_shape3(2, 2, 3), NULL, g->activation).W);
}
static void start_conv_layer(world *w, given *g) { start_zero(w, g), g->conv_layer.W = w->filter, g->conv_layer.b = w->bias; }
static void call_conv_apply(world *w, const given *g) { recorded(w, fold_conv_apply(w->f, &g->conv_layer, line(w))); }
static void start_pool(world *w, given *g) { start_zero(w, g), g->pool.size = 2; }
static void call_pool(world *w, const given *g)
{
    recorded(w, fold_max_pool1d(w->f, line(w), g->pool.size, g->pool.stride, g->pool.padding));
}

static void start_sgd(world *w, given *g) { (void)w, g->sgd = fold_sgd_default(); }
static void call_sgd(world *w, const given *g) { w->made = fold_sgd_step(w->m, &g->sgd) == FOLD_OK; }
static void start_adagrad(world *w, given *g) { (void)w, g->adagrad = fold_adagrad_default(); }
static void call_adagrad(world *w, const given *g) { w->made = fold_adagrad_step(w->m, &g->adagrad) == FOLD_OK; }
static void start_rmsprop(world *w, given *g) { (void)w, g->rmsprop = fold_rmsprop_default(); }
static void call_rmsprop(world *w, const given *g) { w->made = fold_rmsprop_step(w->m, &g->rmsprop) == FOLD_OK; }
static void start_adam(world *w, given *g) { (void)w, g->adam = fold_adam_default(); }
static void call_adam(world *w, const given *g) { w->made = fold_adam_step(w->m, &g->adam) == FOLD_OK; }
static void start_scale(world *w, given *g) { (void)w, g->scale.rate_set = 1, g->scale.rate = 1, g->scale.decay = 1; }
static void call_scale(world *w, const given *g)
{
    fold_model_scale_rates(w->m, g->scale.rate_set, g->scale.rate, g->scale.decay);
    w->made = fold_model_status(w->m) == FOLD_OK;
}
static void start_average(world *w, given *g)
{
    world like;
    begin(&like, 1);
    w->other = like.m;
    fold_ctx_free(like.f);
    g->number = 0.5f;
}
static void call_average(world *w, const given *g) { w->made = fold_values_average(w->m, w->other, g->number) == FOLD_OK; }
static void call_clip_grads(world *w, const given *g)
{
    fold_grads_clip(w->m, g->number);
    w->made = fold_model_status(w->m) == FOLD_OK;
}
/* A factor has no error: it is NaN, which the step refuses that gets it. */
static void start_rates(world *w, given *g)
{
    (void)w;
    memset(g, 0, sizeof *g);
    g->rates.kind = FOLD_RATE_LINEAR;
    g->rates.steps = 10;
}
static void call_rates(world *w, const given *g)
{
    fold_adam adam = fold_adam_default();
    const float factor = fold_rate_factor(&g->rates, 7);
    w->made = factor == factor;
    if (w->made) return;
    adam.rate *= factor;
    CHECK_INT(fold_adam_step(w->m, &adam), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(w->m), "adam: rate is nan, must be in [0, inf)");
}

static void start_cell(world *w, given *g)
{
    (void)w;
    g->cell = fold_cell_desc_default();
    g->cell.name = "c";
    g->cell.body = copy_body;
    g->cell.n_in = g->cell.n_out = 1;
    for (int i = 0; i < FOLD_MAX_CELL_IN; i++) g->cell.in[i] = fold_shape1(2);
}
static void call_cell(world *w, const given *g) { w->made = fold_cell_new(w->m, &g->cell).id != 0; }
static void start_op(world *w, given *g)
{
    (void)w;
    g->op = fold_op_desc_default();
    g->op.name = "o";
    g->op.n_in = g->op.n_out = 1;
    g->op.infer = infer;
    g->op.forward = no_forward;
}
static void call_op(world *w, const given *g) { w->made = fold_op_new(w->m, &g->op).id != 0; }

static void call_dense_new(world *w, const given *g) { w->made = !fold_param_is_null(fold_dense_new(w->m, "d", 3, 2, g->activation).W); }
static void start_dense(world *w, given *g) { start_zero(w, g), g->dense.W = w->W; }
static void call_dense_apply(world *w, const given *g) { recorded(w, fold_dense_apply(w->f, &g->dense, x3(w))); }
static void call_mlp_new(world *w, const given *g)
{
    static const int sizes[3] = { 3, 4, 2 };
    w->made = fold_mlp_new(w->m, "p", sizes, 2, g->activation).layers == 2;
}
static void start_mlp_layers(world *w, given *g) { start_zero(w, g), g->whole = 2; }
static void call_mlp_layers(world *w, const given *g)
{
    static const int sizes[FOLD_MAX_LAYERS + 1] = { 3, 3, 3, 3, 3, 3, 3, 3, 3 };
    w->made = fold_mlp_new(w->m, "p", sizes, g->whole, FOLD_ACT_RELU).layers > 0;
}
static void call_tree(world *w, const given *g) { w->made = fold_tree_lstm_new(w->m, "t", 3, 2, g->whole).arity > 0; }
static void call_norm_new(world *w, const given *g)
{
    w->made = !fold_param_is_null(fold_norm_new(w->m, "n", 3, g->norm_new.kind, g->norm_new.epsilon).gain);
}
static void start_norm(world *w, given *g) { start_zero(w, g), g->norm.gain = w->gain, g->norm.bias = w->bias; }
static void call_norm_apply(world *w, const given *g) { recorded(w, fold_norm_apply(w->f, &g->norm, x3(w))); }
static void start_transformer(world *w, given *g)
{
    (void)w;
    g->transformer = fold_transformer_desc_default();
    g->transformer.width = 4;
    g->transformer.heads = 2;
}
static void call_transformer(world *w, const given *g)
{
    w->made = !fold_param_is_null(fold_transformer_new(w->m, "t", &g->transformer).inner.W);
}
static void start_assembled(world *w, given *g)
{
    given of;
    start_transformer(w, &of);
    g->assembled = fold_transformer_new(w->m, "t", &of.transformer);
    learn(w);
}
static void call_assembled(world *w, const given *g)
{
    fold_transformer layer = g->assembled;
    w->made = fold_transformer_assemble(w->m, "again", &layer) == FOLD_OK;
}
static const uint8_t pixels[4] = { 0, 1, 128, 255 };
static void call_bytes(world *w, const given *g) { recorded(w, fold_input_bytes(w->f, pixels, fold_shape1(4), g->number)); }
static void call_list_bytes(world *w, const given *g) { recorded(w, fold_list_input_bytes(w->f, pixels, 2, fold_shape1(2), g->number)); }
static void call_leaky(world *w, const given *g) { recorded(w, fold_leaky_relu(w->f, x3(w), g->number)); }
static void call_elu(world *w, const given *g) { recorded(w, fold_elu(w->f, x3(w), g->number)); }
static void call_pow(world *w, const given *g) { recorded(w, fold_pow(w->f, x3(w), g->number)); }
static void start_clip(world *w, given *g) { (void)w, g->numbers[0] = -10, g->numbers[1] = 10; }
static void call_clip(world *w, const given *g) { recorded(w, fold_clip(w->f, x3(w), g->numbers[0], g->numbers[1])); }
static void call_at_least(world *w, const given *g) { recorded(w, fold_at_least(w->f, x3(w), g->number)); }
static void call_at_most(world *w, const given *g) { recorded(w, fold_at_most(w->f, x3(w), g->number)); }
static void call_layer_norm(world *w, const given *g) { recorded(w, fold_layer_norm(w->f, x3(w), w->gain, w->bias, g->number)); }
static void call_rms_norm(world *w, const given *g) { recorded(w, fold_rms_norm(w->f, x3(w), w->gain, g->number)); }
static void call_standardize(world *w, const given *g) { recorded(w, fold_standardize(w->f, x3(w), x3(w), x3(w), g->number)); }
static void call_list_standardize(world *w, const given *g) { recorded(w, fold_list_standardize(w->f, list3(w), g->number)); }
static void call_huber(world *w, const given *g) { recorded(w, fold_huber(w->f, x3(w), x3(w), g->number)); }
static void call_dropout(world *w, const given *g) { recorded(w, fold_dropout(w->f, x3(w), g->number)); }

/* ---- the table ----------------------------------------------------------------------------------- */

#define END 1e300
#define NOT_NEGATIVE "in [0, inf)", { -1, -1e-30, -(double)INFINITY, (double)INFINITY, END }, { 0, 1e-6, 1, END }
#define SHARE "in [0, 1)", { -1, -0.001, 1, 2, (double)INFINITY, END }, { 0, 1e-9, 0.5, 0.999, END }
#define FINITE "in (-inf, inf)", { (double)INFINITY, -(double)INFINITY, END }, { -3, 0, 0.5, END }
#define NUMBER "in [-inf, inf]", { END }, { -(double)INFINITY, 0, (double)INFINITY, END }
#define ACTIVATION "in [0, 6]", { -1, 7, 99, END }, { 0, 1, 2, 3, 4, 5, 6, END }
#define STEPS "in [0, 32767]", { -1, 32768, END }, { 0, 1, END }
#define OF(type, field) #type, #field, offsetof(type, field)
#define ARGUMENT(call, name) #call, #name, 0

/* Floats have the kind f, and NaN is tried too. The message is "who: field is VALUE, must be RANGE". */
static const struct setting {
    char kind;
    const char *of, *field; /* as fold.h has it: a struct and a member, or a call and an argument */
    size_t offset;
    void (*start)(world *w, given *g);
    void (*call)(world *w, const given *g);
    const char *who, *range;
    double bad[8], good[8];
} settings[] = {
    { 'i', OF(fold_model_desc, threads), start_model, call_model, "fold_model_desc", "in [0, inf)", { -1, -2147483647, END }, { 0, 1, 2, END } },
    { 'i', OF(fold_ctx_desc, schedule), start_ctx, call_ctx, "fold_ctx_desc", "in [0, 2]", { -1, 3, 77, END }, { 0, 1, 2, END } },
    { 'i', OF(fold_ctx_desc, threads), start_ctx, call_ctx, "fold_ctx_desc", "in [0, inf)", { -1, END }, { 0, 1, 2, END } },
    { 'i', OF(fold_param_desc, init), start_param, call_param, "parameter 'q'", "in [0, 6]", { -1, 7, 55, END }, { 0, 1, 2, 3, 4, 5, 6, END } },
    { 'f', OF(fold_param_desc, init_scale), start_param, call_param, "parameter 'q'", FINITE },
    { 'f', OF(fold_param_desc, init_scale), start_constant, call_param, "parameter 'q'", FINITE },
    { 'f', OF(fold_param_desc, init_scale), start_given, call_param, "parameter 'q'", FINITE },
    { 'i', OF(fold_param_desc, uses), start_param, call_param, "parameter 'q'", "in [0, 15]", { 16, 0xffff, -1, END }, { 0, 1, 2, 4, 7, END } },
    { 'i', OF(fold_param_desc, rate_set), start_param, call_param, "parameter 'q'", "in [0, 15]", { -1, 16, END }, { 0, 15, END } },
    { 'i', OF(fold_quantize_desc, min_values), start_quantize, call_quantize, "fold_model_quantize", "in [0, inf)", { -1, END }, { 0, 5, END } },
    { 'i', OF(fold_quantize_desc, bits), start_quantize, call_quantize, "fold_model_quantize", "8 or 16", { -8, 7, 12, 32, END }, { 0, 8, 16, END } },
    { 'i', OF(fold_conv_desc, stride), start_zero, call_conv1d, "conv1d", STEPS },
    { 'i', OF(fold_conv_desc, padding), start_zero, call_conv1d, "conv1d", STEPS },
    { 'i', OF(fold_conv_desc, dilation), start_zero, call_conv1d, "conv1d", STEPS },
    { 'i', OF(fold_conv_desc, stride), start_zero, call_conv_new, "conv 'c'", STEPS },
    { 'i', OF(fold_conv_desc, padding), start_zero, call_conv_new, "conv 'c'", STEPS },
    { 'i', OF(fold_conv_desc, dilation), start_zero, call_conv_new, "conv 'c'", STEPS },
    { 'i', ARGUMENT(fold_conv_new, activation), start_zero, call_conv_activation, "conv 'c'", ACTIVATION },
    { 'i', OF(fold_conv, activation), start_conv_layer, call_conv_apply, "conv_apply", ACTIVATION },
    { 'i', "fold_max_pool1d", "size", offsetof(given, pool.size), start_pool, call_pool, "max_pool1d", "in [1, 32767]", { 0, -1, 32768, END }, { 1, 3, END } },
    { 'i', "fold_max_pool1d", "stride", offsetof(given, pool.stride), start_pool, call_pool, "max_pool1d", STEPS },
    { 'i', "fold_max_pool1d", "padding", offsetof(given, pool.padding), start_pool, call_pool, "max_pool1d", STEPS },

    { 'f', OF(fold_sgd, rate), start_sgd, call_sgd, "sgd", NOT_NEGATIVE },
    { 'f', OF(fold_sgd, momentum), start_sgd, call_sgd, "sgd", "in [0, 1]", { -0.1, 1.01, 2, (double)INFINITY, END }, { 0, 0.9, 1, END } },
    { 'f', OF(fold_sgd, decay), start_sgd, call_sgd, "sgd", NOT_NEGATIVE },
    { 'f', OF(fold_adagrad, rate), start_adagrad, call_adagrad, "adagrad", NOT_NEGATIVE },
    { 'f', OF(fold_adagrad, epsilon), start_adagrad, call_adagrad, "adagrad", NOT_NEGATIVE },
    { 'f', OF(fold_adagrad, decay), start_adagrad, call_adagrad, "adagrad", NOT_NEGATIVE },
    { 'f', OF(fold_rmsprop, rate), start_rmsprop, call_rmsprop, "rmsprop", NOT_NEGATIVE },
    { 'f', OF(fold_rmsprop, rho), start_rmsprop, call_rmsprop, "rmsprop", SHARE },
    { 'f', OF(fold_rmsprop, epsilon), start_rmsprop, call_rmsprop, "rmsprop", NOT_NEGATIVE },
    { 'f', OF(fold_rmsprop, decay), start_rmsprop, call_rmsprop, "rmsprop", NOT_NEGATIVE },
    { 'f', OF(fold_adam, rate), start_adam, call_adam, "adam", NOT_NEGATIVE },
    { 'f', OF(fold_adam, beta1), start_adam, call_adam, "adam", SHARE },
    { 'f', OF(fold_adam, beta2), start_adam, call_adam, "adam", SHARE },
    { 'f', OF(fold_adam, epsilon), start_adam, call_adam, "adam", NOT_NEGATIVE },
    { 'f', OF(fold_adam, decay), start_adam, call_adam, "adam", NOT_NEGATIVE },
    { 'i', "fold_model_scale_rates", "rate_set", offsetof(given, scale.rate_set), start_scale, call_scale, "fold_model_scale_rates", "in [0, 15]",
      { -1, 16, END }, { 0, 15, END } },
    { 'f', "fold_model_scale_rates", "rate", offsetof(given, scale.rate), start_scale, call_scale, "fold_model_scale_rates", NOT_NEGATIVE },
    { 'f', "fold_model_scale_rates", "decay", offsetof(given, scale.decay), start_scale, call_scale, "fold_model_scale_rates", NOT_NEGATIVE },
    { 'f', ARGUMENT(fold_values_average, share), start_average, call_average, "fold_values_average", "in [0, 1]", { -0.1, 1.5, (double)INFINITY, END },
      { 0, 0.5, 1, END } },
    { 'f', ARGUMENT(fold_grads_clip, limit), start_zero, call_clip_grads, "fold_grads_clip", "in [0, inf]", { -1, -(double)INFINITY, END },
      { 0, 1, (double)INFINITY, END } },
    { 'i', OF(fold_rates, kind), start_rates, call_rates, NULL, NULL, { -1, 4, 99, END }, { 0, 1, 2, 3, END } },
    { 'i', OF(fold_rates, warm_up), start_rates, call_rates, NULL, NULL, { -1, END }, { 0, 5, 100, END } },
    { 'i', OF(fold_rates, steps), start_rates, call_rates, NULL, NULL, { -1, END }, { 0, 5, 100, END } },
    { 'f', OF(fold_rates, end), start_rates, call_rates, NULL, NULL, { -0.1, (double)INFINITY, END }, { 0, 0.1, 2, END } },
    { 'i', OF(fold_rates, every), start_rates, call_rates, NULL, NULL, { -1, END }, { 0, 5, END } },
    { 'f', OF(fold_rates, factor), start_rates, call_rates, NULL, NULL, { -0.1, (double)INFINITY, END }, { 0, 0.1, 1, END } },

    { 'i', OF(fold_cell_desc, n_in), start_cell, call_cell, "cell 'c'", "in [0, 16]", { -1, 17, END }, { 1, 16, END } },
    { 'i', OF(fold_cell_desc, n_list), start_cell, call_cell, "cell 'c'", "in [0, 4]", { -1, 5, END }, { 0, END } },
    { 'i', OF(fold_cell_desc, n_out), start_cell, call_cell, "cell 'c'", "in [1, 8]", { -1, 0, 9, END }, { 1, 8, END } },
    { 'i', OF(fold_op_desc, n_in), start_op, call_op, "op 'o'", "in [-1, 32]", { -2, 33, END }, { -1, 1, 32, END } },
    { 'i', OF(fold_op_desc, n_out), start_op, call_op, "op 'o'", "in [1, 8]", { 0, -1, 9, END }, { 1, 8, END } },
    { 'i', OF(fold_op_desc, n_attr), start_op, call_op, "op 'o'", "in [0, 4]", { -1, 5, END }, { 0, 4, END } },
    { 'i', OF(fold_op_desc, needs), start_op, call_op, "op 'o'", "in [0, 3]", { 4, 99, -1, END }, { 0, 1, 2, 3, END } },
    { 'i', OF(fold_op_desc, scratch), start_op, call_op, "op 'o'", "in [0, inf)", { -1, END }, { 0, 100, END } },
    { 'i', ARGUMENT(fold_dense_new, activation), start_zero, call_dense_new, "dense 'd'", ACTIVATION },
    { 'i', OF(fold_dense, activation), start_dense, call_dense_apply, "dense_apply", ACTIVATION },
    { 'i', ARGUMENT(fold_mlp_new, hidden), start_zero, call_mlp_new, "mlp 'p'", ACTIVATION },
    { 'i', ARGUMENT(fold_mlp_new, layers), start_mlp_layers, call_mlp_layers, "mlp 'p'", "in [1, 8]", { -1, 0, 9, END }, { 1, 8, END } },
    { 'i', ARGUMENT(fold_tree_lstm_new, arity), start_mlp_layers, call_tree, "tree_lstm 't'", "in [1, 8]", { -1, 0, 9, END }, { 1, 8, END } },
    { 'i', "fold_norm_new", "kind", offsetof(given, norm_new.kind), start_zero, call_norm_new, "norm 'n'", "in [0, 2]", { -1, 3, 42, END }, { 0, 1, 2, END } },
    { 'f', "fold_norm_new", "epsilon", offsetof(given, norm_new.epsilon), start_zero, call_norm_new, "norm 'n'", NOT_NEGATIVE },
    { 'i', OF(fold_norm, kind), start_norm, call_norm_apply, "norm", "in [0, 2]", { -1, 3, 42, END }, { 0, 1, 2, END } },
    { 'f', OF(fold_norm, epsilon), start_norm, call_norm_apply, "norm", NOT_NEGATIVE },
    { 'i', OF(fold_transformer_desc, inner), start_transformer, call_transformer, "transformer 't'", "in [0, 1.67772e+07]", { -1, END }, { 0, 5, END } },
    { 'i', OF(fold_transformer_desc, activation), start_transformer, call_transformer, "transformer 't'", ACTIVATION },
    { 'i', OF(fold_transformer_desc, norm), start_transformer, call_transformer, "transformer 't'", "in [0, 2]", { -1, 3, 42, END }, { 0, 1, 2, END } },
    { 'f', OF(fold_transformer_desc, epsilon), start_transformer, call_transformer, "transformer 't'", NOT_NEGATIVE },
    { 'f', OF(fold_transformer_desc, dropout), start_transformer, call_transformer, "transformer 't'", SHARE },
    { 'f', OF(fold_transformer, dropout), start_assembled, call_assembled, "transformer 'again'", SHARE },
    { 'i', "fold_transformer", "attention_norm.kind", offsetof(fold_transformer, attention_norm) + offsetof(fold_norm, kind), start_assembled,
      call_assembled, "transformer 'again'", NULL, { 3, END }, { 0, 2, END } },
    { 'f', "fold_transformer", "dense_norm.epsilon", offsetof(fold_transformer, dense_norm) + offsetof(fold_norm, epsilon), start_assembled,
      call_assembled, "transformer 'again'", NULL, { -1, END }, { 0, 1, END } },
    { 'i', "fold_transformer", "outer.activation", offsetof(fold_transformer, outer) + offsetof(fold_dense, activation), start_assembled,
      call_assembled, "transformer 'again'", NULL, { 7, -1, END }, { 0, 6, END } },
    { 'i', "fold_transformer", "attention.key.activation", offsetof(fold_transformer, attention.key) + offsetof(fold_dense, activation), start_assembled,
      call_assembled, "transformer 'again'", NULL, { 7, END }, { 0, 6, END } },

    { 'f', ARGUMENT(fold_input_bytes, factor), start_zero, call_bytes, "input_bytes", FINITE },
    { 'f', ARGUMENT(fold_list_input_bytes, factor), start_zero, call_list_bytes, "list_input_bytes", FINITE },
    { 'f', ARGUMENT(fold_leaky_relu, slope), start_zero, call_leaky, "leaky", FINITE },
    { 'f', ARGUMENT(fold_elu, alpha), start_zero, call_elu, "elu", FINITE },
    { 'f', ARGUMENT(fold_pow, exponent), start_zero, call_pow, "pow", FINITE },
    { 'f', "fold_clip", "low", 0, start_clip, call_clip, "clip", "in [-inf, inf]", { END }, { -(double)INFINITY, 0, 10, END } },
    { 'f', "fold_clip", "high", sizeof(float), start_clip, call_clip, "clip", "in [-inf, inf]", { END }, { -10, 0, (double)INFINITY, END } },
    { 'f', ARGUMENT(fold_at_least, low), start_zero, call_at_least, "at_least", NUMBER },
    { 'f', ARGUMENT(fold_at_most, high), start_zero, call_at_most, "at_most", NUMBER },
    { 'f', ARGUMENT(fold_layer_norm, epsilon), start_zero, call_layer_norm, "layer_norm", NOT_NEGATIVE },
    { 'f', ARGUMENT(fold_rms_norm, epsilon), start_zero, call_rms_norm, "rms_norm", NOT_NEGATIVE },
    { 'f', ARGUMENT(fold_standardize, epsilon), start_zero, call_standardize, "standardize", NOT_NEGATIVE },
    { 'f', ARGUMENT(fold_list_standardize, epsilon), start_zero, call_list_standardize, "list_standardize", NOT_NEGATIVE },
    { 'f', ARGUMENT(fold_huber, delta), start_zero, call_huber, "huber", "in (0, inf]", { 0, -1, -(double)INFINITY, END }, { 1e-6, 1, (double)INFINITY, END } },
    { 'f', ARGUMENT(fold_dropout, rate), start_zero, call_dropout, "dropout", SHARE },
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void try_value(const struct setting *s, double value, int good)
{
    static bytes before, after;
    char says[400];
    world w;
    given g;
    const float number = (float)value;
    const int whole = s->kind == 'i' ? (int)value : 0;
    begin(&w, s->offset % 8 == 0); /* some with Adam's moments, some with momentum */
    memset(&g, 0, sizeof g);
    s->start(&w, &g);
    memcpy((char *)&g + s->offset, s->kind == 'f' ? (const void *)&number : (const void *)&whole, 4);
    look(&w, &before);
    s->call(&w, &g);
    if (!w.status && fold_model_status(w.m)) said(&w, fold_model_status(w.m), fold_model_message(w.m));
    else if (!w.status) said(&w, fold_ctx_status(w.f), fold_ctx_message(w.f));
    if (good) {
        CHECK_SAYS(!w.status && w.made, "%s.%s of %g: status %d: %s", s->of, s->field, value, (int)w.status, w.says);
        end(&w);
        return;
    }
    CHECK_SAYS(w.status == FOLD_BAD_ARGUMENT && !w.made, "%s.%s of %g: status %d, made %d: %s", s->of, s->field, value, (int)w.status, w.made, w.says);
    if (s->kind == 'f') snprintf(says, sizeof says, "%s: %s is %g, must be %s", s->who ? s->who : "", s->field, value, s->range ? s->range : "");
    else snprintf(says, sizeof says, "%s: %s is %d, must be %s", s->who ? s->who : "", s->field, whole, s->range ? s->range : "");
    if (s->range) CHECK_SAYS(!strcmp(w.says, says), "\"%s\" is not \"%s\"", w.says, says);
    else if (s->who) CHECK_SAYS(strstr(w.says, s->who) == w.says && strstr(w.says, " must be in "), "\"%s\" of %s.%s", w.says, s->of, s->field);
    fold_model_clear_error(w.m);
    look(&w, &after);
    CHECK_SAYS(before.n == after.n && !memcmp(before.at, after.at, after.n), "%s.%s of %g changed something", s->of, s->field, value);
    learn(&w); /* and all goes on */
    end(&w);
}

static void settings_are_checked(void)
{
    for (int i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        char name[128];
        snprintf(name, sizeof name, "%s: %s", s->of, s->field);
        if (!check_begin(name)) continue;
        if (s->kind == 'f') try_value(s, (double)NAN, 0);
        for (int k = 0; s->bad[k] != END; k++) try_value(s, s->bad[k], 0);
        for (int k = 0; s->good[k] != END; k++) try_value(s, s->good[k], 1);
        check_end();
    }
}

/* ---- every setting of fold.h has a row ------------------------------------------------------------ */

/* Floats and enums that are no settings. */
static const struct exempt { const char *of, *field, *since; } exempt[] = {
    { "fold_quantized", "error", "it is told" },
    { "fold_constant", "value", "data" },
    { "fold_scale", "factor", "data" },
    { "fold_shift", "term", "data" },
    { "fold_status_text", "status", "what is none is an unknown status" },
    { "fold_model_fail", "status", "what is none is FOLD_BAD_ARGUMENT" },
    { "fold_ctx_fail", "status", "what is none is FOLD_BAD_ARGUMENT" },
};

static int found; /* settings in fold.h */
static void want_row(const char *of, const char *field)
{
    found++;
    for (int i = 0; i < SETTINGS; i++)
        if (!strcmp(settings[i].of, of) && !strcmp(settings[i].field, field)) return;
    for (size_t i = 0; i < sizeof exempt / sizeof *exempt; i++)
        if (!strcmp(exempt[i].of, of) && !strcmp(exempt[i].field, field)) return;
    CHECK_SAYS(0, "%s: '%s' has no row here: what may it be, and what is said of others?", of, field);
}

/* The next word or sign of C; 0: the end. Comments, strings and directives are passed over. */
static int next_token(const char **at, char token[128])
{
    size_t n = 0;
    for (;; ++*at) {
        if (!strncmp(*at, "/*", 2)) *at = strstr(*at, "*/") + 1;
        else if (!strncmp(*at, "//", 2)) *at = strchr(*at, '\n');
        else if (**at == '#' && (*at)[-1] == '\n')
            do *at = strchr(*at + 1, '\n');
            while ((*at)[-1] == '\\');
        else if (!isspace((unsigned char)**at)) break;
    }
    if (!**at) return 0;
    do token[n++] = *(*at)++;
    while (n < 127 && (isalnum((unsigned char)token[n - 1]) || token[n - 1] == '_') && (isalnum((unsigned char)**at) || **at == '_'));
    token[n] = 0;
    return 1;
}

static char enums[64][128];
static int n_enums;
static int is_setting(const char *type)
{
    for (int i = 0; i < n_enums; i++)
        if (!strcmp(enums[i], type)) return 1;
    return !strcmp(type, "float");
}

/* Of the tokens of a declaration, members or arguments: those of a float or an enum. Pointers and arrays are data. */
static void want_rows(const char *of, char (*token)[128], int n)
{
    int at = 0;
    while (at < n) {
        if (!strcmp(token[at], "const")) at++;
        const int wanted = at < n && is_setting(token[at]);
        for (at++; at < n; at++) {
            const char *after = at + 1 < n ? token[at + 1] : ";";
            if (wanted && isalpha((unsigned char)token[at][0]) && token[at - 1][0] != '*' && strchr(",;)", after[0])) want_row(of, token[at]);
            if (strchr(";)", token[at][0]) || (token[at][0] == ',' && at + 2 < n && !strchr(",;[)", token[at + 2][0]))) break; /* another type follows */
        }
        at++;
    }
}

static void every_setting_has_a_row(void)
{
    static char header[2 << 20], token[512][128];
    FILE *file = fopen("fold.h", "rb");
    if (!CHECK_SAYS(file != NULL, "fold.h is not here")) return;
    header[fread(header, 1, sizeof header - 1, file)] = 0;
    fclose(file);
    char *public_end = strstr(header, "#endif /* FOLD_H */");
    if (!CHECK_SAYS(public_end != NULL, "fold.h has no public part")) return;
    *public_end = 0;
    for (int pass = 0; pass < 2; pass++) { /* first the enums */
        const char *at = header;
        char word[128], of[128];
        while (next_token(&at, word)) {
            const int is_struct = !strcmp(word, "struct"), is_enum = !strcmp(word, "enum"), is_call = !strcmp(word, "FOLD_API");
            int n = 0, depth = 0;
            if ((!is_struct && !is_enum && !is_call) || !next_token(&at, of)) continue;
            if (is_call) /* the name stands before the parenthesis */
                for (strcpy(word, of); strcmp(word, "(");) strcpy(of, word), next_token(&at, word);
            else next_token(&at, word);
            if (strcmp(word, is_call ? "(" : "{")) continue;
            for (depth = 1; depth && next_token(&at, word);) {
                depth += !strcmp(word, "{") + !strcmp(word, "(") - !strcmp(word, "}") - !strcmp(word, ")");
                if (n < 512 && depth) strcpy(token[n++], word);
            }
            if (!pass && is_enum) strcpy(enums[n_enums++], of);
            if (pass && !is_enum) want_rows(of, token, n);
        }
    }
    CHECK_SAYS(n_enums >= 6, "%d enums", n_enums);
    CHECK_SAYS(found >= 50, "only %d settings were found", found);
    for (int i = 0; i < SETTINGS; i++) CHECK_SAYS(settings[i].call != NULL && strstr(header, settings[i].of), "there is no %s", settings[i].of);
}

/* ---- what is data goes on ------------------------------------------------------------------------- */

static void data_may_be_nan(void)
{
    world w;
    begin(&w, 1);
    fold_ctx_reset(w.f);
    const fold_node of[4] = { fold_scale(w.f, x3(&w), NAN), fold_shift(w.f, x3(&w), NAN), fold_constant(w.f, NAN), fold_scale(w.f, x3(&w), INFINITY) };
    CHECK_INT(fold_run(w.f, of, 4), FOLD_OK);
    for (int i = 0; i < 3; i++) CHECK(fold_scalar(w.f, of[i]) != fold_scalar(w.f, of[i]));
    CHECK(fold_scalar(w.f, of[3]) == INFINITY);
    end(&w);
}

/* A status that is none is taken as FOLD_BAD_ARGUMENT, as FOLD_OK is. */
static void no_status(void)
{
    static const int wrong[3] = { -1, FOLD_STATUS_COUNT, 99 };
    for (int i = 0; i < 3; i++) {
        world w;
        begin(&w, 1);
        CHECK_INT(fold_ctx_fail(w.f, (fold_status)wrong[i], "mine"), FOLD_BAD_ARGUMENT);
        CHECK_INT(fold_model_fail(w.m, (fold_status)wrong[i], "mine"), FOLD_BAD_ARGUMENT);
        CHECK_INT(fold_model_status(w.m), FOLD_BAD_ARGUMENT);
        end(&w);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    settings_are_checked();
    check_run("every setting has a row", every_setting_has_a_row);
    check_run("data may be NaN", data_may_be_nan);
    check_run("no status", no_status);
    return check_finish();
}
