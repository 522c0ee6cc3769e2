/* swarm: about a hundred agents learn to fly as a flock. Their network then flies them at 60 frames per
   second.

     cc -O2 -o swarm examples/swarm.c -lm && ./swarm --svg swarm.svg

   To begin with, hand-written rules fly the flock (Reynolds 1987): keep your distance, match your neighbours'
   velocity, stay with them, stay in bounds, flee the hawk. An agent that sees the hawk is alarmed and flies
   faster. Its neighbours become alarmed too, a little less so, and an alarm takes a second to fade. The
   network imitates the rules but is not told who is alarmed: each agent has to learn that from its
   neighbours' states, and remember it. At first, the rules fly while the network learns; later, the network
   flies and is told what the rules would have done (Ross, Gordon and Bagnell 2011).

   Each agent has its own GRU state and looks at up to 12 visible neighbours, with two kinds of attention:
   over their positions (fold_list_softmax_mean_to, with a score and a value for each pair) and over their
   states (fold_list_attention_to). All agents form one list and all pairs another, so a frame takes two dozen
   nodes however many agents there are. The network runs in a fixed block of memory, sized in advance by
   measuring a frame in which every agent sees 12 neighbours. Everything an agent senses is relative to its
   own heading: ahead, and to its left.

   The error is the mean squared difference from the rules' acceleration, divided by the mean square of that
   acceleration. Some frames are repeated in an eager context, and the results must be bit-identical. Times
   cover recording, running and reading back a frame, but not the neighbour search or the movement. The eager
   time and the speedup come from the fastest of the frames run both ways.

   --soak SECONDS flies swarms for that long. The size and number of swarms change from frame to frame, and
   other recordings with ever-changing shapes run in between. Memory use must not grow, and sampled frames
   must match an eager context bit for bit.

   `make web` builds a web page, build/site/swarm.html, that shows the swarm flown by a network saved with --save:
   see web/swarm.c. swarm.svg was made with --agents 125 --frames 400; viewers without animations show its
   best frame. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include "unfused.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_AGENTS = 1000, MOST_SEEN = 12,                  /* in flight; neighbours that one looks at */
    SENSES = 7, PAIR = 6, ACTION = 3,                    /* values of an agent, a pair, an action: ahead, left, alarm */
    STATE = 32,                                          /* values that an agent remembers from frame to frame */
    HEARD = 16, SEEN = 24,                               /* values that it gets by listening, by watching */
    MOOD = 8, HEADS = 4, INNER = 32,                     /* values given to watching; scores of a pair; hidden width */
    CLASS = 6, WINDOW = 12, LIFE = 40,                   /* swarms in training, frames of a window, windows of a life */
    FEWEST = 30, MOST_IN_CLASS = 150,                    /* agents of a swarm in training */
    COLUMNS = 16, ROWS = 10,                             /* the grid of neighbours has cells as wide as they see */
    BLOCK = 8 << 20
};
static const float frame_seconds = 1.0f / 60;
static const float width = 100, height = 60;             /* the world; its unit is that of all lengths */
static const float sight = 6, elbow = 2.2f, hawk_sight = 13, margin = 9; /* distances at which neighbours are seen, are
                                                            too near, the hawk is seen, walls push */
static const float cruise = 9, slowest = 2, fastest = 24; /* speeds of an agent, a second */
static const float most_push = 40;                       /* acceleration that an agent has power for */
static const float unit_push = 10, unit_alarm = 1.0f / 3; /* a 1 in an action means so much */

typedef struct options {
    uint64_t seed; int agents, frames, steps; double soak; const char *svg, *load, *save, *isa;
} options;

static void fail(const char *what)
{
    fprintf(stderr, "swarm: %s\n", what);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory");
    return bytes;
}

/* Adds some bytes to an FNV-1a, which begins with hash_begin. */
static const uint64_t hash_begin = 0xcbf29ce484222325u;
static uint64_t hash_more(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}
static uint64_t hash_of(const fold_model *m)
{
    int count;
    const float *values = fold_model_values(m, &count);
    return hash_more(hash_begin, values, (size_t)count * sizeof *values);
}

static float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

/* ---- the network ----------------------------------------------------------------------------- */

/* Holds a frame as agents sense it, and what the rules would do. Pair k: agent to[k] sees agent from[k]. */
typedef struct view {
    int n, pairs;
    float *senses, *pair, *wanted;
    int *from, *to;
} view;

typedef struct net {
    fold_dense ask;           /* runs on an agent's state, in listen */
    fold_dense notice, weigh; /* run on a pair, in watch */
    fold_cell listen, watch;  /* run once for each agent, once for each pair */
    fold_recurrent memory;    /* makes its next state of all it senses, sees and hears */
    fold_mlp act;
} net;

/* Takes an agent's state, gives what it asks its neighbours, what it answers, what it tells, and its mood. */
static void listen_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node all = fold_dense_apply(f, &n->ask, in[0]);
    for (int i = 0; i < 3; i++) out[i] = fold_slice(f, all, 0, i * HEARD, HEARD);
    out[3] = fold_slice(f, all, 0, 3 * HEARD, MOOD);
}

/* Takes what an agent sees of a neighbour, and its mood, gives how much that matters, and what it is. */
static void watch_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node noticed = fold_dense_apply(f, &n->notice, fold_concat2(f, in[0], in[1]));
    const fold_node all = fold_dense_apply(f, &n->weigh, noticed);
    out[0] = fold_slice(f, all, 0, 0, HEADS);
    out[1] = fold_slice(f, all, 0, HEADS, SEEN);
}

/* n is read when the cells are called: it must outlive the model. */
static void new_net(net *n, fold_model *m)
{
    const int sizes[] = { SENSES + SEEN + STATE, INNER, ACTION };
    fold_cell_desc listen = fold_cell_desc_default(), watch = fold_cell_desc_default();
    n->ask = fold_dense_new(m, "ask", STATE, 3 * HEARD + MOOD, FOLD_ACT_LINEAR);
    n->notice = fold_dense_new(m, "notice", PAIR + MOOD, INNER, FOLD_ACT_RELU);
    n->weigh = fold_dense_new(m, "weigh", INNER, HEADS + SEEN, FOLD_ACT_LINEAR);
    n->memory = fold_gru_new(m, "memory", SENSES + SEEN + HEARD, STATE);
    n->act = fold_mlp_new(m, "act", sizes, 2, FOLD_ACT_TANH);
    listen.name = "listen";
    listen.body = listen_body;
    listen.user = n;
    listen.n_in = 1;
    listen.in[0] = fold_shape1(STATE);
    listen.n_out = 4;
    n->listen = fold_cell_new(m, &listen);
    watch.name = "watch";
    watch.body = watch_body;
    watch.user = n;
    watch.n_in = 2;
    watch.in[0] = fold_shape1(PAIR);
    watch.in[1] = fold_shape1(MOOD);
    watch.n_out = 2;
    n->watch = fold_cell_new(m, &watch);
}

/* Records a frame of a swarm: the action of every agent, and its next state. */
static void record(fold_ctx *f, const net *n, const view *v, fold_state *state, fold_node *action)
{
    const fold_node senses = fold_list_input_ref(f, v->senses, v->n, fold_shape1(SENSES));
    const fold_node asked = fold_call(f, n->listen, &state->h, 1);
    const fold_node heard = fold_list_attention_to(f, fold_out(f, asked, 0), fold_out(f, asked, 1), fold_out(f, asked, 2),
                                                   2, v->from, v->to, v->pairs);
    fold_node pair[2];
    pair[0] = fold_list_input_ref(f, v->pair, v->pairs, fold_shape1(PAIR));
    pair[1] = fold_list_take(f, fold_out(f, asked, 3), v->to, v->pairs);
    const fold_node watched = fold_call(f, n->watch, pair, 2);
    const fold_node seen = fold_list_softmax_mean_to(f, fold_out(f, watched, 0), fold_out(f, watched, 1), v->to, v->pairs, v->n);
    const fold_node known[3] = { senses, seen, heard };
    *state = fold_recurrent_apply(f, &n->memory, fold_concat(f, known, 3, 0), *state);
    const fold_node all[3] = { senses, seen, state->h };
    *action = fold_mlp_apply(f, &n->act, fold_concat(f, all, 3, 0));
}

/* Records a frame of some swarms. It writes their next states in place of those it begins with; actions are roots. */
static void record_frame(fold_ctx *f, const net *n, const view *const *v, int swarms, float *const *state,
                         fold_node *actions)
{
    fold_ctx_reset(f);
    for (int i = 0; i < swarms; i++) {
        fold_state now = { fold_list_input_ref(f, state[i], v[i]->n, fold_shape1(STATE)), FOLD_NULL_NODE };
        record(f, n, v[i], &now, &actions[i]);
        fold_output_ref(f, now.h, state[i]);
    }
}

/* Runs a frame of some swarms. */
static void think(fold_ctx *f, const net *n, const view *const *v, int swarms, float *const *state,
                  float *const *action)
{
    fold_node actions[CLASS];
    record_frame(f, n, v, swarms, state, actions);
    fold_run(f, actions, swarms);
    for (int i = 0; i < swarms; i++) fold_read(f, &actions[i], 1, action[i]);
    if (fold_ctx_status(f)) fail(fold_ctx_message(f));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static unsigned char block[BLOCK + 64];

static view new_view(int most)
{
    view v;
    memset(&v, 0, sizeof v);
    v.senses = (float *)take((size_t)most * SENSES, sizeof(float));
    v.wanted = (float *)take((size_t)most * ACTION, sizeof(float));
    v.pair = (float *)take((size_t)most * MOST_SEEN * PAIR, sizeof(float));
    v.from = (int *)take((size_t)most * MOST_SEEN, sizeof(int));
    v.to = (int *)take((size_t)most * MOST_SEEN, sizeof(int));
    return v;
}

static void free_view(view *v)
{
    free(v->senses);
    free(v->wanted);
    free(v->pair);
    free(v->from);
    free(v->to);
}

/* Allocates, and counts in *user. */
static void *count_alloc(size_t size, size_t align, void *user)
{
    unsigned char *bytes = (unsigned char *)malloc(size + align + sizeof(void *)), *at;
    if (!bytes) return NULL;
    ++*(int *)user;
    at = bytes + sizeof(void *);
    at += (align - (uintptr_t)at % align) % align;
    memcpy(at - sizeof(void *), &bytes, sizeof(void *));
    return at;
}
static void count_free(void *ptr, size_t size, void *user)
{
    void *bytes;
    (void)size, (void)user;
    memcpy(&bytes, (unsigned char *)ptr - sizeof(void *), sizeof(void *));
    free(bytes);
}

/* Makes a model with the network, which counts what it and its contexts ask for. */
static fold_model *new_model(net *n, uint64_t seed, const char *isa, int *allocations)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.seed = seed;
    desc.isa = isa;
    desc.memory.alloc = count_alloc;
    desc.memory.free = count_free;
    desc.memory.user = allocations;
    fold_model *m = fold_model_new(&desc);
    if (!m) fail("out of memory");
    new_net(n, m);
    if (fold_model_status(m)) fail(fold_model_message(m));
    return m;
}

/* Returns the bytes that the largest frame needs: so many swarms of so many agents, all with as many neighbours as they
   can see. */
static size_t largest_frame(fold_model *m, const net *n, int swarms, int agents)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_node actions[CLASS];
    float *states = (float *)take((size_t)agents * STATE, sizeof *states), *state[CLASS];
    view v = new_view(agents);
    const view *views[CLASS];
    v.n = agents;
    v.pairs = agents * MOST_SEEN;
    for (int k = 0; k < v.pairs; k++) v.to[k] = k / MOST_SEEN;
    for (int i = 0; i < swarms; i++) {
        views[i] = &v;
        state[i] = states;
    }
    desc.measure = 1;
    fold_ctx *f = fold_ctx_new(m, &desc);
    record_frame(f, n, views, swarms, state, actions);
    if (fold_run(f, actions, swarms)) fail(fold_ctx_message(f));
    const size_t bytes = fold_ctx_stats(f).block_bytes;
    fold_ctx_free(f);
    free_view(&v);
    free(states);
    return bytes;
}

/* Makes a context that lives in the first bytes of the block. */
static fold_ctx *new_pilot(fold_model *m, size_t bytes)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    if (bytes > BLOCK) fail("the block is too small for so many agents");
    desc.memory.block = block + (64 - (uintptr_t)block % 64) % 64;
    desc.memory.block_size = bytes;
    fold_ctx *f = fold_ctx_new(m, &desc);
    if (!f || fold_ctx_status(f)) fail(f ? fold_ctx_message(f) : "out of memory");
    return f;
}
static fold_ctx *new_eager(fold_model *m)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    static int uncounted;
    desc.eager = 1;
    desc.memory.alloc = count_alloc;
    desc.memory.free = count_free;
    desc.memory.user = &uncounted;
    fold_ctx *f = fold_ctx_new(m, &desc);
    if (!f) fail("out of memory");
    return f;
}

/* ---- the world ------------------------------------------------------------------------------- */

typedef struct agent { float x, y, vx, vy, alarm; } agent;
typedef struct world {
    int n, prey, hunted;      /* agents; the hawk hunts one of them (-1: none), and has for so many frames */
    agent *agents, hawk;
    fold_random chance;
} world;

static world new_world(int most)
{
    world w;
    memset(&w, 0, sizeof w);
    w.agents = (agent *)take((size_t)most, sizeof *w.agents);
    return w;
}

/* Makes some clusters, each of which flies in a direction of its own. */
static void populate(world *w, int n, fold_random chance)
{
    float middle[5][4];
    const int clusters = 1 + fold_random_below(&chance, 5);
    for (int i = 0; i < clusters; i++) {
        middle[i][0] = width * (0.15f + 0.7f * fold_random_uniform(&chance));
        middle[i][1] = height * (0.2f + 0.6f * fold_random_uniform(&chance));
        middle[i][2] = cruise * (2 * fold_random_uniform(&chance) - 1);
        middle[i][3] = cruise * (2 * fold_random_uniform(&chance) - 1);
    }
    w->n = n;
    for (int i = 0; i < n; i++) {
        const float *m = middle[i % clusters];
        const float spread = 0.75f * sqrtf((float)n / (float)clusters);
        agent *a = &w->agents[i];
        a->x = clamp(m[0] + spread * fold_random_normal(&chance), 1, width - 1);
        a->y = clamp(m[1] + spread * fold_random_normal(&chance), 1, height - 1);
        a->vx = m[2] + 0.2f * cruise * fold_random_normal(&chance);
        a->vy = m[3] + 0.2f * cruise * fold_random_normal(&chance);
        a->alarm = 0;
    }
    w->prey = -1;
    w->hunted = fold_random_below(&chance, 200);
    w->hawk.x = width * (2 * fold_random_uniform(&chance) - 0.5f);
    w->hawk.y = fold_random_below(&chance, 2) ? -20 : height + 20;
    w->hawk.vx = w->hawk.vy = 0;
    w->chance = chance;
}

/* Makes them so many. The last ones leave, or new ones come, most of them beside another, and remember nothing. */
static void resize(world *w, float *state, int n, fold_random *chance)
{
    for (int i = w->n; i < n; i++) {
        const float x = width * fold_random_uniform(chance), y = height * fold_random_uniform(chance);
        const agent one = { x, y, cruise, 0, 0 };
        w->agents[i] = i && fold_random_below(chance, 4) ? w->agents[i - 1] : one;
        w->agents[i].x += fold_random_uniform(chance);
        w->agents[i].y += fold_random_uniform(chance);
        memset(state + i * STATE, 0, STATE * sizeof(float));
    }
    w->n = n;
}

/* Turns x and y into directions of an agent: ahead and to its left. */
static void turn(const agent *a, float x, float y, float *to)
{
    const float speed = sqrtf(a->vx * a->vx + a->vy * a->vy) + 1e-6f;
    to[0] = (x * a->vx + y * a->vy) / speed;
    to[1] = (y * a->vx - x * a->vy) / speed;
}

/* Tells how much walls push a thing at place x in [0, size]: towards the middle, the more the nearer it is to one. */
static float push_of_walls(float x, float size)
{
    return clamp(1 - x / margin, 0, 1.5f) - clamp(1 - (size - x) / margin, 0, 1.5f);
}

typedef struct grid { int first[COLUMNS * ROWS], next[MOST_AGENTS]; } grid;

static int cell_of(float x, float size, int cells)
{
    return (int)clamp(x / size * (float)cells, 0, (float)(cells - 1));
}

static void fill_grid(grid *g, const world *w)
{
    for (int i = 0; i < COLUMNS * ROWS; i++) g->first[i] = -1;
    for (int i = w->n; i-- > 0;) {
        const agent *a = &w->agents[i];
        int *first = &g->first[cell_of(a->y, height, ROWS) * COLUMNS + cell_of(a->x, width, COLUMNS)];
        g->next[i] = *first;
        *first = i;
    }
}

/* Finds the nearest agents within sight of agent i, the nearest first; returns how many. */
static int nearest(const grid *g, const world *w, int i, int *seen)
{
    const agent *a = &w->agents[i];
    const int column = cell_of(a->x, width, COLUMNS), row = cell_of(a->y, height, ROWS);
    float distance[MOST_SEEN + 1];
    int count = 0;
    for (int y = row > 0 ? row - 1 : 0; y <= row + 1 && y < ROWS; y++)
        for (int x = column > 0 ? column - 1 : 0; x <= column + 1 && x < COLUMNS; x++)
            for (int j = g->first[y * COLUMNS + x]; j >= 0; j = g->next[j]) {
                const float dx = w->agents[j].x - a->x, dy = w->agents[j].y - a->y, d = dx * dx + dy * dy;
                int at = count;
                if (j == i || d >= sight * sight || (count == MOST_SEEN && d >= distance[count - 1])) continue;
                if (count < MOST_SEEN) count++;
                else at--;
                for (; at > 0 && distance[at - 1] > d; at--) {
                    distance[at] = distance[at - 1];
                    seen[at] = seen[at - 1];
                }
                distance[at] = d;
                seen[at] = j;
            }
    return count;
}

/* Tells the direction away from the hawk, and returns how near it is to the agent, in [0, 1]. */
static float fear(const world *w, const agent *a, float *away_x, float *away_y)
{
    const float dx = a->x - w->hawk.x, dy = a->y - w->hawk.y, distance = sqrtf(dx * dx + dy * dy) + 1e-6f;
    *away_x = dx / distance;
    *away_y = dy / distance;
    return clamp(1 - distance / hawk_sight, 0, 1);
}

/* The rules want an acceleration in the agent's directions, and an alarm after this frame. */
static void rules(const world *w, int i, const int *seen, int count, float *wanted)
{
    const agent *a = &w->agents[i];
    const float speed = sqrtf(a->vx * a->vx + a->vy * a->vy) + 1e-6f;
    float apart_x = 0, apart_y = 0, along_x = 0, along_y = 0, to_x = 0, to_y = 0, away_x, away_y;
    float alarm = 0.975f * a->alarm;
    for (int k = 0; k < count; k++) {
        const agent *b = &w->agents[seen[k]];
        const float dx = b->x - a->x, dy = b->y - a->y, distance = sqrtf(dx * dx + dy * dy) + 1e-6f;
        const float near = clamp(1 - distance / elbow, 0, 1) / distance;
        apart_x -= near * dx;
        apart_y -= near * dy;
        along_x += (b->vx - a->vx) / (float)count;
        along_y += (b->vy - a->vy) / (float)count;
        to_x += dx / (float)count;
        to_y += dy / (float)count;
        if (0.9f * b->alarm > alarm) alarm = 0.9f * b->alarm;
    }
    const float afraid = fear(w, a, &away_x, &away_y);
    if (afraid > 0) alarm = 1;
    const float faster = 1.5f * (cruise * (1 + alarm) - speed) / speed;
    const float wall_x = 30 * push_of_walls(a->x, width), wall_y = 30 * push_of_walls(a->y, height);
    const float x = 30 * apart_x + 2 * along_x + 1.5f * to_x + wall_x + 60 * afraid * away_x + faster * a->vx;
    const float y = 30 * apart_y + 2 * along_y + 1.5f * to_y + wall_y + 60 * afraid * away_y + faster * a->vy;
    const float push = sqrtf(x * x + y * y), scale = push > most_push ? most_push / push : 1;
    turn(a, scale * x / unit_push, scale * y / unit_push, wanted);
    wanted[2] = alarm / unit_alarm;
}

static void look(const world *w, view *v)
{
    static grid g;
    int seen[MOST_SEEN + 1];
    fill_grid(&g, w);
    v->n = w->n;
    v->pairs = 0;
    for (int i = 0; i < w->n; i++) {
        const agent *a = &w->agents[i];
        const int count = nearest(&g, w, i, seen);
        float *s = v->senses + i * SENSES, away_x, away_y;
        const float afraid = fear(w, a, &away_x, &away_y);
        s[0] = sqrtf(a->vx * a->vx + a->vy * a->vy) / cruise - 1;
        s[1] = (float)count / MOST_SEEN;
        turn(a, push_of_walls(a->x, width), push_of_walls(a->y, height), s + 2);
        turn(a, afraid * away_x, afraid * away_y, s + 4);
        s[6] = afraid > 0;
        for (int k = 0; k < count; k++) {
            const agent *b = &w->agents[seen[k]];
            const float dx = b->x - a->x, dy = b->y - a->y, distance = sqrtf(dx * dx + dy * dy);
            float *p = v->pair + v->pairs * PAIR;
            turn(a, dx / sight, dy / sight, p);
            turn(a, (b->vx - a->vx) / cruise, (b->vy - a->vy) / cruise, p + 2);
            p[4] = distance / sight;
            p[5] = clamp(1 - distance / elbow, 0, 1);
            v->from[v->pairs] = seen[k];
            v->to[v->pairs++] = i;
        }
        rules(w, i, seen, count, v->wanted + i * ACTION);
    }
}

/* Steers the hawk towards a place, at so high a speed, and moves it by a frame. */
static void steer_hawk(agent *h, float x, float y, float speed, float swiftness)
{
    const float dx = x - h->x, dy = y - h->y, distance = sqrtf(dx * dx + dy * dy) + 1e-6f;
    h->vx += swiftness * frame_seconds * (speed * dx / distance - h->vx);
    h->vy += swiftness * frame_seconds * (speed * dy / distance - h->vy);
    h->x += frame_seconds * h->vx;
    h->y += frame_seconds * h->vy;
}

/* The hawk hunts an agent for a while, then leaves for a while. */
static void move_hawk(world *w)
{
    enum { HUNT = 300, REST = 200 };
    if (++w->hunted > (w->prey < 0 ? REST : HUNT) || w->prey >= w->n) {
        w->prey = w->prey < 0 && w->n ? fold_random_below(&w->chance, w->n) : -1;
        w->hunted = 0;
    }
    const float away = w->hawk.x < width / 2 ? -30 : width + 30;
    const float x = w->prey < 0 ? away : w->agents[w->prey].x, y = w->prey < 0 ? height / 2 : w->agents[w->prey].y;
    steer_hawk(&w->hawk, x, y, 1.7f * cruise, 1.5f);
}

static uint64_t hash_of_swarm(const world *w, const float *state)
{
    const uint64_t hash = hash_more(hash_begin, w->agents, (size_t)w->n * sizeof *w->agents);
    return hash_more(hash, state, (size_t)w->n * STATE * sizeof *state);
}

/* Moves each agent by its action, or as much of it as there is power for. The rules alone tell who is alarmed. */
static void move_agents(world *w, const view *v, const float *action)
{
    for (int i = 0; i < w->n; i++, action += ACTION) {
        agent *a = &w->agents[i];
        const float push = unit_push * sqrtf(action[0] * action[0] + action[1] * action[1]);
        const float speed = sqrtf(a->vx * a->vx + a->vy * a->vy) + 1e-6f;
        const float scale = frame_seconds * unit_push * (push > most_push ? most_push / push : 1) / speed;
        const float vx = a->vx + scale * (action[0] * a->vx - action[1] * a->vy);
        const float vy = a->vy + scale * (action[0] * a->vy + action[1] * a->vx);
        const float now = sqrtf(vx * vx + vy * vy) + 1e-6f, kept = clamp(now, slowest, fastest) / now;
        a->vx = kept * vx;
        a->vy = kept * vy;
        a->x += frame_seconds * a->vx;
        a->y += frame_seconds * a->vy;
        a->alarm = unit_alarm * v->wanted[i * ACTION + 2];
    }
}

/* Moves all by a frame. */
static void move(world *w, const view *v, const float *action)
{
    move_agents(w, v, action);
    move_hawk(w);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Sums differences from the rules, over agents and frames. */
typedef struct errors { double of_push, push, of_alarm, count; } errors;

static void add_errors(errors *e, const view *v, const float *action)
{
    for (int i = 0; i < v->n * ACTION; i++) {
        const double wanted = (double)v->wanted[i], error = (double)action[i] - wanted;
        const int is_alarm = i % ACTION == 2;
        e->of_alarm += is_alarm ? error * error * (double)(unit_alarm * unit_alarm) : 0;
        e->of_push += is_alarm ? 0 : error * error;
        e->push += is_alarm ? 0 : wanted * wanted;
        e->count += is_alarm;
    }
}
static double push_error(const errors *e) { return e->push > 0 ? e->of_push / e->push : 0; }

/* Returns the error of the network beside a swarm that the rules fly. */
static double examine(fold_ctx *f, const net *n, uint64_t seed)
{
    enum { AGENTS = 100, FRAMES = 400 };
    static float memory[AGENTS * STATE], action[AGENTS * ACTION];
    float *const state = memory, *const to = action;
    world w = new_world(AGENTS);
    view v = new_view(AGENTS);
    const view *const views = &v;
    errors e = { 0, 0, 0, 0 };
    populate(&w, AGENTS, fold_random_new(seed, UINT64_MAX));
    memset(memory, 0, sizeof memory);
    for (int frame = 0; frame < FRAMES; frame++) {
        look(&w, &v);
        think(f, n, &views, 1, &state, &to);
        add_errors(&e, &v, action);
        move(&w, &v, v.wanted);
    }
    free(w.agents);
    free_view(&v);
    return push_error(&e);
}

/* How long a school teaches, how large its swarms are, and how fast Adam goes. */
typedef struct lessons { int steps, fewest, most; float rate; } lessons;

typedef struct school {
    fold_ctx *thinking, *training;
    fold_random chance;
    lessons how;
    int step;
    world w[CLASS];
    view v[CLASS][WINDOW];
    int age[CLASS];
    float *begin[CLASS], *state[CLASS], *action[CLASS]; /* states when the window began, and now */
} school;

static school *new_school(fold_model *m, uint64_t seed, lessons how)
{
    school *s = (school *)take(1, sizeof *s);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    s->thinking = fold_ctx_new(m, NULL);
    s->training = fold_ctx_new(m, &desc);
    if (!s->thinking || !s->training) fail("out of memory");
    s->chance = fold_random_new(seed, 1);
    s->how = how;
    for (int i = 0; i < CLASS; i++) {
        s->w[i] = new_world(MOST_IN_CLASS);
        s->begin[i] = (float *)take(MOST_IN_CLASS * STATE, sizeof(float));
        s->state[i] = (float *)take(MOST_IN_CLASS * STATE, sizeof(float));
        s->action[i] = (float *)take(MOST_IN_CLASS * ACTION, sizeof(float));
        s->age[i] = LIFE * (i + 1) / CLASS; /* they do not all end at once */
        for (int t = 0; t < WINDOW; t++) s->v[i][t] = new_view(MOST_IN_CLASS);
    }
    return s;
}

static void free_school(school *s)
{
    fold_ctx_free(s->thinking);
    fold_ctx_free(s->training);
    for (int i = 0; i < CLASS; i++) {
        free(s->w[i].agents);
        free(s->begin[i]);
        free(s->state[i]);
        free(s->action[i]);
        for (int t = 0; t < WINDOW; t++) free_view(&s->v[i][t]);
    }
    free(s);
}

/* Moves all swarms through a window: each flies by the rules with a chance of `guided`, else by the network. */
static void fly_class(school *s, const net *n, float guided)
{
    int by_rules[CLASS];
    for (int i = 0; i < CLASS; i++) {
        if (!s->w[i].n || ++s->age[i] >= LIFE) {
            const int agents = s->how.fewest + fold_random_below(&s->chance, s->how.most - s->how.fewest + 1);
            populate(&s->w[i], agents, fold_random_new(fold_random_bits(&s->chance), 0));
            memset(s->state[i], 0, (size_t)agents * STATE * sizeof(float));
            s->age[i] %= LIFE;
        }
        by_rules[i] = fold_random_uniform(&s->chance) < guided;
        memcpy(s->begin[i], s->state[i], (size_t)s->w[i].n * STATE * sizeof(float));
    }
    for (int t = 0; t < WINDOW; t++) {
        const view *now[CLASS];
        for (int i = 0; i < CLASS; i++) {
            now[i] = &s->v[i][t];
            look(&s->w[i], &s->v[i][t]);
        }
        think(s->thinking, n, now, CLASS, s->state, s->action);
        for (int i = 0; i < CLASS; i++) move(&s->w[i], now[i], by_rules[i] ? now[i]->wanted : s->action[i]);
    }
}

/* Returns the mean loss of the window that was flown, differentiated through its frames. */
static fold_node loss_of(fold_ctx *f, const net *n, const school *s)
{
    fold_node losses[CLASS];
    for (int i = 0; i < CLASS; i++) {
        const int agents = s->w[i].n;
        fold_state now = { fold_list_input_ref(f, s->begin[i], agents, fold_shape1(STATE)), FOLD_NULL_NODE };
        fold_node frames[WINDOW], action;
        for (int t = 0; t < WINDOW; t++) {
            const fold_node wanted = fold_list_input_ref(f, s->v[i][t].wanted, agents, fold_shape1(ACTION));
            record(f, n, &s->v[i][t], &now, &action);
            frames[t] = fold_list_mean(f, fold_squared_error(f, action, wanted));
        }
        losses[i] = fold_mean_n(f, frames, WINDOW);
    }
    return fold_mean_n(f, losses, CLASS);
}

/* Takes a step of training; returns its loss. */
static float learn_step(school *s, fold_model *m, const net *n)
{
    const fold_rates rates = { FOLD_RATE_COSINE, 20, s->how.steps, 0, 0, 0 };
    fold_adam adam = fold_adam_default();
    fly_class(s, n, 1 - 2.5f * (float)s->step / (float)s->how.steps);
    fold_ctx_reset(s->training);
    const fold_node loss = loss_of(s->training, n, s);
    fold_backward(s->training, loss);
    fold_grads_clip(m, 1);
    adam.rate = s->how.rate * fold_rate_factor(&rates, (uint64_t)s->step++);
    if (fold_ctx_status(s->training) || fold_adam_step(m, &adam)) fail(fold_ctx_message(s->training));
    return fold_scalar(s->training, loss);
}

static void learn(fold_model *m, const net *n, const options *o)
{
    const lessons how = { o->steps, FEWEST, MOST_IN_CLASS, 0.004f };
    school *s = new_school(m, o->seed, how);
    time_left left = TIME_LEFT;
    while (s->step < how.steps) {
        const float loss = learn_step(s, m, n);
        time_left_show(&left, s->step, how.steps, "learning: step %d of %d, loss %.4f", s->step, how.steps, (double)loss);
    }
    time_left_end(&left);
    free_school(s);
}

/* ---- the picture ----------------------------------------------------------------------------- */

enum { KEYS = 72, KEY_FRAMES = 10, LEVELS = 3, PER_UNIT = 10 };
typedef struct mark { short x, y, level; } mark;
typedef struct picture { int keys, agents; mark *marks, hawk[KEYS]; } picture; /* marks[agent * KEYS + key] */

/* The shapes of SVG paths fly to the right. Their unit is 1 / PER_UNIT of the world's. */
static const char agent_shape[] = "M7,0L-5,4-2,0-5-4z";
static const char hawk_shape[] = "M22,0C18,5 13,5 10,5C9,18-2,33-19,40C-12,27-13,18-9,6C-14,5-19,6-27,9L-25,0-27-9"
                                 "C-19-6-14-5-9-6C-13-18-12-27-19-40C-2-33 9-18 10-5C13-5 18-5 22,0z";

static mark mark_of(const agent *a, float alarm)
{
    mark m;
    m.x = (short)lrintf(PER_UNIT * a->x);
    m.y = (short)lrintf(PER_UNIT * a->y);
    m.level = (short)(alarm < 0.3f ? 0 : alarm < 0.65f ? 1 : 2);
    return m;
}

static void add_key(picture *p, const world *w, const float *action)
{
    const int key = p->keys++;
    for (int i = 0; i < w->n; i++)
        p->marks[i * KEYS + key] = mark_of(&w->agents[i], unit_alarm * action[i * ACTION + 2]);
    p->hawk[key] = mark_of(&w->hawk, 0);
}

/* Writes the movement of one mark through all keys, in steps, which take fewer digits than places. It looks where it
   flies. */
static void draw_moves(FILE *file, const mark *m, int keys, double seconds)
{
    fprintf(file, "<animateMotion dur=\"%.1fs\" repeatCount=\"indefinite\" calcMode=\"linear\" rotate=\"auto\" path=\"M0,0l", seconds);
    for (int k = 1; k < keys; k++) {
        const int x = m[k].x - m[k - 1].x, y = m[k].y - m[k - 1].y;
        fprintf(file, "%s%d%s%d", k > 1 && x >= 0 ? " " : "", x, y >= 0 ? "," : "", y); /* a minus separates, too */
    }
    fputs("\"/>", file);
}

/* Writes the colour at the keys at which it changes. */
static const char *const colour[LEVELS] = { "#8fd3ff", "#ffd98a", "#ff7a5c" };
static void draw_colours(FILE *file, const mark *m, int keys, double seconds)
{
    int same = 1;
    for (int k = 0; k < keys; k++) same &= m[k].level == 0; /* which is the colour of all */
    if (same) return;
    for (int list = 0; list < 2; list++) {
        const char *between = "";
        if (list) fputs("\" keyTimes=\"", file);
        else fprintf(file, "<animate attributeName=\"fill\" dur=\"%.1fs\" repeatCount=\"indefinite\" values=\"", seconds);
        for (int k = 0; k < keys; k++) {
            if (k && k + 1 < keys && m[k].level == m[k - 1].level && m[k].level == m[k + 1].level) continue;
            if (!list) fprintf(file, "%s%s", between, colour[m[k].level]);
            else fprintf(file, "%s%.3g", between, (double)k / (keys - 1));
            between = ";";
        }
    }
    fputs("\"/>", file);
}

/* Returns the key that shows most: the hawk, and many agents of each colour of alarm. */
static int best_key(const picture *p, int w, int h)
{
    int best = 0, most = -1;
    for (int k = 0; k < p->keys; k++) {
        const mark *hawk = &p->hawk[k];
        int agents[LEVELS] = { 0, 0, 0 };
        for (int i = 0; i < p->agents; i++) agents[p->marks[i * KEYS + k].level]++;
        const int fewer = agents[1] < agents[2] ? agents[1] : agents[2], shown = 3 * fewer + agents[1] + agents[2];
        if (shown <= most || hawk->x < 0 || hawk->y < 0 || hawk->x > w || hawk->y > h) continue;
        most = shown;
        best = k;
    }
    return best;
}

/* Writes a mark as it is at one key, for viewers without animations. */
static void draw_still(FILE *file, const mark *m, int key, int keys, const char *shape)
{
    const mark *from = m + (key + 1 < keys ? key : key - 1);
    const double turn = atan2(from[1].y - from->y, from[1].x - from->x) * 180 / 3.14159265358979;
    fprintf(file, "<use href=\"#%s\" transform=\"translate(%d,%d)rotate(%.0f)\"/>\n", shape, m[key].x, m[key].y, turn);
}

static void draw_stills(FILE *file, const picture *p, int key)
{
    fputs("<g class=\"still\"><set attributeName=\"display\" to=\"none\"/>\n", file);
    for (int level = 0; level < LEVELS; level++) {
        fprintf(file, "<g fill=\"%s\">\n", colour[level]);
        for (int i = 0; i < p->agents; i++)
            if (p->marks[i * KEYS + key].level == level) draw_still(file, p->marks + (size_t)i * KEYS, key, p->keys, "a");
        fputs("</g>\n", file);
    }
    draw_still(file, p->hawk, key, p->keys, "hawk");
    fputs("</g>\n", file);
}

/* The moving marks are hidden until an animation shows them, and hides the still ones. */
static void draw(const char *path, const picture *p)
{
    const double seconds = (double)(p->keys - 1) * KEY_FRAMES / 60;
    const int w = (int)width * PER_UNIT, h = (int)height * PER_UNIT;
    FILE *file = fopen(path, "w");
    if (!file) fail("the picture cannot be written");
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-20 -20 %d %d\" font-family=\"sans-serif\" "
                  "role=\"img\">\n<title>A flock of %d agents flees a hawk</title>\n", w + 40, h + 60, p->agents);
    fputs("<defs><linearGradient id=\"sky\" x2=\"0\" y2=\"1\"><stop stop-color=\"#0b1030\"/><stop offset=\"1\" "
          "stop-color=\"#1f3a5f\"/></linearGradient>\n", file);
    fprintf(file, "<g id=\"a\"><path d=\"M-2,1.6L-20,0-2-1.6z\" fill-opacity=\".35\"/><path d=\"%s\"/></g>\n"
                  "<path id=\"hawk\" d=\"%s\" fill=\"#d9b48f\" stroke=\"#4a2c17\"/></defs>\n", agent_shape, hawk_shape);
    fprintf(file, "<rect x=\"-20\" y=\"-20\" width=\"%d\" height=\"%d\" fill=\"url(#sky)\"/>\n", w + 40, h + 60);
    fprintf(file, "<rect width=\"%d\" height=\"%d\" rx=\"30\" fill=\"none\" stroke=\"#fff\" stroke-opacity=\".15\"/>\n", w, h);
    fputs("<style>@media(prefers-reduced-motion:reduce){.moving{display:none!important}.still{display:inline!important}}"
          "</style>\n", file);
    draw_stills(file, p, best_key(p, w, h));
    fprintf(file, "<g class=\"moving\" display=\"none\"><set attributeName=\"display\" to=\"inline\"/><g fill=\"%s\">\n", *colour);
    for (int i = 0; i < p->agents; i++) {
        const mark *m = p->marks + (size_t)i * KEYS;
        fprintf(file, "<g transform=\"translate(%d,%d)\"><use href=\"#a\">", m->x, m->y);
        draw_moves(file, m, p->keys, seconds);
        draw_colours(file, m, p->keys, seconds);
        fputs("</use></g>\n", file);
    }
    fprintf(file, "</g>\n<g transform=\"translate(%d,%d)\"><use href=\"#hawk\">", p->hawk->x, p->hawk->y);
    draw_moves(file, p->hawk, p->keys, seconds);
    fprintf(file, "</use></g></g>\n<rect class=\"moving\" x=\"-20\" y=\"-20\" width=\"%d\" height=\"%d\" fill=\"#0b1030\" opacity=\"0\"><animate "
                  "attributeName=\"opacity\" dur=\"%.1fs\" repeatCount=\"indefinite\" values=\"1;0;0;1\" "
                  "keyTimes=\"0;.04;.96;1\"/></rect>\n", w + 40, h + 60, seconds);
    fprintf(file, "<text x=\"%d\" y=\"%d\" fill=\"#cfe3f5\" font-size=\"15\" text-anchor=\"middle\">one network flies all %d "
                  "agents, which flee the hawk; yellow and red: how alarmed each one says it is</text>\n</svg>\n",
            w / 2, h + 27, p->agents);
    if (fclose(file)) fail("the picture cannot be written");
}

/* ---- flying ---------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
static double microseconds(const uint64_t *sorted, int count, double share)
{
    const int at = (int)(share * count);
    return count ? 1e-3 * (double)sorted[at < count ? at : count - 1] : 0;
}

typedef struct flight {
    uint64_t *batched, *eager, *beside; /* nanoseconds of all frames, and of those run in both contexts */
    int compared, identical;
    double pairs, outside;
    errors e;
    fold_stats stats;
    size_t block_bytes; /* the most that a frame can need */
    uint64_t hash;      /* covers all agents and their states at the end */
} flight;

/* Tells whether an eager context gives the bits of the actions and states that were made from `before`. */
static int same_bits(fold_ctx *eager, const net *n, const view *v, float *before, const float *action,
                     const float *state)
{
    static float said[MOST_AGENTS * ACTION];
    float *const to = said;
    think(eager, n, &v, 1, &before, &to);
    return !memcmp(said, action, (size_t)v->n * ACTION * sizeof(float)) &&
           !memcmp(before, state, (size_t)v->n * STATE * sizeof(float));
}

static void fly(fold_model *m, const net *n, const options *o, flight *t, picture *p)
{
    enum { EAGER_EVERY = 30 };
    static float memory[MOST_AGENTS * STATE], before[MOST_AGENTS * STATE], decided[MOST_AGENTS * ACTION];
    float *const state = memory, *const action = decided;
    const int first_key = o->frames - KEYS * KEY_FRAMES;
    t->block_bytes = largest_frame(m, n, 1, o->agents);
    fold_ctx *f = new_pilot(m, t->block_bytes), *eager = new_eager(m);
    world w = new_world(o->agents);
    view v = new_view(o->agents);
    const view *const views = &v;
    populate(&w, o->agents, fold_random_new(o->seed, 2));
    for (int frame = 0; frame < o->frames; frame++) {
        const int compare = frame % EAGER_EVERY == EAGER_EVERY - 1;
        look(&w, &v);
        if (compare) memcpy(before, memory, (size_t)w.n * STATE * sizeof(float));
        const uint64_t start = fold_clock_monotonic(NULL);
        think(f, n, &views, 1, &state, &action);
        t->batched[frame] = fold_clock_monotonic(NULL) - start;
        if (compare) {
            const uint64_t eager_start = fold_clock_monotonic(NULL);
            t->identical &= same_bits(eager, n, &v, before, decided, memory);
            t->eager[t->compared] = fold_clock_monotonic(NULL) - eager_start;
            t->beside[t->compared++] = t->batched[frame];
        }
        add_errors(&t->e, &v, decided);
        if (p->marks && frame >= first_key && p->keys < KEYS && frame % KEY_FRAMES == 0) add_key(p, &w, decided);
        move(&w, &v, decided);
        t->pairs += v.pairs;
        for (int i = 0; i < w.n; i++) {
            const agent *a = &w.agents[i];
            t->outside += a->x < 0 || a->y < 0 || a->x > width || a->y > height;
        }
    }
    t->stats = fold_ctx_stats(f);
    t->hash = hash_of_swarm(&w, memory);
    fold_ctx_free(eager);
    fold_ctx_free(f);
    free(w.agents);
    free_view(&v);
}

static int run_flight(fold_model *m, const net *n, const options *o, double before, double after)
{
    flight t;
    picture p;
    memset(&t, 0, sizeof t);
    memset(&p, 0, sizeof p);
    t.identical = 1;
    t.batched = (uint64_t *)take((size_t)o->frames, sizeof *t.batched);
    t.eager = (uint64_t *)take((size_t)o->frames, sizeof *t.eager);
    t.beside = (uint64_t *)take((size_t)o->frames, sizeof *t.beside);
    p.agents = o->agents;
    if (o->svg) p.marks = (mark *)take((size_t)o->agents * KEYS, sizeof *p.marks);
    fly(m, n, o, &t, &p);
    qsort(t.batched, (size_t)o->frames, sizeof *t.batched, by_size);
    qsort(t.eager, (size_t)t.compared, sizeof *t.eager, by_size);
    qsort(t.beside, (size_t)t.compared, sizeof *t.beside, by_size);
    if (o->svg && p.keys < 2) fail("a picture takes more frames");
    if (o->svg) draw(o->svg, &p);
    const double eager = microseconds(t.eager, t.compared, 0), beside = microseconds(t.beside, t.compared, 0);
    printf("%d agents, %.1f neighbours each, %d frames of %d nodes in %d batches: half take %.0f us, at best %.0f, "
           "eager %.0f; %s bits\n",
           o->agents, t.pairs / o->frames / o->agents, o->frames, t.stats.nodes, t.stats.batches,
           microseconds(t.batched, o->frames, 0.5), beside, eager, t.identical ? "the same" : "OTHER");
    printf("RESULT swarm p50_us=%.1f p99_us=%.1f p999_us=%.1f worst_us=%.1f block_bytes=%zu used_bytes=%zu "
           "eager_us=%.1f eager_over_batched=%.2f identical=%d error_before=%.4f error_after=%.4f "
           "error_in_flight=%.4f alarm_error=%.4f outside=%.5f flight=%016llx hash=%016llx\n",
           microseconds(t.batched, o->frames, 0.5), microseconds(t.batched, o->frames, 0.99),
           microseconds(t.batched, o->frames, 0.999), microseconds(t.batched, o->frames, 1), t.block_bytes,
           t.stats.block_bytes, eager, beside > 0 ? eager / beside : 0, t.identical, before, after,
           push_error(&t.e), t.e.of_alarm / t.e.count,
           t.outside / o->frames / o->agents, (unsigned long long)t.hash, (unsigned long long)hash_of(m));
    free(t.batched);
    free(t.eager);
    free(t.beside);
    free(p.marks);
    return !t.identical;
}

static int learn_and_fly(fold_model *m, const net *n, const options *o)
{
    fold_ctx *thinking = fold_ctx_new(m, NULL);
    if (!thinking) fail("out of memory");
    const double before = examine(thinking, n, o->seed);
    if (o->load && fold_model_load(m, o->load, NULL)) fail(fold_model_message(m));
    if (!o->load) learn(m, n, o);
    if (fold_model_status(m) || (o->save && fold_model_save(m, o->save, NULL))) fail(fold_model_message(m));
    const double after = examine(thinking, n, o->seed);
    fold_ctx_free(thinking);
    return run_flight(m, n, o, before, after);
}

/* ---- soaking --------------------------------------------------------------------------------- */

enum { SOAKED = CLASS, MOST_SOAKED = 150, ODD = 40 };

/* Agents come and go, and now and then all at once. */
static void change_size(world *w, float *state, fold_random *chance)
{
    int now = w->n + fold_random_below(chance, 11) - 5;
    if (!fold_random_below(chance, 100)) now = fold_random_below(chance, MOST_SOAKED + 1);
    resize(w, state, now < 0 ? 0 : now > MOST_SOAKED ? MOST_SOAKED : now, chance);
}

/* Runs a recording of shapes that hardly come again; returns its value. */
static float record_odd(fold_ctx *f, fold_random chance)
{
    float values[ODD * ODD];
    const int rows = 1 + fold_random_below(&chance, ODD), columns = 1 + fold_random_below(&chance, ODD);
    const fold_shape shape = fold_shape2(rows, columns);
    fold_random_gaussian(&chance, NULL, NULL, shape.dim[0] * shape.dim[1], values);
    fold_ctx_reset(f);
    const fold_node x = fold_tanh(f, fold_input_shaped(f, values, shape));
    const fold_node y = fold_sum(f, fold_matmul(f, x, fold_transpose(f, x, 0, 1)), FOLD_ALL);
    if (fold_run(f, &y, 1)) fail(fold_ctx_message(f));
    return fold_scalar(f, y);
}

typedef struct soaking {
    world w[SOAKED];
    view v[SOAKED];
    float *state[SOAKED], *action[SOAKED], *before[SOAKED], *said[SOAKED];
    fold_random chance;
} soaking;

static soaking *new_soaking(uint64_t seed)
{
    soaking *s = (soaking *)take(1, sizeof *s);
    s->chance = fold_random_new(seed, 3);
    for (int i = 0; i < SOAKED; i++) {
        s->w[i] = new_world(MOST_SOAKED);
        s->v[i] = new_view(MOST_SOAKED);
        s->state[i] = (float *)take(MOST_SOAKED * STATE, sizeof(float));
        s->before[i] = (float *)take(MOST_SOAKED * STATE, sizeof(float));
        s->action[i] = (float *)take(MOST_SOAKED * ACTION, sizeof(float));
        s->said[i] = (float *)take(MOST_SOAKED * ACTION, sizeof(float));
        populate(&s->w[i], 20 * i, fold_random_new(seed, 4 + (uint64_t)i));
    }
    return s;
}

static void free_soaking(soaking *s)
{
    for (int i = 0; i < SOAKED; i++) {
        free(s->w[i].agents);
        free_view(&s->v[i]);
        free(s->state[i]);
        free(s->before[i]);
        free(s->action[i]);
        free(s->said[i]);
    }
    free(s);
}

/* Flies a frame of some swarms. Returns whether the eager context, if there is one, gives the same bits. */
static int soak_frame(soaking *s, const net *n, fold_ctx *f, fold_ctx *eager, uint64_t *took)
{
    const int swarms = 1 + fold_random_below(&s->chance, SOAKED);
    const fold_random odd = s->chance;
    const view *views[SOAKED];
    int same = 1;
    for (int i = 0; i < swarms; i++) {
        change_size(&s->w[i], s->state[i], &s->chance);
        look(&s->w[i], &s->v[i]);
        views[i] = &s->v[i];
        memcpy(s->before[i], s->state[i], (size_t)s->w[i].n * STATE * sizeof(float));
    }
    const uint64_t start = fold_clock_monotonic(NULL);
    think(f, n, views, swarms, s->state, s->action);
    *took = fold_clock_monotonic(NULL) - start;
    const float value = record_odd(f, odd);
    if (eager) {
        const float wanted = record_odd(eager, odd);
        same = !memcmp(&value, &wanted, sizeof value);
        think(eager, n, views, swarms, s->before, s->said);
    }
    for (int i = 0; i < swarms; i++) {
        const size_t agents = (size_t)s->w[i].n;
        if (eager) same &= !memcmp(s->said[i], s->action[i], agents * ACTION * sizeof(float));
        if (eager) same &= !memcmp(s->before[i], s->state[i], agents * STATE * sizeof(float));
        move(&s->w[i], &s->v[i], s->action[i]);
    }
    return same;
}

/* Flies until time is over or something is wrong. */
static int soak(fold_model *m, const net *n, const options *o, const int *allocations)
{
    enum { EAGER_EVERY = 20 };
    const uint64_t start = fold_clock_monotonic(NULL), most = (uint64_t)(1e9 * o->soak);
    uint64_t took = 0, worst = 0, sum = 0, now = start;
    time_left left = TIME_LEFT;
    soaking *s = new_soaking(o->seed);
    const size_t block_bytes = largest_frame(m, n, SOAKED, MOST_SOAKED);
    fold_ctx *f = new_pilot(m, block_bytes), *eager = new_eager(m);
    const int allocated = *allocations;
    long frames = 0, compared = 0, identical = 1;
    for (; identical && now - start < most; now = fold_clock_monotonic(NULL), frames++) {
        const int compare = frames % EAGER_EVERY == 0;
        identical = soak_frame(s, n, f, compare ? eager : NULL, &took);
        compared += compare;
        sum += took;
        if (took > worst) worst = took;
        time_left_show(&left, (double)(now - start), (double)most, "soaking: %ld frames", frames);
    }
    time_left_end(&left);
    const fold_stats stats = fold_ctx_stats(f);
    const int grown = *allocations - allocated, wrong = !identical || grown;
    const double mean = frames ? (double)sum / (double)frames : 0;
    printf("RESULT swarm soak_seconds=%.0f frames=%ld compared=%ld identical=%ld allocations=%d signatures=%d "
           "block_bytes=%zu used_bytes=%zu mean_us=%.1f worst_us=%.1f\n",
           o->soak, frames, compared, identical, grown, stats.signatures, block_bytes, stats.block_bytes, 1e-3 * mean,
           1e-3 * (double)worst);
    fold_ctx_free(eager);
    fold_ctx_free(f);
    free_soaking(s);
    return wrong;
}

/* ---- command line ---------------------------------------------------------------------------- */

static options parse_options(int argc, char **argv)
{
    options o = { 1, 300, 3600, 600, 0, NULL, NULL, NULL, NULL };
    const option table[9] = {
        option_of_whole("--agents", &o.agents, 2, MOST_AGENTS, "in flight"),
        option_of_whole("--frames", &o.frames, 1, 1000000, "of the flight, a sixtieth of a second each"),
        option_of_whole("--steps", &o.steps, 0, 1000000, "of training"),
        option_of_seed("--seed", &o.seed, "of weights and swarms"),
        option_of_text("--load", &o.load, "FILE", "takes the network that --save wrote, and learns nothing"),
        option_of_text("--save", &o.save, "FILE", "writes the network"),
        option_of_text("--isa", &o.isa, "NAME", "of the kernels: avx512, avx2, neon, portable"),
        option_of_text("--svg", &o.svg, "FILE", "writes the end of the flight as a moving picture"),
        option_of_number("--soak", &o.soak, 0, 1e6, "seconds to fly swarms of changing sizes instead, without training"),
    };
    options_read(argc, argv, "Agents learn to fly as a flock, and fly by their network.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    int allocations = 0; /* the model and its contexts are counted; eager ones are not */
    net n;
    fold_model *m = new_model(&n, o.seed, o.isa, &allocations);
    const int wrong = o.soak > 0 ? soak(m, &n, &o, &allocations) : learn_and_fly(m, &n, &o);
    fold_model_free(m);
    return wrong;
}
