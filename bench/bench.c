/* bench: how fast fold.h runs a workload, as a table or as one JSON object a line.

     cc -O2 -o bench/bench bench/bench.c -lm -lpthread
     bench/bench --workload treelstm-sick --mode train --batch 256 --seconds 2 --json

   Data is generated before the clock starts, and every batch of the rotation has other structures. The time of
   a batch is everything a program does for it: recording, scheduling, running, the optimiser's step. Each batch
   of the rotation counts with the median of its times. peak_fraction is useful FLOP/s (products only, savings not
   subtracted) over the peak of fused multiply-adds measured in the same process just before and after. */
#define _POSIX_C_SOURCE 199309L
#define FOLD_USE_THREADS
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "peak.h"
#include "workloads.h"

typedef enum schedule { RATIO, DEPTH, AGENDA, EAGER, MANUAL, N_SCHEDULES } schedule;
static const char *const schedule_names[N_SCHEDULES] = { "ratio", "depth", "agenda", "eager", "manual" };

enum { MAX_REPEATS = 64, MIN_ROTATION = 8, MAX_ROTATION = 64, ROTATION_SAMPLES = 512 };

/* -1 in sizes: the workload's own. compare: -1 none, else the schedule to alternate with. */
typedef struct options {
    const char *workload, *mode, *isa;
    schedule schedule;
    int compare, json, dedupe, plan_cache, threads, seed;
    size_t group_bytes;
    double seconds;
    sizes s;
} options;

static uint64_t hash_floats(uint64_t h, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u; /* FNV-1a over words */
    }
    return h;
}

#include "manual.h"

/* ---- one side of a measurement ------------------------------------------------------------ */

enum { RECORD, SCHEDULE, RUN, OPTIMISE, WHOLE, N_STAGES };
typedef struct times { double stage[N_STAGES][MAX_REPEATS]; int n; } times; /* of one batch, in seconds */

typedef struct side {
    schedule schedule;
    fold_model *model;
    fold_ctx *ctx;
    fold_pool *pool;                         /* more than one thread */
    net n;
    roots out;
    times *of;                               /* one a recording */
    double nodes, run_nodes, batches, lower_bound, timed; /* sums over timed batches */
    uint64_t checksum;
    double error;    /* of gradients written by hand */
    manual by_hand;
} side;

typedef struct bench {
    const options *o;
    const workload *w;
    sizes s;
    int training, rotation;
    recording *data;
} bench;

static uint64_t clock_ns(void *user)
{
    struct timespec t;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void open_side(side *a, const bench *b, schedule how)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc ctx = fold_ctx_desc_default();
    memset(a, 0, sizeof *a);
    a->schedule = how;
    model.seed = (uint64_t)b->o->seed;
    model.isa = b->o->isa;
    model.inference = !b->training;
    a->model = fold_model_new(&model);
    if (!a->model) die("this machine has no isa ", b->o->isa ? b->o->isa : "");
    a->n.s = b->s;
    b->w->build(&a->n, a->model);
    find_weights(&a->n, a->model);
    if (fold_model_status(a->model)) die(fold_model_message(a->model), "");
    ctx.training = b->training;
    ctx.eager = how == EAGER;
    ctx.schedule = how < EAGER ? (fold_schedule)how : FOLD_SCHEDULE_RATIO;
    ctx.dedupe = b->o->dedupe;
    ctx.group_bytes = b->o->group_bytes;
    ctx.plan_bytes = b->o->plan_cache ? (size_t)64 << 20 : 0;
    ctx.clock = clock_ns;
    if (b->o->threads > 1) {
        a->pool = fold_pool_new(b->o->threads);
        if (!a->pool) die("no threads to be had", "");
        ctx.threads = b->o->threads;
        ctx.parallel_for = fold_pool_for;
        ctx.pool = a->pool;
    }
    a->ctx = fold_ctx_new(a->model, &ctx);
    if (!a->ctx) die("out of memory", "");
    a->of = (times *)take(NULL, (size_t)b->rotation, sizeof *a->of);
    memset(a->of, 0, (size_t)b->rotation * sizeof *a->of);
    if (how == MANUAL) manual_open(&a->by_hand, &a->n, b->w->name, a->model);
}
static void close_side(side *a)
{
    if (a->schedule == MANUAL) manual_close(&a->by_hand);
    free(a->out.node);
    free(a->of);
    fold_ctx_free(a->ctx);
    fold_model_free(a->model);
    fold_pool_free(a->pool);
}

/* ---- running one batch -------------------------------------------------------------------- */

static uint64_t hash_roots(const side *a, uint64_t h)
{
    for (size_t i = 0; i < a->out.n; i++) {
        const fold_shape s = fold_node_shape(a->ctx, a->out.node[i]);
        const float *v = fold_value(a->ctx, a->out.node[i]);
        size_t n = 1;
        if (!v) die(fold_message(a->ctx), "");
        for (int k = 0; k < s.rank; k++) n *= (size_t)s.dim[k];
        h = hash_floats(h, v, n);
    }
    return h;
}

/* Records and runs samples [from, to); adds its times to t and, given one, its outputs to the hash. */
static void run_samples(side *a, const bench *b, const recording *r, int from, int to, double *t, uint64_t *hash)
{
    const double start = now_seconds();
    fold_reset(a->ctx);
    a->out.n = 0;
    for (int i = from; i < to; i++) b->w->record(a->ctx, &a->n, r, &r->samples[i], b->training, &a->out);
    fold_node loss = { 0, 0 };
    if (b->training) {
        loss = fold_scale(a->ctx, fold_sum_n(a->ctx, a->out.node, a->out.n), 1.0f / (float)r->n_samples);
        for (size_t i = 0; i < a->out.n && hash; i++) fold_keep(a->ctx, a->out.node[i]);
    }
    const double recorded = now_seconds();
    if (b->training ? fold_backward(a->ctx, loss) : fold_run(a->ctx, a->out.node, a->out.n)) die(fold_message(a->ctx), "");
    const double end = now_seconds();
    const fold_stats_data s = fold_stats(a->ctx);
    const double scheduling = a->schedule == EAGER ? 0 : 1e-9 * (double)s.schedule_ns;
    const double recording_time = a->schedule == EAGER ? 0 : recorded - start; /* eager: recording is running */
    t[RECORD] += recording_time;
    t[SCHEDULE] += scheduling;
    t[RUN] += end - start - recording_time - scheduling;
    a->nodes += (double)s.nodes;
    a->run_nodes += (double)s.run_nodes;
    a->batches += (double)s.batches;
    a->lower_bound += (double)s.lower_bound;
    if (hash) *hash = hash_roots(a, *hash);
}

static fold_status optimise(side *a, optimiser opt)
{
    const fold_sgd sgd = { 0.01f, 0, 0 };
    const fold_adagrad adagrad = { 0.01f, 1e-8f, 0 };
    const fold_adam adam = { 0.0001f, 0.9f, 0.999f, 1e-8f, 0, 0 };
    if (opt == OPT_SGD) return fold_sgd_step(a->model, &sgd);
    if (opt == OPT_ADAGRAD) return fold_adagrad_step(a->model, &adagrad);
    return fold_adam_step(a->model, &adam);
}

/* One batch, all at once or, eager, sample after sample. With hash it is one recording always, since gradients depend on what is
   recorded together; no step is taken, and gradients are cleared. */
static double run_batch(side *a, const bench *b, int which, int timed, uint64_t *hash)
{
    const recording *r = &b->data[which];
    const int together = a->schedule == EAGER && !hash ? 1 : r->n_samples;
    double t[N_STAGES] = { 0 };
    if (a->schedule == MANUAL) manual_batch(&a->by_hand, r, b->training, &t[SCHEDULE], &t[RUN], hash);
    else for (int i = 0; i < r->n_samples; i += together) run_samples(a, b, r, i, i + together, t, hash);
    if (hash && b->training) {
        size_t n;
        const float *grads = fold_model_grads(a->model, &n);
        *hash = hash_floats(*hash, grads, n);
        fold_clear_grads(a->model);
    } else if (b->training) {
        const double start = now_seconds();
        if (optimise(a, b->w->opt)) die(fold_model_message(a->model), "");
        t[OPTIMISE] = now_seconds() - start;
    }
    t[WHOLE] = t[RECORD] + t[SCHEDULE] + t[RUN] + t[OPTIMISE];
    times *of = &a->of[which];
    if (timed) {
        for (int k = 0; k < N_STAGES; k++) of->stage[k][of->n % MAX_REPEATS] = t[k];
        of->n++;
        a->timed++;
    }
    return t[WHOLE];
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(const double *x, int n)
{
    double sorted[4096];
    if (n > 4096) n = 4096;
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

#include "gemm.h"

/* ---- measuring ---------------------------------------------------------------------------- */

typedef struct result {
    double stage[N_STAGES], samples, units, flop; /* of the batches timed, once each; seconds are medians */
} result;

static result result_of(const side *a, const bench *b)
{
    result x;
    memset(&x, 0, sizeof x);
    for (int i = 0; i < b->rotation; i++) {
        const times *t = &a->of[i];
        const int n = t->n < MAX_REPEATS ? t->n : MAX_REPEATS;
        if (!n) continue;
        for (int k = 0; k < N_STAGES; k++) x.stage[k] += median(t->stage[k], n);
        x.samples += b->data[i].n_samples;
        x.units += b->data[i].units;
        x.flop += b->training ? b->data[i].flop_train : b->data[i].flop_infer;
    }
    return x;
}

/* How far the gradients written by hand are from the library's on one batch: the largest difference by the largest gradient.
   They cannot be equal to the bit: their sums run over levels. */
static double manual_error(side *a, const bench *b)
{
    double t = 0, largest = 0, error = 0;
    size_t n;
    float *grads = fold_model_grads(a->model, &n), *expected = (float *)take(NULL, n, sizeof *expected);
    run_samples(a, b, &b->data[0], 0, b->data[0].n_samples, (double[N_STAGES]){ 0 }, NULL);
    memcpy(expected, grads, n * sizeof *grads);
    fold_clear_grads(a->model);
    manual_batch(&a->by_hand, &b->data[0], 1, &t, &t, NULL);
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)expected[i]));
        error = fmax(error, fabs((double)expected[i] - (double)grads[i]));
    }
    fold_clear_grads(a->model);
    free(expected);
    return error / largest;
}

enum { MAX_RATIOS = 4096 };
typedef struct measured { double peak_before, peak_after, ratio; } measured;

/* Alternates the sides batch by batch; ratio is the median over batches of the last side's time to the first's. */
static measured measure(side *sides, int n_sides, const bench *b)
{
    static double ratios[MAX_RATIOS];
    int n_ratios = 0;
    measured x = { 0, 0, 0 };
    for (int k = 0; k < n_sides; k++) {
        sides[k].checksum = 14695981039346656037u;
        if (sides[k].schedule == MANUAL && b->training) {
            const double error = manual_error(&sides[k], b);
            if (!(error < 1e-4)) die("gradients written by hand are not the library's", "");
            sides[k].error = error;
        }
        run_batch(&sides[k], b, 0, 0, &sides[k].checksum);
    }
    double start = now_seconds();
    for (int i = 0; i < b->rotation && (i < 2 || now_seconds() - start < b->o->seconds); i++)
        for (int k = 0; k < n_sides; k++) run_batch(&sides[k], b, i, 0, NULL);
    for (int k = 0; k < n_sides; k++) sides[k].nodes = sides[k].run_nodes = sides[k].batches = sides[k].lower_bound = 0;
    const char *isa = fold_model_isa(sides[0].model);
    x.peak_before = fma_peak(isa);
    start = now_seconds();
    for (int i = 0; i < 2 || now_seconds() - start < b->o->seconds; i++) {
        double t[2] = { 0, 0 };
        for (int k = 0; k < n_sides; k++) {
            const int which = i % 2 ? n_sides - 1 - k : k; /* neither side always follows the other */
            t[which] = run_batch(&sides[which], b, i % b->rotation, 1, NULL);
        }
        if (n_sides == 2 && n_ratios < MAX_RATIOS) ratios[n_ratios++] = t[1] / t[0];
    }
    x.peak_after = fma_peak(isa);
    if (n_ratios) x.ratio = median(ratios, n_ratios);
    return x;
}

/* ---- printing ----------------------------------------------------------------------------- */

static void print_result(const bench *b, const side *a, const measured *m, const char *other)
{
    const result r = result_of(a, b);
    const fold_stats_data s = fold_stats(a->ctx);
    const double whole = r.stage[WHOLE], peak = 0.5 * (m->peak_before + m->peak_after) * b->o->threads;
    const double nodes = a->nodes / a->timed, batches = a->batches / a->timed, bound = a->lower_bound / a->timed;
    const double units = r.units / r.samples * b->s.batch; /* of one batch, on average */
    const double per_unit = 1e9 / r.units, per_node = nodes ? per_unit * units / nodes : 0;
    const char *mode = b->training ? "train" : "infer";
    const size_t arena = a->schedule == MANUAL ? manual_bytes(&a->by_hand) : s.peak_bytes;
    if (!b->o->json) {
        char name[32];
        snprintf(name, sizeof name, "%s%s", b->w->name, b->s.softmax ? " softmax" : "");
        printf("%-15s %-5s %5d %-7s %-8s %9.0f %11.0f %7.1f %5.1f%% %7.1f %8.1f %8.1f %8.1f %8.0f %7.1f", name, mode, b->s.batch,
               schedule_names[a->schedule], fold_model_isa(a->model), r.samples / whole, r.units / whole, r.flop / whole * 1e-9,
               100 * r.flop / whole / peak, r.stage[RECORD] * per_unit, r.stage[SCHEDULE] * per_unit, r.stage[RUN] * per_unit,
               r.stage[OPTIMISE] * per_unit, batches, (double)arena * 1e-6);
        if (other) printf("  %.3f x %s", m->ratio, other);
        putchar('\n');
        return;
    }
    printf("{\"workload\":\"%s\",\"mode\":\"%s\",\"batch\":%d,\"threads\":%d,\"schedule\":\"%s\",\"isa\":\"%s\"", b->w->name, mode,
           b->s.batch, b->o->threads, schedule_names[a->schedule], fold_model_isa(a->model));
    printf(",\"samples_per_s\":%.6g,\"units_per_s\":%.6g,\"unit\":\"%s\",\"flop_per_s\":%.6g,\"fma_peak_flop_per_s\":%.6g", r.samples / whole,
           r.units / whole, b->w->unit, r.flop / whole, peak);
    printf(",\"fma_peak_before\":%.6g,\"fma_peak_after\":%.6g,\"peak_fraction\":%.4f", m->peak_before, m->peak_after, r.flop / whole / peak);
    printf(",\"nodes\":%.0f,\"run_nodes\":%.0f,\"batches\":%.1f,\"lower_bound\":%.1f", nodes, a->run_nodes / a->timed, batches, bound);
    printf(",\"record_ns_per_node\":%.2f,\"schedule_ns_per_node\":%.2f,\"run_ns_per_node\":%.2f", r.stage[RECORD] * per_node,
           r.stage[SCHEDULE] * per_node, r.stage[RUN] * per_node);
    printf(",\"ns_per_unit\":%.2f,\"record_ns_per_unit\":%.2f,\"schedule_ns_per_unit\":%.2f,\"run_ns_per_unit\":%.2f", whole * per_unit,
           r.stage[RECORD] * per_unit, r.stage[SCHEDULE] * per_unit, r.stage[RUN] * per_unit);
    printf(",\"arena_peak_bytes\":%zu,\"pack_bytes\":%zu,\"plan_hits\":%zu,\"plan_cache\":%s,\"dedupe\":%s,\"optimiser_ns_per_sample\":%.1f",
           arena, s.pack_bytes, s.plan_hits, b->o->plan_cache ? "true" : "false", b->o->dedupe ? "true" : "false",
           r.stage[OPTIMISE] * 1e9 / r.samples);
    printf(",\"input\":%d,\"hidden\":%d,\"softmax\":%s,\"cells\":%s,\"batches_timed\":%.0f", b->s.input, b->s.hidden, b->s.softmax ? "true" : "false",
           b->s.cells ? "true" : "false", a->timed);
    if (other) printf(",\"compare\":\"%s\",\"ratio\":%.4f", other, m->ratio);
    if (a->schedule == MANUAL && b->training) printf(",\"gradient_error\":%.3g", a->error);
    printf(",\"checksum\":\"%016llx\"}\n", (unsigned long long)a->checksum);
}

static void print_header(const options *o)
{
    if (o->json) return;
    printf("%-15s %-5s %5s %-7s %-8s %9s %11s %7s %6s %7s %8s %8s %8s %8s %7s\n", "", "", "", "", "", "samples", "units", "GFLOP", "of",
           "-------", "ns a", "unit", "-------", "batches", "arena");
    printf("%-15s %-5s %5s %-7s %-8s %9s %11s %7s %6s %7s %8s %8s %8s %8s %7s\n", "workload", "mode", "batch", "by", "isa", "/s", "/s", "/s",
           "peak", "record", "schedule", "run", "optimise", "a batch", "MB");
}

/* ---- one workload ------------------------------------------------------------------------- */

static int chosen(int given, int usual) { return given >= 0 ? given : usual; }

static sizes sizes_of(const workload *w, const sizes *given)
{
    sizes s = w->s;
    s.batch = chosen(given->batch, s.batch);
    s.input = chosen(given->input, s.input);
    s.hidden = chosen(given->hidden, s.hidden);
    s.words = chosen(given->words, s.words);
    s.classes = chosen(given->classes, s.classes);
    s.min = chosen(given->min, s.min);
    s.max = chosen(given->max, s.max);
    s.cells = chosen(given->cells, s.cells);
    if (s.batch < 1 || s.input < 1 || s.hidden < 1 || s.words < 1 || s.min < 1 || s.max < s.min || s.max > MAX_NODES)
        die("sizes out of range for ", w->name);
    return s;
}

static void generate(bench *b)
{
    uint64_t random = (uint64_t)b->o->seed;
    b->rotation = ROTATION_SAMPLES / b->s.batch;
    if (b->rotation < MIN_ROTATION) b->rotation = MIN_ROTATION;
    if (b->rotation > MAX_ROTATION) b->rotation = MAX_ROTATION;
    b->data = (recording *)take(NULL, (size_t)b->rotation, sizeof *b->data);
    memset(b->data, 0, (size_t)b->rotation * sizeof *b->data);
    for (int i = 0; i < b->rotation; i++) {
        recording *r = &b->data[i];
        r->n_samples = b->s.batch;
        r->samples = (sample *)take(NULL, (size_t)b->s.batch, sizeof *r->samples);
        memset(r->samples, 0, (size_t)b->s.batch * sizeof *r->samples);
        b->w->generate(r, &b->s, &random);
    }
}

static void run_workload(const options *o, const workload *w, int training, int compare)
{
    bench b = { o, w, sizes_of(w, &o->s), training, 0, NULL };
    side sides[2];
    const int n = compare >= 0 ? 2 : 1;
    generate(&b);
    open_side(&sides[0], &b, o->schedule);
    if (n == 2) open_side(&sides[1], &b, (schedule)compare);
    const measured m = measure(sides, n, &b);
    print_result(&b, &sides[0], &m, n == 2 ? schedule_names[compare] : NULL);
    if (n == 2) print_result(&b, &sides[1], &m, NULL);
    fflush(stdout);
    for (int i = 0; i < n; i++) close_side(&sides[i]);
    for (int i = 0; i < b.rotation; i++) { free(b.data[i].items); free(b.data[i].samples); free(b.data[i].values); }
    free(b.data);
}

/* ---- command line ------------------------------------------------------------------------- */

static const char usage[] =
    "usage: bench [options]\n"
    "Without --workload all workloads run, in both modes.\n"
    "  --workload NAME       treelstm-sick, treelstm-sst, treelstm-tiny, lstm-lm, mnist-mlp, chain, lattice, bilstm-tagger,\n"
    "                        attention, gemm\n"
    "  --mode infer|train    --batch N    --threads N    --seconds S (default 1; of timing, for each line)\n"
    "  --schedule ratio|depth|agenda|eager|manual    --compare NAME: a second schedule, alternating batch by batch;\n"
    "                        manual: treelstm-* and chain only, batched level by level by hand\n"
    "                        the first line's ratio is the median of the second's time to the first's\n"
    "  --isa avx512|avx2|portable    --dedupe on|off    --plan-cache on|off    --group-bytes N\n"
    "  --json                one object a line\n"
    "  --seed N    --input N    --hidden N    --words N    --classes N\n"
    "  --nodes-min N --nodes-max N, --leaves-min N --leaves-max N, --length-min N --length-max N: of a sample\n"
    "  --vocabulary N        as --words    --softmax on|off: lstm-lm only\n"
    "  --cells on|off        off: the same networks in primitive ops, without cells (and without the prologues cells allow)\n"
    "Leaves are min + two uniform draws of 0 to (max - min) / 2. Times are by the wall clock; the peak is one core's times --threads.\n";

static int number(const char *name, const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || n < 0 || n > INT_MAX) { fprintf(stderr, "bench: %s takes a number, not '%s'\n", name, text); exit(1); }
    return (int)n;
}
static int on_off(const char *name, const char *text)
{
    if (!strcmp(text, "on")) return 1;
    if (strcmp(text, "off")) die(name, " is on or off");
    return 0;
}
static int schedule_of(const char *text)
{
    for (int i = 0; i < N_SCHEDULES; i++)
        if (!strcmp(text, schedule_names[i])) return i;
    die("no such schedule: ", text);
    return 0;
}

/* The number that an option sets; NULL when it sets none. */
static int *number_of(options *o, const char *name)
{
    static const char *const names[] = { "batch", "input", "hidden", "words", "vocabulary", "classes", "nodes-min", "nodes-max",
                                         "leaves-min", "leaves-max", "length-min", "length-max", "threads", "seed" };
    int *const at[] = { &o->s.batch, &o->s.input, &o->s.hidden, &o->s.words, &o->s.words, &o->s.classes, &o->s.min, &o->s.max,
                        &o->s.min, &o->s.max, &o->s.min, &o->s.max, &o->threads, &o->seed };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (!strncmp(name, "--", 2) && !strcmp(name + 2, names[i])) return at[i];
    return NULL;
}

static options parse(int argc, char **argv)
{
    options o = { NULL, NULL, NULL, RATIO, -1, 0, 0, 0, 1, 1, 0, 1, { -1, -1, -1, -1, -1, -1, -1, -1, -1 } };
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--help")) { fputs(usage, stdout); exit(0); }
        if (!strcmp(name, "--json")) { o.json = 1; continue; }
        if (++i == argc) { fputs(usage, stderr); exit(1); }
        const char *value = argv[i];
        int *at = number_of(&o, name);
        if (at) *at = number(name, value);
        else if (!strcmp(name, "--workload")) o.workload = value;
        else if (!strcmp(name, "--mode")) o.mode = value;
        else if (!strcmp(name, "--isa")) o.isa = value;
        else if (!strcmp(name, "--schedule")) o.schedule = (schedule)schedule_of(value);
        else if (!strcmp(name, "--compare")) o.compare = schedule_of(value);
        else if (!strcmp(name, "--seconds")) o.seconds = atof(value);
        else if (!strcmp(name, "--group-bytes")) o.group_bytes = (size_t)strtoull(value, NULL, 10);
        else if (!strcmp(name, "--softmax")) o.s.softmax = on_off(name, value);
        else if (!strcmp(name, "--cells")) o.s.cells = on_off(name, value);
        else if (!strcmp(name, "--dedupe")) o.dedupe = on_off(name, value);
        else if (!strcmp(name, "--plan-cache")) o.plan_cache = on_off(name, value);
        else { fprintf(stderr, "bench: no option %s\n", name); exit(1); }
    }
    if (o.mode && strcmp(o.mode, "infer") && strcmp(o.mode, "train")) die("no such mode: ", o.mode);
    if (o.threads < 1 || o.threads > 64) die("1 to 64 threads", "");
    if (o.threads > 1 && (o.schedule >= EAGER || o.compare >= EAGER)) die("eager and manual are of one thread", "");
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    int found = 0;
    for (int i = 0; i < N_WORKLOADS; i++) {
        const workload *w = &workloads[i];
        if (o.workload && strcmp(o.workload, w->name)) continue;
        /* lstm-lm has two rows: asked for by name alone, the first is meant */
        if (i && !strcmp(w->name, w[-1].name) && (o.s.softmax > 0 || (o.workload && o.s.softmax < 0))) continue;
        if (w->s.softmax && !o.s.softmax) continue;
        for (int training = 0; training < 2; training++) {
            if (o.mode && training != !strcmp(o.mode, "train")) continue;
            if (training && w->opt == OPT_NONE) continue;
            if ((o.schedule == MANUAL || o.compare == MANUAL) && strncmp(w->name, "treelstm", 8) && strcmp(w->name, "chain")) continue;
            if (!found++) print_header(&o);
            run_workload(&o, w, training, o.compare);
        }
    }
    if (!o.workload || !strcmp(o.workload, "gemm")) {
        gemm_run(o.isa, o.seconds, o.json);
        found++;
    }
    if (!found) die("no such workload (or it is not trained): ", o.workload ? o.workload : "");
    return 0;
}
