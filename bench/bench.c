/* bench: how fast fold.h runs a workload, as a table or as one JSON object a line.

     cc -O2 -o bench/bench bench/bench.c bench/policy.c -lm -lpthread
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
#include "side.h"
#include "export.h"
#include "gemm.h"
#include "attention.h"
#include "decode.h"
#include "frame.h"
#include "../examples/options.h"

/* ---- printing ----------------------------------------------------------------------------- */

/* How long the timed batches take where each lane has a processor, and what part of that runs while the other lanes wait. */
static double step_of(const side *a) { return a->whole - a->lanes + a->longest; }
static double alone_of(const side *a) { return (a->whole - a->lanes) / step_of(a); }

static void print_result(const bench *b, const side *a, const measured *m, const char *other)
{
    const result r = result_of(a, b);
    const fold_stats s = fold_ctx_stats(a->ctx);
    const double whole = r.stage[WHOLE], peak = 0.5 * (m->peak_before + m->peak_after) * b->o->threads;
    const double nodes = a->nodes / a->timed, batches = a->batches / a->timed, bound = a->lower_bound / a->timed;
    const double units = r.units / r.samples * b->s.batch; /* of one batch, on average */
    const double per_unit = 1e9 / r.units, per_node = nodes > 0 ? per_unit * units / nodes : 0;
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
        if (a->traced > 0) printf("  %.1f %% %s", 100 * a->share / a->traced, a->share_of);
        if (a->lanes > 0) printf("  %d threads: %.1f %% alone, %.2f x", b->o->threads, 100 * alone_of(a), a->whole / step_of(a));
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
    printf(",\"arena_peak_bytes\":%zu,\"value_bytes\":%zu,\"without_reuse_bytes\":%zu,\"pack_bytes\":%zu,\"plan_hits\":%d,\"plan_cache\":%s,"
           "\"dedupe\":%s,\"optimiser_ns_per_sample\":%.1f",
           arena, s.value_bytes, s.without_reuse_bytes, s.pack_bytes, s.plan_hits, b->o->plan_cache ? "true" : "false",
           b->o->dedupe ? "true" : "false", r.stage[OPTIMISE] * 1e9 / r.samples);
    printf(",\"input\":%d,\"hidden\":%d,\"softmax\":%s,\"cells\":%s,\"batches_timed\":%.0f", b->s.input, b->s.hidden, b->s.softmax ? "true" : "false",
           b->s.cells ? "true" : "false", a->timed);
    if (other) printf(",\"compare\":\"%s\",\"ratio\":%.4f", other, m->ratio);
    if (a->traced > 0) printf(",\"share_of\":\"%s\",\"share\":%.4f", a->share_of, a->share / a->traced);
    if (a->lanes > 0) printf(",\"alone\":%.4f,\"reach\":%.4f", alone_of(a), a->whole / step_of(a));
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

static sizes sizes_of(const workload *w, const sizes *given, int by_hand)
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
    if (w->record == policy_record && by_hand && (s.input != POLICY_IN || s.hidden != POLICY_HIDDEN || s.classes != POLICY_OUT))
        die("by hand the policy has fixed sizes", "");
    return s;
}

static void run_workload(const options *o, const workload *w, int training, int compare)
{
    bench b = { o, w, sizes_of(w, &o->s, o->schedule == MANUAL || compare == MANUAL), training, 0, NULL };
    side sides[2];
    const int n = compare >= 0 ? 2 : 1;
    generate(&b);
    if (o->export) {
        export_batch(&b);
        forget(&b);
        return;
    }
    open_side(&sides[0], &b, o->schedule);
    if (n == 2) open_side(&sides[1], &b, (schedule)compare);
    const measured m = measure(sides, n, &b);
    print_result(&b, &sides[0], &m, n == 2 ? schedule_names[compare] : NULL);
    if (n == 2) print_result(&b, &sides[1], &m, NULL);
    fflush(stdout);
    for (int i = 0; i < n; i++) close_side(&sides[i]);
    forget(&b);
}

/* ---- command line ------------------------------------------------------------------------- */

static const char usage[] =
    "usage: bench [options]\n"
    "Without --workload all workloads run, in both modes.\n"
    "  --workload NAME       treelstm-sick, treelstm-sst, treelstm-tiny, lstm-lm, mnist-mlp, chain, lattice, bilstm-tagger,\n"
    "                        pointer, crf, attention, frame, graph, transformer, policy, policy-mlp, gru, gemm, attention-kernels,\n"
    "                        mixed-1, -2, -5, -10, -16, -20, -60 (trees of so many kinds of nodes), ed-lattice, shift-reduce, limbs,\n"
    "                        primitive-ops (trees of treelstm-sst without cells),\n"
    "                        decode (--batch: sequences)\n"
    "  --mode infer|train    --batch N    --threads N    --seconds S (default 1; of timing, for each line)\n"
    "  --schedule ratio|depth|agenda|eager|manual    --compare NAME: a second schedule, alternating batch by batch;\n"
    "                        manual: treelstm-*, chain, frame (infer) and policy only, by hand\n"
    "                        the first line's ratio is the median of the second's time to the first's\n"
    "  --isa avx512|avx2|portable    --dedupe on|off    --plan-cache on|off    --group-bytes N\n"
    "  --block on|off        on: each recording in a new context in a block of exactly the size that it was measured to need\n"
    "  --replay on|off       on: the same recording again by fold_replay\n"
    "  --in-turn on|off      on: what threads share runs lane by lane on one processor; tells what part of a step runs alone, and how many\n"
    "                        times as fast as one thread those --threads would be that never wait for each other or for memory\n"
    "  --weights float|bf16|int8  bf16, int8: in 16 or 8 bits, for inference; --compare floats beside it\n"
    "  --flush on|off        on: subnormal numbers are flushed to zero\n"
    "  --sorted on|off       transformer only; on: batches of sentences in order of length\n"
    "  --share NAME          prints what part of the traced time the batches of ops whose names begin so take\n"
    "  --frames N            N frames of agents and steps of robots, by turns with the same by hand: median, tail and worst\n"
    "  --json                one object a line    --clock wall|processor (the latter: of one thread, or --in-turn)\n"
    "  --export PATH         nothing is timed: writes PATH.samples, PATH.values and, of the first batch, PATH.outputs; in training these are\n"
    "                        losses, and PATH.gradients those of their mean. Wants --workload and --mode\n"
    "  --seed N    --input N    --hidden N    --words N    --classes N\n"
    "  --nodes-min N --nodes-max N, --leaves-min N --leaves-max N, --length-min N --length-max N: of a sample\n"
    "  --vocabulary N        as --words    --softmax on|off: lstm-lm only\n"
    "  --cells on|off        off: the same networks in primitive ops, without cells (and without the prologues cells allow)\n"
    "Leaves are min + two uniform draws of 0 to (max - min) / 2. Times are by the wall clock unless said; the peak is one core's times --threads.\n";

static int on_off(const char *name, const char *text)
{
    if (!strcmp(text, "on")) return 1;
    if (strcmp(text, "off")) die(name, " is on or off");
    return 0;
}
static int bits_of(const char *text) /* of weights that are quantized; 0: floats */
{
    if (!strcmp(text, "float")) return 0;
    if (strcmp(text, "int8") && strcmp(text, "bf16")) die("--weights are float, bf16 or int8, not ", text);
    return strcmp(text, "bf16") ? 8 : 16;
}
/* A question of the processor's clock is a system call, which takes as long as a small run: as long as the quickest turn says. */
static void choose_clock(const char *text)
{
    enum { TURNS = 20, QUESTIONS = 500 };
    double least = 1;
    if (!strcmp(text, "wall")) return;
    if (strcmp(text, "processor")) die("the --clock is wall or processor, not ", text);
    now_clock = CLOCK_PROCESS_CPUTIME_ID;
    for (int turn = 0; turn < TURNS; turn++) {
        const double start = now_seconds();
        for (int i = 1; i < QUESTIONS; i++) now_seconds();
        least = fmin(least, (now_seconds() - start) / QUESTIONS);
    }
    asking = least;
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
                                         "leaves-min", "leaves-max", "length-min", "length-max", "threads", "seed", "frames" };
    int *const at[] = { &o->s.batch, &o->s.input, &o->s.hidden, &o->s.words, &o->s.words, &o->s.classes, &o->s.min, &o->s.max,
                        &o->s.min, &o->s.max, &o->s.min, &o->s.max, &o->threads, &o->seed, &o->frames };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (!strncmp(name, "--", 2) && !strcmp(name + 2, names[i])) return at[i];
    return NULL;
}

static options parse(int argc, char **argv)
{
    options o = { .schedule = RATIO, .compare = -1, .threads = 1, .seed = 1, .seconds = 1, .s = { -1, -1, -1, -1, -1, -1, -1, -1, -1 } };
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "-h") || !strcmp(name, "--help")) { fputs(usage, stdout); exit(0); }
        if (!strcmp(name, "--json")) { o.json = 1; continue; }
        if (++i == argc) { fputs(usage, stderr); exit(1); }
        const char *value = argv[i];
        int *at = number_of(&o, name);
        if (at) *at = (int)option_whole(argc, argv, i - 1, 0, INT_MAX);
        else if (!strcmp(name, "--workload")) o.workload = value;
        else if (!strcmp(name, "--mode")) o.mode = value;
        else if (!strcmp(name, "--isa")) o.isa = value;
        else if (!strcmp(name, "--schedule")) o.schedule = (schedule)schedule_of(value);
        else if (!strcmp(name, "--compare")) o.compare = schedule_of(value);
        else if (!strcmp(name, "--seconds")) o.seconds = option_number(argc, argv, i - 1, 0, 1e6);
        else if (!strcmp(name, "--group-bytes")) o.group_bytes = (size_t)option_whole(argc, argv, i - 1, 0, PTRDIFF_MAX);
        else if (!strcmp(name, "--softmax")) o.s.softmax = on_off(name, value);
        else if (!strcmp(name, "--cells")) o.s.cells = on_off(name, value);
        else if (!strcmp(name, "--dedupe")) o.dedupe = on_off(name, value);
        else if (!strcmp(name, "--plan-cache")) o.plan_cache = on_off(name, value);
        else if (!strcmp(name, "--replay")) o.replay = on_off(name, value);
        else if (!strcmp(name, "--in-turn")) o.in_turn = on_off(name, value);
        else if (!strcmp(name, "--block")) o.block = on_off(name, value);
        else if (!strcmp(name, "--weights")) o.bits = bits_of(value);
        else if (!strcmp(name, "--flush")) o.flush = on_off(name, value);
        else if (!strcmp(name, "--sorted")) o.sorted = on_off(name, value);
        else if (!strcmp(name, "--share")) o.share = value;
        else if (!strcmp(name, "--export")) o.export = value;
        else if (!strcmp(name, "--clock")) choose_clock(value);
        else { fprintf(stderr, "bench: no option %s\n", name); exit(1); }
    }
    if (o.mode && strcmp(o.mode, "infer") && strcmp(o.mode, "train")) die("no such mode: ", o.mode);
    if (o.threads < 1 || o.threads > 64) die("1 to 64 threads", "");
    if (o.export && (!o.workload || !o.mode)) die("--export is of one --workload and --mode", "");
    if (o.threads > 1 && !o.in_turn && now_clock != CLOCK_MONOTONIC) die("the processor's clock is of one thread", "");
    if (o.threads > 1 && (o.schedule >= EAGER || o.compare >= EAGER)) die("eager and manual are of one thread", "");
    return o;
}

/* What is written by hand: of a frame and a policy, forward alone. */
static int is_by_hand(const char *name, int training)
{
    return !strncmp(name, "treelstm", 8) || !strcmp(name, "chain") || (!strcmp(name, "frame") && !training) || !strcmp(name, "policy");
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    int found = 0;
    policy_of_agents = policy_by_hand;
    if (o.frames > 0) {
        measure_all_frames(o.frames);
        return 0;
    }
    for (int i = 0; i < N_WORKLOADS; i++) {
        const workload *w = &workloads[i];
        if (o.workload && strcmp(o.workload, w->name)) continue;
        /* lstm-lm has two rows: asked for by name alone, the first is meant */
        if (i && !strcmp(w->name, w[-1].name) && (o.s.softmax > 0 || (o.workload && o.s.softmax < 0))) continue;
        if (w->s.softmax && !o.s.softmax) continue;
        if (o.sorted && strcmp(w->name, "transformer")) continue;
        for (int training = 0; training < 2; training++) {
            if (o.mode && training != !strcmp(o.mode, "train")) continue;
            if (training && (w->opt == OPT_NONE || o.bits)) continue;
            if ((o.schedule == MANUAL || o.compare == MANUAL) && !is_by_hand(w->name, training)) continue;
            if (!found++) print_header(&o);
            run_workload(&o, w, training, o.compare);
        }
    }
    if (!o.workload || !strcmp(o.workload, "gemm")) {
        gemm_run(o.isa, o.seconds, o.json);
        found++;
    }
    if (!o.workload || !strcmp(o.workload, "attention-kernels")) {
        attend_run(o.isa, o.seconds, o.json);
        found++;
    }
    if (!o.workload || !strcmp(o.workload, "decode")) {
        decode_run(&o);
        found++;
    }
    if (!found) die("no such workload (or it is not trained): ", o.workload ? o.workload : "");
    return 0;
}
