/* speech: a network learns which symbols an utterance contains, from utterances of different lengths in which
   nothing marks where a symbol begins.

     cc -O2 -o speech examples/speech.c -lm && ./speech --svg speech.svg
     ./speech --check

   The program makes up the utterances. Each consists of 2 to 8 symbols out of ten, as frames of 12 frequency
   bands. A symbol is one or two tones, steady or gliding, of any loudness and length, and silence may follow
   it. There is noise, and the speaker's pitch shifts all tones. In training, the network is given the symbols
   in order, but never their positions.

   The network is written for one utterance. A convolution over time with stride 2 turns every two frames into
   one step, and a GRU reads the steps in both directions. Each step computes the logits of the ten symbols
   and of a blank, which means "nothing new". An alignment assigns a symbol or the blank to each step; merging
   repeats and then dropping blanks gives its symbols. The loss is -log of the total probability of all
   alignments that give the right symbols: connectionist temporal classification (Graves et al. 2006). It is a
   user-defined op over a whole list, the logits of an utterance, and receives the symbols as its data.
   --check compares the loss with a sum over all alignments, one by one, and its gradient with difference
   quotients of that sum, in double precision.

   To recognise an utterance, the program takes the most probable symbol of each step, merges repeats and
   drops blanks. The error rate is the number of symbols that must be inserted, deleted or changed, divided by
   the number of symbols in the utterances. An eager context, which runs one utterance at a time, must give
   the same logits as batches, and training in it must give the same weights. Seconds are processor time. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_FIT_IMPLEMENTATION
#include "fold_fit.h"
#include "options.h"
#include "unfused.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SYMBOLS = 10, BLANK = 0, CLASSES = SYMBOLS + 1,      /* class k + 1 is symbol k */
    FEWEST = 2, MOST = 8,                                /* symbols of an utterance */
    SHORTEST = 5, LONGEST = 14, LONGEST_SILENCE = 3,     /* a symbol and a silence last so many frames */
    BANDS = 12, MOST_FRAMES = MOST * (LONGEST + LONGEST_SILENCE) + LONGEST_SILENCE,
    TAPS = 5, STRIDE = 2, MOST_STEPS = (MOST_FRAMES - 1) / STRIDE + 1, CHANNELS = 32,
    BATCH = 32, COMPARED = 128                           /* utterances trained on both ways */
};
static const float learning_rate = 0.004f;

typedef struct options {
    uint64_t seed; int utterances, tests, epochs, hidden, check; double seconds; const char *svg;
} options;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "speech: %s%s\n", what, detail);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory", "");
    return bytes;
}

static double seconds_since(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }

/* ---- the network --------------------------------------------------------------------------- */

typedef struct spoken { int class_of[MOST], count; } spoken;       /* symbols in their order */
typedef struct utterance {
    spoken said;
    int begin[MOST], end[MOST];        /* each symbol lasts from begin to end; the picture needs it */
    int frames;
    float *values;                     /* [frames x BANDS] */
} utterance;
static int steps_of(const utterance *u) { return (u->frames - 1) / STRIDE + 1; }

typedef struct recognizer {
    fold_model *model;
    fold_ctx *training, *inference;
    fold_conv ear;
    fold_rnn_stack memory;
    fold_dense answer;
    fold_op ctc;
    const utterance *all;              /* the utterances that it now learns or hears */
    fold_adam adam;
    int epochs, count;                 /* of training, and of `all` */
    time_left left;
    float *logits;                     /* all that it hears, utterance after utterance, step by step */
    int *first;                        /* first[i]: those of utterance i begin there */
} recognizer;

static fold_op new_ctc(fold_model *m); /* the loss, an op of the program's own: below */

static recognizer new_recognizer(const options *o, int eager)
{
    const fold_conv_desc halving = { STRIDE, TAPS / 2, 0, 0 };
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc desc = fold_ctx_desc_default();
    recognizer r;
    memset(&r, 0, sizeof r);
    model.seed = o->seed;
    r.model = fold_model_new(&model);
    r.ear = fold_conv_new(r.model, "ear", fold_shape3(TAPS, BANDS, CHANNELS), &halving, FOLD_ACT_RELU);
    r.memory = fold_rnn_stack_new(r.model, "memory", fold_gru_new, CHANNELS, o->hidden, 1, 1);
    r.answer = fold_dense_new(r.model, "answer", 2 * o->hidden, CLASSES, FOLD_ACT_LINEAR);
    r.ctc = new_ctc(r.model);
    if (fold_model_status(r.model)) fail(fold_model_message(r.model), "");
    desc.eager = eager;
    r.inference = fold_ctx_new(r.model, &desc);
    desc.training = 1;
    r.training = fold_ctx_new(r.model, &desc);
    if (!r.inference || !r.training) fail("out of memory", "");
    r.adam = fold_adam_default();
    r.logits = (float *)take((size_t)o->tests * MOST_STEPS * CLASSES, sizeof *r.logits);
    r.first = (int *)take((size_t)o->tests + 1, sizeof *r.first);
    return r;
}

static void free_recognizer(recognizer *r)
{
    fold_ctx_free(r->training);
    fold_ctx_free(r->inference);
    fold_model_free(r->model);
    free(r->logits);
    free(r->first);
}

/* Records an utterance; returns the list of its steps' logits. */
static fold_node record(fold_ctx *f, int sample, void *user)
{
    const recognizer *r = (const recognizer *)user;
    const utterance *u = &r->all[sample];
    const fold_node frames = fold_list_input_ref(f, u->values, u->frames, fold_shape1(BANDS));
    const fold_node steps = fold_conv_apply(f, &r->ear, frames);
    return fold_dense_apply(f, &r->answer, fold_unroll_stack_list(f, &r->memory, steps, NULL, NULL));
}

/* ---- the loss ------------------------------------------------------------------------------ */

/* Alignments go through states. A state is a symbol that was said, or a blank before, between or behind them. So there
   are 2 count + 1 states, and the odd ones are symbols. An alignment is a path that begins in one of the first two and
   ends in one of the last two. At each step it stays, goes on by one state, or by two from a symbol to another one. All
   values are logarithms of probabilities. */
enum { MOST_STATES = 2 * MOST + 1 };
typedef struct lattice {
    const spoken *said;
    int steps, classes, states;
    double output[MOST_STEPS][CLASSES];      /* by class; they are logits until normalize */
    double before[MOST_STEPS][MOST_STATES];  /* sums all paths from the beginning to a state at a step, with that step */
    double after[MOST_STEPS][MOST_STATES];   /* sums all paths from there to the end, without that step */
} lattice;

static double log_sum(const double *x, int n)
{
    double most = -HUGE_VAL, sum = 0;
    for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    if (most < -DBL_MAX) return most;
    for (int i = 0; i < n; i++) sum += exp(x[i] - most);
    return most + log(sum);
}

static void normalize(lattice *l)
{
    for (int t = 0; t < l->steps; t++) {
        const double all = log_sum(l->output[t], l->classes);
        for (int k = 0; k < l->classes; k++) l->output[t][k] -= all;
    }
}

static int class_of(const lattice *l, int state) { return state % 2 ? l->said->class_of[state / 2] : BLANK; }

/* Tells whether paths may go from state - 2 to state. */
static int may_skip(const lattice *l, int state)
{
    return state % 2 && state > 1 && class_of(l, state) != class_of(l, state - 2);
}

/* Fills `before`; returns the loss, which is infinite when there are fewer steps than any alignment needs. */
static double walk_forwards(lattice *l)
{
    for (int t = 0; t < l->steps; t++) {
        for (int s = 0; s < l->states; s++) {
            double from[3] = { s > 1 || t ? -HUGE_VAL : 0 };
            int n = 1;
            if (t) from[0] = l->before[t - 1][s];
            if (t && s) from[n++] = l->before[t - 1][s - 1];
            if (t && may_skip(l, s)) from[n++] = l->before[t - 1][s - 2];
            l->before[t][s] = log_sum(from, n) + l->output[t][class_of(l, s)];
        }
    }
    if (!l->steps) return l->states > 1 ? HUGE_VAL : 0;
    const int last = l->states - 1, ends = last ? 2 : 1;
    return -log_sum(&l->before[l->steps - 1][last - ends + 1], ends);
}

/* Fills `after`. */
static void walk_backwards(lattice *l)
{
    for (int t = l->steps - 1; t >= 0; t--) {
        const double *next = t < l->steps - 1 ? l->after[t + 1] : NULL;
        for (int s = 0; s < l->states; s++) {
            double to[3] = { s < l->states - 2 ? -HUGE_VAL : 0 };
            int n = 0;
            for (int k = s; next && k < l->states && k <= s + 2; k++)
                if (k < s + 2 || may_skip(l, k)) to[n++] = next[k] + l->output[t + 1][class_of(l, k)];
            l->after[t][s] = log_sum(to, next ? n : 1);
        }
    }
}

/* Makes the lattice of a recorded call, up to its loss. */
static double lattice_of_call(lattice *l, const fold_op_call *c)
{
    l->said = (const spoken *)(uintptr_t)c->data[0];
    l->steps = c->lengths[0];
    l->classes = c->in_shape[0].dim[0];
    l->states = 2 * l->said->count + 1;
    for (int t = 0; t < l->steps; t++)
        for (int k = 0; k < l->classes; k++) l->output[t][k] = (double)fold_row(&c->in[0], t)[k];
    normalize(l);
    return walk_forwards(l);
}

static const char *ctc_infer(const fold_shape *in_shape, int n_in, const int32_t *attr, fold_shape *out_shape)
{
    (void)n_in, (void)attr;
    out_shape[0] = fold_shape1(1);
    return in_shape[0].rank == 1 && in_shape[0].dim[0] <= CLASSES ? NULL : "needs a vector of logits a step";
}

static void ctc_forward(const fold_op_call *c)
{
    lattice l;
    fold_row(&c->out[0], 0)[0] = (float)lattice_of_call(&l, c);
}

/* The gradient by the logit of a class at a step is its probability, less that of the paths which are in a state of the
   class then. It is zero if there is no path. */
static void ctc_backward(const fold_op_call *c)
{
    lattice l;
    if (!fold_row(&c->din[0], 0)) return;
    const double loss = lattice_of_call(&l, c), scale = (double)fold_row(&c->dout[0], 0)[0];
    walk_backwards(&l);
    for (int t = 0; t < l.steps; t++) {
        float *gradient = fold_row(&c->din[0], t);
        double part[CLASSES];
        for (int k = 0; k < l.classes; k++) part[k] = exp(l.output[t][k]);
        for (int s = 0; s < l.states; s++) part[class_of(&l, s)] -= exp(l.before[t][s] + l.after[t][s] + loss);
        for (int k = 0; k < l.classes; k++) gradient[k] = loss > DBL_MAX ? 0 : (float)(scale * part[k]);
    }
}

static fold_op new_ctc(fold_model *m)
{
    fold_op_desc op = fold_op_desc_default();
    op.name = "ctc";
    op.n_in = op.n_out = 1;
    op.is_whole = 1;
    op.needs = FOLD_NEEDS_IN;
    op.infer = ctc_infer;
    op.forward = ctc_forward;
    op.backward = ctc_backward;
    return fold_op_new(m, &op);
}

/* `logits` is a list, a row for each step. `said` must stay until the context is reset. */
static fold_node ctc(fold_ctx *f, fold_op op, fold_node logits, const spoken *said)
{
    return fold_op_apply_whole(f, op, &logits, 1, NULL, (uint64_t)(uintptr_t)said, -1);
}

/* ---- utterances ---------------------------------------------------------------------------- */

/* Adds a tone between two bands, `part` of the way from the one to the other, to a frame. */
static void add_tone(float *frame, float from, float to, float part, float loudness)
{
    const float at = from + (to - from) * part;
    for (int band = 0; band < BANDS; band++) {
        const float away = (float)band - at;
        frame[band] += loudness * expf(-away * away);
    }
}

/* Symbols 0 to 4 have a high tone that rises, 5 to 9 one that falls. Each five differ in the low tone, and the last of
   them has none. */
static void say(utterance *u, int symbol, int length, float pitch, float loudness)
{
    static const float low[SYMBOLS / 2 - 1][2] = { { 1, 1 }, { 4, 4 }, { 1, 4 }, { 4, 1 } };
    static const float high[2][2] = { { 7, 10 }, { 10, 7 } };
    const float *glide = high[symbol / (SYMBOLS / 2)];
    const int kind = symbol % (SYMBOLS / 2), n = u->said.count++;
    u->said.class_of[n] = symbol + 1;
    u->begin[n] = u->frames;
    for (int i = 0; i < length; i++) {
        float *frame = u->values + u->frames++ * BANDS;
        const float part = (float)i / (float)(length - 1);
        add_tone(frame, glide[0] + pitch, glide[1] + pitch, part, loudness);
        if (kind < SYMBOLS / 2 - 1) add_tone(frame, low[kind][0] + pitch, low[kind][1] + pitch, part, loudness);
    }
    u->end[n] = u->frames;
}

static utterance new_utterance(uint64_t seed, int number)
{
    fold_random r = fold_random_new(seed, (uint64_t)number);
    const int count = FEWEST + fold_random_below(&r, MOST - FEWEST + 1);
    const float pitch = fold_random_uniform(&r) - 0.5f;
    utterance u;
    memset(&u, 0, sizeof u);
    u.values = (float *)take(MOST_FRAMES * BANDS, sizeof *u.values);
    u.frames = fold_random_below(&r, LONGEST_SILENCE + 1);
    for (int i = 0; i < count; i++) {
        const int symbol = fold_random_below(&r, SYMBOLS);
        const int length = SHORTEST + fold_random_below(&r, LONGEST - SHORTEST + 1);
        say(&u, symbol, length, pitch, 0.4f + 0.8f * fold_random_uniform(&r));
        u.frames += fold_random_below(&r, LONGEST_SILENCE + 1);
    }
    for (int i = 0; i < u.frames * BANDS; i++) u.values[i] += 0.25f * fold_random_normal(&r);
    return u;
}

static utterance *new_utterances(uint64_t seed, int first, int count)
{
    utterance *all = (utterance *)take((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++) all[i] = new_utterance(seed, first + i);
    return all;
}

static void free_utterances(utterance *all, int count)
{
    for (int i = 0; i < count; i++) free(all[i].values);
    free(all);
}

/* ---- training and testing ------------------------------------------------------------------ */

static fold_node loss_of(fold_ctx *f, int sample, void *user)
{
    const recognizer *r = (const recognizer *)user;
    return ctc(f, r->ctc, record(f, sample, user), &r->all[sample].said);
}

static int progress(const fold_fit_report *report, void *user)
{
    recognizer *r = (recognizer *)user;
    time_left_show(&r->left, report->epoch + (double)report->trained / r->count, r->epochs, "epoch %d of %d, %d utterances: loss %.3f",
                   report->epoch + 1, r->epochs, report->trained, report->loss);
    return 0;
}

/* Trains; returns utterances a second. */
static double train(recognizer *r, const options *o, const utterance *all, int count, int epochs)
{
    fold_fit_desc fit = fold_fit_desc_default();
    const clock_t start = clock();
    r->all = all;
    r->epochs = epochs;
    r->count = count;
    r->left.start = 0;
    r->adam.rate = learning_rate;
    fit.ctx = r->training;
    fit.samples = count;
    fit.loss = loss_of;
    fit.progress = progress;
    fit.user = r;
    fit.batch = BATCH;
    fit.epochs = epochs;
    fit.seed = o->seed;
    fit.adam = &r->adam;
    fit.rates.kind = FOLD_RATE_LINEAR;
    fit.clip = 5;
    if (fold_fit(&fit, NULL)) fail(fold_ctx_message(r->training), "");
    time_left_end(&r->left);
    return (double)count * epochs / (seconds_since(start) + 1e-9);
}

static void keep_logits(fold_ctx *f, int sample, fold_node output, void *user)
{
    recognizer *r = (recognizer *)user;
    r->first[sample + 1] = r->first[sample] + steps_of(&r->all[sample]);
    if (fold_read(f, &output, 1, r->logits + r->first[sample] * CLASSES)) fail(fold_ctx_message(f), "");
}

static void hear(recognizer *r, const utterance *all, int count, int batch)
{
    fold_fit_predict_desc predict = fold_fit_predict_desc_default();
    r->all = all;
    predict.ctx = r->inference;
    predict.samples = count;
    predict.record = record;
    predict.take = keep_logits;
    predict.user = r;
    predict.batch = batch;
    if (fold_fit_predict(&predict)) fail(fold_ctx_message(r->inference), "");
}

/* Measures utterances heard a second, in passes over all of them. */
static double time_hearing(recognizer *r, const utterance *all, int count, int batch, double seconds)
{
    const clock_t start = clock();
    double heard = 0;
    do {
        hear(r, all, count, batch);
        heard += count;
    } while (seconds_since(start) < seconds);
    return heard / (seconds_since(start) + 1e-9);
}

/* Merges the likeliest classes of all steps; at[i] is the step at which symbol i was first heard. Returns how many. */
static int decode(const float *logits, int steps, int *heard, int *at)
{
    int count = 0, last = BLANK;
    for (int t = 0; t < steps; t++) {
        const int now = fold_argmax(logits + t * CLASSES, CLASSES);
        if (now != BLANK && now != last) {
            at[count] = t;
            heard[count++] = now;
        }
        last = now;
    }
    return count;
}

/* Counts the symbols that must be put in, left out or changed (Levenshtein 1966). */
static int edit_distance(const spoken *said, const int *heard, int count)
{
    int row[MOST_STEPS + 1];
    for (int j = 0; j <= count; j++) row[j] = j;
    for (int i = 1; i <= said->count; i++) {
        int corner = row[0]++;
        for (int j = 1; j <= count; j++) {
            const int least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            const int changed = corner + (heard[j - 1] != said->class_of[i - 1]);
            corner = row[j];
            row[j] = changed < least ? changed : least;
        }
    }
    return row[count];
}

/* Returns the errors of the utterances that were heard, in per cent of symbols. */
static double error_rate(const recognizer *r, int count)
{
    int wrong = 0, all = 0, heard[MOST_STEPS], at[MOST_STEPS];
    for (int i = 0; i < count; i++) {
        const spoken *said = &r->all[i].said;
        const int n = decode(r->logits + r->first[i] * CLASSES, steps_of(&r->all[i]), heard, at);
        wrong += edit_distance(said, heard, n);
        all += said->count;
    }
    return 100.0 * wrong / all;
}

/* ---- the picture --------------------------------------------------------------------------- */

/* Draws an utterance: its bands, darker where they are louder; below what was said, above what was heard and when. */
static void draw(const char *path, const recognizer *r, int sample)
{
    enum { ACROSS = 9, UP = 14, TOP = 50, BOTTOM = TOP + BANDS * UP, HEIGHT = BOTTOM + 60, LEFT = 20 };
    const utterance *u = &r->all[sample];
    const int width = 2 * LEFT + u->frames * ACROSS;
    int heard[MOST_STEPS], at[MOST_STEPS];
    const int count = decode(r->logits + r->first[sample] * CLASSES, steps_of(u), heard, at);
    FILE *file = fopen(path, "w");
    if (!file) fail("cannot write ", path);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
                  "font-size=\"14\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, HEIGHT, width,
            HEIGHT);
    for (int t = 0; t < u->frames; t++) {
        for (int band = 0; band < BANDS; band++) {
            const float loud = u->values[t * BANDS + band];
            const int shade = 255 - (int)(200 * (loud < 0 ? 0 : loud > 1 ? 1 : loud));
            fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n",
                    LEFT + t * ACROSS, BOTTOM - (band + 1) * UP, ACROSS, UP, shade, shade, shade);
        }
    }
    for (int i = 0; i < u->said.count; i++)
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"22\" fill=\"#c6dbef\"/>\n"
                      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                LEFT + u->begin[i] * ACROSS + 1, BOTTOM + 4, (u->end[i] - u->begin[i]) * ACROSS - 2,
                LEFT + (u->begin[i] + u->end[i]) * ACROSS / 2, BOTTOM + 20, u->said.class_of[i] - 1);
    for (int i = 0; i < count; i++)
        fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#a50f15\">%d</text>\n"
                      "<path d=\"M%d %dV%d\" stroke=\"#a50f15\"/>\n", LEFT + at[i] * STRIDE * ACROSS, TOP - 10,
                heard[i] - 1, LEFT + at[i] * STRIDE * ACROSS, TOP - 6, BOTTOM);
    fprintf(file, "<text x=\"%d\" y=\"20\" fill=\"#a50f15\">heard</text>\n<text x=\"%d\" y=\"%d\" fill=\"#08519c\">"
                  "said: where, the network was never told</text>\n</svg>\n", LEFT, LEFT, BOTTOM + 46);
    if (fclose(file)) fail("cannot write ", path);
}

/* ---- checking the loss --------------------------------------------------------------------- */

typedef struct checker {
    recognizer *r; fold_random random; int losses, gradients, wrong; double worst_loss, worst_gradient;
} checker;

/* Computes the loss by its definition: alignment after alignment, each a number of `steps` digits. */
static double loss_of_all_alignments(double output[][CLASSES], int steps, int classes, const spoken *said)
{
    double sum = 0;
    long alignments = 1;
    for (int t = 0; t < steps; t++) alignments *= classes;
    for (long i = 0; i < alignments; i++) {
        double probability = 1;
        long rest = i;
        int count = 0, last = BLANK, same = 1;
        for (int t = 0; t < steps; t++, rest /= classes) {
            const int now = (int)(rest % classes);
            double all = 0;
            for (int k = 0; k < classes; k++) all += exp(output[t][k]);
            probability *= exp(output[t][now]) / all;
            if (now != BLANK && now != last) {
                same = same && count < said->count && said->class_of[count] == now;
                count++;
            }
            last = now;
        }
        if (same && count == said->count) sum += probability;
    }
    return -log(sum);
}

static double loss_by_lattice(double output[][CLASSES], int steps, int classes, const spoken *said)
{
    lattice l;
    l.said = said;
    l.steps = steps;
    l.classes = classes;
    l.states = 2 * said->count + 1;
    memcpy(l.output, output, (size_t)steps * sizeof *l.output);
    normalize(&l);
    return walk_forwards(&l);
}

static void compare(checker *c, double got, double want, double *worst)
{
    const double off = fabs(got - want) / (1 + fabs(want));
    const int right = want > DBL_MAX ? got > DBL_MAX : off < 2e-6;
    c->wrong += !right;
    if (want <= DBL_MAX && off > *worst) *worst = off;
}

/* Compares the op, recorded for random logits, and its gradient with a loss in double and its difference quotients. */
static void check_case(checker *c, int steps, int classes, const spoken *said,
                       double loss(double output[][CLASSES], int steps, int classes, const spoken *said))
{
    static const double step = 1e-5;
    double output[MOST_STEPS][CLASSES] = { { 0 } };
    float logits[MOST_STEPS * CLASSES];
    fold_ctx *f = c->r->training;
    for (int i = 0; i < steps * classes; i++) {
        logits[i] = 2 * fold_random_normal(&c->random);
        output[i / classes][i % classes] = (double)logits[i];
    }
    fold_ctx_reset(f);
    const fold_node in = fold_list_input(f, logits, steps, fold_shape1(classes));
    fold_keep_grad(f, in);
    const fold_node lost = ctc(f, c->r->ctc, in, said);
    fold_keep(f, lost);
    if (fold_backward(f, fold_scale(f, lost, 2))) fail(fold_ctx_message(f), "");
    const double want = loss(output, steps, classes, said);
    const float *gradient = fold_grad(f, in);
    compare(c, (double)fold_scalar(f, lost), want, &c->worst_loss);
    c->losses++;
    for (int i = 0; i < steps * classes; i++) {
        double *at = &output[i / classes][i % classes], middle = *at, more, less;
        *at = middle + step;
        more = loss(output, steps, classes, said);
        *at = middle - step;
        less = loss(output, steps, classes, said);
        *at = middle;
        compare(c, (double)gradient[i], want > DBL_MAX ? 0 : (more - less) / step, &c->worst_gradient);
        c->gradients++;
    }
}

/* Checks all that can be said in up to 3 symbols of 2, in 1 to 6 steps, too few of them included. Longer utterances have
   too many alignments. They are checked by the lattice, which by then is known to give the right loss. */
static int check(const options *o)
{
    recognizer r = new_recognizer(o, 0);
    checker c = { &r, fold_random_new(o->seed, 0), 0, 0, 0, 0, 0 };
    for (int count = 0; count <= 3; count++) {
        for (int text = 0; text < 1 << count; text++) {
            spoken said = { { 0 }, count };
            for (int i = 0; i < count; i++) said.class_of[i] = 1 + (text >> i & 1);
            for (int steps = 1; steps <= 6; steps++) check_case(&c, steps, 3, &said, loss_of_all_alignments);
        }
    }
    for (int i = 0; i < 8; i++) {
        spoken said = { { 0 }, i + 1 };
        for (int k = 0; k <= i; k++) said.class_of[k] = 1 + fold_random_below(&c.random, k % 2 ? 2 : SYMBOLS);
        check_case(&c, MOST_STEPS - 7 * i, CLASSES, &said, loss_by_lattice);
    }
    free_recognizer(&r);
    printf("RESULT speech check=1 losses=%d gradients=%d wrong=%d worst_loss=%.1e worst_gradient=%.1e\n", c.losses,
           c.gradients, c.wrong, c.worst_loss, c.worst_gradient);
    return c.wrong != 0;
}

/* ---- command line -------------------------------------------------------------------------- */

/* Lets both learn the same few batches, one of them by single utterances. Returns whether they have the same weights. */
static int learn_alike(const options *o, recognizer *batched, recognizer *alone, const utterance *all, double *per_s)
{
    const int few = o->utterances < COMPARED ? o->utterances : COMPARED;
    int count;
    const float *values = fold_model_values(batched->model, &count);
    train(batched, o, all, few, 1);
    *per_s = train(alone, o, all, few, 1);
    return !memcmp(values, fold_model_values(alone->model, NULL), (size_t)count * sizeof *values);
}

static unsigned long long hash_of(const fold_model *m) /* FNV-1a */
{
    unsigned long long hash = 0xcbf29ce484222325u;
    int count;
    const unsigned char *bytes = (const unsigned char *)fold_model_values(m, &count);
    for (size_t i = 0; i < (size_t)count * sizeof(float); i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static int run(const options *o)
{
    utterance *lessons = new_utterances(o->seed, 0, o->utterances);
    utterance *tests = new_utterances(o->seed, o->utterances, o->tests);
    recognizer batched = new_recognizer(o, 0), alone = new_recognizer(o, 1);
    double eager_train_per_s, steps = 0;
    for (int i = 0; i < o->tests; i++) steps += steps_of(&tests[i]);
    hear(&batched, tests, o->tests, BATCH);
    const double before = error_rate(&batched, o->tests);
    int identical = learn_alike(o, &batched, &alone, lessons, &eager_train_per_s);
    const double train_per_s = train(&batched, o, lessons, o->utterances, o->epochs);
    if (fold_values_copy(alone.model, batched.model)) fail(fold_model_message(alone.model), "");
    const double infer_per_s = time_hearing(&batched, tests, o->tests, BATCH, o->seconds);
    const double eager_per_s = time_hearing(&alone, tests, o->tests, 1, o->seconds);
    identical &= !memcmp(batched.logits, alone.logits, (size_t)batched.first[o->tests] * CLASSES * sizeof(float));
    const double after = error_rate(&batched, o->tests);
    int longest = 0;
    for (int i = 1; i < o->tests; i++)
        if (tests[i].frames > tests[longest].frames) longest = i;
    if (o->svg) draw(o->svg, &batched, longest);
    printf("symbols heard wrong: %.2f %% before training, %.2f %% after it\n", before, after);
    printf("training %.0f utterances/s, alone %.0f; hearing %.0f, alone %.0f; alone: %s bits\n", train_per_s,
           eager_train_per_s, infer_per_s, eager_per_s, identical ? "the same" : "OTHER");
    printf("RESULT speech error_rate=%.2f error_before=%.2f train_per_s=%.0f eager_train_per_s=%.0f infer_per_s=%.0f "
           "eager_per_s=%.0f steps=%.1f identical=%d hash=%016llx\n", after, before, train_per_s, eager_train_per_s,
           infer_per_s, eager_per_s, steps / o->tests, identical, hash_of(batched.model));
    free_recognizer(&alone);
    free_recognizer(&batched);
    free_utterances(tests, o->tests);
    free_utterances(lessons, o->utterances);
    return !identical;
}

static options parse_options(int argc, char **argv)
{
    options o = { 1, 2000, 500, 12, 48, 0, 1, NULL };
    const option table[8] = {
        option_of_whole("--utterances", &o.utterances, 1, 1000000, "to learn from"),
        option_of_whole("--tests", &o.tests, 1, 100000, "others, to be heard"),
        option_of_whole("--epochs", &o.epochs, 1, 10000, "of training"),
        option_of_whole("--hidden", &o.hidden, 1, 4096, "width of the recurrence, in each direction"),
        option_of_seed("--seed", &o.seed, "of weights, order and utterances"),
        option_of_number("--seconds", &o.seconds, 0, 1e6, "to time hearing for, both ways"),
        option_of_text("--svg", &o.svg, "FILE", "writes a picture of the longest: what was said, and what was heard when"),
        option_of_flag("--check", &o.check, "compares the loss and its gradient with sums over all alignments, and ends"),
    };
    options_read(argc, argv, "Learns to hear symbols in utterances that do not tell where they are.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    return o.check ? check(&o) : run(&o);
}
