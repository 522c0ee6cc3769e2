/* agents_cpp: agents.c in C++17, without exceptions. The results are bit-identical.

     c++ -std=c++17 -O2 -fno-exceptions -fno-rtti -o agents_cpp examples/agents_cpp.cpp && ./agents_cpp

   std::unique_ptr owns the model and the context, and frees the context first. Nodes, parameters and layers
   are values, and errors are statuses, as in C. The model and the context are in static arrays; `./agents_cpp
   --sizes` prints how large these must be. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "unfused.h"
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

constexpr int agents = 50, senses = 4, state_size = 16, actions = 2, heads = 2, most_seen = 10, frames = 1000;
constexpr size_t model_bytes = 80 << 10, context_bytes = 224 << 10, large = 4 << 20;

template <auto free_it> struct freed { template <class thing> void operator()(thing *it) const { free_it(it); } };
using model_ptr = std::unique_ptr<fold_model, freed<fold_model_free>>;
using context_ptr = std::unique_ptr<fold_ctx, freed<fold_ctx_free>>;

struct world {
    float senses[agents][::senses]; /* place and speed: x, y, vx, vy */
    float state[agents][state_size], action[agents][actions];
    int pairs, from[agents * most_seen], to[agents * most_seen]; /* agent to[k] sees agent from[k] */
};

struct brain {
    model_ptr model;
    fold_dense ask, answer, tell, act;
    fold_recurrent memory;

    brain(void *block, size_t size)
    {
        fold_model_desc desc = {};
        desc.inference = 1;
        desc.memory.block = block;
        desc.memory.block_size = size;
        model.reset(fold_model_new(&desc));
        fold_model *m = model.get();
        ask = fold_dense_new(m, "ask", state_size, state_size, FOLD_ACT_LINEAR);
        answer = fold_dense_new(m, "answer", state_size, state_size, FOLD_ACT_LINEAR);
        tell = fold_dense_new(m, "tell", state_size, state_size, FOLD_ACT_LINEAR);
        memory = fold_gru_new(m, "memory", senses + state_size, state_size);
        act = fold_dense_new(m, "act", state_size, actions, FOLD_ACT_TANH);
    }

    fold_status run(fold_ctx *f, world &w) const /* records and runs a frame */
    {
        fold_ctx_reset(f);
        const fold_node sensed = fold_list_input_ref(f, w.senses[0], agents, fold_shape1(senses));
        const fold_state before = { fold_list_input_ref(f, w.state[0], agents, fold_shape1(state_size)), {} };
        const fold_node q = fold_dense_apply(f, &ask, before.h), k = fold_dense_apply(f, &answer, before.h);
        const fold_node v = fold_dense_apply(f, &tell, before.h);
        const fold_node heard = fold_list_attention_to(f, q, k, v, heads, w.from, w.to, w.pairs);
        fold_edges_ref(f, heard, w.from, w.to, &w.pairs, agents * most_seen);
        const fold_node state = fold_recurrent_apply(f, &memory, fold_concat2(f, sensed, heard), before).h;
        fold_output_ref(f, state, w.state[0]); /* the next frame reads it */
        fold_output_ref(f, fold_dense_apply(f, &act, state), w.action[0]);
        return fold_run(f, nullptr, 0); /* all that goes out by reference */
    }
};

static int print_sizes(world &w) /* enough for any frame, since fold_edges_ref reserves memory for max_edges */
{
    static std::byte block[large];
    const brain b(block, large);
    const size_t bytes = fold_model_measure(b.model.get()).block_bytes;
    fold_ctx_desc desc = {};
    desc.measure = 1; /* plans and takes memory, and computes nothing */
    const context_ptr f(fold_ctx_new(b.model.get(), &desc));
    const bool failed = b.run(f.get(), w) || fold_replay(f.get());
    const size_t needed = fold_ctx_stats(f.get()).block_bytes;
    std::printf("model %zu, context %zu bytes %s\n", bytes, needed, fold_ctx_message(f.get()));
    return failed;
}

static void look(world &w) /* up to 10 others that are near; the world is yours, this one is round */
{
    w.pairs = 0;
    for (int i = 0; i < agents; i++)
        for (int j = 0, seen = 0; j < agents && seen < most_seen; j++) {
            const float dx = w.senses[j][0] - w.senses[i][0], dy = w.senses[j][1] - w.senses[i][1];
            if (i == j || dx * dx + dy * dy > 0.1f) continue;
            w.from[w.pairs] = j;
            w.to[w.pairs++] = i, seen++;
        }
}

static void move(world &w)
{
    for (int i = 0; i < 2 * agents; i++) {
        float *x = &w.senses[i / 2][i % 2], *speed = x + 2;
        *speed = 0.9f * *speed + 0.1f * w.action[i / 2][i % 2];
        *x += *speed / 60 + static_cast<float>(*x > 1 ? -2 : *x < -1 ? 2 : 0);
    }
}

int main(int argc, char **argv)
{
    static std::byte model_block[model_bytes], context_block[context_bytes];
    static world w;
    if (argc > 1 && !std::strcmp(argv[1], "--sizes")) return print_sizes(w);
    if (argc > 1) return std::puts("usage: agents_cpp [--sizes]"), std::strcmp(argv[1], "-h") != 0;
    const brain b(model_block, model_bytes);
    fold_ctx_desc desc = {};
    desc.memory.block = context_block;
    desc.memory.block_size = context_bytes;
    const context_ptr f(fold_ctx_new(b.model.get(), &desc));
    fold_random chance = fold_random_new(1, 0);
    fold_random_gaussian(&chance, nullptr, nullptr, agents * senses, w.senses[0]);
    for (int frame = 0; frame < 2 * frames; frame++) {
        const bool again = frame >= frames;
        look(w);
        if (again ? fold_replay(f.get()) : b.run(f.get(), w))
            return std::fprintf(stderr, "agents_cpp: %s\n", fold_ctx_message(f.get())), 1;
        move(w);
    }
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof w.state; i++)
        hash = (hash ^ reinterpret_cast<unsigned char *>(w.state)[i]) * 0x100000001b3u;
    std::printf("RESULT agents_cpp frames=%d pairs=%d hash=%016llx\n", 2 * frames, w.pairs, (unsigned long long)hash);
    return 0;
}
