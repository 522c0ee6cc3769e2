/* The functions of the swarm (../swarm.c) that the page calls, compiled to WebAssembly by `make web`. The swarm's main is
   not linked.

   swarm.html makes one instance for the flight, another one that learns, and a third that times frames of the flight both
   ways. Networks pass from one to the other as files in memory (network_file.h), and frames in `snapshot`. */
#include "../swarm.c"

#define PAGE(name) __attribute__((export_name(#name))) name
#include "network_file.h"

enum { SEED = 1 }; /* the default of the program */

/* A swarm between two frames. */
typedef struct snapshot { int n; agent hawk, agents[MOST_AGENTS]; float state[MOST_AGENTS * STATE]; } snapshot;

/* Tells where something is, the direction in which it flies, and how alarmed it says it is. */
typedef struct shown { float x, y, along_x, along_y, alarm; } shown;

static struct {
    fold_model *model;
    net net;
    fold_ctx *batched, *eager;
    school *school;
    world world;
    view view;
    float state[MOST_AGENTS * STATE], action[MOST_AGENTS * ACTION];
    shown shown[MOST_AGENTS + 1];
    snapshot snapshot;
} page;

/* Begins with a network that has learnt nothing, and some agents. */
void PAGE(begin)(int agents)
{
    static int allocations;
    page.model = network_file.network = new_model(&page.net, SEED, NULL, &allocations);
    page.batched = new_pilot(page.model, largest_frame(page.model, &page.net, 1, MOST_AGENTS));
    page.eager = new_eager(page.model);
    page.world = new_world(MOST_AGENTS);
    page.view = new_view(MOST_AGENTS);
    populate(&page.world, agents, fold_random_new(SEED, 2));
}

void PAGE(resize_to)(int agents) { resize(&page.world, page.state, agents, &page.world.chance); }

/* ---- a frame ---- */

void PAGE(look_around)(void) { look(&page.world, &page.view); }

void PAGE(decide)(int one_at_a_time)
{
    const view *const views = &page.view;
    float *const state = page.state, *const action = page.action;
    think(one_at_a_time ? page.eager : page.batched, &page.net, &views, 1, &state, &action);
}

/* The hawk flies to x, y, or, if they are NaN, where it likes. */
void PAGE(fly_on)(float x, float y)
{
    agent *hawk = &page.world.hawk;
    const float far = sqrtf((x - hawk->x) * (x - hawk->x) + (y - hawk->y) * (y - hawk->y));
    move_agents(&page.world, &page.view, page.action);
    if (far >= 0) steer_hawk(hawk, x, y, clamp(3 * far, 0, 5 * cruise), 5);
    else move_hawk(&page.world);
}

/* Brings back those who have left the world, as birds that remember nothing: a network that has learnt little does not heed
   walls. */
void PAGE(bring_back)(void)
{
    const float far = 3;
    for (int i = 0; i < page.world.n; i++) {
        agent *a = &page.world.agents[i];
        if (a->x > -far && a->x < width + far && a->y > -far && a->y < height + far) continue;
        a->x = width * (0.1f + 0.8f * fold_random_uniform(&page.world.chance));
        a->y = height * (0.1f + 0.8f * fold_random_uniform(&page.world.chance));
        memset(page.state + i * STATE, 0, STATE * sizeof(float));
    }
}

/* ---- frames for another instance ---- */

const snapshot *PAGE(snapshot_at)(void) { return &page.snapshot; }
int PAGE(snapshot_size)(void) { return (int)sizeof page.snapshot; }

void PAGE(take_snapshot)(void)
{
    snapshot *s = &page.snapshot;
    s->n = page.world.n;
    s->hawk = page.world.hawk;
    memcpy(s->agents, page.world.agents, sizeof s->agents);
    memcpy(s->state, page.state, sizeof s->state);
}

void PAGE(use_snapshot)(void)
{
    const snapshot *s = &page.snapshot;
    page.world.n = s->n;
    page.world.hawk = s->hawk;
    memcpy(page.world.agents, s->agents, sizeof s->agents);
    memcpy(page.state, s->state, sizeof s->state);
}

/* Covers all that was decided, and all that is remembered. */
uint64_t PAGE(hash_of_decisions)(void)
{
    const size_t n = (size_t)page.world.n * sizeof(float);
    return hash_more(hash_more(hash_begin, page.action, ACTION * n), page.state, STATE * n);
}

/* ---- what is seen of it ---- */

static shown show(const agent *a, float alarm)
{
    const float speed = sqrtf(a->vx * a->vx + a->vy * a->vy) + 1e-6f;
    const shown s = { a->x, a->y, a->vx / speed, a->vy / speed, alarm };
    return s;
}

/* Returns all agents, and last the hawk. */
const shown *PAGE(show_all)(void)
{
    const int n = page.world.n;
    for (int i = 0; i < n; i++) page.shown[i] = show(&page.world.agents[i], unit_alarm * page.action[i * ACTION + 2]);
    page.shown[n] = show(&page.world.hawk, 0);
    return page.shown;
}
const char *PAGE(agent_path)(void) { return agent_shape; }
const char *PAGE(hawk_path)(void) { return hawk_shape; }
uint64_t PAGE(hash)(void) { return hash_of_swarm(&page.world, page.state); }

/* ---- learning ---- */

/* Takes the next of so many steps of training; returns its loss. Swarms are smaller than those of the program, and steps
   larger, so that half a minute in a browser is enough. */
float PAGE(learn_more)(int steps)
{
    const lessons quick = { steps, 20, 60, 0.012f };
    if (!page.school) page.school = new_school(page.model, SEED, quick);
    return learn_step(page.school, page.model, &page.net);
}
