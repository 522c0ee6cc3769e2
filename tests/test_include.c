/* test_include.c - the header in several files of one program: declarations before and after the implementation, any number of
   times. Also built as C++ and, with FOLD_STATIC in the other file, as two private copies of the library.
       cc -O2 -o test_include tests/test_include.c tests/test_include_other.c -lm */

#include "../fold.h"
#include "../fold.h"
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "../fold.h"
#include "check.h"

#ifdef __cplusplus
extern "C"
#endif
float other_file_loss(fold_model *m, const float *x, int n);

static float loss_here(fold_model *m, const float *x, int n)
{
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node loss = fold_sum(f, fold_square(f, fold_input(f, x, n)), FOLD_ALL);
    const float y = fold_run(f, &loss, 1) ? -1 : fold_scalar(f, loss);
    fold_ctx_free(f);
    return y;
}

static void both_files(void)
{
    const float x[3] = { 1, 2, -3 };
    fold_model *m = fold_model_new(NULL);
    CHECK_NEAR(loss_here(m, x, 3), 14, 0);
    CHECK_NEAR(other_file_loss(m, x, 3), 14, 0);
    fold_model_free(m);
}

/* Every public struct begins with `= { 0 }`, as README says of settings, in C++ too. */
#define STRUCTS(X) \
    X(fold_memory) X(fold_model_desc) X(fold_model_size) X(fold_param_desc) X(fold_quantize_desc) \
    X(fold_quantized) X(fold_ctx_desc) X(fold_conv_desc) X(fold_sgd) X(fold_adagrad) X(fold_rmsprop) \
    X(fold_adam) X(fold_cell_desc) X(fold_cache) X(fold_transformer_desc) X(fold_transformer) X(fold_encoder) \
    X(fold_rnn_stack) X(fold_rates) \
    X(fold_save_desc) X(fold_load_desc) X(fold_array) X(fold_tensor) X(fold_seen) X(fold_stats) \
    X(fold_op_call) X(fold_op_desc) X(fold_node) X(fold_param) X(fold_cell) X(fold_op) X(fold_shape) \
    X(fold_dense) X(fold_mlp) X(fold_conv) X(fold_norm) X(fold_attention) X(fold_state) X(fold_recurrent) \
    X(fold_tree_lstm) X(fold_child_sum) X(fold_rows) X(fold_random)
#if defined(__GNUC__) && defined(__cplusplus) /* in C++ they miss what { 0 } leaves out, and braces for a layer's first part */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wmissing-braces"
#endif
static void begin_with_zero(void)
{
    static const char *const listed[] = {
#define STRUCT_NAME(type) #type,
        STRUCTS(STRUCT_NAME)
    };
    char line[512], name[64], before[64] = "";
    int declared = 0, in_enum = 0;
#define BEGIN_WITH_ZERO(type)   \
    {                           \
        type zero = { 0 };      \
        (void)zero;             \
    }
    STRUCTS(BEGIN_WITH_ZERO)
    FILE *file = fopen("fold.h", "r");
    if (!file) file = fopen("../fold.h", "r");
    if (!CHECK(file != NULL)) return;
    while (fgets(line, sizeof line, file) && !strstr(line, "   IMPLEMENTATION")) {
        if (sscanf(line, "typedef enum %63s", name) == 1) in_enum = 1;
        if (sscanf(line, "typedef struct %63s {", name) == 1 && strchr(line, '{')) snprintf(before, sizeof before, "%s", name);
        if (strchr(line, '}') && in_enum) in_enum = 0;
        else if (strchr(line, '}') && before[0]) {
            int found = 0;
            for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) found |= !strcmp(listed[i], before);
            CHECK_SAYS(found, "%s is not in STRUCTS", before);
            before[0] = 0;
            declared++;
        }
    }
    fclose(file);
    CHECK_INT(declared, sizeof listed / sizeof *listed);
}

static void version(void)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", FOLD_VERSION_MAJOR, FOLD_VERSION_MINOR, FOLD_VERSION_PATCH);
    const size_t length = strlen(text); /* behind it stands nothing, or -dev before a release */
    CHECK(!strncmp(text, FOLD_VERSION, length) && (!FOLD_VERSION[length] || !strcmp(FOLD_VERSION + length, "-dev")));
    for (int s = 0; s < FOLD_STATUS_COUNT; s++) CHECK(fold_status_text((fold_status)s)[0] != 0);
    CHECK_TEXT(fold_status_text(FOLD_STATUS_COUNT), "unknown");
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("include: both files", both_files);
    check_run("include: structs begin with zero", begin_with_zero);
    check_run("include: version", version);
    return check_finish();
}
