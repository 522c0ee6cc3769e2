/* forage: creatures learn to collect food and to keep away from wasps. What a creature sees is a list of
   whatever is near it.

     cc -O2 -o forage examples/forage.c -lm -lpthread && ./forage

   Each field has four creatures, up to 40 pieces of food and up to 16 wasps; both numbers are drawn at random
   for every episode. A field wraps around at its edges. In each of 200 steps, a creature accelerates in one
   of eight directions or not at all, and keeps most of its speed. Food that it touches is worth 1, and a new
   piece may grow elsewhere. Wasps fly straight ahead; one that touches a creature costs 3.

   A creature knows its own speed, and sees all items within a quarter of the field: food, wasps and other
   creatures, each a row of seven values, up to about thirty at a time. The network uses attention: it encodes
   each item, weights the items by how well their keys match the creature's query, and adds them up. So it
   needs no padding and no fixed slots, and the order of items does not matter.

   The only code for this is `attend`. It is the policy: a function over lists, which the trainer of fold_rl.h
   calls both to act and to learn. The items of all creatures form one list, and an array of indices says
   which creature sees each item. The trained weights are the same on any number of threads, and with --eager,
   which runs op by op. */
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

/* ---- the field ----------------------------------------------------------------------------------- */

enum { CREATURES = 4, FOOD = 40, WASPS = 16, THINGS = CREATURES + FOOD + WASPS, STEPS = 200, MOVES = 9 };
enum { OWN = 2, ITEM = 7 }; /* values that a creature knows of itself, and of an item */
static const float sight = 0.25f, touch = 0.03f;

typedef struct thing { float x, y, speed_x, speed_y; } thing;
typedef struct field {
    fold_random chance;
    int step, food, wasps, eaten, stung; /* the last two since it was looked at */
    float growth; /* chance that food grows in a step */
    thing creature[CREATURES], meal[FOOD], wasp[WASPS];
} field;

/* Places a thing anywhere, at rest or flying in any direction. */
static thing thing_new(field *w, float speed)
{
    thing t;
    t.x = fold_random_uniform(&w->chance);
    t.y = fold_random_uniform(&w->chance);
    const float angle = 6.2831853f * fold_random_uniform(&w->chance);
    t.speed_x = speed * cosf(angle);
    t.speed_y = speed * sinf(angle);
    return t;
}

static void field_begin(field *w)
{
    w->step = 0;
    w->food = 4 + fold_random_below(&w->chance, FOOD - 3);
    w->wasps = fold_random_below(&w->chance, WASPS + 1);
    w->growth = 0.02f * (float)w->food;
    for (int i = 0; i < CREATURES; i++) w->creature[i] = thing_new(w, 0);
    for (int i = 0; i < w->food; i++) w->meal[i] = thing_new(w, 0);
    for (int i = 0; i < w->wasps; i++) w->wasp[i] = thing_new(w, 0.015f);
}

static void move(thing *t)
{
    t->x += t->speed_x;
    t->y += t->speed_y;
    t->x -= floorf(t->x);
    t->y -= floorf(t->y);
}

/* The way from one place to another, at most half a field: the edges meet. */
static float way(float from, float to) { return to - from - floorf(to - from + 0.5f); }
static int touches(const thing *a, const thing *b)
{
    const float x = way(a->x, b->x), y = way(a->y, b->y);
    return x * x + y * y < touch * touch;
}

/* Moves everything. Returns 1 if the episode is over, and begins another. */
static int field_step(field *w, const float actions[CREATURES], float rewards[CREATURES])
{
    for (int i = 0; i < w->wasps; i++) move(&w->wasp[i]);
    for (int i = 0; i < CREATURES; i++) {
        thing *c = &w->creature[i];
        const int action = (int)actions[i];
        const float angle = 0.78539816f * (float)action, push = action < MOVES - 1 ? 0.008f : 0;
        c->speed_x = 0.8f * c->speed_x + push * cosf(angle);
        c->speed_y = 0.8f * c->speed_y + push * sinf(angle);
        move(c);
        rewards[i] = 0;
        for (int k = w->food - 1; k >= 0; k--)
            if (touches(c, &w->meal[k])) {
                w->meal[k] = w->meal[--w->food];
                rewards[i] += 1;
                w->eaten++;
            }
        for (int k = 0; k < w->wasps; k++)
            if (touches(c, &w->wasp[k])) {
                w->wasp[k] = thing_new(w, 0.015f);
                rewards[i] -= 3;
                w->stung++;
            }
    }
    if (w->food < FOOD && fold_random_uniform(&w->chance) < w->growth) w->meal[w->food++] = thing_new(w, 0);
    if (++w->step < STEPS) return 0;
    field_begin(w);
    return 1;
}

/* Writes the things of a kind that a creature sees as rows of ITEM values. Returns how many. */
static int see(const thing *c, const thing *things, int n, int kind, float *item)
{
    int seen = 0;
    for (int i = 0; i < n; i++) {
        const float x = way(c->x, things[i].x), y = way(c->y, things[i].y);
        if (&things[i] == c || x * x + y * y > sight * sight) continue;
        float *row = item + ITEM * seen++;
        row[0] = x;
        row[1] = y;
        row[2] = things[i].speed_x - c->speed_x;
        row[3] = things[i].speed_y - c->speed_y;
        for (int k = 0; k < 3; k++) row[4 + k] = k == kind;
    }
    return seen;
}

/* ---- the policy ---------------------------------------------------------------------------------- */

enum { HEADS = 4 };
typedef struct net { fold_dense own, item, again, query, key, value, both, actor, critic; } net;

static net net_new(fold_model *m, int width)
{
    net n;
    const float gain = 1.41421356f;
    n.own = fold_rl_dense_new(m, "own", OWN, width, FOLD_ACT_TANH, gain);
    n.item = fold_rl_dense_new(m, "item", ITEM, width, FOLD_ACT_TANH, gain);
    n.again = fold_rl_dense_new(m, "again", width, width, FOLD_ACT_TANH, gain);
    n.query = fold_rl_dense_new(m, "query", width, width, FOLD_ACT_LINEAR, 1);
    n.key = fold_rl_dense_new(m, "key", width, width, FOLD_ACT_LINEAR, 1);
    n.value = fold_rl_dense_new(m, "value", width, width, FOLD_ACT_LINEAR, 1);
    n.both = fold_rl_dense_new(m, "both", 2 * width, width, FOLD_ACT_TANH, gain);
    n.actor = fold_rl_dense_new(m, "actor", width, MOVES, FOLD_ACT_LINEAR, 0.01f);
    n.critic = fold_rl_dense_new(m, "critic", width, 1, FOLD_ACT_LINEAR, 1);
    return n;
}

/* Decides for all creatures at once: each attends to the items that it sees. One that sees none gets zeros. */
static fold_rl_step attend(fold_ctx *f, const fold_rl_input *in, const void *user)
{
    const net *n = (const net *)user;
    fold_rl_step step;
    memset(&step, 0, sizeof step);
    const fold_node own = fold_dense_apply(f, &n->own, in->observations);
    const fold_node item = fold_dense_apply(f, &n->again, fold_dense_apply(f, &n->item, in->items));
    const fold_node query = fold_dense_apply(f, &n->query, own), key = fold_dense_apply(f, &n->key, item);
    const fold_node value = fold_dense_apply(f, &n->value, item);
    const fold_node seen = fold_list_attention_to(f, query, key, value, HEADS, in->from, in->to, in->item_count);
    const fold_node both = fold_dense_apply(f, &n->both, fold_concat2(f, own, seen));
    step.actor = fold_dense_apply(f, &n->actor, both);
    step.critic = fold_dense_apply(f, &n->critic, both);
    return step;
}

/* ---- many fields --------------------------------------------------------------------------------- */

typedef struct settings { uint64_t seed; int fields, updates, width, threads, eager; } settings;

static void fail(const char *what)
{
    fprintf(stderr, "forage: %s\n", what);
    exit(1);
}
static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory");
    return bytes;
}

/* All fields, with what their creatures see, do and get, and how well. */
typedef struct world {
    int fields, creatures;
    field *each;
    float *own, *items, *actions, *rewards;
    int *counts; /* of the items that each creature sees */
    unsigned char *over;
    double eaten, stung, seen, looks; /* sums: food, wasps, and items seen in so many looks of a creature */
} world;

/* Writes what all creatures see: items end to end, creature after creature. */
static void world_look(world *w)
{
    float *next = w->items;
    for (int i = 0; i < w->creatures; i++) {
        const field *from = &w->each[i / CREATURES];
        const thing *c = &from->creature[i % CREATURES];
        int *n = &w->counts[i];
        w->own[i * OWN] = c->speed_x;
        w->own[i * OWN + 1] = c->speed_y;
        *n = see(c, from->meal, from->food, 0, next);
        *n += see(c, from->wasp, from->wasps, 1, next + ITEM * *n);
        *n += see(c, from->creature, CREATURES, 2, next + ITEM * *n);
        next += ITEM * *n;
        w->seen += *n;
    }
    w->looks += w->creatures;
}

static world world_new(int fields, uint64_t seed)
{
    const size_t creatures = (size_t)fields * CREATURES;
    world w;
    memset(&w, 0, sizeof w);
    w.fields = fields;
    w.creatures = (int)creatures;
    w.each = (field *)take((size_t)fields, sizeof(field));
    w.own = (float *)take(creatures * OWN, sizeof(float));
    w.items = (float *)take(creatures * THINGS * ITEM, sizeof(float));
    w.actions = (float *)take(creatures, sizeof(float));
    w.rewards = (float *)take(creatures, sizeof(float));
    w.counts = (int *)take(creatures, sizeof(int));
    w.over = (unsigned char *)take(creatures, 1);
    for (int i = 0; i < fields; i++) {
        w.each[i].chance = fold_random_new(seed, (uint64_t)i);
        field_begin(&w.each[i]);
    }
    world_look(&w);
    return w;
}
static void world_free(world *w)
{
    free(w->each); free(w->own); free(w->items); free(w->actions); free(w->rewards); free(w->counts); free(w->over);
}

static void world_step(world *w)
{
    for (int i = 0; i < w->fields; i++) {
        const int over = field_step(&w->each[i], w->actions + i * CREATURES, w->rewards + i * CREATURES);
        memset(w->over + i * CREATURES, over, CREATURES);
        w->eaten += w->each[i].eaten;
        w->stung += w->each[i].stung;
        w->each[i].eaten = w->each[i].stung = 0;
    }
    world_look(w);
}

/* What a creature comes to in STEPS steps, and how many items it sees in each. */
typedef struct harvest { double eaten, stung, seen; } harvest;
static harvest harvest_of(world *w)
{
    const harvest h = { (double)STEPS * w->eaten / w->looks, (double)STEPS * w->stung / w->looks, w->seen / w->looks };
    w->eaten = w->stung = w->seen = w->looks = 0;
    return h;
}
static harvest harvest_by_chance(const settings *s)
{
    world w = world_new(s->fields, s->seed + 1000);
    fold_random chance = fold_random_new(s->seed, 1);
    for (int step = 0; step < 2 * STEPS; step++) {
        for (int i = 0; i < w.creatures; i++) w.actions[i] = (float)fold_random_below(&chance, MOVES);
        world_step(&w);
    }
    const harvest h = harvest_of(&w);
    world_free(&w);
    return h;
}

/* ---- training ------------------------------------------------------------------------------------ */

static fold_rl_trainer *trainer_of(fold_model *m, const net *n, const settings *s, const fold_ctx_desc *ctx)
{
    static const int moves[1] = { MOVES };
    fold_rl_trainer_desc d = fold_rl_trainer_desc_default();
    d.agents = s->fields * CREATURES;
    d.observations = OWN;
    d.max_items = THINGS;
    d.item_values = ITEM;
    d.choices = moves;
    d.body = attend;
    d.user = n;
    d.rate = 0.003f;
    d.rates.kind = FOLD_RATE_LINEAR;
    d.rates.steps = s->updates;
    d.entropy_share = 0.01f;
    d.discount = 0.95f;
    d.seed = s->seed;
    d.ctx = ctx;
    fold_rl_trainer *t = fold_rl_trainer_new(m, "forage", &d);
    if (!t) fail(fold_model_message(m));
    return t;
}

/* Plays until the trainer is full, and learns. */
static void update(fold_rl_trainer *t, world *w, fold_rl_report *report)
{
    fold_rl_seen seen = { w->own, NULL, NULL, NULL, w->items, w->counts };
    while (!fold_rl_trainer_is_full(t)) {
        if (fold_rl_trainer_act(t, &seen, w->actions)) return;
        world_step(w);
        if (fold_rl_trainer_add(t, w->rewards, w->over)) return;
    }
    fold_rl_trainer_learn(t, &seen, report);
}

static settings parse(int argc, char **argv)
{
    settings s = { 1, 16, 200, 32, 1, 0 };
    const option list[] = {
        option_of_seed("--seed", &s.seed, "of weights, fields and choices"),
        option_of_whole("--fields", &s.fields, 1, 10000, "of four creatures, side by side"),
        option_of_whole("--updates", &s.updates, 1, 100000, "of 64 steps of each creature"),
        option_of_whole("--width", &s.width, 4, 1024, "of the layers, a multiple of 4"),
        option_of_whole("--threads", &s.threads, 1, 64, "that run"),
        option_of_flag("--eager", &s.eager, "runs every op by itself when it is recorded: slower, to the same bits"),
    };
    options_read(argc, argv, "Creatures that see lists of things learn to forage, by PPO.", list, OPTION_COUNT(list));
    return s;
}

int main(int argc, char **argv)
{
    const settings s = parse(argc, argv);
    fold_model_desc desc = fold_model_desc_default();
    fold_ctx_desc ctx = fold_ctx_desc_default();
    fold_rl_report report;
    desc.seed = s.seed;
    desc.flush_subnormals = 1;
    desc.threads = ctx.threads = s.eager ? 1 : s.threads;
    desc.parallel_for = ctx.parallel_for = fold_pool_for;
    desc.pool = ctx.pool = fold_pool_new(ctx.threads);
    if (!ctx.pool) fail("there are no threads to be had");
    ctx.eager = s.eager;
    fold_model *m = fold_model_new(&desc);
    const net n = net_new(m, s.width);
    fold_rl_trainer *t = trainer_of(m, &n, &s, &ctx);
    world w = world_new(s.fields, s.seed);
    const harvest chance = harvest_by_chance(&s);
    harvest h = { 0, 0, 0 };
    const uint64_t start = fold_clock_monotonic(NULL);
    uint64_t told = 0;
    double steps = 0, seconds = 0;
    printf("%d creatures forage; by chance alone each eats %.2f pieces of food in an episode, and is stung %.2f times\n", w.creatures,
           chance.eaten, chance.stung);
    for (int i = 1; i <= s.updates; i++) {
        update(t, &w, &report);
        if (fold_model_status(m)) fail(fold_model_message(m));
        steps += report.steps;
        const uint64_t now = fold_clock_monotonic(NULL);
        seconds = 1e-9 * (double)(now - start);
        if (w.looks >= 2.0 * (double)(STEPS * w.creatures) || !told) h = harvest_of(&w);
        if (now - (told ? told : start) < 1000000000u && i < s.updates) continue;
        told = now;
        printf("%5.1f s  update %4d of %d  eats %5.2f, stung %4.2f  sees %4.1f items  entropy %.2f  KL %.4f  %.0f steps/s  %.0f s left\n",
               seconds, i, s.updates, h.eaten, h.stung, h.seen, report.entropy, report.approx_kl, steps / seconds,
               seconds * (s.updates - i) / i);
    }
    int count;
    const float *values = fold_model_values(m, &count);
    printf("RESULT forage eaten=%.2f stung=%.2f eaten_by_chance=%.2f stung_by_chance=%.2f items_seen=%.1f updates=%d steps=%.0f "
           "seconds=%.1f per_second=%.0f hash=%016llx\n",
           h.eaten, h.stung, chance.eaten, chance.stung, h.seen, s.updates, steps, seconds, steps / seconds,
           (unsigned long long)result_hash(RESULT_HASH, values, (size_t)count * sizeof *values));
    world_free(&w);
    fold_rl_trainer_free(t);
    fold_model_free(m);
    fold_pool_free((fold_pool *)ctx.pool);
    return 0;
}
