/* fold.h - dynamic batching of neural networks in one C file.                     version 0.1.0

   You write a network for ONE sample, with ordinary `if`, `for` and recursion. fold.h records it lazily,
   finds the operations of all samples that can run together, runs them as a few large batched kernels,
   forward and backward, and hands back per-sample results.

   USE      In exactly one C or C++ file:     #define FOLD_IMPLEMENTATION
                                              #include "fold.h"
            Everywhere else:                  #include "fold.h"
            Compile:                          cc -O2 app.c -lm

   SYNOPSIS (this program is compiled and run by the tests)

    #define FOLD_IMPLEMENTATION
    #include "fold.h"
    #include <stdio.h>
    int main(void)
    {
        fold_model *m = fold_model_new(NULL);
        fold_param W = fold_weight_new(m, "W", 3, 2), b = fold_bias_new(m, "b", 2);
        fold_ctx_desc training = fold_ctx_desc_default();
        training.training = 1;
        fold_ctx *f = fold_ctx_new(m, &training);
        fold_sgd sgd = { 0.1f, 0, 0 };
        float x[2][3] = { { 1, 2, 3 }, { -1, 0, 1 } };
        for (int step = 0; step < 100; step++) {
            fold_node loss[2], total;
            fold_ctx_reset(f);
            for (int i = 0; i < 2; i++)                                     // one sample at a time
                loss[i] = fold_softmax_xent(f, fold_linear(f, fold_input(f, x[i], 3), W, b), i);
            total = fold_mean_n(f, loss, 2);
            if (fold_backward(f, total) || fold_sgd_step(m, &sgd)) { puts(fold_ctx_message(f)); return 1; }
            if (step % 20 == 0) printf("loss %g\n", (double)fold_scalar(f, total));
        }
        fold_ctx_free(f);
        fold_model_free(m);
        return 0;
    }

   DOES NOT
     run on GPUs; read Python's models, only their weights; parse graphs from files; do convolutions or
     images; compute in anything but float32; differentiate twice.

   CONTENTS   public:  1 configuration   2 contracts   3 types    4 model         5 context   6 inputs
                       7 ops   8 running   9 optimisers   10 cells   11 layers   12 training   13 files
                       14 looking inside   15 adding an op
              private: after FOLD_IMPLEMENTATION; each room has a banner saying what it owns and may call.

   LICENSE    MIT or Unlicense, at your choice: see the end of this file.

   1 CONFIGURATION (define before including; the same in every file where marked *)
     FOLD_IMPLEMENTATION     compile the implementation here
     FOLD_STATIC *           all functions static: the whole library is private to one file
     FOLD_API *              what stands before every public function, to export or import it: __declspec(dllexport),
                             __attribute__((visibility("default"))). Default extern
     FOLD_NO_MALLOC          no default allocator: every model and context is given its memory
     FOLD_USE_THREADS *      fold_pool: a pool of POSIX threads (gcc or clang). fold_ctx_desc.threads needs no such thing
     FOLD_USE_CBLAS          large products by cblas_sgemm (gives up the bit contract; held to a tolerance).
                             FOLD_CBLAS_HEADER names its header, default <cblas.h>
     FOLD_REPRODUCIBLE       the portable kernels use true fmaf and match the SIMD kernels bit for bit (slow
                             without FMA hardware)
     FOLD_ALLOW_FAST_MATH    accept -ffast-math, or x87 arithmetic, which void the numerics contract
     FOLD_FILENAME           this file's name, default "fold.h": it includes itself once per instruction set
     FOLD_GROUP_BYTES        default budget of a group's working set in bytes (see fold_ctx_desc.group_bytes)
     FOLD_NO_STDIO *         no function takes a FILE * or a path

   2 CONTRACTS
     Memory    A context takes memory from one caller's block, or through an allocator. No call allocates
               while a recording stays within the largest seen. All memory of a run is reserved before its
               first write. fold_ctx_stats tells the peak and the block size a context would have needed: that of its
               largest recording, and signatures of others, which go when a block is full. What fits a block alone
               fits after anything else.
     Errors    Never abort, exit or print. The first error sticks in the context (or model) with a message;
               the failed call returns the null node, every op accepts null and returns null, and running
               returns the stored status. fold_ctx_reset clears a context's error. Nothing trained is lost.
     Threads   No mutable globals. A context belongs to one thread at a time, and may itself spread a run over
               several (fold_ctx_desc.threads), with the same bits for any number. Many contexts may read one
               model at once; whoever writes the model (optimisers, fold_values_write_begin, fold_backward,
               new parameters and cells) must be alone with it.
     Numerics  Batching never changes a result: values and gradients are bit-identical for a sample alone
               (eager), or in any batch, under any schedule, grouping and number of threads, on every FMA
               instruction set.
               Summation order depends only on the op and its per-sample shapes. Parameter gradients
               depend on the sequence recorded and on nothing else.
     Windows   fold_slice (first axis), fold_split and fold_reshape make windows: no copy, no work. A
               window's gradient is that of the values it shows. */

#ifndef FOLD_H
#define FOLD_H

#include <stddef.h>
#include <stdint.h>

#define FOLD_VERSION_MAJOR 0
#define FOLD_VERSION_MINOR 1
#define FOLD_VERSION_PATCH 0
#define FOLD_VERSION "0.1.0"

#ifdef FOLD_API
#ifdef FOLD_STATIC
#error "fold.h: FOLD_STATIC and a FOLD_API of your own contradict each other"
#endif
#elif defined(FOLD_STATIC)
#if defined(__GNUC__) || defined(__clang__)
#define FOLD_API static __attribute__((unused))
#else
#define FOLD_API static
#endif
#elif defined(__cplusplus)
#define FOLD_API extern "C"
#else
#define FOLD_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== 3 types ============================================================================ */

#define FOLD_MAX_RANK 4  /* axes of a value */
#define FOLD_MAX_IN 32   /* fixed inputs of one op; list ops take any number of nodes */
#define FOLD_MAX_CELL_IN 16 /* fixed inputs of a cell */
#define FOLD_MAX_LIST 4  /* components of the elements of a cell's list */
#define FOLD_MAX_OUT 8   /* outputs of one op or cell */
#define FOLD_ALL (-1)    /* axis: reduce over all axes */

#define FOLD_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                      \
    X(BAD_ARGUMENT, "bad argument")      /* a null pointer, an index or a setting out of range */    \
    X(BAD_SHAPE, "bad shape")            /* shapes that do not fit the op */                         \
    X(BAD_HANDLE, "bad handle")          /* a stale or foreign node, parameter, cell or op */        \
    X(BAD_STATE, "bad state")            /* e.g. reading what was not kept, training an inference context */ \
    X(BAD_CELL, "bad cell")              /* a cell body that is not what was traced */               \
    X(NO_MEMORY, "out of memory")                                                                    \
    X(IO, "input or output failed")
typedef enum fold_status {
#define FOLD__STATUS(name, text) FOLD_##name,
    FOLD_STATUS_LIST(FOLD__STATUS)
#undef FOLD__STATUS
    FOLD_STATUS_COUNT
} fold_status;

#define FOLD_SCHEDULE_LIST(X)                                                                        \
    X(RATIO, "ratio")    /* default: the signature with the largest share of its runnable nodes ready */ \
    X(DEPTH, "depth")    /* nodes of equal signature and depth (Looks et al. 2017) */                \
    X(AGENDA, "agenda")  /* the signature of least average depth (Neubig et al. 2017) */
typedef enum fold_schedule {
#define FOLD__SCHEDULE(name, text) FOLD_SCHEDULE_##name,
    FOLD_SCHEDULE_LIST(FOLD__SCHEDULE)
#undef FOLD__SCHEDULE
    FOLD_SCHEDULE_COUNT
} fold_schedule;

typedef struct fold_model fold_model;  /* parameters, cells, ops: outlives every recording */
typedef struct fold_ctx fold_ctx;      /* one recording and its execution */

/* Handles are plain values; all-zero is null. A node is valid until its context's next fold_ctx_reset. The epoch
   is a 32-bit salt that changes with every reset and differs between contexts: a stale or foreign handle is
   caught but for one in about four thousand million. */
typedef struct fold_node { uint32_t id, epoch; } fold_node;
typedef struct fold_param { uint32_t id, salt; } fold_param;
typedef struct fold_cell { uint32_t id, salt; } fold_cell;
typedef struct fold_op { uint32_t id, salt; } fold_op;

/* Row-major shape of one sample's value: rank 1 to 4, every dim at least 1. A scalar has shape [1]. */
typedef struct fold_shape { int rank, dim[FOLD_MAX_RANK]; } fold_shape;

FOLD_API fold_shape fold_shape1(int n);
FOLD_API fold_shape fold_shape2(int rows, int columns);
FOLD_API fold_shape fold_shape3(int d0, int d1, int d2);

/* Where memory comes from. Zero: malloc and free. `alloc` must return memory aligned to `align` (64, or
   4096 for large arrays) or NULL; `free` gets the size asked for. A context may be given `block` instead: then it lives inside
   those block_size bytes (64-byte aligned) and never allocates. */
typedef struct fold_memory {
    void *(*alloc)(size_t size, size_t align, void *user);
    void (*free)(void *ptr, size_t size, void *user);
    void *user;
    void *block;
    size_t block_size;
} fold_memory;

FOLD_API const char *fold_status_text(fold_status status);

/* Everything is written through a function of yours, in pieces: `bytes` has n of them; 0 to go on, anything else
   stops the writing. fold_to_file is one whose `user` is a FILE *: fold_ctx_print(f, fold_to_file, stdout). */
typedef int fold_writer(const void *bytes, size_t n, void *user);
#ifndef FOLD_NO_STDIO
FOLD_API int fold_to_file(const void *bytes, size_t n, void *file);
#endif
/* Hands out the next n bytes; returns how many, fewer than n at the end or when reading fails. */
typedef size_t fold_reader(void *bytes, size_t n, void *user);

/* ==== 4 model ============================================================================ */

typedef struct fold_model_desc {
    uint64_t seed;       /* of the initialisers; 0 is a seed like any other */
    int inference;       /* no gradients, no optimiser state, no transposed weights */
    const char *isa;     /* NULL: the best this CPU has. "avx512", "avx2", "neon", "portable", "cblas" force one */
    fold_memory memory;  /* block is not supported for models: bump-allocate from yours in `alloc` */
} fold_model_desc;
FOLD_API fold_model_desc fold_model_desc_default(void);

/* A new, empty model; desc NULL is the default. NULL when memory runs out. An isa that is unknown or not
   available here is an error of the model: nothing can be added until fold_model_clear_error accepts the best
   that there is. */
FOLD_API fold_model *fold_model_new(const fold_model_desc *desc);
/* Free the contexts of a model first. NULL is fine. */
FOLD_API void fold_model_free(fold_model *m);
FOLD_API fold_status fold_model_status(const fold_model *m);
FOLD_API const char *fold_model_message(const fold_model *m); /* "" when fine */
FOLD_API void fold_model_clear_error(fold_model *m);
FOLD_API const char *fold_model_isa(const fold_model *m);     /* the kernel set in use */

typedef enum fold_init {
    FOLD_INIT_ZEROS,
    FOLD_INIT_CONSTANT,   /* every value init_scale */
    FOLD_INIT_UNIFORM,    /* in [-init_scale, init_scale) */
    FOLD_INIT_NORMAL,     /* standard deviation init_scale */
    FOLD_INIT_GLOROT,     /* uniform, bound sqrt(6 / (rows + columns)) * gain (Glorot and Bengio 2010) */
    FOLD_INIT_HE,         /* normal, deviation sqrt(2 / rows) * gain (He et al. 2015) */
    FOLD_INIT_ORTHOGONAL  /* orthonormal rows or columns, whichever are fewer, times gain (Saxe et al. 2014) */
} fold_init;

/* What a parameter is used for. Weights of linear ops are kept packed beside their values. */
enum {
    FOLD_FOR_LINEAR = 1,   /* fold_linear: W is [inputs x outputs] */
    FOLD_FOR_LINEAR_T = 2, /* fold_linear_t: the parameter is [outputs x inputs], e.g. a tied embedding */
    FOLD_FOR_LOOKUP = 4    /* fold_lookup: its gradient is sparse, only touched rows are cleared and updated */
};

typedef struct fold_param_desc {
    const char *name;    /* unique in the model; copied */
    fold_shape shape;
    fold_init init;
    float init_scale;    /* see fold_init; for Glorot, He and orthogonal the gain, where 0 means 1 */
    const float *values; /* initial values instead of an initialiser; copied */
    unsigned uses;       /* FOLD_FOR_…; 0: FOLD_FOR_LINEAR when rank is 2 */
    int frozen;          /* no gradient, no update; may be changed later by fold_param_freeze */
    int buffer;          /* like frozen, but state rather than weight: never trained */
    int rate_set;        /* 0..15: see fold_model_scale_rates */
} fold_param_desc;

FOLD_API fold_param_desc fold_param_desc_default(void);  /* all zero */

/* Adds a parameter. The null handle and a model error when it cannot. */
FOLD_API fold_param fold_param_new(fold_model *m, const fold_param_desc *desc);
FOLD_API fold_param fold_weight_new(fold_model *m, const char *name, int inputs, int outputs); /* Glorot */
FOLD_API fold_param fold_bias_new(fold_model *m, const char *name, int n);                     /* zeros */
FOLD_API fold_param fold_gain_new(fold_model *m, const char *name, int n);                     /* ones, for fold_layer_norm */
FOLD_API fold_param fold_table_new(fold_model *m, const char *name, int rows, int width);      /* lookups; normal, deviation 0.1 */
FOLD_API fold_param fold_param_find(const fold_model *m, const char *name);                /* null when there is none */
FOLD_API int fold_param_count(const fold_model *m);
FOLD_API fold_param fold_param_at(const fold_model *m, int index);                         /* in order of creation */
FOLD_API const char *fold_param_name(const fold_model *m, fold_param p);
FOLD_API fold_shape fold_param_shape(const fold_model *m, fold_param p);
FOLD_API void fold_param_freeze(fold_model *m, fold_param p, int frozen);

/* Values and gradients, row-major. Pointers hold until a parameter is added. Gradients are NULL in inference
   models. */
FOLD_API const float *fold_param_value(const fold_model *m, fold_param p);
FOLD_API const float *fold_param_grad(const fold_model *m, fold_param p);
/* Those of all parameters as one span of *count floats, each parameter at a multiple of 16 floats, gaps zero.
   count may be NULL. */
FOLD_API const float *fold_model_values(const fold_model *m, int *count);
FOLD_API const float *fold_model_grads(const fold_model *m, int *count);

/* Values and gradients are written between begin and end alone. The null parameter: all, as one span. The end
   of writing values refreshes the packed weights. After that of gradients (e.g. the sum over replicas, added in
   one order everywhere) later runs add to them, and rows of lookup tables that are not zero count as touched,
   as if this model had looked them up. */
FOLD_API float *fold_values_write_begin(fold_model *m, fold_param p);
FOLD_API void fold_values_write_end(fold_model *m, fold_param p);
FOLD_API float *fold_grads_write_begin(fold_model *m, fold_param p);  /* NULL in inference models */
FOLD_API void fold_grads_write_end(fold_model *m, fold_param p);

/* Scales the learning rate and the weight decay of the parameters of a rate set, from the next step on. */
FOLD_API void fold_model_scale_rates(fold_model *m, int rate_set, float rate, float decay);

/* ==== 5 context ========================================================================== */

/* Calls task(i, user) once for every i in [0, n), on any threads and in any order, and returns when all are done. */
typedef void fold_task(int i, void *user);
typedef void fold_parallel_for(int n, fold_task *task, void *user, void *pool);

typedef struct fold_ctx_desc {
    int training;           /* fold_backward will be called */
    int eager;              /* immediate mode: every op runs when recorded, one row at a time, and its value can be read at once;
                               step through it in a debugger */
    int dedupe;             /* identical calls become one node (structure then depends on data), which runs before the samples that
                               share it and backward after them; recurrent and child-sum cells multiply a looked-up word once
                               for all its occurrences. Values keep their bits. Gradients are summed in another order, so
                               their last bits differ from those without dedupe; with it they too are the same bits in
                               eager, under any schedule, grouping and number of threads */
    fold_schedule schedule;
    size_t group_bytes;     /* independent samples, each recorded as a whole before the next, run in groups whose
                               working set is about this; SIZE_MAX: one group. 0: about FOLD_GROUP_BYTES (1 MiB), but as many
                               samples as give batches 12 rows on average, and up to 64 where weights are large */
    size_t plan_bytes;      /* reserved for plans: a recording whose structure was run before replays its plan instead of
                               being scheduled again. About 60 bytes a node; the least recently used go first. 0: none */
    uint64_t (*clock)(void *user); /* nanoseconds from any origin: lets fold_ctx_stats tell times. NULL: it tells none */
    void *clock_user;
    size_t trace_bytes;     /* reserved for fold_ctx_print_trace: 32 bytes a batch (or a thread's part of it), forward and backward,
                               shared out evenly among threads. Needs a clock, which then is called from every thread. 0: none */
    int threads;            /* groups of samples run on so many threads, or parts of large batches where there is but one group;
                               results have the same bits. 0, 1: the caller's alone.
                               User ops must then bear to be called from several at once */
    fold_parallel_for *parallel_for; /* your job system, or fold_pool_for; needed for threads */
    void *pool;             /* handed to parallel_for */
    fold_memory memory;
} fold_ctx_desc;
FOLD_API fold_ctx_desc fold_ctx_desc_default(void);

#ifdef FOLD_USE_THREADS
/* A pool of POSIX threads for fold_ctx_desc: parallel_for = fold_pool_for, pool = fold_pool_new(n). n counts the caller's
   own thread, which works too; 1 to 64. One context at a time may run on a pool. NULL when there are no threads to be had. */
typedef struct fold_pool fold_pool;
FOLD_API fold_pool *fold_pool_new(int threads);
FOLD_API void fold_pool_free(fold_pool *p);  /* NULL is fine */
FOLD_API void fold_pool_for(int n, fold_task *task, void *user, void *pool);
#endif

/* A new context bound to a model; desc NULL: inference. NULL when memory runs out (or the model is NULL). */
FOLD_API fold_ctx *fold_ctx_new(fold_model *m, const fold_ctx_desc *desc);
FOLD_API void fold_ctx_free(fold_ctx *f);  /* NULL is fine */
FOLD_API fold_model *fold_ctx_model(fold_ctx *f);
/* Forgets the recording and the context's error; keeps memory, signatures and settings. */
FOLD_API void fold_ctx_reset(fold_ctx *f);
/* The first error since the last reset, of the context or else of its model. The message also tells why the last read
   gave nothing, which is no error of the context (see fold_value). */
FOLD_API fold_status fold_ctx_status(const fold_ctx *f);
FOLD_API const char *fold_ctx_message(const fold_ctx *f);
/* Starts a sample's dropout draws: masks are a function of (key, draws since, element) alone. */
FOLD_API void fold_dropout_seed(fold_ctx *f, uint64_t key);

/* ==== 6 inputs =========================================================================== */

FOLD_API int fold_node_is_null(fold_node x);
FOLD_API fold_node fold_input(fold_ctx *f, const float *values, int n);                    /* [n], copied */
FOLD_API fold_node fold_input_shaped(fold_ctx *f, const float *values, fold_shape shape);  /* copied */
FOLD_API fold_node fold_input_ref(fold_ctx *f, const float *values, fold_shape shape);     /* not copied: keep unchanged until reset */
FOLD_API fold_node fold_constant(fold_ctx *f, float value);                                /* [1] */
FOLD_API fold_node fold_zeros(fold_ctx *f, fold_shape shape);
FOLD_API fold_node fold_lookup(fold_ctx *f, fold_param table, int row);                    /* row of a [rows x …] parameter */
FOLD_API fold_node fold_use(fold_ctx *f, fold_param p);                                    /* a parameter as a shared value */
/* The same value, marked shared: ops given it take the one value for all rows of their batch (the seeds'
   no_batch). Nodes that use different shared values do not batch together. */
FOLD_API fold_node fold_shared(fold_ctx *f, fold_node x);

/* ==== 7 ops ============================================================================== */
/* Shapes are per sample. Element-wise ops of two values take equal shapes, or one of them [1], or one whose
   shape equals the last axes of the other, which is repeated. Errors return the null node. */

/* y = concat(x…) W + b, W [inputs x outputs], b [outputs] or null. x [.., inputs] gives [.., outputs]. A
   concatenation feeding it is never copied: its parts are read in place. */
FOLD_API fold_node fold_linear(fold_ctx *f, fold_node x, fold_param W, fold_param b);
FOLD_API fold_node fold_linear_n(fold_ctx *f, const fold_node *x, int n, fold_param W, fold_param b);
/* fold_linear_n of x and h in two steps, to the same bits: x meets the first rows of W, as many as it has values; h the last, and
   is added to start [outputs]. What x gives can be used many times, or alone where there is no h. */
FOLD_API fold_node fold_linear_first(fold_ctx *f, fold_node x, fold_param W, fold_param b);
FOLD_API fold_node fold_linear_then(fold_ctx *f, fold_node start, fold_node h, fold_param W);
FOLD_API fold_node fold_linear_t(fold_ctx *f, fold_node x, fold_param W, fold_param b);  /* y = x Wᵀ + b, W [outputs x inputs] */
FOLD_API fold_node fold_matmul(fold_ctx *f, fold_node a, fold_node b);  /* [m,k][k,n] -> [m,n]; [k][k,n] -> [n]; [m,k][k] -> [m] */
FOLD_API fold_node fold_dot(fold_ctx *f, fold_node a, fold_node b);     /* equal shapes -> [1] */

FOLD_API fold_node fold_add(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_sub(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_mul(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_div(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_min(fold_ctx *f, fold_node a, fold_node b);     /* a < b ? a : b; at a tie the gradient goes to b */
FOLD_API fold_node fold_max(fold_ctx *f, fold_node a, fold_node b);     /* a > b ? a : b; likewise */
FOLD_API fold_node fold_scale(fold_ctx *f, fold_node x, float factor);  /* the factor is data, not structure */
FOLD_API fold_node fold_shift(fold_ctx *f, fold_node x, float term);
FOLD_API fold_node fold_neg(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_exp(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_log(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_sqrt(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_square(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_abs(fold_ctx *f, fold_node x);                  /* gradient 0 at 0 */
FOLD_API fold_node fold_sigmoid(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_tanh(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_relu(fold_ctx *f, fold_node x);                 /* x > 0 ? x : 0 */
FOLD_API fold_node fold_leaky_relu(fold_ctx *f, fold_node x, float slope);
FOLD_API fold_node fold_gelu(fold_ctx *f, fold_node x);                 /* tanh form (Hendrycks and Gimpel 2016); 0 at -infinity */
FOLD_API fold_node fold_softplus(fold_ctx *f, fold_node x);             /* log(1 + e^x) */

FOLD_API fold_node fold_softmax(fold_ctx *f, fold_node x);              /* over the last axis */
FOLD_API fold_node fold_log_softmax(fold_ctx *f, fold_node x);          /* over the last axis */
/* Sums and means of many values are accurate: here and in fold_sum_n, fold_mean_n, fold_list_sum and fold_list_mean
   at most 32 values are added one after the other. Longer sums are made of blocks that are joined by pairs: blocks
   of 512 for values that lie side by side (16 interleaved sums of 32), blocks of 32 for rows, nodes and list
   elements. The order, and with it the bits, depends on the number of values alone. */
FOLD_API fold_node fold_sum(fold_ctx *f, fold_node x, int axis);        /* the axis disappears; FOLD_ALL -> [1] */
FOLD_API fold_node fold_mean(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_amax(fold_ctx *f, fold_node x, int axis);       /* largest; its gradient goes to the first largest */
/* (x - mean) / sqrt(variance + 1e-5) * gain + bias over the last axis (Ba et al. 2016); gain, bias [last axis]. Outside inference
   models a gain that is all zeros because it was given no values is an error: fold_gain_new makes ones. Who wants zeros says
   so, by FOLD_INIT_CONSTANT or fold_param_desc.values. */
FOLD_API fold_node fold_layer_norm(fold_ctx *f, fold_node x, fold_param gain, fold_param bias);
FOLD_API fold_node fold_dropout(fold_ctx *f, fold_node x, float rate);  /* zero with probability rate, else x / (1 - rate); see fold_dropout_seed.
                                                                           In inference contexts: x itself */

/* Over any number of nodes of one shape; all counts are one signature and are batched without padding. No
   nodes at all: name the shape by the …_shaped form, or fold_zeros. */
FOLD_API fold_node fold_sum_n(fold_ctx *f, const fold_node *x, int n);
FOLD_API fold_node fold_mean_n(fold_ctx *f, const fold_node *x, int n);
FOLD_API fold_node fold_max_n(fold_ctx *f, const fold_node *x, int n);      /* element-wise largest; gradient to the first largest */
/* sum of value[k] weighted by softmax over k of score[k], scores [1] (Bahdanau et al. 2015) */
FOLD_API fold_node fold_attend_n(fold_ctx *f, const fold_node *score, const fold_node *value, int n);
/* An empty list gives zeros of `shape`; the empty maximum is an error. */
FOLD_API fold_node fold_sum_n_shaped(fold_ctx *f, const fold_node *x, int n, fold_shape shape);
FOLD_API fold_node fold_attend_n_shaped(fold_ctx *f, const fold_node *score, const fold_node *value, int n, fold_shape shape);

FOLD_API fold_node fold_concat(fold_ctx *f, const fold_node *x, int n, int axis);
FOLD_API fold_node fold_concat2(fold_ctx *f, fold_node a, fold_node b);                       /* along axis 0 */
FOLD_API fold_node fold_stack(fold_ctx *f, const fold_node *x, int n);                        /* n equal shapes of rank <= 3 -> [n, shape]; a copy */
FOLD_API void fold_unstack(fold_ctx *f, fold_node x, int n, fold_node *parts);                /* [n, shape] -> n of shape (a scalar: [1]); windows */
FOLD_API fold_node fold_slice(fold_ctx *f, fold_node x, int axis, int start, int length);     /* axis 0: a window */
FOLD_API void fold_split(fold_ctx *f, fold_node x, int n, fold_node *parts);                  /* n equal windows along axis 0 */
FOLD_API fold_node fold_reshape(fold_ctx *f, fold_node x, fold_shape shape);                  /* a window */
FOLD_API fold_node fold_transpose(fold_ctx *f, fold_node x, int axis_a, int axis_b);          /* swaps two axes; a copy */
FOLD_API fold_node fold_pick(fold_ctx *f, fold_node x, int index);                            /* one element -> [1]; the index is data */
FOLD_API fold_node fold_select(fold_ctx *f, fold_node condition, fold_node a, fold_node b);   /* condition > 0 ? a : b; equal shapes */
FOLD_API fold_node fold_stop_gradient(fold_ctx *f, fold_node x);

/* Losses, each -> [1]. */
FOLD_API fold_node fold_softmax_xent(fold_ctx *f, fold_node logits, int label);               /* -log softmax(logits)[label] */
/* sum t (log t - log softmax); t sums to 1; no gradient to t */
FOLD_API fold_node fold_softmax_kl(fold_ctx *f, fold_node logits, fold_node target);
FOLD_API fold_node fold_bce(fold_ctx *f, fold_node logits, fold_node target);                 /* sum of softplus(x) - t x; no gradient to t */
FOLD_API fold_node fold_squared_error(fold_ctx *f, fold_node a, fold_node b);                 /* sum (a - b)^2 */
/* sum, |d| <= delta: d^2/2, else delta (|d| - delta/2) (Huber 1964) */
FOLD_API fold_node fold_huber(fold_ctx *f, fold_node a, fold_node b, float delta);
/* sum over j != label of max(0, 1 + s_j - s_label) (Weston and Watkins 1999) */
FOLD_API fold_node fold_hinge(fold_ctx *f, fold_node scores, int label);

/* ==== 8 running ========================================================================== */

/* What is readable after a run: the roots, and nodes named here before it, which run even if no root needs them. */
FOLD_API void fold_keep(fold_ctx *f, fold_node x);
/* Keeps the gradient of x: fold_grad gives it after fold_backward. Does nothing in inference contexts. A
   concatenation, such as an output of a bidirectional fold_rnn_stack, is then one more reader of its parts, whose
   gradients it may sum in another order. */
FOLD_API void fold_keep_grad(fold_ctx *f, fold_node x);

/* Runs what the n roots need; n may be 0. More may be recorded afterwards, on top of roots and kept nodes, and run again. After
   a change of parameters a batched context computes anew what it needs; an eager one must be reset. */
FOLD_API fold_status fold_run(fold_ctx *f, const fold_node *roots, int n);
/* Runs forward and backward from one scalar root, which may be one element of a larger value, by a window, and
   adds to the gradients of the model's parameters, and to those of kept nodes. Needs no fold_run before it; it computes forward itself, a group of samples at a time,
   so values of an earlier run are computed again to the same bits. May be called for several roots in turn:
   gradients add up. The root, earlier roots and kept nodes are readable afterwards. */
FOLD_API fold_status fold_backward(fold_ctx *f, fold_node root);

/* Values of roots and kept nodes, and gradients of nodes named to fold_keep_grad. Pointers hold until the
   next call that records or runs, which may be the fold_input that copies from them, and no longer than the recording: after a
   reset fold_input refuses them. State of a frame that the next one needs is read out before the reset. When the value is not there: NULL (fold_scalar: NaN, fold_node_shape: rank 0,
   fold_read: a status), and fold_ctx_message says why until the next read or run; the context has no error, and all
   goes on. In a cell's body there are values when it runs in an eager context; while fold_cell_new traces it there
   are none, and asking for them is an error of the cell. */
FOLD_API const float *fold_value(fold_ctx *f, fold_node x);
FOLD_API const float *fold_grad(fold_ctx *f, fold_node x);
FOLD_API float fold_scalar(fold_ctx *f, fold_node x);
FOLD_API fold_shape fold_node_shape(fold_ctx *f, fold_node x);
/* Copies n nodes of one size to values as a dense [n x size] array. n may be 0. */
FOLD_API fold_status fold_read(fold_ctx *f, const fold_node *x, int n, float *values);

/* ==== 9 optimisers ======================================================================= */
/* Each step updates every parameter that is not frozen and clears the gradients. State is allocated at the
   first step. It begins anew when a step of another kind needs state: momentum, squares (Adagrad, RMSprop) or Adam's.
   Lookup tables: only rows touched since the last step change (value, state, weight decay). A backward touches the
   rows whose lookup the root's gradient reaches, be it zero there: not past fold_stop_gradient, targets and what
   only kept nodes read. A call of a cell passes gradients on from all its outputs, zeros from those not used, to the
   inputs they depend on. A table used as a weight by what gradients reach is touched in all rows. Set `rate` anew
   each step for a schedule. All return the model's status. */

/* Settings of the optimisers. Zero means the default, and so settings with nothing but a rate are good ones. rate alone
   has no default: 0 is a step of no length, as at the end of a schedule. Momentum and decay are off by default. Who
   wants no beta1, beta2 or rho gives 1e-9f, and for no epsilon 1e-30f: so little is lost in rounding. */
typedef struct fold_sgd {
    float rate;
    float momentum;  /* v = momentum v + g; w -= rate v. 0: none */
    float decay;     /* L2: decay w is added to the gradient. 0: none. In all four */
} fold_sgd;
typedef struct fold_adagrad { /* Duchi et al. 2011 */
    float rate;
    float epsilon;   /* default 1e-8 */
    float decay;
} fold_adagrad;
typedef struct fold_rmsprop { /* Tieleman and Hinton 2012 */
    float rate;
    float rho;       /* of the squares' mean, what stays at a step: default 0.9 */
    float epsilon;   /* default 1e-8 */
    float decay;
} fold_rmsprop;
typedef struct fold_adam { /* Kingma and Ba 2015 */
    float rate;
    float beta1;     /* default 0.9 */
    float beta2;     /* default 0.999 */
    float epsilon;   /* default 1e-8 */
    float decay;
    int decoupled;   /* decay is AdamW's (Loshchilov and Hutter 2019): not part of the gradient, w shrinks by rate decay w */
} fold_adam;
FOLD_API fold_adagrad fold_adagrad_default(void);  /* the defaults, and rate 0.05 */
FOLD_API fold_rmsprop fold_rmsprop_default(void);  /* rate 0.001 */
FOLD_API fold_adam fold_adam_default(void);        /* rate 0.001 */
FOLD_API fold_status fold_sgd_step(fold_model *m, const fold_sgd *o);
FOLD_API fold_status fold_adagrad_step(fold_model *m, const fold_adagrad *o);
FOLD_API fold_status fold_rmsprop_step(fold_model *m, const fold_rmsprop *o);
FOLD_API fold_status fold_adam_step(fold_model *m, const fold_adam *o);
FOLD_API void fold_grads_clear(fold_model *m);
/* Scales all gradients so that their global norm is at most `limit`; returns the norm before (Pascanu et al. 2013). */
FOLD_API double fold_grads_clip(fold_model *m, float limit);

/* ==== 10 cells =========================================================================== */
/* A cell is a body of ops, traced once when it is made and recorded afterwards as one node per call. Its
   body sees one sample; it may use parameters, cells without a list (inlined) and every op but fold_lookup,
   inputs and the …_n ops over nodes; it neither runs nor resets, and makes no cells. With list inputs, in[n_in + c]
   stands for component c of every element of the list: ops on it run per element, and the fold_list_… reductions lead
   back to one value per call. */
typedef void fold_cell_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user);
typedef struct fold_cell_desc {
    const char *name;               /* for messages; copied */
    fold_cell_body *body;                /* called at fold_cell_new, and at every call of an eager context */
    const void *user;               /* handed to body; copied when user_size > 0, else must outlive the model */
    size_t user_size;
    int n_in;                       /* fixed inputs */
    fold_shape in[FOLD_MAX_CELL_IN];
    int n_list;                     /* components of each list element; 0: no list */
    fold_shape list[FOLD_MAX_LIST];
    int n_out;
} fold_cell_desc;
FOLD_API fold_cell_desc fold_cell_desc_default(void);  /* all zero */
FOLD_API fold_cell fold_cell_new(fold_model *m, const fold_cell_desc *desc);
FOLD_API fold_node fold_call(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in);
/* list: count elements of n_list components each, element by element. count may be 0. */
FOLD_API fold_node fold_call_list(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in, const fold_node *list, int count);
FOLD_API fold_node fold_out(fold_ctx *f, fold_node call, int i);  /* output i of a call */

FOLD_API fold_node fold_list_sum(fold_ctx *f, fold_node x);       /* in a body; empty: zeros */
FOLD_API fold_node fold_list_mean(fold_ctx *f, fold_node x);      /* empty: zeros */
FOLD_API fold_node fold_list_max(fold_ctx *f, fold_node x);       /* calls with an empty list are errors */
FOLD_API fold_node fold_list_attend(fold_ctx *f, fold_node score, fold_node value);

/* ==== 11 layers ========================================================================== */
/* Plain structs of handles over the ops above. Names of their parameters are prefixed "name."; such a whole name has at most
   127 bytes, and a longer one is an error of the model. */

typedef enum fold_activation { FOLD_ACT_LINEAR, FOLD_ACT_RELU, FOLD_ACT_TANH, FOLD_ACT_SIGMOID, FOLD_ACT_GELU } fold_activation;
typedef struct fold_dense { fold_param W, b; fold_activation activation; } fold_dense;
FOLD_API fold_dense fold_dense_new(fold_model *m, const char *name, int inputs, int outputs, fold_activation activation);
FOLD_API fold_node fold_dense_apply(fold_ctx *f, const fold_dense *layer, fold_node x);

#define FOLD_MAX_LAYERS 8
typedef struct fold_mlp { int layers; fold_dense layer[FOLD_MAX_LAYERS]; } fold_mlp;
/* sizes[0..n]: n layers; `hidden` after all but the last, which is linear */
FOLD_API fold_mlp fold_mlp_new(fold_model *m, const char *name, const int *sizes, int n, fold_activation hidden);
FOLD_API fold_node fold_mlp_apply(fold_ctx *f, const fold_mlp *mlp, fold_node x);

typedef struct fold_state { fold_node h, c; } fold_state;   /* c is null where a layer has none */

/* A cell of your own does as well: from x, h and, with has_c, c it gives h and c. */
typedef struct fold_recurrent { fold_cell cell; int hidden, has_c; } fold_recurrent;
/* h' = tanh(x W + h U + b) (Elman 1990) */
FOLD_API fold_recurrent fold_rnn_new(fold_model *m, const char *name, int inputs, int hidden);
/* i, f, o, u from x W + h U + b; c' = f c + i u; h' = o tanh c' (Hochreiter and Schmidhuber 1997, Gers et al. 2000); forget bias 1 */
FOLD_API fold_recurrent fold_lstm_new(fold_model *m, const char *name, int inputs, int hidden);
/* r, z from x, h; n = tanh(x W_n + b_n + r (h U_n + b_m)); h' = (1 - z) n + z h (Cho et al. 2014) */
FOLD_API fold_recurrent fold_gru_new(fold_model *m, const char *name, int inputs, int hidden);
FOLD_API fold_state fold_recurrent_zeros(fold_ctx *f, const fold_recurrent *r);  /* zeros */
FOLD_API fold_state fold_recurrent_apply(fold_ctx *f, const fold_recurrent *r, fold_node x, fold_state s);

/* Unrolls one sample's sequence of n >= 0 inputs: the output h of x[t] goes to out[t] (out NULL: they are not
   wanted; out may be x), the final state is returned; of no steps it is the beginning. begin NULL: zeros. Each
   sample is as long as it is: steps of all samples batch, with no padding. After an error the state is null.
       for (int t = 0; t < n; t++) x[t] = fold_lookup(f, words, sentence[t]);
       fold_state last = fold_unroll(f, &lstm, x, n, NULL, out);
       fold_node all = fold_stack(f, out, n);       // if wanted: merged, [n x hidden]; batches with equal n only */
FOLD_API fold_state fold_unroll(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n, const fold_state *begin,
                                fold_node *out);
/* The same from the last input to the first: out[t] has seen x[t] to x[n - 1], the final state all. */
FOLD_API fold_state fold_unroll_reverse(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n, const fold_state *begin,
                                        fold_node *out);

/* A dense array of uneven sequences, which must not change until fold_ctx_reset (see fold_input_ref). */
typedef enum fold_layout { FOLD_LAYOUT_NTC, FOLD_LAYOUT_TNC } fold_layout;
typedef struct fold_sequences {
    const float *values;   /* FOLD_LAYOUT_NTC: [samples x steps x width]; FOLD_LAYOUT_TNC, time first: [steps x samples x width] */
    int samples, steps, width;
    const int *length;     /* of each sample, 0 to steps, what follows is not read; NULL: all are of `steps` */
    fold_layout layout;
} fold_sequences;
/* The inputs [width] of one sample, to x, which has room for `steps`; returns its length, or 0 and an error. */
FOLD_API int fold_sequences_input(fold_ctx *f, const fold_sequences *s, int sample, fold_node *x);
/* Unrolls all samples, one after another. begin: a state per sample, or NULL; out: [samples x steps] in this order in
   both layouts, null past a sample's length, or NULL; last: the final state of every sample, or NULL.
       fold_sequences batch = { values, 32, 50, 8, length, FOLD_LAYOUT_NTC };
       fold_unroll_batch(f, &lstm, &batch, NULL, out, last); */
FOLD_API fold_status fold_unroll_batch(fold_ctx *f, const fold_recurrent *r, const fold_sequences *s, const fold_state *begin,
                                       fold_node *out, fold_state *last);

/* Layers of recurrent cells, each reading the outputs of the one below; in both directions they read h of both,
   [2 hidden], first that which reads forwards. Cells are named name.0, name.1, …, in reverse name.0.reverse, ….
       fold_rnn_stack encoder = fold_rnn_stack_new(m, "encoder", fold_lstm_new, inputs, hidden, 2, 1);
       fold_rnn_stack_apply(f, &encoder, x, n, NULL, out, NULL); */
typedef fold_recurrent fold_recurrent_maker(fold_model *m, const char *name, int inputs, int hidden); /* e.g. fold_lstm_new */
typedef struct fold_rnn_stack {
    int layers, directions;
    fold_recurrent cell[2 * FOLD_MAX_LAYERS]; /* cell[layer * directions + direction] */
} fold_rnn_stack;
FOLD_API fold_rnn_stack fold_rnn_stack_new(fold_model *m, const char *name, fold_recurrent_maker *make, int inputs, int hidden,
                                           int layers, int bidirectional);
/* x, n, out as in fold_unroll; out gets what the top layer gives, [hidden] or [2 hidden]. begin, last: layers * directions
   states in the order of `cell`; NULL: zeros, not wanted. */
FOLD_API fold_status fold_rnn_stack_apply(fold_ctx *f, const fold_rnn_stack *s, const fold_node *x, int n, const fold_state *begin,
                                          fold_node *out, fold_state *last);

/* Unrolls a step of your own: it sets *out and next[0 .. n_states) from x and state[0 .. n_states), of the same shapes at
   every step. It is recorded op by op; let it fold_call a cell to make a step one node. */
#define FOLD_MAX_STATES 8
typedef void fold_unroll_body(fold_ctx *f, fold_node x, const fold_node *state, fold_node *out, fold_node *next, const void *user);
typedef struct fold_unroll_desc {
    fold_unroll_body *step;
    const void *user;                    /* handed to step */
    const fold_node *x;                  /* n inputs of any shapes, each handed to one step */
    int n;
    int reverse;                         /* from x[n - 1] to x[0] */
    int n_states;                        /* 0 to FOLD_MAX_STATES */
    const fold_node *begin;              /* n_states states; NULL: zeros of these shapes */
    fold_shape state[FOLD_MAX_STATES];
    fold_node *out;                      /* n outputs, out[t] is that of x[t]; NULL: not wanted. May be x */
    fold_node *last;                     /* n_states final states; NULL: not wanted */
} fold_unroll_desc;
FOLD_API fold_unroll_desc fold_unroll_desc_default(void);  /* all zero */
FOLD_API fold_status fold_unroll_steps(fold_ctx *f, const fold_unroll_desc *desc);

/* N-ary tree-LSTM (Tai, Socher, Manning 2015, equations 9-14): a leaf sees its input, an inner node its
   `arity` children in order, at most 8. Columns of a leaf's weights: i o u; of an inner node's: i, o, a forget gate
   for every child (its bias begins at 1), u. */
typedef struct fold_tree_lstm { fold_cell leaf, inner; int hidden, arity; } fold_tree_lstm;
FOLD_API fold_tree_lstm fold_tree_lstm_new(fold_model *m, const char *name, int inputs, int hidden, int arity);
FOLD_API fold_state fold_tree_lstm_apply_leaf(fold_ctx *f, const fold_tree_lstm *t, fold_node x);
FOLD_API fold_state fold_tree_lstm_apply_inner(fold_ctx *f, const fold_tree_lstm *t, const fold_state *children);

/* Child-sum tree-LSTM (Tai, Socher, Manning 2015, equations 2-8): any number of children; nodes without any are a
   cell of their own, which has nothing to multiply by zero. */
typedef struct fold_child_sum { fold_cell leaf, inner; int hidden; } fold_child_sum;
FOLD_API fold_child_sum fold_child_sum_new(fold_model *m, const char *name, int inputs, int hidden);
FOLD_API fold_state fold_child_sum_apply(fold_ctx *f, const fold_child_sum *t, fold_node x, const fold_state *children, int n);

/* ==== 12 training ======================================================================== */
/* The usual loop, for programs that need no other: it does what its settings say and nothing else.

    fold_fit_desc d = fold_fit_desc_default();
    d.ctx = f; d.samples = n; d.loss = my_loss; d.user = my_data; d.adam = &adam;
    if (fold_fit(&d, NULL)) puts(fold_ctx_message(f));

   For each epoch the samples are put in an order that depends on (seed, epoch) alone, or keep theirs; for each batch
   the context is reset, `loss` records every sample, the mean of their losses is differentiated, gradients are clipped, and
   the optimiser makes a step; the last batch may be smaller. Then the metric is taken, files are written, and patience
   is counted. */

/* What ended it: all epochs are done, or what stopped it. */
enum { FOLD_FIT_EPOCHS, FOLD_FIT_PATIENCE, FOLD_FIT_PROGRESS, FOLD_FIT_ERROR };

typedef struct fold_fit_report {
    int epoch;          /* the one running, or the last */
    int epoch_end;      /* it is over, and metric is its own */
    int trained;        /* samples of this epoch so far */
    double loss;        /* their mean, each taken before its batch's step */
    double metric;      /* of the last whole epoch, NaN before there is one */
    double best;        /* the best metric so far, NaN before there is one */
    int best_epoch;     /* -1: none yet */
    double per_second;  /* samples of this epoch, without metric and files; 0 when the context has no clock */
    int ended;          /* FOLD_FIT_… */
} fold_fit_report;

typedef struct fold_fit_desc {
    fold_ctx *ctx;           /* made for training; plans, threads and eager all do */
    int samples;             /* at least 1 */
    fold_node (*loss)(fold_ctx *f, int sample, void *user); /* records one sample, gives a scalar */
    void *user;              /* handed to loss, metric and progress */
    int batch;               /* 0: 32 */
    int epochs;              /* 0: 10 */
    int first_epoch;         /* to continue: epochs count from here. After fold_model_load with state: fold_model_steps /
                                batches an epoch */
    uint64_t seed;           /* of the order; and before each sample, of its dropout, by epoch and sample (fold_dropout_seed) */
    int in_order;            /* samples keep their order */
    const fold_sgd *sgd;     /* exactly one of the four is not NULL. Read at every step: progress may change its rate */
    const fold_adagrad *adagrad;
    const fold_rmsprop *rmsprop;
    const fold_adam *adam;
    float clip;              /* fold_grads_clip; 0: no clipping */
    double (*metric)(fold_model *m, void *user); /* after each epoch, the larger the better; e.g. accuracy on other
                                samples, in a context of its own. NULL: the epoch's mean loss, the smaller the better */
    int smaller_is_better;   /* of metric */
    int patience;            /* stops after so many epochs in a row without a new best; 0: never */
    int keep_best;           /* keeps the values of the best epoch in memory and puts them back at the end, whatever
                                ends it */
#ifndef FOLD_NO_STDIO
    const char *best_path;   /* gets the values of each new best (fold_model_save) */
    const char *last_path;   /* gets values and optimiser state after each epoch */
#endif
    const char *config;      /* goes into both files */
    int (*progress)(const fold_fit_report *report, void *user); /* after each batch and each epoch; nonzero stops */
} fold_fit_desc;
FOLD_API fold_fit_desc fold_fit_desc_default(void);

/* Takes 4 bytes a sample and 8 for each of a batch from the model's allocator, and with keep_best the size of the
   values, until it returns. Gradients that are there are cleared. report may be NULL; it gets the last state.
   Returns the context's status (see fold_ctx_message): errors of loss, of steps and of files end it, and leave the
   values of the last step, or the best with keep_best. */
FOLD_API fold_status fold_fit(const fold_fit_desc *desc, fold_fit_report *report);

/* ==== 13 files =========================================================================== */
/* Parameters in files of the safetensors format (Hugging Face), which Python reads as
   safetensors.torch.load_file(path). A parameter is a tensor of its name and shape, F32. The optimiser's state, if
   saved, is one or two tensors more: optimizer.momentum.NAME (SGD), optimizer.squares.NAME (Adagrad, RMSprop), or
   optimizer.adam.m.NAME and optimizer.adam.v.NAME; the metadata then say `optimizer` and `steps`. Names must be
   UTF-8; those that begin with "optimizer." cannot be saved. Settings of optimisers and groups, and what is frozen,
   are the program's: not in files.

   All of these return the model's status and, like everything of a model, do nothing while it holds an error (see
   fold_model_clear_error). FOLD_IO: a file cannot be opened, read or written, or is no safetensors file;
   FOLD_BAD_SHAPE: a tensor of another shape than its parameter; FOLD_BAD_ARGUMENT: one that is missing, unknown or
   of a type not read. */

typedef struct fold_save_desc {
    int state;           /* the optimiser's state and steps too: training continues from the file to the same bits, when
                            gradients are clear (after a step) and the settings are the same */
    const char *config;  /* kept in the metadata as `config`, UTF-8; e.g. the sizes of the network. NULL: none */
} fold_save_desc;
FOLD_API fold_save_desc fold_save_desc_default(void);  /* all zero */

/* Loading checks the whole header against the model, and has all data at hand, before it writes: a load that fails
   changes nothing. It takes no more from the model's allocator, until it returns, than four times the header (at
   most 100 MB) and the data of the tensors it loads; from memory, nothing for the data. Values of type F16, BF16
   and F64 become float. Packed weights and kept plans follow; eager contexts must be reset. Gradients stay as they
   are. */
typedef struct fold_load_desc {
    int state;           /* the optimiser's state and steps too. A file without them is an error, or with allow_missing
                            a fresh start */
    int allow_missing;   /* parameters that the file lacks keep their values; state that it lacks becomes zero */
    int allow_unknown;   /* tensors that are no parameters are skipped, of any type; those named optimizer.… always are */
    const char *prefix;  /* only tensors whose names begin so are looked at, under the rest of their names. NULL: all */
    char *config;        /* gets the file's `config` and a final zero, "" if there is none; longer: an error */
    size_t config_size;  /* bytes of config. To know it before there are parameters, load into an empty model with
                            allow_unknown */
    int *loaded;         /* gets how many tensors were loaded, those of the state too: with allow_missing and allow_unknown
                            a file of another model gives FOLD_OK and 0. After an error 0. NULL: not wanted */
} fold_load_desc;
FOLD_API fold_load_desc fold_load_desc_default(void);  /* all zero */

/* desc NULL is the default. */
FOLD_API fold_status fold_model_save_to(fold_model *m, fold_writer *write, void *user, const fold_save_desc *desc);
FOLD_API fold_status fold_model_load_memory(fold_model *m, const void *bytes, size_t size, const fold_load_desc *desc);
/* In one pass; takes the bytes of the file and none after it. */
FOLD_API fold_status fold_model_load_from(fold_model *m, fold_reader *read, void *user, const fold_load_desc *desc);
#ifndef FOLD_NO_STDIO
/* Writes a file beside `path`, `path`.tmp or, while that name is taken, `path`.1.tmp to `path`.99.tmp, and renames it when all
   of it is on the disk, which may take some milliseconds. So whatever happens meanwhile, `path` is the file of before or
   the new one as a whole, and of two savers to one path the last wins. A save that fails leaves no file behind, a program
   that dies may leave its .tmp. What is there and is no regular file (a folder, a pipe, a device, a link) is never
   replaced: FOLD_IO. Where C's library is all there is (neither POSIX nor Windows), none of this is sure but that the
   file is renamed when it was written. */
FOLD_API fold_status fold_model_save(fold_model *m, const char *path, const fold_save_desc *desc);
FOLD_API fold_status fold_model_load(fold_model *m, const char *path, const fold_load_desc *desc);
/* Text: what a safetensors file holds, of any program: the name, shape, type and bytes of each tensor, and what the metadata
   say of the optimiser and of config. Reads the header alone. m gives the memory, until it returns, and stays as it is, an
   error too. A file that cannot be read is FOLD_IO, and the text says why; FOLD_IO too when the writer stopped. */
FOLD_API fold_status fold_model_print_file(const fold_model *m, const char *path, fold_writer *write, void *user);
#endif
FOLD_API uint64_t fold_model_steps(const fold_model *m); /* of its optimiser, those before a loaded state too */

/* ==== 14 looking inside ================================================================== */
/* The calls below show the plan of the last run if nothing was recorded since, else the recording by depth (the
   batches policy `depth` would make, unless samples are cut into groups); of an eager context, which has no plan, always
   the recording; of an inference context what it ran, forward. They work in a context with an error too, whose message
   fold_ctx_print ends with, and leave its status alone. They return FOLD_OK, FOLD_IO when the writer stopped, or FOLD_NO_MEMORY.
   The memory they take (about 40 bytes a node) stays with the context, in a caller's block until they return; like a
   recording call they may move values that fold_value points to. Do not record or run from within the writer. */

/* Text: step by step each signature, how many calls, what their operands are, with shapes. */
FOLD_API fold_status fold_ctx_print(fold_ctx *f, fold_writer *write, void *user);
/* Text: why calls of one op are not one batch: what tells their signatures apart, and whether a signature with several
   batches depends on itself, ran in several groups, or was split by the schedule. */
FOLD_API fold_status fold_ctx_print_splits(fold_ctx *f, fold_writer *write, void *user);
/* A graph for Graphviz's dot: a cluster for every batch, coloured by signature. */
FOLD_API fold_status fold_ctx_print_dot(fold_ctx *f, fold_writer *write, void *user);
/* An SVG picture, which needs nothing else: a column for every batch, coloured by signature, and a legend. It has at most 64
   rows: of more samples the first are drawn, and the calls of all others counted. */
FOLD_API fold_status fold_ctx_print_svg(fold_ctx *f, fold_writer *write, void *user);
/* JSON in the Trace Event Format, which Perfetto and chrome://tracing show: when the last run since the reset planned, and
   each batch of it ran, forward and backward, with its calls and group; tid is the thread, in microseconds since the run
   began. Events beyond fold_ctx_desc.trace_bytes are counted as "dropped" in otherData; without trace_bytes or clock, and of
   eager contexts, there are none. Takes no memory and moves nothing. FOLD_OK or FOLD_IO. */
FOLD_API fold_status fold_ctx_print_trace(const fold_ctx *f, fold_writer *write, void *user);
/* Text: the parameters of a model, their shapes, sizes and uses, and its cells. Takes no memory. FOLD_OK or FOLD_IO. */
FOLD_API fold_status fold_model_print(const fold_model *m, fold_writer *write, void *user);

typedef struct fold_stats {
    int nodes, edges;            /* recorded since the reset: values, operands */
    int run_nodes;               /* calls and ops that the last run executed */
    int batches;                 /* batches of the last run, forward */
    int prologues;               /* batches beside them: parts of cells that do not depend on the recursion, run first for all calls */
    int lower_bound;             /* sum over groups and signatures of the longest same-signature chain (where signatures feed each
                                    other in circles, of at most 32767) */
    int groups;                  /* groups of the last run */
    int signatures;              /* known to the context */
    int batched_nodes;           /* executed nodes that shared a batch with another */
    int list_elements;           /* list elements executed: there is no padding */
    int kernel_calls;            /* op kernels called by the last run, forward and backward, once per tile of rows */
    int one_row_calls;           /* of those: calls of user ops that have no batched path */
    size_t value_bytes, plan_bytes; /* of the last run: values, gradients and scratch, and its plan */
    size_t without_reuse_bytes;  /* what the last run's values and gradients would take if no two shared memory */
    int plan_hits, plan_misses; /* runs that replayed a plan, and that did not, since the context was made */
    size_t cached_bytes;         /* of plan_bytes of the context, in use */
    uint64_t schedule_ns, run_ns; /* of the last run, when the context has a clock: finding and planning batches, running them */
    size_t pack_bytes;           /* packed weights of the model */
    size_t bytes, peak_bytes;    /* memory held by the context now, and at most */
    size_t block_bytes;          /* the size of a fixed block that is enough for each recording so far. Where one ran out of
                                    memory, what it had asked for, as its message says: all it needs, or more is needed */
    const char *one_group;       /* why the last run could not be cut into groups; "" when it was */
} fold_stats;
FOLD_API fold_stats fold_ctx_stats(const fold_ctx *f);

/* ==== 15 adding an op ==================================================================== */
/* Built-in ops are rows of the same table. An op's forward and backward see n rows at once. */

/* n rows of floats: row r is at rows[r] when rows is given, else at base + r * stride. Stride 0: one row
   shared by all. Neither given: absent. */
typedef struct fold_rows { float *base; ptrdiff_t stride; float *const *rows; } fold_rows;
FOLD_API float *fold_row(const fold_rows *x, int r);

typedef struct fold_op_call {
    int rows;
    int n_in, n_out;
    const fold_shape *in_shape, *out_shape;  /* of one row */
    const int32_t *attr;                     /* structural attributes */
    const uint64_t *data; int data_step;   /* per-row data: data[r * data_step] */
    const int *list;                    /* list ops: row r owns rows list[r] .. list[r+1]-1 of each input */
    const fold_rows *in, *out;               /* inputs and outputs */
    const fold_rows *dout;                   /* backward: gradients of the outputs */
    const fold_rows *din;                    /* backward: write (do not add) the contribution to each input's gradient; absent: not wanted */
    float *scratch;                          /* fold_op_desc.scratch floats */
} fold_op_call;

/* Reads in_shape[0..n_in) and attr, sets out_shape; returns NULL, or what is wrong ("needs a square matrix"). */
typedef const char *fold_op_infer(const fold_shape *in_shape, int n_in, const int32_t *attr, fold_shape *out_shape);

enum {                          /* what backward reads; anything else may be gone by then */
    FOLD_NEEDS_IN = 1, FOLD_NEEDS_OUT = 2
};
typedef struct fold_op_desc {
    const char *name;
    int n_in;                   /* fixed inputs; for list ops components per element; -1: 1 to FOLD_MAX_IN */
    int n_out, n_attr;          /* attributes: at most 4. On list elements an eager context runs ops of one output only */
    int is_list;                /* takes a list, gives one value; its batches mix all lengths */
    int one_row;                /* has no batched path: called with one row at a time (and reported) */
    unsigned needs;             /* FOLD_NEEDS_… */
    int scratch;                /* floats */
    fold_op_infer *infer;
    void (*forward)(const fold_op_call *c);
    void (*backward)(const fold_op_call *c);  /* NULL: no gradient passes */
} fold_op_desc;
FOLD_API fold_op fold_op_new(fold_model *m, const fold_op_desc *def);
/* Records a user op. in: n_in nodes (list ops: count elements of def.n_in components, n_in = count * components). */
FOLD_API fold_node fold_op_apply(fold_ctx *f, fold_op op, const fold_node *in, int n_in, const int32_t *attr, uint64_t data);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_H */

/* ============================================================================================
   IMPLEMENTATION
   ============================================================================================ */
#if defined(FOLD_IMPLEMENTATION) && !defined(FOLD__SIMD_PASS) && !defined(FOLD__IMPLEMENTED)
#define FOLD__IMPLEMENTED

/* ==== room: configuration and platform ======================================================
   Owns: compiler differences. Calls: libc. */

#if defined(__FAST_MATH__) && !defined(FOLD_ALLOW_FAST_MATH)
#error "fold.h: -ffast-math voids the numerics contract; define FOLD_ALLOW_FAST_MATH to accept that"
#endif

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef FOLD_USE_THREADS
#include <pthread.h>
#endif
#ifdef FOLD_NO_STDIO
#elif defined(_WIN32)
#define FOLD__DISK_WINDOWS
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#elif defined(__unix__) || defined(__APPLE__) || defined(__HAIKU__) || defined(__wasi__)
#define FOLD__DISK_POSIX
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 2) && \
    !defined(FOLD_ALLOW_FAST_MATH) && !(defined(__i386__) && defined(__GNUC__) && !defined(__clang__))
#error \
    "fold.h: floats are computed in a wider type here, which voids the numerics contract; use SSE2, or define FOLD_ALLOW_FAST_MATH"
#endif

#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#ifndef FOLD_GROUP_BYTES
#define FOLD_GROUP_BYTES (1u << 20)
#endif

/* Contraction of a*b+c into one rounding would make results depend on the compiler: pinned off here. */
#if defined(__clang__)
#define FOLD__NO_CONTRACT _Pragma("STDC FP_CONTRACT OFF")
#elif defined(__GNUC__)
#define FOLD__NO_CONTRACT
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off", \
                     "no-inline-functions") /* the latter: a third less to compile, as fast */
#if defined(__i386__) && !defined(__SSE2_MATH__)
#pragma GCC target("sse2,fpmath=sse") /* x87 registers would round twice */
#endif
#else
#define FOLD__NO_CONTRACT
#endif

#if defined(__GNUC__) || defined(__clang__)
#define FOLD__PRINTF(string, first) __attribute__((format(printf, string, first)))
#if defined(__x86_64__) || defined(__i386__)
#define FOLD__PAUSE() __builtin_ia32_pause()
#else
#define FOLD__PAUSE() ((void)0)
#endif
#define FOLD__LIKELY(x) __builtin_expect(!!(x), 1)
#else
#define FOLD__PRINTF(string, first)
#define FOLD__LIKELY(x) (x)
#endif

#define FOLD__NONE 0xffffffffu
#define FOLD__ALIGN 64u
#define FOLD__PAGE 4096u

static size_t fold__round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
static size_t fold__max_size(size_t a, size_t b) { return a > b ? a : b; }
static size_t fold__min_size(size_t a, size_t b) { return a < b ? a : b; }

/* a * b + c, or SIZE_MAX when that overflows: no allocator grants SIZE_MAX. */
static size_t fold__size(size_t a, size_t b, size_t c)
{
    if (b && a > (SIZE_MAX / 2 - c) / b)
        return SIZE_MAX;
    return a * b + c;
}

static uint64_t fold__mix64(uint64_t x) /* the finaliser of splitmix64 (Steele et al. 2014) */
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ==== room: errors ==========================================================================
   Owns: the sticky error record. Calls: nothing above. */

typedef struct fold__error {
    fold_status status;
    char text[248];
} fold__error;

static void fold__fail_v(fold__error *e, fold_status status, const char *format, va_list args)
{
    if (e->status)
        return; /* the first error sticks */
    e->status = status;
    vsnprintf(e->text, sizeof e->text, format, args);
}

static void fold__clear_error(fold__error *e)
{
    e->status = FOLD_OK;
    e->text[0] = 0;
}

FOLD_API const char *fold_status_text(fold_status status)
{
    static const char *const text[] = {
#define FOLD__STATUS(name, words) words,
        FOLD_STATUS_LIST(FOLD__STATUS)
#undef FOLD__STATUS
    };
    return (unsigned)status < FOLD_STATUS_COUNT ? text[status] : "unknown status";
}

/* ==== room: arena ===========================================================================
   Owns: all memory of a context or model, as a fixed list of growing arrays. With an allocator each array is
   one allocation. In a caller's block the arrays lie side by side and growing one slides those after it, so
   the exact size of a block is the sum of what the arrays need. Arrays never shrink: no allocation after
   warm-up. Knows nothing of what the arrays hold. */

/* bytes; need: the most asked for; of a context's arrays since its reset, unless they are lasting. brief:
 * what it holds is not needed when it grows, nor is it asked for often. */
typedef struct fold__array {
    char *p;
    size_t capacity, need;
    int brief, lasting;
} fold__array;

typedef struct fold__arena {
    fold_memory memory;
    fold__array *array;
    int n;
    char *block; /* caller's block, behind the context itself; else NULL */
    size_t block_size;
    size_t bytes, peak;
} fold__arena;

#ifndef FOLD_NO_MALLOC
static void *fold__malloc(size_t size, size_t align, void *user)
{
    (void)user;
    if (size > SIZE_MAX / 2)
        return NULL;
    char *raw = (char *)malloc(size + align + sizeof(void *));
    if (!raw)
        return NULL;
    char *p = raw + sizeof(void *);
    p += (align - (uintptr_t)p % align) % align;
    memcpy(p - sizeof(void *), &raw, sizeof(void *));
    return p;
}
static void fold__free(void *p, size_t size, void *user)
{
    void *raw;
    (void)size;
    (void)user;
    memcpy(&raw, (char *)p - sizeof(void *), sizeof(void *));
    free(raw);
}
#endif

static fold_memory fold__memory_or_default(const fold_memory *given)
{
    fold_memory m = *given;
#ifndef FOLD_NO_MALLOC
    if (!m.alloc) {
        m.alloc = fold__malloc;
        m.free = fold__free;
        m.user = NULL;
    }
#endif
    return m;
}

static void fold__arena_account(fold__arena *a, size_t more, size_t less)
{
    a->bytes = a->bytes + more - less;
    if (a->bytes > a->peak)
        a->peak = a->bytes;
}

/* Large arrays begin at pages. Of two that are walked through together, one that lay a few cache lines
   further in its page would hold up loads of the other: by its low bits a load's address is that of a store
   just made. */
static size_t fold__alignment(size_t capacity)
{
    return capacity < 16 * FOLD__PAGE ? FOLD__ALIGN : FOLD__PAGE;
}

static int fold__grow_allocated(fold__arena *a, fold__array *x, size_t need)
{
    const size_t capacity =
        fold__round_up(x->brief ? need + need / 8 : fold__max_size(need, x->capacity * 2), FOLD__ALIGN);
    if (x->p && x->brief) { /* freed first: the peak is one of them */
        a->memory.free(x->p, x->capacity, a->memory.user);
        fold__arena_account(a, 0, x->capacity);
        x->p = NULL;
        x->capacity = 0;
    }
    char *p =
        a->memory.alloc ? (char *)a->memory.alloc(capacity, fold__alignment(capacity), a->memory.user) : NULL;
    if (!p)
        return 0;
    fold__arena_account(a, capacity, 0);
    if (x->p) {
        memcpy(p, x->p, x->capacity);
        a->memory.free(x->p, x->capacity, a->memory.user);
        fold__arena_account(a, 0, x->capacity);
    }
    x->p = p;
    x->capacity = capacity;
    return 1;
}

/* Lays the arrays of a block out anew with the given room for one of them, moving what they hold. Arrays
   only move up when their lower neighbours grew and down when those gave up slack: two passes. */
static void fold__block_layout(fold__arena *a, int grown, size_t capacity, int trim)
{
    size_t at = 0, end = 0;
    for (int i = 0; i < a->n; i++) { /* downwards moves, in order */
        fold__array *x = &a->array[i];
        size_t keep = trim ? fold__min_size(x->capacity, fold__round_up(x->need, FOLD__ALIGN)) : x->capacity;
        if (keep && x->p != a->block + at)
            memmove(a->block + at, x->p, keep);
        x->capacity = keep;
        x->p = a->block + at;
        at += keep;
    }
    end = at - a->array[grown].capacity + capacity;
    for (int i = a->n - 1; i > grown; i--) { /* upwards moves, from the top */
        fold__array *x = &a->array[i];
        end -= x->capacity;
        if (x->capacity)
            memmove(a->block + end, x->p, x->capacity);
        x->p = a->block + end;
    }
    a->array[grown].capacity = capacity;
}

static int fold__grow_in_block(fold__arena *a, int which, size_t need)
{
    fold__array *x = &a->array[which];
    size_t exact = fold__round_up(need, FOLD__ALIGN), used = 0, trimmed = 0;
    for (int i = 0; i < a->n; i++) {
        used += a->array[i].capacity;
        trimmed += i == which
                       ? 0
                       : fold__min_size(a->array[i].capacity, fold__round_up(a->array[i].need, FOLD__ALIGN));
    }
    size_t room = a->block_size - used, more = exact - x->capacity;
    if (need > a->block_size || trimmed + exact > a->block_size)
        return 0;
    if (more <= room) {
        size_t slack = fold__min_size(exact / 2, (room - more) / 4) / FOLD__ALIGN * FOLD__ALIGN;
        fold__block_layout(a, which, exact + slack, 0);
    } else {
        fold__block_layout(a, which, exact, 1);
    }
    size_t now = 0;
    for (int i = 0; i < a->n; i++)
        now += a->array[i].capacity;
    a->bytes = now;
    if (now > a->peak)
        a->peak = now;
    return 1;
}

/* Makes array `which` hold `need` bytes; what it held stays. 0 when there is no memory, with nothing changed.
 */
static int fold__arena_need(fold__arena *a, int which, size_t need)
{
    fold__array *x = &a->array[which];
    if (need > x->capacity) {
        if (need > SIZE_MAX / 4)
            return 0;
        if (a->block ? !fold__grow_in_block(a, which, need) : !fold__grow_allocated(a, x, need))
            return 0;
    }
    if (need > x->need)
        x->need = need;
    return 1;
}

static void fold__arena_free(fold__arena *a)
{
    if (a->block)
        return;
    for (int i = 0; i < a->n; i++)
        if (a->array[i].p)
            a->memory.free(a->array[i].p, a->array[i].capacity, a->memory.user);
}

/* ==== room: shapes ==========================================================================
   Owns: sizes of shapes and their text. Calls: errors. */

FOLD_API fold_shape fold_shape1(int n)
{
    fold_shape s = { 1, { n, 0, 0, 0 } };
    return s;
}
FOLD_API fold_shape fold_shape2(int rows, int columns)
{
    fold_shape s = { 2, { rows, columns, 0, 0 } };
    return s;
}
FOLD_API fold_shape fold_shape3(int d0, int d1, int d2)
{
    fold_shape s = { 3, { d0, d1, d2, 0 } };
    return s;
}

static int fold__shape_ok(const fold_shape *s)
{
    size_t size = 1;
    if (s->rank < 1 || s->rank > FOLD_MAX_RANK)
        return 0;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 1)
            return 0;
        size *= (size_t)s->dim[i];
        if (size > (size_t)1 << 30)
            return 0; /* 4 GB a value: offsets stay within 32 bits */
    }
    return 1;
}

static int fold__shape_size(const fold_shape *s)
{
    int size = 1;
    for (int i = 0; i < s->rank; i++)
        size *= s->dim[i];
    return size;
}

static int fold__shape_same(const fold_shape *a, const fold_shape *b)
{
    if (a->rank != b->rank)
        return 0;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return 0;
    return 1;
}

static int fold__shape_last(const fold_shape *s) { return s->dim[s->rank - 1]; }

/* Appends "[3 x 4]" to the text at `at` of `size` bytes; returns the new end. */
static size_t fold__shape_text(char *text, size_t size, size_t at, const fold_shape *s)
{
    for (int i = 0; i < s->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? " x " : "[", s->dim[i]);
    if (at < size)
        at += (size_t)snprintf(text + at, size - at, "]");
    return fold__min_size(at, size - 1);
}

FOLD_API float *fold_row(const fold_rows *x, int r)
{
    return x->rows ? x->rows[r] : x->base + (ptrdiff_t)r * x->stride;
}
static const fold_rows fold__no_rows = { NULL, 0, NULL };
static int fold__absent(const fold_rows *x) { return !x->base && !x->rows; }

/* ==== room: kernels =========================================================================
   Owns everything that touches many floats: packed weights, products, weight gradients, element-wise maps and
   reductions, once per instruction set behind one table of functions. Sees pointers and sizes; knows nothing
   of nodes.

   Every element of a product is one chain of fused multiply-adds in an order fixed by (K, N) alone, so a
   row's bits depend neither on the rows beside it nor on the instruction set. The part written against vector
   macros is the FOLD__SIMD_PASS section at the end; it is compiled once per instruction set by including this
   file again. */

/* What these passes of gcc find here is not worth a quarter of the room's compile time. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)
#pragma GCC push_options
#pragma GCC optimize( \
    "no-tree-vectorize,no-tree-vrp,no-tree-pre,no-code-hoisting,no-tree-slsr,no-tree-tail-merge,no-schedule-insns2,no-tree-dominator-opts,no-crossjumping")
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
#define FOLD__INLINE static inline __attribute__((always_inline, unused))
#define FOLD__NOINLINE __attribute__((noinline))
#define FOLD__PREFETCH(p) __builtin_prefetch(p)
#elif defined(_MSC_VER)
#define FOLD__INLINE static __forceinline
#define FOLD__NOINLINE __declspec(noinline)
#else
#define FOLD__INLINE static inline
#define FOLD__NOINLINE
#endif
#ifndef FOLD__PREFETCH
#define FOLD__PREFETCH(p) (void)(p)
#endif

#if (defined(__x86_64__) || defined(_M_X64)) && \
    (defined(__GNUC__) || defined(__clang__) || defined(_MSC_VER)) && !defined(__TINYC__)
#define FOLD__X86 1
#include <immintrin.h>
#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#else
#define FOLD__X86 0
#endif

#if (defined(__SSE__) || defined(_M_X64)) && !defined(__TINYC__)
#include <xmmintrin.h> /* the control register */
#endif

/* Not on 32-bit ARM: its vector unit flushes denormals. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && !defined(FOLD__PLAIN_SCALARS) && \
    (!defined(__i386__) || defined(__SSE2__)) && !defined(__arm__)
#define FOLD__GNU_VECTORS 1
#else
#define FOLD__GNU_VECTORS 0
#endif

#if FOLD__GNU_VECTORS && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define FOLD__NEON 1
#include <arm_neon.h>
#else
#define FOLD__NEON 0
#endif

#ifdef FOLD_USE_CBLAS
#ifndef FOLD_CBLAS_HEADER
#define FOLD_CBLAS_HEADER <cblas.h>
#endif
#include FOLD_CBLAS_HEADER
#endif

/* fold_row for the hot loops: gcc inlines no ordinary function across a change of optimize options. */
FOLD__INLINE float *fold__at(const fold_rows *x, ptrdiff_t r)
{
    return x->rows ? x->rows[r] : x->base + r * x->stride;
}
/* Row r from the one before it. */
FOLD__INLINE float *fold__next(const fold_rows *x, const float *before, size_t r)
{
    return x->rows ? x->rows[r] : (float *)(uintptr_t)before + x->stride;
}
static const fold_rows fold__no_others[4] = { { NULL, 0,
                                                NULL } }; /* what a map of one row does not move on by */
/* The rows from r on. */
static fold_rows fold__rows_from(const fold_rows *x, ptrdiff_t r)
{
    fold_rows y = *x;
    if (y.rows)
        y.rows += r;
    else
        y.base += r * y.stride;
    return y;
}

enum {
    FOLD__LANES = 16,        /* partial chains of a narrow product or a reduction, on every path */
    FOLD__ROW_BLOCK = 96,    /* rows of one weight-gradient block */
    FOLD__K_BLOCK = 96,      /* weight rows of one weight-gradient block; a multiple of every tile height */
    FOLD__N_BLOCK = 64,      /* its columns, when nothing is packed */
    FOLD__PASSING = 1 << 16, /* floats of an operand that passes again and again then */
    FOLD__NARROW_ELEMENTS = 32, /* of a narrow product whose lanes are joined at once; a multiple of 8 */
    FOLD__NARROW_ROWS = 4,      /* of the tallest narrow tile */
    FOLD__TILE_BLOCK = 40, /* row tiles that pass over a panel before the next panel: their rows stay in L2 */
    FOLD__TILE_ROWS = 6,   /* of the tallest tile */
    FOLD__TILE_SEGMENTS = 4, /* whose chains a tile continues without putting them down */
    FOLD__TILE_POINTERS = FOLD__TILE_BLOCK * FOLD__TILE_ROWS * (FOLD__TILE_SEGMENTS + 2) *
                          (int)sizeof(float *) / 4, /* in floats */
    FOLD__TILE_WIDTH = 128,                         /* columns of the widest tile */
    FOLD__TRANSPOSE_COLUMNS = 64,                   /* of rows that a transpose reads side by side */
    FOLD__CBLAS_BLOCK = 128                         /* rows gathered for one call of sgemm */
};

/* One K-segment of a product: w is the packed weight block, already advanced to the segment's first row. */
typedef struct fold__seg {
    fold_rows a;
    const float *w;
    int k;
} fold__seg;

/* Y[r] = init[r] + sum over segments a[r] . W, or n of its columns. The layout of the pack and the order of
   summation follow n_pack, so a column has the same bits whichever others are asked for. */
typedef struct fold__product {
    int rows, n, n_seg;  /* n: the columns of y and init */
    int n_pack, col;     /* columns of the packed weight (0: n) and the first one wanted */
    size_t panel_stride; /* fold__pack_stride of the whole weight, whatever part of its K is used */
    const fold__seg *seg;
    fold_rows init; /* base and rows NULL: zero. stride 0: the bias. May be the rows of y */
    fold_rows y;
} fold__product;

static int fold__pack_columns_of(const fold__product *p) { return p->n_pack ? p->n_pack : p->n; }

/* The maps: y = f(a, b, c, s), written in the vector macros of the SIMD section. min, max and relu are
   written as one comparison and a choice, which settles NaN and -0: the second choice wins whenever the
   comparison is false. d_f maps take g, the gradient of y, in a. L: maps that wait for memory or are rare, of
   which AVX-512 takes AVX2's. */
#define FOLD__MAPS(X, L)                                                                                    \
    X(add, FOLD__VADD(FOLD__A, FOLD__B))                                                                    \
    L(sub, FOLD__VSUB(FOLD__A, FOLD__B))                                                                    \
    X(mul, FOLD__VMUL(FOLD__A, FOLD__B))                                                                    \
    L(div, FOLD__VDIV(FOLD__A, FOLD__B))                                                                    \
    L(min, FOLD__VMIN(FOLD__A, FOLD__B))                                                                    \
    L(max, FOLD__VMAX(FOLD__A, FOLD__B))                                                                    \
    X(scale, FOLD__VMUL(FOLD__A, FOLD__S))                                                                  \
    X(shift, FOLD__VADD(FOLD__A, FOLD__S))                                                                  \
    L(neg, FOLD__VNEG(FOLD__A))                                                                             \
    L(copy, FOLD__A)                                                                                        \
    L(fill, FOLD__S)                                                                                        \
    X(exp, FOLD__ISA(exp)(FOLD__A))                                                                         \
    L(log, FOLD__ISA(log)(FOLD__A))                                                                         \
    L(sqrt, FOLD__VSQRT(FOLD__A))                                                                           \
    L(square, FOLD__VMUL(FOLD__A, FOLD__A))                                                                 \
    L(abs, FOLD__VABS(FOLD__A))                                                                             \
    X(sigmoid, FOLD__ISA(sigmoid)(FOLD__A))                                                                 \
    X(tanh, FOLD__ISA(tanh)(FOLD__A))                                                                       \
    L(relu, FOLD__VMAX(FOLD__A, FOLD__VZERO()))                                                             \
    L(leaky, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__A), FOLD__A, FOLD__VMUL(FOLD__A, FOLD__S)))          \
    X(gelu, FOLD__ISA(gelu)(FOLD__A))                                                                       \
    X(softplus, FOLD__ISA(softplus)(FOLD__A))                                                               \
    L(axpy, FOLD__VFMA(FOLD__A, FOLD__S, FOLD__C))                                                          \
    X(addmul, FOLD__VFMA(FOLD__A, FOLD__B, FOLD__C))                                                        \
    L(d_min_a, FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__C), FOLD__A, FOLD__VZERO()))                             \
    L(d_min_b, FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__C), FOLD__VZERO(), FOLD__A))                             \
    L(d_max_a, FOLD__VSEL(FOLD__VLT(FOLD__C, FOLD__B), FOLD__A, FOLD__VZERO()))                             \
    L(d_max_b, FOLD__VSEL(FOLD__VLT(FOLD__C, FOLD__B), FOLD__VZERO(), FOLD__A))                             \
    L(d_div_b, FOLD__VDIV(FOLD__VNEG(FOLD__VMUL(FOLD__A, FOLD__B)), FOLD__C))                               \
    L(d_exp, FOLD__VMUL(FOLD__A, FOLD__B))                                                                  \
    L(d_log, FOLD__VDIV(FOLD__A, FOLD__B))                                                                  \
    L(d_sqrt, FOLD__VDIV(FOLD__VMUL(FOLD__VSET(0.5f), FOLD__A), FOLD__B))                                   \
    L(d_square, FOLD__VMUL(FOLD__VMUL(FOLD__VSET(2.0f), FOLD__A), FOLD__B))                                 \
    L(d_abs, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__B), FOLD__A,                                         \
                        FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__VZERO()), FOLD__VNEG(FOLD__A), FOLD__VZERO()))) \
    X(d_sigmoid, FOLD__VMUL(FOLD__A, FOLD__VMUL(FOLD__B, FOLD__VSUB(FOLD__VSET(1.0f), FOLD__B))))           \
    X(d_tanh, FOLD__VMUL(FOLD__A, FOLD__VSUB(FOLD__VSET(1.0f), FOLD__VMUL(FOLD__B, FOLD__B))))              \
    L(d_relu, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__B), FOLD__A, FOLD__VZERO()))                        \
    L(d_leaky, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__B), FOLD__A, FOLD__VMUL(FOLD__A, FOLD__S)))        \
    X(d_gelu, FOLD__VMUL(FOLD__A, FOLD__ISA(gelu_slope)(FOLD__B)))                                          \
    X(d_softplus, FOLD__VMUL(FOLD__A, FOLD__ISA(sigmoid_call)(FOLD__B)))

enum fold__map {
#define FOLD__MAP_ENUM(name, expression) FOLD__MAP_##name,
    FOLD__MAPS(FOLD__MAP_ENUM, FOLD__MAP_ENUM)
#undef FOLD__MAP_ENUM
        FOLD__MAP_COUNT
};

/* n elements of each of `rows` rows: y, a, b and c are the first ones of all[0..3], which may be NULL for one
   row. y may be exactly a, b or c; an operand the map does not use may be NULL, its rows are those of y. */
typedef void (*fold__map_fn)(float *y, const float *a, const float *b, const float *c, float s, size_t n,
                             size_t rows, const fold_rows all[4]);

/* The optimisers' rules: what w loses, d, by its gradient g (weight decay added) and states s and t, which
   change on the way. True divisions and roots and no fused operations: one result on every path. */
#define FOLD__RULES(X)                                                                        \
    X(sgd, 0, d = FOLD__VMUL(rate, g))                                                        \
    X(momentum, 1, s = FOLD__VADD(FOLD__VMUL(keep_s, s), g); d = FOLD__VMUL(rate, s))         \
    X(squares, 1, s = FOLD__VADD(FOLD__VMUL(keep_s, s), FOLD__VMUL(FOLD__VMUL(add_s, g), g)); \
      d = FOLD__VDIV(FOLD__VMUL(rate, g), FOLD__VADD(FOLD__VSQRT(s), epsilon)))               \
    X(adam, 2, s = FOLD__VADD(FOLD__VMUL(keep_s, s), FOLD__VMUL(add_s, g));                   \
      t = FOLD__VADD(FOLD__VMUL(keep_t, t), FOLD__VMUL(FOLD__VMUL(add_t, g), g));             \
      d = FOLD__VDIV(FOLD__VMUL(rate, FOLD__VMUL(s, scale_s)),                                \
                     FOLD__VADD(FOLD__VSQRT(FOLD__VMUL(t, scale_t)), epsilon));               \
      d = FOLD__VADD(FOLD__VMUL(shrink, w), d))

enum fold__rule {
#define FOLD__RULE_ENUM(name, states, body) FOLD__RULE_##name,
    FOLD__RULES(FOLD__RULE_ENUM)
#undef FOLD__RULE_ENUM
        FOLD__RULE_COUNT
};

/* What a step reads beside the values. decay is added to the gradient, shrink (rate included) to what w
 * loses. */
typedef struct fold__step {
    enum fold__rule rule;
    int states;
    float rate, decay, shrink, epsilon;
    float keep_s, add_s, scale_s, keep_t, add_t, scale_t;
} fold__step;
typedef void (*fold__rule_fn)(const fold__step *x, float *w, float *g, float *s, float *t, size_t n);

typedef struct fold__kernels {
    const char *name; /* "avx512", "avx2", "neon", "portable", "cblas" */
    int panel,
        vector; /* columns of the widest panel and of a vector; panel 0: packs are plain row-major (cblas) */
    /* Packs rows first..first+count of w, row-major [k x n]; transposed: w is row-major [n x k] and its
     * transpose is packed */
    void (*pack)(float *dst, const float *w, int k, int n, int transposed, int first, int count);
    void (*product)(const fold__product *p, float *scratch);
    /* dw[i*ldw + j] continues as a chain over r in row order of x[r][i] * dy[r][j] */
    void (*weight_grad)(int rows, const fold_rows *x, int k, const fold_rows *dy, int n, float *dw,
                        size_t ldw, float *scratch);
    fold__map_fn map[FOLD__MAP_COUNT];
    float (*sum)(const float *a, size_t n);
    float (*dot)(const float *a, const float *b, size_t n);
    float (*max)(const float *a, size_t n); /* NaN never wins; -inf when nothing does */
    float (*exp_sum)(float *y, const float *a, float m, size_t n); /* y = exp(a - m); returns their sum */
    fold__rule_fn rule[FOLD__RULE_COUNT]; /* updates n values and clears their gradient */
} fold__kernels;

/* Where the columns of a pack lie. Vectors are dealt out evenly, so 5 vectors are panels of 3 + 2, not 4 + 1;
   rows of every panel are `width` floats apart, so that one offset advances all panels to a weight row. */
typedef struct fold__layout {
    int panels, full, vectors, width;
} fold__layout; /* the first `full` panels have `vectors`, the others one less */

static fold__layout fold__layout_of(int panel, int vector, int n)
{
    fold__layout l;
    int v;
    if (panel == 0) {
        l.panels = l.full = l.vectors = 1;
        l.width = n;
        return l;
    }
    v = (n - 1) / vector + 1;
    l.panels = (v - 1) / (panel / vector) + 1;
    if (vector < 16)
        v = l.panels * (panel / vector); /* short vectors: whole panels only, the padding is small */
    l.vectors = (v - 1) / l.panels + 1;
    l.full = v - l.panels * (l.vectors - 1);
    l.width = l.vectors * vector;
    return l;
}

/* First vector of panel p. */
static int fold__layout_start(const fold__layout *l, int p)
{
    return p * l->vectors - (p > l->full ? p - l->full : 0);
}

/* Floats between the columns of a narrow pack: a multiple of a cache line. */
static size_t fold__narrow_stride(int k) { return ((size_t)k + FOLD__LANES - 1) / FOLD__LANES * FOLD__LANES; }

/* Floats between the panels of a pack of k weight rows (narrow: between its columns). */
static size_t fold__pack_stride(const fold__kernels *f, int k, int n)
{
    return n < FOLD__LANES ? fold__narrow_stride(k)
                           : (size_t)k * (size_t)fold__layout_of(f->panel, f->vector, n).width;
}

static size_t fold__pack_floats(const fold__kernels *f, int k, int n)
{
    return fold__pack_stride(f, k, n) *
           (size_t)(n < FOLD__LANES ? n : fold__layout_of(f->panel, f->vector, n).panels);
}

/* Floats by which a pack pointer advances to start at weight row `row`. */
static size_t fold__pack_row(const fold__kernels *f, int n, size_t row)
{
    return n < FOLD__LANES ? row : row * (size_t)fold__layout_of(f->panel, f->vector, n).width;
}

/* Floats of scratch that product and weight_grad need for these sizes, whatever the number of rows. */
static size_t fold__scratch_floats(const fold__kernels *f, int k, int n)
{
    fold__layout l;
    if (f->panel == 0)
        return FOLD__NARROW_ELEMENTS * FOLD__LANES + (size_t)FOLD__CBLAS_BLOCK * ((size_t)k + (size_t)n);
    l = fold__layout_of(f->panel, f->vector, n < 1 ? 1 : n);
    return FOLD__TILE_ROWS * FOLD__TILE_WIDTH + FOLD__TILE_POINTERS +
           (size_t)FOLD__ROW_BLOCK * ((size_t)FOLD__K_BLOCK + (size_t)l.panels * (size_t)l.width);
}

/* dst[c*ld + r] = src[r][c] for four rows and cols columns. */
FOLD__INLINE void fold__transpose_4(float *dst, size_t ld, const float *const src[4], int cols)
{
    int c = 0;
#if FOLD__X86
    for (; c + 4 <= cols; c += 4) {
        __m128 a = _mm_loadu_ps(src[0] + c), b = _mm_loadu_ps(src[1] + c), d = _mm_loadu_ps(src[2] + c),
               e = _mm_loadu_ps(src[3] + c);
        __m128 ab = _mm_unpacklo_ps(a, b), de = _mm_unpacklo_ps(d, e), ab2 = _mm_unpackhi_ps(a, b),
               de2 = _mm_unpackhi_ps(d, e);
        float *to = dst + (size_t)c * ld;
        _mm_storeu_ps(to, _mm_movelh_ps(ab, de));
        _mm_storeu_ps(to + ld, _mm_movehl_ps(de, ab));
        _mm_storeu_ps(to + 2 * ld, _mm_movelh_ps(ab2, de2));
        _mm_storeu_ps(to + 3 * ld, _mm_movehl_ps(de2, ab2));
    }
#elif FOLD__NEON
    for (; c + 4 <= cols; c += 4) {
        const float32x4x2_t p = vtrnq_f32(vld1q_f32(src[0] + c), vld1q_f32(src[1] + c)),
                            q = vtrnq_f32(vld1q_f32(src[2] + c), vld1q_f32(src[3] + c));
        float *to = dst + (size_t)c * ld;
        vst1q_f32(to, vcombine_f32(vget_low_f32(p.val[0]), vget_low_f32(q.val[0])));
        vst1q_f32(to + ld, vcombine_f32(vget_low_f32(p.val[1]), vget_low_f32(q.val[1])));
        vst1q_f32(to + 2 * ld, vcombine_f32(vget_high_f32(p.val[0]), vget_high_f32(q.val[0])));
        vst1q_f32(to + 3 * ld, vcombine_f32(vget_high_f32(p.val[1]), vget_high_f32(q.val[1])));
    }
#endif
    for (; c < cols; c++) {
        float *to = dst + (size_t)c * ld;
        to[0] = src[0][c];
        to[1] = src[1][c];
        to[2] = src[2][c];
        to[3] = src[3][c];
    }
}

/* What packing uses of an instruction set. */
typedef struct fold__mover {
    /* Rows row..row+rows of x, n columns, as panels `stride` floats apart; what is left of the last one's
     * vectors is zero. */
    void (*pack_rows)(float *dst, size_t stride, const fold__layout *l, const fold_rows *x, ptrdiff_t row,
                      int rows, int n);
    /* dst[c*ld + r] = src[r][c] for eight rows. NULL: rows go by fours. */
    void (*transpose_8)(float *dst, size_t ld, const float *const src[8], int cols);
} fold__mover;

/* dst[c*ld + r] = x[row + r][col + c], in blocks that touch whole cache lines on both sides. */
static void fold__transpose(const fold__mover *f, float *dst, size_t ld, const fold_rows *x, ptrdiff_t row,
                            int rows, int col, int cols)
{
    int r, c0, c;
    for (c0 = 0; c0 < cols; c0 += FOLD__TRANSPOSE_COLUMNS) {
        const int n = cols - c0 < FOLD__TRANSPOSE_COLUMNS ? cols - c0 : FOLD__TRANSPOSE_COLUMNS;
        float *to = dst + (size_t)c0 * ld;
        const float *src[8];
        for (r = 0; f->transpose_8 && r + 8 <= rows; r += 8) {
            for (c = 0; c < 8; c++)
                src[c] = fold__at(x, row + r + c) + col + c0;
            f->transpose_8(to + r, ld, src, n);
        }
        for (; r + 4 <= rows; r += 4) {
            for (c = 0; c < 4; c++)
                src[c] = fold__at(x, row + r + c) + col + c0;
            fold__transpose_4(to + r, ld, src, n);
        }
        for (; r < rows; r++) {
            const float *from = fold__at(x, row + r) + col + c0;
            for (c = 0; c < n; c++)
                to[(size_t)c * ld + (size_t)r] = from[c];
        }
    }
}

/* Rows first..first+count of x are columns of the weight. */
static void fold__pack_columns(const fold__mover *f, float *dst, const fold__layout *l, int vector,
                               const fold_rows *x, int k, int n, int first, int count)
{
    const int last = first + count;
    int p, i;
    for (p = 0; p < l->panels; p++, dst += (size_t)k * (size_t)l->width) {
        const int col = fold__layout_start(l, p) * vector, next = fold__layout_start(l, p + 1) * vector,
                  end = next < n ? next : n;
        const int from = col > first ? col : first, to = end < last ? end : last;
        if (from >= to)
            continue;
        if (to == end && end - col < l->width)
            for (i = 0; i < k; i++)
                memset(dst + (size_t)i * (size_t)l->width + (end - col), 0,
                       (size_t)(l->width - (end - col)) * sizeof *dst);
        fold__transpose(f, dst + (from - col), (size_t)l->width, x, from, to - from, 0, k);
    }
}

static void fold__pack_any(const fold__mover *f, int panel, int vector, float *dst, const float *w, int k,
                           int n, int transposed, int first, int count)
{
    fold_rows x;
    fold__layout l;
    const size_t row = (size_t)first, width = (size_t)(transposed ? k : n), narrow = fold__narrow_stride(k);
    x.base = (float *)(uintptr_t)w; /* only read */
    x.stride = (ptrdiff_t)width;
    x.rows = NULL;
    if (k < 1 || n < 1)
        return;
    if (n < FOLD__LANES && !transposed) {
        fold__transpose(f, dst + row, narrow, &x, first, count, 0, n);
        return;
    }
    if (n < FOLD__LANES) {
        for (; count > 0; count--, first++)
            memcpy(dst + (size_t)first * narrow, w + (size_t)first * width, width * sizeof *dst);
        return;
    }
    l = fold__layout_of(panel, vector, n);
    if (transposed)
        fold__pack_columns(f, dst, &l, panel ? vector : n, &x, k, n, first, count);
    else if (!panel)
        memcpy(dst + row * width, w + row * width, (size_t)count * width * sizeof *dst);
    else
        f->pack_rows(dst + row * (size_t)l.width, (size_t)k * (size_t)l.width, &l, &x, first, count, n);
}

/* What tiles do: `count` of them, one below the other, on some segments, whose packs are read from `offset`
   on, `width` floats from one weight row to the next. Chains start from and go to these columns of the rows
   given. Of the last vector's columns `last` are started and written, at least one. */
typedef struct fold__span {
    int n_seg, count, last, started,
        scattered; /* not started: from is zeros; scattered: inputs are to be fetched */
    size_t offset, width, panel_stride, from_col, to_col;
    const float *const *from;
    float *const *to;
    struct {
        const float *const *a;
        const float *w;
        int k;
    } seg[FOLD__TILE_SEGMENTS];
} fold__span;
typedef void (*fold__tile_fn)(const fold__span *at);
/* Columns of a narrow pack lie `stride` floats apart, from w on. */
typedef void (*fold__narrow_fn)(const fold__seg *seg, ptrdiff_t row, const float *w, size_t stride,
                                float *lanes);

/* What the drivers below need to know of an instruction set. */
typedef struct fold__tiles {
    int vector, panel; /* floats of a vector, vectors of a panel */
    int least,
        tallest; /* vectors of the narrowest tile (1: tiles end with parts of vectors), rows of the tallest */
    int reach[FOLD__TILE_ROWS];             /* panels one tile may span, by height: a power of two */
    fold__tile_fn tile[FOLD__TILE_ROWS][8]; /* [rows - 1][vectors - 1] */
    int narrow_columns;                     /* of the widest narrow tile */
    fold__narrow_fn narrow[FOLD__NARROW_ROWS]
                          [5]; /* [rows - 1][columns - 1]: the lanes of element after element, row by row */
    /* Adds the sums of `count` elements' lanes to their totals. Reads and writes as if count were the next
     * multiple of 8. */
    void (*add_lanes)(float *total, const float *lanes, int count);
    int few, many; /* rows up to which a weight gradient packs nothing: where rows of dW lie a multiple of
                      4 KB apart, and elsewhere */
    /* dW, k x n, continues as the product (transpose of X) . dY, for columns of X from i on and of dY from j
     * on */
    void (*grad)(int rows, const fold_rows *x, int i, int k, const fold_rows *dy, int j, int n, float *dw,
                 size_t ldw);
    fold__mover mover;
} fold__tiles;

static const float fold__zeros[FOLD__TILE_WIDTH] = { 0.0f }; /* the start of a row without init */

/* Tiles of columns `start` to `end` of the pack when more than the end of the last vector is not wanted: they
   work in `buffer`, whose unwanted columns hold whatever finite value they came to. */
static void fold__tiles_aside(fold__tile_fn tile, const fold__span *all, int height, int first, int last,
                              int start, int end, float *buffer)
{
    const int low = start > first ? start : first, high = end < last ? end : last;
    const size_t bytes = (size_t)(high - low) * sizeof(float);
    float *own[FOLD__TILE_ROWS];
    fold__span at = *all;
    int t, r, s;
    for (r = 0; r < height; r++)
        own[r] = buffer + r * FOLD__TILE_WIDTH;
    memset(buffer, 0, (size_t)height * FOLD__TILE_WIDTH * sizeof *buffer);
    if (all->started)
        at.from = (const float *const *)own;
    at.to = own;
    at.from_col = at.to_col = 0;
    at.count = 1;
    for (t = 0; t < all->count * height; t += height) {
        for (r = 0; all->started && r < height; r++)
            memcpy(own[r] + (low - start), all->from[t + r] + (low - first), bytes);
        tile(&at);
        for (r = 0; r < height; r++)
            memcpy(all->to[t + r] + (low - first), own[r] + (low - start), bytes);
        for (s = 0; s < at.n_seg; s++)
            at.seg[s].a += height;
    }
}

/* Tiles of `height` rows, panel after panel. */
static void fold__tile_rows(const fold__tiles *f, const fold__product *p, const fold__layout *l,
                            fold__span *at, int height, float *buffer)
{
    const int first = p->col, last = p->col + p->n, least = f->least * f->vector;
    int panel, got;
    for (panel = 0; panel < l->panels; panel += got) {
        const int base = fold__layout_start(l, panel) * f->vector;
        int start = base, end = fold__layout_start(l, panel + 1) * f->vector, aside;
        fold__tile_fn tile;
        got = 1;
        if (end <= first)
            continue;
        if (start >= last)
            break;
        if (l->vectors == f->panel && start >= first)
            for (got = f->reach[height - 1];
                 got > 1 && (panel + got > l->full || start + got * l->width > last);)
                got /= 2;
        if (got > 1)
            end = start + got * l->width;
        else {
            while (start + f->vector <= first && end - start > least)
                start += f->vector;
            while (end - f->vector >= last && end - start > least)
                end -= f->vector;
        }
        tile = f->tile[height - 1][(end - start) / f->vector - 1];
        at->offset = (size_t)panel * p->panel_stride + (size_t)(start - base);
        aside = start < first || end - last >= (f->least > 1 ? 1 : f->vector);
        at->last = end <= last || aside ? f->vector : f->vector - (end - last);
        at->to_col = (size_t)(start - first);
        at->from_col = at->started ? at->to_col : 0;
        if (aside)
            fold__tiles_aside(tile, at, height, first, last, start, end, buffer);
        else
            tile(at);
        at->scattered = 0;
    }
}

/* Rows of the next tile when `left` are left. There are tiles of 1, 2, 3, 4 and 6 rows, or of 1, 2 and 4; 7
 * is 4 + 3. */
static int fold__tile_height(int tallest, int left)
{
    const int h = left < tallest ? left : tallest, rest = left - h;
    if (h == 6 && (rest == 1 || rest == 2 || rest == 5))
        return 4;
    if (h == 5)
        return 3;
    return h == 3 && tallest == 4 ? 2 : h;
}

/* Rows as pointers, made where there are none. */
static float *const *fold__row_pointers(const fold_rows *x, ptrdiff_t row, int rows, float **made)
{
    int r;
    if (x->rows)
        return x->rows + row;
    for (r = 0; r < rows; r++)
        made[r] = x->base + (row + r) * x->stride;
    return made;
}

/* `count` tiles of `height` rows from `row` on, some segments at a time; the chains continue where they went
 * to. */
static void fold__tile_block(const fold__tiles *f, const fold__product *p, const fold__layout *l,
                             ptrdiff_t row, int height, int count, float *scratch)
{
    enum { ROWS = FOLD__TILE_BLOCK * FOLD__TILE_ROWS };
    const fold_rows zeros = { (float *)(uintptr_t)fold__zeros, 0, NULL };
    const int rows = height * count;
    float **made = (float **)(void *)(scratch + FOLD__TILE_ROWS * FOLD__TILE_WIDTH);
    fold__span at;
    int s = 0, i;
    at.width = (size_t)l->width;
    at.panel_stride = p->panel_stride;
    at.count = count;
    at.to = fold__row_pointers(&p->y, row, rows, made);
    at.started = p->init.base || p->init.rows;
    at.from =
        (const float *const *)fold__row_pointers(at.started ? &p->init : &zeros, row, rows, made + ROWS);
    do {
        at.scattered = 0;
        at.n_seg = p->n_seg - s < FOLD__TILE_SEGMENTS ? p->n_seg - s : FOLD__TILE_SEGMENTS;
        for (i = 0; i < at.n_seg; i++) {
            at.seg[i].a =
                (const float *const *)fold__row_pointers(&p->seg[s + i].a, row, rows, made + (2 + i) * ROWS);
            at.seg[i].w = p->seg[s + i].w;
            at.seg[i].k = p->seg[s + i].k;
            at.scattered |= p->seg[s + i].a.rows != NULL;
        }
        fold__tile_rows(f, p, l, &at, height, scratch);
        at.from = (const float *const *)at.to;
        at.started = 1;
        s += at.n_seg;
    } while (s < p->n_seg);
}

/* n >= 16: one chain per element. Rows go in blocks, so that a block's rows stay in cache from panel to
 * panel. */
static void fold__product_wide(const fold__tiles *f, const fold__product *p, float *scratch)
{
    const fold__layout l = fold__layout_of(f->panel * f->vector, f->vector, fold__pack_columns_of(p));
    int row = 0, height, count;
    for (; row < p->rows; row += height * count) {
        height = fold__tile_height(f->tallest, p->rows - row);
        for (count = 1; count < FOLD__TILE_BLOCK; count++) {
            const int left = p->rows - row - height * count;
            if (left < height || fold__tile_height(f->tallest, left) != height)
                break;
        }
        fold__tile_block(f, p, &l, row, height, count, scratch);
    }
}

/* n floats, at most five. */
FOLD__INLINE void fold__copy_few(float *to, const float *from, int n)
{
    if (n >= 4) {
        memcpy(to, from, 4 * sizeof *to);
        to += 4;
        from += 4;
        n -= 4;
    }
    if (n >= 2) {
        memcpy(to, from, 2 * sizeof *to);
        to += 2;
        from += 2;
        n -= 2;
    }
    if (n >= 1)
        *to = *from;
}

/* Some rows of as many columns as a narrow tile covers, FOLD__NARROW_ELEMENTS at most. */
static void fold__narrow_rows(const fold__tiles *f, const fold__product *p, ptrdiff_t row, int rows, int col,
                              int cols, float *lanes)
{
    float total[FOLD__NARROW_ELEMENTS], *from = total;
    int s, r, c, height;
    for (c = 0; c < rows * cols; c += 8)
        memset(total + c, 0, 8 * sizeof *total); /* all at once is 5 % slower */
    if (p->init.base || p->init.rows)
        for (r = 0; r < rows; r++, from += cols)
            fold__copy_few(from, fold__at(&p->init, row + r) + col, cols);
    for (s = 0; s < p->n_seg; s++) {
        const float *w = p->seg[s].w + (size_t)(p->col + col) * p->panel_stride;
        for (r = 0; r < rows; r += height) {
            for (height = rows - r < FOLD__NARROW_ROWS ? rows - r : FOLD__NARROW_ROWS;
                 !f->narrow[height - 1][cols - 1];)
                height--;
            f->narrow[height - 1][cols - 1](p->seg + s, row + r, w, p->panel_stride,
                                            lanes + r * cols * FOLD__LANES);
        }
        f->add_lanes(total, lanes, rows * cols);
    }
    for (r = 0, from = total; r < rows; r++, from += cols)
        fold__copy_few(fold__at(&p->y, row + r) + col, from, cols);
}

/* n < 16: sixteen chains per element and segment. Columns are dealt out evenly, as vectors are to panels. */
static void fold__product_narrow(const fold__tiles *f, const fold__product *p, float *lanes)
{
    const int tiles = (p->n - 1) / f->narrow_columns + 1,
              most = FOLD__NARROW_ELEMENTS / ((p->n - 1) / tiles + 1);
    int row, rows, col, cols, t;
    for (row = 0; row < p->rows; row += rows) {
        rows = p->rows - row < most ? p->rows - row : most;
        for (col = 0, t = tiles; t > 0; col += cols, t--) {
            cols = (p->n - col - 1) / t + 1;
            fold__narrow_rows(f, p, row, rows, col, cols, lanes);
        }
    }
}

static void fold__product_any(const fold__tiles *f, const fold__product *p, float *scratch)
{
    if (p->rows < 1 || p->n < 1)
        return;
    if (fold__pack_columns_of(p) < FOLD__LANES)
        fold__product_narrow(f, p, scratch);
    else
        fold__product_wide(f, p, scratch);
}

/* A weight gradient by blocks of dW that stay in the first cache while some rows pass: as many as keep the
   narrower operand in the second cache, since it passes once for every strip of blocks, the wider one and dW
   once in all. */
static void fold__weight_grad_direct(const fold__tiles *f, int rows, const fold_rows *x, int k,
                                     const fold_rows *dy, int n, float *dw, size_t ldw)
{
    const int tall = ldw % 1024 == 0  ? 1
                     : rows <= f->few ? k
                                      : FOLD__K_BLOCK,
              wide = rows <= f->few ? n : FOLD__N_BLOCK;
    const int down = (k - 1) / tall + 1, blocks = down * ((n - 1) / wide + 1), across = blocks / down;
    const int fit = FOLD__PASSING / (k < n ? k : n), most = fit > FOLD__ROW_BLOCK ? fit : FOLD__ROW_BLOCK;
    int row, b;
    for (row = 0; row < rows; row += most) {
        const fold_rows xr = fold__rows_from(x, row), dyr = fold__rows_from(dy, row);
        const int count = rows - row < most ? rows - row : most;
        for (b = 0; b < blocks; b++) {
            const int i = (k < n ? b % down : b / across) * tall, j = (k < n ? b / down : b % across) * wide;
            f->grad(count, &xr, i, k - i < tall ? k - i : tall, &dyr, j, n - j < wide ? n - j : wide,
                    dw + (size_t)i * ldw + j, ldw);
        }
    }
}

/* n < 16: the transpose of dW, block by block, has wide rows. A block takes no more scratch than a packed
 * operand. */
static void fold__weight_grad_narrow(const fold__tiles *f, int rows, const fold_rows *x, int k,
                                     const fold_rows *dy, int n, float *dw, size_t ldw, float *block)
{
    enum { WIDTH = FOLD__K_BLOCK * FOLD__ROW_BLOCK / FOLD__LANES };
    int i, r, c, width;
    for (i = 0; i < k; i += width, dw += (size_t)width * ldw) {
        width = k - i < WIDTH ? k - i : WIDTH;
        for (c = 0; c < n; c++)
            for (r = 0; r < width; r++)
                block[c * WIDTH + r] = dw[(size_t)r * ldw + (size_t)c];
        f->grad(rows, dy, 0, n, x, i, width, block, WIDTH);
        for (c = 0; c < n; c++)
            for (r = 0; r < width; r++)
                dw[(size_t)r * ldw + (size_t)c] = block[c * WIDTH + r];
    }
}

/* The same as a product with packed operands: blocks of rows are its K-segments, X transposed and dY packed.
 */
static void fold__weight_grad_packed(const fold__tiles *f, int rows, const fold_rows *x, int k,
                                     const fold_rows *dy, int n, float *dw, size_t ldw, float *scratch)
{
    float *xt = scratch + FOLD__TILE_ROWS * FOLD__TILE_WIDTH + FOLD__TILE_POINTERS,
          *packed = xt + FOLD__K_BLOCK * FOLD__ROW_BLOCK;
    const fold__layout l = fold__layout_of(f->panel * f->vector, f->vector, n);
    fold__product p;
    fold__seg seg;
    int row, i;
    memset(&p, 0, sizeof p);
    seg.a.base = xt;
    seg.a.stride = FOLD__ROW_BLOCK;
    seg.a.rows = NULL;
    seg.w = packed;
    p.n = n;
    p.n_seg = 1;
    p.seg = &seg;
    p.y.stride = (ptrdiff_t)ldw;
    for (row = 0; row < rows; row += seg.k) {
        seg.k = rows - row < FOLD__ROW_BLOCK ? rows - row : FOLD__ROW_BLOCK;
        p.panel_stride = (size_t)seg.k * (size_t)l.width;
        f->mover.pack_rows(packed, p.panel_stride, &l, dy, row, seg.k, n);
        for (i = 0; i < k; i += p.rows) {
            p.rows = k - i < FOLD__K_BLOCK ? k - i : FOLD__K_BLOCK;
            fold__transpose(&f->mover, xt, FOLD__ROW_BLOCK, x, row, seg.k, i, p.rows);
            p.y.base = dw + (size_t)i * ldw;
            p.init = p.y;
            fold__product_wide(f, &p, scratch);
        }
    }
}

/* Rows of dW that lie a multiple of 4 KB apart share sets of the cache, and a load of one waits for stores to
   the last: few rows of dY then take them one by one. */
static void fold__weight_grad_any(const fold__tiles *f, int rows, const fold_rows *x, int k,
                                  const fold_rows *dy, int n, float *dw, size_t ldw, float *scratch)
{
    const int whole =
        n == 8 && rows <= FOLD__ROW_BLOCK / 2; /* a vector, if a short one: more rows pay for wider ones */
    if (rows < 1 || k < 1 || n < 1)
        return;
    if (n < FOLD__LANES && !whole && k >= FOLD__LANES && f->many > f->few)
        fold__weight_grad_narrow(f, rows, x, k, dy, n, dw, ldw, scratch);
    else if (rows <= (ldw % 1024 ? f->many : f->few))
        fold__weight_grad_direct(f, rows, x, k, dy, n, dw, ldw);
    else
        fold__weight_grad_packed(f, rows, x, k, dy, n, dw, ldw, scratch);
}

#if defined(FOLD_REPRODUCIBLE) && !defined(__FMA__) && !defined(__FP_FAST_FMAF)
/* fmaf by way of double, where the product is exact. Rounding twice differs from rounding once only when the
   double lies half-way between two floats or the float is subnormal; there the sum is rounded to odd first
   (Boldo and Melquiond 2008). Libraries are not relied on: some round twice. */
FOLD__INLINE float fold__fmaf(float a, float b, float c)
{
    FOLD__NO_CONTRACT
    const double p = (double)a * (double)b, z = (double)c;
    double s = p + z;
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if ((bits & 0x1fffffffu) == 0x10000000u || (s != 0.0 && s < 0x1p-126 && s > -0x1p-126)) {
        const double back = s - p,
                     error = (p - (s - back)) + (z - back); /* what rounding the sum lost, exactly */
        if (error != 0.0 && !(bits & 1))
            bits = (error > 0.0) == (s > 0.0) ? bits + 1 : bits - 1;
        memcpy(&s, &bits, sizeof s);
    }
    return (float)s;
}
#elif defined(FOLD_REPRODUCIBLE)
#define fold__fmaf(a, b, c) fmaf(a, b, c)
#endif

#ifdef FOLD_USE_CBLAS
/* Products by sgemm on gathered rows, with plain row-major packs. Gives up the bit contract. */
static void fold__gather(float *dst, const fold_rows *x, ptrdiff_t row, int rows, int n)
{
    int r;
    for (r = 0; r < rows; r++)
        memcpy(dst + (size_t)r * (size_t)n, fold__at(x, row + r), (size_t)n * sizeof *dst);
}

static void fold__product_sgemm(const fold__product *p, float *scratch)
{
    const int ld = fold__pack_columns_of(p);
    float *c = scratch, *a = scratch + (size_t)FOLD__CBLAS_BLOCK * (size_t)p->n;
    int row, rows, s, r;
    for (row = 0; row < p->rows; row += rows) {
        rows = p->rows - row < FOLD__CBLAS_BLOCK ? p->rows - row : FOLD__CBLAS_BLOCK;
        if (p->init.base || p->init.rows)
            fold__gather(c, &p->init, row, rows, p->n);
        else
            memset(c, 0, (size_t)rows * (size_t)p->n * sizeof *c);
        for (s = 0; s < p->n_seg; s++) {
            const int k = p->seg[s].k;
            if (k < 1)
                continue;
            fold__gather(a, &p->seg[s].a, row, rows, k);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, p->n, k, 1.0f, a, k,
                        p->seg[s].w + p->col, ld, 1.0f, c, p->n);
        }
        for (r = 0; r < rows; r++)
            memcpy(fold__at(&p->y, row + r), c + (size_t)r * (size_t)p->n, (size_t)p->n * sizeof *c);
    }
}

static void fold__weight_grad_sgemm(int rows, const fold_rows *x, int k, const fold_rows *dy, int n,
                                    float *dw, size_t ldw, float *scratch)
{
    float *d = scratch, *a = scratch + (size_t)FOLD__CBLAS_BLOCK * (size_t)n;
    int row, block;
    if (k < 1 || n < 1)
        return;
    for (row = 0; row < rows; row += block) {
        block = rows - row < FOLD__CBLAS_BLOCK ? rows - row : FOLD__CBLAS_BLOCK;
        fold__gather(a, x, row, block, k);
        fold__gather(d, dy, row, block, n);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, k, n, block, 1.0f, a, k, d, n, 1.0f, dw,
                    (int)ldw);
    }
}
#endif

#if FOLD__X86
static const int32_t fold__masks[16] = {
    -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0
}; /* from the 8 - n th on: n of 8 lanes */
#if FOLD__GNU_VECTORS
/* As in memory: of no particular alignment. */
typedef float fold__f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float fold__f16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t fold__u8 __attribute__((vector_size(32)));
typedef uint32_t fold__u16 __attribute__((vector_size(64)));
#endif
#endif

#if FOLD__NEON
/* What is left of a row of a map goes through a buffer and the map itself, as one vector. */
FOLD__NOINLINE static void fold__map_rest(fold__map_fn map, float *y, const float *a, const float *b,
                                          const float *c, float s, size_t at, size_t n)
{
    float t[4][4] = { { 0.0f } };
    const size_t bytes = (n - at) * sizeof(float);
    if (a)
        memcpy(t[0], a + at, bytes);
    if (b)
        memcpy(t[1], b + at, bytes);
    if (c)
        memcpy(t[2], c + at, bytes);
    map(t[3], t[0], t[1], t[2], s, 4, 1, NULL);
    memcpy(y + at, t[3], bytes);
}
#endif

/* ---- The passes, by bits of a vector. 1 is portable. ---- */

#define FOLD__SIMD_PASS 1
#include FOLD_FILENAME
#undef FOLD__SIMD_PASS
#if FOLD__NEON
#ifndef __clang__
#pragma GCC push_options
#pragma GCC optimize("no-schedule-insns") /* before registers are given out, it loads more than they hold */
#endif
#define FOLD__SIMD_PASS 128
#include FOLD_FILENAME
#undef FOLD__SIMD_PASS
#ifndef __clang__
#pragma GCC pop_options
#endif
#endif
#if FOLD__X86
#define FOLD__SIMD_PASS 256
#include FOLD_FILENAME
#undef FOLD__SIMD_PASS
#define FOLD__SIMD_PASS 512
#include FOLD_FILENAME
#undef FOLD__SIMD_PASS
#endif

/* ---- Which of them this machine runs. ---- */

#if FOLD__X86
static void fold__cpuid(uint32_t leaf, uint32_t out[4])
{
#ifdef _MSC_VER
    int r[4], i;
    __cpuidex(r, (int)leaf, 0);
    for (i = 0; i < 4; i++)
        out[i] = (uint32_t)r[i];
#else
    __cpuid_count(leaf, 0, out[0], out[1], out[2], out[3]);
#endif
}

/* The register state the operating system saves. */
static uint32_t fold__xcr0(void)
{
#ifdef _MSC_VER
    return (uint32_t)_xgetbv(0);
#else
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
#endif
}

/* 512, 256 or 1. */
static int fold__best_pass(void)
{
    uint32_t r[4], state;
    fold__cpuid(0, r);
    if (r[0] < 7)
        return 1;
    fold__cpuid(1, r);
    if (!(r[2] >> 27 & 1) || !(r[2] >> 28 & 1) || !(r[2] >> 12 & 1))
        return 1; /* osxsave, avx, fma */
    state = fold__xcr0();
    if ((state & 0x06u) != 0x06u)
        return 1;
    fold__cpuid(7, r);
    if (!(r[1] >> 5 & 1))
        return 1; /* avx2 */
    if ((state & 0xe6u) != 0xe6u)
        return 256;
    return (r[1] >> 16 & 1) && (r[1] >> 17 & 1) && (r[1] >> 30 & 1) && (r[1] >> 31 & 1)
               ? 512
               : 256; /* f, dq, bw, vl */
}
#endif

/* NULL: the best that CPU and operating system support (under FOLD_USE_CBLAS: "cblas"). A name: that one, or
 * NULL. */
static const fold__kernels *fold__kernels_for(const char *name)
{
    const fold__kernels *set[4];
    int i, n = 0;
#if FOLD__X86
    int best = fold__best_pass();
#ifdef FOLD_USE_CBLAS
    set[n++] = best == 512 ? &fold__cblas__avx512 : best == 256 ? &fold__cblas__avx2 : &fold__cblas__portable;
#endif
    if (best >= 512)
        set[n++] = &fold__table__avx512;
    if (best >= 256)
        set[n++] = &fold__table__avx2;
#elif FOLD__NEON
#ifdef FOLD_USE_CBLAS
    set[n++] = &fold__cblas__neon;
#endif
    set[n++] = &fold__table__neon;
#elif defined(FOLD_USE_CBLAS)
    set[n++] = &fold__cblas__portable;
#endif
    set[n++] = &fold__table__portable;
    if (!name)
        return set[0];
    for (i = 0; i < n; i++)
        if (strcmp(set[i]->name, name) == 0)
            return set[i];
    return NULL;
}

/* Around a run: denormals on, round to nearest, whatever the program had; and back. */
static uint64_t fold__fp_enter(void)
{
#if defined(__TINYC__)
    return 0;
#elif defined(__SSE__) || defined(_M_X64)
    unsigned saved = _mm_getcsr(),
             wanted = saved & ~0xe040u; /* flush to zero, rounding; denormals are zero */
    if (wanted != saved)
        _mm_setcsr(wanted);
    return saved;
#elif defined(__aarch64__) && defined(__GNUC__)
    uint64_t saved, wanted;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    wanted = saved & ~(uint64_t)0x01c80000u; /* FZ, RMode, FZ16 */
    if (wanted != saved)
        __asm__ volatile("msr fpcr, %0" : : "r"(wanted));
    return saved;
#else
    return 0;
#endif
}

static void fold__fp_leave(uint64_t saved)
{
#if defined(__TINYC__)
    (void)saved;
#elif defined(__SSE__) || defined(_M_X64)
    if (_mm_getcsr() != (unsigned)saved)
        _mm_setcsr((unsigned)saved);
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ volatile("msr fpcr, %0" : : "r"(saved));
#else
    (void)saved;
#endif
}

#if defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)
#pragma GCC pop_options
#endif

typedef uint64_t fold__fp;

/* ==== room: op table ========================================================================
   Owns: every built-in op: its shapes, forward, backward and what backward reads. The only place that knows
   an op. Calls: kernels, shapes. Must not know nodes, plans or memory: an op sees rows. */

/* What only built-in ops see. A linear op may be run in two parts, leading segments first (a cell's
   prologue); continuing one starts from the output's own rows. */
typedef struct fold__engine {
    const fold__kernels *k;
    const struct fold__param_data *param[2]; /* linear: W and b (NULL when absent) */
    const float *packs;                      /* of the model */
    int seg0, seg1;                          /* linear: the segments to run now */
} fold__engine;

/* The call of an op, complete but for its rows. Every call is part of one: built-in ops find the engine
   beside it. */
typedef struct fold__prepared {
    fold_op_call call;
    fold__engine engine;
} fold__prepared;

static const fold__engine *fold__engine_of(const fold_op_call *c)
{
    return &((const fold__prepared *)(const void *)c)->engine;
}

typedef struct fold__param_data {
    char *name;
    fold_shape shape;
    size_t at, size;     /* in the spans of values and gradients, in floats */
    size_t pack, pack_t; /* in the packs, in floats; FOLD__NO_PACK when not kept */
    size_t touched_at;   /* lookup tables: first of dim[0] entries in the touched lists */
    uint32_t touched;    /* rows in the touched list */
    unsigned uses;
    int back_idle; /* the pack that only gradients of inputs read is not kept: none was asked for yet */
    int frozen, buffer, rate_set;
    int zeros_by_default; /* it was made with neither values nor an initialiser */
    int grad_clear; /* the gradient is logically zero: the first total is written, not added */
    int grad_dense; /* lookup table with a dense gradient (tied): all rows are touched */
} fold__param_data;
#define FOLD__NO_PACK SIZE_MAX

enum {                       /* flags of an op row */
       FOLD__LIST = 1,       /* takes a list */
       FOLD__GEMM = 2,       /* a product: wants all rows of the batch at once */
       FOLD__FLOW = 4,       /* linear, and backward reads no values: gradients pass before values exist */
       FOLD__ONE_ROW = 8,    /* user op without a batched path */
       FOLD__RANDOM = 16,    /* data is a dropout key */
       FOLD__NO_GRAD_1 = 32, /* input 1 (a target) gets no gradient */
       FOLD__NO_GRAD = 64,   /* no input gets a gradient */
       FOLD__DATA = 128      /* reads per-row data */
};

typedef struct fold__op_row {
    fold_op_desc def;
    unsigned flags;
} fold__op_row;

static float fold__attr_float(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static int32_t fold__float_attr(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float fold__data_float(uint64_t data) { return fold__attr_float((int32_t)(uint32_t)data); }

#define FOLD__MAP(c, name) (fold__engine_of(c)->k->map[FOLD__MAP_##name])

/* -- element-wise ---------------------------------------------------------------------------- */

/* One row of a map whose inputs may be smaller than its n outputs: of size 1, or a period of n. */
static void fold__map_broadcast(fold__map_fn map, float *y, int n, const float *const x[3], const int size[3],
                                float s)
{
    float filled[3][64];
    int step = n, scalar = 0;
    for (int i = 0; i < 3; i++) {
        if (!x[i] || size[i] == n)
            continue;
        if (size[i] > 1) {
            step = size[i];
            continue;
        }
        scalar = 1;
        for (int j = 0; j < 64; j++)
            filled[i][j] = x[i][0];
    }
    for (int at = 0; at < n;) {
        int end = step - at % step, length = scalar && end > 64 ? 64 : end;
        const float *p[3];
        for (int i = 0; i < 3; i++)
            p[i] = !x[i] ? NULL : size[i] == n ? x[i] + at : size[i] == 1 ? filled[i] : x[i] + at % size[i];
        map(y + at, p[0], p[1], p[2], s, (size_t)length, 1, NULL);
        at += length;
    }
}

/* y[r] = map(x0[r], x1[r], x2[r]) over all rows; rows of equal size are one call. */
static void fold__map_rows(const fold_op_call *c, fold__map_fn map, const fold_rows *y, int n,
                           const fold_rows *const x[3], const int size[3], float s)
{
    const fold_rows *a = x[0] ? x[0] : y, *b = x[1] ? x[1] : y,
                    *d = x[2] ? x[2] : y; /* what the map does not use must only be there */
    const int same = (!x[0] || size[0] == n) && (!x[1] || size[1] == n) && (!x[2] || size[2] == n);
    for (int r = 0; !same && r < c->rows; r++) {
        const float *const p[3] = { x[0] ? fold_row(a, r) : NULL, x[1] ? fold_row(b, r) : NULL,
                                    x[2] ? fold_row(d, r) : NULL };
        fold__map_broadcast(map, fold_row(y, r), n, p, size, s);
    }
    if (!same || !c->rows)
        return;
    const int spaced = !y->rows && !a->rows && !b->rows && !d->rows;
    if (c->rows == 1 || (spaced && y->stride == n && a->stride == n && b->stride == n && d->stride == n)) {
        map(fold_row(y, 0), fold_row(a, 0), fold_row(b, 0), fold_row(d, 0), s, (size_t)c->rows * (size_t)n, 1,
            NULL);
        return;
    }
    const fold_rows all[4] = { *y, *a, *b, *d };
    map(fold_row(y, 0), fold_row(a, 0), fold_row(b, 0), fold_row(d, 0), s, (size_t)n, (size_t)c->rows, all);
}

static int fold__in_size(const fold_op_call *c, int i) { return fold__shape_size(&c->in_shape[i]); }
static int fold__out_size(const fold_op_call *c) { return fold__shape_size(&c->out_shape[0]); }

/* An element-wise op of one or two inputs as data: its map, and per input the map of its gradient with that
   map's operands, written as letters: g output gradient, a b inputs, y output. */
typedef struct fold__elementwise {
    int map, d[2];
    const char *from[2];
} fold__elementwise;

static const fold_rows *fold__named_rows(const fold_op_call *c, char name, int n, const int in_size[2],
                                         int *size)
{
    *size = n;
    if (name == 'g')
        return &c->dout[0];
    if (name == 'y')
        return &c->out[0];
    *size = in_size[name - 'a'];
    return &c->in[name - 'a'];
}

static void fold__elementwise_forward(const fold_op_call *c, const fold__elementwise *e, float s)
{
    const int two = c->n_in > 1;
    const fold_rows *const x[3] = { &c->in[0], two ? &c->in[1] : NULL, NULL };
    const int size[3] = { fold__in_size(c, 0), two ? fold__in_size(c, 1) : 0, 0 };
    fold__map_rows(c, fold__engine_of(c)->k->map[e->map], &c->out[0], fold__out_size(c), x, size, s);
}

/* Sums of many values. Additions one after the other lose more the more there are, so each takes at most
   FOLD__CHAIN values: longer sums are made of blocks, joined by pairs. The order depends on the number of values
   alone. Values that lie side by side go by sixteen lanes, each a chain. */
enum { FOLD__CHAIN = 32, FOLD__LANES_CHAIN = FOLD__LANES * FOLD__CHAIN, FOLD__SUM_WIDTH = 256 };

/* How many of n > block values the left half of a sum takes: a power of two of blocks. */
static size_t fold__left_half(size_t n, size_t block)
{
    while (block < n - block)
        block *= 2;
    return block;
}
static float fold__sum(const fold__kernels *k, const float *x, size_t n)
{
    if (n <= FOLD__LANES_CHAIN)
        return k->sum(x, n);
    const size_t left = fold__left_half(n, FOLD__LANES_CHAIN);
    return fold__sum(k, x, left) + fold__sum(k, x + left, n - left);
}

/* y = the sum of n rows from `first` on, of `size` of their floats from `at` on. */
static void fold__sum_chain(const fold__kernels *k, float *y, size_t size, const fold_rows *x, size_t at,
                            int first, int n)
{
    k->map[FOLD__MAP_fill](y, NULL, NULL, NULL, 0, size, 1, NULL);
    for (int r = first; r < first + n; r++)
        k->map[FOLD__MAP_add](y, y, fold_row(x, r) + at, NULL, 0, size, 1, NULL);
}
static void fold__sum_pairs(const fold__kernels *k, float *y, size_t size, const fold_rows *x, size_t at,
                            int first, int n)
{
    float right[FOLD__SUM_WIDTH];
    if (n <= FOLD__CHAIN) {
        fold__sum_chain(k, y, size, x, at, first, n);
        return;
    }
    const int left = (int)fold__left_half((size_t)n, FOLD__CHAIN);
    fold__sum_pairs(k, y, size, x, at, first, left);
    fold__sum_pairs(k, right, size, x, at, first + left, n - left);
    k->map[FOLD__MAP_add](y, y, right, NULL, 0, size, 1, NULL);
}
static void fold__sum_rows(const fold__kernels *k, float *y, size_t size, const fold_rows *x, int first, int n)
{
    if (n <= FOLD__CHAIN) {
        fold__sum_chain(k, y, size, x, 0, first, n);
        return;
    }
    for (size_t at = 0, width = FOLD__SUM_WIDTH; at < size; at += width)
        fold__sum_pairs(k, y + at, fold__min_size(width, size - at), x, at, first, n);
}

/* The gradient of a repeated operand: its full-size gradient summed over the repetitions. */
static void fold__sum_repeats(const fold_op_call *c, float *d, int size, float *full, int n)
{
    const fold_rows repeats = { full, size, NULL };
    if (size == 1)
        d[0] = fold__sum(fold__engine_of(c)->k, full, (size_t)n);
    else
        fold__sum_rows(fold__engine_of(c)->k, d, (size_t)size, &repeats, 0, n / size);
}

static void fold__elementwise_backward(const fold_op_call *c, const fold__elementwise *e, float s)
{
    const int n = fold__out_size(c),
              in_size[2] = { fold__in_size(c, 0), c->n_in > 1 ? fold__in_size(c, 1) : 0 };
    for (int i = 0; i < c->n_in; i++) {
        if (fold__absent(&c->din[i]))
            continue;
        const fold_rows *x[3] = { NULL, NULL, NULL };
        int size[3] = { 0, 0, 0 }, own = in_size[i];
        fold__map_fn map = fold__engine_of(c)->k->map[e->d[i]];
        for (int j = 0; e->from[i][j]; j++)
            x[j] = fold__named_rows(c, e->from[i][j], n, in_size, &size[j]);
        if (own == n) {
            fold__map_rows(c, map, &c->din[i], n, x, size, s);
            continue;
        }
        for (int r = 0; r < c->rows; r++) {
            const float *p[3];
            for (int j = 0; j < 3; j++)
                p[j] = x[j] ? fold_row(x[j], r) : NULL;
            fold__map_broadcast(map, c->scratch, n, p, size, s);
            fold__sum_repeats(c, fold_row(&c->din[i], r), own, c->scratch, n);
        }
    }
}

/* name, map, gradient maps and their operands */
#define FOLD__ELEMENTWISE(X)                                                                              \
    X(add, add, copy, "g", copy, "g")                                                                     \
    X(sub, sub, copy, "g", neg, "g") X(mul, mul, mul, "gb", mul, "ga")                                    \
        X(div, div, div, "gb", d_div_b, "gyb") X(min, min, d_min_a, "gab", d_min_b, "gab")                \
            X(max, max, d_max_a, "gab", d_max_b, "gab") X(neg, neg, neg, "g", copy, "")                   \
                X(exp, exp, d_exp, "gy", copy, "") X(log, log, d_log, "ga", copy, "")                     \
                    X(sqrt, sqrt, d_sqrt, "gy", copy, "") X(square, square, d_square, "ga", copy, "")     \
                        X(abs, abs, d_abs, "ga", copy, "") X(sigmoid, sigmoid, d_sigmoid, "gy", copy, "") \
                            X(tanh, tanh, d_tanh, "gy", copy, "") X(relu, relu, d_relu, "gy", copy, "")   \
                                X(gelu, gelu, d_gelu, "ga", copy, "")                                     \
                                    X(softplus, softplus, d_softplus, "ga", copy, "")                     \
                                        X(copy, copy, copy, "g", copy, "") X(stop, copy, copy, "", copy, "")
#define FOLD__DEFINE(name, map, da, from_a, db, from_b)                                   \
    static const fold__elementwise fold__e_##name = { FOLD__MAP_##map,                    \
                                                      { FOLD__MAP_##da, FOLD__MAP_##db }, \
                                                      { from_a, from_b } };               \
    static void fold__##name##_forward(const fold_op_call *c)                             \
    {                                                                                     \
        fold__elementwise_forward(c, &fold__e_##name, 0);                                 \
    }                                                                                     \
    static void fold__##name##_backward(const fold_op_call *c)                            \
    {                                                                                     \
        fold__elementwise_backward(c, &fold__e_##name, 0);                                \
    }
FOLD__ELEMENTWISE(FOLD__DEFINE)
#undef FOLD__DEFINE

static void fold__leaky_forward(const fold_op_call *c)
{
    static const fold__elementwise e = { FOLD__MAP_leaky, { 0, 0 }, { "", "" } };
    fold__elementwise_forward(c, &e, fold__attr_float(c->attr[0]));
}
static void fold__leaky_backward(const fold_op_call *c)
{
    static const fold__elementwise e = { 0, { FOLD__MAP_d_leaky, 0 }, { "ga", "" } };
    fold__elementwise_backward(c, &e, fold__attr_float(c->attr[0]));
}

/* scale and shift: the scalar differs from row to row */
static void fold__scalar_rows(const fold_op_call *c, fold__map_fn map, const fold_rows *y, const fold_rows *x)
{
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++)
        map(fold_row(y, r), fold_row(x, r), NULL, NULL, fold__data_float(c->data[r * c->data_step]), n, 1,
            NULL);
}
static void fold__scale_forward(const fold_op_call *c)
{
    fold__scalar_rows(c, FOLD__MAP(c, scale), &c->out[0], &c->in[0]);
}
static void fold__scale_backward(const fold_op_call *c)
{
    fold__scalar_rows(c, FOLD__MAP(c, scale), &c->din[0], &c->dout[0]);
}
static void fold__shift_forward(const fold_op_call *c)
{
    fold__scalar_rows(c, FOLD__MAP(c, shift), &c->out[0], &c->in[0]);
}
static void fold__shift_backward(const fold_op_call *c) { fold__elementwise_backward(c, &fold__e_copy, 0); }

static const char *fold__infer_same(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    out[0] = in[0];
    return NULL;
}

/* Whether `small` repeats to `large`: it is [1] or equals the last axes. */
static int fold__repeats_to(const fold_shape *small, const fold_shape *large)
{
    if (fold__shape_size(small) == 1)
        return 1;
    if (small->rank > large->rank)
        return 0;
    for (int i = 1; i <= small->rank; i++)
        if (small->dim[small->rank - i] != large->dim[large->rank - i])
            return 0;
    return 1;
}
static const char *fold__infer_broadcast(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    if (fold__repeats_to(&in[1], &in[0])) {
        out[0] = in[0];
        return NULL;
    }
    if (fold__repeats_to(&in[0], &in[1])) {
        out[0] = in[1];
        return NULL;
    }
    return "shapes differ, and neither is [1] or equals the last axes of the other";
}

static void fold__select_forward(const fold_op_call *c)
{
    const int n = fold__out_size(c);
    for (int r = 0; r < c->rows; r++) {
        const float *k = fold_row(&c->in[0], r), *a = fold_row(&c->in[1], r), *b = fold_row(&c->in[2], r);
        float *y = fold_row(&c->out[0], r);
        for (int i = 0; i < n; i++)
            y[i] = k[i] > 0 ? a[i] : b[i];
    }
}
static void fold__select_backward(const fold_op_call *c)
{
    const int n = fold__out_size(c);
    for (int side = 0; side < 3; side++) {
        if (fold__absent(&c->din[side]))
            continue;
        for (int r = 0; r < c->rows; r++) {
            const float *k = fold_row(&c->in[0], r), *g = fold_row(&c->dout[0], r);
            float *d = fold_row(&c->din[side], r);
            for (int i = 0; i < n; i++)
                d[i] = side && (k[i] > 0) == (side == 1) ? g[i] : 0;
        }
    }
}
static const char *fold__infer_equal(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)attr;
    for (int i = 1; i < n; i++)
        if (!fold__shape_same(&in[0], &in[i]))
            return "shapes differ";
    out[0] = in[0];
    return NULL;
}

/* Masks depend on the key and the element alone. */
static void fold__dropout_rows(const fold_op_call *c, const fold_rows *y, const fold_rows *x)
{
    FOLD__NO_CONTRACT
    const int n = fold__out_size(c);
    const float rate = fold__attr_float(c->attr[0]), keep = 1.0f / (1.0f - rate);
    const uint64_t limit = (uint64_t)((double)rate * 4294967296.0);
    for (int r = 0; r < c->rows; r++) {
        const uint64_t key = c->data[r * c->data_step];
        const float *from = fold_row(x, r);
        float *to = fold_row(y, r);
        for (int i = 0; i < n; i++)
            to[i] = (fold__mix64(key + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15)) >> 32) < limit
                        ? 0
                        : from[i] * keep;
    }
}
static void fold__dropout_forward(const fold_op_call *c) { fold__dropout_rows(c, &c->out[0], &c->in[0]); }
static void fold__dropout_backward(const fold_op_call *c) { fold__dropout_rows(c, &c->din[0], &c->dout[0]); }

/* -- products -------------------------------------------------------------------------------- */

/* in: segments of x, then (attr 1) the rows to start from instead of the bias. attr: transposed, has start,
   first row of W, outputs. */
static const char *fold__infer_linear(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    const int segments = n - attr[1];
    out[0] = in[0];
    out[0].dim[out[0].rank - 1] = attr[3];
    for (int i = 1; i < segments; i++)
        if (in[i].rank != 1 || in[0].rank != 1)
            return "several inputs must be vectors";
    if (attr[1] && !fold__shape_same(&in[n - 1], &out[0]))
        return "the rows to start from have another shape";
    return NULL;
}

static const float *fold__weight_pack(const fold__engine *e, int transposed)
{
    return e->packs + (transposed ? e->param[0]->pack_t : e->param[0]->pack);
}

/* Rows of a value of `inner` rows each, as one long run of rows where memory allows it; else one sample at
   a time by the caller. */
static int fold__rows_flatten(fold_rows *x, int inner, int width)
{
    if (inner == 1)
        return 1;
    if (x->rows || x->stride != (ptrdiff_t)inner * width)
        return 0;
    x->stride = width;
    return 1;
}

static void fold__linear_product(const fold_op_call *c, size_t rows, const fold_rows *x, fold_rows init,
                                 fold_rows y)
{
    const fold__engine *e = fold__engine_of(c);
    const int transposed = c->attr[0], n = c->attr[3];
    const float *pack = fold__weight_pack(e, transposed);
    const int k_total = e->param[0]->shape.dim[transposed ? 1 : 0];
    size_t row = (size_t)c->attr[2];
    fold__seg seg[8];
    fold__product p;
    int at = 0;
    for (int i = 0; i < e->seg0; i++)
        row += (size_t)fold__shape_last(&c->in_shape[i]);
    for (int i = e->seg0; i < e->seg1; at = 0) { /* eight segments at a time, continuing the chain */
        for (; i < e->seg1 && at < 8; i++, at++) {
            seg[at].a = x[i];
            seg[at].k = fold__shape_last(&c->in_shape[i]);
            seg[at].w = pack + fold__pack_row(e->k, n, row);
            row += (size_t)seg[at].k;
        }
        p.rows = (int)rows;
        p.n = n;
        p.n_seg = at;
        p.panel_stride = fold__pack_stride(e->k, k_total, n);
        p.seg = seg;
        p.init = init;
        p.y = y;
        p.n_pack = p.col = 0;
        e->k->product(&p, c->scratch);
        init = y;
    }
}

static void fold__linear_forward(const fold_op_call *c)
{
    const fold__engine *e = fold__engine_of(c);
    const int inner = fold__shape_size(&c->in_shape[0]) / fold__shape_last(&c->in_shape[0]), n = c->attr[3];
    fold_rows init = { NULL, 0, NULL }, y = c->out[0];
    const int has_start = c->attr[1], continues = e->seg0 > 0;
    if (continues)
        init = y;
    else if (has_start)
        init = c->in[c->n_in - 1];
    else if (e->param[1])
        init.base = (float *)(uintptr_t)(e->packs + e->param[1]->pack); /* never written through */
    if (inner == 1) {
        fold__linear_product(c, (size_t)c->rows, c->in, init, y);
        return;
    }
    fold_rows x = c->in[0];
    if (fold__rows_flatten(&x, inner, fold__shape_last(&c->in_shape[0])) &&
        fold__rows_flatten(&y, inner, n) && (!has_start || fold__rows_flatten(&init, inner, n))) {
        fold__linear_product(c, (size_t)c->rows * (size_t)inner, &x, init, y);
        return;
    }
    for (int r = 0; r < c->rows; r++) {
        fold_rows xr = { fold_row(&c->in[0], r), fold__shape_last(&c->in_shape[0]), NULL },
                  yr = { fold_row(&c->out[0], r), n, NULL }, ir = init;
        if (has_start) {
            ir.base = fold_row(&c->in[c->n_in - 1], r);
            ir.stride = n;
            ir.rows = NULL;
        }
        fold__linear_product(c, (size_t)inner, &xr, ir, yr);
    }
}

/* dX = dY Wᵀ for inputs [from, to) of the weight. */
static void fold__linear_dx(const fold_op_call *c, size_t rows, fold_rows dy, fold_rows dx, int from, int to)
{
    const fold__engine *e = fold__engine_of(c);
    fold__seg seg;
    fold__product p;
    seg.a = dy;
    seg.k = c->attr[3];
    seg.w = fold__weight_pack(e, !c->attr[0]);
    p.rows = (int)rows;
    p.n = to - from;
    p.n_seg = 1;
    p.n_pack = e->param[0]->shape.dim[c->attr[0] ? 1 : 0];
    p.col = from;
    p.panel_stride = fold__pack_stride(e->k, seg.k, p.n_pack);
    p.seg = &seg;
    p.y = dx;
    p.init = fold__no_rows;
    e->k->product(&p, c->scratch);
}

static void fold__linear_backward(const fold_op_call *c)
{
    const int segments = c->n_in - c->attr[1], n = c->attr[3];
    const int inner = fold__shape_size(&c->in_shape[0]) / fold__shape_last(&c->in_shape[0]);
    if (c->attr[1] && !fold__absent(&c->din[segments])) /* the rows it started from */
        for (int r = 0; r < c->rows; r++)
            memcpy(fold_row(&c->din[segments], r), fold_row(&c->dout[0], r),
                   (size_t)fold__out_size(c) * sizeof(float));
    for (int i = 0, from = c->attr[2]; i < segments; i++) {
        const int k = fold__shape_last(&c->in_shape[i]);
        fold_rows dx = c->din[i], dy = c->dout[0];
        if (fold__absent(&dx)) {
            from += k;
            continue;
        }
        if (fold__rows_flatten(&dx, inner, k) && fold__rows_flatten(&dy, inner, n)) {
            fold__linear_dx(c, (size_t)c->rows * (size_t)inner, dy, dx, from, from + k);
        } else {
            for (int r = 0; r < c->rows; r++) {
                const fold_rows dxr = { fold_row(&c->din[i], r), k, NULL },
                                dyr = { fold_row(&c->dout[0], r), n, NULL };
                fold__linear_dx(c, (size_t)inner, dyr, dxr, from, from + k);
            }
        }
        from += k;
    }
}

enum {
    FOLD__JOIN_TALL = 64,
    FOLD__JOIN_WIDE = FOLD__N_BLOCK + FOLD__LANES
}; /* of a weight gradient's block, no column left alone */

static size_t fold__linear_scratch(const fold__kernels *k, const fold__param_data *W)
{
    const size_t a = fold__scratch_floats(k, W->shape.dim[0], W->shape.dim[1]);
    const size_t b = fold__scratch_floats(k, W->shape.dim[1], W->shape.dim[0]);
    return fold__max_size(a, b) + FOLD__JOIN_TALL * FOLD__JOIN_WIDE;
}

/* Columns [from, to) of a gradient of n columns: what one of several threads adds up. */
typedef struct fold__share {
    int from, to;
} fold__share;

/* Where in W's gradient the rows of a segment of a linear op begin, in floats. */
static size_t fold__segment_at(const int32_t *attr, const fold_shape *in_shape, int segment, size_t ldw)
{
    size_t row = (size_t)attr[2];
    for (int i = 0; i < segment; i++)
        row += (size_t)fold__shape_last(&in_shape[i]);
    return attr[0] ? row : row * ldw;
}

/* acc += xᵀ dy for one segment of a linear op and some columns of dy, rows in order, continuing the chains in
   acc (the segment's rows of W). dy begins at the first of the columns. */
static void fold__linear_weight_grad(const fold_op_call *c, size_t rows, int segment, const fold_rows *x,
                                     const fold_rows *dy, fold__share share, float *acc)
{
    const fold__engine *e = fold__engine_of(c);
    const int k = fold__shape_last(&c->in_shape[segment]), n = share.to - share.from,
              inner = fold__shape_size(&c->in_shape[0]) / fold__shape_last(&c->in_shape[0]);
    const size_t ldw = (size_t)e->param[0]->shape.dim[1], groups = inner == 1 ? 1 : rows;
    acc += (size_t)share.from * (c->attr[0] ? ldw : 1);
    for (size_t r = 0; r < groups; r++) {
        fold_rows xr = *x, dyr = *dy;
        if (inner > 1) {
            xr.base = fold_row(x, (int)r);
            xr.stride = k;
            xr.rows = NULL;
            dyr.base = fold_row(dy, (int)r);
            dyr.stride = c->attr[3];
            dyr.rows = NULL;
        }
        const int count = inner > 1 ? inner : (int)rows;
        if (c->attr[0])
            e->k->weight_grad(count, &dyr, n, &xr, k, acc, ldw, c->scratch);
        else
            e->k->weight_grad(count, &xr, k, &dyr, n, acc, ldw, c->scratch);
    }
}

/* to += xᵀ dy, x of k and dy of n columns, the sum made from zero: block by block, each added while it is in
   the first cache. The row pointers x and dy are moved along. */
static void fold__join_weight_grad(const fold__kernels *f, size_t rows, float **x, int k, float **dy, int n,
                                   float *to, size_t ldw, float *scratch)
{
    float *block = scratch;
    const fold_rows xr = { NULL, 0, x }, dyr = { NULL, 0, dy };
    for (int i = 0, tall; i < k; i += tall) {
        tall = k - i < FOLD__JOIN_TALL ? k - i : FOLD__JOIN_TALL;
        for (int j = 0, wide; j < n; j += wide) {
            wide = n - j < FOLD__JOIN_WIDE ? n - j : FOLD__N_BLOCK;
            const fold_rows sum = { to + (size_t)i * ldw + j, (ptrdiff_t)ldw, NULL },
                            part = { block, wide, NULL };
            const fold_rows all[4] = { sum, sum, part, part };
            memset(block, 0, (size_t)tall * (size_t)wide * sizeof *block);
            f->weight_grad((int)rows, &xr, tall, &dyr, wide, block, (size_t)wide,
                           scratch + FOLD__JOIN_TALL * FOLD__JOIN_WIDE);
            f->map[FOLD__MAP_add](sum.base, sum.base, block, block, 0, (size_t)wide, (size_t)tall, all);
            for (size_t r = 0; r < rows; r++)
                dy[r] += j + wide < n ? wide : -j;
        }
        for (size_t r = 0; r < rows; r++)
            x[r] += tall;
    }
}

/* acc += some columns of every row (and inner row) of n columns, in order; dy begins at the first of them. */
static void fold__add_rows(const fold__kernels *k, size_t rows, const fold_rows *dy, int inner, int n,
                           fold__share share, float *acc)
{
    for (size_t r = 0; r < rows; r++)
        for (int i = 0; i < inner; i++) {
            float *to = acc + share.from;
            k->map[FOLD__MAP_add](to, to, fold_row(dy, (int)r) + (size_t)i * (size_t)n, NULL, 0,
                                  (size_t)(share.to - share.from), 1, NULL);
        }
}

/* A strided matrix: element (i, j) at p[i * row + j * column]. */
typedef struct fold__matrix {
    const float *p;
    ptrdiff_t row, column;
} fold__matrix;

/* Y = A B for the small matrices of one sample. Wide outputs: one chain over k per element. Narrow ones: 16
   interleaved chains, as everywhere. scratch: (m + n) * k floats. */
static void fold__small_product(const fold__kernels *kernels, int m, int k, int n, fold__matrix a,
                                fold__matrix b, float *y, float *scratch)
{
    if (n >= 16) {
        if (b.column != 1) {
            for (int i = 0; i < k; i++)
                for (int j = 0; j < n; j++)
                    scratch[i * n + j] = b.p[i * b.row + j * b.column];
            b.p = scratch;
            b.row = n;
        }
        for (int i = 0; i < m; i++) {
            kernels->map[FOLD__MAP_fill](y + (size_t)i * (size_t)n, NULL, NULL, NULL, 0, (size_t)n, 1, NULL);
            for (int j = 0; j < k; j++)
                kernels->map[FOLD__MAP_axpy](y + (size_t)i * (size_t)n, b.p + j * b.row, NULL,
                                             y + (size_t)i * (size_t)n, a.p[i * a.row + j * a.column],
                                             (size_t)n, 1, NULL);
        }
        return;
    }
    float *columns = scratch, *line = scratch + (size_t)n * (size_t)k;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < k; i++)
            columns[j * k + i] = b.p[i * b.row + j * b.column];
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < k; j++)
            line[j] = a.p[i * a.row + j * a.column];
        for (int j = 0; j < n; j++)
            y[i * n + j] = kernels->dot(line, columns + j * k, (size_t)k);
    }
}

static void fold__matmul_sizes(const fold_op_call *c, int *m, int *k, int *n)
{
    const fold_shape *a = &c->in_shape[0], *b = &c->in_shape[1];
    *m = a->rank == 2 ? a->dim[0] : 1;
    *k = fold__shape_last(a);
    *n = b->rank == 2 ? b->dim[1] : 1;
}
static void fold__matmul_forward(const fold_op_call *c)
{
    int m, k, n;
    fold__matmul_sizes(c, &m, &k, &n);
    for (int r = 0; r < c->rows; r++) {
        fold__matrix a = { fold_row(&c->in[0], r), k, 1 }, b = { fold_row(&c->in[1], r), n, 1 };
        fold__small_product(fold__engine_of(c)->k, m, k, n, a, b, fold_row(&c->out[0], r), c->scratch);
    }
}
static void fold__matmul_backward(const fold_op_call *c)
{
    int m, k, n;
    fold__matmul_sizes(c, &m, &k, &n);
    for (int r = 0; r < c->rows; r++) {
        const float *g = fold_row(&c->dout[0], r);
        if (!fold__absent(&c->din[0])) {
            fold__matrix dy = { g, n, 1 }, bt = { fold_row(&c->in[1], r), 1, n };
            fold__small_product(fold__engine_of(c)->k, m, n, k, dy, bt, fold_row(&c->din[0], r), c->scratch);
        }
        if (!fold__absent(&c->din[1])) {
            fold__matrix at = { fold_row(&c->in[0], r), 1, k }, dy = { g, n, 1 };
            fold__small_product(fold__engine_of(c)->k, k, m, n, at, dy, fold_row(&c->din[1], r), c->scratch);
        }
    }
}
static const char *fold__infer_matmul(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    (void)attr;
    const fold_shape *a = &in[0], *b = &in[1];
    if (a->rank > 2 || b->rank > 2 || (a->rank == 1 && b->rank == 1))
        return "needs a matrix and a matrix or vector";
    if (fold__shape_last(a) != b->dim[0])
        return "the inner dimensions differ";
    if (a->rank == 2 && b->rank == 2)
        *out = fold_shape2(a->dim[0], b->dim[1]);
    else
        *out = fold_shape1(a->rank == 2 ? a->dim[0] : b->dim[1]);
    return NULL;
}

static void fold__dot_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++)
        fold_row(&c->out[0], r)[0] =
            fold__engine_of(c)->k->dot(fold_row(&c->in[0], r), fold_row(&c->in[1], r), n);
}
static void fold__dot_backward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < c->rows && !fold__absent(&c->din[i]); r++)
            FOLD__MAP(c, scale)
            (fold_row(&c->din[i], r), fold_row(&c->in[1 - i], r), NULL, NULL, fold_row(&c->dout[0], r)[0], n,
             1, NULL);
}
static const char *fold__infer_to_scalar(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)attr;
    for (int i = 1; i < n; i++)
        if (!fold__shape_same(&in[0], &in[i]))
            return "shapes differ";
    *out = fold_shape1(1);
    return NULL;
}

/* -- reductions inside a row ----------------------------------------------------------------- */

/* A value seen as [outer][length][inner] around an axis; all axes: [1][size][1]. */
typedef struct fold__axis {
    int outer, length, inner;
} fold__axis;
static fold__axis fold__around(const fold_shape *s, int axis)
{
    fold__axis a = { 1, 1, 1 };
    if (axis == FOLD_ALL) {
        a.length = fold__shape_size(s);
        return a;
    }
    for (int i = 0; i < s->rank; i++)
        *(i < axis ? &a.outer : i == axis ? &a.length : &a.inner) *= s->dim[i];
    return a;
}
static const char *fold__infer_axis(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    if (attr[0] != FOLD_ALL && (attr[0] < 0 || attr[0] >= in[0].rank))
        return "there is no such axis";
    if (attr[0] == FOLD_ALL || in[0].rank == 1) {
        *out = fold_shape1(1);
        return NULL;
    }
    *out = in[0];
    for (int i = attr[0]; i + 1 < in[0].rank; i++)
        out->dim[i] = in[0].dim[i + 1];
    out->dim[--out->rank] = 0;
    return NULL;
}
static void fold__sum_axis(const fold_op_call *c, int mean)
{
    FOLD__NO_CONTRACT
    const fold__axis a = fold__around(&c->in_shape[0], c->attr[0]);
    const size_t inner = (size_t)a.inner, length = (size_t)a.length;
    const float factor = 1.0f / (float)a.length;
    for (int r = 0; r < c->rows; r++) {
        fold_rows x = { fold_row(&c->in[0], r), (ptrdiff_t)inner, NULL };
        float *y = fold_row(&c->out[0], r);
        for (int o = 0; o < a.outer; o++, y += inner, x.base += inner * length) {
            if (inner == 1)
                y[0] = fold__sum(fold__engine_of(c)->k, x.base, length);
            else
                fold__sum_rows(fold__engine_of(c)->k, y, inner, &x, 0, a.length);
            if (mean)
                FOLD__MAP(c, scale)(y, y, NULL, NULL, factor, inner, 1, NULL);
        }
    }
}
static void fold__sum_axis_grad(const fold_op_call *c, int mean)
{
    const fold__axis a = fold__around(&c->in_shape[0], c->attr[0]);
    const size_t inner = (size_t)a.inner;
    const float factor = mean ? 1.0f / (float)a.length : 1.0f;
    for (int r = 0; r < c->rows; r++) {
        const float *g = fold_row(&c->dout[0], r);
        float *d = fold_row(&c->din[0], r);
        for (int o = 0; o < a.outer; o++, g += inner)
            for (int i = 0; i < a.length; i++, d += inner)
                FOLD__MAP(c, scale)(d, g, NULL, NULL, factor, inner, 1, NULL);
    }
}
static void fold__sum_forward(const fold_op_call *c) { fold__sum_axis(c, 0); }
static void fold__sum_backward(const fold_op_call *c) { fold__sum_axis_grad(c, 0); }
static void fold__mean_forward(const fold_op_call *c) { fold__sum_axis(c, 1); }
static void fold__mean_backward(const fold_op_call *c) { fold__sum_axis_grad(c, 1); }

static size_t fold__first_largest(const float *x, const fold__axis *a)
{
    size_t best = 0;
    for (int i = 1; i < a->length; i++)
        if (x[(size_t)i * (size_t)a->inner] > x[best])
            best = (size_t)i * (size_t)a->inner;
    return best;
}
static void fold__amax_forward(const fold_op_call *c)
{
    const fold__axis a = fold__around(&c->in_shape[0], c->attr[0]);
    for (int r = 0; r < c->rows; r++) {
        float *y = fold_row(&c->out[0], r);
        for (int o = 0; o < a.outer; o++)
            for (int i = 0; i < a.inner; i++) {
                const float *x = fold_row(&c->in[0], r) + (size_t)o * (size_t)a.length * (size_t)a.inner + i;
                *y++ = x[fold__first_largest(x, &a)];
            }
    }
}
static void fold__amax_backward(const fold_op_call *c)
{
    const fold__axis a = fold__around(&c->in_shape[0], c->attr[0]);
    for (int r = 0; r < c->rows; r++) {
        const float *g = fold_row(&c->dout[0], r), *x = fold_row(&c->in[0], r);
        float *d = fold_row(&c->din[0], r);
        memset(d, 0, (size_t)fold__in_size(c, 0) * sizeof(float));
        for (int o = 0; o < a.outer; o++)
            for (int i = 0; i < a.inner; i++) {
                const size_t at = (size_t)o * (size_t)a.length * (size_t)a.inner + (size_t)i;
                d[at + fold__first_largest(x + at, &a)] = *g++;
            }
    }
}

/* y = exp(x - max x); returns max x, and the sum of y in *sum */
static float fold__exp_row(const fold__kernels *k, float *y, const float *x, size_t n, float *sum)
{
    const float m = k->max(x, n);
    *sum = k->exp_sum(y, x, m, n);
    return m;
}
/* log of the sum of exp(x), and the softmax in y */
static float fold__softmax_row(const fold__kernels *k, float *y, const float *x, size_t n)
{
    FOLD__NO_CONTRACT
    float sum, log_sum;
    const float m = fold__exp_row(k, y, x, n, &sum);
    k->map[FOLD__MAP_log](&log_sum, &sum, NULL, NULL, 0, 1, 1, NULL);
    k->map[FOLD__MAP_scale](y, y, NULL, NULL, 1.0f / sum, n, 1, NULL);
    return m + log_sum;
}
static void fold__softmax_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__shape_last(&c->in_shape[0]), lines = (size_t)fold__out_size(c) / n;
    for (int r = 0; r < c->rows; r++)
        for (size_t i = 0; i < lines; i++)
            fold__softmax_row(fold__engine_of(c)->k, fold_row(&c->out[0], r) + i * n,
                              fold_row(&c->in[0], r) + i * n, n);
}
static void fold__softmax_backward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__shape_last(&c->in_shape[0]), lines = (size_t)fold__out_size(c) / n;
    for (int r = 0; r < c->rows; r++)
        for (size_t i = 0; i < lines; i++) {
            const float *g = fold_row(&c->dout[0], r) + i * n, *y = fold_row(&c->out[0], r) + i * n;
            float *d = fold_row(&c->din[0], r) + i * n;
            FOLD__MAP(c, shift)(d, g, NULL, NULL, -fold__engine_of(c)->k->dot(g, y, n), n, 1, NULL);
            FOLD__MAP(c, mul)(d, d, y, NULL, 0, n, 1, NULL);
        }
}
static void fold__log_softmax_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__shape_last(&c->in_shape[0]), lines = (size_t)fold__out_size(c) / n;
    for (int r = 0; r < c->rows; r++)
        for (size_t i = 0; i < lines; i++) {
            const float *x = fold_row(&c->in[0], r) + i * n;
            const float log_sum = fold__softmax_row(fold__engine_of(c)->k, c->scratch, x, n);
            FOLD__MAP(c, shift)(fold_row(&c->out[0], r) + i * n, x, NULL, NULL, -log_sum, n, 1, NULL);
        }
}
static void fold__log_softmax_backward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__shape_last(&c->in_shape[0]), lines = (size_t)fold__out_size(c) / n;
    for (int r = 0; r < c->rows; r++)
        for (size_t i = 0; i < lines; i++) {
            const float *g = fold_row(&c->dout[0], r) + i * n, *y = fold_row(&c->out[0], r) + i * n;
            const float sum = fold__sum(fold__engine_of(c)->k, g, n);
            FOLD__MAP(c, exp)(c->scratch, y, NULL, NULL, 0, n, 1, NULL);
            FOLD__MAP(c, axpy)(fold_row(&c->din[0], r) + i * n, c->scratch, NULL, g, -sum, n, 1, NULL);
        }
}

static const char *fold__infer_layer_norm(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    for (int i = 1; i < 3; i++)
        if (in[i].rank != 1 || in[i].dim[0] != fold__shape_last(&in[0]))
            return "gain and bias must be vectors of the last axis";
    out[0] = in[0];
    return NULL;
}
/* t = (x - mean) / deviation; returns 1 / deviation */
static float fold__standardise(const fold__kernels *k, float *t, const float *x, size_t n)
{
    FOLD__NO_CONTRACT
    const float scale = 1.0f / (float)n;
    k->map[FOLD__MAP_shift](t, x, NULL, NULL, -(fold__sum(k, x, n) * scale), n, 1, NULL);
    float inverse = k->dot(t, t, n) * scale + 1e-5f;
    k->map[FOLD__MAP_sqrt](&inverse, &inverse, NULL, NULL, 0, 1, 1, NULL);
    inverse = 1.0f / inverse;
    k->map[FOLD__MAP_scale](t, t, NULL, NULL, inverse, n, 1, NULL);
    return inverse;
}
static void fold__layer_norm_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__shape_last(&c->in_shape[0]), lines = (size_t)fold__out_size(c) / n;
    for (int r = 0; r < c->rows; r++)
        for (size_t i = 0; i < lines; i++) {
            float *y = fold_row(&c->out[0], r) + i * n;
            fold__standardise(fold__engine_of(c)->k, y, fold_row(&c->in[0], r) + i * n, n);
            FOLD__MAP(c, addmul)(y, y, fold_row(&c->in[1], r), fold_row(&c->in[2], r), 0, n, 1, NULL);
        }
}
static void fold__layer_norm_backward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const fold__kernels *k = fold__engine_of(c)->k;
    const size_t n = (size_t)fold__shape_last(&c->in_shape[0]), lines = (size_t)fold__out_size(c) / n;
    float *t = c->scratch, *u = c->scratch + n;
    for (int r = 0; r < c->rows; r++) {
        for (int i = 1; i < 3; i++)
            if (!fold__absent(&c->din[i]))
                memset(fold_row(&c->din[i], r), 0, n * sizeof(float));
        for (size_t i = 0; i < lines; i++) {
            const float *g = fold_row(&c->dout[0], r) + i * n;
            const float inverse = fold__standardise(k, t, fold_row(&c->in[0], r) + i * n, n);
            if (!fold__absent(&c->din[1])) {
                FOLD__MAP(c, mul)(u, g, t, NULL, 0, n, 1, NULL);
                FOLD__MAP(c, add)(fold_row(&c->din[1], r), fold_row(&c->din[1], r), u, NULL, 0, n, 1, NULL);
            }
            if (!fold__absent(&c->din[2]))
                FOLD__MAP(c, add)(fold_row(&c->din[2], r), fold_row(&c->din[2], r), g, NULL, 0, n, 1, NULL);
            if (fold__absent(&c->din[0]))
                continue;
            FOLD__MAP(c, mul)(u, g, fold_row(&c->in[1], r), NULL, 0, n, 1, NULL);
            const float mean = fold__sum(k, u, n) / (float)n, slope = k->dot(u, t, n) / (float)n;
            float *d = fold_row(&c->din[0], r) + i * n;
            FOLD__MAP(c, shift)(u, u, NULL, NULL, -mean, n, 1, NULL);
            FOLD__MAP(c, axpy)(d, t, NULL, u, -slope, n, 1, NULL);
            FOLD__MAP(c, scale)(d, d, NULL, NULL, inverse, n, 1, NULL);
        }
    }
}

/* -- over lists ------------------------------------------------------------------------------ */

static const char *fold__infer_list(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static const char *fold__infer_attend(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    (void)attr;
    if (fold__shape_size(&in[0]) != 1)
        return "a score must be [1]";
    out[0] = in[1];
    return NULL;
}
static void fold__list_total(const fold_op_call *c, int mean)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++) {
        float *y = fold_row(&c->out[0], r);
        const int first = c->list[r], last = c->list[r + 1];
        fold__sum_rows(fold__engine_of(c)->k, y, n, &c->in[0], first, last - first);
        if (mean && last > first)
            FOLD__MAP(c, scale)(y, y, NULL, NULL, 1.0f / (float)(last - first), n, 1, NULL);
    }
}
static void fold__list_total_grad(const fold_op_call *c, int mean)
{
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++)
        for (int e = c->list[r]; e < c->list[r + 1]; e++)
            FOLD__MAP(c, scale)
            (fold_row(&c->din[0], e), fold_row(&c->dout[0], r), NULL, NULL,
             mean ? 1.0f / (float)(c->list[r + 1] - c->list[r]) : 1.0f, n, 1, NULL);
}
static void fold__sum_n_forward(const fold_op_call *c) { fold__list_total(c, 0); }
static void fold__sum_n_backward(const fold_op_call *c) { fold__list_total_grad(c, 0); }
static void fold__mean_n_forward(const fold_op_call *c) { fold__list_total(c, 1); }
static void fold__mean_n_backward(const fold_op_call *c) { fold__list_total_grad(c, 1); }
static void fold__max_n_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++) {
        float *y = fold_row(&c->out[0], r);
        for (int e = c->list[r]; e < c->list[r + 1]; e++) {
            if (e == c->list[r])
                FOLD__MAP(c, copy)(y, fold_row(&c->in[0], e), NULL, NULL, 0, n, 1, NULL);
            else
                FOLD__MAP(c, max)
                (y, fold_row(&c->in[0], e), y, NULL, 0, n, 1, NULL); /* a later one wins only when larger */
        }
    }
}
static void fold__max_n_backward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++) {
        const float *y = fold_row(&c->out[0], r), *g = fold_row(&c->dout[0], r);
        for (size_t i = 0; i < n; i++) {
            int found = 0;
            for (int e = c->list[r]; e < c->list[r + 1]; e++) {
                const int here = !found && fold_row(&c->in[0], e)[i] == y[i];
                fold_row(&c->din[0], e)[i] = here ? g[i] : 0;
                found |= here;
            }
        }
    }
}
/* Softmax weights of row r's scores, one at a time: exp(score - max) / sum, the sum in list order. */
static void fold__attend_norm(const fold_op_call *c, int r, float *largest, float *sum)
{
    FOLD__NO_CONTRACT
    const int first = c->list[r], last = c->list[r + 1];
    *largest = -INFINITY;
    *sum = 0;
    for (int e = first; e < last; e++) {
        const float s = fold_row(&c->in[0], e)[0];
        *largest = s > *largest ? s : *largest;
    }
    for (int e = first; e < last; e++) {
        float w = fold_row(&c->in[0], e)[0] - *largest;
        FOLD__MAP(c, exp)(&w, &w, NULL, NULL, 0, 1, 1, NULL);
        *sum = *sum + w;
    }
}
static float fold__attend_weight(const fold_op_call *c, int e, float largest, float sum)
{
    FOLD__NO_CONTRACT
    float w = fold_row(&c->in[0], e)[0] - largest;
    FOLD__MAP(c, exp)(&w, &w, NULL, NULL, 0, 1, 1, NULL);
    return w / sum;
}
static void fold__attend_n_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++) {
        float *y = fold_row(&c->out[0], r), largest, sum;
        fold__attend_norm(c, r, &largest, &sum);
        FOLD__MAP(c, fill)(y, NULL, NULL, NULL, 0, n, 1, NULL);
        for (int e = c->list[r]; e < c->list[r + 1]; e++)
            FOLD__MAP(c, axpy)
            (y, fold_row(&c->in[1], e), NULL, y, fold__attend_weight(c, e, largest, sum), n, 1, NULL);
    }
}
static void fold__attend_n_backward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__out_size(c);
    for (int r = 0; r < c->rows; r++) {
        const float *y = fold_row(&c->out[0], r), *g = fold_row(&c->dout[0], r);
        const float mean = fold__engine_of(c)->k->dot(g, y, n);
        float largest, sum;
        fold__attend_norm(c, r, &largest, &sum);
        for (int e = c->list[r]; e < c->list[r + 1]; e++) {
            const float w = fold__attend_weight(c, e, largest, sum);
            if (!fold__absent(&c->din[0]))
                fold_row(&c->din[0], e)[0] =
                    w * (fold__engine_of(c)->k->dot(g, fold_row(&c->in[1], e), n) - mean);
            if (!fold__absent(&c->din[1]))
                FOLD__MAP(c, scale)(fold_row(&c->din[1], e), g, NULL, NULL, w, n, 1, NULL);
        }
    }
}

/* -- moving values --------------------------------------------------------------------------- */

static const char *fold__infer_concat(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    if (attr[0] < 0 || attr[0] >= in[0].rank)
        return "there is no such axis";
    out[0] = in[0];
    for (int i = 1; i < n; i++) {
        if (in[i].rank != in[0].rank)
            return "ranks differ";
        for (int j = 0; j < in[0].rank; j++)
            if (j != attr[0] && in[i].dim[j] != in[0].dim[j])
                return "shapes differ off the axis";
        out[0].dim[attr[0]] += in[i].dim[attr[0]];
    }
    return NULL;
}
/* Copies part i of a concatenation in (or, for gradients, out of) the whole, for row r. */
static void fold__concat_part(const fold_op_call *c, float *whole, float *part, int i, int out_of_whole)
{
    const fold__axis a = fold__around(&c->out_shape[0], c->attr[0]),
                     b = fold__around(&c->in_shape[i], c->attr[0]);
    size_t before = 0;
    for (int j = 0; j < i; j++)
        before += (size_t)c->in_shape[j].dim[c->attr[0]] * (size_t)a.inner;
    const size_t line = (size_t)a.length * (size_t)a.inner, length = (size_t)b.length * (size_t)b.inner;
    for (int o = 0; o < a.outer; o++) {
        float *w = whole + (size_t)o * line + before, *p = part + (size_t)o * length;
        memcpy(out_of_whole ? p : w, out_of_whole ? w : p, length * sizeof(float));
    }
}
static void fold__concat_forward(const fold_op_call *c)
{
    for (int i = 0; i < c->n_in; i++)
        for (int r = 0; r < c->rows; r++)
            fold__concat_part(c, fold_row(&c->out[0], r), fold_row(&c->in[i], r), i, 0);
}
static void fold__concat_backward(const fold_op_call *c)
{
    for (int i = 0; i < c->n_in; i++)
        for (int r = 0; r < c->rows && !fold__absent(&c->din[i]); r++)
            fold__concat_part(c, fold_row(&c->dout[0], r), fold_row(&c->din[i], r), i, 1);
}

static const char *fold__infer_slice(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    if (attr[0] < 0 || attr[0] >= in[0].rank)
        return "there is no such axis";
    if (attr[1] < 0 || attr[2] < 1 || attr[1] > in[0].dim[attr[0]] - attr[2])
        return "the slice reaches outside";
    out[0] = in[0];
    out[0].dim[attr[0]] = attr[2];
    return NULL;
}
static void fold__slice_lines(const fold_op_call *c, float *whole, float *part, int into_whole)
{
    const fold__axis a = fold__around(&c->in_shape[0], c->attr[0]);
    const size_t line = (size_t)a.length * (size_t)a.inner, length = (size_t)c->attr[2] * (size_t)a.inner;
    for (int o = 0; o < a.outer; o++) {
        float *w = whole + (size_t)o * line + (size_t)c->attr[1] * (size_t)a.inner,
              *p = part + (size_t)o * length;
        memcpy(into_whole ? w : p, into_whole ? p : w, length * sizeof(float));
    }
}
static void fold__slice_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        fold__slice_lines(c, fold_row(&c->in[0], r), fold_row(&c->out[0], r), 0);
}
static void fold__slice_backward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++) {
        memset(fold_row(&c->din[0], r), 0, (size_t)fold__in_size(c, 0) * sizeof(float));
        fold__slice_lines(c, fold_row(&c->din[0], r), fold_row(&c->dout[0], r), 1);
    }
}

static const char *fold__infer_transpose(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    (void)n;
    if (attr[0] < 0 || attr[1] < 0 || attr[0] >= in[0].rank || attr[1] >= in[0].rank)
        return "there is no such axis";
    out[0] = in[0];
    out[0].dim[attr[0]] = in[0].dim[attr[1]];
    out[0].dim[attr[1]] = in[0].dim[attr[0]];
    return NULL;
}
/* to = from with two axes swapped; `s` is from's shape */
static void fold__swap_axes(const fold_shape *s, const int32_t *axes, const float *from, float *to)
{
    int dim[FOLD_MAX_RANK], step[FOLD_MAX_RANK], index[FOLD_MAX_RANK] = { 0 };
    for (int i = s->rank - 1, stride = 1; i >= 0; i--) {
        dim[i] = s->dim[i];
        step[i] = stride;
        stride *= dim[i];
    }
    const int a = axes[0], b = axes[1], d = dim[a], t = step[a];
    dim[a] = dim[b];
    dim[b] = d;
    step[a] = step[b];
    step[b] = t;
    for (int n = fold__shape_size(s), at = 0; n > 0; n--) { /* an odometer over the output's index */
        *to++ = from[at];
        for (int i = s->rank - 1; i >= 0; i--) {
            at += step[i];
            if (++index[i] < dim[i])
                break;
            at -= step[i] * dim[i];
            index[i] = 0;
        }
    }
}
static void fold__transpose_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        fold__swap_axes(&c->in_shape[0], c->attr, fold_row(&c->in[0], r), fold_row(&c->out[0], r));
}
static void fold__transpose_backward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        fold__swap_axes(&c->out_shape[0], c->attr, fold_row(&c->dout[0], r), fold_row(&c->din[0], r));
}

static void fold__pick_forward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++)
        fold_row(&c->out[0], r)[0] = fold_row(&c->in[0], r)[c->data[r * c->data_step]];
}
static void fold__pick_backward(const fold_op_call *c)
{
    for (int r = 0; r < c->rows; r++) {
        memset(fold_row(&c->din[0], r), 0, (size_t)fold__in_size(c, 0) * sizeof(float));
        fold_row(&c->din[0], r)[c->data[r * c->data_step]] = fold_row(&c->dout[0], r)[0];
    }
}

/* -- losses ---------------------------------------------------------------------------------- */

static const char *fold__infer_loss(const fold_shape *in, int n, const int32_t *attr, fold_shape *out)
{
    if (in[0].rank != 1)
        return "needs a vector";
    return fold__infer_to_scalar(in, n, attr, out);
}
static void fold__softmax_xent_forward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r);
        fold_row(&c->out[0], r)[0] =
            fold__softmax_row(fold__engine_of(c)->k, c->scratch, x, n) - x[c->data[r * c->data_step]];
    }
}
static void fold__softmax_xent_backward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        float *d = fold_row(&c->din[0], r);
        fold__softmax_row(fold__engine_of(c)->k, d, fold_row(&c->in[0], r), n);
        d[c->data[r * c->data_step]] -= 1.0f;
        FOLD__MAP(c, scale)(d, d, NULL, NULL, fold_row(&c->dout[0], r)[0], n, 1, NULL);
    }
}
static void fold__softmax_kl_forward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const int n = fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r), *t = fold_row(&c->in[1], r);
        const float log_sum = fold__softmax_row(fold__engine_of(c)->k, c->scratch, x, (size_t)n);
        FOLD__MAP(c, log)(c->scratch, t, NULL, NULL, 0, (size_t)n, 1, NULL);
        float loss = 0;
        for (int i = 0; i < n; i++)
            if (t[i] > 0)
                loss += t[i] * (c->scratch[i] - (x[i] - log_sum));
        fold_row(&c->out[0], r)[0] = loss;
    }
}
static void fold__softmax_kl_backward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const int n = fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        const float *t = fold_row(&c->in[1], r), g = fold_row(&c->dout[0], r)[0];
        float *d = fold_row(&c->din[0], r);
        fold__softmax_row(fold__engine_of(c)->k, d, fold_row(&c->in[0], r), (size_t)n);
        const float total = fold__sum(fold__engine_of(c)->k, t, (size_t)n);
        for (int i = 0; i < n; i++)
            d[i] = (d[i] * total - t[i]) * g;
    }
}
static void fold__bce_forward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r), *t = fold_row(&c->in[1], r);
        FOLD__MAP(c, softplus)(c->scratch, x, NULL, NULL, 0, n, 1, NULL);
        fold_row(&c->out[0], r)[0] = fold__sum(fold__engine_of(c)->k, c->scratch, n) - fold__engine_of(c)->k->dot(x, t, n);
    }
}
static void fold__bce_backward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        float *d = fold_row(&c->din[0], r);
        FOLD__MAP(c, sigmoid)(d, fold_row(&c->in[0], r), NULL, NULL, 0, n, 1, NULL);
        FOLD__MAP(c, sub)(d, d, fold_row(&c->in[1], r), NULL, 0, n, 1, NULL);
        FOLD__MAP(c, scale)(d, d, NULL, NULL, fold_row(&c->dout[0], r)[0], n, 1, NULL);
    }
}
static void fold__squared_error_forward(const fold_op_call *c)
{
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        FOLD__MAP(c, sub)(c->scratch, fold_row(&c->in[0], r), fold_row(&c->in[1], r), NULL, 0, n, 1, NULL);
        fold_row(&c->out[0], r)[0] = fold__engine_of(c)->k->dot(c->scratch, c->scratch, n);
    }
}
/* d of a loss of a - b: the same for a, negated for b; `slope` fills it for one row */
static void fold__difference_backward(const fold_op_call *c,
                                      void (*slope)(const fold_op_call *, size_t, float *))
{
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < c->rows && !fold__absent(&c->din[i]); r++) {
            float *d = fold_row(&c->din[i], r);
            FOLD__MAP(c, sub)
            (c->scratch, fold_row(&c->in[0], r), fold_row(&c->in[1], r), NULL, 0, n, 1, NULL);
            slope(c, n, c->scratch);
            FOLD__MAP(c, scale)
            (d, c->scratch, NULL, NULL, i ? -fold_row(&c->dout[0], r)[0] : fold_row(&c->dout[0], r)[0], n, 1,
             NULL);
        }
}
static void fold__squared_slope(const fold_op_call *c, size_t n, float *d)
{
    FOLD__MAP(c, scale)(d, d, NULL, NULL, 2.0f, n, 1, NULL);
}
static void fold__squared_error_backward(const fold_op_call *c)
{
    fold__difference_backward(c, fold__squared_slope);
}
static void fold__huber_forward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const int n = fold__in_size(c, 0);
    const float delta = fold__attr_float(c->attr[0]);
    for (int r = 0; r < c->rows; r++) {
        const float *a = fold_row(&c->in[0], r), *b = fold_row(&c->in[1], r);
        for (int i = 0; i < n; i++) {
            const float d = a[i] - b[i], size = d < 0 ? -d : d;
            c->scratch[i] = size <= delta ? 0.5f * d * d : delta * (size - 0.5f * delta);
        }
        fold_row(&c->out[0], r)[0] = fold__sum(fold__engine_of(c)->k, c->scratch, (size_t)n);
    }
}
static void fold__huber_slope(const fold_op_call *c, size_t n, float *d)
{
    const float delta = fold__attr_float(c->attr[0]);
    for (size_t i = 0; i < n; i++)
        d[i] = d[i] > delta ? delta : d[i] < -delta ? -delta : d[i];
}
static void fold__huber_backward(const fold_op_call *c) { fold__difference_backward(c, fold__huber_slope); }
static void fold__hinge_forward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r);
        const size_t label = (size_t)c->data[r * c->data_step];
        float loss = 0;
        for (size_t i = 0; i < n; i++) {
            const float margin = 1.0f + x[i] - x[label];
            if (i != label && margin > 0)
                loss += margin;
        }
        fold_row(&c->out[0], r)[0] = loss;
    }
}
static void fold__hinge_backward(const fold_op_call *c)
{
    FOLD__NO_CONTRACT
    const size_t n = (size_t)fold__in_size(c, 0);
    for (int r = 0; r < c->rows; r++) {
        const float *x = fold_row(&c->in[0], r), g = fold_row(&c->dout[0], r)[0];
        const size_t label = (size_t)c->data[r * c->data_step];
        float *d = fold_row(&c->din[0], r), count = 0;
        for (size_t i = 0; i < n; i++) {
            const int counts = i != label && 1.0f + x[i] - x[label] > 0;
            d[i] = counts ? g : 0;
            count += counts ? 1.0f : 0.0f;
        }
        d[label] = -count * g;
    }
}

/* -- the table ------------------------------------------------------------------------------- */

#define FOLD__IN FOLD_NEEDS_IN
#define FOLD__OUT FOLD_NEEDS_OUT
/* name, inputs, attributes, flags, what backward reads, shapes. Adding an op: a row and its two functions. */
#define FOLD__OPS(X)                                            \
    X(linear, -1, 4, FOLD__GEMM, FOLD__IN, linear)              \
    X(matmul, 2, 0, 0, FOLD__IN, matmul)                        \
    X(dot, 2, 0, 0, FOLD__IN, to_scalar)                        \
    X(add, 2, 0, FOLD__FLOW, 0, broadcast)                      \
    X(sub, 2, 0, FOLD__FLOW, 0, broadcast)                      \
    X(mul, 2, 0, 0, FOLD__IN, broadcast)                        \
    X(div, 2, 0, 0, FOLD__IN | FOLD__OUT, broadcast)            \
    X(min, 2, 0, 0, FOLD__IN, broadcast)                        \
    X(max, 2, 0, 0, FOLD__IN, broadcast)                        \
    X(scale, 1, 0, FOLD__FLOW | FOLD__DATA, 0, same)            \
    X(shift, 1, 0, FOLD__FLOW | FOLD__DATA, 0, same)            \
    X(neg, 1, 0, FOLD__FLOW, 0, same)                           \
    X(exp, 1, 0, 0, FOLD__OUT, same)                            \
    X(log, 1, 0, 0, FOLD__IN, same)                             \
    X(sqrt, 1, 0, 0, FOLD__OUT, same)                           \
    X(square, 1, 0, 0, FOLD__IN, same)                          \
    X(abs, 1, 0, 0, FOLD__IN, same)                             \
    X(sigmoid, 1, 0, 0, FOLD__OUT, same)                        \
    X(tanh, 1, 0, 0, FOLD__OUT, same)                           \
    X(relu, 1, 0, 0, FOLD__OUT, same)                           \
    X(leaky, 1, 1, 0, FOLD__IN, same)                           \
    X(gelu, 1, 0, 0, FOLD__IN, same)                            \
    X(softplus, 1, 0, 0, FOLD__IN, same)                        \
    X(softmax, 1, 0, 0, FOLD__OUT, same)                        \
    X(log_softmax, 1, 0, 0, FOLD__OUT, same)                    \
    X(sum, 1, 1, FOLD__FLOW, 0, axis)                           \
    X(mean, 1, 1, FOLD__FLOW, 0, axis)                          \
    X(amax, 1, 1, 0, FOLD__IN, axis)                            \
    X(layer_norm, 3, 0, 0, FOLD__IN, layer_norm)                \
    X(dropout, 1, 1, FOLD__RANDOM | FOLD__DATA, 0, same)        \
    X(sum_n, 1, 0, FOLD__LIST | FOLD__FLOW, 0, list)            \
    X(mean_n, 1, 0, FOLD__LIST | FOLD__FLOW, 0, list)           \
    X(max_n, 1, 0, FOLD__LIST, FOLD__IN | FOLD__OUT, list)      \
    X(attend_n, 2, 0, FOLD__LIST, FOLD__IN | FOLD__OUT, attend) \
    X(concat, -1, 1, FOLD__FLOW, 0, concat)                     \
    X(slice, 1, 3, FOLD__FLOW, 0, slice)                        \
    X(transpose, 1, 2, FOLD__FLOW, 0, transpose)                \
    X(pick, 1, 0, FOLD__FLOW | FOLD__DATA, 0, to_scalar)        \
    X(select, 3, 0, 0, FOLD__IN, equal)                         \
    X(copy, 1, 0, FOLD__FLOW, 0, same)                          \
    X(stop, 1, 0, FOLD__NO_GRAD, 0, same)                       \
    X(softmax_xent, 1, 0, FOLD__DATA, FOLD__IN, loss)           \
    X(softmax_kl, 2, 0, FOLD__NO_GRAD_1, FOLD__IN, loss)        \
    X(bce, 2, 0, FOLD__NO_GRAD_1, FOLD__IN, to_scalar)          \
    X(squared_error, 2, 0, 0, FOLD__IN, to_scalar)              \
    X(huber, 2, 1, 0, FOLD__IN, to_scalar)                      \
    X(hinge, 1, 0, FOLD__DATA, FOLD__IN, loss)

enum {
#define FOLD__ENUM(name, inputs, attrs, flags, needs, infer) FOLD__OP_##name,
    FOLD__OPS(FOLD__ENUM)
#undef FOLD__ENUM
        FOLD__OP_COUNT
};

static const fold__op_row fold__op_table[FOLD__OP_COUNT] = {
#define FOLD__ROW(name, inputs, attrs, flags, needs, infer)                                   \
    { { #name, inputs, 1, attrs, ((flags)&FOLD__LIST) != 0, 0, needs, 0, fold__infer_##infer, \
        fold__##name##_forward, fold__##name##_backward },                                    \
      flags },
    FOLD__OPS(FOLD__ROW)
#undef FOLD__ROW
};

/* The name of an attribute, for messages; NULL: it has none worth telling. */
static const char *fold__attr_name(uint32_t op, int i)
{
    static const char *const slice[] = { "axis", "start", "length" };
    switch (op) {
    case FOLD__OP_sum:
    case FOLD__OP_mean:
    case FOLD__OP_amax:
    case FOLD__OP_concat:
    case FOLD__OP_transpose: return "axis";
    case FOLD__OP_leaky: return "slope";
    case FOLD__OP_dropout: return "rate";
    case FOLD__OP_huber: return "delta";
    case FOLD__OP_slice: return slice[i];
    default: return NULL;
    }
}
static int fold__attr_is_float(uint32_t op)
{
    return op == FOLD__OP_leaky || op == FOLD__OP_dropout || op == FOLD__OP_huber;
}

/* Whether an op passes gradient to an input at all. */
static int fold__differentiable(const fold__op_row *op, int input)
{
    if ((op->flags & FOLD__NO_GRAD) || !op->def.backward)
        return 0;
    return !((op->flags & FOLD__NO_GRAD_1) && input == 1);
}

/* ==== room: model ===========================================================================
   Owns: parameters (values, gradients, optimiser state and packed weights, each one span), cells, user ops.
   Calls: kernels, op table, arena, errors. Must not know recordings. */

enum { /* arrays of a model */
       FOLD__M_PARAMS,
       FOLD__M_VALUES,
       FOLD__M_GRADS,
       FOLD__M_PACKS,
       FOLD__M_STATE1,
       FOLD__M_STATE2,
       FOLD__M_TOUCHED,
       FOLD__M_IS_TOUCHED,
       FOLD__M_CELLS,
       FOLD__M_OPS,
       FOLD__M_COUNT
};
enum { FOLD__RATE_SETS = 16, FOLD__SPAN_ALIGN = 16, FOLD__NORM_CHUNK = 1024, FOLD__STEP_ROWS = 32 };

struct fold_model {
    fold__arena arena;
    fold__array arrays[FOLD__M_COUNT];
    fold__error error;
    const fold__kernels *k;
    uint64_t seed;
    int inference;
    uint32_t salt;            /* of its handles */
    uint32_t version, layout; /* count writes of values; what is trained or not */
    uint32_t n_params, n_cells, n_ops;
    size_t span, packs, touched_rows; /* floats, floats, rows of lookup tables */
    uint64_t steps;                   /* of the optimiser */
    int rule;                         /* whose state it is: an enum fold__rule */
    float set_rate[FOLD__RATE_SETS], set_decay[FOLD__RATE_SETS];
    fold_ctx *tracer; /* traces cell bodies; made with the first cell */
};

static fold__param_data *fold__params(const fold_model *m)
{
    return (fold__param_data *)(void *)m->arrays[FOLD__M_PARAMS].p;
}
static float *fold__values(const fold_model *m) { return (float *)(void *)m->arrays[FOLD__M_VALUES].p; }
static float *fold__grads(const fold_model *m) { return (float *)(void *)m->arrays[FOLD__M_GRADS].p; }
static float *fold__packs(const fold_model *m) { return (float *)(void *)m->arrays[FOLD__M_PACKS].p; }
static uint32_t *fold__touched(const fold_model *m)
{
    return (uint32_t *)(void *)m->arrays[FOLD__M_TOUCHED].p;
}
static uint8_t *fold__is_touched(const fold_model *m) { return (uint8_t *)m->arrays[FOLD__M_IS_TOUCHED].p; }

static void fold__model_fail(fold_model *m, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static void fold__model_fail(fold_model *m, fold_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(&m->error, status, format, args);
    va_end(args);
}

FOLD_API fold_model_desc fold_model_desc_default(void)
{
    fold_model_desc d;
    memset(&d, 0, sizeof d);
    return d;
}

FOLD_API fold_model *fold_model_new(const fold_model_desc *desc)
{
    const fold_model_desc d = desc ? *desc : fold_model_desc_default();
    const fold_memory memory = fold__memory_or_default(&d.memory);
    const fold__kernels *k = fold__kernels_for(d.isa);
    if (!memory.alloc || !memory.free)
        return NULL;
    fold_model *m = (fold_model *)memory.alloc(sizeof *m, FOLD__ALIGN, memory.user);
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    m->arena.memory = memory;
    m->arena.array = m->arrays;
    m->arena.n = FOLD__M_COUNT;
    m->k = k ? k : fold__kernels_for(NULL);
    if (!k)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "isa '%s' is unknown, or not available here; '%s' is", d.isa,
                         m->k->name);
    m->seed = d.seed;
    m->inference = d.inference;
    m->salt = (uint32_t)fold__mix64((uint64_t)(uintptr_t)m ^ 0x51ed2701u) | 1u;
    for (int i = 0; i < FOLD__RATE_SETS; i++)
        m->set_rate[i] = m->set_decay[i] = 1;
    return m;
}

static void fold__release(fold_model *m, void *p, size_t size)
{
    if (p)
        m->arena.memory.free(p, size, m->arena.memory.user);
}
static void fold__cells_free(fold_model *m);

FOLD_API void fold_model_free(fold_model *m)
{
    if (!m)
        return;
    fold_ctx_free(m->tracer);
    fold__cells_free(m);
    for (uint32_t i = 0; i < m->n_params; i++)
        fold__release(m, fold__params(m)[i].name, strlen(fold__params(m)[i].name) + 1);
    fold__arena_free(&m->arena);
    const fold_memory memory = m->arena.memory;
    memory.free(m, sizeof *m, memory.user);
}

FOLD_API fold_status fold_model_status(const fold_model *m) { return m->error.status; }
FOLD_API const char *fold_model_message(const fold_model *m) { return m->error.text; }
FOLD_API void fold_model_clear_error(fold_model *m)
{
    fold__clear_error(&m->error);
}
FOLD_API const char *fold_model_isa(const fold_model *m) { return m->k->name; }

/* NULL for handles that are null or another model's. */
static fold__param_data *fold__param_of(const fold_model *m, fold_param p)
{
    if (!p.id || p.salt != m->salt || p.id > m->n_params)
        return NULL;
    return &fold__params(m)[p.id - 1];
}
static int fold__trainable(const fold_model *m, const fold__param_data *p)
{
    return !m->inference && !p->frozen && !p->buffer;
}

static const fold__op_row *fold__op_of(const fold_model *m, uint32_t op)
{
    return op < FOLD__OP_COUNT
               ? &fold__op_table[op]
               : (const fold__op_row *)(void *)m->arrays[FOLD__M_OPS].p + (op - FOLD__OP_COUNT);
}

/* -- initial values -------------------------------------------------------------------------- */

typedef struct fold__random {
    uint64_t state;
} fold__random; /* splitmix64 (Steele et al. 2014) */
static uint64_t fold__random_next(fold__random *r)
{
    return fold__mix64(r->state += UINT64_C(0x9e3779b97f4a7c15));
}
static double fold__random_unit(fold__random *r)
{
    return (double)(fold__random_next(r) >> 11) / 9007199254740992.0;
}

/* -2 log(x) for x in (0, 1], to about 11 digits: x = 2^e m, log m = 2 artanh((m - 1) / (m + 1)). */
static double fold__minus_2_log(double x)
{
    FOLD__NO_CONTRACT
    uint64_t bits, e;
    double m, t, t2, p = 1.0 / 11;
    memcpy(&bits, &x, sizeof bits);
    e = (bits + (UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e667f3bcd))) >>
        52; /* so that m is in sqrt(1/2) .. sqrt(2) */
    bits -= (e - 1023) << 52;
    memcpy(&m, &bits, sizeof m);
    t = (m - 1) / (m + 1);
    t2 = t * t;
    p = p * t2 + 1.0 / 9;
    p = p * t2 + 1.0 / 7;
    p = p * t2 + 1.0 / 5;
    p = p * t2 + 1.0 / 3;
    p = p * t2 + 1;
    return -2 * ((double)((int)e - 1023) * 0.69314718055994530942 + 2 * t * p);
}

/* Two normal values by the method of Box and Muller (1958). Plain arithmetic alone: they are the same on
   every platform. The angle is one of an eighth of a turn either side of the axis; a bit each turns it by
   half and exchanges the two values. */
static void fold__random_normals(fold__random *r, float scale, float out[2])
{
    FOLD__NO_CONTRACT
    const uint64_t z = fold__random_next(r);
    const double radius = sqrt(fold__minus_2_log(((double)(uint32_t)(z >> 32) + 0.5) / 4294967296.0));
    const double x = ((double)(uint32_t)(z & 0x3fffffffu) + 0.5 - 536870912.0) *
                     (1.57079632679489661923 / 1073741824.0),
                 x2 = x * x;
    double s = 1.0 / 362880, c = -1.0 / 3628800;
    const int turned = z >> 31 & 1, exchanged = z >> 30 & 1;
    s = s * x2 - 1.0 / 5040;
    s = s * x2 + 1.0 / 120;
    s = s * x2 - 1.0 / 6;
    s = (s * x2 + 1) * x;
    c = c * x2 + 1.0 / 40320;
    c = c * x2 - 1.0 / 720;
    c = c * x2 + 1.0 / 24;
    c = c * x2 - 0.5;
    c = c * x2 + 1;
    out[exchanged] = scale * (float)(radius * c * (turned ? -1 : 1));
    out[!exchanged] = scale * (float)(radius * s);
}

/* Orthonormal vectors along the shorter side by modified Gram-Schmidt, in double. */
static void fold__orthogonalise(float *w, size_t rows, size_t columns, float gain)
{
    FOLD__NO_CONTRACT
    const size_t n = fold__min_size(rows, columns), length = fold__max_size(rows, columns);
    const size_t step = rows <= columns ? columns : 1, within = rows <= columns ? 1 : columns;
    for (size_t i = 0; i < n; i++) {
        for (int pass = 0; pass < 2; pass++) /* twice is enough (Kahan and Parlett) */
            for (size_t j = 0; j < i; j++) {
                double dot = 0;
                for (size_t t = 0; t < length; t++)
                    dot += (double)w[i * step + t * within] * (double)w[j * step + t * within];
                for (size_t t = 0; t < length; t++)
                    w[i * step + t * within] -= (float)(dot * (double)w[j * step + t * within]);
            }
        double norm = 0;
        for (size_t t = 0; t < length; t++)
            norm += (double)w[i * step + t * within] * (double)w[i * step + t * within];
        norm = 1 / sqrt(norm);
        for (size_t t = 0; t < length; t++)
            w[i * step + t * within] = (float)((double)w[i * step + t * within] * norm);
    }
    for (size_t i = 0; i < rows * columns; i++)
        w[i] *= gain;
}

static void fold__initialise(fold_model *m, float *w, const fold_param_desc *d, uint64_t stream)
{
    FOLD__NO_CONTRACT
    const size_t size = (size_t)fold__shape_size(&d->shape), columns = (size_t)fold__shape_last(&d->shape),
                 rows = size / columns;
    const float gain = d->init_scale == 0 ? 1 : d->init_scale;
    fold__random r = { fold__mix64(m->seed ^ fold__mix64(stream + 1)) };
    float bound = d->init_scale;
    switch (d->init) {
    case FOLD_INIT_ZEROS: memset(w, 0, size * sizeof *w); return;
    case FOLD_INIT_CONSTANT:
        for (size_t i = 0; i < size; i++)
            w[i] = d->init_scale;
        return;
    case FOLD_INIT_GLOROT: bound = gain * (float)sqrt(6.0 / (double)(rows + columns)); break;
    case FOLD_INIT_HE: bound = gain * (float)sqrt(2.0 / (double)rows); break;
    case FOLD_INIT_ORTHOGONAL: bound = 1; break;
    case FOLD_INIT_UNIFORM:
    case FOLD_INIT_NORMAL: break;
    }
    const int uniform = d->init == FOLD_INIT_UNIFORM || d->init == FOLD_INIT_GLOROT;
    for (size_t i = 0; i < size && uniform; i++)
        w[i] = bound * (float)(2 * fold__random_unit(&r) - 1);
    for (size_t i = 0; i < size && !uniform; i += 2) {
        float two[2];
        fold__random_normals(&r, bound, two);
        memcpy(w + i, two, (size - i < 2 ? 1 : 2) * sizeof *w);
    }
    if (d->init == FOLD_INIT_ORTHOGONAL)
        fold__orthogonalise(w, rows, columns, gain);
}

/* -- parameters ------------------------------------------------------------------------------ */

/* Packs are refreshed by whoever writes values, never by readers. A bias is its own pack. `which`: 1 the
 * weight, 2 its transpose. */
static void fold__pack_part(fold_model *m, const fold__param_data *p, unsigned which, int first, int count)
{
    const float *w = fold__values(m) + p->at;
    float *packs = fold__packs(m);
    if (p->shape.rank == 1)
        memcpy(packs + p->pack + first, w + first, (size_t)count * sizeof *w);
    else if ((which & 1) && p->pack != FOLD__NO_PACK)
        m->k->pack(packs + p->pack, w, p->shape.dim[0], p->shape.dim[1], 0, first, count);
    if ((which & 2) && p->pack_t != FOLD__NO_PACK)
        m->k->pack(packs + p->pack_t, w, p->shape.dim[1], p->shape.dim[0], 1, first, count);
}
static void fold__refresh_rows(fold_model *m, const fold__param_data *p, int first, int count)
{
    fold__pack_part(m, p, p->back_idle ? p->uses : 3, first, count);
}
static void fold__refresh_packs(fold_model *m, const fold__param_data *p)
{
    fold__refresh_rows(m, p, 0, p->shape.dim[0]);
}

/* Before the first gradient of an input: from now on the pack it reads is kept. Many weights never need it (a
   first layer's). param counts from 1; 0 is none. */
static void fold__keep_back_pack(fold_model *m, uint32_t param)
{
    fold__param_data *p = param ? &fold__params(m)[param - 1] : NULL;
    if (!p || !p->back_idle)
        return;
    p->back_idle = 0;
    fold__pack_part(m, p, ~p->uses, 0, p->shape.dim[0]);
}

static int fold__wants_pack(const fold_model *m, unsigned uses, unsigned direct, unsigned other)
{
    return (uses & direct) || (!m->inference && (uses & other));
}

/* Reserves the spans a new parameter needs; 0 when there is no memory. */
static int fold__param_reserve(fold_model *m, const fold__param_data *p, size_t pack_floats)
{
    const size_t span = p->at + fold__round_up(p->size, FOLD__SPAN_ALIGN),
                 bytes = fold__size(span, sizeof(float), 0);
    const size_t rows = (p->uses & FOLD_FOR_LOOKUP) ? (size_t)p->shape.dim[0] : 0;
    fold__arena *a = &m->arena;
    if (!fold__arena_need(a, FOLD__M_PARAMS, (m->n_params + 1) * sizeof *p))
        return 0;
    if (!fold__arena_need(a, FOLD__M_VALUES, bytes))
        return 0;
    if (!m->inference && !fold__arena_need(a, FOLD__M_GRADS, bytes))
        return 0;
    if (!fold__arena_need(a, FOLD__M_PACKS, fold__size(m->packs + pack_floats, sizeof(float), 0)))
        return 0;
    if (!fold__arena_need(a, FOLD__M_TOUCHED, (m->touched_rows + rows) * sizeof(uint32_t)))
        return 0;
    if (!fold__arena_need(a, FOLD__M_IS_TOUCHED, m->touched_rows + rows))
        return 0;
    return 1;
}

static const char *fold__param_problem(const fold_model *m, const fold_param_desc *d)
{
    if (!d->name || !d->name[0])
        return "a parameter needs a name";
    if (!fold__shape_ok(&d->shape))
        return "its shape has no rank 1 to 4, or a dimension below 1";
    if (d->rate_set < 0 || d->rate_set >= FOLD__RATE_SETS)
        return "its rate_set is not in 0..15";
    if (m->span + (size_t)fold__shape_size(&d->shape) > INT_MAX - FOLD__SPAN_ALIGN)
        return "a model holds at most 2147483647 values";
    if (fold_param_find(m, d->name).id)
        return "there is a parameter of that name already";
    if ((d->uses & (FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T)) && d->shape.rank != 2)
        return "a weight of linear ops must have rank 2";
    return NULL;
}

FOLD_API fold_param_desc fold_param_desc_default(void)
{
    fold_param_desc d;
    memset(&d, 0, sizeof d);
    return d;
}

FOLD_API fold_param fold_param_new(fold_model *m, const fold_param_desc *d)
{
    fold_param none = { 0, 0 };
    if (!m || m->error.status)
        return none;
    const char *problem = d ? fold__param_problem(m, d) : "no description";
    if (problem) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "parameter '%s': %s", d && d->name ? d->name : "", problem);
        return none;
    }
    fold__param_data p;
    memset(&p, 0, sizeof p);
    p.shape = d->shape;
    p.size = (size_t)fold__shape_size(&d->shape);
    p.uses = d->uses ? d->uses : d->shape.rank == 2 ? (unsigned)FOLD_FOR_LINEAR : 0;
    p.frozen = d->frozen;
    p.buffer = d->buffer;
    p.rate_set = d->rate_set;
    p.zeros_by_default = d->init == FOLD_INIT_ZEROS && !d->values;
    p.grad_clear = 1;
    p.at = m->span;
    p.touched_at = m->touched_rows;
    p.pack = p.pack_t = FOLD__NO_PACK;
    size_t packs = m->packs;
    if (p.shape.rank == 1) {
        p.pack = packs;
        packs += fold__round_up(p.size, FOLD__SPAN_ALIGN);
    }
    const unsigned uses = p.shape.rank == 2 ? p.uses : 0;
    if (fold__wants_pack(m, uses, FOLD_FOR_LINEAR, FOLD_FOR_LINEAR_T)) {
        p.pack = packs;
        packs += fold__round_up(fold__pack_floats(m->k, p.shape.dim[0], p.shape.dim[1]), FOLD__SPAN_ALIGN);
    }
    if (fold__wants_pack(m, uses, FOLD_FOR_LINEAR_T, FOLD_FOR_LINEAR)) {
        p.pack_t = packs;
        packs += fold__round_up(fold__pack_floats(m->k, p.shape.dim[1], p.shape.dim[0]), FOLD__SPAN_ALIGN);
    }
    p.back_idle = !(uses & FOLD_FOR_LINEAR) != !(uses & FOLD_FOR_LINEAR_T);
    const size_t length = strlen(d->name) + 1;
    p.name = (char *)m->arena.memory.alloc(length, FOLD__ALIGN, m->arena.memory.user);
    if (!p.name || !fold__param_reserve(m, &p, packs - m->packs)) {
        fold__release(m, p.name, length);
        fold__model_fail(m, FOLD_NO_MEMORY, "parameter '%s': out of memory", d->name);
        return none;
    }
    memcpy(p.name, d->name, length);
    const size_t padded = fold__round_up(p.size, FOLD__SPAN_ALIGN);
    memset(fold__values(m) + p.at, 0, padded * sizeof(float));
    if (!m->inference)
        memset(fold__grads(m) + p.at, 0, padded * sizeof(float));
    if (d->values)
        memcpy(fold__values(m) + p.at, d->values, p.size * sizeof(float));
    else
        fold__initialise(m, fold__values(m) + p.at, d, m->n_params);
    if (p.uses & FOLD_FOR_LOOKUP) {
        memset(fold__is_touched(m) + m->touched_rows, 0, (size_t)p.shape.dim[0]);
        m->touched_rows += (size_t)p.shape.dim[0];
    }
    m->packs = packs;
    m->span += padded;
    fold__params(m)[m->n_params++] = p;
    m->layout++;
    fold__refresh_packs(m, &p);
    const fold_param handle = { m->n_params, m->salt };
    return handle;
}

static fold_param fold__param_simple(fold_model *m, const char *name, fold_shape shape, fold_init init,
                                     float scale, unsigned uses)
{
    fold_param_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.shape = shape;
    d.init = init;
    d.init_scale = scale;
    d.uses = uses;
    return fold_param_new(m, &d);
}
FOLD_API fold_param fold_weight_new(fold_model *m, const char *name, int inputs, int outputs)
{
    return fold__param_simple(m, name, fold_shape2(inputs, outputs), FOLD_INIT_GLOROT, 1, FOLD_FOR_LINEAR);
}
FOLD_API fold_param fold_bias_new(fold_model *m, const char *name, int n)
{
    return fold__param_simple(m, name, fold_shape1(n), FOLD_INIT_ZEROS, 0, 0);
}
FOLD_API fold_param fold_gain_new(fold_model *m, const char *name, int n)
{
    return fold__param_simple(m, name, fold_shape1(n), FOLD_INIT_CONSTANT, 1, 0);
}
FOLD_API fold_param fold_table_new(fold_model *m, const char *name, int rows, int width)
{
    return fold__param_simple(m, name, fold_shape2(rows, width), FOLD_INIT_NORMAL, 0.1f, FOLD_FOR_LOOKUP);
}

FOLD_API int fold_param_count(const fold_model *m) { return (int)m->n_params; }
FOLD_API fold_param fold_param_at(const fold_model *m, int index)
{
    fold_param p = { 0, 0 };
    if (index >= 0 && (uint32_t)index < m->n_params) {
        p.id = (uint32_t)index + 1;
        p.salt = m->salt;
    }
    return p;
}
FOLD_API fold_param fold_param_find(const fold_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_params; i++)
        if (!strcmp(fold__params(m)[i].name, name))
            return fold_param_at(m, (int)i);
    return fold_param_at(m, -1);
}
FOLD_API const char *fold_param_name(const fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    return d ? d->name : "";
}
FOLD_API fold_shape fold_param_shape(const fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    fold_shape none = { 0, { 0, 0, 0, 0 } };
    return d ? d->shape : none;
}
FOLD_API void fold_param_freeze(fold_model *m, fold_param p, int frozen)
{
    fold__param_data *d = fold__param_of(m, p);
    if (d) {
        d->frozen = frozen;
        m->layout++;
    } else
        fold__model_fail(m, FOLD_BAD_HANDLE, "fold_param_freeze: not a parameter of this model");
}
FOLD_API const float *fold_param_value(const fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    return d ? fold__values(m) + d->at : NULL;
}
FOLD_API const float *fold_param_grad(const fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    return d && !m->inference ? fold__grads(m) + d->at : NULL;
}
FOLD_API float *fold_values_write_begin(fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    return d ? fold__values(m) + d->at : p.id ? NULL : fold__values(m);
}
FOLD_API void fold_values_write_end(fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    for (uint32_t i = 0; i < m->n_params; i++)
        if (!p.id || d == &fold__params(m)[i])
            fold__refresh_packs(m, &fold__params(m)[i]);
    m->version++;
}
FOLD_API const float *fold_model_values(const fold_model *m, int *count)
{
    if (count)
        *count = (int)m->span;
    return fold__values(m);
}
FOLD_API const float *fold_model_grads(const fold_model *m, int *count)
{
    if (count)
        *count = m->inference ? 0 : (int)m->span;
    return m->inference ? NULL : fold__grads(m);
}
FOLD_API void fold_model_scale_rates(fold_model *m, int rate_set, float rate, float decay)
{
    if (rate_set < 0 || rate_set >= FOLD__RATE_SETS) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "fold_model_scale_rates: rate set %d is not in 0..15",
                         rate_set);
        return;
    }
    m->set_rate[rate_set] = rate;
    m->set_decay[rate_set] = decay;
}

/* -- gradients ------------------------------------------------------------------------------- */

static void fold__touch_row(fold_model *m, fold__param_data *p, uint32_t row)
{
    uint8_t *is = fold__is_touched(m) + p->touched_at;
    if (is[row])
        return;
    is[row] = 1;
    fold__touched(m)[p->touched_at + p->touched++] = row;
}

static int fold__is_sparse(const fold__param_data *p)
{
    return (p->uses & FOLD_FOR_LOOKUP) && !p->grad_dense;
}

/* Notes that a gradient is zero again. */
static void fold__forget_grad(fold_model *m, fold__param_data *p)
{
    for (uint32_t i = 0; i < p->touched; i++)
        fold__is_touched(m)[p->touched_at + fold__touched(m)[p->touched_at + i]] = 0;
    p->touched = 0;
    p->grad_dense = 0;
    p->grad_clear = 1;
}

/* Nothing wrote it since it was cleared. */
static int fold__grad_is_zero(const fold__param_data *p) { return p->grad_clear && !p->touched; }

static void fold__clear_grad(fold_model *m, fold__param_data *p)
{
    if (fold__grad_is_zero(p))
        return;
    float *g = fold__grads(m) + p->at;
    const size_t width = p->size / (size_t)p->shape.dim[0];
    if (!fold__is_sparse(p))
        memset(g, 0, p->size * sizeof *g);
    else
        for (uint32_t i = 0; i < p->touched; i++)
            memset(g + fold__touched(m)[p->touched_at + i] * width, 0, width * sizeof *g);
    fold__forget_grad(m, p);
}

FOLD_API float *fold_grads_write_begin(fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    if (m->inference || (p.id && !d))
        return NULL;
    return fold__grads(m) + (d ? d->at : 0);
}

/* Notes that a gradient was written: rows of a lookup table that are not zero count as touched. */
static void fold__note_grad(fold_model *m, fold__param_data *p)
{
    const size_t width = p->size / (size_t)p->shape.dim[0];
    const float *g = fold__grads(m) + p->at;
    p->grad_clear = 0;
    for (size_t at = 0; at < p->size && fold__is_sparse(p); at++)
        if (g[at] != 0)
            fold__touch_row(m, p, (uint32_t)(at / width));
}
FOLD_API void fold_grads_write_end(fold_model *m, fold_param p)
{
    const fold__param_data *d = fold__param_of(m, p);
    for (uint32_t i = 0; i < m->n_params && !m->inference; i++)
        if (!p.id || d == &fold__params(m)[i])
            fold__note_grad(m, &fold__params(m)[i]);
}

FOLD_API void fold_grads_clear(fold_model *m)
{
    for (uint32_t i = 0; i < m->n_params && !m->inference; i++)
        fold__clear_grad(m, &fold__params(m)[i]);
}

/* ==== room: recording and signatures ========================================================
   Owns: nodes and their operands as struct of arrays, the table of signatures and their programs, the rules
   of handles. Calls: model, op table, arena, errors. Must not know schedules or execution, except that an
   eager context runs each op as soon as it is recorded. */

enum { /* arrays of a context */
       FOLD__C_SIG,
       FOLD__C_KIND,
       FOLD__C_EDGE0,
       FOLD__C_SRC,
       FOLD__C_OFF,
       FOLD__C_SHAPE,
       FOLD__C_PLACE,
       FOLD__C_NODE_DATA,
       FOLD__C_VAL,
       FOLD__C_CALLS,
       FOLD__C_ESRC,
       FOLD__C_EOFF,
       FOLD__C_DATA,
       FOLD__C_USE_NODE,
       FOLD__C_TWINS,
       FOLD__C_FOUND,
       FOLD__C_KEPT_GRADS,
       FOLD__C_STEPS,
       FOLD__C_SIGS,
       FOLD__C_SIG_TABLE,
       FOLD__C_KEYS,
       FOLD__C_SHAPES,
       FOLD__C_OPS,
       FOLD__C_REFS,
       FOLD__C_OP_SHAPES,
       FOLD__C_VALUES,
       /* of a run */
       FOLD__C_NODE_WORDS,
       FOLD__C_KNOWN,
       FOLD__C_ANALYSES,
       FOLD__C_FORMS,
       FOLD__C_INFO,
       FOLD__C_BATCHES,
       FOLD__C_GROUPS,
       FOLD__C_GSIGS,
       FOLD__C_BUFS,
       FOLD__C_USES,
       FOLD__C_PLANS,
       FOLD__C_WORKERS,
       FOLD__C_SCHEDULE,
       FOLD__C_FEEDS,
       FOLD__C_REGION,
       FOLD__C_SCRATCH,
       FOLD__C_ACC,
       FOLD__C_TABLE_ROWS,
       FOLD__C_LOOK,
       FOLD__C_TRACE,
       FOLD__C_COUNT
};

/* What a node is: the low three bits of its kind, and flags beside them. It is one enum because C++20 warns
   where constants of two are joined. */
enum {
    FOLD__OP,
    FOLD__EXTRA,
    FOLD__WINDOW,
    FOLD__INPUT,
    FOLD__REF,
    FOLD__LOOKUP,
    FOLD__PARAM,
    FOLD__ELEMS,
    FOLD__KIND_MASK = 7,
    FOLD__ELEM = 8,    /* traced: one value per list element */
    FOLD__SHARED = 16, /* one value for all rows of a batch */
    FOLD__DONE = 32,   /* its value lies in the recording's data, at `place` */
    FOLD__KEEP = 64,   /* keep its value when it runs */
    FOLD__KEEP_GRAD = 128
};

/* Where a program's op finds an operand: a value of the program, a fixed input, a component of the list's
   elements, or a parameter; `off` floats into it. */
enum { FOLD__FROM_VALUE, FOLD__FROM_INPUT, FOLD__FROM_LIST, FOLD__FROM_PARAM };
typedef struct fold__ref {
    uint32_t kind, index, off;
} fold__ref;

/* One op of a program. Refs, shapes (inputs, then outputs) and values are ranges of the program's. */
typedef struct fold__body_op {
    uint32_t op, ref0, shape0, value0;
    uint8_t n_in, n_out, elem, uses_dropout;
    int32_t attr[4];
    uint32_t param[2]; /* id, 0: none */
    uint64_t data;     /* constant data; of dropout: the ordinal of the draw */
} fold__body_op;
/* passes: some output's gradient reaches it. */
typedef struct fold__value {
    uint32_t size, op;
    uint8_t elem, passes;
} fold__value;

/* What a signature runs: one op, or a cell's body. Everything after recording sees only programs. */
typedef struct fold__program {
    int n_ops, n_refs, n_values, n_in, n_list, n_out, n_draws, is_cell;
    const fold__body_op *op;
    const fold__ref *ref;
    const fold_shape *shape;
    const fold__value *value;
    const fold__ref *out; /* FROM_VALUE, whole values, each once */
} fold__program;

typedef struct fold__trace_op {
    uint32_t op, hash;
    int live;
} fold__trace_op; /* as recorded, to compare eager calls; live: in the program */
/* A layer's cell once more, given an input's products instead of the input: what contexts that merge
   identical calls record for a looked-up word. cell null: there is none. */
typedef struct fold__projection {
    fold_cell cell;
    fold_param W[2], b[2]; /* of its products */
} fold__projection;

typedef struct fold__cell_data {
    char *name;
    void *user;
    fold_cell_desc desc;
    fold__program program;
    fold__trace_op *trace;
    int n_trace, n_values_out;
    fold_shape out[FOLD_MAX_OUT];
    int max_of_list;  /* an empty list is an error */
    fold__projection projection;
    int is_projected; /* it is another's projection: fold_model_print does not list it */
    void *memory;    /* one block behind all of the above */
    size_t memory_size;
} fold__cell_data;

static fold__cell_data *fold__cells(const fold_model *m)
{
    return (fold__cell_data *)(void *)m->arrays[FOLD__M_CELLS].p;
}

#define FOLD__CELL_OP 0x8000u /* key word: op ids from here on are cells */

/* A signature: the key (compared in full) and what follows from it. Key: op and inputs, attributes,
   parameters, input shapes, shared operands, tag. */
typedef struct fold__sig {
    uint32_t key, key_words, hash;
    uint32_t op;                        /* or FOLD__CELL_OP | cell */
    uint32_t shared;                    /* mask of shared inputs */
    uint32_t tag_cell, tag_op;          /* eager and traced bodies: whose op this is (1 + ordinal); else 0 */
    uint32_t op0, ref0, shape0, value0; /* its program, in the context's pools; cells' are the model's */
    uint32_t in_shape;                  /* key word of the first input's shape */
    uint8_t n_in, n_list, n_out, is_cell;
    uint64_t differentiable; /* mask of fixed inputs, then list components */
    uint32_t out_shape[FOLD_MAX_OUT];
} fold__sig;

typedef struct fold__shape_entry {
    fold_shape s;
    uint32_t size;
} fold__shape_entry;
typedef struct fold__kept_grad {
    uint32_t node, place, filled;
} fold__kept_grad;

/* Sets of kinds, with bit `kind` for each, flags ELEM and SHARED included: those of values per list element
   while tracing, and those of the markers that stand for them in an eager body. */
#define FOLD__KINDS_PER_ELEMENT 0xff00ff00u
#define FOLD__KINDS_MARKER 0x80808080u

/* An operand: floats from `off` of value `src`. */
typedef struct fold__operand {
    uint32_t src, off, shape;
    uint8_t kind;
} fold__operand;

/* The eager or traced body being recorded. */
typedef struct fold__frame {
    uint32_t cell,
        tag; /* 1 + id, 0: none; what tells its ops from those of other calls: the call's signature */
    uint32_t ordinal;  /* ops recorded so far */
    uint32_t elements; /* eager: length of the list */
    int tracing;
    uint32_t hash; /* of the op about to be recorded */
    int list_max;  /* the maximum over the list was taken */
} fold__frame;

/* A batch in a trace; kind: forward, backward, and what of a cell runs first. */
enum { FOLD__EVENT_FORWARD, FOLD__EVENT_BACKWARD, FOLD__EVENT_PROLOGUE = 2 };
typedef struct fold__event {
    uint64_t start, end;
    uint32_t sig, calls, group, kind;
} fold__event;

/* with fewer rows a batch, weights are read too often */
enum { FOLD__RECENT = 64, FOLD__RECENT_SHAPES = 32, FOLD__GROUP_ROWS = 12, FOLD__MOST_ROWS = 64 };
struct fold_ctx {
    fold__arena arena;
    fold__array arrays[FOLD__C_COUNT];
    fold_model *model;
    fold__error error, read_error; /* the latter: of the last read, which does not stick */
    int training, eager, dedupe;
    fold_schedule schedule;
    size_t group_bytes, group_rows; /* of a group at least, on average of its batches */
    uint64_t (*clock)(void *user);
    void *clock_user;
    size_t trace_events; /* of each thread, at most */
    int threads;
    fold_parallel_for *parallel_for;
    void *pool;
    uint32_t epoch;
    uint64_t resets, seed, draws, moves; /* moves: of arrays */
    /* the recording */
    uint32_t n_nodes, n_edges, n_calls, node_cap, edge_cap; /* node ids start at 1 */
    size_t data_used;                                       /* floats */
    uint32_t *sig, *edge0, *src, *off, *shape, *place, *calls, *esrc,
        *eoff; /* calls: the nodes that are ops, in order */
    uint8_t *kind;
    uint64_t *node_data;
    float **val;
    uint32_t n_keeps, n_kept_grads, twins_used, twins_size, n_found;
    int kept_concats;      /* some gradient is kept of a concatenation */
    uint32_t done_version; /* of the model, when kept values were computed */
    int any_done;
    int values_shown; /* the caller was given the address of a value of this recording */
    /* signatures */
    uint32_t n_sigs, n_shapes, table_size, keys_used, ops_used, refs_used, op_shapes_used, values_used;
    uint32_t sig_tables; /* how often signatures were forgotten */
    uint64_t forgot_at;  /* the reset since which idle signatures were forgotten */
    int pinned;          /* signatures are in use beside the recording: none may be forgotten */
    size_t block_peak;   /* bytes of the block that a recording before the reset would have needed */
    size_t lacking;      /* bytes that this recording was refused */
    uint32_t recent[FOLD__RECENT]; /* signatures, by what is quick to tell of a request; 0: none */
    uint32_t recent_shape[FOLD__RECENT_SHAPES]; /* by first dimension */
    uint32_t row_of, row_shape;                 /* the table looked into last (0: none) and its rows' shape */
    fold__frame frame;
    fold_stats stats;
    /* of a run: see the planner */
    struct fold__run *run;
};

static fold__sig *fold__sigs(const fold_ctx *f) { return (fold__sig *)(void *)f->arrays[FOLD__C_SIGS].p; }
static size_t fold__ctx_bytes(void);
static uint32_t *fold__keys(const fold_ctx *f) { return (uint32_t *)(void *)f->arrays[FOLD__C_KEYS].p; }
static fold__shape_entry *fold__shapes(const fold_ctx *f)
{
    return (fold__shape_entry *)(void *)f->arrays[FOLD__C_SHAPES].p;
}
static float *fold__data(const fold_ctx *f) { return (float *)(void *)f->arrays[FOLD__C_DATA].p; }
static fold__kept_grad *fold__kept_grads(const fold_ctx *f)
{
    return (fold__kept_grad *)(void *)f->arrays[FOLD__C_KEPT_GRADS].p;
}

static void fold__fail(fold_ctx *f, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static void fold__fail(fold_ctx *f, fold_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(&f->error, status, format, args);
    va_end(args);
}
static int fold__broken(const fold_ctx *f) { return f->error.status || f->model->error.status; }

/* The typed pointers of the hot arrays, renewed whenever arrays may have moved. */
static void fold__renew(fold_ctx *f)
{
    fold__array *a = f->arrays;
    f->sig = (uint32_t *)(void *)a[FOLD__C_SIG].p;
    f->kind = (uint8_t *)a[FOLD__C_KIND].p;
    f->edge0 = (uint32_t *)(void *)a[FOLD__C_EDGE0].p;
    f->src = (uint32_t *)(void *)a[FOLD__C_SRC].p;
    f->off = (uint32_t *)(void *)a[FOLD__C_OFF].p;
    f->shape = (uint32_t *)(void *)a[FOLD__C_SHAPE].p;
    f->place = (uint32_t *)(void *)a[FOLD__C_PLACE].p;
    f->node_data = (uint64_t *)(void *)a[FOLD__C_NODE_DATA].p;
    f->val = (float **)(void *)a[FOLD__C_VAL].p;
    f->calls = (uint32_t *)(void *)a[FOLD__C_CALLS].p;
    f->esrc = (uint32_t *)(void *)a[FOLD__C_ESRC].p;
    f->eoff = (uint32_t *)(void *)a[FOLD__C_EOFF].p;
}

/* Bytes in use of the node and edge arrays, which fill their slack without asking. */
enum { FOLD__NODE_ARRAYS = 10 };
static const uint8_t fold__node_bytes[FOLD__NODE_ARRAYS] = {
    4, 1, 4, 4, 4, 4, 4, 8, sizeof(float *), 4
}; /* FOLD__C_SIG … FOLD__C_CALLS */
static size_t fold__array_use(const fold_ctx *f, int which)
{
    const int node = which - FOLD__C_SIG;
    size_t use = f->arrays[which].need;
    if (node >= 0 && node < FOLD__NODE_ARRAYS)
        use = fold__max_size(use, ((size_t)f->n_nodes + 2) * fold__node_bytes[node]);
    if (which == FOLD__C_ESRC || which == FOLD__C_EOFF)
        use = fold__max_size(use, (size_t)f->n_edges * 4);
    return use;
}
static void fold__note_use(fold_ctx *f)
{
    for (int i = FOLD__C_SIG; i <= FOLD__C_EOFF; i++)
        f->arrays[i].need = fold__array_use(f, i); /* others ask for what they use */
}

static uint32_t fold__capacity(const fold_ctx *f, int which, size_t size)
{
    return (uint32_t)fold__min_size(f->arrays[which].capacity / size, FOLD__NONE / 2);
}

/* How many nodes and edges fit without asking again: growing one array can take slack from others. */
static void fold__note_room(fold_ctx *f)
{
    uint32_t nodes = FOLD__NONE;
    for (int i = 0; i < FOLD__NODE_ARRAYS; i++) {
        const uint32_t fit = fold__capacity(f, FOLD__C_SIG + i, fold__node_bytes[i]);
        nodes = fit < nodes ? fit : nodes;
    }
    const uint32_t a = fold__capacity(f, FOLD__C_ESRC, 4), b = fold__capacity(f, FOLD__C_EOFF, 4);
    f->node_cap = nodes < 2 ? 0 : nodes - 2;
    f->edge_cap = a < b ? a : b;
}

/* The size of a block that holds the context and all that was asked for since the reset. */
static size_t fold__block_bytes(const fold_ctx *f)
{
    size_t bytes = fold__ctx_bytes() + f->lacking;
    for (int i = 0; i < FOLD__C_COUNT; i++)
        bytes += fold__round_up(fold__array_use(f, i), FOLD__ALIGN);
    return bytes;
}

/* whole: nothing more than what was asked for is needed. */
static int fold__out_of_memory(fold_ctx *f, int whole)
{
    if (!f->arena.block)
        fold__fail(f, FOLD_NO_MEMORY,
                   "out of memory: the allocator gave none; this recording takes %s%.0f bytes",
                   whole ? "" : "more than ", (double)fold__block_bytes(f));
    else
        fold__fail(
            f, FOLD_NO_MEMORY, "out of memory: the block has %.0f bytes, this recording needs %.0f%s",
            (double)f->arena.memory.block_size, (double)fold__block_bytes(f),
            whole ? ""
                  : " or more: a context with an allocator tells how many (fold_ctx_stats, block_bytes)");
    return 0;
}

static int fold__forget_idle(fold_ctx *f);

/* Whether array `which` holds so much now. */
static FOLD__NOINLINE int fold__ask(fold_ctx *f, int which, size_t count, size_t size)
{
    const size_t bytes = fold__size(count, size, 0);
    const int grows = bytes > f->arrays[which].capacity;
    if (grows && f->arena.block)
        fold__note_use(f); /* before anything moves */
    int fits = fold__arena_need(&f->arena, which, bytes);
    if (!fits && fold__forget_idle(f))
        fits = fold__arena_need(&f->arena, which, bytes);
    if (!fits)
        f->lacking +=
            fold__round_up(bytes, FOLD__ALIGN) - fold__round_up(fold__array_use(f, which), FOLD__ALIGN);
    if (grows) {
        f->moves++;
        fold__note_room(f);
    }
    return fits;
}

static FOLD__NOINLINE int fold__need(fold_ctx *f, int which, size_t count, size_t size)
{
    if (fold__ask(f, which, count, size))
        return 1;
    fold__renew(f);
    return fold__out_of_memory(f, 0);
}

static int fold__grow_nodes(fold_ctx *f, uint32_t more)
{
    const size_t count = (size_t)f->n_nodes + more + 2;
    if (count > FOLD__NONE / 2) {
        fold__fail(f, FOLD_NO_MEMORY, "a recording holds at most two thousand million nodes");
        return 0;
    }
    for (int i = 0; i < FOLD__NODE_ARRAYS; i++)
        if (!fold__need(f, FOLD__C_SIG + i, count, fold__node_bytes[i]))
            return 0;
    fold__renew(f);
    return 1;
}

static int fold__grow_edges(fold_ctx *f, size_t more)
{
    const size_t count = (size_t)f->n_edges + more;
    if (count > FOLD__NONE / 2) {
        fold__fail(f, FOLD_NO_MEMORY, "a recording holds at most two thousand million operands");
        return 0;
    }
    if (!fold__need(f, FOLD__C_ESRC, count, 4) || !fold__need(f, FOLD__C_EOFF, count, 4))
        return 0;
    fold__renew(f);
    return 1;
}

/* Room for `floats` in the recording's data, aligned; its place (in 16 floats), or FOLD__NONE. */
static uint32_t fold__place_data(fold_ctx *f, size_t floats)
{
    const size_t at = f->data_used, end = at + fold__round_up(floats, 16);
    if (end / 16 >= FOLD__NONE || !fold__need(f, FOLD__C_DATA, end, sizeof(float)))
        return FOLD__NONE;
    f->data_used = end;
    fold__renew(f);
    return (uint32_t)(at / 16);
}
static float *fold__at_place(const fold_ctx *f, uint32_t place) { return fold__data(f) + (size_t)place * 16; }

/* -- shapes and signatures ------------------------------------------------------------------- */

static FOLD__NOINLINE uint32_t fold__intern_shape(fold_ctx *f, const fold_shape *s)
{
    fold__shape_entry *t = fold__shapes(f);
    uint32_t *recent = &f->recent_shape[(uint32_t)s->dim[0] % FOLD__RECENT_SHAPES];
    if (*recent < f->n_shapes && fold__shape_same(&t[*recent].s, s))
        return *recent;
    for (uint32_t i = f->n_shapes; i-- > 0;)
        if (fold__shape_same(&t[i].s, s))
            return *recent = i;
    if (!fold__need(f, FOLD__C_SHAPES, f->n_shapes + 1, sizeof *t))
        return FOLD__NONE;
    fold__renew(f);
    t = fold__shapes(f);
    t[f->n_shapes].s = *s;
    t[f->n_shapes].size = (uint32_t)fold__shape_size(s);
    return f->n_shapes++;
}
static int fold__is_op(const fold_ctx *f, uint32_t id) { return (f->kind[id] & FOLD__KIND_MASK) == FOLD__OP; }
static uint32_t fold__value_size(const fold_ctx *f, uint32_t id)
{
    return fold__shapes(f)[f->shape[id]].size;
}

static uint32_t fold__hash_words(const uint32_t *w, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ w[i]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
    return (uint32_t)(h >> 16);
}

/* The elements of a list: component c of element e is second[e] when there is a second array and c is 1, else
   first[e * step + c]. Inside a traced or eager body: whole lists of values, by their nodes. */
typedef struct fold__list {
    const fold_node *first, *second;
    size_t step, count;
    uint32_t elems[2], elems_off[2];
} fold__list;

/* What is being recorded: fixed inputs and, for list ops and cells, a list of n_list components. */
typedef struct fold__request {
    uint32_t op, n_in;
    int n_list, n_attr, has_params;
    const fold__operand *in;
    const fold__list *list;
    int32_t attr[4];
    uint32_t param[2];
    uint64_t data;
    uint32_t list_shape[FOLD_MAX_IN]; /* of the components */
} fold__request;

static void fold__clear_request(fold__request *q) { memset(q, 0, offsetof(fold__request, list_shape)); }

static const char *fold__request_name(const fold_ctx *f, uint32_t op)
{
    return op & FOLD__CELL_OP ? fold__cells(f->model)[op & ~FOLD__CELL_OP].name
                              : fold__op_of(f->model, op)->def.name;
}

/* The program of a signature. Pointers hold until the next recording call. */
static FOLD__NOINLINE fold__program fold__program_of(const fold_ctx *f, const fold__sig *s)
{
    if (s->is_cell)
        return fold__cells(f->model)[s->op & ~FOLD__CELL_OP].program;
    fold__program p;
    p.n_ops = 1;
    p.n_refs = s->n_in + s->n_list;
    p.n_values = p.n_out = s->n_out;
    p.n_in = s->n_in;
    p.n_list = s->n_list;
    p.is_cell = 0;
    p.op = (const fold__body_op *)(void *)f->arrays[FOLD__C_OPS].p + s->op0;
    p.ref = (const fold__ref *)(void *)f->arrays[FOLD__C_REFS].p + s->ref0;
    p.out = p.ref + p.n_refs;
    p.shape = (const fold_shape *)(void *)f->arrays[FOLD__C_OP_SHAPES].p + s->shape0;
    p.value = (const fold__value *)(void *)f->arrays[FOLD__C_VALUES].p + s->value0;
    p.n_draws = p.op->uses_dropout;
    return p;
}

/* Makes the one-op program of a new signature. */
static int fold__make_program(fold_ctx *f, fold__sig *s, const fold__request *q, const fold_shape *shape)
{
    const int inputs = s->n_in + s->n_list;
    if (!fold__need(f, FOLD__C_OPS, f->ops_used + 1, sizeof(fold__body_op)) ||
        !fold__need(f, FOLD__C_REFS, f->refs_used + (uint32_t)(inputs + s->n_out), sizeof(fold__ref)) ||
        !fold__need(f, FOLD__C_OP_SHAPES, f->op_shapes_used + (uint32_t)(inputs + s->n_out),
                    sizeof(fold_shape)) ||
        !fold__need(f, FOLD__C_VALUES, f->values_used + s->n_out, sizeof(fold__value)))
        return 0;
    s->op0 = f->ops_used;
    s->ref0 = f->refs_used;
    s->shape0 = f->op_shapes_used;
    s->value0 = f->values_used;
    fold__body_op *op = (fold__body_op *)(void *)f->arrays[FOLD__C_OPS].p + s->op0;
    memset(op, 0, sizeof *op);
    op->op = q->op;
    op->n_in = (uint8_t)inputs;
    op->n_out = s->n_out;
    op->uses_dropout = (fold__op_of(f->model, q->op)->flags & FOLD__RANDOM) != 0;
    memcpy(op->attr, q->attr, sizeof op->attr);
    if (q->has_params)
        memcpy(op->param, q->param, sizeof op->param);
    fold__ref *ref = (fold__ref *)(void *)f->arrays[FOLD__C_REFS].p + s->ref0;
    fold_shape *shapes = (fold_shape *)(void *)f->arrays[FOLD__C_OP_SHAPES].p + s->shape0;
    fold__value *value = (fold__value *)(void *)f->arrays[FOLD__C_VALUES].p + s->value0;
    for (int i = 0; i < inputs; i++) {
        ref[i].kind = s->n_list ? FOLD__FROM_LIST : FOLD__FROM_INPUT;
        ref[i].index = (uint32_t)i;
        ref[i].off = 0;
    }
    for (int i = 0; i < s->n_out; i++) {
        ref[inputs + i].kind = FOLD__FROM_VALUE;
        ref[inputs + i].index = (uint32_t)i;
        ref[inputs + i].off = 0;
        value[i].size = (uint32_t)fold__shape_size(&shape[inputs + i]);
        value[i].op = 0;
        value[i].elem = 0;
        value[i].passes = 1;
    }
    memcpy(shapes, shape, (size_t)(inputs + s->n_out) * sizeof *shapes);
    f->ops_used++;
    f->refs_used += (uint32_t)(inputs + s->n_out);
    f->op_shapes_used += (uint32_t)(inputs + s->n_out);
    f->values_used += s->n_out;
    return 1;
}

static void fold__fail_shapes(fold_ctx *f, const char *name, const char *what, const fold_shape *shape, int n)
{
    char text[160];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < n; i++) {
        if (at + 2 < sizeof text && i) {
            text[at++] = ',';
            text[at++] = ' ';
        }
        at = fold__shape_text(text, sizeof text, at, &shape[i]);
    }
    fold__fail(f, FOLD_BAD_SHAPE, "%s: %s (inputs %s)", name, what, text);
}

static int fold__ref_slot(const fold__program *p, const fold__ref *ref)
{
    return (int)ref->index + (ref->kind == FOLD__FROM_LIST ? p->n_in : 0);
}

/* Operand j of an op of a program when some output's gradient reaches it, else NULL. */
static const fold__ref *fold__passed_operand(const fold_model *m, const fold__program *p,
                                             const fold__body_op *op, int j)
{
    if (!p->value[op->value0].passes || !fold__differentiable(fold__op_of(m, op->op), j))
        return NULL;
    return &p->ref[op->ref0 + (uint32_t)j];
}

/* Which inputs may get a gradient: those that some output's gradient reaches. */
static uint64_t fold__differentiable_inputs(const fold_ctx *f, const fold__sig *s)
{
    uint64_t mask = 0;
    const fold__program p = fold__program_of(f, s);
    for (int i = 0; i < p.n_ops; i++)
        for (int j = 0; j < p.op[i].n_in; j++) {
            const fold__ref *ref = fold__passed_operand(f->model, &p, &p.op[i], j);
            if (ref && (ref->kind == FOLD__FROM_INPUT || ref->kind == FOLD__FROM_LIST))
                mask |= 1ull << fold__ref_slot(&p, ref);
        }
    return mask;
}

/* Whether the inputs and list components of a call have the shapes its cell was made with. */
static int fold__check_cell_shapes(fold_ctx *f, const fold__cell_data *c, const fold_shape *shape, int n)
{
    for (int i = 0; i < n; i++) {
        const fold_shape *want = i < c->desc.n_in ? &c->desc.in[i] : &c->desc.list[i - c->desc.n_in];
        if (fold__shape_same(&shape[i], want))
            continue;
        const fold_shape both[2] = { *want, shape[i] };
        char what[80];
        snprintf(what, sizeof what,
                 i < c->desc.n_in ? "input %d must have the first of these shapes"
                                  : "component %d of its list must have the first of these shapes",
                 i < c->desc.n_in ? i : i - c->desc.n_in);
        fold__fail_shapes(f, c->name, what, both, 2);
        return 0;
    }
    return 1;
}

/* Infers the output shapes of a new signature and interns them; 0 with an error when they do not fit. */
static FOLD__NOINLINE int fold__new_sig(fold_ctx *f, fold__sig *s, const fold__request *q,
                                        const uint32_t *in_shape)
{
    fold_shape shape[FOLD_MAX_IN + FOLD_MAX_OUT];
    const int inputs = s->n_in + s->n_list;
    for (int i = 0; i < inputs; i++)
        shape[i] = fold__shapes(f)[in_shape[i]].s;
    memset(shape + inputs, 0, sizeof(fold_shape) * FOLD_MAX_OUT);
    if (s->is_cell) {
        const fold__cell_data *cell = &fold__cells(f->model)[q->op & ~FOLD__CELL_OP];
        if (!fold__check_cell_shapes(f, cell, shape, inputs))
            return 0;
        memcpy(shape + inputs, cell->out, sizeof(fold_shape) * s->n_out);
    } else {
        const fold__op_row *op = fold__op_of(f->model, q->op);
        const char *wrong = op->def.infer(shape, inputs, q->attr, shape + inputs);
        for (int i = 0; i < s->n_out && !wrong; i++)
            if (!fold__shape_ok(&shape[inputs + i]))
                wrong = "the output would have no valid shape";
        if (wrong) {
            fold__fail_shapes(f, op->def.name, wrong, shape, inputs);
            return 0;
        }
        if (!fold__make_program(f, s, q, shape))
            return 0;
    }
    s->differentiable = fold__differentiable_inputs(f, s);
    for (int i = 0; i < s->n_out; i++) {
        s->out_shape[i] = fold__intern_shape(f, &shape[inputs + i]);
        if (s->out_shape[i] == FOLD__NONE)
            return 0;
    }
    return 1;
}

static void fold__enter_sig(fold_ctx *f, uint32_t sig)
{
    uint32_t *table = (uint32_t *)(void *)f->arrays[FOLD__C_SIG_TABLE].p, at = fold__sigs(f)[sig].hash;
    for (at &= f->table_size - 1; table[at];)
        at = (at + 1) & (f->table_size - 1);
    table[at] = sig;
}

/* Enters all signatures into a table of this size, for which there is room. */
static void fold__fill_table(fold_ctx *f, uint32_t size)
{
    f->table_size = size;
    memset(f->arrays[FOLD__C_SIG_TABLE].p, 0, size * sizeof(uint32_t));
    for (uint32_t i = 1; i <= f->n_sigs; i++)
        fold__enter_sig(f, i);
}

enum { FOLD__LEAST_TABLE = 256, FOLD__LEAST_TWINS = 1024 };
static int fold__grow_table(fold_ctx *f)
{
    const uint32_t size = f->table_size ? f->table_size * 2 : (uint32_t)FOLD__LEAST_TABLE;
    if (!fold__need(f, FOLD__C_SIG_TABLE, size, sizeof(uint32_t)))
        return 0;
    fold__renew(f);
    fold__fill_table(f, size);
    return 1;
}

/* The signature of a key, made when it is new; 0 on failure. Keys are compared in full. */
static uint32_t fold__intern_sig(fold_ctx *f, const fold__request *q, const fold__sig *form,
                                 const uint32_t *key, uint32_t words)
{
    const uint32_t hash = fold__hash_words(key, words);
    if (f->table_size) {
        const uint32_t *table = (const uint32_t *)(void *)f->arrays[FOLD__C_SIG_TABLE].p,
                       mask = f->table_size - 1;
        for (uint32_t at = hash & mask; table[at]; at = (at + 1) & mask) {
            const fold__sig *s = &fold__sigs(f)[table[at]];
            if (s->hash == hash && s->key_words == words &&
                !memcmp(fold__keys(f) + s->key, key, words * sizeof *key))
                return table[at];
        }
    }
    if ((f->n_sigs + 1) * 2 > f->table_size && !fold__grow_table(f))
        return 0;
    if (!fold__need(f, FOLD__C_SIGS, f->n_sigs + 2, sizeof(fold__sig)) ||
        !fold__need(f, FOLD__C_KEYS, f->keys_used + words, sizeof *key))
        return 0;
    fold__sig s = *form;
    s.key = f->keys_used;
    s.key_words = words;
    s.hash = hash;
    if (!fold__new_sig(f, &s, q, key + s.in_shape)) {
        fold__renew(f);
        return 0;
    }
    fold__renew(f);
    memcpy(fold__keys(f) + f->keys_used, key, words * sizeof *key);
    f->keys_used += words;
    fold__sigs(f)[++f->n_sigs] = s;
    fold__enter_sig(f, f->n_sigs);
    return f->n_sigs;
}

/* The identity of a shared operand in a key: a parameter, or a place in the recording. */
static uint32_t fold__shared_word(const fold_ctx *f, const fold__operand *o)
{
    const uint32_t kind = f->kind[o->src] & FOLD__KIND_MASK;
    return kind == FOLD__PARAM ? 0x80000000u | (uint32_t)f->node_data[o->src] : o->src;
}

/* Writes the key of a request and returns its words; `shared` gets the mask of shared inputs. */
static uint32_t fold__request_key(const fold_ctx *f, const fold__request *q, uint32_t *key, uint32_t *shared)
{
    uint32_t n = 1, mask = 0;
    for (int i = 0; i < q->n_attr; i++)
        key[n++] = (uint32_t)q->attr[i];
    if (q->has_params) {
        key[n++] = q->param[0];
        key[n++] = q->param[1];
    }
    for (uint32_t i = 0; i < q->n_in; i++) {
        key[n++] = q->in[i].shape;
        mask |= (uint32_t)((q->in[i].kind & FOLD__SHARED) != 0) << i;
    }
    for (int i = 0; i < q->n_list; i++)
        key[n++] = q->list_shape[i];
    for (uint32_t i = 0; i < q->n_in && mask >> i; i++)
        if (mask >> i & 1) {
            key[n++] = fold__shared_word(f, &q->in[i]);
            key[n++] = q->in[i].off;
        }
    if (f->frame.cell) {
        key[n++] = f->frame.tag;
        key[n++] = f->frame.ordinal + 1;
    }
    if (mask)
        key[n++] = mask;
    key[0] = q->op | q->n_in << 16 | (uint32_t)(mask != 0) << 30 | (uint32_t)(f->frame.cell != 0) << 31;
    *shared = mask;
    return n;
}

/* Whether a request is of a signature: what its key would be, without making it. */
static int fold__is_request(const fold_ctx *f, const fold__sig *s, const fold__request *q)
{
    const uint32_t *word = fold__keys(f) + s->key + 1;
    uint32_t differ = (s->op ^ q->op) | (s->n_in ^ q->n_in) | (s->n_list ^ (uint32_t)q->n_list) |
                      (s->tag_cell ^ f->frame.tag),
             kinds = 0;
    if (differ || (s->tag_cell && s->tag_op != f->frame.ordinal + 1))
        return 0;
    for (int i = 0; i < q->n_attr; i++)
        differ |= *word++ ^ (uint32_t)q->attr[i];
    if (q->has_params) {
        differ |= (word[0] ^ q->param[0]) | (word[1] ^ q->param[1]);
        word += 2;
    }
    for (uint32_t i = 0; i < q->n_in; i++) {
        differ |= *word++ ^ q->in[i].shape;
        kinds |= q->in[i].kind;
    }
    for (int i = 0; i < q->n_list; i++)
        differ |= *word++ ^ q->list_shape[i];
    if (!s->shared)
        return !(differ | (kinds & FOLD__SHARED));
    for (uint32_t i = 0; i < q->n_in && !differ; i++) {
        differ = (s->shared >> i & 1) != ((q->in[i].kind & FOLD__SHARED) != 0);
        if (s->shared >> i & 1) {
            differ |= (word[0] ^ fold__shared_word(f, &q->in[i])) | (word[1] ^ q->in[i].off);
            word += 2;
        }
    }
    return !differ;
}

/* The signature of a request by its key, made when it is new; 0 on failure. */
static uint32_t fold__sig_by_key(fold_ctx *f, const fold__request *q)
{
    uint32_t key[16 + 3 * FOLD_MAX_IN], shared;
    const uint32_t n = fold__request_key(f, q, key, &shared);
    fold__sig s;
    memset(&s, 0, sizeof s);
    s.op = q->op;
    s.is_cell = (q->op & FOLD__CELL_OP) != 0;
    s.n_list = (uint8_t)q->n_list;
    s.n_in = (uint8_t)q->n_in;
    s.n_out = (uint8_t)(s.is_cell ? fold__cells(f->model)[q->op & ~FOLD__CELL_OP].desc.n_out
                                  : fold__op_of(f->model, q->op)->def.n_out);
    s.in_shape = 1 + (uint32_t)q->n_attr + (q->has_params ? 2u : 0);
    s.shared = shared;
    if (f->frame.cell) {
        s.tag_cell = f->frame.tag;
        s.tag_op = f->frame.ordinal + 1;
    }
    f->pinned++;
    const uint32_t sig = fold__intern_sig(f, q, &s, key, n);
    f->pinned--;
    return sig;
}
static FOLD__NOINLINE uint32_t fold__find_sig(fold_ctx *f, const fold__request *q)
{
    const uint32_t sig = fold__sig_by_key(f, q);
    return sig || !fold__forget_idle(f) ? sig : fold__sig_by_key(f, q);
}

/* The signature of a request. Most are like one of the last: those are found without making a key. */
FOLD__INLINE uint32_t fold__request_sig(fold_ctx *f, const fold__request *q)
{
    uint32_t *recent =
        &f->recent[(q->op * 5u + q->param[0] + (q->n_in ? q->in[0].shape * 3u : 0)) % FOLD__RECENT];
    if (!*recent || !fold__is_request(f, &fold__sigs(f)[*recent], q))
        *recent = fold__find_sig(f, q);
    return *recent;
}

/* Ordinals of an eager body's helper ops, which a traced body does not have: input and output barriers. */
enum { FOLD__TAG_BARRIER = 0x10000, FOLD__TAG_SPREAD = 0x20000, FOLD__TAG_PARAM = 0x40000 };

/* -- nodes ----------------------------------------------------------------------------------- */

static const fold_node fold__null = { 0, 0 };

static fold_node fold__handle(const fold_ctx *f, uint32_t id)
{
    fold_node x;
    x.id = id;
    x.epoch = f->epoch;
    return x;
}

/* Appends one node; capacity is there. Its edges are those added since the last node. */
FOLD__INLINE uint32_t fold__append(fold_ctx *f, uint8_t kind, uint32_t sig, uint32_t src, uint32_t off,
                                   uint32_t shape, uint64_t data)
{
    const uint32_t id = f->n_nodes + 1;
    f->n_nodes = id;
    f->sig[id] = sig;
    f->src[id] = src ? src : id;
    f->off[id] = off;
    f->shape[id] = shape;
    f->edge0[id + 1] = f->n_edges;
    f->node_data[id] = data;
    f->kind[id] = kind; /* last: for all the compiler knows, a byte may lie anywhere */
    return id;
}

/* Appends the node of an op or a call, which is its first output, and those of its others. */
FOLD__INLINE uint32_t fold__append_call(fold_ctx *f, uint32_t sig, uint8_t flags, uint64_t data)
{
    const fold__sig *s = &fold__sigs(f)[sig];
    const uint32_t id = fold__append(f, (uint8_t)(FOLD__OP | flags), sig, 0, 0, s->out_shape[0], data);
    f->calls[f->n_calls++] = id;
    for (uint32_t i = 1; i < s->n_out; i++)
        fold__append(f, (uint8_t)(FOLD__EXTRA | flags), 0, 0, 0, s->out_shape[i], id);
    return id;
}

static FOLD__NOINLINE int fold__grow(fold_ctx *f, uint32_t nodes, size_t edges)
{
    return fold__grow_nodes(f, nodes) && fold__grow_edges(f, edges);
}
FOLD__INLINE int fold__fits(const fold_ctx *f, uint32_t nodes, size_t edges)
{
    return FOLD__LIKELY(f->n_nodes + nodes <= f->node_cap && f->n_edges + edges <= f->edge_cap) != 0;
}
FOLD__INLINE int fold__room(fold_ctx *f, uint32_t nodes, size_t edges)
{
    return fold__fits(f, nodes, edges) || fold__grow(f, nodes, edges);
}

#define FOLD__STALE_NODE "%s: the node is from another context, or from before the last fold_ctx_reset"
static FOLD__NOINLINE void fold__bad_operand(fold_ctx *f, fold_node x, const char *who)
{
    if (x.id && !fold__broken(f))
        fold__fail(f, FOLD_BAD_HANDLE, FOLD__STALE_NODE, who);
}

/* Whether a handle is of a live node of this context; if not, an error unless it is null or there is one
 * already. */
FOLD__INLINE int fold__is_live(fold_ctx *f, fold_node x, const char *who)
{
    if (FOLD__LIKELY(x.epoch == f->epoch && x.id - 1 < f->n_nodes && !fold__broken(f)))
        return 1;
    fold__bad_operand(f, x, who);
    return 0;
}

/* A live node of this context as an operand; 0 otherwise. */
FOLD__INLINE int fold__operand_of(fold_ctx *f, fold_node x, const char *who, fold__operand *o)
{
    if (!fold__is_live(f, x, who))
        return 0;
    o->src = f->src[x.id];
    o->off = f->off[x.id];
    o->shape = f->shape[x.id];
    o->kind = (uint8_t)((f->kind[x.id] & FOLD__SHARED) | (f->kind[o->src] & ~FOLD__SHARED));
    return 1;
}

static const fold_shape *fold__operand_shape(const fold_ctx *f, const fold__operand *o)
{
    return &fold__shapes(f)[o->shape].s;
}

static fold_node fold__window(fold_ctx *f, const fold__operand *o, uint32_t off, const fold_shape *s,
                              uint8_t flags)
{
    const uint32_t shape = fold__intern_shape(f, s);
    if (shape == FOLD__NONE || !fold__room(f, 1, 0))
        return fold__null;
    const uint8_t inherited = o->kind & (FOLD__SHARED | FOLD__ELEM);
    return fold__handle(
        f, fold__append(f, (uint8_t)(FOLD__WINDOW | flags | inherited), 0, o->src, o->off + off, shape, 0));
}

static void fold__eager_run(fold_ctx *f, uint32_t id);
static fold_node fold__record_elements(fold_ctx *f, const fold__request *q);

/* With the dedupe flag: the earlier node that is the same call with the same operands and data, or 0. */
static uint32_t fold__find_twin(fold_ctx *f, uint32_t id)
{
    uint32_t *table = (uint32_t *)(void *)f->arrays[FOLD__C_TWINS].p;
    const uint32_t mask = f->twins_size - 1;
    const uint32_t e0 = f->edge0[id], n = f->n_edges - e0, leaf = f->kind[id] & FOLD__KIND_MASK;
    uint32_t h = fold__hash_words(f->esrc + e0, n) * 31u + fold__hash_words(f->eoff + e0, n) +
                 f->sig[id] * 0x9e3779b1u + leaf;
    h ^= (uint32_t)fold__mix64(f->node_data[id]);
    for (h &= mask; table[h]; h = (h + 1) & mask) {
        const uint32_t t = table[h], t0 = f->edge0[t];
        if (f->sig[t] == f->sig[id] && f->node_data[t] == f->node_data[id] && f->kind[t] % 8 == leaf &&
            f->shape[t] == f->shape[id] && f->edge0[t + 1] - t0 == n &&
            (!n || (!memcmp(f->esrc + t0, f->esrc + e0, n * sizeof *f->esrc) &&
                    !memcmp(f->eoff + t0, f->eoff + e0, n * sizeof *f->eoff))))
            return t;
    }
    table[h] = id;
    f->twins_used++;
    return 0;
}

/* Enters the recording's calls and leaves into a table of twins of this size, for which there is room. */
static void fold__fill_twins(fold_ctx *f, uint32_t size)
{
    f->twins_size = size;
    f->twins_used = 0;
    memset(f->arrays[FOLD__C_TWINS].p, 0, size * sizeof(uint32_t));
    const uint32_t edges = f->n_edges;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        if (f->sig[id] && fold__sigs(f)[f->sig[id]].tag_cell)
            continue;
        if (kind != FOLD__OP && kind != FOLD__LOOKUP && !f->sig[id])
            continue;
        f->n_edges = f->edge0[id + 1];
        fold__find_twin(f, id);
    }
    f->n_edges = edges;
}

/* The table of twins is at most half full. */
static int fold__twins_ready(fold_ctx *f)
{
    if (f->twins_used * 2 < f->twins_size)
        return 1;
    const uint32_t size = f->twins_size ? f->twins_size * 2 : (uint32_t)FOLD__LEAST_TWINS;
    if (!fold__need(f, FOLD__C_TWINS, size, sizeof(uint32_t)))
        return 0;
    fold__renew(f);
    fold__fill_twins(f, size);
    return 1;
}

/* -- forgetting ------------------------------------------------------------------------------ */

/* Signatures stay from one recording to the next. When a block has no room left, those go that the present
   recording does not use, so that what fits alone fits after whatever came before. Shapes stay. */

static void fold__forget_runs(fold_ctx *f);
enum { FOLD__FIRST_SHAPES = 64 }; /* for which there is always room */

/* Marks the signatures in use, in place of their hashes; those of eager bodies use that of their call. */
static void fold__mark_sigs(fold_ctx *f)
{
    fold__sig *s = fold__sigs(f);
    for (uint32_t i = 1; i <= f->n_sigs; i++)
        s[i].hash = 0;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (f->sig[id])
            s[f->sig[id]].hash = s[s[f->sig[id]].tag_cell].hash = 1;
    s[f->frame.cell ? f->frame.tag : 0].hash = 1;
}

/* The word of a body's op's key that is its call's signature. */
static uint32_t *fold__key_tag(const fold_ctx *f, const fold__sig *s)
{
    return fold__keys(f) + s->key + s->key_words - (s->shared ? 3 : 2);
}

/* Moves `count` things of array `which` from place `from` down to `*to`; returns where they are now. */
static uint32_t fold__move_down(fold_ctx *f, int which, size_t size, uint32_t from, uint32_t count,
                                uint32_t *to)
{
    char *p = f->arrays[which].p;
    const uint32_t at = *to;
    memmove(p + at * size, p + from * size, count * size);
    *to += count;
    f->arrays[which].need = *to * size;
    return at;
}

/* Moves the program of a signature, which is an op's. */
static void fold__move_program(fold_ctx *f, fold__sig *s)
{
    const uint32_t inputs = (uint32_t)s->n_in + s->n_list, n_out = s->n_out;
    s->op0 = fold__move_down(f, FOLD__C_OPS, sizeof(fold__body_op), s->op0, 1, &f->ops_used);
    s->ref0 = fold__move_down(f, FOLD__C_REFS, sizeof(fold__ref), s->ref0, inputs + n_out, &f->refs_used);
    s->shape0 = fold__move_down(f, FOLD__C_OP_SHAPES, sizeof(fold_shape), s->shape0, inputs + n_out,
                                &f->op_shapes_used);
    s->value0 = fold__move_down(f, FOLD__C_VALUES, sizeof(fold__value), s->value0, n_out, &f->values_used);
}

/* Gives the signatures that are marked new numbers, in the order they have. */
static void fold__number_sigs(fold_ctx *f)
{
    fold__sig *s = fold__sigs(f);
    uint32_t n = 0;
    for (uint32_t i = 1; i <= f->n_sigs; i++)
        if (s[i].hash)
            s[i].hash = ++n;
    for (uint32_t i = 1; i <= f->n_sigs; i++)
        if (s[i].hash && s[i].tag_cell)
            s[i].tag_cell = *fold__key_tag(f, &s[i]) = s[s[i].tag_cell].hash;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (f->sig[id])
            f->sig[id] = s[f->sig[id]].hash;
    if (f->frame.cell)
        f->frame.tag = s[f->frame.tag].hash;
}

/* Moves the signatures that have a new number there, and drops the others. */
static void fold__move_sigs(fold_ctx *f)
{
    fold__sig *s = fold__sigs(f);
    const uint32_t n = f->n_sigs;
    f->n_sigs = f->keys_used = f->ops_used = f->refs_used = f->op_shapes_used = f->values_used = 0;
    for (uint32_t i = 1; i <= n; i++) {
        fold__sig moved = s[i];
        if (!moved.hash)
            continue;
        moved.key =
            fold__move_down(f, FOLD__C_KEYS, sizeof(uint32_t), moved.key, moved.key_words, &f->keys_used);
        moved.hash = fold__hash_words(fold__keys(f) + moved.key, moved.key_words);
        if (!moved.is_cell)
            fold__move_program(f, &moved);
        s[++f->n_sigs] = moved;
    }
    f->arrays[FOLD__C_SIGS].need = (f->n_sigs + 1) * sizeof *s;
}

/* The least size of a hash table at most half full. */
static uint32_t fold__table_for(uint32_t least, uint32_t entries)
{
    while (least < 2 * entries)
        least *= 2;
    return least;
}

/* Where memory ran out in a block: forgets what the present recording does not use. 1: there may be room now,
   and nothing went wrong. */
static int fold__forget_idle(fold_ctx *f)
{
    const int in_need = !f->error.status || f->error.status == FOLD_NO_MEMORY;
    if (!f->arena.block || !in_need || f->pinned || f->forgot_at == f->resets)
        return 0;
    f->forgot_at = f->resets;
    f->lacking = 0;
    fold__clear_error(&f->error);
    fold__renew(f);
    memset(f->recent, 0, sizeof f->recent);
    if (f->n_sigs) {
        fold__mark_sigs(f);
        fold__number_sigs(f);
        fold__move_sigs(f);
        fold__fill_table(f, fold__table_for(FOLD__LEAST_TABLE, f->n_sigs));
        f->arrays[FOLD__C_SIG_TABLE].need = f->table_size * sizeof(uint32_t);
    }
    if (f->twins_size) {
        fold__fill_twins(f, fold__table_for(FOLD__LEAST_TWINS, f->twins_used + 1));
        f->arrays[FOLD__C_TWINS].need = f->twins_size * sizeof(uint32_t);
    }
    fold__forget_runs(f);
    return 1;
}

/* Between recordings: forgets all signatures and shapes. */
static void fold__forget_all(fold_ctx *f)
{
    static const uint8_t of_signatures[] = { FOLD__C_SIGS, FOLD__C_SIG_TABLE, FOLD__C_KEYS,   FOLD__C_OPS,
                                             FOLD__C_REFS, FOLD__C_OP_SHAPES, FOLD__C_VALUES, FOLD__C_TWINS };
    for (size_t i = 0; i < sizeof of_signatures; i++)
        f->arrays[of_signatures[i]].need = 0;
    f->arrays[FOLD__C_SHAPES].need = FOLD__FIRST_SHAPES * sizeof(fold__shape_entry);
    f->n_sigs = f->keys_used = f->ops_used = f->refs_used = f->op_shapes_used = f->values_used = 0;
    f->n_shapes = f->table_size = f->twins_size = f->row_of = 0;
    memset(f->recent, 0, sizeof f->recent);
    fold__forget_runs(f);
}

/* Nodes [first, last] of the recording that were found when they were asked for again, most often by another
 * sample. */
typedef struct fold__found {
    uint32_t first, last;
} fold__found;
static fold__found *fold__founds(const fold_ctx *f)
{
    return (fold__found *)(void *)f->arrays[FOLD__C_FOUND].p;
}
static int fold__note_found(fold_ctx *f, uint32_t first, uint32_t last)
{
    if (!fold__need(f, FOLD__C_FOUND, (size_t)f->n_found + 1, sizeof(fold__found)))
        return 0;
    fold__renew(f);
    const fold__found x = { first, last };
    fold__founds(f)[f->n_found++] = x;
    return 1;
}

/* Drops node `id` and all after it (and their edges). */
static void fold__unrecord(fold_ctx *f, uint32_t id)
{
    f->n_edges = f->edge0[id];
    f->n_nodes = id - 1;
    while (f->n_calls && f->calls[f->n_calls - 1] >= id)
        f->n_calls--;
}

/* What stands for node `id`, just recorded: the same, recorded earlier. */
static fold_node fold__found_twin(fold_ctx *f, uint32_t id, uint32_t twin)
{
    fold__unrecord(f, id);
    return fold__note_found(f, twin, twin) ? fold__handle(f, twin) : fold__null;
}

/* The node of a parameter in this recording, and behind it that of its per-sample copy; 0: not made yet. */
static uint32_t *fold__use_node(const fold_ctx *f, uint32_t param)
{
    return (uint32_t *)(void *)f->arrays[FOLD__C_USE_NODE].p + 2 * (size_t)param;
}

/* Element e of component c of a list whose handles were checked. Edges lie component by component. A
   parameter stands for its per-sample copy. */
static void fold__list_operand(const fold_ctx *f, const fold__list *l, int c, size_t e, uint32_t *src,
                               uint32_t *off)
{
    if (!l->first) {
        *src = l->elems[c] + (f->frame.tracing ? 0 : 1 + (uint32_t)e);
        *off = l->elems_off[c];
        return;
    }
    const uint32_t id = c == 1 && l->second ? l->second[e].id : l->first[e * l->step + (size_t)c].id;
    *src = f->src[id];
    *off = f->off[id];
    if ((f->kind[*src] & FOLD__KIND_MASK) == FOLD__PARAM)
        *src = fold__use_node(f, (uint32_t)f->node_data[*src])[1];
}

static size_t fold__n_operands(const fold__request *q)
{
    return q->n_in + (q->n_list ? q->list->count * (size_t)q->n_list : 0);
}

/* Appends a request's operands; capacity is there. Returns the set of kinds of its fixed inputs. */
FOLD__INLINE uint32_t fold__add_edges(fold_ctx *f, const fold__request *q)
{
    uint32_t e = f->n_edges, kinds = 0;
    for (uint32_t i = 0; i < q->n_in; i++, e++) {
        kinds |= 1u << (q->in[i].kind & (FOLD__KIND_MASK | FOLD__ELEM | FOLD__SHARED));
        f->esrc[e] = q->in[i].src;
        f->eoff[e] = q->in[i].off;
    }
    for (int c = 0; c < q->n_list; c++)
        for (size_t i = 0; i < q->list->count; i++, e++)
            fold__list_operand(f, q->list, c, i, &f->esrc[e], &f->eoff[e]);
    f->n_edges = e;
    return kinds;
}

static void fold__trace_step(fold_ctx *f, const fold__request *q);

/* Records an op or a call: the one way in. Null when it cannot. */
static fold_node fold__record(fold_ctx *f, const fold__request *q)
{
    const int body = f->frame.cell != 0, twins = f->dedupe && !body;
    if (body && f->frame.ordinal < FOLD__TAG_BARRIER)
        fold__trace_step(f, q);
    if (fold__broken(f) || (twins && !fold__twins_ready(f)) || !fold__room(f, 0, fold__n_operands(q)))
        return fold__null;
    const uint32_t edges = f->n_edges, kinds = fold__add_edges(f, q),
                   level = kinds & FOLD__KINDS_PER_ELEMENT ? FOLD__ELEM : 0;
    uint32_t sig = kinds & FOLD__KINDS_MARKER ? 0 : fold__request_sig(f, q);
    if (sig && !fold__fits(f, fold__sigs(f)[sig].n_out,
                           0)) /* growing may forget signatures: it is asked for again */
        sig = fold__grow(f, fold__sigs(f)[sig].n_out, 0) ? fold__request_sig(f, q) : 0;
    if (!sig) {
        f->n_edges = edges;
        return kinds & FOLD__KINDS_MARKER ? fold__record_elements(f, q) : fold__null;
    }
    const uint32_t id = fold__append_call(f, sig, (uint8_t)level, q->data);
    const uint32_t twin = twins ? fold__find_twin(f, id) : 0;
    if (twin)
        return fold__found_twin(f, id, twin);
    if (body)
        f->frame.ordinal++;
    if (f->frame.tracing)
        f->place[id] = f->frame.hash;
    if (!f->eager || f->frame.tracing)
        return fold__handle(f, id);
    fold__eager_run(f, id);
    return fold__broken(f) ? fold__null : fold__handle(f, id);
}

/* An element-wise, reducing or otherwise simple op of up to four nodes. */
static fold_node fold__op(fold_ctx *f, uint32_t op, const fold_node *in, int n, const int32_t *attr,
                          uint64_t data)
{
    fold__operand o[4];
    fold__request q;
    const fold__op_row *row = fold__op_of(f->model, op);
    for (int i = 0; i < n; i++)
        if (!fold__operand_of(f, in[i], row->def.name, &o[i]))
            return fold__null;
    fold__clear_request(&q);
    q.op = op;
    q.in = o;
    q.n_in = (uint32_t)n;
    q.n_attr = row->def.n_attr;
    q.data = data;
    for (int i = 0; i < row->def.n_attr; i++)
        q.attr[i] = attr[i];
    return fold__record(f, &q);
}

/* -- contexts -------------------------------------------------------------------------------- */

FOLD_API fold_ctx_desc fold_ctx_desc_default(void)
{
    fold_ctx_desc d;
    memset(&d, 0, sizeof d);
    return d;
}

static void fold__new_epoch(fold_ctx *f)
{
    do
        f->epoch = (uint32_t)fold__mix64((uint64_t)(uintptr_t)f * UINT64_C(0x9e3779b97f4a7c15) + ++f->resets);
    while (!f->epoch);
}

static struct fold__run *fold__run_of(fold_ctx *f);
static size_t fold__ctx_bytes(void);
static int fold__reserve_workers(fold_ctx *f);
static int fold__reserve_plans(fold_ctx *f, size_t bytes);
static void fold__forget_plans(fold_ctx *f);
static void fold__reset(fold_ctx *f);

FOLD_API fold_ctx *fold_ctx_new(fold_model *m, const fold_ctx_desc *desc)
{
    static const uint8_t lasting[] = {
        FOLD__C_SIGS,  FOLD__C_SIG_TABLE, FOLD__C_KEYS,      FOLD__C_SHAPES,
        FOLD__C_OPS,   FOLD__C_REFS,      FOLD__C_OP_SHAPES, FOLD__C_VALUES,
        FOLD__C_TWINS, FOLD__C_KNOWN,     FOLD__C_ANALYSES,  FOLD__C_INFO,
        FOLD__C_PLANS, FOLD__C_WORKERS,   FOLD__C_TRACE,     FOLD__C_TABLE_ROWS
    };
    const fold_ctx_desc d = desc ? *desc : fold_ctx_desc_default();
    const size_t size = fold__ctx_bytes();
    fold_memory memory = d.memory;
    if (!m || (unsigned)d.schedule >= FOLD_SCHEDULE_COUNT)
        return NULL;
    if (!memory.block)
        memory = !memory.alloc ? m->arena.memory : memory;
    if (memory.block ? memory.block_size < size || (uintptr_t)memory.block % FOLD__ALIGN : !memory.free)
        return NULL;
    fold_ctx *f = (fold_ctx *)(memory.block ? memory.block : memory.alloc(size, FOLD__ALIGN, memory.user));
    if (!f)
        return NULL;
    memset(f, 0, size);
    f->arena.memory = memory;
    f->arena.array = f->arrays;
    f->arena.n = FOLD__C_COUNT;
    for (size_t i = 0; i < sizeof lasting; i++)
        f->arrays[lasting[i]].lasting = 1;
    f->arrays[FOLD__C_NODE_WORDS].brief = f->arrays[FOLD__C_SCHEDULE].brief = f->arrays[FOLD__C_FEEDS].brief =
        f->arrays[FOLD__C_REGION].brief = 1;
    f->arrays[FOLD__C_SCRATCH].brief = f->arrays[FOLD__C_ACC].brief = 1;
    if (memory.block) {
        f->arena.block = (char *)memory.block + size;
        f->arena.block_size = (memory.block_size - size) / FOLD__ALIGN * FOLD__ALIGN;
    }
    f->model = m;
    f->run = fold__run_of(f);
    f->training = d.training;
    f->eager = d.eager;
    f->dedupe = d.dedupe;
    f->schedule = d.schedule;
    f->group_bytes = d.group_bytes ? d.group_bytes : FOLD_GROUP_BYTES;
    f->group_rows = d.group_bytes ? 0 : FOLD__GROUP_ROWS;
    f->threads = d.threads > 1 && d.parallel_for && !d.eager ? d.threads : 1;
    f->parallel_for = d.parallel_for;
    f->pool = d.pool;
    f->clock = d.clock;
    f->clock_user = d.clock_user;
    f->trace_events = d.clock && !d.eager ? d.trace_bytes / sizeof(fold__event) / (size_t)f->threads : 0;
    if (!fold__grow_nodes(f, 0) ||
        !fold__need(f, FOLD__C_SHAPES, FOLD__FIRST_SHAPES, sizeof(fold__shape_entry)) ||
        !fold__reserve_workers(f) || !fold__reserve_plans(f, d.plan_bytes) ||
        (f->trace_events &&
         !fold__need(f, FOLD__C_TRACE, f->trace_events * (size_t)f->threads, sizeof(fold__event)))) {
        fold_ctx_free(f);
        return NULL;
    }
    fold__reset(f);
    return f;
}

FOLD_API void fold_ctx_free(fold_ctx *f)
{
    if (!f || f->arena.block)
        return;
    const fold_memory memory = f->arena.memory;
    fold__arena_free(&f->arena);
    memory.free(f, fold__ctx_bytes(), memory.user);
}

FOLD_API fold_model *fold_ctx_model(fold_ctx *f) { return f->model; }

enum { FOLD__MAX_IDLE_SIGS = 8192 };
static void fold__reset(fold_ctx *f)
{
    const int failed = f->error.status == FOLD_NO_MEMORY || f->n_shapes > FOLD__FIRST_SHAPES;
    f->block_peak = fold__max_size(f->block_peak, fold__block_bytes(f));
    if (f->n_sigs > FOLD__MAX_IDLE_SIGS ||
        (f->arena.block && failed)) /* structure that may never come again */
        fold__forget_all(f);
    for (int i = 0; i < FOLD__C_COUNT; i++)
        if (!f->arrays[i].lasting)
            f->arrays[i].need = 0;
    f->lacking = 0;
    fold__clear_error(&f->error);
    fold__clear_error(&f->read_error);
    f->n_nodes = f->n_edges = f->n_calls = 0;
    f->data_used = 0;
    f->edge0[1] = 0;
    f->n_keeps = f->n_kept_grads = f->n_found = 0;
    f->kept_concats = 0;
    f->any_done = f->values_shown = 0;
    f->seed = f->draws = 0;
    memset(&f->frame, 0, sizeof f->frame);
    if (f->dedupe && f->arrays[FOLD__C_TWINS].p)
        memset(f->arrays[FOLD__C_TWINS].p, 0, f->twins_size * sizeof(uint32_t));
    f->twins_used = 0;
    if (f->arrays[FOLD__C_USE_NODE].p)
        memset(f->arrays[FOLD__C_USE_NODE].p, 0, f->arrays[FOLD__C_USE_NODE].capacity);
    fold__new_epoch(f);
}

/* Whether a cell's body is being recorded, where `who` has no place: an error. */
static int fold__in_body(fold_ctx *f, const char *who)
{
    if (f->frame.cell)
        fold__fail(f, FOLD_BAD_CELL, "%s: not in a cell body, which records one call's ops and no more", who);
    return f->frame.cell != 0;
}
FOLD_API void fold_ctx_reset(fold_ctx *f)
{
    if (!fold__in_body(f, "fold_ctx_reset"))
        fold__reset(f);
}

FOLD_API fold_status fold_ctx_status(const fold_ctx *f)
{
    return f->error.status ? f->error.status : f->model->error.status;
}
FOLD_API const char *fold_ctx_message(const fold_ctx *f)
{
    if (f->error.status)
        return f->error.text;
    return f->model->error.status ? f->model->error.text : f->read_error.text;
}
FOLD_API void fold_dropout_seed(fold_ctx *f, uint64_t key)
{
    if (fold__in_body(f, "fold_dropout_seed"))
        return;
    f->seed = fold__mix64(key);
    f->draws = 0;
}
FOLD_API int fold_node_is_null(fold_node x) { return !x.id; }

/* ==== room: recording the ops ===============================================================
   Owns: the public op calls: what each accepts and which op row it becomes. Calls: recording. */

/* Where in the recording's own data the values lie that a caller hands in, in floats; FOLD__ELSEWHERE: they are
   the caller's. */
#define FOLD__ELSEWHERE SIZE_MAX
static size_t fold__own_place(const fold_ctx *f, const float *values)
{
    const uintptr_t from = (uintptr_t)values - (uintptr_t)f->arrays[FOLD__C_DATA].p;
    return from < f->arrays[FOLD__C_DATA].capacity ? from / sizeof *values : FOLD__ELSEWHERE;
}

/* The place of an input with its values. They may be the recording's own, which move when it grows; those of
   before a reset are told by their place, or by nobody having been shown any since. */
static uint32_t fold__place_input(fold_ctx *f, const float *values, size_t size)
{
    const size_t own = values ? fold__own_place(f, values) : FOLD__ELSEWHERE;
    if (own != FOLD__ELSEWHERE && (!f->values_shown || own + size > f->data_used)) {
        fold__fail(f, FOLD_BAD_ARGUMENT,
                   "input: these values of the context ended with its reset: fold_read them before");
        return FOLD__NONE;
    }
    const uint32_t place = fold__place_data(f, size);
    if (place == FOLD__NONE)
        return FOLD__NONE;
    if (own != FOLD__ELSEWHERE)
        values = fold__data(f) + own;
    if (values)
        memcpy(fold__at_place(f, place), values, size * sizeof *values);
    else
        memset(fold__at_place(f, place), 0, size * sizeof *values);
    return place;
}

static fold_node fold__input(fold_ctx *f, const float *values, const fold_shape *s)
{
    if (fold__broken(f))
        return fold__null;
    if (!fold__shape_ok(s)) {
        fold__fail(f, FOLD_BAD_SHAPE, "input: a shape needs rank 1 to 4 and dimensions of at least 1");
        return fold__null;
    }
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "input: a cell body has no inputs but those it is given");
        return fold__null;
    }
    const uint32_t place = fold__place_input(f, values, (size_t)fold__shape_size(s));
    if (place == FOLD__NONE)
        return fold__null;
    const uint32_t shape = fold__intern_shape(f, s);
    if (shape == FOLD__NONE || !fold__room(f, 1, 0))
        return fold__null;
    const uint32_t id = fold__append(f, FOLD__INPUT, 0, 0, 0, shape, 0);
    f->place[id] = place;
    return fold__handle(f, id);
}

static fold_node fold__missing(fold_ctx *f, const char *who)
{
    fold__fail(f, FOLD_BAD_ARGUMENT, "%s: a pointer is NULL", who);
    return fold__null;
}

FOLD_API fold_node fold_input_shaped(fold_ctx *f, const float *values, fold_shape shape)
{
    return values ? fold__input(f, values, &shape) : fold__missing(f, "input");
}
FOLD_API fold_node fold_input(fold_ctx *f, const float *values, int n)
{
    return fold_input_shaped(f, values, fold_shape1(n));
}
FOLD_API fold_node fold_constant(fold_ctx *f, float value) { return fold_input(f, &value, 1); }
FOLD_API fold_node fold_zeros(fold_ctx *f, fold_shape shape) { return fold__input(f, NULL, &shape); }

FOLD_API fold_node fold_input_ref(fold_ctx *f, const float *values, fold_shape s)
{
    if (fold__broken(f))
        return fold__null;
    if (!values)
        return fold__missing(f, "input_ref");
    if (!fold__shape_ok(&s)) {
        fold__fail(f, FOLD_BAD_SHAPE, "input_ref: a shape needs rank 1 to 4 and dimensions of at least 1");
        return fold__null;
    }
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "input_ref: a cell body has no inputs but those it is given");
        return fold__null;
    }
    if (fold__own_place(f, values) != FOLD__ELSEWHERE) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "input_ref: the context's own values move: fold_input copies them");
        return fold__null;
    }
    const uint32_t shape = fold__intern_shape(f, &s);
    if (shape == FOLD__NONE || !fold__room(f, 1, 0))
        return fold__null;
    return fold__handle(f, fold__append(f, FOLD__REF, 0, 0, 0, shape, (uint64_t)(uintptr_t)values));
}

static fold__param_data *fold__param_or_fail(fold_ctx *f, fold_param p, const char *who)
{
    fold__param_data *d = fold__param_of(f->model, p);
    if (!d && !fold__broken(f))
        fold__fail(f, FOLD_BAD_HANDLE, "%s: not a parameter of this context's model", who);
    return fold__broken(f) ? NULL : d;
}

/* The shape of a table's rows, remembered until another table is looked into. */
static uint32_t fold__row_shape(fold_ctx *f, uint32_t table, const fold_shape *whole)
{
    fold_shape s = fold_shape1(whole->rank == 1 ? 1 : whole->dim[1]);
    for (int i = 2; i < whole->rank; i++) {
        s.dim[i - 1] = whole->dim[i];
        s.rank = i;
    }
    f->row_shape = fold__intern_shape(f, &s);
    f->row_of = f->row_shape == FOLD__NONE ? 0 : table;
    return f->row_shape;
}

FOLD_API fold_node fold_lookup(fold_ctx *f, fold_param table, int row)
{
    const fold__param_data *p = fold__param_or_fail(f, table, "lookup");
    if (!p)
        return fold__null;
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "lookup: not in a cell body: look up outside and pass the node in");
        return fold__null;
    }
    if (!(p->uses & FOLD_FOR_LOOKUP)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "lookup: parameter '%s' was not made with FOLD_FOR_LOOKUP", p->name);
        return fold__null;
    }
    if (row < 0 || row >= p->shape.dim[0]) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "lookup: row %d, but '%s' has %d rows", row, p->name,
                   p->shape.dim[0]);
        return fold__null;
    }
    const uint32_t shape = f->row_of == table.id ? f->row_shape : fold__row_shape(f, table.id, &p->shape);
    if (shape == FOLD__NONE || !fold__room(f, 1, 0) || (f->dedupe && !fold__twins_ready(f)))
        return fold__null;
    const uint32_t id =
        fold__append(f, FOLD__LOOKUP, 0, 0, 0, shape, (uint64_t)(table.id - 1) << 32 | (uint32_t)row);
    const uint32_t twin = f->dedupe ? fold__find_twin(f, id) : 0;
    return twin ? fold__found_twin(f, id, twin) : fold__handle(f, id);
}

FOLD_API fold_node fold_use(fold_ctx *f, fold_param param)
{
    const fold__param_data *p = fold__param_or_fail(f, param, "use");
    if (!p)
        return fold__null;
    const size_t had = f->arrays[FOLD__C_USE_NODE].capacity;
    const uint32_t shape = fold__intern_shape(f, &p->shape);
    if (shape == FOLD__NONE ||
        !fold__need(f, FOLD__C_USE_NODE, 2 * (size_t)f->model->n_params, sizeof(uint32_t)) ||
        !fold__room(f, 1, 0))
        return fold__null;
    fold__renew(f);
    if (f->arrays[FOLD__C_USE_NODE].capacity > had)
        memset(f->arrays[FOLD__C_USE_NODE].p + had, 0, f->arrays[FOLD__C_USE_NODE].capacity - had);
    uint32_t *node = fold__use_node(f, param.id - 1);
    if (!*node)
        *node = fold__append(f, FOLD__PARAM | FOLD__SHARED, 0, 0, 0, shape, param.id - 1);
    return fold__handle(f, *node);
}

FOLD_API fold_node fold_shared(fold_ctx *f, fold_node x)
{
    fold__operand o;
    if (!fold__operand_of(f, x, "shared", &o))
        return fold__null;
    if (f->frame.cell || (o.kind & FOLD__SHARED))
        return x;
    const fold_shape s = *fold__operand_shape(f, &o);
    return fold__window(f, &o, 0, &s, FOLD__SHARED);
}

/* -- products -------------------------------------------------------------------------------- */

static int fold__is_elem(const fold__operand *o)
{
    return (o->kind & FOLD__ELEM) || (o->kind & FOLD__KIND_MASK) == FOLD__ELEMS;
}

/* A linear op over operands, which are the parts of concatenation `whole` unless that is 0; in a list cell,
   leading segments that do not depend on the element become an op of their own per call, which the elements'
   op continues. */
static fold_node fold__linear_op(fold_ctx *f, fold__operand *x, int n, const int32_t attr[4],
                                 const uint32_t param[2], uint32_t whole)
{
    fold__request q;
    int mixed = 0, lead = 0;
    fold__clear_request(&q);
    q.op = FOLD__OP_linear;
    q.n_attr = 4;
    q.has_params = 1;
    q.data = whole;
    memcpy(q.attr, attr, sizeof q.attr);
    memcpy(q.param, param, sizeof q.param);
    for (int i = 0; i < n; i++)
        mixed |= fold__is_elem(&x[i]);
    while (mixed && lead < n && !fold__is_elem(&x[lead]))
        lead++;
    if (lead && !attr[1]) {
        q.in = x;
        q.n_in = (uint32_t)lead;
        const fold_node start = fold__record(f, &q);
        for (int i = 0; i < lead; i++)
            q.attr[2] += fold__shape_last(fold__operand_shape(f, &x[i]));
        memmove(x, x + lead, (size_t)(n - lead) * sizeof *x);
        n -= lead;
        if (!fold__operand_of(f, start, "linear", &x[n++]))
            return fold__null;
        q.attr[1] = 1;
        q.param[1] = 0;
    }
    q.in = x;
    q.n_in = (uint32_t)n;
    return fold__record(f, &q);
}

static int fold__is_concat(const fold_ctx *f, uint32_t id)
{
    return fold__is_op(f, id) && fold__sigs(f)[f->sig[id]].op == FOLD__OP_concat;
}

/* Replaces a concatenated vector by its parts. Parts past the room for operands stay concatenated. */
static int fold__expand_concat(const fold_ctx *f, fold__operand *x, int n)
{
    const uint32_t src = x[0].src;
    if (n != 1 || !fold__is_concat(f, src) || (x[0].kind & FOLD__SHARED))
        return n;
    const fold__sig *s = &fold__sigs(f)[f->sig[src]];
    if (s->shared || s->out_shape[0] != x[0].shape || fold__shapes(f)[x[0].shape].s.rank != 1)
        return n;
    for (int i = 0; i < s->n_in; i++) {
        x[i].src = f->esrc[f->edge0[src] + (uint32_t)i];
        x[i].off = f->eoff[f->edge0[src] + (uint32_t)i];
        x[i].shape = fold__keys(f)[s->key + s->in_shape + (uint32_t)i];
        x[i].kind = (uint8_t)(f->kind[x[i].src] & ~FOLD__SHARED);
    }
    return s->n_in;
}

/* Lets a product recorded over the parts of concatenation `whole` read them where they lie in that. */
static void fold__read_whole(fold_ctx *f, uint32_t id, uint32_t whole)
{
    const fold__sig *s = &fold__sigs(f)[f->sig[id]];
    const uint32_t *shape = fold__keys(f) + s->key + s->in_shape;
    uint32_t off = 0;
    for (uint32_t i = 0; i < s->n_in; i++) {
        f->esrc[f->edge0[id] + i] = whole;
        f->eoff[f->edge0[id] + i] = off;
        off += fold__shapes(f)[shape[i]].size;
    }
    f->node_data[id] = 0;
}

/* Products read the parts of a concatenation past it, unless its gradient is kept: then that is theirs. */
static void fold__read_kept_whole(fold_ctx *f)
{
    for (uint32_t i = 0; i < f->n_calls && f->kept_concats; i++) {
        const uint32_t id = f->calls[i], whole = (uint32_t)f->node_data[id];
        if (whole && fold__sigs(f)[f->sig[id]].op == FOLD__OP_linear && (f->kind[whole] & FOLD__KEEP_GRAD))
            fold__read_whole(f, id, whole);
    }
}

/* Replaces a shared operand by a copy of its own. */
static int fold__copy_operand(fold_ctx *f, fold__operand *x)
{
    fold__request q;
    fold__clear_request(&q);
    x->kind |= FOLD__SHARED;
    q.op = FOLD__OP_copy;
    q.in = x;
    q.n_in = 1;
    return fold__operand_of(f, fold__record(f, &q), "copy", x);
}

/* The rows of W that inputs meet: all; the first, as many as inputs have values; or the last, where the
   product starts from the last of `in`. */
enum { FOLD__ROWS_ALL, FOLD__ROWS_FIRST, FOLD__ROWS_LAST };
static fold_node fold__linear(fold_ctx *f, const fold_node *in, int n, fold_param W, fold_param b,
                              int transposed, int part)
{
    const int starts = part == FOLD__ROWS_LAST;
    fold__operand x[FOLD_MAX_IN + 1];
    const char *who = transposed ? "linear_t" : "linear";
    const fold__param_data *w = fold__param_or_fail(f, W, who), *bias = NULL;
    if (!w || (b.id && !(bias = fold__param_or_fail(f, b, who))))
        return fold__null;
    if (!in)
        return fold__missing(f, who);
    if (n < 1 || n > FOLD_MAX_IN) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: takes 1 to %d inputs, got %d", who, FOLD_MAX_IN, n);
        return fold__null;
    }
    for (int i = 0; i < n; i++)
        if (!fold__operand_of(f, in[i], who, &x[i]))
            return fold__null;
    const uint32_t read = x[0].src;
    if (!starts)
        n = fold__expand_concat(f, x, n); /* behind the start there is no room for parts */
    const uint32_t whole = x[0].src != read && !f->frame.cell ? read : 0;
    if (!(w->uses & (transposed ? FOLD_FOR_LINEAR_T : FOLD_FOR_LINEAR))) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: parameter '%s' was made without FOLD_FOR_LINEAR%s in its uses",
                   who, w->name, transposed ? "_T" : "");
        return fold__null;
    }
    const int inputs = w->shape.dim[transposed ? 1 : 0], outputs = w->shape.dim[transposed ? 0 : 1];
    int given = 0;
    for (int i = 0; i < n - starts; i++)
        given += fold__shape_last(fold__operand_shape(f, &x[i]));
    if (part == FOLD__ROWS_ALL ? given != inputs : given > inputs) {
        fold__fail(f, FOLD_BAD_SHAPE, "%s: input has %d values, %s is [%d x %d]", who, given, w->name,
                   w->shape.dim[0], w->shape.dim[1]);
        return fold__null;
    }
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != outputs)) {
        fold__fail(f, FOLD_BAD_SHAPE, "%s: bias %s must be [%d], %s is [%d x %d]", who, bias->name, outputs,
                   w->name, w->shape.dim[0], w->shape.dim[1]);
        return fold__null;
    }
    for (int i = 0; i < n; i++) { /* rows like any others; a parameter's by a copy */
        x[i].kind = (uint8_t)(x[i].kind & ~FOLD__SHARED);
        if ((f->kind[x[i].src] & FOLD__KIND_MASK) == FOLD__PARAM && !fold__copy_operand(f, &x[i]))
            return fold__null;
    }
    const int32_t attr[4] = { transposed, starts, starts ? inputs - given : 0, outputs };
    const uint32_t param[2] = { W.id, b.id };
    return fold__linear_op(f, x, n, attr, param, whole);
}
FOLD_API fold_node fold_linear(fold_ctx *f, fold_node x, fold_param W, fold_param b)
{
    return fold__linear(f, &x, 1, W, b, 0, FOLD__ROWS_ALL);
}
FOLD_API fold_node fold_linear_n(fold_ctx *f, const fold_node *x, int n, fold_param W, fold_param b)
{
    return fold__linear(f, x, n, W, b, 0, FOLD__ROWS_ALL);
}
FOLD_API fold_node fold_linear_t(fold_ctx *f, fold_node x, fold_param W, fold_param b)
{
    return fold__linear(f, &x, 1, W, b, 1, FOLD__ROWS_ALL);
}
FOLD_API fold_node fold_linear_first(fold_ctx *f, fold_node x, fold_param W, fold_param b)
{
    return fold__linear(f, &x, 1, W, b, 0, FOLD__ROWS_FIRST);
}
FOLD_API fold_node fold_linear_then(fold_ctx *f, fold_node start, fold_node h, fold_param W)
{
    const fold_node in[2] = { h, start };
    const fold_param none = { 0, 0 };
    return fold__linear(f, in, 2, W, none, 0, FOLD__ROWS_LAST);
}

FOLD_API fold_node fold_matmul(fold_ctx *f, fold_node a, fold_node b)
{
    const fold_node in[2] = { a, b };
    fold__operand o;
    if (!fold__operand_of(f, b, "matmul", &o))
        return fold__null;
    const int whole = o.shape == f->shape[o.src]; /* as it is packed */
    if ((f->kind[o.src] & FOLD__KIND_MASK) == FOLD__PARAM && whole) {
        const fold_param W = { (uint32_t)f->node_data[o.src] + 1, f->model->salt }, none = { 0, 0 };
        const fold__param_data *p = fold__param_of(f->model, W);
        if ((p->uses & FOLD_FOR_LINEAR) && fold__operand_shape(f, &o)->rank == 2)
            return fold_linear(f, a, W, none);
    }
    return fold__op(f, FOLD__OP_matmul, in, 2, NULL, 0);
}

/* -- simple ops ------------------------------------------------------------------------------ */

#define FOLD__UNARY(X)                                                                               \
    X(neg)                                                                                           \
    X(exp) X(log) X(sqrt) X(square) X(abs) X(sigmoid) X(tanh) X(relu) X(gelu) X(softplus) X(softmax) \
        X(log_softmax)
#define FOLD__BINARY(X) X(add) X(sub) X(mul) X(div) X(min) X(max) X(dot) X(softmax_kl) X(bce) X(squared_error)
#define FOLD__DEFINE_UNARY(name)                             \
    FOLD_API fold_node fold_##name(fold_ctx *f, fold_node x) \
    {                                                        \
        return fold__op(f, FOLD__OP_##name, &x, 1, NULL, 0); \
    }
#define FOLD__DEFINE_BINARY(name)                                         \
    FOLD_API fold_node fold_##name(fold_ctx *f, fold_node a, fold_node b) \
    {                                                                     \
        const fold_node in[2] = { a, b };                                 \
        return fold__op(f, FOLD__OP_##name, in, 2, NULL, 0);              \
    }
FOLD__UNARY(FOLD__DEFINE_UNARY)
FOLD__BINARY(FOLD__DEFINE_BINARY)
#undef FOLD__UNARY
#undef FOLD__BINARY
#undef FOLD__DEFINE_UNARY
#undef FOLD__DEFINE_BINARY

static uint64_t fold__float_data(float x) { return (uint32_t)fold__float_attr(x); }
FOLD_API fold_node fold_scale(fold_ctx *f, fold_node x, float factor)
{
    return fold__op(f, FOLD__OP_scale, &x, 1, NULL, fold__float_data(factor));
}
FOLD_API fold_node fold_shift(fold_ctx *f, fold_node x, float term)
{
    return fold__op(f, FOLD__OP_shift, &x, 1, NULL, fold__float_data(term));
}
FOLD_API fold_node fold_stop_gradient(fold_ctx *f, fold_node x)
{
    return fold__op(f, FOLD__OP_stop, &x, 1, NULL, 0);
}
FOLD_API fold_node fold_leaky_relu(fold_ctx *f, fold_node x, float slope)
{
    const int32_t attr[1] = { fold__float_attr(slope) };
    return fold__op(f, FOLD__OP_leaky, &x, 1, attr, 0);
}
FOLD_API fold_node fold_sum(fold_ctx *f, fold_node x, int axis)
{
    const int32_t a[1] = { axis };
    return fold__op(f, FOLD__OP_sum, &x, 1, a, 0);
}
FOLD_API fold_node fold_mean(fold_ctx *f, fold_node x, int axis)
{
    const int32_t a[1] = { axis };
    return fold__op(f, FOLD__OP_mean, &x, 1, a, 0);
}
FOLD_API fold_node fold_amax(fold_ctx *f, fold_node x, int axis)
{
    const int32_t a[1] = { axis };
    return fold__op(f, FOLD__OP_amax, &x, 1, a, 0);
}
/* Whether a parameter still is the zeros that it is made of when nobody says what. Inference models wait for a
   file. */
static int fold__is_forgotten(const fold_model *m, const fold__param_data *p)
{
    size_t i = 0;
    if (!p->zeros_by_default || m->inference)
        return 0;
    while (i < p->size && fold__values(m)[p->at + i] == 0)
        i++;
    return i == p->size;
}
FOLD_API fold_node fold_layer_norm(fold_ctx *f, fold_node x, fold_param gain, fold_param bias)
{
    const fold_node in[3] = { x, fold_use(f, gain), fold_use(f, bias) };
    const fold__param_data *g = fold__param_or_fail(f, gain, "layer_norm");
    if (g && fold__is_forgotten(f->model, g)) {
        fold__fail(f, FOLD_BAD_ARGUMENT,
                   "layer_norm: the gain '%.60s' is all zeros, as it was made: fold_gain_new makes ones",
                   g->name);
        return fold__null;
    }
    return fold__op(f, FOLD__OP_layer_norm, in, 3, NULL, 0);
}
FOLD_API fold_node fold_transpose(fold_ctx *f, fold_node x, int axis_a, int axis_b)
{
    const int32_t attr[2] = { axis_a, axis_b };
    return fold__op(f, FOLD__OP_transpose, &x, 1, attr, 0);
}
FOLD_API fold_node fold_select(fold_ctx *f, fold_node condition, fold_node a, fold_node b)
{
    const fold_node in[3] = { condition, a, b };
    return fold__op(f, FOLD__OP_select, in, 3, NULL, 0);
}
FOLD_API fold_node fold_huber(fold_ctx *f, fold_node a, fold_node b, float delta)
{
    const fold_node in[2] = { a, b };
    const int32_t attr[1] = { fold__float_attr(delta) };
    if (!fold__broken(f) && !(delta > 0))
        fold__fail(f, FOLD_BAD_ARGUMENT, "huber: delta must be positive, got %g", (double)delta);
    return fold__op(f, FOLD__OP_huber, in, 2, attr, 0);
}

/* Ops with an index into their input: data, checked here because kernels trust it. */
static fold_node fold__indexed(fold_ctx *f, uint32_t op, fold_node x, int index)
{
    fold__operand o;
    const char *name = fold__op_of(f->model, op)->def.name;
    if (!fold__operand_of(f, x, name, &o))
        return fold__null;
    const int size = (int)fold__shapes(f)[o.shape].size;
    if (index < 0 || index >= size) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: index %d, but there are %d values", name, index, size);
        return fold__null;
    }
    return fold__op(f, op, &x, 1, NULL, (uint64_t)(uint32_t)index);
}
FOLD_API fold_node fold_pick(fold_ctx *f, fold_node x, int index)
{
    return fold__indexed(f, FOLD__OP_pick, x, index);
}
FOLD_API fold_node fold_softmax_xent(fold_ctx *f, fold_node logits, int label)
{
    return fold__indexed(f, FOLD__OP_softmax_xent, logits, label);
}
FOLD_API fold_node fold_hinge(fold_ctx *f, fold_node scores, int label)
{
    return fold__indexed(f, FOLD__OP_hinge, scores, label);
}

/* Draw d of a sample has key mix(seed + (d + 1) * step): a cell call stores where its draws begin. */
#define FOLD__DRAW_STEP UINT64_C(0x9e3779b97f4a7c15)
#define FOLD__ELEMENT_STEP UINT64_C(0xd1342543de82ef95)
static uint64_t fold__draw_key(uint64_t base, uint64_t draw, uint64_t element)
{
    return fold__mix64(base + (draw + 1) * FOLD__DRAW_STEP + element * FOLD__ELEMENT_STEP);
}
static uint64_t fold__draw_base(const fold_ctx *f) { return f->seed + f->draws * FOLD__DRAW_STEP; }

FOLD_API fold_node fold_dropout(fold_ctx *f, fold_node x, float rate)
{
    const int32_t attr[1] = { fold__float_attr(rate) };
    fold__operand o;
    if (!fold__operand_of(f, x, "dropout", &o))
        return fold__null;
    if (!(rate >= 0 && rate < 1)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "dropout: rate %g is not in [0, 1)", (double)rate);
        return fold__null;
    }
    if (!f->training && !f->frame.cell)
        return x;
    const fold_node y =
        fold__op(f, FOLD__OP_dropout, &x, 1, attr, f->frame.tracing ? f->draws : fold__draw_base(f));
    f->draws++;
    return y;
}

/* -- moving values --------------------------------------------------------------------------- */

FOLD_API fold_node fold_concat(fold_ctx *f, const fold_node *x, int n, int axis)
{
    fold__operand o[FOLD_MAX_IN];
    fold__request q;
    if (fold__broken(f))
        return fold__null;
    if (!x)
        return fold__missing(f, "concat");
    if (n < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "concat: needs at least one node, got %d", n);
        return fold__null;
    }
    if (n > FOLD_MAX_IN) { /* in two halves */
        const fold_node half[2] = { fold_concat(f, x, n / 2, axis),
                                    fold_concat(f, x + n / 2, n - n / 2, axis) };
        return fold_concat(f, half, 2, axis);
    }
    for (int i = 0; i < n; i++)
        if (!fold__operand_of(f, x[i], "concat", &o[i]))
            return fold__null;
    fold__clear_request(&q);
    q.op = FOLD__OP_concat;
    q.in = o;
    q.n_in = (uint32_t)n;
    q.n_attr = 1;
    q.attr[0] = axis;
    return fold__record(f, &q);
}
FOLD_API fold_node fold_concat2(fold_ctx *f, fold_node a, fold_node b)
{
    const fold_node x[2] = { a, b };
    return fold_concat(f, x, 2, 0);
}

FOLD_API fold_node fold_slice(fold_ctx *f, fold_node x, int axis, int start, int length)
{
    fold__operand o;
    const int32_t attr[3] = { axis, start, length };
    fold_shape out;
    if (!fold__operand_of(f, x, "slice", &o))
        return fold__null;
    const fold_shape *s = fold__operand_shape(f, &o);
    const char *wrong = fold__infer_slice(s, 1, attr, &out);
    if (wrong) {
        fold__fail_shapes(f, "slice", wrong, s, 1);
        return fold__null;
    }
    if (axis > 0)
        return fold__op(f, FOLD__OP_slice, &x, 1, attr, 0);
    uint32_t off = (uint32_t)start;
    for (int i = 1; i < s->rank; i++)
        off *= (uint32_t)s->dim[i];
    return fold__window(f, &o, off, &out, 0);
}

FOLD_API void fold_split(fold_ctx *f, fold_node x, int n, fold_node *parts)
{
    fold__operand o;
    if (!parts) {
        fold__missing(f, "split");
        return;
    }
    if (n < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "split: into at least 1 part, got %d", n);
        return;
    }
    for (int i = 0; i < n; i++)
        parts[i] = fold__null;
    if (!fold__operand_of(f, x, "split", &o))
        return;
    const fold_shape s = *fold__operand_shape(f, &o);
    if (s.dim[0] % n) {
        fold__fail_shapes(f, "split", "the first axis does not divide evenly", &s, 1);
        return;
    }
    for (int i = 0; i < n; i++)
        parts[i] = fold_slice(f, x, 0, i * (s.dim[0] / n), s.dim[0] / n);
}

FOLD_API fold_node fold_stack(fold_ctx *f, const fold_node *x, int n)
{
    fold_shape both[2];
    if (fold__broken(f))
        return fold__null;
    if (!x)
        return fold__missing(f, "stack");
    if (n < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "stack: needs at least one node, got %d", n);
        return fold__null;
    }
    for (int i = 0; i < n; i++) {
        fold__operand o;
        if (!fold__operand_of(f, x[i], "stack", &o))
            return fold__null;
        both[i > 0] = *fold__operand_shape(f, &o);
        if (!i || fold__shape_same(&both[0], &both[1]))
            continue;
        fold__fail_shapes(f, "stack", "its values must have one shape", both, 2);
        return fold__null;
    }
    const fold_shape one = both[0];
    if (one.rank == FOLD_MAX_RANK) {
        fold__fail_shapes(f, "stack", "takes values of rank 1 to 3", &one, 1);
        return fold__null;
    }
    const fold_shape all = { one.rank + 1, { n, one.dim[0], one.dim[1], one.dim[2] } };
    return fold_reshape(f, fold_concat(f, x, n, 0), all);
}

FOLD_API void fold_unstack(fold_ctx *f, fold_node x, int n, fold_node *parts)
{
    fold__operand o;
    if (!parts) {
        fold__missing(f, "unstack");
        return;
    }
    if (n < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unstack: into at least 1 part, got %d", n);
        return;
    }
    for (int i = 0; i < n; i++)
        parts[i] = fold__null;
    if (!fold__operand_of(f, x, "unstack", &o))
        return;
    const fold_shape s = *fold__operand_shape(f, &o);
    if (s.dim[0] != n) {
        fold__fail_shapes(f, "unstack", "the first axis has another size than the parts asked for", &s, 1);
        return;
    }
    fold_shape one = fold_shape1(1);
    for (int i = 1; i < s.rank; i++) {
        one.dim[i - 1] = s.dim[i];
        one.rank = i;
    }
    for (int i = 0; i < n; i++)
        parts[i] = fold__window(f, &o, (uint32_t)(i * fold__shape_size(&one)), &one, 0);
}

FOLD_API fold_node fold_reshape(fold_ctx *f, fold_node x, fold_shape shape)
{
    fold__operand o;
    if (!fold__operand_of(f, x, "reshape", &o))
        return fold__null;
    const fold_shape s = *fold__operand_shape(f, &o);
    if (!fold__shape_ok(&shape) || fold__shape_size(&shape) != fold__shape_size(&s)) {
        fold__fail_shapes(f, "reshape", "the new shape has another number of values", &s, 1);
        return fold__null;
    }
    return fold__window(f, &o, 0, &shape, 0);
}

/* -- over lists ------------------------------------------------------------------------------ */

/* Makes the per-sample copy of a parameter that stands for it in lists. */
static int fold__copy_param(fold_ctx *f, uint32_t src)
{
    const uint32_t param = (uint32_t)f->node_data[src];
    fold__operand o = { src, 0, f->shape[src], f->kind[src] };
    if (fold__use_node(f, param)[1])
        return 1;
    if (!fold__copy_operand(f, &o))
        return 0;
    fold__use_node(f, param)[1] = o.src;
    return 1;
}

static int fold__count_ok(fold_ctx *f, int n, const char *who)
{
    if (n < 0)
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: a count of %d", who, n);
    return n >= 0;
}

/* Checks the handles of one component and finds its shape; `shape` is given for empty lists. */
static int fold__check_list(fold_ctx *f, const char *who, const fold_node *x, size_t step, size_t n,
                            uint32_t *shape)
{
    for (size_t i = 0; i < n; i++) {
        fold__operand o;
        if (!fold__operand_of(f, x[i * step], who, &o))
            return 0;
        if ((o.kind & FOLD__KIND_MASK) == FOLD__PARAM && !fold__copy_param(f, o.src))
            return 0;
        if (*shape == FOLD__NONE)
            *shape = o.shape;
        if (o.shape != *shape) {
            const fold_shape both[2] = { fold__shapes(f)[*shape].s, fold__shapes(f)[o.shape].s };
            fold__fail_shapes(f, who, "the elements of a list must have one shape", both, 2);
            return 0;
        }
    }
    return 1;
}

static fold_node fold__list_op(fold_ctx *f, uint32_t op, const fold_node *first, const fold_node *second,
                               int n, const fold_shape *empty)
{
    fold__list list;
    fold__request q;
    const char *who = fold__op_of(f->model, op)->def.name;
    if (fold__broken(f) || !fold__count_ok(f, n, who))
        return fold__null;
    if (n && !first)
        return fold__missing(f, who);
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "%s: in a cell body use the fold_list_ reductions", who);
        return fold__null;
    }
    if (!n && !empty) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: an empty list %s", who,
                   op == FOLD__OP_max_n ? "has no maximum" : "has no shape: use the _shaped form");
        return fold__null;
    }
    fold__clear_request(&q);
    memset(&list, 0, sizeof list);
    q.list_shape[0] = q.list_shape[1] = FOLD__NONE;
    q.n_list = second || op == FOLD__OP_attend_n ? 2 : 1;
    const int value = q.n_list - 1;
    if (empty) {
        const fold_shape scalar = fold_shape1(1);
        if (!fold__shape_ok(empty)) {
            fold__fail(f, FOLD_BAD_SHAPE, "%s: the shape is not valid", who);
            return fold__null;
        }
        if (value)
            q.list_shape[0] = fold__intern_shape(f, &scalar);
        q.list_shape[value] = fold__intern_shape(f, empty);
        if (q.list_shape[0] == FOLD__NONE || q.list_shape[value] == FOLD__NONE)
            return fold__null;
    }
    if (!fold__check_list(f, who, first, 1, (size_t)n, &q.list_shape[0]))
        return fold__null;
    if (value && !fold__check_list(f, who, second, 1, (size_t)n, &q.list_shape[1]))
        return fold__null;
    list.first = first;
    list.second = second;
    list.step = 1;
    list.count = (size_t)n;
    q.op = op;
    q.list = &list;
    return fold__record(f, &q);
}
FOLD_API fold_node fold_sum_n(fold_ctx *f, const fold_node *x, int n)
{
    return fold__list_op(f, FOLD__OP_sum_n, x, NULL, n, NULL);
}
FOLD_API fold_node fold_mean_n(fold_ctx *f, const fold_node *x, int n)
{
    return fold__list_op(f, FOLD__OP_mean_n, x, NULL, n, NULL);
}
FOLD_API fold_node fold_max_n(fold_ctx *f, const fold_node *x, int n)
{
    return fold__list_op(f, FOLD__OP_max_n, x, NULL, n, NULL);
}
FOLD_API fold_node fold_attend_n(fold_ctx *f, const fold_node *score, const fold_node *value, int n)
{
    if (n && !value)
        return fold__missing(f, "attend_n");
    return fold__list_op(f, FOLD__OP_attend_n, score, value, n, NULL);
}
FOLD_API fold_node fold_sum_n_shaped(fold_ctx *f, const fold_node *x, int n, fold_shape shape)
{
    return fold__list_op(f, FOLD__OP_sum_n, x, NULL, n, &shape);
}
FOLD_API fold_node fold_attend_n_shaped(fold_ctx *f, const fold_node *score, const fold_node *value, int n,
                                        fold_shape shape)
{
    if (n && !value)
        return fold__missing(f, "attend_n");
    return fold__list_op(f, FOLD__OP_attend_n, score, value, n, &shape);
}

/* -- user ops -------------------------------------------------------------------------------- */

FOLD_API fold_op fold_op_new(fold_model *m, const fold_op_desc *d)
{
    fold_op none = { 0, 0 };
    if (!m || m->error.status)
        return none;
    const int bad = !d || !d->name || !d->infer || !d->forward || d->n_in == 0 || d->n_in < -1 ||
                    d->n_in > FOLD_MAX_IN || d->n_out < 1 || d->n_out > FOLD_MAX_OUT || d->n_attr < 0 ||
                    d->n_attr > 4 || (d->is_list && (d->n_in < 1 || d->n_in > 2 || d->n_out != 1)) ||
                    d->scratch < 0;
    if (bad) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT,
                         "op '%s': needs a name, infer, forward, 1 to %d inputs (list ops 1 or 2), 1 to %d "
                         "outputs (list ops 1), at most 4 attributes, no negative scratch",
                         d && d->name ? d->name : "", FOLD_MAX_IN, FOLD_MAX_OUT);
        return none;
    }
    if (!fold__arena_need(&m->arena, FOLD__M_OPS, (m->n_ops + 1) * sizeof(fold__op_row))) {
        fold__model_fail(m, FOLD_NO_MEMORY, "op '%s': out of memory", d->name);
        return none;
    }
    fold__op_row *row = (fold__op_row *)(void *)m->arrays[FOLD__M_OPS].p + m->n_ops++;
    row->def = *d;
    row->flags = (d->is_list ? (unsigned)FOLD__LIST : 0) | (d->one_row ? (unsigned)FOLD__ONE_ROW : 0);
    const fold_op op = { m->n_ops, m->salt };
    return op;
}

FOLD_API fold_node fold_op_apply(fold_ctx *f, fold_op op, const fold_node *in, int n_in, const int32_t *attr,
                                 uint64_t data)
{
    fold__operand o[FOLD_MAX_IN];
    fold__list list;
    fold__request q;
    if (fold__broken(f))
        return fold__null;
    if (!op.id || op.salt != f->model->salt || op.id > f->model->n_ops) {
        fold__fail(f, FOLD_BAD_HANDLE, "apply: not an op of this context's model");
        return fold__null;
    }
    fold__clear_request(&q);
    q.op = FOLD__OP_COUNT + op.id - 1;
    const fold_op_desc *d = &fold__op_of(f->model, q.op)->def;
    if (!in || (d->n_attr && !attr))
        return fold__missing(f, d->name);
    if (d->is_list ? n_in <= 0 || n_in % d->n_in
                   : n_in <= 0 || n_in > FOLD_MAX_IN || (d->n_in > 0 && n_in != d->n_in)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: %d inputs do not fit", d->name, n_in);
        return fold__null;
    }
    q.n_attr = d->n_attr;
    q.data = data;
    for (int i = 0; i < d->n_attr; i++)
        q.attr[i] = attr[i];
    if (d->is_list) {
        memset(&list, 0, sizeof list);
        if (f->frame.cell) {
            fold__fail(f, FOLD_BAD_CELL, "%s: list ops of your own cannot be used in a cell body", d->name);
            return fold__null;
        }
        list.first = in;
        list.step = (size_t)d->n_in;
        list.count = (size_t)(n_in / d->n_in);
        q.n_list = d->n_in;
        q.list = &list;
        for (int c = 0; c < d->n_in; c++) {
            q.list_shape[c] = FOLD__NONE;
            if (!fold__check_list(f, d->name, in + c, list.step, list.count, &q.list_shape[c]))
                return fold__null;
        }
        return fold__record(f, &q);
    }
    for (int i = 0; i < n_in; i++)
        if (!fold__operand_of(f, in[i], d->name, &o[i]))
            return fold__null;
    q.in = o;
    q.n_in = (uint32_t)n_in;
    return fold__record(f, &q);
}

/* ==== room: cells ===========================================================================
   Owns: tracing a body into a program, recording calls, and running bodies op by op in eager contexts, where
   copies at the inputs and outputs stand for the call's own borders. Calls: recording. Must not know plans.
 */

static uint32_t fold__operand_tag(const fold_ctx *f, uint32_t src)
{
    switch (f->kind[src] & FOLD__KIND_MASK) {
    case FOLD__OP: return fold__sigs(f)[f->sig[src]].tag_op;
    case FOLD__EXTRA:
        return fold__sigs(f)[f->sig[f->node_data[src]]].tag_op + ((src - (uint32_t)f->node_data[src]) << 20);
    case FOLD__INPUT: return FOLD__TAG_BARRIER + 1 + (uint32_t)f->node_data[src];
    case FOLD__PARAM: return FOLD__TAG_PARAM + (uint32_t)f->node_data[src];
    default: return f->place[src]; /* elements */
    }
}

static uint32_t fold__hash_operand(const fold_ctx *f, uint32_t h, uint32_t src, uint32_t off,
                                   const fold_shape *s)
{
    uint32_t w[8] = { h, fold__operand_tag(f, src), off, (uint32_t)s->rank, 0, 0, 0, 0 };
    for (int i = 0; i < s->rank; i++)
        w[4 + i] = (uint32_t)s->dim[i];
    return fold__hash_words(w, 8);
}

/* What identifies an op of a body, in any context. */
static uint32_t fold__trace_hash(const fold_ctx *f, const fold__request *q)
{
    const uint64_t data =
        q->op < FOLD__OP_COUNT && (fold__op_table[q->op].flags & FOLD__RANDOM) ? 0 : q->data;
    const uint32_t w[9] = {
        q->op,       (uint32_t)q->attr[0], (uint32_t)q->attr[1], (uint32_t)q->attr[2],  (uint32_t)q->attr[3],
        q->param[0], q->param[1],          (uint32_t)data,       (uint32_t)(data >> 32)
    };
    uint32_t h = fold__hash_words(w, 9);
    for (uint32_t i = 0; i < q->n_in; i++)
        h = fold__hash_operand(f, h, q->in[i].src, q->in[i].off, fold__operand_shape(f, &q->in[i]));
    for (int c = 0; c < q->n_list; c++)
        h = fold__hash_operand(f, h, q->list->elems[c], q->list->elems_off[c],
                               &fold__shapes(f)[q->list_shape[c]].s);
    return h;
}

/* Notes an op of a traced body, or holds an eager body's op against it. */
static void fold__trace_step(fold_ctx *f, const fold__request *q)
{
    f->frame.hash = fold__trace_hash(f, q);
    if (f->frame.tracing || fold__broken(f))
        return;
    const fold__cell_data *cell = &fold__cells(f->model)[f->frame.cell - 1];
    const uint32_t at = f->frame.ordinal;
    if (at >= (uint32_t)cell->n_trace)
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': it had %d ops when traced, and records another, '%s'",
                   cell->name, cell->n_trace, fold__request_name(f, q->op));
    else if (cell->trace[at].op != q->op)
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': op %d was '%s' when traced and is '%s' in this call",
                   cell->name, (int)at, fold__request_name(f, cell->trace[at].op),
                   fold__request_name(f, q->op));
    else if (cell->trace[at].hash != f->frame.hash)
        fold__fail(f, FOLD_BAD_CELL,
                   "cell '%s': op %d ('%s') has other operands or attributes in this call than when traced",
                   cell->name, (int)at, fold__request_name(f, q->op));
}

/* A copy of one operand, as an op beside the traced ones. */
static uint32_t fold__barrier(fold_ctx *f, uint32_t tag, const fold__operand *o, uint64_t data)
{
    fold__request q;
    const uint32_t ordinal = f->frame.ordinal;
    fold__clear_request(&q);
    q.op = FOLD__OP_copy;
    q.in = o;
    q.n_in = 1;
    q.data = data;
    f->frame.ordinal = tag;
    const fold_node x = fold__record(f, &q);
    f->frame.ordinal = ordinal;
    return x.id;
}

/* Eager: an op on list elements is one op per element, behind a marker node that stands for them all. Values
   of the call that it uses are copied once, so that their gradient sums the elements first. */
static fold_node fold__record_elements(fold_ctx *f, const fold__request *q)
{
    fold__operand in[FOLD_MAX_IN + 1];
    const uint32_t n = f->frame.elements, ordinal = f->frame.ordinal;
    fold__request one = *q;
    memcpy(in, q->in, q->n_in * sizeof *in);
    for (uint32_t i = 0; i < q->n_in; i++) {
        if ((in[i].kind & FOLD__KIND_MASK) == FOLD__ELEMS || (in[i].kind & FOLD__SHARED))
            continue;
        in[i].src = fold__barrier(f, FOLD__TAG_SPREAD + ordinal * FOLD_MAX_IN + i, &in[i], 0);
        in[i].off = 0;
        in[i].kind = FOLD__OP;
        if (!in[i].src)
            return fold__null;
    }
    one.in = in;
    if (fold__broken(f) || !fold__room(f, n + 1, (size_t)n * q->n_in))
        return fold__null;
    const uint32_t sig = fold__request_sig(f, &one);
    if (sig && fold__sigs(f)[sig].n_out > 1)
        fold__fail(f, FOLD_BAD_CELL, "%s: an eager context runs no op of several outputs on list elements",
                   fold__request_name(f, q->op));
    if (!sig || fold__broken(f))
        return fold__null;
    const uint32_t shape = fold__sigs(f)[sig].out_shape[0];
    const uint32_t marker = fold__append(f, FOLD__ELEMS, 0, 0, 0, shape, n);
    f->place[marker] = ordinal + 1;
    const int random = (fold__op_of(f->model, q->op)->flags & FOLD__RANDOM) != 0;
    for (uint32_t e = 0; e < n; e++) {
        for (uint32_t i = 0; i < q->n_in; i++) {
            const int per_element = (in[i].kind & FOLD__KIND_MASK) == FOLD__ELEMS;
            f->esrc[f->n_edges] = in[i].src + (per_element ? 1 + e : 0);
            f->eoff[f->n_edges++] = in[i].off;
        }
        fold__append_call(f, sig, 0, q->data + (random ? (e + 1) * FOLD__ELEMENT_STEP : 0));
    }
    f->frame.ordinal = ordinal + 1;
    for (uint32_t e = 0; e < n && !fold__broken(f); e++)
        fold__eager_run(f, marker + 1 + e);
    return fold__broken(f) ? fold__null : fold__handle(f, marker);
}

static fold_node fold__list_reduce(fold_ctx *f, uint32_t op, fold_node x, const fold_node *second)
{
    fold__operand o[2];
    fold__list list;
    fold__request q;
    const char *who = fold__op_of(f->model, op)->def.name;
    if (!fold__operand_of(f, x, who, &o[0]) || (second && !fold__operand_of(f, *second, who, &o[1])))
        return fold__null;
    fold__clear_request(&q);
    memset(&list, 0, sizeof list);
    q.n_list = second ? 2 : 1;
    for (int c = 0; c < q.n_list; c++) {
        if (!f->frame.cell || !fold__is_elem(&o[c])) {
            fold__fail(
                f, FOLD_BAD_CELL,
                "fold_list reductions take values of list elements, in the body of a cell with a list (%s)",
                who);
            return fold__null;
        }
        list.elems[c] = o[c].src;
        list.elems_off[c] = o[c].off;
        q.list_shape[c] = o[c].shape;
    }
    list.count = f->frame.tracing ? 1 : f->frame.elements;
    if (op == FOLD__OP_max_n)
        f->frame.list_max = 1;
    q.op = op;
    q.list = &list;
    return fold__record(f, &q);
}
FOLD_API fold_node fold_list_sum(fold_ctx *f, fold_node x)
{
    return fold__list_reduce(f, FOLD__OP_sum_n, x, NULL);
}
FOLD_API fold_node fold_list_mean(fold_ctx *f, fold_node x)
{
    return fold__list_reduce(f, FOLD__OP_mean_n, x, NULL);
}
FOLD_API fold_node fold_list_max(fold_ctx *f, fold_node x)
{
    return fold__list_reduce(f, FOLD__OP_max_n, x, NULL);
}
FOLD_API fold_node fold_list_attend(fold_ctx *f, fold_node score, fold_node value)
{
    return fold__list_reduce(f, FOLD__OP_attend_n, score, &value);
}

/* Makes every output a whole value of the body, each its own: copies those that are not. */
static int fold__finish_outputs(fold_ctx *f, const char *name, fold_node *out, int n)
{
    for (int i = 0; i < n; i++) {
        fold__operand o;
        if (!out[i].id && !fold__broken(f))
            fold__fail(f, FOLD_BAD_CELL, "cell '%s': its body left output %d null", name, i);
        if (!fold__operand_of(f, out[i], name, &o))
            return 0;
        if (fold__is_elem(&o)) {
            fold__fail(f, FOLD_BAD_CELL,
                       "cell '%s': output %d is one value per list element: reduce it first", name, i);
            return 0;
        }
        int copy = fold__operand_tag(f, o.src) % (1u << 20) >= FOLD__TAG_BARRIER ||
                   fold__shapes(f)[o.shape].size != fold__value_size(f, o.src);
        for (int j = 0; j < i; j++)
            copy |= f->src[out[j].id] == o.src;
        if (!copy)
            continue;
        o.kind = (uint8_t)(o.kind & ~FOLD__SHARED);
        fold__request q;
        fold__clear_request(&q);
        q.op = FOLD__OP_copy;
        q.in = &o;
        q.n_in = 1;
        if ((f->kind[o.src] & FOLD__KIND_MASK) == FOLD__PARAM)
            o.kind |= FOLD__SHARED;
        out[i] = fold__record(f, &q);
        if (!out[i].id)
            return 0;
    }
    return 1;
}

/* -- tracing --------------------------------------------------------------------------------- */

typedef struct fold__trace {
    fold_ctx *t;
    fold__cell_data *cell;
    const uint32_t *out;
    uint32_t *value_of;
    uint8_t *live;
} fold__trace;

static void fold__trace_live(const fold__trace *x)
{
    const fold_ctx *t = x->t;
    for (int i = 0; i < x->cell->desc.n_out; i++)
        x->live[x->out[i]] = 1;
    for (uint32_t id = t->n_nodes; id > 0; id--) {
        if (!x->live[id])
            continue;
        if ((t->kind[id] & FOLD__KIND_MASK) == FOLD__EXTRA) {
            x->live[t->node_data[id]] = 1;
            continue;
        }
        if ((t->kind[id] & FOLD__KIND_MASK) != FOLD__OP)
            continue;
        for (uint32_t e = t->edge0[id]; e < t->edge0[id + 1]; e++)
            x->live[t->esrc[e]] = 1;
    }
}

static void fold__trace_ref(const fold__trace *x, uint32_t edge, fold__ref *r)
{
    const fold_ctx *t = x->t;
    const uint32_t src = t->esrc[edge], n_in = (uint32_t)x->cell->desc.n_in;
    r->off = t->eoff[edge];
    switch (t->kind[src] & FOLD__KIND_MASK) {
    case FOLD__INPUT:
        r->kind = t->node_data[src] < n_in ? FOLD__FROM_INPUT : FOLD__FROM_LIST;
        r->index = (uint32_t)t->node_data[src] - (r->kind == FOLD__FROM_LIST ? n_in : 0);
        break;
    case FOLD__PARAM:
        r->kind = FOLD__FROM_PARAM;
        r->index = (uint32_t)t->node_data[src];
        break;
    default: r->kind = FOLD__FROM_VALUE; r->index = x->value_of[src];
    }
}

/* Marks the values of a program that some output's gradient reaches. */
static void fold__mark_passes(const fold_model *m, const fold__program *p, fold__value *values)
{
    for (int i = 0; i < p->n_out; i++)
        values[p->out[i].index].passes = 1;
    for (int i = p->n_ops; i-- > 0;) {
        const fold__body_op *op = &p->op[i];
        uint8_t passes = 0;
        for (uint32_t v = op->value0; v < op->value0 + op->n_out; v++)
            passes |= values[v].passes;
        for (uint32_t v = op->value0; v < op->value0 + op->n_out; v++)
            values[v].passes = passes;
        for (int j = 0; j < op->n_in; j++) {
            const fold__ref *ref = fold__passed_operand(m, p, op, j);
            if (ref && ref->kind == FOLD__FROM_VALUE)
                values[ref->index].passes = 1;
        }
    }
}

/* The live ops of a trace become the cell's program; its arrays are large enough for all of them. */
static void fold__compile(const fold__trace *x, fold__body_op *ops, fold__ref *refs, fold_shape *shapes,
                          fold__value *values)
{
    const fold_ctx *t = x->t;
    fold__program *p = &x->cell->program;
    uint32_t n_refs = 0, n_shapes = 0;
    int n_trace = 0;
    for (uint32_t id = 1; id <= t->n_nodes; id++) {
        if ((t->kind[id] & FOLD__KIND_MASK) != FOLD__OP)
            continue;
        const fold__sig *s = &fold__sigs(t)[t->sig[id]];
        x->cell->trace[n_trace].op = s->op;
        x->cell->trace[n_trace].hash = t->place[id];
        int live = 0;
        for (uint32_t i = 0; i < s->n_out; i++)
            live |= x->live[id + i];
        x->cell->trace[n_trace++].live = live;
        if (!live)
            continue;
        const fold__program one = fold__program_of(t, s);
        fold__body_op *op = &ops[p->n_ops];
        *op = one.op[0];
        op->ref0 = n_refs;
        op->shape0 = n_shapes;
        op->value0 = (uint32_t)p->n_values;
        op->elem = (t->kind[id] & FOLD__ELEM) != 0;
        op->data = t->node_data[id];
        memcpy(shapes + n_shapes, one.shape, (size_t)(op->n_in + op->n_out) * sizeof *shapes);
        n_shapes += (uint32_t)op->n_in + op->n_out;
        for (uint32_t e = t->edge0[id]; e < t->edge0[id + 1]; e++)
            fold__trace_ref(x, e, &refs[n_refs++]);
        for (uint32_t i = 0; i < op->n_out; i++) {
            fold__value *v = &values[p->n_values];
            x->value_of[id + i] = (uint32_t)p->n_values++;
            v->size = one.value[i].size;
            v->op = (uint32_t)p->n_ops;
            v->elem = op->elem;
        }
        p->n_ops++;
    }
    p->n_refs = (int)n_refs;
    for (int i = 0; i < p->n_out; i++) {
        refs[n_refs].kind = FOLD__FROM_VALUE;
        refs[n_refs].index = x->value_of[x->out[i]];
        refs[n_refs++].off = 0;
    }
    p->op = ops;
    p->ref = refs;
    p->shape = shapes;
    p->value = values;
    p->out = refs + p->n_refs;
    fold__mark_passes(t->model, p, values);
}

/* One block holds a cell: its names, trace and program. */
static int fold__store_cell(fold_model *m, fold__cell_data *cell, const fold_cell_desc *d,
                            const uint32_t *out)
{
    fold_ctx *t = m->tracer;
    const size_t nodes = t->n_nodes + 1, edges = t->n_edges, name = strlen(d->name) + 1;
    const size_t sizes[8] = { nodes * sizeof(fold__body_op),
                              (edges + FOLD_MAX_OUT) * sizeof(fold__ref),
                              (edges + nodes) * sizeof(fold_shape),
                              nodes * sizeof(fold__value),
                              nodes * sizeof(fold__trace_op),
                              nodes * sizeof(uint32_t),
                              d->user_size + 1,
                              name + nodes };
    size_t at[9] = { 0 };
    for (int i = 0; i < 8; i++)
        at[i + 1] = at[i] + fold__round_up(sizes[i], FOLD__ALIGN);
    char *block = (char *)m->arena.memory.alloc(at[8], FOLD__ALIGN, m->arena.memory.user);
    if (!block) {
        fold__model_fail(m, FOLD_NO_MEMORY, "cell '%s': out of memory", d->name);
        return 0;
    }
    memset(block, 0, at[8]);
    cell->memory = block;
    cell->memory_size = at[8];
    cell->desc = *d;
    cell->name = (char *)memcpy(block + at[7], d->name, name);
    cell->desc.name = cell->name;
    if (d->user_size)
        cell->desc.user = memcpy(block + at[6], d->user, d->user_size);
    cell->trace = (fold__trace_op *)(void *)(block + at[4]);
    cell->n_trace = (int)t->frame.ordinal;
    cell->max_of_list = t->frame.list_max;
    cell->program.n_in = d->n_in;
    cell->program.n_list = d->n_list;
    cell->program.n_out = d->n_out;
    cell->program.n_draws = (int)t->draws;
    cell->program.is_cell = 1;
    fold__trace x = { t, cell, out, (uint32_t *)(void *)(block + at[5]), (uint8_t *)block + at[7] + name };
    fold__trace_live(&x);
    fold__compile(&x, (fold__body_op *)(void *)block, (fold__ref *)(void *)(block + at[1]),
                  (fold_shape *)(void *)(block + at[2]), (fold__value *)(void *)(block + at[3]));
    return 1;
}

static const char *fold__cell_problem(const fold_cell_desc *d)
{
    if (!d || !d->name || !d->body)
        return "it needs a name and a body";
    if (d->n_in < 0 || d->n_list < 0 || d->n_in + d->n_list < 1)
        return "it needs inputs";
    if (d->n_in > FOLD_MAX_CELL_IN || d->n_list > FOLD_MAX_LIST)
        return "it takes at most 16 inputs and 4 list components";
    if (d->n_out < 1 || d->n_out > FOLD_MAX_OUT)
        return "it gives 1 to 8 outputs";
    for (int i = 0; i < d->n_in; i++)
        if (!fold__shape_ok(&d->in[i]))
            return "an input's shape is not valid";
    for (int i = 0; i < d->n_list; i++)
        if (!fold__shape_ok(&d->list[i]))
            return "a list component's shape is not valid";
    return NULL;
}

/* Runs the body over placeholders in the tracing context; the outputs' nodes, or 0 with the model's error
 * set. */
static int fold__trace_body(fold_model *m, const fold_cell_desc *d, uint32_t *out, fold__cell_data *cell)
{
    fold_ctx *t = m->tracer;
    fold_node in[FOLD_MAX_CELL_IN + FOLD_MAX_LIST], result[FOLD_MAX_OUT];
    fold__reset(t);
    t->frame.cell = t->frame.tag = m->n_cells + 1;
    t->frame.tracing = 1;
    memset(result, 0, sizeof result);
    for (int i = 0; i < d->n_in + d->n_list; i++) {
        const uint32_t shape = fold__intern_shape(t, i < d->n_in ? &d->in[i] : &d->list[i - d->n_in]);
        if (shape == FOLD__NONE || !fold__room(t, 1, 0))
            break;
        in[i] = fold__handle(t, fold__append(t, (uint8_t)(FOLD__INPUT | (i < d->n_in ? 0 : FOLD__ELEM)), 0, 0,
                                             0, shape, (uint64_t)i));
    }
    if (!fold__broken(t))
        d->body(t, in, result, d->user);
    if (fold__finish_outputs(t, d->name, result, d->n_out))
        for (int i = 0; i < d->n_out; i++) {
            out[i] = t->src[result[i].id];
            cell->out[i] = fold__shapes(t)[t->shape[result[i].id]].s;
        }
    if (fold__broken(t)) {
        fold__model_fail(m, t->error.status, "cell '%s': %s", d->name, t->error.text);
        return 0;
    }
    return 1;
}

FOLD_API fold_cell_desc fold_cell_desc_default(void)
{
    fold_cell_desc d;
    memset(&d, 0, sizeof d);
    return d;
}

FOLD_API fold_cell fold_cell_new(fold_model *m, const fold_cell_desc *d)
{
    fold_cell none = { 0, 0 };
    uint32_t out[FOLD_MAX_OUT];
    if (!m || m->error.status)
        return none;
    const char *problem = fold__cell_problem(d);
    if (problem) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "cell '%s': %s", d && d->name ? d->name : "", problem);
        return none;
    }
    if (m->tracer && m->tracer->frame.tracing) {
        fold__model_fail(m, FOLD_BAD_CELL, "cell '%s': a cell cannot be made in the body of another",
                         d->name);
        return none;
    }
    if (!m->tracer) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        desc.training = 1;
        desc.memory = m->arena.memory;
        m->tracer = fold_ctx_new(m, &desc);
    }
    if (!m->tracer ||
        !fold__arena_need(&m->arena, FOLD__M_CELLS, (m->n_cells + 1) * sizeof(fold__cell_data))) {
        fold__model_fail(m, FOLD_NO_MEMORY, "cell '%s': out of memory", d->name);
        return none;
    }
    fold__cell_data *cell = &fold__cells(m)[m->n_cells];
    memset(cell, 0, sizeof *cell);
    const int fine = fold__trace_body(m, d, out, cell) && fold__store_cell(m, cell, d, out);
    memset(&m->tracer->frame, 0, sizeof m->tracer->frame);
    if (!fine)
        return none;
    const fold_cell handle = { ++m->n_cells, m->salt };
    return handle;
}

static void fold__cells_free(fold_model *m)
{
    for (uint32_t i = 0; i < m->n_cells; i++)
        fold__release(m, fold__cells(m)[i].memory, fold__cells(m)[i].memory_size);
}

/* -- calls ----------------------------------------------------------------------------------- */

/* The operands of a call and the shapes of its list's components. */
static int fold__check_call(fold_ctx *f, const fold__cell_data *c, const fold_node *in, int n_in,
                            const fold_node *list, int count, fold__operand *o, uint32_t *list_shape)
{
    if (!fold__count_ok(f, count, c->name))
        return 0;
    if (n_in != c->desc.n_in) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "cell '%s': takes %d inputs, got %d", c->name, c->desc.n_in, n_in);
        return 0;
    }
    if ((n_in && !in) || (count && !list)) {
        fold__missing(f, c->name);
        return 0;
    }
    if (count && !c->desc.n_list) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "cell '%s': it takes no list", c->name);
        return 0;
    }
    if (!count && c->max_of_list) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "cell '%s': it takes the maximum over its list, which is empty",
                   c->name);
        return 0;
    }
    for (int i = 0; i < n_in; i++)
        if (!fold__operand_of(f, in[i], c->name, &o[i]))
            return 0;
    for (int i = 0; i < c->desc.n_list; i++) {
        list_shape[i] = count ? FOLD__NONE : fold__intern_shape(f, &c->desc.list[i]);
        if (!fold__check_list(f, c->name, list + i, (size_t)c->desc.n_list, (size_t)count, &list_shape[i]) ||
            list_shape[i] == FOLD__NONE)
            return 0;
    }
    return 1;
}

/* The call's inputs as the body sees them: copies of what was given, and markers for the list's components.
 */
static int fold__eager_inputs(fold_ctx *f, const fold__cell_data *c, const fold__operand *in,
                              const fold__list *list, fold_node *body_in)
{
    for (int i = 0; i < c->desc.n_in; i++) {
        body_in[i] = fold__handle(f, fold__barrier(f, FOLD__TAG_BARRIER + (uint32_t)i, &in[i], 0));
        if (!body_in[i].id)
            return 0;
    }
    for (int k = 0; k < c->desc.n_list; k++) {
        const uint32_t shape = fold__intern_shape(f, &c->desc.list[k]),
                       tag = FOLD__TAG_BARRIER + (uint32_t)(c->desc.n_in + k);
        if (shape == FOLD__NONE || !fold__room(f, 1, 0))
            return 0;
        const uint32_t marker = fold__append(f, FOLD__ELEMS, 0, 0, 0, shape, list->count);
        f->place[marker] = tag + 1;
        body_in[c->desc.n_in + k] = fold__handle(f, marker);
        for (size_t e = 0; e < list->count; e++) {
            fold__operand o;
            fold__list_operand(f, list, k, e, &o.src, &o.off);
            o.shape = shape;
            o.kind = (uint8_t)(f->kind[o.src] & ~FOLD__SHARED);
            if (!fold__barrier(f, tag, &o, 0))
                return 0;
        }
    }
    return 1;
}

/* A cell whose body has run: a cell made meanwhile, which is an error, may have moved it. */
static const fold__cell_data *fold__cell_after_body(fold_ctx *f, uint32_t id, uint32_t cells)
{
    const fold__cell_data *c = &fold__cells(f->model)[id];
    if (f->model->n_cells != cells && !fold__broken(f))
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': a cell cannot be made in the body of another, '%s'",
                   fold__cells(f->model)[cells].name, c->name);
    return c;
}

/* An eager call: the body runs now, op by op; the windows returned stand for the call's outputs. */
static fold_node fold__eager_call(fold_ctx *f, const fold__request *q, const fold__list *list)
{
    const uint32_t id = q->op & ~FOLD__CELL_OP, tag = fold__request_sig(f, q);
    const fold__cell_data *c = &fold__cells(f->model)[id];
    const uint32_t first_input = f->n_nodes + 1, cells = f->model->n_cells;
    fold_node body_in[FOLD_MAX_CELL_IN + FOLD_MAX_LIST], out[FOLD_MAX_OUT];
    uint32_t barrier[FOLD_MAX_OUT];
    memset(out, 0, sizeof out);
    if (!tag)
        return fold__null;
    f->frame.cell = id + 1;
    f->frame.tag = tag;
    f->frame.ordinal = 0;
    f->frame.elements = (uint32_t)list->count;
    if (fold__eager_inputs(f, c, q->in, list, body_in))
        c->desc.body(f, body_in, out, c->desc.user);
    c = fold__cell_after_body(f, id, cells);
    int fine = fold__finish_outputs(f, c->name, out, c->desc.n_out);
    if (fine && f->frame.ordinal != (uint32_t)c->n_trace) {
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': it had %d ops when traced and has %d in this call", c->name,
                   c->n_trace, (int)f->frame.ordinal);
        fine = 0;
    }
    for (int i = 0; i < c->desc.n_out && fine; i++) {
        fold__operand o;
        fine = fold__operand_of(f, out[i], c->name, &o);
        if (fine)
            barrier[i] = fold__barrier(f, FOLD__TAG_BARRIER + 0x8000u + (uint32_t)i, &o,
                                       (uint64_t)first_input << 32 | (uint64_t)c->desc.n_out << 8 |
                                           (1u + (uint32_t)i));
        fine = fine && barrier[i];
    }
    memset(&f->frame, 0, sizeof f->frame);
    if (!fine || !fold__room(f, (uint32_t)c->desc.n_out, 0))
        return fold__null;
    uint32_t first = 0;
    for (int i = 0; i < c->desc.n_out; i++) {
        const uint32_t x =
            fold__append(f, FOLD__WINDOW, 0, barrier[i], 0, f->shape[barrier[i]], (uint64_t)c->desc.n_out);
        if (!i)
            first = x;
    }
    return fold__handle(f, first);
}

/* A call inside another body: the cell's body, inlined, and its outputs as consecutive windows. */
static FOLD__NOINLINE fold_node fold__inline_call(fold_ctx *f, uint32_t id, const fold_node *in, int n_in,
                                                  const fold__operand *operands)
{
    const fold__cell_data *c = &fold__cells(f->model)[id];
    const uint32_t cells = f->model->n_cells;
    fold_node first = fold__null, out[FOLD_MAX_OUT];
    fold_shape shape[FOLD_MAX_CELL_IN];
    memset(out, 0, sizeof out);
    for (int i = 0; i < n_in; i++)
        shape[i] = *fold__operand_shape(f, &operands[i]);
    if (!fold__check_cell_shapes(f, c, shape, n_in))
        return fold__null;
    if (c->desc.n_list) {
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': a cell with a list cannot be called in a cell body",
                   c->name);
        return fold__null;
    }
    c->desc.body(f, in, out, c->desc.user);
    c = fold__cell_after_body(f, id, cells);
    for (int i = 0; i < c->desc.n_out; i++) {
        fold__operand o;
        if (!out[i].id && !fold__broken(f))
            fold__fail(f, FOLD_BAD_CELL, "cell '%s': its body left output %d null", c->name, i);
        if (!fold__operand_of(f, out[i], c->name, &o))
            return fold__null;
    }
    for (int i = 0; i < c->desc.n_out; i++) {
        fold__operand o;
        if (!fold__operand_of(f, out[i], c->name, &o))
            return fold__null;
        const fold_shape s = *fold__operand_shape(f, &o);
        const fold_node x = fold__window(f, &o, 0, &s, 0);
        if (!x.id)
            return fold__null;
        f->node_data[x.id] = (uint64_t)c->desc.n_out;
        if (!i)
            first = x;
    }
    return first;
}

/* With the dedupe flag, an eager call leaves a header node (a window with a signature) to be found again. */
static fold_node fold__eager_twin_call(fold_ctx *f, const fold__request *q, const fold__list *list)
{
    const uint32_t id = q->op & ~FOLD__CELL_OP;
    const int draws = fold__cells(f->model)[id].program.n_draws;
    if (!f->dedupe)
        return fold__eager_call(f, q, list);
    if (!fold__twins_ready(f) || !fold__room(f, 1, fold__n_operands(q)))
        return fold__null;
    const uint32_t sig = fold__request_sig(f, q);
    if (!sig)
        return fold__null;
    fold__add_edges(f, q);
    const uint32_t header = fold__append(f, FOLD__WINDOW, sig, 0, 0, fold__sigs(f)[sig].out_shape[0],
                                         draws ? fold__draw_base(f) : 0);
    const uint32_t twin = fold__find_twin(f, header);
    if (twin) {
        const uint32_t made = f->place[twin];
        f->draws += (uint64_t)draws;
        fold__unrecord(f, header);
        return fold__note_found(f, twin, made) ? fold__handle(f, made) : fold__null;
    }
    const fold_node x = fold__eager_call(f, q, list);
    f->place[header] = x.id;
    return x;
}

static fold_node fold__call(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in,
                            const fold_node *items, int count)
{
    fold__operand o[FOLD_MAX_CELL_IN];
    fold__list list;
    fold__request q;
    if (fold__broken(f))
        return fold__null;
    if (!cell.id || cell.salt != f->model->salt || cell.id > f->model->n_cells) {
        fold__fail(f, FOLD_BAD_HANDLE, "call: not a cell of this context's model");
        return fold__null;
    }
    const fold__cell_data *c = &fold__cells(f->model)[cell.id - 1];
    fold__clear_request(&q);
    if (!fold__check_call(f, c, in, n_in, items, count, o, q.list_shape))
        return fold__null;
    if (f->frame.cell)
        return fold__inline_call(f, cell.id - 1, in, n_in, o);
    memset(&list, 0, sizeof list);
    list.first = items;
    list.step = (size_t)c->desc.n_list;
    list.count = (size_t)count;
    q.op = FOLD__CELL_OP | (cell.id - 1);
    q.in = o;
    q.n_in = (uint32_t)n_in;
    q.n_list = c->desc.n_list;
    q.list = q.n_list ? &list : NULL;
    if (f->eager)
        return fold__eager_twin_call(f, &q, &list);
    q.data = c->program.n_draws ? fold__draw_base(f) : 0;
    f->draws += (uint64_t)c->program.n_draws;
    return fold__record(f, &q);
}

FOLD_API fold_node fold_call(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in)
{
    return fold__call(f, cell, in, n_in, NULL, 0);
}
FOLD_API fold_node fold_call_list(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in,
                                  const fold_node *list, int count)
{
    return fold__call(f, cell, in, n_in, list, count);
}

FOLD_API fold_node fold_out(fold_ctx *f, fold_node call, int i)
{
    if (!fold__is_live(f, call, "out"))
        return fold__null;
    const uint32_t kind = f->kind[call.id] & FOLD__KIND_MASK;
    const int n = kind == FOLD__OP                                ? fold__sigs(f)[f->sig[call.id]].n_out
                  : kind == FOLD__WINDOW && f->node_data[call.id] ? (int)f->node_data[call.id]
                                                                  : 1;
    if (i < 0 || i >= n) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "out: output %d of a call with %d", i, n);
        return fold__null;
    }
    return fold__handle(f, call.id + (uint32_t)i);
}

/* ==== room: run state and the rules of gradients ============================================
   Owns: what a run needs, who gets a gradient, and how a value's gradient is put together; shared by the
   batched engine and its eager twin because it is the contract itself. Calls: recording.

   The rule: a root's gradient reaches what it depends on by inputs that pass gradients; of a call these are
   what some output of it depends on so, whichever are used. Each consumer that is reached computes its
   contribution from zero. One contribution, or several to different parts (64 at most), are written in place;
   others get rows of their own, added to zero in record order. Shared operands and parameters sum their uses
   one by one, each over its rows in record order, those of the head (what samples share by merging) last. */

enum { FOLD__SLAB_NONE, FOLD__SLAB, FOLD__PER_BATCH, FOLD__PER_TILE }; /* where a buffer of a program lives */
/* how a gradient is put together */
enum {
    FOLD__GRAD_ZERO,
    FOLD__GRAD_WHOLE,
    FOLD__GRAD_PARTS,
    FOLD__GRAD_SOME_PARTS,
    FOLD__GRAD_SUM,
    FOLD__GRAD_ROOT
};
enum { /* what a run does with a node */
       FOLD__RUNS = 1,
       FOLD__BEARS = 2,   /* a root's gradient reaches it */
       FOLD__PERSIST = 4, /* readable afterwards */
       FOLD__LINKED = 8, /* crosses from the head into a sample or the tail, or from a sample into the tail */
       FOLD__TAIL = 16,
       FOLD__INNER = 32, /* read by something outside the tail */
       FOLD__HEAD = 64,
       FOLD__PASSED = FOLD__RUNS | FOLD__BEARS | FOLD__HEAD /* from a call to what it reads */
};

typedef struct fold__batch {
    uint32_t gsig, stage, first, count, slot0, elem0, elems;
} fold__batch;
/* Where a group's memory lies in the region: its slabs from base, then contribution rows, then leaf
 * gradients. */
/* sizes and places in floats */
typedef struct fold__group {
    uint32_t batch0, batch1, gsig0, gsig1, call0, call1, leaf0, leaf1, bound, rows;
    size_t floats, base, rows_at, leaf_at;
} fold__group;
/* A signature in a group: its calls in record order, its buffers. op_at, turn_at, free_at: where in scratch,
   behind its brief buffers, an op's own floats, turns of ops with where their operands lie, and then pointers
   to rows begin. */
typedef struct fold__gsig {
    uint32_t form, group, calls, elems, rec0, buf0, n_bufs, max_rows, max_elems;
    uint32_t chain;     /* longest chain of its own signature */
    uint32_t component; /* of signatures that feed each other */
    uint32_t feeds;  /* where its words begin in the array of feeds: for each input, a bit for every signature
                        that feeds it */
    uint32_t bit;    /* its own bit there: signatures are sorted after bits were given out */
    uint32_t of_bit; /* of the signature whose place in the group is a bit: whose bit that is */
    uint32_t last_read;  /* the last batch that reads its outputs; NONE: none does */
    uint32_t first_back; /* the first batch whose backward reads them, which comes last; NONE: none does */
    uint64_t recurrent;  /* inputs that come from the same component */
    uint8_t n_in, n_list, n_out, cyclic,
        hoisted;                /* cyclic 2: with other signatures; hoisted: it has a prologue */
    uint8_t read_late, cleared; /* weight gradients read its outputs; outputs (a mask) whose gradients are
                                   cleared before any backward */
    size_t op_at, turn_at, free_at;
} fold__gsig;
/* off: in the group's region, or in scratch */
typedef struct fold__buf {
    size_t off, floats;
    uint32_t size, first, last;
    uint8_t elem, place;
} fold__buf;
/* A signature in a run. */
typedef struct fold__form {
    uint32_t levels;                              /* longest chain of its own in the group being cut */
    uint32_t sig, info0, gsig, first, first_elem; /* its first call that bears on the root, and the first of
                                                     those whose list is not empty */
    uint32_t calls;                               /* that run */
    uint32_t row_floats, elem_floats; /* of its program's values and gradients that outlive a batch: per call,
                                         per list element */
    uint32_t arrays;                  /* of pointers to rows that a batch takes at most */
    size_t op_floats;                 /* scratch of an op, at most */
    size_t elems;                     /* of those calls' lists */
    uint8_t grad, partly;             /* some call needs a gradient; some does not */
    uint64_t slot_grad;               /* inputs that get a gradient in some call */
    uint64_t slot_back, slot_late;    /* inputs read in backward, and by weight gradients at the end */
} fold__form;
/* Of one value of a program, (behind the values) one input, or (behind those) one operand of an op, of which
   part is the size and grad whether it gets a gradient. */
typedef struct fold__info {
    uint64_t deps, cover; /* inputs it depends on; parts of it that got a contribution */
    uint32_t part;
    uint8_t grad, mode, back, late;
    uint8_t stands;    /* needed even by a call whose list is empty */
    uint8_t grad_late; /* its gradient is read when all batches have run backward */
    uint8_t brief;     /* where it lives if it does not outlive its batch: a tile of it is enough, or it is
                          PER_BATCH */
    int8_t out;        /* which output it is; -1: none */
} fold__info;
/* What is known of a signature's program in runs where these inputs get gradients. */
typedef struct fold__analysis {
    uint32_t next, info0; /* next: of the same signature, + 1 */
    uint32_t row_floats, elem_floats, arrays;
    size_t op_floats;
    uint64_t slot_grad, slot_back, slot_late;
    uint8_t backward, grad;
} fold__analysis;
/* Of a signature: its form in run `run`, and what is known of it from all runs since parameters were added or
 * frozen. */
typedef struct fold__known {
    uint32_t run, form, analyses;
    uint8_t trains;
} fold__known;
/* One use of a parameter or shared node: a segment of an op's weight, its bias, a value used as an operand, a
 * shared input. */
enum { FOLD__USE_WEIGHT, FOLD__USE_BIAS, FOLD__USE_VALUE, FOLD__USE_SLOT };
/* How its sum joins floats [at, at + size) of the target's: made in place, where no earlier use of a
   parameter reaches; by blocks, each added as soon as it is made; or apart. */
enum { FOLD__SUM_IN_PLACE, FOLD__SUM_BY_BLOCKS, FOLD__SUM_APART };
typedef struct fold__use {
    uint32_t form, op, ref, kind, target, first;
    int is_node, leads, sum;     /* leads: the first use of its parameter */
    size_t at, size, acc, total; /* acc: its sum, total: its parameter's, in the run's accumulators; NO_TOTAL:
                                    in the gradient itself */
    uint64_t work;               /* what it costs in the groups being summed */
} fold__use;
#define FOLD__NO_TOTAL SIZE_MAX

/* Where rows of an operand lie, for all batches of a stage: row 0, and how a batch moves on from there: not
   at all (parameters, what is made tile by tile, or base NULL: nothing), with the calls or list elements of
   its signature, or with its own rows. Else it is what the batch reads or writes outside (from), or a row
   once for each of a call's list elements (spread). */
enum { FOLD__STAYS, FOLD__BY_CALLS, FOLD__BY_ELEMS, FOLD__BY_ROWS, FOLD__OTHERWISE };
typedef struct fold__spot {
    float *base;
    ptrdiff_t stride;
    const fold_rows *from;
    uint32_t off;
    uint8_t moves, spread;
} fold__spot;

/* What a stage of a signature does with an op. first, end: the ops that run tile by tile with it; wanted,
   spread: operands that get a gradient from it, and those of them that get it by list elements first;
   finishes: outputs whose gradients are put together before; for_elements: only list elements need it;
   is_list: it takes a list of elements for each row; data: it reads per-row data. run, run_back: its
   functions; in, out, dout, din: where its operands, results and their gradients lie. */
typedef struct fold__turn {
    uint32_t wanted, spread;
    int first, end;
    uint8_t forward, backward, tiled, for_elements, is_list, data, finishes;
    const fold__op_row *op;
    void (*run)(const fold_op_call *c), (*run_back)(const fold_op_call *c);
    fold__spot *in, *out, *dout, *din;
    fold__prepared made;
} fold__turn;

/* Who runs batches, one of the context's threads: its batch or part of one, its scratch, and the call of an
 * op being made. */
typedef struct fold__worker {
    fold__batch b;
    const fold__gsig *s;
    const fold__form *form;
    fold__program p;
    fold__turn *turn; /* of each of the program's ops in stage `stage` */
    uint32_t stage;
    const uint32_t *ids;           /* its calls */
    uint32_t *list;                /* rows + 1 offsets of elements, within the batch */
    float *region;                 /* of its group */
    uint32_t tile, row;            /* rows of a tile; first row of the tile being run */
    ptrdiff_t at[FOLD__OTHERWISE]; /* where that row is for spots that move by calls, elements or rows */
    fold__spot *spot; /* in scratch: of operands, values, and in training of values' gradients and
                         contributions to operands */
    float *scratch;
    char *free; /* scratch for pointers */
    fold_rows in[FOLD_MAX_IN], dest[FOLD_MAX_IN], outer[FOLD_MAX_OUT];
    fold__prepared made; /* of the eager twin and of sums */
    fold_rows op_in[FOLD_MAX_IN + 1], op_out[FOLD_MAX_OUT], op_dout[FOLD_MAX_OUT], op_din[FOLD_MAX_IN + 1];
    uint32_t one_list[2]; /* eager: the one list */
    size_t kernel_calls, one_row_calls, events;
} fold__worker;

/* What a plan consists of, beside its arrays. */
typedef struct fold__counts {
    uint32_t last, calls, order, kept, leaves, batches, groups, gsigs, bufs, forms;
    int head, tail;
    size_t region, scratch, without_reuse; /* floats; without_reuse: of all buffers, if none shared memory */
    const char *one_group;                 /* why there is but one */
} fold__counts;

/* What tells one run's structure from another's, quickly. */
typedef struct fold__identity {
    uint64_t hash;
    uint32_t nodes, edges, found, roots, leaves, layout;
    uint64_t mode;
} fold__identity;

typedef struct fold__run {
    /* of nodes (by id) and edges */
    uint8_t *state, *grad, *mode;
    uint64_t *cover;
    uint32_t *part, *slot, *eslot, *chain, *made, *far, *sum_at, *edge_at, *edge_next, *edge_len;
    float **grd;
    uint32_t *calls, *order, *bysig, *kept, *leaves,
        *work; /* kept: values that stay readable; far: until groups are formed how far a
                  value reaches, then where one lies that crosses into the tail */
    /* the plan */
    fold__batch *batch;
    fold__group *group;
    fold__gsig *gsig;
    fold__buf *buf;
    fold__form *form;
    fold__use *use;
    fold__info *info;
    fold__known *known;
    fold__analysis *analysis;
    uint32_t runs, n_known, n_analyses, n_info, of_layout,
        of_table;      /* the last two: of which parameters and signatures that is known */
    size_t node_words; /* bytes of the node arrays that make up a plan */
    size_t replayed;   /* where those lie in the array of plans when an earlier plan is used again; else 0 */
    uint32_t n_uses, root, root_off; /* the root's value, and which of its floats is the root */
    int changed, backward, anew;      /* changed: values of earlier runs are of other parameters; anew: they are
                                         computed again, as in any backward */
    int shared_grads;                 /* some use is of a shared node */
    int one_go; /* one group and one thread make all sums of parameters: each is whole, and added, before the
                   next begins */
    size_t acc, acc_used;    /* floats */
    size_t widest;           /* value, in floats: the room of a row that nobody reads */
    fold__counts n;          /* the plan's sizes */
    fold__identity identity; /* of the run, when the context keeps plans */
    uint64_t moves;          /* of arrays, when the pointers to them were renewed */
    uint64_t began;          /* by the clock */
    uint32_t shown_epoch, shown_nodes,
        shown_edges; /* the recording whose plan this is; epoch 0: none is whole */
    float *at_region, *at_scratch, *at_acc, *trash;
    fold__worker *worker;
} fold__run;

static size_t fold__ctx_bytes(void)
{
    return fold__round_up(sizeof(fold_ctx), FOLD__ALIGN) + fold__round_up(sizeof(fold__run), FOLD__ALIGN);
}
static struct fold__run *fold__run_of(fold_ctx *f)
{
    return (fold__run *)(void *)((char *)f + fold__round_up(sizeof(fold_ctx), FOLD__ALIGN));
}

static uint32_t fold__call_of(const fold_ctx *f, uint32_t id)
{
    return (f->kind[id] & FOLD__KIND_MASK) == FOLD__EXTRA ? (uint32_t)f->node_data[id] : id;
}

/* Carves arrays out of one arena array: two passes, sizes first, then pointers. */
typedef struct fold__carver {
    char *base;
    size_t at;
} fold__carver;
static void *fold__carve(fold__carver *c, size_t count, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += fold__round_up(fold__size(count, size, 0), FOLD__ALIGN);
    return p;
}

static void fold__carve_nodes(fold_ctx *f, fold__carver *c)
{
    fold__run *r = f->run;
    const size_t n = (size_t)f->n_nodes + 2, edges = f->n_edges, calls = (size_t)f->n_calls + 2;
    r->state = (uint8_t *)fold__carve(c, n, 1);
    r->grad = (uint8_t *)fold__carve(c, n, 1);
    r->mode = (uint8_t *)fold__carve(c, n, 1);
    r->slot = (uint32_t *)fold__carve(c, n, 4);
    r->eslot = (uint32_t *)fold__carve(c, n, 4);
    r->chain = (uint32_t *)fold__carve(c, n, 4);
    r->far = (uint32_t *)fold__carve(c, n, 4);
    r->calls = (uint32_t *)fold__carve(c, calls, 4);
    r->bysig = (uint32_t *)fold__carve(c, calls, 4);
    r->kept = (uint32_t *)fold__carve(c, n, 4);
    r->order = (uint32_t *)fold__carve(c, 2 * calls, 4);
    if (r->backward) {
        r->leaves = (uint32_t *)fold__carve(c, n, 4);
        r->sum_at = (uint32_t *)fold__carve(c, n, 4);
        r->edge_at = (uint32_t *)fold__carve(c, edges + 1, 4);
        r->edge_next = (uint32_t *)fold__carve(c, edges + 1, 4);
        r->edge_len = (uint32_t *)fold__carve(c, edges + 1, 4);
    }
    r->node_words = c->at;
}

/* Those used only until all is planned, or not before it runs. */
static void fold__carve_planning(fold_ctx *f, fold__carver *c)
{
    fold__run *r = f->run;
    const size_t n = (size_t)f->n_nodes + 2, edges = f->n_edges;
    r->made = (uint32_t *)fold__carve(c, n, 4);
    r->part = (uint32_t *)fold__carve(c, n, 4);
    r->work = (uint32_t *)fold__carve(c, 6 * ((size_t)f->n_calls + 2) + edges, 4);
    if (!r->backward)
        return;
    r->cover = (uint64_t *)fold__carve(c, n, 8);
    r->grd = (float **)fold__carve(c, n, sizeof(float *));
}

/* The typed pointers of the plan's arrays, renewed after any of them may have moved. */
static FOLD__NOINLINE void fold__renew_run(fold_ctx *f)
{
    fold__run *r = f->run;
    fold__array *a = f->arrays;
    fold__renew(f);
    r->moves = f->moves;
    fold__carver c = { a[FOLD__C_NODE_WORDS].p, 0 },
                 kept = { r->replayed ? a[FOLD__C_PLANS].p + r->replayed : NULL, 0 };
    if (c.base)
        fold__carve_nodes(f, &c);
    if (c.base)
        fold__carve_planning(f, &c);
    if (kept.base)
        fold__carve_nodes(f, &kept);
    r->known = (fold__known *)(void *)a[FOLD__C_KNOWN].p;
    r->analysis = (fold__analysis *)(void *)a[FOLD__C_ANALYSES].p;
    r->form = (fold__form *)(void *)a[FOLD__C_FORMS].p;
    r->info = (fold__info *)(void *)a[FOLD__C_INFO].p;
    r->batch = (fold__batch *)(void *)a[FOLD__C_BATCHES].p;
    r->group = (fold__group *)(void *)a[FOLD__C_GROUPS].p;
    r->gsig = (fold__gsig *)(void *)a[FOLD__C_GSIGS].p;
    r->buf = (fold__buf *)(void *)a[FOLD__C_BUFS].p;
    r->use = (fold__use *)(void *)a[FOLD__C_USES].p;
    r->at_region = (float *)(void *)a[FOLD__C_REGION].p;
    r->at_scratch = (float *)(void *)a[FOLD__C_SCRATCH].p;
    r->at_acc = (float *)(void *)a[FOLD__C_ACC].p;
    r->worker = (fold__worker *)(void *)a[FOLD__C_WORKERS].p;
    for (int i = 0; i < f->threads; i++)
        r->worker[i].scratch = r->at_scratch + (size_t)i * r->n.scratch;
}

/* The same where nothing but a move can have changed them. */
FOLD__INLINE void fold__renew_moved(fold_ctx *f)
{
    if (f->run->moves != f->moves)
        fold__renew_run(f);
}

/* What earlier runs knew of signatures, which have other numbers now. */
static void fold__forget_runs(fold_ctx *f)
{
    fold__worker *worker = (fold__worker *)(void *)f->arrays[FOLD__C_WORKERS].p;
    f->arrays[FOLD__C_KNOWN].need = f->arrays[FOLD__C_ANALYSES].need = f->arrays[FOLD__C_INFO].need = 0;
    f->arrays[FOLD__C_TABLE_ROWS].need = 0;
    f->sig_tables++;
    f->run->shown_epoch = 0;
    f->run->replayed = 0;
    for (int i = 0; i < f->threads; i++)
        worker[i].events = 0;
    fold__forget_plans(f);
}

static int fold__reserve_workers(fold_ctx *f)
{
    if (!fold__need(f, FOLD__C_WORKERS, (size_t)f->threads, sizeof(fold__worker)))
        return 0;
    memset(f->arrays[FOLD__C_WORKERS].p, 0, (size_t)f->threads * sizeof(fold__worker));
    return 1;
}

static int fold__node_arrays(fold_ctx *f)
{
    fold__carver c = { NULL, 0 };
    f->run->replayed = 0;
    fold__carve_nodes(f, &c);
    fold__carve_planning(f, &c);
    if (!fold__need(f, FOLD__C_NODE_WORDS, c.at, 1))
        return 0;
    fold__renew_run(f);
    return 1;
}

/* -- what runs ------------------------------------------------------------------------------- */

/* Eager: an output's barrier holds its index + 1, the number of outputs and the call's first node. */
static int fold__is_output_barrier(const fold_ctx *f, uint32_t id)
{
    const uint32_t tag = f->eager && fold__is_op(f, id) ? fold__sigs(f)[f->sig[id]].tag_op : 0;
    return tag > FOLD__TAG_BARRIER + 0x8000u && tag < FOLD__TAG_SPREAD;
}

/* Eager: who needs one output of a cell's call needs all, as if it were one node. Returns the first. */
static FOLD__NOINLINE uint32_t fold__need_siblings(const fold_ctx *f, uint32_t id, uint8_t marks)
{
    if (!fold__is_output_barrier(f, id))
        return id;
    const uint32_t first = id + 1 - ((uint32_t)f->node_data[id] & 255u),
                   count = (uint32_t)f->node_data[id] >> 8;
    for (uint32_t i = first; i < first + count; i++)
        f->run->state[i] |= marks;
    if (first + count - 1 > f->run->n.last)
        f->run->n.last = first + count - 1;
    return first;
}

/* Marks a value as needed and returns its node (of siblings the first); 0 when it runs no more: values of an
   earlier run stand for themselves, except in backward, and when parameters have changed since. */
FOLD__INLINE uint32_t fold__need_value(const fold_ctx *f, uint32_t src, uint8_t marks)
{
    if ((f->kind[src] & FOLD__DONE) && !f->run->anew)
        return 0;
    f->run->state[src] |= marks;
    return f->eager ? fold__need_siblings(f, src, marks & FOLD__PASSED) : src;
}

/* Eager: the input of a call that an op of such a tag is a copy of; NONE: of none. */
static uint32_t fold__barrier_input(const fold__sig *call, uint32_t tag)
{
    const uint32_t input = tag - 1 - FOLD__TAG_BARRIER;
    return tag > FOLD__TAG_BARRIER && input < (uint32_t)call->n_in + call->n_list ? input : FOLD__NONE;
}

/* Eager: a call reads its inputs whatever the length of its list, as if it were one node. */
static void fold__need_inputs(const fold_ctx *f, uint32_t id)
{
    uint8_t *state = f->run->state;
    const uint32_t first = (uint32_t)(f->node_data[id] >> 32);
    if (!fold__is_output_barrier(f, id) || ((uint32_t)f->node_data[id] & 255u) != 1)
        return;
    const fold__sig *call = &fold__sigs(f)[fold__sigs(f)[f->sig[id]].tag_cell];
    const fold__cell_data *cell = &fold__cells(f->model)[call->op & ~FOLD__CELL_OP];
    const uint8_t how = state[id] & FOLD__PASSED;
    for (uint32_t i = first; i < id; i++) {
        const uint32_t tag = fold__is_op(f, i) ? fold__sigs(f)[f->sig[i]].tag_op : 0,
                       input = fold__barrier_input(call, tag);
        if (input != FOLD__NONE)
            state[i] |= call->differentiable >> input & 1 ? how : how & (uint8_t)~FOLD__BEARS;
        if (tag > FOLD__TAG_SPREAD && tag < FOLD__TAG_PARAM &&
            cell->trace[(tag - 1 - FOLD__TAG_SPREAD) / FOLD_MAX_IN].live)
            state[i] |= how;
    }
}

/* Whether a value that no op makes may get a gradient. */
static int fold__leaf_grad(const fold_ctx *f, uint32_t id)
{
    if (f->kind[id] & FOLD__KEEP_GRAD)
        return 1;
    switch (f->kind[id] & FOLD__KIND_MASK) {
    case FOLD__LOOKUP: return fold__trainable(f->model, &fold__params(f->model)[f->node_data[id] >> 32]);
    case FOLD__PARAM: return fold__trainable(f->model, &fold__params(f->model)[f->node_data[id]]);
    default: return 0;
    }
}
static int fold__makes_value(uint8_t kind)
{
    return (kind & FOLD__KIND_MASK) == FOLD__OP || (kind & FOLD__KIND_MASK) == FOLD__EXTRA;
}

/* The tail: scalars that only combine samples' scalars on the way to the roots, such as the sum of losses.
   Gradients flow through it before any value exists, so it ties no samples together. Readers are known. */
static int fold__is_tail(const fold_ctx *f, uint32_t id)
{
    const fold__run *r = f->run;
    const fold__sig *s = &fold__sigs(f)[f->sig[id]];
    if ((r->state[id] & (FOLD__INNER | FOLD__HEAD)) || f->eager || fold__value_size(f, id) != 1)
        return 0;
    if (s->is_cell || s->shared || !(fold__op_of(f->model, s->op)->flags & FOLD__FLOW))
        return 0;
    for (int k = 0; k < s->n_in + s->n_list; k++)
        if (fold__shapes(f)[fold__keys(f)[s->key + s->in_shape + (uint32_t)k]].size != 1)
            return 0;
    for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
        const uint8_t kind = f->kind[f->esrc[e]];
        const int runs = fold__makes_value(kind) && (r->anew || !(kind & FOLD__DONE));
        if (!runs && r->backward && fold__leaf_grad(f, f->esrc[e]))
            return 0;
    }
    return 1;
}

/* The head: what identical calls of several samples became, and all it depends on, as recorded, whatever
   runs. It runs before the samples, and backward after them, so that it ties none together; its rows end
   every chain of a weight's gradient. */
static void fold__mark_found(fold_ctx *f)
{
    for (uint32_t i = 0; i < f->n_found; i++) {
        const fold__found x = fold__founds(f)[i];
        memset(f->run->state + x.first, FOLD__HEAD, (size_t)x.last - x.first + 1);
    }
}
static int fold__head_runs(const fold_ctx *f)
{
    for (uint32_t id = 1; id <= f->n_nodes && f->n_found; id++)
        if ((f->run->state[id] & (FOLD__RUNS | FOLD__HEAD)) == (FOLD__RUNS | FOLD__HEAD))
            return 1;
    return 0;
}

/* The operands of a call, input by input: floats each reads, and its edges. */
typedef struct fold__slots {
    const fold_ctx *f;
    const fold__sig *s;
    uint32_t edge0, count;
} fold__slots;
FOLD__INLINE fold__slots fold__slots_of(const fold_ctx *f, uint32_t id)
{
    fold__slots x = { f, &fold__sigs(f)[f->sig[id]], f->edge0[id], 0 };
    if (x.s->n_list)
        x.count = (f->edge0[id + 1] - x.edge0 - x.s->n_in) / x.s->n_list;
    return x;
}
/* Elements of a call's list. */
static FOLD__NOINLINE uint32_t fold__elements_of(const fold_ctx *f, uint32_t id)
{
    return fold__slots_of(f, id).count;
}
static int fold__n_slots(const fold__slots *x) { return x->s->n_in + x->s->n_list; }
static uint32_t fold__slot_first(const fold__slots *x, int slot)
{
    return x->edge0 +
           (slot < x->s->n_in ? (uint32_t)slot : x->s->n_in + ((uint32_t)slot - x->s->n_in) * x->count);
}
static uint32_t fold__slot_edges(const fold__slots *x, int slot) { return slot < x->s->n_in ? 1 : x->count; }
static uint32_t fold__slot_floats(const fold__slots *x, int slot)
{
    return fold__shapes(x->f)[fold__keys(x->f)[x->s->key + x->s->in_shape + (uint32_t)slot]].size;
}
static int fold__slot_shared(const fold__slots *x, int slot)
{
    return slot < x->s->n_in && (x->s->shared >> slot & 1);
}

/* Whether a call passes gradients by its edge e. */
static FOLD__NOINLINE int fold__edge_passes(const fold_ctx *f, uint32_t id, uint32_t e)
{
    const fold__slots x = fold__slots_of(f, id);
    int slot = (int)(e - x.edge0);
    if (slot >= x.s->n_in)
        slot = x.s->n_in + (int)((e - x.edge0 - x.s->n_in) / x.count);
    return (int)(x.s->differentiable >> slot & 1);
}

/* Marks what one running call reads, and how far each of it reaches: to its last reader outside the tail. */
static void fold__mark_inputs(fold_ctx *f, uint32_t id)
{
    fold__run *r = f->run;
    const fold__sig *s = &fold__sigs(f)[f->sig[id]];
    const int some_stop = r->backward && s->differentiable != (1ull << (s->n_in + s->n_list)) - 1,
              tail = fold__is_tail(f, id);
    const uint8_t how = r->state[id] & FOLD__PASSED, marks = (uint8_t)(tail ? how : how | FOLD__INNER);
    if (tail) {
        r->state[id] |= FOLD__TAIL;
        r->n.tail = 1;
    }
    for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
        const uint8_t lost = some_stop && !fold__edge_passes(f, id, e) ? FOLD__BEARS : 0;
        const uint32_t from = fold__need_value(f, f->esrc[e], marks & (uint8_t)~lost);
        if (!tail && r->far[from] < id)
            r->far[from] = id;
    }
}

/* What a call of the head reads is of the head, though the call does not run. */
static void fold__mark_head(fold_ctx *f, uint32_t id)
{
    for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
        f->run->state[f->esrc[e]] |= FOLD__HEAD;
        if (f->eager)
            fold__need_siblings(f, f->esrc[e], FOLD__HEAD);
    }
}

/* A call is needed as its outputs are, and reaches as far as they do. */
static void fold__gather_outputs(const fold_ctx *f, uint32_t id)
{
    fold__run *r = f->run;
    const uint32_t end = id + fold__sigs(f)[f->sig[id]].n_out;
    for (uint32_t o = id + 1; o < end; o++) {
        r->state[id] |= r->state[o];
        if (r->far[o] > r->far[id])
            r->far[id] = r->far[o];
    }
    for (uint32_t o = id + 1; o < end && (r->state[id] & FOLD__HEAD); o++)
        r->state[o] |= FOLD__HEAD; /* all of a call, or nothing */
}

/* A value that this run makes stays readable. */
static void fold__persist(fold_ctx *f, uint32_t src)
{
    fold__run *r = f->run;
    if (!fold__makes_value(f->kind[src]) || !(r->state[fold__call_of(f, src)] & FOLD__RUNS) ||
        (r->state[src] & FOLD__PERSIST))
        return;
    r->state[src] |= FOLD__PERSIST;
    r->kept[r->n.kept++] = src;
}

/* Marks the ancestors of the roots and of kept nodes. */
static void fold__mark_needed(fold_ctx *f, const fold_node *roots, size_t n)
{
    fold__run *r = f->run;
    r->n.last = r->n.kept = 0;
    r->n.tail = 0;
    memset(r->state, 0, (size_t)f->n_nodes + 2);
    memset(r->far, 0, ((size_t)f->n_nodes + 2) * sizeof *r->far);
    fold__mark_found(f);
    for (size_t i = 0; i < n; i++) {
        const uint32_t src = f->src[roots[i].id], id = fold__need_value(f, src, FOLD__RUNS | FOLD__BEARS);
        if (id > r->n.last)
            r->n.last = id;
    }
    for (uint32_t src = 1; src <= f->n_nodes && f->n_keeps;
         src++) { /* kept nodes run too, but bear on no root */
        if (!(f->kind[src] & FOLD__KEEP) || ((f->kind[src] & FOLD__DONE) && !r->changed))
            continue;
        const uint32_t id = fold__need_value(f, src, FOLD__RUNS);
        if (id > r->n.last)
            r->n.last = id;
    }
    for (uint32_t i = f->n_calls; i-- > 0;) {
        const uint32_t id = f->calls[i];
        fold__gather_outputs(f, id);
        if (!(r->state[id] & (FOLD__RUNS | FOLD__HEAD)))
            continue;
        if (f->eager)
            fold__need_inputs(f, id);
        if (r->state[id] & FOLD__RUNS)
            fold__mark_inputs(f, id);
        else
            fold__mark_head(f, id);
    }
    r->n.head = fold__head_runs(f);
    for (size_t i = 0; i < n; i++)
        fold__persist(f, f->src[roots[i].id]);
    for (uint32_t src = 1; src <= f->n_nodes && (f->n_keeps || f->any_done); src++)
        if (f->kind[src] & (FOLD__KEEP | FOLD__DONE))
            fold__persist(f, src);
}

/* Whether a program passes gradients to a parameter that is trained: a weight, a bias or an operand. */
static int fold__trains(const fold_ctx *f, const fold__program *p)
{
    const fold_model *m = f->model;
    for (int i = 0; i < p->n_ops; i++) {
        const fold__body_op *op = &p->op[i];
        for (int j = 0; j < 2 && p->value[op->value0].passes; j++)
            if (op->param[j] && fold__trainable(m, &fold__params(m)[op->param[j] - 1]))
                return 1;
        for (int j = 0; j < op->n_in; j++) {
            const fold__ref *ref = fold__passed_operand(m, p, op, j);
            if (ref && ref->kind == FOLD__FROM_PARAM && fold__trainable(m, &fold__params(m)[ref->index]))
                return 1;
        }
    }
    return 0;
}

/* Eager: whether a call gives gradients, as if it were one node: its body trains something, or some input of
   it that the body reads, or output, has one. */
static int fold__call_grad(const fold_ctx *f, uint32_t id)
{
    const fold__run *r = f->run;
    if (!fold__is_output_barrier(f, id))
        return 0;
    const uint32_t call = fold__sigs(f)[f->sig[id]].tag_cell,
                   first = id + 1 - ((uint32_t)f->node_data[id] & 255u);
    const fold__sig *s = &fold__sigs(f)[call];
    int grad = r->known[call].trains;
    for (uint32_t i = 0; i < s->n_out; i++)
        grad |= (f->kind[first + i] & FOLD__KEEP_GRAD) != 0;
    for (uint32_t i = (uint32_t)(f->node_data[id] >> 32); i < first && !grad; i++) {
        const uint32_t tag = fold__is_op(f, i) ? fold__sigs(f)[f->sig[i]].tag_op : 0,
                       input = fold__barrier_input(s, tag);
        grad = input != FOLD__NONE && (s->differentiable >> input & 1) && r->grad[i];
    }
    return grad;
}

/* Which values need a gradient: what the root's reaches, and depends on something trained or on a node whose
   gradient is kept. */
static void fold__mark_grads(fold_ctx *f)
{
    fold__run *r = f->run;
    memset(r->grad, 0, (size_t)f->n_nodes + 2);
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        if (kind != FOLD__EXTRA && !(r->state[id] & FOLD__BEARS))
            continue;
        switch (kind) {
        case FOLD__LOOKUP:
        case FOLD__PARAM:
        case FOLD__INPUT:
        case FOLD__REF: r->grad[id] = (uint8_t)fold__leaf_grad(f, id); break;
        case FOLD__EXTRA: r->grad[id] = r->grad[f->node_data[id]]; break;
        case FOLD__OP: {
            const fold__slots x = fold__slots_of(f, id);
            uint8_t grad = (f->kind[id] & FOLD__KEEP_GRAD) != 0;
            for (uint32_t i = 1; i < x.s->n_out; i++)
                grad |= (f->kind[id + i] & FOLD__KEEP_GRAD) != 0;
            grad |= r->known[f->sig[id]].trains;
            for (int k = 0; k < fold__n_slots(&x) && !grad; k++)
                if (x.s->differentiable >> k & 1)
                    for (uint32_t e = fold__slot_first(&x, k), n = e + fold__slot_edges(&x, k); e < n; e++)
                        grad |= r->grad[f->esrc[e]];
            r->grad[id] = grad || fold__call_grad(f, id);
            break;
        }
        default: break;
        }
    }
}

static uint32_t fold__common_divisor(uint32_t a, uint32_t b)
{
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* How gradients are put together: notes one contribution to `length` floats at `off` of a value. part holds
   the largest length of which all parts seen are multiples, cover which of the pieces of that length were
   seen; mode is GRAD_SUM once a piece repeats or there are too many. */
static uint8_t fold__note_part(uint8_t mode, uint32_t *part, uint64_t *cover, uint32_t off, uint32_t length)
{
    if (mode == FOLD__GRAD_SUM)
        return mode;
    if (mode == FOLD__GRAD_ZERO) {
        *part = length;
        *cover = 0;
    }
    if (!off && *part == length) { /* most are whole */
        if (*cover & 1)
            return FOLD__GRAD_SUM;
        *cover |= 1;
        return FOLD__GRAD_SOME_PARTS;
    }
    const int fits = *part == length && off % length == 0;
    const uint32_t piece = fits ? length : fold__common_divisor(fold__common_divisor(*part, length), off),
                   first = off / piece;
    const uint64_t seen = *cover;
    if ((off + length) / piece > 64)
        return FOLD__GRAD_SUM;
    for (uint32_t i = 0, finer = *part / piece; finer > 1 && i < 64 && seen >> i; i++) {
        if (!i)
            *cover = 0;
        for (uint32_t k = i * finer; k < (i + 1) * finer && seen >> i & 1; k++) {
            if (k > 63)
                return FOLD__GRAD_SUM;
            *cover |= 1ull << k;
        }
    }
    for (uint32_t i = first; i < first + length / piece; i++) {
        if (*cover >> i & 1)
            return FOLD__GRAD_SUM;
        *cover |= 1ull << i;
    }
    *part = piece;
    return FOLD__GRAD_SOME_PARTS;
}
/* The final mode, given the value's size. */
static uint8_t fold__settle_parts(uint8_t mode, uint32_t part, uint64_t cover, uint32_t size)
{
    if (mode != FOLD__GRAD_SOME_PARTS)
        return mode;
    if (part == size)
        return FOLD__GRAD_WHOLE;
    const uint32_t parts = size / part;
    if (parts * part != size || parts > 64)
        return FOLD__GRAD_SOME_PARTS;
    return cover == (parts == 64 ? ~0ull : (1ull << parts) - 1) ? FOLD__GRAD_PARTS : FOLD__GRAD_SOME_PARTS;
}

/* Whether a slot of a running call sends contributions by its edges (shared ones do so by their uses). */
static int fold__slot_sends(const fold__slots *x, int slot)
{
    return (x->s->differentiable >> slot & 1) && !fold__slot_shared(x, slot);
}

/* The mode of every value that needs a gradient. */
static void fold__gradient_modes(fold_ctx *f)
{
    fold__run *r = f->run;
    memset(r->mode, FOLD__GRAD_ZERO, (size_t)f->n_nodes + 2);
    memset(r->sum_at, 255, ((size_t)f->n_nodes + 2) * sizeof *r->sum_at);
    for (uint32_t id = 1; id <= r->n.last; id++) {
        if (!fold__is_op(f, id) || !(r->state[id] & FOLD__RUNS) || !r->grad[id])
            continue;
        const fold__slots x = fold__slots_of(f, id);
        for (int k = 0; k < fold__n_slots(&x); k++) {
            if (!fold__slot_sends(&x, k))
                continue;
            const uint32_t length = fold__slot_floats(&x, k);
            for (uint32_t e = fold__slot_first(&x, k), n = e + fold__slot_edges(&x, k); e < n; e++) {
                const uint32_t src = f->esrc[e];
                if (!r->grad[src])
                    continue;
                r->mode[src] =
                    fold__note_part(r->mode[src], &r->part[src], &r->cover[src], f->eoff[e], length);
            }
        }
    }
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (r->grad[id])
            r->mode[id] = fold__settle_parts(r->mode[id], r->part[id], r->cover[id], fold__value_size(f, id));
    r->mode[r->root] = FOLD__GRAD_ROOT;
}

/* Gives rows (in units of 16 floats, from *at on) to the edges of one call that do not write in place. Those
   of a summed value form a list in record order: sum_at its first edge, part its last. */
static void fold__place_contributions(fold_ctx *f, uint32_t id, uint32_t *at, uint32_t *at_linked)
{
    fold__run *r = f->run;
    const fold__slots x = fold__slots_of(f, id);
    for (int k = 0; k < fold__n_slots(&x); k++) {
        if (!(x.s->differentiable >> k & 1))
            continue;
        const uint32_t length = fold__slot_floats(&x, k);
        const int shared = fold__slot_shared(&x, k);
        for (uint32_t e = fold__slot_first(&x, k), n = e + fold__slot_edges(&x, k); e < n; e++) {
            const uint32_t src = f->esrc[e];
            if (!r->grad[src] || (!shared && r->mode[src] != FOLD__GRAD_SUM))
                continue;
            uint32_t *next = (r->state[src] & FOLD__LINKED) ? at_linked : at;
            r->edge_at[e] = *next;
            *next += (length + 15) / 16;
            if (shared)
                continue;
            r->edge_len[e] = length;
            r->edge_next[e] = FOLD__NONE;
            if (r->sum_at[src] == FOLD__NONE)
                r->sum_at[src] = e;
            else
                r->edge_next[r->part[src]] = e;
            r->part[src] = e;
        }
    }
}

/* -- programs of a run ----------------------------------------------------------------------- */

static int fold__ref_grad(const fold_ctx *f, const fold__form *form, const fold__program *p,
                          const fold__ref *ref)
{
    switch (ref->kind) {
    case FOLD__FROM_VALUE: return f->run->info[form->info0 + ref->index].grad;
    case FOLD__FROM_PARAM: return fold__trainable(f->model, &fold__params(f->model)[ref->index]);
    default: return (int)(form->slot_grad >> fold__ref_slot(p, ref) & 1);
    }
}
static fold__info *fold__info_of_ref(const fold_ctx *f, const fold__form *form, const fold__program *p,
                                     uint32_t ref)
{
    return f->run->info + form->info0 + (uint32_t)(p->n_values + p->n_in + p->n_list) + ref;
}
/* Whether operand j of an op gets a gradient in this run. */
static int fold__ref_wanted(const fold_ctx *f, const fold__form *form, const fold__program *p,
                            const fold__body_op *op, int j)
{
    return fold__info_of_ref(f, form, p, op->ref0 + (uint32_t)j)->grad;
}
static int fold__param_trains(const fold_ctx *f, uint32_t id)
{
    return id && fold__trainable(f->model, &fold__params(f->model)[id - 1]);
}

/* Notes what an active op's backward and weight gradients read. */
static void fold__note_reads(const fold_ctx *f, fold__form *form, const fold__program *p,
                             const fold__body_op *op)
{
    fold__info *info = f->run->info + form->info0;
    const fold__op_row *row = fold__op_of(f->model, op->op);
    const int linear = op->op == FOLD__OP_linear, late = linear && fold__param_trains(f, op->param[0]);
    const int reads_in = !linear && (row->def.needs & FOLD_NEEDS_IN);
    for (int j = 0; j < op->n_in && (reads_in || late); j++) {
        const fold__ref *ref = &p->ref[op->ref0 + (uint32_t)j];
        if (linear && op->attr[1] && j == op->n_in - 1)
            continue; /* the rows it started from */
        if (ref->kind == FOLD__FROM_VALUE) {
            info[ref->index].back = 1;
            info[ref->index].late |= (uint8_t)late;
        }
        if (ref->kind != FOLD__FROM_INPUT && ref->kind != FOLD__FROM_LIST)
            continue;
        form->slot_back |= 1ull << fold__ref_slot(p, ref);
        if (late)
            form->slot_late |= 1ull << fold__ref_slot(p, ref);
    }
    for (int o = 0; o < op->n_out && (row->def.needs & FOLD_NEEDS_OUT); o++)
        info[op->value0 + (uint32_t)o].back = 1;
}

/* Whether a value outlives its batch. */
static int fold__outlives(const fold__info *info) { return info->out >= 0 || info->back || info->late; }
/* Whether the gradient of an output is exactly what comes from outside. */
static int fold__grad_is_outer(const fold__info *info)
{
    return info->mode == FOLD__GRAD_WHOLE && info->out >= 0;
}

/* Scratch floats an op needs beside its operands. */
static size_t fold__op_scratch(const fold_ctx *f, const fold__program *p, const fold__body_op *op)
{
    size_t floats = 64 + (size_t)fold__op_of(f->model, op->op)->def.scratch;
    for (int i = 0; i < op->n_in + op->n_out; i++)
        floats += 2 * (size_t)fold__shape_size(&p->shape[op->shape0 + (uint32_t)i]);
    if (op->op == FOLD__OP_linear)
        floats += fold__linear_scratch(f->model->k, &fold__params(f->model)[op->param[0] - 1]);
    return floats;
}

/* Scratch that a batch of the form takes: of an op, and pointers, those of one op and those of the batch's
 * inputs and outputs. */
static void fold__measure_scratch(const fold_ctx *f, fold__form *form, const fold__program *p)
{
    uint32_t arrays = 0;
    form->op_floats = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const uint32_t of_op = 2u * ((uint32_t)p->op[i].n_in + p->op[i].n_out) + 1;
        form->op_floats = fold__max_size(form->op_floats, fold__op_scratch(f, p, &p->op[i]));
        arrays = of_op > arrays ? of_op : arrays;
    }
    form->arrays = arrays + 2u * (uint32_t)(p->n_in + p->n_list) + (uint32_t)p->n_out + 1;
}

/* What a call of the form, and a list element of it, add to what must stay. */
static void fold__measure_form(fold__form *form, const fold__program *p, const fold__info *info)
{
    form->row_floats = form->elem_floats = 0;
    for (int v = 0; v < p->n_values; v++) {
        const int grads = info[v].grad ? (info[v].out >= 0) + info[v].grad_late : 0;
        *(p->value[v].elem ? &form->elem_floats : &form->row_floats) +=
            p->value[v].size * (uint32_t)(fold__outlives(&info[v]) + grads);
    }
}

/* Products and list ops want all rows at once; other ops of one level run tile by tile together. */
static int fold__runs_tiled(const fold_ctx *f, const fold__body_op *op)
{
    return !(fold__op_of(f->model, op->op)->flags & (FOLD__GEMM | FOLD__LIST));
}
static int fold__same_span(const fold_ctx *f, const fold__body_op *a, const fold__body_op *b)
{
    return fold__runs_tiled(f, a) && fold__runs_tiled(f, b) && a->elem == b->elem;
}

/* Marks outputs, values that are made and read within one span of ops, so that a tile of each is enough, and
 * gradients that are read late. */
static void fold__mark_places(const fold_ctx *f, const fold__program *p, fold__info *info)
{
    for (int i = 0, span = 0; i < p->n_ops; i++) {
        const fold__body_op *op = &p->op[i];
        if (i && !fold__same_span(f, op - 1, op))
            span = i;
        for (uint32_t v = op->value0; v < op->value0 + op->n_out; v++) {
            info[v].out = -1;
            info[v].brief = fold__runs_tiled(f, op) ? FOLD__PER_TILE : FOLD__PER_BATCH;
            info[v].grad_late = op->op == FOLD__OP_linear &&
                                (fold__param_trains(f, op->param[0]) || fold__param_trains(f, op->param[1]));
        }
        for (uint32_t j = op->ref0; j < op->ref0 + op->n_in; j++)
            if (p->ref[j].kind == FOLD__FROM_VALUE && p->value[p->ref[j].index].op < (uint32_t)span)
                info[p->ref[j].index].brief = FOLD__PER_BATCH;
    }
    for (int o = 0; o < p->n_out; o++) {
        info[p->out[o].index].out = (int8_t)o;
        info[p->out[o].index].brief = FOLD__PER_BATCH;
    }
}

/* Marks the values that lead to outputs by other ways than through the elements of a list. */
static void fold__mark_standing(const fold__program *p, fold__info *info)
{
    for (int o = 0; o < p->n_out; o++)
        info[p->out[o].index].stands = 1;
    for (int i = p->n_ops; i-- > 0;) {
        const fold__body_op *op = &p->op[i];
        int stands = 0;
        for (int o = 0; o < op->n_out && !op->elem; o++)
            stands |= info[op->value0 + (uint32_t)o].stands;
        for (int j = 0; j < op->n_in && stands; j++)
            if (p->ref[op->ref0 + (uint32_t)j].kind == FOLD__FROM_VALUE)
                info[p->ref[op->ref0 + (uint32_t)j].index].stands = 1;
    }
}
/* Whether only list elements need what an op makes: calls with an empty list do without it. */
static int fold__for_elements(const fold__program *p, const fold__info *info, const fold__body_op *op)
{
    int stands = !p->n_list || op->elem;
    for (int o = 0; o < op->n_out && !stands; o++)
        stands = info[op->value0 + (uint32_t)o].stands;
    return !stands;
}

/* Marks the operands that get a gradient, and their sizes. */
static void fold__mark_wanted(const fold_ctx *f, const fold__form *form, const fold__program *p)
{
    const fold__info *info = f->run->info + form->info0;
    for (int i = 0; i < p->n_ops; i++) {
        const fold__body_op *op = &p->op[i];
        for (int j = 0; j < op->n_in; j++) {
            fold__info *ref = fold__info_of_ref(f, form, p, op->ref0 + (uint32_t)j);
            ref->part = (uint32_t)fold__shape_size(&p->shape[op->shape0 + (uint32_t)j]);
            if (!info[op->value0].grad || !fold__differentiable(fold__op_of(f->model, op->op), j))
                continue;
            ref->grad = fold__ref_grad(f, form, p, &p->ref[op->ref0 + (uint32_t)j]) != 0;
        }
    }
}

/* What each value of a form's program depends on, whether it gets a gradient and how that is put together. */
static void fold__analyse_form(fold_ctx *f, fold__form *form)
{
    const fold__program p = fold__program_of(f, &fold__sigs(f)[form->sig]);
    fold__info *info = f->run->info + form->info0, *slot = info + p.n_values;
    memset(info, 0, (size_t)(p.n_values + p.n_in + p.n_list + p.n_refs) * sizeof *info);
    form->slot_back = form->slot_late = 0;
    fold__mark_standing(&p, info);
    fold__mark_places(f, &p, info);
    for (int i = 0; i < p.n_ops; i++) {
        const fold__body_op *op = &p.op[i];
        uint64_t deps = 0;
        int grad = fold__param_trains(f, op->param[0]) || fold__param_trains(f, op->param[1]);
        for (int j = 0; j < op->n_in; j++) {
            const fold__ref *ref = &p.ref[op->ref0 + (uint32_t)j];
            if (ref->kind == FOLD__FROM_VALUE)
                deps |= info[ref->index].deps;
            else if (ref->kind != FOLD__FROM_PARAM)
                deps |= 1ull << fold__ref_slot(&p, ref);
            grad |=
                fold__differentiable(fold__op_of(f->model, op->op), j) && fold__ref_grad(f, form, &p, ref);
        }
        for (int o = 0; o < op->n_out; o++) {
            info[op->value0 + (uint32_t)o].deps = deps;
            info[op->value0 + (uint32_t)o].grad =
                (uint8_t)(grad && f->run->backward && p.value[op->value0].passes);
        }
    }
    for (int o = 0; o < p.n_out; o++)
        info[p.out[o].index].grad |= form->grad; /* kept gradients of what has none to pass on */
    fold__mark_wanted(f, form, &p);
    for (int i = 0; i < p.n_ops; i++) {
        const fold__body_op *op = &p.op[i];
        if (!info[op->value0].grad)
            continue;
        fold__note_reads(f, form, &p, op);
        for (int j = 0; j < op->n_in; j++) {
            const fold__ref *ref = &p.ref[op->ref0 + (uint32_t)j];
            if (ref->kind == FOLD__FROM_PARAM || !fold__ref_wanted(f, form, &p, op, j))
                continue;
            fold__info *to =
                ref->kind == FOLD__FROM_VALUE ? &info[ref->index] : &slot[fold__ref_slot(&p, ref)];
            to->mode = fold__note_part(to->mode, &to->part, &to->cover, ref->off,
                                       fold__info_of_ref(f, form, &p, op->ref0 + (uint32_t)j)->part);
        }
    }
    for (int o = 0; o < p.n_out; o++) {
        fold__info *v = &info[p.out[o].index];
        v->mode = fold__note_part(v->mode, &v->part, &v->cover, 0, p.value[p.out[o].index].size);
    }
    for (int v = 0; v < p.n_values; v++)
        info[v].mode = fold__settle_parts(info[v].mode, info[v].part, info[v].cover, p.value[v].size);
    const fold__sig *s = &fold__sigs(f)[form->sig];
    for (int k = 0; k < p.n_in + p.n_list; k++)
        slot[k].mode =
            fold__settle_parts(slot[k].mode, slot[k].part, slot[k].cover,
                               fold__shapes(f)[fold__keys(f)[s->key + s->in_shape + (uint32_t)k]].size);
    fold__measure_form(form, &p, info);
    fold__measure_scratch(f, form, &p);
}

/* Room for what is known of every signature; all is forgotten when parameters were added or frozen, or
 * signatures began anew. */
static int fold__know_signatures(fold_ctx *f)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_KNOWN, f->n_sigs + 1, sizeof(fold__known)))
        return 0;
    fold__renew_moved(f);
    if (r->of_layout != f->model->layout || r->of_table != f->sig_tables || !++r->runs) {
        r->n_known = r->n_analyses = r->n_info = 0;
        r->runs = 1;
    }
    r->of_layout = f->model->layout;
    r->of_table = f->sig_tables;
    for (; r->n_known <= f->n_sigs; r->n_known++) {
        fold__known *known = &r->known[r->n_known];
        memset(known, 0, sizeof *known);
        if (!r->n_known)
            continue;
        const fold__program p = fold__program_of(f, &fold__sigs(f)[r->n_known]);
        known->trains = (uint8_t)fold__trains(f, &p);
    }
    return 1;
}

/* The form of a signature that this run had not seen. Arrays may move. */
static FOLD__NOINLINE int fold__add_form(fold_ctx *f, uint32_t sig)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_FORMS, r->n.forms + 1, sizeof(fold__form)))
        return 0;
    fold__renew_moved(f);
    fold__form *form = &r->form[r->n.forms];
    memset(form, 0, sizeof *form);
    form->sig = sig;
    form->gsig = FOLD__NONE;
    r->known[sig].run = r->runs;
    r->known[sig].form = r->n.forms++;
    return 1;
}

static fold__form *fold__form_of(const fold_ctx *f, uint32_t id)
{
    return &f->run->form[f->run->known[f->sig[id]].form];
}

/* Collects the running calls in record order and a form for each of their signatures. */
static int fold__collect(fold_ctx *f)
{
    fold__run *r = f->run;
    r->n.forms = r->n.leaves = 0;
    if (!fold__know_signatures(f))
        return 0;
    const fold__known *known = r->known;
    const uint32_t run = r->runs;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_calls; i++) {
        const uint32_t id = f->calls[i], sig = f->sig[id];
        if (!(r->state[id] & FOLD__RUNS))
            continue;
        if (known[sig].run != run) {
            if (!fold__add_form(f, sig))
                return 0;
            known = r->known; /* arrays may have moved */
        }
        fold__form *form = &r->form[known[sig].form];
        const int bears = r->state[id] & FOLD__BEARS;
        r->calls[n++] = id;
        form->calls++;
        if (bears && !form->first)
            form->first = id;
        if (!fold__sigs(f)[sig].n_list)
            continue;
        const uint32_t elems = fold__elements_of(f, id);
        form->elems += elems;
        if (bears && elems && !form->first_elem)
            form->first_elem = id;
    }
    r->n.calls = n;
    return 1;
}

/* Finds what is known of a form's program in such a run, or how the values of that are put together. Arrays
 * may move. */
static int fold__know_form(fold_ctx *f, uint32_t i)
{
    fold__run *r = f->run;
    fold__form *form = &r->form[i];
    const uint32_t *first = &r->known[form->sig].analyses;
    const fold__analysis *a = NULL;
    for (uint32_t at = *first; at && !a; at = r->analysis[at - 1].next) {
        a = &r->analysis[at - 1];
        if (a->slot_grad != form->slot_grad || a->grad != form->grad || a->backward != r->backward)
            a = NULL;
    }
    if (a) {
        form->info0 = a->info0;
        form->row_floats = a->row_floats;
        form->elem_floats = a->elem_floats;
        form->arrays = a->arrays;
        form->op_floats = a->op_floats;
        form->slot_back = a->slot_back;
        form->slot_late = a->slot_late;
        return 1;
    }
    const fold__program p = fold__program_of(f, &fold__sigs(f)[form->sig]);
    const uint32_t n_info = (uint32_t)(p.n_values + p.n_in + p.n_list + p.n_refs);
    if (!fold__need(f, FOLD__C_ANALYSES, r->n_analyses + 1, sizeof(fold__analysis)))
        return 0;
    if (!fold__need(f, FOLD__C_INFO, r->n_info + n_info, sizeof(fold__info)))
        return 0;
    fold__renew_moved(f);
    form = &r->form[i];
    form->info0 = r->n_info;
    r->n_info += n_info;
    fold__analyse_form(f, form);
    const fold__analysis now = { r->known[form->sig].analyses,
                                 form->info0,
                                 form->row_floats,
                                 form->elem_floats,
                                 form->arrays,
                                 form->op_floats,
                                 form->slot_grad,
                                 form->slot_back,
                                 form->slot_late,
                                 (uint8_t)r->backward,
                                 form->grad };
    r->analysis[r->n_analyses++] = now;
    r->known[form->sig].analyses = r->n_analyses;
    return 1;
}

/* Which inputs of each form get a gradient in some call; then the forms' own analysis. */
static int fold__analyse_forms(fold_ctx *f)
{
    fold__run *r = f->run;
    for (uint32_t i = 0; i < r->n.calls && r->backward; i++) {
        const fold__slots x = fold__slots_of(f, r->calls[i]);
        fold__form *form = fold__form_of(f, r->calls[i]);
        form->grad |= r->grad[r->calls[i]];
        form->partly |= !r->grad[r->calls[i]];
        for (int k = 0; k < fold__n_slots(&x); k++)
            for (uint32_t e = fold__slot_first(&x, k), n = e + fold__slot_edges(&x, k);
                 e < n && !(form->slot_grad >> k & 1); e++)
                form->slot_grad |= (uint64_t)r->grad[f->esrc[e]] << k;
    }
    for (uint32_t i = 0; i < r->n.forms; i++)
        if (!fold__know_form(f, i))
            return 0;
    return 1;
}

/* ==== room: scheduler =======================================================================
   Owns: the order of execution. Cuts a recording into groups of independent samples, condenses signatures
   that feed each other into components, runs components producers first, and inside a cyclic one follows the
   policy. Sees signatures, operands and sizes, never floats. Calls: run state. */

/* The last call that shares a value of this one, or a leaf with a gradient (the head's leaves tie nothing).
 */
FOLD__INLINE uint32_t fold__reach(const fold_ctx *f, uint32_t id)
{
    const fold__run *r = f->run;
    uint32_t far = r->far[id];
    if (!r->backward)
        return far;
    for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
        const uint32_t src = f->esrc[e];
        const uint8_t kind = f->kind[src];
        const int own = r->grad[src] && !fold__makes_value(kind) && !(r->state[src] & FOLD__HEAD) &&
                        (kind & FOLD__KIND_MASK) != FOLD__PARAM;
        if (own && r->far[src] > far)
            far = r->far[src];
    }
    return far;
}

/* Where a unit that begins with call i of n ends: where nothing later shares what is before. NONE: nowhere.
 */
static uint32_t fold__end_of_unit(const fold_ctx *f, uint32_t i, uint32_t n)
{
    const uint32_t *calls = f->run->calls;
    for (uint32_t far = 0; i < n; i++) {
        const uint32_t reach = fold__reach(f, calls[i]);
        if (reach > far)
            far = reach;
        if (far <= calls[i])
            return i + 1;
    }
    return FOLD__NONE;
}

/* Bytes that calls [from, to) add to the working set of their group. */
static size_t fold__bytes_of_calls(const fold_ctx *f, uint32_t from, uint32_t to)
{
    const fold__run *r = f->run;
    size_t floats = 0;
    for (uint32_t i = from; i < to; i++) {
        const fold__form *form = fold__form_of(f, r->calls[i]);
        floats += form->row_floats;
        if (form->elem_floats)
            floats += (size_t)form->elem_floats * fold__elements_of(f, r->calls[i]);
    }
    return floats * sizeof(float);
}

static int fold__add_group(fold_ctx *f, uint32_t call0, uint32_t call1)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_GROUPS, r->n.groups + 1, sizeof(fold__group)))
        return 0;
    fold__renew_moved(f);
    fold__group *g = &r->group[r->n.groups++];
    memset(g, 0, sizeof *g);
    g->call0 = call0;
    g->call1 = call1;
    return 1;
}

/* Puts the tail's calls, which lie from `n` on, back among those of samples, from `n0` on: record order is id
 * order. */
static void fold__sort_calls(fold_ctx *f, uint32_t n0, uint32_t n)
{
    fold__run *r = f->run;
    memcpy(r->work, r->calls, r->n.calls * sizeof *r->calls);
    for (uint32_t i = n0, a = n0, b = n; i < r->n.calls; i++)
        r->calls[i] = b >= r->n.calls || (a < n && r->work[a] < r->work[b]) ? r->work[a++] : r->work[b++];
}

/* Floats of the weights that a program multiplies by. */
static size_t fold__weight_floats(const fold_ctx *f, const fold__program *p)
{
    size_t floats = 0;
    for (int k = 0; k < p->n_ops; k++)
        floats += p->op[k].param[0] ? fold__params(f->model)[p->op[k].param[0] - 1].size : 0;
    return floats;
}

/* Rows a batch should have on average: the more, the larger the weights that each batch reads, which beyond a
   few megabytes come from memory: 2 rows for a megabyte. */
static size_t fold__rows_wanted(const fold_ctx *f)
{
    size_t most = 0;
    for (uint32_t i = 0; i < f->run->n.forms; i++) {
        const fold__program p = fold__program_of(f, &fold__sigs(f)[f->run->form[i].sig]);
        most = fold__max_size(most, fold__weight_floats(f, &p));
    }
    return f->group_rows ? fold__min_size(fold__max_size(most >> 17, f->group_rows), FOLD__MOST_ROWS) : 0;
}

/* Of the group being cut: its first call; the most calls of a unit; how far its levels are counted; what no
   schedule of those can go below: the sum of the longest chains of every signature's own calls, and the
   longest way through calls of any. */
typedef struct fold__levels {
    uint32_t start, longest, counted, own, deep;
} fold__levels;

/* Counts a call into the levels. */
static void fold__count_levels(const fold_ctx *f, uint32_t id, fold__levels *levels)
{
    fold__run *r = f->run;
    const uint32_t sig = f->sig[id];
    uint32_t *depth = r->eslot, own = 0, deep = 0; /* free until calls are batched */
    fold__form *form = fold__form_of(f, id);
    for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
        const uint32_t from = fold__call_of(f, f->esrc[e]);
        if (!fold__is_op(f, from) || (r->state[from] & (FOLD__RUNS | FOLD__HEAD)) != FOLD__RUNS)
            continue;
        if (f->sig[from] == sig && r->chain[from] > own)
            own = r->chain[from];
        if (depth[from] > deep)
            deep = depth[from];
    }
    r->chain[id] = ++own;
    depth[id] = ++deep;
    if (own > form->levels) {
        form->levels = own;
        levels->own++;
    }
    if (deep > levels->deep)
        levels->deep = deep;
}

/* Puts the head's calls before those of samples and the tail's behind them; returns how many the head and the
 * tail have. */
typedef struct fold__ends {
    uint32_t head, tail;
} fold__ends;
static fold__ends fold__part_calls(fold_ctx *f)
{
    fold__run *r = f->run;
    fold__ends n = { 0, 0 };
    uint32_t samples = 0;
    if (!r->n.head && !r->n.tail)
        return n;
    for (uint32_t i = 0; i < r->n.calls && r->n.head; i++)
        n.head += (r->state[r->calls[i]] & FOLD__HEAD) != 0;
    for (uint32_t i = 0, head = 0; i < r->n.calls; i++) {
        const uint32_t id = r->calls[i];
        if (r->state[id] & FOLD__HEAD)
            r->work[head++] = id;
        else if (r->state[id] & FOLD__TAIL)
            r->work[n.head + n.tail++] = id;
        else
            r->calls[samples++] = id;
    }
    if (n.head)
        memmove(r->calls + n.head, r->calls, samples * sizeof *r->calls);
    memcpy(r->calls, r->work, n.head * sizeof *r->calls);
    memcpy(r->calls + n.head + samples, r->work + n.head, n.tail * sizeof *r->calls);
    return n;
}

/* Bytes that all calls together add to a working set. */
static size_t fold__all_bytes(const fold_ctx *f)
{
    size_t floats = 0;
    for (uint32_t i = 0; i < f->run->n.forms; i++) {
        const fold__form *form = &f->run->form[i];
        floats += (size_t)form->calls * form->row_floats + form->elems * form->elem_floats;
    }
    return floats * sizeof(float);
}

/* Whether the group's calls up to `end` make so many rows a batch. Levels are counted only when the number of
   calls leaves it open: no chain is longer than the longest unit. */
static int fold__has_rows(const fold_ctx *f, fold__levels *l, uint32_t end, size_t rows)
{
    const size_t calls = end - l->start;
    if (calls >= (uint64_t)f->run->n.forms * l->longest * rows)
        return 1;
    for (; l->counted < end; l->counted++)
        fold__count_levels(f, f->run->calls[l->counted], l);
    return calls >= (l->own > l->deep ? l->own : l->deep) * rows;
}

/* Cuts calls [start, n), those of samples, into groups of about the budget, and no less than so many rows a
   batch; with no rows asked for they are even: each ends where a unit does nearest to the end of its budget.
   Only samples whose ranges in the recording do not interleave are kept apart: *units of them. When all fit
   into the budget there is nothing to cut, and no more than two are told apart. */
static int fold__cut_samples(fold_ctx *f, uint32_t start, uint32_t n, size_t budget, size_t rows,
                             uint32_t *units)
{
    fold__run *r = f->run;
    const int whole = fold__all_bytes(f) < budget;
    fold__levels levels = { start, 0, start, 0, 0 };
    int64_t left = (int64_t)budget; /* of the budget */
    *units = 0;
    for (uint32_t unit = start, end; unit < n && !(whole && *units > 1); unit = end) {
        end = fold__end_of_unit(f, unit, n);
        if (end == FOLD__NONE)
            break;
        ++*units;
        if (whole)
            continue;
        const int64_t bytes = (int64_t)fold__bytes_of_calls(f, unit, end);
        left -= bytes;
        if (end - unit > levels.longest)
            levels.longest = end - unit;
        if (left > 0 || !fold__has_rows(f, &levels, end, rows))
            continue;
        const uint32_t cut = !rows && unit > levels.start && left + bytes < -left ? unit : end;
        if (!fold__add_group(f, levels.start, cut))
            return 0;
        for (uint32_t k = 0; k < r->n.forms; k++)
            r->form[k].levels = 0;
        levels.start = levels.counted = cut;
        levels.longest = levels.own = levels.deep = 0;
        left = rows ? (int64_t)budget : left + (int64_t)budget;
    }
    return levels.start == n || fold__add_group(f, levels.start, n);
}

/* A few groups are shared out unevenly among threads: as many for each, of equal size. */
static int fold__even_groups(fold_ctx *f, uint32_t start, uint32_t n, uint32_t *units)
{
    fold__run *r = f->run;
    const uint32_t head = r->n.head ? 1 : 0;
    const size_t threads = (size_t)f->threads, groups = fold__round_up(r->n.groups - head, threads);
    if (threads < 2 || *units < 2 || r->n.groups - head >= 4 * threads)
        return 1;
    for (uint32_t k = 0; k < r->n.forms; k++)
        r->form[k].levels = 0;
    r->n.groups = head;
    return fold__cut_samples(f, start, n, fold__bytes_of_calls(f, start, n) / groups, 0, units);
}

/* A table sums the gradients of its lookups in record order: who reads one is tied to the last that reads an
 * earlier one. */
static int fold__tie_lookups(fold_ctx *f)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_SCHEDULE, (size_t)f->model->n_params + 1, sizeof(uint32_t)))
        return 0;
    fold__renew_moved(f);
    uint32_t *last =
        (uint32_t *)(void *)f->arrays[FOLD__C_SCHEDULE].p; /* that reads an earlier lookup of each table */
    memset(last, 0, f->model->n_params * sizeof *last);
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if ((f->kind[id] & FOLD__KIND_MASK) != FOLD__LOOKUP || !r->grad[id] || (r->state[id] & FOLD__HEAD))
            continue;
        uint32_t *far = &last[f->node_data[id] >> 32];
        *far = r->far[id] = r->far[id] > *far ? r->far[id] : *far;
    }
    return 1;
}

/* The head as one group, groups of samples, and the tail as one behind them. */
static int fold__form_groups(fold_ctx *f)
{
    fold__run *r = f->run;
    uint32_t units;
    if (r->backward && !fold__tie_lookups(f))
        return 0;
    const fold__ends ends = fold__part_calls(f);
    const uint32_t start = ends.head, n = r->n.calls - ends.tail, head = r->n.head ? 1 : 0;
    r->n.groups = 0;
    if (head && !fold__add_group(f, 0, start))
        return 0;
    if (!fold__cut_samples(f, start, n, f->group_bytes, fold__rows_wanted(f), &units) ||
        !fold__even_groups(f, start, n, &units))
        return 0;
    r->n.one_group = "";
    if (r->n.groups - head <= 1)
        r->n.one_group = units > 1 ? "the budget holds all samples"
                         : units || !head
                             ? "the samples share nodes that need a gradient, or are recorded interleaved"
                             : "all calls are shared by samples";
    if (ends.tail && r->n.groups - head <=
                         1) { /* nothing to tie together: the tail is an ordinary part of the one group */
        for (uint32_t i = n; i < r->n.calls; i++)
            r->state[r->calls[i]] &= (uint8_t)~FOLD__TAIL;
        r->n.tail = 0;
        r->n.groups = head;
        fold__sort_calls(f, start, n);
        return fold__add_group(f, start, r->n.calls);
    }
    if (!r->n.groups)
        return fold__add_group(f, 0, 0); /* the root is a leaf */
    return !ends.tail || fold__add_group(f, n, r->n.calls);
}

/* Marks the values that cross from samples into the tail, or out of the head, and leaves of the head that
 * others read. */
static void fold__mark_links(fold_ctx *f)
{
    fold__run *r = f->run;
    for (uint32_t g = r->n.head ? 1 : r->n.tail ? r->n.groups - 1 : r->n.groups; g < r->n.groups; g++)
        for (uint32_t i = r->group[g].call0; i < r->group[g].call1; i++)
            for (uint32_t e = f->edge0[r->calls[i]]; e < f->edge0[r->calls[i] + 1]; e++) {
                const uint32_t src = f->esrc[e], made = r->made[src];
                if (made != FOLD__NONE ? r->gsig[made >> 3].group != g : (r->state[src] & FOLD__HEAD) != 0)
                    r->state[src] |= FOLD__LINKED;
            }
}

/* Lists the leaves that need gradients group by group in record order; slot holds the group that reads them,
 * or the head's. */
static void fold__list_leaves(fold_ctx *f)
{
    fold__run *r = f->run;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        const int leaf = (kind == FOLD__LOOKUP || kind == FOLD__INPUT || kind == FOLD__REF) && r->grad[id] &&
                         (r->state[id] & FOLD__RUNS);
        if (fold__makes_value(f->kind[id]))
            continue;
        if (!leaf) {
            r->slot[id] = FOLD__NONE;
            continue;
        }
        if (r->slot[id] == FOLD__NONE || (r->state[id] & FOLD__HEAD))
            r->slot[id] = 0; /* nobody reads it: it is the root */
        r->group[r->slot[id]].leaf1++;
        r->n.leaves++;
    }
    for (uint32_t g = 0, at = 0; g < r->n.groups; g++) {
        const uint32_t count = r->group[g].leaf1;
        r->group[g].leaf0 = r->group[g].leaf1 = at;
        at += count;
    }
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (!fold__makes_value(f->kind[id]) && r->slot[id] != FOLD__NONE)
            r->leaves[r->group[r->slot[id]].leaf1++] = id;
}

/* -- one group's signatures ------------------------------------------------------------------ */

static fold__gsig *fold__gsig_of(const fold_ctx *f, uint32_t id)
{
    return &f->run->gsig[f->run->made[id] >> 3];
}

static int fold__add_gsig(fold_ctx *f, uint32_t group, uint32_t form)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_GSIGS, r->n.gsigs + 1, sizeof(fold__gsig)))
        return 0;
    fold__renew_moved(f);
    fold__gsig *s = &r->gsig[r->n.gsigs];
    const fold__sig *sig = &fold__sigs(f)[r->form[form].sig];
    memset(s, 0, sizeof *s);
    s->form = form;
    s->group = group;
    s->n_in = sig->n_in;
    s->n_list = sig->n_list;
    s->n_out = sig->n_out;
    r->form[form].gsig = r->n.gsigs++;
    return 1;
}

/* The group's signatures as they come, and the signature and output that make each value. */
static int fold__list_signatures(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    const uint32_t call0 = r->group[group].call0, call1 = r->group[group].call1, gsig0 = r->n.gsigs;
    for (uint32_t i = call0; i < call1; i++) {
        const uint32_t id = r->calls[i], form = r->known[f->sig[id]].form;
        if (r->form[form].gsig == FOLD__NONE && !fold__add_gsig(f, group, form))
            return 0;
        const uint32_t own = r->form[form].gsig;
        uint32_t *const made = r->made;
        fold__gsig *s = &r->gsig[own];
        s->calls++;
        if (s->n_list)
            s->elems += fold__elements_of(f, id);
        for (uint32_t o = 0, n = s->n_out; o < n; o++)
            made[id + o] = own << 3 | o;
    }
    for (uint32_t i = call0; i < call1 && r->backward; i++) {
        fold__gsig *s = fold__gsig_of(f, r->calls[i]);
        for (uint32_t o = 0; o < s->n_out; o++)
            s->cleared |= (uint8_t)((r->mode[r->calls[i] + o] == FOLD__GRAD_SOME_PARTS) << o);
    }
    r->group[group].gsig0 = gsig0;
    r->group[group].gsig1 = r->n.gsigs;
    for (uint32_t i = gsig0, at = call0; i < r->n.gsigs; i++) {
        fold__gsig *s = &r->gsig[i];
        r->form[s->form].gsig = FOLD__NONE;
        s->rec0 = at;
        at += s->calls;
        s->calls = 0;
    }
    return 1;
}

static uint64_t *fold__feeds(const fold_ctx *f) { return (uint64_t *)(void *)f->arrays[FOLD__C_FEEDS].p; }

/* Lists the group's calls by signature in record order. */
static void fold__sort_calls_by_signature(fold_ctx *f, const fold__group *g)
{
    fold__run *r = f->run;
    for (uint32_t i = g->call0; i < g->call1; i++) {
        fold__gsig *s = fold__gsig_of(f, r->calls[i]);
        r->bysig[s->rec0 + s->calls++] = r->calls[i];
    }
}

/* Who reads what while a group's signatures are looked at one after the other. */
typedef struct fold__reader {
    const uint32_t *made, *chain;
    uint32_t *slot;                /* of leaves, in training: the group that reads them */
    uint32_t gsig0, n, own, group; /* the group's signatures, and which of them reads */
} fold__reader;

/* Notes that a value is read through an input, which the given signatures feed; returns the chain of own
 * calls that ends at it. */
FOLD__INLINE uint32_t fold__read_operand(const fold__reader *x, uint32_t src, uint64_t *feeds)
{
    const uint32_t made = x->made[src], from = (made >> 3) - x->gsig0;
    if (x->slot && made == FOLD__NONE)
        x->slot[src] = x->group;
    if (from >= x->n)
        return 0;
    if (!(feeds[from / 64] >> (from % 64) & 1))
        feeds[from / 64] |= 1ull << (from % 64);
    return x->chain[src] & (0u - (from == x->own)); /* as likely as not: no branch */
}

/* Finds which signatures feed which input of one, and the longest chain of its own calls that ends at each.
 */
static void fold__read_operands(fold_ctx *f, const fold__group *g, uint32_t own, uint32_t words)
{
    fold__run *r = f->run;
    fold__gsig *s = &r->gsig[g->gsig0 + own];
    const fold__reader x = { r->made,
                             r->chain,
                             r->backward ? r->slot : NULL,
                             g->gsig0,
                             g->gsig1 - g->gsig0,
                             own,
                             (uint32_t)(g - r->group) };
    const uint32_t *calls = r->bysig + s->rec0, n = s->calls, n_in = s->n_in, n_list = s->n_list,
                   n_out = s->n_out;
    uint64_t *const first = fold__feeds(f) + s->feeds;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = calls[i], *src = f->esrc + f->edge0[id];
        uint64_t *feeds = first;
        uint32_t longest = 0, chain;
        for (const uint32_t *end = src + n_in; src < end; src++, feeds += words) {
            chain = fold__read_operand(&x, *src, feeds);
            longest = chain > longest ? chain : longest;
        }
        for (uint32_t k = 0, count = n_list ? fold__elements_of(f, id) : 0; k < n_list; k++, feeds += words)
            for (const uint32_t *end = src + count; src < end; src++) {
                chain = fold__read_operand(&x, *src, feeds);
                longest = chain > longest ? chain : longest;
            }
        longest++;
        for (uint32_t o = 0; o < n_out; o++)
            r->chain[id + o] = longest;
        if (longest > s->chain)
            s->chain = longest;
    }
}

/* One strongly connected component after another, producers first (Tarjan 1972, without recursion). rows: the
   signatures that feed each. */
static void fold__condense(fold__gsig *sig, uint32_t n, const uint64_t *rows, uint32_t words, uint32_t *index)
{
    uint32_t *low = index + n, *next = low + n, *stack = next + n, *path = stack + n;
    uint32_t visits = 0, n_stack = 0, component = 0;
    memset(index, 0, n * sizeof *index);
    for (uint32_t i = 0; i < n; i++)
        sig[i].component = FOLD__NONE;
    for (uint32_t start = 0; start < n; start++) {
        uint32_t depth = 0;
        if (index[start])
            continue;
        path[depth++] = start;
        while (depth) {
            const uint32_t v = path[depth - 1];
            if (!index[v]) {
                index[v] = low[v] = ++visits;
                next[v] = 0;
                stack[n_stack++] = v;
            }
            uint32_t w = next[v];
            for (; w < n; w++) {
                if (!(rows[(size_t)v * words + w / 64] >> (w % 64) & 1))
                    continue;
                if (!index[w])
                    break;
                if (sig[w].component == FOLD__NONE && low[w] < low[v])
                    low[v] = low[w];
            }
            next[v] = w; /* seen again after w's return, which lowers low[v] */
            if (w < n) {
                path[depth++] = w;
                continue;
            }
            depth--;
            if (low[v] != index[v])
                continue;
            const int alone = stack[n_stack - 1] == v;
            uint32_t u;
            do {
                u = stack[--n_stack];
                sig[u].component = component;
                if (!alone)
                    sig[u].cyclic = 2;
            } while (u != v);
            if (alone && (rows[(size_t)v * words + v / 64] >> (v % 64) & 1))
                sig[v].cyclic = 1;
            component++;
        }
    }
}

/* The inputs of a signature that come from its own component. */
static uint64_t fold__recurrent_inputs(const fold__gsig *sig, uint32_t n, const fold__gsig *s,
                                       const uint64_t *feeds, uint32_t words)
{
    uint64_t inputs = 0;
    for (uint32_t k = 0; k < (uint32_t)s->n_in + s->n_list && s->cyclic; k++, feeds += words)
        for (uint32_t w = 0; w < n; w++)
            if (sig[w].component == s->component && (feeds[w / 64] >> (w % 64) & 1))
                inputs |= 1ull << k;
    return inputs;
}

/* Numbers the group's signatures so that those of a component are neighbours, producers first. */
static void fold__sort_signatures(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    const fold__group *g = &r->group[group];
    int sorted = 1;
    for (uint32_t i = g->gsig0; i < g->gsig1; i++) {
        r->gsig[i].bit = i - g->gsig0;
        r->gsig[i].of_bit = i;
        sorted &= i == g->gsig0 || r->gsig[i - 1].component <= r->gsig[i].component;
    }
    if (sorted)
        return;
    for (uint32_t i = g->gsig0 + 1; i < g->gsig1; i++) { /* few: by insertion */
        const fold__gsig s = r->gsig[i];
        uint32_t j = i;
        for (; j > g->gsig0 && r->gsig[j - 1].component > s.component; j--)
            r->gsig[j] = r->gsig[j - 1];
        r->gsig[j] = s;
    }
    for (uint32_t i = g->gsig0; i < g->gsig1; i++)
        r->gsig[g->gsig0 + r->gsig[i].bit].of_bit = i;
    for (uint32_t i = g->call0; i < g->call1; i++) {
        const uint32_t id = r->calls[i], own = r->gsig[r->made[id] >> 3].of_bit;
        for (uint32_t o = 0; o < r->gsig[own].n_out; o++)
            r->made[id + o] = own << 3 | o;
    }
}

/* The graph of the group's signatures, its components, and which inputs close a cycle. */
static int fold__find_components(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    const uint32_t gsig0 = r->group[group].gsig0, n = r->group[group].gsig1 - gsig0, words = (n + 63) / 64;
    size_t feeds = 0;
    if (!n)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        r->gsig[gsig0 + i].feeds = (uint32_t)feeds;
        feeds += (size_t)(r->gsig[gsig0 + i].n_in + r->gsig[gsig0 + i].n_list) * words;
    }
    const size_t rows_words = (size_t)n * words;
    if (feeds >= FOLD__NONE || !fold__need(f, FOLD__C_FEEDS, feeds, 8) ||
        !fold__need(f, FOLD__C_SCHEDULE, rows_words * 8 + (size_t)n * 5 * 4, 1))
        return 0;
    fold__renew_moved(f);
    uint64_t *rows = (uint64_t *)(void *)f->arrays[FOLD__C_SCHEDULE].p;
    memset(fold__feeds(f), 0, feeds * 8);
    memset(rows, 0, rows_words * 8);
    fold__sort_calls_by_signature(f, &r->group[group]);
    for (uint32_t i = 0; i < n; i++)
        fold__read_operands(f, &r->group[group], i, words);
    fold__gsig *sig = r->gsig + gsig0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t w = 0; w < (uint32_t)(sig[i].n_in + sig[i].n_list) * words; w++)
            rows[i * words + w % words] |= fold__feeds(f)[sig[i].feeds + w];
    fold__condense(sig, n, rows, words, (uint32_t *)(void *)(rows + rows_words));
    for (uint32_t i = 0; i < n; i++)
        sig[i].recurrent = fold__recurrent_inputs(sig, n, &sig[i], fold__feeds(f) + sig[i].feeds, words);
    fold__sort_signatures(f, group);
    return 1;
}

/* -- batches --------------------------------------------------------------------------------- */

static int fold__add_batch(fold_ctx *f, uint32_t gsig, uint32_t stage)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_BATCHES, r->n.batches + 1, sizeof(fold__batch)))
        return 0;
    fold__renew_moved(f);
    fold__batch *b = &r->batch[r->n.batches++];
    memset(b, 0, sizeof *b);
    b->gsig = gsig;
    b->stage = stage;
    b->first = r->n.order;
    return 1;
}

/* Puts a call into the batch begun last; its slot is its row in the signature's slabs. */
static void fold__batch_call(fold_ctx *f, uint32_t id)
{
    fold__run *r = f->run;
    fold__batch *b = &r->batch[r->n.batches - 1];
    fold__gsig *s = &r->gsig[b->gsig];
    const uint32_t count = s->n_list ? fold__elements_of(f, id) : 0;
    if (!b->count) {
        b->slot0 = s->max_rows;
        b->elem0 = s->max_elems;
    } /* rows so far, until the group is planned */
    r->order[r->n.order++] = id;
    r->slot[id] = s->max_rows++;
    r->eslot[id] = s->max_elems;
    s->max_elems += count;
    b->count++;
    b->elems += count;
}

/* Puts the group's calls of signatures [first, last) into work, in record order, and numbers them and their
 * outputs from 0 on. */
static uint32_t fold__gather_calls(fold_ctx *f, uint32_t group, uint32_t first, uint32_t last)
{
    fold__run *r = f->run;
    uint32_t n = 0;
    for (uint32_t i = r->group[group].call0; i < r->group[group].call1; i++) {
        const uint32_t id = r->calls[i], own = r->made[id] >> 3;
        if (own - first >= last - first)
            continue;
        for (uint32_t o = id, end = id + r->gsig[own].n_out; o < end; o++)
            r->slot[o] = n;
        r->work[n++] = id;
    }
    return n;
}

/* Longest chain of each of 16 signatures among a call's ancestors and itself; what is longer counts as
 * FOLD__LONGEST_CHAIN. */
enum { FOLD__LONGEST_CHAIN = 0x7fff };
typedef struct fold__chains {
    int16_t of[16];
} fold__chains;

/* Longest same-signature chain ending at each of the calls in work, those of signatures [first, last), one
   cyclic component: 16 signatures at a time. */
static int fold__chains_of_component(fold_ctx *f, uint32_t n, uint32_t first, uint32_t last)
{
    fold__run *r = f->run;
    if (!fold__need(f, FOLD__C_SCHEDULE, n, sizeof(fold__chains)))
        return 0;
    fold__renew_moved(f);
    const uint32_t *calls = r->work;
    fold__chains *longest = (fold__chains *)(void *)f->arrays[FOLD__C_SCHEDULE].p;
    for (uint32_t block = first; block < last; block += 16)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t id = calls[i], own = r->made[id] >> 3;
            fold__chains all = { { 0 } };
            for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
                if ((r->made[f->esrc[e]] >> 3) - first >= last - first)
                    continue;
                const int16_t *other = longest[r->slot[f->esrc[e]]].of;
                for (int k = 0; k < 16; k++)
                    all.of[k] = other[k] > all.of[k] ? other[k] : all.of[k];
            }
            if (own - block < 16) {
                int16_t *chain = &all.of[own - block];
                if (*chain < FOLD__LONGEST_CHAIN)
                    ++*chain;
                r->chain[id] = (uint32_t)*chain;
                if (r->chain[id] > r->gsig[own].chain)
                    r->gsig[own].chain = r->chain[id];
            }
            longest[i] = all;
        }
    return 1;
}

/* Signatures that do not feed each other: a batch per level of their own chain. */
static int fold__batch_by_chain(fold_ctx *f, uint32_t gsig)
{
    fold__run *r = f->run;
    fold__gsig *s = &r->gsig[gsig];
    const uint32_t levels = s->chain;
    if (!fold__need(f, FOLD__C_BATCHES, r->n.batches + levels, sizeof(fold__batch)))
        return 0;
    fold__renew_moved(f);
    s = &r->gsig[gsig];
    fold__batch *level = r->batch + r->n.batches - 1; /* chains begin at 1 */
    r->n.batches += levels;
    for (uint32_t l = 1; l <= levels; l++) {
        const fold__batch empty = { gsig, 1, 0, 0, 0, 0, 0 };
        level[l] = empty;
    }
    for (uint32_t i = 0; i < s->calls; i++) {
        const uint32_t id = r->bysig[s->rec0 + i];
        level[r->chain[id]].count++;
        if (s->n_list)
            level[r->chain[id]].elems += fold__elements_of(f, id);
    }
    for (uint32_t l = 1; l <= levels; l++) {
        level[l].first = r->n.order;
        level[l].slot0 = s->max_rows; /* rows so far, until the group is planned */
        level[l].elem0 = s->max_elems;
        r->n.order += level[l].count;
        s->max_rows += level[l].count;
        s->max_elems += level[l].elems;
        level[l].count = level[l].elems = 0;
    }
    for (uint32_t i = 0; i < s->calls; i++) {
        const uint32_t id = r->bysig[s->rec0 + i];
        fold__batch *b = &level[r->chain[id]];
        r->slot[id] = b->slot0 + b->count;
        r->eslot[id] = b->elem0 + b->elems;
        r->order[b->first + b->count++] = id;
        if (s->n_list)
            b->elems += fold__elements_of(f, id);
    }
    return 1;
}

/* -- prologues ------------------------------------------------------------------------------- */

/* In a prologue: what depends on no input that closes the cycle. */
static int fold__in_prologue(const fold_ctx *f, const fold__gsig *s, const fold__body_op *op)
{
    return !(f->run->info[f->run->form[s->form].info0 + op->value0].deps & s->recurrent);
}

/* Leading segments of a linear op that can run in the prologue although the op itself cannot. */
static int fold__leading_segments(const fold_ctx *f, const fold__gsig *s, const fold__program *p,
                                  const fold__body_op *op)
{
    const fold__info *info = f->run->info + f->run->form[s->form].info0;
    int n = 0;
    if (op->op != FOLD__OP_linear || op->attr[1])
        return 0;
    for (; n < op->n_in; n++) {
        const fold__ref *ref = &p->ref[op->ref0 + (uint32_t)n];
        if (ref->kind == FOLD__FROM_VALUE
                ? (info[ref->index].deps & s->recurrent) != 0
                : ref->kind != FOLD__FROM_PARAM && (s->recurrent >> fold__ref_slot(p, ref) & 1))
            break;
    }
    return n;
}

/* Whether a value, or its gradient, passes between the prologue and later batches. */
static int fold__spans_stages(const fold_ctx *f, const fold__gsig *s, const fold__program *p, uint32_t v)
{
    const fold__body_op *op = &p->op[p->value[v].op];
    return s->hoisted && (fold__in_prologue(f, s, op) || fold__leading_segments(f, s, p, op));
}

/* A signature that feeds itself in small batches runs the products that do not depend on the recursion for
   all its calls at once, first. Larger batches gain nothing: there the chain of a product is one kernel call.
 */
enum { FOLD__HOIST_ROWS = 8 };
static int fold__plan_prologue(fold_ctx *f, uint32_t gsig)
{
    fold__run *r = f->run;
    fold__gsig *s = &r->gsig[gsig];
    if (!s->cyclic || s->chain < 2 || s->calls / s->chain >= FOLD__HOIST_ROWS)
        return 1;
    const fold__program p = fold__program_of(f, &fold__sigs(f)[r->form[s->form].sig]);
    for (int i = 0; i < p.n_ops && !s->hoisted && p.is_cell; i++)
        s->hoisted = p.op[i].op == FOLD__OP_linear &&
                     (fold__in_prologue(f, s, &p.op[i]) || fold__leading_segments(f, s, &p, &p.op[i]));
    return !s->hoisted || fold__add_batch(f, gsig, 0);
}

/* A prologue's calls are all of its signature's, by slot. */
static void fold__finish_prologues(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    for (uint32_t i = r->group[group].batch0; i < r->group[group].batch1; i++) {
        fold__batch *b = &r->batch[i];
        const fold__gsig *s = &r->gsig[b->gsig];
        if (b->stage)
            continue;
        b->first = r->n.order;
        b->count = s->calls;
        b->elems = s->elems;
        for (uint32_t j = 0; j < s->calls; j++)
            r->order[b->first + r->slot[r->bysig[s->rec0 + j]]] = r->bysig[s->rec0 + j];
        r->n.order += s->calls;
    }
}

/* -- policies over mixed signatures ---------------------------------------------------------- */

/* A signature's runnable calls, as a queue linked through next; its pending calls by chain length. */
typedef struct fold__ready {
    uint32_t head, tail, ready, pending, lowest, counts;
    uint64_t depths;
} fold__ready;
/* Local indices of calls: inputs still missing, next in queue, their readers, their depth. */
typedef struct fold__greedy {
    uint32_t *missing, *next, *readers0, *readers;
    fold__ready *sig;
    uint32_t *counts;
    uint32_t gsig0, n_sigs;
} fold__greedy;

static void fold__make_ready(fold_ctx *f, fold__greedy *x, const uint32_t *calls, uint32_t i)
{
    fold__ready *s = &x->sig[(f->run->made[calls[i]] >> 3) - x->gsig0];
    x->next[i] = FOLD__NONE;
    if (s->ready++)
        x->next[s->tail] = i;
    else
        s->head = i;
    s->tail = i;
}

/* The number of the call in the set that makes an operand, or NONE. */
static uint32_t fold__in_set(const fold_ctx *f, const fold__greedy *x, uint32_t src)
{
    return (f->run->made[src] >> 3) - x->gsig0 < x->n_sigs ? f->run->slot[src] : FOLD__NONE;
}

/* Where its arrays lie: in a caller's block they move when the array of batches grows. */
static void fold__greedy_renew(fold_ctx *f, fold__greedy *x, uint32_t n)
{
    char *sig = f->arrays[FOLD__C_SCHEDULE].p;
    x->sig = (fold__ready *)(void *)sig;
    x->counts = (uint32_t *)(void *)(sig + fold__round_up(x->n_sigs * sizeof(fold__ready), FOLD__ALIGN));
    x->missing = f->run->work + n; /* behind the calls, in record order */
    x->next = x->missing + n;
    x->readers0 = x->next + n;
    x->readers = x->readers0 + n + 1;
}

static int fold__greedy_start(fold_ctx *f, fold__greedy *x, uint32_t n, uint32_t gsig0, uint32_t gsig1)
{
    fold__run *r = f->run;
    size_t counts = 0;
    for (uint32_t s = gsig0; s < gsig1; s++)
        counts += r->gsig[s].chain + 1;
    const size_t sig_bytes = fold__round_up((gsig1 - gsig0) * sizeof(fold__ready), FOLD__ALIGN);
    if (!fold__need(f, FOLD__C_SCHEDULE, sig_bytes + counts * 4, 1))
        return 0;
    fold__renew_moved(f);
    x->gsig0 = gsig0;
    x->n_sigs = gsig1 - gsig0;
    fold__greedy_renew(f, x, n);
    memset(x->sig, 0, sig_bytes + counts * 4);
    const uint32_t *calls = r->work;
    for (uint32_t s = 0, at = 0; s < x->n_sigs; s++) {
        x->sig[s].counts = at;
        x->sig[s].lowest = 1;
        at += r->gsig[gsig0 + s].chain + 1;
    }
    memset(x->readers0, 0, (n + 1) * sizeof *x->readers0);
    memset(x->missing, 0, n * sizeof *x->missing);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = f->edge0[calls[i]]; e < f->edge0[calls[i] + 1]; e++) {
            const uint32_t from = fold__in_set(f, x, f->esrc[e]);
            if (from != FOLD__NONE) {
                x->missing[i]++;
                x->readers0[from + 1]++;
            }
        }
    for (uint32_t i = 0; i < n; i++)
        x->readers0[i + 1] += x->readers0[i];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = f->edge0[calls[i]]; e < f->edge0[calls[i] + 1]; e++) {
            const uint32_t from = fold__in_set(f, x, f->esrc[e]);
            if (from != FOLD__NONE)
                x->readers[x->readers0[from]++] = i;
        }
    for (uint32_t i = n; i > 0; i--)
        x->readers0[i] = x->readers0[i - 1];
    x->readers0[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        fold__ready *s = &x->sig[(r->made[calls[i]] >> 3) - gsig0];
        s->pending++;
        x->counts[s->counts + r->chain[calls[i]]]++;
        if (!x->missing[i])
            fold__make_ready(f, x, calls, i);
    }
    return 1;
}

/* Depth of each call in the set, for the agenda: stored where `next` of unready calls is free. */
static void fold__agenda_depths(fold_ctx *f, fold__greedy *x, const uint32_t *calls, uint32_t n,
                                uint32_t *depth)
{
    memset(depth, 0, n * sizeof *depth);
    for (uint32_t i = 0; i < n; i++) {
        x->sig[(f->run->made[calls[i]] >> 3) - x->gsig0].depths += depth[i];
        for (uint32_t k = x->readers0[i]; k < x->readers0[i + 1]; k++)
            if (depth[x->readers[k]] < depth[i] + 1)
                depth[x->readers[k]] = depth[i] + 1;
    }
}

static uint32_t fold__pick_signature(const fold_ctx *f, fold__greedy *x)
{
    uint32_t best = FOLD__NONE;
    for (uint32_t i = 0; i < x->n_sigs; i++) {
        fold__ready *s = &x->sig[i];
        if (!s->ready)
            continue;
        while (!x->counts[s->counts + s->lowest])
            s->lowest++;
        if (best == FOLD__NONE) {
            best = i;
            continue;
        }
        const fold__ready *b = &x->sig[best];
        const int better = f->schedule == FOLD_SCHEDULE_AGENDA
                               ? s->depths * b->pending < b->depths * s->pending
                               : (uint64_t)s->ready * x->counts[b->counts + b->lowest] >
                                     (uint64_t)b->ready * x->counts[s->counts + s->lowest];
        if (better)
            best = i;
    }
    return best;
}

/* Runs all ready calls of the best signature, again and again. The calls lie in work[0..n), in record order.
 */
static int fold__schedule_greedy(fold_ctx *f, uint32_t n, uint32_t gsig0, uint32_t gsig1)
{
    fold__run *r = f->run;
    fold__greedy x;
    if (!fold__greedy_start(f, &x, n, gsig0, gsig1))
        return 0;
    const int agenda = f->schedule == FOLD_SCHEDULE_AGENDA;
    if (agenda) {
        uint32_t *local = x.readers + x.readers0[n];
        fold__agenda_depths(f, &x, r->work, n, local);
        for (uint32_t i = 0; i < n; i++)
            r->eslot[r->work[i]] = local[i]; /* free until calls are batched */
    }
    for (uint32_t done = 0; done < n;) {
        const uint32_t best = fold__pick_signature(f, &x);
        if (!fold__add_batch(f, gsig0 + best, 1))
            return 0;
        fold__greedy_renew(f, &x, n);
        fold__ready *s = &x.sig[best];
        uint32_t i = s->head, left = s->ready;
        s->ready = 0;
        for (; left > 0; left--, done++) {
            const uint32_t id = r->work[i], next = x.next[i];
            s->pending--;
            if (agenda)
                s->depths -= r->eslot[id];
            x.counts[s->counts + r->chain[id]]--;
            for (uint32_t k = x.readers0[i]; k < x.readers0[i + 1]; k++)
                if (!--x.missing[x.readers[k]])
                    fold__make_ready(f, &x, r->work, x.readers[k]);
            fold__batch_call(f, id);
            i = next;
        }
    }
    return 1;
}

/* Calls of equal depth and signature, depth by depth. */
static int fold__schedule_depth(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    fold__group *g = &r->group[group];
    const uint32_t n = g->call1 - g->call0;
    uint32_t *depth = r->eslot, *sorted = r->work, deepest = 0;
    for (uint32_t i = g->call0; i < g->call1; i++) {
        const uint32_t id = r->calls[i];
        uint32_t d = 0;
        for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++)
            if ((r->made[f->esrc[e]] >> 3) - g->gsig0 < g->gsig1 - g->gsig0 && depth[f->esrc[e]] + 1 > d)
                d = depth[f->esrc[e]] + 1;
        for (uint32_t o = 0, n_out = fold__gsig_of(f, id)->n_out; o < n_out; o++)
            depth[id + o] = d;
        if (d > deepest)
            deepest = d;
    }
    uint32_t *start = r->work + n;
    memset(start, 0, (deepest + 2) * sizeof *start);
    for (uint32_t i = g->gsig0; i < g->gsig1; i++)
        for (uint32_t j = 0; j < r->gsig[i].calls; j++)
            start[depth[r->bysig[r->gsig[i].rec0 + j]] + 1]++;
    for (uint32_t d = 0; d <= deepest; d++)
        start[d + 1] += start[d];
    for (uint32_t i = g->gsig0; i < g->gsig1; i++) /* by signature within a depth, as they come */
        for (uint32_t j = 0; j < r->gsig[i].calls; j++) {
            const uint32_t id = r->bysig[r->gsig[i].rec0 + j];
            sorted[start[depth[id]]++] = id;
        }
    for (uint32_t i = 0; i < n; i++)
        r->slot[sorted[i]] = depth[sorted[i]];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = r->work[i], gsig = r->made[id] >> 3;
        const int same = i > 0 && r->batch[r->n.batches - 1].gsig == gsig && r->chain[0] == r->slot[id];
        r->chain[0] = r->slot[id]; /* node 0 is no node: the depth of the batch begun last */
        if (!same && !fold__add_batch(f, gsig, 1))
            return 0;
        fold__batch_call(f, id);
    }
    return 1;
}

/* The end of the component that begins with a signature. */
static uint32_t fold__component_end(const fold_ctx *f, uint32_t group, uint32_t s)
{
    uint32_t end = s + 1;
    while (end < f->run->group[group].gsig1 && f->run->gsig[end].component == f->run->gsig[s].component)
        end++;
    return end;
}

/* Component by component, producers first. */
static int fold__schedule_ratio(fold_ctx *f, uint32_t group)
{
    for (uint32_t s = f->run->group[group].gsig0, end; s < f->run->group[group].gsig1; s = end) {
        end = fold__component_end(f, group, s);
        if (end == s + 1) {
            if (!fold__plan_prologue(f, s) || !fold__batch_by_chain(f, s))
                return 0;
        } else {
            const uint32_t n = fold__gather_calls(f, group, s, end);
            if (!fold__chains_of_component(f, n, s, end) || !fold__schedule_greedy(f, n, s, end))
                return 0;
        }
    }
    return 1;
}

/* The other policies know no components, only their chains. */
static int fold__find_chains(fold_ctx *f, uint32_t group)
{
    for (uint32_t s = f->run->group[group].gsig0, end; s < f->run->group[group].gsig1; s = end) {
        end = fold__component_end(f, group, s);
        if (end > s + 1 && !fold__chains_of_component(f, fold__gather_calls(f, group, s, end), s, end))
            return 0;
    }
    return 1;
}

static int fold__schedule_agenda(fold_ctx *f, uint32_t group)
{
    const uint32_t gsig0 = f->run->group[group].gsig0, gsig1 = f->run->group[group].gsig1;
    if (gsig0 == gsig1)
        return 1;
    return fold__find_chains(f, group) &&
           fold__schedule_greedy(f, fold__gather_calls(f, group, gsig0, gsig1), gsig0, gsig1);
}

/* Schedules one group: fills its signatures, batches and the order of its calls. */
static int fold__schedule_group(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    r->group[group].batch0 = r->n.batches;
    if (!fold__list_signatures(f, group) || !fold__find_components(f, group))
        return 0;
    switch (f->schedule) {
    case FOLD_SCHEDULE_DEPTH:
        if (!fold__find_chains(f, group) || !fold__schedule_depth(f, group))
            return 0;
        break;
    case FOLD_SCHEDULE_AGENDA:
        if (!fold__schedule_agenda(f, group))
            return 0;
        break;
    default:
        if (!fold__schedule_ratio(f, group))
            return 0;
    }
    for (uint32_t i = r->group[group].gsig0; i < r->group[group].gsig1; i++)
        r->group[group].bound += r->gsig[i].chain;
    r->group[group].batch1 = r->n.batches;
    fold__finish_prologues(f, group);
    return 1;
}

/* ==== room: memory planner ==================================================================
   Owns: where every value, gradient and contribution of a run lives. All outputs of one signature lie in one
   slab in schedule order; slabs whose lifetimes do not overlap share memory; what lives within one batch, or
   within one tile of its rows, lives in scratch. Sees sizes and times, never floats. Calls: scheduler. */

/* Buffers of a program, in this order: values, and in training their gradients, contributions of operands,
   gradients of outputs from outside and, where there is a list, contributions of call-level operands per list
   element. */
static uint32_t fold__buf_value(uint32_t v) { return v; }
static uint32_t fold__buf_grad(const fold__program *p, uint32_t v) { return (uint32_t)p->n_values + v; }
static uint32_t fold__buf_part(const fold__program *p, uint32_t ref)
{
    return 2u * (uint32_t)p->n_values + ref;
}
static uint32_t fold__buf_outer(const fold__program *p, uint32_t out)
{
    return 2u * (uint32_t)p->n_values + (uint32_t)p->n_refs + out;
}
static uint32_t fold__buf_spread(const fold__program *p, uint32_t ref)
{
    return fold__buf_outer(p, (uint32_t)p->n_out) + ref;
}
static uint32_t fold__n_bufs_of(const fold_ctx *f, uint32_t gsig)
{
    const fold__program p = fold__program_of(f, &fold__sigs(f)[f->run->form[f->run->gsig[gsig].form].sig]);
    return f->run->backward ? fold__buf_spread(&p, p.n_list ? (uint32_t)p.n_refs : 0) : (uint32_t)p.n_values;
}

/* Rows of a tile: its values stay in the first cache level. */
enum { FOLD__TILE_FLOATS = 4096 };
static uint32_t fold__rows_of_tile(const fold__program *p)
{
    uint32_t widest = 1;
    for (int v = 0; v < p->n_values; v++)
        widest = p->value[v].size > widest ? p->value[v].size : widest;
    return widest >= FOLD__TILE_FLOATS ? 1 : FOLD__TILE_FLOATS / widest;
}

static void fold__set_buf(fold__buf *b, uint32_t size, int elem, int place)
{
    b->size = size;
    b->elem = (uint8_t)elem;
    b->place = (uint8_t)place;
}

/* Room for a word for each of a group's buffers, and two for each of its signatures. */
static uint32_t *fold__plan_scratch(const fold_ctx *f)
{
    return (uint32_t *)(void *)f->arrays[FOLD__C_SCHEDULE].p;
}

/* Where the buffers of one signature live. */
static void fold__place_bufs(fold_ctx *f, const fold__gsig *s, const fold__program *p)
{
    fold__run *r = f->run;
    fold__buf *buf = r->buf + s->buf0;
    const fold__form *form = &r->form[s->form];
    const fold__info *info = r->info + form->info0;
    memset(buf, 0, s->n_bufs * sizeof *buf);
    for (uint32_t v = 0; v < (uint32_t)p->n_values; v++) {
        const int brief = info[v].brief, spans = fold__spans_stages(f, s, p, v);
        fold__set_buf(&buf[fold__buf_value(v)], p->value[v].size, p->value[v].elem,
                      fold__outlives(&info[v]) || spans ? FOLD__SLAB : brief);
        if (!info[v].grad || fold__grad_is_outer(&info[v]))
            continue;
        fold__set_buf(&buf[fold__buf_grad(p, v)], p->value[v].size, p->value[v].elem,
                      info[v].grad_late || spans              ? FOLD__SLAB
                      : info[v].mode == FOLD__GRAD_SOME_PARTS ? FOLD__PER_BATCH
                                                              : brief);
    }
    for (int i = 0; i < p->n_ops && r->backward; i++)
        for (int j = 0; j < p->op[i].n_in; j++) {
            const fold__body_op *op = &p->op[i];
            const uint32_t at = op->ref0 + (uint32_t)j;
            const fold__ref *ref = &p->ref[at];
            const fold__info *wanted = fold__info_of_ref(f, form, p, at);
            if (!wanted->grad)
                continue;
            const int is_value = ref->kind == FOLD__FROM_VALUE,
                      from_elem = ref->kind == FOLD__FROM_LIST || (is_value && p->value[ref->index].elem);
            const int mode = is_value ? info[ref->index].mode
                             : ref->kind == FOLD__FROM_PARAM
                                 ? 0
                                 : info[p->n_values + fold__ref_slot(p, ref)].mode;
            const int spans = is_value ? fold__spans_stages(f, s, p, ref->index) : s->hoisted;
            const int brief = is_value ? (int)info[ref->index].brief : (int)FOLD__PER_BATCH;
            if (ref->kind == FOLD__FROM_PARAM)
                fold__set_buf(&buf[fold__buf_part(p, at)], wanted->part, op->elem, FOLD__SLAB);
            else if (mode == FOLD__GRAD_SUM)
                fold__set_buf(&buf[fold__buf_part(p, at)], wanted->part, from_elem,
                              spans ? FOLD__SLAB : brief);
            if (op->elem && !from_elem && ref->kind != FOLD__FROM_PARAM)
                fold__set_buf(&buf[fold__buf_spread(p, at)], wanted->part, 1, FOLD__PER_BATCH);
        }
    for (uint32_t o = 0; o < (uint32_t)p->n_out; o++)
        if (info[p->out[o].index].grad)
            fold__set_buf(&buf[fold__buf_outer(p, o)], p->value[p->out[o].index].size, 0, FOLD__SLAB);
}

/* -- lifetimes ------------------------------------------------------------------------------- */

/* Time of a group: batch b forward at b, backward at 2B-1-b, weight gradients at 2B. */
typedef struct fold__times {
    uint32_t batch0, count;
} fold__times;
static uint32_t fold__time_forward(const fold__times *t, uint32_t batch) { return batch - t->batch0; }
static uint32_t fold__time_backward(const fold__times *t, uint32_t batch)
{
    return 2 * t->count - 1 - (batch - t->batch0);
}

static void fold__live(fold__buf *b, uint32_t first, uint32_t last)
{
    if (b->place != FOLD__SLAB)
        return;
    if (first < b->first)
        b->first = first;
    if (last > b->last)
        b->last = last;
}

/* What a signature itself does to its slabs between its first and its last batch. */
static void fold__live_own(fold_ctx *f, const fold__gsig *s, const fold__program *p, const fold__times *t,
                           uint32_t first, uint32_t last)
{
    fold__run *r = f->run;
    fold__buf *buf = r->buf + s->buf0;
    const fold__info *info = r->info + r->form[s->form].info0;
    const uint32_t end = 2 * t->count, back0 = fold__time_backward(t, last),
                   back1 = fold__time_backward(t, first);
    for (uint32_t v = 0; v < (uint32_t)p->n_values; v++) {
        const int late = info[v].grad_late;
        fold__live(&buf[fold__buf_value(v)], fold__time_forward(t, first), fold__time_forward(t, last));
        if (!r->backward)
            continue;
        if (info[v].back)
            fold__live(&buf[fold__buf_value(v)], back1, info[v].late ? end : back1);
        fold__live(&buf[fold__buf_grad(p, v)], back0, late ? end : back1);
        if (info[v].out >= 0)
            fold__live(&buf[fold__buf_outer(p, (uint32_t)info[v].out)], back0,
                       late && fold__grad_is_outer(&info[v]) ? end : back1);
    }
    for (uint32_t i = 0; i < (uint32_t)p->n_refs && r->backward; i++)
        fold__live(&buf[fold__buf_part(p, i)], back0, end);
}

/* When the outputs of signatures are read: by whichever batches of those they feed. first, last: of each
 * signature. */
static void fold__note_readers(fold_ctx *f, const fold__group *g, const uint32_t *first, const uint32_t *last)
{
    fold__run *r = f->run;
    const uint32_t words = (g->gsig1 - g->gsig0 + 63) / 64;
    for (uint32_t i = g->gsig0; i < g->gsig1; i++) {
        r->gsig[i].last_read = r->gsig[i].first_back = FOLD__NONE;
        r->gsig[i].read_late = 0;
    }
    for (uint32_t i = g->gsig0; i < g->gsig1; i++) {
        const fold__gsig *s = &r->gsig[i];
        const fold__form *form = &r->form[s->form];
        const uint32_t begin = first[i - g->gsig0], end = last[i - g->gsig0];
        for (uint32_t at = 0; at < (uint32_t)(s->n_in + s->n_list) * words; at++) {
            const uint32_t k = at / words;
            fold__gsig *maker = &r->gsig[g->gsig0 + at % words * 64];
            for (uint64_t bits = fold__feeds(f)[s->feeds + at]; bits; bits >>= 1, maker++) {
                fold__gsig *m = &r->gsig[maker->of_bit];
                if (!(bits & 1))
                    continue;
                if (m->last_read == FOLD__NONE || m->last_read < end)
                    m->last_read = end;
                if ((form->slot_back >> k & 1) && begin < m->first_back)
                    m->first_back = begin;
                m->read_late |= (uint8_t)(form->slot_late >> k & 1);
            }
        }
    }
}

/* What the group's batches do to the slabs of a signature they read. */
static void fold__live_read(fold_ctx *f, const fold__gsig *s, const fold__program *p, const fold__times *t)
{
    fold__run *r = f->run;
    if (s->last_read == FOLD__NONE)
        return;
    for (uint32_t o = 0; o < s->n_out; o++) {
        fold__buf *value = &r->buf[s->buf0 + fold__buf_value(p->out[o].index)];
        fold__live(value, FOLD__NONE, fold__time_forward(t, s->last_read));
        if (!r->backward)
            continue;
        if (s->first_back != FOLD__NONE)
            fold__live(value, FOLD__NONE,
                       s->read_late ? 2 * t->count : fold__time_backward(t, s->first_back));
        fold__live(&r->buf[s->buf0 + fold__buf_outer(p, o)],
                   s->cleared >> o & 1 ? t->count : fold__time_backward(t, s->last_read), 0);
    }
}

/* First fit: the lowest offset where no slab of overlapping lifetime lies. `placed` is sorted by offset. */
static void fold__first_fit(fold__run *r, uint32_t buf, uint32_t *placed, uint32_t *n)
{
    fold__buf *b = &r->buf[buf];
    size_t at = 0;
    uint32_t insert = *n;
    for (uint32_t i = 0; i < *n; i++) {
        const fold__buf *other = &r->buf[placed[i]];
        if (other->last < b->first || b->last < other->first)
            continue;
        if (other->off >= at + b->floats)
            break;
        at = fold__max_size(at, other->off + other->floats);
    }
    while (insert > 0 && r->buf[placed[insert - 1]].off > at)
        insert--;
    memmove(placed + insert + 1, placed + insert, (*n - insert) * sizeof *placed);
    placed[insert] = buf;
    ++*n;
    b->off = at;
}

/* Gives the slabs of a group their offsets; returns the floats they take together. */
static size_t fold__place_slabs(fold_ctx *f, uint32_t buf0)
{
    fold__run *r = f->run;
    uint32_t *placed = fold__plan_scratch(f), n = 0;
    size_t end = 0;
    for (uint32_t i = buf0; i < r->n.bufs; i++) {
        fold__buf *b = &r->buf[i];
        if (b->place != FOLD__SLAB || !b->floats)
            continue;
        fold__first_fit(r, i, placed, &n);
        end = fold__max_size(end, b->off + b->floats);
    }
    return end;
}

/* Scratch of a signature: its brief buffers, an op's own, and pointers to rows. */
static size_t fold__gsig_scratch(fold_ctx *f, fold__gsig *s, const fold__program *p)
{
    fold__run *r = f->run;
    const size_t rows = s->max_rows, elems = s->max_elems, tile = fold__rows_of_tile(p);
    const fold__form *form = &r->form[s->form];
    size_t at = 0;
    for (uint32_t i = 0; i < s->n_bufs; i++) {
        fold__buf *b = &r->buf[s->buf0 + i];
        if (b->place != FOLD__PER_BATCH && b->place != FOLD__PER_TILE)
            continue;
        b->off = at;
        at += fold__round_up(fold__size(b->size,
                                        b->place == FOLD__PER_TILE ? tile
                                        : b->elem                  ? elems
                                                                   : rows,
                                        0),
                             16);
    }
    const size_t pointers = fold__size(form->arrays, rows + elems + 1, 16 * (size_t)form->arrays) *
                            sizeof(float *) / sizeof(float);
    const size_t late = fold__size(3, (size_t)s->calls + s->elems + 16, 0) * sizeof(float *) / sizeof(float);
    s->op_at = at;
    s->turn_at = at + fold__round_up(form->op_floats, 16);
    const size_t turns =
        (size_t)p->n_ops * sizeof(fold__turn) + 2 * (size_t)(p->n_refs + p->n_values) * sizeof(fold__spot);
    s->free_at = s->turn_at + fold__round_up(turns, FOLD__ALIGN) / sizeof(float);
    return s->free_at + fold__max_size(pointers, late);
}

/* Plans one scheduled group: buffers, lifetimes, offsets. */
static int fold__plan_group(fold_ctx *f, uint32_t group)
{
    fold__run *r = f->run;
    const fold__group g = r->group[group];
    const fold__times t = { g.batch0, g.batch1 - g.batch0 };
    const uint32_t buf0 = r->n.bufs;
    for (uint32_t i = g.gsig0; i < g.gsig1; i++) {
        r->gsig[i].buf0 = r->n.bufs;
        r->n.bufs += r->gsig[i].n_bufs = fold__n_bufs_of(f, i);
        r->gsig[i].max_rows = r->gsig[i].max_elems = 0;
    }
    const size_t bufs = r->n.bufs - buf0, words = fold__max_size(bufs, 2 * (size_t)(g.gsig1 - g.gsig0)) + 1;
    if (!fold__need(f, FOLD__C_BUFS, r->n.bufs, sizeof(fold__buf)) ||
        !fold__need(f, FOLD__C_SCHEDULE, words, sizeof(uint32_t)))
        return 0;
    fold__renew_moved(f);
    uint32_t *first = fold__plan_scratch(f), *last = first + (g.gsig1 - g.gsig0);
    for (uint32_t i = g.gsig0; i < g.gsig1; i++) {
        const fold__program p = fold__program_of(f, &fold__sigs(f)[r->form[r->gsig[i].form].sig]);
        fold__place_bufs(f, &r->gsig[i], &p);
    }
    for (uint32_t i = g.gsig0; i < g.gsig1; i++)
        first[i - g.gsig0] = FOLD__NONE;
    for (uint32_t b = g.batch0; b < g.batch1; b++) {
        fold__gsig *s = &r->gsig[r->batch[b].gsig];
        const uint32_t k = r->batch[b].gsig - g.gsig0;
        if (first[k] == FOLD__NONE)
            first[k] = b;
        last[k] = b;
        s->max_rows = r->batch[b].count > s->max_rows ? r->batch[b].count : s->max_rows;
        s->max_elems = r->batch[b].elems > s->max_elems ? r->batch[b].elems : s->max_elems;
    }
    fold__note_readers(f, &g, first, last);
    for (uint32_t i = g.gsig0; i < g.gsig1; i++) {
        fold__gsig *s = &r->gsig[i];
        const fold__program p = fold__program_of(f, &fold__sigs(f)[r->form[s->form].sig]);
        for (uint32_t k = 0; k < s->n_bufs; k++) {
            fold__buf *b = &r->buf[s->buf0 + k];
            b->first = FOLD__NONE;
            b->last = 0;
            if (!b->place)
                continue;
            b->floats = fold__round_up(fold__size(b->size, b->elem ? s->elems : s->calls, 0), 16);
            r->n.without_reuse += b->floats;
        }
        fold__live_own(f, s, &p, &t, first[i - g.gsig0], last[i - g.gsig0]);
        fold__live_read(f, s, &p, &t);
        r->n.scratch = fold__max_size(r->n.scratch, fold__round_up(fold__gsig_scratch(f, s, &p), 16));
    }
    r->group[group].floats = fold__place_slabs(f, buf0);
    return 1;
}

/* ==== room: executor ========================================================================
   Owns: running batches, forward and backward: finds operand rows, calls ops, copies out what stays readable.
   Calls: op table, memory planner's offsets. Allocates nothing: everything was reserved. */

static void *fold__scratch_array(fold__worker *x, size_t count, size_t size)
{
    void *p = x->free;
    x->free += fold__round_up(count * size, FOLD__ALIGN);
    return p;
}

/* Rows of pointers as base and stride when they are evenly spaced: then row loops collapse into one call. */
static fold_rows fold__tidy_rows(float **rows, size_t n, ptrdiff_t size)
{
    fold_rows x = { NULL, 0, rows };
    if (!n)
        return x;
    for (size_t i = 1; i < n; i++)
        if (rows[i] != rows[0] + (ptrdiff_t)i * size)
            return x;
    x.base = rows[0];
    x.stride = size;
    x.rows = NULL;
    return x;
}

/* Rows are written where they are used, field by field: a copy of one just written waits for its stores. */

/* Shifts rows by `row` rows and `off` floats; pointers are copied for `n` rows when they change. */
FOLD__INLINE void fold__shift_rows(fold__worker *x, fold_rows *rows, uint32_t row, uint32_t off, size_t n)
{
    if (!rows->rows) {
        rows->base += (ptrdiff_t)row * rows->stride + (ptrdiff_t)off;
        return;
    }
    rows->rows += row;
    if (!off)
        return;
    float **moved = (float **)fold__scratch_array(x, n, sizeof *moved);
    for (size_t i = 0; i < n; i++)
        moved[i] = rows->rows[i] + off;
    rows->rows = moved;
}

/* The tile that begins with a row. */
FOLD__INLINE void fold__set_tile(fold__worker *x, uint32_t row)
{
    x->row = row;
    x->at[FOLD__BY_CALLS] = (ptrdiff_t)x->b.slot0 + (ptrdiff_t)row;
    x->at[FOLD__BY_ELEMS] = (ptrdiff_t)x->b.elem0 + (ptrdiff_t)row;
    x->at[FOLD__BY_ROWS] = (ptrdiff_t)row;
}

static void fold__buf_spot(const fold_ctx *f, const fold__worker *x, uint32_t index, fold__spot *s)
{
    const fold__buf *b = &f->run->buf[x->s->buf0 + index];
    s->base = x->scratch + b->off;
    s->stride = (ptrdiff_t)b->size;
    s->moves = FOLD__STAYS;
    switch (b->place) {
    case FOLD__SLAB:
        s->base = x->region + b->off;
        s->moves = b->elem ? FOLD__BY_ELEMS : FOLD__BY_CALLS;
        break;
    case FOLD__PER_BATCH: s->moves = FOLD__BY_ROWS; break;
    case FOLD__PER_TILE: break;
    default: s->base = NULL; s->stride = 0;
    }
}

/* Rows from outside. */
static void fold__outside_spot(fold__spot *s, const fold_rows *from)
{
    s->from = from;
    s->off = 0;
    s->spread = 0;
    s->moves = FOLD__OTHERWISE;
}

/* A call-level operand's rows, once for each list element in [row, row + n) of the batch. */
static void fold__spread_rows(fold__worker *x, fold_rows *rows, uint32_t off, uint32_t row, size_t n)
{
    if (!rows->rows && rows->stride == 0) {
        rows->base += off;
        return;
    }
    float **to = (float **)fold__scratch_array(x, n, sizeof *to);
    uint32_t call = 0;
    while (call < x->b.count && x->list[call + 1] <= row)
        call++;
    for (size_t i = 0; i < n; i++) {
        while (x->list[call + 1] <= row + i)
            call++;
        to[i] = fold_row(rows, (int)call) + off;
    }
    rows->base = NULL;
    rows->stride = 0;
    rows->rows = to;
}

static FOLD__NOINLINE void fold__other_rows(fold__worker *x, const fold__spot *s, size_t n, fold_rows *rows)
{
    if (s->from) {
        *rows = *s->from;
    } else { /* a value of calls, from the batch's first on */
        rows->base = s->base + (s->spread == FOLD__BY_CALLS ? (ptrdiff_t)x->b.slot0 * s->stride : 0);
        rows->stride = s->stride;
        rows->rows = NULL;
    }
    if (s->spread)
        fold__spread_rows(x, rows, s->off, x->row, n);
    else
        fold__shift_rows(x, rows, x->row, s->off, n);
}

/* The rows of a spot, n of them from the tile's first on. */
FOLD__INLINE void fold__spot_rows(fold__worker *x, const fold__spot *s, size_t n, fold_rows *rows)
{
    if (s->moves == FOLD__OTHERWISE) {
        fold__other_rows(x, s, n, rows);
        return;
    }
    rows->base = s->base + x->at[s->moves] * s->stride;
    rows->stride = s->stride;
    rows->rows = NULL;
}
static void fold__buf_rows(const fold_ctx *f, fold__worker *x, uint32_t index, fold_rows *rows)
{
    fold__spot s;
    fold__buf_spot(f, x, index, &s);
    fold__spot_rows(x, &s, 0, rows);
}

/* Where operand j of an op lies. */
static void fold__operand_spot(const fold_ctx *f, const fold__worker *x, const fold__body_op *op, int j,
                               fold__spot *s)
{
    const fold__ref *ref = &x->p.ref[op->ref0 + (uint32_t)j];
    int by_calls = 0;
    switch (ref->kind) {
    case FOLD__FROM_PARAM:
        s->base = fold__values(f->model) + fold__params(f->model)[ref->index].at + ref->off;
        s->stride = 0;
        s->moves = FOLD__STAYS;
        return;
    case FOLD__FROM_VALUE:
        fold__buf_spot(f, x, fold__buf_value(ref->index), s);
        if (!op->elem || x->p.value[ref->index].elem) {
            s->base += ref->off;
            return;
        }
        by_calls = s->moves == FOLD__BY_CALLS;
        fold__outside_spot(s, NULL);
        break;
    case FOLD__FROM_LIST: fold__outside_spot(s, &x->in[x->p.n_in + (int)ref->index]); break;
    default: fold__outside_spot(s, &x->in[ref->index]);
    }
    s->off = ref->off;
    if (op->elem && ref->kind != FOLD__FROM_LIST)
        s->spread = by_calls ? FOLD__BY_CALLS : FOLD__BY_ROWS;
}

/* -- one op over some rows of a batch -------------------------------------------------------- */

static void fold__gather_data(const fold_ctx *f, fold__worker *x, const fold__body_op *op, uint32_t row,
                              size_t n, fold_op_call *c)
{
    const int random = (fold__op_of(f->model, op->op)->flags & FOLD__RANDOM) != 0;
    uint64_t *data = (uint64_t *)fold__scratch_array(x, n, sizeof *data);
    uint32_t call = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = row + (uint32_t)i;
        if (op->elem)
            while (x->list[call + 1] <= at)
                call++;
        const uint64_t base = f->node_data[x->ids[op->elem ? call : at]];
        data[i] = !random ? base
                          : fold__draw_key(base, x->p.is_cell ? op->data : 0,
                                           op->elem ? at - x->list[call] + 1 : 0);
    }
    c->data = data;
    c->data_step = 1;
}

/* A call of an op, whichever its rows. */
static void fold__prepare(const fold_ctx *f, fold__worker *x, const fold__body_op *op,
                          const fold_shape *shape, float *scratch, fold__prepared *made)
{
    fold_op_call *c = &made->call;
    fold__engine *e = &made->engine;
    c->n_in = op->n_in;
    c->n_out = op->n_out;
    c->in_shape = shape + op->shape0;
    c->out_shape = c->in_shape + op->n_in;
    c->attr = op->attr;
    c->data = &op->data;
    c->data_step = 0;
    c->in = x->op_in;
    c->out = x->op_out;
    c->dout = x->op_dout;
    c->din = x->op_din;
    c->scratch = scratch;
    e->k = f->model->k;
    e->packs = fold__packs(f->model);
    for (int i = 0; i < 2; i++)
        e->param[i] = op->param[i] ? &fold__params(f->model)[op->param[i] - 1] : NULL;
    e->seg0 = 0;
    e->seg1 = op->n_in - op->attr[1];
}

/* Completes the call of an op with `n` rows of the tile; list ops always take the whole batch. */
FOLD__INLINE fold_op_call *fold__complete_call(fold_ctx *f, fold__worker *x, int i, size_t n)
{
    fold__turn *turn = &x->turn[i];
    fold_op_call *c = &turn->made.call;
    c->rows = (int)n;
    c->list = (const int *)x->list;
    for (int j = 0; j < c->n_in; j++)
        fold__spot_rows(x, &turn->in[j], turn->is_list ? x->b.elems : n, &x->op_in[j]);
    for (int o = 0; o < c->n_out; o++)
        fold__spot_rows(x, &turn->out[o], n, &x->op_out[o]);
    if (turn->data)
        fold__gather_data(f, x, &x->p.op[i], x->row, n, c);
    x->kernel_calls++;
    return c;
}

/* Ops without a batched path are called row by row. */
static void fold__call_rows(fold__worker *x, const fold__op_row *op, fold_op_call *c,
                            void (*run)(const fold_op_call *))
{
    if (!(op->flags & FOLD__ONE_ROW)) {
        run(c);
        return;
    }
    x->one_row_calls += (size_t)c->rows;
    fold_rows *all[4] = { (fold_rows *)(uintptr_t)c->in, (fold_rows *)(uintptr_t)c->out,
                          (fold_rows *)(uintptr_t)c->dout, (fold_rows *)(uintptr_t)c->din };
    const int count[4] = { c->n_in, c->n_out, c->n_out, c->n_in };
    const int rows = c->rows;
    const int *list = c->list;
    c->rows = 1;
    for (int i = 0; i < rows; i++) {
        run(c);
        for (int k = 0; k < 4; k++) {
            if (op->def.is_list && (k == 0 || k == 3))
                continue;
            for (int j = 0; j < count[k]; j++) {
                fold_rows *rows_of = &all[k][j];
                if (rows_of->rows)
                    rows_of->rows++;
                else if (rows_of->base)
                    rows_of->base += rows_of->stride;
            }
        }
        c->data += c->data_step;
        if (op->def.is_list)
            c->list++;
    }
    c->rows = rows;
    c->list = list;
}

static void fold__forward_op(fold_ctx *f, fold__worker *x, int i, size_t n)
{
    char *free = x->free;
    const fold__turn *turn = &x->turn[i];
    if (!n || !turn->forward || (turn->for_elements && !x->b.elems))
        return;
    fold__call_rows(x, turn->op, fold__complete_call(f, x, i, n), turn->run);
    x->free = free;
}

/* Ops [first, last) of one level, tile by tile. */
static void fold__forward_span(fold_ctx *f, fold__worker *x, int first, int last)
{
    const uint32_t rows = x->p.op[first].elem ? x->b.elems : x->b.count;
    for (uint32_t r0 = 0; r0 < rows; r0 += x->tile) {
        fold__set_tile(x, r0);
        for (int i = first; i < last; i++)
            fold__forward_op(f, x, i, fold__min_size(x->tile, rows - r0));
    }
    fold__set_tile(x, 0);
}

/* Which segments of a product a stage runs: a hoisted signature's prologue the leading ones, later batches
   the others. 0: the stage does not run the op; the prologue runs what does not depend on the recursion. */
static int fold__stage_part(const fold_ctx *f, const fold__worker *x, const fold__body_op *op,
                            fold__turn *turn)
{
    fold__engine *e = &turn->made.engine;
    if (!x->s->hoisted)
        return 1;
    if (fold__in_prologue(f, x->s, op))
        return x->b.stage == 0;
    const int leading = fold__leading_segments(f, x->s, &x->p, op);
    if (x->b.stage == 0)
        e->seg1 = leading;
    else
        e->seg0 = leading;
    return x->b.stage == 1 || leading > 0;
}

/* What an op's backward does in this stage. */
static void fold__plan_backward(const fold_ctx *f, const fold__worker *x, const fold__body_op *op,
                                fold__turn *turn)
{
    const fold__info *info = f->run->info + x->form->info0 + op->value0;
    turn->backward = turn->forward && f->run->backward && info->grad;
    if (!turn->backward)
        return;
    const int finishes = !x->s->hoisted || (x->b.stage == 0) == fold__in_prologue(f, x->s, op);
    for (int o = 0; o < op->n_out && finishes; o++)
        if (info[o].mode == FOLD__GRAD_ZERO || info[o].mode == FOLD__GRAD_SUM)
            turn->finishes |= (uint8_t)(1u << o);
    for (int j = 0; j < op->n_in; j++) {
        const int outside = op->op == FOLD__OP_linear && j < op->n_in - op->attr[1] &&
                            (j < turn->made.engine.seg0 || j >= turn->made.engine.seg1);
        if (outside || !fold__ref_wanted(f, x->form, &x->p, op, j))
            continue;
        turn->wanted |= 1u << j;
        if (op->elem && f->run->buf[x->s->buf0 + fold__buf_spread(&x->p, op->ref0 + (uint32_t)j)].place)
            turn->spread |= 1u << j;
    }
}

static void fold__grad_spot(const fold_ctx *f, const fold__worker *x, uint32_t v, fold__spot *s)
{
    const fold__info *info = f->run->info + x->form->info0 + v;
    if (fold__grad_is_outer(info))
        fold__outside_spot(s, &x->outer[info->out]);
    else
        fold__buf_spot(f, x, fold__buf_grad(&x->p, v), s);
}

/* Where operand j's contribution goes, before any spreading over elements: the part's own rows, or in place.
 */
static void fold__dest_spot(const fold_ctx *f, const fold__worker *x, const fold__body_op *op, int j,
                            fold__spot *s)
{
    const uint32_t at = op->ref0 + (uint32_t)j;
    const fold__ref *ref = &x->p.ref[at];
    fold__buf_spot(f, x, fold__buf_part(&x->p, at), s);
    if (s->base)
        return;
    if (ref->kind == FOLD__FROM_VALUE)
        fold__grad_spot(f, x, ref->index, s);
    else
        fold__outside_spot(s, &x->dest[fold__ref_slot(&x->p, ref)]);
    if (s->moves == FOLD__OTHERWISE)
        s->off = ref->off;
    else
        s->base += ref->off;
}

/* Where an op's operands and results lie, and what backward reads and writes. */
static void fold__place_operands(const fold_ctx *f, const fold__worker *x, const fold__body_op *op,
                                 fold__turn *turn)
{
    turn->in = x->spot + op->ref0;
    turn->out = x->spot + (uint32_t)x->p.n_refs + op->value0;
    turn->dout = turn->out + x->p.n_values;
    turn->din = turn->in + x->p.n_refs + 2 * x->p.n_values;
    for (int j = 0; j < op->n_in && turn->forward; j++)
        fold__operand_spot(f, x, op, j, &turn->in[j]);
    for (int o = 0; o < op->n_out; o++)
        fold__buf_spot(f, x, fold__buf_value(op->value0 + (uint32_t)o), &turn->out[o]);
    if (!turn->backward)
        return;
    for (int o = 0; o < op->n_out; o++)
        fold__grad_spot(f, x, op->value0 + (uint32_t)o, &turn->dout[o]);
    for (int j = 0; j < op->n_in; j++) {
        if (turn->spread >> j & 1)
            fold__buf_spot(f, x, fold__buf_spread(&x->p, op->ref0 + (uint32_t)j), &turn->din[j]);
        else if (turn->wanted >> j & 1)
            fold__dest_spot(f, x, op, j, &turn->din[j]);
        else {
            turn->din[j].base = NULL;
            turn->din[j].stride = 0;
            turn->din[j].moves = FOLD__STAYS;
        }
    }
}

/* What the batch's stage does with each op. */
static void fold__plan_turns(const fold_ctx *f, fold__worker *x)
{
    const fold__info *info = f->run->info + x->form->info0;
    for (int i = 0, first = 0; i < x->p.n_ops; i++) {
        const fold__body_op *op = &x->p.op[i];
        fold__turn *turn = &x->turn[i];
        const fold__op_row *row = fold__op_of(f->model, op->op);
        const int passes = (row->flags & FOLD__RANDOM) && !f->training;
        turn->wanted = turn->spread = 0;
        turn->finishes = 0;
        if (!i || !fold__same_span(f, op - 1, op))
            first = i;
        turn->first = first;
        turn->op = row;
        turn->run = passes ? fold__copy_forward : row->def.forward;
        turn->run_back = passes ? fold__copy_backward : row->def.backward;
        turn->tiled = (uint8_t)fold__runs_tiled(f, op);
        turn->is_list = (row->flags & FOLD__LIST) != 0;
        turn->for_elements = (uint8_t)fold__for_elements(&x->p, info, op);
        turn->data = (row->flags & FOLD__RANDOM) ||
                     (!x->p.is_cell && (op->op >= FOLD__OP_COUNT || (row->flags & FOLD__DATA)));
        fold__prepare(f, x, op, x->p.shape, x->scratch + x->s->op_at, &turn->made);
        turn->forward = (uint8_t)fold__stage_part(f, x, op, turn);
        fold__plan_backward(f, x, op, turn);
        fold__place_operands(f, x, op, turn);
    }
    for (int i = x->p.n_ops, end = i; i-- > 0; end = x->turn[i].first == i ? i : end)
        x->turn[i].end = end;
}

/* Part `part` of `parts` of a batch's rows: calls that lie one behind the other, and so do their elements. */
static void fold__take_part(const fold_ctx *f, fold__batch *b, uint32_t part, uint32_t parts)
{
    const fold__run *r = f->run;
    const uint32_t from = (uint32_t)((uint64_t)b->count * part / parts),
                   to = (uint32_t)((uint64_t)b->count * (part + 1) / parts);
    if (r->gsig[b->gsig].n_list) {
        const uint32_t end = to < b->count ? r->eslot[r->order[b->first + to]] : b->elem0 + b->elems;
        if (from < to)
            b->elem0 = r->eslot[r->order[b->first + from]];
        b->elems = end - b->elem0;
    }
    b->first += from;
    b->slot0 += from;
    b->count = to - from;
}

/* What batches of one stage of a signature in a row have in common is looked up once. */
static void fold__enter_batch(const fold_ctx *f, fold__worker *x, uint32_t batch, uint32_t part,
                              uint32_t parts)
{
    const fold__run *r = f->run;
    x->b = r->batch[batch];
    if (parts > 1)
        fold__take_part(f, &x->b, part, parts);
    const fold__gsig *s = &r->gsig[x->b.gsig];
    if (x->s == s && x->stage == x->b.stage)
        return;
    x->s = s;
    x->stage = x->b.stage;
    x->form = &r->form[s->form];
    x->p = fold__program_of(f, &fold__sigs(f)[x->form->sig]);
    x->tile = fold__rows_of_tile(&x->p);
    x->turn = (fold__turn *)(void *)(x->scratch + s->turn_at);
    x->spot = (fold__spot *)(void *)(x->turn + x->p.n_ops);
    fold__plan_turns(f, x);
}

/* Offsets of each call's elements within the batch, and the rows of every input. */
static void fold__begin_batch(fold_ctx *f, fold__worker *x)
{
    fold__run *r = f->run;
    const fold__sig *sig = &fold__sigs(f)[x->form->sig];
    x->ids = r->order + x->b.first;
    fold__set_tile(x, 0);
    x->free = (char *)(x->scratch + x->s->free_at);
    x->list = NULL;
    if (sig->n_list) {
        x->list = (uint32_t *)fold__scratch_array(x, (size_t)x->b.count + 1, sizeof *x->list);
        for (uint32_t i = 0; i < x->b.count; i++)
            x->list[i] = r->eslot[x->ids[i]] - x->b.elem0;
        x->list[x->b.count] = x->b.elems;
    }
    for (int k = 0; k < x->p.n_in + x->p.n_list; k++) {
        const size_t n = k < x->p.n_in ? x->b.count : x->b.elems;
        float **rows = (float **)fold__scratch_array(x, n, sizeof *rows);
        size_t at = 0;
        x->in[k] = fold__no_rows;
        if (k < x->p.n_in && (sig->shared >> k & 1)) {
            const uint32_t e = f->edge0[x->ids[0]] + (uint32_t)k;
            x->in[k].base = f->val[f->esrc[e]] + f->eoff[e];
            continue;
        }
        for (uint32_t i = 0; i < x->b.count && k < x->p.n_in; i++) {
            const uint32_t e = f->edge0[x->ids[i]] + (uint32_t)k;
            rows[i] = f->val[f->esrc[e]] + f->eoff[e];
        }
        for (uint32_t i = 0; i < x->b.count && k >= x->p.n_in; i++) {
            const fold__slots s = fold__slots_of(f, x->ids[i]);
            for (uint32_t e = fold__slot_first(&s, k), end = e + s.count; e < end; e++)
                rows[at++] = f->val[f->esrc[e]] + f->eoff[e];
        }
        x->in[k] = fold__tidy_rows(
            rows, n, (ptrdiff_t)fold__shapes(f)[fold__keys(f)[sig->key + sig->in_shape + (uint32_t)k]].size);
    }
}

static void fold__forward_batch(fold_ctx *f, fold__worker *x)
{
    fold__run *r = f->run;
    fold__begin_batch(f, x);
    for (int i = 0; i < x->p.n_ops; i = x->turn[i].end) {
        if (x->turn[i].tiled)
            fold__forward_span(f, x, i, x->turn[i].end);
        else
            fold__forward_op(f, x, i, x->p.op[i].elem ? x->b.elems : x->b.count);
    }
    if (!x->b.stage)
        return;
    for (int o = 0; o < x->p.n_out; o++) {
        fold_rows rows;
        fold__buf_rows(f, x, fold__buf_value(x->p.out[o].index), &rows);
        for (uint32_t i = 0; i < x->b.count; i++) {
            const uint32_t id = x->ids[i] + (uint32_t)o;
            f->val[id] = fold_row(&rows, (int)i);
            if (!(r->state[id] & (FOLD__PERSIST | FOLD__LINKED)))
                continue;
            float *to = (r->state[id] & FOLD__PERSIST) ? fold__at_place(f, f->place[id])
                                                       : r->at_region + (size_t)r->far[id] * 16;
            memcpy(to, f->val[id], (size_t)rows.stride * sizeof *to);
            f->val[id] = to;
        }
    }
}

/* ==== room: autodiff ========================================================================
   Owns: gradients of values and parameters, over the same plan backwards. Calls: executor. */

/* Where the gradient rows of a value, or contributions to it, begin: its group's, or the part that lives
   through the whole run because another group writes it. */
static float *fold__grad_area(const fold_ctx *f, uint32_t src, const fold__group *g)
{
    const fold__run *r = f->run;
    return (r->state[src] & FOLD__LINKED) ? r->at_region : r->at_region + g->rows_at;
}

/* Floats of the widest value that a call of the run reads or makes. */
static size_t fold__widest(const fold_ctx *f)
{
    size_t widest = 16;
    for (uint32_t i = 0; i < f->run->n.forms; i++) {
        const fold__sig *s = &fold__sigs(f)[f->run->form[i].sig];
        const uint32_t *in_shape = fold__keys(f) + s->key + s->in_shape;
        for (int k = 0; k < s->n_in + s->n_list; k++)
            widest = fold__max_size(widest, fold__shapes(f)[in_shape[k]].size);
        for (int k = 0; k < s->n_out; k++)
            widest = fold__max_size(widest, fold__shapes(f)[s->out_shape[k]].size);
    }
    return fold__round_up(widest, 16);
}

/* A row that nobody reads, for who must write one: the worker's own. */
static float *fold__trash(const fold_ctx *f, const fold__worker *x)
{
    return f->run->trash + (size_t)(x - f->run->worker) * f->run->widest;
}

/* Where an edge's contribution goes. */
static FOLD__NOINLINE float *fold__edge_dest(const fold_ctx *f, const fold__worker *x, uint32_t e, int shared,
                                             const fold__group *g)
{
    const fold__run *r = f->run;
    const uint32_t src = f->esrc[e];
    if (!r->grad[src])
        return fold__trash(f, x);
    if (shared || r->mode[src] == FOLD__GRAD_SUM)
        return fold__grad_area(f, src, g) + (size_t)r->edge_at[e] * 16;
    return r->grd[src] + f->eoff[e];
}

static void fold__clear_row(float *row, uint32_t n) { memset(row, 0, n * sizeof *row); }
static void fold__add_row(const fold_ctx *f, float *to, const float *from, uint32_t n)
{
    f->model->k->map[FOLD__MAP_add](to, to, from, NULL, 0, n, 1, NULL);
}

/* Adds a contribution of `size` floats at `off` of a row of `width`; the first to zeros. */
static void fold__add_part(const fold_ctx *f, float *to, uint32_t width, uint32_t off, const float *from,
                           uint32_t size, int first)
{
    if (first && size == width) {
        f->model->k->map[FOLD__MAP_shift](to, from, NULL, NULL, 0, size, 1, NULL);
        return;
    } /* -0 becomes +0 */
    if (first)
        fold__clear_row(to, width);
    fold__add_row(f, to + off, from, size);
}

static void fold__shared_total(fold_ctx *f, fold__worker *x, uint32_t id, const fold__group *g);

/* Completes a value's gradient row once all its readers have run backward. */
static void fold__finish_gradient(fold_ctx *f, fold__worker *x, uint32_t id, const fold__group *g)
{
    fold__run *r = f->run;
    const uint32_t size = fold__value_size(f, id);
    float *row = r->grd[id];
    switch (r->mode[id]) {
    case FOLD__GRAD_ZERO: fold__clear_row(row, size); break;
    case FOLD__GRAD_ROOT:
        fold__clear_row(row, size);
        row[r->root_off] = 1;
        break;
    case FOLD__GRAD_SUM:
        for (uint32_t e = r->sum_at[id]; e != FOLD__NONE; e = r->edge_next[e])
            fold__add_part(f, row, size, f->eoff[e], fold__grad_area(f, id, g) + (size_t)r->edge_at[e] * 16,
                           r->edge_len[e], e == r->sum_at[id]);
        break;
    default: break; /* written in place */
    }
    if (r->shared_grads)
        fold__shared_total(f, x, id, g);
    if (!(f->kind[id] & FOLD__KEEP_GRAD) || !r->grad[id])
        return; /* where the root's gradient does not reach, what is kept stays */
    for (uint32_t i = 0; i < f->n_kept_grads; i++) {
        fold__kept_grad *k = &fold__kept_grads(f)[i];
        if (k->node != id)
            continue;
        if (k->filled)
            fold__add_row(f, fold__at_place(f, k->place), row, size);
        else
            memcpy(fold__at_place(f, k->place), row, size * sizeof *row);
        k->filled = 1;
    }
}

/* -- a cell's values ------------------------------------------------------------------------- */

static void fold__clear_rows(const fold_rows *to, size_t n, uint32_t size)
{
    for (size_t i = 0; i < n; i++)
        fold__clear_row(fold_row(to, (int)i), size);
}
static void fold__add_parts(const fold_ctx *f, const fold_rows *to, uint32_t width, uint32_t off,
                            const fold_rows *from, uint32_t size, int first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fold__add_part(f, fold_row(to, (int)i), width, off, fold_row(from, (int)i), size, first);
}

/* Completes the gradient of a value of the program for n rows of the tile: sums its readers in trace order,
   then what comes from outside. */
static void fold__finish_value(fold_ctx *f, fold__worker *x, uint32_t v, const fold__spot *grad, size_t n)
{
    const fold__info *info = f->run->info + x->form->info0 + v;
    const uint32_t size = x->p.value[v].size;
    fold_rows to, part;
    int first = 1;
    fold__spot_rows(x, grad, n, &to);
    if (info->mode == FOLD__GRAD_ZERO) {
        fold__clear_rows(&to, n, size);
        return;
    }
    for (int i = (int)x->p.value[v].op + 1; i < x->p.n_ops; i++)
        for (int j = 0; j < x->p.op[i].n_in; j++) {
            const fold__body_op *op = &x->p.op[i];
            const uint32_t at = op->ref0 + (uint32_t)j;
            const fold__ref *ref = &x->p.ref[at];
            if (ref->kind != FOLD__FROM_VALUE || ref->index != v ||
                !fold__ref_wanted(f, x->form, &x->p, op, j))
                continue;
            fold__buf_rows(f, x, fold__buf_part(&x->p, at), &part);
            fold__add_parts(f, &to, size, ref->off, &part,
                            (uint32_t)fold__shape_size(&x->p.shape[op->shape0 + (uint32_t)j]), first, n);
            first = 0;
        }
    if (info->out < 0)
        return;
    part = x->outer[info->out];
    fold__shift_rows(x, &part, x->row, 0, n);
    fold__add_parts(f, &to, size, 0, &part, size, first, n);
}

/* Element-level contributions to a call-level operand, summed per call in list order. */
static void fold__sum_spread(fold_ctx *f, fold__worker *x, const fold__body_op *op, int j)
{
    char *free = x->free;
    const uint32_t at = op->ref0 + (uint32_t)j,
                   size = (uint32_t)fold__shape_size(&x->p.shape[op->shape0 + (uint32_t)j]);
    fold__spot dest;
    fold_rows to, from;
    fold__dest_spot(f, x, op, j, &dest);
    fold__spot_rows(x, &dest, x->b.count, &to);
    fold__buf_rows(f, x, fold__buf_spread(&x->p, at), &from);
    for (uint32_t i = 0; i < x->b.count; i++) {
        float *row = fold_row(&to, (int)i);
        const uint32_t n = x->list[i + 1] - x->list[i];
        if (n == 1)
            memcpy(row, fold_row(&from, (int)x->list[i]),
                   size * sizeof *row); /* as one contribution is written: -0 stays */
        else
            fold__clear_row(row, size);
        for (uint32_t e = x->list[i]; e < x->list[i + 1] && n > 1; e++)
            fold__add_row(f, row, fold_row(&from, (int)e), size);
    }
    x->free = free;
}

static void fold__clear_inputs(const fold_op_call *c)
{
    for (int j = 0; j < c->n_in; j++)
        if (!fold__absent(&c->din[j]))
            fold__clear_rows(&c->din[j], (size_t)c->rows, (uint32_t)fold__shape_size(&c->in_shape[j]));
}

static void fold__backward_op(fold_ctx *f, fold__worker *x, int i, size_t n)
{
    char *free = x->free;
    const fold__turn *turn = &x->turn[i];
    for (int o = 0; turn->finishes >> o; o++)
        if (turn->finishes >> o & 1)
            fold__finish_value(f, x, x->p.op[i].value0 + (uint32_t)o, &turn->dout[o], n);
    if (!turn->wanted || !turn->run_back)
        return;
    fold_op_call *c = fold__complete_call(f, x, i, n);
    for (int o = 0; o < c->n_out; o++)
        fold__spot_rows(x, &turn->dout[o], n, &x->op_dout[o]);
    for (int j = 0; j < c->n_in; j++)
        fold__spot_rows(x, &turn->din[j], turn->is_list ? x->b.elems : n, &x->op_din[j]);
    if (turn->for_elements && !x->b.elems)
        fold__clear_inputs(c);
    else
        fold__call_rows(x, turn->op, c, turn->run_back);
    x->free = free;
}

static void fold__backward_span(fold_ctx *f, fold__worker *x, int first, int last)
{
    const uint32_t rows = x->p.op[first].elem ? x->b.elems : x->b.count;
    for (uint32_t r0 = 0; r0 < rows; r0 += x->tile) {
        fold__set_tile(x, r0);
        for (int i = last; i-- > first;)
            if (x->turn[i].backward)
                fold__backward_op(f, x, i, fold__min_size(x->tile, rows - r0));
    }
    fold__set_tile(x, 0);
}

/* Rows for gradients from outside and to the inputs; parts that nobody writes are cleared. */
static void fold__begin_backward(fold_ctx *f, fold__worker *x, const fold__group *g)
{
    fold__run *r = f->run;
    const fold__info *info = r->info + x->form->info0;
    const fold__sig *sig = &fold__sigs(f)[x->form->sig];
    for (int o = 0; o < x->p.n_out; o++) {
        x->outer[o] = fold__no_rows;
        if (!info[x->p.out[o].index].grad)
            continue;
        float **rows = (float **)fold__scratch_array(x, x->b.count, sizeof *rows);
        for (uint32_t i = 0; i < x->b.count; i++) {
            rows[i] = r->grd[x->ids[i] + (uint32_t)o];
            if (x->b.stage)
                fold__finish_gradient(f, x, x->ids[i] + (uint32_t)o, g);
        }
        x->outer[o] = fold__tidy_rows(rows, x->b.count, (ptrdiff_t)x->p.value[x->p.out[o].index].size);
    }
    for (int k = 0; k < x->p.n_in + x->p.n_list; k++) {
        x->dest[k] = fold__no_rows;
        if (!(x->form->slot_grad >> k & 1) || !(sig->differentiable >> k & 1))
            continue;
        const uint32_t size = fold__shapes(f)[fold__keys(f)[sig->key + sig->in_shape + (uint32_t)k]].size;
        const int mode = info[x->p.n_values + k].mode;
        const size_t n = k < x->p.n_in ? x->b.count : x->b.elems;
        float **rows = (float **)fold__scratch_array(x, n, sizeof *rows);
        size_t at = 0;
        for (uint32_t i = 0; i < x->b.count; i++) {
            const fold__slots s = fold__slots_of(f, x->ids[i]);
            for (uint32_t e = fold__slot_first(&s, k), end = e + fold__slot_edges(&s, k); e < end; e++)
                rows[at++] = r->grad[x->ids[i]] ? fold__edge_dest(f, x, e, fold__slot_shared(&s, k), g)
                                                : fold__trash(f, x);
        }
        x->dest[k] = fold__tidy_rows(rows, n, (ptrdiff_t)size);
        if (x->b.stage && (mode == FOLD__GRAD_ZERO || mode == FOLD__GRAD_SOME_PARTS))
            fold__clear_rows(&x->dest[k], n, size);
    }
    for (int v = 0; v < x->p.n_values && x->b.stage; v++) {
        if (!info[v].grad || info[v].mode != FOLD__GRAD_SOME_PARTS)
            continue;
        fold_rows rows;
        fold__buf_rows(f, x, fold__buf_grad(&x->p, (uint32_t)v), &rows);
        fold__clear_rows(&rows, x->p.value[v].elem ? x->b.elems : x->b.count, x->p.value[v].size);
    }
}

/* Inputs that several ops of the program read: their contributions in trace order. */
static void fold__finish_inputs(fold_ctx *f, fold__worker *x)
{
    const fold__info *slot = f->run->info + x->form->info0 + x->p.n_values;
    const fold__sig *sig = &fold__sigs(f)[x->form->sig];
    for (int k = 0; k < x->p.n_in + x->p.n_list; k++) {
        const int in_prologue = x->s->hoisted && !(x->s->recurrent >> k & 1);
        if (fold__absent(&x->dest[k]) || slot[k].mode != FOLD__GRAD_SUM || (x->b.stage == 0) != in_prologue)
            continue;
        const size_t n = k < x->p.n_in ? x->b.count : x->b.elems;
        const uint32_t width = fold__shapes(f)[fold__keys(f)[sig->key + sig->in_shape + (uint32_t)k]].size;
        int first = 1;
        for (int i = 0; i < x->p.n_ops; i++)
            for (int j = 0; j < x->p.op[i].n_in; j++) {
                const fold__body_op *op = &x->p.op[i];
                const uint32_t at = op->ref0 + (uint32_t)j;
                const fold__ref *ref = &x->p.ref[at];
                if ((ref->kind != FOLD__FROM_INPUT && ref->kind != FOLD__FROM_LIST) ||
                    fold__ref_slot(&x->p, ref) != k)
                    continue;
                if (!fold__ref_wanted(f, x->form, &x->p, op, j))
                    continue;
                fold_rows part;
                fold__buf_rows(f, x, fold__buf_part(&x->p, at), &part);
                const uint32_t size = (uint32_t)fold__shape_size(&x->p.shape[op->shape0 + (uint32_t)j]);
                fold__add_parts(f, &x->dest[k], width, ref->off, &part, size, first, n);
                first = 0;
            }
    }
}

static int fold__gives_grad(const fold_ctx *f, const fold__worker *x)
{
    for (int o = 0; o < x->p.n_out; o++)
        if (f->run->info[x->form->info0 + x->p.out[o].index].grad)
            return 1;
    return 0;
}

static void fold__backward_batch(fold_ctx *f, fold__worker *x, const fold__group *g)
{
    if (!fold__gives_grad(f, x))
        return;
    fold__begin_batch(f, x);
    fold__begin_backward(f, x, g);
    for (int last = x->p.n_ops, first; last > 0; last = first) {
        first = x->turn[last - 1].first;
        if (x->turn[first].tiled)
            fold__backward_span(f, x, first, last);
        else if (x->turn[first].backward)
            fold__backward_op(f, x, first, x->p.op[first].elem ? x->b.elems : x->b.count);
        for (int i = last; i-- > first;) /* sums over elements, once all rows are there */
            for (int j = 0; j < x->p.op[i].n_in && x->turn[i].spread; j++)
                if (x->turn[i].spread >> j & 1)
                    fold__sum_spread(f, x, &x->p.op[i], j);
    }
    fold__finish_inputs(f, x);
}

/* -- parameters ------------------------------------------------------------------------------ */

/* Lists the uses of trained parameters and of shared nodes that need a gradient, by their first recorded row.
 */
static int fold__add_use(fold_ctx *f, fold__use u, int elem)
{
    fold__run *r = f->run;
    u.first = elem ? r->form[u.form].first_elem : r->form[u.form].first;
    if (!u.first)
        return 1; /* no rows, as where all lists are empty */
    if (!fold__need(f, FOLD__C_USES, r->n_uses + 1, sizeof(fold__use)))
        return 0;
    fold__renew_moved(f);
    uint32_t at = r->n_uses++;
    for (; at > 0 && r->use[at - 1].first > u.first; at--)
        r->use[at] = r->use[at - 1];
    r->use[at] = u;
    if (u.is_node)
        r->shared_grads = 1;
    return 1;
}

static int fold__add_param_use(fold_ctx *f, uint32_t form, uint32_t op, uint32_t ref, uint32_t kind,
                               uint32_t param, int elem)
{
    const fold__param_data *p = &fold__params(f->model)[param];
    fold__use u = { form, op, ref, kind, param, 0, 0, 0, FOLD__SUM_APART, 0, p->size, 0, FOLD__NO_TOTAL, 0 };
    if (!fold__trainable(f->model, p))
        return 1;
    if (kind == FOLD__USE_WEIGHT) {
        const fold__program at = fold__program_of(f, &fold__sigs(f)[f->run->form[form].sig]);
        const fold_shape *in = at.shape + at.op[op].shape0;
        const size_t k = (size_t)fold__shape_last(&in[ref]), ldw = (size_t)p->shape.dim[1];
        u.at = fold__segment_at(at.op[op].attr, in, (int)ref, ldw);
        u.size = at.op[op].attr[0] ? ((size_t)p->shape.dim[0] - 1) * ldw + k : k * ldw;
    }
    return fold__add_use(f, u, elem);
}

static int fold__list_uses_of(fold_ctx *f, uint32_t form)
{
    fold__run *r = f->run;
    const fold__sig s = fold__sigs(f)[r->form[form].sig];
    fold__program p = fold__program_of(f, &s);
    for (uint32_t k = 0; k < s.n_in && r->form[form].first; k++) {
        if (!(s.shared >> k & 1) || !(s.differentiable >> k & 1))
            continue;
        const uint32_t src = f->esrc[f->edge0[r->form[form].first] + k];
        if (!r->grad[src] || !r->grad[r->form[form].first])
            continue;
        if ((f->kind[src] & FOLD__KIND_MASK) == FOLD__PARAM) {
            if (!fold__add_param_use(f, form, 0, k, FOLD__USE_SLOT, (uint32_t)f->node_data[src], 0))
                return 0;
        } else {
            const fold__use u = { form,
                                  0,
                                  k,
                                  FOLD__USE_SLOT,
                                  src,
                                  0,
                                  1,
                                  0,
                                  FOLD__SUM_APART,
                                  0,
                                  fold__value_size(f, src),
                                  0,
                                  FOLD__NO_TOTAL,
                                  0 };
            if (!fold__add_use(f, u, 0))
                return 0;
        }
    }
    for (uint32_t i = 0; i < (uint32_t)p.n_ops; i++) {
        p = fold__program_of(f, &s); /* arrays may have moved */
        const fold__body_op op = p.op[i];
        if (!r->info[r->form[form].info0 + op.value0].grad)
            continue;
        for (uint32_t j = 0; op.param[0] && j < op.n_in - (uint32_t)op.attr[1]; j++)
            if (!fold__add_param_use(f, form, i, j, FOLD__USE_WEIGHT, op.param[0] - 1, op.elem))
                return 0;
        if (op.param[1] && !fold__add_param_use(f, form, i, 0, FOLD__USE_BIAS, op.param[1] - 1, op.elem))
            return 0;
        for (uint32_t j = 0; j < op.n_in; j++) {
            p = fold__program_of(f, &s);
            const fold__ref ref = p.ref[op.ref0 + j];
            if (ref.kind != FOLD__FROM_PARAM || !fold__differentiable(fold__op_of(f->model, op.op), (int)j))
                continue;
            if (!fold__add_param_use(f, form, i, j, FOLD__USE_VALUE, ref.index, op.elem))
                return 0;
        }
    }
    return 1;
}

/* The first use of a parameter has its total: where the gradient is clear, the gradient itself. */
static void fold__place_total(fold_ctx *f, fold__use *u, const fold__use *first)
{
    fold__run *r = f->run;
    const fold__param_data *p = &fold__params(f->model)[u->target];
    if (first) {
        u->total = first->total;
        return;
    }
    u->total = FOLD__NO_TOTAL;
    if (p->grad_clear && !(p->uses & FOLD_FOR_LOOKUP))
        return;
    u->total = r->acc;
    r->acc += fold__round_up(p->size, 16);
}

/* Whether a use is of a weight as it lies, by rows that are vectors. */
static int fold__sums_by_blocks(const fold_ctx *f, const fold__use *u)
{
    const fold__program p = fold__program_of(f, &fold__sigs(f)[f->run->form[u->form].sig]);
    const fold__body_op *op = &p.op[u->op];
    return u->kind == FOLD__USE_WEIGHT && !op->attr[0] && p.shape[op->shape0].rank == 1;
}

static uint32_t fold__gsig_in_group(const fold_ctx *f, uint32_t form, const fold__group *g)
{
    for (uint32_t i = g->gsig0; i < g->gsig1; i++)
        if (f->run->gsig[i].form == form)
            return i;
    return FOLD__NONE;
}

static int fold__sums_in_one_go(const fold_ctx *f)
{
    const fold__run *r = f->run;
    uint32_t groups = 0;
    for (uint32_t g = 0; g < r->n.groups && groups < 2; g++) {
        int sums = 0;
        for (uint32_t i = 0; i < r->n_uses && !sums; i++)
            sums = !r->use[i].is_node && fold__gsig_in_group(f, r->use[i].form, &r->group[g]) != FOLD__NONE;
        groups += sums != 0;
    }
    return groups == 1 && f->threads == 1 && !f->eager;
}

/* Gives every use its place. */
static int fold__list_uses(fold_ctx *f)
{
    fold__run *r = f->run;
    r->n_uses = 0;
    r->shared_grads = 0;
    r->acc = 0;
    for (uint32_t i = 0; i < r->n.forms; i++)
        if (!fold__list_uses_of(f, i))
            return 0;
    r->one_go = fold__sums_in_one_go(f);
    for (uint32_t i = 0; i < r->n_uses; i++) {
        fold__use *u = &r->use[i];
        const fold__use *first = NULL;
        int reached = u->is_node;
        for (uint32_t j = i; j-- > 0 && !u->is_node;) {
            const fold__use *o = &r->use[j];
            if (o->is_node || o->target != u->target)
                continue;
            first = o;
            reached |= o->at < u->at + u->size && u->at < o->at + o->size;
        }
        u->leads = !u->is_node && !first;
        if (!u->is_node)
            fold__place_total(f, u, first);
        u->sum = !reached                                  ? FOLD__SUM_IN_PLACE
                 : r->one_go && fold__sums_by_blocks(f, u) ? FOLD__SUM_BY_BLOCKS
                                                           : FOLD__SUM_APART;
        u->acc = r->acc;
        if (u->sum == FOLD__SUM_APART)
            r->acc += fold__round_up(u->size, 16);
    }
    return 1;
}

/* Where the total of a use's parameter begins, where its own sum goes, and adding this to that. */
static float *fold__use_total(const fold_ctx *f, const fold__use *u)
{
    return u->total == FOLD__NO_TOTAL ? fold__grads(f->model) + fold__params(f->model)[u->target].at
                                      : f->run->at_acc + u->total;
}
static float *fold__use_acc(const fold_ctx *f, const fold__use *u)
{
    return u->sum == FOLD__SUM_APART ? f->run->at_acc + u->acc : fold__use_total(f, u) + u->at;
}
static void fold__add_to_total(const fold_ctx *f, const fold__use *u)
{
    if (!u->is_node && u->sum == FOLD__SUM_APART)
        fold__add_row(f, fold__use_total(f, u) + u->at, fold__use_acc(f, u), (uint32_t)u->size);
}

/* Rows of an op's operand, or of its gradient, from column `col` on, in record order, for all calls of a
   signature in a group that need a gradient and the op. */
static float **fold__record_rows(fold_ctx *f, const fold__gsig *s, const fold__program *p,
                                 const fold__body_op *op, int operand, uint32_t col, float *region,
                                 char **scratch, size_t *n)
{
    fold__run *r = f->run;
    float **rows = (float **)(void *)*scratch;
    const fold__ref grad = { FOLD__FROM_VALUE, op->value0, 0 },
                    *ref = operand < 0 ? &grad : &p->ref[op->ref0 + (uint32_t)operand];
    const fold__info *info = r->info + r->form[s->form].info0;
    const int outer = operand < 0 && fold__grad_is_outer(&info[op->value0]) ? info[op->value0].out : -1;
    const fold__buf *b =
        ref->kind == FOLD__FROM_VALUE
            ? &r->buf[s->buf0 + (operand < 0 ? fold__buf_grad(p, ref->index) : fold__buf_value(ref->index))]
            : NULL;
    const int for_elements = fold__for_elements(p, info, op);
    const size_t off = (size_t)ref->off + col;
    const uint32_t *ids = r->bysig + s->rec0;
    size_t at = 0;
    const int of_each = !op->elem && !for_elements && !r->form[s->form].partly;
    if (b && outer < 0 && of_each) /* one of each call: most are */
        for (; at < s->calls; at++)
            rows[at] = region + b->off + (size_t)r->slot[ids[at]] * b->size + off;
    for (uint32_t i = (uint32_t)at; i < s->calls; i++) {
        const uint32_t id = ids[i];
        const fold__slots x = fold__slots_of(f, id);
        const uint32_t count = !r->grad[id] ? 0 : op->elem ? x.count : for_elements ? x.count > 0 : 1;
        for (uint32_t e = 0; e < count; e++) {
            float *row;
            if (outer >= 0)
                row = r->grd[id + (uint32_t)outer];
            else if (b)
                row = region + b->off + (size_t)(b->elem ? r->eslot[id] + e : r->slot[id]) * b->size;
            else if (ref->kind == FOLD__FROM_PARAM)
                row = fold__values(f->model) + fold__params(f->model)[ref->index].at;
            else {
                const uint32_t edge =
                    fold__slot_first(&x, fold__ref_slot(p, ref)) + (ref->kind == FOLD__FROM_LIST ? e : 0);
                row = f->val[f->esrc[edge]] + f->eoff[edge];
            }
            rows[at++] = row + off;
        }
    }
    *scratch += fold__round_up(at * sizeof *rows, FOLD__ALIGN);
    *n = at;
    return rows;
}

static uint32_t fold__slot_floats_of(const fold_ctx *f, uint32_t sig, uint32_t slot)
{
    const fold__sig *s = &fold__sigs(f)[sig];
    return fold__shapes(f)[fold__keys(f)[s->key + s->in_shape + slot]].size;
}

/* One segment of a linear op's weight gradient over given rows. */
static void fold__weight_use(fold_ctx *f, fold__worker *x, const fold__program *p, const fold__body_op *op,
                             int segment, size_t rows, const fold_rows *in, const fold_rows *dy,
                             fold__share share, float *acc)
{
    fold__prepare(f, x, op, p->shape, x->scratch, &x->made);
    x->kernel_calls++;
    fold__linear_weight_grad(&x->made.call, rows, segment, in, dy, share, acc);
}

static void fold__eager_use(fold_ctx *f, const fold__use *u);

/* The op that a use of a weight or bias is of; NULL: the use is of neither. */
static const fold__body_op *fold__op_of_use(const fold_ctx *f, const fold__use *u)
{
    if (u->kind != FOLD__USE_WEIGHT && u->kind != FOLD__USE_BIAS)
        return NULL;
    return &fold__program_of(f, &fold__sigs(f)[f->run->form[u->form].sig]).op[u->op];
}

/* Of a use's columns, by whole vectors, those that the parts from/work to to/work of its work are. What has
 * no columns is one. */
static fold__share fold__share_of(const fold_ctx *f, const fold__use *u, uint64_t from, uint64_t to)
{
    const fold__body_op *op = fold__op_of_use(f, u);
    const uint64_t n = op ? (uint64_t)op->attr[3] : 1, steps = (n + FOLD__LANES - 1) / FOLD__LANES;
    const uint64_t a = steps * from / u->work * FOLD__LANES, b = steps * to / u->work * FOLD__LANES;
    const fold__share s = { (int)(a < n ? a : n), (int)(b < n ? b : n) };
    return s;
}

/* A use of a weight or bias: its sum over the rows of one group, continuing its chain, for some of its
 * columns. */
static void fold__accumulate_weight(fold_ctx *f, fold__worker *x, const fold__use *u, const fold__group *g,
                                    const fold__gsig *s, fold__share share)
{
    const fold__program p = fold__program_of(f, &fold__sigs(f)[f->run->form[u->form].sig]);
    const fold__body_op *op = &p.op[u->op];
    const int n = op->attr[3],
              inner = fold__shape_size(&p.shape[op->shape0]) / fold__shape_last(&p.shape[op->shape0]);
    float *region = f->run->at_region + g->base, *acc = fold__use_acc(f, u);
    char *scratch = (char *)(x->scratch + fold__round_up(fold__op_scratch(f, &p, op), 16));
    size_t rows;
    float **dy = fold__record_rows(f, s, &p, op, -1, (uint32_t)share.from, region, &scratch, &rows);
    const fold_rows dy_rows = { NULL, 0, dy };
    if (u->kind == FOLD__USE_BIAS) {
        fold__add_rows(f->model->k, rows, &dy_rows, inner, n, share, acc);
        return;
    }
    float **in = fold__record_rows(f, s, &p, op, (int)u->ref, 0, region, &scratch, &rows);
    if (u->sum == FOLD__SUM_BY_BLOCKS) {
        const int k = fold__shape_last(&p.shape[op->shape0 + u->ref]),
                  ldw = fold__params(f->model)[u->target].shape.dim[1];
        fold__join_weight_grad(f->model->k, rows, in, k, dy, n, acc, (size_t)ldw, x->scratch);
        return;
    }
    const fold_rows in_rows = { NULL, 0, in };
    fold__weight_use(f, x, &p, op, (int)u->ref, rows, &in_rows, &dy_rows, share, acc);
}

/* A use's sum over the rows of one group, continuing its chain; of weights and biases some columns. */
static void fold__accumulate_use(fold_ctx *f, fold__worker *x, const fold__use *u, const fold__group *g,
                                 fold__share share)
{
    fold__run *r = f->run;
    const uint32_t gsig = fold__gsig_in_group(f, u->form, g);
    if (gsig == FOLD__NONE)
        return;
    const fold__gsig *s = &r->gsig[gsig];
    float *acc = fold__use_acc(f, u);
    if (u->kind == FOLD__USE_WEIGHT || u->kind == FOLD__USE_BIAS) {
        fold__accumulate_weight(f, x, u, g, s, share);
    } else if (u->kind == FOLD__USE_SLOT) {
        for (uint32_t i = 0; i < s->calls; i++) {
            const uint32_t e = f->edge0[r->bysig[s->rec0 + i]] + u->ref;
            if (!r->grad[r->bysig[s->rec0 + i]])
                continue;
            fold__add_row(f, acc + f->eoff[e], fold__edge_dest(f, x, e, 1, g),
                          fold__slot_floats_of(f, r->form[u->form].sig, u->ref));
        }
    } else {
        const fold__program p = fold__program_of(f, &fold__sigs(f)[r->form[u->form].sig]);
        const fold__body_op *op = &p.op[u->op];
        const fold__buf *b = &r->buf[s->buf0 + fold__buf_part(&p, op->ref0 + u->ref)];
        for (uint32_t i = 0; i < s->calls; i++) {
            const uint32_t id = r->bysig[s->rec0 + i],
                           count = !r->grad[id] ? 0 : op->elem ? fold__elements_of(f, id) : 1;
            for (uint32_t e = 0; e < count; e++)
                fold__add_row(f, acc + p.ref[op->ref0 + u->ref].off,
                              r->at_region + g->base + b->off +
                                  (size_t)(op->elem ? r->eslot[id] + e : r->slot[id]) * b->size,
                              b->size);
        }
    }
    if (r->one_go)
        fold__add_to_total(f, u);
}

/* Adds the uses of a shared node to its gradient. */
static void fold__shared_total(fold_ctx *f, fold__worker *x, uint32_t id, const fold__group *g)
{
    fold__run *r = f->run;
    const fold__share whole = { 0, 1 }; /* a use of a node has no columns */
    for (uint32_t i = 0; i < r->n_uses; i++) {
        const fold__use *u = &r->use[i];
        if (!u->is_node || u->target != id)
            continue;
        if (f->eager)
            fold__eager_use(f, u);
        else
            fold__accumulate_use(f, x, u, g, whole);
        fold__add_row(f, r->grd[id], r->at_acc + u->acc, (uint32_t)u->size);
    }
}

/* Adds each parameter's uses, in order, and the total to its gradient, once. */
static void fold__commit_uses(fold_ctx *f)
{
    fold__run *r = f->run;
    fold_model *m = f->model;
    for (uint32_t i = 0; i < r->n_uses && !r->one_go; i++)
        fold__add_to_total(f, &r->use[i]);
    for (uint32_t i = 0; i < r->n_uses; i++) {
        const fold__use *u = &r->use[i];
        if (!u->leads)
            continue;
        fold__param_data *p = &fold__params(m)[u->target];
        float *total = fold__use_total(f, u), *g = fold__grads(m) + p->at;
        if (total != g && p->grad_clear && !p->touched)
            memcpy(g, total, p->size * sizeof *g);
        else if (total != g)
            fold__add_row(f, g, total, (uint32_t)p->size);
        p->grad_clear = 0;
        if (p->uses & FOLD_FOR_LOOKUP)
            p->grad_dense = 1;
    }
}

/* -- lookup tables --------------------------------------------------------------------------- */

static uint32_t *fold__table_rows(const fold_ctx *f)
{
    return (uint32_t *)(void *)f->arrays[FOLD__C_TABLE_ROWS].p;
}

static fold__param_data *fold__lookup_table(const fold_ctx *f, uint32_t id, uint32_t *row)
{
    *row = (uint32_t)f->node_data[id];
    return &fold__params(f->model)[f->node_data[id] >> 32];
}

/* Adds one looked-up row's gradient to its sum, which starts at the first of them. */
static void fold__accumulate_lookup(fold_ctx *f, uint32_t id)
{
    fold__run *r = f->run;
    uint32_t row;
    const fold__param_data *p = fold__lookup_table(f, id, &row);
    const uint32_t size = fold__value_size(f, id);
    if (!fold__trainable(f->model, p))
        return;
    uint32_t *sum = &fold__table_rows(f)[p->touched_at + row];
    if (!*sum) {
        *sum = (uint32_t)(r->acc_used / 16) + 1;
        r->acc_used += fold__round_up(size, 16);
        fold__clear_row(r->at_acc + (size_t)(*sum - 1) * 16, size);
    }
    fold__add_row(f, r->at_acc + (size_t)(*sum - 1) * 16, r->grd[id], size);
}

static void fold__commit_lookups(fold_ctx *f)
{
    fold__run *r = f->run;
    fold_model *m = f->model;
    for (uint32_t i = 0; i < r->n.leaves; i++) {
        const uint32_t id = r->leaves[i];
        uint32_t row;
        if ((f->kind[id] & FOLD__KIND_MASK) != FOLD__LOOKUP)
            continue;
        fold__param_data *p = fold__lookup_table(f, id, &row);
        uint32_t *sum = &fold__table_rows(f)[p->touched_at + row];
        if (!*sum)
            continue;
        const uint32_t size = fold__value_size(f, id);
        float *g = fold__grads(m) + p->at + (size_t)row * size, *total = r->at_acc + (size_t)(*sum - 1) * 16;
        if (p->grad_dense || fold__is_touched(m)[p->touched_at + row])
            fold__add_row(f, g, total, size);
        else
            memcpy(g, total, size * sizeof *g);
        fold__touch_row(m, p, row);
        *sum = 0;
    }
}

/* Memory for the accumulators of uses and looked-up rows; 0 when there is none, for the caller to tell. */
static int fold__reserve_acc(fold_ctx *f)
{
    fold__run *r = f->run;
    size_t floats = r->acc;
    fold__renew_moved(f);
    for (uint32_t i = 0; i < r->n_uses;
         i++) { /* whether gradients are clear now must not decide what a context needs */
        const fold__use *u = &r->use[i];
        if (!u->leads || u->total != FOLD__NO_TOTAL)
            continue;
        floats += fold__round_up(fold__params(f->model)[u->target].size, 16);
    }
    const size_t had = f->arrays[FOLD__C_TABLE_ROWS].need;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if ((f->kind[id] & FOLD__KIND_MASK) == FOLD__LOOKUP && r->grad[id] && (r->state[id] & FOLD__RUNS))
            floats += fold__round_up(fold__value_size(f, id), 16);
    int fits = fold__ask(f, FOLD__C_ACC, floats, sizeof(float));
    fits &= fold__ask(f, FOLD__C_TABLE_ROWS, f->model->touched_rows, sizeof(uint32_t));
    fold__renew_run(f);
    const size_t has = f->arrays[FOLD__C_TABLE_ROWS].need;
    if (has > had) /* else it is all zero, as runs leave it */
        memset(f->arrays[FOLD__C_TABLE_ROWS].p + had, 0, has - had);
    r->acc_used = r->acc;
    return fits;
}

/* ==== room: the eager twin ==================================================================
   Owns: running each op when it is recorded, one row at a time, and gradients over the recording backwards.
   Shares op rows, kernels and the rules of gradients with the batched engine; never schedules, slabs, tiles
   or stages. Calls: op table, run state, autodiff's rules. */

/* The address of a value that is there: an input, a parameter, or what was computed and kept. */
static float *fold__address(const fold_ctx *f, uint32_t id)
{
    const fold_model *m = f->model;
    switch (f->kind[id] & FOLD__KIND_MASK) {
    case FOLD__REF: return (float *)(uintptr_t)f->node_data[id];
    case FOLD__PARAM: return fold__values(m) + fold__params(m)[f->node_data[id]].at;
    case FOLD__LOOKUP: {
        uint32_t row;
        const fold__param_data *p = fold__lookup_table(f, id, &row);
        return fold__values(m) + p->at + (size_t)row * fold__value_size(f, id);
    }
    case FOLD__WINDOW:
    case FOLD__ELEMS: return NULL;
    default: return fold__at_place(f, f->place[id]);
    }
}

/* The call of one recorded op: one row, its list's elements by pointers from `pointers` on. */
static fold_op_call *fold__eager_set_call(fold_ctx *f, uint32_t id, const fold__program *p, float ***pointers)
{
    fold__worker *w = f->run->worker;
    fold_op_call *c = &w->made.call;
    const fold__body_op *op = &p->op[0];
    const fold__slots x = fold__slots_of(f, id);
    fold__prepare(f, w, op, p->shape, w->scratch, &w->made);
    c->rows = 1;
    c->data = &f->node_data[id];
    c->list = (const int *)w->one_list;
    w->one_list[0] = 0;
    w->one_list[1] = x.count;
    for (int k = 0; k < op->n_in; k++) {
        const uint32_t e0 = fold__slot_first(&x, k);
        w->op_in[k].stride = 0;
        w->op_in[k].rows = k < x.s->n_in ? NULL : *pointers;
        w->op_in[k].base = k < x.s->n_in ? fold__address(f, f->esrc[e0]) + f->eoff[e0] : NULL;
        for (uint32_t e = 0; e < x.count && k >= x.s->n_in; e++)
            *(*pointers)++ = fold__address(f, f->esrc[e0 + e]) + f->eoff[e0 + e];
    }
    for (int o = 0; o < op->n_out; o++) {
        w->op_out[o].base = fold__address(f, id + (uint32_t)o);
        w->op_out[o].stride = 0;
        w->op_out[o].rows = NULL;
    }
    return c;
}

/* Scratch for one op and `edges` pointers twice over; where the pointers begin. */
static float **fold__eager_scratch(fold_ctx *f, const fold__program *p, size_t edges)
{
    const size_t floats = fold__round_up(fold__op_scratch(f, p, p->op), 16);
    if (!fold__need(f, FOLD__C_SCRATCH, floats * sizeof(float) + 2 * edges * sizeof(float *), 1))
        return NULL;
    fold__renew(f);
    f->run->worker = (fold__worker *)(void *)f->arrays[FOLD__C_WORKERS].p;
    f->run->worker->scratch = (float *)(void *)f->arrays[FOLD__C_SCRATCH].p;
    return (float **)(void *)(f->run->worker->scratch + floats);
}

static int fold__is_random(const fold_ctx *f, const fold__body_op *op)
{
    return (fold__op_of(f->model, op->op)->flags & FOLD__RANDOM) != 0;
}

static void fold__eager_run(fold_ctx *f, uint32_t id)
{
    const fold__sig *s = &fold__sigs(f)[f->sig[id]];
    const uint32_t n_out = s->n_out;
    for (uint32_t o = 0; o < n_out; o++) {
        const uint32_t place = fold__place_data(f, fold__value_size(f, id + o));
        if (place == FOLD__NONE)
            return;
        f->place[id + o] = place;
        f->kind[id + o] |= FOLD__DONE;
    }
    if (!f->any_done) {
        f->any_done = 1;
        f->done_version = f->model->version;
    }
    fold__program p = fold__program_of(f, &fold__sigs(f)[f->sig[id]]);
    float **pointers = fold__eager_scratch(f, &p, f->edge0[id + 1] - f->edge0[id]);
    if (!pointers)
        return;
    p = fold__program_of(f, &fold__sigs(f)[f->sig[id]]);
    const fold__fp saved = fold__fp_enter();
    fold_op_call *c = fold__eager_set_call(f, id, &p, &pointers);
    uint64_t key = 0;
    if (fold__is_random(f, p.op)) {
        key = fold__draw_key(f->node_data[id], 0, 0);
        c->data = &key;
    }
    if (key && !f->training)
        fold__copy_forward(c);
    else
        fold__op_of(f->model, p.op->op)->def.forward(c);
    fold__fp_leave(saved);
}

static void fold__eager_backward_op(fold_ctx *f, uint32_t id)
{
    fold__run *r = f->run;
    fold__worker *w = r->worker;
    const fold__program p = fold__program_of(f, &fold__sigs(f)[f->sig[id]]);
    const fold__op_row *def = fold__op_of(f->model, p.op->op);
    const fold__slots x = fold__slots_of(f, id);
    float **pointers = (float **)(void *)(w->scratch + fold__round_up(fold__op_scratch(f, &p, p.op), 16));
    if (!def->def.backward)
        return;
    fold_op_call *c = fold__eager_set_call(f, id, &p, &pointers);
    uint64_t key = 0;
    if (fold__is_random(f, p.op)) {
        key = fold__draw_key(f->node_data[id], 0, 0);
        c->data = &key;
    }
    for (uint32_t o = 0; o < x.s->n_out; o++) {
        w->op_dout[o].base = r->grd[id + o];
        w->op_dout[o].stride = 0;
        w->op_dout[o].rows = NULL;
    }
    int any = 0;
    for (int k = 0; k < p.op->n_in; k++) {
        const uint32_t e0 = fold__slot_first(&x, k);
        int wanted = 0;
        w->op_din[k] = fold__no_rows;
        for (uint32_t e = 0; e < fold__slot_edges(&x, k); e++)
            wanted |= r->grad[f->esrc[e0 + e]];
        if (!wanted || !(x.s->differentiable >> k & 1))
            continue;
        any = 1;
        const int shared = fold__slot_shared(&x, k);
        if (k < x.s->n_in) {
            w->op_din[k].base = fold__edge_dest(f, w, e0, shared, r->group);
            continue;
        }
        w->op_din[k].rows = pointers;
        for (uint32_t e = 0; e < x.count; e++)
            *pointers++ = fold__edge_dest(f, w, e0 + e, 0, r->group);
    }
    if (any && key && !f->training)
        fold__copy_backward(c);
    else if (any) {
        if (p.op->op == FOLD__OP_linear)
            fold__keep_back_pack(f->model, p.op->param[0]);
        def->def.backward(c);
    }
}

/* A use's rows of the head or of all else, one at a time in record order. */
static void fold__eager_use_rows(fold_ctx *f, const fold__use *u, int head)
{
    fold__run *r = f->run;
    const fold__program p = fold__program_of(f, &fold__sigs(f)[r->form[u->form].sig]);
    const fold__body_op *op = p.op;
    const fold__share whole = { 0, op->attr[3] };
    float *acc = fold__use_acc(f, u);
    const int inner = fold__shape_size(&p.shape[0]) / fold__shape_last(&p.shape[0]);
    for (uint32_t i = 0; i < r->n.calls; i++) {
        const uint32_t id = r->calls[i], e0 = f->edge0[id];
        if (f->sig[id] != r->form[u->form].sig || !r->grad[id] || ((r->state[id] & FOLD__HEAD) != 0) != head)
            continue;
        fold_rows dy = { r->grd[id], 0, NULL };
        if (u->kind == FOLD__USE_SLOT) {
            fold__add_row(f, acc + f->eoff[e0 + u->ref],
                          fold__edge_dest(f, r->worker, e0 + u->ref, 1, r->group),
                          fold__slot_floats_of(f, f->sig[id], u->ref));
        } else if (u->kind == FOLD__USE_BIAS) {
            fold__add_rows(f->model->k, 1, &dy, inner, op->attr[3], whole, acc);
        } else {
            const fold_rows x = { fold__address(f, f->esrc[e0 + u->ref]) + f->eoff[e0 + u->ref], 0, NULL };
            fold__weight_use(f, r->worker, &p, op, (int)u->ref, 1, &x, &dy, whole, acc);
        }
    }
}

static void fold__eager_use(fold_ctx *f, const fold__use *u)
{
    fold__eager_use_rows(f, u, 0);
    if (f->run->n.head)
        fold__eager_use_rows(f, u, 1);
}

/* Reserves everything an eager backward writes: contributions, then a gradient row per value. */
static int fold__eager_reserve(fold_ctx *f)
{
    fold__run *r = f->run;
    uint32_t rows = 0;
    size_t at = 0, edges = 0, scratch = 0;
    r->n.groups = r->n.leaves = 0;
    r->n.tail = 0;
    if (!fold__add_group(f, 0, r->n.calls))
        return 0;
    if (!fold__analyse_forms(f) || !fold__list_uses(f))
        return 0;
    for (uint32_t i = 0; i < r->n.calls; i++) {
        const fold__program p = fold__program_of(f, &fold__sigs(f)[f->sig[r->calls[i]]]);
        if (r->grad[r->calls[i]])
            fold__place_contributions(f, r->calls[i], &rows, &rows);
        edges = fold__max_size(edges, f->edge0[r->calls[i] + 1] - f->edge0[r->calls[i]]);
        scratch = fold__max_size(scratch, fold__round_up(fold__op_scratch(f, &p, p.op), 16));
    }
    at = (size_t)rows * 16;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (r->grad[id] && (r->state[fold__call_of(f, id)] & FOLD__RUNS))
            at += fold__round_up(fold__value_size(f, id), 16);
    int fits = fold__ask(f, FOLD__C_REGION, at + fold__widest(f), sizeof(float));
    fits &= fold__ask(f, FOLD__C_SCRATCH, scratch * sizeof(float) + 2 * edges * sizeof(float *), 1);
    fits &= fold__reserve_acc(f);
    fold__renew_run(f);
    if (!fits)
        return fold__out_of_memory(f, 1);
    r->trash = r->at_region + at;
    r->group[0].rows_at = 0;
    at = (size_t)rows * 16;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if (!r->grad[id] || !(r->state[fold__call_of(f, id)] & FOLD__RUNS))
            continue;
        r->grd[id] = r->at_region + at;
        at += fold__round_up(fold__value_size(f, id), 16);
        if (r->mode[id] == FOLD__GRAD_SOME_PARTS)
            fold__clear_row(r->grd[id], fold__value_size(f, id));
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        if (kind == FOLD__LOOKUP || kind == FOLD__INPUT || kind == FOLD__REF)
            r->leaves[r->n.leaves++] = id;
    }
    return 1;
}

static int fold__eager_backward(fold_ctx *f)
{
    fold__run *r = f->run;
    if (!fold__eager_reserve(f))
        return 0;
    const fold__fp saved = fold__fp_enter();
    if (r->acc)
        memset(r->at_acc, 0, r->acc * sizeof(float));
    for (uint32_t i = r->n.calls; i-- > 0;) {
        const uint32_t id = r->calls[i], n_out = fold__sigs(f)[f->sig[id]].n_out;
        if (!r->grad[id])
            continue;
        for (uint32_t o = 0; o < n_out; o++)
            fold__finish_gradient(f, r->worker, id + o, r->group);
        fold__eager_backward_op(f, id);
    }
    for (uint32_t i = 0; i < r->n_uses; i++)
        if (!r->use[i].is_node)
            fold__eager_use(f, &r->use[i]);
    for (uint32_t i = 0; i < r->n.leaves; i++) {
        fold__finish_gradient(f, r->worker, r->leaves[i], r->group);
        if ((f->kind[r->leaves[i]] & FOLD__KIND_MASK) == FOLD__LOOKUP)
            fold__accumulate_lookup(f, r->leaves[i]);
    }
    fold__commit_uses(f);
    fold__commit_lookups(f);
    fold__fp_leave(saved);
    return 1;
}

/* ==== room: plan cache ======================================================================
   Owns: plans of earlier runs, in the bytes the context was given for them. A run of the same structure,
   found by a hash and confirmed by comparing all of it, gets its plan copied back. A plan is kept when its
   structure comes for the second time. Calls: run state. Must not know what a plan means. */

enum { FOLD__PLANS = 64, FOLD__PLAN_PARTS = 5, FOLD__STRUCTURE_PARTS = 7, FOLD__HASHED_PARTS = 2 };
typedef struct fold__kept_plan {
    fold__identity of;
    uint64_t used;    /* when, in runs */
    size_t at, bytes; /* in the array of plans: node arrays, structure, other arrays */
    size_t node_words;
    fold__counts n;
} fold__kept_plan;
typedef struct fold__plans {
    uint64_t runs, seen[FOLD__PLANS];
    size_t end;
    uint32_t count;
    fold__kept_plan plan[FOLD__PLANS];
} fold__plans;

/* NULL when the context keeps none. */
static fold__plans *fold__plans_of(const fold_ctx *f)
{
    const fold__array *a = &f->arrays[FOLD__C_PLANS];
    return a->need ? (fold__plans *)(void *)a->p : NULL;
}
static size_t fold__plans_head(void) { return fold__round_up(sizeof(fold__plans), FOLD__ALIGN); }

static void fold__forget_plans(fold_ctx *f)
{
    fold__plans *c = fold__plans_of(f);
    if (!c)
        return;
    memset(c, 0, sizeof *c);
    c->end = fold__plans_head();
}
static int fold__reserve_plans(fold_ctx *f, size_t bytes)
{
    if (f->eager || bytes < fold__plans_head())
        return 1;
    if (!fold__need(f, FOLD__C_PLANS, bytes, 1))
        return 0;
    fold__forget_plans(f);
    return 1;
}

typedef struct fold__extent {
    void *p;
    size_t bytes;
} fold__extent;

/* A recording's structure: these arrays, the first of which make the hash; then one word for every leaf that
 * uses a parameter, and the roots. */
static void fold__structure(const fold_ctx *f, fold__extent span[FOLD__STRUCTURE_PARTS])
{
    const size_t nodes = (size_t)f->n_nodes * 4, edges = (size_t)f->n_edges * 4;
    const fold__extent all[FOLD__STRUCTURE_PARTS] = { { f->sig + 1, nodes },
                                                      { f->esrc, edges },
                                                      { f->eoff, edges },
                                                      { f->edge0 + 1, nodes },
                                                      { f->shape + 1, nodes },
                                                      { f->kind + 1, f->n_nodes },
                                                      { fold__founds(f), f->n_found * sizeof(fold__found) } };
    memcpy(span, all, sizeof all);
}
static int fold__leaf_param(const fold_ctx *f, uint32_t id, uint32_t *param)
{
    const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
    if (kind != FOLD__LOOKUP && kind != FOLD__PARAM)
        return 0;
    *param = (uint32_t)(kind == FOLD__LOOKUP ? f->node_data[id] >> 32 : f->node_data[id]);
    return 1;
}

/* A plan's arrays beside those of nodes, as far as they are in use. */
static void fold__plan_arrays(const fold_ctx *f, const fold__counts *n, fold__extent span[FOLD__PLAN_PARTS])
{
    static const int array[FOLD__PLAN_PARTS] = { FOLD__C_FORMS, FOLD__C_BATCHES, FOLD__C_GROUPS,
                                                 FOLD__C_GSIGS, FOLD__C_BUFS };
    const size_t bytes[FOLD__PLAN_PARTS] = { n->forms * sizeof(fold__form), n->batches * sizeof(fold__batch),
                                             n->groups * sizeof(fold__group), n->gsigs * sizeof(fold__gsig),
                                             n->bufs * sizeof(fold__buf) };
    for (int i = 0; i < FOLD__PLAN_PARTS; i++) {
        span[i].p = f->arrays[array[i]].p;
        span[i].bytes = bytes[i];
    }
}

static uint64_t fold__hash_bytes(uint64_t h, const void *p, size_t bytes)
{
    uint64_t a = h, b = ~h, w[2];
    for (; bytes >= sizeof w;
         bytes -= sizeof w, p = (const char *)p + sizeof w) { /* two chains: a product takes its time */
        memcpy(w, p, sizeof w);
        a = (a ^ w[0]) * UINT64_C(0x9e3779b97f4a7c15), a ^= a >> 32;
        b = (b ^ w[1]) * UINT64_C(0xc2b2ae3d27d4eb4f), b ^= b >> 32;
    }
    w[0] = w[1] = bytes;
    memcpy(w, p, bytes);
    return fold__mix64((a ^ w[0]) * UINT64_C(0x9e3779b97f4a7c15) + (b ^ w[1]));
}

static fold__identity fold__identify(const fold_ctx *f, const fold_node *roots, size_t n)
{
    fold__extent s[FOLD__STRUCTURE_PARTS];
    const fold__run *r = f->run;
    const uint64_t how = (uint64_t)(r->backward << 2 | r->changed << 1 | r->anew);
    fold__identity k = { 0, f->n_nodes, f->n_edges, f->n_found, (uint32_t)n, 0, f->model->layout, how };
    uint32_t param;
    fold__structure(f, s);
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (fold__leaf_param(f, id, &param)) {
            k.hash = k.hash * 31 + param;
            k.leaves++;
        }
    for (size_t i = 0; i < n; i++)
        k.hash = k.hash * 31 + f->src[roots[i].id];
    k.hash = fold__hash_bytes(k.hash, &k, sizeof k);
    for (int i = 0; i < FOLD__HASHED_PARTS; i++)
        k.hash = fold__hash_bytes(k.hash, s[i].p, s[i].bytes);
    return k;
}

/* Writes a run's structure to `at`, or compares it with what is there. Returns the end, or NULL when it
 * differs. */
static char *fold__pass_structure(const fold_ctx *f, const fold_node *roots, size_t n, char *at, int write)
{
    fold__extent s[FOLD__STRUCTURE_PARTS];
    uint32_t word, *to;
    fold__structure(f, s);
    for (int i = 0; i < FOLD__STRUCTURE_PARTS; at += fold__round_up(s[i].bytes, 8), i++) {
        if (!s[i].bytes)
            continue; /* its array may not be there */
        if (write)
            memcpy(at, s[i].p, s[i].bytes);
        else if (memcmp(at, s[i].p, s[i].bytes))
            return NULL;
    }
    to = (uint32_t *)(void *)at;
    for (uint32_t id = 1; id <= f->n_nodes + n; id++) {
        if (id > f->n_nodes)
            word = f->src[roots[id - f->n_nodes - 1].id];
        else if (!fold__leaf_param(f, id, &word))
            continue;
        if (write)
            *to = word;
        else if (*to != word)
            return NULL;
        to++;
    }
    return (char *)(to + ((to - (uint32_t *)(void *)at) & 1));
}

/* Gives the run the plan of an earlier one of the same structure, when there is one. */
static int fold__replay_plan(fold_ctx *f, const fold_node *roots, size_t n)
{
    fold__run *r = f->run;
    fold__plans *c = fold__plans_of(f);
    fold__extent part[FOLD__PLAN_PARTS];
    if (!c)
        return 0;
    r->identity = fold__identify(f, roots, n);
    for (uint32_t i = 0; i < c->count; i++) {
        const fold__kept_plan k = c->plan[i];
        const char *end = memcmp(&k.of, &r->identity, sizeof k.of)
                              ? NULL
                              : fold__pass_structure(f, roots, n, (char *)c + k.at + k.node_words, 0);
        if (!end)
            continue;
        const size_t others = (size_t)(end - (char *)c);
        if (!fold__need(f, FOLD__C_FORMS, k.n.forms, sizeof(fold__form)) ||
            !fold__need(f, FOLD__C_BATCHES, k.n.batches, sizeof(fold__batch)) ||
            !fold__need(f, FOLD__C_GROUPS, k.n.groups, sizeof(fold__group)) ||
            !fold__need(f, FOLD__C_GSIGS, k.n.gsigs, sizeof(fold__gsig)) ||
            !fold__need(f, FOLD__C_BUFS, k.n.bufs, sizeof(fold__buf)))
            return 0;
        r->replayed = k.at;
        r->n = k.n;
        fold__renew_run(f);
        c = fold__plans_of(f);
        c->plan[i].used = ++c->runs;
        fold__plan_arrays(f, &k.n, part);
        end = (char *)c + others;
        for (int j = 0; j < FOLD__PLAN_PARTS; end += fold__round_up(part[j].bytes, 8), j++)
            memcpy(part[j].p, end, part[j].bytes);
        f->stats.plan_hits += f->stats.plan_hits < INT_MAX;
        return 1;
    }
    f->stats.plan_misses += f->stats.plan_misses < INT_MAX;
    return 0;
}

static void fold__drop_plan(fold__plans *c, uint32_t i)
{
    const size_t at = c->plan[i].at, bytes = c->plan[i].bytes;
    memmove((char *)c + at, (char *)c + at + bytes, c->end - at - bytes);
    c->end -= bytes;
    c->plan[i] = c->plan[--c->count];
    for (uint32_t k = 0; k < c->count; k++)
        if (c->plan[k].at > at)
            c->plan[k].at -= bytes;
}

/* Keeps the plan just made if its structure was seen before and the plan fits, in place of those not used for
 * longest. */
static void fold__store_plan(fold_ctx *f, const fold_node *roots, size_t n)
{
    fold__run *r = f->run;
    fold__plans *c = fold__plans_of(f);
    fold__extent s[FOLD__STRUCTURE_PARTS], part[FOLD__PLAN_PARTS];
    if (!c)
        return;
    fold__kept_plan k = {
        r->identity,   ++c->runs, 0, r->node_words + ((size_t)r->identity.leaves + n + 1) / 2 * 8,
        r->node_words, r->n
    };
    uint64_t *seen = &c->seen[k.of.hash % FOLD__PLANS];
    fold__structure(f, s);
    fold__plan_arrays(f, &r->n, part);
    for (int i = 0; i < FOLD__STRUCTURE_PARTS; i++)
        k.bytes += fold__round_up(s[i].bytes, 8);
    for (int i = 0; i < FOLD__PLAN_PARTS; i++)
        k.bytes += fold__round_up(part[i].bytes, 8);
    k.bytes = fold__round_up(k.bytes, FOLD__ALIGN);
    const int again = *seen == k.of.hash;
    *seen = k.of.hash;
    if (!again || k.bytes > f->arrays[FOLD__C_PLANS].need - fold__plans_head())
        return;
    while (c->count == FOLD__PLANS || k.bytes > f->arrays[FOLD__C_PLANS].need - c->end) {
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < c->count; i++)
            oldest = c->plan[i].used < c->plan[oldest].used ? i : oldest;
        fold__drop_plan(c, oldest);
    }
    k.at = c->end;
    memcpy((char *)c + k.at, f->arrays[FOLD__C_NODE_WORDS].p, k.node_words);
    char *to = fold__pass_structure(f, roots, n, (char *)c + k.at + k.node_words, 1);
    for (int i = 0; i < FOLD__PLAN_PARTS; to += fold__round_up(part[i].bytes, 8), i++)
        memcpy(to, part[i].p, part[i].bytes);
    c->end += k.bytes;
    c->plan[c->count++] = k;
}

/* ==== room: running =========================================================================
   Owns: a run from its roots to its results: plan, reserve, execute; and reading what a run left.
   Calls: everything above. */

/* Addresses of all values as a run begins. */
static void fold__resolve_leaves(fold_ctx *f)
{
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        const int there = (kind != FOLD__OP && kind != FOLD__EXTRA) || (f->kind[id] & FOLD__DONE);
        f->val[id] =
            there ? fold__address(f, id) : f->run->trash; /* gathered, but not read, before it is computed */
    }
}

/* Floats in the recording for roots and kept values; those of earlier runs have their places. */
static size_t fold__result_floats(const fold_ctx *f)
{
    const fold__run *r = f->run;
    size_t floats = 0;
    for (uint32_t i = 0; i < r->n.kept; i++)
        if (!(f->kind[r->kept[i]] & FOLD__DONE))
            floats += fold__round_up(fold__value_size(f, r->kept[i]), 16);
    return floats;
}
/* Gives those places; there is room. */
static void fold__place_results(fold_ctx *f)
{
    fold__run *r = f->run;
    for (uint32_t i = 0; i < r->n.kept; i++) {
        const uint32_t id = r->kept[i];
        if (f->kind[id] & FOLD__DONE)
            continue;
        f->place[id] = (uint32_t)(f->data_used / 16);
        f->data_used += fold__round_up(fold__value_size(f, id), 16);
    }
}

/* Links: values and gradients that cross between groups, in units of 16 floats from the region's start;
   returns the units. Leaves have their values, and gradient rows with their group. */
static uint32_t fold__place_links(fold_ctx *f)
{
    fold__run *r = f->run;
    uint32_t linked = 0;
    for (uint32_t id = 1; id <= f->n_nodes && (r->n.head || r->n.tail); id++) {
        if (!(r->state[id] & FOLD__LINKED) || !fold__makes_value(f->kind[id]))
            continue;
        const uint32_t units = (fold__value_size(f, id) + 15) / 16;
        if (!(r->state[id] & FOLD__PERSIST)) {
            r->far[id] = linked;
            linked += units;
        }
        if (r->backward && r->grad[id]) {
            r->chain[id] = linked;
            linked += units;
        }
    }
    for (uint32_t g = 0; g < r->n.groups; g++)
        r->group[g].rows = 0;
    for (uint32_t id = 1; id <= r->n.last && r->backward; id++)
        if (fold__is_op(f, id) && (r->state[id] & FOLD__RUNS) && r->grad[id])
            fold__place_contributions(f, id, &r->group[fold__gsig_of(f, id)->group].rows, &linked);
    return linked;
}

/* The first group of samples, and the one behind the last. */
static uint32_t fold__samples_from(const fold__run *r) { return r->n.head ? 1 : 0; }
static uint32_t fold__samples_to(const fold__run *r) { return r->n.groups - (r->n.tail ? 1 : 0); }

/* Lays out the region: links, the head, the tail, and room that groups of samples take turns in, as many at a
   time as there are threads. Behind a group's slabs lie its contribution rows and leaf gradients. */
static void fold__place_groups(fold_ctx *f, size_t links)
{
    fold__run *r = f->run;
    const uint32_t from = fold__samples_from(r), to = fold__samples_to(r);
    size_t samples = 0, end = links;
    for (uint32_t i = 0; i < r->n.groups; i++) {
        fold__group *g = &r->group[i];
        size_t leaves = 0;
        for (uint32_t k = g->leaf0; k < g->leaf1; k++)
            leaves += fold__round_up(fold__value_size(f, r->leaves[k]), 16);
        g->rows_at = g->floats;
        g->leaf_at = g->rows_at + (size_t)g->rows * 16;
        g->base = end;
        if (i >= from && i < to)
            samples = fold__max_size(samples, g->leaf_at + leaves);
        else
            end += g->leaf_at + leaves;
    }
    for (uint32_t i = 0; i < r->n.groups; i++) {
        fold__group *g = &r->group[i];
        if (i >= from && i < to)
            g->base = end + ((i - from) % (uint32_t)f->threads) * samples;
        g->rows_at += g->base;
        g->leaf_at += g->base;
    }
    r->n.region = end + samples * fold__min_size((size_t)f->threads, to - from);
}

/* Plans a run: everything that follows from structure alone. */
static int fold__plan(fold_ctx *f)
{
    fold__run *r = f->run;
    r->n.order = r->n.batches = r->n.groups = r->n.gsigs = r->n.bufs = 0;
    r->n.scratch = r->n.without_reuse = 0;
    if (!fold__analyse_forms(f))
        return 0;
    memset(r->made, 255, ((size_t)f->n_nodes + 2) * sizeof *r->made);
    if (r->backward)
        memset(r->slot, 255, ((size_t)f->n_nodes + 2) * sizeof *r->slot);
    if (!fold__form_groups(f))
        return 0;
    for (uint32_t g = 0; g < r->n.groups; g++)
        if (!fold__schedule_group(f, g) || !fold__plan_group(f, g))
            return 0;
    fold__mark_links(f);
    if (r->backward)
        fold__list_leaves(f);
    fold__place_groups(f, (size_t)fold__place_links(f) * 16);
    return 1;
}

/* Packs for the gradients of inputs that this run computes. */
static void fold__ready_packs(fold_ctx *f)
{
    for (uint32_t i = 0; i < f->run->n.forms; i++) {
        const fold__form *form = &f->run->form[i];
        const fold__program p = fold__program_of(f, &fold__sigs(f)[form->sig]);
        for (int k = 0; k < p.n_ops; k++)
            for (int j = 0; j < p.op[k].n_in && p.op[k].op == FOLD__OP_linear; j++)
                if (fold__ref_wanted(f, form, &p, &p.op[k], j))
                    fold__keep_back_pack(f->model, p.op[k].param[0]);
    }
}

/* Reserves what a planned run writes. */
static int fold__reserve_run(fold_ctx *f)
{
    fold__run *r = f->run;
    r->acc = 0;
    if (r->backward && !fold__list_uses(f))
        return 0;
    r->widest = fold__widest(f);
    fold__renew_moved(f);
    const size_t data = f->data_used + fold__result_floats(f);
    int fits = data / 16 < FOLD__NONE && fold__ask(f, FOLD__C_DATA, data, sizeof(float));
    fits &= fold__ask(f, FOLD__C_REGION, r->n.region + r->widest * (size_t)f->threads, sizeof(float));
    fits &= fold__ask(f, FOLD__C_SCRATCH, r->n.scratch * (size_t)f->threads, sizeof(float));
    fits &= !r->backward || fold__reserve_acc(f);
    fold__renew_run(f);
    if (!fits)
        return fold__out_of_memory(f, 1);
    if (r->backward)
        fold__ready_packs(f);
    fold__place_results(f);
    r->trash = r->at_region + r->n.region;
    return 1;
}

/* Sets the gradient rows of a group's values and leaves, and clears those that get only some parts. */
static void fold__aim_gradients(fold_ctx *f, const fold__group *g)
{
    fold__run *r = f->run;
    for (uint32_t i = g->gsig0; i < g->gsig1; i++) {
        const fold__gsig *s = &r->gsig[i];
        const fold__program p = fold__program_of(f, &fold__sigs(f)[r->form[s->form].sig]);
        for (uint32_t o = 0; o < (uint32_t)p.n_out; o++) {
            const fold__buf *b = &r->buf[s->buf0 + fold__buf_outer(&p, o)];
            for (uint32_t k = 0; k < s->calls && b->place; k++) {
                const uint32_t call = r->bysig[s->rec0 + k], id = call + o;
                r->grd[id] = (r->state[id] & FOLD__LINKED) && r->grad[id]
                                 ? r->at_region + (size_t)r->chain[id] * 16
                                 : r->at_region + g->base + b->off + (size_t)r->slot[call] * b->size;
            }
        }
    }
    size_t at = g->leaf_at;
    for (uint32_t k = g->leaf0; k < g->leaf1; k++) {
        r->grd[r->leaves[k]] = r->at_region + at;
        at += fold__round_up(fold__value_size(f, r->leaves[k]), 16);
    }
}

/* Clears the gradient rows of a group's values and leaves that get only some parts, before any part is
   written: those that other groups write, or the others. */
static void fold__clear_partial(fold_ctx *f, const fold__group *g, int linked)
{
    fold__run *r = f->run;
    for (uint32_t i = g->gsig0; i < g->gsig1; i++) {
        const fold__gsig *s = &r->gsig[i];
        for (uint32_t k = 0; k < s->calls && s->cleared; k++) {
            const uint32_t id = r->bysig[s->rec0 + k];
            for (uint32_t o = 0; o < s->n_out && r->grad[id]; o++)
                if (r->mode[id + o] == FOLD__GRAD_SOME_PARTS &&
                    ((r->state[id + o] & FOLD__LINKED) != 0) == linked)
                    fold__clear_row(r->grd[id + o], fold__value_size(f, id + o));
        }
    }
    for (uint32_t k = g->leaf0; k < g->leaf1; k++) {
        const uint32_t id = r->leaves[k];
        if (r->mode[id] == FOLD__GRAD_SOME_PARTS && ((r->state[id] & FOLD__LINKED) != 0) == linked)
            fold__clear_row(r->grd[id], fold__value_size(f, id));
    }
}

static void fold__enter_group(const fold_ctx *f, fold__worker *x, const fold__group *g)
{
    x->region = f->run->at_region + g->base;
    x->s = NULL;
}

static uint64_t fold__now(const fold_ctx *f) { return f->clock ? f->clock(f->clock_user) : 0; }

/* Notes the batch that a worker has just run. */
static FOLD__NOINLINE void fold__note_event(fold_ctx *f, fold__worker *x, const fold__group *g, uint32_t kind,
                                            uint64_t start)
{
    const fold__run *r = f->run;
    if (kind == FOLD__EVENT_BACKWARD && !fold__gives_grad(f, x))
        return; /* it did nothing */
    if (x->events++ >= f->trace_events)
        return;
    fold__event *e = (fold__event *)(void *)f->arrays[FOLD__C_TRACE].p +
                     (size_t)(x - r->worker) * f->trace_events + x->events - 1;
    e->start = start;
    e->end = fold__now(f);
    e->sig = x->form->sig;
    e->calls = x->b.count;
    e->group = (uint32_t)(g - r->group);
    e->kind = kind | (x->b.stage ? 0u : (uint32_t)FOLD__EVENT_PROLOGUE);
}

/* A batch of a group, or one part of its rows. */
static void fold__run_batch(fold_ctx *f, fold__worker *x, const fold__group *g, uint32_t batch, int kind,
                            uint32_t part, uint32_t parts)
{
    const uint64_t start = f->trace_events ? fold__now(f) : 0;
    fold__enter_batch(f, x, batch, part, parts);
    if (!x->b.count)
        return;
    if (kind == FOLD__EVENT_FORWARD)
        fold__forward_batch(f, x);
    else
        fold__backward_batch(f, x, g);
    if (f->trace_events)
        fold__note_event(f, x, g, (uint32_t)kind, start);
}

/* Hands a task to every thread. */
static void fold__on_threads(fold_ctx *f, fold_task *task, void *user)
{
    if (f->threads > 1)
        f->parallel_for(f->threads, task, user, f->pool);
    else
        task(0, user);
}

/* A batch of a group that runs alone, its rows shared out among threads. */
typedef struct fold__shared_batch {
    fold_ctx *f;
    const fold__group *g;
    uint32_t batch;
    int kind;
} fold__shared_batch;
static void fold__run_shared(int lane, void *user)
{
    const fold__shared_batch *s = (const fold__shared_batch *)user;
    fold__worker *x = &s->f->run->worker[lane];
    const fold__fp saved = fold__fp_enter();
    fold__enter_group(s->f, x, s->g);
    fold__run_batch(s->f, x, s->g, s->batch, s->kind, (uint32_t)lane, (uint32_t)s->f->threads);
    fold__fp_leave(saved);
}

/* Whether a batch of a group that runs alone is worth sharing out: by its multiplications, about. */
#ifndef FOLD__SHARED_WORK
#define FOLD__SHARED_WORK (1 << 20)
#endif
static int fold__worth_sharing(const fold_ctx *f, const fold__batch *b)
{
    const fold__program p = fold__program_of(f, &fold__sigs(f)[f->run->form[f->run->gsig[b->gsig].form].sig]);
    return (size_t)(b->count + b->elems) *
               (fold__weight_floats(f, &p) + f->run->form[f->run->gsig[b->gsig].form].row_floats) >=
           FOLD__SHARED_WORK;
}

/* A group's batches in order, or for backward from the last to the first; alone: no other group runs at this
 * time. */
static void fold__run_group(fold_ctx *f, fold__worker *x, const fold__group *g, int kind, int alone)
{
    fold__shared_batch s = { f, g, 0, kind };
    fold__enter_group(f, x, g);
    for (uint32_t i = 0, n = g->batch1 - g->batch0; i < n; i++) {
        s.batch = kind == FOLD__EVENT_FORWARD ? g->batch0 + i : g->batch1 - 1 - i;
        if (alone && f->threads > 1 && fold__worth_sharing(f, &f->run->batch[s.batch]))
            fold__on_threads(f, fold__run_shared, &s);
        else
            fold__run_batch(f, x, g, s.batch, kind, 0, 1);
    }
}

/* Gradients of a group's values and leaves. */
static void fold__backward_group(fold_ctx *f, fold__worker *x, const fold__group *g, int alone)
{
    fold__clear_partial(f, g, 0);
    fold__run_group(f, x, g, FOLD__EVENT_BACKWARD, alone);
    for (uint32_t k = g->leaf0; k < g->leaf1; k++)
        fold__finish_gradient(f, x, f->run->leaves[k], g);
}

/* Whether a group's rows of a use are summed when the group has run: of parameters; of shared nodes of the
   head, by samples. All others are summed as the node's gradient is completed (fold__shared_total). */
static int fold__adds_up(const fold__run *r, const fold__use *u, uint32_t group)
{
    return !u->is_node || (group >= fold__samples_from(r) && (r->state[u->target] & FOLD__HEAD));
}

/* What a use costs in groups [first, last): rows by floats, about; 0: it has no rows there. */
static uint64_t fold__use_work(const fold_ctx *f, const fold__use *u, uint32_t first, uint32_t last)
{
    const fold__run *r = f->run;
    const fold__body_op *op = fold__op_of_use(f, u);
    uint64_t rows = 0;
    for (uint32_t g = first; g < last; g++) {
        const uint32_t gsig =
            fold__adds_up(r, u, g) ? fold__gsig_in_group(f, u->form, &r->group[g]) : FOLD__NONE;
        if (gsig != FOLD__NONE)
            rows += op && op->elem ? r->gsig[gsig].elems : r->gsig[gsig].calls;
    }
    return rows * u->size;
}

/* What groups [first, last) add to parameters and shared nodes, in order: of all uses, laid end to end by
   what they cost, `all` together, one part of several of equal length, so that few uses are in two parts. */
static void fold__accumulate_groups(fold_ctx *f, fold__worker *x, uint32_t first, uint32_t last, uint64_t all,
                                    int part, int parts)
{
    fold__run *r = f->run;
    const uint64_t from = all * (uint64_t)part / (uint64_t)parts,
                   to = all * ((uint64_t)part + 1) / (uint64_t)parts;
    uint64_t at = 0;
    for (uint32_t i = 0; i < r->n_uses; i++) {
        const fold__use *u = &r->use[i];
        const uint64_t begin = at, end = at += u->work;
        if (begin == end || from >= end || to <= begin)
            continue;
        const fold__share share =
            fold__share_of(f, u, from > begin ? from - begin : 0, (to < end ? to : end) - begin);
        for (uint32_t g = first; g < last && share.from < share.to; g++)
            if (fold__adds_up(r, u, g))
                fold__accumulate_use(f, x, u, &r->group[g], share);
    }
    for (uint32_t k = r->group[first].leaf0; k < r->group[last - 1].leaf1 && !part; k++)
        if ((f->kind[r->leaves[k]] & FOLD__KIND_MASK) == FOLD__LOOKUP)
            fold__accumulate_lookup(f, r->leaves[k]);
}

/* What threads share out: groups [first, last) one by one, or the sums that those add to, of so much work. */
typedef struct fold__wave {
    fold_ctx *f;
    uint32_t first, last;
    uint64_t work;
} fold__wave;

static void fold__run_wave(int lane, void *user)
{
    const fold__wave *w = (const fold__wave *)user;
    fold_ctx *f = w->f;
    fold__worker *x = &f->run->worker[lane];
    const fold__fp saved = fold__fp_enter();
    for (uint32_t i = w->first + (uint32_t)lane; i < w->last; i += (uint32_t)f->threads) {
        const fold__group *g = &f->run->group[i];
        fold__run_group(f, x, g, FOLD__EVENT_FORWARD, 0);
        if (f->run->backward)
            fold__backward_group(f, x, g, 0);
    }
    fold__fp_leave(saved);
}

static void fold__sum_wave(int lane, void *user)
{
    const fold__wave *w = (const fold__wave *)user;
    const fold__fp saved = fold__fp_enter();
    fold__accumulate_groups(w->f, &w->f->run->worker[lane], w->first, w->last, w->work, lane, w->f->threads);
    fold__fp_leave(saved);
}
/* Sums what groups [first, last) add to parameters and shared nodes. */
static void fold__sum_groups(fold_ctx *f, uint32_t first, uint32_t last)
{
    fold__wave w = { f, first, last, 0 };
    for (uint32_t i = 0; i < f->run->n_uses; i++)
        w.work += f->run->use[i].work = fold__use_work(f, &f->run->use[i], first, last);
    fold__on_threads(f, fold__sum_wave, &w);
}

/* Runs groups of samples: in inference each thread its own, all at once; in training as many at a time as
   there are threads, which then share out the weights they add to, so that every sum goes on in the order of
   groups. One that is left over or the only one is shared out batch by batch. */
static void fold__run_samples(fold_ctx *f)
{
    fold__run *r = f->run;
    const uint32_t from = fold__samples_from(r), to = fold__samples_to(r),
                   step = r->backward ? (uint32_t)f->threads : to;
    for (uint32_t first = from; first < to; first += step) {
        fold__wave w = { f, first, to - first < step ? to : first + step, 0 };
        if (w.last - first > 1) {
            fold__on_threads(f, fold__run_wave, &w);
        } else {
            fold__run_group(f, r->worker, &r->group[first], FOLD__EVENT_FORWARD, 1);
            if (r->backward)
                fold__backward_group(f, r->worker, &r->group[first], 1);
        }
        if (r->backward)
            fold__sum_groups(f, first, w.last);
    }
}

/* Backward of the head or the tail, and what it adds to parameters. */
static void fold__backward_end(fold_ctx *f, uint32_t group)
{
    fold__backward_group(f, f->run->worker, &f->run->group[group], 1);
    fold__sum_groups(f, group, group + 1);
}

/* Gradients pass through the tail before there are values, and through the head when all samples have added
 * theirs. */
static void fold__execute(fold_ctx *f)
{
    fold__run *r = f->run;
    const uint32_t tail = r->n.groups - 1;
    const fold__fp saved = fold__fp_enter();
    fold__resolve_leaves(f);
    for (int i = 0; i < f->threads; i++)
        r->worker[i].kernel_calls = r->worker[i].one_row_calls = r->worker[i].events = 0;
    if (r->backward && r->acc)
        memset(r->at_acc, 0, r->acc * sizeof(float));
    for (uint32_t g = 0; g < r->n.groups && r->backward; g++) {
        fold__aim_gradients(f, &r->group[g]);
        fold__clear_partial(f, &r->group[g], 1);
    }
    if (r->n.head)
        fold__run_group(f, r->worker, &r->group[0], FOLD__EVENT_FORWARD, 1);
    if (r->backward && r->n.tail)
        fold__backward_end(f, tail);
    fold__run_samples(f);
    if (r->n.tail)
        fold__run_group(f, r->worker, &r->group[tail], FOLD__EVENT_FORWARD, 1);
    if (r->backward && r->n.head)
        fold__backward_end(f, 0);
    if (r->backward) {
        fold__commit_uses(f);
        fold__commit_lookups(f);
    }
    fold__fp_leave(saved);
}

static void fold__mark_done(fold_ctx *f)
{
    fold__run *r = f->run;
    for (uint32_t id = 1; id <= f->n_nodes && f->any_done && f->done_version != f->model->version; id++)
        if (!(r->state[fold__call_of(f, id)] & FOLD__RUNS))
            f->kind[id] &= (uint8_t)~FOLD__DONE; /* of other parameters */
    for (uint32_t i = 0; i < r->n.kept; i++)
        f->kind[r->kept[i]] |= FOLD__DONE;
    if (r->n.kept)
        f->any_done = 1;
    f->done_version = f->model->version;
}

/* A count as it is told: what is larger than an int reads INT_MAX. */
static int fold__count(size_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

static void fold__note_stats(fold_ctx *f)
{
    const fold__run *r = f->run;
    fold_stats *s = &f->stats;
    size_t batches = 0, prologues = 0, kernel_calls = 0, one_row_calls = 0, lower_bound = 0,
           batched_nodes = 0, list_elements = 0;
    for (int i = 0; i < f->threads; i++) {
        kernel_calls += r->worker[i].kernel_calls;
        one_row_calls += r->worker[i].one_row_calls;
    }
    for (uint32_t g = 0; g < r->n.groups; g++)
        lower_bound += r->group[g].bound;
    for (uint32_t b = 0; b < r->n.batches; b++) {
        if (!r->batch[b].stage) {
            prologues++;
            continue;
        }
        batches++;
        batched_nodes += r->batch[b].count > 1 ? r->batch[b].count : 0;
        list_elements += r->batch[b].elems;
    }
    s->run_nodes = fold__count(r->n.calls);
    s->groups = fold__count(r->n.groups);
    s->batches = fold__count(batches);
    s->prologues = fold__count(prologues);
    s->kernel_calls = fold__count(kernel_calls);
    s->one_row_calls = fold__count(one_row_calls);
    s->lower_bound = fold__count(lower_bound);
    s->batched_nodes = fold__count(batched_nodes);
    s->list_elements = fold__count(list_elements);
    s->value_bytes = (r->n.region + r->n.scratch + r->acc) * sizeof(float);
    s->without_reuse_bytes = (r->n.without_reuse + r->acc) * sizeof(float);
    s->plan_bytes = 0;
    for (int i = FOLD__C_NODE_WORDS; i < FOLD__C_PLANS; i++)
        s->plan_bytes += f->arrays[i].need;
    s->plan_bytes += f->arrays[FOLD__C_SCHEDULE].need + f->arrays[FOLD__C_FEEDS].need;
    s->one_group = r->n.one_group;
}

static int fold__check_roots(fold_ctx *f, const fold_node *roots, int n, const char *who)
{
    fold__clear_error(&f->read_error);
    if (fold__broken(f) || fold__in_body(f, who) || !fold__count_ok(f, n, who))
        return 0;
    if (n && !roots) {
        fold__missing(f, who);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        fold__operand o;
        if (!roots[i].id)
            fold__fail(f, FOLD_BAD_ARGUMENT, "%s: root %d is null", who, i);
        if (!fold__operand_of(f, roots[i], who, &o))
            return 0;
    }
    if (f->eager && f->any_done && f->done_version != f->model->version) {
        fold__fail(
            f, FOLD_BAD_STATE,
            "%s: parameters changed since this eager context computed: fold_ctx_reset and record again", who);
        return 0;
    }
    return 1;
}

static int fold__reserve_kept_grads(fold_ctx *f)
{
    for (uint32_t i = 0; i < f->n_kept_grads; i++) {
        if (fold__kept_grads(f)[i].place != FOLD__NONE)
            continue;
        const uint32_t place = fold__place_data(f, fold__value_size(f, fold__kept_grads(f)[i].node));
        if (place == FOLD__NONE)
            return 0;
        fold__kept_grads(f)[i].place = place;
    }
    fold__renew_run(f);
    return 1;
}

/* Kept gradients that the root does not bear on are zero. */
static void fold__settle_kept_grads(fold_ctx *f)
{
    for (uint32_t i = 0; i < f->n_kept_grads; i++) {
        fold__kept_grad *k = &fold__kept_grads(f)[i];
        if (!k->filled)
            fold__clear_row(fold__at_place(f, k->place), fold__value_size(f, k->node));
        k->filled = 1;
    }
}

/* What runs, who gets a gradient, and the plan. 0: see the context's status. */
static int fold__plan_roots(fold_ctx *f, const fold_node *roots, size_t n)
{
    fold__run *r = f->run;
    if (fold__replay_plan(f, roots, n))
        return 1;
    if (fold__broken(f))
        return 0;
    fold__mark_needed(f, roots, n);
    if (!fold__collect(f))
        return 0;
    if (!r->backward) {
        memset(r->grad, 0, (size_t)f->n_nodes + 2);
    } else {
        fold__mark_grads(f);
        if (!r->grad[r->root]) { /* nothing bears on it that has a gradient */
            r->backward = 0;
            return fold__node_arrays(f) && fold__plan_roots(f, roots, n);
        }
        fold__gradient_modes(f);
    }
    if (f->eager)
        return 1;
    if (!fold__plan(f))
        return 0;
    fold__store_plan(f, roots, n);
    return 1;
}

static fold_status fold__try_run(fold_ctx *f, const fold_node *roots, size_t n, int backward)
{
    fold__run *r = f->run;
    const uint64_t start = fold__now(f);
    r->shown_epoch = 0;
    r->began = start;
    r->backward = backward;
    r->root = backward ? f->src[roots[0].id] : 0;
    r->root_off = backward ? f->off[roots[0].id] : 0;
    r->changed = f->any_done && f->done_version != f->model->version;
    r->anew = backward || r->changed;
    if (backward)
        fold__read_kept_whole(f);
    if (!fold__node_arrays(f) || !fold__plan_roots(f, roots, n))
        return f->error.status;
    if (r->backward && !fold__reserve_kept_grads(f))
        return f->error.status;
    if (f->eager) {
        if (r->backward && fold__eager_backward(f)) {
            f->any_done = 1;
            f->done_version = f->model->version;
        }
        return f->error.status;
    }
    if (!fold__reserve_run(f))
        return f->error.status;
    const uint64_t planned = fold__now(f);
    fold__execute(f);
    fold__mark_done(f);
    fold__note_stats(f);
    r->shown_epoch = f->epoch;
    r->shown_nodes = f->n_nodes;
    r->shown_edges = f->n_edges;
    f->stats.schedule_ns = planned - start;
    f->stats.run_ns = fold__now(f) - planned;
    return FOLD_OK;
}

/* A run holds on to the numbers of signatures: if there is no memory, idle ones are forgotten between two
 * tries. */
static fold_status fold__run_roots(fold_ctx *f, const fold_node *roots, size_t n, int backward)
{
    do {
        f->pinned++;
        fold__try_run(f, roots, n, backward);
        f->pinned--;
    } while (f->error.status == FOLD_NO_MEMORY && fold__forget_idle(f));
    return f->error.status;
}

FOLD_API fold_status fold_run(fold_ctx *f, const fold_node *roots, int n)
{
    if (!fold__check_roots(f, roots, n, "run"))
        return fold_ctx_status(f);
    return fold__run_roots(f, roots, (size_t)n, 0);
}

/* A parameter's gradient is the sum of its uses: as a root it is used by a copy. */
static fold_node fold__root_of(fold_ctx *f, fold_node x)
{
    fold__operand o;
    if (!fold__operand_of(f, x, "backward", &o) || (o.kind & FOLD__KIND_MASK) != FOLD__PARAM)
        return x;
    if (!fold__copy_param(f, o.src))
        return fold__null;
    const fold_shape s = *fold__operand_shape(f, &o);
    o.src = fold__use_node(f, (uint32_t)f->node_data[o.src])[1];
    o.kind = FOLD__OP;
    return fold__window(f, &o, 0, &s, 0);
}

FOLD_API fold_status fold_backward(fold_ctx *f, fold_node root)
{
    if (!fold__check_roots(f, &root, 1, "backward"))
        return fold_ctx_status(f);
    if (!f->training || f->model->inference) {
        fold__fail(f, FOLD_BAD_STATE, "backward: the %s",
                   f->training ? "model was made for inference"
                               : "context was made for inference: set training in its fold_ctx_desc");
    } else if (fold__value_size(f, root.id) != 1) {
        fold__fail_shapes(f, "backward", "the root must be a scalar", &fold__shapes(f)[f->shape[root.id]].s,
                          1);
    } else {
        root = fold__root_of(f, root);
        if (root.id)
            fold__run_roots(f, &root, 1, 1);
        if (!fold__broken(f) && fold__reserve_kept_grads(f))
            fold__settle_kept_grads(f);
    }
    return fold_ctx_status(f);
}

/* -- reading --------------------------------------------------------------------------------- */

FOLD_API void fold_keep(fold_ctx *f, fold_node x)
{
    fold__operand o;
    if (!fold__operand_of(f, x, "keep", &o))
        return;
    f->kind[o.src] |= FOLD__KEEP;
    f->n_keeps++;
}

FOLD_API void fold_keep_grad(fold_ctx *f, fold_node x)
{
    fold__operand o;
    if (!fold__operand_of(f, x, "keep_grad", &o) || (f->kind[o.src] & FOLD__KEEP_GRAD))
        return;
    if (!f->training)
        return;
    if ((o.kind & FOLD__KIND_MASK) == FOLD__PARAM) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "keep_grad: a parameter's gradient is read by fold_param_grad");
        return;
    }
    if (!fold__need(f, FOLD__C_KEPT_GRADS, f->n_kept_grads + 1, sizeof(fold__kept_grad)))
        return;
    fold__renew(f);
    fold__kept_grad *k = &fold__kept_grads(f)[f->n_kept_grads++];
    k->node = o.src;
    k->place = FOLD__NONE;
    k->filled = 0;
    f->kind[o.src] |= FOLD__KEEP_GRAD;
    f->kept_concats |= fold__is_concat(f, o.src);
}

static const char *fold__node_name(const fold_ctx *f, uint32_t id)
{
    static const char *const kind[] = { "op",        "output", "window",    "input",
                                        "input_ref", "lookup", "parameter", "elements" };
    const uint32_t call = fold__call_of(f, id);
    return fold__is_op(f, call) ? fold__request_name(f, fold__sigs(f)[f->sig[call]].op)
                                : kind[f->kind[id] & FOLD__KIND_MASK];
}

/* Why a read gave nothing. It costs the recording nothing: no error of the context. */
static void fold__refuse(fold_ctx *f, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static void fold__refuse(fold_ctx *f, fold_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(&f->read_error, status, format, args);
    va_end(args);
}

/* A live node to be read; 0 otherwise, and why. */
static int fold__readable(fold_ctx *f, fold_node x, const char *who, fold__operand *o)
{
    fold__clear_error(&f->read_error);
    if (fold__broken(f))
        return 0;
    if (!x.id)
        fold__refuse(f, FOLD_BAD_ARGUMENT, "%s: the node is null", who);
    else if (x.epoch != f->epoch || x.id > f->n_nodes)
        fold__refuse(f, FOLD_BAD_HANDLE, FOLD__STALE_NODE, who);
    else
        return fold__operand_of(f, x, who, o);
    return 0;
}

/* The same of a node whose values are asked for: while a body is traced there are none, and what the body makes
 * of them would be part of the cell. */
static int fold__valuable(fold_ctx *f, fold_node x, const char *who, fold__operand *o)
{
    if (f->frame.tracing)
        fold__fail(f, FOLD_BAD_CELL,
                   "%s: there are no values while fold_cell_new traces a body; it may read them when it runs in "
                   "an eager context",
                   who);
    return fold__readable(f, x, who, o);
}

FOLD_API const float *fold_value(fold_ctx *f, fold_node x)
{
    fold__operand o;
    if (!fold__valuable(f, x, "value", &o))
        return NULL;
    const uint32_t kind = f->kind[o.src] & FOLD__KIND_MASK;
    if ((kind == FOLD__OP || kind == FOLD__EXTRA) && !(f->kind[o.src] & FOLD__DONE)) {
        fold__refuse(f, FOLD_BAD_STATE,
                     "value: node %u (%s) was not kept: make it a root, or fold_keep it before the run",
                     (unsigned)x.id, fold__node_name(f, o.src));
        return NULL;
    }
    if (kind == FOLD__ELEMS) {
        fold__refuse(f, FOLD_BAD_STATE, "value: node %u stands for all elements of a list", (unsigned)x.id);
        return NULL;
    }
    f->values_shown = 1;
    return fold__address(f, o.src) + o.off;
}

FOLD_API const float *fold_grad(fold_ctx *f, fold_node x)
{
    fold__operand o;
    if (!fold__valuable(f, x, "grad", &o))
        return NULL;
    for (uint32_t i = 0; i < f->n_kept_grads; i++) {
        const fold__kept_grad *k = &fold__kept_grads(f)[i];
        if (k->node == o.src && k->filled) {
            f->values_shown = 1;
            return fold__at_place(f, k->place) + o.off;
        }
    }
    fold__refuse(f, FOLD_BAD_STATE,
                 "grad: node %u (%s) has no gradient: name it to fold_keep_grad before fold_backward",
                 (unsigned)x.id, fold__node_name(f, o.src));
    return NULL;
}

FOLD_API float fold_scalar(fold_ctx *f, fold_node x)
{
    const float *value = fold_value(f, x);
    return value ? value[0] : (float)NAN;
}

FOLD_API fold_shape fold_node_shape(fold_ctx *f, fold_node x)
{
    fold__operand o;
    fold_shape none = { 0, { 0, 0, 0, 0 } };
    return fold__readable(f, x, "node_shape", &o) ? *fold__operand_shape(f, &o) : none;
}

FOLD_API fold_status fold_read(fold_ctx *f, const fold_node *x, int n, float *values)
{
    size_t size = 0;
    fold__clear_error(&f->read_error);
    if (n < 0)
        fold__refuse(f, FOLD_BAD_ARGUMENT, "read: a count of %d", n);
    else if (n && (!x || !values))
        fold__refuse(f, FOLD_BAD_ARGUMENT, "read: a pointer is NULL");
    for (int i = 0; i < n && !f->read_error.status; i++) {
        const float *value = fold_value(f, x[i]);
        if (!value)
            break;
        const size_t floats = fold__shapes(f)[f->shape[x[i].id]].size;
        if (i && floats != size) {
            fold__refuse(f, FOLD_BAD_SHAPE, "read: node %d has %d values, those before it %d", i,
                         (int)floats, (int)size);
            break;
        }
        size = floats;
        memcpy(values + (size_t)i * size, value, size * sizeof *values);
    }
    return fold__broken(f) ? fold_ctx_status(f) : f->read_error.status;
}

FOLD_API fold_stats fold_ctx_stats(const fold_ctx *f)
{
    fold_stats s = f->stats;
    s.nodes = fold__count(f->n_nodes);
    s.edges = fold__count(f->n_edges);
    s.signatures = fold__count(f->n_sigs);
    s.cached_bytes = fold__plans_of(f) ? fold__plans_of(f)->end - fold__plans_head() : 0;
    s.pack_bytes = f->model->packs * sizeof(float);
    s.bytes = fold__ctx_bytes() + f->arena.bytes;
    s.peak_bytes = fold__ctx_bytes() + f->arena.peak;
    s.block_bytes = fold__max_size(f->block_peak, fold__block_bytes(f));
    if (!s.one_group)
        s.one_group = "";
    return s;
}

/* ==== room: a pool of threads ===============================================================
   Owns: POSIX threads that wait for tasks. Knows nothing of contexts. */
#ifdef FOLD_USE_THREADS

enum {
    FOLD__MAX_THREADS = 64,
    FOLD__SPINS = 4000
}; /* looks for work before a thread sleeps: waves follow each other closely */
struct fold_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    pthread_t thread[FOLD__MAX_THREADS];
    int started, stop;
    unsigned round;    /* counts calls of fold_pool_for */
    int next, n, left; /* tasks handed out, all, not finished */
    fold_task *task;
    void *user;
};

/* Takes tasks of the present round until none is left; the lock is held on entry and exit. */
static void fold__work_off(fold_pool *p)
{
    while (p->next < p->n) {
        const int i = p->next++;
        pthread_mutex_unlock(&p->lock);
        p->task(i, p->user);
        pthread_mutex_lock(&p->lock);
        if (__atomic_sub_fetch(&p->left, 1, __ATOMIC_RELEASE) == 0)
            pthread_cond_signal(&p->done);
    }
}

static void *fold__pool_thread(void *pool)
{
    fold_pool *p = (fold_pool *)pool;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < FOLD__SPINS && __atomic_load_n(&p->round, __ATOMIC_ACQUIRE) == seen; i++)
            FOLD__PAUSE();
        pthread_mutex_lock(&p->lock);
        while (p->round == seen && !p->stop)
            pthread_cond_wait(&p->wake, &p->lock);
        seen = p->round;
        const int stop = p->stop;
        if (!stop)
            fold__work_off(p);
        pthread_mutex_unlock(&p->lock);
        if (stop)
            return NULL;
    }
}

FOLD_API void fold_pool_for(int n, fold_task *task, void *user, void *pool)
{
    fold_pool *p = (fold_pool *)pool;
    pthread_mutex_lock(&p->lock);
    p->task = task;
    p->user = user;
    p->next = 0;
    p->n = n;
    __atomic_store_n(&p->left, n, __ATOMIC_RELAXED);
    __atomic_add_fetch(&p->round, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&p->wake);
    fold__work_off(p);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < FOLD__SPINS && __atomic_load_n(&p->left, __ATOMIC_ACQUIRE); i++)
        FOLD__PAUSE();
    pthread_mutex_lock(&p->lock);
    while (__atomic_load_n(&p->left, __ATOMIC_ACQUIRE))
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

FOLD_API fold_pool *fold_pool_new(int threads)
{
    if (threads < 1 || threads > FOLD__MAX_THREADS)
        return NULL;
    fold_pool *p = (fold_pool *)calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    while (p->started < threads - 1 && !pthread_create(&p->thread[p->started], NULL, fold__pool_thread, p))
        p->started++;
    if (p->started == threads - 1)
        return p;
    fold_pool_free(p);
    return NULL;
}

FOLD_API void fold_pool_free(fold_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
#endif

/* ==== room: optimisers ======================================================================
   Owns: updating values from gradients. Calls: model. */

FOLD_API fold_adagrad fold_adagrad_default(void)
{
    const fold_adagrad o = { 0.05f, 1e-8f, 0 };
    return o;
}
FOLD_API fold_rmsprop fold_rmsprop_default(void)
{
    const fold_rmsprop o = { 0.001f, 0.9f, 1e-8f, 0 };
    return o;
}
FOLD_API fold_adam fold_adam_default(void)
{
    const fold_adam o = { 0.001f, 0.9f, 0.999f, 1e-8f, 0, 0 };
    return o;
}

static int fold__states_ready(fold_model *m, int states)
{
    for (int i = 0; i < states; i++) {
        fold__array *a = &m->arrays[i ? FOLD__M_STATE2 : FOLD__M_STATE1];
        const size_t had = a->need, need = m->span * sizeof(float);
        if (!fold__arena_need(&m->arena, i ? FOLD__M_STATE2 : FOLD__M_STATE1, need)) {
            fold__model_fail(m, FOLD_NO_MEMORY, "optimiser: out of memory for its state");
            return 0;
        }
        if (need > had)
            memset(a->p + had, 0, need - had);
    }
    return 1;
}

/* The steps that its state comes from. */
static uint64_t fold__steps_of(const fold_model *m, enum fold__rule rule)
{
    return m->rule == (int)rule ? m->steps : 0;
}

/* The state of one rule means nothing to another: it begins anew, and so do the steps. */
static void fold__set_rule(fold_model *m, enum fold__rule rule)
{
    if (m->rule == (int)rule)
        return;
    for (int i = 0; i < 2; i++) {
        const fold__array *a = &m->arrays[i ? FOLD__M_STATE2 : FOLD__M_STATE1];
        if (a->p)
            memset(a->p, 0, a->need);
    }
    m->steps = fold__steps_of(m, rule);
    m->rule = (int)rule;
}

/* Updates rows first..first+count of a parameter. */
static void fold__step_rows(fold_model *m, const fold__param_data *p, const fold__step *x, size_t first,
                            size_t count)
{
    float *s = (float *)(void *)m->arrays[FOLD__M_STATE1].p,
          *t = (float *)(void *)m->arrays[FOLD__M_STATE2].p;
    const size_t width = p->size / (size_t)p->shape.dim[0], at = p->at + first * width;
    m->k->rule[x->rule](x, fold__values(m) + at, fold__grads(m) + at, s ? s + at : NULL, t ? t + at : NULL,
                        count * width);
}

/* Updates one parameter, all of it or the rows of a lookup table that were touched, and its packs: by blocks
   of rows, which are still in cache when they are packed. */
static void fold__step_param(fold_model *m, const fold__param_data *p, const fold__step *settings,
                             int decoupled)
{
    const int rows = p->shape.dim[0], packed = p->pack != FOLD__NO_PACK || p->pack_t != FOLD__NO_PACK;
    const int block = packed && p->shape.rank > 1 ? FOLD__STEP_ROWS : rows;
    fold__step x = *settings;
    x.rate *= m->set_rate[p->rate_set];
    x.decay *= m->set_decay[p->rate_set];
    if (decoupled) {
        x.shrink = x.rate * x.decay;
        x.decay = 0;
    }
    if (fold__is_sparse(p)) {
        for (uint32_t i = 0; i < p->touched; i++)
            fold__step_rows(m, p, &x, fold__touched(m)[p->touched_at + i], 1);
        if (p->touched)
            fold__refresh_packs(m, p);
        return;
    }
    for (int first = 0; first < rows; first += block) {
        const int count = rows - first < block ? rows - first : block;
        fold__step_rows(m, p, &x, (size_t)first, (size_t)count);
        fold__refresh_rows(m, p, first, count);
    }
}

static fold_status fold__step_model(fold_model *m, const fold__step *settings, int decoupled)
{
    if (m->inference)
        fold__model_fail(m, FOLD_BAD_STATE, "optimiser: the model was made for inference");
    if (m->error.status || !fold__states_ready(m, settings->states))
        return m->error.status;
    if (settings->states)
        fold__set_rule(m, settings->rule);
    const fold__fp saved = fold__fp_enter();
    for (uint32_t i = 0; i < m->n_params; i++) {
        fold__param_data *p = &fold__params(m)[i];
        if (!fold__trainable(m, p)) {
            fold__clear_grad(m, p);
            continue;
        }
        fold__step_param(m, p, settings, decoupled);
        fold__forget_grad(m, p);
    }
    fold__fp_leave(saved);
    m->steps++;
    m->version++;
    return FOLD_OK;
}

static float fold__or(float setting, float standard) { return setting != 0 ? setting : standard; }
static int fold__settings_missing(fold_model *m, const void *settings)
{
    if (!settings)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "optimiser: its settings are NULL");
    return !settings;
}

static fold__step fold__step_of(enum fold__rule rule, float rate, float decay, float epsilon)
{
    static const int states[] = {
#define FOLD__RULE_STATES(name, count, body) count,
        FOLD__RULES(FOLD__RULE_STATES)
#undef FOLD__RULE_STATES
    };
    fold__step x;
    memset(&x, 0, sizeof x);
    x.rule = rule;
    x.states = states[rule];
    x.rate = rate;
    x.decay = decay;
    x.epsilon = epsilon;
    return x;
}

FOLD_API fold_status fold_sgd_step(fold_model *m, const fold_sgd *o)
{
    if (fold__settings_missing(m, o))
        return m->error.status;
    fold__step x =
        fold__step_of(o->momentum != 0 ? FOLD__RULE_momentum : FOLD__RULE_sgd, o->rate, o->decay, 0);
    x.keep_s = o->momentum;
    return fold__step_model(m, &x, 0);
}
FOLD_API fold_status fold_adagrad_step(fold_model *m, const fold_adagrad *o)
{
    if (fold__settings_missing(m, o))
        return m->error.status;
    const float epsilon = fold__or(o->epsilon, fold_adagrad_default().epsilon);
    fold__step x = fold__step_of(FOLD__RULE_squares, o->rate, o->decay, epsilon);
    x.keep_s = x.add_s = 1;
    return fold__step_model(m, &x, 0);
}
FOLD_API fold_status fold_rmsprop_step(fold_model *m, const fold_rmsprop *o)
{
    if (fold__settings_missing(m, o))
        return m->error.status;
    const fold_rmsprop standard = fold_rmsprop_default();
    fold__step x =
        fold__step_of(FOLD__RULE_squares, o->rate, o->decay, fold__or(o->epsilon, standard.epsilon));
    x.keep_s = fold__or(o->rho, standard.rho);
    x.add_s = 1 - x.keep_s;
    return fold__step_model(m, &x, 0);
}
FOLD_API fold_status fold_adam_step(fold_model *m, const fold_adam *o)
{
    if (fold__settings_missing(m, o))
        return m->error.status;
    const fold_adam standard = fold_adam_default();
    fold__step x = fold__step_of(FOLD__RULE_adam, o->rate, o->decay, fold__or(o->epsilon, standard.epsilon));
    x.keep_s = fold__or(o->beta1, standard.beta1);
    x.keep_t = fold__or(o->beta2, standard.beta2);
    double power1 = 1, power2 = 1; /* beta^t by squaring: the same on every platform */
    double b1 = (double)x.keep_s, b2 = (double)x.keep_t;
    for (uint64_t t = fold__steps_of(m, FOLD__RULE_adam) + 1; t; t >>= 1) {
        if (t & 1) {
            power1 *= b1;
            power2 *= b2;
        }
        b1 *= b1;
        b2 *= b2;
    }
    x.add_s = 1 - x.keep_s;
    x.scale_s = (float)(1 / (1 - power1));
    x.add_t = 1 - x.keep_t;
    x.scale_t = (float)(1 / (1 - power2));
    return fold__step_model(m, &x, o->decoupled);
}

/* The sum of n squares. Chunks go by the dot kernel, those whose sum may have left the range of float by
 * double. */
static double fold__squares(const fold__kernels *k, const float *g, size_t n)
{
    FOLD__NO_CONTRACT
    double sum = 0;
    for (size_t at = 0, chunk; at < n; at += chunk) {
        chunk = fold__min_size(n - at, FOLD__NORM_CHUNK);
        const float part = k->dot(g + at, g + at, chunk);
        if (part > 1e-20f && part <= FLT_MAX) {
            sum += (double)part;
            continue;
        }
        for (size_t i = at; i < at + chunk; i++)
            sum += (double)g[i] * (double)g[i];
    }
    return sum;
}

/* The sum of squares of all gradients that may not be zero, or when `factor` is not 1 scales them. */
static double fold__each_grad(fold_model *m, float factor)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->n_params && !m->inference; i++) {
        const fold__param_data *p = &fold__params(m)[i];
        const int sparse = fold__is_sparse(p);
        const size_t width = p->size / (size_t)p->shape.dim[0], n = sparse ? width : p->size;
        for (uint32_t r = 0; r < (sparse ? p->touched : !fold__grad_is_zero(p)); r++) {
            float *g = fold__grads(m) + p->at + (sparse ? fold__touched(m)[p->touched_at + r] * width : 0);
            if (factor == 1)
                sum += fold__squares(m->k, g, n);
            else
                m->k->map[FOLD__MAP_scale](g, g, NULL, NULL, factor, n, 1, NULL);
        }
    }
    return sum;
}

FOLD_API double fold_grads_clip(fold_model *m, float limit)
{
    const fold__fp saved = fold__fp_enter();
    const double norm = sqrt(fold__each_grad(m, 1));
    if (norm > (double)limit)
        fold__each_grad(m, (float)((double)limit / norm));
    fold__fp_leave(saved);
    return norm;
}

/* ==== room: layers ==========================================================================
   Owns: the public layers, made of public calls alone. Calls: the public API. */

/* The name of a layer's part; empty, as no parameter's can be, when the model has an error. */
typedef struct fold__name {
    char text[128];
} fold__name;
static fold__name fold__join(fold_model *m, const char *layer, const char *part)
{
    fold__name full;
    const int length = snprintf(full.text, sizeof full.text, "%s.%s", layer ? layer : "", part);
    if (length < 0 || (size_t)length >= sizeof full.text)
        fold__model_fail(m, FOLD_BAD_ARGUMENT,
                         "layer '%.60s..': its name and '.%s' together have more than %d bytes", layer, part,
                         (int)sizeof full.text - 1);
    if (m->error.status)
        full.text[0] = 0;
    return full;
}
static fold_param fold__named_weight(fold_model *m, const char *name, const char *part, int inputs,
                                     int outputs)
{
    const fold__name full = fold__join(m, name, part);
    return fold_weight_new(m, full.text, inputs, outputs);
}
static fold_param fold__named_bias(fold_model *m, const char *name, const char *part, int n)
{
    const fold__name full = fold__join(m, name, part);
    return fold_bias_new(m, full.text, n);
}

static fold_node fold__activate(fold_ctx *f, fold_activation a, fold_node x)
{
    switch (a) {
    case FOLD_ACT_RELU: return fold_relu(f, x);
    case FOLD_ACT_TANH: return fold_tanh(f, x);
    case FOLD_ACT_SIGMOID: return fold_sigmoid(f, x);
    case FOLD_ACT_GELU: return fold_gelu(f, x);
    case FOLD_ACT_LINEAR: break;
    }
    return x;
}

FOLD_API fold_dense fold_dense_new(fold_model *m, const char *name, int inputs, int outputs,
                                   fold_activation activation)
{
    fold_dense d;
    d.W = fold__named_weight(m, name, "W", inputs, outputs);
    d.b = fold__named_bias(m, name, "b", outputs);
    d.activation = activation;
    return d;
}
FOLD_API fold_node fold_dense_apply(fold_ctx *f, const fold_dense *d, fold_node x)
{
    return fold__activate(f, d->activation, fold_linear(f, x, d->W, d->b));
}

FOLD_API fold_mlp fold_mlp_new(fold_model *m, const char *name, const int *sizes, int n,
                               fold_activation hidden)
{
    fold_mlp mlp;
    memset(&mlp, 0, sizeof mlp);
    if (!sizes || n < 1 || n > FOLD_MAX_LAYERS) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "mlp '%s': takes 1 to %d layers", name, FOLD_MAX_LAYERS);
        return mlp;
    }
    mlp.layers = n;
    for (int i = 0; i < n; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        const fold__name full = fold__join(m, name, number);
        mlp.layer[i] =
            fold_dense_new(m, full.text, sizes[i], sizes[i + 1], i + 1 < n ? hidden : FOLD_ACT_LINEAR);
    }
    return mlp;
}
FOLD_API fold_node fold_mlp_apply(fold_ctx *f, const fold_mlp *mlp, fold_node x)
{
    for (int i = 0; i < mlp->layers; i++)
        x = fold_dense_apply(f, &mlp->layer[i], x);
    return x;
}

/* What a layer's cell body needs; copied into the model. */
/* projected: the body is given an input's products instead of the input. */
typedef struct fold__gates {
    fold_param W, b, U, c;
    int hidden, arity, projected;
} fold__gates;

static void fold__layer_desc(fold_cell_desc *d, const char *name, fold_cell_body *body,
                             const fold__gates *gates, int n_out)
{
    memset(d, 0, sizeof *d);
    d->name = name;
    d->body = body;
    d->user = gates;
    d->user_size = sizeof *gates;
    d->n_out = n_out;
}

static fold_cell fold__layer_cell(fold_model *m, const fold_cell_desc *d, const fold__gates *gates)
{
    const fold_cell cell = fold_cell_new(m, d);
    if (cell.id)
        fold__cells(m)[cell.id - 1].is_projected = gates->projected;
    return cell;
}

/* The gates of a linear output: all but the last through sigmoid, in one go, the last through tanh. */
static void fold__gates_of(fold_ctx *f, fold_node x, int hidden, int n, fold_node *gate)
{
    fold_split(f, fold_sigmoid(f, fold_slice(f, x, 0, 0, (n - 1) * hidden)), n - 1, gate);
    gate[n - 1] = fold_tanh(f, fold_slice(f, x, 0, (n - 1) * hidden, hidden));
}

/* c' and h' from gates i, o, u and what is kept of the old cell state (Tai et al. 2015, equations 6-8). */
static void fold__lstm_out(fold_ctx *f, fold_node i, fold_node o, fold_node u, fold_node kept, fold_node *out)
{
    const fold_node fresh = fold_mul(f, i, u);
    out[1] = fold_node_is_null(kept) ? fresh : fold_add(f, fresh, kept);
    out[0] = fold_mul(f, o, fold_tanh(f, out[1]));
}

/* A layer's product of its input and its state. */
static fold_node fold__gate_product(fold_ctx *f, const fold__gates *g, fold_node x, fold_node h, fold_param W,
                                    fold_param b)
{
    const fold_node both[2] = { x, h };
    return g->projected ? fold_linear_then(f, x, h, W) : fold_linear_n(f, both, 2, W, b);
}

static void fold__set_projection(fold_model *m, fold_cell cell, fold_cell projected, const fold__gates *g)
{
    if (!cell.id || !projected.id)
        return;
    fold__projection *p = &fold__cells(m)[cell.id - 1].projection;
    p->cell = projected;
    p->W[0] = g->W;
    p->b[0] = g->b;
    p->W[1] = g->U;
    p->b[1] = g->c;
}

/* Where identical calls become one, a word's product is a call of its own: one for all its occurrences,
 * whatever states they meet. NULL: the cell is called with x itself. */
static const fold__projection *fold__projection_for(const fold_ctx *f, fold_cell cell, fold_node x)
{
    if (!f || !f->dedupe || cell.salt != f->model->salt || !cell.id || cell.id > f->model->n_cells)
        return NULL;
    const fold__projection *p = &fold__cells(f->model)[cell.id - 1].projection;
    if (!p->cell.id || !x.id || x.id > f->n_nodes)
        return NULL;
    return (f->kind[f->src[x.id]] & FOLD__KIND_MASK) == FOLD__LOOKUP ? p : NULL;
}

static void fold__rnn_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    out[0] = fold_tanh(f, fold__gate_product(f, g, in[0], in[1], g->W, g->b));
}
static void fold__lstm_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    fold_node gate[4]; /* i f o u */
    fold__gates_of(f, fold__gate_product(f, g, in[0], in[1], g->W, g->b), g->hidden, 4, gate);
    fold__lstm_out(f, gate[0], gate[2], gate[3], fold_mul(f, gate[1], in[2]), out);
}
static void fold__gru_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    fold_node x[3], h[3]; /* r z n */
    fold_split(f, g->projected ? in[0] : fold_linear(f, in[0], g->W, g->b), 3, x);
    fold_split(f, fold_linear(f, in[1], g->U, g->c), 3, h);
    const fold_node r = fold_sigmoid(f, fold_add(f, x[0], h[0])),
                    z = fold_sigmoid(f, fold_add(f, x[1], h[1]));
    const fold_node n = fold_tanh(f, fold_add(f, x[2], fold_mul(f, r, h[2])));
    out[0] = fold_add(f, n, fold_mul(f, z, fold_sub(f, in[1], n)));
}

static fold_recurrent fold__recurrent_new(fold_model *m, const char *name, fold_cell_body *body,
                                          fold__gates *g, int inputs, int gates, int has_c)
{
    fold_recurrent r;
    fold_cell_desc d;
    fold__layer_desc(&d, name, body, g, has_c ? 2 : 1);
    d.n_in = has_c ? 3 : 2;
    d.in[0] = fold_shape1(inputs);
    d.in[1] = d.in[2] = fold_shape1(g->hidden);
    r.cell = fold__layer_cell(m, &d, g);
    g->projected = 1;
    d.in[0] = fold_shape1(gates * g->hidden);
    fold__set_projection(m, r.cell, fold__layer_cell(m, &d, g), g);
    r.hidden = g->hidden;
    r.has_c = has_c;
    return r;
}

/* Sets values [from, to) of a bias. */
static void fold__set_bias(fold_model *m, fold_param b, int from, int to, float value)
{
    float *w = b.id ? fold_values_write_begin(m, b) : NULL;
    for (int i = from; i < to && w; i++)
        w[i] = value;
    if (w)
        fold_values_write_end(m, b);
}

static fold__gates fold__gates_new(fold_model *m, const char *name, int inputs, int hidden, int gates)
{
    fold__gates g;
    memset(&g, 0, sizeof g);
    g.hidden = hidden;
    g.W = fold__named_weight(m, name, "W", inputs, gates * hidden);
    g.b = fold__named_bias(m, name, "b", gates * hidden);
    return g;
}

FOLD_API fold_recurrent fold_rnn_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold__gates g = fold__gates_new(m, name, inputs + hidden, hidden, 1);
    return fold__recurrent_new(m, name, fold__rnn_body, &g, inputs, 1, 0);
}
FOLD_API fold_recurrent fold_lstm_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold__gates g = fold__gates_new(m, name, inputs + hidden, hidden, 4);
    fold__set_bias(m, g.b, hidden, 2 * hidden, 1);
    return fold__recurrent_new(m, name, fold__lstm_body, &g, inputs, 4, 1);
}
FOLD_API fold_recurrent fold_gru_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold__gates g = fold__gates_new(m, name, inputs, hidden, 3);
    g.U = fold__named_weight(m, name, "U", hidden, 3 * hidden);
    g.c = fold__named_bias(m, name, "c", 3 * hidden);
    return fold__recurrent_new(m, name, fold__gru_body, &g, inputs, 3, 0);
}
FOLD_API fold_state fold_recurrent_zeros(fold_ctx *f, const fold_recurrent *r)
{
    fold_state s;
    s.h = fold_zeros(f, fold_shape1(r->hidden));
    s.c = r->has_c ? fold_zeros(f, fold_shape1(r->hidden)) : fold__null;
    return s;
}

/* The outputs of a cell's call. */
static fold_state fold__state_of(fold_node call, int has_c)
{
    fold_state s;
    s.h = s.c = call;
    s.c.id += call.id != 0;
    if (!has_c)
        s.c = fold__null;
    return s;
}
FOLD_API fold_state fold_recurrent_apply(fold_ctx *f, const fold_recurrent *r, fold_node x, fold_state s)
{
    const fold__projection *p = fold__projection_for(f, r->cell, x);
    const fold_node in[3] = { p ? fold_linear_first(f, x, p->W[0], p->b[0]) : x, s.h, s.c };
    return fold__state_of(fold_call(f, p ? p->cell : r->cell, in, r->has_c ? 3 : 2), r->has_c);
}

/* -- unrolling ------------------------------------------------------------------------------- */

/* The given state, or zeros; 0 with an error when it is not one of this cell. */
static int fold__unroll_begin(fold_ctx *f, const fold_recurrent *r, const fold_state *begin, fold_state *s)
{
    s->h = s->c = fold__null;
    if (fold__broken(f))
        return 0;
    if (!r || !r->cell.id) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: the cell is null");
        return 0;
    }
    if (begin && (fold_node_is_null(begin->h) || fold_node_is_null(begin->c) != !r->has_c)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: a state of this cell is %s",
                   r->has_c ? "h and c, neither null" : "h alone, not null, and c is null");
        return 0;
    }
    *s = begin ? *begin : fold_recurrent_zeros(f, r);
    return !fold__broken(f);
}

static int fold__unroll_length(fold_ctx *f, const fold_node *x, int n)
{
    if (fold__broken(f))
        return 0;
    if (n < 0) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: a sequence of %d steps", n);
        return 0;
    }
    if (n && !x) {
        fold__missing(f, "unroll");
        return 0;
    }
    for (int t = 0; t < n; t++)
        if (fold_node_is_null(x[t])) {
            fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: input %d of %d is null", t, n);
            return 0;
        }
    return 1;
}

static fold_state fold__unroll(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n, int reverse,
                               const fold_state *begin, fold_node *out)
{
    const fold_state none = { { 0, 0 }, { 0, 0 } };
    fold_state s;
    const int fine = fold__unroll_begin(f, r, begin, &s) && fold__unroll_length(f, x, n);
    for (int t = 0; t < n; t++) {
        const int at = reverse ? n - 1 - t : t;
        s = fine ? fold_recurrent_apply(f, r, x[at], s) : none;
        if (out)
            out[at] = s.h;
    }
    return fold__broken(f) ? none : s;
}
FOLD_API fold_state fold_unroll(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n,
                                const fold_state *begin, fold_node *out)
{
    return fold__unroll(f, r, x, n, 0, begin, out);
}
FOLD_API fold_state fold_unroll_reverse(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n,
                                        const fold_state *begin, fold_node *out)
{
    return fold__unroll(f, r, x, n, 1, begin, out);
}

/* The length of a sample, or -1 with an error. */
static int fold__sequence_length(fold_ctx *f, const fold_sequences *s, int sample)
{
    if (fold__broken(f))
        return -1;
    if (!s || (!s->values && s->samples && s->steps)) {
        fold__missing(f, "sequences");
        return -1;
    }
    if (s->samples < 0 || s->steps < 0 || s->width < 1 ||
        (s->layout != FOLD_LAYOUT_NTC && s->layout != FOLD_LAYOUT_TNC)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "sequences: %d samples of %d steps of %d values, layout %d",
                   s->samples, s->steps, s->width, (int)s->layout);
        return -1;
    }
    if (sample < 0 || sample >= s->samples) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "sequences: sample %d of %d", sample, s->samples);
        return -1;
    }
    const int n = s->length ? s->length[sample] : s->steps;
    if (n >= 0 && n <= s->steps)
        return n;
    fold__fail(f, FOLD_BAD_ARGUMENT, "sequences: sample %d has length %d, the array %d steps", sample, n,
               s->steps);
    return -1;
}
static fold_node fold__sequence_step(fold_ctx *f, const fold_sequences *s, int sample, int t)
{
    const size_t row = s->layout == FOLD_LAYOUT_TNC ? (size_t)t * (size_t)s->samples + (size_t)sample
                                                    : (size_t)sample * (size_t)s->steps + (size_t)t;
    return fold_input_ref(f, s->values + row * (size_t)s->width, fold_shape1(s->width));
}
FOLD_API int fold_sequences_input(fold_ctx *f, const fold_sequences *s, int sample, fold_node *x)
{
    const int n = fold__sequence_length(f, s, sample);
    if (n > 0 && !x) {
        fold__missing(f, "sequence");
        return 0;
    }
    for (int t = 0; t < n; t++)
        x[t] = fold__sequence_step(f, s, sample, t);
    return fold__broken(f) ? 0 : n;
}
FOLD_API fold_status fold_unroll_batch(fold_ctx *f, const fold_recurrent *r, const fold_sequences *s,
                                       const fold_state *begin, fold_node *out, fold_state *last)
{
    if (!s)
        fold__missing(f, "unroll_batch");
    for (int i = 0; s && i < s->samples; i++) {
        fold_state state;
        const int n = fold__sequence_length(f, s, i),
                  fine = fold__unroll_begin(f, r, begin ? &begin[i] : NULL, &state);
        for (int t = 0; t < s->steps; t++) {
            fold_node *at = out ? &out[(size_t)i * (size_t)s->steps + (size_t)t] : NULL;
            if (fine && t < n)
                state = fold_recurrent_apply(f, r, fold__sequence_step(f, s, i, t), state);
            if (at)
                *at = t < n ? state.h : fold__null;
        }
        if (last)
            last[i] = state;
    }
    return fold_ctx_status(f);
}

FOLD_API fold_rnn_stack fold_rnn_stack_new(fold_model *m, const char *name, fold_recurrent_maker *make,
                                           int inputs, int hidden, int layers, int bidirectional)
{
    fold_rnn_stack s;
    memset(&s, 0, sizeof s);
    if (!make || layers < 1 || layers > FOLD_MAX_LAYERS) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT,
                         "rnn_stack '%s': takes a maker of cells and 1 to %d layers, got %d", name,
                         FOLD_MAX_LAYERS, layers);
        return s;
    }
    s.layers = layers;
    s.directions = bidirectional ? 2 : 1;
    for (int i = 0; i < layers * s.directions; i++) {
        char part[32];
        const int layer = i / s.directions;
        snprintf(part, sizeof part, "%d%s", layer, i % s.directions ? ".reverse" : "");
        const fold__name full = fold__join(m, name, part);
        if (m->error.status)
            return s;
        s.cell[i] = make(m, full.text, layer ? s.directions * hidden : inputs, hidden);
    }
    return s;
}

/* Nodes in the context's memory: they may move with every call that records. */
static fold_node *fold__steps(const fold_ctx *f) { return (fold_node *)(void *)f->arrays[FOLD__C_STEPS].p; }

/* One direction of a layer: reads the first n of those nodes; h becomes the n after them or, in reverse,
 * joins them. */
static fold_state fold__stack_direction(fold_ctx *f, const fold_recurrent *r, int n, int reverse,
                                        const fold_state *begin)
{
    fold_state s;
    const int fine = fold__unroll_begin(f, r, begin, &s);
    for (int t = 0; t < n && fine; t++) {
        const int at = reverse ? n - 1 - t : t;
        s = fold_recurrent_apply(f, r, fold__steps(f)[at], s);
        const fold_node y = reverse ? fold_concat2(f, fold__steps(f)[n + at], s.h) : s.h;
        fold__steps(f)[n + at] = y;
    }
    return s;
}
FOLD_API fold_status fold_rnn_stack_apply(fold_ctx *f, const fold_rnn_stack *s, const fold_node *x, int n,
                                          const fold_state *begin, fold_node *out, fold_state *last)
{
    const int cells = s ? s->layers * s->directions : 0;
    const size_t size = (size_t)(n > 0 ? n : 0) * sizeof *x;
    if (!fold__broken(f) && (cells < 1 || cells > 2 * FOLD_MAX_LAYERS))
        fold__fail(f, FOLD_BAD_ARGUMENT, "rnn_stack: it is null");
    const int fine = fold__unroll_length(f, x, n) && fold__need(f, FOLD__C_STEPS, 2 * size + 1, 1);
    fold__renew(f);
    if (fine && n)
        memcpy(fold__steps(f), x, size);
    for (int i = 0; i < cells; i++) {
        const int reverse = i % s->directions;
        fold_state end = { { 0, 0 }, { 0, 0 } };
        if (fine)
            end = fold__stack_direction(f, &s->cell[i], n, reverse, begin ? &begin[i] : NULL);
        if (last)
            last[i] = end;
        if (fine && n && reverse == s->directions - 1)
            memcpy(fold__steps(f), fold__steps(f) + n, size);
    }
    if (out && size && fold__broken(f))
        memset(out, 0, size);
    else if (out && size)
        memcpy(out, fold__steps(f), size);
    return fold_ctx_status(f);
}

FOLD_API fold_unroll_desc fold_unroll_desc_default(void)
{
    fold_unroll_desc d;
    memset(&d, 0, sizeof d);
    return d;
}

/* The states at the beginning of a desc's unrolling; 0 with an error when it is not a good one. */
static int fold__unroll_start(fold_ctx *f, const fold_unroll_desc *d, fold_node *state)
{
    if (fold__broken(f))
        return 0;
    if (!d || !d->step) {
        fold__missing(f, "unroll_steps");
        return 0;
    }
    if (d->n_states < 0 || d->n_states > FOLD_MAX_STATES) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: %d states, of at most %d", d->n_states, FOLD_MAX_STATES);
        return 0;
    }
    if (!fold__unroll_length(f, d->x, d->n))
        return 0;
    for (int k = 0; k < d->n_states; k++) {
        if (!d->begin && !d->state[k].rank) {
            fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: state %d has neither a beginning nor a shape", k);
            return 0;
        }
        state[k] = d->begin ? d->begin[k] : fold_zeros(f, d->state[k]);
        if (fold_node_is_null(state[k])) {
            fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: the beginning of state %d is null", k);
            return 0;
        }
    }
    return !fold__broken(f);
}

/* What a step gave: an output where one is wanted and as many states as there are, of the shapes they had. */
static int fold__unroll_check(fold_ctx *f, const fold_unroll_desc *d, int at, fold_node out,
                              const fold_node *state, const fold_node *next)
{
    if (fold__broken(f))
        return 0;
    if (d->out && fold_node_is_null(out)) {
        fold__fail(f, FOLD_BAD_CELL, "unroll: the step of input %d gave no output", at);
        return 0;
    }
    for (int k = 0; k < FOLD_MAX_STATES; k++) {
        fold__operand a, b;
        if (fold_node_is_null(next[k]) != (k >= d->n_states)) {
            fold__fail(f, FOLD_BAD_CELL, "unroll: the step of input %d %s state %d, there are %d", at,
                       k < d->n_states ? "left out" : "gave a", k, d->n_states);
            return 0;
        }
        if (k >= d->n_states)
            continue;
        if (!fold__operand_of(f, state[k], "unroll", &a) || !fold__operand_of(f, next[k], "unroll", &b))
            return 0;
        const fold_shape both[2] = { *fold__operand_shape(f, &a), *fold__operand_shape(f, &b) };
        if (a.shape != b.shape) {
            fold__fail_shapes(f, "unroll", "a step changed the shape of a state", both, 2);
            return 0;
        }
    }
    return 1;
}

FOLD_API fold_status fold_unroll_steps(fold_ctx *f, const fold_unroll_desc *d)
{
    fold_node state[FOLD_MAX_STATES], next[FOLD_MAX_STATES];
    int fine = fold__unroll_start(f, d, state);
    for (int t = 0; fine && t < d->n; t++) {
        const int at = d->reverse ? d->n - 1 - t : t;
        fold_node out = fold__null;
        memset(next, 0, sizeof next);
        d->step(f, d->x[at], state, &out, next, d->user);
        fine = fold__unroll_check(f, d, at, out, state, next);
        if (d->out)
            d->out[at] = out;
        memcpy(state, next, sizeof state);
    }
    for (int k = 0; d && d->last && k < d->n_states && k < FOLD_MAX_STATES; k++)
        d->last[k] = fine ? state[k] : fold__null;
    return fold_ctx_status(f);
}

static void fold__tree_leaf_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    fold_node gate[3]; /* i o u */
    fold__gates_of(f, fold_linear(f, in[0], g->W, g->b), g->hidden, 3, gate);
    fold__lstm_out(f, gate[0], gate[1], gate[2], fold__null, out);
}
static void fold__tree_inner_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    const int n = 3 + g->arity;
    fold_node gate[3 + FOLD_MAX_CELL_IN / 2], kept = fold__null; /* i, o, a forget gate for every child, u */
    fold__gates_of(f, fold_linear_n(f, in, g->arity, g->W, g->b), g->hidden, n, gate);
    for (int k = 0; k < g->arity; k++) {
        const fold_node c = fold_mul(f, gate[2 + k], in[g->arity + k]);
        kept = k ? fold_add(f, kept, c) : c;
    }
    fold__lstm_out(f, gate[0], gate[1], gate[n - 1], kept, out);
}

FOLD_API fold_tree_lstm fold_tree_lstm_new(fold_model *m, const char *name, int inputs, int hidden, int arity)
{
    fold_tree_lstm t;
    memset(&t, 0, sizeof t);
    if (arity < 1 || arity > FOLD_MAX_CELL_IN / 2) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "tree_lstm '%s': arity is 1 to %d", name,
                         FOLD_MAX_CELL_IN / 2);
        return t;
    }
    t.hidden = hidden;
    t.arity = arity;
    const fold__name leaf_name = fold__join(m, name, "leaf"), inner_name = fold__join(m, name, "inner");
    const fold__gates leaf = fold__gates_new(m, leaf_name.text, inputs, hidden, 3);
    fold_cell_desc d;
    fold__layer_desc(&d, leaf_name.text, fold__tree_leaf_body, &leaf, 2);
    d.n_in = 1;
    d.in[0] = fold_shape1(inputs);
    t.leaf = fold_cell_new(m, &d);
    fold__gates inner = fold__gates_new(m, inner_name.text, arity * hidden, hidden, 3 + arity);
    inner.arity = arity;
    fold__set_bias(m, inner.b, 2 * hidden, (2 + arity) * hidden, 1);
    fold__layer_desc(&d, inner_name.text, fold__tree_inner_body, &inner, 2);
    d.n_in = 2 * arity;
    for (int i = 0; i < d.n_in; i++)
        d.in[i] = fold_shape1(hidden);
    t.inner = fold_cell_new(m, &d);
    return t;
}
FOLD_API fold_state fold_tree_lstm_apply_leaf(fold_ctx *f, const fold_tree_lstm *t, fold_node x)
{
    return fold__state_of(fold_call(f, t->leaf, &x, 1), 1);
}
FOLD_API fold_state fold_tree_lstm_apply_inner(fold_ctx *f, const fold_tree_lstm *t,
                                               const fold_state *children)
{
    fold_node in[FOLD_MAX_CELL_IN];
    for (int k = 0; k < t->arity; k++) {
        in[k] = children[k].h;
        in[t->arity + k] = children[k].c;
    }
    return fold__state_of(fold_call(f, t->inner, in, 2 * t->arity), 1);
}

/* No children: h and c of none are zero, so only W x is left of the gates. */
static void fold__child_sum_leaf_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    fold_node gate[3]; /* i o u */
    fold__gates_of(f, g->projected ? in[0] : fold_linear_first(f, in[0], g->W, g->b), g->hidden, 3, gate);
    fold__lstm_out(f, gate[0], gate[1], gate[2], fold__null, out);
}

/* in: x, or its products with W and W_f; of every child: h, c. Equations 2-8 of Tai et al. 2015; W x and U h
   of a gate are one product. */
static void fold__child_sum_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *g = (const fold__gates *)user;
    const fold_node *child = in + (g->projected ? 2 : 1);
    fold_node gate[3]; /* i o u */
    fold__gates_of(f, fold__gate_product(f, g, in[0], fold_list_sum(f, child[0]), g->W, g->b), g->hidden, 3,
                   gate);
    const fold_node forget = fold_sigmoid(f, fold__gate_product(f, g, child[-1], child[0], g->U, g->c));
    fold__lstm_out(f, gate[0], gate[1], gate[2], fold_list_sum(f, fold_mul(f, forget, child[1])), out);
}

static fold_cell fold__child_sum_cell(fold_model *m, const char *name, const fold__gates *g, int inputs,
                                      int leaf)
{
    fold_cell_desc d;
    fold__layer_desc(&d, name, leaf ? fold__child_sum_leaf_body : fold__child_sum_body, g, 2);
    d.n_in = g->projected && !leaf ? 2 : 1;
    d.in[0] = fold_shape1(g->projected ? 3 * g->hidden : inputs);
    d.in[1] = d.list[0] = d.list[1] = fold_shape1(g->hidden);
    d.n_list = leaf ? 0 : 2;
    return fold__layer_cell(m, &d, g);
}

FOLD_API fold_child_sum fold_child_sum_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold_child_sum t;
    fold__gates g = fold__gates_new(m, name, inputs + hidden, hidden, 3);
    g.U = fold__named_weight(m, name, "W_f", inputs + hidden, hidden);
    g.c = fold__named_bias(m, name, "b_f", hidden);
    fold__set_bias(m, g.c, 0, hidden, 1);
    t.leaf = fold__child_sum_cell(m, name, &g, inputs, 1);
    t.inner = fold__child_sum_cell(m, name, &g, inputs, 0);
    t.hidden = hidden;
    g.projected = 1;
    fold__set_projection(m, t.leaf, fold__child_sum_cell(m, name, &g, inputs, 1), &g);
    fold__set_projection(m, t.inner, fold__child_sum_cell(m, name, &g, inputs, 0), &g);
    return t;
}
FOLD_API fold_state fold_child_sum_apply(fold_ctx *f, const fold_child_sum *t, fold_node x,
                                         const fold_state *children, int n)
{
    const fold_cell cell = n ? t->inner : t->leaf;
    const fold__projection *p = fold__projection_for(f, cell, x);
    fold_node in[2] = { p ? fold_linear_first(f, x, p->W[0], p->b[0]) : x, x };
    if (!n)
        return fold__state_of(fold_call(f, p ? p->cell : cell, in, 1), 1);
    if (p)
        in[1] = fold_linear_first(f, x, p->W[1], p->b[1]);
    /* a state is two nodes, h and c: the list's components as they lie */
    return fold__state_of(
        fold_call_list(f, p ? p->cell : cell, in, p ? 2 : 1, (const fold_node *)(const void *)children, n),
        1);
}

/* The rooms from here to the end run seldom: they are compiled for size. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC push_options
#pragma GCC optimize("Os")
#endif

/* ==== room: text ============================================================================
   Owns: writing through a caller's function, quoting, UTF-8, sorting. Knows nothing of models and contexts.
 */

enum {
    FOLD__QUOTE_NONE,
    FOLD__QUOTE_JSON,
    FOLD__QUOTE_XML
}; /* how names are written: JSON's way is dot's too */
typedef struct fold__text {
    fold_writer *write;
    void *user;
    int quote, stopped;
    size_t n;
    char buf[200];
} fold__text;

#ifndef FOLD_NO_STDIO
FOLD_API int fold_to_file(const void *bytes, size_t n, void *file)
{
    return fwrite(bytes, 1, n, (FILE *)file) != n;
}
#endif

static void fold__text_start(fold__text *t, fold_writer *write, void *user, int quote)
{
    t->write = write;
    t->user = user;
    t->quote = quote;
    t->stopped = !write;
    t->n = 0;
}

static fold_status fold__text_end(fold__text *t)
{
    if (t->n && !t->stopped)
        t->stopped = t->write(t->buf, t->n, t->user);
    t->n = 0;
    return t->stopped ? FOLD_IO : FOLD_OK;
}

static void fold__put_bytes(fold__text *t, const char *s, size_t n)
{
    while (n && !t->stopped) {
        const size_t part = fold__min_size(n, sizeof t->buf - t->n);
        memcpy(t->buf + t->n, s, part);
        t->n += part;
        s += part;
        n -= part;
        if (t->n == sizeof t->buf)
            fold__text_end(t);
    }
}

/* Formats of up to 200 bytes. Names go by fold__put_name, whatever their length. */
static void fold__put(fold__text *t, const char *format, ...) FOLD__PRINTF(2, 3);
static void fold__put(fold__text *t, const char *format, ...)
{
    char s[200];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(s, sizeof s, format, args);
    va_end(args);
    if (n > 0)
        fold__put_bytes(t, s, fold__min_size((size_t)n, sizeof s - 1));
}

/* Bytes of the well-formed UTF-8 sequence that s begins with (Unicode 15, table 3-7); 0 when there is none.
 */
static int fold__utf8(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80)
        return 1;
    if (u[0] < 0xc2 || u[0] > 0xf4)
        return 0;
    const int n = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    if (u[1] < (u[0] == 0xe0   ? 0xa0
                : u[0] == 0xf0 ? 0x90
                               : 0x80) ||
        u[1] > (u[0] == 0xed   ? 0x9f
                : u[0] == 0xf4 ? 0x8f
                               : 0xbf))
        return 0;
    for (int i = 2; i < n; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* A name of at most so many characters, safe inside quotes: what would end them is written as an escape, what
 * is not text as '?'. */
static void fold__put_name(fold__text *t, const char *s, int characters)
{
    for (; *s && characters > 0; characters--) {
        const int n = fold__utf8(s);
        const char c = n == 1 ? *s : 0;
        if (!n || (n == 1 && ((unsigned char)c < 32 || c == 127))) {
            if (n && t->quote == FOLD__QUOTE_JSON)
                fold__put(t, "\\u%04x", (unsigned)c);
            else
                fold__put_bytes(t, "?", 1);
        } else if (t->quote == FOLD__QUOTE_XML && c && strchr("<>&\"", c)) {
            fold__put(t, "&#%d;", c);
        } else {
            if (t->quote == FOLD__QUOTE_JSON && (c == '"' || c == '\\'))
                fold__put_bytes(t, "\\", 1);
            fold__put_bytes(t, s, (size_t)n);
        }
        s += n ? n : 1;
    }
    if (*s && characters == 0)
        fold__put_bytes(t, "..", 2);
}
#define FOLD__WHOLE 0x7fffffff

static void fold__put_shape(fold__text *t, const fold_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        fold__put(t, "%s%d", i ? " x " : "[", s->dim[i]);
    fold__put_bytes(t, "]", 1);
}

/* "1 call", "3 batches" */
static void fold__put_count(fold__text *t, size_t n, const char *what)
{
    fold__put(t, "%lu %s%s", (unsigned long)n, what,
              n == 1                          ? ""
              : what[strlen(what) - 1] == 'h' ? "es"
                                              : "s");
}

/* Heapsort (Williams 1964): neither recursion nor memory. */
static void fold__sort(uint32_t *x, uint32_t n, int (*before)(const void *by, uint32_t a, uint32_t b),
                       const void *by)
{
    uint32_t start = n / 2, end = n;
    while (end > 1) {
        uint32_t item, at = 0;
        if (start)
            at = --start, item = x[at];
        else
            item = x[--end], x[end] = x[0];
        for (uint32_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && before(by, x[child], x[child + 1]))
                child++;
            if (!before(by, item, x[child]))
                break;
            x[at] = x[child];
        }
        x[at] = item;
    }
}

/* ==== room: looking inside ==================================================================
   Owns: texts and pictures of a recording and of the plan of its last run, and the summary of a model. Sees a
   plan only through the view made here. Calls: text, recording, run state. Changes nothing that runs read. */

/* prologue: the part of a cell run first for all calls. x: of a column, in a picture. */
typedef struct fold__seen_batch {
    uint32_t sig, first, count, elems, group;
    int prologue, x;
} fold__seen_batch;
typedef struct fold__seen_sig {
    uint32_t sig, calls, batches, chain, groups, last_group;
} fold__seen_sig;

typedef struct fold__view {
    fold_ctx *f;
    int planned; /* the last run's batches; else the recording's, by depth */
    uint32_t n_batches, n_calls, n_sigs, n_groups;
    fold__seen_batch *batch;
    const uint32_t *call; /* batch by batch */
    uint32_t *at; /* of a call: 1 + its batch; of what a call reads and is none of them: the first such batch,
                     and LEAF; else 0 */
    uint32_t *sig_at;        /* of a signature: 1 + its place in sig */
    fold__seen_sig *sig;     /* as they come */
    uint32_t *work, *sorted; /* of the size of the recording */
    int32_t *y, *low;        /* of nodes, in a picture */
} fold__view;
#define FOLD__LEAF 0x80000000u

static void fold__carve_view(fold__view *v, fold__carver *c)
{
    const fold_ctx *f = v->f;
    const size_t nodes = (size_t)f->n_nodes + 1, sigs = (size_t)f->n_sigs + 1;
    v->batch = (fold__seen_batch *)fold__carve(c, v->planned ? f->run->n.batches : nodes, sizeof *v->batch);
    v->at = (uint32_t *)fold__carve(c, nodes, sizeof *v->at);
    v->work = (uint32_t *)fold__carve(c, nodes, sizeof *v->work);
    v->sorted = (uint32_t *)fold__carve(c, nodes, sizeof *v->sorted);
    v->y = (int32_t *)fold__carve(c, nodes, sizeof *v->y);
    v->low = (int32_t *)fold__carve(c, nodes, sizeof *v->low);
    v->sig_at = (uint32_t *)fold__carve(c, sigs, sizeof *v->sig_at);
    v->sig = (fold__seen_sig *)fold__carve(c, sigs, sizeof *v->sig);
}

static int fold__shallower(const void *view, uint32_t a, uint32_t b)
{
    const fold__view *v = (const fold__view *)view;
    const fold_ctx *f = v->f;
    if (v->at[a] != v->at[b])
        return v->at[a] < v->at[b];
    return f->sig[a] != f->sig[b] ? f->sig[a] < f->sig[b] : a < b;
}

/* All calls recorded, those of equal depth and signature as a batch. */
static void fold__view_by_depth(fold__view *v)
{
    const fold_ctx *f = v->f;
    uint32_t depth = 0;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if (!fold__is_op(f, id))
            continue;
        v->work[v->n_calls++] = id;
        for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
            const uint32_t from = fold__call_of(f, f->esrc[e]);
            if (v->at[from] > v->at[id])
                v->at[id] = v->at[from];
        }
        v->at[id]++;
    }
    fold__sort(v->work, v->n_calls, fold__shallower, v);
    for (uint32_t i = 0; i < v->n_calls; i++) {
        const uint32_t id = v->work[i];
        const int same = i && v->at[id] == depth && f->sig[id] == v->batch[v->n_batches - 1].sig;
        if (!same) {
            fold__seen_batch *b = &v->batch[v->n_batches++];
            memset(b, 0, sizeof *b);
            b->sig = f->sig[id];
            b->first = i;
        }
        v->batch[v->n_batches - 1].count++;
        v->batch[v->n_batches - 1].elems += fold__elements_of(f, id);
        depth = v->at[id];
    }
    memset(v->at, 0, ((size_t)f->n_nodes + 1) * sizeof *v->at);
    v->n_groups = 1;
    v->call = v->work;
}

static void fold__view_of_plan(fold__view *v)
{
    const fold__run *r = v->f->run;
    for (uint32_t g = 0; g < r->n.groups; g++)
        for (uint32_t b = r->group[g].batch0; b < r->group[g].batch1; b++) {
            const fold__batch *from = &r->batch[b];
            fold__seen_batch *to = &v->batch[v->n_batches++];
            to->sig = r->form[r->gsig[from->gsig].form].sig;
            to->first = from->first;
            to->count = from->count;
            to->elems = from->elems;
            to->group = g;
            to->prologue = !from->stage;
            if (!to->prologue)
                v->n_calls += to->count;
        }
    v->n_groups = r->n.groups;
    v->call = r->order;
}

/* Which batch each node belongs to, and the signatures. */
static void fold__index_view(fold__view *v)
{
    const fold_ctx *f = v->f;
    for (uint32_t b = 0; b < v->n_batches; b++) {
        const fold__seen_batch *x = &v->batch[b];
        if (x->prologue)
            continue;
        if (!v->sig_at[x->sig]) {
            v->sig_at[x->sig] = ++v->n_sigs;
            v->sig[v->n_sigs - 1].sig = x->sig;
        }
        fold__seen_sig *s = &v->sig[v->sig_at[x->sig] - 1];
        s->calls += x->count;
        s->batches++;
        if (s->last_group != x->group + 1)
            s->groups++;
        s->last_group = x->group + 1;
        for (uint32_t i = 0; i < x->count; i++)
            v->at[v->call[x->first + i]] = b + 1;
    }
    for (uint32_t b = 0; b < v->n_batches; b++)
        for (uint32_t i = 0; i < v->batch[b].count && !v->batch[b].prologue; i++) {
            const uint32_t id = v->call[v->batch[b].first + i];
            for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1]; e++) {
                const uint32_t from = fold__call_of(f, f->esrc[e]);
                if (!v->at[from])
                    v->at[from] = (b + 1) | FOLD__LEAF;
            }
        }
    for (uint32_t g = 0; v->planned && g < f->run->n.gsigs; g++) {
        const fold__gsig *s = &f->run->gsig[g];
        v->sig[v->sig_at[f->run->form[s->form].sig] - 1].chain += s->chain;
    }
}

/* What there is to show; 0 when there is no memory. */
static int fold__view_make(fold_ctx *f, fold__view *v)
{
    const fold__run *r = f->run;
    const fold__error error = f->error; /* whatever happens here is no fault of the recording */
    const size_t lacking = f->lacking;
    fold__carver c = { NULL, 0 };
    memset(v, 0, sizeof *v);
    v->f = f;
    v->planned = r->shown_epoch == f->epoch && r->shown_nodes == f->n_nodes && r->shown_edges == f->n_edges;
    fold__carve_view(v, &c);
    f->pinned++;
    const int fits = fold__need(f, FOLD__C_LOOK, c.at, 1);
    f->pinned--;
    f->error = error;
    f->lacking = lacking;
    if (!fits)
        return 0;
    if (v->planned)
        fold__renew_run(f);
    else
        fold__renew(f);
    memset(f->arrays[FOLD__C_LOOK].p, 0, c.at);
    c.base = f->arrays[FOLD__C_LOOK].p;
    c.at = 0;
    fold__carve_view(v, &c);
    if (v->planned)
        fold__view_of_plan(v);
    else
        fold__view_by_depth(v);
    fold__index_view(v);
    return 1;
}

/* Ends a text; what the view took of a caller's block is free again. */
static fold_status fold__view_end(fold__view *v, fold__text *t)
{
    v->f->arrays[FOLD__C_LOOK].need = 0;
    return fold__text_end(t);
}

static int fold__is_shown(const fold__view *v, uint32_t id) { return v->at[id] && !(v->at[id] & FOLD__LEAF); }
static int fold__is_leaf(const fold__view *v, uint32_t id) { return (v->at[id] & FOLD__LEAF) != 0; }
static uint32_t fold__column(const fold__view *v, uint32_t id) { return (v->at[id] & ~FOLD__LEAF) - 1; }

/* "linear(W, b)", "sum(axis 0)", "compose" */
static void fold__put_signature(fold__text *t, const fold_ctx *f, uint32_t sig)
{
    const fold__sig *s = &fold__sigs(f)[sig];
    fold__put_name(t, fold__request_name(f, s->op), FOLD__WHOLE);
    if (s->is_cell)
        return;
    const fold__program p = fold__program_of(f, s);
    const char *open = "(";
    for (int i = 0; i < 2 && p.op->param[i]; i++, open = ", ") {
        fold__put(t, "%s", open);
        fold__put_name(t, fold__params(f->model)[p.op->param[i] - 1].name, FOLD__WHOLE);
    }
    for (int i = 0; i < fold__op_of(f->model, s->op)->def.n_attr; i++) {
        const char *name = fold__attr_name(s->op, i);
        if (!name && s->op < FOLD__OP_COUNT)
            continue;
        fold__put(t, "%s%s%s", open, name ? name : "", name ? " " : "");
        if (fold__attr_is_float(s->op))
            fold__put(t, "%g", (double)fold__attr_float(p.op->attr[i]));
        else
            fold__put(t, "%d", (int)p.op->attr[i]);
        open = ", ";
    }
    if (*open == ',')
        fold__put_bytes(t, ")", 1);
    if (!s->tag_cell)
        return;
    fold__put_bytes(t, " in ", 4);
    fold__put_name(t, fold__request_name(f, fold__sigs(f)[s->tag_cell].op), FOLD__WHOLE);
}

static const fold_shape *fold__sig_in_shape(const fold_ctx *f, const fold__sig *s, int input)
{
    return &fold__shapes(f)[fold__keys(f)[s->key + s->in_shape + (uint32_t)input]].s;
}

/* Three and more equal shapes in a row are counted: "15 of [1 x 1]". */
static void fold__put_shapes(fold__text *t, const fold_ctx *f, uint32_t sig)
{
    const fold__sig *s = &fold__sigs(f)[sig];
    for (int i = 0, same; i < s->n_in + s->n_list; i += same) {
        const fold_shape *shape = fold__sig_in_shape(f, s, i);
        const int end = i < s->n_in ? s->n_in : s->n_in + s->n_list;
        for (same = 1; i + same < end && !memcmp(shape, fold__sig_in_shape(f, s, i + same), sizeof *shape);)
            same++;
        if (same < 3)
            same = 1;
        fold__put(t, i ? ", %s" : "%s", i >= s->n_in ? "list of " : "");
        if (same > 1)
            fold__put(t, "%d of ", same);
        fold__put_shape(t, shape);
    }
    for (int i = 0; i < s->n_out; i++) {
        fold__put_bytes(t, i ? ", " : " -> ", i ? 2 : 4);
        fold__put_shape(t, &fold__shapes(f)[s->out_shape[i]].s);
    }
}

/* -- as text --------------------------------------------------------------------------------- */

/* What makes a value, as a name, and of calls with several outputs which of them. */
typedef struct fold__maker {
    const char *name;
    int out;
} fold__maker;
static fold__maker fold__maker_of(const fold_ctx *f, uint32_t id)
{
    uint32_t param;
    fold__maker x = { NULL, -1 };
    if (fold__leaf_param(f, id, &param)) {
        x.name = fold__params(f->model)[param].name;
        return x;
    }
    const uint32_t call = fold__call_of(f, id);
    x.name = fold__node_name(f, id);
    if (fold__is_op(f, call) && fold__sigs(f)[f->sig[call]].n_out > 1)
        x.out = (int)(id - call);
    return x;
}

/* Of an operand of all calls of a batch: up to three different makers, the fourth stands for more. */
typedef struct fold__makers {
    fold__maker seen[4];
    int n;
} fold__makers;
static void fold__find_makers(const fold__view *v, const fold__seen_batch *b, int slot, fold__makers *x)
{
    const fold_ctx *f = v->f;
    x->n = 0;
    for (uint32_t i = 0; i < b->count && x->n < 4; i++) {
        const fold__slots s = fold__slots_of(f, v->call[b->first + i]);
        for (uint32_t e = fold__slot_first(&s, slot), end = e + fold__slot_edges(&s, slot);
             e < end && x->n < 4; e++) {
            const fold__maker m = fold__maker_of(f, f->esrc[e]);
            int old = 0;
            while (old < x->n && (x->seen[old].name != m.name || x->seen[old].out != m.out))
                old++;
            if (old == x->n)
                x->seen[x->n++] = m;
        }
    }
}
static int fold__same_makers(const fold__makers *a, const fold__makers *b)
{
    int i = 0;
    while (i < a->n && i < b->n && a->seen[i].name == b->seen[i].name && a->seen[i].out == b->seen[i].out)
        i++;
    return i == a->n && i == b->n;
}
static void fold__put_makers(fold__text *t, const fold__makers *x)
{
    for (int i = 0; i < x->n; i++) {
        if (i)
            fold__put_bytes(t, "|", 1);
        if (i < 3)
            fold__put_name(t, x->seen[i].name, FOLD__WHOLE);
        else
            fold__put_bytes(t, "..", 2);
        if (i < 3 && x->seen[i].out >= 0)
            fold__put(t, ".%d", x->seen[i].out);
    }
    if (x->n)
        fold__put_bytes(t, " ", 1);
}

/* Operands from `slot` on that look the same. */
static int fold__equal_operands(const fold__view *v, const fold__seen_batch *b, int slot,
                                const fold__makers *makers)
{
    const fold__sig *s = &fold__sigs(v->f)[b->sig];
    int same = 1;
    for (fold__makers other; slot + same < s->n_in; same++) {
        fold__find_makers(v, b, slot + same, &other);
        if (((s->shared >> slot ^ s->shared >> (slot + same)) & 1) || !fold__same_makers(makers, &other))
            break;
        if (memcmp(fold__sig_in_shape(v->f, s, slot), fold__sig_in_shape(v->f, s, slot + same),
                   sizeof(fold_shape)))
            break;
    }
    return same < 3 ? 1 : same;
}

static void fold__put_batch(fold__text *t, const fold__view *v, const fold__seen_batch *b)
{
    const fold_ctx *f = v->f;
    const fold__sig *s = &fold__sigs(f)[b->sig];
    fold__put_signature(t, f, b->sig);
    fold__put(t, " = %lu x (", (unsigned long)b->count);
    for (int i = 0, same; i < s->n_in + s->n_list; i += same) {
        fold__makers makers;
        fold__find_makers(v, b, i, &makers);
        same = fold__equal_operands(v, b, i, &makers);
        if (i)
            fold__put_bytes(t, ", ", 2);
        if (same > 1)
            fold__put(t, "%d of ", same);
        if (i < s->n_in && (s->shared >> i & 1))
            fold__put(t, "shared ");
        if (i >= s->n_in)
            fold__put(t, "%lu in lists: ", (unsigned long)b->elems);
        fold__put_makers(t, &makers);
        fold__put_shape(t, fold__sig_in_shape(f, s, i));
    }
    fold__put_bytes(t, ")", 1);
    for (int i = 0; i < s->n_out; i++) {
        fold__put_bytes(t, i ? ", " : " -> ", i ? 2 : 4);
        fold__put_shape(t, &fold__shapes(f)[s->out_shape[i]].s);
    }
    fold__put_bytes(t, "\n", 1);
}

static const char *fold__schedule_name(const fold_ctx *f)
{
    static const char *const name[] = {
#define FOLD__SCHEDULE(name, text) text,
        FOLD_SCHEDULE_LIST(FOLD__SCHEDULE)
#undef FOLD__SCHEDULE
    };
    return name[f->schedule];
}

/* "27 calls in 6 batches, …" */
static void fold__put_head(fold__text *t, const fold__view *v)
{
    uint32_t prologues = 0, bound = 0;
    for (uint32_t b = 0; b < v->n_batches; b++)
        prologues += v->batch[b].prologue != 0;
    for (uint32_t i = 0; i < v->n_sigs; i++)
        bound += v->sig[i].chain;
    fold__put_count(t, v->n_calls, "call");
    fold__put_bytes(t, " in ", 4);
    fold__put_count(t, v->n_batches - prologues, "batch");
    if (prologues)
        fold__put_bytes(t, " and ", 5);
    if (prologues)
        fold__put_count(t, prologues, "prologue");
    if (v->n_groups > 1)
        fold__put_bytes(t, ", ", 2);
    if (v->n_groups > 1)
        fold__put_count(t, v->n_groups, "group");
    if (v->planned)
        fold__put(t, ", lower bound %lu, schedule %s", (unsigned long)bound, fold__schedule_name(v->f));
    else
        fold__put(t, v->f->eager ? " by depth; the context is eager" : " by depth, not run yet");
}

/* Rows looked up in each table, and other leaves. */
static void fold__put_leaves(fold__text *t, const fold__view *v)
{
    const fold_ctx *f = v->f;
    size_t inputs = 0;
    const char *before = "leaves: ";
    uint32_t param;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        inputs += kind == FOLD__INPUT || kind == FOLD__REF;
    }
    if (inputs) {
        fold__put(t, "%s", before);
        fold__put_count(t, inputs, "input");
        before = ", ";
    }
    for (uint32_t p = 0; p < f->model->n_params; p++) {
        size_t rows = 0;
        for (uint32_t id = 1; id <= f->n_nodes; id++)
            rows += fold__leaf_param(f, id, &param) && param == p &&
                    (f->kind[id] & FOLD__KIND_MASK) == FOLD__LOOKUP;
        if (!rows)
            continue;
        fold__put(t, "%s", before);
        fold__put_count(t, rows, "row");
        fold__put_bytes(t, " of ", 4);
        fold__put_name(t, fold__params(f->model)[p].name, FOLD__WHOLE);
        fold__put_bytes(t, " ", 1);
        fold__put_shape(t, &fold__params(f->model)[p].shape);
        before = ", ";
    }
    if (*before == ',')
        fold__put_bytes(t, "\n", 1);
}

FOLD_API fold_status fold_ctx_print(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view v;
    fold__text t;
    unsigned long step = 0;
    if (!fold__view_make(f, &v))
        return FOLD_NO_MEMORY;
    fold__text_start(&t, write, user, FOLD__QUOTE_NONE);
    fold__put_head(&t, &v);
    fold__put_bytes(&t, "\n", 1);
    fold__put_leaves(&t, &v);
    for (uint32_t b = 0; b < v.n_batches && !t.stopped; b++) {
        const fold__seen_batch *x = &v.batch[b];
        if (v.n_groups > 1 && (!b || x->group != v.batch[b - 1].group))
            fold__put(&t, "group %lu\n", x->group + 1ul);
        if (x->prologue)
            fold__put(&t, "prologue: ");
        else
            fold__put(&t, "step %lu: ", ++step);
        fold__put_batch(&t, &v, x);
    }
    if (fold_ctx_status(f)) {
        fold__put(&t, "error: ");
        fold__put_name(&t, fold_ctx_message(f), FOLD__WHOLE);
        fold__put_bytes(&t, "\n", 1);
    }
    return fold__view_end(&v, &t);
}

/* -- why not one batch ----------------------------------------------------------------------- */

static void fold__put_param_or_none(fold__text *t, const fold_ctx *f, uint32_t param)
{
    if (param)
        fold__put_name(t, fold__params(f->model)[param - 1].name, FOLD__WHOLE);
    else
        fold__put(t, "none");
}

/* How the ops, of one signature each, differ; attributes and parameters. Returns how many differences there
 * are. */
static int fold__put_op_differences(fold__text *t, const fold_ctx *f, const fold__sig *a, const fold__sig *b)
{
    const fold__program p = fold__program_of(f, a), q = fold__program_of(f, b);
    int n = 0;
    if (a->is_cell)
        return 0;
    for (int i = 0; i < fold__op_of(f->model, a->op)->def.n_attr; i++) {
        const char *name = fold__attr_name(a->op, i);
        if (p.op->attr[i] == q.op->attr[i])
            continue;
        if (name)
            fold__put(t, "%s%s ", n++ ? ", " : "", name);
        else
            fold__put(t, "%sattribute %d ", n++ ? ", " : "", i);
        if (fold__attr_is_float(a->op))
            fold__put(t, "%g for %g", (double)fold__attr_float(p.op->attr[i]),
                      (double)fold__attr_float(q.op->attr[i]));
        else
            fold__put(t, "%d for %d", (int)p.op->attr[i], (int)q.op->attr[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (p.op->param[i] == q.op->param[i])
            continue;
        fold__put(t, "%sparameter ", n++ ? ", " : "");
        fold__put_param_or_none(t, f, p.op->param[i]);
        fold__put(t, " for ");
        fold__put_param_or_none(t, f, q.op->param[i]);
    }
    return n;
}

/* How one signature of an op differs from another: each part of their keys. */
static void fold__put_differences(fold__text *t, const fold_ctx *f, const fold__sig *a, const fold__sig *b)
{
    int n = fold__put_op_differences(t, f, a, b);
    if (a->n_in != b->n_in)
        fold__put(t, "%s%d inputs for %d", n++ ? ", " : "", a->n_in, b->n_in);
    for (int i = 0; i < a->n_in + a->n_list && a->n_in == b->n_in; i++) {
        const fold_shape *s = fold__sig_in_shape(f, a, i), *o = fold__sig_in_shape(f, b, i);
        if (fold__shape_same(s, o))
            continue;
        fold__put(t, "%s%s %d of shape ", n++ ? ", " : "", i < a->n_in ? "input" : "list component",
                  i < a->n_in ? i : i - a->n_in);
        fold__put_shape(t, s);
        fold__put(t, " for ");
        fold__put_shape(t, o);
    }
    if (a->shared != b->shared)
        fold__put(t, "%sother inputs are shared", n++ ? ", " : "");
    if (a->tag_cell != b->tag_cell || a->tag_op != b->tag_op)
        fold__put(t, "%sanother place in a cell", n++ ? ", " : "");
    if (!n)
        fold__put(t, "another value is shared");
}

/* How many parts of two keys differ; keys of other lengths differ most. */
static uint32_t fold__key_distance(const fold_ctx *f, const fold__sig *a, const fold__sig *b)
{
    const uint32_t *x = fold__keys(f) + a->key, *y = fold__keys(f) + b->key;
    uint32_t n = 0;
    if (a->key_words != b->key_words)
        return FOLD__NONE - 1;
    for (uint32_t i = 0; i < a->key_words; i++)
        n += x[i] != y[i];
    return n;
}

/* The signatures of one op, the i-th of the view being the first, each with what tells it from the one most
 * like it. */
enum { FOLD__COMPARED = 64 };
static void fold__put_op_splits(fold__text *t, const fold__view *v, uint32_t first, unsigned long count)
{
    const fold_ctx *f = v->f;
    const uint32_t op = fold__sigs(f)[v->sig[first].sig].op;
    fold__put_name(t, fold__request_name(f, op), FOLD__WHOLE);
    fold__put(t, ": %lu signatures\n", count);
    for (uint32_t i = first; i < v->n_sigs; i++) {
        const fold__sig *s = &fold__sigs(f)[v->sig[i].sig], *like = NULL;
        uint32_t best = FOLD__NONE, number = 0, at = 0;
        if (s->op != op)
            continue;
        for (uint32_t k = first, n = 0; k < i && n < FOLD__COMPARED; k++) {
            const fold__sig *o = &fold__sigs(f)[v->sig[k].sig];
            if (o->op != op)
                continue;
            n++;
            const uint32_t distance = fold__key_distance(f, s, o);
            if (distance < best) {
                best = distance;
                like = o;
                at = n;
            }
        }
        for (uint32_t k = first; k <= i; k++)
            number += fold__sigs(f)[v->sig[k].sig].op == op;
        fold__put(t, "  %lu. %lu x ", (unsigned long)number, (unsigned long)v->sig[i].calls);
        fold__put_signature(t, f, v->sig[i].sig);
        fold__put_bytes(t, ": ", 2);
        fold__put_shapes(t, f, v->sig[i].sig);
        if (like) {
            fold__put(t, "; unlike %lu: ", (unsigned long)at);
            fold__put_differences(t, f, s, like);
        }
        fold__put_bytes(t, "\n", 1);
    }
}

/* Why a signature has more than one batch. */
static void fold__put_batch_splits(fold__text *t, const fold__view *v, const fold__seen_sig *s)
{
    fold__put_signature(t, v->f, s->sig);
    fold__put_bytes(t, ": ", 2);
    fold__put_count(t, s->calls, "call");
    fold__put(t, " in %lu batches: ", (unsigned long)s->batches);
    if (!v->planned)
        fold__put(t, "of several depths");
    else if (s->chain > s->groups)
        fold__put(t, "%lu because some read others", (unsigned long)s->chain);
    if (v->planned && s->groups > 1)
        fold__put(t, "%sin %lu groups of samples", s->chain > s->groups ? ", " : "",
                  (unsigned long)s->groups);
    if (v->planned && s->batches > s->chain)
        fold__put(t, "%s%lu more by the schedule", s->chain > s->groups || s->groups > 1 ? ", " : "",
                  (unsigned long)(s->batches - s->chain));
    fold__put_bytes(t, "\n", 1);
}

FOLD_API fold_status fold_ctx_print_splits(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view v;
    fold__text t;
    if (!fold__view_make(f, &v))
        return FOLD_NO_MEMORY;
    fold__text_start(&t, write, user, FOLD__QUOTE_NONE);
    fold__put_head(&t, &v);
    fold__put_bytes(&t, "\n", 1);
    for (uint32_t i = 0; i < v.n_sigs && !t.stopped; i++) {
        const uint32_t op = fold__sigs(f)[v.sig[i].sig].op;
        unsigned long count = 0;
        uint32_t first = 0;
        while (fold__sigs(f)[v.sig[first].sig].op != op)
            first++;
        for (uint32_t k = i; k < v.n_sigs && first == i; k++)
            count += fold__sigs(f)[v.sig[k].sig].op == op;
        if (count > 1)
            fold__put_op_splits(&t, &v, i, count);
    }
    for (uint32_t i = 0; i < v.n_sigs && !t.stopped; i++)
        if (v.sig[i].batches > 1)
            fold__put_batch_splits(&t, &v, &v.sig[i]);
    return fold__view_end(&v, &t);
}

/* -- pictures -------------------------------------------------------------------------------- */

/* Signatures get hues a golden angle apart. */
static int fold__hue(uint32_t i) { return (int)((i * 137u + 210u) % 360u); }

/* "embed 7", "W", "input 3", of a value that an earlier run made "compose 12". */
static void fold__put_leaf(fold__text *t, const fold_ctx *f, uint32_t id, int characters)
{
    const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
    fold__put_name(t, fold__maker_of(f, id).name, characters);
    if (kind != FOLD__PARAM)
        fold__put(t, " %lu", (unsigned long)(kind == FOLD__LOOKUP ? (uint32_t)f->node_data[id] : id));
}

/* Whether one of the operands before it is the same node: pictures show one edge for both. */
static int fold__drawn_before(const fold_ctx *f, uint32_t id, uint32_t e)
{
    enum { BACK = 16 };
    const uint32_t from = fold__call_of(f, f->esrc[e]);
    for (uint32_t i = e; i > f->edge0[id] && e - i < BACK; i--)
        if (fold__call_of(f, f->esrc[i - 1]) == from)
            return 1;
    return 0;
}

FOLD_API fold_status fold_ctx_print_dot(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view v;
    fold__text t;
    unsigned long step = 0;
    if (!fold__view_make(f, &v))
        return FOLD_NO_MEMORY;
    fold__text_start(&t, write, user, FOLD__QUOTE_JSON);
    fold__put(&t, "digraph fold {\n  rankdir=LR; fontname=\"sans-serif\"; label=\"");
    fold__put_head(&t, &v);
    fold__put(&t,
              "\";\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=10];\n");
    for (uint32_t b = 0; b < v.n_batches && !t.stopped; b++) {
        const fold__seen_batch *x = &v.batch[b];
        const int hue = fold__hue(v.sig_at[x->sig] - 1) * 1000 / 360;
        if (x->prologue)
            continue;
        fold__put(&t, "  subgraph cluster_%lu {\n    color=gray; label=\"%lu: ", b + 1ul, ++step);
        fold__put_signature(&t, f, x->sig);
        fold__put(&t, " x %lu\";\n    node [fillcolor=\"0.%03d 0.45 0.95\"];\n", (unsigned long)x->count,
                  hue);
        for (uint32_t i = 0; i < x->count; i++) {
            fold__put(&t, "    n%lu [label=\"", (unsigned long)v.call[x->first + i]);
            fold__put_name(&t, fold__request_name(f, fold__sigs(f)[x->sig].op), 16);
            fold__put(&t, " %lu\"];\n", (unsigned long)v.call[x->first + i]);
        }
        fold__put(&t, "  }\n");
    }
    for (uint32_t id = 1; id <= f->n_nodes && !t.stopped; id++) {
        if (!fold__is_leaf(&v, id))
            continue;
        fold__put(&t, "  n%lu [fillcolor=white, label=\"", (unsigned long)id);
        fold__put_leaf(&t, f, id, FOLD__WHOLE);
        fold__put(&t, "\"];\n");
    }
    for (uint32_t id = 1; id <= f->n_nodes && !t.stopped; id++)
        for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1] && fold__is_shown(&v, id); e++)
            if (!fold__drawn_before(f, id, e))
                fold__put(&t, "  n%lu -> n%lu;\n", (unsigned long)fold__call_of(f, f->esrc[e]),
                          (unsigned long)id);
    fold__put(&t, "}\n");
    return fold__view_end(&v, &t);
}

/* Sizes in a picture: a lane holds one node; leaves are drawn in the space before the column of their first
   reader. What would take more lanes than there are is not drawn but counted. */
enum {
    FOLD__MOST_LANES = 64,
    FOLD__LANE = 24,
    FOLD__NODE_W = 38,
    FOLD__NODE_H = 16,
    FOLD__LEAF_W = 66,
    FOLD__SPACE = 40,
    FOLD__TOP = 100,
    FOLD__LEFT = 16,
    FOLD__HIDDEN = INT32_MIN /* the height of a node that is not drawn */
};

static int fold__is_drawn(const fold__view *v, uint32_t id) { return v->at[id] && v->y[id] != FOLD__HIDDEN; }
static uint32_t fold__count_hidden(const fold__view *v, const fold__seen_batch *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->count; i++)
        n += !fold__is_drawn(v, v->call[b->first + i]);
    return n;
}

static int fold__higher(const void *view, uint32_t a, uint32_t b)
{
    const fold__view *v = (const fold__view *)view;
    return v->y[a] != v->y[b] ? v->y[a] < v->y[b] : a < b;
}

/* Moves n nodes of a column apart, as little as need be: halfway between the nearest places that fit
   downwards and upwards. */
static void fold__part_column(fold__view *v, uint32_t *id, uint32_t n)
{
    fold__sort(id, n, fold__higher, v);
    for (uint32_t i = 0; i < n; i++) {
        v->low[i] = v->y[id[i]];
        if (i && v->low[i] < v->low[i - 1] + FOLD__LANE)
            v->low[i] = v->low[i - 1] + FOLD__LANE;
    }
    for (uint32_t i = n; i-- > 1;)
        if (v->y[id[i - 1]] > v->y[id[i]] - FOLD__LANE)
            v->y[id[i - 1]] = v->y[id[i]] - FOLD__LANE;
    for (uint32_t i = 0; i < n; i++)
        v->y[id[i]] = (v->y[id[i]] + v->low[i]) / 2;
}

/* Whether a call has a lane: one that reads nothing has one already, another needs operands that are drawn.
   Then it lies at their mean height. */
static int fold__place_call(fold__view *v, uint32_t id, int needs_all)
{
    const fold_ctx *f = v->f;
    const uint32_t first = f->edge0[id], end = f->edge0[id + 1];
    int64_t sum = 0, drawn = 0;
    if (first == end)
        return fold__is_drawn(v, id);
    v->y[id] = FOLD__HIDDEN;
    for (uint32_t e = first; e < end; e++) {
        const uint32_t from = fold__call_of(f, f->esrc[e]);
        if (!fold__is_drawn(v, from))
            continue;
        sum += v->y[from];
        drawn++;
    }
    if (!drawn || (needs_all && drawn < (int64_t)(end - first)))
        return 0;
    v->y[id] = (int32_t)(sum / drawn);
    return 1;
}

/* The calls of a column that are drawn: those all of whose operands are, so that samples are whole; where
   there is none, such as what joins all samples, those that read anything drawn. */
static void fold__lay_out_column(fold__view *v, const fold__seen_batch *b)
{
    uint32_t n = 0;
    for (int needs_all = 1; needs_all >= 0 && !n; needs_all--)
        for (uint32_t i = 0; i < b->count; i++) {
            const uint32_t id = v->call[b->first + i];
            if (n < FOLD__MOST_LANES && fold__place_call(v, id, needs_all))
                v->sorted[n++] = id;
            else
                v->y[id] = FOLD__HIDDEN;
        }
    fold__part_column(v, v->sorted, n);
}

/* Leaves, and calls that read nothing, take a lane each as they were recorded, as long as there are lanes;
   the columns follow from left to right. Returns the height of it all. */
static int32_t fold__lay_out(fold__view *v)
{
    const fold_ctx *f = v->f;
    int32_t lanes = 0, top = 0, bottom = 0;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (fold__is_leaf(v, id) || (fold__is_shown(v, id) && f->edge0[id] == f->edge0[id + 1]))
            v->y[id] = lanes < FOLD__MOST_LANES ? FOLD__LANE * lanes++ : FOLD__HIDDEN;
    for (uint32_t b = 0; b < v->n_batches; b++)
        if (!v->batch[b].prologue)
            fold__lay_out_column(v, &v->batch[b]);
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if (!fold__is_drawn(v, id))
            continue;
        if (v->y[id] < top)
            top = v->y[id];
        if (v->y[id] > bottom)
            bottom = v->y[id];
    }
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (fold__is_drawn(v, id))
            v->y[id] += FOLD__TOP - top;
    return bottom - top + FOLD__LANE;
}

/* Gives each column its place; returns the width of it all. */
static int fold__place_columns(fold__view *v)
{
    int x = FOLD__LEFT;
    for (uint32_t id = 1; id <= v->f->n_nodes; id++)
        if (fold__is_leaf(v, id) && fold__is_drawn(v, id))
            v->batch[fold__column(v, id)].x = FOLD__LEAF_W;
    for (uint32_t b = 0; b < v->n_batches; b++) {
        if (v->batch[b].prologue)
            continue;
        x += v->batch[b].x + FOLD__SPACE;
        v->batch[b].x = x;
        x += FOLD__NODE_W;
    }
    return x + FOLD__SPACE;
}

static void fold__svg_columns(fold__text *t, const fold__view *v, int height)
{
    const fold_ctx *f = v->f;
    unsigned long step = 0, group = 0;
    for (uint32_t b = 0; b < v->n_batches; b++) {
        const fold__seen_batch *x = &v->batch[b];
        const int middle = x->x + FOLD__NODE_W / 2;
        if (x->prologue)
            continue;
        fold__put(
            t, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"hsl(%d,60%%,95%%)\"/>\n",
            x->x - 8, FOLD__TOP - 20, FOLD__NODE_W + 16, height, fold__hue(v->sig_at[x->sig] - 1));
        fold__put(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\"><tspan font-weight=\"bold\">%lu</tspan>",
                  middle, FOLD__TOP - 50, ++step);
        fold__put(t, "<tspan x=\"%d\" dy=\"13\" font-size=\"10\">", middle);
        fold__put_name(t, fold__request_name(f, fold__sigs(f)[x->sig].op), 12);
        fold__put(t, "</tspan><tspan x=\"%d\" dy=\"12\" font-size=\"10\">&#215;%lu</tspan></text>\n", middle,
                  (unsigned long)x->count);
        if (fold__count_hidden(v, x))
            fold__put(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"10\">+%lu</text>\n",
                      middle, FOLD__TOP - 26 + height, (unsigned long)fold__count_hidden(v, x));
        if (v->n_groups > 1 && x->group + 1ul != group)
            fold__put(t, "<text x=\"%d\" y=\"%d\" fill=\"gray\">group %lu</text>\n", x->x - 8, FOLD__TOP - 66,
                      group = x->group + 1ul);
    }
}

static void fold__svg_edges(fold__text *t, const fold__view *v)
{
    const fold_ctx *f = v->f;
    fold__put(t, "<g fill=\"none\" stroke=\"#667\" stroke-opacity=\"0.6\">\n");
    for (uint32_t id = 1; id <= f->n_nodes && !t->stopped; id++)
        for (uint32_t e = f->edge0[id]; e < f->edge0[id + 1] && fold__is_shown(v, id); e++) {
            const uint32_t from = fold__call_of(f, f->esrc[e]);
            const int x = v->batch[fold__column(v, from)].x +
                          (fold__is_leaf(v, from) ? -FOLD__SPACE / 2 : FOLD__NODE_W),
                      to = v->batch[fold__column(v, id)].x;
            const int bend = (to - x) / 2;
            if (fold__drawn_before(f, id, e) || !fold__is_drawn(v, id) || !fold__is_drawn(v, from))
                continue;
            fold__put(t, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x, (int)v->y[from], x + bend,
                      (int)v->y[from], to - bend, (int)v->y[id], to, (int)v->y[id]);
        }
    fold__put(t, "</g>\n");
}

static void fold__svg_nodes(fold__text *t, const fold__view *v)
{
    const fold_ctx *f = v->f;
    for (uint32_t id = 1; id <= f->n_nodes && !t->stopped; id++) {
        if (!fold__is_drawn(v, id))
            continue;
        const fold__seen_batch *b = &v->batch[fold__column(v, id)];
        const int leaf = fold__is_leaf(v, id), width = leaf ? FOLD__LEAF_W : FOLD__NODE_W,
                  x = b->x - (leaf ? FOLD__SPACE / 2 + FOLD__LEAF_W : 0);
        fold__put(t, "<g><title>");
        if (leaf)
            fold__put_leaf(t, f, id, FOLD__WHOLE);
        else
            fold__put_signature(t, f, b->sig);
        fold__put(t, ", node %lu</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" ",
                  (unsigned long)id, x, (int)v->y[id] - FOLD__NODE_H / 2, width, FOLD__NODE_H);
        if (leaf)
            fold__put(t, "fill=\"white\" stroke=\"#aab\"/>");
        else
            fold__put(t, "fill=\"hsl(%d,60%%,75%%)\" stroke=\"hsl(%d,50%%,45%%)\"/>",
                      fold__hue(v->sig_at[b->sig] - 1), fold__hue(v->sig_at[b->sig] - 1));
        fold__put(t, "<text x=\"%d\" y=\"%d\" font-size=\"9\" text-anchor=\"middle\">", x + width / 2,
                  (int)v->y[id] + 3);
        if (leaf)
            fold__put_leaf(t, f, id, 8);
        else
            fold__put(t, "%lu", (unsigned long)id);
        fold__put(t, "</text></g>\n");
    }
}

static void fold__svg_legend(fold__text *t, const fold__view *v, int y)
{
    for (uint32_t i = 0; i < v->n_sigs && !t->stopped; i++, y += 18) {
        fold__put(t,
                  "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" rx=\"3\" "
                  "fill=\"hsl(%d,60%%,75%%)\"/><text x=\"%d\" y=\"%d\">",
                  FOLD__LEFT, y - 10, fold__hue(i), FOLD__LEFT + 22, y);
        fold__put_signature(t, v->f, v->sig[i].sig);
        fold__put(t, ": ");
        fold__put_shapes(t, v->f, v->sig[i].sig);
        fold__put(t, "; ");
        fold__put_count(t, v->sig[i].calls, "call");
        fold__put(t, " in ");
        fold__put_count(t, v->sig[i].batches, "batch");
        fold__put(t, "</text>\n");
    }
}

FOLD_API fold_status fold_ctx_print_svg(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view v;
    fold__text t;
    if (!fold__view_make(f, &v))
        return FOLD_NO_MEMORY;
    fold__text_start(&t, write, user, FOLD__QUOTE_XML);
    uint32_t hidden = 0;
    int lanes = fold__lay_out(&v);
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        hidden += v.at[id] && v.y[id] == FOLD__HIDDEN;
    lanes += hidden ? FOLD__LANE : 0; /* where what is not drawn is counted */
    const int columns = fold__place_columns(&v), width = columns < 560 ? 560 : columns,
              height = FOLD__TOP + lanes + 18 * (int)v.n_sigs + 24;
    fold__put(&t,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ",
              width, height, width, height);
    fold__put(&t,
              "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
              "fill=\"white\"/>\n<text x=\"%d\" y=\"16\">",
              FOLD__LEFT);
    fold__put_head(&t, &v);
    if (hidden)
        fold__put(&t, "; drawn are the first samples, + counts all other calls");
    fold__put(&t, "</text>\n");
    fold__svg_columns(&t, &v, lanes + 8);
    fold__svg_edges(&t, &v);
    fold__svg_nodes(&t, &v);
    fold__svg_legend(&t, &v, FOLD__TOP + lanes + 20);
    fold__put(&t, "</svg>\n");
    return fold__view_end(&v, &t);
}

/* -- times ----------------------------------------------------------------------------------- */

/* Nanoseconds as microseconds: no locale's comma. */
static void fold__put_time(fold__text *t, const char *key, uint64_t ns)
{
    fold__put(t, ",\"%s\":%.0f.%03u", key, (double)(ns / 1000), (unsigned)(ns % 1000));
}

static void fold__put_event(fold__text *t, const fold_ctx *f, const fold__event *e, int lane)
{
    fold__put(t, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"cat\":\"%s%s\",\"name\":\"", lane,
              e->kind & FOLD__EVENT_BACKWARD ? "backward" : "forward",
              e->kind & FOLD__EVENT_PROLOGUE ? ",prologue" : "");
    fold__put_signature(t, f, e->sig);
    fold__put(t, "\"");
    fold__put_time(t, "ts", e->start - f->run->began);
    fold__put_time(t, "dur", e->end - e->start);
    fold__put(t, ",\"args\":{\"calls\":%lu,\"group\":%lu,\"shapes\":\"", (unsigned long)e->calls,
              (unsigned long)e->group + 1);
    fold__put_shapes(t, f, e->sig);
    fold__put(t, "\"}}");
}

FOLD_API fold_status fold_ctx_print_trace(const fold_ctx *f, fold_writer *write, void *user)
{
    const fold__run *r = f->run;
    const fold__event *event = (const fold__event *)(const void *)f->arrays[FOLD__C_TRACE].p;
    fold__text t;
    size_t dropped = 0;
    const int ran = f->trace_events && r->shown_epoch == f->epoch;
    fold__text_start(&t, write, user, FOLD__QUOTE_JSON);
    fold__put(&t, "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
                  "\"fold\"}}");
    if (ran) {
        fold__put(&t, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"cat\":\"plan\",\"name\":\"plan\",\"ts\":0");
        fold__put_time(&t, "dur", f->stats.schedule_ns);
        fold__put(&t, "}");
    }
    for (int i = 0; i < f->threads && ran; i++) {
        const fold__worker *x = (const fold__worker *)(const void *)f->arrays[FOLD__C_WORKERS].p + i;
        const size_t n = fold__min_size(x->events, f->trace_events);
        for (size_t k = 0; k < n && !t.stopped; k++)
            fold__put_event(&t, f, &event[(size_t)i * f->trace_events + k], i);
        dropped += x->events - n;
    }
    fold__put(&t, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%lu}}\n",
              (unsigned long)dropped);
    return fold__text_end(&t);
}

/* -- a model --------------------------------------------------------------------------------- */

static void fold__put_spaces(fold__text *t, size_t used, size_t width)
{
    for (; used < width; used++)
        fold__put_bytes(t, " ", 1);
}

static void fold__put_param(fold__text *t, const fold_model *m, const fold__param_data *p, size_t widest)
{
    char shape[64];
    const size_t length = fold__shape_text(shape, sizeof shape, 0, &p->shape);
    fold__put_name(t, p->name, FOLD__WHOLE);
    fold__put_spaces(t, strlen(p->name), widest);
    fold__put(t, "  %s", shape);
    fold__put_spaces(t, length, 18);
    fold__put(t, " %11lu%14lu", (unsigned long)p->size, (unsigned long)(p->size * sizeof(float)));
    if (p->uses & FOLD_FOR_LOOKUP)
        fold__put(t, "  lookups");
    if (p->buffer)
        fold__put(t, "  buffer");
    else if (!fold__trainable(m, p))
        fold__put(t, "  frozen");
    if (p->rate_set)
        fold__put(t, "  rate set %d", p->rate_set);
    fold__put_bytes(t, "\n", 1);
}

FOLD_API fold_status fold_model_print(const fold_model *m, fold_writer *write, void *user)
{
    fold__text t;
    size_t widest = 10, values = 0, trained = 0;
    for (uint32_t i = 0; i < m->n_params; i++)
        widest = fold__max_size(widest, fold__min_size(strlen(fold__params(m)[i].name), 40));
    fold__text_start(&t, write, user, FOLD__QUOTE_NONE);
    fold__put(&t, "parameters");
    fold__put_spaces(&t, 10, widest);
    fold__put(&t, "  shape                   values         bytes\n");
    for (uint32_t i = 0; i < m->n_params; i++) {
        const fold__param_data *p = &fold__params(m)[i];
        fold__put_param(&t, m, p, widest);
        values += p->size;
        trained += fold__trainable(m, p) ? p->size : 0;
    }
    fold__put(&t, "%lu parameters, %lu values, %lu of them trained; ", (unsigned long)m->n_params,
              (unsigned long)values, (unsigned long)trained);
    fold__put(&t, "bytes: %lu held, of which packed weights %lu\n", (unsigned long)m->arena.bytes,
              (unsigned long)(m->packs * sizeof(float)));
    for (uint32_t i = 0; i < m->n_cells; i++) {
        const fold__cell_data *c = &fold__cells(m)[i];
        if (c->is_projected)
            continue;
        fold__put(&t, "cell ");
        fold__put_name(&t, c->name, FOLD__WHOLE);
        fold__put(&t, ": ");
        fold__put_count(&t, (size_t)c->desc.n_in, "input");
        if (c->desc.n_list)
            fold__put(&t, ", lists of %d", c->desc.n_list);
        fold__put(&t, ", ");
        fold__put_count(&t, (size_t)c->desc.n_out, "output");
        fold__put(&t, ", ");
        fold__put_count(&t, (size_t)c->program.n_ops, "op");
        fold__put_bytes(&t, "\n", 1);
    }
    return fold__text_end(&t);
}

/* ==== room: files ============================================================================
   Owns: the safetensors format, both ways. Calls: text, model, optimisers. Trusts nothing that it reads. */

enum {
    FOLD__DTYPES_READ = 4,
    FOLD__HEADER_LIMIT = 100000000,
    FOLD__LEAST_TENSOR = 48
}; /* bytes of an entry */

/* The format's types, those that can be read first. Others, and those of less than a byte, have no size here.
 */
static const struct fold__dtype {
    char name[8];
    int bytes;
} fold__dtypes[] = { { "F32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "F64", 8 }, { "BOOL", 1 },
                     { "U8", 1 },  { "I8", 1 },  { "I16", 2 },  { "U16", 2 }, { "I32", 4 },
                     { "U32", 4 }, { "I64", 8 }, { "U64", 8 },  { "C64", 8 }, { "another", 0 } };
enum { FOLD__DTYPES = sizeof fold__dtypes / sizeof *fold__dtypes };

/* A span of the model: part 0 is the values, 1 and 2 the optimiser's state. */
static float *fold__part(const fold_model *m, int part)
{
    static const int which[] = { FOLD__M_VALUES, FOLD__M_STATE1, FOLD__M_STATE2 };
    return (float *)(void *)m->arrays[which[part]].p;
}
static int fold__parts_of(int rule) { return rule == FOLD__RULE_sgd ? 1 : rule == FOLD__RULE_adam ? 3 : 2; }
static const char *fold__rule_name(int rule)
{
    static const char *const name[] = { "none", "momentum", "squares", "adam" };
    return name[rule];
}
/* What the names of a part's tensors begin with. */
static const char *fold__part_name(int rule, int part)
{
    static const char *const name[] = { "", "optimizer.momentum.", "optimizer.squares.",
                                        "optimizer.adam.m." };
    return !part ? "" : part == 2 ? "optimizer.adam.v." : name[rule];
}

/* -- saving ---------------------------------------------------------------------------------- */

FOLD_API fold_save_desc fold_save_desc_default(void)
{
    fold_save_desc d;
    memset(&d, 0, sizeof d);
    return d;
}
FOLD_API uint64_t fold_model_steps(const fold_model *m) { return m->steps; }

static int fold__is_text(const char *s)
{
    for (int n; *s; s += n)
        if (!(n = fold__utf8(s)))
            return 0;
    return 1;
}

/* 0 and an error when there is something that a file cannot hold. */
static int fold__can_save(fold_model *m, const fold_save_desc *d)
{
    for (uint32_t i = 0; i < m->n_params; i++) {
        const char *name = fold__params(m)[i].name;
        if (!strncmp(name, "optimizer.", 10) || !strcmp(name, "__metadata__")) {
            fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: in files the name '%s' stands for something else",
                             name);
            return 0;
        }
        if (fold__is_text(name))
            continue;
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: the name of parameter %lu is not UTF-8",
                         (unsigned long)i);
        return 0;
    }
    if (d->config && !fold__is_text(d->config))
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: config is not UTF-8");
    return !m->error.status;
}

/* State that is zero because it was never needed is left out. */
static int fold__is_saved(const fold_model *m, const fold__param_data *p, int part)
{
    if (!part || fold__trainable(m, p))
        return 1;
    const float *s = fold__part(m, part) + p->at;
    size_t i = 0;
    while (i < p->size && s[i] == 0)
        i++;
    return i < p->size;
}

static void fold__put_header(fold__text *t, const fold_model *m, const fold_save_desc *d)
{
    unsigned long long at = 0;
    fold__put(t, "{\"__metadata__\":{\"producer\":\"fold.h " FOLD_VERSION "\"");
    if (d->state)
        fold__put(t, ",\"optimizer\":\"%s\"", fold__rule_name(m->rule));
    if (d->state)
        fold__put(t, ",\"steps\":\"%llu\"", (unsigned long long)m->steps);
    if (d->config) {
        fold__put(t, ",\"config\":\"");
        fold__put_name(t, d->config, FOLD__WHOLE);
        fold__put(t, "\"");
    }
    fold__put(t, "}");
    for (int part = 0; part < (d->state ? fold__parts_of(m->rule) : 1); part++)
        for (uint32_t i = 0; i < m->n_params; i++) {
            const fold__param_data *p = &fold__params(m)[i];
            if (!fold__is_saved(m, p, part))
                continue;
            fold__put(t, ",\"%s", fold__part_name(m->rule, part));
            fold__put_name(t, p->name, FOLD__WHOLE);
            fold__put(t, "\":{\"dtype\":\"F32\",\"shape\":");
            for (int k = 0; k < p->shape.rank; k++)
                fold__put(t, "%c%d", k ? ',' : '[', p->shape.dim[k]);
            fold__put(t, "],\"data_offsets\":[%llu,%llu]}", at, at + 4ull * p->size);
            at += 4ull * p->size;
        }
    fold__put(t, "}");
}

static int fold__count_bytes(const void *bytes, size_t n, void *count)
{
    (void)bytes;
    *(size_t *)count += n;
    return 0;
}

/* Writes n floats, little-endian; nonzero when the writer stopped. */
static int fold__write_floats(fold_writer *write, void *user, const float *x, size_t n)
{
    enum { PIECE = 64 };
    unsigned char bytes[PIECE * 4];
    for (size_t at = 0, part; at < n; at += part) {
        part = fold__min_size(n - at, PIECE);
        for (size_t i = 0; i < part; i++) {
            uint32_t bits;
            memcpy(&bits, x + at + i, 4);
            for (int k = 0; k < 4; k++)
                bytes[4 * i + (size_t)k] = (unsigned char)(bits >> 8 * k);
        }
        if (write(bytes, part * 4, user))
            return 1;
    }
    return 0;
}

/* FOLD_IO, with nothing said yet, when the writer stopped. */
static fold_status fold__write_file(fold_model *m, fold_writer *write, void *user, const fold_save_desc *desc)
{
    const fold_save_desc d = desc ? *desc : fold_save_desc_default();
    const int parts = d.state ? fold__parts_of(m->rule) : 1;
    fold__text t;
    size_t length = 0;
    unsigned char head[8];
    if (!fold__can_save(m, &d) || !fold__states_ready(m, parts - 1))
        return m->error.status;
    fold__text_start(&t, fold__count_bytes, &length, FOLD__QUOTE_JSON);
    fold__put_header(&t, m, &d);
    fold__text_end(&t);
    const size_t padded = fold__round_up(length, 8);
    if (padded > FOLD__HEADER_LIMIT)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: names and config take over 100 MB");
    if (m->error.status)
        return m->error.status;
    for (int k = 0; k < 8; k++)
        head[k] = (unsigned char)((uint64_t)padded >> 8 * k);
    fold__text_start(&t, write, user, FOLD__QUOTE_JSON);
    fold__put_bytes(&t, (const char *)head, sizeof head);
    fold__put_header(&t, m, &d);
    fold__put_spaces(&t, length, padded);
    if (fold__text_end(&t))
        return FOLD_IO;
    for (int part = 0; part < parts; part++)
        for (uint32_t i = 0; i < m->n_params; i++) {
            const fold__param_data *p = &fold__params(m)[i];
            if (!fold__is_saved(m, p, part))
                continue;
            if (fold__write_floats(write, user, fold__part(m, part) + p->at, p->size))
                return FOLD_IO;
        }
    return FOLD_OK;
}

FOLD_API fold_status fold_model_save_to(fold_model *m, fold_writer *write, void *user,
                                        const fold_save_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    if (!write)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: no writer");
    if (m->error.status)
        return m->error.status;
    if (fold__write_file(m, write, user, desc) == FOLD_IO)
        fold__model_fail(m, FOLD_IO, "save: the writer stopped");
    return m->error.status;
}

#ifndef FOLD_NO_STDIO
static const char *fold__path_problem(void)
{
    return errno ? strerror(errno) : "it cannot be read or written";
}
static void fold__path_fail(fold_model *m, const char *who, const char *path)
{
    fold__model_fail(m, FOLD_IO, "%s: '%.120s': %.60s", who, path, fold__path_problem());
}

/* What C has no words for: a new file whose name nobody else can take, and waiting for the disk. A new file's
   descriptor is for those two; stdio writes it. */
enum { FOLD__TAKEN = -2 }; /* instead of a descriptor: the name is not free; -1: another reason */

#if defined(FOLD__DISK_POSIX)
#if !defined(__cplusplus) && (!defined(_POSIX_C_SOURCE) || _POSIX_C_SOURCE < 200112L)
ssize_t readlink(const char *path, char *to, size_t size); /* headers hide it from strict C */
#endif
static int fold__disk_create(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    return file < 0 && errno == EEXIST ? FOLD__TAKEN : file;
}
/* Nonzero when the disk fails; that a file system has nothing to wait for is no failure. */
static int fold__disk_sync(int file)
{
#ifdef F_FULLFSYNC
    if (!fcntl(file, F_FULLFSYNC))
        return 0; /* there fsync does not wait for the drive's own cache */
#endif
    while (fsync(file))
        if (errno != EINTR)
            return errno != EINVAL && errno != ENOSYS && errno != ENOTSUP;
    return 0;
}
static void fold__disk_close(int file) { close(file); }
static int fold__disk_rename(const char *from, const char *to) { return rename(from, to); }
/* `path` is cut to its folder. A folder that cannot be opened is left to the system. */
static int fold__disk_sync_folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    const int folder = open(slash ? path : ".", O_RDONLY);
    const int failed = folder >= 0 && fold__disk_sync(folder);
    if (folder >= 0)
        close(folder);
    return failed;
}
/* Whether a file may be put there: over a regular one, or where nothing is. */
static int fold__disk_replaceable(const char *path)
{
    struct stat there;
    char target;
    return readlink(path, &target, 1) < 0 && (stat(path, &there) || S_ISREG(there.st_mode));
}
#elif defined(FOLD__DISK_WINDOWS)
#ifdef __cplusplus
extern "C"
#endif
    __declspec(dllimport) int __stdcall MoveFileExA(const char *from, const char *to, unsigned long flags);
static int fold__disk_create(const char *path)
{
    const int file = _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY, _S_IREAD | _S_IWRITE);
    return file < 0 && errno == EEXIST ? FOLD__TAKEN : file;
}
static int fold__disk_sync(int file) { return _commit(file); }
static void fold__disk_close(int file) { _close(file); }
static int fold__disk_rename(const char *from, const char *to)
{
    const unsigned long replace_existing = 1, write_through = 8;
    errno = 0;
    return !MoveFileExA(from, to, replace_existing | write_through);
}
static int fold__disk_sync_folder(char *path)
{
    (void)path; /* moving waited for it */
    return 0;
}
static int fold__disk_replaceable(const char *path)
{
    struct _stat there;
    return _stat(path, &there) || (there.st_mode & _S_IFMT) == _S_IFREG;
}
#else /* C alone: savers to one path take turns, and the system writes when it likes */
static int fold__disk_create(const char *path)
{
    FILE *there = fopen(path, "rb");
    return there ? (fclose(there), FOLD__TAKEN) : 0;
}
static int fold__disk_sync(int file)
{
    (void)file;
    return 0;
}
static void fold__disk_close(int file) { (void)file; }
static int fold__disk_rename(const char *from, const char *to) { return rename(from, to); }
static int fold__disk_sync_folder(char *path)
{
    (void)path;
    return 0;
}
static int fold__disk_replaceable(const char *path)
{
    (void)path;
    return 1;
}
#endif

/* A draft is the file before it gets its name. Gives the draft's own name, the first of 100 that is free. */
enum { FOLD__DRAFTS = 100 };
static int fold__draft_new(fold_model *m, const char *path, char *draft, size_t size)
{
    int file = FOLD__TAKEN;
    snprintf(draft, size, "%s.tmp", path);
    for (int i = 1; (file = fold__disk_create(draft)) == FOLD__TAKEN && i < FOLD__DRAFTS; i++)
        snprintf(draft, size, "%s.%d.tmp", path, i);
    if (file == FOLD__TAKEN)
        fold__model_fail(m, FOLD_IO,
                         "save: '%.120s.tmp' and %d more are there, of savers at work or that died",
                         path, FOLD__DRAFTS - 1);
    else if (file < 0)
        fold__path_fail(m, "save", draft);
    return file;
}

static void fold__draft_write(fold_model *m, const char *draft, int descriptor, const fold_save_desc *desc)
{
    FILE *file = fopen(draft, "wb");
    if (!file) {
        fold__path_fail(m, "save", draft);
        return;
    }
    const fold_status status = fold__write_file(m, fold_to_file, file, desc);
    if (status == FOLD_IO || (!status && (fflush(file) || fold__disk_sync(descriptor))))
        fold__path_fail(m, "save", draft);
    if (fclose(file))
        fold__path_fail(m, "save", draft);
}

/* draft: memory for its name */
static void fold__save_as(fold_model *m, const char *path, char *draft, size_t size,
                          const fold_save_desc *desc)
{
    errno = 0;
    if (!fold__disk_replaceable(path)) {
        fold__model_fail(m, FOLD_IO, "save: '%.120s' is no regular file", path);
        return;
    }
    const int descriptor = fold__draft_new(m, path, draft, size);
    if (descriptor < 0)
        return;
    fold__draft_write(m, draft, descriptor, desc);
    fold__disk_close(descriptor);
    if (!m->error.status && fold__disk_rename(draft, path))
        fold__path_fail(m, "save: renaming to", path);
    if (m->error.status)
        remove(draft);
    else if (fold__disk_sync_folder(draft))
        fold__path_fail(m, "save: the folder of", path);
}

FOLD_API fold_status fold_model_save(fold_model *m, const char *path, const fold_save_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    if (!path)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: no path");
    if (m->error.status)
        return m->error.status;
    const size_t size = strlen(path) + sizeof ".99.tmp";
    char *draft = (char *)m->arena.memory.alloc(size, FOLD__ALIGN, m->arena.memory.user);
    if (draft)
        fold__save_as(m, path, draft, size, desc);
    else
        fold__model_fail(m, FOLD_NO_MEMORY, "save: out of memory");
    fold__release(m, draft, size);
    return m->error.status;
}
#endif

/* -- reading a header ------------------------------------------------------------------------ */

/* JSON of the few forms that a header has, in memory that ends with a zero byte. Strings are decoded where
 * they lie. */
typedef struct fold__json {
    char *start, *at;
    const char *problem;
} fold__json;

static int fold__json_fail(fold__json *j, const char *problem)
{
    if (!j->problem)
        j->problem = problem;
    return 0;
}
static void fold__json_blanks(fold__json *j) { j->at += strspn(j->at, " \t\n\r"); }
/* Whether c comes next; then it is passed. */
static int fold__json_next(fold__json *j, char c)
{
    fold__json_blanks(j);
    if (*j->at != c)
        return 0;
    j->at++;
    return 1;
}
static int fold__json_take(fold__json *j, char c)
{
    static const char *const expected[] = { "expected {",       "expected }", "expected [",
                                            "expected ]",       "expected :", "expected a comma",
                                            "expected a string" };
    static const char what[] = "{}[]:,\"";
    return fold__json_next(j, c) || fold__json_fail(j, expected[strchr(what, c) - what]);
}

/* Four hexadecimal digits; more than 0xffff when they are not there. */
static uint32_t fold__json_hex(fold__json *j)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t x = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        const char *digit = *j->at ? strchr(digits, *j->at) : NULL;
        if (!digit)
            return 0x10000;
        x = x << 4 | ((uint32_t)(digit - digits) & 15);
    }
    return x;
}

/* What comes after a backslash, as UTF-8. */
static int fold__json_escape(fold__json *j, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = *j->at++, *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        *(*out)++ = to[simple - from];
        return 1;
    }
    uint32_t x = c == 'u' ? fold__json_hex(j) : 0x10000;
    if (x >= 0xd800 && x < 0xdc00 && j->at[0] == '\\' && j->at[1] == 'u') {
        j->at += 2;
        const uint32_t low = fold__json_hex(j);
        x = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((x - 0xd800) << 10 | (low - 0xdc00)) : 0;
    } else if ((x >= 0xd800 && x < 0xe000) || x > 0xffff) {
        x = 0;
    }
    if (!x)
        return fold__json_fail(j, "a string has an escape that is no character"); /* a zero byte neither */
    const int more = x < 0x80 ? 0 : x < 0x800 ? 1 : x < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    *(*out)++ = (char)(lead[more] | x >> 6 * more);
    for (int i = more; i-- > 0;)
        *(*out)++ = (char)(0x80 | (x >> 6 * i & 0x3f));
    return 1;
}

/* NULL: there is none, or it is not text. */
static char *fold__json_string(fold__json *j)
{
    if (!fold__json_take(j, '"'))
        return NULL;
    char *const s = j->at, *out = s;
    while (*j->at != '"') {
        const int n = fold__utf8(j->at);
        if (!n || (unsigned char)*j->at < 32)
            fold__json_fail(j, "a string is not UTF-8 text, or does not end");
        if (j->problem)
            return NULL;
        if (*j->at == '\\') {
            j->at++;
            if (!fold__json_escape(j, &out))
                return NULL;
            continue;
        }
        for (int i = 0; i < n; i++)
            *out++ = *j->at++;
    }
    j->at++;
    *out = 0;
    return s;
}

static int fold__json_number(fold__json *j, uint64_t *x)
{
    const int zero = fold__json_next(j, '0');
    *x = 0;
    if (zero)
        return (*j->at < '0' || *j->at > '9') || fold__json_fail(j, "a number begins with 0");
    if (*j->at < '1' || *j->at > '9')
        return fold__json_fail(j, "expected a whole number");
    for (; *j->at >= '0' && *j->at <= '9'; j->at++) {
        if (*x > UINT64_C(900000000000000000))
            return fold__json_fail(j, "a number is out of range");
        *x = *x * 10 + (uint64_t)(*j->at - '0');
    }
    return 1;
}

/* part of parameter param - 1; 0: none wants it. A rank above 4 is 5 here, dimensions above INT_MAX are that.
 */
typedef struct fold__tensor {
    const char *name;
    int dtype, part;
    fold_shape shape;
    uint32_t param;
    uint64_t begin, end;
    const unsigned char *data;
} fold__tensor;

/* count: the product of the dimensions. */
static int fold__json_shape(fold__json *j, fold_shape *s, uint64_t *count)
{
    uint64_t n;
    *count = 1;
    if (!fold__json_take(j, '['))
        return 0;
    do {
        if (!s->rank && fold__json_next(j, ']')) {
            s->rank = s->dim[0] = 1;
            return 1;
        } /* Python's scalars are [] */
        if (!fold__json_number(j, &n))
            return 0;
        if (n && *count > INT64_MAX / n)
            return fold__json_fail(j, "a shape overflows");
        *count *= n;
        if (s->rank < FOLD_MAX_RANK)
            s->dim[s->rank] = n > INT_MAX ? INT_MAX : (int)n;
        if (s->rank <= FOLD_MAX_RANK)
            s->rank++;
    } while (fold__json_next(j, ','));
    return fold__json_take(j, ']');
}

static int fold__json_offsets(fold__json *j, fold__tensor *t)
{
    return fold__json_take(j, '[') && fold__json_number(j, &t->begin) && fold__json_take(j, ',') &&
           fold__json_number(j, &t->end) && fold__json_take(j, ']');
}

static int fold__json_tensor(fold__json *j, fold__tensor *t)
{
    static const char *const member[] = { "dtype", "shape", "data_offsets" };
    unsigned seen = 0;
    uint64_t count = 0;
    memset(t, 0, sizeof *t);
    if (!fold__json_take(j, '{'))
        return 0;
    do {
        int which = 0;
        const char *key = fold__json_string(j);
        if (!key || !fold__json_take(j, ':'))
            return 0;
        while (which < 3 && strcmp(key, member[which]))
            which++;
        if (which == 3 || (seen & 1u << which))
            return fold__json_fail(j, "a tensor has a member twice, or one that the format has not");
        seen |= 1u << which;
        if (which == 1 && !fold__json_shape(j, &t->shape, &count))
            return 0;
        if (which == 2 && !fold__json_offsets(j, t))
            return 0;
        if (which)
            continue;
        if (!(key = fold__json_string(j)))
            return 0;
        while (t->dtype < FOLD__DTYPES - 1 && strcmp(key, fold__dtypes[t->dtype].name))
            t->dtype++;
    } while (fold__json_next(j, ','));
    const uint64_t width = (uint64_t)fold__dtypes[t->dtype].bytes;
    if (seen != 7)
        return fold__json_fail(j, "a tensor lacks dtype, shape or data_offsets");
    if (t->end < t->begin || (width && ((t->end - t->begin) % width || (t->end - t->begin) / width != count)))
        return fold__json_fail(j, "data_offsets do not fit the type and shape");
    return fold__json_take(j, '}');
}

enum { FOLD__F_HEADER, FOLD__F_TENSORS, FOLD__F_ORDER, FOLD__F_STAGE, FOLD__F_COUNT }; /* arrays of a file */

/* A file that is being loaded. */
typedef struct fold__file {
    fold_model *m; /* NULL: it is only listed */
    fold__error *error;
    fold__arena arena;
    fold__array arrays[FOLD__F_COUNT];
    fold_load_desc d;
    fold_reader *read; /* NULL: `bytes` are what is left of a block of memory */
    void *user;
    const unsigned char *bytes;
    size_t left;
    fold__tensor *tensor;
    uint32_t *order, n;
    const char *optimizer, *steps, *config; /* of the metadata; NULL: not there */
    int rule;
    uint64_t n_steps;
} fold__file;

static int fold__json_metadata(fold__json *j, fold__file *x)
{
    if (!fold__json_take(j, '{'))
        return 0;
    if (fold__json_next(j, '}'))
        return 1;
    do {
        const char *key = fold__json_string(j),
                   *text = key && fold__json_take(j, ':') ? fold__json_string(j) : NULL;
        if (!text)
            return 0;
        const char **want = !strcmp(key, "optimizer") ? &x->optimizer : NULL;
        if (!strcmp(key, "steps"))
            want = &x->steps;
        if (!strcmp(key, "config"))
            want = &x->config;
        if (want && *want)
            return fold__json_fail(j, "the metadata have a key twice");
        if (want)
            *want = text;
    } while (fold__json_next(j, ','));
    return fold__json_take(j, '}');
}

static int fold__json_header(fold__json *j, fold__file *x, size_t length)
{
    int metadata = 0;
    if (*j->at != '{')
        return fold__json_fail(j, "expected {"); /* no space before it */
    j->at++;
    if (!fold__json_next(j, '}')) {
        do {
            const char *name = fold__json_string(j);
            if (!name || !fold__json_take(j, ':'))
                return 0;
            if (strcmp(name, "__metadata__")) {
                if (!fold__json_tensor(j, &x->tensor[x->n]))
                    return 0;
                x->tensor[x->n++].name = name;
            } else if (metadata++) {
                return fold__json_fail(j, "a second __metadata__");
            } else if (!fold__json_metadata(j, x)) {
                return 0;
            }
        } while (fold__json_next(j, ','));
        if (!fold__json_take(j, '}'))
            return 0;
    }
    fold__json_blanks(j);
    return (size_t)(j->at - j->start) == length || fold__json_fail(j, "something follows the last }");
}

static int fold__by_name(const void *tensors, uint32_t a, uint32_t b)
{
    const fold__tensor *t = (const fold__tensor *)tensors;
    return strcmp(t[a].name, t[b].name) < 0;
}
static int fold__by_place(const void *tensors, uint32_t a, uint32_t b)
{
    const fold__tensor *t = (const fold__tensor *)tensors;
    return t[a].begin != t[b].begin ? t[a].begin < t[b].begin : t[a].end < t[b].end;
}

/* -- loading --------------------------------------------------------------------------------- */

FOLD_API fold_load_desc fold_load_desc_default(void)
{
    fold_load_desc d;
    memset(&d, 0, sizeof d);
    return d;
}

static int fold__load_fail(fold__file *x, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static int fold__load_fail(fold__file *x, fold_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(x->error, status, format, args);
    va_end(args);
    return 0;
}

/* A name for messages: short, and without what would move a terminal's cursor. */
enum { FOLD__SHORT = 64 };
static const char *fold__shorten(char out[FOLD__SHORT], const char *name)
{
    size_t at = 0;
    for (int n; *name && at + 8 < FOLD__SHORT; name += n) {
        n = fold__utf8(name);
        const int plain = n > 1 || (n && (unsigned char)*name >= 32 && *name != 127);
        if (plain)
            memcpy(out + at, name, (size_t)n);
        else
            out[at] = '?';
        at += plain ? (size_t)n : 1;
        if (!n)
            n = 1;
    }
    snprintf(out + at, FOLD__SHORT - at, "%s", *name ? ".." : "");
    return out;
}

/* NULL when there is no memory. */
static char *fold__file_need(fold__file *x, int which, size_t bytes)
{
    if (fold__arena_need(&x->arena, which, bytes))
        return x->arrays[which].p;
    fold__load_fail(x, FOLD_NO_MEMORY, "load: out of memory");
    return NULL;
}

/* The next n bytes, to `to`. */
static int fold__file_read(fold__file *x, void *to, size_t n)
{
    if (x->read ? x->read(to, n, x->user) != n : n > x->left)
        return fold__load_fail(x, FOLD_IO, "load: the file ends too early, or cannot be read");
    if (x->read)
        return 1;
    memcpy(to, x->bytes, n);
    x->bytes += n;
    x->left -= n;
    return 1;
}

/* Reads the header's text. Memory for it grows as its bytes come: a wrong length costs nothing. */
static char *fold__read_header(fold__file *x, size_t length)
{
    enum { FIRST = 1 << 16 };
    size_t have = 0;
    char *p;
    do {
        const size_t part = x->read ? fold__min_size(length - have, fold__max_size(have, FIRST)) : length;
        p = fold__file_need(x, FOLD__F_HEADER, have + part + 1);
        if (!p || !fold__file_read(x, p + have, part))
            return NULL;
        have += part;
    } while (have < length);
    p[length] = 0;
    return p;
}

/* Reads the header into the table of tensors, in order of their names, each but once. */
static int fold__load_header(fold__file *x)
{
    unsigned char head[8];
    char shown[FOLD__SHORT];
    uint64_t length = 0;
    if (!fold__file_read(x, head, sizeof head))
        return 0;
    for (int k = 0; k < 8; k++)
        length |= (uint64_t)head[k] << 8 * k;
    if (length > FOLD__HEADER_LIMIT)
        return fold__load_fail(x, FOLD_IO,
                               "load: not a safetensors file (its header would have over 100 MB)");
    if (!x->read && length > x->left)
        return fold__load_fail(x, FOLD_IO, "load: the file ends too early");
    char *header = fold__read_header(x, (size_t)length);
    const size_t most = (size_t)length / FOLD__LEAST_TENSOR + 1;
    if (!header || !fold__file_need(x, FOLD__F_TENSORS, most * sizeof *x->tensor))
        return 0;
    if (!fold__file_need(x, FOLD__F_ORDER, most * sizeof *x->order))
        return 0;
    x->tensor = (fold__tensor *)(void *)x->arrays[FOLD__F_TENSORS].p;
    x->order = (uint32_t *)(void *)x->arrays[FOLD__F_ORDER].p;
    fold__json j = { header, header, NULL };
    if (!fold__json_header(&j, x, (size_t)length))
        return fold__load_fail(x, FOLD_IO, "load: not a safetensors file: %s (byte %lu of the header)",
                               j.problem, (unsigned long)(j.at - j.start));
    for (uint32_t i = 0; i < x->n; i++)
        x->order[i] = i;
    fold__sort(x->order, x->n, fold__by_name, x->tensor);
    for (uint32_t i = 1; i < x->n; i++) {
        const char *name = x->tensor[x->order[i]].name;
        if (strcmp(name, x->tensor[x->order[i - 1]].name))
            continue;
        return fold__load_fail(x, FOLD_IO, "load: '%s' is in the file twice", fold__shorten(shown, name));
    }
    return 1;
}

/* Compares s with three texts in a row. */
static int fold__compare_joined(const char *s, const char *const part[3])
{
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(part[i]);
        const int order = strncmp(s, part[i], n);
        if (order)
            return order;
        s += n;
    }
    return strcmp(s, part[2]);
}

static fold__tensor *fold__find_tensor(const fold__file *x, int part, const char *name)
{
    const char *const joined[3] = { fold__part_name(x->rule, part), x->d.prefix ? x->d.prefix : "", name };
    for (uint32_t low = 0, high = x->n; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        fold__tensor *t = &x->tensor[x->order[middle]];
        const int order = fold__compare_joined(t->name, joined);
        if (!order)
            return t;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Joins a tensor and a part of a parameter. */
static int fold__match_part(fold__file *x, uint32_t i, int part)
{
    const fold__param_data *p = &fold__params(x->m)[i];
    fold__tensor *t = fold__find_tensor(x, part, p->name);
    char name[FOLD__SHORT];
    fold__shorten(name, p->name);
    if (!t) {
        if (x->d.allow_missing || (part && !fold__trainable(x->m, p)))
            return 1;
        return fold__load_fail(x, FOLD_BAD_ARGUMENT, "load: %s%s is not in the file",
                               part ? "the optimiser's state of " : "", name);
    }
    if (t->dtype >= FOLD__DTYPES_READ)
        return fold__load_fail(x, FOLD_BAD_ARGUMENT,
                               "load: %s is of type %s; F32, F16, BF16 and F64 are read", name,
                               fold__dtypes[t->dtype].name);
    if (!fold__shape_same(&t->shape, &p->shape)) {
        char there[64] = "of more than 4 axes", here[64];
        if (t->shape.rank <= FOLD_MAX_RANK)
            fold__shape_text(there, sizeof there, 0, &t->shape);
        fold__shape_text(here, sizeof here, 0, &p->shape);
        return fold__load_fail(x, FOLD_BAD_SHAPE, "load: %s is %s in the file, %s in the model", name, there,
                               here);
    }
    t->param = i + 1;
    t->part = part;
    return 1;
}

/* What the metadata say of the optimiser. */
static int fold__load_rule(fold__file *x)
{
    if (x->m->inference)
        return fold__load_fail(x, FOLD_BAD_STATE,
                               "load: the model was made for inference and has no optimiser state");
    if (!x->optimizer && x->d.allow_missing)
        return 1;
    if (!x->optimizer)
        return fold__load_fail(x, FOLD_BAD_ARGUMENT, "load: the file has no optimiser state");
    while (x->rule < FOLD__RULE_COUNT && strcmp(x->optimizer, fold__rule_name(x->rule)))
        x->rule++;
    const char *s = x->steps ? x->steps : "";
    size_t digits = 0;
    for (; digits < 18 && s[digits] >= '0' && s[digits] <= '9'; digits++)
        x->n_steps = x->n_steps * 10 + (uint64_t)(s[digits] - '0');
    if (x->rule < FOLD__RULE_COUNT && digits && !s[digits])
        return 1;
    return fold__load_fail(x, FOLD_IO, "load: the metadata's `optimizer` or `steps` are not those of fold.h");
}

/* Finds every parameter's tensors, and looks at those left over. */
static int fold__load_match(fold__file *x)
{
    const char *prefix = x->d.prefix ? x->d.prefix : "";
    char shown[FOLD__SHORT];
    if (x->d.state && !fold__load_rule(x))
        return 0;
    for (int part = 0; part < (x->d.state ? fold__parts_of(x->rule) : 1); part++)
        for (uint32_t i = 0; i < x->m->n_params; i++)
            if (!fold__match_part(x, i, part))
                return 0;
    for (uint32_t i = 0; i < x->n && !x->d.allow_unknown; i++) {
        const fold__tensor *t = &x->tensor[i];
        if (t->param || strncmp(t->name, prefix, strlen(prefix)) || !strncmp(t->name, "optimizer.", 10))
            continue;
        return fold__load_fail(x, FOLD_BAD_ARGUMENT, "load: the model has no '%s', which is in the file",
                               fold__shorten(shown, t->name + strlen(prefix)));
    }
    const size_t config = (x->config ? strlen(x->config) : 0) + 1;
    if (x->d.config && config > x->d.config_size)
        return fold__load_fail(x, FOLD_BAD_ARGUMENT, "load: the file's config needs %lu bytes",
                               (unsigned long)config);
    return 1;
}

/* Finds the data of every tensor: where they lie in memory, else read to where they wait. They must fill the
 * file. */
static int fold__load_data(fold__file *x)
{
    char shown[FOLD__SHORT];
    uint64_t at = 0;
    size_t staged = 0;
    fold__sort(x->order, x->n, fold__by_place, x->tensor);
    for (uint32_t i = 0; i < x->n; i++) {
        const fold__tensor *t = &x->tensor[x->order[i]];
        if (t->begin != at)
            return fold__load_fail(x, FOLD_IO, "load: the data of '%s' do not begin where those before end",
                                   fold__shorten(shown, t->name));
        at = t->end;
        if (t->param)
            staged += (size_t)(t->end - t->begin); /* at most 24 bytes for every value of the model */
    }
    if (!x->read && at != x->left)
        return fold__load_fail(x, FOLD_IO, "load: the file %s",
                               at > x->left ? "ends too early" : "has more than its data");
    if (x->read && !fold__file_need(x, FOLD__F_STAGE, staged + 1))
        return 0;
    unsigned char *to = (unsigned char *)x->arrays[FOLD__F_STAGE].p;
    for (uint32_t i = 0; i < x->n; i++) {
        fold__tensor *t = &x->tensor[x->order[i]];
        uint64_t left = x->read ? t->end - t->begin : 0;
        unsigned char skipped[256];
        t->data = x->read ? to : x->bytes + t->begin;
        if (t->param && left) {
            if (!fold__file_read(x, to, (size_t)left))
                return 0;
            to += left;
            left = 0;
        }
        for (size_t part; left; left -= part) {
            part = left < sizeof skipped ? (size_t)left : sizeof skipped;
            if (!fold__file_read(x, skipped, part))
                return 0;
        }
    }
    return 1;
}

static float fold__float_of(uint32_t bits)
{
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* IEEE 754 binary16 */
static float fold__half(uint32_t h)
{
    const uint32_t sign = h >> 15 << 31, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (!exponent)
        return (sign ? -1.0f : 1.0f) * (float)fraction / 16777216.0f;
    return fold__float_of(sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13);
}

static void fold__read_floats(float *y, const unsigned char *x, size_t n, int dtype)
{
    const int width = fold__dtypes[dtype].bytes;
    for (size_t i = 0; i < n; i++, x += width) {
        uint64_t bits = 0;
        double d;
        for (int k = 0; k < width; k++)
            bits |= (uint64_t)x[k] << 8 * k;
        memcpy(&d, &bits, sizeof d);
        y[i] = dtype == 0   ? fold__float_of((uint32_t)bits)
               : dtype == 1 ? fold__half((uint32_t)bits)
               : dtype == 2 ? fold__float_of((uint32_t)bits << 16)
                            : (float)d;
    }
}

/* Everything was checked: now the model is written. */
static void fold__load_values(fold__file *x)
{
    fold_model *m = x->m;
    const fold_param all = { 0, 0 };
    for (int which = FOLD__M_STATE1; which <= FOLD__M_STATE2 && x->d.state; which++)
        if (m->arrays[which].p)
            memset(m->arrays[which].p, 0, m->arrays[which].need);
    for (uint32_t i = 0; i < x->n; i++) {
        const fold__tensor *t = &x->tensor[i];
        if (!t->param)
            continue;
        const fold__param_data *p = &fold__params(m)[t->param - 1];
        fold__read_floats(fold__part(m, t->part) + p->at, t->data, p->size, t->dtype);
    }
    if (x->d.state) {
        m->rule = x->rule;
        m->steps = x->n_steps;
    }
    if (x->d.config)
        snprintf(x->d.config, x->d.config_size, "%s", x->config ? x->config : "");
    for (uint32_t i = 0; i < x->n && x->d.loaded; i++)
        *x->d.loaded += x->tensor[i].param != 0;
    fold_values_write_end(m, all);
}

/* ends: nothing may follow the file. */
static fold_status fold__load_file(fold__file *x, int ends)
{
    char more;
    x->arena.array = x->arrays;
    int good = !x->m->error.status && fold__load_header(x) && fold__load_match(x) && fold__load_data(x);
    if (good && ends && x->read(&more, 1, x->user))
        good = fold__load_fail(x, FOLD_IO, "load: the file has more than its data");
    if (good && fold__states_ready(x->m, x->d.state ? fold__parts_of(x->rule) - 1 : 0))
        fold__load_values(x);
    fold__arena_free(&x->arena);
    return x->m->error.status;
}

static fold__file fold__file_of(fold_model *m, fold_reader *read, void *user, const void *bytes, size_t size,
                                const fold_load_desc *desc)
{
    fold__file x;
    memset(&x, 0, sizeof x);
    x.d = desc ? *desc : fold_load_desc_default();
    if (x.d.loaded)
        *x.d.loaded = 0;
    x.m = m;
    x.error = &m->error;
    x.arena.memory = m->arena.memory;
    x.arena.n = FOLD__F_COUNT;
    x.read = read;
    x.user = user;
    x.bytes = (const unsigned char *)bytes;
    x.left = size;
    return x;
}

FOLD_API fold_status fold_model_load_memory(fold_model *m, const void *bytes, size_t size,
                                            const fold_load_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    if (!bytes)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "load: no bytes");
    fold__file x = fold__file_of(m, NULL, NULL, bytes, size, desc);
    return fold__load_file(&x, 0);
}
FOLD_API fold_status fold_model_load_from(fold_model *m, fold_reader *read, void *user,
                                          const fold_load_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    if (!read)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "load: no reader");
    fold__file x = fold__file_of(m, read, user, NULL, 0, desc);
    return fold__load_file(&x, 0);
}
#ifndef FOLD_NO_STDIO
static size_t fold__from_file(void *bytes, size_t n, void *file) { return fread(bytes, 1, n, (FILE *)file); }

FOLD_API fold_status fold_model_load(fold_model *m, const char *path, const fold_load_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    fold__file x = fold__file_of(m, fold__from_file, NULL, NULL, 0, desc);
    if (!path)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "load: no path");
    if (m->error.status)
        return m->error.status;
    errno = 0;
    FILE *file = fopen(path, "rb");
    if (!file) {
        fold__path_fail(m, "load", path);
        return m->error.status;
    }
    x.user = file;
    fold__load_file(&x, 1);
    fclose(file);
    return m->error.status;
}

static void fold__put_tensors(fold__text *t, const fold__file *x)
{
    size_t widest = 10, bytes = 0;
    for (uint32_t i = 0; i < x->n; i++)
        widest = fold__max_size(widest, fold__min_size(strlen(x->tensor[i].name), 40));
    fold__put(t, "tensors");
    fold__put_spaces(t, 7, widest);
    fold__put(t, "  shape               type           bytes\n");
    for (uint32_t i = 0; i < x->n; i++) {
        const fold__tensor *tensor = &x->tensor[x->order[i]];
        char shape[64] = "of rank 5 or more";
        const size_t size = (size_t)(tensor->end - tensor->begin);
        if (tensor->shape.rank <= FOLD_MAX_RANK)
            fold__shape_text(shape, sizeof shape, 0, &tensor->shape);
        fold__put_name(t, tensor->name, FOLD__WHOLE);
        fold__put_spaces(t, strlen(tensor->name), widest);
        fold__put(t, "  %-18s  %-8s%12lu\n", shape, fold__dtypes[tensor->dtype].name, (unsigned long)size);
        bytes += size;
    }
    fold__put_count(t, x->n, "tensor");
    fold__put(t, ", %lu bytes of data", (unsigned long)bytes);
    if (x->optimizer && x->steps) {
        fold__put(t, "; optimizer ");
        fold__put_name(t, x->optimizer, FOLD__WHOLE);
        fold__put(t, ", steps ");
        fold__put_name(t, x->steps, FOLD__WHOLE);
    }
    if (x->config)
        fold__put(t, "; config of %lu bytes", (unsigned long)strlen(x->config));
    fold__put_bytes(t, "\n", 1);
}

FOLD_API fold_status fold_model_print_file(const fold_model *m, const char *path, fold_writer *write,
                                           void *user)
{
    fold__text t;
    fold__error error = { FOLD_OK, "" };
    fold__file x;
    if (!m || !path)
        return FOLD_BAD_ARGUMENT;
    memset(&x, 0, sizeof x);
    x.error = &error;
    x.arena.memory = m->arena.memory;
    x.arena.array = x.arrays;
    x.arena.n = FOLD__F_COUNT;
    x.read = fold__from_file;
    errno = 0;
    FILE *file = fopen(path, "rb");
    x.user = file;
    fold__text_start(&t, write, user, FOLD__QUOTE_NONE);
    if (!file)
        fold__put(&t, "load: '%.120s': %.60s\n", path, fold__path_problem());
    else if (fold__load_header(&x))
        fold__put_tensors(&t, &x);
    else
        fold__put(&t, "%s\n", error.text);
    const fold_status status = fold__text_end(&t);
    if (file)
        fclose(file);
    fold__arena_free(&x.arena);
    return !file ? FOLD_IO : error.status ? error.status : status;
}
#endif

/* ==== room: training =========================================================================
   Owns: the loop of fold_fit. Calls: recording, running, optimisers, files. */

typedef struct fold__training {
    fold_fit_desc d;
    fold_fit_report r;
    fold_model *m;
    fold__arena arena;
    fold__array arrays[2];
    int *order;
    fold_node *loss; /* of a batch; lies behind the order */
    float *best;     /* values of the best epoch; NULL when they are not kept */
    size_t best_bytes;
    double sum;  /* of the losses of this epoch */
    uint64_t ns; /* spent on them */
} fold__training;

FOLD_API fold_fit_desc fold_fit_desc_default(void)
{
    fold_fit_desc d;
    memset(&d, 0, sizeof d);
    d.batch = 32;
    d.epochs = 10;
    return d;
}

static const char *fold__fit_problem(const fold_fit_desc *d)
{
    if (!d->loss)
        return "no function records the loss";
    if (d->samples < 1)
        return "samples must be at least 1";
    if (d->batch < 0)
        return "the size of a batch is negative";
    if (d->epochs < 0 || d->first_epoch < 0 || d->patience < 0)
        return "a count of epochs is negative";
    if (!!d->sgd + !!d->adagrad + !!d->rmsprop + !!d->adam != 1)
        return "exactly one optimiser must be given";
    return NULL;
}

static int fold__fit_start(fold__training *x)
{
    fold_ctx *f = x->d.ctx;
    const char *problem = fold__fit_problem(&x->d);
    fold_ctx_reset(f);
    if (problem)
        fold__fail(f, FOLD_BAD_ARGUMENT, "fit: %s", problem);
    if (fold__broken(f))
        return 0;
    x->arena.memory = x->m->arena.memory;
    x->arena.array = x->arrays;
    x->arena.n = 2;
    x->best_bytes = x->d.keep_best ? x->m->span * sizeof(float) : 0;
    const size_t n = (size_t)x->d.samples, batch = fold__min_size((size_t)x->d.batch, n);
    const size_t bytes = fold__size(n, sizeof *x->order, batch * sizeof *x->loss);
    if (!fold__arena_need(&x->arena, 0, bytes) || !fold__arena_need(&x->arena, 1, x->best_bytes)) {
        fold__fail(f, FOLD_NO_MEMORY, "fit: out of memory");
        return 0;
    }
    x->order = (int *)(void *)x->arrays[0].p;
    x->best = (float *)(void *)x->arrays[1].p;
    x->loss = (fold_node *)(void *)(x->order + n);
    fold_grads_clear(x->m);
    return 1;
}

/* Fisher and Yates's shuffle, of the samples in their own order. */
static void fold__fit_order(fold__training *x)
{
    fold__random r = { fold__mix64(x->d.seed ^ fold__mix64((uint64_t)x->r.epoch + 1)) };
    for (int i = 0; i < x->d.samples; i++)
        x->order[i] = i;
    for (int i = x->d.samples; i > 1 && !x->d.in_order; i--) {
        const int k = (int)(fold__random_next(&r) % (uint64_t)i), sample = x->order[k];
        x->order[k] = x->order[i - 1];
        x->order[i - 1] = sample;
    }
}

static fold_status fold__fit_step(fold__training *x)
{
    if (x->d.clip > 0)
        fold_grads_clip(x->m, x->d.clip);
    if (x->d.sgd)
        return fold_sgd_step(x->m, x->d.sgd);
    if (x->d.adagrad)
        return fold_adagrad_step(x->m, x->d.adagrad);
    return x->d.rmsprop ? fold_rmsprop_step(x->m, x->d.rmsprop) : fold_adam_step(x->m, x->d.adam);
}

/* Trains on samples first..first+n of the order. */
static int fold__fit_batch(fold__training *x, int first, int n)
{
    fold_ctx *f = x->d.ctx;
    const uint64_t start = fold__now(f), salt = fold__mix64(x->d.seed + fold__mix64((uint64_t)x->r.epoch));
    fold_ctx_reset(f);
    for (int i = 0; i < n && !fold__broken(f); i++) {
        const int sample = x->order[first + i];
        fold_dropout_seed(f, salt ^ fold__mix64((uint64_t)sample));
        x->loss[i] = x->d.loss(f, sample, x->d.user);
        if (fold_node_is_null(x->loss[i]))
            fold__fail(f, FOLD_BAD_ARGUMENT, "fit: the loss of sample %d is the null node", sample);
    }
    if (fold__broken(f))
        return 0;
    const fold_node mean = fold_mean_n(f, x->loss, n);
    if (fold_backward(f, mean))
        return 0;
    x->sum += (double)fold_scalar(f, mean) * (double)n;
    if (fold__fit_step(x))
        return 0;
    x->ns += fold__now(f) - start;
    x->r.trained = first + n;
    x->r.loss = x->sum / (double)x->r.trained;
    x->r.per_second = x->ns ? (double)x->r.trained * 1e9 / (double)x->ns : 0;
    return 1;
}

#ifndef FOLD_NO_STDIO
static void fold__fit_save(fold__training *x, const char *path, int state)
{
    fold_save_desc d = fold_save_desc_default();
    d.state = state;
    d.config = x->d.config;
    if (path)
        fold_model_save(x->m, path, &d);
}
#endif

/* The metric, what is kept for it, and whether to go on. */
static int fold__fit_epoch_end(fold__training *x)
{
    fold_fit_report *r = &x->r;
    const int smaller = !x->d.metric || x->d.smaller_is_better;
    r->metric = x->d.metric ? x->d.metric(x->m, x->d.user) : r->loss;
    r->epoch_end = 1;
    if (fold__broken(x->d.ctx))
        return 0;
    const int better = r->best_epoch < 0 ? r->metric == r->metric
                       : smaller         ? r->metric < r->best
                                         : r->metric > r->best;
    if (better) {
        r->best = r->metric;
        r->best_epoch = r->epoch;
        if (x->best)
            memcpy(x->best, fold__values(x->m), x->best_bytes);
    }
#ifndef FOLD_NO_STDIO
    if (better)
        fold__fit_save(x, x->d.best_path, 0);
    fold__fit_save(x, x->d.last_path, 1);
#endif
    if (fold__broken(x->d.ctx))
        return 0;
    const int since = r->epoch - (r->best_epoch < 0 ? x->d.first_epoch - 1 : r->best_epoch);
    if (x->d.patience && since >= x->d.patience)
        r->ended = FOLD_FIT_PATIENCE;
    if (x->d.progress && x->d.progress(r, x->d.user) && !r->ended)
        r->ended = FOLD_FIT_PROGRESS;
    return !r->ended;
}

/* One epoch; whether to go on. */
static int fold__fit_epoch(fold__training *x)
{
    const int samples = x->d.samples, batch = x->d.batch;
    x->sum = 0;
    x->ns = 0;
    x->r.epoch_end = 0;
    fold__fit_order(x);
    for (int first = 0, n; first < samples; first += n) {
        n = batch < samples - first ? batch : samples - first;
        if (!fold__fit_batch(x, first, n))
            return 0;
        if (!x->d.progress || !x->d.progress(&x->r, x->d.user))
            continue;
        x->r.ended = FOLD_FIT_PROGRESS;
        return 0;
    }
    return fold__fit_epoch_end(x);
}

FOLD_API fold_status fold_fit(const fold_fit_desc *desc, fold_fit_report *report)
{
    fold__training x;
    const fold_param all = { 0, 0 };
    if (!desc || !desc->ctx)
        return FOLD_BAD_ARGUMENT;
    memset(&x, 0, sizeof x);
    x.d = *desc;
    if (!x.d.batch)
        x.d.batch = fold_fit_desc_default().batch;
    if (!x.d.epochs)
        x.d.epochs = fold_fit_desc_default().epochs;
    x.m = desc->ctx->model;
    x.r.epoch = x.d.first_epoch;
    x.r.best_epoch = -1;
    x.r.metric = x.r.best = (double)NAN;
    if (fold__fit_start(&x))
        for (int i = 0; i < x.d.epochs; i++) {
            x.r.epoch = x.d.first_epoch + i;
            if (!fold__fit_epoch(&x))
                break;
        }
    if (fold__broken(desc->ctx))
        x.r.ended = FOLD_FIT_ERROR;
    if (x.r.best_epoch >= 0 && x.best) {
        memcpy(fold__values(x.m), x.best, x.best_bytes);
        fold_values_write_end(x.m, all);
    }
    fold__arena_free(&x.arena);
    if (report)
        *report = x.r;
    return fold_ctx_status(desc->ctx);
}

#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC pop_options
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif /* FOLD_IMPLEMENTATION */

/* ==== room: kernels, once per instruction set ===============================================
   This part alone is compiled when the file includes itself, for each FOLD__SIMD_PASS. */
#ifdef FOLD__SIMD_PASS

/* FOLD__V is W floats, FOLD__I their bits as unsigned integers, FOLD__M a comparison's outcome. VLOAD_M and
   VSTORE_M touch the first n <= W floats only, for a mask TAIL(n), and load zeros for the rest. VMIN and VMAX
   are a<b?a:b and a>b?a:b. */

#if FOLD__SIMD_PASS == 512

#define FOLD__ISA(name) fold__##name##__avx512
#define FOLD__ISA_NAME "avx512"
#if defined(_MSC_VER) && !defined(__clang__)
#define FOLD__TARGET
#else
#define FOLD__TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#endif
#define FOLD__W 16
#define FOLD__V __m512
#define FOLD__M __mmask16
#define FOLD__ALL                                                                                          \
    ((__mmask16)0xffff) /* maskz forms where gcc 12's header warns about the plain ones; same instructions \
                         */
#define FOLD__VZERO() _mm512_setzero_ps()
#define FOLD__VSET(x) _mm512_set1_ps(x)
#define FOLD__MASK __mmask16
#define FOLD__TAIL(n) ((__mmask16)((1u << (unsigned)(n)) - 1u))
#define FOLD__VLOAD_M(p, m) _mm512_maskz_loadu_ps(m, p)
#define FOLD__VSTORE_M(p, v, m, n)          \
    do {                                    \
        if ((n) >= FOLD__W)                 \
            FOLD__VSTORE(p, v);             \
        else                                \
            _mm512_mask_storeu_ps(p, m, v); \
    } while (0)
#define FOLD__VSQRT(a) _mm512_maskz_sqrt_ps(FOLD__ALL, a)
#define FOLD__VFMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FOLD__VMIN(a, b) _mm512_maskz_min_ps(FOLD__ALL, a, b)
#define FOLD__VMAX(a, b) _mm512_maskz_max_ps(FOLD__ALL, a, b)
#define FOLD__VLT(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define FOLD__VEQ(a, b) _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define FOLD__VSEL(m, a, b) _mm512_mask_blend_ps(m, b, a)
#if FOLD__GNU_VECTORS
#define FOLD__I fold__u16
#define FOLD__VSETI(x) _mm512_set1_epi32(x)
#define FOLD__VLOAD(p) ((__m512) * (const fold__f16 *)(const void *)(p))
#define FOLD__VSTORE(p, v) (*(fold__f16 *)(void *)(p) = (fold__f16)(v))
#define FOLD__IFLOATS(i) ((__m512)(i))
#else
#define FOLD__I __m512i
#define FOLD__VLOAD(p) _mm512_loadu_ps(p)
#define FOLD__VSTORE(p, v) _mm512_storeu_ps(p, v)
#define FOLD__VADD(a, b) _mm512_add_ps(a, b)
#define FOLD__VSUB(a, b) _mm512_sub_ps(a, b)
#define FOLD__VMUL(a, b) _mm512_mul_ps(a, b)
#define FOLD__VDIV(a, b) _mm512_div_ps(a, b)
#define FOLD__VBITS(v) _mm512_castps_si512(v)
#define FOLD__IFLOATS(i) _mm512_castsi512_ps(i)
#define FOLD__ISET(x) _mm512_set1_epi32((int)(x))
#define FOLD__IADD(a, b) _mm512_add_epi32(a, b)
#define FOLD__ISUB(a, b) _mm512_sub_epi32(a, b)
#define FOLD__IAND(a, b) _mm512_and_si512(a, b)
#define FOLD__IXOR(a, b) _mm512_xor_si512(a, b)
#define FOLD__ISHL(a, n) _mm512_maskz_slli_epi32(FOLD__ALL, a, n)
#define FOLD__ISHR(a, n) _mm512_maskz_srli_epi32(FOLD__ALL, a, n)
#endif
#define FOLD__PARTS(F) F(0)

#elif FOLD__SIMD_PASS == 256

#define FOLD__ISA(name) fold__##name##__avx2
#define FOLD__ISA_NAME "avx2"
#if defined(_MSC_VER) && !defined(__clang__)
#define FOLD__TARGET
#else
#define FOLD__TARGET __attribute__((target("avx2,fma")))
#endif
#define FOLD__W 8
#define FOLD__V __m256
#define FOLD__M __m256
#define FOLD__VZERO() _mm256_setzero_ps()
#define FOLD__VSET(x) _mm256_set1_ps(x)
#define FOLD__MASK __m256i
#define FOLD__TAIL(n) _mm256_loadu_si256((const __m256i *)(const void *)(fold__masks + (FOLD__W - (n))))
#define FOLD__VLOAD_M(p, m) _mm256_maskload_ps(p, m)
#define FOLD__VSTORE_M(p, v, m, n)        \
    do {                                  \
        if ((n) >= FOLD__W)               \
            FOLD__VSTORE(p, v);           \
        else                              \
            _mm256_maskstore_ps(p, m, v); \
    } while (0) /* slow on some */
#define FOLD__VSQRT(a) _mm256_sqrt_ps(a)
#define FOLD__VFMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FOLD__VMIN(a, b) _mm256_min_ps(a, b)
#define FOLD__VMAX(a, b) _mm256_max_ps(a, b)
#define FOLD__VLT(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define FOLD__VEQ(a, b) _mm256_cmp_ps(a, b, _CMP_EQ_OQ)
#define FOLD__VSEL(m, a, b) _mm256_blendv_ps(b, a, m)
#if FOLD__GNU_VECTORS
#define FOLD__I fold__u8
#define FOLD__VSETI(x) _mm256_set1_epi32(x)
#define FOLD__VLOAD(p) ((__m256) * (const fold__f8 *)(const void *)(p))
#define FOLD__VSTORE(p, v) (*(fold__f8 *)(void *)(p) = (fold__f8)(v))
#define FOLD__IFLOATS(i) ((__m256)(i))
#else
#define FOLD__I __m256i
#define FOLD__VLOAD(p) _mm256_loadu_ps(p)
#define FOLD__VSTORE(p, v) _mm256_storeu_ps(p, v)
#define FOLD__VADD(a, b) _mm256_add_ps(a, b)
#define FOLD__VSUB(a, b) _mm256_sub_ps(a, b)
#define FOLD__VMUL(a, b) _mm256_mul_ps(a, b)
#define FOLD__VDIV(a, b) _mm256_div_ps(a, b)
#define FOLD__VBITS(v) _mm256_castps_si256(v)
#define FOLD__IFLOATS(i) _mm256_castsi256_ps(i)
#define FOLD__ISET(x) _mm256_set1_epi32((int)(x))
#define FOLD__IADD(a, b) _mm256_add_epi32(a, b)
#define FOLD__ISUB(a, b) _mm256_sub_epi32(a, b)
#define FOLD__IAND(a, b) _mm256_and_si256(a, b)
#define FOLD__IXOR(a, b) _mm256_xor_si256(a, b)
#define FOLD__ISHL(a, n) _mm256_slli_epi32(a, n)
#define FOLD__ISHR(a, n) _mm256_srli_epi32(a, n)
#endif
#define FOLD__PARTS(F) F(0) F(1)

#elif FOLD__SIMD_PASS == 128 /* AArch64 */

#define FOLD__ISA(name) fold__##name##__neon
#define FOLD__ISA_NAME "neon"
#define FOLD__TARGET
#define FOLD__W 4
#define FOLD__V float32x4_t
#define FOLD__I uint32x4_t
#define FOLD__M uint32x4_t
FOLD__NOINLINE static float32x4_t fold__f4_load_n__neon(const float *p, size_t n)
{
    float32x4_t v = vdupq_n_f32(0.0f);
    if (n > 0)
        v = vsetq_lane_f32(p[0], v, 0);
    if (n > 1)
        v = vsetq_lane_f32(p[1], v, 1);
    if (n > 2)
        v = vsetq_lane_f32(p[2], v, 2);
    return n > 3 ? vsetq_lane_f32(p[3], v, 3) : v;
}
FOLD__NOINLINE static void fold__f4_store_n__neon(float *p, float32x4_t v, size_t n)
{
    if (n > 0)
        p[0] = vgetq_lane_f32(v, 0);
    if (n > 1)
        p[1] = vgetq_lane_f32(v, 1);
    if (n > 2)
        p[2] = vgetq_lane_f32(v, 2);
    if (n > 3)
        p[3] = vgetq_lane_f32(v, 3);
}
#define FOLD__VZERO() vdupq_n_f32(0.0f)
#define FOLD__VSET(x) vdupq_n_f32(x)
#define FOLD__VSETI(x) vdupq_n_s32(x)
#define FOLD__VLOAD(p) vld1q_f32(p)
#define FOLD__VSTORE(p, v) vst1q_f32(p, v)
#define FOLD__MASK size_t
#define FOLD__TAIL(n) ((size_t)(n))
#define FOLD__VLOAD_M(p, m) fold__f4_load_n__neon(p, m)
#define FOLD__VSTORE_M(p, v, m, n) fold__f4_store_n__neon(p, v, (size_t)(n))
#define FOLD__VSQRT(a) vsqrtq_f32(a)
#define FOLD__VFMA(a, b, c) vfmaq_f32(c, a, b)
#define FOLD__VMIN(a, b) \
    vbslq_f32(vcltq_f32(a, b), a, b) /* the instruction of that name treats NaN otherwise */
#define FOLD__VMAX(a, b) vbslq_f32(vcgtq_f32(a, b), a, b)
#define FOLD__VLT(a, b) vcltq_f32(a, b)
#define FOLD__VEQ(a, b) vceqq_f32(a, b)
#define FOLD__VSEL(m, a, b) vbslq_f32(m, a, b)
#define FOLD__IFLOATS(i) vreinterpretq_f32_u32(i)
#define FOLD__PARTS(F) F(0) F(1) F(2) F(3)

#else /* portable: four lanes of a GNU compiler's generic vectors, or one float */

#define FOLD__ISA(name) fold__##name##__portable
#define FOLD__ISA_NAME "portable"
#define FOLD__TARGET

#if FOLD__GNU_VECTORS
typedef float fold__f4 __attribute__((vector_size(16)));
typedef uint32_t fold__u4 __attribute__((vector_size(16)));
FOLD__INLINE fold__f4 fold__f4_set(float x)
{
    fold__f4 v = { x, x, x, x };
    return v;
}
FOLD__INLINE fold__u4 fold__u4_set(uint32_t x)
{
    fold__u4 v = { x, x, x, x };
    return v;
}
FOLD__INLINE fold__f4 fold__f4_load(const float *p)
{
    fold__f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
FOLD__INLINE void fold__f4_store(float *p, fold__f4 v) { memcpy(p, &v, sizeof v); }
FOLD__INLINE fold__f4 fold__f4_load_n(const float *p, size_t n)
{
    fold__f4 v = { 0, 0, 0, 0 };
    memcpy(&v, p, n * sizeof *p);
    return v;
}
FOLD__INLINE void fold__f4_store_n(float *p, fold__f4 v, size_t n) { memcpy(p, &v, n * sizeof *p); }
#if FOLD__X86
FOLD__INLINE fold__f4 fold__f4_sqrt(fold__f4 a) { return (fold__f4)_mm_sqrt_ps((__m128)a); }
#else
FOLD__INLINE fold__f4 fold__f4_sqrt(fold__f4 a)
{
    fold__f4 v = { sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3]) };
    return v;
}
#endif
FOLD__INLINE fold__f4 fold__f4_sel(fold__u4 m, fold__f4 a, fold__f4 b)
{
    return (fold__f4)((m & (fold__u4)a) | (~m & (fold__u4)b));
}
#if defined(FOLD_REPRODUCIBLE) && FOLD__X86 && !defined(__FMA__)
#define FOLD__FMA_BY_DOUBLES 1
FOLD__NOINLINE static fold__f4 fold__f4_fma_exact(fold__f4 a, fold__f4 b, fold__f4 c)
{
    fold__f4 v = { fold__fmaf(a[0], b[0], c[0]), fold__fmaf(a[1], b[1], c[1]), fold__fmaf(a[2], b[2], c[2]),
                   fold__fmaf(a[3], b[3], c[3]) };
    return v;
}

/* fold__fmaf in four lanes: when any is half-way or may be subnormal (and not an exact zero), all go the long
 * way. */
FOLD__INLINE fold__f4 fold__f4_fma_doubles(fold__f4 a, fold__f4 b, fold__f4 c)
{
    FOLD__NO_CONTRACT
    const __m128 av = (__m128)a, bv = (__m128)b, cv = (__m128)c;
    const __m128d lo = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(av), _mm_cvtps_pd(bv)), _mm_cvtps_pd(cv));
    const __m128d hi =
        _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(av, av)), _mm_cvtps_pd(_mm_movehl_ps(bv, bv))),
                   _mm_cvtps_pd(_mm_movehl_ps(cv, cv)));
    const __m128 y = _mm_movelh_ps(_mm_cvtpd_ps(lo), _mm_cvtpd_ps(hi));
    const __m128i low = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castpd_ps(lo), _mm_castpd_ps(hi), 0x88)); /* the doubles' low halves */
    const __m128i high = _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(lo), _mm_castpd_ps(hi), 0xdd));
    const __m128i halfway =
        _mm_cmpeq_epi32(_mm_and_si128(low, _mm_set1_epi32(0x1fffffff)), _mm_set1_epi32(0x10000000));
    const __m128i zero =
        _mm_cmpeq_epi32(_mm_slli_epi32(high, 1), _mm_setzero_si128()); /* exact, or below every float */
    const __m128i tiny = _mm_castps_si128(
        _mm_cmple_ps(_mm_and_ps(y, _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff))), _mm_set1_ps(0x1p-126f)));
    if (_mm_movemask_epi8(_mm_or_si128(halfway, _mm_andnot_si128(zero, tiny))))
        return fold__f4_fma_exact(a, b, c);
    return (fold__f4)y;
}
#endif

FOLD__INLINE fold__f4 fold__f4_fma(fold__f4 a, fold__f4 b, fold__f4 c)
{
    FOLD__NO_CONTRACT
#ifdef FOLD__FMA_BY_DOUBLES
    return fold__f4_fma_doubles(a, b, c);
#elif defined(FOLD_REPRODUCIBLE)
    fold__f4 v = { fold__fmaf(a[0], b[0], c[0]), fold__fmaf(a[1], b[1], c[1]), fold__fmaf(a[2], b[2], c[2]),
                   fold__fmaf(a[3], b[3], c[3]) };
    return v;
#else
    return a * b + c;
#endif
}
#define FOLD__W 4
#define FOLD__V fold__f4
#define FOLD__I fold__u4
#define FOLD__M fold__u4
#define FOLD__VSET(x) fold__f4_set(x)
#define FOLD__VLOAD(p) fold__f4_load(p)
#define FOLD__VSTORE(p, v) fold__f4_store(p, v)
#define FOLD__MASK size_t
#define FOLD__TAIL(n) ((size_t)(n))
#define FOLD__VLOAD_M(p, m) fold__f4_load_n(p, m)
#define FOLD__VSTORE_M(p, v, m, n) fold__f4_store_n(p, v, (size_t)(n))
#define FOLD__VSQRT(a) fold__f4_sqrt(a)
#define FOLD__VFMA(a, b, c) fold__f4_fma(a, b, c)
#define FOLD__VLT(a, b) ((fold__u4)((a) < (b)))
#define FOLD__VEQ(a, b) ((fold__u4)((a) == (b)))
#define FOLD__VSEL(m, a, b) fold__f4_sel(m, a, b)
#define FOLD__VBITS(v) ((fold__u4)(v))
#define FOLD__IFLOATS(i) ((fold__f4)(i))
#define FOLD__ISET(x) fold__u4_set(x)
#define FOLD__PARTS(F) F(0) F(1) F(2) F(3)

#else
FOLD__INLINE uint32_t fold__f1_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
FOLD__INLINE float fold__f1_floats(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
#define FOLD__W 1
#define FOLD__V float
#define FOLD__I uint32_t
#define FOLD__M int
#define FOLD__VSET(x) (x)
#define FOLD__VLOAD(p) (*(p))
#define FOLD__VSTORE(p, v) (*(p) = (v))
#define FOLD__MASK size_t
#define FOLD__TAIL(n) ((size_t)(n))
#define FOLD__VLOAD_M(p, m) ((m) ? *(p) : 0.0f)
#define FOLD__VSTORE_M(p, v, m, n) FOLD__VSTORE(p, v)
#define FOLD__VSQRT(a) sqrtf(a)
#ifdef FOLD_REPRODUCIBLE
#define FOLD__VFMA(a, b, c) fold__fmaf(a, b, c)
#else
#define FOLD__VFMA(a, b, c) ((a) * (b) + (c))
#endif
#define FOLD__VLT(a, b) ((a) < (b))
#define FOLD__VEQ(a, b) (!((a) < (b)) && !((b) < (a)) && (a) <= (b))
#define FOLD__VSEL(m, a, b) ((m) ? (a) : (b))
#define FOLD__VBITS(v) fold__f1_bits(v)
#define FOLD__IFLOATS(i) fold__f1_floats(i)
#define FOLD__ISET(x) ((uint32_t)(x))
#define FOLD__PARTS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#endif

#define FOLD__VZERO() FOLD__VSET(0.0f)
#define FOLD__VMIN(a, b) FOLD__VSEL(FOLD__VLT(a, b), a, b)
#define FOLD__VMAX(a, b) FOLD__VSEL(FOLD__VLT(b, a), a, b)
#endif

/* Compilers of GNU vectors compile these in a fraction of the time that the inline functions behind
 * intrinsics take. */
#ifndef FOLD__VADD
#define FOLD__VADD(a, b) ((a) + (b))
#define FOLD__VSUB(a, b) ((a) - (b))
#define FOLD__VMUL(a, b) ((a) * (b))
#define FOLD__VDIV(a, b) ((a) / (b))
#define FOLD__IADD(a, b) ((a) + (b))
#define FOLD__ISUB(a, b) ((a) - (b))
#define FOLD__IAND(a, b) ((a) & (b))
#define FOLD__IXOR(a, b) ((a) ^ (b))
#define FOLD__ISHL(a, n) ((a) << (n))
#define FOLD__ISHR(a, n) ((a) >> (n))
#endif
#if FOLD__SIMD_PASS > 1 && FOLD__GNU_VECTORS
#define FOLD__VBITS(v) ((FOLD__I)(v))
#define FOLD__ISET(x) ((FOLD__I)FOLD__VSETI((int)(x)))
#endif

#define FOLD__VABS(a) FOLD__IFLOATS(FOLD__IAND(FOLD__VBITS(a), FOLD__ISET(0x7fffffffu)))
#define FOLD__VNEG(a) FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(a), FOLD__ISET(0x80000000u)))

/* ---- exp, log and what is made of them ----
   The same operations on every path. Largest errors found, in ulp over every seventh float of the 2^32:
                      exp   log   tanh  sigmoid  softplus
     fused            0.89  0.86  2.60   2.34     1.82
     portable plain   1.17  0.93  2.67   2.34     1.77
   gelu: 3.2 ulp down to -10; from there on, where exp(-|z|) is subnormal and its error is multiplied by x, 6.5. */

/* x = n ln 2 + r with |r| <= ln 2 / 2: returns r; *n is the integer n, as a float and as bits above the magic
 * number's. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_reduce)(FOLD__V x, FOLD__I *n)
{
    FOLD__NO_CONTRACT
    const FOLD__V magic = FOLD__VSET(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    FOLD__V z = FOLD__VFMA(x, FOLD__VSET(0x1.715476p+0f), magic), nf = FOLD__VSUB(z, magic), r;
    *n = FOLD__ISUB(FOLD__VBITS(z), FOLD__ISET(0x4b400000u));
    r = FOLD__VFMA(nf, FOLD__VSET(-0x1.62e4p-1f),
                   x); /* ln 2 in two parts, the first so short that n times it is exact */
    return FOLD__VFMA(nf, FOLD__VSET(-0x1.7f7d1cp-20f), r);
}

/* (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_tail)(FOLD__V r)
{
    FOLD__NO_CONTRACT
    FOLD__V q = FOLD__VSET(0x1.6a2312p-10f);
    q = FOLD__VFMA(q, r, FOLD__VSET(0x1.123a8ep-7f));
    q = FOLD__VFMA(q, r, FOLD__VSET(0x1.5558f6p-5f));
    q = FOLD__VFMA(q, r, FOLD__VSET(0x1.55549p-3f));
    return FOLD__VFMA(q, r, FOLD__VSET(0x1.fffffcp-2f));
}

/* exp(r) 2^n. 2^n is applied in two factors: it overflows to infinity and rounds once into the denormals. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_made)(FOLD__V r, FOLD__I n)
{
    FOLD__NO_CONTRACT
    const FOLD__V one = FOLD__VSET(1.0f);
    FOLD__V p;
    FOLD__I half;
    p = FOLD__VFMA(FOLD__ISA(exp_tail)(r), r, one);
    p = FOLD__VFMA(p, r, one);
    n = FOLD__IADD(n, FOLD__ISET(254u)); /* both halves' exponent bias; now positive */
    half = FOLD__ISHR(n, 1);
    p = FOLD__VMUL(p, FOLD__IFLOATS(FOLD__ISHL(half, 23)));
    n = FOLD__ISUB(n, half);
    return FOLD__VMUL(p, FOLD__IFLOATS(FOLD__ISHL(n, 23)));
}

/* exp of x <= 89. The bounds are written so that NaN passes. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_low)(FOLD__V x)
{
    const FOLD__V low = FOLD__VSET(-104.0f);
    FOLD__I n;
    FOLD__V r = FOLD__ISA(exp_reduce)(FOLD__VMAX(low, x), &n);
    return FOLD__ISA(exp_made)(r, n);
}

FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp)(FOLD__V x)
{
    const FOLD__V high = FOLD__VSET(89.0f);
    return FOLD__ISA(exp_low)(FOLD__VMIN(high, x));
}

/* log(1 + f) + e ln 2 for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(log_core)(FOLD__V f, FOLD__V e)
{
    FOLD__NO_CONTRACT
    FOLD__V s = FOLD__VMUL(f, f), p = FOLD__VSET(-0x1.38c1a2p-4f);
    p = FOLD__VFMA(p, f, FOLD__VSET(0x1.056496p-3f));
    p = FOLD__VFMA(p, f, FOLD__VSET(-0x1.0d875ap-3f));
    p = FOLD__VFMA(p, f, FOLD__VSET(0x1.22d90ap-3f));
    p = FOLD__VFMA(p, f, FOLD__VSET(-0x1.5471f6p-3f));
    p = FOLD__VFMA(p, f, FOLD__VSET(0x1.99a012p-3f));
    p = FOLD__VFMA(p, f, FOLD__VSET(-0x1.000228p-2f));
    p = FOLD__VFMA(p, f, FOLD__VSET(0x1.555554p-2f));
    p = FOLD__VFMA(p, f, FOLD__VSET(-0.5f));
    p = FOLD__VFMA(s, p, FOLD__VMUL(e, FOLD__VSET(0x1.7f7d1cp-20f)));
    p = FOLD__VADD(f, p);
    return FOLD__VFMA(e, FOLD__VSET(0x1.62e4p-1f), p);
}

FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(log)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V zero = FOLD__VZERO(), inf = FOLD__VSET(INFINITY), tiny = FOLD__VSET(0x1p-126f);
    FOLD__M denormal = FOLD__VLT(x, tiny);
    FOLD__V up = FOLD__VMUL(x, FOLD__VSET(8388608.0f)), v = FOLD__VSEL(denormal, up, x);
    FOLD__V bias =
        FOLD__VSEL(denormal, FOLD__VSET(8388608.0f + 127.0f + 23.0f), FOLD__VSET(8388608.0f + 127.0f));
    FOLD__I bits = FOLD__VBITS(v),
            e = FOLD__ISHR(FOLD__IADD(bits, FOLD__ISET(0x3f800000u - 0x3f3504f3u)), 23);
    FOLD__V m = FOLD__IFLOATS(
        FOLD__IADD(FOLD__ISUB(bits, FOLD__ISHL(e, 23)), FOLD__ISET(0x3f800000u))); /* sqrt(1/2) .. sqrt(2) */
    FOLD__V ef = FOLD__VSUB(FOLD__IFLOATS(FOLD__IADD(e, FOLD__ISET(0x4b000000u))), bias);
    FOLD__V y = FOLD__ISA(log_core)(FOLD__VSUB(m, FOLD__VSET(1.0f)), ef);
    FOLD__V edge = FOLD__VSEL(FOLD__VEQ(x, zero), FOLD__VSET(-INFINITY), FOLD__VSET(NAN));
    y = FOLD__VSEL(FOLD__VLT(zero, x), y, edge);
    return FOLD__VSEL(FOLD__VLT(x, inf), y, x); /* NaN and infinity are their own logarithms */
}

/* From exp(-|x|), which cannot overflow. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(sigmoid)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V one = FOLD__VSET(1.0f);
    FOLD__V e =
        FOLD__ISA(exp_low)(FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(FOLD__VABS(x)), FOLD__ISET(0x80000000u))));
    return FOLD__VDIV(FOLD__VSEL(FOLD__VLT(x, FOLD__VZERO()), e, one), FOLD__VADD(one, e));
}

/* For those that need it beside much else: one copy. */
FOLD__TARGET FOLD__NOINLINE static FOLD__V FOLD__ISA(sigmoid_call)(FOLD__V x)
{
    return FOLD__ISA(sigmoid)(x);
}

/* q / (q + 2) with q = exp(2|x|) - 1, then the sign of x. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(tanh)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V ten = FOLD__VSET(10.0f); /* tanh is 1 from 9.02 on */
    FOLD__V ax = FOLD__VABS(x), c = FOLD__VMIN(ten, ax), r, q, s;
    FOLD__I n, sign = FOLD__IAND(FOLD__VBITS(x), FOLD__ISET(0x80000000u));
    r = FOLD__ISA(exp_reduce)(FOLD__VADD(c, c), &n);
    q = FOLD__VFMA(FOLD__VMUL(r, r), FOLD__ISA(exp_tail)(r), r);
    s = FOLD__IFLOATS(FOLD__ISHL(FOLD__IADD(n, FOLD__ISET(127u)), 23));
    q = FOLD__VFMA(s, q, FOLD__VSUB(s, FOLD__VSET(1.0f)));
    q = FOLD__VDIV(q, FOLD__VADD(q, FOLD__VSET(2.0f)));
    return FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(q), sign));
}

/* max(x, 0) + log(1 + u), u = exp(-|x|) in [0, 1]; above sqrt(2) - 1, 1 + u = 2 (1 + (u - 1) / 2). */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(softplus)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V zero = FOLD__VZERO(), one = FOLD__VSET(1.0f);
    FOLD__V u =
        FOLD__ISA(exp_low)(FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(FOLD__VABS(x)), FOLD__ISET(0x80000000u))));
    FOLD__M large = FOLD__VLT(FOLD__VSET(0.41421356f), u);
    FOLD__V f = FOLD__VSEL(large, FOLD__VMUL(FOLD__VSUB(u, one), FOLD__VSET(0.5f)), u);
    FOLD__V above = FOLD__VMAX(x, zero);
    return FOLD__VADD(above, FOLD__ISA(log_core)(f, FOLD__VSEL(large, one, zero)));
}

/* a b - c rounded once, where c is near a b. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(product_rest)(FOLD__V a, FOLD__V b, FOLD__V c)
{
    FOLD__NO_CONTRACT
#if FOLD__SIMD_PASS > 1 || defined(FOLD_REPRODUCIBLE)
    return FOLD__VFMA(a, b, FOLD__VNEG(c));
#else
    /* Without fused multiply-add: halves of 12 bits have exact products (Dekker 1971). */
    const FOLD__I upper = FOLD__ISET(0xfffff000u);
    FOLD__V ah = FOLD__IFLOATS(FOLD__IAND(FOLD__VBITS(a), upper)), al = FOLD__VSUB(a, ah);
    FOLD__V bh = FOLD__IFLOATS(FOLD__IAND(FOLD__VBITS(b), upper)), bl = FOLD__VSUB(b, bh);
    FOLD__V t = FOLD__VADD(FOLD__VSUB(FOLD__VMUL(ah, bh), c), FOLD__VMUL(ah, bl));
    return FOLD__VADD(FOLD__VADD(t, FOLD__VMUL(al, bh)), FOLD__VMUL(al, bl));
#endif
}

/* gelu(x) = 0.5 x (1 + tanh(z / 2)) = x sigmoid(z), where z = 2 sqrt(2/pi) (x + 0.044715 x^3). At |x| = 12 it
   has reached x, or 0: further out the same is computed. The bounds are written so that NaN passes. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(gelu_low)(FOLD__V x)
{
    const FOLD__V low = FOLD__VSET(-12.0f);
    return FOLD__VMAX(low, x);
}

/* exp(-|z|) = 2^(n + r). The exponent is x p, p = a + b x^2, and may be 150: for r to be as accurate as a float is,
   p is computed in two parts, from constants in two parts, the first of a so short that p - a is exact. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(gelu_exp)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V a = FOLD__VSET(0x1.26afp+1f), a_rest = FOLD__VSET(-0x1.ef218cp-18f);
    const FOLD__V b = FOLD__VSET(0x1.a5a7dp-4f), b_rest = FOLD__VSET(-0x1.151aaep-29f);
    const FOLD__V magic = FOLD__VSET(12582912.0f); /* as for exp */
    FOLD__V down = FOLD__ISA(gelu_low)(FOLD__VNEG(FOLD__VABS(x)));
    FOLD__V square = FOLD__VMUL(down, down), u = FOLD__VMUL(b, square), p = FOLD__VADD(u, a);
    FOLD__V p_rest = FOLD__VFMA(b_rest, square, a_rest), n = FOLD__VFMA(down, p, magic), r;
    p_rest = FOLD__VFMA(b, FOLD__ISA(product_rest)(down, down, square), p_rest);
    p_rest = FOLD__VADD(FOLD__ISA(product_rest)(b, square, u), p_rest);
    p_rest = FOLD__VADD(FOLD__VSUB(u, FOLD__VSUB(p, a)), p_rest);
    r = FOLD__ISA(product_rest)(down, p, FOLD__VSUB(n, magic));
    r = FOLD__VMUL(FOLD__VFMA(down, p_rest, r), FOLD__VSET(0x1.62e43p-1f)); /* ln 2 */
    return FOLD__ISA(exp_made)(r, FOLD__ISUB(FOLD__VBITS(n), FOLD__ISET(0x4b400000u)));
}
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(gelu_sigmoid)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V one = FOLD__VSET(1.0f);
    FOLD__V e = FOLD__ISA(gelu_exp)(x);
    return FOLD__VDIV(FOLD__VSEL(FOLD__VLT(x, FOLD__VZERO()), e, one), FOLD__VADD(one, e));
}
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(gelu)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    return FOLD__VMUL(FOLD__ISA(gelu_low)(x), FOLD__ISA(gelu_sigmoid)(x));
}

/* d gelu / dx = s + x s (1 - s) z'(x). */
FOLD__TARGET FOLD__NOINLINE static FOLD__V FOLD__ISA(gelu_slope)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V high = FOLD__VSET(12.0f);
    FOLD__V s = FOLD__ISA(gelu_sigmoid)(x), t;
    x = FOLD__VMIN(high, FOLD__ISA(gelu_low)(x));
    t = FOLD__VFMA(FOLD__VMUL(x, x), FOLD__VSET(0x1.b6676cp-3f), FOLD__VSET(0x1.988454p+0f));
    t = FOLD__VMUL(FOLD__VMUL(x, t), FOLD__VSUB(FOLD__VSET(1.0f), s));
    return FOLD__VFMA(t, s, s);
}

/* ---- maps ---- */

/* The rows of y, a, b and c as variables: a store to y might change what `all` points to, for all a compiler
   knows. An operand the map does not use is y. */
#define FOLD__MAP_BEGIN(y, a, b, c)                                                                        \
    const fold_rows *others = all ? all : fold__no_others, yr = others[0], ar = others[1], br = others[2], \
                    cr = others[3];                                                                        \
    if (!a)                                                                                                \
        a = y;                                                                                             \
    if (!b)                                                                                                \
        b = y;                                                                                             \
    if (!c)                                                                                                \
        c = y;
#define FOLD__MAP_NEXT(y, a, b, c) \
    y = fold__next(&yr, y, r);     \
    a = fold__next(&ar, a, r);     \
    b = fold__next(&br, b, r);     \
    c = fold__next(&cr, c, r);

#if FOLD__SIMD_PASS == 1
/* One loop for all of them: choosing anew for every vector costs little when vectors are short. The remainder
   of a row goes through a buffer and the same loop again. */
#define FOLD__A a
#define FOLD__B b
#define FOLD__C c
#define FOLD__S s
#define FOLD__MAP_CASE(name, expression) \
    case FOLD__MAP_##name: y = expression; break;
static void FOLD__ISA(map)(int map, float *py, const float *pa, const float *pb, const float *pc, float ps,
                           size_t n, size_t rows, const fold_rows *all)
{
    FOLD__NO_CONTRACT
    const FOLD__V s = FOLD__VSET(ps);
    size_t r = 0, i;
    FOLD__MAP_BEGIN(py, pa, pb, pc)
    for (;;) {
        for (i = 0; i + FOLD__W <= n; i += FOLD__W) {
            const FOLD__V a = FOLD__VLOAD(pa + i), b = FOLD__VLOAD(pb + i), c = FOLD__VLOAD(pc + i);
            FOLD__V y = s;
            switch (map) {
                FOLD__MAPS(FOLD__MAP_CASE, FOLD__MAP_CASE) default : break;
            }
            FOLD__VSTORE(py + i, y);
        }
        if (i < n) {
            const size_t bytes = (n - i) * sizeof(float);
            float t[4][FOLD__W] = { { 0.0f } };
            memcpy(t[0], pa + i, bytes);
            memcpy(t[1], pb + i, bytes);
            memcpy(t[2], pc + i, bytes);
            FOLD__ISA(map)(map, t[3], t[0], t[1], t[2], ps, FOLD__W, 1, NULL);
            memcpy(py + i, t[3], bytes);
        }
        if (++r >= rows)
            return;
        FOLD__MAP_NEXT(py, pa, pb, pc)
    }
}
#define FOLD__MAP_DEFINE(name, expression)                                                               \
    static void FOLD__ISA(map_##name)(float *y, const float *a, const float *b, const float *c, float s, \
                                      size_t n, size_t rows, const fold_rows *all)                       \
    {                                                                                                    \
        FOLD__ISA(map)(FOLD__MAP_##name, y, a, b, c, s, n, rows, all);                                   \
    }

#elif FOLD__SIMD_PASS == 128
#define FOLD__A FOLD__VLOAD(a + i)
#define FOLD__B FOLD__VLOAD(b + i)
#define FOLD__C FOLD__VLOAD(c + i)
#define FOLD__S FOLD__VSET(s)
#define FOLD__MAP_DEFINE(name, expression)                                                               \
    static void FOLD__ISA(map_##name)(float *y, const float *a, const float *b, const float *c, float s, \
                                      size_t n, size_t rows, const fold_rows *all)                       \
    {                                                                                                    \
        FOLD__NO_CONTRACT                                                                                \
        size_t r = 0, i;                                                                                 \
        FOLD__MAP_BEGIN(y, a, b, c)                                                                      \
        for (;;) {                                                                                       \
            for (i = 0; i + FOLD__W <= n; i += FOLD__W)                                                  \
                FOLD__VSTORE(y + i, expression);                                                         \
            if (i < n)                                                                                   \
                fold__map_rest(FOLD__ISA(map_##name), y, a, b, c, s, i, n);                              \
            if (++r >= rows)                                                                             \
                return;                                                                                  \
            FOLD__MAP_NEXT(y, a, b, c)                                                                   \
        }                                                                                                \
    }

#else
/* One loop for rows and vectors, so that constants are set once; what is left of a row is under a mask. */
#define FOLD__A va
#define FOLD__B vb
#define FOLD__C vc
#define FOLD__S FOLD__VSET(s)
#define FOLD__MAP_LOAD(LOAD)                                \
    const FOLD__V va = LOAD(a), vb = LOAD(b), vc = LOAD(c); \
    (void)va;                                               \
    (void)vb;                                               \
    (void)vc;
#define FOLD__MAP_WHOLE(p) FOLD__VLOAD(p + i)
#define FOLD__MAP_REST(p) FOLD__VLOAD_M(p + i, last)

#if FOLD__SIMD_PASS == 512
/* Rows of at most eight floats go two by two. */
#define FOLD__MAP_TWO(p)                                                                           \
    _mm512_maskz_insertf32x8(FOLD__ALL, _mm512_castps256_ps512(_mm256_maskz_loadu_ps(half, p##0)), \
                             _mm256_maskz_loadu_ps(half, p), 1)
#define FOLD__MAP_PAIRS(expression)                                                          \
    for (; n <= 8 && r + 1 < rows;) {                                                        \
        const __mmask8 half = (__mmask8)last;                                                \
        const float *a0 = a, *b0 = b, *c0 = c;                                               \
        float *y0 = y;                                                                       \
        r++;                                                                                 \
        FOLD__MAP_NEXT(y, a, b, c)                                                           \
        FOLD__MAP_LOAD(FOLD__MAP_TWO)                                                        \
        const FOLD__V v = expression;                                                        \
        _mm256_mask_storeu_ps(y0, half, _mm512_maskz_extractf32x8_ps((__mmask8)0xff, v, 0)); \
        _mm256_mask_storeu_ps(y, half, _mm512_maskz_extractf32x8_ps((__mmask8)0xff, v, 1));  \
        if (++r >= rows)                                                                     \
            return;                                                                          \
        FOLD__MAP_NEXT(y, a, b, c)                                                           \
    }
#else
#define FOLD__MAP_PAIRS(expression)
#endif

#define FOLD__MAP_DEFINE(name, expression)                                                                   \
    FOLD__TARGET static void FOLD__ISA(map_##name)(float *y, const float *a, const float *b, const float *c, \
                                                   float s, size_t n, size_t rows, const fold_rows *all)     \
    {                                                                                                        \
        FOLD__NO_CONTRACT                                                                                    \
        const FOLD__MASK last = FOLD__TAIL(n % FOLD__W);                                                     \
        size_t r = 0, i = 0;                                                                                 \
        FOLD__MAP_BEGIN(y, a, b, c)                                                                          \
        (void)s;                                                                                             \
        if (!n)                                                                                              \
            return;                                                                                          \
        FOLD__MAP_PAIRS(expression)                                                                          \
        for (;;) {                                                                                           \
            if (n - i >= FOLD__W) {                                                                          \
                FOLD__MAP_LOAD(FOLD__MAP_WHOLE) FOLD__VSTORE(y + i, expression);                             \
            } else {                                                                                         \
                FOLD__MAP_LOAD(FOLD__MAP_REST) FOLD__VSTORE_M(y + i, expression, last, n - i);               \
            }                                                                                                \
            i += FOLD__W;                                                                                    \
            if (i < n)                                                                                       \
                continue;                                                                                    \
            if (++r >= rows)                                                                                 \
                return;                                                                                      \
            i = 0;                                                                                           \
            FOLD__MAP_NEXT(y, a, b, c)                                                                       \
        }                                                                                                    \
    }
#endif
#define FOLD__MAP_ENTRY(name, expression) FOLD__ISA(map_##name),
#if FOLD__SIMD_PASS == 512
#define FOLD__LIGHT(name, expression)
#define FOLD__LIGHT_ENTRY(name, expression) fold__map_##name##__avx2,
#else
#define FOLD__LIGHT FOLD__MAP_DEFINE
#define FOLD__LIGHT_ENTRY FOLD__MAP_ENTRY
#endif
FOLD__MAPS(FOLD__MAP_DEFINE, FOLD__LIGHT)

/* ---- sixteen lanes, in as many vectors as that takes ---- */

#define FOLD__L FOLD__ISA(lanes)
#define FOLD__PART(i) FOLD__V p##i;
typedef struct FOLD__L {
    FOLD__PARTS(FOLD__PART)
} FOLD__L;
#undef FOLD__PART

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_set)(float x)
{
    FOLD__L l;
#define FOLD__PART(i) l.p##i = FOLD__VSET(x);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return l;
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_load)(const float *a)
{
    FOLD__L l;
#define FOLD__PART(i) l.p##i = FOLD__VLOAD(a + i * FOLD__W);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return l;
}

/* The first n floats, then zeros. */
#if FOLD__W <= 4
FOLD__NOINLINE static FOLD__L FOLD__ISA(lanes_load_n)(const float *a, int n)
{
    float t[FOLD__LANES] = { 0.0f };
    memcpy(t, a, (size_t)n * sizeof *t);
    return FOLD__ISA(lanes_load)(t);
}
#else
#define FOLD__HAVE(i) (n <= i * FOLD__W ? 0 : n - i * FOLD__W > FOLD__W ? FOLD__W : n - i * FOLD__W)
FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_load_n)(const float *a, int n)
{
    FOLD__L l;
#define FOLD__PART(i) l.p##i = FOLD__VLOAD_M(a + i * FOLD__W, FOLD__TAIL(FOLD__HAVE(i)));
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return l;
}
#endif

FOLD__TARGET FOLD__INLINE void FOLD__ISA(lanes_store)(float *y, const FOLD__L *l)
{
#define FOLD__PART(i) FOLD__VSTORE(y + i * FOLD__W, l->p##i);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_fma)(FOLD__L a, FOLD__L b, FOLD__L c)
{
    FOLD__NO_CONTRACT
#define FOLD__PART(i) c.p##i = FOLD__VFMA(a.p##i, b.p##i, c.p##i);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return c;
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_add)(FOLD__L a, FOLD__L b)
{
    FOLD__NO_CONTRACT
#define FOLD__PART(i) a.p##i = FOLD__VADD(a.p##i, b.p##i);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return a;
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_max)(FOLD__L a, FOLD__L b)
{
#define FOLD__PART(i) a.p##i = FOLD__VMAX(a.p##i, b.p##i);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return a;
}

/* The fixed tree: lane l and l + 8, then + 4, + 2, + 1. */
#if FOLD__SIMD_PASS == 512 || FOLD__SIMD_PASS == 256
#if FOLD__SIMD_PASS == 512 && !defined(__clang__)
FOLD__TARGET FOLD__NOINLINE static float
FOLD__ISA(join)(FOLD__V v) /* inlined, gcc 12 makes a mess of the loops before it */
#else
FOLD__TARGET FOLD__INLINE float FOLD__ISA(join)(FOLD__V v)
#endif
{
    __m128 t;
#if FOLD__SIMD_PASS == 512
    __m256 h = _mm256_add_ps(_mm512_maskz_extractf32x8_ps((__mmask8)0xff, v, 0),
                             _mm512_maskz_extractf32x8_ps((__mmask8)0xff, v, 1));
#else
    __m256 h = v;
#endif
    t = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    t = _mm_add_ss(t, _mm_shuffle_ps(t, t, 1));
#if FOLD__SIMD_PASS == 512 && !defined(__clang__)
    _mm256_zeroupper(); /* gcc leaves it out where a vector is an argument, which slows all that follows */
#endif
    return _mm_cvtss_f32(t);
}
#endif

FOLD__TARGET FOLD__INLINE float FOLD__ISA(lanes_sum)(FOLD__L l)
{
    FOLD__NO_CONTRACT
#if FOLD__SIMD_PASS == 512
    return FOLD__ISA(join)(l.p0);
#elif FOLD__SIMD_PASS == 256
    return FOLD__ISA(join)(_mm256_add_ps(l.p0, l.p1));
#elif FOLD__SIMD_PASS == 128
    const float32x4_t v = (l.p0 + l.p2) + (l.p1 + l.p3);
    const float32x2_t h = vget_low_f32(v) + vget_high_f32(v);
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
#else
    float t[FOLD__LANES];
    int half, i;
    FOLD__ISA(lanes_store)(t, &l);
    for (half = FOLD__LANES / 2; half > 0; half /= 2)
        for (i = 0; i < half; i++)
            t[i] = t[i] + t[i + half];
    return t[0];
#endif
}

/* ---- reductions inside a row ---- */

FOLD__TARGET static float FOLD__ISA(sum)(const float *a, size_t n)
{
    FOLD__L l = FOLD__ISA(lanes_set)(0.0f);
    for (; n >= FOLD__LANES; n -= FOLD__LANES, a += FOLD__LANES)
        l = FOLD__ISA(lanes_add)(l, FOLD__ISA(lanes_load)(a));
    if (n)
        l = FOLD__ISA(lanes_add)(l, FOLD__ISA(lanes_load_n)(a, (int)n));
    return FOLD__ISA(lanes_sum)(l);
}

FOLD__TARGET static float FOLD__ISA(dot)(const float *a, const float *b, size_t n)
{
    FOLD__L l = FOLD__ISA(lanes_set)(0.0f);
    for (; n >= FOLD__LANES; n -= FOLD__LANES, a += FOLD__LANES, b += FOLD__LANES)
        l = FOLD__ISA(lanes_fma)(FOLD__ISA(lanes_load)(a), FOLD__ISA(lanes_load)(b), l);
    if (n)
        l = FOLD__ISA(lanes_fma)(FOLD__ISA(lanes_load_n)(a, (int)n), FOLD__ISA(lanes_load_n)(b, (int)n), l);
    return FOLD__ISA(lanes_sum)(l);
}

FOLD__TARGET static float FOLD__ISA(max)(const float *a, size_t n)
{
    FOLD__L l = FOLD__ISA(lanes_set)(-INFINITY);
    float t[FOLD__LANES];
    int half, i;
    for (; n >= FOLD__LANES; n -= FOLD__LANES, a += FOLD__LANES)
        l = FOLD__ISA(lanes_max)(FOLD__ISA(lanes_load)(a), l);
    if (n) {
        for (i = 0; i < FOLD__LANES; i++)
            t[i] = (size_t)i < n ? a[i] : -INFINITY;
        l = FOLD__ISA(lanes_max)(FOLD__ISA(lanes_load)(t), l);
    }
    FOLD__ISA(lanes_store)(t, &l);
    for (half = FOLD__LANES / 2; half > 0; half /= 2)
        for (i = 0; i < half; i++)
            t[i] = t[i + half] > t[i] ? t[i + half] : t[i];
    return t[0];
}

FOLD__TARGET static float FOLD__ISA(exp_sum)(float *y, const float *a, float m, size_t n)
{
    const size_t tile = 1024; /* of the first cache level; the sum's lanes run on from tile to tile */
    FOLD__L l = FOLD__ISA(lanes_set)(0.0f);
    for (size_t part; n; n -= part, a += part, y += part) {
        size_t i = 0;
        part = n < tile ? n : tile;
        FOLD__ISA(map_shift)(y, a, NULL, NULL, -m, part, 1, NULL);
        FOLD__ISA(map_exp)(y, y, NULL, NULL, 0.0f, part, 1, NULL);
        for (; i + FOLD__LANES <= part; i += FOLD__LANES)
            l = FOLD__ISA(lanes_add)(l, FOLD__ISA(lanes_load)(y + i));
        if (i < part)
            l = FOLD__ISA(lanes_add)(l, FOLD__ISA(lanes_load_n)(y + i, (int)(part - i)));
    }
    return FOLD__ISA(lanes_sum)(l);
}

/* ---- optimisers ---- */

/* One vector of values, by LOAD(p) and STORE(p, v). */
#define FOLD__RULE_TURN(states, body, LOAD, STORE)                                                 \
    FOLD__V w = LOAD(pw + i), g = FOLD__VADD(LOAD(pg + i), FOLD__VMUL(decay, w)), s = g, t = g, d; \
    if (states > 0)                                                                                \
        s = LOAD(ps + i);                                                                          \
    if (states > 1)                                                                                \
        t = LOAD(pt + i);                                                                          \
    body;                                                                                          \
    STORE(pw + i, FOLD__VSUB(w, d));                                                               \
    STORE(pg + i, FOLD__VZERO());                                                                  \
    if (states > 0)                                                                                \
        STORE(ps + i, s);                                                                          \
    if (states > 1)                                                                                \
        STORE(pt + i, t);
#define FOLD__RULE_LOAD(p) FOLD__VLOAD_M(p, mask)
#define FOLD__RULE_STORE(p, v) FOLD__VSTORE_M(p, v, mask, n - i)
#define FOLD__RULE_DEFINE(name, states, body)                                                             \
    FOLD__TARGET static void FOLD__ISA(rule_##name)(const fold__step *x, float *pw, float *pg, float *ps, \
                                                    float *pt, size_t n)                                  \
    {                                                                                                     \
        FOLD__NO_CONTRACT                                                                                 \
        const FOLD__V rate = FOLD__VSET(x->rate), decay = FOLD__VSET(x->decay),                           \
                      shrink = FOLD__VSET(x->shrink), epsilon = FOLD__VSET(x->epsilon);                   \
        const FOLD__V keep_s = FOLD__VSET(x->keep_s), add_s = FOLD__VSET(x->add_s),                       \
                      scale_s = FOLD__VSET(x->scale_s);                                                   \
        const FOLD__V keep_t = FOLD__VSET(x->keep_t), add_t = FOLD__VSET(x->add_t),                       \
                      scale_t = FOLD__VSET(x->scale_t);                                                   \
        const FOLD__MASK mask = FOLD__TAIL(n % FOLD__W);                                                  \
        size_t i = 0;                                                                                     \
        (void)ps;                                                                                         \
        (void)pt;                                                                                         \
        (void)shrink;                                                                                     \
        (void)epsilon;                                                                                    \
        (void)keep_s;                                                                                     \
        (void)add_s;                                                                                      \
        (void)scale_s;                                                                                    \
        (void)keep_t;                                                                                     \
        (void)add_t;                                                                                      \
        (void)scale_t;                                                                                    \
        for (; i + FOLD__W <= n; i += FOLD__W) {                                                          \
            FOLD__RULE_TURN(states, body, FOLD__VLOAD, FOLD__VSTORE)                                      \
        }                                                                                                 \
        if (i < n) {                                                                                      \
            FOLD__RULE_TURN(states, body, FOLD__RULE_LOAD, FOLD__RULE_STORE)                              \
        }                                                                                                 \
    }
FOLD__RULES(FOLD__RULE_DEFINE)

/* ---- tiles: R rows by V vectors of a wide product ---- */

/* The cells are spelled out by macros, since an array of accumulators would rely on the compiler to find
   registers for it. F(row, V) for every row, F(R, vector) for every vector. */
#define FOLD__ROWS_1(F, V) F(0, V)
#define FOLD__ROWS_2(F, V) FOLD__ROWS_1(F, V) F(1, V)
#define FOLD__ROWS_3(F, V) FOLD__ROWS_2(F, V) F(2, V)
#define FOLD__ROWS_4(F, V) FOLD__ROWS_3(F, V) F(3, V)
#define FOLD__ROWS_6(F, V) FOLD__ROWS_4(F, V) F(4, V) F(5, V)
#define FOLD__COLS_1(F, R) F(R, 0)
#define FOLD__COLS_2(F, R) FOLD__COLS_1(F, R) F(R, 1)
#define FOLD__COLS_3(F, R) FOLD__COLS_2(F, R) F(R, 2)
#define FOLD__COLS_4(F, R) FOLD__COLS_3(F, R) F(R, 3)
#define FOLD__COLS_5(F, R) FOLD__COLS_4(F, R) F(R, 4)
#define FOLD__COLS_8(F, R) FOLD__COLS_5(F, R) F(R, 5) F(R, 6) F(R, 7)

#if FOLD__SIMD_PASS == 512 || FOLD__SIMD_PASS == 128 || FOLD__W == 1
#define FOLD__VPP 4 /* vectors per panel */
#else
#define FOLD__VPP 2
#endif

/* Few rows: every panel vector meets so few rows that gcc would rather load it again for each; this stops it.
 */
#if defined(__GNUC__) && !defined(__clang__) && FOLD__SIMD_PASS > 128
#define FOLD__KEEP(b) __asm__("" : "+v"(b));
#else
#define FOLD__KEEP(b)
#endif

/* The last vector of a row may be a part of one, where masks are cheap. */
#define FOLD__IS_LAST(c) (FOLD__W > 4 && c + 1 == vectors)
#define FOLD__VLOAD_OF(p, c) \
    (FOLD__IS_LAST(c) ? FOLD__VLOAD_M(p + c * FOLD__W, tail) : FOLD__VLOAD(p + c * FOLD__W))
#define FOLD__FROM(r, c) FOLD__V acc##r##c = FOLD__VLOAD_OF(from##r, c);
#define FOLD__FROM_ROW(r, V)                   \
    const float *from##r = from[r] + from_col; \
    FOLD__COLS_##V(FOLD__FROM, r)
#define FOLD__TO(r, c)                                              \
    if (FOLD__IS_LAST(c))                                           \
        FOLD__VSTORE_M(to##r + c * FOLD__W, acc##r##c, tail, last); \
    else                                                            \
        FOLD__VSTORE(to##r + c * FOLD__W, acc##r##c);
#define FOLD__TO_ROW(r, V)         \
    float *to##r = to[r] + to_col; \
    FOLD__COLS_##V(FOLD__TO, r)
#define FOLD__X_ROW(r, V) const float *a##r = a[r];
#define FOLD__PANEL_VECTOR(c) \
    FOLD__VLOAD(w + (size_t)(c / FOLD__VPP) * panel_stride + c % FOLD__VPP * FOLD__W)
#define FOLD__FMA(r, c) acc##r##c = FOLD__VFMA(x##r, b##c, acc##r##c);
#define FOLD__LOAD_B(r, c) const FOLD__V b##c = FOLD__PANEL_VECTOR(c);
#define FOLD__LOAD_X(r, V) const FOLD__V x##r = FOLD__VSET(a##r[k]);
/* Up to three rows: x stays in registers, the panels' vectors pass. */
#define FOLD__COLUMN(R, c)                            \
    {                                                 \
        FOLD__V b##c = FOLD__PANEL_VECTOR(c);         \
        FOLD__KEEP(b##c) FOLD__ROWS_##R(FOLD__FMA, c) \
    }
#define FOLD__COLUMN_OF_ONE(R, c)                   \
    {                                               \
        const FOLD__V b##c = FOLD__PANEL_VECTOR(c); \
        FOLD__FMA(0, c)                             \
    }
#define FOLD__STEP_1(V) FOLD__ROWS_1(FOLD__LOAD_X, V) FOLD__COLS_##V(FOLD__COLUMN_OF_ONE, 1)
#define FOLD__STEP_2(V) FOLD__ROWS_2(FOLD__LOAD_X, V) FOLD__COLS_##V(FOLD__COLUMN, 2)
#define FOLD__STEP_3(V) FOLD__ROWS_3(FOLD__LOAD_X, V) FOLD__COLS_##V(FOLD__COLUMN, 3)
/* More: the panel's vectors stay, x passes. */
#define FOLD__ROW_OF(r, V)                              \
    {                                                   \
        FOLD__LOAD_X(r, V) FOLD__COLS_##V(FOLD__FMA, r) \
    }
#define FOLD__STEP_4(V) FOLD__COLS_##V(FOLD__LOAD_B, 4) FOLD__ROWS_4(FOLD__ROW_OF, V)
#define FOLD__STEP_6(V) FOLD__COLS_##V(FOLD__LOAD_B, 6) FOLD__ROWS_6(FOLD__ROW_OF, V)

#define FOLD__TILE(R, V)                                                                                     \
    FOLD__TARGET static void FOLD__ISA(tile_##R##x##V)(const fold__span *at)                                 \
    {                                                                                                        \
        FOLD__NO_CONTRACT                                                                                    \
        const size_t width = at->width, panel_stride = at->panel_stride, from_col = at->from_col,            \
                     to_col = at->to_col;                                                                    \
        const float *const *from = at->from, *const * a;                                                     \
        float *const *to = at->to;                                                                           \
        enum { vectors = V };                                                                                \
        const int last = at->last;                                                                           \
        const FOLD__MASK tail = FOLD__TAIL(last);                                                            \
        int t, s, k;                                                                                         \
        (void)panel_stride;                                                                                  \
        for (t = 0; t < at->count; t++, from += R, to += R) {                                                \
            FOLD__ROWS_##R(FOLD__FROM_ROW, V) for (s = 0; s < at->n_seg; s++)                                \
            {                                                                                                \
                const float *w = at->seg[s].w + at->offset;                                                  \
                const int count = at->seg[s].k;                                                              \
                a = at->seg[s].a + t * R;                                                                    \
                for (k = 0; R >= 4 && at->scattered && t + 2 < at->count && k < R; k++)                      \
                    FOLD__PREFETCH(a[2 * R + k]);                                                            \
                FOLD__ROWS_##R(FOLD__X_ROW, V) for (k = 0; k < count; k++, w += width) { FOLD__STEP_##R(V) } \
            }                                                                                                \
            FOLD__ROWS_##R(FOLD__TO_ROW, V)                                                                  \
        }                                                                                                    \
    }
#define FOLD__AT(R, V) FOLD__ISA(tile_##R##x##V)

/* ---- packing ---- */

FOLD__TARGET static void FOLD__ISA(pack_rows)(float *dst, size_t stride, const fold__layout *l,
                                              const fold_rows *x, ptrdiff_t row, int rows, int n)
{
    int p, r, i;
    for (p = 0; p < l->panels; p++, dst += stride) {
        const int col = fold__layout_start(l, p) * FOLD__W,
                  width = fold__layout_start(l, p + 1) * FOLD__W - col, have = n - col;
        float *to = dst;
        for (r = 0; r < rows; r++, to += l->width) {
            const float *from = fold__at(x, row + r) + col;
            for (i = 0; i < width && i + FOLD__W <= have; i += FOLD__W)
                FOLD__VSTORE(to + i, FOLD__VLOAD(from + i));
            for (; i < width; i += FOLD__W)
                FOLD__VSTORE(to + i, FOLD__VLOAD_M(from + i, FOLD__TAIL(have < i ? 0 : have - i)));
        }
    }
}

#if FOLD__SIMD_PASS == 256
FOLD__TARGET static void fold__transpose_8__avx2(float *dst, size_t ld, const float *const src[8], int cols)
{
    int c, i;
    for (c = 0; c + 8 <= cols; c += 8, dst += 8 * ld) {
#define FOLD__PAIR(r, at)                                                       \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src[r] + c + at)), \
                         _mm_loadu_ps(src[r + 4] + c + at), 1)
#define FOLD__FOUR(at)                                                                    \
    {                                                                                     \
        const __m256 p = FOLD__PAIR(0, at), q = FOLD__PAIR(1, at), s = FOLD__PAIR(2, at), \
                     t = FOLD__PAIR(3, at);                                               \
        const __m256 low0 = _mm256_unpacklo_ps(p, q), high0 = _mm256_unpackhi_ps(p, q),   \
                     low1 = _mm256_unpacklo_ps(s, t), high1 = _mm256_unpackhi_ps(s, t);   \
        FOLD__VSTORE(dst + at * ld, _mm256_shuffle_ps(low0, low1, 0x44));                 \
        FOLD__VSTORE(dst + (at + 1) * ld, _mm256_shuffle_ps(low0, low1, 0xee));           \
        FOLD__VSTORE(dst + (at + 2) * ld, _mm256_shuffle_ps(high0, high1, 0x44));         \
        FOLD__VSTORE(dst + (at + 3) * ld, _mm256_shuffle_ps(high0, high1, 0xee));         \
    }
        FOLD__FOUR(0)
        FOLD__FOUR(4)
    }
    for (; c < cols; c++, dst += ld)
        for (i = 0; i < 8; i++)
            dst[i] = src[i][c];
}
#undef FOLD__PAIR
#undef FOLD__FOUR
#endif
#if FOLD__W <= 4
#define FOLD__TRANSPOSE_8 NULL
#else
#define FOLD__TRANSPOSE_8 fold__transpose_8__avx2
#endif

/* ---- tiles of a narrow product: R rows by C columns, each column of the pack a row of k floats ---- */

#define FOLD__NARROW_X(r, C) const float *a##r = fold__at(&seg->a, row + r);
#define FOLD__NARROW_W(R, c) const float *w##c = w + c * stride;
#define FOLD__LANES_ZERO(r, c) FOLD__V acc##r##c = FOLD__VZERO();
#define FOLD__LANES_ZERO_ROW(r, C) FOLD__COLS_##C(FOLD__LANES_ZERO, r)
#define FOLD__LANES_X(r, C)               \
    FOLD__V x##r = FOLD__VLOAD(a##r + k); \
    FOLD__KEEP(x##r)
#define FOLD__LANES_W(R, c)                           \
    {                                                 \
        FOLD__V b##c = FOLD__VLOAD(w##c + k);         \
        FOLD__KEEP(b##c) FOLD__ROWS_##R(FOLD__FMA, c) \
    }
#define FOLD__LANES_X_M(r, C) const FOLD__V x##r = FOLD__VLOAD_M(a##r + k, tail);
#define FOLD__LANES_W_M(R, c)                               \
    {                                                       \
        const FOLD__V b##c = FOLD__VLOAD_M(w##c + k, tail); \
        FOLD__ROWS_##R(FOLD__FMA, c)                        \
    }
#define FOLD__LANES_PUT(r, c)    \
    FOLD__VSTORE(to, acc##r##c); \
    to += FOLD__LANES;
#define FOLD__LANES_PUT_ROW(r, C) FOLD__COLS_##C(FOLD__LANES_PUT, r)

/* One vector of the lanes after the other. Lanes without a last element of their own go on with zeros. */
#define FOLD__NARROW(R, C)                                                                            \
    FOLD__TARGET static void FOLD__ISA(narrow_##R##x##C)(const fold__seg *seg, ptrdiff_t row,         \
                                                         const float *w, size_t stride, float *lanes) \
    {                                                                                                 \
        FOLD__NO_CONTRACT                                                                             \
        const int whole = seg->k - seg->k % FOLD__LANES;                                              \
        int lane, k;                                                                                  \
        FOLD__ROWS_##R(FOLD__NARROW_X, C)                                                             \
            FOLD__COLS_##C(FOLD__NARROW_W, R) for (lane = 0; lane < FOLD__LANES; lane += FOLD__W)     \
        {                                                                                             \
            float *to = lanes + lane;                                                                 \
            FOLD__ROWS_##R(FOLD__LANES_ZERO_ROW, C) for (k = lane; k < whole; k += FOLD__LANES)       \
            {                                                                                         \
                FOLD__ROWS_##R(FOLD__LANES_X, C) FOLD__COLS_##C(FOLD__LANES_W, R)                     \
            }                                                                                         \
            if (whole < seg->k) {                                                                     \
                const int left = seg->k - k;                                                          \
                const FOLD__MASK tail = FOLD__TAIL(left < 0 ? 0 : left < FOLD__W ? left : FOLD__W);   \
                FOLD__ROWS_##R(FOLD__LANES_X_M, C) FOLD__COLS_##C(FOLD__LANES_W_M, R)                 \
            }                                                                                         \
            FOLD__ROWS_##R(FOLD__LANES_PUT_ROW, C)                                                    \
        }                                                                                             \
    }
#define FOLD__NARROW_AT(R, C) FOLD__ISA(narrow_##R##x##C)

#if FOLD__SIMD_PASS == 256
/* Eight sums at a time: every step adds one half of two elements' lanes to the other, so the tree is the
 * fixed one. */
FOLD__TARGET static void fold__add_lanes__avx2(float *total, const float *lanes, int count)
{
    int i;
    for (i = 0; i < count; i += 8) {
        const float *from = lanes + i * FOLD__LANES;
#define FOLD__EIGHT(e) \
    _mm256_add_ps(FOLD__VLOAD(from + (e)*FOLD__LANES), FOLD__VLOAD(from + (e)*FOLD__LANES + 8))
#define FOLD__FOUR(e) \
    _mm256_add_ps(_mm256_permute2f128_ps(p##e, q##e, 0x20), _mm256_permute2f128_ps(p##e, q##e, 0x31))
        const __m256 p0 = FOLD__EIGHT(0), p1 = FOLD__EIGHT(1), p2 = FOLD__EIGHT(2), p3 = FOLD__EIGHT(3);
        const __m256 q0 = FOLD__EIGHT(4), q1 = FOLD__EIGHT(5), q2 = FOLD__EIGHT(6), q3 = FOLD__EIGHT(7);
        const __m256 a = FOLD__FOUR(0), b = FOLD__FOUR(1), c = FOLD__FOUR(2), d = FOLD__FOUR(3);
        const __m256 ab = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
        const __m256 cd = _mm256_add_ps(_mm256_shuffle_ps(c, d, 0x44), _mm256_shuffle_ps(c, d, 0xee));
        const __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd));
        FOLD__VSTORE(total + i, _mm256_add_ps(FOLD__VLOAD(total + i), sums));
    }
}
#undef FOLD__EIGHT
#undef FOLD__FOUR
#endif
#if FOLD__W <= 4
static void FOLD__ISA(add_lanes)(float *total, const float *lanes, int count)
{
    int i;
    for (i = 0; i < count; i++)
        total[i] = total[i] + FOLD__ISA(lanes_sum)(FOLD__ISA(lanes_load)(lanes + i * FOLD__LANES));
}
#define FOLD__ADD_LANES FOLD__ISA(add_lanes)
#else
#define FOLD__ADD_LANES fold__add_lanes__avx2
#endif

/* ---- weight gradients without packing ---- */

#if FOLD__SIMD_PASS == 1
static void FOLD__ISA(grad)(int rows, const fold_rows *x, int first, int k, const fold_rows *dy, int j, int n,
                            float *dw, size_t ldw)
{
    int r, i;
    for (i = first; i < first + k; i++, dw += ldw)
        for (r = 0; r < rows; r++)
            FOLD__ISA(map_axpy)(dw, fold__at(dy, r) + j, NULL, dw, fold__at(x, r)[i], (size_t)n, 1, NULL);
}
#define FOLD__FEW_MANY 2, 2
#else
/* R rows of dY, C vectors of each, stay in registers while rows of dW pass. */
#define FOLD__GRAD_ROW(r, C) \
    const float *x##r = fold__at(x, row + r) + first, *d##r = fold__at(dy, row + r) + from;
#define FOLD__GRAD_DY(r, C) FOLD__COLS_##C(FOLD__GRAD_DY_AT, r)
#define FOLD__GRAD_DY_AT(r, c) const FOLD__V d##r##_##c = FOLD__VLOAD(d##r + j + c * FOLD__W);
#define FOLD__GRAD_DY_M(r, C) const FOLD__V d##r##_0 = FOLD__VLOAD_M(d##r + j, tail);
#define FOLD__GRAD_LOAD(r, c) FOLD__V a##c = FOLD__VLOAD(to + c * FOLD__W);
#define FOLD__GRAD_FMA(r, C)                   \
    {                                          \
        const FOLD__V v = FOLD__VSET(x##r[i]); \
        FOLD__COLS_##C(FOLD__GRAD_FMA_AT, r)   \
    }
#define FOLD__GRAD_FMA_AT(r, c) a##c = FOLD__VFMA(v, d##r##_##c, a##c);
#define FOLD__GRAD_STORE(r, c) FOLD__VSTORE(to + c * FOLD__W, a##c);
#define FOLD__GRAD(R, C)                                                                                    \
    FOLD__TARGET static void FOLD__ISA(grad_##R)(const fold_rows *x, int first, int k, const fold_rows *dy, \
                                                 int from, int n, float *dw, size_t ldw, ptrdiff_t row)     \
    {                                                                                                       \
        FOLD__NO_CONTRACT                                                                                   \
        FOLD__ROWS_##R(FOLD__GRAD_ROW, C) float *to;                                                        \
        int i, j = 0;                                                                                       \
        for (; n - j >= C * FOLD__W; j += C * FOLD__W) {                                                    \
            FOLD__ROWS_##R(FOLD__GRAD_DY, C) to = dw + j;                                                   \
            for (i = 0; i < k; i++, to += ldw) {                                                            \
                FOLD__COLS_##C(FOLD__GRAD_LOAD, R) FOLD__ROWS_##R(FOLD__GRAD_FMA, C)                        \
                    FOLD__COLS_##C(FOLD__GRAD_STORE, R)                                                     \
            }                                                                                               \
        }                                                                                                   \
        for (; j < n; j += FOLD__W) {                                                                       \
            const int left = n - j < FOLD__W ? n - j : FOLD__W;                                             \
            const FOLD__MASK tail = FOLD__TAIL(left);                                                       \
            FOLD__ROWS_##R(FOLD__GRAD_DY_M, 1) to = dw + j;                                                 \
            for (i = 0; i < k; i++, to += ldw) {                                                            \
                FOLD__V a0 = FOLD__VLOAD_M(to, tail);                                                       \
                FOLD__ROWS_##R(FOLD__GRAD_FMA, 1) FOLD__VSTORE_M(to, a0, tail, left);                       \
            }                                                                                               \
        }                                                                                                   \
    }
#if FOLD__SIMD_PASS == 512
FOLD__GRAD(1, 8)
FOLD__GRAD(2, 8) FOLD__GRAD(3, 4) FOLD__GRAD(4, 4) FOLD__GRAD(6, 4)
#else
FOLD__GRAD(1, 8)
FOLD__GRAD(2, 4) FOLD__GRAD(3, 3) FOLD__GRAD(4, 2) FOLD__GRAD(6, 2)
#endif
    static void FOLD__ISA(grad)(int rows, const fold_rows *x, int i, int k, const fold_rows *dy, int j, int n,
                                float *dw, size_t ldw)
{
    int row, height;
#if FOLD__SIMD_PASS == 512
    if (n <= 8) {
        fold__grad__avx2(rows, x, i, k, dy, j, n, dw, ldw);
        return;
    }
#endif
    for (row = 0; row < rows; row += height) {
        height = fold__tile_height(6, rows - row);
        switch (height) {
        case 1: FOLD__ISA(grad_1)(x, i, k, dy, j, n, dw, ldw, row); break;
        case 2: FOLD__ISA(grad_2)(x, i, k, dy, j, n, dw, ldw, row); break;
        case 3: FOLD__ISA(grad_3)(x, i, k, dy, j, n, dw, ldw, row); break;
        case 4: FOLD__ISA(grad_4)(x, i, k, dy, j, n, dw, ldw, row); break;
        default: FOLD__ISA(grad_6)(x, i, k, dy, j, n, dw, ldw, row); break;
        }
    }
}
#define FOLD__FEW_MANY 6, INT_MAX
#endif

/* ---- which tiles there are ---- */

#if FOLD__SIMD_PASS == 512
FOLD__TILE(1, 1)
FOLD__TILE(1, 2) FOLD__TILE(1, 3) FOLD__TILE(1, 4) FOLD__TILE(1, 8) FOLD__TILE(2, 1) FOLD__TILE(2, 2)
    FOLD__TILE(2, 3) FOLD__TILE(2, 4) FOLD__TILE(2, 8) FOLD__TILE(3, 1) FOLD__TILE(3, 2) FOLD__TILE(3, 3)
        FOLD__TILE(3, 4) FOLD__TILE(4, 1) FOLD__TILE(4, 2) FOLD__TILE(4, 3) FOLD__TILE(4, 4) FOLD__TILE(6, 1)
            FOLD__TILE(6, 2) FOLD__TILE(6, 3) FOLD__TILE(6, 4) FOLD__NARROW(1, 1) FOLD__NARROW(1, 2)
                FOLD__NARROW(1, 3) FOLD__NARROW(1, 4) FOLD__NARROW(1, 5) FOLD__NARROW(3, 1) FOLD__NARROW(3, 2)
                    FOLD__NARROW(3, 3) FOLD__NARROW(3, 4) FOLD__NARROW(3, 5)
#define FOLD__LIST                                                                                      \
    1, 6, { 2, 2, 1, 1, 1, 1 },                                                                         \
        { { FOLD__AT(1, 1), FOLD__AT(1, 2), FOLD__AT(1, 3), FOLD__AT(1, 4), NULL, NULL, NULL,           \
            FOLD__AT(1, 8) },                                                                           \
          { FOLD__AT(2, 1), FOLD__AT(2, 2), FOLD__AT(2, 3), FOLD__AT(2, 4), NULL, NULL, NULL,           \
            FOLD__AT(2, 8) },                                                                           \
          { FOLD__AT(3, 1), FOLD__AT(3, 2), FOLD__AT(3, 3), FOLD__AT(3, 4), NULL, NULL, NULL, NULL },   \
          { FOLD__AT(4, 1), FOLD__AT(4, 2), FOLD__AT(4, 3), FOLD__AT(4, 4), NULL, NULL, NULL, NULL },   \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },                                           \
          { FOLD__AT(6, 1), FOLD__AT(6, 2), FOLD__AT(6, 3), FOLD__AT(6, 4), NULL, NULL, NULL, NULL } }, \
        5,                                                                                              \
    {                                                                                                   \
        { FOLD__NARROW_AT(1, 1), FOLD__NARROW_AT(1, 2), FOLD__NARROW_AT(1, 3), FOLD__NARROW_AT(1, 4),   \
          FOLD__NARROW_AT(1, 5) },                                                                      \
            { NULL, NULL, NULL, NULL, NULL },                                                           \
        {                                                                                               \
            FOLD__NARROW_AT(3, 1), FOLD__NARROW_AT(3, 2), FOLD__NARROW_AT(3, 3), FOLD__NARROW_AT(3, 4), \
                FOLD__NARROW_AT(3, 5)                                                                   \
        }                                                                                               \
    }
#elif FOLD__SIMD_PASS == 256
FOLD__TILE(1, 1)
FOLD__TILE(1, 2) FOLD__TILE(1, 4) FOLD__TILE(1, 8) FOLD__TILE(2, 1) FOLD__TILE(2, 2) FOLD__TILE(2, 4)
    FOLD__TILE(3, 1) FOLD__TILE(3, 2) FOLD__TILE(3, 4) FOLD__TILE(4, 1) FOLD__TILE(4, 2) FOLD__TILE(6, 1)
        FOLD__TILE(6, 2) FOLD__NARROW(1, 1) FOLD__NARROW(1, 2) FOLD__NARROW(1, 3) FOLD__NARROW(1, 4)
            FOLD__NARROW(1, 5) FOLD__NARROW(2, 1) FOLD__NARROW(2, 2) FOLD__NARROW(2, 3) FOLD__NARROW(2, 4)
                FOLD__NARROW(2, 5) FOLD__NARROW(4, 1) FOLD__NARROW(4, 2)
#define FOLD__LIST                                                                                        \
    1, 6, { 4, 2, 2, 1, 1, 1 },                                                                           \
        { { FOLD__AT(1, 1), FOLD__AT(1, 2), NULL, FOLD__AT(1, 4), NULL, NULL, NULL, FOLD__AT(1, 8) },     \
          { FOLD__AT(2, 1), FOLD__AT(2, 2), NULL, FOLD__AT(2, 4), NULL, NULL, NULL, NULL },               \
          { FOLD__AT(3, 1), FOLD__AT(3, 2), NULL, FOLD__AT(3, 4), NULL, NULL, NULL, NULL },               \
          { FOLD__AT(4, 1), FOLD__AT(4, 2), NULL, NULL, NULL, NULL, NULL, NULL },                         \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },                                             \
          { FOLD__AT(6, 1), FOLD__AT(6, 2), NULL, NULL, NULL, NULL, NULL, NULL } },                       \
        5,                                                                                                \
    {                                                                                                     \
        { FOLD__NARROW_AT(1, 1), FOLD__NARROW_AT(1, 2), FOLD__NARROW_AT(1, 3), FOLD__NARROW_AT(1, 4),     \
          FOLD__NARROW_AT(1, 5) },                                                                        \
            { FOLD__NARROW_AT(2, 1), FOLD__NARROW_AT(2, 2), FOLD__NARROW_AT(2, 3), FOLD__NARROW_AT(2, 4), \
              FOLD__NARROW_AT(2, 5) },                                                                    \
            { NULL, NULL, NULL, NULL, NULL },                                                             \
        {                                                                                                 \
            FOLD__NARROW_AT(4, 1), FOLD__NARROW_AT(4, 2)                                                  \
        }                                                                                                 \
    }
#elif FOLD__SIMD_PASS == 128
FOLD__TILE(1, 4)
FOLD__TILE(1, 8) FOLD__TILE(2, 4) FOLD__TILE(3, 4) FOLD__TILE(4, 4) FOLD__TILE(6, 4) FOLD__NARROW(1, 1)
    FOLD__NARROW(1, 2)
#define FOLD__LIST                                                                \
    4, 6, { 2, 1, 1, 1, 1, 1 },                                                   \
        { { NULL, NULL, NULL, FOLD__AT(1, 4), NULL, NULL, NULL, FOLD__AT(1, 8) }, \
          { NULL, NULL, NULL, FOLD__AT(2, 4), NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, FOLD__AT(3, 4), NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, FOLD__AT(4, 4), NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },                     \
          { NULL, NULL, NULL, FOLD__AT(6, 4), NULL, NULL, NULL, NULL } },         \
        2,                                                                        \
    {                                                                             \
        {                                                                         \
            FOLD__NARROW_AT(1, 1), FOLD__NARROW_AT(1, 2)                          \
        }                                                                         \
    }
#elif FOLD__GNU_VECTORS
FOLD__TILE(1, 2)
FOLD__TILE(1, 4) FOLD__TILE(1, 8) FOLD__TILE(2, 2) FOLD__TILE(4, 2) FOLD__NARROW(1, 1) FOLD__NARROW(1, 2)
#define FOLD__LIST                                                                          \
    2, 4, { 4, 1, 1, 1, 1, 1 },                                                             \
        { { NULL, FOLD__AT(1, 2), NULL, FOLD__AT(1, 4), NULL, NULL, NULL, FOLD__AT(1, 8) }, \
          { NULL, FOLD__AT(2, 2), NULL, NULL, NULL, NULL, NULL, NULL },                     \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },                               \
          { NULL, FOLD__AT(4, 2), NULL, NULL, NULL, NULL, NULL, NULL },                     \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },                               \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL } },                             \
        2,                                                                                  \
    {                                                                                       \
        {                                                                                   \
            FOLD__NARROW_AT(1, 1), FOLD__NARROW_AT(1, 2)                                    \
        }                                                                                   \
    }
#else
FOLD__TILE(1, 4)
FOLD__NARROW(1, 1)
FOLD__NARROW(1, 2)
#define FOLD__LIST                                                      \
    4, 1, { 1, 1, 1, 1, 1, 1 },                                         \
        { { NULL, NULL, NULL, FOLD__AT(1, 4), NULL, NULL, NULL, NULL }, \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },           \
          { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL } },         \
        2,                                                              \
    {                                                                   \
        {                                                               \
            FOLD__NARROW_AT(1, 1), FOLD__NARROW_AT(1, 2)                \
        }                                                               \
    }
#endif

                        static const fold__tiles
    FOLD__ISA(tiles) = { FOLD__W,
                         FOLD__VPP,
                         FOLD__LIST,
                         FOLD__ADD_LANES,
                         FOLD__FEW_MANY,
                         FOLD__ISA(grad),
                         { FOLD__ISA(pack_rows), FOLD__TRANSPOSE_8 } };

/* ---- the table ---- */

static void FOLD__ISA(pack)(float *dst, const float *w, int k, int n, int transposed, int first, int count)
{
    fold__pack_any(&FOLD__ISA(tiles).mover, FOLD__VPP * FOLD__W, FOLD__W, dst, w, k, n, transposed, first,
                   count);
}

static void FOLD__ISA(product)(const fold__product *p, float *scratch)
{
    fold__product_any(&FOLD__ISA(tiles), p, scratch);
}

static void FOLD__ISA(weight_grad)(int rows, const fold_rows *x, int k, const fold_rows *dy, int n, float *dw,
                                   size_t ldw, float *scratch)
{
    fold__weight_grad_any(&FOLD__ISA(tiles), rows, x, k, dy, n, dw, ldw, scratch);
}

#define FOLD__RULE_ENTRY(name, states, body) FOLD__ISA(rule_##name),

static const fold__kernels FOLD__ISA(table) = { FOLD__ISA_NAME,
                                                FOLD__VPP *FOLD__W,
                                                FOLD__W,
                                                FOLD__ISA(pack),
                                                FOLD__ISA(product),
                                                FOLD__ISA(weight_grad),
                                                { FOLD__MAPS(FOLD__MAP_ENTRY, FOLD__LIGHT_ENTRY) },
                                                FOLD__ISA(sum),
                                                FOLD__ISA(dot),
                                                FOLD__ISA(max),
                                                FOLD__ISA(exp_sum),
                                                { FOLD__RULES(FOLD__RULE_ENTRY) } };

#ifdef FOLD_USE_CBLAS
static void FOLD__ISA(pack_cblas)(float *dst, const float *w, int k, int n, int transposed, int first,
                                  int count)
{
    fold__pack_any(&FOLD__ISA(tiles).mover, 0, 1, dst, w, k, n, transposed, first, count);
}

static void FOLD__ISA(product_cblas)(const fold__product *p, float *scratch)
{
    if (p->rows < 1 || p->n < 1)
        return;
    if (fold__pack_columns_of(p) < FOLD__LANES)
        FOLD__ISA(product)(p, scratch);
    else
        fold__product_sgemm(p, scratch);
}

static const fold__kernels FOLD__ISA(cblas) = { "cblas",
                                                0,
                                                1,
                                                FOLD__ISA(pack_cblas),
                                                FOLD__ISA(product_cblas),
                                                fold__weight_grad_sgemm,
                                                { FOLD__MAPS(FOLD__MAP_ENTRY, FOLD__LIGHT_ENTRY) },
                                                FOLD__ISA(sum),
                                                FOLD__ISA(dot),
                                                FOLD__ISA(max),
                                                FOLD__ISA(exp_sum),
                                                { FOLD__RULES(FOLD__RULE_ENTRY) } };
#endif

#undef FOLD__ISA
#undef FOLD__ISA_NAME
#undef FOLD__TARGET
#undef FOLD__W
#undef FOLD__V
#undef FOLD__M
#undef FOLD__ALL
#undef FOLD__VZERO
#undef FOLD__VSET
#undef FOLD__MASK
#undef FOLD__TAIL
#undef FOLD__VLOAD_M
#undef FOLD__VSTORE_M
#undef FOLD__VSQRT
#undef FOLD__VFMA
#undef FOLD__VMIN
#undef FOLD__VMAX
#undef FOLD__VLT
#undef FOLD__VEQ
#undef FOLD__VSEL
#undef FOLD__I
#undef FOLD__VSETI
#undef FOLD__VLOAD
#undef FOLD__VSTORE
#undef FOLD__IFLOATS
#undef FOLD__VADD
#undef FOLD__VSUB
#undef FOLD__VMUL
#undef FOLD__VDIV
#undef FOLD__VBITS
#undef FOLD__ISET
#undef FOLD__IADD
#undef FOLD__ISUB
#undef FOLD__IAND
#undef FOLD__IXOR
#undef FOLD__ISHL
#undef FOLD__ISHR
#undef FOLD__PARTS
#undef FOLD__FMA_BY_DOUBLES
#undef FOLD__VABS
#undef FOLD__VNEG
#undef FOLD__MAP_BEGIN
#undef FOLD__MAP_NEXT
#undef FOLD__A
#undef FOLD__B
#undef FOLD__C
#undef FOLD__S
#undef FOLD__MAP_CASE
#undef FOLD__MAP_LOAD
#undef FOLD__MAP_WHOLE
#undef FOLD__MAP_REST
#undef FOLD__MAP_TWO
#undef FOLD__MAP_PAIRS
#undef FOLD__MAP_DEFINE
#undef FOLD__L
#undef FOLD__HAVE
#undef FOLD__ROWS_1
#undef FOLD__ROWS_2
#undef FOLD__ROWS_3
#undef FOLD__ROWS_4
#undef FOLD__ROWS_6
#undef FOLD__COLS_1
#undef FOLD__COLS_2
#undef FOLD__COLS_3
#undef FOLD__COLS_4
#undef FOLD__COLS_5
#undef FOLD__COLS_8
#undef FOLD__VPP
#undef FOLD__KEEP
#undef FOLD__IS_LAST
#undef FOLD__VLOAD_OF
#undef FOLD__FROM
#undef FOLD__FROM_ROW
#undef FOLD__TO
#undef FOLD__TO_ROW
#undef FOLD__X_ROW
#undef FOLD__PANEL_VECTOR
#undef FOLD__FMA
#undef FOLD__LOAD_B
#undef FOLD__LOAD_X
#undef FOLD__COLUMN
#undef FOLD__COLUMN_OF_ONE
#undef FOLD__STEP_1
#undef FOLD__STEP_2
#undef FOLD__STEP_3
#undef FOLD__ROW_OF
#undef FOLD__STEP_4
#undef FOLD__STEP_6
#undef FOLD__TILE
#undef FOLD__AT
#undef FOLD__NARROW_X
#undef FOLD__NARROW_W
#undef FOLD__LANES_ZERO
#undef FOLD__LANES_ZERO_ROW
#undef FOLD__LANES_X
#undef FOLD__LANES_W
#undef FOLD__LANES_X_M
#undef FOLD__LANES_W_M
#undef FOLD__LANES_PUT
#undef FOLD__LANES_PUT_ROW
#undef FOLD__ADD_LANES
#undef FOLD__NARROW
#undef FOLD__NARROW_AT
#undef FOLD__FEW_MANY
#undef FOLD__GRAD_ROW
#undef FOLD__GRAD_DY
#undef FOLD__GRAD_DY_AT
#undef FOLD__GRAD_DY_M
#undef FOLD__GRAD_LOAD
#undef FOLD__GRAD_FMA
#undef FOLD__GRAD_FMA_AT
#undef FOLD__GRAD_STORE
#undef FOLD__GRAD
#undef FOLD__LIST
#undef FOLD__MAP_ENTRY
#undef FOLD__LIGHT
#undef FOLD__LIGHT_ENTRY
#undef FOLD__TRANSPOSE_8
#undef FOLD__RULE_TURN
#undef FOLD__RULE_LOAD
#undef FOLD__RULE_STORE
#undef FOLD__RULE_DEFINE
#undef FOLD__RULE_ENTRY

#endif /* FOLD__SIMD_PASS */

/* ============================================================================================
   This software is available under two licences; choose the one you prefer.
   --------------------------------------------------------------------------------------------
   A - MIT License. Copyright (c) 2026 the fold.h authors

   Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
   documentation files (the "Software"), to deal in the Software without restriction, including without
   limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the
   Software, and to permit persons to whom the Software is furnished to do so, subject to the following
   conditions: The above copyright notice and this permission notice shall be included in all copies or
   substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS
   OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE
   AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR
   OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
   WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
   --------------------------------------------------------------------------------------------
   B - Public domain (www.unlicense.org)

   This is free and unencumbered software released into the public domain. Anyone is free to copy, modify,
   publish, use, compile, sell, or distribute this software, either in source code form or as a compiled binary,
   for any purpose, commercial or non-commercial, and by any means. In jurisdictions that recognize copyright
   laws, the author or authors of this software dedicate any and all copyright interest in the software to the
   public domain. We make this dedication for the benefit of the public at large and to the detriment of our
   heirs and successors. We intend this dedication to be an overt act of relinquishment in perpetuity of all
   present and future rights to this software under copyright law. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT
   WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
   FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM,
   DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
   CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
   ============================================================================================ */
