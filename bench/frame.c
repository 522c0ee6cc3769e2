/* frame: how long a frame of a game and a step of a robot take, beside the same in plain C.

     cc -O3 -march=native -c -o policy.o bench/policy.c && cc -O2 -o bench/frame bench/frame.c policy.o -lm -lpthread
     bench/frame [frames]

   Frames of the library and by hand alternate in one process. A frame of agents is recorded anew each time, for
   neighbours change; a robot's step is recorded once and replayed. Times are by the wall clock, which a busy
   machine disturbs: the longest gap of the clock alone is printed beside them, and the mean of processor time. */
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
#include "side.h"

/* How often the contexts asked for memory. */
static long allocations;
static void *counted_alloc(size_t size, size_t align, void *user)
{
    (void)user;
    allocations++;
    char *raw = (char *)malloc(size + align + sizeof(void *));
    if (!raw) return NULL;
    char *bytes = raw + sizeof(void *);
    bytes += (align - (uintptr_t)bytes % align) % align;
    memcpy(bytes - sizeof(void *), &raw, sizeof(void *));
    return bytes;
}
static void counted_free(void *memory, size_t size, void *user)
{
    void *raw;
    (void)size, (void)user;
    memcpy(&raw, (char *)memory - sizeof(void *), sizeof(void *));
    free(raw);
}

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
   too coarse for one short step. */
static void measure_frames(const char *name, int batch, int replay, int frames, int steps, spread of[2])
{
    options o = { .workload = name, .compare = MANUAL, .schedule = RATIO, .threads = 1, .seed = 1, .seconds = 1, .replay = replay };
    const workload *w = workloads;
    while (strcmp(w->name, name)) w++;
    bench b = { &o, w, w->s, 0, 0, NULL };
    side sides[2];
    double *seconds[2], processor[2] = { 0, 0 };
    if (batch) b.s.batch = batch;
    generate(&b);
    open_side(&sides[0], &b, RATIO);
    open_side(&sides[1], &b, MANUAL);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.memory.alloc = counted_alloc;
    d.memory.free = counted_free;
    fold_ctx_free(sides[0].ctx);
    sides[0].ctx = fold_ctx_new(sides[0].model, &d);
    for (int k = 0; k < 2; k++) seconds[k] = (double *)take(NULL, (size_t)frames, sizeof **seconds);
    for (int i = -2 * b.rotation; i < frames; i++)
        for (int k = 0; k < 2; k++) {
            if (!i) allocations = 0; /* what was before was to warm up */
            const double began = processor_seconds();
            double whole = 0;
            for (int step = 0; step < steps; step++) whole += run_batch(&sides[k], &b, (i + 2 * b.rotation) % b.rotation, 0, NULL);
            if (i < 0) continue;
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

int main(int argc, char **argv)
{
    const int frames = argc > 1 ? atoi(argv[1]) : 3000;
    spread agents[2], one[2], four[2];
    long asked = 0;
    if (frames < 1) die("frame takes a number of frames", "");
    policy_of_agents = policy_by_hand;
    (void)measure, (void)result_of, (void)manual_bytes, (void)read_bandwidth; /* the bench's */
    printf("%-10s %6s  %-8s %9s %9s %9s %9s %11s   microseconds\n", "", "agents", "by", "p50", "p99", "p99.9", "worst", "processor");
    measure_frames("frame", 0, 0, frames, 1, agents);
    asked += allocations;
    measure_frames("policy", 1, 1, frames, 20, one);
    asked += allocations;
    measure_frames("policy", 4, 1, frames, 20, four);
    asked += allocations;
    printf("the clock alone: the longest gap of half a second was %.1f\n", longest_gap());
    printf("RESULT frame agents_p50_us=%.1f agents_p99_us=%.1f agents_by_hand_us=%.1f robot1_over_hand=%.3f robot4_over_hand=%.3f allocations=%ld\n",
           agents[0].p50, agents[0].p99, agents[1].p50, one[0].p50 / one[1].p50, four[0].p50 / four[1].p50, asked);
    return 0;
}
