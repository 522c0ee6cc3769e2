/* random_onnx.c - compares random ONNX graphs, from tests/make_onnx.py --random, with what numpy computes. Each is recorded for one
   agent, for three, as a list of three rows, and with one input as a list: all bits must be equal. Some graphs are printed as C.

     python3 tests/make_onnx.py --random 5000 1 graphs.bin
     cc -O2 -o random_onnx tests/random_onnx.c -lm && ./random_onnx graphs.bin printed.c 50
     cc -O1 -march=native -o printed printed.c -lm && ./printed

   printed.c gets every 50th graph, and a main that compares what these compute. The fourth argument is the number of a graph that is
   written to graph.onnx, the fifth a file for what fold_onnx.h computed, which tests/check_onnx.js reads. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "../examples/fold_onnx.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "../examples/fold_to_c.h"
#include <math.h>
#include <stdlib.h>

enum { AGENTS = 3, MOST = 8, MOST_VALUES = 2048, LONGEST = 1 << 20 };
typedef struct tensor { char name[64]; int count; float values[AGENTS][MOST_VALUES]; } tensor;
static tensor in[MOST], out[MOST];
static float got[MOST][AGENTS][MOST_VALUES], mixed[MOST][AGENTS][MOST_VALUES], rows[AGENTS * MOST_VALUES];
static int n_in, n_out, number, failures;
static int shares; /* all agents have the first one's inputs but for the first input, and only that is a list */
static FILE *graphs;

static int fails(const char *what, const char *why)
{
    failures++;
    printf("graph %d: %s: %s\n", number, what, why);
    return 0;
}
static int read_int(void)
{
    unsigned char b[4] = { 0, 0, 0, 0 };
    if (fread(b, 1, 4, graphs) != 4) return 0;
    return (int)(b[0] | (unsigned)b[1] << 8 | (unsigned)b[2] << 16 | (unsigned)b[3] << 24);
}
static int read_tensor(tensor *t)
{
    const int length = read_int();
    t->count = read_int();
    if (length < 1 || length > 63 || t->count < 1 || t->count > MOST_VALUES) return 0;
    memset(t->name, 0, sizeof t->name);
    int is_there = fread(t->name, 1, (size_t)length, graphs) == (size_t)length;
    for (int a = 0; a < AGENTS && is_there; a++) is_there = fread(t->values[a], 4, (size_t)t->count, graphs) == (size_t)t->count;
    return is_there;
}
static int near(const float *a, const float *b, int n)
{
    float most = 0.05f; /* sums of numbers of that size round */
    for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(b[i]));
    for (int i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f * most)) return 0;
    return 1;
}

/* Records agents from one on, or all as a list, and runs them. */
static int record(fold_onnx *o, fold_ctx *f, int first, int agents, int as_list, fold_node made[][MOST])
{
    fold_ctx_reset(f);
    for (int a = 0; a < agents; a++) {
        fold_onnx_value given[MOST], asked[MOST];
        memset(given, 0, sizeof given);
        for (int i = 0; i < n_in; i++) {
            const size_t size = (size_t)in[i].count;
            given[i].name = in[i].name;
            for (int k = 0; k < AGENTS; k++) memcpy(rows + (size_t)k * size, in[i].values[k], size * sizeof *rows);
            if (as_list && !(shares && i)) given[i].node = fold_list_input(f, rows, AGENTS, fold_shape1(in[i].count));
            else given[i].values = in[i].values[shares && i ? 0 : first + a];
        }
        for (int i = 0; i < n_out; i++) asked[i].name = out[i].name;
        if (fold_onnx_record(o, f, given, n_in, NULL, asked, n_out)) return fails(as_list ? "as a list" : "recorded", fold_ctx_message(f));
        for (int i = 0; i < n_out; i++) fold_keep(f, made[a][i] = asked[i].node);
    }
    return !fold_run(f, NULL, 0) || fails("run", fold_ctx_message(f));
}
static int alone(fold_onnx *o, fold_ctx *f, float (*y)[AGENTS][MOST_VALUES])
{
    fold_node made[1][MOST];
    for (int a = 0; a < AGENTS; a++) {
        if (!record(o, f, a, 1, 0, made)) return 0;
        for (int i = 0; i < n_out; i++) {
            if (fold_onnx_find(o, out[i].name).count != out[i].count) return fails(out[i].name, "another count");
            if (fold_read(f, &made[0][i], 1, y[i][a])) return fails("read", fold_ctx_message(f));
            if (!shares && !near(y[i][a], out[i].values[a], out[i].count)) return fails(out[i].name, "other values");
        }
    }
    return 1;
}
static int together(fold_onnx *o, fold_ctx *f, int as_list, float (*y)[AGENTS][MOST_VALUES])
{
    fold_node made[AGENTS][MOST];
    if (!record(o, f, 0, as_list ? 1 : AGENTS, as_list, made)) return 0;
    for (int i = 0; i < n_out; i++)
        for (int a = 0; a < AGENTS; a++) {
            const int is_list = fold_list_length(f, made[as_list ? 0 : a][i]) == AGENTS; /* what no input reaches is none */
            if (fold_read(f, &made[as_list ? 0 : a][i], 1, rows)) return fails("read", fold_ctx_message(f));
            if (memcmp(rows + (is_list ? a * out[i].count : 0), y[i][a], (size_t)out[i].count * sizeof *rows))
                return fails(out[i].name, shares ? "other bits where only some inputs are lists" : as_list ? "other bits as a list" : "other bits as agents");
        }
    return 1;
}

/* ---- as C ----------------------------------------------------------------------------------------- */

static void write_floats(FILE *file, const char *name, int index, const float *values, int count)
{
    fprintf(file, "static const float %s%d_%d[] = {", name, number, index);
    for (int i = 0; i < count; i++) fprintf(file, "(float)%.9g,", (double)values[i]);
    fprintf(file, "};\n");
}
/* Prints a network, and a function that compares it with the first agent. */
static int print(fold_model *m, fold_onnx *o, FILE *file)
{
    char name[16], names[2][MOST][16];
    fold_to_c_port port[2][MOST];
    fold_onnx_value given[MOST], asked[MOST];
    fold_ctx_desc eager = fold_ctx_desc_default();
    fold_to_c_desc desc = fold_to_c_desc_default();
    eager.eager = 1;
    fold_ctx *f = fold_ctx_new(m, &eager);
    memset(given, 0, sizeof given);
    memset(port, 0, sizeof port);
    for (int i = 0; i < n_in; i++) {
        given[i].name = in[i].name;
        given[i].node = port[0][i].node = fold_zeros(f, fold_shape1(in[i].count));
        snprintf(names[0][i], 16, "in%d", i);
        port[0][i].name = names[0][i];
    }
    for (int i = 0; i < n_out; i++) asked[i].name = out[i].name;
    fold_onnx_record(o, f, given, n_in, NULL, asked, n_out);
    for (int i = 0; i < n_out; i++) {
        port[1][i].node = asked[i].node;
        snprintf(names[1][i], 16, "out%d", i);
        port[1][i].name = names[1][i];
    }
    snprintf(name, sizeof name, "net%d", number);
    desc.name = name;
    desc.in = port[0];
    desc.out = port[1];
    desc.n_in = n_in;
    desc.n_out = n_out;
    desc.print_op = fold_onnx_print;
    FILE *scratch = tmpfile();
    const fold_to_c_result result = fold_to_c(f, &desc, fold_to_file, scratch);
    fold_ctx_free(f);
    if (scratch && !result.status) {
        rewind(scratch);
        for (int c = fgetc(scratch); c != EOF; c = fgetc(scratch)) fputc(c, file);
        for (int i = 0; i < n_in; i++) write_floats(file, "given", i, in[i].values[0], in[i].count);
        for (int i = 0; i < n_out; i++) write_floats(file, "right", i, got[i][0], out[i].count);
        fprintf(file, "static int check%d(void)\n{\n", number);
        for (int i = 0; i < n_out; i++) fprintf(file, "    float y%d[%d];\n", i, out[i].count);
        fprintf(file, "    %s_step(", name);
        for (int i = 0; i < n_in; i++) fprintf(file, "given%d_%d, ", number, i);
        for (int i = 0; i < n_out; i++) fprintf(file, "y%d%s", i, i + 1 < n_out ? ", " : ");\n");
        for (int i = 0; i < n_out; i++) fprintf(file, "    if (!same(y%d, right%d_%d, %d)) return 1;\n", i, number, i, out[i].count);
        fprintf(file, "    return 0;\n}\n");
    } else if (getenv("VERBOSE")) printf("%d: %s\n", number, result.message);
    if (scratch) fclose(scratch);
    return !result.status;
}

int main(int argc, char **argv)
{
    static unsigned char bytes[LONGEST];
    static int checks[1 << 16];
    int printed = 0, refused = 0, n_checks = 0;
    const int every = argc > 3 ? atoi(argv[3]) : 1;
    graphs = argc > 1 ? fopen(argv[1], "rb") : NULL;
    FILE *file = argc > 2 && *argv[2] ? fopen(argv[2], "w") : NULL, *results = argc > 5 ? fopen(argv[5], "wb") : NULL;
    if (!graphs) return fprintf(stderr, "random_onnx: no file of graphs\n"), 1;
    if (file) fprintf(file, "static int same(const float *a, const float *b, int n)\n{\n    float most = 0.05f;\n    for (int i = 0; i < n; i++)\n"
                            "        if (b[i] > most || -b[i] > most) most = b[i] > 0 ? b[i] : -b[i];\n    for (int i = 0; i < n; i++)\n"
                            "        if (!(a[i] - b[i] <= 1e-4f * most && b[i] - a[i] <= 1e-4f * most)) return 0;\n    return 1;\n}\n");
    for (int size = read_int(); size > 0 && size < LONGEST; size = read_int(), number++) {
        n_in = read_int();
        n_out = read_int();
        if (n_in < 0 || n_in > MOST || n_out < 1 || n_out > MOST) return fails("the file", "is broken"), 1;
        int is_there = fread(bytes, 1, (size_t)size, graphs) == (size_t)size;
        for (int i = 0; i < n_in; i++) is_there = is_there && read_tensor(&in[i]);
        for (int i = 0; i < n_out; i++) is_there = is_there && read_tensor(&out[i]);
        if (!is_there) return fails("the file", "is broken"), 1;
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_onnx *o = fold_onnx_open_memory(m, bytes, (size_t)size, NULL);
        if (!o) fails("refused", fold_model_message(m));
        memset(got, 0, sizeof got);
        shares = 0;
        int right = o && alone(o, f, got) && together(o, f, 0, got) && together(o, f, 1, got);
        shares = right && n_in > 1;
        right = right && (!shares || (alone(o, f, mixed) && together(o, f, 1, mixed)));
        if (right && file && number % every == 0) {
            if (print(m, o, file)) checks[n_checks++] = number, printed++;
            else refused++, fails("as C", "an op cannot be printed");
        }
        for (int i = 0; i < n_out * AGENTS && results; i++) fwrite(got[i / AGENTS][i % AGENTS], sizeof **got[0], (size_t)out[i / AGENTS].count, results);
        fold_onnx_close(o);
        fold_ctx_free(f);
        fold_model_free(m);
        if (argc > 4 && number == atoi(argv[4])) { /* one graph as a file */
            FILE *one = fopen("graph.onnx", "wb");
            if (one) fwrite(bytes, 1, (size_t)size, one), fclose(one);
        }
    }
    if (results && fclose(results)) fails("results", "cannot be written");
    if (file) {
        fprintf(file, "#include <stdio.h>\nint main(void)\n{\n    int failed = 0;\n");
        for (int i = 0; i < n_checks; i++) fprintf(file, "    if (check%d()) failed++, printf(\"graph %d differs as C\\n\");\n", checks[i], checks[i]);
        fprintf(file, "    return failed != 0;\n}\n");
        fclose(file);
    }
    printf("RESULT random_onnx graphs=%d failed=%d printed=%d not_printed=%d\n", number, failures, printed, refused);
    return failures != 0;
}
