// dynet: three workloads of the bench on DyNet's public API. bench/peers/dynet.py compiles and drives it.
//
//   dynet WORKLOAD MODE PATH MB    PATH is that of bench/bench --export: weights, samples, results of the first batch
//
// Commands are lines on stdin, each answered by a line:
//   form N AUTOBATCH    rebuilds the network in a form, from the exported weights. AUTOBATCH as --dynet-autobatch: 0 none,
//                       1 agenda by mean depth, 2 by depth
//   check               the largest error of the first batch: of outputs, or of losses and gradients
//   turn SECONDS        samples a second of the processor's time, over all batches by turns
//
// Forms say how a gate's products are written, since DyNet's speed depends on it:
//   trees     0 gates apart; 1 gates apart, on [left; right]; 2 all gates in one product; 3 that on [left; right]; 4, 5 as
//             2, 3 with one sigmoid for all gates that need one
//   SICK      0 gates apart; 1 that with x's part of f once a node; 2 i, o, u in one product; 3 that with one sigmoid
//   tagger    0 VanillaLSTMBuilder; 1 CompactVanillaLSTMBuilder; 2 all words' products with x first; 3 that with one sigmoid
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <cmath>
#include <cstdio>
#include <dynet/dynet.h>
#include <dynet/expr.h>
#include <dynet/globals.h>
#include <dynet/init.h>
#include <dynet/lstm.h>
#include <dynet/param-init.h>
#include <dynet/training.h>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>
using namespace dynet;
using std::string;
using std::vector;

namespace {

struct Item { int word, child, next, label; };
struct Sample { int root[2], first, count; float target[5]; };
struct Recording { vector<Item> items; vector<Sample> samples; };

[[noreturn]] void die(const string &what)
{
    fprintf(stderr, "dynet: %s\n", what.c_str());
    exit(1);
}
double seconds()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

vector<Recording> read_samples(const string &path)
{
    FILE *file = fopen(path.c_str(), "r");
    int n = 0;
    if (!file || fscanf(file, "%d", &n) != 1) die("no " + path);
    vector<Recording> all((size_t)n);
    for (Recording &r : all) {
        int items, samples;
        if (fscanf(file, "%d %d", &items, &samples) != 2) die(path + " ends early");
        r.items.resize((size_t)items);
        r.samples.resize((size_t)samples);
        for (Item &x : r.items)
            if (fscanf(file, "%d %d %d %d", &x.word, &x.child, &x.next, &x.label) != 4) die(path + " ends early");
        for (Sample &x : r.samples) {
            if (fscanf(file, "%d %d %d %d", &x.root[0], &x.root[1], &x.first, &x.count) != 4) die(path + " ends early");
            for (float &t : x.target)
                if (fscanf(file, "%f", &t) != 1) die(path + " ends early");
        }
    }
    fclose(file);
    return all;
}

// A tensor of fold.h, [rows x columns], row-major. DyNet's [columns x rows] parameter, column-major, has the same bytes.
struct Tensor2 { int rows = 0, columns = 0; vector<float> v; };
std::map<string, Tensor2> read_tensors(const string &path)
{
    std::map<string, Tensor2> all;
    fold_model *m = fold_model_new(nullptr);
    fold_tensors *t = fold_tensors_open(m, path.c_str());
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor info = fold_tensors_at(t, i);
        Tensor2 &x = all[info.name];
        x.columns = info.dim[info.rank - 1];
        x.rows = info.rank > 1 ? info.dim[0] : 1;
        x.v.resize((size_t)info.count);
        fold_tensors_read(t, i, 0, x.v.size(), x.v.data(), 1);
    }
    fold_tensors_close(t);
    if (fold_model_status(m)) die(fold_model_message(m));
    fold_model_free(m);
    return all;
}

// Columns of a tensor's rows, which a parameter of DyNet consists of; one behind the other if there are several.
struct Block { string name; int row, rows, column, columns; };
typedef vector<Block> Blocks;

vector<float> gather(const std::map<string, Tensor2> &from, const Blocks &blocks)
{
    vector<float> v;
    for (int r = 0; r < blocks[0].rows; r++)
        for (const Block &b : blocks) {
            const Tensor2 &t = from.at(b.name);
            const float *at = &t.v[(size_t)(b.row + r) * (size_t)t.columns + (size_t)b.column];
            v.insert(v.end(), at, at + b.columns);
        }
    return v;
}

struct Driver {
    string workload;
    bool training, trees, pairs;
    int mb;
    vector<Recording> data;
    std::map<string, Tensor2> values, gradients;
    vector<float> outputs;
    int form = 0, h = 0;
    std::unique_ptr<ParameterCollection> trained, frozen; // they must not be assigned
    LookupParameter words, letters;
    std::unique_ptr<Trainer> trainer;
    std::unique_ptr<VanillaLSTMBuilder> vanilla[4];
    std::unique_ptr<CompactVanillaLSTMBuilder> compact[4];
    vector<Parameter> P;
    vector<Blocks> made_of;
    vector<Expression> e, out; // parameters of the graph; results

    // ---- building

    int columns(const string &name) const { return values.at(name).columns; }
    void add(const Blocks &blocks)
    {
        unsigned rows = 0;
        for (const Block &b : blocks) rows += (unsigned)b.columns;
        const bool bias = blocks[0].rows == 1;
        Parameter p = bias ? trained->add_parameters({ rows }) : trained->add_parameters({ rows, (unsigned)blocks[0].rows });
        p.set_value(gather(values, blocks));
        P.push_back(p);
        made_of.push_back(blocks);
    }
    // Columns [gate h, (gate + n) h) of rows [row, row + rows).
    Blocks gates(const string &name, int row, int rows, int gate, int n) const { return { { name, row, rows, gate * h, n * h } }; }
    void add_dense(const string &name, int first_rows)
    {
        const Tensor2 &W = values.at(name + ".W");
        if (first_rows) add({ { name + ".W", 0, first_rows, 0, W.columns } });
        add({ { name + ".W", first_rows, W.rows - first_rows, 0, W.columns } });
        add({ { name + ".b", 0, 1, 0, W.columns } });
    }
    LookupParameter table(ParameterCollection &in, const string &name) const
    {
        const Tensor2 &t = values.at(name);
        LookupParameter p = in.add_lookup_parameters((unsigned)t.rows, { (unsigned)t.columns });
        for (int r = 0; r < t.rows; r++) {
            const float *at = &t.v[(size_t)r * (size_t)t.columns];
            p.initialize((unsigned)r, vector<float>(at, at + t.columns));
        }
        return p;
    }
    void build()
    {
        trainer.reset();
        trained.reset(new ParameterCollection);
        frozen.reset(new ParameterCollection);
        P.clear();
        made_of.clear();
        words = table(trees || pairs ? *frozen : *trained, "words");
        if (trees) build_tree();
        else if (pairs) build_pair();
        else build_tagger();
        if (trees || pairs) trainer.reset(new AdagradTrainer(*trained, 0.001f));
        else trainer.reset(new SimpleSGDTrainer(*trained, 0.001f));
        trainer->clipping_enabled = false;
    }

    bool fused() const { return form >= 2; }
    bool joined() const { return form % 2; }
    bool together() const { return form >= 4; }
    void build_tree()
    {
        const int x = values.at("tree.leaf.W").rows, apart = fused() ? 3 : 1, of_inner = fused() ? 5 : 1;
        h = columns("tree.leaf.W") / 3;
        for (int g = 0; g < 3; g += apart) {
            add(gates("tree.leaf.W", 0, x, g, apart));
            add(gates("tree.leaf.b", 0, 1, g, apart));
        }
        for (int g = 0; g < 5; g += of_inner) {
            if (joined()) add(gates("tree.inner.W", 0, 2 * h, g, of_inner));
            else
                for (int side = 0; side < 2; side++) add(gates("tree.inner.W", side * h, h, g, of_inner));
            add(gates("tree.inner.b", 0, 1, g, of_inner));
        }
        if (values.count("classes.W")) add_dense("classes", 0);
    }
    void build_pair()
    {
        h = columns("tree.W") / 3;
        const int x = values.at("tree.W").rows - h, apart = fused() ? 3 : 1;
        for (int g = 0; g < 3; g += apart) {
            add(gates("tree.W", 0, x, g, apart));
            add(gates("tree.W", x, h, g, apart));
            add(gates("tree.b", 0, 1, g, apart));
        }
        add(gates("tree.W_f", 0, x, 0, 1));
        add(gates("tree.W_f", x, h, 0, 1));
        add(gates("tree.b_f", 0, 1, 0, 1));
        add_dense("head", h);
        add_dense("classes", 0);
    }
    void build_tagger()
    {
        letters = table(*trained, "letters");
        for (int k = 0; k < 4; k++) {
            const string name = "lstm" + std::to_string(k);
            h = columns(name + ".b") / 4;
            const int x = values.at(name + ".W").rows - h;
            const Blocks parts[3] = { gates(name + ".W", 0, x, 0, 4), gates(name + ".W", x, h, 0, 4), gates(name + ".b", 0, 1, 0, 4) };
            if (form >= 2)
                for (const Blocks &b : parts) add(b);
            else if (form == 0) vanilla[k].reset(new VanillaLSTMBuilder(1, (unsigned)x, (unsigned)h, *trained, false, 0.f));
            else compact[k].reset(new CompactVanillaLSTMBuilder(1, (unsigned)x, (unsigned)h, *trained));
            for (int part = 0; part < 3 && form < 2; part++) {
                vector<float> v = gather(values, parts[part]);
                for (int i = h; i < 2 * h && part == 2 && form == 1; i++) v[(size_t)i] -= 1; // it adds one to what goes into f
                (form ? compact[k]->params[0] : vanilla[k]->params[0])[(size_t)part].set_value(v);
            }
        }
        add_dense("head", h = columns("lstm0.b") / 4);
        add_dense("classes", 0);
    }

    // ---- recording

    // n gates of a fused product, all but the last through sigmoid, the last through tanh
    void split(const Expression &a, unsigned n, unsigned width, bool one_sigmoid, Expression *g) const
    {
        Expression s;
        if (one_sigmoid) s = logistic(pick_range(a, 0, (n - 1) * width));
        for (unsigned i = 0; i + 1 < n; i++)
            g[i] = one_sigmoid ? pick_range(s, i * width, (i + 1) * width) : logistic(pick_range(a, i * width, (i + 1) * width));
        g[n - 1] = tanh(pick_range(a, (n - 1) * width, n * width));
    }
    struct State { Expression h, c; };
    State tree(ComputationGraph &cg, const Recording &r, int i)
    {
        const Item &x = r.items[(size_t)i];
        const size_t own = out.size(), inner = fused() ? 2 : 6, per = joined() ? 2 : 3;
        const bool labelled = values.count("classes.W") > 0;
        Expression g[5];
        State s;
        if (labelled) out.push_back(Expression());
        if (x.child < 0) {
            const Expression input = const_lookup(cg, words, (unsigned)x.word);
            if (fused()) split(affine_transform({ e[1], e[0], input }), 3, (unsigned)h, together(), g);
            for (size_t k = 0; k < 3 && !fused(); k++) {
                const Expression a = affine_transform({ e[2 * k + 1], e[2 * k], input });
                g[k] = k < 2 ? logistic(a) : tanh(a);
            }
            s.c = cmult(g[0], g[2]);
        } else {
            const State l = tree(cg, r, x.child), right = tree(cg, r, x.next);
            Expression both;
            if (joined()) both = concatenate({ l.h, right.h });
            auto product = [&](size_t k) {
                const Expression *w = &e[inner + k * per];
                return joined() ? affine_transform({ w[1], w[0], both }) : affine_transform({ w[2], w[0], l.h, w[1], right.h });
            };
            if (fused()) split(product(0), 5, (unsigned)h, together(), g);
            for (size_t k = 0; k < 5 && !fused(); k++) g[k] = k < 4 ? logistic(product(k)) : tanh(product(k));
            s.c = sum({ cmult(g[0], g[4]), cmult(g[2], l.c), cmult(g[3], right.c) });
        }
        s.h = cmult(g[1], tanh(s.c));
        const Expression *y = &e[P.size() - 2];
        if (labelled) out[own] = labelled_as(affine_transform({ y[1], y[0], s.h }), x.label);
        else if (own == out.size() && i == root) out.push_back(s.h);
        return s;
    }
    int root = 0;
    Expression labelled_as(const Expression &y, int label) const { return training ? pickneglogsoftmax(y, (unsigned)label) : y; }

    State node(ComputationGraph &cg, const Recording &r, int i)
    {
        const Item &item = r.items[(size_t)i];
        vector<State> children;
        vector<Expression> hs;
        for (int k = item.child; k >= 0; k = r.items[(size_t)k].next) {
            children.push_back(node(cg, r, k));
            hs.push_back(children.back().h);
        }
        const Expression x = const_lookup(cg, words, (unsigned)item.word);
        Expression sums, g[3], of_x;
        if (!hs.empty()) sums = hs.size() > 1 ? sum(hs) : hs[0];
        auto product = [&](size_t w) {
            return hs.empty() ? affine_transform({ e[w + 2], e[w], x }) : affine_transform({ e[w + 2], e[w], x, e[w + 1], sums });
        };
        if (fused()) split(product(0), 3, (unsigned)h, form == 3, g);
        for (size_t k = 0; k < 3 && !fused(); k++) g[k] = k < 2 ? logistic(product(3 * k)) : tanh(product(3 * k));
        const size_t f = fused() ? 3 : 9;
        vector<Expression> parts{ cmult(g[0], g[2]) };
        if (form && !hs.empty()) of_x = affine_transform({ e[f + 2], e[f], x });
        for (const State &child : children) {
            const Expression a = form ? of_x + e[f + 1] * child.h : affine_transform({ e[f + 2], e[f], x, e[f + 1], child.h });
            parts.push_back(cmult(logistic(a), child.c));
        }
        State s;
        s.c = parts.size() > 1 ? sum(parts) : parts[0];
        s.h = cmult(g[1], tanh(s.c));
        return s;
    }
    void pair(ComputationGraph &cg, const Recording &r, const Sample &x)
    {
        const Expression a = node(cg, r, x.root[0]).h, b = node(cg, r, x.root[1]).h, *t = &e[P.size() - 5];
        const Expression hidden = logistic(affine_transform({ t[2], t[0], cmult(a, b), t[1], abs(a - b) }));
        const Expression y = affine_transform({ t[4], t[3], hidden });
        if (!training) {
            out.push_back(softmax(y));
            return;
        }
        float own = 0;
        const vector<float> target(x.target, x.target + 5);
        for (float p : target) own += p > 0 ? p * std::log(p) : 0;
        out.push_back(own - dot_product(input(cg, { 5 }, target), log_softmax(y)));
    }

    vector<Expression> sequence(int k, const vector<Expression> &x, bool backwards)
    {
        vector<Expression> hs(x.size());
        RNNBuilder *builder = form == 0 ? (RNNBuilder *)vanilla[k].get() : form == 1 ? (RNNBuilder *)compact[k].get() : nullptr;
        Expression last, c;
        if (builder) builder->start_new_sequence();
        for (size_t step = 0; step < x.size(); step++) {
            const size_t i = backwards ? x.size() - 1 - step : step;
            if (builder) {
                hs[i] = builder->add_input(x[i]);
                continue;
            }
            const Expression *w = &e[3 * (size_t)k];
            Expression a = affine_transform({ w[2], w[0], x[i] }), g[4];
            if (step) a = a + w[1] * last;
            split(a, 4, (unsigned)made_of[3 * (size_t)k + 1][0].rows, form == 3, g);
            c = step ? cmult(g[1], c) + cmult(g[0], g[3]) : cmult(g[0], g[3]);
            hs[i] = last = cmult(g[2], tanh(c));
        }
        return hs;
    }
    void sentence(ComputationGraph &cg, const Recording &r, const Sample &s)
    {
        vector<Expression> x;
        for (int k = 0; k < s.count; k++) {
            const Item &item = r.items[(size_t)(s.first + k)];
            if (item.child < 0) {
                x.push_back(lookup(cg, words, (unsigned)item.word));
                continue;
            }
            vector<Expression> spelt;
            for (int j = 0; j < item.next; j++) spelt.push_back(lookup(cg, letters, (unsigned)r.items[(size_t)(item.child + j)].word));
            x.push_back(concatenate({ sequence(2, spelt, false).back(), sequence(3, spelt, true).front() }));
        }
        const vector<Expression> a = sequence(0, x, false), b = sequence(1, x, true);
        const Expression *t = &e[P.size() - 5];
        for (size_t i = x.size(); i-- > 0;) {
            const Expression hidden = tanh(affine_transform({ t[2], t[0], a[i], t[1], b[i] }));
            out.push_back(labelled_as(affine_transform({ t[4], t[3], hidden }), r.items[(size_t)s.first + i].label));
        }
    }
    Expression record(ComputationGraph &cg, const Recording &r)
    {
        e.clear();
        out.clear();
        for (const Parameter &p : P) e.push_back(parameter(cg, p));
        for (int k = 0; k < 4 && !trees && !pairs && form < 2; k++) form ? compact[k]->new_graph(cg) : vanilla[k]->new_graph(cg);
        for (const Sample &s : r.samples) {
            root = s.root[0];
            if (trees) tree(cg, r, root);
            else if (pairs) pair(cg, r, s);
            else sentence(cg, r, s);
        }
        return training ? sum(out) * (1.0f / (float)r.samples.size()) : out.back();
    }

    // ---- commands

    // The largest difference, by the largest value.
    static float error_of(const vector<float> &a, const float *b, size_t n)
    {
        float difference = 0, largest = 1e-20f;
        if (a.size() != n) return INFINITY;
        for (size_t i = 0; i < n; i++) {
            difference = std::fmax(difference, std::fabs(a[i] - b[i]));
            largest = std::fmax(largest, std::fabs(b[i]));
            if (std::isnan(a[i])) return INFINITY;
        }
        return difference / largest;
    }
    float check()
    {
        ComputationGraph cg;
        const Expression last = record(cg, data[0]);
        vector<float> got;
        cg.forward(last);
        for (const Expression &y : out) {
            const vector<float> v = as_vector(cg.get_value(y));
            got.insert(got.end(), v.begin(), v.end());
        }
        float worst = error_of(got, outputs.data(), outputs.size());
        if (!training) return worst;
        trained->reset_gradient();
        cg.backward(last);
        for (size_t k = 0; k < P.size(); k++) {
            const vector<float> want = gather(gradients, made_of[k]);
            worst = std::fmax(worst, error_of(as_vector(*P[k].gradients()), want.data(), want.size()));
        }
        trained->reset_gradient();
        return worst;
    }
    void step(const Recording &r)
    {
        ComputationGraph cg;
        const Expression last = record(cg, r);
        cg.forward(last); // runs all that was recorded
        if (!training) {
            for (const Expression &y : out) cg.get_value(y);
            return;
        }
        cg.backward(last);
        trainer->update();
    }
    double turn(double least)
    {
        const double start = seconds();
        size_t samples = 0;
        for (size_t i = 0; seconds() - start < least || i % data.size(); i++) {
            step(data[i % data.size()]);
            samples += data[i % data.size()].samples.size();
            if (seconds() - start > 8 * least) break; // one pass over all batches takes too long
        }
        return (double)samples / (seconds() - start);
    }
};

} // namespace

int main(int argc, char **argv)
{
    if (argc != 5) die("usage: dynet WORKLOAD infer|train PATH MB");
    Driver a;
    char line[200];
    const string path = argv[3];
    a.workload = argv[1];
    a.training = !strcmp(argv[2], "train");
    a.trees = a.workload == "treelstm-sst" || a.workload == "treelstm-tiny";
    a.pairs = a.workload == "treelstm-sick";
    a.data = read_samples(path + ".samples");
    a.values = read_tensors(path + ".values");
    if (a.training) a.gradients = read_tensors(path + ".gradients");
    if (FILE *file = fopen((path + ".outputs").c_str(), "rb")) {
        for (float x; fread(&x, sizeof x, 1, file) == 1;) a.outputs.push_back(x);
        fclose(file);
    }
    DynetParams p;
    p.random_seed = 42;
    p.mem_descriptor = string(argv[4]) + "," + argv[4] + ",64,64"; // MB of values, gradients, parameters, scratch
    initialize(p);
    while (fgets(line, sizeof line, stdin)) {
        double least;
        if (sscanf(line, "form %d %d", &a.form, &autobatch_flag) == 2) {
            a.build();
            puts("built");
        } else if (!strncmp(line, "check", 5)) printf("%g\n", (double)a.check());
        else if (sscanf(line, "turn %lf", &least) == 1) printf("%.9g\n", a.turn(least));
        else die(string("what is ") + line);
        fflush(stdout);
    }
    fflush(stdout);
    _exit(0); // DyNet frees its pools in an order of its own
}
