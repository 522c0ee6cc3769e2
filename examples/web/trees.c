/* trees: each line is a nested list, and so a network with a structure of its own. All of them run together.

     cc -O2 -o trees examples/web/trees.c -lm && ./trees

   The playground runs these functions, and shows this program with the lines that you typed. */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

static const char *const tree[] = {
    "[MAX 2 9 [MIN 4 7] 0]",
    "[MIN 3 [MAX 1 8] 5]",
};

enum { KINDS = 4, TREE_WIDTH = 32, DEEPEST = 100 };
static const char *const kind_name[KINDS] = { "MAX", "MIN", "MED", "SUM" };
typedef struct { fold_param digits; fold_dense join[KINDS], classify; fold_cell call[KINDS]; } tree_net;

static void join(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_dense *d = (const fold_dense *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, d->W, d->b));
}

/* Each kind has a layer that joins two values. It is a cell, so a join is one call in the plan. */
static tree_net tree_net_new(fold_model *m)
{
    tree_net n;
    fold_cell_desc desc = fold_cell_desc_default();
    n.digits = fold_table_new(m, "digits", 10, TREE_WIDTH);
    n.classify = fold_dense_new(m, "classify", TREE_WIDTH, 10, FOLD_ACT_LINEAR);
    desc.body = join;
    desc.user_size = sizeof(fold_dense);
    desc.n_in = 2;
    desc.n_out = 1;
    desc.in[0] = desc.in[1] = fold_shape1(TREE_WIDTH);
    for (int kind = 0; kind < KINDS; kind++) {
        n.join[kind] = fold_dense_new(m, kind_name[kind], 2 * TREE_WIDTH, TREE_WIDTH, FOLD_ACT_TANH);
        desc.name = kind_name[kind];
        desc.user = &n.join[kind];
        n.call[kind] = fold_cell_new(m, &desc);
    }
    return n;
}

/* Records one item, a digit or a nested list, by plain recursion. [MAX a b c] joins a with b, and that with c. */
static fold_node tree_item(fold_ctx *f, const tree_net *n, const char **at, int depth, const char **wrong)
{
    int kind = 0;
    while (**at == ' ') ++*at;
    if (**at >= '0' && **at <= '9') return fold_lookup(f, n->digits, *(*at)++ - '0');
    while (kind < KINDS && strncmp(*at + (**at == '['), kind_name[kind], 3)) kind++;
    if (**at != '[') *wrong = "an item is a digit, or a list such as [MAX 1 2]";
    else if (kind == KINDS) *wrong = "after [ comes MAX, MIN, MED or SUM";
    else if (depth == DEEPEST) *wrong = "at most 100 lists are inside each other";
    if (*wrong) return fold_lookup(f, n->digits, 0);
    *at += 4;
    fold_node pair[2];
    pair[0] = tree_item(f, n, at, depth + 1, wrong);
    while (!*wrong) {
        while (**at == ' ') ++*at;
        if (**at == ']') return ++*at, pair[0];
        if (!**at) return *wrong = "a ] is missing", pair[0];
        pair[1] = tree_item(f, n, at, depth + 1, wrong);
        pair[0] = fold_call(f, n->call[kind], pair, 2);
    }
    return pair[0];
}

/* Records one line. If it cannot be read, *wrong says why. */
static fold_node tree_record(fold_ctx *f, const tree_net *n, const char *line, const char **wrong)
{
    const fold_node root = tree_item(f, n, &line, 0, wrong);
    while (*line == ' ') line++;
    if (!*wrong && *line) *wrong = "a line is one item";
    return fold_dense_apply(f, &n->classify, root);
}

int main(void)
{
    enum { LINES = sizeof tree / sizeof *tree };
    fold_model *m = fold_model_new(NULL);
    const tree_net n = tree_net_new(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node root[LINES];
    const char *wrong = NULL;
    for (int i = 0; i < LINES && !wrong; i++) root[i] = tree_record(f, &n, tree[i], &wrong);
    if (wrong) return puts(wrong), 1;
    if (fold_run(f, root, LINES)) return puts(fold_ctx_message(f)), 1;
    printf("%d calls in %d batches\n", fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
