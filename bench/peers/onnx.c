/* onnx.c - a step of policies from ONNX files, by fold.h and by ONNX Runtime, one thread each, in turns: bench/peers/onnx
   compiles it where ONNX Runtime's header and library are.

       onnx MODEL SECONDS BATCH...      a line for each batch: microseconds of a step by both, and fold.h's to ONNX Runtime's

   Both compute all outputs of as many agents as the batch has. fold.h records once and replays; ONNX Runtime keeps its
   inputs and outputs and runs again. A figure is the least of all turns. tests/test_onnx.c compares the values. */

#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "../../examples/fold_onnx.h"
#include "onnxruntime_c_api.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 32, MOST_AXES = 8 };
static const OrtApi *api;
static void must(OrtStatus *status)
{
    if (!status) return;
    fprintf(stderr, "onnx: ONNX Runtime says: %s\n", api->GetErrorMessage(status));
    exit(1);
}
static void must_fold(int good, const char *message)
{
    if (good) return;
    fprintf(stderr, "onnx: fold.h says: %s\n", message);
    exit(1);
}

/* ---- ONNX Runtime ----------------------------------------------------------------------------- */

typedef struct runtime {
    OrtSession *session;
    size_t n_in, n_out;
    char *in_name[MOST], *out_name[MOST];
    OrtValue *in[MOST], *out[MOST];
} runtime;

static OrtSession *open_session(const char *path)
{
    OrtEnv *env;
    OrtSessionOptions *options;
    OrtSession *session;
    must(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bench", &env));
    must(api->CreateSessionOptions(&options));
    must(api->SetIntraOpNumThreads(options, 1));
    must(api->SetInterOpNumThreads(options, 1));
    must(api->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
    must(api->CreateSession(env, path, options, &session));
    return session;
}

/* Makes an input of a batch: numbers at random, masks that allow everything. *is_open becomes 1 when the file leaves an axis open. */
static OrtValue *make_input(const runtime *r, size_t index, int batch, int *is_open)
{
    OrtTypeInfo *type;
    const OrtTensorTypeAndShapeInfo *shape;
    OrtMemoryInfo *memory;
    OrtValue *value;
    ONNXTensorElementDataType kind;
    int64_t dim[MOST_AXES];
    size_t rank, count = 1;
    must(api->SessionGetInputTypeInfo(r->session, index, &type));
    must(api->CastTypeInfoToTensorInfo(type, &shape));
    must(api->GetTensorElementType(shape, &kind));
    must(api->GetDimensionsCount(shape, &rank));
    must_fold(kind == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT && rank <= MOST_AXES, "an input is not of floats");
    must(api->GetDimensions(shape, dim, rank));
    for (size_t k = 0; k < rank; k++) {
        *is_open |= dim[k] < 0;
        if (dim[k] < 0) dim[k] = batch;
        count *= (size_t)dim[k];
    }
    float *numbers = (float *)malloc(count * sizeof *numbers); /* lives as long as the program */
    for (size_t i = 0; i < count; i++)
        numbers[i] = strstr(r->in_name[index], "mask") ? 1.0f : (float)rand() / (float)RAND_MAX - 0.5f;
    must(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    must(api->CreateTensorWithDataAsOrtValue(memory, numbers, count * sizeof *numbers, dim, rank, kind, &value));
    return value;
}
static OrtStatus *run_session(runtime *r)
{
    return api->Run(r->session, NULL, (const char *const *)r->in_name, (const OrtValue *const *)r->in, r->n_in,
                    (const char *const *)r->out_name, r->n_out, r->out);
}
/* Begins a batch; *refused tells why ONNX Runtime does not run it. */
static runtime begin_session(OrtSession *session, int batch, const char **refused)
{
    runtime r;
    int is_open = 0;
    OrtAllocator *allocator;
    memset(&r, 0, sizeof r);
    r.session = session;
    must(api->GetAllocatorWithDefaultOptions(&allocator));
    must(api->SessionGetInputCount(session, &r.n_in));
    must(api->SessionGetOutputCount(session, &r.n_out));
    must_fold(r.n_in <= MOST && r.n_out <= MOST, "there are too many inputs, or outputs");
    for (size_t i = 0; i < r.n_out; i++) must(api->SessionGetOutputName(session, i, allocator, &r.out_name[i]));
    for (size_t i = 0; i < r.n_in; i++) {
        must(api->SessionGetInputName(session, i, allocator, &r.in_name[i]));
        r.in[i] = make_input(&r, i, batch, &is_open);
    }
    OrtStatus *status = run_session(&r); /* makes the outputs, to which later runs write */
    if (!status) status = run_session(&r);
    *refused = status ? api->GetErrorMessage(status) : is_open || batch == 1 ? NULL : "the file fixes its batch";
    return r;
}

/* ---- fold.h ----------------------------------------------------------------------------------- */

/* Records a step of all agents as lists, or of one as nodes, and keeps all outputs that are computed. */
static void record_agents(fold_onnx *o, fold_ctx *f, int batch)
{
    fold_onnx_value in[MOST], out[MOST];
    int n_out = 0;
    for (int i = 0; i < fold_onnx_input_count(o); i++) {
        const fold_onnx_tensor tensor = fold_onnx_input(o, i);
        const size_t count = (size_t)batch * (size_t)tensor.count;
        float *numbers = (float *)malloc(count * sizeof *numbers);
        for (size_t k = 0; k < count; k++) numbers[k] = strstr(tensor.name, "mask") ? 1.0f : (float)rand() / (float)RAND_MAX - 0.5f;
        in[i].name = tensor.name;
        in[i].values = NULL;
        in[i].node = batch > 1 ? fold_list_input_ref(f, numbers, batch, fold_shape1(tensor.count))
                               : fold_input_ref(f, numbers, fold_shape1(tensor.count));
    }
    for (int i = 0; i < fold_onnx_output_count(o) && n_out < MOST; i++) {
        const fold_onnx_tensor tensor = fold_onnx_output(o, i);
        if (tensor.count && !tensor.is_constant) out[n_out++].name = tensor.name;
    }
    fold_onnx_record(o, f, in, fold_onnx_input_count(o), NULL, out, n_out);
    for (int i = 0; i < n_out; i++) fold_keep(f, out[i].node);
    must_fold(!fold_run(f, NULL, 0), fold_ctx_message(f));
}

/* ---- turns ------------------------------------------------------------------------------------ */

static double microseconds(void) { return (double)fold_clock_monotonic(NULL) / 1000; }

/* Returns the least time of a step in a turn of a few milliseconds: by ONNX Runtime, or else by fold.h. */
static double turn(runtime *r, fold_ctx *f)
{
    const double begin = microseconds();
    double least = 1e30, now = begin;
    while (now - begin < 5000) {
        const double before = now;
        if (r) must(run_session(r));
        else must_fold(!fold_replay(f), fold_ctx_message(f));
        now = microseconds();
        if (now - before < least) least = now - before;
    }
    return least;
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: onnx MODEL SECONDS BATCH...\n"), 1;
    const OrtApiBase *base = OrtGetApiBase();
    api = base->GetApi(ORT_API_VERSION);
    if (!api) return fprintf(stderr, "onnx: the library is older than its header\n"), 1;
    OrtSession *session = open_session(argv[1]);
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    fold_onnx *o = fold_onnx_open(m, argv[1], NULL);
    must_fold(o && fold_onnx_input_count(o) <= MOST, fold_model_message(m));
    for (int i = 3; i < argc; i++) {
        const int batch = atoi(argv[i]);
        const char *refused;
        runtime r = begin_session(session, batch, &refused);
        if (refused) {
            printf("batch %4d  ONNX Runtime does not run it: %.60s\n", batch, refused);
            continue;
        }
        fold_ctx *f = fold_ctx_new(m, NULL);
        record_agents(o, f, batch);
        double least[2] = { 1e30, 1e30 };
        for (const double begin = microseconds(); microseconds() - begin < 1e6 * atof(argv[2]);)
            for (int side = 0; side < 2; side++) least[side] = fmin(least[side], turn(side ? &r : NULL, f));
        printf("batch %4d  fold.h %9.1f us  ONNX Runtime %9.1f us  ratio %.2f\n", batch, least[0], least[1], least[0] / least[1]);
        fflush(stdout);
        fold_ctx_free(f);
    }
    fold_onnx_close(o);
    fold_model_free(m);
    return 0;
}
