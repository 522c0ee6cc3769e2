/* test_onnx.c - networks from ONNX files: ONNX's own tests of single nodes, trained policies beside what another program
   computed, the same bits alone, in batches, in eager contexts, replayed and in slices; what is refused, by its message.
       cc -O2 -o test_onnx tests/test_onnx.c -lm && ./test_onnx
   FOLD_POLICIES names a folder of policies in the format of examples/policy.c, with a list NODES.txt of node tests that must
   be read. The node tests lie in the Debian package libonnx-testdata. Both are skipped aloud where they are not there. */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "../examples/fold_onnx.h"
#include "check.h"
#include "write_onnx.h"
#include <stdlib.h>
#if defined(__unix__) || defined(__APPLE__)
#include <dirent.h>
#define HAS_FOLDERS 1
#endif

enum { MOST = 64 };

/* ---- files ------------------------------------------------------------------------------------ */

typedef struct bytes { unsigned char *b; size_t n; } bytes;
static bytes read_file(const char *path)
{
    bytes all = { NULL, 0 };
    FILE *file = fopen(path, "rb");
    if (!file) return all;
    all.b = (unsigned char *)malloc(1 << 23);
    all.n = fread(all.b, 1, 1 << 23, file);
    fclose(file);
    return all;
}

/* A TensorProto as floats. It is read by a parser of its own. */
typedef struct tensor { char name[200]; int rank, dim[8], type; long long count; float *values; } tensor;
static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        value |= (uint64_t)(**at & 127) << shift;
        if (*(*at)++ < 128) return value;
    }
}
static int size_of(int type) /* bytes of an element */
{
    return strchr("\007\013\015", type) ? 8 : strchr("\001\006\014", type) ? 4 : strchr("\004\005\012", type) ? 2 : 1;
}
static float element(const unsigned char *from, int type)
{
    uint64_t bits = 0;
    for (int i = size_of(type); i-- > 0;) bits = bits << 8 | from[i];
    const uint32_t low = (uint32_t)bits;
    float f;
    double d;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    if (type == 10) return (float)ldexp(bits & 31744 ? 1024 + (double)(bits & 1023) : 2 * (double)(bits & 1023), (int)(bits >> 10 & 31) - 25) * (bits >> 15 ? -1.0f : 1.0f);
    if (type == 3) return (float)(int8_t)(low & 255);
    if (type == 5) return (float)(int16_t)(low & 65535);
    return type == 1 ? f : type == 11 ? (float)d : type == 6 ? (float)(int32_t)low : (float)(int64_t)bits;
}
static tensor read_tensor(bytes file)
{
    tensor t;
    memset(&t, 0, sizeof t);
    t.count = 1;
    for (const unsigned char *at = file.b, *end = file.b + file.n; at < end;) {
        const uint64_t key = varint(&at), value = varint(&at); /* nothing of another wire is in these files */
        if (key >> 3 == 1 && (key & 7) == 0) t.count = t.count * (t.dim[t.rank++ & 7] = (int)value) % 100000000;
        if (key >> 3 == 2) t.type = (int)value;
        if ((key & 7) != 2) continue;
        const int size = size_of(t.type);
        if (key >> 3 == 1)
            for (const unsigned char *dim = at; dim < at + value;) t.count = t.count * (t.dim[t.rank++ & 7] = (int)varint(&dim)) % 100000000;
        if (key >> 3 == 8) memcpy(t.name, at, value < 199 ? value : 199);
        if (key >> 3 == 9 && value == (uint64_t)t.count * (uint64_t)size) {
            t.values = (float *)malloc((size_t)t.count * sizeof(float) + 4);
            for (int i = 0; i < t.count; i++) t.values[i] = element(at + i * size, t.type);
        }
        at += value;
    }
    return t;
}

/* The largest difference by the largest finite value; 1 where an infinity or a NaN is missing. */
static double difference(const float *a, const float *b, int n)
{
    double worst = 0, largest = 1e-30;
    if (!a || !b) return 1;
    for (int i = 0; i < n; i++)
        if (isfinite(b[i]) && fabs((double)b[i]) > largest) largest = fabs((double)b[i]);
    for (int i = 0; i < n; i++) {
        if (isnan(a[i]) && isnan(b[i])) continue;
        if (isfinite(a[i]) != isfinite(b[i]) || (!isfinite(b[i]) && !(a[i] == b[i]))) return 1;
        if (isfinite(a[i])) worst = fmax(worst, fabs((double)a[i] - (double)b[i]) / largest);
    }
    return worst;
}

/* ---- ONNX's tests of nodes -------------------------------------------------------------------- */

/* Data come in when a sample is recorded; weights, shapes and axes are constants. */
static int is_data(const char *test, int input)
{
    static const char *const two[] = { "test_add", "test_sub", "test_mul", "test_div", "test_pow", "test_less", "test_greater", "test_matmul",
                                       "test_concat", "test_quantizelinear", "test_dequantizelinear", "test_max", "test_min", "test_sum", "test_where", "test_equal", "test_and", "test_or", "test_gemm_t", "test_einsum", "test_mean_" };
    if (strchr(test, '/')) return 1; /* a layer of PyTorch, whose weights are in the file */
    if (!strncmp(test, "test_if", 7) || !strncmp(test, "test_top_k", 10) || !strncmp(test, "test_range", 10)) return 0;
    if (!input) return 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (!strncmp(test, two[i], strlen(two[i]))) return 1;
    return 0;
}

/* Returns 1: right, 0: refused, -1: wrong. */
static int run_node_test(const char *folder, const char *name, char *said)
{
    char path[600];
    static tensor in[MOST], out[MOST];
    fold_onnx_binding bindings[MOST];
    fold_onnx_value given[MOST], asked[MOST];
    int n_in = 0, n_out = 0, n_given = 0, result = 0;
    for (int kind = 0; kind < 2; kind++)
        for (int *n = kind ? &n_out : &n_in; *n < MOST; ++*n) {
            snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s_%d.pb", folder, name, kind ? "output" : "input", *n);
            bytes file = read_file(path);
            if (!file.b) break;
            (kind ? out : in)[*n] = read_tensor(file);
            free(file.b);
        }
    memset(bindings, 0, sizeof bindings);
    memset(given, 0, sizeof given);
    memset(asked, 0, sizeof asked);
    for (int i = 0; i < n_in; i++) {
        bindings[i].name = in[i].name;
        bindings[i].has_shape = 1;
        bindings[i].rank = in[i].rank;
        memcpy(bindings[i].dim, in[i].dim, sizeof in[i].dim);
        if (!is_data(name, i) || !in[i].values) bindings[i].values = in[i].values;
        else given[n_given].name = in[i].name, given[n_given++].values = in[i].values;
    }
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_onnx_desc desc = fold_onnx_desc_default();
    desc.bindings = bindings;
    desc.n_bindings = n_in && *in[0].name ? n_in : 0; /* without names, they are the inputs in order */
    snprintf(path, sizeof path, "%s/%s/model.onnx", folder, name);
    fold_onnx *o = fold_onnx_open(m, path, &desc);
    for (int i = 0; i < n_given && !desc.n_bindings; i++) given[i].name = fold_onnx_input(o, i).name;
    for (int i = 0; i < n_out; i++) asked[i].name = *out[i].name ? out[i].name : fold_onnx_output(o, i).name;
    snprintf(said, 240, "%s", fold_model_message(m));
    for (int i = 0; i < n_out && o; i++)
        if (!fold_onnx_find(o, asked[i].name).count) result = -2; /* an output that nothing makes, such as a mask of dropout */
    if (o && !result) {
        result = 1;
        fold_onnx_record(o, f, given, n_given, NULL, asked, n_out);
        for (int i = 0; i < n_out; i++) fold_keep(f, asked[i].node);
        if (fold_run(f, NULL, 0)) result = -1, snprintf(said, 240, "%s", fold_ctx_message(f));
        for (int i = 0; i < n_out && result > 0; i++) {
            const float *got = fold_value(f, asked[i].node);
            const double by = !got || !out[i].values ? 1 : difference(got, out[i].values, (int)out[i].count);
            const int counts = fold_onnx_find(o, asked[i].name).count == out[i].count;
            if (by > 1e-5 || !counts) result = -1, snprintf(said, 240, "'%.99s' differs by %g, count %d", asked[i].name, by, counts);
        }
    }
    for (int i = 0; i < n_in; i++) free(in[i].values);
    for (int i = 0; i < n_out; i++) free(out[i].values);
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
    return result == -2 ? 0 : result;
}

/* Whatever ONNX tests of a node is refused or right, and those of the list are right. */
static void node_tests(void)
{
    static const struct { const char *kind; int right; } kinds[] = { { "node", 611 }, { "pytorch-converted", 56 }, { "pytorch-operator", 28 } };
    const char *folder = "/usr/share/libonnx-testdata/data", *policies = getenv("FOLD_POLICIES");
    char said[256], line[300], name[600], path[600];
    int listed = 0;
#ifdef HAS_FOLDERS
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int right = 0, refused = 0;
        snprintf(path, sizeof path, "%s/%s", folder, kinds[i].kind);
        DIR *all = opendir(path);
        if (!all) {
            check_skip("ONNX's tests of nodes (no %s: Debian's libonnx-testdata)", path);
            return;
        }
        for (struct dirent *entry = readdir(all); entry; entry = readdir(all)) {
            if (strncmp(entry->d_name, "test_", 5) != 0) continue;
            if (strstr(entry->d_name, "bernoulli")) continue; /* which draws */
            snprintf(name, sizeof name, "%s%s%s", i ? kinds[i].kind : "", i ? "/" : "", entry->d_name);
            const int result = run_node_test(i ? folder : path, name, said);
            CHECK_SAYS(result >= 0, "%s: %s", name, said);
            if (check.verbose && result == 0) printf("%s: %s\n", name, said);
            right += result > 0;
            refused += result == 0;
        }
        closedir(all);
        printf("%s: %d right, %d refused\n", kinds[i].kind, right, refused);
        CHECK(right >= kinds[i].right);
    }
    snprintf(path, sizeof path, "%s/NODES.txt", policies ? policies : "");
    FILE *list = fopen(path, "r");
    while (list && fgets(line, sizeof line, list)) {
        if (sscanf(line, "%*s %199s", name) != 1) continue;
        CHECK_SAYS(run_node_test("/usr/share/libonnx-testdata/data/node", name, said) == 1, "%s: %s", name, said);
        listed++;
    }
    if (list) fclose(list);
    CHECK(!list || listed == 218);
#else
    (void)kinds, (void)folder, (void)policies, (void)said, (void)line, (void)name, (void)path, (void)listed;
    check_skip("ONNX's tests of nodes (this system has no folders)");
#endif
}

/* ---- trained policies ------------------------------------------------------------------------- */

/* A case's tensor of a policy's folder. */
static float *case_values(const char *folder, int number, const char *kind, int index, int count)
{
    char path[600];
    snprintf(path, sizeof path, "%s/case%d_%s%d.f32", folder, number, kind, index);
    bytes file = read_file(path);
    CHECK_SAYS(file.n == (size_t)count * sizeof(float), "%s has %d bytes", path, (int)file.n);
    return (float *)(void *)file.b;
}

/* The inputs of all cases as a list. */
static fold_node all_cases(const char *folder, fold_ctx *f, int cases, int index, int count)
{
    float *all = (float *)malloc((size_t)cases * (size_t)count * sizeof(float));
    for (int c = 0; c < cases && all; c++) {
        float *values = case_values(folder, c, "in", index, count);
        memcpy(all + (size_t)c * (size_t)count, values, (size_t)count * sizeof(float));
        free(values);
    }
    const fold_node list = fold_list_input(f, all, cases, fold_shape1(count));
    free(all);
    return list;
}

/* Compares all cases, recorded into one run; they are in the format that examples/policy.c tells. */
static void policy_test(const char *folder, int quantized, int as_list)
{
    char path[600], line[1000], kind[20], name[200], names[MOST][200];
    int cases = 0, n_in = 0, n_out = 0, index[MOST], count[MOST];
    snprintf(path, sizeof path, "%s/index.txt", folder);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        int which, at;
        sscanf(line, "cases %d", &cases);
        if (sscanf(line, "%19s %d %199s%n", kind, &which, name, &at) != 3) continue;
        const int is_in = !strcmp(kind, "input"), is_out = !strcmp(kind, "output") || !strcmp(kind, "probe");
        if ((!is_in && !is_out) || n_in + n_out == MOST) continue;
        index[n_in + n_out] = which;
        count[n_in + n_out] = 1;
        for (char *from = line + at, *next; strtol(from, &next, 10) > 0; from = next) count[n_in + n_out] *= (int)strtol(from, NULL, 10);
        strcpy(names[n_in + n_out], name);
        *(is_in ? &n_in : &n_out) += 1; /* inputs come first */
    }
    if (file) fclose(file);
    fold_model_desc model = fold_model_desc_default();
    model.inference = quantized;
    fold_model *m = fold_model_new(&model);
    fold_ctx *f = fold_ctx_new(m, NULL);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    fold_onnx *o = fold_onnx_open(m, path, NULL);
    CHECK_SAYS(o != NULL, "%s: %s", folder, fold_model_message(m));
    if (quantized) CHECK_INT(fold_model_quantize(m, NULL), FOLD_OK);
    fold_ctx_reset(f);
    static fold_onnx_value in[MOST], out[16][MOST];
    for (int c = 0; c < (as_list ? 1 : cases) && o; c++) {
        for (int i = 0; i < n_in; i++) {
            in[i].name = names[i];
            in[i].values = as_list ? NULL : case_values(folder, c, "in", index[i], count[i]);
            if (as_list) in[i].node = all_cases(folder, f, cases, index[i], count[i]);
        }
        for (int i = 0; i < n_out; i++) out[c][i].name = names[n_in + i];
        CHECK_INT(fold_onnx_record(o, f, in, n_in, NULL, out[c], n_out), FOLD_OK);
        for (int i = 0; i < n_in; i++) free((float *)(uintptr_t)in[i].values);
        for (int i = 0; i < n_out; i++) fold_keep(f, out[c][i].node);
    }
    CHECK_SAYS(!fold_run(f, NULL, 0), "%s: %s", folder, fold_ctx_message(f));
    for (int c = 0; c < cases && o; c++)
        for (int i = 0; i < n_out; i++) {
            float *wanted = case_values(folder, c, "out", index[n_in + i], count[n_in + i]);
            const float *values = fold_value(f, out[as_list ? 0 : c][i].node);
            const double by = difference(values + (as_list ? (size_t)c * (size_t)count[n_in + i] : 0), wanted, count[n_in + i]);
            CHECK_SAYS(quantized || by <= 1e-5, "%s: case %d, '%s' differs by %g", folder, c, out[c][i].name, by);
            free(wanted);
        }
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
}
static void policies(void)
{
    const char *folder = getenv("FOLD_POLICIES");
    if (!folder) {
        check_skip("trained policies (FOLD_POLICIES names no folder)");
        return;
    }
#ifdef HAS_FOLDERS
    char path[600];
    int count = 0;
    DIR *all = opendir(folder);
    CHECK(all != NULL);
    for (struct dirent *entry = all ? readdir(all) : NULL; entry; entry = readdir(all)) {
        snprintf(path, sizeof path, "%.400s/%.100s/index.txt", folder, entry->d_name);
        FILE *index = fopen(path, "r");
        if (!index) continue;
        fclose(index);
        snprintf(path, sizeof path, "%.400s/%.100s", folder, entry->d_name);
        policy_test(path, 0, 0);
        policy_test(path, 1, 0);
        policy_test(path, 0, 1);
        count++;
    }
    if (all) closedir(all);
    CHECK(count > 0);
#endif
}

/* ---- a network that is written here ----------------------------------------------------------- */

enum { AGENTS = 7, OUTPUTS = 6 };
static const char *const outputs[OUTPUTS] = { "actions", "choice", "best", "h_out", "seen.active", "log_shares" };
static message network;

typedef struct agent { float obs[4], picture[72], h[3]; } agent;
static agent agent_of(int number, int frame)
{
    agent a;
    fold_random r = fold_random_new((uint64_t)number + 1, (uint64_t)frame);
    fold_random_gaussian(&r, NULL, NULL, 4, a.obs);
    fold_random_gaussian(&r, NULL, NULL, 72, a.picture);
    fold_random_gaussian(&r, NULL, NULL, 3, a.h);
    return a;
}
static void record_agent(fold_onnx *o, fold_ctx *f, const agent *a, int by_reference, fold_random *chance, fold_onnx_value *out)
{
    const fold_node none = { 0, 0 };
    fold_onnx_value in[3] = { { "obs", a->obs, none }, { "picture", a->picture, none }, { "h_in", a->h, none } };
    if (by_reference) {
        in[0].node = fold_input_ref(f, a->obs, fold_shape1(4));
        in[1].node = fold_input_ref(f, a->picture, fold_shape4(1, 2, 6, 6));
        in[2].node = fold_input_ref(f, a->h, fold_shape3(1, 1, 3));
        for (int i = 0; i < 3; i++) in[i].values = NULL;
    }
    for (int i = 0; i < OUTPUTS; i++) out[i].name = outputs[i];
    CHECK_INT(fold_onnx_record(o, f, in, 3, chance, out, OUTPUTS), FOLD_OK);
    for (int i = 0; i < OUTPUTS; i++) fold_keep(f, out[i].node);
}
static int same_values(fold_onnx *o, fold_ctx *f, const fold_onnx_value *a, fold_ctx *g, const fold_onnx_value *b)
{
    int same = 1;
    for (int i = 0; i < OUTPUTS; i++) {
        const float *x = fold_value(f, a[i].node), *y = fold_value(g, b[i].node);
        same &= x && y && !memcmp(x, y, (size_t)fold_onnx_find(o, outputs[i]).count * sizeof *x);
    }
    return same;
}

/* All agents as the rows of a list: each row has the bits of an agent alone, and noise is not drawn once for all. */
static void as_lists(void)
{
    static float rows[3][AGENTS * 72];
    static const int count[3] = { 4, 72, 3 };
    static const char *const inputs[3] = { "obs", "picture", "h_in" };
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL), *alone = fold_ctx_new(m, NULL);
    fold_onnx *o = fold_onnx_open_memory(m, network.bytes, network.size, NULL);
    fold_onnx_value in[3], out[OUTPUTS], single[OUTPUTS];
    agent agents[AGENTS];
    for (int i = 0; i < AGENTS; i++) {
        agents[i] = agent_of(i, 0);
        const float *const from[3] = { agents[i].obs, agents[i].picture, agents[i].h };
        for (int k = 0; k < 3; k++) memcpy(rows[k] + i * count[k], from[k], (size_t)count[k] * sizeof(float));
    }
    for (int k = 0; k < 3; k++) {
        in[k].name = inputs[k];
        in[k].values = NULL;
        in[k].node = fold_list_input(f, rows[k], AGENTS, fold_shape1(count[k]));
    }
    for (int i = 0; i < OUTPUTS; i++) out[i].name = outputs[i];
    CHECK_INT(fold_onnx_record(o, f, in, 3, NULL, out, OUTPUTS), FOLD_OK);
    CHECK_TEXT(fold_ctx_message(f), "");
    for (int i = 0; i < OUTPUTS; i++) fold_keep(f, out[i].node);
    CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
    for (int a = 0; a < AGENTS; a++) {
        fold_ctx_reset(alone);
        record_agent(o, alone, &agents[a], 0, NULL, single);
        CHECK_INT(fold_run(alone, NULL, 0), FOLD_OK);
        for (int i = 0; i < OUTPUTS; i++) {
            const int n = fold_onnx_find(o, outputs[i]).count;
            CHECK_INT(fold_list_length(f, out[i].node), AGENTS);
            CHECK_BITS(fold_value(f, out[i].node) + a * n, fold_value(alone, single[i].node), n);
        }
    }
    fold_random chance = fold_random_new(5, 0);
    CHECK_INT(fold_onnx_record(o, f, in, 3, &chance, out, OUTPUTS), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "cannot draw noise for a list; pass the noise as an input");
    fold_onnx_close(o);
    fold_ctx_free(alone);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Alone, in a batch, in an eager context, replayed with other data, and in slices: the same bits. */
static void same_bits(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_ctx *batch = fold_ctx_new(m, &desc), *alone = fold_ctx_new(m, &desc);
    desc.eager = 1;
    fold_ctx *eager = fold_ctx_new(m, &desc);
    fold_onnx *o = fold_onnx_open_memory(m, network.bytes, network.size, NULL);
    CHECK_TEXT(fold_model_message(m), "");
    fold_onnx_value out[AGENTS][OUTPUTS], single[OUTPUTS];
    agent agents[AGENTS];
    for (int noise = 0; noise < 2; noise++) {
        fold_ctx_reset(batch);
        for (int i = 0; i < AGENTS; i++) {
            fold_random chance = fold_random_new(5, (uint64_t)i);
            agents[i] = agent_of(i, 0);
            record_agent(o, batch, &agents[i], 1, noise ? &chance : NULL, out[i]);
        }
        CHECK_INT(fold_run(batch, NULL, 0), FOLD_OK);
        for (int frame = 0; frame < 3; frame++) {
            for (int i = 0; i < AGENTS; i++) agents[i] = agent_of(i, frame);
            if (frame) CHECK_INT(fold_replay(batch), FOLD_OK);
            for (int i = 0; i < AGENTS; i++)
                for (int is_eager = 0; is_eager < 2; is_eager++) {
                    fold_ctx *f = is_eager ? eager : alone;
                    fold_random chance = fold_random_new(5, (uint64_t)i);
                    fold_ctx_reset(f);
                    record_agent(o, f, &agents[i], 0, noise ? &chance : NULL, single);
                    CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
                    CHECK(same_values(o, batch, out[i], f, single));
                }
        }
    }
    fold_ctx_reset(batch);
    for (int i = 0; i < AGENTS; i++) record_agent(o, batch, &agents[i], 0, NULL, out[i]);
    CHECK_INT(fold_run_begin(batch, NULL, 0), FOLD_OK);
    for (int more = 1; more;) CHECK_INT(fold_run_more(batch, 0, &more), FOLD_OK);
    fold_ctx_reset(alone);
    record_agent(o, alone, &agents[2], 0, NULL, single);
    CHECK_INT(fold_run(alone, NULL, 0), FOLD_OK);
    CHECK(same_values(o, batch, out[2], alone, single));
    fold_onnx_close(o);
    fold_ctx_free(batch);
    fold_ctx_free(alone);
    fold_ctx_free(eager);
    fold_model_free(m);
}

/* In blocks alone; weights learn, and are saved under the names of the file. */
static void blocks(void)
{
    static double place[2][1 << 18];
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_onnx_desc onnx = fold_onnx_desc_default();
    model.memory.block = place[0];
    desc.memory.block = place[1];
    model.memory.block_size = desc.memory.block_size = sizeof place[0];
    onnx.prefix = "left.";
    desc.training = 1;
    fold_model *m = fold_model_new(&model);
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_onnx *o = fold_onnx_open_memory(m, network.bytes, network.size, &onnx);
    CHECK_TEXT(fold_model_message(m), "");
    CHECK(!fold_param_is_null(fold_param_find(m, "left.filter.bias")));
    fold_sgd sgd = fold_sgd_default();
    double first = 0, last = 0;
    sgd.rate = 0.05f;
    for (int step = 0; step < 60 && o; step++) {
        fold_onnx_value out[OUTPUTS];
        const agent a = agent_of(0, 0);
        static const float target[4] = { 1, -1, 0.5f, 0 };
        fold_ctx_reset(f);
        record_agent(o, f, &a, 0, NULL, out);
        const fold_node loss = fold_squared_error(f, out[0].node, fold_input(f, target, 4));
        CHECK_INT(fold_backward(f, loss), FOLD_OK);
        last = (double)fold_value(f, loss)[0];
        if (!step) first = last;
        CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
    }
    CHECK_SAYS(last < first / 10, "the loss goes from %g to %g", first, last);
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
}

static void contract(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_onnx *o = fold_onnx_open_memory(m, network.bytes, network.size, NULL);
    CHECK_INT(fold_onnx_input_count(o), 3);
    CHECK_INT(fold_onnx_output_count(o), 6);
    CHECK_TEXT(fold_onnx_input(o, 1).name, "picture");
    CHECK_INT(fold_onnx_input(o, 1).count, 72);
    CHECK_INT(fold_onnx_input(o, 1).rank, 4);
    CHECK_INT(fold_onnx_input(o, 1).dim[0], 1);
    CHECK_INT(fold_onnx_output(o, 1).is_integer, 1);
    CHECK_INT(fold_onnx_output(o, 4).is_constant, 1);
    CHECK_INT(fold_onnx_output(o, 5).count, 0);
    CHECK(!fold_onnx_find(o, "nowhere").name);
    CHECK_INT(fold_onnx_metadata_count(o), 1);
    CHECK_TEXT(fold_onnx_metadata_key(o, 0), "joint_names");
    CHECK_TEXT(fold_onnx_metadata(o, "joint_names"), "hip,knee");
    CHECK(!fold_onnx_metadata(o, "scale"));
    fold_onnx_close(o);
    fold_model_free(m);
}

/* What only moves elements is read past, ops of elements run before it, a weight takes a permutation in, and a norm that is written
   out is one op: all of that must keep values, also of inner tensors. */
static void moves(void)
{
    static message graph, file;
    static float weight[12], gain[6] = { 1, 2, 3, 4, 5, 6 }, bias[6] = { 6, 5, 4, 3, 2, 1 };
    static const float two = 2, epsilon = 0.5f, x[6] = { 1, -2, 3, -4, 5, 7 };
    static const char *const names[4] = { "turned", "y", "normed", "plain" };
    const fold_node none = { 0, 0 };
    float turned[6], y[2] = { 0, 0 }, normed[6], plain[6];
    double mean = 0, variance = 0;
    for (int i = 0; i < 12; i++) weight[i] = (float)(i * i % 7) - 2;
    for (int i = 0; i < 6; i++) mean += (double)x[i] / 6;
    for (int i = 0; i < 6; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean) / 6;
    for (int i = 0; i < 6; i++) {
        const float before = x[i % 2 * 3 + i / 2]; /* of [2 x 3], transposed */
        turned[i] = before > 0 ? before : 0.5f * before;
        for (int k = 0; k < 2; k++) y[k] += turned[i] * weight[2 * i + k];
        plain[i] = (float)(((double)x[i] - mean) / sqrt(variance + 0.5));
        normed[i] = plain[i] * gain[i] + bias[i];
    }
    graph.size = 0;
    put_value(&graph, 11, "x", "1 6");
    put_tensor(&graph, 5, "W", "6 2", weight);
    put_tensor(&graph, 5, "gain", "6", gain);
    put_tensor(&graph, 5, "bias", "6", bias);
    put_tensor(&graph, 5, "two", "", &two);
    put_tensor(&graph, 5, "epsilon", "", &epsilon);
    put_whole(&graph, 5, "rows", "1 2 3");
    put_node(&graph, "Reshape", "x rows", "rows_of_x", "");
    put_node(&graph, "Transpose", "rows_of_x", "columns", "perm=0,2,1");
    put_node(&graph, "LeakyRelu", "columns", "turned", "alpha=0.5");
    put_node(&graph, "Flatten", "turned", "flat", "");
    put_node(&graph, "Gemm", "flat W", "y", "");
    put_node(&graph, "ReduceMean", "x", "mean", "axes=1,");
    put_node(&graph, "Sub", "x mean", "centred", "");
    put_node(&graph, "Pow", "centred two", "squares", "");
    put_node(&graph, "ReduceMean", "squares", "variance", "axes=1,");
    put_node(&graph, "Add", "variance epsilon", "shifted", "");
    put_node(&graph, "Sqrt", "shifted", "deviation", "");
    put_node(&graph, "Div", "centred deviation", "plain", "");
    put_node(&graph, "Mul", "plain gain", "scaled", "");
    put_node(&graph, "Add", "scaled bias", "normed", "");
    put_value(&graph, 12, "y", "1 2");
    put_value(&graph, 12, "normed", "1 6");
    onnx_file(&file, &graph, 13);
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
    CHECK_TEXT(fold_model_message(m), "");
    const float *const wanted[4] = { turned, y, normed, plain };
    for (int inner = 0; inner < 2; inner++) { /* with inner tensors, and without */
        fold_onnx_value in = { "x", x, none }, out[4];
        const int first = !inner, count = inner ? 4 : 2;
        for (int i = 0; i < 4; i++) out[i].name = names[i];
        fold_ctx_reset(f);
        CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, out + first, count), FOLD_OK);
        for (int i = first; i < first + count; i++) fold_keep(f, out[i].node);
        CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
        for (int i = first; i < first + count; i++)
            CHECK_SAYS(difference(fold_value(f, out[i].node), wanted[i], i == 1 ? 2 : 6) < 1e-6, "'%s' differs", names[i]);
        if (!inner) CHECK_INT(fold_ctx_stats(f).run_nodes, 3); /* leaky_relu, linear and layer_norm */
    }
    fold_onnx_value given = { "columns", x, none }, asked = { "y", NULL, none };
    fold_ctx_reset(f);
    CHECK_INT(fold_onnx_record(o, f, &given, 1, NULL, &asked, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "onnx: 'columns' is not an input");
    fold_ctx_reset(f);
    given.name = "X";
    CHECK_INT(fold_onnx_record(o, f, &given, 1, NULL, &asked, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "onnx: nothing is named 'X'; nearest: 'x'");
    fold_ctx_reset(f);
    const fold_onnx_value node = { "x", NULL, fold_constant(f, 1) };
    CHECK_INT(fold_onnx_record(o, f, &node, 1, NULL, &asked, 1), FOLD_BAD_SHAPE);
    CHECK_TEXT(fold_ctx_message(f), "values, its node 1");
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* What looks like a norm but drops the axis of its mean subtracts along another axis; a weight that is a list of floats can train. */
static void lookalikes(void)
{
    static message graph, weight, file;
    static const float epsilon = 0.5f, gain[3] = { 1, 2, 3 }, x[9] = { 1, -2, 3, -4, 5, 7, 0, 2, -1 };
    const fold_node none = { 0, 0 };
    float wanted[9];
    double mean[3] = { 0, 0, 0 }, variance[3] = { 0, 0, 0 };
    for (int i = 0; i < 9; i++) mean[i / 3] += (double)x[i] / 3;
    for (int i = 0; i < 9; i++) variance[i / 3] += ((double)x[i] - mean[i % 3]) * ((double)x[i] - mean[i % 3]) / 3;
    for (int i = 0; i < 9; i++) wanted[i] = (float)(((double)x[i] - mean[i % 3]) / sqrt(variance[i % 3] + 0.5)) * gain[i % 3];
    graph.size = weight.size = 0;
    put_value(&graph, 11, "x", "3 3");
    put_tensor(&graph, 5, "epsilon", "", &epsilon);
    put_number(&weight, 1, 3);
    put_number(&weight, 2, 1);
    put_numbers(&weight, 4, gain, 3, sizeof *gain);
    put_text(&weight, 8, "gain");
    put_message(&graph, 5, &weight);
    put_node(&graph, "ReduceMean", "x", "mean", "axes=1, keepdims=0");
    put_node(&graph, "Sub", "x mean", "centred", "");
    put_node(&graph, "Mul", "centred centred", "squares", "");
    put_node(&graph, "ReduceMean", "squares", "variance", "axes=1, keepdims=0");
    put_node(&graph, "Add", "variance epsilon", "shifted", "");
    put_node(&graph, "Sqrt", "shifted", "deviation", "");
    put_node(&graph, "Div", "centred deviation", "plain", "");
    put_node(&graph, "Mul", "plain gain", "y", "");
    put_value(&graph, 12, "y", "3 3");
    onnx_file(&file, &graph, 13);
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
    fold_onnx_value in = { "x", x, none }, y = { "y", NULL, none };
    CHECK_TEXT(fold_model_message(m), "");
    CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &y, 1), FOLD_OK);
    fold_keep(f, y.node);
    CHECK_INT(fold_backward(f, fold_sum(f, fold_sum(f, fold_square(f, y.node), 0), 0)), FOLD_OK);
    CHECK(difference(fold_value(f, y.node), wanted, 9) < 1e-6);
    const float *grad = fold_param_grad(m, fold_param_find(m, "gain"));
    CHECK(grad && grad[0] != 0);
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* ---- small graphs ------------------------------------------------------------------------------- */

/* A graph of an input x: constants "w 2 3=1,2.5,…;i 2=#1,2;t=!2" ('#': whole numbers, '!': bytes of truth values), nodes "Type in in > out out attributes;…". `says`
   has the values of y, or, from ':' on, a part of the message of what refuses it. */
typedef struct graph_row { int opset; const char *x, *constants, *nodes, *says; } graph_row;
static void put_constants(message *graph, const char *text)
{
    static message t;
    for (size_t n; *text; text += n + (text[n] == ';')) {
        float values[64];
        int64_t whole[64];
        unsigned char truth[64];
        int count = 0;
        char *at;
        n = strcspn(text, ";");
        const char *equals = strchr(text, '='), *from = equals + 1;
        const int is_whole = *from == '#', is_truth = *from == '!';
        t.size = 0;
        for (const char *dim = text + strcspn(text, " ="); dim < equals; dim = at) put_number(&t, 1, strtol(dim, &at, 10));
        for (from += is_whole + is_truth; from < text + n; from = at + (*at == ',')) {
            values[count] = strtof(from, &at);
            whole[count] = (int64_t)values[count];
            truth[count] = (unsigned char)whole[count];
            count++;
        }
        put_number(&t, 2, is_whole ? 7 : is_truth ? 9 : 1);
        put_bytes(&t, 8, text, strcspn(text, " ="));
        if (is_truth) put_bytes(&t, 9, truth, (size_t)count);
        else if (is_whole) put_numbers(&t, 9, whole, (size_t)count, sizeof *whole);
        else put_numbers(&t, 9, values, (size_t)count, sizeof *values);
        put_message(graph, 5, &t);
    }
}
static void put_nodes(message *graph, const char *text)
{
    for (size_t n; *text; text += n + (text[n] == ';')) {
        char word[4][200] = { "", "", "", "" };
        int part = 0;
        n = strcspn(text, ";");
        for (size_t i = 0, size; i < n; i += size + (text[i + size] == ' ')) {
            size = strcspn(text + i, " ;");
            if (text[i] == '>') part = 2;
            else if (part == 2 && memchr(text + i, '=', size)) part = 3;
            if (text[i] == '>') continue;
            if (*word[part]) strcat(word[part], " ");
            if (size > 1 || text[i] != '_') strncat(word[part], text + i, size); /* _: an input that is left out */
            part += part == 0;
        }
        put_node(graph, word[0], word[1], word[2], word[3]);
    }
}
static void write_row(message *file, const graph_row *row)
{
    static message graph;
    graph.size = 0;
    put_value(&graph, 11, "x", row->x);
    put_constants(&graph, row->constants);
    put_nodes(&graph, row->nodes);
    put_value(&graph, 12, "y", "");
    onnx_file(file, &graph, row->opset);
}
/* Runs y of x = 1, -2, 3, … alone, and as the last of three rows of a list, of which it must have the same bits. */
static void check_row(const graph_row *row)
{
    static message file;
    static float x[3][256];
    const fold_node none = { 0, 0 };
    char *end;
    for (int i = 0; i < 3 * 256; i++) x[i / 256][i % 256] = (float)(i % 256 % 2 ? -1 - i % 256 : 1 + i % 256) * (i < 512 ? 0.5f : 1);
    write_row(&file, row);
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL), *g = fold_ctx_new(m, NULL);
    fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
    if (*row->says == ':') {
        CHECK_SAYS(!o && strstr(fold_model_message(m), row->says + 1), "%s: %s", row->nodes, fold_model_message(m));
    } else {
        const int n = o ? fold_onnx_find(o, "x").count : 1, count = fold_onnx_find(o, "y").count;
        float rows[3][256];
        fold_onnx_value in = { "x", x[2], none }, y = { "y", NULL, none }, list = { "x", NULL, none }, ys = { "y", NULL, none };
        CHECK_SAYS(o != NULL, "%s: %s", row->nodes, fold_model_message(m));
        CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &y, 1), o ? FOLD_OK : FOLD_BAD_ARGUMENT);
        CHECK_SAYS(!fold_run(f, &y.node, 1), "%s: %s", row->nodes, fold_ctx_message(f));
        for (int i = 0; i < 3 * n; i++) ((float *)rows)[i] = x[i / n][i % n];
        list.node = fold_list_input(g, (const float *)rows, 3, fold_shape1(n));
        fold_onnx_record(o, g, &list, 1, NULL, &ys, 1);
        CHECK_SAYS(!fold_run(g, &ys.node, 1), "%s, as a list: %s", row->nodes, fold_ctx_message(g));
        const int is_list = fold_list_length(g, ys.node) == 3;
        const float *got = fold_value(f, y.node);
        CHECK_INT(fold_read(g, &ys.node, 1, (float *)rows), FOLD_OK);
        int i = 0;
        for (const char *at = row->says; got && *at; at = end, i++) {
            const float right = strtof(at, &end);
            const int same = (isinf(right) && got[i] == right) ||
                             (fabsf(got[i] - right) <= 1e-6f * fabsf(right) && (right != 0 || signbit(got[i]) == signbit(right)));
            CHECK_SAYS(same || (isnan(right) && isnan(got[i])), "%s: y[%d] is %g, not %g", row->nodes, i, (double)got[i], (double)right);
        }
        CHECK_SAYS(got && i == count, "%s: %d values, not %d", row->nodes, count, i);
        CHECK_SAYS(got && !memcmp(got, (float *)rows + (is_list ? 2 * count : 0), (size_t)count * sizeof *got), "%s: other bits in a list", row->nodes);
    }
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(m);
}
static void check_rows(const graph_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) check_row(&rows[i]);
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof *(rows))

/* Attributes that a writer of proto3 leaves without a value, since it is 0. */
static void left_out(void)
{
    static const graph_row rows[] = {
        { 13, "2 3", "", "Softmax x > y axis=:2", "0.99330715 0.00091105119 0.99987661 0.0066928509 0.99908895 0.00012339458" },
        { 13, "1 2", "w 2 1=1,2;c 1=5", "Gemm x w c > y beta=:1", "-3" },
        { 13, "1 2", "w 2 1=1,2;c 1=5", "Gemm x w c > y alpha=:1", "5" },
        { 13, "1 2", "", "LeakyRelu x > y alpha=:1", "1 -0" },
        { 13, "1 2", "", "Elu x > y alpha=:1", "1 -0" },
        { 13, "2 2", "", "Flatten x > f axis=:2;ReduceSum f > y keepdims=:2", "-2" },
        { 13, "2 2", "", "Flatten x > a axis=:2;Concat a a > y axis=:2", "1 -2 3 -4 1 -2 3 -4" },
        { 13, "2 2", "", "ArgMax x > i axis=:2 keepdims=:2;Cast i > y to=1", "1 0" },
        { 6, "1 2", "", "Clip x > y min=:1", "1 0" },
        { 6, "1 2", "", "Clip x > y max=:1", "0 -2" },
        { 13, "1 2", "", "Constant > c value_float=:1;Add x c > y", "1 -2" },
        { 13, "1 2", "", "Constant > c value_int=:2;Cast c > d to=1;Add x d > y", "1 -2" },
        { 17, "2 2", "g=2", "LayerNormalization x g > y axis=:2 epsilon=1.0", "1.0444659 -1.0444659 2.4370872 -2.4370872" },
        { 13, "1 2", "", "Pad x > y pads=0,1,0,0 value=:1", "0 1 -2" },
        { 13, "1 2", "", "Softmax x > y axis=1.0", ":Softmax 'y': attribute axis has the wrong type" },
        { 13, "1 2", "", "Softmax x > y axis=:1", ":Softmax 'y': attribute axis has the wrong type" }
    };
    CHECK_ROWS(rows);
}

/* Products of dimensions that no int holds, and dimensions that are none. */
static void large_dims(void)
{
    static const graph_row rows[] = {
        { 17, "1", "n 1=#65536;s 3=#65536,65536,-1", "ConstantOfShape n > w;Reshape w s > v;ReduceSum v > y", ":Reshape 'v': " },
        { 17, "1", "s 3=#16777216,16777216,16777216", "Expand x s > y", ":Expand 'y': a tensor of more than 16777216 values" },
        { 17, "1", "s 3=#65536,65536,65536", "ConstantOfShape s > y", ":ConstantOfShape 'y': a tensor of more than 16777216 values" },
        { 17, "1 1 4000 4000", "w 4000 1 1 1=0", "Conv x w > y", ":weight 'w': " },
        { 17, "1 1 2048 2048", "n 4=#16384,1,1,1", "ConstantOfShape n > w;Conv x w > y", ":Conv 'y': a tensor of more than" },
        { 17, "1 1", "", "Pad x > y pads=2147483647,0,2147483647,0", ":Pad 'y': pads of 2147483647 and 2147483647" },
        { 17, "1 4", "", "Slice x > y starts=-2147483648, ends=2147483647, axes=1,", "1 -2 3 -4" },
        { 17, "1 4", "a 1=#-1;b 1=#-9223372036854775807;c 1=#1;d 1=#-9223372036854775807", "Slice x a b c d > y", ":a step of" },
        { 17, "1 4", "i 1=#9223372036854775807", "Gather x i > y axis=1", ":Gather 'y': axis" },
        { 17, "1 65536", "w 1=1", "Reshape x w > y", ":Reshape 'y': 65536 values into" },
        { 17, "65536 65536", "", "Relu x > y", ":a tensor of more than" },
        { 17, "3 1 4", "w 1 4 4=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0", "LSTM x w w > y hidden_size=2147483647", ":LSTM 'y': " }
    };
    CHECK_ROWS(rows);
    static char gains[1000], norms[2000]; /* 20 gains of a number that is repeated a million times: 80 MB */
    strcpy(norms, "Neg v20 > y;Neg x > v0");
    for (int i = 0; i < 20; i++) {
        snprintf(gains + strlen(gains), 50, "g%d=1;", i);
        snprintf(norms + strlen(norms), 90, ";LayerNormalization v%d g%d g0 > v%d", i, i, i + 1);
    }
    const graph_row wide = { 17, "1000000", gains, norms, ":bytes; raise fold_onnx_desc.max_bytes" };
    check_row(&wide);
}

/* An op of whole numbers makes whole numbers. */
static void whole_numbers(void)
{
    static const graph_row rows[] = {
        { 13, "1 2", "b 2=#2,3;h 1=0.5", "Pow b h > p;Cast p > c to=1;Add x c > y", "2 -1" },
        { 13, "1 3", "b 1=#2;h 1=0.5", "Mul x h > e;Pow b e > p;Cast p > y to=1", "1 0 2" },
        { 13, "1 3", "e 1=2.0", "Cast x > i to=7;Pow i e > p;Cast p > y to=1", "1 4 9" },
        { 13, "1 2", "a 2=#-7,7;b 1=#2", "Div a b > q;Cast q > c to=1;Add x c > y", "-2 1" },
        { 13, "1 2", "a 2=#-1,1;b 1=#2;z 1=-0.0", "Div a b > q;Cast q > c to=1;Mul c z > d;Mul x d > y", "-0 0" },
        { 13, "1 4", "h 1=0.25", "Mul x h > s;Cast s > i to=7;Cast i > y to=1", "0 0 0 -1" },
        { 13, "1 2", "h 2=-0.5,0.5", "Cast h > i to=6;Cast i > c to=1;Sub c x > y", "-1 2" },
        { 13, "1 2", "a 2=#3,5", "ReduceSum a > s;Cast s > c to=1;Add x c > y", "9 6" },
        { 13, "1 2", "a 2=#3,5", "Relu a > s;Cast s > c to=1;Add x c > y", ":Relu 's': 'a' has integers, which are not supported here" },
        { 13, "1 2", "a 2=#3,5;b 1=#4;c 1=#2", "Max a b c > m;Div m c > s;Cast s > d to=1;Add x d > y", "3 0" },
        { 13, "1 2", "a 2=#3,5;b 2=#4,2;z 1=0", "Greater x z > g;Where g a b > w;Cast w > y to=1", "3 2" },
        { 13, "1 2", "a 2=#-7,7;b 2=#0,1", "Div a b > q;Cast q > c to=1;Add x c > y", ":Div 'q': the integer -inf: a division by 0, or too large" },
        { 13, "1 2", "a 2=#65536,2;b 2=#65536,3", "Mul a b > m;Cast m > c to=1;Add x c > y", ":Mul 'm': the integer 4.29497e+09: " },
        { 13, "3", "t 3=!2,0,255", "Cast t > c to=1;Mul x c > y", "1 -0 3" },
        { 13, "3", "t 3=!2,0,255;u 3=!1,0,0", "Equal t u > e;Cast e > c to=1;Mul x c > y", "1 -2 0" },
        { 13, "1 2", "", "Cast x > i to=7;Softmax i > y", ":Softmax 'y': 'i' has integers that are not constant" },
        { 13, "1 2", "n=#3", "Cast x > i to=7;Add i i > s;Mul s n > p;Sub p i > d;Cast d > y to=1", "5 -10" },
        { 13, "4", "n=#-3", "Cast x > i to=7;Mul i i > s;Div s n > q;Cast q > y to=1", "0 -1 -3 -5" },
        { 13, "4", "n=#-3", "Cast x > i to=7;Div n i > q;Cast q > y to=1", "-3 1 -1 0" },
        { 13, "4", "a=#-1;b=#2", "Cast x > i to=7;Clip i a b > c;Cast c > y to=1", "1 -1 2 -1" },
        { 13, "4", "a=#-1;b=#2", "Cast x > i to=7;Max i a > m;Min m b > n;Neg n > o;Abs o > p;Cast p > y to=1", "1 1 2 1" },
        { 13, "4", "a 1=#0", "Cast x > i to=7;ReduceSum i a > s keepdims=0;Sign s > t;Cast t > y to=1", "-1" },
        { 13, "1 2", "n=#1", "Shape x > s;Clip s _ n > c;Cast c > d to=1;Add x d > y", "2 -1" },
        { 13, "4", "m=130", "Mul x m > p;Cast p > b to=2;Cast b > y to=1", "130 252 134 248" },
        { 13, "4", "m=130", "Mul x m > p;Cast p > b to=3;Cast b > y to=1", "-126 -4 -122 -8" },
        { 13, "2", "c 2=300,-129", "Cast c > b to=3;Cast b > d to=1;Mul x d > y", "44 -254" },
        { 13, "2", "", "Cast x > b to=3;Add b b > y", ":Add 'y': 'b' has integers of 8 bits, which wrap; cast them" },
        { 13, "3", "t 3 2=1,2,3,4,5,6", "Cast x > i to=7;Gather t i > y", "3 4 3 4 nan nan" },
        { 13, "2", "t 2 3=1,2,3,4,5,6", "Cast x > i to=7;Gather t i > y axis=1", "2 2 5 5" },
        { 13, "2", "t 2 3=#1,2,3,4,5,6", "Cast x > i to=7;Gather t i > g axis=-1;Add g g > s;Cast s > y to=1", "4 4 10 10" },
        { 13, "2", "", "Cast x > i to=7;Gather x i > y", "-2 1" }
    };
    CHECK_ROWS(rows);
}

/* Lists of no values: axes, lengths, parts of a shape. */
static void empty_lists(void)
{
    static const graph_row rows[] = {
        { 13, "1", "s 0=#", "Reshape x s > y", "1" },
        { 13, "1", "", "Constant > s value_ints=:7;Reshape x s > y", "1" },
        { 13, "1 2", "s 0=#", "ConstantOfShape s > c;Add x c > y", "1 -2" },
        { 13, "", "", "Shape x > s;ConstantOfShape s > c;Add x c > y", "1" },
        { 13, "2", "e 0=#;a 1=#1;b 1=#2", "Concat a e b > s axis=0;Reshape x s > y", "1 -2" },
        { 13, "2", "e 0=", "Concat x e > y axis=0", "1 -2" },
        { 13, "2", "e 0=;w 1=5", "Concat e x w e > y axis=0", "1 -2 5" },
        { 13, "2", "e 0=", "Concat e e > y axis=0", ":'y' has no values" },
        { 13, "2 1", "e 0=#", "Squeeze x e > y", "1 -2" },
        { 13, "2 1", "e 0=#", "Unsqueeze x e > y", "1 -2" },
        { 13, "2 1", "e 0=#", "ReduceSum x e > y", "-1" },
        { 13, "2", "e 0=", "Add x e > y", ":Add 'y': axes of 0 and 2 values do not broadcast" },
        { 13, "1", "e 0=", "Add x e > y", ":Add 'y': an axis of 0 values" },
        { 13, "2", "e 0=", "ReduceSum e > s;Add x s > y", ":ReduceSum 's': 'e' has no values" },
        { 13, "2", "e 0=", "Mul x x > z;Identity e > y", ":Identity 'y': 'e' has no values" }
    };
    CHECK_ROWS(rows);
}

/* What comes of zeros, infinities and roundings: quotients that are whole, signs of zero, bounds and epsilons that are left out. */
static void edges(void)
{
    static const graph_row rows[] = {
        { 13, "3", "c=41", "Mul x c > s;Div s c > d;Floor d > y", "1 -2 3" },
        { 13, "3", "c=0.3", "Mul x c > s;Div s c > d;Cast d > i to=7;Cast i > y to=1", "1 -2 3" },
        { 13, "2", "c=-4", "Div x c > y", "-0.25 0.5" },
        { 13, "2", "c=0", "Div x c > d;Reciprocal d > y", "0 -0" },
        { 13, "2", "o=0", "Sub x x > z;Neg z > n;Add n o > y", "0 0" },
        { 13, "2", "o=0", "Sub x x > z;Neg z > n;Sub n o > y", "-0 -0" },
        { 13, "2", "o=-0", "Sub x x > z;Neg z > n;Add n o > y", "-0 -0" },
        { 13, "2", "o=0", "Sub x x > z;Sub o z > y", "0 0" },
        { 13, "2", "e=-1", "Sub x x > z;Neg z > n;Pow n e > p;Reciprocal p > y", "-0 -0" },
        { 13, "2", "e=-3", "Sub x x > z;Neg z > n;Pow n e > p;Reciprocal p > y", "-0 -0" },
        { 13, "2", "e=1", "Sub x x > z;Neg z > n;Pow n e > y", "-0 -0" },
        { 13, "2", "e=1e30", "Pow x e > p;Reciprocal p > y", "1 0" },
        { 13, "2", "e=0;n=nan", "Mul x n > p;Pow p e > y", "1 1" },
        { 13, "2", "h=1e38;t=10;a=-1", "Mul x h > i;Mul i t > j;Clip j a > y", "3.40282347e38 -1" },
        { 6, "2", "h=1e38;t=10", "Mul x h > i;Mul i t > j;Clip j > y max=0.5", "0.5 -3.40282347e38" },
        { 13, "2", "a=inf", "Clip x a > y", ":no value is between inf and 3.40282e+38" },
        { 13, "2", "a=-inf;b=inf", "Clip x a b > y", "1 -2" },
        { 13, "1 2", "w 2 1=1,2;c 1=nan", "Gemm x w c > y beta=:1", "-3" },
        { 15, "2 1", "g 1=1;b 1=0;m 1=0;v 1=1e-6", "BatchNormalization x g b m v > y epsilon=:1", "1000 -2000" },
        { 17, "1 2", "g 2=1,1", "LayerNormalization x g > y epsilon=:1", "1 -1" },
        { 17, "1 2", "g 2=1,1", "LayerNormalization x g > y epsilon=-0.5", ":an epsilon that is negative" },
        { 17, "2 1 2", "g 2 1 1=1,2", "LayerNormalization x g > y", ":LayerNormalization 'y': 'g' does not fit the axes of the norm" },
        { 13, "3", "t=0.1", "Mul x t > s;Cast s > h to=10;Cast h > y to=1", "0.099975586 -0.19995117 0.30004883" },
        { 13, "6", "t 6=65519,65520,-70000,88.8,6e-8,-1e-9", "Cast t > h to=10;Cast h > c to=1;Reciprocal c > d;Mul x x > q;Div q q > o;Mul o d > p;Reciprocal p > y",
          "65504 inf -inf 88.8125 5.9604645e-8 -0" }
    };
    CHECK_ROWS(rows);
}

/* Forms of ops that an older or a newer opset writes otherwise. */
static void forms(void)
{
    static const graph_row rows[] = {
        { 9, "2 1", "g 1=2;b 1=1;m 1=5;v 1=7", "BatchNormalization x g b m v > y m2 v2 sm sv epsilon=0.75", "2.7320508 -0.7320508" },
        { 13, "2 1", "g 1=2;b 1=1;m 1=5;v 1=7", "BatchNormalization x g b m v > z m2 v2 epsilon=0.75;Concat m2 v2 > y axis=0", "4.45 6.525" },
        { 15, "2 1", "g 1=2;b 1=1;m 1=5;v 1=7", "BatchNormalization x g b m v > y m2 v2 epsilon=0.75 training_mode=1", "2.7320508 -0.7320508" },
        { 15, "2 1", "g 1=2;b 1=1;m 1=1;v 1=0", "BatchNormalization x g b m v > y epsilon=1.0", "1 -5" },
        { 7, "2 1", "g 1=2;b 1=1;m 1=1;v 1=0", "BatchNormalization x g b m v > y epsilon=1.0 spatial=1", "1 -5" },
        { 7, "2 1", "g 1=2;b 1=1;m 1=1;v 1=0", "BatchNormalization x g b m v > y spatial=:2", ":opset 7, or spatial other than 1, is not supported" },
        { 6, "2 1", "g 1=2;b 1=1;m 1=1;v 1=0", "BatchNormalization x g b m v > y", ":opset 6, or spatial other than 1, is not supported" },
        { 12, "1 2 2", "", "Softmax x > y axis=1", "0.11840516 0.005895048 0.87490203 0.00079780727" },
        { 13, "1 2 2", "", "Softmax x > y axis=1", "0.11920292 0.88079708 0.88079708 0.11920292" },
        { 11, "1 2", "", "Softmax x > y", "0.95257413 0.047425873" },
        { 11, "1 4", "", "Split x > y z axis=1", "1 -2" },
        { 17, "1 3", "", "Split x > y z axis=1", ":2 parts that are not equal, of 3 values" },
        { 18, "1 3", "", "Split x > y z axis=1 num_outputs=2", "1 -2" },
        { 18, "1 3", "s 2=#1,2", "Split x s > z y axis=1", "-2 3" },
        { 12, "1 3", "", "ReduceSum x > y axes=1, keepdims=0", "2" },
        { 13, "1 3", "a 1=#1", "ReduceSum x a > y keepdims=0", "2" },
        { 18, "1 3", "a 1=#1", "ReduceMax x a > y", "3" },
        { 18, "1 3", "", "ReduceSum x > y noop_with_empty_axes=1", "1 -2 3" },
        { 18, "1 3", "", "ReduceL1 x > y noop_with_empty_axes=1", ":there are no axes to reduce" },
        { 6, "1 3", "", "Clip x > y min=-1.0 max=2.0", "1 -1 2" },
        { 11, "1 3", "a=-1;b=2", "Clip x a b > y", "1 -1 2" },
        { 12, "1 3", "b=2", "Clip x _ b > y", "1 -2 2" },
        { 9, "1 4", "", "Slice x > y starts=1, ends=3, axes=1,", "-2 3" },
        { 10, "1 4", "a 1=#3;b 1=#-5;c 1=#1;d 1=#-2", "Slice x a b c d > y", "-4 -2" },
        { 10, "1 2", "", "Pad x > y pads=0,1,0,0 value=0.5", "0.5 1 -2" },
        { 11, "1 2", "p 4=#0,1,0,0;v=0.5", "Pad x p v > y", "0.5 1 -2" },
        { 18, "1 2", "p 2=#1,0;v=0.5;a 1=#1", "Pad x p v a > y", "0.5 1 -2" },
        { 11, "1 1 2", "", "Squeeze x > y axes=0,", "1 -2" },
        { 13, "1 1 2", "a 1=#-2", "Squeeze x a > y", "1 -2" },
        { 5, "1 2", "s 2=#2,-1", "Reshape x s > y", "1 -2" },
        { 1, "1 2", "", "Reshape x > y shape=2,1", "1 -2" },
        { 25, "1 2", "", "Identity x > y", "1 -2" },
        { 24, "3", "t=0.1", "Mul x t > s;Cast s > h to=10 round_mode=up;Cast h > y to=1", "0.099975586 -0.19995117 0.30004883" },
        { 26, "1 2", "", "Identity x > y", ":the file has opset 26 of ONNX's own ops, not 1 to 25" },
        { 5, "1 2", "", "Cast x > y to=FLOAT", ":Cast 'y': attribute to has the wrong type" },
        { 15, "1 2 3", "", "Shape x > s start=-2;Cast s > c to=1;ReduceSum c > d keepdims=0;Add x d > y", "6 3 8 1 10 -1" }
    };
    CHECK_ROWS(rows);
}

/* Ops that are few calls of fold.h, or one of libm. */
static void short_ops(void)
{
    static const graph_row rows[] = {
        { 13, "4", "h=0.25", "Mul x h > s;Ceil s > y", "1 -0 1 -1" },
        { 13, "2", "c 2=1.5,-0.5", "Ceil c > d;Div x d > y", "0.5 inf" },
        { 11, "6", "h=0.5", "Mul x h > s;Round s > y", "0 -1 2 -2 2 -3" },
        { 11, "4", "h=0.25", "Mul x h > s;Round s > y", "0 -0 1 -1" },
        { 13, "3", "m 3=1,1,0;n 3=0,0,nan", "Mul x m > s;Add s n > t;Sign t > y", "1 -1 nan" },
        { 13, "3", "m 3=1,1,0", "Mul x m > s;Sign s > y", "1 -1 0" },
        { 7, "2", "", "Sin x > y", "0.84147098 -0.90929743" },
        { 7, "2", "", "Cos x > y", "0.54030231 -0.41614684" },
        { 7, "2", "c 2=1,-2", "Sin c > s;Cos s > t;Mul x t > y", "0.66636675 -1.2286002" },
        { 6, "4", "", "HardSigmoid x > y", "0.7 0.1 1 0" },
        { 6, "2", "", "HardSigmoid x > y alpha=0.25 beta=:1", "0.25 0" },
        { 6, "2", "", "HardSigmoid x > y alpha=:1 beta=0.25", "0.25 0.25" },
        { 14, "4", "", "HardSwish x > y", "0.66666667 -0.33333333 3 -0" },
        { 6, "2", "", "Selu x > y", "1.050701 -1.5201665" },
        { 5, "2", "", "Selu x > y", "1.0507 -1.5201075" },
        { 6, "2", "", "Selu x > y alpha=2.0 gamma=0.5", "0.5 -0.86466472" },
        { 12, "2", "", "Celu x > y", "1 -0.86466472" },
        { 12, "2", "", "Celu x > y alpha=2.0", "1 -1.2642411" },
        { 9, "2 2", "s 2=0.5,0.25", "PRelu x s > y", "1 -0.5 3 -1" },
        { 6, "2 2", "s 1=0.5", "PRelu x s > y", "1 -1 3 -2" },
        { 6, "2 2", "s 2=0.5,0.25", "PRelu x s > y", ":PRelu 'y': 2 slopes before opset 7" },
        { 9, "2", "s 2 1=0.5,0.25", "PRelu x s > y", ":PRelu 'y': slopes of a larger shape" },
        { 1, "2", "", "Softsign x > y", "0.5 -0.66666667" },
        { 18, "2", "", "Mish x > y", "0.86509839 -0.25250148" },
        { 9, "4", "h=0.25", "Mul x h > s;Shrink s > y", "0 0 0.75 -1" },
        { 9, "4", "h=0.25", "Mul x h > s;Shrink s > y lambd=0.25 bias=0.5", "0 0 0.25 -0.5" },
        { 10, "4", "", "ThresholdedRelu x > y", "0 0 3 0" },
        { 10, "4", "", "ThresholdedRelu x > y alpha=0.5", "1 0 3 0" },
        { 20, "2", "", "Gelu x > y", "0.84134475 -0.045500264" },
        { 20, "2", "", "Gelu x > y approximate=tanh", "0.84119199 -0.045402306" },
        { 24, "2", "", "Swish x > y", "0.73105858 -0.23840584" },
        { 24, "2", "", "Swish x > y alpha=2.0", "0.88079708 -0.035972420" },
        { 13, "2", "c 2=1,nan", "Mul x c > p;IsNaN p > b;Cast b > y to=1", "0 1" },
        { 13, "3", "z=0;t 3=!1,1,0", "Greater x z > g;Xor g t > b;Cast b > y to=1", "0 1 1" },
        { 13, "4", "a 4=#-7,7,-7,6;b 4=#3,-3,-3,3", "Mod a b > m;Cast m > c to=1;Mul x c > y", "2 4 -3 -0" },
        { 13, "4", "a 4=#-7,7,-7,6;b 4=#3,-3,-3,3", "Mod a b > m fmod=1;Cast m > c to=1;Mul x c > y", "-1 -2 -3 -0" },
        { 13, "4", "b=#-3", "Cast x > i to=7;Mod i b > m;Cast m > y to=1", "-2 -2 0 -1" },
        { 13, "2", "b=#2", "Cast x > i to=7;Mod i b > m fmod=1;Cast m > y to=1", "1 0" },
        { 13, "4", "b=-1.5", "Mod x b > y fmod=1", "1 -0.5 0 -1" },
        { 13, "4", "b=-1.5", "Mod x b > y", ":Mod 'y': floats need fmod=1" },
        { 13, "2", "a 2=#1,2;b 2=#0,1", "Mod a b > m;Cast m > c to=1;Mul x c > y", ":Mod 'm': the integer nan" } };
    CHECK_ROWS(rows);
}

/* Numbers of 8 bits for others, of one scale, of one for each index of an axis or for each block: halves go to the even number, what is
   beyond the range to its end. Constants stay constants. */
static void quantized(void)
{
    static const graph_row rows[] = {
        { 13, "4", "s=0.5;z=1", "Cast z > z8 to=3;QuantizeLinear x s z8 > q;Cast q > y to=1", "3 -3 7 -7" },
        { 10, "4", "s=0.5", "QuantizeLinear x s > q;Cast q > y to=1", "2 0 6 0" },
        { 13, "6", "s=2;z=0", "Cast z > z8 to=3;QuantizeLinear x s z8 > q;DequantizeLinear q s z8 > y", "0 -2 4 -4 4 -6" },
        { 13, "4", "s=0.01;z=0", "Cast z > z8 to=3;QuantizeLinear x s z8 > q;Cast q > y to=1", "100 -128 127 -128" },
        { 13, "4", "s=0.01", "QuantizeLinear x s > q;Cast q > y to=1", "100 0 255 0" },
        { 21, "2", "s=0.00001;z=0", "Cast z > z8 to=5;QuantizeLinear x s z8 > q;Cast q > y to=1", "32767 -32768" },
        { 21, "2", "s=0.00001", "QuantizeLinear x s > q output_dtype=4;Cast q > y to=1", "65535 0" },
        { 13, "2 2", "s 2=0.5,2;z 2=1,2", "Cast z > z8 to=3;QuantizeLinear x s z8 > q axis=:2;Cast q > y to=1", "3 -3 4 0" },
        { 13, "2 2", "s 2=0.5,2;z 2=1,2", "Cast z > z8 to=3;QuantizeLinear x s z8 > q;DequantizeLinear q s z8 > y", "1 -2 3 -4" },
        { 13, "2 2 2", "s 2=0.5,4", "QuantizeLinear x s > q axis=1;Cast q > y to=1", "2 0 1 0 10 0 2 0" },
        { 13, "1 2", "w 2 2=1.2,-2.6,0.6,7.9;s 2=0.5,2;z 2=0,1", "Cast z > z8 to=3;QuantizeLinear w s z8 > q axis=1;DequantizeLinear q s z8 > v axis=1;MatMul x v > y", "0 -18" },
        { 13, "2", "b 2=200,3;s=0.5;z=100", "Cast b > c to=2;Cast z > d to=2;DequantizeLinear c s d > v;Mul x v > y", "50 97" },
        { 13, "2", "b 2=#3000000,-3;s=0.5", "DequantizeLinear b s > v;Mul x v > y", "1500000 3" },
        { 21, "4", "b 1 4=1,2,3,4;s 1 2=0.5,2", "Cast b > c to=3;DequantizeLinear c s > v axis=1 block_size=2;Mul x v > y", "0.5 -2 18 -32" },
        { 21, "1 4", "s 1 2=0.5,2", "Cast x > b to=3;DequantizeLinear b s > y axis=1 block_size=2", "0.5 -1 6 -8" },
        { 21, "1 3", "s 1 2=0.5,2", "QuantizeLinear x s > q axis=1 block_size=2;Cast q > y to=1", "2 0 2" },
        { 21, "1 4", "s 1 2=0.5,2", "Cast x > b to=3;DequantizeLinear b s > y axis=1 block_size=3", "0.5 -1 1.5 -8" },
        { 21, "1 4", "s 1 2=0.5,2", "Cast x > b to=3;DequantizeLinear b s > y axis=1 block_size=1", ":'s' does not fit blocks of 1" },
        { 13, "2 2", "s 3=1,2,3", "QuantizeLinear x s > y", ":QuantizeLinear 'y': 's' does not fit axis 1" },
        { 13, "2", "s=1;z=#0", "QuantizeLinear x s z > y", ":QuantizeLinear 'y': a zero point that is not of 8 or 16 bits" },
        { 11, "4", "", "DynamicQuantizeLinear x > q s z;DequantizeLinear q s z > y", "0.98823529 -2.0039216 2.9921569 -4.0078431" },
        { 11, "4", "", "DynamicQuantizeLinear x > q s z;Cast q > y to=1", "182 73 255 0" },
        { 11, "2", "", "Sub x x > n;DynamicQuantizeLinear n > q s z;DequantizeLinear q s z > y", "0 0" },
        { 11, "2", "", "Abs x > n;DynamicQuantizeLinear n > q s z;Cast z > t to=1;Add s t > y", "0.0078431373" } };
    CHECK_ROWS(rows);
}

/* What repeats, cuts, or leaves as it is: modes of Pad, Tile, Trilu, OneHot of constants, Dropout after training. */
static void repeats(void)
{
    static const graph_row rows[] = {
        { 11, "1 3", "p 4=#0,2,0,2", "Pad x p > y mode=reflect", "3 -2 1 -2 3 -2 1" },
        { 11, "1 3", "p 4=#0,2,0,1", "Pad x p > y mode=edge", "1 1 1 -2 3 3" },
        { 19, "1 3", "p 4=#0,2,0,4", "Pad x p > y mode=wrap", "-2 3 1 -2 3 1 -2 3 1" },
        { 10, "2 2", "", "Pad x > y pads=1,0,0,1 mode=reflect", "3 -4 3 1 -2 1 3 -4 3" },
        { 18, "1 2 2", "p 2=#0,3;v=5;a 1=#-1", "Pad x p v a > y mode=reflect", "1 -2 1 -2 1 3 -4 3 -4 3" },
        { 18, "1 1", "p 2=#1,1;a 1=#1", "Pad x p _ a > y mode=reflect", "1 1 1" },
        { 13, "2", "c 2=3,4;p 2=#1,1", "Pad c p > d mode=edge;ReduceSum d > e;Mul x e > y", "14 -28" },
        { 11, "1 3", "p 4=#0,-1,0,2", "Pad x p > y mode=edge", ":Pad 'y': pads of -1 and 2" },
        { 11, "1 3", "p 4=#0,-1,0,2", "Pad x p > y mode=constant", "-2 3 0 0" },
        { 11, "1 3", "p 4=#0,1,0,2", "Pad x p > y mode=mirror", ":Pad 'y': mode 'mirror' is not supported" },
        { 13, "1 2", "t 2=#2,3", "Tile x t > y", "1 -2 1 -2 1 -2 1 -2 1 -2 1 -2" },
        { 13, "2", "c 1 2=3,4;t 2=#2,1", "Tile c t > d;Mul x d > e;ReduceSum e > y", "-10" },
        { 13, "2", "t 2=#2,1", "Tile x t > y", ":Tile 'y': opset 13, 2 repeats of 1 axes" },
        { 13, "2", "t 1=#0", "Tile x t > y", ":Tile 'y': 0 repeats" },
        { 5, "2", "t=2;a=0", "Tile x t > y", ":Tile 'y': opset 5, 1 repeats" },
        { 14, "2 3", "", "Trilu x > y", "1 -2 3 0 5 -6" },
        { 14, "2 3", "k=#1", "Trilu x k > y", "0 -2 3 0 0 -6" },
        { 14, "3 2", "k=#-1", "Trilu x k > y upper=:2", "0 0 3 0 5 -6" },
        { 14, "2 2", "k=#1000000000000", "Trilu x k > y", "0 0 0 0" },
        { 14, "2 2", "k=#-1000000000000", "Transpose x > t;Trilu t k > y", "1 3 -2 -4" },
        { 14, "2 2 2", "", "Transpose x > t perm=0,2,1;Trilu t > y", "1 3 0 -4 5 7 0 -8" },
        { 14, "2 2", "c 2 2=1,2,3,4", "Trilu c > d;Mul x d > y", "1 -4 0 -16" },
        { 14, "2", "", "Trilu x > y", ":Trilu 'y': an input of rank 1" },
        { 11, "6", "i 2=#0,-1;d=#3;v 2=2,5", "OneHot i d v > h;Flatten h > f axis=:2;Mul x f > y", "5 -4 6 -8 10 -30" },
        { 11, "6", "i 2=#0,7;d 1=#3;v 2=2,5", "OneHot i d v > h axis=:2;Flatten h > f axis=:2;Mul x f > y", "5 -4 6 -8 10 -12" },
        { 11, "2", "d=#3;v 2=2,5", "Cast x > i to=7;OneHot i d v > y", "2 5 2 2 5 2" },
        { 7, "2", "", "Dropout x > y ratio=0.5", "1 -2" },
        { 12, "2", "r=0.5;t=!0", "Dropout x r t > y", "1 -2" },
        { 12, "2", "r=0;t=!1", "Dropout x r t > z m;Cast m > c to=1;Add z c > y", "2 -1" },
        { 12, "2", "r=0.5;t=!1", "Dropout x r t > y", ":Dropout 'y': it drops values; export the network for inference" },
        { 6, "2", "", "Dropout x > y is_test=1", "1 -2" },
        { 6, "2", "", "Dropout x > y", ":Dropout 'y': it drops values" } };
    CHECK_ROWS(rows);
}

/* Pools: windows that are squares or not, padding on one side, windows that go beyond it, values that are left over. */
static void pools(void)
{
    static const graph_row rows[] = {
        { 12, "1 1 2 4", "", "MaxPool x > y kernel_shape=2,2 strides=2,2", "5 7" },
        { 12, "1 1 2 4", "", "AveragePool x > y kernel_shape=2,2 strides=2,2", "-0.5 -0.5" },
        { 12, "1 2 2 2", "", "MaxPool x > y kernel_shape=2,2", "3 7" },
        { 12, "1 1 3 3", "", "MaxPool x > y kernel_shape=3,3 pads=1,1,1,1 strides=2,2", "5 5 7 9" },
        { 12, "2 1 2 2", "", "MaxPool x > y kernel_shape=1,2", "1 3 5 7" },
        { 12, "1 1 2 3", "", "AveragePool x > y kernel_shape=2,1 strides=1,2", "-1.5 -1.5" },
        { 12, "1 1 2 3", "", "MaxPool x > y kernel_shape=2,3", "5" },
        { 12, "1 1 4", "", "MaxPool x > y kernel_shape=2,", "1 3 3" },
        { 12, "1 2 3", "", "AveragePool x > y kernel_shape=2, pads=1,0 strides=2,", "1 0.5 -4 -0.5" },
        { 12, "1 1 4", "", "AveragePool x > y kernel_shape=3, strides=2, auto_pad=SAME_UPPER", "0.66666667 -0.5" },
        { 12, "1 1 4", "", "MaxPool x > y kernel_shape=3, strides=2, auto_pad=SAME_UPPER", "3 3" },
        { 12, "1 1 4", "", "AveragePool x > y kernel_shape=3, strides=2, auto_pad=SAME_LOWER", "-0.5 -1" },
        { 12, "1 1 5", "", "AveragePool x > y kernel_shape=2, strides=2, auto_pad=VALID", "-0.5 -0.5" },
        { 12, "1 1 5", "", "MaxPool x > y kernel_shape=2, auto_pad=SAME", ":MaxPool 'y': auto_pad 'SAME' is not supported" },
        { 12, "1 1 5", "", "AveragePool x > y kernel_shape=2, strides=2, ceil_mode=1", "-0.5 -0.5 5" },
        { 12, "1 1 5", "", "MaxPool x > y kernel_shape=3, strides=2, ceil_mode=1", "3 5" },
        { 12, "1 1 4", "", "MaxPool x > y kernel_shape=1, strides=2, pads=0,0 ceil_mode=1", "1 3" },
        { 12, "1 1 3", "", "AveragePool x > y kernel_shape=2, pads=1,1 count_include_pad=1", "0.5 -0.5 0.5 1.5" },
        { 12, "1 1 3", "", "AveragePool x > y kernel_shape=2, pads=1,1", "1 -0.5 0.5 3" },
        { 12, "1 1 3", "", "AveragePool x > y kernel_shape=2, pads=0,3 count_include_pad=1", "-0.5 0.5 1.5 0 0" },
        { 12, "1 1 3", "", "AveragePool x > y kernel_shape=2, strides=2, ceil_mode=1 count_include_pad=1", ":pads of 0 and 1, of a kernel of 2, which count only in part" },
        { 12, "1 1 3", "", "MaxPool x > y kernel_shape=2, pads=0,2", ":pads of 0 and 2, of a kernel of 2, which leave a window without values" },
        { 12, "1 1 5", "", "MaxPool x > y kernel_shape=2, dilations=2,", ":MaxPool 'y': a dilation of 2" },
        { 12, "1 1 5", "", "MaxPool x > y i kernel_shape=2,", ":the indices of the largest values" },
        { 12, "1 1 5", "", "MaxPool x > y", ":MaxPool 'y': a kernel of 0, a dilation of 1" },
        { 12, "1 5", "", "MaxPool x > y kernel_shape=2,", ":MaxPool 'y': an input of rank 2" },
        { 12, "1 1 2 2 2", "", "MaxPool x > y kernel_shape=2,2,1", "7 -2" },
        { 12, "1 1 2 4", "w 1 1 1 1=-1", "Conv x w > c;MaxPool c > p kernel_shape=1,2 strides=1,2;Relu p > y", "2 4 6 8" },
        { 12, "1 2 3", "", "GlobalAveragePool x > y", "0.66666667 -1.6666667" },
        { 12, "1 2 1 3", "", "GlobalMaxPool x > y", "3 5" } };
    CHECK_ROWS(rows);
}

/* Convolutions that are transposed, of groups, of several samples, with strides that differ by axis: beside PyTorch. */
static void transposed(void)
{
    static const graph_row rows[] = {
        { 11, "1 1 3", "w 1 1 3=-0.75,2.75,0.75", "ConvTranspose x w > y strides=2, output_padding=1,", "-0.75 2.75 2.25 -5.5 -3.75 8.25 2.25 0" },
        { 11, "1 2 3", "w 2 1 3=-0.75,2.75,0.75,-1.25,2.25,0.25;b 1=-0.75", "ConvTranspose x w b > y pads=1,1", "-11.75 10 -6.25" },
        { 11, "1 1 2 2", "w 1 2 2 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75", "ConvTranspose x w > y strides=2,1", "-0.75 4.25 -5.5 0.75 -2.75 2.5 -2.25 11.25 -11 2.25 -6.75 5 2.25 -4.25 -0.5 -1.75 5.25 -3.5 6.75 -8.25 -1 -5.25 12.25 -7" },
        { 11, "1 1 2 2", "w 1 1 2 3=-0.75,2.75,0.75,-1.25,2.25,0.25", "ConvTranspose x w > y pads=0,1,1,0 dilations=2,2 kernel_shape=2,3", "1.5 2.75 -5.5 0.75 -1.5 3 8.25 -11 2.25 -3 2.5 2.25 -4.5 0.25 -0.5" },
        { 11, "1 4 2", "w 4 2 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75,-0.25,-2.25,1.25,-0.75,2.75,0.75,-1.25,2.25;b 4=-0.5,3,1,-1", "ConvTranspose x w b > y group=2 strides=2,", "5.5 3 -8 -7 -1.5 7 8.5 -1.5 19 -5 -19.5 8.5 -3.5 11 1.5 -14.5" },
        { 11, "1 2 3", "w 2 1 2=-0.75,2.75,0.75,-1.25", "ConvTranspose x w > y group=2", "-0.75 4.25 -7.75 8.25 -3 8.75 -10.75 7.5" },
        { 11, "1 1 2", "w 1 1 3=-0.75,2.75,0.75", "ConvTranspose x w > y strides=2, auto_pad=SAME_UPPER", "-0.75 2.75 2.25 -5.5" },
        { 11, "1 32 1", "w 64 1 1=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
          "Conv x w > z group=32;ReduceSum z > y keepdims=0", "-32" },
        { 11, "1 1 2", "w 1 1 3=-0.75,2.75,0.75", "ConvTranspose x w > y strides=2, output_shape=4,", "2.75 2.25 -5.5 -1.5" },
        { 11, "1 1 2", "w 1 1 3=-0.75,2.75,0.75", "ConvTranspose x w > y pads=3,0", "-1.5" },
        { 11, "2 2 2", "w 2 1 2=-0.75,2.75,0.75,-1.25", "ConvTranspose x w > y", "1.5 -2.5 -0.5 1.5 3.5 -6.5" },
        { 11, "1 4 3", "w 4 2 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75,-0.25,-2.25,1.25,-0.75,2.75,0.75,-1.25,2.25;b 4=-0.5,3,1,-1", "Conv x w b > y group=2", "-16 20.5 20.5 -20 -3.5 5.5 49.5 -57" },
        { 11, "1 1 3", "w 2 1 2=-0.75,2.75,0.75,-1.25", "Conv x w > y group=1", "-6.25 9.75 3.25 -5.25" },
        { 11, "1 2 3", "w 4 1 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75", "Conv x w > y group=2", "-6.25 9.75 3.25 -5.25 -7.75 9.75 15.75 -19.25" },
        { 11, "1 1 3 4", "w 1 1 2 2=-0.75,2.75,0.75,-1.25", "Conv x w > y strides=1,2 pads=0,1,0,0", "-3.5 -3.5 2.5 2.5" },
        { 11, "2 2 3", "w 2 2 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75", "Conv x w > y", "-15.5 21 17.5 -23 -48.5 54 50.5 -56" },
        { 11, "2 4 2", "w 4 2 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75,-0.25,-2.25,1.25,-0.75,2.75,0.75,-1.25,2.25;b 4=-0.5,3,1,-1", "Conv x w b > y group=2", "0.5 -7.5 28 -18.5 -11.5 -19.5 60 -30.5" },
        { 11, "1 3 2", "w 2 1 2=1,2,3,4", "ConvTranspose x w > y", ":ConvTranspose 'y': weights of 2 channels, not 3" },
        { 11, "1 2 2", "w 2 1 2=1,2,3,4", "ConvTranspose x w > y pads=9,0", ":ConvTranspose 'y': pads of 9 and 0, of a kernel of 2" },
        { 11, "1 3 2", "w 2 1 2=1,2,3,4", "Conv x w > y group=2", ":Conv 'y': 2 groups of 3 channels" },
        { 11, "1 1 3 3", "w 1 1 2 2=1,2,3,4", "Conv x w > y dilations=1,2", ":Conv 'y': dilations that differ from axis to axis" } };
    CHECK_ROWS(rows);
}

/* Resize and Upsample, beside PyTorch and by hand. */
static void resizing(void)
{
    static const graph_row rows[] = {
        { 11, "1 1 2 2", "s 4=1,1,2,2", "Resize x _ s > y mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor", "1 1 -2 -2 1 1 -2 -2 3 3 -4 -4 3 3 -4 -4" },
        { 9, "1 1 2 2", "s 4=1,1,1,2.5", "Upsample x s > y", "1 1 1 -2 -2 3 3 3 -4 -4" },
        { 10, "1 1 4", "s 3=1,1,0.5", "Resize x s > y", "1 3" },
        { 10, "1 1 4", "s 3=1,1,0.75", "Resize x s > y", "1 3 -4" },
        { 11, "1 1 2 2", "s 4=1,1,2,2", "Resize x _ s > y mode=linear", "1 0.25 -1.25 -2 1.5 0.5 -1.5 -2.5 2.5 1 -2 -3.5 3 1.25 -2.25 -4" },
        { 11, "1 1 2 2", "n 4=#1,1,3,5", "Resize x _ _ n > y mode=linear coordinate_transformation_mode=align_corners", "1 0.25 -0.5 -1.25 -2 2 0.75 -0.5 -1.75 -3 3 1.25 -0.5 -2.25 -4" },
        { 13, "1 1 4 4", "n 4=#1,1,2,4", "Resize x _ _ n > y mode=linear coordinate_transformation_mode=pytorch_half_pixel", "3 -4 5 -6 11 -12 13 -14" },
        { 13, "1 1 2 4", "s 4=1,1,2,1", "Resize x _ s > y mode=cubic", "0.578125 -1.578125 2.578125 -3.578125 1.90625 -2.90625 3.90625 -4.90625 4.09375 -5.09375 6.09375 -7.09375 5.421875 -6.421875 7.421875 -8.421875" },
        { 18, "1 1 4 4", "n 2=#2,2;", "Resize x _ _ n > y mode=linear antialias=1 axes=2,3", "0.408163265 -1.12244898 1.30612245 -2.02040816" },
        { 18, "1 1 4 4", "n 2=#3,2;", "Resize x _ _ n > y mode=cubic antialias=1 axes=2,3 cubic_coeff_a=-0.5", "0.168882501 -0.854832914 0.991735537 -1.67768595 1.81458857 -2.50053899" },
        { 18, "1 1 2 4", "n 2=#4,4", "Resize x _ _ n > y axes=-2,-1 keep_aspect_ratio_policy=not_larger", "1 -2 3 -4 5 -6 7 -8" },
        { 11, "1 1 2", "s 2=1,2", "Resize x _ s > y", ":Resize 'y': scales or sizes of 2 axes, for 3" },
        { 11, "1 1 2", "", "Resize x _ x > y", ":Resize 'y': 'x' is not constant" },
        { 11, "1 1 2", "s 3=1,1,0.25", "Resize x _ s > y", ":Resize 'y': axis 2 by a scale of 0.25, of 2 values" },
        { 11, "1 1 2", "s 3=1,1,nan", "Resize x _ s > y", ":Resize 'y': axis 2 by a scale of nan, of 2 values" },
        { 11, "1 1 2", "s 3=1,1,1.25", "Resize x _ s > y coordinate_transformation_mode=align_corners", ":align_corners and a length of 2.5, on which runtimes disagree" },
        { 11, "1 1 2", "s 3=1,1,2", "Resize x _ s > y coordinate_transformation_mode=tf_crop_and_resize", ":'tf_crop_and_resize' is not supported" } };
    CHECK_ROWS(rows);
}

/* Norms of channels, groups and vectors, beside PyTorch. */
static void group_norms(void)
{
    static const graph_row rows[] = {
        { 6, "1 4 3", "g 4=-0.75,2.75,0.75,-1.25;b 4=7.75,9.75,7.75,8.25", "InstanceNormalization x g b > y", "7.62833408 8.72332737 6.89833855 8.40878924 13.5820307 7.25918002 8.17839037 6.69550063 8.376109 9.01099905 6.48768641 9.25131454" },
        { 21, "1 4 3", "g 4=-0.75,2.75,0.75,-1.25;b 4=7.75,9.75,7.75,8.25", "GroupNormalization x g b > y num_groups=2 epsilon=0.5", "7.46347846 8.03652154 7.08144973 7.29864902 13.602123 5.89787703 8.33198306 7.16801694 8.48717854 9.4786309 6.76270996 9.73729004" },
        { 21, "2 4 2", "g 4=-0.75,2.75,0.75,-1.25;b 4=7.75,9.75,7.75,8.25", "GroupNormalization x g b > y num_groups=2", "7.33218578 8.16781422 13.3246328 6.17536721 8.37723581 7.12276419 6.82446406 9.67553594 7.07448525 8.42551475 12.7483374 6.75166258 8.44662116 7.05337884 6.91695951 9.58304049" },
        { 18, "2 4 2", "g 2=-0.75,2.75;b 2=7.75,9.75", "GroupNormalization x g b > y num_groups=2", "7.33218578 8.16781422 6.77510015 8.72489985 12.0498646 7.45013535 12.8861791 6.61382094 7.07448525 8.42551475 6.93227161 8.56772839 12.3042776 7.19572241 12.6826891 6.81731091" },
        { 23, "2 3", "g 3=-0.75,2.75,0.75", "RMSNormalization x g > y epsilon=0.5", "-0.329956009 -2.4196774 0.989868026 0.586471691 2.68799525 -0.879707537" },
        { 22, "2 3", "", "LpNormalization x > y axis=0", "0.242535625 -0.371390676 0.447213595 -0.9701425 0.928476691 -0.894427191" },
        { 22, "2 3", "", "LpNormalization x > y p=1", "0.166666667 -0.333333333 0.5 -0.266666667 0.333333333 -0.4" },
        { 22, "2", "z=0", "Mul x z > h;LpNormalization h > y", "0 -0" },
        { 22, "2", "", "LpNormalization x > y p=3", ":LpNormalization 'y': p of 3, not 1 or 2" },
        { 21, "1 4 2", "g 2=1,2", "GroupNormalization x g g > y num_groups=2", ":GroupNormalization 'y': 'g' is not 4 values" },
        { 21, "1 4 2", "g 4=1,2,3,4", "GroupNormalization x g g > y num_groups=3", ":GroupNormalization 'y': 3 groups of an input of rank 3" } };
    CHECK_ROWS(rows);
}

/* Einsum, beside PyTorch. */
static void sums_of_products(void)
{
    static const graph_row rows[] = {
        { 12, "2 3", "w 3 2=-0.75,2.75,0.75,-1.25,2.25,0.25", "Einsum x w > y equation=ij,jk->ik", "4.5 6 -6.75 -18.75" },
        { 12, "2 3", "w 3 2=-0.75,2.75,0.75,-1.25,2.25,0.25", "Einsum x w > y equation=ij,jk->ki", "4.5 -6.75 6 -18.75" },
        { 12, "2 3", "w 2 3=-0.75,2.75,0.75,-1.25,2.25,0.25", "Einsum x w > y equation=ij,kj", "-4 -5 12.25 14.75" },
        { 12, "2 3", "w 2 3=-0.75,2.75,0.75,-1.25,2.25,0.25", "Einsum w x > y equation=ki,kj->ij", "4.25 -4.75 5.25 -6.25 5.75 -5.25 -0.25 -0.25 0.75" },
        { 12, "2 3", "w 2 3=-0.75,2.75,0.75,-1.25,2.25,0.25", "Einsum x w > y equation=ij,ij->i", "-4 14.75" },
        { 12, "2 3", "w 2 3=-0.75,2.75,0.75,-1.25,2.25,0.25", "Einsum x w > y equation=ij,ik->jk", "4.25 -6.25 -0.25 -4.75 5.75 -0.25 5.25 -5.25 0.75" },
        { 12, "2 2 3", "w 2 3 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75,-0.25,-2.25,1.25,-0.75", "Einsum x w > y equation=bij,bjk->bik", "4.5 6 -6.75 -18.75 1 23.5 -0.25 -33.25" },
        { 12, "2 2 3", "w 2 3 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75,-0.25,-2.25,1.25,-0.75", "Einsum x w > y equation=...ij,...jk->...ki", "4.5 -6.75 6 -18.75 1 -0.25 23.5 -33.25" },
        { 12, "2 2 3", "w 3=-0.75,2.75,0.75", "Einsum x w > y equation=...j,j", "-4 12.25 -20.5 28.75" },
        { 12, "2 2 3", "w 3=-0.75,2.75,0.75", "Einsum x w > y equation=aij,j->ai", "-4 12.25 -20.5 28.75" },
        { 12, "2 2 3", "w 3=-0.75,2.75,0.75", "Einsum x w > y equation=aij,k->jk", "4.5 -16.5 -4.5 -4.5 16.5 4.5 4.5 -16.5 -4.5" },
        { 12, "2 2 3", "", "Einsum x x > y equation=aij,bij->ab", "91 217 217 559" },
        { 12, "2 2 3", "", "Einsum x > y equation=aij->ja", "-3 -3 3 3 -3 -3" },
        { 12, "2 2 3", "", "Einsum x > y equation=aai->ia", "1 -10 -2 11 3 -12" },
        { 12, "2 2 3", "", "Einsum x > y equation=b...c->c...", "8 -14 -10 16 12 -18" },
        { 12, "2 2", "", "Einsum x > y equation=ii", "-3" },
        { 12, "2 2 3", "w 2 2 2 2=-0.75,2.75,0.75,-1.25,2.25,0.25,-1.75,1.75,-0.25,-2.25,1.25,-0.75,2.75,0.75,-1.25,2.25", "Einsum w x > y equation=abcd,dce->ebac", "18.5 9.5 -16 2.5 4 -10.5 8 -17.5 -20.5 -10 18.5 -2 -6.5 10.5 -11.5 18.5 22.5 10.5 -21 1.5 9 -10.5 15 -19.5" },
        { 12, "1 2", "w 2 2=1,2,3,4", "MatMul x w > h;Einsum h w > y equation=ij,kj->ik", "-17 -39" },
        { 13, "2 1 3", "w 2 3 1=1,1,1,1,0,0", "MatMul x w > y", "2 -4" },
        { 13, "3", "w 2 3 1=1,1,1,1,0,0", "MatMul x w > y", "2 1" },
        { 13, "2 1 3", "w 3=1,0,2", "MatMul x w > y", "7 -16" },
        { 13, "3", "w 3=1,0,2", "MatMul x w > y", "7" },
        { 13, "2 1 3", "w 3 3 1=1,1,1,1,1,1,1,1,1", "MatMul x w > y", ":MatMul 'y': axes of 2 and 3 values do not broadcast" },
        { 13, "3", "w 1 3=1,1,1", "MatMul x w > y", ":MatMul 'y': matrices that do not fit" },
        { 13, "1 1 3", "w 3 1=1,1,1", "Gemm x w > y", ":Gemm 'y': matrices that do not fit" },
        { 12, "1 1 1 1 2", "w 1 1 1 1 2=1,2", "Einsum x w > y equation=abcde,fghij", ":Einsum 'y': more than 8 axes" },
        { 12, "2 3", "w 2=1,2", "Einsum x w > y equation=ij,j->i", ":Einsum 'y': axes of 3 and 2 values do not broadcast" },
        { 12, "2 3", "w 2=1,2", "Einsum x w > y equation=ijk,i->i", ":Einsum 'y': 3 labels of 2 axes" },
        { 12, "2 3", "w 2=1,2", "Einsum x w > y equation=ij,i->iq", ":Einsum 'y': a result with a label twice, or of no operand" },
        { 12, "2 3", "w 2=1,2", "Einsum x w > y equation=ij,i->ii", ":Einsum 'y': a result with a label twice, or of no operand" },
        { 12, "2 3", "w 2=1,2", "Einsum x w > y equation=ij,i,k->i", ":Einsum 'y': an equation that does not fit its operands" },
        { 12, "2 3", "w 2=1,2", "Einsum x w > y equation=i1,i->i", ":Einsum 'y': an equation that does not fit its operands" },
        { 12, "2 3", "w 2=1,2", "Einsum x w w > y equation=ij,i,i->i", ":Einsum 'y': 3 inputs are not supported" } };
    CHECK_ROWS(rows);
}

/* Sums along an axis, blocks of pixels, functions of libm, beside PyTorch; constants that are sorted or counted. */
static void sorted_and_summed(void)
{
    static const graph_row rows[] = {
        { 11, "2 3", "a=#1", "CumSum x a > y", "1 -1 2 -4 1 -5" },
        { 11, "2 3", "a=#0", "CumSum x a > y", "1 -2 3 -3 3 -3" },
        { 11, "2 3", "a=#-1", "CumSum x a > y reverse=1", "2 1 3 -5 -1 -6" },
        { 11, "2 3", "a=#1", "CumSum x a > y exclusive=1", "0 1 -1 0 -4 1" },
        { 11, "2 3", "a=#1", "CumSum x a > y exclusive=1 reverse=1", "1 3 0 -1 -6 0" },
        { 13, "1 4 1 2", "", "DepthToSpace x > y blocksize=2 mode=CRD", "1 3 -2 -4 5 7 -6 -8" },
        { 13, "1 1 2 4", "", "SpaceToDepth x > y blocksize=2", "1 3 -2 -4 5 7 -6 -8" },
        { 13, "1 4 1 2", "", "DepthToSpace x > y blocksize=2", "1 3 -2 -4 5 7 -6 -8" },
        { 8, "2", "w 2=-0.75,2.75;v 1=3", "Mean x w v > y", "1.08333333 1.25" },
        { 9, "2", "", "Atan x > y", "0.785398163 -1.10714872" },
        { 9, "2", "", "Tan x > y", "1.55740772 2.18503986" },
        { 9, "6", "c 6=1,0.5,-1,0.25,-0.2,2", "Mul x c > h;Asin h > y", "1.57079633 -1.57079633 nan -1.57079633 -1.57079633 nan" },
        { 9, "6", "c 6=inf,inf,0.1,0.1,100,nan", "Mul x c > h;Atan h > y", "1.57079633 -1.57079633 0.291456794 -0.380506377 1.56879633 nan" },
        { 9, "2", "q=0.25", "Mul x q > h;Asin h > y", "0.252680255 -0.523598776" },
        { 9, "2", "q=0.25", "Mul x q > h;Acos h > y", "1.31811607 2.0943951" },
        { 11, "1", "t 2 3=3,1,2,6,5,6;k 1=#2", "TopK t k > v i;Cast i > c to=1;Flatten v > a axis=:2;Flatten c > b axis=:2;Concat a b > d axis=1;Mul x d > y", "3 2 6 6 0 2 0 2" },
        { 11, "1", "t 2 3=3,1,2,6,5,6;k 1=#1", "TopK t k > v i largest=:2 axis=:2;Cast i > c to=1;Add v c > d;Mul x d > y", "3 1 2" },
        { 1, "1", "t 2 2=3,1,2,6", "TopK t > v k=1;Mul x v > y", "3 6" },
        { 11, "2", "k 1=#1", "TopK x k > y", ":TopK 'y': values that are not constant" },
        { 11, "1", "t 2=3,1;k 1=#3", "TopK t k > v;Mul x v > y", ":TopK 'v': 3 of 2 values" },
        { 11, "1", "a=#5;b=#-1;c=#-2", "Range a b c > r;Cast r > d to=1;Mul x d > y", "5 3 1" },
        { 11, "1", "a=0;b=1;c=0.3", "Range a b c > r;Mul x r > y", "0 0.3 0.6 0.9" },
        { 11, "1", "a=0;b=1;c=0", "Range a b c > r;Mul x r > y", ":Range 'r': inf values" },
        { 11, "2", "a=0;b=1", "Range a b x > y", ":Range 'y': 'x' is not a constant number" },
        { 13, "4", "", "ArgMin x > i;Cast i > y to=1", "3" },
        { 13, "3", "c 3=1,-0.5,0.33333334", "Mul x c > h;ArgMin h > i select_last_index=1;Cast i > y to=1", "2" },
        { 10, "4", "", "ThresholdedRelu x > y alpha=1.0", "0 0 3 0" },
        { 13, "1 3 4 1", "", "DepthToSpace x > y blocksize=2", ":DepthToSpace 'y': blocks of 2, which do not fit an input of rank 4" },
        { 11, "2", "", "CumSum x x > y", ":CumSum 'y': 'x' is not a constant number" } };
    CHECK_ROWS(rows);
}

/* If takes a branch when the file is opened: its condition is a constant, or computed from shapes. Branches have weights, read what is
   around them, and are in branches. */
static void put_branch(message *node, const char *name, const char *constants, const char *nodes, const char *made, const message *inner)
{
    static message graph, attribute;
    graph.size = attribute.size = 0;
    put_constants(&graph, constants);
    if (inner) put_message(&graph, 1, inner);
    put_nodes(&graph, nodes);
    for (size_t n; *made; made += n + (made[n] == ' ')) {
        char one[20] = "";
        n = strcspn(made, " ");
        memcpy(one, made, n);
        put_value(&graph, 12, one, "");
    }
    put_text(&attribute, 1, name);
    put_message(&attribute, 6, &graph);
    put_number(&attribute, 20, 5);
    put_message(node, 5, &attribute);
}
static void branches(void)
{
    static const struct { const char *condition, *constants, *then, *made, *says; int depth; } rows[] = {
        { "Identity t > c", "w 2=2,3", "Mul h w > a;Add a h > b", "b h", "3 -8", 0 },
        { "Identity t > c", "w 2=2,3", "Neg b > a;Mul h w > b", "a h", "-2 6", 0 },
        { "Not t > c", "w 2=2,3", "Mul h w > a", "a h", "-1 2", 0 }, /* the other one */
        { "Size x > s;Equal s two > c", "", "Abs h > a", "a h", "1 2", 0 },
        { "Shape x > s;Equal s two > c", "", "", "k h", "5 5", 0 }, /* a constant from outside */
        { "Identity t > c", "", "Abs h > a", "a h", "1 2", 3 },
        { "Identity t > c", "", "Abs h > a", "a h", ":branches or functions in each other, more than 16 deep", 17 },
        { "Greater x two > c", "", "Abs h > a", "a h", ":a condition that is not constant; bind its input if it is a setting", 0 },
        { "Identity t > c", "", "Abs h > a", "a", ":a branch whose outputs do not match the node's", 0 },
        { "Identity t > c", "", "Abs h > a", "b h", ":nothing makes output 0 of the branch", 0 },
        { "Identity t > c", "", "Det h > a", "a h", ":Det 'a': this op is not supported", 0 },
        { "Identity t > c", "", "Abs h > h", "h h", ":'h' is made twice", 0 } };
    static const float x[2] = { 1, -2 };
    const fold_node none = { 0, 0 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static message graph, node, within, file;
        graph.size = within.size = 0;
        put_value(&graph, 11, "x", "2");
        put_constants(&graph, "t=!1;two=#2;k 2=5,5");
        put_nodes(&graph, "Identity x > h");
        put_nodes(&graph, rows[i].condition);
        for (int level = rows[i].depth; level >= 0; level--) {
            char name[20], made[40];
            const int is_deepest = level == rows[i].depth;
            snprintf(name, sizeof name, level ? "y%d" : "y", level);
            snprintf(made, sizeof made, "y%d h", level + 1);
            node.size = 0;
            put_words(&node, 1, "c");
            put_words(&node, 2, name);
            put_bytes(&node, 2, "z", level ? 0 : 1); /* a second output, which is used outside alone */
            put_text(&node, 4, "If");
            put_branch(&node, "then_branch", is_deepest ? rows[i].constants : "", is_deepest ? rows[i].then : "", is_deepest ? rows[i].made : made, is_deepest ? NULL : &within);
            put_branch(&node, "else_branch", "", "Neg h > n", "n h", NULL);
            within = node;
        }
        put_message(&graph, 1, &node);
        put_value(&graph, 12, "y", "2");
        onnx_file(&file, &graph, 13);
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
        if (*rows[i].says == ':') CHECK_SAYS(!o && strstr(fold_model_message(m), rows[i].says + 1), "%s: %s", rows[i].then, fold_model_message(m));
        else {
            char *second;
            const float first = strtof(rows[i].says, &second), right[2] = { first, strtof(second, NULL) };
            fold_onnx_value in = { "x", x, none }, y = { "y", NULL, none };
            CHECK_TEXT(fold_model_message(m), "");
            CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &y, 1), o ? FOLD_OK : FOLD_BAD_ARGUMENT);
            CHECK_INT(fold_run(f, &y.node, 1), FOLD_OK);
            if (o) CHECK_BITS(fold_value(f, y.node), right, 2);
        }
        fold_onnx_close(o);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* A function "name in in > out out attribute=default" of a file, and its nodes. */
static void put_function(message *file, const char *text, const char *nodes)
{
    static message graph, function, head;
    char first[100];
    const size_t n = strcspn(text, " ");
    graph.size = function.size = head.size = 0;
    put_nodes(&graph, nodes);
    for (size_t at = 0, size; at < graph.size; at += size) { /* nodes are field 7 of a function, and 1 of a graph */
        const unsigned char *from = graph.bytes + at + 1;
        size = varint(&from);
        put_bytes(&function, 7, from, size);
        size += (size_t)(from - graph.bytes) - at;
    }
    put_bytes(&function, 1, text, n);
    put_text(&function, 10, "own");
    snprintf(first, sizeof first, "F%s", text + n);
    put_nodes(&head, first); /* a node of these inputs, outputs and attributes, whose fields differ from a function's by 3 and 6 */
    const unsigned char *from = head.bytes + 1;
    for (size_t left = varint(&from); left;) {
        const unsigned char *field = from++;
        const size_t size = varint(&from);
        if (*field >> 3 != 4) put_bytes(&function, *field >> 3 == 5 ? 11 : (*field >> 3) + 3, from, size);
        from += size;
        left -= (size_t)(from - field);
    }
    put_message(file, 25, &function);
}
/* Functions of the file: names are their own, attributes those of the call or defaults, inputs may be left out; functions in functions. */
static void functions(void)
{
    static const char *const all[][2] = {
        { "Twice x > o", "Add x x > h;Identity h > o" }, { "Leaky x > o slope=0.25", "LeakyRelu x > o alpha=@slope" }, { "Bare x > o", "LeakyRelu x > o alpha=@slope" },
        { "Both x > o s=0.125", "Leaky x > h domain=own slope=@s;Twice h > o domain=own" }, { "Low x a > o", "Clip x a > o" }, { "Swap a b > b a", "" },
        { "Product x w > o", "MatMul x w > o" }, { "Wrong x > o p", "Neg x > o;Det x > p" }, { "Lost x > o", "Neg x > p" }, { "Self x > o", "Self x > o domain=own" },
        { "Wholes x > o", "Cast x > o to=7" } };
    static const struct { const char *constants, *nodes, *says; } rows[] = {
        { "", "Twice x > h domain=own;Twice h > o domain=own;Neg o > y", "-4 8" }, { "", "Leaky x > y domain=own slope=0.5", "1 -1" },
        { "", "Leaky x > y domain=own", "1 -0.5" }, { "", "Bare x > y domain=own", "1 -0.02" }, { "", "Bare x > y domain=own slope=0.5", "1 -1" },
        { "", "Both x > y domain=own", "2 -0.5" }, { "", "Both x > y domain=own s=0.5", "2 -2" }, { "a=-1", "Low x a > y domain=own", "1 -1" },
        { "", "Low x > y domain=own", "1 -2" }, { "", "Low x _ > y domain=own", "1 -2" }, { "", "Neg x > n;Swap x n > a b domain=own;Sub a b > y", "-2 4" },
        { "w 2 2=1,2,3,4", "Product x w > y domain=own", "-5 -6" }, { "", "Wrong x > y z domain=own", "-1 2" }, { "", "Wholes x > i domain=own;Cast i > y to=1", "1 -2" },
        { "", "Wrong x > z y domain=own", ":Det 'p': this op is not supported" },
        { "", "Lost x > y domain=own", ":Lost 'y': nothing makes output 0 of the function" }, { "", "Self x > y domain=own", ":branches or functions in each other, more than 16 deep" },
        { "", "Twice x > y domain=other", ":an op of the domain 'other', not ONNX's own" }, { "", "Twice x > y", ":Twice 'y': this op is not supported" } };
    static const float x[2] = { 1, -2 };
    const fold_node none = { 0, 0 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static message file;
        const graph_row row = { 13, "2", rows[i].constants, rows[i].nodes, "" };
        write_row(&file, &row);
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) put_function(&file, all[k][0], all[k][1]);
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
        if (*rows[i].says == ':') CHECK_SAYS(!o && strstr(fold_model_message(m), rows[i].says + 1), "%s: %s", rows[i].nodes, fold_model_message(m));
        else {
            char *second;
            const float first = strtof(rows[i].says, &second), right[2] = { first, strtof(second, NULL) };
            fold_onnx_value in = { "x", x, none }, y = { "y", NULL, none };
            CHECK_SAYS(o != NULL, "%s: %s", rows[i].nodes, fold_model_message(m));
            CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &y, 1), o ? FOLD_OK : FOLD_BAD_ARGUMENT);
            CHECK_INT(fold_run(f, &y.node, 1), FOLD_OK);
            if (o) CHECK_SAYS(!memcmp(fold_value(f, y.node), right, sizeof right), "%s: %g %g", rows[i].nodes, (double)fold_value(f, y.node)[0], (double)fold_value(f, y.node)[1]);
            if (*rows[i].constants == 'w') CHECK(!fold_param_is_null(fold_param_find(m, "w"))); /* by its own name */
        }
        fold_onnx_close(o);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Ops of any number of inputs, with one; what is joined keeps ranks and the values of its formula. */
static void one_input(void)
{
    static const graph_row rows[] = {
        { 13, "1", "w 1=3.5", "Sum w > s;Add x s > y", "4.5" },
        { 13, "1", "w 1=3.5", "Max w > s;Add x s > y", "4.5" },
        { 13, "1", "w 1=3.5", "Min w > s;Concat s > t axis=0;Add x t > y", "4.5" },
        { 13, "2", "", "Sum x > s;Max s > t;Min t > u;Concat u > y axis=0", "1 -2" },
        { 13, "2", "w 1=1;v 1=2;u 2=3,4", "Sum w v u > s;Mul x s > y", "6 -14" },
        { 17, "2 4", "e 1 1 1=0.25;a 1=#1", "ReduceMean x > m axes=-1, ;Sub x m > c;Mul c c > q;ReduceMean q > v axes=-1,;Add v e > w;Sqrt w > s;Div c s > z;ReduceSum z a > y keepdims=0",
          "1.3816304 -1.3816304 2.4151664 -2.4151664" },
        { 17, "1 2", "g 2=0,0;b 2=3,4", "LayerNormalization x g b > y", "3 4" },
        { 13, "2", "h=-1e38;t=10", "Min x h > a;Mul a t > b;Sigmoid b > s;Mul b s > y", "nan nan" }
    };
    CHECK_ROWS(rows);
}

/* Names: one that a made-up name would take, and ones that are equal in the first 127 letters. */
static void names(void)
{
#define LONG "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"
    static const graph_row rows[] = {
        { 13, "1 2", "w 2 2=1,2,3,4;w.1 2 2=1,0,0,2;w.turned 2 2=1,0,0,1",
          "MatMul x w > h;Gemm h w > g transB=1;MatMul g w.1 > i;Gemm i w.turned > y transB=1", "-17 -78" },
        { 13, "1 2", LONG "a 2=1,2;" LONG "b 2=3,4", "Mul x " LONG "a > h;Mul h " LONG "b > y", "3 -16" } };
    CHECK_ROWS(rows);
}

/* Nodes in any order; parts that no output needs are skipped, also with what they would read. */
static void parts(void)
{
    static const graph_row rows[] = {
        { 13, "1 2", "", "Neg a > y;Relu x > a", "-1 -0" },
        { 13, "1 2", "", "Add d d > y;Add c b > d;Neg b > c;Relu a > b;Neg x > a", "0 0" },
        { 13, "1 2", "", "Det x > z;Relu x > y", "1 0" },
        { 13, "1 2", "", "Det x > z;Neg z > v;Relu x > y", "1 0" },
        { 13, "1 2", "", "Det x > z;Neg z > y", ":onnx: Det 'z': this op is not supported" },
        { 13, "1 2", "", "Neg z > y;Neg y > z", ":'y', except nodes that need it" },
        { 13, "1 2", "", "Neg y > y", ":nothing makes 'y', except nodes that need it" },
        { 13, "1 2", "", "Neg x > y;Relu x > y", ":'y' is made twice" }
    };
    CHECK_ROWS(rows);
    static message file, graph, weight, sparse;
    for (int used = 0; used < 3; used++) { /* a sparse weight, which old files list as an input as well; an input that is there twice */
        graph.size = weight.size = sparse.size = 0;
        put_text(&weight, 8, "w");
        put_message(&sparse, 1, &weight);
        put_message(&graph, 15, &sparse);
        put_value(&graph, 11, "w", "2");
        for (int i = 0; i < (used == 2 ? 2 : 1); i++) put_value(&graph, 11, "x", "1 2");
        put_node(&graph, "Add", used ? "x w" : "x x", "y", "");
        put_value(&graph, 12, "y", "1 2");
        onnx_file(&file, &graph, 13);
        fold_model *m = fold_model_new(NULL);
        fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
        CHECK_TEXT(fold_model_message(m), used == 2 ? "onnx: input 'x': it is there twice" : used ? "onnx: weight 'w': it is sparse" : "");
        CHECK(!o == (used > 0));
        fold_onnx_close(o);
        fold_model_free(m);
    }
}

/* The gradient of sum(y) by a weight w and by x, beside finite differences. An op that passes none says so. */
static void gradients(void)
{
    static const struct { const char *nodes; int stops; double rounding; } rows[] = {
        { "Mul w x > v;Div v c > y", 0, 0 }, { "Mul w x > v;Cast v > h to=10;Cast h > y to=1", 0, 0.1 }, { "Add x w > s;Reciprocal s > y", 0, 0 }, { "Mul w x > v;Pow v e > y", 0, 0 },
        { "Pow w x > y", 0, 0 }, { "Mul w x > v;Pow v c > y", 0, 0 }, { "Sub w x > y", 0, 0 }, { "Div w x > y", 0, 0 }, { "Mul w x > v;Erf v > y", 0, 0 },
        { "Mul x w > v;Max v c e > y", 0, 0 }, { "Mul x w > a;Softmax a > y", 0, 0 }, { "Mul x w > a;ReduceL2 a > y", 0, 0 },
        { "Mul x w > v;Sin v > y", 0, 0 }, { "Mul x w > v;Cos v > y", 0, 0 }, { "Add x w > v;HardSigmoid v > y", 0, 0 }, { "Sub w x > v;HardSwish v > y", 0, 0 },
        { "Sub w x > v;Selu v > y", 0, 0 }, { "Sub w x > v;Celu v > y alpha=2.0", 0, 0 }, { "Sub w x > v;PRelu v c > y", 0, 0 }, { "Sub w e > v;PRelu v w > y", 0, 0 },
        { "Mul x w > v;Softsign v > y", 0, 0 }, { "Mul x w > v;Mish v > y", 0, 0 }, { "Mul x w > v;Swish v > y alpha=2.0", 0, 0 }, { "Mul x w > v;Mod v c > y fmod=1", 0, 0 },
        { "Mul x w > v;Mod c v > y fmod=1", 0, 0 }, { "Mul x w > v;Tile v two > y", 0, 0 }, { "Mul x w > v;Pad v ends > y mode=reflect", 0, 0 },
        { "Mul x w > v;Unsqueeze v one > r;Trilu r > y", 0, 0 }, { "Mul x w > v;Dropout v > y", 0, 0 }, { "Mul w x > v;Gather v one > y", 0, 0 },
        { "Cast x > i to=7;Gather w i > y", 0, 0 }, { "Sub x x > z;Cast z > i to=7;Gather w i > y", 0, 0 }, { "Mul x w > v;ThresholdedRelu v > y alpha=0.2", 0, 0 }, { "Mul x w > v;Shrink v > y lambd=0.1 bias=0.3", 0, 0 },
        { "Mul x w > v;Unsqueeze v two_axes > r;MaxPool r > y kernel_shape=2,", 0, 0 }, { "Mul x w > v;Unsqueeze v two_axes > r;AveragePool r > y kernel_shape=2, auto_pad=SAME_UPPER", 0, 0 },
        { "Mul x w > v;Unsqueeze v two_axes > r;GlobalAveragePool r > y", 0, 0 },
        { "Mul x w > v;Unsqueeze v two_axes > r;ConvTranspose r f > y strides=2, pads=1,0", 0, 0 }, { "Mul x w > v;Unsqueeze v two_axes > r;Resize r _ scales > y mode=linear", 0, 0 },
        { "Mul x w > v;Unsqueeze v two_axes > r;Resize r _ scales > y", 0, 0 }, { "Mul x w > v;Einsum v f > y equation=i,jki->k", 0, 0 }, { "Einsum x w > y equation=i,j->", 0, 0 },
        { "Mul x w > v;CumSum v zero > y reverse=1", 0, 0 }, { "Mul x w > v;LpNormalization v > y", 0, 0 }, { "Mul x w > v;LpNormalization v > y p=1", 0, 0 },
        { "Mul x w > v;Concat v e > a axis=0;Unsqueeze a two_axes > r;InstanceNormalization r k1 k1 > s;Mul s s > q;Mul q s > y", 0, 0.01 }, { "Mul x w > v;RMSNormalization v w > y", 0, 0 },
        { "Mul x w > v;Mean v w x > y", 0, 0 }, { "Mul x w > v;Atan v > y", 0, 0 }, { "Mul x w > v;Tan v > y", 0, 0 },
        { "Sub w x > v;Asin v > y", 0, 0 }, { "Sub w x > v;Acos v > y", 0, 0 },
        { "Mul x w > v;ThresholdedRelu v > y", 0, 0 }, { "Mul x w > v;ArgMin v > b;Cast b > y to=1", 1, 0 }, { "Mul x w > v;OneHot v depth c2 > y", 1, 0 },
        { "Mul x w > v;QuantizeLinear v c > b;DequantizeLinear b c > y", 1, 0 },
        { "Mul x w > v;Sign v > y", 1, 0 }, { "Mul x w > v;Ceil v > y", 1, 0 }, { "Mul x w > v;Round v > y", 1, 0 },
        { "Mul x w > v;Less v c > b;Cast b > y to=1", 1, 0 }, { "Mul x w > v;Floor v > y", 1, 0 }, { "Mul x w > v;ArgMax v > b;Cast b > y to=1", 1, 0 },
        { "Mul x w > v;Cast v > b to=7;Cast b > y to=1", 1, 0 } };
    static const float x[2] = { 0.75f, 1.5f };
    const fold_node none = { 0, 0 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static message file;
        const graph_row row = { 24, "2", "w 2=0.7,1.3;e 2=1.5,-0.5;c=1.25;two 1=#2;one 1=#0;two_axes 2=#0,1;ends 2=#1,1;zero=#0;scales 3=1,1,2;depth=#3;c2 2=1,2;k1 1=1.5;f 1 2 2=1,2,3,-1.5", rows[i].nodes, "" };
        fold_ctx_desc desc = fold_ctx_desc_default();
        double sum[3] = { 0, 0, 0 };
        desc.training = 1;
        write_row(&file, &row);
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, &desc);
        fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
        fold_onnx_value in = { "x", x, none }, y = { "y", NULL, none };
        const fold_param w = fold_param_find(m, "w");
        for (int k = 0; k < 3 && o; k++) { /* as it is, and a bit to both sides */
            if (k) *fold_values_write_begin(m, w) += k == 1 ? 0.01f : -0.02f, fold_values_write_end(m, w);
            fold_ctx_reset(f);
            CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &y, 1), FOLD_OK);
            const fold_node total = fold_sum(f, fold_reshape(f, y.node, fold_shape1(fold_onnx_find(o, "y").count)), -1);
            if (!k) CHECK_INT(fold_backward(f, total), FOLD_OK);
            else CHECK_INT(fold_run(f, &total, 1), FOLD_OK);
            sum[k] = (double)fold_scalar(f, total);
        }
        const double right = (sum[1] - sum[2]) / 0.02, got = o && fold_param_grad(m, w) ? (double)fold_param_grad(m, w)[0] : (double)NAN;
        int stops = 0;
        for (const char *name = "ysvbarh"; *name; name++) {
            const char one[2] = { *name, 0 };
            stops |= fold_onnx_find(o, one).stops_gradient;
        }
        CHECK_SAYS(o != NULL, "%s: %s", rows[i].nodes, fold_model_message(m));
        CHECK_SAYS(stops == rows[i].stops && (stops ? !(fabs(got) > 0) : fabs(got - right) <= (2e-3 + rows[i].rounding) * fabs(right) + 1e-4), "%s: gradient %g, not %g; stops %d", rows[i].nodes, got, right, stops);
        fold_onnx_close(o);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* A pad is printed as a whole number, times or divided by powers of two: an expression with the same bits. */
static int append(const void *from, size_t size, void *user)
{
    strncat((char *)user, (const char *)from, size);
    return 0;
}
static void check_pad(float value)
{
    char text[300] = "", *at = text + strlen("        float own_pad =");
    CHECK_INT(fold_onnx__print_pad(value, append, text), 0);
    float back = strtof(at, &at);
    while (at[0] == 'f' && at[1] == ' ') {
        const char sign = at[2];
        const float by = strtof(at + 3, &at);
        back = sign == '*' ? back * by : back / by;
    }
    CHECK_SAYS(!strcmp(at, "f;\n") && !memcmp(&back, &value, sizeof value), "%s is not %.9g", text, (double)value);
}
static void pads(void)
{
    static const float all[] = { 0.123456789f, 1, 0, -0.0f, 0.1f, -2.5f, 16777216, 3.4028235e38f, 1e-45f, 1.17549435e-38f, 1e10f, 8388607.5f };
    static const struct { float value; const char *text; } special[] = {
        { 1, "float own_pad = 1.0f;\n" }, { 0.5f, "float own_pad = 1.0f / 2.0f;\n" }, { -24, "float own_pad = -24.0f;\n" },
        { -INFINITY, "float own_pad = -1.0f * 1152921504606846976.0f * 1152921504606846976.0f * 128.0f;\n        own_pad *= 2.0f;\n" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_pad(all[i]);
    fold_random r = fold_random_new(1, 0);
    for (int i = 0; i < 20000; i++) {
        const uint32_t bits = (uint32_t)fold_random_below(&r, 1 << 16) << 16 | (uint32_t)fold_random_below(&r, 1 << 16);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check_pad(value);
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        char text[300] = "";
        CHECK_INT(fold_onnx__print_pad(special[i].value, append, text), 0);
        CHECK_TEXT(text, special[i].text);
    }
}

/* A budget of memory that the file does not fit, by its number; what is not a binding of this file. */
static void settings(void)
{
    static message file;
    static const graph_row row = { 13, "1 2", "w 2 2=1,2,3,4", "MatMul x w > hidden;Relu hidden > actions;Det x > y", ":" };
    fold_onnx_binding binding = { "X", NULL, 1, 2, { 1, 2 }, 0 };
    const fold_node none = { 0, 0 };
    float x[2] = { 1, 2 };
    fold_onnx_desc desc = fold_onnx_desc_default();
    write_row(&file, &row);
    fold_model *m = fold_model_new(NULL);
    desc.max_bytes = 20000;
    CHECK(!fold_onnx_open_memory(m, file.bytes, file.size, &desc));
    CHECK_TEXT(fold_model_message(m), "the file needs more than 20000 bytes; raise fold_onnx_desc.max_bytes");
    fold_model_clear_error(m);
    desc.max_bytes = 0;
    desc.bindings = &binding;
    desc.n_bindings = 1;
    CHECK(!fold_onnx_open_memory(m, file.bytes, file.size, &desc));
    CHECK_TEXT(fold_model_message(m), "onnx: no input is named 'X', as a binding is; nearest: 'x'");
    fold_model_free(m);
    static message graph, info, type;
    graph.size = info.size = type.size = 0;
    put_number(&type, 1, 1);
    put_message(&info, 1, &type);
    type.size = 0;
    put_text(&type, 1, "X");
    put_message(&type, 2, &info);
    put_message(&graph, 11, &type); /* a float, of whatever shape */
    put_nodes(&graph, "Neg X > y");
    put_value(&graph, 12, "y", "");
    onnx_file(&file, &graph, 13);
    m = fold_model_new(NULL);
    CHECK(!fold_onnx_open_memory(m, file.bytes, file.size, NULL));
    CHECK_TEXT(fold_model_message(m), "onnx: input 'X': it has no shape; give one with fold_onnx_desc.bindings");
    fold_model_clear_error(m);
    fold_onnx *bound = fold_onnx_open_memory(m, file.bytes, file.size, &desc);
    CHECK_INT(fold_onnx_find(bound, "y").count, 2);
    fold_onnx_close(bound);
    binding.values = x;
    binding.count = 1;
    CHECK(!fold_onnx_open_memory(m, file.bytes, file.size, &desc));
    CHECK_TEXT(fold_model_message(m), "onnx: input 'X': 1 values are bound to a shape of 2");
    fold_model_clear_error(m);
    binding.count = 2;
    bound = fold_onnx_open_memory(m, file.bytes, file.size, &desc);
    CHECK_INT(fold_onnx_find(bound, "y").is_constant, 1);
    fold_onnx_close(bound);
    fold_model_free(m);
    graph.size = 0;
    put_value(&graph, 11, "x", "1 2");
    put_nodes(&graph, "Relu x > actions;Det x > y");
    put_value(&graph, 12, "actions", "1 2");
    put_value(&graph, 12, "y", "1 2");
    onnx_file(&file, &graph, 13);
    m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
    CHECK_TEXT(fold_model_message(m), "");
    CHECK_INT(fold_onnx_output(o, 1).count, 0);
    fold_onnx_value in = { "x", x, none }, out = { "action", NULL, none };
    CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &out, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "onnx: nothing makes 'action'; nearest: 'actions'");
    fold_ctx_reset(f);
    out.name = "y";
    CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &out, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "onnx: 'y' is not available: Det 'y': this op is not supported");
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_model_free(m);
}
/* A file that is saved is the same but for weights that changed, in its own layout. What is kept in another layout has another name. */
typedef struct saved_bytes { unsigned char bytes[1 << 15]; size_t size; } saved_bytes;
static int collect(const void *from, size_t size, void *user)
{
    saved_bytes *all = (saved_bytes *)user;
    memcpy(all->bytes + all->size, from, size);
    all->size += size;
    return 0;
}
static void save(void)
{
    static const graph_row row = { 13, "1 2", "w 3 2=1,2,3,4,5,6;b 3=1,1,1;t 3 3=1,0,0,0,1,0,0,0,1;g=2", "Gemm x w b > h transB=1;MatMul h t > i;Gemm i t > j transB=1;Mul j g > k;Neg k > y", "" };
    static message file;
    static saved_bytes same, changed;
    const float ten = 10;
    write_row(&file, &row);
    fold_model *m = fold_model_new(NULL);
    CHECK_INT(fold_onnx_save_to(m, file.bytes, file.size, NULL, collect, &same), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "onnx: weight 'w': the model has no parameter 'w.turned'");
    fold_model_clear_error(m);
    fold_onnx *o = fold_onnx_open_memory(m, file.bytes, file.size, NULL);
    const int count = fold_param_count(m);
    CHECK_TEXT(fold_model_message(m), "");
    CHECK(fold_param_is_null(fold_param_find(m, "w")) && !fold_param_is_null(fold_param_find(m, "b")));
    same.size = 0;
    CHECK_INT(fold_onnx_save_to(m, file.bytes, file.size, NULL, collect, &same), FOLD_OK);
    CHECK(same.size == file.size && !memcmp(same.bytes, file.bytes, file.size));
    fold_values_write_begin(m, fold_param_find(m, "w.turned"))[1] = ten; /* [2 x 3]: row 1 of w, column 0 */
    fold_values_write_end(m, fold_param_find(m, "w.turned"));
    CHECK_INT(fold_onnx_save_to(m, file.bytes, file.size, NULL, collect, &changed), FOLD_OK);
    CHECK_INT(fold_param_count(m), count);
    fold_model *other = fold_model_new(NULL);
    fold_onnx *p = fold_onnx_open_memory(other, changed.bytes, changed.size, NULL);
    CHECK(p && fold_param_value(other, fold_param_find(other, "w.turned"))[1] == 10);
    int differ = 0;
    for (size_t i = 0; i < file.size; i++) differ += file.bytes[i] != changed.bytes[i];
    CHECK(changed.size == file.size && differ > 0 && differ <= 4);
    fold_values_write_begin(m, fold_param_find(m, "t"))[1] = ten; /* its transpose stays */
    fold_values_write_end(m, fold_param_find(m, "t"));
    CHECK_INT(fold_onnx_save_to(m, file.bytes, file.size, NULL, collect, &same), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "weight 't': it has two parameters, which were trained to different values");
    fold_onnx_close(p);
    fold_model_free(other);
    fold_onnx_close(o);
    fold_model_free(m);
    CHECK_INT(fold_onnx_save_to(NULL, file.bytes, file.size, NULL, collect, &same), FOLD_BAD_ARGUMENT);
}
/* Messages that have a type by its name, a limit, a domain, a function. */
static void messages(void)
{
    static const graph_row rows[] = {
        { 13, "1 2", "", "Cast x > y to=14", ":Cast 'y': complex64 values are not supported here" },
        { 13, "1 2", "", "Cast x > y to=16", ":Cast 'y': bfloat16 values are not supported here" },
        { 13, "1 2", "", "Cast x > y to=40", ":Cast 'y': values of ONNX's type 40" },
        { 13, "1 1 1", "w 1 4 1=0,0,0,0", "RNN x w w > y hidden_size=1", ":RNN 'y': the shape of 'w' does not match the others" },
        { 13, "1025 1 1", "w 1 4 1=0,0,0,0", "LSTM x w w > y hidden_size=1", ":1025 steps of 1 sequences, of at most 1024 together" },
        { 13, "1 2", "w 2 2=0,0,0,0", "MatMul x w > h;Add h x > i;Conv i w > y", ":Conv 'y': an input of rank 2" } };
    CHECK_ROWS(rows);
}

/* ---- what is refused -------------------------------------------------------------------------- */

typedef struct refusal { const char *type, *in, *attributes, *message; } refusal;
static void refusals(void)
{
    static const refusal all[] = {
        { "Unknown", "x", "", "onnx: Unknown 'y': this op is not supported" },
        { "Relu", "x", "alpha=1.0", "onnx: Relu 'y': attribute alpha is not supported" },
        { "Relu", "gone", "", "onnx: Relu 'y': nothing makes 'gone'" },
        { "Relu", "x x", "", "onnx: Relu 'y': 2 inputs are not supported" },
        { "Loop", "x", "", "onnx: Loop 'y': this op is not supported; export the layer unrolled, or one step with its state as an input" },
        { "Reshape", "x x", "", "onnx: Reshape 'y': 'x' is not constant" },
        { "MatMul", "x x", "", "onnx: MatMul 'y': matrices that do not fit" },
        { "Conv", "x W", "", "onnx: Conv 'y': an input of rank 2, 1 samples" },
        { "Clip", "x", "min=2.0 max=1.0", "onnx: Clip 'y': no value is between 2 and 1" },
        { "Softmax", "x", "axis=2", "onnx: Softmax 'y': axis 2 does not exist, there are 2" },
        { "Multinomial", "x", "sample_size=2", "onnx: Multinomial 'y': more than one sample" },
        { "Add", "x W", "", "onnx: Add 'y': axes of 3 and 4 values do not broadcast" } };
    static message graph, file;
    static const float values[12] = { 0 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graph.size = 0;
        put_value(&graph, 11, "x", "1 4");
        put_tensor(&graph, 5, "W", "4 3", values);
        put_node(&graph, all[i].type, all[i].in, "y", all[i].attributes);
        put_value(&graph, 12, "y", "1 4");
        onnx_file(&file, &graph, 13);
        fold_model *m = fold_model_new(NULL);
        CHECK(!fold_onnx_open_memory(m, file.bytes, file.size, NULL));
        CHECK_TEXT(fold_model_message(m), all[i].message);
        fold_model_free(m);
    }
}
/* Weights in other files: beside this one, below a folder that is none, too short, and elsewhere. */
static void put_external(message *graph, const char *name, int rows, int columns, const char *location, const char *offset)
{
    static message weight, entry;
    weight.size = 0;
    put_number(&weight, 1, rows);
    put_number(&weight, 1, columns);
    put_number(&weight, 2, 1);
    put_text(&weight, 8, name);
    put_number(&weight, 14, 1);
    for (int k = 0; k < 2; k++) {
        entry.size = 0;
        put_text(&entry, 1, k ? "offset" : "location");
        put_text(&entry, 2, k ? offset : location);
        put_message(&weight, 13, &entry);
    }
    put_message(graph, 5, &weight);
}
/* What is allocated, and its peak. */
typedef struct allocated { size_t now, peak; } allocated;
static void *allocate(size_t size, size_t align, void *user)
{
    allocated *all = (allocated *)user;
    char *memory = (char *)malloc(size + 2 * align);
    if (!memory) return NULL;
    char *place = memory + align + (align - (uintptr_t)memory % align); /* behind it there is room for a pointer */
    memcpy(place - sizeof memory, &memory, sizeof memory);
    if ((all->now += size) > all->peak) all->peak = all->now;
    return place;
}
static void release(void *place, size_t size, void *user)
{
    char *memory;
    if (!place) return;
    memcpy(&memory, (char *)place - sizeof memory, sizeof memory);
    ((allocated *)user)->now -= size;
    free(memory);
}
/* An inference model has each weight twice when its file is open, and the file's bytes while it is opened. Transposed weights have their
   values in the right places. */
static void memory(void)
{
    enum { ROWS = 203, COLUMNS = 301, COUNT = ROWS * COLUMNS, WEIGHTS = 10 };
    static message graph, file;
    static float values[COUNT];
    char in[20], out[20], name[20], offset[20];
    allocated all = { 0, 0 };
    fold_model_desc desc = fold_model_desc_default();
    FILE *data = fopen("build/test_onnx_large.data", "wb");
    if (!data) return; /* it runs where there is no build */
    for (int w = 0; w < WEIGHTS; w++)
        for (int i = 0; i < COUNT; i++) {
            const float value = (float)(i + w);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            for (int k = 0; k < 4; k++) fputc((int)(bits >> 8 * k & 255), data);
            values[i] = (float)i;
        }
    fclose(data);
    put_value(&graph, 11, "h0", "1 301");
    for (int w = 0; w < WEIGHTS; w++) {
        snprintf(name, sizeof name, "h%d w%d", w, w);
        snprintf(out, sizeof out, "h%d", w + 1);
        snprintf(in, sizeof in, "w%d", w);
        snprintf(offset, sizeof offset, "%d", 4 * w * COUNT);
        put_external(&graph, in, ROWS, COLUMNS, "test_onnx_large.data", offset);
        put_node(&graph, w % 2 ? "MatMul" : "Gemm", name, out, w % 2 ? "" : "transB=1");
    }
    put_value(&graph, 12, "h10", "1 301");
    onnx_file(&file, &graph, 13);
    FILE *to = fopen("build/test_onnx_large.onnx", "wb");
    CHECK(to && fwrite(file.bytes, 1, file.size, to) == file.size && !fclose(to));
    desc.inference = 1;
    desc.memory.alloc = allocate;
    desc.memory.free = release;
    desc.memory.user = &all;
    fold_model *m = fold_model_new(&desc);
    fold_onnx *o = fold_onnx_open(m, "build/test_onnx_large.onnx", NULL);
    CHECK_TEXT(fold_model_message(m), "");
    const size_t weights = sizeof values * WEIGHTS;
    CHECK_SAYS(all.now < 5 * weights / 2, "%lu bytes for weights of %lu", (unsigned long)all.now, (unsigned long)weights);
    CHECK_SAYS(all.peak < 4 * weights, "%lu bytes at once for weights of %lu", (unsigned long)all.peak, (unsigned long)weights);
    const float *turned = fold_param_value(m, fold_param_find(m, "w0.turned")), *same = fold_param_value(m, fold_param_find(m, "w1"));
    int wrong = 0;
    for (int i = 0; i < COUNT && turned && same; i++) wrong += turned[i % COLUMNS * ROWS + i / COLUMNS] != values[i] || same[i] != values[i] + 1;
    CHECK(turned && same);
    CHECK_INT(wrong, 0);
    fold_onnx_close(o);
    fold_model_free(m);
    CHECK(all.now == 0);
}
static void external(void)
{
    static const struct { const char *location, *offset, *message; } all[] = {
        { "test_onnx.data", "4", "" },
        { "test_onnx.data", "8", "onnx: weight 'W': 'build/test_onnx.data' has too few bytes" },
        { "../test_onnx.data", "0", "onnx: weight 'W': it is in a file outside the folder of this one" },
        { "a/../../test_onnx.data", "0", "onnx: weight 'W': it is in a file outside the folder of this one" },
        { "/etc/passwd", "0", "onnx: weight 'W': it is in a file outside the folder of this one" },
        { "", "0", "onnx: weight 'W': it is in a file outside the folder of this one" },
        { "there-is-no.data", "0", "onnx: weight 'W': 'build/there-is-no.data' cannot be opened" } };
    static const float values[5] = { 9, 1, 2, 3, 4 }, x[2] = { 1, 10 };
    static message graph, weight, file;
    const fold_node none = { 0, 0 };
    FILE *data = fopen("build/test_onnx.data", "wb");
    if (!data) return; /* it runs where there is no build */
    weight.size = 0;
    put_numbers(&weight, 1, values, 5, sizeof *values);
    CHECK_INT(fwrite(weight.bytes + 2, sizeof *values, 5, data), 5); /* behind the field's head */
    fclose(data);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graph.size = 0;
        put_external(&graph, "W", 2, 2, all[i].location, all[i].offset);
        put_value(&graph, 11, "x", "1 2");
        put_node(&graph, "MatMul", "x W", "y", "");
        put_value(&graph, 12, "y", "1 2");
        onnx_file(&file, &graph, 13);
        FILE *out = fopen("build/test_onnx.onnx", "wb");
        CHECK(out && fwrite(file.bytes, 1, file.size, out) == file.size);
        if (out) fclose(out);
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_onnx *o = fold_onnx_open(m, "build/test_onnx.onnx", NULL);
        fold_onnx_value in = { "x", x, none }, y = { "y", NULL, none };
        CHECK_TEXT(fold_model_message(m), all[i].message);
        CHECK(!o == (i > 0));
        if (o) {
            CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &y, 1), FOLD_OK);
            CHECK_INT(fold_run(f, &y.node, 1), FOLD_OK);
            CHECK(fold_value(f, y.node) && fold_value(f, y.node)[0] == 31 && fold_value(f, y.node)[1] == 42);
        }
        fold_onnx_close(o);
        fold_ctx_free(f);
        fold_model_free(m);
    }
    fold_model *m = fold_model_new(NULL);
    CHECK(!fold_onnx_open_memory(m, file.bytes, file.size, NULL));
    CHECK_TEXT(fold_model_message(m), "onnx: weight 'W': it is in a separate file; use fold_onnx_open");
    fold_model_free(m);
}

static void misuse(void)
{
    const fold_node none = { 0, 0 };
    float obs[4] = { 0, 0, 0, 0 };
    fold_model *m = fold_model_new(NULL), *other = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL), *foreign = fold_ctx_new(other, NULL);
    fold_onnx *o = fold_onnx_open_memory(m, network.bytes, network.size, NULL);
    fold_onnx_value in = { "obs", obs, none }, out = { "actions", NULL, none };
    CHECK(!fold_onnx_open_memory(NULL, network.bytes, network.size, NULL));
    CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &out, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "onnx: input 'picture' is missing");
    CHECK_INT(fold_model_status(m), FOLD_OK);
    fold_ctx_reset(f);
    out.name = "lost";
    CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &out, 1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_ctx_message(f), "onnx: nothing makes 'lost'");
    CHECK(!strstr(fold_ctx_message(f), "nearest")); /* no name is like it */
    fold_ctx_reset(f);
    out.name = "centred"; /* needs obs alone */
    CHECK_INT(fold_onnx_record(o, f, &in, 1, NULL, &out, 1), FOLD_OK);
    CHECK_INT(fold_run(f, &out.node, 1), FOLD_OK);
    CHECK_INT(fold_onnx_record(o, foreign, &in, 1, NULL, &out, 1), FOLD_BAD_HANDLE);
    CHECK_INT(fold_onnx_record(NULL, f, &in, 1, NULL, &out, 1), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_onnx_input_count(NULL), 0);
    CHECK(!fold_onnx_input(o, 99).name);
    CHECK(!fold_onnx_find(NULL, "obs").name);
    fold_onnx_close(NULL);
    CHECK(!fold_onnx_open_memory(m, NULL, 0, NULL));
    CHECK_TEXT(fold_model_message(m), "onnx: the file has no graph");
    fold_model_clear_error(m);
    CHECK(!fold_onnx_open(m, "build/there-is-no.onnx", NULL));
    CHECK_TEXT(fold_model_message(m), "onnx: 'build/there-is-no.onnx' cannot be opened");
    fold_onnx_close(o);
    fold_ctx_free(f);
    fold_ctx_free(foreign);
    fold_model_free(m);
    fold_model_free(other);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    write_network(&network);
    check_run("the same bits alone, in batches, eager and replayed", same_bits);
    check_run("many samples as lists", as_lists);
    check_run("in blocks, and training", blocks);
    check_run("inputs, outputs and metadata", contract);
    check_run("moves and norms that are joined", moves);
    check_run("what looks like a norm, and a listed weight", lookalikes);
    check_run("attributes without a value", left_out);
    check_run("large dimensions", large_dims);
    check_run("whole numbers", whole_numbers);
    check_run("lists of no values", empty_lists);
    check_run("zeros, infinities and roundings", edges);
    check_run("forms of other opsets", forms);
    check_run("ops of few calls", short_ops);
    check_run("8 bits, by scales", quantized);
    check_run("what repeats and cuts", repeats);
    check_run("pools", pools);
    check_run("convolutions that are transposed, or of groups", transposed);
    check_run("resizing", resizing);
    check_run("norms of groups", group_norms);
    check_run("sums of products", sums_of_products);
    check_run("sums along an axis, blocks, what is sorted", sorted_and_summed);
    check_run("branches", branches);
    check_run("functions of the file", functions);
    check_run("one input, and what is joined", one_input);
    check_run("names of parameters", names);
    check_run("nodes in any order, and parts that are not read", parts);
    check_run("gradients", gradients);
    check_run("pads that are printed", pads);
    check_run("settings, and what is asked for", settings);
    check_run("messages", messages);
    check_run("files that are saved", save);
    check_run("what is refused", refusals);
    check_run("weights in other files", external);
    check_run("memory of weights", memory);
    check_run("misuse", misuse);
    check_run("tests of nodes", node_tests);
    check_run("policies", policies);
    return check_finish();
}
