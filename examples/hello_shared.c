/* hello_shared: one value that all rows of a batch share.

     cc -O2 -o hello_shared examples/hello_shared.c -lm && ./hello_shared

   MXNet Fold's first program. 15 lookups in a table of 10 numbers (so five of them again), concatenated along
   axis 1, make one row of 15, which is marked shared: it is not copied for each of the 100 products
   lookup[i % 10] . row that use it, and these run as one batch. Only 10 of the products differ: with dedupe on,
   only those are computed, and the rest read their results. Every value is checked against plain loops. The batches are
   printed; --svg and --dot write a picture of those of the second run, with dedupe on. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 10, LOOKUPS = 15, PRODUCTS = 100 };

static void fail(const char *message)
{
    fprintf(stderr, "hello_shared: %s\n", message);
    exit(1);
}

/* Records the program. products: PRODUCTS nodes [LOOKUPS] */
static void record(fold_ctx *f, fold_param table, fold_node *products)
{
    fold_node lookup[LOOKUPS], column[LOOKUPS];
    for (int i = 0; i < LOOKUPS; i++) {
        lookup[i] = fold_lookup(f, table, i % ROWS);                    /* [1] */
        column[i] = fold_reshape(f, lookup[i], fold_shape2(1, 1));
    }
    const fold_node row = fold_shared(f, fold_concat(f, column, LOOKUPS, 1)); /* [1 x 15] */
    for (int i = 0; i < PRODUCTS; i++) products[i] = fold_matmul(f, lookup[i % ROWS], row);
}

/* How many values differ from those of plain loops. A product has one term: no order to round in. */
static int count_wrong(const float *table, float (*y)[LOOKUPS])
{
    int wrong = 0;
    for (int i = 0; i < PRODUCTS; i++)
        for (int k = 0; k < LOOKUPS; k++) {
            const float expected = table[i % ROWS] * table[k % ROWS];
            wrong += !(y[i][k] >= expected && y[i][k] <= expected); /* NaN is wrong too */
        }
    return wrong;
}

typedef struct outcome { int products, batches, wrong; } outcome;

typedef fold_status printer(fold_ctx *f, fold_writer *write, void *user);
static void draw(fold_ctx *f, printer *print, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) fail("cannot open the picture's file");
    const fold_status status = print(f, fold_to_file, file);
    if (fclose(file) || status) fail("cannot write the picture");
}

/* Records, runs, checks and shows it. The concatenation is one node that runs alone; all others are products. */
static outcome run(fold_model *m, fold_param table, int dedupe, const char *svg, const char *dot)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_node products[PRODUCTS];
    float y[PRODUCTS][LOOKUPS];
    desc.dedupe = dedupe;
    fold_ctx *f = fold_ctx_new(m, &desc);
    if (!f) fail("out of memory");
    record(f, table, products);
    if (fold_run(f, products, PRODUCTS) || fold_read(f, products, PRODUCTS, y[0])) fail(fold_ctx_message(f));
    const fold_stats s = fold_ctx_stats(f);
    const outcome o = { s.run_nodes - 1, s.batches - 1, count_wrong(fold_param_value(m, table), y) };
    printf("dedupe %s: %d nodes recorded, %d run in %d batches; %d of them share a batch: the products\n",
           dedupe ? "on" : "off", s.nodes, s.run_nodes, s.batches, s.batched_nodes);
    if (fold_ctx_print(f, fold_to_file, stdout)) fail("cannot print");
    if (svg) draw(f, fold_ctx_print_svg, svg);
    if (dot) draw(f, fold_ctx_print_dot, dot);
    if (s.batched_nodes != o.products) fail("not all products run in batches");
    fold_ctx_free(f);
    return o;
}

int main(int argc, char **argv)
{
    fold_model_desc desc = fold_model_desc_default();
    static const char usage[] = "usage: hello_shared [--seed N] [--svg FILE] [--dot FILE]";
    const char *svg = NULL, *dot = NULL;
    if (argc == 2 && !strcmp(argv[1], "--help")) { puts(usage); return 0; }
    for (int i = 1; i < argc; i += 2) {
        if (!strcmp(argv[i], "--seed")) desc.seed = (uint64_t)option_whole(argc, argv, i, 0, INT64_MAX);
        else if (i + 1 < argc && !strcmp(argv[i], "--svg")) svg = argv[i + 1];
        else if (i + 1 < argc && !strcmp(argv[i], "--dot")) dot = argv[i + 1];
        else { fprintf(stderr, "%s\n", usage); return 1; }
    }
    fold_model *m = fold_model_new(&desc);
    const fold_param table = fold_table_new(m, "table", ROWS, 1);
    if (fold_model_status(m)) fail(fold_model_message(m));
    const outcome all = run(m, table, 0, NULL, NULL), distinct = run(m, table, 1, svg, dot);
    const int wrong = all.wrong + distinct.wrong;
    fold_model_free(m);
    printf("RESULT hello_shared products=%d batches=%d dedupe_products=%d dedupe_batches=%d wrong=%d\n",
           all.products, all.batches, distinct.products, distinct.batches, wrong);
    return wrong || all.products != PRODUCTS || distinct.products != ROWS;
}
