/* agents: 50 agents decide 60 times a second, each from its own state and up to 10 neighbours. Everything
   runs in two static arrays.

     cc -O2 -o agents examples/agents.c -lm && ./agents

   All agents are rows of one list. Two arrays of indices say which agent sees which, and they change every
   frame. The program records 1,000 frames from scratch, then replays the last recording 1,000 times; each
   replay reads the two arrays again. The model and the context are in static arrays, so nothing is allocated.
   `./agents --sizes` prints how large these arrays must be. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "unfused.h"
#include <stdio.h>
#include <string.h>

enum { AGENTS = 50, SENSES = 4, STATE = 16, ACTION = 2, HEADS = 2, MOST_SEEN = 10, FRAMES = 1000 };
enum { MODEL_BYTES = 80 << 10, CONTEXT_BYTES = 224 << 10, LARGE = 4 << 20 };
typedef struct network { fold_dense ask, answer, tell, act; fold_recurrent memory; } network;
typedef struct world {
    float senses[AGENTS][SENSES]; /* place and speed: x, y, vx, vy */
    float state[AGENTS][STATE], action[AGENTS][ACTION];
    int pairs, from[AGENTS * MOST_SEEN], to[AGENTS * MOST_SEEN]; /* agent to[k] sees agent from[k] */
} world;

static fold_model *new_model(network *n, void *block, size_t size)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    desc.memory.block = block;
    desc.memory.block_size = size;
    fold_model *m = fold_model_new(&desc);
    n->ask = fold_dense_new(m, "ask", STATE, STATE, FOLD_ACT_LINEAR);
    n->answer = fold_dense_new(m, "answer", STATE, STATE, FOLD_ACT_LINEAR);
    n->tell = fold_dense_new(m, "tell", STATE, STATE, FOLD_ACT_LINEAR);
    n->memory = fold_gru_new(m, "memory", SENSES + STATE, STATE);
    n->act = fold_dense_new(m, "act", STATE, ACTION, FOLD_ACT_TANH);
    return m; /* load trained weights here, so that print_sizes counts the memory that this needs */
}

/* Records and runs a frame of all agents. Arrays given by reference are read and written whenever it runs. */
static fold_status run(fold_ctx *f, const network *n, world *w)
{
    fold_ctx_reset(f);
    fold_node senses = fold_list_input_ref(f, w->senses[0], AGENTS, fold_shape1(SENSES));
    fold_state before = { fold_list_input_ref(f, w->state[0], AGENTS, fold_shape1(STATE)), FOLD_NULL_NODE };
    fold_node ask = fold_dense_apply(f, &n->ask, before.h), answer = fold_dense_apply(f, &n->answer, before.h);
    fold_node tell = fold_dense_apply(f, &n->tell, before.h);
    fold_node heard = fold_list_attention_to(f, ask, answer, tell, HEADS, w->from, w->to, w->pairs);
    fold_edges_ref(f, heard, w->from, w->to, &w->pairs, AGENTS * MOST_SEEN);
    fold_node state = fold_recurrent_apply(f, &n->memory, fold_concat2(f, senses, heard), before).h;
    fold_output_ref(f, state, w->state[0]); /* the next frame reads it */
    fold_output_ref(f, fold_dense_apply(f, &n->act, state), w->action[0]);
    return fold_run(f, NULL, 0); /* all that goes out by reference */
}

static int print_sizes(world *w) /* enough for any frame, since fold_edges_ref reserves memory for max_edges */
{
    static unsigned char large[LARGE];
    network n;
    fold_model *m = new_model(&n, large, LARGE);
    size_t model_bytes = fold_model_measure(m).block_bytes;
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.measure = 1; /* plans and takes memory, and computes nothing */
    fold_ctx *f = fold_ctx_new(m, &desc);
    int failed = run(f, &n, w) || fold_replay(f);
    printf("model %zu, context %zu bytes %s\n", model_bytes, fold_ctx_stats(f).block_bytes, fold_ctx_message(f));
    fold_ctx_free(f);
    fold_model_free(m);
    return failed;
}

static void look(world *w) /* up to 10 others that are near; the world is yours, this one is round */
{
    w->pairs = 0;
    for (int i = 0; i < AGENTS; i++)
        for (int j = 0, seen = 0; j < AGENTS && seen < MOST_SEEN; j++) {
            float dx = w->senses[j][0] - w->senses[i][0], dy = w->senses[j][1] - w->senses[i][1];
            if (i == j || dx * dx + dy * dy > 0.1f) continue;
            w->from[w->pairs] = j;
            w->to[w->pairs++] = i, seen++;
        }
}

static void move(world *w)
{
    for (int i = 0; i < 2 * AGENTS; i++) {
        float *x = &w->senses[i / 2][i % 2], *speed = x + 2;
        *speed = 0.9f * *speed + 0.1f * w->action[i / 2][i % 2];
        *x += *speed / 60 + (*x > 1 ? -2 : *x < -1 ? 2 : 0);
    }
}

int main(int argc, char **argv)
{
    static unsigned char model_block[MODEL_BYTES], context_block[CONTEXT_BYTES];
    static world w;
    if (argc > 1 && !strcmp(argv[1], "--sizes")) return print_sizes(&w);
    if (argc > 1) return puts("usage: agents [--sizes]"), strcmp(argv[1], "-h") != 0;
    network n;
    fold_model *m = new_model(&n, model_block, MODEL_BYTES);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.memory.block = context_block;
    desc.memory.block_size = CONTEXT_BYTES;
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_random chance = fold_random_new(1, 0);
    fold_random_gaussian(&chance, NULL, NULL, AGENTS * SENSES, w.senses[0]);
    uint64_t ns[2] = { 0, 0 }, hash = 0xcbf29ce484222325u;
    for (int frame = 0; frame < 2 * FRAMES; frame++) {
        int again = frame >= FRAMES;
        look(&w);
        uint64_t start = fold_clock_monotonic(NULL);
        if (again ? fold_replay(f) : run(f, &n, &w)) return fprintf(stderr, "agents: %s\n", fold_ctx_message(f)), 1;
        ns[again] += fold_clock_monotonic(NULL) - start;
        move(&w);
    }
    for (size_t i = 0; i < sizeof w.state; i++) hash = (hash ^ ((unsigned char *)w.state)[i]) * 0x100000001b3u;
    printf("a frame: %.1f us recorded anew, %.1f us replayed\n", 1e-6 * (double)ns[0], 1e-6 * (double)ns[1]);
    printf("RESULT agents frames=%d pairs=%d hash=%016llx\n", 2 * FRAMES, w.pairs, (unsigned long long)hash);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
