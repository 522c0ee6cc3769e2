/* test_memory.c - the memory contract: no allocation after warm-up, contexts in one block of exactly the measured size, every
   allocation failing in turn, a million nodes on a small stack, alignment. -DOWN_MALLOC=0 leaves malloc alone
   (for valgrind).
       cc -O2 -o test_memory tests/test_memory.c -lm -lpthread */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "count_malloc.h"
#include "kernel_sets.h"
#include <pthread.h>
#include <stdlib.h>

/* -- an allocator that counts, checks what it is given back, and fails on demand -------------------- */

typedef struct counter { long calls, live, fail_at; size_t bytes, peak; int wrong; } counter;
typedef struct header { size_t size; char *raw; } header;

static void *counted_alloc(size_t size, size_t align, void *user)
{
    counter *c = (counter *)user;
    c->wrong |= !size || !align || (align & (align - 1));
    if (++c->calls == c->fail_at) return NULL;
    header h;
    h.size = size;
    h.raw = (char *)malloc(size + align + sizeof h);
    if (!h.raw) return NULL;
    char *p = h.raw + sizeof h;
    p += (align - (uintptr_t)p % align) % align;
    memcpy(p - sizeof h, &h, sizeof h);
    memset(p, 0xa5, size); /* nothing may rely on zeros */
    c->live++;
    c->bytes += size;
    if (c->bytes > c->peak) c->peak = c->bytes;
    return p;
}
static void counted_free(void *p, size_t size, void *user)
{
    counter *c = (counter *)user;
    header h;
    memcpy(&h, (char *)p - sizeof h, sizeof h);
    c->calls++; /* a free counts as a call, but is not refused */
    if (c->fail_at == c->calls) c->fail_at++;
    c->wrong |= h.size != size;
    c->live--;
    c->bytes -= h.size;
    free(h.raw);
}
static fold_memory counted(counter *c)
{
    fold_memory m;
    memset(&m, 0, sizeof m);
    memset(c, 0, sizeof *c);
    m.alloc = counted_alloc;
    m.free = counted_free;
    m.user = c;
    return m;
}

/* -- a model and recordings of all kinds ------------------------------------------------------------- */

enum { H = 8, WORDS = 30, CLASSES = 4, SAMPLES = 20, KINDS = 6, ROWS = 6, MAX_FLOATS = 1 << 15 };
typedef struct net {
    fold_model *m;
    fold_param embed, W, b, V;
    fold_tree_lstm tree;
    fold_child_sum sum;
    fold_recurrent gru;
} net;

static int net_new(net *n, const fold_memory *memory)
{
    fold_model_desc d = fold_model_desc_default();
    memset(n, 0, sizeof *n);
    if (memory) d.memory = *memory;
    n->m = fold_model_new(&d);
    if (!n->m) return 0;
    n->embed = fold_table_new(n->m, "embed", WORDS, H);
    n->W = fold_weight_new(n->m, "W", 2 * H, H);
    n->b = fold_bias_new(n->m, "b", H);
    n->V = fold_weight_new(n->m, "V", H, CLASSES);
    n->tree = fold_tree_lstm_new(n->m, "tree", H, H, 2);
    n->sum = fold_child_sum_new(n->m, "sum", H, H);
    n->gru = fold_gru_new(n->m, "gru", H, H);
    return fold_model_status(n->m) == FOLD_OK;
}

static fold_node word(fold_ctx *f, const net *n, int i) { return fold_lookup(f, n->embed, i % WORDS); }

/* Lists of 1 to 6 rows: looked up, taken, joined, attended to, sent to others; a loss by row. */
static fold_node record_lists(fold_ctx *f, const net *n, int i)
{
    const int rows = 1 + i % ROWS;
    int word_of[ROWS], to[ROWS], label[2 * ROWS];
    for (int k = 0; k < ROWS; k++) {
        word_of[k] = (3 * k + i) % WORDS;
        to[k] = (k + i) % rows;
        label[k] = label[ROWS + k] = k % CLASSES;
    }
    fold_node part[2];
    const fold_node x = fold_list_lookup(f, n->embed, word_of, rows);
    part[0] = fold_list_attention(f, x, x, fold_tanh(f, x), 2, i % 2);
    part[1] = fold_list_sum_to(f, fold_list_take(f, x, to, rows), to, rows, rows);
    const fold_node seen = fold_list_attention_to(f, part[0], x, x, 2, to, to, rows);
    const fold_node most = fold_list_max_to(f, seen, to, rows, rows), mean = fold_list_mean_to(f, part[1], to, rows, rows);
    const fold_node all = fold_list_join(f, part, 2), out = fold_linear(f, all, n->V, fold_param_find(n->m, ""));
    const fold_node loss = fold_list_sum(f, fold_softmax_xent_each(f, out, label, 2 * rows));
    return fold_add(f, loss, fold_list_mean(f, fold_dot(f, most, mean)));
}

static fold_node record_sample(fold_ctx *f, const net *n, int i)
{
    const float x[H] = { 0.1f, -0.2f, 0.3f * (float)i, 0, 1, -1, 0.5f, 2 };
    fold_state s, list[KINDS * SAMPLES];
    fold_node h, both[2], scores[SAMPLES], values[SAMPLES];
    fold_dropout_seed(f, (uint64_t)i);
    if (i % KINDS == KINDS - 1) return record_lists(f, n, i);
    switch (i % KINDS) {
    case 0: /* a skewed tree */
        s = fold_tree_lstm_apply_leaf(f, &n->tree, word(f, n, i));
        for (int k = 0; k < i % 7; k++) {
            list[0] = s;
            list[1] = fold_tree_lstm_apply_leaf(f, &n->tree, word(f, n, i + k));
            s = fold_tree_lstm_apply_inner(f, &n->tree, list);
        }
        h = s.h;
        break;
    case 1: /* a node with children */
        for (int k = 0; k < i % 6; k++) list[k] = fold_child_sum_apply(f, &n->sum, word(f, n, k), NULL, 0);
        h = fold_child_sum_apply(f, &n->sum, word(f, n, i), list, (size_t)(i % 6)).h;
        break;
    case 2: /* a chain */
        s = fold_recurrent_zeros(f, &n->gru);
        for (int k = 0; k < i % 9; k++) s = fold_recurrent_apply(f, &n->gru, word(f, n, i * k), s);
        h = s.h;
        break;
    case 3: /* attention */
        for (int k = 0; k <= i % 5; k++) {
            values[k] = fold_tanh(f, word(f, n, i + 3 * k));
            scores[k] = fold_dot(f, values[k], word(f, n, i));
        }
        h = fold_softmax_mean_n(f, scores, values, (size_t)(i % 5) + 1);
        break;
    default: /* plain ops */
        both[0] = fold_dropout(f, word(f, n, i), 0.3f);
        both[1] = fold_mul(f, fold_input(f, x, H), fold_use(f, n->b));
        h = fold_gelu_tanh(f, fold_linear_n(f, both, 2, n->W, n->b));
    }
    return fold_softmax_xent(f, fold_linear(f, h, n->V, fold_param_find(n->m, "")), i % CLASSES);
}

/* `kind` shifts what the samples are, so that recordings differ. */
static fold_node record(fold_ctx *f, const net *n, int kind, int samples, fold_node *loss)
{
    fold_ctx_reset(f);
    for (int i = 0; i < samples; i++) {
        loss[i] = record_sample(f, n, i + 3 * kind);
        fold_keep(f, loss[i]);
        if (i % 4 == 0) fold_keep_grad(f, loss[i]);
    }
    return fold_mean_n(f, loss, samples);
}

static void snapshot(fold_model *m, float *to)
{
    int n;
    const float *values = fold_model_values(m, &n);
    memcpy(to, values, (size_t)n * sizeof *to);
    memcpy(to + n, fold_model_grads(m, NULL), (size_t)n * sizeof *to);
}
static void unchanged(fold_model *m, const float *before)
{
    int n;
    const float *values = fold_model_values(m, &n);
    CHECK_BITS(values, before, n);
    const float *grads = fold_model_grads(m, NULL);
    CHECK_BITS(grads, before + n, n);
}

static const struct { const char *name; int training, eager, dedupe; size_t group_bytes, plan_cache_bytes; } ways[] = {
    { "training", 1, 0, 0, 0, 0 }, { "one group", 1, 0, 0, SIZE_MAX, 0 }, { "small groups", 1, 0, 0, 4096, 0 },
    { "inference", 0, 0, 0, 0, 0 }, { "eager", 1, 1, 0, 0, 0 }, { "eager inference", 0, 1, 0, 0, 0 },
    { "merging", 1, 0, 1, 0, 0 }, { "eager merging", 1, 1, 1, 0, 0 }, { "plans", 1, 0, 0, 0, 50000 },
};
enum { WAYS = sizeof ways / sizeof *ways, TRAINING = 0, INFERENCE = 3, EAGER = 4, EAGER_INFERENCE = 5 };

static fold_ctx *context(const net *n, int way, const fold_memory *memory)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = ways[way].training; d.eager = ways[way].eager; d.dedupe = ways[way].dedupe;
    d.group_bytes = ways[way].group_bytes;
    d.plan_cache_bytes = ways[way].plan_cache_bytes;
    if (memory) d.memory = *memory;
    return fold_ctx_new(n->m, &d);
}

static fold_status execute(fold_ctx *f, int way, fold_node root)
{
    return ways[way].training ? fold_backward(f, root) : fold_run(f, &root, 1);
}

static fold_status execute_in_slices(fold_ctx *f, int way, fold_node root)
{
    int more = 1;
    fold_status status = ways[way].training ? fold_backward_begin(f, root) : fold_run_begin(f, &root, 1);
    while (more && !status) status = fold_run_more(f, 0, &more);
    return status;
}

/* -- the tests ------------------------------------------------------------------------------------------ */

/* An array that grows is there twice for a moment, and the peak remembers it. */
static void peak_of_growth(void)
{
    counter memory;
    fold_model *m = fold_model_new(NULL);
    fold_ctx_desc d = fold_ctx_desc_default();
    const float x[16] = { 0 };
    d.memory = counted(&memory);
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < 5000; i++) fold_input(f, x, 16);
    CHECK_INT(fold_ctx_status(f), FOLD_OK);
    CHECK_INT(fold_ctx_stats(f).peak_bytes, memory.peak);
    CHECK(memory.peak > (size_t)fold_ctx_stats(f).bytes + 16 * sizeof *x * 1000);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* Nothing allocates once recordings as large were seen, be it through the given functions or malloc. */
static void no_allocation(void)
{
    fold_node loss[SAMPLES];
    counter model_memory, memory;
    const fold_memory of_model = counted(&model_memory), of_context = counted(&memory);
    for (int way = 0; way < WAYS; way++) {
        net n;
        const fold_adam adam = fold_adam_default();
        CHECK(net_new(&n, &of_model));
        fold_ctx *f = context(&n, way, &of_context);
        long calls = 0, own = 0, mallocs_before = 0;
        for (int step = 0; step < 60; step++) {
            if (step == 5) {
                calls = memory.calls;
                own = model_memory.calls;
                mallocs_before = malloc_calls();
            }
            const fold_node root = record(f, &n, step % 5, step < 30 ? SAMPLES : SAMPLES - step % 10, loss);
            CHECK_INT(step % 2 ? execute(f, way, root) : execute_in_slices(f, way, root), FOLD_OK);
            CHECK_INT(fold_replay(f), FOLD_OK);
            if (ways[way].training) CHECK_INT(fold_adam_step(n.m, &adam), FOLD_OK);
        }
        CHECK_SAYS(memory.calls == calls, "%s: %ld calls of the context's allocator", ways[way].name,
                   memory.calls - calls);
        CHECK_SAYS(model_memory.calls == own, "%s: %ld calls of the model's allocator", ways[way].name,
                   model_memory.calls - own);
        CHECK_SAYS(malloc_calls() == mallocs_before, "%s: %ld calls of malloc", ways[way].name,
                   malloc_calls() - mallocs_before);
        CHECK_INT(fold_ctx_stats(f).bytes, memory.bytes);
        CHECK_INT(fold_ctx_stats(f).peak_bytes, memory.peak);
        fold_ctx_free(f);
        fold_model_free(n.m);
        CHECK_INT(memory.live, 0);
        CHECK_INT(model_memory.live, 0);
        CHECK(!memory.wrong && !model_memory.wrong);
        memory.peak = 0;
    }
}

/* Three recordings; the values and kept gradients of their losses. */
static void run_whole(fold_ctx *f, const net *n, int way, float *got)
{
    fold_node loss[SAMPLES];
    for (int kind = 0; kind < 3; kind++) {
        const fold_node root = record(f, n, kind, SAMPLES - kind, loss);
        if (!CHECK_SAYS(execute(f, way, root) == FOLD_OK, "%s: %s", ways[way].name, fold_ctx_message(f))) return;
        CHECK_INT(fold_read(f, loss, (size_t)(SAMPLES - kind), got + 2 * kind * SAMPLES), FOLD_OK);
        for (int i = 0; i < SAMPLES - kind && ways[way].training; i += 4)
            got[(2 * kind + 1) * SAMPLES + i] = fold_grad(f, loss[i])[0];
    }
}

/* Where the most bytes lie before a multiple of 64; there are 64 more. */
static void *worst_place(char *raw) { return raw + (65 - (uintptr_t)raw % 64) % 64; }

static void fixed_block(void)
{
    static float want_grads[MAX_FLOATS], got_grads[MAX_FLOATS], before[MAX_FLOATS];
    net n;
    CHECK(net_new(&n, NULL));
    for (int way = 0; way < WAYS; way++) {
        float want[6 * SAMPLES] = { 0 }, got[6 * SAMPLES] = { 0 };
        fold_node loss[SAMPLES];
        fold_ctx *f = context(&n, way, NULL);
        run_whole(f, &n, way, want);
        const size_t size = fold_ctx_stats(f).block_bytes;
        fold_ctx_free(f);
        snapshot(n.m, want_grads);
        fold_grads_clear(n.m);

        fold_memory memory;
        memset(&memory, 0, sizeof memory);
        char *raw = (char *)malloc(size + 64);
        memory.block = worst_place(raw);
        memory.block_size = size;
        const long mallocs_before = malloc_calls();
        f = context(&n, way, &memory);
        run_whole(f, &n, way, got);
        CHECK_SAYS(malloc_calls() == mallocs_before, "%s: %ld calls of malloc", ways[way].name,
                   malloc_calls() - mallocs_before);
        CHECK_SAYS(!memcmp(got, want, sizeof got), "%s: other values in a block", ways[way].name);
        snapshot(n.m, got_grads);
        unchanged(n.m, want_grads);
        fold_grads_clear(n.m);
        CHECK_SAYS(fold_ctx_stats(f).block_bytes == size, "%s: measures %zu bytes in a block of %zu",
                   ways[way].name, fold_ctx_stats(f).block_bytes, size);
        CHECK_SAYS(fold_ctx_stats(f).peak_bytes <= size, "%s: peak %zu in a block of %zu", ways[way].name,
                   fold_ctx_stats(f).peak_bytes, size);
        fold_ctx_free(f);

        for (int less = 1; less <= 64; less += 63) { /* too small: an error, and nothing but that */
            memory.block_size = size - (size_t)less;
            f = context(&n, way, &memory);
            fold_status status = FOLD_OK;
            for (int kind = 0; kind < 3 && !status; kind++) {
                const fold_node root = record(f, &n, kind, SAMPLES - kind, loss);
                snapshot(n.m, before);
                status = execute(f, way, root);
            }
            CHECK_SAYS(status == FOLD_NO_MEMORY, "%s: %s in a block %d bytes too small", ways[way].name,
                       fold_status_text(status), less);
            CHECK_TEXT(fold_ctx_message(f), "memory");
            unchanged(n.m, before);
            fold_grads_clear(n.m);
            CHECK_INT(execute(f, way, record(f, &n, 0, 4, loss)), FOLD_OK);
            fold_grads_clear(n.m);
            fold_ctx_free(f);
        }
        free(raw);
    }
    fold_model_free(n.m);
}

static uint64_t ticks(void *user) { return *(uint64_t *)user += 1000; }

/* What batches took stays known from recording to recording, also where a kept plan is used again while another
   array grows: estimates in a block are those of a context with an allocator. */
static void kept_costs(void)
{
    fold_model *m = fold_model_new(NULL);
    const fold_param table = fold_table_new(m, "t", 9, 8);
    char *raw = NULL;
    uint64_t want = 0;
    size_t size = 0;
    for (int in_block = 0; in_block < 2; in_block++) {
        uint64_t now = 0;
        int index[64] = { 0 };
        fold_ctx_desc d = fold_ctx_desc_default();
        d.clock = ticks;
        d.clock_user = &now;
        d.plan_cache_bytes = 100000;
        if (in_block) {
            raw = (char *)malloc(size + 64);
            d.memory.block = memset(worst_place(raw), 0x5A, size);
            d.memory.block_size = size;
        }
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int turn = 0; turn < 3; turn++) { /* the plan is kept in the second */
            fold_node y[64];
            fold_ctx_reset(f);
            for (int i = 0; i < 64; i++) {
                const fold_node x = fold_lookup(f, table, 0);
                if (turn == 2) fold_index_ref(f, x, &index[i], 1);
                y[i] = fold_exp(f, fold_sin(f, fold_cos(f, x)));
                fold_keep(f, y[i]);
            }
            CHECK_INT(fold_run(f, y, 64), FOLD_OK);
        }
        CHECK_INT(fold_ctx_stats(f).plan_hits, 1);
        const uint64_t estimate = fold_estimate_ns(f);
        CHECK(estimate > 0 && (!in_block || estimate == want));
        want = estimate;
        size = fold_ctx_stats(f).block_bytes;
        fold_ctx_free(f);
    }
    free(raw);
    fold_model_free(m);
}

/* Planning a backward asks for room by how many parameters there are. In a block of exactly the measured size
   that moves the arrays of the run, whichever they are. */
static void many_parameters(void)
{
    enum { MOST = 400, USED = 6 };
    fold_model *m = fold_model_new(NULL);
    const fold_param p = fold_bias_new(m, "p", USED);
    char *raw = (char *)malloc((1 << 18) + 64);
    for (int count = 1; count < MOST; count++) {
        char name[20];
        snprintf(name, sizeof name, "q%d", count);
        fold_bias_new(m, name, 2);
        size_t size = 0;
        for (int in_block = 0; in_block < 2; in_block++) {
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = 1;
            d.measure = !in_block;
            if (in_block) {
                d.memory.block = memset(worst_place(raw), 0x5A, size);
                d.memory.block_size = size;
            }
            fold_ctx *f = fold_ctx_new(m, &d);
            const fold_node u = fold_use(f, p);
            const fold_node y = fold_add(f, fold_sum(f, fold_sin(f, u), FOLD_ALL), fold_sum(f, u, FOLD_ALL));
            CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
            CHECK_SAYS(fold_backward(f, y) == FOLD_OK, "%d parameters: %s", count, fold_ctx_message(f));
            if (!in_block) size = fold_ctx_stats(f).block_bytes;
            fold_ctx_free(f);
        }
        for (int i = 0; i < USED; i++) /* p is 0: the slope of its sine is 1, and that of the sum too */
            CHECK_SAYS(fold_param_grad(m, p)[i] == 2, "%d parameters: a gradient of %g", count, (double)fold_param_grad(m, p)[i]);
        fold_grads_clear(m);
    }
    free(raw);
    fold_model_free(m);
}

/* Calls that are merged lie in the recording for a moment, here on top of a run, whose memory is in use. */
static fold_status record_merged(fold_ctx *f, fold_param table, int operands, int more)
{
    fold_node x[200];
    for (int i = 0; i < operands; i++) x[i] = fold_lookup(f, table, i % 7);
    const fold_node all = fold_sum_n(f, x, operands), some = fold_tanh(f, fold_sum_n(f, x, more));
    fold_keep(f, some);
    if (fold_run(f, &all, 1)) return fold_ctx_status(f);
    const fold_node again = fold_tanh(f, fold_sum_n(f, x, more));
    CHECK(again.id == some.id || fold_ctx_status(f));
    return fold_run(f, &again, 1);
}
static void merged_in_block(void)
{
    fold_model *m = fold_model_new(NULL);
    const fold_param table = fold_table_new(m, "t", 9, 4);
    for (int way = 0; way < 4; way++)
        for (int operands = 1; operands <= 200; operands += 7)
            for (int more = 1; more <= operands; more += 13) {
                fold_ctx_desc d = fold_ctx_desc_default();
                d.dedupe = 1;
                d.eager = way % 2;
                d.measure = way / 2;
                fold_ctx *f = fold_ctx_new(m, &d);
                CHECK_INT(record_merged(f, table, operands, more), FOLD_OK);
                const size_t size = fold_ctx_stats(f).block_bytes;
                fold_ctx_free(f);
                char *raw = (char *)malloc(size + 64);
                d.measure = 0;
                d.memory.block = worst_place(raw);
                d.memory.block_size = size;
                f = fold_ctx_new(m, &d);
                const fold_status status = record_merged(f, table, operands, more);
                CHECK_SAYS(!status, "way %d, %d and %d operands: %s", way, operands, more, fold_ctx_message(f));
                fold_ctx_free(f);
                free(raw);
            }
    fold_model_free(m);
}

/* What one run needed is enough whether gradients are clear or not. */
static void unclear_gradients(void)
{
    net n;
    fold_node loss[SAMPLES];
    CHECK(net_new(&n, NULL));
    for (int way = 0; way < WAYS; way++) {
        fold_ctx *f = context(&n, way, NULL);
        fold_grads_clear(n.m);
        CHECK_INT(execute(f, way, record(f, &n, 0, SAMPLES, loss)), FOLD_OK);
        fold_memory memory;
        memset(&memory, 0, sizeof memory);
        memory.block_size = fold_ctx_stats(f).block_bytes;
        fold_ctx_free(f);
        char *raw = (char *)malloc(memory.block_size + 64);
        memory.block = worst_place(raw);
        f = context(&n, way, &memory);
        CHECK_SAYS(execute(f, way, record(f, &n, 0, SAMPLES, loss)) == FOLD_OK, "%s: %s", ways[way].name, fold_ctx_message(f));
        fold_ctx_free(f);
        free(raw);
    }
    fold_model_free(n.m);
}

/* Blocks of every size, from nothing to enough, are refused, fail with an error, or work. */
static void any_block(void)
{
    static float before[MAX_FLOATS];
    net n;
    CHECK(net_new(&n, NULL));
    fold_node loss[SAMPLES];
    fold_memory memory;
    memset(&memory, 0, sizeof memory);
    static char raw[(1 << 18) + 64];
    memory.block = worst_place(raw);
    int refused = 0, failed = 0, fine = 0;
    for (size_t size = 0; size < 1 << 18; size += size < 1 << 15 ? 448 : 5056) {
        memory.block_size = size;
        fold_ctx *f = context(&n, TRAINING, &memory);
        if (fold_ctx_status(f)) { /* it lies elsewhere, and says why */
            CHECK_TEXT(fold_ctx_message(f), fold_ctx_status(f) == FOLD_NO_MEMORY ? "the block has" : "memory.block_size");
            refused++;
            fold_ctx_free(f);
            continue;
        }
        snapshot(n.m, before);
        const fold_status status = fold_backward(f, record(f, &n, 0, 6, loss));
        if (status) unchanged(n.m, before);
        CHECK(status == FOLD_OK || status == FOLD_NO_MEMORY);
        failed += status != FOLD_OK;
        fine += status == FOLD_OK;
        fold_grads_clear(n.m);
    }
    CHECK(refused > 0 && failed > 0 && fine > 0);
    fold_model_free(n.m);
}

/* A recording of one kind alone: chains of ops of their own shapes, so that kinds share few signatures. Some are
   wide, others have many nodes or large inputs. */
enum { SIZES = 6 };
static fold_node record_size(fold_ctx *f, const net *n, int kind)
{
    static const struct { int nodes, width, inputs; } sizes[SIZES] = {
        { 6, 5, 1 }, { 1500, 9, 1 }, { 40, 700, 2 }, { 3, 30000, 3 }, { 400, 33, 40 }, { 20, 16, 1 },
    };
    static float data[30000];
    const int width = sizes[kind].width;
    fold_node x[40], y[40];
    fold_ctx_reset(f);
    for (int i = 0; i < width; i++) data[i] = (float)((i * 7 + kind) % 11) - 5;
    for (int i = 0; i < sizes[kind].inputs; i++) {
        x[i] = fold_input(f, data, width);
        y[i] = x[i];
    }
    for (int k = 0; k < sizes[kind].nodes; k++) {
        const int i = k % sizes[kind].inputs;
        y[i] = k % 3 ? fold_tanh(f, y[i]) : fold_add(f, fold_shift(f, y[i], 0.25f), x[i]);
        if (k % 50) continue;
        const fold_node parts[2] = { fold_slice(f, y[i], 0, 0, 2), fold_slice(f, x[i], 0, 2, width - 2) };
        y[i] = fold_concat(f, parts, 2, 0);
    }
    fold_node sum = fold_mean_n(f, y, (size_t)sizes[kind].inputs);
    sum = fold_add(f, fold_sum(f, sum, FOLD_ALL), record_sample(f, n, kind));
    fold_keep(f, sum);
    return sum;
}

/* What a context with an allocator needs for one recording alone, and the root's value. */
static size_t needed(const net *n, int way, int kind, float *value)
{
    fold_ctx *f = context(n, way, NULL);
    const fold_node root = record_size(f, n, kind);
    CHECK_SAYS(execute(f, way, root) == FOLD_OK, "%s: %s", ways[way].name, fold_ctx_message(f));
    *value = fold_scalar(f, root);
    const size_t size = fold_ctx_stats(f).block_bytes;
    fold_ctx_free(f);
    return size;
}

/* Recordings that fit a block alone fit in turn, whatever was in it before; also after one that was too large. */
static void blocks_in_turn(void)
{
    net n;
    CHECK(net_new(&n, NULL));
    for (int way = 0; way < WAYS; way++) {
        size_t size[SIZES], largest = 0;
        float want[SIZES];
        for (int kind = 0; kind < SIZES; kind++) {
            size[kind] = needed(&n, way, kind, &want[kind]);
            if (size[kind] > largest) largest = size[kind];
        }
        char *raw = (char *)malloc(largest + 64);
        fold_memory memory;
        memset(&memory, 0, sizeof memory);
        memory.block = worst_place(raw);
        for (int most = 0; most < SIZES; most++) { /* of exactly the size for one of them */
            memory.block_size = size[most];
            fold_ctx *f = context(&n, way, &memory);
            if (!CHECK(f != NULL)) continue;
            size_t peak = 0;
            for (int turn = 0; turn < 4 * SIZES; turn++) {
                const int kind = (turn * 5 + turn / SIZES + most) % SIZES, fits = size[kind] <= size[most];
                const fold_node root = record_size(f, &n, kind);
                const fold_status status = execute(f, way, root), expected = fits ? FOLD_OK : FOLD_NO_MEMORY;
                CHECK_SAYS(status == expected, "%s: recording %d of %zu bytes in a block of %zu, turn %d: '%s'",
                           ways[way].name, kind, size[kind], size[most], turn, fold_ctx_message(f));
                const size_t before = peak;
                peak = fold_ctx_stats(f).peak_bytes;
                CHECK_SAYS(peak >= before, "%s: a peak of %zu after one of %zu", ways[way].name, peak, before);
                const float got = fold_scalar(f, root);
                if (fits && !status) CHECK_BITS(&got, &want[kind], 1);
            }
            CHECK_SAYS(fold_ctx_stats(f).peak_bytes <= size[most], "%s: peak %zu in a block of %zu", ways[way].name,
                       fold_ctx_stats(f).peak_bytes, size[most]);
            fold_ctx_free(f);
        }
        free(raw);
    }
    fold_model_free(n.m);
}

/* The same of recordings that differ in their shapes alone. */
static void shapes_in_turn(void)
{
    enum { TURNS = 12, MOST_SHAPES = 90 };
    static const int shapes[3] = { 60, 90, 70 };
    static const float x[3 * MOST_SHAPES] = { 1 };
    net n;
    CHECK(net_new(&n, NULL));
    for (int way = 0; way < WAYS; way++) {
        size_t size[3], largest = 0;
        fold_memory memory;
        memset(&memory, 0, sizeof memory);
        char *raw = NULL;
        for (int turn = 0; turn < 3 + TURNS; turn++) {
            static fold_ctx *f;
            const int kind = turn % 3;
            if (turn == 3) {
                for (int k = 0; k < 3; k++) largest = size[k] > largest ? size[k] : largest;
                raw = (char *)malloc(largest + 64);
                memory.block = worst_place(raw);
                memory.block_size = largest;
            }
            if (turn <= 3) f = context(&n, way, turn < 3 ? NULL : &memory);
            fold_ctx_reset(f);
            const fold_node all = fold_input(f, x, 3 * MOST_SHAPES), y = fold_sum(f, all, FOLD_ALL);
            for (int k = 0; k < MOST_SHAPES; k++)
                fold_slice(f, all, 0, 0, kind * MOST_SHAPES + k % shapes[kind] + 1);
            const fold_status status = execute(f, way, y);
            CHECK_SAYS(status == FOLD_OK, "%s, turn %d: %s", ways[way].name, turn, fold_ctx_message(f));
            CHECK_NEAR(fold_scalar(f, y), 1, 0);
            if (turn < 3) size[kind] = fold_ctx_stats(f).block_bytes;
            if (turn < 3 || turn == 2 + TURNS) fold_ctx_free(f);
        }
        free(raw);
    }
    fold_model_free(n.m);
}

/* After a recording that was too large the message and fold_ctx_stats tell how many bytes are needed; who gives
   those gets there, at once where all was recorded and planned. */
static void told_what_is_needed(void)
{
    net n;
    CHECK(net_new(&n, NULL));
    for (int way = 0; way < WAYS; way++) {
        float want;
        const size_t size = needed(&n, way, 4, &want);
        char *raw = (char *)malloc(size + 64);
        fold_memory memory;
        memset(&memory, 0, sizeof memory);
        memory.block = worst_place(raw);
        int exact = 0;
        for (size_t given = size / 8; given < size; given += size / 160) {
            memory.block_size = given;
            fold_ctx *f = context(&n, way, &memory);
            if (!f) continue;
            CHECK_INT(execute(f, way, record_size(f, &n, 4)), FOLD_NO_MEMORY);
            const size_t told = fold_ctx_stats(f).block_bytes;
            char text[64];
            CHECK_SAYS(told > given && told <= size, "%s: of %zu bytes %zu are given, %zu told", ways[way].name, size,
                       given, told);
            snprintf(text, sizeof text, "the block has %zu bytes", given);
            CHECK_TEXT(fold_ctx_message(f), text);
            CHECK_TEXT(fold_ctx_message(f), "out of memory");
            CHECK_TEXT(fold_ctx_message(f), " (see fold_ctx_desc.measure)");
            if (!strstr(fold_ctx_message(f), "or more")) {
                CHECK_SAYS(told == size, "%s: %zu bytes, of exactly %zu", ways[way].name, told, size);
                exact++;
            }
            fold_ctx_reset(f); /* and it is remembered */
            CHECK_INT(fold_ctx_stats(f).block_bytes, told);
            fold_ctx_free(f);
        }
        CHECK_SAYS(exact > 0 || way == EAGER_INFERENCE, "%s: never told exactly", ways[way].name);
        free(raw);
    }
    fold_model_free(n.m);
}

/* After a failure a context gives what an eager one gives. */
static void works_again(fold_ctx *f, const net *n, int way, long k)
{
    fold_node loss[SAMPLES], want_loss[SAMPLES];
    float got[SAMPLES], want[SAMPLES];
    fold_model_clear_error(n->m);
    fold_grads_clear(n->m);
    const fold_status status = execute(f, way, record(f, n, 2, SAMPLES, loss));
    CHECK_SAYS(!status, "%s, after failing at allocation %ld: %s", ways[way].name, k, fold_ctx_message(f));
    CHECK_INT(fold_read(f, loss, SAMPLES, got), FOLD_OK);
    fold_ctx *eager = context(n, ways[way].training ? EAGER : EAGER_INFERENCE, NULL);
    const fold_node root = record(eager, n, 2, SAMPLES, want_loss);
    CHECK_INT(fold_run(eager, &root, 1), FOLD_OK);
    CHECK_INT(fold_read(eager, want_loss, SAMPLES, want), FOLD_OK);
    CHECK_BITS(got, want, SAMPLES);
    fold_ctx_free(eager);
}

/* One session in which allocation k fails; what was going on then, and afterwards all is well again. */
enum { IN_MODEL, IN_CONTEXT, IN_RECORD, IN_BACKWARD, IN_STEP, NOWHERE, STAGES };
static int session(const fold_memory *memory, counter *c, long k, int way)
{
    static float before[MAX_FLOATS];
    const fold_adam adam = fold_adam_default();
    fold_node loss[SAMPLES];
    net n;
    int stage = NOWHERE;
    c->calls = 0;
    c->fail_at = k;
    if (!net_new(&n, memory)) {
        CHECK(!n.m || fold_model_status(n.m) == FOLD_NO_MEMORY);
        fold_model_free(n.m);
        return IN_MODEL;
    }
    fold_ctx *f = context(&n, way, memory);
    if (!f) { fold_model_free(n.m); return IN_CONTEXT; }
    for (int step = 0; step < 2 && stage == NOWHERE; step++) {
        const fold_node root = record(f, &n, step, 4 + 8 * step, loss);
        if (fold_ctx_status(f)) stage = IN_RECORD;
        snapshot(n.m, before);
        if (execute(f, way, root) && stage == NOWHERE) stage = IN_BACKWARD;
        if (stage != NOWHERE) { CHECK_INT(fold_ctx_status(f), FOLD_NO_MEMORY); unchanged(n.m, before); }
        if (stage != NOWHERE || !ways[way].training) continue;
        snapshot(n.m, before);
        if (fold_adam_step(n.m, &adam)) { stage = IN_STEP; unchanged(n.m, before); }
    }
    c->fail_at = 0;
    works_again(f, &n, way, k);
    fold_ctx_free(f);
    fold_model_free(n.m);
    return stage;
}

static void each_allocation_fails(void)
{
    counter c;
    const fold_memory memory = counted(&c);
    for (int way = 0; way < WAYS; way++) {
        int seen[STAGES] = { 0 }, stage = IN_MODEL;
        for (long k = 1; stage != NOWHERE && k < 5000; k++) {
            stage = session(&memory, &c, k, way);
            seen[stage]++;
            CHECK_SAYS(c.live == 0, "%s, allocation %ld: %ld blocks leak", ways[way].name, k, c.live);
        }
        CHECK_INT(stage, NOWHERE);
        CHECK(seen[IN_MODEL] && seen[IN_CONTEXT] && seen[IN_RECORD] && seen[IN_BACKWARD]);
        CHECK_INT(seen[IN_STEP] > 0, ways[way].training);
    }
    CHECK(!c.wrong);
}

/* A chain of a million ops, and of cells, on a thread with a small stack; under a sanitizer, which may move arrays all the time,
   a shorter one. */
#ifdef __SANITIZE_ADDRESS__
enum { LONG_CHAIN = 100000, CELL_CHAIN = 10000 };
#else
enum { LONG_CHAIN = 1000000, CELL_CHAIN = 100000 };
#endif
static fold_node long_chain(fold_ctx *f, const net *n)
{
    const float start[2] = { 0.5f, -0.25f };
    fold_node x = fold_input(f, start, 2);
    fold_keep_grad(f, x);
    for (int i = 0; i < LONG_CHAIN / 2; i++) x = fold_tanh(f, fold_scale(f, x, 1.01f));
    fold_state s = fold_recurrent_zeros(f, &n->gru);
    for (int i = 0; i < CELL_CHAIN; i++) s = fold_recurrent_apply(f, &n->gru, word(f, n, i), s);
    return fold_add(f, fold_sum(f, x, FOLD_ALL), fold_sum(f, s.h, FOLD_ALL));
}
static void *on_a_small_stack(void *user)
{
    const net *n = (const net *)user;
    for (int way = TRAINING; way <= INFERENCE; way += INFERENCE - TRAINING) {
        fold_ctx *f = context(n, way, NULL);
        const fold_node root = long_chain(f, n);
        CHECK_INT(execute(f, way, root), FOLD_OK);
        CHECK(isfinite(fold_scalar(f, root)));
        CHECK(fold_ctx_stats(f).nodes > LONG_CHAIN + CELL_CHAIN);
        CHECK(fold_ctx_stats(f).batches >= LONG_CHAIN + CELL_CHAIN);
        CHECK(fold_ctx_stats(f).lower_bound >= CELL_CHAIN + 2 * 32767 && fold_ctx_stats(f).lower_bound <= fold_ctx_stats(f).batches);
        fold_ctx_free(f);
    }
    return NULL;
}
static void small_stack(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const size_t stack = 1 << 20; /* sanitizers enlarge frames */
#else
    const size_t stack = 64 << 10;
#endif
    pthread_attr_t attributes;
    pthread_t thread;
    net n;
    CHECK(net_new(&n, NULL));
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, stack));
    if (CHECK(!pthread_create(&thread, &attributes, on_a_small_stack, &n))) pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    fold_model_free(n.m);
}

/* Values that parameters make stale are computed again where they lay, however often, in a block of the measured size. */
static void places_again(void)
{
    fold_model *m = fold_model_new(NULL);
    const fold_param p = fold_bias_new(m, "p", 100);
    char *raw = (char *)malloc((1 << 18) + 64);
    const fold_sgd sgd = { 0.1f, 0, 0 };
    size_t size = 0;
    for (int in_block = 0; in_block < 2; in_block++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.measure = !in_block;
        if (in_block) {
            d.memory.block = memset(worst_place(raw), 0x5A, size);
            d.memory.block_size = size;
        }
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node x = fold_sin(f, fold_use(f, p)), y = fold_sum(f, x, FOLD_ALL), z = fold_sum(f, fold_square(f, x), FOLD_ALL);
        fold_keep(f, x);
        for (int time = 0; time < 20; time++) {
            CHECK_SAYS(fold_backward(f, y) == FOLD_OK, "%d: %s", time, fold_ctx_message(f));
            fold_sgd_step(m, &sgd);
            CHECK_INT(fold_run(f, NULL, 0), FOLD_OK); /* nothing that was computed is valid, and nothing is asked for */
            CHECK_SAYS(fold_backward(f, z) == FOLD_OK, "%d: %s", time, fold_ctx_message(f));
            fold_sgd_step(m, &sgd);
            if (!in_block && time == 0) size = fold_ctx_stats(f).block_bytes;
        }
        CHECK_INT(fold_ctx_stats(f).block_bytes, size);
        fold_ctx_free(f);
    }
    free(raw);
    fold_model_free(m);
}

static void alignment(void)
{
    fold_node loss[SAMPLES], kept[SAMPLES];
    net n;
    CHECK(net_new(&n, NULL));
    fold_ctx *f = context(&n, TRAINING, NULL);
    record(f, &n, 0, SAMPLES, loss);
    for (int i = 0; i < SAMPLES; i++) {
        kept[i] = fold_tanh(f, word(f, &n, i));
        fold_keep(f, kept[i]);
        fold_keep_grad(f, kept[i]);
        loss[i] = fold_sum(f, kept[i], FOLD_ALL);
    }
    CHECK_INT(fold_backward(f, fold_sum_n(f, loss, SAMPLES)), FOLD_OK);
    for (int i = 0; i < SAMPLES; i++) {
        CHECK_INT((uintptr_t)fold_value(f, kept[i]) % 64, 0u);
        CHECK_INT((uintptr_t)fold_grad(f, kept[i]) % 64, 0u);
    }
    CHECK_INT((uintptr_t)fold_model_values(n.m, NULL) % 64, 0u);
    CHECK_INT((uintptr_t)fold_model_grads(n.m, NULL) % 64, 0u);
    for (int i = 0; i < fold_param_count(n.m); i++)
        CHECK_INT((uintptr_t)fold_param_value(n.m, fold_param_at(n.m, i)) % 64, 0u);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A context's own values are inputs of its own recording, however memory grows for them; a reset ends that, aloud. */
static void own_values(void)
{
    enum { N = 40, MANY = 300, BLOCK = 4 << 20 };
    fold_model *m = fold_model_new(NULL);
    for (int way = 0; way < 8; way++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        float x[N], want[N];
        d.eager = way & 1;
        d.training = way >> 1 & 1;
        void *block = way & 4 ? aligned_block(BLOCK, 64) : NULL;
        d.memory.block = block;
        d.memory.block_size = block ? BLOCK : 0;
        fold_ctx *f = fold_ctx_new(m, &d);
        for (int i = 0; i < N; i++) x[i] = (float)(i - 7) / 8;
        const fold_node in = fold_input(f, x, N);
        fold_keep_grad(f, in);
        const fold_node y = fold_square(f, in), sum = fold_sum(f, y, FOLD_ALL), roots[2] = { y, sum };
        CHECK_INT(fold_run(f, roots, 2), FOLD_OK);
        for (int i = 0; i < N; i++) want[i] = fold_value(f, y)[i];
        for (int k = 0; k < MANY; k++) {
            const fold_node again = fold_input(f, fold_value(f, y), N);
            CHECK_BITS(fold_value(f, again), want, N);
        }
        if (d.training) {
            CHECK_INT(fold_backward(f, sum), FOLD_OK);
            const fold_node slope = fold_input(f, fold_grad(f, in), N);
            CHECK_INT(fold_ctx_status(f), FOLD_OK);
            if (!fold_node_is_null(slope)) CHECK_NEAR(fold_value(f, slope)[3], 2 * x[3], 1e-6);
        }
        const float *old = fold_value(f, y);
        CHECK(fold_node_is_null(fold_input_ref(f, old, fold_shape1(N))));
        CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_ctx_message(f), "input_ref: values are this context's own, which may move; copy them with fold_input");
        for (int late = 0; late < 2; late++) { /* at once, and when the place has other values already */
            fold_ctx_reset(f);
            for (int k = 0; k < 4 * late; k++) fold_input(f, x, N);
            CHECK(fold_node_is_null(fold_input(f, old, N)));
            CHECK_INT(fold_ctx_status(f), FOLD_BAD_ARGUMENT);
            CHECK_TEXT(fold_ctx_message(f), "input: values are from before fold_ctx_reset; copy them with fold_read first");
        }
        fold_ctx_free(f);
        if (block) free_block(block);
    }
    fold_model_free(m);
}

/* Names need not outlive the call that takes them, and what holds them is given back, when a call fails too. */
static const char *one_shape(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return in[0].dim[0] == 1 ? NULL : "needs one value";
}
static void one_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++) fold_row(&c->out[0], r)[0] = 1 + fold_row(&c->in[0], r)[0];
}
static void body_of_one(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_op *op = (const fold_op *)user;
    out[0] = fold_op_apply(f, *op, in, 1, NULL, 0);
}
static int make_named(fold_model *m, fold_op *op, fold_cell *cell)
{
    char name[16];
    fold_op_desc d = fold_op_desc_default();
    snprintf(name, sizeof name, "an op");
    d.name = name;
    d.n_in = d.n_out = 1;
    d.infer = one_shape;
    d.forward = one_forward;
    *op = fold_op_new(m, &d);
    snprintf(name, sizeof name, "a cell");
    fold_cell_desc c = fold_cell_desc_default();
    c.name = name;
    c.body = body_of_one;
    c.user = op;
    c.n_in = c.n_out = 1;
    c.in[0] = fold_shape1(1);
    *cell = fold_cell_new(m, &c);
    snprintf(name, sizeof name, "a weight");
    fold_bias_new(m, name, 2);
    memset(name, 'x', sizeof name - 1);
    return !fold_model_status(m);
}
static void copied_names(void)
{
    counter c;
    fold_model_desc d = fold_model_desc_default();
    fold_op op;
    fold_cell cell;
    int good = 0;
    for (long fail_at = 1; !good && fail_at < 200; fail_at++) {
        d.memory = counted(&c);
        c.fail_at = fail_at;
        fold_model *m = fold_model_new(&d);
        good = m && make_named(m, &op, &cell);
        CHECK(good || !m || fold_model_status(m) == FOLD_NO_MEMORY);
        c.fail_at = 0;
        if (good) {
            fold_ctx *f = fold_ctx_new(m, NULL);
            const fold_node two = fold_zeros(f, fold_shape1(2)), one = fold_pick(f, two, 1);
            CHECK_TEXT(fold_param_name(m, fold_param_at(m, 0)), "a weight");
            fold_node y = fold_call(f, cell, &one, 1);
            CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
            CHECK_NEAR(fold_scalar(f, y), 1, 0);
            fold_op_apply(f, op, &two, 1, NULL, 0);
            CHECK_TEXT(fold_ctx_message(f), "an op: needs one value");
            fold_ctx_reset(f);
            fold_call(f, cell, &two, 1);
            CHECK_TEXT(fold_ctx_message(f), "a cell");
            fold_ctx_free(f);
        }
        fold_model_free(m);
        CHECK_INT(c.live, 0);
        CHECK(!c.wrong);
    }
    CHECK(good);
}

/* -- small contexts: a robot's policy, for some agents --------------------------------------------------- */

enum { OBSERVED = 16, HIDDEN = 64, ACTIONS = 10, AGENTS = 41 };
typedef struct policy { fold_model *m; fold_dense first, second, head; fold_recurrent state; fold_cell cell; } policy;
static float observed[AGENTS][OBSERVED], remembered[AGENTS][HIDDEN];

static void act(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const policy *p = (const policy *)user;
    const fold_state before = { in[1], FOLD_NULL_NODE };
    const fold_node x = fold_dense_apply(f, &p->second, fold_dense_apply(f, &p->first, in[0]));
    out[1] = fold_recurrent_apply(f, &p->state, x, before).h;
    out[0] = fold_dense_apply(f, &p->head, out[1]);
}

static int policy_new(policy *p, const char *isa) /* 0: this machine lacks these kernels */
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    desc.isa = isa;
    fold_model *m = p->m = fold_model_new(&desc);
    if (fold_model_status(m)) return fold_model_free(m), 0;
    p->first = fold_dense_new(m, "first", OBSERVED, HIDDEN, FOLD_ACT_RELU);
    p->second = fold_dense_new(m, "second", HIDDEN, HIDDEN, FOLD_ACT_RELU);
    p->state = fold_gru_new(m, "state", HIDDEN, HIDDEN);
    p->head = fold_dense_new(m, "head", HIDDEN, ACTIONS, FOLD_ACT_LINEAR);
    fold_cell_desc cell = fold_cell_desc_default();
    cell.name = "policy";
    cell.body = act;
    cell.user = p;
    cell.n_in = cell.n_out = 2;
    cell.in[0] = fold_shape1(OBSERVED);
    cell.in[1] = fold_shape1(HIDDEN);
    p->cell = fold_cell_new(m, &cell);
    return 1;
}

/* Steps of so many agents one after the other, so that the later ones have a prologue: their actions. */
static fold_stats policy_steps(const policy *p, const fold_ctx_desc *desc, int agents, int steps, float *got)
{
    fold_node action[AGENTS];
    fold_ctx *f = fold_ctx_new(p->m, desc);
    for (int agent = 0; agent < agents; agent++) {
        fold_node in[2] = { FOLD_NULL_NODE, fold_input_ref(f, remembered[agent], fold_shape1(HIDDEN)) };
        for (int step = 0; step < steps; step++) {
            in[0] = fold_input_ref(f, observed[(agent + step) % AGENTS], fold_shape1(OBSERVED));
            const fold_node call = fold_call(f, p->cell, in, 2);
            in[1] = fold_out(f, call, 1);
            action[agent] = fold_out(f, call, 0);
        }
    }
    for (int again = 0; again < 3; again++) { /* the third time in turns that were kept */
        CHECK_SAYS((again ? fold_replay(f) : fold_run(f, action, agents)) == FOLD_OK, "%s", fold_ctx_message(f));
        CHECK_INT(fold_read(f, action, (size_t)agents, got), FOLD_OK);
    }
    const fold_stats stats = fold_ctx_stats(f);
    fold_ctx_free(f);
    return stats;
}

static void one_after_the_other(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    for (int i = 0; i < n; i++) task(i, user);
}

static void many_scales(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = in[0];
    for (int i = 0; i < *(const int *)user; i++) out[0] = fold_scale(f, fold_tanh(f, out[0]), (float)(i + 1));
}
/* Makes cells of up to nine scales, traced in a block. Returns how many. */
static int traced_cells(int first, int end, size_t bytes)
{
    int made = 0;
    fold_model_desc d = fold_model_desc_default();
    void *block = aligned_block(bytes, 64);
    d.tracing.block = block;
    d.tracing.block_size = bytes;
    fold_model *m = fold_model_new(&d);
    for (int i = first; i < end; i++) {
        char name[16];
        const int scales = 3 + i % 7;
        fold_cell_desc cell = fold_cell_desc_default();
        snprintf(name, sizeof name, "cell%d", i);
        cell.name = name;
        cell.body = many_scales;
        cell.user = &scales;
        cell.user_size = sizeof scales;
        cell.n_in = cell.n_out = 1;
        cell.in[0] = fold_shape1(4 + i);
        made += fold_cell_new(m, &cell).id != 0;
    }
    fold_model_free(m);
    free_block(block);
    return made;
}
/* A block in which the largest body can be traced is enough for any number of bodies: each drops what those before it used.
   Smaller blocks of all sizes give errors, and nothing is written outside them. */
static void traced_in_block(void)
{
    size_t bytes = 1024;
    while (bytes < 65536 && !traced_cells(6, 7, bytes)) bytes += 64;
    CHECK_SAYS(bytes < 65536, "%zu bytes", bytes);
    CHECK_INT(traced_cells(0, 60, bytes + 64), 60);
}

/* Scratch grows with the rows of a batch and no further than group_bytes tells: then batches run in parts, to
   the same bits. Every set of kernels keeps to the limits, since a machine has some and another machine others. */
static void small_contexts(void)
{
    static const struct { int agents; size_t group_bytes; int large, small; } limits[] = { /* of 8 and of 4 bytes a pointer */
        { 1, 0, 37500, 28000 }, { 1, 4096, 35000, 25000 }, { 40, 16384, 110000, 110000 },
    };
    for (int i = 0; i < AGENTS * OBSERVED; i++) observed[i / OBSERVED][i % OBSERVED] = (float)(i % 19 - 9) / 8;
    for (int i = 0; i < AGENTS * HIDDEN; i++) remembered[i / HIDDEN][i % HIDDEN] = (float)(i % 23 - 11) / 12;
    skip_missing_kernel_sets();
    for (int set = 0; set < KERNEL_SETS; set++) {
        policy p;
        if (!policy_new(&p, kernel_set[set])) continue;
        for (int at = 0; at < 3; at++) {
            float got[AGENTS * ACTIONS];
            fold_ctx_desc d = fold_ctx_desc_default();
            d.group_bytes = limits[at].group_bytes;
            const size_t bytes = policy_steps(&p, &d, limits[at].agents, 1, got).block_bytes;
            const size_t most = (size_t)(sizeof(void *) > 4 ? limits[at].large : limits[at].small);
            CHECK_SAYS(bytes <= most, "%s, %d agents: %zu bytes", kernel_set[set], limits[at].agents, bytes);
        }
        for (int steps = 1; steps < 4; steps += 2) {
            static const size_t groups[] = { SIZE_MAX, 0, 16384, 1 };
            float want[AGENTS * ACTIONS], got[AGENTS * ACTIONS];
            fold_stats whole = { 0 };
            fold_ctx_desc d = fold_ctx_desc_default();
            d.eager = 1;
            policy_steps(&p, &d, AGENTS, steps, want);
            d.eager = 0;
            for (int way = 0; way < 8; way++) {
                d.group_bytes = groups[way / 2];
                d.threads = way % 2 ? 2 : 1;
                d.parallel_for = one_after_the_other;
                const fold_stats stats = policy_steps(&p, &d, AGENTS, steps, got);
                CHECK_SAYS(!memcmp(want, got, sizeof got), "%d steps, way %d: other bits than eager", steps, way);
                if (!way) whole = stats;
                if (way == 4 && steps == 1) {
                    const int calls = whole.kernel_calls / whole.batches, in_parts = stats.kernel_calls / stats.batches;
                    CHECK_SAYS(in_parts >= 2 * calls, "%d steps: %d calls of kernels a batch, %d in parts", steps, calls, in_parts);
                }
            }
        }
        fold_model_free(p.m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("memory: the peak of what grows", peak_of_growth);
    check_run("memory: no allocation after warm-up", no_allocation);
    check_run("memory: a block of the measured size", fixed_block);
    check_run("memory: what batches took is kept in a block", kept_costs);
    check_run("memory: many parameters in a block of the measured size", many_parameters);
    check_run("memory: merged calls in a block of the measured size", merged_in_block);
    check_run("memory: gradients that are not clear", unclear_gradients);
    check_run("memory: blocks of any size", any_block);
    check_run("memory: recordings in turn in a block", blocks_in_turn);
    check_run("memory: shapes in turn in a block", shapes_in_turn);
    check_run("memory: how many bytes are needed", told_what_is_needed);
    check_run("memory: each allocation fails", each_allocation_fails);
    check_run("memory: a million nodes on a small stack", small_stack);
    check_run("memory: places again", places_again);
    check_run("memory: alignment", alignment);
    check_run("memory: names are copied", copied_names);
    check_run("memory: own values as inputs", own_values);
    check_run("memory: small contexts", small_contexts);
    check_run("memory: cells traced in a block", traced_in_block);
    return check_finish();
}
