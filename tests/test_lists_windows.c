/* test_lists_windows.c - windows over lists: convolutions and pools, and convolutions that keep their past. In all
   settings against the eager context; lists against values of [length x channels], steps against the convolution over
   the whole sequence, bit for bit. Those are compared with plain loops in double precision by test_ops.c.
       cc -O2 -o test_lists_windows tests/test_lists_windows.c -lm && ./test_lists_windows */

#define FOLD__SHARED_WORK 500 /* small batches, too */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "scenes.h"

/* -- scenes ------------------------------------------------------------------------------------------------------ */

static fold_node windows(play *p)
{
    const fold_conv_desc same = { 1, 1, 0, 0 }, halving = { 2, 2, 1, 0 }, dilated = { 1, 3, 2, 0 }, apart = { 2, 1, 0, 1 };
    fold_ctx *f = p->f;
    const net *n = p->n;
    fold_node y[9];
    const fold_node x = see(p, fold_tanh(f, some_list(p, p->size))), none = some_list(p, 0);
    const fold_node part = fold_slice(f, fold_concat2(f, x, fold_square(f, x)), 0, 2, WIDTH); /* rows that lie apart */
    y[0] = see(p, fold_conv1d(f, x, n->filter, n->b, &same));
    y[1] = see(p, fold_conv1d(f, y[0], n->widening, n->none, NULL));
    y[2] = see(p, fold_conv1d(f, y[1], n->narrowing, n->b, &dilated)); /* each tap a segment of the product */
    y[3] = see(p, fold_add(f, fold_conv1d(f, part, n->channelwise, n->none, &apart), some_node(p)));
    y[4] = see(p, fold_max_pool1d(f, part, 3, 1, 1));
    y[5] = see(p, fold_mean_pool1d(f, x, 3, 2, 2));
    y[6] = see(p, fold_max_pool1d(f, fold_conv1d(f, x, n->filter, n->b, &halving), 2, 0, 0));
    y[7] = fold_conv1d(f, none, n->filter, n->b, &same);
    y[8] = fold_mean_pool1d(f, none, 3, 1, 2);
    CHECK_INT(fold_list_length(f, y[0]), p->size);
    CHECK_INT(fold_list_length(f, y[7]), 0);
    CHECK_INT(fold_list_length(f, y[8]), 2); /* of padding alone */
    return totals(p, y, 9);
}

/* -- lists against values ------------------------------------------------------------------------------------------ */

enum { LONG = 300, CASES = 9, WIDEST = 40 };
typedef struct window_case { const char *name; int channels, outputs, taps; fold_conv_desc desc; } window_case;
static const window_case window_cases[CASES] = {
    { "wide", 6, 20, 3, { 1, 1, 0, 0 } },     { "narrow", 8, 8, 3, { 2, 2, 1, 0 } },    { "dilated", 8, 5, 3, { 1, 4, 3, 0 } },
    { "segments", 20, 7, 5, { 1, 3, 2, 0 } }, { "apart", 17, 17, 4, { 1, 1, 2, 1 } },   { "one tap", 5, 3, 1, { 3, 0, 0, 0 } },
    { "deep", 33, 40, 7, { 2, 3, 1, 0 } },    { "largest", 7, 7, -3, { 2, 2, 0, 0 } },  { "mean", 19, 19, -4, { 1, 1, 0, 0 } }
};

/* taps < 0: a pool of such windows. */
static fold_node windowed(fold_ctx *f, const window_case *c, fold_node x, fold_param W, fold_param b)
{
    if (c->taps > 0) return fold_conv1d(f, x, W, b, &c->desc);
    return c->name[0] == 'l' ? fold_max_pool1d(f, x, -c->taps, c->desc.stride, c->desc.padding)
                             : fold_mean_pool1d(f, x, -c->taps, c->desc.stride, c->desc.padding);
}
static int windows_of(const window_case *c, int length)
{
    const int taps = c->taps < 0 ? -c->taps : c->taps, dilation = c->desc.dilation ? c->desc.dilation : 1;
    const int left = length + 2 * c->desc.padding - (taps - 1) * dilation - 1;
    return left >= 0 ? left / c->desc.stride + 1 : 0;
}

/* x as a part of longer rows, which do not lie end to end. */
static fold_node part_of_rows(fold_ctx *f, fold_node x, int channels)
{
    return fold_slice(f, fold_concat2(f, fold_neg(f, x), x), 0, channels, channels);
}

/* Rows of a table do not lie end to end. */
static void rows_of_a_table(void)
{
    static const int rows[5] = { 7, 2, 2, 9, 0 };
    float x[5 * WIDTH];
    net n;
    net_open(&n, fold_model_new(NULL));
    for (int eager = 0; eager < 2; eager++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
        fold_ctx *f = open_setting(n.m, &s, 0);
        for (int i = 0; i < 5; i++) memcpy(x + i * WIDTH, fold_param_value(n.m, n.words) + rows[i] * WIDTH, WIDTH * sizeof *x);
        const fold_node looked_up = fold_list_lookup(f, n.words, rows, 5), list = fold_list_input(f, x, 5, fold_shape1(WIDTH));
        const fold_node y[4] = { fold_conv1d(f, looked_up, n.filter, n.b, NULL), fold_max_pool1d(f, looked_up, 2, 0, 0),
                                 fold_conv1d(f, list, n.filter, n.b, NULL), fold_max_pool1d(f, list, 2, 0, 0) };
        CHECK_SAYS(!fold_run(f, y, 4), "%s", fold_ctx_message(f));
        CHECK_BITS(fold_value(f, y[0]), fold_value(f, y[2]), 3 * WIDTH);
        CHECK_BITS(fold_value(f, y[1]), fold_value(f, y[3]), 2 * WIDTH);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

typedef struct line_result { float y[(LONG + 8) * WIDEST], dx[LONG * WIDEST], dW[7 * WIDEST * WIDEST]; } line_result;
static void run_line(fold_ctx *f, const window_case *c, const float *values, int length, int listed, fold_param W, fold_param b,
                     line_result *to)
{
    fold_model *m = fold_ctx_model(f);
    const int rows = windows_of(c, length);
    fold_ctx_reset(f);
    fold_grads_clear(m);
    const fold_node x = listed ? fold_list_input(f, values, length, fold_shape1(c->channels))
                               : fold_input_shaped(f, values, fold_shape2(length, c->channels));
    const fold_node y = windowed(f, c, listed > 1 ? part_of_rows(f, x, c->channels) : x, W, b);
    fold_keep_grad(f, x);
    fold_keep(f, y);
    if (listed) CHECK_INT(fold_list_length(f, y), rows);
    const fold_node square = fold_square(f, y), all = listed ? fold_list_sum(f, square) : fold_sum(f, square, 0);
    CHECK_SAYS(!fold_backward(f, fold_sum(f, all, FOLD_ALL)), "%s, %d rows: %s", c->name, length, fold_ctx_message(f));
    if (rows) memcpy(to->y, fold_value(f, y), (size_t)(rows * c->outputs) * sizeof(float));
    if (rows && length) memcpy(to->dx, fold_grad(f, x), (size_t)(length * c->channels) * sizeof(float));
    if (c->taps > 0) memcpy(to->dW, fold_param_grad(m, W), (size_t)(c->taps * (c->desc.depthwise ? 1 : c->channels) * c->outputs) * sizeof(float));
}

/* Values and gradients have equal bits. Only those of x through filters of single channels are rounded otherwise: each
   window's share is rounded before it is added. */
static void lines_are_values(void)
{
    static const int lengths[] = { 0, 1, 2, 3, 17, LONG };
    static line_result want, got, part;
    static float values[LONG * WIDEST];
    check_random r = { 3 };
    random_fill(&r, values, LONG * WIDEST, -1, 1);
    for (int k = 0; k < KERNEL_SETS * 2; k++) {
        fold_model *m = kernel_set_model(kernel_set[k / 2]);
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, k % 2, 0 };
        for (int i = 0; m && i < CASES; i++) {
            const window_case *c = &window_cases[i];
            char name[2][20];
            snprintf(name[0], sizeof name[0], "W%d", i);
            snprintf(name[1], sizeof name[1], "b%d", i);
            const int taps = c->taps < 0 ? 1 : c->taps, inputs = c->desc.depthwise ? 1 : c->channels;
            const fold_param W = filled(m, name[0], fold_shape3(taps, inputs, c->outputs), FOLD_FOR_CONV);
            const fold_param b = filled(m, name[1], fold_shape1(c->outputs), 0);
            fold_ctx *f = open_setting(m, &s, 1);
            for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
                const int rows = windows_of(c, lengths[at]);
                run_line(f, c, values, lengths[at], 2, W, b, &part);
                run_line(f, c, values, lengths[at], 1, W, b, &got);
                for (int v = 0; !lengths[at] && v < rows * c->outputs; v++) /* windows of padding alone */
                    CHECK_NEAR(got.y[v], c->taps < 0 ? 0 : fold_param_value(m, b)[v % c->outputs], 0);
                for (int v = 0; !lengths[at] && rows && c->taps > 0 && v < c->outputs; v++)
                    CHECK_NEAR(fold_param_grad(m, b)[v], 2.0 * rows * (double)fold_param_value(m, b)[v], 1e-5);
                if (!rows || !lengths[at]) continue; /* a value's length would be an error */
                run_line(f, c, values, lengths[at], 0, W, b, &want);
                CHECK_BITS(part.y, want.y, rows * c->outputs);
                CHECK_BITS(got.y, want.y, rows * c->outputs);
                for (int v = 0; c->desc.depthwise && v < lengths[at] * c->channels; v++) CHECK_NEAR(got.dx[v], want.dx[v], 1e-5);
                if (!c->desc.depthwise) CHECK_BITS(got.dx, want.dx, lengths[at] * c->channels);
                if (c->taps > 0) CHECK_BITS(got.dW, want.dW, taps * inputs * c->outputs);
            }
            fold_ctx_free(f);
        }
        fold_model_free(m);
    }
}

/* Lists of all lengths are one signature: a batch for each op, however many lengths there are. */
static void one_signature(void)
{
    enum { LINES = 32 };
    static const fold_conv_desc same = { 1, 1, 0, 0 };
    static float values[LINES * WIDTH];
    fold_model *m = fold_model_new(NULL);
    const fold_param W = filled(m, "W", fold_shape3(3, WIDTH, WIDTH), FOLD_FOR_CONV), b = filled(m, "b", fold_shape1(WIDTH), 0);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node y[LINES];
    for (int i = 0; i < LINES; i++) {
        const fold_node x = fold_list_input_ref(f, values, i + 1, fold_shape1(WIDTH));
        y[i] = fold_list_mean(f, fold_max_pool1d(f, fold_relu(f, fold_conv1d(f, x, W, b, &same)), 3, 1, 1));
    }
    CHECK_SAYS(!fold_run(f, y, LINES), "%s", fold_ctx_message(f));
    CHECK_INT(fold_ctx_stats(f).batches, 5);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- steps against the convolution over the whole sequence ----------------------------------------------------------- */

enum { STREAMS = 5, LAST = 150, MOST_AT_ONCE = 40, FORMS = 6 };
typedef struct stream_form { int channels, outputs, taps, dilation, depthwise; } stream_form;
static const stream_form stream_forms[FORMS] = {
    { 8, 8, 3, 4, 0 }, { 6, 20, 2, 1, 0 }, { 20, 7, 4, 3, 0 }, { 17, 17, 3, 2, 1 }, { 5, 3, 1, 1, 0 }, { 16, 16, 5, 9, 0 }
};
typedef struct stream {
    int at;
    float x[LAST * 20], want[LAST * 20], memory[(36 + MOST_AT_ONCE + 3) * 20];
    fold_cache past;
} stream;

static void open_stream(fold_model *m, stream *s, const stream_form *form, fold_param W, fold_param b, int index, check_random *r)
{
    const fold_conv_desc desc = { 1, 0, form->dilation, form->depthwise };
    const int before = (form->taps - 1) * form->dilation;
    fold_ctx *f = fold_ctx_new(m, NULL);
    s->at = 0;
    random_fill(r, s->x, LAST * form->channels, -2, 2);
    memset(s->memory, 255, sizeof s->memory); /* not a number */
    memset(&s->past, 0, sizeof s->past);
    s->past.memory = s->memory;
    s->past.capacity = before + MOST_AT_ONCE + index % 4; /* the smallest, and larger ones */
    s->past.width = form->channels;
    CHECK(fold_cache_bytes(&s->past) == (size_t)(s->past.capacity * form->channels) * sizeof(float));
    fold_node in[2] = { fold_zeros(f, fold_shape2(before ? before : 1, form->channels)),
                        fold_input_shaped(f, s->x, fold_shape2(LAST, form->channels)) };
    const fold_node y = fold_conv1d(f, before ? fold_concat(f, in, 2, 0) : in[1], W, b, &desc);
    CHECK_SAYS(!fold_run(f, &y, 1) && !fold_read(f, &y, 1, s->want), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
}

/* Streams take one row a step, as a node or a list, or many, or none; one begins anew in between. */
static int rows_of_step(int step, int stream) { return stream == 0 ? 1 : stream == 1 ? step % 4 : 1 + step * (stream + 7) % MOST_AT_ONCE; }

static void stream_together(fold_model *m, const setting *s, const stream_form *form, fold_param W, fold_param b)
{
    static stream all[STREAMS];
    const fold_conv_desc desc = { 0, 0, form->dilation, form->depthwise };
    check_random r = { 8 };
    fold_ctx *f = open_setting(m, s, 0);
    for (int i = 0; i < STREAMS; i++) open_stream(m, &all[i], form, W, b, i, &r);
    for (int step = 0, left = 1; left; step++) {
        fold_node found[STREAMS];
        int count[STREAMS];
        left = 0;
        fold_ctx_reset(f);
        if (step == 30) CHECK_INT(fold_cache_truncate(&all[1].past, all[1].at = 0), FOLD_OK);
        for (int i = 0; i < STREAMS; i++) {
            count[i] = rows_of_step(step, i);
            if (all[i].at + count[i] > LAST) count[i] = -1;
            if (count[i] < 0) continue;
            const float *x = all[i].x + all[i].at * form->channels;
            const fold_node in = i == 0 ? fold_input(f, x, form->channels) : fold_list_input(f, x, count[i], fold_shape1(form->channels));
            found[left++] = fold_conv1d_step(f, &all[i].past, in, W, b, &desc);
        }
        if (left && !CHECK_SAYS(!fold_run(f, found, left), "%s, step %d: %s", s->name, step, fold_ctx_message(f))) break;
        for (int i = 0, at = 0; i < STREAMS; i++) {
            if (count[i] < 0) continue;
            if (count[i]) CHECK_BITS(fold_value(f, found[at]), all[i].want + all[i].at * form->outputs, count[i] * form->outputs);
            at++;
            all[i].at += count[i];
            CHECK_INT(all[i].past.length % all[i].past.capacity, all[i].at % all[i].past.capacity);
            CHECK(all[i].past.length < 2 * all[i].past.capacity);
        }
    }
    fold_ctx_free(f);
}
static void steps_are_convolutions(void)
{
    static const setting settings[] = { { "plain", FOLD_SCHEDULE_RATIO, 0, 0, 0, 0, 0 },      { "depth", FOLD_SCHEDULE_DEPTH, 0, 0, 0, 0, 1 },
                                        { "groups", FOLD_SCHEDULE_AGENDA, 1, 0, 0, 0, 0 },    { "threads", FOLD_SCHEDULE_RATIO, 1, 0, 3, 0, 0 },
                                        { "plans", FOLD_SCHEDULE_RATIO, 0, 1 << 20, 0, 0, 0 }, { "eager", FOLD_SCHEDULE_RATIO, 0, 0, 0, 1, 0 } };
    for (int set = 0; set < KERNEL_SETS; set++) {
        fold_model *m = kernel_set_model(kernel_set[set]);
        for (int form = 0; m && form < FORMS; form++) {
            const stream_form *c = &stream_forms[form];
            char name[2][20];
            snprintf(name[0], sizeof name[0], "W%d", form);
            snprintf(name[1], sizeof name[1], "b%d", form);
            const fold_param W = filled(m, name[0], fold_shape3(c->taps, c->depthwise ? 1 : c->channels, c->outputs), FOLD_FOR_CONV);
            const fold_param b = filled(m, name[1], fold_shape1(c->outputs), 0);
            for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) stream_together(m, &settings[i], c, W, b);
        }
        fold_model_free(m);
    }
}

/* A replay does the same step again, with other data. A recording that fails, and one that has not run, give up theirs. */
static void steps_again(void)
{
    enum { CHANNELS = 3 };
    const fold_conv_desc desc = { 0, 0, 2, 0 };
    static const float rows[4][CHANNELS] = { { 1, 2, 3 }, { -1, 0, 2 }, { 5, -7, 1 }, { 0.5f, 0, 4 } };
    fold_model *m = fold_model_new(NULL);
    const fold_param W = filled(m, "W", fold_shape3(2, CHANNELS, 2), FOLD_FOR_CONV), none = { 0, 0 };
    for (int eager = 0; eager < 2; eager++) {
        const setting s = { "", FOLD_SCHEDULE_RATIO, 0, 0, 0, eager, 0 };
        float memory[2][3 * CHANNELS], x[CHANNELS], want[2];
        fold_cache past = { memory[0], 3, 0, CHANNELS, 0, 0, { 0 } }, other = { memory[1], 3, 0, CHANNELS, 0, 0, { 0 } };
        fold_ctx *f = open_setting(m, &s, 0), *good = fold_ctx_new(m, NULL);
        for (int step = 0; step < 4; step++) {
            fold_ctx_reset(good);
            fold_node y = fold_conv1d_step(good, &other, fold_input(good, rows[step], CHANNELS), W, none, &desc);
            CHECK(!fold_run(good, &y, 1) && !fold_read(good, &y, 1, want));
            fold_ctx_reset(f);
            memset(x, 0, sizeof x);
            fold_conv1d_step(f, &past, fold_input(f, x, CHANNELS), W, none, &desc); /* given up */
            fold_ctx_reset(f);
            y = fold_conv1d_step(f, &past, fold_input(f, x, CHANNELS), W, none, &desc);
            fold_lookup(f, W, 99); /* fails */
            CHECK(fold_run(f, &y, 1) != FOLD_OK);
            fold_ctx_reset(f);
            y = fold_conv1d_step(f, &past, fold_input_ref(f, x, fold_shape1(CHANNELS)), W, none, &desc);
            CHECK(fold_node_is_null(fold_conv1d_step(f, &past, fold_input(f, x, CHANNELS), W, none, &desc)));
            CHECK_TEXT(fold_ctx_message(f), "conv1d_step: the cache's last step has not run");
            fold_ctx_reset(f);
            y = fold_conv1d_step(f, &past, fold_input_ref(f, x, fold_shape1(CHANNELS)), W, none, &desc);
            CHECK_SAYS(!fold_run(f, &y, 1), "%s", fold_ctx_message(f));
            memcpy(x, rows[step], sizeof x);
            CHECK_SAYS(!fold_replay(f), "%s", fold_ctx_message(f));
            CHECK_BITS(fold_value(f, y), want, 2);
            CHECK_INT(past.length, other.length);
        }
        fold_ctx_free(f);
        fold_ctx_free(good);
    }
    fold_model_free(m);
}

/* Numbers that do not fit are told. */
#define SAYS(call, part)                                                        \
    do {                                                                        \
        fold_ctx_reset(f);                                                      \
        const fold_node x = fold_input(f, values, 4);                           \
        const fold_node rows = fold_list_input(f, values, 3, fold_shape1(4));   \
        (void)x, (void)rows;                                                    \
        CHECK(fold_node_is_null(call));                                         \
        CHECK_TEXT(fold_ctx_message(f), part);                                  \
    } while (0)
static void mistakes_of_windows(void)
{
    static const float values[12] = { 0 };
    const fold_conv_desc dilated = { 0, 0, 4, 0 }, strided = { 2, 0, 0, 0 }, padded = { 0, 1, 0, 0 }, much = { 0, 3, 0, 0 };
    const fold_param none = { 0, 0 };
    float memory[40];
    fold_model *m = fold_model_new(NULL);
    const fold_param W = filled(m, "W", fold_shape3(3, 4, 2), FOLD_FOR_CONV), other = filled(m, "other", fold_shape3(3, 5, 2), FOLD_FOR_CONV);
    const fold_param taps = filled(m, "taps", fold_shape3(33, 16, 2), FOLD_FOR_CONV), b = filled(m, "b", fold_shape1(3), 0);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_cache past = { memory, 10, 0, 4, 0, 0, { 0 } }, heads = { memory, 4, 2, 4, 0, 0, { 0 } }, empty = past;
    empty.memory = NULL;
    SAYS(fold_conv1d(f, rows, other, none, NULL), "conv1d: the filter's inputs must be the channels of x");
    SAYS(fold_conv1d(f, rows, W, b, NULL), "conv1d: bias 'b' must be [2]");
    SAYS(fold_conv1d(f, rows, W, none, &much), "conv1d: padding must be smaller than the window, which spans (taps - 1) * dilation + 1 (inputs [4])");
    SAYS(fold_conv1d(f, x, W, none, NULL), "or a list of [channels]");
    SAYS(fold_conv1d(f, fold_list_input(f, NULL, 0, fold_shape1(16)), taps, none, &dilated), "a dilated filter with 2 outputs has 33 taps");
    SAYS(fold_max_pool1d(f, rows, 0, 1, 0), "max_pool1d: size is 0, must be in [1, 32767]");
    SAYS(fold_mean_pool1d(f, rows, 2, 1, 2), "mean_pool1d: padding must be smaller");
    SAYS(fold_conv1d_step(f, NULL, x, W, none, NULL), "conv1d_step: the cache is NULL");
    SAYS(fold_conv1d_step(f, &empty, x, W, none, NULL), "conv1d_step: the cache has no memory, or wrong sizes: capacity 10");
    SAYS(fold_conv1d_step(f, &heads, x, W, none, NULL), "conv1d_step: the cache has no memory, or wrong sizes: capacity 4, heads 2");
    SAYS(fold_conv1d_step(f, &past, rows, W, none, &dilated), "3 rows and the 8 before them exceed the cache's capacity of 10");
    SAYS(fold_conv1d_step(f, &past, x, W, none, &strided), "x has rank 1, stride is 2, padding is 0");
    SAYS(fold_conv1d_step(f, &past, x, W, none, &padded), "x has rank 1, stride is 0, padding is 1");
    SAYS(fold_conv1d_step(f, &past, x, other, none, NULL), "conv1d_step: the filter's inputs must be");
    SAYS(fold_attention_step(f, &past, x, x, x), "attention_step: the cache has no memory, or wrong sizes: capacity 10, heads 0");
    past.length = 7;
    for (int kept = 1; kept < 7; kept++) CHECK_INT(fold_cache_truncate(&past, kept), FOLD_BAD_ARGUMENT);
    CHECK_INT(past.length, 7);
    CHECK_INT(fold_cache_truncate(&past, 7), FOLD_OK);
    CHECK_INT(fold_cache_truncate(&past, 0), FOLD_OK);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx_free(f);
    f = fold_ctx_new(m, &training);
    SAYS(fold_conv1d_step(f, &past, x, W, none, NULL), "conv1d_step: has no gradient; in a training context use fold_conv1d");
    fold_ctx_free(f);
    fold_model_free(m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    skip_missing_kernel_sets();
    check_scene("windows over lists: scene", windows);
    check_run("windows over lists: lines are values", lines_are_values);
    check_run("windows over lists: rows of a table", rows_of_a_table);
    check_run("windows over lists: one signature", one_signature);
    check_run("windows over lists: steps", steps_are_convolutions);
    check_run("windows over lists: steps again", steps_again);
    check_run("windows over lists: mistakes", mistakes_of_windows);
    return check_finish();
}
