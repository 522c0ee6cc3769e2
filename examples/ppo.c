/* ppo: a player with memory learns a small game from scratch, by proximal policy optimisation with an LSTM.

     cc -O2 -o ppo examples/ppo.c -lm -lpthread && ./ppo --svg ppo.svg

   Balls fall one after another through a field of 11 columns and 12 rows. Some fall diagonally and bounce off
   the walls. The player is three columns wide and moves along the bottom, one column per step. It sees a ball
   only in the upper four rows; everything below is fog, so the player must remember where the ball was and
   which way it was going. Catching a ball earns 1. The game ends when the player misses a ball or has caught
   twenty, so the maximum is 20. The game counts as solved when the mean of 100 games, played without
   randomness in the actions, is at least 19.

   64 games start together and run side by side. For each update, 64 steps of every game are played. Games end
   and begin anywhere within these steps, so the steps are cut into pieces of 1 to 64. A piece starts from the
   state that the LSTM had before the piece, or from zeros if a game begins there. All pieces of a minibatch
   run in the same batches, without padding or masks. Proximal policy optimisation (Schulman et al. 2017) then
   makes several passes over the pieces, using fold_rl.h.

   A step of playing always has the same structure, so it is recorded once and replayed. Every game has its
   own random generator. The trained weights are the same on any number of threads, and with --eager, which
   runs op by op. */
#define FOLD_USE_THREADS
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_RL_IMPLEMENTATION
#include "fold_rl.h"
#include "options.h"
#include "unfused.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what)
{
    fprintf(stderr, "ppo: %s\n", what);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory");
    return bytes;
}

/* ---- the game ------------------------------------------------------------------------------------ */

enum { COLUMNS = 11, ROWS = 12, CLEAR = 4, BALLS = 20, SENSES = 4, ACTIONS = 3 };
typedef struct game { fold_random chance; int player, x, y, slope, caught, over; } game;

static void new_ball(game *g)
{
    g->x = fold_random_below(&g->chance, COLUMNS);
    g->y = 0;
    g->slope = fold_random_below(&g->chance, 3) - 1;
}

/* Begins another game with the generator as it is. */
static void game_reset(game *g)
{
    g->player = COLUMNS / 2;
    g->caught = g->over = 0;
    new_ball(g);
}
static void game_init(game *g, uint64_t seed, uint64_t number)
{
    g->chance = fold_random_new(seed, number);
    game_reset(g);
}

/* Moves the player by -1, 0 or 1 and the ball by a row. Returns the reward. */
static float game_step(game *g, int move)
{
    g->player += move;
    if (g->player < 1) g->player = 1;
    if (g->player > COLUMNS - 2) g->player = COLUMNS - 2;
    if (g->x + g->slope < 0 || g->x + g->slope >= COLUMNS) g->slope = -g->slope;
    g->x += g->slope;
    if (++g->y < ROWS - 1) return 0;
    const int caught = abs(g->x - g->player) <= 1;
    g->caught += caught;
    g->over = !caught || g->caught == BALLS;
    if (!g->over) new_ball(g);
    return (float)caught;
}

/* What a player senses is scaled to about 1: places as such, of 0 to 11, teach less. A game that shows pixels or metres gets
   fold_rl_moments, as the trainer of fold_rl.h uses them. */
static void game_sense(const game *g, float senses[SENSES])
{
    const int seen = g->y < CLEAR;
    senses[0] = 0.2f * (float)(g->player - COLUMNS / 2);
    senses[1] = seen ? 1.0f : 0.0f;
    senses[2] = seen ? 0.2f * (float)(g->x - COLUMNS / 2) : 0;
    senses[3] = seen ? 0.25f * (float)g->y : 0;
}

/* ---- playing ------------------------------------------------------------------------------------- */

typedef struct options { uint64_t seed; int updates, games, steps, width, threads, eager; const char *svg; } options;

/* Games that are played side by side, with what the network reads and writes for each. */
typedef struct table {
    int games, width, recorded;
    game *game;
    float *senses, *logits, *value, *h, *c;
    fold_node *step;
} table;

static table table_new(int games, int width, uint64_t seed, uint64_t first)
{
    const size_t n = (size_t)games, w = (size_t)width;
    table t = { games, width, 0, (game *)take(n, sizeof(game)), NULL, NULL, NULL, NULL, NULL, NULL };
    t.senses = (float *)take(n * SENSES, sizeof(float));
    t.logits = (float *)take(n * ACTIONS, sizeof(float));
    t.value = (float *)take(n, sizeof(float));
    t.h = (float *)take(n * w, sizeof(float));
    t.c = (float *)take(n * w, sizeof(float));
    t.step = (fold_node *)take(n, sizeof(fold_node));
    for (int i = 0; i < games; i++) game_init(&t.game[i], seed, first + (uint64_t)i);
    return t;
}
static void table_free(table *t)
{
    free(t->game); free(t->senses); free(t->logits); free(t->value); free(t->h); free(t->c); free(t->step);
}

/* Lets the network see all games. The states are written back to where they are read. */
static void decide(fold_ctx *f, const fold_rl_policy *policy, table *t)
{
    const fold_shape width = fold_shape1(t->width);
    for (int i = 0; i < t->games; i++) game_sense(&t->game[i], &t->senses[i * SENSES]);
    if (t->recorded) {
        if (fold_replay(f)) fail(fold_ctx_message(f));
        return;
    }
    fold_ctx_reset(f);
    for (int i = 0; i < t->games; i++) {
        const fold_node x = fold_input_ref(f, &t->senses[i * SENSES], fold_shape1(SENSES));
        fold_state before;
        before.h = fold_input_ref(f, &t->h[i * t->width], width);
        before.c = fold_input_ref(f, &t->c[i * t->width], width);
        const fold_rl_step step = fold_rl_policy_apply(f, policy, x, before);
        fold_output_ref(f, step.actor, &t->logits[i * ACTIONS]);
        fold_output_ref(f, step.critic, &t->value[i]);
        fold_output_ref(f, step.state.h, &t->h[i * t->width]);
        fold_output_ref(f, step.state.c, &t->c[i * t->width]);
        t->step[i] = step.actor;
    }
    if (fold_run(f, t->step, t->games)) fail(fold_ctx_message(f));
    t->recorded = 1;
}

static void forget(table *t, int i)
{
    memset(&t->h[i * t->width], 0, (size_t)t->width * sizeof(float));
    memset(&t->c[i * t->width], 0, (size_t)t->width * sizeof(float));
}

/* Plays games without chance until all are over. Returns the mean of the balls caught. */
static double try_games(fold_ctx *f, const fold_rl_policy *policy, table *t, uint64_t seed, uint64_t first)
{
    double caught = 0;
    int going = t->games;
    for (int i = 0; i < t->games; i++) {
        game_init(&t->game[i], seed, first + (uint64_t)i);
        forget(t, i);
    }
    while (going) {
        decide(f, policy, t);
        for (int i = 0; i < t->games; i++) {
            game *g = &t->game[i];
            if (g->over) continue;
            game_step(g, fold_argmax(&t->logits[i * ACTIONS], ACTIONS) - 1);
            going -= g->over;
            caught += g->over ? g->caught : 0;
        }
    }
    return caught / t->games;
}

/* ---- what happened ------------------------------------------------------------------------------- */

/* The steps of an update, game by game, so that pieces lie end to end. Piece i has length[i] steps, from row first[i] on. */
typedef struct memory {
    int pieces, *length, *first, *action;
    float *senses, *log_prob, *reward, *value, *after, *h, *c, *advantage, *target;
    unsigned char *over;
} memory;

static memory memory_new(const options *o)
{
    const size_t games = (size_t)o->games, n = games * (size_t)o->steps, width = (size_t)o->width;
    memory m;
    m.pieces = 0;
    m.length = (int *)take(n, sizeof(int));
    m.first = (int *)take(n, sizeof(int));
    m.action = (int *)take(n, sizeof(int));
    m.senses = (float *)take(n * SENSES, sizeof(float));
    m.log_prob = (float *)take(n, sizeof(float));
    m.reward = (float *)take(n, sizeof(float));
    m.value = (float *)take(n, sizeof(float));
    m.after = (float *)take(n, sizeof(float));
    m.advantage = (float *)take(n, sizeof(float));
    m.target = (float *)take(n, sizeof(float));
    m.h = (float *)take(games * width, sizeof(float));
    m.c = (float *)take(games * width, sizeof(float));
    m.over = (unsigned char *)take(n, 1);
    return m;
}
static void memory_free(memory *m)
{
    free(m->length); free(m->first); free(m->action); free(m->senses); free(m->log_prob); free(m->reward); free(m->value);
    free(m->after); free(m->advantage); free(m->target); free(m->h); free(m->c); free(m->over);
}

/* Plays so many steps of every game by chance. A game that is over begins again. */
static void play(fold_ctx *f, const fold_rl_policy *policy, table *t, memory *m, const options *o)
{
    static const int sizes[1] = { ACTIONS };
    const size_t states = (size_t)t->games * (size_t)t->width * sizeof(float);
    memcpy(m->h, t->h, states);
    memcpy(m->c, t->c, states);
    for (int step = 0; step < o->steps; step++) {
        decide(f, policy, t);
        for (int i = 0; i < t->games; i++) {
            const int at = i * o->steps + step;
            game *g = &t->game[i];
            memcpy(&m->senses[at * SENSES], &t->senses[i * SENSES], SENSES * sizeof(float));
            m->value[at] = t->value[i];
            m->log_prob[at] = fold_random_softmax_n(&g->chance, &t->logits[i * ACTIONS], sizes, 1, &m->action[at]);
            if (m->action[at] < 0) fail("the weights are not numbers any more");
            m->reward[at] = game_step(g, m->action[at] - 1);
            m->over[at] = (unsigned char)g->over;
            if (!g->over) continue;
            game_reset(g);
            forget(t, i);
        }
    }
}

/* Cuts the steps into pieces. The values after those that go on are those of one step more, which changes no state. */
static void cut(fold_ctx *f, const fold_rl_policy *policy, table *t, memory *m, const options *o)
{
    const size_t states = (size_t)t->games * (size_t)t->width;
    float *kept = (float *)take(2 * states, sizeof(float));
    memcpy(kept, t->h, states * sizeof(float));
    memcpy(kept + states, t->c, states * sizeof(float));
    decide(f, policy, t);
    memcpy(t->h, kept, states * sizeof(float));
    memcpy(t->c, kept + states, states * sizeof(float));
    free(kept);
    const fold_rl_rollout steps = { t->games, o->steps, m->over, m->value, t->value, 0 };
    m->pieces = fold_rl_cut(fold_ctx_model(f), &steps, m->first, m->length, m->after);
}

/* ---- learning ------------------------------------------------------------------------------------ */

enum { PASSES = 4, PARTS = 4 };
static const fold_rl_ppo ppo = { 0.2f, 0.5f, 0.01f };

/* Records the loss of a piece, summed over its steps. */
static fold_node loss_of(fold_ctx *f, const fold_rl_policy *policy, const memory *m, int piece, const options *o)
{
    const int n = m->length[piece], at = m->first[piece], owner = at / o->steps;
    fold_node actor[1024], critic[1024];
    fold_state state = fold_recurrent_zeros(f, &policy->memory);
    if (at % o->steps == 0) { /* it goes on with a game of the update before, or its state is zero */
        state.h = fold_input_ref(f, &m->h[owner * o->width], fold_shape1(o->width));
        state.c = fold_input_ref(f, &m->c[owner * o->width], fold_shape1(o->width));
    }
    for (int i = 0; i < n; i++) {
        const fold_node x = fold_input_ref(f, &m->senses[(at + i) * SENSES], fold_shape1(SENSES));
        const fold_rl_step step = fold_rl_policy_apply(f, policy, x, state);
        actor[i] = step.actor;
        critic[i] = step.critic;
        state = step.state;
    }
    const fold_rl_steps steps = { &m->log_prob[at], &m->advantage[at], &m->target[at], n };
    const fold_node logits = fold_list_join(f, actor, n);
    const fold_node log_prob = fold_pick_each(f, fold_log_softmax(f, logits), &m->action[at], n);
    const fold_node entropy = fold_softmax_entropy(f, logits);
    return fold_rl_ppo_loss(f, &ppo, &steps, log_prob, entropy, fold_list_join(f, critic, n));
}

/* Makes passes over the pieces, a part of them at a time. */
static void learn(fold_ctx *f, const fold_rl_policy *policy, const memory *m, const fold_adam *adam, fold_random *chance, const options *o)
{
    int *order = (int *)take((size_t)m->pieces, sizeof(int));
    fold_node *loss = (fold_node *)take((size_t)m->pieces, sizeof(fold_node));
    for (int i = 0; i < m->pieces; i++) order[i] = i;
    for (int pass = 0; pass < PASSES; pass++) {
        fold_random_shuffle(chance, m->pieces, order);
        for (int part = 0; part < PARTS; part++) {
            const int from = m->pieces * part / PARTS, to = m->pieces * (part + 1) / PARTS;
            int steps = 0;
            if (from == to) continue;
            fold_ctx_reset(f);
            for (int i = from; i < to; i++) {
                loss[i - from] = loss_of(f, policy, m, order[i], o);
                steps += m->length[order[i]];
            }
            fold_backward(f, fold_scale(f, fold_sum_n(f, loss, to - from), 1 / (float)steps));
            const float norm = (float)fold_grads_clip(fold_ctx_model(f), 0.5f);
            if (!fold_finite(&norm, 1)) fail("the gradients are not numbers any more");
            if (fold_ctx_status(f) || fold_adam_step(fold_ctx_model(f), adam)) fail(fold_ctx_message(f));
        }
    }
    free(order);
    free(loss);
}

/* ---- the picture --------------------------------------------------------------------------------- */

/* Draws the curve of what was caught, and the way of a ball and of the player, one line a step. */
static void draw(const char *path, const double *curve, int n, fold_ctx *f, const fold_rl_policy *policy, table *t, uint64_t seed)
{
    enum { SIDE = 20, LEFT = 460 };
    FILE *file = fopen(path, "w");
    if (!file) fail("the picture cannot be written");
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 300\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"720\" height=\"300\" fill=\"white\"/>\n");
    for (int caught = 0; caught <= BALLS; caught += 5)
        fprintf(file, "<path d=\"M50 %dH430\" stroke=\"#ddd\"/>\n<text x=\"44\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
                260 - caught * 12, 264 - caught * 12, caught);
    fputs("<polyline fill=\"none\" stroke=\"#08519c\" stroke-width=\"2\" points=\"", file);
    for (int i = 0; i < n; i++) fprintf(file, "%.1f,%.1f ", 50 + 380.0 * i / (n > 1 ? n - 1 : 1), 260 - 12 * curve[i]);
    fprintf(file, "\"/>\n<text x=\"240\" y=\"290\" text-anchor=\"middle\">balls caught, mean of 100 games, after 0 to %d updates</text>\n", n - 1);
    fprintf(file, "<rect x=\"%d\" y=\"20\" width=\"%d\" height=\"%d\" fill=\"#d9d9d9\"/>\n<rect x=\"%d\" y=\"20\" width=\"%d\" height=\"%d\" "
                  "fill=\"#f4f4f4\"/>\n", LEFT, COLUMNS * SIDE, ROWS * SIDE, LEFT, COLUMNS * SIDE, CLEAR * SIDE);
    game_init(&t->game[0], seed, 0);
    t->game[0].x = 1;
    t->game[0].slope = -1; /* a ball that bounces */
    forget(t, 0);
    for (int step = 0; step < ROWS - 1; step++) {
        const game *g = &t->game[0];
        decide(f, policy, t);
        fprintf(file, "<circle cx=\"%d\" cy=\"%d\" r=\"7\" fill=\"%s\"/>\n", LEFT + g->x * SIDE + SIDE / 2, 20 + g->y * SIDE + SIDE / 2,
                g->y < CLEAR ? "#a50f15" : "#fcbba1");
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"4\" fill=\"#08519c\" opacity=\"%.2f\"/>\n", LEFT + (g->player - 1) * SIDE,
                24 + (ROWS - 1) * SIDE - 5 * (ROWS - 2 - step), 3 * SIDE, 0.3 + 0.06 * step);
        game_step(&t->game[0], fold_argmax(t->logits, ACTIONS) - 1);
    }
    fprintf(file, "<text x=\"%d\" y=\"290\" text-anchor=\"middle\">a ball falls into the mist</text>\n</svg>\n",
            LEFT + COLUMNS * SIDE / 2);
    if (fclose(file)) fail("the picture cannot be written");
}

/* ---- the whole ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const fold_model *m)
{
    int count;
    const float *values = fold_model_values(m, &count);
    return result_hash(RESULT_HASH, values, (size_t)count * sizeof *values);
}

static options parse(int argc, char **argv)
{
    options o = { 1, 300, 64, 64, 64, 2, 0, NULL };
    const option list[] = {
        option_of_seed("--seed", &o.seed, "of weights, games and choices"),
        option_of_whole("--updates", &o.updates, 0, 100000, "after which it gives up"),
        option_of_whole("--games", &o.games, 1, 10000, "that are played side by side"),
        option_of_whole("--steps", &o.steps, 1, 1024, "of every game in an update"),
        option_of_whole("--width", &o.width, 1, 1024, "of the dense layer and the LSTM"),
        option_of_whole("--threads", &o.threads, 1, 64, "that run"),
        option_of_flag("--eager", &o.eager, "runs every op by itself when it is recorded: slower, to the same bits"),
        option_of_text("--svg", &o.svg, "FILE", "writes the learning curve and a game as a picture"),
    };
    options_read(argc, argv, "Learns to catch balls in the mist by PPO with an LSTM.", list, OPTION_COUNT(list));
    return o;
}

int main(int argc, char **argv)
{
    enum { TRIALS = 100 };
    const options o = parse(argc, argv);
    const uint64_t tests = (uint64_t)1 << 32, start = fold_clock_monotonic(NULL); /* games of tests have numbers apart */
    fold_model_desc desc = fold_model_desc_default();
    fold_ctx_desc playing = fold_ctx_desc_default();
    desc.seed = o.seed;
    playing.eager = o.eager;
    playing.threads = o.eager ? 1 : o.threads;
    playing.parallel_for = fold_pool_for;
    playing.pool = fold_pool_new(playing.threads);
    if (!playing.pool) fail("there are no threads to be had");
    fold_ctx_desc training = playing;
    training.training = 1;
    fold_model *m = fold_model_new(&desc);
    const fold_rl_policy policy = fold_rl_policy_new(m, "player", fold_lstm_new, SENSES, o.width, ACTIONS);
    fold_ctx *f = fold_ctx_new(m, &playing), *trying = fold_ctx_new(m, &playing), *learning = fold_ctx_new(m, &training);
    table games = table_new(o.games, o.width, o.seed, 0), trials = table_new(TRIALS, o.width, o.seed, tests);
    memory seen = memory_new(&o);
    double *curve = (double *)take((size_t)o.updates + 1, sizeof(double));
    fold_random chance = fold_random_new(o.seed, UINT64_MAX);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.01f;
    int update = 0;
    for (;; update++) {
        curve[update] = try_games(trying, &policy, &trials, o.seed, tests);
        if (update % 10 == 0) printf("update %3d: %.2f of %d balls are caught\n", update, curve[update], BALLS);
        if (curve[update] >= BALLS - 1 || update == o.updates) break;
        play(f, &policy, &games, &seen, &o);
        cut(f, &policy, &games, &seen, &o);
        const fold_rl_episodes episodes = { seen.reward, seen.value, seen.length, seen.after, seen.pieces };
        if (fold_rl_advantages(m, &episodes, 0.97f, 0.95f, seen.advantage, seen.target)) fail(fold_model_message(m));
        fold_rl_standardize(seen.advantage, o.games * o.steps);
        learn(learning, &policy, &seen, &adam, &chance, &o);
    }
    const double seconds = 1e-9 * (double)(fold_clock_monotonic(NULL) - start);
    const double caught = try_games(trying, &policy, &trials, o.seed, 2 * tests);
    if (o.svg) draw(o.svg, curve, update + 1, trying, &policy, &trials, o.seed);
    printf("%d new games: %.2f of %d balls are caught; learned from %d steps in %.1f s\n", TRIALS, caught, BALLS,
           update * o.games * o.steps, seconds);
    printf("RESULT ppo caught=%.2f solved=%d updates=%d steps=%d seconds=%.2f hash=%016llx\n", caught, caught >= BALLS - 1, update,
           update * o.games * o.steps, seconds, (unsigned long long)hash_of(m));
    free(curve);
    memory_free(&seen);
    table_free(&games);
    table_free(&trials);
    fold_ctx_free(f);
    fold_ctx_free(trying);
    fold_ctx_free(learning);
    fold_pool_free((fold_pool *)playing.pool);
    fold_model_free(m);
    return 0;
}
