// single: eight small networks, one sample at a time: as examples/fold_to_c.h prints them, beside fold_replay and, with -DRTNEURAL,
// RTNeural's ModelT, in turns. The script bench/single prints, compiles and runs it.
//
//   c++ -std=c++17 -O2 -o single bench/single.cpp -lm && ./single --print DIR     writes DIR/NAME.c
//
// Compiled with -DPRINTED and the printed files it measures: the least time of a step, of many short turns.
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "../examples/fold_to_c.h"
#include "single.h"
#include <stdio.h>
#include <time.h>
#ifdef RTNEURAL
#define RTNEURAL_USE_EIGEN 1
#define RTNEURAL_DEFAULT_ALIGNMENT 32
#include <RTNeural/RTNeural.h>
#include <memory>
#endif

enum { STEPS = 500, SAMPLES = 64 };
static float samples[SAMPLES][8];

static double now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}
static double least(double before, double begin)
{
    const double took = (now() - begin) / STEPS;
    return took < before ? took : before;
}

#ifdef PRINTED
#define dense_8_8_DECLARATIONS
#include "dense_8_8.c"
#define dense_64_64_DECLARATIONS
#include "dense_64_64.c"
#define lstm_16_DECLARATIONS
#include "lstm_16.c"
#define lstm_20_DECLARATIONS
#include "lstm_20.c"
#define lstm_40_DECLARATIONS
#include "lstm_40.c"
#define gru_8_DECLARATIONS
#include "gru_8.c"
#define gru_24_DECLARATIONS
#include "gru_24.c"
#define tcn_7_8_DECLARATIONS
#include "tcn_7_8.c"

static lstm_16_state lstm_16_memory;
static lstm_20_state lstm_20_memory;
static lstm_40_state lstm_40_memory;
static gru_8_state gru_8_memory;
static gru_24_state gru_24_memory;
static tcn_7_8_state tcn_7_8_memory;
static void step_of(int index, const float *x, float *y)
{
    switch (index) {
    case 0: dense_8_8_step(x, y); break;
    case 1: dense_64_64_step(x, y); break;
    case 2: lstm_16_step(&lstm_16_memory, x, y); break;
    case 3: lstm_20_step(&lstm_20_memory, x, y); break;
    case 4: lstm_40_step(&lstm_40_memory, x, y); break;
    case 5: gru_8_step(&gru_8_memory, x, y); break;
    case 6: gru_24_step(&gru_24_memory, x, y); break;
    default: tcn_7_8_step(&tcn_7_8_memory, x, y); break;
    }
}
#endif

#ifdef RTNEURAL
typedef std::vector<std::vector<float>> matrix;

/* A parameter's values as RTNeural takes them: [rows][columns], or turned. */
static matrix values_of(const fold_model *m, const char *name, int first, int rows, int columns, bool turned)
{
    const float *values = fold_param_value(m, fold_param_find(m, name));
    matrix out((size_t)(turned ? columns : rows), std::vector<float>((size_t)(turned ? rows : columns)));
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) out[(size_t)(turned ? c : r)][(size_t)(turned ? r : c)] = values[(first + r) * columns + c];
    return out;
}
/* Gates in another order: block `from[k]` of the columns becomes block k. */
static matrix gates_of(const matrix &in, int hidden, const std::vector<int> &from)
{
    matrix out = in;
    for (size_t r = 0; r < in.size(); r++)
        for (size_t k = 0; k < from.size(); k++)
            for (int j = 0; j < hidden; j++) out[r][k * (size_t)hidden + (size_t)j] = in[r][(size_t)(from[k] * hidden + j)];
    return out;
}

struct peer { virtual float step(const float *x) = 0; virtual double turn(double before) = 0; virtual ~peer() {} };
template <class M> struct peer_of : peer {
    M model;
    alignas(64) float in[16];
    peer_of() { model.reset(); }
    float step(const float *x) override
    {
        memcpy(in, x, 8 * sizeof *x);
        return model.forward(in);
    }
    double turn(double before) override
    {
        const double begin = now();
        float sum = 0;
        for (int i = 0; i < STEPS; i++) {
            memcpy(in, samples[i % SAMPLES], M::input_size * sizeof *in);
            sum += model.forward(in);
        }
        if (sum == 0.12345f) puts("");
        return least(before, begin);
    }
};
template <int I, int H, int O> static std::unique_ptr<peer> dense(const fold_model *m, const char *name)
{
    using namespace RTNeural;
    auto made = std::make_unique<peer_of<ModelT<float, I, O, DenseT<float, I, H>, TanhActivationT<float, H>, DenseT<float, H, H>, TanhActivationT<float, H>, DenseT<float, H, O>>>>();
    char part[40];
    const int sizes[4] = { I, H, H, O };
    auto layer = [&](auto &into, int i) {
        snprintf(part, sizeof part, "%s.%d.W", name, i);
        into.setWeights(values_of(m, part, 0, sizes[i], sizes[i + 1], true));
        snprintf(part, sizeof part, "%s.%d.b", name, i);
        into.setBias(fold_param_value(m, fold_param_find(m, part)));
    };
    layer(made->model.template get<0>(), 0);
    layer(made->model.template get<2>(), 1);
    layer(made->model.template get<4>(), 2);
    return made;
}
template <class L> static void head(const fold_model *m, L &into, int hidden)
{
    into.setWeights(values_of(m, "head.W", 0, hidden, 1, true));
    into.setBias(fold_param_value(m, fold_param_find(m, "head.b")));
}
template <int H> static std::unique_ptr<peer> lstm(const fold_model *m, const std::string &name)
{
    using namespace RTNeural;
    auto made = std::make_unique<peer_of<ModelT<float, 1, 1, LSTMLayerT<float, 1, H>, DenseT<float, H, 1>>>>();
    auto &layer = made->model.template get<0>();
    const std::vector<int> order = { 0, 1, 3, 2 }; /* input, forget, candidate, output */
    layer.setWVals(gates_of(values_of(m, (name + ".W").c_str(), 0, 1, 4 * H, false), H, order));
    layer.setUVals(gates_of(values_of(m, (name + ".W").c_str(), 1, H, 4 * H, false), H, order));
    layer.setBVals(gates_of(values_of(m, (name + ".b").c_str(), 0, 1, 4 * H, false), H, order)[0]);
    head(m, made->model.template get<1>(), H);
    return made;
}
template <int H> static std::unique_ptr<peer> gru(const fold_model *m, const std::string &name)
{
    using namespace RTNeural;
    auto made = std::make_unique<peer_of<ModelT<float, 1, 1, GRULayerT<float, 1, H>, DenseT<float, H, 1>>>>();
    auto &layer = made->model.template get<0>();
    const std::vector<int> order = { 1, 0, 2 }; /* update, reset, candidate */
    layer.setWVals(gates_of(values_of(m, (name + ".W").c_str(), 0, 1, 3 * H, false), H, order));
    layer.setUVals(gates_of(values_of(m, (name + ".U").c_str(), 0, H, 3 * H, false), H, order));
    matrix bias = gates_of(values_of(m, (name + ".b").c_str(), 0, 1, 3 * H, false), H, order);
    bias.push_back(gates_of(values_of(m, (name + ".c").c_str(), 0, 1, 3 * H, false), H, order)[0]);
    layer.setBVals(bias);
    head(m, made->model.template get<1>(), H);
    return made;
}
template <class L> static void filter(const fold_model *m, L &into, int index, int inputs)
{
    char part[40];
    snprintf(part, sizeof part, "layer%d.W", index);
    const float *values = fold_param_value(m, fold_param_find(m, part)); /* [taps][inputs][outputs]; RTNeural has the newest tap first */
    std::vector<matrix> weights(SINGLE_CHANNELS, matrix((size_t)inputs, std::vector<float>(SINGLE_TAPS)));
    for (int t = 0; t < SINGLE_TAPS; t++)
        for (int i = 0; i < inputs; i++)
            for (int o = 0; o < SINGLE_CHANNELS; o++) weights[(size_t)o][(size_t)i][(size_t)(SINGLE_TAPS - 1 - t)] = values[(t * inputs + i) * SINGLE_CHANNELS + o];
    into.setWeights(weights);
    snprintf(part, sizeof part, "layer%d.b", index);
    const float *bias = fold_param_value(m, fold_param_find(m, part));
    into.setBias(std::vector<float>(bias, bias + SINGLE_CHANNELS));
}
static std::unique_ptr<peer> tcn(const fold_model *m)
{
    using namespace RTNeural;
    typedef TanhActivationT<float, 8> act;
    typedef ModelT<float, 1, 1, Conv1DT<float, 1, 8, 3, 1>, act, Conv1DT<float, 8, 8, 3, 2>, act, Conv1DT<float, 8, 8, 3, 4>, act, Conv1DT<float, 8, 8, 3, 8>, act,
                   Conv1DT<float, 8, 8, 3, 16>, act, Conv1DT<float, 8, 8, 3, 32>, act, Conv1DT<float, 8, 8, 3, 64>, act, DenseT<float, 8, 1>> model;
    auto made = std::make_unique<peer_of<model>>();
    filter(m, made->model.get<0>(), 0, 1);
    filter(m, made->model.get<2>(), 1, 8);
    filter(m, made->model.get<4>(), 2, 8);
    filter(m, made->model.get<6>(), 3, 8);
    filter(m, made->model.get<8>(), 4, 8);
    filter(m, made->model.get<10>(), 5, 8);
    filter(m, made->model.get<12>(), 6, 8);
    head(m, made->model.get<14>(), 8);
    return made;
}
static std::unique_ptr<peer> peer_new(int index, const fold_model *m)
{
    switch (index) {
    case 0: return dense<1, 8, 1>(m, "dense_8_8");
    case 1: return dense<8, 64, 2>(m, "dense_64_64");
    case 2: return lstm<16>(m, "lstm_16");
    case 3: return lstm<20>(m, "lstm_20");
    case 4: return lstm<40>(m, "lstm_40");
    case 5: return gru<8>(m, "gru_8");
    case 6: return gru<24>(m, "gru_24");
    default: return tcn(m);
    }
}
#endif

#ifdef PRINTED
static double turn_replay(single_run *run, int inputs, double before)
{
    const double begin = now();
    for (int i = 0; i < STEPS; i++) {
        memcpy(run->in, samples[i % SAMPLES], (size_t)inputs * sizeof(float));
        fold_replay(run->f);
    }
    return least(before, begin);
}

/* The outputs of some steps, of all sides. Returns how far RTNeural is away at most, or -1 if printed bits differ where both have FMA. */
static double compare(int index, single_run *run, int inputs, void *other)
{
    double worst = 0;
    (void)other;
    for (int i = 0; i < SAMPLES; i++) {
        float y[2] = { 0, 0 };
        memcpy(run->in, samples[i], (size_t)inputs * sizeof(float));
        if (fold_replay(run->f)) return -1;
        step_of(index, samples[i], y);
#ifdef __FMA__ /* without, a printed sum has two roundings a term */
        if (memcmp(y, fold_value(run->f, run->y), sizeof *y) != 0) return -1;
#endif
#ifdef RTNEURAL
        const double by = fabs((double)static_cast<peer *>(other)->step(samples[i]) - (double)y[0]);
        if (by > worst) worst = by;
#endif
    }
    return worst;
}

static int measure(double seconds)
{
    static single_run runs[SINGLE_NETS];
    int wrong = 0;
    printf("| ns a sample | printed | fold_replay | RTNeural | printed / RTNeural | largest difference |\n|---|--:|--:|--:|--:|--:|\n");
    for (int index = 0; index < SINGLE_NETS; index++) {
        fold_node x, state[SINGLE_STATES], next[SINGLE_STATES];
        fold_model *m = fold_model_new(NULL);
        const single_net net = single_new(m, index);
        double printed = 1e30, replay = 1e30, other = 1e30;
        void *peer_here = NULL;
        single_start(&runs[index], &net, m, 0, &x, state, next);
        fold_run(runs[index].f, NULL, 0);
        memset(runs[index].state, 0, sizeof runs[index].state);
#ifdef RTNEURAL
        std::unique_ptr<peer> made = peer_new(index, m);
        peer_here = made.get();
#endif
        const double differs = compare(index, &runs[index], net.inputs, peer_here);
        for (const double end = now() + seconds * 1e9; now() < end;) {
            float y[2];
            const double begin = now();
            for (int i = 0; i < STEPS; i++) step_of(index, samples[i % SAMPLES], y);
            printed = least(printed, begin);
            replay = turn_replay(&runs[index], net.inputs, replay);
#ifdef RTNEURAL
            other = made->turn(other);
#endif
        }
        printf("| %s | %.1f | %.1f |", net.name, printed, replay);
        if (peer_here) printf(" %.1f | %.2f | %.1e |\n", other, printed / other, differs);
        else printf(" | | |\n");
        if (differs < 0 || differs > 1e-4) wrong = printf("FAILED: %s: outputs differ\n", net.name);
        fold_ctx_free(runs[index].f);
        fold_model_free(m);
    }
    return wrong != 0;
}
#endif

int main(int argc, char **argv)
{
    fold_random r = fold_random_new(1, 0);
    fold_random_gaussian(&r, NULL, NULL, SAMPLES * 8, samples[0]);
    for (int i = 0; i < SINGLE_NETS && argc > 2 && !strcmp(argv[1], "--print"); i++) {
        char path[500];
        fold_model *m = fold_model_new(NULL);
        const single_net net = single_new(m, i);
        snprintf(path, sizeof path, "%s/%s.c", argv[2], net.name);
        FILE *file = fopen(path, "w");
        if (!file) return puts("a file cannot be opened"), 1;
        const fold_to_c_result printed = single_print(&net, m, net.name, 1, 0, fold_to_file, file);
        if (fclose(file) || printed.status) return puts(printed.message), 1;
        fold_model_free(m);
    }
#ifdef PRINTED
    return measure(argc > 1 ? atof(argv[1]) : 1.0);
#else
    return 0;
#endif
}
