/* literature: nine networks that papers on dynamic batching measure, and how well they batch here.

     cc -O2 -o bench/literature bench/literature.c -lm && bench/literature

   Seven are those of ACRoBat (Fegade et al. 2024); grid LSTM is from FractalTensor (Liu et al. 2024), and lattice LSTM is a
   usual example of structures that differ in each sample. In four of them the structure depends on computed values: they run
   in rounds, as in examples/rounds.c. Weights are random and not trained, so decisions have thresholds that give samples of
   different sizes. All times are of inference, by the processor's clock.

   Each network is written once, as modules. A module is recorded as a cell or as plain ops. Columns:

     batches   forward batches of all samples together; "bound": no schedule of the same groups of samples and rounds has
               fewer; "one group": the bound if all samples ran as one group
     cells, plain ops   milliseconds a sample, all samples batched
     alone     the same cells, one sample at a time: the faster of a batch of one and of an eager context

   Results must be bit-identical batched, alone and eager, and equal up to rounding as cells and as plain ops. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "../examples/options.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 256, MAX_NODES = 160, WORDS = 1000, CLASSES = 5 };

static int width = 64, samples = 64, use_cells = 1;

static void fail(const char *what)
{
    fprintf(stderr, "literature: %s\n", what);
    exit(1);
}
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- modules --------------------------------------------------------------------------------------- */

typedef struct module { fold_cell cell; fold_cell_body *body; fold_param W, b, V, c; int n_in, n_out; } module;

/* W [inputs x outputs] with b, and V [more_in x more_out] with c if there is one. Members are read by bodies: a module does
   not move. */
static void module_new(fold_model *m, module *x, const char *name, fold_cell_body *body, int inputs, int outputs, int more_in,
                       int more_out)
{
    char part[64];
    x->body = body;
    snprintf(part, sizeof part, "%s.W", name);
    x->W = fold_weight_new(m, part, inputs, outputs);
    snprintf(part, sizeof part, "%s.b", name);
    x->b = fold_bias_new(m, part, outputs);
    if (!more_in) return;
    snprintf(part, sizeof part, "%s.V", name);
    x->V = fold_weight_new(m, part, more_in, more_out);
    snprintf(part, sizeof part, "%s.c", name);
    x->c = fold_bias_new(m, part, more_out);
}
static void module_trace(fold_model *m, module *x, const char *name, const fold_shape *in, int n_in, int n_out)
{
    fold_cell_desc d = fold_cell_desc_default();
    d.name = name;
    d.body = x->body;
    d.user = x;
    d.n_in = x->n_in = n_in;
    d.n_out = x->n_out = n_out;
    memcpy(d.in, in, (size_t)n_in * sizeof *in);
    x->cell = fold_cell_new(m, &d);
}
/* For modules whose inputs are vectors of equal length, but for the first. */
static void module_trace_vectors(fold_model *m, module *x, const char *name, int first, int rest, int n_in, int n_out)
{
    fold_shape in[FOLD_MAX_CELL_IN];
    for (int i = 0; i < n_in; i++) in[i] = fold_shape1(i ? rest : first);
    module_trace(m, x, name, in, n_in, n_out);
}
static void apply(fold_ctx *f, const module *x, const fold_node *in, fold_node *out)
{
    if (!use_cells) {
        x->body(f, in, out, x);
        return;
    }
    const fold_node call = fold_call(f, x->cell, in, x->n_in);
    for (int i = 0; i < x->n_out; i++) out[i] = fold_out(f, call, i);
}
static fold_node apply1(fold_ctx *f, const module *x, fold_node a, fold_node b)
{
    const fold_node in[2] = { a, b };
    fold_node out;
    apply(f, x, in, &out);
    return out;
}

/* sigmoid(gate) tanh(x) */
static fold_node gated(fold_ctx *f, fold_node gate, fold_node x)
{
    const fold_node share = fold_sigmoid(f, gate), through = fold_tanh(f, x);
    return fold_mul(f, share, through);
}
/* c = i u + kept, h = o tanh c, where gates has i, o and u. */
static void lstm_out(fold_ctx *f, const fold_node *gates, fold_node kept, fold_node *out)
{
    const fold_node new_part = gated(f, gates[0], gates[2]);
    out[1] = fold_node_is_null(kept) ? new_part : fold_add(f, new_part, kept);
    out[0] = gated(f, gates[1], out[1]);
}
static void tanh_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* tanh([x y] W + b) */
{
    const module *x = (const module *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, x->W, x->b));
}
static void gru_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const module *x = (const module *)user;
    fold_node X[3], H[3];
    fold_split(f, fold_linear(f, in[0], x->W, x->b), 3, X);
    fold_split(f, fold_linear(f, in[1], x->V, x->c), 3, H);
    const fold_node r = fold_sigmoid(f, fold_add(f, X[0], H[0])), z = fold_sigmoid(f, fold_add(f, X[1], H[1]));
    const fold_node n = fold_tanh(f, fold_add(f, X[2], fold_mul(f, r, H[2])));
    out[0] = fold_add(f, n, fold_mul(f, z, fold_sub(f, in[1], n)));
}

/* ---- samples and their results --------------------------------------------------------------------- */

static fold_param words, matrices;
static module head;
static fold_node roots[MOST * MAX_NODES];
static int root_of[MOST * MAX_NODES], n_roots;
static uint64_t hash_of[MOST];
static double sum_of[MOST];

static void push(int sample, fold_node x)
{
    if (n_roots == MOST * MAX_NODES) fail("too many results");
    root_of[n_roots] = sample;
    roots[n_roots++] = x;
}
static void classify(fold_ctx *f, int i, fold_node h) { push(i, apply1(f, &head, h, h)); }
static void head_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const module *x = (const module *)user;
    out[0] = fold_linear(f, in[0], x->W, x->b);
}
static fold_random chance_of(int sample) { return fold_random_new(7, (uint64_t)sample); }
static fold_node word(fold_ctx *f, fold_random *chance) { return fold_lookup(f, words, fold_random_below(chance, WORDS)); }
static fold_node zeros(fold_ctx *f) { return fold_zeros(f, fold_shape1(width)); }
static float value_at(fold_ctx *f, fold_node x, int i)
{
    const float *v = fold_value(f, x);
    if (!v) fail(fold_ctx_message(f));
    return v[i];
}

/* Shifts (1) and reductions (0) that make a random binary tree. Returns how many. */
static int draw_tree(fold_random *chance, int leaves, signed char *action)
{
    int shifted = 0, depth = 0, n = 0;
    while (shifted < leaves || depth > 1) {
        const int shift = depth < 2 || (shifted < leaves && fold_random_below(chance, 2));
        action[n++] = (signed char)shift;
        shifted += shift;
        depth += shift ? 1 : -1;
    }
    return n;
}

/* Records a random binary tree whose nodes have two values, and returns the root's first. An inner node gets the first values
   of its children, then their second ones. */
static fold_node tree(fold_ctx *f, int i, void (*leaf_of)(fold_ctx *f, fold_random *chance, fold_node *out),
                      void (*inner_of)(fold_ctx *f, const fold_node *in, fold_node *out))
{
    fold_random chance = chance_of(i);
    signed char action[MAX_NODES];
    fold_node stack[MAX_NODES][2];
    int depth = 0;
    const int n = draw_tree(&chance, 5 + fold_random_below(&chance, 31), action);
    for (int k = 0; k < n; k++) {
        if (action[k]) {
            leaf_of(f, &chance, stack[depth++]);
            continue;
        }
        depth--;
        fold_node *a = stack[depth - 1], *b = stack[depth];
        const fold_node in[4] = { a[0], b[0], a[1], b[1] };
        inner_of(f, in, a);
    }
    return stack[0][0];
}

/* ---- tree-LSTM (Tai et al. 2015) ------------------------------------------------------------------- */

static module leaf, inner;

static void leaf_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const module *x = (const module *)user;
    const fold_node none = { 0 };
    fold_node gates[3];
    fold_split(f, fold_linear(f, in[0], x->W, x->b), 3, gates);
    lstm_out(f, gates, none, out);
}
static void inner_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: h, h, c, c */
{
    const module *x = (const module *)user;
    fold_node gates[5];
    fold_split(f, fold_linear_n(f, in, 2, x->W, x->b), 5, gates);
    const fold_node left = fold_mul(f, fold_sigmoid(f, gates[3]), in[2]);
    lstm_out(f, gates, fold_add(f, left, fold_mul(f, fold_sigmoid(f, gates[4]), in[3])), out);
}
static void tree_build(fold_model *m)
{
    module_new(m, &leaf, "leaf", leaf_body, width, 3 * width, 0, 0);
    module_new(m, &inner, "inner", inner_body, 2 * width, 5 * width, 0, 0);
    module_trace_vectors(m, &leaf, "leaf", width, 0, 1, 2);
    module_trace_vectors(m, &inner, "inner", width, width, 4, 2);
}
static void tree_leaf(fold_ctx *f, fold_random *chance, fold_node *out)
{
    const fold_node x = word(f, chance);
    apply(f, &leaf, &x, out);
}
static void tree_inner(fold_ctx *f, const fold_node *in, fold_node *out) { apply(f, &inner, in, out); }
static void tree_record(fold_ctx *f, int i) { classify(f, i, tree(f, i, tree_leaf, tree_inner)); }

/* ---- MV-RNN (Socher et al. 2012): a vector and a matrix for each node --------------------------------- */

enum { MV = 16 };
static module vector_of, matrix_of;

/* Matrices are kept transposed: B a is a B^T, and W [A; B] the transpose of [A^T B^T] W^T. */
static void vector_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: a, b, A, B */
{
    const module *x = (const module *)user;
    fold_node moved[2];
    moved[0] = fold_matmul(f, in[0], in[3]);
    moved[1] = fold_matmul(f, in[1], in[2]);
    out[0] = fold_tanh(f, fold_linear_n(f, moved, 2, x->W, x->b));
}
static void matrix_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: A, B */
{
    const module *x = (const module *)user;
    out[0] = fold_linear(f, fold_concat(f, in, 2, 1), x->W, x->b);
}
static void mv_build(fold_model *m)
{
    const fold_shape v = fold_shape1(MV), M = fold_shape2(MV, MV), in[4] = { v, v, M, M };
    module_new(m, &vector_of, "vector", vector_body, 2 * MV, MV, 0, 0);
    module_new(m, &matrix_of, "matrix", matrix_body, 2 * MV, MV, 0, 0);
    module_trace(m, &vector_of, "vector", in, 4, 1);
    module_trace(m, &matrix_of, "matrix", in + 2, 2, 1);
}
static void mv_leaf(fold_ctx *f, fold_random *chance, fold_node *out)
{
    const int row = fold_random_below(chance, WORDS);
    out[0] = fold_slice(f, fold_lookup(f, words, row), 0, 0, MV);
    out[1] = fold_lookup(f, matrices, row);
}
static void mv_inner(fold_ctx *f, const fold_node *in, fold_node *out)
{
    apply(f, &vector_of, in, &out[0]);
    apply(f, &matrix_of, in + 2, &out[1]);
}
static void mv_record(fold_ctx *f, int i) { push(i, tree(f, i, mv_leaf, mv_inner)); }

/* ---- BiRNN: two directions, a class for each word ------------------------------------------------------ */

static module forth, back, joined;

static void birnn_build(fold_model *m)
{
    module_new(m, &forth, "forth", tanh_body, 2 * width, width, 0, 0);
    module_new(m, &back, "back", tanh_body, 2 * width, width, 0, 0);
    module_new(m, &joined, "joined", tanh_body, 2 * width, width, 0, 0);
    module_trace_vectors(m, &forth, "forth", width, width, 2, 1);
    module_trace_vectors(m, &back, "back", width, width, 2, 1);
    module_trace_vectors(m, &joined, "joined", width, width, 2, 1);
}
static void birnn_record(fold_ctx *f, int i)
{
    fold_random chance = chance_of(i);
    fold_node x[MAX_NODES], before[MAX_NODES], h = zeros(f);
    const int n = 5 + fold_random_below(&chance, 36);
    for (int k = 0; k < n; k++) x[k] = word(f, &chance);
    for (int k = 0; k < n; k++) before[k] = h = apply1(f, &forth, x[k], h);
    h = zeros(f);
    for (int k = n - 1; k >= 0; k--) {
        h = apply1(f, &back, x[k], h);
        classify(f, i, apply1(f, &joined, before[k], h));
    }
}

/* ---- grid LSTM (Kalchbrenner et al. 2016), two dimensions --------------------------------------------- */

static module grid;

static void grid_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: h, h, c, c, from left and above */
{
    const module *x = (const module *)user;
    fold_node gates[8];
    fold_split(f, fold_linear_n(f, in, 2, x->W, x->b), 8, gates); /* of each dimension: i, o, u, f */
    for (int d = 0; d < 2; d++)
        lstm_out(f, gates + 4 * d, fold_mul(f, fold_sigmoid(f, gates[4 * d + 3]), in[2 + d]), out + 2 * d);
}
static void grid_build(fold_model *m)
{
    module_new(m, &grid, "grid", grid_body, 2 * width, 8 * width, 0, 0);
    module_trace_vectors(m, &grid, "grid", width, width, 4, 4);
}
static void grid_record(fold_ctx *f, int i)
{
    fold_random chance = chance_of(i);
    fold_node above[16][2], left[2], out[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
    const int rows = 5 + fold_random_below(&chance, 8), columns = 5 + fold_random_below(&chance, 8);
    for (int k = 0; k < columns; k++) {
        above[k][0] = word(f, &chance);
        above[k][1] = zeros(f);
    }
    for (int row = 0; row < rows; row++) {
        left[0] = word(f, &chance);
        left[1] = zeros(f);
        for (int k = 0; k < columns; k++) {
            const fold_node in[4] = { left[0], above[k][0], left[1], above[k][1] };
            apply(f, &grid, in, out);
            memcpy(left, out, sizeof left);
            memcpy(above[k], out + 2, sizeof above[k]);
        }
    }
    classify(f, i, out[0]);
    classify(f, i, out[2]);
}

/* ---- lattice LSTM (Zhang and Yang 2018): letters, and words that end at them ----------------------------- */

static module letter, letter_after, gate_of, word_in;

static void letter_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: x, h, c */
{
    const module *x = (const module *)user;
    fold_node gates[3];
    fold_split(f, fold_linear_n(f, in, 2, x->W, x->b), 3, gates);
    const fold_node i = fold_sigmoid(f, gates[0]);
    out[1] = fold_add(f, in[2], fold_mul(f, i, fold_sub(f, fold_tanh(f, gates[2]), in[2]))); /* i u + (1 - i) c */
    out[0] = gated(f, gates[1], out[1]);
}
static void letter_after_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: x, h, sums of words */
{
    const module *x = (const module *)user;
    fold_node gates[3];
    fold_split(f, fold_linear_n(f, in, 2, x->W, x->b), 3, gates);
    const fold_node e = fold_exp(f, fold_sigmoid(f, gates[0])), all = fold_add(f, in[2], e);
    out[1] = fold_div(f, fold_add(f, in[3], fold_mul(f, e, fold_tanh(f, gates[2]))), all);
    out[0] = gated(f, gates[1], out[1]);
}
static void word_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: x, h, c where it begins */
{
    const module *x = (const module *)user;
    fold_node gates[3];
    fold_split(f, fold_linear_n(f, in, 2, x->W, x->b), 3, gates);
    const fold_node new_part = gated(f, gates[0], gates[2]);
    out[0] = fold_add(f, fold_mul(f, fold_sigmoid(f, gates[1]), in[2]), new_part);
}
static void gate_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: the letter's x, c of a word */
{
    const module *x = (const module *)user;
    out[0] = fold_exp(f, fold_sigmoid(f, fold_linear_n(f, in, 2, x->W, x->b)));
    out[1] = fold_mul(f, out[0], in[1]);
}
static void lattice_build(fold_model *m)
{
    module_new(m, &letter, "letter", letter_body, 2 * width, 3 * width, 0, 0);
    module_new(m, &word_in, "word", word_body, 2 * width, 3 * width, 0, 0);
    module_new(m, &gate_of, "gate", gate_body, 2 * width, width, 0, 0);
    letter_after = letter;
    letter_after.body = letter_after_body;
    module_trace_vectors(m, &letter, "letter", width, width, 3, 2);
    module_trace_vectors(m, &letter_after, "letter_after", width, width, 4, 2);
    module_trace_vectors(m, &word_in, "word", width, width, 3, 1);
    module_trace_vectors(m, &gate_of, "gate", width, width, 2, 2);
}
static void lattice_record(fold_ctx *f, int i)
{
    enum { WORDS_AT = 3 };
    fold_random chance = chance_of(i);
    fold_node ends[MAX_NODES][WORDS_AT], h[MAX_NODES], c[MAX_NODES];
    int n_ends[MAX_NODES] = { 0 };
    const int n = 10 + fold_random_below(&chance, 31);
    for (int k = 0; k < n; k++) {
        const fold_node x = word(f, &chance), before = k ? h[k - 1] : zeros(f);
        fold_node weight[WORDS_AT], part[WORDS_AT], out[2];
        for (int w = 0; w < n_ends[k]; w++) {
            const fold_node in[2] = { x, ends[k][w] };
            apply(f, &gate_of, in, out);
            weight[w] = out[0];
            part[w] = out[1];
        }
        if (n_ends[k]) {
            const fold_node weights = fold_sum_n(f, weight, n_ends[k]);
            const fold_node in[4] = { x, before, weights, fold_sum_n(f, part, n_ends[k]) };
            apply(f, &letter_after, in, out);
        } else {
            const fold_node in[3] = { x, before, k ? c[k - 1] : zeros(f) };
            apply(f, &letter, in, out);
        }
        h[k] = out[0];
        c[k] = out[1];
        const int end = k + 1 + fold_random_below(&chance, 3);
        if (fold_random_below(&chance, 3) || end >= n || n_ends[end] == WORDS_AT) continue;
        const fold_node in[3] = { word(f, &chance), h[k], c[k] }; /* a word from here to `end` */
        apply(f, &word_in, in, &ends[end][n_ends[end]++]);
    }
    classify(f, i, h[n - 1]);
}

/* ---- in rounds: what a sample does next depends on values ---------------------------------------------- */

typedef struct progress {
    fold_random chance;
    fold_node state, outer, read;    /* read: what is looked at after the run */
    int at, length, inner;
    float sum;
    fold_node stack[MAX_NODES];
    struct { fold_node above, above_x, before, before_x, out[4]; int depth; } todo[MAX_NODES]; /* nodes of a tree that grows */
} progress;
static progress of[MOST];

static void begin(int i, int least, int range)
{
    progress *p = &of[i];
    memset(p, 0, sizeof *p);
    p->chance = chance_of(i);
    p->length = least + fold_random_below(&p->chance, range);
}
static fold_node kept(fold_ctx *f, fold_node x)
{
    fold_keep(f, x);
    return x;
}

/* Nested RNN: for each word a GRU takes as many inner steps as it wants, up to 8 (as in Graves 2016), then an outer one. */
static module think[2], outer;

static void think_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* out: state, a number */
{
    const module *x = (const module *)user;
    gru_body(f, in, out, user);
    out[1] = fold_sigmoid(f, fold_linear(f, out[0], x[1].W, x[1].b));
}
static void nested_build(fold_model *m)
{
    module_new(m, &think[0], "think", think_body, width, 3 * width, width, 3 * width);
    module_new(m, &think[1], "halt", head_body, width, 1, 0, 0);
    module_new(m, &outer, "outer", gru_body, width, 3 * width, width, 3 * width);
    module_trace_vectors(m, &think[0], "think", width, width, 2, 2);
    module_trace_vectors(m, &outer, "outer", width, width, 2, 1);
}
static void nested_begin(int i) { begin(i, 3, 10); }
static void nested_record(fold_ctx *f, int i)
{
    progress *p = &of[i];
    fold_node in[2], out[2];
    if (!p->at && !p->inner) p->outer = p->state = zeros(f);
    if (!p->inner) p->stack[0] = kept(f, word(f, &p->chance));
    in[0] = p->stack[0];
    in[1] = p->state;
    apply(f, &think[0], in, out);
    p->state = kept(f, out[0]);
    push(i, p->read = out[1]);
}
static int nested_look(fold_ctx *f, int i)
{
    progress *p = &of[i];
    p->sum += value_at(f, p->read, 0);
    if (++p->inner < 8 && p->sum < 1.7f) return 1;
    p->outer = kept(f, apply1(f, &outer, p->state, p->outer)); /* runs in the next round */
    p->inner = 0;
    p->sum = 0;
    if (++p->at < p->length) return 1;
    return 0;
}
static void nested_end(fold_ctx *f, int i) { classify(f, i, of[i].outer); }

/* DRNN (Alvarez-Melis and Jaakkola 2017): a tree grows from the root; values say what each node is and what follows it. */
static module node_module[3];

static void drnn_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: h and x above, h and x before */
{
    const module *x = (const module *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, x[0].W, x[0].b));
    out[1] = fold_tanh(f, fold_linear_n(f, in + 2, 2, x[1].W, x[1].b));
    out[2] = fold_linear(f, fold_tanh(f, fold_linear_n(f, out, 2, x[2].W, x[2].b)), x[2].V, x[2].c);
}
static void drnn_build(fold_model *m)
{
    module_new(m, &node_module[0], "above", drnn_body, 2 * width, width, 0, 0);
    module_new(m, &node_module[1], "before", drnn_body, 2 * width, width, 0, 0);
    module_new(m, &node_module[2], "predict", drnn_body, 2 * width, width, width, 66); /* 64 words, two decisions */
    module_trace_vectors(m, &node_module[0], "node", width, width, 4, 3);
}
static void drnn_begin(int i) { begin(i, 20, 31); } /* length: most nodes; at: nodes that have run; inner: nodes there are */
static void drnn_record(fold_ctx *f, int i)
{
    progress *p = &of[i];
    if (!p->inner) {
        p->todo[p->inner].above = p->todo[p->inner].before = zeros(f);
        p->todo[p->inner].above_x = word(f, &p->chance);
        p->todo[p->inner++].before_x = zeros(f);
    }
    for (int k = p->at; k < p->inner; k++) {
        const fold_node in[4] = { p->todo[k].above, p->todo[k].above_x, p->todo[k].before, p->todo[k].before_x };
        apply(f, &node_module[0], in, p->todo[k].out);
        for (int o = 0; o < 2; o++) fold_keep(f, p->todo[k].out[o]);
        push(i, p->todo[k].out[2]);
    }
}
static int drnn_look(fold_ctx *f, int i)
{
    progress *p = &of[i];
    for (const int end = p->inner; p->at < end; p->at++) {
        const int k = p->at, deeper = p->todo[k].depth < 6;
        const float *y = fold_value(f, p->todo[k].out[2]);
        if (!y) fail(fold_ctx_message(f));
        const fold_node x = fold_lookup(f, words, fold_argmax(y, 64)), z = zeros(f);
        const int child = y[64] > fold_random_normal(&p->chance), next = k && y[65] > fold_random_normal(&p->chance);
        if ((child || k < 3) && deeper && p->inner < p->length) {
            p->todo[p->inner].above = p->todo[k].out[0], p->todo[p->inner].above_x = x;
            p->todo[p->inner].before = p->todo[p->inner].before_x = z;
            p->todo[p->inner++].depth = p->todo[k].depth + 1;
        }
        if (next && p->inner < p->length) {
            p->todo[p->inner].above = p->todo[k].above, p->todo[p->inner].above_x = p->todo[k].above_x;
            p->todo[p->inner].before = p->todo[k].out[1], p->todo[p->inner].before_x = x;
            p->todo[p->inner++].depth = p->todo[k].depth;
        }
    }
    return p->at < p->inner;
}

/* Berxit (Xin et al. 2021): a sentence leaves a transformer after the first of six layers whose class is clear. */
enum { LAYERS = 6, HEADS = 4 };
static fold_transformer layers[LAYERS];
static module leaves[LAYERS];

static void berxit_build(fold_model *m)
{
    fold_transformer_desc d = fold_transformer_desc_default();
    d.width = width;
    d.heads = HEADS;
    for (int k = 0; k < LAYERS; k++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", k);
        layers[k] = fold_transformer_new(m, name, &d);
        snprintf(name, sizeof name, "exit%d", k);
        module_new(m, &leaves[k], name, head_body, width, 2, 0, 0);
        module_trace_vectors(m, &leaves[k], name, width, width, 2, 1);
    }
}
static fold_node layer_apply(fold_ctx *f, const fold_transformer *t, fold_node x)
{
    const fold_attention *a = &t->attention;
    if (use_cells) return fold_transformer_apply(f, t, x, 0);
    const fold_node q = fold_dense_apply(f, &a->query, x), k = fold_dense_apply(f, &a->key, x);
    const fold_node read = fold_list_attention(f, q, k, fold_dense_apply(f, &a->value, x), HEADS, 0);
    const fold_node y = fold_norm_apply(f, &t->attention_norm, fold_add(f, x, fold_dense_apply(f, &a->joined, read)));
    const fold_node z = fold_dense_apply(f, &t->outer, fold_dense_apply(f, &t->inner, y));
    return fold_norm_apply(f, &t->dense_norm, fold_add(f, y, z));
}
static void berxit_begin(int i) { begin(i, 5, 36); }
static void berxit_record(fold_ctx *f, int i)
{
    progress *p = &of[i];
    if (!p->at) {
        int index[MAX_NODES];
        for (int k = 0; k < p->length; k++) index[k] = fold_random_below(&p->chance, WORDS);
        p->state = fold_list_lookup(f, words, index, p->length);
    }
    p->state = kept(f, layer_apply(f, &layers[p->at], p->state));
    const fold_node mean = fold_list_mean(f, p->state);
    push(i, p->read = apply1(f, &leaves[p->at++], mean, mean));
}
static int berxit_look(fold_ctx *f, int i)
{
    progress *p = &of[i];
    return fabsf(value_at(f, p->read, 0) - value_at(f, p->read, 1)) < 0.8f && p->at < LAYERS;
}

/* Stack-RNN: a parser reads the top of its stack and the next word, and shifts or reduces as the values say (Dyer et al. 2015). */
static module reduce, decide;

static void decide_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user) /* in: two of the stack, next word */
{
    const module *x = (const module *)user;
    out[0] = fold_linear(f, fold_tanh(f, fold_linear_n(f, in, 3, x->W, x->b)), x->V, x->c);
}
static void stack_build(fold_model *m)
{
    module_new(m, &reduce, "reduce", tanh_body, 2 * width, width, 0, 0);
    module_new(m, &decide, "decide", decide_body, 3 * width, width, width, 2);
    module_trace_vectors(m, &reduce, "reduce", width, width, 2, 1);
    module_trace_vectors(m, &decide, "decide", width, width, 3, 1);
}
static void stack_begin(int i) { begin(i, 5, 26); } /* at: words that were shifted; inner: depth of the stack */
static void stack_record(fold_ctx *f, int i)
{
    progress *p = &of[i];
    fold_node in[3];
    if (!p->at) p->outer = kept(f, word(f, &p->chance));
    in[0] = p->inner > 1 ? p->stack[p->inner - 2] : zeros(f);
    in[1] = p->inner > 0 ? p->stack[p->inner - 1] : zeros(f);
    in[2] = p->outer;
    apply(f, &decide, in, &p->read);
    push(i, p->read);
}
static int stack_look(fold_ctx *f, int i)
{
    progress *p = &of[i];
    const int wants = value_at(f, p->read, 0) > value_at(f, p->read, 1);
    if (p->inner < 2 || (wants && p->at < p->length)) {
        p->stack[p->inner++] = p->outer;
        p->outer = kept(f, ++p->at < p->length ? word(f, &p->chance) : zeros(f));
    } else {
        p->inner--;
        p->stack[p->inner - 1] = kept(f, apply1(f, &reduce, p->stack[p->inner - 1], p->stack[p->inner]));
    }
    return p->at < p->length || p->inner > 1;
}
static void stack_end(fold_ctx *f, int i) { classify(f, i, of[i].stack[0]); }

/* ---- running ------------------------------------------------------------------------------------------- */

/* A network without `look` records all at once. `end` records what is left when a sample is done. */
typedef struct network {
    const char *name;
    void (*build)(fold_model *m);
    void (*begin)(int sample);
    void (*record)(fold_ctx *f, int sample);
    int (*look)(fold_ctx *f, int sample);
    void (*end)(fold_ctx *f, int sample);
} network;

static const network networks[] = {
    { "TreeLSTM", tree_build, NULL, tree_record, NULL, NULL },
    { "MV-RNN", mv_build, NULL, mv_record, NULL, NULL },
    { "BiRNN", birnn_build, NULL, birnn_record, NULL, NULL },
    { "grid LSTM", grid_build, NULL, grid_record, NULL, NULL },
    { "lattice LSTM", lattice_build, NULL, lattice_record, NULL, NULL },
    { "NestedRNN", nested_build, nested_begin, nested_record, nested_look, nested_end },
    { "DRNN", drnn_build, drnn_begin, drnn_record, drnn_look, NULL },
    { "Berxit", berxit_build, berxit_begin, berxit_record, berxit_look, NULL },
    { "StackRNN", stack_build, stack_begin, stack_record, stack_look, stack_end },
};
enum { NETWORKS = sizeof networks / sizeof *networks };

typedef struct cost { int rounds; long batches, bound, nodes; } cost;

/* Runs what is recorded and adds the values to their samples' results. */
static void run(fold_ctx *f, cost *c, int check)
{
    if (fold_run(f, roots, n_roots)) fail(fold_ctx_message(f));
    c->rounds++;
    if (!check) return;
    const fold_stats stats = fold_ctx_stats(f);
    c->batches += stats.batches;
    c->bound += stats.lower_bound;
    c->nodes += stats.run_nodes;
    for (int k = 0; k < n_roots; k++) {
        const fold_shape shape = fold_node_shape(f, roots[k]);
        int n = 1;
        for (int d = 0; d < shape.rank; d++) n *= shape.dim[d];
        const float *values = fold_value(f, roots[k]);
        if (!values) fail(fold_ctx_message(f));
        const int i = root_of[k];
        hash_of[i] = result_hash(hash_of[i], values, (size_t)n * sizeof *values);
        for (int v = 0; v < n; v++) sum_of[i] += (double)values[v];
    }
}
static cost run_samples(fold_ctx *f, const network *x, int first, int n, int check)
{
    cost c = { 0, 0, 0, 0 };
    int active[MOST], going = n;
    for (int i = 0; i < n; i++) {
        active[i] = first + i;
        hash_of[first + i] = RESULT_HASH;
        sum_of[first + i] = 0;
        if (x->begin) x->begin(first + i);
    }
    fold_ctx_reset(f);
    while (going > 0) {
        int left = 0;
        n_roots = 0;
        for (int i = 0; i < going; i++) x->record(f, active[i]);
        run(f, &c, check);
        for (int i = 0; i < going && x->look; i++)
            if (x->look(f, active[i])) active[left++] = active[i];
        going = left;
    }
    n_roots = 0;
    for (int i = 0; i < n && x->end; i++) x->end(f, first + i);
    if (n_roots) run(f, &c, check);
    return c;
}

enum { BATCHED, PLAIN, ALONE, EAGER, ONE_GROUP, FORMS };

static void pass(fold_ctx *f, const network *x, int form)
{
    use_cells = form != PLAIN;
    if (form == ALONE || form == EAGER)
        for (int i = 0; i < samples; i++) run_samples(f, x, i, 1, 0);
    else
        run_samples(f, x, 0, samples, 0);
}
/* Whether all forms agree: as cells to the bit, as plain ops up to rounding. */
static int same_results(fold_ctx **f, const network *x, uint64_t *hash)
{
    static uint64_t first[MOST];
    static double sums[MOST];
    int same = 1;
    use_cells = 1;
    run_samples(f[BATCHED], x, 0, samples, 1);
    memcpy(first, hash_of, sizeof first);
    memcpy(sums, sum_of, sizeof sums);
    *hash = result_hash(*hash, first, (size_t)samples * sizeof *first);
    for (int i = 0; i < samples; i++) {
        for (int form = ALONE; form <= EAGER; form++) {
            run_samples(f[form], x, i, 1, 1);
            same &= hash_of[i] == first[i];
        }
    }
    use_cells = 0;
    run_samples(f[PLAIN], x, 0, samples, 1);
    for (int i = 0; i < samples; i++) same &= fabs(sum_of[i] - sums[i]) <= 1e-3 * (1 + fabs(sums[i]));
    return same;
}
static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Milliseconds a sample of each form, by turns: medians. */
static void measure(fold_ctx **f, const network *x, double least, double *ms)
{
    enum { TURNS = 64 };
    double took[ONE_GROUP][TURNS], all = 0;
    int turns = 0;
    for (int form = 0; form < ONE_GROUP; form++) pass(f[form], x, form);
    while (turns < TURNS && (turns < 3 || all < least)) {
        for (int form = 0; form < ONE_GROUP; form++) {
            const double start = seconds();
            pass(f[form], x, form);
            all += took[form][turns] = seconds() - start;
        }
        turns++;
    }
    for (int form = 0; form < ONE_GROUP; form++) {
        qsort(took[form], (size_t)turns, sizeof **took, by_size);
        ms[form] = 1e3 * took[form][turns / 2] / samples;
    }
}
static fold_ctx *open_form(fold_model *m, int form)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.eager = form == EAGER;
    if (form == ONE_GROUP) d.group_bytes = SIZE_MAX;
    fold_ctx *f = fold_ctx_new(m, &d);
    if (!f) fail("out of memory");
    return f;
}

int main(int argc, char **argv)
{
    double least = 1;
    const option table[3] = { option_of_whole("--batch", &samples, 1, MOST, "samples of each network"),
                              option_of_whole("--width", &width, MV, 512, "of all vectors but MV-RNN's, a multiple of 4"),
                              option_of_number("--seconds", &least, 0, 1e4, "of timing for each network") };
    options_read(argc, argv, "Nine networks of the literature, batched, as plain ops, and one sample at a time.", table,
                 OPTION_COUNT(table));
    uint64_t hash = RESULT_HASH;
    int same = 1;
    double most = 0;
    fold_model_desc d = fold_model_desc_default();
    d.inference = 1;
    for (int k = 0; k < NETWORKS; k++) {
        const network *x = &networks[k];
        double ms[FORMS];
        fold_ctx *f[FORMS];
        fold_model *m = fold_model_new(&d);
        words = fold_table_new(m, "words", WORDS, width);
        fold_param_desc p = fold_param_desc_default();
        p.name = "matrices", p.shape = fold_shape3(WORDS, MV, MV), p.init = FOLD_INIT_NORMAL, p.init_scale = 0.25f, p.uses = FOLD_FOR_LOOKUP;
        matrices = fold_param_new(m, &p);
        module_new(m, &head, "head", head_body, width, CLASSES, 0, 0);
        module_trace_vectors(m, &head, "head", width, width, 2, 1);
        x->build(m);
        if (fold_model_status(m)) fail(fold_model_message(m));
        for (int form = 0; form < FORMS; form++) f[form] = open_form(m, form);
        if (!k) {
            printf("%d samples of width %d, %s kernels, milliseconds a sample\n\n", samples, width, fold_model_isa(m));
            printf("| network | rounds | batches | bound | one group | cells | plain ops | alone | alone / cells |\n");
            printf("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
        }
        same &= same_results(f, x, &hash);
        use_cells = 1;
        const cost c = run_samples(f[BATCHED], x, 0, samples, 1), one = run_samples(f[ONE_GROUP], x, 0, samples, 1);
        measure(f, x, least, ms);
        const double alone = fmin(ms[ALONE], ms[EAGER]);
        most = fmax(most, alone / ms[BATCHED]);
        printf("| %s | %d | %ld | %ld | %ld | %.4f | %.4f | %.4f | %.1f |\n", x->name, c.rounds, c.batches, c.bound, one.bound,
               ms[BATCHED], ms[PLAIN], alone, alone / ms[BATCHED]);
        for (int form = 0; form < FORMS; form++) fold_ctx_free(f[form]);
        fold_model_free(m);
    }
    printf("\nRESULT literature networks=%d most_over_alone=%.1f same=%d hash=%016llx\n", NETWORKS, most, same,
           (unsigned long long)hash);
    return !same;
}
