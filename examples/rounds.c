/* rounds: every sample takes its own number of steps, which depends on computed values.

     cc -O2 -o rounds examples/rounds.c -lm && ./rounds

   Three programs share one recipe. A round records what the active samples need next, runs it, and reads the
   values. Some samples are then done; the others continue. So all active samples share a few batches per
   round, and there are only as many rounds as the slowest sample has steps. run_rounds has the loop, in 25
   lines.

   - paths integrates an ordinary differential equation, like that of a neural ODE or a flow, by the method of
     Dormand and Prince. Each path has its own step size. Batched solvers usually have one step size for all
     paths, as small as the hardest path needs.
   - exits is a network of ten blocks that classifies points on three spirals. A point leaves after the first
     block that is sure of its class.
   - search plays 128 games of noughts and crosses, each with its own search tree, as in AlphaZero. The
     network reads the moves of a game, and predicts the best move and the winner. In each round, every tree
     asks for one more position. A game is done when its value is proven or after 200 simulations, so trees
     differ in size and depth. The state of a position is computed from that of its parent, known from an
     earlier round.

   There are two ways to continue. The state of a path is a few numbers: the program reads them, resets the
   recording, and passes them to the next round as inputs. exits and search continue from nodes: they record
   more after a run, so they must pass the nodes that later rounds read to fold_keep. Without fold_keep the
   results are the same, but each run recomputes what it needs from earlier rounds. Only the time and
   fold_stats.recomputed_nodes differ. The program runs exits and search both ways, to measure the cost.

   Each result is compared with two runs of that sample alone, one in a batching context and one in an eager
   one. All three results must be bit-identical. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include "unfused.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char *what)
{
    fprintf(stderr, "rounds: %s\n", what);
    exit(1);
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---- the recipe ---------------------------------------------------------------------------------- */

enum { MOST = 256, PATHS = MOST, POINTS = MOST, GAMES = 128 };

/* Samples that run in rounds. */
typedef struct work {
    const char *name;
    int samples;
    int reset;                                              /* each round is a new recording */
    void (*begin)(int sample);                              /* puts the sample at its start */
    fold_node (*record)(fold_ctx *f, int sample);           /* records what it needs next */
    int (*look)(fold_ctx *f, int sample, fold_node output); /* reads that; returns whether the sample continues */
    uint64_t (*result)(int sample);                         /* returns a hash of its result */
} work;

/* What the rounds took. `bound` is the number of batches that no schedule of these rounds can do without. */
typedef struct cost {
    int rounds;
    long batches, bound, calls, recomputed;
    double seconds;
} cost;

static cost run_rounds(fold_ctx *f, const work *w, int first, int n)
{
    cost c = { 0, 0, 0, 0, 0, seconds() };
    int active[MOST];
    fold_node need[MOST];
    for (int i = 0; i < n; i++) w->begin(active[i] = first + i);
    fold_ctx_reset(f);
    for (int going = n; going > 0; c.rounds++) {
        if (w->reset) fold_ctx_reset(f);
        for (int i = 0; i < going; i++) need[i] = w->record(f, active[i]);
        if (fold_run(f, need, going)) fail(fold_ctx_message(f));
        const fold_stats stats = fold_ctx_stats(f);
        c.batches += stats.batches;
        c.bound += stats.lower_bound;
        c.calls += stats.run_nodes;
        c.recomputed += stats.recomputed_nodes;
        int left = 0;
        for (int i = 0; i < going; i++)
            if (w->look(f, active[i], need[i])) active[left++] = active[i];
        going = left;
    }
    c.seconds = seconds() - c.seconds;
    return c;
}

static int keeping = 1; /* whether exits and search keep what later rounds read */

/* ---- paths: each its own step size --------------------------------------------------------------- */

enum { DIM = 8, STAGES = 7 };
typedef struct path {
    float x[DIM], span;
    double at, step;
    int trials;
} path;

static fold_mlp field;
static fold_cell trial;
static path paths[PATHS];

/* Dormand and Prince (1980): the time of each stage, the weights of earlier slopes, and those of order 5 minus order 4. */
static const double stage_time[STAGES] = { 0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1 };
static const double stage_weight[STAGES][STAGES - 1] = {
    { 0 },
    { 1.0 / 5 },
    { 3.0 / 40, 9.0 / 40 },
    { 44.0 / 45, -56.0 / 15, 32.0 / 9 },
    { 19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729 },
    { 9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656 },
    { 35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84 },
};
static const double error_weight[STAGES] = { 71.0 / 57600, 0,          -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200,
                                       22.0 / 525,   -1.0 / 40 };

static fold_node weighted(fold_ctx *f, const fold_node *k, const double *weight, int n)
{
    fold_node sum = fold_scale(f, k[0], (float)weight[0]);
    for (int i = 1; i < n; i++)
        if (weight[i] < 0 || weight[i] > 0) sum = fold_add(f, sum, fold_scale(f, k[i], (float)weight[i]));
    return sum;
}

/* x and { time, step, span } -> x one step later, and the difference between orders 5 and 4. All paths run from 0 to 1; the
   span says how long that is in units of the field's time. */
static void trial_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_node at = fold_slice(f, in[1], 0, 0, 1), step = fold_slice(f, in[1], 0, 1, 1), span = fold_slice(f, in[1], 0, 2, 1);
    fold_node k[STAGES], x = in[0];
    (void)user;
    for (int i = 0; i < STAGES; i++) {
        if (i) x = fold_add(f, in[0], fold_mul(f, weighted(f, k, stage_weight[i], i), step));
        const fold_node now = fold_add(f, at, fold_scale(f, step, (float)stage_time[i]));
        const fold_node moved = fold_mlp_apply(f, &field, fold_concat2(f, x, now));
        k[i] = fold_mul(f, fold_sub(f, moved, fold_scale(f, x, 0.25f)), span);
    }
    out[0] = x;
    out[1] = fold_mul(f, weighted(f, k, error_weight, STAGES), step);
}

static void path_begin(int i)
{
    fold_random chance = fold_random_new(3, (uint64_t)i);
    path *p = &paths[i];
    for (int d = 0; d < DIM; d++) p->x[d] = 2 * fold_random_uniform(&chance) - 1;
    const float u = fold_random_uniform(&chance);
    p->span = (float)pow(100, (double)u);
    p->at = 0;
    p->step = 0.05;
    p->trials = 0;
}

static fold_node path_record(fold_ctx *f, int i)
{
    path *p = &paths[i];
    if (p->at + p->step > 1) p->step = 1 - p->at;
    const float numbers[3] = { (float)p->at, (float)p->step, p->span };
    fold_node in[2];
    in[0] = fold_input(f, p->x, DIM);
    in[1] = fold_input(f, numbers, 3);
    const fold_node output = fold_call(f, trial, in, 2);
    fold_keep(f, fold_out(f, output, 1)); /* path_look reads it */
    p->trials++;
    return output;
}

/* Returns the error of a trial, divided by the tolerance. */
static double path_error(fold_ctx *f, int i, fold_node output)
{
    const float *error = fold_value(f, fold_out(f, output, 1));
    double sum = 0;
    for (int d = 0; d < DIM; d++) {
        const double part = (double)error[d] / (1e-5 + 1e-4 * fabs((double)paths[i].x[d]));
        sum += part * part;
    }
    return sqrt(sum / DIM);
}

/* Accepts the step if its error is small enough, and chooses the next step size. */
static int path_move(fold_ctx *f, int i, fold_node output, double error)
{
    path *p = &paths[i];
    if (error <= 1) {
        memcpy(p->x, fold_value(f, output), sizeof p->x);
        p->at += p->step;
        if (p->at > 1 - 1e-9) return 0;
    }
    const double times = error > 1e-10 ? 0.9 * pow(error, -0.2) : 5;
    p->step *= times < 0.2 ? 0.2 : times > 5 ? 5 : times;
    return 1;
}
static int path_look(fold_ctx *f, int i, fold_node output) { return path_move(f, i, output, path_error(f, i, output)); }

static uint64_t path_result(int i)
{
    return result_hash(result_hash(RESULT_HASH, paths[i].x, sizeof paths[i].x), &paths[i].trials, sizeof paths[i].trials);
}

/* Integrates all paths with a common step size. Returns the number of trials. */
static long joint_trials(fold_ctx *f)
{
    fold_node output[PATHS];
    long trials = 0;
    for (int i = 0; i < PATHS; i++) path_begin(i);
    for (int going = 1; going;) {
        double worst = 0;
        fold_ctx_reset(f);
        for (int i = 0; i < PATHS; i++) output[i] = path_record(f, i);
        if (fold_run(f, output, PATHS)) fail(fold_ctx_message(f));
        for (int i = 0; i < PATHS; i++) worst = fmax(worst, path_error(f, i, output[i]));
        for (int i = 0; i < PATHS; i++) going = path_move(f, i, output[i], worst);
        trials += PATHS;
    }
    return trials;
}

/* Returns the largest difference between the ends of some paths and those by 4000 equal steps. */
static double path_difference(fold_ctx *f)
{
    enum { CHECKED = 4, FINE = 4000 };
    double worst = 0;
    for (int i = 0; i < CHECKED; i++) {
        const path end = paths[i];
        path_begin(i);
        for (int step = 0; step < FINE; step++) {
            paths[i].at = (double)step / FINE;
            paths[i].step = 1.0 / FINE;
            fold_ctx_reset(f);
            const fold_node output = path_record(f, i);
            if (fold_run(f, &output, 1)) fail(fold_ctx_message(f));
            memcpy(paths[i].x, fold_value(f, output), sizeof end.x);
        }
        for (int d = 0; d < DIM; d++) worst = fmax(worst, fabs((double)paths[i].x[d] - (double)end.x[d]));
        paths[i] = end;
    }
    return worst;
}

static void paths_new(fold_model *m)
{
    static const int sizes[] = { DIM + 1, 64, 64, DIM };
    fold_cell_desc d = fold_cell_desc_default();
    field = fold_mlp_new(m, "field", sizes, 3, FOLD_ACT_TANH);
    d.name = "trial";
    d.body = trial_body;
    d.n_in = d.n_out = 2;
    d.in[0] = fold_shape1(DIM);
    d.in[1] = fold_shape1(3);
    trial = fold_cell_new(m, &d);
}

/* ---- exits: each its own depth ------------------------------------------------------------------- */

enum { BLOCKS = 10, WIDTH = 12, ARMS = 3 };
typedef struct block { fold_dense in, out, exit; } block;
typedef struct point {
    float at[2], logits[ARMS];
    int arm, depth; /* depth: how many blocks have run */
    fold_node h;    /* the output of the last one */
} point;

static fold_dense stem;
static block blocks[BLOCKS];
static fold_cell block_cell[BLOCKS];
static point points[POINTS];

static void draw_point(fold_random *chance, float at[2], int *arm)
{
    const double along = 0.3 + 2.2 * (double)fold_random_uniform(chance);
    *arm = fold_random_below(chance, ARMS);
    const double angle = 4.5 * along + *arm * 6.283185307 / ARMS;
    at[0] = (float)(along * cos(angle)) + 0.05f * fold_random_normal(chance);
    at[1] = (float)(along * sin(angle)) + 0.05f * fold_random_normal(chance);
}

/* h -> h after a block, and the logits of its exit. */
static void block_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const block *b = (const block *)user;
    out[0] = fold_add(f, in[0], fold_dense_apply(f, &b->out, fold_dense_apply(f, &b->in, in[0])));
    out[1] = fold_dense_apply(f, &b->exit, out[0]);
}

static void point_begin(int i)
{
    fold_random chance = fold_random_new(4, (uint64_t)i);
    draw_point(&chance, points[i].at, &points[i].arm);
    points[i].depth = 0;
}

static fold_node point_record(fold_ctx *f, int i)
{
    point *p = &points[i];
    const fold_node h = p->depth ? p->h : fold_dense_apply(f, &stem, fold_input(f, p->at, 2));
    p->h = fold_call(f, block_cell[p->depth++], &h, 1);
    if (keeping) fold_keep(f, p->h); /* the next round reads it */
    return fold_out(f, p->h, 1);
}

/* A point is done when its best logit leads by 3: that class is twenty times as likely as the next. */
static int point_look(fold_ctx *f, int i, fold_node output)
{
    point *p = &points[i];
    memcpy(p->logits, fold_value(f, output), sizeof p->logits);
    const int best = fold_argmax(p->logits, ARMS);
    int sure = 1;
    for (int arm = 0; arm < ARMS; arm++) sure &= arm == best || p->logits[best] - p->logits[arm] >= 3;
    return !sure && p->depth < BLOCKS;
}

static uint64_t point_result(int i)
{
    return result_hash(result_hash(RESULT_HASH, points[i].logits, sizeof points[i].logits), &points[i].depth, sizeof points[i].depth);
}

/* Trains all exits. */
static void exits_train(fold_model *m, fold_ctx *f)
{
    enum { STEPS = 1500, BATCH = 64 };
    fold_random chance = fold_random_new(5, 0);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.004f;
    for (int step = 1; step <= STEPS; step++) {
        fold_node loss[BATCH * BLOCKS];
        int n = 0;
        fold_ctx_reset(f);
        for (int i = 0; i < BATCH; i++) {
            float at[2];
            int arm;
            draw_point(&chance, at, &arm);
            fold_node h = fold_dense_apply(f, &stem, fold_input(f, at, 2));
            for (int b = 0; b < BLOCKS; b++) {
                h = fold_call(f, block_cell[b], &h, 1);
                loss[n++] = fold_softmax_xent(f, fold_out(f, h, 1), arm);
            }
        }
        const fold_node mean = fold_mean_n(f, loss, n);
        if (fold_backward(f, mean) || fold_adam_step(m, &adam)) fail(fold_ctx_message(f));
        if (step % 500 == 0) printf("exits: step %4d  loss %.4f\n", step, (double)fold_scalar(f, mean)), fflush(stdout);
    }
}

static void exits_new(fold_model *m)
{
    char name[32];
    fold_cell_desc d = fold_cell_desc_default();
    stem = fold_dense_new(m, "stem", 2, WIDTH, FOLD_ACT_TANH);
    d.name = name;
    d.body = block_body;
    d.n_in = 1;
    d.n_out = 2;
    d.in[0] = fold_shape1(WIDTH);
    for (int b = 0; b < BLOCKS; b++) {
        snprintf(name, sizeof name, "in%d", b);
        blocks[b].in = fold_dense_new(m, name, WIDTH, WIDTH, FOLD_ACT_RELU);
        snprintf(name, sizeof name, "out%d", b);
        blocks[b].out = fold_dense_new(m, name, WIDTH, WIDTH, FOLD_ACT_LINEAR);
        snprintf(name, sizeof name, "exit%d", b);
        blocks[b].exit = fold_dense_new(m, name, WIDTH, ARMS, FOLD_ACT_LINEAR);
        snprintf(name, sizeof name, "block%d", b);
        d.user = &blocks[b];
        block_cell[b] = fold_cell_new(m, &d);
    }
}

/* ---- search: each game its own tree -------------------------------------------------------------- */

enum { SQUARES = 9, FULL = 511, START = SQUARES, MEMORY = 48, SIMULATIONS = 200, UNKNOWN = 2 };

/* A position: the squares of the player to move, and of the other one. */
typedef struct board { int own, other; } board;

static int has_line(int squares)
{
    static const int line[8] = { 0007, 0070, 0700, 0111, 0222, 0444, 0421, 0124 };
    for (int i = 0; i < 8; i++)
        if ((squares & line[i]) == line[i]) return 1;
    return 0;
}
static int may_move(board b, int square) { return !((b.own | b.other) >> square & 1); }
static board moved(board b, int square)
{
    const board next = { b.other, b.own | 1 << square };
    return next;
}
/* Returns the value for the player to move, -1 or 0, if the game is over, else UNKNOWN. */
static int outcome(board b) { return has_line(b.other) ? -1 : (b.own | b.other) == FULL ? 0 : UNKNOWN; }

/* Returns the value for the player to move if both play perfectly: 1 is a win, 0 a draw. It remembers all positions. */
static int perfect(board b)
{
    static signed char known[FULL + 1][FULL + 1]; /* 2 + the value */
    signed char *to = &known[b.own][b.other];
    if (*to) return *to - 2;
    int best = outcome(b);
    if (best == UNKNOWN) {
        best = -1;
        for (int square = 0; square < SQUARES; square++)
            if (may_move(b, square) && -perfect(moved(b, square)) > best) best = -perfect(moved(b, square));
    }
    *to = (signed char)(best + 2);
    return best;
}

/* Draws one of the perfect moves. */
static int perfect_move(board b, fold_random *chance)
{
    for (;;) {
        const int square = fold_random_below(chance, SQUARES);
        if (may_move(b, square) && -perfect(moved(b, square)) == perfect(b)) return square;
    }
}

/* A position in a tree. `sum` and `known` are values for the player to move. */
typedef struct tree_node {
    fold_node h; /* the network's state after the moves that lead here */
    int parent, move, visits, known, child[SQUARES];
    float sum, prior[SQUARES];
} tree_node;
typedef struct game {
    board root;
    int moves[SQUARES + 1], n_moves, nodes, deepest;
    int at; /* the node that waits for the network */
    tree_node node[SIMULATIONS + 2];
} game;

static fold_param move_table;
static fold_recurrent reader;
static fold_dense policy_head, value_head;
static fold_cell read_cell;
static game games[GAMES];

/* h, a move -> h after it, and the probabilities of the next move with the value of the position. */
static void read_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_state before = { in[0], FOLD_NULL_NODE };
    (void)user;
    out[0] = fold_recurrent_apply(f, &reader, in[1], before).h;
    const fold_node guess = fold_softmax(f, fold_dense_apply(f, &policy_head, out[0]));
    out[1] = fold_concat2(f, guess, fold_dense_apply(f, &value_head, out[0]));
}
static fold_node read_move(fold_ctx *f, fold_node h, int move)
{
    fold_node in[2];
    in[0] = h;
    in[1] = fold_lookup(f, move_table, move);
    return fold_call(f, read_cell, in, 2);
}

/* Draws moves that do not end the game. Row START of the table comes before them. */
static board random_moves(fold_random *chance, int *moves, int n)
{
    board b = { 0, 0 };
    moves[0] = START;
    for (int i = 1; i <= n;) {
        const int square = fold_random_below(chance, SQUARES);
        if (!may_move(b, square)) continue;
        if (outcome(moved(b, square)) != UNKNOWN) return random_moves(chance, moves, n);
        b = moved(b, moves[i++] = square);
    }
    return b;
}

static int new_node(game *g, int parent, int move, int known)
{
    tree_node *l = &g->node[g->nodes];
    memset(l, 0, sizeof *l);
    l->parent = parent;
    l->move = move;
    l->known = known;
    return g->nodes++;
}

static void game_begin(int i)
{
    fold_random chance = fold_random_new(6, (uint64_t)i);
    game *g = &games[i];
    g->n_moves = fold_random_below(&chance, 6);
    g->root = random_moves(&chance, g->moves, g->n_moves);
    g->nodes = g->deepest = 0;
    g->at = new_node(g, -1, START, UNKNOWN);
}

static fold_node game_record(fold_ctx *f, int i)
{
    game *g = &games[i];
    tree_node *l = &g->node[g->at];
    if (l->parent >= 0) {
        l->h = read_move(f, g->node[l->parent].h, l->move);
    } else {
        l->h = fold_recurrent_zeros(f, &reader).h;
        for (int move = 0; move <= g->n_moves; move++) l->h = read_move(f, l->h, g->moves[move]);
    }
    if (keeping) fold_keep(f, l->h); /* later rounds read it */
    return fold_out(f, l->h, 1);
}

/* Selects the move to explore: its value so far is high, or it is probable and has few visits (PUCT, Silver et al. 2017). */
static int select_move(const game *g, const tree_node *l, board b)
{
    int best = -1;
    float most = 0;
    for (int square = 0; square < SQUARES; square++) {
        const tree_node *child = l->child[square] ? &g->node[l->child[square]] : NULL;
        if (!may_move(b, square) || (child && child->known != UNKNOWN)) continue;
        const float value = child && child->visits ? -child->sum / (float)child->visits : 0;
        const float score = value + 1.5f * l->prior[square] * sqrtf((float)l->visits) / (float)(1 + (child ? child->visits : 0));
        if (best < 0 || score > most) best = square, most = score;
    }
    return best;
}

/* The value of a position is known if some move wins, or if the values of all moves are known. */
static void prove(game *g, tree_node *l, board b)
{
    int best = -1, all = 1;
    for (int square = 0; square < SQUARES; square++) {
        if (!may_move(b, square)) continue;
        const int known = l->child[square] ? g->node[l->child[square]].known : UNKNOWN;
        if (known == UNKNOWN) all = 0;
        else if (-known > best) best = -known;
    }
    if (all || best == 1) l->known = best;
}

/* Adds a value to all positions from `at` up to the root. `boards` has those positions, the root first. */
static void back_up(game *g, const board *boards, int depth, int at, float value)
{
    for (; at >= 0; at = g->node[at].parent, depth--, value = -value) {
        tree_node *l = &g->node[at];
        if (l->known == UNKNOWN) prove(g, l, boards[depth]);
        if (l->known != UNKNOWN) value = (float)l->known;
        l->visits++;
        l->sum += value;
    }
}

/* Selects moves down to new positions, until one needs the network. The value of a position that ends the game is backed up
   at once. Returns 0 when the search is over. */
static int next_leaf(game *g)
{
    while (g->node[0].known == UNKNOWN && g->node[0].visits < SIMULATIONS) {
        board boards[SQUARES + 1];
        int at = 0, depth = 0, move;
        boards[0] = g->root;
        for (;;) {
            move = select_move(g, &g->node[at], boards[depth]);
            boards[depth + 1] = moved(boards[depth], move);
            depth++;
            if (!g->node[at].child[move]) break;
            at = g->node[at].child[move];
        }
        g->at = g->node[at].child[move] = new_node(g, at, move, outcome(boards[depth]));
        if (depth > g->deepest) g->deepest = depth;
        if (g->node[g->at].known == UNKNOWN) return 1;
        back_up(g, boards, depth, g->at, (float)g->node[g->at].known);
    }
    return 0;
}

static int game_look(fold_ctx *f, int i, fold_node output)
{
    game *g = &games[i];
    tree_node *l = &g->node[g->at];
    const float *guess = fold_value(f, output);
    board boards[SQUARES + 1];
    int depth = 0, back[SQUARES + 1];
    for (int at = g->at; g->node[at].parent >= 0; at = g->node[at].parent) back[depth++] = g->node[at].move;
    boards[0] = g->root;
    for (int k = 0; k < depth; k++) boards[k + 1] = moved(boards[k], back[depth - 1 - k]);
    float legal = 0;
    for (int square = 0; square < SQUARES; square++) legal += may_move(boards[depth], square) ? guess[square] : 0;
    for (int square = 0; square < SQUARES; square++) l->prior[square] = may_move(boards[depth], square) ? guess[square] / legal : 0;
    back_up(g, boards, depth, g->at, guess[SQUARES]);
    return next_leaf(g);
}

/* Returns a move of the proven value, else the one with most visits. */
static int game_move(const game *g)
{
    const tree_node *root = &g->node[0];
    int best = -1, most = -1;
    for (int square = 0; square < SQUARES; square++) {
        if (!root->child[square]) continue;
        const tree_node *child = &g->node[root->child[square]];
        const int proven = root->known != UNKNOWN && -child->known == root->known, lost = child->known == 1;
        const int score = proven ? SIMULATIONS + 1 : lost ? 0 : child->visits;
        if (score > most) most = score, best = square;
    }
    return best;
}

static uint64_t game_result(int i)
{
    uint64_t hash = RESULT_HASH;
    for (int at = 0; at < games[i].nodes; at++) {
        const tree_node *l = &games[i].node[at];
        const int numbers[4] = { l->parent, l->move, l->visits, l->known };
        hash = result_hash(result_hash(hash, numbers, sizeof numbers), &l->sum, sizeof l->sum);
    }
    return hash;
}

/* Trains on random positions: a perfect move, and the value. */
static void search_train(fold_model *m, fold_ctx *f)
{
    enum { STEPS = 600, BATCH = 64 };
    fold_random chance = fold_random_new(7, 0);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.004f;
    for (int step = 1; step <= STEPS; step++) {
        fold_node loss[BATCH * 2 * SQUARES];
        int n = 0;
        fold_ctx_reset(f);
        for (int i = 0; i < BATCH; i++) {
            int moves[SQUARES + 1], length = fold_random_below(&chance, 8);
            random_moves(&chance, moves, length);
            fold_state s = fold_recurrent_zeros(f, &reader);
            board b = { 0, 0 };
            for (int at = 0; at <= length; at++) {
                if (at) b = moved(b, moves[at]);
                s = fold_recurrent_apply(f, &reader, fold_lookup(f, move_table, moves[at]), s);
                const int best = perfect_move(b, &chance);
                const float value = (float)perfect(b);
                const fold_node target = fold_input(f, &value, 1);
                loss[n++] = fold_softmax_xent(f, fold_dense_apply(f, &policy_head, s.h), best);
                loss[n++] = fold_squared_error(f, fold_dense_apply(f, &value_head, s.h), target);
            }
        }
        const fold_node mean = fold_mean_n(f, loss, n);
        if (fold_backward(f, mean) || fold_adam_step(m, &adam)) fail(fold_ctx_message(f));
        if (step % 200 == 0) printf("search: step %4d  loss %.4f\n", step, (double)fold_scalar(f, mean)), fflush(stdout);
    }
}

static void search_new(fold_model *m)
{
    enum { MOVE = 16 };
    fold_cell_desc d = fold_cell_desc_default();
    move_table = fold_table_new(m, "moves", SQUARES + 1, MOVE);
    reader = fold_gru_new(m, "reader", MOVE, MEMORY);
    policy_head = fold_dense_new(m, "policy", MEMORY, SQUARES, FOLD_ACT_LINEAR);
    value_head = fold_dense_new(m, "value", MEMORY, 1, FOLD_ACT_TANH);
    d.name = "read";
    d.body = read_body;
    d.n_in = d.n_out = 2;
    d.in[0] = fold_shape1(MEMORY);
    d.in[1] = fold_shape1(MOVE);
    read_cell = fold_cell_new(m, &d);
}

/* ---- all three ----------------------------------------------------------------------------------- */

static const work works[3] = {
    { "paths", PATHS, 1, path_begin, path_record, path_look, path_result },
    { "exits", POINTS, 0, point_begin, point_record, point_look, point_result },
    { "search", GAMES, 0, game_begin, game_record, game_look, game_result },
};

/* The costs of a work in rounds, one sample at a time, and without fold_keep. `slowest` is the largest number of batches that
   a sample took alone. */
typedef struct report {
    cost rounds, alone, without_keep;
    int slowest, same;
    uint64_t hash;
} report;

static int same_results(const work *w, const uint64_t *result, int first, int n)
{
    int same = 1;
    for (int i = first; i < first + n; i++) same &= w->result(i) == result[i];
    return same;
}

static report try_work(fold_ctx *f, fold_ctx *eager, const work *w)
{
    uint64_t result[MOST];
    report r;
    memset(&r, 0, sizeof r);
    r.same = 1;
    r.hash = RESULT_HASH;
    run_rounds(f, w, 0, w->samples); /* so that the context has its memory */
    for (keeping = 0; keeping < 2; keeping++) {
        const cost c = run_rounds(f, w, 0, w->samples);
        if (keeping) r.rounds = c;
        else r.without_keep = c;
        for (int i = 0; i < w->samples && !keeping; i++) result[i] = w->result(i);
        r.same &= same_results(w, result, 0, w->samples);
    }
    keeping = 1;
    for (int i = 0; i < w->samples; i++) {
        const cost c = run_rounds(f, w, i, 1);
        r.same &= same_results(w, result, i, 1);
        run_rounds(eager, w, i, 1);
        r.same &= same_results(w, result, i, 1);
        r.alone.batches += c.batches;
        r.alone.seconds += c.seconds;
        if (c.batches > r.slowest) r.slowest = (int)c.batches;
        r.hash = result_hash(r.hash, &result[i], sizeof result[i]);
    }
    return r;
}

static void show(const work *w, const report *r)
{
    printf("%-6s %3d samples, %3d rounds: %3ld batches, lower bound %3ld, the slowest alone %3d, one at a time %5ld;%s",
           w->name, w->samples, r->rounds.rounds, r->rounds.batches, r->rounds.bound, r->slowest, r->alone.batches,
           r->same ? " same bits\n" : " OTHER BITS\n");
    printf("       %ld calls, %.1f ms; one at a time %.1f ms\n", r->rounds.calls, 1000 * r->rounds.seconds, 1000 * r->alone.seconds);
    if (!w->reset)
        printf("       without fold_keep %ld calls, %ld of them again, %ld batches, %.1f ms\n", r->without_keep.calls,
               r->without_keep.recomputed, r->without_keep.batches, 1000 * r->without_keep.seconds);
}

static double percent_right(void)
{
    int right = 0;
    for (int i = 0; i < POINTS; i++) right += fold_argmax(points[i].logits, ARMS) == points[i].arm;
    return 100.0 * right / POINTS;
}

/* Runs all blocks for all points. Returns how many of 100 are right. */
static double percent_right_at_end(fold_ctx *f)
{
    fold_node last[POINTS];
    fold_ctx_reset(f);
    for (int i = 0; i < POINTS; i++) {
        last[i] = fold_dense_apply(f, &stem, fold_input(f, points[i].at, 2));
        for (int b = 0; b < BLOCKS; b++) last[i] = fold_call(f, block_cell[b], &last[i], 1);
        last[i] = fold_out(f, last[i], 1);
    }
    if (fold_run(f, last, POINTS)) fail(fold_ctx_message(f));
    for (int i = 0; i < POINTS; i++) memcpy(points[i].logits, fold_value(f, last[i]), sizeof points[i].logits);
    return percent_right();
}

/* Returns how many moves of 100 are perfect: those of the searches, or the network's first choices. */
static double percent_perfect(int searched)
{
    int right = 0;
    for (int i = 0; i < GAMES; i++) {
        const game *g = &games[i];
        const int move = searched ? game_move(g) : fold_argmax(g->node[0].prior, SQUARES);
        right += -perfect(moved(g->root, move)) == perfect(g->root);
    }
    return 100.0 * right / GAMES;
}

int main(int argc, char **argv)
{
    options_read(argc, argv, "Samples that take their own number of steps run together, in rounds.", NULL, 0);
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    paths_new(m);
    exits_new(m);
    search_new(m);
    fold_ctx *training = fold_ctx_new(m, &desc), *f = fold_ctx_new(m, NULL);
    desc.training = 0;
    desc.eager = 1;
    fold_ctx *eager = fold_ctx_new(m, &desc);
    exits_train(m, training);
    search_train(m, training);

    report r[3];
    r[0] = try_work(f, eager, &works[0]);
    show(&works[0], &r[0]);
    long trials = 0, depth = 0;
    int least = SIMULATIONS, most = 0, flattest = SQUARES, deepest = 0;
    for (int i = 0; i < PATHS; i++) trials += paths[i].trials;
    const double off = path_difference(f), times = (double)joint_trials(f) / (double)trials;
    printf("       one step for all takes %.1f times as many evaluations; off by %.1e at most from 4000 steps\n", times, off);

    r[1] = try_work(f, eager, &works[1]);
    show(&works[1], &r[1]);
    for (int i = 0; i < POINTS; i++) depth += points[i].depth;
    const double right = percent_right(), right_late = percent_right_at_end(f), blocks_run = (double)depth / POINTS;
    printf("       %.1f of %d blocks run for a point; right %.1f %%, after all blocks %.1f %%\n", blocks_run, BLOCKS, right, right_late);

    r[2] = try_work(f, eager, &works[2]);
    show(&works[2], &r[2]);
    for (int i = 0; i < GAMES; i++) {
        const game *g = &games[i];
        least = g->nodes < least ? g->nodes : least;
        most = g->nodes > most ? g->nodes : most;
        flattest = g->deepest < flattest ? g->deepest : flattest;
        deepest = g->deepest > deepest ? g->deepest : deepest;
    }
    printf("       trees of %d to %d positions, %d to %d moves deep; perfect moves %.1f %%, the network alone %.1f %%\n", least, most,
           flattest, deepest, percent_perfect(1), percent_perfect(0));
    uint64_t hash = RESULT_HASH;
    for (int i = 0; i < 3; i++) hash = result_hash(hash, &r[i].hash, sizeof r[i].hash);
    printf("RESULT rounds");
    for (int i = 0; i < 3; i++)
        printf(" %s_batches=%ld %s_bound=%ld %s_alone=%ld", works[i].name, r[i].rounds.batches, works[i].name, r[i].rounds.bound,
               works[i].name, r[i].alone.batches);
    printf(" joint_times=%.2f exits_right=%.1f search_right=%.1f recomputed=%ld identical=%d hash=%016llx\n", times, right,
           percent_perfect(1), r[0].rounds.recomputed + r[1].rounds.recomputed + r[2].rounds.recomputed, r[0].same && r[1].same && r[2].same,
           (unsigned long long)hash);
    fold_ctx_free(eager);
    fold_ctx_free(f);
    fold_ctx_free(training);
    fold_model_free(m);
    return 0;
}
