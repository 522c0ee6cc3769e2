/* cc -O2 -o test_graphs tests/test_graphs.c -lm

   Property test of the numerics contract: batching never changes a result. A random graph is a plan, replayed
   through the API into an eager context and into batched ones, under every schedule and three group budgets.
   Values and gradients of kept nodes and the gradients of all parameters must be the same bits.

   test_graphs [--seed S] [--graphs N] [--samples FIRST COUNT] [--steps LIMIT] [--list]
   A failure prints the arguments that reproduce it, shrunk to fewer samples and steps; --list shows graphs.
   Fewer than 1000 graphs need not use every op a hundred times. */

#define FOLD__SHARED_WORK 4000 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include <stdlib.h>
#include <time.h>

/* -- the ops of a plan ----------------------------------------------------------------------- */

/* name; the largest |x| it is given, 0: positive values; factor and term of the bound of its result */
#define UNARY(X)                                                                                       \
    X(neg, 9, 1, 0) X(exp, 2, 0, 7.5f) X(log, 0, 0, 1.5f) X(sqrt, 0, 0, 1.2f) X(square, 2, 2, 0)       \
    X(abs, 9, 1, 0) X(sigmoid, 9, 0, 1) X(tanh, 99, 0, 1) X(relu, 9, 1, 0) X(gelu, 9, 1, 0)            \
    X(softplus, 9, 1, 0.7f) X(softmax, 9, 0, 1) X(log_softmax, 9, 2, 5) X(stop_gradient, 9, 1, 0)
#define BINARY(X) X(add) X(sub) X(mul) X(div) X(min) X(max)
#define REDUCE(X) X(sum) X(mean) X(amax)
#define PAIR(X) X(dot) X(squared_error) X(bce) X(softmax_kl)
#define INDEXED(X) X(pick) X(softmax_xent) X(hinge)
#define LISTS(X) X(sum_n) X(mean_n) X(max_n)
#define OTHERS(X)                                                                                      \
    X(input) X(input_shaped) X(input_ref) X(constant) X(zeros) X(lookup) X(use) X(shared) X(seed)      \
    X(linear) X(linear_n) X(linear_t) X(matmul) X(scale) X(shift) X(leaky_relu) X(layer_norm)          \
    X(dropout) X(attend_n) X(sum_n_shaped) X(attend_n_shaped) X(concat) X(concat2) X(slice) X(split)   \
    X(reshape) X(transpose) X(select) X(huber) X(call) X(call_list) X(dense_apply) X(mlp_apply)        \
    X(recurrent_start) X(recurrent_step) X(tree_lstm_leaf) X(tree_lstm_inner) X(child_sum_node)

#define ENUM(name) OP_##name,
#define ENUM4(name, a, b, c) OP_##name,
#define TEXT(name) #name,
#define TEXT4(name, a, b, c) #name,
enum op { UNARY(ENUM4) BINARY(ENUM) REDUCE(ENUM) PAIR(ENUM) INDEXED(ENUM) LISTS(ENUM) OTHERS(ENUM) OPS };
static const char *const op_name[OPS] = {
    UNARY(TEXT4) BINARY(TEXT) REDUCE(TEXT) PAIR(TEXT) INDEXED(TEXT) LISTS(TEXT) OTHERS(TEXT)
};
static const struct { float limit, factor, term; } unary_bound[] = {
#define BOUND(name, limit, factor, term) { limit, factor, term },
    UNARY(BOUND)
};

enum {
    MAX_ITEMS = 30000, MAX_VALUES = 40000, MAX_OPERANDS = 90000, MAX_DATA = 300000,
    MAX_SAMPLES = 64, MAX_OWN = 2000, MAX_LIST = 2048
};
enum { KEEP = 1, KEEP_GRAD = 2 };

typedef struct item { int op, in0, n_in, out0, n_out, i[3]; float x; uint64_t key; } item;
typedef struct value { fold_shape shape; float bound; int item, uses, is_param, bears, keep; } value;
typedef struct plan {
    int n_items, n_values, n_operands, n_data, root, interleaved, full;
    item items[MAX_ITEMS];
    value values[MAX_VALUES];
    int operands[MAX_OPERANDS];
    float data[MAX_DATA];
    uint8_t needed[MAX_ITEMS];
} plan;

/* -- the model: parameters, layers and cells ------------------------------------------------- */

enum param {
    W8, W24, W20, W70, W5, T20, TIED, TABLE, CUBES, SCALARS, MATRIX, B8, B20, B70, GAIN, BUFFER, PARAMS
};
static const struct {
    const char *name;
    fold_shape shape;
    unsigned uses;
    int frozen, buffer;
} param_rows[PARAMS] = {
    { "W8", { 2, { 8, 8, 0, 0 } }, FOLD_FOR_LINEAR, 0, 0 },
    { "W24", { 2, { 24, 20, 0, 0 } }, FOLD_FOR_LINEAR, 0, 0 },
    { "W20", { 2, { 20, 8, 0, 0 } }, FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T, 0, 0 },
    { "W70", { 2, { 8, 70, 0, 0 } }, FOLD_FOR_LINEAR, 0, 0 },
    { "W5", { 2, { 8, 5, 0, 0 } }, FOLD_FOR_LINEAR, 1, 0 },
    { "T20", { 2, { 20, 8, 0, 0 } }, FOLD_FOR_LINEAR_T, 0, 0 },
    { "tied", { 2, { 30, 8, 0, 0 } }, FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T, 0, 0 },
    { "table", { 2, { 40, 8, 0, 0 } }, FOLD_FOR_LOOKUP, 0, 0 },
    { "cubes", { 3, { 6, 3, 8, 0 } }, FOLD_FOR_LOOKUP, 0, 0 },
    { "scalars", { 1, { 9, 0, 0, 0 } }, FOLD_FOR_LOOKUP, 0, 0 },
    { "matrix", { 2, { 3, 8, 0, 0 } }, FOLD_FOR_LINEAR, 0, 0 },
    { "b8", { 1, { 8, 0, 0, 0 } }, 0, 0, 0 },
    { "b20", { 1, { 20, 0, 0, 0 } }, 0, 0, 0 },
    { "b70", { 1, { 70, 0, 0, 0 } }, 0, 0, 0 },
    { "gain", { 1, { 8, 0, 0, 0 } }, 0, 0, 0 },
    { "buffer", { 1, { 8, 0, 0, 0 } }, 0, 0, 1 },
};

enum cell { MIX, WINDOWS, MATRICES, NEST, LOSS, LIST_LINEAR, LIST_ATTEND, LIST_MAX, LIST_MEAN, CELLS };
enum { RNN, LSTM, GRU, RECURRENT };
typedef struct net {
    fold_model *m;
    fold_param param[PARAMS];
    fold_cell cell[CELLS];
    fold_dense dense[5];
    fold_mlp mlp;
    fold_recurrent recurrent[RECURRENT];
    fold_tree_lstm tree;
    fold_child_sum child_sum;
} net;

static void mix_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node gate = fold_sigmoid(f, fold_linear(f, in[0], n->param[W8], n->param[B8]));
    fold_node half[2];
    fold_split(f, fold_dropout(f, gate, 0.25f), 2, half);
    out[0] =
        fold_add(f, fold_mul(f, gate, in[1]), fold_mul(f, fold_use(f, n->param[GAIN]), fold_tanh(f, in[0])));
    out[1] = in[1];
    out[2] = fold_add(f, in[2], fold_dot(f, half[0], half[1]));
}
static void windows_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_slice(f, in[0], 0, 8, 8);
    out[1] = fold_neg(f, fold_reshape(f, in[0], fold_shape2(3, 8)));
    out[2] = out[1];
}
static void matrices_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node norm = fold_layer_norm(f, in[0], n->param[GAIN], n->param[B8]);
    const fold_node weight = fold_softmax(f, fold_matmul(f, norm, in[1]));
    out[0] = fold_matmul(f, weight, in[0]);
    out[1] = fold_matmul(f, fold_transpose(f, norm, 0, 1), weight);
}
static void nest_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node inner[3] = { fold_tanh(f, fold_linear(f, in[0], n->param[W20], n->param[B8])), in[1],
                                 fold_mean(f, in[0], 0) };
    const fold_node call = fold_call(f, n->cell[MIX], inner, 3);
    out[0] = fold_linear(f, fold_out(f, call, 0), n->param[W8], n->param[B8]);
    out[1] = fold_scale(f, fold_out(f, call, 2), 0.5f);
}
static void loss_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, fold_softmax_xent(f, in[0], 3), fold_pick(f, in[0], 17));
}
static void list_linear_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node parts[3] = { in[0], in[1], in[2] };
    const fold_node each = fold_tanh(f, fold_linear_n(f, parts, 3, n->param[W24], n->param[B20]));
    const fold_node total = fold_list_sum(f, each);
    out[0] = fold_linear(f, fold_mul(f, total, fold_list_mean(f, fold_square(f, each))), n->param[W20],
                         n->param[B8]);
}
static void list_attend_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    const fold_node x = fold_add(f, in[2], in[0]);
    out[0] = fold_list_attend(f, fold_dot(f, in[0], in[1]), x);
    out[1] = fold_list_sum(f, fold_slice(f, x, 0, 2, 4));
}
static void list_max_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_max(f, fold_dropout(f, fold_gelu(f, in[0]), 0.5f));
}
static void list_mean_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    const fold_node product = fold_matmul(f, in[0], in[1]);
    out[0] = fold_list_mean(f, fold_concat2(f, fold_mul(f, product, in[2]), in[3]));
    out[1] = fold_sum(f, in[0], 0);
}

static const struct {
    const char *name;
    fold_cell_body *body;
    int n_in;
    fold_shape in[3];
    int n_list;
    fold_shape list[3];
    int n_out;
    fold_shape out[3];
    float bound; /* of the outputs, when inputs are within 3 */
} cells[CELLS] = {
#define V(n) { 1, { n, 0, 0, 0 } }
#define M(rows, columns) { 2, { rows, columns, 0, 0 } }
#define NONE { 0, { 0, 0, 0, 0 } }
    { "mix", mix_body, 3, { V(8), V(8), V(1) }, 0, { NONE }, 3, { V(8), V(8), V(1) }, 12 },
    { "windows", windows_body, 1, { V(24) }, 0, { NONE }, 3, { V(8), M(3, 8), M(3, 8) }, 3 },
    { "matrices", matrices_body, 2, { M(3, 8), V(8) }, 0, { NONE }, 2, { V(8), V(8) }, 9 },
    { "nest", nest_body, 2, { V(20), V(8) }, 0, { NONE }, 2, { V(8), V(1) }, 40 },
    { "loss", loss_body, 1, { V(20) }, 0, { NONE }, 1, { V(1) }, 12 },
    { "list_linear", list_linear_body, 2, { V(8), V(8) }, 1, { V(8) }, 1, { V(8) }, 99 },
    { "list_attend", list_attend_body, 1, { V(8) }, 2, { V(8), V(8) }, 2, { V(8), V(4) }, 99 },
    { "list_max", list_max_body, 0, { NONE }, 1, { V(5) }, 1, { V(5) }, 6 },
    { "list_mean", list_mean_body, 1, { M(3, 8) }, 3, { V(8), V(3), V(5) }, 2, { V(8), V(8) }, 99 },
};
#undef V
#undef M
#undef NONE

static fold_cell cell_new(fold_model *m, const net *n, int i)
{
    fold_cell_desc d;
    memset(&d, 0, sizeof d);
    d.name = cells[i].name; d.body = cells[i].body; d.user = n;
    d.n_in = cells[i].n_in; d.n_list = cells[i].n_list; d.n_out = cells[i].n_out;
    memcpy(d.in, cells[i].in, sizeof cells[i].in);
    memcpy(d.list, cells[i].list, sizeof cells[i].list);
    return fold_cell_new(m, &d);
}

static void net_new(net *n, int inference)
{
    static const int sizes[] = { 8, 20, 8 };
    static const char *const names[] = { "linear", "relu", "tanh", "sigmoid", "gelu" };
    fold_model_desc md = fold_model_desc_default();
    md.seed = 7;
    md.inference = inference;
    n->m = fold_model_new(&md);
    for (int i = 0; i < PARAMS; i++) {
        fold_param_desc d;
        memset(&d, 0, sizeof d);
        d.name = param_rows[i].name; d.shape = param_rows[i].shape; d.uses = param_rows[i].uses;
        d.frozen = param_rows[i].frozen; d.buffer = param_rows[i].buffer;
        d.init = FOLD_INIT_UNIFORM;
        d.init_scale = 0.3f;
        n->param[i] = fold_param_new(n->m, &d);
    }
    for (int i = 0; i < CELLS; i++) n->cell[i] = cell_new(n->m, n, i);
    for (int i = 0; i < 5; i++) n->dense[i] = fold_dense_new(n->m, names[i], 8, 8, (fold_activation)i);
    n->mlp = fold_mlp_new(n->m, "mlp", sizes, 2, FOLD_ACT_TANH);
    n->recurrent[RNN] = fold_rnn_new(n->m, "rnn", 8, 8);
    n->recurrent[LSTM] = fold_lstm_new(n->m, "lstm", 8, 8);
    n->recurrent[GRU] = fold_gru_new(n->m, "gru", 8, 8);
    n->tree = fold_tree_lstm_new(n->m, "tree", 8, 8, 2);
    n->child_sum = fold_child_sum_new(n->m, "child_sum", 8, 8);
}

/* -- replaying a plan ------------------------------------------------------------------------ */

static void replay_layer(fold_ctx *f, const net *n, const item *t, const fold_node *in, fold_node *out)
{
    fold_state s = { { 0, 0 }, { 0, 0 } }, children[16];
    switch (t->op) {
    case OP_recurrent_start: s = fold_recurrent_zeros(f, &n->recurrent[t->i[0]]); break;
    case OP_recurrent_step:
        s.h = in[1];
        if (t->n_in == 3) s.c = in[2];
        s = fold_recurrent_apply(f, &n->recurrent[t->i[0]], in[0], s);
        break;
    case OP_tree_lstm_leaf: s = fold_tree_lstm_apply_leaf(f, &n->tree, in[0]); break;
    default: {
        const int child_sum = t->op == OP_child_sum_node, count = t->n_in / 2;
        for (int i = 0; i < count; i++) {
            children[i].h = in[child_sum + 2 * i];
            children[i].c = in[child_sum + 2 * i + 1];
        }
        s = child_sum ? fold_child_sum_apply(f, &n->child_sum, in[0], children, count)
                      : fold_tree_lstm_apply_inner(f, &n->tree, children);
    }
    }
    out[0] = s.h;
    if (t->n_out == 2) out[1] = s.c;
}

static void replay_call(fold_ctx *f, const net *n, const item *t, const fold_node *in, fold_node *out)
{
    const int fixed = cells[t->i[0]].n_in, width = cells[t->i[0]].n_list;
    const fold_cell cell = n->cell[t->i[0]];
    const fold_node call =
        width ? fold_call_list(f, cell, in, fixed, in + fixed, (size_t)((t->n_in - fixed) / width))
              : fold_call(f, cell, in, fixed);
    for (int i = 0; i < t->n_out; i++) out[i] = fold_out(f, call, i);
}

/* Ops with attributes, indices or lists. */
static fold_node replay_op(fold_ctx *f, const net *n, const plan *p, const item *t, const fold_node *in)
{
    const fold_shape shape = p->values[t->out0].shape;
    const float *data = p->data + t->i[2];
    const fold_param none = { 0, 0 }, *param = n->param, b = t->i[1] < 0 ? none : param[t->i[1] % PARAMS];
    const size_t count = (size_t)t->n_in;
    switch (t->op) {
    case OP_input: return fold_input(f, data, shape.dim[0]);
    case OP_input_shaped: return fold_input_shaped(f, data, shape);
    case OP_input_ref: return fold_input_ref(f, data, shape);
    case OP_constant: return fold_constant(f, data[0]);
    case OP_zeros: return fold_zeros(f, shape);
    case OP_lookup: return fold_lookup(f, param[t->i[0]], t->i[1]);
    case OP_use: return fold_use(f, param[t->i[0]]);
    case OP_shared: return fold_shared(f, in[0]);
    case OP_linear: return fold_linear(f, in[0], param[t->i[0]], b);
    case OP_linear_n:
        if (t->n_in == 2 && t->i[0] == W24) return fold_linear_then(f, fold_linear_first(f, in[0], param[t->i[0]], b), in[1], param[t->i[0]]);
        return fold_linear_n(f, in, t->n_in, param[t->i[0]], b);
    case OP_linear_t: return fold_linear_t(f, in[0], param[t->i[0]], b);
    case OP_matmul: return fold_matmul(f, in[0], in[1]);
    case OP_scale: return fold_scale(f, in[0], t->x);
    case OP_shift: return fold_shift(f, in[0], t->x);
    case OP_leaky_relu: return fold_leaky_relu(f, in[0], t->x);
    case OP_layer_norm: return fold_layer_norm(f, in[0], param[GAIN], param[B8]);
    case OP_dropout: return fold_dropout(f, in[0], t->x);
    case OP_attend_n: return fold_attend_n(f, in, in + count / 2, (int)(count / 2));
    case OP_sum_n_shaped: return fold_sum_n_shaped(f, in, (int)count, shape);
    case OP_attend_n_shaped: return fold_attend_n_shaped(f, in, in + count / 2, (int)(count / 2), shape);
    case OP_concat: return fold_concat(f, in, t->n_in, t->i[0]);
    case OP_concat2: return fold_concat2(f, in[0], in[1]);
    case OP_slice: return fold_slice(f, in[0], t->i[0], t->i[1], shape.dim[t->i[0]]);
    case OP_reshape: return fold_reshape(f, in[0], shape);
    case OP_transpose: return fold_transpose(f, in[0], t->i[0], t->i[1]);
    case OP_select: return fold_select(f, in[0], in[1], in[2]);
    case OP_huber: return fold_huber(f, in[0], in[1], t->x);
    case OP_dense_apply: return fold_dense_apply(f, &n->dense[t->i[0]], in[0]);
    case OP_mlp_apply: return fold_mlp_apply(f, &n->mlp, in[0]);
    default: return fold_input(f, NULL, 0); /* not reached: an error of the context */
    }
}

static void replay(fold_ctx *f, const net *n, const plan *p, fold_node *v)
{
    fold_node in[MAX_LIST];
    for (int k = 0; k < p->n_items; k++) {
        const item *t = &p->items[k];
        fold_node *out = v + t->out0;
        for (int i = 0; i < t->n_in; i++) in[i] = v[p->operands[t->in0 + i]];
        switch (t->op) {
#define ONE(name, a, b, c) case OP_##name: out[0] = fold_##name(f, in[0]); break;
#define TWO(name) case OP_##name: out[0] = fold_##name(f, in[0], in[1]); break;
#define AXIS(name) case OP_##name: out[0] = fold_##name(f, in[0], t->i[0]); break;
#define MANY(name) case OP_##name: out[0] = fold_##name(f, in, (size_t)t->n_in); break;
        UNARY(ONE) BINARY(TWO) PAIR(TWO) REDUCE(AXIS) INDEXED(AXIS) LISTS(MANY)
        case OP_seed: fold_dropout_seed(f, t->key); break;
        case OP_split: fold_split(f, in[0], t->n_out, out); break;
        case OP_call: case OP_call_list: replay_call(f, n, t, in, out); break;
        case OP_recurrent_start: case OP_recurrent_step: case OP_tree_lstm_leaf: case OP_tree_lstm_inner:
        case OP_child_sum_node: replay_layer(f, n, t, in, out); break;
        default: out[0] = replay_op(f, n, p, t, in);
        }
    }
}

/* -- generating a plan ----------------------------------------------------------------------- */

/* Two streams of random numbers per sample: samples that share the first have one structure (so that there
   is something to batch), but for list lengths and sizes of trees, which come from the second. */
typedef struct sample { check_random structure, data; int own[MAX_OWN], n, steps; } sample;
typedef struct gen {
    plan *p;
    sample *s, samples[MAX_SAMPLES];
    check_random random; /* of the whole recording */
    int n_samples, globals[4], sharing, crossing; /* share values with all samples, use other samples' */
    item *last;
} gen;

typedef struct limits { uint64_t seed; int first, samples, steps; } limits; /* what to generate */

static int below(gen *g, int n) { return random_below(&g->s->structure, n); }
static int data_below(gen *g, int n) { return random_below(&g->s->data, n); }
static int size_of(fold_shape s)
{
    int n = 1;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    return n;
}
static int same_shape(fold_shape a, fold_shape b)
{
    return a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
}
static fold_shape shape_of(const gen *g, int v) { return g->p->values[v].shape; }
static float bound_of(const gen *g, int v) { return g->p->values[v].bound; }

static int add_output(gen *g, fold_shape shape, float bound)
{
    plan *p = g->p;
    value *v = &p->values[p->n_values];
    memset(v, 0, sizeof *v);
    v->shape = shape;
    v->bound = bound;
    v->item = p->n_items - 1;
    g->last->n_out++;
    if (g->s->n < MAX_OWN) g->s->own[g->s->n++] = p->n_values;
    p->full |= p->n_values > MAX_VALUES - 100;
    return p->n_values++;
}

static item *add_item(gen *g, int op, int n, const int *in)
{
    plan *p = g->p;
    item *t = &p->items[p->n_items++];
    memset(t, 0, sizeof *t);
    t->op = op; t->in0 = p->n_operands; t->n_in = n; t->out0 = p->n_values;
    t->i[1] = -1;
    for (int i = 0; i < n; i++) {
        p->operands[p->n_operands++] = in[i];
        p->values[in[i]].uses++;
    }
    p->full |= p->n_items > MAX_ITEMS - 100 || p->n_operands > MAX_OPERANDS - MAX_LIST;
    return g->last = t;
}

static int emit(gen *g, int op, fold_shape shape, float bound, int n, const int *in)
{
    add_item(g, op, n, in);
    return add_output(g, shape, bound);
}
static int emit_with(gen *g, int op, fold_shape shape, float bound, int v, int i0, float x)
{
    const int y = emit(g, op, shape, bound, 1, &v);
    g->last->i[0] = i0;
    g->last->x = x;
    return y;
}

/* Input values: now and then zeros of both signs, ones and repetitions, for ties and signed zeros. */
static void add_data(gen *g, int n)
{
    static const float special[] = { 0.0f, -0.0f, 1.0f, -1.0f };
    plan *p = g->p;
    g->last->i[2] = p->n_data;
    for (int i = 0; i < n; i++)
        p->data[p->n_data++] =
            data_below(g, 12) ? random_float(&g->s->data, -1, 1) : special[data_below(g, 4)];
    p->full |= p->n_data > MAX_DATA - 100;
}

static int source(gen *g, fold_shape shape)
{
    static const int table[][2] = { { TABLE, 40 }, { CUBES, 6 }, { SCALARS, 9 }, { TIED, 30 } };
    static const fold_shape row[] = {
        { 1, { 8, 0, 0, 0 } }, { 2, { 3, 8, 0, 0 } }, { 1, { 1, 0, 0, 0 } }, { 1, { 8, 0, 0, 0 } }
    };
    int op = OP_input_shaped;
    for (int i = below(g, 4), end = i + 4; i < end; i++) {
        if (!same_shape(shape, row[i % 4]) || !below(g, 3)) continue;
        const int y = emit(g, OP_lookup, shape, 0.3f, 0, NULL);
        g->last->i[0] = table[i % 4][0];
        g->last->i[1] = data_below(g, table[i % 4][1]);
        return y;
    }
    switch (below(g, 5)) {
    case 0: op = OP_input_ref; break;
    case 1: op = OP_zeros; break;
    case 2: op = size_of(shape) == 1 && shape.rank == 1 ? OP_constant : op; break;
    default: op = shape.rank == 1 ? OP_input : op;
    }
    const int y = emit(g, op, shape, 1, 0, NULL);
    add_data(g, op == OP_zeros ? 0 : size_of(shape));
    return y;
}

static int use(gen *g, int param)
{
    const int y = emit(g, OP_use, param_rows[param].shape, 0.3f, 0, NULL);
    g->last->i[0] = param;
    g->p->values[y].is_param = 1;
    return y;
}

/* Some value: mostly a recent one, or one of the sample's first (many consumers), a shared one, or another
   sample's where the recording crosses samples. */
static int any(gen *g, check_random *r)
{
    const sample *s = g->s;
    const int way = random_below(r, 100);
    if (way < 4 && g->sharing) return g->globals[random_below(r, 4)];
    if (way < 7 && g->crossing) s = &g->samples[random_below(r, g->n_samples)];
    if (!s->n) s = g->s;
    if (!s->n) return source(g, fold_shape1(8));
    if (way < 25) return s->own[random_below(r, s->n < 3 ? s->n : 3)];
    if (way < 75 && s->n > 10) return s->own[s->n - 1 - random_below(r, 10)];
    return s->own[random_below(r, s->n)];
}

static int soft(gen *g, int v, float limit) /* v, squashed when it may exceed the limit */
{
    return bound_of(g, v) <= limit ? v : emit(g, OP_tanh, shape_of(g, v), 1, 1, &v);
}
static int positive(gen *g, int v) /* in [0.25, 1.25] */
{
    const int s = emit(g, OP_sigmoid, shape_of(g, v), 1, 1, &v);
    return emit_with(g, OP_shift, shape_of(g, v), 1.25f, s, 0, 0.25f);
}
static int of_shape_by(gen *g, fold_shape shape, check_random *r)
{
    for (int i = 0; i < 8; i++) {
        const int v = any(g, r);
        if (same_shape(shape_of(g, v), shape)) return soft(g, v, 4);
    }
    return source(g, shape);
}
static int of_shape(gen *g, fold_shape shape) { return of_shape_by(g, shape, &g->s->structure); }

/* n values of a shape for a list; a parameter cannot be an element, a copy can. */
static void fill_list(gen *g, fold_shape shape, int n, int *list, int step)
{
    for (int i = 0; i < n; i++) {
        int v = of_shape_by(g, shape, &g->s->data);
        if (g->p->values[v].is_param) v = emit_with(g, OP_scale, shape, bound_of(g, v), v, 0, 1);
        list[i * step] = v;
    }
}
static int list_length(gen *g, int least)
{
    return data_below(g, 8) ? least + data_below(g, 5) : least + data_below(g, 12);
}

static void grow_unary(gen *g, int op)
{
    int v = any(g, &g->s->structure);
    v = unary_bound[op].limit > 0 ? soft(g, v, unary_bound[op].limit) : positive(g, v);
    emit(g, op, shape_of(g, v), unary_bound[op].factor * bound_of(g, v) + unary_bound[op].term, 1, &v);
}

/* b: of a's shape, [1], of a's last axis or a parameter. */
static void grow_binary(gen *g, int op)
{
    int in[2];
    in[0] = soft(g, any(g, &g->s->structure), 4);
    const fold_shape shape = shape_of(g, in[0]);
    const fold_shape last = fold_shape1(shape.dim[shape.rank - 1]);
    switch (below(g, 5)) {
    case 0: in[1] = of_shape(g, fold_shape1(1)); break;
    case 1: in[1] = of_shape(g, last); break;
    case 2: in[1] = last.dim[0] == 8 ? use(g, below(g, 2) ? GAIN : BUFFER) : of_shape(g, shape); break;
    default: in[1] = of_shape(g, shape);
    }
    const float a = bound_of(g, in[0]), b = bound_of(g, in[1]);
    if (op == OP_div) in[1] = positive(g, in[1]);
    else if (below(g, 2)) { const int swap = in[0]; in[0] = in[1]; in[1] = swap; }
    emit(g, op, shape, op == OP_div ? 4 * a : op == OP_mul ? a * b : a + b, 2, in);
}

static int grow_pair(gen *g, int op, int a)
{
    int in[2] = { soft(g, a, 4), 0 };
    const fold_shape shape = shape_of(g, in[0]);
    in[1] = of_shape(g, shape);
    if (op == OP_bce) in[1] = emit(g, OP_sigmoid, shape, 1, 1, &in[1]);
    if (op == OP_softmax_kl) in[1] = emit(g, OP_softmax, shape, 1, 1, &in[1]);
    const int y = emit(g, op, fold_shape1(1), 64.0f * (float)size_of(shape), 2, in);
    g->last->x = 0.5f;
    return y;
}

static int grow_indexed(gen *g, int op, int v)
{
    v = soft(g, v, 9);
    return emit_with(g, op, fold_shape1(1), 20.0f * (float)size_of(shape_of(g, v)), v,
                     data_below(g, size_of(shape_of(g, v))), 0);
}

static int grow_reduce(gen *g, int op, int v, int axis)
{
    fold_shape s = shape_of(g, v);
    const float factor = op == OP_sum ? (float)size_of(s) : 1;
    if (axis == FOLD_ALL || s.rank == 1) {
        s = fold_shape1(1);
    } else {
        for (int i = axis; i + 1 < s.rank; i++) s.dim[i] = s.dim[i + 1];
        s.rank--;
    }
    return emit_with(g, op, s, bound_of(g, v) * factor, v, axis, 0);
}

static void grow_linear(gen *g, int op)
{
    static const struct {
        int W, b, n, seg[4], out;
    } row[] = {
        { W8, B8, 1, { 8, 0, 0, 0 }, 8 },    { W8, -1, 2, { 5, 3, 0, 0 }, 8 },
        { W24, B20, 3, { 8, 8, 8, 0 }, 20 }, { W24, B20, 1, { 24, 0, 0, 0 }, 20 },
        { W24, -1, 2, { 20, 4, 0, 0 }, 20 }, { W20, B8, 1, { 20, 0, 0, 0 }, 8 },
        { W70, B70, 1, { 8, 0, 0, 0 }, 70 }, { W5, -1, 1, { 8, 0, 0, 0 }, 5 },
        { W24, B20, 4, { 8, 8, 5, 3 }, 20 }, { W24, B20, 2, { 8, 16, 0, 0 }, 20 },
    };
    const int k = below(g, (int)(sizeof row / sizeof *row));
    const int rows = row[k].n == 1 && row[k].seg[0] == 8 && below(g, 3) == 0;
    int in[4], n = row[k].n;
    for (int i = 0; i < n; i++) in[i] = of_shape(g, rows ? fold_shape2(3, 8) : fold_shape1(row[k].seg[i]));
    if (op == OP_linear && n > 1) {
        int width = 0;
        for (int i = 0; i < n; i++) width += row[k].seg[i];
        in[0] = emit(g, OP_concat, fold_shape1(width), 4, n, in);
        n = 1;
    }
    emit(g, op, rows ? fold_shape2(3, row[k].out) : fold_shape1(row[k].out), 30, n, in);
    g->last->i[0] = row[k].W;
    g->last->i[1] = row[k].b;
}

static void grow_linear_t(gen *g)
{
    static const struct {
        int W, b, in, out;
    } row[] = { { T20, B20, 8, 20 }, { TIED, -1, 8, 30 }, { W20, B20, 8, 20 } };
    const int k = below(g, 3), rows = !below(g, 3);
    const int v = of_shape(g, rows ? fold_shape2(3, 8) : fold_shape1(8));
    const fold_shape shape = rows ? fold_shape2(3, row[k].out) : fold_shape1(row[k].out);
    emit_with(g, OP_linear_t, shape, 10, v, row[k].W, 0);
    g->last->i[1] = row[k].b;
}

static void grow_matmul(gen *g)
{
    static const fold_shape row[][3] = {
        { { 2, { 3, 8, 0, 0 } }, { 2, { 8, 3, 0, 0 } }, { 2, { 3, 3, 0, 0 } } },
        { { 1, { 8, 0, 0, 0 } }, { 2, { 8, 3, 0, 0 } }, { 1, { 3, 0, 0, 0 } } },
        { { 2, { 3, 8, 0, 0 } }, { 1, { 8, 0, 0, 0 } }, { 1, { 3, 0, 0, 0 } } },
        { { 1, { 3, 0, 0, 0 } }, { 2, { 3, 8, 0, 0 } }, { 1, { 8, 0, 0, 0 } } },
    };
    const int k = below(g, 4);
    int in[2];
    in[0] = of_shape(g, row[k][0]);
    in[1] = k == 3 && below(g, 2) ? use(g, MATRIX) : of_shape(g, row[k][1]);
    emit(g, OP_matmul, row[k][2], 8 * bound_of(g, in[0]) * bound_of(g, in[1]), 2, in);
}

static void grow_list(gen *g, int op)
{
    const fold_shape shape = shape_of(g, any(g, &g->s->structure));
    const int attend = op == OP_attend_n || op == OP_attend_n_shaped;
    const int shaped = op == OP_sum_n_shaped || op == OP_attend_n_shaped;
    int list[64];
    const int n = list_length(g, shaped ? 0 : 1);
    if (attend) fill_list(g, fold_shape1(1), n, list, 1);
    fill_list(g, shape, n, attend ? list + n : list, 1);
    emit(g, op, shape, 4 * (float)(n + 1), attend ? 2 * n : n, list);
}

static void grow_concat(gen *g, int op)
{
    int in[5];
    in[0] = soft(g, any(g, &g->s->structure), 4);
    fold_shape shape = shape_of(g, in[0]);
    const int n = op == OP_concat2 ? 2 : 1 + below(g, 5), axis = op == OP_concat2 ? 0 : below(g, shape.rank);
    for (int i = 1; i < n; i++) {
        in[i] = of_shape(g, shape.rank == 1 && below(g, 2) ? fold_shape1(8) : shape_of(g, in[0]));
        shape.dim[axis] += shape_of(g, in[i]).dim[axis];
    }
    if (size_of(shape) > 200) return;
    emit(g, op, shape, 4, n, in);
    g->last->i[0] = axis;
}

/* Windows and copies of parts; windows of parameters are parameters. */
static void grow_part(gen *g, int op)
{
    const int v = any(g, &g->s->structure);
    fold_shape s = shape_of(g, v);
    const float bound = bound_of(g, v);
    int axis = below(g, s.rank), parts = 2 + below(g, 4), y;
    if (op == OP_slice) {
        const int length = 1 + below(g, s.dim[axis]), start = below(g, s.dim[axis] - length + 1);
        s.dim[axis] = length;
        y = emit_with(g, op, s, bound, v, axis, 0);
        g->last->i[1] = start;
    } else if (op == OP_reshape) {
        static const fold_shape to[] = {
            { 2, { 3, 8, 0, 0 } }, { 2, { 8, 3, 0, 0 } }, { 3, { 2, 3, 4, 0 } }, { 1, { 24, 0, 0, 0 } }
        };
        const int n = size_of(s);
        s = n == 24 ? to[below(g, 4)] : n % 4 == 0 && below(g, 2) ? fold_shape2(4, n / 4) : fold_shape1(n);
        axis = 0;
        y = emit(g, op, s, bound, 1, &v);
    } else if (op == OP_split) {
        while (s.dim[0] % parts) parts--;
        s.dim[0] /= parts;
        axis = 0;
        y = emit(g, op, s, bound, 1, &v);
        for (int i = 1; i < parts; i++) add_output(g, s, bound);
    } else {
        const int other = below(g, s.rank), d = s.dim[axis];
        s.dim[axis] = s.dim[other];
        s.dim[other] = d;
        emit_with(g, op, s, bound, v, axis, 0);
        g->last->i[1] = other;
        return;
    }
    for (int i = 0; i < g->last->n_out; i++)
        g->p->values[y + i].is_param = g->p->values[v].is_param && axis == 0;
}

static void grow_call(gen *g, int list)
{
    int c = below(g, CELLS), in[64], n = 0;
    while (!cells[c].n_list != !list) c = (c + 1) % CELLS;
    for (; n < cells[c].n_in; n++) in[n] = soft(g, of_shape(g, cells[c].in[n]), 3);
    const int count = list ? list_length(g, c == LIST_MAX ? 1 : 0) : 0, width = cells[c].n_list;
    for (int k = 0; k < width; k++) fill_list(g, cells[c].list[k], count, in + n + k, width);
    emit(g, list ? OP_call_list : OP_call, cells[c].out[0], cells[c].bound, n + count * width, in);
    g->last->i[0] = c;
    for (int i = 1; i < cells[c].n_out; i++) add_output(g, cells[c].out[i], cells[c].bound);
}

/* A state is the value h; c is the next value. */
static int state(gen *g, int op, int kind, float c_bound, int has_c, int n, const int *in)
{
    const fold_shape shape = fold_shape1(8);
    const int h = emit(g, op, shape, 1, n, in);
    g->last->i[0] = kind;
    if (has_c) add_output(g, shape, c_bound);
    return h;
}

static void grow_chain(gen *g)
{
    const int kind = below(g, RECURRENT), length = 1 + data_below(g, 6), has_c = kind == LSTM;
    int in[3] = { 0, state(g, OP_recurrent_start, kind, 0, has_c, 0, NULL), 0 };
    for (int i = 0; i < length; i++) {
        in[0] = of_shape_by(g, fold_shape1(8), &g->s->data);
        in[2] = in[1] + 1;
        in[1] = state(g, OP_recurrent_step, kind, (float)(i + 1), has_c, has_c ? 3 : 2, in);
    }
}

static void grow_tree(gen *g) /* a random binary tree: neighbours merge until one is left */
{
    int h[8], n = 1 + data_below(g, 7);
    for (int i = 0; i < n; i++) {
        const int x = of_shape_by(g, fold_shape1(8), &g->s->data);
        h[i] = state(g, OP_tree_lstm_leaf, 0, 1, 1, 1, &x);
    }
    for (; n > 1; n--) {
        const int k = data_below(g, n - 1), in[4] = { h[k], h[k] + 1, h[k + 1], h[k + 1] + 1 };
        h[k] = state(g, OP_tree_lstm_inner, 0, bound_of(g, in[1]) + bound_of(g, in[3]) + 1, 1, 4, in);
        memmove(h + k + 1, h + k + 2, (size_t)(n - k - 2) * sizeof *h);
    }
}

static void grow_bush(gen *g) /* nodes with any number of children */
{
    int h[8], parent[8];
    const int n = 1 + data_below(g, 8);
    for (int i = 0; i < n; i++) parent[i] = i ? data_below(g, i) : -1;
    for (int i = n - 1; i >= 0; i--) {
        int in[17], count = 1;
        float c = 1;
        in[0] = of_shape_by(g, fold_shape1(8), &g->s->data);
        for (int k = i + 1; k < n; k++) {
            if (parent[k] != i) continue;
            in[count++] = h[k];
            in[count++] = h[k] + 1;
            c += bound_of(g, h[k] + 1);
        }
        h[i] = state(g, OP_child_sum_node, 0, c, 1, count, in);
    }
}

static void grow_dense(gen *g, int op)
{
    const int x = of_shape(g, fold_shape1(8));
    emit_with(g, op, fold_shape1(8), 20, x, below(g, 5), 0);
}

static void grow(gen *g)
{
    const int op = below(g, OPS), v = any(g, &g->s->structure);
    const fold_shape s = shape_of(g, v);
    int in[3] = { v, 0, 0 };
    if (op < OP_add) { grow_unary(g, op); return; }
    if (op < OP_sum) { grow_binary(g, op); return; }
    switch (op) {
    case OP_sum: case OP_mean: case OP_amax: grow_reduce(g, op, v, below(g, s.rank + 1) - 1); break;
    case OP_softmax_xent: case OP_hinge: if (s.rank == 1) grow_indexed(g, op, v); break;
    case OP_pick: grow_indexed(g, op, v); break;
    case OP_softmax_kl: if (s.rank == 1) grow_pair(g, op, v); break;
    case OP_dot: case OP_squared_error: case OP_bce: case OP_huber: grow_pair(g, op, v); break;
    case OP_linear: case OP_linear_n: grow_linear(g, op); break;
    case OP_linear_t: grow_linear_t(g); break;
    case OP_matmul: grow_matmul(g); break;
    case OP_scale: emit_with(g, op, s, bound_of(g, v), v, 0, random_float(&g->s->data, -1, 1)); break;
    case OP_shift: emit_with(g, op, s, bound_of(g, v) + 1, v, 0, random_float(&g->s->data, -1, 1)); break;
    case OP_leaky_relu: emit_with(g, op, s, bound_of(g, v), v, 0, below(g, 2) ? 0.1f : 0.3f); break;
    case OP_dropout: emit_with(g, op, s, bound_of(g, v) * 2, v, 0, below(g, 2) ? 0.5f : 0.1f); break;
    case OP_layer_norm:
        in[0] = of_shape(g, below(g, 2) ? fold_shape1(8) : fold_shape2(3, 8));
        emit(g, op, shape_of(g, in[0]), 2, 1, in);
        break;
    case OP_select:
        in[1] = of_shape(g, s);
        in[2] = of_shape(g, s);
        emit(g, op, s, 4, 3, in);
        break;
    case OP_sum_n: case OP_mean_n: case OP_max_n:
    case OP_attend_n: case OP_sum_n_shaped: case OP_attend_n_shaped: grow_list(g, op); break;
    case OP_concat: case OP_concat2: grow_concat(g, op); break;
    case OP_slice: case OP_split: case OP_reshape: case OP_transpose: grow_part(g, op); break;
    case OP_call: case OP_call_list: grow_call(g, op == OP_call_list); break;
    case OP_dense_apply: case OP_mlp_apply: grow_dense(g, op); break;
    case OP_recurrent_start: grow_chain(g); break;
    case OP_tree_lstm_leaf: grow_tree(g); break;
    case OP_child_sum_node: grow_bush(g); break;
    default: break; /* sources appear where they are needed */
    }
}

/* One scalar that depends on v. */
static int to_scalar(gen *g, int v)
{
    static const int ways[] = { OP_sum, OP_mean, OP_amax, OP_dot, OP_squared_error, OP_huber, OP_bce, OP_pick,
                                OP_softmax_xent, OP_hinge, OP_softmax_kl };
    const int way = ways[below(g, shape_of(g, v).rank == 1 ? 11 : 8)];
    switch (way) {
    case OP_sum: case OP_mean: case OP_amax: return grow_reduce(g, way, v, FOLD_ALL);
    case OP_pick: case OP_softmax_xent: case OP_hinge: return grow_indexed(g, way, v);
    default: return grow_pair(g, way, v);
    }
}

/* A sample's loss: most values that nothing uses yet, each made a scalar, summed or averaged. */
static int sample_loss(gen *g)
{
    int list[MAX_OWN + 1], n = 0;
    for (int i = 0, end = g->s->n; i < end; i++)
        if (!g->p->values[g->s->own[i]].uses && below(g, 10)) list[n++] = to_scalar(g, g->s->own[i]);
    for (int i = 0; i < n; i++)
        if (bound_of(g, list[i]) > 20) list[i] = soft(g, list[i], 20);
    if (!n) list[n++] = source(g, fold_shape1(1));
    const int y = emit(g, below(g, 2) ? OP_sum_n : OP_mean_n, fold_shape1(1), 20.0f * (float)n, n, list);
    return data_below(g, 3) ? soft(g, y, 20) : y;
}

/* The root: sums, means and weighted combinations of the losses, with a regulariser at times, or a function
   of all of them that cannot be cut into groups. */
static int total_loss(gen *g, int *loss, int n)
{
    const fold_shape one = fold_shape1(1);
    const int way = data_below(g, 6);
    int in[2 * MAX_SAMPLES], root;
    for (int i = 0; i < n; i++) {
        if (way == 2 || way == 3)
            loss[i] = emit_with(g, OP_scale, one, bound_of(g, loss[i]), loss[i], 0,
                                random_float(&g->s->data, 0, 1));
        in[i] = in[n + i] = loss[i];
    }
    switch (way) {
    case 0: case 3: return emit(g, OP_sum_n, one, 99, n, in);
    case 1: return emit(g, OP_mean_n, one, 99, n, in);
    case 2: case 4:
        root = loss[0];
        for (int i = 1; i < n; i++) {
            const int pair[2] = { root, loss[i] };
            root = emit(g, OP_add, one, 99, 2, pair);
        }
        if (way == 4) {
            int decay = use(g, data_below(g, 2) ? W8 : MATRIX);
            decay = emit(g, OP_square, shape_of(g, decay), 1, 1, &decay);
            in[0] = root;
            in[1] = emit_with(g, OP_scale, one, 1, grow_reduce(g, OP_sum, decay, FOLD_ALL), 0, 0.01f);
            root = emit(g, OP_add, one, 99, 2, in);
        }
        return root;
    default: return emit(g, OP_attend_n, one, 99, 2 * n, in);
    }
}

static void add_seed(gen *g)
{
    add_item(g, OP_seed, 0, NULL)->key = random_bits(&g->s->data);
}

/* Values shared by all samples: half of them of something trained, half plain inputs. */
static void add_globals(gen *g)
{
    const fold_shape shape[4] = { fold_shape1(8), fold_shape2(3, 8), fold_shape1(1), fold_shape1(8) };
    for (int i = 0; i < 4; i++) {
        int x = use(g, i == 1 ? MATRIX : GAIN);
        x = i % 3 ? source(g, shape[i]) : emit(g, OP_tanh, shape[i], 1, 1, &x);
        g->globals[i] = emit(g, OP_shared, shape[i], 1, 1, &x);
    }
}

/* Which items the root needs, and which of their values it has a gradient for. */
static void mark_needed(plan *p)
{
    memset(p->needed, 0, (size_t)p->n_items);
    p->needed[p->values[p->root].item] = 1;
    p->values[p->root].bears = 1;
    for (int k = p->n_items - 1; k >= 0; k--) {
        const item *t = &p->items[k];
        int bears = 0;
        for (int i = 0; i < t->n_out; i++) bears |= p->values[t->out0 + i].bears;
        for (int i = 0; i < t->n_in && p->needed[k]; i++) {
            value *v = &p->values[p->operands[t->in0 + i]];
            p->needed[v->item] = 1;
            v->bears |= bears && t->op != OP_stop_gradient &&
                        !(i == 1 && (t->op == OP_bce || t->op == OP_softmax_kl));
        }
    }
}

/* No gradients are kept of parameters (they have their own), and of concatenations: a linear op reads the
   parts of one in place. */
static void choose_kept(gen *g)
{
    plan *p = g->p;
    p->values[p->root].keep = KEEP;
    for (int v = 0; v < p->n_values; v++) {
        const int op = p->items[p->values[v].item].op, way = random_below(&g->random, 6);
        const int has_grad =
            p->values[v].bears && !p->values[v].is_param && op != OP_concat && op != OP_concat2;
        if (!p->needed[p->values[v].item]) continue;
        p->values[v].keep |= way == 0 || way == 2 ? KEEP : 0;
        p->values[v].keep |= has_grad && (way == 1 || way == 2) ? KEEP_GRAD : 0;
    }
}

static int sample_done(const gen *g, const sample *s)
{
    return s->steps <= 0 || s->n > MAX_OWN / 2 || g->p->full;
}

static void plan_make(gen *g, plan *p, const limits *l)
{
    int loss[MAX_SAMPLES], left;
    check_random r = { l->seed * 0x9e3779b97f4a7c15u };
    memset(g, 0, sizeof *g);
    p->n_items = p->n_values = p->n_operands = p->n_data = p->full = 0;
    g->p = p;
    const int more = random_below(&r, 3), all = 16 + more * random_below(&r, 24);
    const int templates = 1 + random_below(&r, 6);
    const int large = random_below(&r, 40) == 0, steps = large ? 50 + random_below(&r, 60) : 1 + 170 / all;
    p->interleaved = random_below(&r, 5) == 0;
    g->crossing = random_below(&r, 5) == 0;
    g->sharing = random_below(&r, 3) == 0;
    g->n_samples = l->first + l->samples < all ? l->samples : all - l->first;
    for (int i = 0; i < g->n_samples; i++) {
        sample *s = &g->samples[i];
        s->structure.state = l->seed * 977 + (uint64_t)(l->first + i) % (uint64_t)templates * 7919;
        s->data.state = l->seed * 31337 + (uint64_t)(l->first + i) * 104729;
        s->steps = steps < l->steps ? steps : l->steps;
    }
    g->random = r;
    g->s = &g->samples[0];
    add_globals(g);
    g->s->n = 0;
    for (int i = 0; i < g->n_samples; i++) loss[i] = -1;
    do {
        left = 0;
        for (int i = 0; i < g->n_samples; i++) {
            sample *s = g->s = &g->samples[i];
            if (loss[i] >= 0) continue;
            add_seed(g);
            for (int k = 0; !sample_done(g, s) && (k < 3 || !p->interleaved); k++, s->steps--) grow(g);
            if (sample_done(g, s)) loss[i] = sample_loss(g);
            else left = 1;
        }
    } while (left);
    p->root = total_loss(g, loss, g->n_samples);
    mark_needed(p);
    choose_kept(g);
}

static void plan_print(const plan *p)
{
    for (int k = 0; k < p->n_items; k++) {
        const item *t = &p->items[k];
        printf("%5d  %s%-16s (", k, p->needed[k] ? "" : "-", op_name[t->op]);
        for (int i = 0; i < t->n_in; i++) printf("%s%d", i ? " " : "", p->operands[t->in0 + i]);
        printf(")  %d %d %g  ->", t->i[0], t->i[1], (double)t->x);
        for (int i = 0; i < t->n_out; i++) {
            const value *v = &p->values[t->out0 + i];
            printf(" %d:[", t->out0 + i);
            for (int d = 0; d < v->shape.rank; d++) printf("%s%d", d ? " " : "", v->shape.dim[d]);
            printf("]%s%s", v->keep & KEEP ? " kept" : "", v->keep & KEEP_GRAD ? " grad" : "");
        }
        printf("\n");
    }
    printf("root %d\n", p->root);
}

/* -- running and comparing ------------------------------------------------------------------- */

enum {
    TRAIN_EAGER, TRAIN_FIRST, TRAIN_END = TRAIN_FIRST + 9,
    INFER_EAGER = TRAIN_END, INFER_FIRST, INFER_END = INFER_FIRST + 4,
    DEDUPE_EAGER = INFER_END, DEDUPE_BATCHED, DEDUPE_GROUPS, DEDUPE_INFER, DEDUPE_THREADS, REPLAY_TRAIN, REPLAY_INFER,
    THREADS_TRAIN, THREADS_INFER, CONTEXTS
};
typedef struct context { fold_ctx *f; char name[64]; const net *n; } context;
typedef struct outcome { float *values, *grads; size_t n_values, n_grads; } outcome;

typedef struct bench {
    net trained, inference;
    context contexts[CONTEXTS];
    outcome want, got, merged;
    fold_node node[MAX_VALUES];
    int nodes, run_nodes, batched_nodes, all_run, all_batched, groups, merged_groups;
    char failure[400];
} bench;

enum { MAX_FLOATS = 3000000 };
static const size_t budgets[3] = { SIZE_MAX, 0, 4096 };
static const char *const budget_names[3] = { "one group", "default groups", "tiny groups" };
static const char *const schedule_names[FOLD_SCHEDULE_COUNT] = {
#define SCHEDULE_TEXT(name, text) text,
    FOLD_SCHEDULE_LIST(SCHEDULE_TEXT)
};

static void context_new(context *c, const net *n, const char *kind, int training, int eager, int dedupe,
                        int schedule, int budget)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training; d.eager = eager; d.dedupe = dedupe;
    d.schedule = (fold_schedule)schedule;
    d.group_bytes = budgets[budget];
    c->f = fold_ctx_new(n->m, &d);
    c->n = n;
    if (eager) snprintf(c->name, sizeof c->name, "%s, eager", kind);
    else
        snprintf(c->name, sizeof c->name, "%s, %s, %s", kind, schedule_names[schedule], budget_names[budget]);
}

/* Threads without threads: the tasks in another order. Real ones are test_threads.c's. */
static void backwards(int n, fold_task *task, void *user, void *pool)
{
    ++*(long *)pool;
    while (n-- > 0) task(n, user);
}
static long parallel_calls;

static void bench_new(bench *b)
{
    context *c = b->contexts;
    net_new(&b->trained, 0);
    net_new(&b->inference, 1);
    context_new(&c[TRAIN_EAGER], &b->trained, "training", 1, 1, 0, 0, 0);
    for (int i = 0; i < 9; i++)
        context_new(&c[TRAIN_FIRST + i], &b->trained, "training", 1, 0, 0, i / 3, i % 3);
    context_new(&c[INFER_EAGER], &b->trained, "inference", 0, 1, 0, 0, 0);
    for (int i = 0; i < 3; i++) context_new(&c[INFER_FIRST + i], &b->inference, "inference", 0, 0, 0, i, i);
    context_new(&c[INFER_FIRST + 3], &b->trained, "inference, trained model", 0, 0, 0, 0, 1);
    context_new(&c[DEDUPE_EAGER], &b->trained, "dedupe", 1, 1, 1, 0, 0);
    context_new(&c[DEDUPE_BATCHED], &b->trained, "dedupe", 1, 0, 1, 0, 1);
    context_new(&c[DEDUPE_GROUPS], &b->trained, "dedupe", 1, 0, 1, 1, 2);
    context_new(&c[DEDUPE_INFER], &b->inference, "dedupe, inference", 0, 0, 1, 2, 2);
    for (int i = 0; i < 2; i++) { /* with room for some plans, not for all */
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = !i;
        d.plan_bytes = 400000;
        c[REPLAY_TRAIN + i].f = fold_ctx_new(b->trained.m, &d);
        c[REPLAY_TRAIN + i].n = &b->trained;
        snprintf(c[REPLAY_TRAIN + i].name, sizeof c->name, "%s, replayed", i ? "inference" : "training");
    }
    for (int i = 0; i < 3; i++) { /* the last with identical calls made one, and plans kept */
        fold_ctx_desc d = fold_ctx_desc_default();
        context *to = i < 2 ? &c[THREADS_TRAIN + i] : &c[DEDUPE_THREADS];
        d.training = i != 1;
        d.dedupe = i == 2;
        d.plan_bytes = i == 2 ? 400000 : 0;
        d.threads = 3;
        d.parallel_for = backwards;
        d.pool = &parallel_calls;
        d.group_bytes = budgets[2];
        to->f = fold_ctx_new(b->trained.m, &d);
        to->n = &b->trained;
        snprintf(to->name, sizeof to->name, "%s, three threads", i == 2 ? "dedupe" : i ? "inference" : "training");
    }
    outcome *o[3] = { &b->want, &b->got, &b->merged };
    for (int i = 0; i < 3; i++) {
        o[i]->values = (float *)malloc(MAX_FLOATS * sizeof(float));
        o[i]->grads = (float *)malloc(MAX_FLOATS * sizeof(float));
    }
}

static void bench_free(bench *b)
{
    outcome *o[3] = { &b->want, &b->got, &b->merged };
    for (int i = 0; i < CONTEXTS; i++) fold_ctx_free(b->contexts[i].f);
    fold_model_free(b->trained.m);
    fold_model_free(b->inference.m);
    for (int i = 0; i < 3; i++) { free(o[i]->values); free(o[i]->grads); }
}

static int fail(bench *b, const char *where, const char *format, ...) CHECK_PRINTF(3, 4);
static int fail(bench *b, const char *where, const char *format, ...)
{
    va_list args;
    const int at = snprintf(b->failure, sizeof b->failure, "%s: ", where);
    va_start(args, format);
    vsnprintf(b->failure + at, sizeof b->failure - (size_t)at, format, args);
    va_end(args);
    return 0;
}

static int collect(bench *b, const context *c, const char *what, int v, const float *x, const plan *p,
                   float *to, size_t *n)
{
    const size_t size = (size_t)size_of(p->values[v].shape);
    if (!x)
        return fail(b, c->name, "no %s of value %d (%s): %s", what, v,
                    op_name[p->items[p->values[v].item].op], fold_ctx_message(c->f));
    if (*n + size > MAX_FLOATS) return fail(b, c->name, "the graph is too large for this test");
    memcpy(to + *n, x, size * sizeof *x);
    *n += size;
    return 1;
}

/* Runs (roots in two calls at times, in inference) and collects what is kept. */
static int execute(bench *b, const context *c, const plan *p, int training, outcome *o)
{
    fold_ctx *f = c->f;
    fold_node roots[2];
    fold_ctx_reset(f);
    replay(f, c->n, p, b->node);
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].keep & KEEP) fold_keep(f, b->node[v]);
        if (training && p->values[v].keep & KEEP_GRAD) fold_keep_grad(f, b->node[v]);
    }
    roots[0] = b->node[p->n_values / 2];
    roots[1] = b->node[p->root];
    const int halves = p->needed[p->values[p->n_values / 2].item] && p->n_values % 2;
    fold_status status = FOLD_OK;
    if (training) status = fold_backward(f, roots[1]);
    else if (!halves || !(status = fold_run(f, roots, 1))) status = fold_run(f, roots + 1, 1);
    if (status) return fail(b, c->name, "%s: %s", fold_status_text(status), fold_ctx_message(f));
    o->n_values = o->n_grads = 0;
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].keep & KEEP &&
            !collect(b, c, "value", v, fold_value(f, b->node[v]), p, o->values, &o->n_values))
            return 0;
        if (training && p->values[v].keep & KEEP_GRAD &&
            !collect(b, c, "gradient", v, fold_grad(f, b->node[v]), p, o->grads, &o->n_grads))
            return 0;
    }
    if (!training) return 1;
    int count;
    const float *grads = fold_model_grads(c->n->m, &count);
    memcpy(o->grads + o->n_grads, grads, (size_t)count * sizeof *grads);
    fold_grads_clear(c->n->m);
    return 1;
}

/* The first kept value (or gradient) whose bits differ, by name. */
static int compare_kept(bench *b, const context *c, const plan *p, const float *got, const float *want,
                        int keep)
{
    size_t at = 0;
    for (int v = 0; v < p->n_values; v++) {
        if (!(p->values[v].keep & keep)) continue;
        for (int i = 0; i < size_of(p->values[v].shape); i++, at++)
            if (memcmp(got + at, want + at, sizeof *got) || !isfinite(got[at]))
                return fail(b, c->name, "%s of value %d (%s), element %d: %.9g, want %.9g",
                            keep == KEEP ? "value" : "gradient", v, op_name[p->items[p->values[v].item].op],
                            i, (double)got[at], (double)want[at]);
    }
    return 1;
}
static int compare_params(bench *b, const context *c, const float *got, const float *want)
{
    const fold_model *m = c->n->m;
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_param q = fold_param_at(m, i);
        const ptrdiff_t at = fold_param_grad(m, q) - fold_param_grad(m, fold_param_at(m, 0));
        for (int k = 0; k < size_of(fold_param_shape(m, q)); k++)
            if (memcmp(got + at + k, want + at + k, sizeof *got) || !isfinite(got[at + k]))
                return fail(b, c->name, "gradient of parameter %s, element %d: %.9g, want %.9g",
                            fold_param_name(m, q), k, (double)got[at + k], (double)want[at + k]);
    }
    return 1;
}
static int compare(bench *b, const context *c, const plan *p, int training, const outcome *want)
{
    if (!execute(b, c, p, training, &b->got)) { fold_grads_clear(b->trained.m); return 0; }
    if (!compare_kept(b, c, p, b->got.values, want->values, KEEP)) return 0;
    if (!training) return 1;
    return compare_kept(b, c, p, b->got.grads, want->grads, KEEP_GRAD) &&
           compare_params(b, c, b->got.grads + b->got.n_grads, want->grads + want->n_grads);
}

static int check_plan(bench *b, const plan *p)
{
    const context *c = b->contexts;
    if (!execute(b, &c[TRAIN_EAGER], p, 1, &b->want)) { fold_grads_clear(b->trained.m); return 0; }
    for (int i = TRAIN_FIRST; i < TRAIN_END; i++) {
        if (!compare(b, &c[i], p, 1, &b->want)) return 0;
        const fold_stats s = fold_ctx_stats(c[i].f);
        b->all_run += s.run_nodes;
        b->all_batched += s.batched_nodes;
        if (i == TRAIN_FIRST) {
            b->nodes += s.nodes;
            b->run_nodes += s.run_nodes;
            b->batched_nodes += s.batched_nodes;
        }
        if (i == TRAIN_FIRST + 2) b->groups += s.groups;
    }
    for (int i = 0; i < 3; i++) /* planned, planned and kept, replayed */
        if (!compare(b, &c[REPLAY_TRAIN], p, 1, &b->want)) return 0;
    if (!compare(b, &c[THREADS_TRAIN], p, 1, &b->want)) return 0;
    if (!execute(b, &c[DEDUPE_EAGER], p, 1, &b->merged)) { fold_grads_clear(b->trained.m); return 0; }
    if (!compare_kept(b, &c[DEDUPE_EAGER], p, b->merged.values, b->want.values, KEEP)) return 0;
    for (int i = DEDUPE_BATCHED; i <= DEDUPE_GROUPS; i++)
        if (!compare(b, &c[i], p, 1, &b->merged)) return 0;
    b->merged_groups += fold_ctx_stats(c[DEDUPE_GROUPS].f).groups;
    for (int i = 0; i < 3; i++)
        if (!compare(b, &c[DEDUPE_THREADS], p, 1, &b->merged)) return 0;
    if (!execute(b, &c[INFER_EAGER], p, 0, &b->want)) return 0;
    for (int i = INFER_FIRST; i < INFER_END; i++)
        if (!compare(b, &c[i], p, 0, &b->want)) return 0;
    for (int i = 0; i < 3; i++)
        if (!compare(b, &c[REPLAY_INFER], p, 0, &b->want)) return 0;
    if (!compare(b, &c[THREADS_INFER], p, 0, &b->want)) return 0;
    if (!compare(b, &c[DEDUPE_INFER], p, 0, &b->want)) return 0;
    return 1;
}

static gen generator;
static plan the_plan;
static bench the_bench;

static int try_limits(const limits *l)
{
    plan_make(&generator, &the_plan, l);
    return check_plan(&the_bench, &the_plan);
}

/* Halves samples and steps, then takes them one by one, as long as it still fails. */
static limits shrink(limits l)
{
    for (int smaller = 1; smaller;) {
        const int half = l.samples / 2;
        const int tries[6][3] = { /* first, samples, steps */
            { l.first, half, l.steps },
            { l.first + half, l.samples - half, l.steps },
            { l.first, l.samples, l.steps / 2 },
            { l.first, l.samples - 1, l.steps },
            { l.first + 1, l.samples - 1, l.steps },
            { l.first, l.samples, l.steps - 1 },
        };
        smaller = 0;
        for (int i = 0; i < 6 && !smaller; i++) {
            const limits t = { l.seed, tries[i][0], tries[i][1], tries[i][2] };
            if (t.samples < 1 || t.steps < 1 || (t.samples == l.samples && t.steps == l.steps)) continue;
            smaller = !try_limits(&t);
            if (smaller) l = t;
        }
    }
    try_limits(&l);
    return l;
}

static void count_ops(long *counts)
{
    for (int k = 0; k < the_plan.n_items; k++) counts[the_plan.items[k].op]++;
}

static void report(const long *counts, int graphs, double seconds)
{
    const bench *b = &the_bench;
    for (int i = 0; i < OPS; i++) {
        printf("%s%s %ld", i % 8 ? ", " : i ? "\n" : "", op_name[i], counts[i]);
        if (graphs >= 1000)
            check_that(counts[i] >= 100, __FILE__, __LINE__, "%s was used only %ld times", op_name[i],
                       counts[i]);
    }
    const double share = 100.0 * (double)b->batched_nodes / (double)b->run_nodes;
    printf("\n%d graphs, %d nodes recorded, %d run, %.1f tiny groups a graph, %.1f s\n", graphs, b->nodes,
           b->run_nodes, (double)b->groups / graphs, seconds);
    printf("%.1f %% of the nodes ran in batches larger than one (%.1f %% over all schedules and groups)\n",
           share, 100.0 * (double)b->all_batched / (double)b->all_run);
    check_that(share >= 30, __FILE__, __LINE__, "only %.1f %% of the nodes shared a batch", share);
    if (graphs >= 1000) CHECK(b->groups > 3 * graphs);
    if (graphs >= 1000) CHECK(b->merged_groups > 3 * graphs); /* though samples share nodes */
    check_that(parallel_calls > graphs, __FILE__, __LINE__, "only %ld parallel loops", parallel_calls);
    for (int i = REPLAY_TRAIN; i <= REPLAY_INFER; i++) {
        const fold_stats s = fold_ctx_stats(b->contexts[i].f);
        printf("%s: %d of %d runs\n", b->contexts[i].name, s.plan_hits, s.plan_hits + s.plan_misses);
        check_that(s.plan_hits > graphs / 2, __FILE__, __LINE__, "only %d plans were replayed", s.plan_hits);
        check_that(s.cached_bytes <= 400000, __FILE__, __LINE__, "plans take %zu bytes", s.cached_bytes);
    }
}

int main(int argc, char **argv)
{
    static long counts[OPS];
    limits l = { 1, 0, MAX_SAMPLES, 200 };
    int graphs = 2000, done = 0, list = 0;
    const clock_t start = clock();
    check_start(1, argv);
    for (int i = 1; i < argc; i++) {
        const int rest = argc - i - 1;
        if (!strcmp(argv[i], "--seed") && rest >= 1) l.seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--graphs") && rest >= 1) graphs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--steps") && rest >= 1) l.steps = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--samples") && rest >= 2) {
            l.first = atoi(argv[i + 1]);
            l.samples = atoi(argv[i + 2]);
            i += 2;
        } else if (!strcmp(argv[i], "--list")) list = 1;
    }
    bench_new(&the_bench);
    check_begin("graphs");
    CHECK_INT(fold_model_status(the_bench.trained.m), FOLD_OK);
    for (; done < graphs && !check.failures; done++, l.seed++) {
        const int fine = try_limits(&l);
        if (list) plan_print(&the_plan);
        count_ops(counts);
        if (fine) continue;
        printf("seed %llu: %s\n", (unsigned long long)l.seed, the_bench.failure);
        const limits s = shrink(l);
        plan_print(&the_plan);
        check_that(0, __FILE__, __LINE__, "--graphs 1 --seed %llu --samples %d %d --steps %d: %s",
                   (unsigned long long)s.seed, s.first, s.samples, s.steps, the_bench.failure);
    }
    if (!check.failures) report(counts, done, (double)(clock() - start) / CLOCKS_PER_SEC);
    bench_free(&the_bench);
    check_end();
    return check_finish();
}
