/* plan: draws four small trees and the batches they run in.

     cc -O2 -o plan examples/plan.c -lm && ./plan >plan.svg
     ./plan --race >race.svg                                  the animation in the README
     ./plan --text

   Trees are written with parentheses: "(1 (2 3))" joins the leaf 1 with the join of leaves 2 and 3. A leaf
   looks up a row of a table, a join is one call of a cell, and each tree has a loss. The root of the
   recording is the mean of the four losses. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_DRAW_IMPLEMENTATION
#include "fold_draw.h"
#include "options.h"
#include <stdio.h>

enum { HIDDEN = 8, CLASSES = 2, TREES = 4 };
static const char *const trees[TREES] = { "(1 2)", "((1 2) 3)", "(1 ((2 3) 4))", "((1 2) (3 4))" };
typedef struct { fold_param digits, W, b; fold_dense classify; fold_cell join; } net;

static void join(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, n->W, n->b));
}

static fold_node read_tree(fold_ctx *f, const net *n, const char **at)
{
    while (**at == ' ' || **at == ')')
        ++*at;
    const char first = *(*at)++;
    if (first != '(')
        return fold_lookup(f, n->digits, first - '0');
    fold_node child[2];
    child[0] = read_tree(f, n, at);
    child[1] = read_tree(f, n, at);
    return fold_call(f, n->join, child, 2);
}

static net new_net(fold_model *m)
{
    net n;
    n.digits = fold_table_new(m, "digits", 10, HIDDEN);
    n.W = fold_weight_new(m, "join.W", 2 * HIDDEN, HIDDEN);
    n.b = fold_bias_new(m, "join.b", HIDDEN);
    n.classify = fold_dense_new(m, "classify", HIDDEN, CLASSES, FOLD_ACT_LINEAR);
    fold_cell_desc cell = fold_cell_desc_default();
    cell.name = "join";
    cell.body = join;
    cell.user = &n;
    cell.n_in = 2;
    cell.in[0] = cell.in[1] = fold_shape1(HIDDEN);
    cell.n_out = 1;
    cell.user_size = sizeof n; /* the body gets a copy */
    n.join = fold_cell_new(m, &cell);
    return n;
}

int main(int argc, char **argv)
{
    int text = 0, race = 0;
    const option table[2] = { option_of_flag("--text", &text, "prints the batches as text instead"),
                              option_of_flag("--race", &race, "draws them beside one call at a time, moving") };
    options_read(argc, argv, "Draws four small trees and the batches they run in, as SVG.", table, OPTION_COUNT(table));
    fold_model *m = fold_model_new(NULL);
    const net n = new_net(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node loss[TREES];
    for (int i = 0; i < TREES; i++) {
        const char *at = trees[i];
        const fold_node root = read_tree(f, &n, &at);
        loss[i] = fold_softmax_xent(f, fold_dense_apply(f, &n.classify, root), i % CLASSES);
    }
    const fold_node mean = fold_mean_n(f, loss, TREES);
    fold_status status = fold_run(f, &mean, 1);
    if (status)
        fprintf(stderr, "%s\n", fold_ctx_message(f));
    else if (text)
        status = fold_ctx_print(f, fold_to_file, stdout) ? FOLD_IO : fold_ctx_print_splits(f, fold_to_file, stdout);
    else if (race) {
        fold_draw_race_desc desc = fold_draw_race_desc_default();
        desc.title = "Four trees of digits, run twice";
        status = fold_draw_race(f, &desc, fold_to_file, stdout);
    } else
        status = fold_draw_svg(f, fold_to_file, stdout);
    fold_ctx_free(f);
    fold_model_free(m);
    return status != FOLD_OK;
}
