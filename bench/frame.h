/* frame.h: how long a frame of a game and a step of a robot take, beside the same by hand.

   Frames of the library and by hand alternate in one process. A frame of agents is recorded anew each time, for
   neighbours change; a robot's step is recorded once and replayed. Times are by the wall clock, which a busy
   machine disturbs: the longest gap of the clock alone is printed beside them, and the mean of processor time. */

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

/* The longest time between two looks at the clock. */
static double longest_gap(void)
{
    double last = now_seconds(), longest = 0;
    for (const double end = last + 0.5; last < end;) {
        const double now = now_seconds();
        if (now - last > longest) longest = now - last;
        last = now;
    }
    return 1e6 * longest;
}

static void measure_all_frames(int frames)
{
    spread agents[2], one[2], four[2];
    printf("%-10s %6s  %-8s %9s %9s %9s %9s %11s   microseconds\n", "", "agents", "by", "p50", "p99", "p99.9", "worst", "processor");
    int grown = measure_frames("frame", 0, 0, frames, 1, agents);
    grown += measure_frames("policy", 1, 1, frames, 20, one);
    grown += measure_frames("policy", 4, 1, frames, 20, four);
    printf("the clock alone: the longest gap of half a second was %.1f\n", longest_gap());
    printf("RESULT frame agents_p50_us=%.1f agents_p99_us=%.1f agents_by_hand_us=%.1f robot1_over_hand=%.3f robot4_over_hand=%.3f allocations=%d\n",
           agents[0].p50, agents[0].p99, agents[1].p50, one[0].p50 / one[1].p50, four[0].p50 / four[1].p50, grown);
}
