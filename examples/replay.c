/* replay: plays a recording that fold_record_write wrote, in several ways, and says which ways agree.

     cc -O2 -o replay examples/replay.c -lm && ./replay bug.foldrecord
     ./replay                                          records a small network of its own, and plays that
     ./replay --write small.foldrecord                 also writes it
     cc -O2 -DFOLD_USE_THREADS -o replay examples/replay.c -lm -lpthread && ./replay bug.foldrecord

   A file has the calls of somebody's program with their inputs and parameters, but not the program. replay
   runs it in an eager context, compares that with the hashes in the file, and then compares bits of other ways
   with it: batched with every schedule, in one group and in small ones, with dedupe, on threads if it is
   compiled with them, each sample alone, and as C printed by fold_to_c.h, if there is a C compiler. If a way
   differs, its line names the first node that does. All ways should agree: if they do, and results are wrong
   all the same, the mistake is in the recorded network, or in an op (see tests/test_ops.c). */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_RECORD_IMPLEMENTATION
#include "fold_record.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "fold_to_c.h"
#include "options.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 6, WORDS = 20, SENTENCES = 4, CLASSES = 3, PRINTED = 16 };

typedef struct { char *bytes; size_t size, room; } text;

static int append(const void *bytes, size_t size, void *user)
{
    text *t = (text *)user;
    while (t->room < t->size + size + 1) {
        const size_t room = 2 * t->room + 4096;
        char *more = (char *)realloc(t->bytes, room);
        if (!more)
            return 1;
        t->bytes = more;
        t->room = room;
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    return 0;
}

static void fail(const char *what)
{
    fprintf(stderr, "replay: %s\n", what);
    exit(1);
}

/* Appends formatted text of at most 199 bytes. */
static void put(text *t, const char *format, ...)
{
    char line[200];
    va_list args;
    va_start(args, format);
    if (append(line, (size_t)vsnprintf(line, sizeof line, format, args), t))
        fail("no memory for the printed program");
    va_end(args);
}

/* ---- a network of its own --------------------------------------------------------------------- */

typedef struct { fold_param words, W, b; fold_dense gate, classify; fold_cell join; } net;

static void join(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, n->W, n->b));
}

/* A sentence is joined word by word with a cell, and once more as a list whose rows are weighted and summed. */
static fold_node sentence(fold_ctx *f, const net *n, const int *word, int length, fold_node *half)
{
    fold_node state = fold_lookup(f, n->words, word[0]);
    for (int i = 1; i < length; i++) {
        const fold_node both[2] = { state, fold_lookup(f, n->words, word[i]) };
        state = fold_call(f, n->join, both, 2);
    }
    const fold_node rows = fold_list_lookup(f, n->words, word, length);
    const fold_node weights = fold_list_softmax(f, fold_dense_apply(f, &n->gate, rows));
    const fold_node sum = fold_list_sum(f, fold_mul(f, rows, weights));
    *half = fold_slice(f, state, 0, WIDTH / 2, WIDTH / 2); /* a view */
    return fold_dense_apply(f, &n->classify, fold_concat2(f, *half, sum));
}

static void record(text *t)
{
    net n;
    fold_model *m = fold_model_new(NULL);
    n.words = fold_table_new(m, "words", WORDS, WIDTH);
    n.W = fold_weight_new(m, "join.W", 2 * WIDTH, WIDTH);
    n.b = fold_bias_new(m, "join.b", WIDTH);
    n.gate = fold_dense_new(m, "gate", WIDTH, 1, FOLD_ACT_LINEAR);
    n.classify = fold_dense_new(m, "classify", WIDTH / 2 + WIDTH, CLASSES, FOLD_ACT_LINEAR);
    fold_cell_desc cell = fold_cell_desc_default();
    cell.name = "join";
    cell.body = join;
    cell.user = &n;
    cell.user_size = sizeof n;
    cell.n_in = 2;
    cell.in[0] = cell.in[1] = fold_shape1(WIDTH);
    cell.n_out = 1;
    n.join = fold_cell_new(m, &cell);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_node loss[SENTENCES], out[2 * SENTENCES]; /* scores, then halves of states, which fold_to_c can print */
    for (int i = 0; i < SENTENCES; i++) {
        int word[SENTENCES + 2];
        for (int at = 0; at < i + 3; at++)
            word[at] = (7 * i + 3 * at) % WORDS;
        out[i] = sentence(f, &n, word, i + 3, &out[SENTENCES + i]);
        loss[i] = fold_softmax_xent(f, out[i], i % CLASSES);
    }
    fold_node mean = fold_mean_n(f, loss, SENTENCES);
    if (fold_run(f, out, 2 * SENTENCES) || fold_backward(f, mean))
        fail(fold_ctx_message(f));
    fold_record_desc desc = fold_record_desc_default();
    desc.outputs = out;
    desc.n_outputs = 2 * SENTENCES;
    desc.losses = &mean;
    desc.n_losses = 1;
    const fold_record_result written = fold_record_write(f, &desc, append, t);
    if (written.status)
        fail(written.message);
    fold_ctx_free(f);
    fold_model_free(m);
}

static void read_file(text *t, const char *path)
{
    char bytes[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("the file cannot be opened");
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        if (append(bytes, n, t))
            fail("no memory for the file");
    fclose(file);
}

/* ---- ways to run it --------------------------------------------------------------------------- */

typedef struct { int ways, same; char first[300]; } outcome;

static void report(outcome *o, const char *way, fold_record_result result)
{
    o->ways++;
    o->same += !result.status && !result.differ;
    if (result.status)
        printf("%-28s %s\n", way, result.message);
    else if (result.differ)
        printf("%-28s DIFFERS in %d of %d: %s\n", way, result.differ, result.values, result.message);
    else
        printf("%-28s same in all %d\n", way, result.values);
    if ((result.status || result.differ) && !o->first[0])
        snprintf(o->first, sizeof o->first, "%s: %s", way, result.message);
}

static void run_batched(outcome *o, fold_record *r)
{
    static const char *const name[] = { "batched, schedule ratio", "batched, schedule depth", "batched, schedule agenda",
                                        "batched in one group",    "batched in small groups", "batched with dedupe",
                                        "eager again" };
    for (int way = 0; way < (int)(sizeof name / sizeof *name); way++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.schedule = way < (int)FOLD_SCHEDULE_COUNT ? (fold_schedule)way : FOLD_SCHEDULE_RATIO;
        desc.group_bytes = way == 3 ? SIZE_MAX : way == 4 ? 1 : 0;
        desc.dedupe = way == 5;
        desc.eager = way == 6;
        report(o, name[way], fold_record_compare(r, &desc, -1));
    }
#ifdef FOLD_USE_THREADS
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_pool *pool = fold_pool_new(4);
    desc.threads = 4;
    desc.parallel_for = fold_pool_for;
    desc.pool = pool;
    report(o, "batched on 4 threads", fold_record_compare(r, &desc, -1));
    fold_pool_free(pool);
#endif
}

static void run_alone(outcome *o, fold_record *r)
{
    const fold_record_about about = fold_record_describe(r);
    const fold_ctx_desc desc = fold_ctx_desc_default();
    const int samples = about.samples ? about.samples : about.outputs;
    fold_record_result all;
    memset(&all, 0, sizeof all);
    for (int sample = 0; sample < samples && !all.status; sample++) {
        const fold_record_result one = fold_record_compare(r, &desc, sample);
        if (!all.differ && !all.status)
            memcpy(all.message, one.message, sizeof all.message);
        all.status = one.status;
        all.values += one.values < INT_MAX - all.values ? one.values : INT_MAX - all.values;
        all.differ += one.differ < INT_MAX - all.differ ? one.differ : INT_MAX - all.differ;
    }
    report(o, "each sample alone", all);
}

/* Whether the kernels round a product and a sum at once. Printed code does so if the compiler can. */
static int is_fused(fold_record *r)
{
#ifdef FOLD_REPRODUCIBLE
    return r != NULL;
#else
    return strcmp(fold_model_isa(fold_record_model(r)), "portable") != 0;
#endif
}

/* Prints a function that makes the outputs and a main that counts the floats that differ. Returns their
   number, or 0 if no output can be printed; then says why. */
static int print_c(fold_record *r, fold_ctx *f, text *t, char *why, size_t room)
{
    fold_to_c_port port[PRINTED];
    char name[PRINTED][16];
    const int outputs = fold_record_describe(r).outputs;
    fold_to_c_desc desc = fold_to_c_desc_default();
    int n = 0, floats = 0;
    for (int i = 0; i < outputs && n < PRINTED; i++) {
        text trial = { NULL, 0, 0 };
        snprintf(name[n], sizeof name[n], "y%d", i);
        port[n].name = name[n];
        port[n].node = fold_record_output(r, i);
        memset(&port[n].next, 0, sizeof port[n].next);
        desc.out = &port[n];
        desc.n_out = 1;
        const fold_to_c_result printed = fold_to_c(f, &desc, append, &trial);
        if (printed.status)
            snprintf(why, room, "%s", printed.message);
        n += !printed.status;
        free(trial.bytes);
    }
    desc.name = "replay";
    desc.out = port;
    desc.n_out = n;
    if (!n || fold_to_c(f, &desc, append, t).status)
        return 0;
    text call = { NULL, 0, 0 };
    put(t, "static const unsigned want[] = {\n");
    for (int i = 0; i < n; i++) {
        const fold_shape shape = fold_node_shape(f, port[i].node);
        const float *values = fold_value(f, port[i].node);
        int size = 1;
        for (int axis = 0; axis < shape.rank; axis++)
            size *= shape.dim[axis];
        put(&call, "%sgot + %d", i ? ", " : "", floats);
        for (int k = 0; k < size && values; k++) {
            uint32_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            put(t, "0x%lxu,\n", (unsigned long)bits);
        }
        floats += size;
    }
    put(t, "};\nint main(void)\n{\n    static float got[%d];\n    int i, wrong = 0;\n", floats);
    put(t, "#if%s replay_TWO_ROUNDINGS\n    return 2;\n#endif\n    replay_step(", is_fused(r) ? "def" : "ndef");
    if (append(call.bytes, call.size, t))
        fail("no memory for the printed program");
    put(t, ");\n    for (i = 0; i < %d; i++)\n", floats);
    put(t, "        wrong += memcmp(&got[i], &want[i], 4) != 0 && got[i] == got[i];\n    return wrong != 0;\n}\n");
    free(call.bytes);
    return floats;
}

/* Compiles the text and runs the program. Returns 0 if all floats agree, 1 if not, and -1 if there is no compiler
   or its multiply-adds are not those of the kernels. */
static int run_c(const text *t, int fused)
{
    char command[256];
    const char *cc = getenv("CC") ? getenv("CC") : "cc";
    FILE *file = fopen("replay_printed.c", "wb");
    if (!file)
        return -1;
    const int written = fwrite(t->bytes, 1, t->size, file) == t->size;
    snprintf(command, sizeof command, "%.60s -O1 %s -o replay_printed.bin replay_printed.c", cc, fused ? "-march=native" : "");
    const int compiled = !fclose(file) && written && !system(command);
    const int ended = compiled ? system("./replay_printed.bin") : 2; /* on POSIX, shifted by 8 bits */
    remove("replay_printed.c");
    remove("replay_printed.bin");
    return ended == 2 || ended == 2 << 8 ? -1 : ended != 0;
}

/* Plays the recording in an eager context, prints it and runs it. Returns the number of floats that agree. */
static int run_printed(outcome *o, fold_record *r)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.eager = 1;
    desc.training = fold_record_describe(r).training;
    fold_ctx *f = fold_ctx_new(fold_record_model(r), &desc);
    text printed = { NULL, 0, 0 };
    char why[240] = "there are no outputs";
    fold_record_result result = fold_record_play(r, f, -1);
    int differs = -1;
    if (!result.status && (result.values = print_c(r, f, &printed, why, sizeof why)) > 0)
        differs = run_c(&printed, is_fused(r));
    if (differs >= 0 || result.status) {
        result.differ = differs > 0;
        if (differs > 0)
            snprintf(result.message, sizeof result.message, "the printed program computes other bits");
        report(o, "printed as C", result);
    } else
        printf("%-28s not run: %s\n", "printed as C", result.values ? "the C compiler (CC, or cc) failed, or rounds otherwise" : why);
    free(printed.bytes);
    fold_ctx_free(f);
    return differs ? 0 : result.values;
}

static void print_plan(fold_record *r)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = fold_record_describe(r).training;
    fold_ctx *f = fold_ctx_new(fold_record_model(r), &desc);
    const int n = fold_record_describe(r).outputs;
    fold_node *roots = (fold_node *)calloc((size_t)n + 1, sizeof *roots);
    if (!roots || fold_record_play(r, f, -1).status)
        fail(fold_ctx_message(f));
    for (int i = 0; i < n; i++)
        roots[i] = fold_record_output(r, i);
    if (fold_run(f, roots, n) || fold_ctx_print(f, fold_to_file, stdout))
        fail(fold_ctx_message(f));
    free(roots);
    fold_ctx_free(f);
}

int main(int argc, char **argv)
{
    const char *path = NULL, *to = NULL;
    const option table[2] = { option_of_text("FILE", &path, "", "the recording; without it, a small network of its own"),
                              option_of_text("--write", &to, "FILE", "writes the recording that it plays") };
    options_read(argc, argv, "Plays a recording in several ways, and says which ways agree.", table, OPTION_COUNT(table));
    text t = { NULL, 0, 0 };
    fold_record_result read;
    outcome o;
    memset(&o, 0, sizeof o);
    if (path)
        read_file(&t, path);
    else
        record(&t);
    FILE *file = to ? fopen(to, "wb") : NULL;
    if (to && (!file || fwrite(t.bytes, 1, t.size, file) != t.size || fclose(file)))
        fail("the file cannot be written");
    fold_record *r = fold_record_read(t.bytes, t.size, &read);
    if (!r)
        fail(read.message);
    const fold_record_about about = fold_record_describe(r);
    print_plan(r);
    printf("\n%d calls of %d samples, recorded with %s kernels, schedule %s\n", about.calls, about.samples, about.kernels,
           about.schedule);
    report(&o, "as in the file, eager", fold_record_compare(r, NULL, -1));
    run_batched(&o, r);
    run_alone(&o, r);
    const int printed = run_printed(&o, r);
    puts(o.first[0] ? o.first : "all ways agree");
    printf("RESULT replay calls=%d samples=%d bytes=%lu ways=%d same=%d printed=%d\n", about.calls, about.samples,
           (unsigned long)t.size, o.ways, o.same, printed);
    fold_record_free(r);
    free(t.bytes);
    return o.same < o.ways;
}
