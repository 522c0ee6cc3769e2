/* test_to_c.c - networks as C files (examples/fold_to_c.h): what is refused, by its message, and files that are printed, which jobs
   of tests/run, tests/all and tests/cross compile and run.

     cc -O2 -o test_to_c tests/test_to_c.c -lm && ./test_to_c
     ./test_to_c --write FILE.c        eight networks, and norms of rows far out, with what they must give
     ./test_to_c --write FILE.c policy the policy of examples/policy.h
     ./test_to_c --write FILE.c 0 40   the random recordings of seeds 0 to 39

   A written file compares bits with those of fold_replay: those of the kernels of this machine where it has fused
   multiply-adds, else those of portable kernels. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "../examples/fold_to_c.h"
#include "../bench/single.h"
#include "../examples/policy.h"
#include "../examples/options.h"
#include "check.h"
#include <locale.h>
#include "printed.h"

enum { STEPS = 12, PORTS = 4, NODES = 64, WIDE = 600 };

/* ---- written files --------------------------------------------------------------------------- */

/* What is run step by step: inputs, then outputs, one behind the other. */
typedef struct trace { int n_in, n_out, in_size[PORTS], out_size[PORTS]; float in[STEPS][PORTS * WIDE], fused[STEPS][PORTS * WIDE], plain[STEPS][PORTS * WIDE]; } trace;

static int total(const int *size, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += size[i];
    return sum;
}
static void write_floats(FILE *file, const char *name, const char *what, float (*values)[PORTS * WIDE], int count)
{
    fprintf(file, "static const unsigned %s_%s[%d][%d] = {", name, what, (int)STEPS, count);
    for (int step = 0; step < STEPS; step++) {
        fprintf(file, "\n{ ");
        for (int i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &values[step][i], sizeof bits);
            fprintf(file, "0x%lxu, ", (unsigned long)bits);
        }
        fprintf(file, "},");
    }
    fprintf(file, "\n};\n");
}

/* Writes a function that makes the steps and counts the outputs that differ. */
static void write_check(FILE *file, const char *name, trace *t, int has_state)
{
    const int in = total(t->in_size, t->n_in), out = total(t->out_size, t->n_out);
    write_floats(file, name, "in", t->in, in);
    fprintf(file, "#ifdef %s_TWO_ROUNDINGS\n", name);
    write_floats(file, name, "want", t->plain, out);
    fprintf(file, "#else\n");
    write_floats(file, name, "want", t->fused, out);
    fprintf(file, "#endif\nstatic int %s_check(void)\n{\n    static float in[%d], out[%d];\n    int wrong = 0, step, i;\n", name, in, out);
    if (has_state) fprintf(file, "    static %s_state s;\n    %s_reset(&s);\n", name, name);
    fprintf(file, "    for (step = 0; step < %d; step++) {\n        memcpy(in, %s_in[step], sizeof in);\n        %s_step(", (int)STEPS, name, name);
    if (has_state) fprintf(file, "&s, ");
    for (int i = 0; i < t->n_in; i++) fprintf(file, "%sin + %d", i ? ", " : "", total(t->in_size, i));
    for (int i = 0; i < t->n_out; i++) fprintf(file, "%sout + %d", i + t->n_in ? ", " : "", total(t->out_size, i));
    fprintf(file, ");\n        for (i = 0; i < %d; i++) wrong += differs(out[i], %s_want[step][i]);\n    }\n", out, name);
    fprintf(file, "    if (wrong) printf(\"%s: %%d outputs differ\\n\", wrong);\n    return wrong != 0;\n}\n", name);
}

/* ---- eight networks -------------------------------------------------------------------------- */

static void run_single(int index, const char *isa, trace *t, float (*out)[PORTS * WIDE])
{
    static single_run run;
    fold_node x, state[SINGLE_STATES], next[SINGLE_STATES];
    fold_model_desc desc = fold_model_desc_default();
    desc.isa = isa;
    fold_model *m = fold_model_new(&desc);
    const single_net net = single_new(m, index);
    fold_random r = fold_random_new(3, (uint64_t)index);
    single_start(&run, &net, m, 0, &x, state, next);
    t->n_in = t->n_out = 1;
    t->in_size[0] = net.inputs;
    t->out_size[0] = net.outputs;
    for (int step = 0; step < STEPS; step++) {
        fold_random_gaussian(&r, NULL, NULL, net.inputs, run.in);
        memcpy(t->in[step], run.in, sizeof run.in);
        CHECK((step ? fold_replay(run.f) : fold_run(run.f, NULL, 0)) == FOLD_OK);
        fold_read(run.f, &run.y, 1, out[step]);
    }
    fold_ctx_free(run.f);
    fold_model_free(m);
}

/* Three agents of one network, each with the inputs of one step later. Behind gru_8, whose numbers they must give. */
static int write_agents(FILE *file)
{
    fold_model *m = fold_model_new(NULL);
    const single_net net = single_new(m, 5);
    const fold_to_c_result printed = single_print(&net, m, "agents", 3, 0, fold_to_file, file);
    if (printed.status) return printf("agents: %s\n", printed.message), 1;
    fprintf(file, "static int agents_check(void)\n{\n    static agents_state s[3];\n    float in[3], out[3];\n    int wrong = 0, step, i;\n"
                  "    for (i = 0; i < 3; i++) agents_reset(&s[i]);\n    for (step = 0; step < %d; step++) {\n"
                  "        for (i = 0; i < 3; i++) {\n            if (step == i) agents_reset(&s[i]);\n            memcpy(&in[i], gru_8_in[step < i ? 0 : step - i], sizeof in[i]);\n        }\n"
                  "        agents_step(s, in, out);\n        for (i = 0; i < 3 && i <= step; i++) wrong += differs(out[i], gru_8_want[step - i][0]);\n    }\n"
                  "    if (wrong) printf(\"agents: %%d outputs differ\\n\", wrong);\n    return wrong != 0;\n}\n", (int)STEPS);
    fold_model_free(m);
    return 0;
}

/* Norms of rows whose sums or squares leave the range of floats, a size a step. */
enum { NORMED = 40, NORMS = 4 };
static fold_to_c_result norms(fold_model *m, trace *t, float (*out)[PORTS * WIDE], FILE *file)
{
    static const float size[STEPS] = { 1, 1e18f, 3e19f, 1e20f, 1e30f, 3.4e38f, 1e-18f, 1e-20f, 1e-25f, 1e-30f, 1e-33f, 0 };
    static const float epsilon[NORMS / 2] = { 1e-5f, 1e-36f }; /* no subnormal numbers, which some flags of gcc flush */
    static float x[NORMED];
    fold_random r = fold_random_new(7, 0);
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_node y[NORMS];
    fold_to_c_result result;
    desc.eager = file != NULL;
    memset(&result, 0, sizeof result);
    fold_ctx *f = fold_ctx_new(m, &desc);
    const fold_param gain = fold_param_find(m, "gain"), bias = fold_param_find(m, "bias");
    const fold_node in = fold_input_ref(f, x, fold_shape1(NORMED)), rows = fold_reshape(f, in, fold_shape2(NORMED / 8, 8));
    for (int i = 0; i < NORMS; i++) {
        y[i] = i % 2 ? fold_rms_norm(f, rows, gain, epsilon[i / 2]) : fold_layer_norm(f, rows, gain, bias, epsilon[i / 2]);
        fold_keep(f, y[i]);
        t->out_size[i] = NORMED;
    }
    t->n_in = 1;
    t->n_out = NORMS;
    t->in_size[0] = NORMED;
    if (file) {
        static const char *const names[NORMS] = { "y0", "y1", "y2", "y3" };
        const fold_to_c_port from = { "x", in, { 0, 0 } };
        fold_to_c_port to[NORMS];
        fold_to_c_desc c = fold_to_c_desc_default();
        memset(to, 0, sizeof to);
        for (int i = 0; i < NORMS; i++) to[i].name = names[i], to[i].node = y[i];
        c.name = "norms";
        c.in = &from;
        c.out = to;
        c.n_in = 1;
        c.n_out = NORMS;
        result = fold_to_c(f, &c, fold_to_file, file);
    }
    for (int step = 0; step < STEPS && !file; step++) {
        fold_random_gaussian(&r, NULL, NULL, NORMED, x);
        for (int i = 0; i < NORMED; i++) x[i] = fmaxf(-1, fminf(1, i < 8 ? 1 : x[i])) * size[step]; /* those of the first row are equal */
        memcpy(t->in[step], x, sizeof x);
        CHECK((step ? fold_replay(f) : fold_run(f, NULL, 0)) == FOLD_OK);
        for (int i = 0; i < NORMS; i++) fold_read(f, &y[i], 1, out[step] + i * NORMED);
    }
    fold_ctx_free(f);
    return result;
}
static int write_norms(FILE *file, trace *t)
{
    for (int plain = 0; plain < 2; plain++) {
        fold_model_desc desc = fold_model_desc_default();
        desc.isa = plain ? "portable" : NULL;
        fold_model *m = fold_model_new(&desc);
        fold_random r = fold_random_new(9, 0);
        fold_gain_new(m, "gain", 8);
        fold_bias_new(m, "bias", 8);
        for (int i = 0; i < 2; i++) {
            const fold_param p = fold_param_at(m, i);
            fold_random_gaussian(&r, NULL, NULL, 8, fold_values_write_begin(m, p));
            fold_values_write_end(m, p);
        }
        fold_to_c_result printed;
        memset(&printed, 0, sizeof printed);
        if (!plain) printed = norms(m, t, NULL, file);
        if (printed.status) return printf("norms: %s\n", printed.message), 1;
        norms(m, t, plain ? t->plain : t->fused, NULL);
        fold_model_free(m);
    }
    write_check(file, "norms", t, 0);
    return 0;
}

static int write_singles(FILE *file)
{
    static trace t;
    char calls[2000] = "";
    write_begin(file);
    for (int i = 0; i < SINGLE_NETS; i++) {
        fold_model *m = fold_model_new(NULL);
        const single_net net = single_new(m, i);
        const fold_to_c_result printed = single_print(&net, m, net.name, 1, 0, fold_to_file, file);
        if (printed.status) return printf("%s: %s\n", net.name, printed.message), 1;
        if (!strcmp(net.name, "lstm_16")) CHECK(printed.weight_bytes + printed.state_bytes < 6000);
        run_single(i, NULL, &t, t.fused);
        run_single(i, "portable", &t, t.plain);
        write_check(file, net.name, &t, net.n_state);
        snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "    failed += %s_check();\n", net.name);
        fold_model_free(m);
    }
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "    failed += agents_check();\n    failed += norms_check();\n");
    if (write_agents(file) || write_norms(file, &t)) return 1;
    write_end(file, calls, SINGLE_NETS + 2);
    return check.failures;
}

/* ---- the policy of a small robot ------------------------------------------------------------------ */

/* Runs or prints examples/policy.h. On a Cortex-M what is written tells the clock's ticks of a step, too. */
static fold_to_c_result policy_of(fold_model *m, const policy *net, trace *t, float (*out)[PORTS * WIDE], FILE *file)
{
    static float seen[OBSERVED], memory[HIDDEN];
    fold_random r = fold_random_new(5, 0);
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_to_c_result result;
    desc.eager = file != NULL;
    fold_ctx *f = fold_ctx_new(m, &desc);
    memset(memory, 0, sizeof memory);
    memset(&result, 0, sizeof result);
    fold_node in[2];
    in[0] = fold_input_ref(f, seen, fold_shape1(OBSERVED));
    in[1] = fold_input_ref(f, memory, fold_shape1(HIDDEN));
    const fold_node step = fold_call(f, net->cell, in, 2), actions = fold_out(f, step, 0), next = fold_out(f, step, 1);
    if (file) {
        const fold_to_c_port from = { "observed", in[0], { 0, 0 } }, to = { "actions", actions, { 0, 0 } }, state = { "memory", in[1], next };
        fold_to_c_desc c = fold_to_c_desc_default();
        c.name = "policy";
        c.source = "examples/policy.h";
        c.in = &from;
        c.out = &to;
        c.state = &state;
        c.n_in = c.n_out = c.n_state = 1;
        result = fold_to_c(f, &c, fold_to_file, file);
    } else {
        fold_keep(f, actions);
        fold_output_ref(f, next, memory);
        t->n_in = t->n_out = 1;
        t->in_size[0] = OBSERVED;
        t->out_size[0] = ACTIONS;
        for (int i = 0; i < STEPS; i++) {
            fold_random_gaussian(&r, NULL, NULL, OBSERVED, seen);
            memcpy(t->in[i], seen, sizeof seen);
            CHECK((i ? fold_replay(f) : fold_run(f, NULL, 0)) == FOLD_OK);
            fold_read(f, &actions, 1, out[i]);
        }
    }
    fold_ctx_free(f);
    return result;
}

static int write_policy(FILE *file)
{
    static trace t;
    fold_to_c_result printed;
    write_begin(file);
    for (int plain = 0; plain < 2; plain++) {
        policy net;
        fold_model_desc desc = fold_model_desc_default();
        desc.isa = plain ? "portable" : NULL;
        fold_model *m = fold_model_new(&desc);
        policy_new(&net, m);
        if (!plain) printed = policy_of(m, &net, &t, t.fused, file);
        if (!plain && printed.status) return printf("policy: %s\n", printed.message), 1;
        policy_of(m, &net, &t, plain ? t.plain : t.fused, NULL);
        fold_model_free(m);
    }
    write_check(file, "policy", &t, 1);
    fprintf(file, "static unsigned ticks(void)\n{\n#ifdef __thumb__\n"
                  "    volatile unsigned *const systick = (volatile unsigned *)0xe000e010u;\n"
                  "    static policy_state s;\n    float out[%d];\n    unsigned before;\n    systick[1] = 0xffffffu;\n    systick[2] = 0;\n    systick[0] = 5;\n"
                  "    before = systick[2];\n    policy_step(&s, (const float *)(const void *)policy_in, out);\n    return (before - systick[2]) & 0xffffffu;\n#else\n    return 0;\n#endif\n}\n", (int)ACTIONS);
    write_end(file, "    failed += policy_check();\n    printf(\"RESULT printed ticks=%u\\n\", ticks());\n", 1);
    printf("RESULT policy weights=%lu state=%lu work=%lu\n", (unsigned long)printed.weight_bytes, (unsigned long)printed.state_bytes, (unsigned long)printed.work_bytes);
    return check.failures;
}

/* ---- random recordings ------------------------------------------------------------------------- */

/* A recording grows from inputs and states: each op takes any of the nodes so far. Parameters are made when they are
   first asked for, and found by their names then: so the same seed is the same recording in another context. */
typedef struct grown {
    fold_ctx *f;
    fold_model *m;
    fold_random r;
    fold_node node[NODES];
    fold_shape shape[NODES];
    int n, params, n_in, n_out, n_state;
    fold_node in[PORTS], out[PORTS], state[PORTS], next[PORTS];
    float in_values[PORTS][WIDE], state_values[PORTS][WIDE];
    int hidden, inputs;
    fold_recurrent lstm, gru;
} grown;

static int below(grown *g, int n) { return fold_random_below(&g->r, n); }
static int size_of(const fold_shape *shape)
{
    int size = 1;
    for (int k = 0; k < shape->rank; k++) size *= shape->dim[k];
    return size;
}
static int any_width(grown *g)
{
    static const int widths[] = { 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40 };
    return widths[below(g, (int)(sizeof widths / sizeof *widths))];
}
static void add(grown *g, fold_node node)
{
    const fold_shape shape = fold_node_shape(g->f, node);
    if (fold_ctx_status(g->f) || !shape.rank || size_of(&shape) > WIDE || g->n == NODES) return;
    g->shape[g->n] = shape;
    g->node[g->n++] = node;
}
static fold_param param(grown *g, fold_shape shape, unsigned uses)
{
    char name[20];
    fold_param_desc desc = fold_param_desc_default();
    snprintf(name, sizeof name, "p%d", g->params++);
    const fold_param found = fold_param_find(g->m, name);
    if (!fold_param_is_null(found)) return found;
    desc.name = name;
    desc.shape = shape;
    desc.uses = uses || shape.rank != 2 ? uses : FOLD_FOR_LOOKUP; /* by default it would be for products */
    desc.init = FOLD_INIT_NORMAL;
    desc.init_scale = uses ? 0.4f : 1.0f;
    return fold_param_new(g->m, &desc);
}
static int any(grown *g) { return below(g, g->n); }
/* One of a shape, which may be made from any other. */
static fold_node like(grown *g, fold_shape shape)
{
    const int first = any(g);
    for (int i = 0; i < g->n; i++) {
        const int k = (first + i) % g->n;
        if (!memcmp(&g->shape[k], &shape, sizeof shape)) return g->node[k];
    }
    return fold_use(g->f, param(g, shape, 0));
}
static int of_rank(grown *g, int rank)
{
    const int first = any(g);
    for (int i = 0; i < g->n; i++)
        if (g->shape[(first + i) % g->n].rank == rank) return (first + i) % g->n;
    return -1;
}

static void grow_map(grown *g)
{
    fold_ctx *f = g->f;
    const int v = any(g);
    const fold_node x = g->node[v], other = like(g, g->shape[v]), small = fold_tanh(f, x);
    switch (below(g, 27)) {
    case 0: add(g, fold_add(f, x, other)); break;
    case 1: add(g, fold_sub(f, x, other)); break;
    case 2: add(g, fold_mul(f, x, other)); break;
    case 3: add(g, fold_div(f, x, fold_shift(f, fold_square(f, other), 0.5f))); break;
    case 4: add(g, fold_minimum(f, x, other)); break;
    case 5: add(g, fold_maximum(f, x, other)); break;
    case 6: add(g, fold_scale(f, x, -0.7f)); break;
    case 7: add(g, fold_neg(f, x)); break;
    case 8: add(g, fold_exp(f, small)); break;
    case 9: add(g, fold_log(f, fold_abs(f, x))); break;
    case 10: add(g, fold_sqrt(f, fold_abs(f, x))); break;
    case 11: add(g, fold_sigmoid(f, x)); break;
    case 12: add(g, fold_tanh(f, x)); break;
    case 13: add(g, fold_relu(f, x)); break;
    case 14: add(g, fold_leaky_relu(f, x, 0.1f)); break;
    case 15: add(g, fold_gelu_tanh(f, x)); break;
    case 16: add(g, fold_gelu(f, x)); break;
    case 17: add(g, fold_silu(f, x)); break;
    case 18: add(g, fold_softplus(f, x)); break;
    case 19: add(g, fold_elu(f, x, 1.5f)); break;
    case 20: add(g, fold_sin(f, x)); break;
    case 21: add(g, fold_cos(f, x)); break;
    case 22: add(g, fold_pow(f, x, below(g, 2) ? 3.0f : -0.5f)); break;
    case 23: add(g, fold_floor(f, fold_scale(f, x, 3))); break;
    case 24: add(g, fold_clip(f, x, -0.5f, 0.25f)); break;
    case 25: add(g, fold_select(f, x, other, small)); break;
    default: add(g, fold_mul(f, x, fold_use(f, param(g, fold_shape1(g->shape[v].dim[g->shape[v].rank - 1]), 0)))); break;
    }
}

static void grow_product(grown *g)
{
    fold_ctx *f = g->f;
    const int v = any(g), last = g->shape[v].dim[g->shape[v].rank - 1], outputs = any_width(g), line = of_rank(g, 1), grid = of_rank(g, 2);
    const fold_param none = { 0, 0 }, bias = below(g, 3) ? param(g, fold_shape1(outputs), 0) : none;
    fold_node both[2];
    switch (below(g, 6)) {
    case 0: add(g, fold_linear(f, g->node[v], param(g, fold_shape2(last, outputs), FOLD_FOR_LINEAR), bias)); break;
    case 1: add(g, fold_linear_t(f, g->node[v], param(g, fold_shape2(outputs, last), FOLD_FOR_LINEAR_T), bias)); break;
    case 2: {
        if (line < 0) break;
        both[0] = g->node[line];
        both[1] = like(g, fold_shape1(any_width(g)));
        const int rows = g->shape[line].dim[0] + fold_node_shape(f, both[1]).dim[0];
        add(g, fold_linear_n(f, both, 2, param(g, fold_shape2(rows, outputs), FOLD_FOR_LINEAR), bias));
        break;
    }
    case 3:
        if (grid < 0) break;
        add(g, fold_matmul(f, g->node[grid], like(g, fold_shape2(g->shape[grid].dim[1], outputs))));
        break;
    case 4: add(g, fold_dot(f, g->node[v], like(g, g->shape[v]))); break;
    default: {
        if (line < 0) break;
        const fold_param weight = param(g, fold_shape2(g->shape[line].dim[0] + 7, outputs), FOLD_FOR_LINEAR);
        both[0] = fold_linear_first(f, g->node[line], weight, bias);
        add(g, fold_linear_then(f, both[0], like(g, fold_shape1(7)), weight));
        break;
    }
    }
}

static void grow_shape(grown *g)
{
    fold_ctx *f = g->f;
    const int v = any(g), rank = g->shape[v].rank, axis = below(g, rank), length = g->shape[v].dim[axis], size = size_of(&g->shape[v]);
    const fold_node x = g->node[v], pair[2] = { x, like(g, g->shape[v]) };
    fold_node parts[8];
    switch (below(g, 7)) {
    case 0: add(g, fold_concat(f, pair, 2, axis)); break;
    case 1: add(g, fold_slice(f, x, axis, length / 3, length - length / 2)); break;
    case 2: if (rank > 1) add(g, fold_transpose(f, x, 0, rank - 1)); break;
    case 3: if (size % 4 == 0) add(g, fold_reshape(f, x, fold_shape2(4, size / 4))); break;
    case 4: if (rank == 1) add(g, fold_pick(f, x, length / 2)); break;
    case 5:
        if (g->shape[v].dim[0] % 3 || g->shape[v].dim[0] > 100) break;
        fold_split(f, x, 3, parts);
        for (int i = 0; i < 3; i++) add(g, parts[i]);
        break;
    default: add(g, fold_stack(f, pair, 2)); break;
    }
}

static void grow_reduction(grown *g)
{
    fold_ctx *f = g->f;
    const int v = any(g), rank = g->shape[v].rank, axis = below(g, 4) ? below(g, rank) : FOLD_ALL, width = g->shape[v].dim[rank - 1];
    const fold_node x = g->node[v], small = fold_tanh(f, x);
    switch (below(g, 12)) {
    case 0: add(g, fold_sum(f, x, axis)); break;
    case 1: add(g, fold_mean(f, x, axis)); break;
    case 2: add(g, fold_amax(f, x, axis)); break;
    case 3: add(g, fold_amin(f, x, axis)); break;
    case 4: add(g, fold_variance(f, small, axis)); break;
    case 5: add(g, fold_logsumexp(f, x, axis)); break;
    case 6: add(g, fold_prod(f, small, axis)); break;
    case 7: add(g, fold_cumsum(f, x, axis == FOLD_ALL ? 0 : axis)); break;
    case 8: add(g, fold_softmax(f, x)); break;
    case 9: add(g, fold_log_softmax(f, x)); break;
    case 10: {
        const fold_param gain = param(g, fold_shape1(width), 0);
        add(g, fold_layer_norm(f, x, gain, param(g, fold_shape1(width), 0), 1e-5f));
        break;
    }
    default: add(g, fold_rms_norm(f, x, param(g, fold_shape1(width), 0), 1e-3f)); break;
    }
}

static void grow_window(grown *g)
{
    fold_ctx *f = g->f;
    const int line = of_rank(g, 2), grid = of_rank(g, 3), is_grid = grid >= 0 && below(g, 2), v = is_grid ? grid : line;
    fold_conv_desc desc;
    const fold_param none = { 0, 0 };
    if (v < 0) {
        add(g, fold_use(f, param(g, below(g, 2) ? fold_shape3(5, 6, 1 + below(g, 5)) : fold_shape2(8, any_width(g)), 0)));
        return;
    }
    const int channels = g->shape[v].dim[g->shape[v].rank - 1], outputs = any_width(g), taps = 2 + below(g, 2);
    memset(&desc, 0, sizeof desc);
    desc.stride = 1 + below(g, 2);
    desc.padding = below(g, 2);
    desc.dilation = 1 + below(g, 2);
    desc.depthwise = below(g, 3) == 0;
    for (int k = 0; k + 1 < g->shape[v].rank; k++)
        if (g->shape[v].dim[k] < 5) return;
    const int in = desc.depthwise ? 1 : channels, out = desc.depthwise ? channels : outputs;
    const fold_param bias = below(g, 2) ? param(g, fold_shape1(out), 0) : none;
    if (below(g, 3) == 0) {
        const int max = below(g, 2);
        if (is_grid) add(g, max ? fold_max_pool2d(f, g->node[v], 3, desc.stride, desc.padding) : fold_mean_pool2d(f, g->node[v], 3, desc.stride, desc.padding));
        else add(g, max ? fold_max_pool1d(f, g->node[v], 3, desc.stride, desc.padding) : fold_mean_pool1d(f, g->node[v], 3, desc.stride, desc.padding));
    } else if (is_grid) add(g, fold_conv2d(f, g->node[v], param(g, fold_shape4(taps, taps, in, out), FOLD_FOR_CONV), bias, &desc));
    else add(g, fold_conv1d(f, g->node[v], param(g, fold_shape3(taps, in, out), FOLD_FOR_CONV), bias, &desc));
}

static void input(grown *g, fold_shape shape)
{
    g->in[g->n_in] = fold_input_ref(g->f, g->in_values[g->n_in], shape);
    add(g, g->in[g->n_in++]);
}
static fold_node state(grown *g, int size)
{
    return g->state[g->n_state] = fold_input_ref(g->f, g->state_values[g->n_state], fold_shape1(size));
}

/* A recurrent layer on a vector of its width; its states are the recording's. */
static void grow_recurrent(grown *g, int has_c)
{
    const fold_recurrent *layer = has_c ? &g->lstm : &g->gru;
    fold_state before, after;
    memset(&before, 0, sizeof before);
    before.h = state(g, g->hidden);
    g->n_state++;
    if (has_c) {
        before.c = state(g, g->hidden);
        g->n_state++;
    }
    after = fold_recurrent_apply(g->f, layer, like(g, fold_shape1(g->inputs)), before);
    g->next[g->n_state - 1 - has_c] = after.h;
    if (has_c) g->next[g->n_state - 1] = after.c;
    add(g, after.h);
}

/* Records all of a seed into a context. */
static void grow(grown *g, fold_ctx *f, uint64_t seed)
{
    g->f = f;
    g->r = fold_random_new(seed, 1);
    g->n = g->params = g->n_in = g->n_out = g->n_state = 0;
    input(g, fold_shape1(any_width(g)));
    if (below(g, 2)) input(g, fold_shape1(g->inputs));
    if (below(g, 2)) {
        const int flat = below(g, 2), rows = flat ? 2 + below(g, 9) : 5;
        input(g, flat ? fold_shape2(rows, any_width(g)) : fold_shape3(rows, 5, 1 + below(g, 3)));
    }
    const int has_lstm = below(g, 4) == 0, has_gru = below(g, 4) == 0, ops = 3 + below(g, 14);
    for (int i = 0; i < ops && g->n < NODES - 8; i++) {
        const int kind = below(g, 12);
        if (i == 1 && has_lstm) grow_recurrent(g, 1);
        if (i == 2 && has_gru) grow_recurrent(g, 0);
        if (kind < 4) grow_map(g);
        else if (kind < 7) grow_product(g);
        else if (kind < 9) grow_shape(g);
        else if (kind < 11) grow_reduction(g);
        else grow_window(g);
    }
    for (g->n_out = 0; g->n_out < 1 + below(g, 2); g->n_out++) {
        g->out[g->n_out] = g->node[g->n - 1 - (g->n_out && g->n > 3 ? below(g, 3) : 0)];
        fold_neg(f, g->out[g->n_out]); /* reads it: a leaf that nothing reads is no part of a recording */
    }
}

/* Every third recording has weights in bytes. */
static int in_bytes(uint64_t seed) { return seed % 3 == 2; }

static fold_model *grown_model(grown *g, uint64_t seed, const char *isa)
{
    fold_model_desc desc = fold_model_desc_default();
    memset(g, 0, sizeof *g);
    g->r = fold_random_new(seed, 0);
    desc.seed = seed;
    desc.isa = isa;
    desc.inference = in_bytes(seed);
    g->m = fold_model_new(&desc);
    g->inputs = any_width(g);
    g->hidden = any_width(g);
    g->lstm = fold_lstm_new(g->m, "lstm", g->inputs, g->hidden);
    g->gru = fold_gru_new(g->m, "gru", g->inputs, g->hidden);
    return g->m;
}

/* Makes all parameters of a seed's recording, and bytes of all that can be bytes. */
static void make_bytes(grown *g, uint64_t seed)
{
    fold_quantize_desc all = fold_quantize_desc_default();
    fold_ctx *f = fold_ctx_new(g->m, NULL);
    grow(g, f, seed);
    fold_ctx_free(f);
    all.min_values = 1;
    CHECK(fold_model_quantize(g->m, &all) == FOLD_OK);
}

/* What fold_replay gives, step by step. Returns 1 when the recording has an error. */
static int run_grown(grown *g, uint64_t seed, trace *t, float (*out)[PORTS * WIDE])
{
    fold_random r = fold_random_new(seed, 2);
    if (in_bytes(seed)) make_bytes(g, seed);
    fold_ctx *f = fold_ctx_new(g->m, NULL);
    grow(g, f, seed);
    memset(g->state_values, 0, sizeof g->state_values);
    for (int i = 0; i < g->n_state; i++) fold_output_ref(f, g->next[i], g->state_values[i]);
    for (int i = 0; i < g->n_out; i++) fold_keep(f, g->out[i]);
    t->n_in = g->n_in;
    t->n_out = g->n_out;
    for (int step = 0; step < STEPS; step++) {
        float *in = t->in[step], *to = out[step];
        for (int i = 0; i < g->n_in; i++, in += t->in_size[i - 1]) {
            const fold_shape shape = fold_node_shape(f, g->in[i]);
            t->in_size[i] = size_of(&shape);
            fold_random_gaussian(&r, NULL, NULL, t->in_size[i], g->in_values[i]);
            memcpy(in, g->in_values[i], (size_t)t->in_size[i] * sizeof *in);
        }
        if (step ? fold_replay(f) : fold_run(f, NULL, 0)) break;
        for (int i = 0; i < g->n_out; i++, to += t->out_size[i - 1]) {
            const fold_shape shape = fold_node_shape(f, g->out[i]);
            t->out_size[i] = size_of(&shape);
            fold_read(f, &g->out[i], 1, to);
        }
    }
    const int failed = fold_ctx_status(f) != FOLD_OK;
    if (failed) printf("seed %lu: %s\n", (unsigned long)seed, fold_ctx_message(f));
    fold_ctx_free(f);
    return failed;
}

static fold_to_c_result print_grown(grown *g, uint64_t seed, const char *name, FILE *file)
{
    static const char *const names[3][PORTS] = { { "x0", "x1", "x2", "x3" }, { "y0", "y1", "y2", "y3" }, { "s0", "s1", "s2", "s3" } };
    fold_to_c_port in[PORTS], out[PORTS], states[PORTS];
    fold_ctx_desc eager = fold_ctx_desc_default();
    fold_to_c_desc desc = fold_to_c_desc_default();
    eager.eager = 1;
    fold_ctx *f = fold_ctx_new(g->m, &eager);
    grow(g, f, seed);
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (int i = 0; i < g->n_in; i++) in[i].name = names[0][i], in[i].node = g->in[i];
    for (int i = 0; i < g->n_out; i++) out[i].name = names[1][i], out[i].node = g->out[i];
    for (int i = 0; i < g->n_state; i++) states[i].name = names[2][i], states[i].node = g->state[i], states[i].next = g->next[i];
    desc.name = name;
    desc.in = in;
    desc.out = out;
    desc.state = states;
    desc.n_in = g->n_in;
    desc.n_out = g->n_out;
    desc.n_state = g->n_state;
    desc.bytes = in_bytes(seed);
    const fold_to_c_result result = fold_to_c(f, &desc, fold_to_file, file);
    fold_ctx_free(f);
    return result;
}

static int write_random(FILE *file, int first, int end)
{
    static trace t;
    static grown g;
    char *calls = (char *)calloc((size_t)(end - first) + 1, 60);
    int count = 0, wrong = 0;
    write_begin(file);
    for (int seed = first; seed < end && !wrong; seed++) {
        char name[20];
        snprintf(name, sizeof name, "n%d", seed);
        memset(&t, 0, sizeof t);
        fold_model *m = grown_model(&g, (uint64_t)seed, NULL);
        const fold_to_c_result printed = print_grown(&g, (uint64_t)seed, name, file);
        if (printed.status) printf("seed %d: %s\n", seed, printed.message);
        wrong = printed.status || run_grown(&g, (uint64_t)seed, &t, t.fused);
        fold_model_free(m);
        m = grown_model(&g, (uint64_t)seed, "portable");
        wrong = wrong || run_grown(&g, (uint64_t)seed, &t, t.plain);
        fold_model_free(m);
        write_check(file, name, &t, g.n_state);
        snprintf(calls + strlen(calls), 60, "    failed += %s_check();\n", name);
        count++;
    }
    write_end(file, calls, count);
    free(calls);
    return wrong;
}

/* ---- what is refused ----------------------------------------------------------------------------- */

/* Prints to nowhere. */
static int nowhere(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 0; }
static int stops(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 1; }

static void expect(fold_ctx *f, fold_node x, fold_node y, fold_status status, const char *message)
{
    const fold_to_c_port in = { "x", x, { 0, 0 } }, out = { "y", y, { 0, 0 } };
    fold_to_c_desc desc = fold_to_c_desc_default();
    desc.in = &in;
    desc.out = &out;
    desc.n_in = desc.n_out = 1;
    const fold_to_c_result result = fold_to_c(f, &desc, nowhere, NULL);
    CHECK(result.status == status);
    CHECK(strstr(result.message, message) != NULL);
    if (!strstr(result.message, message)) printf("got: %s\n", result.message);
    CHECK(fold_ctx_status(f) == FOLD_OK);
}

static void own_forward(const fold_op_call *c) { (void)c; }
static const char *own_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out) { return (void)n_in, (void)attr, out[0] = in[0], (const char *)NULL; }

static int prints_none(const fold_seen *seen, fold_writer *write, void *writer, void *user) { return (void)write, (void)writer, (void)user, seen->user_op != NULL; }

static void refused(void)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    fold_model *m = fold_model_new(NULL);
    fold_op_desc own = fold_op_desc_default();
    fold_ctx_desc eager = fold_ctx_desc_default();
    own.name = "round";
    own.n_in = own.n_out = 1;
    own.infer = own_infer;
    own.forward = own_forward;
    const fold_op rounded = fold_op_new(m, &own);
    const fold_recurrent gru = fold_gru_new(m, "gru", 4, 4);
    const fold_param huge = fold_weight_new(m, "huge", 4, 4), wide = fold_weight_new(m, "wide", 4, 16); /* becomes bytes */
    fold_values_write_begin(m, huge)[5] = (float)HUGE_VAL;
    fold_values_write_end(m, huge);
    eager.eager = 1;
    fold_ctx *f = fold_ctx_new(m, &eager);
    const fold_node x = fold_input_ref(f, ones, fold_shape1(4)), pair[2] = { x, x };
    const fold_state none = fold_recurrent_zeros(f, &gru);
    const fold_param no_bias = { 0, 0 };
    expect(f, x, fold_softmax_xent(f, x, 1), FOLD_BAD_ARGUMENT, "softmax_xent cannot be printed: losses are for training");
    expect(f, x, fold_sum_n(f, pair, 2), FOLD_BAD_ARGUMENT, "sum_n cannot be printed: lists have no fixed length");
    expect(f, x, fold_list_sum(f, fold_list_input(f, ones, 2, fold_shape1(2))), FOLD_BAD_ARGUMENT, "sum_n cannot be printed");
    expect(f, x, fold_list_at(f, fold_tanh(f, fold_list_input(f, ones, 2, fold_shape1(2))), 0), FOLD_BAD_ARGUMENT, "tanh cannot be printed: lists have no fixed length");
    expect(f, x, fold_list_at(f, fold_tanh(f, fold_list_input(f, ones, 2, fold_shape1(2))), 1), FOLD_BAD_ARGUMENT, "tanh cannot be printed: lists have no fixed length");
    const fold_node rows = fold_list_input(f, ones, 2, fold_shape1(2));
    fold_list_sum(f, rows); /* a call reads it */
    expect(f, x, fold_list_at(f, rows, 1), FOLD_BAD_ARGUMENT, "output 'y' is part of a list");
    expect(f, x, fold_op_apply(f, rounded, &x, 1, NULL, 0), FOLD_BAD_ARGUMENT, "round cannot be printed: it is a user-defined op");
    const fold_to_c_port y = { "y", fold_op_apply(f, rounded, &x, 1, NULL, 0), { 0, 0 } }, from = { "x", x, { 0, 0 } };
    fold_to_c_desc desc = fold_to_c_desc_default();
    desc.print_op = prints_none;
    desc.in = &from;
    desc.out = &y;
    desc.n_in = desc.n_out = 1;
    CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "round cannot be printed: fold_to_c_desc.print_op refused it") != NULL);
    expect(f, x, fold_linear(f, x, huge, no_bias), FOLD_OK, "");
    expect(f, x, fold_use(f, huge), FOLD_OK, ""); /* outputs that no call makes */
    expect(f, x, fold_reshape(f, fold_use(f, wide), fold_shape1(64)), FOLD_OK, "");
    expect(f, x, fold_constant(f, 3), FOLD_OK, "");
    for (int nan = 0; nan < 2; nan++) {
        fold_values_write_begin(m, wide)[5] = nan ? (float)NAN : (float)HUGE_VAL;
        fold_values_write_end(m, wide);
        const fold_to_c_port z = { "z", fold_linear(f, x, wide, no_bias), { 0, 0 } };
        desc.out = &z;
        desc.bytes = 1;
        CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "'wide' has an infinity or a NaN") != NULL);
    }
    expect(f, fold_tanh(f, x), x, FOLD_BAD_ARGUMENT, "input 'x' is not from fold_input_ref or fold_input");
    expect(f, x, x, FOLD_OK, "");
    expect(f, x, fold_tanh(f, x), FOLD_OK, "");
    fold_ctx *batched = fold_ctx_new(m, NULL);
    const fold_node z = fold_input_ref(batched, ones, fold_shape1(4));
    fold_state zeros = none;
    zeros.h = z;
    const fold_node h = fold_recurrent_apply(batched, &gru, z, zeros).h;
    fold_keep(batched, h);
    CHECK(fold_run(batched, NULL, 0) == FOLD_OK);
    expect(batched, z, h, FOLD_BAD_ARGUMENT, "to_c: the context is not eager; gru is a cell; record in an eager context");
    fold_ctx_free(batched);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* An output or a next state that is a reference, but no port: only its values of now could be printed. */
static void references_are_no_constants(void)
{
    static const float ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1;
    for (int calls = 0; calls < 2; calls++) { /* without any call, and with some */
        fold_ctx *f = fold_ctx_new(m, &eager);
        const fold_node x = fold_input_ref(f, ones, fold_shape1(4)), other = fold_input_ref(f, ones, fold_shape1(4));
        const fold_node wide = fold_input_ref(f, ones, fold_shape1(8)), copied = fold_input(f, ones, 4);
        const fold_node window = fold_slice(f, wide, 0, 2, 4), y = calls ? fold_tanh(f, x) : x;
        const fold_node windows = calls ? fold_tanh(f, fold_slice(f, wide, 0, 1, 2)) : x;
        const fold_node list = fold_list_input_ref(f, ones, 2, fold_shape1(2));
        expect(f, x, y, FOLD_OK, "");
        expect(f, x, x, FOLD_OK, "");
        expect(f, x, copied, FOLD_OK, "");
        expect(f, x, other, FOLD_BAD_ARGUMENT, "to_c: output 'y' is a fold_input_ref that is neither input nor state");
        expect(f, x, window, FOLD_BAD_ARGUMENT, "to_c: output 'y' is a fold_input_ref that is neither input nor state");
        expect(f, wide, window, FOLD_OK, "");
        expect(f, other, other, FOLD_OK, "");
        expect(f, x, list, FOLD_BAD_ARGUMENT, "to_c: output 'y' is part of a list");
        if (calls) expect(f, x, windows, FOLD_BAD_ARGUMENT, "reads a fold_input_ref that is neither input nor state");
        const fold_to_c_port in = { "x", x, { 0, 0 } }, out = { "y", y, { 0, 0 } }, state = { "h", copied, other };
        fold_to_c_desc desc = fold_to_c_desc_default();
        desc.in = &in;
        desc.out = &out;
        desc.state = &state;
        desc.n_in = desc.n_out = desc.n_state = 1;
        const fold_to_c_result result = fold_to_c(f, &desc, nowhere, NULL);
        CHECK_INT(result.status, FOLD_BAD_ARGUMENT);
        CHECK_TEXT(result.message, "to_c: next of state 'h' is a fold_input_ref that is neither input nor state");
        fold_ctx_free(f);
    }
    fold_model_free(m);
}

static void arguments(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1;
    fold_ctx *f = fold_ctx_new(m, &eager);
    const fold_node x = fold_zeros(f, fold_shape1(4)), y = fold_tanh(f, x), three = fold_slice(f, y, 0, 0, 3);
    fold_to_c_port in = { "x", x, { 0, 0 } }, out = { "y", y, { 0, 0 } }, state = { "h", x, three };
    fold_to_c_desc desc = fold_to_c_desc_default();
    CHECK(fold_to_c(NULL, &desc, nowhere, NULL).status == FOLD_BAD_ARGUMENT);
    CHECK(fold_to_c(f, NULL, nowhere, NULL).status == FOLD_BAD_ARGUMENT);
    desc.in = &in;
    desc.out = &out;
    desc.n_in = desc.n_out = 1;
    CHECK(fold_to_c(f, &desc, NULL, NULL).status == FOLD_IO);
    CHECK(fold_to_c(f, &desc, stops, NULL).status == FOLD_IO);
    in.name = "no name";
    CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "'no name' is not a C name") != NULL);
    in.name = "unit"; /* of bytes */
    CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "'unit' is not a C name, or used by the printed code") != NULL);
    static const char *const words[] = { "int", "class", "xor", "inline", "t0", "m1", "own_in0", "NAN", "memcpy", "uint32_t" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        out.name = words[i];
        CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "is not a C name, or used by the printed code") != NULL);
    }
    in.name = out.name = "twice";
    CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "two ports are named 'twice'") != NULL);
    in.name = NULL;
    CHECK(fold_to_c(f, &desc, nowhere, NULL).status == FOLD_BAD_ARGUMENT);
    desc.n_in = 0;
    desc.n_state = 1;
    desc.state = &state;
    CHECK(strstr(fold_to_c(f, &desc, nowhere, NULL).message, "state 'h' has 4 floats, but its next 3") != NULL);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* What is printed, as text. */
typedef struct printed_text { char text[1 << 16]; size_t length; } printed_text;
static int into_text(const void *bytes, size_t size, void *user)
{
    printed_text *to = (printed_text *)user;
    if (size >= sizeof to->text - to->length) return 1;
    memcpy(to->text + to->length, bytes, size);
    to->text[to->length += size] = 0;
    return 0;
}
static void print_numbers(printed_text *to)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    const float masked[4] = { 0.3f, -(float)HUGE_VAL, 1e-7f, 0.123456789f }; /* no constants to tcc */
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1;
    fold_ctx *f = fold_ctx_new(m, &eager);
    const fold_node x = fold_input_ref(f, ones, fold_shape1(4)), line = fold_input(f, masked, 4);
    const fold_node clipped = fold_clip(f, fold_scale(f, x, -(float)HUGE_VAL), 0, (float)HUGE_VAL);
    const fold_node shifted = fold_shift(f, clipped, (float)NAN), mask = fold_input(f, masked, 4), constant = fold_input(f, masked, 4);
    const fold_node y = fold_add(f, shifted, line), sum = fold_add(f, x, mask), share = fold_softmax(f, sum);
    const fold_to_c_port in = { "x", x, { 0, 0 } }, state = { "h", line, clipped };
    const fold_to_c_port out[3] = { { "y", y, { 0, 0 } }, { "mask", share, { 0, 0 } }, { "constant", constant, { 0, 0 } } };
    fold_to_c_desc desc = fold_to_c_desc_default();
    desc.in = &in;
    desc.out = out;
    desc.state = &state;
    desc.n_in = desc.n_state = 1;
    desc.n_out = 3;
    const fold_to_c_result printed = fold_to_c(f, &desc, into_text, to);
    CHECK_SAYS(!printed.status, "%s", printed.message);
    fold_ctx_free(f);
    fold_model_free(m);
}
static void numbers(void)
{
    static printed_text plain, german;
    print_numbers(&plain);
    CHECK(strstr(plain.text, "@") == NULL && strstr(plain.text, "inf.0f") == NULL);
    CHECK(strstr(plain.text, "s->h[1] = -INFINITY;") != NULL);
    CHECK(strstr(plain.text, "NAN") != NULL && strstr(plain.text, "0.12345679f") != NULL);
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        check_skip("numbers in a locale with commas (no de_DE.UTF-8)");
        return;
    }
    print_numbers(&german);
    setlocale(LC_ALL, "C");
    CHECK_TEXT(german.text, plain.text);
}

/* A weight of 16, 16 states and no room but for values: as large as the sums of their floats. What a loop makes lies over what it
   reads last, so that the gates have room for the next states. */
static void sizes(void)
{
    fold_model *m = fold_model_new(NULL);
    const single_net net = single_new(m, 2);
    const fold_to_c_result printed = single_print(&net, m, net.name, 1, 0, nowhere, NULL);
    CHECK(printed.status == FOLD_OK);
    CHECK(printed.weight_bytes == sizeof(float) * (17 * 64 + 64 + 16 + 1));
    CHECK(printed.state_bytes == sizeof(float) * 32);
    CHECK(printed.work_bytes <= sizeof(float) * (64 + 16 + 1));
    const fold_to_c_result in_bytes = single_print(&net, m, net.name, 1, 1, nowhere, NULL); /* but for the head of one column */
    CHECK(in_bytes.weight_bytes == 17 * 64 + sizeof(float) * (64 + 64 + 16 + 1));
    CHECK(single_print(&net, m, net.name, 1, 17 * 64 + 1, nowhere, NULL).weight_bytes == printed.weight_bytes);
    fold_model_free(m);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--write")) {
        FILE *file = fopen(argv[2], "w");
        if (!file) return puts("the file cannot be opened"), 1;
        const int wrong = argc == 4 && !strcmp(argv[3], "policy") ? write_policy(file) : argc > 4 ? write_random(file, (int)option_whole(argc, argv, 2, 0, 1000000), (int)option_whole(argc, argv, 3, 0, 1000000))
                                   : write_singles(file);
        return fclose(file) || wrong;
    }
    check_start(argc, argv);
    check_run("what is refused, and its message", refused);
    check_run("references are no constants", references_are_no_constants);
    check_run("arguments", arguments);
    check_run("numbers as text", numbers);
    check_run("sizes", sizes);
    return check_finish();
}
