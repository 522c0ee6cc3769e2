/* test_lives.c - contexts that live long. A life is a list of events on a few contexts over one model: they
   record, record more, run, differentiate, replay with new data, run in slices, give slices up, meet errors
   and run out of memory, while optimisers step and parameters are written, frozen, added, saved and loaded.
   After each event all that can be read is compared with a fresh eager context over a twin of the model,
   which has seen nothing else.

   A life that fails is made shorter and printed as C statements.

       test_lives [--lives N] [--seed S]
       cc -O2 -o test_lives tests/test_lives.c -lm */

#define FOLD__SHARED_WORK 500 /* share out small batches, too */
#define FOLD__LONG_LIST 2     /* run lists of a few rows in strips, too */
#define FOLD__BLOCK_ROWS 16 /* few rows make several blocks, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"

enum { WIDTH = 4, ROWS = 3, TABLE_ROWS = WIDTH, MAX_EDGES = 6, DATA = 48, INDICES = 16, MAX_NODES = 90 };
enum { MAX_PARAMS = 8, MAX_CONTEXTS = 3, MAX_EVENTS = 220, LARGEST = ROWS * WIDTH, FILE_BYTES = 1 << 14 };

/* -- events ------------------------------------------------------------------------------------------ */

#define EVENT_LIST(X)                                                                                  \
    X(RECORD)                                                                                          \
    X(KEEP) X(KEEP_GRAD) X(OUTPUT) X(RUN) X(BACKWARD) X(REPLAY) X(DATA) X(BEGIN_RUN) X(BEGIN_BACKWARD) \
        X(BEGIN_REPLAY) X(MORE) X(PRINT) X(RESET) X(BAD_INDEX) X(BAD_OPERAND) X(FAMINE) X(SGD) X(ADAM) \
            X(WRITE) X(FREEZE) X(ADD) X(SAVE) X(LOAD) X(BAD_LOAD)
enum event_kind {
#define EVENT_NAME(name) DO_##name,
    EVENT_LIST(EVENT_NAME) EVENTS
};
typedef struct event {
    int kind, context;
    uint32_t a, b, c; /* what they choose depends on what is there */
} event;

/* How often each comes, of a hundred. The rest records. */
static const struct {
    int kind, share;
} shares[] = {
    { DO_RUN, 9 },   { DO_BACKWARD, 9 },       { DO_REPLAY, 9 },      { DO_DATA, 4 },
    { DO_KEEP, 5 },  { DO_OUTPUT, 4 },         { DO_KEEP_GRAD, 2 },   { DO_BEGIN_RUN, 2 },
    { DO_MORE, 8 },  { DO_BEGIN_BACKWARD, 2 }, { DO_RESET, 2 },       { DO_BEGIN_REPLAY, 2 },
    { DO_PRINT, 1 }, { DO_BAD_INDEX, 1 },      { DO_BAD_OPERAND, 1 }, { DO_FAMINE, 1 },
    { DO_SGD, 3 },   { DO_ADAM, 2 },           { DO_WRITE, 3 },       { DO_FREEZE, 2 },
    { DO_ADD, 1 },   { DO_SAVE, 1 },           { DO_LOAD, 1 },        { DO_BAD_LOAD, 1 },
};

/* -- recordings --------------------------------------------------------------------------------------- */

/* What a node computes. The letters say what it makes and reads: V a vector [WIDTH], S a scalar, L a list. */
#define OP_LIST(X)                                                                                         \
    X(INPUT, "V")                                                                                          \
    X(INPUT_REF, "V") X(LOOKUP, "V") X(USE, "V") X(LINEAR, "VV") X(ADD, "VVV") X(MUL, "VVV") X(TANH, "VV") \
        X(WINDOW, "VVV") X(CALL, "VVV") X(OUT, "VV") X(LIST_SUM, "VL") X(LIST_MEAN, "VL")                  \
            X(LIST_CALL, "VVL") X(SUM, "SV") X(XENT, "SV") X(PICK, "SV") X(PRODUCT, "SSS")                 \
                X(LIST_LOSS, "SL") X(LIST_REF, "L") X(LIST_LOOKUP, "L") X(LIST_LINEAR, "LL")               \
                    X(LIST_ADD, "LLV") X(ATTENTION, "LLL") X(CHAIN, "VVV")
enum op {
#define OP_NAME(name, types) OP_##name,
    OP_LIST(OP_NAME) OPS
};
static const char *const op_types[] = {
#define OP_TYPES(name, types) types,
    OP_LIST(OP_TYPES)
};
static const char *const op_names[] = {
#define OP_TEXT(name, types) #name,
    OP_LIST(OP_TEXT)
};

typedef struct entry {
    enum op op;
    int in[2], at, bias; /* at: where in the data, and other choices; bias: which parameter */
} entry;

enum { KEPT = 1, GRAD = 2, OUTPUT = 4, NEW_OUTPUT = 8, DONE = 16, FILLED = 32 };
enum { CONSTANT = -1, MIXED = -2 }; /* epochs of values without data, and of values made of two epochs */

/* What a run computes, and when it was planned. */
typedef struct run {
    uint8_t computes[MAX_NODES];
    int any, idle, root[3], n_roots,
        back;                  /* idle: it has nothing to do. back: the node it goes back from, or -1 */
    int stale, again, partial; /* stale: what is there is of other parameters. again: computes it once more */
    int nodes, named, version, layout;
} run;

typedef struct life_context {
    fold_ctx *f;
    fold_ctx_desc desc;
    int n, broken, allocations; /* allocations: how many succeed before memory runs out, or -1 */
    entry record[MAX_NODES];
    fold_node node[MAX_NODES];
    uint8_t flags[MAX_NODES], merged[MAX_NODES];
    int epoch[MAX_NODES], index_epoch[MAX_NODES], output_epoch[MAX_NODES], epoch_now;
    float expected[MAX_NODES][LARGEST], expected_grad[MAX_NODES][LARGEST];
    float output[MAX_NODES][LARGEST], expected_output[MAX_NODES][LARGEST];
    float data[DATA];
    int index[INDICES], from[MAX_EDGES], to[MAX_EDGES], edges;
    int any_done, version, torn, runs, recorded, named, indices_read;
    int ran;       /* whether `last` can be replayed: it has ended, and no other run began since */
    run last, now; /* the last run that had something to do; the one that is run in slices */
    int begun, sliced, replays, unsure; /* of `now`. unsure: it may have been given up, by moving arrays */
} life_context;

static struct {
    fold_model *model, *twin;
    fold_cell cell[2], list_cell[2];
    int n_params, version, layout, n_contexts, saved, tells, failed;
    fold_param param[MAX_PARAMS], twin_param[MAX_PARAMS];
    int frozen[MAX_PARAMS];
    life_context context[MAX_CONTEXTS];
    char file[FILE_BYTES];
    size_t file_size;
    uint64_t clock;
} life;
static struct {
    long events[EVENTS], compared, mixed, refused;
} counts;

#define SAY(...) (life.tells ? (void)(printf("    " __VA_ARGS__), printf("\n")) : (void)0)

static int fail(const char *what, int which)
{
    life.failed = 1;
    SAY("// %s (%d)", what, which);
    return 0;
}

static char type_of(const life_context *c, int node) { return op_types[c->record[node].op][0]; }
static size_t size_of(const life_context *c, int node)
{
    return type_of(c, node) == 'V' ? WIDTH : type_of(c, node) == 'S' ? 1 : LARGEST;
}
static int inputs_of(const life_context *c, int node)
{
    return (int)strlen(op_types[c->record[node].op]) - 1;
}

static void body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    fold_model *m = fold_ctx_model(f);
    (void)user;
    out[0] =
        fold_tanh(f, fold_linear_n(f, in, 2, fold_param_find(m, "cell.W"), fold_param_find(m, "cell.b")));
    out[1] = fold_mul(f, out[0], in[1]);
}

static void list_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_sum(f, fold_tanh(f, fold_mul(f, in[1], in[0])));
}

/* Records one node into a context: into one of the lives with references to memory, into a fresh one with
   what is there now. */
static fold_node record_one(const life_context *c, fold_ctx *f, const fold_node *node, int at, int fresh)
{
    const entry *r = &c->record[at];
    const fold_node x = inputs_of(c, at) > 0 ? node[r->in[0]] : FOLD_NULL_NODE;
    const fold_node y = inputs_of(c, at) > 1 ? node[r->in[1]] : FOLD_NULL_NODE;
    const fold_param *params = fresh ? life.twin_param : life.param, table = params[0],
                     W = params[1 + r->at % 2];
    const fold_param bias = params[r->bias];
    const float *data = c->data + r->at % (DATA - LARGEST);
    const int fixed[ROWS] = { r->at % WIDTH, r->at / 4 % WIDTH, r->at / 16 % WIDTH };
    const int *index = c->desc.dedupe ? fixed : c->index + r->at % (INDICES - ROWS);
    const int refs =
        !fresh && !c->desc.dedupe; /* such a context merges lookups, so their indices are its own */
    fold_node made = FOLD_NULL_NODE;
    switch (r->op) {
    case OP_INPUT: {
        float values[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            values[i] = (float)((r->at >> 3 * i & 7) - 3) / 4;
        return fold_input(f, values, WIDTH);
    }
    case OP_INPUT_REF:
        return fresh ? fold_input(f, data, WIDTH) : fold_input_ref(f, data, fold_shape1(WIDTH));
    case OP_LOOKUP:
        made = fold_lookup(f, table, index[0]);
        if (refs)
            fold_index_ref(f, made, index, 1);
        return made;
    case OP_USE: return fold_use(f, bias);
    case OP_LINEAR: return fold_linear(f, x, W, r->at % 3 ? bias : FOLD_NULL_PARAM);
    case OP_ADD: return fold_add(f, x, y);
    case OP_MUL: return fold_mul(f, x, y);
    case OP_TANH: return fold_tanh(f, x);
    case OP_WINDOW: {
        const fold_node pair[2] = { x, y }, both = fold_concat(f, pair, 2, 0);
        return fold_slice(f, both, 0, 1 + r->at % (WIDTH - 1), WIDTH);
    }
    case OP_CALL: {
        const fold_node in[2] = { x, y };
        return fold_call(f, life.cell[fresh], in, 2);
    }
    case OP_CHAIN: /* long enough for its rows to be used again */
        made = y;
        for (int step = 0; step < 20; step++) {
            const fold_node in[2] = { x, made };
            made = fold_call(f, life.cell[fresh], in, 2);
        }
        return made;
    case OP_OUT: return fold_out(f, x, 1);
    case OP_LIST_SUM: return fold_list_sum(f, x);
    case OP_LIST_MEAN: return fold_list_mean(f, x);
    case OP_LIST_CALL: return fold_call_list(f, life.list_cell[fresh], &x, 1, &y);
    case OP_SUM: return fold_sum(f, x, FOLD_ALL);
    case OP_XENT:
    case OP_PICK:
        made = r->op == OP_XENT ? fold_softmax_xent(f, x, index[0]) : fold_pick(f, x, index[0]);
        if (refs)
            fold_index_ref(f, made, index, 1);
        return made;
    case OP_PRODUCT: return fold_mul(f, x, y);
    case OP_LIST_LOSS: return fold_sum(f, fold_list_sum(f, fold_square(f, x)), FOLD_ALL);
    case OP_LIST_REF:
        return fresh ? fold_list_input(f, data, ROWS, fold_shape1(WIDTH))
                     : fold_list_input_ref(f, data, ROWS, fold_shape1(WIDTH));
    case OP_LIST_LOOKUP:
        made = fold_list_lookup(f, table, index, ROWS);
        if (refs)
            fold_index_ref(f, made, index, ROWS);
        return made;
    case OP_LIST_LINEAR: return fold_linear(f, x, W, bias);
    case OP_LIST_ADD: return fold_add(f, x, y);
    case OP_ATTENTION:
        if (c->desc.dedupe)
            return fold_list_attention_to(f, x, y, y, 1, fixed, fixed + 1,
                                          fixed[0] < ROWS && fixed[1] < ROWS && fixed[2] < ROWS ? 2 : 0);
        made = fold_list_attention_to(f, x, y, y, 1, c->from, c->to, fresh ? c->edges : 0);
        if (refs)
            fold_edges_ref(f, made, c->from, c->to, &c->edges, MAX_EDGES);
        return made;
    default: return made;
    }
}

/* -- what a context should hold ----------------------------------------------------------------------- */

static int has_index(const life_context *c, int node)
{
    const enum op op = c->record[node].op;
    return !c->desc.dedupe &&
           (op == OP_LOOKUP || op == OP_XENT || op == OP_PICK || op == OP_LIST_LOOKUP || op == OP_ATTENTION);
}
static int is_leaf(const life_context *c, int node) { return !inputs_of(c, node); }
static int leaf_epoch(const life_context *c, int node)
{
    const enum op op = c->record[node].op;
    return op == OP_INPUT_REF || op == OP_LIST_REF ? c->epoch_now : CONSTANT;
}

/* Combines the epochs of what a value is computed from. */
static int merge_epochs(int a, int b) { return a == CONSTANT || a == b ? b : b == CONSTANT ? a : MIXED; }

static int is_stale(const life_context *c) { return c->any_done && (c->version != life.version || c->torn); }

/* Marks what a run has to compute for a value. What an earlier run computed is there, unless all is computed
 * again. */
static void need(life_context *c, int node, int recompute, uint8_t *computed)
{
    if (is_leaf(c, node) || computed[node] || ((c->flags[node] & DONE) && !recompute))
        return;
    computed[node] = 1;
    for (int i = 0; i < inputs_of(c, node); i++) {
        const int in = c->record[node].in[i];
        if (c->record[node].op == OP_OUT && !computed[in]) { /* the call runs as a whole */
            const uint8_t flags = c->flags[in];
            c->flags[in] &= (uint8_t)~DONE;
            need(c, in, recompute, computed);
            c->flags[in] = flags;
        }
        need(c, in, recompute, computed);
    }
}

/* Whether the last run can be replayed: 1, 0, or -1 where the contract leaves it open. */
static int can_replay(const life_context *c)
{
    const run *r = &c->last;
    if (!c->ran || c->torn || r->nodes != c->recorded || r->layout != life.layout)
        return 0;
    if (r->named != c->named)
        return c->desc.dedupe ? -1 : 0; /* what is named may be a twin of what was run */
    return r->partial && c->version != life.version ? -1 : 1;
}

/* Plans a run as the contract says; back: the node it goes back from, or -1. */
static run plan_run(life_context *c, const int *roots, int n_roots, int back)
{
    run r;
    memset(&r, 0, sizeof r);
    r.n_roots = n_roots;
    r.back = back;
    r.stale = is_stale(c);
    r.again = back >= 0 || r.stale;
    r.partial = !r.again && c->runs;
    r.nodes = c->recorded, r.named = c->named, r.version = life.version, r.layout = life.layout;
    for (int i = 0; i < n_roots; i++)
        need(c, r.root[i] = roots[i], r.again, r.computes);
    for (int node = 0; node < c->n; node++)
        if ((c->flags[node] & KEPT) && (r.stale || !(c->flags[node] & DONE)))
            need(c, node, r.again, r.computes);
    for (int node = 0; node < c->n; node++) {
        r.any |= r.computes[node];
        if (c->record[node].op == OP_OUT)
            r.computes[node] |= r.computes[c->record[node].in[0]]; /* a call runs whole */
    }
    r.any |= back >= 0;
    r.idle = !r.any && !r.stale && c->ran && can_replay(c);
    return r;
}

/* Records all of a context's nodes in a fresh eager context over the twin, with the data of this moment. */
static fold_ctx *fresh_context(const life_context *c, fold_node *node)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.eager = 1;
    desc.training = c->desc.training;
    desc.dedupe = c->desc.dedupe;
    fold_ctx *f = fold_ctx_new(life.twin, &desc);
    for (int at = 0; at < c->n; at++) {
        node[at] = record_one(c, f, node, at, 1);
        if (c->flags[at] & GRAD)
            fold_keep_grad(f, node[at]);
    }
    if (fold_ctx_status(f))
        fail(fold_ctx_message(f), c->n);
    return f;
}

/* Notes what a run has computed from the data of this moment, and from what was there. */
static void note_values(life_context *c, const run *r, fold_ctx *fresh, const fold_node *node)
{
    for (int at = 0; at < c->n; at++) {
        int epoch = is_leaf(c, at) ? leaf_epoch(c, at) : CONSTANT;
        if (has_index(c, at))
            epoch = merge_epochs(epoch, c->index_epoch[at]);
        if (is_leaf(c, at))
            c->epoch[at] = epoch;
        if (!r->computes[at])
            continue;
        for (int i = 0; i < inputs_of(c, at); i++)
            epoch = merge_epochs(epoch, c->epoch[c->record[at].in[i]]);
        c->epoch[at] = epoch == CONSTANT || epoch == c->epoch_now ? epoch : MIXED;
        counts.mixed += c->epoch[at] == MIXED;
        if (c->epoch[at] != MIXED && fold_read(fresh, &node[at], 1, c->expected[at]))
            fail(fold_ctx_message(fresh), at);
    }
}

static void note_gradients(life_context *c, const run *r, fold_ctx *fresh, const fold_node *node, int replays)
{
    if (fold_backward(fresh, node[r->back]))
        fail(fold_ctx_message(fresh), r->back);
    for (int at = 0; at < c->n; at++) {
        const int adds = !replays && (c->flags[at] & FILLED);
        const float *grad = c->flags[at] & GRAD ? fold_grad(fresh, node[at]) : NULL;
        if ((c->flags[at] & GRAD) && !grad)
            fail(fold_ctx_message(fresh), at);
        for (size_t i = 0; grad && i < size_of(c, at); i++)
            c->expected_grad[at][i] = adds ? c->expected_grad[at][i] + grad[i] : grad[i];
        if (grad)
            c->flags[at] |= FILLED;
    }
}

static void note_outputs(life_context *c, const run *r)
{
    for (int at = 0; at < c->n; at++) {
        if (!(c->flags[at] & OUTPUT) || !(c->flags[at] & DONE) ||
            !(r->computes[at] || c->flags[at] & NEW_OUTPUT))
            continue;
        c->flags[at] &= (uint8_t)~NEW_OUTPUT;
        c->output_epoch[at] = c->epoch[at];
        memcpy(c->expected_output[at], c->expected[at], sizeof c->expected[at]);
    }
}

/* A run has ended: notes what it has to leave behind. */
static void note_run(life_context *c, const run *r, int replays)
{
    fold_node node[MAX_NODES];
    fold_ctx *fresh = fresh_context(c, node);
    const int all = replays || r->again;
    const int changed = replays ? c->any_done && c->version != life.version : r->stale;
    for (int at = all ? 0 : c->indices_read; at < c->n; at++)
        c->index_epoch[at] = c->epoch_now;
    note_values(c, r, fresh, node);
    for (int at = 0; at < c->n; at++) {
        if (changed && !r->computes[at])
            c->flags[at] &= (uint8_t)~DONE;
        if (r->computes[at] && (c->flags[at] & KEPT))
            c->flags[at] |= DONE;
    }
    for (int i = 0; i < r->n_roots; i++)
        if (!is_leaf(c, r->root[i]))
            c->flags[r->root[i]] |= DONE;
    if (r->back >= 0)
        note_gradients(c, r, fresh, node, replays);
    note_outputs(c, r);
    if (!r->idle || replays) {
        c->any_done |= r->any;
        c->version = life.version, c->torn = 0;
        if (!replays)
            c->last = *r;
        c->ran = 1;
    }
    c->indices_read = c->n;
    c->runs++;
    fold_ctx_free(fresh);
}

/* -- comparing ---------------------------------------------------------------------------------------- */

/* The sign of a zero is left open: gradients that nothing adds to keep theirs. */
static int same_gradient(const float *got, const float *expected, size_t n)
{
    while (n-- && (!memcmp(got + n, expected + n, sizeof *got) || (got[n] == 0 && expected[n] == 0)))
        if (!n)
            return 1;
    return 0;
}

static int same(const float *got, const float *expected, size_t n)
{
    return !memcmp(got, expected, n * sizeof *got);
}

static void compare_context(life_context *c, int which)
{
    const int unreadable = c->torn || c->broken;
    for (int at = 0; at < c->n && !life.failed; at++) {
        float value[LARGEST];
        const size_t n = size_of(c, at);
        if ((c->flags[at] & OUTPUT) && c->output_epoch[at] >= CONSTANT &&
            !same(c->output[at], c->expected_output[at], n))
            SAY("// context %d: output %d is %g, not %g", which, at, (double)c->output[at][0],
                (double)c->expected_output[at][0]),
                fail("another output", at);
        if (is_leaf(c, at) || unreadable || !(c->flags[at] & DONE))
            continue;
        if (fold_read(c->f, &c->node[at], 1, value)) {
            SAY("// %s", fold_ctx_message(c->f));
            fail("cannot be read", at);
        } else if (c->epoch[at] != MIXED && !same(value, c->expected[at], n)) {
            SAY("// context %d: node %d is %g, not %g", which, at, (double)value[0],
                (double)c->expected[at][0]);
            fail("another value", at);
        }
        counts.compared++;
        const float *grad = c->flags[at] & FILLED ? fold_grad(c->f, c->node[at]) : NULL;
        if ((c->flags[at] & FILLED) && !c->begun && (!grad || !same_gradient(grad, c->expected_grad[at], n)))
            SAY("// gradient %g, not %g", grad ? (double)*grad : 0, (double)c->expected_grad[at][0]),
                fail(grad ? "another gradient" : fold_ctx_message(c->f), at);
    }
}

static int others_are_adding(const life_context *c);

static void compare_models(void)
{
    for (int p = 0; p < life.n_params && !life.failed; p++) {
        size_t n = 1;
        const fold_shape shape = fold_param_shape(life.model, life.param[p]);
        for (int axis = 0; axis < shape.rank; axis++)
            n *= (size_t)shape.dim[axis];
        if (!same(fold_param_value(life.model, life.param[p]),
                  fold_param_value(life.twin, life.twin_param[p]), n))
            fail("another parameter", p);
        if (!others_are_adding(NULL) && !same(fold_param_grad(life.model, life.param[p]),
                                              fold_param_grad(life.twin, life.twin_param[p]), n))
            fail("another gradient of a parameter", p);
        for (size_t i = 0; i < n && life.failed && life.tells; i++)
            SAY("// %d: %.9g %.9g, gradient %.9g %.9g", (int)i,
                (double)fold_param_value(life.model, life.param[p])[i],
                (double)fold_param_value(life.twin, life.twin_param[p])[i],
                (double)fold_param_grad(life.model, life.param[p])[i],
                (double)fold_param_grad(life.twin, life.twin_param[p])[i]);
    }
}

/* -- what happens to contexts --------------------------------------------------------------------------- */

static int choose(const life_context *c, char type, uint32_t number)
{
    int of_type = 0;
    for (int at = 0; at < c->n; at++)
        of_type += type_of(c, at) == type && !c->merged[at];
    int nth = of_type ? (int)(number % (uint32_t)of_type) : -1;
    for (int at = 0; at < c->n && of_type; at++)
        if (type_of(c, at) == type && !c->merged[at] && !nth--)
            return at;
    return -1;
}

/* A node that an op computes, one of the latest if `late`; -1: there is none. */
static int choose_computed(const life_context *c, uint32_t number, int late)
{
    const int first = late && c->n > 8 ? c->n - 8 : 0;
    for (int tries = 0; tries < c->n; tries++) {
        const int at = first + (int)((number + (uint32_t)tries) % (uint32_t)(c->n - first));
        if (!is_leaf(c, at) && !c->merged[at])
            return at;
    }
    return -1;
}

/* The context has an error after the call, if any: memory has run out, or `expected` says that it had to be.
 */
static int broke(life_context *c, fold_status status, fold_status expected)
{
    if (!status)
        return 0;
    c->broken = fold_ctx_status(c->f) != FOLD_OK;
    if (status != expected && !(status == FOLD_NO_MEMORY && c->allocations >= 0))
        fail(fold_ctx_message(c->f), (int)status);
    if (!*fold_ctx_message(c->f))
        fail("no message", (int)status);
    return 1;
}

/* Gradients of a backward that is given up are incomplete: see fold_run_begin. */
static void clear_incomplete(life_context *c)
{
    if (!c->begun || !c->sliced || c->now.back < 0)
        return;
    fold_grads_clear(life.model);
    fold_grads_clear(life.twin);
    SAY("fold_grads_clear(m);");
    for (int at = 0; at < c->n; at++)
        c->flags[at] &= (uint8_t)~FILLED;
}

/* Whether a context other than this has added a part of its gradients: then no one else should add to them.
 */
static int others_are_adding(const life_context *c)
{
    int adding = 0;
    for (int which = 0; which < life.n_contexts; which++) {
        const life_context *other = &life.context[which];
        adding |= other != c && other->begun && other->sliced && other->now.back >= 0;
    }
    return adding;
}

static void give_up(life_context *c)
{
    clear_incomplete(c);
    c->begun = 0;
}

static void record_node(life_context *c, int which, const event *e)
{
    static const char types[] = "VVVVSL";
    entry r = { OPS, { 0, 0 }, (int)(e->c & 0xfff), 5 + (int)(e->c >> 12) % (life.n_params - 5) };
    if (c->n == MAX_NODES)
        return;
    r.op = (enum op)(e->a % OPS);
    for (int i = 0; i < 2 && op_types[r.op][1 + i]; i++) {
        r.in[i] = choose(c, op_types[r.op][1 + i], e->b >> 12 * i);
        if (r.in[i] < 0) {
            r.op = types[e->b % 6] == 'L' ? OP_LIST_REF : OP_INPUT_REF;
            break;
        }
    }
    if (r.op == OP_OUT && c->record[r.in[0]].op != OP_CALL)
        r.op = OP_TANH;
    if ((r.op == OP_WINDOW || r.op == OP_CHAIN) && c->desc.dedupe)
        r.op = OP_ADD; /* windows of one node are kept together, and some calls of a chain may be there */
    c->record[c->n] = r;
    c->flags[c->n] = c->merged[c->n] = 0;
    c->epoch[c->n] = c->output_epoch[c->n] = MIXED;
    SAY("n[%d][%d] = %s(n%d, n%d, %d);", which, c->n, op_names[r.op], r.in[0], r.in[1], r.at);
    c->node[c->n] = record_one(c, c->f, c->node, c->n, 0);
    c->unsure = 1;
    if (broke(c, fold_ctx_status(c->f), FOLD_OK))
        return;
    for (int at = 0; at < c->n; at++)
        if (c->node[at].id == c->node[c->n].id)
            c->merged[c->n] = 1; /* the same node, which is referred to instead */
    c->n++;
    const int last = (int)c->node[c->n - 1].id + (r.op == OP_CALL || r.op == OP_CHAIN); /* both outputs are there */
    if (last > c->recorded)
        c->recorded = last;
}

static void name_node(life_context *c, int which, const event *e)
{
    const int at = choose_computed(c, e->a, 0);
    if (at < 0)
        return;
    if (e->kind == DO_KEEP_GRAD) {
        if (!c->desc.training || c->flags[at] & GRAD)
            return;
        if (c->desc.dedupe && c->runs)
            return; /* it may be a twin of a node that has a gradient already */
        SAY("fold_keep_grad(f[%d], n[%d][%d]);", which, which, at);
        fold_keep_grad(c->f, c->node[at]);
        c->named++;
    } else if (e->kind == DO_KEEP) {
        SAY("fold_keep(f[%d], n[%d][%d]);", which, which, at);
        fold_keep(c->f, c->node[at]);
    } else {
        if (c->flags[at] & OUTPUT)
            return;
        SAY("fold_output_ref(f[%d], n[%d][%d], output[%d][%d]);", which, which, at, which, at);
        fold_output_ref(c->f, c->node[at], c->output[at]);
    }
    if (broke(c, fold_ctx_status(c->f), FOLD_OK))
        return;
    c->unsure = 1;
    if (e->kind != DO_KEEP_GRAD)
        c->named += !(c->flags[at] & DONE);
    c->flags[at] |= e->kind == DO_KEEP_GRAD ? GRAD : e->kind == DO_KEEP ? KEPT : KEPT | OUTPUT | NEW_OUTPUT;
}

/* A run has begun, or is over if it does not go in slices. */
static void note_start(life_context *c, fold_status status, const run *r, int begins, int replays)
{
    if (broke(c, status, FOLD_OK))
        return;
    c->now = *r;
    c->begun = begins, c->sliced = 0, c->replays = replays, c->unsure = 0;
    if (!begins)
        note_run(c, &c->now, replays);
}

static void run_or_begin(life_context *c, int which, const event *e)
{
    const int begins = e->kind == DO_BEGIN_RUN;
    int roots[3], n = 0;
    fold_node nodes[3];
    for (int i = 0; i < (int)(e->a % 4) && i < 3; i++) {
        const int at = choose_computed(c, i ? e->c : e->b, !i);
        if (at >= 0)
            nodes[n] = c->node[at], roots[n++] = at;
    }
    give_up(c);
    const run r = plan_run(c, roots, n, -1);
    SAY("%s(f[%d], { n%d, n%d, n%d }, %d);", begins ? "fold_run_begin" : "fold_run", which,
        n > 0 ? roots[0] : 0, n > 1 ? roots[1] : 0, n > 2 ? roots[2] : 0, n);
    const fold_status status = begins ? fold_run_begin(c->f, nodes, n) : fold_run(c->f, nodes, n);
    c->ran &= r.idle;
    note_start(c, status, &r, begins, 0);
}

static void backward_or_begin(life_context *c, int which, const event *e)
{
    const int begins = e->kind == DO_BEGIN_BACKWARD, root = choose(c, 'S', e->a);
    if (!c->desc.training || root < 0 || others_are_adding(c))
        return;
    give_up(c);
    const run r = plan_run(c, &root, 1, root);
    SAY("%s(f[%d], n[%d][%d]);", begins ? "fold_backward_begin" : "fold_backward", which, which, root);
    const fold_status status =
        begins ? fold_backward_begin(c->f, c->node[root]) : fold_backward(c->f, c->node[root]);
    c->ran = 0;
    note_start(c, status, &r, begins, 0);
}

static void replay_or_begin(life_context *c, int which, const event *e, fold_status refused)
{
    const int begins = e->kind == DO_BEGIN_REPLAY, can = c->begun ? -1 : can_replay(c);
    if (others_are_adding(NULL))
        return;
    SAY("%s(f[%d]);", begins ? "fold_replay_begin" : "fold_replay", which);
    const fold_status status = begins ? fold_replay_begin(c->f) : fold_replay(c->f);
    if (status == FOLD_BAD_STATE || (refused && status == refused)) {
        counts.refused++;
        if (can > 0 && !refused)
            fail(fold_ctx_message(c->f), which);
        if (fold_ctx_status(c->f))
            fail("a replay that is refused is an error of the context", which);
        return;
    }
    if (status == FOLD_OK && !can)
        fail("a replay that had to be refused", which);
    run again = c->last;
    again.version = life.version;
    note_start(c, status, &again, begins, 1);
}

static void run_more(life_context *c, int which, const event *e)
{
    int more = 0;
    const run *r = &c->now;
    const int gone = !c->begun || r->nodes != c->recorded || r->named != c->named ||
                     r->version != life.version || r->layout != life.layout;
    const uint64_t ns = e->a % 4 ? e->b % 2000 : 0;
    if (others_are_adding(c))
        return;
    SAY("fold_run_more(f[%d], %d, &more);", which, (int)ns);
    const fold_status status = fold_run_more(c->f, ns, &more);
    if (status == FOLD_BAD_STATE && !fold_ctx_status(c->f)) {
        if (!gone && !c->unsure)
            fail(fold_ctx_message(c->f), which);
        return;
    }
    if (gone)
        fail("a begun run that had to be refused", which);
    if (broke(c, status, FOLD_OK))
        return;
    c->sliced = 1;
    if (r->again || c->replays)
        c->torn = r->any;
    for (int at = 0; at < c->n && more;
         at++) /* a call that runs once more, for an output that was not there */
        if (r->computes[at])
            c->epoch[at] = MIXED;
    if (more)
        return;
    c->begun = 0;
    note_run(c, r, c->replays);
}

static void change_data(life_context *c, const event *e)
{
    check_random random = { e->b };
    if (c->begun || c->desc.dedupe)
        return;
    SAY("change_data(%d);", (int)e->b);
    random_fill(&random, c->data, DATA, -1, 1);
    for (int i = 0; i < INDICES; i++)
        c->index[i] = random_below(&random, TABLE_ROWS);
    c->edges = random_below(&random, MAX_EDGES + 1);
    for (int i = 0; i < MAX_EDGES; i++)
        c->from[i] = random_below(&random, ROWS), c->to[i] = random_below(&random, ROWS);
    c->epoch_now++;
}

static void reset(life_context *c, int which)
{
    give_up(c);
    SAY("fold_ctx_reset(f[%d]);", which);
    fold_ctx_reset(c->f);
    c->n = c->broken = c->any_done = c->torn = c->runs = c->recorded = c->named = c->indices_read = c->ran =
        0;
    c->allocations = -1;
}

static void bad_index(life_context *c, int which, const event *e)
{
    int index[INDICES];
    if (c->begun || c->desc.dedupe)
        return;
    memcpy(index, c->index, sizeof index);
    for (int i = 0; i < INDICES; i++)
        c->index[i] = e->a % 2 ? -1 : 99;
    SAY("// with indices that are out of range:");
    int reads = 0;
    for (int at = 0; at < c->n; at++)
        reads |= has_index(c, at) && c->record[at].op != OP_ATTENTION;
    if (reads)
        replay_or_begin(c, which, e, FOLD_BAD_ARGUMENT);
    memcpy(c->index, index, sizeof index);
}

static void happen_to_context(const event *e)
{
    const int which = e->context % life.n_contexts;
    life_context *c = &life.context[which];
    if (c->broken || e->kind == DO_RESET) {
        reset(c, which);
        return;
    }
    switch (e->kind) {
    case DO_RECORD: record_node(c, which, e); break;
    case DO_KEEP:
    case DO_KEEP_GRAD:
    case DO_OUTPUT: name_node(c, which, e); break;
    case DO_RUN:
    case DO_BEGIN_RUN: run_or_begin(c, which, e); break;
    case DO_BACKWARD:
    case DO_BEGIN_BACKWARD: backward_or_begin(c, which, e); break;
    case DO_REPLAY:
    case DO_BEGIN_REPLAY: replay_or_begin(c, which, e, FOLD_OK); break;
    case DO_MORE: run_more(c, which, e); break;
    case DO_DATA: change_data(c, e); break;
    case DO_BAD_INDEX: bad_index(c, which, e); break;
    case DO_BAD_OPERAND:
        SAY("fold_add(f[%d], a null node, a null node);", which);
        fold_add(c->f, FOLD_NULL_NODE, FOLD_NULL_NODE);
        broke(c, fold_ctx_status(c->f), FOLD_BAD_ARGUMENT);
        break;
    case DO_FAMINE:
        c->allocations = (int)(e->a % 6);
        SAY("// %d allocations of f[%d] succeed from here on", c->allocations, which);
        break;
    default: break;
    }
}

static int discard(const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    return 0;
}

/* -- what happens to the model -----------------------------------------------------------------------------
 */

static int to_file(const void *bytes, size_t size, void *user)
{
    (void)user;
    if (life.file_size + size > sizeof life.file)
        return 1;
    memcpy(life.file + life.file_size, bytes, size);
    life.file_size += size;
    return 0;
}

static fold_param add_param(fold_model *m, int which)
{
    char name[20];
    static const char *const names[] = { "table", "W", "V", "cell.W", "cell.b", "b" };
    snprintf(name, sizeof name, "b%d", which);
    fold_param p = which == 0                 ? fold_table_new(m, names[0], TABLE_ROWS, WIDTH)
                   : which == 1 || which == 2 ? fold_weight_new(m, names[which], WIDTH, WIDTH)
                   : which == 3               ? fold_weight_new(m, names[3], 2 * WIDTH, WIDTH)
                   : which == 4               ? fold_bias_new(m, names[4], WIDTH)
                                              : fold_bias_new(m, which == 5 ? names[5] : name, WIDTH);
    return p;
}

static void write_param(fold_model *m, fold_param p, uint64_t seed, size_t n)
{
    check_random random = { seed };
    float *values = fold_values_write_begin(m, p);
    random_fill(&random, values, n, -1, 1);
    fold_values_write_end(m, p);
}

static void happen_to_model(const event *e)
{
    fold_model *const models[2] = { life.model, life.twin };
    const fold_param *const params[2] = { life.param, life.twin_param };
    const int p = (int)(e->a % (uint32_t)life.n_params);
    fold_sgd sgd = { 0.05f, e->b % 2 ? 0.9f : 0, 0 };
    fold_adam adam = fold_adam_default();
    fold_load_desc load = fold_load_desc_default();
    fold_save_desc save = fold_save_desc_default();
    load.allow_missing = 1;
    adam.rate = 0.01f;
    switch (e->kind) {
    case DO_SGD: SAY("fold_sgd_step(m, momentum %g);", (double)sgd.momentum); break;
    case DO_ADAM: SAY("fold_adam_step(m);"); break;
    case DO_WRITE: SAY("write(m, p[%d], %d);", p, (int)e->b); break;
    case DO_FREEZE: SAY("fold_param_freeze(m, p[%d], %d);", p, !life.frozen[p]); break;
    case DO_ADD: SAY("p[%d] = fold_bias_new(m, …);", life.n_params); break;
    default: SAY("%s(m);", e->kind == DO_SAVE ? "save" : e->kind == DO_LOAD ? "load" : "load_garbage"); break;
    }
    if (e->kind == DO_ADD && life.n_params == MAX_PARAMS)
        return;
    if (e->kind == DO_LOAD && !life.file_size)
        return;
    for (int which = 0; which < life.n_contexts && e->kind != DO_SAVE && e->kind != DO_BAD_LOAD; which++)
        clear_incomplete(&life.context[which]);
    if (e->kind == DO_SAVE) {
        life.file_size = 0;
        if (fold_model_save_to(life.model, to_file, NULL, &save))
            fail(fold_model_message(life.model), 0);
    }
    for (int twin = 0; twin < 2; twin++) {
        fold_status status = FOLD_OK;
        const size_t n = p < 1    ? WIDTH * TABLE_ROWS
                         : p < 3  ? WIDTH * WIDTH
                         : p == 3 ? 2 * WIDTH * WIDTH
                                  : WIDTH;
        switch (e->kind) {
        case DO_SGD: status = fold_sgd_step(models[twin], &sgd); break;
        case DO_ADAM: status = fold_adam_step(models[twin], &adam); break;
        case DO_WRITE: write_param(models[twin], params[twin][p], e->b, n); break;
        case DO_FREEZE: fold_param_freeze(models[twin], params[twin][p], !life.frozen[p]); break;
        case DO_ADD:
            (twin ? life.twin_param : life.param)[life.n_params] = add_param(models[twin], life.n_params);
            break;
        case DO_LOAD: status = fold_model_load_memory(models[twin], life.file, life.file_size, &load); break;
        case DO_BAD_LOAD:
            if (!fold_model_load_memory(models[twin], "garbage that is no file", 23, &load))
                fail("garbage was loaded", 0);
            fold_model_clear_error(models[twin]);
            break;
        default: break;
        }
        if (status)
            fail(fold_model_message(models[twin]), (int)status);
    }
    if (e->kind == DO_SGD || e->kind == DO_ADAM || e->kind == DO_WRITE || e->kind == DO_LOAD)
        life.version++;
    if (e->kind == DO_FREEZE)
        life.frozen[p] = !life.frozen[p];
    if (e->kind == DO_ADD)
        life.n_params++;
    if (e->kind == DO_ADD || e->kind == DO_FREEZE)
        life.layout++;
}

static void print(const event *e)
{
    life_context *c = &life.context[e->context % life.n_contexts];
    if (c->broken)
        return;
    SAY("fold_ctx_print(f[%d], …);", e->context % life.n_contexts);
    c->unsure = 1;
    if (fold_ctx_print(c->f, discard, NULL) && fold_ctx_status(c->f))
        c->broken = 1;
}

/* -- lives ------------------------------------------------------------------------------------------------
 */

static void *scarce_alloc(size_t size, size_t align, void *user)
{
    life_context *c = (life_context *)user;
    if (!c->allocations)
        return NULL;
    c->allocations -= c->allocations > 0;
    return aligned_block(size, align);
}
static void scarce_free(void *block, size_t size, void *user)
{
    (void)size, (void)user;
    if (block)
        free_block(block);
}

static uint64_t ticking_clock(void *user)
{
    (void)user;
    return life.clock += 97;
}

static void one_after_another(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    while (n)
        task(--n, user);
}

static fold_cell make_cell(fold_model *m, int with_list)
{
    fold_cell_desc desc = fold_cell_desc_default();
    desc.name = with_list ? "list cell" : "cell";
    desc.body = with_list ? list_body : body;
    desc.n_in = with_list ? 1 : 2;
    desc.in[0] = desc.in[1] = desc.list[0] = fold_shape1(WIDTH);
    desc.n_list = with_list;
    desc.n_out = with_list ? 1 : 2;
    return fold_cell_new(m, &desc);
}

static void make_models(uint64_t seed)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.seed = seed;
    for (int twin = 0; twin < 2; twin++) {
        fold_model *m = fold_model_new(&desc);
        for (int p = 0; p < 6; p++)
            (twin ? life.twin_param : life.param)[p] = add_param(m, p);
        life.cell[twin] = make_cell(m, 0);
        life.list_cell[twin] = make_cell(m, 1);
        *(twin ? &life.twin : &life.model) = m;
    }
    life.n_params = 6;
}

static void make_context(life_context *c, int which, check_random *r)
{
    static const size_t budgets[] = { 0, 1, SIZE_MAX, 2000 };
    c->desc = fold_ctx_desc_default();
    c->desc.training = !which || random_below(r, 3);
    c->desc.dedupe = !random_below(r, 5);
    c->desc.schedule = (fold_schedule)random_below(r, FOLD_SCHEDULE_COUNT);
    c->desc.group_bytes = budgets[random_below(r, 4)];
    c->desc.plan_cache_bytes = random_below(r, 2) ? 0 : 100000;
    c->desc.threads = random_below(r, 3) ? 0 : 3;
    c->desc.parallel_for = one_after_another;
    c->desc.clock = ticking_clock;
    c->desc.memory.alloc = scarce_alloc;
    c->desc.memory.free = scarce_free;
    c->desc.memory.user = c;
    c->allocations = -1;
    c->f = fold_ctx_new(life.model, &c->desc);
    SAY("// f[%d]: training %d, dedupe %d, schedule %d, group_bytes %zu, plan_cache_bytes %zu, threads %d",
        which, c->desc.training, c->desc.dedupe, (int)c->desc.schedule, c->desc.group_bytes,
        c->desc.plan_cache_bytes, c->desc.threads);
    const event first = { DO_DATA, which, 0, (uint32_t)random_bits(r), 0 };
    const int dedupe = c->desc.dedupe;
    c->desc.dedupe = 0;
    change_data(c, &first);
    c->desc.dedupe = dedupe;
}

/* Lives a life; returns how many events passed before it failed, or all. */
static int live(uint64_t seed, const event *events, int n, int tells)
{
    check_random r = { seed };
    int at = 0;
    memset(&life, 0, sizeof life);
    life.tells = tells;
    make_models(seed);
    life.n_contexts = 1 + random_below(&r, MAX_CONTEXTS);
    for (int which = 0; which < life.n_contexts; which++)
        make_context(&life.context[which], which, &r);
    for (; at < n && !life.failed; at++) {
        const event *e = &events[at];
        counts.events[e->kind]++;
        if (e->kind >= DO_SGD)
            happen_to_model(e);
        else if (e->kind == DO_PRINT)
            print(e);
        else
            happen_to_context(e);
        for (int which = 0; which < life.n_contexts; which++)
            compare_context(&life.context[which], which);
        compare_models();
    }
    for (int which = 0; which < life.n_contexts; which++)
        fold_ctx_free(life.context[which].f);
    fold_model_free(life.model);
    fold_model_free(life.twin);
    return at;
}

static int make_events(uint64_t seed, event *events)
{
    check_random r = { seed * 77 + 5 };
    const int n = 40 + random_below(&r, MAX_EVENTS - 40);
    static const int steps[] = { DO_RUN, DO_BACKWARD, DO_SGD, DO_REPLAY, DO_RUN }; /* as programs take them */
    int routine = -1;
    for (int at = 0; at < n; at++) {
        event *e = &events[at];
        int share = random_below(&r, 100);
        e->kind = DO_RECORD;
        e->context = at && random_below(&r, 3) ? events[at - 1].context : random_below(&r, MAX_CONTEXTS);
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++, share -= shares[i - 1].share)
            if (share >= 0 && share < shares[i].share)
                e->kind = shares[i].kind;
        const int since = at - routine;
        if (!random_below(&r, 30))
            routine = at;
        if (at && since < (int)(sizeof steps / sizeof *steps) && routine >= 0 && since >= 0)
            e->kind = steps[since], e->context = events[routine].context;
        e->a = (uint32_t)random_bits(&r), e->b = (uint32_t)random_bits(&r), e->c = (uint32_t)random_bits(&r);
    }
    return n;
}

/* Leaves out events, more and then fewer at a time, as long as the life fails. */
static int shorten(uint64_t seed, event *events, int n)
{
    event fewer[MAX_EVENTS];
    for (int size = n / 2; size; size = size > 1 ? size / 2 : 0)
        for (int first = 0; first + size <= n;) {
            memcpy(fewer, events, (size_t)first * sizeof *events);
            memcpy(fewer + first, events + first + size, (size_t)(n - first - size) * sizeof *events);
            const int lived = live(seed, fewer, n - size, 0);
            if (life.failed)
                memcpy(events, fewer, (size_t)(n = lived) * sizeof *events);
            else
                first += size;
        }
    return n;
}

static void live_and_tell(uint64_t seed)
{
    event events[MAX_EVENTS];
    int n = live(seed, events, make_events(seed, events), 0);
    if (!life.failed)
        return;
    n = shorten(seed, events, n);
    printf("life %llu fails:\n", (unsigned long long)seed);
    live(seed, events, n, 1);
    CHECK_SAYS(0, "life %llu", (unsigned long long)seed);
}

static long argument(int argc, char **argv, const char *name, long standard)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return atol(argv[i + 1]);
    return standard;
}

int main(int argc, char **argv)
{
    const long lives = argument(argc, argv, "--lives", 2000), first = argument(argc, argv, "--seed", 1);
    check_start(1, argv);
    for (long seed = first; seed < first + lives && check.failed < 3; seed++) {
        char name[40];
        snprintf(name, sizeof name, "life %ld", seed);
        if (!check_begin(name))
            continue;
        live_and_tell((uint64_t)seed);
        check_end();
    }
    printf("%ld values compared, %ld of two epochs, %ld replays refused; events:", counts.compared,
           counts.mixed, counts.refused);
    static const char *const names[] = {
#define EVENT_TEXT(name) #name,
        EVENT_LIST(EVENT_TEXT)
    };
    for (int kind = 0; kind < EVENTS; kind++)
        printf(" %s %ld", names[kind], counts.events[kind]);
    printf("\n");
    return check_finish();
}
