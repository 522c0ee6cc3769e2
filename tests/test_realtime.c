/* test_realtime.c - no surprise in real time: once frames as large were seen, a frame allocates nothing, takes no lock, makes no system call,
   and nothing grows, in recording, running, replaying, slices of time, reading and optimisers' steps. Each way of running
   is a process of its own, in which the kernel stops what calls it. With a pool of threads there are its lock and its two
   conditions, `wake` and `done`, and of system calls futex, on these alone. Other locks do not even compile.
   A replay runs by a list of calls, which is looked at here, too.
       cc -O2 -o test_realtime tests/test_realtime.c -lm -lpthread */

#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

/* Locks are counted, by what they are in the pool. */
static int counted_lock(pthread_mutex_t *lock);
static int counted_unlock(pthread_mutex_t *lock);
static int counted_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
static int counted_signal(pthread_cond_t *condition);
static int counted_broadcast(pthread_cond_t *condition);
#define pthread_mutex_lock(lock) counted_lock(lock)
#define pthread_mutex_unlock(lock) counted_unlock(lock)
#define pthread_cond_wait(condition, lock) counted_wait(condition, lock)
#define pthread_cond_signal(condition) counted_signal(condition)
#define pthread_cond_broadcast(condition) counted_broadcast(condition)
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC poison pthread_mutex_trylock pthread_mutex_timedlock pthread_cond_timedwait pthread_rwlock_rdlock
#pragma GCC poison pthread_rwlock_wrlock pthread_spin_lock pthread_barrier_wait sem_wait sem_post sem_timedwait mtx_lock
#endif

#define FOLD_USE_THREADS
#define FOLD__SHARED_WORK 500 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#undef pthread_mutex_lock
#undef pthread_mutex_unlock
#undef pthread_cond_wait
#undef pthread_cond_signal
#undef pthread_cond_broadcast
#include "check.h"
#include "count_malloc.h"
#if defined(__linux__)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

/* -- what is counted, in memory that both processes see -------------------------------------------------- */

typedef struct report {
    char doing[40];      /* the part of a frame */
    int why_not;         /* errno: there is no such filter here */
    int system_call;     /* the first that is none of the pool's, and the part that made it; 0: none */
    char in[40];
    long locks, strange_locks; /* of the pool's; others */
    long mallocs, allocated, bytes; /* calls; of the allocator given; by which a context or the model grew */
    int failed, frames;
    long batches;        /* that it did something */
    char text[300];      /* why a frame failed */
} report;
static report *seen;
static fold_pool *the_pool;

static void count(long *what) { __atomic_add_fetch(what, 1, __ATOMIC_RELAXED); }
static void count_lock(int is_of_pool)
{
    if (seen) count(is_of_pool ? &seen->locks : &seen->strange_locks);
}
static int counted_lock(pthread_mutex_t *lock)
{
    count_lock(the_pool && lock == &the_pool->lock);
    return pthread_mutex_lock(lock);
}
static int counted_unlock(pthread_mutex_t *lock) { return pthread_mutex_unlock(lock); }
static int counted_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
    count_lock(the_pool && lock == &the_pool->lock && (condition == &the_pool->wake || condition == &the_pool->done));
    return pthread_cond_wait(condition, lock);
}
static int counted_signal(pthread_cond_t *condition)
{
    count_lock(the_pool && condition == &the_pool->done);
    return pthread_cond_signal(condition);
}
static int counted_broadcast(pthread_cond_t *condition)
{
    count_lock(the_pool && condition == &the_pool->wake);
    return pthread_cond_broadcast(condition);
}

static void *counted_alloc(size_t size, size_t align, void *user)
{
    (void)user;
    if (seen) count(&seen->allocated);
    return aligned_block(size, align);
}
static void counted_free(void *block, size_t size, void *user)
{
    (void)size;
    (void)user;
    if (seen) count(&seen->allocated);
    free_block(block);
}
static uint64_t tick(void *user) /* a clock that asks nobody */
{
    return __atomic_add_fetch((uint64_t *)user, 200, __ATOMIC_RELAXED);
}

/* -- a model, and what a frame reads ---------------------------------------------------------------------- */

enum { H = 8, WORDS = 30, CLASSES = 4, AGENTS = 12, ROWS = 7, KINDS = 5, CACHED = 24, WARM = 3 * KINDS, FRAMES = 3 * KINDS };

typedef struct net {
    fold_model *m, *average;
    fold_param words, V, v, gain;
    fold_recurrent gru;
    fold_tree_lstm tree;
    fold_transformer block;
    fold_cell near;
    fold_op half;
} net;
typedef struct world {
    float sensors[AGENTS][H], memory[AGENTS][H], points[ROWS][H], actions[AGENTS][CLASSES];
    int word[AGENTS], rows[ROWS], from[ROWS], to[ROWS], label[ROWS];
    fold_cache cache[AGENTS];
    fold_node action[AGENTS], loss, root;
} world;

/* An agent, and neighbours: attention to them, and the mean of what they say. */
static void near_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node said = fold_tanh(f, fold_mul(f, in[1], fold_use(f, n->gain)));
    out[0] = fold_add(f, fold_list_softmax_mean(f, fold_dot(f, in[0], said), in[1]), fold_list_mean(f, said));
}
static const char *half_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static void half(const fold_rows *x, const fold_rows *y, const fold_op_call *c)
{
    for (int r = 0; r < c->rows && fold_row(y, r); r++)
        for (int i = 0; i < c->in_shape[0].dim[0]; i++) fold_row(y, r)[i] = 0.5f * fold_row(x, r)[i];
}
static void half_forward(const fold_op_call *c) { half(c->in, c->out, c); }
static void half_backward(const fold_op_call *c) { half(c->dout, c->din, c); }

static fold_model *model_new(net *n)
{
    fold_model_desc d = fold_model_desc_default();
    fold_cell_desc cell = fold_cell_desc_default();
    fold_op_desc op = fold_op_desc_default();
    fold_transformer_desc block = fold_transformer_desc_default();
    d.memory.alloc = counted_alloc;
    d.memory.free = counted_free;
    fold_model *m = fold_model_new(&d);
    n->words = fold_table_new(m, "words", WORDS, H);
    n->V = fold_weight_new(m, "V", H, CLASSES);
    n->v = fold_bias_new(m, "v", CLASSES);
    n->gain = fold_gain_new(m, "gain", H);
    n->gru = fold_gru_new(m, "gru", H, H);
    n->tree = fold_tree_lstm_new(m, "tree", H, H, 2);
    block.width = H;
    block.heads = 2;
    block.dropout = 0.1f;
    n->block = fold_transformer_new(m, "block", &block);
    cell.name = "near";
    cell.body = near_body;
    cell.user = n;
    cell.n_in = cell.n_list = cell.n_out = 1;
    cell.in[0] = cell.list[0] = fold_shape1(H);
    n->near = fold_cell_new(m, &cell);
    op.name = "half";
    op.n_in = op.n_out = 1;
    op.infer = half_infer;
    op.forward = half_forward;
    op.backward = half_backward;
    n->half = fold_op_new(m, &op);
    return m;
}

static void caches_new(world *w)
{
    for (int i = 0; i < AGENTS; i++) {
        w->cache[i].capacity = CACHED;
        w->cache[i].heads = 2;
        w->cache[i].width = H;
        w->cache[i].memory = (float *)malloc(fold_cache_bytes(&w->cache[i]));
    }
}
static void world_at(world *w, int frame)
{
    for (int i = 0; i < AGENTS; i++) {
        for (int k = 0; k < H; k++) w->sensors[i][k] = 0.1f * (float)((i * 7 + k * 3 + frame * 5) % 13 - 6);
        w->word[i] = (3 * i + 7 * frame) % WORDS;
    }
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < H; k++) w->points[i][k] = 0.2f * (float)((i + k * frame) % 7 - 3);
        w->rows[i] = (5 * i + frame) % WORDS;
        w->label[i] = (2 * i + frame) % CLASSES;
    }
}

/* -- a frame ------------------------------------------------------------------------------------------------ */

static const struct { const char *name; int training, eager, dedupe, schedule, pool, block; size_t group_bytes, plans, trace; } ways[] = {
    { "inference", 0, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "inference in a block", 0, 0, 0, 0, 0, 1, 4096, 0, 0 },
    { "kept plans", 0, 0, 0, 0, 0, 0, 0, 1 << 18, 0 },
    { "a trace", 0, 0, 0, FOLD_SCHEDULE_AGENDA, 0, 0, 0, 0, 1 << 16 },
    { "eager", 0, 1, 0, 0, 0, 0, 0, 0, 0 },
    { "training", 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "training in a block", 1, 0, 0, FOLD_SCHEDULE_DEPTH, 0, 1, SIZE_MAX, 1 << 18, 0 },
    { "merging", 1, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "eager training", 1, 1, 0, 0, 0, 0, 0, 0, 0 },
    { "a pool", 0, 0, 0, 0, 3, 0, 1, 0, 0 },
    { "training on a pool", 1, 0, 0, 0, 3, 0, 1, 0, 1 << 16 },
};
enum { WAYS = sizeof ways / sizeof *ways };

static void now(const char *part) { snprintf(seen->doing, sizeof seen->doing, "%s", part); }
static void must(const fold_ctx *f, fold_status status)
{
    if (!status || seen->failed) return;
    seen->failed = 1;
    snprintf(seen->text, sizeof seen->text, "%s: %s: %s", seen->doing, fold_status_text(status), fold_ctx_message(f));
}

/* Lists of `rows` rows, of none in some frames: looked up, taken, joined, attended to, sent to others. */
static fold_node record_lists(fold_ctx *f, const net *n, world *w, int rows, int training)
{
    for (int k = 0; k < rows; k++) w->from[k] = (k + 1) % rows, w->to[k] = (2 * k) % rows;
    const fold_node looked_up = fold_list_lookup(f, n->words, w->rows, rows);
    const fold_node points = fold_list_input_ref(f, w->points[0], rows, fold_shape1(H));
    const fold_node x = fold_transformer_apply(f, &n->block, fold_add(f, looked_up, points), 1);
    const fold_node taken = fold_list_take(f, x, w->from, rows);
    const fold_node seen_by = fold_list_attention_to(f, taken, x, x, 2, w->from, w->to, rows);
    fold_node both[2];
    both[0] = fold_list_max_to(f, seen_by, w->to, rows, rows);
    both[1] = fold_sum(f, fold_list_sum(f, fold_list_sum_to(f, taken, w->to, rows, rows)), FOLD_ALL);
    const fold_node scores = fold_linear(f, fold_list_attention(f, both[0], x, x, 1, 0), n->V, n->v);
    const fold_node losses = training ? fold_softmax_xent_each(f, scores, w->label, rows) : fold_pick_each(f, scores, w->label, rows);
    return fold_add(f, fold_list_sum(f, losses), both[1]);
}

static fold_node record_agent(fold_ctx *f, const net *n, world *w, int i, int frame, int way)
{
    const int training = ways[way].training;
    const fold_node word = fold_lookup(f, n->words, w->word[i]), sensed = fold_input_ref(f, w->sensors[i], fold_shape1(H));
    const fold_state before = { fold_input_ref(f, w->memory[i], fold_shape1(H)), FOLD_NULL_NODE };
    fold_node x = fold_op_apply(f, n->half, &sensed, 1, NULL, 0), near;
    fold_state child[2];
    fold_dropout_seed(f, (uint64_t)i);
    if (!ways[way].dedupe) fold_index_ref(f, word, &w->word[i], 1);
    x = fold_dropout(f, fold_add(f, x, word), 0.25f);
    child[0] = fold_tree_lstm_apply_leaf(f, &n->tree, x);
    child[1] = fold_tree_lstm_apply_leaf(f, &n->tree, word);
    for (int k = (i + frame) % KINDS; k > 0; k--) child[0] = fold_tree_lstm_apply_inner(f, &n->tree, child);
    const fold_state after = fold_recurrent_apply(f, &n->gru, child[0].h, before);
    fold_output_ref(f, after.h, w->memory[i]);
    near = fold_list_input(f, w->points[0], (i + frame) % ROWS, fold_shape1(H)); /* some have none */
    near = fold_out(f, fold_call_list(f, n->near, &after.h, 1, &near), 0);
    if (!training) {
        if (w->cache[i].length + 3 > CACHED) must(f, fold_cache_truncate(&w->cache[i], i % 3));
        near = fold_attention_step(f, &w->cache[i], near, x, after.h);
    }
    return fold_linear(f, near, n->V, n->v);
}

static void record(fold_ctx *f, const net *n, world *w, int frame, int way)
{
    const int training = ways[way].training;
    fold_node losses[AGENTS + 2];
    now("reset and record");
    fold_ctx_reset(f);
    const int agents = AGENTS - frame % KINDS, rows = frame % KINDS ? frame % KINDS + 2 : 0;
    losses[0] = record_lists(f, n, w, rows, training); /* of no rows it is the first of its frame */
    for (int i = 0; i < agents; i++) {
        w->action[i] = record_agent(f, n, w, i, frame, way);
        fold_keep(f, w->action[i]);
        if (training) fold_keep_grad(f, w->action[i]);
        losses[i + 1] = training ? fold_softmax_xent(f, w->action[i], (i + frame) % CLASSES) : fold_sum(f, w->action[i], FOLD_ALL);
    }
    w->root = fold_mean_n(f, losses, agents + 1);
    must(f, fold_ctx_status(f));
}

static void in_slices(fold_ctx *f, const char *part, fold_status begun)
{
    int more = 1;
    now(part);
    for (int turn = 0; more && !begun; turn++) {
        begun = fold_run_more(f, turn < 1000 ? 1000 : 0, &more);
        (void)fold_estimate_ns(f);
    }
    must(f, begun);
}

static void run(fold_ctx *f, world *w, int training, int slices)
{
    now("run");
    if (!slices) must(f, training ? fold_backward(f, w->root) : fold_run(f, &w->root, 1));
    else if (training) in_slices(f, "backward in slices", fold_backward_begin(f, w->root));
    else in_slices(f, "run in slices", fold_run_begin(f, &w->root, 1));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < AGENTS; k++) w->word[k] = (w->word[k] + 1) % WORDS;
        now("replay");
        must(f, fold_replay(f));
    }
    now("begin a replay");
    in_slices(f, "replay in slices", fold_replay_begin(f));
}

static void read_results(fold_ctx *f, world *w, int frame, int training)
{
    fold_random r = fold_random_new(1, (uint64_t)frame);
    const int agents = AGENTS - frame % KINDS;
    int best[2];
    now("read and choose");
    must(f, fold_read(f, w->action, agents, w->actions[0]));
    seen->batches += fold_ctx_stats(f).batches + fold_ctx_stats(f).run_nodes;
    for (int i = 0; i < agents; i++) {
        const float *scores = fold_value(f, w->action[i]);
        if (!scores || (training && !fold_grad(f, w->action[i]))) must(f, FOLD_BAD_STATE);
        w->word[i] = fold_argmax(scores, CLASSES) + fold_random_softmax(&r, scores, CLASSES);
        fold_top_k(scores, CLASSES, 2, best);
    }
    if (!(fold_scalar(f, w->root) > -1e9f)) must(f, FOLD_BAD_STATE);
}

static void step(const net *n, int frame)
{
    const fold_adam adam = fold_adam_default();
    int rows[WORDS];
    now("step");
    fold_grads_rows(n->m, n->words, WORDS, rows);
    fold_grads_clip(n->m, 1.0f);
    if (frame % 4 == 3) fold_grads_clear(n->m);
    fold_adam_step(n->m, &adam);
    fold_values_average(n->average, n->m, 0.1f);
}

static void frame(fold_ctx *f, const net *n, world *w, int at, int way)
{
    world_at(w, at);
    record(f, n, w, at, way);
    run(f, w, ways[way].training, at / KINDS % 2);
    read_results(f, w, at, ways[way].training);
    if (ways[way].training) step(n, at);
    seen->frames++;
}

/* -- one way of running, in a process of its own -------------------------------------------------------------- */

static long held(const fold_ctx *f, const fold_model *m)
{
    const fold_model_size s = fold_model_measure(m);
    return (long)(fold_ctx_stats(f).peak_bytes + s.values + s.grads + s.packs + s.state + s.state2 + s.params + s.marks + s.cells);
}

#if defined(__linux__) && defined(SECCOMP_RET_TRAP) && defined(SECCOMP_FILTER_FLAG_TSYNC)
static void stopped(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    seen->system_call = info->si_syscall;
    memcpy(seen->in, seen->doing, sizeof seen->in);
    syscall(SYS_exit_group, 0); /* sanitizers' _exit makes other calls */
}

/* From here on the process may end, and nothing else; with a pool it may ask for its number, which tells a fork and never
   waits, and its threads may wait for each other at addresses inside the pool, whose upper halves are equal. Returns an
   errno. */
static int filter_system_calls(void)
{
    const uint32_t upper = (uint32_t)((uint64_t)(uintptr_t)the_pool >> 32), lower = (uint32_t)(uintptr_t)the_pool;
    const uint32_t end = lower + (the_pool ? (uint32_t)sizeof *the_pool : 0);
    const uint32_t at = offsetof(struct seccomp_data, args[0]), little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 8, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4 * little),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, upper, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4 - 4 * little),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, lower, 0, 1),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, end, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = stopped;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? errno : 0;
}
#else
static int filter_system_calls(void) { return 1; }
#endif

/* A block that is large; what is used of it is what a context measures. */
static fold_ctx *context(fold_model *m, int way, uint64_t *clock)
{
    enum { BLOCK = 1 << 23 };
    static char block[BLOCK];
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = ways[way].training;
    d.eager = ways[way].eager;
    d.dedupe = ways[way].dedupe;
    d.schedule = (fold_schedule)ways[way].schedule;
    d.group_bytes = ways[way].group_bytes;
    d.plan_cache_bytes = ways[way].plans;
    d.trace_bytes = ways[way].trace;
    d.clock = tick;
    d.clock_user = clock;
    d.threads = ways[way].pool;
    d.parallel_for = fold_pool_for;
    d.pool = the_pool;
    if (ways[way].block) {
        d.memory.block = block;
        d.memory.block_size = sizeof block;
    }
    return fold_ctx_new(m, &d);
}

static void in_a_process(int way)
{
    static world w;
    uint64_t clock = 1;
    net n;
    n.average = model_new(&n);
    n.m = model_new(&n);
    if (ways[way].pool) the_pool = fold_pool_new(ways[way].pool);
    fold_ctx *f = context(n.m, way, &clock);
    caches_new(&w);
    for (int at = 0; at < WARM; at++) frame(f, &n, &w, at, way);
    const long bytes = held(f, n.m), mallocs = malloc_calls();
    seen->locks = seen->strange_locks = seen->allocated = seen->frames = 0;
    seen->why_not = filter_system_calls();
    for (int at = 0; at < FRAMES && !seen->failed; at++) frame(f, &n, &w, at, way);
    seen->mallocs = malloc_calls() - mallocs;
    seen->bytes = held(f, n.m) - bytes;
}

/* -- the tests -------------------------------------------------------------------------------------------------- */

static void check_way(int way)
{
    const char *name = ways[way].name;
    CHECK_SAYS(!seen->failed, "%s: %s", name, seen->text);
    CHECK_SAYS(!seen->system_call, "%s: system call %d in '%s'", name, seen->system_call, seen->in);
    CHECK_SAYS(seen->frames == FRAMES, "%s: it ended in frame %d, in '%s'", name, seen->frames, seen->doing);
    CHECK_SAYS(!seen->mallocs, "%s: %ld calls of malloc or free", name, seen->mallocs);
    CHECK_SAYS(!seen->allocated, "%s: %ld calls of the allocator", name, seen->allocated);
    CHECK_SAYS(!seen->bytes, "%s: it grew by %ld bytes", name, seen->bytes);
    CHECK_SAYS(!seen->strange_locks, "%s: %ld locks that are not the pool's", name, seen->strange_locks);
    CHECK_SAYS(!seen->locks == !ways[way].pool, "%s: %ld locks", name, seen->locks);
    CHECK_SAYS(ways[way].eager || seen->batches > 100 * FRAMES, "%s: only %ld batches", name, seen->batches);
}

static void frames_have_no_surprise(void)
{
#if defined(__linux__)
    int why_not = 0;
    for (int way = 0; way < WAYS; way++) {
        void *shared = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (!CHECK(shared != MAP_FAILED)) return;
        seen = (report *)shared;
        fflush(stdout);
        const pid_t child = fork();
        if (!child) {
            in_a_process(way);
            syscall(SYS_exit_group, 0);
        }
        int ended = 0;
        waitpid(child, &ended, 0);
        CHECK_SAYS(WIFEXITED(ended), "%s: it crashed in '%s'", ways[way].name, seen->doing);
        check_way(way);
        why_not = seen->why_not ? seen->why_not : why_not;
        munmap(shared, sizeof *seen);
        seen = NULL;
    }
    if (why_not) check_skip("no system calls in a frame (no filter of them: %s)", strerror(why_not));
    if (!OWN_MALLOC) check_skip("no calls of malloc in a frame (malloc is not ours here)");
#else
    check_skip("no surprise in a frame (it takes processes of Linux)");
#endif
}

static void change_weight(fold_model *m, fold_param param, float by)
{
    fold_values_write_begin(m, param)[0] += by;
    fold_values_write_end(m, param);
}

/* A replay on one thread runs by a list of kernel calls that an earlier one wrote down, with the bits of recordings made anew.
   The list is in memory that replays have had since the first one. Changed weights are read. */
static void list_of_calls(void)
{
    enum { STEPS = 8, WIDTH = 24, LISTED = 0, TRACED, ON_THREADS, KINDS };
    float in[STEPS][WIDTH], want[STEPS][WIDTH];
    fold_random r = fold_random_new(3, 0);
    fold_random_gaussian(&r, NULL, NULL, STEPS * WIDTH, &in[0][0]);
    for (int way = 0; way < KINDS; way++) {
        fold_model *m = fold_model_new(NULL);
        const fold_recurrent layer = fold_lstm_new(m, "lstm", WIDTH, WIDTH);
        fold_ctx_desc desc = fold_ctx_desc_default();
        if (way == TRACED) desc.trace_bytes = 4096;
        if (way == TRACED) desc.clock = fold_clock_monotonic;
        if (way == ON_THREADS) desc.threads = 2;
        if (way == ON_THREADS) desc.parallel_for = fold_pool_for; /* without a pool: one after the other */
        for (int replayed = 0; replayed < 2; replayed++) {
            float x[WIDTH], h[WIDTH] = { 0 }, c[WIDTH] = { 0 };
            size_t bytes = 0;
            fold_ctx *f = fold_ctx_new(m, &desc);
            for (int step = 0; step < STEPS; step++) {
                memcpy(x, in[step], sizeof x);
                if (step == 4) change_weight(m, fold_param_find(m, "lstm.W"), 1.0f);
                if (!step || !replayed) {
                    fold_ctx_reset(f);
                    fold_state state = { fold_input_ref(f, h, fold_shape1(WIDTH)), fold_input_ref(f, c, fold_shape1(WIDTH)) };
                    state = fold_recurrent_apply(f, &layer, fold_input_ref(f, x, fold_shape1(WIDTH)), state);
                    fold_output_ref(f, state.h, h);
                    fold_output_ref(f, state.c, c);
                    CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
                } else CHECK_INT(fold_replay(f), FOLD_OK);
                if (step == 2) bytes = fold_ctx_stats(f).bytes;
                if (!replayed) memcpy(want[step], h, sizeof h);
                CHECK_SAYS(!memcmp(want[step], h, sizeof h), "way %d, step %d: other bits than recorded anew", way, step);
#ifndef FOLD__MOVE_ARRAYS /* there each replay may find that something has moved */
                if (replayed && step == 3) CHECK_INT(f->run->commands.first != NULL, way == LISTED);
                if (replayed && step > 2) CHECK_INT(fold_ctx_stats(f).bytes, bytes);
#endif
            }
            change_weight(m, fold_param_find(m, "lstm.W"), -1.0f);
            fold_ctx_free(f);
        }
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("realtime: frames have no surprise", frames_have_no_surprise);
    check_run("realtime: a replay's list of calls", list_of_calls);
    return check_finish();
}
