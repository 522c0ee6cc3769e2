/* test_threads.c - many threads read one model at once, each with contexts of its own, and all get the bits that one
   thread alone gets; a pool of threads trains to the bits of one. Meant to be run under -fsanitize=thread as well.
       cc -O2 -o test_threads tests/test_threads.c -lm -lpthread && ./test_threads */
#define FOLD_USE_THREADS
#define FOLD__SHARED_WORK 4000 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <time.h>
#include "check.h"
#include <pthread.h>

enum { READERS = 4, SETS = 6, SAMPLES = 12, IN = 20, H = 24, WORDS = 50, CLASSES = 7, ROUNDS = 3 };
enum { SIZE = SAMPLES * CLASSES };

typedef struct net {
    fold_model *m;
    fold_param words;
    fold_tree_lstm tree;
    fold_recurrent gru;
    fold_mlp head;
} net;

/* isa: the kernels; NULL: the best. The sanitizer sees all that plain C ("portable") reads and writes. */
static net new_net(const char *isa)
{
    static const int sizes[] = { 2 * H, 40, CLASSES };
    fold_model_desc d = fold_model_desc_default();
    net n;
    d.isa = isa;
    n.m = fold_model_new(&d);
    n.words = fold_table_new(n.m, "words", WORDS, IN);
    n.tree = fold_tree_lstm_new(n.m, "tree", IN, H, 2);
    n.gru = fold_gru_new(n.m, "gru", IN, H);
    n.head = fold_mlp_new(n.m, "head", sizes, 2, FOLD_ACT_TANH);
    CHECK_SAYS(!fold_model_status(n.m), "%s", fold_model_message(n.m));
    return n;
}

static fold_state tree(fold_ctx *f, const net *n, check_random *r, int depth)
{
    fold_state child[2];
    if (!depth || random_below(r, 4) == 0)
        return fold_tree_lstm_apply_leaf(f, &n->tree, fold_lookup(f, n->words, random_below(r, WORDS)));
    child[0] = tree(f, n, r, depth - 1);
    child[1] = tree(f, n, r, depth - 1);
    return fold_tree_lstm_apply_inner(f, &n->tree, child);
}

/* One set of samples: a tree and a sequence each, of random sizes; their scores, or losses when training. */
static void record(fold_ctx *f, const net *n, int set, int training, fold_node *out)
{
    check_random r = { (uint64_t)set };
    for (int i = 0; i < SAMPLES; i++) {
        const fold_node top = tree(f, n, &r, i % 5).h;
        fold_state s = fold_recurrent_zeros(f, &n->gru);
        for (int t = random_below(&r, 6); t > 0; t--) {
            const fold_node x = fold_lookup(f, n->words, random_below(&r, WORDS));
            s = fold_recurrent_apply(f, &n->gru, x, s);
        }
        out[i] = fold_mlp_apply(f, &n->head, fold_concat2(f, top, s.h));
        if (training) out[i] = fold_softmax_xent(f, out[i], i % CLASSES);
    }
}

static int compute(fold_ctx *f, const net *n, int set, float *values)
{
    fold_node out[SAMPLES];
    fold_ctx_reset(f);
    record(f, n, set, 0, out);
    return !fold_run(f, out, SAMPLES) && !fold_read(f, out, SAMPLES, values);
}

/* What a thread does: makes contexts of several kinds, and compares all sets with what one thread alone had. */
typedef struct reader {
    const net *n;
    float (*want)[SIZE];
    int id, done, different, failed;
} reader;

static void *read_model(void *user)
{
    reader *r = (reader *)user;
    fold_ctx_desc d = fold_ctx_desc_default();
    float got[SIZE];
    for (int round = 0; round < ROUNDS; round++) {
        const int kind = (r->id + round) % 4;
        d.eager = kind == 1;
        d.dedupe = kind == 2;
        d.plan_cache_bytes = kind == 3 ? 1u << 20 : 0;
        d.schedule = (fold_schedule)(r->id % FOLD_SCHEDULE_COUNT);
        fold_ctx *f = fold_ctx_new(r->n->m, &d);
        for (int k = 0; k < 2 * SETS; k++) {
            const int set = (k + r->id) % SETS;
            if (!compute(f, r->n, set, got)) r->failed++;
            else if (memcmp(got, r->want[set], sizeof got)) r->different++;
            r->done++;
        }
        fold_ctx_free(f);
    }
    return NULL;
}

static void readers(const net *n)
{
    static float want[SETS][SIZE];
    pthread_t thread[READERS];
    reader r[READERS];
    fold_ctx *f = fold_ctx_new(n->m, NULL);
    for (int set = 0; set < SETS; set++) CHECK(compute(f, n, set, want[set]));
    for (int i = 0; i < READERS; i++) {
        memset(&r[i], 0, sizeof r[i]);
        r[i].n = n;
        r[i].want = want;
        r[i].id = i;
        if (!CHECK(!pthread_create(&thread[i], NULL, read_model, &r[i]))) return;
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(thread[i], NULL);
        CHECK_INT(r[i].done, ROUNDS * 2 * SETS);
        CHECK_INT(r[i].failed, 0);
        CHECK_INT(r[i].different, 0);
    }
    fold_ctx_free(f);
}

static fold_status train(const net *n, fold_ctx *f, int set, int samples)
{
    const fold_adam adam = fold_adam_default();
    fold_node loss[SAMPLES];
    fold_ctx_reset(f);
    record(f, n, set, 1, loss);
    const fold_status status = fold_backward(f, fold_mean_n(f, loss, samples));
    return status ? status : fold_adam_step(n->m, &adam);
}

/* The model is written by one thread between the times it is read by many. */
static void test_readers(void)
{
    net n = new_net(NULL);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    for (int turn = 0; turn < 3; turn++) {
        readers(&n);
        CHECK_INT(train(&n, f, turn, SAMPLES), FOLD_OK);
    }
    readers(&n);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Models of their own, trained side by side, share nothing. */
static void *train_alone(void *user)
{
    const net *n = (const net *)user;
    fold_ctx_desc d = fold_ctx_desc_default();
    fold_status status = FOLD_OK;
    d.training = 1;
    fold_ctx *f = fold_ctx_new(n->m, &d);
    for (int set = 0; set < SETS && !status; set++) status = train(n, f, set, SAMPLES);
    fold_ctx_free(f);
    return status ? user : NULL;
}
static void test_models_apart(void)
{
    net n[3];
    pthread_t thread[2];
    int count;
    for (int i = 0; i < 3; i++) n[i] = new_net(NULL);
    CHECK(!train_alone(&n[2]));
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&thread[i], NULL, train_alone, &n[i]));
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        CHECK(!failed);
    }
    const float *want = fold_model_values(n[2].m, &count);
    for (int i = 0; i < 2; i++) CHECK_BITS(fold_model_values(n[i].m, NULL), want, count);
    for (int i = 0; i < 3; i++) fold_model_free(n[i].m);
}

/* One context on a pool trains to the bits of a context on one thread: groups of samples, with calls that they share, and one
   sample, whose batches are shared out. */
static void train_on_pool(fold_pool *pool, const char *isa, int samples, int dedupe)
{
    int count;
    net one = new_net(isa), many = new_net(isa);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.group_bytes = 1 << 14;
    d.dedupe = dedupe;
    fold_ctx *f = fold_ctx_new(one.m, &d);
    d.threads = 3;
    d.parallel_for = fold_pool_for;
    d.pool = pool;
    fold_ctx *g = fold_ctx_new(many.m, &d);
    for (int set = 0; set < 2 * SETS; set++) {
        CHECK_INT(train(&one, f, set % SETS, samples), FOLD_OK);
        CHECK_INT(train(&many, g, set % SETS, samples), FOLD_OK);
        CHECK_SAYS((fold_ctx_stats(g).groups > 2) == (samples > 1), "%d groups: %s", fold_ctx_stats(g).groups, fold_ctx_stats(g).one_group);
        const float *want = fold_model_values(one.m, &count);
        CHECK_BITS(fold_model_values(many.m, NULL), want, count);
    }
    fold_ctx_free(f);
    fold_ctx_free(g);
    fold_model_free(one.m);
    fold_model_free(many.m);
}

/* A pool comes back when all tasks are done: the caller's own ends when another thread has begun one that takes long. When the
   pool is freed that thread has ended. */
static pthread_key_t of_thread; /* what a thread sets to a place is counted there when it ends */
static void count_end(void *ended) { ++*(int *)ended; }
typedef struct slow_tasks { pthread_t caller; int begun, done[2], ended; } slow_tasks;
static void slow_task(int i, void *user)
{
    slow_tasks *all = (slow_tasks *)user;
    const struct timespec moment = { 0, 1000000 }, pause = { 0, 100000000 };
    if (pthread_equal(pthread_self(), all->caller)) {
        for (int k = 0; k < 2000 && !__atomic_load_n(&all->begun, __ATOMIC_RELAXED); k++) nanosleep(&moment, NULL);
    } else {
        __atomic_store_n(&all->begun, 1, __ATOMIC_RELAXED);
        pthread_setspecific(of_thread, &all->ended);
        nanosleep(&pause, NULL);
    }
    __atomic_store_n(&all->done[i], 1, __ATOMIC_RELEASE);
}
static void test_pool_waits(void)
{
    static slow_tasks all;
    const struct timespec rest = { 0, 300000000 };
    CHECK_INT(pthread_key_create(&of_thread, count_end), 0);
    fold_pool *pool = fold_pool_new(2);
    for (int loop = 0; loop < 2; loop++) { /* the pool's thread is still there for the second loop */
        memset(&all, 0, sizeof all);
        all.caller = pthread_self();
        fold_pool_for(2, slow_task, &all, pool);
        CHECK_INT(all.begun, 1);
        if (!CHECK(__atomic_load_n(&all.done[0], __ATOMIC_ACQUIRE) && __atomic_load_n(&all.done[1], __ATOMIC_ACQUIRE)))
            nanosleep(&rest, NULL); /* it still writes */
    }
    CHECK_INT(all.ended, 0);
    fold_pool_free(pool);
    CHECK_INT(all.ended, 1);
    pthread_key_delete(of_thread);
}

static void test_pool(void)
{
    fold_pool *pool = fold_pool_new(3);
    CHECK(pool != NULL);
    for (int dedupe = 0; dedupe < 2; dedupe++) {
        train_on_pool(pool, NULL, SAMPLES, dedupe);
        train_on_pool(pool, NULL, 1, dedupe);
        train_on_pool(pool, "portable", SAMPLES, dedupe);
    }
    fold_pool_free(pool);
}

/* -- replicas: a model, a context, a thread and a share of the samples each ----------------------- */

enum { MAX_REPLICAS = 4 };
typedef struct replica { net n; fold_ctx *f; int id, of, set; fold_status status; } replica;

/* Adds the gradients of this replica's share of a set's mean loss. */
static void *add_share(void *user)
{
    replica *r = (replica *)user;
    fold_node loss[SAMPLES], own[SAMPLES];
    size_t count = 0;
    fold_ctx_reset(r->f);
    record(r->f, &r->n, r->set, 1, loss);
    for (int i = r->id; i < SAMPLES; i += r->of) own[count++] = loss[i];
    r->status = fold_backward(r->f, fold_scale(r->f, fold_sum_n(r->f, own, (int)count), 1 / (float)SAMPLES));
    return NULL;
}

/* Gives all replicas the sum of their gradients, added in the order of their ids. */
static void reduce(replica *r, int n)
{
    static float sum[1 << 16];
    const fold_param all = { 0, 0 };
    int count;
    const float *first = fold_model_grads(r[0].n.m, &count);
    if (!CHECK((size_t)count <= sizeof sum / sizeof *sum)) return;
    memcpy(sum, first, (size_t)count * sizeof *sum);
    for (int k = 1; k < n; k++) {
        const float *g = fold_model_grads(r[k].n.m, NULL);
        for (int i = 0; i < count; i++) sum[i] += g[i];
    }
    for (int k = 0; k < n; k++) {
        memcpy(fold_grads_write_begin(r[k].n.m, all), sum, (size_t)count * sizeof *sum);
        fold_grads_write_end(r[k].n.m, all);
    }
}

static void open_replica(replica *r, int id, int of)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    memset(r, 0, sizeof *r);
    d.training = 1;
    r->n = new_net(NULL);
    r->f = fold_ctx_new(r->n.m, &d);
    r->id = id;
    r->of = of;
}
static void close_replica(replica *r)
{
    fold_ctx_free(r->f);
    fold_model_free(r->n.m);
}

/* Replicas that add their gradients in order train to the bits of one thread that does all shares in turn. */
static void test_replicas(void)
{
    const fold_adam adam = fold_adam_default();
    for (int n = 2; n <= MAX_REPLICAS; n++) {
        replica r[MAX_REPLICAS], alone;
        pthread_t thread[MAX_REPLICAS];
        int count;
        open_replica(&alone, 0, n);
        for (int k = 0; k < n; k++) open_replica(&r[k], k, n);
        for (int set = 0; set < SETS; set++) {
            for (alone.id = 0; alone.id < n; alone.id++) {
                alone.set = set;
                add_share(&alone);
                CHECK_INT(alone.status, FOLD_OK);
            }
            CHECK_INT(fold_adam_step(alone.n.m, &adam), FOLD_OK);
            for (int k = 0; k < n; k++) {
                r[k].set = set;
                if (!CHECK(!pthread_create(&thread[k], NULL, add_share, &r[k]))) return;
            }
            for (int k = 0; k < n; k++) {
                pthread_join(thread[k], NULL);
                CHECK_INT(r[k].status, FOLD_OK);
            }
            reduce(r, n);
            const float *want = fold_model_values(alone.n.m, &count);
            for (int k = 0; k < n; k++) {
                CHECK_INT(fold_adam_step(r[k].n.m, &adam), FOLD_OK);
                CHECK_BITS(fold_model_values(r[k].n.m, NULL), want, count);
            }
        }
        for (int k = 0; k < n; k++) close_replica(&r[k]);
        close_replica(&alone);
    }
}

static void one_by_one(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    for (int i = 0; i < n; i++) task(i, user);
}
/* Lanes share out all floats of a step, however many lanes and floats there are. */
static void test_last_floats(void)
{
    for (int lanes = 2; lanes < 7; lanes++)
        for (int more = 1; more < 9; more++) {
            fold_model_desc d = fold_model_desc_default();
            d.threads = lanes;
            d.parallel_for = one_by_one;
            fold_model *m = fold_model_new(&d);
            fold_weight_new(m, "W", 90, 41);
            const fold_param last = fold_bias_new(m, "last", more), none = { 0, 0 };
            const fold_sgd sgd = { 1, 0, 0 };
            float *grads = fold_grads_write_begin(m, last);
            for (int i = 0; i < more; i++) grads[i] = 1;
            fold_grads_write_end(m, none);
            CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
            for (int i = 0; i < more; i++)
                CHECK_SAYS(fold_param_value(m, last)[i] == -1, "%d lanes: float %d of %d", lanes, i, more);
            fold_model_free(m);
        }
}

/* Nothing to do is done at once: fewer tasks than one, and none. */
static void add_up(int i, void *user) { *(int *)user += i + 1; }
static void test_nothing(void)
{
    int sum = 0;
    fold_pool *pool = fold_pool_new(2);
    for (int n = -1; n < 2; n++)
        for (int pooled = 0; pooled < 2; pooled++) {
            fold_pool_for(n, NULL, &sum, pooled ? pool : NULL);
            fold_pool_for(n < 1 ? n * 1000000 : 0, add_up, &sum, pooled ? pool : NULL);
        }
    fold_pool_for(1, add_up, &sum, pool); /* it still works */
    CHECK_INT(sum, 1);
    fold_pool_free(pool);
}

/* No pool at all: the caller's own thread does it. */
static void test_no_pool(void)
{
    int sum = 0;
    fold_pool_free(NULL);
    fold_pool_for(5, add_up, &sum, NULL);
    CHECK_INT(sum, 15);
    CHECK(!fold_pool_new(0) && !fold_pool_new(1000));
    fold_pool *alone = fold_pool_new(1); /* starts no thread */
    CHECK(alone != NULL);
    fold_pool_for(5, add_up, &sum, alone);
    fold_pool_free(alone);
    CHECK_INT(sum, 30);
}

/* A pool that gets some of its threads alone, or no memory at all, is none, and those that began have ended. In a process of
   its own, which may not take more addresses than it has. */
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static int has_no_room(size_t more, int threads)
{
    struct rlimit before, limit;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1) return 2;
    fclose(file);
    if (getrlimit(RLIMIT_AS, &before)) return 2;
    limit = before;
    limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    for (size_t size = 1 << 20; size >= 16 && !more; size /= 2)
        while (malloc(size)) {}
    fold_pool *pool = fold_pool_new(threads);
    setrlimit(RLIMIT_AS, &before);
    return pool != NULL;
}
static void test_pool_without_room(void)
{
    for (int way = 0; way < 2; way++) {
        int status = -1;
        fflush(stdout);
        const pid_t child = fork();
        if (!child) exit(has_no_room(way ? 20 << 20 : 0, way ? 60 : 2)); /* stacks of 8 MB: for two of 59 threads */
        waitpid(child, &status, 0);
        CHECK_SAYS(WIFEXITED(status) && !WEXITSTATUS(status), "way %d: status %d", way, status);
    }
}

/* A fork right behind a run, when a thread may hold the lock: the child uses the pool, or not, and frees it. */
static int done_by_child[8], seen_threads;
static void mark_done(int i, void *user)
{
    const struct timespec moment = { 0, 100000 };
    done_by_child[i]++;
    if (!pthread_equal(pthread_self(), *(pthread_t *)user)) __atomic_store_n(&seen_threads, 1, __ATOMIC_RELAXED);
    for (int wait = 0; wait < 1000 && !__atomic_load_n(&seen_threads, __ATOMIC_RELAXED); wait++)
        nanosleep(&moment, NULL);
}
static int child_of_fork(fold_pool *pool, int uses)
{
    pthread_t self = pthread_self();
    alarm(10);
    memset(done_by_child, 0, sizeof done_by_child);
    seen_threads = 0;
    for (int i = 0; i < uses; i++) fold_pool_for(8, mark_done, &self, pool);
    for (int i = 0; i < 8; i++)
        if (done_by_child[i] != uses) return 1;
    fold_pool_free(pool);
    return uses && !seen_threads ? 2 : 0; /* it has threads of its own */
}
static void test_fork(void)
{
    fold_pool *pool = fold_pool_new(4);
    pthread_t self = pthread_self();
    for (int i = 0; i < 60; i++) {
        int status = -1;
        seen_threads = 1;
        fold_pool_for(8, mark_done, &self, pool);
        fflush(stdout);
        const pid_t child = fork();
        if (!child) _exit(child_of_fork(pool, i % 3));
        waitpid(child, &status, 0);
        if (status) CHECK_SAYS(0, "fork %d: status %d", i, status);
        if (status) break;
    }
    seen_threads = 1;
    fold_pool_for(8, mark_done, &self, pool);
    fold_pool_free(pool);
}
#else
static void test_pool_without_room(void) { check_skip("a pool without room (not on this system)"); }
static void test_fork(void) { check_skip("a fork with a pool (not on this system)"); }
#endif

/* -- saving to one path -------------------------------------------------------------------------- */

static const char shared_path[] = "build/threads_shared.safetensors";
enum { SAVES = 30, ROWS = 100 };
typedef struct saver { fold_model *m; int failed; } saver;

/* ROWS x ROWS values that are all `value`. */
static fold_model *model_of(int value)
{
    fold_model *m = fold_model_new(NULL);
    const fold_param table = fold_table_new(m, "table", ROWS, ROWS);
    float *values = fold_values_write_begin(m, table);
    for (int i = 0; i < ROWS * ROWS; i++) values[i] = (float)value;
    fold_values_write_end(m, table);
    return m;
}
static void *save_often(void *user)
{
    saver *s = (saver *)user;
    for (int i = 0; i < SAVES; i++) s->failed += fold_model_save(s->m, shared_path, NULL) != FOLD_OK;
    return NULL;
}
/* Each save succeeds, the file is that of one of them as a whole, and no draft is left. */
static void test_savers(void)
{
    pthread_t thread[READERS];
    saver savers[READERS];
    for (int i = 0; i < READERS; i++) {
        savers[i].m = model_of(i);
        savers[i].failed = 0;
        if (!CHECK(!pthread_create(&thread[i], NULL, save_often, &savers[i]))) return;
    }
    fold_model *m = model_of(-1);
    for (int i = 0; i < READERS; i++) {
        pthread_join(thread[i], NULL);
        CHECK_SAYS(!savers[i].failed, "%d saves failed: %s", savers[i].failed, fold_model_message(savers[i].m));
        fold_model_free(savers[i].m);
    }
    CHECK_INT(fold_model_load(m, shared_path, NULL), FOLD_OK);
    const float *values = fold_param_value(m, fold_param_find(m, "table"));
    CHECK(values[0] >= 0 && values[0] < READERS);
    for (int i = 0; i < ROWS * ROWS; i++) CHECK(values[i] == values[0]);
    for (int i = 0; i < READERS; i++) {
        char draft[80];
        snprintf(draft, sizeof draft, i ? "%s.%d.tmp" : "%s.tmp", shared_path, i);
        CHECK_SAYS(remove(draft), "%s was left", draft);
    }
    remove(shared_path);
    fold_model_free(m);
}

/* ---- steps of optimisers ------------------------------------------------------------------ */

enum { STEP_IN = 50, STEP_OUT = 333, LINE = 9000 }; /* a line is so long that lanes share it, and no product packs it */
typedef struct stepped {
    fold_model *m;
    fold_param words, weight, bias, frozen, last, line;
} stepped;
typedef struct lanes { /* runs lanes from the last on, and counts them */
    int times, most;
} lanes;

static void backwards(int n, fold_task *task, void *user, void *pool)
{
    lanes *seen = (lanes *)pool;
    seen->times++;
    seen->most = n;
    for (int i = n - 1; i >= 0; i--) task(i, user);
}
static stepped new_stepped(int threads, fold_parallel_for *parallel_for, void *pool, int width)
{
    stepped s;
    fold_model_desc d = fold_model_desc_default();
    d.threads = threads;
    d.parallel_for = parallel_for;
    d.pool = pool;
    s.m = fold_model_new(&d);
    s.words = fold_table_new(s.m, "words", 40, STEP_IN);
    s.weight = fold_weight_new(s.m, "weight", STEP_IN, width);
    s.bias = fold_bias_new(s.m, "bias", width);
    s.frozen = fold_weight_new(s.m, "frozen", width, 5);
    s.last = fold_bias_new(s.m, "last", 5);
    s.line = fold_bias_new(s.m, "line", width == 1 ? 1 : LINE);
    fold_param_freeze(s.m, s.frozen, 1);
    CHECK_SAYS(!fold_model_status(s.m), "%s", fold_model_message(s.m));
    return s;
}
/* The loss of a few words, whose rows alone change, before each of the steps. */
static void step(const stepped *s, int rule, int nth, float *loss)
{
    const fold_sgd sgd = { 0.1f, nth % 2 ? 0.9f : 0, 0.01f };
    const fold_adagrad adagrad = { 0.1f, 0, 0 };
    const fold_rmsprop rmsprop = { 0.01f, 0, 0, 0.1f };
    const fold_adam adam = { 0.01f, 0, 0, 0, 0.1f, nth % 2 };
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    fold_ctx *f = fold_ctx_new(s->m, &d);
    fold_node losses[3];
    for (int i = 0; i < 3; i++) {
        const fold_node x = fold_lookup(f, s->words, (7 * nth + 11 * i) % 40);
        const fold_node y = fold_linear(f, fold_tanh(f, fold_linear(f, x, s->weight, s->bias)), s->frozen, s->last);
        losses[i] = fold_add(f, fold_softmax_xent(f, y, i), fold_sum(f, fold_exp(f, fold_use(f, s->line)), FOLD_ALL));
    }
    const fold_node mean = fold_mean_n(f, losses, 3);
    CHECK_INT(fold_backward(f, mean), FOLD_OK);
    *loss = *fold_value(f, mean);
    fold_ctx_free(f);
    CHECK_INT(rule == 0   ? fold_sgd_step(s->m, &sgd)
              : rule == 1 ? fold_adagrad_step(s->m, &adagrad)
              : rule == 2 ? fold_rmsprop_step(s->m, &rmsprop)
                          : fold_adam_step(s->m, &adam), FOLD_OK);
}
static void test_steps(void)
{
    for (int threads = 2; threads <= 7; threads += 1 + (threads > 2)) {
        lanes seen = { 0, 0 };
        const stepped one = new_stepped(0, NULL, NULL, STEP_OUT), many = new_stepped(threads, backwards, &seen, STEP_OUT);
        for (int rule = 0; rule < 4; rule++)
            for (int nth = 0; nth < 4; nth++) {
                int count;
                float want, got;
                step(&one, rule, nth, &want);
                step(&many, rule, nth, &got);
                CHECK_BITS(&got, &want, 1);
                const float *values = fold_model_values(one.m, &count);
                CHECK_BITS(fold_model_values(many.m, NULL), values, count);
            }
        CHECK_INT(seen.times, 16);
        CHECK_INT(seen.most, threads);
        fold_model_free(one.m);
        fold_model_free(many.m);
    }
}
static void test_small_steps(void) /* they stay on the caller's thread */
{
    lanes seen = { 0, 0 };
    float loss;
    const stepped small = new_stepped(2, backwards, &seen, 1);
    fold_param_freeze(small.m, small.words, 1);
    fold_param_freeze(small.m, small.weight, 1); /* seven numbers are left */
    step(&small, 3, 0, &loss);
    CHECK_INT(seen.times, 0);
    fold_model_free(small.m);
}

/* As many threads get work as there are rows of a batch, columns of a gradient, or blocks of a parameter. */
typedef struct widths { int times[5]; } widths; /* how often work was shared by so many threads */
static void note_width(int n, fold_task *task, void *user, void *pool)
{
    ((widths *)pool)->times[n]++;
    for (int i = 0; i < n; i++) task(i, user);
}
static widths train_rows(int rows, int outputs)
{
    enum { INPUTS = 20000 };
    static float x[INPUTS + 8];
    widths seen = { { 0, 0, 0, 0, 0 } };
    fold_node losses[8];
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.threads = 4;
    d.parallel_for = note_width;
    d.pool = &seen;
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", INPUTS, outputs);
    fold_ctx *f = fold_ctx_new(m, &d);
    for (int i = 0; i < rows; i++)
        losses[i] = fold_sum(f, fold_linear(f, fold_input(f, x + i, INPUTS), W, FOLD_NULL_PARAM), FOLD_ALL);
    CHECK_INT(fold_backward(f, fold_sum_n(f, losses, rows)), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(m);
    return seen;
}
static void test_pieces(void)
{
    for (int rows = 1; rows <= 5; rows++) {
        const widths seen = train_rows(rows, 60); /* the product by rows, its gradient by four columns of vectors */
        CHECK_INT(seen.times[0] + seen.times[1], 0);
        for (int n = 2; n <= 4; n++) CHECK_INT(seen.times[n], (n == 4) + (n == (rows < 4 ? rows : 4)));
    }
    for (int columns = 1; columns <= 5; columns++) {
        const widths seen = train_rows(8, 16 * columns - 5);
        CHECK_INT(seen.times[0] + seen.times[1], 0);
        for (int n = 2; n <= 4; n++) CHECK_INT(seen.times[n], (n == 4) + (n == (columns < 4 ? columns : 4)));
    }
    for (int rows = 1; rows <= 121; rows += 60) {
        widths seen = { { 0, 0, 0, 0, 0 } };
        fold_model_desc d = fold_model_desc_default();
        d.threads = 4;
        d.parallel_for = note_width;
        d.pool = &seen;
        fold_model *m = fold_model_new(&d);
        const fold_sgd sgd = { 0.1f, 0, 0 };
        fold_weight_new(m, "W", rows, (1 << 18) / rows);
        CHECK_INT(fold_sgd_step(m, &sgd), FOLD_OK);
        CHECK_INT(seen.times[0] + seen.times[1], 0);
        for (int n = 2; n <= 4; n++) CHECK_INT(seen.times[n], n == (rows + 31) / 32);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("no more threads than pieces", test_pieces);
    check_run("many contexts read one model", test_readers);
    check_run("models side by side", test_models_apart);
    check_run("a pool waits for its tasks", test_pool_waits);
    check_run("a pool trains to the same bits", test_pool);
    check_run("steps of optimisers on threads", test_steps);
    check_run("the last floats of a step", test_last_floats);
    check_run("small steps stay on one thread", test_small_steps);
    check_run("a pool with nothing to do", test_nothing);
    check_run("no pool", test_no_pool);
    check_run("a pool without room", test_pool_without_room);
    check_run("a fork with a pool", test_fork);
    check_run("replicas train to the same bits", test_replicas);
    check_run("threads save to one path", test_savers);
    return check_finish();
}
