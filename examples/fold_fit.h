/* fold_fit.h - the usual loops over data with fold.h: training, prediction and evaluation. It uses only
   public calls.

   In one C or C++ file:  #define FOLD_FIT_IMPLEMENTATION
                          #include "fold_fit.h"
   Everywhere else:       #include "fold_fit.h"

       fold_fit_desc d = fold_fit_desc_default();
       d.ctx = f; d.samples = n; d.loss = my_loss; d.user = my_data; d.adam = &adam;
       if (fold_fit(&d, NULL)) puts(fold_ctx_message(f));

   Errors are set on the context, with a message. All memory comes from the model's allocator, and there are
   no globals. The file compiles as C99 and C++17 and works in every build of fold.h: with FOLD_INFERENCE
   there is no fold_fit, and with FOLD_NO_STDIO it writes no files. */

#ifndef FOLD_FIT_H
#define FOLD_FIT_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_fit.h needs fold.h 0.4.0 or later"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FOLD_INFERENCE
/* fold_fit is the usual training loop.

   At the start of each epoch it shuffles the samples, unless in_order is set; the order depends only on
   (seed, epoch). For each batch it resets the context, calls `loss` to record every sample, and runs backward
   from the mean of the losses: with weights, from the sum of weight x loss divided by the sum of weights.
   Then it clips the gradients and takes an optimiser step, with the optimiser's learning rate times the
   factor of `rates`. The last batch may be smaller. At the end of each epoch it computes the metric, writes
   files and checks patience. */

/* Why fold_fit ended. DIVERGED means that a loss or, with `clip`, the norm of the gradients is infinite or
   NaN. This is an error, and the step is not taken. */
enum { FOLD_FIT_EPOCHS, FOLD_FIT_PATIENCE, FOLD_FIT_PROGRESS, FOLD_FIT_ERROR, FOLD_FIT_DIVERGED };

typedef struct fold_fit_report {
    int epoch;          /* the current epoch, or the last one */
    int epoch_end;      /* 1: the epoch is complete, and `metric` is its metric */
    int trained;        /* number of this epoch's samples trained on so far */
    double loss;        /* weighted mean loss of these samples, each computed before its batch's step */
    double metric;      /* metric of the last complete epoch; NaN before the first epoch ends */
    double best;        /* best metric so far, also before training was resumed; NaN if there is none yet */
    int best_epoch;     /* epoch of `best`; -1: none yet */
    double per_second;  /* training samples per second, excluding time for metrics and files; 0 without
                           FOLD_HAS_CLOCK */
    int ended;          /* why training ended: FOLD_FIT_… */
    double rate_factor; /* learning rate factor of the last step, from fold_fit_desc.rates */
} fold_fit_report;

typedef struct fold_fit_desc {
    fold_ctx *ctx;           /* a context with `training` set, and any other settings */
    int samples;             /* number of samples, at least 1 */
    fold_node (*loss)(fold_ctx *f, int sample, void *user); /* records one sample and returns its scalar
                                                               loss */
    float (*weight)(int sample, void *user); /* returns the weight of a sample's loss. NULL: all weights are
                                                1. If losses are means over tokens, return the number of
                                                tokens, so that the total is a mean per token */
    double (*metric)(fold_model *m, void *user); /* returns the metric after each epoch, e.g. the accuracy on
                                                    validation samples, computed in its own context. Larger is
                                                    better, unless smaller_is_better. NULL: the epoch's mean
                                                    loss, where smaller is better */
    int (*progress)(const fold_fit_report *report, void *user); /* called after each batch and each epoch;
                                                                   return nonzero to stop training. Also
                                                                   called, with `ended` set, if an error ends
                                                                   training */
    void *user;              /* passed to the four callbacks */
    int batch;               /* samples per batch; 0 means 32 */
    int epochs;              /* number of epochs; 0 means 10 */
    int first_epoch;         /* to resume training: the number of the next epoch, e.g. fold_model_steps /
                                batches per epoch, after fold_model_load with `state`. If above 0, the best
                                metric so far and its epoch are read from best_path or, if that is NULL,
                                last_path, where fold_fit noted them. Then only a better epoch replaces
                                best_path, and patience counts from the best epoch. If the file has no such
                                note, e.g. if it is from 0.3.0, training starts without a best metric */
    uint64_t seed;           /* seed for shuffling, and for dropout in each epoch and sample */
    int in_order;            /* 1: do not shuffle the samples */
    const fold_sgd *sgd;     /* the optimiser: set exactly one of the four. `progress` may change its rate */
    const fold_adagrad *adagrad;
    const fold_rmsprop *rmsprop;
    const fold_adam *adam;
    fold_rates rates;        /* learning rate schedule: a factor for each step, counted from epoch 0.
                                rates.steps 0 means the number of steps up to the end of the last epoch;
                                rates.every 0 means the number of steps per epoch */
    float clip;              /* maximum norm of the gradients (fold_grads_clip); 0: no clipping; infinity:
                                only check that the norm is finite */
    int smaller_is_better;   /* 1: smaller values of `metric` are better */
    int patience;            /* stop after this many epochs in a row without a new best; 0: never */
    int keep_best;           /* 1: keep the parameters of the best epoch in memory and restore them at the
                                end. A resumed run reads the earlier best from best_path; without that file,
                                only its own epochs count */
#ifndef FOLD_NO_STDIO
    const char *best_path;   /* file for the parameters of each new best epoch (fold_model_save); NULL:
                                none */
    const char *last_path;   /* file for parameters and optimiser state, written after each epoch; NULL: none.
                                The metadata of both files notes the best metric so far, as `fit` */
#endif
    const char *config;      /* text saved in both files (fold_save_desc.config) */
} fold_fit_desc;
FOLD_API fold_fit_desc fold_fit_desc_default(void);

/* Trains the model, and returns the context's status (see fold_ctx_message). report may be NULL; otherwise it
   gets the final report. Earlier gradients are cleared. Until it returns, fold_fit uses memory from the
   model's allocator: 4 bytes per sample, 8 bytes per sample of a batch, with keep_best the size of the
   parameters, and with a path the size of config plus 80 bytes. Errors:
   - A setting of the desc, the optimiser or the rates that is NaN or out of range is FOLD_BAD_ARGUMENT, with
     a message like "fit: clip is -1, must be in [0, inf]". Nothing changes, except that the context is reset.
   - Training ends with an error if `loss`, a step or a file fails, or if the weights of a batch are negative,
     not finite or all 0. The model has the parameters of the last step or, with keep_best, the best ones.
   - An infinite or NaN loss is FOLD_BAD_STATE, and the message names the sample. Gradients are then zero. */
FOLD_API fold_status fold_fit(const fold_fit_desc *desc, fold_fit_report *report);
#endif

typedef struct fold_fit_predict_desc {
    fold_ctx *ctx;           /* any context; if it is for training, fold_dropout is active */
    int samples;             /* number of samples, may be 0 */
    fold_node (*record)(fold_ctx *f, int sample, void *user); /* records one sample and returns its output */
    void (*take)(fold_ctx *f, int sample, fold_node output, void *user); /* reads the output; must not
                                                                            record */
    void *user;              /* passed to both callbacks */
    int batch;               /* samples per batch; 0 means 32 */
} fold_fit_predict_desc;
FOLD_API fold_fit_predict_desc fold_fit_predict_desc_default(void);
/* Runs all samples in batches, without training. For each batch it resets the context, calls `record` for
   each sample, runs the recording, and passes the outputs, which may be lists, to `take` in sample order.
   Until it returns, it uses 8 bytes per sample of a batch from the model's allocator. Returns the context's
   status. Outputs passed to `take` before an error are valid. */
FOLD_API fold_status fold_fit_predict(const fold_fit_predict_desc *desc);

/* Measures of n results. They return NaN if n is below 1 or an array is NULL. */
/* Returns the share of guesses that equal their labels. */
FOLD_API double fold_fit_accuracy(const int *guess, const int *label, int n);
/* Returns the F1 score of the class `positive` (van Rijsbergen 1979). This is the harmonic mean of precision
   and recall: 2 hits / (guesses of the class + labels of the class). Returns 0 if there are neither. */
FOLD_API double fold_fit_f1(const int *guess, const int *label, int n, int positive);
/* Returns e to the power of the mean of n losses. Each loss is minus the log of a probability, as
   fold_softmax_xent computes. */
FOLD_API double fold_fit_perplexity(const float *loss, int n);
/* Returns Pearson's correlation. This is the covariance divided by the product of the standard deviations;
   NaN if one of them is 0. */
FOLD_API double fold_fit_pearson(const float *a, const float *b, int n);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_FIT_H */

#if defined(FOLD_FIT_IMPLEMENTATION) && !defined(FOLD__FIT_IMPLEMENTED)
#define FOLD__FIT_IMPLEMENTED
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#ifndef FOLD_NO_STDIO
#include <stdio.h>
#endif
#include <string.h>

/* Compilers must round every product and every sum separately, so that results do not depend on the compiler
   or its flags. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

enum { FOLD_FIT__BATCH = 32, FOLD_FIT__EPOCHS = 10 }; /* defaults */

static int fold_fit__broken(const fold_ctx *f) { return fold_ctx_status(f) != FOLD_OK; }

/* Sets the context's error and returns 0. */
static int fold_fit__fail(fold_ctx *f, fold_status status, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    fold_ctx_fail(f, status, text);
    return 0;
}

/* Memory from the model's allocator. `data` is NULL if count is 0, the size overflows or there is no
   memory. */
typedef struct fold_fit__memory { void *data; size_t size; } fold_fit__memory;
static fold_fit__memory fold_fit__take(const fold_model *m, size_t count, size_t size)
{
    const fold_memory memory = fold_model_memory(m);
    fold_fit__memory taken = { NULL, count * size };
    if (count && count <= SIZE_MAX / size) taken.data = (memory.alloc)(taken.size, 64, memory.user);
    return taken;
}

static void fold_fit__give(const fold_model *m, fold_fit__memory taken)
{
    const fold_memory memory = fold_model_memory(m);
    if (taken.data) (memory.free)(taken.data, taken.size, memory.user);
}

/* ---- training -------------------------------------------------------------------------------- */

#ifndef FOLD_INFERENCE
typedef struct fold_fit__training {
    fold_fit_desc desc;
    fold_fit_report report;
    fold_model *model;
    fold_fit__memory orders, losses, values; /* `values` holds the parameters of the best epoch, with
                                                keep_best */
    fold_fit__memory config;                 /* config of the files, with room for a note before it */
    int has_kept;                            /* 1: `values` holds an epoch whose metric is `kept` */
    double kept;
    int *order;
    fold_node *loss; /* losses of the samples of a batch */
    double sum;      /* sum of the weighted losses of this epoch */
    double weights;  /* sum of the weights of this epoch */
    uint64_t ns;     /* time spent on the batches of this epoch */
} fold_fit__training;

FOLD_API fold_fit_desc fold_fit_desc_default(void)
{
    fold_fit_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.batch = FOLD_FIT__BATCH;
    desc.epochs = FOLD_FIT__EPOCHS;
    return desc;
}

static int fold_fit__is_finite(double value) { return value - value == 0; }

/* A setting, its value and its range: [low, high] or, if is_open, [low, high). */
typedef struct fold_fit__setting {
    const char *owner, *name;
    double value, low, high;
    int is_whole, is_open;
} fold_fit__setting;

static int fold_fit__setting_ok(fold_ctx *f, const fold_fit__setting *it)
{
    const char *message = it->is_whole ? "fit: %s%s is %.0f, must be in [%.0f, %.0f%c"
                                       : "fit: %s%s is %g, must be in [%g, %g%c";
    if (it->value >= it->low && (it->is_open ? it->value < it->high : it->value <= it->high))
        return 1;
    return fold_fit__fail(f, FOLD_BAD_ARGUMENT, message, it->owner, it->name, it->value, it->low, it->high,
                          it->is_open ? ')' : ']');
}

static int fold_fit__settings_ok(fold_ctx *f, const fold_fit__setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!fold_fit__setting_ok(f, &settings[i]))
            return 0;
    return 1;
}

/* Checks the optimiser's settings against the ranges in fold.h, which checks them only at each step. */
static int fold_fit__optimiser_ok(const fold_fit_desc *desc)
{
    const double inf = (double)INFINITY;
    const fold_sgd sgd = desc->sgd ? *desc->sgd : fold_sgd_default();
    const fold_adagrad adagrad = desc->adagrad ? *desc->adagrad : fold_adagrad_default();
    const fold_rmsprop rmsprop = desc->rmsprop ? *desc->rmsprop : fold_rmsprop_default();
    const fold_adam adam = desc->adam ? *desc->adam : fold_adam_default();
    const fold_fit__setting settings[] = {
        { "sgd.", "rate", (double)sgd.rate, 0, inf, 0, 1 },
        { "sgd.", "momentum", (double)sgd.momentum, 0, 1, 0, 0 },
        { "sgd.", "decay", (double)sgd.decay, 0, inf, 0, 1 },
        { "adagrad.", "rate", (double)adagrad.rate, 0, inf, 0, 1 },
        { "adagrad.", "epsilon", (double)adagrad.epsilon, 0, inf, 0, 1 },
        { "adagrad.", "decay", (double)adagrad.decay, 0, inf, 0, 1 },
        { "rmsprop.", "rate", (double)rmsprop.rate, 0, inf, 0, 1 },
        { "rmsprop.", "rho", (double)rmsprop.rho, 0, 1, 0, 1 },
        { "rmsprop.", "epsilon", (double)rmsprop.epsilon, 0, inf, 0, 1 },
        { "rmsprop.", "decay", (double)rmsprop.decay, 0, inf, 0, 1 },
        { "adam.", "rate", (double)adam.rate, 0, inf, 0, 1 },
        { "adam.", "beta1", (double)adam.beta1, 0, 1, 0, 1 },
        { "adam.", "beta2", (double)adam.beta2, 0, 1, 0, 1 },
        { "adam.", "epsilon", (double)adam.epsilon, 0, inf, 0, 1 },
        { "adam.", "decay", (double)adam.decay, 0, inf, 0, 1 },
    };
    return fold_fit__settings_ok(desc->ctx, settings, sizeof settings / sizeof *settings);
}

static int fold_fit__desc_ok(const fold_fit_desc *desc)
{
    const double inf = (double)INFINITY;
    const fold_fit__setting settings[] = {
        { "", "samples", (double)desc->samples, 1, inf, 1, 1 },
        { "", "batch", (double)desc->batch, 0, inf, 1, 1 },
        { "", "epochs", (double)desc->epochs, 0, inf, 1, 1 },
        { "", "first_epoch", (double)desc->first_epoch, 0, (double)INT_MAX - desc->epochs, 1, 0 },
        { "", "patience", (double)desc->patience, 0, inf, 1, 1 },
        { "", "clip", (double)desc->clip, 0, inf, 0, 0 },
        { "rates.", "kind", (double)desc->rates.kind, 0, FOLD_RATE_STEP, 1, 0 },
        { "rates.", "warm_up", (double)desc->rates.warm_up, 0, inf, 1, 1 },
        { "rates.", "steps", (double)desc->rates.steps, 0, inf, 1, 1 },
        { "rates.", "end", (double)desc->rates.end, 0, inf, 0, 1 },
        { "rates.", "every", (double)desc->rates.every, 0, inf, 1, 1 },
        { "rates.", "factor", (double)desc->rates.factor, 0, inf, 0, 1 },
    };
    if (!desc->loss)
        return fold_fit__fail(desc->ctx, FOLD_BAD_ARGUMENT, "fit: loss is NULL");
    if (!!desc->sgd + !!desc->adagrad + !!desc->rmsprop + !!desc->adam != 1)
        return fold_fit__fail(desc->ctx, FOLD_BAD_ARGUMENT,
                              "fit: exactly one of sgd, adagrad, rmsprop and adam must be set");
    return fold_fit__settings_ok(desc->ctx, settings, sizeof settings / sizeof *settings) &&
           fold_fit__optimiser_ok(desc);
}

#ifndef FOLD_NO_STDIO
/* -- the best metric, noted in files --

   fold_model_save lets the caller put only one string, config, into the metadata. To make room for the note,
   a file is saved with blanks in front of config. The blanks are then overwritten: `"config":" … h=8"`
   becomes `"fit":"epoch 3, …","config":"h=8"`, of the same length. */

enum { FOLD_FIT__BLANKS = 80, FOLD_FIT__HEAD = 512 }; /* blanks before config; bytes read from a file */
static const char fold_fit__config[] = ",\"config\":\"", fold_fit__note[] = ",\"fit\":\"",
                  fold_fit__digits[] = "0123456789abcdef";

/* Reads the beginning of a file as zero-terminated text. The first 8 bytes of the file are the header's
   length. */
static void fold_fit__read_head(FILE *file, char head[FOLD_FIT__HEAD + 1])
{
    memset(head, 0, FOLD_FIT__HEAD + 1);
    if (fread(head, 1, 8, file) != 8 || !fread(head + 8, 1, FOLD_FIT__HEAD - 8, file))
        head[8] = 0;
}

/* Writes the note into a file. Returns 0 if the file cannot be written. */
static int fold_fit__write_note(const char *path, const char *note, int has_config)
{
    char head[FOLD_FIT__HEAD + 1], text[FOLD_FIT__BLANKS + 32];
    const size_t room = sizeof fold_fit__config - 1 + FOLD_FIT__BLANKS;
    FILE *file = fopen(path, "r+b");
    if (!file)
        return 0;
    fold_fit__read_head(file, head);
    const char *at = strstr(head + 8, fold_fit__config);
    memset(text, ' ', room);
    memcpy(text, fold_fit__note, sizeof fold_fit__note - 1);
    memcpy(text + sizeof fold_fit__note - 1, note, strlen(note));
    if (has_config)
        memcpy(text + room - sizeof fold_fit__config, "\"", 1),
            memcpy(text + room - sizeof fold_fit__config + 1, fold_fit__config, sizeof fold_fit__config - 1);
    int done = at && !fseek(file, (long)(at - head), SEEK_SET) && fwrite(text, 1, room, file) == room;
    done = !fclose(file) && done;
    return done;
}

/* Writes formatted text, cut if it is too long. */
static void fold_fit__format(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold_format(text, size, format, args);
    va_end(args);
}

/* Writes the note. It contains the best metric twice: as bits, to be read back, and as a number for
   people. */
static void fold_fit__put_note(const fold_fit_report *report, char note[FOLD_FIT__BLANKS])
{
    uint64_t bits;
    memcpy(&bits, &report->best, sizeof bits);
    fold_fit__format(note, FOLD_FIT__BLANKS - 24, "epoch %d, %08x%08x, %g", report->best_epoch,
                     (unsigned)(bits >> 32), (unsigned)bits, report->best);
}

/* Reads the note of a file. Returns 0 if there is none. */
static int fold_fit__read_note(const char *path, fold_fit_report *report)
{
    char head[FOLD_FIT__HEAD + 1];
    FILE *file = fopen(path, "rb");
    uint64_t bits = 0;
    int epoch = 0, digits = 0;
    if (!file)
        return 0;
    fold_fit__read_head(file, head);
    fclose(file);
    const char *at = strstr(head + 8, fold_fit__note);
    if (!at || strncmp(at += sizeof fold_fit__note - 1, "epoch ", 6))
        return 0;
    for (at += 6; *at >= '0' && *at <= '9' && epoch < INT_MAX / 10; at++)
        epoch = 10 * epoch + (*at - '0');
    if (strncmp(at, ", ", 2))
        return 0;
    for (at += 2; digits < 16; digits++, at++) {
        const char *digit = *at ? strchr(fold_fit__digits, *at) : NULL;
        if (!digit)
            return 0;
        bits = bits << 4 | (uint64_t)(digit - fold_fit__digits);
    }
    memcpy(&report->best, &bits, sizeof bits);
    report->best_epoch = epoch;
    return 1;
}

/* Reads the parameters of the best epoch, to be restored at the end. If the file lacks one of these, keeps
   none. */
static void fold_fit__read_best(fold_fit__training *training)
{
    fold_model *m = training->model;
    fold_tensors *file = fold_tensors_open(m, training->desc.best_path);
    const float *values = fold_model_values(m, NULL);
    int there = file != NULL;
    for (int i = 0; i < fold_param_count(m) && there; i++) {
        const fold_param param = fold_param_at(m, i);
        const fold_shape shape = fold_param_shape(m, param);
        const int index = fold_tensors_find(file, fold_param_name(m, param));
        const fold_tensor tensor = fold_tensors_at(file, index);
        const float *from = fold_param_value(m, param);
        size_t count = 1;
        for (int axis = 0; axis < shape.rank; axis++)
            count *= (size_t)shape.dim[axis];
        there = from && index >= 0 && !strcmp(tensor.dtype, "F32") && tensor.count == count;
        if (there)
            fold_tensors_read(file, index, 0, count, (float *)training->values.data + (from - values), 1);
    }
    fold_tensors_close(file);
    training->has_kept = there;
    training->kept = training->report.best;
}

/* Prepares the config of the files, and reads the best metric of a resumed run. */
static int fold_fit__start_files(fold_fit__training *training)
{
    const fold_fit_desc *desc = &training->desc;
    const char *path = desc->best_path ? desc->best_path : desc->last_path,
               *config = desc->config ? desc->config : "";
    if (!path)
        return 1;
    training->config = fold_fit__take(training->model, strlen(config) + FOLD_FIT__BLANKS + 1, 1);
    if (!training->config.data)
        return fold_fit__fail(desc->ctx, FOLD_NO_MEMORY, "fit: out of memory");
    memset(training->config.data, ' ', FOLD_FIT__BLANKS);
    memcpy((char *)training->config.data + FOLD_FIT__BLANKS, config, strlen(config) + 1);
    if (desc->first_epoch && fold_fit__read_note(path, &training->report) && desc->best_path &&
        training->values.data)
        fold_fit__read_best(training);
    return !fold_fit__broken(desc->ctx);
}
#endif

static int fold_fit__start(fold_fit__training *training)
{
    fold_ctx *f = training->desc.ctx;
    fold_model *m = training->model;
    const int samples = training->desc.samples, batch = training->desc.batch;
    int values = 0;
    fold_ctx_reset(f);
    if (fold_fit__broken(f) || !fold_fit__desc_ok(&training->desc))
        return 0;
    if (training->desc.keep_best)
        fold_model_values(m, &values);
    training->orders = fold_fit__take(m, (size_t)samples, sizeof *training->order);
    training->losses = fold_fit__take(m, (size_t)(batch < samples ? batch : samples), sizeof *training->loss);
    training->values = fold_fit__take(m, (size_t)values, sizeof(float));
    if (!training->orders.data || !training->losses.data || (values && !training->values.data))
        return fold_fit__fail(f, FOLD_NO_MEMORY, "fit: out of memory");
    training->order = (int *)training->orders.data;
    training->loss = (fold_node *)training->losses.data;
#ifndef FOLD_NO_STDIO
    if (!fold_fit__start_files(training))
        return 0;
#endif
    fold_grads_clear(m);
    return 1;
}

static uint64_t fold_fit__mix(uint64_t bits) /* the finaliser of splitmix64 (Steele et al. 2014) */
{
    bits ^= bits >> 30;
    bits *= UINT64_C(0xbf58476d1ce4e5b9);
    bits ^= bits >> 27;
    bits *= UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static void fold_fit__shuffle(fold_fit__training *training)
{
    fold_random random = { training->desc.seed ^ fold_fit__mix((uint64_t)training->report.epoch + 1), 0 };
    for (int i = 0; i < training->desc.samples; i++)
        training->order[i] = i;
    if (!training->desc.in_order)
        fold_random_shuffle(&random, training->desc.samples, training->order);
}

static uint64_t fold_fit__now(void)
{
#ifdef FOLD_HAS_CLOCK
    return fold_clock_monotonic(NULL);
#else
    return 0;
#endif
}

/* Returns the learning rate factor of a batch's step. `first` is the position of the batch's first sample in
   the shuffled order. */
static float fold_fit__factor(const fold_fit__training *training, int first)
{
    const int batch = training->desc.batch;
    const uint64_t batches = ((uint64_t)training->desc.samples - 1) / (uint64_t)batch + 1;
    const uint64_t epochs = (uint64_t)training->desc.first_epoch + (uint64_t)training->desc.epochs;
    fold_rates rates = training->desc.rates;
    if (!rates.steps)
        rates.steps = epochs * batches < INT_MAX ? (int)(epochs * batches) : INT_MAX;
    if (!rates.every)
        rates.every = (int)batches;
    return fold_rate_factor(&rates, (uint64_t)training->report.epoch * batches + (uint64_t)(first / batch));
}

/* Runs the batch again without gradients, to name the sample whose loss is not finite, if there is one. */
static void fold_fit__diverged(fold_fit__training *training, int first, int count, const char *what)
{
    fold_ctx *f = training->desc.ctx;
    const int epoch = training->report.epoch;
    training->report.ended = FOLD_FIT_DIVERGED;
    fold_grads_clear(training->model);
    fold_run(f, training->loss, count);
    for (int i = 0; i < count && !fold_fit__broken(f); i++) {
        const float loss = fold_scalar(f, training->loss[i]);
        if (!fold_finite(&loss, 1))
            fold_fit__fail(f, FOLD_BAD_STATE, "fit: the loss of sample %d in epoch %d is %s",
                           training->order[first + i], epoch, loss != loss ? "NaN" : "infinite");
    }
    if (!fold_fit__broken(f))
        fold_fit__fail(f, FOLD_BAD_STATE, "fit: %s of samples %d to %d in epoch %d is infinite or NaN", what,
                       first, first + count - 1, epoch);
}

/* Clips the gradients. Returns 0 if their norm is not finite. */
static int fold_fit__clip(fold_fit__training *training)
{
    const float limit = training->desc.clip;
    return !(limit > 0) || fold_fit__is_finite(fold_grads_clip(training->model, limit));
}

static fold_status fold_fit__step(fold_fit__training *training, float factor)
{
    const fold_fit_desc *desc = &training->desc;
    fold_sgd sgd = desc->sgd ? *desc->sgd : fold_sgd_default();
    fold_adagrad adagrad = desc->adagrad ? *desc->adagrad : fold_adagrad_default();
    fold_rmsprop rmsprop = desc->rmsprop ? *desc->rmsprop : fold_rmsprop_default();
    fold_adam adam = desc->adam ? *desc->adam : fold_adam_default();
    float *rate = desc->sgd       ? &sgd.rate
                  : desc->adagrad ? &adagrad.rate
                  : desc->rmsprop ? &rmsprop.rate
                                  : &adam.rate;
    *rate *= factor;
    training->report.rate_factor = (double)factor;
    return desc->sgd       ? fold_sgd_step(training->model, &sgd)
           : desc->adagrad ? fold_adagrad_step(training->model, &adagrad)
           : desc->rmsprop ? fold_rmsprop_step(training->model, &rmsprop)
                           : fold_adam_step(training->model, &adam);
}

/* Returns a sample's weighted loss, and adds its weight to *weights. */
static fold_node fold_fit__weigh(const fold_fit__training *training, int sample, fold_node loss,
                                 double *weights)
{
    fold_ctx *f = training->desc.ctx;
    const float weight = training->desc.weight(sample, training->desc.user);
    if (!(weight >= 0) || !fold_finite(&weight, 1))
        fold_fit__fail(f, FOLD_BAD_ARGUMENT, "fit: the weight of sample %d is %g", sample, (double)weight);
    *weights += (double)weight;
    return fold_scale(f, loss, weight);
}

static int fold_fit__batch(fold_fit__training *training, int first, int count)
{
    fold_ctx *f = training->desc.ctx;
    double weights = training->desc.weight ? 0 : (double)count;
    const uint64_t start = fold_fit__now(),
                   salt =
                       fold_fit__mix(training->desc.seed + fold_fit__mix((uint64_t)training->report.epoch));
    fold_ctx_reset(f);
    for (int i = 0; i < count && !fold_fit__broken(f); i++) {
        const int sample = training->order[first + i];
        fold_dropout_seed(f, salt ^ fold_fit__mix((uint64_t)sample));
        training->loss[i] = training->desc.loss(f, sample, training->desc.user);
        if (fold_node_is_null(training->loss[i]))
            fold_fit__fail(f, FOLD_BAD_ARGUMENT, "fit: the loss of sample %d is the null node", sample);
        else if (training->desc.weight)
            training->loss[i] = fold_fit__weigh(training, sample, training->loss[i], &weights);
    }
    if (!fold_fit__broken(f) && !(weights > 0))
        fold_fit__fail(f, FOLD_BAD_ARGUMENT, "fit: all weights of samples %d to %d in epoch %d are 0", first,
                       first + count - 1, training->report.epoch);
    if (fold_fit__broken(f))
        return 0;
    const fold_node mean = training->desc.weight
                               ? fold_scale(f, fold_sum_n(f, training->loss, count), (float)(1 / weights))
                               : fold_mean_n(f, training->loss, count);
    if (fold_backward(f, mean))
        return 0;
    const double loss = (double)fold_scalar(f, mean);
    training->sum += loss * weights;
    training->weights += weights;
    if (!fold_fit__is_finite(loss) || !fold_fit__clip(training)) {
        fold_fit__diverged(training, first, count,
                           fold_fit__is_finite(loss) ? "the gradient's norm" : "the mean loss");
        return 0;
    }
    if (fold_fit__step(training, fold_fit__factor(training, first)))
        return 0;
    training->ns += fold_fit__now() - start;
    training->report.trained = first + count;
    training->report.loss = training->sum / training->weights;
    training->report.per_second =
        training->ns ? (double)training->report.trained * 1e9 / (double)training->ns : 0;
    return 1;
}

#ifndef FOLD_NO_STDIO
static fold_status fold_fit__save_with(const fold_fit__training *training, const char *path, int state,
                                       const char *config)
{
    fold_save_desc desc = fold_save_desc_default();
    desc.state = state;
    desc.config = config;
    const fold_status status = fold_model_save(training->model, path, &desc);
    if (!status)
        return FOLD_OK;
    return fold_model_fail(training->model, status,
                           fold_model_message(training->model)); /* ends the training */
}

/* Saves a file with the note. If the file cannot be opened again for the note, saves it without one. */
static void fold_fit__save(const fold_fit__training *training, const char *path, int state)
{
    const char *config = training->desc.config;
    const int has_best = training->report.best_epoch >= 0;
    char note[FOLD_FIT__BLANKS];
    if (!path ||
        fold_fit__save_with(training, path, state, has_best ? (const char *)training->config.data : config) ||
        !has_best)
        return;
    fold_fit__put_note(&training->report, note);
    if (!fold_fit__write_note(path, note, config && *config))
        fold_fit__save_with(training, path, state, config);
}
#endif

static int fold_fit__is_better(const fold_fit__training *training, double than)
{
    const double metric = training->report.metric;
    return !training->desc.metric || training->desc.smaller_is_better ? metric < than : metric > than;
}

static void fold_fit__keep(fold_fit__training *training)
{
    const double metric = training->report.metric;
    if (!training->values.data ||
        (training->has_kept ? !fold_fit__is_better(training, training->kept) : metric != metric))
        return;
    memcpy(training->values.data, fold_model_values(training->model, NULL), training->values.size);
    training->has_kept = 1;
    training->kept = metric;
}

/* Ends an epoch, and returns whether to continue. */
static int fold_fit__epoch_end(fold_fit__training *training)
{
    fold_fit_report *report = &training->report;
    report->metric =
        training->desc.metric ? training->desc.metric(training->model, training->desc.user) : report->loss;
    report->epoch_end = 1;
    if (fold_fit__broken(training->desc.ctx))
        return 0;
    const int better = report->best_epoch < 0 ? report->metric == report->metric
                                              : fold_fit__is_better(training, report->best);
    if (better)
        report->best = report->metric;
    if (better)
        report->best_epoch = report->epoch;
    fold_fit__keep(training);
#ifndef FOLD_NO_STDIO
    if (better)
        fold_fit__save(training, training->desc.best_path, 0);
    if (!fold_fit__broken(training->desc.ctx))
        fold_fit__save(training, training->desc.last_path, 1);
#endif
    if (fold_fit__broken(training->desc.ctx))
        return 0;
    const int since =
        report->epoch - (report->best_epoch < 0 ? training->desc.first_epoch - 1 : report->best_epoch);
    if (training->desc.patience && since >= training->desc.patience)
        report->ended = FOLD_FIT_PATIENCE;
    if (training->desc.progress && training->desc.progress(report, training->desc.user) && !report->ended)
        report->ended = FOLD_FIT_PROGRESS;
    return !report->ended;
}

static int fold_fit__epoch(fold_fit__training *training)
{
    const int samples = training->desc.samples, batch = training->desc.batch;
    training->sum = training->weights = 0;
    training->ns = 0;
    training->report.epoch_end = 0;
    fold_fit__shuffle(training);
    for (int first = 0, count; first < samples; first += count) {
        count = batch < samples - first ? batch : samples - first;
        if (!fold_fit__batch(training, first, count))
            return 0;
        if (!training->desc.progress || !training->desc.progress(&training->report, training->desc.user))
            continue;
        training->report.ended = FOLD_FIT_PROGRESS;
        return 0;
    }
    return fold_fit__epoch_end(training);
}

static void fold_fit__end(fold_fit__training *training)
{
    const fold_param all = { 0, 0 };
    if (training->has_kept) {
        memcpy(fold_values_write_begin(training->model, all), training->values.data, training->values.size);
        fold_values_write_end(training->model, all);
    }
    fold_fit__give(training->model, training->config);
    fold_fit__give(training->model, training->values);
    fold_fit__give(training->model, training->losses);
    fold_fit__give(training->model, training->orders);
}

FOLD_API fold_status fold_fit(const fold_fit_desc *desc, fold_fit_report *report)
{
    fold_fit__training training;
    if (!desc || !desc->ctx)
        return FOLD_BAD_ARGUMENT;
    memset(&training, 0, sizeof training);
    training.desc = *desc;
    if (!training.desc.batch)
        training.desc.batch = FOLD_FIT__BATCH;
    if (!training.desc.epochs)
        training.desc.epochs = FOLD_FIT__EPOCHS;
    training.model = fold_ctx_model(desc->ctx);
    training.report.epoch = training.desc.first_epoch;
    training.report.best_epoch = -1;
    training.report.metric = training.report.best = (double)NAN;
    const int started = fold_fit__start(&training);
    for (int i = 0; started && i < training.desc.epochs; i++) {
        training.report.epoch = training.desc.first_epoch + i;
        if (!fold_fit__epoch(&training))
            break;
    }
    if (fold_fit__broken(desc->ctx) && training.report.ended != FOLD_FIT_DIVERGED)
        training.report.ended = FOLD_FIT_ERROR;
    if (fold_fit__broken(desc->ctx) && started && desc->progress)
        desc->progress(&training.report, desc->user);
    fold_fit__end(&training);
    if (report)
        *report = training.report;
    return fold_ctx_status(desc->ctx);
}
#endif /* FOLD_INFERENCE */

/* ---- prediction ------------------------------------------------------------------------------ */

FOLD_API fold_fit_predict_desc fold_fit_predict_desc_default(void)
{
    fold_fit_predict_desc desc;
    memset(&desc, 0, sizeof desc);
    return desc;
}

static int fold_fit__predict_ok(const fold_fit_predict_desc *desc)
{
    if (!desc->record)
        return fold_fit__fail(desc->ctx, FOLD_BAD_ARGUMENT, "predict: record is NULL");
    if (!desc->take)
        return fold_fit__fail(desc->ctx, FOLD_BAD_ARGUMENT, "predict: take is NULL");
    if (desc->samples < 0)
        return fold_fit__fail(desc->ctx, FOLD_BAD_ARGUMENT, "predict: samples is %d, must be in [0, inf)",
                              desc->samples);
    return desc->batch >= 0 || fold_fit__fail(desc->ctx, FOLD_BAD_ARGUMENT,
                                              "predict: batch is %d, must be in [0, inf)", desc->batch);
}

static int fold_fit__predict_batch(const fold_fit_predict_desc *desc, int first, int count, fold_node *output)
{
    fold_ctx *f = desc->ctx;
    fold_ctx_reset(f);
    for (int i = 0; i < count && !fold_fit__broken(f); i++) {
        output[i] = desc->record(f, first + i, desc->user);
        if (fold_node_is_null(output[i]))
            fold_fit__fail(f, FOLD_BAD_ARGUMENT, "predict: the output of sample %d is the null node",
                           first + i);
    }
    if (fold_run(f, output, count))
        return 0;
    for (int i = 0; i < count && !fold_fit__broken(f); i++)
        desc->take(f, first + i, output[i], desc->user);
    return !fold_fit__broken(f);
}

FOLD_API fold_status fold_fit_predict(const fold_fit_predict_desc *desc)
{
    if (!desc || !desc->ctx)
        return FOLD_BAD_ARGUMENT;
    fold_ctx *f = desc->ctx;
    const int batch = desc->batch ? desc->batch : FOLD_FIT__BATCH;
    fold_ctx_reset(f);
    if (fold_fit__broken(f) || !fold_fit__predict_ok(desc) || !desc->samples)
        return fold_ctx_status(f);
    const fold_fit__memory outputs =
        fold_fit__take(fold_ctx_model(f), (size_t)(batch < desc->samples ? batch : desc->samples),
                       sizeof(fold_node));
    if (!outputs.data)
        fold_fit__fail(f, FOLD_NO_MEMORY, "predict: out of memory");
    for (int first = 0, count; outputs.data && first < desc->samples; first += count) {
        count = batch < desc->samples - first ? batch : desc->samples - first;
        if (!fold_fit__predict_batch(desc, first, count, (fold_node *)outputs.data))
            break;
    }
    fold_fit__give(fold_ctx_model(f), outputs);
    return fold_ctx_status(f);
}

/* ---- measures -------------------------------------------------------------------------------- */

FOLD_API double fold_fit_accuracy(const int *guess, const int *label, int n)
{
    double hits = 0;
    if (!guess || !label || n < 1)
        return (double)NAN;
    for (int i = 0; i < n; i++)
        hits += guess[i] == label[i];
    return hits / n;
}

FOLD_API double fold_fit_f1(const int *guess, const int *label, int n, int positive)
{
    double hits = 0, named = 0;
    if (!guess || !label || n < 1)
        return (double)NAN;
    for (int i = 0; i < n; i++) {
        hits += guess[i] == positive && label[i] == positive;
        named += (guess[i] == positive) + (label[i] == positive);
    }
    return named > 0 ? 2 * hits / named : 0;
}

static double fold_fit__mean(const float *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += (double)values[i];
    return sum / count;
}

FOLD_API double fold_fit_perplexity(const float *loss, int n)
{
    return loss && n > 0 ? exp(fold_fit__mean(loss, n)) : (double)NAN;
}

FOLD_API double fold_fit_pearson(const float *a, const float *b, int n)
{
    double square_a = 0, square_b = 0, product = 0;
    if (!a || !b || n < 1)
        return (double)NAN;
    const double mean_a = fold_fit__mean(a, n), mean_b = fold_fit__mean(b, n);
    for (int i = 0; i < n; i++) {
        const double from_a = (double)a[i] - mean_a, from_b = (double)b[i] - mean_b;
        square_a += from_a * from_a;
        square_b += from_b * from_b;
        product += from_a * from_b;
    }
    return square_a > 0 && square_b > 0 ? product / (sqrt(square_a) * sqrt(square_b)) : (double)NAN;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* FOLD_FIT_IMPLEMENTATION */
