/* sessions_code.h - what the sessions of test_sessions.c are made of: the model, the bodies of its cells, and
   the calls that a session makes. Each piece is compiled here and kept as text, so that a session can be
   printed as a program of its own, which does the same to the letter. */

#define CODE(name, ...)                              \
    static const char name##_code[] = #__VA_ARGS__; \
    __VA_ARGS__

/* -- the model: parameters, cells and layers -------------------------------------------------------- */

static int hidden = 8, output = 20, wide = 70, piece = 5; /* sizes of this session */
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
    X(BUFFER, new_param(n, BUFFER, "buffer", fold_shape1(hidden), 0, 2, 0))
#define CELL_LIST(X)                                                                                         \
    X(MIX, new_cell(n, MIX, "mix", mix_cell))                                                                \
    X(WINDOWS, new_cell(n, WINDOWS, "windows", windows_cell))                                                \
    X(MATRICES, new_cell(n, MATRICES, "matrices", matrices_cell))                                            \
    X(NEST, new_cell(n, NEST, "nest", nest_cell))                                                            \
    X(LOSS, new_cell(n, LOSS, "loss", loss_cell))                                                            \
    X(UNUSED, new_cell(n, UNUSED, "unused", unused_cell))                                                    \
    X(LIST_LINEAR, new_cell(n, LIST_LINEAR, "list_linear", list_linear_cell))                                \
    X(LIST_ATTEND, new_cell(n, LIST_ATTEND, "list_attend", list_attend_cell))                                \
    X(LIST_MAX, new_cell(n, LIST_MAX, "list_max", list_max_cell))                                            \
    X(LIST_MEAN, new_cell(n, LIST_MEAN, "list_mean", list_mean_cell))
#define LAYER_LIST(X)                                                                                        \
    X(DENSE_LINEAR, n->dense[0] = fold_dense_new(n->m, "dense_linear", hidden, hidden, FOLD_ACT_LINEAR))     \
    X(DENSE_RELU, n->dense[1] = fold_dense_new(n->m, "dense_relu", hidden, hidden, FOLD_ACT_RELU))           \
    X(DENSE_TANH, n->dense[2] = fold_dense_new(n->m, "dense_tanh", hidden, hidden, FOLD_ACT_TANH))           \
    X(DENSE_SIGMOID, n->dense[3] = fold_dense_new(n->m, "dense_sigmoid", hidden, hidden, FOLD_ACT_SIGMOID))  \
    X(DENSE_GELU, n->dense[4] = fold_dense_new(n->m, "dense_gelu", hidden, hidden, FOLD_ACT_GELU))           \
    X(MLP, n->mlp = new_mlp(n->m, hidden, output))                                                           \
    X(RNN, n->recurrent[RNN] = fold_rnn_new(n->m, "rnn", hidden, hidden))                                    \
    X(LSTM, n->recurrent[LSTM] = fold_lstm_new(n->m, "lstm", hidden, hidden))                                \
    X(GRU, n->recurrent[GRU] = fold_gru_new(n->m, "gru", hidden, hidden))                                    \
    X(STACK, n->stack = fold_rnn_stack_new(n->m, "stack", fold_lstm_new, hidden, hidden, 2, 1))              \
    X(TREE, n->tree = fold_tree_lstm_new(n->m, "tree", hidden, hidden, 2))                                   \
    X(CHILD_SUM, n->child_sum = fold_child_sum_new(n->m, "child_sum", hidden, hidden))
#define PART_LIST(X) PARAM_LIST(X) CELL_LIST(X) LAYER_LIST(X)

#define NAME_OF(name, ...) name,
#define TEXT_OF(name, ...) #name,
enum param { PARAM_LIST(NAME_OF) PARAMS };
enum cell { CELL_LIST(NAME_OF) CELLS };
enum layer { RNN, LSTM, GRU, RECURRENT };
static const char *const param_text[] = { PARAM_LIST(TEXT_OF) };
static const char *const cell_text[] = { CELL_LIST(TEXT_OF) };
static const char *const layer_text[] = { "RNN", "LSTM", "GRU" };
enum part {
#define PART_NAME(name, ...) PART_##name,
    PART_LIST(PART_NAME) PARTS
};

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
} net;
)
CODE(describe,
typedef void describe(fold_cell_desc *d);
)
CODE(new_model,
static void new_model(net *n, int inference) {
    fold_model_desc d = fold_model_desc_default();
    memset(n, 0, sizeof *n);
    d.seed = 7;
    d.inference = inference;
    n->m = fold_model_new(&d);
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
    d.init_scale = 0.3f;
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
    const fold_node norm = fold_layer_norm(f, in[0], n->param[GAIN], n->param[B_HIDDEN]);
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

CODE(list_attend_cell,
static void list_attend_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) {
    const fold_node x = fold_add(f, in[2], in[0]);
    (void)user;
    out[0] = fold_list_attend(f, fold_dot(f, in[0], in[1]), x);
    out[1] = fold_list_sum(f, fold_slice(f, x, 0, hidden / 4, hidden / 2));
}
static void list_attend_cell(fold_cell_desc *d) {
    d->body = list_attend_body;
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
    out[0] = fold_list_max(f, fold_dropout(f, fold_gelu(f, in[0]), 0.5f));
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
    describe_cell(LIST_ATTEND, list_attend_cell, list_attend_cell_code, 99, vector, fold_shape1(hidden / 2),
                  one);
    describe_cell(LIST_MAX, list_max_cell, list_max_cell_code, 6, fold_shape1(piece), one, one);
    describe_cell(LIST_MEAN, list_mean_cell, list_mean_cell_code, 99, fold_shape1(3 + piece), vector, one);
}

/* -- the calls of a session ------------------------------------------------------------------------- */

/* The test and a printed program have their own: the first notes n values, or compares them; the second notes
   whether a call succeeded. */
static void look(const char *what, int at, const float *x, size_t n);
static void status(fold_status got, const char *message);

CODE(call,
static void call(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, fold_node *out, int n_out) {
    const fold_node y = fold_call(f, cell, in, n_in);
    for (int i = 0; i < n_out; i++) out[i] = fold_out(f, y, i);
}
)
CODE(call_list,
static void call_list(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, int count, fold_node *out,
                      int n_out) {
    const fold_node y = fold_call_list(f, cell, in, n_in, in + n_in, count);
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
CODE(call_lists,
static void call_lists(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, fold_node *out, int n_out) {
    const fold_node y = fold_call_lists(f, cell, in, n_in, in + n_in);
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
    if (reverse) put(fold_unroll_reverse(f, r, x, n, NULL, out), out + n, n_out - n);
    else put(fold_unroll(f, r, x, n, NULL, out), out + n, n_out - n);
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
    int n_data, n_index, refs;
} memory;
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
    if (r->refs) fold_index_ref(f, x, r->index + at);
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
CODE(new_context,
static fold_ctx *new_context(const net *n, int eager, int training, int dedupe, int schedule,
                             size_t group_bytes, size_t plan_cache_bytes, int threads) {
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.eager = eager;
    d.dedupe = dedupe;
    d.schedule = (fold_schedule)schedule;
    d.group_bytes = group_bytes;
    d.plan_cache_bytes = plan_cache_bytes;
    d.threads = threads;
    d.parallel_for = backwards;
    d.clock = tick;
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
    for (int turns = 0; more && !begun && turns < 100000; turns++)
        begun = fold_run_more(f, slices == 1 ? 0 : (uint64_t)slices * 1000, &more);
    status(more && !begun ? FOLD_BAD_STATE : begun, fold_ctx_message(f));
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
CODE(look_values,
static void look_values(fold_ctx *f, const fold_node *v, const int *list, int n) {
    float x[16384];
    for (int i = 0; i < n; i++) {
        const size_t size = size_of_node(f, v[list[i]]);
        if (i % 2) look("value", list[i], fold_value(f, v[list[i]]), size);
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
    for (int i = 0; i < fold_param_count(m); i++) {
        const fold_param p = fold_param_at(m, i);
        const fold_shape s = fold_param_shape(m, p);
        size_t n = 1;
        for (int k = 0; k < s.rank; k++) n *= (size_t)s.dim[k];
        look(fold_param_name(m, p), -1, fold_param_value(m, p), n);
        if (fold_param_grad(m, p)) look(fold_param_name(m, p), -2, fold_param_grad(m, p), n);
    }
}
)

CODE(sgd,
static void sgd(fold_model *m, float rate, float momentum, float decay) {
    const fold_sgd o = { rate, momentum, decay };
    status(fold_sgd_step(m, &o), fold_model_message(m));
}
)
CODE(adagrad,
static void adagrad(fold_model *m, float rate, float epsilon, float decay) {
    const fold_adagrad o = { rate, epsilon, decay };
    status(fold_adagrad_step(m, &o), fold_model_message(m));
}
)
CODE(rmsprop,
static void rmsprop(fold_model *m, float rate, float rho, float epsilon, float decay) {
    const fold_rmsprop o = { rate, rho, epsilon, decay };
    status(fold_rmsprop_step(m, &o), fold_model_message(m));
}
)
CODE(adam,
static void adam(fold_model *m, float rate, float beta1, float epsilon, float decay, int decoupled) {
    const fold_adam o = { rate, beta1, 0.999f, epsilon, decay, decoupled };
    status(fold_adam_step(m, &o), fold_model_message(m));
}
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
CODE(file,
static unsigned char file[2][2000000];
)
CODE(file_size,
static size_t file_size[2];
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
CODE(save,
static void save(fold_model *m, int at, int with_state) {
    fold_save_desc d = fold_save_desc_default();
    d.state = with_state;
    file_size[at] = 0;
    status(fold_model_save_to(m, write_file, &at, &d), fold_model_message(m));
}
)
CODE(load,
static void load(fold_model *m, int at, int with_state) {
    fold_load_desc d = fold_load_desc_default();
    d.state = with_state;
    d.allow_missing = 1;
    status(fold_model_load_memory(m, file[at], file_size[at], &d), fold_model_message(m));
}
)

/* All pieces in order; a program has those whose names it uses. A cell is used by the name of its _cell. */
#define PIECE_LIST(X)                                                                                   \
    X(net) X(describe) X(new_model) X(new_param) X(new_cell) X(new_mlp) X(mix_cell) X(windows_cell)     \
    X(matrices_cell) X(nest_cell) X(loss_cell) X(unused_cell) X(list_linear_cell)                       \
    X(list_attend_cell) X(list_max_cell) X(list_mean_cell) X(call) X(call_list) X(call_lists) X(conv) X(state) X(put)         \
    X(unroll) X(tree_inner) X(child_sum) X(memory) X(place) X(refer) X(change) X(labels_of) X(rows_in)  \
    X(stub) X(loops) X(backwards) X(tick) X(new_context)                                               \
    X(size_of_node) X(keep) X(keep_grads) X(finish) X(run) X(begin_only) X(backward) X(replay) X(look_values) X(look_grads) X(look_params) X(sgd)     \
    X(adagrad) X(rmsprop) X(adam) X(clip) X(write_values) X(write_grads) X(file) X(file_size)           \
    X(write_file) X(save) X(load)
