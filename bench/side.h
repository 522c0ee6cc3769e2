/* side.h - measuring one way of running a workload, alone or in alternation with others. */

/* FLOATS: as RATIO, with weights in floats, beside --weights int8 or bf16. */
typedef enum schedule { RATIO, DEPTH, AGENDA, EAGER, MANUAL, FLOATS, N_SCHEDULES } schedule;
static const char *const schedule_names[N_SCHEDULES] = { "ratio", "depth", "agenda", "eager", "manual", "floats" };

enum { MAX_REPEATS = 64, MIN_ROTATION = 8, MAX_ROTATION = 64, ROTATION_SAMPLES = 512 };

/* -1 in sizes: the workload's own. compare: -1 none, else the schedule to alternate with. */
typedef struct options {
    const char *workload, *mode, *isa, *share, *export;
    schedule schedule;
    int compare, json, dedupe, plan_cache, replay, block, flush, sorted, bits, frames, threads, in_turn, seed;
    size_t group_bytes;
    double seconds;
    sizes s;
    void (*zone)(int begin, const char *name, int calls, void *user);
    void *zone_user;
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

#include "policy.h"
#include "manual.h"

/* ---- one side of a measurement ------------------------------------------------------------ */

enum { RECORD, SCHEDULE, RUN, OPTIMISE, WHOLE, N_STAGES };
typedef struct times { double stage[N_STAGES][MAX_REPEATS]; int n; } times; /* of one batch, in seconds */

typedef struct side {
    schedule schedule;
    fold_model *model;
    fold_ctx_desc desc;
    fold_ctx *ctx;
    void *block;                             /* where the context lies, with options.block; else NULL */
    fold_pool *pool;                         /* more than one thread */
    net n;
    roots out;
    times *of;                               /* one a recording */
    double nodes, run_nodes, batches, lower_bound, timed; /* sums over timed batches */
    uint64_t checksum;
    int recorded;    /* what is to be replayed */
    double error;    /* of gradients written by hand */
    const char *share_of;
    double traced, share; /* microseconds of timed runs by their traces, and those of batches that options.share names */
    double whole, lanes, longest; /* seconds of timed batches; of what threads share in them; of the longest lane each time */
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

/* The processor's, of one thread. It must never go back, though what asking takes is subtracted. */
static uint64_t processor_clock_ns(void *user)
{
    static uint64_t last;
    const uint64_t now = (uint64_t)(1e9 * now_seconds());
    (void)user;
    if (now > last) last = now;
    return last;
}

/* Runs what threads share as if there was one processor, lane by lane, and takes the time of all and of the longest. The step on
   threads that never wait for memory or for each other takes whole - lanes + longest. */
static void lanes_in_turn(int n, void (*task)(int lane, void *user), void *user, void *pool)
{
    side *a = (side *)pool;
    double longest = 0;
    for (int lane = 0; lane < n; lane++) {
        const double start = now_seconds();
        task(lane, user);
        const double took = now_seconds() - start;
        a->lanes += took;
        if (took > longest) longest = took;
    }
    a->longest += longest;
}

static void open_context(side *a)
{
    fold_ctx_free(a->ctx);
    a->ctx = fold_ctx_new(a->model, &a->desc);
    if (!a->ctx) die("out of memory", "");
}
static void open_side(side *a, const bench *b, schedule how)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc ctx = fold_ctx_desc_default();
    memset(a, 0, sizeof *a);
    a->schedule = how;
    a->share_of = b->o->share;
    model.seed = (uint64_t)b->o->seed;
    model.isa = b->o->isa;
    model.inference = !b->training;
    model.flush_subnormals = b->o->flush;
    if (b->o->threads > 1 && !b->o->in_turn && !(a->pool = fold_pool_new(b->o->threads))) die("no threads to be had", "");
    model.threads = ctx.threads = b->o->threads;
    model.parallel_for = ctx.parallel_for = b->o->in_turn ? lanes_in_turn : fold_pool_for;
    model.pool = ctx.pool = b->o->in_turn ? (void *)a : a->pool;
    a->model = fold_model_new(&model);
    if (!a->model) die("out of memory", "");
    if (fold_model_status(a->model)) die(fold_model_message(a->model), "");
    a->n.s = b->s;
    b->w->build(&a->n, a->model);
    find_weights(&a->n, a->model);
    fold_quantize_desc quantize = fold_quantize_desc_default();
    quantize.bits = b->o->bits;
    if (quantize.bits && how < MANUAL) fold_model_quantize(a->model, &quantize);
    if (fold_model_status(a->model)) die(fold_model_message(a->model), "");
    ctx.training = b->training;
    ctx.eager = how == EAGER;
    ctx.schedule = how < EAGER ? (fold_schedule)how : FOLD_SCHEDULE_RATIO;
    ctx.dedupe = b->o->dedupe;
    ctx.group_bytes = b->o->group_bytes;
    ctx.plan_cache_bytes = b->o->plan_cache ? (size_t)64 << 20 : 0;
    ctx.clock = now_clock == CLOCK_MONOTONIC ? clock_ns : processor_clock_ns;
    ctx.zone = b->o->zone;
    ctx.zone_user = b->o->zone_user;
    ctx.trace_bytes = b->o->share ? (size_t)1 << 20 : 0;
    a->desc = ctx;
    open_context(a);
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
    free(a->block);
    fold_model_free(a->model);
    fold_pool_free(a->pool);
}

/* ---- running one batch -------------------------------------------------------------------- */

/* The value of what was recorded as output i, and of how many floats it is. */
static const float *root_value(const side *a, size_t i, size_t *n)
{
    const fold_shape s = fold_node_shape(a->ctx, a->out.node[i]);
    const float *v = fold_value(a->ctx, a->out.node[i]);
    if (!v) die(fold_ctx_message(a->ctx), "");
    *n = 1;
    for (int k = 0; k < s.rank; k++) *n *= (size_t)s.dim[k];
    const int rows = fold_list_length(a->ctx, a->out.node[i]); /* -1: no list */
    if (rows >= 0) *n *= (size_t)rows;
    return v;
}
static uint64_t hash_roots(const side *a, uint64_t h)
{
    for (size_t i = 0; i < a->out.n; i++) {
        size_t n;
        const float *v = root_value(a, i, &n);
        h = hash_floats(h, v, n);
    }
    return h;
}

/* Adds the time of planning, or of a batch. */
static int add_share(const fold_seen *seen, void *user)
{
    side *a = (side *)user;
    const double microseconds = 1e-3 * (double)(seen->end_ns - seen->start_ns);
    a->traced += microseconds;
    if (!strncmp(seen->what == FOLD_SEEN_RUN ? "plan" : seen->name, a->share_of, strlen(a->share_of))) a->share += microseconds;
    return 0;
}

/* Runs the last recording again; adds its time to t. */
static void replay_samples(side *a, double *t)
{
    const double start = now_seconds();
    if (fold_replay(a->ctx)) die(fold_ctx_message(a->ctx), "");
    t[RUN] += now_seconds() - start;
}

static void run_samples(side *a, const bench *b, const recording *r, int from, int to, double *t, uint64_t *hash);

/* Gives the side a new context in a block of exactly the size that these samples need, which is told by a context that measures.
   No float in it is what an array would hold. */
static void open_in_block(side *a, const bench *b, const recording *r, int from, int to)
{
    double t[N_STAGES] = { 0 };
    memset(&a->desc.memory, 0, sizeof a->desc.memory);
    a->desc.measure = 1;
    open_context(a);
    run_samples(a, b, r, from, to, t, NULL);
    a->desc.measure = 0;
    a->desc.memory.block_size = fold_ctx_stats(a->ctx).block_bytes;
    fold_ctx_free(a->ctx);
    a->ctx = NULL;
    free(a->block);
    a->block = take(NULL, a->desc.memory.block_size, 1);
    a->desc.memory.block = memset(a->block, 0x5A, a->desc.memory.block_size);
    open_context(a);
}

/* Records and runs samples [from, to); adds its times to t and, given one, its outputs to the hash. */
static void run_samples(side *a, const bench *b, const recording *r, int from, int to, double *t, uint64_t *hash)
{
    if (b->o->block && !a->desc.measure) open_in_block(a, b, r, from, to);
    const double start = now_seconds();
    fold_ctx_reset(a->ctx);
    a->out.n = 0;
    for (int i = from; i < to; i++) b->w->record(a->ctx, &a->n, r, &r->samples[i], b->training, &a->out);
    fold_node loss = { 0, 0 };
    if (b->training) {
        loss = fold_scale(a->ctx, fold_sum_n(a->ctx, a->out.node, (int)a->out.n), 1.0f / (float)r->n_samples);
        for (size_t i = 0; i < a->out.n && (hash || b->o->block); i++) fold_keep(a->ctx, a->out.node[i]);
    }
    const double recorded = now_seconds();
    if (b->training ? fold_backward(a->ctx, loss) : fold_run(a->ctx, a->out.node, (int)a->out.n)) die(fold_ctx_message(a->ctx), "");
    const double end = now_seconds();
    const fold_stats s = fold_ctx_stats(a->ctx);
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
    const double lanes = a->lanes, longest = a->longest;
    double t[N_STAGES] = { 0 };
    if (a->schedule == MANUAL) manual_batch(&a->by_hand, r, b->training, &t[SCHEDULE], &t[RUN], hash);
    else if (b->o->replay && a->recorded && !hash && a->schedule != EAGER) replay_samples(a, t);
    else for (int i = 0; i < r->n_samples; i += together) run_samples(a, b, r, i, i + together, t, hash);
    a->recorded = !hash;
    if (hash && b->training) {
        int n;
        const float *grads = fold_model_grads(a->model, &n);
        *hash = hash_floats(*hash, grads, (size_t)n);
        fold_grads_clear(a->model);
    } else if (b->training) {
        const double start = now_seconds();
        if (optimise(a, b->w->opt)) die(fold_model_message(a->model), "");
        t[OPTIMISE] = now_seconds() - start;
    }
    t[WHOLE] = t[RECORD] + t[SCHEDULE] + t[RUN] + t[OPTIMISE];
    times *of = &a->of[which];
    if (timed) {
        if (a->share_of) fold_ctx_visit_times(a->ctx, add_share, a);
        for (int k = 0; k < N_STAGES; k++) of->stage[k][of->n % MAX_REPEATS] = t[k];
        of->n++;
        a->timed++;
        a->whole += t[WHOLE];
    } else {
        a->lanes = lanes;
        a->longest = longest;
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

/* ---- data --------------------------------------------------------------------------------- */

static void forget(bench *b)
{
    for (int i = 0; i < b->rotation; i++) { free(b->data[i].items); free(b->data[i].samples); free(b->data[i].values); free(b->data[i].index); }
    free(b->data);
}
static int compare_lengths(const void *a, const void *b)
{
    const sample *x = *(const sample *const *)a, *y = *(const sample *const *)b;
    return x->count != y->count ? x->count - y->count : x->target[0] > y->target[0] ? 1 : -1;
}
/* Deals the sentences of a transformer to its batches in order of length. target: where a sentence was, and then no more. */
static void sort_by_length(bench *b)
{
    const int batch = b->s.batch, n = b->rotation * batch;
    sample **order = (sample **)take(NULL, (size_t)n, sizeof *order);
    recording *sorted = (recording *)take(NULL, (size_t)b->rotation, sizeof *sorted);
    for (int i = 0; i < n; i++) {
        order[i] = &b->data[i / batch].samples[i % batch];
        order[i]->target[0] = (float)i;
    }
    qsort(order, (size_t)n, sizeof *order, compare_lengths);
    memset(sorted, 0, (size_t)b->rotation * sizeof *sorted);
    for (int i = 0; i < n; i++) {
        recording *r = &sorted[i / batch];
        if (i % batch == 0) r->samples = (sample *)take(NULL, (size_t)batch, sizeof *r->samples);
        sample *x = &r->samples[r->n_samples++];
        const int *words = b->data[(int)order[i]->target[0] / batch].index + order[i]->first;
        *x = *order[i];
        x->first = r->n_index;
        for (int k = 0; k < x->count; k++) push_index(r, words[k]);
    }
    for (int i = 0; i < b->rotation; i++) transformer_work(&sorted[i], &b->s);
    forget(b);
    b->data = sorted;
    free(order);
}
static void generate(bench *b)
{
    uint64_t random = (uint64_t)b->o->seed;
    b->rotation = ROTATION_SAMPLES / b->s.batch;
    if (b->rotation < MIN_ROTATION) b->rotation = MIN_ROTATION;
    if (b->rotation > MAX_ROTATION) b->rotation = MAX_ROTATION;
    if (b->o->replay) b->rotation = 1;
    b->data = (recording *)take(NULL, (size_t)b->rotation, sizeof *b->data);
    memset(b->data, 0, (size_t)b->rotation * sizeof *b->data);
    for (int i = 0; i < b->rotation; i++) {
        recording *r = &b->data[i];
        r->n_samples = b->s.batch;
        r->samples = (sample *)take(NULL, (size_t)b->s.batch, sizeof *r->samples);
        memset(r->samples, 0, (size_t)b->s.batch * sizeof *r->samples);
        b->w->generate(r, &b->s, &random);
    }
    if (b->o->sorted) sort_by_length(b);
}


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

/* ---- measuring by turns --------------------------------------------------------------------- */

/* How far the gradients written by hand are from the library's on one batch: the largest difference by the largest gradient.
   They cannot be equal to the bit: their sums run over levels. */
static double manual_error(side *a, const bench *b)
{
    double t = 0, largest = 0, error = 0;
    int n;
    const float *grads = fold_model_grads(a->model, &n);
    float *expected = (float *)take(NULL, (size_t)n, sizeof *expected);
    run_samples(a, b, &b->data[0], 0, b->data[0].n_samples, (double[N_STAGES]){ 0 }, NULL);
    memcpy(expected, grads, (size_t)n * sizeof *grads);
    fold_grads_clear(a->model);
    manual_batch(&a->by_hand, &b->data[0], 1, &t, &t, NULL);
    for (int i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)expected[i]));
        error = fmax(error, fabs((double)expected[i] - (double)grads[i]));
    }
    fold_grads_clear(a->model);
    free(expected);
    return error / largest;
}

/* How far the values of a frame or a policy written by hand are from the library's. */
static double values_error(side *a, const bench *b)
{
    const int n = b->s.words * b->s.classes, nodes = a->by_hand.kind == POLICY ? b->s.batch : 1;
    double error = 0, t = 0;
    run_samples(a, b, &b->data[0], 0, nodes, (double[N_STAGES]){ 0 }, NULL);
    manual_batch(&a->by_hand, &b->data[0], 0, &t, &t, NULL);
    for (int i = 0; i < nodes * n; i++)
        error = fmax(error, fabs((double)fold_value(a->ctx, a->out.node[i / n])[i % n] - (double)a->by_hand.y[i]));
    return error;
}

enum { MAX_RATIOS = 4096 };
typedef struct measured { double peak_before, peak_after, ratio; } measured;

/* Alternates the sides; of two, ratio is the median over turns of the second's time to the first's. Of small batches a turn is
   several in a row, since the first finds the other sides' weights in cache; an odd number, so that it is not always the same. */
static measured measure(side *sides, int n_sides, const bench *b)
{
    static double ratios[MAX_RATIOS];
    const int bout = b->s.batch < 64 ? 7 : 1;
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
        if (sides[k].schedule == MANUAL && sides[k].by_hand.kind >= FRAME && !(values_error(&sides[k], b) < 1e-4))
            die("values written by hand are not the library's", "");
    }
    double start = now_seconds();
    for (int i = 0; i < b->rotation && (i < 2 || now_seconds() - start < b->o->seconds); i++)
        for (int k = 0; k < n_sides; k++) run_batch(&sides[k], b, i, 0, NULL);
    for (int k = 0; k < n_sides; k++) sides[k].traced = sides[k].share = sides[k].nodes = sides[k].run_nodes = sides[k].batches = sides[k].lower_bound = 0;
    const char *isa = fold_model_isa(sides[0].model);
    x.peak_before = fma_peak(isa);
    start = now_seconds();
    for (int turn = 0; turn < 2 || now_seconds() - start < b->o->seconds; turn++) {
        double t[N_SCHEDULES] = { 0 };
        for (int k = 0; k < n_sides; k++) {
            const int which = turn % 2 ? n_sides - 1 - k : k; /* neither side always follows the other */
            for (int i = turn * bout; i < (turn + 1) * bout; i++) t[which] += run_batch(&sides[which], b, i % b->rotation, 1, NULL);
        }
        if (n_sides == 2 && n_ratios < MAX_RATIOS) ratios[n_ratios++] = t[1] / t[0];
    }
    x.peak_after = fma_peak(isa);
    if (n_ratios) x.ratio = median(ratios, n_ratios);
    return x;
}
