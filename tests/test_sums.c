/* test_sums.c - gradients that very many rows give to one place: of a weight, a bias, a row of a table, a value beside
   a list, and one that many nodes read. One after the other they would lose a unit in the last place for every second
   row. With every kernel set they are held to double precision, and batched ones to those of an eager context
   and of a run in slices, which cut lists within their blocks.
       cc -O2 -o test_sums tests/test_sums.c -lm && ./test_sums */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "kernel_sets.h"

enum { ROWS = 30000, NODES = 6000, WIDEST = 64 };
static const float value = 0.7f, slope = 0.1f;
static float input[ROWS * WIDEST];
static int zeros[ROWS];

enum { BATCHED, EAGER, SLICED, WAYS };
static uint64_t time_now;
static uint64_t clock_of_calls(void *user)
{
    (void)user;
    return time_now += 1000;
}

static fold_ctx *context(fold_model *m, int way)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    desc.eager = way == EAGER;
    desc.clock = way == SLICED ? clock_of_calls : NULL;
    desc.group_bytes = 1 << 16; /* groups of few rows: a block goes on from one to the next */
    return fold_ctx_new(m, &desc);
}

/* Runs backward: in slices of some hundred rows at most, or in one go. */
static void backward(fold_ctx *f, fold_node loss, int way)
{
    int slices = 0;
    CHECK((way == SLICED ? fold_backward_begin(f, loss) : fold_backward(f, loss)) == FOLD_OK);
    for (int more = way == SLICED; more; slices++) CHECK(fold_run_more(f, 100, &more) == FOLD_OK);
    CHECK_SAYS(way != SLICED || slices > 50, "%d slices", slices);
}

/* What `rows` rows come to, and how far one sum after the other would be from it. */
static double right(int rows, float factor) { return (double)rows * (double)factor * (double)slope; }
static double plain_error(int rows, float factor)
{
    float sum = 0;
    for (int row = 0; row < rows; row++) sum = fmaf(factor, slope, sum);
    return fabs((double)sum / right(rows, factor) - 1);
}

/* Blocks of 512 rows, of large weights 2048: (block + rows / block) / 2 units at most. */
static void check_sum(const char *what, const float *grad, int count, int rows, float factor, int block)
{
    const double most = (block + rows / (double)block + 2) / 2 / (1 << 24);
    double worst = 0;
    for (int i = 0; i < count; i++) worst = fmax(worst, fabs((double)grad[i] / right(rows, factor) - 1));
    CHECK_SAYS(worst <= most, "%s: off by %.2g, and may be by %.2g", what, worst, most);
    CHECK_SAYS(plain_error(rows, factor) > most, "%s: a plain sum would pass", what);
}

/* Lists of a sample each, so that there are many groups; all rows are the same. */
static fold_node in_pieces(fold_ctx *f, const fold_dense *dense, int rows, int width)
{
    enum { PIECES = 40 };
    fold_node loss[PIECES];
    for (int piece = 0, at = 0; piece < PIECES; piece++) {
        const int count = piece < PIECES - 1 ? rows / PIECES + piece % 2 : rows - at;
        const fold_node x = fold_list_input(f, input, count, fold_shape1(width));
        loss[piece] = fold_sum(f, fold_list_sum(f, fold_dense_apply(f, dense, x)), FOLD_ALL);
        at += count;
    }
    return fold_scale(f, fold_sum_n(f, loss, PIECES), slope);
}

static void dense(const char *isa, int inputs, int outputs, int rows, int block)
{
    static float seen[WAYS][1 << 17];
    fold_model *m = kernel_set_model(isa);
    const fold_dense layer = fold_dense_new(m, "layer", inputs, outputs, FOLD_ACT_LINEAR);
    const int size = inputs * outputs;
    for (int way = 0; way < WAYS; way++) {
        fold_ctx *f = context(m, way);
        fold_grads_clear(m);
        backward(f, in_pieces(f, &layer, rows, inputs), way);
        check_sum("weight", fold_param_grad(m, layer.W), size, rows, value, block);
        check_sum("bias", fold_param_grad(m, layer.b), outputs, rows, 1, 512);
        memcpy(seen[way], fold_param_grad(m, layer.W), (size_t)size * sizeof(float));
        fold_ctx_free(f);
    }
    CHECK_BITS(seen[EAGER], seen[BATCHED], size);
    CHECK_BITS(seen[EAGER], seen[SLICED], size);
    fold_model_free(m);
}

/* A matrix whose lines are the rows, by a weight and by the transpose of one. */
static void matrix(const char *isa)
{
    fold_model *m = kernel_set_model(isa);
    fold_param_desc turned = fold_param_desc_default();
    turned.name = "T";
    turned.shape = fold_shape2(3, 2);
    turned.uses = FOLD_FOR_LINEAR_T;
    const fold_param W = fold_weight_new(m, "W", 2, 3), b = fold_bias_new(m, "b", 3), T = fold_param_new(m, &turned);
    fold_ctx *f = context(m, 0);
    const fold_node x = fold_input_shaped(f, input, fold_shape2(ROWS, 2));
    const fold_node both = fold_add(f, fold_linear(f, x, W, b), fold_linear_t(f, x, T, FOLD_NULL_PARAM));
    CHECK(fold_backward(f, fold_scale(f, fold_sum(f, both, FOLD_ALL), slope)) == FOLD_OK);
    check_sum("weight of lines", fold_param_grad(m, W), 6, ROWS, value, 512);
    check_sum("transposed weight of lines", fold_param_grad(m, T), 6, ROWS, value, 512);
    check_sum("bias of lines", fold_param_grad(m, b), 3, ROWS, 1, 512);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* A row of a table, a value beside a list, and a value that nodes read. */
static void others(const char *isa)
{
    float seen[WAYS][3 * WIDEST];
    fold_model *m = kernel_set_model(isa);
    const fold_param table = fold_table_new(m, "table", 2, WIDEST);
    for (int way = 0; way < WAYS; way++) {
        fold_ctx *f = context(m, way);
        fold_grads_clear(m);
        const fold_node beside = fold_input(f, input, WIDEST), shared = fold_input(f, input, WIDEST);
        const fold_node rows = fold_list_lookup(f, table, zeros, ROWS);
        const fold_node list = fold_list_input(f, input, ROWS, fold_shape1(WIDEST));
        fold_node each[NODES], sum[3];
        for (int i = 0; i < NODES; i++) each[i] = fold_scale(f, shared, value);
        sum[0] = fold_list_sum(f, fold_scale(f, rows, value));
        sum[1] = fold_list_sum(f, fold_mul(f, list, beside));
        sum[2] = fold_sum_n(f, each, NODES);
        fold_keep_grad(f, beside);
        fold_keep_grad(f, shared);
        backward(f, fold_scale(f, fold_sum(f, fold_sum_n(f, sum, 3), FOLD_ALL), slope), way);
        const float *grad[3] = { fold_param_grad(m, table), fold_grad(f, beside), fold_grad(f, shared) };
        check_sum("row of a table", grad[0], WIDEST, ROWS, value, 512);
        check_sum("value beside a list", grad[1], WIDEST, ROWS, value, 512);
        check_sum("value that nodes read", grad[2], WIDEST, NODES, value, 512);
        for (int i = 0; i < 3; i++) memcpy(&seen[way][i * WIDEST], grad[i], WIDEST * sizeof(float));
        fold_ctx_free(f);
    }
    CHECK_BITS(seen[EAGER], seen[BATCHED], 3 * WIDEST);
    CHECK_BITS(seen[EAGER], seen[SLICED], 3 * WIDEST);
    fold_model_free(m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    for (int i = 0; i < ROWS * WIDEST; i++) input[i] = value;
    for (int i = 0; i < KERNEL_SETS; i++) {
        fold_model *m = kernel_set_model(kernel_set[i]);
        fold_model_free(m);
        if (!m || !check_begin(kernel_set[i])) continue;
        dense(kernel_set[i], 1, 1, ROWS, 512);
        dense(kernel_set[i], 12, 9, ROWS, 512);
        if (i) dense(kernel_set[i], WIDEST, 512, ROWS / 2, 2048); /* packed; portable ones take seconds */
        matrix(kernel_set[i]);
        others(kernel_set[i]);
        check_end();
    }
    skip_missing_kernel_sets();
    return check_finish();
}
