/* notebook: the first pages of TorchFold's notebook and the first program of MXNet Fold, on values small
   enough to check by hand.

     cc -O2 -o notebook examples/notebook.c -lm && ./notebook

   Section 1.1 computes powers of two, each with a chain of calls. Section 1.2 has calls with two results.
   Both sections are written once and run twice, batched and eager. The next part uses a model for inference
   only. After that, the program mixes immediate and deferred computation: values that one context computes
   immediately decide what another context records. At the end, all rows of a batch share one value, and equal
   calls are merged. Every value is checked, and the first wrong one ends the program with status 1. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 10, POWERS = 4, LOOKUPS = 15, PRODUCTS = 100 };
typedef struct net { fold_param numbers; fold_cell twice, B, C, D; } net;
static int checked;

static void fail(const char *message)
{
    fprintf(stderr, "notebook: %s\n", message);
    exit(1);
}

/* Shows a value. All values here are small whole numbers, on which float arithmetic makes no error. */
static void show(const char *name, float value, float expected)
{
    printf(" %s%g", name, (double)value);
    if (!(fabsf(value - expected) <= 0)) {
        printf(", but it should be %g\n", (double)expected);
        fail("a wrong value");
    }
    checked++;
}

/* ---- the ops: cells, which see one sample ---- */

static void op(fold_ctx *f, const fold_node *x, fold_node *out, const void *name)
{
    switch (*(const char *)name) {
    case '2': out[0] = fold_scale(f, x[0], 2); break;
    case 'B':
        out[0] = fold_scale(f, fold_sub(f, x[0], x[1]), 2);
        out[1] = fold_scale(f, fold_add(f, x[0], x[1]), 3);
        break;
    case 'C': out[0] = fold_mul(f, x[0], x[1]); break;
    default: out[0] = fold_add(f, x[0], x[1]);
    }
}

static fold_cell new_cell(fold_model *m, const char *name, int n_in, int n_out)
{
    fold_cell_desc desc = fold_cell_desc_default();
    desc.name = name;
    desc.body = op;
    desc.user = name;
    desc.n_in = n_in;
    for (int i = 0; i < n_in; i++) desc.in[i] = fold_shape1(1);
    desc.n_out = n_out;
    return fold_cell_new(m, &desc);
}

/* Makes the table of the numbers 0 to 9. Looking one up takes an integer as argument. */
static fold_model *new_model(net *n, int inference)
{
    float values[NUMBERS];
    fold_model_desc model = fold_model_desc_default();
    fold_param_desc numbers = fold_param_desc_default();
    model.inference = inference;
    fold_model *m = fold_model_new(&model);
    if (!m) fail("out of memory");
    for (int i = 0; i < NUMBERS; i++) values[i] = (float)i;
    numbers.name = "numbers";
    numbers.shape = fold_shape2(NUMBERS, 1);
    numbers.values = values;
    numbers.uses = FOLD_FOR_LOOKUP;
    n->numbers = fold_param_new(m, &numbers);
    n->twice = new_cell(m, "2", 1, 1);
    n->B = new_cell(m, "B", 2, 2);
    n->C = new_cell(m, "C", 2, 1);
    n->D = new_cell(m, "D", 2, 1);
    if (fold_model_status(m)) fail(fold_model_message(m));
    return m;
}

static fold_ctx *new_context(fold_model *m, int eager)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.eager = eager;
    fold_ctx *f = fold_ctx_new(m, &desc);
    if (!f) fail("out of memory");
    return f;
}

/* ---- 1.1 and 1.2 ---- */

static fold_node doubled(fold_ctx *f, const net *n, fold_node x, int times)
{
    while (times-- > 0) x = fold_call(f, n->twice, &x, 1);
    return x;
}

/* Records d = D(bd, C(bc, a3)) with bc, bd = B(a1, a2). The arguments are integers, which are looked up. */
static fold_node record_d(fold_ctx *f, const net *n, int a1, int a2, int a3)
{
    fold_node a[2];
    a[0] = fold_lookup(f, n->numbers, a1);
    a[1] = fold_lookup(f, n->numbers, a2);
    const fold_node b = fold_call(f, n->B, a, 2), c[2] = { fold_out(f, b, 0), fold_lookup(f, n->numbers, a3) };
    const fold_node d[2] = { fold_out(f, b, 1), fold_call(f, n->C, c, 2) };
    return fold_call(f, n->D, d, 2);
}

static void run_pages(fold_ctx *f, const net *n, const char *name)
{
    static const char *const label[POWERS] = { "1.1 powers of two: ", "", "", "" };
    fold_node root[POWERS + 1];
    float value[POWERS + 1];
    fold_ctx_reset(f);
    for (int i = 0; i < POWERS; i++) root[i] = doubled(f, n, fold_lookup(f, n->numbers, 1), i + 1);
    root[POWERS] = record_d(f, n, 1, 2, 5);
    if (fold_run(f, root, POWERS + 1) || fold_read(f, root, POWERS + 1, value)) fail(fold_ctx_message(f));
    printf("%s:", name);
    for (int i = 0; i < POWERS; i++) show(label[i], value[i], (float)(2 << i));
    show("  1.2 d = ", value[POWERS], -1);
    if (fold_ctx_stats(f).batches) printf("  (%d calls, %d batches)", fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    putchar('\n');
}

/* ---- inference only ---- */

/* Runs the same pages with a model that has no gradients, and shows what asking for some gives. */
static void run_inference(void)
{
    net n;
    fold_model *m = new_model(&n, 1);
    fold_ctx *f = new_context(m, 0);
    run_pages(f, &n, "inference only");
    if (fold_param_grad(m, n.numbers)) fail("a model for inference has gradients");
    if (!fold_backward(f, record_d(f, &n, 1, 2, 5))) fail("a gradient from a model for inference");
    printf("inference only: asked for gradients it says \"%s\"\n", fold_ctx_message(f));
    checked += 2;
    fold_ctx_free(f);
    fold_model_free(m);
}

/* ---- immediate and deferred ---- */

/* An eager context computes at once: its values are there after every call, to branch on. `array` is read in place.
   It finds out how often each number must be doubled to reach 100, and that decides what the batched context records.
   The batched values go back. */
static void run_mixed(fold_ctx *now, fold_ctx *later, const net *n)
{
    static const float array[3] = { 3, 5, 40 }, reached[3] = { 192, 160, 160 };
    fold_node root[3], sum;
    fold_ctx_reset(now);
    fold_ctx_reset(later);
    printf("mixed: doubled until 100 is reached,");
    for (int i = 0; i < 3; i++) {
        int times = 0;
        fold_node x = fold_input_ref(now, &array[i], fold_shape1(1));
        for (; fold_scalar(now, x) < 100; times++) x = doubled(now, n, x, 1);
        show(i ? "and " : "at once: ", fold_scalar(now, x), reached[i]);
        root[i] = doubled(later, n, fold_input_ref(later, &array[i], fold_shape1(1)), times); /* not computed yet */
    }
    if (fold_run(later, root, 3)) fail(fold_ctx_message(later));
    printf(";");
    for (int i = 0; i < 3; i++) show(i ? "and " : "in batches: ", fold_scalar(later, root[i]), reached[i]);
    sum = fold_zeros(now, fold_shape1(1));
    for (int i = 0; i < 3; i++) sum = fold_add(now, sum, fold_input(now, fold_value(later, root[i]), 1));
    printf(";");
    show("back at once, their sum: ", fold_scalar(now, sum), 512);
    root[0] = doubled(later, n, fold_input(later, fold_value(now, sum), 1), 1); /* more on top of what was run */
    if (fold_run(later, root, 1)) fail(fold_ctx_message(later));
    show("doubled in the batched one: ", fold_scalar(later, root[0]), 1024);
    putchar('\n');
}

/* ---- shared values and equal calls ---- */

/* 15 concatenated lookups are one row that is marked shared. The 100 products with it run as one batch, and it is not
   copied for each. Only 10 of the products differ. With dedupe only these are computed. */
static void run_shared(fold_model *m, const net *n, int dedupe)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_node lookup[LOOKUPS], column[LOOKUPS], product[PRODUCTS];
    float value[PRODUCTS][LOOKUPS];
    int wrong = 0;
    desc.dedupe = dedupe;
    fold_ctx *f = fold_ctx_new(m, &desc);
    for (int i = 0; i < LOOKUPS; i++) {
        lookup[i] = fold_lookup(f, n->numbers, i % NUMBERS);               /* [1] */
        column[i] = fold_reshape(f, lookup[i], fold_shape2(1, 1));
    }
    const fold_node row = fold_shared(f, fold_concat(f, column, LOOKUPS, 1)); /* [1 x 15] */
    for (int i = 0; i < PRODUCTS; i++) product[i] = fold_matmul(f, lookup[i % NUMBERS], row);
    if (fold_run(f, product, PRODUCTS) || fold_read(f, product, PRODUCTS, value[0])) fail(fold_ctx_message(f));
    for (int i = 0; i < PRODUCTS; i++)
        for (int k = 0; k < LOOKUPS; k++) wrong += !(fabsf(value[i][k] - (float)(i % NUMBERS * (k % NUMBERS))) <= 0);
    printf("shared, dedupe %s:", dedupe ? "on" : "off");
    show("wrong products ", (float)wrong, 0);
    show("run ", (float)(fold_ctx_stats(f).run_nodes - 1), (float)(dedupe ? NUMBERS : PRODUCTS));
    show("in batches ", (float)(fold_ctx_stats(f).batches - 1), 1);
    putchar('\n');
    if (fold_ctx_print(f, fold_to_file, stdout)) fail("cannot print");
    fold_ctx_free(f);
}

int main(int argc, char **argv)
{
    net n;
    options_read(argc, argv, "Shows and checks small values, batched and eager.", NULL, 0);
    fold_model *m = new_model(&n, 0);
    fold_ctx *batched = new_context(m, 0), *eager = new_context(m, 1);
    run_pages(batched, &n, "batched");
    run_pages(eager, &n, "eager");
    run_inference();
    run_mixed(eager, batched, &n);
    run_shared(m, &n, 0);
    run_shared(m, &n, 1);
    fold_ctx_free(eager);
    fold_ctx_free(batched);
    fold_model_free(m);
    printf("RESULT notebook checked=%d wrong=0\n", checked);
    return 0;
}
