/* molecules: graph networks classify graphs. A graph is two lists, one of atoms and one of bonds.

     cc -O2 -o molecules examples/molecules.c -lm && ./molecules && ./molecules --attention
     ./molecules --data DIR/MUTAG

   The network passes messages for three rounds. Then it predicts a class from the means and maxima over all
   atoms, taken before the first round and after every round. In a round, every atom sums the values of its
   neighbours, two layers compute a change from this sum and the atom's own values, and the atom adds the
   change (GIN, Xu et al. 2019). With --attention, an atom uses a weighted mean of its neighbours instead; the
   weights are computed from both atoms and the kind of bond (GAT, Velickovic et al. 2018). A round records
   only a handful of nodes, however large the graph is.

   Without --data, the program generates rings of 14 to 40 atoms. All atoms are alike except two marked ones,
   and the class says whether the marked atoms are at most 6 bonds apart. After k rounds, an atom has no
   information from more than k bonds away. So if the marked atoms are more than 2 k bonds apart, no atom has
   information about both, and the ring looks the same to the network wherever they are. Each class has half
   of the rings, and the distances 1 to 6 are equally frequent, so one round can classify 67 % correctly, two
   rounds 83 %, and three rounds all of them: try --rounds 2.

   With --data, the program reads the text files of the TU collection (Morris et al. 2020): DIR/DS_A.txt,
   DS_graph_indicator.txt and DS_graph_labels.txt, and if they exist DS_node_labels.txt and
   DS_edge_labels.txt. DS is the last component of DIR.

   Accuracy is measured by 10-fold cross-validation. The graphs of each class are shuffled and dealt to the
   folds. For each fold, a network with new weights is trained for a fixed number of epochs on the other nine
   folds, and tested on this fold. The program prints the mean accuracy of the folds and its standard
   deviation. Every graph must give the same bits in a batch as alone in an eager context. All times are
   processor time; the whole program takes about twenty seconds. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "data.h"
#define FOLD_FIT_IMPLEMENTATION
#include "fold_fit.h"
#include "options.h"
#include "unfused.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ROUNDS = 7, MOST_KINDS = 1000, TRAIN_BATCH = 32, BATCH = 64, BOND_WIDTH = 4 };
static const float learning_rate = 0.005f;

typedef struct options {
    const char *data; uint64_t seed; int folds, epochs, limit, width, rounds, attention; double seconds;
} options;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "molecules: %s%s\n", what, detail);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory", "");
    return bytes;
}

static double seconds_since(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }

/* ---- the network --------------------------------------------------------------------------- */

/* Atoms and directed bonds of all graphs lie graph by graph; from and to count atoms from the graph's first. */
typedef struct graph { int first_atom, atoms, first_bond, bonds, label; } graph;
typedef struct dataset {
    graph *graphs; int count;
    int *kind, atoms, kinds;                      /* kind[i]: of atom i */
    int *from, *to, *bond, bonds, bond_kinds;     /* from[k], to[k], bond[k]: ends and kind of bond k */
    int classes;
} dataset;

typedef struct layer {
    fold_mlp update;                  /* GIN */
    fold_param W, score;              /* attention */
    fold_param gain, bias;            /* layer norm follows either */
} layer;
typedef struct net {
    const dataset *data;
    fold_param kinds, bonds;          /* tables */
    layer round[MOST_ROUNDS];
    int rounds, attention, width;
    fold_param answer, answer_bias;
} net;

static net new_net(fold_model *m, const options *o, const dataset *d)
{
    const int sizes[] = { o->width, o->width, o->width };
    char name[32];
    net n;
    memset(&n, 0, sizeof n);
    n.data = d;
    n.rounds = o->rounds;
    n.attention = o->attention;
    n.width = o->width;
    n.kinds = fold_table_new(m, "kinds", d->kinds, o->width);
    if (o->attention) n.bonds = fold_table_new(m, "bonds", d->bond_kinds, BOND_WIDTH);
    for (int i = 0; i < n.rounds; i++) {
        layer *r = &n.round[i];
        snprintf(name, sizeof name, "%d.update", i);
        if (!o->attention) r->update = fold_mlp_new(m, name, sizes, 2, FOLD_ACT_RELU);
        else r->W = fold_weight_new(m, name, o->width, o->width);
        snprintf(name, sizeof name, "%d.score", i);
        if (o->attention) r->score = fold_weight_new(m, name, 2 * o->width + BOND_WIDTH, 1);
        snprintf(name, sizeof name, "%d.gain", i);
        r->gain = fold_gain_new(m, name, o->width);
        snprintf(name, sizeof name, "%d.bias", i);
        r->bias = fold_bias_new(m, name, o->width);
    }
    n.answer = fold_weight_new(m, "answer", 2 * (n.rounds + 1) * o->width, d->classes);
    n.answer_bias = fold_bias_new(m, "answer_bias", d->classes);
    return n;
}

/* Records one round of messages. h is the list of a graph's atoms. */
static fold_node pass_messages(fold_ctx *f, const net *n, const layer *r, const graph *g, fold_node h)
{
    const dataset *d = n->data;
    const int *from = d->from + g->first_bond, *to = d->to + g->first_bond, *bond = d->bond + g->first_bond;
    const fold_node before = h;
    if (!n->attention) {
        const fold_node around = fold_list_sum_to(f, fold_list_take(f, h, from, g->bonds), to, g->bonds, g->atoms);
        h = fold_mlp_apply(f, &r->update, fold_add(f, h, around));
    } else {
        const fold_node z = fold_linear(f, h, r->W, FOLD_NULL_PARAM);
        const fold_node source = fold_list_take(f, z, from, g->bonds), target = fold_list_take(f, z, to, g->bonds);
        const fold_node part[3] = { source, target, fold_list_lookup(f, n->bonds, bond, g->bonds) };
        const fold_node score = fold_leaky_relu(f, fold_linear_n(f, part, 3, r->score, FOLD_NULL_PARAM), 0.2f);
        h = fold_add(f, z, fold_list_softmax_mean_to(f, score, source, to, g->bonds, g->atoms));
    }
    return fold_add(f, before, fold_relu(f, fold_layer_norm(f, h, r->gain, r->bias, 0)));
}

/* Records a graph; returns its logits. */
static fold_node record(fold_ctx *f, const net *n, const graph *g)
{
    fold_node h = fold_list_lookup(f, n->kinds, n->data->kind + g->first_atom, g->atoms), seen[2 * (MOST_ROUNDS + 1)];
    int count = 0;
    for (int i = 0;; i++) {
        seen[count++] = fold_list_mean(f, h);
        seen[count++] = fold_list_max(f, h);
        if (i == n->rounds) break;
        h = pass_messages(f, n, &n->round[i], g, h);
    }
    return fold_linear_n(f, seen, count, n->answer, n->answer_bias);
}

/* ---- graphs -------------------------------------------------------------------------------- */

static void add_bonds(dataset *d, graph *g, int a, int b) /* both directions */
{
    for (int way = 0; way < 2; way++) {
        d->from[d->bonds] = way ? b : a;
        d->to[d->bonds++] = way ? a : b;
        g->bonds++;
    }
}

static void generate(const options *o, dataset *d)
{
    enum { SHORTEST = 14, LONGEST = 40, PLAIN = 0, A = 1, B = 2, NEAR = 6 };
    uint64_t random = o->seed;
    d->count = o->limit ? o->limit : 600;
    d->classes = 2;
    d->kinds = 3;
    d->bond_kinds = 1;
    d->graphs = (graph *)take((size_t)d->count, sizeof *d->graphs);
    d->kind = (int *)take((size_t)d->count * LONGEST, sizeof *d->kind);
    d->from = (int *)take((size_t)d->count * LONGEST * 2, sizeof *d->from);
    d->to = (int *)take((size_t)d->count * LONGEST * 2, sizeof *d->to);
    d->bond = (int *)take((size_t)d->count * LONGEST * 2, sizeof *d->bond);
    for (int i = 0; i < d->count; i++) {
        const int n = SHORTEST + (int)data_random_below(&random, LONGEST - SHORTEST + 1);
        const int label = (int)data_random_below(&random, 2);
        const int near = 1 + (int)data_random_below(&random, NEAR);
        const int far = NEAR + 1 + (int)data_random_below(&random, (size_t)(n / 2 - NEAR));
        const int at = (int)data_random_below(&random, (size_t)n);
        graph *g = &d->graphs[i];
        g->first_atom = d->atoms;
        g->atoms = n;
        g->first_bond = d->bonds;
        g->label = label;
        d->kind[d->atoms + at] = A;
        d->kind[d->atoms + (at + (label ? near : far)) % n] = B;
        d->atoms += n;
        for (int k = 0; k < n; k++) add_bonds(d, g, k, (k + 1) % n);
    }
}

/* Reads a column of DIR/DS_name.txt, which has `columns` of them and `count` rows (0: any). Returns NULL when it is not
   needed, and not there. */
static int *read_column(const char *dir, const char *name, int columns, int column, int needed, int *count)
{
    int end = (int)strlen(dir), begin;
    const data_field skipped = { NULL, 0, DATA_INT, 1, { 1 }, NULL, NULL, 0 };
    data_field fields[2] = { skipped, skipped };
    const data_csv desc = { ',', 0, fields, columns };
    char file[1024], path[1024];
    data_set set;
    data_error e;
    memset(&set, 0, sizeof set);
    memset(&e, 0, sizeof e);
    fields[column].name = "column";
    while (end > 0 && dir[end - 1] == '/') end--;
    for (begin = end; begin > 0 && dir[begin - 1] != '/';) begin--;
    snprintf(file, sizeof file, "%.*s_%s.txt", end - begin, dir + begin, name);
    if (!data_path(path, sizeof path, dir, file) && !needed) return NULL;
    if (data_load_csv(&set, &desc, path, &e)) fail(e.text, "");
    if (*count && set.count != (size_t)*count) fail(path, ": other rows than the file it belongs to");
    if (set.count > INT_MAX / 2) fail(path, ": too long");
    *count = (int)set.count;
    int *values = (int *)take(set.count, sizeof *values);
    memcpy(values, data_ints(&set, 0, 0, NULL), set.count * sizeof *values);
    data_set_free(&set);
    return values;
}

/* Puts 0, 1, … in place of the different values, in their order; returns how many there are. */
static int number_kinds(int *values, int count, const char *what)
{
    int kinds[MOST_KINDS], n = 0;
    for (int i = 0; i < count; i++) {
        int k = n;
        while (k > 0 && kinds[k - 1] >= values[i]) k--;
        if (k < n && kinds[k] == values[i]) continue;
        if (n == MOST_KINDS) fail("too many different ", what);
        memmove(kinds + k + 1, kinds + k, (size_t)(n - k) * sizeof *kinds);
        kinds[k] = values[i];
        n++;
    }
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (kinds[k] != values[i]) k++;
        values[i] = k;
    }
    return n;
}

/* Atoms come graph by graph in the files. Bonds come in any order, and are put graph by graph. */
static void sort_bonds(dataset *d, const int *graph_of)
{
    int *order = (int *)take((size_t)d->bonds, sizeof *order), *next = (int *)take((size_t)d->count, sizeof *next);
    int *sorted[3];
    for (int k = 0; k < d->bonds; k++) d->graphs[graph_of[d->from[k] - 1] - 1].bonds++;
    for (int i = 1; i < d->count; i++) d->graphs[i].first_bond = d->graphs[i - 1].first_bond + d->graphs[i - 1].bonds;
    for (int i = 0; i < d->count; i++) next[i] = d->graphs[i].first_bond;
    for (int k = 0; k < d->bonds; k++) order[next[graph_of[d->from[k] - 1] - 1]++] = k;
    for (int i = 0; i < 3; i++) sorted[i] = (int *)take((size_t)d->bonds, sizeof **sorted);
    for (int k = 0; k < d->bonds; k++) {
        const int from = d->from[order[k]] - 1, first = d->graphs[graph_of[from] - 1].first_atom;
        sorted[0][k] = from - first;
        sorted[1][k] = d->to[order[k]] - 1 - first;
        sorted[2][k] = d->bond[order[k]];
    }
    free(d->from);
    free(d->to);
    free(d->bond);
    d->from = sorted[0];
    d->to = sorted[1];
    d->bond = sorted[2];
    free(order);
    free(next);
}

static void read_graphs(const char *dir, dataset *d)
{
    int *label = read_column(dir, "graph_labels", 1, 0, 1, &d->count);
    int *graph_of = read_column(dir, "graph_indicator", 1, 0, 1, &d->atoms);
    d->from = read_column(dir, "A", 2, 0, 1, &d->bonds);
    d->to = read_column(dir, "A", 2, 1, 1, &d->bonds);
    d->kind = read_column(dir, "node_labels", 1, 0, 0, &d->atoms);
    d->bond = read_column(dir, "edge_labels", 1, 0, 0, &d->bonds);
    if (!d->kind) d->kind = (int *)take((size_t)d->atoms, sizeof *d->kind);
    if (!d->bond) d->bond = (int *)take((size_t)d->bonds, sizeof *d->bond);
    d->classes = number_kinds(label, d->count, "classes");
    d->kinds = number_kinds(d->kind, d->atoms, "node labels");
    d->bond_kinds = number_kinds(d->bond, d->bonds, "edge labels");
    d->graphs = (graph *)take((size_t)d->count, sizeof *d->graphs);
    for (int i = 0; i < d->atoms; i++) {
        if (graph_of[i] < 1 || graph_of[i] > d->count || (i && graph_of[i] < graph_of[i - 1]))
            fail("graph_indicator is not in order, or names a graph that has no label", "");
        graph *g = &d->graphs[graph_of[i] - 1];
        if (!g->atoms++) g->first_atom = i;
    }
    for (int k = 0; k < d->bonds; k++) {
        const int a = d->from[k], b = d->to[k];
        if (a < 1 || b < 1 || a > d->atoms || b > d->atoms || graph_of[a - 1] != graph_of[b - 1])
            fail("an edge of A leaves its graph", "");
    }
    for (int i = 0; i < d->count; i++) d->graphs[i].label = label[i];
    sort_bonds(d, graph_of);
    free(label);
    free(graph_of);
}

static void free_data(dataset *d)
{
    free(d->graphs);
    free(d->kind);
    free(d->from);
    free(d->to);
    free(d->bond);
}

/* ---- training and testing ------------------------------------------------------------------ */

typedef struct trainer {
    const options *o; const dataset *data;
    fold_model *model; net n;
    fold_ctx *training, *inference, *eager;
    fold_adam adam;
    int *order;                       /* numbers all graphs, shuffled by class */
    int *train, n_train, *test, n_test;
    float *logits, *alone;            /* hold those of `test` */
    int fold, identical;
    double training_seconds, trained, inference_seconds, inferred;
    time_left left;
} trainer;

/* Shuffles (Fisher and Yates), then puts class after class. */
static void order_graphs(trainer *t)
{
    const dataset *d = t->data;
    int *shuffled = (int *)take((size_t)d->count, sizeof *shuffled), n = 0;
    uint64_t random = ~t->o->seed;
    for (int i = 0; i < d->count; i++) {
        const size_t j = data_random_below(&random, (size_t)i + 1);
        shuffled[i] = shuffled[j];
        shuffled[j] = i;
    }
    for (int label = 0; label < d->classes; label++)
        for (int i = 0; i < d->count; i++)
            if (d->graphs[shuffled[i]].label == label) t->order[n++] = shuffled[i];
    free(shuffled);
}

static fold_node loss_of(fold_ctx *f, int sample, void *user)
{
    const trainer *t = (const trainer *)user;
    const graph *g = &t->data->graphs[t->train[sample]];
    return fold_softmax_xent(f, record(f, &t->n, g), g->label);
}

/* Sets the rate of the next step, which falls to zero. */
static int progress(const fold_fit_report *report, void *user)
{
    trainer *t = (trainer *)user;
    const double epochs = report->epoch + (double)report->trained / t->n_train;
    t->adam.rate = learning_rate * (float)(1 - epochs / t->o->epochs);
    if (report->epoch_end)
        time_left_show(&t->left, t->fold + (report->epoch + 1.0) / t->o->epochs, t->o->folds, "fold %d: epoch %d of %d, loss %.4f",
                       t->fold + 1, report->epoch + 1, t->o->epochs, report->loss);
    return 0;
}

static void train(trainer *t)
{
    fold_fit_desc fit = fold_fit_desc_default();
    const clock_t start = clock();
    t->adam = fold_adam_default();
    t->adam.rate = learning_rate;
    fit.ctx = t->training;
    fit.samples = t->n_train;
    fit.loss = loss_of;
    fit.progress = progress;
    fit.user = t;
    fit.batch = TRAIN_BATCH;
    fit.epochs = t->o->epochs;
    fit.seed = t->o->seed;
    fit.adam = &t->adam;
    fit.clip = 1;
    if (fold_fit(&fit, NULL)) fail(fold_ctx_message(t->training), "");
    time_left_end(&t->left);
    t->training_seconds += seconds_since(start);
    t->trained += (double)t->o->epochs * t->n_train;
}

/* Computes the logits of the graphs of `test`, `batch` of them in each run. */
static void predict(trainer *t, fold_ctx *f, int batch, float *logits)
{
    fold_node roots[BATCH];
    for (int at = 0; at < t->n_test; at += batch) {
        const int count = batch < t->n_test - at ? batch : t->n_test - at;
        fold_ctx_reset(f);
        for (int i = 0; i < count; i++) roots[i] = record(f, &t->n, &t->data->graphs[t->test[at + i]]);
        if (fold_run(f, roots, count) || fold_read(f, roots, count, logits + at * t->data->classes))
            fail(fold_ctx_message(f), "");
    }
}

/* Returns the per cent of the graphs of `test` that are told right. */
static double evaluate(trainer *t)
{
    const int classes = t->data->classes;
    int right = 0;
    predict(t, t->inference, BATCH, t->logits);
    predict(t, t->eager, 1, t->alone);
    t->identical &= !memcmp(t->logits, t->alone, (size_t)t->n_test * (size_t)classes * sizeof *t->logits);
    for (int i = 0; i < t->n_test; i++)
        right += fold_argmax(t->logits + i * classes, classes) == t->data->graphs[t->test[i]].label;
    return t->n_test ? 100.0 * right / t->n_test : 0;
}

/* Adds the time of passes over the graphs of `test`, at least one. */
static void time_inference(trainer *t)
{
    const clock_t start = clock();
    do {
        predict(t, t->inference, BATCH, t->logits);
        t->inferred += t->n_test;
    } while (seconds_since(start) < t->o->seconds / t->o->folds);
    t->inference_seconds += seconds_since(start);
}

/* Trains on all graphs but those dealt to a fold, from new weights; returns the accuracy on that fold. */
static double run_fold(trainer *t, int fold)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default(), eager = fold_ctx_desc_default();
    model.seed = t->o->seed;
    training.training = 1;
    eager.eager = 1;
    t->fold = fold;
    t->n_train = t->n_test = 0;
    for (int i = 0; i < t->data->count; i++) {
        if (i % t->o->folds == fold) t->test[t->n_test++] = t->order[i];
        else t->train[t->n_train++] = t->order[i];
    }
    t->model = fold_model_new(&model);
    if (!t->model) fail("out of memory", "");
    t->n = new_net(t->model, t->o, t->data);
    if (fold_model_status(t->model)) fail(fold_model_message(t->model), "");
    t->training = fold_ctx_new(t->model, &training);
    t->inference = fold_ctx_new(t->model, NULL);
    t->eager = fold_ctx_new(t->model, &eager);
    if (!t->training || !t->inference || !t->eager) fail("out of memory", "");
    train(t);
    const double accuracy = evaluate(t);
    time_inference(t);
    fold_ctx_free(t->eager);
    fold_ctx_free(t->inference);
    fold_ctx_free(t->training);
    fold_model_free(t->model);
    return accuracy;
}

/* Cross-validates; returns whether graphs alone gave the same bits. */
static int run(const options *o, const dataset *d)
{
    const char *name = o->attention ? "attention" : "GIN";
    trainer t;
    double sum = 0, squares = 0;
    memset(&t, 0, sizeof t);
    t.o = o;
    t.data = d;
    t.identical = 1;
    t.order = (int *)take((size_t)d->count, sizeof *t.order);
    t.train = (int *)take((size_t)d->count, sizeof *t.train);
    t.test = (int *)take((size_t)d->count, sizeof *t.test);
    t.logits = (float *)take((size_t)d->count * (size_t)d->classes, sizeof *t.logits);
    t.alone = (float *)take((size_t)d->count * (size_t)d->classes, sizeof *t.alone);
    order_graphs(&t);
    for (int fold = 0; fold < o->folds; fold++) {
        const double accuracy = run_fold(&t, fold);
        sum += accuracy;
        squares += accuracy * accuracy;
        printf("%s, fold %d of %d: %.2f %%\n", name, fold + 1, o->folds, accuracy);
    }
    const double mean = sum / o->folds, variance = (squares - sum * mean) / (o->folds - 1);
    const double inferred = t.inference_seconds > 0 ? t.inferred / t.inference_seconds : 0;
    const double trained = t.training_seconds > 0 ? t.trained / t.training_seconds : 0;
    printf("%s: %.2f %% (deviation %.2f), training %.0f graphs/s, inference %.0f; alone: %s bits\n", name, mean,
           sqrt(variance > 0 ? variance : 0), trained, inferred, t.identical ? "the same" : "OTHER");
    printf("RESULT molecules accuracy=%.2f deviation=%.2f train_per_s=%.0f infer_per_s=%.0f nodes_per_graph=%.1f "
           "identical=%d rounds=%d network=%s data=%s\n", mean, sqrt(variance > 0 ? variance : 0), trained, inferred,
           (double)d->atoms / d->count, t.identical, o->rounds, name, o->data ? "file" : "generated");
    free(t.order);
    free(t.train);
    free(t.test);
    free(t.logits);
    free(t.alone);
    return t.identical;
}

/* ---- command line -------------------------------------------------------------------------- */

static options parse_options(int argc, char **argv)
{
    options o = { NULL, 1, 10, 60, 0, 32, 3, 0, 1 };
    const option table[9] = {
        option_of_text("--data", &o.data, "DIR", "reads DIR/DS_A.txt and so on, DS being the last part of DIR; else rings are made up"),
        option_of_flag("--attention", &o.attention, "graph attention in place of GIN"),
        option_of_whole("--folds", &o.folds, 2, 100, "of cross-validation"),
        option_of_whole("--rounds", &o.rounds, 1, MOST_ROUNDS, "of messages"),
        option_of_whole("--epochs", &o.epochs, 1, 10000, "of training"),
        option_of_whole("--width", &o.width, 1, 4096, "of an atom's vector"),
        option_of_whole("--limit", &o.limit, 1, 1000000, "how many graphs are made up; else 600"),
        option_of_seed("--seed", &o.seed, "of weights, order and graphs"),
        option_of_number("--seconds", &o.seconds, 0, 1e6, "to time inference for"),
    };
    options_read(argc, argv, "Tells graphs apart by a graph network, and reports the accuracy of cross-validation.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    dataset data;
    memset(&data, 0, sizeof data);
    if (o.data) read_graphs(o.data, &data);
    else generate(&o, &data);
    if (data.count < 2 * o.folds) fail("fewer than two graphs a fold", "");
    printf("%d graphs of %d classes, %d atoms of %d kinds, %d bonds of %d kinds\n", data.count, data.classes,
           data.atoms, data.kinds, data.bonds, data.bond_kinds);
    const int identical = run(&o, &data);
    free_data(&data);
    return !identical;
}
