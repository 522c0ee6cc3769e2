/* test_trainer.c - the trainer of examples/fold_rl.h: it learns all kinds of actions and observations, to the same
   bits whatever the threads, and goes on from a checkpoint.
       cc -O2 -o test_trainer tests/test_trainer.c -lm -lpthread */

#define FOLD_USE_THREADS
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_RL__CHUNK 5 /* so that 16 agents are several lists */
#define FOLD_RL_IMPLEMENTATION
#include "../examples/fold_rl.h"
#include "check.h"

/* -- a small world --------------------------------------------------------------------------------- */

/* Each agent sees a cue, 0 or 1, in the first of `length` steps or in all, and is asked for it in the last one. In ITEMS and
   RECALL it is the value of one of one to ITEMS_MOST items, the marked one. */
enum { AGENTS = 16, MOST = 3, ITEMS_MOST = 4, KINDS = 9 };
typedef enum task { ONE_HEAD, TWO_HEADS, NUMBERS, BYTES, ONE_HOT, MEMORY, MASKS, ITEMS, RECALL } task;
static const char *const kind_names[KINDS] = { "one head", "two heads", "numbers", "bytes", "one-hot", "memory", "masks", "items", "recalled items" };
static const int one_head[1] = { 2 }, two_heads[2] = { 2, 3 }, masked_head[1] = { 3 };

typedef struct world {
    task kind;
    int agents, length, steps;
    int varies; /* 1: agents come and go */
    fold_random chance[AGENTS];
    int cue[AGENTS], step[AGENTS];
    float seen[AGENTS * 2], actions[AGENTS * 2], rewards[AGENTS];
    unsigned char bytes[AGENTS * 2], terminals[AGENTS], mask[AGENTS * MOST], present[AGENTS];
    float items[AGENTS * ITEMS_MOST * 2];
    int counts[AGENTS];
    double sum;
} world;

/* Shows items, end to end: a mark, and a value such as a place in pixels. After the first step RECALL shows none. */
static void world_show_items(world *w)
{
    float *next = w->items;
    for (int i = 0; i < w->agents; i++) {
        const int n = w->kind == RECALL && w->step[i] ? 0 : 1 + fold_random_below(&w->chance[i], ITEMS_MOST);
        const int marked = fold_random_below(&w->chance[i], n);
        w->counts[i] = n;
        for (int k = 0; k < n; k++) {
            *next++ = (float)(k == marked);
            *next++ = 300 + 40 * (float)(k == marked ? w->cue[i] : fold_random_below(&w->chance[i], 2));
        }
    }
}

static void world_show(world *w)
{
    for (int i = 0; i < w->agents; i++) {
        const int shown = w->kind < MEMORY || w->kind == MASKS || (w->kind == MEMORY && w->step[i] == 0);
        w->seen[2 * i] = shown ? 5000 + 100 * (float)w->cue[i] : 5050; /* such as a place in pixels */
        w->seen[2 * i + 1] = (float)w->step[i];
        w->bytes[2 * i] = (unsigned char)(w->kind == ONE_HOT ? 3 + w->cue[i] : 255 * w->cue[i]);
        w->bytes[2 * i + 1] = (unsigned char)w->step[i];
        for (int k = 0; k < MOST; k++) w->mask[MOST * i + k] = k != (w->step[i] + i) % 2 + w->cue[i]; /* rules out what is wrong, or no matter */
        if (w->kind == MASKS) w->mask[MOST * i + w->cue[i]] = 1;
    }
    if (w->kind >= ITEMS) world_show_items(w);
}
static void world_begin(world *w, int agent)
{
    w->cue[agent] = fold_random_below(&w->chance[agent], 2);
    w->step[agent] = 0;
}
static world world_new(task k, int agents)
{
    world w;
    memset(&w, 0, sizeof w);
    w.kind = k;
    w.agents = agents;
    w.length = 2;
    for (int i = 0; i < agents; i++) {
        w.chance[i] = fold_random_new(5, (uint64_t)i);
        w.present[i] = 1;
        world_begin(&w, i);
    }
    world_show(&w);
    return w;
}
static float world_reward(const world *w, int agent)
{
    const float *a = w->actions + agent * (w->kind == TWO_HEADS || w->kind == NUMBERS ? 2 : 1);
    const float cue = (float)w->cue[agent];
    if (w->kind == TWO_HEADS) return (a[0] == cue ? 0.5f : 0) + (a[1] == cue + 1 ? 0.5f : 0);
    if (w->kind == NUMBERS) return 1 - 0.5f * fabsf(a[0] - cue) - 0.5f * fabsf(a[1] + cue);
    return a[0] == cue ? 1.0f : 0.0f;
}
static void world_step(world *w)
{
    w->sum = 0;
    for (int i = 0; i < w->agents; i++) {
        const int last = w->step[i] == w->length - 1;
        w->rewards[i] = last || (w->kind != MEMORY && w->kind != RECALL) ? world_reward(w, i) : 0;
        if (last) w->sum += (double)world_reward(w, i);
        w->terminals[i] = (unsigned char)last;
        w->step[i]++;
        if (last) world_begin(w, i);
    }
    world_show(w);
}
static fold_rl_seen world_seen(const world *w)
{
    fold_rl_seen seen = { NULL, NULL, NULL, NULL, NULL, NULL };
    if (w->kind == BYTES || w->kind == ONE_HOT) seen.bytes = w->bytes;
    else seen.observations = w->seen;
    if (w->kind == MASKS) seen.mask = w->mask;
    seen.present = w->present;
    if (w->kind >= ITEMS) seen.items = w->items, seen.item_counts = w->counts;
    return seen;
}

/* A body that attends to items, with an LSTM on what it sees or without. */
enum { HIDDEN = 12 };
typedef struct looker { fold_dense own, item, actor, critic; fold_recurrent memory; int remembers; } looker;
static fold_rl_step look(fold_ctx *f, const fold_rl_input *in, const void *user)
{
    const looker *l = (const looker *)user;
    fold_rl_step step;
    memset(&step, 0, sizeof step);
    const fold_node own = fold_dense_apply(f, &l->own, in->observations), item = fold_dense_apply(f, &l->item, in->items);
    fold_node x = fold_concat2(f, own, fold_list_attention_to(f, own, item, item, 1, in->from, in->to, in->item_count));
    if (l->remembers) {
        step.state = fold_recurrent_apply(f, &l->memory, x, in->state);
        x = step.state.h;
    }
    step.actor = fold_dense_apply(f, &l->actor, x);
    step.critic = fold_dense_apply(f, &l->critic, x);
    return step;
}
static looker looker_new(fold_model *m, int remembers)
{
    looker l;
    memset(&l, 0, sizeof l);
    const int width = remembers ? HIDDEN : 16;
    l.own = fold_rl_dense_new(m, "own", 2, 8, FOLD_ACT_TANH, 1.4f);
    l.item = fold_rl_dense_new(m, "item", 2, 8, FOLD_ACT_TANH, 1.4f);
    if (remembers) l.memory = fold_lstm_new(m, "memory", 16, HIDDEN);
    l.actor = fold_rl_dense_new(m, "actor", width, 2, FOLD_ACT_LINEAR, 0.01f);
    l.critic = fold_rl_dense_new(m, "critic", width, 1, FOLD_ACT_LINEAR, 1);
    l.remembers = remembers;
    return l;
}
/* Makes a trainer, and before it what its body uses. Few live at a time. */
static fold_rl_trainer *trainer_new(fold_model *m, fold_rl_trainer_desc d)
{
    static looker lookers[8];
    static int made;
    if (d.body == look) {
        looker *l = &lookers[made++ % 8];
        *l = looker_new(m, d.hidden > 0);
        d.user = l;
    }
    return fold_rl_trainer_new(m, "agent", &d);
}

static fold_rl_trainer_desc desc_of(task k, int agents)
{
    fold_rl_trainer_desc d = fold_rl_trainer_desc_default();
    d.agents = agents;
    d.observations = 2;
    d.bytes = k == BYTES;
    d.one_hot = k == ONE_HOT ? 5 : 0;
    d.masks = k == MASKS;
    d.choices = k == NUMBERS ? NULL : k == TWO_HEADS ? two_heads : k == MASKS ? masked_head : one_head;
    d.heads = k == TWO_HEADS || k == NUMBERS ? 2 : 1;
    d.memory = k == MEMORY ? fold_lstm_new : NULL;
    if (k >= ITEMS) {
        d.body = look;
        d.max_items = ITEMS_MOST;
        d.item_values = 2;
        d.hidden = k == RECALL ? HIDDEN : 0;
        d.has_c = k == RECALL;
    }
    d.width = 16;
    d.steps = 16;
    d.rate = 0.01f;
    d.entropy_share = 0.001f;
    d.discount = 0.9f;
    d.seed = 3;
    return d;
}

/* Agents come and go, in the same way in every run. */
static void world_people(world *w)
{
    for (int i = 0; i < w->agents; i++) w->present[i] = (i + w->steps / 7) % 4 != 0;
}

/* Makes an update. Returns the share of what could be had, of the episodes that ended. */
static double update(fold_rl_trainer *t, world *w, fold_rl_report *report)
{
    double sum = 0, n = 0;
    while (!fold_rl_trainer_is_full(t)) {
        const fold_rl_seen seen = world_seen(w);
        if (w->varies) world_people(w);
        w->steps++;
        if (fold_rl_trainer_act(t, &seen, w->actions)) return -1;
        for (int i = 0; w->kind == MASKS && i < w->agents; i++)
            if (w->present[i]) CHECK(w->mask[MOST * i + (int)w->actions[i]]);
        world_step(w);
        sum += w->sum;
        for (int i = 0; i < w->agents; i++) n += w->terminals[i];
        if (fold_rl_trainer_add(t, w->rewards, w->terminals)) return -1;
    }
    const fold_rl_seen seen = world_seen(w);
    return fold_rl_trainer_learn(t, &seen, report) ? -1 : sum / n;
}

static uint64_t hash_of(const fold_model *m)
{
    int count;
    const unsigned char *bytes = (const unsigned char *)fold_model_values(m, &count);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < (size_t)count * sizeof(float); i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Trains for some updates. Returns the hash of the weights. */
static uint64_t train(task k, const fold_ctx_desc *ctx, int updates, double *share)
{
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(k, AGENTS);
    world w = world_new(k, AGENTS);
    double last = 0;
    d.ctx = ctx;
    fold_rl_trainer *t = trainer_new(m, d);
    CHECK_SAYS(t != NULL, "%s", fold_model_message(m));
    for (int i = 0; t && i < updates; i++) last = update(t, &w, NULL);
    CHECK_SAYS(!fold_model_status(m), "%s", fold_model_message(m));
    const uint64_t hash = hash_of(m);
    if (share) *share = last;
    fold_rl_trainer_free(t);
    fold_model_free(m);
    return hash;
}

/* -- learning -------------------------------------------------------------------------------------- */

static void all_kinds_learn(void)
{
    for (int k = 0; k < KINDS; k++) {
        double share = 0;
        train((task)k, NULL, k == NUMBERS ? 60 : 40, &share);
        CHECK_SAYS(share > (k == NUMBERS ? 0.7 : 0.95), "%s: %g", kind_names[k], share);
    }
}

static void same_bits(void)
{
    for (int k = 0; k < KINDS; k++) {
        uint64_t hash[4];
        for (int way = 0; way < 4; way++) { /* one thread, two, four, eager */
            fold_ctx_desc ctx = fold_ctx_desc_default();
            fold_pool *pool = fold_pool_new(4);
            ctx.threads = way == 1 ? 2 : way == 2 ? 4 : 1;
            ctx.parallel_for = fold_pool_for;
            ctx.pool = pool;
            ctx.eager = way == 3;
            hash[way] = train((task)k, &ctx, 2, NULL);
            fold_pool_free(pool);
        }
        for (int way = 1; way < 4; way++) CHECK_SAYS(hash[way] == hash[0], "%s, way %d", kind_names[k], way);
    }
}

static void continue_for(fold_rl_trainer *t, world *w, int updates)
{
    for (int i = 0; i < updates; i++) update(t, w, NULL);
}
static void checkpoints(void)
{
    const task kinds[] = { ONE_HEAD, MEMORY, MASKS, ITEMS, RECALL };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *path = "build/trainer.safetensors";
        const fold_rl_trainer_desc d = desc_of(kinds[k], AGENTS);
        fold_save_desc saving = fold_save_desc_default();
        fold_load_desc loading = fold_load_desc_default();
        saving.state = loading.state = 1;
        fold_model *m = fold_model_new(NULL), *other = fold_model_new(NULL);
        fold_rl_trainer *t = trainer_new(m, d), *again = trainer_new(other, d);
        world w = world_new(kinds[k], AGENTS);
        w.length = 5; /* so that episodes go on from rollout to rollout */
        w.varies = 1;
        continue_for(t, &w, 3);
        CHECK_INT(fold_model_save(m, path, &saving), FOLD_OK);
        world copy = w;
        continue_for(t, &w, 3);
        CHECK_INT(fold_model_load(other, path, &loading), FOLD_OK);
        CHECK_INT(fold_rl_trainer_updates(again), 3);
        continue_for(again, &copy, 3);
        CHECK_SAYS(hash_of(m) == hash_of(other), "%s", kind_names[kinds[k]]);
        CHECK_INT(fold_rl_trainer_updates(again), 6);
        fold_rl_trainer_free(t);
        fold_rl_trainer_free(again);
        fold_model_free(m);
        fold_model_free(other);
        remove(path);
    }
}

/* Agents that are not there count for nothing: what is learned is what it is without them, to the bit. */
static void absent_agents(void)
{
    enum { THERE = 5 };
    const task kinds[] = { ONE_HEAD, MEMORY, NUMBERS, ITEMS, RECALL };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint64_t hash[2];
        for (int crowd = 0; crowd < 2; crowd++) {
            const int agents = crowd ? (int)AGENTS : (int)THERE;
            fold_model *m = fold_model_new(NULL);
            const fold_rl_trainer_desc d = desc_of(kinds[k], agents);
            fold_rl_trainer *t = trainer_new(m, d);
            world w = world_new(kinds[k], agents);
            fold_rl_report report;
            uint64_t sum = 0;
            for (int i = THERE; i < agents; i++) w.present[i] = 0;
            for (int i = 0; i < 3; i++) {
                update(t, &w, &report);
                CHECK_INT(report.steps, THERE * d.steps);
                for (int agent = THERE; agent < agents; agent++) CHECK_NEAR(w.actions[agent * d.heads], 0, 0);
            }
            for (int i = 0; i < THERE; i++) sum = sum * 31 + (uint64_t)(1000 + 100 * w.actions[i]);
            const int own = kinds[k] >= ITEMS;
            const char *const names[] = { own ? "item.W" : "agent.encoder.0.W", own ? "actor.W" : "agent.actor.W", own ? "critic.b" : "agent.critic.b" };
            for (int i = 0; i < 3; i++) {
                const float *values = fold_param_value(m, fold_param_find(m, names[i]));
                uint32_t bits;
                memcpy(&bits, values, sizeof bits);
                sum = sum * 31 + bits;
            }
            hash[crowd] = sum;
            CHECK_SAYS(!fold_model_status(m), "%s", fold_model_message(m));
            fold_rl_trainer_free(t);
            fold_model_free(m);
        }
        CHECK_SAYS(hash[0] == hash[1], "%s", kind_names[kinds[k]]);
    }
}

/* An agent that leaves has ended its episode: what comes after has no value for it, and it comes back without a memory. */
static void agents_that_leave(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(ONE_HEAD, 1);
    float seen[2] = { 1, 2 }, action, reward = 1;
    unsigned char there = 1;
    fold_rl_report report;
    const fold_rl_seen s = { seen, NULL, NULL, &there, NULL, NULL };
    d.steps = 4;
    d.raw = 1;
    d.discount = d.trace = 1;
    fold_rl_trainer *t = trainer_new(m, d);
    for (int i = 0; i < 4; i++) { /* from the second on, values are not 0 */
        for (int step = 0; step < 4; step++) {
            there = step != 2;
            fold_rl_trainer_act(t, &s, &action);
            fold_rl_trainer_add(t, &reward, NULL);
        }
        there = 0; /* gone at the end: so step 3 is an episode, whose return is 1 */
        CHECK_INT(fold_rl_trainer_learn(t, &s, &report), FOLD_OK);
        CHECK_INT(report.steps, 3);
        CHECK_NEAR(t->target[0], 2, 1e-5);
        CHECK_NEAR(t->target[1], 1, 1e-5);
        CHECK_NEAR(t->target[3], 1, 1e-5);
    }
    fold_rl_trainer_free(t);
    fold_model_free(m);
}

/* An episode that was cut by a limit of time has the value of what its agent saw last; one that is over has none. */
static void truncations(void)
{
    for (int k = 0; k < 2; k++) { /* without a memory and with one */
        fold_model *m = fold_model_new(NULL);
        fold_rl_trainer_desc d = desc_of(k ? MEMORY : ONE_HEAD, 2);
        const float seen[4] = { 0.5f, 1, 0.25f, -1 }, last[4] = { 2, 3, 4, 5 }, rewards[2] = { 1, 1 };
        const unsigned char present[2] = { 0, 1 }, terminals[2] = { 1, 1 };
        const fold_rl_seen now = { seen, NULL, NULL, NULL, NULL, NULL }, then = { last, NULL, NULL, present, NULL, NULL };
        float actions[2], h[2 * 16], c[2 * 16];
        d.steps = 1;
        d.raw = 1;
        d.discount = 0.5f;
        fold_rl_trainer *t = trainer_new(m, d);
        CHECK_INT(fold_rl_trainer_act(t, &now, actions), FOLD_OK);
        memcpy(h, t->h, k ? sizeof h : 0);
        memcpy(c, t->c, k ? sizeof c : 0);
        CHECK_INT(fold_rl_trainer_truncate(t, &then), FOLD_OK);
        if (k) CHECK_BITS(t->h, h, 32);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_state state = { { 0, 0 }, { 0, 0 } };
        if (k) state.h = fold_input(f, h + 16, 16), state.c = fold_input(f, c + 16, 16);
        const fold_node x = fold_input(f, last + 2, 2), critic = fold_rl_policy_apply(f, fold_rl_trainer_policy(t), x, state).critic;
        CHECK_INT(fold_run(f, &critic, 1), FOLD_OK);
        const double value = (double)fold_scalar(f, critic);
        fold_ctx_free(f);
        CHECK_INT(fold_rl_trainer_add(t, rewards, terminals), FOLD_OK);
        CHECK_INT(fold_rl_trainer_learn(t, &now, NULL), FOLD_OK);
        CHECK(fabs(value) > 1e-3);
        CHECK_NEAR(t->target[0], 1, 1e-6);
        CHECK_NEAR(t->target[1], 1 + 0.5 * value, 1e-6);
        fold_rl_trainer_act(t, &now, actions);
        fold_rl_trainer_add(t, rewards, terminals);
        fold_rl_trainer_learn(t, &now, NULL);
        CHECK_NEAR(t->target[1], 1, 1e-6); /* only in the step in which it was told */
        CHECK_INT(fold_rl_trainer_truncate(t, &then), FOLD_BAD_STATE);
        fold_rl_trainer_free(t);
        fold_model_free(m);
    }
}

/* -- reports and settings -------------------------------------------------------------------------- */

/* With a single pass in one part all figures are those of the policy that played. */
static void reports(void)
{
    enum { STEPS = 8 };
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(ONE_HEAD, AGENTS);
    d.steps = STEPS;
    d.epochs = d.minibatches = 1;
    d.raw = 1;
    world w = world_new(ONE_HEAD, AGENTS);
    w.length = 1; /* so that a target is a reward */
    fold_rl_trainer *t = trainer_new(m, d);
    fold_rl_report report;
    update(t, &w, &report);
    double loss = 0, sum = 0, squares = 0, errors = 0;
    for (int row = 0; row < AGENTS * STEPS; row++) {
        const double error = (double)t->reward[row] - (double)t->value[row];
        CHECK_NEAR(t->target[row], t->reward[row], 1e-5);
        loss += error * error;
        errors += error;
        sum += (double)t->reward[row];
        squares += (double)t->reward[row] * (double)t->reward[row];
    }
    const double n = AGENTS * STEPS;
    CHECK_INT(report.updates, 1);
    CHECK_INT(report.steps, AGENTS * STEPS);
    CHECK_INT(report.epochs, 1);
    CHECK_NEAR(report.rate, d.rate, 1e-9);
    CHECK_NEAR(report.approx_kl, 0, 1e-6);
    CHECK_NEAR(report.clip_fraction, 0, 0);
    CHECK_NEAR(report.policy_loss, 0, 1e-5);
    CHECK_NEAR(report.entropy, log(2.0), 1e-3);
    CHECK_NEAR(report.value_loss, loss / n, 1e-5);
    CHECK_NEAR(report.explained_variance,
               1 - (loss / n - errors / n * errors / n) / (squares / n - sum / n * sum / n), 1e-4);
    CHECK(report.norm > 0);
    fold_rl_trainer_free(t);
    fold_model_free(m);
}

/* In the first pass the policy still is the one that acted, so that all ratios are 1: moves that were ruled out, what agents
   remember and those who are away are the same in learning as they were in acting. */
static void ratios_begin_at_one(void)
{
    for (int way = 0; way < KINDS + 2; way++) { /* the last two in segments */
        const int k = way < KINDS ? way : way == KINDS ? MEMORY : RECALL;
        fold_model *m = fold_model_new(NULL);
        fold_rl_trainer_desc d = desc_of((task)k, AGENTS);
        world w = world_new((task)k, AGENTS);
        float remembered[AGENTS * 16];
        double carried = 0;
        fold_rl_report report;
        d.epochs = d.minibatches = 1;
        d.rate = 0.1f; /* so that weights are large enough to tell */
        d.segment = way >= KINDS ? 3 : 0;
        w.length = 5;
        w.varies = 1;
        fold_rl_trainer *t = trainer_new(m, d);
        for (int i = 0; i < 6; i++) {
            if (way == MEMORY) memcpy(remembered, t->h, sizeof remembered);
            update(t, &w, &report);
            CHECK_SAYS(fabs(report.approx_kl) < 1e-7 && report.clip_fraction == 0, "%s: %g", kind_names[k], report.approx_kl);
            for (int row = 0; row < report.steps; row++) CHECK_NEAR(t->part_log_prob[row], t->part_old[row], 1e-5);
            for (int piece = 0; d.segment && piece < t->pieces; piece++) CHECK(t->length[piece] <= 3);
            for (int j = 0; way == MEMORY && j < AGENTS * 16; j++) CHECK_NEAR(t->first_h[j], t->present[j / 16 * d.steps] ? remembered[j] : 0, 0);
            for (int j = 0; way == MEMORY && j < AGENTS * 16; j++) carried += fabs((double)t->first_h[j]);
            if (k == TWO_HEADS && i == 0) CHECK_NEAR(report.entropy, log(2.0) + log(3.0), 1e-3);
        }
        CHECK(way != MEMORY || carried > 1);
        fold_rl_trainer_free(t);
        fold_model_free(m);
    }
}

static void rates_and_limits(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(ONE_HEAD, AGENTS);
    fold_rl_report report;
    d.rates.kind = FOLD_RATE_LINEAR;
    d.rates.steps = 4;
    d.target_kl = 1e-7f;
    d.reward_limit = 0.25f;
    world w = world_new(ONE_HEAD, AGENTS);
    fold_rl_trainer *t = trainer_new(m, d);
    for (int i = 0; i < 6; i++) {
        const fold_param W = fold_param_find(m, "agent.encoder.1.W");
        float before = fold_param_value(m, W)[0];
        update(t, &w, &report);
        CHECK_NEAR(report.rate, i < 4 ? (double)d.rate * (1 - i / 4.0) : 0, 1e-8);
        CHECK_INT(fold_param_value(m, W)[0] == before, i >= 4);
        CHECK_INT(report.epochs, i < 4 ? 1 : 4); /* the policy moves further than that at once */
        CHECK(i >= 4 || report.clip_fraction >= 0);
    }
    for (int i = 0; i < t->rows; i++) CHECK(t->reward[i] >= 0 && t->reward[i] <= 0.25f);
    CHECK(fold_rl_trainer_moments(t).n == 2 && fold_rl_trainer_policy(t)->encoder.layers == 2);
    CHECK_NEAR(fold_param_value(m, fold_rl_trainer_moments(t).count)[1], 6 * AGENTS * d.steps, 0);
    fold_rl_trainer_free(t);
    fold_model_free(m);
}

typedef struct counted { int taken; size_t held; } counted;
static void *count_alloc(size_t size, size_t align, void *user)
{
    counted *c = (counted *)user;
    if (size > 1 << 26) return NULL;
    char *raw = (char *)malloc(size + align + sizeof(void *));
    if (!raw) return NULL;
    char *at = (char *)(((uintptr_t)raw + sizeof(void *) + align - 1) / align * align);
    memcpy(at - sizeof(void *), &raw, sizeof raw);
    c->taken++;
    c->held += size;
    return at;
}
static void count_free(void *p, size_t size, void *user)
{
    char *raw;
    memcpy(&raw, (char *)p - sizeof(void *), sizeof raw);
    ((counted *)user)->held -= size;
    free(raw);
}
static void memory_is_taken_once(void)
{
    counted c = { 0, 0 };
    fold_model_desc desc = fold_model_desc_default();
    desc.memory.alloc = count_alloc;
    desc.memory.free = count_free;
    desc.memory.user = &c;
    for (int k = 0; k < KINDS; k++) {
        fold_model *m = fold_model_new(&desc);
        const fold_rl_trainer_desc d = desc_of((task)k, AGENTS);
        world w = world_new((task)k, AGENTS);
        fold_rl_trainer *t = trainer_new(m, d);
        for (int i = 0; i < 3; i++) update(t, &w, NULL);
        const int before = c.taken;
        for (int i = 0; i < 4; i++) update(t, &w, NULL);
        CHECK_SAYS(c.taken == before || k == MEMORY || k >= ITEMS, "%s: %d times", kind_names[k], c.taken - before);
        fold_rl_trainer_free(t);
        fold_model_free(m);
        CHECK(c.held == 0);
    }
}

/* A policy of one's own: no encoder, and without names of the trainer. */
static void own_policy(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(ONE_HEAD, AGENTS);
    const fold_rl_policy policy = fold_rl_policy_new(m, "own", NULL, 2, 8, 2), wrong = fold_rl_policy_new(m, "wrong", NULL, 3, 8, 2);
    world w = world_new(ONE_HEAD, AGENTS);
    d.policy = &policy;
    fold_rl_trainer *t = trainer_new(m, d);
    CHECK(update(t, &w, NULL) >= 0);
    fold_rl_trainer_free(t);
    d.policy = &wrong;
    CHECK(!fold_rl_trainer_new(m, "other", &d));
    CHECK_TEXT(fold_model_message(m), "fold_rl_trainer_new: the policy has 3 inputs, but sees 2 values");
    fold_model_clear_error(m);
    const fold_rl_policy few = fold_rl_policy_new(m, "few", NULL, 2, 8, 1);
    d.policy = &few;
    CHECK(!fold_rl_trainer_new(m, "third", &d));
    CHECK_TEXT(fold_model_message(m), "fold_rl_trainer_new: the policy's actor has 1 outputs, but actions need 2");
    fold_model_free(m);
}

/* -- bodies ---------------------------------------------------------------------------------------- */

/* A body that is a policy: what it learns is what the policy learns, to the bit without a memory. */
static fold_rl_step apply_policy(fold_ctx *f, const fold_rl_input *in, const void *user)
{
    return fold_rl_policy_apply(f, (const fold_rl_policy *)user, in->observations, in->state);
}
static void policies_as_bodies(void)
{
    enum { CROWD = 16, WIDTH = 8 };
    for (int k = 0; k < 3; k++) { /* without a memory, with one, and with one in segments */
        const task kind = k ? MEMORY : ONE_HEAD;
        float actions[2][AGENTS], values[2][WIDTH * 2];
        uint64_t hash[2];
        for (int as_body = 0; as_body < 2; as_body++) {
            fold_model *m = fold_model_new(NULL);
            fold_rl_trainer_desc d = desc_of(kind, CROWD);
            const fold_rl_policy policy = fold_rl_policy_new(m, "own", k ? fold_lstm_new : NULL, 2, WIDTH, 2);
            world w = world_new(kind, CROWD);
            d.memory = NULL;
            d.segment = k == 2 ? 5 : 0;
            w.length = 5;
            w.varies = 1;
            if (as_body) {
                d.body = apply_policy;
                d.user = &policy;
                d.hidden = k ? WIDTH : 0;
                d.has_c = k > 0;
            } else {
                d.policy = &policy;
            }
            fold_rl_trainer *t = fold_rl_trainer_new(m, "agent", &d);
            CHECK_INT(fold_rl_trainer_policy(t) != NULL, !as_body);
            for (int i = 0; i < 3; i++) CHECK_SAYS(update(t, &w, NULL) >= 0, "%s", fold_model_message(m));
            hash[as_body] = hash_of(m);
            memcpy(actions[as_body], w.actions, sizeof actions[0]);
            memcpy(values[as_body], fold_param_value(m, fold_param_find(m, "own.actor.W")), sizeof values[0]);
            fold_rl_trainer_free(t);
            fold_model_free(m);
        }
        CHECK_BITS(actions[0], actions[1], CROWD);
        if (!k) CHECK(hash[0] == hash[1]);
        for (int i = 0; i < WIDTH * 2; i++) CHECK_NEAR(values[0][i], values[1][i], 1e-4);
    }
}

/* What a body reads when it acts: rows are agents, and the items of each are its own, none if it is absent. */
typedef struct watcher { fold_dense actor, critic; int calls, rows, items, to[8]; float seen[8]; } watcher;
static fold_rl_step watch(fold_ctx *f, const fold_rl_input *in, const void *user)
{
    watcher *w = (watcher *)(uintptr_t)user; /* the test's own */
    fold_rl_step step;
    memset(&step, 0, sizeof step);
    if (!w->calls++) {
        w->rows = in->rows;
        w->items = in->item_count;
        for (int i = 0; i < in->item_count && i < 8; i++) {
            CHECK_INT(in->from[i], i);
            w->to[i] = in->to[i];
            w->seen[i] = fold_value(f, in->items)[i];
        }
    }
    step.actor = fold_dense_apply(f, &w->actor, in->observations);
    step.critic = fold_dense_apply(f, &w->critic, in->observations);
    return step;
}
static void what_a_body_reads(void)
{
    const float seen[4] = { 1, 2, 3, 4 }, items[6] = { 10, 20, 30, 40, 50, 60 };
    const int counts[4] = { 2, 1, 0, 3 };
    const unsigned char present[4] = { 1, 0, 1, 1 };
    const fold_rl_seen s = { seen, NULL, NULL, present, items, counts };
    float actions[4];
    watcher w;
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(ONE_HEAD, 4);
    memset(&w, 0, sizeof w);
    w.actor = fold_rl_dense_new(m, "actor", 1, 2, FOLD_ACT_LINEAR, 1);
    w.critic = fold_rl_dense_new(m, "critic", 1, 1, FOLD_ACT_LINEAR, 1);
    d.observations = d.item_values = 1;
    d.max_items = 3;
    d.body = watch;
    d.user = &w;
    fold_rl_trainer *t = fold_rl_trainer_new(m, "agent", &d);
    CHECK_SAYS(fold_rl_trainer_act(t, &s, actions) == FOLD_OK, "%s", fold_model_message(m));
    CHECK(w.calls == 1 && w.rows == 4 && w.items == 5);
    const int to[5] = { 0, 0, 3, 3, 3 };
    const double want[5] = { 10, 20, 40, 50, 60 }, mean = 36, deviation = sqrt(344.0);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(w.to[i], to[i]);
        CHECK_NEAR(w.seen[i], (want[i] - mean) / deviation, 1e-5);
    }
    CHECK_INT(fold_rl_trainer_item_moments(t).n, 1);
    CHECK_NEAR(fold_param_value(m, fold_rl_trainer_item_moments(t).count)[1], 5, 0);
    CHECK(!fold_param_is_null(fold_param_find(m, "agent.items.mean")));
    fold_rl_trainer_free(t);
    fold_model_free(m);
}

/* Bodies that return what does not fit, or set an error. */
typedef struct bad_body { fold_dense two, one; int way; } bad_body;
static fold_rl_step return_badly(fold_ctx *f, const fold_rl_input *in, const void *user)
{
    const bad_body *b = (const bad_body *)user;
    fold_rl_step step;
    memset(&step, 0, sizeof step);
    step.actor = fold_dense_apply(f, &b->two, in->observations);
    step.critic = fold_dense_apply(f, &b->one, in->observations);
    step.state.h = step.actor;
    if (b->way == 0) step.actor = FOLD_NULL_NODE;
    if (b->way == 1) step.actor = fold_list_at(f, step.actor, 0);
    if (b->way == 2) step.actor = step.critic;
    if (b->way == 3) step.critic = fold_list_take(f, step.critic, in->from, 1);
    if (b->way == 4) step.state.h = step.critic;
    if (b->way == 5) fold_ctx_fail(f, FOLD_BAD_STATE, "no way to go");
    if (b->way == 6) step.critic = fold_add(f, step.actor, fold_list_at(f, in->observations, 9));
    if (b->way == 7) step.critic = fold_reshape(f, step.critic, fold_shape2(1, 1));
    return step;
}
static void bad_bodies(void)
{
    static const char *const says[] = { "fold_rl_trainer: the body returned no actor", "fold_rl_trainer: actor of the body is one node, must be a list of 3 rows [2]",
                                        "fold_rl_trainer: actor of the body is 3 rows [1], must be 3 rows [2]",
                                        "fold_rl_trainer: critic of the body is 1 rows [1], must be 3 rows [1]",
                                        "fold_rl_trainer: state.h of the body is 3 rows [1], must be 3 rows [2]", "fold_rl_trainer: no way to go",
                                        "fold_rl_trainer: list_at: ",
                                        "fold_rl_trainer: critic of the body has rows of rank 2, must have rows [1]" };
    for (int way = 0; way < 8; way++) {
        fold_model *m = fold_model_new(NULL);
        fold_rl_trainer_desc d = desc_of(ONE_HEAD, 3);
        world w = world_new(ONE_HEAD, 3);
        bad_body b;
        b.two = fold_rl_dense_new(m, "two", 2, 2, FOLD_ACT_TANH, 1);
        b.one = fold_rl_dense_new(m, "one", 2, 1, FOLD_ACT_TANH, 1);
        b.way = way;
        d.body = return_badly;
        d.user = &b;
        d.hidden = 2;
        const fold_rl_seen seen = world_seen(&w);
        fold_rl_trainer *t = fold_rl_trainer_new(m, "agent", &d);
        CHECK(fold_rl_trainer_act(t, &seen, w.actions) != FOLD_OK);
        CHECK_SAYS(!strncmp(fold_model_message(m), says[way], strlen(says[way])), "%s", fold_model_message(m));
        fold_model_clear_error(m);
        b.way = 8; /* the step can be made again, and learning tells as well */
        for (int step = 0; step < d.steps; step++) {
            CHECK_INT(fold_rl_trainer_act(t, &seen, w.actions), FOLD_OK);
            CHECK_INT(fold_rl_trainer_add(t, w.rewards, NULL), FOLD_OK);
        }
        CHECK_INT(fold_rl_trainer_learn(t, &seen, NULL), FOLD_OK);
        fold_rl_trainer_free(t);
        fold_model_free(m);
    }
}

/* -- what is refused ------------------------------------------------------------------------------- */

static void settings_refused(void)
{
    static const int none[1] = { 0 };
    static const char *const says[] = { "agents is 0, must be in [1, 1.04858e+06]", "observations is 0", "one_hot is 257", "heads is 65", "layers is 5",
                                        "width is -1", "steps is -3", "epochs is -1", "minibatches is -1", "rate is nan", "discount is 1.5",
                                        "trace is -0.5", "clip is inf", "value_share is nan", "entropy_share is -1", "max_norm is -1",
                                        "target_kl is nan", "reward_limit is -1", "choices[0] is 0", "masks need choices", "a setting of rates",
                                        "no memory for 4194304 steps of 2 values", "a rollout has 1.09951e+12 steps of 2 values",
                                        "a rollout has 256 steps of 3.35544e+07 values", "max_items is 65537, must be in [0, 65536]", "item_values is -1",
                                        "hidden is -1", "segment is -5", "body is set, and so is policy or memory",
                                        "hidden, has_c, max_items and item_values need a body", "hidden, has_c, max_items and item_values need a body",
                                        "one of max_items and item_values is 0", "has_c is set, but hidden is 0",
                                        "a rollout has up to 1.07374e+09 items, and an agent sees up to 6.71089e+07 of their values",
                                        "no memory for 256 steps of 2 values" };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        counted c = { 0, 0 };
        fold_model_desc desc = fold_model_desc_default();
        desc.memory.alloc = count_alloc;
        desc.memory.free = count_free;
        desc.memory.user = &c;
        fold_model *m = fold_model_new(&desc);
        fold_rl_trainer_desc d = desc_of(ONE_HEAD, AGENTS);
        int *const whole[] = { &d.agents, &d.observations, &d.one_hot, &d.heads, &d.layers, &d.width, &d.steps, &d.epochs, &d.minibatches };
        const int wholes[] = { 0, 0, 257, 65, 5, -1, -3, -1, -1 };
        float *const number[] = { &d.rate, &d.discount, &d.trace, &d.clip, &d.value_share, &d.entropy_share, &d.max_norm, &d.target_kl, &d.reward_limit };
        const float numbers[] = { NAN, 1.5f, -0.5f, INFINITY, NAN, -1, -1, NAN, -1 };
        if (i < 9) *whole[i] = wholes[i];
        else if (i < 18) *number[i - 9] = numbers[i - 9];
        if (i == 18) d.choices = none;
        if (i == 19) d.choices = NULL, d.masks = 1;
        if (i == 20) d.rates.kind = 77;
        if (i == 21) d.agents = 1 << 14, d.steps = 1 << 8;
        if (i == 22) d.agents = d.steps = 1 << 20;
        if (i == 23) d.observations = 1 << 24, d.one_hot = 2;
        if (i >= 24 && i != 29) d.body = apply_policy;
        if (i == 24) d.max_items = 65537;
        if (i == 25) d.item_values = -1;
        if (i == 26) d.hidden = -1;
        if (i == 27) d.segment = -5;
        if (i == 28) d.memory = fold_gru_new;
        if (i == 29) d.max_items = 3, d.item_values = 2;
        if (i == 30) d.body = NULL, d.hidden = 3;
        if (i == 31) d.max_items = 3;
        if (i == 32) d.has_c = 1;
        if (i == 33) d.max_items = 1 << 16, d.item_values = 1 << 10, d.steps = 1 << 10;
        if (i == 34) d.max_items = 1 << 16, d.item_values = 1 << 8;
        CHECK(trainer_new(m, d) == NULL);
        CHECK_SAYS(strstr(fold_model_message(m), says[i]), "%d: %s", (int)i, fold_model_message(m));
        fold_model_free(m);
        CHECK(c.held == 0);
    }
}

static void calls_refused(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer_desc d = desc_of(MASKS, 2);
    world w = world_new(MASKS, 2);
    fold_rl_seen seen = world_seen(&w);
    float actions[2], rewards[2] = { 0, 0 };
    d.steps = 2;
    fold_rl_trainer *t = trainer_new(m, d);
    for (int i = 0; i < 9; i++) {
        static const char *const says[] = { "fold_rl_trainer_add: fold_rl_trainer_act is next", "fold_rl_trainer_learn: fold_rl_trainer_act is next",
                                            "fold_rl_trainer_act: an array is NULL", "there are no observations", "observation of agent 1 is not finite",
                                            "agent 1 has no action to draw", "fold_rl_trainer_act: fold_rl_trainer_add is next",
                                            "the reward of agent 0 is nan", "fold_rl_trainer_act: fold_rl_trainer_learn is next" };
        if (i == 6) CHECK_INT(fold_rl_trainer_act(t, &seen, actions), FOLD_OK);
        if (i == 3) seen.observations = NULL;
        if (i == 4) w.seen[2] = NAN;
        if (i == 5) memset(w.mask + MOST, 0, MOST);
        if (i == 7) rewards[0] = NAN;
        if (i == 8) {
            CHECK_INT(fold_rl_trainer_add(t, rewards, NULL), FOLD_OK);
            CHECK_INT(fold_rl_trainer_act(t, &seen, actions), FOLD_OK);
            CHECK_INT(fold_rl_trainer_add(t, rewards, NULL), FOLD_OK);
        }
        const fold_status status = i == 0 || i == 7 ? fold_rl_trainer_add(t, rewards, NULL)
                                   : i == 1         ? fold_rl_trainer_learn(t, &seen, NULL)
                                                    : fold_rl_trainer_act(t, i == 2 ? NULL : &seen, actions);
        CHECK(status != FOLD_OK);
        CHECK_SAYS(strstr(fold_model_message(m), says[i]), "%d: %s", i, fold_model_message(m));
        fold_model_clear_error(m);
        seen.observations = w.seen;
        w.seen[2] = 1;
        memset(w.mask + MOST, 1, MOST);
        rewards[0] = 0;
    }
    CHECK_INT(fold_rl_trainer_learn(t, &seen, NULL), FOLD_OK);
    fold_rl_trainer_free(t);
    fold_model_free(m);
    fold_rl_trainer_free(NULL);
    CHECK(!fold_rl_trainer_new(NULL, "x", &d) && !fold_rl_trainer_policy(NULL) && fold_rl_trainer_moments(NULL).n == 0);
    CHECK(fold_rl_trainer_item_moments(NULL).n == 0);
    CHECK(fold_rl_trainer_updates(NULL) == 0 && fold_rl_trainer_is_full(NULL) == 0);
    CHECK_INT(fold_rl_trainer_act(NULL, NULL, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_rl_trainer_add(NULL, NULL, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_rl_trainer_truncate(NULL, NULL), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_rl_trainer_learn(NULL, NULL, NULL), FOLD_BAD_ARGUMENT);
}

static void items_refused(void)
{
    static const char *const says[] = { "fold_rl_trainer: there are no item_counts", "fold_rl_trainer: there are no items",
                                        "fold_rl_trainer: agent 1 sees -1 items, must be in [0, 4]", "fold_rl_trainer: agent 0 sees 5 items, must be in [0, 4]",
                                        "fold_rl_trainer: an item of agent 1 is not finite" };
    fold_model *m = fold_model_new(NULL);
    fold_rl_trainer *t = trainer_new(m, desc_of(ITEMS, 2));
    for (int i = 0; i < 5; i++) {
        world w = world_new(ITEMS, 2);
        fold_rl_seen seen = world_seen(&w);
        if (i == 0) seen.item_counts = NULL;
        if (i == 1) seen.items = NULL;
        if (i == 2) w.counts[1] = -1;
        if (i == 3) w.counts[0] = 5;
        if (i == 4) w.items[2 * w.counts[0]] = INFINITY;
        CHECK_INT(fold_rl_trainer_act(t, &seen, w.actions), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_model_message(m), says[i]);
        CHECK_NEAR(fold_param_value(m, fold_rl_trainer_item_moments(t).count)[1], 0, 0);
        CHECK_NEAR(fold_param_value(m, fold_rl_trainer_moments(t).count)[1], 0, 0);
        fold_model_clear_error(m);
    }
    world w = world_new(ITEMS, 2);
    memset(w.counts, 0, sizeof w.counts);
    fold_rl_seen seen = world_seen(&w);
    seen.items = NULL; /* as there are none */
    CHECK_SAYS(fold_rl_trainer_act(t, &seen, w.actions) == FOLD_OK, "%s", fold_model_message(m));
    fold_rl_trainer_free(t);
    fold_model_free(m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("all kinds learn", all_kinds_learn);
    check_run("the same bits", same_bits);
    check_run("checkpoints", checkpoints);
    check_run("absent agents", absent_agents);
    check_run("agents that leave", agents_that_leave);
    check_run("truncations", truncations);
    check_run("reports", reports);
    check_run("ratios begin at one", ratios_begin_at_one);
    check_run("rates and limits", rates_and_limits);
    check_run("memory is taken once", memory_is_taken_once);
    check_run("a policy of one's own", own_policy);
    check_run("policies as bodies", policies_as_bodies);
    check_run("what a body reads", what_a_body_reads);
    check_run("bad bodies", bad_bodies);
    check_run("items that are refused", items_refused);
    check_run("settings that are refused", settings_refused);
    check_run("calls that are refused", calls_refused);
    return check_finish();
}
