/* cartpole: a controller learns to balance a pole on a cart from scratch, by reinforcement learning.

     c++ -std=c++20 -O2 -fno-exceptions -fno-rtti -o cartpole examples/cartpole.cpp && ./cartpole --svg cartpole.svg

   A cart on a track is pushed left or right 50 times a second, and the pole on it must not fall (Barto,
   Sutton and Anderson 1983). An episode ends when the pole leans by 12 degrees, when the cart is 2.4 m from
   the middle, or after 500 steps. An untrained controller keeps the pole up for about 20 steps.

   The controller is trained by proximal policy optimisation (Schulman et al. 2017) with generalised advantage
   estimation (Schulman et al. 2016). Many episodes run at once: in each step, the unfinished episodes are
   recorded one by one and run as one batch. In training, each episode is a list with one row per step, be it
   8 steps or 500; lists of all lengths share batches, and nothing is padded. Each episode has its own random
   generator, keyed by its number, so every run of the program gives the same result. After each update, the
   controller is tested on 100 other episodes, without randomness in its actions. Training ends when all of
   these last 500 steps. The last line reports how long 100 new episodes last. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_RL_IMPLEMENTATION
#include "fold_rl.h"
#include "options.h"
#include "unfused.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace {

constexpr int senses = 4, pushes = 2, most_steps = 500, passes = 6, parts = 4, trials = 100;
constexpr float discount = 0.99f, trace = 0.95f, leeway = 0.2f, curiosity = 0.01f;

struct options {
    uint64_t seed = 1;
    int updates = 60, episodes = 32, hidden = 32;
    int eager = 0;
    const char *svg = nullptr;
};

[[noreturn]] void fail(const char *what)
{
    std::fprintf(stderr, "cartpole: %s\n", what);
    std::exit(1);
}

/* Frees things of fold.h with the pointers that hold them. */
struct release {
    void operator()(fold_model *m) const { fold_model_free(m); }
    void operator()(fold_ctx *f) const { fold_ctx_free(f); }
};
using model = std::unique_ptr<fold_model, release>;
using context = std::unique_ptr<fold_ctx, release>;

/* ---- the network ---------------------------------------------------------------------------------- */

struct net {
    fold_mlp policy, value;

    net(fold_model *m, int hidden)
    {
        const int choose[] = { senses, hidden, hidden, pushes }, judge[] = { senses, hidden, hidden, 1 };
        policy = fold_mlp_new(m, "policy", choose, 3, FOLD_ACT_TANH);
        value = fold_mlp_new(m, "value", judge, 3, FOLD_ACT_TANH);
    }
};

/* ---- the cart and its pole ----------------------------------------------------------------------- */

struct cart {
    float place, speed, angle, spin; /* m, m/s, rad, rad/s */

    explicit cart(fold_random &chance)
    {
        for (float *value : { &place, &speed, &angle, &spin }) *value = 0.1f * fold_random_uniform(&chance) - 0.05f;
    }

    /* Moves the cart for a fiftieth of a second under a force of 10 N. Returns whether the pole still stands. */
    bool push(int right)
    {
        constexpr float gravity = 9.8f, cart_mass = 1, pole_mass = 0.1f, half_length = 0.5f, second = 0.02f;
        constexpr float mass = cart_mass + pole_mass;
        const float sine = std::sin(angle), cosine = std::cos(angle);
        const float push = ((right ? 10.0f : -10.0f) + pole_mass * half_length * spin * spin * sine) / mass;
        const float turn = (gravity * sine - cosine * push) /
                           (half_length * (4.0f / 3 - pole_mass * cosine * cosine / mass));
        const float pull = push - pole_mass * half_length * turn * cosine / mass;
        place += second * speed;
        speed += second * pull;
        angle += second * spin;
        spin += second * turn;
        return std::fabs(place) < 2.4f && std::fabs(angle) < 0.20943951f;
    }

    std::array<float, senses> sensed() const { return { place, speed, 10 * angle, spin }; }
};

/* ---- the controller ------------------------------------------------------------------------------ */

/* Holds what happened, step by step. */
struct episode {
    fold_random chance;
    cart now;
    bool stands = true;
    float after = 0; /* the value of the state after the last step: 0 when the pole fell */
    std::vector<float> seen, log_chance, value;
    std::vector<int> action;

    episode(uint64_t seed, uint64_t number) : chance(fold_random_new(seed, number)), now(chance) {}
    int steps() const { return static_cast<int>(action.size()); }
};

/* Plays new episodes, from `first` on, until all are over. All whose poles stand run as one batch. */
std::vector<episode> simulate(fold_ctx *f, const net &n, uint64_t seed, uint64_t first, int count, bool by_chance)
{
    std::vector<episode> all;
    std::vector<fold_node> roots;
    for (int i = 0; i < count; i++) all.emplace_back(seed, first + static_cast<uint64_t>(i));
    for (int step = 0; step <= most_steps; step++) {
        roots.clear();
        fold_ctx_reset(f);
        for (episode &e : all) {
            if (!e.stands) continue;
            const fold_node x = fold_input(f, e.now.sensed().data(), senses);
            roots.push_back(fold_log_softmax(f, fold_mlp_apply(f, &n.policy, x)));
            roots.push_back(fold_mlp_apply(f, &n.value, x));
        }
        if (fold_run(f, roots.data(), static_cast<int>(roots.size()))) fail(fold_ctx_message(f));
        for (size_t i = 0, at = 0; i < all.size(); i++) {
            episode &e = all[i];
            if (!e.stands) continue;
            const float *log_chances = fold_value(f, roots[at]), value = fold_scalar(f, roots[at + 1]);
            at += 2;
            if (step == most_steps) { /* it still stands, so the steps that would have come count */
                e.after = value;
                continue;
            }
            const int action = by_chance ? fold_random_softmax(&e.chance, log_chances, pushes)
                                         : fold_argmax(log_chances, pushes);
            if (action < 0) fail("the weights are not numbers any more");
            for (float sense : e.now.sensed()) e.seen.push_back(sense);
            e.log_chance.push_back(log_chances[action]);
            e.value.push_back(value);
            e.action.push_back(action);
            e.stands = e.now.push(action);
        }
    }
    return all;
}

/* All steps of some episodes, one episode after the other, and what training makes of them. */
struct steps {
    std::vector<float> reward, value, log_chance, after, advantage, target;
    std::vector<int> length;

    /* Tells how much better each step turned out than was expected, and what should have been. A step is worth 0.01, so that
       standing for ever is worth 1. */
    steps(fold_model *m, const std::vector<episode> &all)
    {
        for (const episode &e : all) {
            value.insert(value.end(), e.value.begin(), e.value.end());
            log_chance.insert(log_chance.end(), e.log_chance.begin(), e.log_chance.end());
            after.push_back(e.after);
            length.push_back(e.steps());
        }
        reward.assign(value.size(), 1 - discount);
        advantage.resize(value.size());
        target.resize(value.size());
        const fold_rl_episodes episodes = { reward.data(), value.data(), length.data(), after.data(), static_cast<int>(all.size()) };
        if (fold_rl_advantages(m, &episodes, discount, trace, advantage.data(), target.data())) fail(fold_model_message(m));
        fold_rl_standardize(advantage.data(), static_cast<int>(advantage.size()));
    }
};

/* Records the loss of an episode, summed over its steps: its rows. Its first step is step `first` of all. */
fold_node loss_of(fold_ctx *f, const net &n, const episode &e, const steps &s, size_t first)
{
    const fold_rl_ppo ppo = { leeway, 1, curiosity };
    const fold_rl_steps was = { &s.log_chance[first], &s.advantage[first], &s.target[first], e.steps() };
    const fold_node x = fold_list_input_ref(f, e.seen.data(), e.steps(), fold_shape1(senses));
    const fold_node logits = fold_mlp_apply(f, &n.policy, x);
    const fold_node now = fold_pick_each(f, fold_log_softmax(f, logits), e.action.data(), e.steps());
    const fold_node entropy = fold_softmax_entropy(f, logits);
    return fold_rl_ppo_loss(f, &ppo, &was, now, entropy, fold_mlp_apply(f, &n.value, x));
}

/* Makes several passes over the episodes, some of them at a time. */
void train(fold_ctx *f, const net &n, const std::vector<episode> &all, const fold_adam &adam, fold_random &chance)
{
    const steps what(fold_ctx_model(f), all);
    std::vector<int> order;
    std::vector<size_t> first;
    std::vector<fold_node> losses;
    size_t at = 0;
    for (size_t i = 0; i < all.size(); at += all[i++].action.size()) {
        order.push_back(static_cast<int>(i));
        first.push_back(at);
    }
    const size_t most = (all.size() + parts - 1) / parts;
    for (int pass = 0; pass < passes; pass++) {
        fold_random_shuffle(&chance, static_cast<int>(order.size()), order.data());
        for (std::span<const int> left = order; !left.empty();) {
            const auto part = left.first(std::min(most, left.size()));
            int count = 0;
            left = left.subspan(part.size());
            losses.clear();
            fold_ctx_reset(f);
            for (int i : part) {
                losses.push_back(loss_of(f, n, all[static_cast<size_t>(i)], what, first[static_cast<size_t>(i)]));
                count += all[static_cast<size_t>(i)].steps();
            }
            const fold_node sum = fold_sum_n(f, losses.data(), static_cast<int>(losses.size()));
            fold_backward(f, fold_scale(f, sum, 1 / static_cast<float>(count)));
            fold_grads_clip(fold_ctx_model(f), 0.5f);
            if (fold_ctx_status(f) || fold_adam_step(fold_ctx_model(f), &adam)) fail(fold_ctx_message(f));
        }
    }
}

/* ---- what is told -------------------------------------------------------------------------------- */

struct summary {
    double mean = 0;
    int shortest = most_steps, longest = 0, all = 0;

    explicit summary(const std::vector<episode> &episodes)
    {
        for (const episode &e : episodes) {
            all += e.steps();
            shortest = std::min(shortest, e.steps());
            longest = std::max(longest, e.steps());
        }
        mean = static_cast<double>(all) / static_cast<double>(episodes.size());
    }
};

/* Draws the learning curve: how long poles stand after each update, on average, within the shortest and the longest. */
void draw(const char *path, const std::vector<summary> &curve)
{
    std::FILE *file = std::fopen(path, "w");
    if (!file) fail("the picture cannot be written");
    const double width = 600.0 / static_cast<double>(std::max<size_t>(curve.size() - 1, 1));
    const auto point = [&](size_t i, double steps) {
        std::fprintf(file, "%.1f,%.1f ", 50 + width * static_cast<double>(i), 270 - 0.5 * steps);
    };
    std::fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 680 310\" font-family=\"sans-serif\" "
               "font-size=\"12\">\n<rect width=\"680\" height=\"310\" fill=\"white\"/>\n", file);
    for (int steps = 0; steps <= most_steps; steps += 100)
        std::fprintf(file, "<path d=\"M50 %dH650\" stroke=\"#ddd\"/>\n<text x=\"44\" y=\"%d\" text-anchor=\"end\">"
                           "%d</text>\n", 270 - steps / 2, 274 - steps / 2, steps);
    std::fputs("<polygon fill=\"#c6dbef\" points=\"", file);
    for (size_t i = 0; i < curve.size(); i++) point(i, curve[i].longest);
    for (size_t i = curve.size(); i-- > 0;) point(i, curve[i].shortest);
    std::fputs("\"/>\n<polyline fill=\"none\" stroke=\"#08519c\" stroke-width=\"2\" points=\"", file);
    for (size_t i = 0; i < curve.size(); i++) point(i, curve[i].mean);
    std::fprintf(file, "\"/>\n<text x=\"350\" y=\"300\" text-anchor=\"middle\">steps that poles stand, after 0 to %zu "
                       "updates: mean, shortest to longest episode</text>\n</svg>\n", curve.size() - 1);
    if (std::fclose(file)) fail("the picture cannot be written");
}

uint64_t hash_of(const fold_model *m)
{
    int count;
    const float *values = fold_model_values(m, &count);
    return result_hash(RESULT_HASH, values, static_cast<size_t>(count) * sizeof *values);
}

/* ---- the whole ----------------------------------------------------------------------------------- */

options parse(int argc, char **argv)
{
    options o;
    const option table[] = {
        option_of_seed("--seed", &o.seed, "of weights, episodes and choices"),
        option_of_whole("--updates", &o.updates, 0, 10000, "after which it gives up"),
        option_of_whole("--episodes", &o.episodes, 1, 10000, "that run at once, and are trained on in an update"),
        option_of_whole("--hidden", &o.hidden, 1, 1024, "width of both hidden layers"),
        option_of_text("--svg", &o.svg, "FILE", "writes the learning curve as a picture"),
        option_of_flag("--eager", &o.eager, "runs every op by itself when it is recorded: slower, to the same bits"),
    };
    options_read(argc, argv, "Learns to balance a pole on a cart by proximal policy optimisation.", table,
                 OPTION_COUNT(table));
    return o;
}

}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    fold_model_desc desc = fold_model_desc_default();
    fold_ctx_desc playing = fold_ctx_desc_default(), training = fold_ctx_desc_default();
    desc.seed = o.seed;
    playing.plan_cache_bytes = o.eager ? 0 : 1 << 20; /* the same poles stand for many steps */
    playing.eager = training.eager = o.eager;
    training.training = 1;
    const model m(fold_model_new(&desc));
    const net n(m.get(), o.hidden);
    const context play(fold_ctx_new(m.get(), &playing)), learn(fold_ctx_new(m.get(), &training));
    fold_adam adam = fold_adam_default();
    fold_random chance = fold_random_new(o.seed, UINT64_MAX);
    const uint64_t test = uint64_t{ 1 } << 32; /* these episodes have numbers apart */
    const uint64_t start = fold_clock_monotonic(nullptr);
    std::vector<summary> curve;
    double seen = 0;
    adam.rate = 0.005f;
    for (int update = 0;; update++) {
        const summary tried(simulate(play.get(), n, o.seed, test, trials, false));
        curve.push_back(tried);
        std::printf("update %d: poles stand for %.1f steps, %d to %d\n", update, tried.mean, tried.shortest, tried.longest);
        if (tried.shortest == most_steps || update == o.updates) break;
        const uint64_t first = static_cast<uint64_t>(update) * static_cast<uint64_t>(o.episodes);
        const std::vector<episode> all = simulate(play.get(), n, o.seed, first, o.episodes, true);
        train(learn.get(), n, all, adam, chance);
        seen += summary(all).all;
    }
    const double seconds = 1e-9 * static_cast<double>(fold_clock_monotonic(nullptr) - start);
    const summary result(simulate(play.get(), n, o.seed, 2 * test, trials, false));
    if (o.svg) draw(o.svg, curve);
    std::printf("%d new episodes: %.1f steps, the shortest %d; learned from %.0f steps in %.1f s\n", trials,
                result.mean, result.shortest, seen, seconds);
    std::printf("RESULT cartpole steps=%.1f shortest=%d updates=%zu seen=%.0f seconds=%.2f hash=%016llx\n",
                result.mean, result.shortest, curve.size() - 1, seen, seconds,
                static_cast<unsigned long long>(hash_of(m.get())));
}
