/* frame.h: how long a frame of a game and a step of a robot take, beside the same by hand.

   Frames of the library and by hand alternate in one process. A frame of agents is recorded anew each time, for
   neighbours change; a robot's step is recorded once and replayed. Times are by the wall clock, which a busy
   machine disturbs: the longest gap of the clock alone is printed beside them, and the mean of processor time.

   Slices: a run is begun, which plans, and goes on in slices of a budget. What a slice takes beyond it is the error
   of a prediction, at most of one batch; of wall time also what the machine did meanwhile. The first slices, by which
   batches are timed, are not counted. */

typedef struct spread { double p50, p99, p999, worst, processor; } spread; /* microseconds */

static spread spread_of(double *seconds, int n, double processor)
{
    qsort(seconds, (size_t)n, sizeof *seconds, compare_doubles);
    const spread s = { 1e6 * seconds[n / 2], 1e6 * seconds[n * 99 / 100], 1e6 * seconds[(int)((double)n * 0.999)],
                       1e6 * seconds[n - 1], 1e6 * processor / n };
    return s;
}
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs frames of a workload, by turns of fold.h and by hand. `steps` of them make one time, since the clock is
   too coarse for one short step. Returns after how many frames the context held more memory than before. */
static int measure_frames(const char *name, int batch, int replay, int frames, int steps, spread of[2])
{
    options o = { .workload = name, .compare = MANUAL, .schedule = RATIO, .threads = 1, .seed = 1, .seconds = 1, .replay = replay };
    const workload *w = workloads;
    while (strcmp(w->name, name)) w++;
    bench b = { &o, w, w->s, 0, 0, NULL };
    side sides[2];
    double *seconds[2], processor[2] = { 0, 0 };
    int grown = 0;
    if (batch) b.s.batch = batch;
    generate(&b);
    open_side(&sides[0], &b, RATIO);
    open_side(&sides[1], &b, MANUAL);
    for (int k = 0; k < 2; k++) seconds[k] = (double *)take(NULL, (size_t)frames, sizeof **seconds);
    for (int i = -2 * b.rotation; i < frames; i++)
        for (int k = 0; k < 2; k++) {
            const double began = processor_seconds();
            const size_t bytes = fold_ctx_stats(sides[k].ctx).bytes;
            double whole = 0;
            for (int step = 0; step < steps; step++) whole += run_batch(&sides[k], &b, (i + 2 * b.rotation) % b.rotation, 0, NULL);
            if (i < 0) continue; /* to warm up */
            grown += fold_ctx_stats(sides[k].ctx).bytes != bytes;
            seconds[k][i] = whole / steps;
            processor[k] += (processor_seconds() - began) / steps;
        }
    for (int k = 0; k < 2; k++) {
        of[k] = spread_of(seconds[k], frames, processor[k]);
        free(seconds[k]);
        printf("%-10s %6d  %-8s %9.2f %9.2f %9.2f %9.2f %11.2f\n", name, batch ? batch : b.s.words, k ? "by hand" : replay ? "replayed" : "recorded",
               of[k].p50, of[k].p99, of[k].p999, of[k].worst, of[k].processor);
        close_side(&sides[k]);
    }
    forget(&b);
    return grown;
}

/* The longest time between two looks at a clock. */
static double longest_gap(double (*clock)(void))
{
    double last = clock(), longest = 0;
    for (const double end = last + 0.5; last < end;) {
        const double now = clock();
        if (now - last > longest) longest = now - last;
        last = now;
    }
    return 1e6 * longest;
}

/* The processor time of the longest batch, or part of one. */
typedef struct longest { double began, most; } longest;
static void note_longest(int begin, const char *name, int calls, void *user)
{
    longest *l = (longest *)user;
    (void)calls;
    if (begin) l->began = processor_seconds();
    else if (strcmp(name, "plan")) l->most = fmax(l->most, processor_seconds() - l->began);
}

/* Runs in slices; returns how far one went beyond its budget of microseconds at most, in processor time. */
static double measure_slices(const char *name, double budget, int runs)
{
    longest batch = { 0, 0 };
    options o = { .workload = name, .schedule = RATIO, .compare = -1, .threads = 1, .seed = 1, .seconds = 1, .zone = note_longest, .zone_user = &batch };
    const workload *w = workloads;
    while (strcmp(w->name, name)) w++;
    bench b = { &o, w, w->s, 0, 0, NULL };
    side a;
    double *planned = (double *)take(NULL, (size_t)runs, sizeof *planned), *over = NULL, over_processor = 0;
    int slices = 0, room = 0;
    generate(&b);
    open_side(&a, &b, RATIO);
    for (int run = -b.rotation; run < runs; run++) {
        const recording *r = &b.data[(run + b.rotation) % b.rotation];
        fold_ctx_reset(a.ctx);
        a.out.n = 0;
        for (int i = 0; i < r->n_samples; i++) w->record(a.ctx, &a.n, r, &r->samples[i], 0, &a.out);
        const double began = now_seconds();
        if (fold_run_begin(a.ctx, a.out.node, (int)a.out.n)) die(fold_ctx_message(a.ctx), "");
        if (run >= 0) planned[run] = 1e6 * (now_seconds() - began);
        if (run == 0) batch.most = 0;
        for (int more = 1; more;) {
            const double wall = now_seconds(), processor = processor_seconds();
            if (fold_run_more(a.ctx, (uint64_t)(1e3 * budget), &more)) die(fold_ctx_message(a.ctx), "");
            const double used = 1e6 * (processor_seconds() - processor) - budget, took = 1e6 * (now_seconds() - wall) - budget;
            if (run < 0) continue;
            if (slices == room) over = (double *)take(over, (size_t)(room = 2 * room + 64), sizeof *over);
            over[slices++] = fmax(took, 0);
            over_processor = fmax(over_processor, used);
        }
    }
    qsort(planned, (size_t)runs, sizeof *planned, compare_doubles);
    qsort(over, (size_t)slices, sizeof *over, compare_doubles);
    printf("%-14s %6.0f %9.1f %8.1f %9.1f %11.2f %9.2f %11.2f %9.2f %9.2f\n", name, budget, planned[runs / 2], (double)slices / runs,
           1e6 * batch.most, over_processor, over_processor / (1e6 * batch.most), over[slices - 1], over[slices * 99 / 100], over[slices / 2]);
    free(planned);
    free(over);
    close_side(&a);
    forget(&b);
    return over_processor;
}

static void measure_all_frames(int frames)
{
    spread agents[2], one[2], four[2];
    printf("%-10s %6s  %-8s %9s %9s %9s %9s %11s   microseconds\n", "", "agents", "by", "p50", "p99", "p99.9", "worst", "processor");
    int grown = measure_frames("frame", 0, 0, frames, 1, agents);
    grown += measure_frames("policy", 1, 1, frames, 20, one);
    grown += measure_frames("policy", 4, 1, frames, 20, four);
    printf("%-14s %6s %9s %8s %9s %11s %9s %11s %9s %9s   microseconds\n", "in slices", "budget", "planning", "slices", "longest", "over, most:",
           "of it", "over, most:", "p99", "p50");
    printf("%-14s %6s %9s %8s %9s %11s %9s %11s\n", "", "", "p50", "a run", "batch", "processor", "batches", "wall");
    measure_slices("frame", 50, frames);
    const double over = measure_slices("treelstm-sick", 500, frames / 30 + 2);
    printf("the clocks alone: the longest gap of half a second was %.1f of wall time, %.1f of the processor's\n", longest_gap(now_seconds),
           longest_gap(processor_seconds));
    printf("RESULT frame agents_p50_us=%.1f agents_p99_us=%.1f agents_by_hand_us=%.1f robot1_over_hand=%.3f robot4_over_hand=%.3f allocations=%d "
           "slice_over_us=%.1f\n",
           agents[0].p50, agents[0].p99, agents[1].p50, one[0].p50 / one[1].p50, four[0].p50 / four[1].p50, grown, over);
}
