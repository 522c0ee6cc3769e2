/* game_jobs: the physics of a game and the network of its robots share one job system.

     cc -O2 -o game_jobs examples/game_jobs.c -lm -lpthread && ./game_jobs

   Balls roll across a field and bounce. Robots must avoid the balls and stay together. A robot sees the balls
   near it, and each robot sends a message; all robots receive the mean of the messages. The network imitates
   a rule that knows where all robots are. During training, the network learns while the next frames of its
   lessons are simulated; in the game, it decides while physics computes the next frame. The network and the
   physics are two jobs in one pool, and both split into smaller jobs: physics moves 256 bodies per job, and
   fold.h passes parts of its work to the same pool through fold_ctx_desc.parallel_for.

   fold.h divides work only if that is faster, because waking a thread takes longer than running a small
   batch. In training, whole groups of lessons run at the same time. In the game all robots depend on each
   other's messages, so they form one group, and fold.h divides the rows of its large batches among the
   threads. The program counts how often fold.h does either, with fold_ctx_desc.zone.

   The pool has as many threads as you ask for, each with its own queue. A thread runs the newest of its own
   jobs; if it has none, it steals the oldest job of another thread. A thread that waits in the middle of a
   job runs only the jobs it is waiting for, so that a decision never waits for a frame of physics.

   The game is played on 1, 2 and 4 threads, and every ball must end up with the same bits. It does, because
   each job writes only to its own memory, whichever thread runs it, and because fold.h computes the same bits
   on any number of threads. A hit is counted when a ball begins to touch a robot. For comparison, the program
   also plays the game with the rule instead of the network, and with idle robots. Times are for whole frames,
   and mean little on a busy machine. Everything takes about twenty seconds of processor time. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include "unfused.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what)
{
    fprintf(stderr, "game_jobs: %s\n", what);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory");
    return bytes;
}

/* ---- the network ----------------------------------------------------------------------------- */

enum { STEPS = 4, CHUNK = 256, ROBOTS = 200, BALLS = 3000, CELL = 3, SEEN = 12, SENSES = 4, BALL = 6 };
typedef struct view { float senses[ROBOTS][SENSES], ball[ROBOTS][SEEN][BALL], wanted[ROBOTS][2]; int robots, seen[ROBOTS]; } view;

enum { INNER = 48, WIDTH = 96, SAID = 32 };
typedef struct net { fold_mlp ball, out; fold_dense joined, said; } net;

static net new_net(fold_model *m)
{
    static const int ball[] = { BALL, INNER, INNER }, out[] = { WIDTH + SAID, WIDTH, 2 };
    net n;
    n.ball = fold_mlp_new(m, "ball", ball, 2, FOLD_ACT_TANH);
    n.joined = fold_dense_new(m, "joined", SENSES + INNER, WIDTH, FOLD_ACT_TANH);
    n.said = fold_dense_new(m, "said", WIDTH, SAID, FOLD_ACT_TANH);
    n.out = fold_mlp_new(m, "out", out, 2, FOLD_ACT_TANH);
    if (fold_model_status(m)) fail(fold_model_message(m));
    return n;
}

/* Records what all robots of a world decide. */
static void record(fold_ctx *f, const net *n, const view *v, fold_node *decided)
{
    fold_node inner[ROBOTS], said[ROBOTS];
    for (int i = 0; i < v->robots; i++) {
        const fold_node balls = fold_list_input_ref(f, v->ball[i][0], v->seen[i], fold_shape1(BALL));
        const fold_node seen = fold_list_sum(f, fold_tanh(f, fold_mlp_apply(f, &n->ball, balls)));
        const fold_node senses = fold_input_ref(f, v->senses[i], fold_shape1(SENSES));
        inner[i] = fold_dense_apply(f, &n->joined, fold_concat2(f, senses, seen));
        said[i] = fold_dense_apply(f, &n->said, inner[i]);
    }
    const fold_node heard = fold_mean_n(f, said, v->robots);
    for (int i = 0; i < v->robots; i++) decided[i] = fold_mlp_apply(f, &n->out, fold_concat2(f, inner[i], heard));
}

/* ---- a job system ---------------------------------------------------------------------------- */

enum { MOST_THREADS = 16, QUEUE = 1024, LOOKS = 200 }; /* jobs that may wait on a thread; looks for one before it sleeps */

typedef struct job { fold_task *task; void *user; int i; atomic_int *left; } job;
typedef struct worker {
    struct pool *pool;
    pthread_t thread;
    pthread_mutex_t lock;     /* guards its jobs: those from `front` to `back`, by turns */
    job jobs[QUEUE];
    unsigned front, back;
    int depth, in_network;    /* jobs that it has begun; whether it runs a part of a batch for fold.h */
    long stolen;
} worker;
typedef struct pool {
    int threads;
    worker workers[MOST_THREADS];
    pthread_key_t self;
    pthread_mutex_t lock;     /* guards sleeping */
    pthread_cond_t wake;
    atomic_int waiting, asleep, stop; /* jobs that wait in queues; threads that sleep */
} pool;

static worker *self_of(const pool *p) { return (worker *)pthread_getspecific(p->self); }

/* Returns whether it found room. */
static int push(worker *w, job j)
{
    pthread_mutex_lock(&w->lock);
    const int fits = w->back - w->front < QUEUE;
    if (fits) w->jobs[w->back++ % QUEUE] = j;
    pthread_mutex_unlock(&w->lock);
    if (fits) atomic_fetch_add(&w->pool->waiting, 1);
    return fits;
}

/* Takes the newest of its own jobs: any, or one of those counted by `left`. */
static int pop(worker *w, const atomic_int *left, job *j)
{
    pthread_mutex_lock(&w->lock);
    const int found = w->back != w->front && (!left || w->jobs[(w->back - 1) % QUEUE].left == left);
    if (found) *j = w->jobs[--w->back % QUEUE];
    pthread_mutex_unlock(&w->lock);
    if (found) atomic_fetch_sub(&w->pool->waiting, 1);
    return found;
}

/* Takes the oldest job of another thread. */
static int steal(worker *w, job *j)
{
    pool *p = w->pool;
    for (int i = 1; i < p->threads && atomic_load(&p->waiting); i++) {
        worker *other = &p->workers[((int)(w - p->workers) + i) % p->threads];
        pthread_mutex_lock(&other->lock);
        const int found = other->back != other->front;
        if (found) *j = other->jobs[other->front++ % QUEUE];
        pthread_mutex_unlock(&other->lock);
        if (!found) continue;
        atomic_fetch_sub(&p->waiting, 1);
        w->stolen++;
        return 1;
    }
    return 0;
}

static void wake_all(pool *p)
{
    if (!atomic_load(&p->asleep)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void run_job(worker *w, job j)
{
    pool *p = w->pool; /* the waiting thread may be gone once the last job is counted */
    w->depth++;
    j.task(j.i, j.user);
    w->depth--;
    if (atomic_fetch_sub(j.left, 1) == 1) wake_all(p);
}

/* Waits until something may have changed: there are jobs to take, or none of those counted are left. */
static void wait_a_little(worker *w, const atomic_int *left, int *looks)
{
    pool *p = w->pool;
    if (++*looks < LOOKS) {
        sched_yield();
        return;
    }
    *looks = 0;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    const int none_for_me = left && w->depth; /* it takes none but its own, which it has looked for */
    while (!atomic_load(&p->stop) && (none_for_me || !atomic_load(&p->waiting)) && (!left || atomic_load(left)))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

/* Calls task(i, user) for every i in [0, n) on all threads, and returns when all are done. It is a fold_parallel_for. A
   job may call it. */
static void parallel_for(int n, fold_task *task, void *user, void *of_pool)
{
    pool *p = (pool *)of_pool;
    worker *w = self_of(p);
    atomic_int left;
    job j = { task, user, 0, &left };
    int looks = 0;
    if (n < 1) return;
    atomic_init(&left, n);
    for (j.i = n - 1; j.i > 0; j.i--)
        if (!push(w, j)) run_job(w, j);
    wake_all(p);
    run_job(w, j);
    while (atomic_load(&left)) {
        if (!pop(w, w->depth ? &left : NULL, &j) && (w->depth || !steal(w, &j))) wait_a_little(w, &left, &looks);
        else run_job(w, j);
    }
}

static void *work(void *of_worker)
{
    worker *w = (worker *)of_worker;
    int looks = 0;
    job j;
    pthread_setspecific(w->pool->self, w);
    while (!atomic_load(&w->pool->stop)) {
        if (steal(w, &j)) run_job(w, j);
        else wait_a_little(w, NULL, &looks);
    }
    return NULL;
}

static pool *new_pool(int threads)
{
    pool *p = (pool *)take(1, sizeof *p);
    p->threads = threads;
    if (pthread_key_create(&p->self, NULL) || pthread_mutex_init(&p->lock, NULL) || pthread_cond_init(&p->wake, NULL))
        fail("no threads");
    for (int i = 0; i < threads; i++) {
        p->workers[i].pool = p;
        if (pthread_mutex_init(&p->workers[i].lock, NULL)) fail("no threads");
    }
    pthread_setspecific(p->self, &p->workers[0]); /* the caller's own */
    for (int i = 1; i < threads; i++)
        if (pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i])) fail("no threads");
    return p;
}

static void free_pool(pool *p)
{
    atomic_store(&p->stop, 1);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i < p->threads; i++) pthread_join(p->workers[i].thread, NULL);
    for (int i = 0; i < p->threads; i++) pthread_mutex_destroy(&p->workers[i].lock);
    pthread_key_delete(p->self);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p);
}

/* ---- the pool as fold.h sees it, and what it counts ------------------------------------------ */

/* Counts batches, or parts of them, by the thread that ran them. */
typedef struct counters { pool *jobs; long shared; atomic_long in_pool, stayed; } counters;

typedef struct handed { fold_task *task; void *user; pool *jobs; } handed;
static void run_part(int i, void *user)
{
    const handed *h = (const handed *)user;
    worker *w = self_of(h->jobs);
    w->in_network++;
    h->task(i, h->user);
    w->in_network--;
}
/* Hands the tasks to the pool, and counts. It is the callback fold_ctx_desc.parallel_for. */
static void hand_over(int n, fold_task *task, void *user, void *of_counters)
{
    counters *c = (counters *)of_counters;
    handed h = { task, user, c->jobs };
    c->shared++;
    parallel_for(n, run_part, &h, c->jobs);
}
static void count_batch(int begin, const char *name, int calls, void *of_counters)
{
    counters *c = (counters *)of_counters;
    (void)calls;
    if (!begin || !strcmp(name, "plan")) return;
    atomic_fetch_add(self_of(c->jobs)->in_network ? &c->in_pool : &c->stayed, 1);
}

static fold_ctx *new_context(fold_model *m, int training, counters *c)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = training;
    desc.threads = c->jobs->threads;
    desc.parallel_for = hand_over;
    desc.pool = c;
    desc.zone = count_batch;
    desc.zone_user = c;
    fold_ctx *f = fold_ctx_new(m, &desc);
    if (!f || fold_ctx_status(f)) fail(f ? fold_ctx_message(f) : "out of memory");
    return f;
}

/* ---- physics --------------------------------------------------------------------------------- */

static const float step_seconds = 1.0f / 60 / STEPS, radius = 0.35f, stiffness = 2000, pace = 4, sight = 3, push_most = 30;

typedef struct body { float x, y, vx, vy; } body;
/* The first bodies are robots. In a grid of square cells the bodies of cell c are `order` from first[c] on. */
typedef struct world {
    int robots, n, columns, rows, *first, *order, *cell;
    float width, height, *push;
    body *now, *next;
    unsigned char *touched, *touches; /* robot i and ball k: i * (n - robots) + k; in the last frame, and in this */
    long hits;
    pool *jobs;
} world;

static world new_world(pool *jobs, int robots, int balls, fold_random chance)
{
    world w;
    memset(&w, 0, sizeof w);
    w.robots = robots;
    w.n = robots + balls;
    w.height = ceilf(sqrtf(6.0f * (float)w.n) / CELL) * CELL;
    w.width = ceilf(1.45f * w.height / CELL) * CELL;
    w.columns = (int)w.width / CELL;
    w.rows = (int)w.height / CELL;
    w.first = (int *)take((size_t)(w.columns * w.rows + 1), sizeof *w.first);
    w.order = (int *)take((size_t)w.n, sizeof *w.order);
    w.cell = (int *)take((size_t)w.n, sizeof *w.cell);
    w.push = (float *)take((size_t)robots * 2, sizeof *w.push);
    w.now = (body *)take((size_t)w.n, sizeof *w.now);
    w.next = (body *)take((size_t)w.n, sizeof *w.next);
    w.touched = (unsigned char *)take((size_t)robots * (size_t)balls, 1);
    w.touches = (unsigned char *)take((size_t)robots * (size_t)balls, 1);
    w.jobs = jobs;
    for (int i = 0; i < w.n; i++) {
        body *b = &w.now[i];
        b->x = w.width * fold_random_uniform(&chance);
        b->y = w.height * fold_random_uniform(&chance);
        b->vx = i < robots ? 0 : pace * fold_random_normal(&chance);
        b->vy = i < robots ? 0 : pace * fold_random_normal(&chance);
    }
    return w;
}

static void free_world(world *w)
{
    free(w->first);
    free(w->order);
    free(w->cell);
    free(w->push);
    free(w->now);
    free(w->next);
    free(w->touched);
    free(w->touches);
}

static int within(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/* Puts bodies into their cells, by counting; in a cell they are in the order of their numbers. */
static void fill_grid(world *w)
{
    const int cells = w->columns * w->rows;
    memset(w->first, 0, (size_t)(cells + 1) * sizeof *w->first);
    for (int i = 0; i < w->n; i++) {
        const int column = within((int)(w->now[i].x / CELL), w->columns), row = within((int)(w->now[i].y / CELL), w->rows);
        w->cell[i] = row * w->columns + column;
        w->first[w->cell[i] + 1]++;
    }
    for (int c = 0; c < cells; c++) w->first[c + 1] += w->first[c];
    for (int i = w->n; i-- > 0;) w->order[--w->first[w->cell[i] + 1]] = i;
    memmove(w->first, w->first + 1, (size_t)cells * sizeof *w->first);
    w->first[cells] = w->n;
}

/* Finds the bodies in the row of cells dy beside that of body i: from *from to below the result, in `order`. */
static int row_near(const world *w, int i, int dy, int *from)
{
    const int row = w->cell[i] / w->columns + dy, column = w->cell[i] % w->columns;
    *from = 0;
    if (row < 0 || row >= w->rows) return 0;
    *from = w->first[row * w->columns + within(column - 1, w->columns)];
    return w->first[row * w->columns + within(column + 1, w->columns) + 1];
}

/* Bodies and walls that are nearer than touching push like springs. Balls keep their pace, robots are slowed down. */
static void move_body(world *w, int i)
{
    const body b = w->now[i];
    const float from_wall[4] = { radius - b.x, b.x + radius - w->width, radius - b.y, b.y + radius - w->height };
    float ax = stiffness * (fmaxf(from_wall[0], 0) - fmaxf(from_wall[1], 0));
    float ay = stiffness * (fmaxf(from_wall[2], 0) - fmaxf(from_wall[3], 0));
    for (int dy = -1; dy <= 1; dy++) {
        int at;
        for (const int end = row_near(w, i, dy, &at); at < end; at++) {
            const int k = w->order[at];
            const float x = b.x - w->now[k].x, y = b.y - w->now[k].y, square = x * x + y * y;
            if (k == i || square >= 4 * radius * radius) continue;
            const float distance = sqrtf(square) + 1e-6f, force = stiffness * (2 * radius - distance) / distance;
            ax += force * x;
            ay += force * y;
            if (i < w->robots && k >= w->robots) w->touches[i * (w->n - w->robots) + k - w->robots] = 1;
        }
    }
    if (i < w->robots) {
        ax += w->push[2 * i] - 2 * b.vx;
        ay += w->push[2 * i + 1] - 2 * b.vy;
    } else {
        const float keep = 0.5f * (pace * pace / (b.vx * b.vx + b.vy * b.vy + 0.1f) - 1);
        ax += keep * b.vx;
        ay += keep * b.vy;
    }
    body *to = &w->next[i];
    to->vx = b.vx + step_seconds * ax;
    to->vy = b.vy + step_seconds * ay;
    to->x = b.x + step_seconds * to->vx;
    to->y = b.y + step_seconds * to->vy;
}
static void move_chunk(int chunk, void *user)
{
    world *w = (world *)user;
    for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK && i < w->n; i++) move_body(w, i);
}

static void make_frame(world *w)
{
    const size_t pairs = (size_t)w->robots * (size_t)(w->n - w->robots);
    memset(w->touches, 0, pairs);
    for (int step = 0; step < STEPS; step++) {
        fill_grid(w);
        parallel_for((w->n + CHUNK - 1) / CHUNK, move_chunk, w, w->jobs);
        body *const moved = w->next;
        w->next = w->now;
        w->now = moved;
    }
    for (size_t i = 0; i < pairs; i++) w->hits += w->touches[i] > w->touched[i];
    unsigned char *const touched = w->touches;
    w->touches = w->touched;
    w->touched = touched;
}

/* ---- what robots see, and what they should do ------------------------------------------------ */

typedef struct looking { world *w; view *v; float middle_x, middle_y; } looking;

/* A robot sees where a ball is, where and when it will be nearest, and how near it is now. */
static void see_ball(const body *robot, const body *ball, float distance, float *values)
{
    const float x = (ball->x - robot->x) / sight, y = (ball->y - robot->y) / sight;
    const float vx = (ball->vx - robot->vx) / sight, vy = (ball->vy - robot->vy) / sight;
    const float seconds = fminf(fmaxf(-(x * vx + y * vy) / (vx * vx + vy * vy + 0.05f), 0), 1);
    const float seen[BALL] = { x, y, x + seconds * vx, y + seconds * vy, seconds, 1 - distance / sight };
    memcpy(values, seen, sizeof seen);
}

/* Finds the nearest balls that it sees, the nearest first. */
static void see_balls(const world *w, view *v, int i)
{
    float squares[SEEN + 1];
    const body *b = &w->now[i];
    v->seen[i] = 0;
    for (int dy = -1; dy <= 1; dy++) {
        int from;
        for (const int end = row_near(w, i, dy, &from); from < end; from++) {
            const body *o = &w->now[w->order[from]];
            const float x = o->x - b->x, y = o->y - b->y, square = x * x + y * y;
            int at = v->seen[i];
            if (w->order[from] < w->robots || square > sight * sight) continue;
            for (; at > 0 && squares[at - 1] > square; at--) {
                if (at == SEEN) continue;
                squares[at] = squares[at - 1];
                memcpy(v->ball[i][at], v->ball[i][at - 1], sizeof v->ball[i][at]);
            }
            if (at == SEEN) continue;
            squares[at] = square;
            see_ball(b, o, sqrtf(square), v->ball[i][at]);
            v->seen[i] += v->seen[i] < SEEN;
        }
    }
}

/* The rule pushes away from the places at which balls will be nearest, and to the middle of the robots. */
static void apply_rule(const looking *l, int i)
{
    const body *b = &l->w->now[i];
    view *v = l->v;
    const float to_x = l->middle_x - b->x, to_y = l->middle_y - b->y, pull = 0.15f / (sqrtf(to_x * to_x + to_y * to_y) + 5);
    float x = pull * to_x, y = pull * to_y;
    for (int k = 0; k < v->seen[i]; k++) {
        const float *s = v->ball[i][k], square = s[2] * s[2] + s[3] * s[3] + 0.02f;
        const float force = 0.2f * s[5] / square / sqrtf(square);
        x -= force * s[2];
        y -= force * s[3];
    }
    const float most = fmaxf(sqrtf(x * x + y * y), 1);
    v->wanted[i][0] = x / most;
    v->wanted[i][1] = y / most;
}
static void look_chunk(int chunk, void *user)
{
    looking *l = (looking *)user;
    const world *w = l->w;
    for (int i = chunk * CHUNK / 4; i < (chunk + 1) * CHUNK / 4 && i < w->robots; i++) {
        const body *b = &w->now[i];
        const float senses[SENSES] = { 2 * b->x / w->width - 1, 2 * b->y / w->height - 1, b->vx / pace, b->vy / pace };
        memcpy(l->v->senses[i], senses, sizeof senses);
        see_balls(w, l->v, i);
        apply_rule(l, i);
    }
}
static void look(world *w, view *v)
{
    looking l = { w, v, 0, 0 };
    v->robots = w->robots;
    fill_grid(w);
    for (int i = 0; i < w->robots; i++) {
        l.middle_x += w->now[i].x / (float)w->robots;
        l.middle_y += w->now[i].y / (float)w->robots;
    }
    parallel_for((w->robots + CHUNK / 4 - 1) / (CHUNK / 4), look_chunk, &l, w->jobs);
}

/* ---- learning -------------------------------------------------------------------------------- */

enum { LESSONS = 8, PUPILS = 64, LESSON_BALLS = 700, SKIPPED = 4, LOOK_BACK = 50 };

/* Lessons are simulated a few frames ahead of learning. */
typedef struct school {
    fold_model *m;
    fold_ctx *f;
    const net *n;
    pool *jobs;
    world worlds[LESSONS];
    view views[2][LESSONS];
    fold_random chance[LESSONS];
    fold_adam adam;
    fold_rates rates;
    int step;
    double loss, wanted; /* squared errors of this step, and the square of the wanted push */
} school;

static void simulate_lesson(int i, void *user)
{
    school *s = (school *)user;
    world *w = &s->worlds[i];
    view *v = &s->views[(s->step + 1) % 2][i];
    for (int frame = 0; frame < SKIPPED; frame++) make_frame(w);
    look(w, v);
    for (int k = 0; k < w->robots; k++) /* the rule makes mistakes, so that the network sees how to get out of them */
        for (int axis = 0; axis < 2; axis++)
            w->push[2 * k + axis] = push_most * (v->wanted[k][axis] + 0.3f * fold_random_normal(&s->chance[i]));
}

static void learn_step(school *s)
{
    fold_node losses[LESSONS], errors[ROBOTS], decided[ROBOTS];
    const view *views = s->views[s->step % 2];
    s->wanted = 0;
    fold_ctx_reset(s->f);
    for (int i = 0; i < LESSONS; i++) {
        record(s->f, s->n, &views[i], decided);
        for (int k = 0; k < views[i].robots; k++) {
            const float *wanted = views[i].wanted[k];
            s->wanted += (double)(wanted[0] * wanted[0] + wanted[1] * wanted[1]) / (PUPILS * LESSONS);
            errors[k] = fold_squared_error(s->f, decided[k], fold_input_ref(s->f, wanted, fold_shape1(2)));
        }
        losses[i] = fold_mean_n(s->f, errors, views[i].robots);
    }
    const fold_node loss = fold_mean_n(s->f, losses, LESSONS);
    fold_backward(s->f, loss);
    fold_grads_clip(s->m, 1);
    s->adam.rate = 0.006f * fold_rate_factor(&s->rates, (uint64_t)s->step);
    if (fold_ctx_status(s->f) || fold_adam_step(s->m, &s->adam)) fail(fold_ctx_message(s->f));
    s->loss = (double)fold_scalar(s->f, loss);
}

static void learn_and_simulate(int which, void *user)
{
    school *s = (school *)user;
    if (which == 0) learn_step(s);
    else parallel_for(LESSONS, simulate_lesson, s, s->jobs);
}

/* Learns; returns the error of the last steps, relative to what the rule wants. */
static double learn(fold_model *m, const net *n, uint64_t seed, int threads, int steps)
{
    school *s = (school *)take(1, sizeof *s);
    pool *jobs = new_pool(threads);
    counters c;
    double sum = 0, of = 0;
    memset(&c, 0, sizeof c);
    c.jobs = s->jobs = jobs;
    s->m = m;
    s->n = n;
    s->f = new_context(m, 1, &c);
    s->adam = fold_adam_default();
    s->rates.kind = FOLD_RATE_COSINE;
    s->rates.steps = steps;
    for (int i = 0; i < LESSONS; i++) {
        s->worlds[i] = new_world(jobs, PUPILS, LESSON_BALLS, fold_random_new(seed, 100 + (uint64_t)i));
        s->chance[i] = fold_random_new(seed, 200 + (uint64_t)i);
    }
    s->step = -1;
    parallel_for(LESSONS, simulate_lesson, s, jobs);
    time_left left = TIME_LEFT;
    for (s->step = 0; s->step < steps; s->step++) {
        parallel_for(2, learn_and_simulate, s, jobs);
        if (s->step >= steps - LOOK_BACK) sum += s->loss, of += s->wanted;
        time_left_show(&left, s->step + 1, steps, "learning: step %d of %d, error %.3f", s->step + 1, steps, s->loss / s->wanted);
    }
    time_left_end(&left);
    printf("learning on %d threads: %ld times groups or sums were handed over, %ld batches in the pool, %ld outside it\n",
           threads, c.shared, (long)c.in_pool, (long)c.stayed);
    for (int i = 0; i < LESSONS; i++) free_world(&s->worlds[i]);
    fold_ctx_free(s->f);
    free_pool(jobs);
    free(s);
    return of > 0 ? sum / of : 0;
}

/* ---- the game -------------------------------------------------------------------------------- */

enum { BY_NETWORK, BY_RULE, BY_NOTHING };
typedef struct game {
    int by;
    world w;
    view v;
    fold_ctx *f;
    const net *n;
    float decided[ROBOTS][2];
} game;

static void decide(game *g)
{
    fold_node decided[ROBOTS];
    if (g->by == BY_NOTHING) return;
    if (g->by == BY_RULE) {
        memcpy(g->decided, g->v.wanted, sizeof g->decided);
        return;
    }
    fold_ctx_reset(g->f);
    record(g->f, g->n, &g->v, decided);
    if (fold_run(g->f, decided, g->v.robots) || fold_read(g->f, decided, g->v.robots, g->decided[0]))
        fail(fold_ctx_message(g->f));
}
static void decide_and_move(int which, void *user)
{
    game *g = (game *)user;
    if (which == 0) decide(g);
    else make_frame(&g->w);
}

typedef struct outcome { double hits_a_minute, apart, frame_us; uint64_t hash; } outcome; /* hits of a robot */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static outcome judge(const game *g, uint64_t *times, int frames)
{
    const world *w = &g->w;
    double x = 0, y = 0, square = 0;
    outcome o = { 3600.0 * (double)w->hits / w->robots / frames, 0, 0, 0 };
    for (int i = 0; i < w->robots; i++) {
        x += (double)w->now[i].x / w->robots;
        y += (double)w->now[i].y / w->robots;
        square += (double)(w->now[i].x * w->now[i].x + w->now[i].y * w->now[i].y) / w->robots;
    }
    o.apart = sqrt(square - x * x - y * y);
    o.hash = result_hash(RESULT_HASH, w->now, (size_t)w->n * sizeof *w->now);
    qsort(times, (size_t)frames, sizeof *times, by_size);
    o.frame_us = 1e-3 * (double)times[frames / 2];
    return o;
}

static outcome play(fold_model *m, const net *n, uint64_t seed, int by, int threads, int frames, counters *c)
{
    game *g = (game *)take(1, sizeof *g);
    uint64_t *times = (uint64_t *)take((size_t)frames, sizeof *times);
    memset(c, 0, sizeof *c);
    pool *jobs = c->jobs = new_pool(threads);
    g->by = by;
    g->n = n;
    g->f = new_context(m, 0, c);
    g->w = new_world(jobs, ROBOTS, BALLS, fold_random_new(seed, 1));
    time_left left = TIME_LEFT;
    for (int frame = 0; frame < frames; frame++) {
        const uint64_t start = fold_clock_monotonic(NULL);
        look(&g->w, &g->v);
        parallel_for(2, decide_and_move, g, jobs);
        for (int i = 0; i < 2 * ROBOTS; i++) g->w.push[i] = push_most * g->decided[i / 2][i % 2];
        times[frame] = fold_clock_monotonic(NULL) - start;
        time_left_show(&left, frame + 1, frames, "playing: frame %d of %d", frame + 1, frames);
    }
    time_left_end(&left);
    const outcome o = judge(g, times, frames);
    long stolen = 0;
    for (int i = 0; i < threads; i++) stolen += jobs->workers[i].stolen;
    if (by == BY_NETWORK)
        printf("%d thread%s: a frame %.0f us (half take more); of its batches %.1f are shared out in %.1f parts, %.1f stay; "
               "%.1f jobs stolen\n", threads, threads > 1 ? "s" : "", o.frame_us, (double)c->shared / frames,
               (double)c->in_pool / frames, (double)c->stayed / frames, (double)stolen / frames);
    fold_ctx_free(g->f);
    free_world(&g->w);
    free_pool(jobs);
    free(times);
    free(g);
    return o;
}

/* ---- command line ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    int steps = 1200, frames = 600, threads = 2;
    uint64_t seed = 1;
    const option table[4] = {
        option_of_whole("--steps", &steps, 0, 1000000, "of learning"),
        option_of_whole("--frames", &frames, 1, 1000000, "of a game, a sixtieth of a second each"),
        option_of_whole("--threads", &threads, 1, MOST_THREADS, "of learning; games are played on 1, 2 and 4"),
        option_of_seed("--seed", &seed, "of weights and worlds"),
    };
    options_read(argc, argv, "Robots learn to keep out of the way of balls, in one pool with the physics.", table,
                 OPTION_COUNT(table));
    fold_model_desc desc = fold_model_desc_default();
    desc.seed = seed;
    fold_model *m = fold_model_new(&desc);
    if (!m) fail("out of memory");
    const net n = new_net(m);
    counters c[3], others;
    outcome by_network[3];
    const double error = learn(m, &n, seed, threads, steps);
    for (int i = 0; i < 3; i++) by_network[i] = play(m, &n, seed, BY_NETWORK, 1 << i, frames, &c[i]);
    const outcome rule = play(m, &n, seed, BY_RULE, 4, frames, &others);
    const outcome nothing = play(m, &n, seed, BY_NOTHING, 4, frames, &others);
    const int same = by_network[1].hash == by_network[0].hash && by_network[2].hash == by_network[0].hash;
    printf("a robot is hit %.1f times a minute by the network, %.1f by the rule, %.1f when it does nothing; robots are "
           "%.1f, %.1f and %.1f m apart; %s bits on 1, 2 and 4 threads\n", by_network[0].hits_a_minute, rule.hits_a_minute,
           nothing.hits_a_minute, by_network[0].apart, rule.apart, nothing.apart, same ? "the same" : "OTHER");
    printf("RESULT game_jobs error=%.4f hits=%.2f rule_hits=%.2f idle_hits=%.2f apart=%.2f idle_apart=%.2f frame_us=%.0f "
           "frame2_us=%.0f shared=%ld parts=%ld stayed=%ld identical=%d hash=%016llx\n", error, by_network[0].hits_a_minute,
           rule.hits_a_minute, nothing.hits_a_minute, by_network[0].apart, nothing.apart, by_network[0].frame_us,
           by_network[1].frame_us, c[1].shared, (long)c[1].in_pool, (long)c[1].stayed, same,
           (unsigned long long)by_network[0].hash);
    fold_model_free(m);
    return !same;
}
