/* test_golden.c - one number for the bits of a whole training: values, gradients and trained parameters of a program
   that uses most ops, batched, eager and in threads, by every optimiser. All compilers, optimisation levels and
   instruction sets with fused multiply-add must come to the same number, the portable kernels too under
   FOLD_REPRODUCIBLE; without it they have one of their own, the same everywhere. A change of numerics changes the
   numbers: say so in CHANGELOG.md.
       cc -O2 -o test_golden tests/test_golden.c -lm && ./test_golden [-v]
   The data is made by integer arithmetic and exact scaling, and no call has two arguments that record: C leaves their
   order to the compiler, and sums of gradients follow the order recorded. */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_RL_IMPLEMENTATION
#include "../examples/fold_rl.h"
#include "check.h"
#include "kernel_sets.h"
#include <fenv.h>
#if (defined(__SSE__) || defined(_M_X64)) && !defined(__TINYC__)
#include <xmmintrin.h>
#endif

#define GOLDEN_FUSED UINT64_C(0x74b5a8de7ff16adb)
#define GOLDEN_PLAIN UINT64_C(0x270769138f7af111)
#define WINDOWS_FUSED UINT64_C(0xa74758f284db261d)
#define WINDOWS_PLAIN UINT64_C(0x350f19ff87dc0c32)
#define LISTS_FUSED UINT64_C(0x0918a80c08088a68)
#define LISTS_PLAIN UINT64_C(0x9f6aea071558ef87)
#define ALIASES_FUSED UINT64_C(0x3bdc4f14b184ed8d)
#define ALIASES_PLAIN UINT64_C(0xf24023f421415e48)
#define GOLDEN_OPS_FUSED UINT64_C(0x9930306ff6f9600f)
#define GOLDEN_OPS_PLAIN UINT64_C(0xe167f2083d357c3c)
#define GOLDEN_HALVES_FUSED UINT64_C(0xda02a72d679eb92e)
#define GOLDEN_HALVES_PLAIN UINT64_C(0xadcf4100b13e344d)
#define GOLDEN_BYTES UINT64_C(0x4343ef43b48f6bff) /* no fused operations either */
#define ALIASES_ORDER UINT64_C(0xea56bf7dae68656f) /* of names alone */
#define GOLDEN_CHANCE UINT64_C(0xc58cc6544d19b53d) /* has no fused operations: the same everywhere */

enum { WORDS = 40, IN = 12, H = 18, TIED = 21, CLASSES = 5, SAMPLES = 9, STEPS = 3, RULES = 6 };

static uint64_t hash;
static void hash_floats(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (x[i] != x[i]) bits = 0x7fc00000u; /* one NaN: their payloads differ */
        hash = (hash ^ bits) * UINT64_C(0x100000001b3); /* FNV-1a, by words */
        hash ^= hash >> 29;
    }
}

static check_random rng;
/* Exact. Not inlined: where a loop of draws is unrolled, clang 14 makes vectors of rng.state for WebAssembly by a load that it
   moves behind the store of the last state (v128.load64_splat), and numbers are those of later draws. */
#ifdef __clang__
__attribute__((noinline))
#endif
static float draw(void) { return (float)((int32_t)(random_bits(&rng) >> 40) - (1 << 23)) / 8388608.0f; }

typedef struct net {
    fold_param words, tied, W, b, U, score, gain, shift, V1, v1, V2, v2;
    fold_cell node, pair;
} net;

/* A tree's node: children of any number, by sum, by attention and by the largest, gated. */
static void node_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_param none = { 0, 0 };
    const fold_node sum = fold_list_sum(f, in[1]), each = fold_linear(f, in[1], n->score, none);
    const fold_node score = fold_slice(f, each, 0, 0, 1), value = fold_mul(f, in[2], fold_sigmoid(f, in[1]));
    const fold_node seen = fold_list_softmax_mean(f, score, value);
    fold_node x[2], g[3];
    x[0] = in[0];
    x[1] = sum;
    fold_split(f, fold_linear_n(f, x, 2, n->W, n->b), 3, g);
    const fold_node open = fold_sigmoid(f, g[0]), inner = fold_tanh(f, fold_add(f, fold_mul(f, g[1], seen), g[2]));
    out[0] = fold_mul(f, open, inner);
    out[1] = fold_gelu_tanh(f, fold_add(f, seen, fold_list_mean(f, in[2])));
}
/* Two values to one, without a list. */
static void pair_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node x = fold_linear(f, fold_concat2(f, in[0], in[1]), n->U, n->b);
    const fold_node h = fold_layer_norm(f, x, n->gain, n->shift, 0);
    out[0] = fold_dropout(f, fold_leaky_relu(f, fold_slice(f, h, 0, H, H), 0.125f), 0.25f);
}

static fold_param param(fold_model *m, const char *name, int rows, int columns, fold_init init, float scale,
                        unsigned uses, int group)
{
    fold_param_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.shape = columns ? fold_shape2(rows, columns) : fold_shape1(rows);
    d.init = init;
    d.init_scale = scale;
    d.uses = uses;
    d.rate_set = group;
    return fold_param_new(m, &d);
}

static void make_net(fold_model *m, net *n)
{
    fold_cell_desc d;
    n->words = param(m, "words", WORDS, IN, FOLD_INIT_NORMAL, 0.5f, FOLD_FOR_LOOKUP, 1);
    n->tied = param(m, "tied", TIED, H, FOLD_INIT_UNIFORM, 0.5f, FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T, 0);
    n->W = param(m, "W", IN + H, 3 * H, FOLD_INIT_GLOROT, 0, 0, 0);
    n->b = param(m, "b", 3 * H, 0, FOLD_INIT_UNIFORM, 0.1f, 0, 2);
    n->U = param(m, "U", 2 * H, 3 * H, FOLD_INIT_HE, 0.5f, 0, 0);
    n->score = param(m, "score", H, 2, FOLD_INIT_GLOROT, 0, 0, 0);
    n->gain = param(m, "gain", 3 * H, 0, FOLD_INIT_CONSTANT, 1, 0, 0);
    n->shift = param(m, "shift", 3 * H, 0, FOLD_INIT_ZEROS, 0, 0, 0);
    n->V1 = param(m, "V1", H + IN, 70, FOLD_INIT_ORTHOGONAL, 0, 0, 0);
    n->v1 = param(m, "v1", 70, 0, FOLD_INIT_ZEROS, 0, 0, 0);
    n->V2 = param(m, "V2", 70, CLASSES, FOLD_INIT_GLOROT, 0, 0, 0);
    n->v2 = param(m, "v2", CLASSES, 0, FOLD_INIT_ZEROS, 0, 0, 2);
    fold_model_scale_rates(m, 1, 2, 0);
    fold_model_scale_rates(m, 2, 0.5f, 1);
    memset(&d, 0, sizeof d);
    d.name = "node"; d.body = node_body; d.user = n;
    d.n_in = 1; d.in[0] = fold_shape1(IN);
    d.n_list = 2; d.list[0] = d.list[1] = fold_shape1(H);
    d.n_out = 2;
    n->node = fold_cell_new(m, &d);
    d.name = "pair"; d.body = pair_body;
    d.n_in = 2; d.in[0] = d.in[1] = fold_shape1(H);
    d.n_list = 0; d.n_out = 1;
    n->pair = fold_cell_new(m, &d);
}

static fold_state tree(fold_ctx *f, const net *n, int depth)
{
    fold_node child[8];
    fold_state s;
    const int children = depth ? random_below(&rng, 4) : 0;
    const fold_node x = fold_lookup(f, n->words, random_below(&rng, WORDS));
    for (int i = 0; i < children; i++) {
        s = tree(f, n, depth - 1);
        child[2 * i] = s.h;
        child[2 * i + 1] = s.c;
    }
    const fold_node call = fold_call_n(f, n->node, &x, 1, child, children);
    s.h = fold_out(f, call, 0);
    s.c = fold_out(f, call, 1);
    return s;
}

/* The element-wise ops, reductions and products that the cells leave out. */
static fold_node odds_and_ends(fold_ctx *f, fold_node x, fold_node y)
{
    const fold_node positive = fold_shift(f, fold_square(f, x), 0.5f), e = fold_exp(f, fold_neg(f, fold_abs(f, y)));
    const fold_node up = fold_log(f, positive), down = fold_shift(f, e, 1), a = fold_div(f, up, down);
    const fold_node b = fold_sqrt(f, positive);
    const fold_node left = fold_reshape(f, a, fold_shape2(3, 6)), right = fold_reshape(f, b, fold_shape2(6, 3));
    const fold_node m = fold_matmul(f, left, right);
    const fold_node t = fold_transpose(f, fold_softmax(f, m), 0, 1), low = fold_minimum(f, a, y), high = fold_maximum(f, b, x);
    const fold_node yes = fold_sub(f, high, low), no = fold_relu(f, x), s = fold_select(f, y, yes, no);
    fold_node part[4];
    part[0] = fold_mean(f, t, 0);
    part[1] = fold_sum(f, m, 1);
    part[2] = fold_amax(f, m, 0);
    part[3] = fold_log_softmax(f, fold_slice(f, s, 0, 2, 7));
    const fold_node all = fold_concat(f, part, 4, 0), picked = fold_pick(f, s, 4);
    return fold_add(f, fold_dot(f, fold_softplus(f, all), all), picked);
}

static fold_node sample(fold_ctx *f, const net *n, int i, fold_node *state)
{
    float target[H], share[CLASSES] = { 0.5f, 0.125f, 0, 0.25f, 0.125f };
    fold_node loss[8], two[2];
    fold_dropout_seed(f, (uint64_t)i);
    const fold_state s = tree(f, n, 1 + i % 4);
    two[0] = s.h;
    two[1] = fold_lookup(f, n->tied, i % TIED);
    const fold_node p = fold_call(f, n->pair, two, 2), x = fold_lookup(f, n->words, 3 * i % WORDS);
    const fold_node hidden = fold_relu(f, fold_linear(f, fold_concat2(f, p, x), n->V1, n->v1));
    const fold_node y = fold_linear(f, hidden, n->V2, n->v2);
    const fold_param none = { 0, 0 };
    for (int j = 0; j < H; j++) target[j] = j & 1 ? draw() : 0.5f;
    loss[0] = fold_softmax_xent(f, y, i % CLASSES);
    loss[1] = fold_softmax_kl(f, y, fold_input(f, share, CLASSES));
    loss[2] = fold_hinge(f, y, (i + 1) % CLASSES);
    loss[3] = fold_bce(f, s.c, fold_input(f, target, H));
    loss[4] = fold_huber(f, p, fold_input(f, target, H), 0.25f);
    loss[5] = fold_squared_error(f, s.h, s.c);
    loss[6] = fold_softmax_xent(f, fold_linear_t(f, p, n->tied, none), i);
    loss[7] = odds_and_ends(f, p, s.h);
    *state = s.h;
    return fold_mean_n(f, loss, 8);
}

static fold_status step(fold_model *m, int rule)
{
    fold_sgd sgd = { 0.05f, rule ? 0.9f : 0, 0.001f };
    fold_adagrad adagrad = fold_adagrad_default();
    fold_rmsprop rmsprop = fold_rmsprop_default();
    fold_adam adam = fold_adam_default();
    adagrad.decay = rmsprop.decay = adam.decay = 0.001f;
    adam.decoupled = rule == 5;
    if (rule < 2) return fold_sgd_step(m, &sgd);
    if (rule == 2) return fold_adagrad_step(m, &adagrad);
    if (rule == 3) return fold_rmsprop_step(m, &rmsprop);
    return fold_adam_step(m, &adam);
}

/* A job system with its own idea of order. */
static void last_first(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    while (n-- > 0) task(n, user);
}

enum { BATCHED, EAGER, THREADS, MODES };
static fold_ctx_desc ctx_of(int mode)
{
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    training.eager = mode == EAGER;
    training.threads = mode == THREADS ? 3 : 1;
    training.parallel_for = last_first;
    training.plan_cache_bytes = mode == THREADS ? 1u << 16 : 0;
    return training;
}

/* Trains a new model for a few steps, hashing all there is to see. */
static void train(const char *isa, int rule, int mode)
{
    net n;
    int count;
    fold_model_desc desc = fold_model_desc_default();
    fold_ctx_desc training = ctx_of(mode);
    desc.isa = isa;
    desc.seed = 5;
    training.schedule = (fold_schedule)(rule % FOLD_SCHEDULE_COUNT);
    training.group_bytes = rule % 2 ? 1u << 14 : SIZE_MAX;
    fold_model *m = fold_model_new(&desc);
    make_net(m, &n);
    fold_ctx *f = fold_ctx_new(m, &training);
    CHECK_SAYS(!fold_model_status(m), "%s", fold_model_message(m));
    rng.state = 3;
    for (int t = 0; t < STEPS; t++) {
        fold_node loss[SAMPLES], state[SAMPLES], total;
        fold_ctx_reset(f);
        for (int i = 0; i < SAMPLES; i++) {
            loss[i] = sample(f, &n, i, &state[i]);
            fold_keep(f, state[i]);
            fold_keep_grad(f, state[i]);
        }
        total = fold_sum_n(f, loss, SAMPLES);
        if (!CHECK_SAYS(!fold_backward(f, total), "%s", fold_ctx_message(f))) break;
        hash_floats(fold_value(f, total), 1);
        for (int i = 0; i < SAMPLES; i++) {
            hash_floats(fold_value(f, state[i]), H);
            hash_floats(fold_grad(f, state[i]), H);
        }
        for (int i = 0; i < fold_param_count(m); i++) {
            const fold_param p = fold_param_at(m, i);
            const fold_shape s = fold_param_shape(m, p);
            hash_floats(fold_param_grad(m, p), (size_t)s.dim[0] * (size_t)(s.rank > 1 ? s.dim[1] : 1));
        }
        CHECK(fold_grads_clip(m, 0.5f) > 0.5);
        CHECK_INT(step(m, rule), FOLD_OK);
        const float *values = fold_model_values(m, &count);
        for (int i = 0; i < count; i++) CHECK(isfinite(values[i]));
        hash_floats(values, (size_t)count);
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Convolutions, pools and products of values, of grids and lines. */
typedef struct window_net {
    fold_param mixed, apart, line, bias;
} window_net;
static void make_windows(fold_model *m, void *layers)
{
    window_net *n = (window_net *)layers;
    n->mixed = fold_filter_new(m, "mixed", fold_shape4(3, 3, 3, 20));
    n->apart = fold_filter_new(m, "apart", fold_shape4(3, 3, 1, 20));
    n->line = fold_filter_new(m, "line", fold_shape3(3, 20, 6));
    n->bias = fold_bias_new(m, "bias", 20);
}
static fold_node window_loss(fold_ctx *f, const void *layers, int at)
{
    enum { HEIGHT = 9, WIDTH = 7, CHANNELS = 3 };
    const window_net *n = (const window_net *)layers;
    const fold_param none = { 0, 0 };
    const fold_conv_desc same = { 0, 1, 0, 0 }, depthwise = { 0, 1, 0, 1 }, dilated = { 2, 2, 2, 0 };
    float x[HEIGHT * WIDTH * CHANNELS];
    (void)at;
    for (int i = 0; i < HEIGHT * WIDTH * CHANNELS; i++) x[i] = draw();
    const fold_node grid = fold_input_shaped(f, x, fold_shape3(HEIGHT, WIDTH, CHANNELS));
    const fold_node seen = fold_relu(f, fold_conv2d(f, grid, n->mixed, n->bias, &same));
    const fold_node small = fold_max_pool2d(f, seen, 2, 0, 0); /* [4 x 3 x 20] */
    const fold_node apart = fold_tanh(f, fold_conv2d(f, small, n->apart, none, &depthwise));
    const fold_node line = fold_reshape(f, apart, fold_shape2(12, 20));
    const fold_node along = fold_mean_pool1d(f, fold_conv1d(f, line, n->line, none, &dilated), 3, 2, 1);
    const fold_node wide = fold_matmul(f, fold_transpose(f, line, 0, 1), line);
    const fold_node left = fold_reshape(f, small, fold_shape3(2, 5, 24));
    const fold_node right = fold_reshape(f, apart, fold_shape3(2, 24, 5));
    fold_node part[3];
    part[0] = fold_sum(f, fold_square(f, along), FOLD_ALL);
    part[1] = fold_mean(f, fold_square(f, wide), FOLD_ALL);
    part[2] = fold_mean(f, fold_square(f, fold_matmul(f, left, right)), FOLD_ALL);
    return fold_sum_n(f, part, 3);
}

/* Layers of lists of 0 to 20 rows: attention in all its forms, rows sent to others, norms over rows. */
enum { LIST_WIDTH = 12, LIST_HEADS = 3, MOST_ROWS = 20, GOALS = 4 };
typedef struct list_net {
    fold_param words, filter, scores, outs, bias;
    fold_attention attention;
    fold_transformer first, last;
} list_net;
static void make_lists(fold_model *m, void *layers)
{
    list_net *n = (list_net *)layers;
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = LIST_WIDTH;
    d.heads = LIST_HEADS;
    d.inner = 17;
    d.dropout = 0.125f;
    n->first = fold_transformer_new(m, "first", &d);
    d.norm_first = 1;
    d.activation = FOLD_ACT_GELU_TANH;
    d.norm = FOLD_NORM_RMS;
    n->last = fold_transformer_new(m, "last", &d);
    n->attention = fold_attention_new(m, "attention", LIST_WIDTH, LIST_HEADS);
    n->words = fold_table_new(m, "words", WORDS, LIST_WIDTH);
    n->filter = fold_filter_new(m, "filter", fold_shape3(3, 3, 5));
    n->scores = fold_weight_new(m, "scores", LIST_WIDTH, 2);
    n->outs = fold_weight_new(m, "outs", LIST_WIDTH, CLASSES);
    n->bias = fold_bias_new(m, "bias", CLASSES);
}
/* Rows of x reach goals by number, and others by edges. */
static int send_rows(fold_ctx *f, const list_net *n, fold_node x, fold_node y, int rows, fold_node *part)
{
    const fold_param none = { 0, 0 };
    const fold_conv_desc same = { 0, 1, 0, 0 };
    int to[MOST_ROWS] = { 0 }, from[2 * MOST_ROWS] = { 0 }, at[2 * MOST_ROWS] = { 0 }, count = 0;
    for (int i = 0; i < rows; i++) to[i] = (7 * i + 3) % (GOALS - 1);
    for (int e = 0; e < 2 * rows; e++) {
        from[e] = 5 * e % rows;
        at[e] = (e * e + 1) % rows;
    }
    const fold_node grid = fold_reshape(f, fold_list_standardize(f, y, 1e-3f), fold_shape2(LIST_WIDTH / 3, 3));
    const fold_node seen = fold_relu(f, fold_conv1d(f, grid, n->filter, none, &same));
    part[count++] = fold_list_sum_to(f, seen, to, rows, GOALS);
    part[count++] = fold_list_mean_to(f, x, to, rows, GOALS);
    part[count++] = fold_list_max_to(f, y, to, rows, GOALS);
    part[count++] = fold_list_softmax_mean_to(f, fold_linear(f, y, n->scores, none), x, to, rows, GOALS);
    part[count++] = fold_list_attention_to(f, x, y, y, 2, from, at, 2 * rows);
    part[count++] = fold_list_take(f, y, to, rows < GOALS ? 0 : rows);
    return count;
}
static fold_node list_loss(fold_ctx *f, const void *layers, int at)
{
    const list_net *n = (const list_net *)layers;
    const int rows = at * 5 % (MOST_ROWS + 1);
    int word[MOST_ROWS] = { 0 }, label[MOST_ROWS] = { 0 };
    fold_node part[12];
    fold_dropout_seed(f, (uint64_t)at);
    for (int i = 0; i < rows; i++) {
        word[i] = random_below(&rng, WORDS);
        label[i] = random_below(&rng, CLASSES);
    }
    const fold_node x = fold_list_lookup(f, n->words, word, rows), y = fold_transformer_apply(f, &n->first, x, 1);
    const fold_node z = fold_transformer_apply(f, &n->last, y, 0), joined = fold_attention_apply(f, &n->attention, y, z, x, 1);
    int count = send_rows(f, n, joined, z, rows, part);
    part[count++] = fold_list_attention(f, fold_list_mean(f, z), x, y, 2, 0);
    part[count++] = fold_list_softmax_mean(f, fold_sum(f, y, FOLD_ALL), z);
    for (int i = 0; i < count; i++) {
        part[i] = fold_mean(f, fold_square(f, part[i]), FOLD_ALL);
        if (fold_list_length(f, part[i]) >= 0) part[i] = fold_list_sum(f, part[i]);
    }
    const fold_node out = fold_linear(f, joined, n->outs, n->bias);
    part[count++] = fold_list_mean(f, fold_softmax_xent_each(f, out, label, rows));
    part[count++] = fold_list_sum(f, fold_pick_each(f, out, label, rows));
    part[count++] = fold_list_sum(f, fold_hinge_each(f, out, label, rows));
    return fold_sum_n(f, part, count);
}

/* Calls that record several others, whose operands are one node h, or windows of it: its gradient is a sum in the order in
   which they record, and the same under every compiler only if they leave none of it open (tests/check_order.py). */
enum { ALIAS = 8, TURNS = 5 };
typedef struct alias_net {
    fold_param W;
    fold_recurrent lstm, gru;
    fold_tree_lstm tree;
    fold_child_sum sum;
    fold_transformer block;
} alias_net;
static void make_aliases(fold_model *m, void *layers)
{
    alias_net *n = (alias_net *)layers;
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = ALIAS;
    d.heads = 2;
    d.inner = 6;
    n->W = fold_weight_new(m, "W", IN, ALIAS);
    n->lstm = fold_lstm_new(m, "lstm", ALIAS, ALIAS);
    n->gru = fold_gru_new(m, "gru", ALIAS, ALIAS);
    n->tree = fold_tree_lstm_new(m, "tree", ALIAS, ALIAS, 2);
    n->sum = fold_child_sum_new(m, "sum", ALIAS, ALIAS);
    n->block = fold_transformer_new(m, "block", &d);
}
static int alias_layers(fold_ctx *f, const alias_net *n, fold_node h, fold_node *part)
{
    fold_state both[2];
    fold_node each[TURNS];
    int count = 0;
    for (int i = 0; i < TURNS; i++) each[i] = h;
    both[0].h = both[0].c = h;
    both[1] = fold_recurrent_apply(f, &n->lstm, h, both[0]);
    part[count++] = fold_recurrent_apply(f, &n->gru, h, both[0]).h;
    part[count++] = fold_tree_lstm_apply_inner(f, &n->tree, both).h;
    part[count++] = fold_child_sum_apply(f, &n->sum, h, both, 2).c;
    part[count++] = fold_unroll(f, &n->gru, each, TURNS, 1, NULL, NULL).h;
    const fold_node list = fold_list_join(f, each, TURNS);
    part[count++] = fold_list_sum(f, fold_transformer_apply(f, &n->block, list, 1));
    part[count++] = fold_list_mean(f, fold_list_standardize(f, fold_mul(f, list, list), 0));
    const fold_node score = fold_slice(f, list, 0, 2, 1);
    part[count++] = fold_list_softmax_entropy(f, score);
    part[count++] = fold_list_choice_xent(f, score, 3);
    return count;
}
static fold_node alias_policy(fold_ctx *f, fold_node h)
{
    static const int action[TURNS] = { 0, 3, 7, 1, 3 };
    static const float old[TURNS] = { -2, -1.5f, -2.5f, -2, -3 }, advantage[TURNS] = { 1, -2, 0.5f, 3, -0.25f };
    const fold_rl_ppo o = { 0.2f, 0.5f, 0.01f };
    fold_rl_steps steps;
    fold_node each[TURNS];
    memset(&steps, 0, sizeof steps);
    steps.n = TURNS;
    steps.old_log_prob = old;
    steps.advantage = steps.target = advantage;
    for (int i = 0; i < TURNS; i++) each[i] = fold_scale(f, h, (float)(i + 1));
    const fold_node logits = fold_list_join(f, each, TURNS), now = fold_pick_each(f, fold_log_softmax(f, logits), action, TURNS);
    const fold_node entropy = fold_softmax_entropy(f, logits);
    return fold_rl_ppo_loss(f, &o, &steps, now, entropy, fold_mean(f, logits, FOLD_ALL));
}
static fold_node alias_loss(fold_ctx *f, const void *layers, int at)
{
    const alias_net *n = (const alias_net *)layers;
    float x[IN];
    fold_node many[FOLD_MAX_IN + TURNS], part[20];
    for (int i = 0; i < IN; i++) x[i] = draw() + (float)at / 8;
    const fold_node h = fold_tanh(f, fold_linear(f, fold_input(f, x, IN), n->W, FOLD_NULL_PARAM));
    for (int i = 0; i < FOLD_MAX_IN + TURNS; i++) many[i] = i % 3 ? h : fold_slice(f, h, 0, i % 5, 3);
    int count = alias_layers(f, n, h, part);
    const fold_node seen = fold_input(f, x, ALIAS);
    part[count++] = fold_gaussian_log_prob(f, seen, h, h);
    part[count++] = fold_rl_squashed(f, seen, h, h);
    part[count++] = fold_square(f, fold_concat(f, many, FOLD_MAX_IN + TURNS, 0));
    part[count++] = fold_standardize(f, h, h, fold_square(f, h), 0.25f);
    part[count++] = fold_select(f, h, fold_clip(f, h, -0.5f, 0.5f), h);
    part[count++] = fold_softmax_kl(f, h, fold_softmax(f, h));
    part[count++] = fold_softmax_entropy(f, h);
    part[count++] = alias_policy(f, h);
    for (int i = 0; i < count; i++) part[i] = fold_mean(f, fold_square(f, part[i]), FOLD_ALL);
    return fold_sum_n(f, part, count);
}

/* The names of all calls of such a recording, in their order. */
static int hash_name(const fold_seen *s, void *user)
{
    (void)user;
    for (const char *at = s->what == FOLD_SEEN_CALL ? s->name : ""; *at; at++) hash = (hash ^ (uint64_t)*at) * UINT64_C(0x100000001b3);
    return 0;
}
static void order_of_aliases(void)
{
    alias_net n;
    fold_model *m = fold_model_new(NULL);
    make_aliases(m, &n);
    fold_ctx *f = fold_ctx_new(m, NULL);
    hash = UINT64_C(0xcbf29ce484222325);
    alias_loss(f, &n, 0);
    CHECK_INT(fold_ctx_visit(f, hash_name, NULL), FOLD_OK);
    CHECK_SAYS(hash == ALIASES_ORDER, "the order of aliases: 0x%016llx, want 0x%016llx", (unsigned long long)hash,
               (unsigned long long)ALIASES_ORDER);
    fold_ctx_free(f);
    fold_model_free(m);
}

typedef struct program {
    const char *name;
    void (*make)(fold_model *m, void *layers);
    fold_node (*loss)(fold_ctx *f, const void *layers, int at);
} program;
static const program windows = { "windows", make_windows, window_loss }, lists = { "lists", make_lists, list_loss },
                     aliases = { "aliases", make_aliases, alias_loss };

static void train_program(const char *isa, const program *p, int mode)
{
    static union { window_net windows; list_net lists; alias_net aliases; } layers;
    fold_model_desc desc = fold_model_desc_default();
    const fold_ctx_desc training = ctx_of(mode);
    int count;
    desc.isa = isa;
    fold_model *m = fold_model_new(&desc);
    p->make(m, &layers);
    fold_ctx *f = fold_ctx_new(m, &training);
    hash = UINT64_C(0xcbf29ce484222325);
    rng.state = 7;
    for (int t = 0; t < STEPS; t++) {
        fold_node loss[SAMPLES], total;
        fold_ctx_reset(f);
        for (int i = 0; i < SAMPLES; i++) loss[i] = p->loss(f, &layers, i);
        total = fold_mean_n(f, loss, SAMPLES);
        if (!CHECK_SAYS(!fold_backward(f, total), "%s", fold_ctx_message(f))) break;
        CHECK(isfinite(fold_scalar(f, total)));
        hash_floats(fold_value(f, total), 1);
        const float *grads = fold_model_grads(m, &count);
        hash_floats(grads, (size_t)count);
        CHECK_INT(step(m, 0), FOLD_OK);
        hash_floats(fold_model_values(m, &count), (size_t)count);
    }
    fold_ctx_free(f);
    fold_model_free(m);
}
static void golden_program(const char *isa, const program *p, uint64_t want)
{
    for (int mode = 0; mode < MODES; mode++) {
        train_program(isa, p, mode);
        if (check.verbose) printf("%s, %s: 0x%016llx\n", isa, p->name, (unsigned long long)hash);
        CHECK_SAYS(hash == want, "%s, %s, mode %d: 0x%016llx, want 0x%016llx", p->name, isa, mode,
                   (unsigned long long)hash, (unsigned long long)want);
    }
}

/* Every element-wise op on values at the edges: zeros, denormals, infinities, NaN and large arguments. */
static void edges(const char *isa)
{
    const float x[] = { 0, -0.0f, 1e-40f, -1e-45f, 1.5e-38f, 88.5f, -87.5f, -103.5f, 1e30f, -1e30f, (float)INFINITY,
                        -(float)INFINITY, (float)NAN, 0.5f, -0.75f, 3, 0.3465736f, 9.01f, 16777216 };
    enum { N = sizeof x / sizeof *x };
    fold_node (*const op[])(fold_ctx *, fold_node) = { fold_exp, fold_log, fold_sqrt, fold_sigmoid, fold_tanh,
                                                       fold_relu, fold_gelu_tanh, fold_softplus, fold_square, fold_softmax,
                                                       fold_log_softmax };
    fold_node (*const op2[])(fold_ctx *, fold_node, fold_node) = { fold_minimum, fold_maximum, fold_div, fold_mul, fold_add };
    fold_model_desc desc = fold_model_desc_default();
    float turned[N];
    desc.isa = isa;
    fold_model *m = fold_model_new(&desc);
    fold_ctx *f = fold_ctx_new(m, NULL);
    for (int i = 0; i < N; i++) turned[i] = x[(i * 7 + 3) % N];
    const fold_node a = fold_input(f, x, N), b = fold_input(f, turned, N);
    fold_node y[16];
    size_t n = 0;
    for (size_t i = 0; i < sizeof op / sizeof *op; i++) y[n++] = op[i](f, a);
    for (size_t i = 0; i < sizeof op2 / sizeof *op2; i++) y[n++] = op2[i](f, a, b);
    CHECK_SAYS(!fold_run(f, y, (int)n), "%s", fold_ctx_message(f));
    for (size_t i = 0; i < n; i++) hash_floats(fold_value(f, y[i]), N);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Ops that the training does not use, forward and backward. Far out, their values alone. */
static int record_more(fold_ctx *f, fold_node x, fold_param gain, fold_node *y)
{
    const fold_node column = fold_slice(f, x, -1, -2, 1);
    int n = 0;
    y[n++] = fold_sin(f, x);
    y[n++] = fold_cos(f, x);
    y[n++] = fold_silu(f, x);
    y[n++] = fold_gelu(f, x);
    y[n++] = fold_elu(f, x, 0.75f);
    y[n++] = fold_pow(f, x, 3);
    y[n++] = fold_pow(f, fold_softplus(f, x), -1.7f);
    y[n++] = fold_floor(f, x);
    y[n++] = fold_clip(f, x, -0.5f, 0.25f);
    y[n++] = fold_amin(f, x, 0);
    y[n++] = fold_variance(f, x, -1);
    y[n++] = fold_variance(f, x, FOLD_ALL);
    y[n++] = fold_logsumexp(f, x, 0);
    y[n++] = fold_prod(f, x, 1);
    y[n++] = fold_cumsum(f, x, 0);
    y[n++] = fold_rms_norm(f, x, gain, 0);
    y[n++] = fold_mul(f, x, column);
    return n;
}
static void more_ops(const char *isa, int eager)
{
    enum { ROWS = 5, COLUMNS = 6, N = ROWS * COLUMNS };
    float x[N], far[N];
    fold_node y[20], term[20];
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc desc = fold_ctx_desc_default();
    model.isa = isa;
    desc.training = 1;
    desc.eager = eager;
    fold_model *m = fold_model_new(&model);
    const fold_param gain = fold_gain_new(m, "gain", COLUMNS);
    fold_ctx *f = fold_ctx_new(m, &desc);
    rng.state = 99;
    for (int i = 0; i < N; i++) {
        x[i] = 2 * draw();
        far[i] = i % 3 ? x[i] * (float)(1 << i % 20) : x[i] / (float)(1 << i % 20);
    }
    for (int i = 0; i < 2; i++) {
        fold_ctx_reset(f);
        const fold_node in = fold_input_shaped(f, i ? far : x, fold_shape2(ROWS, COLUMNS));
        const int n = record_more(f, in, gain, y);
        fold_keep_grad(f, in);
        for (int k = 0; k < n; k++) {
            fold_keep(f, y[k]);
            term[k] = fold_sum(f, fold_square(f, y[k]), FOLD_ALL);
        }
        CHECK_SAYS(!fold_backward(f, fold_sum_n(f, term, n)), "%s", fold_ctx_message(f));
        for (int k = 0; k < n; k++) {
            const fold_shape shape = fold_node_shape(f, y[k]);
            hash_floats(fold_value(f, y[k]), (size_t)(shape.dim[0] * (shape.rank > 1 ? shape.dim[1] : 1)));
        }
        if (!i) hash_floats(fold_grad(f, in), N);
    }
    fold_ctx_free(f);
    fold_model_free(m);
}
static void golden_ops(const char *isa, uint64_t want)
{
    for (int eager = 0; eager < 2; eager++) {
        hash = UINT64_C(0xcbf29ce484222325);
        more_ops(isa, eager);
        if (check.verbose) printf("%s, more ops: 0x%016llx\n", isa, (unsigned long long)hash);
        CHECK_SAYS(hash == want, "%s, more ops%s: 0x%016llx, want 0x%016llx", isa, eager ? ", eager" : "", (unsigned long long)hash,
                   (unsigned long long)want);
    }
}

/* Weights in bytes or of 16 bits: linear ops of one input and of several, tied, in a cell, and a convolution, between ops without
   fused operations; with rows of zeros, of one magnitude and beyond what bytes hold. */
typedef struct byte_net {
    fold_param words, W, b, U, tied, filter, none;
    fold_cell node;
} byte_net;
static void byte_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const byte_net *n = (const byte_net *)user;
    fold_node x[2];
    x[0] = in[0];
    x[1] = fold_list_sum(f, in[1]);
    out[0] = fold_relu(f, fold_linear_n(f, x, 2, n->U, n->b));
}
static fold_param drawn(fold_model *m, const char *name, fold_shape shape, unsigned uses)
{
    static float values[64 * 64];
    fold_param_desc d = fold_param_desc_default();
    int size = 1;
    for (int axis = 0; axis < shape.rank; axis++) size *= shape.dim[axis];
    for (int i = 0; i < size; i++) values[i] = draw();
    d.name = name;
    d.shape = shape;
    d.uses = uses;
    d.values = values;
    return fold_param_new(m, &d);
}
static fold_node byte_sample(fold_ctx *f, const byte_net *n, int sample)
{
    static const float factor[] = { 1, 1e-30f, 0, 1e30f, 1e-38f };
    float image[5 * 6 * 3];
    fold_node h[4], part[3];
    for (int i = 0; i < 5 * 6 * 3; i++) image[i] = draw() * factor[sample % 5];
    if (sample == 7) image[40] = (float)INFINITY;
    for (int i = 0; i < 4; i++) {
        const fold_node word = fold_lookup(f, n->words, (7 * sample + i) % WORDS);
        h[i] = fold_call_n(f, n->node, &word, 1, h, i);
    }
    const fold_node seen = fold_conv2d(f, fold_input_shaped(f, image, fold_shape3(5, 6, 3)), n->filter, n->none, NULL);
    part[0] = fold_linear_t(f, h[3], n->tied, n->none);
    part[1] = fold_linear(f, fold_lookup(f, n->words, sample), n->W, n->b);
    part[2] = fold_reshape(f, seen, fold_shape1(3 * 4 * 17));
    return fold_concat(f, part, 3, 0);
}
static void golden_quantized(const char *isa, const fold_quantize_desc *all, uint64_t want)
{
    enum { HID = 35, SIZE = WORDS + HID + 3 * 4 * 17 };
    for (int eager = 0; eager < 2; eager++) {
        fold_model_desc desc = fold_model_desc_default();
        fold_ctx_desc way = fold_ctx_desc_default();
        fold_cell_desc d = fold_cell_desc_default();
        static float values[SAMPLES * SIZE];
        fold_node y[SAMPLES];
        byte_net n;
        memset(&n, 0, sizeof n);
        rng.state = 11;
        desc.isa = isa;
        desc.inference = 1;
        fold_model *m = fold_model_new(&desc);
        n.words = drawn(m, "words", fold_shape2(WORDS, IN + 1), FOLD_FOR_LOOKUP);
        n.W = drawn(m, "W", fold_shape2(IN + 1, HID), 0);
        n.b = drawn(m, "b", fold_shape1(HID), 0);
        n.U = drawn(m, "U", fold_shape2(IN + 1 + HID, HID), 0);
        n.tied = drawn(m, "tied", fold_shape2(WORDS, HID), FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T);
        n.filter = drawn(m, "filter", fold_shape4(3, 3, 3, 17), FOLD_FOR_CONV);
        d.name = "node"; d.body = byte_body; d.user = &n;
        d.n_in = d.n_list = d.n_out = 1;
        d.in[0] = fold_shape1(IN + 1);
        d.list[0] = fold_shape1(HID);
        n.node = fold_cell_new(m, &d);
        CHECK_SAYS(!fold_model_quantize(m, all), "%s", fold_model_message(m));
        way.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &way);
        for (int i = 0; i < SAMPLES; i++) y[i] = byte_sample(f, &n, i);
        fold_run(f, y, SAMPLES);
        CHECK_SAYS(!fold_read(f, y, SAMPLES, values), "%s", fold_ctx_message(f));
        hash = UINT64_C(0xcbf29ce484222325);
        hash_floats(values, SAMPLES * SIZE);
        if (check.verbose) printf("%s, %d bits: 0x%016llx\n", isa, all->bits, (unsigned long long)hash);
        CHECK_SAYS(hash == want, "%s, %d bits%s: 0x%016llx, want 0x%016llx", isa, all->bits, eager ? ", eager" : "",
                   (unsigned long long)hash, (unsigned long long)want);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* What a host may ask of the processor: to round elsewhere, to flush what is subnormal, as a program does that is
   linked with -ffast-math, and to trap exceptions, as Delphi's and some debug builds do. Not all can be had everywhere. */
enum { HOST_NEAREST, HOST_UP, HOST_DOWN, HOST_TO_ZERO, HOST_FLUSHES, HOST_MODES };
/* Invalid operations, divisions by zero and overflows; returns whether what is trapped can be set. */
static int trapping(int on)
{
#ifdef NO_TRAPS /* -ffast-math computes what it may not need, and traps are not promised with it */
    if (on) return 0;
#endif
#if (defined(__SSE__) || defined(_M_X64)) && !defined(__TINYC__)
    _mm_setcsr((_mm_getcsr() & ~0x3fu & ~0x0680u) | (on ? 0 : 0x0680u));
    return 1;
#elif defined(__aarch64__) && defined(__GNUC__)
    uint64_t was, now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    __asm__ volatile("msr fpcr, %0" : : "r"((was & ~(uint64_t)0x0700u) | (on ? 0x0700u : 0)));
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    __asm__ volatile("msr fpsr, %0" : : "r"((uint64_t)0));
    return !on || (now & 0x0700u); /* few processors trap */
#else
    return !on;
#endif
}
/* Whether the host still traps as it did, and no exception of the library's is left to be found. */
static int traps_still(void)
{
#if (defined(__SSE__) || defined(_M_X64)) && !defined(__TINYC__)
    return !(_mm_getcsr() & 0x0680u) && !(_mm_getcsr() & 0x0du);
#elif defined(FE_INEXACT)
    return !fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT);
#else
    return 1; /* nothing tells: arithmetic in software */
#endif
}
static int flushing(int on) /* whether it can be set */
{
#if (defined(__SSE__) || defined(_M_X64)) && !defined(__TINYC__)
    _mm_setcsr((_mm_getcsr() & ~0x8040u) | (on ? 0x8040u : 0));
    return 1;
#elif defined(__aarch64__) && defined(__GNUC__)
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    __asm__ volatile("msr fpcr, %0" : : "r"((was & ~(uint64_t)0x01000000u) | (on ? 0x01000000u : 0)));
    return 1;
#else
    return !on;
#endif
}
static int set_host(int mode)
{
#ifdef FE_UPWARD
    static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST };
    return !fesetround(rounding[mode]) && flushing(mode == HOST_FLUSHES);
#else
    return (mode == HOST_NEAREST || mode == HOST_FLUSHES) && flushing(mode == HOST_FLUSHES);
#endif
}
/* Sums that show it: which side of 1 they round to, and whether a subnormal is seen. */
static int host_now(void)
{
    volatile float one = 1, little = 1e-10f, tiny = 1e-40f, big = 1e20f;
    volatile float above = one + little, below = one - little, minus = -one - little, seen = tiny * big;
    return above > 1 ? HOST_UP : minus < -1 ? HOST_DOWN : below < 1 ? HOST_TO_ZERO : seen > 0 ? HOST_NEAREST : HOST_FLUSHES;
}

static void format_now(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold_format(text, size, format, args);
    va_end(args);
}
static void whatever_the_host_has_set(const char *isa)
{
    uint64_t want = 0;
    for (int mode = 0; mode < HOST_MODES; mode++) {
        if (!set_host(mode)) continue;
        CHECK_INT(host_now(), mode);
        hash = UINT64_C(0xcbf29ce484222325);
        train(isa, 4, mode % MODES);
        edges(isa);
        CHECK_INT(host_now(), mode); /* as it was */
        if (!mode) want = hash;
        CHECK_SAYS(hash == want, "other bits when the host has mode %d", mode);
    }
    set_host(HOST_NEAREST);
    static const float numbers[4] = { 1, INFINITY, -2, NAN };
    char text[64];
    if (!trapping(1)) return;
    hash = UINT64_C(0xcbf29ce484222325);
    train(isa, 4, 0);
    edges(isa);
    CHECK_SAYS(hash == want, "other bits when the host traps");
    CHECK(traps_still());
    CHECK(!fold_finite(numbers, 4) && !fold_finite(numbers, 2) && fold_finite(numbers, 1));
    CHECK_INT(fold_argmax(numbers, 4), 1);
    format_now(text, sizeof text, "%g %g", (double)numbers[1], (double)numbers[3]);
    CHECK_TEXT(text, "inf nan");
    CHECK(traps_still());
    trapping(0);
}

static void golden(const char *isa, uint64_t want)
{
    uint64_t once[RULES];
    for (int mode = 0; mode < MODES; mode++)
        for (int rule = 0; rule < RULES; rule++) {
            hash = UINT64_C(0xcbf29ce484222325);
            train(isa, rule, mode);
            if (mode == BATCHED) once[rule] = hash;
            CHECK_SAYS(hash == once[rule], "rule %d: not the bits of the batched run (mode %d)", rule, mode);
        }
    whatever_the_host_has_set(isa);
    hash = UINT64_C(0xcbf29ce484222325);
    edges(isa);
    for (int rule = 0; rule < RULES; rule++) hash = (hash ^ once[rule]) * UINT64_C(0x100000001b3);
    if (check.verbose) printf("%s: 0x%016llx\n", isa, (unsigned long long)hash);
    CHECK_SAYS(hash == want, "%s gives 0x%016llx, want 0x%016llx", isa, (unsigned long long)hash,
               (unsigned long long)want);
}

/* A job system that waits may run the host's own jobs, which find what the host has set. */
static int mode_of_jobs;
static void job_system(int lanes, fold_task *task, void *user, void *pool)
{
    mode_of_jobs = host_now();
    *(int *)pool += 1;
    while (lanes-- > 0) task(lanes, user);
    if (mode_of_jobs == host_now()) return;
    mode_of_jobs = -1;
}
/* A model that flushes takes values and gradients below 2^-126 for 0, one that does not keeps them: in eager contexts and in
   batches, on threads, in replays, slices and steps. The host finds its settings again. */
enum { FADES_EAGER, FADES_BATCHED, FADES_SHARED, FADES_REPLAYED, FADES_IN_SLICES, FADES_WAYS, FADES_WIDE = 64, FADES_ROWS = 64,
       FADES_INNER = 256 };
static void faded(int flush, int way, const char *what, float value, float kept)
{
    const int fine = flush ? value == 0 : value > 0.99f * kept && value < 1.01f * kept;
    CHECK_SAYS(fine, "%s, way %d, flush %d: %g, not %g", what, way, flush, (double)value, flush ? 0 : (double)kept);
}
static fold_model *fading_model(const char *isa, int flush, fold_param *tiny, fold_param *zero, fold_param *W)
{
    fold_model_desc model = fold_model_desc_default();
    fold_param_desc desc = fold_param_desc_default();
    model.isa = isa;
    model.flush_subnormals = flush;
    fold_model *m = fold_model_new(&model);
    desc.name = "tiny";
    desc.shape = fold_shape1(FADES_WIDE);
    desc.init = FOLD_INIT_CONSTANT;
    desc.init_scale = 1e-20f;
    *tiny = fold_param_new(m, &desc);
    *zero = fold_bias_new(m, "zero", FADES_WIDE);
    *W = fold_weight_new(m, "W", FADES_INNER, FADES_INNER);
    return m;
}
static void fill(fold_model *m, fold_param p, float value)
{
    float *values = fold_values_write_begin(m, p);
    for (int i = 0; i < FADES_WIDE; i++) values[i] = value;
    fold_values_write_end(m, p);
}
static void fade_in_runs(fold_ctx *f, fold_param tiny, fold_param zero, fold_param W, int flush, int way)
{
    static float x[FADES_WIDE], y[FADES_ROWS * FADES_WIDE];
    fold_node roots[FADES_ROWS], losses[FADES_ROWS], small[FADES_ROWS];
    for (int i = 0; i < FADES_WIDE; i++) x[i] = 1e-20f;
    for (int row = 0; row < FADES_ROWS; row++) {
        const fold_node in = fold_input(f, x, FADES_WIDE);
        roots[row] = fold_mul(f, in, fold_use(f, tiny));
        const fold_node both = fold_add(f, roots[row], fold_use(f, zero));
        const fold_node zeros = fold_zeros(f, fold_shape1(FADES_INNER)), /* that are multiplied to give threads work */
                        work = way == FADES_SHARED ? fold_linear(f, zeros, W, FOLD_NULL_PARAM) : zeros;
        const fold_node faint = fold_scale(f, fold_sum(f, both, FOLD_ALL), 1e-20f), first = fold_pick(f, in, 0);
        losses[row] = fold_add(f, faint, fold_sum(f, work, FOLD_ALL));
        small[row] = fold_add(f, first, fold_sum(f, work, FOLD_ALL));
        fold_keep(f, losses[row]);
    }
    const fold_node loss = fold_sum_n(f, losses, FADES_ROWS);
    const fold_node tail = fold_scale(f, fold_mean_n(f, small, FADES_ROWS), 1e-20f); /* behind what threads do */
    fold_keep(f, loss);
    fold_keep(f, tail);
    if (way == FADES_IN_SLICES) {
        int more = 1;
        for (fold_run_begin(f, roots, FADES_ROWS); more && fold_run_more(f, 1000, &more) == FOLD_OK;) {}
    } else {
        fold_run(f, roots, FADES_ROWS);
    }
    if (way == FADES_REPLAYED) fold_replay(f);
    fold_read(f, roots, FADES_ROWS, y);
    fold_backward(f, loss);
    CHECK_TEXT(fold_ctx_message(f), "");
    faded(flush, way, "value", y[FADES_ROWS * FADES_WIDE - 1], 1e-40f);
    faded(flush, way, "tail", fold_scalar(f, tail), 1e-40f);
}
static uint64_t ticks(void *now) { return *(uint64_t *)now += 100; } /* bare machines have no clock */
static void fade(const char *isa, int flush, int way)
{
    fold_param tiny, zero, W, other_tiny, other_zero, other_W;
    int calls = 0;
    uint64_t now = 0;
    fold_model *m = fading_model(isa, flush, &tiny, &zero, &W);
    fold_model *from = fading_model(isa, flush, &other_tiny, &other_zero, &other_W);
    fold_ctx_desc ctx = fold_ctx_desc_default();
    ctx.training = 1;
    ctx.eager = way == FADES_EAGER;
    ctx.threads = way == FADES_SHARED ? 2 : 1;
    ctx.parallel_for = job_system;
    ctx.pool = &calls;
    ctx.clock = ticks;
    ctx.clock_user = &now;
    fold_ctx *f = fold_ctx_new(m, &ctx);
    const int host = host_now();
    fade_in_runs(f, tiny, zero, W, flush, way);
    faded(flush, way, "gradient", fold_param_grad(m, tiny)[0], FADES_ROWS * 1e-40f);
    const fold_sgd sgd = { 1e-21f, 0, 0 };
    fold_sgd_step(m, &sgd);
    faded(flush, way, "step", -fold_param_value(m, zero)[0], FADES_ROWS * 1e-41f);
    fade_in_runs((fold_ctx_reset(f), f), tiny, zero, W, flush, way);
    CHECK(fold_grads_clip(m, 1.2e-38f) > 0);
    faded(flush, way, "clipped gradient", fold_param_grad(m, zero)[0], 1.2e-38f / 8);
    fill(m, zero, 0);
    fill(from, other_zero, 1e-20f);
    CHECK_INT(fold_values_average(m, from, 1e-20f), FOLD_OK);
    faded(flush, way, "average", fold_param_value(m, zero)[0], 1e-40f);
    CHECK_INT(host_now(), host);
    CHECK_INT(calls > 0, way == FADES_SHARED);
    fold_ctx_free(f);
    fold_model_free(m);
    fold_model_free(from);
}

static void jobs_of_the_host(void)
{
    enum { WIDE = 256, ROWS = 64 };
    static float x[WIDE], want[ROWS], got[ROWS];
    int calls = 0;
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", WIDE, WIDE);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.threads = 2;
    d.parallel_for = job_system;
    d.pool = &calls;
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < WIDE; i++) x[i] = 1.0f / (float)(i + 3);
    for (int mode = 0; mode < HOST_MODES; mode++) {
        fold_node y[ROWS];
        if (!set_host(mode)) continue;
        fold_ctx_reset(f);
        for (int i = 0; i < ROWS; i++) {
            const fold_node in = fold_input_ref(f, x, fold_shape1(WIDE));
            y[i] = fold_sum(f, fold_tanh(f, fold_linear(f, in, W, FOLD_NULL_PARAM)), FOLD_ALL);
            fold_keep(f, y[i]);
        }
        calls = 0;
        const fold_status run = fold_run(f, y, ROWS);
        const int forward = mode_of_jobs;
        const fold_status back = fold_backward(f, fold_sum_n(f, y, ROWS));
        const fold_status replay = fold_replay(f), read = fold_read(f, y, ROWS, mode ? got : want);
        const int now = host_now(), last = mode_of_jobs;
        set_host(HOST_NEAREST);
        CHECK_INT(run, FOLD_OK);
        CHECK_INT(back, FOLD_OK);
        CHECK_INT(replay, FOLD_OK);
        CHECK_INT(read, FOLD_OK);
        if (mode) CHECK_BITS(got, want, ROWS);
        CHECK_INT(forward, mode);
        CHECK_INT(last, mode);
        CHECK_INT(now, mode);
        CHECK_INT(calls, 1 + 2 * 2); /* groups; then groups and sums, twice */
    }
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Random numbers and choices, whatever the host has set the processor to. */
static void chance(void)
{
    for (int mode = 0; mode < HOST_MODES; mode++) {
        enum { N = 6 };
        const float mean[N] = { 0, 1, -2, 3e10f, 1e-40f, 5 }, deviation[N] = { 1, 0.1f, 3, 0.7f, 1e-39f, 0 };
        const float logits[N] = { 0.1f, -3, 2, 1.99f, -INFINITY, 0 }, weights[N] = { 1, 0, 0.3f, 7, 1e-3f, 2 };
        if (!set_host(mode)) continue;
        hash = UINT64_C(0xcbf29ce484222325);
        for (uint64_t stream = 0; stream < 2000; stream++) {
            fold_random r = fold_random_new(11, stream);
            float x[N + 5];
            fold_random_gaussian(&r, mean, deviation, N, x);
            x[N] = fold_random_normal(&r);
            x[N + 1] = fold_random_uniform(&r);
            x[N + 2] = (float)fold_random_below(&r, 1000);
            x[N + 3] = (float)fold_random_softmax(&r, logits, N);
            x[N + 4] = (float)fold_random_weighted(&r, weights, N);
            hash_floats(x, N + 5);
        }
        set_host(HOST_NEAREST);
        CHECK_SAYS(hash == GOLDEN_CHANCE, "chance gives 0x%016llx when the host has mode %d", (unsigned long long)hash, mode);
    }
}

int main(int argc, char **argv)
{
    const fold_quantize_desc bytes = { 1, 0, 8 }, halves = { 1, 1, 16 };
    check_start(argc, argv);
    skip_missing_kernel_sets();
    for (int i = 0; i < KERNEL_SETS; i++) {
        fold_model *m = kernel_set_model(kernel_set[i]);
        const int there = m != NULL;
        fold_model_free(m);
        if (!there || !check_begin(kernel_set[i])) continue;
#ifdef FOLD_REPRODUCIBLE
        golden(kernel_set[i], GOLDEN_FUSED);
        golden_program(kernel_set[i], &windows, WINDOWS_FUSED);
        golden_program(kernel_set[i], &lists, LISTS_FUSED);
        golden_program(kernel_set[i], &aliases, ALIASES_FUSED);
        golden_ops(kernel_set[i], GOLDEN_OPS_FUSED);
        golden_quantized(kernel_set[i], &halves, GOLDEN_HALVES_FUSED);
#else
        golden(kernel_set[i], i ? GOLDEN_FUSED : GOLDEN_PLAIN);
        golden_program(kernel_set[i], &windows, i ? WINDOWS_FUSED : WINDOWS_PLAIN);
        golden_program(kernel_set[i], &lists, i ? LISTS_FUSED : LISTS_PLAIN);
        golden_program(kernel_set[i], &aliases, i ? ALIASES_FUSED : ALIASES_PLAIN);
        golden_ops(kernel_set[i], i ? GOLDEN_OPS_FUSED : GOLDEN_OPS_PLAIN);
        golden_quantized(kernel_set[i], &halves, i ? GOLDEN_HALVES_FUSED : GOLDEN_HALVES_PLAIN);
#endif
        golden_quantized(kernel_set[i], &bytes, GOLDEN_BYTES);
        for (int way = 0; way < FADES_WAYS; way++) {
            fade(kernel_set[i], 0, way);
            if (set_host(HOST_FLUSHES)) fade(kernel_set[i], set_host(HOST_NEAREST), way);
        }
        check_end();
    }
    check_run("order of aliases", order_of_aliases);
    check_run("chance", chance);
    check_run("jobs of the host", jobs_of_the_host);
    return check_finish();
}
