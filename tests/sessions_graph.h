/* sessions_graph.h - random recordings for test_sessions.c. A graph is a list of items, each a call of the
   API with its operands, made from a seed; it can be played into a context, or printed as C. */

/* -- the ops of a graph ------------------------------------------------------------------------------ */

/* name; the largest |x| it is given, 0: positive values; factor and term of the bound of its result */
#define UNARY(X)                                                                                             \
    X(neg, 9, 1, 0) X(exp, 2, 0, 7.5f) X(log, 0, 0, 1.5f) X(sqrt, 0, 0, 1.2f) X(square, 2, 2, 0)             \
    X(abs, 9, 1, 0) X(sigmoid, 9, 0, 1) X(tanh, 99, 0, 1) X(relu, 9, 1, 0) X(gelu_tanh, 9, 1, 0)             \
    X(softplus, 9, 1, 0.7f) X(softmax, 9, 0, 1) X(log_softmax, 9, 2, 5) X(stop_gradient, 9, 1, 0)            \
    X(gelu, 9, 1, 0) X(silu, 9, 1, 0) X(sin, 99, 0, 1) X(cos, 99, 0, 1) X(floor, 99, 1, 1)
#define BINARY(X) X(add) X(sub) X(mul) X(div) X(minimum) X(maximum)
#define REDUCE(X) X(sum) X(mean) X(amax) X(amin) X(variance) X(logsumexp) X(prod)
#define PAIR(X) X(dot) X(squared_error) X(bce) X(softmax_kl)
#define INDEXED(X) X(pick) X(softmax_xent) X(hinge)
#define LISTS(X) X(sum_n) X(mean_n) X(max_n)

/* What an item does. The words that are not C here are of the item: in and count, its operands; out and outs,
   its values; W, b, cell, layer, i0, i1, x, key, data, index, shape and rows (of a list), its attributes. Printed
   as C they are replaced. r is the memory of the context, where data (floats of them, from at_data on) and index
   (indices of them, from at_index on) have a place of their own if the recording refers to them. */
#define OTHERS(X)                                                                                            \
    X(input, out[0] = fold_input(f, data, size))                                                             \
    X(input_shaped, out[0] = fold_input_shaped(f, data, shape))                                              \
    X(input_ref, out[0] = fold_input_ref(f, place(r, at_data, data, floats), shape))                         \
    X(constant, out[0] = fold_constant(f, data[0]))                                                          \
    X(zeros, out[0] = fold_zeros(f, shape))                                                                  \
    X(one_hot, out[0] = fold_one_hot(f, i0, size))                                                           \
    X(lookup, out[0] = fold_lookup(f, W, index[0]);                                                          \
      refer(f, out[0], r, at_index, index, indices, rows_in(f, W)))                                          \
    X(use, out[0] = fold_use(f, W))                                                                          \
    X(shared, out[0] = fold_shared(f, in[0]))                                                                \
    X(seed, fold_dropout_seed(f, key))                                                                       \
    X(linear, out[0] = fold_linear(f, in[0], W, b))                                                          \
    X(linear_n, out[0] = fold_linear_n(f, in, count, W, b))                                                  \
    X(linear_then, out[0] = fold_linear_then(f, fold_linear_first(f, in[0], W, b), in[1], W))                \
    X(linear_t, out[0] = fold_linear_t(f, in[0], W, b))                                                      \
    X(matmul, out[0] = fold_matmul(f, in[0], in[1]))                                                         \
    X(conv, out[0] = conv(f, in[0], W, b, i2))                                                               \
    X(conv2d, out[0] = conv2d(f, in[0], W))                                                                  \
    X(max_pool2d, out[0] = fold_max_pool2d(f, in[0], 3, 1, 1))                                               \
    X(mean_pool2d, out[0] = fold_mean_pool2d(f, in[0], 3, 1, 1))                                             \
    X(max_pool, out[0] = fold_max_pool1d(f, in[0], 2, 1, i0))                                                \
    X(mean_pool, out[0] = fold_mean_pool1d(f, in[0], 2, 1, i0))                                              \
    X(scale, out[0] = fold_scale(f, in[0], x))                                                               \
    X(shift, out[0] = fold_shift(f, in[0], x))                                                               \
    X(leaky_relu, out[0] = fold_leaky_relu(f, in[0], x))                                                     \
    X(cumsum, out[0] = fold_cumsum(f, in[0], i0))                                                            \
    X(elu, out[0] = fold_elu(f, in[0], x))                                                                   \
    X(pow, out[0] = fold_pow(f, in[0], x))                                                                   \
    X(at_least, out[0] = fold_at_least(f, in[0], x))                                                         \
    X(at_most, out[0] = fold_at_most(f, in[0], x))                                                           \
    X(clip, out[0] = fold_clip(f, in[0], -0.5f, x))                                                          \
    X(softmax_entropy, out[0] = fold_softmax_entropy(f, in[0]))                                              \
    X(gaussian_entropy, out[0] = fold_gaussian_entropy(f, in[0]))                                            \
    X(gaussian_log_prob, out[0] = fold_gaussian_log_prob(f, in[0], in[1], in[2]))                            \
    X(standardize, out[0] = fold_standardize(f, in[0], in[1], in[2], x))                                     \
    X(layer_norm, out[0] = fold_layer_norm(f, in[0], n->param[ONES], n->param[OFFSET], x))                   \
    X(rms_norm, out[0] = fold_rms_norm(f, in[0], n->param[GAIN], x))                                         \
    X(dropout, out[0] = fold_dropout(f, in[0], x))                                                           \
    X(softmax_mean_n, out[0] = fold_softmax_mean_n(f, in, in + count / 2, count / 2))                        \
    X(concat, out[0] = fold_concat(f, in, count, i0))                                                        \
    X(concat2, out[0] = fold_concat2(f, in[0], in[1]))                                                       \
    X(stack, out[0] = fold_stack(f, in, count))                                                              \
    X(unstack, fold_unstack(f, in[0], outs, out))                                                            \
    X(slice, out[0] = fold_slice(f, in[0], i0, i1, i2))                                                      \
    X(split, fold_split(f, in[0], outs, out))                                                                \
    X(reshape, out[0] = fold_reshape(f, in[0], shape))                                                       \
    X(transpose, out[0] = fold_transpose(f, in[0], i0, i1))                                                  \
    X(select, out[0] = fold_select(f, in[0], in[1], in[2]))                                                  \
    X(huber, out[0] = fold_huber(f, in[0], in[1], x))                                                        \
    X(call, call(f, cell, in, count, out, outs))                                                             \
    X(call_n, call_n(f, cell, in, fixed, elements, out, outs))                                               \
    X(dense_apply, out[0] = fold_dense_apply(f, &n->dense[i0], in[0]))                                       \
    X(mlp_apply, out[0] = fold_mlp_apply(f, &n->mlp, in[0]))                                                 \
    X(conv_apply, out[0] = fold_conv_apply(f, &n->conv, in[0]))                                              \
    X(norm_apply, out[0] = fold_norm_apply(f, &n->norm[i0], in[0]))                                          \
    X(op_apply, out[0] = own(f, n->own[0], in[0], i0, key))                                                  \
    X(recurrent_start, put(fold_recurrent_zeros(f, layer), out, outs))                                       \
    X(recurrent_step, put(fold_recurrent_apply(f, layer, in[0], state(in + 1, count - 1)), out, outs))       \
    X(unroll, unroll(f, layer, i1, in, count, out, outs))                                                    \
    X(unroll_stack, fold_unroll_stack(f, &n->stack, in, count, NULL, out, NULL))                             \
    X(tree_lstm_leaf, put(fold_tree_lstm_apply_leaf(f, &n->tree, in[0]), out, outs))                         \
    X(tree_lstm_inner, tree_inner(f, &n->tree, in, out))                                                     \
    X(child_sum_node, child_sum(f, &n->child_sum, in, count, out))                                           \
    X(list_input, out[0] = fold_list_input(f, data, rows, shape))                                            \
    X(list_input_ref, out[0] = fold_list_input_ref(f, place(r, at_data, data, floats), rows, shape))         \
    X(list_lookup, out[0] = fold_list_lookup(f, W, index, rows);                                             \
      refer(f, out[0], r, at_index, index, rows, rows_in(f, W)))                                             \
    X(list_positions, out[0] = fold_list_positions(f, W, i2, rows))                                          \
    X(list, out[0] = fold_list_join(f, in, count))                                                           \
    X(list_join, out[0] = fold_list_join(f, in, count))                                                      \
    X(list_at, out[0] = fold_list_at(f, in[0], i0))                                                          \
    X(list_take, out[0] = fold_list_take(f, in[0], index, rows))                                             \
    X(list_stack, out[0] = fold_list_unstack(f, fold_cumsum(f, fold_list_stack(f, in[0]), 0)))               \
    X(list_unstack, out[0] = fold_list_unstack(f, in[0]))                                                    \
    X(list_sum, out[0] = fold_list_sum(f, in[0]))                                                            \
    X(list_mean, out[0] = fold_list_mean(f, in[0]))                                                          \
    X(list_max, out[0] = fold_list_max(f, in[0]))                                                            \
    X(list_softmax_mean, out[0] = fold_list_softmax_mean(f, in[0], in[1]))                                   \
    X(list_sum_to, out[0] = fold_list_sum_to(f, in[0], index, indices, rows))                                \
    X(list_mean_to, out[0] = fold_list_mean_to(f, in[0], index, indices, rows))                              \
    X(list_max_to, out[0] = fold_list_max_to(f, in[0], index, indices, rows))                                \
    X(list_softmax_mean_to, out[0] = fold_list_softmax_mean_to(f, in[0], in[1], index, indices, rows))       \
    X(list_softmax, out[0] = fold_list_softmax(f, in[0]))                                                    \
    X(list_log_softmax, out[0] = fold_list_log_softmax(f, in[0]))                                            \
    X(list_logsumexp, out[0] = fold_list_logsumexp(f, in[0]))                                                \
    X(list_softmax_entropy, out[0] = fold_list_softmax_entropy(f, in[0]))                                    \
    X(list_choice_xent, out[0] = fold_list_choice_xent(f, in[0], i0))                                        \
    X(list_softmax_to, out[0] = fold_list_softmax_to(f, in[0], index, indices, i1))                          \
    X(list_log_softmax_to, out[0] = fold_list_log_softmax_to(f, in[0], index, indices, i1))                  \
    X(list_logsumexp_to, out[0] = fold_list_logsumexp_to(f, in[0], index, indices, rows))                    \
    X(list_softmax_entropy_to, out[0] = fold_list_softmax_entropy_to(f, in[0], index, indices, rows))        \
    X(list_choice_xent_to,                                                                                   \
      out[0] = fold_list_choice_xent_to(f, in[0], index, index + rows, indices - rows, rows))                \
    X(unroll_list, unroll_list(f, layer, i1, in[0], out, outs))                                              \
    X(unroll_stack_list, out[0] = fold_unroll_stack_list(f, &n->stack, in[0], NULL, NULL))                         \
    X(list_standardize, out[0] = fold_list_standardize(f, in[0], x))                                         \
    X(attention_apply, out[0] = fold_attention_apply(f, &n->attention, in[0], in[1], in[1], i0))             \
    X(transformer_apply, out[0] = fold_transformer_apply(f, &n->block[i0], in[0], i1))                       \
    X(encoder_apply, out[0] = fold_encoder_apply(f, &n->encoder, in[0], i1))                                 \
    X(conv_list, out[0] = conv(f, in[0], W, b, i2))                                                          \
    X(max_pool_list, out[0] = fold_max_pool1d(f, in[0], 2, 1, i0))                                           \
    X(mean_pool_list, out[0] = fold_mean_pool1d(f, in[0], 2, 1, i0))                                         \
    X(conv1d_step, out[0] = conv_step(f, r, i2, in[0], W, b))                                                \
    X(attention_step, out[0] = cached(f, r, i0, NULL, in[0], in[1], in[2]))                                  \
    X(transformer_step, out[0] = cached(f, r, i0, &n->block[i1], in[0], in[0], in[0]))                       \
    X(op_apply_whole, out[0] = fold_op_apply_whole(f, n->own[1], in, count, NULL, 0, rows))                  \
    X(list_attention, out[0] = fold_list_attention(f, in[0], in[1], in[2], i0, i1))                          \
    X(list_attention_to,                                                                                     \
      out[0] = fold_list_attention_to(f, in[0], in[1], in[2], i0, index, index + i1, i1);                    \
      connect(f, out[0], r, at_index, index, i1, fold_list_length(f, in[1]), rows))                          \
    X(pick_each, out[0] = fold_pick_each(f, in[0], index, rows);                                             \
      refer(f, out[0], r, at_index, index, rows, labels_of(f, in[0])))                                       \
    X(softmax_xent_each, out[0] = fold_softmax_xent_each(f, in[0], index, rows);                             \
      refer(f, out[0], r, at_index, index, rows, labels_of(f, in[0])))                                       \
    X(hinge_each, out[0] = fold_hinge_each(f, in[0], index, rows);                                           \
      refer(f, out[0], r, at_index, index, rows, labels_of(f, in[0])))                                       \
    X(output_ref, fold_output_ref(f, in[0], r->data + i0))                                                   \
    X(call_list, call_list(f, cell, in, fixed, out, outs))

#define ONE(name, limit, factor, term) CASE(name, out[0] = fold_##name(f, in[0]))
#define TWO(name) CASE(name, out[0] = fold_##name(f, in[0], in[1]))
#define AXIS(name) CASE(name, out[0] = fold_##name(f, in[0], i0))
#define LABEL(name)                                                                                          \
    CASE(name, out[0] = fold_##name(f, in[0], index[0]);                                                     \
         refer(f, out[0], r, at_index, index, indices, labels_of(f, in[0])))
#define MANY(name) CASE(name, out[0] = fold_##name(f, in, count))
#define OTHER(name, ...) CASE(name, __VA_ARGS__)
#define STATEMENTS                                                                                           \
    UNARY(ONE) BINARY(TWO) REDUCE(AXIS) PAIR(TWO) INDEXED(LABEL) LISTS(MANY) OTHERS(OTHER)

#define CASE(name, ...) OP_##name,
enum op { STATEMENTS OPS };
#undef CASE
#define CASE(name, ...) #name,
static const char *const op_name[OPS] = { STATEMENTS };
#undef CASE
#define CASE(name, ...) #__VA_ARGS__,
static const char *const op_code[OPS] = { STATEMENTS };
#undef CASE
static const struct { float limit, factor, term; } unary_bound[] = {
#define BOUND(name, limit, factor, term) { limit, factor, term },
    UNARY(BOUND)
};

enum {
    MAX_ITEMS = 6000, MAX_VALUES = 9000, MAX_OPERANDS = 20000, MAX_DATA = 60000, MAX_SAMPLES = 40,
    MAX_OWN = 1000, MAX_LIST = 256, MAX_INDICES = 40000, MAX_JOINED = 24
};
enum { KEEP = 1, KEEP_GRAD = 2 };
/* How shrinking left an item: as it was; its values are inputs; its value is operand k (ALIAS + k). */
enum { MADE, STUBBED, ALIAS };

typedef struct item {
    int op, in0, n_in, out0, n_out, i[3], at_data, at_index, n_indices, mode;
    float x;
    uint64_t key;
} item;
/* list: 0 of a node, else a number; lists of one number have as many rows. */
typedef struct value { fold_shape shape; float bound; int item, uses, is_param, keep, list, rows; } value;
typedef struct graph {
    int n_items, n_values, n_operands, n_data, n_indices, root, n_losses, interleaved, full, outputs, caches;
    int cut;                 /* items that may be recorded, and run, before the others */
    int losses[MAX_SAMPLES]; /* scalars besides the root */
    item items[MAX_ITEMS];
    value values[MAX_VALUES];
    int operands[MAX_OPERANDS];
    float data[MAX_DATA];
    int indices[MAX_INDICES];
} graph;

static void graph_copy(graph *to, const graph *from)
{
    memcpy(to, from, offsetof(graph, items));
    memcpy(to->items, from->items, (size_t)from->n_items * sizeof *to->items);
    memcpy(to->values, from->values, (size_t)from->n_values * sizeof *to->values);
    memcpy(to->operands, from->operands, (size_t)from->n_operands * sizeof *to->operands);
    memcpy(to->data, from->data, (size_t)from->n_data * sizeof *to->data);
    memcpy(to->indices, from->indices, (size_t)from->n_indices * sizeof *to->indices);
}

/* -- playing an item ---------------------------------------------------------------------------------- */

static int size_of(fold_shape s)
{
    int n = 1;
    for (int i = 0; i < s.rank; i++)
        n *= s.dim[i];
    return n;
}

/* Rows of a value: 1 of a node. */
static int rows_of(const value *v) { return v->list ? v->rows : 1; }
static int is_call(int op) { return op == OP_call || op == OP_call_n || op == OP_call_list; }

static int floats_of(const graph *g, const item *t) /* of the first value */
{
    return t->n_out ? rows_of(&g->values[t->out0]) * size_of(g->values[t->out0].shape) : 0;
}

/* Ops with attributes have them under names of their own, so that `statement` reads like the program it
 * prints. */
static void play_item(fold_ctx *f, const net *n, const graph *g, const item *t, const fold_node *in,
                      fold_node *out, memory *r)
{
    static const fold_param none = { 0, 0 };
    const int i0 = t->i[0], i1 = t->i[1], i2 = t->i[2], outs = t->n_out, count = t->n_in,
              at = is_call(t->op) ? i0 : 0, rows = g->values[t->out0].rows, floats = floats_of(g, t),
              at_data = t->at_data, at_index = t->at_index, indices = t->n_indices;
    const fold_shape shape = g->values[t->out0].shape;
    const int size = shape.dim[0], fixed = cells[at].d.n_in,
              elements = cells[at].d.n_list ? (count - fixed) / cells[at].d.n_list : 0;
    const fold_param W = n->param[i0 < 0 ? 0 : i0 % PARAMS], b = i1 < 0 ? none : n->param[i1 % PARAMS];
    const fold_cell cell = n->cell[at];
    const fold_recurrent *layer = &n->recurrent[i0 < 0 ? 0 : i0 % RECURRENT];
    const float *data = g->data + t->at_data, x = t->x;
    const int *index = g->indices + t->at_index;
    const uint64_t key = t->key;
    switch (t->op) {
#define CASE(name, ...) \
    case OP_##name: __VA_ARGS__; break;
        STATEMENTS
#undef CASE
    }
}

/* -- making a graph ------------------------------------------------------------------------------------ */

/* Two streams of random numbers per sample: samples that share the first have one structure (so that there
   is something to batch), but for list lengths and sizes of trees, which come from the second. */
enum { BASE_LISTS = 3 };
typedef struct sample {
    check_random structure, data;
    int own[MAX_OWN], n, steps;
    int lists[BASE_LISTS]; /* numbers of lists whose rows were drawn for the sample; the first has some */
} sample;
typedef struct gen {
    graph *to;
    sample *s, samples[MAX_SAMPLES];
    check_random random;                          /* of the whole recording */
    int n_samples, globals[4], sharing, crossing; /* share values with all samples, use other samples' */
    item *last;
    int lists;                                    /* which lists may be operands of what grows */
    int outputs;                                  /* values may be written to memory */
    int flock;                                    /* the first value of the flock, if there is one */
    int no_matrices;                              /* weights may be bytes by then */
    int made;                                     /* the list that outputs of the last item are, or 0 */
    int n_lists, list_rows[MAX_VALUES], list_least[MAX_VALUES]; /* by number; least: whatever the data */
} gen;
/* No lists; one of any number, which then is the only one. */
enum { NODES = -1, ANY_LIST = 0 };

static int below(gen *g, int n) { return random_below(&g->s->structure, n); }
static int data_below(gen *g, int n) { return random_below(&g->s->data, n); }
static int same_shape(fold_shape a, fold_shape b)
{
    return a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
}
static fold_shape shape_of(const gen *g, int v) { return g->to->values[v].shape; }
static float bound_of(const gen *g, int v) { return g->to->values[v].bound; }

static int add_output(gen *g, fold_shape shape, float bound)
{
    graph *p = g->to;
    value *v = &p->values[p->n_values];
    memset(v, 0, sizeof *v);
    v->shape = shape;
    v->bound = bound;
    v->list = g->made;
    v->rows = g->made ? g->list_rows[g->made] : -1;
    v->item = p->n_items - 1;
    g->last->n_out++;
    if (g->s->n < MAX_OWN)
        g->s->own[g->s->n++] = p->n_values;
    p->full |= p->n_values > MAX_VALUES / 2;
    return p->n_values++;
}

static item *add_item(gen *g, int op, int n, const int *in)
{
    graph *p = g->to;
    item *t = &p->items[p->n_items++];
    memset(t, 0, sizeof *t);
    t->op = op;
    t->in0 = p->n_operands;
    t->n_in = n;
    t->out0 = p->n_values;
    t->i[1] = -1;
    g->made = 0;
    for (int i = 0; i < n; i++) {
        p->operands[p->n_operands++] = in[i];
        p->values[in[i]].uses++;
        g->made = p->values[in[i]].list ? p->values[in[i]].list : g->made;
    }
    p->full |= p->n_items > MAX_ITEMS / 2 || p->n_operands > MAX_OPERANDS / 2;
    return g->last = t;
}

static int emit(gen *g, int op, fold_shape shape, float bound, int n, const int *in)
{
    add_item(g, op, n, in);
    return add_output(g, shape, bound);
}
/* The same, where the result is no list of the operands' rows: another list, or a node (0). */
static int emit_as(gen *g, int op, int list, fold_shape shape, float bound, int n, const int *in)
{
    add_item(g, op, n, in);
    g->made = list;
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
    graph *p = g->to;
    g->last->at_data = p->n_data;
    for (int i = 0; i < n; i++)
        p->data[p->n_data++] =
            data_below(g, 12) ? random_float(&g->s->data, -1, 1) : special[data_below(g, 4)];
    p->full |= p->n_data > MAX_DATA / 2;
}

static int new_list(gen *g, int rows, int least)
{
    g->to->full |= g->n_lists > MAX_VALUES / 2;
    g->list_rows[++g->n_lists] = rows;
    g->list_least[g->n_lists] = least;
    return g->n_lists;
}
static int list_of(const gen *g, int v) { return g->to->values[v].list; }
static int may_have(const gen *g, int v) /* the value as an operand of what grows */
{
    return !list_of(g, v) || g->lists == ANY_LIST || g->lists == list_of(g, v);
}
static int take_operand(gen *g, int v)
{
    if (list_of(g, v))
        g->lists = list_of(g, v);
    return v;
}

static void add_indices(gen *g, int n, int end)
{
    graph *p = g->to;
    g->last->at_index = p->n_indices;
    g->last->n_indices = n;
    for (int i = 0; i < n; i++)
        p->indices[p->n_indices++] = data_below(g, end);
    p->full |= p->n_indices > MAX_INDICES / 2;
}

static int list_source(gen *g, fold_shape shape, int list)
{
    const int rows = g->list_rows[list], way = below(g, 4);
    if (way < 2 && same_shape(shape, fold_shape1(hidden))) {
        const int tied = below(g, 2), most = tied ? TIED_ROWS : 40, in_order = below(g, 4) == 0 && rows <= most;
        const int y = emit_as(g, in_order ? OP_list_positions : OP_list_lookup, list, shape, 0.3f, 0, NULL);
        g->last->i[0] = tied ? TIED : TABLE;
        if (in_order)
            g->last->i[2] = data_below(g, most - rows + 1);
        else
            add_indices(g, rows, most);
        return take_operand(g, y);
    }
    const int y = emit_as(g, way % 2 ? OP_list_input : OP_list_input_ref, list, shape, 1, 0, NULL);
    add_data(g, rows * size_of(shape));
    return take_operand(g, y);
}

static int source(gen *g, fold_shape shape)
{
    static const int table[][2] = { { TABLE, 40 }, { CUBES, 6 }, { SCALARS, 9 }, { TIED, TIED_ROWS }, { WORDS, 40 } };
    const fold_shape row[5] = { fold_shape1(hidden), fold_shape2(3, hidden), fold_shape1(1), fold_shape1(hidden),
                                fold_shape1(hidden) };
    int op = OP_input_shaped;
    if (g->lists > 0 && below(g, 2))
        return list_source(g, shape, g->lists);
    if (g->lists == ANY_LIST && !below(g, 5))
        return list_source(g, shape, g->s->lists[below(g, BASE_LISTS)]);
    for (int i = below(g, 5), end = i + 5; i < end; i++) {
        if (!same_shape(shape, row[i % 5]) || !below(g, 3))
            continue;
        const int y = emit(g, OP_lookup, shape, 0.3f, 0, NULL);
        g->last->i[0] = table[i % 5][0];
        add_indices(g, 1, table[i % 5][1]);
        return y;
    }
    switch (below(g, 6)) {
    case 5: op = shape.rank == 1 ? OP_one_hot : op; break;
    case 0: op = OP_input_ref; break;
    case 1: op = OP_zeros; break;
    case 2: op = size_of(shape) == 1 && shape.rank == 1 ? OP_constant : op; break;
    default: op = shape.rank == 1 ? OP_input : op;
    }
    const int y = emit(g, op, shape, 1, 0, NULL);
    if (op == OP_one_hot)
        g->last->i[0] = data_below(g, shape.dim[0]);
    else
        add_data(g, op == OP_zeros ? 0 : size_of(shape));
    return y;
}

static int use(gen *g, int param)
{
    const fold_shape shape = param == SQUARE   ? fold_shape2(hidden, hidden)
                             : param == MATRIX ? fold_shape2(3, hidden)
                                               : fold_shape1(hidden);
    const int y = emit(g, OP_use, shape, 0.3f, 0, NULL);
    g->last->i[0] = param;
    g->to->values[y].is_param = 1;
    return y;
}

/* Some value: mostly a recent one, or one of the sample's first (many consumers), a shared one, or another
   sample's where the recording crosses samples. */
static int any_of_all(gen *g, check_random *r)
{
    const sample *s = g->s;
    const int way = random_below(r, 100);
    if (way < 4 && g->sharing)
        return g->globals[random_below(r, 4)];
    if (way < 7 && g->crossing)
        s = &g->samples[random_below(r, g->n_samples)];
    if (!s->n)
        s = g->s;
    if (!s->n)
        return source(g, fold_shape1(hidden));
    if (way < 25)
        return s->own[random_below(r, s->n < 3 ? s->n : 3)];
    if (way < 75 && s->n > 10)
        return s->own[s->n - 1 - random_below(r, 10)];
    return s->own[random_below(r, s->n)];
}

static int any(gen *g, check_random *r) /* that may be an operand */
{
    for (int i = 0; i < 6; i++) {
        const int v = any_of_all(g, r);
        if (may_have(g, v))
            return v;
    }
    return source(g, fold_shape1(hidden));
}
static int some_operand(gen *g) { return take_operand(g, any(g, &g->s->structure)); }

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
        if (same_shape(shape_of(g, v), shape))
            return soft(g, take_operand(g, v), 4);
    }
    return source(g, shape);
}
static int of_shape(gen *g, fold_shape shape) { return of_shape_by(g, shape, &g->s->structure); }

/* n values of a shape for a list; a parameter cannot be an element, a copy can. */
static void fill_list(gen *g, fold_shape shape, int n, int *list, int step)
{
    for (int i = 0; i < n; i++) {
        int v = of_shape_by(g, shape, &g->s->data);
        if (g->to->values[v].is_param)
            v = emit_with(g, OP_scale, shape, bound_of(g, v), v, 0, 1);
        list[i * step] = v;
    }
}
static int list_length(gen *g, int least)
{
    return data_below(g, 8) ? least + data_below(g, 5) : least + data_below(g, 12);
}

static void grow_unary(gen *g, int op)
{
    int v = some_operand(g);
    v = unary_bound[op].limit > 0 ? soft(g, v, unary_bound[op].limit) : positive(g, v);
    emit(g, op, shape_of(g, v), unary_bound[op].factor * bound_of(g, v) + unary_bound[op].term, 1, &v);
}

/* A list's rows have the rank of the node beside them, with axes of 1. */
static int of_rank(gen *g, int v, int rank)
{
    fold_shape s = shape_of(g, v);
    if (!list_of(g, v) || s.rank >= rank)
        return v;
    memmove(s.dim + rank - s.rank, s.dim, (size_t)s.rank * sizeof *s.dim);
    for (int i = 0; i < rank - s.rank; i++)
        s.dim[i] = 1;
    s.rank = rank;
    return emit(g, OP_reshape, s, bound_of(g, v), 1, &v);
}

/* b: of a's shape, [1], of a's last axis or a parameter. */
static void grow_binary(gen *g, int op)
{
    int in[2];
    in[0] = soft(g, some_operand(g), 4);
    const fold_shape shape = shape_of(g, in[0]);
    const fold_shape last = fold_shape1(shape.dim[shape.rank - 1]);
    fold_shape column = shape; /* an axis of 1 repeats */
    column.dim[below(g, shape.rank)] = 1;
    switch (below(g, 6)) {
    case 0: in[1] = of_shape(g, fold_shape1(1)); break;
    case 3: in[1] = of_shape(g, column); break;
    case 1: in[1] = of_shape(g, last); break;
    case 2: in[1] = last.dim[0] == hidden ? use(g, below(g, 2) ? GAIN : BUFFER) : of_shape(g, shape); break;
    default: in[1] = of_shape(g, shape);
    }
    const float a = bound_of(g, in[0]), b = bound_of(g, in[1]);
    if (!list_of(g, in[0]))
        in[1] = of_rank(g, in[1], shape.rank);
    if (op == OP_div)
        in[1] = positive(g, in[1]);
    else if (below(g, 2)) {
        const int swap = in[0];
        in[0] = in[1];
        in[1] = swap;
    }
    emit(g, op, shape,
         op == OP_div   ? 4 * a
         : op == OP_mul ? a * b
                        : a + b,
         2, in);
}

static int grow_pair(gen *g, int op, int a)
{
    int in[2] = { soft(g, a, 4), 0 };
    const fold_shape shape = shape_of(g, in[0]);
    in[1] = of_shape(g, shape);
    if (op == OP_bce)
        in[1] = emit(g, OP_sigmoid, shape, 1, 1, &in[1]);
    if (op == OP_softmax_kl)
        in[1] = emit(g, OP_softmax, shape, 1, 1, &in[1]);
    const int y = emit(g, op, fold_shape1(1), 64.0f * (float)size_of(shape), 2, in);
    g->last->x = 0.5f;
    return y;
}

static int grow_indexed(gen *g, int op, int v)
{
    v = soft(g, v, 9);
    const int size = size_of(shape_of(g, v)), y = emit(g, op, fold_shape1(1), 20.0f * (float)size, 1, &v);
    add_indices(g, 1, size);
    return y;
}

/* One of a value's axes, or all. */
static int some_axis(gen *g, int rank)
{
    const int axis = below(g, rank + 1);
    return axis < rank ? axis : FOLD_ALL;
}

static int grow_reduce(gen *g, int op, int v, int axis)
{
    fold_shape s = shape_of(g, v);
    const float factor = op == OP_sum || op == OP_logsumexp ? (float)size_of(s) : 1;
    if (axis == FOLD_ALL || s.rank == 1) {
        s = fold_shape1(1);
    } else {
        for (int i = axis; i + 1 < s.rank; i++)
            s.dim[i] = s.dim[i + 1];
        s.rank--;
    }
    return emit_with(g, op, s, bound_of(g, v) * factor, v, axis, 0);
}

static void grow_linear(gen *g, int op)
{
    const int rest = 3 * hidden - output;
    const struct {
        int W, b, n, segment[4], out;
    } row[] = {
        { SQUARE, B_HIDDEN, 1, { hidden, 0, 0, 0 }, hidden },
        { SQUARE, -1, 2, { piece, hidden - piece, 0, 0 }, hidden },
        { ENTER, B_OUTPUT, 3, { hidden, hidden, hidden, 0 }, output },
        { ENTER, B_OUTPUT, 1, { 3 * hidden, 0, 0, 0 }, output },
        { ENTER, -1, rest > 0 ? 2 : 1, { rest > 0 ? output : 3 * hidden, rest, 0, 0 }, output },
        { LEAVE, B_HIDDEN, 1, { output, 0, 0, 0 }, hidden },
        { WIDE, B_WIDE, 1, { hidden, 0, 0, 0 }, wide },
        { PIECE, -1, 1, { hidden, 0, 0, 0 }, piece },
        { ENTER, B_OUTPUT, 4, { hidden, hidden, piece, hidden - piece }, output },
        { ENTER, B_OUTPUT, 2, { hidden, 2 * hidden, 0, 0 }, output },
        { MIXER, OFFSET, 1, { hidden, 0, 0, 0 }, hidden },
    };
    const int k = below(g, (int)(sizeof row / sizeof *row));
    const int rows = row[k].n == 1 && row[k].segment[0] == hidden && below(g, 3) == 0;
    int in[4], n = row[k].n;
    for (int i = 0; i < n; i++)
        in[i] = of_shape(g, rows ? fold_shape2(3, hidden) : fold_shape1(row[k].segment[i]));
    if ((op == OP_linear || op == OP_linear_n) && n == 2 && below(g, 8))
        op = OP_linear_then;
    if (op == OP_linear && n > 1) {
        int width = 0;
        for (int i = 0; i < n; i++)
            width += row[k].segment[i];
        in[0] = emit(g, OP_concat, fold_shape1(width), 4, n, in);
        g->last->i[0] = 0;
        n = 1;
    }
    emit(g, op, rows ? fold_shape2(3, row[k].out) : fold_shape1(row[k].out), 30, n, in);
    g->last->i[0] = row[k].W;
    g->last->i[1] = row[k].b;
}

static void grow_linear_t(gen *g)
{
    const struct {
        int W, b, out;
    } row[] = { { TURNED, B_OUTPUT, output }, { TIED, -1, TIED_ROWS }, { LEAVE, B_OUTPUT, output } };
    const int k = below(g, 3), rows = !below(g, 3);
    const int v = of_shape(g, rows ? fold_shape2(3, hidden) : fold_shape1(hidden));
    const fold_shape shape = rows ? fold_shape2(3, row[k].out) : fold_shape1(row[k].out);
    emit_with(g, OP_linear_t, shape, 10, v, row[k].W, 0);
    g->last->i[1] = row[k].b;
}

static void grow_matmul(gen *g)
{
    const fold_shape vector = fold_shape1(hidden), lines = fold_shape1(3);
    const fold_shape row[][3] = {
        { fold_shape2(3, hidden), fold_shape2(hidden, 3), fold_shape2(3, 3) },
        { vector, fold_shape2(hidden, 3), lines },
        { fold_shape2(3, hidden), vector, lines },
        { lines, fold_shape2(3, hidden), vector },
    };
    const int k = below(g, 4);
    int in[2];
    in[0] = of_shape(g, row[k][0]);
    in[1] = k == 3 && below(g, 2) && !g->no_matrices ? use(g, MATRIX) : of_shape(g, row[k][1]);
    emit(g, OP_matmul, row[k][2], 8 * bound_of(g, in[0]) * bound_of(g, in[1]), 2, in);
}

/* Lines of three: a filter with a value of padding on either side, or a pool. */
static void grow_windows(gen *g, int op)
{
    const int v = of_shape(g, fold_shape2(3, hidden)), pool = op != OP_conv;
    const int apart = below(g, 2), stride = 1 + below(g, 2), padding = below(g, 2);
    const int length = pool ? 2 + 2 * padding : (apart ? 3 : 2) / stride + 1;
    emit_with(g, op, fold_shape2(length, hidden), pool ? bound_of(g, v) : 30, v,
              pool ? padding : apart ? APART : FILTER, 0);
    g->last->i[1] = apart ? -1 : B_HIDDEN;
    g->last->i[2] = stride;
}

/* A grid of one channel: a filter that leaves height and width as they are, or a pool. */
static void grow_grid(gen *g, int op)
{
    const int x = of_shape(g, fold_shape2(3, hidden));
    const int v = emit(g, OP_reshape, fold_shape3(3, hidden, 1), bound_of(g, x), 1, &x);
    g->to->values[v].is_param = g->to->values[x].is_param;
    emit_with(g, op, fold_shape3(3, hidden, op == OP_conv2d ? 2 : 1), op == OP_conv2d ? 30 : bound_of(g, v), v, GRID, 0);
}

static void grow_entropy(gen *g, int v)
{
    fold_shape s = shape_of(g, v = soft(g, v, 9));
    s.rank -= s.rank > 1;
    if (shape_of(g, v).rank == 1)
        s = fold_shape1(1);
    emit(g, OP_softmax_entropy, s, 4, 1, &v);
}

/* x, its mean and variance, or what its deviation's logarithm is: of its shape, or of one value. */
static void grow_normal(gen *g, int op, int v)
{
    int in[3] = { soft(g, v, 4), 0, 0 };
    const fold_shape s = shape_of(g, in[0]);
    in[1] = of_shape(g, op == OP_standardize && below(g, 2) ? fold_shape1(1) : s);
    in[2] = of_shape(g, below(g, 2) ? fold_shape1(1) : s);
    in[2] = op == OP_standardize ? positive(g, in[2]) : soft(g, in[2], 1);
    for (int i = 1; i < 3 && !list_of(g, in[0]); i++)
        in[i] = of_rank(g, in[i], s.rank);
    const int y = emit(g, op, op == OP_standardize ? s : fold_shape1(1), 400.0f * (float)size_of(s), 3, in);
    g->to->values[y].bound = op == OP_standardize ? 20 : g->to->values[y].bound;
    g->last->x = op == OP_standardize && below(g, 2) ? 0.01f : 0;
}

static void grow_list(gen *g, int op)
{
    g->lists = NODES;
    const fold_shape shape = shape_of(g, any(g, &g->s->structure));
    const int weighed = op == OP_softmax_mean_n;
    int list[64];
    const int n = list_length(g, 1);
    if (weighed)
        fill_list(g, fold_shape1(1), n, list, 1);
    fill_list(g, shape, n, weighed ? list + n : list, 1);
    emit(g, op, shape, 4 * (float)(n + 1), weighed ? 2 * n : n, list);
}

static void grow_concat(gen *g, int op)
{
    int in[5];
    in[0] = soft(g, some_operand(g), 4);
    fold_shape shape = shape_of(g, in[0]);
    const int n = op == OP_concat2 ? 2 : 1 + below(g, 5), axis = op == OP_concat2 ? 0 : below(g, shape.rank);
    for (int i = 1; i < n; i++) {
        in[i] = of_shape(g, shape.rank == 1 && below(g, 2) ? fold_shape1(hidden) : shape_of(g, in[0]));
        shape.dim[axis] += shape_of(g, in[i]).dim[axis];
    }
    if (size_of(shape) > 200)
        return;
    emit(g, op, shape, 4, n, in);
    g->last->i[0] = axis;
}

static void grow_stack(gen *g)
{
    int in[4], list = 1 + below(g, 4);
    in[0] = soft(g, some_operand(g), 4);
    fold_shape shape = shape_of(g, in[0]);
    if (shape.rank > 2 || size_of(shape) > 50)
        return;
    for (int i = 1; i < list; i++)
        in[i] = of_shape(g, shape);
    for (int i = shape.rank++; i > 0; i--)
        shape.dim[i] = shape.dim[i - 1];
    shape.dim[0] = list;
    emit(g, OP_stack, shape, 4, list, in);
}

static void grow_unstack(gen *g)
{
    const int v = some_operand(g);
    fold_shape shape = shape_of(g, v);
    const int parts = shape.dim[0];
    if (parts > 8)
        return;
    if (shape.rank == 1)
        shape.dim[0] = 1;
    else
        memmove(shape.dim, shape.dim + 1, (size_t)--shape.rank * sizeof *shape.dim);
    const int y = emit(g, OP_unstack, shape, bound_of(g, v), 1, &v);
    for (int i = 1; i < parts; i++)
        add_output(g, shape, bound_of(g, v));
    for (int i = 0; i < parts; i++)
        g->to->values[y + i].is_param = g->to->values[v].is_param;
}

/* Windows and copies of parts; windows of parameters are parameters. */
static void grow_part(gen *g, int op)
{
    const int v = some_operand(g);
    fold_shape s = shape_of(g, v);
    const float bound = bound_of(g, v);
    int axis = below(g, s.rank), parts = 2 + below(g, 4), y;
    if (op == OP_slice) {
        const int length = 1 + below(g, s.dim[axis]), start = below(g, s.dim[axis] - length + 1);
        s.dim[axis] = length;
        y = emit_with(g, op, s, bound, v, axis, 0);
        g->last->i[1] = start;
        g->last->i[2] = length;
    } else if (op == OP_reshape) {
        const fold_shape to[5] = { fold_shape2(3, hidden), fold_shape2(hidden, 3), fold_shape3(2, 3, hidden / 2),
                                   fold_shape1(3 * hidden), fold_shape4(1, 3, hidden, 1) };
        const int n = size_of(s);
        s = n == 3 * hidden             ? to[below(g, 5)]
            : n % 4 == 0 && below(g, 2) ? fold_shape2(4, n / 4)
                                        : fold_shape1(n);
        axis = 0;
        y = emit(g, op, s, bound, 1, &v);
    } else if (op == OP_split) {
        while (s.dim[0] % parts)
            parts--;
        s.dim[0] /= parts;
        axis = 0;
        y = emit(g, op, s, bound, 1, &v);
        for (int i = 1; i < parts; i++)
            add_output(g, s, bound);
    } else {
        const int other = below(g, s.rank), d = s.dim[axis];
        s.dim[axis] = s.dim[other];
        s.dim[other] = d;
        emit_with(g, op, s, bound, v, axis, 0);
        g->last->i[1] = other;
        return;
    }
    for (int i = 0; i < g->last->n_out; i++)
        g->to->values[y + i].is_param = g->to->values[v].is_param && axis == 0;
}

static void grow_call(gen *g, int list)
{
    int c = below(g, CELLS), in[64], n = 0;
    while (!cells[c].d.n_list != !list)
        c = (c + 1) % CELLS;
    g->lists = list ? NODES : g->lists;
    for (; n < cells[c].d.n_in; n++)
        in[n] = soft(g, of_shape(g, cells[c].d.in[n]), 3);
    const int count = list ? list_length(g, c == LIST_MAX ? 1 : 0) : 0, width = cells[c].d.n_list;
    for (int k = 0; k < width; k++)
        fill_list(g, cells[c].d.list[k], count, in + n + k, width);
    add_item(g, list ? OP_call_n : OP_call, n + count * width, in);
    g->last->i[0] = c;
    for (int i = 0; i < cells[c].d.n_out; i++) { /* what depends on no list is none */
        g->made = 0;
        for (int k = 0; k < n && !list; k++)
            g->made = cells[c].needs[i] >> k & 1 && list_of(g, in[k]) ? list_of(g, in[k]) : g->made;
        add_output(g, cells[c].out[i], cells[c].bound);
    }
}

/* What a layer gives stays below 1, but for one of relu. */
static float recurrent_bound(int kind) { return kind == RELU ? 99 : 1; }

/* A state is the value h; c is the next value. */
static int emit_state(gen *g, int op, int kind, float c_bound, int has_c, int n, const int *in)
{
    const fold_shape shape = fold_shape1(hidden);
    const int h = emit(g, op, shape, recurrent_bound(kind), n, in);
    g->last->i[0] = kind;
    if (has_c)
        add_output(g, shape, c_bound);
    return h;
}

static void grow_chain(gen *g)
{
    const int kind = below(g, RECURRENT), length = 1 + data_below(g, 6), has_c = kind == LSTM;
    int in[3] = { 0, emit_state(g, OP_recurrent_start, kind, 0, has_c, 0, NULL), 0 };
    for (int i = 0; i < length; i++) {
        in[0] = of_shape_by(g, fold_shape1(hidden), &g->s->data);
        in[2] = in[1] + 1;
        in[1] = emit_state(g, OP_recurrent_step, kind, (float)(i + 1), has_c, has_c ? 3 : 2, in);
    }
}

/* A layer over a whole sequence: its outputs, and for fold_unroll the last state. */
static void grow_unroll(gen *g, int op)
{
    const int kind = below(g, RECURRENT), length = 1 + data_below(g, 6), stacked = op == OP_unroll_stack;
    const fold_shape shape = fold_shape1(stacked ? 2 * hidden : hidden);
    int in[8] = { 0 };
    for (int i = 0; i < length; i++)
        in[i] = of_shape_by(g, fold_shape1(hidden), &g->s->data);
    add_item(g, op, length, in);
    const int reverse = below(g, 2), list = g->made;
    g->last->i[0] = kind;
    g->last->i[1] = reverse;
    for (int i = 0; i < length; i++) { /* an output is a list from the first one among the inputs on */
        int seen = stacked && list;
        for (int k = reverse ? i : 0; k < (reverse ? length : i + 1); k++)
            seen |= list_of(g, in[k]) != 0;
        g->made = seen ? list : 0;
        add_output(g, shape, stacked ? 1 : recurrent_bound(kind));
    }
    if (stacked)
        return;
    g->made = list;
    add_output(g, shape, recurrent_bound(kind));
    if (kind == LSTM)
        add_output(g, shape, (float)length);
}

static void grow_tree(gen *g) /* a random binary tree: neighbours merge until one is left */
{
    int h[8], n = 1 + data_below(g, 7);
    for (int i = 0; i < n; i++) {
        const int x = of_shape_by(g, fold_shape1(hidden), &g->s->data);
        h[i] = emit_state(g, OP_tree_lstm_leaf, 0, 1, 1, 1, &x);
    }
    for (; n > 1; n--) {
        const int k = data_below(g, n - 1), in[4] = { h[k], h[k] + 1, h[k + 1], h[k + 1] + 1 };
        h[k] = emit_state(g, OP_tree_lstm_inner, 0, bound_of(g, in[1]) + bound_of(g, in[3]) + 1, 1, 4, in);
        memmove(h + k + 1, h + k + 2, (size_t)(n - k - 2) * sizeof *h);
    }
}

static void grow_bush(gen *g) /* nodes with any number of children */
{
    int h[8], parent[8];
    const int n = 1 + data_below(g, 8);
    g->lists = NODES; /* children are elements of a list */
    for (int i = 0; i < n; i++)
        parent[i] = i ? data_below(g, i) : -1;
    for (int i = n - 1; i >= 0; i--) {
        int in[17], count = 1;
        float c = 1;
        in[0] = of_shape_by(g, fold_shape1(hidden), &g->s->data);
        for (int k = i + 1; k < n; k++) {
            if (parent[k] != i)
                continue;
            in[count++] = h[k];
            in[count++] = h[k] + 1;
            c += bound_of(g, h[k] + 1);
        }
        h[i] = emit_state(g, OP_child_sum_node, 0, c, 1, count, in);
    }
}

static void grow_dense(gen *g, int op)
{
    const int x = of_shape(g, fold_shape1(hidden));
    emit_with(g, op, fold_shape1(hidden), 20, x, below(g, 5), 0);
}

/* A list of a shape: of one number, or of any (ANY_LIST). */
static int some_list(gen *g, fold_shape shape, int list)
{
    g->lists = list;
    for (int i = 0; i < 12; i++) {
        const int v = any(g, &g->s->structure);
        if (list_of(g, v) && same_shape(shape_of(g, v), shape))
            return soft(g, take_operand(g, v), 4);
    }
    return list_source(g, shape, list == ANY_LIST ? g->s->lists[below(g, BASE_LISTS)] : list);
}

/* A shape of rows: that of a list that is there, or another. */
static fold_shape row_shape(gen *g)
{
    const fold_shape shape[3] = { fold_shape1(hidden), fold_shape2(3, hidden), fold_shape1(1) };
    const int way = below(g, 6);
    g->lists = ANY_LIST;
    const fold_shape found = shape_of(g, any(g, &g->s->structure));
    return way < 3 ? shape[way] : found;
}

/* Lists and nodes end to end; x is the first of them. */
static int join(gen *g, int x, int more)
{
    const fold_shape shape = shape_of(g, x);
    int in[4] = { x, 0, 0, 0 }, n = 1, rows = list_of(g, x) ? rows_of(&g->to->values[x]) : 1;
    float bound = bound_of(g, x);
    for (; n <= more; n++) {
        g->lists = n == more ? NODES : ANY_LIST;
        in[n] = of_shape(g, shape);
        rows += rows_of(&g->to->values[in[n]]);
        bound = bound_of(g, in[n]) > bound ? bound_of(g, in[n]) : bound;
    }
    if (rows > MAX_JOINED)
        return list_source(g, shape, g->s->lists[0]);
    return emit_as(g, OP_list_join, new_list(g, rows, 1), shape, bound, n, in);
}
static int not_empty(gen *g, int x) { return g->list_least[list_of(g, x)] ? x : join(g, x, 1); }

static void grow_list_of_nodes(gen *g)
{
    const fold_shape shape = row_shape(g);
    int in[8];
    const int n = 1 + data_below(g, 5);
    g->lists = NODES;
    fill_list(g, shape, n, in, 1);
    emit_as(g, OP_list, new_list(g, n, 1), shape, 4, n, in);
}

static void grow_at_or_take(gen *g, int op, int x)
{
    if (op == OP_list_at) {
        x = not_empty(g, x);
        emit_as(g, op, 0, shape_of(g, x), bound_of(g, x), 1, &x);
        g->last->i[0] = data_below(g, g->to->values[x].rows);
        return;
    }
    const int rows = g->to->values[x].rows, n = rows ? data_below(g, 8) : 0;
    emit_as(g, op, new_list(g, n, 0), shape_of(g, x), bound_of(g, x), 1, &x);
    add_indices(g, n, rows);
}

static void grow_stacked(gen *g, int x)
{
    x = not_empty(g, x);
    if (shape_of(g, x).rank < FOLD_MAX_RANK)
        emit(g, OP_list_stack, shape_of(g, x), bound_of(g, x) * ((float)g->to->values[x].rows + 1), 1, &x);
}
static void grow_unstacked(gen *g)
{
    g->lists = NODES;
    const int x = some_operand(g), rows = shape_of(g, x).dim[0];
    fold_shape row = fold_shape1(1);
    for (int i = 1; i < shape_of(g, x).rank; i++)
        row.dim[(row.rank = i) - 1] = shape_of(g, x).dim[i];
    if (rows <= MAX_JOINED)
        emit_as(g, OP_list_unstack, new_list(g, rows, 1), row, bound_of(g, x), 1, &x);
}

/* Scores of one head, or of two where they divide the values of x. */
static int some_scores(gen *g, int x)
{
    const int heads = size_of(shape_of(g, x)) % 2 ? 1 : 1 + below(g, 2);
    return some_list(g, fold_shape1(heads), list_of(g, x));
}

static void grow_rows_reduced(gen *g, int op, int x)
{
    int in[2] = { op == OP_list_max ? not_empty(g, x) : x, 0 };
    const float rows = op == OP_list_sum ? (float)g->to->values[x].rows + 1 : 1;
    if (op != OP_list_softmax_mean) {
        emit_as(g, op, 0, shape_of(g, in[0]), bound_of(g, in[0]) * rows, 1, in);
        return;
    }
    in[1] = x;
    in[0] = some_scores(g, x);
    emit_as(g, op, 0, shape_of(g, x), bound_of(g, x), 2, in);
}

static void grow_to(gen *g, int op, int x)
{
    const int weighed = op == OP_list_softmax_mean_to, rows = g->to->values[x].rows, n = (rows > 0) + data_below(g, 6);
    int in[2] = { weighed ? some_scores(g, x) : x, x };
    const float factor = op == OP_list_sum_to ? (float)rows + 1 : 1;
    emit_as(g, op, new_list(g, n, 0), shape_of(g, x), bound_of(g, x) * factor, 1 + weighed, in);
    add_indices(g, rows, n);
}

/* The final state is a node. */
static void grow_unroll_list(gen *g, int op)
{
    const int x = some_list(g, fold_shape1(hidden), ANY_LIST), kind = below(g, RECURRENT), stacked = op == OP_unroll_stack_list;
    emit_as(g, op, list_of(g, x), fold_shape1(stacked ? 2 * hidden : hidden), stacked ? 1 : recurrent_bound(kind), 1, &x);
    g->last->i[0] = kind;
    g->last->i[1] = below(g, 2);
    g->made = 0;
    if (!stacked)
        add_output(g, fold_shape1(hidden), 2 * recurrent_bound(kind));
    if (!stacked && kind == LSTM)
        add_output(g, fold_shape1(hidden), 50);
}

/* A choice among rows, or among the edges of each of n rows. */
static void grow_choice(gen *g, int op, int x)
{
    const int to = op >= OP_list_softmax_to, one = op == OP_list_logsumexp || op == OP_list_softmax_entropy || op == OP_list_choice_xent;
    const int shares = op == OP_list_softmax_to || op == OP_list_log_softmax_to;
    if (shape_of(g, x).rank == FOLD_MAX_RANK)
        return;
    x = soft(g, op == OP_list_logsumexp || op == OP_list_choice_xent ? not_empty(g, x) : x, 9);
    const int rows = g->to->values[x].rows, n = (rows > 0) + data_below(g, 6);
    if (!to || shares) {
        emit_as(g, op, one ? 0 : list_of(g, x), shape_of(g, x), 40, 1, &x);
        g->last->i[0] = op == OP_list_choice_xent ? data_below(g, rows) : 0;
        g->last->i[1] = n;
        if (to)
            add_indices(g, rows, n);
        return;
    }
    const int chosen = op == OP_list_choice_xent_to, least = n < rows ? n : rows;
    emit_as(g, op, new_list(g, chosen ? least : n, 0), shape_of(g, x), 40, 1, &x);
    add_indices(g, chosen ? rows + least : rows, chosen ? least : n);
    int *label = g->to->indices + g->last->at_index, *edge = label + least;
    for (int i = 0; i < least && chosen; i++)
        edge[label[i] = rows - 1 - i] = i; /* each has an edge */
}

static void grow_attention(gen *g)
{
    const int heads = 1 + below(g, 2), narrow = heads == 1 && below(g, 2), self = !below(g, 3);
    int in[3];
    in[1] = some_list(g, fold_shape1(hidden), ANY_LIST);
    in[2] = some_list(g, fold_shape1(narrow ? piece : hidden), list_of(g, in[1]));
    g->lists = below(g, 2) ? ANY_LIST : NODES;
    in[0] = self ? in[1] : of_shape(g, fold_shape1(hidden));
    emit_as(g, OP_list_attention, list_of(g, in[0]), shape_of(g, in[2]), bound_of(g, in[2]), 3, in);
    g->last->i[0] = heads;
    g->last->i[1] = below(g, 2);
}

static void grow_attention_to(gen *g)
{
    int in[3];
    in[1] = some_list(g, fold_shape1(hidden), ANY_LIST);
    in[2] = some_list(g, fold_shape1(hidden), list_of(g, in[1]));
    g->lists = ANY_LIST;
    in[0] = some_list(g, fold_shape1(hidden), ANY_LIST);
    const int queries = g->to->values[in[0]].rows, keys = g->to->values[in[1]].rows;
    const int edges = queries && keys ? data_below(g, 24) : 0;
    emit_as(g, OP_list_attention_to, list_of(g, in[0]), shape_of(g, in[2]), bound_of(g, in[2]), 3, in);
    g->last->i[0] = 1 + below(g, 2);
    g->last->i[1] = edges;
    add_indices(g, edges, keys);
    const int from = g->last->at_index;
    add_indices(g, edges, queries);
    add_indices(g, 1, 1);
    g->to->indices[from + 2 * edges] = edges;
    g->last->at_index = from;
    g->last->n_indices = 2 * edges + 1;
}

static void grow_layer(gen *g, int op)
{
    int in[2];
    in[1] = some_list(g, fold_shape1(hidden), ANY_LIST);
    if (op == OP_transformer_apply || op == OP_encoder_apply) {
        emit_as(g, op, list_of(g, in[1]), fold_shape1(hidden), 20, 1, in + 1);
        g->last->i[0] = below(g, 3);
        g->last->i[1] = below(g, 2);
        return;
    }
    g->lists = below(g, 2) ? ANY_LIST : NODES;
    in[0] = op == OP_op_apply_whole ? in[1] : of_shape(g, fold_shape1(hidden));
    if (op == OP_op_apply_whole) {
        g->lists = NODES;
        in[1] = of_shape(g, fold_shape1(1));
        in[1] = soft(g, in[1], 1);
    }
    emit_as(g, op, list_of(g, in[0]), fold_shape1(hidden), 20, 2, in);
    g->last->i[0] = below(g, 2);
}

/* A filter or a pool over a list, or a step of a sequence by a filter, which gives a row for each. */
static void grow_list_windows(gen *g, int op)
{
    const int v = some_list(g, fold_shape1(hidden), ANY_LIST), pool = op == OP_max_pool_list || op == OP_mean_pool_list;
    const int apart = below(g, 2), stride = 1 + below(g, 2), padding = pool ? below(g, 2) : 1, rows = g->to->values[v].rows;
    const int left = rows + 2 * padding - (pool || apart ? 2 : 3);
    const int windows = left >= 0 ? left / (pool ? 1 : stride) + 1 : 0;
    if (op == OP_conv1d_step && g->to->caches == 16)
        return;
    const int list = op == OP_conv1d_step ? list_of(g, v) : new_list(g, windows, 0);
    const int y = emit_as(g, op, list, fold_shape1(hidden), pool ? bound_of(g, v) : 30, 1, &v);
    g->last->i[0] = pool ? padding : apart ? APART : FILTER;
    g->last->i[1] = apart ? -1 : B_HIDDEN;
    g->last->i[2] = stride;
    if (op == OP_conv1d_step) {
        g->to->values[y].keep |= KEEP;
        g->last->i[2] = g->to->caches++;
    }
}

/* A step of a sequence: each has a cache of its own. */
static void grow_step(gen *g, int op)
{
    int in[3];
    if (g->to->caches == 16)
        return;
    in[0] = some_list(g, fold_shape1(hidden), ANY_LIST);
    in[1] = below(g, 2) ? in[0] : some_list(g, fold_shape1(hidden), list_of(g, in[0]));
    in[2] = some_list(g, fold_shape1(hidden), list_of(g, in[0]));
    const int y = emit_as(g, op, list_of(g, in[0]), fold_shape1(hidden), 20, op == OP_attention_step ? 3 : 1, in);
    g->to->values[y].keep |= KEEP;
    g->last->i[0] = g->to->caches++;
    g->last->i[1] = below(g, 3);
}

static void grow_row_indexed(gen *g, int op, int x)
{
    const int size = size_of(shape_of(g, x));
    if (op != OP_pick_each && shape_of(g, x).rank > 1)
        return;
    x = soft(g, x, 9);
    emit(g, op, fold_shape1(1), 20.0f * (float)size, 1, &x);
    add_indices(g, g->to->values[x].rows, size);
}

/* A cell's list as whole lists. */
static void grow_call_list(gen *g)
{
    int c = below(g, CELLS), in[FOLD_MAX_CELL_IN + FOLD_MAX_LIST], n = 0;
    while (!cells[c].d.n_list)
        c = (c + 1) % CELLS;
    g->lists = NODES;
    for (; n < cells[c].d.n_in; n++)
        in[n] = soft(g, of_shape(g, cells[c].d.in[n]), 3);
    for (int k = 0; k < cells[c].d.n_list; k++) {
        in[n] = some_list(g, cells[c].d.list[k], k ? list_of(g, in[n - 1]) : ANY_LIST);
        in[n] = c == LIST_MAX ? not_empty(g, in[n]) : in[n];
        n++;
    }
    for (int i = 0; i < cells[c].d.n_out; i++)
        if (i) add_output(g, cells[c].out[i], cells[c].bound);
        else emit_as(g, OP_call_list, 0, cells[c].out[0], cells[c].bound, n, in);
    g->last->i[0] = c;
}

/* A state that goes from one run to the next: some value is written to what a new input reads. */
static void grow_output(gen *g)
{
    g->lists = NODES;
    const int x = of_shape(g, below(g, 2) ? fold_shape1(hidden) : fold_shape2(3, hidden));
    const int before = emit(g, OP_input_ref, shape_of(g, x), 1, 0, NULL);
    add_data(g, size_of(shape_of(g, x)));
    const int at = g->last->at_data, pair[2] = { soft(g, x, 4), before };
    int y = emit(g, OP_add, shape_of(g, x), 5, 2, pair);
    y = emit(g, OP_tanh, shape_of(g, x), 1, 1, &y);
    add_item(g, OP_output_ref, 1, &y)->i[0] = at;
    g->to->outputs++;
}

static void grow_lists(gen *g, int op)
{
    const int finds = op == OP_list || op == OP_list_attention || op == OP_list_attention_to || op == OP_call_list ||
                      op == OP_attention_apply || op == OP_transformer_apply || op == OP_encoder_apply || op == OP_op_apply_whole ||
                      op == OP_attention_step || op == OP_transformer_step || op == OP_conv_list || op == OP_conv1d_step ||
                      op == OP_max_pool_list || op == OP_mean_pool_list || op == OP_list_unstack ||
                      op == OP_unroll_list || op == OP_unroll_stack_list;
    const int x = finds ? 0 : some_list(g, row_shape(g), ANY_LIST);
    switch (op) {
    case OP_list: grow_list_of_nodes(g); break;
    case OP_list_join: join(g, x, 1 + below(g, 3)); break;
    case OP_list_at:
    case OP_list_take: grow_at_or_take(g, op, x); break;
    case OP_list_stack: grow_stacked(g, x); break;
    case OP_list_unstack: grow_unstacked(g); break;
    case OP_list_sum:
    case OP_list_mean:
    case OP_list_max:
    case OP_list_softmax_mean: grow_rows_reduced(g, op, x); break;
    case OP_list_sum_to:
    case OP_list_mean_to:
    case OP_list_max_to:
    case OP_list_softmax_mean_to: grow_to(g, op, x); break;
    case OP_list_softmax:
    case OP_list_log_softmax:
    case OP_list_logsumexp:
    case OP_list_softmax_entropy:
    case OP_list_choice_xent:
    case OP_list_softmax_to:
    case OP_list_log_softmax_to:
    case OP_list_logsumexp_to:
    case OP_list_softmax_entropy_to:
    case OP_list_choice_xent_to: grow_choice(g, op, x); break;
    case OP_unroll_list:
    case OP_unroll_stack_list: grow_unroll_list(g, op); break;
    case OP_list_standardize:
        emit_with(g, op, shape_of(g, x), 9, x, 0, below(g, 2) ? 0.0f : 0.01f);
        break;
    case OP_attention_step:
    case OP_transformer_step: grow_step(g, op); break;
    case OP_conv_list:
    case OP_max_pool_list:
    case OP_mean_pool_list:
    case OP_conv1d_step: grow_list_windows(g, op); break;
    case OP_attention_apply:
    case OP_transformer_apply:
    case OP_encoder_apply:
    case OP_op_apply_whole: grow_layer(g, op); break;
    case OP_list_attention: grow_attention(g); break;
    case OP_list_attention_to: grow_attention_to(g); break;
    case OP_pick_each:
    case OP_softmax_xent_each:
    case OP_hinge_each: grow_row_indexed(g, op, x); break;
    case OP_call_list: grow_call_list(g); break;
    default: break; /* sources appear where they are needed */
    }
}

static void grow(gen *g)
{
    const int op = below(g, OPS);
    if (op == OP_output_ref) {
        if (g->outputs)
            grow_output(g);
        return;
    }
    if (op >= OP_list_input) {
        grow_lists(g, op);
        return;
    }
    g->lists = below(g, 2) ? ANY_LIST : NODES;
    const int v = some_operand(g);
    const fold_shape s = shape_of(g, v);
    int in[3] = { v, 0, 0 };
    if (op < OP_add) {
        grow_unary(g, op);
        return;
    }
    if (op < OP_sum) {
        grow_binary(g, op);
        return;
    }
    switch (op) {
    case OP_sum:
    case OP_mean:
    case OP_amax:
    case OP_amin: grow_reduce(g, op, v, some_axis(g, s.rank)); break;
    case OP_variance:
    case OP_logsumexp:
    case OP_prod: grow_reduce(g, op, soft(g, v, 1), some_axis(g, s.rank)); break;
    case OP_cumsum: emit_with(g, op, s, bound_of(g, v) * (float)size_of(s), v, below(g, s.rank), 0); break;
    case OP_softmax_xent:
    case OP_hinge:
        if (s.rank == 1)
            grow_indexed(g, op, v);
        break;
    case OP_pick: grow_indexed(g, op, v); break;
    case OP_softmax_kl:
        if (s.rank == 1)
            grow_pair(g, op, v);
        break;
    case OP_dot:
    case OP_squared_error:
    case OP_bce:
    case OP_huber: grow_pair(g, op, v); break;
    case OP_linear:
    case OP_linear_n: grow_linear(g, op); break;
    case OP_linear_t: grow_linear_t(g); break;
    case OP_matmul: grow_matmul(g); break;
    case OP_conv:
    case OP_max_pool:
    case OP_mean_pool: grow_windows(g, op); break;
    case OP_conv2d:
    case OP_max_pool2d:
    case OP_mean_pool2d: grow_grid(g, op); break;
    case OP_scale: emit_with(g, op, s, bound_of(g, v), v, 0, random_float(&g->s->data, -1, 1)); break;
    case OP_shift: emit_with(g, op, s, bound_of(g, v) + 1, v, 0, random_float(&g->s->data, -1, 1)); break;
    case OP_leaky_relu: emit_with(g, op, s, bound_of(g, v), v, 0, below(g, 2) ? 0.1f : 0.3f); break;
    case OP_elu: emit_with(g, op, s, bound_of(g, v) + 1, v, 0, below(g, 2) ? 1.0f : 0.5f); break;
    case OP_pow: emit_with(g, op, s, 4, soft(g, v, 2), 0, below(g, 2) ? 2.0f : 1.0f); break;
    case OP_at_least:
    case OP_at_most: emit_with(g, op, s, bound_of(g, v) + 1, v, 0, below(g, 2) ? 0.0f : 0.5f); break;
    case OP_clip: emit_with(g, op, s, bound_of(g, v) + 1, v, 0, below(g, 2) ? 0.0f : 0.5f); break;
    case OP_softmax_entropy: grow_entropy(g, v); break;
    case OP_gaussian_entropy: emit(g, op, fold_shape1(1), (bound_of(g, v) + 2) * (float)size_of(s), 1, in); break;
    case OP_gaussian_log_prob:
    case OP_standardize: grow_normal(g, op, v); break;
    case OP_conv_apply:
        in[0] = of_shape(g, fold_shape2(3, hidden));
        emit(g, op, shape_of(g, in[0]), 30, 1, in);
        break;
    case OP_norm_apply:
        in[0] = of_shape(g, below(g, 2) ? fold_shape1(hidden) : fold_shape2(3, hidden));
        emit_with(g, op, shape_of(g, in[0]), 9, in[0], below(g, 3), 0);
        break;
    case OP_op_apply:
        emit_with(g, op, s, bound_of(g, v) * 2, v, below(g, 3), 0);
        g->last->key = (uint64_t)data_below(g, 5);
        break;
    case OP_dropout: emit_with(g, op, s, bound_of(g, v) * 2, v, 0, below(g, 2) ? 0.5f : 0.1f); break;
    case OP_layer_norm:
        in[0] = of_shape(g, below(g, 2) ? fold_shape1(hidden) : fold_shape2(3, hidden));
        emit_with(g, op, shape_of(g, in[0]), 2, in[0], 0, below(g, 2) ? 0.0f : 0.01f);
        break;
    case OP_rms_norm:
        in[0] = of_shape(g, below(g, 2) ? fold_shape1(hidden) : fold_shape2(3, hidden));
        emit_with(g, op, shape_of(g, in[0]), 2, in[0], 0, below(g, 2) ? 0.0f : 0.01f);
        break;
    case OP_select:
        in[1] = of_shape(g, s);
        in[2] = of_shape(g, s);
        emit(g, op, s, 4, 3, in);
        break;
    case OP_sum_n:
    case OP_mean_n:
    case OP_max_n:
    case OP_softmax_mean_n: grow_list(g, op); break;
    case OP_concat:
    case OP_concat2: grow_concat(g, op); break;
    case OP_slice:
    case OP_split:
    case OP_reshape:
    case OP_transpose: grow_part(g, op); break;
    case OP_call:
    case OP_call_n: grow_call(g, op == OP_call_n); break;
    case OP_dense_apply:
    case OP_mlp_apply: grow_dense(g, op); break;
    case OP_recurrent_start: grow_chain(g); break;
    case OP_unroll:
    case OP_unroll_stack: grow_unroll(g, op); break;
    case OP_stack: grow_stack(g); break;
    case OP_unstack: grow_unstack(g); break;
    case OP_tree_lstm_leaf: grow_tree(g); break;
    case OP_child_sum_node: grow_bush(g); break;
    default: break; /* sources appear where they are needed */
    }
}

static int rows_to_one(gen *g, int v)
{
    const int op = below(g, 2) ? OP_list_sum : OP_list_mean;
    return emit_as(g, op, 0, shape_of(g, v), bound_of(g, v) * ((float)g->to->values[v].rows + 1), 1, &v);
}

/* One scalar that depends on v. */
static int to_scalar(gen *g, int v)
{
    static const int ways[] = { OP_sum, OP_mean, OP_amax,         OP_dot,   OP_squared_error, OP_huber,
                                OP_bce, OP_pick, OP_softmax_xent, OP_hinge, OP_softmax_kl };
    const int way = ways[below(g, shape_of(g, v).rank == 1 ? 11 : 8)], first = below(g, 2);
    if (list_of(g, v) && first)
        v = rows_to_one(g, v);
    g->lists = list_of(g, v) ? list_of(g, v) : NODES;
    switch (way) {
    case OP_sum:
    case OP_mean:
    case OP_amax: v = grow_reduce(g, way, v, FOLD_ALL); break;
    case OP_pick:
    case OP_softmax_xent:
    case OP_hinge: v = grow_indexed(g, way, v); break;
    default: v = grow_pair(g, way, v);
    }
    return list_of(g, v) ? rows_to_one(g, v) : v;
}

/* A sample's loss: most values that nothing uses yet, each made a scalar, summed or averaged. */
static int sample_loss(gen *g)
{
    int list[MAX_OWN + 1], n = 0;
    for (int i = 0, end = g->s->n; i < end; i++)
        if (!g->to->values[g->s->own[i]].uses && below(g, 10))
            list[n++] = to_scalar(g, g->s->own[i]);
    for (int i = 0; i < n; i++)
        if (bound_of(g, list[i]) > 20)
            list[i] = soft(g, list[i], 20);
    g->lists = NODES;
    if (!n)
        list[n++] = source(g, fold_shape1(1));
    const int y = emit(g, below(g, 2) ? OP_sum_n : OP_mean_n, fold_shape1(1), 20.0f * (float)n, n, list);
    return data_below(g, 3) ? soft(g, y, 20) : y;
}

/* Calls a cell with the rows of a list, their means where it takes scalars, and node `beside` in place of one operand if there is
   one; a layer where no cell drawn takes and gives such rows. Returns what comes first. */
static int flock_call(gen *g, int x, int beside)
{
    for (int c = below(g, CELLS), tries = beside < 0 ? 1 : CELLS; tries > 0; tries--, c = (c + 1) % CELLS) {
        const int n = cells[c].d.n_in, at = beside < 0 ? -1 : below(g, n + 1);
        int in[FOLD_MAX_CELL_IN], rows = 0, fits = !cells[c].d.n_list && same_shape(cells[c].out[0], shape_of(g, x));
        for (int k = 0; k < n; k++) {
            fits &= same_shape(cells[c].d.in[k], shape_of(g, x)) || (k != at && same_shape(cells[c].d.in[k], fold_shape1(1)));
            rows |= (k != at) << k;
        }
        if (!fits || !(cells[c].needs[0] & rows))
            continue;
        for (int k = 0; k < n; k++) {
            in[k] = k == at ? beside : x;
            in[k] = same_shape(cells[c].d.in[k], shape_of(g, x)) ? in[k] : grow_reduce(g, OP_mean, x, FOLD_ALL);
        }
        const int first = g->to->n_values;
        add_item(g, OP_call, n, in);
        g->last->i[0] = c;
        for (int i = 0; i < cells[c].d.n_out; i++) {
            g->made = cells[c].needs[i] & rows ? list_of(g, x) : 0;
            add_output(g, cells[c].out[i], cells[c].bound);
        }
        return first;
    }
    return emit_with(g, OP_dense_apply, shape_of(g, x), 20, x, below(g, 5), 0);
}

/* Steps of a flock. Those from TIMES_NODE on keep it from running some rows at a time, some of them only in backward: a product
   with a node, or with one of the rows; a cell with a node beside the rows; a part of the rows' values; a gradient that is kept;
   rows of a trained table, which come first; a softmax over the list, which comes last. */
enum { CALLED, SQUARED, TIMES_NODE, TIMES_ROW, BESIDE, PART, KEPT_WHOLE, LOOKED_UP, WHOLE, FLOCK_STEPS };
static int flock_step(gen *g, int x, int way)
{
    const int half = hidden / 2, list = list_of(g, x);
    int two[2] = { x, x };
    g->lists = NODES;
    switch (way) {
    case TIMES_NODE:
    case BESIDE: two[1] = below(g, 3) ? source(g, fold_shape1(hidden)) : g->globals[below(g, 2) * 3]; break;
    case TIMES_ROW:
        two[1] = emit_as(g, OP_list_at, 0, shape_of(g, x), bound_of(g, x), 1, &x);
        g->last->i[0] = data_below(g, g->list_rows[list]);
        break;
    case PART:
        two[0] = emit_with(g, OP_slice, fold_shape1(half), bound_of(g, x), x, 0, 0);
        g->last->i[1] = below(g, half + 1);
        g->last->i[2] = half;
        two[1] = list_source(g, fold_shape1(hidden - half), list);
        return emit(g, OP_concat2, fold_shape1(hidden), bound_of(g, x) + 1, 2, two);
    default: break;
    }
    const int product = way == SQUARED || way == TIMES_NODE || way == TIMES_ROW;
    const int y = product ? emit(g, OP_mul, shape_of(g, x), bound_of(g, x) * bound_of(g, two[1]), 2, two)
                          : flock_call(g, x, way == BESIDE ? two[1] : -1);
    g->to->values[y].keep |= way == KEPT_WHOLE ? KEEP_GRAD : 0;
    return y;
}

/* The loss of a flock: a sample of one list, or of two recorded in turns, whose rows go through cells and layers, each row on its
   own. So it can run some rows at a time, unless a step forbids it. */
static int flock_loss(gen *g)
{
    const int lists = 1 + !below(g, 4), steps = lists + below(g, 4 * lists), odd = below(g, 2) ? below(g, steps) : -1;
    const int way = TIMES_NODE + below(g, FLOCK_STEPS - TIMES_NODE);
    int x[2];
    for (int k = 0; k < lists; k++) {
        const int least = odd >= 0 && way == TIMES_ROW, rows = below(g, 4) ? least + data_below(g, 9 - least) : 3 + data_below(g, 20);
        const int list = new_list(g, rows, least);
        if (odd >= 0 && way == LOOKED_UP) {
            x[k] = list_source(g, fold_shape1(hidden), list);
            continue;
        }
        x[k] = emit_as(g, below(g, 2) ? OP_list_input : OP_list_input_ref, list, fold_shape1(hidden), 1, 0, NULL);
        add_data(g, rows * hidden);
    }
    for (int step = 0; step < steps; step++) {
        const int k = step % lists;
        x[k] = soft(g, flock_step(g, x[k], step == odd ? way : below(g, 3) ? CALLED : SQUARED), 3);
    }
    for (int k = 0; k < lists; k++) {
        x[k] = grow_reduce(g, OP_mean, x[k], FOLD_ALL);
        if (odd >= 0 && way == WHOLE) {
            x[k] = emit(g, OP_list_softmax, fold_shape1(1), 1, 1, &x[k]);
            x[k] = emit(g, OP_square, fold_shape1(1), 1, 1, &x[k]);
        }
        x[k] = rows_to_one(g, x[k]);
    }
    return lists == 1 ? x[0] : emit(g, OP_add, fold_shape1(1), bound_of(g, x[0]) + bound_of(g, x[1]), 2, x);
}

/* The root: sums, means and weighted combinations of the losses, with a regulariser at times, or a function
   of all of them that cannot be cut into groups. */
static int total_loss(gen *g, int *loss, int n)
{
    const fold_shape one = fold_shape1(1);
    const int way = data_below(g, 6);
    g->lists = NODES;
    int in[2 * MAX_SAMPLES], root;
    for (int i = 0; i < n; i++) {
        if (way == 2 || way == 3)
            loss[i] = emit_with(g, OP_scale, one, bound_of(g, loss[i]), loss[i], 0,
                                random_float(&g->s->data, 0, 1));
        in[i] = in[n + i] = loss[i];
    }
    switch (way) {
    case 0:
    case 3: return emit(g, OP_sum_n, one, 99, n, in);
    case 1: return emit(g, OP_mean_n, one, 99, n, in);
    case 2:
    case 4:
        root = loss[0];
        for (int i = 1; i < n; i++) {
            const int pair[2] = { root, loss[i] };
            root = emit(g, OP_add, one, 99, 2, pair);
        }
        if (way == 4) {
            int decay = use(g, g->no_matrices ? GAIN : data_below(g, 2) ? SQUARE : MATRIX);
            decay = emit(g, OP_square, shape_of(g, decay), 1, 1, &decay);
            in[0] = root;
            in[1] = emit_with(g, OP_scale, one, 1, grow_reduce(g, OP_sum, decay, FOLD_ALL), 0, 0.01f);
            root = emit(g, OP_add, one, 99, 2, in);
        }
        return root;
    default: return emit(g, OP_softmax_mean_n, one, 99, 2 * n, in);
    }
}

static void add_seed(gen *g) { add_item(g, OP_seed, 0, NULL)->key = random_bits(&g->s->data); }

/* Values shared by all samples: half of them of something trained, half plain inputs. */
static void add_globals(gen *g)
{
    const fold_shape shape[4] = { fold_shape1(hidden), fold_shape2(3, hidden), fold_shape1(1),
                                  fold_shape1(hidden) };
    g->lists = NODES;
    for (int i = 0; i < 4; i++) {
        int x = use(g, i == 1 && !g->no_matrices ? MATRIX : GAIN);
        x = i % 3 ? source(g, shape[i]) : emit(g, OP_tanh, shape[i], 1, 1, &x);
        g->globals[i] = emit(g, OP_shared, shape[i], 1, 1, &x);
    }
}

/* Crossing values aside, any value may be kept: those of parameters too. Gradients only of what is no
   parameter: these have their own, and those of a flock say so themselves. */
static void choose_kept(gen *g)
{
    graph *p = g->to;
    for (int v = 0; v < p->n_values; v++) {
        const int way = random_below(&g->random, 12);
        if (p->values[v].is_param)
            continue;
        p->values[v].keep |= way == 0 || way == 2 ? KEEP : 0;
        p->values[v].keep |= v < g->flock && (way == 1 || way == 2) ? KEEP_GRAD : 0;
    }
}

/* A recording that begins with an op over nothing: whatever it reads is not there yet. */
static void begin_empty(gen *g)
{
    const int way = below(g, 4), n = below(g, 3), none = new_list(g, 0, 0);
    const fold_shape shape = below(g, 2) ? fold_shape1(hidden) : fold_shape2(3, hidden);
    int x[2];
    x[0] = x[1] = list_source(g, shape, none);
    switch (way) {
    case 0: emit_as(g, OP_list_take, new_list(g, 0, 0), shape, 1, 1, x); break;
    case 1: emit_as(g, below(g, 2) ? OP_list_sum_to : OP_list_max_to, new_list(g, n, 0), shape, 1, 1, x); break;
    case 2: emit_as(g, below(g, 2) ? OP_list_sum : OP_list_mean, 0, shape, 1, 1, x); break;
    default: emit(g, OP_add, shape, 2, 2, x); break;
    }
}

static int sample_done(const gen *g, const sample *s)
{
    return s->steps <= 0 || s->n > MAX_OWN / 2 || g->to->full;
}

/* How many samples and steps of each; what they are, and their values. flocks: of so many more samples; 0: now and then of one. */
typedef struct limits {
    int samples, steps, flocks;
    uint64_t structure, data;
} limits;

static void start_samples(gen *g, const limits *l, check_random *r)
{
    const int templates = 1 + random_below(r, 6);
    memset(g->globals, 0, sizeof g->globals);
    g->to->interleaved = random_below(r, 5) == 0;
    g->crossing = random_below(r, 5) == 0;
    g->sharing = random_below(r, 3) == 0;
    g->outputs = random_below(r, 3) == 0;
    g->n_samples = l->samples;
    for (int i = 0; i < g->n_samples; i++) {
        sample *s = &g->samples[i];
        s->n = 0;
        s->structure.state = l->structure * 977 + (uint64_t)i % (uint64_t)templates * 7919;
        s->data.state = l->data * 31337 + (uint64_t)i * 104729;
        s->steps = l->steps;
        for (int k = 0; k < BASE_LISTS; k++)
            s->lists[k] = new_list(g, !k + random_below(&s->data, 6), !k);
    }
}

static void graph_make(gen *g, graph *p, const limits *l)
{
    int loss[MAX_SAMPLES], left, done = 0;
    check_random r = { l->structure * 0x9e3779b97f4a7c15u }, chance = { l->structure * 977 + 3 };
    p->n_items = p->n_values = p->n_operands = p->n_data = p->n_indices = p->full = p->n_losses = p->cut = p->outputs = p->caches = 0;
    g->to = p;
    g->n_lists = 0;
    g->flock = MAX_VALUES;
    const int chosen = l->samples < MAX_SAMPLES && !random_below(&chance, 4), flocks = l->flocks ? l->flocks : chosen;
    limits with = *l;
    with.samples += flocks;
    start_samples(g, &with, &r);
    g->random = r;
    g->s = &g->samples[0];
    if (!below(g, 4))
        begin_empty(g);
    const int begun = g->s->n; /* of the first sample; what is shared is not */
    add_globals(g);
    g->s->n = begun;
    for (int i = 0; i < g->n_samples; i++)
        loss[i] = -1;
    do {
        left = 0;
        for (int i = 0; i < g->n_samples; i++) {
            sample *s = g->s = &g->samples[i];
            if (loss[i] >= 0)
                continue;
            const int flock = i >= g->n_samples - flocks; /* the last ones */
            add_seed(g);
            for (int k = 0; !flock && !sample_done(g, s) && (k < 3 || !p->interleaved); k++, s->steps--)
                grow(g);
            if (!flock && !sample_done(g, s)) {
                left = 1;
                continue;
            }
            g->flock = flock && p->n_values < g->flock ? p->n_values : g->flock;
            p->losses[p->n_losses++] = loss[i] = flock ? flock_loss(g) : sample_loss(g);
            if (++done == g->n_samples / 2)
                p->cut = p->n_items;
        }
    } while (left);
    p->root = total_loss(g, loss, g->n_samples);
    choose_kept(g);
}
