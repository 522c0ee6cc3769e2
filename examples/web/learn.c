/* The functions that learn.html calls, compiled to WebAssembly by `make web`: the whole of train.c, whose main is not linked.
   It has the options of train.c, except for files and --flush, and learns the parameters of `./train --isa portable` with
   these options, bit for bit.

   The page makes one instance that learns, and another one that shows some carts. Networks pass from one to the other as
   files in memory: network_file.h. */
#define main train_main
#include "../train.c"
#undef main

#define PAGE(name) __attribute__((export_name(#name))) name
#include "network_file.h"

enum {
    CARTS = 16, /* that are shown */
    APART = 9,  /* steps by which one begins after the other */
    MOST_LETTERS = 256
};

/* Where a cart and the tip of its pole are, and for how many steps it has stood. */
typedef struct shown { float x, angle, steps; } shown;

static struct {
    char options[MOST_LETTERS];
    settings s;
    run r;
    world w;
    fold_model *m;
    fold_rl_trainer *t;
    fold_ctx *f; /* of the carts that are shown */
    environment cart[CARTS];
    int shows;
    float seen[CARTS][environment_observations];
    shown shown[CARTS];
} page;

/* Where the page writes options, as on a command line, before it calls begin. */
char *PAGE(options)(void) { return page.options; }
int PAGE(most_letters)(void) { return MOST_LETTERS; }

void PAGE(begin)(void)
{
    static char name[] = "train";
    char *words[MOST_LETTERS / 2 + 1] = { name };
    int count = 1;
    const fold_ctx_desc ctx = fold_ctx_desc_default();
    for (char *word = strtok(page.options, " "); word; word = strtok(NULL, " ")) words[count++] = word;
    page.s = parse(count, words);
    if (page.s.svg || page.s.save || page.s.load || page.s.flush) fail("a page has no --svg, --save, --load or --flush");
    page.m = network_file.network = model_of(&page.s, &ctx);
    page.t = trainer_of(page.m, &page.s, &ctx);
    page.r = run_new(&page.s);
    page.w = world_new(page.s.environments, page.s.seed);
    page.f = fold_ctx_new(page.m, &ctx);
    for (int i = 0; i < CARTS; i++) {
        environment_init(&page.cart[i], (uint64_t)i);
        environment_reset(&page.cart[i], page.seen[i]);
    }
}

/* ---- learning ---- */

/* Makes an update; returns whether there are more to make. */
int PAGE(learn)(void) { return go_on(&page.s, page.m, page.t, &page.w, &page.r); }

uint64_t PAGE(hash)(void) { return hash_of(page.m); }
int PAGE(points)(void) { return page.r.points; }
const double *PAGE(curve)(void) { return page.r.curve; }
const double *PAGE(curve_steps)(void) { return page.r.curve_steps; }
double PAGE(steps)(void) { return page.r.steps; }
double PAGE(by_chance)(void) { return page.r.by_chance; }
double PAGE(goal)(void) { return page.s.goal; }
int PAGE(agents)(void) { return page.w.agents; }
int PAGE(parameters)(void)
{
    int count;
    return fold_model_values(page.m, &count) ? count : 0;
}

/* ---- what is shown ---- */

/* All carts that are shown take the better action of the network, in one run. */
const shown *PAGE(show)(void)
{
    const fold_rl_moments moments = fold_rl_trainer_moments(page.t);
    fold_state none;
    fold_node root[CARTS];
    memset(&none, 0, sizeof none);
    fold_ctx_reset(page.f);
    for (int i = 0; i < CARTS; i++) {
        float seen[environment_observations];
        memcpy(seen, page.seen[i], sizeof seen);
        fold_rl_moments_apply(page.m, &moments, seen, 1);
        root[i] = fold_rl_policy_apply(page.f, fold_rl_trainer_policy(page.t), fold_input(page.f, seen, environment_observations), none).actor;
    }
    if (fold_run(page.f, root, CARTS)) fail(fold_ctx_message(page.f));
    page.shows++;
    for (int i = 0; i < CARTS && page.shows > APART * i; i++) {
        const float action = (float)fold_argmax(fold_value(page.f, root[i]), environment_choices[0]);
        float reward;
        unsigned char over;
        environment_step(&page.cart[i], &action, &reward, &over, page.seen[i]);
        page.shown[i].x = page.cart[i].x;
        page.shown[i].angle = page.cart[i].angle;
        page.shown[i].steps = (float)page.cart[i].step;
    }
    return page.shown;
}

/* A blow against the pole of a cart. */
void PAGE(push)(int cart, float turn)
{
    page.cart[cart].turn += turn;
    page.seen[cart][3] = page.cart[cart].turn;
}
