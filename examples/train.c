/* train: trains agents in any environment that has init, reset and step, with the PPO trainer of fold_rl.h.

     cc -O2 -o train examples/train.c -lm -lpthread && ./train --svg train.svg

   The built-in environment is balancing a pole on a cart for up to 200 steps (Barto, Sutton and Anderson
   1983). For a different environment, write a file that defines the same names as the section below, and pass
   the file's name with -DENVIRONMENT. The files in examples/games adapt games from PufferLib 3.0. In the
   command below, DIR is the directory with the games' unmodified sources, which compile as GNU C with -w:

     cc -O2 -w -I DIR -I examples/games/raylib -DENVIRONMENT='"games/pong.h"' -o train_pong examples/train.c -lm -lpthread && ./train_pong

   `sh examples/games/run --games DIR` compiles and trains them all.

   Environments run side by side, and all their agents act in one batch. Each point of the learning curve is
   the mean of at least 100 episodes, with actions drawn from the policy. Training ends when such a mean
   reaches the goal, or after the number of updates that --updates sets. The trained weights are the same on
   any number of threads, and with --eager, which runs op by op. With the built-in environment and --isa
   portable, they are the same on every machine. */
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
#include <time.h>

/* What an environment chooses for itself; options may change it. */
typedef struct settings {
    uint64_t seed;
    int environments, updates, steps, layers, width, memory, threads, eager, flush;
    double rate, entropy, discount, goal;
    const char *svg, *save, *load, *isa;
} settings;

/* ---- the environment ----------------------------------------------------------------------------- */

#ifdef ENVIRONMENT
#include ENVIRONMENT
#else
typedef float environment_value; /* that an agent sees: float, or unsigned char, of which the policy sees a 255th */
enum {
    environment_agents = 1,
    environment_observations = 4,
    environment_one_hot = 0, /* 8: bytes are below 8, and the policy sees eight values for each, of which one is 1 */
    environment_heads = 1
};
static const int environment_choices[environment_heads] = { 2 }; /* of each head */

typedef struct environment { fold_random chance; int step; float x, speed, angle, turn; } environment;

static void environment_settings(settings *s)
{
    s->goal = 190;
    s->updates = 100;
    s->layers = 1;
    s->rate = 0.003;
    s->flush = 0; /* so that every machine learns the same */
}

static void environment_init(environment *e, uint64_t seed) { e->chance = fold_random_new(seed, 0); }

/* Begins an episode, and shows the first observations of all agents. */
static void environment_reset(environment *e, environment_value *seen)
{
    float *const state[4] = { &e->x, &e->speed, &e->angle, &e->turn };
    for (int i = 0; i < 4; i++) {
        *state[i] = 0.1f * fold_random_uniform(&e->chance) - 0.05f;
        seen[i] = *state[i];
    }
    e->step = 0;
}

/* Takes a step. Where an episode ends, says so, begins a new episode and shows its first observations. */
static void environment_step(environment *e, const float *actions, float *rewards, unsigned char *terminals,
                             environment_value *seen)
{
    const float force = actions[0] > 0 ? 10.0f : -10.0f, seconds = 0.02f, pole = 0.1f, all = 1.1f, half = 0.5f;
    const float a = e->angle, a2 = a * a; /* it is small: Taylor's series have the same bits on every machine, unlike sinf */
    const float s = a * (1 - a2 / 6 * (1 - a2 / 20 * (1 - a2 / 42))), c = 1 - a2 / 2 * (1 - a2 / 12 * (1 - a2 / 30));
    const float push = (force + pole * half * e->turn * e->turn * s) / all;
    const float twist = (9.8f * s - c * push) / (half * (4.0f / 3 - pole * c * c / all));
    e->x += seconds * e->speed;
    e->speed += seconds * (push - pole * half * twist * c / all);
    e->angle += seconds * e->turn;
    e->turn += seconds * twist;
    rewards[0] = 1;
    terminals[0] = fabsf(e->x) > 2.4f || fabsf(e->angle) > 0.2094f || ++e->step == 200;
    if (terminals[0])
        environment_reset(e, seen);
    else
        seen[0] = e->x, seen[1] = e->speed, seen[2] = e->angle, seen[3] = e->turn;
}
#endif

/* ---- many environments ---------------------------------------------------------------------------- */

static void fail(const char *what)
{
    fprintf(stderr, "train: %s\n", what);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory");
    return bytes;
}

/* All environments, with what their agents see, do and get, and how well. */
typedef struct world {
    int environments, agents;
    environment *each;
    environment_value *seen;
    float *actions, *rewards, *sums; /* sums of the rewards of the episodes that go on */
    unsigned char *terminals;
    double score, episodes; /* of the episodes that ended */
} world;

static world world_new(int environments, uint64_t seed)
{
    const size_t agents = (size_t)environments * environment_agents;
    world w;
    w.environments = environments;
    w.agents = (int)agents;
    w.each = (environment *)take((size_t)environments, sizeof(environment));
    w.seen = (environment_value *)take(agents * environment_observations, sizeof(environment_value));
    w.actions = (float *)take(agents * environment_heads, sizeof(float));
    w.rewards = (float *)take(agents, sizeof(float));
    w.sums = (float *)take(agents, sizeof(float));
    w.terminals = (unsigned char *)take(agents, 1);
    w.score = w.episodes = 0;
    for (int i = 0; i < environments; i++) environment_init(&w.each[i], seed + (uint64_t)i * 1000003);
    srand((unsigned)seed);
    for (int i = 0; i < environments; i++)
        environment_reset(&w.each[i], w.seen + (size_t)i * environment_agents * environment_observations);
    return w;
}
static void world_free(world *w)
{
#ifdef ENVIRONMENT_HAS_CLOSE
    for (int i = 0; i < w->environments; i++) environment_close(&w->each[i]);
#endif
    free(w->each); free(w->seen); free(w->actions); free(w->rewards); free(w->sums); free(w->terminals);
}

static void world_step(world *w)
{
    for (int i = 0; i < w->environments; i++) {
        const size_t at = (size_t)i * environment_agents;
        environment_step(&w->each[i], w->actions + at * environment_heads, w->rewards + at, w->terminals + at,
                         w->seen + at * environment_observations);
#ifdef ENVIRONMENT_HAS_SCORE
        w->score += environment_score(&w->each[i], &w->episodes);
#endif
    }
#ifndef ENVIRONMENT_HAS_SCORE /* the score is the sum of an episode's rewards */
    for (int i = 0; i < w->agents; i++) {
        w->sums[i] += w->rewards[i];
        if (!w->terminals[i]) continue;
        w->score += (double)w->sums[i];
        w->episodes++;
        w->sums[i] = 0;
    }
#endif
}

/* Returns the mean score of agents that act by chance alone. */
static double score_by_chance(const settings *s)
{
    world w = world_new(s->environments, s->seed + 1);
    fold_random chance = fold_random_new(s->seed, 1);
    for (int step = 0; step < 20000 && w.episodes < 300; step++) {
        for (int i = 0; i < w.agents * environment_heads; i++)
            w.actions[i] = (float)fold_random_below(&chance, environment_choices[i % environment_heads]);
        world_step(&w);
    }
    const double score = w.episodes > 0 ? w.score / w.episodes : 0;
    world_free(&w);
    return score;
}

/* ---- training ------------------------------------------------------------------------------------- */

/* What a run has come to. Seconds are of acting, learning and the environments. */
typedef struct run {
    double by_chance, score, best, steps, acting, learning, playing;
    double *curve_steps, *curve;
    int points, reached;
    uint64_t start, told;
    fold_rl_report report;
} run;

static double seconds_since(uint64_t *start)
{
    const uint64_t now = fold_clock_monotonic(NULL);
    const double seconds = 1e-9 * (double)(now - *start);
    *start = now;
    return seconds;
}

static fold_rl_trainer *trainer_of(fold_model *m, const settings *s, const fold_ctx_desc *ctx)
{
    fold_rl_trainer_desc d = fold_rl_trainer_desc_default();
    d.agents = s->environments * environment_agents;
    d.observations = environment_observations;
    d.bytes = sizeof(environment_value) == 1;
    d.one_hot = environment_one_hot;
    d.choices = environment_choices;
    d.heads = environment_heads;
    d.memory = s->memory ? fold_lstm_new : NULL;
    d.layers = s->layers;
    d.width = s->width;
    d.steps = s->steps;
    d.rate = (float)s->rate;
    d.rates.kind = FOLD_RATE_LINEAR;
    d.rates.steps = s->updates;
    d.discount = (float)s->discount;
    d.entropy_share = (float)s->entropy;
    d.reward_limit = 1;
    d.seed = s->seed;
    d.ctx = ctx;
    fold_rl_trainer *t = fold_rl_trainer_new(m, "agent", &d);
    if (!t) fail(fold_model_message(m));
    return t;
}

/* Plays until the trainer is full, and learns. */
static void update(fold_rl_trainer *t, world *w, run *r)
{
    fold_rl_seen seen = { NULL, NULL, NULL, NULL, NULL, NULL };
    uint64_t clock = fold_clock_monotonic(NULL);
    if (sizeof(environment_value) == 1) seen.bytes = (const unsigned char *)(const void *)w->seen;
    else seen.observations = (const float *)(const void *)w->seen;
    while (!fold_rl_trainer_is_full(t)) {
        if (fold_rl_trainer_act(t, &seen, w->actions)) return;
        r->acting += seconds_since(&clock);
        world_step(w);
        r->playing += seconds_since(&clock);
        if (fold_rl_trainer_add(t, w->rewards, w->terminals)) return;
        r->acting += seconds_since(&clock);
    }
    fold_rl_trainer_learn(t, &seen, &r->report);
    r->learning += seconds_since(&clock);
    r->steps += r->report.steps;
}

/* Adds a point to the curve if at least so many episodes have ended. Returns whether the goal is reached. */
static int note(world *w, run *r, double goal, double at_least)
{
    if (w->episodes < at_least) return 0;
    r->score = w->score / w->episodes;
    if (!r->points || r->score > r->best) r->best = r->score;
    r->curve_steps[r->points] = r->steps;
    r->curve[r->points++] = r->score;
    w->score = w->episodes = 0;
    return r->reached = r->score >= goal;
}

/* Prints a line a second, and at the end. */
static void tell(run *r, int last)
{
    const uint64_t now = fold_clock_monotonic(NULL);
    const double seconds = 1e-9 * (double)(now - r->start), all = r->acting + r->learning + r->playing;
    if (!last && now - r->told < 1000000000u) return;
    r->told = now;
    printf("%6.1f s  update %4d  %9.0f steps  score %8.3f  %7.0f steps/s: acting %2.0f %%, learning %2.0f %%, environments %2.0f %%"
           "  KL %.4f  clipped %2.0f %%  entropy %.2f\n",
           seconds, r->report.updates, r->steps, r->score, r->steps / (seconds > 0 ? seconds : 1), 100 * r->acting / all,
           100 * r->learning / all, 100 * r->playing / all, r->report.approx_kl, 100 * r->report.clip_fraction, r->report.entropy);
    fflush(stdout);
}

static void draw_curve(const char *path, const run *r)
{
    enum { left = 60, top = 20, across = 560, down = 220 };
    double low = r->by_chance, high = r->by_chance;
    FILE *file = fopen(path, "w");
    if (!file) fail("the picture cannot be written");
    for (int i = 0; i < r->points; i++) {
        low = r->curve[i] < low ? r->curve[i] : low;
        high = r->curve[i] > high ? r->curve[i] : high;
    }
    const double range = high > low ? high - low : 1, most = r->steps > 0 ? r->steps : 1;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 290\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"640\" height=\"290\" fill=\"white\"/>\n");
    for (int i = 0; i <= 4; i++)
        fprintf(file, "<path d=\"M%d %dH%d\" stroke=\"#ddd\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3g</text>\n", left,
                top + down * i / 4, left + across, left - 6, top + down * i / 4 + 4, high - range * i / 4);
    fprintf(file, "<path d=\"M%d %.1fH%d\" stroke=\"#a50f15\" stroke-dasharray=\"4\"/>\n", left,
            top + down * (high - r->by_chance) / range, left + across);
    fputs("<polyline fill=\"none\" stroke=\"#08519c\" stroke-width=\"2\" points=\"", file);
    for (int i = 0; i < r->points; i++)
        fprintf(file, "%.1f,%.1f ", left + across * r->curve_steps[i] / most, top + down * (high - r->curve[i]) / range);
    fprintf(file, "\"/>\n<text x=\"%d\" y=\"270\" text-anchor=\"middle\">mean score of 100 episodes, after 0 to %.0f steps; dashed: by "
                  "chance</text>\n</svg>\n", left + across / 2, r->steps);
    if (fclose(file)) fail("the picture cannot be written");
}

static uint64_t hash_of(const fold_model *m)
{
    int count;
    const float *values = fold_model_values(m, &count);
    return result_hash(RESULT_HASH, values, (size_t)count * sizeof *values);
}

static settings parse(int argc, char **argv)
{
    settings s = { 1, 64, 100, 64, 0, 64, 0, 1, 0, 1, 0.001, 0.01, 0.98, 0, NULL, NULL, NULL, NULL };
    environment_settings(&s);
    const option list[] = {
        option_of_seed("--seed", &s.seed, "of weights, environments and choices"),
        option_of_whole("--environments", &s.environments, 1, 10000, "that run side by side"),
        option_of_whole("--updates", &s.updates, 1, 1000000, "after which it gives up; the rate falls to 0 until then"),
        option_of_whole("--steps", &s.steps, 1, 10000, "of every environment in an update"),
        option_of_whole("--layers", &s.layers, 0, 4, "of the encoder; 0: two, or one before a memory"),
        option_of_whole("--width", &s.width, 1, 1024, "of the layers and the memory"),
        option_of_whole("--memory", &s.memory, 0, 1, "1: with an LSTM"),
        option_of_number("--rate", &s.rate, 1e-9, 1, "of learning, at first"),
        option_of_number("--entropy", &s.entropy, 0, 10, "share of the entropy in the loss"),
        option_of_number("--discount", &s.discount, 0.001, 1, "of later rewards"),
        option_of_number("--goal", &s.goal, -1e9, 1e9, "score at which it stops"),
        option_of_whole("--threads", &s.threads, 1, 64, "that run"),
        option_of_flag("--eager", &s.eager, "runs every op by itself when it is recorded: slower, to the same bits"),
        option_of_whole("--flush", &s.flush, 0, 1, "1: denormal numbers count as 0: faster, but kinds of processors may disagree"),
        option_of_text("--svg", &s.svg, "FILE", "writes the learning curve as a picture"),
        option_of_text("--save", &s.save, "FILE", "writes the model with the optimiser's state"),
        option_of_text("--load", &s.load, "FILE", "continues with what --save wrote, in new episodes"),
        option_of_text("--isa", &s.isa, "NAME", "of the kernels: avx512, avx2, neon, portable"),
    };
    options_read(argc, argv, "Agents learn an environment by PPO.", list, OPTION_COUNT(list));
    return s;
}

static void result(const run *r, const fold_model *m)
{
    const double seconds = 1e-9 * (double)(fold_clock_monotonic(NULL) - r->start), all = r->acting + r->learning + r->playing;
    printf("RESULT train score=%.3f best=%.3f by_chance=%.3f reached=%d updates=%d steps=%.0f seconds=%.2f processor=%.2f "
           "per_second=%.0f acting=%.3f learning=%.3f environments=%.3f hash=%016llx\n",
           r->score, r->best, r->by_chance, r->reached, r->report.updates, r->steps, seconds,
           (double)clock() / CLOCKS_PER_SEC, r->steps / seconds, r->acting / all, r->learning / all, r->playing / all,
           (unsigned long long)hash_of(m));
}

/* Makes a model that runs on the context's threads. */
static fold_model *model_of(const settings *s, const fold_ctx_desc *ctx)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.seed = s->seed;
    desc.isa = s->isa;
    desc.flush_subnormals = s->flush;
    desc.threads = ctx->threads;
    desc.parallel_for = ctx->parallel_for;
    desc.pool = ctx->pool;
    return fold_model_new(&desc);
}

static run run_new(const settings *s)
{
    run r;
    memset(&r, 0, sizeof r);
    r.by_chance = score_by_chance(s);
    r.score = r.best = (double)NAN; /* until episodes have ended */
    r.curve_steps = (double *)take((size_t)s->updates, sizeof(double));
    r.curve = (double *)take((size_t)s->updates, sizeof(double));
    r.start = r.told = fold_clock_monotonic(NULL);
    return r;
}

/* Makes an update, and returns whether there are more to make. */
static int go_on(const settings *s, const fold_model *m, fold_rl_trainer *t, world *w, run *r)
{
    update(t, w, r);
    if (fold_model_status(m)) fail(fold_model_message(m));
    const int last = r->report.updates >= s->updates, at_least = last && !r->points ? 1 : 100; /* a short run has one point, too */
    return !note(w, r, s->goal, at_least) && !last;
}

int main(int argc, char **argv)
{
    const settings s = parse(argc, argv);
    fold_ctx_desc ctx = fold_ctx_desc_default();
    fold_save_desc saving = fold_save_desc_default();
    fold_load_desc loading = fold_load_desc_default();
    saving.state = loading.state = 1;
    ctx.eager = s.eager;
    ctx.threads = s.eager ? 1 : s.threads;
    ctx.parallel_for = fold_pool_for;
    ctx.pool = fold_pool_new(ctx.threads);
    if (!ctx.pool) fail("there are no threads to be had");
    fold_model *m = model_of(&s, &ctx);
    fold_rl_trainer *t = trainer_of(m, &s, &ctx);
    if (s.load && fold_model_load(m, s.load, &loading)) fail(fold_model_message(m));
    run r = run_new(&s);
    r.report.updates = fold_rl_trainer_updates(t);
    world w = world_new(s.environments, s.seed + (uint64_t)r.report.updates);
    printf("%d agents that see %d values learn for at most %d updates; by chance alone they score %.3f, the goal is %g\n", w.agents,
           environment_observations, s.updates, r.by_chance, s.goal);
    for (int more = r.report.updates < s.updates; more; tell(&r, 0)) more = go_on(&s, m, t, &w, &r);
    tell(&r, 1);
    if (s.save && fold_model_save(m, s.save, &saving)) fail(fold_model_message(m));
    if (s.svg) draw_curve(s.svg, &r);
    result(&r, m);
    free(r.curve_steps);
    free(r.curve);
    world_free(&w);
    fold_rl_trainer_free(t);
    fold_model_free(m);
    fold_pool_free((fold_pool *)ctx.pool);
    return 0;
}
