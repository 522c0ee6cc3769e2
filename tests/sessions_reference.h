/* sessions_reference.h - random recordings held to reference.h, node by node. Every value of a graph is kept,
   and so is its gradient. The reference of an item is given the values that the engine gave its operands, and
   the gradients that the engine gave its results; so errors do not add up, and what is wrong is named. The
   gradient of a value must be the sum of what the references of its readers give it, and that of a parameter
   the sum over its uses.

   An item has a row below, in the words of sessions_graph.h, unless an op of reference.h has its name: t is
   the tape, in and out are values on it, W and b parameters. An item that has neither is an error of the
   test. */

/* -- the reference of each item ------------------------------------------------------------------- */

#define REFERENCES(X)                                                                                        \
    X(input, out[0] = ref_input(t, shape, rows, data))                                                       \
    X(input_shaped, out[0] = ref_input(t, shape, rows, data))                                                \
    X(input_ref, out[0] = ref_input(t, shape, rows, referred))                                               \
    X(list_input, out[0] = ref_input(t, shape, rows, data))                                                  \
    X(list_input_ref, out[0] = ref_input(t, shape, rows, referred))                                          \
    X(constant, out[0] = ref_input(t, shape, rows, data))                                                    \
    X(zeros, out[0] = ref_input(t, shape, rows, NULL))                                                       \
    X(lookup, out[0] = ref_take(t, W, index, 1, 1))                                                          \
    X(list_lookup, out[0] = ref_take(t, W, index, rows, 0))                                                  \
    X(list_positions, out[0] = ref_take(t, W, in_order(t, i2, rows), rows, 0))                               \
    X(use, out[0] = ref_of(t, REF_copy, W))                                                                  \
    X(shared, out[0] = ref_of(t, REF_copy, in[0]))                                                           \
    X(seed, d->key = ref_mix(item->key); d->draws = 0)                                                       \
    X(linear, out[0] = ref_linear(t, in, count, W, b, 0))                                                    \
    X(linear_n, out[0] = ref_linear(t, in, count, W, b, 0))                                                  \
    X(linear_then, out[0] = ref_linear(t, in, count, W, b, 0))                                               \
    X(linear_t, out[0] = ref_linear(t, in, 1, W, b, 1))                                                      \
    X(conv, out[0] = conv_reference(t, in[0], W, b, i2))                                                     \
    X(max_pool, out[0] = pool_reference(t, REF_max_pool, in[0], i0))                                         \
    X(mean_pool, out[0] = pool_reference(t, REF_mean_pool, in[0], i0))                                       \
    X(rms_norm, out[0] = ref_norm_by(t, in[0], of_param(t, n, GAIN), -1, x))                                 \
    X(dropout, out[0] = dropped(t, d, in[0], x))                                                             \
    X(sum_n, out[0] = ref_of(t, REF_list_sum, ref_join(t, in, count, shape)))                                \
    X(mean_n, out[0] = ref_of(t, REF_list_mean, ref_join(t, in, count, shape)))                              \
    X(max_n, out[0] = ref_of(t, REF_list_max, ref_join(t, in, count, shape)))                                \
    X(softmax_mean_n, out[0] = softmax_mean_reference(t, in, count / 2, shape))                              \
    X(concat2, out[0] = ref_concat(t, in, 2, 0))                                                             \
    X(stack, out[0] = stack_reference(t, in, count))                                                         \
    X(unstack, parts_reference(t, in[0], shape, out, outs))                                                  \
    X(split, parts_reference(t, in[0], shape, out, outs))                                                    \
    X(call, cell_references[i0](t, n, d, in, out))                                                           \
    X(call_n, call_n_reference(t, n, d, i0, in, count, out))                                                 \
    X(call_list, cell_references[i0](t, n, d, in, out))                                                      \
    X(dense_apply, out[0] = ref_dense(t, dense_names[i0], in[0], i0))                                        \
    X(mlp_apply, out[0] = ref_mlp(t, "mlp", in[0], 2, REF_ACT_TANH))                                         \
    X(recurrent_start, put_reference(ref_zeros(t, hidden), out, outs))                                       \
    X(recurrent_step,                                                                                        \
      put_reference(step_of(i0)(t, recurrent_names[i0], in[0], state_reference(in + 1, count - 1)), out, \
                    outs))                                                                                   \
    X(unroll, put_reference(ref_unroll(t, step_of(i0), recurrent_names[i0], in, count, i1,      \
                                       ref_zeros(t, hidden), out), out + count, outs - count))               \
    X(unroll_stack, ref_stack(t, ref_lstm_step, "stack", in, count, hidden, 2, out, NULL))                      \
    X(tree_lstm_leaf, put_reference(ref_tree_leaf(t, "tree", in[0]), out, outs))                             \
    X(tree_lstm_inner, tree_reference(t, in, out))                                                           \
    X(child_sum_node, child_sum_reference(t, in, count, out))                                                \
    X(list, out[0] = ref_join(t, in, count, shape))                                                          \
    X(list_at, out[0] = ref_take(t, in[0], item->i, 1, 1))                                                   \
    X(list_stack, out[0] = ref_of(t, REF_list_unstack,                                                       \
                                  ref_along(t, REF_cumsum, ref_of(t, REF_list_stack, in[0]), 0)))            \
    X(list_take, out[0] = ref_take(t, in[0], index, rows, 0))                                                \
    X(list_sum_to, out[0] = ref_sum_to(t, REF_list_sum, in, 1, index, rows))                                 \
    X(list_mean_to, out[0] = ref_sum_to(t, REF_list_mean, in, 1, index, rows))                               \
    X(list_max_to, out[0] = ref_sum_to(t, REF_list_max, in, 1, index, rows))                                 \
    X(list_softmax_mean_to, out[0] = ref_sum_to(t, REF_list_softmax_mean, in, 2, index, rows))               \
    X(list_attention, out[0] = ref_attention(t, in, i0, i1, NULL, 0))                                        \
    X(attention_step, out[0] = ref_attention(t, in, 1 + i0 % 2, 1, NULL, 0)) /* caches are empty */          \
    X(conv_list, out[0] = over_line(t, REF_conv, in[0], W, b, i2, 0))                                        \
    X(max_pool_list, out[0] = over_line(t, REF_max_pool, in[0], -1, -1, i0, 0))                              \
    X(mean_pool_list, out[0] = over_line(t, REF_mean_pool, in[0], -1, -1, i0, 0))                            \
    X(conv1d_step, out[0] = over_line(t, REF_conv, in[0], W, b, 1, t->value[W].shape.dim[0] - 1))            \
    X(list_attention_to, out[0] = attention_to_reference(t, in, i0, index, item))                   \
    X(pick_each, out[0] = ref_pick(t, REF_pick, in[0], index, item->n_indices))                              \
    X(softmax_xent_each, out[0] = ref_pick(t, REF_softmax_xent, in[0], index, item->n_indices))              \
    X(hinge_each, out[0] = ref_pick(t, REF_hinge, in[0], index, item->n_indices))                            \
    X(output_ref, (void)in)                                                                                  \
    X(one_hot, out[0] = ref_input(t, shape, rows, NULL); t->value[out[0]].v[i0] = 1)                         \
    X(clip, out[0] = clip_reference(t, in[0], -0.5, (double)x))                                              \
    X(conv2d, out[0] = conv2d_reference(t, in[0], W))                                                        \
    X(max_pool2d, out[0] = pool2d_reference(t, REF_max_pool, in[0]))                                         \
    X(mean_pool2d, out[0] = pool2d_reference(t, REF_mean_pool, in[0]))                                       \
    X(softmax_entropy, out[0] = ref_entropy(t, in[0]))                                                       \
    X(gaussian_entropy, out[0] = ref_normal_entropy(t, in[0]))                                               \
    X(gaussian_log_prob, out[0] = ref_log_density(t, in[0], in[1], in[2]))                                   \
    X(standardize, out[0] = ref_standardize(t, in[0], in[1], in[2], (double)x))                              \
    X(list_softmax, out[0] = over_rows(t, REF_softmax, in[0]))                                               \
    X(list_log_softmax, out[0] = over_rows(t, REF_log_softmax, in[0]))                                       \
    X(list_logsumexp, out[0] = over_rows(t, REF_logsumexp, in[0]))                                           \
    X(list_softmax_entropy,                                                                                  \
      out[0] = rows_entropy(t, over_rows(t, REF_softmax, in[0]), over_rows(t, REF_log_softmax, in[0]), NULL, 0)) \
    X(list_choice_xent,                                                                                      \
      out[0] = ref_of(t, REF_neg, ref_take(t, over_rows(t, REF_log_softmax, in[0]), item->i, 1, 1)))         \
    X(list_softmax_to, out[0] = over_rows_to(t, REF_softmax, in[0], index, i1))                              \
    X(list_log_softmax_to, out[0] = over_rows_to(t, REF_log_softmax, in[0], index, i1))                      \
    X(list_logsumexp_to, out[0] = over_rows_to(t, REF_logsumexp, in[0], index, rows))                        \
    X(list_softmax_entropy_to,                                                                               \
      out[0] = rows_entropy(t, over_rows_to(t, REF_softmax, in[0], index, rows),                             \
                            over_rows_to(t, REF_log_softmax, in[0], index, rows), index, rows))              \
    X(list_choice_xent_to,                                                                                   \
      out[0] = ref_of(t, REF_neg, ref_take(t, over_rows_to(t, REF_log_softmax, in[0], index + rows, rows),   \
                                           index, rows, 0)))                                                 \
    X(unroll_list, unroll_list_reference(t, i0, i1, in[0], out, outs))                                       \
    X(unroll_stack_list, stack_list_reference(t, in[0], out))                                                   \
    X(list_standardize, out[0] = standard_reference(t, in[0], (double)x))                                    \
    X(layer_norm,                                                                                            \
      out[0] = ref_norm_by(t, in[0], of_param(t, n, ONES), of_param(t, n, OFFSET), (double)x))               \
    X(conv_apply, out[0] = conv_layer_reference(t, in[0]))                                                   \
    X(norm_apply, out[0] = ref_norm_layer(t, norm_names[i0], in[0], i0, i0 ? 0 : (double)0.01f))             \
    X(op_apply, out[0] = ref_with(t, REF_scale, in[0], 0.25 * (double)(i0 + (int)key)))                      \
    X(op_apply_whole, out[0] = decay_reference(t, in[0], in[1], shape))                                      \
    X(attention_apply, out[0] = ref_attention_layer(t, "attention", in[0], in[1], in[1], 2, i0))             \
    X(transformer_step, out[0] = block_reference(t, d, i1, in[0], 1))                                        \
    X(transformer_apply, out[0] = block_reference(t, d, i0, in[0], i1))                                      \
    X(encoder_apply, out[0] = ref_encoder(t, "encoder", 1, 2, in[0], i1, 1))

/* What a context has drawn for dropout: since its key was set, in the call that is being recorded, and in
   runs before this one, where a replay draws on. */
typedef struct draws { uint64_t key, draws, before; int training, in_call; } draws;

static int of_param(ref_tape *t, const net *n, int param)
{
    return ref_parameter(t, fold_param_name(n->m, n->param[param]));
}
/* A cell's draws begin where those of its context are, and are numbered in it. */
static int dropped(ref_tape *t, draws *d, int x, float rate)
{
    const uint64_t base =
        d->key + (d->before + d->draws - (uint64_t)d->in_call) * UINT64_C(0x9e3779b97f4a7c15);
    return d->training ? ref_dropout(t, x, (double)rate, base, d->in_call) : x;
}
static int drop_in_cell(ref_tape *t, draws *d, int x, float rate)
{
    const int y = dropped(t, d, x, rate);
    d->draws++;
    d->in_call++;
    return y;
}

/* first, first + 1, … */
static const int *in_order(ref_tape *t, int first, int n)
{
    int *number = ref_ints(t, n);
    for (int i = 0; i < n; i++) number[i] = first + i;
    return number;
}
static int conv_reference(ref_tape *t, int x, int W, int b, int stride)
{
    const int in[3] = { x, W, b }, apart = t->value[W].shape.dim[1] == 1;
    const ref_attr a = ref_attrs(0, stride, 1, 1, apart);
    return ref_apply(t, REF_conv, &a, in, b < 0 ? 2 : 3);
}
static int pool_reference(ref_tape *t, int op, int x, int padding)
{
    const ref_attr a = ref_attrs(0, 1, padding, 1, 2);
    return ref_apply(t, op, &a, &x, 1);
}
/* Windows over a list of [channels] are windows over its rows as a value. `before`: rows of zeros come first. */
static int over_line(ref_tape *t, int op, int x, int W, int b, int number, int before)
{
    static int number_of[256]; /* the tape refers to it */
    int part[256], n = 0;
    const ref_shape row = t->value[x].shape, one = ref_shape2(1, row.dim[0]);
    const int rows = t->value[x].rows, taps = W < 0 ? 2 : t->value[W].shape.dim[0];
    int padding = W < 0 ? number : before ? 0 : 1;
    for (; n < before; n++) part[n] = ref_input(t, one, REF_NODE, NULL);
    for (int i = 0; i < rows; i++) {
        number_of[i] = i;
        part[n++] = ref_reshape(t, ref_take(t, x, number_of + i, 1, 1), one);
    }
    if (n + 2 * padding < taps) return ref_join(t, NULL, 0, row);
    for (; !rows && !before && padding; padding--) /* windows of padding alone */
        for (int side = 0; side < 2; side++) part[n++] = ref_input(t, one, REF_NODE, NULL);
    const int line = ref_concat(t, part, n, 0);
    const int in[3] = { line, W, b }, apart = W >= 0 && t->value[W].shape.dim[1] == 1;
    const ref_attr a = W < 0 ? ref_attrs(0, 1, padding, 1, 2) : ref_attrs(0, before ? 1 : number, padding, 1, apart);
    const int y = ref_apply(t, op, &a, in, W < 0 ? 1 : b < 0 ? 2 : 3), count = t->value[y].shape.dim[0];
    for (int i = 0; i < count; i++) part[i] = ref_reshape(t, ref_slice(t, y, 0, i, 1), row);
    return ref_join(t, part, count, row);
}
static int softmax_mean_reference(ref_tape *t, const int *in, int n, ref_shape shape)
{
    return ref_of_two(t, REF_list_softmax_mean, ref_join(t, in, n, ref_shape1(1)), ref_join(t, in + n, n, shape));
}
static int stack_reference(ref_tape *t, const int *in, int n)
{
    int part[64];
    for (int i = 0; i < n; i++) {
        ref_shape s = t->value[in[i]].shape;
        memmove(s.dim + 1, s.dim, (size_t)s.rank++ * sizeof(int));
        s.dim[0] = 1;
        part[i] = ref_reshape(t, in[i], s);
    }
    return ref_concat(t, part, n, 0);
}
static void parts_reference(ref_tape *t, int x, ref_shape shape, int *out, int n)
{
    const int length = t->value[x].shape.dim[0] / n;
    for (int i = 0; i < n; i++) out[i] = ref_reshape(t, ref_slice(t, x, 0, i * length, length), shape);
}
static ref_state state_reference(const int *in, int n)
{
    const ref_state s = { in[0], n > 1 ? in[1] : -1 };
    return s;
}
static void put_reference(ref_state s, int *out, int n)
{
    if (n > 0) out[0] = s.h;
    if (n > 1) out[1] = s.c;
}
static void tree_reference(ref_tape *t, const int *in, int *out)
{
    const ref_state child[2] = { { in[0], in[1] }, { in[2], in[3] } };
    put_reference(ref_tree_inner(t, "tree", child, 2), out, 2);
}
static void child_sum_reference(ref_tape *t, const int *in, int n, int *out)
{
    ref_state child[16];
    for (int i = 0; i < (n - 1) / 2; i++) child[i] = state_reference(in + 1 + 2 * i, 2);
    put_reference(ref_child_sum(t, "child_sum", in[0], child, (n - 1) / 2, hidden), out, 2);
}
static const char *const dense_names[] = { "dense_linear", "dense_relu", "dense_tanh", "dense_sigmoid",
                                           "dense_gelu_tanh" };
static const char *const recurrent_names[] = { "rnn", "lstm", "gru", "relu" };
static ref_recurrent_step *step_of(int kind)
{
    static ref_recurrent_step *const steps_of[] = { ref_rnn_step, ref_lstm_step, ref_gru_step, ref_rnn_relu_step };
    return steps_of[kind];
}

/* Bodies of cells, by the formulas of sessions_code.h. */
typedef void cell_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out);
static int linear_of(ref_tape *t, const net *n, const int *in, int count, int W, int b)
{
    return ref_linear(t, in, count, of_param(t, n, W), b < 0 ? -1 : of_param(t, n, b), 0);
}
static void mix_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    const int gate = ref_of(t, REF_sigmoid, linear_of(t, n, in, 1, SQUARE, B_HIDDEN));
    const int kept = ref_of_two(t, REF_mul, of_param(t, n, GAIN), ref_of(t, REF_tanh, in[0]));
    const int open = drop_in_cell(t, d, gate, 0.25f), half = hidden / 2;
    const int dot = ref_of_two(t, REF_dot, ref_slice(t, open, 0, 0, half), ref_slice(t, open, 0, half, half));
    out[0] = ref_of_two(t, REF_add, ref_of_two(t, REF_mul, gate, in[1]), kept);
    out[1] = in[1];
    out[2] = ref_of_two(t, REF_add, in[2], dot);
}
static void windows_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    (void)n, (void)d;
    out[0] = ref_slice(t, in[0], 0, hidden, hidden);
    out[1] = out[2] = ref_of(t, REF_neg, ref_reshape(t, in[0], ref_shape2(3, hidden)));
}
static void matrices_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    (void)d;
    const int norm = ref_norm_by(t, in[0], of_param(t, n, GAIN), of_param(t, n, B_HIDDEN), 0);
    const int weight = ref_of(t, REF_softmax, ref_of_two(t, REF_matmul, norm, in[1]));
    out[0] = ref_of_two(t, REF_matmul, weight, in[0]);
    out[1] = ref_of_two(t, REF_matmul, ref_transpose(t, norm, 0, 1), weight);
}
static void nest_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    const int start = ref_of(t, REF_tanh, linear_of(t, n, in, 1, LEAVE, B_HIDDEN));
    const int inner[3] = { start, in[1], ref_along(t, REF_mean, in[0], 0) };
    int call[3];
    mix_reference(t, n, d, inner, call);
    out[0] = linear_of(t, n, call, 1, SQUARE, B_HIDDEN);
    out[1] = ref_with(t, REF_scale, call[2], 0.5);
}
static void loss_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    static int index[2];
    (void)n, (void)d;
    index[0] = output / 4;
    index[1] = output / 2;
    out[0] = ref_of_two(t, REF_add, ref_pick(t, REF_softmax_xent, in[0], index, 1),
                        ref_pick(t, REF_pick, in[0], index + 1, 1));
}
static void unused_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    const int stopped = ref_of(t, REF_stop_gradient, in[1]),
              gained = ref_of_two(t, REF_mul, in[1], of_param(t, n, GAIN));
    (void)d;
    out[0] = ref_of(t, REF_tanh, in[0]);
    out[1] = ref_linear(t, &stopped, 1, of_param(t, n, TIED), -1, 1);
    out[2] = linear_of(t, n, &gained, 1, SQUARE, -1);
}
static void list_linear_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    const int each = ref_of(t, REF_tanh, linear_of(t, n, in, 3, ENTER, B_OUTPUT));
    const int mean = ref_of(t, REF_list_mean, ref_of(t, REF_square, each));
    const int total = ref_of_two(t, REF_mul, ref_of(t, REF_list_sum, each), mean);
    (void)d;
    out[0] = linear_of(t, n, &total, 1, LEAVE, B_HIDDEN);
}
static void list_softmax_mean_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    const int x = ref_of_two(t, REF_add, in[2], in[0]);
    (void)n, (void)d;
    out[0] = ref_of_two(t, REF_list_softmax_mean, ref_of_two(t, REF_dot, in[0], in[1]), x);
    out[1] = ref_of(t, REF_list_sum, ref_slice(t, x, 0, hidden / 4, hidden / 2));
}
static void list_max_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    (void)n;
    out[0] = ref_of(t, REF_list_max, drop_in_cell(t, d, ref_of(t, REF_gelu_tanh, in[0]), 0.5f));
}
static void list_mean_reference(ref_tape *t, const net *n, draws *d, const int *in, int *out)
{
    const int both[2] = { ref_of_two(t, REF_mul, ref_of_two(t, REF_matmul, in[0], in[1]), in[2]), in[3] };
    (void)n, (void)d;
    out[0] = ref_of(t, REF_list_mean, ref_concat(t, both, 2, 0));
    out[1] = ref_along(t, REF_sum, in[0], 0);
}
/* In the order of the cells. */
static cell_reference *const cell_references[] = {
    mix_reference,    windows_reference,     matrices_reference,    nest_reference,     loss_reference,
    unused_reference, list_linear_reference, list_softmax_mean_reference, list_max_reference, list_mean_reference
};

static int clip_reference(ref_tape *t, int x, double low, double high)
{
    ref_attr a = ref_attrs(low, 0, 0, 0, 0);
    a.z = high;
    return ref_apply(t, REF_clip, &a, &x, 1);
}
static int conv2d_reference(ref_tape *t, int x, int W)
{
    const ref_attr a = ref_attrs(0, 1, 1, 2, 0);
    const int in[2] = { x, W };
    return ref_apply(t, REF_conv, &a, in, 2);
}
static int pool2d_reference(ref_tape *t, int op, int x)
{
    const ref_attr a = ref_attrs(0, 1, 1, 1, 3);
    return ref_apply(t, op, &a, &x, 1);
}
static int conv_layer_reference(ref_tape *t, int x)
{
    const int in[3] = { x, ref_parameter(t, "conv.W"), ref_parameter(t, "conv.b") };
    const ref_attr a = ref_attrs(0, 1, 1, 1, 0);
    return ref_of(t, REF_silu, ref_apply(t, REF_conv, &a, in, 3));
}
static int standard_reference(ref_tape *t, int x, double epsilon)
{
    const int mean = ref_of(t, REF_list_mean, x), apart = ref_of_two(t, REF_sub, x, mean);
    return ref_standardize(t, x, mean, ref_of(t, REF_list_mean, ref_of(t, REF_square, apart)), epsilon);
}
static int rows_apart(ref_tape *t, int x, int *row)
{
    const int n = t->value[x].rows, *at = in_order(t, 0, n);
    for (int i = 0; i < n; i++)
        row[i] = ref_take(t, x, at + i, 1, 1);
    return n;
}
static void unroll_list_reference(ref_tape *t, int kind, int reverse, int x, int *out, int outs)
{
    int row[REF_STEPS];
    const int n = rows_apart(t, x, row);
    ref_state last = ref_unroll(t, step_of(kind), recurrent_names[kind], row, n, reverse, ref_zeros(t, hidden), row);
    last.h = ref_with(t, REF_scale, last.h, 2); /* the list reads it, too */
    put_reference(last, out + 1, outs - 1);
    out[0] = ref_join(t, row, n, ref_shape1(hidden));
}
static void stack_list_reference(ref_tape *t, int x, int *out)
{
    int row[REF_STEPS];
    const int n = rows_apart(t, x, row);
    ref_stack(t, ref_lstm_step, "stack", row, n, hidden, 2, row, NULL);
    out[0] = ref_join(t, row, n, ref_shape1(2 * hidden));
}
/* An op over vectors along the rows of a list: of its values as columns. */
static int over_rows(ref_tape *t, int op, int x)
{
    const ref_shape row = t->value[x].shape;
    const int n = t->value[x].rows;
    if (!n) return ref_of(t, REF_copy, x);
    const int stacked = ref_of(t, REF_list_stack, x);
    const int columns = ref_transpose(t, ref_reshape(t, stacked, ref_shape2(n, ref_size(&row))), 0, 1);
    if (op == REF_logsumexp) return ref_reshape(t, ref_along(t, op, columns, 1), row);
    const int turned = ref_transpose(t, ref_of(t, op, columns), 0, 1);
    return ref_of(t, REF_list_unstack, ref_reshape(t, turned, t->value[stacked].shape));
}
/* The same of the edges of each of n rows; shares go back to where their edges are. */
static int over_rows_to(ref_tape *t, int op, int x, const int *to, int n)
{
    const ref_shape row = t->value[x].shape;
    const int edges = t->value[x].rows;
    int *part = ref_ints(t, n + 1), *edge = ref_ints(t, edges + 1), *place = ref_ints(t, edges + 1), parts = 0;
    for (int r = 0, at = 0; r < n; r++) {
        const int first = at;
        for (int e = 0; e < edges; e++)
            if (to[e] == r) edge[place[e] = at++] = e;
        if (at > first) part[parts++] = over_rows(t, op, ref_take(t, x, edge + first, at - first, 0));
        else if (op == REF_logsumexp) part[parts++] = ref_input(t, row, REF_NODE, NULL);
    }
    const int all = ref_join(t, part, parts, row);
    return op == REF_logsumexp ? all : ref_take(t, all, place, edges, 0);
}
static int rows_entropy(ref_tape *t, int chance, int logarithm, const int *to, int n)
{
    const int product = ref_of_two(t, REF_mul, chance, logarithm);
    return ref_of(t, REF_neg, to ? ref_sum_to(t, REF_list_sum, &product, 1, to, n) : ref_of(t, REF_list_sum, product));
}
static const char *const norm_names[] = { "norm_layer", "norm_rms", "norm_fixed" };
static int row_reference(ref_tape *t, int list, int row)
{
    int *at = ref_ints(t, 1);
    *at = row;
    return ref_take(t, list, at, 1, 1);
}
/* y[r] = x[r] + a y[r - 1] */
static int decay_reference(ref_tape *t, int x, int a, ref_shape shape)
{
    int y[MAX_LIST];
    const int n = t->value[x].rows;
    for (int r = 0; r < n; r++) {
        y[r] = row_reference(t, x, r);
        if (r) y[r] = ref_of_two(t, REF_add, y[r], ref_of_two(t, REF_mul, y[r - 1], a));
    }
    return ref_join(t, y, n, shape);
}
/* The second draws: from what attention found to the end. */
static int block_reference(ref_tape *t, draws *d, int which, int x, int causal)
{
    const uint64_t key = d->key + (d->before + d->draws) * UINT64_C(0x9e3779b97f4a7c15);
    const ref_transformer block[] = {
        { NULL, 2, REF_ACT_RELU, 0, REF_NORM_LAYER, 0, 0, 0 },
        { NULL, 2, REF_ACT_GELU, 1, REF_NORM_RMS, 0, d->training ? 0.25 : 0, key },
        { "attention", 2, REF_ACT_RELU, 1, REF_NORM_LAYER, 0, 0, 0 },
    };
    if (which == 1) d->draws += 3;
    return ref_transformer_layer(t, which == 1 ? "first" : "block", &block[which], x, causal);
}

static ref_shape to_ref(fold_shape s) { return ref_shape_of(s.rank, s.dim); }
/* The list's elements, component by component. */
static void call_n_reference(ref_tape *t, const net *n, draws *d, int cell, const int *in, int count,
                                int *out)
{
    const fold_cell_desc *c = &cells[cell].d;
    int all[FOLD_MAX_CELL_IN + FOLD_MAX_LIST], element[MAX_LIST];
    const int elements = (count - c->n_in) / c->n_list;
    for (int i = 0; i < c->n_in; i++) all[i] = in[i];
    for (int k = 0; k < c->n_list; k++) {
        for (int i = 0; i < elements; i++) element[i] = in[c->n_in + i * c->n_list + k];
        all[c->n_in + k] = ref_join(t, element, elements, to_ref(c->list[k]));
    }
    cell_references[cell](t, n, d, all, out);
}

/* The reference of an item; 0 if there is none. */
/* Of an item's edges as many count as the index tells behind them. The tape reads them later. */
static int attention_to_reference(ref_tape *t, const int *in, int heads, const int *index, const item *item)
{
    static int from_to[MAX_INDICES];
    const int edges = item->i[1], n = index[2 * edges];
    int *to = from_to + item->at_index;
    memcpy(to, index, (size_t)n * sizeof *to);
    memcpy(to + n, index + edges, (size_t)n * sizeof *to);
    return ref_attention(t, in, heads, 0, to, n);
}

static int reference_of(ref_tape *t, const net *n, const graph *g, const item *item, const memory *r,
                        draws *d, const int *in, int *out)
{
    static double data[MAX_DATA], referred[MAX_DATA];
    const value *first = &g->values[item->out0];
    const int i0 = item->i[0], i1 = item->i[1], i2 = item->i[2], outs = item->n_out, count = item->n_in;
    const int rows = outs && first->list ? first->rows : REF_NODE, floats = data_of(g, item);
    const ref_shape shape = outs ? to_ref(first->shape) : ref_shape1(1);
    const int *index = (r->refs && r->limit[item->at_index] ? r->index : g->indices) + item->at_index;
    const float x = item->x;
    const uint64_t key = item->key;
    for (int i = 0; i < floats && item->at_data + i < MAX_DATA; i++) {
        data[i] = (double)g->data[item->at_data + i];
        referred[i] = (double)r->data[item->at_data + i];
    }
    switch (item->op) {
#define W of_param(t, n, i0 % PARAMS)
#define b (i1 < 0 ? -1 : of_param(t, n, i1 % PARAMS))
#define REFERENCE(name, ...) \
    case OP_##name: __VA_ARGS__; return 1;
        REFERENCES(REFERENCE)
#undef W
#undef b
    default: break;
    }
    for (int op = 0; op < REF_OP_COUNT; op++) {
        ref_attr a = ref_attrs((double)x, i0 == FOLD_ALL ? REF_ALL : i0, i1, i2, 0);
        if (strcmp(op_name[item->op], ref_rows[op].name)) continue;
        a.shape = shape;
        a.n = item->n_indices;
        a.index = a.n ? index : NULL;
        out[0] = ref_apply(t, op, &a, in, count);
        return 1;
    }
    return 0;
}

/* -- what the engine gave, and what it should have given ------------------------------------------ */

/* One value, or a parameter behind the values: where its floats lie in the arrays below. A window has none of
   its own: it shows those of `base`, `start` on, row by row `step` apart; its gradient is theirs. */
typedef struct place_of { size_t at; int base, start, step, rows, size; } place_of;
enum { MOST_FLOATS = 2000000 };
static struct {
    fold_node node[MAX_VALUES];
    memory memory;
    place_of place[MAX_VALUES + 200];
    int n_params, merges;
    uint8_t bears[MAX_VALUES + 200]; /* has a gradient */
    uint8_t own[MAX_VALUES];         /* is no earlier value under another name */
    double value[MOST_FLOATS], grad[MOST_FLOATS];     /* as the engine has them */
    double want[MOST_FLOATS], size[MOST_FLOATS], bound[MOST_FLOATS]; /* of gradients */
    int uses[MAX_VALUES + 200], terms[MAX_VALUES + 200]; /* contributions to gradients, and their terms */
    ref_tape tape;
    draws draws[MAX_ITEMS + 1]; /* before each item */
    uint64_t drawn;         /* in one run */
    long checked, graphs;
    double worst[REF_OP_COUNT + 1][2]; /* errors, in parts of what is allowed; the last: of several ops */
    char worst_at[REF_OP_COUNT + 1][2][60];
} held;

static size_t float_at(int v, int i) /* where float i of a value lies in the arrays of gradients */
{
    const place_of *p = &held.place[v];
    return held.place[p->base].at + (size_t)(p->start + i / p->size * p->step + i % p->size);
}
static int is_window(const graph *g, const item *t)
{
    const int first =
        t->op == OP_slice && (t->i[0] == 0 || t->i[0] == -g->values[g->operands[t->in0]].shape.rank);
    return first || t->op == OP_reshape || t->op == OP_split || t->op == OP_unstack || t->op == OP_list_at ||
           t->op == OP_use || t->op == OP_shared;
}
static void place_window(const graph *g, const item *t, int o, const place_of *whole)
{
    place_of *p = &held.place[t->out0 + o];
    int start = o * p->size;
    const int row = t->n_in ? size_of(g->values[g->operands[t->in0]].shape) : 0;
    if (t->op == OP_slice) start = t->i[1] * (row / g->values[g->operands[t->in0]].shape.dim[0]);
    if (t->op == OP_list_at) start = t->i[0] * whole->step;
    p->base = whole->base;
    p->start = whole->start + start;
    p->step = whole->step;
}
static int param_place(fold_model *m, const char *name)
{
    for (int i = 0; i < held.n_params; i++)
        if (!strcmp(fold_param_name(m, fold_param_at(m, i)), name)) return MAX_VALUES + i;
    return -1;
}

/* Finds where all floats lie, reads values and gradients, and puts the parameters on the tape. 0: something
   cannot be read. */
static int read_floats(fold_ctx *f, const net *n, const graph *g, int training)
{
    static float x[16384];
    size_t at = 0;
    held.n_params = fold_param_count(n->m);
    held.tape.n_params = 0;
    for (int v = 0; v < MAX_VALUES + held.n_params; v++) {
        place_of *p = &held.place[v];
        if (v >= g->n_values && v < MAX_VALUES) continue;
        const fold_param param = v < MAX_VALUES ? n->param[0] : fold_param_at(n->m, v - MAX_VALUES);
        const fold_shape shape = v < MAX_VALUES ? g->values[v].shape : fold_param_shape(n->m, param);
        p->rows = v < MAX_VALUES ? rows_of(&g->values[v]) : 1;
        p->size = p->step = size_of(shape);
        p->at = at;
        p->base = v;
        p->start = 0;
        const size_t size = (size_t)p->rows * (size_t)p->size;
        at += size;
        if (at > MOST_FLOATS || size > 16384) return 0;
        if (v < MAX_VALUES && fold_read(f, &held.node[v], 1, x)) return 0;
        const float *from = v < MAX_VALUES ? x : fold_param_value(n->m, param);
        const float *grad = !training        ? NULL
                            : v < MAX_VALUES ? fold_grad(f, held.node[v])
                                             : fold_param_grad(n->m, param);
        for (size_t i = 0; i < size; i++) {
            held.value[p->at + i] = (double)from[i];
            held.grad[p->at + i] = grad ? (double)grad[i] : 0;
            held.want[p->at + i] = held.size[p->at + i] = held.bound[p->at + i] = 0;
        }
        held.bears[v] = grad != NULL;
        held.uses[v] = held.terms[v] = 0;
        if (v < MAX_VALUES) continue;
        const ref_param named = { fold_param_name(n->m, param), to_ref(shape), held.value + p->at, -1 };
        held.tape.param[held.tape.n_params++] = named;
    }
    return 1;
}
static int joins_first_axes(const item *t)
{
    return t->op == OP_stack || t->op == OP_concat2 || (t->op == OP_concat && t->i[0] == 0);
}
static int goes_along_rows(const item *t)
{
    return t->op == OP_conv_list || t->op == OP_max_pool_list || t->op == OP_mean_pool_list;
}
/* With dedupe stacks and concatenations of the same floats and shapes are windows of one concatenation; so are equal convolutions
   and pools over the same lists of one list. */
static int same_join(const graph *g, int a, int b)
{
    const item *s = &g->items[g->values[a].item], *t = &g->items[g->values[b].item];
    const int equal = s->op == t->op && goes_along_rows(s) && !memcmp(s->i, t->i, sizeof s->i);
    int same = held.merges && ((joins_first_axes(s) && joins_first_axes(t)) || equal) && s->n_in == t->n_in;
    for (int i = 0; i < s->n_in && same; i++) {
        const int x = g->operands[s->in0 + i], y = g->operands[t->in0 + i];
        const place_of *p = &held.place[x], *q = &held.place[y];
        same = p->base == q->base && p->start == q->start && p->step == q->step &&
               same_shape(g->values[x].shape, g->values[y].shape);
    }
    return same;
}
/* Values that are windows, or earlier values under other names: an op that does nothing, a twin. */
static void find_places(const net *n, const graph *g)
{
    for (int v = 0; v < g->n_values; v++) {
        int same = v;
        for (int before = 0; before < v && same == v; before++)
            if (!memcmp(&held.node[before], &held.node[v], sizeof *held.node) || same_join(g, before, v))
                same = before;
        held.own[v] = same == v;
        const item *t = &g->items[g->values[v].item];
        if (same < v) {
            held.place[v].base = held.place[same].base;
            held.place[v].start = held.place[same].start;
            held.place[v].step = held.place[same].step;
        } else if (t->op == OP_use) {
            place_window(g, t, 0, &held.place[param_place(n->m, fold_param_name(n->m, n->param[t->i[0]]))]);
        } else if (is_window(g, t)) {
            place_window(g, t, v - t->out0, &held.place[g->operands[t->in0]]);
        }
    }
}

/* -- comparing ------------------------------------------------------------------------------------ */

static void wrong(const graph *g, int v, const char *what, int i, double got, double want, double bound)
{
    const char *name =
        v < MAX_VALUES ? op_name[g->items[g->values[v].item].op] : held.tape.param[v - MAX_VALUES].name;
    check_that(
        0, __FILE__, __LINE__,
        "--reference 1 --seed %llu: %s of value %d, %s, element %d: %.9g, the reference has %.9g +- %.3g",
        (unsigned long long)the_session.seed, what, v, name, i, got, want, bound);
}
static int near(double got, double want, double bound)
{
    if (isnan(want) || isnan(bound)) return isnan(got) || isnan(bound);
    return fabs(got - want) <= bound || (fabs(want) > 3.4e38 && (isinf(got) || isnan(got)));
}
/* Notes the worst error of the only op that rounds, or of compositions. */
static void note(int op, int gradient, double got, double want, double bound)
{
    const double error = bound > 0 ? fabs(got - want) / bound : 0;
    if (!(error > held.worst[op][gradient])) return;
    held.worst[op][gradient] = error;
    snprintf(held.worst_at[op][gradient], sizeof *held.worst_at[op], "seed %llu",
             (unsigned long long)the_session.seed);
}
/* Whether a result is read by another call of the same item, as the outputs of an unrolled layer are: its
   gradient then is more than what the readers of the item give it. */
static int read_inside(const item *t, int o)
{
    return t->op == OP_unroll && o < t->n_in;
}
typedef struct results { const graph *g; const item *item; const int *out; } results;
static void set_gradients(ref_tape *t, const void *of)
{
    const results *r = (const results *)of;
    for (int o = 0; o < r->item->n_out; o++) {
        ref_value *y = &t->value[r->out[o]];
        const int v = r->item->out0 + o, inside = read_inside(r->item, o);
        if (!held.own[v]) continue;
        for (size_t i = 0; i < ref_count(y); i++) {
            const size_t at = held.place[v].at + i;
            const double bound = inside ? held.bound[at] : 0;
            y->g[i] += inside ? ref_moved(t, held.want[at], bound) : held.grad[at];
            y->m[i] += inside ? held.size[at] : fabs(held.grad[at]);
            y->gb[i] += bound;
        }
        y->n += inside ? held.uses[v] : 1;
        y->terms += inside ? held.terms[v] : 1;
    }
}

/* Runs the reference of an item over the engine's values. 0: there is none. */
static int refer_item(const net *n, const graph *g, int k, int *in, int *out)
{
    ref_tape *t = &held.tape;
    const item *it = &g->items[k];
    draws d = held.draws[k];
    ref_begin(t);
    for (int i = 0; i < it->n_in; i++) {
        const int v = g->operands[it->in0 + i];
        in[i] = ref_input(t, to_ref(g->values[v].shape), g->values[v].list ? g->values[v].rows : REF_NODE,
                          held.value + held.place[v].at);
    }
    if (!reference_of(t, n, g, it, &held.memory, &d, in, out)) {
        check_that(0, __FILE__, __LINE__, "no reference for item %s", op_name[it->op]);
        return 0;
    }
    if (it->op == OP_dropout) d.draws += (uint64_t)d.training;
    d.in_call = 0;
    held.draws[k + 1] = d;
    return 1;
}
static int compare_values(const graph *g, const item *it, const int *out)
{
    const ref_tape *t = &held.tape;
    const int op = ref_rounds(t);
    for (int o = 0; o < it->n_out; o++) {
        const int v = it->out0 + o;
        const ref_value *y = &t->value[out[o]];
        if (ref_count(y) != (size_t)held.place[v].rows * (size_t)held.place[v].size) {
            wrong(g, v, "size", 0, (double)ref_count(y), held.place[v].size, 0);
            return 0;
        }
        for (size_t i = 0; i < ref_count(y); i++) {
            const double got = held.value[held.place[v].at + i];
            held.checked++;
            note(op, 0, got, y->v[i], y->b[i]);
            if (near(got, y->v[i], y->b[i])) continue;
            wrong(g, v, "value", (int)i, got, y->v[i], y->b[i]);
            return 0;
        }
    }
    return 1;
}
/* Adds what an item gives to the gradients of its operands and parameters. */
static void add_gradient(int v, const ref_value *x)
{
    for (size_t i = 0; i < ref_count(x); i++) {
        const size_t at = float_at(v, (int)i);
        held.want[at] += x->g[i];
        held.size[at] += x->m[i];
        held.bound[at] += x->gb[i];
    }
    held.uses[held.place[v].base] += x->n; /* an item may be several calls, of which each contributes */
    held.terms[held.place[v].base] += x->terms;
}
static int last_op[MAX_VALUES + 200]; /* the op that gave a value all of its gradient */
static void differentiate_item(const net *n, const graph *g, const item *it, const int *in, const int *out)
{
    ref_tape *t = &held.tape;
    const results r = { g, it, out };
    ref_gradients(t, set_gradients, &r);
    for (int i = 0; i < it->n_in; i++) {
        const int v = g->operands[it->in0 + i];
        last_op[held.place[v].base] = held.uses[held.place[v].base] ? REF_OP_COUNT : ref_rounds(t);
        add_gradient(v, &t->value[in[i]]);
    }
    for (int i = 0; i < t->n_params; i++) {
        if (t->param[i].on_tape < 0) continue;
        const int v = param_place(n->m, t->param[i].name);
        last_op[v] = held.uses[v] ? REF_OP_COUNT : ref_rounds(t);
        add_gradient(v, &t->value[t->param[i].on_tape]);
    }
}
/* What is frozen, and a buffer, gets none. */
static int is_fixed(const net *n, int v)
{
    const fold_param p = fold_param_at(n->m, v - MAX_VALUES);
    return !memcmp(&p, &n->param[PIECE], sizeof p) || !memcmp(&p, &n->param[BUFFER], sizeof p);
}
static int compare_number(const graph *g, int v, int i, int op, double want, double bound)
{
    const double got = held.grad[held.place[v].at + (size_t)i];
    held.checked++;
    note(op, 1, got, want, bound);
    if (near(got, want, bound)) return 1;
    wrong(g, v, "gradient", i, got, want, bound);
    return 0;
}
static int compare_gradient(const graph *g, int v)
{
    const place_of *p = &held.place[v];
    const int uses = held.uses[p->base], terms = held.terms[p->base];
    for (int i = 0; i < p->rows * p->size; i++) {
        const size_t at = float_at(v, i);
        const double bound = held.bound[at] + (uses > 1 ? ref_bound(0, terms - 1, held.size[at]) : 0);
        if (!compare_number(g, v, i, uses == 1 ? last_op[p->base] : REF_OP_COUNT, held.want[at], bound))
            return 0;
    }
    return 1;
}
static int compare_inside(const graph *g, int v, const ref_value *y)
{
    held.uses[v] = held.terms[v] = 1;
    for (size_t i = 0; i < ref_count(y); i++) { /* windows of it show the whole, too */
        held.want[held.place[v].at + i] = y->g[i];
        held.bound[held.place[v].at + i] = y->gb[i];
        if (!compare_number(g, v, (int)i, REF_OP_COUNT, y->g[i], y->gb[i])) return 0;
    }
    return 1;
}

/* Gradients of an item's results, then what it does with them. */
static int compare_item(const net *n, const graph *g, int k, int *in, int *out)
{
    const item *it = &g->items[k];
    int bears = 0;
    if (!it->n_out || is_window(g, it)) return 1;
    if (!refer_item(n, g, k, in, out)) return 0;
    for (int o = 0; o < it->n_out; o++) {
        const int v = it->out0 + o;
        bears |= held.own[v] && held.bears[v];
        if (held.own[v] && !read_inside(it, o) && !compare_gradient(g, v)) return 0;
    }
    if (!bears || it->op == OP_stop_gradient) return 1;
    differentiate_item(n, g, it, in, out);
    for (int o = 0; o < it->n_out; o++) {
        const int v = it->out0 + o;
        if (held.own[v] && read_inside(it, o) && !compare_inside(g, v, &held.tape.value[out[o]])) return 0;
    }
    return 1;
}
/* Compares all values, from the front, and all gradients, from the back: first the sum of what the readers of
   a value gave it, then what its own item does with the gradient that the engine has. */
static int compare_graph(const net *n, const graph *g, int root, int training)
{
    int in[MAX_OWN + 2], out[64];
    find_places(n, g);
    for (int k = 0; k < g->n_items; k++) {
        const item *it = &g->items[k];
        if (!refer_item(n, g, k, in, out)) return 0;
        held.drawn += it->op == OP_seed ? 0 : held.draws[k + 1].draws - held.draws[k].draws;
        ref_bounds(&held.tape);
        if (!compare_values(g, it, out)) return 0;
    }
    if (!training) return 1;
    held.want[float_at(root, 0)] = held.size[float_at(root, 0)] = 1;
    held.uses[held.place[root].base]++;
    held.terms[held.place[root].base]++;
    for (int k = g->n_items - 1; k >= 0; k--)
        if (!compare_item(n, g, k, in, out)) return 0;
    for (int v = 0; v < g->n_values; v++) /* windows, and values under other names */
        if (held.place[v].base != v && held.bears[v] && !compare_gradient(g, v)) return 0;
    for (int v = MAX_VALUES; v < MAX_VALUES + held.n_params; v++) {
        const place_of *p = &held.place[v];
        for (int i = 0; i < p->size && is_fixed(n, v); i++)
            held.want[p->at + (size_t)i] = held.bound[p->at + (size_t)i] = 0;
        if (!compare_gradient(g, v)) return 0;
    }
    return 1;
}

/* -- a session's graphs in its contexts ----------------------------------------------------------- */

static void set_values(const net *n)
{
    check_random r = { 5 };
    for (int i = 0; i < fold_param_count(n->m); i++) {
        const fold_param p = fold_param_at(n->m, i);
        const size_t size = (size_t)size_of(fold_param_shape(n->m, p));
        random_fill(&r, fold_values_write_begin(n->m, p), size, -0.4f, 0.4f);
        fold_values_write_end(n->m, p);
    }
}
static fold_ctx *hold(const net *n, const graph *g, const setting *c, int keeps)
{
    static fold_node in[MAX_OWN];
    fold_ctx *f = new_context(n, 0, keeps ? c->home : ON_HEAP, c->training, c->dedupe, c->schedule,
                              c->group_bytes, c->plan_cache_bytes, c->threads);
    memset(&held.memory, 0, sizeof held.memory);
    held.memory.refs = c->refs;
    held.memory.training = c->training;
    for (int k = 0; k < g->n_items; k++) {
        const item *t = &g->items[k];
        for (int i = 0; i < t->n_in; i++) in[i] = held.node[g->operands[t->in0 + i]];
        play_item(f, n, g, t, in, held.node + t->out0, &held.memory);
        for (int o = 0; o < t->n_out && keeps; o++) {
            fold_keep(f, held.node[t->out0 + o]);
            if (!g->values[t->out0 + o].is_param && c->training) fold_keep_grad(f, held.node[t->out0 + o]);
        }
    }
    return f;
}
static int fine_status(fold_ctx *f, fold_status got)
{
    return check_that(!got, __FILE__, __LINE__, "--reference 1 --seed %llu: %s",
                      (unsigned long long)the_session.seed, fold_ctx_message(f));
}
/* Compares a run that is done, which found `found` in its memory, and in which dropout drew on after `before`
   draws. */
static int compare_run(fold_ctx *f, const net *n, const graph *g, const setting *c, const memory *found,
                       uint64_t before)
{
    const draws first = { 0, 0, before, c->training, 0 };
    held.memory = *found;
    held.draws[0] = first;
    held.drawn = 0;
    held.merges = c->dedupe;
    return check_that(read_floats(f, n, g, c->training), __FILE__, __LINE__,
                      "--reference 1 --seed %llu: cannot be read: %s", (unsigned long long)the_session.seed,
                      fold_ctx_message(f)) &&
           compare_graph(n, g, g->root, c->training);
}
static fold_status run_held(fold_ctx *f, const graph *g, int training)
{
    return training ? fold_backward(f, held.node[g->root]) : fold_run(f, &held.node[g->root], 1);
}
/* With everything kept: a run, and a replay with other values in memory. One that only measures has nothing
   to compare. */
static int hold_all(const net *n, const graph *g, const setting *c, float *root)
{
    static memory before;
    const int compares = turn == BATCHED || c->home == ON_HEAP;
    fold_ctx *f = hold(n, g, c, 1);
    before = held.memory;
    int fine = fine_status(f, run_held(f, g, c->training));
    if (compares) *root = fold_scalar(f, held.node[g->root]);
    fine = fine && (!compares || compare_run(f, n, g, c, &before, 0));
    fold_grads_clear(n->m);
    change(&held.memory, 7);
    before = held.memory;
    fine =
        fine && fine_status(f, fold_replay(f)) && (!compares || compare_run(f, n, g, c, &before, held.drawn));
    fold_grads_clear(n->m);
    close_context(f, 0);
    return fine;
}
/* Whether an item is made of ops that are items, too: with dedupe they may be values of the graph, whose
   gradients then are more than what their readers in the graph give. */
static int is_made_of_ops(const graph *g)
{
    static const int op[] = { OP_softmax_entropy,  OP_gaussian_entropy, OP_gaussian_log_prob, OP_standardize,
                              OP_list_standardize, OP_norm_apply,       OP_clip };
    for (int k = 0; k < g->n_items; k++)
        for (size_t i = 0; i < sizeof op / sizeof *op; i++)
            if (g->items[k].op == op[i]) return 1;
    return 0;
}
/* The same without keeping has the same bits at its root. Contexts in blocks are told first how large these
   are. */
static int hold_graph(const session *s, const graph *g, const setting *c, int eager)
{
    static net n;
    setting own = *c;
    float kept = 0, alone;
    int fine = 1;
    make_net(&n, 0, s);
    set_values(&n);
    own.home = eager ? ON_HEAP : c->home;
    own.dedupe = c->dedupe && !is_made_of_ops(g);
    turn = own.home == EAGER_IN_BLOCK ? EAGERLY : TELLING;
    if (own.home != ON_HEAP) fine = hold_all(&n, g, &own, &kept);
    turn = eager ? EAGERLY : BATCHED;
    fine = fine && hold_all(&n, g, &own, &kept);
    fold_ctx *f = hold(&n, g, &own, 0);
    fine = fine && fine_status(f, run_held(f, g, c->training));
    alone = fold_scalar(f, held.node[g->root]);
    fine = fine && check_that(!memcmp(&kept, &alone, sizeof kept) || isnan(kept), __FILE__, __LINE__,
                              "--reference 1 --seed %llu: the root is %.9g without keeping, %.9g with it",
                              (unsigned long long)s->seed, (double)alone, (double)kept);
    close_context(f, 0);
    fold_model_free(n.m);
    held.graphs++;
    return fine;
}
static void held_to_reference(void)
{
    int fine = 1;
    fading = 0; /* the reference keeps what is subnormal */
    for (int i = 0; i < options.reference && fine; i++) {
        session_make(&the_session, options.seed + (uint64_t)i);
        const session *s = &the_session;
        hidden = s->hidden;
        output = s->output;
        wide = s->wide;
        piece = s->piece;
        describe_cells();
        for (int k = 0; k < s->n_graphs && fine; k++)
            fine = hold_graph(s, &s->graph[k], &s->context[k % s->n_contexts], i % 5 == 4);
    }
    printf("%ld graphs, %ld numbers held to the reference\n", held.graphs, held.checked);
}
/* The worst seen of each op, of what its accuracy allows. */
static void report_accuracy(void)
{
    printf("%-16s units of values  worst seen            of gradients  worst seen\n", "op");
    for (int op = 0; op < REF_OP_COUNT; op++)
        printf("%-16s %15g  %4.0f %% %-14s %13g  %4.0f %% %s\n", ref_rows[op].name, ref_rows[op].units[0],
               100 * held.worst[op][0], held.worst_at[op][0], ref_rows[op].units[1], 100 * held.worst[op][1],
               held.worst_at[op][1]);
    printf("%-16s %15s  %4.0f %% %-14s %13s  %4.0f %% %s\n", "of several ops", "",
           100 * held.worst[REF_OP_COUNT][0], held.worst_at[REF_OP_COUNT][0], "",
           100 * held.worst[REF_OP_COUNT][1], held.worst_at[REF_OP_COUNT][1]);
}
