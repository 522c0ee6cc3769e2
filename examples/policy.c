/* policy: runs a network from an ONNX file, such as the policy.onnx of a robot or a game, for any number of
   agents at once.

     cc -O2 -o policy examples/policy.c -lm && ./policy policy.onnx --agents 256 --time

   The program prints the file's inputs, outputs and metadata. Without a file, it writes a small network to
   policy.onnx and runs that. Observations are text: one line per agent, with the values of all inputs, in the
   order of the ONNX file, separated by commas or blanks. Without an observation file they are random. The
   program prints the actions, one line per agent, with the values of all outputs. Without --seed, actions
   have no noise, and a choice is the most probable one.

   --shape NAME=1x4x60 sets the shape of an input whose dimensions the file leaves open; by default, they are
   1. --bind NAME=16000 makes an input a constant, such as a sample rate on which the network branches. Both
   options may be given several times. A state is an input, such as h_in, that gets the value of an output of
   the previous step, such as h_out. The program pairs such inputs and outputs by name and shape. Other inputs
   are observations, unless they are masks or whole numbers.

   --c FILE prints the network as C (fold_to_c.h) for --agents agents, as a function with one argument per
   input and output. For one robot with one network, printed C is faster and needs no library; for many robots
   at once, fold.h is faster. --quantize 8 prints the weights as int8.

   --check DIR compares the outputs with those of another program. DIR/index.txt has these lines:
     model FILE ...            the network's file
     cases N                   there are N cases
     input K NAME d0 d1 ...    DIR/caseC_inK.f32 is this input of case C, as little-endian floats
     output K NAME d0 d1 ...   DIR/caseC_outK.f32 is the expected output
     probe K NAME d0 d1 ...    the same for an inner tensor
   Differences are divided by the tensor's largest finite value; infinities must be equal. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "fold_onnx.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "fold_to_c.h"
#include "options.h"
#include "unfused.h"
#include <math.h>

enum { MOST = 64, LEAST_BYTES = 1024 }; /* inputs, outputs; values that a weight needs to become bytes */
static int failed(const char *message) { return fprintf(stderr, "policy: %s\n", message), 1; }

/* ---- a small file: dense layers of 4, 16 and 2 --------------------------------------------------- */

typedef struct message { unsigned char bytes[4096]; size_t size; } message;
static void put(message *m, int field, const void *bytes, size_t size) /* of fewer than 16384 bytes */
{
    m->bytes[m->size++] = (unsigned char)(field << 3 | 2);
    if (size > 127) m->bytes[m->size++] = (unsigned char)(size | 128);
    m->bytes[m->size++] = (unsigned char)(size > 127 ? size >> 7 : size);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}
static void put_text(message *m, int field, const char *text) { put(m, field, text, strlen(text)); }
static void put_number(message *m, int field, int value)
{
    m->bytes[m->size++] = (unsigned char)(field << 3);
    m->bytes[m->size++] = (unsigned char)value;
}
static void put_weight(message *graph, fold_random *r, const char *name, int rows, int columns)
{
    message tensor = { { 0 }, 0 };
    float values[64];
    unsigned char little[64 * 4];
    fold_random_gaussian(r, NULL, NULL, rows * columns, values);
    for (int i = 0; i < 4 * rows * columns; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i / 4], sizeof bits);
        little[i] = (unsigned char)(bits >> 8 * (i % 4));
    }
    if (rows > 1) put_number(&tensor, 1, rows);
    put_number(&tensor, 1, columns);
    put_number(&tensor, 2, 1); /* float */
    put_text(&tensor, 8, name);
    put(&tensor, 9, little, 4 * (size_t)(rows * columns));
    put(graph, 5, tensor.bytes, tensor.size);
}
static void put_node(message *graph, const char *op, const char *a, const char *b, const char *c, const char *y)
{
    message node = { { 0 }, 0 };
    put_text(&node, 1, a);
    if (b) put_text(&node, 1, b);
    if (c) put_text(&node, 1, c);
    put_text(&node, 2, y);
    put_text(&node, 4, op);
    put(graph, 1, node.bytes, node.size);
}
static void put_value(message *graph, int field, const char *name, int n) /* a float [1 x n] */
{
    message dim[2] = { { { 0 }, 0 }, { { 0 }, 0 } }, shape = dim[0], tensor = dim[0], type = dim[0], value = dim[0];
    for (int k = 0; k < 2; k++) {
        put_number(&dim[k], 1, k ? n : 1);
        put(&shape, 1, dim[k].bytes, dim[k].size);
    }
    put_number(&tensor, 1, 1);
    put(&tensor, 2, shape.bytes, shape.size);
    put(&type, 1, tensor.bytes, tensor.size);
    put_text(&value, 1, name);
    put(&value, 2, type.bytes, type.size);
    put(graph, field, value.bytes, value.size);
}
/* A file with this graph, of opset 13. */
static void put_file(message *file, const message *graph)
{
    static message version, metadata;
    version.size = metadata.size = file->size = 0;
    put_number(&version, 2, 13);
    put_text(&metadata, 1, "joint_names");
    put_text(&metadata, 2, "hip,knee");
    put_number(file, 1, 8);
    put(file, 8, version.bytes, version.size);
    put(file, 7, graph->bytes, graph->size);
    put(file, 14, metadata.bytes, metadata.size);
}
static int write_file(const char *path)
{
    static message graph, file;
    fold_random r = fold_random_new(1, 0);
    put_value(&graph, 11, "obs", 4);
    put_weight(&graph, &r, "first.weight", 4, 16);
    put_weight(&graph, &r, "first.bias", 1, 16);
    put_weight(&graph, &r, "second.weight", 16, 2);
    put_weight(&graph, &r, "second.bias", 1, 2);
    put_node(&graph, "Gemm", "obs", "first.weight", "first.bias", "first");
    put_node(&graph, "Tanh", "first", NULL, NULL, "hidden");
    put_node(&graph, "Gemm", "hidden", "second.weight", "second.bias", "actions");
    put_value(&graph, 12, "actions", 2);
    put_file(&file, &graph);
    FILE *out = fopen(path, "wb");
    const size_t written = out ? fwrite(file.bytes, 1, file.size, out) : 0;
    return out == NULL || fclose(out) != 0 || written != file.size ? failed("policy.onnx cannot be written") : 0;
}

/* ---- a step of all agents ---------------------------------------------------------------------- */

/* A name without what tells a state from the next one: "h_in", "h_out", "hn" and "h0" are h. */
static void name_state(const char *name, char key[64])
{
    static const char *const words[12] = { "in", "out", "ins", "outs", "input", "output", "next", "new", "prev", "previous", "last", "old" };
    size_t length = 0;
    for (size_t n; *name && length < 40; name += n + (name[n] != 0)) {
        int drop = 0;
        n = strcspn(name, "_./:-");
        for (int i = 0; i < 12; i++) drop |= n == strlen(words[i]) && !strncmp(name, words[i], n);
        for (size_t i = 0; i < n && !drop && length < 40; i++) key[length++] = name[i];
    }
    if (length > 1 && strchr("0nN", key[length - 1])) length--;
    key[length] = 0;
}
/* The output that is the next value of an input; NULL: the input is no state. */
static const char *next_state(const fold_onnx *o, fold_onnx_tensor in)
{
    char key[64], other[64];
    name_state(in.name, key);
    for (int i = 0; i < fold_onnx_output_count(o); i++) {
        const fold_onnx_tensor out = fold_onnx_output(o, i);
        name_state(out.name, other);
        if (*key && out.count == in.count && !strcmp(key, other) && out.rank == in.rank && !memcmp(out.dim, in.dim, sizeof in.dim)) return out.name;
    }
    return NULL;
}
static void print_tensor(const fold_onnx *o, const char *kind, fold_onnx_tensor tensor)
{
    const char *next = *kind == 'i' ? next_state(o, tensor) : NULL;
    printf("%-8s %s [", kind, tensor.name);
    for (int k = 0; k < tensor.rank; k++) printf(k ? " x %d" : "%d", tensor.dim[k]);
    printf("]%s%s", tensor.count ? "" : ", which is not read", tensor.is_constant ? ", constant" : tensor.is_integer ? ", whole" : "");
    if (next) printf(", state: %s <- %s", tensor.name, next);
    else if (*kind == 'i' && !tensor.is_integer) printf(strstr(tensor.name, "mask") ? ", mask" : ", observation");
    puts("");
}

/* Fills what all agents observe: as read, or at random. */
static int observe(const char *path, float *values, int count)
{
    fold_random r = fold_random_new(2, 0);
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!path) fold_random_gaussian(&r, NULL, NULL, count, values);
    if (path && !file) return failed("the observations cannot be opened");
    for (int i = 0; file && i < count; i++) {
        if (fscanf(file, " %f", &values[i]) != 1) return failed("there are too few observations for so many agents");
        fscanf(file, " ,");
    }
    if (file) fclose(file);
    return 0;
}
static int write_actions(const char *path, fold_ctx *f, const fold_onnx *o, fold_onnx_value *const *out, int n_out, int agents)
{
    FILE *file = fopen(path, "w");
    for (int a = 0; file && a < agents; a++)
        for (int i = 0; i < n_out; i++) {
            const int count = fold_onnx_find(o, out[a][i].name).count;
            const float *y = fold_value(f, out[a][i].node);
            for (int k = 0; k < count; k++) fprintf(file, "%.9g%c", (double)y[k], k + 1 == count && i + 1 == n_out ? '\n' : ',');
        }
    return file && !fclose(file) ? 0 : failed("the actions cannot be written");
}
static double measure(fold_ctx *f) /* returns the least microseconds of a step; below 0: it failed */
{
    double least = 1e30;
#ifdef FOLD_HAS_CLOCK
    const uint64_t begin = fold_clock_monotonic(NULL);
    while (fold_clock_monotonic(NULL) - begin < 500000000) {
        const uint64_t before = fold_clock_monotonic(NULL);
        if (fold_replay(f)) return -1;
        const double took = (double)(fold_clock_monotonic(NULL) - before) / 1000;
        if (took < least) least = took;
    }
#else
    (void)f;
#endif
    return least;
}

typedef struct settings {
    const char *path, *in, *out, *check, *c, *shape[MOST], *bind[MOST];
    int n_shape, n_bind, agents, time, bits;
    uint64_t seed;
} settings;
static int step(const settings *s, fold_model *m, fold_onnx *o)
{
    const int n_in = fold_onnx_input_count(o) < MOST ? fold_onnx_input_count(o) : MOST;
    fold_onnx_value in[MOST], **out = (fold_onnx_value **)calloc((size_t)s->agents, sizeof *out);
    int width = 0, n_out = 0;
    for (int i = 0; i < n_in; i++) width += fold_onnx_input(o, i).count;
    float *values = (float *)calloc((size_t)s->agents * (size_t)width + 1, sizeof *values);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_random chance = fold_random_new(s->seed, 0);
    int wrong = !out || !values ? failed("no memory") : observe(s->in, values, s->agents * width);
    const float *at = values;
    for (int a = 0; a < s->agents && !wrong; a++) {
        out[a] = (fold_onnx_value *)calloc(MOST, sizeof **out);
        for (int i = 0; i < n_in; i++) {
            const fold_onnx_tensor tensor = fold_onnx_input(o, i);
            in[i].name = tensor.name;
            in[i].values = NULL;
            in[i].node = fold_input_ref(f, at, fold_shape1(tensor.count)); /* so that it can be replayed */
            at += tensor.count;
        }
        n_out = 0;
        for (int i = 0; i < fold_onnx_output_count(o) && n_out < MOST; i++) {
            const fold_onnx_tensor tensor = fold_onnx_output(o, i);
            if (tensor.count && !tensor.is_constant) out[a][n_out++].name = tensor.name;
        }
        wrong = fold_onnx_record(o, f, in, n_in, s->seed ? &chance : NULL, out[a], n_out) != FOLD_OK;
        for (int i = 0; i < n_out; i++) fold_keep(f, out[a][i].node);
    }
    if (!wrong || values) wrong = fold_run(f, NULL, 0) != FOLD_OK || wrong;
    if (wrong && fold_ctx_status(f)) failed(fold_ctx_message(f));
    for (int i = 0; i < n_out && !wrong && s->agents; i++) {
        const int count = fold_onnx_find(o, out[0][i].name).count;
        printf("%s of the first agent", out[0][i].name);
        for (int k = 0; k < count && k < 6; k++) printf(" %.4g", (double)fold_value(f, out[0][i].node)[k]);
        puts(count > 6 ? " ..." : "");
    }
    if (!wrong && s->out) wrong = write_actions(s->out, f, o, out, n_out, s->agents);
    const double took = !wrong && s->time ? measure(f) : 0;
    if (took > 0) printf("a step of %d agents takes %.1f us\n", s->agents, took);
    if (!wrong) printf("RESULT policy agents=%d inputs=%d outputs=%d us=%.1f\n", s->agents, width, n_out, took);
    for (int a = 0; a < s->agents && out; a++) free(out[a]);
    free(out);
    free(values);
    fold_ctx_free(f);
    return wrong;
}
/* ---- as C ---------------------------------------------------------------------------------------- */

/* An argument's name: "in_" or "out_" and the tensor's, with '_' for what no name of C has, and a number behind it if another one
   has that name. */
static void name_port(char names[][48], int number, const char *kind, const char *tensor)
{
    char *name = names[number];
    snprintf(name, 48, "%s_%.24s", kind, tensor);
    for (char *at = name; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9'))) *at = '_';
    const size_t length = strlen(name);
    for (int i = 0, next = 2; i < number; i++)
        if (!strcmp(names[i], name)) {
            snprintf(name + length, 48 - length, "_%d", next++);
            i = -1;
        }
}
static fold_to_c_result to_c(const settings *s, fold_model *m, fold_onnx *o, fold_to_c_print_op *print_op, fold_writer *write, FILE *file)
{
    static char names[2][MOST][48];
    static fold_to_c_port port[2][MOST];
    fold_onnx_value in[MOST], out[MOST];
    fold_ctx_desc eager = fold_ctx_desc_default();
    fold_to_c_desc desc = fold_to_c_desc_default();
    fold_to_c_result printed;
    eager.eager = 1;
    fold_ctx *f = fold_ctx_new(m, &eager);
    for (int i = 0; i < fold_onnx_input_count(o) && desc.n_in < MOST; i++, desc.n_in++) {
        const fold_onnx_tensor tensor = fold_onnx_input(o, i);
        in[i].name = tensor.name;
        in[i].values = NULL;
        in[i].node = port[0][i].node = fold_zeros(f, fold_shape1(tensor.count));
        name_port(names[0], i, "in", tensor.name);
        port[0][i].name = names[0][i];
    }
    for (int i = 0; i < fold_onnx_output_count(o) && desc.n_out < MOST; i++) {
        const fold_onnx_tensor tensor = fold_onnx_output(o, i);
        if (!tensor.count || tensor.is_constant) continue;
        out[desc.n_out].name = tensor.name;
        name_port(names[1], desc.n_out, "out", tensor.name);
        port[1][desc.n_out].name = names[1][desc.n_out];
        desc.n_out++;
    }
    fold_onnx_record(o, f, in, desc.n_in, NULL, out, desc.n_out); /* an error is one of printing, too */
    for (int i = 0; i < desc.n_out; i++) port[1][i].node = out[i].node;
    desc.name = "policy";
    desc.source = s->path;
    desc.agents = s->agents;
    desc.in = port[0];
    desc.out = port[1];
    desc.bytes = s->bits == 8 ? LEAST_BYTES : 0;
    desc.print_op = print_op;
    printed = fold_to_c(f, &desc, write, file);
    fold_ctx_free(f);
    return printed;
}
static int print_c(const settings *s, fold_model *m, fold_onnx *o)
{
    FILE *file = fopen(s->c, "w");
    if (!file) return failed("the C file cannot be opened");
    fold_to_c_result printed = to_c(s, m, o, fold_onnx_print, fold_to_file, file);
    if (fclose(file) && !printed.status) printed.status = FOLD_IO;
    if (!printed.status) printf("RESULT policy c=%s weights=%lu work=%lu\n", s->c, (unsigned long)printed.weight_bytes, (unsigned long)printed.work_bytes);
    return printed.status ? failed(printed.message) : 0;
}
static int go_on(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 0; }
static int stop(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 1; }
static int try_op(const fold_seen *seen, fold_writer *write, void *writer, void *user) { return (void)write, fold_onnx_print(seen, go_on, writer, user); }
/* All ops are tried before anything is written, so that the weights need not be printed. */
static void print_whether_c(const settings *s, fold_model *m, fold_onnx *o)
{
    const fold_to_c_result printed = to_c(s, m, o, try_op, stop, NULL);
    if (printed.status == FOLD_IO) puts("as C     yes: --c FILE prints it");
    else printf("as C     no: %s\n", printed.message);
}

/* ---- settings of inputs -------------------------------------------------------------------------- */

/* The binding of the input in "NAME=..."; its value becomes what follows. */
static fold_onnx_binding *binding_of(const char *text, fold_onnx_binding *bindings, int *n, const char **value)
{
    static char names[2 * MOST][200];
    *value = strrchr(text, '=');
    if (!*value || *value == text || *value - text > 199) return NULL;
    snprintf(names[*n], sizeof names[*n], "%.*s", (int)(*value - text), text);
    ++*value;
    for (int i = 0; i < *n; i++)
        if (!strcmp(bindings[i].name, names[*n])) return &bindings[i];
    bindings[*n].name = names[*n];
    return &bindings[(*n)++];
}
static int read_bindings(const settings *s, fold_onnx_binding *bindings, float values[MOST][MOST])
{
    const char *value;
    char *end = NULL;
    int n = 0;
    for (int i = 0; i < s->n_shape; i++) {
        fold_onnx_binding *b = binding_of(s->shape[i], bindings, &n, &value);
        for (int more = b != NULL; more && b->rank < FOLD_ONNX_RANK; value = end + more) {
            const long dim = strtol(value, &end, 10);
            if (end == value || dim < 1 || dim > 1 << 24) return fprintf(stderr, "policy: --shape needs lengths, as in NAME=1x4x60, not '%s'\n", s->shape[i]), -1;
            b->dim[b->rank++] = (int)dim;
            more = *end == 'x';
        }
        if (!b || *end || b->has_shape++) return fprintf(stderr, "policy: --shape needs one shape of an input, as in NAME=1x4x60, not '%s'\n", s->shape[i]), -1;
    }
    for (int i = 0; i < s->n_bind; i++) {
        fold_onnx_binding *b = binding_of(s->bind[i], bindings, &n, &value);
        for (int more = b && !b->values; more && b->count < MOST; value = end + more) {
            values[i][b->count++] = strtof(value, &end);
            if (end == value) return fprintf(stderr, "policy: --bind needs numbers, as in NAME=16000, not '%s'\n", s->bind[i]), -1;
            more = *end == ',';
        }
        if (!b || b->values || *end) return fprintf(stderr, "policy: --bind needs the values of an input, as in NAME=16000 or NAME=1,2, not '%s'\n", s->bind[i]), -1;
        b->values = values[i];
    }
    return n;
}

static int run(const settings *s)
{
    static fold_onnx_binding bindings[2 * MOST];
    static float values[MOST][MOST];
    fold_model_desc desc = fold_model_desc_default();
    fold_onnx_desc onnx = fold_onnx_desc_default();
    desc.inference = 1;
    onnx.bindings = bindings;
    onnx.n_bindings = read_bindings(s, bindings, values);
    if (onnx.n_bindings < 0) return 1;
    fold_model *m = fold_model_new(&desc);
    fold_onnx *o = fold_onnx_open(m, s->path, &onnx);
    fold_quantize_desc quantize = fold_quantize_desc_default();
    quantize.bits = s->bits;
    for (int i = 0; i < fold_onnx_input_count(o); i++) print_tensor(o, "input", fold_onnx_input(o, i));
    for (int i = 0; i < fold_onnx_output_count(o); i++) print_tensor(o, "output", fold_onnx_output(o, i));
    for (int i = 0; i < fold_onnx_metadata_count(o); i++) {
        const char *key = fold_onnx_metadata_key(o, i);
        printf("metadata %s: %s\n", key, fold_onnx_metadata(o, key));
    }
    if (o) print_whether_c(s, m, o);
    quantize.min_values = LEAST_BYTES;
    if (o && !s->c && s->bits && s->bits < 32) fold_model_quantize(m, &quantize);
    const int wrong = fold_model_status(m)        ? failed(fold_model_message(m))
                      : s->c && s->bits == 16 ? failed("--c prints weights of 8 or 32 bits")
                      : s->c                  ? print_c(s, m, o)
                                              : step(s, m, o);
    fold_onnx_close(o);
    fold_model_free(m);
    return wrong;
}

/* ---- beside another program --------------------------------------------------------------------- */

typedef struct wanted { fold_onnx_value value; int is_input, index, count; char name[200]; } wanted;

/* Reads DIR/index.txt; returns how many tensors it tells, or -1. */
static int read_index(const char *folder, wanted *tensors, int *cases, char *model)
{
    char path[600], line[1000], kind[20];
    int n = 0;
    snprintf(path, sizeof path, "%s/index.txt", folder);
    FILE *file = fopen(path, "r");
    if (!file) return failed(path), -1;
    strcpy(model, "model.onnx");
    while (fgets(line, sizeof line, file) && n < 2 * MOST) {
        wanted *t = &tensors[n];
        int at;
        if (sscanf(line, "cases %d", cases) == 1 || sscanf(line, "model %199s", model) == 1) continue;
        if (sscanf(line, "%19s %d %199s%n", kind, &t->index, t->name, &at) != 3) continue;
        t->is_input = !strcmp(kind, "input");
        if (!t->is_input && strcmp(kind, "output") != 0 && strcmp(kind, "probe") != 0) continue;
        t->count = 1;
        for (char *from = line + at, *next; strtol(from, &next, 10) > 0; from = next) t->count *= (int)strtol(from, NULL, 10);
        t->value.name = t->name;
        n++;
    }
    fclose(file);
    return n;
}
static float *read_values(const char *folder, int number, const wanted *t)
{
    char path[600];
    float *values = (float *)calloc((size_t)t->count + 1, sizeof *values);
    snprintf(path, sizeof path, "%s/case%d_%s%d.f32", folder, number, t->is_input ? "in" : "out", t->index);
    FILE *file = fopen(path, "rb");
    const size_t read = file && values ? fread(values, sizeof *values, (size_t)t->count, file) : 0;
    if (file) fclose(file);
    if (read != (size_t)t->count) failed(path);
    return values;
}

/* Returns the largest difference by the largest finite value; 1 where an infinity is missing. */
static double difference(const float *a, const float *b, int n)
{
    double worst = 0, largest = 1e-30;
    for (int i = 0; i < n; i++)
        if (isfinite(b[i]) && fabs((double)b[i]) > largest) largest = fabs((double)b[i]);
    for (int i = 0; i < n && a; i++) {
        const double by = isfinite(a[i]) && isfinite(b[i]) ? fabs((double)a[i] - (double)b[i]) / largest : a[i] == b[i] ? 0 : 1;
        if (by > worst) worst = by;
    }
    return a ? worst : 1;
}
static int check(const char *folder)
{
    static wanted tensors[2 * MOST];
    fold_onnx_value in[MOST], out[MOST];
    char model[200], path[900];
    int cases = 0, compared = 0, wrong = 0;
    double worst = 0;
    int n = read_index(folder, tensors, &cases, model);
    if (n < 0) return 1;
    snprintf(path, sizeof path, "%s/%s", folder, model);
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_onnx *o = fold_onnx_open(m, path, NULL);
    if (!o) failed(fold_model_message(m));
    for (int i = 0; i < n && o; i++) /* what the file has and is not read, such as another robot's reference motion */
        if (!tensors[i].is_input && !fold_onnx_find(o, tensors[i].name).count) {
            printf("output   %s is not read\n", tensors[i].name);
            tensors[i--] = tensors[--n];
        }
    for (int number = 0; number < cases && o && !wrong; number++) {
        int n_in = 0, n_out = 0;
        fold_ctx_reset(f);
        for (int i = 0; i < n && n_in < MOST && n_out < MOST; i++) {
            if (tensors[i].is_input) tensors[i].value.values = read_values(folder, number, &tensors[i]);
            *(tensors[i].is_input ? &in[n_in++] : &out[n_out++]) = tensors[i].value;
        }
        wrong = fold_onnx_record(o, f, in, n_in, NULL, out, n_out) != FOLD_OK;
        for (int i = 0; i < n_out; i++) fold_keep(f, out[i].node);
        if (wrong || fold_run(f, NULL, 0)) wrong = failed(fold_ctx_message(f));
        for (int i = 0, next = 0; i < n; i++) {
            if (tensors[i].is_input) {
                free((void *)(uintptr_t)tensors[i].value.values);
                continue;
            }
            float *expected = read_values(folder, number, &tensors[i]);
            const double by = expected ? difference(fold_value(f, out[next++].node), expected, tensors[i].count) : 1;
            if (by > worst) worst = by;
            if (by > 1e-5) fprintf(stderr, "policy: case %d: '%s' differs by %.2g\n", number, tensors[i].name, by);
            compared++;
            free(expected);
        }
    }
    printf("RESULT policy name=%s worst=%.2g compared=%d refused=%d\n", folder, worst, compared, !o);
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
    return !o || wrong || worst > 1e-5;
}

int main(int argc, char **argv)
{
    settings s = { NULL, NULL, NULL, NULL, NULL, { NULL }, { NULL }, 0, 0, 1, 0, 32, 0 };
    const option table[11] = { option_of_text("FILE", &s.path, "", "the network"),
                              option_of_whole("--agents", &s.agents, 1, 100000, "that are run at once"),
                              option_of_text("--in", &s.in, "FILE", "reads observations"),
                              option_of_text("--out", &s.out, "FILE", "writes actions"),
                              option_of_texts("--shape", s.shape, &s.n_shape, MOST, "NAME=1x4x60", "the shape of an input"),
                              option_of_texts("--bind", s.bind, &s.n_bind, MOST, "NAME=16000", "makes an input a constant"),
                              option_of_flag("--time", &s.time, "measures a step of all agents, replayed"),
                              option_of_whole("--quantize", &s.bits, 8, 32, "bits of weights: 8, 16 or 32"),
                              option_of_seed("--seed", &s.seed, "of noise in actions; 0: none"),
                              option_of_text("--c", &s.c, "FILE", "prints the network as C"),
                              option_of_text("--check", &s.check, "DIR", "compares with what another program computed") };
    options_read(argc, argv, "Runs the network of an ONNX file.", table, OPTION_COUNT(table));
    if (s.check) return check(s.check);
    if (!s.path && write_file("policy.onnx")) return 1;
    if (!s.path) s.path = "policy.onnx";
    return run(&s);
}
