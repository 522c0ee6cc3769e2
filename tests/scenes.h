/* scenes.h - recordings that are played into contexts of all settings, which must all show the same bits as the
   eager one: values, gradients of nodes and of parameters. Include it behind fold.h and check.h.

       static fold_node squares(play *p)                  // one sample; gives its loss, a scalar
       {
           const fold_node x = see(p, some_list(p, 3));   // what is seen is kept and compared
           return total(p, fold_square(p->f, x));
       }
       check_scene("squares", squares); */

#ifndef SCENES_H
#define SCENES_H

#include "kernel_sets.h"
#include <stdlib.h>

/* -- a model ------------------------------------------------------------------------------------------- */

enum { WIDTH = 6, WORDS = 11, CLASSES = 4, FRAMES = 5, SAMPLES = 7, MAX_SEEN = 64, MAX_ROWS = 64, SCENE_FLOATS = 1 << 19 };

typedef struct net {
    fold_model *m;
    fold_param words, W, b, U, V, table, gain, bias, matrix, none;
    fold_param filter, widening, narrowing, channelwise; /* of convolutions */
    fold_cell gate, halves, apart, drops, neighbours, nested, joined;
    fold_recurrent gru, lstm;
    fold_mlp mlp;
    fold_transformer block[2];
    fold_op decay;
} net;

/* x: a gate over x. */
static void gate_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_mul(f, in[0], fold_sigmoid(f, fold_linear(f, in[0], n->W, n->b)));
}
/* x, y: several outputs, one of them an input, one a window. */
static void halves_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node z = fold_tanh(f, fold_linear_n(f, in, 2, n->U, n->b));
    out[0] = fold_add(f, z, fold_use(f, n->gain));
    out[1] = fold_slice(f, z, 0, 1, 3);
    out[2] = in[1];
}
/* x, y: one output needs x alone, one y alone, one both, one none. */
static void apart_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node a = fold_gelu_tanh(f, fold_linear(f, in[0], n->W, n->none));
    const fold_node b = fold_softmax(f, fold_layer_norm(f, in[1], n->gain, n->bias, 0));
    out[0] = a;
    out[1] = fold_dot(f, b, in[1]);
    out[2] = fold_sub(f, fold_mul(f, a, b), in[0]);
    out[3] = fold_square(f, fold_use(f, n->gain));
}
static void drops_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_dropout(f, fold_add(f, fold_dropout(f, in[0], 0.5f), in[1]), 0.25f);
}
/* query; keys and values: a cell of a list. */
static void neighbours_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node key = fold_tanh(f, fold_linear(f, in[1], n->W, n->b));
    out[0] = fold_add(f, in[0], fold_list_softmax_mean(f, fold_dot(f, in[0], key), in[2]));
    out[1] = fold_list_mean(f, fold_mul(f, key, in[2]));
}
/* A node and two components of a list: parts joined for a product, which reads them past the concatenation. */
static void joined_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node both = fold_concat2(f, in[1], in[2]), one = fold_concat(f, in + 2, 1, 0);
    const fold_node halves = fold_concat2(f, fold_slice(f, in[2], 0, 0, 2), fold_slice(f, fold_tanh(f, in[1]), 0, 1, WIDTH - 2));
    const fold_node a = fold_tanh(f, fold_linear(f, both, n->U, n->b)), b = fold_linear(f, one, n->W, n->none);
    const fold_node c = fold_linear(f, fold_concat2(f, in[2], in[0]), n->U, n->none), d = fold_linear(f, halves, n->W, n->b);
    const fold_node e = fold_linear(f, fold_concat2(f, in[1], fold_use(f, n->gain)), n->U, n->none);
    out[0] = fold_list_sum(f, fold_add(f, fold_mul(f, a, b), fold_sub(f, c, d)));
    out[1] = fold_list_softmax_mean(f, fold_dot(f, both, both), e);
    out[2] = fold_list_mean(f, both); /* another reader */
}
static void nested_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node call = fold_call(f, n->halves, in, 2), first = fold_out(f, call, 0);
    out[0] = fold_call(f, n->gate, &first, 1);
    out[1] = fold_concat2(f, fold_out(f, call, 1), fold_out(f, call, 2));
}

/* An op of one's own over a whole list x and a node a beside it: y[r] = x[r] + a y[r - 1]. */
static const char *decay_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in;
    (void)attr;
    out[0] = in[0];
    return in[1].dim[0] == 1 ? NULL : "a must be [1]";
}
static void decay_forward(const fold_op_call *c)
{
    const float a = fold_row(&c->in[1], 0)[0];
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < c->in_shape[0].dim[0]; i++)
            fold_row(&c->out[0], r)[i] = fold_row(&c->in[0], r)[i] + (r ? a * fold_row(&c->out[0], r - 1)[i] : 0);
}
static void decay_backward(const fold_op_call *c)
{
    const float a = fold_row(&c->in[1], 0)[0];
    float sum[WIDTH] = { 0 }, of_a = 0;
    for (int r = c->rows; r-- > 0;)
        for (int i = 0; i < c->in_shape[0].dim[0]; i++) {
            sum[i] = fold_row(&c->dout[0], r)[i] + a * sum[i];
            if (r) of_a += sum[i] * fold_row(&c->out[0], r - 1)[i];
            if (c->din[0].base) fold_row(&c->din[0], r)[i] = sum[i];
        }
    if (c->din[1].base) fold_row(&c->din[1], 0)[0] = of_a;
}

static fold_cell new_cell(const net *n, const char *name, fold_cell_body *body, int n_in, int n_list, int n_out)
{
    fold_cell_desc d = fold_cell_desc_default();
    d.name = name;
    d.body = body;
    d.user = n;
    d.n_in = n_in;
    d.n_list = n_list;
    d.n_out = n_out;
    for (int i = 0; i < n_in; i++) d.in[i] = fold_shape1(WIDTH);
    for (int i = 0; i < n_list; i++) d.list[i] = fold_shape1(WIDTH);
    return fold_cell_new(n->m, &d);
}

static fold_param filled(fold_model *m, const char *name, fold_shape shape, unsigned uses)
{
    fold_param_desc d = fold_param_desc_default();
    d.name = name;
    d.shape = shape;
    d.uses = uses;
    d.init = FOLD_INIT_UNIFORM;
    d.init_scale = 0.5f;
    return fold_param_new(m, &d);
}

static void net_open(net *n, fold_model *m)
{
    static const int sizes[] = { WIDTH, 2 * WIDTH, WIDTH };
    memset(n, 0, sizeof *n);
    n->m = m;
    n->words = filled(m, "words", fold_shape2(WORDS, WIDTH), FOLD_FOR_LOOKUP);
    n->table = filled(m, "table", fold_shape3(WORDS, 2, 3), FOLD_FOR_LOOKUP);
    n->W = filled(m, "W", fold_shape2(WIDTH, WIDTH), 0);
    n->U = filled(m, "U", fold_shape2(2 * WIDTH, WIDTH), 0);
    n->V = filled(m, "V", fold_shape2(WIDTH, CLASSES), 0);
    n->matrix = filled(m, "matrix", fold_shape2(WIDTH, 3), 0);
    n->b = filled(m, "b", fold_shape1(WIDTH), 0);
    n->gain = filled(m, "gain", fold_shape1(WIDTH), 0);
    n->bias = filled(m, "bias", fold_shape1(WIDTH), 0);
    n->filter = filled(m, "filter", fold_shape3(3, WIDTH, WIDTH), FOLD_FOR_CONV);
    n->widening = filled(m, "widening", fold_shape3(2, WIDTH, 20), FOLD_FOR_CONV);
    n->narrowing = filled(m, "narrowing", fold_shape3(3, 20, WIDTH), FOLD_FOR_CONV);
    n->channelwise = filled(m, "channelwise", fold_shape3(3, 1, WIDTH), FOLD_FOR_CONV);
    fold_op_desc decay = fold_op_desc_default();
    decay.name = "decay";
    decay.n_in = 2;
    decay.n_out = decay.is_whole = 1;
    decay.needs = FOLD_NEEDS_IN | FOLD_NEEDS_OUT;
    decay.infer = decay_infer;
    decay.forward = decay_forward;
    decay.backward = decay_backward;
    n->decay = fold_op_new(m, &decay);
    n->gate = new_cell(n, "gate", gate_body, 1, 0, 1);
    n->halves = new_cell(n, "halves", halves_body, 2, 0, 3);
    n->apart = new_cell(n, "apart", apart_body, 2, 0, 4);
    n->drops = new_cell(n, "drops", drops_body, 2, 0, 1);
    n->neighbours = new_cell(n, "neighbours", neighbours_body, 1, 2, 2);
    n->joined = new_cell(n, "joined", joined_body, 1, 2, 3);
    n->nested = new_cell(n, "nested", nested_body, 2, 0, 2);
    n->gru = fold_gru_new(m, "gru", WIDTH, WIDTH);
    n->lstm = fold_lstm_new(m, "lstm", WIDTH, WIDTH);
    n->mlp = fold_mlp_new(m, "mlp", sizes, 2, FOLD_ACT_TANH);
    for (int i = 0; i < 2; i++) {
        fold_transformer_desc block = fold_transformer_desc_default();
        block.width = WIDTH;
        block.heads = 1 + i;
        block.inner = 5;
        block.activation = i ? FOLD_ACT_GELU_TANH : FOLD_ACT_LINEAR;
        block.norm_first = i;
        block.norm = i ? FOLD_NORM_RMS : FOLD_NORM_LAYER;
        block.dropout = 0.25f * (float)i;
        n->block[i] = fold_transformer_new(m, i ? "block1" : "block0", &block);
    }
    CHECK_SAYS(!fold_model_status(m), "%s", fold_model_message(m));
}

/* -- playing a scene -------------------------------------------------------------------------------------- */

enum { KEEP_NONE, KEEP_SOME, KEEP_ALL, KEEPS };

typedef struct play {
    fold_ctx *f;
    const net *n;
    check_random random;  /* of the sample's data */
    int sample, size;     /* size: how many rows its longest lists have */
    int keep, training, count;
    fold_node seen[MAX_SEEN];
    fold_node common;     /* a list that all samples read */
    const float *fixed;   /* SCENE_FIXED floats that stay, for inputs by reference */
} play;
typedef fold_node scene(play *p);
enum { SCENE_FIXED = MAX_ROWS * WIDTH };

static fold_node see(play *p, fold_node x)
{
    const int kept = p->keep == KEEP_ALL || (p->keep == KEEP_SOME && p->count % 2 == p->sample % 2);
    if (!CHECK(p->count < MAX_SEEN)) return x;
    if (kept) fold_keep(p->f, x);
    if (kept && p->training) fold_keep_grad(p->f, x);
    return p->seen[p->count++] = x;
}

/* n rows of new data. */
static fold_node rows_of(play *p, int n, fold_shape row)
{
    float x[MAX_ROWS * 16];
    int size = n;
    for (int i = 0; i < row.rank; i++) size *= row.dim[i];
    if (!CHECK(size <= (int)(sizeof x / sizeof *x))) size = 0;
    random_fill(&p->random, x, (size_t)size, -1, 1);
    return fold_list_input(p->f, x, n, row);
}
static fold_node some_list(play *p, int n) { return rows_of(p, n, fold_shape1(WIDTH)); }
static fold_node some_node(play *p)
{
    float x[WIDTH];
    random_fill(&p->random, x, WIDTH, -1, 1);
    return fold_input(p->f, x, WIDTH);
}

/* A scalar that depends on all values of a list or node, each by a weight of its own. */
static fold_node total(play *p, fold_node x)
{
    fold_shape row = fold_node_shape(p->f, x);
    const int n = fold_list_length(p->f, x);
    float weight[WIDTH * 16];
    int size = 1;
    for (int i = 0; i < row.rank; i++) size *= row.dim[i];
    if (!CHECK_SAYS(size && size <= WIDTH * 16, "%s", fold_ctx_message(p->f))) return fold_constant(p->f, 0);
    random_fill(&p->random, weight, (size_t)size, -1, 1);
    const fold_node part = fold_dot(p->f, x, fold_input_shaped(p->f, weight, row));
    return n < 0 ? part : fold_list_sum(p->f, part);
}
static fold_node totals(play *p, const fold_node *x, int n)
{
    fold_node part[MAX_SEEN];
    for (int i = 0; i < n; i++) part[i] = total(p, x[i]);
    return fold_sum_n(p->f, part, n);
}

/* What a scene showed, in the order of its samples, and where each sample begins; then the parameters' gradients. */
typedef struct shown {
    int n, sample[SAMPLES + 1], grads;
    float x[SCENE_FLOATS];
} shown;

static void show(shown *s, const float *x, int n)
{
    if (!CHECK(s->n + n <= SCENE_FLOATS)) return;
    memcpy(s->x + s->n, x, (size_t)n * sizeof *x);
    s->n += n;
}

/* Rows of a window do not lie end to end: they are read, and their gradients have no address. */
static void show_node(shown *s, play *p, fold_node x, int gradient)
{
    static float values[MAX_ROWS * 2 * 24];
    const fold_shape row = fold_node_shape(p->f, x);
    const int rows = fold_list_length(p->f, x);
    int size = rows < 0 ? 1 : rows;
    for (int i = 0; i < row.rank; i++) size *= row.dim[i];
    if (!CHECK(size <= (int)(sizeof values / sizeof *values))) return;
    const float *grad = gradient ? fold_grad(p->f, x) : NULL;
    if (grad) show(s, grad, size);
    else if (gradient) CHECK_SAYS(strstr(fold_ctx_message(p->f), "view of a list"), "sample %d: %s", p->sample, fold_ctx_message(p->f));
    else if (CHECK_SAYS(!fold_read(p->f, &x, 1, values), "sample %d: %s", p->sample, fold_ctx_message(p->f)))
        show(s, values, size);
}

typedef struct setting {
    const char *name;
    fold_schedule schedule;
    size_t group_bytes, plan_cache_bytes;
    int threads, eager, dedupe;
} setting;

/* Other threads' parts first: one that reads another's result before it is there fails. */
static void from_the_last(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    while (n-- > 0) task(n, user);
}

static fold_ctx *open_setting(fold_model *m, const setting *s, int training)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = training;
    d.schedule = s->schedule;
    d.group_bytes = s->group_bytes;
    d.plan_cache_bytes = s->plan_cache_bytes;
    d.threads = s->threads;
    d.eager = s->eager;
    d.dedupe = s->dedupe;
    d.parallel_for = from_the_last;
    return fold_ctx_new(m, &d);
}

/* How a scene is played: samples [from, to), what is kept, and which data (the same structure with others). */
typedef struct take { int from, to, keep, training, data; } take;

static const int scene_sizes[SAMPLES] = { 3, 0, 1, 17, 2, 0, 40 };

static void begin_sample(play *p, const take *t, int sample)
{
    p->sample = sample;
    p->size = scene_sizes[sample];
    p->count = 0;
    p->random.state = (uint64_t)(sample * 977 + t->data * 31337 + 5);
    fold_dropout_seed(p->f, (uint64_t)(sample + 1));
}

static void show_samples(shown *s, play *p, const take *t, const fold_node *loss)
{
    for (int k = t->from; k < t->to; k++) {
        s->sample[k] = s->n;
        show_node(s, &p[k], loss[k], 0);
        for (int i = 0; i < p[k].count; i++) {
            if (p[k].keep == KEEP_NONE || (p[k].keep == KEEP_SOME && i % 2 != k % 2)) continue;
            show_node(s, &p[k], p[k].seen[i], 0);
            if (t->training) show_node(s, &p[k], p[k].seen[i], 1);
        }
    }
    s->sample[t->to] = s->grads = s->n;
}

/* Plays all samples into a context that is reset, and shows what came of it. */
static int play_scene(fold_ctx *f, const net *n, scene *record, const take *t, shown *s)
{
    static play p[SAMPLES];
    static float fixed[SCENE_FIXED];
    check_random r = { 99 };
    fold_node loss[SAMPLES];
    int count;
    memset(s, 0, offsetof(shown, x));
    random_fill(&r, fixed, SCENE_FIXED, -1, 1);
    fold_ctx_reset(f);
    fold_grads_clear(n->m);
    const fold_node common = fold_tanh(f, fold_list_input_ref(f, fixed, 5, fold_shape1(WIDTH)));
    for (int k = t->from; k < t->to; k++) {
        memset(&p[k], 0, sizeof p[k]);
        p[k].f = f;
        p[k].n = n;
        p[k].keep = t->keep;
        p[k].training = t->training;
        p[k].common = common;
        p[k].fixed = fixed;
        begin_sample(&p[k], t, k);
        loss[k] = record(&p[k]);
        fold_keep(f, loss[k]);
    }
    const fold_node root = fold_sum_n(f, loss + t->from, t->to - t->from);
    const fold_status status = t->training ? fold_backward(f, root) : fold_run(f, &root, 1);
    if (!CHECK_SAYS(!status, "%s", fold_ctx_message(f))) return 0;
    show_samples(s, p, t, loss);
    const float *grads = t->training ? fold_model_grads(n->m, &count) : NULL;
    if (grads) show(s, grads, count);
    return 1;
}

/* -- a scene in all settings --------------------------------------------------------------------------------- */

static void same_shown(const char *scene_name, const char *setting_name, const take *t, const shown *got, const shown *want,
                       int end)
{
    int at = 0;
    while (at < end && !memcmp(got->x + at, want->x + at, sizeof *got->x)) at++;
    CHECK_SAYS(at == end && got->n == want->n,
               "%s, %s, kept %d: float %d of %d (%d of parameters) is %.9g, eager %.9g", scene_name, setting_name, t->keep,
               at, want->n, want->n - want->grads, (double)got->x[at], (double)want->x[at]);
}

static shown scene_want, scene_got, scene_best;

static void compare_setting(const char *name, scene *record, const net *n, const setting *s, const take *t, int end)
{
    fold_ctx *f = open_setting(n->m, s, t->training);
    for (int again = 0; again < (s->plan_cache_bytes ? 4 : 1); again++) {
        if (!play_scene(f, n, record, t, &scene_got)) { printf("    in setting '%s'\n", s->name); break; }
        same_shown(name, s->name, t, &scene_got, &scene_want, end);
    }
    if (s->plan_cache_bytes) CHECK_SAYS(fold_ctx_stats(f).plan_hits == 2, "%s: %d plans replayed", name, fold_ctx_stats(f).plan_hits);
    fold_ctx_free(f);
}

static int eager_scene(scene *record, const net *n, const take *t, int dedupe, shown *s)
{
    const setting eager = { "eager", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, dedupe };
    fold_ctx *f = open_setting(n->m, &eager, t->training);
    const int played = play_scene(f, n, record, t, s);
    fold_ctx_free(f);
    return played;
}

/* Every schedule and budget, threads, plans. */
static void in_all_settings(const char *name, scene *record, const net *n, const take *t, int dedupe)
{
    static const size_t budgets[] = { SIZE_MAX, 0, 4096, 1 };
    static const char *const names[] = { "ratio", "depth", "agenda" };
    if (!eager_scene(record, n, t, dedupe, &scene_want)) { printf("    eager, %s\n", name); return; }
    for (int schedule = 0; schedule < FOLD_SCHEDULE_COUNT; schedule++)
        for (int b = 0; b < 4; b++) {
            const setting s = { names[schedule], (fold_schedule)schedule, budgets[b], 0, 0, 0, dedupe };
            compare_setting(name, record, n, &s, t, scene_want.n);
        }
    for (int threads = 2; threads <= 4; threads++)
        for (int b = 0; b < 4; b += 3) {
            const setting s = { b ? "threads, groups" : "threads", FOLD_SCHEDULE_RATIO, budgets[b], 0, threads, 0, dedupe };
            compare_setting(name, record, n, &s, t, scene_want.n);
        }
    const setting plans = { "plans", FOLD_SCHEDULE_RATIO, 0, 1 << 20, 0, 0, dedupe };
    if (!dedupe) compare_setting(name, record, n, &plans, t, scene_want.n);
}

/* Each sample alone shows what it shows in company, whose floats scene_want holds. */
static void samples_alone(const char *name, scene *record, const net *n)
{
    static const setting plain = { "alone", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 };
    fold_ctx *f = open_setting(n->m, &plain, 1);
    for (int k = 0; k < SAMPLES; k++) {
        const take t = { k, k + 1, KEEP_ALL, 1, 0 };
        const int size = scene_want.sample[k + 1] - scene_want.sample[k];
        if (!play_scene(f, n, record, &t, &scene_got)) break;
        CHECK_INT(scene_got.grads, size);
        if (!CHECK_BITS(scene_got.x, scene_want.x + scene_want.sample[k], size)) printf("    %s, sample %d alone\n", name, k);
    }
    fold_ctx_free(f);
}

/* Merging keeps the bits of values, and what it makes of gradients is the same in all contexts that merge. */
static void with_merging(const char *name, scene *record, const net *n)
{
    const take values = { 0, SAMPLES, KEEP_ALL, 0, 0 }, training = { 0, SAMPLES, KEEP_ALL, 1, 0 };
    const setting merging = { "merging, inference", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 1 };
    if (eager_scene(record, n, &values, 0, &scene_want))
        compare_setting(name, record, n, &merging, &values, scene_want.n);
    in_all_settings(name, record, n, &training, 1);
}

#ifdef FOLD_REPRODUCIBLE
enum { PORTABLE_IS_FUSED = 1 };
#else
enum { PORTABLE_IS_FUSED = 0 };
#endif

static void play_on(const char *isa, const char *name, scene *record, int first)
{
    const int fused = PORTABLE_IS_FUSED || strcmp(isa, "portable");
    fold_model *m = kernel_set_model(isa);
    net n;
    if (!m) return;
    net_open(&n, m);
    for (int keep = 0; keep < KEEPS; keep++) {
        const take t = { 0, SAMPLES, keep, 1, 0 }, inference = { 0, SAMPLES, keep, 0, 0 };
        in_all_settings(name, record, &n, &t, 0);
        if (keep < KEEP_ALL) in_all_settings(name, record, &n, &inference, 0);
    }
    const take all = { 0, SAMPLES, KEEP_ALL, 1, 0 };
    if (!eager_scene(record, &n, &all, 0, &scene_want)) return;
    if (first) scene_best = scene_want;
    else if (fused) same_shown(name, isa, &all, &scene_want, &scene_best, scene_best.n);
    samples_alone(name, record, &n);
    with_merging(name, record, &n);
    fold_model_free(m);
}

static void check_scene(const char *name, scene *record)
{
    int first = 1;
    if (!check_begin(name)) return;
    for (int i = KERNEL_SETS - 1; i >= 0; i--) {
        fold_model *m = kernel_set_model(kernel_set[i]);
        const int there = m != NULL;
        fold_model_free(m);
        if (!there) continue;
        play_on(kernel_set[i], name, record, first);
        first = 0;
    }
    check_end();
}

#endif /* SCENES_H */
