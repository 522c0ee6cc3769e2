/* sessions_code.h - what the sessions of test_sessions.c are made of: the model, the bodies of its cells, and
   the calls that a session makes. Each piece is compiled here and kept as text, so that a session can be
   printed as a program of its own, which does the same to the letter. */

#define CODE(name, ...)                              \
    static const char name##_code[] = #__VA_ARGS__; \
    __VA_ARGS__

/* A session is done in turns: by eager contexts, and by others; between them by some that tell the rest how large
   their blocks must be. */
CODE(turn,
enum turn { EAGERLY, TELLING, BATCHED };
static enum turn turn;
)

/* The test and a printed program have their own: the first notes n values, or compares them; the second notes
   whether a call succeeded; the third names a file. */
static void look(const char *what, int at, const float *x, size_t n);
static void status(fold_status got, const char *message);
static const char *path(void);

/* -- the model: parameters, cells and layers -------------------------------------------------------- */

static int hidden = 8, output = 20, wide = 70, piece = 5; /* sizes of this session */
static int fading; /* products of its weights are subnormal, and flushed to zero */
enum { LINES = 3, TABLE_ROWS = 40, CUBE_ROWS = 6, SCALAR_ROWS = 9, TIED_ROWS = 30 };

/* name; what makes it */
#define PARAM_LIST(X)                                                                                        \
    X(SQUARE, new_param(n, SQUARE, "square", fold_shape2(hidden, hidden), FOLD_FOR_LINEAR, 0, 0))            \
    X(ENTER, new_param(n, ENTER, "enter", fold_shape2(3 * hidden, output), FOLD_FOR_LINEAR, 0, 1))           \
    X(LEAVE, new_param(n, LEAVE, "leave", fold_shape2(output, hidden),                                       \
                       FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T, 0, 2))                                           \
    X(WIDE, new_param(n, WIDE, "wide", fold_shape2(hidden, wide), FOLD_FOR_LINEAR, 0, 0))                    \
    X(PIECE, new_param(n, PIECE, "piece", fold_shape2(hidden, piece), FOLD_FOR_LINEAR, 1, 1))                \
    X(TURNED, new_param(n, TURNED, "turned", fold_shape2(output, hidden), FOLD_FOR_LINEAR_T, 0, 2))          \
    X(TIED, new_param(n, TIED, "tied", fold_shape2(30, hidden), FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T, 0, 0))  \
    X(TABLE, new_param(n, TABLE, "table", fold_shape2(40, hidden), FOLD_FOR_LOOKUP, 0, 1))                   \
    X(CUBES, new_param(n, CUBES, "cubes", fold_shape3(6, 3, hidden), FOLD_FOR_LOOKUP, 0, 2))                 \
    X(SCALARS, new_param(n, SCALARS, "scalars", fold_shape1(9), FOLD_FOR_LOOKUP, 0, 0))                      \
    X(MATRIX, new_param(n, MATRIX, "matrix", fold_shape2(3, hidden), FOLD_FOR_LINEAR, 0, 1))                 \
    X(FILTER, new_param(n, FILTER, "filter", fold_shape3(3, hidden, hidden), FOLD_FOR_CONV, 0, 1))           \
    X(APART, new_param(n, APART, "apart", fold_shape3(2, 1, hidden), FOLD_FOR_CONV, 0, 0))                   \
    X(B_HIDDEN, new_param(n, B_HIDDEN, "b_hidden", fold_shape1(hidden), 0, 0, 2))                            \
    X(B_OUTPUT, new_param(n, B_OUTPUT, "b_output", fold_shape1(output), 0, 0, 0))                            \
    X(B_WIDE, new_param(n, B_WIDE, "b_wide", fold_shape1(wide), 0, 0, 1))                                    \
    X(GAIN, new_param(n, GAIN, "gain", fold_shape1(hidden), 0, 0, 2))                                        \
    X(BUFFER, new_param(n, BUFFER, "buffer", fold_shape1(hidden), 0, 2, 0))                                  \
    X(MIXER, n->param[MIXER] = fold_weight_new(n->m, "mixer", hidden, hidden))                               \
    X(OFFSET, n->param[OFFSET] = fold_bias_new(n->m, "offset", hidden))                                      \
    X(ONES, n->param[ONES] = fold_gain_new(n->m, "ones", hidden))                                            \
    X(WORDS, n->param[WORDS] = fold_table_new(n->m, "words", 40, hidden))                                    \
    X(GRID, n->param[GRID] = fold_filter_new(n->m, "grid", fold_shape4(2, 2, 1, 2)))
#define CELL_LIST(X)                                                                                         \
    X(MIX, new_cell(n, MIX, "mix", mix_cell))                                                                \
    X(WINDOWS, new_cell(n, WINDOWS, "windows", windows_cell))                                                \
    X(MATRICES, new_cell(n, MATRICES, "matrices", matrices_cell))                                            \
    X(NEST, new_cell(n, NEST, "nest", nest_cell))                                                            \
    X(LOSS, new_cell(n, LOSS, "loss", loss_cell))                                                            \
    X(UNUSED, new_cell(n, UNUSED, "unused", unused_cell))                                                    \
    X(LIST_LINEAR, new_cell(n, LIST_LINEAR, "list_linear", list_linear_cell))                                \
    X(LIST_SOFTMAX_MEAN, new_cell(n, LIST_SOFTMAX_MEAN, "list_softmax_mean", list_softmax_mean_cell))                                \
    X(LIST_MAX, new_cell(n, LIST_MAX, "list_max", list_max_cell))                                            \
    X(LIST_MEAN, new_cell(n, LIST_MEAN, "list_mean", list_mean_cell))
#define LAYER_LIST(X)                                                                                        \
    X(DENSE_LINEAR, n->dense[0] = fold_dense_new(n->m, "dense_linear", hidden, hidden, FOLD_ACT_LINEAR))     \
    X(DENSE_RELU, n->dense[1] = fold_dense_new(n->m, "dense_relu", hidden, hidden, FOLD_ACT_RELU))           \
    X(DENSE_TANH, n->dense[2] = fold_dense_new(n->m, "dense_tanh", hidden, hidden, FOLD_ACT_TANH))           \
    X(DENSE_SIGMOID, n->dense[3] = fold_dense_new(n->m, "dense_sigmoid", hidden, hidden, FOLD_ACT_SIGMOID))  \
    X(DENSE_GELU_TANH, n->dense[4] = fold_dense_new(n->m, "dense_gelu_tanh", hidden, hidden, FOLD_ACT_GELU_TANH))           \
    X(MLP, n->mlp = new_mlp(n->m, hidden, output))                                                           \
    X(RNN, n->recurrent[RNN] = fold_rnn_new(n->m, "rnn", hidden, hidden))                                    \
    X(LSTM, n->recurrent[LSTM] = fold_lstm_new(n->m, "lstm", hidden, hidden))                                \
    X(GRU, n->recurrent[GRU] = fold_gru_new(n->m, "gru", hidden, hidden))                                    \
    X(RELU, n->recurrent[RELU] = fold_rnn_relu_new(n->m, "relu", hidden, hidden))                            \
    X(STACK, n->stack = fold_rnn_stack_new(n->m, "stack", fold_lstm_new, hidden, hidden, 2, 1))              \
    X(TREE, n->tree = fold_tree_lstm_new(n->m, "tree", hidden, hidden, 2))                                   \
    X(CHILD_SUM, n->child_sum = fold_child_sum_new(n->m, "child_sum", hidden, hidden))                       \
    X(CONV, n->conv = new_conv(n->m, hidden))                                                                \
    X(NORM_LAYER, n->norm[0] = fold_norm_new(n->m, "norm_layer", hidden, FOLD_NORM_LAYER, 0.01f))            \
    X(NORM_RMS, n->norm[1] = fold_norm_new(n->m, "norm_rms", hidden, FOLD_NORM_RMS, 0))                      \
    X(NORM_FIXED, n->norm[2] = fold_norm_new(n->m, "norm_fixed", hidden, FOLD_NORM_FIXED, 0))                \
    X(ATTENTION, n->attention = fold_attention_new(n->m, "attention", hidden, 2))                            \
    X(BLOCK, n->block[0] = new_block(n->m, "block", hidden, 0))                                              \
    X(FIRST, n->block[1] = new_block(n->m, "first", hidden, 1))                                              \
    X(ASSEMBLED, n->block[2] = assembled(n->m, "assembled", &n->attention, &n->block[0]))                    \
    X(ENCODER, n->encoder = new_encoder(n->m, "encoder", &n->block[3], hidden))                              \
    X(PARTLY, n->own[0] = partly_op(n->m))                                                                   \
    X(DECAY, n->own[1] = decay_op(n->m))                                                                     \
    X(TORCH, torch_layers(n))
#define PART_LIST(X) PARAM_LIST(X) CELL_LIST(X) LAYER_LIST(X)

#define NAME_OF(name, ...) name,
#define TEXT_OF(name, ...) #name,
enum param { PARAM_LIST(NAME_OF) PARAMS };
enum cell { CELL_LIST(NAME_OF) CELLS };
enum layer { RNN, LSTM, GRU, RELU, RECURRENT };
static const char *const param_text[] = { PARAM_LIST(TEXT_OF) };
static const char *const cell_text[] = { CELL_LIST(TEXT_OF) };
static const char *const layer_text[] = { "RNN", "LSTM", "GRU", "RELU" };
enum part {
#define PART_NAME(name, ...) PART_##name,
    PART_LIST(PART_NAME) PARTS
};

/* Layers as PyTorch would have saved them, for the loops of training and inference. */
CODE(torch,
typedef struct torch {
    fold_param words, extra;
    fold_dense linear;
    fold_conv conv;
    fold_norm norm;
    fold_rnn_stack rnn, lstm, gru;
    fold_attention attention;
    fold_transformer block;
} torch;
)
CODE(net,
typedef struct net {
    fold_model *m;
    fold_param param[PARAMS];
    fold_cell cell[CELLS];
    fold_dense dense[5];
    fold_mlp mlp;
    fold_recurrent recurrent[RECURRENT];
    fold_rnn_stack stack;
    fold_tree_lstm tree;
    fold_child_sum child_sum;
    fold_conv conv;
    fold_norm norm[3];
    fold_attention attention;
    fold_transformer block[4]; /* the last is the encoder's */
    fold_encoder encoder;
    fold_op own[2];
    torch torch;
} net;
)
CODE(describe,
typedef void describe(fold_cell_desc *d);
)
/* What a model takes is told by the turn before, and reserved. */
CODE(sizes,
static fold_model_size sizes[2];
)
CODE(new_model,
static void new_model(net *n, int inference) {
    fold_model_desc d = fold_model_desc_default();
    memset(n, 0, sizeof *n);
    d.seed = 7;
    d.inference = inference;
    d.flush_subnormals = fading;
    n->m = fold_model_new(&d);
    if (turn != EAGERLY) fold_model_reserve(n->m, &sizes[inference]);
}
)
CODE(close_model,
static void close_model(net *n, int inference) {
    sizes[inference] = fold_model_measure(n->m);
    fold_model_free(n->m);
}
)
CODE(new_param,
static void new_param(net *n, int at, const char *name, fold_shape shape, unsigned uses, int fixed,
                      int rate_set) {
    fold_param_desc d = fold_param_desc_default();
    d.name = name;
    d.shape = shape;
    d.uses = uses;
    d.frozen = fixed == 1;
    d.buffer = fixed == 2;
    d.rate_set = rate_set;
    d.init = FOLD_INIT_UNIFORM;
    d.init_scale = fading ? 1e-19f : 0.3f;
    n->param[at] = fold_param_new(n->m, &d);
}
)
CODE(new_cell,
static void new_cell(net *n, int at, const char *name, describe *cell) {
    fold_cell_desc d = fold_cell_desc_default();
    cell(&d);
    d.name = name;
    d.user = n;
    n->cell[at] = fold_cell_new(n->m, &d);
}
)
CODE(new_mlp,
static fold_mlp new_mlp(fold_model *m, int ends, int middle) {
    const int sizes[3] = { ends, middle, ends };
    return fold_mlp_new(m, "mlp", sizes, 2, FOLD_ACT_TANH);
}
)

CODE(new_conv,
static fold_conv new_conv(fold_model *m, int width) {
    const fold_conv_desc desc = { 1, 1, 0, 0 };
    return fold_conv_new(m, "conv", fold_shape3(3, width, width), &desc, FOLD_ACT_SILU);
}
)
CODE(new_block,
static fold_transformer new_block(fold_model *m, const char *name, int width, int first) {
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = width;
    d.heads = 2;
    d.inner = 5;
    d.norm_first = first;
    d.norm = first ? FOLD_NORM_RMS : FOLD_NORM_LAYER;
    d.activation = first ? FOLD_ACT_GELU : FOLD_ACT_LINEAR;
    d.dropout = first ? 0.25f : 0.0f;
    return fold_transformer_new(m, name, &d);
}
)
CODE(assembled,
static fold_transformer assembled(fold_model *m, const char *name, const fold_attention *attention,
                                  const fold_transformer *of) {
    fold_transformer t = *of;
    t.attention = *attention;
    t.norm_first = !of->norm_first;
    fold_transformer_assemble(m, name, &t);
    return t;
}
)
CODE(new_encoder,
static fold_encoder new_encoder(fold_model *m, const char *name, fold_transformer *layer, int width) {
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = width;
    d.heads = 2;
    d.inner = 3;
    return fold_encoder_new(m, name, layer, 1, &d, 1);
}
)
/* Ops of one's own: a factor that is an attribute, and one that is data; over a whole list x and a node a beside it,
   y[r] = x[r] + a y[r - 1]. */
CODE(partly_op,
static const char *partly_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out) {
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static void partly(const fold_op_call *c, const fold_rows *x, const fold_rows *y) {
    int n = 1;
    for (int i = 0; i < c->in_shape[0].rank; i++) n *= c->in_shape[0].dim[i];
    for (int r = 0; r < c->rows && fold_row(y, r); r++) {
        const float factor = 0.25f * (float)((uint64_t)c->attr[0] + c->data[r * c->data_step]);
        for (int i = 0; i < n; i++) fold_row(y, r)[i] = factor * fold_row(x, r)[i];
    }
}
static void partly_forward(const fold_op_call *c) { partly(c, c->in, c->out); }
static void partly_backward(const fold_op_call *c) { partly(c, c->dout, c->din); }
static fold_op partly_op(fold_model *m) {
    fold_op_desc d = fold_op_desc_default();
    d.name = "partly";
    d.n_in = 1;
    d.n_out = 1;
    d.n_attr = 1;
    d.infer = partly_infer;
    d.forward = partly_forward;
    d.backward = partly_backward;
    return fold_op_new(m, &d);
}
)
CODE(decay_op,
static const char *decay_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out) {
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static void decay_forward(const fold_op_call *c) {
    const float a = fold_row(&c->in[1], 0)[0];
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < c->in_shape[0].dim[0]; i++)
            fold_row(&c->out[0], r)[i] = fold_row(&c->in[0], r)[i] + (r ? a * fold_row(&c->out[0], r - 1)[i] : 0);
}
static void decay_backward(const fold_op_call *c) {
    const float a = fold_row(&c->in[1], 0)[0];
    float total = 0;
    for (int i = 0; i < c->in_shape[0].dim[0]; i++) {
        float sum = 0;
        for (int r = c->rows; r-- > 0;) {
            sum = fold_row(&c->dout[0], r)[i] + a * sum;
            if (r) total += sum * fold_row(&c->out[0], r - 1)[i];
            if (fold_row(&c->din[0], r)) fold_row(&c->din[0], r)[i] = sum;
        }
    }
    if (fold_row(&c->din[1], 0)) fold_row(&c->din[1], 0)[0] = total;
}
static fold_op decay_op(fold_model *m) {
    fold_op_desc d = fold_op_desc_default();
    d.name = "decay";
    d.n_in = 2;
    d.n_out = 1;
    d.is_whole = 1;
    d.needs = FOLD_NEEDS_IN | FOLD_NEEDS_OUT;
    d.infer = decay_infer;
    d.forward = decay_forward;
    d.backward = decay_backward;
    return fold_op_new(m, &d);
}
)

CODE(file,
static unsigned char file[3][2000000];
)
CODE(file_size,
static size_t file_size[3];
)
CODE(write_file,
static int write_file(const void *bytes, size_t n, void *user) {
    const int at = *(const int *)user;
    if (file_size[at] + n > sizeof file[at]) return 1;
    memcpy(file[at] + file_size[at], bytes, n);
    file_size[at] += n;
    return 0;
}
)
CODE(tensor,
static void tensor(fold_model *m, const char *name, int a, int b, int c) {
    fold_param_desc d = fold_param_desc_default();
    d.name = name;
    d.shape = c ? fold_shape3(a, b, c) : b ? fold_shape2(a, b) : fold_shape1(a);
    d.uses = FOLD_FOR_LOOKUP;
    d.init = FOLD_INIT_UNIFORM;
    d.init_scale = 0.3f;
    fold_param_new(m, &d);
}
)
CODE(torch_file,
static void torch_file(int at) {
    const int h = hidden;
    fold_model *m = fold_model_new(NULL);
    tensor(m, "t.words.weight", 40, h, 0);
    tensor(m, "t.extra", h, 0, 0);
    tensor(m, "t.unread", h, 0, 0);
    tensor(m, "t.linear.weight", h, h, 0);
    tensor(m, "t.linear.bias", h, 0, 0);
    tensor(m, "t.conv.weight", h, h, 3);
    tensor(m, "t.conv.bias", h, 0, 0);
    tensor(m, "t.norm.weight", h, 0, 0);
    tensor(m, "t.norm.bias", h, 0, 0);
    tensor(m, "t.rnn.weight_ih_l0", h, h, 0);
    tensor(m, "t.rnn.weight_hh_l0", h, h, 0);
    tensor(m, "t.rnn.bias_ih_l0", h, 0, 0);
    tensor(m, "t.rnn.bias_hh_l0", h, 0, 0);
    tensor(m, "t.lstm.weight_ih_l0", 4 * h, h, 0);
    tensor(m, "t.lstm.weight_hh_l0", 4 * h, h, 0);
    tensor(m, "t.gru.weight_ih", 3 * h, h, 0);
    tensor(m, "t.gru.weight_hh", 3 * h, h, 0);
    tensor(m, "t.gru.bias_ih", 3 * h, 0, 0);
    tensor(m, "t.gru.bias_hh", 3 * h, 0, 0);
    tensor(m, "t.attention.in_proj_weight", 3 * h, h, 0);
    tensor(m, "t.attention.in_proj_bias", 3 * h, 0, 0);
    tensor(m, "t.attention.out_proj.weight", h, h, 0);
    tensor(m, "t.attention.out_proj.bias", h, 0, 0);
    tensor(m, "t.block.self_attn.in_proj_weight", 3 * h, h, 0);
    tensor(m, "t.block.self_attn.out_proj.weight", h, h, 0);
    tensor(m, "t.block.linear1.weight", 5, h, 0);
    tensor(m, "t.block.linear2.weight", h, 5, 0);
    tensor(m, "t.block.norm1.weight", h, 0, 0);
    tensor(m, "t.block.norm2.weight", h, 0, 0);
    file_size[at] = 0;
    status(fold_model_save_to(m, write_file, &at, NULL), fold_model_message(m));
    fold_model_free(m);
}
)
CODE(torch_layers,
static void torch_layers(net *n) {
    const fold_conv_desc same = { 1, 1, 0, 0 };
    fold_transformer_desc block = fold_transformer_desc_default();
    torch *to = &n->torch;
    block.heads = 2;
    torch_file(2);
    fold_torch *t = fold_torch_open_memory(n->m, file[2], file_size[2]);
    to->words = fold_torch_embedding(t, "t.words");
    to->extra = fold_torch_param(t, "t.extra", 0);
    to->linear = fold_torch_linear(t, "t.linear", FOLD_ACT_SILU);
    to->conv = fold_torch_conv(t, "t.conv", &same, FOLD_ACT_RELU);
    to->norm = fold_torch_norm(t, "t.norm", FOLD_NORM_LAYER, 0);
    to->rnn = fold_torch_rnn(t, "t.rnn");
    to->lstm = fold_torch_lstm(t, "t.lstm");
    to->gru = fold_torch_gru(t, "t.gru");
    to->attention = fold_torch_attention(t, "t.attention", 2);
    to->block = fold_torch_transformer(t, "t.block", &block);
    fold_torch_skip(t, "t.unread");
    status(fold_torch_close(t), fold_model_message(n->m));
}
)

/* -- bodies of cells -------------------------------------------------------------------------------- */

CODE(mix_cell,
static void mix_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const net *n = (const net *)user;
    const fold_node gate = fold_sigmoid(f, fold_linear(f, in[0], n->param[SQUARE], n->param[B_HIDDEN]));
    const fold_node kept = fold_mul(f, fold_use(f, n->param[GAIN]), fold_tanh(f, in[0]));
    fold_node half[2];
    fold_split(f, fold_dropout(f, gate, 0.25f), 2, half);
    out[0] = fold_add(f, fold_mul(f, gate, in[1]), kept);
    out[1] = in[1];
    out[2] = fold_add(f, in[2], fold_dot(f, half[0], half[1]));
}
static void mix_cell(fold_cell_desc *d) {
    d->body = mix_body;
    d->n_in = 3;
    d->n_out = 3;
    d->in[0] = fold_shape1(hidden);
    d->in[1] = fold_shape1(hidden);
    d->in[2] = fold_shape1(1);
}
)

CODE(windows_cell,
static void windows_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    (void)user;
    out[0] = fold_slice(f, in[0], 0, hidden, hidden);
    out[1] = fold_neg(f, fold_reshape(f, in[0], fold_shape2(3, hidden)));
    out[2] = out[1];
}
static void windows_cell(fold_cell_desc *d) {
    d->body = windows_body;
    d->n_in = 1;
    d->n_out = 3;
    d->in[0] = fold_shape1(3 * hidden);
}
)

CODE(matrices_cell,
static void matrices_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const net *n = (const net *)user;
    const fold_node norm = fold_layer_norm(f, in[0], n->param[GAIN], n->param[B_HIDDEN], 0);
    const fold_node weight = fold_softmax(f, fold_matmul(f, norm, in[1]));
    out[0] = fold_matmul(f, weight, in[0]);
    out[1] = fold_matmul(f, fold_transpose(f, norm, 0, 1), weight);
}
static void matrices_cell(fold_cell_desc *d) {
    d->body = matrices_body;
    d->n_in = 2;
    d->n_out = 2;
    d->in[0] = fold_shape2(3, hidden);
    d->in[1] = fold_shape1(hidden);
}
)

CODE(nest_cell,
static void nest_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const net *n = (const net *)user;
    const fold_node start = fold_tanh(f, fold_linear(f, in[0], n->param[LEAVE], n->param[B_HIDDEN]));
    const fold_node inner[3] = { start, in[1], fold_mean(f, in[0], 0) };
    const fold_node call = fold_call(f, n->cell[MIX], inner, 3);
    out[0] = fold_linear(f, fold_out(f, call, 0), n->param[SQUARE], n->param[B_HIDDEN]);
    out[1] = fold_scale(f, fold_out(f, call, 2), 0.5f);
}
static void nest_cell(fold_cell_desc *d) {
    d->body = nest_body;
    d->n_in = 2;
    d->n_out = 2;
    d->in[0] = fold_shape1(output);
    d->in[1] = fold_shape1(hidden);
}
)

CODE(loss_cell,
static void loss_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    (void)user;
    out[0] = fold_add(f, fold_softmax_xent(f, in[0], output / 4), fold_pick(f, in[0], output / 2));
}
static void loss_cell(fold_cell_desc *d) {
    d->body = loss_body;
    d->n_in = 1;
    d->n_out = 1;
    d->in[0] = fold_shape1(output);
}
)

CODE(unused_cell,
static void unused_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const net *n = (const net *)user;
    const fold_param no_bias = { 0, 0 };
    out[0] = fold_tanh(f, in[0]);
    out[1] = fold_linear_t(f, fold_stop_gradient(f, in[1]), n->param[TIED], no_bias);
    out[2] = fold_linear(f, fold_mul(f, in[1], fold_use(f, n->param[GAIN])), n->param[SQUARE], no_bias);
}
static void unused_cell(fold_cell_desc *d) {
    d->body = unused_body;
    d->n_in = 2;
    d->n_out = 3;
    d->in[0] = fold_shape1(hidden);
    d->in[1] = fold_shape1(hidden);
}
)

CODE(list_linear_cell,
static void list_linear_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const net *n = (const net *)user;
    const fold_node parts[3] = { in[0], in[1], in[2] };
    const fold_node each = fold_tanh(f, fold_linear_n(f, parts, 3, n->param[ENTER], n->param[B_OUTPUT]));
    const fold_node total = fold_mul(f, fold_list_sum(f, each), fold_list_mean(f, fold_square(f, each)));
    out[0] = fold_linear(f, total, n->param[LEAVE], n->param[B_HIDDEN]);
}
static void list_linear_cell(fold_cell_desc *d) {
    d->body = list_linear_body;
    d->n_in = 2;
    d->n_list = 1;
    d->n_out = 1;
    d->in[0] = fold_shape1(hidden);
    d->in[1] = fold_shape1(hidden);
    d->list[0] = fold_shape1(hidden);
}
)

CODE(list_softmax_mean_cell,
static void list_softmax_mean_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const fold_node x = fold_add(f, in[2], in[0]);
    (void)user;
    out[0] = fold_list_softmax_mean(f, fold_dot(f, in[0], in[1]), x);
    out[1] = fold_list_sum(f, fold_slice(f, x, 0, hidden / 4, hidden / 2));
}
static void list_softmax_mean_cell(fold_cell_desc *d) {
    d->body = list_softmax_mean_body;
    d->n_in = 1;
    d->n_list = 2;
    d->n_out = 2;
    d->in[0] = fold_shape1(hidden);
    d->list[0] = fold_shape1(hidden);
    d->list[1] = fold_shape1(hidden);
}
)

CODE(list_max_cell,
static void list_max_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    (void)user;
    out[0] = fold_list_max(f, fold_dropout(f, fold_gelu_tanh(f, in[0]), 0.5f));
}
static void list_max_cell(fold_cell_desc *d) {
    d->body = list_max_body;
    d->n_list = 1;
    d->n_out = 1;
    d->list[0] = fold_shape1(piece);
}
)

CODE(list_mean_cell,
static void list_mean_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const fold_node product = fold_mul(f, fold_matmul(f, in[0], in[1]), in[2]);
    (void)user;
    out[0] = fold_list_mean(f, fold_concat2(f, product, in[3]));
    out[1] = fold_sum(f, in[0], 0);
}
static void list_mean_cell(fold_cell_desc *d) {
    d->body = list_mean_body;
    d->n_in = 1;
    d->n_list = 3;
    d->n_out = 2;
    d->in[0] = fold_shape2(3, hidden);
    d->list[0] = fold_shape1(hidden);
    d->list[1] = fold_shape1(3);
    d->list[2] = fold_shape1(piece);
}
)


/* The generator's knowledge of the cells: their outputs, and a bound of these when inputs are within 3. */
typedef struct cell_row {
    fold_cell_desc d;
    fold_shape out[3];
    int needs[3]; /* of each output: a bit for every input that it depends on */
    float bound;
    const char *code;
} cell_row;
static cell_row cells[CELLS];

static void describe_cell(int at, describe *cell, const char *code, float bound, fold_shape a, fold_shape b,
                          fold_shape c)
{
    memset(&cells[at], 0, sizeof cells[at]);
    cell(&cells[at].d);
    cells[at].out[0] = a;
    cells[at].out[1] = b;
    cells[at].out[2] = c;
    cells[at].bound = bound;
    cells[at].code = code;
}

static void describe_needs(int at, int a, int b, int c)
{
    cells[at].needs[0] = a;
    cells[at].needs[1] = b;
    cells[at].needs[2] = c;
}

static void describe_cells(void)
{
    const fold_shape one = fold_shape1(1), vector = fold_shape1(hidden), matrix = fold_shape2(3, hidden);
    describe_cell(MIX, mix_cell, mix_cell_code, 12, vector, vector, one);
    describe_cell(WINDOWS, windows_cell, windows_cell_code, 3, vector, matrix, matrix);
    describe_cell(MATRICES, matrices_cell, matrices_cell_code, 9, vector, vector, one);
    describe_cell(NEST, nest_cell, nest_cell_code, 40, vector, one, one);
    describe_cell(LOSS, loss_cell, loss_cell_code, 12, one, one, one);
    describe_cell(UNUSED, unused_cell, unused_cell_code, 20, vector, fold_shape1(30), vector);
    describe_needs(MIX, 3, 2, 5);
    describe_needs(WINDOWS, 1, 1, 1);
    describe_needs(MATRICES, 3, 3, 0);
    describe_needs(NEST, 3, 1, 0);
    describe_needs(LOSS, 1, 0, 0);
    describe_needs(UNUSED, 1, 2, 2);
    describe_cell(LIST_LINEAR, list_linear_cell, list_linear_cell_code, 99, vector, one, one);
    describe_cell(LIST_SOFTMAX_MEAN, list_softmax_mean_cell, list_softmax_mean_cell_code, 99, vector, fold_shape1(hidden / 2),
                  one);
    describe_cell(LIST_MAX, list_max_cell, list_max_cell_code, 6, fold_shape1(piece), one, one);
    describe_cell(LIST_MEAN, list_mean_cell, list_mean_cell_code, 99, fold_shape1(3 + piece), vector, one);
}

/* -- the calls of a session ------------------------------------------------------------------------- */

CODE(call,
static void call(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, fold_node *out, int n_out) {
    const fold_node y = fold_call(f, cell, in, n_in);
    for (int i = 0; i < n_out; i++) out[i] = fold_out(f, y, i);
}
)
CODE(call_n,
static void call_n(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, int count, fold_node *out,
                      int n_out) {
    const fold_node y = fold_call_n(f, cell, in, n_in, in + n_in, count);
    for (int i = 0; i < n_out; i++) out[i] = fold_out(f, y, i);
}
)
CODE(conv,
static fold_node conv(fold_ctx *f, fold_node x, fold_param W, fold_param b, int stride) {
    const int apart = fold_param_shape(fold_ctx_model(f), W).dim[1] == 1;
    const fold_conv_desc desc = { stride, 1, 0, apart };
    return fold_conv1d(f, x, W, b, &desc);
}
)
CODE(conv2d,
static fold_node conv2d(fold_ctx *f, fold_node x, fold_param W) {
    const fold_param no_bias = { 0, 0 };
    fold_conv_desc desc = fold_conv_desc_default();
    desc.padding = 1;
    desc.dilation = 2;
    return fold_conv2d(f, x, W, no_bias, &desc);
}
)
CODE(own,
static fold_node own(fold_ctx *f, fold_op op, fold_node x, int attribute, uint64_t data) {
    const int32_t attr = attribute;
    return fold_op_apply(f, op, &x, 1, &attr, data);
}
)
CODE(call_list,
static void call_list(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, fold_node *out, int n_out) {
    const fold_node y = fold_call_list(f, cell, in, n_in, in + n_in);
    for (int i = 0; i < n_out; i++) out[i] = fold_out(f, y, i);
}
)
CODE(state,
static fold_state state(const fold_node *in, int n) {
    fold_state s = { { 0, 0 }, { 0, 0 } };
    s.h = in[0];
    if (n > 1) s.c = in[1];
    return s;
}
)
CODE(put,
static void put(fold_state s, fold_node *out, int n) {
    out[0] = s.h;
    if (n > 1) out[1] = s.c;
}
)
CODE(unroll,
static void unroll(fold_ctx *f, const fold_recurrent *r, int reverse, const fold_node *x, int n,
                   fold_node *out, int n_out) {
    put(fold_unroll(f, r, x, n, reverse, NULL, out), out + n, n_out - n);
}
static void unroll_list(fold_ctx *f, const fold_recurrent *r, int reverse, fold_node x, fold_node *out, int n_out) {
    fold_state last = { { 0, 0 }, { 0, 0 } };
    out[0] = fold_unroll_list(f, r, x, reverse, NULL, &last);
    last.h = fold_scale(f, last.h, 2);
    put(last, out + 1, n_out - 1);
}
)
CODE(tree_inner,
static void tree_inner(fold_ctx *f, const fold_tree_lstm *t, const fold_node *in, fold_node *out) {
    fold_state child[2];
    child[0] = state(in, 2);
    child[1] = state(in + 2, 2);
    put(fold_tree_lstm_apply_inner(f, t, child), out, 2);
}
)
CODE(child_sum,
static void child_sum(fold_ctx *f, const fold_child_sum *t, const fold_node *in, int n, fold_node *out) {
    fold_state child[16];
    for (int i = 0; i < (n - 1) / 2; i++) child[i] = state(in + 1 + 2 * i, 2);
    put(fold_child_sum_apply(f, t, in[0], child, (n - 1) / 2), out, 2);
}
)
/* Memory that a recording refers to, by context: it changes before a replay. */
CODE(memory,
typedef struct memory {
    float data[60000];
    int index[40000], limit[40000];
    int n_data, n_index, refs, training;
    fold_cache cache[16];
    float store[16][8192];
    fold_cache past[16];
    float ring[16][8192];
    float other[8192];
    int begun[16], known[16]; /* rows of a cache when the recording began; when it ran */
} memory;
)
/* Before a recording, and after a run: a cache holds what the last recording that ran left in it, or a part. */
CODE(begin_caches,
static void begin_caches(memory *r) {
    for (int i = 0; i < 16; i++) r->begun[i] = r->known[i] > 9 ? r->known[i] % 10 : r->known[i];
}
)
CODE(end_caches,
static void end_caches(memory *r) {
    for (int i = 0; i < 16; i++) r->known[i] = r->cache[i].length;
}
)
/* A cache goes to other memory and back: all that it holds is copied. */
CODE(copied,
static void copied(fold_cache *c, float *memory) {
    fold_cache other = *c;
    other.memory = memory;
    other.length = 0;
    status(fold_cache_copy(&other, c), "a copy of a cache");
    memset(c->memory, 255, fold_cache_bytes(c)); /* not a number */
    c->length = 0;
    status(fold_cache_copy(c, &other), "a copy of a copy");
}
)
/* Attention, or a layer, by steps of a sequence that grows; in training contexts over the rows that are given. */
CODE(cached,
static fold_node cached(fold_ctx *f, memory *r, int number, const fold_transformer *layer, fold_node q, fold_node k,
                        fold_node v) {
    fold_cache *c = &r->cache[number];
    const int length = fold_list_length(f, k), rows = length < 0 ? 1 : length;
    c->memory = r->store[number];
    c->capacity = 48;
    c->heads = layer ? 2 : 1 + number % 2;
    c->width = hidden;
    if (r->training || fold_cache_bytes(c) > sizeof r->store[number])
        return layer ? fold_transformer_apply(f, layer, q, 1) : fold_list_attention(f, q, k, v, c->heads, 1);
    if (r->begun[number] + rows > c->capacity) r->begun[number] = 0;
    status(fold_cache_truncate(c, r->begun[number]), "fewer rows are in the cache");
    if (number % 4 == 0 && turn != EAGERLY) copied(c, r->other);
    q = layer ? fold_transformer_step(f, layer, c, q) : fold_attention_step(f, c, q, k, v);
    fold_keep(f, q); /* so that every run makes the step */
    return q;
}
)
/* A causal convolution by a step from an empty past; in training contexts over zeros and the rows that are given. */
CODE(conv_step,
static fold_node conv_step(fold_ctx *f, memory *r, int number, fold_node x, fold_param W, fold_param b) {
    static const float zeros[256] = { 0 };
    const fold_shape shape = fold_param_shape(fold_ctx_model(f), W);
    const int length = fold_list_length(f, x), before = shape.dim[0] - 1;
    const fold_conv_desc desc = { 0, 0, 0, shape.dim[1] == 1 };
    fold_cache *past = &r->past[number];
    past->memory = r->ring[number];
    past->capacity = before + (length < 1 ? 1 : length);
    past->heads = past->length = 0;
    past->width = hidden;
    if (r->training || fold_cache_bytes(past) > sizeof r->ring[number]) {
        const fold_node in[2] = { fold_list_input(f, zeros, before, fold_shape1(hidden)), x };
        return fold_conv1d(f, fold_list_join(f, in, 2), W, b, &desc);
    }
    status(fold_cache_truncate(past, 0), "an empty past");
    x = fold_conv1d_step(f, past, x, W, b, &desc);
    fold_keep(f, x); /* so that every run makes the step */
    return x;
}
)
CODE(place,
static const float *place(memory *r, int at, const float *data, int n) {
    if (n) memcpy(r->data + at, data, (size_t)n * sizeof *data);
    if (r->n_data < at + n) r->n_data = at + n;
    return r->data + at;
}
)
CODE(refer,
static void refer(fold_ctx *f, fold_node x, memory *r, int at, const int *index, int n, int limit) {
    for (int i = 0; i < n; i++) {
        r->index[at + i] = index[i];
        r->limit[at + i] = limit;
    }
    if (r->n_index < at + n) r->n_index = at + n;
    if (r->refs) fold_index_ref(f, x, r->index + at, n);
}
)
/* Edges from one list to another, and behind them how many there are. */
CODE(connect,
static void connect(fold_ctx *f, fold_node x, memory *r, int at, const int *index, int edges, int keys, int queries) {
    int *from = r->index + at, *to = from + edges, *count = to + edges;
    for (int i = 0; i < 2 * edges; i++) {
        from[i] = index[i];
        r->limit[at + i] = i < edges ? keys : queries;
    }
    *count = edges;
    r->limit[at + 2 * edges] = edges + 1;
    if (r->n_index <= at + 2 * edges) r->n_index = at + 2 * edges + 1;
    if (r->refs) fold_edges_ref(f, x, from, to, count, edges);
}
)
CODE(change,
static void change(memory *r, int key) {
    for (int i = 0; i < r->n_data && key; i++)
        r->data[i] = 0.5f * r->data[i] + 0.125f * (float)((i * 7 + key) % 9 - 4);
    for (int i = 0; i < r->n_index && key; i++)
        if (r->limit[i]) r->index[i] = (r->index[i] + key) % r->limit[i];
}
)
CODE(labels_of,
static int labels_of(fold_ctx *f, fold_node x) {
    const fold_shape s = fold_node_shape(f, x);
    int n = 1;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    return n;
}
)
CODE(rows_in,
static int rows_in(fold_ctx *f, fold_param table) {
    return fold_param_shape(fold_ctx_model(f), table).dim[0];
}
)
CODE(stub,
static fold_node stub(fold_ctx *f, fold_shape shape, int rows) {
    float x[16384];
    for (int i = 0; i < 16384; i++) x[i] = 0.25f * (float)(i % 5 - 1);
    return rows < 0 ? fold_input_shaped(f, x, shape) : fold_list_input(f, x, rows, shape);
}
)

CODE(loops,
static long loops;
)
CODE(backwards,
static void backwards(int n, fold_task *task, void *user, void *pool) {
    (void)pool;
    loops++;
    while (n-- > 0) task(n, user);
}
)
/* Every look at the clock takes a while. */
CODE(tick,
static uint64_t tick(void *user) {
    static uint64_t now;
    (void)user;
    return now += 300;
}
)
/* In blocks are contexts that were measured, that were told by one of their own kind what it took, and eager ones,
   told by the first turn. */
CODE(rooms,
enum home { ON_HEAP, MEASURED, TOLD, EAGER_IN_BLOCK, HOMES };
static struct room {
    size_t size[2];
    unsigned char *raw;
    int home;
} rooms[4];
)
CODE(is_eager,
static int is_eager(int at) { return turn == EAGERLY || rooms[at].home == EAGER_IN_BLOCK; }
)
/* Exactly as many bytes as were told, where most of them lie before a multiple of 64, between bytes of its own. */
CODE(block_of,
static fold_memory block_of(struct room *r) {
    fold_memory memory;
    const size_t size = r->size[r->home == EAGER_IN_BLOCK ? EAGERLY : TELLING];
    memset(&memory, 0, sizeof memory);
    r->raw = (unsigned char *)malloc(size + 192);
    memset(r->raw, 0x5a, size + 192);
    memory.block = r->raw + 64 + (65 - (uintptr_t)r->raw % 64) % 64;
    memory.block_size = size;
    return memory;
}
)
CODE(close_context,
static void close_context(fold_ctx *f, int at) {
    struct room *r = &rooms[at];
    if (turn != BATCHED) r->size[turn] = fold_ctx_stats(f).block_bytes;
    fold_ctx_free(f);
    for (int i = 0; i < 64 && r->raw; i++) {
        const size_t before = 64 + (65 - (uintptr_t)r->raw % 64) % 64;
        const size_t behind = before + r->size[r->home == EAGER_IN_BLOCK ? EAGERLY : TELLING];
        status(r->raw[before - 1 - (size_t)i] == 0x5a && r->raw[behind + (size_t)i] == 0x5a ? FOLD_OK : FOLD_BAD_STATE,
               "written beside the block");
    }
    free(r->raw);
    r->raw = NULL;
}
)
CODE(new_context,
static fold_ctx *new_context(const net *n, int at, int home, int training, int dedupe, int schedule,
                             size_t group_bytes, size_t plan_cache_bytes, int threads) {
    fold_ctx_desc d = fold_ctx_desc_default();
    rooms[at].home = home;
    if (turn == BATCHED && home != ON_HEAP) d.memory = block_of(&rooms[at]);
    d.measure = turn == TELLING && home == MEASURED;
    d.training = training;
    d.eager = is_eager(at);
    d.dedupe = dedupe;
    d.schedule = (fold_schedule)schedule;
    d.group_bytes = group_bytes;
    d.plan_cache_bytes = plan_cache_bytes;
    d.threads = threads;
    d.parallel_for = backwards;
    d.clock = tick;
    d.trace_bytes = threads ? 4096 : 0;
    return fold_ctx_new(n->m, &d);
}
)
CODE(size_of_node,
static size_t size_of_node(fold_ctx *f, fold_node x) {
    const fold_shape s = fold_node_shape(f, x);
    const int rows = fold_list_length(f, x);
    size_t n = rows < 0 ? 1 : (size_t)rows;
    for (int i = 0; i < s.rank; i++) n *= (size_t)s.dim[i];
    return n;
}
)
CODE(keep,
static void keep(fold_ctx *f, const fold_node *v, const int *list, int n) {
    for (int i = 0; i < n; i++) fold_keep(f, v[list[i]]);
}
)
CODE(keep_grads,
static void keep_grads(fold_ctx *f, const fold_node *v, const int *list, int n) {
    for (int i = 0; i < n; i++) fold_keep_grad(f, v[list[i]]);
}
)
/* slices: 0: all at once; else begun, and gone on with in thousands of nanoseconds, or whole if 1. */
CODE(finish,
static void finish(fold_ctx *f, fold_status begun, int slices) {
    int more = slices != 0;
    for (int turns = 0; more && !begun && turns < 100000; turns++) {
        begun = fold_run_more(f, slices == 1 ? 0 : (uint64_t)slices * 1000, &more);
        (void)fold_estimate_ns(f);
    }
    status(more && !begun ? FOLD_BAD_STATE : begun, fold_ctx_message(f));
    status(fold_ctx_status(f), fold_ctx_message(f));
}
)
CODE(run,
static void run(fold_ctx *f, const fold_node *v, const int *list, int n, int slices) {
    fold_node root[8];
    for (int i = 0; i < n; i++) root[i] = v[list[i]];
    finish(f, slices ? fold_run_begin(f, root, n) : fold_run(f, root, n), slices);
}
)
CODE(begin_only,
static void begin_only(fold_ctx *f, const fold_node *v, const int *list, int n) {
    fold_node root[8];
    int more;
    for (int i = 0; i < n; i++) root[i] = v[list[i]];
    status(fold_run_begin(f, root, n), fold_ctx_message(f));
    status(fold_run_more(f, 1000, &more), fold_ctx_message(f));
}
)
CODE(backward,
static void backward(fold_ctx *f, fold_node root, int slices) {
    finish(f, slices ? fold_backward_begin(f, root) : fold_backward(f, root), slices);
}
)
CODE(replay,
static void replay(fold_ctx *f, memory *r, int key, int slices) {
    change(r, key);
    finish(f, slices ? fold_replay_begin(f) : fold_replay(f), slices);
}
)
CODE(look_one,
static void look_one(int at, float x) { look("value", at, &x, 1); }
)
CODE(drawn_row,
static float drawn_row(fold_ctx *f, fold_node scores) {
    fold_random random = fold_random_new(9, 1);
    return (float)fold_random_row(&random, f, scores);
}
)
CODE(look_values,
static void look_values(fold_ctx *f, const fold_node *v, const int *list, int n) {
    float x[16384];
    for (int i = 0; i < n; i++) {
        const size_t size = size_of_node(f, v[list[i]]);
        if (fold_list_length(f, v[list[i]]) == (int)size) look_one(list[i], drawn_row(f, v[list[i]]));
        if (size == 1 && i % 3 && fold_list_length(f, v[list[i]]) < 0) look_one(list[i], fold_scalar(f, v[list[i]]));
        else if (i % 2) look("value", list[i], fold_value(f, v[list[i]]), size);
        else look("value", list[i], fold_read(f, &v[list[i]], 1, x) ? NULL : x, size);
    }
}
)
CODE(look_grads,
static void look_grads(fold_ctx *f, const fold_node *v, const int *list, int n) {
    for (int i = 0; i < n; i++)
        look("gradient", list[i], fold_grad(f, v[list[i]]), size_of_node(f, v[list[i]]));
}
)
CODE(look_params,
static void look_params(fold_model *m) {
    int count = 0;
    const float done = (float)fold_model_steps(m);
    look("updates", 0, &done, 1);
    look("first", -1, fold_model_values(m, NULL), 1);
    look("first", -2, fold_model_grads(m, &count), count > 0);
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_param p = fold_param_at(m, i);
        const fold_shape s = fold_param_shape(m, p);
        size_t n = 1;
        for (int k = 0; k < s.rank; k++) n *= (size_t)s.dim[k];
        const fold_param named = fold_param_find(m, fold_param_name(m, p));
        look(fold_param_name(m, p), -1, fold_param_is_null(named) ? NULL : fold_param_value(m, named), n);
        if (fold_param_grad(m, p)) look(fold_param_name(m, p), -2, fold_param_grad(m, p), n);
    }
}
)

CODE(sgd,
static void sgd(fold_model *m, float rate, float momentum, float decay) {
    fold_sgd o = fold_sgd_default();
    o.rate = rate;
    o.momentum = momentum;
    o.decay = decay;
    status(fold_sgd_step(m, &o), fold_model_message(m));
}
)
CODE(adagrad,
static void adagrad(fold_model *m, float rate, float epsilon, float decay) {
    fold_adagrad o = fold_adagrad_default();
    o.rate = rate;
    o.epsilon = epsilon;
    o.decay = decay;
    status(fold_adagrad_step(m, &o), fold_model_message(m));
}
)
CODE(rmsprop,
static void rmsprop(fold_model *m, float rate, float rho, float epsilon, float decay) {
    fold_rmsprop o = fold_rmsprop_default();
    o.rate = rate;
    o.rho = rho;
    o.epsilon = epsilon;
    o.decay = decay;
    status(fold_rmsprop_step(m, &o), fold_model_message(m));
}
)
CODE(adam,
static void adam(fold_model *m, float rate, float beta1, float epsilon, float decay, int decoupled) {
    fold_adam o = fold_adam_default();
    o.rate = rate;
    o.beta1 = beta1;
    o.epsilon = epsilon;
    o.decay = decay;
    o.decoupled = decoupled;
    status(fold_adam_step(m, &o), fold_model_message(m));
}
)
CODE(clear,
static void clear(fold_model *m) { fold_grads_clear(m); }
)
CODE(freeze,
static void freeze(fold_model *m, fold_param p, int on) { fold_param_freeze(m, p, on); }
)
CODE(scale_rates,
static void scale_rates(fold_model *m, int set) { fold_model_scale_rates(m, set, 0.5f, 2.0f); }
)
CODE(clip,
static void clip(fold_model *m, float limit) {
    const float norm = (float)fold_grads_clip(m, limit);
    look("norm", 0, &norm, 1);
}
)
CODE(write_values,
static void write_values(fold_model *m, fold_param p, float factor) {
    const fold_shape s = fold_param_shape(m, p);
    float *x = fold_values_write_begin(m, p);
    int n = 1;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    for (int i = 0; x && i < n; i++) x[i] *= factor;
    fold_values_write_end(m, p);
}
)
CODE(write_grads,
static void write_grads(fold_model *m, fold_param p, float term) {
    const fold_shape s = fold_param_shape(m, p);
    float *x = fold_grads_write_begin(m, p);
    int n = 1;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    for (int i = 0; x && i < n; i += 3) x[i] += term;
    fold_grads_write_end(m, p);
}
)
CODE(read_file,
static size_t read_file(void *bytes, size_t n, void *user) {
    const unsigned char **from = (const unsigned char **)user;
    memcpy(bytes, *from, n);
    *from += n;
    return n;
}
)
CODE(count_bytes,
static int count_bytes(const void *bytes, size_t n, void *user) {
    *(size_t *)user += bytes ? n : 0;
    return 0;
}
)
CODE(count_seen,
static int count_seen(const fold_seen *seen, void *user) {
    *(size_t *)user += seen->name ? strlen(seen->name) : 0;
    return 0;
}
)
/* by: memory; in pieces; a file by its path, as well. */
CODE(save,
static void save(fold_model *m, int at, int with_state, int by) {
    fold_save_desc d = fold_save_desc_default();
    size_t n = 0;
    d.state = with_state;
    file_size[at] = 0;
    status(fold_model_save_to(m, write_file, &at, &d), fold_model_message(m));
    if (by == 2) status(fold_model_save(m, path(), &d), fold_model_message(m));
    if (by == 2) status(fold_model_print_file(m, path(), count_bytes, &n), "print_file");
    else status(fold_model_print_file_memory(m, file[at], file_size[at], count_bytes, &n), "print_file");
}
)
CODE(load,
static void load(fold_model *m, int at, int with_state, int by) {
    fold_load_desc d = fold_load_desc_default();
    const unsigned char *from = file[at];
    d.state = with_state;
    d.allow_missing = 1;
    status(by == 2   ? fold_model_load(m, path(), &d)
           : by == 1 ? fold_model_load_from(m, read_file, &from, &d)
                     : fold_model_load_memory(m, file[at], file_size[at], &d), fold_model_message(m));
}
)
/* The file of a model as it is now, from which another's parameters are read where they lie. */
CODE(image,
static void image(fold_model *m, fold_model *from) {
    const int at = 1;
    file_size[at] = 0;
    status(fold_model_save_to(from, write_file, (void *)&at, NULL), fold_model_message(from));
    status(fold_model_read_in_place(m, file[at], file_size[at]), fold_model_message(m));
}
)
CODE(quantize,
static void quantize(fold_model *m, int tables, int bits) {
    fold_quantize_desc d = fold_quantize_desc_default();
    d.min_values = 32;
    d.tables = tables;
    d.bits = bits;
    status(fold_model_quantize(m, &d), fold_model_message(m));
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_quantized q = fold_param_quantized(m, fold_param_at(m, i));
        look("error", i, &q.error, 1);
    }
}
)
CODE(seal,
static void seal(fold_model *m) {
    status(fold_model_seal(m), fold_model_message(m));
}
)
CODE(measure,
static void measure(fold_model *m) {
    const fold_model_size size = fold_model_measure(m);
    status(fold_model_reserve(m, &size), fold_model_message(m));
}
)
CODE(copy,
static void copy(fold_model *m, const fold_model *from, int part) {
    status(part ? fold_values_average(m, from, 0.25f) : fold_values_copy(m, from), fold_model_message(m));
}
)
/* Rows of a table that have a gradient get another one; they come in any order. */
CODE(write_rows,
static void write_rows(fold_model *m, fold_param table) {
    int rows[64];
    const int n = fold_grads_rows(m, table, 64, rows), width = fold_param_shape(m, table).dim[1];
    float *x = n > 0 ? fold_grads_write_begin(m, table) : NULL;
    const float count = (float)n;
    look("rows", 0, &count, 1);
    for (int i = 0; x && i < n; i++)
        for (int k = 0; k < width; k++) x[rows[i] * width + k] += 0.125f * (float)(k + 1);
    if (x) fold_grads_write_rows_end(m, table, rows, n);
}
)
/* A block need not have room for printing, which then leaves all as it is. */
CODE(printed,
static void printed(fold_ctx *f, fold_status got) {
    status(got == FOLD_NO_MEMORY ? fold_ctx_status(f) : got, fold_ctx_message(f));
}
)
CODE(print_all,
static void print_all(fold_ctx *f) {
    size_t n = 0;
    printed(f, fold_ctx_print(f, count_bytes, &n));
    printed(f, fold_ctx_print_splits(f, count_bytes, &n));
    printed(f, fold_ctx_visit(f, count_seen, &n));
    printed(f, fold_ctx_visit_times(f, count_seen, &n));
    printed(f, fold_model_print(fold_ctx_model(f), count_bytes, &n));
}
)
/* A network of its own for the loops of training and inference. */
CODE(by_torch,
static fold_node by_torch(fold_ctx *f, const torch *t, fold_node x, int word) {
    fold_node each[3];
    const fold_node said = fold_dense_apply(f, &t->linear, x);
    each[0] = fold_add(f, said, fold_lookup(f, t->words, word));
    each[1] = fold_mul(f, x, fold_use(f, t->extra));
    each[2] = fold_neg(f, x);
    const fold_node line = fold_mean(f, fold_conv_apply(f, &t->conv, fold_stack(f, each, 3)), 0);
    fold_unroll_stack(f, &t->rnn, each, 3, NULL, each, NULL);
    fold_unroll_stack(f, &t->lstm, each, 3, NULL, each, NULL);
    fold_unroll_stack(f, &t->gru, each, 3, NULL, each, NULL);
    fold_node list = fold_list_join(f, each, 3);
    list = fold_attention_apply(f, &t->attention, list, list, list, 0);
    list = fold_norm_apply(f, &t->norm, fold_transformer_apply(f, &t->block, list, 1));
    return fold_add(f, line, fold_list_mean(f, list));
}
)
CODE(scores_of,
static fold_node scores_of(fold_ctx *f, int sample, void *user) {
    const net *n = (const net *)user;
    fold_node x = fold_lookup(f, n->param[WORDS], sample * 3 % 40);
    if (!fold_param_is_null(n->torch.words)) x = by_torch(f, &n->torch, x, sample % 40);
    return fold_mlp_apply(f, &n->mlp, sample % 2 ? x : fold_tanh(f, x));
}
)
CODE(word_loss,
static fold_node word_loss(fold_ctx *f, int sample, void *user) {
    return fold_softmax_xent(f, fold_dropout(f, scores_of(f, sample, user), 0.25f), sample % hidden);
}
)
CODE(take_word,
static void take_word(fold_ctx *f, int sample, fold_node y, void *user) {
    (void)user;
    look("predicted", sample, fold_value(f, y), (size_t)hidden);
}
)
CODE(fit,
static void fit(fold_ctx *f, const net *n, int key) {
    const fold_adam adam = { 0.01f, 0, 0, 0, 0, 0 };
    fold_fit_desc d = fold_fit_desc_default();
    fold_fit_report report;
    d.ctx = f;
    d.samples = 7;
    d.batch = 3;
    d.epochs = 2;
    d.loss = word_loss;
    d.user = (void *)n;
    d.seed = (uint64_t)key;
    d.adam = &adam;
    d.rates.kind = FOLD_RATE_COSINE;
    d.clip = key % 2 ? 0.5f : 0.0f;
    d.keep_best = key % 3 == 0;
    const fold_status got = fold_fit(&d, &report);
    const float loss = (float)report.loss;
    const fold_param all = { 0, 0 };
    if (turn != TELLING) status(got, fold_ctx_message(f)); /* a context that measures has no losses */
    if (turn == TELLING) fold_values_write_end(n->m, all); /* nor steps; to other contexts parameters change all the same */
    look("loss", 0, &loss, 1);
}
)
CODE(predict,
static void predict(fold_ctx *f, const net *n, int samples) {
    fold_fit_predict_desc d = fold_fit_predict_desc_default();
    d.ctx = f;
    d.samples = samples;
    d.batch = 4;
    d.record = scores_of;
    d.take = take_word;
    d.user = (void *)n;
    status(fold_fit_predict(&d), fold_ctx_message(f));
}
)

/* All pieces in order; a program has those whose names it uses. A cell is used by the name of its _cell. */
#define PIECE_LIST(X)                                                                                   \
    X(torch) X(net) X(describe) X(sizes) X(new_model) X(close_model) X(new_param) X(new_cell) X(new_mlp) X(new_conv) X(new_block)         \
    X(assembled) X(new_encoder) X(partly_op) X(decay_op) X(file) X(file_size) X(write_file) X(tensor) X(torch_file) X(torch_layers) X(mix_cell) X(windows_cell)     \
    X(matrices_cell) X(nest_cell) X(loss_cell) X(unused_cell) X(list_linear_cell)                       \
    X(list_softmax_mean_cell) X(list_max_cell) X(list_mean_cell) X(call) X(call_n) X(call_list) X(conv) X(conv2d) X(own) X(state) X(put)         \
    X(unroll) X(tree_inner) X(child_sum) X(memory) X(begin_caches) X(end_caches) X(copied) X(cached) X(conv_step) X(place) X(refer) X(connect) X(change) X(labels_of) X(rows_in)  \
    X(stub) X(loops) X(backwards) X(tick) X(rooms) X(is_eager) X(block_of) X(close_context) X(new_context)                                               \
    X(size_of_node) X(keep) X(keep_grads) X(finish) X(run) X(begin_only) X(backward) X(replay) X(look_one) X(drawn_row) X(look_values) X(look_grads) X(look_params) X(sgd)     \
    X(adagrad) X(rmsprop) X(adam) X(clear) X(freeze) X(scale_rates) X(clip) X(write_values) X(write_grads)           \
    X(read_file) X(count_bytes) X(count_seen) X(save) X(load) X(image) X(quantize) X(seal) X(measure) X(copy) X(write_rows)  \
    X(printed) X(print_all) X(by_torch) X(scores_of) X(word_loss) X(take_word) X(fit) X(predict)
