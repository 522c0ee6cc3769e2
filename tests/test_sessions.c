/* test_sessions.c - the numerics contract: batching never changes a result. A session is a list of steps made
   from a seed: recordings on several contexts of one model, of any settings; runs of some roots, several
   backwards, reads in between; steps of optimisers, freezing, saving and loading. It is executed twice, the
   second time with contexts that are eager, and all values, gradients and parameters must have the same bits.
   A session that fails is made as small as it can be, and printed as a program in C that shows the
   difference. With --file, its recordings are written as well, for examples/replay.c.

   Then recordings are held to reference.h, value by value and gradient by gradient: sessions_reference.h.

   test_sessions [--sessions N] [--seed S] [--shrink SECONDS] [--fork] [--file PREFIX] [--reference N] [--accuracy]
                 [--print FILE.c]
   --fork runs each session in a process of its own, so that those that crash are shrunk, too. --file: the
   programs go to files PREFIX<seed>.c, and sessions go on after a failure. Fewer than 1000 sessions need not
   use every op a hundred times. --reference: how many sessions' recordings are held to the reference;
   --accuracy prints the worst error of each op, of what is allowed. --print FILE.c writes recordings of N sessions
   as C, with what they must give, instead: sessions_printed.h.
       cc -O2 -o test_sessions tests/test_sessions.c -lm */

#define FOLD__SHARED_WORK 500 /* small batches, too */
#define FOLD__LONG_LIST 2 /* lists of few rows run in strips, too */
#define FOLD__BLOCK_ROWS 16 /* few rows make several blocks, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_FIT_IMPLEMENTATION
#include "../examples/fold_fit.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "../examples/fold_torch.h"
#define FOLD_RECORD_IMPLEMENTATION
#include "../examples/fold_record.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "../examples/fold_to_c.h"
#include "check.h"
#include "reference.h"
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/wait.h>
#include <unistd.h>
#define CAN_FORK 1
#else
#define CAN_FORK 0
#endif

#include "sessions_code.h"
#include "../examples/options.h"
#include "sessions_graph.h"

/* -- sessions ---------------------------------------------------------------------------------------- */

/* What a step does; a[0] is its context, or from SGD on its model, unless it says otherwise. */
#define STEP_LIST(X)                                                                                  \
    X(RECORD)     /* a[1]: graph; a[2]: on top of what is there; a[3]: only what is before the cut */ \
    X(RUN)        /* the values list[0 .. n) that are recorded; a[2]: in slices; a[3]: begun before */ \
    X(READ)       /* what is kept */                                                                  \
    X(BACKWARD)   /* from loss a[1], the root if there is no such loss; a[2]: in slices */            \
    X(REPLAY)     /* the last run; a[1]: how memory changes before; a[2]: in slices */                \
    X(READ_GRADS) /* those that are kept, and of the parameters */                                    \
    X(PRINT)      /* the recording, or what ran */                                                    \
    X(FIT)        /* of a training context; a[1]: a key */                                            \
    X(PREDICT)    /* of a[1] samples */                                                               \
    X(RESET)                                                                                          \
    X(SGD)                                                                                            \
    X(ADAGRAD)                                                                                        \
    X(RMSPROP) X(ADAM) X(CLEAR) X(CLIP) X(WRITE) X(WRITE_GRADS) /* of parameter a[1] */               \
        X(FREEZE)        /* parameter a[1], or no longer if a[2] is 0 */                              \
        X(RATES)         /* of group a[1] */                                                          \
        X(WRITE_ROWS)    /* of a table's gradient */                                                  \
        X(COPY)          /* the other model's values, or a part of the way to them if a[2] */         \
        X(MEASURE)                                                                                    \
        X(SEAL) X(QUANTIZE) /* tables too if a[2], to bits a[1]. Contexts are reset after both */     \
        X(SAVE) X(LOAD)  /* file a[1], with the optimiser's state if a[2]; a[3]: by what */
enum step_kind {
#define STEP_NAME(name) STEP_##name,
    STEP_LIST(STEP_NAME) STEPS
};
static const char *const step_name[] = {
#define STEP_TEXT(name) #name,
    STEP_LIST(STEP_TEXT)
};

enum { MAX_GRAPHS = 3, MAX_CONTEXTS = 4, MAX_STEPS = 40, MAX_ROOTS = 4 };
typedef struct step {
    int kind, a[4], n, list[MAX_ROOTS];
    float x[3];
} step;
typedef struct setting {
    int model, home, training, dedupe, schedule, threads, refs; /* refs: indices are read from memory */
    size_t group_bytes, plan_cache_bytes;
} setting;
typedef struct session {
    uint64_t seed;
    int hidden, output, wide, piece, fading;
    int flocks; /* nearly all is lists that could run some rows at a time */
    int quantizes, in_place; /* the model of inference: weights become bytes, are read in place */
    int n_graphs, n_contexts, n_steps;
    uint8_t part[PARTS];
    setting context[MAX_CONTEXTS];
    step step[MAX_STEPS];
    graph graph[MAX_GRAPHS];
} session;

static const char *const schedule_code[FOLD_SCHEDULE_COUNT] = { "FOLD_SCHEDULE_RATIO", "FOLD_SCHEDULE_DEPTH",
                                                                "FOLD_SCHEDULE_AGENDA" };
static const char *const home_text[HOMES] = { "ON_HEAP", "MEASURED", "TOLD", "EAGER_IN_BLOCK" };

static int changes_values(int kind)
{
    return (kind >= STEP_SGD && kind <= STEP_ADAM) || kind == STEP_WRITE || kind == STEP_LOAD || kind == STEP_COPY ||
           kind == STEP_FIT;
}

/* -- making a session ---------------------------------------------------------------------------------- */

static gen generator;

static void choose_sizes(session *s, check_random *r)
{
    static const int sizes[] = { 8, 8, 8, 4, 6, 12, 16, 20 };
    s->hidden = hidden = sizes[random_below(r, 8)];
    s->output = output = 4 + random_below(r, 2 * hidden);
    s->piece = piece = 1 + random_below(r, hidden - 1);
    s->wide = wide = random_below(r, 4) ? 9 + random_below(r, 20) : 70;
    s->quantizes = !random_below(r, 3);
    s->in_place = !random_below(r, 5);
}

static void choose_graphs(session *s, check_random *r)
{
    limits l = { 0, 0, 0, 0, 0 };
    s->n_graphs = 1 + random_below(r, MAX_GRAPHS);
    for (int i = 0; i < s->n_graphs; i++) {
        const int again = i && !random_below(r, 3); /* the structure of the one before, with other data */
        l.data = random_bits(r);
        if (!again) {
            const int size = random_below(r, 12);
            l.structure = random_bits(r);
            l.samples = size ? 1 + random_below(r, 8) : 8 + random_below(r, MAX_SAMPLES - 8);
            l.steps = size == 1 ? 20 + random_below(r, 20) : 1 + random_below(r, 6);
            l.flocks = s->flocks ? 1 + random_below(r, 3) : 0;
            l.samples = s->flocks ? random_below(r, 2) : l.samples;
        }
        generator.no_matrices = s->quantizes;
        graph_make(&generator, &s->graph[i], &l);
    }
}

static void choose_contexts(session *s, check_random *r)
{
    static const size_t budgets[4] = { SIZE_MAX, 0, 4096, 1000 }, of_flocks[4] = { 0, 4096, 1500, 300 };
    s->n_contexts = 1 + random_below(r, MAX_CONTEXTS);
    for (int i = 0; i < s->n_contexts; i++) {
        setting *c = &s->context[i];
        c->training = !i || random_below(r, 3) > 0;
        c->model = !c->training && random_below(r, 2);
        c->dedupe = !random_below(r, 4) && !s->flocks;
        c->schedule = random_below(r, FOLD_SCHEDULE_COUNT);
        c->group_bytes = (s->flocks ? of_flocks : budgets)[random_below(r, 4)];
        c->plan_cache_bytes = random_below(r, 2) ? 0 : random_below(r, 3) ? 400000 : 30000;
        c->threads = random_below(r, 4) ? 0 : 2 + random_below(r, 3);
        c->refs = !c->dedupe && random_below(r, 2);
        c->home = random_below(r, 2) ? ON_HEAP : random_below(r, HOMES);
    }
}

static void choose_settings(step *t, check_random *r)
{
    static const float rates[] = { 0.01f, 0.1f, 0.001f }, momenta[] = { 0, 0.9f },
                       decays[] = { 0, 0.01f, 0.1f };
    t->x[0] = rates[random_below(r, t->kind == STEP_SGD ? 3 : 1)];
    t->x[1] = momenta[random_below(r, 2)];
    t->x[2] = decays[random_below(r, 3)];
    t->a[0] = 0; /* the model that is trained */
    t->a[2] = random_below(r, 2);
    if (t->kind == STEP_COPY || t->kind == STEP_SEAL || t->kind == STEP_MEASURE)
        t->a[0] = random_below(r, 2);
    if (t->kind == STEP_RATES)
        t->a[1] = random_below(r, 3);
    else if (t->kind == STEP_SAVE || t->kind == STEP_LOAD)
        t->a[1] = 0, t->a[3] = random_below(r, 10) ? random_below(r, 2) : 2;
    else if (t->kind == STEP_QUANTIZE)
        t->a[0] = 1, t->a[1] = 8 << random_below(r, 2);
    else if (t->kind == STEP_WRITE_ROWS)
        t->a[1] = random_below(r, 2) ? TABLE : WORDS;
    else
        t->a[1] = random_below(r, PARAMS);
}

static int choose_slices(check_random *r)
{
    return random_below(r, 3) ? 0 : 1 + random_below(r, 6);
}

static void choose_run(session *s, step *t, int kind, int context, const int *graph, check_random *r)
{
    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->a[0] = context;
    switch (kind) {
    case STEP_RECORD:
        t->a[1] = random_below(r, 2) ? graph[context]
                                     : random_below(r, s->n_graphs); /* plans are of what comes again */
        t->a[3] = !random_below(r, 5);
        break;
    case STEP_RUN:
        t->a[2] = choose_slices(r);
        t->a[3] = !random_below(r, 10);
        t->n = random_below(r, 8) ? 1 + random_below(r, MAX_ROOTS) : 0;
        for (int i = 0; i < t->n; i++)
            t->list[i] = random_below(r, s->graph[graph[context]].n_values);
        if (t->n > 1 && random_below(r, 2))
            t->list[0] = s->graph[graph[context]].root;
        break;
    case STEP_BACKWARD:
        t->a[1] = random_below(r, 3) ? MAX_SAMPLES : random_below(r, MAX_SAMPLES);
        t->a[2] = choose_slices(r);
        break;
    case STEP_FIT:
    case STEP_PREDICT: t->a[1] = random_below(r, 12); break;
    case STEP_REPLAY:
        t->a[1] = random_below(r, 4) ? 1 + random_below(r, 100) : 0;
        t->a[2] = choose_slices(r);
        break;
    default: break;
    }
}

/* Steps as programs take them, mostly: record, run or differentiate, read, update. */
static void choose_steps(session *s, check_random *r)
{
    int graph[MAX_CONTEXTS] = { 0, 0, 0, 0 }, saved = 0, by_path = 0, quantized = s->in_place;
    const int n = 3 + random_below(r, 12) + (random_below(r, 8) ? 0 : 20);
    while (s->n_steps < n) {
        step *t = &s->step[s->n_steps];
        const int c = random_below(r, s->n_contexts), way = random_below(r, 100);
        const int training = s->context[c].training;
        int kind = way < 28   ? STEP_RECORD
                   : way < 42 ? STEP_RUN
                   : way < 50 ? STEP_READ
                   : way < 66 ? STEP_BACKWARD
                   : way < 72 ? STEP_READ_GRADS
                   : way < 76 ? STEP_PRINT + random_below(r, 4)
                   : way < 79 ? STEP_REPLAY
                              : STEP_SGD + random_below(r, STEPS - STEP_SGD);
        if (!training && (kind == STEP_BACKWARD || kind == STEP_READ_GRADS))
            kind = STEP_RUN;
        if (!training && kind == STEP_FIT)
            kind = STEP_PREDICT;
        if (kind == STEP_QUANTIZE || kind == STEP_SEAL)
            kind = s->quantizes ? STEP_QUANTIZE : STEP_SEAL;
        if (kind == STEP_LOAD && !saved)
            kind = STEP_SAVE;
        if (saved && !random_below(r, 8))
            kind = STEP_LOAD;
        choose_run(s, t, kind, c, graph, r);
        if (kind >= STEP_SGD)
            choose_settings(t, r);
        saved |= kind == STEP_SAVE;
        by_path |= kind == STEP_SAVE && t->a[3] == 2;
        quantized |= kind == STEP_QUANTIZE;
        if (kind == STEP_LOAD) {
            t->a[3] -= t->a[3] == 2 && !by_path;
            t->a[0] = !s->in_place && random_below(r, 2);
            t->a[2] &= !t->a[0]; /* an inference model has no state */
        }
        if (kind == STEP_COPY && quantized) /* neither bytes nor an image are copied */
            t->kind = kind = STEP_MEASURE;
        s->n_steps++;
        if (kind != STEP_RECORD)
            continue;
        graph[c] = t->a[1];
        const int again = random_below(r, 2) ? 3 + random_below(r, 5) : 3;
        for (int i = 0; i < again && s->n_steps < n; i++) { /* to be run, and the rest recorded then, and read */
            const int next = i == 1 && t->a[3] && random_below(r, 2) ? STEP_RECORD
                             : i > 2 && random_below(r, 3)    ? STEP_REPLAY
                             : i > 1                          ? (training ? STEP_READ_GRADS : STEP_READ)
                             : i == 1 && again > 3            ? STEP_REPLAY
                             : training && random_below(r, 3) ? STEP_BACKWARD
                                                              : STEP_RUN;
            if (!random_below(r, 4))
                continue;
            choose_run(s, &s->step[s->n_steps], next, c, graph, r);
            if (next == STEP_RECORD) {
                s->step[s->n_steps].a[1] = graph[c];
                s->step[s->n_steps].a[2] = 1;
                s->step[s->n_steps].a[3] = 0;
            }
            s->n_steps++;
        }
    }
}

static void session_make(session *s, uint64_t seed)
{
    check_random mix = { seed }, r = { random_bits(&mix) };
    s->seed = seed;
    s->fading = seed % 8 == 5;
    s->flocks = seed % 8 == 2;
    s->n_steps = 0;
    memset(s->part, 1, sizeof s->part);
    choose_sizes(s, &r);
    s->part[PART_TORCH] = (uint8_t)!s->in_place; /* what is read from elsewhere lies in no image */
    describe_cells();
    choose_graphs(s, &r);
    choose_contexts(s, &r);
    choose_steps(s, &r);
}

/* -- what a session shows -------------------------------------------------------------------------------- */

/* How a session fails: it shows other bits, or a call succeeds in one of the twins only, or in neither. */
enum verdict { SAME, DIFFERS, BATCHED_FAILS, EAGER_FAILS, BOTH_FAIL, CRASHES };
static const char *const verdict_text[] = { "same",  "differs", "fails when batched", "fails when eager",
                                            "fails", "crashes" };

enum { MAX_SEEN = 30000000 };
static struct {
    float *seen; /* by the eager twin */
    size_t n_seen, at;
    int step, failed[2], differs;
    int ended; /* by a NaN: what is made of one is not compared */
    char text[2][500];
} sight;

static int over(void) { return sight.failed[turn == EAGERLY] || sight.differs || sight.ended; }

static void look(const char *what, int at, const float *x, size_t n)
{
    static const char *const of[] = { "", " (gradient)" };
    for (size_t i = 0; i < n && turn != TELLING && !over(); i++) {
        const float got = x ? x[i] : 12345.0f;
        if (turn == EAGERLY) {
            sight.ended |= isnan(got);
            if (sight.n_seen < MAX_SEEN)
                sight.seen[sight.n_seen++] = got;
            continue;
        }
        const float want = sight.at < sight.n_seen ? sight.seen[sight.at++] : 54321.0f;
        sight.ended = isnan(want);
        if (sight.ended || !memcmp(&got, &want, sizeof got))
            continue;
        sight.differs = 1;
        snprintf(sight.text[0], sizeof sight.text[0],
                 "step %d: %s %d%s, element %d of %d: %.9g, eager %.9g%s", sight.step, what, at, of[at == -2],
                 (int)i, (int)n, (double)got, (double)want, x ? "" : " (cannot be read)");
    }
}

static void status(fold_status got, const char *message)
{
    if (got == FOLD_OK || over())
        return;
    sight.failed[turn == EAGERLY] = (int)got;
    snprintf(sight.text[turn == EAGERLY], sizeof sight.text[0], "step %d%s: %s: %s", sight.step,
             turn == TELLING ? ", where blocks are told" : "", fold_status_text(got), message);
}

static char path_text[200] = "sessions.safetensors";
static const char *path(void) { return path_text; }

/* -- printing C --------------------------------------------------------------------------------------------
 */

/* Words of the code, and what stands for them in the program that is printed. */
typedef struct word {
    const char *name;
    char text[120];
} word;
typedef struct words {
    int n;
    word word[40];
} words;

static void add_word(words *w, const char *name, const char *format, ...) CHECK_PRINTF(3, 4);
static void add_word(words *w, const char *name, const char *format, ...)
{
    va_list args;
    word *to = &w->word[w->n++];
    to->name = name;
    va_start(args, format);
    vsnprintf(to->text, sizeof to->text, format, args);
    va_end(args);
}

static int is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A word alone; `indexed` finds it before a bracket only, otherwise not there and not as a member of
 * anything. */
static int has_word(const char *code, const char *name, int indexed)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(code, name); at; at = strstr(at + 1, name))
        if (!is_word(at[n]) && (at == code || !is_word(at[-1])) && (at[n] == '[') == indexed)
            return 1;
    return 0;
}

static int names(const char *code, const char *name)
{
    return has_word(code, name, 0) || has_word(code, name, 1);
}

/* Words may end in a digit in brackets: in[0] stands for more than in. */
static size_t find_word(const words *w, const char *code, size_t n, int *found)
{
    const size_t longer = code[n] == '[' && code[n + 1] && code[n + 2] == ']' ? n + 3 : n;
    for (size_t length = longer; length; length = length == n ? 0 : n)
        for (int k = 0; k < w->n; k++) {
            if (strlen(w->word[k].name) != length || strncmp(w->word[k].name, code, length))
                continue;
            *found = k;
            return length;
        }
    return 0;
}

static void print_code(FILE *to, const char *code, const words *w)
{
    while (*code) {
        size_t n = 0, length;
        int k = 0;
        while (is_word(code[n]))
            n++;
        length = n ? find_word(w, code, n, &k) : 0;
        if (length)
            fputs(w->word[k].text, to);
        else
            fprintf(to, "%.*s", (int)(n ? n : 1), code);
        code += length ? length : n ? n : 1;
    }
}

static void print_float(FILE *to, float x)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", (double)x);
    fprintf(to, "%s%sf", text, strpbrk(text, ".ein") ? "" : ".0");
}

/* A piece of sessions_code.h, which the preprocessor made one line, as lines. */
static void print_piece(FILE *to, const char *code)
{
    int depth = 0, inside = 0; /* inside: parentheses or an initialiser, where lines are not broken */
    for (; *code; code++) {
        if (*code == '(' || (inside && *code == '{'))
            inside++;
        if (!strncmp(code, "= {", 3)) {
            fputs("= ", to);
            code += 2;
            inside++;
        }
        fputc(*code, to);
        if (*code == ')' || (inside && *code == '}'))
            inside--;
        else if (!inside && *code == '{')
            depth++;
        else if (!inside && *code == '}')
            depth--;
        const int ends = *code == ';' || *code == '{' ||
                         (*code == '}' && !inside && code[1] == ' ' && (depth || strncmp(code, "} net;", 6)));
        if (inside || !ends || (*code == '}' && code[-1] == '}'))
            continue;
        if (code[1] == ' ')
            code++;
        if (!strncmp(code, " }", 2) && depth)
            fprintf(to, "\n%*s", 4 * (depth - 1), "");
        else
            fprintf(to, "\n%*s", 4 * depth, "");
    }
    fputc('\n', to);
}

/* -- what is left of a graph that was shrunk --------------------------------------------------------- */

static struct {
    int number[MAX_VALUES];      /* of values, in a printed program */
    uint8_t skipped[MAX_ITEMS];  /* not recorded */
    uint8_t crosses[MAX_VALUES]; /* made before the cut, needed behind it */
    int n_values;
} left[MAX_GRAPHS];

/* The value itself, or, of an item that was left out, the operand that stands for it. */
static int stands_for(const graph *g, int v)
{
    const item *t = &g->items[g->values[v].item];
    while (t->mode >= ALIAS) {
        v = g->operands[t->in0 + t->mode - ALIAS];
        t = &g->items[g->values[v].item];
    }
    return v;
}

/* Values that steps name. */
static void mark_named(const session *s, uint8_t (*needed)[MAX_VALUES])
{
    int graph_of[MAX_CONTEXTS] = { 0, 0, 0, 0 };
    for (int k = 0; k < s->n_steps; k++) {
        const step *t = &s->step[k];
        if (t->kind == STEP_RECORD)
            graph_of[t->a[0]] = t->a[1];
        if (t->kind != STEP_RUN && t->kind != STEP_BACKWARD)
            continue;
        const graph *g = &s->graph[graph_of[t->a[0]]];
        uint8_t *mine = needed[graph_of[t->a[0]]];
        for (int i = 0; i < t->n; i++)
            if (t->list[i] < g->n_values)
                mine[stands_for(g, t->list[i])] = 1;
        if (t->kind == STEP_BACKWARD)
            mine[stands_for(g, t->a[1] < g->n_losses ? g->losses[t->a[1]] : g->root)] = 1;
    }
}

static void find_left(const session *s)
{
    static uint8_t needed[MAX_GRAPHS][MAX_VALUES];
    memset(needed, 0, sizeof needed);
    mark_named(s, needed);
    for (int i = 0; i < s->n_graphs; i++) {
        const graph *g = &s->graph[i];
        memset(left[i].crosses, 0, sizeof left[i].crosses);
        left[i].n_values = 0;
        for (int k = g->n_items - 1; k >= 0; k--) {
            const item *t = &g->items[k];
            int named = t->mode == MADE;
            for (int o = 0; o < t->n_out; o++)
                named |= needed[i][t->out0 + o];
            left[i].skipped[k] = (uint8_t)(t->mode >= ALIAS || !named);
            for (int o = 0; o < t->n_in && t->mode == MADE; o++) {
                const int v = stands_for(g, g->operands[t->in0 + o]);
                needed[i][v] = 1;
                if (k >= g->cut && g->values[v].item < g->cut)
                    left[i].crosses[v] = 1;
            }
        }
        for (int k = 0; k < g->n_items; k++)
            for (int o = 0; o < g->items[k].n_out; o++) {
                const int v = g->items[k].out0 + o;
                left[i].number[v] =
                    left[i].skipped[k] ? left[i].number[stands_for(g, v)] : left[i].n_values++;
            }
    }
}

static int is_kept(const session *s, int graph, int v, int how)
{
    const value *x = &s->graph[graph].values[v];
    if (left[graph].skipped[x->item])
        return 0;
    if (how == KEEP && left[graph].crosses[v] &&
        !(x->is_param && s->graph[graph].items[x->item].mode == MADE))
        return 1;
    return (x->keep & how) != 0;
}

/* -- playing a recording ------------------------------------------------------------------------------- */

/* Where the program goes; NULL: the session is executed. Recordings are functions, each printed once. */
static FILE *print_to;
static int print_records;

static void print_list(int graph, const int *list, int n)
{
    fprintf(print_to, "const int list[] = { ");
    for (int i = 0; i < n; i++)
        fprintf(print_to, "%s%d", i ? ", " : "", left[graph].number[list[i]]);
    fprintf(print_to, "%s };", n ? "" : "0");
}

static void print_shape(char *to, size_t size, fold_shape s)
{
    int at = snprintf(to, size, "fold_shape%d(", s.rank);
    for (int i = 0; i < s.rank; i++)
        at += snprintf(to + at, size - (size_t)at, "%s%d", i ? ", " : "", s.dim[i]);
    snprintf(to + at, size - (size_t)at, ")");
}

static void item_words(words *w, const session *s, int graph, const item *t)
{
    static const char *const names[3] = { "in[0]", "in[1]", "in[2]" };
    const struct graph *g = &s->graph[graph];
    const int i0 = t->i[0], i1 = t->i[1], calls = is_call(t->op);
    const int fixed = calls ? cells[i0].d.n_in : 0, n_list = calls ? cells[i0].d.n_list : 0;
    const char *code = op_code[t->op];
    char shape[120];
    w->n = 0;
    if (!has_word(code, "in", 0))
        for (int i = 0; i < t->n_in && i < 3; i++)
            add_word(w, names[i], "v[%d]", left[graph].number[stands_for(g, g->operands[t->in0 + i])]);
    if (t->n_out)
        add_word(w, "out[0]", "v[%d]", left[graph].number[t->out0]);
    if (t->n_out)
        add_word(w, "out", "v + %d", left[graph].number[t->out0]);
    add_word(w, "outs", "%d", t->n_out);
    add_word(w, "count", "%d", t->n_in);
    add_word(w, "fixed", "%d", fixed);
    add_word(w, "elements", "%d", n_list ? (t->n_in - fixed) / n_list : 0);
    add_word(w, "i0", "%d", i0);
    add_word(w, "i1", "%d", i1);
    add_word(w, "i2", "%d", t->i[2]);
    add_word(w, "x", "%.9g%sf", (double)t->x, t->x == (float)(int)t->x ? "." : "");
    add_word(w, "key", "0x%llxu", (unsigned long long)t->key);
    if (has_word(code, "W", 0))
        add_word(w, "W", "n->param[%s]", param_text[i0]);
    if (i1 < 0)
        add_word(w, "b", "none");
    else
        add_word(w, "b", "n->param[%s]", param_text[i1 % PARAMS]);
    if (calls)
        add_word(w, "cell", "n->cell[%s]", cell_text[i0]);
    if (has_word(code, "layer", 0))
        add_word(w, "layer", "&n->recurrent[%s]", layer_text[i0]);
    add_word(w, "size", "%d", t->n_out ? g->values[t->out0].shape.dim[0] : 0);
    print_shape(shape, sizeof shape, g->values[t->out0].shape);
    add_word(w, "shape", "%s", shape);
    add_word(w, "rows", "%d", g->values[t->out0].rows);
    add_word(w, "floats", "%d", floats_of(g, t));
    add_word(w, "at_data", "%d", t->at_data);
    add_word(w, "indices", "%d", t->n_indices);
    add_word(w, "at_index", "%d", t->at_index);
}

/* How many floats of data an item has; one that nothing reads for a list without rows. */
static int data_of(const graph *g, const item *t)
{
    const char *code = op_code[t->op];
    const value *v = &g->values[t->out0];
    if (!has_word(code, "data", 0) && !has_word(code, "data", 1))
        return 0;
    return v->list && !v->rows ? 1 : rows_of(v) * size_of(v->shape);
}

static void print_item(const session *s, int graph, const item *t)
{
    static words w;
    const struct graph *g = &s->graph[graph];
    const char *code = op_code[t->op];
    const int block = has_word(code, "in", 0), data = t->mode == MADE ? data_of(g, t) : 0,
              index = t->mode == MADE && has_word(code, "index", 0);
    fprintf(print_to, "    ");
    if (t->mode == STUBBED) {
        char shape[120];
        for (int i = 0; i < t->n_out; i++) {
            print_shape(shape, sizeof shape, g->values[t->out0 + i].shape);
            fprintf(print_to, "v[%d] = stub(f, %s, %d);%s", left[graph].number[t->out0 + i], shape,
                    g->values[t->out0 + i].rows, i + 1 < t->n_out ? " " : "");
        }
        fprintf(print_to, "\n");
        return;
    }
    item_words(&w, s, graph, t);
    if (block || data || index)
        fprintf(print_to, "{ ");
    if (block)
        fprintf(print_to, "const fold_node in[] = { ");
    for (int i = 0; block && i < t->n_in; i++)
        fprintf(print_to, "%sv[%d]", i ? ", " : "",
                left[graph].number[stands_for(g, g->operands[t->in0 + i])]);
    if (block)
        fprintf(print_to, "%s }; ", t->n_in ? "" : "{ 0, 0 }");
    if (data)
        fprintf(print_to, "static const float data[] = { ");
    for (int i = 0; i < data; i++) {
        if (i)
            fprintf(print_to, ", ");
        print_float(print_to, g->data[t->at_data + i]);
    }
    if (data)
        fprintf(print_to, " }; ");
    if (index)
        fprintf(print_to, "static const int index[] = { %s", t->n_indices ? "" : "0");
    for (int i = 0; i < t->n_indices && index; i++)
        fprintf(print_to, "%s%d", i ? ", " : "", g->indices[t->at_index + i]);
    if (index)
        fprintf(print_to, " }; ");
    print_code(print_to, code, &w);
    fprintf(print_to, ";%s\n", block || data || index ? " }" : "");
}

/* The fault that the test of shrinking looks for: after a step of Adagrad batched contexts scale by a little
 * more. */
static struct {
    int wanted, armed;
} fault;
static long used[OPS];

static const item *wrong_item(const item *t)
{
    static item other;
    other = *t;
    other.x = t->x * 1.000001f;
    return &other;
}

static void play_items(fold_ctx *f, const net *n, const session *s, int graph, int from, int to, fold_node *v,
                       memory *r)
{
    const struct graph *g = &s->graph[graph];
    fold_node in[MAX_LIST];
    for (int k = from; k < to; k++) {
        const item *t = &g->items[k];
        if (left[graph].skipped[k])
            continue;
        if (print_to) {
            print_item(s, graph, t);
            continue;
        }
        for (int i = 0; i < t->n_out && t->mode == STUBBED; i++)
            v[t->out0 + i] = stub(f, g->values[t->out0 + i].shape, g->values[t->out0 + i].rows);
        if (t->mode == STUBBED)
            continue;
        for (int i = 0; i < t->n_in; i++)
            in[i] = v[stands_for(g, g->operands[t->in0 + i])];
        used[t->op] += turn == BATCHED;
        play_item(f, n, g, fault.armed && t->op == OP_scale ? wrong_item(t) : t, in, v + t->out0, r);
    }
}

static int list_kept(const session *s, int graph, int from, int to, int how, const uint8_t *only, int *list)
{
    const struct graph *g = &s->graph[graph];
    int n = 0;
    for (int v = 0; v < g->n_values; v++)
        if (g->values[v].item >= from && g->values[v].item < to && is_kept(s, graph, v, how) &&
            (!only || only[v]))
            list[n++] = v;
    return n;
}

/* Records items [from, to), and names what is kept of them. */
static void play_segment(fold_ctx *f, const net *n, const session *s, int graph, int from, int to,
                         fold_node *v, memory *r)
{
    static int list[MAX_VALUES];
    if (print_to)
        fprintf(print_to,
                "static void record_%d_%d_%d(fold_ctx *f, const net *n, fold_node *v, memory *r)\n{\n"
                "    (void)n, (void)r;\n",
                graph, from, to);
    play_items(f, n, s, graph, from, to, v, r);
    for (int how = KEEP; how <= KEEP_GRAD; how++) {
        const int count = list_kept(s, graph, from, to, how, NULL, list);
        if (!print_to && how == KEEP)
            keep(f, v, list, count);
        else if (!print_to)
            keep_grads(f, v, list, count);
        else if (count) {
            fprintf(print_to, "    { ");
            print_list(graph, list, count);
            fprintf(print_to, " keep%s(f, v, list, %d); }\n", how == KEEP ? "" : "_grads", count);
        }
    }
    if (print_to)
        fprintf(print_to, "}\n");
}

/* -- playing a session: executing it, or printing what it does ---------------------------------------------
 */

typedef struct live {
    fold_ctx *f;
    int graph, recorded, ran, stale; /* recorded: items; ran: of those, when they were run last */
    int lost;                        /* kept gradients, by having been recorded again */
    int runs, thawed;                /* since the recording began; what gets a gradient may have changed */
    int moved;                       /* memory is no more what it was: until a reset there are only replays */
    uint8_t readable[MAX_VALUES];    /* has a gradient */
    fold_node v[MAX_VALUES];
    memory memory;
} live;

static struct {
    net nets[2];
    live live[MAX_CONTEXTS];
    long kinds[STEPS];
    long homes[HOMES];
    size_t run_nodes, batched_nodes, groups, runs, plan_hits, slices, replays;
} world;

/* Does what the code says, or prints it with its words replaced. list: NULL, or the values it names. */
#define DO(...)                                                    \
    do {                                                           \
        if (!print_to) {                                           \
            __VA_ARGS__;                                           \
        } else {                                                   \
            print_call(live_of(t), #__VA_ARGS__, &w, list, count); \
        }                                                          \
    } while (0)

static const live *live_of(const step *t) { return &world.live[t->a[0]]; }

static void print_call(const live *c, const char *code, const words *w, const int *list, int count)
{
    const int block = has_word(code, "list", 0);
    if (print_records)
        return;
    fprintf(print_to, "    ");
    if (block) {
        fprintf(print_to, "{ ");
        print_list(c->graph, list, count);
        fprintf(print_to, " ");
    }
    print_code(print_to, code, w);
    fprintf(print_to, ";%s\n", block ? " }" : "");
}

static void print_record(const session *s, int context, int graph, int from, int to)
{
    static struct {
        int graph, from, to;
    } done[MAX_STEPS * 2];
    static int n_done;
    if (!print_records) {
        fprintf(print_to, "record_%d_%d_%d(c[%d], &nets[%d], v[%d], &r[%d]);", graph, from, to, context,
                s->context[context].model, context, context);
        n_done = 0;
        return;
    }
    for (int i = 0; i < n_done; i++)
        if (done[i].graph == graph && done[i].from == from && done[i].to == to)
            return;
    done[n_done].graph = graph;
    done[n_done].from = from;
    done[n_done++].to = to;
    play_segment(NULL, NULL, s, graph, from, to, NULL, NULL);
}

/* Records items [from, to) of a graph; from the first one, in a context that was reset. `again`: of an eager
   context alone, which must be reset when values of parameters changed. */
static void record(const session *s, int context, int graph, int from, int to, int again)
{
    live *c = &world.live[context];
    const int model = s->context[context].model;
    if (print_to) {
        if (!print_records)
            fprintf(print_to, again ? "    if (is_eager(%d)) { " : "    ", context);
        if (!print_records && !from)
            fprintf(print_to, "fold_ctx_reset(c[%d]); ", context);
        if (!print_records && !from && !again && s->graph[graph].caches)
            fprintf(print_to, "begin_caches(&r[%d]); ", context);
        print_record(s, context, graph, from, to);
        if (!print_records)
            fprintf(print_to, again ? " }\n" : "\n");
    } else if (!again || is_eager(context)) {
        if (!from)
            fold_ctx_reset(c->f);
        if (!from && !again && s->graph[graph].caches)
            begin_caches(&c->memory);
        play_segment(c->f, &world.nets[model], s, graph, from, to, c->v, &c->memory);
    }
}

/* Values of parameters changed since it was recorded. What was kept is gone, and gradients of values. */
static void renew(const session *s, int context)
{
    live *c = &world.live[context];
    if (!c->stale)
        return;
    record(s, context, c->graph, 0, c->recorded, 1);
    c->stale = c->ran = 0;
    c->lost = 1;
}

/* Which values have a gradient after differentiating `root`. */
static void mark_readable(const session *s, live *c, int root)
{
    const struct graph *g = &s->graph[c->graph];
    static uint8_t bears[MAX_VALUES];
    memset(bears, 0, sizeof bears);
    bears[root] = 1;
    for (int k = c->recorded - 1; k >= 0; k--) {
        const item *t = &g->items[k];
        int any_bears = 0;
        if (left[c->graph].skipped[k] || t->mode != MADE || t->op == OP_stop_gradient)
            continue;
        for (int i = 0; i < t->n_out; i++)
            any_bears |= bears[t->out0 + i];
        for (int i = 0; i < t->n_in && any_bears; i++)
            if (i != 1 || (t->op != OP_bce && t->op != OP_softmax_kl))
                bears[stands_for(g, g->operands[t->in0 + i])] = 1;
    }
    for (int v = 0; v < g->n_values; v++)
        c->readable[v] |= bears[v];
}

static void play_record(const session *s, const step *t)
{
    live *c = &world.live[t->a[0]];
    const struct graph *g = &s->graph[t->a[1]];
    const int to = t->a[3] ? g->cut : g->n_items, more = t->a[2] && c->recorded && c->graph == t->a[1] && !c->moved;
    if (more && c->recorded >= to)
        return;
    if (more)
        renew(s, t->a[0]);
    record(s, t->a[0], t->a[1], more ? c->recorded : 0, to, 0);
    c->graph = t->a[1];
    c->recorded = to;
    if (more)
        return;
    c->ran = c->stale = c->lost = c->runs = c->thawed = c->moved = 0;
    memset(c->readable, 0, sizeof c->readable);
}

/* The only run of what was recorded, again, and what is kept. */
static void play_replay(const session *s, const step *t)
{
    static int list[MAX_VALUES];
    static words w;
    live *c = &world.live[t->a[0]];
    fold_ctx *f = c->f;
    fold_node *v = c->v;
    memory *r = &c->memory;
    const int key = t->a[1], slices = t->a[2];
    if (c->runs != 1 || c->thawed || c->ran != c->recorded)
        return;
    w.n = 0;
    add_word(&w, "f", "c[%d]", t->a[0]);
    add_word(&w, "v", "v[%d]", t->a[0]);
    add_word(&w, "r", "&r[%d]", t->a[0]);
    add_word(&w, "key", "%d", key);
    add_word(&w, "slices", "%d", slices);
    const int count = list_kept(s, c->graph, 0, c->ran, KEEP, NULL, list);
    add_word(&w, "count", "%d", count);
    DO(replay(f, r, key, slices));
    if (count)
        DO(look_values(f, v, list, count));
    c->stale = c->lost = 0;
    c->moved = 1;
    if (print_to || turn != BATCHED)
        return;
    world.replays++;
    if (slices > 1)
        world.slices++;
}

/* Runs and reads; a context without a recording does nothing. */
static void play_run(const session *s, const step *t)
{
    static int list[MAX_VALUES];
    static words w;
    live *c = &world.live[t->a[0]];
    const struct graph *g = &s->graph[c->graph];
    fold_ctx *f = c->f;
    fold_node *v = c->v;
    memory *r = &c->memory;
    const int slices = t->a[2];
    int count = 0, root;
    w.n = 0;
    add_word(&w, "r", "&r[%d]", t->a[0]);
    add_word(&w, "f", "c[%d]", t->a[0]);
    add_word(&w, "v", "v[%d]", t->a[0]);
    add_word(&w, "slices", "%d", slices);
    if (t->kind == STEP_READ) {
        if (c->ran && !c->stale)
            count = list_kept(s, c->graph, 0, c->ran, KEEP, NULL, list);
        add_word(&w, "count", "%d", count);
        if (count)
            DO(look_values(f, v, list, count));
        return;
    }
    if (t->kind == STEP_READ_GRADS) {
        fold_model *m = world.nets[0].m;
        if (!c->lost && !c->stale)
            count = list_kept(s, c->graph, 0, c->recorded, KEEP_GRAD, c->readable, list);
        add_word(&w, "count", "%d", count);
        add_word(&w, "m", "nets[0].m");
        if (count)
            DO(look_grads(f, v, list, count));
        DO(look_params(m));
        return;
    }
    if (t->kind == STEP_PRINT) {
        DO(print_all(f));
        return;
    }
    if (t->kind == STEP_REPLAY) {
        play_replay(s, t);
        return;
    }
    if (c->moved)
        return;
    root = stands_for(g, t->a[1] < g->n_losses ? g->losses[t->a[1]] : g->root);
    if (t->kind == STEP_BACKWARD && (!s->context[t->a[0]].training || g->values[root].item >= c->recorded))
        return;
    renew(s, t->a[0]);
    if (t->kind == STEP_BACKWARD) {
        list[0] = root;
        add_word(&w, "root", "%d", left[c->graph].number[root]);
        DO(backward(f, v[root], slices));
        mark_readable(s, c, root);
    } else {
        for (int i = 0; i < t->n; i++)
            if (g->values[t->list[i]].item < c->recorded && !g->values[t->list[i]].is_param)
                list[count++] = stands_for(g, t->list[i]);
        add_word(&w, "count", "%d", count);
        c->runs += !count || t->a[3]; /* what one that is given up has computed already is not told */
        if (t->a[3])
            DO(begin_only(f, v, list, count));
        DO(run(f, v, list, count, slices));
        if (g->caches)
            DO(end_caches(r));
        c->moved = c->moved || g->outputs;
        if (!count)
            return; /* nothing to do: nothing is done */
        DO(look_values(f, v, list, count));
    }
    c->ran = c->recorded;
    c->runs++;
    c->moved = c->moved || g->outputs;
    c->thawed = 0;
    if (print_to)
        return;
    if (slices > 1 && turn == BATCHED)
        world.slices++;
    const fold_stats x = fold_ctx_stats(f);
    if (turn != BATCHED || is_eager(t->a[0]))
        return;
    world.runs++;
    world.run_nodes += x.run_nodes;
    world.batched_nodes += x.batched_nodes;
    world.groups += x.groups;
}

/* The loops of training and inference, which leave no recording that is known. */
static void play_loop(const session *s, const step *t)
{
    static words w;
    const int *list = NULL, count = 0, key = t->a[1], model = s->context[t->a[0]].model;
    live *c = &world.live[t->a[0]];
    fold_ctx *f = c->f;
    const net *n = &world.nets[model];
    w.n = 0;
    add_word(&w, "f", "c[%d]", t->a[0]);
    add_word(&w, "n", "&nets[%d]", model);
    add_word(&w, "key", "%d", key);
    if (t->kind == STEP_FIT)
        DO(fit(f, n, key));
    else
        DO(predict(f, n, key));
    c->recorded = c->ran = c->stale = c->moved = 0;
    for (int i = 0; i < s->n_contexts && t->kind == STEP_FIT; i++)
        if (s->context[i].model == model && world.live[i].recorded)
            world.live[i].stale = 1;
}

/* What changed is read when contexts record anew. */
static void reset_contexts(const session *s, int model)
{
    for (int i = 0; i < s->n_contexts; i++) {
        live *c = &world.live[i];
        if (s->context[i].model != model)
            continue;
        if (!print_to)
            fold_ctx_reset(c->f);
        else if (!print_records)
            fprintf(print_to, "    fold_ctx_reset(c[%d]);\n", i);
        c->recorded = c->ran = c->stale = c->moved = 0;
    }
}

/* Steps of the model's. */
static void play_model(const session *s, const step *t)
{
    static words w;
    const int *list = NULL, count = 0, at = t->a[1], on = t->a[2];
    const float rate = t->x[0], momentum = t->x[1], decay = t->x[2];
    net *n = &world.nets[t->a[0]];
    fold_model *m = n->m, *other = world.nets[!t->a[0]].m;
    const fold_param p = n->param[at % PARAMS];
    const int by = t->a[3];
    w.n = 0;
    add_word(&w, "m", "nets[%d].m", t->a[0]);
    add_word(&w, "other", "nets[%d].m", !t->a[0]);
    add_word(&w, "by", "%d", by);
    add_word(&w, "p", "nets[%d].param[%s]", t->a[0], param_text[at % PARAMS]);
    add_word(&w, "at", "%d", at);
    add_word(&w, "on", "%d", on);
    add_word(&w, "rate", "%.9g%sf", (double)rate, rate == (float)(int)rate ? "." : "");
    add_word(&w, "momentum", "%.9g%sf", (double)momentum, momentum == (float)(int)momentum ? "." : "");
    add_word(&w, "decay", "%.9g%sf", (double)decay, decay == (float)(int)decay ? "." : "");
    switch (t->kind) {
    case STEP_SGD: DO(sgd(m, rate, momentum, decay)); break;
    case STEP_ADAGRAD:
        fault.armed = fault.wanted && turn == BATCHED;
        DO(adagrad(m, rate, 1e-6f, decay));
        break;
    case STEP_RMSPROP: DO(rmsprop(m, rate, 0.9f, 1e-6f, decay)); break;
    case STEP_ADAM: DO(adam(m, rate, 0.9f, 1e-6f, decay, on)); break;
    case STEP_CLEAR: DO(clear(m)); break;
    case STEP_CLIP: DO(clip(m, 0.5f)); break;
    case STEP_WRITE: DO(write_values(m, p, 0.9f)); break;
    case STEP_WRITE_GRADS: DO(write_grads(m, p, 0.25f)); break;
    case STEP_FREEZE: DO(freeze(m, p, on)); break;
    case STEP_RATES: DO(scale_rates(m, at)); break;
    case STEP_WRITE_ROWS: DO(write_rows(m, p)); break;
    case STEP_COPY: DO(copy(m, other, on)); break;
    case STEP_MEASURE: DO(measure(m)); break;
    case STEP_SEAL: DO(seal(m)); break;
    case STEP_QUANTIZE: DO(quantize(m, on, at)); break;
    case STEP_SAVE: DO(save(m, at, on, by)); break;
    case STEP_LOAD: DO(load(m, at, on, by)); break;
    default: break;
    }
    if (t->kind == STEP_SEAL || t->kind == STEP_QUANTIZE)
        reset_contexts(s, t->a[0]);
    for (int i = 0; i < s->n_contexts && t->kind == STEP_FREEZE; i++) world.live[i].thawed = 1;
    for (int i = 0; i < s->n_contexts && changes_values(t->kind); i++)
        if (s->context[i].model == t->a[0] && world.live[i].recorded)
            world.live[i].stale = 1;
}

static void play_step(const session *s, const step *t)
{
    if (print_to && !print_records)
        fprintf(print_to, "    /* %s */\n", step_name[t->kind]);
    if (t->kind == STEP_RECORD) {
        play_record(s, t);
    } else if (t->kind == STEP_RESET) {
        live *c = &world.live[t->a[0]];
        if (!print_to)
            fold_ctx_reset(c->f);
        else if (!print_records)
            fprintf(print_to, "    fold_ctx_reset(c[%d]);\n", t->a[0]);
        c->recorded = c->ran = c->stale = c->moved = 0;
    } else if (t->kind > STEP_RESET) {
        play_model(s, t);
    } else if (t->kind == STEP_FIT || t->kind == STEP_PREDICT) {
        play_loop(s, t);
    } else if (world.live[t->a[0]].recorded) {
        play_run(s, t);
    }
}

static void play_steps(const session *s)
{
    for (int i = 0; i < s->n_contexts; i++)
        world.live[i].recorded = world.live[i].ran = world.live[i].stale = world.live[i].moved = 0;
    for (int k = 0; k < s->n_steps && (print_to || !over()); k++) {
        sight.step = k;
        play_step(s, &s->step[k]);
        if (!print_to)
            world.kinds[s->step[k].kind]++;
    }
}

static int models_of(const session *s)
{
    int n = 1;
    for (int i = 0; i < s->n_contexts; i++)
        n = s->context[i].model ? 2 : n;
    for (int k = 0; k < s->n_steps; k++)
        n = s->step[k].kind > STEP_RESET && (s->step[k].a[0] || s->step[k].kind == STEP_COPY) ? 2 : n;
    return n;
}

static void make_net(net *n, int inference, const session *s)
{
    const uint8_t *part = s->part;
    new_model(n, inference);
    if (inference && s->in_place)
        image(n->m, world.nets[0].m);
#define MAKE(name, ...)      \
    if (part[PART_##name]) { \
        __VA_ARGS__;         \
    }
    PART_LIST(MAKE)
    status(fold_model_status(n->m), fold_model_message(n->m));
}

/* Writes what a context has recorded at the end, for examples/replay.c. */
static const char *recordings; /* the prefix of their files; NULL: none */
static void write_recording(const session *s, int context)
{
    char name[320];
    snprintf(name, sizeof name, "%s%llu_%d.foldrecord", recordings, (unsigned long long)s->seed, context);
    FILE *to = fopen(name, "wb");
    if (!to)
        return;
    const fold_record_result written = fold_record_write(world.live[context].f, NULL, fold_to_file, to);
    fclose(to);
    if (written.status) {
        printf("%s is not written: %s\n", name, written.message);
        remove(name);
    }
}

static void execute(const session *s, enum turn by)
{
    const int models = models_of(s);
    turn = by;
    sight.step = 0;
    for (int i = 0; i < models; i++)
        make_net(&world.nets[i], i, s);
    for (int i = 0; i < s->n_contexts; i++) {
        const setting *c = &s->context[i];
        world.live[i].f = new_context(&world.nets[c->model], i, c->home, c->training, c->dedupe, c->schedule,
                                      c->group_bytes, c->plan_cache_bytes, c->threads);
        status(world.live[i].f ? FOLD_OK : FOLD_NO_MEMORY, "no context");
        memory *r = &world.live[i].memory;
        r->n_data = r->n_index = 0;
        r->refs = c->refs;
        r->training = c->training;
        memset(r->cache, 0, sizeof r->cache);
        memset(r->known, 0, sizeof r->known);
    }
    if (!over())
        play_steps(s);
    if (!over())
        look_params(world.nets[0].m);
    for (int i = 0; i < s->n_contexts; i++) {
        if (turn == BATCHED && world.live[i].f)
            world.plan_hits += fold_ctx_stats(world.live[i].f).plan_hits;
        if (turn == BATCHED && world.live[i].f && recordings)
            write_recording(s, i);
        world.homes[s->context[i].home] += turn == BATCHED;
        close_context(world.live[i].f, i);
    }
    for (int i = 0; i < models; i++)
        close_model(&world.nets[i], i);
    remove(path());
}

static enum verdict judge(const session *s)
{
    hidden = s->hidden;
    fading = s->fading;
    output = s->output;
    wide = s->wide;
    piece = s->piece;
    describe_cells();
    find_left(s);
    sight.n_seen = sight.at = 0;
    sight.failed[0] = sight.failed[1] = sight.differs = sight.ended = fault.armed = 0;
    sight.text[0][0] = sight.text[1][0] = 0;
    execute(s, EAGERLY);
    sight.ended = 0;
    int told = 0;
    for (int i = 0; i < s->n_contexts; i++)
        told |= s->context[i].home == MEASURED || s->context[i].home == TOLD;
    if (told)
        execute(s, TELLING);
    execute(s, BATCHED);
    if (sight.failed[0] && sight.failed[1])
        return BOTH_FAIL;
    if (sight.failed[1])
        return EAGER_FAILS;
    if (sight.failed[0])
        return BATCHED_FAILS;
    return sight.differs ? DIFFERS : SAME;
}

/* In a process of its own, so that it may crash. */
static enum verdict judge_apart(const session *s)
{
#if CAN_FORK
    int ends[2], ended = 0;
    fflush(stdout);
    if (pipe(ends))
        return judge(s);
    const pid_t child = fork();
    if (!child) {
        alarm(20); /* one that does not end crashes */
        const int verdict = (int)judge(s);
        const ssize_t written = write(ends[1], sight.text, sizeof sight.text);
        _exit(written == (ssize_t)sizeof sight.text ? verdict : CRASHES);
    }
    close(ends[1]);
    const ssize_t got = read(ends[0], sight.text, sizeof sight.text);
    close(ends[0]);
    waitpid(child, &ended, 0);
    if (got == (ssize_t)sizeof sight.text && WIFEXITED(ended))
        return (enum verdict)WEXITSTATUS(ended);
    snprintf(sight.text[0], sizeof sight.text[0], "it crashes");
    return CRASHES;
#else
    return judge(s);
#endif
}

/* -- printing a session as a program --------------------------------------------------------------------- */

static const char program_look[] =
    "static const char *const turn_name[] = { \"eager\", \"telling\", \"batched\" };\n"
    "static int wrong;\n"
    "static float seen[4000000];\n"
    "static size_t at_seen;\n"
    "static void look(const char *what, int at, const float *x, size_t n)\n"
    "{\n"
    "    for (size_t i = 0; i < n && turn != TELLING; i++) {\n"
    "        const float got = x ? x[i] : 12345.0f; /* which cannot be read */\n"
    "        if (turn == EAGERLY) seen[at_seen++] = got;\n"
    "        else if (!memcmp(&seen[at_seen++], &got, sizeof got) || (got != got && seen[at_seen - 1] != "
    "seen[at_seen - 1])) continue;\n"
    "        else if (wrong++ < 20)\n"
    "            printf(\"%s %d%s, element %d of %d: %.9g, eager %.9g\\n\", what, at, at == -2 ? \" "
    "(gradient)\" : \"\", (int)i, (int)n,\n"
    "                   (double)got, (double)seen[at_seen - 1]);\n"
    "    }\n"
    "}\n"
    "static const char *path(void) { return \"session.safetensors\"; }\n"
    "static void status(fold_status got, const char *message)\n"
    "{\n"
    "    if (got != FOLD_OK) printf(\"%s: %s: %s\\n\", turn_name[turn], "
    "fold_status_text(got), message);\n"
    "    wrong += got != FOLD_OK;\n"
    "}\n\n";

static void print_session(const session *s)
{
    const int models = models_of(s);
    int most = 1;
    for (int i = 0; i < s->n_graphs; i++)
        most = left[i].n_values > most ? left[i].n_values : most;
    print_records = 1;
    play_steps(s);
    print_records = 0;
    fprintf(print_to,
            "\nstatic void session(void)\n{\n    static net nets[%d];\n    static fold_node v[%d][%d];\n"
            "    static memory r[%d];\n    memset(r, 0, sizeof r);\n",
            models, s->n_contexts, most, s->n_contexts);
    fprintf(print_to, "    fold_ctx *c[%d];\n    at_seen = 0;\n    for (int i = 0; i < %d; i++) {\n",
            s->n_contexts, models);
    fprintf(print_to, "        net *n = &nets[i];\n        new_model(n, i);\n");
    if (s->in_place && models > 1)
        fprintf(print_to, "        if (i) image(n->m, nets[0].m);\n");
#define PRINT_PART(name, ...) \
    if (s->part[PART_##name]) \
        fprintf(print_to, "        %s;\n", #__VA_ARGS__);
    PART_LIST(PRINT_PART)
    fprintf(print_to, "        status(fold_model_status(n->m), fold_model_message(n->m));\n    }\n");
    fprintf(print_to, "    /* number, home, training, dedupe, schedule, group_bytes, plan_cache_bytes, threads */\n");
    for (int i = 0; i < s->n_contexts; i++) {
        const setting *c = &s->context[i];
        fprintf(print_to, "    c[%d] = new_context(&nets[%d], %d, %s, %d, %d, %s, ", i, c->model, i,
                home_text[c->home], c->training, c->dedupe, schedule_code[c->schedule]);
        if (c->group_bytes == SIZE_MAX)
            fprintf(print_to, "SIZE_MAX, ");
        else
            fprintf(print_to, "%d, ", (int)c->group_bytes);
        fprintf(print_to, "%d, %d);\n", (int)c->plan_cache_bytes, c->threads);
        if (c->refs)
            fprintf(print_to, "    r[%d].refs = 1;\n", i);
        if (c->training)
            fprintf(print_to, "    r[%d].training = 1;\n", i);
    }
    play_steps(s);
    fprintf(print_to, "    look_params(nets[0].m);\n");
    fprintf(print_to, "    for (int i = 0; i < %d; i++) close_context(c[i], i);\n", s->n_contexts);
    fprintf(print_to, "    for (int i = 0; i < %d; i++) close_model(&nets[i], i);\n}\n\n", models);
    fprintf(print_to, "int main(void)\n{\n    for (int i = EAGERLY; i <= BATCHED; i++) {\n"
                      "        turn = (enum turn)i;\n        session();\n    }\n");
    fprintf(print_to, "    printf(\"%%d differences\\n\", wrong);\n    return wrong != 0;\n}\n");
}

/* Pieces that the text names, and those that these name. */
static void print_pieces(FILE *to, const char *text)
{
    static const struct {
        const char *name, *code;
    } piece_row[] = {
#define PIECE_ROW(name) { #name, name##_code },
        PIECE_LIST(PIECE_ROW)
    };
    enum { PIECES = sizeof piece_row / sizeof *piece_row };
    int used[PIECES];
    for (int k = PIECES - 1; k >= 0; k--) {
        used[k] = names(text, piece_row[k].name);
        for (int i = k + 1; i < PIECES; i++)
            used[k] |= used[i] && names(piece_row[i].code, piece_row[k].name);
    }
    for (int k = 0; k < PIECES; k++)
        if (used[k])
            print_piece(to, piece_row[k].code);
}

static void print_names(FILE *to, const char *const *names, int n, const char *last)
{
    fprintf(to, "enum { ");
    for (int i = 0; i < n; i++)
        fprintf(to, "%s%s", names[i], i % 12 == 11 ? ",\n       " : ", ");
    fprintf(to, "%s };\n", last);
}

static int print_program(FILE *to, const session *s, const char *found)
{
    FILE *body = tmpfile();
    if (!body)
        return 0;
    print_to = body;
    print_session(s);
    print_to = NULL;
    const long n = ftell(body);
    char *text = (char *)calloc(1, (size_t)n + 1);
    rewind(body);
    const size_t got = text ? fread(text, 1, (size_t)n, body) : 0;
    fclose(body);
    fprintf(to, "/* cc -I. -o session session.c -lm\n   Session %llu %s: %s */\n",
            (unsigned long long)s->seed, found, sight.text[0][0] ? sight.text[0] : sight.text[1]);
    fprintf(to, "#define FOLD__SHARED_WORK 500\n#define FOLD__LONG_LIST 2\n#define FOLD__BLOCK_ROWS 16\n#define FOLD_IMPLEMENTATION\n#include \"fold.h\"\n"
                "#define FOLD_FIT_IMPLEMENTATION\n#include \"examples/fold_fit.h\"\n#define FOLD_TORCH_IMPLEMENTATION\n#include \"examples/fold_torch.h\"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n");
    fprintf(to, "static const int hidden = %d, output = %d, wide = %d, piece = %d, fading = %d;\n", s->hidden,
            s->output, s->wide, s->piece, s->fading);
    print_names(to, param_text, PARAMS, "PARAMS");
    print_names(to, cell_text, CELLS, "CELLS");
    print_names(to, layer_text, RECURRENT, "RECURRENT");
    fprintf(to, "static const fold_param none = { 0, 0 };\n");
    print_piece(to, turn_code);
    fputs(program_look, to);
    if (text)
        print_pieces(to, text);
    fprintf(to, "\n%.*s", (int)got, text ? text : "");
    free(text);
    return 1;
}

/* -- shrinking ---------------------------------------------------------------------------------------------
 */

/* A way to make a session smaller at places [at, at + n) of count(s): 0 if there is nothing to do there. */
typedef struct shrinker {
    const char *name;
    int (*count)(const session *s);
    int (*change)(session *s, int at, int n);
} shrinker;

static int count_steps(const session *s) { return s->n_steps; }
static int drop_steps(session *s, int at, int n)
{
    memmove(s->step + at, s->step + at + n, (size_t)(s->n_steps - at - n) * sizeof *s->step);
    s->n_steps -= n;
    return 1;
}

/* Steps of one context become another's. */
static int count_contexts(const session *s) { return s->n_contexts; }
static int drop_context(session *s, int at, int n)
{
    int used = 0;
    if (n > 1 || s->n_contexts < 2)
        return 0;
    for (int k = 0; k < s->n_steps; k++)
        used |= s->step[k].kind <= STEP_RESET && s->step[k].a[0] == at;
    if (used)
        return 0;
    memmove(s->context + at, s->context + at + 1, (size_t)(s->n_contexts - at - 1) * sizeof *s->context);
    s->n_contexts--;
    for (int k = 0; k < s->n_steps; k++)
        s->step[k].a[0] -= s->step[k].kind <= STEP_RESET && s->step[k].a[0] > at;
    return 1;
}

enum { SETTINGS = 8 };
static int count_settings(const session *s) { return s->n_contexts * SETTINGS; }
static int plain_setting(session *s, int at, int n)
{
    setting *c = &s->context[at / SETTINGS], before = *c;
    if (n > 1)
        return 0;
    switch (at % SETTINGS) {
    case 7: c->home = ON_HEAP; break;
    case 6: c->refs = 0; break;
    case 0: c->threads = 0; break;
    case 1: c->plan_cache_bytes = 0; break;
    case 2: c->dedupe = 0; break;
    case 3: c->schedule = 0; break;
    case 4: c->group_bytes = SIZE_MAX; break;
    default: c->group_bytes = 0;
    }
    return memcmp(c, &before, sizeof before) && !(at % SETTINGS == 5 && before.group_bytes == SIZE_MAX);
}

static int count_merges(const session *s) { return s->n_contexts * s->n_contexts; }
static int merge_contexts(session *s, int at, int n)
{
    const int from = at % s->n_contexts, to = at / s->n_contexts;
    int moved = 0;
    if (n > 1 || from <= to)
        return 0;
    for (int k = 0; k < s->n_steps; k++) {
        if (s->step[k].kind > STEP_RESET || s->step[k].a[0] != from)
            continue;
        s->step[k].a[0] = to;
        moved = 1;
    }
    return moved;
}

static int count_items(const session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_graphs; i++)
        n += s->graph[i].n_items;
    return n;
}
static graph *graph_of_item(session *s, int *at)
{
    int i = 0;
    while (*at >= s->graph[i].n_items)
        *at -= s->graph[i++].n_items;
    return &s->graph[i];
}
static int stub_items(session *s, int at, int n)
{
    int changed = 0;
    for (int k = at; k < at + n; k++) {
        int i = k;
        graph *g = graph_of_item(s, &i);
        item *t = &g->items[i];
        for (int o = 0; o < t->n_out; o++)
            g->values[t->out0 + o].keep = 0;
        changed |= t->mode != STUBBED;
        t->mode = STUBBED;
    }
    return changed;
}
static int same_kind(const graph *g, int a, int b)
{
    return same_shape(g->values[a].shape, g->values[b].shape) && g->values[a].list == g->values[b].list;
}
static int bypass_items(session *s, int at, int n)
{
    graph *g = graph_of_item(s, &at);
    item *t = &g->items[at];
    if (n > 1 || t->mode != MADE || t->n_out != 1)
        return 0;
    for (int i = 0; i < t->n_in; i++) {
        if (!same_kind(g, g->operands[t->in0 + i], t->out0))
            continue;
        t->mode = ALIAS + i;
        g->values[t->out0].keep = 0;
        return 1;
    }
    return 0;
}
/* Other operands: an earlier one of the same item, so that what made this one is not needed. */
static int count_operands(const session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_graphs; i++)
        n += s->graph[i].n_operands;
    return n;
}
static int same_operand(session *s, int at, int n)
{
    int i = 0, k = 0;
    while (at >= s->graph[i].n_operands)
        at -= s->graph[i++].n_operands;
    graph *g = &s->graph[i];
    while (k + 1 < g->n_items && g->items[k + 1].in0 <= at)
        k++;
    const item *t = &g->items[k];
    if (n > 1 || t->mode != MADE)
        return 0;
    for (int o = t->in0; o < at; o++) {
        if (g->operands[o] == g->operands[at] || !same_kind(g, g->operands[o], g->operands[at]))
            continue;
        g->operands[at] = g->operands[o];
        return 1;
    }
    return 0;
}

/* Elements of lists: the last of item `at`, and so again and again. */
static int shorten_list(session *s, int at, int n)
{
    graph *g = graph_of_item(s, &at);
    item *t = &g->items[at];
    const int half = t->op == OP_softmax_mean_n, call_n = t->op == OP_call_n;
    const int list = half || t->op == OP_sum_n || t->op == OP_mean_n || t->op == OP_max_n;
    if (n > 1 || t->mode != MADE || (!list && !call_n && t->op != OP_child_sum_node))
        return 0;
    const int fixed = call_n ? cells[t->i[0]].d.n_in : !list, width = call_n ? cells[t->i[0]].d.n_list
                                                                         : list    ? 1 + half
                                                                                   : 2;
    if (t->n_in - fixed <= (list ? width : 0))
        return 0;
    if (half)
        memmove(g->operands + t->in0 + t->n_in / 2 - 1, g->operands + t->in0 + t->n_in / 2,
                (size_t)(t->n_in / 2 - 1) * sizeof(int));
    t->n_in -= width;
    return 1;
}
static int shorten_front(session *s, int at, int n)
{
    int i = at;
    graph *g = graph_of_item(s, &i);
    item *t = &g->items[i];
    if (n > 1 || (t->op != OP_sum_n && t->op != OP_mean_n && t->op != OP_max_n) || t->n_in < 2 ||
        t->mode != MADE)
        return 0;
    t->in0++;
    t->n_in--;
    return 1;
}
static int halve_list(session *s, int at, int n)
{
    int changed = 0, i = at;
    const item *t = &graph_of_item(s, &i)->items[i];
    for (int k = t->n_in / 2; k > 0; k--)
        changed |= shorten_list(s, at, n);
    return changed;
}

/* Two changes for each value. */
static int count_values(const session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_graphs; i++)
        n += s->graph[i].n_values;
    return 2 * n;
}

/* Rows of lists: all lists of one number have half of theirs, or one less; what is made of them follows. */
static void set_rows(graph *g, int list, int rows)
{
    for (int v = 0; v < g->n_values; v++)
        if (g->values[v].list == list)
            g->values[v].rows = rows;
}
static void follow_rows(graph *g, int list)
{
    for (int k = 0; k < g->n_items; k++) {
        item *t = &g->items[k];
        const value *in = t->n_in ? &g->values[g->operands[t->in0]] : NULL;
        int rows = 0;
        if (t->mode != MADE || !t->n_out)
            continue;
        if (t->op == OP_list && g->values[t->out0].list == list)
            t->n_in = g->values[t->out0].rows;
        for (int i = 0; i < t->n_in && t->op == OP_list_join; i++)
            rows += rows_of(&g->values[g->operands[t->in0 + i]]);
        if (t->op == OP_list_join)
            set_rows(g, g->values[t->out0].list, rows);
        if (t->op == OP_list_at && in->rows > 0 && t->i[0] >= in->rows)
            t->i[0] = in->rows - 1;
        if (t->op == OP_list_choice_xent && in->rows > 0 && t->i[0] >= in->rows)
            t->i[0] = in->rows - 1;
        if (t->op == OP_list_sum_to || t->op == OP_list_mean_to || t->op == OP_list_max_to || t->op == OP_list_softmax_mean_to ||
            (t->op >= OP_list_softmax_to && t->op < OP_list_choice_xent_to))
            t->n_indices = in->rows;
        for (int i = 0; i < t->n_indices && t->op == OP_list_take && in->rows > 0; i++)
            g->indices[t->at_index + i] %= in->rows;
        for (int i = 0; i + 1 < t->n_indices && t->op == OP_list_attention_to; i++) {
            const int end = g->values[g->operands[t->in0 + (i < t->i[1])]].rows; /* of keys, then of queries */
            g->indices[t->at_index + i] = end ? g->indices[t->at_index + i] % end : 0;
        }
    }
}
static int fewer_rows(session *s, int at, int n)
{
    int i = 0, v = at / 2;
    while (v >= s->graph[i].n_values)
        v -= s->graph[i++].n_values;
    graph *g = &s->graph[i];
    const int list = g->values[v].list, rows = g->values[v].rows;
    if (n > 1 || !list || rows < (at % 2 ? 1 : 2))
        return 0;
    set_rows(g, list, at % 2 ? rows - 1 : rows / 2);
    follow_rows(g, list);
    return 1;
}

static int drop_kept(session *s, int at, int n)
{
    int changed = 0;
    for (int k = at; k < at + n; k++) {
        int i = 0, v = k / 2;
        while (v >= s->graph[i].n_values)
            v -= s->graph[i++].n_values;
        changed |= s->graph[i].values[v].keep & (k % 2 ? KEEP : KEEP_GRAD);
        s->graph[i].values[v].keep &= k % 2 ? KEEP_GRAD : KEEP;
    }
    return changed;
}

static int count_roots(const session *s) { return s->n_steps * MAX_ROOTS; }
static int drop_root(session *s, int at, int n)
{
    step *t = &s->step[at / MAX_ROOTS];
    if (n > 1 || t->kind != STEP_RUN || at % MAX_ROOTS >= t->n)
        return 0;
    for (int i = at % MAX_ROOTS; i + 1 < t->n; i++)
        t->list[i] = t->list[i + 1];
    t->n--;
    return 1;
}
static int plain_step(session *s, int at, int n) /* whole recordings, no momentum, no decay */
{
    step *t = &s->step[at / MAX_ROOTS], before = *t;
    if (n > 1)
        return 0;
    switch (at % MAX_ROOTS) {
    case 0:
        if (t->kind <= STEP_REPLAY)
            t->a[2] = t->a[3] = 0;
        break;
    case 1:
        if (t->kind >= STEP_SGD)
            t->x[1] = 0;
        break;
    case 2:
        if (t->kind >= STEP_SGD)
            t->x[2] = 0;
        break;
    default:
        if (t->kind == STEP_RECORD || t->kind == STEP_REPLAY)
            t->a[1] = 0;
    }
    return memcmp(t, &before, sizeof before) != 0;
}

static int count_parts(const session *s)
{
    (void)s;
    return PARTS;
}
static int drop_parts(session *s, int at, int n)
{
    int changed = 0;
    for (int i = at; i < at + n; i++) {
        changed |= s->part[i];
        s->part[i] = 0;
    }
    return changed;
}

static int count_one(const session *s)
{
    (void)s;
    return 1;
}
static int plain_models(session *s, int at, int n)
{
    (void)at;
    (void)n;
    const int changed = s->in_place;
    s->in_place = 0;
    return changed;
}

/* Other sizes, wherever a shape, a part or a window has them; what no longer fits is refused by the calls. */
static int other_size(const session *s, const int *to, int n)
{
    const int from[4] = { s->hidden, s->output, s->wide, s->piece };
    for (int i = 0; i < 4; i++) {
        if (n == from[i])
            return to[i];
        if (n == 3 * from[i])
            return 3 * to[i];
    }
    return n == 2 * s->hidden ? 2 * to[0] : n == 3 + s->piece ? 3 + to[3] : n;
}
static int count_sizes(const session *s)
{
    (void)s;
    return 12;
}
static int smaller_size(session *s, int at, int n)
{
    int to[4] = { s->hidden, s->output, s->wide, s->piece };
    int *one = &to[at / 3];
    const int tries[3] = { 1 + (at / 3 == 0), *one / 4, *one / 2 };
    if (n > 1 || tries[at % 3] < 1 || tries[at % 3] >= *one)
        return 0;
    *one = tries[at % 3];
    for (int i = 0; i < s->n_graphs; i++) {
        graph *g = &s->graph[i];
        for (int v = 0; v < g->n_values; v++)
            for (int d = 0; d < g->values[v].shape.rank; d++)
                g->values[v].shape.dim[d] = other_size(s, to, g->values[v].shape.dim[d]);
        for (int k = 0; k < g->n_items; k++) {
            if (g->items[k].op != OP_slice)
                continue;
            g->items[k].i[1] = other_size(s, to, g->items[k].i[1]);
            g->items[k].i[2] = other_size(s, to, g->items[k].i[2]);
        }
    }
    s->hidden = to[0];
    s->output = to[1];
    s->wide = to[2];
    s->piece = to[3];
    return 1;
}

static int plain_data(session *s, int at, int n)
{
    graph *g = graph_of_item(s, &at);
    const item *t = &g->items[at];
    const int size = data_of(g, t);
    int changed = 0;
    if (n > 1 || t->mode != MADE)
        return 0;
    for (int i = 0; i < size; i++) {
        changed |= g->data[t->at_data + i] < 1 || g->data[t->at_data + i] > 1;
        g->data[t->at_data + i] = 1;
    }
    return changed;
}

static const shrinker shrinkers[] = {
    { "steps", count_steps, drop_steps },
    { "items", count_items, stub_items },
    { "kept", count_values, drop_kept },
    { "merged contexts", count_merges, merge_contexts },
    { "contexts", count_contexts, drop_context },
    { "settings", count_settings, plain_setting },
    { "roots", count_roots, drop_root },
    { "halved lists", count_items, halve_list },
    { "lists", count_items, shorten_list },
    { "fronts of lists", count_items, shorten_front },
    { "rows", count_values, fewer_rows },
    { "bypassed items", count_items, bypass_items },
    { "operands", count_operands, same_operand },
    { "details of steps", count_roots, plain_step },
    { "parts", count_parts, drop_parts },
    { "images", count_one, plain_models },
    { "sizes", count_sizes, smaller_size },
    { "data", count_items, plain_data },
};

static session the_session, trial;
static int fork_each;

static enum verdict judge_here(const session *s) { return fork_each ? judge_apart(s) : judge(s); }

/* One shrinker at all its places, in large steps first. Whether it made anything smaller. */
/* Copies what is used of the arrays: a whole session has megabytes. */
static void session_copy(session *to, const session *from)
{
    memcpy(to, from, offsetof(session, graph));
    for (int i = 0; i < from->n_graphs; i++) graph_copy(&to->graph[i], &from->graph[i]);
}
static int shrink_by(const shrinker *how, enum verdict verdict, clock_t end)
{
    int smaller = 0;
    for (int n = how->count(&the_session); n >= 1; n /= 2)
        for (int at = how->count(&the_session) - n; at >= 0 && clock() < end; at -= n) {
            if (at + n > how->count(&the_session))
                continue;
            session_copy(&trial, &the_session);
            if (!how->change(&trial, at, n) || judge_here(&trial) != verdict)
                continue;
            session_copy(&the_session, &trial);
            smaller = 1;
        }
    return smaller;
}

static void shrink(enum verdict verdict, double seconds)
{
    const clock_t end = clock() + (clock_t)(seconds * (double)CLOCKS_PER_SEC);
    for (int smaller = 1; smaller && clock() < end;) {
        smaller = 0;
        for (size_t i = 0; i < sizeof shrinkers / sizeof *shrinkers; i++)
            smaller |= shrink_by(&shrinkers[i], verdict, end);
    }
}

static int left_items(const session *s)
{
    int n = 0;
    find_left(s);
    for (int i = 0; i < s->n_graphs; i++)
        for (int k = 0; k < s->graph[i].n_items; k++)
            n += !left[i].skipped[k];
    return n;
}

/* -- the tests -------------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) /* much slower */
enum { SESSIONS = 250, REFERENCED = 15 };
#else
enum { SESSIONS = 1200, REFERENCED = 40 };
#endif
static struct {
    int sessions, reference, accuracy;
    uint64_t seed;
    double seconds; /* to shrink a failure */
    const char *prefix, *print;
} options = { SESSIONS, REFERENCED, 0, 1, 20, NULL, NULL };

#include "sessions_reference.h"
#include "printed.h"
#include "sessions_printed.h"

static void report_failure(enum verdict verdict)
{
    char name[300];
    printf("session %llu %s: %s%s%s\n", (unsigned long long)the_session.seed, verdict_text[verdict],
           sight.text[0], sight.text[1][0] ? "; eager: " : "", sight.text[1]);
    fflush(stdout);
    shrink(verdict, options.seconds);
    recordings = options.prefix;
    judge_here(&the_session);
    recordings = NULL;
    check_that(0, __FILE__, __LINE__, "--sessions 1 --seed %llu: it %s; shrunk to %d steps and %d calls",
               (unsigned long long)the_session.seed, verdict_text[verdict], the_session.n_steps,
               left_items(&the_session));
    snprintf(name, sizeof name, "%s%llu.c", options.prefix ? options.prefix : "",
             (unsigned long long)the_session.seed);
    FILE *to = options.prefix ? fopen(name, "w") : stdout;
    if (!to || !print_program(to, &the_session, verdict_text[verdict]))
        printf("%s: cannot be written\n", name);
    if (to && to != stdout)
        fclose(to);
    fflush(stdout);
}

static void report_all(int sessions, double seconds)
{
    const double share = 100.0 * (double)world.batched_nodes / (double)(world.run_nodes + !world.run_nodes);
    for (int i = 0; i < OPS; i++) {
        printf("%s%s %ld", i % 8 ? ", " : i ? "\n" : "", op_name[i], used[i]);
        check_that(sessions < 1000 || used[i] >= 100, __FILE__, __LINE__, "%s was used only %ld times",
                   op_name[i], used[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        printf("%s%s %ld", i % 8 ? ", " : "\n", step_name[i], world.kinds[i] / 2);
        check_that(sessions < 1000 || world.kinds[i] >= 100, __FILE__, __LINE__, "%s was done only %ld times",
                   step_name[i], world.kinds[i] / 2);
    }
    for (int i = 0; i < HOMES; i++) {
        printf("%s%s %ld", i ? ", " : "\n", home_text[i], world.homes[i]);
        check_that(sessions < 1000 || world.homes[i] >= 100, __FILE__, __LINE__, "only %ld contexts were %s",
                   world.homes[i], home_text[i]);
    }
    printf("\nsessions %llu to %llu: %zu runs, %.1f %% of the nodes in batches, %.1f groups a run, %zu plans "
           "replayed, %ld parallel "
           "loops, %zu replays, %zu runs in slices, %.1f s\n",
           (unsigned long long)options.seed,
           (unsigned long long)options.seed + (unsigned long long)sessions - 1, world.runs, share,
           (double)world.groups / (double)(world.runs + !world.runs), world.plan_hits, loops, world.replays,
           world.slices, seconds);
    if (sessions < 1000)
        return;
    check_that(share >= 30, __FILE__, __LINE__, "only %.1f %% of the nodes shared a batch", share);
    CHECK(world.groups > world.runs);
    CHECK(world.plan_hits > (size_t)sessions / 80);
    CHECK(loops > sessions / 2);
    CHECK(world.replays > (size_t)sessions / 4);
    CHECK(world.slices > (size_t)sessions / 8);
}

static void same_bits(void)
{
    const clock_t start = clock();
    int done = 0, failed = 0;
    for (; done < options.sessions && (!failed || options.prefix); done++) {
        session_make(&the_session, options.seed + (uint64_t)done);
        const enum verdict verdict = judge_here(&the_session);
        if (verdict == SAME)
            continue;
        failed++;
        report_failure(verdict);
    }
    if (failed)
        printf("%d of %d sessions failed\n", failed, done);
    if (!failed && !fork_each)
        report_all(done, (double)(clock() - start) / CLOCKS_PER_SEC);
}

/* A fault that needs two things: the first session that has both is shrunk to these and what they need. */
static void faults_are_shrunk(void)
{
    char text[30000] = "";
    enum verdict verdict = SAME;
    fault.wanted = 1;
    for (int i = 0; i < 2000 && verdict == SAME; i++) { /* large sessions take long to shrink */
        session_make(&the_session, (uint64_t)i);
        if (left_items(&the_session) < 60) verdict = judge(&the_session);
    }
    CHECK_INT(verdict, DIFFERS);
    const int before = left_items(&the_session);
    shrink(verdict, 20);
    CHECK_INT(judge(&the_session), DIFFERS);
    fault.wanted = 0;
    CHECK_SAYS(the_session.n_steps <= 3, "%d steps are left", the_session.n_steps);
    CHECK_SAYS(left_items(&the_session) <= 8 && before > 20, "%d of %d calls are left",
               left_items(&the_session), before);
    FILE *to = tmpfile();
    if (!CHECK(to && print_program(to, &the_session, "differs")))
        return;
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = 0;
    fclose(to);
    CHECK_TEXT(text, "fold_scale(f, v[");
    CHECK_TEXT(text, "adagrad(nets[0].m, ");
    CHECK_TEXT(text, "int main(void)");
    CHECK_SAYS(!strstr(text, "adam(") && !strstr(text, "fold_tanh(f, v["), /* a cell's body may have its own */
               "the program has more than it needs:\n%s", text);
    CHECK_INT(judge(&the_session), SAME); /* without the fault */
}

/* -- which calls sessions make ------------------------------------------------------------------------------- */

/* Calls that no session makes, and why. */
static const struct { const char *name, *why; } not_called[] = {
    { "fold_input_bytes", "it is fold_input_shaped of values made of bytes" },
    { "fold_list_input_bytes", "it is fold_list_input of values made of bytes" },
    { "fold_model_fail", "sessions have no errors" },
    { "fold_ctx_fail", "sessions have no errors" },
    { "fold_format", "sessions have no errors" },
    { "fold_cell_visit", "examples/fold_record.h calls it" },
    { "fold_model_memory", "examples/fold_fit.h calls it" },
    { "fold_model_clear_error", "sessions have no errors" },
    { "fold_tensors_open", "it is fold_tensors_open_memory of a file" },
    { "fold_tensors_open_memory", "examples/fold_torch.h calls it" },
    { "fold_tensors_close", "examples/fold_torch.h calls it" },
    { "fold_tensors_model", "examples/fold_torch.h calls it" },
    { "fold_tensors_count", "examples/fold_torch.h calls it" },
    { "fold_tensors_find", "examples/fold_torch.h calls it" },
    { "fold_tensors_at", "examples/fold_torch.h calls it" },
    { "fold_tensors_read", "examples/fold_torch.h calls it" },
    { "fold_tensors_take", "examples/fold_torch.h calls it" },
    { "fold_tensors_missing", "examples/fold_torch.h calls it" },
    { "fold_list_attention_weights", "it is fold_list_attention of values that are ones and zeros" },
    { "fold_list_attention_weights_to", "it is fold_list_attention_to of values that are ones and zeros" },
    { "fold_values_fill", "it is fold_values_write_begin and _end" },
    { "fold_node_is_null", "it asks for the id of a handle" },
    { "fold_model_isa", "it names the kernels" },
    { "fold_to_file", "it writes to a FILE" },
    { "fold_clock_monotonic", "it asks the system" },
    { "fold_pool_new", "its threads are the system's" },
    { "fold_pool_free", "its threads are the system's" },
    { "fold_pool_for", "its threads are the system's" },
    { "fold_rate_factor", "it is a function of numbers alone" },
    { "fold_random_bits", "it is a function of numbers alone" },
    { "fold_random_uniform", "it is a function of numbers alone" },
    { "fold_random_normal", "it is a function of numbers alone" },
    { "fold_random_below", "it is a function of numbers alone" },
    { "fold_random_shuffle", "it is a function of numbers alone" },
    { "fold_random_gaussian", "it is a function of numbers alone" },
    { "fold_random_softmax", "it is a function of numbers alone" },
    { "fold_random_softmax_n", "it is a function of numbers alone" },
    { "fold_random_weighted", "it is a function of numbers alone" },
    { "fold_argmax", "it is a function of numbers alone" },
    { "fold_finite", "it is a function of numbers alone" },
    { "fold_top_k", "it is a function of numbers alone" },
};

/* The text of all that sessions are made of. */
static int made_of(const char *name)
{
    static const char *const other_code[] = {
#define PIECE_CODE(name) name##_code,
        PIECE_LIST(PIECE_CODE) turn_code, "fold_ctx_reset fold_model_status fold_model_message fold_status_text",
#define PART_CODE(name, ...) #__VA_ARGS__,
        PART_LIST(PART_CODE)
    };
    int found = 0;
    for (int i = 0; i < OPS; i++) found |= has_word(op_code[i], name, 0);
    for (size_t i = 0; i < sizeof other_code / sizeof *other_code; i++) found |= has_word(other_code[i], name, 0);
    return found;
}

/* Every public call of the header is made by sessions, or named above. */
static void every_call(void)
{
    char line[400], name[100];
    int calls = 0, left_out = 0;
    FILE *header = fopen("fold.h", "r");
    if (!header) header = fopen("../fold.h", "r");
    if (!header) {
        check_skip("the list of calls that sessions make (fold.h is not in this folder)");
        return;
    }
    while (fgets(line, sizeof line, header) && !strstr(line, "#endif /* FOLD_H */")) {
        const char *at = strncmp(line, "FOLD_API ", 9) ? NULL : strstr(line + 9, "fold_");
        while (at && at[strcspn(at, " (*")] != '(') at = strstr(at + 1, "fold_"); /* past the type */
        if (!at) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "("), at);
        int named = 0;
        for (size_t i = 0; i < sizeof not_called / sizeof *not_called; i++) named |= !strcmp(not_called[i].name, name);
        calls++;
        left_out += named;
        CHECK_SAYS(named || made_of(name), "no session calls %s", name);
        CHECK_SAYS(!named || !made_of(name), "sessions call %s, which is listed as left out", name);
    }
    fclose(header);
    CHECK_SAYS(calls > 250, "%d calls are declared", calls);
    CHECK_INT(left_out, sizeof not_called / sizeof *not_called);
}

int main(int argc, char **argv)
{
    check_start(1, argv);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--sessions"))
            options.sessions = (int)option_whole(argc, argv, i, 0, INT_MAX);
        else if (!strcmp(argv[i], "--seed"))
            options.seed = (uint64_t)option_whole(argc, argv, i, 0, LLONG_MAX);
        else if (!strcmp(argv[i], "--shrink"))
            options.seconds = option_number(argc, argv, i, 0, 1e6);
        else if (!strcmp(argv[i], "--file"))
            options.prefix = value;
        else if (!strcmp(argv[i], "--reference"))
            options.reference = (int)option_whole(argc, argv, i, 0, INT_MAX);
        else if (!strcmp(argv[i], "--accuracy"))
            options.accuracy = 1;
        else if (!strcmp(argv[i], "--print"))
            options.print = value;
        else if (!strcmp(argv[i], "--fork"))
            fork_each = 1;
    }
    sight.seen = (float *)malloc(MAX_SEEN * sizeof(float));
    if (!sight.seen)
        return 1;
#if CAN_FORK
    snprintf(path_text, sizeof path_text, "%s/sessions_%ld.safetensors", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             (long)getpid());
#endif
    if (options.print) {
        check_run("sessions: recordings are printed as C", write_printed);
        free(sight.seen);
        return check_finish();
    }
    check_run("sessions: every call of the header", every_call);
    if (options.sessions) check_run("sessions: a fault is found and shrunk", faults_are_shrunk);
    memset(&world.kinds, 0, sizeof world.kinds);
    if (options.sessions) check_run("sessions: the same bits, eager and batched", same_bits);
    check_run("sessions: every node near its reference", held_to_reference);
    if (options.accuracy) report_accuracy();
    free(sight.seen);
    return check_finish();
}
