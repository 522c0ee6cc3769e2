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
     FOLD_API *              what stands before every public function, to export or import it:
                             __declspec(dllexport), __attribute__((visibility("default"))). Default extern
     FOLD_NO_MALLOC          no default allocator: every model and context is given its memory
     FOLD_USE_THREADS *      fold_pool: a pool of POSIX threads (gcc or clang). fold_ctx_desc.threads works
                             with any other too
     FOLD_USE_CBLAS          large products by cblas_sgemm (gives up the bit contract; held to a tolerance).
                             FOLD_CBLAS_HEADER names its header, default <cblas.h>
     FOLD_REPRODUCIBLE       the portable kernels use true fmaf and match the SIMD kernels bit for bit (slow
                             without FMA hardware)
     FOLD_ALLOW_FAST_MATH    accept -ffast-math, or x87 arithmetic, which void the numerics contract
     FOLD_FILENAME           this file's name, default "fold.h": it includes itself once per instruction set
     FOLD_GROUP_BYTES        default budget of a group's working set in bytes (see fold_ctx_desc.group_bytes)
     FOLD_NO_STDIO *         no function takes a FILE * or a path

   2 CONTRACTS
     Names     What belongs to a thing is named after it and takes it first: fold_model_…, fold_param_… (a
               model and a parameter), fold_ctx_…. What records, runs and reads nodes takes a context and has
               a bare name: fold_add, fold_run, fold_value; what works on all parameters at once takes the
               model: fold_grads_…, fold_values_…, fold_sgd_step. _new makes a thing (fold_weight_new and its
               kin a parameter), _desc describes one, _default gives the settings of a desc or an optimiser,
               _apply records a layer. Counts are int, bytes size_t, and zero is the default. Outputs come
               last, and `user` is the last argument of callbacks (fold_parallel_for alone gets a pool too);
               in structs it stands behind the callbacks it is handed to.
     Lifetime  Parameters, cells and ops live as long as their model, nodes until the next fold_ctx_reset.
               Strings and arrays given are copied unless their comment says otherwise. A name that is
               returned holds until something is added to the model, a message until the next call.
     Memory    A context takes memory from one caller's block, or through an allocator. No call allocates
               while a recording stays within the largest seen. All memory of a run is reserved before its
               first write. fold_ctx_stats tells the peak and the block size a context would have needed: that
               of its largest recording, and signatures of others, which go when a block is full. What fits a
               block alone fits after anything else.
     Errors    Never abort, exit or print. The first error sticks in the context (or model) with a message;
               the failed call returns the null node, every op accepts null and returns null, and running
               returns the stored status. fold_ctx_reset clears a context's error. A model's error stops its
               contexts too, until fold_model_clear_error. Nothing trained is lost.
               Every call survives NULL: without a model or context it gives FOLD_BAD_ARGUMENT, a null
               handle, NULL, or "no context" as the message.
     Threads   No mutable globals. A context belongs to one thread at a time, and may itself spread a run over
               several (fold_ctx_desc.threads), with the same bits for any number. Many contexts may read one
               model at once; whoever writes the model (optimisers, fold_values_write_begin, fold_backward,
               new parameters and cells) must be alone with it.
     Numerics  Batching never changes a result: values and gradients are bit-identical for a sample alone
               (eager), or in any batch, under any schedule, grouping and number of threads, on every FMA
               instruction set.
               Summation order depends only on the op and its per-sample shapes. Parameter gradients
               depend on the sequence recorded and on nothing else.
               All that computes rounds to nearest and keeps subnormal numbers, whatever the host has set
               the processor to, and puts its settings back. A host that flushes subnormal numbers to zero
               (one linked with -ffast-math does) flushes them where it computes or prints itself.
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
#define FOLD_ALL 0x7fffffff /* axis: over all of them. Axes below 0 count from the end: -1 is the last */

typedef enum fold_status {
    FOLD_OK,
    FOLD_BAD_ARGUMENT,   /* a null pointer, an index or a setting out of range */
    FOLD_BAD_SHAPE,      /* shapes that do not fit the op */
    FOLD_BAD_HANDLE,     /* a stale or foreign node, parameter, cell or op */
    FOLD_BAD_STATE,      /* e.g. reading what was not kept, training an inference context */
    FOLD_BAD_CELL,       /* a cell body that is not what was traced */
    FOLD_NO_MEMORY,
    FOLD_IO,             /* a file, a reader or a writer failed */
    FOLD_STATUS_COUNT
} fold_status;

typedef enum fold_schedule {
    FOLD_SCHEDULE_RATIO,  /* default: the signature with the largest share of its runnable nodes ready */
    FOLD_SCHEDULE_DEPTH,  /* nodes of equal signature and depth (Looks et al. 2017) */
    FOLD_SCHEDULE_AGENDA, /* the signature of least average depth (Neubig et al. 2017) */
    FOLD_SCHEDULE_COUNT
} fold_schedule;

typedef struct fold_model fold_model;  /* parameters, cells, ops: outlives every recording */
typedef struct fold_ctx fold_ctx;      /* one recording and its execution */

/* Handles are plain values; all-zero is null. A node is valid until its context's next fold_ctx_reset.
   The epoch is a 32-bit salt that changes with every reset and differs between contexts: a stale or
   foreign handle is caught but for one in about four thousand million. */
typedef struct fold_node { uint32_t id, epoch; } fold_node;
typedef struct fold_param { uint32_t id, salt; } fold_param;
typedef struct fold_cell { uint32_t id, salt; } fold_cell;
typedef struct fold_op { uint32_t id, salt; } fold_op;
#ifdef __cplusplus
#define FOLD_NULL_NODE fold_node {}
#define FOLD_NULL_PARAM fold_param {}
#else
#define FOLD_NULL_NODE ((fold_node){ 0, 0 })   /* e.g. as the c of a fold_state that has none */
#define FOLD_NULL_PARAM ((fold_param){ 0, 0 }) /* e.g. as no bias: fold_linear(f, x, W, FOLD_NULL_PARAM) */
#endif

/* Row-major shape of one sample's value: rank 1 to 4, every dim at least 1. A scalar has shape [1]. */
typedef struct fold_shape { int rank, dim[FOLD_MAX_RANK]; } fold_shape;

FOLD_API fold_shape fold_shape1(int n);
FOLD_API fold_shape fold_shape2(int rows, int columns);
FOLD_API fold_shape fold_shape3(int d0, int d1, int d2);
FOLD_API fold_shape fold_shape4(int d0, int d1, int d2, int d3);

/* Where memory comes from. Zero: malloc and free; of a context: its model's allocator. `alloc` must return
   memory aligned to `align` (64, or 4096 for large arrays) or NULL; `free` gets the size asked for. A context
   may be given `block` instead, which must be aligned to 64: then it lives inside those block_size bytes and
   never allocates. */
typedef struct fold_memory {
    void *(*alloc)(size_t size, size_t align, void *user);
    void (*free)(void *ptr, size_t size, void *user);
    void *user;
    void *block;
    size_t block_size;
} fold_memory;

FOLD_API const char *fold_status_text(fold_status status);

/* Everything is written through a function of yours, in pieces of `size` bytes: 0 to go on, anything else
   stops the writing. fold_to_file is one whose `user` is a FILE *:
       fold_ctx_print(f, fold_to_file, stdout); */
typedef int fold_writer(const void *bytes, size_t size, void *user);
#ifndef FOLD_NO_STDIO
FOLD_API int fold_to_file(const void *bytes, size_t size, void *file);
#endif
/* Hands out the next `size` bytes; returns how many, fewer at the end or when reading fails. */
typedef size_t fold_reader(void *bytes, size_t size, void *user);

/* ==== 4 model ============================================================================ */

typedef struct fold_model_desc {
    uint64_t seed;       /* of the initialisers; 0 is a seed like any other */
    int inference;       /* no gradients, no optimiser state, no transposed weights. A default model can be
                            trained (in a context made with `training`) */
    const char *isa;     /* NULL: the best this CPU has. "avx512", "avx2", "neon", "portable", "cblas"
                            force one */
    fold_memory memory;  /* a model has no block: take from yours in `alloc` */
} fold_model_desc;
FOLD_API fold_model_desc fold_model_desc_default(void);

/* A new, empty model; desc NULL is the default. NULL when memory runs out, or an alloc has no free beside it.
   An isa that is unknown or not available here, and a memory.block, are errors of the model: nothing can be
   added until fold_model_clear_error accepts the best that there is, and memory from alloc. */
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
    FOLD_INIT_GLOROT,     /* uniform, bound init_scale sqrt(6 / (rows + columns)) (Glorot and Bengio 2010) */
    FOLD_INIT_HE,         /* normal, deviation init_scale sqrt(2 / rows) (He et al. 2015) */
    FOLD_INIT_ORTHOGONAL  /* init_scale times orthonormal rows or columns, the fewer (Saxe et al. 2014) */
} fold_init;

/* What a parameter is used for. Weights of linear ops are kept packed beside their values. */
enum {
    FOLD_FOR_LINEAR = 1,   /* fold_linear: W is [inputs x outputs] */
    FOLD_FOR_LINEAR_T = 2, /* fold_linear_t: the parameter is [outputs x inputs], e.g. a tied embedding */
    FOLD_FOR_LOOKUP = 4    /* fold_lookup: a sparse gradient: only touched rows are cleared and updated */
};

typedef struct fold_param_desc {
    const char *name;    /* unique in the model; copied */
    fold_shape shape;
    fold_init init;      /* default FOLD_INIT_ZEROS, for biases: choose another for weights */
    float init_scale;    /* see fold_init; 0 means 1, but for FOLD_INIT_CONSTANT */
    const float *values; /* initial values instead of an initialiser; copied */
    unsigned uses;       /* FOLD_FOR_…; 0: FOLD_FOR_LINEAR when rank is 2 */
    int frozen;          /* no gradient, no update; may be changed later by fold_param_freeze */
    int buffer;          /* state rather than weight: never trained, and fold_param_freeze leaves it alone */
    int rate_set;        /* 0..15: see fold_model_scale_rates */
} fold_param_desc;

FOLD_API fold_param_desc fold_param_desc_default(void);  /* all zero */

/* Adds a parameter, for as long as the model lives. The null handle and a model error when it cannot. */
FOLD_API fold_param fold_param_new(fold_model *m, const fold_param_desc *desc);
FOLD_API fold_param fold_weight_new(fold_model *m, const char *name, int inputs, int outputs); /* Glorot */
FOLD_API fold_param fold_bias_new(fold_model *m, const char *name, int n);                     /* zeros */
/* Ones, for fold_layer_norm and fold_rms_norm. */
FOLD_API fold_param fold_gain_new(fold_model *m, const char *name, int n);
/* Lookups; normal, deviation 0.1. */
FOLD_API fold_param fold_table_new(fold_model *m, const char *name, int rows, int width);
FOLD_API int fold_param_is_null(fold_param p);
/* Null when there is none. */
FOLD_API fold_param fold_param_find(const fold_model *m, const char *name);
FOLD_API int fold_param_count(const fold_model *m);
/* In order of creation. */
FOLD_API fold_param fold_param_at(const fold_model *m, int index);
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

/* Values and gradients are written between begin and end alone. The null parameter: all, as one span. The
   end of writing values refreshes the packed weights. After that of gradients (e.g. the sum over
   replicas, added in one order everywhere) later runs add to them, and rows of lookup tables that are not
   zero count as touched, as if this model had looked them up. */
FOLD_API float *fold_values_write_begin(fold_model *m, fold_param p);
FOLD_API void fold_values_write_end(fold_model *m, fold_param p);
FOLD_API float *fold_grads_write_begin(fold_model *m, fold_param p);  /* NULL in inference models */
FOLD_API void fold_grads_write_end(fold_model *m, fold_param p);

/* The learning rate and the weight decay of the parameters of a rate set are those of the optimiser times
   these factors, from the next step on. Both are 1 at first; a later call replaces them. */
FOLD_API void fold_model_scale_rates(fold_model *m, int rate_set, float rate, float decay);

/* ==== 5 context ========================================================================== */

/* Calls task(i, user) once for every i in [0, n), on any threads and in any order, and returns when all
   are done. */
typedef void fold_task(int i, void *user);
typedef void fold_parallel_for(int n, fold_task *task, void *user, void *pool);

typedef struct fold_ctx_desc {
    int training;           /* fold_backward will be called. A default context can only run forward */
    int eager;              /* immediate mode: every op runs when recorded, one row at a time, and its
                               value can be read at once; step through it in a debugger */
    int dedupe;             /* identical calls become one node, so that structure depends on data; recurrent
                               and child-sum cells multiply a looked-up word once for all its occurrences.
                               Gradients are summed in another order than without, to the same bits in all
                               contexts with it. It pays where samples have much in common and cells are
                               wide, costs 20 to 40 ns a node and splits batches: measure both */
    fold_schedule schedule;
    size_t group_bytes;     /* independent samples, each recorded as a whole before the next, run in
                               groups whose working set is about this. 0: FOLD_GROUP_BYTES (1 MiB), or more
                               where batches would have fewer than 12 rows. SIZE_MAX: one group */
    size_t plan_cache_bytes; /* reserved for plans: one is kept when a structure is run for the second time,
                               and replayed instead of scheduling from the third on. About 60 bytes a node:
                               begin with 1 << 20. The least recently used go first. 0: none are kept */
    uint64_t (*clock)(void *user); /* nanoseconds from any origin: lets fold_ctx_stats tell times. NULL:
                                      it tells none */
    void *clock_user;
    size_t trace_bytes;     /* reserved for fold_ctx_print_trace: 32 bytes a batch, forward and backward.
                               Needs a clock, which is called from every thread. 0: none */
    int threads;            /* groups of samples run on so many threads, or parts of large batches where
                               there is one group alone; results have the same bits. 0, 1: the caller's
                               alone. User ops are called from all of them */
    fold_parallel_for *parallel_for; /* your job system, or fold_pool_for; needed for threads */
    void *pool;             /* handed to parallel_for */
    fold_memory memory;
} fold_ctx_desc;
FOLD_API fold_ctx_desc fold_ctx_desc_default(void);

#ifdef FOLD_USE_THREADS
/* A pool of POSIX threads (link with -pthread) for fold_ctx_desc: parallel_for = fold_pool_for, pool =
   fold_pool_new(n). n
   counts the caller's own thread, which works too; 1 to 64. One context at a time may run on a pool. NULL
   when there are no threads to be had. */
typedef struct fold_pool fold_pool;
FOLD_API fold_pool *fold_pool_new(int threads);
FOLD_API void fold_pool_free(fold_pool *p);  /* NULL is fine */
/* pool NULL: on the caller's thread */
FOLD_API void fold_pool_for(int n, fold_task *task, void *user, void *pool);
#endif

/* A new context bound to a model; desc NULL: inference. NULL when the allocator gives no memory (or the model
   is NULL). Where a setting is wrong, or a block too small to begin in, the context has an error and nothing
   else: its message says which setting, no reset clears it, and as it lies in memory of the model's
   allocator, fold_ctx_free is due. */
FOLD_API fold_ctx *fold_ctx_new(fold_model *m, const fold_ctx_desc *desc);
FOLD_API void fold_ctx_free(fold_ctx *f);  /* NULL is fine */
FOLD_API fold_model *fold_ctx_model(fold_ctx *f);
/* Forgets the recording and the context's error; keeps memory, signatures and settings. */
FOLD_API void fold_ctx_reset(fold_ctx *f);
/* The first error since the last reset, of the context or else of its model. The message also tells why
   the last read gave nothing, which is no error of the context (see fold_value). */
FOLD_API fold_status fold_ctx_status(const fold_ctx *f);
FOLD_API const char *fold_ctx_message(const fold_ctx *f);

/* ==== 6 inputs =========================================================================== */
/* Calls that record give a node: the null node after an error, and where an input is the null node. */

FOLD_API int fold_node_is_null(fold_node x);
/* Values from the program: [n], or of a shape. They are copied. */
FOLD_API fold_node fold_input(fold_ctx *f, const float *values, int n);
FOLD_API fold_node fold_input_shaped(fold_ctx *f, const float *values, fold_shape shape);
/* The same without a copy: the values must stay unchanged until fold_ctx_reset. */
FOLD_API fold_node fold_input_ref(fold_ctx *f, const float *values, fold_shape shape);
FOLD_API fold_node fold_constant(fold_ctx *f, float value);             /* [1] */
FOLD_API fold_node fold_zeros(fold_ctx *f, fold_shape shape);
/* n values: 1 at `index`, else 0. */
FOLD_API fold_node fold_one_hot(fold_ctx *f, int index, int n);
FOLD_API fold_node fold_lookup(fold_ctx *f, fold_param table, int row); /* a row of a [rows x …] parameter */
FOLD_API fold_node fold_use(fold_ctx *f, fold_param p);                 /* a parameter as a shared value */
/* The same value, marked shared: ops given it take the one value for all rows of their batch. Nodes that use
   different shared values do not batch together. */
FOLD_API fold_node fold_shared(fold_ctx *f, fold_node x);

/* ==== 7 ops ============================================================================== */
/* Shapes are per sample. Element-wise ops of two values take equal shapes, or one of them [1], or one whose
   shape equals the last axes of the other, which is repeated. Factors of fold_scale, terms of fold_shift,
   rows, indices and labels are data: calls that differ in them alone batch together. All other numbers are
   structure. */

/* y = concat(x…) W + b, W [inputs x outputs], b [outputs] or null. x [.., inputs] gives [.., outputs]. A
   concatenation feeding it is never copied: its parts are read in place. */
FOLD_API fold_node fold_linear(fold_ctx *f, fold_node x, fold_param W, fold_param b);
FOLD_API fold_node fold_linear_n(fold_ctx *f, const fold_node *x, int n, fold_param W, fold_param b);
/* fold_linear_n of x and h in two steps, to the same bits:
       start = x W[first rows, as many as x has values] + b;   y = start + h W[last rows]
   start [outputs] can be used many times, or alone where there is no h. */
FOLD_API fold_node fold_linear_first(fold_ctx *f, fold_node x, fold_param W, fold_param b);
FOLD_API fold_node fold_linear_then(fold_ctx *f, fold_node start, fold_node h, fold_param W);
/* y = x Wᵀ + b, W [outputs x inputs]. */
FOLD_API fold_node fold_linear_t(fold_ctx *f, fold_node x, fold_param W, fold_param b);
/* [m,k] and [k,n] give [m,n]; [k] and [k,n] give [n]; [m,k] and [k] give [m]. */
FOLD_API fold_node fold_matmul(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_dot(fold_ctx *f, fold_node a, fold_node b);     /* equal shapes give [1] */

FOLD_API fold_node fold_add(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_sub(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_mul(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_div(fold_ctx *f, fold_node a, fold_node b);
/* a < b ? a : b, and a > b ? a : b; b where they are equal or one is NaN. The gradient goes to what is
   taken. */
FOLD_API fold_node fold_min(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_max(fold_ctx *f, fold_node a, fold_node b);
FOLD_API fold_node fold_scale(fold_ctx *f, fold_node x, float factor);  /* factor x */
FOLD_API fold_node fold_shift(fold_ctx *f, fold_node x, float term);    /* x + term */
FOLD_API fold_node fold_neg(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_exp(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_log(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_sqrt(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_square(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_abs(fold_ctx *f, fold_node x);                  /* gradient 0 at 0 */
FOLD_API fold_node fold_sigmoid(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_tanh(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_relu(fold_ctx *f, fold_node x);                 /* x > 0 ? x : 0 */
FOLD_API fold_node fold_leaky_relu(fold_ctx *f, fold_node x, float slope); /* x > 0 ? x : slope x */
/* In its tanh form (Hendrycks and Gimpel 2016); 0 at -infinity. */
FOLD_API fold_node fold_gelu(fold_ctx *f, fold_node x);
/* x P(x), P the normal distribution, (1 + erf(x / sqrt 2)) / 2: what other libraries mean by GELU. */
FOLD_API fold_node fold_gelu_erf(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_silu(fold_ctx *f, fold_node x);                 /* x sigmoid(x), also called swish */
FOLD_API fold_node fold_elu(fold_ctx *f, fold_node x, float alpha);     /* x > 0 ? x : alpha (e^x - 1) */
FOLD_API fold_node fold_softplus(fold_ctx *f, fold_node x);             /* log(1 + e^x) */
/* Of radians, |x| <= 262144; NaN beyond. */
FOLD_API fold_node fold_sin(fold_ctx *f, fold_node x);
FOLD_API fold_node fold_cos(fold_ctx *f, fold_node x);
/* x^exponent, for one finite exponent. Of x < 0 where the exponent is an integer, else NaN; of 0 it is 0, 1
   or infinity. The gradient is exponent x^(exponent - 1), 0 for an exponent of 0. */
FOLD_API fold_node fold_pow(fold_ctx *f, fold_node x, float exponent);
FOLD_API fold_node fold_floor(fold_ctx *f, fold_node x);                /* no gradient passes */
/* x within bounds, of which an infinite one is none. Where a bound takes its place x gets no gradient. */
FOLD_API fold_node fold_clip(fold_ctx *f, fold_node x, float low, float high);
FOLD_API fold_node fold_at_least(fold_ctx *f, fold_node x, float low);  /* x < low ? low : x */
FOLD_API fold_node fold_at_most(fold_ctx *f, fold_node x, float high);  /* x > high ? high : x */

FOLD_API fold_node fold_softmax(fold_ctx *f, fold_node x);              /* over the last axis */
FOLD_API fold_node fold_log_softmax(fold_ctx *f, fold_node x);          /* over the last axis */
/* Over one axis, which disappears, or over all by FOLD_ALL, which gives [1]. fold_amax is the largest and
   fold_amin the smallest; their gradient goes to the first that is. fold_variance is the mean square of what
   differs from the mean (divided by the number of values, not by one less), fold_logsumexp log sum e^x, and
   fold_prod the product, one factor after the other.
   Sums and means of many values are accurate: here and in fold_sum_n, fold_mean_n, fold_list_sum and
   fold_list_mean at most 32 values are added one after the other. Longer sums are made of blocks that are
   joined by pairs: blocks of 512 for values that lie side by side (16 interleaved sums of 32), blocks of 32
   for rows, nodes and list elements. The order, and with it the bits, depends on the number of values
   alone. */
FOLD_API fold_node fold_sum(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_mean(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_amax(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_amin(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_variance(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_logsumexp(fold_ctx *f, fold_node x, int axis);
FOLD_API fold_node fold_prod(fold_ctx *f, fold_node x, int axis);
/* Of the shape of x: the sum of the values up to and with this one along an axis, one after the other. */
FOLD_API fold_node fold_cumsum(fold_ctx *f, fold_node x, int axis);
/* (x - mean) / sqrt(variance + 1e-5) * gain + bias over the last axis (Ba et al. 2016), whose length gain and
   bias have. Outside inference models a gain that is all zeros because it was given no values is an error:
   fold_gain_new makes ones. Who wants zeros says so, by FOLD_INIT_CONSTANT or fold_param_desc.values. */
FOLD_API fold_node fold_layer_norm(fold_ctx *f, fold_node x, fold_param gain, fold_param bias);
/* With another epsilon than 1e-5, which 0 stands for. */
FOLD_API fold_node fold_layer_norm_eps(fold_ctx *f, fold_node x, fold_param gain, fold_param bias,
                                       float epsilon);
/* x / sqrt(mean square + epsilon) * gain over the last axis (Zhang and Sennrich 2019), epsilon and gain as in
   layer norm. */
FOLD_API fold_node fold_rms_norm(fold_ctx *f, fold_node x, fold_param gain, float epsilon);
/* Zero with probability rate, else x / (1 - rate). In inference contexts: x itself. */
FOLD_API fold_node fold_dropout(fold_ctx *f, fold_node x, float rate);
/* Begins the context's draws anew: a mask is a function of (key, draws since, element) alone. A new context
   has key 0, and fold_ctx_reset changes nothing, so every step has masks of its own. To give a sample the
   same masks wherever it is recorded (in another order, in another context, after loading a model), call
   this before each sample with a key made of its number and the epoch. */
FOLD_API void fold_dropout_seed(fold_ctx *f, uint64_t key);

/* Over any number of nodes of one shape; all counts are one signature and are batched without padding. An
   empty list is an error, but for the …_shaped forms, where it gives zeros of `shape`. */
FOLD_API fold_node fold_sum_n(fold_ctx *f, const fold_node *x, int n);
FOLD_API fold_node fold_mean_n(fold_ctx *f, const fold_node *x, int n);
FOLD_API fold_node fold_max_n(fold_ctx *f, const fold_node *x, int n);  /* gradient to the first largest */
/* The sum of value[k] weighted by softmax over k of score[k], scores [1] (Bahdanau et al. 2015). */
FOLD_API fold_node fold_attend_n(fold_ctx *f, const fold_node *score, const fold_node *value, int n);
FOLD_API fold_node fold_sum_n_shaped(fold_ctx *f, const fold_node *x, int n, fold_shape shape);
FOLD_API fold_node fold_attend_n_shaped(fold_ctx *f, const fold_node *score, const fold_node *value, int n,
                                        fold_shape shape);

FOLD_API fold_node fold_concat(fold_ctx *f, const fold_node *x, int n, int axis);
FOLD_API fold_node fold_concat2(fold_ctx *f, fold_node a, fold_node b); /* along axis 0 */
/* n equal shapes of rank at most 3 give [n, shape], a copy; and back: n windows, of a vector's values [1]. */
FOLD_API fold_node fold_stack(fold_ctx *f, const fold_node *x, int n);
FOLD_API void fold_unstack(fold_ctx *f, fold_node x, int n, fold_node *parts);
/* A part of an axis: a window of axis 0, a copy of another. A start below 0 counts from the axis' end. */
FOLD_API fold_node fold_slice(fold_ctx *f, fold_node x, int axis, int start, int length);
FOLD_API void fold_split(fold_ctx *f, fold_node x, int n, fold_node *parts); /* n equal windows of axis 0 */
FOLD_API fold_node fold_reshape(fold_ctx *f, fold_node x, fold_shape shape);  /* a window */
FOLD_API fold_node fold_transpose(fold_ctx *f, fold_node x, int axis_a, int axis_b); /* a copy */
FOLD_API fold_node fold_pick(fold_ctx *f, fold_node x, int index);      /* one element, [1]; -1: the last */
/* condition > 0 ? a : b; equal shapes. */
FOLD_API fold_node fold_select(fold_ctx *f, fold_node condition, fold_node a, fold_node b);
FOLD_API fold_node fold_stop_gradient(fold_ctx *f, fold_node x);

/* Losses. Each gives [1]. No gradient goes to what is called target; of a and b both get one. */
/* -log softmax(logits)[label] */
FOLD_API fold_node fold_softmax_xent(fold_ctx *f, fold_node logits, int label);
/* The sum of t (log t - log softmax(logits)); the target t sums to 1. */
FOLD_API fold_node fold_softmax_kl(fold_ctx *f, fold_node logits, fold_node target);
/* The sum of softplus(x) - t x, of logits x and target t. */
FOLD_API fold_node fold_bce(fold_ctx *f, fold_node logits, fold_node target);
/* The sum of (a - b)^2. */
FOLD_API fold_node fold_squared_error(fold_ctx *f, fold_node a, fold_node b);
/* With d = a - b the sum of d^2 / 2 where |d| <= delta, else of delta (|d| - delta / 2) (Huber 1964). */
FOLD_API fold_node fold_huber(fold_ctx *f, fold_node a, fold_node b, float delta);
/* The sum over j != label of max(0, 1 + scores[j] - scores[label]) (Weston and Watkins 1999). */
FOLD_API fold_node fold_hinge(fold_ctx *f, fold_node scores, int label);

/* ==== 8 running ========================================================================== */

/* What is readable after a run: the roots, and nodes named here before it, which run even if no root
   needs them. In a cell's body this and the next call are errors: make an output of what is wanted. */
FOLD_API void fold_keep(fold_ctx *f, fold_node x);
/* Keeps the gradient of x: fold_grad gives it after fold_backward. Does nothing in inference contexts. A
   concatenation, such as an output of a bidirectional fold_rnn_stack, is then one more reader of its
   parts, whose gradients it may sum in another order. */
FOLD_API void fold_keep_grad(fold_ctx *f, fold_node x);

/* Runs what the n roots need; n may be 0. More may be recorded afterwards, on top of roots and kept
   nodes, and run again. After a change of parameters a batched context computes anew what it needs; an
   eager one must be reset. */
FOLD_API fold_status fold_run(fold_ctx *f, const fold_node *roots, int n);
/* Runs forward and backward from one scalar root, which may be one element of a larger value, by a
   window, and adds to the gradients of the model's parameters, and to those of kept nodes. Needs no
   fold_run before it; it computes forward itself, a group of samples at a time, so values of an earlier
   run are computed again to the same bits. May be called for several roots in turn: gradients add up. The
   root, earlier roots and kept nodes are readable afterwards. */
FOLD_API fold_status fold_backward(fold_ctx *f, fold_node root);

/* Values of roots and kept nodes, and gradients of nodes named to fold_keep_grad. Inputs and shapes can be
   read before any run. A pointer holds until the next call that records or runs; that call may be a
   fold_input that copies from it, but not after fold_ctx_reset, so copy out by fold_read what the next
   recording needs. When the value is not there: NULL (fold_scalar: NaN, fold_node_shape: rank 0,
   fold_read: a status), and fold_ctx_message says why until the next read or run; the context has no
   error, and all goes on. In a cell's body there are values when it runs in an eager context; while
   fold_cell_new traces it there are none, and asking for them is an error of the cell. */
FOLD_API const float *fold_value(fold_ctx *f, fold_node x);
FOLD_API const float *fold_grad(fold_ctx *f, fold_node x);
FOLD_API float fold_scalar(fold_ctx *f, fold_node x);  /* its first value */
FOLD_API fold_shape fold_node_shape(fold_ctx *f, fold_node x);
/* Copies n nodes of one size to values as a dense [n x size] array. n may be 0. */
FOLD_API fold_status fold_read(fold_ctx *f, const fold_node *x, int n, float *values);

/* ==== 9 optimisers ======================================================================= */
/* Each step updates every parameter that is not frozen and clears the gradients. State is allocated at
   the first step. It begins anew when a step of another kind needs state: momentum, squares (Adagrad,
   RMSprop) or Adam's. Lookup tables: only rows touched since the last step change (value, state, weight
   decay). A backward touches the rows whose lookup the root's gradient reaches, be it zero there: not
   past fold_stop_gradient, targets and what only kept nodes read. A call of a cell passes gradients on
   from all its outputs, zeros from those not used, to the inputs they depend on. A table used as a weight
   by what gradients reach is touched in all rows. Set `rate` anew each step for a schedule. All return
   the model's status. */

/* Settings of the optimisers. Zero means the default, and so settings with nothing but a rate are good ones.
   `rate` has no default: 0 is a step of no length, which trains nothing, as at the end of a schedule.
   Momentum and decay are off by default. To switch beta1, beta2 or rho off give 1e-9f, and epsilon 1e-30f,
   which rounding loses. */
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
    int decoupled;   /* decay is AdamW's (Loshchilov and Hutter 2019): not part of the gradient, w shrinks by
                        rate decay w */
} fold_adam;
FOLD_API fold_sgd fold_sgd_default(void);          /* the defaults, and rate 0.01 */
FOLD_API fold_adagrad fold_adagrad_default(void);  /* rate 0.05 */
FOLD_API fold_rmsprop fold_rmsprop_default(void);  /* rate 0.001 */
FOLD_API fold_adam fold_adam_default(void);        /* rate 0.001 */
FOLD_API fold_status fold_sgd_step(fold_model *m, const fold_sgd *o);
FOLD_API fold_status fold_adagrad_step(fold_model *m, const fold_adagrad *o);
FOLD_API fold_status fold_rmsprop_step(fold_model *m, const fold_rmsprop *o);
FOLD_API fold_status fold_adam_step(fold_model *m, const fold_adam *o);
FOLD_API void fold_grads_clear(fold_model *m);
/* Scales all gradients so that their global norm is at most `limit`; returns the norm before (Pascanu et
   al. 2013). Where it is not finite nothing is scaled: fold_grads_clear in place of a step keeps the
   weights. */
FOLD_API double fold_grads_clip(fold_model *m, float limit);

/* ==== 10 cells =========================================================================== */
/* A cell is a body of ops, traced once when it is made and recorded afterwards as one node per call. Its
   body sees one sample. It may use parameters, cells without a list (inlined), and all ops of section 7
   (fold_linear_n and fold_concat too) but fold_sum_n, fold_mean_n, fold_max_n and fold_attend_n. Errors in
   it: inputs, constants and fold_lookup (hand them in), running, resetting, keeping, and making cells. With
   list inputs, in[n_in + c] stands for component c of every element of the list: ops on it run per element,
   and the fold_list_… reductions lead back to one value per call. */
typedef void fold_cell_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user);
/* user is copied when user_size tells its bytes, and must outlive the model when user_size is 0. */
typedef struct fold_cell_desc {
    const char *name;               /* for messages; copied */
    fold_cell_body *body;           /* called at fold_cell_new, and at every call of an eager context */
    const void *user;               /* handed to body */
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
FOLD_API fold_node fold_call_list(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in,
                                  const fold_node *list, int count);
FOLD_API fold_node fold_out(fold_ctx *f, fold_node call, int i);  /* output i of a call */

FOLD_API fold_node fold_list_sum(fold_ctx *f, fold_node x);       /* in a body; empty: zeros */
FOLD_API fold_node fold_list_mean(fold_ctx *f, fold_node x);      /* empty: zeros */
FOLD_API fold_node fold_list_max(fold_ctx *f, fold_node x);       /* calls with an empty list are errors */
FOLD_API fold_node fold_list_attend(fold_ctx *f, fold_node score, fold_node value);

/* ==== 11 layers ========================================================================== */
/* Plain structs of handles over the ops above. Every layer has _new, which adds its parameters to the
   model, and _apply, which records it. Parameters are named "name." and the names below, in upper case
   the weights, with FOLD_FOR_LINEAR, Glorot's initial values and a row for every input, in lower case the
   biases, initially zero unless said otherwise. A weight that reads x and h has the rows of x first, then
   those of h. Columns are gates of `hidden` columns each, in the order told; a bias has the same columns.
   A whole name has at most 127 bytes; a longer one is an error of the model. */

typedef enum fold_activation {
    FOLD_ACT_LINEAR, /* x itself */
    FOLD_ACT_RELU,
    FOLD_ACT_TANH,
    FOLD_ACT_SIGMOID,
    FOLD_ACT_GELU,
    FOLD_ACT_GELU_ERF,
    FOLD_ACT_SILU
} fold_activation;

/* activation(x W + b): W [inputs x outputs], b [outputs]. */
typedef struct fold_dense { fold_param W, b; fold_activation activation; } fold_dense;
FOLD_API fold_dense fold_dense_new(fold_model *m, const char *name, int inputs, int outputs,
                                   fold_activation activation);
FOLD_API fold_node fold_dense_apply(fold_ctx *f, const fold_dense *layer, fold_node x);

/* Dense layers one after another, 1 to FOLD_MAX_LAYERS. sizes has layers + 1 numbers: of the inputs, and
   of the outputs of every layer. `hidden` comes after all layers but the last, which is linear. Layer i
   has the parameters i.W [sizes[i] x sizes[i + 1]] and i.b [sizes[i + 1]]. */
#define FOLD_MAX_LAYERS 8
typedef struct fold_mlp { int layers; fold_dense layer[FOLD_MAX_LAYERS]; } fold_mlp;
FOLD_API fold_mlp fold_mlp_new(fold_model *m, const char *name, const int *sizes, int layers,
                               fold_activation hidden);
FOLD_API fold_node fold_mlp_apply(fold_ctx *f, const fold_mlp *mlp, fold_node x);

/* What recurrent and tree layers give, and take: h is the output, c the cell state, each [hidden]. c is null
   where a layer has none. */
typedef struct fold_state { fold_node h, c; } fold_state;

/* Recurrent layers of one kind of struct. A cell of your own does as well: from x, h and, with has_c, c
   it gives h and, with has_c, c. */
typedef struct fold_recurrent { fold_cell cell; int hidden, has_c; } fold_recurrent;

/* h' = tanh([x h] W + b) (Elman 1990). W [inputs + hidden x hidden], b [hidden]. */
FOLD_API fold_recurrent fold_rnn_new(fold_model *m, const char *name, int inputs, int hidden);

/* Gates i, f, o through sigmoid and u through tanh are the columns of [x h] W + b; c' = f c + i u and
   h' = o tanh(c') (Hochreiter and Schmidhuber 1997, Gers et al. 2000). W [inputs + hidden x 4 hidden],
   b [4 hidden]: i f o u. The part of b for f is initially 1. */
FOLD_API fold_recurrent fold_lstm_new(fold_model *m, const char *name, int inputs, int hidden);

/* x W + b and h U + c are three blocks of `hidden` columns each, for r, z and n (Cho et al. 2014). With
   X_r for the first block of the one and H_r for that of the other, and so on:
       r = sigmoid(X_r + H_r), z = sigmoid(X_z + H_z), n = tanh(X_n + r H_n), h' = (1 - z) n + z h
   W [inputs x 3 hidden], U [hidden x 3 hidden], b and c [3 hidden]: r z n. */
FOLD_API fold_recurrent fold_gru_new(fold_model *m, const char *name, int inputs, int hidden);

/* The state before a sequence. */
FOLD_API fold_state fold_recurrent_zeros(fold_ctx *f, const fold_recurrent *r);
FOLD_API fold_state fold_recurrent_apply(fold_ctx *f, const fold_recurrent *r, fold_node x, fold_state s);

/* Unrolls one sample's sequence of n >= 0 inputs: the output h of x[t] goes to out[t] (out NULL: they are
   not wanted; out may be x), the final state is returned; of no steps it is the beginning. begin NULL:
   zeros. Each sample is as long as it is: steps of all samples batch, with no padding. After an error the
   state is null.
       for (int t = 0; t < n; t++) x[t] = fold_lookup(f, words, sentence[t]);
       fold_state last = fold_unroll(f, &lstm, x, n, NULL, out);
       fold_node all = fold_stack(f, out, n); // if wanted: [n x hidden]; batches with equal n only */
FOLD_API fold_state fold_unroll(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n,
                                const fold_state *begin, fold_node *out);
/* The same from the last input to the first: out[t] has seen x[t] to x[n - 1], the final state all. */
FOLD_API fold_state fold_unroll_reverse(fold_ctx *f, const fold_recurrent *r, const fold_node *x, int n,
                                        const fold_state *begin, fold_node *out);

/* A dense array of uneven sequences, which must not change until fold_ctx_reset (see fold_input_ref). */
typedef enum fold_layout {
    FOLD_LAYOUT_NTC, /* [samples x steps x width] */
    FOLD_LAYOUT_TNC  /* time first: [steps x samples x width] */
} fold_layout;
typedef struct fold_sequences {
    const float *values;
    int samples, steps, width;
    const int *length;     /* of each sample, 0 to steps; what follows is not read. NULL: all are of
                              `steps` */
    fold_layout layout;
} fold_sequences;
/* The inputs [width] of one sample, to x, which has room for `steps`; returns its length, or 0 and an
   error. */
FOLD_API int fold_sequences_input(fold_ctx *f, const fold_sequences *s, int sample, fold_node *x);
/* Unrolls all samples, one after another. begin: a state per sample, or NULL; out: [samples x steps] in
   this order in both layouts, null past a sample's length, or NULL; last: the final state of every
   sample, or NULL.
       fold_sequences batch = { values, 32, 50, 8, length, FOLD_LAYOUT_NTC };
       fold_unroll_batch(f, &lstm, &batch, NULL, out, last); */
FOLD_API fold_status fold_unroll_batch(fold_ctx *f, const fold_recurrent *r, const fold_sequences *s,
                                       const fold_state *begin, fold_node *out, fold_state *last);

/* Layers of recurrent cells, 1 to FOLD_MAX_LAYERS, each reading the outputs of the one below; in both
   directions they read h of both, [2 hidden], first that which reads forwards. `make` makes the cells,
   whose parameters are those above, named 0, 1, …, in reverse 0.reverse, …: with fold_lstm_new 0.W, 0.b,
   0.reverse.W, ….
       fold_rnn_stack encoder = fold_rnn_stack_new(m, "encoder", fold_lstm_new, inputs, hidden, 2, 1);
       fold_rnn_stack_apply(f, &encoder, x, n, NULL, out, NULL); */
typedef fold_recurrent fold_recurrent_maker(fold_model *m, const char *name, int inputs, int hidden);
typedef struct fold_rnn_stack {
    int layers, directions;
    fold_recurrent cell[2 * FOLD_MAX_LAYERS]; /* cell[layer * directions + direction] */
} fold_rnn_stack;
FOLD_API fold_rnn_stack fold_rnn_stack_new(fold_model *m, const char *name, fold_recurrent_maker *make,
                                           int inputs, int hidden, int layers, int bidirectional);
/* x, n, out as in fold_unroll; out gets what the top layer gives, [hidden] or [2 hidden]. begin, last:
   layers * directions states in the order of `cell`; NULL: zeros, not wanted. */
FOLD_API fold_status fold_rnn_stack_apply(fold_ctx *f, const fold_rnn_stack *s, const fold_node *x, int n,
                                          const fold_state *begin, fold_node *out, fold_state *last);

/* Unrolls a step of your own: it sets *out and next[0 .. n_states) from x and state[0 .. n_states), of
   the same shapes at every step. It is recorded op by op; let it fold_call a cell to make a step one
   node. */
#define FOLD_MAX_STATES 8
typedef void fold_unroll_body(fold_ctx *f, fold_node x, const fold_node *state, fold_node *out,
                              fold_node *next, const void *user);
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
FOLD_API fold_unroll_desc fold_unroll_desc_default(void); /* all zero */
FOLD_API fold_status fold_unroll_steps(fold_ctx *f, const fold_unroll_desc *desc);

/* N-ary tree-LSTM (Tai, Socher, Manning 2015, equations 9-14): a leaf sees its input alone, an inner node its
   `arity` children in order, 1 to 8. Gates i, o and f are through sigmoid, u through tanh. With the sum over
   the children of an inner node
       c = i u + sum of f[k] c[k], h = o tanh(c)
     leaf.W   [inputs x 3 hidden], leaf.b [3 hidden]: i o u
     inner.W  [arity hidden x (3 + arity) hidden], inner.b [(3 + arity) hidden]: i, o, an f for every child in
              order, u; rows are h of the children in order. The part of inner.b for f is initially 1 */
typedef struct fold_tree_lstm { fold_cell leaf, inner; int hidden, arity; } fold_tree_lstm;
FOLD_API fold_tree_lstm fold_tree_lstm_new(fold_model *m, const char *name, int inputs, int hidden,
                                           int arity);
FOLD_API fold_state fold_tree_lstm_apply_leaf(fold_ctx *f, const fold_tree_lstm *t, fold_node x);
FOLD_API fold_state fold_tree_lstm_apply_inner(fold_ctx *f, const fold_tree_lstm *t,
                                               const fold_state *children);

/* Child-sum tree-LSTM (Tai, Socher, Manning 2015, equations 2-8): every node has an input x and any number of
   children. Gates i, o through sigmoid and u through tanh are the columns of [x s] W + b, where s is the sum
   of the children's h. Child k has f[k] = sigmoid([x h[k]] W_f + b_f), and
       c = i u + sum of f[k] c[k], h = o tanh(c)
   Nodes without children are a cell of their own, which has nothing to multiply by zero.
     W    [inputs + hidden x 3 hidden], b [3 hidden]: i o u
     W_f  [inputs + hidden x hidden], b_f [hidden], initially 1 */
typedef struct fold_child_sum { fold_cell leaf, inner; int hidden; } fold_child_sum;
FOLD_API fold_child_sum fold_child_sum_new(fold_model *m, const char *name, int inputs, int hidden);
/* children: n states, n may be 0. */
FOLD_API fold_state fold_child_sum_apply(fold_ctx *f, const fold_child_sum *t, fold_node x,
                                         const fold_state *children, int n);

/* ==== 12 training ======================================================================== */
/* The usual loop, for programs that need no other: it does what its settings say and nothing else.

    fold_fit_desc d = fold_fit_desc_default();
    d.ctx = f; d.samples = n; d.loss = my_loss; d.user = my_data; d.adam = &adam;
    if (fold_fit(&d, NULL)) puts(fold_ctx_message(f));

   For each epoch the samples are put in an order that depends on (seed, epoch) alone, or keep theirs; for
   each batch the context is reset, `loss` records every sample, the mean of their losses is
   differentiated, gradients are clipped, and the optimiser makes a step; the last batch may be smaller.
   Then the metric is taken, files are written, and patience is counted. */

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
    double (*metric)(fold_model *m, void *user); /* after each epoch, the larger the better; e.g. accuracy
                                                    on other samples, in a context of its own. NULL: the
                                                    epoch's mean loss, the smaller the better */
    int (*progress)(const fold_fit_report *report, void *user); /* after each batch and each epoch;
                                                                   nonzero stops */
    void *user;              /* handed to all three */
    int batch;               /* 0: 32 */
    int epochs;              /* 0: 10 */
    int first_epoch;         /* to continue: epochs count from here. After fold_model_load with state:
                                fold_model_steps / batches an epoch */
    uint64_t seed;           /* of the order; and before each sample, of its dropout, by epoch and sample
                                (fold_dropout_seed) */
    int in_order;            /* samples keep their order */
    const fold_sgd *sgd;     /* exactly one of the four is not NULL. Read at every step: progress may
                                change its rate */
    const fold_adagrad *adagrad;
    const fold_rmsprop *rmsprop;
    const fold_adam *adam;
    float clip;              /* fold_grads_clip; 0: no clipping */
    int smaller_is_better;   /* of metric */
    int patience;            /* stops after so many epochs in a row without a new best; 0: never */
    int keep_best;           /* keeps the values of the best epoch in memory and puts them back at the
                                end, whatever ends it */
#ifndef FOLD_NO_STDIO
    const char *best_path;   /* gets the values of each new best (fold_model_save) */
    const char *last_path;   /* gets values and optimiser state after each epoch */
#endif
    const char *config;      /* goes into both files */
} fold_fit_desc;
FOLD_API fold_fit_desc fold_fit_desc_default(void);

/* Takes 4 bytes a sample and 8 for each of a batch from the model's allocator, and with keep_best the
   size of the values, until it returns. Gradients that are there are cleared. report may be NULL; it gets
   the last state. Returns the context's status (see fold_ctx_message): errors of loss, of steps and of
   files end it, and leave the values of the last step, or the best with keep_best. */
FOLD_API fold_status fold_fit(const fold_fit_desc *desc, fold_fit_report *report);

/* ==== 13 files =========================================================================== */
/* Parameters in files of the safetensors format (Hugging Face), which Python reads as
   safetensors.torch.load_file(path). A parameter is a tensor of its name and shape, F32. The optimiser's
   state, if saved, is one or two tensors more: optimizer.momentum.NAME (SGD), optimizer.squares.NAME
   (Adagrad, RMSprop), or optimizer.adam.m.NAME and optimizer.adam.v.NAME; the metadata then say
   `optimizer` and `steps`. Names must be UTF-8; those that begin with "optimizer." cannot be saved.
   Settings of optimisers and rate sets, and what is frozen, are the program's: not in files.

   All of these return the model's status and, like everything of a model, do nothing while it holds an
   error (see fold_model_clear_error). FOLD_IO: a file cannot be opened, read or written, or is no
   safetensors file; FOLD_BAD_SHAPE: a tensor of another shape than its parameter; FOLD_BAD_ARGUMENT: one
   that is missing, unknown or of a type not read. */

typedef struct fold_save_desc {
    int state;           /* the optimiser's state and steps too: training continues from the file to the
                            same bits, when gradients are clear (after a step) and the settings are the
                            same */
    const char *config;  /* kept in the metadata as `config`, UTF-8; e.g. the sizes of the network. NULL:
                            none */
} fold_save_desc;
FOLD_API fold_save_desc fold_save_desc_default(void);  /* all zero */

/* Loading checks the whole header against the model, and has all data at hand, before it writes: a load
   that fails changes nothing. It takes no more from the model's allocator, until it returns, than four
   times the header (at most 100 MB) and the data of the tensors it loads; from memory, nothing for the
   data. Values of type F16, BF16 and F64 become float. Packed weights and kept plans follow; eager
   contexts must be reset. Gradients stay as they are. */
typedef struct fold_load_desc {
    int state;           /* the optimiser's state and steps too. A file without them is an error, or with
                            allow_missing a fresh start */
    int allow_missing;   /* parameters that the file lacks keep their values; state that it lacks becomes
                            zero */
    int allow_unknown;   /* tensors that are no parameters are skipped, of any type; those named
                            optimizer.… always are */
    const char *prefix;  /* only tensors whose names begin so are looked at, under the rest of their
                            names. NULL: all */
    char *config;        /* gets the file's `config` and a final zero, "" if there is none; longer: an
                            error */
    size_t config_size;  /* bytes of config. To know it before there are parameters, load into an empty
                            model with allow_unknown */
    int *loaded;         /* gets how many tensors were loaded, those of the state too: with allow_missing
                            and allow_unknown a file of another model gives FOLD_OK and 0. After an error
                            0. NULL: not wanted */
} fold_load_desc;
FOLD_API fold_load_desc fold_load_desc_default(void);  /* all zero */

/* desc NULL is the default. */
FOLD_API fold_status fold_model_save_to(fold_model *m, fold_writer *write, void *user,
                                        const fold_save_desc *desc);
FOLD_API fold_status fold_model_load_memory(fold_model *m, const void *bytes, size_t size,
                                            const fold_load_desc *desc);
/* In one pass; takes the bytes of the file and none after it. */
FOLD_API fold_status fold_model_load_from(fold_model *m, fold_reader *read, void *user,
                                          const fold_load_desc *desc);
/* Text: what a safetensors file holds, of any program: the name, shape, type and bytes of each tensor,
   and what the metadata say of the optimiser and of config. Reads the header alone. m gives the memory,
   until it returns, and stays as it is, an error too. A file that cannot be read is FOLD_IO, and the text
   says why; FOLD_IO too when the writer stopped. */
FOLD_API fold_status fold_model_print_file_memory(const fold_model *m, const void *bytes, size_t size,
                                                  fold_writer *write, void *user);
#ifndef FOLD_NO_STDIO
/* The same of a file by its path. */
FOLD_API fold_status fold_model_print_file(const fold_model *m, const char *path, fold_writer *write,
                                           void *user);
/* Writes a file beside `path`, `path`.tmp or, while that name is taken, `path`.1.tmp to `path`.99.tmp,
   and renames it when all of it is on the disk, which may take some milliseconds. So whatever happens
   meanwhile, `path` is the file of before or the new one as a whole, and of two savers to one path the
   last wins. A save that fails leaves no file behind, a program that dies may leave its .tmp. What is
   there and is no regular file (a folder, a pipe, a device, a link) is never replaced: FOLD_IO. Where C's
   library is all there is (neither POSIX nor Windows), none of this is sure but that the file is renamed
   when it was written. */
FOLD_API fold_status fold_model_save(fold_model *m, const char *path, const fold_save_desc *desc);
FOLD_API fold_status fold_model_load(fold_model *m, const char *path, const fold_load_desc *desc);
#endif
/* Of its optimiser, those before a loaded state too. */
FOLD_API uint64_t fold_model_steps(const fold_model *m);

/* ==== 14 looking inside ================================================================== */
/* The calls below show the plan of the last run if nothing was recorded since, else the recording by
   depth (the batches policy `depth` would make, unless samples are cut into groups); of an eager context,
   which has no plan, always the recording; of an inference context what it ran, forward. They work in a
   context with an error too, whose message fold_ctx_print ends with, and leave its status alone. They
   return FOLD_OK, FOLD_IO when the writer stopped, or FOLD_NO_MEMORY. The memory they take (about 40
   bytes a node) stays with the context, in a caller's block until they return; like a recording call they
   may move values that fold_value points to. Do not record or run from within the writer. */

/* Text: step by step each signature, how many calls, what their operands are, with shapes. */
FOLD_API fold_status fold_ctx_print(fold_ctx *f, fold_writer *write, void *user);
/* Text: why calls of one op are not one batch: what tells their signatures apart, and whether a signature
   with several batches depends on itself, ran in several groups, or was split by the schedule. */
FOLD_API fold_status fold_ctx_print_splits(fold_ctx *f, fold_writer *write, void *user);
/* A graph for Graphviz's dot: a cluster for every batch, coloured by signature. */
FOLD_API fold_status fold_ctx_print_dot(fold_ctx *f, fold_writer *write, void *user);
/* An SVG picture, which needs nothing else: a column for every batch, coloured by signature, and a
   legend. It has at most 64 rows: of more samples the first are drawn, and the calls of all others
   counted. */
FOLD_API fold_status fold_ctx_print_svg(fold_ctx *f, fold_writer *write, void *user);
/* JSON in the Trace Event Format, which Perfetto and chrome://tracing show: when the last run since the
   reset planned, and each batch of it ran, forward and backward, with its calls and group; tid is the
   thread, in microseconds since the run began. Events beyond fold_ctx_desc.trace_bytes are counted as
   "dropped" in otherData; without trace_bytes or clock, and of eager contexts, there are none. Takes no
   memory and moves nothing. FOLD_OK or FOLD_IO. */
FOLD_API fold_status fold_ctx_print_trace(const fold_ctx *f, fold_writer *write, void *user);
/* Text: the parameters of a model, their shapes, sizes and uses, and its cells. Takes no memory. FOLD_OK
   or FOLD_IO. */
FOLD_API fold_status fold_model_print(const fold_model *m, fold_writer *write, void *user);

typedef struct fold_stats {
    int nodes, edges;            /* recorded since the reset: values, operands */
    int run_nodes;               /* calls and ops that the last run executed */
    int batches;                 /* batches of the last run, forward */
    int prologues;               /* batches beside them: parts of cells that do not depend on the
                                    recursion, run first for all calls */
    int lower_bound;             /* sum over groups and signatures of the longest same-signature chain
                                    (where signatures feed each other in circles, of at most 32767) */
    int groups;                  /* groups of the last run */
    int signatures;              /* known to the context */
    int batched_nodes;           /* executed nodes that shared a batch with another */
    int list_elements;           /* list elements executed: there is no padding */
    int kernel_calls;            /* op kernels called by the last run, forward and backward, once per tile
                                    of rows */
    int one_row_calls;           /* of those: calls of user ops that have no batched path */
    size_t value_bytes;          /* of the last run: values, gradients and scratch */
    size_t plan_bytes;           /* of the last run's plan */
    size_t without_reuse_bytes;  /* what the last run's values and gradients would take if no two shared
                                    memory */
    int plan_hits, plan_misses;  /* runs that replayed a plan, and that did not, since the context was made */
    size_t cached_bytes;         /* of fold_ctx_desc.plan_cache_bytes, in use */
    uint64_t schedule_ns, run_ns; /* of the last run, when the context has a clock: finding and planning
                                     batches, running them */
    size_t pack_bytes;           /* packed weights of the model */
    size_t bytes, peak_bytes;    /* memory held by the context now, and at most */
    size_t block_bytes;          /* the size of a fixed block that is enough for each recording so far.
                                    Where one ran out of memory, what it had asked for, as its message
                                    says: all it needs, or more is needed */
    const char *one_group;       /* why the last run could not be cut into groups; "" when it was. The text is
                                    static */
} fold_stats;
FOLD_API fold_stats fold_ctx_stats(const fold_ctx *f);

/* ==== 15 adding an op ==================================================================== */
/* Built-in ops are rows of the same table. An op's forward and backward see n rows at once. Here is one that
   rounds to multiples of a step, through which gradients pass as if it were not there:

    static const char *round_infer(const fold_shape *in_shape, int n_in, const int32_t *attr,
                                   fold_shape *out_shape)
    {
        (void)n_in, (void)attr;
        out_shape[0] = in_shape[0];
        return in_shape[0].rank == 1 ? NULL : "needs a vector";
    }
    static void round_forward(const fold_op_call *c)
    {
        float step = *(const float *)c->user;
        for (int r = 0; r < c->rows; r++)
            for (int i = 0; i < c->in_shape[0].dim[0]; i++)
                fold_row(&c->out[0], r)[i] = step * floorf(fold_row(&c->in[0], r)[i] / step + 0.5f);
    }
    static void round_backward(const fold_op_call *c)
    {
        for (int r = 0; r < c->rows && fold_row(&c->din[0], r); r++)
            for (int i = 0; i < c->in_shape[0].dim[0]; i++)
                fold_row(&c->din[0], r)[i] = fold_row(&c->dout[0], r)[i];
    }
    static fold_op round_new(fold_model *m, float *step)
    {
        fold_op_desc op = fold_op_desc_default();
        op.name = "round";
        op.n_in = op.n_out = 1;
        op.infer = round_infer;
        op.forward = round_forward;
        op.backward = round_backward; // reads neither inputs nor outputs: no `needs`
        op.user = step;
        return fold_op_new(m, &op);
    }

   With fold_op rounded = round_new(m, &step), y = fold_op_apply(f, rounded, &x, 1, NULL, 0) records it. */

/* n rows of floats: row r is at rows[r] when rows is given, else at base + r * stride. Stride 0: one row
   shared by all. Neither given: absent. */
typedef struct fold_rows { float *base; ptrdiff_t stride; float *const *rows; } fold_rows;
FOLD_API float *fold_row(const fold_rows *x, int r);

typedef struct fold_op_call {
    int rows;
    int n_in, n_out;
    const fold_shape *in_shape, *out_shape;  /* of one row */
    const int32_t *attr;                     /* structural attributes */
    const uint64_t *data; int data_step;     /* per-row data: data[r * data_step] */
    const int *list;                         /* list ops: row r owns rows list[r] to list[r + 1] - 1 of each
                                                input */
    const fold_rows *in, *out;               /* inputs and outputs */
    const fold_rows *dout;                   /* backward: gradients of the outputs */
    const fold_rows *din;                    /* backward: write (do not add) the contribution to each
                                                input's gradient; absent: not wanted */
    float *scratch;                          /* fold_op_desc.scratch floats */
    void *user;                              /* fold_op_desc.user */
} fold_op_call;

/* Reads in_shape[0..n_in) and attr, sets out_shape; returns NULL, or what is wrong ("needs a square
   matrix"). */
typedef const char *fold_op_infer(const fold_shape *in_shape, int n_in, const int32_t *attr,
                                  fold_shape *out_shape);

enum {                          /* what backward reads; anything else may be gone by then */
    FOLD_NEEDS_IN = 1, FOLD_NEEDS_OUT = 2
};
typedef struct fold_op_desc {
    const char *name;           /* for messages and prints; copied */
    int n_in;                   /* fixed inputs; for list ops components per element; -1: 1 to FOLD_MAX_IN */
    int n_out, n_attr;          /* attributes: at most 4. On list elements an eager context runs ops of
                                   one output only */
    int is_list;                /* takes a list, gives one value; its batches mix all lengths */
    int one_row;                /* has no batched path: called with one row at a time (and reported) */
    unsigned needs;             /* FOLD_NEEDS_… */
    int scratch;                /* floats */
    fold_op_infer *infer;
    void (*forward)(const fold_op_call *c);
    void (*backward)(const fold_op_call *c);  /* NULL: no gradient passes */
    void *user;                 /* handed to forward and backward, maybe on several threads; not copied. What
                                   shapes depend on is an attribute, what differs from call to call is data */
} fold_op_desc;
FOLD_API fold_op_desc fold_op_desc_default(void);  /* all zero */
/* The null handle and a model error when it cannot. */
FOLD_API fold_op fold_op_new(fold_model *m, const fold_op_desc *desc);
/* Records an op of yours. in: n_in nodes (list ops: count elements of desc.n_in components, n_in = count *
   components). */
FOLD_API fold_node fold_op_apply(fold_ctx *f, fold_op op, const fold_node *in, int n_in, const int32_t *attr,
                                 uint64_t data);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_H */

/* ============================================================================================
   IMPLEMENTATION
   ============================================================================================ */
#if defined(FOLD_IMPLEMENTATION) && !defined(FOLD__SIMD_PASS) && !defined(FOLD__IMPLEMENTED)

/* ============================================================================================
   THE MAP OF THE IMPLEMENTATION

   A call on its way from record to gradient
     record      fold_linear checks its operands (fold__operand_of), takes concatenations apart
                 (fold__expand_concat) and describes the call, a fold__request. fold__record finds its
                 signature (fold__request_sig: fold__find_sig, fold__sig_by_key, fold__intern_sig) and appends
                 the node (fold__append) and its operands as edges (fold__add_edges). Nothing is computed: an
                 eager context alone runs the op at once (fold__eager_run).
     run         fold_run and fold_backward come to fold__try_run, which calls all that follows: it plans
                 (fold__plan_roots, fold__plan), reserves all memory (fold__reserve_run) and runs
                 (fold__execute). The samples run in waves of as many groups as there are threads
                 (fold__run_samples): each group forward, then backward; then the wave's weight gradients.
     need        fold__mark_needed marks what the roots depend on, fold__mark_grads what gets a gradient. A
                 structure that was run before takes its kept plan instead (fold__replay_plan).
     analyse     fold__analyse_signatures finds for the program of each signature what must be kept for
                 backward and which values share a tile.
     schedule    fold__form_groups cuts the samples into groups. In a group, fold__find_components puts
                 together the signatures that feed each other, and fold__schedule_group makes batches of
                 their calls by the context's policy.
     plan        fold__plan_group finds when each buffer of a group is in use (fold__live_own,
                 fold__live_read) and gives it a place in the group's memory; buffers that are not in use at
                 the same time share one (fold__first_fit).
     forward     fold__run_group runs the batches of a group. fold__begin_batch finds where the operands of
                 a batch lie, fold__forward_batch runs its ops over all rows. A product goes from
                 fold__linear_forward by the table of kernels (`product`) to fold__product_any and the tiles
                 of the instruction set.
     backward    fold__backward_group runs a group's batches in reverse: fold__backward_batch puts together
                 the gradient of each output (fold__finish_value) and writes each op's contribution to its
                 inputs (fold__backward_op).
     weights     fold__list_uses lists the uses of every parameter before anything runs. After each wave
                 fold__sum_groups shares them out among threads; fold__accumulate_weight sums X^T dY of one
                 use over the rows of a group (fold__linear_weight_grad). In the end fold__commit_uses adds
                 the sums to the model's gradients.
     step        fold_adam_step and its sisters come to fold__step_param, which runs the rule of the
                 instruction set over a parameter (FOLD__RULES).

   Where is it?
     the gradient of a weight is summed        fold__accumulate_weight, added to the model: fold__commit_uses
     the order of a run is decided             fold__execute, fold__run_samples
     batches are chosen                        fold__schedule_group; by default fold__schedule_ratio
     memory is used again                      fold__first_fit, called for every group by fold__plan_group
     an op is defined                          FOLD__OPS; CONTRIBUTING.md lists the places to add one
     AVX2's tanh                               FOLD__ISA(tanh): written once, compiled for each set. Profilers
                                               show fold__map_tanh__avx2, where FOLD__MAPS runs it over rows
     a node becomes one with its twin          fold__find_twin
     a cell's body is traced                   fold__trace_body, made a program by fold__compile
     an array of a context is declared         FOLD__ARRAYS
     errors get their text                     fold__fail, fold__model_fail; written by fold__fail_v

   Letters   f is always the context, m the model, i an index in a loop of a few lines. Everything else has a
             name. In kernels the letters are those of the formula beside them.

   Rooms     in this order; each banner says what its room owns, what it calls, and what it must not know.
     configuration and platform            compilers, instruction sets, small helpers on sizes
     errors                                the record of the first error
     arena                                 all memory: growing arrays, or a caller's block
     shapes                                shapes, rows of floats
     kernels                               products, maps, reductions, packs: what ops call
     kernels, once per instruction set     the same kernels in vector macros, compiled once for each
     op table                              every built-in op: forward, backward, shapes; FOLD__OPS
     model                                 parameters, their packs, initial values, touched rows
     the context's data                    the context's struct, its arrays, kinds of nodes
     signatures                            what makes two calls batchable, and their programs
     recording                             operands, nodes, edges, identical calls
     contexts                              making, resetting and freeing a context
     recording the ops                     the public calls that record inputs and ops
     cells                                 tracing a body once, calling it as one node
     what a run knows                      the run's struct: batches, groups, signatures in a run, buffers
     what runs, and what gets a gradient   marks from the roots; how a gradient is put together
     programs of a run's signatures        what each needs for backward, kept from run to run
     scheduler, groups of samples          cutting a recording into groups that fit the budget
     scheduler, signatures of a group      who feeds whom; components
     scheduler, policies                   the order of batches: ratio, depth, agenda
     memory planner                        where the buffers of a group lie, which share memory
     executor                              running a batch forward
     autodiff, gradients of values         running a batch backward
     autodiff, sums of uses                gradients of parameters and shared nodes
     eager contexts                        each op runs when it is recorded: the oracle of tests
     plan cache                            plans kept by structure, and used again
     running                               fold_run, fold_backward, threads, reading values, statistics
     a pool of threads                     fold_pool
     optimisers                            SGD, Adagrad, RMSprop, Adam; clipping
     layers                                dense layers, recurrent layers, tree-LSTMs
     text                                  writing text in pieces
     looking inside                        printing plans, graphs, pictures, time lines
     files                                 safetensors, both ways
     training                              fold_fit

   Words
     node        a value of one sample as it was recorded: a row of the context's node arrays, by id
     call        a node that runs something: one op, or a cell's body
     edge        an operand of a call: a value, and where in it the operand begins
     window      a node that shows a part of another node's value; it has no value of its own
     leaf        a value that no op makes: an input, a row of a table, a parameter
     op          a row of the op table
     cell        a body of ops that was traced once; its calls are single nodes
     program     what a signature runs: one op, or the ops of a cell's body
     signature   what calls must share to be batched (fold__sig, in a context); fold__run_sig is a signature
                 in one run, fold__group_sig in one group of that run
     known       what a context remembers of a signature from run to run (fold__known): its analyses
     analysis    what a program needs when certain inputs get gradients (fold__analysis)
     info        what a run knows of one value, input or operand of a program (fold__value_info)
     list        the elements that a call takes in any number; elements of all calls lie end to end
     chain       calls of one signature of which each reads the one before; no schedule has fewer batches
     component   signatures of a group that feed each other in a circle, or one that feeds none before it
     stage       0: a cell's prologue, what depends on no recursion and runs first for all calls; 1: the rest
     batch       calls of one signature (and one stage) that run together
     sample      calls that no value ties to other samples
     group       samples that run together, forward and backward, before the next group begins
     head, tail  the groups before and behind the samples': what samples share by merging; what only combines
                 their scalars, such as the sum of losses
     buffer      the memory of one value, gradient or contribution of a program, for all calls of a group. One
                 that outlives its batch is a slab in the group's region, a brief one lies in scratch
     slot        the row of a call in its signature's buffers
     link        a value or gradient that crosses between the head or tail and the samples
     wave        the groups that run at the same time, one on each thread
     turn        what a stage does with one op: its function, and where its operands lie
     spot        where the rows of one operand lie, for all batches of a stage (fold__spot)
     tile        some rows of a batch that run through several ops, or a product, while they are in the cache
     span        what a product's tiles do in one go (fold__span)
     contribution  what one consumer sends to a value's gradient
     use         one place where a parameter or a shared node is read; each sums its rows on its own
     pack        a weight laid out in panels for the tiles; refreshed when its values are written
   ============================================================================================ */

/* ==== room: configuration and platform ======================================================
   Owns: compiler differences, small helpers on numbers. Calls: libc. Must not know anything of fold.h. */

#if defined(__FAST_MATH__) && !defined(FOLD_ALLOW_FAST_MATH)
#error "fold.h: -ffast-math voids the numerics contract; define FOLD_ALLOW_FAST_MATH to accept that"
#endif

#include <errno.h>
#include <fenv.h>
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
#error "fold.h: floats are computed in a wider type here: use SSE2, or define FOLD_ALLOW_FAST_MATH"
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
#define FOLD__LIKELY(condition) __builtin_expect(!!(condition), 1)
#else
#define FOLD__PRINTF(string, first)
#define FOLD__LIKELY(condition) (condition)
#endif

/* Does not compile where an array has another number of entries. */
#define FOLD__SAME_COUNT(array, count) (void)sizeof(char[sizeof(array) / sizeof *(array) == (count) ? 1 : -1])

#ifdef __has_attribute
#if __has_attribute(fallthrough)
#define FOLD__FALL __attribute__((fallthrough));
#endif
#endif
#ifndef FOLD__FALL
#define FOLD__FALL
#endif

#define FOLD__NONE 0xffffffffu
#define FOLD__ALIGN 64u
#define FOLD__PAGE 4096u

static size_t fold__round_up(size_t count, size_t to) { return (count + to - 1) / to * to; }
static size_t fold__max_size(size_t left, size_t right) { return left > right ? left : right; }
static size_t fold__min_size(size_t left, size_t right) { return left < right ? left : right; }

/* a * b + c, or SIZE_MAX when that overflows: no allocator grants SIZE_MAX. */
static size_t fold__size(size_t count, size_t size, size_t more)
{
    if (size && count > (SIZE_MAX / 2 - more) / size)
        return SIZE_MAX;
    return count * size + more;
}

static uint64_t fold__mix64(uint64_t bits) /* the finaliser of splitmix64 (Steele et al. 2014) */
{
    bits ^= bits >> 30;
    bits *= UINT64_C(0xbf58476d1ce4e5b9);
    bits ^= bits >> 27;
    bits *= UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

/* ==== room: errors ==========================================================================
   Owns: the sticky error record and the text of a status. Calls: libc. Must not know whose error it is. */

typedef struct fold__error {
    fold_status status;
    char text[248];
} fold__error;

static void fold__fail_v(fold__error *error, fold_status status, const char *format, va_list args)
{
    if (error->status)
        return; /* the first error sticks */
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, args);
}

static void fold__clear_error(fold__error *error)
{
    error->status = FOLD_OK;
    error->text[0] = 0;
}

FOLD_API const char *fold_status_text(fold_status status)
{
    static const char *const text[] = { "ok",       "bad argument",  "bad shape", "bad handle", "bad state",
                                        "bad cell", "out of memory", "input or output failed" };
    FOLD__SAME_COUNT(text, FOLD_STATUS_COUNT);
    return (unsigned)status < FOLD_STATUS_COUNT ? text[status] : "unknown status";
}

/* ==== room: arena ===========================================================================
   Owns: all memory of a context or model, as a fixed list of growing arrays. With an allocator each array is
   one allocation. In a caller's block the arrays lie side by side and growing one slides those after it, so
   the exact size of a block is the sum of what the arrays need. Arrays never shrink: no allocation after
   warm-up. Calls: libc. Must not know what the arrays hold. */

/* bytes; need: the most asked for; of a context's arrays since its reset, unless they are lasting. brief:
 * what it holds is not needed when it grows, nor is it asked for often. */
typedef struct fold__array {
    char *data;
    size_t capacity, need;
    int brief, lasting;
} fold__array;

typedef struct fold__arena {
    fold_memory memory;
    fold__array *array;
    int count;
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
    char *bytes = raw + sizeof(void *);
    bytes += (align - (uintptr_t)bytes % align) % align;
    memcpy(bytes - sizeof(void *), &raw, sizeof(void *));
    return bytes;
}
static void fold__free(void *memory, size_t size, void *user)
{
    void *raw;
    (void)size;
    (void)user;
    memcpy(&raw, (char *)memory - sizeof(void *), sizeof(void *));
    free(raw);
}
#endif

static fold_memory fold__memory_or_default(const fold_memory *given)
{
    fold_memory memory = *given;
#ifndef FOLD_NO_MALLOC
    if (!memory.alloc) {
        memory.alloc = fold__malloc;
        memory.free = fold__free;
        memory.user = NULL;
    }
#endif
    return memory;
}

static void fold__arena_account(fold__arena *arena, size_t more, size_t less)
{
    arena->bytes = arena->bytes + more - less;
    if (arena->bytes > arena->peak)
        arena->peak = arena->bytes;
}

/* Large arrays begin at pages. Of two that are walked through together, one that lay a few cache lines
   further in its page would hold up loads of the other: by its low bits a load's address is that of a store
   just made. */
static size_t fold__alignment(size_t capacity)
{
    return capacity < 16 * FOLD__PAGE ? FOLD__ALIGN : FOLD__PAGE;
}

static int fold__grow_allocated(fold__arena *arena, fold__array *array, size_t need)
{
    const size_t capacity = fold__round_up(
        array->brief ? need + need / 8 : fold__max_size(need, array->capacity * 2), FOLD__ALIGN);
    if (array->data && array->brief) { /* freed first: the peak is one of them */
        arena->memory.free(array->data, array->capacity, arena->memory.user);
        fold__arena_account(arena, 0, array->capacity);
        array->data = NULL;
        array->capacity = 0;
    }
    char *bytes = arena->memory.alloc
                      ? (char *)arena->memory.alloc(capacity, fold__alignment(capacity), arena->memory.user)
                      : NULL;
    if (!bytes)
        return 0;
    fold__arena_account(arena, capacity, 0);
    if (array->data) {
        memcpy(bytes, array->data, array->capacity);
        arena->memory.free(array->data, array->capacity, arena->memory.user);
        fold__arena_account(arena, 0, array->capacity);
    }
    array->data = bytes;
    array->capacity = capacity;
    return 1;
}

/* Lays the arrays of a block out anew with the given room for one of them, moving what they hold. Arrays
   only move up when their lower neighbours grew and down when those gave up slack: two passes. */
static void fold__block_layout(fold__arena *arena, int grown, size_t capacity, int trim)
{
    size_t at = 0, end = 0;
    for (int i = 0; i < arena->count; i++) { /* downwards moves, in order */
        fold__array *array = &arena->array[i];
        size_t keep = trim ? fold__min_size(array->capacity, fold__round_up(array->need, FOLD__ALIGN))
                           : array->capacity;
        if (keep && array->data != arena->block + at)
            memmove(arena->block + at, array->data, keep);
        array->capacity = keep;
        array->data = arena->block + at;
        at += keep;
    }
    end = at - arena->array[grown].capacity + capacity;
    for (int i = arena->count - 1; i > grown; i--) { /* upwards moves, from the top */
        fold__array *array = &arena->array[i];
        end -= array->capacity;
        if (array->capacity)
            memmove(arena->block + end, array->data, array->capacity);
        array->data = arena->block + end;
    }
    arena->array[grown].capacity = capacity;
}

static int fold__grow_in_block(fold__arena *arena, int which, size_t need)
{
    fold__array *array = &arena->array[which];
    size_t exact = fold__round_up(need, FOLD__ALIGN), used = 0, trimmed = 0;
    for (int i = 0; i < arena->count; i++) {
        used += arena->array[i].capacity;
        trimmed += i == which ? 0
                              : fold__min_size(arena->array[i].capacity,
                                               fold__round_up(arena->array[i].need, FOLD__ALIGN));
    }
    size_t room = arena->block_size - used, more = exact - array->capacity;
    if (need > arena->block_size || trimmed + exact > arena->block_size)
        return 0;
    if (more <= room) {
        size_t slack = fold__min_size(exact / 2, (room - more) / 4) / FOLD__ALIGN * FOLD__ALIGN;
        fold__block_layout(arena, which, exact + slack, 0);
    } else {
        fold__block_layout(arena, which, exact, 1);
    }
    size_t now = 0;
    for (int i = 0; i < arena->count; i++)
        now += arena->array[i].capacity;
    arena->bytes = now;
    if (now > arena->peak)
        arena->peak = now;
    return 1;
}

/* Makes array `which` hold `need` bytes; what it held stays. 0 when there is no memory, with nothing changed.
 */
static int fold__arena_need(fold__arena *arena, int which, size_t need)
{
    fold__array *array = &arena->array[which];
    if (need > array->capacity) {
        if (need > SIZE_MAX / 4)
            return 0;
        if (arena->block ? !fold__grow_in_block(arena, which, need)
                         : !fold__grow_allocated(arena, array, need))
            return 0;
    }
    if (need > array->need)
        array->need = need;
    return 1;
}

static void fold__arena_free(fold__arena *arena)
{
    if (arena->block)
        return;
    for (int i = 0; i < arena->count; i++)
        if (arena->array[i].data)
            arena->memory.free(arena->array[i].data, arena->array[i].capacity, arena->memory.user);
}

/* ==== room: shapes ==========================================================================
   Owns: sizes of shapes and their text. Calls: errors. Must not know nodes. */

FOLD_API fold_shape fold_shape1(int count)
{
    fold_shape shape = { 1, { count, 0, 0, 0 } };
    return shape;
}
FOLD_API fold_shape fold_shape2(int rows, int columns)
{
    fold_shape shape = { 2, { rows, columns, 0, 0 } };
    return shape;
}
FOLD_API fold_shape fold_shape3(int d0, int d1, int d2)
{
    fold_shape shape = { 3, { d0, d1, d2, 0 } };
    return shape;
}
FOLD_API fold_shape fold_shape4(int d0, int d1, int d2, int d3)
{
    fold_shape shape = { 4, { d0, d1, d2, d3 } };
    return shape;
}

static int fold__shape_ok(const fold_shape *shape)
{
    size_t size = 1;
    if (shape->rank < 1 || shape->rank > FOLD_MAX_RANK)
        return 0;
    for (int axis = 0; axis < shape->rank; axis++) {
        if (shape->dim[axis] < 1)
            return 0;
        size *= (size_t)shape->dim[axis];
        if (size > (size_t)1 << 30)
            return 0; /* 4 GB a value: offsets stay within 32 bits */
    }
    return 1;
}

static int fold__shape_size(const fold_shape *shape)
{
    int size = 1;
    for (int axis = 0; axis < shape->rank; axis++)
        size *= shape->dim[axis];
    return size;
}

static int fold__shape_same(const fold_shape *left, const fold_shape *right)
{
    if (left->rank != right->rank)
        return 0;
    for (int axis = 0; axis < left->rank; axis++)
        if (left->dim[axis] != right->dim[axis])
            return 0;
    return 1;
}

static int fold__shape_last(const fold_shape *shape) { return shape->dim[shape->rank - 1]; }
/* How many rows along its last axis a value has. */
static int fold__shape_lines(const fold_shape *shape)
{
    return fold__shape_size(shape) / fold__shape_last(shape);
}

/* Appends "[3 x 4]" to the text at `at` of `size` bytes; returns the new end. */
static size_t fold__shape_text(char *text, size_t size, size_t at, const fold_shape *shape)
{
    for (int axis = 0; axis < shape->rank && at < size; axis++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", axis ? " x " : "[", shape->dim[axis]);
    if (at < size)
        at += (size_t)snprintf(text + at, size - at, "]");
    return fold__min_size(at, size - 1);
}

FOLD_API float *fold_row(const fold_rows *rows, int row)
{
    if (rows && rows->rows)
        return rows->rows[row];
    return rows && rows->base ? rows->base + (ptrdiff_t)row * rows->stride : NULL;
}
static const fold_rows fold__no_rows = { NULL, 0, NULL };
static int fold__absent(const fold_rows *rows) { return !rows->base && !rows->rows; }

/* ==== room: kernels =========================================================================
   Owns everything that touches many floats: packed weights, products, weight gradients, element-wise maps and
   reductions, once per instruction set behind one table of functions. Calls: configuration. Sees pointers and
   sizes; must not know ops and nodes.

   Every element of a product is one chain of fused multiply-adds in an order fixed by (K, N) alone, so a
   row's bits depend neither on the rows beside it nor on the instruction set. The part written against vector
   macros is the next room; it is compiled once per instruction set by including this
   file again. */

/* What these passes of gcc find here is not worth a quarter of the room's compile time. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-vectorize", "no-tree-vrp", "no-tree-pre", "no-code-hoisting", "no-tree-slsr")
#pragma GCC optimize("no-tree-tail-merge", "no-schedule-insns2", "no-tree-dominator-opts", "no-crossjumping")
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
#define FOLD__INLINE static inline __attribute__((always_inline, unused))
#define FOLD__NOINLINE __attribute__((noinline))
#define FOLD__PREFETCH(address) __builtin_prefetch(address)
#elif defined(_MSC_VER)
#define FOLD__INLINE static __forceinline
#define FOLD__NOINLINE __declspec(noinline)
#else
#define FOLD__INLINE static inline
#define FOLD__NOINLINE
#endif
#ifndef FOLD__PREFETCH
#define FOLD__PREFETCH(address) (void)(address)
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
FOLD__INLINE float *fold__at(const fold_rows *rows, ptrdiff_t row)
{
    return rows->rows ? rows->rows[row] : rows->base + row * rows->stride;
}
/* A row from the one before it. */
FOLD__INLINE float *fold__next(const fold_rows *rows, const float *before, size_t row)
{
    return rows->rows ? rows->rows[row] : (float *)(uintptr_t)before + rows->stride;
}
static const fold_rows fold__no_others[4] = { { NULL, 0,
                                                NULL } }; /* what a map of one row does not move on by */
/* The rows from `row` on. */
static fold_rows fold__rows_from(const fold_rows *input, ptrdiff_t row)
{
    fold_rows output = *input;
    if (output.rows)
        output.rows += row;
    else
        output.base += row * output.stride;
    return output;
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
    FOLD__PANEL_KEYS = 64,                          /* of attention's keys that lie side by side */
    FOLD__WEIGHED_ROWS = 4,                         /* of attention, at most; a block has room for them */
    FOLD__QUERY_BLOCK = 48,                         /* rows of attention whose scores are held, */
    FOLD__QUERY_LEAST = 12,                         /* fewer where there are many keys, but */
    FOLD__SCORES = 1 << 15,                         /* floats of scores that stay in L2 */
    FOLD__TRANSPOSE_COLUMNS = 64,                   /* of rows that a transpose reads side by side */
    FOLD__CBLAS_BLOCK = 128                         /* rows gathered for one call of sgemm */
};

/* One K-segment of a product: `weights` is the packed weight block, already advanced to the segment's first
   row; `inner` is the segment's K. */
typedef struct fold__seg {
    fold_rows input;
    const float *weights;
    int inner;
} fold__seg;

/* output[row] = init[row] + sum over segments of input[row] . W, or some of its columns. The layout of the
   pack and the order of summation follow n_pack, so a column has the same bits whichever others are asked
   for. */
typedef struct fold__product {
    int rows, columns, n_seg; /* columns: of output and init */
    int n_pack, col;          /* columns of the packed weight (0: `columns`) and the first one wanted */
    size_t panel_stride;      /* fold__pack_stride of the whole weight, whatever part of its K is used */
    const fold__seg *seg;
    fold_rows init; /* base and rows NULL: zero. stride 0: the bias. May be the rows of output */
    fold_rows output;
} fold__product;

static int fold__pack_columns_of(const fold__product *product)
{
    return product->n_pack ? product->n_pack : product->columns;
}

/* One call of attention: queries, keys and values are rows with the parts of all heads side by side, `width`
   floats of query and key and `value_width` of value and out a head. Every fold_rows here has a base and a
   stride, no row pointers. Query row i sees the keys below fold__attention_seen; out[i] is the mean of their
   values weighted by exp(scale q.k), or zeros where there is none. */
typedef struct fold__attention_call {
    int queries, keys, heads, width, value_width;
    int causal;  /* row i sees keys up to i + keys - queries, else all */
    float scale; /* of scores. 0: 1 / sqrt(width) */
    fold_rows query, key, value;
    fold_rows out;   /* written by forward; backward does not read it */
    fold_rows norms; /* [queries x 2 heads]: a head's largest score and its sum of exps, by forward for
                        backward. Base NULL in forward: not kept */
    fold_rows d_out; /* read by backward, which writes the next three, each unless its base is NULL */
    fold_rows d_query, d_key, d_value;
} fold__attention_call;

/* The maps: y = f(a, b, c, s), written in the vector macros of the SIMD section. min, max and relu are
   written as one comparison and a choice, which settles NaN and -0: the second choice wins whenever the
   comparison is false. d_f maps take the gradient of y in a. LIGHT: maps that wait for memory or are rare;
   AVX-512 takes those of AVX2. */
#define FOLD__MAPS(X, LIGHT)                                                                             \
    X(add, FOLD__VADD(FOLD__A, FOLD__B))                                                                 \
    LIGHT(sub, FOLD__VSUB(FOLD__A, FOLD__B))                                                             \
    X(mul, FOLD__VMUL(FOLD__A, FOLD__B))                                                                 \
    LIGHT(div, FOLD__VDIV(FOLD__A, FOLD__B))                                                             \
    LIGHT(min, FOLD__VMIN(FOLD__A, FOLD__B))                                                             \
    LIGHT(max, FOLD__VMAX(FOLD__A, FOLD__B))                                                             \
    X(scale, FOLD__VMUL(FOLD__A, FOLD__S))                                                               \
    X(shift, FOLD__VADD(FOLD__A, FOLD__S))                                                               \
    LIGHT(neg, FOLD__VNEG(FOLD__A))                                                                      \
    LIGHT(copy, FOLD__A)                                                                                 \
    LIGHT(fill, FOLD__S)                                                                                 \
    X(exp, FOLD__ISA(exp)(FOLD__A))                                                                      \
    LIGHT(log, FOLD__ISA(log)(FOLD__A))                                                                  \
    LIGHT(sqrt, FOLD__VSQRT(FOLD__A))                                                                    \
    LIGHT(square, FOLD__VMUL(FOLD__A, FOLD__A))                                                          \
    LIGHT(abs, FOLD__VABS(FOLD__A))                                                                      \
    X(sigmoid, FOLD__ISA(sigmoid)(FOLD__A))                                                              \
    X(tanh, FOLD__ISA(tanh)(FOLD__A))                                                                    \
    LIGHT(relu, FOLD__VMAX(FOLD__A, FOLD__VZERO()))                                                      \
    LIGHT(leaky, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__A), FOLD__A, FOLD__VMUL(FOLD__A, FOLD__S)))   \
    X(gelu, FOLD__ISA(gelu)(FOLD__A))                                                                    \
    X(softplus, FOLD__ISA(softplus)(FOLD__A))                                                            \
    X(silu, FOLD__ISA(silu)(FOLD__A))                                                                    \
    X(gelu_erf, FOLD__ISA(gelu_erf)(FOLD__A))                                                            \
    LIGHT(elu, FOLD__ISA(elu)(FOLD__A, FOLD__S))                                                         \
    LIGHT(sin, FOLD__VSEL(FOLD__VEQ(FOLD__A, FOLD__VZERO()), FOLD__A, FOLD__ISA(sine)(FOLD__A, 0u)))     \
    LIGHT(cos, FOLD__ISA(sine)(FOLD__A, 1u))                                                             \
    LIGHT(pow, FOLD__ISA(pow)(FOLD__A, FOLD__S))                                                         \
    LIGHT(floor, FOLD__ISA(floor)(FOLD__A))                                                              \
    LIGHT(at_least, FOLD__VSEL(FOLD__VLT(FOLD__A, FOLD__S), FOLD__S, FOLD__A))                           \
    LIGHT(at_most, FOLD__VSEL(FOLD__VLT(FOLD__S, FOLD__A), FOLD__S, FOLD__A))                            \
    LIGHT(axpy, FOLD__VFMA(FOLD__A, FOLD__S, FOLD__C))                                                   \
    X(addmul, FOLD__VFMA(FOLD__A, FOLD__B, FOLD__C))                                                     \
    LIGHT(d_min_a, FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__C), FOLD__A, FOLD__VZERO()))                      \
    LIGHT(d_min_b, FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__C), FOLD__VZERO(), FOLD__A))                      \
    LIGHT(d_max_a, FOLD__VSEL(FOLD__VLT(FOLD__C, FOLD__B), FOLD__A, FOLD__VZERO()))                      \
    LIGHT(d_max_b, FOLD__VSEL(FOLD__VLT(FOLD__C, FOLD__B), FOLD__VZERO(), FOLD__A))                      \
    LIGHT(d_div_b, FOLD__VDIV(FOLD__VNEG(FOLD__VMUL(FOLD__A, FOLD__B)), FOLD__C))                        \
    LIGHT(d_exp, FOLD__VMUL(FOLD__A, FOLD__B))                                                           \
    LIGHT(d_log, FOLD__VDIV(FOLD__A, FOLD__B))                                                           \
    LIGHT(d_sqrt, FOLD__VDIV(FOLD__VMUL(FOLD__VSET(0.5f), FOLD__A), FOLD__B))                            \
    LIGHT(d_square, FOLD__VMUL(FOLD__VMUL(FOLD__VSET(2.0f), FOLD__A), FOLD__B))                          \
    LIGHT(d_abs,                                                                                         \
          FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__B), FOLD__A,                                         \
                     FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__VZERO()), FOLD__VNEG(FOLD__A), FOLD__VZERO()))) \
    X(d_sigmoid, FOLD__VMUL(FOLD__A, FOLD__VMUL(FOLD__B, FOLD__VSUB(FOLD__VSET(1.0f), FOLD__B))))        \
    X(d_tanh, FOLD__VMUL(FOLD__A, FOLD__VSUB(FOLD__VSET(1.0f), FOLD__VMUL(FOLD__B, FOLD__B))))           \
    LIGHT(d_relu, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__B), FOLD__A, FOLD__VZERO()))                 \
    LIGHT(d_leaky, FOLD__VSEL(FOLD__VLT(FOLD__VZERO(), FOLD__B), FOLD__A, FOLD__VMUL(FOLD__A, FOLD__S))) \
    X(d_gelu, FOLD__VMUL(FOLD__A, FOLD__ISA(gelu_slope)(FOLD__B)))                                       \
    X(d_softplus, FOLD__VMUL(FOLD__A, FOLD__ISA(sigmoid_call)(FOLD__B)))                                 \
    X(d_silu, FOLD__VMUL(FOLD__A, FOLD__ISA(silu_slope)(FOLD__B)))                                       \
    X(d_gelu_erf, FOLD__VMUL(FOLD__A, FOLD__ISA(gelu_erf_slope)(FOLD__B)))                               \
    LIGHT(d_elu, FOLD__VMUL(FOLD__A, FOLD__ISA(elu_slope)(FOLD__B, FOLD__S)))                            \
    LIGHT(d_sin, FOLD__VMUL(FOLD__A, FOLD__ISA(sine)(FOLD__B, 1u)))                                      \
    LIGHT(d_cos, FOLD__VMUL(FOLD__A, FOLD__ISA(sine)(FOLD__B, 2u)))                                      \
    LIGHT(d_pow, FOLD__VMUL(FOLD__A, FOLD__ISA(pow_slope)(FOLD__B, FOLD__S)))                            \
    LIGHT(d_at_least, FOLD__VSEL(FOLD__VLT(FOLD__B, FOLD__S), FOLD__VZERO(), FOLD__A))                   \
    LIGHT(d_at_most, FOLD__VSEL(FOLD__VLT(FOLD__S, FOLD__B), FOLD__VZERO(), FOLD__A))

enum fold__map {
#define FOLD__MAP_ENUM(name, expression) FOLD__MAP_##name,
    FOLD__MAPS(FOLD__MAP_ENUM, FOLD__MAP_ENUM)
#undef FOLD__MAP_ENUM
        FOLD__MAP_COUNT
};

/* `count` elements of each of `rows` rows. out, in_a, in_b and in_c are the first rows of all[0..3]; `all`
   may be NULL for one row. out may be exactly one of the inputs. An input that the map does not use may be
   NULL: its rows are then those of out. */
typedef void (*fold__map_fn)(float *out, const float *in_a, const float *in_b, const float *in_c,
                             float scalar, size_t count, size_t rows, const fold_rows all[4]);

/* The optimisers' rules: by how much a value falls (`change`), from its gradient `grad` (weight decay added)
   and its states state1 and state2, which the rule renews. True divisions and roots and no fused operations:
   one result on every path. */
#define FOLD__RULES(X)                                                                                      \
    X(sgd, 0, change = FOLD__VMUL(rate, grad))                                                              \
    X(momentum, 1, state1 = FOLD__VADD(FOLD__VMUL(keep1, state1), grad); change = FOLD__VMUL(rate, state1)) \
    X(squares, 1, state1 = FOLD__VADD(FOLD__VMUL(keep1, state1), FOLD__VMUL(FOLD__VMUL(add1, grad), grad)); \
      change = FOLD__VDIV(FOLD__VMUL(rate, grad), FOLD__VADD(FOLD__VSQRT(state1), epsilon)))                \
    X(adam, 2, state1 = FOLD__VADD(FOLD__VMUL(keep1, state1), FOLD__VMUL(add1, grad));                      \
      state2 = FOLD__VADD(FOLD__VMUL(keep2, state2), FOLD__VMUL(FOLD__VMUL(add2, grad), grad));             \
      change = FOLD__VDIV(FOLD__VMUL(rate, FOLD__VMUL(state1, scale1)),                                     \
                          FOLD__VADD(FOLD__VSQRT(FOLD__VMUL(state2, scale2)), epsilon));                    \
      change = FOLD__VADD(FOLD__VMUL(shrink, value), change))

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
    float keep1, add1, scale1, keep2, add2, scale2;
} fold__step;
typedef void (*fold__rule_fn)(const fold__step *step, float *values, float *grads, float *states1,
                              float *states2, size_t count);

typedef struct fold__kernels {
    const char *name; /* "avx512", "avx2", "neon", "portable", "cblas" */
    int panel,
        vector; /* columns of the widest panel and of a vector; panel 0: packs are plain row-major (cblas) */
    /* Packs rows first..first+count of weights, row-major [inner x columns]. If transposed, the weights are
       row-major [columns x inner] and their transpose is packed. */
    void (*pack)(float *dst, const float *weights, int inner, int columns, int transposed, int first,
                 int count);
    void (*product)(const fold__product *product, float *scratch);
    /* dw[i*ldw + j] continues as a chain over r in row order of x[r][i] * dy[r][j] */
    void (*weight_grad)(int rows, const fold_rows *input, int inner, const fold_rows *dy, int columns,
                        float *dw, size_t ldw, float *scratch);
    fold__map_fn map[FOLD__MAP_COUNT];
    float (*sum)(const float *values, size_t count);
    float (*dot)(const float *left, const float *right, size_t count);
    float (*largest)(const float *values, size_t count); /* NaN never wins; -inf when nothing does */
    float (*exp_sum)(float *to, const float *from, float largest,
                     size_t count);       /* to = exp(from - largest); returns their sum */
    fold__rule_fn rule[FOLD__RULE_COUNT]; /* updates n values and clears their gradient */
    /* Heads first..last-1, with attention_floats of scratch. Threads that share a call out by heads
       write nothing in common. */
    size_t (*attention_floats)(const fold__attention_call *call, int backward);
    void (*attention_forward)(const fold__attention_call *call, int first, int last, float *scratch);
    void (*attention_backward)(const fold__attention_call *call, int first, int last, float *scratch);
} fold__kernels;

/* Where the columns of a pack lie. Vectors are dealt out evenly, so 5 vectors are panels of 3 + 2, not 4 + 1;
   rows of every panel are `width` floats apart, so that one offset advances all panels to a weight row. */
typedef struct fold__layout {
    int panels, full, vectors, width;
} fold__layout; /* the first `full` panels have `vectors`, the others one less */

static fold__layout fold__layout_of(int panel, int vector, int columns)
{
    fold__layout layout;
    int vectors;
    if (panel == 0) {
        layout.panels = layout.full = layout.vectors = 1;
        layout.width = columns;
        return layout;
    }
    vectors = (columns - 1) / vector + 1;
    layout.panels = (vectors - 1) / (panel / vector) + 1;
    if (vector < 16)
        vectors =
            layout.panels * (panel / vector); /* short vectors: whole panels only, the padding is small */
    layout.vectors = (vectors - 1) / layout.panels + 1;
    layout.full = vectors - layout.panels * (layout.vectors - 1);
    layout.width = layout.vectors * vector;
    return layout;
}

/* The first vector of a panel. */
static int fold__layout_start(const fold__layout *layout, int panel)
{
    return panel * layout->vectors - (panel > layout->full ? panel - layout->full : 0);
}

/* Floats between the columns of a narrow pack: a multiple of a cache line. */
static size_t fold__narrow_stride(int inner)
{
    return ((size_t)inner + FOLD__LANES - 1) / FOLD__LANES * FOLD__LANES;
}

/* Floats between the panels of a pack of k weight rows (narrow: between its columns). */
static size_t fold__pack_stride(const fold__kernels *kernels, int inner, int columns)
{
    return columns < FOLD__LANES
               ? fold__narrow_stride(inner)
               : (size_t)inner * (size_t)fold__layout_of(kernels->panel, kernels->vector, columns).width;
}

static size_t fold__pack_floats(const fold__kernels *kernels, int inner, int columns)
{
    return fold__pack_stride(kernels, inner, columns) *
           (size_t)(columns < FOLD__LANES ? columns
                                          : fold__layout_of(kernels->panel, kernels->vector, columns).panels);
}

/* Floats by which a pack pointer advances to start at weight row `row`. */
static size_t fold__pack_row(const fold__kernels *kernels, int columns, size_t row)
{
    return columns < FOLD__LANES
               ? row
               : row * (size_t)fold__layout_of(kernels->panel, kernels->vector, columns).width;
}

/* Floats of scratch that product and weight_grad need for these sizes, whatever the number of rows. */
static size_t fold__scratch_floats(const fold__kernels *kernels, int inner, int count)
{
    fold__layout layout;
    if (kernels->panel == 0)
        return FOLD__NARROW_ELEMENTS * FOLD__LANES +
               (size_t)FOLD__CBLAS_BLOCK * ((size_t)inner + (size_t)count);
    layout = fold__layout_of(kernels->panel, kernels->vector, count < 1 ? 1 : count);
    return FOLD__TILE_ROWS * FOLD__TILE_WIDTH + FOLD__TILE_POINTERS +
           (size_t)FOLD__ROW_BLOCK * ((size_t)FOLD__K_BLOCK + (size_t)layout.panels * (size_t)layout.width);
}

/* dst[c*ld + r] = src[r][c] for four rows and cols columns. */
FOLD__INLINE void fold__transpose_4(float *dst, size_t ld, const float *const src[4], int cols)
{
    int column = 0;
#if FOLD__X86
    for (; column + 4 <= cols; column += 4) {
        __m128 row0 = _mm_loadu_ps(src[0] + column), row1 = _mm_loadu_ps(src[1] + column),
               row2 = _mm_loadu_ps(src[2] + column), row3 = _mm_loadu_ps(src[3] + column);
        __m128 low01 = _mm_unpacklo_ps(row0, row1), low23 = _mm_unpacklo_ps(row2, row3),
               high01 = _mm_unpackhi_ps(row0, row1), high23 = _mm_unpackhi_ps(row2, row3);
        float *to = dst + (size_t)column * ld;
        _mm_storeu_ps(to, _mm_movelh_ps(low01, low23));
        _mm_storeu_ps(to + ld, _mm_movehl_ps(low23, low01));
        _mm_storeu_ps(to + 2 * ld, _mm_movelh_ps(high01, high23));
        _mm_storeu_ps(to + 3 * ld, _mm_movehl_ps(high23, high01));
    }
#elif FOLD__NEON
    for (; column + 4 <= cols; column += 4) {
        const float32x4x2_t pair01 = vtrnq_f32(vld1q_f32(src[0] + column), vld1q_f32(src[1] + column)),
                            pair23 = vtrnq_f32(vld1q_f32(src[2] + column), vld1q_f32(src[3] + column));
        float *to = dst + (size_t)column * ld;
        vst1q_f32(to, vcombine_f32(vget_low_f32(pair01.val[0]), vget_low_f32(pair23.val[0])));
        vst1q_f32(to + ld, vcombine_f32(vget_low_f32(pair01.val[1]), vget_low_f32(pair23.val[1])));
        vst1q_f32(to + 2 * ld, vcombine_f32(vget_high_f32(pair01.val[0]), vget_high_f32(pair23.val[0])));
        vst1q_f32(to + 3 * ld, vcombine_f32(vget_high_f32(pair01.val[1]), vget_high_f32(pair23.val[1])));
    }
#endif
    for (; column < cols; column++) {
        float *to = dst + (size_t)column * ld;
        to[0] = src[0][column];
        to[1] = src[1][column];
        to[2] = src[2][column];
        to[3] = src[3][column];
    }
}

/* What packing uses of an instruction set. */
typedef struct fold__mover {
    /* Rows row..row+rows of x, n columns, as panels `stride` floats apart; what is left of the last one's
     * vectors is zero. */
    void (*pack_rows)(float *dst, size_t stride, const fold__layout *layout, const fold_rows *input,
                      ptrdiff_t row, int rows, int columns);
    /* dst[c*ld + r] = src[r][c] for eight rows. NULL: rows go by fours. */
    void (*transpose_8)(float *dst, size_t ld, const float *const src[8], int cols);
} fold__mover;

/* dst[c*ld + r] = x[row + r][col + c], in blocks that touch whole cache lines on both sides. */
static void fold__transpose(const fold__mover *mover, float *dst, size_t ld, const fold_rows *input,
                            ptrdiff_t row, int rows, int col, int cols)
{
    int line, start, column;
    for (start = 0; start < cols; start += FOLD__TRANSPOSE_COLUMNS) {
        const int columns = cols - start < FOLD__TRANSPOSE_COLUMNS ? cols - start : FOLD__TRANSPOSE_COLUMNS;
        float *to = dst + (size_t)start * ld;
        const float *src[8];
        for (line = 0; mover->transpose_8 && line + 8 <= rows; line += 8) {
            for (column = 0; column < 8; column++)
                src[column] = fold__at(input, row + line + column) + col + start;
            mover->transpose_8(to + line, ld, src, columns);
        }
        for (; line + 4 <= rows; line += 4) {
            for (column = 0; column < 4; column++)
                src[column] = fold__at(input, row + line + column) + col + start;
            fold__transpose_4(to + line, ld, src, columns);
        }
        for (; line < rows; line++) {
            const float *from = fold__at(input, row + line) + col + start;
            for (column = 0; column < columns; column++)
                to[(size_t)column * ld + (size_t)line] = from[column];
        }
    }
}

/* Rows first..first+count of x are columns of the weight. */
static void fold__pack_columns(const fold__mover *mover, float *dst, const fold__layout *layout, int vector,
                               const fold_rows *input, int inner, int columns, int first, int count)
{
    const int last = first + count;
    int panel, line;
    for (panel = 0; panel < layout->panels; panel++, dst += (size_t)inner * (size_t)layout->width) {
        const int col = fold__layout_start(layout, panel) * vector,
                  next = fold__layout_start(layout, panel + 1) * vector,
                  end = next < columns ? next : columns;
        const int from = col > first ? col : first, to = end < last ? end : last;
        if (from >= to)
            continue;
        if (to == end && end - col < layout->width)
            for (line = 0; line < inner; line++)
                memset(dst + (size_t)line * (size_t)layout->width + (end - col), 0,
                       (size_t)(layout->width - (end - col)) * sizeof *dst);
        fold__transpose(mover, dst + (from - col), (size_t)layout->width, input, from, to - from, 0, inner);
    }
}

static void fold__pack_any(const fold__mover *mover, int panel, int vector, float *dst, const float *weights,
                           int inner, int columns, int transposed, int first, int count)
{
    fold_rows input;
    fold__layout layout;
    const size_t row = (size_t)first, width = (size_t)(transposed ? inner : columns),
                 narrow = fold__narrow_stride(inner);
    input.base = (float *)(uintptr_t)weights; /* only read */
    input.stride = (ptrdiff_t)width;
    input.rows = NULL;
    if (inner < 1 || columns < 1)
        return;
    if (columns < FOLD__LANES && !transposed) {
        fold__transpose(mover, dst + row, narrow, &input, first, count, 0, columns);
        return;
    }
    if (columns < FOLD__LANES) {
        for (; count > 0; count--, first++)
            memcpy(dst + (size_t)first * narrow, weights + (size_t)first * width, width * sizeof *dst);
        return;
    }
    layout = fold__layout_of(panel, vector, columns);
    if (transposed)
        fold__pack_columns(mover, dst, &layout, panel ? vector : columns, &input, inner, columns, first,
                           count);
    else if (!panel)
        memcpy(dst + row * width, weights + row * width, (size_t)count * width * sizeof *dst);
    else
        mover->pack_rows(dst + row * (size_t)layout.width, (size_t)inner * (size_t)layout.width, &layout,
                         &input, first, count, columns);
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
        const float *const *inputs;
        const float *weights;
        int inner;
    } seg[FOLD__TILE_SEGMENTS];
} fold__span;
typedef void (*fold__tile_fn)(const fold__span *at);
/* Columns of a narrow pack lie `stride` floats apart, from `weights` on. */
typedef void (*fold__narrow_fn)(const fold__seg *seg, ptrdiff_t first_row, const float *weights,
                                size_t stride, float *lanes);

/* A product out[r] = sum over t of left[r][t] right[t], each a chain in order of t: the rows of one tile,
   some vectors of a row. Strides may be of any sign. With a ramp of 1, row r takes r steps more than row 0,
   and `steps` are those of the last row. With one of -1, it begins r steps before the first that row 0 takes,
   and `steps` are those of the last row again. */
typedef struct fold__strided {
    const float *left, *right, *factor; /* factor: of a row, multiplied in at the end. NULL: 1 */
    float *out;
    ptrdiff_t left_row, left_step, right_step, out_row;
    int steps, ramp, started; /* started: chains continue what is in out */
    int last;                 /* columns of the last vector */
} fold__strided;
typedef void (*fold__strided_fn)(const fold__strided *at);

/* Rows of scores, and in backward of slopes, that are weighed: `stride` floats apart, `count` of each, a
   multiple of FOLD__LANES. largest and factor are of a row; rows of lanes are FOLD__LANES apart. Up to the
   next multiple of FOLD__WEIGHED_ROWS, rows are read and written. */
typedef struct fold__weighing {
    int rows, count;
    float scale;
    size_t stride;
    float *scores, *slopes, *lanes;
    const float *largest, *factor;
} fold__weighing;
typedef void (*fold__weigh_fn)(const fold__weighing *with);
typedef struct fold__weigher {
    fold__weigh_fn largest; /* lanes of the largest score */
    fold__weigh_fn exps;    /* scores become exp(scale (score - largest)); lanes of their sum */
    fold__weigh_fn weights; /* the same times factor; lanes of the sum of weight times slope */
    fold__weigh_fn slopes;  /* slopes become weight (slope - factor) scale */
    void (*join_largest)(float *largest, const float *lanes, int count); /* as add_lanes */
} fold__weigher;

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
    /* dW, [inner x columns], continues as the product (transpose of X) . dY, for columns of X from `first` on
       and of dY from `from` on. */
    void (*grad)(int rows, const fold_rows *input, int first, int inner, const fold_rows *dy, int from,
                 int columns, float *dw, size_t ldw);
    fold__mover mover;
    fold__weigher weigher;
    fold__strided_fn strided[FOLD__TILE_ROWS][8]; /* [rows - 1][vectors - 1] */
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
    int tile_index, row, segment;
    for (row = 0; row < height; row++)
        own[row] = buffer + row * FOLD__TILE_WIDTH;
    memset(buffer, 0, (size_t)height * FOLD__TILE_WIDTH * sizeof *buffer);
    if (all->started)
        at.from = (const float *const *)own;
    at.to = own;
    at.from_col = at.to_col = 0;
    at.count = 1;
    for (tile_index = 0; tile_index < all->count * height; tile_index += height) {
        for (row = 0; all->started && row < height; row++)
            memcpy(own[row] + (low - start), all->from[tile_index + row] + (low - first), bytes);
        tile(&at);
        for (row = 0; row < height; row++)
            memcpy(all->to[tile_index + row] + (low - first), own[row] + (low - start), bytes);
        for (segment = 0; segment < at.n_seg; segment++)
            at.seg[segment].inputs += height;
    }
}

/* Tiles of `height` rows, panel after panel. */
static void fold__tile_rows(const fold__tiles *tiles, const fold__product *product,
                            const fold__layout *layout, fold__span *at, int height, float *buffer)
{
    const int first = product->col, last = product->col + product->columns,
              least = tiles->least * tiles->vector;
    int panel, got;
    for (panel = 0; panel < layout->panels; panel += got) {
        const int base = fold__layout_start(layout, panel) * tiles->vector;
        int start = base, end = fold__layout_start(layout, panel + 1) * tiles->vector, aside;
        fold__tile_fn tile;
        got = 1;
        if (end <= first)
            continue;
        if (start >= last)
            break;
        if (layout->vectors == tiles->panel && start >= first)
            for (got = tiles->reach[height - 1];
                 got > 1 && (panel + got > layout->full || start + got * layout->width > last);)
                got /= 2;
        if (got > 1)
            end = start + got * layout->width;
        else {
            while (start + tiles->vector <= first && end - start > least)
                start += tiles->vector;
            while (end - tiles->vector >= last && end - start > least)
                end -= tiles->vector;
        }
        tile = tiles->tile[height - 1][(end - start) / tiles->vector - 1];
        at->offset = (size_t)panel * product->panel_stride + (size_t)(start - base);
        aside = start < first || end - last >= (tiles->least > 1 ? 1 : tiles->vector);
        at->last = end <= last || aside ? tiles->vector : tiles->vector - (end - last);
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
    const int height = left < tallest ? left : tallest, rest = left - height;
    if (height == 6 && (rest == 1 || rest == 2 || rest == 5))
        return 4;
    if (height == 5)
        return 3;
    return height == 3 && tallest == 4 ? 2 : height;
}

/* Rows as pointers, made where there are none. */
static float *const *fold__row_pointers(const fold_rows *input, ptrdiff_t row, int rows, float **made)
{
    int line;
    if (input->rows)
        return input->rows + row;
    for (line = 0; line < rows; line++)
        made[line] = input->base + (row + line) * input->stride;
    return made;
}

/* `count` tiles of `height` rows from `row` on, some segments at a time; the chains continue where they went
 * to. */
static void fold__tile_block(const fold__tiles *tiles, const fold__product *product,
                             const fold__layout *layout, ptrdiff_t row, int height, int count, float *scratch)
{
    enum { ROWS = FOLD__TILE_BLOCK * FOLD__TILE_ROWS };
    const fold_rows zeros = { (float *)(uintptr_t)fold__zeros, 0, NULL };
    const int rows = height * count;
    float **made = (float **)(void *)(scratch + FOLD__TILE_ROWS * FOLD__TILE_WIDTH);
    fold__span at;
    int segment = 0, chained;
    at.width = (size_t)layout->width;
    at.panel_stride = product->panel_stride;
    at.count = count;
    at.to = fold__row_pointers(&product->output, row, rows, made);
    at.started = product->init.base || product->init.rows;
    at.from = (const float *const *)fold__row_pointers(at.started ? &product->init : &zeros, row, rows,
                                                       made + ROWS);
    do {
        at.scattered = 0;
        at.n_seg =
            product->n_seg - segment < FOLD__TILE_SEGMENTS ? product->n_seg - segment : FOLD__TILE_SEGMENTS;
        for (chained = 0; chained < at.n_seg; chained++) {
            at.seg[chained].inputs = (const float *const *)fold__row_pointers(
                &product->seg[segment + chained].input, row, rows, made + (2 + chained) * ROWS);
            at.seg[chained].weights = product->seg[segment + chained].weights;
            at.seg[chained].inner = product->seg[segment + chained].inner;
            at.scattered |= product->seg[segment + chained].input.rows != NULL;
        }
        fold__tile_rows(tiles, product, layout, &at, height, scratch);
        at.from = (const float *const *)at.to;
        at.started = 1;
        segment += at.n_seg;
    } while (segment < product->n_seg);
}

/* n >= 16: one chain per element. Rows go in blocks, so that a block's rows stay in cache from panel to
 * panel. */
static void fold__product_wide(const fold__tiles *tiles, const fold__product *product, float *scratch)
{
    const fold__layout layout =
        fold__layout_of(tiles->panel * tiles->vector, tiles->vector, fold__pack_columns_of(product));
    int row = 0, height, count;
    for (; row < product->rows; row += height * count) {
        height = fold__tile_height(tiles->tallest, product->rows - row);
        for (count = 1; count < FOLD__TILE_BLOCK; count++) {
            const int left = product->rows - row - height * count;
            if (left < height || fold__tile_height(tiles->tallest, left) != height)
                break;
        }
        fold__tile_block(tiles, product, &layout, row, height, count, scratch);
    }
}

/* n floats, at most five. */
FOLD__INLINE void fold__copy_few(float *to, const float *from, int count)
{
    if (count >= 4) {
        memcpy(to, from, 4 * sizeof *to);
        to += 4;
        from += 4;
        count -= 4;
    }
    if (count >= 2) {
        memcpy(to, from, 2 * sizeof *to);
        to += 2;
        from += 2;
        count -= 2;
    }
    if (count >= 1)
        *to = *from;
}

/* Some rows of as many columns as a narrow tile covers, FOLD__NARROW_ELEMENTS at most. */
static void fold__narrow_rows(const fold__tiles *tiles, const fold__product *product, ptrdiff_t row, int rows,
                              int col, int cols, float *lanes)
{
    float total[FOLD__NARROW_ELEMENTS], *from = total;
    int segment, line, element, height;
    for (element = 0; element < rows * cols; element += 8)
        memset(total + element, 0, 8 * sizeof *total); /* all at once is 5 % slower */
    if (product->init.base || product->init.rows)
        for (line = 0; line < rows; line++, from += cols)
            fold__copy_few(from, fold__at(&product->init, row + line) + col, cols);
    for (segment = 0; segment < product->n_seg; segment++) {
        const float *weights =
            product->seg[segment].weights + (size_t)(product->col + col) * product->panel_stride;
        for (line = 0; line < rows; line += height) {
            for (height = rows - line < FOLD__NARROW_ROWS ? rows - line : FOLD__NARROW_ROWS;
                 !tiles->narrow[height - 1][cols - 1];)
                height--;
            tiles->narrow[height - 1][cols - 1](product->seg + segment, row + line, weights,
                                                product->panel_stride, lanes + line * cols * FOLD__LANES);
        }
        tiles->add_lanes(total, lanes, rows * cols);
    }
    for (line = 0, from = total; line < rows; line++, from += cols)
        fold__copy_few(fold__at(&product->output, row + line) + col, from, cols);
}

/* n < 16: sixteen chains per element and segment. Columns are dealt out evenly, as vectors are to panels. */
static void fold__product_narrow(const fold__tiles *tiles, const fold__product *product, float *lanes)
{
    const int across = (product->columns - 1) / tiles->narrow_columns + 1,
              most = FOLD__NARROW_ELEMENTS / ((product->columns - 1) / across + 1);
    int row, rows, col, cols, tile;
    for (row = 0; row < product->rows; row += rows) {
        rows = product->rows - row < most ? product->rows - row : most;
        for (col = 0, tile = across; tile > 0; col += cols, tile--) {
            cols = (product->columns - col - 1) / tile + 1;
            fold__narrow_rows(tiles, product, row, rows, col, cols, lanes);
        }
    }
}

static void fold__product_any(const fold__tiles *tiles, const fold__product *product, float *scratch)
{
    if (product->rows < 1 || product->columns < 1)
        return;
    if (fold__pack_columns_of(product) < FOLD__LANES)
        fold__product_narrow(tiles, product, scratch);
    else
        fold__product_wide(tiles, product, scratch);
}

/* A weight gradient by blocks of dW that stay in the first cache while some rows pass: as many as keep the
   narrower operand in the second cache, since it passes once for every strip of blocks, the wider one and dW
   once in all. */
static void fold__weight_grad_direct(const fold__tiles *tiles, int rows, const fold_rows *input, int inner,
                                     const fold_rows *dy, int columns, float *dw, size_t ldw)
{
    const int tall = ldw % 1024 == 0      ? 1
                     : rows <= tiles->few ? inner
                                          : FOLD__K_BLOCK,
              wide = rows <= tiles->few ? columns : FOLD__N_BLOCK;
    const int down = (inner - 1) / tall + 1, blocks = down * ((columns - 1) / wide + 1),
              across = blocks / down;
    const int fit = FOLD__PASSING / (inner < columns ? inner : columns),
              most = fit > FOLD__ROW_BLOCK ? fit : FOLD__ROW_BLOCK;
    int row, block;
    for (row = 0; row < rows; row += most) {
        const fold_rows xr = fold__rows_from(input, row), dyr = fold__rows_from(dy, row);
        const int count = rows - row < most ? rows - row : most;
        for (block = 0; block < blocks; block++) {
            const int line = (inner < columns ? block % down : block / across) * tall,
                      column = (inner < columns ? block / down : block % across) * wide;
            tiles->grad(count, &xr, line, inner - line < tall ? inner - line : tall, &dyr, column,
                        columns - column < wide ? columns - column : wide, dw + (size_t)line * ldw + column,
                        ldw);
        }
    }
}

/* n < 16: the transpose of dW, block by block, has wide rows. A block takes no more scratch than a packed
 * operand. */
static void fold__weight_grad_narrow(const fold__tiles *tiles, int rows, const fold_rows *input, int inner,
                                     const fold_rows *dy, int columns, float *dw, size_t ldw, float *block)
{
    enum { WIDTH = FOLD__K_BLOCK * FOLD__ROW_BLOCK / FOLD__LANES };
    int line, inner_row, column, width;
    for (line = 0; line < inner; line += width, dw += (size_t)width * ldw) {
        width = inner - line < WIDTH ? inner - line : WIDTH;
        for (column = 0; column < columns; column++)
            for (inner_row = 0; inner_row < width; inner_row++)
                block[column * WIDTH + inner_row] = dw[(size_t)inner_row * ldw + (size_t)column];
        tiles->grad(rows, dy, 0, columns, input, line, width, block, WIDTH);
        for (column = 0; column < columns; column++)
            for (inner_row = 0; inner_row < width; inner_row++)
                dw[(size_t)inner_row * ldw + (size_t)column] = block[column * WIDTH + inner_row];
    }
}

/* The same as a product with packed operands: blocks of rows are its K-segments, X transposed and dY packed.
 */
static void fold__weight_grad_packed(const fold__tiles *tiles, int rows, const fold_rows *input, int inner,
                                     const fold_rows *dy, int columns, float *dw, size_t ldw, float *scratch)
{
    float *xt = scratch + FOLD__TILE_ROWS * FOLD__TILE_WIDTH + FOLD__TILE_POINTERS,
          *packed = xt + FOLD__K_BLOCK * FOLD__ROW_BLOCK;
    const fold__layout layout = fold__layout_of(tiles->panel * tiles->vector, tiles->vector, columns);
    fold__product product;
    fold__seg seg;
    int row, line;
    memset(&product, 0, sizeof product);
    seg.input.base = xt;
    seg.input.stride = FOLD__ROW_BLOCK;
    seg.input.rows = NULL;
    seg.weights = packed;
    product.columns = columns;
    product.n_seg = 1;
    product.seg = &seg;
    product.output.stride = (ptrdiff_t)ldw;
    for (row = 0; row < rows; row += seg.inner) {
        seg.inner = rows - row < FOLD__ROW_BLOCK ? rows - row : FOLD__ROW_BLOCK;
        product.panel_stride = (size_t)seg.inner * (size_t)layout.width;
        tiles->mover.pack_rows(packed, product.panel_stride, &layout, dy, row, seg.inner, columns);
        for (line = 0; line < inner; line += product.rows) {
            product.rows = inner - line < FOLD__K_BLOCK ? inner - line : FOLD__K_BLOCK;
            fold__transpose(&tiles->mover, xt, FOLD__ROW_BLOCK, input, row, seg.inner, line, product.rows);
            product.output.base = dw + (size_t)line * ldw;
            product.init = product.output;
            fold__product_wide(tiles, &product, scratch);
        }
    }
}

/* Rows of dW that lie a multiple of 4 KB apart share sets of the cache, and a load of one waits for stores to
   the last: few rows of dY then take them one by one. */
static void fold__weight_grad_any(const fold__tiles *tiles, int rows, const fold_rows *input, int inner,
                                  const fold_rows *dy, int columns, float *dw, size_t ldw, float *scratch)
{
    const int whole =
        columns == 8 &&
        rows <= FOLD__ROW_BLOCK / 2; /* a vector, if a short one: more rows pay for wider ones */
    if (rows < 1 || inner < 1 || columns < 1)
        return;
    if (columns < FOLD__LANES && !whole && inner >= FOLD__LANES && tiles->many > tiles->few)
        fold__weight_grad_narrow(tiles, rows, input, inner, dy, columns, dw, ldw, scratch);
    else if (rows <= (ldw % 1024 ? tiles->many : tiles->few))
        fold__weight_grad_direct(tiles, rows, input, inner, dy, columns, dw, ldw);
    else
        fold__weight_grad_packed(tiles, rows, input, inner, dy, columns, dw, ldw, scratch);
}

/* ---- attention: heads one by one, query rows in blocks whose scores are held (Rabe and Staats 2021, Dao et
   al. 2022) ---- */

/* Keys that query row i sees. */
static int fold__attention_seen(const fold__attention_call *call, int query)
{
    const int seen = query + 1 + call->keys - call->queries;
    return !call->causal ? call->keys : seen > 0 ? seen : 0;
}

/* Query rows that see no key: the first ones. */
static int fold__attention_blind(const fold__attention_call *call)
{
    if (call->keys < 1)
        return call->queries;
    return call->causal && call->queries > call->keys ? call->queries - call->keys : 0;
}

/* Query rows of the next block when `left` are left: even blocks of whole tiles. */
static int fold__attention_block(const fold__attention_call *call, int left)
{
    const int fit = FOLD__SCORES / (call->keys < 1 ? 1 : call->keys) / FOLD__TILE_ROWS * FOLD__TILE_ROWS;
    const int most = fit > FOLD__QUERY_BLOCK   ? FOLD__QUERY_BLOCK
                     : fit < FOLD__QUERY_LEAST ? FOLD__QUERY_LEAST
                                               : fit;
    const int blocks = (left - 1) / most + 1, even = (left - 1) / blocks + 1;
    const int whole = (even + FOLD__TILE_ROWS - 1) / FOLD__TILE_ROWS * FOLD__TILE_ROWS;
    return whole < left ? whole : left;
}

/* Where things lie in the scratch of a head, and what every function below asks for. Panels hold
   FOLD__PANEL_KEYS keys, one beside the other; what is left of the last one's vectors repeats its last key.
 */
typedef struct fold__attention_head {
    const fold__tiles *tiles;
    const fold__attention_call *call;
    ptrdiff_t q_col, v_col; /* the head's first column in query and key, in value and out */
    float scale;
    int row, rows; /* of the block */
    size_t stride; /* floats between rows of scores, with room to fill beyond the last key */
    float *key_panels, *value_panels, *scores, *slopes, *lanes, *largest, *factor;
} fold__attention_head;

static size_t fold__attention_stride(const fold__attention_call *call)
{
    return fold__round_up((size_t)call->keys, FOLD__LANES) + 2 * FOLD__LANES;
}

/* Floats of scratch for one head at a time, whatever the number of heads. */
static size_t fold__attention_floats(const fold__attention_call *call, int backward)
{
    const size_t keys = fold__round_up((size_t)call->keys, FOLD__PANEL_KEYS),
                 width = (size_t)call->width + (backward ? (size_t)call->value_width : 0),
                 rows = FOLD__QUERY_BLOCK * fold__attention_stride(call) * (backward ? 2 : 1);
    return fold__size(keys, width, fold__size(FOLD__QUERY_BLOCK, FOLD__LANES + 2, rows));
}

static void fold__attention_begin(fold__attention_head *at, const fold__tiles *tiles,
                                  const fold__attention_call *call, int head, int backward, float *scratch)
{
    const size_t keys = fold__round_up((size_t)call->keys, FOLD__PANEL_KEYS);
    at->tiles = tiles;
    at->call = call;
    at->q_col = (ptrdiff_t)head * call->width;
    at->v_col = (ptrdiff_t)head * call->value_width;
    at->scale = call->scale != 0.0f ? call->scale : 1.0f / sqrtf((float)call->width);
    at->row = at->rows = 0;
    at->stride = fold__attention_stride(call);
    at->key_panels = scratch;
    at->value_panels = at->key_panels + keys * (size_t)call->width;
    at->scores = at->value_panels + (backward ? keys * (size_t)call->value_width : 0);
    at->slopes = at->scores + FOLD__QUERY_BLOCK * at->stride;
    at->lanes = at->slopes + (backward ? FOLD__QUERY_BLOCK * at->stride : 0);
    at->largest = at->lanes + FOLD__QUERY_BLOCK * FOLD__LANES;
    at->factor = at->largest + FOLD__QUERY_BLOCK;
}

/* A head's columns of all keys or values as panels. */
static void fold__attention_pack(const fold__tiles *tiles, float *panel, const fold_rows *input, int keys,
                                 ptrdiff_t col, int width)
{
    int first, line, part, row;
    for (first = 0; first < keys; first += FOLD__PANEL_KEYS, panel += FOLD__PANEL_KEYS * width) {
        const int left = keys - first < FOLD__PANEL_KEYS ? keys - first : FOLD__PANEL_KEYS;
        for (line = 0; line < left; line += FOLD__LANES)
            for (part = line; part < line + FOLD__LANES; part += 8) {
                const float *src[8];
                for (row = 0; row < 8; row++)
                    src[row] = fold__at(input, first + (part + row < left ? part + row : left - 1)) + col;
                if (tiles->mover.transpose_8)
                    tiles->mover.transpose_8(panel + part, FOLD__PANEL_KEYS, src, width);
                else {
                    fold__transpose_4(panel + part, FOLD__PANEL_KEYS, src, width);
                    fold__transpose_4(panel + part + 4, FOLD__PANEL_KEYS, src + 4, width);
                }
            }
    }
}

/* Rows of chains by columns, tile by tile. With a ramp of 1, row r takes r steps more than row 0, whose steps
   are given; with one of -1 it leaves out the first r of them. */
static void fold__strided_run(const fold__tiles *tiles, const fold__strided *all, int rows, int columns)
{
    int row, height, column, vectors;
    for (row = 0; row < rows; row += height) {
        fold__strided at = *all;
        height = fold__tile_height(tiles->tallest, rows - row);
        at.left += row * at.left_row;
        at.out += row * at.out_row;
        if (at.factor)
            at.factor += row;
        if (at.ramp > 0)
            at.steps += row + height - 1;
        if (at.ramp < 0) { /* from the row that leaves out most */
            at.left += row * at.left_step + (height - 1) * at.left_row;
            at.right += row * at.right_step;
            at.out += (height - 1) * at.out_row;
            at.steps -= row;
            at.left_row = -at.left_row;
            at.out_row = -at.out_row;
        }
        for (column = 0; column < columns; column += vectors * tiles->vector) {
            const int left = (columns - column - 1) / tiles->vector + 1;
            for (vectors = 8; vectors > left || !tiles->strided[height - 1][vectors - 1];)
                vectors /= 2;
            at.last = columns - column - (vectors - 1) * tiles->vector;
            if (at.last > tiles->vector)
                at.last = tiles->vector;
            tiles->strided[height - 1][vectors - 1](&at);
            at.right += vectors * tiles->vector;
            at.out += vectors * tiles->vector;
        }
    }
}

/* to[r][j] = rows[r] . key j for the rows of the block and the keys that they see, and some more. */
static void fold__attention_scores(const fold__attention_head *at, const fold_rows *input, ptrdiff_t col,
                                   const float *panels, int width, float *to)
{
    const fold__attention_call *call = at->call;
    const int last = fold__attention_seen(call, at->row + at->rows - 1);
    fold__strided product;
    int first, row, rows, start;
    memset(&product, 0, sizeof product);
    product.left_row = input->stride;
    product.left_step = 1;
    product.right_step = FOLD__PANEL_KEYS;
    product.out_row = (ptrdiff_t)at->stride;
    product.steps = width;
    for (first = 0; first < last; first += FOLD__PANEL_KEYS) {
        /* of a causal block, tile by tile, so that few keys are multiplied that are not seen */
        start = first - fold__attention_seen(call, at->row) + 1;
        for (row = call->causal && start > 0 ? start : 0; row < at->rows; row += rows) {
            const int left = at->rows - row;
            int columns;
            rows = call->causal ? fold__tile_height(at->tiles->tallest, left) : left;
            columns = fold__attention_seen(call, at->row + row + rows - 1) - first;
            if (columns > FOLD__PANEL_KEYS)
                columns = FOLD__PANEL_KEYS;
            product.left = input->base + (at->row + row) * input->stride + col;
            product.right = panels + (size_t)first * (size_t)width;
            product.out = to + (size_t)row * at->stride + first;
            fold__strided_run(at->tiles, &product, rows, (int)fold__round_up((size_t)columns, FOLD__LANES));
        }
    }
}

/* to[r] = sum over keys seen of weights[r][j] from[j], times factor[r]. */
static void fold__attention_sums(const fold__attention_head *at, const float *weights, const fold_rows *from,
                                 ptrdiff_t col, int width, const fold_rows *to, const float *factor)
{
    fold__strided product;
    memset(&product, 0, sizeof product);
    product.left = weights;
    product.left_row = (ptrdiff_t)at->stride;
    product.left_step = 1;
    product.right = from->base + col;
    product.right_step = from->stride;
    product.out = to->base + at->row * to->stride + col;
    product.out_row = to->stride;
    product.steps = fold__attention_seen(at->call, at->row);
    product.ramp = at->call->causal;
    product.factor = factor;
    fold__strided_run(at->tiles, &product, at->rows, width);
}

/* to[j] = sum over queries that see j of weights[i][j] from[i], continued from block to block. In a causal
   block the last keys are seen from its first row on, its second row on and so forth. */
static void fold__attention_spread(const fold__attention_head *at, const float *weights,
                                   const fold_rows *from, ptrdiff_t col, int width, const fold_rows *to)
{
    const int seen = fold__attention_seen(at->call, at->row), all = at->call->causal ? seen - 1 : seen;
    fold__strided product;
    memset(&product, 0, sizeof product);
    product.left = weights;
    product.left_row = 1;
    product.left_step = (ptrdiff_t)at->stride;
    product.right = from->base + at->row * from->stride + col;
    product.right_step = from->stride;
    product.out = to->base + col;
    product.out_row = to->stride;
    product.steps = at->rows;
    product.started = at->row > fold__attention_blind(at->call);
    fold__strided_run(at->tiles, &product, all, width);
    if (!at->call->causal)
        return;
    product.left += all;
    product.out += all * to->stride;
    product.ramp = -1;
    product.started = 0;
    fold__strided_run(at->tiles, &product, at->rows, width);
}

static void fold__attention_set(float *values, float value, int count)
{
    int at;
    for (at = 0; at < count; at++)
        values[at] = value;
}

/* What the rows do not see becomes `value`, as far as any of them is weighed. */
static void fold__attention_fill(const fold__attention_head *at, float *scores, float value)
{
    float values[2 * FOLD__LANES];
    int row;
    fold__attention_set(values, value, 2 * FOLD__LANES);
    for (row = 0; row < at->rows; row++)
        memcpy(scores + (size_t)row * at->stride + fold__attention_seen(at->call, at->row + row), values,
               sizeof values);
}

/* Weighs all rows of the block, a few at a time, as far as the last of them sees. */
static void fold__attention_weigh(const fold__attention_head *at, fold__weigh_fn weigh)
{
    fold__weighing with;
    int row;
    with.stride = at->stride;
    with.scale = at->scale;
    for (row = 0; row < at->rows; row += with.rows) {
        with.rows = at->rows - row < FOLD__WEIGHED_ROWS ? at->rows - row : FOLD__WEIGHED_ROWS;
        with.count = (int)fold__round_up(
            (size_t)fold__attention_seen(at->call, at->row + row + with.rows - 1), FOLD__LANES);
        with.scores = at->scores + (size_t)row * at->stride;
        with.slopes = at->slopes + (size_t)row * at->stride;
        with.largest = at->largest + row;
        with.factor = at->factor + row;
        with.lanes = at->lanes + row * FOLD__LANES;
        weigh(&with);
    }
}

/* Scores of the block become exps, unseen ones 0; factor is 1 by their sums. */
static void fold__attention_exps(const fold__attention_head *at, int head)
{
    const fold__weigher *weigher = &at->tiles->weigher;
    const fold_rows *norms = &at->call->norms;
    int row;
    fold__attention_fill(at, at->scores, -INFINITY);
    fold__attention_weigh(at, weigher->largest);
    fold__attention_set(at->largest, -INFINITY, at->rows);
    weigher->join_largest(at->largest, at->lanes, at->rows);
    fold__attention_weigh(at, weigher->exps);
    fold__attention_set(at->factor, 0.0f, at->rows);
    at->tiles->add_lanes(at->factor, at->lanes, at->rows);
    for (row = 0; row < at->rows; row++) {
        if (norms->base) {
            float *norm = norms->base + (at->row + row) * norms->stride + 2 * head;
            norm[0] = at->largest[row];
            norm[1] = at->factor[row];
        }
        at->factor[row] = 1.0f / at->factor[row];
    }
}

/* Scores of the block become weights, slopes, which are the gradients of weights, those of scores. */
static void fold__attention_slopes(const fold__attention_head *at, int head)
{
    const fold__weigher *weigher = &at->tiles->weigher;
    const fold_rows *norms = &at->call->norms;
    int row;
    fold__attention_fill(at, at->scores, -INFINITY);
    fold__attention_fill(at, at->slopes, 0.0f);
    for (row = 0; row < at->rows; row++) {
        const float *norm = norms->base + (at->row + row) * norms->stride + 2 * head;
        at->largest[row] = norm[0];
        at->factor[row] = 1.0f / norm[1];
    }
    fold__attention_weigh(at, weigher->weights);
    fold__attention_set(at->factor, 0.0f, at->rows); /* from here on the mean of slopes */
    at->tiles->add_lanes(at->factor, at->lanes, at->rows);
    fold__attention_weigh(at, weigher->slopes);
}

static void fold__attention_clear(const fold_rows *output, int rows, ptrdiff_t col, int width)
{
    int row;
    for (row = 0; row < rows && output->base; row++)
        memset(output->base + row * output->stride + col, 0, (size_t)width * sizeof(float));
}

/* One head. */
static void fold__attention_forward(const fold__tiles *tiles, const fold__attention_call *call, int head,
                                    float *scratch)
{
    fold__attention_head at;
    fold__attention_begin(&at, tiles, call, head, 0, scratch);
    at.row = fold__attention_blind(call);
    fold__attention_clear(&call->out, at.row, at.v_col, call->value_width);
    fold__attention_clear(&call->norms, at.row, 2 * head, 2);
    if (at.row < call->queries)
        fold__attention_pack(tiles, at.key_panels, &call->key, call->keys, at.q_col, call->width);
    for (; at.row < call->queries; at.row += at.rows) {
        at.rows = fold__attention_block(call, call->queries - at.row);
        fold__attention_scores(&at, &call->query, at.q_col, at.key_panels, call->width, at.scores);
        fold__attention_exps(&at, head);
        fold__attention_sums(&at, at.scores, &call->value, at.v_col, call->value_width, &call->out,
                             at.factor);
    }
}

/* One head. Weights are computed again; the mean of their slopes needs no output. */
static void fold__attention_backward(const fold__tiles *tiles, const fold__attention_call *call, int head,
                                     float *scratch)
{
    const int blind = fold__attention_blind(call);
    fold__attention_head at;
    fold__attention_begin(&at, tiles, call, head, 1, scratch);
    fold__attention_clear(&call->d_query, blind, at.q_col, call->width);
    if (blind == call->queries) {
        fold__attention_clear(&call->d_key, call->keys, at.q_col, call->width);
        fold__attention_clear(&call->d_value, call->keys, at.v_col, call->value_width);
        return;
    }
    fold__attention_pack(tiles, at.key_panels, &call->key, call->keys, at.q_col, call->width);
    fold__attention_pack(tiles, at.value_panels, &call->value, call->keys, at.v_col, call->value_width);
    for (at.row = blind; at.row < call->queries; at.row += at.rows) {
        at.rows = fold__attention_block(call, call->queries - at.row);
        fold__attention_scores(&at, &call->query, at.q_col, at.key_panels, call->width, at.scores);
        fold__attention_scores(&at, &call->d_out, at.v_col, at.value_panels, call->value_width, at.slopes);
        fold__attention_slopes(&at, head);
        if (call->d_value.base)
            fold__attention_spread(&at, at.scores, &call->d_out, at.v_col, call->value_width, &call->d_value);
        if (call->d_query.base)
            fold__attention_sums(&at, at.slopes, &call->key, at.q_col, call->width, &call->d_query, NULL);
        if (call->d_key.base)
            fold__attention_spread(&at, at.slopes, &call->query, at.q_col, call->width, &call->d_key);
    }
}

#if defined(FOLD_REPRODUCIBLE) && !defined(__FMA__) && !defined(__FP_FAST_FMAF)
/* fmaf by way of double, where the product is exact. Rounding twice differs from rounding once only when the
   double lies half-way between two floats or the float is subnormal; there the sum is rounded to odd first
   (Boldo and Melquiond 2008). Libraries are not relied on: some round twice. */
FOLD__INLINE float fold__fmaf(float a, float b, float c)
{
    FOLD__NO_CONTRACT
    const double product = (double)a * (double)b, addend = (double)c;
    double sum = product + addend;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if ((bits & 0x1fffffffu) == 0x10000000u || (sum != 0.0 && sum < 0x1p-126 && sum > -0x1p-126)) {
        const double back = sum - product, error = (product - (sum - back)) +
                                                   (addend - back); /* what rounding the sum lost, exactly */
        if (error != 0.0 && !(bits & 1))
            bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}
#elif defined(FOLD_REPRODUCIBLE)
#define fold__fmaf(a, b, c) fmaf(a, b, c)
#endif

#ifdef FOLD_USE_CBLAS
/* Products by sgemm on gathered rows, with plain row-major packs. Gives up the bit contract. */
static void fold__gather(float *dst, const fold_rows *input, ptrdiff_t row, int rows, int count)
{
    int line;
    for (line = 0; line < rows; line++)
        memcpy(dst + (size_t)line * (size_t)count, fold__at(input, row + line), (size_t)count * sizeof *dst);
}

static void fold__product_sgemm(const fold__product *product, float *scratch)
{
    const int ld = fold__pack_columns_of(product);
    float *sums = scratch, *gathered = scratch + (size_t)FOLD__CBLAS_BLOCK * (size_t)product->columns;
    int row, rows, segment, line;
    for (row = 0; row < product->rows; row += rows) {
        rows = product->rows - row < FOLD__CBLAS_BLOCK ? product->rows - row : FOLD__CBLAS_BLOCK;
        if (product->init.base || product->init.rows)
            fold__gather(sums, &product->init, row, rows, product->columns);
        else
            memset(sums, 0, (size_t)rows * (size_t)product->columns * sizeof *sums);
        for (segment = 0; segment < product->n_seg; segment++) {
            const int inner = product->seg[segment].inner;
            if (inner < 1)
                continue;
            fold__gather(gathered, &product->seg[segment].input, row, rows, inner);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, product->columns, inner, 1.0f,
                        gathered, inner, product->seg[segment].weights + product->col, ld, 1.0f, sums,
                        product->columns);
        }
        for (line = 0; line < rows; line++)
            memcpy(fold__at(&product->output, row + line), sums + (size_t)line * (size_t)product->columns,
                   (size_t)product->columns * sizeof *sums);
    }
}

static void fold__weight_grad_sgemm(int rows, const fold_rows *input, int inner, const fold_rows *dy,
                                    int columns, float *dw, size_t ldw, float *scratch)
{
    float *grads = scratch, *inputs = scratch + (size_t)FOLD__CBLAS_BLOCK * (size_t)columns;
    int row, block;
    if (inner < 1 || columns < 1)
        return;
    for (row = 0; row < rows; row += block) {
        block = rows - row < FOLD__CBLAS_BLOCK ? rows - row : FOLD__CBLAS_BLOCK;
        fold__gather(inputs, input, row, block, inner);
        fold__gather(grads, dy, row, block, columns);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, inner, columns, block, 1.0f, inputs, inner,
                    grads, columns, 1.0f, dw, (int)ldw);
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
FOLD__NOINLINE static void fold__map_rest(fold__map_fn map, float *out, const float *in_a, const float *in_b,
                                          const float *in_c, float scalar, size_t at, size_t count)
{
    float padded[4][4] = { { 0.0f } };
    const size_t bytes = (count - at) * sizeof(float);
    if (in_a)
        memcpy(padded[0], in_a + at, bytes);
    if (in_b)
        memcpy(padded[1], in_b + at, bytes);
    if (in_c)
        memcpy(padded[2], in_c + at, bytes);
    map(padded[3], padded[0], padded[1], padded[2], scalar, 4, 1, NULL);
    memcpy(out + at, padded[3], bytes);
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
    int registers[4], at;
    __cpuidex(registers, (int)leaf, 0);
    for (at = 0; at < 4; at++)
        out[at] = (uint32_t)registers[at];
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
    uint32_t registers[4], state;
    fold__cpuid(0, registers);
    if (registers[0] < 7)
        return 1;
    fold__cpuid(1, registers);
    if (!(registers[2] >> 27 & 1) || !(registers[2] >> 28 & 1) || !(registers[2] >> 12 & 1))
        return 1; /* osxsave, avx, fma */
    state = fold__xcr0();
    if ((state & 0x06u) != 0x06u)
        return 1;
    fold__cpuid(7, registers);
    if (!(registers[1] >> 5 & 1))
        return 1; /* avx2 */
    if ((state & 0xe6u) != 0xe6u)
        return 256;
    return (registers[1] >> 16 & 1) && (registers[1] >> 17 & 1) && (registers[1] >> 30 & 1) &&
                   (registers[1] >> 31 & 1)
               ? 512
               : 256; /* f, dq, bw, vl */
}
#endif

/* NULL: the best that CPU and operating system support (under FOLD_USE_CBLAS: "cblas"). A name: that one, or
 * NULL. */
static const fold__kernels *fold__kernels_for(const char *name)
{
    const fold__kernels *set[4];
    int i, count = 0;
#if FOLD__X86
    int best = fold__best_pass();
#ifdef FOLD_USE_CBLAS
    set[count++] = best == 512   ? &fold__cblas__avx512
                   : best == 256 ? &fold__cblas__avx2
                                 : &fold__cblas__portable;
#endif
    if (best >= 512)
        set[count++] = &fold__table__avx512;
    if (best >= 256)
        set[count++] = &fold__table__avx2;
#elif FOLD__NEON
#ifdef FOLD_USE_CBLAS
    set[count++] = &fold__cblas__neon;
#endif
    set[count++] = &fold__table__neon;
#elif defined(FOLD_USE_CBLAS)
    set[count++] = &fold__cblas__portable;
#endif
    set[count++] = &fold__table__portable;
    if (!name)
        return set[0];
    for (i = 0; i < count; i++)
        if (strcmp(set[i]->name, name) == 0)
            return set[i];
    return NULL;
}

/* Around all that computes: denormals on, round to nearest, whatever the program had; and back. */
#if (defined(__SSE__) || defined(_M_X64)) && !defined(__TINYC__)
#define FOLD__MXCSR 1
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__TINYC__)
#define FOLD__FPCR 1
#endif
static uint64_t fold__fp_enter(void)
{
#ifdef FOLD__MXCSR
    unsigned saved = _mm_getcsr(),
             wanted = saved & ~0xe040u; /* flush to zero, rounding; denormals are zero */
    if (wanted != saved)
        _mm_setcsr(wanted);
    return saved;
#elif defined(FOLD__FPCR)
    uint64_t saved, wanted;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    wanted = saved & ~(uint64_t)0x01c80000u; /* FZ, RMode, FZ16 */
    if (wanted != saved)
        __asm__ volatile("msr fpcr, %0" : : "r"(wanted));
    return saved;
#elif defined(FE_UPWARD)
    const int saved = fegetround(); /* C knows no flushing to zero: what sets it here stays */
    if (saved >= 0 && saved != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return (uint64_t)saved;
#else
    return 0;
#endif
}

static void fold__fp_leave(uint64_t saved)
{
#ifdef FOLD__MXCSR
    if (_mm_getcsr() != (unsigned)saved)
        _mm_setcsr((unsigned)saved);
#elif defined(FOLD__FPCR)
    __asm__ volatile("msr fpcr, %0" : : "r"(saved));
#elif defined(FE_UPWARD)
    if (fegetround() != (int)saved)
        fesetround((int)saved);
#else
    (void)saved;
#endif
}

#if defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)
#pragma GCC pop_options
#endif

typedef uint64_t fold__fp;

#endif /* FOLD_IMPLEMENTATION: its first part, which includes this file for the next room */

/* ==== room: kernels, once per instruction set ===============================================
   Owns: the kernels, written in vector macros. This part alone is compiled when the file includes itself, for
   each FOLD__SIMD_PASS. Calls: kernels. Must not know which set it is, but by the macros' widths. */
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
#define FOLD__VSET(value) _mm512_set1_ps(value)
#define FOLD__MASK __mmask16
#define FOLD__TAIL(count) ((__mmask16)((1u << (unsigned)(count)) - 1u))
#define FOLD__VLOAD_M(from, mask) _mm512_maskz_loadu_ps(mask, from)
#define FOLD__VSTORE_M(to, value, mask, count)      \
    do {                                            \
        if ((count) >= FOLD__W)                     \
            FOLD__VSTORE(to, value);                \
        else                                        \
            _mm512_mask_storeu_ps(to, mask, value); \
    } while (0)
#define FOLD__VSQRT(value) _mm512_maskz_sqrt_ps(FOLD__ALL, value)
#define FOLD__VFMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FOLD__VMIN(a, b) _mm512_maskz_min_ps(FOLD__ALL, a, b)
#define FOLD__VMAX(a, b) _mm512_maskz_max_ps(FOLD__ALL, a, b)
#define FOLD__VLT(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define FOLD__VEQ(a, b) _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define FOLD__VSEL(mask, a, b) _mm512_mask_blend_ps(mask, b, a)
#if FOLD__GNU_VECTORS
#define FOLD__I fold__u16
#define FOLD__VSETI(bits) _mm512_set1_epi32(bits)
#define FOLD__VLOAD(from) ((__m512) * (const fold__f16 *)(const void *)(from))
#define FOLD__VSTORE(to, value) (*(fold__f16 *)(void *)(to) = (fold__f16)(value))
#define FOLD__IFLOATS(bits) ((__m512)(bits))
#else
#define FOLD__I __m512i
#define FOLD__VLOAD(from) _mm512_loadu_ps(from)
#define FOLD__VSTORE(to, value) _mm512_storeu_ps(to, value)
#define FOLD__VADD(a, b) _mm512_add_ps(a, b)
#define FOLD__VSUB(a, b) _mm512_sub_ps(a, b)
#define FOLD__VMUL(a, b) _mm512_mul_ps(a, b)
#define FOLD__VDIV(a, b) _mm512_div_ps(a, b)
#define FOLD__VBITS(value) _mm512_castps_si512(value)
#define FOLD__IFLOATS(bits) _mm512_castsi512_ps(bits)
#define FOLD__ISET(bits) _mm512_set1_epi32((int)(bits))
#define FOLD__IADD(a, b) _mm512_add_epi32(a, b)
#define FOLD__ISUB(a, b) _mm512_sub_epi32(a, b)
#define FOLD__IAND(a, b) _mm512_and_si512(a, b)
#define FOLD__IXOR(a, b) _mm512_xor_si512(a, b)
#define FOLD__ISHL(bits, shift) _mm512_maskz_slli_epi32(FOLD__ALL, bits, shift)
#define FOLD__ISHR(bits, shift) _mm512_maskz_srli_epi32(FOLD__ALL, bits, shift)
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
#define FOLD__VSET(value) _mm256_set1_ps(value)
#define FOLD__MASK __m256i
#define FOLD__TAIL(count) \
    _mm256_loadu_si256((const __m256i *)(const void *)(fold__masks + (FOLD__W - (count))))
#define FOLD__VLOAD_M(from, mask) _mm256_maskload_ps(from, mask)
#define FOLD__VSTORE_M(to, value, mask, count)    \
    do {                                          \
        if ((count) >= FOLD__W)                   \
            FOLD__VSTORE(to, value);              \
        else                                      \
            _mm256_maskstore_ps(to, mask, value); \
    } while (0) /* slow on some */
#define FOLD__VSQRT(value) _mm256_sqrt_ps(value)
#define FOLD__VFMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FOLD__VMIN(a, b) _mm256_min_ps(a, b)
#define FOLD__VMAX(a, b) _mm256_max_ps(a, b)
#define FOLD__VLT(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define FOLD__VEQ(a, b) _mm256_cmp_ps(a, b, _CMP_EQ_OQ)
#define FOLD__VSEL(mask, a, b) _mm256_blendv_ps(b, a, mask)
#if FOLD__GNU_VECTORS
#define FOLD__I fold__u8
#define FOLD__VSETI(bits) _mm256_set1_epi32(bits)
#define FOLD__VLOAD(from) ((__m256) * (const fold__f8 *)(const void *)(from))
#define FOLD__VSTORE(to, value) (*(fold__f8 *)(void *)(to) = (fold__f8)(value))
#define FOLD__IFLOATS(bits) ((__m256)(bits))
#else
#define FOLD__I __m256i
#define FOLD__VLOAD(from) _mm256_loadu_ps(from)
#define FOLD__VSTORE(to, value) _mm256_storeu_ps(to, value)
#define FOLD__VADD(a, b) _mm256_add_ps(a, b)
#define FOLD__VSUB(a, b) _mm256_sub_ps(a, b)
#define FOLD__VMUL(a, b) _mm256_mul_ps(a, b)
#define FOLD__VDIV(a, b) _mm256_div_ps(a, b)
#define FOLD__VBITS(value) _mm256_castps_si256(value)
#define FOLD__IFLOATS(bits) _mm256_castsi256_ps(bits)
#define FOLD__ISET(bits) _mm256_set1_epi32((int)(bits))
#define FOLD__IADD(a, b) _mm256_add_epi32(a, b)
#define FOLD__ISUB(a, b) _mm256_sub_epi32(a, b)
#define FOLD__IAND(a, b) _mm256_and_si256(a, b)
#define FOLD__IXOR(a, b) _mm256_xor_si256(a, b)
#define FOLD__ISHL(bits, shift) _mm256_slli_epi32(bits, shift)
#define FOLD__ISHR(bits, shift) _mm256_srli_epi32(bits, shift)
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
FOLD__NOINLINE static float32x4_t fold__f4_load_n__neon(const float *from, size_t count)
{
    float32x4_t value = vdupq_n_f32(0.0f);
    if (count > 0)
        value = vsetq_lane_f32(from[0], value, 0);
    if (count > 1)
        value = vsetq_lane_f32(from[1], value, 1);
    if (count > 2)
        value = vsetq_lane_f32(from[2], value, 2);
    return count > 3 ? vsetq_lane_f32(from[3], value, 3) : value;
}
FOLD__NOINLINE static void fold__f4_store_n__neon(float *to, float32x4_t value, size_t count)
{
    if (count > 0)
        to[0] = vgetq_lane_f32(value, 0);
    if (count > 1)
        to[1] = vgetq_lane_f32(value, 1);
    if (count > 2)
        to[2] = vgetq_lane_f32(value, 2);
    if (count > 3)
        to[3] = vgetq_lane_f32(value, 3);
}
#define FOLD__VZERO() vdupq_n_f32(0.0f)
#define FOLD__VSET(value) vdupq_n_f32(value)
#define FOLD__VSETI(bits) vdupq_n_s32(bits)
#define FOLD__VLOAD(from) vld1q_f32(from)
#define FOLD__VSTORE(to, value) vst1q_f32(to, value)
#define FOLD__MASK size_t
#define FOLD__TAIL(count) ((size_t)(count))
#define FOLD__VLOAD_M(from, mask) fold__f4_load_n__neon(from, mask)
#define FOLD__VSTORE_M(to, value, mask, count) fold__f4_store_n__neon(to, value, (size_t)(count))
#define FOLD__VSQRT(value) vsqrtq_f32(value)
#define FOLD__VFMA(a, b, c) vfmaq_f32(c, a, b)
#define FOLD__VMIN(a, b) \
    vbslq_f32(vcltq_f32(a, b), a, b) /* the instruction of that name treats NaN otherwise */
#define FOLD__VMAX(a, b) vbslq_f32(vcgtq_f32(a, b), a, b)
#define FOLD__VLT(a, b) vcltq_f32(a, b)
#define FOLD__VEQ(a, b) vceqq_f32(a, b)
#define FOLD__VSEL(mask, a, b) vbslq_f32(mask, a, b)
#define FOLD__IFLOATS(bits) vreinterpretq_f32_u32(bits)
#define FOLD__PARTS(F) F(0) F(1) F(2) F(3)

#else /* portable: four lanes of a GNU compiler's generic vectors, or one float */

#define FOLD__ISA(name) fold__##name##__portable
#define FOLD__ISA_NAME "portable"
#define FOLD__TARGET

#if FOLD__GNU_VECTORS
typedef float fold__f4 __attribute__((vector_size(16)));
typedef uint32_t fold__u4 __attribute__((vector_size(16)));
FOLD__INLINE fold__f4 fold__f4_set(float value)
{
    fold__f4 vector = { value, value, value, value };
    return vector;
}
FOLD__INLINE fold__u4 fold__u4_set(uint32_t bits)
{
    fold__u4 vector = { bits, bits, bits, bits };
    return vector;
}
FOLD__INLINE fold__f4 fold__f4_load(const float *from)
{
    fold__f4 value;
    memcpy(&value, from, sizeof value);
    return value;
}
FOLD__INLINE void fold__f4_store(float *to, fold__f4 value) { memcpy(to, &value, sizeof value); }
FOLD__INLINE fold__f4 fold__f4_load_n(const float *from, size_t count)
{
    fold__f4 value = { 0, 0, 0, 0 };
    memcpy(&value, from, count * sizeof *from);
    return value;
}
FOLD__INLINE void fold__f4_store_n(float *to, fold__f4 value, size_t count)
{
    memcpy(to, &value, count * sizeof *to);
}
#if FOLD__X86
FOLD__INLINE fold__f4 fold__f4_sqrt(fold__f4 a) { return (fold__f4)_mm_sqrt_ps((__m128)a); }
#else
FOLD__INLINE fold__f4 fold__f4_sqrt(fold__f4 a)
{
    fold__f4 roots = { sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3]) };
    return roots;
}
#endif
FOLD__INLINE fold__f4 fold__f4_sel(fold__u4 mask, fold__f4 a, fold__f4 b)
{
    return (fold__f4)((mask & (fold__u4)a) | (~mask & (fold__u4)b));
}
#if defined(FOLD_REPRODUCIBLE) && FOLD__X86 && !defined(__FMA__)
#define FOLD__FMA_BY_DOUBLES 1
FOLD__NOINLINE static fold__f4 fold__f4_fma_exact(fold__f4 a, fold__f4 b, fold__f4 c)
{
    fold__f4 sums = { fold__fmaf(a[0], b[0], c[0]), fold__fmaf(a[1], b[1], c[1]),
                      fold__fmaf(a[2], b[2], c[2]), fold__fmaf(a[3], b[3], c[3]) };
    return sums;
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
    const __m128 sums = _mm_movelh_ps(_mm_cvtpd_ps(lo), _mm_cvtpd_ps(hi));
    const __m128i low = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castpd_ps(lo), _mm_castpd_ps(hi), 0x88)); /* the doubles' low halves */
    const __m128i high = _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(lo), _mm_castpd_ps(hi), 0xdd));
    const __m128i halfway =
        _mm_cmpeq_epi32(_mm_and_si128(low, _mm_set1_epi32(0x1fffffff)), _mm_set1_epi32(0x10000000));
    const __m128i zero =
        _mm_cmpeq_epi32(_mm_slli_epi32(high, 1), _mm_setzero_si128()); /* exact, or below every float */
    const __m128i tiny = _mm_castps_si128(
        _mm_cmple_ps(_mm_and_ps(sums, _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff))), _mm_set1_ps(0x1p-126f)));
    if (_mm_movemask_epi8(_mm_or_si128(halfway, _mm_andnot_si128(zero, tiny))))
        return fold__f4_fma_exact(a, b, c);
    return (fold__f4)sums;
}
#endif

FOLD__INLINE fold__f4 fold__f4_fma(fold__f4 a, fold__f4 b, fold__f4 c)
{
    FOLD__NO_CONTRACT
#ifdef FOLD__FMA_BY_DOUBLES
    return fold__f4_fma_doubles(a, b, c);
#elif defined(FOLD_REPRODUCIBLE)
    fold__f4 sums = { fold__fmaf(a[0], b[0], c[0]), fold__fmaf(a[1], b[1], c[1]),
                      fold__fmaf(a[2], b[2], c[2]), fold__fmaf(a[3], b[3], c[3]) };
    return sums;
#else
    return a * b + c;
#endif
}
#define FOLD__W 4
#define FOLD__V fold__f4
#define FOLD__I fold__u4
#define FOLD__M fold__u4
#define FOLD__VSET(value) fold__f4_set(value)
#define FOLD__VLOAD(from) fold__f4_load(from)
#define FOLD__VSTORE(to, value) fold__f4_store(to, value)
#define FOLD__MASK size_t
#define FOLD__TAIL(count) ((size_t)(count))
#define FOLD__VLOAD_M(from, mask) fold__f4_load_n(from, mask)
#define FOLD__VSTORE_M(to, value, mask, count) fold__f4_store_n(to, value, (size_t)(count))
#define FOLD__VSQRT(value) fold__f4_sqrt(value)
#define FOLD__VFMA(a, b, c) fold__f4_fma(a, b, c)
#define FOLD__VLT(a, b) ((fold__u4)((a) < (b)))
#define FOLD__VEQ(a, b) ((fold__u4)((a) == (b)))
#define FOLD__VSEL(mask, a, b) fold__f4_sel(mask, a, b)
#define FOLD__VBITS(value) ((fold__u4)(value))
#define FOLD__IFLOATS(bits) ((fold__f4)(bits))
#define FOLD__ISET(bits) fold__u4_set(bits)
#define FOLD__PARTS(F) F(0) F(1) F(2) F(3)

#else
FOLD__INLINE uint32_t fold__f1_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
FOLD__INLINE float fold__f1_floats(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#define FOLD__W 1
#define FOLD__V float
#define FOLD__I uint32_t
#define FOLD__M int
#define FOLD__VSET(value) (value)
#define FOLD__VLOAD(from) (*(from))
#define FOLD__VSTORE(to, value) (*(to) = (value))
#define FOLD__MASK size_t
#define FOLD__TAIL(count) ((size_t)(count))
#define FOLD__VLOAD_M(from, mask) ((mask) ? *(from) : 0.0f)
#define FOLD__VSTORE_M(to, value, mask, count) FOLD__VSTORE(to, value)
#define FOLD__VSQRT(value) sqrtf(value)
#ifdef FOLD_REPRODUCIBLE
#define FOLD__VFMA(a, b, c) fold__fmaf(a, b, c)
#else
#define FOLD__VFMA(a, b, c) ((a) * (b) + (c))
#endif
#define FOLD__VLT(a, b) ((a) < (b))
#define FOLD__VEQ(a, b) (!((a) < (b)) && !((b) < (a)) && (a) <= (b))
#define FOLD__VSEL(mask, a, b) ((mask) ? (a) : (b))
#define FOLD__VBITS(value) fold__f1_bits(value)
#define FOLD__IFLOATS(bits) fold__f1_floats(bits)
#define FOLD__ISET(bits) ((uint32_t)(bits))
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
#define FOLD__ISHL(bits, shift) ((bits) << (shift))
#define FOLD__ISHR(bits, shift) ((bits) >> (shift))
#endif
#if FOLD__SIMD_PASS > 1 && FOLD__GNU_VECTORS
#define FOLD__VBITS(value) ((FOLD__I)(value))
#define FOLD__ISET(bits) ((FOLD__I)FOLD__VSETI((int)(bits)))
#endif

#define FOLD__VABS(value) FOLD__IFLOATS(FOLD__IAND(FOLD__VBITS(value), FOLD__ISET(0x7fffffffu)))
#define FOLD__VNEG(value) FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(value), FOLD__ISET(0x80000000u)))

/* ---- exp, log and what is made of them ----
   The same operations on every path. Largest errors found, in ulp over every seventh float of the 2^32:
                      exp   log   tanh  sigmoid  softplus
     fused            0.89  0.86  2.60   2.34     1.82
     portable plain   1.17  0.93  2.67   2.34     1.77
   gelu: 3.2 ulp down to -10; from there on, where exp(-|z|) is subnormal and its error is multiplied by
   x, 6.5. gelu_erf: 6.6, portable plain 7.9. silu: 3.2 down to -87; from there on, as for gelu, 52. elu: 0.95.
   sin and cos within 2^18: 1.6. pow: 0.9 + |exponent| / 2, portable plain 1.3 + 0.8 |exponent|. */

/* x = n ln 2 + r with |r| <= ln 2 / 2: returns r; *number is the integer n, as bits above the magic
 * number's. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_reduce)(FOLD__V x, FOLD__I *number)
{
    FOLD__NO_CONTRACT
    const FOLD__V magic = FOLD__VSET(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    FOLD__V rounded = FOLD__VFMA(x, FOLD__VSET(0x1.715476p+0f), magic), whole = FOLD__VSUB(rounded, magic), r;
    *number = FOLD__ISUB(FOLD__VBITS(rounded), FOLD__ISET(0x4b400000u));
    r = FOLD__VFMA(whole, FOLD__VSET(-0x1.62e4p-1f),
                   x); /* ln 2 in two parts, the first so short that n times it is exact */
    return FOLD__VFMA(whole, FOLD__VSET(-0x1.7f7d1cp-20f), r);
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
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_made)(FOLD__V r, FOLD__I number)
{
    FOLD__NO_CONTRACT
    const FOLD__V one = FOLD__VSET(1.0f);
    FOLD__V p;
    FOLD__I half;
    p = FOLD__VFMA(FOLD__ISA(exp_tail)(r), r, one);
    p = FOLD__VFMA(p, r, one);
    number = FOLD__IADD(number, FOLD__ISET(254u)); /* both halves' exponent bias; now positive */
    half = FOLD__ISHR(number, 1);
    p = FOLD__VMUL(p, FOLD__IFLOATS(FOLD__ISHL(half, 23)));
    number = FOLD__ISUB(number, half);
    return FOLD__VMUL(p, FOLD__IFLOATS(FOLD__ISHL(number, 23)));
}

/* exp of x <= 89. The bounds are written so that NaN passes. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_low)(FOLD__V x)
{
    const FOLD__V low = FOLD__VSET(-104.0f);
    FOLD__I number;
    FOLD__V r = FOLD__ISA(exp_reduce)(FOLD__VMAX(low, x), &number);
    return FOLD__ISA(exp_made)(r, number);
}

FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp)(FOLD__V x)
{
    const FOLD__V high = FOLD__VSET(89.0f);
    return FOLD__ISA(exp_low)(FOLD__VMIN(high, x));
}

/* log(1 + fraction) + exponent ln 2 for a fraction in [sqrt(1/2) - 1, sqrt(2) - 1]. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(log_core)(FOLD__V fraction, FOLD__V exponent)
{
    FOLD__NO_CONTRACT
    FOLD__V square = FOLD__VMUL(fraction, fraction), p = FOLD__VSET(-0x1.38c1a2p-4f);
    p = FOLD__VFMA(p, fraction, FOLD__VSET(0x1.056496p-3f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(-0x1.0d875ap-3f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(0x1.22d90ap-3f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(-0x1.5471f6p-3f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(0x1.99a012p-3f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(-0x1.000228p-2f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(0x1.555554p-2f));
    p = FOLD__VFMA(p, fraction, FOLD__VSET(-0.5f));
    p = FOLD__VFMA(square, p, FOLD__VMUL(exponent, FOLD__VSET(0x1.7f7d1cp-20f)));
    p = FOLD__VADD(fraction, p);
    return FOLD__VFMA(exponent, FOLD__VSET(0x1.62e4p-1f), p);
}

/* x = 2^exponent (1 + fraction), the fraction in [sqrt(1/2) - 1, sqrt(2) - 1], for finite x above 0. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(log_split)(FOLD__V x, FOLD__V *exponent_float)
{
    FOLD__NO_CONTRACT
    const FOLD__V tiny = FOLD__VSET(0x1p-126f);
    FOLD__M denormal = FOLD__VLT(x, tiny);
    FOLD__V up = FOLD__VMUL(x, FOLD__VSET(8388608.0f)), scaled = FOLD__VSEL(denormal, up, x);
    FOLD__V bias =
        FOLD__VSEL(denormal, FOLD__VSET(8388608.0f + 127.0f + 23.0f), FOLD__VSET(8388608.0f + 127.0f));
    FOLD__I bits = FOLD__VBITS(scaled),
            exponent = FOLD__ISHR(FOLD__IADD(bits, FOLD__ISET(0x3f800000u - 0x3f3504f3u)), 23);
    FOLD__V mantissa = FOLD__IFLOATS(FOLD__IADD(FOLD__ISUB(bits, FOLD__ISHL(exponent, 23)),
                                                FOLD__ISET(0x3f800000u))); /* sqrt(1/2) .. sqrt(2) */
    *exponent_float = FOLD__VSUB(FOLD__IFLOATS(FOLD__IADD(exponent, FOLD__ISET(0x4b000000u))), bias);
    return FOLD__VSUB(mantissa, FOLD__VSET(1.0f));
}

FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(log)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V zero = FOLD__VZERO(), inf = FOLD__VSET(INFINITY);
    FOLD__V exponent, fraction = FOLD__ISA(log_split)(x, &exponent);
    FOLD__V result = FOLD__ISA(log_core)(fraction, exponent);
    FOLD__V edge = FOLD__VSEL(FOLD__VEQ(x, zero), FOLD__VSET(-INFINITY), FOLD__VSET(NAN));
    result = FOLD__VSEL(FOLD__VLT(zero, x), result, edge);
    return FOLD__VSEL(FOLD__VLT(x, inf), result, x); /* NaN and infinity are their own logarithms */
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
    FOLD__V magnitude = FOLD__VABS(x), bounded = FOLD__VMIN(ten, magnitude), r, q, power;
    FOLD__I number, sign = FOLD__IAND(FOLD__VBITS(x), FOLD__ISET(0x80000000u));
    r = FOLD__ISA(exp_reduce)(FOLD__VADD(bounded, bounded), &number);
    q = FOLD__VFMA(FOLD__VMUL(r, r), FOLD__ISA(exp_tail)(r), r);
    power = FOLD__IFLOATS(FOLD__ISHL(FOLD__IADD(number, FOLD__ISET(127u)), 23));
    q = FOLD__VFMA(power, q, FOLD__VSUB(power, FOLD__VSET(1.0f)));
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
    FOLD__V fraction = FOLD__VSEL(large, FOLD__VMUL(FOLD__VSUB(u, one), FOLD__VSET(0.5f)), u);
    FOLD__V above = FOLD__VMAX(x, zero);
    return FOLD__VADD(above, FOLD__ISA(log_core)(fraction, FOLD__VSEL(large, one, zero)));
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
    FOLD__V sum = FOLD__VADD(FOLD__VSUB(FOLD__VMUL(ah, bh), c), FOLD__VMUL(ah, bl));
    return FOLD__VADD(FOLD__VADD(sum, FOLD__VMUL(al, bh)), FOLD__VMUL(al, bl));
#endif
}

/* gelu(x) = 0.5 x (1 + tanh(z / 2)) = x sigmoid(z), where z = 2 sqrt(2/pi) (x + 0.044715 x^3). At |x| = 12 it
   has reached x, or 0: further out the same is computed. The bounds are written so that NaN passes. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(gelu_low)(FOLD__V x)
{
    const FOLD__V low = FOLD__VSET(-12.0f);
    return FOLD__VMAX(low, x);
}

/* exp(-|z|) = 2^(n + r). The exponent is x p, p = a + b x^2, and may be 150: for r to be as accurate as a
   float is, p is computed in two parts, from constants in two parts, the first of a so short that p - a is
   exact. */
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
    FOLD__V sigmoid = FOLD__ISA(gelu_sigmoid)(x), slope;
    x = FOLD__VMIN(high, FOLD__ISA(gelu_low)(x));
    slope = FOLD__VFMA(FOLD__VMUL(x, x), FOLD__VSET(0x1.b6676cp-3f), FOLD__VSET(0x1.988454p+0f));
    slope = FOLD__VMUL(FOLD__VMUL(x, slope), FOLD__VSUB(FOLD__VSET(1.0f), sigmoid));
    return FOLD__VFMA(slope, sigmoid, sigmoid);
}

/* gelu_erf(x) = x P(x), P(x) = (1 + erf(x / sqrt 2)) / 2 the normal distribution. For x < 0 it is
   exp(-x^2 / 2) R(-x), where R is smooth: u = 1 / (1 + 0.3 t) times a polynomial of u - 0.75, fitted
   to 3.5e-9 for t in [0, 14.4]. Further out the same is computed: there x P(x) has reached x, or 0. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(normal_tail)(FOLD__V t)
{
    FOLD__NO_CONTRACT
    const FOLD__V one = FOLD__VSET(1.0f);
    FOLD__V u = FOLD__VDIV(one, FOLD__VFMA(t, FOLD__VSET(0x1.333334p-2f), one)), p;
    FOLD__V v = FOLD__VSUB(u, FOLD__VSET(0.75f)); /* its powers are small where R changes most */
    p = FOLD__VFMA(FOLD__VSET(-0x1.51de3ap-6f), v, FOLD__VSET(-0x1.b69d92p-6f));
    p = FOLD__VFMA(p, v, FOLD__VSET(0x1.d773fap-6f));
    p = FOLD__VFMA(p, v, FOLD__VSET(0x1.13e76ap-5f));
    p = FOLD__VFMA(p, v, FOLD__VSET(-0x1.3fcb2cp-4f));
    p = FOLD__VFMA(p, v, FOLD__VSET(-0x1.46029ep-4f));
    p = FOLD__VFMA(p, v, FOLD__VSET(0x1.931f14p-3f));
    p = FOLD__VFMA(p, v, FOLD__VSET(0x1.053cb0p-1f));
    p = FOLD__VFMA(p, v, FOLD__VSET(0x1.168e58p-1f));
    p = FOLD__VFMA(p, v, FOLD__VSET(0x1.514e00p-2f));
    return FOLD__VMUL(p, u);
}
/* exp(-t^2 / 2): what t^2 loses in rounding is subtracted from the rest that exp_reduce leaves. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(normal_exp)(FOLD__V t)
{
    FOLD__NO_CONTRACT
    const FOLD__V half = FOLD__VSET(-0.5f);
    FOLD__V square = FOLD__VMUL(t, t), rest = FOLD__ISA(product_rest)(t, t, square);
    FOLD__I number;
    FOLD__V r = FOLD__ISA(exp_reduce)(FOLD__VMUL(square, half), &number);
    return FOLD__ISA(exp_made)(FOLD__VFMA(rest, half, r), number);
}
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(normal_bound)(FOLD__V x)
{
    const FOLD__V low = FOLD__VSET(-14.4f);
    return FOLD__VMAX(low, x); /* NaN passes */
}
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(gelu_erf)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    FOLD__V t = FOLD__VNEG(FOLD__ISA(normal_bound)(FOLD__VNEG(FOLD__VABS(x))));
    FOLD__V tail = FOLD__VMUL(t, FOLD__ISA(normal_tail)(t)), e = FOLD__ISA(normal_exp)(t);
    return FOLD__VFMA(FOLD__VNEG(tail), e, FOLD__VMAX(x, FOLD__VZERO()));
}
/* P(x) + x exp(-x^2 / 2) / sqrt(2 pi). */
FOLD__TARGET FOLD__NOINLINE static FOLD__V FOLD__ISA(gelu_erf_slope)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    FOLD__V t = FOLD__VNEG(FOLD__ISA(normal_bound)(FOLD__VNEG(FOLD__VABS(x))));
    FOLD__V e = FOLD__ISA(normal_exp)(t), tail = FOLD__ISA(normal_tail)(t);
    tail = FOLD__VMUL(FOLD__VFMA(t, FOLD__VSET(-0x1.988454p-2f), tail), e);
    return FOLD__VSEL(FOLD__VLT(x, FOLD__VZERO()), tail, FOLD__VSUB(FOLD__VSET(1.0f), tail));
}

/* silu(x) = x sigmoid(x), 0 from -104 on. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(silu)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V low = FOLD__VSET(-104.0f);
    x = FOLD__VMAX(low, x);
    return FOLD__VMUL(x, FOLD__ISA(sigmoid)(x));
}
/* s (1 + x (1 - s)), s = sigmoid(x). */
FOLD__TARGET FOLD__NOINLINE static FOLD__V FOLD__ISA(silu_slope)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V low = FOLD__VSET(-104.0f), high = FOLD__VSET(104.0f), one = FOLD__VSET(1.0f);
    x = FOLD__VMIN(high, FOLD__VMAX(low, x));
    FOLD__V sigmoid = FOLD__ISA(sigmoid)(x);
    return FOLD__VMUL(sigmoid, FOLD__VFMA(x, FOLD__VSUB(one, sigmoid), one));
}

#if FOLD__SIMD_PASS != 512 /* what only light maps use: AVX-512 has those of AVX2 */
/* x > 0 ? x : alpha (e^x - 1); e^x - 1 as for tanh. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(elu)(FOLD__V x, FOLD__V alpha)
{
    FOLD__NO_CONTRACT
    const FOLD__V low = FOLD__VSET(-30.0f), zero = FOLD__VZERO();
    FOLD__V q, power, r;
    FOLD__I number;
    r = FOLD__ISA(exp_reduce)(FOLD__VMAX(low, FOLD__VSEL(FOLD__VLT(zero, x), zero, x)), &number);
    q = FOLD__VFMA(FOLD__VMUL(r, r), FOLD__ISA(exp_tail)(r), r);
    power = FOLD__IFLOATS(FOLD__ISHL(FOLD__IADD(number, FOLD__ISET(127u)), 23));
    q = FOLD__VFMA(power, q, FOLD__VSUB(power, FOLD__VSET(1.0f)));
    return FOLD__VSEL(FOLD__VLT(zero, x), x, FOLD__VMUL(alpha, q));
}
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(elu_slope)(FOLD__V x, FOLD__V alpha)
{
    const FOLD__V zero = FOLD__VZERO();
    FOLD__V below = FOLD__ISA(exp_low)(FOLD__VSEL(FOLD__VLT(zero, x), zero, x));
    return FOLD__VSEL(FOLD__VLT(zero, x), FOLD__VSET(1.0f), FOLD__VMUL(alpha, below));
}

/* sin(x + quarters pi / 2) for |x| <= 2^18, NaN beyond. x = n pi/2 + r: pi/2 in three parts, the first of
   which leaves x - n pi/2 exact; |r| <= 0.81, since n is rounded from a rounded product. */
FOLD__TARGET FOLD__NOINLINE static FOLD__V FOLD__ISA(sine)(FOLD__V x, uint32_t quarters)
{
    FOLD__NO_CONTRACT
    const FOLD__V magic = FOLD__VSET(12582912.0f), zero = FOLD__VZERO(); /* as for exp */
    FOLD__V rounded = FOLD__VFMA(x, FOLD__VSET(0x1.45f306p-1f), magic), n = FOLD__VSUB(rounded, magic);
    FOLD__V middle = FOLD__VMUL(n, FOLD__VSET(0x1.777a5cp-25f)), r, square, even, odd;
    FOLD__I number = FOLD__IADD(FOLD__VBITS(rounded), FOLD__ISET(quarters - 0x4b400000u)), half;
    r = FOLD__ISA(product_rest)(FOLD__VNEG(n), FOLD__VSET(0x1.921fb6p+0f), FOLD__VNEG(x));
    r = FOLD__VADD(FOLD__VADD(r, middle), FOLD__ISA(product_rest)(n, FOLD__VSET(0x1.777a5cp-25f), middle));
    r = FOLD__VFMA(n, FOLD__VSET(0x1.ee59dap-50f), r);
    r = FOLD__VSEL(FOLD__VLT(FOLD__VSET(262144.0f), FOLD__VABS(x)), FOLD__VSET(NAN), r);
    square = FOLD__VMUL(r, r);
    odd = FOLD__VFMA(FOLD__VSET(0x1.6c7fd6p-19f), square, FOLD__VSET(-0x1.a00e1ep-13f));
    odd = FOLD__VFMA(odd, square, FOLD__VSET(0x1.111106p-7f));
    odd = FOLD__VFMA(odd, square, FOLD__VSET(-0x1.555556p-3f));
    odd = FOLD__VFMA(FOLD__VMUL(odd, square), r, r);
    even = FOLD__VFMA(FOLD__VSET(0x1.9985ecp-16f), square, FOLD__VSET(-0x1.6c0accp-10f));
    even = FOLD__VFMA(even, square, FOLD__VSET(0x1.555548p-5f));
    even =
        FOLD__VFMA(FOLD__VMUL(even, square), square, FOLD__VFMA(FOLD__VSET(-0.5f), square, FOLD__VSET(1.0f)));
    half = FOLD__IXOR(FOLD__ISHL(number, 31), FOLD__ISET(0x3f800000u)); /* -1 where n is odd, else 1 */
    r = FOLD__VSEL(FOLD__VLT(FOLD__IFLOATS(half), zero), even, odd);
    return FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(r), FOLD__ISHL(FOLD__IAND(number, FOLD__ISET(2u)), 30)));
}

/* The largest integer that is not above x. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(floor)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V whole = FOLD__VSET(8388608.0f), zero = FOLD__VZERO();
    FOLD__V size = FOLD__VABS(x), rounded = FOLD__VSUB(FOLD__VADD(size, whole), whole);
    rounded =
        FOLD__IFLOATS(FOLD__IXOR(FOLD__VBITS(rounded), FOLD__IAND(FOLD__VBITS(x), FOLD__ISET(0x80000000u))));
    rounded = FOLD__VSUB(rounded, FOLD__VSEL(FOLD__VLT(x, rounded), FOLD__VSET(1.0f), zero));
    return FOLD__VSEL(FOLD__VLT(size, whole), rounded, x);
}

/* |x|^p = 2^(p exponent) e^(p log(1 + fraction)). p times the exponent is kept in two parts, so that only the
   logarithm of a number near 1 is multiplied by p: p / 2 ulp are lost, however large the result. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(pow_positive)(FOLD__V x, FOLD__V p)
{
    FOLD__NO_CONTRACT
    const FOLD__V magic = FOLD__VSET(12582912.0f), zero = FOLD__VZERO(),
                  one = FOLD__VSET(1.0f); /* as for exp */
    const FOLD__V low = FOLD__VSET(-160.0f), high = FOLD__VSET(140.0f), inf = FOLD__VSET(INFINITY);
    FOLD__V exponent, fraction = FOLD__ISA(log_split)(x, &exponent), whole, n, r, edge;
    FOLD__V log_part = FOLD__VMUL(p, FOLD__ISA(log_core)(fraction, zero));
    whole = FOLD__VMUL(p, exponent);
    n = FOLD__VADD(whole, FOLD__VMUL(log_part, FOLD__VSET(0x1.715476p+0f)));
    n = FOLD__VADD(FOLD__VMIN(high, FOLD__VMAX(low, n)), magic);
    r = FOLD__VADD(FOLD__VSUB(whole, FOLD__VSUB(n, magic)), FOLD__ISA(product_rest)(p, exponent, whole));
    r = FOLD__VFMA(r, FOLD__VSET(0x1.62e43p-1f), log_part); /* ln 2 */
    r = FOLD__VMIN(one, FOLD__VMAX(FOLD__VNEG(one), r));
    r = FOLD__ISA(exp_made)(r, FOLD__ISUB(FOLD__VBITS(n), FOLD__ISET(0x4b400000u)));
    edge = FOLD__VSEL(FOLD__VLT(x, one), zero, inf); /* 0 and infinity to a power above 0, and below */
    edge = FOLD__VSEL(FOLD__VLT(p, zero), FOLD__VSEL(FOLD__VLT(x, one), inf, zero), edge);
    edge = FOLD__VSEL(FOLD__VEQ(p, zero), one, edge);
    r = FOLD__VSEL(FOLD__VEQ(x, zero), edge, r);
    return FOLD__VSEL(FOLD__VLT(x, inf), r, FOLD__VSEL(FOLD__VEQ(x, inf), edge, x));
}
/* x^p; of x below 0 only where p is an integer, else NaN. */
FOLD__TARGET FOLD__NOINLINE static FOLD__V FOLD__ISA(pow)(FOLD__V x, FOLD__V p)
{
    FOLD__NO_CONTRACT
    const FOLD__V half = FOLD__VMUL(p, FOLD__VSET(0.5f)), zero = FOLD__VZERO();
    FOLD__V power = FOLD__ISA(pow_positive)(FOLD__VABS(x), p), below;
    below = FOLD__VSEL(FOLD__VEQ(FOLD__ISA(floor)(half), half), power, FOLD__VNEG(power));
    below = FOLD__VSEL(FOLD__VEQ(FOLD__ISA(floor)(p), p), below, FOLD__VSET(NAN));
    return FOLD__VSEL(FOLD__VLT(x, zero), below, power);
}
/* p x^(p - 1), 0 when p is 0. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(pow_slope)(FOLD__V x, FOLD__V p)
{
    FOLD__NO_CONTRACT
    FOLD__V slope = FOLD__VMUL(p, FOLD__ISA(pow)(x, FOLD__VSUB(p, FOLD__VSET(1.0f))));
    return FOLD__VSEL(FOLD__VEQ(p, FOLD__VZERO()), FOLD__VZERO(), slope);
}
#endif

/* ---- maps ---- */

/* The rows of out, in_a, in_b and in_c as variables: a store to out might change what `all` points to, for
   all a compiler knows. An input that the map does not use is out. */
#define FOLD__MAP_BEGIN(out, in_a, in_b, in_c)                                                       \
    const fold_rows *others = all ? all : fold__no_others, out_rows = others[0], a_rows = others[1], \
                    b_rows = others[2], c_rows = others[3];                                          \
    if (!in_a)                                                                                       \
        in_a = out;                                                                                  \
    if (!in_b)                                                                                       \
        in_b = out;                                                                                  \
    if (!in_c)                                                                                       \
        in_c = out;
#define FOLD__MAP_NEXT(out, in_a, in_b, in_c) \
    out = fold__next(&out_rows, out, row);    \
    in_a = fold__next(&a_rows, in_a, row);    \
    in_b = fold__next(&b_rows, in_b, row);    \
    in_c = fold__next(&c_rows, in_c, row);

#if FOLD__SIMD_PASS == 1
/* One loop for all of them: choosing anew for every vector costs little when vectors are short. The remainder
   of a row goes through a buffer and the same loop again. */
#define FOLD__A a
#define FOLD__B b
#define FOLD__C c
#define FOLD__S scalars
#define FOLD__MAP_CASE(name, expression) \
    case FOLD__MAP_##name: result = expression; break;
static void FOLD__ISA(map)(int map, float *out, const float *in_a, const float *in_b, const float *in_c,
                           float scalar, size_t count, size_t rows, const fold_rows *all)
{
    FOLD__NO_CONTRACT
    const FOLD__V scalars = FOLD__VSET(scalar);
    size_t row = 0, at;
    FOLD__MAP_BEGIN(out, in_a, in_b, in_c)
    for (;;) {
        for (at = 0; at + FOLD__W <= count; at += FOLD__W) {
            const FOLD__V a = FOLD__VLOAD(in_a + at), b = FOLD__VLOAD(in_b + at), c = FOLD__VLOAD(in_c + at);
            FOLD__V result = scalars;
            switch (map) {
                FOLD__MAPS(FOLD__MAP_CASE, FOLD__MAP_CASE) default : break;
            }
            FOLD__VSTORE(out + at, result);
        }
        if (at < count) {
            const size_t bytes = (count - at) * sizeof(float);
            float padded[4][FOLD__W] = { { 0.0f } };
            memcpy(padded[0], in_a + at, bytes);
            memcpy(padded[1], in_b + at, bytes);
            memcpy(padded[2], in_c + at, bytes);
            FOLD__ISA(map)(map, padded[3], padded[0], padded[1], padded[2], scalar, FOLD__W, 1, NULL);
            memcpy(out + at, padded[3], bytes);
        }
        if (++row >= rows)
            return;
        FOLD__MAP_NEXT(out, in_a, in_b, in_c)
    }
}
#define FOLD__MAP_DEFINE(name, expression)                                                                 \
    static void FOLD__ISA(map_##name)(float *out, const float *in_a, const float *in_b, const float *in_c, \
                                      float scalar, size_t count, size_t rows, const fold_rows *all)       \
    {                                                                                                      \
        FOLD__ISA(map)(FOLD__MAP_##name, out, in_a, in_b, in_c, scalar, count, rows, all);                 \
    }

#elif FOLD__SIMD_PASS == 128
#define FOLD__A FOLD__VLOAD(in_a + at)
#define FOLD__B FOLD__VLOAD(in_b + at)
#define FOLD__C FOLD__VLOAD(in_c + at)
#define FOLD__S FOLD__VSET(scalar)
#define FOLD__MAP_DEFINE(name, expression)                                                                 \
    static void FOLD__ISA(map_##name)(float *out, const float *in_a, const float *in_b, const float *in_c, \
                                      float scalar, size_t count, size_t rows, const fold_rows *all)       \
    {                                                                                                      \
        FOLD__NO_CONTRACT                                                                                  \
        size_t row = 0, at;                                                                                \
        FOLD__MAP_BEGIN(out, in_a, in_b, in_c)                                                             \
        for (;;) {                                                                                         \
            for (at = 0; at + FOLD__W <= count; at += FOLD__W)                                             \
                FOLD__VSTORE(out + at, expression);                                                        \
            if (at < count)                                                                                \
                fold__map_rest(FOLD__ISA(map_##name), out, in_a, in_b, in_c, scalar, at, count);           \
            if (++row >= rows)                                                                             \
                return;                                                                                    \
            FOLD__MAP_NEXT(out, in_a, in_b, in_c)                                                          \
        }                                                                                                  \
    }

#else
/* One loop for rows and vectors, so that constants are set once; what is left of a row is under a mask. */
#define FOLD__A va
#define FOLD__B vb
#define FOLD__C vc
#define FOLD__S FOLD__VSET(scalar)
#define FOLD__MAP_LOAD(LOAD)                                         \
    const FOLD__V va = LOAD(in_a), vb = LOAD(in_b), vc = LOAD(in_c); \
    (void)va;                                                        \
    (void)vb;                                                        \
    (void)vc;
#define FOLD__MAP_WHOLE(in) FOLD__VLOAD(in + at)
#define FOLD__MAP_REST(in) FOLD__VLOAD_M(in + at, last)

#if FOLD__SIMD_PASS == 512
/* Rows of at most eight floats go two by two. */
#define FOLD__MAP_TWO(in)                                                                           \
    _mm512_maskz_insertf32x8(FOLD__ALL, _mm512_castps256_ps512(_mm256_maskz_loadu_ps(half, in##0)), \
                             _mm256_maskz_loadu_ps(half, in), 1)
#define FOLD__MAP_PAIRS(expression)                                                               \
    for (; count <= 8 && row + 1 < rows;) {                                                       \
        const __mmask8 half = (__mmask8)last;                                                     \
        const float *in_a0 = in_a, *in_b0 = in_b, *in_c0 = in_c;                                  \
        float *out0 = out;                                                                        \
        row++;                                                                                    \
        FOLD__MAP_NEXT(out, in_a, in_b, in_c)                                                     \
        FOLD__MAP_LOAD(FOLD__MAP_TWO)                                                             \
        const FOLD__V both = expression;                                                          \
        _mm256_mask_storeu_ps(out0, half, _mm512_maskz_extractf32x8_ps((__mmask8)0xff, both, 0)); \
        _mm256_mask_storeu_ps(out, half, _mm512_maskz_extractf32x8_ps((__mmask8)0xff, both, 1));  \
        if (++row >= rows)                                                                        \
            return;                                                                               \
        FOLD__MAP_NEXT(out, in_a, in_b, in_c)                                                     \
    }
#else
#define FOLD__MAP_PAIRS(expression)
#endif

#define FOLD__MAP_DEFINE(name, expression)                                                             \
    FOLD__TARGET static void FOLD__ISA(map_##name)(float *out, const float *in_a, const float *in_b,   \
                                                   const float *in_c, float scalar, size_t count,      \
                                                   size_t rows, const fold_rows *all)                  \
    {                                                                                                  \
        FOLD__NO_CONTRACT                                                                              \
        const FOLD__MASK last = FOLD__TAIL(count % FOLD__W);                                           \
        size_t row = 0, at = 0;                                                                        \
        FOLD__MAP_BEGIN(out, in_a, in_b, in_c)                                                         \
        (void)scalar;                                                                                  \
        if (!count)                                                                                    \
            return;                                                                                    \
        FOLD__MAP_PAIRS(expression)                                                                    \
        for (;;) {                                                                                     \
            if (count - at >= FOLD__W) {                                                               \
                FOLD__MAP_LOAD(FOLD__MAP_WHOLE) FOLD__VSTORE(out + at, expression);                    \
            } else {                                                                                   \
                FOLD__MAP_LOAD(FOLD__MAP_REST) FOLD__VSTORE_M(out + at, expression, last, count - at); \
            }                                                                                          \
            at += FOLD__W;                                                                             \
            if (at < count)                                                                            \
                continue;                                                                              \
            if (++row >= rows)                                                                         \
                return;                                                                                \
            at = 0;                                                                                    \
            FOLD__MAP_NEXT(out, in_a, in_b, in_c)                                                      \
        }                                                                                              \
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
#define FOLD__PART(index) FOLD__V part##index;
typedef struct FOLD__L {
    FOLD__PARTS(FOLD__PART)
} FOLD__L;
#undef FOLD__PART

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_set)(float value)
{
    FOLD__L lanes;
#define FOLD__PART(index) lanes.part##index = FOLD__VSET(value);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return lanes;
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_load)(const float *from)
{
    FOLD__L lanes;
#define FOLD__PART(index) lanes.part##index = FOLD__VLOAD(from + index * FOLD__W);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return lanes;
}

/* The first n floats, then zeros. */
#if FOLD__W <= 4
FOLD__NOINLINE static FOLD__L FOLD__ISA(lanes_load_n)(const float *from, int count)
{
    float lanes[FOLD__LANES] = { 0.0f };
    memcpy(lanes, from, (size_t)count * sizeof *lanes);
    return FOLD__ISA(lanes_load)(lanes);
}
#else
#define FOLD__HAVE(part) \
    (count <= part * FOLD__W ? 0 : count - part * FOLD__W > FOLD__W ? FOLD__W : count - part * FOLD__W)
FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_load_n)(const float *from, int count)
{
    FOLD__L lanes;
#define FOLD__PART(index) \
    lanes.part##index = FOLD__VLOAD_M(from + index * FOLD__W, FOLD__TAIL(FOLD__HAVE(index)));
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return lanes;
}
#endif

FOLD__TARGET FOLD__INLINE void FOLD__ISA(lanes_store)(float *to, const FOLD__L *lanes)
{
#define FOLD__PART(index) FOLD__VSTORE(to + index * FOLD__W, lanes->part##index);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_fma)(FOLD__L a, FOLD__L b, FOLD__L c)
{
    FOLD__NO_CONTRACT
#define FOLD__PART(index) c.part##index = FOLD__VFMA(a.part##index, b.part##index, c.part##index);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return c;
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_add)(FOLD__L a, FOLD__L b)
{
    FOLD__NO_CONTRACT
#define FOLD__PART(index) a.part##index = FOLD__VADD(a.part##index, b.part##index);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return a;
}

FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(lanes_max)(FOLD__L a, FOLD__L b)
{
#define FOLD__PART(index) a.part##index = FOLD__VMAX(a.part##index, b.part##index);
    FOLD__PARTS(FOLD__PART)
#undef FOLD__PART
    return a;
}

/* The fixed tree: lane l and l + 8, then + 4, + 2, + 1. */
#if FOLD__SIMD_PASS == 512 || FOLD__SIMD_PASS == 256
#if FOLD__SIMD_PASS == 512 && !defined(__clang__)
FOLD__TARGET FOLD__NOINLINE static float
FOLD__ISA(join)(FOLD__V lanes) /* inlined, gcc 12 makes a mess of the loops before it */
#else
FOLD__TARGET FOLD__INLINE float FOLD__ISA(join)(FOLD__V lanes)
#endif
{
    __m128 quarter;
#if FOLD__SIMD_PASS == 512
    __m256 half = _mm256_add_ps(_mm512_maskz_extractf32x8_ps((__mmask8)0xff, lanes, 0),
                                _mm512_maskz_extractf32x8_ps((__mmask8)0xff, lanes, 1));
#else
    __m256 half = lanes;
#endif
    quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    quarter = _mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1));
#if FOLD__SIMD_PASS == 512 && !defined(__clang__)
    _mm256_zeroupper(); /* gcc leaves it out where a vector is an argument, which slows all that follows */
#endif
    return _mm_cvtss_f32(quarter);
}
#endif

FOLD__TARGET FOLD__INLINE float FOLD__ISA(lanes_sum)(FOLD__L lanes)
{
    FOLD__NO_CONTRACT
#if FOLD__SIMD_PASS == 512
    return FOLD__ISA(join)(lanes.part0);
#elif FOLD__SIMD_PASS == 256
    return FOLD__ISA(join)(_mm256_add_ps(lanes.part0, lanes.part1));
#elif FOLD__SIMD_PASS == 128
    const float32x4_t four = (lanes.part0 + lanes.part2) + (lanes.part1 + lanes.part3);
    const float32x2_t two = vget_low_f32(four) + vget_high_f32(four);
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
#else
    float sums[FOLD__LANES];
    int half, lane;
    FOLD__ISA(lanes_store)(sums, &lanes);
    for (half = FOLD__LANES / 2; half > 0; half /= 2)
        for (lane = 0; lane < half; lane++)
            sums[lane] = sums[lane] + sums[lane + half];
    return sums[0];
#endif
}

/* ---- reductions inside a row ---- */

FOLD__TARGET static float FOLD__ISA(sum)(const float *from, size_t count)
{
    FOLD__L lanes = FOLD__ISA(lanes_set)(0.0f);
    for (; count >= FOLD__LANES; count -= FOLD__LANES, from += FOLD__LANES)
        lanes = FOLD__ISA(lanes_add)(lanes, FOLD__ISA(lanes_load)(from));
    if (count)
        lanes = FOLD__ISA(lanes_add)(lanes, FOLD__ISA(lanes_load_n)(from, (int)count));
    return FOLD__ISA(lanes_sum)(lanes);
}

FOLD__TARGET static float FOLD__ISA(dot)(const float *left, const float *right, size_t count)
{
    FOLD__L lanes = FOLD__ISA(lanes_set)(0.0f);
    for (; count >= FOLD__LANES; count -= FOLD__LANES, left += FOLD__LANES, right += FOLD__LANES)
        lanes = FOLD__ISA(lanes_fma)(FOLD__ISA(lanes_load)(left), FOLD__ISA(lanes_load)(right), lanes);
    if (count)
        lanes = FOLD__ISA(lanes_fma)(FOLD__ISA(lanes_load_n)(left, (int)count),
                                     FOLD__ISA(lanes_load_n)(right, (int)count), lanes);
    return FOLD__ISA(lanes_sum)(lanes);
}

FOLD__TARGET static float FOLD__ISA(max)(const float *from, size_t count)
{
    FOLD__L lanes = FOLD__ISA(lanes_set)(-INFINITY);
    float padded[FOLD__LANES];
    int half, lane;
    for (; count >= FOLD__LANES; count -= FOLD__LANES, from += FOLD__LANES)
        lanes = FOLD__ISA(lanes_max)(FOLD__ISA(lanes_load)(from), lanes);
    if (count) {
        for (lane = 0; lane < FOLD__LANES; lane++)
            padded[lane] = (size_t)lane < count ? from[lane] : -INFINITY;
        lanes = FOLD__ISA(lanes_max)(FOLD__ISA(lanes_load)(padded), lanes);
    }
    FOLD__ISA(lanes_store)(padded, &lanes);
    for (half = FOLD__LANES / 2; half > 0; half /= 2)
        for (lane = 0; lane < half; lane++)
            padded[lane] = padded[lane + half] > padded[lane] ? padded[lane + half] : padded[lane];
    return padded[0];
}

FOLD__TARGET static float FOLD__ISA(exp_sum)(float *to, const float *from, float largest, size_t count)
{
    const size_t tile = 1024; /* of the first cache level; the sum's lanes run on from tile to tile */
    FOLD__L lanes = FOLD__ISA(lanes_set)(0.0f);
    for (size_t part; count; count -= part, from += part, to += part) {
        size_t at = 0;
        part = count < tile ? count : tile;
        FOLD__ISA(map_shift)(to, from, NULL, NULL, -largest, part, 1, NULL);
        FOLD__ISA(map_exp)(to, to, NULL, NULL, 0.0f, part, 1, NULL);
        for (; at + FOLD__LANES <= part; at += FOLD__LANES)
            lanes = FOLD__ISA(lanes_add)(lanes, FOLD__ISA(lanes_load)(to + at));
        if (at < part)
            lanes = FOLD__ISA(lanes_add)(lanes, FOLD__ISA(lanes_load_n)(to + at, (int)(part - at)));
    }
    return FOLD__ISA(lanes_sum)(lanes);
}

/* ---- optimisers ---- */

/* One vector of values, by LOAD(p) and STORE(p, v). */
#define FOLD__RULE_TURN(states, body, LOAD, STORE)                                                    \
    FOLD__V value = LOAD(values + at), grad = FOLD__VADD(LOAD(grads + at), FOLD__VMUL(decay, value)), \
            state1 = grad, state2 = grad, change;                                                     \
    if (states > 0)                                                                                   \
        state1 = LOAD(states1 + at);                                                                  \
    if (states > 1)                                                                                   \
        state2 = LOAD(states2 + at);                                                                  \
    body;                                                                                             \
    STORE(values + at, FOLD__VSUB(value, change));                                                    \
    STORE(grads + at, FOLD__VZERO());                                                                 \
    if (states > 0)                                                                                   \
        STORE(states1 + at, state1);                                                                  \
    if (states > 1)                                                                                   \
        STORE(states2 + at, state2);
#define FOLD__RULE_LOAD(from) FOLD__VLOAD_M(from, mask)
#define FOLD__RULE_STORE(to, value) FOLD__VSTORE_M(to, value, mask, count - at)
#define FOLD__RULE_DEFINE(name, states, body)                                                            \
    FOLD__TARGET static void FOLD__ISA(rule_##name)(const fold__step *step, float *values, float *grads, \
                                                    float *states1, float *states2, size_t count)        \
    {                                                                                                    \
        FOLD__NO_CONTRACT                                                                                \
        const FOLD__V rate = FOLD__VSET(step->rate), decay = FOLD__VSET(step->decay),                    \
                      shrink = FOLD__VSET(step->shrink), epsilon = FOLD__VSET(step->epsilon);            \
        const FOLD__V keep1 = FOLD__VSET(step->keep1), add1 = FOLD__VSET(step->add1),                    \
                      scale1 = FOLD__VSET(step->scale1);                                                 \
        const FOLD__V keep2 = FOLD__VSET(step->keep2), add2 = FOLD__VSET(step->add2),                    \
                      scale2 = FOLD__VSET(step->scale2);                                                 \
        const FOLD__MASK mask = FOLD__TAIL(count % FOLD__W);                                             \
        size_t at = 0;                                                                                   \
        (void)states1;                                                                                   \
        (void)states2;                                                                                   \
        (void)shrink;                                                                                    \
        (void)epsilon;                                                                                   \
        (void)keep1;                                                                                     \
        (void)add1;                                                                                      \
        (void)scale1;                                                                                    \
        (void)keep2;                                                                                     \
        (void)add2;                                                                                      \
        (void)scale2;                                                                                    \
        for (; at + FOLD__W <= count; at += FOLD__W) {                                                   \
            FOLD__RULE_TURN(states, body, FOLD__VLOAD, FOLD__VSTORE)                                     \
        }                                                                                                \
        if (at < count) {                                                                                \
            FOLD__RULE_TURN(states, body, FOLD__RULE_LOAD, FOLD__RULE_STORE)                             \
        }                                                                                                \
    }
FOLD__RULES(FOLD__RULE_DEFINE)

/* ---- tiles: ROWS rows by VECTORS vectors of a wide product ---- */

/* The cells are spelled out by macros, since an array of accumulators would rely on the compiler to find
   registers for it. FOLD__ROWS_n is F(row, with) for every row, FOLD__COLS_n is F(with, column)
   for every vector of a row or column. */
#define FOLD__ROWS_1(F, with) F(0, with)
#define FOLD__ROWS_2(F, with) FOLD__ROWS_1(F, with) F(1, with)
#define FOLD__ROWS_3(F, with) FOLD__ROWS_2(F, with) F(2, with)
#define FOLD__ROWS_4(F, with) FOLD__ROWS_3(F, with) F(3, with)
#define FOLD__ROWS_6(F, with) FOLD__ROWS_4(F, with) F(4, with) F(5, with)
#define FOLD__COLS_1(F, with) F(with, 0)
#define FOLD__COLS_2(F, with) FOLD__COLS_1(F, with) F(with, 1)
#define FOLD__COLS_3(F, with) FOLD__COLS_2(F, with) F(with, 2)
#define FOLD__COLS_4(F, with) FOLD__COLS_3(F, with) F(with, 3)
#define FOLD__COLS_5(F, with) FOLD__COLS_4(F, with) F(with, 4)
#define FOLD__COLS_8(F, with) FOLD__COLS_5(F, with) F(with, 5) F(with, 6) F(with, 7)

#if FOLD__SIMD_PASS == 512 || FOLD__SIMD_PASS == 128 || FOLD__W == 1
#define FOLD__VPP 4 /* vectors per panel */
#else
#define FOLD__VPP 2
#endif

/* A panel vector meets few rows, so that gcc would rather load it again for each: for two and three rows
 * always, for four where it tunes for AMD's Zen. This stops it. */
#if defined(__GNUC__) && !defined(__clang__) && FOLD__SIMD_PASS > 128
#define FOLD__KEEP(vector) __asm__("" : "+v"(vector));
#else
#define FOLD__KEEP(vector)
#endif

/* The last vector of a row may be a part of one, where masks are cheap. */
#define FOLD__IS_LAST(column) (FOLD__W > 4 && column + 1 == vectors)
#define FOLD__VLOAD_OF(from, column)                                      \
    (FOLD__IS_LAST(column) ? FOLD__VLOAD_M(from + column * FOLD__W, tail) \
                           : FOLD__VLOAD(from + column * FOLD__W))
#define FOLD__FROM(row, column) FOLD__V acc##row##column = FOLD__VLOAD_OF(from##row, column);
#define FOLD__FROM_ROW(row, VECTORS)               \
    const float *from##row = from[row] + from_col; \
    FOLD__COLS_##VECTORS(FOLD__FROM, row)
#define FOLD__TO(row, column)                                                     \
    if (FOLD__IS_LAST(column))                                                    \
        FOLD__VSTORE_M(to##row + column * FOLD__W, acc##row##column, tail, last); \
    else                                                                          \
        FOLD__VSTORE(to##row + column * FOLD__W, acc##row##column);
#define FOLD__TO_ROW(row, VECTORS)     \
    float *to##row = to[row] + to_col; \
    FOLD__COLS_##VECTORS(FOLD__TO, row)
#define FOLD__X_ROW(row, VECTORS) const float *inputs##row = inputs[row];
#define FOLD__PANEL_VECTOR(column) \
    FOLD__VLOAD(weights + (size_t)(column / FOLD__VPP) * panel_stride + column % FOLD__VPP * FOLD__W)
#define FOLD__FMA(row, column) acc##row##column = FOLD__VFMA(input##row, weight##column, acc##row##column);
#define FOLD__LOAD_B(row, column)                        \
    FOLD__V weight##column = FOLD__PANEL_VECTOR(column); \
    FOLD__KEEP(weight##column)
#define FOLD__LOAD_X(row, VECTORS) const FOLD__V input##row = FOLD__VSET(inputs##row[element]);
/* Up to three rows: x stays in registers, the panels' vectors pass. */
#define FOLD__COLUMN(ROWS, column)                                      \
    {                                                                   \
        FOLD__V weight##column = FOLD__PANEL_VECTOR(column);            \
        FOLD__KEEP(weight##column) FOLD__ROWS_##ROWS(FOLD__FMA, column) \
    }
#define FOLD__COLUMN_OF_ONE(ROWS, column)                          \
    {                                                              \
        const FOLD__V weight##column = FOLD__PANEL_VECTOR(column); \
        FOLD__FMA(0, column)                                       \
    }
#define FOLD__STEP_1(VECTORS) FOLD__ROWS_1(FOLD__LOAD_X, VECTORS) FOLD__COLS_##VECTORS(FOLD__COLUMN_OF_ONE, 1)
#define FOLD__STEP_2(VECTORS) FOLD__ROWS_2(FOLD__LOAD_X, VECTORS) FOLD__COLS_##VECTORS(FOLD__COLUMN, 2)
#define FOLD__STEP_3(VECTORS) FOLD__ROWS_3(FOLD__LOAD_X, VECTORS) FOLD__COLS_##VECTORS(FOLD__COLUMN, 3)
/* More: the panel's vectors stay, x passes. */
#define FOLD__ROW_OF(row, VECTORS)                                      \
    {                                                                   \
        FOLD__LOAD_X(row, VECTORS) FOLD__COLS_##VECTORS(FOLD__FMA, row) \
    }
#define FOLD__STEP_4(VECTORS) FOLD__COLS_##VECTORS(FOLD__LOAD_B, 4) FOLD__ROWS_4(FOLD__ROW_OF, VECTORS)
#define FOLD__STEP_6(VECTORS) FOLD__COLS_##VECTORS(FOLD__LOAD_B, 6) FOLD__ROWS_6(FOLD__ROW_OF, VECTORS)

#define FOLD__TILE(ROWS, VECTORS)                                                                        \
    FOLD__TARGET static void FOLD__ISA(tile_##ROWS##_by_##VECTORS)(const fold__span *at)                 \
    {                                                                                                    \
        FOLD__NO_CONTRACT                                                                                \
        const size_t width = at->width, panel_stride = at->panel_stride, from_col = at->from_col,        \
                     to_col = at->to_col;                                                                \
        const float *const *from = at->from, *const * inputs;                                            \
        float *const *to = at->to;                                                                       \
        enum { vectors = VECTORS };                                                                      \
        const int last = at->last;                                                                       \
        const FOLD__MASK tail = FOLD__TAIL(last);                                                        \
        int tile, segment, element;                                                                      \
        (void)panel_stride;                                                                              \
        for (tile = 0; tile < at->count; tile++, from += ROWS, to += ROWS) {                             \
            FOLD__ROWS_##ROWS(FOLD__FROM_ROW, VECTORS) for (segment = 0; segment < at->n_seg; segment++) \
            {                                                                                            \
                const float *weights = at->seg[segment].weights + at->offset;                            \
                const int count = at->seg[segment].inner;                                                \
                inputs = at->seg[segment].inputs + tile * ROWS;                                          \
                for (element = 0; ROWS >= 4 && at->scattered && tile + 2 < at->count && element < ROWS;  \
                     element++)                                                                          \
                    FOLD__PREFETCH(inputs[2 * ROWS + element]);                                          \
                FOLD__ROWS_##ROWS(FOLD__X_ROW, VECTORS) for (element = 0; element < count;               \
                                                             element++, weights += width)                \
                {                                                                                        \
                    FOLD__STEP_##ROWS(VECTORS)                                                           \
                }                                                                                        \
            }                                                                                            \
            FOLD__ROWS_##ROWS(FOLD__TO_ROW, VECTORS)                                                     \
        }                                                                                                \
    }
#define FOLD__AT(ROWS, VECTORS) FOLD__ISA(tile_##ROWS##_by_##VECTORS)

/* ---- packing ---- */

FOLD__TARGET static void FOLD__ISA(pack_rows)(float *dst, size_t stride, const fold__layout *layout,
                                              const fold_rows *input, ptrdiff_t row, int rows, int columns)
{
    int panel, line, column;
    for (panel = 0; panel < layout->panels; panel++, dst += stride) {
        const int col = fold__layout_start(layout, panel) * FOLD__W,
                  width = fold__layout_start(layout, panel + 1) * FOLD__W - col, have = columns - col;
        float *to = dst;
        for (line = 0; line < rows; line++, to += layout->width) {
            const float *from = fold__at(input, row + line) + col;
            for (column = 0; column < width && column + FOLD__W <= have; column += FOLD__W)
                FOLD__VSTORE(to + column, FOLD__VLOAD(from + column));
            for (; column < width; column += FOLD__W)
                FOLD__VSTORE(to + column,
                             FOLD__VLOAD_M(from + column, FOLD__TAIL(have < column ? 0 : have - column)));
        }
    }
}

#if FOLD__SIMD_PASS == 256
FOLD__TARGET static void fold__transpose_8__avx2(float *dst, size_t ld, const float *const src[8], int cols)
{
    int column, row;
    for (column = 0; column + 8 <= cols; column += 8, dst += 8 * ld) {
#define FOLD__PAIR(row, at)                                                            \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src[row] + column + at)), \
                         _mm_loadu_ps(src[row + 4] + column + at), 1)
#define FOLD__FOUR(at)                                                                                  \
    {                                                                                                   \
        const __m256 pair0 = FOLD__PAIR(0, at), pair1 = FOLD__PAIR(1, at), pair2 = FOLD__PAIR(2, at),   \
                     pair3 = FOLD__PAIR(3, at);                                                         \
        const __m256 low0 = _mm256_unpacklo_ps(pair0, pair1), high0 = _mm256_unpackhi_ps(pair0, pair1), \
                     low1 = _mm256_unpacklo_ps(pair2, pair3), high1 = _mm256_unpackhi_ps(pair2, pair3); \
        FOLD__VSTORE(dst + at * ld, _mm256_shuffle_ps(low0, low1, 0x44));                               \
        FOLD__VSTORE(dst + (at + 1) * ld, _mm256_shuffle_ps(low0, low1, 0xee));                         \
        FOLD__VSTORE(dst + (at + 2) * ld, _mm256_shuffle_ps(high0, high1, 0x44));                       \
        FOLD__VSTORE(dst + (at + 3) * ld, _mm256_shuffle_ps(high0, high1, 0xee));                       \
    }
        FOLD__FOUR(0)
        FOLD__FOUR(4)
    }
    for (; column < cols; column++, dst += ld)
        for (row = 0; row < 8; row++)
            dst[row] = src[row][column];
}
#undef FOLD__PAIR
#undef FOLD__FOUR
#endif
#if FOLD__W <= 4
#define FOLD__TRANSPOSE_8 NULL
#else
#define FOLD__TRANSPOSE_8 fold__transpose_8__avx2
#endif

/* ---- tiles of a narrow product: ROWS rows by COLUMNS columns, each column of the pack one row ---- */

#define FOLD__NARROW_X(row, COLUMNS) const float *inputs##row = fold__at(&seg->input, first_row + row);
#define FOLD__NARROW_W(ROWS, column) const float *weights##column = weights + column * stride;
#define FOLD__LANES_ZERO(row, column) FOLD__V acc##row##column = FOLD__VZERO();
#define FOLD__LANES_ZERO_ROW(row, COLUMNS) FOLD__COLS_##COLUMNS(FOLD__LANES_ZERO, row)
#define FOLD__LANES_X(row, COLUMNS)                          \
    FOLD__V input##row = FOLD__VLOAD(inputs##row + element); \
    FOLD__KEEP(input##row)
#define FOLD__LANES_W(ROWS, column)                                      \
    {                                                                    \
        FOLD__V weight##column = FOLD__VLOAD(weights##column + element); \
        FOLD__KEEP(weight##column) FOLD__ROWS_##ROWS(FOLD__FMA, column)  \
    }
#define FOLD__LANES_X_M(row, COLUMNS) const FOLD__V input##row = FOLD__VLOAD_M(inputs##row + element, tail);
#define FOLD__LANES_W_M(ROWS, column)                                                  \
    {                                                                                  \
        const FOLD__V weight##column = FOLD__VLOAD_M(weights##column + element, tail); \
        FOLD__ROWS_##ROWS(FOLD__FMA, column)                                           \
    }
#define FOLD__LANES_PUT(row, column)    \
    FOLD__VSTORE(to, acc##row##column); \
    to += FOLD__LANES;
#define FOLD__LANES_PUT_ROW(row, COLUMNS) FOLD__COLS_##COLUMNS(FOLD__LANES_PUT, row)

/* One vector of the lanes after the other. Lanes without a last element of their own go on with zeros. */
#define FOLD__NARROW(ROWS, COLUMNS)                                                                        \
    FOLD__TARGET static void FOLD__ISA(narrow_##ROWS##_by_##COLUMNS)(                                      \
        const fold__seg *seg, ptrdiff_t first_row, const float *weights, size_t stride, float *lanes)      \
    {                                                                                                      \
        FOLD__NO_CONTRACT                                                                                  \
        const int whole = seg->inner - seg->inner % FOLD__LANES;                                           \
        int lane, element;                                                                                 \
        FOLD__ROWS_##ROWS(FOLD__NARROW_X, COLUMNS)                                                         \
            FOLD__COLS_##COLUMNS(FOLD__NARROW_W, ROWS) for (lane = 0; lane < FOLD__LANES; lane += FOLD__W) \
        {                                                                                                  \
            float *to = lanes + lane;                                                                      \
            FOLD__ROWS_##ROWS(FOLD__LANES_ZERO_ROW, COLUMNS) for (element = lane; element < whole;         \
                                                                  element += FOLD__LANES)                  \
            {                                                                                              \
                FOLD__ROWS_##ROWS(FOLD__LANES_X, COLUMNS) FOLD__COLS_##COLUMNS(FOLD__LANES_W, ROWS)        \
            }                                                                                              \
            if (whole < seg->inner) {                                                                      \
                const int left = seg->inner - element;                                                     \
                const FOLD__MASK tail = FOLD__TAIL(left < 0 ? 0 : left < FOLD__W ? left : FOLD__W);        \
                FOLD__ROWS_##ROWS(FOLD__LANES_X_M, COLUMNS) FOLD__COLS_##COLUMNS(FOLD__LANES_W_M, ROWS)    \
            }                                                                                              \
            FOLD__ROWS_##ROWS(FOLD__LANES_PUT_ROW, COLUMNS)                                                \
        }                                                                                                  \
    }
#define FOLD__NARROW_AT(ROWS, COLUMNS) FOLD__ISA(narrow_##ROWS##_by_##COLUMNS)

#if FOLD__SIMD_PASS == 256
/* Eight elements at a time: every step joins one half of two elements' lanes with the other, so the tree is
 * the fixed one. */
#define FOLD__EIGHT(JOIN, element) \
    JOIN(FOLD__VLOAD(from + (element)*FOLD__LANES), FOLD__VLOAD(from + (element)*FOLD__LANES + 8))
#define FOLD__FOUR(JOIN, element)                                   \
    JOIN(_mm256_permute2f128_ps(low##element, high##element, 0x20), \
         _mm256_permute2f128_ps(low##element, high##element, 0x31))
#define FOLD__JOIN_LANES(name, JOIN)                                                                \
    FOLD__TARGET static void fold__##name##__avx2(float *total, const float *lanes, int count)      \
    {                                                                                               \
        int at;                                                                                     \
        for (at = 0; at < count; at += 8) {                                                         \
            const float *from = lanes + at * FOLD__LANES;                                           \
            const __m256 low0 = FOLD__EIGHT(JOIN, 0), low1 = FOLD__EIGHT(JOIN, 1),                  \
                         low2 = FOLD__EIGHT(JOIN, 2), low3 = FOLD__EIGHT(JOIN, 3);                  \
            const __m256 high0 = FOLD__EIGHT(JOIN, 4), high1 = FOLD__EIGHT(JOIN, 5),                \
                         high2 = FOLD__EIGHT(JOIN, 6), high3 = FOLD__EIGHT(JOIN, 7);                \
            const __m256 four0 = FOLD__FOUR(JOIN, 0), four1 = FOLD__FOUR(JOIN, 1),                  \
                         four2 = FOLD__FOUR(JOIN, 2), four3 = FOLD__FOUR(JOIN, 3);                  \
            const __m256 two01 =                                                                    \
                JOIN(_mm256_shuffle_ps(four0, four1, 0x44), _mm256_shuffle_ps(four0, four1, 0xee)); \
            const __m256 two23 =                                                                    \
                JOIN(_mm256_shuffle_ps(four2, four3, 0x44), _mm256_shuffle_ps(four2, four3, 0xee)); \
            const __m256 one =                                                                      \
                JOIN(_mm256_shuffle_ps(two01, two23, 0x88), _mm256_shuffle_ps(two01, two23, 0xdd)); \
            FOLD__VSTORE(total + at, JOIN(FOLD__VLOAD(total + at), one));                           \
        }                                                                                           \
    }
FOLD__JOIN_LANES(add_lanes, _mm256_add_ps)
FOLD__JOIN_LANES(join_largest, _mm256_max_ps)
#undef FOLD__EIGHT
#undef FOLD__FOUR
#endif
#if FOLD__W <= 4
static void FOLD__ISA(add_lanes)(float *total, const float *lanes, int count)
{
    int element;
    for (element = 0; element < count; element++)
        total[element] =
            total[element] + FOLD__ISA(lanes_sum)(FOLD__ISA(lanes_load)(lanes + element * FOLD__LANES));
}
static void FOLD__ISA(join_largest)(float *largest, const float *lanes, int count)
{
    int element, lane;
    for (element = 0; element < count; element++, lanes += FOLD__LANES)
        for (lane = 0; lane < FOLD__LANES; lane++)
            largest[element] = lanes[lane] > largest[element] ? lanes[lane] : largest[element];
}
#define FOLD__ADD_LANES FOLD__ISA(add_lanes)
#define FOLD__JOIN_LARGEST FOLD__ISA(join_largest)
#else
#define FOLD__ADD_LANES fold__add_lanes__avx2
#define FOLD__JOIN_LARGEST fold__join_largest__avx2
#endif

/* ---- weight gradients without packing ---- */

#if FOLD__SIMD_PASS == 1
static void FOLD__ISA(grad)(int rows, const fold_rows *input, int first, int inner, const fold_rows *dy,
                            int from, int columns, float *dw, size_t ldw)
{
    int row, line;
    for (line = first; line < first + inner; line++, dw += ldw)
        for (row = 0; row < rows; row++)
            FOLD__ISA(map_axpy)
    (dw, fold__at(dy, row) + from, NULL, dw, fold__at(input, row)[line], (size_t)columns, 1, NULL);
}
#define FOLD__FEW_MANY 2, 2
#else
/* ROWS rows of dY, COLUMNS vectors of each, stay in registers while rows of dW pass. */
#define FOLD__GRAD_ROW(row, COLUMNS)                                    \
    const float *input##row = fold__at(input, first_row + row) + first, \
                *grads##row = fold__at(dy, first_row + row) + from;
#define FOLD__GRAD_DY(row, COLUMNS) FOLD__COLS_##COLUMNS(FOLD__GRAD_DY_AT, row)
#define FOLD__GRAD_DY_AT(row, column) \
    const FOLD__V grad##row##column = FOLD__VLOAD(grads##row + at + column * FOLD__W);
#define FOLD__GRAD_DY_M(row, COLUMNS) const FOLD__V grad##row##0 = FOLD__VLOAD_M(grads##row + at, tail);
#define FOLD__GRAD_LOAD(row, column) FOLD__V total##column = FOLD__VLOAD(to + column * FOLD__W);
#define FOLD__GRAD_FMA(row, COLUMNS)                        \
    {                                                       \
        const FOLD__V value = FOLD__VSET(input##row[line]); \
        FOLD__COLS_##COLUMNS(FOLD__GRAD_FMA_AT, row)        \
    }
#define FOLD__GRAD_FMA_AT(row, column) total##column = FOLD__VFMA(value, grad##row##column, total##column);
#define FOLD__GRAD_STORE(row, column) FOLD__VSTORE(to + column * FOLD__W, total##column);
#define FOLD__GRAD(ROWS, COLUMNS)                                                                          \
    FOLD__TARGET static void FOLD__ISA(grad_##ROWS)(const fold_rows *input, int first, int inner,          \
                                                    const fold_rows *dy, int from, int columns, float *dw, \
                                                    size_t ldw, ptrdiff_t first_row)                       \
    {                                                                                                      \
        FOLD__NO_CONTRACT                                                                                  \
        FOLD__ROWS_##ROWS(FOLD__GRAD_ROW, COLUMNS) float *to;                                              \
        int line, at = 0;                                                                                  \
        for (; columns - at >= COLUMNS * FOLD__W; at += COLUMNS * FOLD__W) {                               \
            FOLD__ROWS_##ROWS(FOLD__GRAD_DY, COLUMNS) to = dw + at;                                        \
            for (line = 0; line < inner; line++, to += ldw) {                                              \
                FOLD__COLS_##COLUMNS(FOLD__GRAD_LOAD, ROWS) FOLD__ROWS_##ROWS(FOLD__GRAD_FMA, COLUMNS)     \
                    FOLD__COLS_##COLUMNS(FOLD__GRAD_STORE, ROWS)                                           \
            }                                                                                              \
        }                                                                                                  \
        for (; at < columns; at += FOLD__W) {                                                              \
            const int left = columns - at < FOLD__W ? columns - at : FOLD__W;                              \
            const FOLD__MASK tail = FOLD__TAIL(left);                                                      \
            FOLD__ROWS_##ROWS(FOLD__GRAD_DY_M, 1) to = dw + at;                                            \
            for (line = 0; line < inner; line++, to += ldw) {                                              \
                FOLD__V total0 = FOLD__VLOAD_M(to, tail);                                                  \
                FOLD__ROWS_##ROWS(FOLD__GRAD_FMA, 1) FOLD__VSTORE_M(to, total0, tail, left);               \
            }                                                                                              \
        }                                                                                                  \
    }
#if FOLD__SIMD_PASS == 512
FOLD__GRAD(1, 8)
FOLD__GRAD(2, 8)
FOLD__GRAD(3, 4)
FOLD__GRAD(4, 4)
FOLD__GRAD(6, 4)
#else
FOLD__GRAD(1, 8)
FOLD__GRAD(2, 4)
FOLD__GRAD(3, 3)
FOLD__GRAD(4, 2)
FOLD__GRAD(6, 2)
#endif
static void FOLD__ISA(grad)(int rows, const fold_rows *input, int first, int inner, const fold_rows *dy,
                            int from, int columns, float *dw, size_t ldw)
{
    int row, height;
#if FOLD__SIMD_PASS == 512
    if (columns <= 8) {
        fold__grad__avx2(rows, input, first, inner, dy, from, columns, dw, ldw);
        return;
    }
#endif
    for (row = 0; row < rows; row += height) {
        height = fold__tile_height(6, rows - row);
        switch (height) {
        case 1: FOLD__ISA(grad_1)(input, first, inner, dy, from, columns, dw, ldw, row); break;
        case 2: FOLD__ISA(grad_2)(input, first, inner, dy, from, columns, dw, ldw, row); break;
        case 3: FOLD__ISA(grad_3)(input, first, inner, dy, from, columns, dw, ldw, row); break;
        case 4: FOLD__ISA(grad_4)(input, first, inner, dy, from, columns, dw, ldw, row); break;
        default: FOLD__ISA(grad_6)(input, first, inner, dy, from, columns, dw, ldw, row); break;
        }
    }
}
#define FOLD__FEW_MANY 6, INT_MAX
#endif

/* ---- attention: weights from scores ---- */

/* exp(x), but 0 below -87: denormals would slow down what follows. One scaling is enough then. */
FOLD__TARGET FOLD__INLINE FOLD__V FOLD__ISA(exp_share)(FOLD__V x)
{
    FOLD__NO_CONTRACT
    const FOLD__V one = FOLD__VSET(1.0f), high = FOLD__VSET(88.0f);
    FOLD__I number;
    FOLD__V r = FOLD__ISA(exp_reduce)(FOLD__VMIN(high, x), &number);
    FOLD__V p = FOLD__VFMA(FOLD__ISA(exp_tail)(r), r, one);
    p = FOLD__VFMA(p, r, one);
    p = FOLD__VMUL(p, FOLD__IFLOATS(FOLD__ISHL(FOLD__IADD(number, FOLD__ISET(127u)), 23)));
    return FOLD__VSEL(FOLD__VLT(x, FOLD__VSET(-87.0f)), FOLD__VZERO(), p);
}

/* What is done with FOLD__LANES scores of a row, in `here`, `score` being one vector of them and `lane` the
   lanes' vector. */
#define FOLD__WEIGH_TURN(name, body)                                                                         \
    FOLD__TARGET FOLD__INLINE FOLD__L FOLD__ISA(turn_##name)(float *scores, float *slopes, FOLD__V scale,    \
                                                             FOLD__V lowered, FOLD__V factor, FOLD__L lanes) \
    {                                                                                                        \
        FOLD__NO_CONTRACT(void) slopes;                                                                      \
        (void)scale;                                                                                         \
        (void)lowered;                                                                                       \
        (void)factor;                                                                                        \
        FOLD__PARTS(body)                                                                                    \
        return lanes;                                                                                        \
    }
#define FOLD__SCORE(index) FOLD__VLOAD(scores + index * FOLD__W)
#define FOLD__SLOPE(index) FOLD__VLOAD(slopes + index * FOLD__W)
#define FOLD__SHARE(index) FOLD__ISA(exp_share)(FOLD__VFMA(FOLD__SCORE(index), scale, lowered))
#define FOLD__TURN_LARGEST(index)                                 \
    {                                                             \
        const FOLD__V score = FOLD__SCORE(index);                 \
        lanes.part##index = FOLD__VMAX(score, lanes.part##index); \
    }
#define FOLD__TURN_EXPS(index)                                    \
    {                                                             \
        const FOLD__V share = FOLD__SHARE(index);                 \
        FOLD__VSTORE(scores + index * FOLD__W, share);            \
        lanes.part##index = FOLD__VADD(lanes.part##index, share); \
    }
#define FOLD__TURN_WEIGHTS(index)                                                     \
    {                                                                                 \
        const FOLD__V share = FOLD__VMUL(FOLD__SHARE(index), factor);                 \
        FOLD__VSTORE(scores + index * FOLD__W, share);                                \
        lanes.part##index = FOLD__VFMA(share, FOLD__SLOPE(index), lanes.part##index); \
    }
#define FOLD__TURN_SLOPES(index)           \
    FOLD__VSTORE(slopes + index * FOLD__W, \
                 FOLD__VMUL(FOLD__VMUL(FOLD__SCORE(index), FOLD__VSUB(FOLD__SLOPE(index), factor)), scale));
FOLD__WEIGH_TURN(largest, FOLD__TURN_LARGEST)
FOLD__WEIGH_TURN(exps, FOLD__TURN_EXPS)
FOLD__WEIGH_TURN(weights, FOLD__TURN_WEIGHTS)
FOLD__WEIGH_TURN(slopes, FOLD__TURN_SLOPES)

/* Rows go side by side, so that four vectors at least are under way. */
#define FOLD__WEIGH_ROW(row, start)                                                                    \
    float *scores##row = with->scores + (size_t)(line + row) * with->stride,                           \
          *slopes##row = with->slopes + (size_t)(line + row) * with->stride;                           \
    const FOLD__V lowered##row = FOLD__VNEG(FOLD__VMUL(FOLD__VSET(with->largest[line + row]), scale)), \
                  factor##row = FOLD__VSET(with->factor[line + row]);                                  \
    FOLD__L lanes##row = FOLD__ISA(lanes_set)(start);
#define FOLD__WEIGH_ROW_TURN(row, name)                                                          \
    lanes##row = FOLD__ISA(turn_##name)(scores##row + at, slopes##row + at, scale, lowered##row, \
                                        factor##row, lanes##row);
#define FOLD__WEIGH_ROW_END(row, name) \
    FOLD__ISA(lanes_store)(with->lanes + (line + row) * FOLD__LANES, &lanes##row);
#define FOLD__WEIGH(ROWS, name, start)                                                                   \
    FOLD__TARGET static void FOLD__ISA(weigh_##name)(const fold__weighing *with)                         \
    {                                                                                                    \
        FOLD__NO_CONTRACT                                                                                \
        const FOLD__V scale = FOLD__VSET(with->scale);                                                   \
        int line, at;                                                                                    \
        for (line = 0; line < with->rows; line += ROWS) {                                                \
            FOLD__ROWS_##ROWS(FOLD__WEIGH_ROW, start) for (at = 0; at < with->count; at += FOLD__LANES){ \
                FOLD__ROWS_##ROWS(FOLD__WEIGH_ROW_TURN, name)                                            \
            } FOLD__ROWS_##ROWS(FOLD__WEIGH_ROW_END, name)                                               \
        }                                                                                                \
    }
#if FOLD__SIMD_PASS == 512
#define FOLD__WEIGH_ALL(name, start) FOLD__WEIGH(4, name, start)
#elif FOLD__SIMD_PASS == 256
#define FOLD__WEIGH_ALL(name, start) FOLD__WEIGH(2, name, start)
#else
#define FOLD__WEIGH_ALL(name, start) FOLD__WEIGH(1, name, start)
#endif
FOLD__WEIGH_ALL(largest, -INFINITY)
FOLD__WEIGH_ALL(exps, 0.0f)
FOLD__WEIGH_ALL(weights, 0.0f)
FOLD__WEIGH_ALL(slopes, 0.0f)

/* ---- attention: tiles of chains ---- */

/* The last vector of a row may be a part of one, of the right side too. */
#if FOLD__W > 4
#define FOLD__STRIDED_PART(column) (column + 1 == vectors)
#else
#define FOLD__STRIDED_PART(column) (column + 1 == vectors && last < FOLD__W)
#endif
#define FOLD__STRIDED_LOAD(from, column)                                         \
    (FOLD__STRIDED_PART(column) ? FOLD__VLOAD_M((from) + column * FOLD__W, tail) \
                                : FOLD__VLOAD((from) + column * FOLD__W))
#define FOLD__STRIDED_LEFT(row, VECTORS)                      \
    const float *inputs##row = at->left + row * at->left_row; \
    float *out##row = at->out + row * at->out_row;
#define FOLD__STRIDED_FROM(row, column) \
    FOLD__V acc##row##column = at->started ? FOLD__STRIDED_LOAD(out##row, column) : FOLD__VZERO();
#define FOLD__STRIDED_FROM_ROW(row, VECTORS) FOLD__COLS_##VECTORS(FOLD__STRIDED_FROM, row)
#define FOLD__STRIDED_RIGHT(row, column)                        \
    FOLD__V weight##column = FOLD__STRIDED_LOAD(right, column); \
    FOLD__KEEP(weight##column)
#define FOLD__STRIDED_CASE(row, VECTORS) \
    case row:                            \
        FOLD__ROW_OF(row, VECTORS) FOLD__FALL;
#define FOLD__STRIDED_TIMES(row, column) acc##row##column = FOLD__VMUL(acc##row##column, factor##row);
#define FOLD__STRIDED_TIMES_ROW(row, VECTORS)                    \
    {                                                            \
        const FOLD__V factor##row = FOLD__VSET(at->factor[row]); \
        FOLD__COLS_##VECTORS(FOLD__STRIDED_TIMES, row)           \
    }
#define FOLD__STRIDED_TO(row, column)                                              \
    if (FOLD__STRIDED_PART(column))                                                \
        FOLD__VSTORE_M(out##row + column * FOLD__W, acc##row##column, tail, last); \
    else                                                                           \
        FOLD__VSTORE(out##row + column * FOLD__W, acc##row##column);
#define FOLD__STRIDED_TO_ROW(row, VECTORS) FOLD__COLS_##VECTORS(FOLD__STRIDED_TO, row)

/* The steps of a ramp, of rows from `first` on, come before or after those of all rows. */
#define FOLD__STRIDED(ROWS, VECTORS)                                                                     \
    FOLD__TARGET static void FOLD__ISA(strided_##ROWS##_by_##VECTORS)(const fold__strided *at)           \
    {                                                                                                    \
        FOLD__NO_CONTRACT                                                                                \
        enum { vectors = VECTORS };                                                                      \
        const int last = at->last;                                                                       \
        const FOLD__MASK tail = FOLD__TAIL(last);                                                        \
        const ptrdiff_t left_step = at->left_step, right_step = at->right_step;                          \
        const float *right = at->right;                                                                  \
        int steps = at->ramp ? at->steps - (ROWS - 1) : at->steps, first = ROWS - 1,                     \
            ramp = at->ramp < 0 ? ROWS - 1 : 0;                                                          \
        ptrdiff_t element = 0;                                                                           \
        FOLD__ROWS_##ROWS(FOLD__STRIDED_LEFT, VECTORS)                                                   \
            FOLD__ROWS_##ROWS(FOLD__STRIDED_FROM_ROW, VECTORS)(void) tail;                               \
        for (;;) {                                                                                       \
            for (; ramp > 0; ramp--, first += at->ramp, element += left_step, right += right_step) {     \
                FOLD__COLS_##VECTORS(FOLD__STRIDED_RIGHT, ROWS) switch (first)                           \
                {                                                                                        \
                    FOLD__ROWS_##ROWS(FOLD__STRIDED_CASE, VECTORS) default : break;                      \
                }                                                                                        \
            }                                                                                            \
            for (; steps > 0; steps--, element += left_step, right += right_step) {                      \
                FOLD__COLS_##VECTORS(FOLD__STRIDED_RIGHT, ROWS) FOLD__ROWS_##ROWS(FOLD__ROW_OF, VECTORS) \
            }                                                                                            \
            if (at->ramp <= 0 || first != ROWS - 1 || ROWS == 1)                                         \
                break;                                                                                   \
            first = 1;                                                                                   \
            ramp = ROWS - 1;                                                                             \
        }                                                                                                \
        if (at->factor) {                                                                                \
            FOLD__ROWS_##ROWS(FOLD__STRIDED_TIMES_ROW, VECTORS)                                          \
        }                                                                                                \
        FOLD__ROWS_##ROWS(FOLD__STRIDED_TO_ROW, VECTORS)                                                 \
    }
#define FOLD__STRIDED_AT(ROWS, VECTORS) FOLD__ISA(strided_##ROWS##_by_##VECTORS)

#if FOLD__SIMD_PASS == 512
FOLD__STRIDED(1, 1)
FOLD__STRIDED(1, 2)
FOLD__STRIDED(1, 4)
FOLD__STRIDED(2, 1)
FOLD__STRIDED(2, 2)
FOLD__STRIDED(2, 4)
FOLD__STRIDED(3, 1)
FOLD__STRIDED(3, 2)
FOLD__STRIDED(3, 4)
FOLD__STRIDED(4, 1)
FOLD__STRIDED(4, 2)
FOLD__STRIDED(4, 4)
FOLD__STRIDED(6, 1)
FOLD__STRIDED(6, 2)
FOLD__STRIDED(6, 4)
#define FOLD__STRIDED_ROW(ROWS)                                                                            \
    {                                                                                                      \
        FOLD__STRIDED_AT(ROWS, 1), FOLD__STRIDED_AT(ROWS, 2), NULL, FOLD__STRIDED_AT(ROWS, 4), NULL, NULL, \
            NULL, NULL                                                                                     \
    }
#else
FOLD__STRIDED(1, 1)
FOLD__STRIDED(1, 2)
FOLD__STRIDED(2, 1)
FOLD__STRIDED(2, 2)
FOLD__STRIDED(3, 1)
FOLD__STRIDED(3, 2)
FOLD__STRIDED(4, 1)
FOLD__STRIDED(4, 2)
FOLD__STRIDED(6, 1)
FOLD__STRIDED(6, 2)
#define FOLD__STRIDED_ROW(ROWS)                                                                  \
    {                                                                                            \
        FOLD__STRIDED_AT(ROWS, 1), FOLD__STRIDED_AT(ROWS, 2), NULL, NULL, NULL, NULL, NULL, NULL \
    }
#endif
#define FOLD__STRIDED_LIST                                                                  \
    FOLD__STRIDED_ROW(1), FOLD__STRIDED_ROW(2), FOLD__STRIDED_ROW(3), FOLD__STRIDED_ROW(4), \
        { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }, FOLD__STRIDED_ROW(6)
#define FOLD__WEIGHER                                                                                       \
    {                                                                                                       \
        FOLD__ISA(weigh_largest), FOLD__ISA(weigh_exps), FOLD__ISA(weigh_weights), FOLD__ISA(weigh_slopes), \
            FOLD__JOIN_LARGEST                                                                              \
    }

/* ---- which tiles there are ---- */

#if FOLD__SIMD_PASS == 512
FOLD__TILE(1, 1)
FOLD__TILE(1, 2)
FOLD__TILE(1, 3)
FOLD__TILE(1, 4)
FOLD__TILE(1, 8)
FOLD__TILE(2, 1)
FOLD__TILE(2, 2)
FOLD__TILE(2, 3)
FOLD__TILE(2, 4)
FOLD__TILE(2, 8)
FOLD__TILE(3, 1)
FOLD__TILE(3, 2) FOLD__TILE(3, 3) FOLD__TILE(3, 4) FOLD__TILE(4, 1) FOLD__TILE(4, 2) FOLD__TILE(4, 3)
    FOLD__TILE(4, 4) FOLD__TILE(6, 1) FOLD__TILE(6, 2) FOLD__TILE(6, 3) FOLD__TILE(6, 4) FOLD__NARROW(1, 1)
        FOLD__NARROW(1, 2) FOLD__NARROW(1, 3) FOLD__NARROW(1, 4) FOLD__NARROW(1, 5) FOLD__NARROW(3, 1)
            FOLD__NARROW(3, 2) FOLD__NARROW(3, 3) FOLD__NARROW(3, 4) FOLD__NARROW(3, 5)
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
FOLD__TILE(1, 2)
FOLD__TILE(1, 4)
FOLD__TILE(1, 8)
FOLD__TILE(2, 1)
FOLD__TILE(2, 2)
FOLD__TILE(2, 4)
FOLD__TILE(3, 1)
FOLD__TILE(3, 2)
FOLD__TILE(3, 4)
FOLD__TILE(4, 1)
FOLD__TILE(4, 2) FOLD__TILE(6, 1) FOLD__TILE(6, 2) FOLD__NARROW(1, 1) FOLD__NARROW(1, 2) FOLD__NARROW(1, 3)
    FOLD__NARROW(1, 4) FOLD__NARROW(1, 5) FOLD__NARROW(2, 1) FOLD__NARROW(2, 2) FOLD__NARROW(2, 3)
        FOLD__NARROW(2, 4) FOLD__NARROW(2, 5) FOLD__NARROW(4, 1) FOLD__NARROW(4, 2)
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
FOLD__TILE(1, 8)
FOLD__TILE(2, 4)
FOLD__TILE(3, 4)
FOLD__TILE(4, 4)
FOLD__TILE(6, 4)
FOLD__NARROW(1, 1)
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
FOLD__TILE(1, 4)
FOLD__TILE(1, 8)
FOLD__TILE(2, 2)
FOLD__TILE(4, 2)
FOLD__NARROW(1, 1)
FOLD__NARROW(1, 2)
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

                static const fold__tiles FOLD__ISA(tiles) = { FOLD__W,
                                                              FOLD__VPP,
                                                              FOLD__LIST,
                                                              FOLD__ADD_LANES,
                                                              FOLD__FEW_MANY,
                                                              FOLD__ISA(grad),
                                                              { FOLD__ISA(pack_rows), FOLD__TRANSPOSE_8 },
                                                              FOLD__WEIGHER,
                                                              { FOLD__STRIDED_LIST } };

/* ---- the table ---- */

static void FOLD__ISA(pack)(float *dst, const float *weights, int inner, int columns, int transposed,
                            int first, int count)
{
    fold__pack_any(&FOLD__ISA(tiles).mover, FOLD__VPP * FOLD__W, FOLD__W, dst, weights, inner, columns,
                   transposed, first, count);
}

static void FOLD__ISA(product)(const fold__product *product, float *scratch)
{
    fold__product_any(&FOLD__ISA(tiles), product, scratch);
}

static void FOLD__ISA(weight_grad)(int rows, const fold_rows *input, int inner, const fold_rows *dy,
                                   int columns, float *dw, size_t ldw, float *scratch)
{
    fold__weight_grad_any(&FOLD__ISA(tiles), rows, input, inner, dy, columns, dw, ldw, scratch);
}

static void FOLD__ISA(attention_forward)(const fold__attention_call *call, int first, int last,
                                        float *scratch)
{
    for (; first < last; first++)
        fold__attention_forward(&FOLD__ISA(tiles), call, first, scratch);
}

static void FOLD__ISA(attention_backward)(const fold__attention_call *call, int first, int last,
                                         float *scratch)
{
    for (; first < last; first++)
        fold__attention_backward(&FOLD__ISA(tiles), call, first, scratch);
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
                                                { FOLD__RULES(FOLD__RULE_ENTRY) },
                                                fold__attention_floats,
                                                FOLD__ISA(attention_forward),
                                                FOLD__ISA(attention_backward) };

#ifdef FOLD_USE_CBLAS
static void FOLD__ISA(pack_cblas)(float *dst, const float *weights, int inner, int columns, int transposed,
                                  int first, int count)
{
    fold__pack_any(&FOLD__ISA(tiles).mover, 0, 1, dst, weights, inner, columns, transposed, first, count);
}

static void FOLD__ISA(product_cblas)(const fold__product *product, float *scratch)
{
    if (product->rows < 1 || product->columns < 1)
        return;
    if (fold__pack_columns_of(product) < FOLD__LANES)
        FOLD__ISA(product)(product, scratch);
    else
        fold__product_sgemm(product, scratch);
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
                                                { FOLD__RULES(FOLD__RULE_ENTRY) },
                                                fold__attention_floats,
                                                FOLD__ISA(attention_forward),
                                                FOLD__ISA(attention_backward) };
#endif

/* What differs from pass to pass; the other macros of this part are the same in every one. */
#undef FOLD__ISA
#undef FOLD__ISA_NAME
#undef FOLD__TARGET
#undef FOLD__W
#undef FOLD__V
#undef FOLD__M
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
#undef FOLD__A
#undef FOLD__B
#undef FOLD__C
#undef FOLD__S
#undef FOLD__MAP_PAIRS
#undef FOLD__MAP_DEFINE
#undef FOLD__VPP
#undef FOLD__KEEP
#undef FOLD__ADD_LANES
#undef FOLD__FEW_MANY
#undef FOLD__LIST
#undef FOLD__LIGHT
#undef FOLD__LIGHT_ENTRY
#undef FOLD__TRANSPOSE_8
#undef FOLD__STRIDED_PART
#undef FOLD__STRIDED_ROW
#undef FOLD__WEIGH_ALL
#undef FOLD__STRIDED_LIST
#undef FOLD__WEIGHER
#undef FOLD__JOIN_LARGEST

#endif /* FOLD__SIMD_PASS */

#if defined(FOLD_IMPLEMENTATION) && !defined(FOLD__SIMD_PASS) && !defined(FOLD__IMPLEMENTED)
#define FOLD__IMPLEMENTED

/* ==== room: op table ========================================================================
   Owns: every built-in op: its shapes, forward, backward and what backward reads. Other rooms ask the table's
   flags; those that treat one op apart name it. Calls: kernels, shapes. Must not know nodes, plans or
   memory: an op sees rows. */

/* What only built-in ops see. A linear op may be run in two parts, leading segments first (a cell's
   prologue); continuing one starts from the output's own rows. */
typedef struct fold__engine {
    const fold__kernels *kernels;
    const struct fold__param_data *param[2]; /* linear: W and b (NULL when absent) */
    const float *packs;                      /* of the model */
    int first_segment, end_segment;          /* linear: the segments to run now */
} fold__engine;

/* The call of an op, complete but for its rows. Every call is part of one: built-in ops find the engine
   beside it. */
typedef struct fold__prepared {
    fold_op_call call;
    fold__engine engine;
} fold__prepared;

static const fold__engine *fold__engine_of(const fold_op_call *call)
{
    return &((const fold__prepared *)(const void *)call)->engine;
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
    int grad_clear;       /* the gradient is logically zero: the first total is written, not added */
    int grad_dense;       /* lookup table with a dense gradient (tied): all rows are touched */
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
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static int32_t fold__float_attr(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static float fold__data_float(uint64_t data) { return fold__attr_float((int32_t)(uint32_t)data); }

#define FOLD__MAP(call, name) (fold__engine_of(call)->kernels->map[FOLD__MAP_##name])

/* -- element-wise ---------------------------------------------------------------------------- */

/* One row of a map whose inputs may be smaller than its n outputs: of size 1, or a period of n. */
static void fold__map_broadcast(fold__map_fn map, float *out, int count, const float *const in[3],
                                const int size[3], float scalar)
{
    float filled[3][64];
    int step = count, any_scalar = 0;
    for (int input = 0; input < 3; input++) {
        if (!in[input] || size[input] == count)
            continue;
        if (size[input] > 1) {
            step = size[input];
            continue;
        }
        any_scalar = 1;
        for (int copy = 0; copy < 64; copy++)
            filled[input][copy] = in[input][0];
    }
    for (int at = 0; at < count;) {
        int end = step - at % step, length = any_scalar && end > 64 ? 64 : end;
        const float *from[3];
        for (int input = 0; input < 3; input++)
            from[input] = !in[input]             ? NULL
                          : size[input] == count ? in[input] + at
                          : size[input] == 1     ? filled[input]
                                                 : in[input] + at % size[input];
        map(out + at, from[0], from[1], from[2], scalar, (size_t)length, 1, NULL);
        at += length;
    }
}

/* y[r] = map(x0[r], x1[r], x2[r]) over all rows; rows of equal size are one call. */
static void fold__map_rows(const fold_op_call *call, fold__map_fn map, const fold_rows *output, int count,
                           const fold_rows *const in[3], const int size[3], float scalar)
{
    const fold_rows *first = in[0] ? in[0] : output, *second = in[1] ? in[1] : output,
                    *third = in[2] ? in[2] : output; /* what the map does not use must only be there */
    const int same =
        (!in[0] || size[0] == count) && (!in[1] || size[1] == count) && (!in[2] || size[2] == count);
    for (int row = 0; !same && row < call->rows; row++) {
        const float *const from[3] = { in[0] ? fold_row(first, row) : NULL,
                                       in[1] ? fold_row(second, row) : NULL,
                                       in[2] ? fold_row(third, row) : NULL };
        fold__map_broadcast(map, fold_row(output, row), count, from, size, scalar);
    }
    if (!same || !call->rows)
        return;
    const int spaced = !output->rows && !first->rows && !second->rows && !third->rows;
    if (call->rows == 1 || (spaced && output->stride == count && first->stride == count &&
                            second->stride == count && third->stride == count)) {
        map(fold_row(output, 0), fold_row(first, 0), fold_row(second, 0), fold_row(third, 0), scalar,
            (size_t)call->rows * (size_t)count, 1, NULL);
        return;
    }
    const fold_rows all[4] = { *output, *first, *second, *third };
    map(fold_row(output, 0), fold_row(first, 0), fold_row(second, 0), fold_row(third, 0), scalar,
        (size_t)count, (size_t)call->rows, all);
}

static int fold__in_size(const fold_op_call *call, int input)
{
    return fold__shape_size(&call->in_shape[input]);
}
static int fold__out_size(const fold_op_call *call) { return fold__shape_size(&call->out_shape[0]); }

/* An element-wise op of one or two inputs as data: its map, and per input the map of its gradient with that
   map's operands, written as letters: g output gradient, a b inputs, y output. */
typedef struct fold__elementwise {
    int map, derivative[2];
    const char *from[2];
} fold__elementwise;

static const fold_rows *fold__named_rows(const fold_op_call *call, char name, int count, const int in_size[2],
                                         int *size)
{
    *size = count;
    if (name == 'g')
        return &call->dout[0];
    if (name == 'y')
        return &call->out[0];
    *size = in_size[name - 'a'];
    return &call->in[name - 'a'];
}

static void fold__elementwise_forward(const fold_op_call *call, const fold__elementwise *maps, float scalar)
{
    const int two = call->n_in > 1;
    const fold_rows *const in[3] = { &call->in[0], two ? &call->in[1] : NULL, NULL };
    const int size[3] = { fold__in_size(call, 0), two ? fold__in_size(call, 1) : 0, 0 };
    fold__map_rows(call, fold__engine_of(call)->kernels->map[maps->map], &call->out[0], fold__out_size(call),
                   in, size, scalar);
}

/* Sums of many values. Additions one after the other lose more the more there are, so each takes at most
   FOLD__CHAIN values: longer sums are made of blocks, joined by pairs. The order depends on the number of
   values alone. Values that lie side by side go by sixteen lanes, each a chain. */
enum { FOLD__CHAIN = 32, FOLD__LANES_CHAIN = FOLD__LANES * FOLD__CHAIN, FOLD__SUM_WIDTH = 128 };

/* How many of n > block values the left half of a sum takes: a power of two of blocks. */
static size_t fold__left_half(size_t count, size_t block)
{
    while (block < count - block)
        block *= 2;
    return block;
}
static float fold__sum(const fold__kernels *kernels, const float *values, size_t count)
{
    if (count <= FOLD__LANES_CHAIN)
        return kernels->sum(values, count);
    const size_t left = fold__left_half(count, FOLD__LANES_CHAIN);
    return fold__sum(kernels, values, left) + fold__sum(kernels, values + left, count - left);
}

/* y = the sum of n rows from `first` on, of `size` of their floats from `at` on. */
static void fold__sum_chain(const fold__kernels *kernels, float *total, size_t size, const fold_rows *input,
                            size_t at, int first, int count)
{
    kernels->map[FOLD__MAP_fill](total, NULL, NULL, NULL, 0, size, 1, NULL);
    for (int row = first; row < first + count; row++)
        kernels->map[FOLD__MAP_add](total, total, fold_row(input, row) + at, NULL, 0, size, 1, NULL);
}
static void fold__sum_pairs(const fold__kernels *kernels, float *total, size_t size, const fold_rows *input,
                            size_t at, int first, int count)
{
    float right[FOLD__SUM_WIDTH];
    if (count <= FOLD__CHAIN) {
        fold__sum_chain(kernels, total, size, input, at, first, count);
        return;
    }
    const int left = (int)fold__left_half((size_t)count, FOLD__CHAIN);
    fold__sum_pairs(kernels, total, size, input, at, first, left);
    fold__sum_pairs(kernels, right, size, input, at, first + left, count - left);
    kernels->map[FOLD__MAP_add](total, total, right, NULL, 0, size, 1, NULL);
}
static void fold__sum_rows(const fold__kernels *kernels, float *total, size_t size, const fold_rows *input,
                           int first, int count)
{
    if (count <= FOLD__CHAIN) {
        fold__sum_chain(kernels, total, size, input, 0, first, count);
        return;
    }
    for (size_t at = 0, width = FOLD__SUM_WIDTH; at < size; at += width)
        fold__sum_pairs(kernels, total + at, fold__min_size(width, size - at), input, at, first, count);
}

/* The gradient of a repeated operand: its full-size gradient summed over the repetitions. */
static void fold__sum_repeats(const fold_op_call *call, float *din, int size, float *full, int count)
{
    const fold_rows repeats = { full, size, NULL };
    if (size == 1)
        din[0] = fold__sum(fold__engine_of(call)->kernels, full, (size_t)count);
    else
        fold__sum_rows(fold__engine_of(call)->kernels, din, (size_t)size, &repeats, 0, count / size);
}

static void fold__elementwise_backward(const fold_op_call *call, const fold__elementwise *maps, float scalar)
{
    const int count = fold__out_size(call),
              in_size[2] = { fold__in_size(call, 0), call->n_in > 1 ? fold__in_size(call, 1) : 0 };
    for (int input = 0; input < call->n_in; input++) {
        if (fold__absent(&call->din[input]))
            continue;
        const fold_rows *operands[3] = { NULL, NULL, NULL };
        int size[3] = { 0, 0, 0 }, own = in_size[input];
        fold__map_fn map = fold__engine_of(call)->kernels->map[maps->derivative[input]];
        for (int operand = 0; maps->from[input][operand]; operand++)
            operands[operand] =
                fold__named_rows(call, maps->from[input][operand], count, in_size, &size[operand]);
        if (own == count) {
            fold__map_rows(call, map, &call->din[input], count, operands, size, scalar);
            continue;
        }
        for (int row = 0; row < call->rows; row++) {
            const float *from[3];
            for (int operand = 0; operand < 3; operand++)
                from[operand] = operands[operand] ? fold_row(operands[operand], row) : NULL;
            fold__map_broadcast(map, call->scratch, count, from, size, scalar);
            fold__sum_repeats(call, fold_row(&call->din[input], row), own, call->scratch, count);
        }
    }
}

/* name, map, gradient maps and their operands */
#define FOLD__ELEMENTWISE(X)                             \
    X(add, add, copy, "g", copy, "g")                    \
    X(sub, sub, copy, "g", neg, "g")                     \
    X(mul, mul, mul, "gb", mul, "ga")                    \
    X(div, div, div, "gb", d_div_b, "gyb")               \
    X(min, min, d_min_a, "gab", d_min_b, "gab")          \
    X(max, max, d_max_a, "gab", d_max_b, "gab")          \
    X(neg, neg, neg, "g", copy, "")                      \
    X(exp, exp, d_exp, "gy", copy, "")                   \
    X(log, log, d_log, "ga", copy, "")                   \
    X(sqrt, sqrt, d_sqrt, "gy", copy, "")                \
    X(square, square, d_square, "ga", copy, "")          \
    X(abs, abs, d_abs, "ga", copy, "")                   \
    X(sigmoid, sigmoid, d_sigmoid, "gy", copy, "")       \
    X(tanh, tanh, d_tanh, "gy", copy, "")                \
    X(relu, relu, d_relu, "gy", copy, "")                \
    X(leaky, leaky, d_leaky, "ga", copy, "")             \
    X(elu, elu, d_elu, "ga", copy, "")                   \
    X(gelu, gelu, d_gelu, "ga", copy, "")                \
    X(gelu_erf, gelu_erf, d_gelu_erf, "ga", copy, "")    \
    X(silu, silu, d_silu, "ga", copy, "")                \
    X(softplus, softplus, d_softplus, "ga", copy, "")    \
    X(sin, sin, d_sin, "ga", copy, "")                   \
    X(cos, cos, d_cos, "ga", copy, "")                   \
    X(pow, pow, d_pow, "ga", copy, "")                   \
    X(floor, floor, copy, "", copy, "")                  \
    X(at_least, at_least, d_at_least, "ga", copy, "")    \
    X(at_most, at_most, d_at_most, "ga", copy, "")       \
    X(copy, copy, copy, "g", copy, "")                   \
    X(stop, copy, copy, "", copy, "")
/* The scalar of the map and of its gradient's is the op's attribute, if it has one. */
#define FOLD__DEFINE(name, map, da, from_a, db, from_b)                                            \
    static const fold__elementwise fold__e_##name = { FOLD__MAP_##map,                             \
                                                      { FOLD__MAP_##da, FOLD__MAP_##db },          \
                                                      { from_a, from_b } };                        \
    static void fold__##name##_forward(const fold_op_call *call)                                   \
    {                                                                                              \
        fold__elementwise_forward(call, &fold__e_##name, fold__attr_float(call->attr[0]));         \
    }                                                                                              \
    static void fold__##name##_backward(const fold_op_call *call)                                  \
    {                                                                                              \
        fold__elementwise_backward(call, &fold__e_##name, fold__attr_float(call->attr[0]));        \
    }
FOLD__ELEMENTWISE(FOLD__DEFINE)
#undef FOLD__DEFINE

/* scale and shift: the scalar differs from row to row */
static void fold__scalar_rows(const fold_op_call *call, fold__map_fn map, const fold_rows *output,
                              const fold_rows *input)
{
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++)
        map(fold_row(output, row), fold_row(input, row), NULL, NULL,
            fold__data_float(call->data[row * call->data_step]), count, 1, NULL);
}
static void fold__scale_forward(const fold_op_call *call)
{
    fold__scalar_rows(call, FOLD__MAP(call, scale), &call->out[0], &call->in[0]);
}
static void fold__scale_backward(const fold_op_call *call)
{
    fold__scalar_rows(call, FOLD__MAP(call, scale), &call->din[0], &call->dout[0]);
}
static void fold__shift_forward(const fold_op_call *call)
{
    fold__scalar_rows(call, FOLD__MAP(call, shift), &call->out[0], &call->in[0]);
}
static void fold__shift_backward(const fold_op_call *call)
{
    fold__elementwise_backward(call, &fold__e_copy, 0);
}

static const char *fold__infer_same(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    (void)attr;
    out[0] = in[0];
    return NULL;
}

/* Whether `part` repeats to `whole`: it is [1] or equals the last axes. */
static int fold__repeats_to(const fold_shape *part, const fold_shape *whole)
{
    if (part->rank == 1 && part->dim[0] == 1)
        return 1;
    if (part->rank > whole->rank)
        return 0;
    for (int axis = 1; axis <= part->rank; axis++)
        if (part->dim[part->rank - axis] != whole->dim[whole->rank - axis])
            return 0;
    return 1;
}
static const char *fold__infer_broadcast(const fold_shape *in, int count, const int32_t *attr,
                                         fold_shape *out)
{
    (void)count;
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

static void fold__select_forward(const fold_op_call *call)
{
    const int count = fold__out_size(call);
    for (int row = 0; row < call->rows; row++) {
        const float *condition = fold_row(&call->in[0], row), *left = fold_row(&call->in[1], row),
                    *right = fold_row(&call->in[2], row);
        float *out = fold_row(&call->out[0], row);
        for (int element = 0; element < count; element++)
            out[element] = condition[element] > 0 ? left[element] : right[element];
    }
}
static void fold__select_backward(const fold_op_call *call)
{
    const int count = fold__out_size(call);
    for (int side = 0; side < 3; side++) {
        if (fold__absent(&call->din[side]))
            continue;
        for (int row = 0; row < call->rows; row++) {
            const float *condition = fold_row(&call->in[0], row), *dout = fold_row(&call->dout[0], row);
            float *din = fold_row(&call->din[side], row);
            for (int element = 0; element < count; element++)
                din[element] = side && (condition[element] > 0) == (side == 1) ? dout[element] : 0;
        }
    }
}
static const char *fold__infer_equal(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)attr;
    for (int input = 1; input < count; input++)
        if (!fold__shape_same(&in[0], &in[input]))
            return "shapes differ";
    out[0] = in[0];
    return NULL;
}

/* Masks depend on the key and the element alone. */
static void fold__dropout_rows(const fold_op_call *call, const fold_rows *output, const fold_rows *input)
{
    FOLD__NO_CONTRACT
    const int count = fold__out_size(call);
    const float rate = fold__attr_float(call->attr[0]), keep = 1.0f / (1.0f - rate);
    const uint64_t limit = (uint64_t)((double)rate * 4294967296.0);
    for (int row = 0; row < call->rows; row++) {
        const uint64_t key = call->data[row * call->data_step];
        const float *from = fold_row(input, row);
        float *to = fold_row(output, row);
        for (int element = 0; element < count; element++)
            to[element] = (fold__mix64(key + (uint64_t)element * UINT64_C(0x9e3779b97f4a7c15)) >> 32) < limit
                              ? 0
                              : from[element] * keep;
    }
}
static void fold__dropout_forward(const fold_op_call *call)
{
    fold__dropout_rows(call, &call->out[0], &call->in[0]);
}
static void fold__dropout_backward(const fold_op_call *call)
{
    fold__dropout_rows(call, &call->din[0], &call->dout[0]);
}

/* -- products -------------------------------------------------------------------------------- */

/* Attributes of a linear op. Its inputs are segments of x, and then the rows to start from instead of the
   bias, if there are any. A value of x has one or more lines of inputs. */
enum {
    FOLD__LINEAR_T,      /* W is [outputs x inputs] */
    FOLD__LINEAR_STARTS, /* its sums start from the last input */
    FOLD__LINEAR_ROW,    /* the first row of W that it reads */
    FOLD__LINEAR_OUT     /* outputs */
};
static const char *fold__infer_linear(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    const int segments = count - attr[FOLD__LINEAR_STARTS];
    out[0] = in[0];
    out[0].dim[out[0].rank - 1] = attr[FOLD__LINEAR_OUT];
    for (int segment = 1; segment < segments; segment++)
        if (in[segment].rank != 1 || in[0].rank != 1)
            return "several inputs must be vectors";
    if (attr[FOLD__LINEAR_STARTS] && !fold__shape_same(&in[count - 1], &out[0]))
        return "the rows to start from have another shape";
    return NULL;
}

static const float *fold__weight_pack(const fold__engine *engine, int transposed)
{
    return engine->packs + (transposed ? engine->param[0]->pack_t : engine->param[0]->pack);
}

/* Rows of `lines` lines each as one long run of rows, where memory allows it; else one sample at a time by
   the caller. */
static int fold__rows_flatten(fold_rows *input, int lines, int width)
{
    if (lines == 1)
        return 1;
    if (input->rows || input->stride != (ptrdiff_t)lines * width)
        return 0;
    input->stride = width;
    return 1;
}

static void fold__linear_product(const fold_op_call *call, size_t rows, const fold_rows *input,
                                 fold_rows init, fold_rows output)
{
    const fold__engine *engine = fold__engine_of(call);
    const int transposed = call->attr[FOLD__LINEAR_T], count = call->attr[FOLD__LINEAR_OUT];
    const float *pack = fold__weight_pack(engine, transposed);
    const int k_total = engine->param[0]->shape.dim[transposed ? 1 : 0];
    size_t row = (size_t)call->attr[FOLD__LINEAR_ROW];
    fold__seg seg[8];
    fold__product product;
    int at = 0;
    for (int before = 0; before < engine->first_segment; before++)
        row += (size_t)fold__shape_last(&call->in_shape[before]);
    for (int segment = engine->first_segment; segment < engine->end_segment;
         at = 0) { /* eight segments at a time, continuing the chain */
        for (; segment < engine->end_segment && at < 8; segment++, at++) {
            seg[at].input = input[segment];
            seg[at].inner = fold__shape_last(&call->in_shape[segment]);
            seg[at].weights = pack + fold__pack_row(engine->kernels, count, row);
            row += (size_t)seg[at].inner;
        }
        product.rows = (int)rows;
        product.columns = count;
        product.n_seg = at;
        product.panel_stride = fold__pack_stride(engine->kernels, k_total, count);
        product.seg = seg;
        product.init = init;
        product.output = output;
        product.n_pack = product.col = 0;
        engine->kernels->product(&product, call->scratch);
        init = output;
    }
}

static void fold__linear_forward(const fold_op_call *call)
{
    const fold__engine *engine = fold__engine_of(call);
    const int lines = fold__shape_lines(&call->in_shape[0]), count = call->attr[FOLD__LINEAR_OUT];
    fold_rows init = { NULL, 0, NULL }, output = call->out[0];
    const int has_start = call->attr[FOLD__LINEAR_STARTS], continues = engine->first_segment > 0;
    if (continues)
        init = output;
    else if (has_start)
        init = call->in[call->n_in - 1];
    else if (engine->param[1])
        init.base = (float *)(uintptr_t)(engine->packs + engine->param[1]->pack); /* never written through */
    if (lines == 1) {
        fold__linear_product(call, (size_t)call->rows, call->in, init, output);
        return;
    }
    fold_rows input = call->in[0];
    if (fold__rows_flatten(&input, lines, fold__shape_last(&call->in_shape[0])) &&
        fold__rows_flatten(&output, lines, count) &&
        (!has_start || fold__rows_flatten(&init, lines, count))) {
        fold__linear_product(call, (size_t)call->rows * (size_t)lines, &input, init, output);
        return;
    }
    for (int row = 0; row < call->rows; row++) {
        fold_rows xr = { fold_row(&call->in[0], row), fold__shape_last(&call->in_shape[0]), NULL },
                  yr = { fold_row(&call->out[0], row), count, NULL }, ir = init;
        if (has_start) {
            ir.base = fold_row(&call->in[call->n_in - 1], row);
            ir.stride = count;
            ir.rows = NULL;
        }
        fold__linear_product(call, (size_t)lines, &xr, ir, yr);
    }
}

/* dX = dY Wᵀ for inputs [from, to) of the weight. */
static void fold__linear_dx(const fold_op_call *call, size_t rows, fold_rows dy, fold_rows dx, int from,
                            int to)
{
    const fold__engine *engine = fold__engine_of(call);
    fold__seg seg;
    fold__product product;
    seg.input = dy;
    seg.inner = call->attr[FOLD__LINEAR_OUT];
    seg.weights = fold__weight_pack(engine, !call->attr[FOLD__LINEAR_T]);
    product.rows = (int)rows;
    product.columns = to - from;
    product.n_seg = 1;
    product.n_pack = engine->param[0]->shape.dim[call->attr[FOLD__LINEAR_T] ? 1 : 0];
    product.col = from;
    product.panel_stride = fold__pack_stride(engine->kernels, seg.inner, product.n_pack);
    product.seg = &seg;
    product.output = dx;
    product.init = fold__no_rows;
    engine->kernels->product(&product, call->scratch);
}

static void fold__linear_backward(const fold_op_call *call)
{
    const int segments = call->n_in - call->attr[FOLD__LINEAR_STARTS], count = call->attr[FOLD__LINEAR_OUT];
    const int lines = fold__shape_lines(&call->in_shape[0]);
    if (call->attr[FOLD__LINEAR_STARTS] && !fold__absent(&call->din[segments])) /* the rows it started from */
        for (int row = 0; row < call->rows; row++)
            memcpy(fold_row(&call->din[segments], row), fold_row(&call->dout[0], row),
                   (size_t)fold__out_size(call) * sizeof(float));
    for (int segment = 0, from = call->attr[FOLD__LINEAR_ROW]; segment < segments; segment++) {
        const int width = fold__shape_last(&call->in_shape[segment]);
        fold_rows dx = call->din[segment], dy = call->dout[0];
        if (fold__absent(&dx)) {
            from += width;
            continue;
        }
        if (fold__rows_flatten(&dx, lines, width) && fold__rows_flatten(&dy, lines, count)) {
            fold__linear_dx(call, (size_t)call->rows * (size_t)lines, dy, dx, from, from + width);
        } else {
            for (int row = 0; row < call->rows; row++) {
                const fold_rows dxr = { fold_row(&call->din[segment], row), width, NULL },
                                dyr = { fold_row(&call->dout[0], row), count, NULL };
                fold__linear_dx(call, (size_t)lines, dyr, dxr, from, from + width);
            }
        }
        from += width;
    }
}

enum {
    FOLD__JOIN_TALL = 64,
    FOLD__JOIN_WIDE = FOLD__N_BLOCK + FOLD__LANES
}; /* of a weight gradient's block, no column left alone */

static size_t fold__linear_scratch(const fold__kernels *kernels, const fold__param_data *weight)
{
    const size_t forward = fold__scratch_floats(kernels, weight->shape.dim[0], weight->shape.dim[1]);
    const size_t backward = fold__scratch_floats(kernels, weight->shape.dim[1], weight->shape.dim[0]);
    return fold__max_size(forward, backward) + FOLD__JOIN_TALL * FOLD__JOIN_WIDE;
}

/* Columns [from, to) of a gradient of n columns: what one of several threads adds up. */
typedef struct fold__share {
    int from, to;
} fold__share;

/* Where in W's gradient the rows of a segment of a linear op begin, in floats. */
static size_t fold__segment_at(const int32_t *attr, const fold_shape *in_shape, int segment, size_t ldw)
{
    size_t row = (size_t)attr[FOLD__LINEAR_ROW];
    for (int before = 0; before < segment; before++)
        row += (size_t)fold__shape_last(&in_shape[before]);
    return attr[FOLD__LINEAR_T] ? row : row * ldw;
}

/* acc += xᵀ dy for one segment of a linear op and some columns of dy, rows in order, continuing the chains in
   acc (the segment's rows of W). dy begins at the first of the columns. */
static void fold__linear_weight_grad(const fold_op_call *call, size_t rows, int segment,
                                     const fold_rows *input, const fold_rows *dy, fold__share share,
                                     float *acc)
{
    const fold__engine *engine = fold__engine_of(call);
    const int width = fold__shape_last(&call->in_shape[segment]), length = share.to - share.from,
              lines = fold__shape_lines(&call->in_shape[0]);
    const size_t ldw = (size_t)engine->param[0]->shape.dim[1], groups = lines == 1 ? 1 : rows;
    acc += (size_t)share.from * (call->attr[FOLD__LINEAR_T] ? ldw : 1);
    for (size_t row = 0; row < groups; row++) {
        fold_rows xr = *input, dyr = *dy;
        if (lines > 1) {
            xr.base = fold_row(input, (int)row);
            xr.stride = width;
            xr.rows = NULL;
            dyr.base = fold_row(dy, (int)row);
            dyr.stride = call->attr[FOLD__LINEAR_OUT];
            dyr.rows = NULL;
        }
        const int count = lines > 1 ? lines : (int)rows;
        if (call->attr[FOLD__LINEAR_T])
            engine->kernels->weight_grad(count, &dyr, length, &xr, width, acc, ldw, call->scratch);
        else
            engine->kernels->weight_grad(count, &xr, width, &dyr, length, acc, ldw, call->scratch);
    }
}

/* to += xᵀ dy, x of `inner` and dy of `count` columns, the sum made from zero: block by block, each added
   while it is in the first cache. The row pointers x_rows and dy_rows are moved along. */
static void fold__join_weight_grad(const fold__kernels *kernels, size_t rows, float **x_rows, int inner,
                                   float **dy_rows, int count, float *to, size_t ldw, float *scratch)
{
    float *block = scratch;
    const fold_rows x_now = { NULL, 0, x_rows }, dy_now = { NULL, 0, dy_rows };
    for (int line = 0, tall; line < inner; line += tall) {
        tall = inner - line < FOLD__JOIN_TALL ? inner - line : FOLD__JOIN_TALL;
        for (int column = 0, wide; column < count; column += wide) {
            wide = count - column < FOLD__JOIN_WIDE ? count - column : FOLD__N_BLOCK;
            const fold_rows sum = { to + (size_t)line * ldw + column, (ptrdiff_t)ldw, NULL },
                            part = { block, wide, NULL };
            const fold_rows all[4] = { sum, sum, part, part };
            memset(block, 0, (size_t)tall * (size_t)wide * sizeof *block);
            kernels->weight_grad((int)rows, &x_now, tall, &dy_now, wide, block, (size_t)wide,
                                 scratch + FOLD__JOIN_TALL * FOLD__JOIN_WIDE);
            kernels->map[FOLD__MAP_add](sum.base, sum.base, block, block, 0, (size_t)wide, (size_t)tall, all);
            for (size_t row = 0; row < rows; row++)
                dy_rows[row] += column + wide < count ? wide : -column;
        }
        for (size_t row = 0; row < rows; row++)
            x_rows[row] += tall;
    }
}

/* acc += some columns of every line of every row, in order; dy begins at the first of them. */
static void fold__add_rows(const fold__kernels *kernels, size_t rows, const fold_rows *dy, int lines,
                           int count, fold__share share, float *acc)
{
    for (size_t row = 0; row < rows; row++)
        for (int line = 0; line < lines; line++) {
            float *to = acc + share.from;
            kernels->map[FOLD__MAP_add](to, to, fold_row(dy, (int)row) + (size_t)line * (size_t)count, NULL,
                                        0, (size_t)(share.to - share.from), 1, NULL);
        }
}

/* A strided matrix: element (i, j) at p[i * row + j * column]. */
typedef struct fold__matrix {
    const float *values;
    ptrdiff_t row, column;
} fold__matrix;

/* Y = A B for the small matrices of one sample. Wide outputs: one chain over k per element. Narrow ones: 16
   interleaved chains, as everywhere. scratch: (m + n) * k floats. */
static void fold__small_product(const fold__kernels *kernels, int rows, int inner, int columns,
                                fold__matrix left, fold__matrix right, float *out, float *scratch)
{
    if (columns >= 16) {
        if (right.column != 1) {
            for (int element = 0; element < inner; element++)
                for (int column = 0; column < columns; column++)
                    scratch[element * columns + column] =
                        right.values[element * right.row + column * right.column];
            right.values = scratch;
            right.row = columns;
        }
        for (int row = 0; row < rows; row++) {
            kernels->map[FOLD__MAP_fill](out + (size_t)row * (size_t)columns, NULL, NULL, NULL, 0,
                                         (size_t)columns, 1, NULL);
            for (int element = 0; element < inner; element++)
                kernels->map[FOLD__MAP_axpy](
                    out + (size_t)row * (size_t)columns, right.values + element * right.row, NULL,
                    out + (size_t)row * (size_t)columns, left.values[row * left.row + element * left.column],
                    (size_t)columns, 1, NULL);
        }
        return;
    }
    float *right_columns = scratch, *left_row = scratch + (size_t)columns * (size_t)inner;
    for (int column = 0; column < columns; column++)
        for (int element = 0; element < inner; element++)
            right_columns[column * inner + element] =
                right.values[element * right.row + column * right.column];
    for (int row = 0; row < rows; row++) {
        for (int element = 0; element < inner; element++)
            left_row[element] = left.values[row * left.row + element * left.column];
        for (int column = 0; column < columns; column++)
            out[row * columns + column] =
                kernels->dot(left_row, right_columns + column * inner, (size_t)inner);
    }
}

static void fold__matmul_sizes(const fold_op_call *call, int *rows, int *inner, int *columns)
{
    const fold_shape *left = &call->in_shape[0], *right = &call->in_shape[1];
    *rows = left->rank == 2 ? left->dim[0] : 1;
    *inner = fold__shape_last(left);
    *columns = right->rank == 2 ? right->dim[1] : 1;
}
static void fold__matmul_forward(const fold_op_call *call)
{
    int rows, inner, columns;
    fold__matmul_sizes(call, &rows, &inner, &columns);
    for (int row = 0; row < call->rows; row++) {
        fold__matrix left = { fold_row(&call->in[0], row), inner, 1 },
                     right = { fold_row(&call->in[1], row), columns, 1 };
        fold__small_product(fold__engine_of(call)->kernels, rows, inner, columns, left, right,
                            fold_row(&call->out[0], row), call->scratch);
    }
}
static void fold__matmul_backward(const fold_op_call *call)
{
    int rows, inner, columns;
    fold__matmul_sizes(call, &rows, &inner, &columns);
    for (int row = 0; row < call->rows; row++) {
        const float *dout = fold_row(&call->dout[0], row);
        if (!fold__absent(&call->din[0])) {
            fold__matrix dy = { dout, columns, 1 }, bt = { fold_row(&call->in[1], row), 1, columns };
            fold__small_product(fold__engine_of(call)->kernels, rows, columns, inner, dy, bt,
                                fold_row(&call->din[0], row), call->scratch);
        }
        if (!fold__absent(&call->din[1])) {
            fold__matrix at = { fold_row(&call->in[0], row), 1, inner }, dy = { dout, columns, 1 };
            fold__small_product(fold__engine_of(call)->kernels, inner, rows, columns, at, dy,
                                fold_row(&call->din[1], row), call->scratch);
        }
    }
}
static const char *fold__infer_matmul(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    (void)attr;
    const fold_shape *left = &in[0], *right = &in[1];
    if (left->rank > 2 || right->rank > 2 || (left->rank == 1 && right->rank == 1))
        return "needs a matrix and a matrix or vector";
    if (fold__shape_last(left) != right->dim[0])
        return "the inner dimensions differ";
    if (left->rank == 2 && right->rank == 2)
        *out = fold_shape2(left->dim[0], right->dim[1]);
    else
        *out = fold_shape1(left->rank == 2 ? left->dim[0] : right->dim[1]);
    return NULL;
}

static void fold__dot_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++)
        fold_row(&call->out[0], row)[0] = fold__engine_of(call)->kernels->dot(
            fold_row(&call->in[0], row), fold_row(&call->in[1], row), count);
}
static void fold__dot_backward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int input = 0; input < 2; input++)
        for (int row = 0; row < call->rows && !fold__absent(&call->din[input]); row++)
            FOLD__MAP(call, scale)
    (fold_row(&call->din[input], row), fold_row(&call->in[1 - input], row), NULL, NULL,
     fold_row(&call->dout[0], row)[0], count, 1, NULL);
}
static const char *fold__infer_to_scalar(const fold_shape *in, int count, const int32_t *attr,
                                         fold_shape *out)
{
    (void)attr;
    for (int input = 1; input < count; input++)
        if (!fold__shape_same(&in[0], &in[input]))
            return "shapes differ";
    *out = fold_shape1(1);
    return NULL;
}

/* -- reductions inside a row ----------------------------------------------------------------- */

/* A value seen as [outer][length][inner] around an axis; all axes: [1][size][1]. */
typedef struct fold__axis {
    int outer, length, inner;
} fold__axis;
static fold__axis fold__around(const fold_shape *shape, int axis)
{
    fold__axis extent = { 1, 1, 1 };
    if (axis == FOLD_ALL) {
        extent.length = fold__shape_size(shape);
        return extent;
    }
    for (int dim = 0; dim < shape->rank; dim++)
        *(dim < axis ? &extent.outer : dim == axis ? &extent.length : &extent.inner) *= shape->dim[dim];
    return extent;
}
static const char *fold__infer_along(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    out[0] = in[0];
    return attr[0] < 0 || attr[0] >= in[0].rank ? "there is no such axis" : NULL;
}
static const char *fold__infer_axis(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    if (attr[0] != FOLD_ALL && (attr[0] < 0 || attr[0] >= in[0].rank))
        return "there is no such axis";
    if (attr[0] == FOLD_ALL || in[0].rank == 1) {
        *out = fold_shape1(1);
        return NULL;
    }
    *out = in[0];
    for (int axis = attr[0]; axis + 1 < in[0].rank; axis++)
        out->dim[axis] = in[0].dim[axis + 1];
    out->dim[--out->rank] = 0;
    return NULL;
}
/* A value's lines of `inner` floats for one outer index, summed. */
static void fold__sum_lines(const fold__kernels *kernels, const fold__axis *axis, float *out, float *in)
{
    const fold_rows lines = { in, axis->inner, NULL };
    if (axis->inner == 1)
        out[0] = fold__sum(kernels, in, (size_t)axis->length);
    else
        fold__sum_rows(kernels, out, (size_t)axis->inner, &lines, 0, axis->length);
}
static void fold__mean_lines(const fold__kernels *kernels, const fold__axis *axis, float *out, float *in)
{
    fold__sum_lines(kernels, axis, out, in);
    kernels->map[FOLD__MAP_scale](out, out, NULL, NULL, 1.0f / (float)axis->length, (size_t)axis->inner, 1,
                                  NULL);
}

/* What an op over an axis sees at once: the lines of one outer index. out and dout are one line, or as many
   as in. In backward din is there, and of in and out what the op asks for. */
typedef struct fold__lines {
    const fold__kernels *kernels;
    fold__axis axis;
    float *in, *out, *dout, *din, *scratch;
} fold__lines;
static float *fold__part_of(const fold_rows *rows, int row, size_t at)
{
    float *values = fold_row(rows, row);
    return values ? values + at : NULL;
}
static void fold__each_lines(const fold_op_call *call, int backward, void (*over)(const fold__lines *lines))
{
    const fold__axis axis = fold__around(&call->in_shape[0], call->attr[0]);
    const size_t in_step = (size_t)axis.length * (size_t)axis.inner,
                 out_step = (size_t)(fold__out_size(call) / axis.outer);
    fold__lines lines = { fold__engine_of(call)->kernels, axis, NULL, NULL, NULL, NULL, call->scratch };
    for (int row = 0; row < call->rows; row++)
        for (size_t block = 0; block < (size_t)axis.outer; block++) {
            lines.in = fold__part_of(&call->in[0], row, block * in_step);
            lines.out = fold__part_of(&call->out[0], row, block * out_step);
            lines.dout = backward ? fold__part_of(&call->dout[0], row, block * out_step) : NULL;
            lines.din = backward ? fold__part_of(&call->din[0], row, block * in_step) : NULL;
            over(&lines);
        }
}
/* Both passes of an op over an axis, made of what they do with one outer index' lines. */
#define FOLD__OVER_AXIS(name)                                      \
    static void fold__##name##_forward(const fold_op_call *call)   \
    {                                                              \
        fold__each_lines(call, 0, fold__##name##_lines);           \
    }                                                              \
    static void fold__##name##_backward(const fold_op_call *call)  \
    {                                                              \
        fold__each_lines(call, 1, fold__##name##_lines_grad);      \
    }

static void fold__sum_over(const fold__lines *lines)
{
    fold__sum_lines(lines->kernels, &lines->axis, lines->out, lines->in);
}
static void fold__mean_over(const fold__lines *lines)
{
    fold__mean_lines(lines->kernels, &lines->axis, lines->out, lines->in);
}
static void fold__sum_axis_grad(const fold_op_call *call, int mean)
{
    const fold__axis axis = fold__around(&call->in_shape[0], call->attr[0]);
    const size_t inner = (size_t)axis.inner;
    const float factor = mean ? 1.0f / (float)axis.length : 1.0f;
    for (int row = 0; row < call->rows; row++) {
        const float *dout = fold_row(&call->dout[0], row);
        float *din = fold_row(&call->din[0], row);
        for (int output = 0; output < axis.outer; output++, dout += inner)
            for (int repeat = 0; repeat < axis.length; repeat++, din += inner)
                FOLD__MAP(call, scale)(din, dout, NULL, NULL, factor, inner, 1, NULL);
    }
}
static void fold__sum_forward(const fold_op_call *call) { fold__each_lines(call, 0, fold__sum_over); }
static void fold__sum_backward(const fold_op_call *call) { fold__sum_axis_grad(call, 0); }
static void fold__mean_forward(const fold_op_call *call) { fold__each_lines(call, 0, fold__mean_over); }
static void fold__mean_backward(const fold_op_call *call) { fold__sum_axis_grad(call, 1); }

/* Where in a line the first largest is (sign 1), or the first smallest (sign -1). */
static size_t fold__first_of(const fold__lines *lines, size_t column, float sign)
{
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    size_t best = column;
    for (size_t at = column + inner; at < size; at += inner)
        if (sign * lines->in[at] > sign * lines->in[best])
            best = at;
    return best;
}
static void fold__extreme_lines(const fold__lines *lines, float sign)
{
    for (size_t column = 0; column < (size_t)lines->axis.inner; column++)
        lines->out[column] = lines->in[fold__first_of(lines, column, sign)];
}
static void fold__extreme_lines_grad(const fold__lines *lines, float sign)
{
    const size_t inner = (size_t)lines->axis.inner;
    memset(lines->din, 0, inner * (size_t)lines->axis.length * sizeof(float));
    for (size_t column = 0; column < inner; column++)
        lines->din[fold__first_of(lines, column, sign)] = lines->dout[column];
}
static void fold__amax_lines(const fold__lines *lines) { fold__extreme_lines(lines, 1); }
static void fold__amax_lines_grad(const fold__lines *lines) { fold__extreme_lines_grad(lines, 1); }
static void fold__amin_lines(const fold__lines *lines) { fold__extreme_lines(lines, -1); }
static void fold__amin_lines_grad(const fold__lines *lines) { fold__extreme_lines_grad(lines, -1); }
FOLD__OVER_AXIS(amax)
FOLD__OVER_AXIS(amin)

/* to = from - less, the same `inner` floats from every line. */
static void fold__lines_less(const fold__axis *axis, float *to, const float *from, const float *less)
{
    for (int line = 0; line < axis->length; line++)
        for (int column = 0; column < axis->inner; column++)
            *to++ = *from++ - less[column];
}
/* values *= factor, the same `inner` floats in every line. */
static void fold__lines_times(const fold__axis *axis, float *values, const float *factor)
{
    for (int line = 0; line < axis->length; line++)
        for (int column = 0; column < axis->inner; column++)
            *values++ *= factor[column];
}
static void fold__variance_lines(const fold__lines *lines)
{
    const size_t size = (size_t)lines->axis.inner * (size_t)lines->axis.length;
    float *difference = lines->scratch;
    fold__mean_lines(lines->kernels, &lines->axis, lines->out, lines->in);
    fold__lines_less(&lines->axis, difference, lines->in, lines->out);
    lines->kernels->map[FOLD__MAP_square](difference, difference, NULL, NULL, 0, size, 1, NULL);
    fold__mean_lines(lines->kernels, &lines->axis, lines->out, difference);
}
static void fold__variance_lines_grad(const fold__lines *lines)
{
    const size_t inner = (size_t)lines->axis.inner;
    float *means = lines->scratch;
    fold__mean_lines(lines->kernels, &lines->axis, means, lines->in);
    fold__lines_less(&lines->axis, lines->din, lines->in, means);
    lines->kernels->map[FOLD__MAP_scale](means, lines->dout, NULL, NULL, 2.0f / (float)lines->axis.length,
                                         inner, 1, NULL);
    fold__lines_times(&lines->axis, lines->din, means);
}
FOLD__OVER_AXIS(variance)

/* The largest of a line is subtracted before exp and added after log; an infinite one stays where it is. */
static float fold__finite_or_zero(float value) { return value - value == 0 ? value : 0; }
static void fold__logsumexp_lines(const fold__lines *lines)
{
    FOLD__NO_CONTRACT
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    float *exps = lines->scratch, *shift = exps + size;
    for (size_t column = 0; column < inner; column++)
        shift[column] = fold__finite_or_zero(lines->in[fold__first_of(lines, column, 1)]);
    fold__lines_less(&lines->axis, exps, lines->in, shift);
    lines->kernels->map[FOLD__MAP_exp](exps, exps, NULL, NULL, 0, size, 1, NULL);
    fold__sum_lines(lines->kernels, &lines->axis, lines->out, exps);
    lines->kernels->map[FOLD__MAP_log](lines->out, lines->out, NULL, NULL, 0, inner, 1, NULL);
    for (size_t column = 0; column < inner; column++)
        lines->out[column] = lines->out[column] + shift[column];
}
static void fold__logsumexp_lines_grad(const fold__lines *lines)
{
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    float *shift = lines->scratch;
    for (size_t column = 0; column < inner; column++)
        shift[column] = fold__finite_or_zero(lines->out[column]);
    fold__lines_less(&lines->axis, lines->din, lines->in, shift);
    lines->kernels->map[FOLD__MAP_exp](lines->din, lines->din, NULL, NULL, 0, size, 1, NULL);
    fold__lines_times(&lines->axis, lines->din, lines->dout);
}
FOLD__OVER_AXIS(logsumexp)

static void fold__prod_lines(const fold__lines *lines)
{
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    memcpy(lines->out, lines->in, inner * sizeof(float));
    for (size_t at = inner; at < size; at += inner)
        for (size_t column = 0; column < inner; column++)
            lines->out[column] *= lines->in[at + column];
}
/* The product of all others, which a zero does not hide: of those before it times those behind. */
static void fold__prod_lines_grad(const fold__lines *lines)
{
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    float *running = lines->scratch;
    for (size_t column = 0; column < inner; column++)
        running[column] = 1.0f;
    for (size_t at = 0; at < size; at += inner)
        for (size_t column = 0; column < inner; column++) {
            lines->din[at + column] = running[column];
            running[column] *= lines->in[at + column];
        }
    memcpy(running, lines->dout, inner * sizeof(float));
    for (size_t at = size; at > 0; at -= inner)
        for (size_t column = 0; column < inner; column++) {
            lines->din[at - inner + column] *= running[column];
            running[column] *= lines->in[at - inner + column];
        }
}
FOLD__OVER_AXIS(prod)

static void fold__cumsum_lines(const fold__lines *lines)
{
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    for (size_t at = 0; at < size; at++)
        lines->out[at] = at < inner ? lines->in[at] : lines->out[at - inner] + lines->in[at];
}
static void fold__cumsum_lines_grad(const fold__lines *lines)
{
    const size_t inner = (size_t)lines->axis.inner, size = inner * (size_t)lines->axis.length;
    for (size_t at = size; at-- > 0;)
        lines->din[at] = at + inner < size ? lines->din[at + inner] + lines->dout[at] : lines->dout[at];
}
FOLD__OVER_AXIS(cumsum)
#undef FOLD__OVER_AXIS

/* y = exp(x - max x); returns max x, and the sum of y in *sum */
static float fold__exp_row(const fold__kernels *kernels, float *out, const float *in, size_t count,
                           float *sum)
{
    const float largest = kernels->largest(in, count);
    *sum = kernels->exp_sum(out, in, largest, count);
    return largest;
}
/* log of the sum of exp(x), and the softmax in y */
static float fold__softmax_row(const fold__kernels *kernels, float *out, const float *in, size_t count)
{
    FOLD__NO_CONTRACT
    float sum, log_sum;
    const float largest = fold__exp_row(kernels, out, in, count, &sum);
    kernels->map[FOLD__MAP_log](&log_sum, &sum, NULL, NULL, 0, 1, 1, NULL);
    kernels->map[FOLD__MAP_scale](out, out, NULL, NULL, 1.0f / sum, count, 1, NULL);
    return largest + log_sum;
}
static void fold__softmax_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__shape_last(&call->in_shape[0]),
                 lines = (size_t)fold__out_size(call) / count;
    for (int row = 0; row < call->rows; row++)
        for (size_t line = 0; line < lines; line++)
            fold__softmax_row(fold__engine_of(call)->kernels, fold_row(&call->out[0], row) + line * count,
                              fold_row(&call->in[0], row) + line * count, count);
}
static void fold__softmax_backward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__shape_last(&call->in_shape[0]),
                 lines = (size_t)fold__out_size(call) / count;
    for (int row = 0; row < call->rows; row++)
        for (size_t line = 0; line < lines; line++) {
            const float *dout = fold_row(&call->dout[0], row) + line * count,
                        *out = fold_row(&call->out[0], row) + line * count;
            float *din = fold_row(&call->din[0], row) + line * count;
            FOLD__MAP(call, shift)
            (din, dout, NULL, NULL, -fold__engine_of(call)->kernels->dot(dout, out, count), count, 1, NULL);
            FOLD__MAP(call, mul)(din, din, out, NULL, 0, count, 1, NULL);
        }
}
static void fold__log_softmax_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__shape_last(&call->in_shape[0]),
                 lines = (size_t)fold__out_size(call) / count;
    for (int row = 0; row < call->rows; row++)
        for (size_t line = 0; line < lines; line++) {
            const float *in = fold_row(&call->in[0], row) + line * count;
            const float log_sum = fold__softmax_row(fold__engine_of(call)->kernels, call->scratch, in, count);
            FOLD__MAP(call, shift)
            (fold_row(&call->out[0], row) + line * count, in, NULL, NULL, -log_sum, count, 1, NULL);
        }
}
static void fold__log_softmax_backward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__shape_last(&call->in_shape[0]),
                 lines = (size_t)fold__out_size(call) / count;
    for (int row = 0; row < call->rows; row++)
        for (size_t line = 0; line < lines; line++) {
            const float *dout = fold_row(&call->dout[0], row) + line * count,
                        *out = fold_row(&call->out[0], row) + line * count;
            const float sum = fold__sum(fold__engine_of(call)->kernels, dout, count);
            FOLD__MAP(call, exp)(call->scratch, out, NULL, NULL, 0, count, 1, NULL);
            FOLD__MAP(call, axpy)
            (fold_row(&call->din[0], row) + line * count, call->scratch, NULL, dout, -sum, count, 1, NULL);
        }
}

static const char *fold__infer_norm(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)attr;
    for (int input = 1; input < count; input++)
        if (in[input].rank != 1 || in[input].dim[0] != fold__shape_last(&in[0]))
            return "gain and bias must be vectors of the last axis";
    out[0] = in[0];
    return NULL;
}
/* Layer norm subtracts the mean and has a bias, RMS norm does neither. */
static int fold__centred(const fold_op_call *call) { return call->n_in > 2; }
/* target = (in - mean) / deviation, or in / root of mean square; returns 1 / what it divides by */
static float fold__standardise(const fold_op_call *call, float *target, const float *in, size_t count)
{
    FOLD__NO_CONTRACT
    const fold__kernels *kernels = fold__engine_of(call)->kernels;
    const float scale = 1.0f / (float)count;
    if (fold__centred(call)) {
        kernels->map[FOLD__MAP_shift](target, in, NULL, NULL, -(fold__sum(kernels, in, count) * scale), count,
                                      1, NULL);
        in = target;
    }
    float inverse = kernels->dot(in, in, count) * scale + fold__attr_float(call->attr[0]);
    kernels->map[FOLD__MAP_sqrt](&inverse, &inverse, NULL, NULL, 0, 1, 1, NULL);
    inverse = 1.0f / inverse;
    kernels->map[FOLD__MAP_scale](target, in, NULL, NULL, inverse, count, 1, NULL);
    return inverse;
}
static void fold__layer_norm_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__shape_last(&call->in_shape[0]),
                 lines = (size_t)fold__out_size(call) / count;
    for (int row = 0; row < call->rows; row++)
        for (size_t line = 0; line < lines; line++) {
            float *out = fold_row(&call->out[0], row) + line * count;
            const float *gain = fold_row(&call->in[1], row);
            fold__standardise(call, out, fold_row(&call->in[0], row) + line * count, count);
            if (fold__centred(call))
                FOLD__MAP(call, addmul)(out, out, gain, fold_row(&call->in[2], row), 0, count, 1, NULL);
            else
                FOLD__MAP(call, mul)(out, out, gain, NULL, 0, count, 1, NULL);
        }
}
static void fold__rms_norm_forward(const fold_op_call *call) { fold__layer_norm_forward(call); }
/* The gradient of x for one line, from the standardised values and the output's gradient times the gain. */
static void fold__norm_line_grad(const fold_op_call *call, float *din, const float *target, float *work,
                                 float inverse, size_t count)
{
    FOLD__NO_CONTRACT
    const fold__kernels *kernels = fold__engine_of(call)->kernels;
    const float mean = fold__centred(call) ? fold__sum(kernels, work, count) / (float)count : 0,
                slope = kernels->dot(work, target, count) / (float)count;
    if (fold__centred(call))
        kernels->map[FOLD__MAP_shift](work, work, NULL, NULL, -mean, count, 1, NULL);
    kernels->map[FOLD__MAP_axpy](din, target, NULL, work, -slope, count, 1, NULL);
    kernels->map[FOLD__MAP_scale](din, din, NULL, NULL, inverse, count, 1, NULL);
}
static void fold__layer_norm_backward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__shape_last(&call->in_shape[0]),
                 lines = (size_t)fold__out_size(call) / count;
    float *target = call->scratch, *work = call->scratch + count;
    for (int row = 0; row < call->rows; row++) {
        for (int input = 1; input < call->n_in; input++)
            if (!fold__absent(&call->din[input]))
                memset(fold_row(&call->din[input], row), 0, count * sizeof(float));
        for (size_t line = 0; line < lines; line++) {
            const float *dout = fold_row(&call->dout[0], row) + line * count;
            const float inverse =
                fold__standardise(call, target, fold_row(&call->in[0], row) + line * count, count);
            if (!fold__absent(&call->din[1])) {
                float *dgain = fold_row(&call->din[1], row);
                FOLD__MAP(call, mul)(work, dout, target, NULL, 0, count, 1, NULL);
                FOLD__MAP(call, add)(dgain, dgain, work, NULL, 0, count, 1, NULL);
            }
            if (fold__centred(call) && !fold__absent(&call->din[2])) {
                float *dbias = fold_row(&call->din[2], row);
                FOLD__MAP(call, add)(dbias, dbias, dout, NULL, 0, count, 1, NULL);
            }
            if (fold__absent(&call->din[0]))
                continue;
            FOLD__MAP(call, mul)(work, dout, fold_row(&call->in[1], row), NULL, 0, count, 1, NULL);
            fold__norm_line_grad(call, fold_row(&call->din[0], row) + line * count, target, work, inverse,
                                 count);
        }
    }
}
static void fold__rms_norm_backward(const fold_op_call *call) { fold__layer_norm_backward(call); }

/* -- over lists ------------------------------------------------------------------------------ */

static const char *fold__infer_list(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    (void)attr;
    out[0] = in[0];
    return NULL;
}
static const char *fold__infer_attend(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    (void)attr;
    if (fold__shape_size(&in[0]) != 1)
        return "a score must be [1]";
    out[0] = in[1];
    return NULL;
}
static void fold__list_total(const fold_op_call *call, int mean)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++) {
        float *out = fold_row(&call->out[0], row);
        const int first = call->list[row], last = call->list[row + 1];
        fold__sum_rows(fold__engine_of(call)->kernels, out, count, &call->in[0], first, last - first);
        if (mean && last > first)
            FOLD__MAP(call, scale)(out, out, NULL, NULL, 1.0f / (float)(last - first), count, 1, NULL);
    }
}
static void fold__list_total_grad(const fold_op_call *call, int mean)
{
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++)
        for (int element = call->list[row]; element < call->list[row + 1]; element++)
            FOLD__MAP(call, scale)
    (fold_row(&call->din[0], element), fold_row(&call->dout[0], row), NULL, NULL,
     mean ? 1.0f / (float)(call->list[row + 1] - call->list[row]) : 1.0f, count, 1, NULL);
}
static void fold__sum_n_forward(const fold_op_call *call) { fold__list_total(call, 0); }
static void fold__sum_n_backward(const fold_op_call *call) { fold__list_total_grad(call, 0); }
static void fold__mean_n_forward(const fold_op_call *call) { fold__list_total(call, 1); }
static void fold__mean_n_backward(const fold_op_call *call) { fold__list_total_grad(call, 1); }
static void fold__max_n_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++) {
        float *out = fold_row(&call->out[0], row);
        for (int element = call->list[row]; element < call->list[row + 1]; element++) {
            if (element == call->list[row])
                FOLD__MAP(call, copy)(out, fold_row(&call->in[0], element), NULL, NULL, 0, count, 1, NULL);
            else
                FOLD__MAP(call, max)
            (out, fold_row(&call->in[0], element), out, NULL, 0, count, 1,
             NULL); /* a later one wins only when larger */
        }
    }
}
static void fold__max_n_backward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++) {
        const float *out = fold_row(&call->out[0], row), *dout = fold_row(&call->dout[0], row);
        for (size_t column = 0; column < count; column++) {
            int found = 0;
            for (int element = call->list[row]; element < call->list[row + 1]; element++) {
                const int here = !found && fold_row(&call->in[0], element)[column] == out[column];
                fold_row(&call->din[0], element)[column] = here ? dout[column] : 0;
                found |= here;
            }
        }
    }
}
/* Softmax weights of a row's scores, exp(score - max) / sum: exps of some elements at a time, the sum in list
   order. */
typedef struct fold__attention {
    float largest, sum;
    int first, end; /* the elements whose exps these are */
    float exps[64];
} fold__attention;
/* The exps of the elements from `first` on, as many as there is room for. */
static void fold__attend_load(const fold_op_call *call, fold__attention *over, int first, int last)
{
    FOLD__NO_CONTRACT
    const int room = (int)(sizeof over->exps / sizeof *over->exps);
    over->first = first;
    over->end = last - first < room ? last : first + room;
    for (int element = first; element < over->end; element++)
        over->exps[element - first] = fold_row(&call->in[0], element)[0] - over->largest;
    FOLD__MAP(call, exp)
    (over->exps, over->exps, NULL, NULL, 0, (size_t)(over->end - first), 1, NULL);
}
static void fold__attend_begin(const fold_op_call *call, fold__attention *over, int row)
{
    FOLD__NO_CONTRACT
    const int first = call->list[row], last = call->list[row + 1];
    over->largest = -INFINITY;
    over->sum = 0;
    over->first = over->end = first;
    for (int element = first; element < last; element++) {
        const float score = fold_row(&call->in[0], element)[0];
        over->largest = score > over->largest ? score : over->largest;
    }
    for (int element = first; element < last; element++) {
        if (element == over->end)
            fold__attend_load(call, over, element, last);
        over->sum = over->sum + over->exps[element - over->first];
    }
}
/* The weight of an element of row `row`; elements in order. */
static float fold__attend_weight(const fold_op_call *call, fold__attention *over, int row, int element)
{
    FOLD__NO_CONTRACT
    if (element < over->first || element >= over->end)
        fold__attend_load(call, over, element, call->list[row + 1]);
    return over->exps[element - over->first] / over->sum;
}
static void fold__attend_n_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++) {
        float *out = fold_row(&call->out[0], row);
        fold__attention over;
        fold__attend_begin(call, &over, row);
        FOLD__MAP(call, fill)(out, NULL, NULL, NULL, 0, count, 1, NULL);
        for (int element = call->list[row]; element < call->list[row + 1]; element++)
            FOLD__MAP(call, axpy)
        (out, fold_row(&call->in[1], element), NULL, out, fold__attend_weight(call, &over, row, element),
         count, 1, NULL);
    }
}
static void fold__attend_n_backward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__out_size(call);
    for (int row = 0; row < call->rows; row++) {
        const float *out = fold_row(&call->out[0], row), *dout = fold_row(&call->dout[0], row);
        const float mean = fold__engine_of(call)->kernels->dot(dout, out, count);
        fold__attention over;
        fold__attend_begin(call, &over, row);
        for (int element = call->list[row]; element < call->list[row + 1]; element++) {
            const float share = fold__attend_weight(call, &over, row, element);
            if (!fold__absent(&call->din[0]))
                fold_row(&call->din[0], element)[0] =
                    share *
                    (fold__engine_of(call)->kernels->dot(dout, fold_row(&call->in[1], element), count) -
                     mean);
            if (!fold__absent(&call->din[1]))
                FOLD__MAP(call, scale)
                (fold_row(&call->din[1], element), dout, NULL, NULL, share, count, 1, NULL);
        }
    }
}

/* -- moving values --------------------------------------------------------------------------- */

static const char *fold__infer_concat(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    if (attr[0] < 0 || attr[0] >= in[0].rank)
        return "there is no such axis";
    out[0] = in[0];
    for (int input = 1; input < count; input++) {
        if (in[input].rank != in[0].rank)
            return "ranks differ";
        for (int axis = 0; axis < in[0].rank; axis++)
            if (axis != attr[0] && in[input].dim[axis] != in[0].dim[axis])
                return "shapes differ off the axis";
        out[0].dim[attr[0]] += in[input].dim[attr[0]];
    }
    return NULL;
}
/* Copies part i of a concatenation in (or, for gradients, out of) the whole, for row r. */
static void fold__concat_part(const fold_op_call *call, float *whole, float *part, int input,
                              int out_of_whole)
{
    const fold__axis axis = fold__around(&call->out_shape[0], call->attr[0]),
                     part_axis = fold__around(&call->in_shape[input], call->attr[0]);
    size_t before = 0;
    for (int earlier = 0; earlier < input; earlier++)
        before += (size_t)call->in_shape[earlier].dim[call->attr[0]] * (size_t)axis.inner;
    const size_t line = (size_t)axis.length * (size_t)axis.inner,
                 length = (size_t)part_axis.length * (size_t)part_axis.inner;
    for (int output = 0; output < axis.outer; output++) {
        float *whole_line = whole + (size_t)output * line + before,
              *part_line = part + (size_t)output * length;
        memcpy(out_of_whole ? part_line : whole_line, out_of_whole ? whole_line : part_line,
               length * sizeof(float));
    }
}
static void fold__concat_forward(const fold_op_call *call)
{
    for (int input = 0; input < call->n_in; input++)
        for (int row = 0; row < call->rows; row++)
            fold__concat_part(call, fold_row(&call->out[0], row), fold_row(&call->in[input], row), input, 0);
}
static void fold__concat_backward(const fold_op_call *call)
{
    for (int input = 0; input < call->n_in; input++)
        for (int row = 0; row < call->rows && !fold__absent(&call->din[input]); row++)
            fold__concat_part(call, fold_row(&call->dout[0], row), fold_row(&call->din[input], row), input,
                              1);
}

static const char *fold__infer_slice(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    (void)count;
    if (attr[0] < 0 || attr[0] >= in[0].rank)
        return "there is no such axis";
    if (attr[1] < 0 || attr[2] < 1 || attr[1] > in[0].dim[attr[0]] - attr[2])
        return "the slice reaches outside";
    out[0] = in[0];
    out[0].dim[attr[0]] = attr[2];
    return NULL;
}
static void fold__slice_lines(const fold_op_call *call, float *whole, float *part, int into_whole)
{
    const fold__axis axis = fold__around(&call->in_shape[0], call->attr[0]);
    const size_t line = (size_t)axis.length * (size_t)axis.inner,
                 length = (size_t)call->attr[2] * (size_t)axis.inner;
    for (int output = 0; output < axis.outer; output++) {
        float *whole_line = whole + (size_t)output * line + (size_t)call->attr[1] * (size_t)axis.inner,
              *part_line = part + (size_t)output * length;
        memcpy(into_whole ? whole_line : part_line, into_whole ? part_line : whole_line,
               length * sizeof(float));
    }
}
static void fold__slice_forward(const fold_op_call *call)
{
    for (int row = 0; row < call->rows; row++)
        fold__slice_lines(call, fold_row(&call->in[0], row), fold_row(&call->out[0], row), 0);
}
static void fold__slice_backward(const fold_op_call *call)
{
    for (int row = 0; row < call->rows; row++) {
        memset(fold_row(&call->din[0], row), 0, (size_t)fold__in_size(call, 0) * sizeof(float));
        fold__slice_lines(call, fold_row(&call->din[0], row), fold_row(&call->dout[0], row), 1);
    }
}

static const char *fold__infer_transpose(const fold_shape *in, int count, const int32_t *attr,
                                         fold_shape *out)
{
    (void)count;
    if (attr[0] < 0 || attr[1] < 0 || attr[0] >= in[0].rank || attr[1] >= in[0].rank)
        return "there is no such axis";
    out[0] = in[0];
    out[0].dim[attr[0]] = in[0].dim[attr[1]];
    out[0].dim[attr[1]] = in[0].dim[attr[0]];
    return NULL;
}
/* to = from with two axes swapped; `shape` is from's */
static void fold__swap_axes(const fold_shape *shape, const int32_t *axes, const float *from, float *to)
{
    int dim[FOLD_MAX_RANK], step[FOLD_MAX_RANK], index[FOLD_MAX_RANK] = { 0 };
    for (int axis = shape->rank - 1, stride = 1; axis >= 0; axis--) {
        dim[axis] = shape->dim[axis];
        step[axis] = stride;
        stride *= dim[axis];
    }
    const int first = axes[0], second = axes[1], first_length = dim[first], first_step = step[first];
    dim[first] = dim[second];
    dim[second] = first_length;
    step[first] = step[second];
    step[second] = first_step;
    for (int count = fold__shape_size(shape), at = 0; count > 0;
         count--) { /* an odometer over the output's index */
        *to++ = from[at];
        for (int axis = shape->rank - 1; axis >= 0; axis--) {
            at += step[axis];
            if (++index[axis] < dim[axis])
                break;
            at -= step[axis] * dim[axis];
            index[axis] = 0;
        }
    }
}
static void fold__transpose_forward(const fold_op_call *call)
{
    for (int row = 0; row < call->rows; row++)
        fold__swap_axes(&call->in_shape[0], call->attr, fold_row(&call->in[0], row),
                        fold_row(&call->out[0], row));
}
static void fold__transpose_backward(const fold_op_call *call)
{
    for (int row = 0; row < call->rows; row++)
        fold__swap_axes(&call->out_shape[0], call->attr, fold_row(&call->dout[0], row),
                        fold_row(&call->din[0], row));
}

static void fold__pick_forward(const fold_op_call *call)
{
    for (int row = 0; row < call->rows; row++)
        fold_row(&call->out[0], row)[0] = fold_row(&call->in[0], row)[call->data[row * call->data_step]];
}
static void fold__pick_backward(const fold_op_call *call)
{
    for (int row = 0; row < call->rows; row++) {
        memset(fold_row(&call->din[0], row), 0, (size_t)fold__in_size(call, 0) * sizeof(float));
        fold_row(&call->din[0], row)[call->data[row * call->data_step]] = fold_row(&call->dout[0], row)[0];
    }
}

/* -- losses ---------------------------------------------------------------------------------- */

static const char *fold__infer_loss(const fold_shape *in, int count, const int32_t *attr, fold_shape *out)
{
    if (in[0].rank != 1)
        return "needs a vector";
    return fold__infer_to_scalar(in, count, attr, out);
}
static void fold__softmax_xent_forward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        const float *in = fold_row(&call->in[0], row);
        fold_row(&call->out[0], row)[0] =
            fold__softmax_row(fold__engine_of(call)->kernels, call->scratch, in, count) -
            in[call->data[row * call->data_step]];
    }
}
static void fold__softmax_xent_backward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        float *din = fold_row(&call->din[0], row);
        fold__softmax_row(fold__engine_of(call)->kernels, din, fold_row(&call->in[0], row), count);
        din[call->data[row * call->data_step]] -= 1.0f;
        FOLD__MAP(call, scale)(din, din, NULL, NULL, fold_row(&call->dout[0], row)[0], count, 1, NULL);
    }
}
static void fold__softmax_kl_forward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const int count = fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        const float *in = fold_row(&call->in[0], row), *target = fold_row(&call->in[1], row);
        const float log_sum =
            fold__softmax_row(fold__engine_of(call)->kernels, call->scratch, in, (size_t)count);
        FOLD__MAP(call, log)(call->scratch, target, NULL, NULL, 0, (size_t)count, 1, NULL);
        float loss = 0;
        for (int class_index = 0; class_index < count; class_index++)
            if (target[class_index] > 0)
                loss += target[class_index] * (call->scratch[class_index] - (in[class_index] - log_sum));
        fold_row(&call->out[0], row)[0] = loss;
    }
}
static void fold__softmax_kl_backward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const int count = fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        const float *target = fold_row(&call->in[1], row), dout = fold_row(&call->dout[0], row)[0];
        float *din = fold_row(&call->din[0], row);
        fold__softmax_row(fold__engine_of(call)->kernels, din, fold_row(&call->in[0], row), (size_t)count);
        const float total = fold__sum(fold__engine_of(call)->kernels, target, (size_t)count);
        for (int class_index = 0; class_index < count; class_index++)
            din[class_index] = (din[class_index] * total - target[class_index]) * dout;
    }
}
static void fold__bce_forward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        const float *in = fold_row(&call->in[0], row), *target = fold_row(&call->in[1], row);
        FOLD__MAP(call, softplus)(call->scratch, in, NULL, NULL, 0, count, 1, NULL);
        fold_row(&call->out[0], row)[0] = fold__sum(fold__engine_of(call)->kernels, call->scratch, count) -
                                          fold__engine_of(call)->kernels->dot(in, target, count);
    }
}
static void fold__bce_backward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        float *din = fold_row(&call->din[0], row);
        FOLD__MAP(call, sigmoid)(din, fold_row(&call->in[0], row), NULL, NULL, 0, count, 1, NULL);
        FOLD__MAP(call, sub)(din, din, fold_row(&call->in[1], row), NULL, 0, count, 1, NULL);
        FOLD__MAP(call, scale)(din, din, NULL, NULL, fold_row(&call->dout[0], row)[0], count, 1, NULL);
    }
}
static void fold__squared_error_forward(const fold_op_call *call)
{
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        FOLD__MAP(call, sub)
        (call->scratch, fold_row(&call->in[0], row), fold_row(&call->in[1], row), NULL, 0, count, 1, NULL);
        fold_row(&call->out[0], row)[0] =
            fold__engine_of(call)->kernels->dot(call->scratch, call->scratch, count);
    }
}
/* d of a loss of a - b: the same for a, negated for b; `slope` fills it for one row */
static void fold__difference_backward(const fold_op_call *call,
                                      void (*slope)(const fold_op_call *, size_t, float *))
{
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int input = 0; input < 2; input++)
        for (int row = 0; row < call->rows && !fold__absent(&call->din[input]); row++) {
            float *din = fold_row(&call->din[input], row);
            FOLD__MAP(call, sub)
            (call->scratch, fold_row(&call->in[0], row), fold_row(&call->in[1], row), NULL, 0, count, 1,
             NULL);
            slope(call, count, call->scratch);
            FOLD__MAP(call, scale)
            (din, call->scratch, NULL, NULL,
             input ? -fold_row(&call->dout[0], row)[0] : fold_row(&call->dout[0], row)[0], count, 1, NULL);
        }
}
static void fold__squared_slope(const fold_op_call *call, size_t count, float *din)
{
    FOLD__MAP(call, scale)(din, din, NULL, NULL, 2.0f, count, 1, NULL);
}
static void fold__squared_error_backward(const fold_op_call *call)
{
    fold__difference_backward(call, fold__squared_slope);
}
static void fold__huber_forward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const int count = fold__in_size(call, 0);
    const float delta = fold__attr_float(call->attr[0]);
    for (int row = 0; row < call->rows; row++) {
        const float *left = fold_row(&call->in[0], row), *right = fold_row(&call->in[1], row);
        for (int element = 0; element < count; element++) {
            const float difference = left[element] - right[element],
                        size = difference < 0 ? -difference : difference;
            call->scratch[element] =
                size <= delta ? 0.5f * difference * difference : delta * (size - 0.5f * delta);
        }
        fold_row(&call->out[0], row)[0] =
            fold__sum(fold__engine_of(call)->kernels, call->scratch, (size_t)count);
    }
}
static void fold__huber_slope(const fold_op_call *call, size_t count, float *din)
{
    const float delta = fold__attr_float(call->attr[0]);
    for (size_t element = 0; element < count; element++)
        din[element] = din[element] > delta ? delta : din[element] < -delta ? -delta : din[element];
}
static void fold__huber_backward(const fold_op_call *call)
{
    fold__difference_backward(call, fold__huber_slope);
}
static void fold__hinge_forward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        const float *in = fold_row(&call->in[0], row);
        const size_t label = (size_t)call->data[row * call->data_step];
        float loss = 0;
        for (size_t class_index = 0; class_index < count; class_index++) {
            const float margin = 1.0f + in[class_index] - in[label];
            if (class_index != label && margin > 0)
                loss += margin;
        }
        fold_row(&call->out[0], row)[0] = loss;
    }
}
static void fold__hinge_backward(const fold_op_call *call)
{
    FOLD__NO_CONTRACT
    const size_t count = (size_t)fold__in_size(call, 0);
    for (int row = 0; row < call->rows; row++) {
        const float *in = fold_row(&call->in[0], row), dout = fold_row(&call->dout[0], row)[0];
        const size_t label = (size_t)call->data[row * call->data_step];
        float *din = fold_row(&call->din[0], row), violations = 0;
        for (size_t class_index = 0; class_index < count; class_index++) {
            const int counts = class_index != label && 1.0f + in[class_index] - in[label] > 0;
            din[class_index] = counts ? dout : 0;
            violations += counts ? 1.0f : 0.0f;
        }
        din[label] = -violations * dout;
    }
}

/* -- the table ------------------------------------------------------------------------------- */

#define FOLD__IN FOLD_NEEDS_IN
#define FOLD__OUT FOLD_NEEDS_OUT
/* name, inputs, attributes, flags, what backward reads, shapes. CONTRIBUTING.md tells how to add an op. */
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
    X(gelu_erf, 1, 0, 0, FOLD__IN, same)                        \
    X(silu, 1, 0, 0, FOLD__IN, same)                            \
    X(elu, 1, 1, 0, FOLD__IN, same)                             \
    X(sin, 1, 0, 0, FOLD__IN, same)                             \
    X(cos, 1, 0, 0, FOLD__IN, same)                             \
    X(pow, 1, 1, 0, FOLD__IN, same)                             \
    X(floor, 1, 0, FOLD__NO_GRAD, 0, same)                      \
    X(at_least, 1, 1, 0, FOLD__IN, same)                        \
    X(at_most, 1, 1, 0, FOLD__IN, same)                         \
    X(softmax, 1, 0, 0, FOLD__OUT, same)                        \
    X(log_softmax, 1, 0, 0, FOLD__OUT, same)                    \
    X(sum, 1, 1, FOLD__FLOW, 0, axis)                           \
    X(mean, 1, 1, FOLD__FLOW, 0, axis)                          \
    X(amax, 1, 1, 0, FOLD__IN, axis)                            \
    X(amin, 1, 1, 0, FOLD__IN, axis)                            \
    X(variance, 1, 1, 0, FOLD__IN, axis)                        \
    X(logsumexp, 1, 1, 0, FOLD__IN | FOLD__OUT, axis)           \
    X(prod, 1, 1, 0, FOLD__IN, axis)                            \
    X(cumsum, 1, 1, FOLD__FLOW, 0, along)                       \
    X(layer_norm, 3, 1, 0, FOLD__IN, norm)                      \
    X(rms_norm, 2, 1, 0, FOLD__IN, norm)                        \
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
        fold__##name##_forward, fold__##name##_backward, NULL },                              \
      flags },
    FOLD__OPS(FOLD__ROW)
#undef FOLD__ROW
};

/* The name of an attribute, for messages; NULL: it has none worth telling. */
static const char *fold__attr_name(uint32_t op, int index)
{
    static const char *const slice[] = { "axis", "start", "length" };
    switch (op) {
    case FOLD__OP_sum:
    case FOLD__OP_mean:
    case FOLD__OP_amax:
    case FOLD__OP_amin:
    case FOLD__OP_variance:
    case FOLD__OP_logsumexp:
    case FOLD__OP_prod:
    case FOLD__OP_cumsum:
    case FOLD__OP_concat:
    case FOLD__OP_transpose: return "axis";
    case FOLD__OP_leaky: return "slope";
    case FOLD__OP_elu: return "alpha";
    case FOLD__OP_layer_norm:
    case FOLD__OP_rms_norm: return "epsilon";
    case FOLD__OP_pow: return "exponent";
    case FOLD__OP_at_least:
    case FOLD__OP_at_most: return "bound";
    case FOLD__OP_dropout: return "rate";
    case FOLD__OP_huber: return "delta";
    case FOLD__OP_slice: return slice[index];
    default: return NULL;
    }
}
static int fold__attr_is_float(uint32_t op)
{
    switch (op) {
    case FOLD__OP_leaky:
    case FOLD__OP_elu:
    case FOLD__OP_pow:
    case FOLD__OP_at_least:
    case FOLD__OP_at_most:
    case FOLD__OP_layer_norm:
    case FOLD__OP_rms_norm:
    case FOLD__OP_dropout:
    case FOLD__OP_huber: return 1;
    default: return 0;
    }
}

/* Whether an op passes gradient to an input at all. */
static int fold__differentiable(const fold__op_row *op, int input)
{
    if ((op->flags & FOLD__NO_GRAD) || !op->def.backward)
        return 0;
    return !((op->flags & FOLD__NO_GRAD_1) && input == 1);
}

/* ==== room: model ===========================================================================
   Owns: the model and its parameters: values, gradients, the optimiser's state and packed weights, each in
   one span. The arrays of cells and user ops are here, what is in them belongs to the rooms of cells and of
   recording the ops. Calls: kernels, op table, shapes, arena, errors. Must not know recordings. */

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
    const fold__kernels *kernels;
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

static fold__op_row *fold__user_ops(const fold_model *m)
{
    return (fold__op_row *)(void *)m->arrays[FOLD__M_OPS].data;
}
static fold__param_data *fold__params(const fold_model *m)
{
    return (fold__param_data *)(void *)m->arrays[FOLD__M_PARAMS].data;
}
static float *fold__values(const fold_model *m) { return (float *)(void *)m->arrays[FOLD__M_VALUES].data; }
static float *fold__grads(const fold_model *m) { return (float *)(void *)m->arrays[FOLD__M_GRADS].data; }
static float *fold__packs(const fold_model *m) { return (float *)(void *)m->arrays[FOLD__M_PACKS].data; }
static uint32_t *fold__touched(const fold_model *m)
{
    return (uint32_t *)(void *)m->arrays[FOLD__M_TOUCHED].data;
}
static uint8_t *fold__is_touched(const fold_model *m)
{
    return (uint8_t *)m->arrays[FOLD__M_IS_TOUCHED].data;
}

static void fold__model_fail(fold_model *m, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static void fold__model_fail(fold_model *m, fold_status status, const char *format, ...)
{
    va_list args;
    if (!m)
        return;
    va_start(args, format);
    fold__fail_v(&m->error, status, format, args);
    va_end(args);
}

/* Defines the function that gives a desc's defaults, where those are all zero. */
#define FOLD__ZEROS_BY_DEFAULT(type)   \
    FOLD_API type type##_default(void) \
    {                                  \
        type desc;                     \
        memset(&desc, 0, sizeof desc); \
        return desc;                   \
    }

FOLD__ZEROS_BY_DEFAULT(fold_model_desc)

FOLD_API fold_model *fold_model_new(const fold_model_desc *desc)
{
    const fold_model_desc settings = desc ? *desc : fold_model_desc_default();
    const fold_memory memory = fold__memory_or_default(&settings.memory);
    const fold__kernels *kernels = fold__kernels_for(settings.isa);
    if (!memory.alloc || !memory.free)
        return NULL;
    fold_model *m = (fold_model *)memory.alloc(sizeof *m, FOLD__ALIGN, memory.user);
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    m->arena.memory = memory;
    m->arena.array = m->arrays;
    m->arena.count = FOLD__M_COUNT;
    m->kernels = kernels ? kernels : fold__kernels_for(NULL);
    if (!kernels)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "isa '%s' is unknown, or not available here; '%s' is",
                         settings.isa, m->kernels->name);
    m->arena.memory.block = NULL;
    if (memory.block)
        fold__model_fail(m, FOLD_BAD_ARGUMENT,
                         "fold_model_desc: memory.block is for contexts: give a model an alloc");
    m->seed = settings.seed;
    m->inference = settings.inference;
    m->salt = (uint32_t)fold__mix64((uint64_t)(uintptr_t)m ^ 0x51ed2701u) | 1u;
    for (int i = 0; i < FOLD__RATE_SETS; i++)
        m->set_rate[i] = m->set_decay[i] = 1;
    return m;
}

static void fold__release(fold_model *m, void *memory, size_t size)
{
    if (memory)
        m->arena.memory.free(memory, size, m->arena.memory.user);
}
/* A copy of a name; NULL when memory runs out. */
static char *fold__copy_name(fold_model *m, const char *name)
{
    const size_t size = strlen(name) + 1;
    char *copy = (char *)m->arena.memory.alloc(size, FOLD__ALIGN, m->arena.memory.user);
    return copy ? (char *)memcpy(copy, name, size) : NULL;
}
static void fold__release_name(fold_model *m, char *name)
{
    if (name)
        fold__release(m, name, strlen(name) + 1);
}
static void fold__cells_free(fold_model *m);

FOLD_API void fold_model_free(fold_model *m)
{
    if (!m)
        return;
    fold_ctx_free(m->tracer);
    fold__cells_free(m);
    for (uint32_t index = 0; index < m->n_params; index++)
        fold__release_name(m, fold__params(m)[index].name);
    for (uint32_t index = 0; index < m->n_ops; index++)
        fold__release_name(m, (char *)(uintptr_t)fold__user_ops(m)[index].def.name);
    fold__arena_free(&m->arena);
    const fold_memory memory = m->arena.memory;
    memory.free(m, sizeof *m, memory.user);
}

FOLD_API fold_status fold_model_status(const fold_model *m)
{
    return m ? m->error.status : FOLD_BAD_ARGUMENT;
}
FOLD_API const char *fold_model_message(const fold_model *m) { return m ? m->error.text : "no model"; }
FOLD_API void fold_model_clear_error(fold_model *m)
{
    if (m)
        fold__clear_error(&m->error);
}
FOLD_API const char *fold_model_isa(const fold_model *m) { return m ? m->kernels->name : ""; }

/* NULL for handles that are null or another model's. */
static fold__param_data *fold__param_of(const fold_model *m, fold_param param)
{
    if (!m || !param.id || param.salt != m->salt || param.id > m->n_params)
        return NULL;
    return &fold__params(m)[param.id - 1];
}
static int fold__trainable(const fold_model *m, const fold__param_data *param)
{
    return !m->inference && !param->frozen && !param->buffer;
}

static const fold__op_row *fold__op_of(const fold_model *m, uint32_t op)
{
    return op < FOLD__OP_COUNT
               ? &fold__op_table[op]
               : fold__user_ops(m) + (op - FOLD__OP_COUNT);
}

/* -- initial values -------------------------------------------------------------------------- */

typedef struct fold__random {
    uint64_t state;
} fold__random; /* splitmix64 (Steele et al. 2014) */
static uint64_t fold__random_next(fold__random *random)
{
    return fold__mix64(random->state += UINT64_C(0x9e3779b97f4a7c15));
}
static double fold__random_unit(fold__random *random)
{
    return (double)(fold__random_next(random) >> 11) / 9007199254740992.0;
}

/* -2 log(value) for a value in (0, 1], to about 11 digits. The value is mantissa * 2^exponent, and the
   logarithm of the mantissa is 2 artanh(ratio) with ratio = (mantissa - 1) / (mantissa + 1). */
static double fold__minus_2_log(double value)
{
    FOLD__NO_CONTRACT
    uint64_t bits, exponent;
    double mantissa, ratio, square;
    double series = 1.0 / 11;
    memcpy(&bits, &value, sizeof bits);
    /* the mantissa comes to lie in sqrt(1/2) .. sqrt(2) */
    exponent = (bits + (UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e667f3bcd))) >> 52;
    bits -= (exponent - 1023) << 52;
    memcpy(&mantissa, &bits, sizeof mantissa);
    ratio = (mantissa - 1) / (mantissa + 1);
    square = ratio * ratio;
    series = series * square + 1.0 / 9;
    series = series * square + 1.0 / 7;
    series = series * square + 1.0 / 5;
    series = series * square + 1.0 / 3;
    series = series * square + 1;
    return -2 * ((double)((int)exponent - 1023) * 0.69314718055994530942 + 2 * ratio * series);
}

/* Two normal values by the method of Box and Muller (1958). Plain arithmetic alone: they are the same on
   every platform. The angle is one of an eighth of a turn either side of the axis; a bit each turns it by
   half and exchanges the two values. */
static void fold__random_normals(fold__random *random, float scale, float out[2])
{
    FOLD__NO_CONTRACT
    const uint64_t bits = fold__random_next(random);
    const double radius = sqrt(fold__minus_2_log(((double)(uint32_t)(bits >> 32) + 0.5) / 4294967296.0));
    const double angle = ((double)(uint32_t)(bits & 0x3fffffffu) + 0.5 - 536870912.0) *
                         (1.57079632679489661923 / 1073741824.0);
    const double square = angle * angle;
    double sine = 1.0 / 362880;
    double cosine = -1.0 / 3628800;
    const int turned = bits >> 31 & 1;
    const int exchanged = bits >> 30 & 1;
    sine = sine * square - 1.0 / 5040;
    sine = sine * square + 1.0 / 120;
    sine = sine * square - 1.0 / 6;
    sine = (sine * square + 1) * angle;
    cosine = cosine * square + 1.0 / 40320;
    cosine = cosine * square - 1.0 / 720;
    cosine = cosine * square + 1.0 / 24;
    cosine = cosine * square - 0.5;
    cosine = cosine * square + 1;
    out[exchanged] = scale * (float)(radius * cosine * (turned ? -1 : 1));
    out[!exchanged] = scale * (float)(radius * sine);
}

/* Orthonormal vectors along the shorter side by modified Gram-Schmidt, in double. */
static void fold__orthogonalise(float *values, size_t rows, size_t columns, float gain)
{
    FOLD__NO_CONTRACT
    const size_t count = fold__min_size(rows, columns);
    const size_t length = fold__max_size(rows, columns);
    const size_t step = rows <= columns ? columns : 1;   /* from vector to vector */
    const size_t within = rows <= columns ? 1 : columns; /* from value to value of one vector */
    for (size_t vector = 0; vector < count; vector++) {
        for (int pass = 0; pass < 2; pass++) /* twice is enough (Kahan and Parlett) */
            for (size_t earlier = 0; earlier < vector; earlier++) {
                double dot = 0;
                for (size_t i = 0; i < length; i++)
                    dot += (double)values[vector * step + i * within] *
                           (double)values[earlier * step + i * within];
                for (size_t i = 0; i < length; i++)
                    values[vector * step + i * within] -=
                        (float)(dot * (double)values[earlier * step + i * within]);
            }
        double norm = 0;
        for (size_t i = 0; i < length; i++)
            norm += (double)values[vector * step + i * within] * (double)values[vector * step + i * within];
        norm = 1 / sqrt(norm);
        for (size_t i = 0; i < length; i++)
            values[vector * step + i * within] = (float)((double)values[vector * step + i * within] * norm);
    }
    for (size_t i = 0; i < rows * columns; i++)
        values[i] *= gain;
}

FOLD__NOINLINE static void fold__initialise(fold_model *m, float *values, const fold_param_desc *desc,
                                            uint64_t stream)
{
    FOLD__NO_CONTRACT
    const size_t size = (size_t)fold__shape_size(&desc->shape);
    const size_t columns = (size_t)fold__shape_last(&desc->shape);
    const size_t rows = size / columns;
    const float gain = desc->init_scale == 0 ? 1 : desc->init_scale;
    fold__random random = { fold__mix64(m->seed ^ fold__mix64(stream + 1)) };
    float bound = gain;
    switch (desc->init) {
    case FOLD_INIT_ZEROS: memset(values, 0, size * sizeof *values); return;
    case FOLD_INIT_CONSTANT:
        for (size_t i = 0; i < size; i++)
            values[i] = desc->init_scale;
        return;
    case FOLD_INIT_GLOROT: bound = gain * (float)sqrt(6.0 / (double)(rows + columns)); break;
    case FOLD_INIT_HE: bound = gain * (float)sqrt(2.0 / (double)rows); break;
    case FOLD_INIT_ORTHOGONAL: bound = 1; break;
    case FOLD_INIT_UNIFORM:
    case FOLD_INIT_NORMAL: break;
    }
    const int uniform = desc->init == FOLD_INIT_UNIFORM || desc->init == FOLD_INIT_GLOROT;
    for (size_t i = 0; i < size && uniform; i++)
        values[i] = bound * (float)(2 * fold__random_unit(&random) - 1);
    for (size_t i = 0; i < size && !uniform; i += 2) {
        float two[2];
        fold__random_normals(&random, bound, two);
        memcpy(values + i, two, (size - i < 2 ? 1 : 2) * sizeof *values);
    }
    if (desc->init == FOLD_INIT_ORTHOGONAL)
        fold__orthogonalise(values, rows, columns, gain);
}

/* -- parameters ------------------------------------------------------------------------------ */

/* Packs are refreshed by whoever writes values, never by readers. A bias is its own pack. `which`: 1 the
 * weight, 2 its transpose. */
static void fold__pack_part(fold_model *m, const fold__param_data *param, unsigned layouts, int first,
                            int count)
{
    const float *weights = fold__values(m) + param->at;
    float *packs = fold__packs(m);
    if (param->shape.rank == 1)
        memcpy(packs + param->pack + first, weights + first, (size_t)count * sizeof *weights);
    else if ((layouts & 1) && param->pack != FOLD__NO_PACK)
        m->kernels->pack(packs + param->pack, weights, param->shape.dim[0], param->shape.dim[1], 0, first,
                         count);
    if ((layouts & 2) && param->pack_t != FOLD__NO_PACK)
        m->kernels->pack(packs + param->pack_t, weights, param->shape.dim[1], param->shape.dim[0], 1, first,
                         count);
}
static void fold__refresh_rows(fold_model *m, const fold__param_data *param, int first, int count)
{
    fold__pack_part(m, param, param->back_idle ? param->uses : 3, first, count);
}
static void fold__refresh_packs(fold_model *m, const fold__param_data *param)
{
    fold__refresh_rows(m, param, 0, param->shape.dim[0]);
}

/* Before the first gradient of an input: from now on the pack it reads is kept. Many weights never need it (a
   first layer's). param counts from 1; 0 is none. */
static void fold__keep_back_pack(fold_model *m, uint32_t param)
{
    fold__param_data *data = param ? &fold__params(m)[param - 1] : NULL;
    if (!data || !data->back_idle)
        return;
    data->back_idle = 0;
    fold__pack_part(m, data, ~data->uses, 0, data->shape.dim[0]);
}

static int fold__wants_pack(const fold_model *m, unsigned uses, unsigned direct, unsigned other)
{
    return (uses & direct) || (!m->inference && (uses & other));
}

/* Gives a new parameter the places of its packs, behind all others. Returns where the next would begin. */
static size_t fold__place_packs(const fold_model *m, fold__param_data *param)
{
    const int *dim = param->shape.dim;
    const unsigned uses = param->shape.rank == 2 ? param->uses : 0;
    size_t packs = m->packs;
    param->pack = param->pack_t = FOLD__NO_PACK;
    if (param->shape.rank == 1) {
        param->pack = packs;
        packs += fold__round_up(param->size, FOLD__SPAN_ALIGN);
    }
    if (fold__wants_pack(m, uses, FOLD_FOR_LINEAR, FOLD_FOR_LINEAR_T)) {
        param->pack = packs;
        packs += fold__round_up(fold__pack_floats(m->kernels, dim[0], dim[1]), FOLD__SPAN_ALIGN);
    }
    if (fold__wants_pack(m, uses, FOLD_FOR_LINEAR_T, FOLD_FOR_LINEAR)) {
        param->pack_t = packs;
        packs += fold__round_up(fold__pack_floats(m->kernels, dim[1], dim[0]), FOLD__SPAN_ALIGN);
    }
    param->back_idle = !(uses & FOLD_FOR_LINEAR) != !(uses & FOLD_FOR_LINEAR_T);
    return packs;
}

/* Reserves the spans a new parameter needs; 0 when there is no memory. */
static int fold__param_reserve(fold_model *m, const fold__param_data *param, size_t pack_floats)
{
    const size_t end = param->at + fold__round_up(param->size, FOLD__SPAN_ALIGN);
    const size_t bytes = fold__size(end, sizeof(float), 0);
    const size_t rows = (param->uses & FOLD_FOR_LOOKUP) ? (size_t)param->shape.dim[0] : 0;
    fold__arena *arena = &m->arena;
    if (!fold__arena_need(arena, FOLD__M_PARAMS, (m->n_params + 1) * sizeof *param))
        return 0;
    if (!fold__arena_need(arena, FOLD__M_VALUES, bytes))
        return 0;
    if (!m->inference && !fold__arena_need(arena, FOLD__M_GRADS, bytes))
        return 0;
    if (!fold__arena_need(arena, FOLD__M_PACKS, fold__size(m->packs + pack_floats, sizeof(float), 0)))
        return 0;
    if (!fold__arena_need(arena, FOLD__M_TOUCHED, (m->touched_rows + rows) * sizeof(uint32_t)))
        return 0;
    if (!fold__arena_need(arena, FOLD__M_IS_TOUCHED, m->touched_rows + rows))
        return 0;
    return 1;
}

static const char *fold__param_problem(const fold_model *m, const fold_param_desc *desc)
{
    if (!desc->name || !desc->name[0])
        return "a parameter needs a name";
    if (!fold__shape_ok(&desc->shape))
        return "its shape has no rank 1 to 4, or a dimension below 1";
    if (desc->rate_set < 0 || desc->rate_set >= FOLD__RATE_SETS)
        return "its rate_set is not in 0..15";
    if (m->span + (size_t)fold__shape_size(&desc->shape) > INT_MAX - FOLD__SPAN_ALIGN)
        return "a model holds at most 2147483647 values";
    if (fold_param_find(m, desc->name).id)
        return "there is a parameter of that name already";
    if ((desc->uses & (FOLD_FOR_LINEAR | FOLD_FOR_LINEAR_T)) && desc->shape.rank != 2)
        return "a weight of linear ops must have rank 2";
    return NULL;
}

FOLD__ZEROS_BY_DEFAULT(fold_param_desc)

/* Of the parameter that is about to be the model's next. */
static void fold__first_values(fold_model *m, const fold__param_data *param, const fold_param_desc *desc)
{
    const fold__fp saved = fold__fp_enter();
    if (desc->values)
        memcpy(fold__values(m) + param->at, desc->values, param->size * sizeof(float));
    else
        fold__initialise(m, fold__values(m) + param->at, desc, m->n_params);
    fold__fp_leave(saved);
}

FOLD_API fold_param fold_param_new(fold_model *m, const fold_param_desc *desc)
{
    fold_param none = { 0, 0 };
    if (!m || m->error.status)
        return none;
    const char *problem = desc ? fold__param_problem(m, desc) : "no description";
    if (problem) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "parameter '%s': %s", desc && desc->name ? desc->name : "",
                         problem);
        return none;
    }
    fold__param_data param;
    memset(&param, 0, sizeof param);
    param.shape = desc->shape;
    param.size = (size_t)fold__shape_size(&desc->shape);
    param.uses = desc->uses ? desc->uses : desc->shape.rank == 2 ? (unsigned)FOLD_FOR_LINEAR : 0;
    param.frozen = desc->frozen;
    param.buffer = desc->buffer;
    param.rate_set = desc->rate_set;
    param.zeros_by_default = desc->init == FOLD_INIT_ZEROS && !desc->values;
    param.grad_clear = 1;
    param.at = m->span;
    param.touched_at = m->touched_rows;
    const size_t packs = fold__place_packs(m, &param);
    param.name = fold__copy_name(m, desc->name);
    if (!param.name || !fold__param_reserve(m, &param, packs - m->packs)) {
        fold__release_name(m, param.name);
        fold__model_fail(m, FOLD_NO_MEMORY, "parameter '%s': out of memory", desc->name);
        return none;
    }
    const size_t padded = fold__round_up(param.size, FOLD__SPAN_ALIGN);
    memset(fold__values(m) + param.at, 0, padded * sizeof(float));
    if (!m->inference)
        memset(fold__grads(m) + param.at, 0, padded * sizeof(float));
    fold__first_values(m, &param, desc);
    if (param.uses & FOLD_FOR_LOOKUP) {
        memset(fold__is_touched(m) + m->touched_rows, 0, (size_t)param.shape.dim[0]);
        m->touched_rows += (size_t)param.shape.dim[0];
    }
    m->packs = packs;
    m->span += padded;
    fold__params(m)[m->n_params++] = param;
    m->layout++;
    fold__refresh_packs(m, &param);
    const fold_param handle = { m->n_params, m->salt };
    return handle;
}

static fold_param fold__param_simple(fold_model *m, const char *name, fold_shape shape, fold_init init,
                                     float scale, unsigned uses)
{
    fold_param_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.name = name;
    desc.shape = shape;
    desc.init = init;
    desc.init_scale = scale;
    desc.uses = uses;
    return fold_param_new(m, &desc);
}
FOLD_API fold_param fold_weight_new(fold_model *m, const char *name, int inputs, int outputs)
{
    return fold__param_simple(m, name, fold_shape2(inputs, outputs), FOLD_INIT_GLOROT, 1, FOLD_FOR_LINEAR);
}
FOLD_API fold_param fold_bias_new(fold_model *m, const char *name, int count)
{
    return fold__param_simple(m, name, fold_shape1(count), FOLD_INIT_ZEROS, 0, 0);
}
FOLD_API fold_param fold_gain_new(fold_model *m, const char *name, int count)
{
    return fold__param_simple(m, name, fold_shape1(count), FOLD_INIT_CONSTANT, 1, 0);
}
FOLD_API fold_param fold_table_new(fold_model *m, const char *name, int rows, int width)
{
    return fold__param_simple(m, name, fold_shape2(rows, width), FOLD_INIT_NORMAL, 0.1f, FOLD_FOR_LOOKUP);
}

FOLD_API int fold_param_is_null(fold_param param) { return !param.id; }
FOLD_API int fold_param_count(const fold_model *m) { return m ? (int)m->n_params : 0; }
FOLD_API fold_param fold_param_at(const fold_model *m, int index)
{
    fold_param param = { 0, 0 };
    if (m && index >= 0 && (uint32_t)index < m->n_params) {
        param.id = (uint32_t)index + 1;
        param.salt = m->salt;
    }
    return param;
}
FOLD_API fold_param fold_param_find(const fold_model *m, const char *name)
{
    for (uint32_t index = 0; m && name && index < m->n_params; index++)
        if (!strcmp(fold__params(m)[index].name, name))
            return fold_param_at(m, (int)index);
    return fold_param_at(m, -1);
}
FOLD_API const char *fold_param_name(const fold_model *m, fold_param param)
{
    const fold__param_data *data = fold__param_of(m, param);
    return data ? data->name : "";
}
FOLD_API fold_shape fold_param_shape(const fold_model *m, fold_param param)
{
    const fold__param_data *data = fold__param_of(m, param);
    fold_shape none = { 0, { 0, 0, 0, 0 } };
    return data ? data->shape : none;
}
FOLD_API void fold_param_freeze(fold_model *m, fold_param param, int frozen)
{
    fold__param_data *data = fold__param_of(m, param);
    if (data) {
        data->frozen = frozen;
        m->layout++;
    } else
        fold__model_fail(m, FOLD_BAD_HANDLE, "fold_param_freeze: not a parameter of this model");
}
FOLD_API const float *fold_param_value(const fold_model *m, fold_param param)
{
    const fold__param_data *data = fold__param_of(m, param);
    return data ? fold__values(m) + data->at : NULL;
}
FOLD_API const float *fold_param_grad(const fold_model *m, fold_param param)
{
    const fold__param_data *data = fold__param_of(m, param);
    return data && !m->inference ? fold__grads(m) + data->at : NULL;
}
FOLD_API float *fold_values_write_begin(fold_model *m, fold_param param)
{
    const fold__param_data *data = fold__param_of(m, param);
    if (!m || (param.id && !data))
        return NULL;
    return data ? fold__values(m) + data->at : fold__values(m);
}
FOLD_API void fold_values_write_end(fold_model *m, fold_param param)
{
    if (!m)
        return;
    const fold__param_data *data = fold__param_of(m, param);
    for (uint32_t index = 0; index < m->n_params; index++)
        if (!param.id || data == &fold__params(m)[index])
            fold__refresh_packs(m, &fold__params(m)[index]);
    m->version++;
}
FOLD_API const float *fold_model_values(const fold_model *m, int *count)
{
    if (count)
        *count = m ? (int)m->span : 0;
    return m ? fold__values(m) : NULL;
}
FOLD_API const float *fold_model_grads(const fold_model *m, int *count)
{
    if (count)
        *count = !m || m->inference ? 0 : (int)m->span;
    return !m || m->inference ? NULL : fold__grads(m);
}
FOLD_API void fold_model_scale_rates(fold_model *m, int rate_set, float rate, float decay)
{
    if (!m)
        return;
    if (rate_set < 0 || rate_set >= FOLD__RATE_SETS) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "fold_model_scale_rates: rate set %d is not in 0..15",
                         rate_set);
        return;
    }
    m->set_rate[rate_set] = rate;
    m->set_decay[rate_set] = decay;
}

/* -- gradients ------------------------------------------------------------------------------- */

static void fold__touch_row(fold_model *m, fold__param_data *param, uint32_t row)
{
    uint8_t *is_touched = fold__is_touched(m) + param->touched_at;
    if (is_touched[row])
        return;
    is_touched[row] = 1;
    fold__touched(m)[param->touched_at + param->touched++] = row;
}

static int fold__is_sparse(const fold__param_data *param)
{
    return (param->uses & FOLD_FOR_LOOKUP) && !param->grad_dense;
}

/* Notes that a gradient is zero again. */
static void fold__forget_grad(fold_model *m, fold__param_data *param)
{
    for (uint32_t touch = 0; touch < param->touched; touch++)
        fold__is_touched(m)[param->touched_at + fold__touched(m)[param->touched_at + touch]] = 0;
    param->touched = 0;
    param->grad_dense = 0;
    param->grad_clear = 1;
}

/* Nothing wrote it since it was cleared. */
static int fold__grad_is_zero(const fold__param_data *param) { return param->grad_clear && !param->touched; }

static void fold__clear_grad(fold_model *m, fold__param_data *param)
{
    if (fold__grad_is_zero(param))
        return;
    float *grads = fold__grads(m) + param->at;
    const size_t width = param->size / (size_t)param->shape.dim[0];
    if (!fold__is_sparse(param))
        memset(grads, 0, param->size * sizeof *grads);
    else
        for (uint32_t touch = 0; touch < param->touched; touch++)
            memset(grads + fold__touched(m)[param->touched_at + touch] * width, 0, width * sizeof *grads);
    fold__forget_grad(m, param);
}

FOLD_API float *fold_grads_write_begin(fold_model *m, fold_param param)
{
    const fold__param_data *data = fold__param_of(m, param);
    if (!m || m->inference || (param.id && !data))
        return NULL;
    return data ? fold__grads(m) + data->at : fold__grads(m);
}

/* Notes that a gradient was written: rows of a lookup table that are not zero count as touched. */
static void fold__note_grad(fold_model *m, fold__param_data *param)
{
    const size_t width = param->size / (size_t)param->shape.dim[0];
    const float *grads = fold__grads(m) + param->at;
    param->grad_clear = 0;
    for (size_t at = 0; at < param->size && fold__is_sparse(param); at++)
        if (grads[at] != 0)
            fold__touch_row(m, param, (uint32_t)(at / width));
}
FOLD_API void fold_grads_write_end(fold_model *m, fold_param param)
{
    if (!m)
        return;
    const fold__param_data *data = fold__param_of(m, param);
    for (uint32_t index = 0; index < m->n_params && !m->inference; index++)
        if (!param.id || data == &fold__params(m)[index])
            fold__note_grad(m, &fold__params(m)[index]);
}

FOLD_API void fold_grads_clear(fold_model *m)
{
    if (!m)
        return;
    for (uint32_t index = 0; index < m->n_params && !m->inference; index++)
        fold__clear_grad(m, &fold__params(m)[index]);
}

/* ==== room: the context's data ==============================================================
   Owns: the great structs (nodes, signatures, programs, cells, the context) and the arrays that they lie in:
   how these grow, and what is said when they cannot. Calls: arena, errors, the model's structs. Must not know
   what is recorded or how it runs. It names the arrays of runs too, so that one table holds all arrays, but
   knows nothing else of a run. */

/* Every array of a context that grows, in the order in which they lie in a caller's block: what it is called
   in the enum, the type of an element, the pointer to it, and what it holds. From this table follow the enum,
   the pointers and their renewal after arrays have moved.
     NODE   an element for every node, by id: a member of the context
     EDGE   an element for every operand of every node, by edge: a member of the context
     KEEP   what stays when the array grows: a member of the context
     BRIEF  what need not stay when the array grows: a member of the context
     RUN    a member of the run; RUN_BRIEF: and what it holds need not stay */
#define FOLD__ARRAYS(NODE, EDGE, KEEP, BRIEF, RUN, RUN_BRIEF)                                             \
    NODE(SIG, uint32_t, sig)                 /* of a call: its signature */                               \
    NODE(KIND, uint8_t, kind)                /* what the node is, and flags */                            \
    NODE(FIRST_EDGE, uint32_t, first_edge)   /* its operands end where those of the next node begin */    \
    NODE(SOURCE, uint32_t, source)           /* the value that it shows: its own or, a window, another */ \
    NODE(OFFSET, uint32_t, offset)           /* of a window in that value, in floats */                   \
    NODE(SHAPE, uint32_t, shape)             /* index into `shapes` */                                    \
    NODE(PLACE, uint32_t, place)             /* of its value in `data`, in 16 floats */                   \
    NODE(NODE_DATA, uint64_t, node_data)     /* by kind: see the accessors fold__node_… */              \
    NODE(VALUE_ROW, float *, value)          /* in a run: where a value that no op makes lies */          \
    NODE(CALLS, uint32_t, calls)             /* the nodes that are ops or calls of cells, in order */     \
    EDGE(EDGE_SOURCE, uint32_t, edge_source) /* the value that is read */                                 \
    EDGE(EDGE_OFFSET, uint32_t, edge_offset) /* its first float that is read */                           \
    KEEP(DATA, float, data)                  /* copied inputs, kept values and gradients */               \
    KEEP(PARAM_NODES, uint32_t, param_nodes) /* for every parameter its node, plain and shared */         \
    KEEP(TWINS, uint32_t, twins)             /* hash table of nodes: identical calls */                   \
    KEEP(FOUND, fold__found, found)          /* ranges of nodes that samples share by merging */          \
    KEEP(KEPT_GRADS, fold__kept_grad, kept_grads)                                                         \
    KEEP(STEPS, fold_node, steps)        /* of an unrolled layer while it is recorded */                  \
    KEEP(SIGS, fold__sig, sigs)          /* signatures; 0 is none */                                      \
    KEEP(SIG_TABLE, uint32_t, sig_table) /* hash table of signatures */                                   \
    KEEP(KEYS, uint32_t, keys)           /* words that tell signatures apart */                           \
    KEEP(SHAPES, fold__shape_entry, shapes)                                                               \
    KEEP(OPS, fold__body_op, ops)             /* of the programs of signatures that are one op */         \
    KEEP(REFS, fold__ref, refs)               /* their operands */                                        \
    KEEP(OP_SHAPES, fold_shape, op_shapes)    /* and shapes */                                            \
    KEEP(VALUES, fold__value, values)         /* and values */                                            \
    RUN_BRIEF(NODE_ARRAYS, char, node_arrays) /* what a run knows of nodes: see FOLD__RUN_NODE_ARRAYS */  \
    RUN(KNOWN, fold__known, known)            /* of every signature of the context */                     \
    RUN(ANALYSES, fold__analysis, analysis)                                                               \
    RUN(RUN_SIGS, fold__run_sig, run_sig)       /* signatures of this run */                              \
    RUN(INFO, fold__value_info, info)           /* of values, inputs and operands of their programs */    \
    RUN(BATCHES, fold__batch, batch)            /* in the order in which they run */                      \
    RUN(GROUPS, fold__group, group)             /* of samples; the head first, the tail last */           \
    RUN(GROUP_SIGS, fold__group_sig, group_sig) /* signatures of groups, group by group */                \
    RUN(BUFFERS, fold__buffer, buffer)          /* of signatures of groups */                             \
    RUN(USES, fold__use, use)                   /* of parameters and shared nodes */                      \
    KEEP(PLANS, char, plans)                    /* kept plans: see the plan cache */                      \
    RUN(WORKERS, fold__worker, worker)          /* one for every thread */                                \
    BRIEF(PLANNING, char, planning)             /* what one step of planning needs */                     \
    BRIEF(FEEDS, uint64_t, feeds)               /* which signature feeds which: see fold__group_sig */    \
    RUN_BRIEF(REGION, float, region)            /* values and gradients of groups */                      \
    RUN_BRIEF(SCRATCH, float, scratch)          /* of workers */                                          \
    RUN_BRIEF(SUMS, float, sums)                /* of the uses of parameters */                           \
    KEEP(TABLE_ROWS, uint32_t, table_rows)      /* rows of tables that this run's lookups touch */        \
    KEEP(LOOK, char, look)                      /* while something is printed */                          \
    KEEP(TRACE, fold__event, trace)             /* events of batches, in equal parts for every worker */

#define FOLD__NO_ARRAY(name, type, pointer)
enum {
#define FOLD__ARRAY_NAME(name, type, pointer) FOLD__ARRAY_##name,
    FOLD__ARRAYS(FOLD__ARRAY_NAME, FOLD__ARRAY_NAME, FOLD__ARRAY_NAME, FOLD__ARRAY_NAME, FOLD__ARRAY_NAME,
                 FOLD__ARRAY_NAME)
#undef FOLD__ARRAY_NAME
        FOLD__ARRAY_COUNT
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
   elements, or a parameter; `offset` floats into it. */
enum { FOLD__FROM_VALUE, FOLD__FROM_INPUT, FOLD__FROM_LIST, FOLD__FROM_PARAM };
typedef struct fold__ref {
    uint32_t kind, index, offset;
} fold__ref;

/* One op of a program. Refs, shapes (inputs, then outputs) and values are ranges of the program's. */
typedef struct fold__body_op {
    uint32_t op, first_ref, first_shape, first_value;
    uint8_t n_in, n_out;
    uint8_t elem; /* it runs once for every element of the list */
    uint8_t uses_dropout;
    int32_t attr[4];
    uint32_t param[2]; /* id, 0: none */
    uint64_t data;     /* constant data; of dropout: the ordinal of the draw */
} fold__body_op;

/* A value that an op of a program makes. */
typedef struct fold__value {
    uint32_t size;
    uint32_t op;    /* the op that makes it */
    uint8_t elem;   /* there is one for every element of the list */
    uint8_t passes; /* some output's gradient reaches it */
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

/* An op of a traced body as it was recorded; the ops of eager calls are held against it. */
typedef struct fold__trace_op {
    uint32_t op;
    uint32_t hash; /* of its operands and attributes */
    int live;      /* it is in the program */
} fold__trace_op;

/* A layer's cell once more, given an input's products instead of the input: what contexts that merge
   identical calls record for a looked-up word. cell null: there is none. */
typedef struct fold__projection {
    fold_cell cell;
    fold_param weight[2], bias[2]; /* of its products */
} fold__projection;

typedef struct fold__cell_data {
    char *name;
    void *user;
    fold_cell_desc desc;
    fold__program program;
    fold__trace_op *trace;
    int n_trace, n_values_out;
    fold_shape out[FOLD_MAX_OUT];
    int max_of_list; /* an empty list is an error */
    fold__projection projection;
    int is_projected; /* it is another's projection: fold_model_print does not list it */
    void *memory;     /* one block behind all of the above */
    size_t memory_size;
} fold__cell_data;

static fold__cell_data *fold__cells(const fold_model *m)
{
    return (fold__cell_data *)(void *)m->arrays[FOLD__M_CELLS].data;
}

#define FOLD__CELL_OP 0x8000u /* key word: op ids from here on are cells */

/* A signature: the key (compared in full) and what follows from it. Key: op and inputs, attributes,
   parameters, input shapes, shared operands, tag. */
typedef struct fold__sig {
    uint32_t key, key_words, hash;
    uint32_t op;       /* or FOLD__CELL_OP | cell */
    uint32_t shared;   /* mask of shared inputs */
    uint32_t tag_cell; /* in eager and traced bodies: the call whose op this is; else 0 */
    uint32_t tag_op;   /* 1 + the op's ordinal in that body; else 0 */
    uint32_t first_op; /* its program, in the context's pools; a cell's is the model's */
    uint32_t first_ref;
    uint32_t first_shape;
    uint32_t first_value;
    uint32_t in_shape; /* key word of the first input's shape */
    uint8_t n_in, n_list, n_out, is_cell;
    uint64_t differentiable; /* mask of fixed inputs, then list components */
    uint32_t out_shape[FOLD_MAX_OUT];
} fold__sig;

typedef struct fold__shape_entry {
    fold_shape shape;
    uint32_t size;
    uint32_t next; /* 1 + that of the shape before it in its bucket; 0: it is the last */
} fold__shape_entry;
/* Nodes [first, last] that samples share because identical calls were merged. */
typedef struct fold__found {
    uint32_t first, last;
} fold__found;
typedef struct fold__kept_grad {
    uint32_t node, place, filled;
} fold__kept_grad;

/* Sets of kinds, with bit `kind` for each, flags ELEM and SHARED included: those of values per list element
   while tracing, and those of the markers that stand for them in an eager body. */
#define FOLD__KINDS_PER_ELEMENT 0xff00ff00u
#define FOLD__KINDS_MARKER 0x80808080u

/* An operand: what lies from float `offset` on in the value `source`. */
typedef struct fold__operand {
    uint32_t source, offset, shape;
    uint8_t kind;
} fold__operand;

/* The eager or traced body being recorded. */
typedef struct fold__frame {
    uint32_t cell;     /* 1 + its id; 0: no body is recorded */
    uint32_t tag;      /* what tells its ops from those of other calls: the call's signature */
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

enum {
    FOLD__RECENT = 64,
    FOLD__SHAPE_BUCKETS = 64,
    FOLD__GROUP_ROWS = 12, /* with fewer rows a batch, weights are read too often */
    FOLD__MOST_ROWS = 64
};

struct fold_ctx {
    /* memory and errors */
    fold__arena arena;
    fold__array arrays[FOLD__ARRAY_COUNT];
    uint64_t moves; /* how often arrays may have moved */
    fold_model *model;
    fold__error error;
    fold__error read_error; /* of the last read, which does not stick */
    int unusable;           /* it was made with wrong settings: its error stays */

    /* settings */
    int training;
    int eager;
    int dedupe;
    fold_schedule schedule;
    size_t group_bytes; /* of a group at least */
    size_t group_rows;  /* of a group at least, on average of its batches */
    uint64_t (*clock)(void *user);
    void *clock_user;
    size_t trace_events; /* of each thread, at most */
    int threads;
    fold_parallel_for *parallel_for;
    void *pool;

    /* the recording */
    uint32_t epoch; /* what its handles have */
    uint64_t resets;
    uint64_t seed;    /* of dropout, from the last fold_dropout_seed on */
    uint64_t draws;   /* of dropout since then, also over resets; of a body that is traced, its own */
    uint32_t n_nodes; /* node ids start at 1 */
    uint32_t n_edges;
    uint32_t n_calls;
    uint32_t node_cap; /* how many nodes and edges there is room for */
    uint32_t edge_cap;
    size_t data_used; /* floats */
#define FOLD__ARRAY_MEMBER(name, type, pointer) type *pointer;
    FOLD__ARRAYS(FOLD__ARRAY_MEMBER, FOLD__ARRAY_MEMBER, FOLD__ARRAY_MEMBER, FOLD__ARRAY_MEMBER,
                 FOLD__NO_ARRAY, FOLD__NO_ARRAY)
    uint32_t *trace_hash;  /* `place` in a tracer: of an op, what identifies it in its body */
    uint32_t *element_tag; /* `place` of a marker of list elements: what identifies it in its body */
    uint32_t *header_call; /* `place` of the header of an eager call that merges: the call's first output */
    uint32_t n_keeps;
    uint32_t n_kept_grads;
    uint32_t twins_used;
    uint32_t twins_size;
    uint32_t n_found;
    int kept_concats;      /* some gradient is kept of a concatenation */
    uint32_t done_version; /* of the model, when kept values were computed */
    int any_done;
    int values_shown; /* the caller was given the address of a value of this recording */
    fold__frame frame;

    /* signatures */
    uint32_t n_sigs;
    uint32_t n_shapes;
    uint32_t shapes_before; /* this recording */
    uint32_t table_size; /* of the hash table */
    uint32_t keys_used;  /* how full the pools of keys and programs are */
    uint32_t ops_used;
    uint32_t refs_used;
    uint32_t op_shapes_used;
    uint32_t values_used;
    uint32_t sig_tables; /* how often signatures were forgotten */
    uint64_t forgot_at;  /* the reset since which idle signatures were forgotten */
    int pinned;          /* signatures are in use beside the recording: none may be forgotten */
    size_t block_peak;   /* bytes of the block that a recording before the reset would have needed */
    size_t lacking;      /* bytes that this recording was refused */
    uint32_t recent[FOLD__RECENT]; /* signatures, by what is quick to tell of a request; 0: none */
    uint32_t shape_bucket[FOLD__SHAPE_BUCKETS]; /* 1 + the newest shape of each hash; 0: none */
    uint32_t row_of;                            /* the table looked into last; 0: none */
    uint32_t row_shape;                         /* the shape of its rows */

    /* the run */
    fold_stats stats;
    struct fold__run *run;
};

/* What `node_data` holds, by kind of node. It is read by the accessors below; parameters count from 0 in it.
   - OP: what the op or call was recorded with and is no part of its signature, see fold__request.data. In a
     product, the concatenation whose parts it reads: fold__node_whole. In a copy at an output of an eager
     call, where the nodes of that call lie: fold__barrier_first_node and those below it.
   - EXTRA: the node of its call, which is the call's first output: fold__node_call.
   - INPUT: in a traced body, which of the body's inputs it is: fold__node_ordinal.
   - REF: the address of the caller's values: fold__node_address.
   - LOOKUP: the table and the row: fold__node_table and fold__node_table_row.
   - PARAM: the parameter: fold__node_param.
   - WINDOW: how many outputs there are, where it stands for the first of an eager or inlined call, else 0:
     fold__node_outputs. In the header of an eager call that merges: where the call's draws begin.
   - ELEMS: the length of the list. */
FOLD__INLINE uint64_t fold__node_op_data(const fold_ctx *f, uint32_t id) { return f->node_data[id]; }
FOLD__INLINE uint32_t fold__node_whole(const fold_ctx *f, uint32_t id) { return (uint32_t)f->node_data[id]; }
FOLD__INLINE uint32_t fold__node_call(const fold_ctx *f, uint32_t id) { return (uint32_t)f->node_data[id]; }
FOLD__INLINE uint32_t fold__node_ordinal(const fold_ctx *f, uint32_t id)
{
    return (uint32_t)f->node_data[id];
}
FOLD__INLINE float *fold__node_address(const fold_ctx *f, uint32_t id)
{
    return (float *)(uintptr_t)f->node_data[id];
}
FOLD__INLINE uint32_t fold__node_param(const fold_ctx *f, uint32_t id) { return (uint32_t)f->node_data[id]; }
FOLD__INLINE int fold__node_outputs(const fold_ctx *f, uint32_t id) { return (int)f->node_data[id]; }

static uint64_t fold__lookup_data(uint32_t table, uint32_t row) { return (uint64_t)table << 32 | row; }
FOLD__INLINE uint32_t fold__node_table(const fold_ctx *f, uint32_t id)
{
    return (uint32_t)(f->node_data[id] >> 32);
}
FOLD__INLINE uint32_t fold__node_table_row(const fold_ctx *f, uint32_t id)
{
    return (uint32_t)f->node_data[id];
}

/* Of a copy at an output of an eager call: the first node of the call, how many outputs the call has, and the
   node of the copy at its first output. */
static uint64_t fold__barrier_data(uint32_t first_node, int n_out, int output)
{
    return (uint64_t)first_node << 32 | (uint64_t)n_out << 8 | (1u + (uint32_t)output);
}
FOLD__INLINE uint32_t fold__barrier_first_node(const fold_ctx *f, uint32_t id)
{
    return (uint32_t)(f->node_data[id] >> 32);
}
FOLD__INLINE uint32_t fold__barrier_outputs(const fold_ctx *f, uint32_t id)
{
    return (uint32_t)f->node_data[id] >> 8;
}
FOLD__INLINE uint32_t fold__barrier_first_output(const fold_ctx *f, uint32_t id)
{
    return id + 1 - ((uint32_t)f->node_data[id] & 255u);
}

/* The kind of a node, without its flags. */
FOLD__INLINE uint32_t fold__kind_of(const fold_ctx *f, uint32_t id) { return f->kind[id] & FOLD__KIND_MASK; }

static size_t fold__ctx_bytes(void);

static void fold__fail(fold_ctx *f, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static void fold__fail(fold_ctx *f, fold_status status, const char *format, ...)
{
    va_list args;
    if (!f)
        return;
    va_start(args, format);
    fold__fail_v(&f->error, status, format, args);
    va_end(args);
}
static int fold__broken(const fold_ctx *f) { return !f || f->error.status || f->model->error.status; }

/* Points anew to arrays that may have moved. */
static void fold__renew(fold_ctx *f)
{
#define FOLD__RENEW(name, type, pointer) f->pointer = (type *)(void *)f->arrays[FOLD__ARRAY_##name].data;
    FOLD__ARRAYS(FOLD__RENEW, FOLD__RENEW, FOLD__RENEW, FOLD__RENEW, FOLD__NO_ARRAY, FOLD__NO_ARRAY)
#undef FOLD__RENEW
    f->trace_hash = f->element_tag = f->header_call = f->place;
}

/* Bytes in use of the node and edge arrays, which fill their slack without asking. */
static const uint8_t fold__node_bytes[] = {
#define FOLD__ELEMENT_BYTES(name, type, pointer) sizeof(type),
    FOLD__ARRAYS(FOLD__ELEMENT_BYTES, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY,
                 FOLD__NO_ARRAY)
#undef FOLD__ELEMENT_BYTES
};
enum { FOLD__NODE_ARRAYS = sizeof fold__node_bytes };
static size_t fold__array_use(const fold_ctx *f, int which)
{
    const int node = which - FOLD__ARRAY_SIG;
    size_t use = f->arrays[which].need;
    if (node >= 0 && node < FOLD__NODE_ARRAYS)
        use = fold__max_size(use, ((size_t)f->n_nodes + 2) * fold__node_bytes[node]);
    if (which == FOLD__ARRAY_EDGE_SOURCE || which == FOLD__ARRAY_EDGE_OFFSET)
        use = fold__max_size(use, (size_t)f->n_edges * 4);
    return use;
}
static void fold__note_use(fold_ctx *f)
{
    for (int i = FOLD__ARRAY_SIG; i <= FOLD__ARRAY_EDGE_OFFSET; i++)
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
        const uint32_t fit = fold__capacity(f, FOLD__ARRAY_SIG + i, fold__node_bytes[i]);
        nodes = fit < nodes ? fit : nodes;
    }
    const uint32_t sources = fold__capacity(f, FOLD__ARRAY_EDGE_SOURCE, 4);
    const uint32_t offsets = fold__capacity(f, FOLD__ARRAY_EDGE_OFFSET, 4);
    f->node_cap = nodes < 2 ? 0 : nodes - 2;
    f->edge_cap = sources < offsets ? sources : offsets;
}

/* The size of a block that holds the context and all that was asked for since the reset. */
static size_t fold__block_bytes(const fold_ctx *f)
{
    size_t bytes = fold__ctx_bytes() + f->lacking;
    for (int i = 0; i < FOLD__ARRAY_COUNT; i++)
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
        fold__renew(f);
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
        if (!fold__need(f, FOLD__ARRAY_SIG + i, count, fold__node_bytes[i]))
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
    if (!fold__need(f, FOLD__ARRAY_EDGE_SOURCE, count, 4) ||
        !fold__need(f, FOLD__ARRAY_EDGE_OFFSET, count, 4))
        return 0;
    fold__renew(f);
    return 1;
}

/* Room for `floats` in the recording's data, aligned; its place (in 16 floats), or FOLD__NONE. */
static uint32_t fold__place_data(fold_ctx *f, size_t floats)
{
    const size_t at = f->data_used, end = at + fold__round_up(floats, 16);
    if (end / 16 >= FOLD__NONE || !fold__need(f, FOLD__ARRAY_DATA, end, sizeof(float)))
        return FOLD__NONE;
    f->data_used = end;
    fold__renew(f);
    return (uint32_t)(at / 16);
}
static float *fold__at_place(const fold_ctx *f, uint32_t place) { return f->data + (size_t)place * 16; }

/* ==== room: signatures ======================================================================
   Owns: the shapes and signatures of a context: what tells calls apart, the program that a signature runs,
   and when idle signatures are forgotten. Calls: the context's data, op table, model. Must not know how calls
   are batched or run; a run is told only that signatures were forgotten. */

/* A shape that is new to the context. Shapes of before, which stay, are no reason to run out of memory: there
   is always room for the first of them, beside those that a recording adds. */
enum { FOLD__FIRST_SHAPES = 64 };
static FOLD__NOINLINE uint32_t fold__new_shape(fold_ctx *f, const fold_shape *shape, uint32_t *bucket)
{
    const uint32_t count = f->n_shapes + 1, added = count - f->shapes_before;
    if (!fold__need(f, FOLD__ARRAY_SHAPES, fold__max_size(count, FOLD__FIRST_SHAPES + added),
                    sizeof(fold__shape_entry)))
        return FOLD__NONE;
    fold__renew(f);
    fold__shape_entry *entry = &f->shapes[f->n_shapes];
    entry->shape = *shape;
    entry->size = (uint32_t)fold__shape_size(shape);
    entry->next = *bucket;
    *bucket = count;
    return f->n_shapes++;
}
static FOLD__NOINLINE uint32_t fold__intern_shape(fold_ctx *f, const fold_shape *shape)
{
    const uint32_t hash = (uint32_t)shape->dim[0] + 2 * (uint32_t)fold__shape_last(shape);
    uint32_t *bucket = &f->shape_bucket[hash % FOLD__SHAPE_BUCKETS];
    for (uint32_t index = *bucket; index; index = f->shapes[index - 1].next)
        if (fold__shape_same(&f->shapes[index - 1].shape, shape))
            return index - 1;
    return fold__new_shape(f, shape, bucket);
}
static int fold__is_op(const fold_ctx *f, uint32_t id) { return fold__kind_of(f, id) == FOLD__OP; }
static uint32_t fold__value_size(const fold_ctx *f, uint32_t id) { return f->shapes[f->shape[id]].size; }

static uint32_t fold__hash_words(const uint32_t *words, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
    return (uint32_t)(hash >> 16);
}

/* The elements of a list: component c of element e is second[e] when there is a second array and c is 1, else
   first[e * step + c]. Inside a traced or eager body: whole lists of values, by their nodes. */
typedef struct fold__list {
    const fold_node *first, *second;
    size_t step, count;
    uint32_t elems[2], elems_offset[2];
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

static void fold__clear_request(fold__request *request)
{
    memset(request, 0, offsetof(fold__request, list_shape));
}

/* The shape and size of an input of a signature; those of the list's components follow the fixed inputs. */
FOLD__INLINE const fold__shape_entry *fold__sig_input(const fold_ctx *f, const fold__sig *sig, uint32_t input)
{
    return &f->shapes[f->keys[sig->key + sig->in_shape + input]];
}

/* The cell of a call's op. */
static fold__cell_data *fold__called_cell(const fold_model *m, uint32_t op)
{
    return &fold__cells(m)[op & ~FOLD__CELL_OP];
}
FOLD__INLINE const fold__sig *fold__node_sig(const fold_ctx *f, uint32_t id) { return &f->sigs[f->sig[id]]; }

static const char *fold__request_name(const fold_ctx *f, uint32_t op)
{
    return op & FOLD__CELL_OP ? fold__called_cell(f->model, op)->name : fold__op_of(f->model, op)->def.name;
}

/* The program of a signature. Pointers hold until the next recording call. */
static FOLD__NOINLINE fold__program fold__program_of(const fold_ctx *f, const fold__sig *sig)
{
    if (sig->is_cell)
        return fold__called_cell(f->model, sig->op)->program;
    fold__program program;
    program.n_ops = 1;
    program.n_refs = sig->n_in + sig->n_list;
    program.n_values = program.n_out = sig->n_out;
    program.n_in = sig->n_in;
    program.n_list = sig->n_list;
    program.is_cell = 0;
    program.op = f->ops + sig->first_op;
    program.ref = f->refs + sig->first_ref;
    program.out = program.ref + program.n_refs;
    program.shape = f->op_shapes + sig->first_shape;
    program.value = f->values + sig->first_value;
    program.n_draws = program.op->uses_dropout;
    return program;
}

/* Makes the one-op program of a new signature. */
static int fold__make_program(fold_ctx *f, fold__sig *sig, const fold__request *request,
                              const fold_shape *shape)
{
    const int inputs = sig->n_in + sig->n_list;
    if (!fold__need(f, FOLD__ARRAY_OPS, f->ops_used + 1, sizeof(fold__body_op)) ||
        !fold__need(f, FOLD__ARRAY_REFS, f->refs_used + (uint32_t)(inputs + sig->n_out), sizeof(fold__ref)) ||
        !fold__need(f, FOLD__ARRAY_OP_SHAPES, f->op_shapes_used + (uint32_t)(inputs + sig->n_out),
                    sizeof(fold_shape)) ||
        !fold__need(f, FOLD__ARRAY_VALUES, f->values_used + sig->n_out, sizeof(fold__value)))
        return 0;
    sig->first_op = f->ops_used;
    sig->first_ref = f->refs_used;
    sig->first_shape = f->op_shapes_used;
    sig->first_value = f->values_used;
    fold__body_op *op = f->ops + sig->first_op;
    memset(op, 0, sizeof *op);
    op->op = request->op;
    op->n_in = (uint8_t)inputs;
    op->n_out = sig->n_out;
    op->uses_dropout = (fold__op_of(f->model, request->op)->flags & FOLD__RANDOM) != 0;
    memcpy(op->attr, request->attr, sizeof op->attr);
    if (request->has_params)
        memcpy(op->param, request->param, sizeof op->param);
    fold__ref *ref = f->refs + sig->first_ref;
    fold_shape *shapes = f->op_shapes + sig->first_shape;
    fold__value *value = f->values + sig->first_value;
    for (int input = 0; input < inputs; input++) {
        ref[input].kind = sig->n_list ? FOLD__FROM_LIST : FOLD__FROM_INPUT;
        ref[input].index = (uint32_t)input;
        ref[input].offset = 0;
    }
    for (int output = 0; output < sig->n_out; output++) {
        ref[inputs + output].kind = FOLD__FROM_VALUE;
        ref[inputs + output].index = (uint32_t)output;
        ref[inputs + output].offset = 0;
        value[output].size = (uint32_t)fold__shape_size(&shape[inputs + output]);
        value[output].op = 0;
        value[output].elem = 0;
        value[output].passes = 1;
    }
    memcpy(shapes, shape, (size_t)(inputs + sig->n_out) * sizeof *shapes);
    f->ops_used++;
    f->refs_used += (uint32_t)(inputs + sig->n_out);
    f->op_shapes_used += (uint32_t)(inputs + sig->n_out);
    f->values_used += sig->n_out;
    return 1;
}

static void fold__fail_shapes(fold_ctx *f, const char *name, const char *what, const fold_shape *shape,
                              int count)
{
    char text[160];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        if (at + 2 < sizeof text && i) {
            text[at++] = ',';
            text[at++] = ' ';
        }
        at = fold__shape_text(text, sizeof text, at, &shape[i]);
    }
    fold__fail(f, FOLD_BAD_SHAPE, "%s: %s (inputs %s)", name, what, text);
}

static int fold__ref_slot(const fold__program *program, const fold__ref *ref)
{
    return (int)ref->index + (ref->kind == FOLD__FROM_LIST ? program->n_in : 0);
}

/* Operand j of an op of a program when some output's gradient reaches it, else NULL. */
static const fold__ref *fold__passed_operand(const fold_model *m, const fold__program *program,
                                             const fold__body_op *op, int operand)
{
    if (!program->value[op->first_value].passes || !fold__differentiable(fold__op_of(m, op->op), operand))
        return NULL;
    return &program->ref[op->first_ref + (uint32_t)operand];
}

/* Which inputs may get a gradient: those that some output's gradient reaches. */
static uint64_t fold__differentiable_inputs(const fold_ctx *f, const fold__sig *sig)
{
    uint64_t mask = 0;
    const fold__program program = fold__program_of(f, sig);
    for (int op_index = 0; op_index < program.n_ops; op_index++)
        for (int operand = 0; operand < program.op[op_index].n_in; operand++) {
            const fold__ref *ref = fold__passed_operand(f->model, &program, &program.op[op_index], operand);
            if (ref && (ref->kind == FOLD__FROM_INPUT || ref->kind == FOLD__FROM_LIST))
                mask |= 1ull << fold__ref_slot(&program, ref);
        }
    return mask;
}

/* Whether the inputs and list components of a call have the shapes its cell was made with. */
static int fold__check_cell_shapes(fold_ctx *f, const fold__cell_data *cell, const fold_shape *shape,
                                   int count)
{
    for (int i = 0; i < count; i++) {
        const fold_shape *want =
            i < cell->desc.n_in ? &cell->desc.in[i] : &cell->desc.list[i - cell->desc.n_in];
        if (fold__shape_same(&shape[i], want))
            continue;
        const fold_shape both[2] = { *want, shape[i] };
        char what[80];
        snprintf(what, sizeof what,
                 i < cell->desc.n_in ? "input %d must have the first of these shapes"
                                     : "component %d of its list must have the first of these shapes",
                 i < cell->desc.n_in ? i : i - cell->desc.n_in);
        fold__fail_shapes(f, cell->name, what, both, 2);
        return 0;
    }
    return 1;
}

/* Infers the output shapes of a new signature and interns them; 0 with an error when they do not fit. */
static FOLD__NOINLINE int fold__new_sig(fold_ctx *f, fold__sig *sig, const fold__request *request,
                                        const uint32_t *in_shape)
{
    fold_shape shape[FOLD_MAX_IN + FOLD_MAX_OUT];
    const int inputs = sig->n_in + sig->n_list;
    for (int input = 0; input < inputs; input++)
        shape[input] = f->shapes[in_shape[input]].shape;
    memset(shape + inputs, 0, sizeof(fold_shape) * FOLD_MAX_OUT);
    if (sig->is_cell) {
        const fold__cell_data *cell = fold__called_cell(f->model, request->op);
        if (!fold__check_cell_shapes(f, cell, shape, inputs))
            return 0;
        memcpy(shape + inputs, cell->out, sizeof(fold_shape) * sig->n_out);
    } else {
        const fold__op_row *op = fold__op_of(f->model, request->op);
        const char *wrong = op->def.infer(shape, inputs, request->attr, shape + inputs);
        for (int output = 0; output < sig->n_out && !wrong; output++)
            if (!fold__shape_ok(&shape[inputs + output]))
                wrong = "the output would have no valid shape";
        if (wrong) {
            fold__fail_shapes(f, op->def.name, wrong, shape, inputs);
            return 0;
        }
        if (!fold__make_program(f, sig, request, shape))
            return 0;
    }
    sig->differentiable = fold__differentiable_inputs(f, sig);
    for (int output = 0; output < sig->n_out; output++) {
        sig->out_shape[output] = fold__intern_shape(f, &shape[inputs + output]);
        if (sig->out_shape[output] == FOLD__NONE)
            return 0;
    }
    return 1;
}

static void fold__enter_sig(fold_ctx *f, uint32_t sig)
{
    uint32_t *table = f->sig_table, at = f->sigs[sig].hash;
    for (at &= f->table_size - 1; table[at];)
        at = (at + 1) & (f->table_size - 1);
    table[at] = sig;
}

/* Enters all signatures into a table of this size, for which there is room. */
static void fold__fill_table(fold_ctx *f, uint32_t size)
{
    f->table_size = size;
    memset(f->sig_table, 0, size * sizeof(uint32_t));
    for (uint32_t sig = 1; sig <= f->n_sigs; sig++)
        fold__enter_sig(f, sig);
}

enum { FOLD__LEAST_TABLE = 256, FOLD__LEAST_TWINS = 1024 };
static int fold__grow_table(fold_ctx *f)
{
    const uint32_t size = f->table_size ? f->table_size * 2 : (uint32_t)FOLD__LEAST_TABLE;
    if (!fold__need(f, FOLD__ARRAY_SIG_TABLE, size, sizeof(uint32_t)))
        return 0;
    fold__renew(f);
    fold__fill_table(f, size);
    return 1;
}

/* The signature of a key, made when it is new; 0 on failure. Keys are compared in full. */
static uint32_t fold__intern_sig(fold_ctx *f, const fold__request *request, const fold__sig *draft,
                                 const uint32_t *key, uint32_t words)
{
    const uint32_t hash = fold__hash_words(key, words);
    if (f->table_size) {
        const uint32_t *table = f->sig_table, mask = f->table_size - 1;
        for (uint32_t at = hash & mask; table[at]; at = (at + 1) & mask) {
            const fold__sig *sig = &f->sigs[table[at]];
            if (sig->hash == hash && sig->key_words == words &&
                !memcmp(f->keys + sig->key, key, words * sizeof *key))
                return table[at];
        }
    }
    if ((f->n_sigs + 1) * 2 > f->table_size && !fold__grow_table(f))
        return 0;
    if (!fold__need(f, FOLD__ARRAY_SIGS, f->n_sigs + 2, sizeof(fold__sig)) ||
        !fold__need(f, FOLD__ARRAY_KEYS, f->keys_used + words, sizeof *key))
        return 0;
    fold__sig signature = *draft;
    signature.key = f->keys_used;
    signature.key_words = words;
    signature.hash = hash;
    if (!fold__new_sig(f, &signature, request, key + signature.in_shape)) {
        fold__renew(f);
        return 0;
    }
    fold__renew(f);
    memcpy(f->keys + f->keys_used, key, words * sizeof *key);
    f->keys_used += words;
    f->sigs[++f->n_sigs] = signature;
    fold__enter_sig(f, f->n_sigs);
    return f->n_sigs;
}

/* The identity of a shared operand in a key: a parameter, or a place in the recording. */
static uint32_t fold__shared_word(const fold_ctx *f, const fold__operand *operand)
{
    const uint32_t kind = fold__kind_of(f, operand->source);
    return kind == FOLD__PARAM ? 0x80000000u | fold__node_param(f, operand->source) : operand->source;
}

/* Writes the key of a request and returns its words; `shared` gets the mask of shared inputs. */
static uint32_t fold__request_key(const fold_ctx *f, const fold__request *request, uint32_t *key,
                                  uint32_t *shared)
{
    uint32_t words = 1, mask = 0;
    for (int attribute = 0; attribute < request->n_attr; attribute++)
        key[words++] = (uint32_t)request->attr[attribute];
    if (request->has_params) {
        key[words++] = request->param[0];
        key[words++] = request->param[1];
    }
    for (uint32_t input = 0; input < request->n_in; input++) {
        key[words++] = request->in[input].shape;
        mask |= (uint32_t)((request->in[input].kind & FOLD__SHARED) != 0) << input;
    }
    for (int component = 0; component < request->n_list; component++)
        key[words++] = request->list_shape[component];
    for (uint32_t input = 0; input < request->n_in && mask >> input; input++)
        if (mask >> input & 1) {
            key[words++] = fold__shared_word(f, &request->in[input]);
            key[words++] = request->in[input].offset;
        }
    if (f->frame.cell) {
        key[words++] = f->frame.tag;
        key[words++] = f->frame.ordinal + 1;
    }
    if (mask)
        key[words++] = mask;
    key[0] = request->op | request->n_in << 16 | (uint32_t)(mask != 0) << 30 |
             (uint32_t)(f->frame.cell != 0) << 31;
    *shared = mask;
    return words;
}

/* Whether a request is of a signature: what its key would be, without making it. */
static int fold__is_request(const fold_ctx *f, const fold__sig *sig, const fold__request *request)
{
    const uint32_t *word = f->keys + sig->key + 1;
    uint32_t differ = (sig->op ^ request->op) | (sig->n_in ^ request->n_in) |
                      (sig->n_list ^ (uint32_t)request->n_list) | (sig->tag_cell ^ f->frame.tag);
    uint32_t kinds = 0;
    if (differ || (sig->tag_cell && sig->tag_op != f->frame.ordinal + 1))
        return 0;
    for (int attribute = 0; attribute < request->n_attr; attribute++)
        differ |= *word++ ^ (uint32_t)request->attr[attribute];
    if (request->has_params) {
        differ |= (word[0] ^ request->param[0]) | (word[1] ^ request->param[1]);
        word += 2;
    }
    for (uint32_t input = 0; input < request->n_in; input++) {
        differ |= *word++ ^ request->in[input].shape;
        kinds |= request->in[input].kind;
    }
    for (int component = 0; component < request->n_list; component++)
        differ |= *word++ ^ request->list_shape[component];
    if (!sig->shared)
        return !(differ | (kinds & FOLD__SHARED));
    for (uint32_t input = 0; input < request->n_in && !differ; input++) {
        differ = (sig->shared >> input & 1) != ((request->in[input].kind & FOLD__SHARED) != 0);
        if (sig->shared >> input & 1) {
            differ |=
                (word[0] ^ fold__shared_word(f, &request->in[input])) | (word[1] ^ request->in[input].offset);
            word += 2;
        }
    }
    return !differ;
}

/* The signature of a request by its key, made when it is new; 0 on failure. */
static uint32_t fold__sig_by_key(fold_ctx *f, const fold__request *request)
{
    uint32_t key[16 + 3 * FOLD_MAX_IN], shared;
    const uint32_t count = fold__request_key(f, request, key, &shared);
    fold__sig signature;
    memset(&signature, 0, sizeof signature);
    signature.op = request->op;
    signature.is_cell = (request->op & FOLD__CELL_OP) != 0;
    signature.n_list = (uint8_t)request->n_list;
    signature.n_in = (uint8_t)request->n_in;
    signature.n_out = (uint8_t)(signature.is_cell ? fold__called_cell(f->model, request->op)->desc.n_out
                                                  : fold__op_of(f->model, request->op)->def.n_out);
    signature.in_shape = 1 + (uint32_t)request->n_attr + (request->has_params ? 2u : 0);
    signature.shared = shared;
    if (f->frame.cell) {
        signature.tag_cell = f->frame.tag;
        signature.tag_op = f->frame.ordinal + 1;
    }
    f->pinned++;
    const uint32_t sig = fold__intern_sig(f, request, &signature, key, count);
    f->pinned--;
    return sig;
}
static FOLD__NOINLINE uint32_t fold__find_sig(fold_ctx *f, const fold__request *request)
{
    const uint32_t sig = fold__sig_by_key(f, request);
    return sig || !fold__forget_idle(f) ? sig : fold__sig_by_key(f, request);
}

/* The signature of a request. Most are like one of the last: those are found without making a key. */
FOLD__INLINE uint32_t fold__request_sig(fold_ctx *f, const fold__request *request)
{
    uint32_t *recent =
        &f->recent[(request->op * 5u + request->param[0] + (request->n_in ? request->in[0].shape * 3u : 0)) %
                   FOLD__RECENT];
    if (!*recent || !fold__is_request(f, &f->sigs[*recent], request))
        *recent = fold__find_sig(f, request);
    return *recent;
}

/* Ordinals of an eager body's helper ops, which a traced body does not have: input and output barriers. */
enum { FOLD__TAG_BARRIER = 0x10000, FOLD__TAG_SPREAD = 0x20000, FOLD__TAG_PARAM = 0x40000 };

/* -- forgetting ------------------------------------------------------------------------------ */

/* Signatures stay from one recording to the next. When a block has no room left, those go that the present
   recording does not use, so that what fits alone fits after whatever came before. Shapes stay. */

static void fold__forget_runs(fold_ctx *f);
static void fold__fill_twins(fold_ctx *f, uint32_t size);

/* Marks the signatures in use, in place of their hashes; those of eager bodies use that of their call. */
static void fold__mark_sigs(fold_ctx *f)
{
    fold__sig *sigs = f->sigs;
    for (uint32_t index = 1; index <= f->n_sigs; index++)
        sigs[index].hash = 0;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (f->sig[id])
            sigs[f->sig[id]].hash = sigs[sigs[f->sig[id]].tag_cell].hash = 1;
    sigs[f->frame.cell ? f->frame.tag : 0].hash = 1;
}

/* The word of a body's op's key that is its call's signature. */
static uint32_t *fold__key_tag(const fold_ctx *f, const fold__sig *sig)
{
    return f->keys + sig->key + sig->key_words - (sig->shared ? 3 : 2);
}

/* Moves `count` things of array `which` from place `from` down to `*to`; returns where they are now. */
static uint32_t fold__move_down(fold_ctx *f, int which, size_t size, uint32_t from, uint32_t count,
                                uint32_t *to)
{
    char *bytes = f->arrays[which].data;
    const uint32_t at = *to;
    memmove(bytes + at * size, bytes + from * size, count * size);
    *to += count;
    f->arrays[which].need = *to * size;
    return at;
}

/* Moves the program of a signature, which is an op's. */
static void fold__move_program(fold_ctx *f, fold__sig *sig)
{
    const uint32_t inputs = (uint32_t)sig->n_in + sig->n_list, n_out = sig->n_out;
    sig->first_op =
        fold__move_down(f, FOLD__ARRAY_OPS, sizeof(fold__body_op), sig->first_op, 1, &f->ops_used);
    sig->first_ref = fold__move_down(f, FOLD__ARRAY_REFS, sizeof(fold__ref), sig->first_ref, inputs + n_out,
                                     &f->refs_used);
    sig->first_shape = fold__move_down(f, FOLD__ARRAY_OP_SHAPES, sizeof(fold_shape), sig->first_shape,
                                       inputs + n_out, &f->op_shapes_used);
    sig->first_value =
        fold__move_down(f, FOLD__ARRAY_VALUES, sizeof(fold__value), sig->first_value, n_out, &f->values_used);
}

/* Gives the signatures that are marked new numbers, in the order they have. */
static void fold__number_sigs(fold_ctx *f)
{
    fold__sig *sigs = f->sigs;
    uint32_t count = 0;
    for (uint32_t index = 1; index <= f->n_sigs; index++)
        if (sigs[index].hash)
            sigs[index].hash = ++count;
    for (uint32_t index = 1; index <= f->n_sigs; index++)
        if (sigs[index].hash && sigs[index].tag_cell)
            sigs[index].tag_cell = *fold__key_tag(f, &sigs[index]) = sigs[sigs[index].tag_cell].hash;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (f->sig[id])
            f->sig[id] = sigs[f->sig[id]].hash;
    if (f->frame.cell)
        f->frame.tag = sigs[f->frame.tag].hash;
}

/* Moves the signatures that have a new number there, and drops the others. */
static void fold__move_sigs(fold_ctx *f)
{
    fold__sig *sigs = f->sigs;
    const uint32_t count = f->n_sigs;
    f->n_sigs = f->keys_used = f->ops_used = f->refs_used = f->op_shapes_used = f->values_used = 0;
    for (uint32_t index = 1; index <= count; index++) {
        fold__sig moved = sigs[index];
        if (!moved.hash)
            continue;
        moved.key =
            fold__move_down(f, FOLD__ARRAY_KEYS, sizeof(uint32_t), moved.key, moved.key_words, &f->keys_used);
        moved.hash = fold__hash_words(f->keys + moved.key, moved.key_words);
        if (!moved.is_cell)
            fold__move_program(f, &moved);
        sigs[++f->n_sigs] = moved;
    }
    f->arrays[FOLD__ARRAY_SIGS].need = (f->n_sigs + 1) * sizeof *sigs;
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
        f->arrays[FOLD__ARRAY_SIG_TABLE].need = f->table_size * sizeof(uint32_t);
    }
    if (f->twins_size) {
        fold__fill_twins(f, fold__table_for(FOLD__LEAST_TWINS, f->twins_used + 1));
        f->arrays[FOLD__ARRAY_TWINS].need = f->twins_size * sizeof(uint32_t);
    }
    fold__forget_runs(f);
    return 1;
}

/* Between recordings: forgets all signatures and shapes. */
static void fold__forget_all(fold_ctx *f)
{
    static const uint8_t of_signatures[] = { FOLD__ARRAY_SIGS,   FOLD__ARRAY_SIG_TABLE, FOLD__ARRAY_KEYS,
                                             FOLD__ARRAY_OPS,    FOLD__ARRAY_REFS,      FOLD__ARRAY_OP_SHAPES,
                                             FOLD__ARRAY_VALUES, FOLD__ARRAY_TWINS };
    for (size_t i = 0; i < sizeof of_signatures; i++)
        f->arrays[of_signatures[i]].need = 0;
    f->n_sigs = f->keys_used = f->ops_used = f->refs_used = f->op_shapes_used = f->values_used = 0;
    f->n_shapes = f->table_size = f->twins_size = f->row_of = 0;
    memset(f->recent, 0, sizeof f->recent);
    memset(f->shape_bucket, 0, sizeof f->shape_bucket);
    fold__forget_runs(f);
}

/* ==== room: recording =======================================================================
   Owns: nodes and their operands, the rules of handles, and which identical calls are merged. Calls:
   signatures, the context's data. Must not know schedules or execution, except that an eager context runs
   each op as soon as it is recorded. */

static const fold_node fold__null = { 0, 0 };

static fold_node fold__handle(const fold_ctx *f, uint32_t id)
{
    fold_node node;
    node.id = id;
    node.epoch = f->epoch;
    return node;
}

/* Appends one node; capacity is there. Its edges are those added since the last node. */
FOLD__INLINE uint32_t fold__append(fold_ctx *f, uint8_t kind, uint32_t sig, uint32_t source, uint32_t offset,
                                   uint32_t shape, uint64_t data)
{
    const uint32_t id = f->n_nodes + 1;
    f->n_nodes = id;
    f->sig[id] = sig;
    f->source[id] = source ? source : id;
    f->offset[id] = offset;
    f->shape[id] = shape;
    f->first_edge[id + 1] = f->n_edges;
    f->node_data[id] = data;
    f->kind[id] = kind; /* last: for all the compiler knows, a byte may lie anywhere */
    return id;
}

/* Appends the node of an op or a call, which is its first output, and those of its others. */
FOLD__INLINE uint32_t fold__append_call(fold_ctx *f, uint32_t sig, uint8_t flags, uint64_t data)
{
    const fold__sig *signature = &f->sigs[sig];
    const uint32_t id =
        fold__append(f, (uint8_t)(FOLD__OP | flags), sig, 0, 0, signature->out_shape[0], data);
    f->calls[f->n_calls++] = id;
    for (uint32_t output = 1; output < signature->n_out; output++)
        fold__append(f, (uint8_t)(FOLD__EXTRA | flags), 0, 0, 0, signature->out_shape[output], id);
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
static FOLD__NOINLINE void fold__bad_operand(fold_ctx *f, fold_node node, const char *who)
{
    if (node.id && !fold__broken(f))
        fold__fail(f, FOLD_BAD_HANDLE, FOLD__STALE_NODE, who);
}

/* Whether a handle is of a live node of this context; if not, an error unless it is null or there is one
 * already. */
FOLD__INLINE int fold__is_live(fold_ctx *f, fold_node node, const char *who)
{
    if (FOLD__LIKELY(f && node.epoch == f->epoch && node.id - 1 < f->n_nodes && !fold__broken(f)))
        return 1;
    fold__bad_operand(f, node, who);
    return 0;
}

/* A live node of this context as an operand; 0 otherwise. */
FOLD__INLINE int fold__operand_of(fold_ctx *f, fold_node node, const char *who, fold__operand *operand)
{
    if (!fold__is_live(f, node, who))
        return 0;
    operand->source = f->source[node.id];
    operand->offset = f->offset[node.id];
    operand->shape = f->shape[node.id];
    operand->kind = (uint8_t)((f->kind[node.id] & FOLD__SHARED) | (f->kind[operand->source] & ~FOLD__SHARED));
    return 1;
}

static const fold_shape *fold__operand_shape(const fold_ctx *f, const fold__operand *operand)
{
    return &f->shapes[operand->shape].shape;
}

static fold_node fold__window(fold_ctx *f, const fold__operand *operand, uint32_t offset,
                              const fold_shape *shape, uint8_t flags)
{
    const uint32_t shape_index = fold__intern_shape(f, shape);
    if (shape_index == FOLD__NONE || !fold__room(f, 1, 0))
        return fold__null;
    const uint8_t inherited = operand->kind & (FOLD__SHARED | FOLD__ELEM);
    return fold__handle(f, fold__append(f, (uint8_t)(FOLD__WINDOW | flags | inherited), 0, operand->source,
                                        operand->offset + offset, shape_index, 0));
}

static void fold__eager_run(fold_ctx *f, uint32_t id);
static fold_node fold__record_elements(fold_ctx *f, const fold__request *request);

/* With the dedupe flag: the earlier node that is the same call with the same operands and data, or 0. */
static uint32_t fold__find_twin(fold_ctx *f, uint32_t id)
{
    uint32_t *table = f->twins;
    const uint32_t mask = f->twins_size - 1;
    const uint32_t first = f->first_edge[id], count = f->n_edges - first, kind = fold__kind_of(f, id);
    uint32_t hash = fold__hash_words(f->edge_source + first, count) * 31u +
                    fold__hash_words(f->edge_offset + first, count) + f->sig[id] * 0x9e3779b1u + kind;
    hash ^= (uint32_t)fold__mix64(f->node_data[id]);
    for (hash &= mask; table[hash]; hash = (hash + 1) & mask) {
        const uint32_t twin = table[hash], twin_first = f->first_edge[twin];
        if (f->sig[twin] == f->sig[id] && f->node_data[twin] == f->node_data[id] &&
            fold__kind_of(f, twin) == kind && f->shape[twin] == f->shape[id] &&
            f->first_edge[twin + 1] - twin_first == count &&
            (!count ||
             (!memcmp(f->edge_source + twin_first, f->edge_source + first, count * sizeof *f->edge_source) &&
              !memcmp(f->edge_offset + twin_first, f->edge_offset + first, count * sizeof *f->edge_offset))))
            return twin;
    }
    table[hash] = id;
    f->twins_used++;
    return 0;
}

/* Enters the recording's calls and leaves into a table of twins of this size, for which there is room. */
static void fold__fill_twins(fold_ctx *f, uint32_t size)
{
    f->twins_size = size;
    f->twins_used = 0;
    memset(f->twins, 0, size * sizeof(uint32_t));
    const uint32_t edges = f->n_edges;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = fold__kind_of(f, id);
        if (f->sig[id] && fold__node_sig(f, id)->tag_cell)
            continue;
        if (kind != FOLD__OP && kind != FOLD__LOOKUP && !f->sig[id])
            continue;
        f->n_edges = f->first_edge[id + 1];
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
    if (!fold__need(f, FOLD__ARRAY_TWINS, size, sizeof(uint32_t)))
        return 0;
    fold__renew(f);
    fold__fill_twins(f, size);
    return 1;
}

/* Nodes [first, last] of the recording that were found when they were asked for again, most often by another
 * sample. */
static int fold__note_found(fold_ctx *f, uint32_t first, uint32_t last)
{
    if (!fold__need(f, FOLD__ARRAY_FOUND, (size_t)f->n_found + 1, sizeof(fold__found)))
        return 0;
    fold__renew(f);
    const fold__found found = { first, last };
    f->found[f->n_found++] = found;
    return 1;
}

/* Drops node `id` and all after it (and their edges). */
static void fold__unrecord(fold_ctx *f, uint32_t id)
{
    f->n_edges = f->first_edge[id];
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
    return f->param_nodes + 2 * (size_t)param;
}

/* Element e of component c of a list whose handles were checked. Edges lie component by component. A
   parameter stands for its per-sample copy. */
static void fold__list_operand(const fold_ctx *f, const fold__list *list, int component, size_t element,
                               uint32_t *source, uint32_t *offset)
{
    if (!list->first) {
        *source = list->elems[component] + (f->frame.tracing ? 0 : 1 + (uint32_t)element);
        *offset = list->elems_offset[component];
        return;
    }
    const uint32_t id = component == 1 && list->second
                            ? list->second[element].id
                            : list->first[element * list->step + (size_t)component].id;
    *source = f->source[id];
    *offset = f->offset[id];
    if (fold__kind_of(f, *source) == FOLD__PARAM)
        *source = fold__use_node(f, fold__node_param(f, *source))[1];
}

static size_t fold__n_operands(const fold__request *request)
{
    return request->n_in + (request->n_list ? request->list->count * (size_t)request->n_list : 0);
}

/* Appends a request's operands; capacity is there. Returns the set of kinds of its fixed inputs. */
FOLD__INLINE uint32_t fold__add_edges(fold_ctx *f, const fold__request *request)
{
    uint32_t edge = f->n_edges, kinds = 0;
    for (uint32_t input = 0; input < request->n_in; input++, edge++) {
        kinds |= 1u << (request->in[input].kind & (FOLD__KIND_MASK | FOLD__ELEM | FOLD__SHARED));
        f->edge_source[edge] = request->in[input].source;
        f->edge_offset[edge] = request->in[input].offset;
    }
    for (int component = 0; component < request->n_list; component++)
        for (size_t element = 0; element < request->list->count; element++, edge++)
            fold__list_operand(f, request->list, component, element, &f->edge_source[edge],
                               &f->edge_offset[edge]);
    f->n_edges = edge;
    return kinds;
}

static void fold__trace_step(fold_ctx *f, const fold__request *request);

/* Records an op or a call: the one way in. Null when it cannot. */
static fold_node fold__record(fold_ctx *f, const fold__request *request)
{
    const int body = f->frame.cell != 0, twins = f->dedupe && !body;
    if (body && f->frame.ordinal < FOLD__TAG_BARRIER)
        fold__trace_step(f, request);
    if (fold__broken(f) || (twins && !fold__twins_ready(f)) || !fold__room(f, 0, fold__n_operands(request)))
        return fold__null;
    const uint32_t edges = f->n_edges;
    const uint32_t kinds = fold__add_edges(f, request);
    const uint32_t per_element = kinds & FOLD__KINDS_PER_ELEMENT ? FOLD__ELEM : 0;
    uint32_t sig = kinds & FOLD__KINDS_MARKER ? 0 : fold__request_sig(f, request);
    if (sig &&
        !fold__fits(f, f->sigs[sig].n_out, 0)) /* growing may forget signatures: it is asked for again */
        sig = fold__grow(f, f->sigs[sig].n_out, 0) ? fold__request_sig(f, request) : 0;
    if (!sig) {
        f->n_edges = edges;
        return kinds & FOLD__KINDS_MARKER ? fold__record_elements(f, request) : fold__null;
    }
    const uint32_t id = fold__append_call(f, sig, (uint8_t)per_element, request->data);
    const uint32_t twin = twins ? fold__find_twin(f, id) : 0;
    if (twin)
        return fold__found_twin(f, id, twin);
    if (body)
        f->frame.ordinal++;
    if (f->frame.tracing)
        f->trace_hash[id] = f->frame.hash;
    if (!f->eager || f->frame.tracing)
        return fold__handle(f, id);
    fold__eager_run(f, id);
    return fold__broken(f) ? fold__null : fold__handle(f, id);
}

static fold_node fold__record_copy(fold_ctx *f, const fold__operand *operand, uint64_t data)
{
    fold__request request;
    fold__clear_request(&request);
    request.op = FOLD__OP_copy;
    request.in = operand;
    request.n_in = 1;
    request.data = data;
    return fold__record(f, &request);
}

/* An element-wise, reducing or otherwise simple op of up to four nodes. */
static fold_node fold__op(fold_ctx *f, uint32_t op, const fold_node *in, int count, const int32_t *attr,
                          uint64_t data)
{
    fold__operand operands[4];
    fold__request request;
    const fold__op_row *row = &fold__op_table[op];
    for (int i = 0; i < count; i++)
        if (!fold__operand_of(f, in[i], row->def.name, &operands[i]))
            return fold__null;
    fold__clear_request(&request);
    request.op = op;
    request.in = operands;
    request.n_in = (uint32_t)count;
    request.n_attr = row->def.n_attr;
    request.data = data;
    for (int attribute = 0; attribute < row->def.n_attr; attribute++)
        request.attr[attribute] = attr[attribute];
    return fold__record(f, &request);
}

/* ==== room: contexts ========================================================================
   Owns: the making, resetting and freeing of contexts, and what they say of errors. Calls: recording,
   signatures, the context's data; of the run, only what reserves its memory. Must not know what nodes are. */

FOLD__ZEROS_BY_DEFAULT(fold_ctx_desc)

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

/* Sets up the arrays of a new context; in a caller's block they follow its own `size` bytes. */
static void fold__set_arena(fold_ctx *f, const fold_memory *memory, size_t size)
{
    static const uint8_t lasting[] = { FOLD__ARRAY_SIGS,      FOLD__ARRAY_SIG_TABLE, FOLD__ARRAY_KEYS,
                                       FOLD__ARRAY_SHAPES,    FOLD__ARRAY_OPS,       FOLD__ARRAY_REFS,
                                       FOLD__ARRAY_OP_SHAPES, FOLD__ARRAY_VALUES,    FOLD__ARRAY_TWINS,
                                       FOLD__ARRAY_KNOWN,     FOLD__ARRAY_ANALYSES,  FOLD__ARRAY_INFO,
                                       FOLD__ARRAY_PLANS,     FOLD__ARRAY_WORKERS,   FOLD__ARRAY_TRACE,
                                       FOLD__ARRAY_TABLE_ROWS };
    f->arena.memory = *memory;
    f->arena.array = f->arrays;
    f->arena.count = FOLD__ARRAY_COUNT;
    for (size_t i = 0; i < sizeof lasting; i++)
        f->arrays[lasting[i]].lasting = 1;
#define FOLD__MARK_BRIEF(name, type, pointer) f->arrays[FOLD__ARRAY_##name].brief = 1;
    FOLD__ARRAYS(FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__MARK_BRIEF, FOLD__NO_ARRAY,
                 FOLD__MARK_BRIEF)
#undef FOLD__MARK_BRIEF
    if (memory->block) {
        f->arena.block = (char *)memory->block + size;
        f->arena.block_size = (memory->block_size - size) / FOLD__ALIGN * FOLD__ALIGN;
    }
}

static void fold__apply_settings(fold_ctx *f, const fold_ctx_desc *settings)
{
    f->training = settings->training;
    f->eager = settings->eager;
    f->dedupe = settings->dedupe;
    f->schedule = settings->schedule;
    f->group_bytes = settings->group_bytes ? settings->group_bytes : FOLD_GROUP_BYTES;
    f->group_rows = settings->group_bytes ? 0 : FOLD__GROUP_ROWS;
    f->threads = settings->threads > 1 && settings->parallel_for && !settings->eager ? settings->threads : 1;
    f->parallel_for = settings->parallel_for;
    f->pool = settings->pool;
    f->clock = settings->clock;
    f->clock_user = settings->clock_user;
    f->trace_events = settings->clock && !settings->eager
                          ? settings->trace_bytes / sizeof(fold__event) / (size_t)f->threads
                          : 0;
}

/* Why there cannot be a context as it was asked for, and how large its block would have to be, as far as is
   known. */
typedef struct fold__refusal {
    fold__error error;
    size_t block_bytes;
} fold__refusal;

static void fold__wrong_setting(fold__refusal *why, const char *format, ...) FOLD__PRINTF(2, 3);
static void fold__wrong_setting(fold__refusal *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(&why->error, FOLD_BAD_ARGUMENT, format, args);
    va_end(args);
}

static void fold__check_settings(const fold_ctx_desc *settings, fold__refusal *why)
{
    const fold_memory *memory = &settings->memory;
    if ((unsigned)settings->schedule >= FOLD_SCHEDULE_COUNT)
        fold__wrong_setting(why, "fold_ctx_desc: schedule is %d, which is none", (int)settings->schedule);
    if (settings->threads < 0)
        fold__wrong_setting(why, "fold_ctx_desc: threads is %d", settings->threads);
    if (settings->threads > 1 && !settings->parallel_for)
        fold__wrong_setting(why, "fold_ctx_desc: threads is %d, but there is no parallel_for to run them",
                            settings->threads);
    if (!memory->block && memory->alloc && !memory->free)
        fold__wrong_setting(why, "fold_ctx_desc: memory.alloc is there, but no memory.free");
    if (!memory->block)
        return;
    if ((uintptr_t)memory->block % FOLD__ALIGN)
        fold__wrong_setting(why, "fold_ctx_desc: memory.block does not begin at a multiple of %d bytes",
                            (int)FOLD__ALIGN);
    if (memory->block_size < fold__ctx_bytes())
        fold__wrong_setting(why,
                            "fold_ctx_desc: memory.block_size is %.0f, a context alone takes %.0f bytes",
                            (double)memory->block_size, (double)fold__ctx_bytes());
}

/* A context of settings that are good; NULL where memory runs out, which a block refuses. */
static fold_ctx *fold__make_ctx(fold_model *m, const fold_ctx_desc *settings, fold__refusal *why)
{
    const size_t size = fold__ctx_bytes();
    const fold_memory memory =
        settings->memory.block || settings->memory.alloc ? settings->memory : m->arena.memory;
    fold_ctx *f = (fold_ctx *)(memory.block ? memory.block : memory.alloc(size, FOLD__ALIGN, memory.user));
    if (!f)
        return NULL;
    memset(f, 0, size);
    fold__set_arena(f, &memory, size);
    f->model = m;
    f->run = fold__run_of(f);
    fold__apply_settings(f, settings);
    if (!fold__grow_nodes(f, 0) ||
        !fold__need(f, FOLD__ARRAY_SHAPES, FOLD__FIRST_SHAPES, sizeof(fold__shape_entry)) ||
        !fold__reserve_workers(f) || !fold__reserve_plans(f, settings->plan_cache_bytes) ||
        (f->trace_events &&
         !fold__need(f, FOLD__ARRAY_TRACE, f->trace_events * (size_t)f->threads, sizeof(fold__event)))) {
        if (memory.block)
            why->error = f->error;
        why->block_bytes = fold__block_bytes(f);
        fold_ctx_free(f);
        return NULL;
    }
    fold__reset(f);
    return f;
}

FOLD_API fold_ctx *fold_ctx_new(fold_model *m, const fold_ctx_desc *desc)
{
    fold_ctx_desc settings = desc ? *desc : fold_ctx_desc_default();
    fold__refusal why = { { FOLD_OK, "" }, 0 }, none = { { FOLD_OK, "" }, 0 };
    if (!m)
        return NULL;
    fold__check_settings(&settings, &why);
    fold_ctx *f = why.error.status ? NULL : fold__make_ctx(m, &settings, &why);
    if (!why.error.status)
        return f;
    settings = fold_ctx_desc_default();
    f = fold__make_ctx(m, &settings, &none);
    if (!f)
        return NULL;
    f->error = why.error;
    f->block_peak = why.block_bytes;
    f->unusable = 1;
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

FOLD_API fold_model *fold_ctx_model(fold_ctx *f) { return f ? f->model : NULL; }

enum { FOLD__MAX_IDLE_SIGS = 8192 };
static void fold__reset(fold_ctx *f)
{
    const int failed = f->error.status == FOLD_NO_MEMORY || f->n_shapes > FOLD__FIRST_SHAPES;
    f->block_peak = fold__max_size(f->block_peak, fold__block_bytes(f));
    if (f->n_sigs > FOLD__MAX_IDLE_SIGS ||
        (f->arena.block && failed)) /* structure that may never come again */
        fold__forget_all(f);
    for (int i = 0; i < FOLD__ARRAY_COUNT; i++)
        if (!f->arrays[i].lasting)
            f->arrays[i].need = 0;
    f->shapes_before = f->n_shapes;
    f->arrays[FOLD__ARRAY_SHAPES].need =
        fold__max_size(f->n_shapes, FOLD__FIRST_SHAPES) * sizeof(fold__shape_entry);
    f->lacking = 0;
    if (!f->unusable)
        fold__clear_error(&f->error);
    fold__clear_error(&f->read_error);
    f->n_nodes = f->n_edges = f->n_calls = 0;
    f->data_used = 0;
    f->first_edge[1] = 0;
    f->n_keeps = f->n_kept_grads = f->n_found = 0;
    f->kept_concats = 0;
    f->any_done = f->values_shown = 0;
    memset(&f->frame, 0, sizeof f->frame);
    if (f->dedupe && f->twins)
        memset(f->twins, 0, f->twins_size * sizeof(uint32_t));
    f->twins_used = 0;
    if (f->param_nodes)
        memset(f->param_nodes, 0, f->arrays[FOLD__ARRAY_PARAM_NODES].capacity);
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
    if (f && !fold__in_body(f, "fold_ctx_reset"))
        fold__reset(f);
}

FOLD_API fold_status fold_ctx_status(const fold_ctx *f)
{
    if (!f)
        return FOLD_BAD_ARGUMENT;
    return f->error.status ? f->error.status : f->model->error.status;
}
FOLD_API const char *fold_ctx_message(const fold_ctx *f)
{
    if (!f)
        return "no context";
    if (f->error.status)
        return f->error.text;
    return f->model->error.status ? f->model->error.text : f->read_error.text;
}
FOLD_API void fold_dropout_seed(fold_ctx *f, uint64_t key)
{
    if (!f || fold__in_body(f, "fold_dropout_seed"))
        return;
    f->seed = fold__mix64(key);
    f->draws = 0;
}
FOLD_API int fold_node_is_null(fold_node node) { return !node.id; }

/* ==== room: recording the ops ===============================================================
   Owns: the public calls of ops: what each accepts, and which op or window it becomes. Calls: recording,
   signatures, op table, model. Must not know how ops run. */

/* Where in the recording's own data the values lie that a caller hands in, in floats; FOLD__ELSEWHERE: they
   are the caller's. */
#define FOLD__ELSEWHERE SIZE_MAX
static size_t fold__own_place(const fold_ctx *f, const float *values)
{
    const uintptr_t from = (uintptr_t)values - (uintptr_t)f->arrays[FOLD__ARRAY_DATA].data;
    return from < f->arrays[FOLD__ARRAY_DATA].capacity ? from / sizeof *values : FOLD__ELSEWHERE;
}

/* The place of an input with its values. They may be the recording's own, which move when it grows; those of
   before a reset are told by their place, or by nobody having been shown any since. */
static uint32_t fold__place_input(fold_ctx *f, const float *values, size_t size)
{
    const size_t own_offset = values ? fold__own_place(f, values) : FOLD__ELSEWHERE;
    if (own_offset != FOLD__ELSEWHERE && (!f->values_shown || own_offset + size > f->data_used)) {
        fold__fail(f, FOLD_BAD_ARGUMENT,
                   "input: these values of the context ended with its reset: fold_read them before");
        return FOLD__NONE;
    }
    const uint32_t place = fold__place_data(f, size);
    if (place == FOLD__NONE)
        return FOLD__NONE;
    if (own_offset != FOLD__ELSEWHERE)
        values = f->data + own_offset;
    if (values)
        memcpy(fold__at_place(f, place), values, size * sizeof *values);
    else
        memset(fold__at_place(f, place), 0, size * sizeof *values);
    return place;
}

static fold_node fold__input(fold_ctx *f, const float *values, const fold_shape *shape)
{
    if (fold__broken(f))
        return fold__null;
    if (!fold__shape_ok(shape)) {
        fold__fail(f, FOLD_BAD_SHAPE, "input: a shape needs rank 1 to 4 and dimensions of at least 1");
        return fold__null;
    }
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "input: a cell body has no inputs but those it is given");
        return fold__null;
    }
    const uint32_t place = fold__place_input(f, values, (size_t)fold__shape_size(shape));
    if (place == FOLD__NONE)
        return fold__null;
    const uint32_t shape_index = fold__intern_shape(f, shape);
    if (shape_index == FOLD__NONE || !fold__room(f, 1, 0))
        return fold__null;
    const uint32_t id = fold__append(f, FOLD__INPUT, 0, 0, 0, shape_index, 0);
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
FOLD_API fold_node fold_input(fold_ctx *f, const float *values, int count)
{
    return fold_input_shaped(f, values, fold_shape1(count));
}
FOLD_API fold_node fold_constant(fold_ctx *f, float value) { return fold_input(f, &value, 1); }
FOLD_API fold_node fold_zeros(fold_ctx *f, fold_shape shape) { return fold__input(f, NULL, &shape); }
FOLD_API fold_node fold_one_hot(fold_ctx *f, int index, int n)
{
    const fold_node zeros = fold_zeros(f, fold_shape1(n));
    if (fold_node_is_null(zeros))
        return zeros;
    if (index < 0 || index >= n) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "one_hot: index %d, but there are %d values", index, n);
        return fold__null;
    }
    fold__at_place(f, f->place[zeros.id])[index] = 1.0f;
    return zeros;
}

FOLD_API fold_node fold_input_ref(fold_ctx *f, const float *values, fold_shape shape)
{
    if (fold__broken(f))
        return fold__null;
    if (!values)
        return fold__missing(f, "input_ref");
    if (!fold__shape_ok(&shape)) {
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
    const uint32_t shape_index = fold__intern_shape(f, &shape);
    if (shape_index == FOLD__NONE || !fold__room(f, 1, 0))
        return fold__null;
    return fold__handle(f, fold__append(f, FOLD__REF, 0, 0, 0, shape_index, (uint64_t)(uintptr_t)values));
}

static fold__param_data *fold__param_or_fail(fold_ctx *f, fold_param param, const char *who)
{
    fold__param_data *data = f ? fold__param_of(f->model, param) : NULL;
    if (!data && !fold__broken(f))
        fold__fail(f, FOLD_BAD_HANDLE, "%s: not a parameter of this context's model", who);
    return fold__broken(f) ? NULL : data;
}

/* The shape of a table's rows, remembered until another table is looked into. */
static uint32_t fold__row_shape(fold_ctx *f, uint32_t table, const fold_shape *whole)
{
    fold_shape shape = fold_shape1(whole->rank == 1 ? 1 : whole->dim[1]);
    for (int axis = 2; axis < whole->rank; axis++) {
        shape.dim[axis - 1] = whole->dim[axis];
        shape.rank = axis;
    }
    f->row_shape = fold__intern_shape(f, &shape);
    f->row_of = f->row_shape == FOLD__NONE ? 0 : table;
    return f->row_shape;
}

FOLD_API fold_node fold_lookup(fold_ctx *f, fold_param table, int row)
{
    const fold__param_data *param = fold__param_or_fail(f, table, "lookup");
    if (!param)
        return fold__null;
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "lookup: not in a cell body: look up outside and pass the node in");
        return fold__null;
    }
    if (!(param->uses & FOLD_FOR_LOOKUP)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "lookup: parameter '%s' was not made with FOLD_FOR_LOOKUP",
                   param->name);
        return fold__null;
    }
    if (row < 0 || row >= param->shape.dim[0]) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "lookup: row %d, but '%s' has %d rows", row, param->name,
                   param->shape.dim[0]);
        return fold__null;
    }
    const uint32_t shape = f->row_of == table.id ? f->row_shape : fold__row_shape(f, table.id, &param->shape);
    if (shape == FOLD__NONE || !fold__room(f, 1, 0) || (f->dedupe && !fold__twins_ready(f)))
        return fold__null;
    const uint32_t id =
        fold__append(f, FOLD__LOOKUP, 0, 0, 0, shape, fold__lookup_data(table.id - 1, (uint32_t)row));
    const uint32_t twin = f->dedupe ? fold__find_twin(f, id) : 0;
    return twin ? fold__found_twin(f, id, twin) : fold__handle(f, id);
}

FOLD_API fold_node fold_use(fold_ctx *f, fold_param param)
{
    const fold__param_data *data = fold__param_or_fail(f, param, "use");
    if (!data)
        return fold__null;
    const size_t old_capacity = f->arrays[FOLD__ARRAY_PARAM_NODES].capacity;
    const uint32_t shape = fold__intern_shape(f, &data->shape);
    if (shape == FOLD__NONE ||
        !fold__need(f, FOLD__ARRAY_PARAM_NODES, 2 * (size_t)f->model->n_params, sizeof(uint32_t)) ||
        !fold__room(f, 1, 0))
        return fold__null;
    fold__renew(f);
    if (f->arrays[FOLD__ARRAY_PARAM_NODES].capacity > old_capacity)
        memset(f->arrays[FOLD__ARRAY_PARAM_NODES].data + old_capacity, 0,
               f->arrays[FOLD__ARRAY_PARAM_NODES].capacity - old_capacity);
    uint32_t *node = fold__use_node(f, param.id - 1);
    if (!*node)
        *node = fold__append(f, FOLD__PARAM | FOLD__SHARED, 0, 0, 0, shape, param.id - 1);
    return fold__handle(f, *node);
}

FOLD_API fold_node fold_shared(fold_ctx *f, fold_node x)
{
    fold__operand operand;
    if (!fold__operand_of(f, x, "shared", &operand))
        return fold__null;
    if (f->frame.cell || (operand.kind & FOLD__SHARED))
        return x;
    const fold_shape shape = *fold__operand_shape(f, &operand);
    return fold__window(f, &operand, 0, &shape, FOLD__SHARED);
}

/* -- products -------------------------------------------------------------------------------- */

static int fold__is_elem(const fold__operand *operand)
{
    return (operand->kind & FOLD__ELEM) || (operand->kind & FOLD__KIND_MASK) == FOLD__ELEMS;
}

/* A linear op over operands, which are the parts of concatenation `whole` unless that is 0; in a list cell,
   leading segments that do not depend on the element become an op of their own per call, which the elements'
   op continues. */
static fold_node fold__linear_op(fold_ctx *f, fold__operand *operand, int count, const int32_t attr[4],
                                 const uint32_t param[2], uint32_t whole)
{
    fold__request request;
    int mixed = 0, leading = 0;
    fold__clear_request(&request);
    request.op = FOLD__OP_linear;
    request.n_attr = 4;
    request.has_params = 1;
    request.data = whole;
    memcpy(request.attr, attr, sizeof request.attr);
    memcpy(request.param, param, sizeof request.param);
    for (int i = 0; i < count; i++)
        mixed |= fold__is_elem(&operand[i]);
    while (mixed && leading < count && !fold__is_elem(&operand[leading]))
        leading++;
    if (leading && !attr[1]) {
        request.in = operand;
        request.n_in = (uint32_t)leading;
        const fold_node start = fold__record(f, &request);
        for (int i = 0; i < leading; i++)
            request.attr[2] += fold__shape_last(fold__operand_shape(f, &operand[i]));
        memmove(operand, operand + leading, (size_t)(count - leading) * sizeof *operand);
        count -= leading;
        if (!fold__operand_of(f, start, "linear", &operand[count++]))
            return fold__null;
        request.attr[1] = 1;
        request.param[1] = 0;
    }
    request.in = operand;
    request.n_in = (uint32_t)count;
    return fold__record(f, &request);
}

static int fold__is_concat(const fold_ctx *f, uint32_t id)
{
    return fold__is_op(f, id) && fold__node_sig(f, id)->op == FOLD__OP_concat;
}

/* Replaces a concatenated vector by its parts. Parts past the room for operands stay concatenated. */
static int fold__expand_concat(const fold_ctx *f, fold__operand *operand, int count)
{
    const uint32_t concat = operand[0].source;
    if (count != 1 || !fold__is_concat(f, concat) || (operand[0].kind & FOLD__SHARED))
        return count;
    const fold__sig *sig = fold__node_sig(f, concat);
    if (sig->shared || sig->out_shape[0] != operand[0].shape || f->shapes[operand[0].shape].shape.rank != 1)
        return count;
    for (int part = 0; part < sig->n_in; part++) {
        operand[part].source = f->edge_source[f->first_edge[concat] + (uint32_t)part];
        operand[part].offset = f->edge_offset[f->first_edge[concat] + (uint32_t)part];
        operand[part].shape = f->keys[sig->key + sig->in_shape + (uint32_t)part];
        operand[part].kind = (uint8_t)(f->kind[operand[part].source] & ~FOLD__SHARED);
    }
    return sig->n_in;
}

/* Lets a product recorded over the parts of concatenation `whole` read them where they lie in that. */
static void fold__read_whole(fold_ctx *f, uint32_t id, uint32_t whole)
{
    const fold__sig *sig = fold__node_sig(f, id);
    const uint32_t *shape = f->keys + sig->key + sig->in_shape;
    uint32_t offset = 0;
    for (uint32_t part = 0; part < sig->n_in; part++) {
        f->edge_source[f->first_edge[id] + part] = whole;
        f->edge_offset[f->first_edge[id] + part] = offset;
        offset += f->shapes[shape[part]].size;
    }
    f->node_data[id] = 0;
}

/* Products read the parts of a concatenation past it, unless its gradient is kept: then that is theirs. */
static void fold__read_kept_whole(fold_ctx *f)
{
    for (uint32_t call = 0; call < f->n_calls && f->kept_concats; call++) {
        const uint32_t id = f->calls[call], whole = fold__node_whole(f, id);
        if (whole && fold__node_sig(f, id)->op == FOLD__OP_linear && (f->kind[whole] & FOLD__KEEP_GRAD))
            fold__read_whole(f, id, whole);
    }
}

/* Replaces a shared operand by a copy of its own. */
static int fold__copy_operand(fold_ctx *f, fold__operand *operand)
{
    operand->kind |= FOLD__SHARED;
    return fold__operand_of(f, fold__record_copy(f, operand, 0), "copy", operand);
}

/* The rows of W that inputs meet: all; the first, as many as inputs have values; or the last, where the
   product starts from the last of `in`. */
enum { FOLD__ROWS_ALL, FOLD__ROWS_FIRST, FOLD__ROWS_LAST };
static fold_node fold__linear(fold_ctx *f, const fold_node *in, int count, fold_param weight, fold_param bias,
                              int transposed, int part)
{
    const int starts = part == FOLD__ROWS_LAST;
    fold__operand operands[FOLD_MAX_IN + 1];
    const char *who = transposed ? "linear_t" : "linear";
    const fold__param_data *matrix = fold__param_or_fail(f, weight, who), *vector = NULL;
    if (!matrix || (bias.id && !(vector = fold__param_or_fail(f, bias, who))))
        return fold__null;
    if (!in)
        return fold__missing(f, who);
    if (count < 1 || count > FOLD_MAX_IN) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: takes 1 to %d inputs, got %d", who, FOLD_MAX_IN, count);
        return fold__null;
    }
    for (int i = 0; i < count; i++)
        if (!fold__operand_of(f, in[i], who, &operands[i]))
            return fold__null;
    const uint32_t read = operands[0].source;
    if (!starts)
        count = fold__expand_concat(f, operands, count); /* behind the start there is no room for parts */
    const uint32_t whole = operands[0].source != read && !f->frame.cell ? read : 0;
    if (!(matrix->uses & (transposed ? FOLD_FOR_LINEAR_T : FOLD_FOR_LINEAR))) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: parameter '%s' was made without FOLD_FOR_LINEAR%s in its uses",
                   who, matrix->name, transposed ? "_T" : "");
        return fold__null;
    }
    const int inputs = matrix->shape.dim[transposed ? 1 : 0], outputs = matrix->shape.dim[transposed ? 0 : 1];
    int given = 0;
    for (int i = 0; i < count - starts; i++)
        given += fold__shape_last(fold__operand_shape(f, &operands[i]));
    if (part == FOLD__ROWS_ALL ? given != inputs : given > inputs) {
        fold__fail(f, FOLD_BAD_SHAPE, "%s: input has %d values, %s is [%d x %d]", who, given, matrix->name,
                   matrix->shape.dim[0], matrix->shape.dim[1]);
        return fold__null;
    }
    if (vector && (vector->shape.rank != 1 || vector->shape.dim[0] != outputs)) {
        fold__fail(f, FOLD_BAD_SHAPE, "%s: bias %s must be [%d], %s is [%d x %d]", who, vector->name, outputs,
                   matrix->name, matrix->shape.dim[0], matrix->shape.dim[1]);
        return fold__null;
    }
    for (int i = 0; i < count; i++) { /* rows like any others; a parameter's by a copy */
        operands[i].kind = (uint8_t)(operands[i].kind & ~FOLD__SHARED);
        if (fold__kind_of(f, operands[i].source) == FOLD__PARAM && !fold__copy_operand(f, &operands[i]))
            return fold__null;
    }
    const int32_t attr[4] = { transposed, starts, starts ? inputs - given : 0, outputs };
    const uint32_t param[2] = { weight.id, bias.id };
    return fold__linear_op(f, operands, count, attr, param, whole);
}
FOLD_API fold_node fold_linear(fold_ctx *f, fold_node x, fold_param weight, fold_param bias)
{
    return fold__linear(f, &x, 1, weight, bias, 0, FOLD__ROWS_ALL);
}
FOLD_API fold_node fold_linear_n(fold_ctx *f, const fold_node *x, int count, fold_param weight,
                                 fold_param bias)
{
    return fold__linear(f, x, count, weight, bias, 0, FOLD__ROWS_ALL);
}
FOLD_API fold_node fold_linear_t(fold_ctx *f, fold_node x, fold_param weight, fold_param bias)
{
    return fold__linear(f, &x, 1, weight, bias, 1, FOLD__ROWS_ALL);
}
FOLD_API fold_node fold_linear_first(fold_ctx *f, fold_node x, fold_param weight, fold_param bias)
{
    return fold__linear(f, &x, 1, weight, bias, 0, FOLD__ROWS_FIRST);
}
FOLD_API fold_node fold_linear_then(fold_ctx *f, fold_node start, fold_node h, fold_param weight)
{
    const fold_node in[2] = { h, start };
    const fold_param none = { 0, 0 };
    return fold__linear(f, in, 2, weight, none, 0, FOLD__ROWS_LAST);
}

FOLD_API fold_node fold_matmul(fold_ctx *f, fold_node a, fold_node b)
{
    const fold_node in[2] = { a, b };
    fold__operand operand;
    if (!fold__operand_of(f, b, "matmul", &operand))
        return fold__null;
    const int whole = operand.shape == f->shape[operand.source]; /* as it is packed */
    if (fold__kind_of(f, operand.source) == FOLD__PARAM && whole) {
        const fold_param weight = { fold__node_param(f, operand.source) + 1, f->model->salt },
                         none = { 0, 0 };
        const fold__param_data *param = fold__param_of(f->model, weight);
        if ((param->uses & FOLD_FOR_LINEAR) && fold__operand_shape(f, &operand)->rank == 2)
            return fold_linear(f, a, weight, none);
    }
    return fold__op(f, FOLD__OP_matmul, in, 2, NULL, 0);
}

/* -- simple ops ------------------------------------------------------------------------------ */

#define FOLD__UNARY(X) \
    X(neg)             \
    X(exp)             \
    X(log) X(sqrt) X(square) X(abs) X(sigmoid) X(tanh) X(relu) X(gelu) X(softplus) X(softmax) X(log_softmax) \
    X(gelu_erf) X(silu) X(sin) X(cos) X(floor)
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

static uint64_t fold__float_data(float value) { return (uint32_t)fold__float_attr(value); }
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
static fold_node fold__with_number(fold_ctx *f, uint32_t op, fold_node node, float number)
{
    const int32_t attr[1] = { fold__float_attr(number) };
    return fold__op(f, op, &node, 1, attr, 0);
}
FOLD_API fold_node fold_leaky_relu(fold_ctx *f, fold_node x, float slope)
{
    return fold__with_number(f, FOLD__OP_leaky, x, slope);
}
FOLD_API fold_node fold_elu(fold_ctx *f, fold_node x, float alpha)
{
    return fold__with_number(f, FOLD__OP_elu, x, alpha);
}
FOLD_API fold_node fold_pow(fold_ctx *f, fold_node x, float exponent)
{
    if (!fold__broken(f) && !(exponent - exponent == 0))
        fold__fail(f, FOLD_BAD_ARGUMENT, "pow: the exponent must be finite, got %g", (double)exponent);
    return fold__with_number(f, FOLD__OP_pow, x, exponent);
}
FOLD_API fold_node fold_at_least(fold_ctx *f, fold_node x, float low)
{
    return fold__with_number(f, FOLD__OP_at_least, x, low);
}
FOLD_API fold_node fold_at_most(fold_ctx *f, fold_node x, float high)
{
    return fold__with_number(f, FOLD__OP_at_most, x, high);
}
FOLD_API fold_node fold_clip(fold_ctx *f, fold_node x, float low, float high)
{
    if (!fold__broken(f) && !(low <= high))
        fold__fail(f, FOLD_BAD_ARGUMENT, "clip: from %g to %g holds no value", (double)low, (double)high);
    return fold_at_most(f, fold_at_least(f, x, low), high);
}
/* An axis below 0 counts from the end. */
static int fold__axis_of(const fold_shape *shape, int axis) { return axis < 0 ? axis + shape->rank : axis; }
#define FOLD__OVER_AXIS(X) \
    X(sum)                 \
    X(mean) X(amax) X(amin) X(variance) X(logsumexp) X(prod) X(cumsum)
#define FOLD__DEFINE_OVER_AXIS(name)                                                           \
    FOLD_API fold_node fold_##name(fold_ctx *f, fold_node x, int axis)                         \
    {                                                                                          \
        fold__operand operand;                                                                 \
        if (!fold__operand_of(f, x, #name, &operand))                                          \
            return fold__null;                                                                 \
        const int32_t attr[1] = { fold__axis_of(fold__operand_shape(f, &operand), axis) };     \
        return fold__op(f, FOLD__OP_##name, &x, 1, attr, 0);                                   \
    }
FOLD__OVER_AXIS(FOLD__DEFINE_OVER_AXIS)
#undef FOLD__OVER_AXIS
#undef FOLD__DEFINE_OVER_AXIS
/* Whether a parameter still is the zeros that it is made of when nobody says what. Inference models wait for
   a file. */
static int fold__is_forgotten(const fold_model *m, const fold__param_data *param)
{
    size_t at = 0;
    if (!param->zeros_by_default || m->inference)
        return 0;
    while (at < param->size && fold__values(m)[param->at + at] == 0)
        at++;
    return at == param->size;
}
static fold_node fold__norm(fold_ctx *f, uint32_t op, fold_node node, const fold_param *params, int count,
                            float epsilon)
{
    const char *name = fold__op_table[op].def.name;
    fold_node in[3] = { node, fold__null, fold__null };
    const int32_t attr[1] = { fold__float_attr(epsilon == 0 ? 1e-5f : epsilon) };
    for (int i = 0; i < count; i++)
        if (!fold__param_or_fail(f, params[i], name))
            return fold__null;
    for (int i = 0; i < count; i++)
        in[i + 1] = fold_use(f, params[i]);
    const fold__param_data *gain = &fold__params(f->model)[params[0].id - 1];
    if (fold__is_forgotten(f->model, gain)) {
        fold__fail(f, FOLD_BAD_ARGUMENT,
                   "%s: the gain '%.60s' is all zeros, as it was made: fold_gain_new makes ones", name,
                   gain->name);
        return fold__null;
    }
    if (!(epsilon >= 0))
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: epsilon must not be below 0, got %g", name, (double)epsilon);
    return fold__op(f, op, in, count + 1, attr, 0);
}
FOLD_API fold_node fold_layer_norm_eps(fold_ctx *f, fold_node x, fold_param gain, fold_param bias,
                                       float epsilon)
{
    const fold_param params[2] = { gain, bias };
    return fold__norm(f, FOLD__OP_layer_norm, x, params, 2, epsilon);
}
FOLD_API fold_node fold_layer_norm(fold_ctx *f, fold_node x, fold_param gain, fold_param bias)
{
    return fold_layer_norm_eps(f, x, gain, bias, 0);
}
FOLD_API fold_node fold_rms_norm(fold_ctx *f, fold_node x, fold_param gain, float epsilon)
{
    return fold__norm(f, FOLD__OP_rms_norm, x, &gain, 1, epsilon);
}
FOLD_API fold_node fold_transpose(fold_ctx *f, fold_node x, int axis_a, int axis_b)
{
    fold__operand operand;
    if (!fold__operand_of(f, x, "transpose", &operand))
        return fold__null;
    const fold_shape *shape = fold__operand_shape(f, &operand);
    const int32_t attr[2] = { fold__axis_of(shape, axis_a), fold__axis_of(shape, axis_b) };
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
static fold_node fold__indexed(fold_ctx *f, uint32_t op, fold_node node, int index)
{
    fold__operand operand;
    const char *name = fold__op_table[op].def.name;
    if (!fold__operand_of(f, node, name, &operand))
        return fold__null;
    const int size = (int)f->shapes[operand.shape].size;
    if (index < 0 || index >= size) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: index %d, but there are %d values", name, index, size);
        return fold__null;
    }
    return fold__op(f, op, &node, 1, NULL, (uint64_t)(uint32_t)index);
}
FOLD_API fold_node fold_pick(fold_ctx *f, fold_node x, int index)
{
    fold__operand operand;
    if (!fold__operand_of(f, x, "pick", &operand))
        return fold__null;
    const int size = (int)f->shapes[operand.shape].size;
    return fold__indexed(f, FOLD__OP_pick, x, index < 0 && index >= -size ? index + size : index);
}
FOLD_API fold_node fold_softmax_xent(fold_ctx *f, fold_node logits, int label)
{
    return fold__indexed(f, FOLD__OP_softmax_xent, logits, label);
}
FOLD_API fold_node fold_hinge(fold_ctx *f, fold_node scores, int label)
{
    return fold__indexed(f, FOLD__OP_hinge, scores, label);
}

/* Draw d of a seed has key mix(seed + (d + 1) * step): a cell call stores where its draws begin. */
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
    fold__operand operand;
    if (!fold__operand_of(f, x, "dropout", &operand))
        return fold__null;
    if (!(rate >= 0 && rate < 1)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "dropout: rate %g is not in [0, 1)", (double)rate);
        return fold__null;
    }
    if (!f->training && !f->frame.cell)
        return x;
    const fold_node result =
        fold__op(f, FOLD__OP_dropout, &x, 1, attr, f->frame.tracing ? f->draws : fold__draw_base(f));
    f->draws++;
    return result;
}

/* -- moving values --------------------------------------------------------------------------- */

FOLD_API fold_node fold_concat(fold_ctx *f, const fold_node *x, int count, int axis)
{
    fold__operand operands[FOLD_MAX_IN];
    fold__request request;
    if (fold__broken(f))
        return fold__null;
    if (!x)
        return fold__missing(f, "concat");
    if (count < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "concat: needs at least one node, got %d", count);
        return fold__null;
    }
    if (count > FOLD_MAX_IN) { /* in two halves */
        const fold_node half[2] = { fold_concat(f, x, count / 2, axis),
                                    fold_concat(f, x + count / 2, count - count / 2, axis) };
        return fold_concat(f, half, 2, axis);
    }
    for (int i = 0; i < count; i++)
        if (!fold__operand_of(f, x[i], "concat", &operands[i]))
            return fold__null;
    fold__clear_request(&request);
    request.op = FOLD__OP_concat;
    request.in = operands;
    request.n_in = (uint32_t)count;
    request.n_attr = 1;
    request.attr[0] = fold__axis_of(fold__operand_shape(f, &operands[0]), axis);
    return fold__record(f, &request);
}
FOLD_API fold_node fold_concat2(fold_ctx *f, fold_node a, fold_node b)
{
    const fold_node both[2] = { a, b };
    return fold_concat(f, both, 2, 0);
}

FOLD_API fold_node fold_slice(fold_ctx *f, fold_node x, int axis, int start, int length)
{
    fold__operand operand;
    fold_shape out;
    if (!fold__operand_of(f, x, "slice", &operand))
        return fold__null;
    const fold_shape *shape = fold__operand_shape(f, &operand);
    axis = fold__axis_of(shape, axis);
    if (start < 0 && axis >= 0 && axis < shape->rank)
        start += shape->dim[axis];
    const int32_t attr[3] = { axis, start, length };
    const char *wrong = fold__infer_slice(shape, 1, attr, &out);
    if (wrong) {
        fold__fail_shapes(f, "slice", wrong, shape, 1);
        return fold__null;
    }
    if (axis > 0)
        return fold__op(f, FOLD__OP_slice, &x, 1, attr, 0);
    uint32_t offset = (uint32_t)start;
    for (int dim = 1; dim < shape->rank; dim++)
        offset *= (uint32_t)shape->dim[dim];
    return fold__window(f, &operand, offset, &out, 0);
}

FOLD_API void fold_split(fold_ctx *f, fold_node x, int count, fold_node *parts)
{
    fold__operand operand;
    if (!parts) {
        fold__missing(f, "split");
        return;
    }
    if (count < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "split: into at least 1 part, got %d", count);
        return;
    }
    for (int i = 0; i < count; i++)
        parts[i] = fold__null;
    if (!fold__operand_of(f, x, "split", &operand))
        return;
    const fold_shape shape = *fold__operand_shape(f, &operand);
    if (shape.dim[0] % count) {
        fold__fail_shapes(f, "split", "the first axis does not divide evenly", &shape, 1);
        return;
    }
    for (int i = 0; i < count; i++)
        parts[i] = fold_slice(f, x, 0, i * (shape.dim[0] / count), shape.dim[0] / count);
}

FOLD_API fold_node fold_stack(fold_ctx *f, const fold_node *x, int count)
{
    fold_shape both[2];
    if (fold__broken(f))
        return fold__null;
    if (!x)
        return fold__missing(f, "stack");
    if (count < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "stack: needs at least one node, got %d", count);
        return fold__null;
    }
    for (int i = 0; i < count; i++) {
        fold__operand operand;
        if (!fold__operand_of(f, x[i], "stack", &operand))
            return fold__null;
        both[i > 0] = *fold__operand_shape(f, &operand);
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
    const fold_shape all = { one.rank + 1, { count, one.dim[0], one.dim[1], one.dim[2] } };
    return fold_reshape(f, fold_concat(f, x, count, 0), all);
}

FOLD_API void fold_unstack(fold_ctx *f, fold_node x, int count, fold_node *parts)
{
    fold__operand operand;
    if (!parts) {
        fold__missing(f, "unstack");
        return;
    }
    if (count < 1) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unstack: into at least 1 part, got %d", count);
        return;
    }
    for (int i = 0; i < count; i++)
        parts[i] = fold__null;
    if (!fold__operand_of(f, x, "unstack", &operand))
        return;
    const fold_shape shape = *fold__operand_shape(f, &operand);
    if (shape.dim[0] != count) {
        fold__fail_shapes(f, "unstack", "the first axis has another size than the parts asked for", &shape,
                          1);
        return;
    }
    fold_shape one = fold_shape1(1);
    for (int axis = 1; axis < shape.rank; axis++) {
        one.dim[axis - 1] = shape.dim[axis];
        one.rank = axis;
    }
    for (int i = 0; i < count; i++)
        parts[i] = fold__window(f, &operand, (uint32_t)(i * fold__shape_size(&one)), &one, 0);
}

FOLD_API fold_node fold_reshape(fold_ctx *f, fold_node x, fold_shape shape)
{
    fold__operand operand;
    if (!fold__operand_of(f, x, "reshape", &operand))
        return fold__null;
    const fold_shape given = *fold__operand_shape(f, &operand);
    if (!fold__shape_ok(&shape) || fold__shape_size(&shape) != fold__shape_size(&given)) {
        fold__fail_shapes(f, "reshape", "the new shape has another number of values", &given, 1);
        return fold__null;
    }
    return fold__window(f, &operand, 0, &shape, 0);
}

/* -- over lists ------------------------------------------------------------------------------ */

/* Makes the per-sample copy of a parameter that stands for it in lists. */
static int fold__copy_param(fold_ctx *f, uint32_t source)
{
    const uint32_t param = fold__node_param(f, source);
    fold__operand operand = { source, 0, f->shape[source], f->kind[source] };
    if (fold__use_node(f, param)[1])
        return 1;
    if (!fold__copy_operand(f, &operand))
        return 0;
    fold__use_node(f, param)[1] = operand.source;
    return 1;
}

static int fold__count_ok(fold_ctx *f, int count, const char *who)
{
    if (count < 0)
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: a count of %d", who, count);
    return count >= 0;
}

/* Checks the handles of one component and finds its shape; `shape` is given for empty lists. */
static int fold__check_list(fold_ctx *f, const char *who, const fold_node *nodes, size_t step, size_t count,
                            uint32_t *shape)
{
    for (size_t at = 0; at < count; at++) {
        fold__operand operand;
        if (!fold__operand_of(f, nodes[at * step], who, &operand))
            return 0;
        if ((operand.kind & FOLD__KIND_MASK) == FOLD__PARAM && !fold__copy_param(f, operand.source))
            return 0;
        if (*shape == FOLD__NONE)
            *shape = operand.shape;
        if (operand.shape != *shape) {
            const fold_shape both[2] = { f->shapes[*shape].shape, f->shapes[operand.shape].shape };
            fold__fail_shapes(f, who, "the elements of a list must have one shape", both, 2);
            return 0;
        }
    }
    return 1;
}

static fold_node fold__list_op(fold_ctx *f, uint32_t op, const fold_node *first, const fold_node *second,
                               int count, const fold_shape *empty)
{
    fold__list list;
    fold__request request;
    const char *who = fold__op_table[op].def.name;
    if (fold__broken(f) || !fold__count_ok(f, count, who))
        return fold__null;
    if (count && !first)
        return fold__missing(f, who);
    if (f->frame.cell) {
        fold__fail(f, FOLD_BAD_CELL, "%s: in a cell body use the fold_list_ reductions", who);
        return fold__null;
    }
    if (!count && !empty) {
        if (op == FOLD__OP_sum_n || op == FOLD__OP_attend_n)
            fold__fail(f, FOLD_BAD_ARGUMENT, "%s: an empty list has no shape: use fold_%s_shaped", who, who);
        else
            fold__fail(f, FOLD_BAD_ARGUMENT, "%s: an empty list has no %s", who,
                       op == FOLD__OP_mean_n ? "mean" : "maximum");
        return fold__null;
    }
    fold__clear_request(&request);
    memset(&list, 0, sizeof list);
    request.list_shape[0] = request.list_shape[1] = FOLD__NONE;
    request.n_list = second || op == FOLD__OP_attend_n ? 2 : 1;
    const int values_component = request.n_list - 1;
    if (empty) {
        const fold_shape scalar = fold_shape1(1);
        if (!fold__shape_ok(empty)) {
            fold__fail(f, FOLD_BAD_SHAPE, "%s: the shape is not valid", who);
            return fold__null;
        }
        if (values_component)
            request.list_shape[0] = fold__intern_shape(f, &scalar);
        request.list_shape[values_component] = fold__intern_shape(f, empty);
        if (request.list_shape[0] == FOLD__NONE || request.list_shape[values_component] == FOLD__NONE)
            return fold__null;
    }
    if (!fold__check_list(f, who, first, 1, (size_t)count, &request.list_shape[0]))
        return fold__null;
    if (values_component && !fold__check_list(f, who, second, 1, (size_t)count, &request.list_shape[1]))
        return fold__null;
    list.first = first;
    list.second = second;
    list.step = 1;
    list.count = (size_t)count;
    request.op = op;
    request.list = &list;
    return fold__record(f, &request);
}
FOLD_API fold_node fold_sum_n(fold_ctx *f, const fold_node *x, int count)
{
    return fold__list_op(f, FOLD__OP_sum_n, x, NULL, count, NULL);
}
FOLD_API fold_node fold_mean_n(fold_ctx *f, const fold_node *x, int count)
{
    return fold__list_op(f, FOLD__OP_mean_n, x, NULL, count, NULL);
}
FOLD_API fold_node fold_max_n(fold_ctx *f, const fold_node *x, int count)
{
    return fold__list_op(f, FOLD__OP_max_n, x, NULL, count, NULL);
}
FOLD_API fold_node fold_attend_n(fold_ctx *f, const fold_node *score, const fold_node *value, int count)
{
    if (count && !value)
        return fold__missing(f, "attend_n");
    return fold__list_op(f, FOLD__OP_attend_n, score, value, count, NULL);
}
FOLD_API fold_node fold_sum_n_shaped(fold_ctx *f, const fold_node *x, int count, fold_shape shape)
{
    return fold__list_op(f, FOLD__OP_sum_n, x, NULL, count, &shape);
}
FOLD_API fold_node fold_attend_n_shaped(fold_ctx *f, const fold_node *score, const fold_node *value,
                                        int count, fold_shape shape)
{
    if (count && !value)
        return fold__missing(f, "attend_n");
    return fold__list_op(f, FOLD__OP_attend_n, score, value, count, &shape);
}

/* -- user ops -------------------------------------------------------------------------------- */

FOLD__ZEROS_BY_DEFAULT(fold_op_desc)

FOLD_API fold_op fold_op_new(fold_model *m, const fold_op_desc *desc)
{
    fold_op none = { 0, 0 };
    if (!m || m->error.status)
        return none;
    const int bad = !desc || !desc->name || !desc->infer || !desc->forward || desc->n_in == 0 ||
                    desc->n_in < -1 || desc->n_in > FOLD_MAX_IN || desc->n_out < 1 ||
                    desc->n_out > FOLD_MAX_OUT || desc->n_attr < 0 || desc->n_attr > 4 ||
                    (desc->is_list && (desc->n_in < 1 || desc->n_in > 2 || desc->n_out != 1)) ||
                    desc->scratch < 0;
    if (bad) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT,
                         "op '%s': needs a name, infer, forward, 1 to %d inputs (list ops 1 or 2), 1 to %d "
                         "outputs (list ops 1), at most 4 attributes, no negative scratch",
                         desc && desc->name ? desc->name : "", FOLD_MAX_IN, FOLD_MAX_OUT);
        return none;
    }
    char *name = fold__copy_name(m, desc->name);
    if (!name || !fold__arena_need(&m->arena, FOLD__M_OPS, (m->n_ops + 1) * sizeof(fold__op_row))) {
        fold__release_name(m, name);
        fold__model_fail(m, FOLD_NO_MEMORY, "op '%s': out of memory", desc->name);
        return none;
    }
    fold__op_row *row = fold__user_ops(m) + m->n_ops++;
    row->def = *desc;
    row->def.name = name;
    row->flags = (desc->is_list ? (unsigned)FOLD__LIST : 0) | (desc->one_row ? (unsigned)FOLD__ONE_ROW : 0);
    const fold_op op = { m->n_ops, m->salt };
    return op;
}

FOLD_API fold_node fold_op_apply(fold_ctx *f, fold_op op, const fold_node *in, int n_in, const int32_t *attr,
                                 uint64_t data)
{
    fold__operand operands[FOLD_MAX_IN];
    fold__list list;
    fold__request request;
    if (fold__broken(f))
        return fold__null;
    if (!op.id || op.salt != f->model->salt || op.id > f->model->n_ops) {
        fold__fail(f, FOLD_BAD_HANDLE, "apply: not an op of this context's model");
        return fold__null;
    }
    fold__clear_request(&request);
    request.op = FOLD__OP_COUNT + op.id - 1;
    const fold_op_desc *desc = &fold__op_of(f->model, request.op)->def;
    if (!in || (desc->n_attr && !attr))
        return fold__missing(f, desc->name);
    if (desc->is_list ? n_in <= 0 || n_in % desc->n_in
                      : n_in <= 0 || n_in > FOLD_MAX_IN || (desc->n_in > 0 && n_in != desc->n_in)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: %d inputs do not fit", desc->name, n_in);
        return fold__null;
    }
    request.n_attr = desc->n_attr;
    request.data = data;
    for (int attribute = 0; attribute < desc->n_attr; attribute++)
        request.attr[attribute] = attr[attribute];
    if (desc->is_list) {
        memset(&list, 0, sizeof list);
        if (f->frame.cell) {
            fold__fail(f, FOLD_BAD_CELL, "%s: list ops of your own cannot be used in a cell body",
                       desc->name);
            return fold__null;
        }
        list.first = in;
        list.step = (size_t)desc->n_in;
        list.count = (size_t)(n_in / desc->n_in);
        request.n_list = desc->n_in;
        request.list = &list;
        for (int component = 0; component < desc->n_in; component++) {
            request.list_shape[component] = FOLD__NONE;
            if (!fold__check_list(f, desc->name, in + component, list.step, list.count,
                                  &request.list_shape[component]))
                return fold__null;
        }
        return fold__record(f, &request);
    }
    for (int input = 0; input < n_in; input++)
        if (!fold__operand_of(f, in[input], desc->name, &operands[input]))
            return fold__null;
    request.in = operands;
    request.n_in = (uint32_t)n_in;
    return fold__record(f, &request);
}

/* ==== room: cells ===========================================================================
   Owns: tracing a body into a program, holding later bodies against the trace, and recording calls. Calls:
   recording, recording the ops; for a call in an eager context, the room of eager contexts. Must not know
   plans. */

static uint32_t fold__operand_tag(const fold_ctx *f, uint32_t source)
{
    switch (fold__kind_of(f, source)) {
    case FOLD__OP: return fold__node_sig(f, source)->tag_op;
    case FOLD__EXTRA:
        return fold__node_sig(f, fold__node_call(f, source))->tag_op +
               ((source - fold__node_call(f, source)) << 20);
    case FOLD__INPUT: return FOLD__TAG_BARRIER + 1 + fold__node_ordinal(f, source);
    case FOLD__PARAM: return FOLD__TAG_PARAM + fold__node_param(f, source);
    default: return f->element_tag[source]; /* elements */
    }
}

static uint32_t fold__hash_operand(const fold_ctx *f, uint32_t hash, uint32_t source, uint32_t offset,
                                   const fold_shape *shape)
{
    uint32_t words[8] = { hash, fold__operand_tag(f, source), offset, (uint32_t)shape->rank, 0, 0, 0, 0 };
    for (int axis = 0; axis < shape->rank; axis++)
        words[4 + axis] = (uint32_t)shape->dim[axis];
    return fold__hash_words(words, 8);
}

/* What identifies an op of a body, in any context. */
static uint32_t fold__trace_hash(const fold_ctx *f, const fold__request *request)
{
    const uint64_t data = request->op < FOLD__OP_COUNT && (fold__op_table[request->op].flags & FOLD__RANDOM)
                              ? 0
                              : request->data;
    const uint32_t words[9] = { request->op,
                                (uint32_t)request->attr[0],
                                (uint32_t)request->attr[1],
                                (uint32_t)request->attr[2],
                                (uint32_t)request->attr[3],
                                request->param[0],
                                request->param[1],
                                (uint32_t)data,
                                (uint32_t)(data >> 32) };
    uint32_t hash = fold__hash_words(words, 9);
    for (uint32_t input = 0; input < request->n_in; input++)
        hash = fold__hash_operand(f, hash, request->in[input].source, request->in[input].offset,
                                  fold__operand_shape(f, &request->in[input]));
    for (int component = 0; component < request->n_list; component++)
        hash = fold__hash_operand(f, hash, request->list->elems[component],
                                  request->list->elems_offset[component],
                                  &f->shapes[request->list_shape[component]].shape);
    return hash;
}

/* Notes an op of a traced body, or holds an eager body's op against it. */
static void fold__trace_step(fold_ctx *f, const fold__request *request)
{
    f->frame.hash = fold__trace_hash(f, request);
    if (f->frame.tracing || fold__broken(f))
        return;
    const fold__cell_data *cell = &fold__cells(f->model)[f->frame.cell - 1];
    const uint32_t at = f->frame.ordinal;
    if (at >= (uint32_t)cell->n_trace)
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': it had %d ops when traced, and records another, '%s'",
                   cell->name, cell->n_trace, fold__request_name(f, request->op));
    else if (cell->trace[at].op != request->op)
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': op %d was '%s' when traced and is '%s' in this call",
                   cell->name, (int)at, fold__request_name(f, cell->trace[at].op),
                   fold__request_name(f, request->op));
    else if (cell->trace[at].hash != f->frame.hash)
        fold__fail(f, FOLD_BAD_CELL,
                   "cell '%s': op %d ('%s') has other operands or attributes in this call than when traced",
                   cell->name, (int)at, fold__request_name(f, request->op));
}

static fold_node fold__list_reduce(fold_ctx *f, uint32_t op, fold_node node, const fold_node *second)
{
    fold__operand operands[2];
    fold__list list;
    fold__request request;
    const char *who = fold__op_table[op].def.name;
    if (!fold__operand_of(f, node, who, &operands[0]) ||
        (second && !fold__operand_of(f, *second, who, &operands[1])))
        return fold__null;
    fold__clear_request(&request);
    memset(&list, 0, sizeof list);
    request.n_list = second ? 2 : 1;
    for (int component = 0; component < request.n_list; component++) {
        if (!f->frame.cell || !fold__is_elem(&operands[component])) {
            fold__fail(
                f, FOLD_BAD_CELL,
                "fold_list reductions take values of list elements, in the body of a cell with a list (%s)",
                who);
            return fold__null;
        }
        list.elems[component] = operands[component].source;
        list.elems_offset[component] = operands[component].offset;
        request.list_shape[component] = operands[component].shape;
    }
    list.count = f->frame.tracing ? 1 : f->frame.elements;
    if (op == FOLD__OP_max_n)
        f->frame.list_max = 1;
    request.op = op;
    request.list = &list;
    return fold__record(f, &request);
}
FOLD_API fold_node fold_list_sum(fold_ctx *f, fold_node value)
{
    return fold__list_reduce(f, FOLD__OP_sum_n, value, NULL);
}
FOLD_API fold_node fold_list_mean(fold_ctx *f, fold_node value)
{
    return fold__list_reduce(f, FOLD__OP_mean_n, value, NULL);
}
FOLD_API fold_node fold_list_max(fold_ctx *f, fold_node value)
{
    return fold__list_reduce(f, FOLD__OP_max_n, value, NULL);
}
FOLD_API fold_node fold_list_attend(fold_ctx *f, fold_node score, fold_node value)
{
    return fold__list_reduce(f, FOLD__OP_attend_n, score, &value);
}

/* Makes every output a whole value of the body, each its own: copies those that are not. */
static int fold__finish_outputs(fold_ctx *f, const char *name, fold_node *out, int count)
{
    for (int output = 0; output < count; output++) {
        fold__operand operand;
        if (!out[output].id && !fold__broken(f))
            fold__fail(f, FOLD_BAD_CELL, "cell '%s': its body left output %d null", name, output);
        if (!fold__operand_of(f, out[output], name, &operand))
            return 0;
        if (fold__is_elem(&operand)) {
            fold__fail(f, FOLD_BAD_CELL,
                       "cell '%s': output %d is one value per list element: reduce it first", name, output);
            return 0;
        }
        int copy = fold__operand_tag(f, operand.source) % (1u << 20) >= FOLD__TAG_BARRIER ||
                   f->shapes[operand.shape].size != fold__value_size(f, operand.source);
        for (int earlier = 0; earlier < output; earlier++)
            copy |= f->source[out[earlier].id] == operand.source;
        if (!copy)
            continue;
        operand.kind = (uint8_t)(operand.kind & ~FOLD__SHARED);
        if (fold__kind_of(f, operand.source) == FOLD__PARAM)
            operand.kind |= FOLD__SHARED;
        out[output] = fold__record_copy(f, &operand, 0);
        if (!out[output].id)
            return 0;
    }
    return 1;
}

/* -- tracing --------------------------------------------------------------------------------- */

typedef struct fold__trace {
    fold_ctx *tracer;
    fold__cell_data *cell;
    const uint32_t *out;
    uint32_t *value_of;
    uint8_t *live;
} fold__trace;

static void fold__trace_live(const fold__trace *trace)
{
    const fold_ctx *tracer = trace->tracer;
    for (int output = 0; output < trace->cell->desc.n_out; output++)
        trace->live[trace->out[output]] = 1;
    for (uint32_t id = tracer->n_nodes; id > 0; id--) {
        if (!trace->live[id])
            continue;
        if (fold__kind_of(tracer, id) == FOLD__EXTRA) {
            trace->live[fold__node_call(tracer, id)] = 1;
            continue;
        }
        if (fold__kind_of(tracer, id) != FOLD__OP)
            continue;
        for (uint32_t edge = tracer->first_edge[id]; edge < tracer->first_edge[id + 1]; edge++)
            trace->live[tracer->edge_source[edge]] = 1;
    }
}

static void fold__trace_ref(const fold__trace *trace, uint32_t edge, fold__ref *ref)
{
    const fold_ctx *tracer = trace->tracer;
    const uint32_t source = tracer->edge_source[edge], n_in = (uint32_t)trace->cell->desc.n_in;
    ref->offset = tracer->edge_offset[edge];
    switch (fold__kind_of(tracer, source)) {
    case FOLD__INPUT:
        ref->kind = fold__node_ordinal(tracer, source) < n_in ? FOLD__FROM_INPUT : FOLD__FROM_LIST;
        ref->index = fold__node_ordinal(tracer, source) - (ref->kind == FOLD__FROM_LIST ? n_in : 0);
        break;
    case FOLD__PARAM:
        ref->kind = FOLD__FROM_PARAM;
        ref->index = fold__node_param(tracer, source);
        break;
    default: ref->kind = FOLD__FROM_VALUE; ref->index = trace->value_of[source];
    }
}

/* Marks the values of a program that some output's gradient reaches. */
static void fold__mark_passes(const fold_model *m, const fold__program *program, fold__value *values)
{
    for (int output = 0; output < program->n_out; output++)
        values[program->out[output].index].passes = 1;
    for (int op_index = program->n_ops; op_index-- > 0;) {
        const fold__body_op *op = &program->op[op_index];
        uint8_t passes = 0;
        for (uint32_t value = op->first_value; value < op->first_value + op->n_out; value++)
            passes |= values[value].passes;
        for (uint32_t value = op->first_value; value < op->first_value + op->n_out; value++)
            values[value].passes = passes;
        for (int operand = 0; operand < op->n_in; operand++) {
            const fold__ref *ref = fold__passed_operand(m, program, op, operand);
            if (ref && ref->kind == FOLD__FROM_VALUE)
                values[ref->index].passes = 1;
        }
    }
}

/* The live ops of a trace become the cell's program; its arrays are large enough for all of them. */
static void fold__compile(const fold__trace *trace, fold__body_op *ops, fold__ref *refs, fold_shape *shapes,
                          fold__value *values)
{
    const fold_ctx *tracer = trace->tracer;
    fold__program *program = &trace->cell->program;
    uint32_t n_refs = 0, n_shapes = 0;
    int n_trace = 0;
    for (uint32_t id = 1; id <= tracer->n_nodes; id++) {
        if (fold__kind_of(tracer, id) != FOLD__OP)
            continue;
        const fold__sig *sig = fold__node_sig(tracer, id);
        trace->cell->trace[n_trace].op = sig->op;
        trace->cell->trace[n_trace].hash = tracer->trace_hash[id];
        int live = 0;
        for (uint32_t output = 0; output < sig->n_out; output++)
            live |= trace->live[id + output];
        trace->cell->trace[n_trace++].live = live;
        if (!live)
            continue;
        const fold__program one = fold__program_of(tracer, sig);
        fold__body_op *op = &ops[program->n_ops];
        *op = one.op[0];
        op->first_ref = n_refs;
        op->first_shape = n_shapes;
        op->first_value = (uint32_t)program->n_values;
        op->elem = (tracer->kind[id] & FOLD__ELEM) != 0;
        op->data = fold__node_op_data(tracer, id);
        memcpy(shapes + n_shapes, one.shape, (size_t)(op->n_in + op->n_out) * sizeof *shapes);
        n_shapes += (uint32_t)op->n_in + op->n_out;
        for (uint32_t edge = tracer->first_edge[id]; edge < tracer->first_edge[id + 1]; edge++)
            fold__trace_ref(trace, edge, &refs[n_refs++]);
        for (uint32_t output = 0; output < op->n_out; output++) {
            fold__value *value = &values[program->n_values];
            trace->value_of[id + output] = (uint32_t)program->n_values++;
            value->size = one.value[output].size;
            value->op = (uint32_t)program->n_ops;
            value->elem = op->elem;
        }
        program->n_ops++;
    }
    program->n_refs = (int)n_refs;
    for (int output = 0; output < program->n_out; output++) {
        refs[n_refs].kind = FOLD__FROM_VALUE;
        refs[n_refs].index = trace->value_of[trace->out[output]];
        refs[n_refs++].offset = 0;
    }
    program->op = ops;
    program->ref = refs;
    program->shape = shapes;
    program->value = values;
    program->out = refs + program->n_refs;
    fold__mark_passes(tracer->model, program, values);
}

/* One block holds a cell: its names, trace and program. */
static int fold__store_cell(fold_model *m, fold__cell_data *cell, const fold_cell_desc *desc,
                            const uint32_t *out)
{
    fold_ctx *tracer = m->tracer;
    const size_t nodes = tracer->n_nodes + 1, edges = tracer->n_edges, name = strlen(desc->name) + 1;
    enum { OPS, REFS, SHAPES, VALUES, TRACE, VALUE_OF, USER, NAME, LIVE, PARTS };
    const size_t sizes[PARTS] = { nodes * sizeof(fold__body_op),
                                  (edges + FOLD_MAX_OUT) * sizeof(fold__ref),
                                  (edges + nodes) * sizeof(fold_shape),
                                  nodes * sizeof(fold__value),
                                  nodes * sizeof(fold__trace_op),
                                  nodes * sizeof(uint32_t),
                                  desc->user_size,
                                  name,
                                  nodes };
    size_t at[PARTS + 1] = { 0 };
    for (int part = 0; part < PARTS; part++)
        at[part + 1] = at[part] + fold__round_up(sizes[part], FOLD__ALIGN);
    char *block = (char *)m->arena.memory.alloc(at[PARTS], FOLD__ALIGN, m->arena.memory.user);
    if (!block) {
        fold__model_fail(m, FOLD_NO_MEMORY, "cell '%s': out of memory", desc->name);
        return 0;
    }
    memset(block, 0, at[PARTS]);
    cell->memory = block;
    cell->memory_size = at[PARTS];
    cell->desc = *desc;
    cell->name = (char *)memcpy(block + at[NAME], desc->name, name);
    cell->desc.name = cell->name;
    if (desc->user_size)
        cell->desc.user = memcpy(block + at[USER], desc->user, desc->user_size);
    cell->trace = (fold__trace_op *)(void *)(block + at[TRACE]);
    cell->n_trace = (int)tracer->frame.ordinal;
    cell->max_of_list = tracer->frame.list_max;
    cell->program.n_in = desc->n_in;
    cell->program.n_list = desc->n_list;
    cell->program.n_out = desc->n_out;
    cell->program.n_draws = (int)tracer->draws;
    cell->program.is_cell = 1;
    fold__trace trace = { tracer, cell, out, (uint32_t *)(void *)(block + at[VALUE_OF]),
                          (uint8_t *)block + at[LIVE] };
    fold__trace_live(&trace);
    fold__compile(&trace, (fold__body_op *)(void *)(block + at[OPS]), (fold__ref *)(void *)(block + at[REFS]),
                  (fold_shape *)(void *)(block + at[SHAPES]), (fold__value *)(void *)(block + at[VALUES]));
    return 1;
}

static const char *fold__cell_problem(const fold_cell_desc *desc)
{
    if (!desc || !desc->name || !desc->body)
        return "it needs a name and a body";
    if (desc->n_in > FOLD_MAX_CELL_IN || desc->n_list > FOLD_MAX_LIST)
        return "it takes at most 16 inputs and 4 list components";
    if (desc->n_in < 0 || desc->n_list < 0 || desc->n_in + desc->n_list < 1)
        return "it needs inputs";
    if (desc->n_out < 1 || desc->n_out > FOLD_MAX_OUT)
        return "it gives 1 to 8 outputs";
    for (int i = 0; i < desc->n_in; i++)
        if (!fold__shape_ok(&desc->in[i]))
            return "an input's shape is not valid";
    for (int component = 0; component < desc->n_list; component++)
        if (!fold__shape_ok(&desc->list[component]))
            return "a list component's shape is not valid";
    return NULL;
}

/* Runs the body over placeholders in the tracing context; the outputs' nodes, or 0 with the model's error
 * set. */
static int fold__trace_body(fold_model *m, const fold_cell_desc *desc, uint32_t *out, fold__cell_data *cell)
{
    fold_ctx *tracer = m->tracer;
    fold_node in[FOLD_MAX_CELL_IN + FOLD_MAX_LIST], result[FOLD_MAX_OUT];
    fold__reset(tracer);
    tracer->draws = 0;
    tracer->frame.cell = tracer->frame.tag = m->n_cells + 1;
    tracer->frame.tracing = 1;
    memset(result, 0, sizeof result);
    for (int input = 0; input < desc->n_in + desc->n_list; input++) {
        const uint32_t shape = fold__intern_shape(
            tracer, input < desc->n_in ? &desc->in[input] : &desc->list[input - desc->n_in]);
        if (shape == FOLD__NONE || !fold__room(tracer, 1, 0))
            break;
        in[input] = fold__handle(
            tracer, fold__append(tracer, (uint8_t)(FOLD__INPUT | (input < desc->n_in ? 0 : FOLD__ELEM)), 0, 0,
                                 0, shape, (uint64_t)input));
    }
    if (!fold__broken(tracer))
        desc->body(tracer, in, result, desc->user);
    if (fold__finish_outputs(tracer, desc->name, result, desc->n_out))
        for (int output = 0; output < desc->n_out; output++) {
            out[output] = tracer->source[result[output].id];
            cell->out[output] = tracer->shapes[tracer->shape[result[output].id]].shape;
        }
    if (fold__broken(tracer)) {
        fold__model_fail(m, tracer->error.status, "cell '%s': %s", desc->name, tracer->error.text);
        return 0;
    }
    return 1;
}

FOLD__ZEROS_BY_DEFAULT(fold_cell_desc)

FOLD_API fold_cell fold_cell_new(fold_model *m, const fold_cell_desc *desc)
{
    fold_cell none = { 0, 0 };
    uint32_t out[FOLD_MAX_OUT];
    if (!m || m->error.status)
        return none;
    const char *problem = fold__cell_problem(desc);
    if (problem) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "cell '%s': %s", desc && desc->name ? desc->name : "",
                         problem);
        return none;
    }
    if (m->tracer && m->tracer->frame.tracing) {
        fold__model_fail(m, FOLD_BAD_CELL, "cell '%s': a cell cannot be made in the body of another",
                         desc->name);
        return none;
    }
    if (!m->tracer) {
        fold_ctx_desc ctx_desc = fold_ctx_desc_default();
        ctx_desc.training = 1;
        ctx_desc.memory = m->arena.memory;
        m->tracer = fold_ctx_new(m, &ctx_desc);
    }
    if (!m->tracer ||
        !fold__arena_need(&m->arena, FOLD__M_CELLS, (m->n_cells + 1) * sizeof(fold__cell_data))) {
        fold__model_fail(m, FOLD_NO_MEMORY, "cell '%s': out of memory", desc->name);
        return none;
    }
    fold__cell_data *cell = &fold__cells(m)[m->n_cells];
    memset(cell, 0, sizeof *cell);
    const int fine = fold__trace_body(m, desc, out, cell) && fold__store_cell(m, cell, desc, out);
    memset(&m->tracer->frame, 0, sizeof m->tracer->frame);
    if (!fine)
        return none;
    const fold_cell handle = { ++m->n_cells, m->salt };
    return handle;
}

static void fold__cells_free(fold_model *m)
{
    for (uint32_t cell = 0; cell < m->n_cells; cell++)
        fold__release(m, fold__cells(m)[cell].memory, fold__cells(m)[cell].memory_size);
}

/* -- calls ----------------------------------------------------------------------------------- */

/* The operands of a call and the shapes of its list's components. */
static int fold__check_call(fold_ctx *f, const fold__cell_data *cell, const fold_node *in, int n_in,
                            const fold_node *list, int count, fold__operand *operand, uint32_t *list_shape)
{
    if (!fold__count_ok(f, count, cell->name))
        return 0;
    if (n_in != cell->desc.n_in) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "cell '%s': takes %d inputs, got %d", cell->name, cell->desc.n_in,
                   n_in);
        return 0;
    }
    if ((n_in && !in) || (count && !list)) {
        fold__missing(f, cell->name);
        return 0;
    }
    if (count && !cell->desc.n_list) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "cell '%s': it takes no list", cell->name);
        return 0;
    }
    if (!count && cell->max_of_list) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "cell '%s': it takes the maximum over its list, which is empty",
                   cell->name);
        return 0;
    }
    for (int input = 0; input < n_in; input++)
        if (!fold__operand_of(f, in[input], cell->name, &operand[input]))
            return 0;
    for (int component = 0; component < cell->desc.n_list; component++) {
        list_shape[component] = count ? FOLD__NONE : fold__intern_shape(f, &cell->desc.list[component]);
        if (!fold__check_list(f, cell->name, list + component, (size_t)cell->desc.n_list, (size_t)count,
                              &list_shape[component]) ||
            list_shape[component] == FOLD__NONE)
            return 0;
    }
    return 1;
}

/* A cell whose body has run: a cell made meanwhile, which is an error, may have moved it. */
static const fold__cell_data *fold__cell_after_body(fold_ctx *f, uint32_t id, uint32_t cells)
{
    const fold__cell_data *cell = &fold__cells(f->model)[id];
    if (f->model->n_cells != cells && !fold__broken(f))
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': a cell cannot be made in the body of another, '%s'",
                   fold__cells(f->model)[cells].name, cell->name);
    return cell;
}

/* A call inside another body: the cell's body, inlined, and its outputs as consecutive windows. */
static FOLD__NOINLINE fold_node fold__inline_call(fold_ctx *f, uint32_t id, const fold_node *in, int n_in,
                                                  const fold__operand *operands)
{
    const fold__cell_data *cell = &fold__cells(f->model)[id];
    const uint32_t cells = f->model->n_cells;
    fold_node first = fold__null, out[FOLD_MAX_OUT];
    fold_shape shape[FOLD_MAX_CELL_IN];
    memset(out, 0, sizeof out);
    for (int input = 0; input < n_in; input++)
        shape[input] = *fold__operand_shape(f, &operands[input]);
    if (!fold__check_cell_shapes(f, cell, shape, n_in))
        return fold__null;
    if (cell->desc.n_list) {
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': a cell with a list cannot be called in a cell body",
                   cell->name);
        return fold__null;
    }
    cell->desc.body(f, in, out, cell->desc.user);
    cell = fold__cell_after_body(f, id, cells);
    for (int output = 0; output < cell->desc.n_out; output++) {
        fold__operand operand;
        if (!out[output].id && !fold__broken(f))
            fold__fail(f, FOLD_BAD_CELL, "cell '%s': its body left output %d null", cell->name, output);
        if (!fold__operand_of(f, out[output], cell->name, &operand))
            return fold__null;
    }
    for (int output = 0; output < cell->desc.n_out; output++) {
        fold__operand operand;
        if (!fold__operand_of(f, out[output], cell->name, &operand))
            return fold__null;
        const fold_shape output_shape = *fold__operand_shape(f, &operand);
        const fold_node window = fold__window(f, &operand, 0, &output_shape, 0);
        if (!window.id)
            return fold__null;
        f->node_data[window.id] = (uint64_t)cell->desc.n_out;
        if (!output)
            first = window;
    }
    return first;
}

static fold_node fold__eager_call(fold_ctx *f, const fold__request *request, const fold__list *list);

static fold_node fold__call(fold_ctx *f, fold_cell cell, const fold_node *in, int n_in,
                            const fold_node *items, int count)
{
    fold__operand operands[FOLD_MAX_CELL_IN];
    fold__list list;
    fold__request request;
    if (fold__broken(f))
        return fold__null;
    if (!cell.id || cell.salt != f->model->salt || cell.id > f->model->n_cells) {
        fold__fail(f, FOLD_BAD_HANDLE, "call: not a cell of this context's model");
        return fold__null;
    }
    const fold__cell_data *callee = &fold__cells(f->model)[cell.id - 1];
    fold__clear_request(&request);
    if (!fold__check_call(f, callee, in, n_in, items, count, operands, request.list_shape))
        return fold__null;
    if (f->frame.cell)
        return fold__inline_call(f, cell.id - 1, in, n_in, operands);
    memset(&list, 0, sizeof list);
    list.first = items;
    list.step = (size_t)callee->desc.n_list;
    list.count = (size_t)count;
    request.op = FOLD__CELL_OP | (cell.id - 1);
    request.in = operands;
    request.n_in = (uint32_t)n_in;
    request.n_list = callee->desc.n_list;
    request.list = request.n_list ? &list : NULL;
    if (f->eager)
        return fold__eager_call(f, &request, &list);
    request.data = callee->program.n_draws ? fold__draw_base(f) : 0;
    f->draws += (uint64_t)callee->program.n_draws;
    return fold__record(f, &request);
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
    const uint32_t kind = fold__kind_of(f, call.id);
    const int count = kind == FOLD__OP ? fold__node_sig(f, call.id)->n_out
                      : kind == FOLD__WINDOW && fold__node_outputs(f, call.id)
                          ? fold__node_outputs(f, call.id)
                          : 1;
    if (i < 0 || i >= count) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "out: output %d of a call with %d", i, count);
        return fold__null;
    }
    return fold__handle(f, call.id + (uint32_t)i);
}

/* ==== room: what a run knows ================================================================
   Owns: the structs and arrays of a run, their pointers, and the renewal of these when arrays have moved. The
   rooms below decide what runs, in which batches and where it lies, and write it here. Calls: the
   context's data, signatures, and of the plan cache fold__forget_plans. Must not know how anything is
   decided.

   Six structs tell of a signature, from what lasts longest to what lasts shortest:
     fold__sig         of the context: the key, the program and the shapes of equal calls
     fold__known       of the context, one for each fold__sig: where the next three are found
     fold__analysis    what follows for its program when certain inputs get gradients; for many runs
     fold__value_info  a value, input or operand of its program, as an analysis found it
     fold__run_sig     the signature in a run: how many calls, which inputs get gradients
     fold__group_sig   the signature in a group of a run: its calls there, what feeds it, its buffers */

/* Where a buffer of a program lives: nowhere, in the group's region, or in a worker's scratch, where it lasts
   for a batch or for a tile of its rows. */
enum { FOLD__SLAB_NONE, FOLD__SLAB, FOLD__PER_BATCH, FOLD__PER_TILE };
/* How a gradient is put together. */
enum {
    FOLD__GRAD_ZERO,       /* nobody contributes: it is cleared */
    FOLD__GRAD_WHOLE,      /* one contribution is written in place */
    FOLD__GRAD_PARTS,      /* several are written in place, which together cover it */
    FOLD__GRAD_SOME_PARTS, /* several are written in place, and the rest is cleared before */
    FOLD__GRAD_SUM,        /* each contribution has a row of its own, and they are added up */
    FOLD__GRAD_ROOT        /* it is the root: one */
};
/* What a run does with a node. */
enum {
    FOLD__RUNS = 1,
    FOLD__BEARS = 2,   /* a root's gradient reaches it */
    FOLD__PERSIST = 4, /* its value is readable afterwards */
    FOLD__LINKED = 8, /* it crosses from the head into a sample or the tail, or from a sample into the tail */
    FOLD__TAIL = 16,
    FOLD__INNER = 32, /* something outside the tail reads it */
    FOLD__HEAD = 64,
    FOLD__PASSED = FOLD__RUNS | FOLD__BEARS | FOLD__HEAD /* what a call passes on to what it reads */
};

/* Calls of one signature that run together. */
typedef struct fold__batch {
    uint32_t group_sig, stage;       /* stage 0: a prologue, 1: an ordinary batch */
    uint32_t first, count;           /* its calls, in the order of the run */
    uint32_t first_slot, first_elem; /* their first rows in the signature's buffers */
    uint32_t elems;                  /* elements of their lists */
} fold__batch;
/* A group of samples, or the head, or the tail. Sizes and places are in floats. In the region its slabs come
   first, then rows of contributions, then gradients of leaves. */
typedef struct fold__group {
    uint32_t first_batch, end_batch, first_sig, end_sig, first_call, end_call, first_leaf, end_leaf;
    uint32_t bound; /* no order of its calls has fewer batches: the sum of its signatures' longest chains */
    uint32_t rows;  /* of contributions, in 16 floats */
    size_t floats;  /* of its slabs */
    size_t base, rows_at, leaf_at; /* where slabs, contributions and gradients of leaves begin */
} fold__group;
/* A signature in a group. */
typedef struct fold__group_sig {
    uint32_t run_sig, group, calls, elems;
    uint32_t first_record;            /* where its calls begin in calls_by_sig */
    uint32_t first_buffer, n_buffers; /* its buffers */
    uint32_t max_rows, max_elems; /* of a batch; while batches are made: rows and elements given out so far */
    uint32_t chain;               /* the longest chain of its own calls */
    uint32_t component;           /* signatures that feed each other have the same */
    uint32_t feeds;      /* where its words begin in the array of feeds: for each input, a bit for every
                            signature that feeds it */
    uint32_t bit;        /* its own bit there: bits are given out before signatures are sorted */
    uint32_t of_bit;     /* the signature whose bit is this one's place in the group */
    uint32_t last_read;  /* the last batch that reads its outputs; NONE: none does */
    uint32_t first_back; /* the first batch whose backward reads them, which comes last; NONE: none does */
    uint64_t recurrent;  /* mask of inputs that come from the same component */
    uint8_t n_in, n_list, n_out;
    uint8_t cyclic;    /* 1: it feeds itself; 2: with other signatures */
    uint8_t hoisted;   /* it has a prologue */
    uint8_t read_late; /* weight gradients read its outputs */
    uint8_t cleared;   /* mask of outputs whose gradients are cleared before any backward */
    size_t op_at;      /* where in scratch, behind its brief buffers, an op's own floats begin, */
    size_t turn_at;    /* then turns of ops with where their operands lie, */
    size_t free_at;    /* and then pointers to rows */
} fold__group_sig;
/* A buffer of a signature in a group: rows of one value, gradient or contribution. */
typedef struct fold__buffer {
    size_t offset, floats; /* in the group's region or in scratch */
    uint32_t size;         /* floats of a row */
    uint32_t first, last;  /* a slab's lifetime */
    uint8_t elem;          /* it has a row for each list element, else one for each call */
    uint8_t place;         /* FOLD__SLAB… */
} fold__buffer;
/* A signature in a run. Its first members are of the calls that run, the others follow from its analysis. */
typedef struct fold__run_sig {
    uint32_t levels; /* the longest chain of its own calls in the group being cut */
    uint32_t sig, first_info;
    uint32_t group_sig;         /* its number in the group being listed, else NONE */
    uint32_t first, first_elem; /* its first call that bears on the root, and the first with a list element */
    uint32_t calls;             /* how many run */
    uint32_t row_floats;        /* of values and gradients that outlive a batch, for a call, */
    uint32_t elem_floats;       /* and for a list element */
    uint32_t arrays;            /* of pointers to rows that a batch takes at most */
    size_t op_floats;           /* scratch of an op, at most */
    size_t elems;               /* list elements of the calls that run */
    uint8_t grad, partly;       /* some call needs a gradient; some does not */
    uint64_t slot_grad;         /* mask of inputs that get a gradient in some call */
    uint64_t slot_back;         /* mask of inputs that backward reads */
    uint64_t slot_late;         /* mask of inputs that weight gradients read at the end */
} fold__run_sig;
/* One value of an analysed program, one of its inputs (behind the values), or one operand of an op (behind
   those; of it only part, its size, and grad are set). */
typedef struct fold__value_info {
    uint64_t deps;      /* mask of inputs it depends on */
    uint64_t cover;     /* mask of parts that got a contribution */
    uint32_t part;      /* floats of such a part */
    uint8_t grad;       /* it gets a gradient */
    uint8_t mode;       /* FOLD__GRAD_…: how that is put together */
    uint8_t back, late; /* backward reads it; weight gradients read it when all batches have run backward */
    uint8_t stands;     /* it is needed even by a call whose list is empty */
    uint8_t grad_late;  /* weight gradients read its gradient */
    uint8_t brief;      /* where it lives if it does not outlive its batch: PER_TILE or PER_BATCH */
    int8_t out;         /* which output it is; -1: none */
} fold__value_info;
/* What is known of a signature's program in runs where these inputs get gradients. */
typedef struct fold__analysis {
    uint32_t next; /* the next analysis of the same signature, + 1 */
    uint32_t first_info;
    uint32_t row_floats, elem_floats, arrays; /* these and those below: see fold__run_sig */
    size_t op_floats;
    uint64_t slot_grad, slot_back, slot_late;
    uint8_t backward, grad; /* whether the run goes backward, and whether some call needs a gradient */
} fold__analysis;
/* What is known of a signature since parameters were added or frozen. */
typedef struct fold__known {
    uint32_t run, run_sig; /* the run that met it last, and its number there */
    uint32_t analyses;     /* the first of its analyses, + 1 */
    uint8_t trains;        /* its program trains a parameter */
} fold__known;
/* What a use of a parameter or shared node is: a segment of an op's weight, its bias, a value that is an
   operand, an input that all calls share. */
enum { FOLD__USE_WEIGHT, FOLD__USE_BIAS, FOLD__USE_VALUE, FOLD__USE_SLOT };
/* How the sum of a use joins its floats of the target's total: it is made in place, where no earlier use of
   the parameter reaches; by blocks, each added as soon as it is made; or apart, and then added. */
enum { FOLD__SUM_IN_PLACE, FOLD__SUM_BY_BLOCKS, FOLD__SUM_APART };
#define FOLD__NO_TOTAL SIZE_MAX
typedef struct fold__use {
    uint32_t run_sig, op, ref; /* the op of a program and its operand; of USE_SLOT, the input */
    uint32_t kind, target;     /* FOLD__USE_…, and the parameter or node */
    uint32_t first;            /* the first call that has rows of it: uses are in this order */
    int is_node;               /* the target is a node */
    int leads;                 /* it is the first use of its parameter */
    int sum;                   /* FOLD__SUM_… */
    size_t at, size;           /* its floats of the target */
    size_t sum_at;             /* where its sum lies in the run's sums */
    size_t total;  /* where its parameter's total lies there; NO_TOTAL: it is the gradient itself */
    uint64_t work; /* what it costs in the groups being summed */
} fold__use;

/* How a batch gets from row 0 of an operand to its own first row. The operand stays where it is (parameters,
   what is made tile by tile, or nothing, with base NULL), or it moves by the calls or the list elements of
   the signature, or by rows of the batch. Otherwise it is what the batch reads or writes outside. */
enum { FOLD__STAYS, FOLD__BY_CALLS, FOLD__BY_ELEMS, FOLD__BY_ROWS, FOLD__OTHERWISE };
/* Where the rows of an operand lie, for all batches of a stage. */
typedef struct fold__spot {
    float *base;
    ptrdiff_t stride;
    const fold_rows *from; /* rows outside, or NULL */
    uint32_t offset;       /* floats into each row of those */
    uint8_t moves;
    uint8_t spread; /* a call's row is repeated for each of its list elements; how the rows move, or 0 */
} fold__spot;

/* What a stage of a signature does with an op. */
typedef struct fold__turn {
    uint32_t wanted; /* mask of operands that get a gradient from it, */
    uint32_t spread; /* and of those that get it by list elements first */
    int first, end;  /* the ops that run tile by tile with it */
    uint8_t forward, backward, tiled;
    uint8_t for_elements; /* only list elements need it */
    uint8_t is_list;      /* it takes a list of elements for each row */
    uint8_t data;         /* it reads data of each row */
    uint8_t finishes;     /* mask of outputs whose gradients are put together before */
    const fold__op_row *op;
    void (*run)(const fold_op_call *call);
    void (*run_back)(const fold_op_call *call);
    fold__spot *in, *out, *dout, *din; /* its operands, results and their gradients */
    fold__prepared prepared;
} fold__turn;

/* Who runs batches, one for each of the context's threads. */
typedef struct fold__worker {
    /* the batch, or part of one, and what its stage has in common with others */
    fold__batch batch;
    const fold__group_sig *group_sig;
    const fold__run_sig *run_sig;
    fold__program program;
    fold__turn *turn; /* of each of the program's ops in stage `stage` */
    uint32_t stage;
    const uint32_t *ids; /* its calls */
    uint32_t *list;      /* where each call's elements begin within the batch, and their end */
    float *region;       /* where its group's slabs begin */
    /* the tile */
    uint32_t tile, row;            /* rows of a tile; first row of the tile being run */
    ptrdiff_t at[FOLD__OTHERWISE]; /* where that row is for spots that move by calls, elements or rows */
    /* scratch */
    fold__spot *spot; /* of operands, values, and in training of values' gradients and of contributions */
    float *scratch;
    char *free; /* the part of scratch for pointers that is not in use */
    /* rows of inputs, of contributions to them, and of gradients that come from outside */
    fold_rows in[FOLD_MAX_IN], dest[FOLD_MAX_IN], outer[FOLD_MAX_OUT];
    /* the call of an op being made */
    fold__prepared prepared; /* of eager contexts and of sums */
    fold_rows op_in[FOLD_MAX_IN + 1], op_out[FOLD_MAX_OUT], op_dout[FOLD_MAX_OUT], op_din[FOLD_MAX_IN + 1];
    uint32_t one_list[2]; /* eager: the one list */
    /* what it counts */
    size_t kernel_calls, one_row_calls, events;
} fold__worker;

/* What a plan consists of, beside its arrays. */
typedef struct fold__counts {
    uint32_t last_node, calls, order, kept, leaves, batches, groups, group_sigs, buffers, run_sigs;
    int head, tail;         /* whether there is one */
    size_t region, scratch; /* floats of all groups' region, and of a worker's scratch */
    size_t without_reuse;   /* floats of all buffers if none shared memory */
    const char *one_group;  /* why there is but one */
} fold__counts;

/* What tells one run's structure from another's, quickly. */
typedef struct fold__identity {
    uint64_t hash;
    uint32_t nodes, edges, found, roots, leaves, layout;
    uint64_t mode;
} fold__identity;

/* What a run knows of nodes (by id), calls and edges: type, pointer, count. These arrays lie one behind the
   other in one array of the context. TRAINING: there in training alone. SAME: another name, for another
   phase, of an array that is not needed then. The first table is part of a plan, which may be kept: */
#define FOLD__RUN_NODE_ARRAYS(ALL, TRAINING, SAME)                                                       \
    ALL(uint8_t, state, nodes)         /* FOLD__RUNS … FOLD__HEAD */                                   \
    ALL(uint8_t, grad, nodes)          /* whether it gets a gradient */                                  \
    ALL(uint8_t, mode, nodes)          /* FOLD__GRAD_…: how its gradient is put together */            \
    ALL(uint32_t, slot, nodes)         /* of a call: its row in its signature's buffers */               \
    SAME(uint32_t, leaf_group, slot)   /* before: the group that reads a leaf */                         \
    SAME(uint32_t, gathered_at, slot)  /* before: of a value, the index in `gathered` of its call */     \
    SAME(uint32_t, sorted_depth, slot) /* before, by policy depth: the depth of a call */                \
    ALL(uint32_t, elem_slot, nodes)    /* of a call: its list's first row in buffers of elements */      \
    SAME(uint32_t, depth, elem_slot)   /* before: 1 + the largest depth of what it reads */              \
    ALL(uint32_t, chain, nodes)        /* the longest chain of its own signature that ends with it */    \
    SAME(uint32_t, grad_link, chain)   /* then: where a gradient lies that crosses between groups */     \
    ALL(uint32_t, reach, nodes)        /* the last call outside the tail that reads it */                \
    SAME(uint32_t, value_link, reach)  /* then: where a value lies that crosses between groups */        \
    ALL(uint32_t, calls, calls)        /* calls that run, in record order, head and tail apart */        \
    ALL(uint32_t, calls_by_sig, calls) /* the same, by signature of a group */                           \
    ALL(uint32_t, kept, nodes)         /* values that stay readable */                                   \
    ALL(uint32_t, order, 2 * calls)    /* calls in the order in which they run, batch by batch */        \
    TRAINING(uint32_t, leaves, nodes)  /* values that no op makes and that get gradients, by group */    \
    TRAINING(uint32_t, first_contribution, nodes) /* the first edge of those that are added up for it */ \
    TRAINING(uint32_t, contribution_at, edges)    /* its row, in 16 floats from the group's rows */      \
    TRAINING(uint32_t, next_contribution, edges)  /* the next edge to the same value */                  \
    TRAINING(uint32_t, contribution_floats, edges)
/* These are needed only until all is planned, or not before the plan runs: */
#define FOLD__RUN_PLANNING_ARRAYS(ALL, TRAINING, SAME)                                                     \
    ALL(uint32_t, maker, nodes) /* of a value: the signature in a group that makes it, and output */       \
    ALL(uint32_t, part, nodes)  /* the size of the parts that contributions cover; see `cover` */          \
    SAME(uint32_t, last_contribution, part)    /* then: the last edge of those that are added up for it */ \
    ALL(uint32_t, gathered, 6 * calls + edges) /* calls of signatures that feed each other, and more */    \
    SAME(uint32_t, spare_calls, gathered)      /* before: calls while they are put into another order */   \
    TRAINING(uint64_t, cover, nodes)           /* parts of a value that got a contribution, a bit each */  \
    TRAINING(float *, grad_row, nodes)         /* while it runs: where its gradient lies */

typedef struct fold__run {
    /* pointers to what it knows of nodes, calls and edges, and to its arrays in the context */
#define FOLD__RUN_MEMBER(type, pointer, count) type *pointer;
    FOLD__RUN_NODE_ARRAYS(FOLD__RUN_MEMBER, FOLD__RUN_MEMBER, FOLD__RUN_MEMBER)
    FOLD__RUN_PLANNING_ARRAYS(FOLD__RUN_MEMBER, FOLD__RUN_MEMBER, FOLD__RUN_MEMBER)
    FOLD__ARRAYS(FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__ARRAY_MEMBER,
                 FOLD__ARRAY_MEMBER)
    uint64_t moves; /* of the context's arrays, when these pointers were renewed */

    /* what is known of signatures from run to run */
    uint32_t runs; /* since it is known; the number of this run */
    uint32_t n_known, n_analyses, n_info;
    uint32_t of_layout, of_table; /* of which parameters and which signatures it is known */

    /* what this run was asked for */
    uint32_t root, root_offset; /* the root of a backward: its value, and which float of that it is */
    int backward;
    int changed;    /* parameters have changed since values of earlier runs were computed */
    int recompute;  /* those values are computed again: when parameters have changed, and in any backward */
    uint64_t began; /* when, by the clock */

    /* the plan */
    fold__counts counts;
    fold__identity identity; /* of the run, when the context keeps plans */
    size_t node_bytes;       /* bytes of the arrays of nodes that make up a plan */
    size_t replayed; /* where those lie in the array of plans when an earlier plan is used again; else 0 */
    uint32_t shown_epoch;              /* the recording whose plan this is; 0: no plan is whole */
    uint32_t shown_nodes, shown_edges; /* how long that recording was */

    /* sums of the uses of parameters and shared nodes */
    uint32_t n_uses;
    int shared_grads;   /* some use is of a shared node */
    int sums_in_one_go; /* one group and one thread make all sums of parameters: each is whole, and added,
                           before the next begins */
    size_t sum_floats;  /* of uses and totals */
    size_t sums_used;   /* of those and the looked-up rows so far */

    /* rows that are written and that nobody reads, one for each worker */
    float *trash;
    size_t widest_value; /* floats of such a row */
} fold__run;

static size_t fold__ctx_bytes(void)
{
    return fold__round_up(sizeof(fold_ctx), FOLD__ALIGN) + fold__round_up(sizeof(fold__run), FOLD__ALIGN);
}
static struct fold__run *fold__run_of(fold_ctx *f)
{
    return (fold__run *)(void *)((char *)f + fold__round_up(sizeof(fold_ctx), FOLD__ALIGN));
}

/* The call that makes a value: its own node or, of an output behind the first, the call's. */
static uint32_t fold__call_of(const fold_ctx *f, uint32_t id)
{
    return (f->kind[id] & FOLD__KIND_MASK) == FOLD__EXTRA ? fold__node_call(f, id) : id;
}

/* How many floats an input of a signature has: a fixed input or, behind those, a component of the list. */
FOLD__INLINE uint32_t fold__input_floats(const fold_ctx *f, const fold__sig *sig, int slot)
{
    return fold__sig_input(f, sig, (uint32_t)slot)->size;
}
/* How many floats an operand of an op has. */
FOLD__INLINE uint32_t fold__operand_floats(const fold__program *program, const fold__body_op *op, int operand)
{
    return (uint32_t)fold__shape_size(&program->shape[op->first_shape + (uint32_t)operand]);
}
/* The program of a signature in this run. */
FOLD__INLINE fold__program fold__program_in_run(const fold_ctx *f, uint32_t run_sig)
{
    return fold__program_of(f, &f->sigs[f->run->run_sig[run_sig].sig]);
}
/* A row of a slab, for a call or a list element. The region begins where the group's slabs do. */
FOLD__INLINE float *fold__slab_row(const fold__buffer *buffer, float *region, size_t row)
{
    return region + buffer->offset + row * buffer->size;
}

/* Carves arrays out of one array of the context: a first pass, without base, for the size, and a second for
   the pointers. */
typedef struct fold__carver {
    char *base;
    size_t at;
} fold__carver;
static void *fold__carve(fold__carver *carver, size_t count, size_t size)
{
    void *memory = carver->base ? carver->base + carver->at : NULL;
    carver->at += fold__round_up(fold__size(count, size, 0), FOLD__ALIGN);
    return memory;
}

static void fold__carve_nodes(fold_ctx *f, fold__carver *carver)
{
    fold__run *run = f->run;
    const size_t nodes = (size_t)f->n_nodes + 2;
    const size_t edges = (size_t)f->n_edges + 1;
    const size_t calls = (size_t)f->n_calls + 2;
#define FOLD__CARVE(type, pointer, count) run->pointer = (type *)fold__carve(carver, count, sizeof(type));
#define FOLD__CARVE_IN_TRAINING(type, pointer, count) \
    if (run->backward)                                \
    FOLD__CARVE(type, pointer, count)
#define FOLD__CARVE_SAME(type, pointer, other) run->pointer = run->other;
    FOLD__RUN_NODE_ARRAYS(FOLD__CARVE, FOLD__CARVE_IN_TRAINING, FOLD__CARVE_SAME)
    run->node_bytes = carver->at;
}

static void fold__carve_planning(fold_ctx *f, fold__carver *carver)
{
    fold__run *run = f->run;
    const size_t nodes = (size_t)f->n_nodes + 2, edges = f->n_edges, calls = (size_t)f->n_calls + 2;
    FOLD__RUN_PLANNING_ARRAYS(FOLD__CARVE, FOLD__CARVE_IN_TRAINING, FOLD__CARVE_SAME)
}

/* Renews the pointers of the context and the run after arrays may have moved. */
static FOLD__NOINLINE void fold__renew_run(fold_ctx *f)
{
    fold__run *run = f->run;
    fold__array *array = f->arrays;
    fold__renew(f);
    run->moves = f->moves;
    fold__carver carver = { array[FOLD__ARRAY_NODE_ARRAYS].data, 0 },
                 kept = { run->replayed ? f->plans + run->replayed : NULL, 0 };
    if (carver.base)
        fold__carve_nodes(f, &carver);
    if (carver.base)
        fold__carve_planning(f, &carver);
    if (kept.base)
        fold__carve_nodes(f, &kept);
#define FOLD__RENEW(name, type, pointer) run->pointer = (type *)(void *)f->arrays[FOLD__ARRAY_##name].data;
    FOLD__ARRAYS(FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__NO_ARRAY, FOLD__RENEW, FOLD__RENEW)
#undef FOLD__RENEW
    for (int thread = 0; thread < f->threads; thread++)
        run->worker[thread].scratch =
            run->scratch ? run->scratch + (size_t)thread * run->counts.scratch : NULL;
}

/* The same when nothing but a move can have changed them. */
FOLD__INLINE void fold__renew_moved(fold_ctx *f)
{
    if (f->run->moves != f->moves)
        fold__renew_run(f);
}

/* Forgets what earlier runs knew of signatures, which have other numbers now. */
static void fold__forget_runs(fold_ctx *f)
{
    fold__worker *worker = (fold__worker *)(void *)f->arrays[FOLD__ARRAY_WORKERS].data;
    f->arrays[FOLD__ARRAY_KNOWN].need = f->arrays[FOLD__ARRAY_ANALYSES].need =
        f->arrays[FOLD__ARRAY_INFO].need = 0;
    f->arrays[FOLD__ARRAY_TABLE_ROWS].need = 0;
    f->sig_tables++;
    f->run->shown_epoch = 0;
    f->run->replayed = 0;
    for (int thread = 0; thread < f->threads; thread++)
        worker[thread].events = 0;
    fold__forget_plans(f);
}

static int fold__reserve_workers(fold_ctx *f)
{
    if (!fold__need(f, FOLD__ARRAY_WORKERS, (size_t)f->threads, sizeof(fold__worker)))
        return 0;
    memset(f->arrays[FOLD__ARRAY_WORKERS].data, 0, (size_t)f->threads * sizeof(fold__worker));
    return 1;
}

/* Room for all that a run knows of nodes, calls and edges. */
static int fold__node_arrays(fold_ctx *f)
{
    fold__carver carver = { NULL, 0 };
    f->run->replayed = 0;
    fold__carve_nodes(f, &carver);
    fold__carve_planning(f, &carver);
    if (!fold__need(f, FOLD__ARRAY_NODE_ARRAYS, carver.at, 1))
        return 0;
    fold__renew_run(f);
    return 1;
}

/* ==== room: what runs, and what gets a gradient =============================================
   Owns: which nodes a run computes, which of them get a gradient, and how a value's gradient is put together
   from contributions. Batched and eager contexts both follow it: these rules are the contract.
   Calls: what a run knows, signatures, model. Must not know batches and places; the one exception is
   fold__place_contributions, which numbers rows from where it is told.

   The rule. A root's gradient reaches what the root depends on by inputs that pass gradients; of a call, that
   is what some output of it depends on in this way, whichever outputs are used. Each consumer that is reached
   computes its contribution from zero. A single contribution is written in place, and so are several to
   different parts of a value (64 at most). Others get rows of their own, which are added to zero in record
   order. The uses of shared operands and parameters are summed one by one, each over its rows in record
   order; rows of the head (what samples share by merging) come last. */

/* Eager: whether a node is the copy that stands for an output of a call. */
static int fold__is_output_barrier(const fold_ctx *f, uint32_t id)
{
    const uint32_t tag = f->eager && fold__is_op(f, id) ? f->sigs[f->sig[id]].tag_op : 0;
    return tag > FOLD__TAG_BARRIER + 0x8000u && tag < FOLD__TAG_SPREAD;
}

/* Eager: a need of one output of a cell's call is a need of all, as if the call were one node. Returns the
   first. */
static FOLD__NOINLINE uint32_t fold__need_siblings(const fold_ctx *f, uint32_t id, uint8_t marks)
{
    if (!fold__is_output_barrier(f, id))
        return id;
    const uint32_t first = fold__barrier_first_output(f, id), count = fold__barrier_outputs(f, id);
    for (uint32_t sibling = first; sibling < first + count; sibling++)
        f->run->state[sibling] |= marks;
    if (first + count - 1 > f->run->counts.last_node)
        f->run->counts.last_node = first + count - 1;
    return first;
}

/* Marks a value as needed and returns its node (of siblings the first). Returns 0 for a value of an earlier
   run: it is not computed again, except in backward and when parameters have changed since. */
FOLD__INLINE uint32_t fold__need_value(const fold_ctx *f, uint32_t source, uint8_t marks)
{
    if ((f->kind[source] & FOLD__DONE) && !f->run->recompute)
        return 0;
    f->run->state[source] |= marks;
    return f->eager ? fold__need_siblings(f, source, marks & FOLD__PASSED) : source;
}

/* Eager: which input of a call an op with this tag copies, or NONE. */
static uint32_t fold__barrier_input(const fold__sig *call, uint32_t tag)
{
    const uint32_t input = tag - 1 - FOLD__TAG_BARRIER;
    return tag > FOLD__TAG_BARRIER && input < (uint32_t)call->n_in + call->n_list ? input : FOLD__NONE;
}

/* Eager: a call needs all its inputs, however long its list is, as if it were one node. */
static void fold__need_inputs(const fold_ctx *f, uint32_t id)
{
    uint8_t *state = f->run->state;
    const uint32_t first = fold__barrier_first_node(f, id);
    if (!fold__is_output_barrier(f, id) || fold__barrier_first_output(f, id) != id)
        return;
    const fold__sig *call = &f->sigs[f->sigs[f->sig[id]].tag_cell];
    const fold__cell_data *cell = &fold__cells(f->model)[call->op & ~FOLD__CELL_OP];
    const uint8_t how = state[id] & FOLD__PASSED;
    for (uint32_t node = first; node < id; node++) {
        const uint32_t tag = fold__is_op(f, node) ? f->sigs[f->sig[node]].tag_op : 0;
        const uint32_t input = fold__barrier_input(call, tag);
        if (input != FOLD__NONE)
            state[node] |= call->differentiable >> input & 1 ? how : how & (uint8_t)~FOLD__BEARS;
        if (tag > FOLD__TAG_SPREAD && tag < FOLD__TAG_PARAM &&
            cell->trace[(tag - 1 - FOLD__TAG_SPREAD) / FOLD_MAX_IN].live)
            state[node] |= how;
    }
}

/* Whether a value that no op makes may get a gradient. */
static int fold__leaf_grad(const fold_ctx *f, uint32_t id)
{
    if (f->kind[id] & FOLD__KEEP_GRAD)
        return 1;
    switch (f->kind[id] & FOLD__KIND_MASK) {
    case FOLD__LOOKUP: return fold__trainable(f->model, &fold__params(f->model)[fold__node_table(f, id)]);
    case FOLD__PARAM: return fold__trainable(f->model, &fold__params(f->model)[fold__node_param(f, id)]);
    default: return 0;
    }
}
/* Whether a call makes the value of such a node. */
static int fold__makes_value(uint8_t kind)
{
    return (kind & FOLD__KIND_MASK) == FOLD__OP || (kind & FOLD__KIND_MASK) == FOLD__EXTRA;
}

/* Whether a call is of the tail: scalars that only combine samples' scalars on the way to the roots, such as
   the sum of losses. Gradients flow through it before any value exists, so it ties no samples together. All
   readers of the call are marked already. */
static int fold__is_tail(const fold_ctx *f, uint32_t id)
{
    const fold__run *run = f->run;
    const fold__sig *sig = &f->sigs[f->sig[id]];
    if ((run->state[id] & (FOLD__INNER | FOLD__HEAD)) || f->eager || fold__value_size(f, id) != 1)
        return 0;
    if (sig->is_cell || sig->shared || !(fold__op_of(f->model, sig->op)->flags & FOLD__FLOW))
        return 0;
    for (int slot = 0; slot < sig->n_in + sig->n_list; slot++)
        if (fold__input_floats(f, sig, slot) != 1)
            return 0;
    for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
        const uint8_t kind = f->kind[f->edge_source[edge]];
        const int runs = fold__makes_value(kind) && (run->recompute || !(kind & FOLD__DONE));
        if (!runs && run->backward && fold__leaf_grad(f, f->edge_source[edge]))
            return 0;
    }
    return 1;
}

/* Marks the head: what identical calls of several samples became. With all it depends on, it is the same
   whatever runs. It runs before the samples, and backward after them, so that it ties none together. In each
   sum of a weight's gradient its rows come last. */
static void fold__mark_found(fold_ctx *f)
{
    for (uint32_t at = 0; at < f->n_found; at++) {
        const fold__found found = f->found[at];
        memset(f->run->state + found.first, FOLD__HEAD, (size_t)found.last - found.first + 1);
    }
}
static int fold__head_runs(const fold_ctx *f)
{
    for (uint32_t id = 1; id <= f->n_nodes && f->n_found; id++)
        if ((f->run->state[id] & (FOLD__RUNS | FOLD__HEAD)) == (FOLD__RUNS | FOLD__HEAD))
            return 1;
    return 0;
}

/* The operands of a call, input by input: first fixed inputs, an edge each, then components of the list, an
   edge for each element. */
typedef struct fold__slots {
    const fold_ctx *ctx;
    const fold__sig *sig;
    uint32_t first_edge, elements;
} fold__slots;
FOLD__INLINE fold__slots fold__slots_of(const fold_ctx *f, uint32_t id)
{
    fold__slots slots = { f, &f->sigs[f->sig[id]], f->first_edge[id], 0 };
    if (slots.sig->n_list)
        slots.elements = (f->first_edge[id + 1] - slots.first_edge - slots.sig->n_in) / slots.sig->n_list;
    return slots;
}
/* How many elements a call's list has. */
static FOLD__NOINLINE uint32_t fold__elements_of(const fold_ctx *f, uint32_t id)
{
    return fold__slots_of(f, id).elements;
}
static int fold__n_slots(const fold__slots *slots) { return slots->sig->n_in + slots->sig->n_list; }
static uint32_t fold__slot_first(const fold__slots *slots, int slot)
{
    return slots->first_edge +
           (slot < slots->sig->n_in
                ? (uint32_t)slot
                : slots->sig->n_in + ((uint32_t)slot - slots->sig->n_in) * slots->elements);
}
static uint32_t fold__slot_edges(const fold__slots *slots, int slot)
{
    return slot < slots->sig->n_in ? 1 : slots->elements;
}
static uint32_t fold__slot_floats(const fold__slots *slots, int slot)
{
    return fold__input_floats(slots->ctx, slots->sig, slot);
}
static int fold__slot_shared(const fold__slots *slots, int slot)
{
    return slot < slots->sig->n_in && (slots->sig->shared >> slot & 1);
}

/* Whether a call passes gradients by one of its edges. */
static FOLD__NOINLINE int fold__edge_passes(const fold_ctx *f, uint32_t id, uint32_t edge)
{
    const fold__slots slots = fold__slots_of(f, id);
    int slot = (int)(edge - slots.first_edge);
    if (slot >= slots.sig->n_in)
        slot = slots.sig->n_in + (int)((edge - slots.first_edge - slots.sig->n_in) / slots.elements);
    return (int)(slots.sig->differentiable >> slot & 1);
}

/* Marks what a running call reads, and notes it as the last reader outside the tail where it is. */
static void fold__mark_inputs(fold_ctx *f, uint32_t id)
{
    fold__run *run = f->run;
    const fold__sig *sig = &f->sigs[f->sig[id]];
    const int some_stop = run->backward && sig->differentiable != (1ull << (sig->n_in + sig->n_list)) - 1;
    const int tail = fold__is_tail(f, id);
    const uint8_t how = run->state[id] & FOLD__PASSED, marks = (uint8_t)(tail ? how : how | FOLD__INNER);
    if (tail) {
        run->state[id] |= FOLD__TAIL;
        run->counts.tail = 1;
    }
    for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
        const uint8_t lost = some_stop && !fold__edge_passes(f, id, edge) ? FOLD__BEARS : 0;
        const uint32_t from = fold__need_value(f, f->edge_source[edge], marks & (uint8_t)~lost);
        if (!tail && run->reach[from] < id)
            run->reach[from] = id;
    }
}

/* Marks what a call of the head reads as of the head, though the call does not run. */
static void fold__mark_head(fold_ctx *f, uint32_t id)
{
    for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
        f->run->state[f->edge_source[edge]] |= FOLD__HEAD;
        if (f->eager)
            fold__need_siblings(f, f->edge_source[edge], FOLD__HEAD);
    }
}

/* Marks a call as its outputs are marked; its last reader is the last of theirs. */
static void fold__gather_outputs(const fold_ctx *f, uint32_t id)
{
    fold__run *run = f->run;
    const uint32_t end = id + f->sigs[f->sig[id]].n_out;
    for (uint32_t out_id = id + 1; out_id < end; out_id++) {
        run->state[id] |= run->state[out_id];
        if (run->reach[out_id] > run->reach[id])
            run->reach[id] = run->reach[out_id];
    }
    for (uint32_t out_id = id + 1; out_id < end && (run->state[id] & FOLD__HEAD); out_id++)
        run->state[out_id] |= FOLD__HEAD; /* all of a call, or nothing */
}

/* Lets a value that this run makes stay readable. */
static void fold__persist(fold_ctx *f, uint32_t source)
{
    fold__run *run = f->run;
    if (!fold__makes_value(f->kind[source]) || !(run->state[fold__call_of(f, source)] & FOLD__RUNS) ||
        (run->state[source] & FOLD__PERSIST))
        return;
    run->state[source] |= FOLD__PERSIST;
    run->kept[run->counts.kept++] = source;
}

/* Marks the ancestors of the roots and of kept nodes. */
static void fold__mark_needed(fold_ctx *f, const fold_node *roots, size_t n_roots)
{
    fold__run *run = f->run;
    run->counts.last_node = run->counts.kept = 0;
    run->counts.tail = 0;
    memset(run->state, 0, (size_t)f->n_nodes + 2);
    memset(run->reach, 0, ((size_t)f->n_nodes + 2) * sizeof *run->reach);
    fold__mark_found(f);
    for (size_t root = 0; root < n_roots; root++) {
        const uint32_t source = f->source[roots[root].id];
        const uint32_t id = fold__need_value(f, source, FOLD__RUNS | FOLD__BEARS);
        if (id > run->counts.last_node)
            run->counts.last_node = id;
    }
    /* kept nodes run too, but bear on no root */
    for (uint32_t source = 1; source <= f->n_nodes && f->n_keeps; source++) {
        if (!(f->kind[source] & FOLD__KEEP) || ((f->kind[source] & FOLD__DONE) && !run->changed))
            continue;
        const uint32_t id = fold__need_value(f, source, FOLD__RUNS);
        if (id > run->counts.last_node)
            run->counts.last_node = id;
    }
    for (uint32_t call = f->n_calls; call-- > 0;) {
        const uint32_t id = f->calls[call];
        fold__gather_outputs(f, id);
        if (!(run->state[id] & (FOLD__RUNS | FOLD__HEAD)))
            continue;
        if (f->eager)
            fold__need_inputs(f, id);
        if (run->state[id] & FOLD__RUNS)
            fold__mark_inputs(f, id);
        else
            fold__mark_head(f, id);
    }
    run->counts.head = fold__head_runs(f);
    for (size_t root = 0; root < n_roots; root++)
        fold__persist(f, f->source[roots[root].id]);
    for (uint32_t source = 1; source <= f->n_nodes && (f->n_keeps || f->any_done); source++)
        if (f->kind[source] & (FOLD__KEEP | FOLD__DONE))
            fold__persist(f, source);
}

/* Eager: whether a call gives gradients, as if it were one node: when its body trains something, when an
   input that the body reads has a gradient, or when the gradient of an output is kept. */
static int fold__call_grad(const fold_ctx *f, uint32_t id)
{
    const fold__run *run = f->run;
    if (!fold__is_output_barrier(f, id))
        return 0;
    const uint32_t call = f->sigs[f->sig[id]].tag_cell, first = fold__barrier_first_output(f, id);
    const fold__sig *sig = &f->sigs[call];
    int grad = run->known[call].trains;
    for (uint32_t output = 0; output < sig->n_out; output++)
        grad |= (f->kind[first + output] & FOLD__KEEP_GRAD) != 0;
    for (uint32_t node = fold__barrier_first_node(f, id); node < first && !grad; node++) {
        const uint32_t tag = fold__is_op(f, node) ? f->sigs[f->sig[node]].tag_op : 0;
        const uint32_t input = fold__barrier_input(sig, tag);
        grad = input != FOLD__NONE && (sig->differentiable >> input & 1) && run->grad[node];
    }
    return grad;
}

/* Marks the values that need a gradient: the root's gradient reaches them, and they depend on something that
   is trained or on a node whose gradient is kept. */
static void fold__mark_grads(fold_ctx *f)
{
    fold__run *run = f->run;
    memset(run->grad, 0, (size_t)f->n_nodes + 2);
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        if (kind != FOLD__EXTRA && !(run->state[id] & FOLD__BEARS))
            continue;
        switch (kind) {
        case FOLD__LOOKUP:
        case FOLD__PARAM:
        case FOLD__INPUT:
        case FOLD__REF: run->grad[id] = (uint8_t)fold__leaf_grad(f, id); break;
        case FOLD__EXTRA: run->grad[id] = run->grad[fold__node_call(f, id)]; break;
        case FOLD__OP: {
            const fold__slots slots = fold__slots_of(f, id);
            uint8_t grad = (f->kind[id] & FOLD__KEEP_GRAD) != 0;
            for (uint32_t output = 1; output < slots.sig->n_out; output++)
                grad |= (f->kind[id + output] & FOLD__KEEP_GRAD) != 0;
            grad |= run->known[f->sig[id]].trains;
            for (int slot = 0; slot < fold__n_slots(&slots) && !grad; slot++)
                if (slots.sig->differentiable >> slot & 1)
                    for (uint32_t edge = fold__slot_first(&slots, slot),
                                  end = edge + fold__slot_edges(&slots, slot);
                         edge < end; edge++)
                        grad |= run->grad[f->edge_source[edge]];
            run->grad[id] = grad || fold__call_grad(f, id);
            break;
        }
        default: break;
        }
    }
}

static uint32_t fold__common_divisor(uint32_t one, uint32_t other)
{
    while (other) {
        const uint32_t rest = one % other;
        one = other;
        other = rest;
    }
    return one;
}

/* Notes a contribution to `length` floats at `offset` of a value, and returns how the gradient is put
   together so far. `part` is the largest length of which all contributions so far are multiples, `cover` a
   mask of the pieces of that length that they cover. The mode is GRAD_SUM once a piece repeats or there are
   too many. */
static uint8_t fold__note_part(uint8_t mode, uint32_t *part, uint64_t *cover, uint32_t offset,
                               uint32_t length)
{
    if (mode == FOLD__GRAD_SUM)
        return mode;
    if (mode == FOLD__GRAD_ZERO) {
        *part = length;
        *cover = 0;
    }
    /* most are whole */
    if (!offset && *part == length) {
        if (*cover & 1)
            return FOLD__GRAD_SUM;
        *cover |= 1;
        return FOLD__GRAD_SOME_PARTS;
    }
    const int fits = *part == length && offset % length == 0;
    const uint32_t piece = fits ? length : fold__common_divisor(fold__common_divisor(*part, length), offset);
    const uint32_t first = offset / piece;
    const uint64_t seen = *cover;
    if ((offset + length) / piece > 64)
        return FOLD__GRAD_SUM;
    for (uint32_t at = 0, finer = *part / piece; finer > 1 && at < 64 && seen >> at; at++) {
        if (!at)
            *cover = 0;
        for (uint32_t fine = at * finer; fine < (at + 1) * finer && seen >> at & 1; fine++) {
            if (fine > 63)
                return FOLD__GRAD_SUM;
            *cover |= 1ull << fine;
        }
    }
    for (uint32_t at = first; at < first + length / piece; at++) {
        if (*cover >> at & 1)
            return FOLD__GRAD_SUM;
        *cover |= 1ull << at;
    }
    *part = piece;
    return FOLD__GRAD_SOME_PARTS;
}
/* How a gradient is put together, when all contributions are noted. */
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

/* Whether an input sends contributions by its edges. Shared inputs send theirs as uses. */
static int fold__slot_sends(const fold__slots *slots, int slot)
{
    return (slots->sig->differentiable >> slot & 1) && !fold__slot_shared(slots, slot);
}

/* Finds how the gradient of every value that needs one is put together. */
static void fold__gradient_modes(fold_ctx *f)
{
    fold__run *run = f->run;
    memset(run->mode, FOLD__GRAD_ZERO, (size_t)f->n_nodes + 2);
    memset(run->first_contribution, 255, ((size_t)f->n_nodes + 2) * sizeof *run->first_contribution);
    for (uint32_t id = 1; id <= run->counts.last_node; id++) {
        if (!fold__is_op(f, id) || !(run->state[id] & FOLD__RUNS) || !run->grad[id])
            continue;
        const fold__slots slots = fold__slots_of(f, id);
        for (int slot = 0; slot < fold__n_slots(&slots); slot++) {
            if (!fold__slot_sends(&slots, slot))
                continue;
            const uint32_t length = fold__slot_floats(&slots, slot);
            for (uint32_t edge = fold__slot_first(&slots, slot), end = edge + fold__slot_edges(&slots, slot);
                 edge < end; edge++) {
                const uint32_t source = f->edge_source[edge];
                if (!run->grad[source])
                    continue;
                run->mode[source] = fold__note_part(run->mode[source], &run->part[source],
                                                    &run->cover[source], f->edge_offset[edge], length);
            }
        }
    }
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (run->grad[id])
            run->mode[id] =
                fold__settle_parts(run->mode[id], run->part[id], run->cover[id], fold__value_size(f, id));
    run->mode[run->root] = FOLD__GRAD_ROOT;
}

/* Gives rows to the edges of a call that do not write in place: in units of 16 floats from *at on or, where
   the value crosses between groups, from *at_linked on. The edges to a summed value form a list in record
   order. */
static void fold__place_contributions(fold_ctx *f, uint32_t id, uint32_t *at, uint32_t *at_linked)
{
    fold__run *run = f->run;
    const fold__slots slots = fold__slots_of(f, id);
    for (int slot = 0; slot < fold__n_slots(&slots); slot++) {
        if (!(slots.sig->differentiable >> slot & 1))
            continue;
        const uint32_t length = fold__slot_floats(&slots, slot);
        const int shared = fold__slot_shared(&slots, slot);
        for (uint32_t edge = fold__slot_first(&slots, slot), end = edge + fold__slot_edges(&slots, slot);
             edge < end; edge++) {
            const uint32_t source = f->edge_source[edge];
            if (!run->grad[source] || (!shared && run->mode[source] != FOLD__GRAD_SUM))
                continue;
            uint32_t *next = (run->state[source] & FOLD__LINKED) ? at_linked : at;
            run->contribution_at[edge] = *next;
            *next += (length + 15) / 16;
            if (shared)
                continue;
            run->contribution_floats[edge] = length;
            run->next_contribution[edge] = FOLD__NONE;
            if (run->first_contribution[source] == FOLD__NONE)
                run->first_contribution[source] = edge;
            else
                run->next_contribution[run->last_contribution[source]] = edge;
            run->last_contribution[source] = edge;
        }
    }
}

/* ==== room: programs of a run's signatures ==================================================
   Owns: which values of a signature's program get a gradient, how that is put together, what must stay until
   backward, and how much room all that takes; the list of signatures that run. What it finds depends only on
   the program and on which inputs get gradients, so it is kept from run to run. Calls: what runs, op table.
   Of single calls it knows only how many there are of each signature and which of their operands get
   gradients. */

/* Whether what an operand refers to gets a gradient in this run. */
static int fold__ref_grad(const fold_ctx *f, const fold__run_sig *run_sig, const fold__program *program,
                          const fold__ref *ref)
{
    switch (ref->kind) {
    case FOLD__FROM_VALUE: return f->run->info[run_sig->first_info + ref->index].grad;
    case FOLD__FROM_PARAM: return fold__trainable(f->model, &fold__params(f->model)[ref->index]);
    default: return (int)(run_sig->slot_grad >> fold__ref_slot(program, ref) & 1);
    }
}
static fold__value_info *fold__info_of_ref(const fold_ctx *f, const fold__run_sig *run_sig,
                                           const fold__program *program, uint32_t ref)
{
    return f->run->info + run_sig->first_info +
           (uint32_t)(program->n_values + program->n_in + program->n_list) + ref;
}
/* Whether an operand gets a gradient from its op in this run. */
static int fold__ref_wanted(const fold_ctx *f, const fold__run_sig *run_sig, const fold__program *program,
                            const fold__body_op *op, int operand)
{
    return fold__info_of_ref(f, run_sig, program, op->first_ref + (uint32_t)operand)->grad;
}
/* Whether there is a parameter (id + 1) and it is trained. */
static int fold__param_trains(const fold_ctx *f, uint32_t id)
{
    return id && fold__trainable(f->model, &fold__params(f->model)[id - 1]);
}

/* Notes what the backward of an op and its weight gradients read. */
static void fold__note_reads(const fold_ctx *f, fold__run_sig *run_sig, const fold__program *program,
                             const fold__body_op *op)
{
    fold__value_info *info = f->run->info + run_sig->first_info;
    const fold__op_row *op_row = fold__op_of(f->model, op->op);
    const int linear = op->op == FOLD__OP_linear, late = linear && fold__param_trains(f, op->param[0]);
    const int reads_in = !linear && (op_row->def.needs & FOLD_NEEDS_IN);
    for (int operand = 0; operand < op->n_in && (reads_in || late); operand++) {
        const fold__ref *ref = &program->ref[op->first_ref + (uint32_t)operand];
        if (linear && op->attr[1] && operand == op->n_in - 1)
            continue; /* the rows it started from */
        if (ref->kind == FOLD__FROM_VALUE) {
            info[ref->index].back = 1;
            info[ref->index].late |= (uint8_t)late;
        }
        if (ref->kind != FOLD__FROM_INPUT && ref->kind != FOLD__FROM_LIST)
            continue;
        run_sig->slot_back |= 1ull << fold__ref_slot(program, ref);
        if (late)
            run_sig->slot_late |= 1ull << fold__ref_slot(program, ref);
    }
    for (int output = 0; output < op->n_out && (op_row->def.needs & FOLD_NEEDS_OUT); output++)
        info[op->first_value + (uint32_t)output].back = 1;
}

/* Whether a value outlives its batch. */
static int fold__outlives(const fold__value_info *info) { return info->out >= 0 || info->back || info->late; }
/* Whether the gradient of an output is exactly what comes from outside. */
static int fold__grad_is_outer(const fold__value_info *info)
{
    return info->mode == FOLD__GRAD_WHOLE && info->out >= 0;
}

/* Scratch floats an op needs beside its operands. */
static size_t fold__op_scratch(const fold_ctx *f, const fold__program *program, const fold__body_op *op)
{
    size_t floats = 64 + (size_t)fold__op_of(f->model, op->op)->def.scratch;
    for (int operand = 0; operand < op->n_in + op->n_out; operand++)
        floats += 2 * (size_t)fold__shape_size(&program->shape[op->first_shape + (uint32_t)operand]);
    if (op->op == FOLD__OP_linear)
        floats += fold__linear_scratch(f->model->kernels, &fold__params(f->model)[op->param[0] - 1]);
    return floats;
}

/* Measures the scratch that a batch takes: the most that an op takes, and how many arrays of pointers one op
   and the batch's inputs and outputs need. */
static void fold__measure_scratch(const fold_ctx *f, fold__run_sig *run_sig, const fold__program *program)
{
    uint32_t arrays = 0;
    run_sig->op_floats = 0;
    for (int op_index = 0; op_index < program->n_ops; op_index++) {
        const uint32_t of_op = 2u * ((uint32_t)program->op[op_index].n_in + program->op[op_index].n_out) + 1;
        run_sig->op_floats =
            fold__max_size(run_sig->op_floats, fold__op_scratch(f, program, &program->op[op_index]));
        arrays = of_op > arrays ? of_op : arrays;
    }
    run_sig->arrays =
        arrays + 2u * (uint32_t)(program->n_in + program->n_list) + (uint32_t)program->n_out + 1;
}

/* Measures what a call, and an element of its list, add to what must outlive a batch. */
static void fold__measure_program(fold__run_sig *run_sig, const fold__program *program,
                                  const fold__value_info *info)
{
    run_sig->row_floats = run_sig->elem_floats = 0;
    for (int value = 0; value < program->n_values; value++) {
        const int grads = info[value].grad ? (info[value].out >= 0) + info[value].grad_late : 0;
        *(program->value[value].elem ? &run_sig->elem_floats : &run_sig->row_floats) +=
            program->value[value].size * (uint32_t)(fold__outlives(&info[value]) + grads);
    }
}

/* Products and list ops take all rows of a batch at once. Other ops run tile by tile, neighbours together
   when both are of calls or both of list elements. */
static int fold__runs_tiled(const fold_ctx *f, const fold__body_op *op)
{
    return !(fold__op_of(f->model, op->op)->flags & (FOLD__GEMM | FOLD__LIST));
}
static int fold__same_span(const fold_ctx *f, const fold__body_op *one, const fold__body_op *other)
{
    return fold__runs_tiled(f, one) && fold__runs_tiled(f, other) && one->elem == other->elem;
}

/* Marks outputs, values that are made and read within one span of ops, so that a tile of each is enough, and
 * gradients that are read late. */
static void fold__mark_places(const fold_ctx *f, const fold__program *program, fold__value_info *info)
{
    for (int op_index = 0, span = 0; op_index < program->n_ops; op_index++) {
        const fold__body_op *op = &program->op[op_index];
        if (op_index && !fold__same_span(f, op - 1, op))
            span = op_index;
        for (uint32_t value = op->first_value; value < op->first_value + op->n_out; value++) {
            info[value].out = -1;
            info[value].brief = fold__runs_tiled(f, op) ? FOLD__PER_TILE : FOLD__PER_BATCH;
            info[value].grad_late = op->op == FOLD__OP_linear && (fold__param_trains(f, op->param[0]) ||
                                                                  fold__param_trains(f, op->param[1]));
        }
        for (uint32_t operand = op->first_ref; operand < op->first_ref + op->n_in; operand++)
            if (program->ref[operand].kind == FOLD__FROM_VALUE &&
                program->value[program->ref[operand].index].op < (uint32_t)span)
                info[program->ref[operand].index].brief = FOLD__PER_BATCH;
    }
    for (int output = 0; output < program->n_out; output++) {
        info[program->out[output].index].out = (int8_t)output;
        info[program->out[output].index].brief = FOLD__PER_BATCH;
    }
}

/* Marks the values that lead to outputs by other ways than through the elements of a list. */
static void fold__mark_standing(const fold__program *program, fold__value_info *info)
{
    for (int output = 0; output < program->n_out; output++)
        info[program->out[output].index].stands = 1;
    for (int op_index = program->n_ops; op_index-- > 0;) {
        const fold__body_op *op = &program->op[op_index];
        int stands = 0;
        for (int output = 0; output < op->n_out && !op->elem; output++)
            stands |= info[op->first_value + (uint32_t)output].stands;
        for (int operand = 0; operand < op->n_in && stands; operand++)
            if (program->ref[op->first_ref + (uint32_t)operand].kind == FOLD__FROM_VALUE)
                info[program->ref[op->first_ref + (uint32_t)operand].index].stands = 1;
    }
}
/* Whether only list elements need what an op makes. Calls with an empty list do without it. */
static int fold__for_elements(const fold__program *program, const fold__value_info *info,
                              const fold__body_op *op)
{
    int stands = !program->n_list || op->elem;
    for (int output = 0; output < op->n_out && !stands; output++)
        stands = info[op->first_value + (uint32_t)output].stands;
    return !stands;
}

/* Notes the size of every operand and whether it gets a gradient. */
static void fold__mark_wanted(const fold_ctx *f, const fold__run_sig *run_sig, const fold__program *program)
{
    const fold__value_info *info = f->run->info + run_sig->first_info;
    for (int op_index = 0; op_index < program->n_ops; op_index++) {
        const fold__body_op *op = &program->op[op_index];
        for (int operand = 0; operand < op->n_in; operand++) {
            fold__value_info *ref = fold__info_of_ref(f, run_sig, program, op->first_ref + (uint32_t)operand);
            ref->part = fold__operand_floats(program, op, operand);
            if (!info[op->first_value].grad || !fold__differentiable(fold__op_of(f->model, op->op), operand))
                continue;
            ref->grad =
                fold__ref_grad(f, run_sig, program, &program->ref[op->first_ref + (uint32_t)operand]) != 0;
        }
    }
}

/* Finds which inputs each value depends on and whether it gets a gradient. */
static void fold__mark_gradients(const fold_ctx *f, const fold__run_sig *run_sig,
                                 const fold__program *program, fold__value_info *info)
{
    for (int op_index = 0; op_index < program->n_ops; op_index++) {
        const fold__body_op *op = &program->op[op_index];
        uint64_t deps = 0;
        int grad = fold__param_trains(f, op->param[0]) || fold__param_trains(f, op->param[1]);
        for (int operand = 0; operand < op->n_in; operand++) {
            const fold__ref *ref = &program->ref[op->first_ref + (uint32_t)operand];
            if (ref->kind == FOLD__FROM_VALUE)
                deps |= info[ref->index].deps;
            else if (ref->kind != FOLD__FROM_PARAM)
                deps |= 1ull << fold__ref_slot(program, ref);
            grad |= fold__differentiable(fold__op_of(f->model, op->op), operand) &&
                    fold__ref_grad(f, run_sig, program, ref);
        }
        for (int output = 0; output < op->n_out; output++) {
            info[op->first_value + (uint32_t)output].deps = deps;
            info[op->first_value + (uint32_t)output].grad =
                (uint8_t)(grad && f->run->backward && program->value[op->first_value].passes);
        }
    }
    for (int output = 0; output < program->n_out; output++) /* it may be kept where nothing passes it on */
        info[program->out[output].index].grad |= run_sig->grad;
}

static void fold__note_info_part(fold__value_info *info, uint32_t offset, uint32_t length)
{
    info->mode = fold__note_part(info->mode, &info->part, &info->cover, offset, length);
}
static void fold__settle_info_parts(fold__value_info *info, uint32_t size)
{
    info->mode = fold__settle_parts(info->mode, info->part, info->cover, size);
}

/* Notes what each op that goes backward reads, and the contributions it makes to values and inputs. */
static void fold__note_contributions(const fold_ctx *f, fold__run_sig *run_sig, const fold__program *program,
                                     fold__value_info *info)
{
    fold__value_info *inputs = info + program->n_values;
    for (int op_index = 0; op_index < program->n_ops; op_index++) {
        const fold__body_op *op = &program->op[op_index];
        if (!info[op->first_value].grad)
            continue;
        fold__note_reads(f, run_sig, program, op);
        for (int operand = 0; operand < op->n_in; operand++) {
            const fold__ref *ref = &program->ref[op->first_ref + (uint32_t)operand];
            if (ref->kind == FOLD__FROM_PARAM || !fold__ref_wanted(f, run_sig, program, op, operand))
                continue;
            fold__note_info_part(ref->kind == FOLD__FROM_VALUE ? &info[ref->index]
                                                               : &inputs[fold__ref_slot(program, ref)],
                                 ref->offset, fold__operand_floats(program, op, operand));
        }
    }
}

/* How many values, inputs and operands of a program an analysis tells of. */
static uint32_t fold__n_info_of(const fold__program *program)
{
    return (uint32_t)(program->n_values + program->n_in + program->n_list + program->n_refs);
}

/* Analyses a signature's program: what its values depend on, whether they get gradients, how those are put
   together, and how much room all that takes. */
static void fold__analyse_signature(fold_ctx *f, fold__run_sig *run_sig)
{
    const fold__sig *sig = &f->sigs[run_sig->sig];
    const fold__program program = fold__program_of(f, sig);
    fold__value_info *info = f->run->info + run_sig->first_info, *inputs = info + program.n_values;
    memset(info, 0, fold__n_info_of(&program) * sizeof *info);
    run_sig->slot_back = run_sig->slot_late = 0;
    fold__mark_standing(&program, info);
    fold__mark_places(f, &program, info);
    fold__mark_gradients(f, run_sig, &program, info);
    fold__mark_wanted(f, run_sig, &program);
    fold__note_contributions(f, run_sig, &program, info);
    for (int output = 0; output < program.n_out; output++) { /* what comes from outside */
        const uint32_t value = program.out[output].index;
        fold__note_info_part(&info[value], 0, program.value[value].size);
    }
    for (int value = 0; value < program.n_values; value++)
        fold__settle_info_parts(&info[value], program.value[value].size);
    for (int slot = 0; slot < program.n_in + program.n_list; slot++)
        fold__settle_info_parts(&inputs[slot], fold__input_floats(f, sig, slot));
    fold__measure_program(run_sig, &program, info);
    fold__measure_scratch(f, run_sig, &program);
}

/* Whether a program passes gradients to a parameter that is trained: a weight, a bias or an operand. */
static int fold__trains(const fold_ctx *f, const fold__program *program)
{
    const fold_model *m = f->model;
    for (int op_index = 0; op_index < program->n_ops; op_index++) {
        const fold__body_op *op = &program->op[op_index];
        for (int which = 0; which < 2 && program->value[op->first_value].passes; which++)
            if (op->param[which] && fold__trainable(m, &fold__params(m)[op->param[which] - 1]))
                return 1;
        for (int operand = 0; operand < op->n_in; operand++) {
            const fold__ref *ref = fold__passed_operand(m, program, op, operand);
            if (ref && ref->kind == FOLD__FROM_PARAM && fold__trainable(m, &fold__params(m)[ref->index]))
                return 1;
        }
    }
    return 0;
}

/* Makes room for what is known of every signature. All is forgotten when parameters were added or frozen, or
   when signatures began anew. */
static int fold__know_signatures(fold_ctx *f)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_KNOWN, f->n_sigs + 1, sizeof(fold__known)))
        return 0;
    fold__renew_moved(f);
    if (run->of_layout != f->model->layout || run->of_table != f->sig_tables || !++run->runs) {
        run->n_known = run->n_analyses = run->n_info = 0;
        run->runs = 1;
    }
    run->of_layout = f->model->layout;
    run->of_table = f->sig_tables;
    for (; run->n_known <= f->n_sigs; run->n_known++) {
        fold__known *known = &run->known[run->n_known];
        memset(known, 0, sizeof *known);
        if (!run->n_known)
            continue;
        const fold__program program = fold__program_of(f, &f->sigs[run->n_known]);
        known->trains = (uint8_t)fold__trains(f, &program);
    }
    return 1;
}

/* Adds a signature that this run had not met yet. Arrays may move. */
static FOLD__NOINLINE int fold__add_run_sig(fold_ctx *f, uint32_t sig)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_RUN_SIGS, run->counts.run_sigs + 1, sizeof(fold__run_sig)))
        return 0;
    fold__renew_moved(f);
    fold__run_sig *run_sig = &run->run_sig[run->counts.run_sigs];
    memset(run_sig, 0, sizeof *run_sig);
    run_sig->sig = sig;
    run_sig->group_sig = FOLD__NONE;
    run->known[sig].run = run->runs;
    run->known[sig].run_sig = run->counts.run_sigs++;
    return 1;
}

/* The signature of a call in this run. */
static fold__run_sig *fold__run_sig_of(const fold_ctx *f, uint32_t id)
{
    return &f->run->run_sig[f->run->known[f->sig[id]].run_sig];
}

/* Lists the calls that run, in record order, and their signatures. */
static int fold__collect(fold_ctx *f)
{
    fold__run *run = f->run;
    run->counts.run_sigs = run->counts.leaves = 0;
    if (!fold__know_signatures(f))
        return 0;
    const fold__known *known = run->known;
    const uint32_t now = run->runs;
    uint32_t count = 0;
    for (uint32_t call = 0; call < f->n_calls; call++) {
        const uint32_t id = f->calls[call], sig = f->sig[id];
        if (!(run->state[id] & FOLD__RUNS))
            continue;
        if (known[sig].run != now) {
            if (!fold__add_run_sig(f, sig))
                return 0;
            known = run->known; /* arrays may have moved */
        }
        fold__run_sig *run_sig = &run->run_sig[known[sig].run_sig];
        const int bears = run->state[id] & FOLD__BEARS;
        run->calls[count++] = id;
        run_sig->calls++;
        if (bears && !run_sig->first)
            run_sig->first = id;
        if (!f->sigs[sig].n_list)
            continue;
        const uint32_t elems = fold__elements_of(f, id);
        run_sig->elems += elems;
        if (bears && elems && !run_sig->first_elem)
            run_sig->first_elem = id;
    }
    run->counts.calls = count;
    return 1;
}

/* Finds the analysis of a signature's program for the inputs that get gradients in this run, or makes it.
   Arrays may move. */
static int fold__know_analysis(fold_ctx *f, uint32_t index)
{
    fold__run *run = f->run;
    fold__run_sig *run_sig = &run->run_sig[index];
    const uint32_t *first = &run->known[run_sig->sig].analyses;
    const fold__analysis *analysis = NULL;
    for (uint32_t at = *first; at && !analysis; at = run->analysis[at - 1].next) {
        analysis = &run->analysis[at - 1];
        if (analysis->slot_grad != run_sig->slot_grad || analysis->grad != run_sig->grad ||
            analysis->backward != run->backward)
            analysis = NULL;
    }
    if (analysis) {
        run_sig->first_info = analysis->first_info;
        run_sig->row_floats = analysis->row_floats;
        run_sig->elem_floats = analysis->elem_floats;
        run_sig->arrays = analysis->arrays;
        run_sig->op_floats = analysis->op_floats;
        run_sig->slot_back = analysis->slot_back;
        run_sig->slot_late = analysis->slot_late;
        return 1;
    }
    const fold__program program = fold__program_of(f, &f->sigs[run_sig->sig]);
    const uint32_t n_info = fold__n_info_of(&program);
    if (!fold__need(f, FOLD__ARRAY_ANALYSES, run->n_analyses + 1, sizeof(fold__analysis)))
        return 0;
    if (!fold__need(f, FOLD__ARRAY_INFO, run->n_info + n_info, sizeof(fold__value_info)))
        return 0;
    fold__renew_moved(f);
    run_sig = &run->run_sig[index];
    run_sig->first_info = run->n_info;
    run->n_info += n_info;
    fold__analyse_signature(f, run_sig);
    const fold__analysis made = { run->known[run_sig->sig].analyses,
                                  run_sig->first_info,
                                  run_sig->row_floats,
                                  run_sig->elem_floats,
                                  run_sig->arrays,
                                  run_sig->op_floats,
                                  run_sig->slot_grad,
                                  run_sig->slot_back,
                                  run_sig->slot_late,
                                  (uint8_t)run->backward,
                                  run_sig->grad };
    run->analysis[run->n_analyses++] = made;
    run->known[run_sig->sig].analyses = run->n_analyses;
    return 1;
}

/* Finds which inputs of each signature get a gradient in some call, and then the signature's analysis. */
static int fold__analyse_signatures(fold_ctx *f)
{
    fold__run *run = f->run;
    for (uint32_t call = 0; call < run->counts.calls && run->backward; call++) {
        const fold__slots slots = fold__slots_of(f, run->calls[call]);
        fold__run_sig *run_sig = fold__run_sig_of(f, run->calls[call]);
        run_sig->grad |= run->grad[run->calls[call]];
        run_sig->partly |= !run->grad[run->calls[call]];
        for (int slot = 0; slot < fold__n_slots(&slots); slot++)
            for (uint32_t edge = fold__slot_first(&slots, slot), end = edge + fold__slot_edges(&slots, slot);
                 edge < end && !(run_sig->slot_grad >> slot & 1); edge++)
                run_sig->slot_grad |= (uint64_t)run->grad[f->edge_source[edge]] << slot;
    }
    for (uint32_t sig = 0; sig < run->counts.run_sigs; sig++)
        if (!fold__know_analysis(f, sig))
            return 0;
    return 1;
}

/* ==== room: scheduler, groups of samples ====================================================
   Owns: which calls run together in a group. It puts the head first and the tail last and cuts the calls
   between them where no later call shares a value with earlier ones, so that groups fit into the cache and
   threads can share them out. When all groups are scheduled it finds what crosses between them. Calls:
   programs of a run's signatures, what runs. Sees calls, operands and sizes, never floats; must not know how
   a group is ordered. */

/* The last call that shares a value with this one, or a leaf that needs a gradient. Leaves of the head tie
   nothing together. */
FOLD__INLINE uint32_t fold__reach(const fold_ctx *f, uint32_t id)
{
    const fold__run *run = f->run;
    uint32_t last = run->reach[id];
    if (!run->backward)
        return last;
    for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
        const uint32_t source = f->edge_source[edge];
        const uint8_t kind = f->kind[source];
        const int own = run->grad[source] && !fold__makes_value(kind) && !(run->state[source] & FOLD__HEAD) &&
                        (kind & FOLD__KIND_MASK) != FOLD__PARAM;
        if (own && run->reach[source] > last)
            last = run->reach[source];
    }
    return last;
}

/* Where a unit that begins with call `at` ends: the first place where no later call shares a value with
   earlier ones. NONE: there is none before `end`. */
static uint32_t fold__end_of_unit(const fold_ctx *f, uint32_t at, uint32_t end)
{
    const uint32_t *calls = f->run->calls;
    for (uint32_t last = 0; at < end; at++) {
        const uint32_t reach = fold__reach(f, calls[at]);
        if (reach > last)
            last = reach;
        if (last <= calls[at])
            return at + 1;
    }
    return FOLD__NONE;
}

/* How many bytes calls [from, to) add to the working set of their group. */
static size_t fold__bytes_of_calls(const fold_ctx *f, uint32_t from, uint32_t to)
{
    const fold__run *run = f->run;
    size_t floats = 0;
    for (uint32_t call = from; call < to; call++) {
        const fold__run_sig *run_sig = fold__run_sig_of(f, run->calls[call]);
        floats += run_sig->row_floats;
        if (run_sig->elem_floats)
            floats += (size_t)run_sig->elem_floats * fold__elements_of(f, run->calls[call]);
    }
    return floats * sizeof(float);
}

static int fold__add_group(fold_ctx *f, uint32_t first_call, uint32_t end_call)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_GROUPS, run->counts.groups + 1, sizeof(fold__group)))
        return 0;
    fold__renew_moved(f);
    fold__group *group = &run->group[run->counts.groups++];
    memset(group, 0, sizeof *group);
    group->first_call = first_call;
    group->end_call = end_call;
    return 1;
}

/* Merges the tail's calls, which lie from first_tail on, back into those of samples, in record order, which
   is the order of ids. */
static void fold__sort_calls(fold_ctx *f, uint32_t first_sample, uint32_t first_tail)
{
    fold__run *run = f->run;
    memcpy(run->spare_calls, run->calls, run->counts.calls * sizeof *run->calls);
    for (uint32_t at = first_sample, sample = first_sample, tail = first_tail; at < run->counts.calls; at++)
        run->calls[at] = tail >= run->counts.calls ||
                                 (sample < first_tail && run->spare_calls[sample] < run->spare_calls[tail])
                             ? run->spare_calls[sample++]
                             : run->spare_calls[tail++];
}

/* How many floats the weights have that a program multiplies by. */
static size_t fold__weight_floats(const fold_ctx *f, const fold__program *program)
{
    size_t floats = 0;
    for (int op_index = 0; op_index < program->n_ops; op_index++)
        floats += program->op[op_index].param[0]
                      ? fold__params(f->model)[program->op[op_index].param[0] - 1].size
                      : 0;
    return floats;
}

/* How many rows a batch should have on average. Each batch reads its weights, and those of more than a few
   megabytes come from memory each time; so larger weights ask for more rows: 2 for a megabyte. */
static size_t fold__rows_wanted(const fold_ctx *f)
{
    size_t most = 0;
    for (uint32_t sig = 0; sig < f->run->counts.run_sigs; sig++) {
        const fold__program program = fold__program_in_run(f, sig);
        most = fold__max_size(most, fold__weight_floats(f, &program));
    }
    return f->group_rows ? fold__min_size(fold__max_size(most >> 17, f->group_rows), FOLD__MOST_ROWS) : 0;
}

/* Levels of the group being cut. No order of its calls has fewer batches than `own` and than `deep`. */
typedef struct fold__levels {
    uint32_t start;   /* the group's first call */
    uint32_t longest; /* the most calls of a unit */
    uint32_t counted; /* the first call that is not counted yet */
    uint32_t own;     /* the sum over signatures of the longest chain of their own calls */
    uint32_t deep;    /* the longest chain of calls of any signature */
} fold__levels;

/* Counts a call's levels. */
static void fold__count_levels(const fold_ctx *f, uint32_t id, fold__levels *levels)
{
    fold__run *run = f->run;
    const uint32_t sig = f->sig[id];
    uint32_t *depth = run->depth, own = 0, deep = 0; /* free until calls are batched */
    fold__run_sig *run_sig = fold__run_sig_of(f, id);
    for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
        const uint32_t from = fold__call_of(f, f->edge_source[edge]);
        if (!fold__is_op(f, from) || (run->state[from] & (FOLD__RUNS | FOLD__HEAD)) != FOLD__RUNS)
            continue;
        if (f->sig[from] == sig && run->chain[from] > own)
            own = run->chain[from];
        if (depth[from] > deep)
            deep = depth[from];
    }
    run->chain[id] = ++own;
    depth[id] = ++deep;
    if (own > run_sig->levels) {
        run_sig->levels = own;
        levels->own++;
    }
    if (deep > levels->deep)
        levels->deep = deep;
}

/* How many calls the head and the tail have. */
typedef struct fold__ends {
    uint32_t head, tail;
} fold__ends;
/* Puts the head's calls before those of samples, and the tail's behind them. */
static fold__ends fold__part_calls(fold_ctx *f)
{
    fold__run *run = f->run;
    fold__ends ends = { 0, 0 };
    uint32_t samples = 0;
    if (!run->counts.head && !run->counts.tail)
        return ends;
    for (uint32_t call = 0; call < run->counts.calls && run->counts.head; call++)
        ends.head += (run->state[run->calls[call]] & FOLD__HEAD) != 0;
    for (uint32_t call = 0, head = 0; call < run->counts.calls; call++) {
        const uint32_t id = run->calls[call];
        if (run->state[id] & FOLD__HEAD)
            run->spare_calls[head++] = id;
        else if (run->state[id] & FOLD__TAIL)
            run->spare_calls[ends.head + ends.tail++] = id;
        else
            run->calls[samples++] = id;
    }
    if (ends.head)
        memmove(run->calls + ends.head, run->calls, samples * sizeof *run->calls);
    memcpy(run->calls, run->spare_calls, ends.head * sizeof *run->calls);
    memcpy(run->calls + ends.head + samples, run->spare_calls + ends.head, ends.tail * sizeof *run->calls);
    return ends;
}

/* How many bytes all calls together add to a working set. */
static size_t fold__all_bytes(const fold_ctx *f)
{
    size_t floats = 0;
    for (uint32_t sig = 0; sig < f->run->counts.run_sigs; sig++) {
        const fold__run_sig *run_sig = &f->run->run_sig[sig];
        floats += (size_t)run_sig->calls * run_sig->row_floats + run_sig->elems * run_sig->elem_floats;
    }
    return floats * sizeof(float);
}

/* Whether batches of the group's calls up to `end` can have so many rows on average. Levels are counted only
   when the number of calls leaves it open: no chain is longer than the longest unit. */
static int fold__has_rows(const fold_ctx *f, fold__levels *levels, uint32_t end, size_t rows)
{
    const size_t calls = end - levels->start;
    if (calls >= (uint64_t)f->run->counts.run_sigs * levels->longest * rows)
        return 1;
    for (; levels->counted < end; levels->counted++)
        fold__count_levels(f, f->run->calls[levels->counted], levels);
    return calls >= (levels->own > levels->deep ? levels->own : levels->deep) * rows;
}

/* Cuts the calls of samples into groups, and counts the units, which are samples whose ranges in the
   recording do not interleave. With rows asked for, a group ends once it has used up the budget of bytes and
   has so many rows a batch. Without, groups are even: each ends with the unit that ends nearest to the
   budget. When all calls fit into the budget nothing is cut, and at most two units are counted. */
static int fold__cut_samples(fold_ctx *f, uint32_t first_call, uint32_t end_call, size_t budget, size_t rows,
                             uint32_t *units)
{
    fold__run *run = f->run;
    const int whole = fold__all_bytes(f) < budget;
    fold__levels levels = { first_call, 0, first_call, 0, 0 };
    int64_t left = (int64_t)budget; /* bytes of it */
    *units = 0;
    for (uint32_t unit = first_call, end; unit < end_call && !(whole && *units > 1); unit = end) {
        end = fold__end_of_unit(f, unit, end_call);
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
        for (uint32_t sig = 0; sig < run->counts.run_sigs; sig++)
            run->run_sig[sig].levels = 0;
        levels.start = levels.counted = cut;
        levels.longest = levels.own = levels.deep = 0;
        left = rows ? (int64_t)budget : left + (int64_t)budget;
    }
    return levels.start == end_call || fold__add_group(f, levels.start, end_call);
}

/* Cuts again where a few groups would be shared out unevenly among threads: as many for each thread, of equal
   size. */
static int fold__even_groups(fold_ctx *f, uint32_t first_call, uint32_t end_call, uint32_t *units)
{
    fold__run *run = f->run;
    const uint32_t head = run->counts.head ? 1 : 0;
    const size_t threads = (size_t)f->threads, groups = fold__round_up(run->counts.groups - head, threads);
    if (threads < 2 || *units < 2 || run->counts.groups - head >= 4 * threads)
        return 1;
    for (uint32_t sig = 0; sig < run->counts.run_sigs; sig++)
        run->run_sig[sig].levels = 0;
    run->counts.groups = head;
    return fold__cut_samples(f, first_call, end_call, fold__bytes_of_calls(f, first_call, end_call) / groups,
                             0, units);
}

/* Ties the lookups of a table that needs gradients together, because the table sums them in record order:
   each lookup reaches at least as far as those before it. */
static int fold__tie_lookups(fold_ctx *f)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_PLANNING, (size_t)f->model->n_params + 1, sizeof(uint32_t)))
        return 0;
    fold__renew_moved(f);
    uint32_t *last = (uint32_t *)(void *)f->planning; /* for each table, how far its lookups so far reach */
    memset(last, 0, f->model->n_params * sizeof *last);
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if ((f->kind[id] & FOLD__KIND_MASK) != FOLD__LOOKUP || !run->grad[id] ||
            (run->state[id] & FOLD__HEAD))
            continue;
        uint32_t *reach = &last[fold__node_table(f, id)];
        *reach = run->reach[id] = run->reach[id] > *reach ? run->reach[id] : *reach;
    }
    return 1;
}

/* Makes the head one group, then groups of samples, and the tail one behind them. */
static int fold__form_groups(fold_ctx *f)
{
    fold__run *run = f->run;
    uint32_t units;
    if (run->backward && !fold__tie_lookups(f))
        return 0;
    const fold__ends ends = fold__part_calls(f);
    const uint32_t first_call = ends.head;
    const uint32_t end_call = run->counts.calls - ends.tail;
    const uint32_t head = run->counts.head ? 1 : 0;
    run->counts.groups = 0;
    if (head && !fold__add_group(f, 0, first_call))
        return 0;
    if (!fold__cut_samples(f, first_call, end_call, f->group_bytes, fold__rows_wanted(f), &units) ||
        !fold__even_groups(f, first_call, end_call, &units))
        return 0;
    run->counts.one_group = "";
    if (run->counts.groups - head <= 1)
        run->counts.one_group =
            units > 1        ? "the budget holds all samples"
            : units || !head ? "the samples share nodes that need a gradient, or are recorded interleaved"
                             : "all calls are shared by samples";
    if (ends.tail && run->counts.groups - head <=
                         1) { /* nothing to tie together: the tail is an ordinary part of the one group */
        for (uint32_t call = end_call; call < run->counts.calls; call++)
            run->state[run->calls[call]] &= (uint8_t)~FOLD__TAIL;
        run->counts.tail = 0;
        run->counts.groups = head;
        fold__sort_calls(f, first_call, end_call);
        return fold__add_group(f, first_call, run->counts.calls);
    }
    if (!run->counts.groups)
        return fold__add_group(f, 0, 0); /* the root is a leaf */
    return !ends.tail || fold__add_group(f, end_call, run->counts.calls);
}

/* Marks the values that cross from samples into the tail or out of the head, and the leaves of the head that
   others read. */
static void fold__mark_links(fold_ctx *f)
{
    fold__run *run = f->run;
    for (uint32_t group = run->counts.head   ? 1
                          : run->counts.tail ? run->counts.groups - 1
                                             : run->counts.groups;
         group < run->counts.groups; group++)
        for (uint32_t call = run->group[group].first_call; call < run->group[group].end_call; call++)
            for (uint32_t edge = f->first_edge[run->calls[call]]; edge < f->first_edge[run->calls[call] + 1];
                 edge++) {
                const uint32_t source = f->edge_source[edge], made = run->maker[source];
                if (made != FOLD__NONE ? run->group_sig[made >> 3].group != group
                                       : (run->state[source] & FOLD__HEAD) != 0)
                    run->state[source] |= FOLD__LINKED;
            }
}

/* Lists the leaves that need gradients, by the group that reads them, in record order. Leaves of the head go
   to the head. */
static void fold__list_leaves(fold_ctx *f)
{
    fold__run *run = f->run;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        const int leaf = (kind == FOLD__LOOKUP || kind == FOLD__INPUT || kind == FOLD__REF) &&
                         run->grad[id] && (run->state[id] & FOLD__RUNS);
        if (fold__makes_value(f->kind[id]))
            continue;
        if (!leaf) {
            run->leaf_group[id] = FOLD__NONE;
            continue;
        }
        if (run->leaf_group[id] == FOLD__NONE || (run->state[id] & FOLD__HEAD))
            run->leaf_group[id] = 0; /* of the head, or the root, which nobody reads */
        run->group[run->leaf_group[id]].end_leaf++;
        run->counts.leaves++;
    }
    for (uint32_t group = 0, at = 0; group < run->counts.groups; group++) {
        const uint32_t count = run->group[group].end_leaf;
        run->group[group].first_leaf = run->group[group].end_leaf = at;
        at += count;
    }
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (!fold__makes_value(f->kind[id]) && run->leaf_group[id] != FOLD__NONE)
            run->leaves[run->group[run->leaf_group[id]].end_leaf++] = id;
}

/* ==== room: scheduler, signatures of a group ================================================
   Owns: the signatures of one group, which of them feed which input of which, and their components:
   signatures that feed each other. It sorts them so that producers come first. Calls: what a run knows. Sees
   signatures and operands, never sizes or floats; must not know policies. */

/* The signature in its group that makes a value. */
static fold__group_sig *fold__group_sig_of(const fold_ctx *f, uint32_t id)
{
    return &f->run->group_sig[f->run->maker[id] >> 3];
}

static int fold__add_group_sig(fold_ctx *f, uint32_t group, uint32_t run_sig)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_GROUP_SIGS, run->counts.group_sigs + 1, sizeof(fold__group_sig)))
        return 0;
    fold__renew_moved(f);
    fold__group_sig *group_sig = &run->group_sig[run->counts.group_sigs];
    const fold__sig *sig = &f->sigs[run->run_sig[run_sig].sig];
    memset(group_sig, 0, sizeof *group_sig);
    group_sig->run_sig = run_sig;
    group_sig->group = group;
    group_sig->n_in = sig->n_in;
    group_sig->n_list = sig->n_list;
    group_sig->n_out = sig->n_out;
    run->run_sig[run_sig].group_sig = run->counts.group_sigs++;
    return 1;
}

/* Lists the group's signatures as they come, and notes the signature and output that make each value. */
static int fold__list_signatures(fold_ctx *f, uint32_t group)
{
    fold__run *run = f->run;
    const uint32_t first_call = run->group[group].first_call;
    const uint32_t end_call = run->group[group].end_call;
    const uint32_t first_sig = run->counts.group_sigs;
    for (uint32_t call = first_call; call < end_call; call++) {
        const uint32_t id = run->calls[call], run_sig = run->known[f->sig[id]].run_sig;
        if (run->run_sig[run_sig].group_sig == FOLD__NONE && !fold__add_group_sig(f, group, run_sig))
            return 0;
        const uint32_t index = run->run_sig[run_sig].group_sig;
        uint32_t *const maker = run->maker;
        fold__group_sig *group_sig = &run->group_sig[index];
        group_sig->calls++;
        if (group_sig->n_list)
            group_sig->elems += fold__elements_of(f, id);
        for (uint32_t output = 0, n_out = group_sig->n_out; output < n_out; output++)
            maker[id + output] = index << 3 | output;
    }
    for (uint32_t call = first_call; call < end_call && run->backward; call++) {
        fold__group_sig *group_sig = fold__group_sig_of(f, run->calls[call]);
        for (uint32_t output = 0; output < group_sig->n_out; output++)
            group_sig->cleared |=
                (uint8_t)((run->mode[run->calls[call] + output] == FOLD__GRAD_SOME_PARTS) << output);
    }
    run->group[group].first_sig = first_sig;
    run->group[group].end_sig = run->counts.group_sigs;
    for (uint32_t sig = first_sig, at = first_call; sig < run->counts.group_sigs; sig++) {
        fold__group_sig *group_sig = &run->group_sig[sig];
        run->run_sig[group_sig->run_sig].group_sig = FOLD__NONE;
        group_sig->first_record = at;
        at += group_sig->calls;
        group_sig->calls = 0;
    }
    return 1;
}

/* Lists the group's calls by signature in record order. */
static void fold__sort_calls_by_signature(fold_ctx *f, const fold__group *group)
{
    fold__run *run = f->run;
    for (uint32_t call = group->first_call; call < group->end_call; call++) {
        fold__group_sig *group_sig = fold__group_sig_of(f, run->calls[call]);
        run->calls_by_sig[group_sig->first_record + group_sig->calls++] = run->calls[call];
    }
}

/* The signature of a group whose operands are being looked at, and what that needs at hand. */
typedef struct fold__reader {
    const uint32_t *maker, *chain;
    uint32_t *leaf_group;       /* of leaves, in training: the group that reads them */
    uint32_t first_sig, n_sigs; /* the group's signatures */
    uint32_t self;              /* which of them reads */
    uint32_t group;
} fold__reader;

/* Notes the signature that makes a value among those that feed an input. Returns the longest chain of the
   reader's own calls that ends at the value. */
FOLD__INLINE uint32_t fold__read_operand(const fold__reader *reader, uint32_t source, uint64_t *feeds)
{
    const uint32_t made = reader->maker[source], from = (made >> 3) - reader->first_sig;
    if (reader->leaf_group && made == FOLD__NONE)
        reader->leaf_group[source] = reader->group;
    if (from >= reader->n_sigs)
        return 0;
    if (!(feeds[from / 64] >> (from % 64) & 1))
        feeds[from / 64] |= 1ull << (from % 64);
    return reader->chain[source] & (0u - (from == reader->self)); /* as likely as not: no branch */
}

/* Finds which signatures feed each input of a signature, and for each of its calls the longest chain of its
   own calls that ends there. */
static void fold__read_operands(fold_ctx *f, const fold__group *group, uint32_t self, uint32_t words)
{
    fold__run *run = f->run;
    fold__group_sig *group_sig = &run->group_sig[group->first_sig + self];
    const fold__reader reader = { run->maker,
                                  run->chain,
                                  run->backward ? run->leaf_group : NULL,
                                  group->first_sig,
                                  group->end_sig - group->first_sig,
                                  self,
                                  (uint32_t)(group - run->group) };
    const uint32_t *calls = run->calls_by_sig + group_sig->first_record;
    const uint32_t n_calls = group_sig->calls;
    const uint32_t n_in = group_sig->n_in;
    const uint32_t n_list = group_sig->n_list;
    const uint32_t n_out = group_sig->n_out;
    uint64_t *const first = f->feeds + group_sig->feeds;
    for (uint32_t call = 0; call < n_calls; call++) {
        const uint32_t id = calls[call], *source = f->edge_source + f->first_edge[id];
        uint64_t *feeds = first;
        uint32_t longest = 0, chain;
        for (const uint32_t *end = source + n_in; source < end; source++, feeds += words) {
            chain = fold__read_operand(&reader, *source, feeds);
            longest = chain > longest ? chain : longest;
        }
        for (uint32_t component = 0, elements = n_list ? fold__elements_of(f, id) : 0; component < n_list;
             component++, feeds += words)
            for (const uint32_t *end = source + elements; source < end; source++) {
                chain = fold__read_operand(&reader, *source, feeds);
                longest = chain > longest ? chain : longest;
            }
        longest++;
        for (uint32_t output = 0; output < n_out; output++)
            run->chain[id + output] = longest;
        if (longest > group_sig->chain)
            group_sig->chain = longest;
    }
}

/* Finds the strongly connected components, producers first (Tarjan 1972, without recursion). Row by row, a
   bit in `rows` says which signature feeds which. */
static void fold__condense(fold__group_sig *sigs, uint32_t n_sigs, const uint64_t *rows, uint32_t words,
                           uint32_t *index)
{
    uint32_t *low = index + n_sigs, *next = low + n_sigs, *stack = next + n_sigs, *path = stack + n_sigs;
    uint32_t visits = 0, n_stack = 0, component = 0;
    memset(index, 0, n_sigs * sizeof *index);
    for (uint32_t i = 0; i < n_sigs; i++)
        sigs[i].component = FOLD__NONE;
    for (uint32_t start = 0; start < n_sigs; start++) {
        uint32_t depth = 0;
        if (index[start])
            continue;
        path[depth++] = start;
        while (depth) {
            const uint32_t current = path[depth - 1];
            if (!index[current]) {
                index[current] = low[current] = ++visits;
                next[current] = 0;
                stack[n_stack++] = current;
            }
            uint32_t feeder = next[current];
            for (; feeder < n_sigs; feeder++) {
                if (!(rows[(size_t)current * words + feeder / 64] >> (feeder % 64) & 1))
                    continue;
                if (!index[feeder])
                    break;
                if (sigs[feeder].component == FOLD__NONE && low[feeder] < low[current])
                    low[current] = low[feeder];
            }
            next[current] = feeder; /* seen again after w's return, which lowers low[v] */
            if (feeder < n_sigs) {
                path[depth++] = feeder;
                continue;
            }
            depth--;
            if (low[current] != index[current])
                continue;
            const int alone = stack[n_stack - 1] == current;
            uint32_t member;
            do {
                member = stack[--n_stack];
                sigs[member].component = component;
                if (!alone)
                    sigs[member].cyclic = 2;
            } while (member != current);
            if (alone && (rows[(size_t)current * words + current / 64] >> (current % 64) & 1))
                sigs[current].cyclic = 1;
            component++;
        }
    }
}

/* A mask of the inputs of a signature that come from its own component. */
static uint64_t fold__recurrent_inputs(const fold__group_sig *sigs, uint32_t n_sigs,
                                       const fold__group_sig *group_sig, const uint64_t *feeds,
                                       uint32_t words)
{
    uint64_t inputs = 0;
    for (uint32_t slot = 0; slot < (uint32_t)group_sig->n_in + group_sig->n_list && group_sig->cyclic;
         slot++, feeds += words)
        for (uint32_t other = 0; other < n_sigs; other++)
            if (sigs[other].component == group_sig->component && (feeds[other / 64] >> (other % 64) & 1))
                inputs |= 1ull << slot;
    return inputs;
}

/* Numbers the group's signatures so that those of a component are neighbours, producers first. */
static void fold__sort_signatures(fold_ctx *f, uint32_t which)
{
    fold__run *run = f->run;
    const fold__group *group = &run->group[which];
    int sorted = 1;
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++) {
        run->group_sig[sig].bit = sig - group->first_sig;
        run->group_sig[sig].of_bit = sig;
        sorted &=
            sig == group->first_sig || run->group_sig[sig - 1].component <= run->group_sig[sig].component;
    }
    if (sorted)
        return;
    for (uint32_t sig = group->first_sig + 1; sig < group->end_sig; sig++) { /* few: by insertion */
        const fold__group_sig group_sig = run->group_sig[sig];
        uint32_t to = sig;
        for (; to > group->first_sig && run->group_sig[to - 1].component > group_sig.component; to--)
            run->group_sig[to] = run->group_sig[to - 1];
        run->group_sig[to] = group_sig;
    }
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++)
        run->group_sig[group->first_sig + run->group_sig[sig].bit].of_bit = sig;
    for (uint32_t call = group->first_call; call < group->end_call; call++) {
        const uint32_t id = run->calls[call], sorted_at = run->group_sig[run->maker[id] >> 3].of_bit;
        for (uint32_t output = 0; output < run->group_sig[sorted_at].n_out; output++)
            run->maker[id + output] = sorted_at << 3 | output;
    }
}

/* Makes the graph of the group's signatures and finds its components and which inputs close a cycle. */
static int fold__find_components(fold_ctx *f, uint32_t group)
{
    fold__run *run = f->run;
    const uint32_t first_sig = run->group[group].first_sig;
    const uint32_t n_sigs = run->group[group].end_sig - first_sig;
    const uint32_t words = (n_sigs + 63) / 64;
    size_t feeds = 0;
    if (!n_sigs)
        return 1;
    for (uint32_t sig = 0; sig < n_sigs; sig++) {
        run->group_sig[first_sig + sig].feeds = (uint32_t)feeds;
        feeds +=
            (size_t)(run->group_sig[first_sig + sig].n_in + run->group_sig[first_sig + sig].n_list) * words;
    }
    const size_t rows_words = (size_t)n_sigs * words;
    if (feeds >= FOLD__NONE || !fold__need(f, FOLD__ARRAY_FEEDS, feeds, 8) ||
        !fold__need(f, FOLD__ARRAY_PLANNING, rows_words * 8 + (size_t)n_sigs * 5 * 4, 1))
        return 0;
    fold__renew_moved(f);
    uint64_t *rows = (uint64_t *)(void *)f->planning;
    memset(f->feeds, 0, feeds * 8);
    memset(rows, 0, rows_words * 8);
    fold__sort_calls_by_signature(f, &run->group[group]);
    for (uint32_t sig = 0; sig < n_sigs; sig++)
        fold__read_operands(f, &run->group[group], sig, words);
    fold__group_sig *sigs = run->group_sig + first_sig;
    for (uint32_t sig = 0; sig < n_sigs; sig++)
        for (uint32_t word = 0; word < (uint32_t)(sigs[sig].n_in + sigs[sig].n_list) * words; word++)
            rows[sig * words + word % words] |= f->feeds[sigs[sig].feeds + word];
    fold__condense(sigs, n_sigs, rows, words, (uint32_t *)(void *)(rows + rows_words));
    for (uint32_t sig = 0; sig < n_sigs; sig++)
        sigs[sig].recurrent =
            fold__recurrent_inputs(sigs, n_sigs, &sigs[sig], f->feeds + sigs[sig].feeds, words);
    fold__sort_signatures(f, group);
    return 1;
}

/* ==== room: scheduler, policies =============================================================
   Owns: the order of execution within a group. It runs components producers first; a signature that feeds
   only itself runs in a batch per level of its chain, perhaps after a prologue; inside a component of several
   signatures the policy chooses. Calls: signatures of a group. Sees calls, operands and signatures, never
   floats. */

static int fold__add_batch(fold_ctx *f, uint32_t group_sig, uint32_t stage)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_BATCHES, run->counts.batches + 1, sizeof(fold__batch)))
        return 0;
    fold__renew_moved(f);
    fold__batch *batch = &run->batch[run->counts.batches++];
    memset(batch, 0, sizeof *batch);
    batch->group_sig = group_sig;
    batch->stage = stage;
    batch->first = run->counts.order;
    return 1;
}

/* Puts a call into the batch begun last, and gives it its row in the signature's buffers. */
static void fold__batch_call(fold_ctx *f, uint32_t id)
{
    fold__run *run = f->run;
    fold__batch *batch = &run->batch[run->counts.batches - 1];
    fold__group_sig *group_sig = &run->group_sig[batch->group_sig];
    const uint32_t elements = group_sig->n_list ? fold__elements_of(f, id) : 0;
    if (!batch->count) {
        batch->first_slot = group_sig->max_rows; /* rows so far */
        batch->first_elem = group_sig->max_elems;
    }
    run->order[run->counts.order++] = id;
    run->slot[id] = group_sig->max_rows++;
    run->elem_slot[id] = group_sig->max_elems;
    group_sig->max_elems += elements;
    batch->count++;
    batch->elems += elements;
}

/* Gathers the group's calls of signatures [first, last) in record order, and notes the index of each call for
   all its outputs. */
static uint32_t fold__gather_calls(fold_ctx *f, uint32_t group, uint32_t first, uint32_t last)
{
    fold__run *run = f->run;
    uint32_t count = 0;
    for (uint32_t call = run->group[group].first_call; call < run->group[group].end_call; call++) {
        const uint32_t id = run->calls[call], maker = run->maker[id] >> 3;
        if (maker - first >= last - first)
            continue;
        for (uint32_t out_id = id, end = id + run->group_sig[maker].n_out; out_id < end; out_id++)
            run->gathered_at[out_id] = count;
        run->gathered[count++] = id;
    }
    return count;
}

/* Of 16 signatures, the longest chain of their own calls among a call and its ancestors. What is longer than
   FOLD__LONGEST_CHAIN counts as that. */
enum { FOLD__LONGEST_CHAIN = 0x7fff };
typedef struct fold__chains {
    int16_t of[16];
} fold__chains;

/* Finds, for each of the gathered calls, the longest chain of calls of its signature that ends there. The
   signatures [first, last) are a component; they are looked at 16 at a time. */
static int fold__chains_of_component(fold_ctx *f, uint32_t count, uint32_t first, uint32_t last)
{
    fold__run *run = f->run;
    if (!fold__need(f, FOLD__ARRAY_PLANNING, count, sizeof(fold__chains)))
        return 0;
    fold__renew_moved(f);
    const uint32_t *calls = run->gathered;
    fold__chains *longest = (fold__chains *)(void *)f->planning;
    for (uint32_t block = first; block < last; block += 16)
        for (uint32_t call = 0; call < count; call++) {
            const uint32_t id = calls[call], maker = run->maker[id] >> 3;
            fold__chains all = { { 0 } };
            for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
                if ((run->maker[f->edge_source[edge]] >> 3) - first >= last - first)
                    continue;
                const int16_t *source = longest[run->gathered_at[f->edge_source[edge]]].of;
                for (int lane = 0; lane < 16; lane++)
                    all.of[lane] = source[lane] > all.of[lane] ? source[lane] : all.of[lane];
            }
            if (maker - block < 16) {
                int16_t *chain = &all.of[maker - block];
                if (*chain < FOLD__LONGEST_CHAIN)
                    ++*chain;
                run->chain[id] = (uint32_t)*chain;
                if (run->chain[id] > run->group_sig[maker].chain)
                    run->group_sig[maker].chain = run->chain[id];
            }
            longest[call] = all;
        }
    return 1;
}

/* Makes the batches of a signature that is a component of its own: one per level of its chain. */
static int fold__batch_by_chain(fold_ctx *f, uint32_t which)
{
    fold__run *run = f->run;
    fold__group_sig *group_sig = &run->group_sig[which];
    const uint32_t levels = group_sig->chain;
    if (!fold__need(f, FOLD__ARRAY_BATCHES, run->counts.batches + levels, sizeof(fold__batch)))
        return 0;
    fold__renew_moved(f);
    group_sig = &run->group_sig[which];
    fold__batch *level = run->batch + run->counts.batches; /* of chain 1, which is the shortest, and so on */
    run->counts.batches += levels;
    for (uint32_t at = 0; at < levels; at++) {
        const fold__batch empty = { which, 1, 0, 0, 0, 0, 0 };
        level[at] = empty;
    }
    for (uint32_t call = 0; call < group_sig->calls; call++) {
        const uint32_t id = run->calls_by_sig[group_sig->first_record + call];
        level[run->chain[id] - 1].count++;
        if (group_sig->n_list)
            level[run->chain[id] - 1].elems += fold__elements_of(f, id);
    }
    for (uint32_t at = 0; at < levels; at++) {
        level[at].first = run->counts.order;
        level[at].first_slot = group_sig->max_rows; /* rows so far, until the group is planned */
        level[at].first_elem = group_sig->max_elems;
        run->counts.order += level[at].count;
        group_sig->max_rows += level[at].count;
        group_sig->max_elems += level[at].elems;
        level[at].count = level[at].elems = 0;
    }
    for (uint32_t call = 0; call < group_sig->calls; call++) {
        const uint32_t id = run->calls_by_sig[group_sig->first_record + call];
        fold__batch *batch = &level[run->chain[id] - 1];
        run->slot[id] = batch->first_slot + batch->count;
        run->elem_slot[id] = batch->first_elem + batch->elems;
        run->order[batch->first + batch->count++] = id;
        if (group_sig->n_list)
            batch->elems += fold__elements_of(f, id);
    }
    return 1;
}

/* -- prologues ------------------------------------------------------------------------------- */

/* Whether an op runs in the prologue: it depends on no input that closes the cycle. */
static int fold__in_prologue(const fold_ctx *f, const fold__group_sig *group_sig, const fold__body_op *op)
{
    return !(f->run->info[f->run->run_sig[group_sig->run_sig].first_info + op->first_value].deps &
             group_sig->recurrent);
}

/* How many leading segments of a product can run in the prologue although the product itself cannot. */
static int fold__leading_segments(const fold_ctx *f, const fold__group_sig *group_sig,
                                  const fold__program *program, const fold__body_op *op)
{
    const fold__value_info *info = f->run->info + f->run->run_sig[group_sig->run_sig].first_info;
    int count = 0;
    if (op->op != FOLD__OP_linear || op->attr[1])
        return 0;
    for (; count < op->n_in; count++) {
        const fold__ref *ref = &program->ref[op->first_ref + (uint32_t)count];
        if (ref->kind == FOLD__FROM_VALUE
                ? (info[ref->index].deps & group_sig->recurrent) != 0
                : ref->kind != FOLD__FROM_PARAM && (group_sig->recurrent >> fold__ref_slot(program, ref) & 1))
            break;
    }
    return count;
}

/* Whether a value, or its gradient, passes between the prologue and later batches. */
static int fold__spans_stages(const fold_ctx *f, const fold__group_sig *group_sig,
                              const fold__program *program, uint32_t value)
{
    const fold__body_op *op = &program->op[program->value[value].op];
    return group_sig->hoisted &&
           (fold__in_prologue(f, group_sig, op) || fold__leading_segments(f, group_sig, program, op));
}

/* Begins a prologue where it pays: a signature that feeds itself in small batches first runs the products
   that do not depend on the recursion, for all its calls at once. Larger batches would gain nothing by it. */
enum { FOLD__HOIST_ROWS = 8 };
static int fold__plan_prologue(fold_ctx *f, uint32_t which)
{
    fold__run *run = f->run;
    fold__group_sig *group_sig = &run->group_sig[which];
    if (!group_sig->cyclic || group_sig->chain < 2 || group_sig->calls / group_sig->chain >= FOLD__HOIST_ROWS)
        return 1;
    const fold__program program = fold__program_in_run(f, group_sig->run_sig);
    for (int op_index = 0; op_index < program.n_ops && !group_sig->hoisted && program.is_cell; op_index++)
        group_sig->hoisted = program.op[op_index].op == FOLD__OP_linear &&
                             (fold__in_prologue(f, group_sig, &program.op[op_index]) ||
                              fold__leading_segments(f, group_sig, &program, &program.op[op_index]));
    return !group_sig->hoisted || fold__add_batch(f, which, 0);
}

/* Gives each prologue its calls: all those of its signature, in the order of their rows. */
static void fold__finish_prologues(fold_ctx *f, uint32_t group)
{
    fold__run *run = f->run;
    for (uint32_t index = run->group[group].first_batch; index < run->group[group].end_batch; index++) {
        fold__batch *batch = &run->batch[index];
        const fold__group_sig *group_sig = &run->group_sig[batch->group_sig];
        if (batch->stage)
            continue;
        batch->first = run->counts.order;
        batch->count = group_sig->calls;
        batch->elems = group_sig->elems;
        for (uint32_t call = 0; call < group_sig->calls; call++)
            run->order[batch->first + run->slot[run->calls_by_sig[group_sig->first_record + call]]] =
                run->calls_by_sig[group_sig->first_record + call];
        run->counts.order += group_sig->calls;
    }
}

/* -- policies over mixed signatures ---------------------------------------------------------- */

/* Of a signature: a queue of calls that are ready to run, linked through `next`, and calls that have not run.
 */
typedef struct fold__ready {
    uint32_t head, tail, ready; /* the first and the last ready call, and their number */
    uint32_t pending;           /* calls that have not run */
    uint32_t lowest;            /* the shortest chain that ends at one of those */
    uint32_t counts;            /* where the counts of those by length of chain begin */
    uint64_t depths;            /* the sum of the depths of those */
} fold__ready;
/* The work area of the greedy policies. Arrays of calls go by their index among those gathered. */
typedef struct fold__greedy {
    uint32_t *missing;      /* how many operands of a call have not run */
    uint32_t *next;         /* the next call in its queue */
    uint32_t *first_reader; /* where a call's readers begin in `readers` */
    uint32_t *readers;
    fold__ready *queue; /* of each signature */
    uint32_t *counts;   /* of pending calls, by signature and length of chain */
    uint32_t first_sig, n_sigs;
} fold__greedy;

/* Puts a call into the queue of its signature. */
static void fold__make_ready(fold_ctx *f, fold__greedy *greedy, const uint32_t *calls, uint32_t call)
{
    fold__ready *ready = &greedy->queue[(f->run->maker[calls[call]] >> 3) - greedy->first_sig];
    greedy->next[call] = FOLD__NONE;
    if (ready->ready++)
        greedy->next[ready->tail] = call;
    else
        ready->head = call;
    ready->tail = call;
}

/* The index of the gathered call that makes an operand, or NONE. */
static uint32_t fold__in_set(const fold_ctx *f, const fold__greedy *greedy, uint32_t source)
{
    return (f->run->maker[source] >> 3) - greedy->first_sig < greedy->n_sigs ? f->run->gathered_at[source]
                                                                             : FOLD__NONE;
}

/* Points to the work area, which moves in a caller's block when the array of batches grows. */
static void fold__greedy_renew(fold_ctx *f, fold__greedy *greedy, uint32_t count)
{
    char *memory = f->planning;
    greedy->queue = (fold__ready *)(void *)memory;
    greedy->counts =
        (uint32_t *)(void *)(memory + fold__round_up(greedy->n_sigs * sizeof(fold__ready), FOLD__ALIGN));
    greedy->missing = f->run->gathered + count; /* behind the calls */
    greedy->next = greedy->missing + count;
    greedy->first_reader = greedy->next + count;
    greedy->readers = greedy->first_reader + count + 1;
}

/* Counts operands, readers and chains of the gathered calls, and queues those that are ready. */
static int fold__greedy_start(fold_ctx *f, fold__greedy *greedy, uint32_t count, uint32_t first_sig,
                              uint32_t end_sig)
{
    fold__run *run = f->run;
    size_t counts = 0;
    for (uint32_t sig = first_sig; sig < end_sig; sig++)
        counts += run->group_sig[sig].chain + 1;
    const size_t sig_bytes = fold__round_up((end_sig - first_sig) * sizeof(fold__ready), FOLD__ALIGN);
    if (!fold__need(f, FOLD__ARRAY_PLANNING, sig_bytes + counts * 4, 1))
        return 0;
    fold__renew_moved(f);
    greedy->first_sig = first_sig;
    greedy->n_sigs = end_sig - first_sig;
    fold__greedy_renew(f, greedy, count);
    memset(greedy->queue, 0, sig_bytes + counts * 4);
    const uint32_t *calls = run->gathered;
    for (uint32_t sig = 0, at = 0; sig < greedy->n_sigs; sig++) {
        greedy->queue[sig].counts = at;
        greedy->queue[sig].lowest = 1;
        at += run->group_sig[first_sig + sig].chain + 1;
    }
    memset(greedy->first_reader, 0, (count + 1) * sizeof *greedy->first_reader);
    memset(greedy->missing, 0, count * sizeof *greedy->missing);
    for (uint32_t call = 0; call < count; call++)
        for (uint32_t edge = f->first_edge[calls[call]]; edge < f->first_edge[calls[call] + 1]; edge++) {
            const uint32_t from = fold__in_set(f, greedy, f->edge_source[edge]);
            if (from != FOLD__NONE) {
                greedy->missing[call]++;
                greedy->first_reader[from + 1]++;
            }
        }
    for (uint32_t call = 0; call < count; call++)
        greedy->first_reader[call + 1] += greedy->first_reader[call];
    for (uint32_t call = 0; call < count; call++)
        for (uint32_t edge = f->first_edge[calls[call]]; edge < f->first_edge[calls[call] + 1]; edge++) {
            const uint32_t from = fold__in_set(f, greedy, f->edge_source[edge]);
            if (from != FOLD__NONE)
                greedy->readers[greedy->first_reader[from]++] = call;
        }
    for (uint32_t call = count; call > 0; call--)
        greedy->first_reader[call] = greedy->first_reader[call - 1];
    greedy->first_reader[0] = 0;
    for (uint32_t call = 0; call < count; call++) {
        fold__ready *ready = &greedy->queue[(run->maker[calls[call]] >> 3) - first_sig];
        ready->pending++;
        greedy->counts[ready->counts + run->chain[calls[call]]]++;
        if (!greedy->missing[call])
            fold__make_ready(f, greedy, calls, call);
    }
    return 1;
}

/* Finds the depth of each gathered call, for the agenda. */
static void fold__agenda_depths(fold_ctx *f, fold__greedy *greedy, const uint32_t *calls, uint32_t count,
                                uint32_t *depth)
{
    memset(depth, 0, count * sizeof *depth);
    for (uint32_t call = 0; call < count; call++) {
        greedy->queue[(f->run->maker[calls[call]] >> 3) - greedy->first_sig].depths += depth[call];
        for (uint32_t reader = greedy->first_reader[call]; reader < greedy->first_reader[call + 1]; reader++)
            if (depth[greedy->readers[reader]] < depth[call] + 1)
                depth[greedy->readers[reader]] = depth[call] + 1;
    }
}

/* The signature to run next. The agenda takes the one whose pending calls have the least depth on average.
   The ratio takes the one with the most ready calls for each pending call with the shortest chain. */
static uint32_t fold__pick_signature(const fold_ctx *f, fold__greedy *greedy)
{
    uint32_t best = FOLD__NONE;
    for (uint32_t sig = 0; sig < greedy->n_sigs; sig++) {
        fold__ready *ready = &greedy->queue[sig];
        if (!ready->ready)
            continue;
        while (!greedy->counts[ready->counts + ready->lowest])
            ready->lowest++;
        if (best == FOLD__NONE) {
            best = sig;
            continue;
        }
        const fold__ready *best_ready = &greedy->queue[best];
        const int better =
            f->schedule == FOLD_SCHEDULE_AGENDA
                ? ready->depths * best_ready->pending < best_ready->depths * ready->pending
                : (uint64_t)ready->ready * greedy->counts[best_ready->counts + best_ready->lowest] >
                      (uint64_t)best_ready->ready * greedy->counts[ready->counts + ready->lowest];
        if (better)
            best = sig;
    }
    return best;
}

/* Makes a batch of all ready calls of the best signature, until all gathered calls have run. */
static int fold__schedule_greedy(fold_ctx *f, uint32_t count, uint32_t first_sig, uint32_t end_sig)
{
    fold__run *run = f->run;
    fold__greedy greedy;
    if (!fold__greedy_start(f, &greedy, count, first_sig, end_sig))
        return 0;
    const int agenda = f->schedule == FOLD_SCHEDULE_AGENDA;
    if (agenda) {
        uint32_t *depth = greedy.readers + greedy.first_reader[count];
        fold__agenda_depths(f, &greedy, run->gathered, count, depth);
        for (uint32_t call = 0; call < count; call++)
            run->depth[run->gathered[call]] = depth[call]; /* free until calls are batched */
    }
    for (uint32_t done = 0; done < count;) {
        const uint32_t best = fold__pick_signature(f, &greedy);
        if (!fold__add_batch(f, first_sig + best, 1))
            return 0;
        fold__greedy_renew(f, &greedy, count);
        fold__ready *ready = &greedy.queue[best];
        uint32_t call = ready->head, left = ready->ready;
        ready->ready = 0;
        for (; left > 0; left--, done++) {
            const uint32_t id = run->gathered[call], next = greedy.next[call];
            ready->pending--;
            if (agenda)
                ready->depths -= run->depth[id];
            greedy.counts[ready->counts + run->chain[id]]--;
            for (uint32_t reader = greedy.first_reader[call]; reader < greedy.first_reader[call + 1];
                 reader++)
                if (!--greedy.missing[greedy.readers[reader]])
                    fold__make_ready(f, &greedy, run->gathered, greedy.readers[reader]);
            fold__batch_call(f, id);
            call = next;
        }
    }
    return 1;
}

/* Makes batches of calls of equal depth and signature, depth by depth. */
static int fold__schedule_depth(fold_ctx *f, uint32_t which)
{
    fold__run *run = f->run;
    fold__group *group = &run->group[which];
    const uint32_t n_calls = group->end_call - group->first_call;
    uint32_t *depth = run->depth, *sorted = run->gathered, deepest = 0;
    for (uint32_t call = group->first_call; call < group->end_call; call++) {
        const uint32_t id = run->calls[call];
        uint32_t level = 0;
        for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++)
            if ((run->maker[f->edge_source[edge]] >> 3) - group->first_sig <
                    group->end_sig - group->first_sig &&
                depth[f->edge_source[edge]] + 1 > level)
                level = depth[f->edge_source[edge]] + 1;
        for (uint32_t output = 0, n_out = fold__group_sig_of(f, id)->n_out; output < n_out; output++)
            depth[id + output] = level;
        if (level > deepest)
            deepest = level;
    }
    uint32_t *start = run->gathered + n_calls;
    memset(start, 0, (deepest + 2) * sizeof *start);
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++)
        for (uint32_t nth = 0; nth < run->group_sig[sig].calls; nth++)
            start[depth[run->calls_by_sig[run->group_sig[sig].first_record + nth]] + 1]++;
    for (uint32_t level = 0; level <= deepest; level++)
        start[level + 1] += start[level];
    /* within a depth by signature, as they come */
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++)
        for (uint32_t nth = 0; nth < run->group_sig[sig].calls; nth++) {
            const uint32_t id = run->calls_by_sig[run->group_sig[sig].first_record + nth];
            sorted[start[depth[id]]++] = id;
        }
    for (uint32_t at = 0; at < n_calls; at++)
        run->sorted_depth[sorted[at]] = depth[sorted[at]];
    for (uint32_t at = 0; at < n_calls; at++) {
        const uint32_t id = run->gathered[at], group_sig = run->maker[id] >> 3;
        const int same = at > 0 && run->batch[run->counts.batches - 1].group_sig == group_sig &&
                         run->chain[0] == run->sorted_depth[id];
        run->chain[0] = run->sorted_depth[id]; /* node 0 is no node: the depth of the batch begun last */
        if (!same && !fold__add_batch(f, group_sig, 1))
            return 0;
        fold__batch_call(f, id);
    }
    return 1;
}

/* The end of the component that begins with a signature. */
static uint32_t fold__component_end(const fold_ctx *f, uint32_t group, uint32_t sig)
{
    uint32_t end = sig + 1;
    while (end < f->run->group[group].end_sig &&
           f->run->group_sig[end].component == f->run->group_sig[sig].component)
        end++;
    return end;
}

/* Makes batches component by component, producers first. */
static int fold__schedule_ratio(fold_ctx *f, uint32_t group)
{
    for (uint32_t sig = f->run->group[group].first_sig, end; sig < f->run->group[group].end_sig; sig = end) {
        end = fold__component_end(f, group, sig);
        if (end == sig + 1) {
            if (!fold__plan_prologue(f, sig) || !fold__batch_by_chain(f, sig))
                return 0;
        } else {
            const uint32_t count = fold__gather_calls(f, group, sig, end);
            if (!fold__chains_of_component(f, count, sig, end) || !fold__schedule_greedy(f, count, sig, end))
                return 0;
        }
    }
    return 1;
}

/* Finds the chains of calls in components, for the policies that do not go by components. */
static int fold__find_chains(fold_ctx *f, uint32_t group)
{
    for (uint32_t sig = f->run->group[group].first_sig, end; sig < f->run->group[group].end_sig; sig = end) {
        end = fold__component_end(f, group, sig);
        if (end > sig + 1 && !fold__chains_of_component(f, fold__gather_calls(f, group, sig, end), sig, end))
            return 0;
    }
    return 1;
}

static int fold__schedule_agenda(fold_ctx *f, uint32_t group)
{
    const uint32_t first_sig = f->run->group[group].first_sig, end_sig = f->run->group[group].end_sig;
    if (first_sig == end_sig)
        return 1;
    return fold__find_chains(f, group) &&
           fold__schedule_greedy(f, fold__gather_calls(f, group, first_sig, end_sig), first_sig, end_sig);
}

/* Schedules one group: its signatures, its batches and the order of its calls. */
static int fold__schedule_group(fold_ctx *f, uint32_t group)
{
    fold__run *run = f->run;
    run->group[group].first_batch = run->counts.batches;
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
    for (uint32_t sig = run->group[group].first_sig; sig < run->group[group].end_sig; sig++)
        run->group[group].bound += run->group_sig[sig].chain;
    run->group[group].end_batch = run->counts.batches;
    fold__finish_prologues(f, group);
    return 1;
}

/* ==== room: memory planner ==================================================================
   Owns: where the values, gradients and contributions of programs live, group by group. What outlives a batch
   lives in the group's region: all rows of a buffer lie there in the order in which they are made, as one
   slab, and slabs whose lifetimes do not overlap share memory. What lives within a batch, or within a tile of
   its rows, lives in scratch. Calls: scheduler. Sees sizes and times, never floats. */

/* Buffers of a program have numbers in this order: values, and in training gradients of values, contributions
   of operands, gradients of outputs from outside and, where there is a list, contributions of operands of
   calls by list element. */
static uint32_t fold__buffer_value(uint32_t value) { return value; }
static uint32_t fold__buffer_grad(const fold__program *program, uint32_t value)
{
    return (uint32_t)program->n_values + value;
}
static uint32_t fold__buffer_part(const fold__program *program, uint32_t ref)
{
    return 2u * (uint32_t)program->n_values + ref;
}
static uint32_t fold__buffer_outer(const fold__program *program, uint32_t out)
{
    return 2u * (uint32_t)program->n_values + (uint32_t)program->n_refs + out;
}
static uint32_t fold__buffer_spread(const fold__program *program, uint32_t ref)
{
    return fold__buffer_outer(program, (uint32_t)program->n_out) + ref;
}
static uint32_t fold__n_buffers_of(const fold_ctx *f, uint32_t group_sig)
{
    const fold__program program = fold__program_in_run(f, f->run->group_sig[group_sig].run_sig);
    return f->run->backward ? fold__buffer_spread(&program, program.n_list ? (uint32_t)program.n_refs : 0)
                            : (uint32_t)program.n_values;
}

/* How many rows a tile of a program has: so few that its values stay in the first level of the cache. */
enum { FOLD__TILE_FLOATS = 4096 };
static uint32_t fold__rows_of_tile(const fold__program *program)
{
    uint32_t widest = 1;
    for (int value = 0; value < program->n_values; value++)
        widest = program->value[value].size > widest ? program->value[value].size : widest;
    return widest >= FOLD__TILE_FLOATS ? 1 : FOLD__TILE_FLOATS / widest;
}

static void fold__set_buffer(fold__buffer *buffer, uint32_t size, int elem, int place)
{
    buffer->size = size;
    buffer->elem = (uint8_t)elem;
    buffer->place = (uint8_t)place;
}

/* The planner's work area: a word for each of a group's buffers, or two for each of its signatures. */
static uint32_t *fold__plan_scratch(const fold_ctx *f) { return (uint32_t *)(void *)f->planning; }

/* Decides where the buffers of a signature live. */
static void fold__place_buffers(fold_ctx *f, const fold__group_sig *group_sig, const fold__program *program)
{
    fold__run *run = f->run;
    fold__buffer *buffer = run->buffer + group_sig->first_buffer;
    const fold__run_sig *run_sig = &run->run_sig[group_sig->run_sig];
    const fold__value_info *info = run->info + run_sig->first_info;
    memset(buffer, 0, group_sig->n_buffers * sizeof *buffer);
    for (uint32_t value = 0; value < (uint32_t)program->n_values; value++) {
        const int brief = info[value].brief, spans = fold__spans_stages(f, group_sig, program, value);
        fold__set_buffer(&buffer[fold__buffer_value(value)], program->value[value].size,
                         program->value[value].elem,
                         fold__outlives(&info[value]) || spans ? FOLD__SLAB : brief);
        if (!info[value].grad || fold__grad_is_outer(&info[value]))
            continue;
        fold__set_buffer(&buffer[fold__buffer_grad(program, value)], program->value[value].size,
                         program->value[value].elem,
                         info[value].grad_late || spans              ? FOLD__SLAB
                         : info[value].mode == FOLD__GRAD_SOME_PARTS ? FOLD__PER_BATCH
                                                                     : brief);
    }
    for (int op_index = 0; op_index < program->n_ops && run->backward; op_index++)
        for (int operand = 0; operand < program->op[op_index].n_in; operand++) {
            const fold__body_op *op = &program->op[op_index];
            const uint32_t at = op->first_ref + (uint32_t)operand;
            const fold__ref *ref = &program->ref[at];
            const fold__value_info *wanted = fold__info_of_ref(f, run_sig, program, at);
            if (!wanted->grad)
                continue;
            const int is_value = ref->kind == FOLD__FROM_VALUE;
            const int from_elem =
                ref->kind == FOLD__FROM_LIST || (is_value && program->value[ref->index].elem);
            const int mode = is_value ? info[ref->index].mode
                             : ref->kind == FOLD__FROM_PARAM
                                 ? 0
                                 : info[program->n_values + fold__ref_slot(program, ref)].mode;
            const int spans =
                is_value ? fold__spans_stages(f, group_sig, program, ref->index) : group_sig->hoisted;
            const int brief = is_value ? (int)info[ref->index].brief : (int)FOLD__PER_BATCH;
            if (ref->kind == FOLD__FROM_PARAM)
                fold__set_buffer(&buffer[fold__buffer_part(program, at)], wanted->part, op->elem, FOLD__SLAB);
            else if (mode == FOLD__GRAD_SUM)
                fold__set_buffer(&buffer[fold__buffer_part(program, at)], wanted->part, from_elem,
                                 spans ? FOLD__SLAB : brief);
            if (op->elem && !from_elem && ref->kind != FOLD__FROM_PARAM)
                fold__set_buffer(&buffer[fold__buffer_spread(program, at)], wanted->part, 1, FOLD__PER_BATCH);
        }
    for (uint32_t output = 0; output < (uint32_t)program->n_out; output++)
        if (info[program->out[output].index].grad)
            fold__set_buffer(&buffer[fold__buffer_outer(program, output)],
                             program->value[program->out[output].index].size, 0, FOLD__SLAB);
}

/* -- lifetimes ------------------------------------------------------------------------------- */

/* The time of a group of n batches: batch b runs forward at b and backward at 2n - 1 - b, and weight
   gradients are made at 2n. */
typedef struct fold__times {
    uint32_t first_batch, count;
} fold__times;
static uint32_t fold__time_forward(const fold__times *times, uint32_t batch)
{
    return batch - times->first_batch;
}
static uint32_t fold__time_backward(const fold__times *times, uint32_t batch)
{
    return 2 * times->count - 1 - (batch - times->first_batch);
}

/* Lengthens the lifetime of a slab to [first, last]. */
static void fold__live(fold__buffer *buffer, uint32_t first, uint32_t last)
{
    if (buffer->place != FOLD__SLAB)
        return;
    if (first < buffer->first)
        buffer->first = first;
    if (last > buffer->last)
        buffer->last = last;
}

/* Lengthens the lifetimes of a signature's slabs by what the signature itself does between its first and its
   last batch. */
static void fold__live_own(fold_ctx *f, const fold__group_sig *group_sig, const fold__program *program,
                           const fold__times *times, uint32_t first, uint32_t last)
{
    fold__run *run = f->run;
    fold__buffer *buffer = run->buffer + group_sig->first_buffer;
    const fold__value_info *info = run->info + run->run_sig[group_sig->run_sig].first_info;
    const uint32_t end = 2 * times->count;
    const uint32_t back0 = fold__time_backward(times, last);
    const uint32_t back1 = fold__time_backward(times, first);
    for (uint32_t value = 0; value < (uint32_t)program->n_values; value++) {
        const int late = info[value].grad_late;
        fold__live(&buffer[fold__buffer_value(value)], fold__time_forward(times, first),
                   fold__time_forward(times, last));
        if (!run->backward)
            continue;
        if (info[value].back)
            fold__live(&buffer[fold__buffer_value(value)], back1, info[value].late ? end : back1);
        fold__live(&buffer[fold__buffer_grad(program, value)], back0, late ? end : back1);
        if (info[value].out >= 0)
            fold__live(&buffer[fold__buffer_outer(program, (uint32_t)info[value].out)], back0,
                       late && fold__grad_is_outer(&info[value]) ? end : back1);
    }
    for (uint32_t ref_index = 0; ref_index < (uint32_t)program->n_refs && run->backward; ref_index++)
        fold__live(&buffer[fold__buffer_part(program, ref_index)], back0, end);
}

/* Notes when the outputs of signatures are read: by any batch of those they feed, which lie between that
   signature's `first` and `last`. */
static void fold__note_readers(fold_ctx *f, const fold__group *group, const uint32_t *first,
                               const uint32_t *last)
{
    fold__run *run = f->run;
    const uint32_t words = (group->end_sig - group->first_sig + 63) / 64;
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++) {
        run->group_sig[sig].last_read = run->group_sig[sig].first_back = FOLD__NONE;
        run->group_sig[sig].read_late = 0;
    }
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++) {
        const fold__group_sig *group_sig = &run->group_sig[sig];
        const fold__run_sig *run_sig = &run->run_sig[group_sig->run_sig];
        const uint32_t begin = first[sig - group->first_sig], end = last[sig - group->first_sig];
        for (uint32_t at = 0; at < (uint32_t)(group_sig->n_in + group_sig->n_list) * words; at++) {
            const uint32_t slot = at / words;
            fold__group_sig *maker = &run->group_sig[group->first_sig + at % words * 64];
            for (uint64_t bits = f->feeds[group_sig->feeds + at]; bits; bits >>= 1, maker++) {
                fold__group_sig *maker_sig = &run->group_sig[maker->of_bit];
                if (!(bits & 1))
                    continue;
                if (maker_sig->last_read == FOLD__NONE || maker_sig->last_read < end)
                    maker_sig->last_read = end;
                if ((run_sig->slot_back >> slot & 1) && begin < maker_sig->first_back)
                    maker_sig->first_back = begin;
                maker_sig->read_late |= (uint8_t)(run_sig->slot_late >> slot & 1);
            }
        }
    }
}

/* Lengthens the lifetimes of a signature's slabs by what the group's batches read of it. */
static void fold__live_read(fold_ctx *f, const fold__group_sig *group_sig, const fold__program *program,
                            const fold__times *times)
{
    fold__run *run = f->run;
    if (group_sig->last_read == FOLD__NONE)
        return;
    for (uint32_t output = 0; output < group_sig->n_out; output++) {
        fold__buffer *value =
            &run->buffer[group_sig->first_buffer + fold__buffer_value(program->out[output].index)];
        fold__live(value, FOLD__NONE, fold__time_forward(times, group_sig->last_read));
        if (!run->backward)
            continue;
        if (group_sig->first_back != FOLD__NONE)
            fold__live(value, FOLD__NONE,
                       group_sig->read_late ? 2 * times->count
                                            : fold__time_backward(times, group_sig->first_back));
        fold__live(&run->buffer[group_sig->first_buffer + fold__buffer_outer(program, output)],
                   group_sig->cleared >> output & 1 ? times->count
                                                    : fold__time_backward(times, group_sig->last_read),
                   0);
    }
}

/* Gives a slab the lowest offset where no slab of overlapping lifetime lies. `placed` is sorted by offset. */
static void fold__first_fit(fold__run *run, uint32_t buffer, uint32_t *placed, uint32_t *n_placed)
{
    fold__buffer *slab = &run->buffer[buffer];
    size_t at = 0;
    uint32_t insert = *n_placed;
    for (uint32_t i = 0; i < *n_placed; i++) {
        const fold__buffer *other = &run->buffer[placed[i]];
        if (other->last < slab->first || slab->last < other->first)
            continue;
        if (other->offset >= at + slab->floats)
            break;
        at = fold__max_size(at, other->offset + other->floats);
    }
    while (insert > 0 && run->buffer[placed[insert - 1]].offset > at)
        insert--;
    memmove(placed + insert + 1, placed + insert, (*n_placed - insert) * sizeof *placed);
    placed[insert] = buffer;
    ++*n_placed;
    slab->offset = at;
}

/* Gives the slabs of a group their offsets; returns the floats they take together. */
static size_t fold__place_slabs(fold_ctx *f, uint32_t first_buffer)
{
    fold__run *run = f->run;
    uint32_t *placed = fold__plan_scratch(f), n_placed = 0;
    size_t end = 0;
    for (uint32_t i = first_buffer; i < run->counts.buffers; i++) {
        fold__buffer *buffer = &run->buffer[i];
        if (buffer->place != FOLD__SLAB || !buffer->floats)
            continue;
        fold__first_fit(run, i, placed, &n_placed);
        end = fold__max_size(end, buffer->offset + buffer->floats);
    }
    return end;
}

/* Lays out a signature's scratch (its brief buffers, what an op takes, turns, pointers to rows) and returns
   its floats. */
static size_t fold__group_sig_scratch(fold_ctx *f, fold__group_sig *group_sig, const fold__program *program)
{
    fold__run *run = f->run;
    const size_t rows = group_sig->max_rows, elems = group_sig->max_elems, tile = fold__rows_of_tile(program);
    const fold__run_sig *run_sig = &run->run_sig[group_sig->run_sig];
    size_t at = 0;
    for (uint32_t i = 0; i < group_sig->n_buffers; i++) {
        fold__buffer *buffer = &run->buffer[group_sig->first_buffer + i];
        if (buffer->place != FOLD__PER_BATCH && buffer->place != FOLD__PER_TILE)
            continue;
        buffer->offset = at;
        at += fold__round_up(fold__size(buffer->size,
                                        buffer->place == FOLD__PER_TILE ? tile
                                        : buffer->elem                  ? elems
                                                                        : rows,
                                        0),
                             16);
    }
    const size_t pointers = fold__size(run_sig->arrays, rows + elems + 1, 16 * (size_t)run_sig->arrays) *
                            sizeof(float *) / sizeof(float);
    const size_t late =
        fold__size(3, (size_t)group_sig->calls + group_sig->elems + 16, 0) * sizeof(float *) / sizeof(float);
    group_sig->op_at = at;
    group_sig->turn_at = at + fold__round_up(run_sig->op_floats, 16);
    const size_t turns = (size_t)program->n_ops * sizeof(fold__turn) +
                         2 * (size_t)(program->n_refs + program->n_values) * sizeof(fold__spot);
    group_sig->free_at = group_sig->turn_at + fold__round_up(turns, FOLD__ALIGN) / sizeof(float);
    return group_sig->free_at + fold__max_size(pointers, late);
}

/* Plans one scheduled group: buffers, lifetimes, offsets. */
static int fold__plan_group(fold_ctx *f, uint32_t which)
{
    fold__run *run = f->run;
    const fold__group group = run->group[which];
    const fold__times times = { group.first_batch, group.end_batch - group.first_batch };
    const uint32_t first_buffer = run->counts.buffers;
    for (uint32_t sig = group.first_sig; sig < group.end_sig; sig++) {
        run->group_sig[sig].first_buffer = run->counts.buffers;
        run->counts.buffers += run->group_sig[sig].n_buffers = fold__n_buffers_of(f, sig);
        run->group_sig[sig].max_rows = run->group_sig[sig].max_elems = 0;
    }
    const size_t buffers = run->counts.buffers - first_buffer;
    const size_t words = fold__max_size(buffers, 2 * (size_t)(group.end_sig - group.first_sig)) + 1;
    if (!fold__need(f, FOLD__ARRAY_BUFFERS, run->counts.buffers, sizeof(fold__buffer)) ||
        !fold__need(f, FOLD__ARRAY_PLANNING, words, sizeof(uint32_t)))
        return 0;
    fold__renew_moved(f);
    uint32_t *first = fold__plan_scratch(f), *last = first + (group.end_sig - group.first_sig);
    for (uint32_t sig = group.first_sig; sig < group.end_sig; sig++) {
        const fold__program program = fold__program_in_run(f, run->group_sig[sig].run_sig);
        fold__place_buffers(f, &run->group_sig[sig], &program);
    }
    for (uint32_t sig = group.first_sig; sig < group.end_sig; sig++)
        first[sig - group.first_sig] = FOLD__NONE;
    for (uint32_t batch = group.first_batch; batch < group.end_batch; batch++) {
        fold__group_sig *group_sig = &run->group_sig[run->batch[batch].group_sig];
        const uint32_t nth = run->batch[batch].group_sig - group.first_sig;
        if (first[nth] == FOLD__NONE)
            first[nth] = batch;
        last[nth] = batch;
        group_sig->max_rows =
            run->batch[batch].count > group_sig->max_rows ? run->batch[batch].count : group_sig->max_rows;
        group_sig->max_elems =
            run->batch[batch].elems > group_sig->max_elems ? run->batch[batch].elems : group_sig->max_elems;
    }
    fold__note_readers(f, &group, first, last);
    for (uint32_t sig = group.first_sig; sig < group.end_sig; sig++) {
        fold__group_sig *group_sig = &run->group_sig[sig];
        const fold__program program = fold__program_in_run(f, group_sig->run_sig);
        for (uint32_t nth = 0; nth < group_sig->n_buffers; nth++) {
            fold__buffer *buffer = &run->buffer[group_sig->first_buffer + nth];
            buffer->first = FOLD__NONE;
            buffer->last = 0;
            if (!buffer->place)
                continue;
            buffer->floats = fold__round_up(
                fold__size(buffer->size, buffer->elem ? group_sig->elems : group_sig->calls, 0), 16);
            run->counts.without_reuse += buffer->floats;
        }
        fold__live_own(f, group_sig, &program, &times, first[sig - group.first_sig],
                       last[sig - group.first_sig]);
        fold__live_read(f, group_sig, &program, &times);
        run->counts.scratch = fold__max_size(
            run->counts.scratch, fold__round_up(fold__group_sig_scratch(f, group_sig, &program), 16));
    }
    run->group[which].floats = fold__place_slabs(f, first_buffer);
    return 1;
}

/* ==== room: executor ========================================================================
   Owns: how a batch runs, and forward. It finds the rows of operands and results, forward and backward, calls
   ops, and copies out what stays readable. Calls: op table, and of the plan its batches, offsets and
   prologues. Allocates nothing: everything was reserved. Must not know how a gradient is put together. */

static void *fold__scratch_array(fold__worker *worker, size_t count, size_t size)
{
    void *memory = worker->free;
    worker->free += fold__round_up(count * size, FOLD__ALIGN);
    return memory;
}

/* Turns pointers to rows into a base and a stride where rows are evenly spaced: kernels then run once. */
static fold_rows fold__tidy_rows(float **rows, size_t count, ptrdiff_t size)
{
    fold_rows tidy = { NULL, 0, rows };
    if (!count)
        return tidy;
    for (size_t i = 1; i < count; i++)
        if (rows[i] != rows[0] + (ptrdiff_t)i * size)
            return tidy;
    tidy.base = rows[0];
    tidy.stride = size;
    tidy.rows = NULL;
    return tidy;
}

/* The functions below write rows where they are used, member by member: to copy a struct just written would
   have to wait for its stores. */

/* Shifts rows by `row` rows and `offset` floats. Pointers to `count` rows are copied when they change. */
FOLD__INLINE void fold__shift_rows(fold__worker *worker, fold_rows *rows, uint32_t row, uint32_t offset,
                                   size_t count)
{
    if (!rows->rows) {
        rows->base += (ptrdiff_t)row * rows->stride + (ptrdiff_t)offset;
        return;
    }
    rows->rows += row;
    if (!offset)
        return;
    float **moved = (float **)fold__scratch_array(worker, count, sizeof *moved);
    for (size_t i = 0; i < count; i++)
        moved[i] = rows->rows[i] + offset;
    rows->rows = moved;
}

/* Begins the tile at a row. */
FOLD__INLINE void fold__set_tile(fold__worker *worker, uint32_t row)
{
    worker->row = row;
    worker->at[FOLD__BY_CALLS] = (ptrdiff_t)worker->batch.first_slot + (ptrdiff_t)row;
    worker->at[FOLD__BY_ELEMS] = (ptrdiff_t)worker->batch.first_elem + (ptrdiff_t)row;
    worker->at[FOLD__BY_ROWS] = (ptrdiff_t)row;
}

/* Where a buffer lies. */
static void fold__buffer_spot(const fold_ctx *f, const fold__worker *worker, uint32_t index, fold__spot *spot)
{
    const fold__buffer *buffer = &f->run->buffer[worker->group_sig->first_buffer + index];
    spot->base = worker->scratch + buffer->offset;
    spot->stride = (ptrdiff_t)buffer->size;
    spot->moves = FOLD__STAYS;
    switch (buffer->place) {
    case FOLD__SLAB:
        spot->base = worker->region + buffer->offset;
        spot->moves = buffer->elem ? FOLD__BY_ELEMS : FOLD__BY_CALLS;
        break;
    case FOLD__PER_BATCH: spot->moves = FOLD__BY_ROWS; break;
    case FOLD__PER_TILE: break;
    default: spot->base = NULL; spot->stride = 0;
    }
}

/* A spot of rows from outside. */
static void fold__outside_spot(fold__spot *spot, const fold_rows *from)
{
    spot->from = from;
    spot->offset = 0;
    spot->spread = 0;
    spot->moves = FOLD__OTHERWISE;
}

/* Repeats an operand's rows, one for each call, for `count` list elements of the batch from `row` on. */
static void fold__spread_rows(fold__worker *worker, fold_rows *rows, uint32_t offset, uint32_t row,
                              size_t count)
{
    if (!rows->rows && rows->stride == 0) {
        rows->base += offset;
        return;
    }
    float **to = (float **)fold__scratch_array(worker, count, sizeof *to);
    uint32_t call = 0;
    while (call < worker->batch.count && worker->list[call + 1] <= row)
        call++;
    for (size_t i = 0; i < count; i++) {
        while (worker->list[call + 1] <= row + i)
            call++;
        to[i] = fold_row(rows, (int)call) + offset;
    }
    rows->base = NULL;
    rows->stride = 0;
    rows->rows = to;
}

/* The rows of a spot that moves otherwise. */
static FOLD__NOINLINE void fold__other_rows(fold__worker *worker, const fold__spot *spot, size_t count,
                                            fold_rows *rows)
{
    if (spot->from) {
        *rows = *spot->from;
    } else { /* a value of calls, from the batch's first on */
        rows->base =
            spot->base +
            (spot->spread == FOLD__BY_CALLS ? (ptrdiff_t)worker->batch.first_slot * spot->stride : 0);
        rows->stride = spot->stride;
        rows->rows = NULL;
    }
    if (spot->spread)
        fold__spread_rows(worker, rows, spot->offset, worker->row, count);
    else
        fold__shift_rows(worker, rows, worker->row, spot->offset, count);
}

/* The rows of a spot, `count` of them from the tile's first on. */
FOLD__INLINE void fold__spot_rows(fold__worker *worker, const fold__spot *spot, size_t count, fold_rows *rows)
{
    if (spot->moves == FOLD__OTHERWISE) {
        fold__other_rows(worker, spot, count, rows);
        return;
    }
    rows->base = spot->base + worker->at[spot->moves] * spot->stride;
    rows->stride = spot->stride;
    rows->rows = NULL;
}
static void fold__buffer_rows(const fold_ctx *f, fold__worker *worker, uint32_t index, fold_rows *rows)
{
    fold__spot spot;
    fold__buffer_spot(f, worker, index, &spot);
    fold__spot_rows(worker, &spot, 0, rows);
}

/* Where an operand of an op lies. */
static void fold__operand_spot(const fold_ctx *f, const fold__worker *worker, const fold__body_op *op,
                               int operand, fold__spot *spot)
{
    const fold__ref *ref = &worker->program.ref[op->first_ref + (uint32_t)operand];
    int by_calls = 0;
    switch (ref->kind) {
    case FOLD__FROM_PARAM:
        spot->base = fold__values(f->model) + fold__params(f->model)[ref->index].at + ref->offset;
        spot->stride = 0;
        spot->moves = FOLD__STAYS;
        return;
    case FOLD__FROM_VALUE:
        fold__buffer_spot(f, worker, fold__buffer_value(ref->index), spot);
        if (!op->elem || worker->program.value[ref->index].elem) {
            spot->base += ref->offset;
            return;
        }
        by_calls = spot->moves == FOLD__BY_CALLS;
        fold__outside_spot(spot, NULL);
        break;
    case FOLD__FROM_LIST:
        fold__outside_spot(spot, &worker->in[worker->program.n_in + (int)ref->index]);
        break;
    default: fold__outside_spot(spot, &worker->in[ref->index]);
    }
    spot->offset = ref->offset;
    if (op->elem && ref->kind != FOLD__FROM_LIST)
        spot->spread = by_calls ? FOLD__BY_CALLS : FOLD__BY_ROWS;
}

/* -- one op over some rows of a batch -------------------------------------------------------- */

/* Gathers the data of each row: what was recorded with a call, or the key of a random draw. */
static void fold__gather_data(const fold_ctx *f, fold__worker *worker, const fold__body_op *op, uint32_t row,
                              size_t count, fold_op_call *op_call)
{
    const int random = (fold__op_of(f->model, op->op)->flags & FOLD__RANDOM) != 0;
    uint64_t *data = (uint64_t *)fold__scratch_array(worker, count, sizeof *data);
    uint32_t call = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t at = row + (uint32_t)i;
        if (op->elem)
            while (worker->list[call + 1] <= at)
                call++;
        const uint64_t base = fold__node_op_data(f, worker->ids[op->elem ? call : at]);
        data[i] = !random ? base
                          : fold__draw_key(base, worker->program.is_cell ? op->data : 0,
                                           op->elem ? at - worker->list[call] + 1 : 0);
    }
    op_call->data = data;
    op_call->data_step = 1;
}

/* Prepares the call of an op: all but its rows. */
static void fold__prepare(const fold_ctx *f, fold__worker *worker, const fold__body_op *op,
                          const fold_shape *shape, float *scratch, fold__prepared *made)
{
    fold_op_call *call = &made->call;
    fold__engine *engine = &made->engine;
    call->n_in = op->n_in;
    call->n_out = op->n_out;
    call->in_shape = shape + op->first_shape;
    call->out_shape = call->in_shape + op->n_in;
    call->attr = op->attr;
    call->data = &op->data;
    call->data_step = 0;
    call->in = worker->op_in;
    call->out = worker->op_out;
    call->dout = worker->op_dout;
    call->din = worker->op_din;
    call->scratch = scratch;
    call->user = fold__op_of(f->model, op->op)->def.user;
    engine->kernels = f->model->kernels;
    engine->packs = fold__packs(f->model);
    for (int i = 0; i < 2; i++)
        engine->param[i] = op->param[i] ? &fold__params(f->model)[op->param[i] - 1] : NULL;
    engine->first_segment = 0;
    engine->end_segment = op->n_in - op->attr[1];
}

/* Completes the call of an op with `count` rows of the tile. List ops always take the whole batch. */
FOLD__INLINE fold_op_call *fold__complete_call(fold_ctx *f, fold__worker *worker, int op_index, size_t count)
{
    fold__turn *turn = &worker->turn[op_index];
    fold_op_call *call = &turn->prepared.call;
    call->rows = (int)count;
    call->list = (const int *)worker->list;
    for (int operand = 0; operand < call->n_in; operand++)
        fold__spot_rows(worker, &turn->in[operand], turn->is_list ? worker->batch.elems : count,
                        &worker->op_in[operand]);
    for (int output = 0; output < call->n_out; output++)
        fold__spot_rows(worker, &turn->out[output], count, &worker->op_out[output]);
    if (turn->data)
        fold__gather_data(f, worker, &worker->program.op[op_index], worker->row, count, call);
    worker->kernel_calls++;
    return call;
}

/* Calls an op: once or, if it has no batched path, row by row. */
static void fold__call_rows(fold__worker *worker, const fold__op_row *op, fold_op_call *call,
                            void (*run)(const fold_op_call *))
{
    if (!(op->flags & FOLD__ONE_ROW)) {
        run(call);
        return;
    }
    worker->one_row_calls += (size_t)call->rows;
    fold_rows *all[4] = { (fold_rows *)(uintptr_t)call->in, (fold_rows *)(uintptr_t)call->out,
                          (fold_rows *)(uintptr_t)call->dout, (fold_rows *)(uintptr_t)call->din };
    const int count[4] = { call->n_in, call->n_out, call->n_out, call->n_in };
    const int rows = call->rows;
    const int *list = call->list;
    call->rows = 1;
    for (int i = 0; i < rows; i++) {
        run(call);
        for (int which = 0; which < 4; which++) {
            if (op->def.is_list && (which == 0 || which == 3))
                continue;
            for (int operand = 0; operand < count[which]; operand++) {
                fold_rows *each = &all[which][operand];
                if (each->rows)
                    each->rows++;
                else if (each->base)
                    each->base += each->stride;
            }
        }
        call->data += call->data_step;
        if (op->def.is_list)
            call->list++;
    }
    call->rows = rows;
    call->list = list;
}

static void fold__forward_op(fold_ctx *f, fold__worker *worker, int op_index, size_t count)
{
    char *free = worker->free;
    const fold__turn *turn = &worker->turn[op_index];
    if (!count || !turn->forward || (turn->for_elements && !worker->batch.elems))
        return;
    fold__call_rows(worker, turn->op, fold__complete_call(f, worker, op_index, count), turn->run);
    worker->free = free;
}

/* Runs ops [first, last) tile by tile. All are of calls, or all are of list elements. */
static void fold__forward_span(fold_ctx *f, fold__worker *worker, int first, int last)
{
    const uint32_t rows = worker->program.op[first].elem ? worker->batch.elems : worker->batch.count;
    for (uint32_t row = 0; row < rows; row += worker->tile) {
        fold__set_tile(worker, row);
        for (int op_index = first; op_index < last; op_index++)
            fold__forward_op(f, worker, op_index, fold__min_size(worker->tile, rows - row));
    }
    fold__set_tile(worker, 0);
}

/* Whether a stage runs an op, and which segments of a product. The prologue runs what does not depend on the
   recursion, and leading segments of products; the batches behind it run the rest. */
static int fold__stage_part(const fold_ctx *f, const fold__worker *worker, const fold__body_op *op,
                            fold__turn *turn)
{
    fold__engine *engine = &turn->prepared.engine;
    if (!worker->group_sig->hoisted)
        return 1;
    if (fold__in_prologue(f, worker->group_sig, op))
        return worker->batch.stage == 0;
    const int leading = fold__leading_segments(f, worker->group_sig, &worker->program, op);
    if (worker->batch.stage == 0)
        engine->end_segment = leading;
    else
        engine->first_segment = leading;
    return worker->batch.stage == 1 || leading > 0;
}

/* Plans an op's backward in this stage. */
static void fold__plan_backward(const fold_ctx *f, const fold__worker *worker, const fold__body_op *op,
                                fold__turn *turn)
{
    const fold__value_info *info = f->run->info + worker->run_sig->first_info + op->first_value;
    turn->backward = turn->forward && f->run->backward && info->grad;
    if (!turn->backward)
        return;
    const int finishes = !worker->group_sig->hoisted ||
                         (worker->batch.stage == 0) == fold__in_prologue(f, worker->group_sig, op);
    for (int output = 0; output < op->n_out && finishes; output++)
        if (info[output].mode == FOLD__GRAD_ZERO || info[output].mode == FOLD__GRAD_SUM)
            turn->finishes |= (uint8_t)(1u << output);
    for (int operand = 0; operand < op->n_in; operand++) {
        const int outside =
            op->op == FOLD__OP_linear && operand < op->n_in - op->attr[1] &&
            (operand < turn->prepared.engine.first_segment || operand >= turn->prepared.engine.end_segment);
        if (outside || !fold__ref_wanted(f, worker->run_sig, &worker->program, op, operand))
            continue;
        turn->wanted |= 1u << operand;
        if (op->elem && f->run
                            ->buffer[worker->group_sig->first_buffer +
                                     fold__buffer_spread(&worker->program, op->first_ref + (uint32_t)operand)]
                            .place)
            turn->spread |= 1u << operand;
    }
}

/* Where the gradient of a value lies. */
static void fold__grad_spot(const fold_ctx *f, const fold__worker *worker, uint32_t value, fold__spot *spot)
{
    const fold__value_info *info = f->run->info + worker->run_sig->first_info + value;
    if (fold__grad_is_outer(info))
        fold__outside_spot(spot, &worker->outer[info->out]);
    else
        fold__buffer_spot(f, worker, fold__buffer_grad(&worker->program, value), spot);
}

/* Where the contribution to an operand goes: to rows of its own, or in place. What is made by list elements
   first is summed into it. */
static void fold__dest_spot(const fold_ctx *f, const fold__worker *worker, const fold__body_op *op,
                            int operand, fold__spot *spot)
{
    const uint32_t at = op->first_ref + (uint32_t)operand;
    const fold__ref *ref = &worker->program.ref[at];
    fold__buffer_spot(f, worker, fold__buffer_part(&worker->program, at), spot);
    if (spot->base)
        return;
    if (ref->kind == FOLD__FROM_VALUE)
        fold__grad_spot(f, worker, ref->index, spot);
    else
        fold__outside_spot(spot, &worker->dest[fold__ref_slot(&worker->program, ref)]);
    if (spot->moves == FOLD__OTHERWISE)
        spot->offset = ref->offset;
    else
        spot->base += ref->offset;
}

/* Finds where an op's operands and results lie, and what backward reads and writes. */
static void fold__place_operands(const fold_ctx *f, const fold__worker *worker, const fold__body_op *op,
                                 fold__turn *turn)
{
    turn->in = worker->spot + op->first_ref;
    turn->out = worker->spot + (uint32_t)worker->program.n_refs + op->first_value;
    turn->dout = turn->out + worker->program.n_values;
    turn->din = turn->in + worker->program.n_refs + 2 * worker->program.n_values;
    for (int operand = 0; operand < op->n_in && turn->forward; operand++)
        fold__operand_spot(f, worker, op, operand, &turn->in[operand]);
    for (int output = 0; output < op->n_out; output++)
        fold__buffer_spot(f, worker, fold__buffer_value(op->first_value + (uint32_t)output),
                          &turn->out[output]);
    if (!turn->backward)
        return;
    for (int output = 0; output < op->n_out; output++)
        fold__grad_spot(f, worker, op->first_value + (uint32_t)output, &turn->dout[output]);
    for (int operand = 0; operand < op->n_in; operand++) {
        if (turn->spread >> operand & 1)
            fold__buffer_spot(f, worker,
                              fold__buffer_spread(&worker->program, op->first_ref + (uint32_t)operand),
                              &turn->din[operand]);
        else if (turn->wanted >> operand & 1)
            fold__dest_spot(f, worker, op, operand, &turn->din[operand]);
        else {
            turn->din[operand].base = NULL;
            turn->din[operand].stride = 0;
            turn->din[operand].moves = FOLD__STAYS;
        }
    }
}

/* Plans what the batch's stage does with each op. */
static void fold__plan_turns(const fold_ctx *f, fold__worker *worker)
{
    const fold__value_info *info = f->run->info + worker->run_sig->first_info;
    for (int op_index = 0, first = 0; op_index < worker->program.n_ops; op_index++) {
        const fold__body_op *op = &worker->program.op[op_index];
        fold__turn *turn = &worker->turn[op_index];
        const fold__op_row *op_row = fold__op_of(f->model, op->op);
        const int copies = (op_row->flags & FOLD__RANDOM) && !f->training;
        turn->wanted = turn->spread = 0;
        turn->finishes = 0;
        if (!op_index || !fold__same_span(f, op - 1, op))
            first = op_index;
        turn->first = first;
        turn->op = op_row;
        turn->run = copies ? fold__copy_forward : op_row->def.forward;
        turn->run_back = copies ? fold__copy_backward : op_row->def.backward;
        turn->tiled = (uint8_t)fold__runs_tiled(f, op);
        turn->is_list = (op_row->flags & FOLD__LIST) != 0;
        turn->for_elements = (uint8_t)fold__for_elements(&worker->program, info, op);
        turn->data = (op_row->flags & FOLD__RANDOM) ||
                     (!worker->program.is_cell && (op->op >= FOLD__OP_COUNT || (op_row->flags & FOLD__DATA)));
        fold__prepare(f, worker, op, worker->program.shape, worker->scratch + worker->group_sig->op_at,
                      &turn->prepared);
        turn->forward = (uint8_t)fold__stage_part(f, worker, op, turn);
        fold__plan_backward(f, worker, op, turn);
        fold__place_operands(f, worker, op, turn);
    }
    for (int op_index = worker->program.n_ops, end = op_index; op_index-- > 0;
         end = worker->turn[op_index].first == op_index ? op_index : end)
        worker->turn[op_index].end = end;
}

/* Cuts a batch down to one of several parts of its rows. Calls lie one behind the other, and so do their
   elements. */
static void fold__take_part(const fold_ctx *f, fold__batch *batch, uint32_t part, uint32_t parts)
{
    const fold__run *run = f->run;
    const uint32_t from = (uint32_t)((uint64_t)batch->count * part / parts);
    const uint32_t to = (uint32_t)((uint64_t)batch->count * (part + 1) / parts);
    if (run->group_sig[batch->group_sig].n_list) {
        const uint32_t end = to < batch->count ? run->elem_slot[run->order[batch->first + to]]
                                               : batch->first_elem + batch->elems;
        if (from < to)
            batch->first_elem = run->elem_slot[run->order[batch->first + from]];
        batch->elems = end - batch->first_elem;
    }
    batch->first += from;
    batch->first_slot += from;
    batch->count = to - from;
}

/* Takes a batch, or part of it. What successive batches of a signature's stage have in common is looked up
   once. */
static void fold__enter_batch(const fold_ctx *f, fold__worker *worker, uint32_t batch, uint32_t part,
                              uint32_t parts)
{
    const fold__run *run = f->run;
    worker->batch = run->batch[batch];
    if (parts > 1)
        fold__take_part(f, &worker->batch, part, parts);
    const fold__group_sig *group_sig = &run->group_sig[worker->batch.group_sig];
    if (worker->group_sig == group_sig && worker->stage == worker->batch.stage)
        return;
    worker->group_sig = group_sig;
    worker->stage = worker->batch.stage;
    worker->run_sig = &run->run_sig[group_sig->run_sig];
    worker->program = fold__program_of(f, &f->sigs[worker->run_sig->sig]);
    worker->tile = fold__rows_of_tile(&worker->program);
    worker->turn = (fold__turn *)(void *)(worker->scratch + group_sig->turn_at);
    worker->spot = (fold__spot *)(void *)(worker->turn + worker->program.n_ops);
    fold__plan_turns(f, worker);
}

/* Finds where each call's elements begin within the batch, and the rows of every input. */
static void fold__begin_batch(fold_ctx *f, fold__worker *worker)
{
    fold__run *run = f->run;
    const fold__sig *sig = &f->sigs[worker->run_sig->sig];
    worker->ids = run->order + worker->batch.first;
    fold__set_tile(worker, 0);
    worker->free = (char *)(worker->scratch + worker->group_sig->free_at);
    worker->list = NULL;
    if (sig->n_list) {
        worker->list =
            (uint32_t *)fold__scratch_array(worker, (size_t)worker->batch.count + 1, sizeof *worker->list);
        for (uint32_t call = 0; call < worker->batch.count; call++)
            worker->list[call] = run->elem_slot[worker->ids[call]] - worker->batch.first_elem;
        worker->list[worker->batch.count] = worker->batch.elems;
    }
    for (int slot = 0; slot < worker->program.n_in + worker->program.n_list; slot++) {
        const size_t count = slot < worker->program.n_in ? worker->batch.count : worker->batch.elems;
        float **rows = (float **)fold__scratch_array(worker, count, sizeof *rows);
        size_t at = 0;
        worker->in[slot] = fold__no_rows;
        if (slot < worker->program.n_in && (sig->shared >> slot & 1)) {
            const uint32_t edge = f->first_edge[worker->ids[0]] + (uint32_t)slot;
            worker->in[slot].base = f->value[f->edge_source[edge]] + f->edge_offset[edge];
            continue;
        }
        for (uint32_t call = 0; call < worker->batch.count && slot < worker->program.n_in; call++) {
            const uint32_t edge = f->first_edge[worker->ids[call]] + (uint32_t)slot;
            rows[call] = f->value[f->edge_source[edge]] + f->edge_offset[edge];
        }
        for (uint32_t call = 0; call < worker->batch.count && slot >= worker->program.n_in; call++) {
            const fold__slots slots = fold__slots_of(f, worker->ids[call]);
            for (uint32_t edge = fold__slot_first(&slots, slot), end = edge + slots.elements; edge < end;
                 edge++)
                rows[at++] = f->value[f->edge_source[edge]] + f->edge_offset[edge];
        }
        worker->in[slot] = fold__tidy_rows(rows, count, (ptrdiff_t)fold__input_floats(f, sig, slot));
    }
}

/* Runs a batch forward, and copies out the values that stay readable or cross between groups. */
static void fold__forward_batch(fold_ctx *f, fold__worker *worker)
{
    fold__run *run = f->run;
    fold__begin_batch(f, worker);
    for (int op_index = 0; op_index < worker->program.n_ops; op_index = worker->turn[op_index].end) {
        if (worker->turn[op_index].tiled)
            fold__forward_span(f, worker, op_index, worker->turn[op_index].end);
        else
            fold__forward_op(f, worker, op_index,
                             worker->program.op[op_index].elem ? worker->batch.elems : worker->batch.count);
    }
    if (!worker->batch.stage)
        return;
    for (int output = 0; output < worker->program.n_out; output++) {
        fold_rows rows;
        fold__buffer_rows(f, worker, fold__buffer_value(worker->program.out[output].index), &rows);
        for (uint32_t call = 0; call < worker->batch.count; call++) {
            const uint32_t id = worker->ids[call] + (uint32_t)output;
            f->value[id] = fold_row(&rows, (int)call);
            if (!(run->state[id] & (FOLD__PERSIST | FOLD__LINKED)))
                continue;
            float *to = (run->state[id] & FOLD__PERSIST) ? fold__at_place(f, f->place[id])
                                                         : run->region + (size_t)run->value_link[id] * 16;
            memcpy(to, f->value[id], (size_t)rows.stride * sizeof *to);
            f->value[id] = to;
        }
    }
}

/* ==== room: autodiff, gradients of values ===================================================
   Owns: the gradients of values, of recorded ones and of those within programs, over the same batches
   backwards. Calls: executor, and of the next room fold__shared_total, which completes the gradient of a
   shared node. Must not know parameters. */

/* Where the rows of a value's gradient or contributions begin: in its group or, when another group writes
   them, in the part of the region that lasts for the whole run. */
static float *fold__grad_area(const fold_ctx *f, uint32_t source, const fold__group *group)
{
    const fold__run *run = f->run;
    return (run->state[source] & FOLD__LINKED) ? run->region : run->region + group->rows_at;
}

/* How many floats the widest value has that a call of the run reads or makes. */
static size_t fold__widest(const fold_ctx *f)
{
    size_t widest = 16;
    for (uint32_t run_sig = 0; run_sig < f->run->counts.run_sigs; run_sig++) {
        const fold__sig *sig = &f->sigs[f->run->run_sig[run_sig].sig];
        for (int slot = 0; slot < sig->n_in + sig->n_list; slot++)
            widest = fold__max_size(widest, fold__input_floats(f, sig, slot));
        for (int output = 0; output < sig->n_out; output++)
            widest = fold__max_size(widest, f->shapes[sig->out_shape[output]].size);
    }
    return fold__round_up(widest, 16);
}

/* The worker's row that nobody reads, for a call that must write one. */
static float *fold__trash(const fold_ctx *f, const fold__worker *worker)
{
    return f->run->trash + (size_t)(worker - f->run->worker) * f->run->widest_value;
}

/* Where an edge's contribution goes. */
static FOLD__NOINLINE float *fold__edge_dest(const fold_ctx *f, const fold__worker *worker, uint32_t edge,
                                             int shared, const fold__group *group)
{
    const fold__run *run = f->run;
    const uint32_t source = f->edge_source[edge];
    if (!run->grad[source])
        return fold__trash(f, worker);
    if (shared || run->mode[source] == FOLD__GRAD_SUM)
        return fold__grad_area(f, source, group) + (size_t)run->contribution_at[edge] * 16;
    return run->grad_row[source] + f->edge_offset[edge];
}

static void fold__clear_row(float *row, uint32_t count) { memset(row, 0, count * sizeof *row); }
static void fold__add_row(const fold_ctx *f, float *to, const float *from, uint32_t count)
{
    f->model->kernels->map[FOLD__MAP_add](to, to, from, NULL, 0, count, 1, NULL);
}

/* Adds a contribution of `size` floats at `offset` to a row of `width` floats; the first to zeros. */
static void fold__add_part(const fold_ctx *f, float *to, uint32_t width, uint32_t offset, const float *from,
                           uint32_t size, int first)
{
    if (first && size == width) { /* -0 becomes +0, as where it is added to zeros */
        f->model->kernels->map[FOLD__MAP_shift](to, from, NULL, NULL, 0, size, 1, NULL);
        return;
    }
    if (first)
        fold__clear_row(to, width);
    fold__add_row(f, to + offset, from, size);
}

static void fold__shared_total(fold_ctx *f, fold__worker *worker, uint32_t id, const fold__group *group);

/* Completes the gradient of a recorded value once all its readers have run backward. */
static void fold__finish_gradient(fold_ctx *f, fold__worker *worker, uint32_t id, const fold__group *group)
{
    fold__run *run = f->run;
    const uint32_t size = fold__value_size(f, id);
    float *row = run->grad_row[id];
    switch (run->mode[id]) {
    case FOLD__GRAD_ZERO: fold__clear_row(row, size); break;
    case FOLD__GRAD_ROOT:
        fold__clear_row(row, size);
        row[run->root_offset] = 1;
        break;
    case FOLD__GRAD_SUM:
        for (uint32_t edge = run->first_contribution[id]; edge != FOLD__NONE;
             edge = run->next_contribution[edge])
            fold__add_part(f, row, size, f->edge_offset[edge],
                           fold__grad_area(f, id, group) + (size_t)run->contribution_at[edge] * 16,
                           run->contribution_floats[edge], edge == run->first_contribution[id]);
        break;
    default: break; /* written in place */
    }
    if (run->shared_grads)
        fold__shared_total(f, worker, id, group);
    if (!(f->kind[id] & FOLD__KEEP_GRAD) || !run->grad[id])
        return; /* where the root's gradient does not reach, what is kept stays */
    for (uint32_t at = 0; at < f->n_kept_grads; at++) {
        fold__kept_grad *kept = &f->kept_grads[at];
        if (kept->node != id)
            continue;
        if (kept->filled)
            fold__add_row(f, fold__at_place(f, kept->place), row, size);
        else
            memcpy(fold__at_place(f, kept->place), row, size * sizeof *row);
        kept->filled = 1;
    }
}

/* -- a cell's values ------------------------------------------------------------------------- */

static void fold__clear_rows(const fold_rows *to, size_t count, uint32_t size)
{
    for (size_t i = 0; i < count; i++)
        fold__clear_row(fold_row(to, (int)i), size);
}
static void fold__add_parts(const fold_ctx *f, const fold_rows *to, uint32_t width, uint32_t offset,
                            const fold_rows *from, uint32_t size, int first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fold__add_part(f, fold_row(to, (int)i), width, offset, fold_row(from, (int)i), size, first);
}

/* Whether an operand reads an input or (slot -1) a value of the program. */
static int fold__reads(const fold__program *program, const fold__ref *ref, int slot, uint32_t value)
{
    switch (ref->kind) {
    case FOLD__FROM_VALUE: return slot < 0 && ref->index == value;
    case FOLD__FROM_PARAM: return 0;
    default: return fold__ref_slot(program, ref) == slot;
    }
}
/* Adds up what ops from one on contribute to an input or (slot -1) a value of the program, in trace order.
   Returns whether there is anything. */
static int fold__add_contributions(fold_ctx *f, fold__worker *worker, int op_index, int slot, uint32_t value,
                                   const fold_rows *to, uint32_t width, size_t count)
{
    const fold__program *program = &worker->program;
    int any = 0;
    for (; op_index < program->n_ops; op_index++)
        for (int operand = 0; operand < program->op[op_index].n_in; operand++) {
            const fold__body_op *op = &program->op[op_index];
            const uint32_t at = op->first_ref + (uint32_t)operand;
            const fold__ref *ref = &program->ref[at];
            if (!fold__reads(program, ref, slot, value) ||
                !fold__ref_wanted(f, worker->run_sig, program, op, operand))
                continue;
            fold_rows part;
            fold__buffer_rows(f, worker, fold__buffer_part(program, at), &part);
            fold__add_parts(f, to, width, ref->offset, &part, fold__operand_floats(program, op, operand),
                            !any, count);
            any = 1;
        }
    return any;
}

/* Completes the gradient of a value of the program for `count` rows of the tile: adds up the contributions of
   its readers in trace order, then what comes from outside. */
static void fold__finish_value(fold_ctx *f, fold__worker *worker, uint32_t value, const fold__spot *grad,
                               size_t count)
{
    const fold__value_info *info = f->run->info + worker->run_sig->first_info + value;
    const uint32_t size = worker->program.value[value].size;
    fold_rows to, part;
    fold__spot_rows(worker, grad, count, &to);
    if (info->mode == FOLD__GRAD_ZERO) {
        fold__clear_rows(&to, count, size);
        return;
    }
    const int first = !fold__add_contributions(f, worker, (int)worker->program.value[value].op + 1, -1, value,
                                               &to, size, count);
    if (info->out < 0)
        return;
    part = worker->outer[info->out];
    fold__shift_rows(worker, &part, worker->row, 0, count);
    fold__add_parts(f, &to, size, 0, &part, size, first, count);
}

/* Sums the contributions of list elements to an operand of calls, for each call in the order of its list. */
static void fold__sum_spread(fold_ctx *f, fold__worker *worker, const fold__body_op *op, int operand)
{
    char *free = worker->free;
    const uint32_t at = op->first_ref + (uint32_t)operand;
    const uint32_t size = fold__operand_floats(&worker->program, op, operand);
    fold__spot dest;
    fold_rows to, from;
    fold__dest_spot(f, worker, op, operand, &dest);
    fold__spot_rows(worker, &dest, worker->batch.count, &to);
    fold__buffer_rows(f, worker, fold__buffer_spread(&worker->program, at), &from);
    for (uint32_t call = 0; call < worker->batch.count; call++) {
        float *row = fold_row(&to, (int)call);
        const uint32_t count = worker->list[call + 1] - worker->list[call];
        if (count == 1)
            memcpy(row, fold_row(&from, (int)worker->list[call]), size * sizeof *row); /* -0 stays */
        else
            fold__clear_row(row, size);
        for (uint32_t element = worker->list[call]; element < worker->list[call + 1] && count > 1; element++)
            fold__add_row(f, row, fold_row(&from, (int)element), size);
    }
    worker->free = free;
}

static void fold__clear_inputs(const fold_op_call *call)
{
    for (int operand = 0; operand < call->n_in; operand++)
        if (!fold__absent(&call->din[operand]))
            fold__clear_rows(&call->din[operand], (size_t)call->rows,
                             (uint32_t)fold__shape_size(&call->in_shape[operand]));
}

static void fold__backward_op(fold_ctx *f, fold__worker *worker, int op_index, size_t count)
{
    char *free = worker->free;
    const fold__turn *turn = &worker->turn[op_index];
    for (int output = 0; turn->finishes >> output; output++)
        if (turn->finishes >> output & 1)
            fold__finish_value(f, worker, worker->program.op[op_index].first_value + (uint32_t)output,
                               &turn->dout[output], count);
    if (!turn->wanted || !turn->run_back)
        return;
    fold_op_call *call = fold__complete_call(f, worker, op_index, count);
    for (int output = 0; output < call->n_out; output++)
        fold__spot_rows(worker, &turn->dout[output], count, &worker->op_dout[output]);
    for (int operand = 0; operand < call->n_in; operand++)
        fold__spot_rows(worker, &turn->din[operand], turn->is_list ? worker->batch.elems : count,
                        &worker->op_din[operand]);
    if (turn->for_elements && !worker->batch.elems)
        fold__clear_inputs(call);
    else
        fold__call_rows(worker, turn->op, call, turn->run_back);
    worker->free = free;
}

static void fold__backward_span(fold_ctx *f, fold__worker *worker, int first, int last)
{
    const uint32_t rows = worker->program.op[first].elem ? worker->batch.elems : worker->batch.count;
    for (uint32_t row = 0; row < rows; row += worker->tile) {
        fold__set_tile(worker, row);
        for (int op_index = last; op_index-- > first;)
            if (worker->turn[op_index].backward)
                fold__backward_op(f, worker, op_index, fold__min_size(worker->tile, rows - row));
    }
    fold__set_tile(worker, 0);
}

/* Finds the rows of gradients from outside and of contributions to inputs, and clears those of which not all
   parts are written. */
static void fold__begin_backward(fold_ctx *f, fold__worker *worker, const fold__group *group)
{
    fold__run *run = f->run;
    const fold__value_info *info = run->info + worker->run_sig->first_info;
    const fold__sig *sig = &f->sigs[worker->run_sig->sig];
    for (int output = 0; output < worker->program.n_out; output++) {
        worker->outer[output] = fold__no_rows;
        if (!info[worker->program.out[output].index].grad)
            continue;
        float **rows = (float **)fold__scratch_array(worker, worker->batch.count, sizeof *rows);
        for (uint32_t call = 0; call < worker->batch.count; call++) {
            rows[call] = run->grad_row[worker->ids[call] + (uint32_t)output];
            if (worker->batch.stage)
                fold__finish_gradient(f, worker, worker->ids[call] + (uint32_t)output, group);
        }
        worker->outer[output] =
            fold__tidy_rows(rows, worker->batch.count,
                            (ptrdiff_t)worker->program.value[worker->program.out[output].index].size);
    }
    for (int slot = 0; slot < worker->program.n_in + worker->program.n_list; slot++) {
        worker->dest[slot] = fold__no_rows;
        if (!(worker->run_sig->slot_grad >> slot & 1) || !(sig->differentiable >> slot & 1))
            continue;
        const uint32_t size = fold__input_floats(f, sig, slot);
        const int mode = info[worker->program.n_values + slot].mode;
        const size_t count = slot < worker->program.n_in ? worker->batch.count : worker->batch.elems;
        float **rows = (float **)fold__scratch_array(worker, count, sizeof *rows);
        size_t at = 0;
        for (uint32_t call = 0; call < worker->batch.count; call++) {
            const fold__slots slots = fold__slots_of(f, worker->ids[call]);
            for (uint32_t edge = fold__slot_first(&slots, slot), end = edge + fold__slot_edges(&slots, slot);
                 edge < end; edge++)
                rows[at++] = run->grad[worker->ids[call]]
                                 ? fold__edge_dest(f, worker, edge, fold__slot_shared(&slots, slot), group)
                                 : fold__trash(f, worker);
        }
        worker->dest[slot] = fold__tidy_rows(rows, count, (ptrdiff_t)size);
        if (worker->batch.stage && (mode == FOLD__GRAD_ZERO || mode == FOLD__GRAD_SOME_PARTS))
            fold__clear_rows(&worker->dest[slot], count, size);
    }
    for (int value = 0; value < worker->program.n_values && worker->batch.stage; value++) {
        if (!info[value].grad || info[value].mode != FOLD__GRAD_SOME_PARTS)
            continue;
        fold_rows rows;
        fold__buffer_rows(f, worker, fold__buffer_grad(&worker->program, (uint32_t)value), &rows);
        fold__clear_rows(&rows, worker->program.value[value].elem ? worker->batch.elems : worker->batch.count,
                         worker->program.value[value].size);
    }
}

/* Completes the contributions to inputs that several ops of the program read, in trace order. */
static void fold__finish_inputs(fold_ctx *f, fold__worker *worker)
{
    const fold__value_info *inputs = f->run->info + worker->run_sig->first_info + worker->program.n_values;
    const fold__sig *sig = &f->sigs[worker->run_sig->sig];
    for (int slot = 0; slot < worker->program.n_in + worker->program.n_list; slot++) {
        const int in_prologue = worker->group_sig->hoisted && !(worker->group_sig->recurrent >> slot & 1);
        if (fold__absent(&worker->dest[slot]) || inputs[slot].mode != FOLD__GRAD_SUM ||
            (worker->batch.stage == 0) != in_prologue)
            continue;
        const size_t count = slot < worker->program.n_in ? worker->batch.count : worker->batch.elems;
        fold__add_contributions(f, worker, 0, slot, 0, &worker->dest[slot], fold__input_floats(f, sig, slot),
                                count);
    }
}

/* Whether backward has anything to do for the batch's signature. */
static int fold__gives_grad(const fold_ctx *f, const fold__worker *worker)
{
    for (int output = 0; output < worker->program.n_out; output++)
        if (f->run->info[worker->run_sig->first_info + worker->program.out[output].index].grad)
            return 1;
    return 0;
}

static void fold__backward_batch(fold_ctx *f, fold__worker *worker, const fold__group *group)
{
    if (!fold__gives_grad(f, worker))
        return;
    fold__begin_batch(f, worker);
    fold__begin_backward(f, worker, group);
    for (int last = worker->program.n_ops, first; last > 0; last = first) {
        first = worker->turn[last - 1].first;
        if (worker->turn[first].tiled)
            fold__backward_span(f, worker, first, last);
        else if (worker->turn[first].backward)
            fold__backward_op(f, worker, first,
                              worker->program.op[first].elem ? worker->batch.elems : worker->batch.count);
        for (int op_index = last; op_index-- > first;) /* sums over elements, once all rows are there */
            for (int operand = 0;
                 operand < worker->program.op[op_index].n_in && worker->turn[op_index].spread; operand++)
                if (worker->turn[op_index].spread >> operand & 1)
                    fold__sum_spread(f, worker, &worker->program.op[op_index], operand);
    }
    fold__finish_inputs(f, worker);
}

/* ==== room: autodiff, sums of uses ==========================================================
   Owns: the gradients of parameters, which are sums over their uses, and those that shared nodes and
   looked-up rows of tables get. Each use of a run has a sum; groups add to it in record order; a parameter's
   uses are added to its total, and that to its gradient, once. Calls: gradients of values, executor, model,
   and of eager contexts fold__eager_use. Must not know how groups are shared out among threads. */

/* Puts a use of a trained parameter, or of a shared node that needs a gradient, into the list of uses, which
   is in the order of their first recorded rows. */
static int fold__add_use(fold_ctx *f, fold__use use, int elem)
{
    fold__run *run = f->run;
    use.first = elem ? run->run_sig[use.run_sig].first_elem : run->run_sig[use.run_sig].first;
    if (!use.first)
        return 1; /* it has no rows: all lists are empty */
    if (!fold__need(f, FOLD__ARRAY_USES, run->n_uses + 1, sizeof(fold__use)))
        return 0;
    fold__renew_moved(f);
    uint32_t at = run->n_uses++;
    for (; at > 0 && run->use[at - 1].first > use.first; at--)
        run->use[at] = run->use[at - 1];
    run->use[at] = use;
    if (use.is_node)
        run->shared_grads = 1;
    return 1;
}

static int fold__add_param_use(fold_ctx *f, uint32_t run_sig, uint32_t op, uint32_t ref, uint32_t kind,
                               uint32_t param, int elem)
{
    const fold__param_data *data = &fold__params(f->model)[param];
    fold__use use = { run_sig,         op, ref,        kind, param,          0, 0, 0,
                      FOLD__SUM_APART, 0,  data->size, 0,    FOLD__NO_TOTAL, 0 };
    if (!fold__trainable(f->model, data))
        return 1;
    if (kind == FOLD__USE_WEIGHT) {
        const fold__program program = fold__program_in_run(f, run_sig);
        const fold_shape *in_shape = program.shape + program.op[op].first_shape;
        const size_t inner = (size_t)fold__shape_last(&in_shape[ref]), ldw = (size_t)data->shape.dim[1];
        use.at = fold__segment_at(program.op[op].attr, in_shape, (int)ref, ldw);
        use.size = program.op[op].attr[0] ? ((size_t)data->shape.dim[0] - 1) * ldw + inner : inner * ldw;
    }
    return fold__add_use(f, use, elem);
}

/* Lists the uses that the calls of a signature make. */
static int fold__list_uses_of(fold_ctx *f, uint32_t run_sig)
{
    fold__run *run = f->run;
    const fold__sig sig = f->sigs[run->run_sig[run_sig].sig];
    fold__program program = fold__program_of(f, &sig);
    for (uint32_t operand = 0; operand < sig.n_in && run->run_sig[run_sig].first; operand++) {
        if (!(sig.shared >> operand & 1) || !(sig.differentiable >> operand & 1))
            continue;
        const uint32_t source = f->edge_source[f->first_edge[run->run_sig[run_sig].first] + operand];
        if (!run->grad[source] || !run->grad[run->run_sig[run_sig].first])
            continue;
        if ((f->kind[source] & FOLD__KIND_MASK) == FOLD__PARAM) {
            if (!fold__add_param_use(f, run_sig, 0, operand, FOLD__USE_SLOT, fold__node_param(f, source), 0))
                return 0;
        } else {
            const fold__use use = { run_sig,
                                    0,
                                    operand,
                                    FOLD__USE_SLOT,
                                    source,
                                    0,
                                    1,
                                    0,
                                    FOLD__SUM_APART,
                                    0,
                                    fold__value_size(f, source),
                                    0,
                                    FOLD__NO_TOTAL,
                                    0 };
            if (!fold__add_use(f, use, 0))
                return 0;
        }
    }
    for (uint32_t op_index = 0; op_index < (uint32_t)program.n_ops; op_index++) {
        program = fold__program_of(f, &sig); /* arrays may have moved */
        const fold__body_op op = program.op[op_index];
        if (!run->info[run->run_sig[run_sig].first_info + op.first_value].grad)
            continue;
        for (uint32_t operand_index = 0; op.param[0] && operand_index < op.n_in - (uint32_t)op.attr[1];
             operand_index++)
            if (!fold__add_param_use(f, run_sig, op_index, operand_index, FOLD__USE_WEIGHT, op.param[0] - 1,
                                     op.elem))
                return 0;
        if (op.param[1] &&
            !fold__add_param_use(f, run_sig, op_index, 0, FOLD__USE_BIAS, op.param[1] - 1, op.elem))
            return 0;
        for (uint32_t operand_index = 0; operand_index < op.n_in; operand_index++) {
            program = fold__program_of(f, &sig);
            const fold__ref ref = program.ref[op.first_ref + operand_index];
            if (ref.kind != FOLD__FROM_PARAM ||
                !fold__differentiable(fold__op_of(f->model, op.op), (int)operand_index))
                continue;
            if (!fold__add_param_use(f, run_sig, op_index, operand_index, FOLD__USE_VALUE, ref.index,
                                     op.elem))
                return 0;
        }
    }
    return 1;
}

/* Gives a use the total of its parameter. The first use makes it; where the gradient is clear, the gradient
   itself serves. */
static void fold__place_total(fold_ctx *f, fold__use *use, const fold__use *first)
{
    fold__run *run = f->run;
    const fold__param_data *param = &fold__params(f->model)[use->target];
    if (first) {
        use->total = first->total;
        return;
    }
    use->total = FOLD__NO_TOTAL;
    if (param->grad_clear && !(param->uses & FOLD_FOR_LOOKUP))
        return;
    use->total = run->sum_floats;
    run->sum_floats += fold__round_up(param->size, 16);
}

/* Whether a use can be summed by blocks: of a weight that is not transposed, with vectors as rows. */
static int fold__sums_by_blocks(const fold_ctx *f, const fold__use *use)
{
    const fold__program program = fold__program_in_run(f, use->run_sig);
    const fold__body_op *op = &program.op[use->op];
    return use->kind == FOLD__USE_WEIGHT && !op->attr[0] && program.shape[op->first_shape].rank == 1;
}

/* A signature's number in a group, or NONE. */
static uint32_t fold__sig_in_group(const fold_ctx *f, uint32_t run_sig, const fold__group *group)
{
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++)
        if (f->run->group_sig[sig].run_sig == run_sig)
            return sig;
    return FOLD__NONE;
}

/* Whether one group and one thread make all sums of parameters. */
static int fold__sums_in_one_go(const fold_ctx *f)
{
    const fold__run *run = f->run;
    uint32_t groups = 0;
    for (uint32_t group = 0; group < run->counts.groups && groups < 2; group++) {
        int sums = 0;
        for (uint32_t use = 0; use < run->n_uses && !sums; use++)
            sums = !run->use[use].is_node &&
                   fold__sig_in_group(f, run->use[use].run_sig, &run->group[group]) != FOLD__NONE;
        groups += sums != 0;
    }
    return groups == 1 && f->threads == 1 && !f->eager;
}

/* Lists all uses of the run and gives their sums their places. */
static int fold__list_uses(fold_ctx *f)
{
    fold__run *run = f->run;
    run->n_uses = 0;
    run->shared_grads = 0;
    run->sum_floats = 0;
    for (uint32_t sig = 0; sig < run->counts.run_sigs; sig++)
        if (!fold__list_uses_of(f, sig))
            return 0;
    run->sums_in_one_go = fold__sums_in_one_go(f);
    for (uint32_t which = 0; which < run->n_uses; which++) {
        fold__use *use = &run->use[which];
        const fold__use *first = NULL;
        int reached = use->is_node;
        for (uint32_t earlier = which; earlier-- > 0 && !use->is_node;) {
            const fold__use *other = &run->use[earlier];
            if (other->is_node || other->target != use->target)
                continue;
            first = other;
            reached |= other->at < use->at + use->size && use->at < other->at + other->size;
        }
        use->leads = !use->is_node && !first;
        if (!use->is_node)
            fold__place_total(f, use, first);
        use->sum = !reached                                              ? FOLD__SUM_IN_PLACE
                   : run->sums_in_one_go && fold__sums_by_blocks(f, use) ? FOLD__SUM_BY_BLOCKS
                                                                         : FOLD__SUM_APART;
        use->sum_at = run->sum_floats;
        if (use->sum == FOLD__SUM_APART)
            run->sum_floats += fold__round_up(use->size, 16);
    }
    return 1;
}

/* Where the total of a use's parameter begins. */
static float *fold__use_total(const fold_ctx *f, const fold__use *use)
{
    return use->total == FOLD__NO_TOTAL ? fold__grads(f->model) + fold__params(f->model)[use->target].at
                                        : f->run->sums + use->total;
}
/* Where the sum of a use goes: to a place of its own, or straight into the total. */
static float *fold__use_sum(const fold_ctx *f, const fold__use *use)
{
    return use->sum == FOLD__SUM_APART ? f->run->sums + use->sum_at : fold__use_total(f, use) + use->at;
}
/* Adds a use's sum to its total where it has a place of its own. */
static void fold__add_to_total(const fold_ctx *f, const fold__use *use)
{
    if (!use->is_node && use->sum == FOLD__SUM_APART)
        fold__add_row(f, fold__use_total(f, use) + use->at, fold__use_sum(f, use), (uint32_t)use->size);
}

/* Lists the rows of an op's operand, or (operand -1) of its gradient, from a column on, in record order, for
   those calls of a signature in a group that need a gradient and the op. */
static float **fold__record_rows(fold_ctx *f, const fold__group_sig *group_sig, const fold__program *program,
                                 const fold__body_op *op, int operand, uint32_t column, float *region,
                                 char **scratch, size_t *n_rows)
{
    fold__run *run = f->run;
    float **rows = (float **)(void *)*scratch;
    const fold__ref grad = { FOLD__FROM_VALUE, op->first_value, 0 },
                    *ref = operand < 0 ? &grad : &program->ref[op->first_ref + (uint32_t)operand];
    const fold__value_info *info = run->info + run->run_sig[group_sig->run_sig].first_info;
    const int outer =
        operand < 0 && fold__grad_is_outer(&info[op->first_value]) ? info[op->first_value].out : -1;
    const fold__buffer *buffer =
        ref->kind == FOLD__FROM_VALUE
            ? &run->buffer[group_sig->first_buffer + (operand < 0 ? fold__buffer_grad(program, ref->index)
                                                                  : fold__buffer_value(ref->index))]
            : NULL;
    const int for_elements = fold__for_elements(program, info, op);
    const size_t offset = (size_t)ref->offset + column;
    const uint32_t *ids = run->calls_by_sig + group_sig->first_record;
    size_t at = 0;
    const int of_each = !op->elem && !for_elements && !run->run_sig[group_sig->run_sig].partly;
    if (buffer && outer < 0 && of_each) /* one of each call: most are */
        for (; at < group_sig->calls; at++)
            rows[at] = fold__slab_row(buffer, region, run->slot[ids[at]]) + offset;
    for (uint32_t call = (uint32_t)at; call < group_sig->calls; call++) {
        const uint32_t id = ids[call];
        const fold__slots slots = fold__slots_of(f, id);
        const uint32_t count = !run->grad[id] ? 0
                               : op->elem     ? slots.elements
                               : for_elements ? slots.elements > 0
                                              : 1;
        for (uint32_t element = 0; element < count; element++) {
            float *row;
            if (outer >= 0)
                row = run->grad_row[id + (uint32_t)outer];
            else if (buffer)
                row = fold__slab_row(buffer, region,
                                     buffer->elem ? run->elem_slot[id] + element : run->slot[id]);
            else if (ref->kind == FOLD__FROM_PARAM)
                row = fold__values(f->model) + fold__params(f->model)[ref->index].at;
            else {
                const uint32_t edge = fold__slot_first(&slots, fold__ref_slot(program, ref)) +
                                      (ref->kind == FOLD__FROM_LIST ? element : 0);
                row = f->value[f->edge_source[edge]] + f->edge_offset[edge];
            }
            rows[at++] = row + offset;
        }
    }
    *scratch += fold__round_up(at * sizeof *rows, FOLD__ALIGN);
    *n_rows = at;
    return rows;
}

/* Adds one segment of a product's weight gradient over the given rows. */
static void fold__weight_use(fold_ctx *f, fold__worker *worker, const fold__program *program,
                             const fold__body_op *op, int segment, size_t rows, const fold_rows *in,
                             const fold_rows *dy, fold__share share, float *sum)
{
    fold__prepare(f, worker, op, program->shape, worker->scratch, &worker->prepared);
    worker->kernel_calls++;
    fold__linear_weight_grad(&worker->prepared.call, rows, segment, in, dy, share, sum);
}

static void fold__eager_use(fold_ctx *f, const fold__use *use);

/* The product whose weight or bias a use is of, or NULL. */
static const fold__body_op *fold__op_of_use(const fold_ctx *f, const fold__use *use)
{
    if (use->kind != FOLD__USE_WEIGHT && use->kind != FOLD__USE_BIAS)
        return NULL;
    return &fold__program_in_run(f, use->run_sig).op[use->op];
}

/* The columns of a use that make up its work from `from` to `to`, in whole vectors. A use without columns
   counts as one. */
static fold__share fold__share_of(const fold_ctx *f, const fold__use *use, uint64_t from, uint64_t to)
{
    const fold__body_op *op = fold__op_of_use(f, use);
    const uint64_t count = op ? (uint64_t)op->attr[3] : 1, steps = (count + FOLD__LANES - 1) / FOLD__LANES;
    const uint64_t from_step = steps * from / use->work * FOLD__LANES;
    const uint64_t to_step = steps * to / use->work * FOLD__LANES;
    const fold__share share = { (int)(from_step < count ? from_step : count),
                                (int)(to_step < count ? to_step : count) };
    return share;
}

/* Adds the rows of a group to the sum of a use of a weight or bias, in some of its columns. */
static void fold__accumulate_weight(fold_ctx *f, fold__worker *worker, const fold__use *use,
                                    const fold__group *group, const fold__group_sig *group_sig,
                                    fold__share share)
{
    const fold__program program = fold__program_in_run(f, use->run_sig);
    const fold__body_op *op = &program.op[use->op];
    const int count = op->attr[3];
    const int inner = fold__shape_lines(&program.shape[op->first_shape]);
    float *region = f->run->region + group->base, *sum = fold__use_sum(f, use);
    char *scratch = (char *)(worker->scratch + fold__round_up(fold__op_scratch(f, &program, op), 16));
    size_t rows;
    float **dy =
        fold__record_rows(f, group_sig, &program, op, -1, (uint32_t)share.from, region, &scratch, &rows);
    const fold_rows dy_rows = { NULL, 0, dy };
    if (use->kind == FOLD__USE_BIAS) {
        fold__add_rows(f->model->kernels, rows, &dy_rows, inner, count, share, sum);
        return;
    }
    float **in = fold__record_rows(f, group_sig, &program, op, (int)use->ref, 0, region, &scratch, &rows);
    if (use->sum == FOLD__SUM_BY_BLOCKS) {
        const int width = fold__shape_last(&program.shape[op->first_shape + use->ref]);
        const int ldw = fold__params(f->model)[use->target].shape.dim[1];
        fold__join_weight_grad(f->model->kernels, rows, in, width, dy, count, sum, (size_t)ldw,
                               worker->scratch);
        return;
    }
    const fold_rows in_rows = { NULL, 0, in };
    fold__weight_use(f, worker, &program, op, (int)use->ref, rows, &in_rows, &dy_rows, share, sum);
}

/* Adds the rows of a group to the sum of a use; of weights and biases in some of their columns. */
static void fold__accumulate_use(fold_ctx *f, fold__worker *worker, const fold__use *use,
                                 const fold__group *group, fold__share share)
{
    fold__run *run = f->run;
    const uint32_t which = fold__sig_in_group(f, use->run_sig, group);
    if (which == FOLD__NONE)
        return;
    const fold__group_sig *group_sig = &run->group_sig[which];
    float *sum = fold__use_sum(f, use);
    if (use->kind == FOLD__USE_WEIGHT || use->kind == FOLD__USE_BIAS) {
        fold__accumulate_weight(f, worker, use, group, group_sig, share);
    } else if (use->kind == FOLD__USE_SLOT) {
        for (uint32_t call = 0; call < group_sig->calls; call++) {
            const uint32_t edge = f->first_edge[run->calls_by_sig[group_sig->first_record + call]] + use->ref;
            if (!run->grad[run->calls_by_sig[group_sig->first_record + call]])
                continue;
            fold__add_row(f, sum + f->edge_offset[edge], fold__edge_dest(f, worker, edge, 1, group),
                          fold__input_floats(f, &f->sigs[run->run_sig[use->run_sig].sig], (int)use->ref));
        }
    } else {
        const fold__program program = fold__program_in_run(f, use->run_sig);
        const fold__body_op *op = &program.op[use->op];
        const fold__buffer *buffer =
            &run->buffer[group_sig->first_buffer + fold__buffer_part(&program, op->first_ref + use->ref)];
        for (uint32_t call = 0; call < group_sig->calls; call++) {
            const uint32_t id = run->calls_by_sig[group_sig->first_record + call];
            const uint32_t count = !run->grad[id] ? 0 : op->elem ? fold__elements_of(f, id) : 1;
            for (uint32_t edge = 0; edge < count; edge++)
                fold__add_row(f, sum + program.ref[op->first_ref + use->ref].offset,
                              fold__slab_row(buffer, run->region + group->base,
                                             op->elem ? run->elem_slot[id] + edge : run->slot[id]),
                              buffer->size);
        }
    }
    if (run->sums_in_one_go)
        fold__add_to_total(f, use);
}

/* Adds the uses of a shared node to its gradient. */
static void fold__shared_total(fold_ctx *f, fold__worker *worker, uint32_t id, const fold__group *group)
{
    fold__run *run = f->run;
    const fold__share whole = { 0, 1 }; /* a use of a node has no columns */
    for (uint32_t which = 0; which < run->n_uses; which++) {
        const fold__use *use = &run->use[which];
        if (!use->is_node || use->target != id)
            continue;
        if (f->eager)
            fold__eager_use(f, use);
        else
            fold__accumulate_use(f, worker, use, group, whole);
        fold__add_row(f, run->grad_row[id], run->sums + use->sum_at, (uint32_t)use->size);
    }
}

/* Adds the uses of each parameter in order, and their total to its gradient, once. */
static void fold__commit_uses(fold_ctx *f)
{
    fold__run *run = f->run;
    fold_model *m = f->model;
    for (uint32_t which = 0; which < run->n_uses && !run->sums_in_one_go; which++)
        fold__add_to_total(f, &run->use[which]);
    for (uint32_t which = 0; which < run->n_uses; which++) {
        const fold__use *use = &run->use[which];
        if (!use->leads)
            continue;
        fold__param_data *param = &fold__params(m)[use->target];
        float *total = fold__use_total(f, use), *grads = fold__grads(m) + param->at;
        if (total != grads && param->grad_clear && !param->touched)
            memcpy(grads, total, param->size * sizeof *grads);
        else if (total != grads)
            fold__add_row(f, grads, total, (uint32_t)param->size);
        param->grad_clear = 0;
        if (param->uses & FOLD_FOR_LOOKUP)
            param->grad_dense = 1;
    }
}

/* -- lookup tables --------------------------------------------------------------------------- */

/* The table that a lookup reads, and the row. */
static fold__param_data *fold__lookup_table(const fold_ctx *f, uint32_t id, uint32_t *row)
{
    *row = fold__node_table_row(f, id);
    return &fold__params(f->model)[fold__node_table(f, id)];
}

/* Adds the gradient of a lookup to the sum of its row of the table, which the first lookup begins. */
static void fold__accumulate_lookup(fold_ctx *f, uint32_t id)
{
    fold__run *run = f->run;
    uint32_t row;
    const fold__param_data *param = fold__lookup_table(f, id, &row);
    const uint32_t size = fold__value_size(f, id);
    if (!fold__trainable(f->model, param))
        return;
    uint32_t *sum_place = &f->table_rows[param->touched_at + row];
    if (!*sum_place) {
        *sum_place = (uint32_t)(run->sums_used / 16) + 1;
        run->sums_used += fold__round_up(size, 16);
        fold__clear_row(run->sums + (size_t)(*sum_place - 1) * 16, size);
    }
    fold__add_row(f, run->sums + (size_t)(*sum_place - 1) * 16, run->grad_row[id], size);
}

/* Adds the sums of looked-up rows to the gradients of their tables. */
static void fold__commit_lookups(fold_ctx *f)
{
    fold__run *run = f->run;
    fold_model *m = f->model;
    for (uint32_t leaf = 0; leaf < run->counts.leaves; leaf++) {
        const uint32_t id = run->leaves[leaf];
        uint32_t row;
        if ((f->kind[id] & FOLD__KIND_MASK) != FOLD__LOOKUP)
            continue;
        fold__param_data *param = fold__lookup_table(f, id, &row);
        uint32_t *sum_place = &f->table_rows[param->touched_at + row];
        if (!*sum_place)
            continue;
        const uint32_t size = fold__value_size(f, id);
        float *grads = fold__grads(m) + param->at + (size_t)row * size;
        float *total = run->sums + (size_t)(*sum_place - 1) * 16;
        if (param->grad_dense || fold__is_touched(m)[param->touched_at + row])
            fold__add_row(f, grads, total, size);
        else
            memcpy(grads, total, size * sizeof *grads);
        fold__touch_row(m, param, row);
        *sum_place = 0;
    }
}

/* Reserves memory for the sums of uses and looked-up rows. Returns 0 when there is none, which the caller
   tells. */
static int fold__reserve_sums(fold_ctx *f)
{
    fold__run *run = f->run;
    size_t floats = run->sum_floats;
    fold__renew_moved(f);
    /* totals too that gradients serve as now: what a context needs must not depend on that */
    for (uint32_t which = 0; which < run->n_uses; which++) {
        const fold__use *use = &run->use[which];
        if (!use->leads || use->total != FOLD__NO_TOTAL)
            continue;
        floats += fold__round_up(fold__params(f->model)[use->target].size, 16);
    }
    const size_t had = f->arrays[FOLD__ARRAY_TABLE_ROWS].need;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if ((f->kind[id] & FOLD__KIND_MASK) == FOLD__LOOKUP && run->grad[id] && (run->state[id] & FOLD__RUNS))
            floats += fold__round_up(fold__value_size(f, id), 16);
    int fits = fold__ask(f, FOLD__ARRAY_SUMS, floats, sizeof(float));
    fits &= fold__ask(f, FOLD__ARRAY_TABLE_ROWS, f->model->touched_rows, sizeof(uint32_t));
    fold__renew_run(f);
    const size_t has = f->arrays[FOLD__ARRAY_TABLE_ROWS].need;
    if (has > had) /* else it is all zero, as runs leave it */
        memset(f->arrays[FOLD__ARRAY_TABLE_ROWS].data + had, 0, has - had);
    run->sums_used = run->sum_floats;
    return fits;
}

/* ==== room: eager contexts ==================================================================
   Owns: immediate mode, which batched runs are held against: running each op when it is recorded, one row at
   a time; running the bodies of cells op by op; gradients over the recording backwards. Shares op
   rows, kernels and the rules of gradients with the batched engine, but no schedules, slabs, tiles or stages.
   Calls: op table, recording, what a run knows, autodiff's rules. */

/* -- calls of cells -------------------------------------------------------------------------- */

/* The body runs op by op. Copies at its inputs and outputs stand for the borders that the call has in a
   batched context. They are called barriers. */

/* A copy of one operand, as an op beside the traced ones. */
static uint32_t fold__barrier(fold_ctx *f, uint32_t tag, const fold__operand *operand, uint64_t data)
{
    const uint32_t ordinal = f->frame.ordinal;
    f->frame.ordinal = tag;
    const fold_node copy = fold__record_copy(f, operand, data);
    f->frame.ordinal = ordinal;
    return copy.id;
}

/* Eager: an op on list elements is one op per element, behind a marker node that stands for them all. Values
   of the call that it uses are copied once, so that their gradient sums the elements first. */
static fold_node fold__record_elements(fold_ctx *f, const fold__request *request)
{
    fold__operand in[FOLD_MAX_IN + 1];
    const uint32_t count = f->frame.elements, ordinal = f->frame.ordinal;
    fold__request one = *request;
    memcpy(in, request->in, request->n_in * sizeof *in);
    for (uint32_t input = 0; input < request->n_in; input++) {
        if ((in[input].kind & FOLD__KIND_MASK) == FOLD__ELEMS || (in[input].kind & FOLD__SHARED))
            continue;
        in[input].source = fold__barrier(f, FOLD__TAG_SPREAD + ordinal * FOLD_MAX_IN + input, &in[input], 0);
        in[input].offset = 0;
        in[input].kind = FOLD__OP;
        if (!in[input].source)
            return fold__null;
    }
    one.in = in;
    if (fold__broken(f) || !fold__room(f, count + 1, (size_t)count * request->n_in))
        return fold__null;
    const uint32_t sig = fold__request_sig(f, &one);
    if (sig && f->sigs[sig].n_out > 1)
        fold__fail(f, FOLD_BAD_CELL, "%s: an eager context runs no op of several outputs on list elements",
                   fold__request_name(f, request->op));
    if (!sig || fold__broken(f))
        return fold__null;
    const uint32_t shape = f->sigs[sig].out_shape[0];
    const uint32_t marker = fold__append(f, FOLD__ELEMS, 0, 0, 0, shape, count);
    f->element_tag[marker] = ordinal + 1;
    const int random = (fold__op_of(f->model, request->op)->flags & FOLD__RANDOM) != 0;
    for (uint32_t element = 0; element < count; element++) {
        for (uint32_t input = 0; input < request->n_in; input++) {
            const int per_element = (in[input].kind & FOLD__KIND_MASK) == FOLD__ELEMS;
            f->edge_source[f->n_edges] = in[input].source + (per_element ? 1 + element : 0);
            f->edge_offset[f->n_edges++] = in[input].offset;
        }
        fold__append_call(f, sig, 0, request->data + (random ? (element + 1) * FOLD__ELEMENT_STEP : 0));
    }
    f->frame.ordinal = ordinal + 1;
    for (uint32_t element = 0; element < count && !fold__broken(f); element++)
        fold__eager_run(f, marker + 1 + element);
    return fold__broken(f) ? fold__null : fold__handle(f, marker);
}

/* The call's inputs as the body sees them: copies of what was given, and markers for the list's components.
 */
static int fold__eager_inputs(fold_ctx *f, const fold__cell_data *cell, const fold__operand *in,
                              const fold__list *list, fold_node *body_in)
{
    for (int input = 0; input < cell->desc.n_in; input++) {
        body_in[input] =
            fold__handle(f, fold__barrier(f, FOLD__TAG_BARRIER + (uint32_t)input, &in[input], 0));
        if (!body_in[input].id)
            return 0;
    }
    for (int component = 0; component < cell->desc.n_list; component++) {
        const uint32_t shape = fold__intern_shape(f, &cell->desc.list[component]);
        const uint32_t tag = FOLD__TAG_BARRIER + (uint32_t)(cell->desc.n_in + component);
        if (shape == FOLD__NONE || !fold__room(f, 1, 0))
            return 0;
        const uint32_t marker = fold__append(f, FOLD__ELEMS, 0, 0, 0, shape, list->count);
        f->element_tag[marker] = tag + 1;
        body_in[cell->desc.n_in + component] = fold__handle(f, marker);
        for (size_t element = 0; element < list->count; element++) {
            fold__operand operand;
            fold__list_operand(f, list, component, element, &operand.source, &operand.offset);
            operand.shape = shape;
            operand.kind = (uint8_t)(f->kind[operand.source] & ~FOLD__SHARED);
            if (!fold__barrier(f, tag, &operand, 0))
                return 0;
        }
    }
    return 1;
}

/* Runs the body of a cell now, op by op. The windows returned stand for the call's outputs. */
static fold_node fold__eager_body(fold_ctx *f, const fold__request *request, const fold__list *list)
{
    const uint32_t id = request->op & ~FOLD__CELL_OP, tag = fold__request_sig(f, request);
    const fold__cell_data *cell = &fold__cells(f->model)[id];
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
    if (fold__eager_inputs(f, cell, request->in, list, body_in))
        cell->desc.body(f, body_in, out, cell->desc.user);
    cell = fold__cell_after_body(f, id, cells);
    int fine = fold__finish_outputs(f, cell->name, out, cell->desc.n_out);
    if (fine && f->frame.ordinal != (uint32_t)cell->n_trace) {
        fold__fail(f, FOLD_BAD_CELL, "cell '%s': it had %d ops when traced and has %d in this call",
                   cell->name, cell->n_trace, (int)f->frame.ordinal);
        fine = 0;
    }
    for (int output = 0; output < cell->desc.n_out && fine; output++) {
        fold__operand operand;
        fine = fold__operand_of(f, out[output], cell->name, &operand);
        if (fine)
            barrier[output] = fold__barrier(f, FOLD__TAG_BARRIER + 0x8000u + (uint32_t)output, &operand,
                                            fold__barrier_data(first_input, cell->desc.n_out, output));
        fine = fine && barrier[output];
    }
    memset(&f->frame, 0, sizeof f->frame);
    if (!fine || !fold__room(f, (uint32_t)cell->desc.n_out, 0))
        return fold__null;
    uint32_t first = 0;
    for (int output = 0; output < cell->desc.n_out; output++) {
        const uint32_t window = fold__append(f, FOLD__WINDOW, 0, barrier[output], 0,
                                             f->shape[barrier[output]], (uint64_t)cell->desc.n_out);
        if (!output)
            first = window;
    }
    return fold__handle(f, first);
}

/* With the dedupe flag, an eager call leaves a header node (a window with a signature) to be found again. */
static fold_node fold__eager_call(fold_ctx *f, const fold__request *request, const fold__list *list)
{
    const uint32_t id = request->op & ~FOLD__CELL_OP;
    const int draws = fold__cells(f->model)[id].program.n_draws;
    if (!f->dedupe)
        return fold__eager_body(f, request, list);
    if (!fold__twins_ready(f) || !fold__room(f, 1, fold__n_operands(request)))
        return fold__null;
    const uint32_t sig = fold__request_sig(f, request);
    if (!sig)
        return fold__null;
    fold__add_edges(f, request);
    const uint32_t header =
        fold__append(f, FOLD__WINDOW, sig, 0, 0, f->sigs[sig].out_shape[0], draws ? fold__draw_base(f) : 0);
    const uint32_t twin = fold__find_twin(f, header);
    if (twin) {
        const uint32_t made = f->header_call[twin];
        f->draws += (uint64_t)draws;
        fold__unrecord(f, header);
        return fold__note_found(f, twin, made) ? fold__handle(f, made) : fold__null;
    }
    const fold_node call = fold__eager_body(f, request, list);
    f->header_call[header] = call.id;
    return call;
}

/* -- ops ------------------------------------------------------------------------------------- */

/* The address of a value that is there: an input, a parameter, or what was computed and kept. */
static float *fold__address(const fold_ctx *f, uint32_t id)
{
    const fold_model *m = f->model;
    switch (fold__kind_of(f, id)) {
    case FOLD__REF: return fold__node_address(f, id);
    case FOLD__PARAM: return fold__values(m) + fold__params(m)[fold__node_param(f, id)].at;
    case FOLD__LOOKUP: {
        uint32_t row;
        const fold__param_data *param = fold__lookup_table(f, id, &row);
        return fold__values(m) + param->at + (size_t)row * fold__value_size(f, id);
    }
    case FOLD__WINDOW:
    case FOLD__ELEMS: return NULL;
    default: return fold__at_place(f, f->place[id]);
    }
}

/* The call of one recorded op: one row, its list's elements by pointers from `pointers` on. */
static fold_op_call *fold__eager_set_call(fold_ctx *f, uint32_t id, const fold__program *program,
                                          float ***pointers)
{
    fold__worker *worker = f->run->worker;
    fold_op_call *call = &worker->prepared.call;
    const fold__body_op *op = &program->op[0];
    const fold__slots slots = fold__slots_of(f, id);
    fold__prepare(f, worker, op, program->shape, worker->scratch, &worker->prepared);
    call->rows = 1;
    call->data = &f->node_data[id];
    call->list = (const int *)worker->one_list;
    worker->one_list[0] = 0;
    worker->one_list[1] = slots.elements;
    for (int operand = 0; operand < op->n_in; operand++) {
        const uint32_t first = fold__slot_first(&slots, operand);
        worker->op_in[operand].stride = 0;
        worker->op_in[operand].rows = operand < slots.sig->n_in ? NULL : *pointers;
        worker->op_in[operand].base = operand < slots.sig->n_in
                                          ? fold__address(f, f->edge_source[first]) + f->edge_offset[first]
                                          : NULL;
        for (uint32_t edge = 0; edge < slots.elements && operand >= slots.sig->n_in; edge++)
            *(*pointers)++ = fold__address(f, f->edge_source[first + edge]) + f->edge_offset[first + edge];
    }
    for (int output = 0; output < op->n_out; output++) {
        worker->op_out[output].base = fold__address(f, id + (uint32_t)output);
        worker->op_out[output].stride = 0;
        worker->op_out[output].rows = NULL;
    }
    return call;
}

/* Scratch for one op and `edges` pointers twice over; where the pointers begin. */
static float **fold__eager_scratch(fold_ctx *f, const fold__program *program, size_t edges)
{
    const size_t floats = fold__round_up(fold__op_scratch(f, program, program->op), 16);
    if (!fold__need(f, FOLD__ARRAY_SCRATCH, floats * sizeof(float) + 2 * edges * sizeof(float *), 1))
        return NULL;
    fold__renew(f);
    f->run->worker = (fold__worker *)(void *)f->arrays[FOLD__ARRAY_WORKERS].data;
    f->run->worker->scratch = (float *)(void *)f->arrays[FOLD__ARRAY_SCRATCH].data;
    return (float **)(void *)(f->run->worker->scratch + floats);
}

static int fold__is_random(const fold_ctx *f, const fold__body_op *op)
{
    return (fold__op_of(f->model, op->op)->flags & FOLD__RANDOM) != 0;
}

static void fold__eager_run(fold_ctx *f, uint32_t id)
{
    const fold__sig *sig = fold__node_sig(f, id);
    const uint32_t n_out = sig->n_out;
    for (uint32_t output = 0; output < n_out; output++) {
        const uint32_t place = fold__place_data(f, fold__value_size(f, id + output));
        if (place == FOLD__NONE)
            return;
        f->place[id + output] = place;
        f->kind[id + output] |= FOLD__DONE;
    }
    if (!f->any_done) {
        f->any_done = 1;
        f->done_version = f->model->version;
    }
    fold__program program = fold__program_of(f, fold__node_sig(f, id));
    float **pointers = fold__eager_scratch(f, &program, f->first_edge[id + 1] - f->first_edge[id]);
    if (!pointers)
        return;
    program = fold__program_of(f, fold__node_sig(f, id));
    const fold__fp saved = fold__fp_enter();
    fold_op_call *call = fold__eager_set_call(f, id, &program, &pointers);
    uint64_t key = 0;
    if (fold__is_random(f, program.op)) {
        key = fold__draw_key(fold__node_op_data(f, id), 0, 0);
        call->data = &key;
    }
    if (key && !f->training)
        fold__copy_forward(call);
    else
        fold__op_of(f->model, program.op->op)->def.forward(call);
    fold__fp_leave(saved);
}

/* -- gradients ------------------------------------------------------------------------------- */

static void fold__eager_backward_op(fold_ctx *f, uint32_t id)
{
    fold__run *run = f->run;
    fold__worker *worker = run->worker;
    const fold__program program = fold__program_of(f, fold__node_sig(f, id));
    const fold__op_row *row = fold__op_of(f->model, program.op->op);
    const fold__slots slots = fold__slots_of(f, id);
    float **pointers =
        (float **)(void *)(worker->scratch + fold__round_up(fold__op_scratch(f, &program, program.op), 16));
    if (!row->def.backward)
        return;
    fold_op_call *call = fold__eager_set_call(f, id, &program, &pointers);
    uint64_t key = 0;
    if (fold__is_random(f, program.op)) {
        key = fold__draw_key(fold__node_op_data(f, id), 0, 0);
        call->data = &key;
    }
    for (uint32_t output = 0; output < slots.sig->n_out; output++) {
        worker->op_dout[output].base = run->grad_row[id + output];
        worker->op_dout[output].stride = 0;
        worker->op_dout[output].rows = NULL;
    }
    int any = 0;
    for (int operand = 0; operand < program.op->n_in; operand++) {
        const uint32_t first = fold__slot_first(&slots, operand);
        int wanted = 0;
        worker->op_din[operand] = fold__no_rows;
        for (uint32_t edge = 0; edge < fold__slot_edges(&slots, operand); edge++)
            wanted |= run->grad[f->edge_source[first + edge]];
        if (!wanted || !(slots.sig->differentiable >> operand & 1))
            continue;
        any = 1;
        const int shared = fold__slot_shared(&slots, operand);
        if (operand < slots.sig->n_in) {
            worker->op_din[operand].base = fold__edge_dest(f, worker, first, shared, run->group);
            continue;
        }
        worker->op_din[operand].rows = pointers;
        for (uint32_t edge = 0; edge < slots.elements; edge++)
            *pointers++ = fold__edge_dest(f, worker, first + edge, 0, run->group);
    }
    if (any && key && !f->training)
        fold__copy_backward(call);
    else if (any) {
        if (program.op->op == FOLD__OP_linear)
            fold__keep_back_pack(f->model, program.op->param[0]);
        row->def.backward(call);
    }
}

/* A use's rows of the head or of all else, one at a time in record order. */
static void fold__eager_use_rows(fold_ctx *f, const fold__use *use, int head)
{
    fold__run *run = f->run;
    const fold__program program = fold__program_in_run(f, use->run_sig);
    const fold__body_op *op = program.op;
    const fold__share whole = { 0, op->attr[3] };
    float *total = fold__use_sum(f, use);
    const int inner = fold__shape_lines(&program.shape[0]);
    for (uint32_t call = 0; call < run->counts.calls; call++) {
        const uint32_t id = run->calls[call], first = f->first_edge[id];
        if (f->sig[id] != run->run_sig[use->run_sig].sig || !run->grad[id] ||
            ((run->state[id] & FOLD__HEAD) != 0) != head)
            continue;
        fold_rows dy = { run->grad_row[id], 0, NULL };
        if (use->kind == FOLD__USE_SLOT) {
            fold__add_row(f, total + f->edge_offset[first + use->ref],
                          fold__edge_dest(f, run->worker, first + use->ref, 1, run->group),
                          fold__input_floats(f, &f->sigs[f->sig[id]], (int)use->ref));
        } else if (use->kind == FOLD__USE_BIAS) {
            fold__add_rows(f->model->kernels, 1, &dy, inner, op->attr[3], whole, total);
        } else {
            const fold_rows input = {
                fold__address(f, f->edge_source[first + use->ref]) + f->edge_offset[first + use->ref], 0, NULL
            };
            fold__weight_use(f, run->worker, &program, op, (int)use->ref, 1, &input, &dy, whole, total);
        }
    }
}

static void fold__eager_use(fold_ctx *f, const fold__use *use)
{
    fold__eager_use_rows(f, use, 0);
    if (f->run->counts.head)
        fold__eager_use_rows(f, use, 1);
}

/* Reserves everything an eager backward writes: contributions, then a gradient row per value. */
static int fold__eager_reserve(fold_ctx *f)
{
    fold__run *run = f->run;
    uint32_t rows = 0;
    size_t at = 0, edges = 0, scratch = 0;
    run->counts.groups = run->counts.leaves = 0;
    run->counts.tail = 0;
    if (!fold__add_group(f, 0, run->counts.calls))
        return 0;
    if (!fold__analyse_signatures(f) || !fold__list_uses(f))
        return 0;
    for (uint32_t call = 0; call < run->counts.calls; call++) {
        const fold__program program = fold__program_of(f, fold__node_sig(f, run->calls[call]));
        if (run->grad[run->calls[call]])
            fold__place_contributions(f, run->calls[call], &rows, &rows);
        edges = fold__max_size(edges, f->first_edge[run->calls[call] + 1] - f->first_edge[run->calls[call]]);
        scratch = fold__max_size(scratch, fold__round_up(fold__op_scratch(f, &program, program.op), 16));
    }
    at = (size_t)rows * 16;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (run->grad[id] && (run->state[fold__call_of(f, id)] & FOLD__RUNS))
            at += fold__round_up(fold__value_size(f, id), 16);
    int fits = fold__ask(f, FOLD__ARRAY_REGION, at + fold__widest(f), sizeof(float));
    fits &= fold__ask(f, FOLD__ARRAY_SCRATCH, scratch * sizeof(float) + 2 * edges * sizeof(float *), 1);
    fits &= fold__reserve_sums(f);
    fold__renew_run(f);
    if (!fits)
        return fold__out_of_memory(f, 1);
    run->trash = run->region + at;
    run->group[0].rows_at = 0;
    at = (size_t)rows * 16;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if (!run->grad[id] || !(run->state[fold__call_of(f, id)] & FOLD__RUNS))
            continue;
        run->grad_row[id] = run->region + at;
        at += fold__round_up(fold__value_size(f, id), 16);
        if (run->mode[id] == FOLD__GRAD_SOME_PARTS)
            fold__clear_row(run->grad_row[id], fold__value_size(f, id));
        const uint32_t kind = fold__kind_of(f, id);
        if (kind == FOLD__LOOKUP || kind == FOLD__INPUT || kind == FOLD__REF)
            run->leaves[run->counts.leaves++] = id;
    }
    return 1;
}

static int fold__eager_backward(fold_ctx *f)
{
    fold__run *run = f->run;
    if (!fold__eager_reserve(f))
        return 0;
    const fold__fp saved = fold__fp_enter();
    if (run->sum_floats)
        memset(run->sums, 0, run->sum_floats * sizeof(float));
    for (uint32_t i = run->counts.calls; i-- > 0;) {
        const uint32_t id = run->calls[i], n_out = fold__node_sig(f, id)->n_out;
        if (!run->grad[id])
            continue;
        for (uint32_t output = 0; output < n_out; output++)
            fold__finish_gradient(f, run->worker, id + output, run->group);
        fold__eager_backward_op(f, id);
    }
    for (uint32_t use = 0; use < run->n_uses; use++)
        if (!run->use[use].is_node)
            fold__eager_use(f, &run->use[use]);
    for (uint32_t i = 0; i < run->counts.leaves; i++) {
        fold__finish_gradient(f, run->worker, run->leaves[i], run->group);
        if (fold__kind_of(f, run->leaves[i]) == FOLD__LOOKUP)
            fold__accumulate_lookup(f, run->leaves[i]);
    }
    fold__commit_uses(f);
    fold__commit_lookups(f);
    fold__fp_leave(saved);
    return 1;
}

/* ==== room: plan cache ======================================================================
   Owns: plans of earlier runs, in the bytes that the context was given for them. A run of the same structure
   gets its plan copied back; it is found by a hash, and confirmed by comparing the whole structure. A plan is
   kept when its structure comes for the second time. Calls: what a run knows. Must not know what a plan
   means. */

enum { FOLD__PLANS = 64, FOLD__PLAN_PARTS = 5, FOLD__STRUCTURE_PARTS = 7, FOLD__HASHED_PARTS = 2 };
typedef struct fold__kept_plan {
    fold__identity of;
    uint64_t used;    /* the run that used it last */
    size_t at, bytes; /* in the array of plans: arrays of nodes, then the structure, then the other arrays */
    size_t node_bytes;
    fold__counts counts;
} fold__kept_plan;
typedef struct fold__plans {
    uint64_t runs, seen[FOLD__PLANS]; /* hashes of the last structures that had no plan, in turn */
    uint32_t n_seen;
    uint32_t count;
    size_t end;
    fold__kept_plan plan[FOLD__PLANS];
} fold__plans;

/* The context's plans, or NULL when it keeps none. */
static fold__plans *fold__plans_of(const fold_ctx *f)
{
    const fold__array *array = &f->arrays[FOLD__ARRAY_PLANS];
    return array->need ? (fold__plans *)(void *)array->data : NULL;
}
static size_t fold__plans_head(void) { return fold__round_up(sizeof(fold__plans), FOLD__ALIGN); }

static void fold__forget_plans(fold_ctx *f)
{
    fold__plans *plans = fold__plans_of(f);
    if (!plans)
        return;
    memset(plans, 0, sizeof *plans);
    plans->end = fold__plans_head();
}
static int fold__reserve_plans(fold_ctx *f, size_t bytes)
{
    if (f->eager || bytes < fold__plans_head())
        return 1;
    if (!fold__need(f, FOLD__ARRAY_PLANS, bytes, 1))
        return 0;
    fold__forget_plans(f);
    return 1;
}

typedef struct fold__extent {
    void *data;
    size_t bytes;
} fold__extent;

/* The arrays of a recording's structure, the first of which make the hash. One word for every leaf of a
   parameter, and the roots, belong to the structure too. */
static void fold__structure(const fold_ctx *f, fold__extent extents[FOLD__STRUCTURE_PARTS])
{
    const size_t nodes = (size_t)f->n_nodes * 4, edges = (size_t)f->n_edges * 4;
    const fold__extent all[FOLD__STRUCTURE_PARTS] = { { f->sig + 1, nodes },
                                                      { f->edge_source, edges },
                                                      { f->edge_offset, edges },
                                                      { f->first_edge + 1, nodes },
                                                      { f->shape + 1, nodes },
                                                      { f->kind + 1, f->n_nodes },
                                                      { f->found, f->n_found * sizeof(fold__found) } };
    memcpy(extents, all, sizeof all);
}
/* Whether a node is a leaf of a parameter, and of which. */
static int fold__leaf_param(const fold_ctx *f, uint32_t id, uint32_t *param)
{
    const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
    if (kind != FOLD__LOOKUP && kind != FOLD__PARAM)
        return 0;
    *param = kind == FOLD__LOOKUP ? fold__node_table(f, id) : fold__node_param(f, id);
    return 1;
}

/* The arrays of a plan beside those of nodes, as far as they are in use. */
static void fold__plan_arrays(const fold_ctx *f, const fold__counts *counts,
                              fold__extent extents[FOLD__PLAN_PARTS])
{
    static const int array[FOLD__PLAN_PARTS] = { FOLD__ARRAY_RUN_SIGS, FOLD__ARRAY_BATCHES,
                                                 FOLD__ARRAY_GROUPS, FOLD__ARRAY_GROUP_SIGS,
                                                 FOLD__ARRAY_BUFFERS };
    const size_t bytes[FOLD__PLAN_PARTS] = { counts->run_sigs * sizeof(fold__run_sig),
                                             counts->batches * sizeof(fold__batch),
                                             counts->groups * sizeof(fold__group),
                                             counts->group_sigs * sizeof(fold__group_sig),
                                             counts->buffers * sizeof(fold__buffer) };
    for (int part = 0; part < FOLD__PLAN_PARTS; part++) {
        extents[part].data = f->arrays[array[part]].data;
        extents[part].bytes = bytes[part];
    }
}

/* Goes on with a hash. Two chains of products run side by side, because a product takes its time. */
static uint64_t fold__hash_bytes(uint64_t hash, const void *memory, size_t bytes)
{
    uint64_t even = hash, odd = ~hash, words[2];
    for (; bytes >= sizeof words; bytes -= sizeof words) {
        memcpy(words, memory, sizeof words);
        even = (even ^ words[0]) * UINT64_C(0x9e3779b97f4a7c15);
        even ^= even >> 32;
        odd = (odd ^ words[1]) * UINT64_C(0xc2b2ae3d27d4eb4f);
        odd ^= odd >> 32;
        memory = (const char *)memory + sizeof words;
    }
    words[0] = words[1] = bytes;
    if (bytes)
        memcpy(words, memory, bytes);
    return fold__mix64((even ^ words[0]) * UINT64_C(0x9e3779b97f4a7c15) + (odd ^ words[1]));
}

/* What tells this run from others. */
static fold__identity fold__identify(const fold_ctx *f, const fold_node *roots, size_t n_roots)
{
    fold__extent extents[FOLD__STRUCTURE_PARTS];
    const fold__run *run = f->run;
    const uint64_t mode = (uint64_t)(run->backward << 2 | run->changed << 1 | run->recompute);
    fold__identity identity = { 0, f->n_nodes,       f->n_edges, f->n_found, (uint32_t)n_roots,
                                0, f->model->layout, mode };
    uint32_t param;
    fold__structure(f, extents);
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (fold__leaf_param(f, id, &param)) {
            identity.hash = identity.hash * 31 + param;
            identity.leaves++;
        }
    for (size_t i = 0; i < n_roots; i++)
        identity.hash = identity.hash * 31 + f->source[roots[i].id];
    identity.hash = fold__hash_bytes(identity.hash, &identity, sizeof identity);
    for (int i = 0; i < FOLD__HASHED_PARTS; i++)
        identity.hash = fold__hash_bytes(identity.hash, extents[i].data, extents[i].bytes);
    return identity;
}

/* Writes a run's structure to `at`, or compares it with what is there. Returns the end, or NULL when it
 * differs. */
static char *fold__pass_structure(const fold_ctx *f, const fold_node *roots, size_t n_roots, char *at,
                                  int write)
{
    fold__extent extents[FOLD__STRUCTURE_PARTS];
    uint32_t word, *to;
    fold__structure(f, extents);
    for (int part = 0; part < FOLD__STRUCTURE_PARTS; at += fold__round_up(extents[part].bytes, 8), part++) {
        if (!extents[part].bytes)
            continue; /* its array may not be there */
        if (write)
            memcpy(at, extents[part].data, extents[part].bytes);
        else if (memcmp(at, extents[part].data, extents[part].bytes))
            return NULL;
    }
    to = (uint32_t *)(void *)at;
    for (uint32_t id = 1; id <= f->n_nodes + n_roots; id++) {
        if (id > f->n_nodes)
            word = f->source[roots[id - f->n_nodes - 1].id];
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
static int fold__replay_plan(fold_ctx *f, const fold_node *roots, size_t n_roots)
{
    fold__run *run = f->run;
    fold__plans *plans = fold__plans_of(f);
    fold__extent extents[FOLD__PLAN_PARTS];
    if (!plans)
        return 0;
    run->identity = fold__identify(f, roots, n_roots);
    for (uint32_t which = 0; which < plans->count; which++) {
        const fold__kept_plan kept = plans->plan[which];
        const char *end =
            memcmp(&kept.of, &run->identity, sizeof kept.of)
                ? NULL
                : fold__pass_structure(f, roots, n_roots, (char *)plans + kept.at + kept.node_bytes, 0);
        if (!end)
            continue;
        const size_t others = (size_t)(end - (char *)plans);
        if (!fold__need(f, FOLD__ARRAY_RUN_SIGS, kept.counts.run_sigs, sizeof(fold__run_sig)) ||
            !fold__need(f, FOLD__ARRAY_BATCHES, kept.counts.batches, sizeof(fold__batch)) ||
            !fold__need(f, FOLD__ARRAY_GROUPS, kept.counts.groups, sizeof(fold__group)) ||
            !fold__need(f, FOLD__ARRAY_GROUP_SIGS, kept.counts.group_sigs, sizeof(fold__group_sig)) ||
            !fold__need(f, FOLD__ARRAY_BUFFERS, kept.counts.buffers, sizeof(fold__buffer)))
            return 0;
        run->replayed = kept.at;
        run->counts = kept.counts;
        fold__renew_run(f);
        plans = fold__plans_of(f);
        plans->plan[which].used = ++plans->runs;
        fold__plan_arrays(f, &kept.counts, extents);
        end = (char *)plans + others;
        for (int part = 0; part < FOLD__PLAN_PARTS; end += fold__round_up(extents[part].bytes, 8), part++)
            if (extents[part].bytes)
                memcpy(extents[part].data, end, extents[part].bytes);
        f->stats.plan_hits += f->stats.plan_hits < INT_MAX;
        return 1;
    }
    f->stats.plan_misses += f->stats.plan_misses < INT_MAX;
    return 0;
}

/* Forgets a plan, and moves those behind it. */
static void fold__drop_plan(fold__plans *plans, uint32_t which)
{
    const size_t at = plans->plan[which].at, bytes = plans->plan[which].bytes;
    memmove((char *)plans + at, (char *)plans + at + bytes, plans->end - at - bytes);
    plans->end -= bytes;
    plans->plan[which] = plans->plan[--plans->count];
    for (uint32_t other = 0; other < plans->count; other++)
        if (plans->plan[other].at > at)
            plans->plan[other].at -= bytes;
}

/* Whether a structure without a plan was seen before; notes it. */
static int fold__seen_before(fold__plans *plans, uint64_t hash)
{
    for (int i = 0; i < FOLD__PLANS; i++)
        if (plans->seen[i] == hash)
            return 1;
    plans->seen[plans->n_seen++ % FOLD__PLANS] = hash;
    return 0;
}

/* Keeps the plan just made if its structure was seen before and the plan fits, perhaps in place of those that
   were not used for longest. */
static void fold__store_plan(fold_ctx *f, const fold_node *roots, size_t n_roots)
{
    fold__run *run = f->run;
    fold__plans *plans = fold__plans_of(f);
    fold__extent structure[FOLD__STRUCTURE_PARTS], arrays[FOLD__PLAN_PARTS];
    if (!plans)
        return;
    fold__kept_plan kept = { run->identity,
                             ++plans->runs,
                             0,
                             run->node_bytes + ((size_t)run->identity.leaves + n_roots + 1) / 2 * 8,
                             run->node_bytes,
                             run->counts };
    fold__structure(f, structure);
    fold__plan_arrays(f, &run->counts, arrays);
    for (int part = 0; part < FOLD__STRUCTURE_PARTS; part++)
        kept.bytes += fold__round_up(structure[part].bytes, 8);
    for (int part = 0; part < FOLD__PLAN_PARTS; part++)
        kept.bytes += fold__round_up(arrays[part].bytes, 8);
    kept.bytes = fold__round_up(kept.bytes, FOLD__ALIGN);
    if (!fold__seen_before(plans, kept.of.hash) ||
        kept.bytes > f->arrays[FOLD__ARRAY_PLANS].need - fold__plans_head())
        return;
    while (plans->count == FOLD__PLANS || kept.bytes > f->arrays[FOLD__ARRAY_PLANS].need - plans->end) {
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < plans->count; i++)
            oldest = plans->plan[i].used < plans->plan[oldest].used ? i : oldest;
        fold__drop_plan(plans, oldest);
    }
    kept.at = plans->end;
    memcpy((char *)plans + kept.at, f->arrays[FOLD__ARRAY_NODE_ARRAYS].data, kept.node_bytes);
    char *to = fold__pass_structure(f, roots, n_roots, (char *)plans + kept.at + kept.node_bytes, 1);
    for (int part = 0; part < FOLD__PLAN_PARTS; to += fold__round_up(arrays[part].bytes, 8), part++)
        if (arrays[part].bytes)
            memcpy(to, arrays[part].data, arrays[part].bytes);
    plans->end += kept.bytes;
    plans->plan[plans->count++] = kept;
}

/* ==== room: running =========================================================================
   Owns: a run from its roots to its results, and reading what it left. It plans, or gets the plan of an
   earlier run, lays out the region, reserves, runs groups forward and backward, alone or shared out among
   threads, and notes what it did. Calls: all rooms above. Must not know ops. */

/* Finds the addresses of all values that are there as a run begins. */
static void fold__resolve_leaves(fold_ctx *f)
{
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = f->kind[id] & FOLD__KIND_MASK;
        const int there = (kind != FOLD__OP && kind != FOLD__EXTRA) || (f->kind[id] & FOLD__DONE);
        f->value[id] =
            there ? fold__address(f, id) : f->run->trash; /* gathered, but not read, before it is computed */
    }
}

/* How many floats of the recording's data roots and kept values take. Those of earlier runs have their
 * places. */
static size_t fold__result_floats(const fold_ctx *f)
{
    const fold__run *run = f->run;
    size_t floats = 0;
    for (uint32_t i = 0; i < run->counts.kept; i++)
        if (!(f->kind[run->kept[i]] & FOLD__DONE))
            floats += fold__round_up(fold__value_size(f, run->kept[i]), 16);
    return floats;
}
/* Gives them their places; there is room. */
static void fold__place_results(fold_ctx *f)
{
    fold__run *run = f->run;
    for (uint32_t i = 0; i < run->counts.kept; i++) {
        const uint32_t id = run->kept[i];
        if (f->kind[id] & FOLD__DONE)
            continue;
        f->place[id] = (uint32_t)(f->data_used / 16);
        f->data_used += fold__round_up(fold__value_size(f, id), 16);
    }
}

/* Places the values and gradients that cross between groups, and the contributions to them, in units of 16
   floats from the region's start; returns the units. Leaves have their values already, and rows for gradients
   with their group. Also places the contributions within groups, from each group's start. */
static uint32_t fold__place_links(fold_ctx *f)
{
    fold__run *run = f->run;
    uint32_t linked = 0;
    for (uint32_t id = 1; id <= f->n_nodes && (run->counts.head || run->counts.tail); id++) {
        if (!(run->state[id] & FOLD__LINKED) || !fold__makes_value(f->kind[id]))
            continue;
        const uint32_t units = (fold__value_size(f, id) + 15) / 16;
        if (!(run->state[id] & FOLD__PERSIST)) {
            run->value_link[id] = linked;
            linked += units;
        }
        if (run->backward && run->grad[id]) {
            run->grad_link[id] = linked;
            linked += units;
        }
    }
    for (uint32_t group = 0; group < run->counts.groups; group++)
        run->group[group].rows = 0;
    for (uint32_t id = 1; id <= run->counts.last_node && run->backward; id++)
        if (fold__is_op(f, id) && (run->state[id] & FOLD__RUNS) && run->grad[id])
            fold__place_contributions(f, id, &run->group[fold__group_sig_of(f, id)->group].rows, &linked);
    return linked;
}

/* The first group of samples, */
static uint32_t fold__samples_from(const fold__run *run) { return run->counts.head ? 1 : 0; }
/* and the one behind the last. */
static uint32_t fold__samples_to(const fold__run *run)
{
    return run->counts.groups - (run->counts.tail ? 1 : 0);
}

/* Lays out the region: first what crosses between groups, then the head, the tail, and room for as many
   groups of samples as there are threads, which groups take in turn. Behind a group's slabs lie its rows of
   contributions, and behind those the gradients of its leaves. */
static void fold__place_groups(fold_ctx *f, size_t links)
{
    fold__run *run = f->run;
    const uint32_t from = fold__samples_from(run), to = fold__samples_to(run);
    size_t samples = 0, end = links;
    for (uint32_t index = 0; index < run->counts.groups; index++) {
        fold__group *group = &run->group[index];
        size_t leaves = 0;
        for (uint32_t leaf = group->first_leaf; leaf < group->end_leaf; leaf++)
            leaves += fold__round_up(fold__value_size(f, run->leaves[leaf]), 16);
        group->rows_at = group->floats;
        group->leaf_at = group->rows_at + (size_t)group->rows * 16;
        group->base = end;
        if (index >= from && index < to)
            samples = fold__max_size(samples, group->leaf_at + leaves);
        else
            end += group->leaf_at + leaves;
    }
    for (uint32_t index = 0; index < run->counts.groups; index++) {
        fold__group *group = &run->group[index];
        if (index >= from && index < to)
            group->base = end + ((index - from) % (uint32_t)f->threads) * samples;
        group->rows_at += group->base;
        group->leaf_at += group->base;
    }
    run->counts.region = end + samples * fold__min_size((size_t)f->threads, to - from);
}

/* Plans a run: everything that follows from structure alone. */
static int fold__plan(fold_ctx *f)
{
    fold__run *run = f->run;
    run->counts.order = run->counts.batches = run->counts.groups = run->counts.group_sigs =
        run->counts.buffers = 0;
    run->counts.scratch = run->counts.without_reuse = 0;
    if (!fold__analyse_signatures(f))
        return 0;
    memset(run->maker, 255, ((size_t)f->n_nodes + 2) * sizeof *run->maker);
    if (run->backward)
        memset(run->leaf_group, 255, ((size_t)f->n_nodes + 2) * sizeof *run->leaf_group);
    if (!fold__form_groups(f))
        return 0;
    for (uint32_t group = 0; group < run->counts.groups; group++)
        if (!fold__schedule_group(f, group) || !fold__plan_group(f, group))
            return 0;
    fold__mark_links(f);
    if (run->backward)
        fold__list_leaves(f);
    fold__place_groups(f, (size_t)fold__place_links(f) * 16);
    return 1;
}

/* Packs the weights of products that give their inputs gradients in this run. */
static void fold__ready_packs(fold_ctx *f)
{
    for (uint32_t sig = 0; sig < f->run->counts.run_sigs; sig++) {
        const fold__run_sig *run_sig = &f->run->run_sig[sig];
        const fold__program program = fold__program_of(f, &f->sigs[run_sig->sig]);
        for (int op_index = 0; op_index < program.n_ops; op_index++)
            for (int operand = 0;
                 operand < program.op[op_index].n_in && program.op[op_index].op == FOLD__OP_linear; operand++)
                if (fold__ref_wanted(f, run_sig, &program, &program.op[op_index], operand))
                    fold__keep_back_pack(f->model, program.op[op_index].param[0]);
    }
}

/* Reserves what a planned run writes. */
static int fold__reserve_run(fold_ctx *f)
{
    fold__run *run = f->run;
    run->sum_floats = 0;
    if (run->backward && !fold__list_uses(f))
        return 0;
    run->widest_value = fold__widest(f);
    fold__renew_moved(f);
    const size_t data = f->data_used + fold__result_floats(f);
    int fits = data / 16 < FOLD__NONE && fold__ask(f, FOLD__ARRAY_DATA, data, sizeof(float));
    fits &= fold__ask(f, FOLD__ARRAY_REGION, run->counts.region + run->widest_value * (size_t)f->threads,
                      sizeof(float));
    fits &= fold__ask(f, FOLD__ARRAY_SCRATCH, run->counts.scratch * (size_t)f->threads, sizeof(float));
    fits &= !run->backward || fold__reserve_sums(f);
    fold__renew_run(f);
    if (!fits)
        return fold__out_of_memory(f, 1);
    if (run->backward)
        fold__ready_packs(f);
    fold__place_results(f);
    run->trash = run->region + run->counts.region;
    return 1;
}

/* Finds where the gradients of a group's values and leaves lie. */
static void fold__aim_gradients(fold_ctx *f, const fold__group *group)
{
    fold__run *run = f->run;
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++) {
        const fold__group_sig *group_sig = &run->group_sig[sig];
        const fold__program program = fold__program_in_run(f, group_sig->run_sig);
        for (uint32_t output = 0; output < (uint32_t)program.n_out; output++) {
            const fold__buffer *buffer =
                &run->buffer[group_sig->first_buffer + fold__buffer_outer(&program, output)];
            for (uint32_t nth = 0; nth < group_sig->calls && buffer->place; nth++) {
                const uint32_t call = run->calls_by_sig[group_sig->first_record + nth], id = call + output;
                run->grad_row[id] = (run->state[id] & FOLD__LINKED) && run->grad[id]
                                        ? run->region + (size_t)run->grad_link[id] * 16
                                        : fold__slab_row(buffer, run->region + group->base, run->slot[call]);
            }
        }
    }
    size_t at = group->leaf_at;
    for (uint32_t leaf = group->first_leaf; leaf < group->end_leaf; leaf++) {
        run->grad_row[run->leaves[leaf]] = run->region + at;
        at += fold__round_up(fold__value_size(f, run->leaves[leaf]), 16);
    }
}

/* Clears the gradients of a group's values and leaves that get only some parts, before any part is written:
   those that other groups write (linked), or the others. */
static void fold__clear_partial(fold_ctx *f, const fold__group *group, int linked)
{
    fold__run *run = f->run;
    for (uint32_t sig = group->first_sig; sig < group->end_sig; sig++) {
        const fold__group_sig *group_sig = &run->group_sig[sig];
        for (uint32_t nth = 0; nth < group_sig->calls && group_sig->cleared; nth++) {
            const uint32_t id = run->calls_by_sig[group_sig->first_record + nth];
            for (uint32_t output = 0; output < group_sig->n_out && run->grad[id]; output++)
                if (run->mode[id + output] == FOLD__GRAD_SOME_PARTS &&
                    ((run->state[id + output] & FOLD__LINKED) != 0) == linked)
                    fold__clear_row(run->grad_row[id + output], fold__value_size(f, id + output));
        }
    }
    for (uint32_t leaf = group->first_leaf; leaf < group->end_leaf; leaf++) {
        const uint32_t id = run->leaves[leaf];
        if (run->mode[id] == FOLD__GRAD_SOME_PARTS && ((run->state[id] & FOLD__LINKED) != 0) == linked)
            fold__clear_row(run->grad_row[id], fold__value_size(f, id));
    }
}

static void fold__enter_group(const fold_ctx *f, fold__worker *worker, const fold__group *group)
{
    worker->region = f->run->region + group->base;
    worker->group_sig = NULL;
}

static uint64_t fold__now(const fold_ctx *f) { return f->clock ? f->clock(f->clock_user) : 0; }

/* Notes the batch that a worker has just run. */
static FOLD__NOINLINE void fold__note_event(fold_ctx *f, fold__worker *worker, const fold__group *group,
                                            uint32_t kind, uint64_t start)
{
    const fold__run *run = f->run;
    if (kind == FOLD__EVENT_BACKWARD && !fold__gives_grad(f, worker))
        return; /* it did nothing */
    if (worker->events++ >= f->trace_events)
        return;
    fold__event *event = f->trace + (size_t)(worker - run->worker) * f->trace_events + worker->events - 1;
    event->start = start;
    event->end = fold__now(f);
    event->sig = worker->run_sig->sig;
    event->calls = worker->batch.count;
    event->group = (uint32_t)(group - run->group);
    event->kind = kind | (worker->batch.stage ? 0u : (uint32_t)FOLD__EVENT_PROLOGUE);
}

/* Runs a batch of a group, or one part of its rows. */
static void fold__run_batch(fold_ctx *f, fold__worker *worker, const fold__group *group, uint32_t batch,
                            int kind, uint32_t part, uint32_t parts)
{
    const uint64_t start = f->trace_events ? fold__now(f) : 0;
    fold__enter_batch(f, worker, batch, part, parts);
    if (!worker->batch.count)
        return;
    if (kind == FOLD__EVENT_FORWARD)
        fold__forward_batch(f, worker);
    else
        fold__backward_batch(f, worker, group);
    if (f->trace_events)
        fold__note_event(f, worker, group, (uint32_t)kind, start);
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
    fold_ctx *ctx;
    const fold__group *group;
    uint32_t batch;
    int kind;
} fold__shared_batch;
static void fold__run_shared(int lane, void *user)
{
    const fold__shared_batch *shared = (const fold__shared_batch *)user;
    fold__worker *worker = &shared->ctx->run->worker[lane];
    const fold__fp saved = fold__fp_enter();
    fold__enter_group(shared->ctx, worker, shared->group);
    fold__run_batch(shared->ctx, worker, shared->group, shared->batch, shared->kind, (uint32_t)lane,
                    (uint32_t)shared->ctx->threads);
    fold__fp_leave(saved);
}

/* Whether a batch of a group that runs alone is worth sharing out: by about its multiplications. */
#ifndef FOLD__SHARED_WORK
#define FOLD__SHARED_WORK (1 << 20)
#endif
static int fold__worth_sharing(const fold_ctx *f, const fold__batch *batch)
{
    const fold__program program = fold__program_in_run(f, f->run->group_sig[batch->group_sig].run_sig);
    return (size_t)(batch->count + batch->elems) *
               (fold__weight_floats(f, &program) +
                f->run->run_sig[f->run->group_sig[batch->group_sig].run_sig].row_floats) >=
           FOLD__SHARED_WORK;
}

/* Runs a group's batches in order or, backward, from the last to the first. `alone` says that no other group
   runs at this time. */
static void fold__run_group(fold_ctx *f, fold__worker *worker, const fold__group *group, int kind, int alone)
{
    fold__shared_batch shared = { f, group, 0, kind };
    fold__enter_group(f, worker, group);
    for (uint32_t i = 0, n_batches = group->end_batch - group->first_batch; i < n_batches; i++) {
        shared.batch = kind == FOLD__EVENT_FORWARD ? group->first_batch + i : group->end_batch - 1 - i;
        if (alone && f->threads > 1 && fold__worth_sharing(f, &f->run->batch[shared.batch]))
            fold__on_threads(f, fold__run_shared, &shared);
        else
            fold__run_batch(f, worker, group, shared.batch, kind, 0, 1);
    }
}

/* Computes the gradients of a group's values and leaves. */
static void fold__backward_group(fold_ctx *f, fold__worker *worker, const fold__group *group, int alone)
{
    fold__clear_partial(f, group, 0);
    fold__run_group(f, worker, group, FOLD__EVENT_BACKWARD, alone);
    for (uint32_t leaf = group->first_leaf; leaf < group->end_leaf; leaf++)
        fold__finish_gradient(f, worker, f->run->leaves[leaf], group);
}

/* Whether a group's rows of a use are summed when the group has run. They are for parameters, and for shared
   nodes of the head when the group is one of samples. All others are summed when the node's gradient is
   completed (fold__shared_total). */
static int fold__adds_up(const fold__run *run, const fold__use *use, uint32_t group)
{
    return !use->is_node || (group >= fold__samples_from(run) && (run->state[use->target] & FOLD__HEAD));
}

/* What a use costs in groups [first, last): about rows times floats, and 0 when it has no rows there. */
static uint64_t fold__use_work(const fold_ctx *f, const fold__use *use, uint32_t first, uint32_t last)
{
    const fold__run *run = f->run;
    const fold__body_op *op = fold__op_of_use(f, use);
    uint64_t rows = 0;
    for (uint32_t group = first; group < last; group++) {
        const uint32_t group_sig = fold__adds_up(run, use, group)
                                       ? fold__sig_in_group(f, use->run_sig, &run->group[group])
                                       : FOLD__NONE;
        if (group_sig != FOLD__NONE)
            rows += op && op->elem ? run->group_sig[group_sig].elems : run->group_sig[group_sig].calls;
    }
    return rows * use->size;
}

/* Sums, in order, a part of what groups [first, last) add to parameters and shared nodes. All uses are laid
   end to end by what they cost, which is `all` together, and cut into parts of equal length, so that few uses
   lie in two parts. */
static void fold__accumulate_groups(fold_ctx *f, fold__worker *worker, uint32_t first, uint32_t last,
                                    uint64_t all, int part, int parts)
{
    fold__run *run = f->run;
    const uint64_t from = all * (uint64_t)part / (uint64_t)parts;
    const uint64_t to = all * ((uint64_t)part + 1) / (uint64_t)parts;
    uint64_t at = 0;
    for (uint32_t which = 0; which < run->n_uses; which++) {
        const fold__use *use = &run->use[which];
        const uint64_t begin = at, end = at += use->work;
        if (begin == end || from >= end || to <= begin)
            continue;
        const fold__share share =
            fold__share_of(f, use, from > begin ? from - begin : 0, (to < end ? to : end) - begin);
        for (uint32_t group = first; group < last && share.from < share.to; group++)
            if (fold__adds_up(run, use, group))
                fold__accumulate_use(f, worker, use, &run->group[group], share);
    }
    for (uint32_t leaf = run->group[first].first_leaf; leaf < run->group[last - 1].end_leaf && !part; leaf++)
        if ((f->kind[run->leaves[leaf]] & FOLD__KIND_MASK) == FOLD__LOOKUP)
            fold__accumulate_lookup(f, run->leaves[leaf]);
}

/* What threads share out: groups [first, last) one by one, or all the work of the sums that those add to. */
typedef struct fold__wave {
    fold_ctx *ctx;
    uint32_t first, last;
    uint64_t work;
} fold__wave;

static void fold__run_wave(int lane, void *user)
{
    const fold__wave *wave = (const fold__wave *)user;
    fold_ctx *f = wave->ctx;
    fold__worker *worker = &f->run->worker[lane];
    const fold__fp saved = fold__fp_enter();
    for (uint32_t i = wave->first + (uint32_t)lane; i < wave->last; i += (uint32_t)f->threads) {
        const fold__group *group = &f->run->group[i];
        fold__run_group(f, worker, group, FOLD__EVENT_FORWARD, 0);
        if (f->run->backward)
            fold__backward_group(f, worker, group, 0);
    }
    fold__fp_leave(saved);
}

static void fold__sum_wave(int lane, void *user)
{
    const fold__wave *wave = (const fold__wave *)user;
    const fold__fp saved = fold__fp_enter();
    fold__accumulate_groups(wave->ctx, &wave->ctx->run->worker[lane], wave->first, wave->last, wave->work,
                            lane, wave->ctx->threads);
    fold__fp_leave(saved);
}
/* Sums what groups [first, last) add to parameters and shared nodes. */
static void fold__sum_groups(fold_ctx *f, uint32_t first, uint32_t last)
{
    fold__wave wave = { f, first, last, 0 };
    for (uint32_t use = 0; use < f->run->n_uses; use++)
        wave.work += f->run->use[use].work = fold__use_work(f, &f->run->use[use], first, last);
    fold__on_threads(f, fold__sum_wave, &wave);
}

/* Runs the groups of samples. In inference they are shared out among the threads all at once. In training as
   many run at a time as there are threads, which then share out the sums that these groups add to; so every
   sum goes on in the order of groups. A group that is left alone is shared out batch by batch. */
static void fold__run_samples(fold_ctx *f)
{
    fold__run *run = f->run;
    const uint32_t from = fold__samples_from(run);
    const uint32_t to = fold__samples_to(run);
    const uint32_t step = run->backward ? (uint32_t)f->threads : to;
    for (uint32_t first = from; first < to; first += step) {
        fold__wave wave = { f, first, to - first < step ? to : first + step, 0 };
        if (wave.last - first > 1) {
            fold__on_threads(f, fold__run_wave, &wave);
        } else {
            fold__run_group(f, run->worker, &run->group[first], FOLD__EVENT_FORWARD, 1);
            if (run->backward)
                fold__backward_group(f, run->worker, &run->group[first], 1);
        }
        if (run->backward)
            fold__sum_groups(f, first, wave.last);
    }
}

/* Runs the head or the tail backward, and sums what it adds to parameters. */
static void fold__backward_end(fold_ctx *f, uint32_t group)
{
    fold__backward_group(f, f->run->worker, &f->run->group[group], 1);
    fold__sum_groups(f, group, group + 1);
}

/* Runs a plan. Gradients pass through the tail before there are values, and through the head when all samples
   have added theirs. */
static void fold__execute(fold_ctx *f)
{
    fold__run *run = f->run;
    const uint32_t tail = run->counts.groups - 1;
    const fold__fp saved = fold__fp_enter();
    fold__resolve_leaves(f);
    for (int thread = 0; thread < f->threads; thread++)
        run->worker[thread].kernel_calls = run->worker[thread].one_row_calls = run->worker[thread].events = 0;
    if (run->backward && run->sum_floats)
        memset(run->sums, 0, run->sum_floats * sizeof(float));
    for (uint32_t group = 0; group < run->counts.groups && run->backward; group++) {
        fold__aim_gradients(f, &run->group[group]);
        fold__clear_partial(f, &run->group[group], 1);
    }
    if (run->counts.head)
        fold__run_group(f, run->worker, &run->group[0], FOLD__EVENT_FORWARD, 1);
    if (run->backward && run->counts.tail)
        fold__backward_end(f, tail);
    fold__run_samples(f);
    if (run->counts.tail)
        fold__run_group(f, run->worker, &run->group[tail], FOLD__EVENT_FORWARD, 1);
    if (run->backward && run->counts.head)
        fold__backward_end(f, 0);
    if (run->backward) {
        fold__commit_uses(f);
        fold__commit_lookups(f);
    }
    fold__fp_leave(saved);
}

/* Marks the values that stay readable as computed, and those of other parameters as not computed. */
static void fold__mark_done(fold_ctx *f)
{
    fold__run *run = f->run;
    for (uint32_t id = 1; id <= f->n_nodes && f->any_done && f->done_version != f->model->version; id++)
        if (!(run->state[fold__call_of(f, id)] & FOLD__RUNS))
            f->kind[id] &= (uint8_t)~FOLD__DONE;
    for (uint32_t i = 0; i < run->counts.kept; i++)
        f->kind[run->kept[i]] |= FOLD__DONE;
    if (run->counts.kept)
        f->any_done = 1;
    f->done_version = f->model->version;
}

/* A count as an int; what is larger than one reads INT_MAX. */
static int fold__count(size_t count) { return count > INT_MAX ? INT_MAX : (int)count; }

static void fold__note_stats(fold_ctx *f)
{
    const fold__run *run = f->run;
    fold_stats *stats = &f->stats;
    size_t batches = 0;
    size_t prologues = 0;
    size_t kernel_calls = 0;
    size_t one_row_calls = 0;
    size_t lower_bound = 0;
    size_t batched_nodes = 0;
    size_t list_elements = 0;
    for (int thread = 0; thread < f->threads; thread++) {
        kernel_calls += run->worker[thread].kernel_calls;
        one_row_calls += run->worker[thread].one_row_calls;
    }
    for (uint32_t group = 0; group < run->counts.groups; group++)
        lower_bound += run->group[group].bound;
    for (uint32_t batch = 0; batch < run->counts.batches; batch++) {
        if (!run->batch[batch].stage) {
            prologues++;
            continue;
        }
        batches++;
        batched_nodes += run->batch[batch].count > 1 ? run->batch[batch].count : 0;
        list_elements += run->batch[batch].elems;
    }
    stats->run_nodes = fold__count(run->counts.calls);
    stats->groups = fold__count(run->counts.groups);
    stats->batches = fold__count(batches);
    stats->prologues = fold__count(prologues);
    stats->kernel_calls = fold__count(kernel_calls);
    stats->one_row_calls = fold__count(one_row_calls);
    stats->lower_bound = fold__count(lower_bound);
    stats->batched_nodes = fold__count(batched_nodes);
    stats->list_elements = fold__count(list_elements);
    stats->value_bytes = (run->counts.region + run->counts.scratch + run->sum_floats) * sizeof(float);
    stats->without_reuse_bytes = (run->counts.without_reuse + run->sum_floats) * sizeof(float);
    stats->plan_bytes = 0;
    for (int i = FOLD__ARRAY_NODE_ARRAYS; i < FOLD__ARRAY_PLANS; i++)
        stats->plan_bytes += f->arrays[i].need;
    stats->plan_bytes += f->arrays[FOLD__ARRAY_PLANNING].need + f->arrays[FOLD__ARRAY_FEEDS].need;
    stats->one_group = run->counts.one_group;
}

/* Whether these are roots of a run; an error otherwise. */
static int fold__check_roots(fold_ctx *f, const fold_node *roots, int count, const char *who)
{
    if (!f)
        return 0;
    fold__clear_error(&f->read_error);
    if (fold__broken(f) || fold__in_body(f, who) || !fold__count_ok(f, count, who))
        return 0;
    if (count && !roots) {
        fold__missing(f, who);
        return 0;
    }
    for (int root = 0; root < count; root++) {
        fold__operand operand;
        if (!roots[root].id)
            fold__fail(f, FOLD_BAD_ARGUMENT, "%s: root %d is null", who, root);
        if (!fold__operand_of(f, roots[root], who, &operand))
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

/* Reserves places for kept gradients that have none. */
static int fold__reserve_kept_grads(fold_ctx *f)
{
    for (uint32_t at = 0; at < f->n_kept_grads; at++) {
        if (f->kept_grads[at].place != FOLD__NONE)
            continue;
        const uint32_t place = fold__place_data(f, fold__value_size(f, f->kept_grads[at].node));
        if (place == FOLD__NONE)
            return 0;
        f->kept_grads[at].place = place;
    }
    fold__renew_run(f);
    return 1;
}

/* Clears kept gradients that no root has reached yet. */
static void fold__settle_kept_grads(fold_ctx *f)
{
    for (uint32_t at = 0; at < f->n_kept_grads; at++) {
        fold__kept_grad *kept = &f->kept_grads[at];
        if (!kept->filled)
            fold__clear_row(fold__at_place(f, kept->place), fold__value_size(f, kept->node));
        kept->filled = 1;
    }
}

/* Finds what runs, what gets a gradient, and the plan. Returns 0 after an error. */
static int fold__plan_roots(fold_ctx *f, const fold_node *roots, size_t n_roots)
{
    fold__run *run = f->run;
    if (fold__replay_plan(f, roots, n_roots))
        return 1;
    if (fold__broken(f))
        return 0;
    fold__mark_needed(f, roots, n_roots);
    if (!fold__collect(f))
        return 0;
    if (!run->backward) {
        memset(run->grad, 0, (size_t)f->n_nodes + 2);
    } else {
        fold__mark_grads(f);
        if (!run->grad[run->root]) { /* it depends on nothing that has a gradient: run forward alone */
            run->backward = 0;
            return fold__node_arrays(f) && fold__plan_roots(f, roots, n_roots);
        }
        fold__gradient_modes(f);
    }
    if (f->eager)
        return 1;
    if (!fold__plan(f))
        return 0;
    fold__store_plan(f, roots, n_roots);
    return 1;
}

/* One try of a run. */
static fold_status fold__try_run(fold_ctx *f, const fold_node *roots, size_t n_roots, int backward)
{
    fold__run *run = f->run;
    const uint64_t start = fold__now(f);
    run->shown_epoch = 0;
    run->began = start;
    run->backward = backward;
    run->root = backward ? f->source[roots[0].id] : 0;
    run->root_offset = backward ? f->offset[roots[0].id] : 0;
    run->changed = f->any_done && f->done_version != f->model->version;
    run->recompute = backward || run->changed;
    if (backward)
        fold__read_kept_whole(f);
    if (!fold__node_arrays(f) || !fold__plan_roots(f, roots, n_roots))
        return f->error.status;
    if (run->backward && !fold__reserve_kept_grads(f))
        return f->error.status;
    if (f->eager) {
        if (run->backward && fold__eager_backward(f)) {
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
    run->shown_epoch = f->epoch;
    run->shown_nodes = f->n_nodes;
    run->shown_edges = f->n_edges;
    f->stats.schedule_ns = planned - start;
    f->stats.run_ns = fold__now(f) - planned;
    return FOLD_OK;
}

/* A run needs the numbers of signatures to stay. So when there is no memory, idle signatures are forgotten
   between two tries. */
static fold_status fold__run_roots(fold_ctx *f, const fold_node *roots, size_t n_roots, int backward)
{
    do {
        f->pinned++;
        fold__try_run(f, roots, n_roots, backward);
        f->pinned--;
    } while (f->error.status == FOLD_NO_MEMORY && fold__forget_idle(f));
    return f->error.status;
}

FOLD_API fold_status fold_run(fold_ctx *f, const fold_node *roots, int count)
{
    if (!fold__check_roots(f, roots, count, "run"))
        return fold_ctx_status(f);
    return fold__run_roots(f, roots, (size_t)count, 0);
}

/* A parameter's gradient is the sum of its uses. So a copy uses it when it is the root of a backward. */
static fold_node fold__root_of(fold_ctx *f, fold_node x)
{
    fold__operand operand;
    if (!fold__operand_of(f, x, "backward", &operand) || (operand.kind & FOLD__KIND_MASK) != FOLD__PARAM)
        return x;
    if (!fold__copy_param(f, operand.source))
        return fold__null;
    const fold_shape shape = *fold__operand_shape(f, &operand);
    operand.source = fold__use_node(f, fold__node_param(f, operand.source))[1];
    operand.kind = FOLD__OP;
    return fold__window(f, &operand, 0, &shape, 0);
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
        fold__fail_shapes(f, "backward", "the root must be a scalar", &f->shapes[f->shape[root.id]].shape, 1);
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
    fold__operand operand;
    if (!fold__operand_of(f, x, "keep", &operand) || fold__in_body(f, "keep"))
        return;
    f->kind[operand.source] |= FOLD__KEEP;
    f->n_keeps++;
}

FOLD_API void fold_keep_grad(fold_ctx *f, fold_node x)
{
    fold__operand operand;
    if (!fold__operand_of(f, x, "keep_grad", &operand) || fold__in_body(f, "keep_grad") || !f->training)
        return;
    if (f->kind[operand.source] & FOLD__KEEP_GRAD)
        return;
    if ((operand.kind & FOLD__KIND_MASK) == FOLD__PARAM) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "keep_grad: a parameter's gradient is read by fold_param_grad");
        return;
    }
    if (!fold__need(f, FOLD__ARRAY_KEPT_GRADS, f->n_kept_grads + 1, sizeof(fold__kept_grad)))
        return;
    fold__renew(f);
    fold__kept_grad *kept = &f->kept_grads[f->n_kept_grads++];
    kept->node = operand.source;
    kept->place = FOLD__NONE;
    kept->filled = 0;
    f->kind[operand.source] |= FOLD__KEEP_GRAD;
    f->kept_concats |= fold__is_concat(f, operand.source);
}

static const char *fold__node_name(const fold_ctx *f, uint32_t id)
{
    static const char *const kind[] = { "op",        "output", "window",    "input",
                                        "input_ref", "lookup", "parameter", "elements" };
    const uint32_t call = fold__call_of(f, id);
    return fold__is_op(f, call) ? fold__request_name(f, f->sigs[f->sig[call]].op)
                                : kind[f->kind[id] & FOLD__KIND_MASK];
}

/* Tells why a read gave nothing. It is no error of the context, so the recording goes on. */
static void fold__refuse(fold_ctx *f, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static void fold__refuse(fold_ctx *f, fold_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(&f->read_error, status, format, args);
    va_end(args);
}

/* Whether a node of this recording can be read; if not, tells why. */
static int fold__readable(fold_ctx *f, fold_node x, const char *who, fold__operand *operand)
{
    if (!f)
        return 0;
    fold__clear_error(&f->read_error);
    if (fold__broken(f))
        return 0;
    if (!x.id)
        fold__refuse(f, FOLD_BAD_ARGUMENT, "%s: the node is null", who);
    else if (x.epoch != f->epoch || x.id > f->n_nodes)
        fold__refuse(f, FOLD_BAD_HANDLE, FOLD__STALE_NODE, who);
    else
        return fold__operand_of(f, x, who, operand);
    return 0;
}

/* The same for a node whose values are asked for. While a body is traced there are none, and what the body
   made of them would become part of the cell. */
static int fold__valuable(fold_ctx *f, fold_node x, const char *who, fold__operand *operand)
{
    if (f && f->frame.tracing)
        fold__fail(
            f, FOLD_BAD_CELL,
            "%s: there are no values while fold_cell_new traces a body; it may read them when it runs in "
            "an eager context",
            who);
    return fold__readable(f, x, who, operand);
}

FOLD_API const float *fold_value(fold_ctx *f, fold_node x)
{
    fold__operand operand;
    if (!fold__valuable(f, x, "value", &operand))
        return NULL;
    const uint32_t kind = f->kind[operand.source] & FOLD__KIND_MASK;
    if ((kind == FOLD__OP || kind == FOLD__EXTRA) && !(f->kind[operand.source] & FOLD__DONE)) {
        fold__refuse(f, FOLD_BAD_STATE,
                     "value: node %u (%s) was not kept: make it a root, or fold_keep it before the run",
                     (unsigned)x.id, fold__node_name(f, operand.source));
        return NULL;
    }
    if (kind == FOLD__ELEMS) {
        fold__refuse(f, FOLD_BAD_STATE, "value: node %u stands for all elements of a list", (unsigned)x.id);
        return NULL;
    }
    f->values_shown = 1;
    return fold__address(f, operand.source) + operand.offset;
}

FOLD_API const float *fold_grad(fold_ctx *f, fold_node x)
{
    fold__operand operand;
    if (!fold__valuable(f, x, "grad", &operand))
        return NULL;
    for (uint32_t at = 0; at < f->n_kept_grads; at++) {
        const fold__kept_grad *kept = &f->kept_grads[at];
        if (kept->node == operand.source && kept->filled) {
            f->values_shown = 1;
            return fold__at_place(f, kept->place) + operand.offset;
        }
    }
    fold__refuse(f, FOLD_BAD_STATE,
                 "grad: node %u (%s) has no gradient: name it to fold_keep_grad before fold_backward",
                 (unsigned)x.id, fold__node_name(f, operand.source));
    return NULL;
}

FOLD_API float fold_scalar(fold_ctx *f, fold_node x)
{
    const float *value = fold_value(f, x);
    return value ? value[0] : (float)NAN;
}

FOLD_API fold_shape fold_node_shape(fold_ctx *f, fold_node x)
{
    fold__operand operand;
    fold_shape none = { 0, { 0, 0, 0, 0 } };
    return fold__readable(f, x, "node_shape", &operand) ? *fold__operand_shape(f, &operand) : none;
}

FOLD_API fold_status fold_read(fold_ctx *f, const fold_node *x, int count, float *values)
{
    size_t size = 0;
    if (!f)
        return FOLD_BAD_ARGUMENT;
    fold__clear_error(&f->read_error);
    if (count < 0)
        fold__refuse(f, FOLD_BAD_ARGUMENT, "read: a count of %d", count);
    else if (count && (!x || !values))
        fold__refuse(f, FOLD_BAD_ARGUMENT, "read: a pointer is NULL");
    for (int i = 0; i < count && !f->read_error.status; i++) {
        const float *value = fold_value(f, x[i]);
        if (!value)
            break;
        const size_t floats = f->shapes[f->shape[x[i].id]].size;
        if (i && floats != size) {
            fold__refuse(f, FOLD_BAD_SHAPE, "read: x[%d] has %d values, those before it %d", i, (int)floats,
                         (int)size);
            break;
        }
        size = floats;
        memcpy(values + (size_t)i * size, value, size * sizeof *values);
    }
    return fold__broken(f) ? fold_ctx_status(f) : f->read_error.status;
}

FOLD_API fold_stats fold_ctx_stats(const fold_ctx *f)
{
    fold_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.one_group = "";
    if (!f)
        return stats;
    stats = f->stats;
    stats.nodes = fold__count(f->n_nodes);
    stats.edges = fold__count(f->n_edges);
    stats.signatures = fold__count(f->n_sigs);
    stats.cached_bytes = fold__plans_of(f) ? fold__plans_of(f)->end - fold__plans_head() : 0;
    stats.pack_bytes = f->model->packs * sizeof(float);
    stats.bytes = fold__ctx_bytes() + f->arena.bytes;
    stats.peak_bytes = fold__ctx_bytes() + f->arena.peak;
    stats.block_bytes = fold__max_size(f->block_peak, fold__block_bytes(f));
    if (!stats.one_group)
        stats.one_group = "";
    return stats;
}

/* ==== room: a pool of threads ===============================================================
   Owns: POSIX threads that wait for tasks. Calls: libc, pthread. Must not know contexts. */
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
    unsigned round;        /* counts calls of fold_pool_for */
    int next, count, left; /* tasks handed out, all, not finished */
    fold_task *task;
    void *user;
};

/* Takes tasks of the present round until none is left; the lock is held on entry and exit. */
static void fold__work_off(fold_pool *pool)
{
    while (pool->next < pool->count) {
        const int i = pool->next++;
        pthread_mutex_unlock(&pool->lock);
        pool->task(i, pool->user);
        pthread_mutex_lock(&pool->lock);
        if (__atomic_sub_fetch(&pool->left, 1, __ATOMIC_RELEASE) == 0)
            pthread_cond_signal(&pool->done);
    }
}

static void *fold__pool_thread(void *pool)
{
    fold_pool *own_pool = (fold_pool *)pool;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < FOLD__SPINS && __atomic_load_n(&own_pool->round, __ATOMIC_ACQUIRE) == seen; i++)
            FOLD__PAUSE();
        pthread_mutex_lock(&own_pool->lock);
        while (own_pool->round == seen && !own_pool->stop)
            pthread_cond_wait(&own_pool->wake, &own_pool->lock);
        seen = own_pool->round;
        const int stop = own_pool->stop;
        if (!stop)
            fold__work_off(own_pool);
        pthread_mutex_unlock(&own_pool->lock);
        if (stop)
            return NULL;
    }
}

FOLD_API void fold_pool_for(int count, fold_task *task, void *user, void *pool)
{
    fold_pool *own_pool = (fold_pool *)pool;
    for (int i = 0; i < count && !own_pool; i++)
        task(i, user);
    if (!own_pool)
        return;
    pthread_mutex_lock(&own_pool->lock);
    own_pool->task = task;
    own_pool->user = user;
    own_pool->next = 0;
    own_pool->count = count;
    __atomic_store_n(&own_pool->left, count, __ATOMIC_RELAXED);
    __atomic_add_fetch(&own_pool->round, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&own_pool->wake);
    fold__work_off(own_pool);
    pthread_mutex_unlock(&own_pool->lock);
    for (int i = 0; i < FOLD__SPINS && __atomic_load_n(&own_pool->left, __ATOMIC_ACQUIRE); i++)
        FOLD__PAUSE();
    pthread_mutex_lock(&own_pool->lock);
    while (__atomic_load_n(&own_pool->left, __ATOMIC_ACQUIRE))
        pthread_cond_wait(&own_pool->done, &own_pool->lock);
    pthread_mutex_unlock(&own_pool->lock);
}

FOLD_API fold_pool *fold_pool_new(int threads)
{
    if (threads < 1 || threads > FOLD__MAX_THREADS)
        return NULL;
    fold_pool *pool = (fold_pool *)calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->started < threads - 1 &&
           !pthread_create(&pool->thread[pool->started], NULL, fold__pool_thread, pool))
        pool->started++;
    if (pool->started == threads - 1)
        return pool;
    fold_pool_free(pool);
    return NULL;
}

FOLD_API void fold_pool_free(fold_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
#endif

/* ==== room: optimisers ======================================================================
   Owns: updating values from gradients, and clipping gradients. Calls: model, kernels, arena. Must not know
   contexts. */

FOLD_API fold_sgd fold_sgd_default(void)
{
    const fold_sgd settings = { 0.01f, 0, 0 };
    return settings;
}
FOLD_API fold_adagrad fold_adagrad_default(void)
{
    const fold_adagrad settings = { 0.05f, 1e-8f, 0 };
    return settings;
}
FOLD_API fold_rmsprop fold_rmsprop_default(void)
{
    const fold_rmsprop settings = { 0.001f, 0.9f, 1e-8f, 0 };
    return settings;
}
FOLD_API fold_adam fold_adam_default(void)
{
    const fold_adam settings = { 0.001f, 0.9f, 0.999f, 1e-8f, 0, 0 };
    return settings;
}

static int fold__states_ready(fold_model *m, int states)
{
    for (int i = 0; i < states; i++) {
        fold__array *array = &m->arrays[i ? FOLD__M_STATE2 : FOLD__M_STATE1];
        const size_t had = array->need, need = m->span * sizeof(float);
        if (!fold__arena_need(&m->arena, i ? FOLD__M_STATE2 : FOLD__M_STATE1, need)) {
            fold__model_fail(m, FOLD_NO_MEMORY, "optimiser: out of memory for its state");
            return 0;
        }
        if (need > had)
            memset(array->data + had, 0, need - had);
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
        const fold__array *array = &m->arrays[i ? FOLD__M_STATE2 : FOLD__M_STATE1];
        if (array->data)
            memset(array->data, 0, array->need);
    }
    m->steps = fold__steps_of(m, rule);
    m->rule = (int)rule;
}

/* Updates rows first..first+count of a parameter. */
static void fold__step_rows(fold_model *m, const fold__param_data *param, const fold__step *step,
                            size_t first, size_t count)
{
    float *state1 = (float *)(void *)m->arrays[FOLD__M_STATE1].data,
          *state2 = (float *)(void *)m->arrays[FOLD__M_STATE2].data;
    const size_t width = param->size / (size_t)param->shape.dim[0], at = param->at + first * width;
    m->kernels->rule[step->rule](step, fold__values(m) + at, fold__grads(m) + at, state1 ? state1 + at : NULL,
                                 state2 ? state2 + at : NULL, count * width);
}

/* Updates one parameter, all of it or the rows of a lookup table that were touched, and its packs: by blocks
   of rows, which are still in cache when they are packed. */
static void fold__step_param(fold_model *m, const fold__param_data *param, const fold__step *settings,
                             int decoupled)
{
    const int rows = param->shape.dim[0],
              packed = param->pack != FOLD__NO_PACK || param->pack_t != FOLD__NO_PACK;
    const int block = packed && param->shape.rank > 1 ? FOLD__STEP_ROWS : rows;
    fold__step step = *settings;
    step.rate *= m->set_rate[param->rate_set];
    step.decay *= m->set_decay[param->rate_set];
    if (decoupled) {
        step.shrink = step.rate * step.decay;
        step.decay = 0;
    }
    if (fold__is_sparse(param)) {
        for (uint32_t touch = 0; touch < param->touched; touch++)
            fold__step_rows(m, param, &step, fold__touched(m)[param->touched_at + touch], 1);
        if (param->touched)
            fold__refresh_packs(m, param);
        return;
    }
    for (int first = 0; first < rows; first += block) {
        const int count = rows - first < block ? rows - first : block;
        fold__step_rows(m, param, &step, (size_t)first, (size_t)count);
        fold__refresh_rows(m, param, first, count);
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
    for (uint32_t index = 0; index < m->n_params; index++) {
        fold__param_data *param = &fold__params(m)[index];
        if (!fold__trainable(m, param)) {
            fold__clear_grad(m, param);
            continue;
        }
        fold__step_param(m, param, settings, decoupled);
        fold__forget_grad(m, param);
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
    return !m || !settings;
}

static fold__step fold__step_of(enum fold__rule rule, float rate, float decay, float epsilon)
{
    static const int states[] = {
#define FOLD__RULE_STATES(name, count, body) count,
        FOLD__RULES(FOLD__RULE_STATES)
#undef FOLD__RULE_STATES
    };
    fold__step step;
    memset(&step, 0, sizeof step);
    step.rule = rule;
    step.states = states[rule];
    step.rate = rate;
    step.decay = decay;
    step.epsilon = epsilon;
    return step;
}

FOLD_API fold_status fold_sgd_step(fold_model *m, const fold_sgd *settings)
{
    if (fold__settings_missing(m, settings))
        return fold_model_status(m);
    fold__step step = fold__step_of(settings->momentum != 0 ? FOLD__RULE_momentum : FOLD__RULE_sgd,
                                    settings->rate, settings->decay, 0);
    step.keep1 = settings->momentum;
    return fold__step_model(m, &step, 0);
}
FOLD_API fold_status fold_adagrad_step(fold_model *m, const fold_adagrad *settings)
{
    if (fold__settings_missing(m, settings))
        return fold_model_status(m);
    const float epsilon = fold__or(settings->epsilon, fold_adagrad_default().epsilon);
    fold__step step = fold__step_of(FOLD__RULE_squares, settings->rate, settings->decay, epsilon);
    step.keep1 = step.add1 = 1;
    return fold__step_model(m, &step, 0);
}
/* What is computed from settings is computed as in runs, whatever rounding the host has set: not inlined, or
   a compiler could move it out of there. */
FOLD__NOINLINE static fold__step fold__rmsprop_of(const fold_rmsprop *settings)
{
    const fold_rmsprop standard = fold_rmsprop_default();
    fold__step step = fold__step_of(FOLD__RULE_squares, settings->rate, settings->decay,
                                    fold__or(settings->epsilon, standard.epsilon));
    step.keep1 = fold__or(settings->rho, standard.rho);
    step.add1 = 1 - step.keep1;
    return step;
}
FOLD_API fold_status fold_rmsprop_step(fold_model *m, const fold_rmsprop *settings)
{
    if (fold__settings_missing(m, settings))
        return fold_model_status(m);
    const fold__fp saved = fold__fp_enter();
    const fold__step step = fold__rmsprop_of(settings);
    fold__fp_leave(saved);
    return fold__step_model(m, &step, 0);
}
FOLD__NOINLINE static fold__step fold__adam_of(const fold_adam *settings, uint64_t steps)
{
    const fold_adam standard = fold_adam_default();
    fold__step step = fold__step_of(FOLD__RULE_adam, settings->rate, settings->decay,
                                    fold__or(settings->epsilon, standard.epsilon));
    step.keep1 = fold__or(settings->beta1, standard.beta1);
    step.keep2 = fold__or(settings->beta2, standard.beta2);
    double power1 = 1, power2 = 1; /* beta^steps by squaring: the same on every platform */
    double b1 = (double)step.keep1, b2 = (double)step.keep2;
    for (; steps; steps >>= 1) {
        if (steps & 1) {
            power1 *= b1;
            power2 *= b2;
        }
        b1 *= b1;
        b2 *= b2;
    }
    step.add1 = 1 - step.keep1;
    step.scale1 = (float)(1 / (1 - power1));
    step.add2 = 1 - step.keep2;
    step.scale2 = (float)(1 / (1 - power2));
    return step;
}
FOLD_API fold_status fold_adam_step(fold_model *m, const fold_adam *settings)
{
    if (fold__settings_missing(m, settings))
        return fold_model_status(m);
    const fold__fp saved = fold__fp_enter();
    const fold__step step = fold__adam_of(settings, fold__steps_of(m, FOLD__RULE_adam) + 1);
    fold__fp_leave(saved);
    return fold__step_model(m, &step, settings->decoupled);
}

/* The sum of n squares. Chunks go by the dot kernel, those whose sum may have left the range of float by
 * double. */
static double fold__squares(const fold__kernels *kernels, const float *grads, size_t count)
{
    FOLD__NO_CONTRACT
    double sum = 0;
    for (size_t at = 0, chunk; at < count; at += chunk) {
        chunk = fold__min_size(count - at, FOLD__NORM_CHUNK);
        const float part = kernels->dot(grads + at, grads + at, chunk);
        if (part > 1e-20f && part <= FLT_MAX) {
            sum += (double)part;
            continue;
        }
        for (size_t i = at; i < at + chunk; i++)
            sum += (double)grads[i] * (double)grads[i];
    }
    return sum;
}

/* The sum of squares of all gradients that may not be zero, or when `factor` is not 1 scales them. */
static double fold__each_grad(fold_model *m, float factor)
{
    double sum = 0;
    for (uint32_t index = 0; index < m->n_params && !m->inference; index++) {
        const fold__param_data *param = &fold__params(m)[index];
        const int sparse = fold__is_sparse(param);
        const size_t width = param->size / (size_t)param->shape.dim[0], count = sparse ? width : param->size;
        for (uint32_t row = 0; row < (sparse ? param->touched : !fold__grad_is_zero(param)); row++) {
            float *grads =
                fold__grads(m) + param->at + (sparse ? fold__touched(m)[param->touched_at + row] * width : 0);
            if (factor == 1)
                sum += fold__squares(m->kernels, grads, count);
            else
                m->kernels->map[FOLD__MAP_scale](grads, grads, NULL, NULL, factor, count, 1, NULL);
        }
    }
    return sum;
}

FOLD_API double fold_grads_clip(fold_model *m, float limit)
{
    if (!m)
        return 0;
    const fold__fp saved = fold__fp_enter();
    const double norm = sqrt(fold__each_grad(m, 1));
    if (norm > (double)limit && norm <= DBL_MAX)
        fold__each_grad(m, (float)((double)limit / norm));
    fold__fp_leave(saved);
    return norm;
}

/* ==== room: layers ==========================================================================
   Owns: the public layers. Their bodies are made of public ops. Calls: the public API, recording for what
   unrolled layers keep, and cells for the products that merging contexts share. Must not know runs. */

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
/* Whether a layer can have these sizes, with which no product of them leaves int. */
enum { FOLD__MOST_WIDTH = 1 << 24 };
static int fold__layer_ok(fold_model *m, const char *kind, const char *name, int inputs, int outputs)
{
    const int fine = inputs > 0 && outputs > 0 && inputs <= FOLD__MOST_WIDTH && outputs <= FOLD__MOST_WIDTH;
    if (!name)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "%s: a layer needs a name", kind);
    else if (!fine)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "%s '%.60s': from %d to %d values, each is 1 to %d", kind,
                         name, inputs, outputs, (int)FOLD__MOST_WIDTH);
    return m && name && fine;
}

static const fold_state fold__no_state = { { 0, 0 }, { 0, 0 } };

/* Whether a layer is there. */
static int fold__layer_there(fold_ctx *f, const void *layer, const char *who)
{
    if (!layer && !fold__broken(f))
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s: the layer is NULL", who);
    return !fold__broken(f);
}

/* Whether what a layer says of itself is what its maker can have left. */
static int fold__layer_has(fold_ctx *f, const char *what, int count, int most)
{
    if (count < 1 || count > most)
        fold__fail(f, FOLD_BAD_ARGUMENT, "%s is %d, of 1 to %d: the layer was not made", what, count, most);
    return count >= 1 && count <= most;
}

static fold_param fold__named_weight(fold_model *m, const char *name, const char *part, int inputs,
                                     int outputs)
{
    const fold__name full = fold__join(m, name, part);
    return fold_weight_new(m, full.text, inputs, outputs);
}
static fold_param fold__named_bias(fold_model *m, const char *name, const char *part, int count)
{
    const fold__name full = fold__join(m, name, part);
    return fold_bias_new(m, full.text, count);
}

static fold_node fold__activate(fold_ctx *f, fold_activation activation, fold_node x)
{
    switch (activation) {
    case FOLD_ACT_RELU: return fold_relu(f, x);
    case FOLD_ACT_TANH: return fold_tanh(f, x);
    case FOLD_ACT_SIGMOID: return fold_sigmoid(f, x);
    case FOLD_ACT_GELU: return fold_gelu(f, x);
    case FOLD_ACT_GELU_ERF: return fold_gelu_erf(f, x);
    case FOLD_ACT_SILU: return fold_silu(f, x);
    case FOLD_ACT_LINEAR: break;
    }
    return x;
}

FOLD_API fold_dense fold_dense_new(fold_model *m, const char *name, int inputs, int outputs,
                                   fold_activation activation)
{
    fold_dense layer;
    memset(&layer, 0, sizeof layer);
    if (!fold__layer_ok(m, "dense", name, inputs, outputs))
        return layer;
    layer.W = fold__named_weight(m, name, "W", inputs, outputs);
    layer.b = fold__named_bias(m, name, "b", outputs);
    layer.activation = activation;
    return layer;
}
FOLD_API fold_node fold_dense_apply(fold_ctx *f, const fold_dense *layer, fold_node x)
{
    if (!fold__layer_there(f, layer, "dense"))
        return fold__null;
    return fold__activate(f, layer->activation, fold_linear(f, x, layer->W, layer->b));
}

FOLD_API fold_mlp fold_mlp_new(fold_model *m, const char *name, const int *sizes, int count,
                               fold_activation hidden)
{
    fold_mlp mlp;
    memset(&mlp, 0, sizeof mlp);
    if (!sizes || count < 1 || count > FOLD_MAX_LAYERS) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "mlp '%.60s': takes 1 to %d layers", name ? name : "",
                         FOLD_MAX_LAYERS);
        return mlp;
    }
    for (int i = 0; i < count; i++)
        if (!fold__layer_ok(m, "mlp", name, sizes[i], sizes[i + 1]))
            return mlp;
    mlp.layers = count;
    for (int i = 0; i < count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        const fold__name full = fold__join(m, name, number);
        mlp.layer[i] =
            fold_dense_new(m, full.text, sizes[i], sizes[i + 1], i + 1 < count ? hidden : FOLD_ACT_LINEAR);
    }
    return mlp;
}
FOLD_API fold_node fold_mlp_apply(fold_ctx *f, const fold_mlp *mlp, fold_node x)
{
    if (!fold__layer_there(f, mlp, "mlp") ||
        !fold__layer_has(f, "mlp: its number of layers", mlp->layers, FOLD_MAX_LAYERS))
        return fold__null;
    for (int i = 0; i < mlp->layers; i++)
        x = fold_dense_apply(f, &mlp->layer[i], x);
    return x;
}

/* What the body of a layer's cell needs. It is copied into the model. */
typedef struct fold__gates {
    fold_param weight, bias, recurrent, recurrent_bias;
    int hidden;
    int arity;     /* children of a node, in trees */
    int projected; /* the body is given an input's products instead of the input */
} fold__gates;

static void fold__layer_desc(fold_cell_desc *desc, const char *name, fold_cell_body *body,
                             const fold__gates *gates, int n_out)
{
    memset(desc, 0, sizeof *desc);
    desc->name = name;
    desc->body = body;
    desc->user = gates;
    desc->user_size = sizeof *gates;
    desc->n_out = n_out;
}

static fold_cell fold__layer_cell(fold_model *m, const fold_cell_desc *desc, const fold__gates *gates)
{
    const fold_cell cell = fold_cell_new(m, desc);
    if (cell.id)
        fold__cells(m)[cell.id - 1].is_projected = gates->projected;
    return cell;
}

/* The gates of a linear output: all but the last through sigmoid, in one go, the last through tanh. */
static void fold__gates_of(fold_ctx *f, fold_node gates, int hidden, int count, fold_node *gate)
{
    fold_split(f, fold_sigmoid(f, fold_slice(f, gates, 0, 0, (count - 1) * hidden)), count - 1, gate);
    gate[count - 1] = fold_tanh(f, fold_slice(f, gates, 0, (count - 1) * hidden, hidden));
}

/* c' and h' from the input, output and update gates and what is kept of the old cell state (Tai et al. 2015,
 * equations 6-8). */
static void fold__lstm_out(fold_ctx *f, fold_node in_gate, fold_node out_gate, fold_node update,
                           fold_node kept, fold_node *out)
{
    const fold_node fresh = fold_mul(f, in_gate, update);
    out[1] = fold_node_is_null(kept) ? fresh : fold_add(f, fresh, kept);
    out[0] = fold_mul(f, out_gate, fold_tanh(f, out[1]));
}

/* A layer's product of its input and its state. */
static fold_node fold__gate_product(fold_ctx *f, const fold__gates *gates, fold_node input, fold_node state,
                                    fold_param weight, fold_param bias)
{
    const fold_node both[2] = { input, state };
    return gates->projected ? fold_linear_then(f, input, state, weight)
                            : fold_linear_n(f, both, 2, weight, bias);
}

static void fold__set_projection(fold_model *m, fold_cell cell, fold_cell projected, const fold__gates *gates)
{
    if (!cell.id || !projected.id)
        return;
    fold__projection *projection = &fold__cells(m)[cell.id - 1].projection;
    projection->cell = projected;
    projection->weight[0] = gates->weight;
    projection->bias[0] = gates->bias;
    projection->weight[1] = gates->recurrent;
    projection->bias[1] = gates->recurrent_bias;
}

/* Where identical calls become one, a word's product is a call of its own: one for all its occurrences,
 * whatever states they meet. NULL: the cell is called with x itself. */
static const fold__projection *fold__projection_for(const fold_ctx *f, fold_cell cell, fold_node x)
{
    if (!f || !f->dedupe || cell.salt != f->model->salt || !cell.id || cell.id > f->model->n_cells)
        return NULL;
    const fold__projection *projection = &fold__cells(f->model)[cell.id - 1].projection;
    if (!projection->cell.id || !x.id || x.id > f->n_nodes)
        return NULL;
    return fold__kind_of(f, f->source[x.id]) == FOLD__LOOKUP ? projection : NULL;
}

static void fold__rnn_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    out[0] = fold_tanh(f, fold__gate_product(f, gates, in[0], in[1], gates->weight, gates->bias));
}
static void fold__lstm_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    fold_node gate[4]; /* i f o u */
    fold__gates_of(f, fold__gate_product(f, gates, in[0], in[1], gates->weight, gates->bias), gates->hidden,
                   4, gate);
    fold__lstm_out(f, gate[0], gate[2], gate[3], fold_mul(f, gate[1], in[2]), out);
}
static void fold__gru_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    fold_node from_input[3], from_state[3]; /* reset update candidate */
    fold_split(f, gates->projected ? in[0] : fold_linear(f, in[0], gates->weight, gates->bias), 3,
               from_input);
    fold_split(f, fold_linear(f, in[1], gates->recurrent, gates->recurrent_bias), 3, from_state);
    const fold_node reset = fold_sigmoid(f, fold_add(f, from_input[0], from_state[0]));
    const fold_node update = fold_sigmoid(f, fold_add(f, from_input[1], from_state[1]));
    const fold_node candidate = fold_tanh(f, fold_add(f, from_input[2], fold_mul(f, reset, from_state[2])));
    out[0] = fold_add(f, candidate, fold_mul(f, update, fold_sub(f, in[1], candidate)));
}

static fold_recurrent fold__recurrent_new(fold_model *m, const char *name, fold_cell_body *body,
                                          fold__gates *gates, int inputs, int n_gates, int has_c)
{
    fold_recurrent layer;
    fold_cell_desc desc;
    fold__layer_desc(&desc, name, body, gates, has_c ? 2 : 1);
    desc.n_in = has_c ? 3 : 2;
    desc.in[0] = fold_shape1(inputs);
    desc.in[1] = desc.in[2] = fold_shape1(gates->hidden);
    layer.cell = fold__layer_cell(m, &desc, gates);
    gates->projected = 1;
    desc.in[0] = fold_shape1(n_gates * gates->hidden);
    fold__set_projection(m, layer.cell, fold__layer_cell(m, &desc, gates), gates);
    layer.hidden = gates->hidden;
    layer.has_c = has_c;
    return layer;
}

/* Sets values [from, to) of a bias. */
static void fold__set_bias(fold_model *m, fold_param bias, int from, int to, float value)
{
    float *values = bias.id ? fold_values_write_begin(m, bias) : NULL;
    for (int i = from; i < to && values; i++)
        values[i] = value;
    if (values)
        fold_values_write_end(m, bias);
}

static fold__gates fold__gates_new(fold_model *m, const char *name, int inputs, int hidden, int n_gates)
{
    fold__gates gates;
    memset(&gates, 0, sizeof gates);
    gates.hidden = hidden;
    gates.weight = fold__named_weight(m, name, "W", inputs, n_gates * hidden);
    gates.bias = fold__named_bias(m, name, "b", n_gates * hidden);
    return gates;
}

FOLD_API fold_recurrent fold_rnn_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold_recurrent none;
    memset(&none, 0, sizeof none);
    if (!fold__layer_ok(m, "rnn", name, inputs, hidden))
        return none;
    fold__gates gates = fold__gates_new(m, name, inputs + hidden, hidden, 1);
    return fold__recurrent_new(m, name, fold__rnn_body, &gates, inputs, 1, 0);
}
FOLD_API fold_recurrent fold_lstm_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold_recurrent none;
    memset(&none, 0, sizeof none);
    if (!fold__layer_ok(m, "lstm", name, inputs, hidden))
        return none;
    fold__gates gates = fold__gates_new(m, name, inputs + hidden, hidden, 4);
    fold__set_bias(m, gates.bias, hidden, 2 * hidden, 1);
    return fold__recurrent_new(m, name, fold__lstm_body, &gates, inputs, 4, 1);
}
FOLD_API fold_recurrent fold_gru_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold_recurrent none;
    memset(&none, 0, sizeof none);
    if (!fold__layer_ok(m, "gru", name, inputs, hidden))
        return none;
    fold__gates gates = fold__gates_new(m, name, inputs, hidden, 3);
    gates.recurrent = fold__named_weight(m, name, "U", hidden, 3 * hidden);
    gates.recurrent_bias = fold__named_bias(m, name, "c", 3 * hidden);
    return fold__recurrent_new(m, name, fold__gru_body, &gates, inputs, 3, 0);
}
FOLD_API fold_state fold_recurrent_zeros(fold_ctx *f, const fold_recurrent *layer)
{
    if (!fold__layer_there(f, layer, "recurrent"))
        return fold__no_state;
    fold_state state;
    state.h = fold_zeros(f, fold_shape1(layer->hidden));
    state.c = layer->has_c ? fold_zeros(f, fold_shape1(layer->hidden)) : fold__null;
    return state;
}

/* The outputs of a cell's call. */
static fold_state fold__state_of(fold_node call, int has_c)
{
    fold_state state;
    state.h = state.c = call;
    state.c.id += call.id != 0;
    if (!has_c)
        state.c = fold__null;
    return state;
}
FOLD_API fold_state fold_recurrent_apply(fold_ctx *f, const fold_recurrent *layer, fold_node x,
                                         fold_state state)
{
    if (!fold__layer_there(f, layer, "recurrent"))
        return fold__no_state;
    const fold__projection *projection = fold__projection_for(f, layer->cell, x);
    const fold_node in[3] = { projection ? fold_linear_first(f, x, projection->weight[0], projection->bias[0])
                                         : x,
                              state.h, state.c };
    return fold__state_of(fold_call(f, projection ? projection->cell : layer->cell, in, layer->has_c ? 3 : 2),
                          layer->has_c);
}

/* -- unrolling ------------------------------------------------------------------------------- */

/* The given state, or zeros; 0 with an error when it is not one of this cell. */
static int fold__unroll_begin(fold_ctx *f, const fold_recurrent *layer, const fold_state *begin,
                              fold_state *state)
{
    *state = fold__no_state;
    if (fold__broken(f))
        return 0;
    if (!layer || !layer->cell.id) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: the cell is null");
        return 0;
    }
    if (begin && (fold_node_is_null(begin->h) || fold_node_is_null(begin->c) != !layer->has_c)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: a state of this cell is %s",
                   layer->has_c ? "h and c, neither null" : "h alone, not null, and c is null");
        return 0;
    }
    *state = begin ? *begin : fold_recurrent_zeros(f, layer);
    return !fold__broken(f);
}

static int fold__unroll_length(fold_ctx *f, const fold_node *x, int count)
{
    if (fold__broken(f))
        return 0;
    if (count < 0) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: a sequence of %d steps", count);
        return 0;
    }
    if (count && !x) {
        fold__missing(f, "unroll");
        return 0;
    }
    for (int step = 0; step < count; step++)
        if (fold_node_is_null(x[step])) {
            fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: input %d of %d is null", step, count);
            return 0;
        }
    return 1;
}

static fold_state fold__unroll(fold_ctx *f, const fold_recurrent *layer, const fold_node *x, int count,
                               int reverse, const fold_state *begin, fold_node *out)
{
    const fold_state none = { { 0, 0 }, { 0, 0 } };
    fold_state state;
    const int fine = fold__unroll_begin(f, layer, begin, &state) && fold__unroll_length(f, x, count);
    for (int step = 0; step < count; step++) {
        const int at = reverse ? count - 1 - step : step;
        state = fine ? fold_recurrent_apply(f, layer, x[at], state) : none;
        if (out)
            out[at] = state.h;
    }
    return fold__broken(f) ? none : state;
}
FOLD_API fold_state fold_unroll(fold_ctx *f, const fold_recurrent *layer, const fold_node *x, int count,
                                const fold_state *begin, fold_node *out)
{
    return fold__unroll(f, layer, x, count, 0, begin, out);
}
FOLD_API fold_state fold_unroll_reverse(fold_ctx *f, const fold_recurrent *layer, const fold_node *x,
                                        int count, const fold_state *begin, fold_node *out)
{
    return fold__unroll(f, layer, x, count, 1, begin, out);
}

/* The length of a sample, or -1 with an error. */
static int fold__sequence_length(fold_ctx *f, const fold_sequences *sequences, int sample)
{
    if (fold__broken(f))
        return -1;
    if (!sequences || (!sequences->values && sequences->samples && sequences->steps)) {
        fold__missing(f, "sequences");
        return -1;
    }
    if (sequences->samples < 0 || sequences->steps < 0 || sequences->width < 1 ||
        (sequences->layout != FOLD_LAYOUT_NTC && sequences->layout != FOLD_LAYOUT_TNC)) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "sequences: %d samples of %d steps of %d values, layout %d",
                   sequences->samples, sequences->steps, sequences->width, (int)sequences->layout);
        return -1;
    }
    if (sample < 0 || sample >= sequences->samples) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "sequences: sample %d of %d", sample, sequences->samples);
        return -1;
    }
    const int count = sequences->length ? sequences->length[sample] : sequences->steps;
    if (count >= 0 && count <= sequences->steps)
        return count;
    fold__fail(f, FOLD_BAD_ARGUMENT, "sequences: sample %d has length %d, the array %d steps", sample, count,
               sequences->steps);
    return -1;
}
static fold_node fold__sequence_step(fold_ctx *f, const fold_sequences *sequences, int sample, int step)
{
    const size_t row = sequences->layout == FOLD_LAYOUT_TNC
                           ? (size_t)step * (size_t)sequences->samples + (size_t)sample
                           : (size_t)sample * (size_t)sequences->steps + (size_t)step;
    return fold_input_ref(f, sequences->values + row * (size_t)sequences->width,
                          fold_shape1(sequences->width));
}
FOLD_API int fold_sequences_input(fold_ctx *f, const fold_sequences *sequences, int sample, fold_node *x)
{
    const int count = fold__sequence_length(f, sequences, sample);
    if (count > 0 && !x) {
        fold__missing(f, "sequence");
        return 0;
    }
    for (int step = 0; step < count; step++)
        x[step] = fold__sequence_step(f, sequences, sample, step);
    return fold__broken(f) ? 0 : count;
}
FOLD_API fold_status fold_unroll_batch(fold_ctx *f, const fold_recurrent *layer,
                                       const fold_sequences *sequences, const fold_state *begin,
                                       fold_node *out, fold_state *last)
{
    if (!sequences)
        fold__missing(f, "unroll_batch");
    for (int sample = 0; sequences && sample < sequences->samples; sample++) {
        fold_state state;
        const int count = fold__sequence_length(f, sequences, sample);
        const int fine = fold__unroll_begin(f, layer, begin ? &begin[sample] : NULL, &state);
        for (int step = 0; step < sequences->steps; step++) {
            fold_node *at = out ? &out[(size_t)sample * (size_t)sequences->steps + (size_t)step] : NULL;
            if (fine && step < count)
                state =
                    fold_recurrent_apply(f, layer, fold__sequence_step(f, sequences, sample, step), state);
            if (at)
                *at = step < count ? state.h : fold__null;
        }
        if (last)
            last[sample] = state;
    }
    return fold_ctx_status(f);
}

FOLD_API fold_rnn_stack fold_rnn_stack_new(fold_model *m, const char *name, fold_recurrent_maker *make,
                                           int inputs, int hidden, int layers, int bidirectional)
{
    fold_rnn_stack stack;
    memset(&stack, 0, sizeof stack);
    if (!make || layers < 1 || layers > FOLD_MAX_LAYERS) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT,
                         "rnn_stack '%.60s': takes a maker of cells and 1 to %d layers, got %d",
                         name ? name : "", FOLD_MAX_LAYERS, layers);
        return stack;
    }
    if (!fold__layer_ok(m, "rnn_stack", name, inputs, hidden))
        return stack;
    stack.layers = layers;
    stack.directions = bidirectional ? 2 : 1;
    for (int i = 0; i < layers * stack.directions; i++) {
        char part[32];
        const int layer = i / stack.directions;
        snprintf(part, sizeof part, "%d%s", layer, i % stack.directions ? ".reverse" : "");
        const fold__name full = fold__join(m, name, part);
        if (m->error.status)
            return stack;
        stack.cell[i] = make(m, full.text, layer ? stack.directions * hidden : inputs, hidden);
    }
    return stack;
}

/* One direction of a layer: reads the first `count` nodes of `steps`, which lie in the context's memory and
   may move with every call that records. The states h become the `count` nodes after them or, in reverse, are
   concatenated with what is there. */
static fold_state fold__stack_direction(fold_ctx *f, const fold_recurrent *layer, int count, int reverse,
                                        const fold_state *begin)
{
    fold_state state;
    const int fine = fold__unroll_begin(f, layer, begin, &state);
    for (int step = 0; step < count && fine; step++) {
        const int at = reverse ? count - 1 - step : step;
        state = fold_recurrent_apply(f, layer, f->steps[at], state);
        const fold_node result = reverse ? fold_concat2(f, f->steps[count + at], state.h) : state.h;
        f->steps[count + at] = result;
    }
    return state;
}
/* How many cells a stack has; 0 when it is none. */
static int fold__stack_cells(const fold_rnn_stack *stack)
{
    const int fine = stack && stack->layers >= 1 && stack->layers <= FOLD_MAX_LAYERS &&
                     stack->directions >= 1 && stack->directions <= 2;
    return fine ? stack->layers * stack->directions : 0;
}
FOLD_API fold_status fold_rnn_stack_apply(fold_ctx *f, const fold_rnn_stack *stack, const fold_node *x,
                                          int count, const fold_state *begin, fold_node *out,
                                          fold_state *last)
{
    const int cells = fold__stack_cells(stack);
    const size_t size = (size_t)(count > 0 ? count : 0) * sizeof *x;
    if (!cells && !fold__broken(f))
        fold__fail(f, FOLD_BAD_ARGUMENT, "rnn_stack: it is NULL, or was not made by fold_rnn_stack_new");
    const int fine = fold__unroll_length(f, x, count) && fold__need(f, FOLD__ARRAY_STEPS, 2 * size + 1, 1);
    if (fine)
        fold__renew(f);
    if (fine && count)
        memcpy(f->steps, x, size);
    for (int i = 0; i < cells; i++) {
        const int reverse = i % stack->directions;
        fold_state end = { { 0, 0 }, { 0, 0 } };
        if (fine)
            end = fold__stack_direction(f, &stack->cell[i], count, reverse, begin ? &begin[i] : NULL);
        if (last)
            last[i] = end;
        if (fine && count && reverse == stack->directions - 1)
            memcpy(f->steps, f->steps + count, size);
    }
    if (out && size && fold__broken(f))
        memset(out, 0, size);
    else if (out && size)
        memcpy(out, f->steps, size);
    return fold_ctx_status(f);
}

FOLD__ZEROS_BY_DEFAULT(fold_unroll_desc)

/* The states at the beginning of a desc's unrolling; 0 with an error when it is not a good one. */
static int fold__unroll_start(fold_ctx *f, const fold_unroll_desc *desc, fold_node *state)
{
    if (fold__broken(f))
        return 0;
    if (!desc || !desc->step) {
        fold__missing(f, "unroll_steps");
        return 0;
    }
    if (desc->n_states < 0 || desc->n_states > FOLD_MAX_STATES) {
        fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: %d states, of at most %d", desc->n_states, FOLD_MAX_STATES);
        return 0;
    }
    if (!fold__unroll_length(f, desc->x, desc->n))
        return 0;
    for (int state_index = 0; state_index < desc->n_states; state_index++) {
        if (!desc->begin && !desc->state[state_index].rank) {
            fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: state %d has neither a beginning nor a shape",
                       state_index);
            return 0;
        }
        state[state_index] = desc->begin ? desc->begin[state_index] : fold_zeros(f, desc->state[state_index]);
        if (fold_node_is_null(state[state_index])) {
            fold__fail(f, FOLD_BAD_ARGUMENT, "unroll: the beginning of state %d is null", state_index);
            return 0;
        }
    }
    return !fold__broken(f);
}

/* What a step gave: an output where one is wanted and as many states as there are, of the shapes they had. */
static int fold__unroll_check(fold_ctx *f, const fold_unroll_desc *desc, int at, fold_node out,
                              const fold_node *state, const fold_node *next)
{
    if (fold__broken(f))
        return 0;
    if (desc->out && fold_node_is_null(out)) {
        fold__fail(f, FOLD_BAD_CELL, "unroll: the step of input %d gave no output", at);
        return 0;
    }
    for (int state_index = 0; state_index < FOLD_MAX_STATES; state_index++) {
        fold__operand before, after;
        if (fold_node_is_null(next[state_index]) != (state_index >= desc->n_states)) {
            fold__fail(f, FOLD_BAD_CELL, "unroll: the step of input %d %s state %d, there are %d", at,
                       state_index < desc->n_states ? "left out" : "gave a", state_index, desc->n_states);
            return 0;
        }
        if (state_index >= desc->n_states)
            continue;
        if (!fold__operand_of(f, state[state_index], "unroll", &before) ||
            !fold__operand_of(f, next[state_index], "unroll", &after))
            return 0;
        const fold_shape both[2] = { *fold__operand_shape(f, &before), *fold__operand_shape(f, &after) };
        if (before.shape != after.shape) {
            fold__fail_shapes(f, "unroll", "a step changed the shape of a state", both, 2);
            return 0;
        }
    }
    return 1;
}

FOLD_API fold_status fold_unroll_steps(fold_ctx *f, const fold_unroll_desc *desc)
{
    fold_node state[FOLD_MAX_STATES], next[FOLD_MAX_STATES];
    int fine = fold__unroll_start(f, desc, state);
    for (int step = 0; fine && step < desc->n; step++) {
        const int at = desc->reverse ? desc->n - 1 - step : step;
        fold_node out = fold__null;
        memset(next, 0, sizeof next);
        desc->step(f, desc->x[at], state, &out, next, desc->user);
        fine = fold__unroll_check(f, desc, at, out, state, next);
        if (desc->out)
            desc->out[at] = out;
        memcpy(state, next, sizeof state);
    }
    for (int state_index = 0;
         desc && desc->last && state_index < desc->n_states && state_index < FOLD_MAX_STATES; state_index++)
        desc->last[state_index] = fine ? state[state_index] : fold__null;
    return fold_ctx_status(f);
}

static void fold__tree_leaf_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    fold_node gate[3]; /* i o u */
    fold__gates_of(f, fold_linear(f, in[0], gates->weight, gates->bias), gates->hidden, 3, gate);
    fold__lstm_out(f, gate[0], gate[1], gate[2], fold__null, out);
}
static void fold__tree_inner_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    const int count = 3 + gates->arity;
    fold_node gate[3 + FOLD_MAX_CELL_IN / 2], kept = fold__null; /* i, o, a forget gate for every child, u */
    fold__gates_of(f, fold_linear_n(f, in, gates->arity, gates->weight, gates->bias), gates->hidden, count,
                   gate);
    for (int child = 0; child < gates->arity; child++) {
        const fold_node part = fold_mul(f, gate[2 + child], in[gates->arity + child]);
        kept = child ? fold_add(f, kept, part) : part;
    }
    fold__lstm_out(f, gate[0], gate[1], gate[count - 1], kept, out);
}

FOLD_API fold_tree_lstm fold_tree_lstm_new(fold_model *m, const char *name, int inputs, int hidden, int arity)
{
    fold_tree_lstm layer;
    memset(&layer, 0, sizeof layer);
    if (arity < 1 || arity > FOLD_MAX_CELL_IN / 2) {
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "tree_lstm '%.60s': arity is 1 to %d", name ? name : "",
                         FOLD_MAX_CELL_IN / 2);
        return layer;
    }
    if (!fold__layer_ok(m, "tree_lstm", name, inputs, hidden))
        return layer;
    layer.hidden = hidden;
    layer.arity = arity;
    const fold__name leaf_name = fold__join(m, name, "leaf"), inner_name = fold__join(m, name, "inner");
    const fold__gates leaf = fold__gates_new(m, leaf_name.text, inputs, hidden, 3);
    fold_cell_desc desc;
    fold__layer_desc(&desc, leaf_name.text, fold__tree_leaf_body, &leaf, 2);
    desc.n_in = 1;
    desc.in[0] = fold_shape1(inputs);
    layer.leaf = fold_cell_new(m, &desc);
    fold__gates inner = fold__gates_new(m, inner_name.text, arity * hidden, hidden, 3 + arity);
    inner.arity = arity;
    fold__set_bias(m, inner.bias, 2 * hidden, (2 + arity) * hidden, 1);
    fold__layer_desc(&desc, inner_name.text, fold__tree_inner_body, &inner, 2);
    desc.n_in = 2 * arity;
    for (int i = 0; i < desc.n_in; i++)
        desc.in[i] = fold_shape1(hidden);
    layer.inner = fold_cell_new(m, &desc);
    return layer;
}
FOLD_API fold_state fold_tree_lstm_apply_leaf(fold_ctx *f, const fold_tree_lstm *layer, fold_node x)
{
    if (!fold__layer_there(f, layer, "tree_lstm"))
        return fold__no_state;
    return fold__state_of(fold_call(f, layer->leaf, &x, 1), 1);
}
FOLD_API fold_state fold_tree_lstm_apply_inner(fold_ctx *f, const fold_tree_lstm *layer,
                                               const fold_state *children)
{
    fold_node in[FOLD_MAX_CELL_IN];
    if (!fold__layer_there(f, layer, "tree_lstm") ||
        !fold__layer_has(f, "tree_lstm: its arity", layer->arity, FOLD_MAX_CELL_IN / 2))
        return fold__no_state;
    if (!children) {
        fold__missing(f, "tree_lstm");
        return fold__no_state;
    }
    for (int child = 0; child < layer->arity; child++) {
        in[child] = children[child].h;
        in[layer->arity + child] = children[child].c;
    }
    return fold__state_of(fold_call(f, layer->inner, in, 2 * layer->arity), 1);
}

/* No children: h and c of none are zero, so only W x is left of the gates. */
static void fold__child_sum_leaf_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    fold_node gate[3]; /* i o u */
    fold__gates_of(f, gates->projected ? in[0] : fold_linear_first(f, in[0], gates->weight, gates->bias),
                   gates->hidden, 3, gate);
    fold__lstm_out(f, gate[0], gate[1], gate[2], fold__null, out);
}

/* in: x, or its products with W and W_f; of every child: h, c. Equations 2-8 of Tai et al. 2015; W x and U h
   of a gate are one product. */
static void fold__child_sum_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold__gates *gates = (const fold__gates *)user;
    const fold_node *child = in + (gates->projected ? 2 : 1);
    fold_node gate[3]; /* i o u */
    fold__gates_of(
        f, fold__gate_product(f, gates, in[0], fold_list_sum(f, child[0]), gates->weight, gates->bias),
        gates->hidden, 3, gate);
    const fold_node forget = fold_sigmoid(
        f, fold__gate_product(f, gates, child[-1], child[0], gates->recurrent, gates->recurrent_bias));
    fold__lstm_out(f, gate[0], gate[1], gate[2], fold_list_sum(f, fold_mul(f, forget, child[1])), out);
}

static fold_cell fold__child_sum_cell(fold_model *m, const char *name, const fold__gates *gates, int inputs,
                                      int leaf)
{
    fold_cell_desc desc;
    fold__layer_desc(&desc, name, leaf ? fold__child_sum_leaf_body : fold__child_sum_body, gates, 2);
    desc.n_in = gates->projected && !leaf ? 2 : 1;
    desc.in[0] = fold_shape1(gates->projected ? 3 * gates->hidden : inputs);
    desc.in[1] = desc.list[0] = desc.list[1] = fold_shape1(gates->hidden);
    desc.n_list = leaf ? 0 : 2;
    return fold__layer_cell(m, &desc, gates);
}

FOLD_API fold_child_sum fold_child_sum_new(fold_model *m, const char *name, int inputs, int hidden)
{
    fold_child_sum layer;
    memset(&layer, 0, sizeof layer);
    if (!fold__layer_ok(m, "child_sum", name, inputs, hidden))
        return layer;
    fold__gates gates = fold__gates_new(m, name, inputs + hidden, hidden, 3);
    gates.recurrent = fold__named_weight(m, name, "W_f", inputs + hidden, hidden);
    gates.recurrent_bias = fold__named_bias(m, name, "b_f", hidden);
    fold__set_bias(m, gates.recurrent_bias, 0, hidden, 1);
    layer.leaf = fold__child_sum_cell(m, name, &gates, inputs, 1);
    layer.inner = fold__child_sum_cell(m, name, &gates, inputs, 0);
    layer.hidden = hidden;
    gates.projected = 1;
    fold__set_projection(m, layer.leaf, fold__child_sum_cell(m, name, &gates, inputs, 1), &gates);
    fold__set_projection(m, layer.inner, fold__child_sum_cell(m, name, &gates, inputs, 0), &gates);
    return layer;
}
FOLD_API fold_state fold_child_sum_apply(fold_ctx *f, const fold_child_sum *layer, fold_node x,
                                         const fold_state *children, int count)
{
    if (!fold__layer_there(f, layer, "child_sum"))
        return fold__no_state;
    const fold_cell cell = count ? layer->inner : layer->leaf;
    const fold__projection *projection = fold__projection_for(f, cell, x);
    fold_node in[2] = { projection ? fold_linear_first(f, x, projection->weight[0], projection->bias[0]) : x,
                        x };
    if (!count)
        return fold__state_of(fold_call(f, projection ? projection->cell : cell, in, 1), 1);
    if (projection)
        in[1] = fold_linear_first(f, x, projection->weight[1], projection->bias[1]);
    /* a state is two nodes, h and c: the list's components as they lie */
    return fold__state_of(fold_call_list(f, projection ? projection->cell : cell, in, projection ? 2 : 1,
                                         (const fold_node *)(const void *)children, count),
                          1);
}

/* The rooms from here to the end run seldom: they are compiled for size. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC push_options
#pragma GCC optimize("Os")
#endif

/* ==== room: text ============================================================================
   Owns: writing through a caller's function, quoting, UTF-8, sorting. Calls: libc. Must not know models and
   contexts. */

enum {
    FOLD__QUOTE_NONE,
    FOLD__QUOTE_JSON,
    FOLD__QUOTE_XML
}; /* how names are written: JSON's way is dot's too */
typedef struct fold__text {
    fold_writer *write;
    void *user;
    int quote, stopped;
    size_t count;
    char buffer[200];
} fold__text;

#ifndef FOLD_NO_STDIO
FOLD_API int fold_to_file(const void *bytes, size_t count, void *file)
{
    return !file || fwrite(bytes, 1, count, (FILE *)file) != count;
}
#endif

static void fold__text_start(fold__text *text, fold_writer *write, void *user, int quote)
{
    text->write = write;
    text->user = user;
    text->quote = quote;
    text->stopped = !write;
    text->count = 0;
}

static fold_status fold__text_end(fold__text *text)
{
    if (text->count && !text->stopped)
        text->stopped = text->write(text->buffer, text->count, text->user);
    text->count = 0;
    return text->stopped ? FOLD_IO : FOLD_OK;
}

static void fold__put_bytes(fold__text *text, const char *from, size_t count)
{
    while (count && !text->stopped) {
        const size_t part = fold__min_size(count, sizeof text->buffer - text->count);
        memcpy(text->buffer + text->count, from, part);
        text->count += part;
        from += part;
        count -= part;
        if (text->count == sizeof text->buffer)
            fold__text_end(text);
    }
}

/* Formats of up to 200 bytes. Names go by fold__put_name, whatever their length. */
static void fold__put(fold__text *text, const char *format, ...) FOLD__PRINTF(2, 3);
static void fold__put(fold__text *text, const char *format, ...)
{
    char buffer[200];
    va_list args;
    va_start(args, format);
    const int count = vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    if (count > 0)
        fold__put_bytes(text, buffer, fold__min_size((size_t)count, sizeof buffer - 1));
}

/* Bytes of the well-formed UTF-8 sequence that a text begins with (Unicode 15, table 3-7); 0 when there is
   none. */
static int fold__utf8(const char *from)
{
    const unsigned char *bytes = (const unsigned char *)from;
    if (bytes[0] < 0x80)
        return 1;
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4)
        return 0;
    const int count = bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
    if (bytes[1] < (bytes[0] == 0xe0   ? 0xa0
                    : bytes[0] == 0xf0 ? 0x90
                                       : 0x80) ||
        bytes[1] > (bytes[0] == 0xed   ? 0x9f
                    : bytes[0] == 0xf4 ? 0x8f
                                       : 0xbf))
        return 0;
    for (int i = 2; i < count; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    return count;
}

/* A name of at most so many characters, safe inside quotes: what would end them is written as an escape, what
 * is not text as '?'. */
static void fold__put_name(fold__text *text, const char *from, int characters)
{
    for (; *from && characters > 0; characters--) {
        const int count = fold__utf8(from);
        const char character = count == 1 ? *from : 0;
        if (!count || (count == 1 && ((unsigned char)character < 32 || character == 127))) {
            if (count && text->quote == FOLD__QUOTE_JSON)
                fold__put(text, "\\u%04x", (unsigned)character);
            else
                fold__put_bytes(text, "?", 1);
        } else if (text->quote == FOLD__QUOTE_XML && character && strchr("<>&\"", character)) {
            fold__put(text, "&#%d;", character);
        } else {
            if (text->quote == FOLD__QUOTE_JSON && (character == '"' || character == '\\'))
                fold__put_bytes(text, "\\", 1);
            fold__put_bytes(text, from, (size_t)count);
        }
        from += count ? count : 1;
    }
    if (*from && characters == 0)
        fold__put_bytes(text, "..", 2);
}
#define FOLD__WHOLE 0x7fffffff

static void fold__put_shape(fold__text *text, const fold_shape *shape)
{
    for (int axis = 0; axis < shape->rank; axis++)
        fold__put(text, "%s%d", axis ? " x " : "[", shape->dim[axis]);
    fold__put_bytes(text, "]", 1);
}

/* "1 call", "3 batches" */
static void fold__put_count(fold__text *text, size_t count, const char *what)
{
    fold__put(text, "%lu %s%s", (unsigned long)count, what,
              count == 1                      ? ""
              : what[strlen(what) - 1] == 'h' ? "es"
                                              : "s");
}

/* Heapsort (Williams 1964): neither recursion nor memory. */
static void fold__sort(uint32_t *items, uint32_t count,
                       int (*before)(const void *by, uint32_t one, uint32_t other), const void *by)
{
    uint32_t start = count / 2, end = count;
    while (end > 1) {
        uint32_t item, at = 0;
        if (start)
            at = --start, item = items[at];
        else
            item = items[--end], items[end] = items[0];
        for (uint32_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && before(by, items[child], items[child + 1]))
                child++;
            if (!before(by, item, items[child]))
                break;
            items[at] = items[child];
        }
        items[at] = item;
    }
}

/* ==== room: looking inside ==================================================================
   Owns: texts and pictures of a recording and of the plan of its last run, traces of times, and the summary
   of a model. Sees a plan only through the view made here. Calls: text, recording, signatures, what a run
   knows. Changes nothing that runs read. */

typedef struct fold__seen_batch {
    uint32_t sig;
    uint32_t first; /* of its calls in the view's */
    uint32_t count; /* of its calls */
    uint32_t elems; /* in the lists of all its calls */
    uint32_t group;
    int prologue; /* it is the part of a cell that runs first for all calls */
    int left;     /* where its column begins in a picture */
} fold__seen_batch;
typedef struct fold__seen_sig {
    uint32_t sig;
    uint32_t calls;
    uint32_t batches;
    uint32_t chain;      /* batches that no schedule can avoid, because calls read others */
    uint32_t groups;     /* of samples that have such calls */
    uint32_t last_group; /* 1 + the last of those */
} fold__seen_sig;

typedef struct fold__view {
    fold_ctx *ctx;
    int planned; /* the last run's batches; else the recording's, by depth */
    uint32_t n_batches, n_calls, n_sigs, n_groups;
    fold__seen_batch *batch;
    const uint32_t *call; /* batch by batch */
    uint32_t *at; /* of a call: 1 + its batch; of what a call reads and is none of them: the first such batch,
                     and LEAF; else 0 */
    uint32_t *sig_at;        /* of a signature: 1 + its place in sig */
    fold__seen_sig *sig;     /* as they come */
    uint32_t *work, *sorted; /* of the size of the recording */
    int32_t *top, *low;      /* of nodes, in a picture */
} fold__view;
#define FOLD__LEAF 0x80000000u

static void fold__carve_view(fold__view *view, fold__carver *carver)
{
    const fold_ctx *f = view->ctx;
    const size_t nodes = (size_t)f->n_nodes + 1, sigs = (size_t)f->n_sigs + 1;
    view->batch = (fold__seen_batch *)fold__carve(carver, view->planned ? f->run->counts.batches : nodes,
                                                  sizeof *view->batch);
    view->at = (uint32_t *)fold__carve(carver, nodes, sizeof *view->at);
    view->work = (uint32_t *)fold__carve(carver, nodes, sizeof *view->work);
    view->sorted = (uint32_t *)fold__carve(carver, nodes, sizeof *view->sorted);
    view->top = (int32_t *)fold__carve(carver, nodes, sizeof *view->top);
    view->low = (int32_t *)fold__carve(carver, nodes, sizeof *view->low);
    view->sig_at = (uint32_t *)fold__carve(carver, sigs, sizeof *view->sig_at);
    view->sig = (fold__seen_sig *)fold__carve(carver, sigs, sizeof *view->sig);
}

static int fold__shallower(const void *view, uint32_t one, uint32_t other)
{
    const fold__view *shown = (const fold__view *)view;
    const fold_ctx *f = shown->ctx;
    if (shown->at[one] != shown->at[other])
        return shown->at[one] < shown->at[other];
    return f->sig[one] != f->sig[other] ? f->sig[one] < f->sig[other] : one < other;
}

/* All calls recorded, those of equal depth and signature as a batch. */
static void fold__view_by_depth(fold__view *view)
{
    const fold_ctx *f = view->ctx;
    uint32_t depth = 0;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if (!fold__is_op(f, id))
            continue;
        view->work[view->n_calls++] = id;
        for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
            const uint32_t from = fold__call_of(f, f->edge_source[edge]);
            if (view->at[from] > view->at[id])
                view->at[id] = view->at[from];
        }
        view->at[id]++;
    }
    fold__sort(view->work, view->n_calls, fold__shallower, view);
    for (uint32_t call = 0; call < view->n_calls; call++) {
        const uint32_t id = view->work[call];
        const int same = call && view->at[id] == depth && f->sig[id] == view->batch[view->n_batches - 1].sig;
        if (!same) {
            fold__seen_batch *batch = &view->batch[view->n_batches++];
            memset(batch, 0, sizeof *batch);
            batch->sig = f->sig[id];
            batch->first = call;
        }
        view->batch[view->n_batches - 1].count++;
        view->batch[view->n_batches - 1].elems += fold__elements_of(f, id);
        depth = view->at[id];
    }
    memset(view->at, 0, ((size_t)f->n_nodes + 1) * sizeof *view->at);
    view->n_groups = 1;
    view->call = view->work;
}

static void fold__view_of_plan(fold__view *view)
{
    const fold__run *run = view->ctx->run;
    for (uint32_t group = 0; group < run->counts.groups; group++)
        for (uint32_t batch = run->group[group].first_batch; batch < run->group[group].end_batch; batch++) {
            const fold__batch *from = &run->batch[batch];
            fold__seen_batch *to = &view->batch[view->n_batches++];
            to->sig = run->run_sig[run->group_sig[from->group_sig].run_sig].sig;
            to->first = from->first;
            to->count = from->count;
            to->elems = from->elems;
            to->group = group;
            to->prologue = !from->stage;
            if (!to->prologue)
                view->n_calls += to->count;
        }
    view->n_groups = run->counts.groups;
    view->call = run->order;
}

/* Which batch each node belongs to, and the signatures. */
static void fold__index_view(fold__view *view)
{
    const fold_ctx *f = view->ctx;
    for (uint32_t batch = 0; batch < view->n_batches; batch++) {
        const fold__seen_batch *seen = &view->batch[batch];
        if (seen->prologue)
            continue;
        if (!view->sig_at[seen->sig]) {
            view->sig_at[seen->sig] = ++view->n_sigs;
            view->sig[view->n_sigs - 1].sig = seen->sig;
        }
        fold__seen_sig *seen_sig = &view->sig[view->sig_at[seen->sig] - 1];
        seen_sig->calls += seen->count;
        seen_sig->batches++;
        if (seen_sig->last_group != seen->group + 1)
            seen_sig->groups++;
        seen_sig->last_group = seen->group + 1;
        for (uint32_t i = 0; i < seen->count; i++)
            view->at[view->call[seen->first + i]] = batch + 1;
    }
    for (uint32_t batch = 0; batch < view->n_batches; batch++)
        for (uint32_t i = 0; i < view->batch[batch].count && !view->batch[batch].prologue; i++) {
            const uint32_t id = view->call[view->batch[batch].first + i];
            for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1]; edge++) {
                const uint32_t from = fold__call_of(f, f->edge_source[edge]);
                if (!view->at[from])
                    view->at[from] = (batch + 1) | FOLD__LEAF;
            }
        }
    for (uint32_t group = 0; view->planned && group < f->run->counts.group_sigs; group++) {
        const fold__group_sig *group_sig = &f->run->group_sig[group];
        view->sig[view->sig_at[f->run->run_sig[group_sig->run_sig].sig] - 1].chain += group_sig->chain;
    }
}

/* What there is to show; 0 when there is no memory. */
static int fold__view_make(fold_ctx *f, fold__view *view)
{
    const fold__run *run = f->run;
    const fold__error error = f->error; /* whatever happens here is no fault of the recording */
    const size_t lacking = f->lacking;
    fold__carver carver = { NULL, 0 };
    memset(view, 0, sizeof *view);
    view->ctx = f;
    view->planned =
        run->shown_epoch == f->epoch && run->shown_nodes == f->n_nodes && run->shown_edges == f->n_edges;
    fold__carve_view(view, &carver);
    f->pinned++;
    const int fits = fold__need(f, FOLD__ARRAY_LOOK, carver.at, 1);
    f->pinned--;
    f->error = error;
    f->lacking = lacking;
    if (!fits)
        return 0;
    if (view->planned)
        fold__renew_run(f);
    else
        fold__renew(f);
    memset(f->look, 0, carver.at);
    carver.base = f->look;
    carver.at = 0;
    fold__carve_view(view, &carver);
    if (view->planned)
        fold__view_of_plan(view);
    else
        fold__view_by_depth(view);
    fold__index_view(view);
    return 1;
}

/* Ends a text; what the view took of a caller's block is free again. */
static fold_status fold__view_end(fold__view *view, fold__text *text)
{
    view->ctx->arrays[FOLD__ARRAY_LOOK].need = 0;
    return fold__text_end(text);
}

static int fold__is_shown(const fold__view *view, uint32_t id)
{
    return view->at[id] && !(view->at[id] & FOLD__LEAF);
}
static int fold__is_leaf(const fold__view *view, uint32_t id) { return (view->at[id] & FOLD__LEAF) != 0; }
static uint32_t fold__column(const fold__view *view, uint32_t id) { return (view->at[id] & ~FOLD__LEAF) - 1; }

/* An attribute of an op: a number, or all axes. */
static void fold__put_attr(fold__text *text, uint32_t op, int32_t attr)
{
    if (fold__attr_is_float(op))
        fold__put(text, "%g", (double)fold__attr_float(attr));
    else if (op < FOLD__OP_COUNT && attr == FOLD_ALL)
        fold__put(text, "all");
    else
        fold__put(text, "%d", (int)attr);
}

/* "linear(W, b)", "sum(axis 0)", "compose" */
static void fold__put_signature(fold__text *text, const fold_ctx *f, uint32_t sig)
{
    const fold__sig *signature = &f->sigs[sig];
    fold__put_name(text, fold__request_name(f, signature->op), FOLD__WHOLE);
    if (signature->is_cell)
        return;
    const fold__program program = fold__program_of(f, signature);
    const char *open = "(";
    for (int i = 0; i < 2 && program.op->param[i]; i++, open = ", ") {
        fold__put(text, "%s", open);
        fold__put_name(text, fold__params(f->model)[program.op->param[i] - 1].name, FOLD__WHOLE);
    }
    for (int attribute = 0; attribute < fold__op_of(f->model, signature->op)->def.n_attr; attribute++) {
        const char *name = fold__attr_name(signature->op, attribute);
        if (!name && signature->op < FOLD__OP_COUNT)
            continue;
        fold__put(text, "%s%s%s", open, name ? name : "", name ? " " : "");
        fold__put_attr(text, signature->op, program.op->attr[attribute]);
        open = ", ";
    }
    if (*open == ',')
        fold__put_bytes(text, ")", 1);
    if (!signature->tag_cell)
        return;
    fold__put_bytes(text, " in ", 4);
    fold__put_name(text, fold__request_name(f, f->sigs[signature->tag_cell].op), FOLD__WHOLE);
}

static const fold_shape *fold__sig_in_shape(const fold_ctx *f, const fold__sig *sig, int input)
{
    return &fold__sig_input(f, sig, (uint32_t)input)->shape;
}

/* Three and more equal shapes in a row are counted: "15 of [1 x 1]". */
static void fold__put_shapes(fold__text *text, const fold_ctx *f, uint32_t sig)
{
    const fold__sig *signature = &f->sigs[sig];
    for (int component = 0, same; component < signature->n_in + signature->n_list; component += same) {
        const fold_shape *shape = fold__sig_in_shape(f, signature, component);
        const int end = component < signature->n_in ? signature->n_in : signature->n_in + signature->n_list;
        for (same = 1; component + same < end &&
                       !memcmp(shape, fold__sig_in_shape(f, signature, component + same), sizeof *shape);)
            same++;
        if (same < 3)
            same = 1;
        fold__put(text, component ? ", %s" : "%s", component >= signature->n_in ? "list of " : "");
        if (same > 1)
            fold__put(text, "%d of ", same);
        fold__put_shape(text, shape);
    }
    for (int output = 0; output < signature->n_out; output++) {
        fold__put_bytes(text, output ? ", " : " -> ", output ? 2 : 4);
        fold__put_shape(text, &f->shapes[signature->out_shape[output]].shape);
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
    fold__maker maker = { NULL, -1 };
    if (fold__leaf_param(f, id, &param)) {
        maker.name = fold__params(f->model)[param].name;
        return maker;
    }
    const uint32_t call = fold__call_of(f, id);
    maker.name = fold__node_name(f, id);
    if (fold__is_op(f, call) && fold__node_sig(f, call)->n_out > 1)
        maker.out = (int)(id - call);
    return maker;
}

/* Of an operand of all calls of a batch: up to three different makers, the fourth stands for more. */
typedef struct fold__makers {
    fold__maker seen[4];
    int count;
} fold__makers;
static void fold__find_makers(const fold__view *view, const fold__seen_batch *batch, int slot,
                              fold__makers *maker)
{
    const fold_ctx *f = view->ctx;
    maker->count = 0;
    for (uint32_t i = 0; i < batch->count && maker->count < 4; i++) {
        const fold__slots slots = fold__slots_of(f, view->call[batch->first + i]);
        for (uint32_t edge = fold__slot_first(&slots, slot), end = edge + fold__slot_edges(&slots, slot);
             edge < end && maker->count < 4; edge++) {
            const fold__maker found = fold__maker_of(f, f->edge_source[edge]);
            int old = 0;
            while (old < maker->count &&
                   (maker->seen[old].name != found.name || maker->seen[old].out != found.out))
                old++;
            if (old == maker->count)
                maker->seen[maker->count++] = found;
        }
    }
}
static int fold__same_makers(const fold__makers *one, const fold__makers *other)
{
    int i = 0;
    while (i < one->count && i < other->count && one->seen[i].name == other->seen[i].name &&
           one->seen[i].out == other->seen[i].out)
        i++;
    return i == one->count && i == other->count;
}
static void fold__put_makers(fold__text *text, const fold__makers *maker)
{
    for (int i = 0; i < maker->count; i++) {
        if (i)
            fold__put_bytes(text, "|", 1);
        if (i < 3)
            fold__put_name(text, maker->seen[i].name, FOLD__WHOLE);
        else
            fold__put_bytes(text, "..", 2);
        if (i < 3 && maker->seen[i].out >= 0)
            fold__put(text, ".%d", maker->seen[i].out);
    }
    if (maker->count)
        fold__put_bytes(text, " ", 1);
}

/* Operands from `slot` on that look the same. */
static int fold__equal_operands(const fold__view *view, const fold__seen_batch *batch, int slot,
                                const fold__makers *makers)
{
    const fold__sig *sig = &view->ctx->sigs[batch->sig];
    int same = 1;
    for (fold__makers other; slot + same < sig->n_in; same++) {
        fold__find_makers(view, batch, slot + same, &other);
        if (((sig->shared >> slot ^ sig->shared >> (slot + same)) & 1) || !fold__same_makers(makers, &other))
            break;
        if (memcmp(fold__sig_in_shape(view->ctx, sig, slot), fold__sig_in_shape(view->ctx, sig, slot + same),
                   sizeof(fold_shape)))
            break;
    }
    return same < 3 ? 1 : same;
}

static void fold__put_batch(fold__text *text, const fold__view *view, const fold__seen_batch *batch)
{
    const fold_ctx *f = view->ctx;
    const fold__sig *sig = &f->sigs[batch->sig];
    fold__put_signature(text, f, batch->sig);
    fold__put(text, " = %lu x (", (unsigned long)batch->count);
    for (int component = 0, same; component < sig->n_in + sig->n_list; component += same) {
        fold__makers makers;
        fold__find_makers(view, batch, component, &makers);
        same = fold__equal_operands(view, batch, component, &makers);
        if (component)
            fold__put_bytes(text, ", ", 2);
        if (same > 1)
            fold__put(text, "%d of ", same);
        if (component < sig->n_in && (sig->shared >> component & 1))
            fold__put(text, "shared ");
        if (component >= sig->n_in)
            fold__put(text, "%lu in lists: ", (unsigned long)batch->elems);
        fold__put_makers(text, &makers);
        fold__put_shape(text, fold__sig_in_shape(f, sig, component));
    }
    fold__put_bytes(text, ")", 1);
    for (int output = 0; output < sig->n_out; output++) {
        fold__put_bytes(text, output ? ", " : " -> ", output ? 2 : 4);
        fold__put_shape(text, &f->shapes[sig->out_shape[output]].shape);
    }
    fold__put_bytes(text, "\n", 1);
}

static const char *fold__schedule_name(const fold_ctx *f)
{
    static const char *const name[] = { "ratio", "depth", "agenda" };
    FOLD__SAME_COUNT(name, FOLD_SCHEDULE_COUNT);
    return name[f->schedule];
}

/* "27 calls in 6 batches, …" */
static void fold__put_head(fold__text *text, const fold__view *view)
{
    uint32_t prologues = 0, bound = 0;
    for (uint32_t batch = 0; batch < view->n_batches; batch++)
        prologues += view->batch[batch].prologue != 0;
    for (uint32_t sig = 0; sig < view->n_sigs; sig++)
        bound += view->sig[sig].chain;
    fold__put_count(text, view->n_calls, "call");
    fold__put_bytes(text, " in ", 4);
    fold__put_count(text, view->n_batches - prologues, "batch");
    if (prologues)
        fold__put_bytes(text, " and ", 5);
    if (prologues)
        fold__put_count(text, prologues, "prologue");
    if (view->n_groups > 1)
        fold__put_bytes(text, ", ", 2);
    if (view->n_groups > 1)
        fold__put_count(text, view->n_groups, "group");
    if (view->planned)
        fold__put(text, ", lower bound %lu, schedule %s", (unsigned long)bound,
                  fold__schedule_name(view->ctx));
    else
        fold__put(text, view->ctx->eager ? " by depth; the context is eager" : " by depth, not run yet");
}

/* Rows looked up in each table, and other leaves. */
static void fold__put_leaves(fold__text *text, const fold__view *view)
{
    const fold_ctx *f = view->ctx;
    size_t inputs = 0;
    const char *before = "leaves: ";
    uint32_t param;
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        const uint32_t kind = fold__kind_of(f, id);
        inputs += kind == FOLD__INPUT || kind == FOLD__REF;
    }
    if (inputs) {
        fold__put(text, "%s", before);
        fold__put_count(text, inputs, "input");
        before = ", ";
    }
    for (uint32_t param_index = 0; param_index < f->model->n_params; param_index++) {
        size_t rows = 0;
        for (uint32_t id = 1; id <= f->n_nodes; id++)
            rows += fold__leaf_param(f, id, &param) && param == param_index &&
                    fold__kind_of(f, id) == FOLD__LOOKUP;
        if (!rows)
            continue;
        fold__put(text, "%s", before);
        fold__put_count(text, rows, "row");
        fold__put_bytes(text, " of ", 4);
        fold__put_name(text, fold__params(f->model)[param_index].name, FOLD__WHOLE);
        fold__put_bytes(text, " ", 1);
        fold__put_shape(text, &fold__params(f->model)[param_index].shape);
        before = ", ";
    }
    if (*before == ',')
        fold__put_bytes(text, "\n", 1);
}

FOLD_API fold_status fold_ctx_print(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view view;
    fold__text text;
    unsigned long step = 0;
    if (!f)
        return FOLD_BAD_ARGUMENT;
    if (!fold__view_make(f, &view))
        return FOLD_NO_MEMORY;
    fold__text_start(&text, write, user, FOLD__QUOTE_NONE);
    fold__put_head(&text, &view);
    fold__put_bytes(&text, "\n", 1);
    fold__put_leaves(&text, &view);
    for (uint32_t batch = 0; batch < view.n_batches && !text.stopped; batch++) {
        const fold__seen_batch *seen = &view.batch[batch];
        if (view.n_groups > 1 && (!batch || seen->group != view.batch[batch - 1].group))
            fold__put(&text, "group %lu\n", seen->group + 1ul);
        if (seen->prologue)
            fold__put(&text, "prologue: ");
        else
            fold__put(&text, "step %lu: ", ++step);
        fold__put_batch(&text, &view, seen);
    }
    if (fold_ctx_status(f)) {
        fold__put(&text, "error: ");
        fold__put_name(&text, fold_ctx_message(f), FOLD__WHOLE);
        fold__put_bytes(&text, "\n", 1);
    }
    return fold__view_end(&view, &text);
}

/* -- why not one batch ----------------------------------------------------------------------- */

static void fold__put_param_or_none(fold__text *text, const fold_ctx *f, uint32_t param)
{
    if (param)
        fold__put_name(text, fold__params(f->model)[param - 1].name, FOLD__WHOLE);
    else
        fold__put(text, "none");
}

/* How the ops, of one signature each, differ; attributes and parameters. Returns how many differences there
 * are. */
static int fold__put_op_differences(fold__text *text, const fold_ctx *f, const fold__sig *one,
                                    const fold__sig *other)
{
    const fold__program program = fold__program_of(f, one), other_program = fold__program_of(f, other);
    int count = 0;
    if (one->is_cell)
        return 0;
    for (int attribute = 0; attribute < fold__op_of(f->model, one->op)->def.n_attr; attribute++) {
        const char *name = fold__attr_name(one->op, attribute);
        if (program.op->attr[attribute] == other_program.op->attr[attribute])
            continue;
        if (name)
            fold__put(text, "%s%s ", count++ ? ", " : "", name);
        else
            fold__put(text, "%sattribute %d ", count++ ? ", " : "", attribute);
        fold__put_attr(text, one->op, program.op->attr[attribute]);
        fold__put(text, " for ");
        fold__put_attr(text, one->op, other_program.op->attr[attribute]);
    }
    for (int i = 0; i < 2; i++) {
        if (program.op->param[i] == other_program.op->param[i])
            continue;
        fold__put(text, "%sparameter ", count++ ? ", " : "");
        fold__put_param_or_none(text, f, program.op->param[i]);
        fold__put(text, " for ");
        fold__put_param_or_none(text, f, other_program.op->param[i]);
    }
    return count;
}

/* How one signature of an op differs from another: each part of their keys. */
static void fold__put_differences(fold__text *text, const fold_ctx *f, const fold__sig *one,
                                  const fold__sig *other)
{
    int count = fold__put_op_differences(text, f, one, other);
    if (one->n_in != other->n_in)
        fold__put(text, "%s%d inputs for %d", count++ ? ", " : "", one->n_in, other->n_in);
    for (int component = 0; component < one->n_in + one->n_list && one->n_in == other->n_in; component++) {
        const fold_shape *shape = fold__sig_in_shape(f, one, component);
        const fold_shape *other_shape = fold__sig_in_shape(f, other, component);
        if (fold__shape_same(shape, other_shape))
            continue;
        fold__put(text, "%s%s %d of shape ", count++ ? ", " : "",
                  component < one->n_in ? "input" : "list component",
                  component < one->n_in ? component : component - one->n_in);
        fold__put_shape(text, shape);
        fold__put(text, " for ");
        fold__put_shape(text, other_shape);
    }
    if (one->shared != other->shared)
        fold__put(text, "%sother inputs are shared", count++ ? ", " : "");
    if (one->tag_cell != other->tag_cell || one->tag_op != other->tag_op)
        fold__put(text, "%sanother place in a cell", count++ ? ", " : "");
    if (!count)
        fold__put(text, "another value is shared");
}

/* How many parts of two keys differ; keys of other lengths differ most. */
static uint32_t fold__key_distance(const fold_ctx *f, const fold__sig *one, const fold__sig *other)
{
    const uint32_t *key = f->keys + one->key, *other_key = f->keys + other->key;
    uint32_t count = 0;
    if (one->key_words != other->key_words)
        return FOLD__NONE - 1;
    for (uint32_t i = 0; i < one->key_words; i++)
        count += key[i] != other_key[i];
    return count;
}

/* The signatures of one op, of which `first` is the first in the view, each with what tells it from the one
   most like it. */
enum { FOLD__COMPARED = 64 };
static void fold__put_op_splits(fold__text *text, const fold__view *view, uint32_t first, unsigned long count)
{
    const fold_ctx *f = view->ctx;
    const uint32_t op = f->sigs[view->sig[first].sig].op;
    fold__put_name(text, fold__request_name(f, op), FOLD__WHOLE);
    fold__put(text, ": %lu signatures\n", count);
    for (uint32_t sig = first; sig < view->n_sigs; sig++) {
        const fold__sig *signature = &f->sigs[view->sig[sig].sig], *like = NULL;
        uint32_t best = FOLD__NONE, number = 0, at = 0;
        if (signature->op != op)
            continue;
        for (uint32_t earlier = first, compared = 0; earlier < sig && compared < FOLD__COMPARED; earlier++) {
            const fold__sig *other = &f->sigs[view->sig[earlier].sig];
            if (other->op != op)
                continue;
            compared++;
            const uint32_t distance = fold__key_distance(f, signature, other);
            if (distance < best) {
                best = distance;
                like = other;
                at = compared;
            }
        }
        for (uint32_t earlier = first; earlier <= sig; earlier++)
            number += f->sigs[view->sig[earlier].sig].op == op;
        fold__put(text, "  %lu. %lu x ", (unsigned long)number, (unsigned long)view->sig[sig].calls);
        fold__put_signature(text, f, view->sig[sig].sig);
        fold__put_bytes(text, ": ", 2);
        fold__put_shapes(text, f, view->sig[sig].sig);
        if (like) {
            fold__put(text, "; unlike %lu: ", (unsigned long)at);
            fold__put_differences(text, f, signature, like);
        }
        fold__put_bytes(text, "\n", 1);
    }
}

/* Why a signature has more than one batch. */
static void fold__put_batch_splits(fold__text *text, const fold__view *view, const fold__seen_sig *seen)
{
    fold__put_signature(text, view->ctx, seen->sig);
    fold__put_bytes(text, ": ", 2);
    fold__put_count(text, seen->calls, "call");
    fold__put(text, " in %lu batches: ", (unsigned long)seen->batches);
    if (!view->planned)
        fold__put(text, "of several depths");
    else if (seen->chain > seen->groups)
        fold__put(text, "%lu because some read others", (unsigned long)seen->chain);
    if (view->planned && seen->groups > 1)
        fold__put(text, "%sin %lu groups of samples", seen->chain > seen->groups ? ", " : "",
                  (unsigned long)seen->groups);
    if (view->planned && seen->batches > seen->chain)
        fold__put(text, "%s%lu more by the schedule",
                  seen->chain > seen->groups || seen->groups > 1 ? ", " : "",
                  (unsigned long)(seen->batches - seen->chain));
    fold__put_bytes(text, "\n", 1);
}

FOLD_API fold_status fold_ctx_print_splits(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view view;
    fold__text text;
    if (!f)
        return FOLD_BAD_ARGUMENT;
    if (!fold__view_make(f, &view))
        return FOLD_NO_MEMORY;
    fold__text_start(&text, write, user, FOLD__QUOTE_NONE);
    fold__put_head(&text, &view);
    fold__put_bytes(&text, "\n", 1);
    for (uint32_t sig = 0; sig < view.n_sigs && !text.stopped; sig++) {
        const uint32_t op = f->sigs[view.sig[sig].sig].op;
        unsigned long count = 0;
        uint32_t first = 0;
        while (f->sigs[view.sig[first].sig].op != op)
            first++;
        for (uint32_t later = sig; later < view.n_sigs && first == sig; later++)
            count += f->sigs[view.sig[later].sig].op == op;
        if (count > 1)
            fold__put_op_splits(&text, &view, sig, count);
    }
    for (uint32_t sig = 0; sig < view.n_sigs && !text.stopped; sig++)
        if (view.sig[sig].batches > 1)
            fold__put_batch_splits(&text, &view, &view.sig[sig]);
    return fold__view_end(&view, &text);
}

/* -- pictures -------------------------------------------------------------------------------- */

/* Signatures get hues a golden angle apart. */
static int fold__hue(uint32_t index) { return (int)((index * 137u + 210u) % 360u); }

/* "embed 7", "W", "input 3", of a value that an earlier run made "compose 12". */
static void fold__put_leaf(fold__text *text, const fold_ctx *f, uint32_t id, int characters)
{
    const uint32_t kind = fold__kind_of(f, id);
    fold__put_name(text, fold__maker_of(f, id).name, characters);
    if (kind != FOLD__PARAM)
        fold__put(text, " %lu", (unsigned long)(kind == FOLD__LOOKUP ? fold__node_table_row(f, id) : id));
}

/* Whether one of the operands before it is the same node: pictures show one edge for both. */
static int fold__drawn_before(const fold_ctx *f, uint32_t id, uint32_t edge)
{
    enum { BACK = 16 };
    const uint32_t from = fold__call_of(f, f->edge_source[edge]);
    for (uint32_t i = edge; i > f->first_edge[id] && edge - i < BACK; i--)
        if (fold__call_of(f, f->edge_source[i - 1]) == from)
            return 1;
    return 0;
}

FOLD_API fold_status fold_ctx_print_dot(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view view;
    fold__text text;
    unsigned long step = 0;
    if (!f)
        return FOLD_BAD_ARGUMENT;
    if (!fold__view_make(f, &view))
        return FOLD_NO_MEMORY;
    fold__text_start(&text, write, user, FOLD__QUOTE_JSON);
    fold__put(&text, "digraph fold {\n  rankdir=LR; fontname=\"sans-serif\"; label=\"");
    fold__put_head(&text, &view);
    fold__put(&text,
              "\";\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=10];\n");
    for (uint32_t batch = 0; batch < view.n_batches && !text.stopped; batch++) {
        const fold__seen_batch *seen = &view.batch[batch];
        const int hue = fold__hue(view.sig_at[seen->sig] - 1) * 1000 / 360;
        if (seen->prologue)
            continue;
        fold__put(&text, "  subgraph cluster_%lu {\n    color=gray; label=\"%lu: ", batch + 1ul, ++step);
        fold__put_signature(&text, f, seen->sig);
        fold__put(&text, " x %lu\";\n    node [fillcolor=\"0.%03d 0.45 0.95\"];\n",
                  (unsigned long)seen->count, hue);
        for (uint32_t i = 0; i < seen->count; i++) {
            fold__put(&text, "    n%lu [label=\"", (unsigned long)view.call[seen->first + i]);
            fold__put_name(&text, fold__request_name(f, f->sigs[seen->sig].op), 16);
            fold__put(&text, " %lu\"];\n", (unsigned long)view.call[seen->first + i]);
        }
        fold__put(&text, "  }\n");
    }
    for (uint32_t id = 1; id <= f->n_nodes && !text.stopped; id++) {
        if (!fold__is_leaf(&view, id))
            continue;
        fold__put(&text, "  n%lu [fillcolor=white, label=\"", (unsigned long)id);
        fold__put_leaf(&text, f, id, FOLD__WHOLE);
        fold__put(&text, "\"];\n");
    }
    for (uint32_t id = 1; id <= f->n_nodes && !text.stopped; id++)
        for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1] && fold__is_shown(&view, id);
             edge++)
            if (!fold__drawn_before(f, id, edge))
                fold__put(&text, "  n%lu -> n%lu;\n", (unsigned long)fold__call_of(f, f->edge_source[edge]),
                          (unsigned long)id);
    fold__put(&text, "}\n");
    return fold__view_end(&view, &text);
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

static int fold__is_drawn(const fold__view *view, uint32_t id)
{
    return view->at[id] && view->top[id] != FOLD__HIDDEN;
}
static uint32_t fold__count_hidden(const fold__view *view, const fold__seen_batch *batch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        count += !fold__is_drawn(view, view->call[batch->first + i]);
    return count;
}

static int fold__higher(const void *view, uint32_t one, uint32_t other)
{
    const fold__view *shown = (const fold__view *)view;
    return shown->top[one] != shown->top[other] ? shown->top[one] < shown->top[other] : one < other;
}

/* Moves `count` nodes of a column apart, as little as need be: halfway between the nearest places that fit
   downwards and upwards. */
static void fold__part_column(fold__view *view, uint32_t *ids, uint32_t count)
{
    fold__sort(ids, count, fold__higher, view);
    for (uint32_t i = 0; i < count; i++) {
        view->low[i] = view->top[ids[i]];
        if (i && view->low[i] < view->low[i - 1] + FOLD__LANE)
            view->low[i] = view->low[i - 1] + FOLD__LANE;
    }
    for (uint32_t i = count; i-- > 1;)
        if (view->top[ids[i - 1]] > view->top[ids[i]] - FOLD__LANE)
            view->top[ids[i - 1]] = view->top[ids[i]] - FOLD__LANE;
    for (uint32_t i = 0; i < count; i++)
        view->top[ids[i]] = (view->top[ids[i]] + view->low[i]) / 2;
}

/* Whether a call has a lane: one that reads nothing has one already, another needs operands that are drawn.
   Then it lies at their mean height. */
static int fold__place_call(fold__view *view, uint32_t id, int needs_all)
{
    const fold_ctx *f = view->ctx;
    const uint32_t first = f->first_edge[id], end = f->first_edge[id + 1];
    int64_t heights = 0, drawn = 0;
    if (first == end)
        return fold__is_drawn(view, id);
    view->top[id] = FOLD__HIDDEN;
    for (uint32_t edge = first; edge < end; edge++) {
        const uint32_t from = fold__call_of(f, f->edge_source[edge]);
        if (!fold__is_drawn(view, from))
            continue;
        heights += view->top[from];
        drawn++;
    }
    if (!drawn || (needs_all && drawn < (int64_t)(end - first)))
        return 0;
    view->top[id] = (int32_t)(heights / drawn);
    return 1;
}

/* The calls of a column that are drawn: those all of whose operands are, so that samples are whole; where
   there is none, such as what joins all samples, those that read anything drawn. */
static void fold__lay_out_column(fold__view *view, const fold__seen_batch *batch)
{
    uint32_t count = 0;
    for (int needs_all = 1; needs_all >= 0 && !count; needs_all--)
        for (uint32_t i = 0; i < batch->count; i++) {
            const uint32_t id = view->call[batch->first + i];
            if (count < FOLD__MOST_LANES && fold__place_call(view, id, needs_all))
                view->sorted[count++] = id;
            else
                view->top[id] = FOLD__HIDDEN;
        }
    fold__part_column(view, view->sorted, count);
}

/* Leaves, and calls that read nothing, take a lane each as they were recorded, as long as there are lanes;
   the columns follow from left to right. Returns the height of it all. */
static int32_t fold__lay_out(fold__view *view)
{
    const fold_ctx *f = view->ctx;
    int32_t lanes = 0, top = 0, bottom = 0;
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (fold__is_leaf(view, id) ||
            (fold__is_shown(view, id) && f->first_edge[id] == f->first_edge[id + 1]))
            view->top[id] = lanes < FOLD__MOST_LANES ? FOLD__LANE * lanes++ : FOLD__HIDDEN;
    for (uint32_t batch = 0; batch < view->n_batches; batch++)
        if (!view->batch[batch].prologue)
            fold__lay_out_column(view, &view->batch[batch]);
    for (uint32_t id = 1; id <= f->n_nodes; id++) {
        if (!fold__is_drawn(view, id))
            continue;
        if (view->top[id] < top)
            top = view->top[id];
        if (view->top[id] > bottom)
            bottom = view->top[id];
    }
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        if (fold__is_drawn(view, id))
            view->top[id] += FOLD__TOP - top;
    return bottom - top + FOLD__LANE;
}

/* Gives each column its place; returns the width of it all. */
static int fold__place_columns(fold__view *view)
{
    int left = FOLD__LEFT;
    for (uint32_t id = 1; id <= view->ctx->n_nodes; id++)
        if (fold__is_leaf(view, id) && fold__is_drawn(view, id))
            view->batch[fold__column(view, id)].left = FOLD__LEAF_W;
    for (uint32_t batch = 0; batch < view->n_batches; batch++) {
        if (view->batch[batch].prologue)
            continue;
        left += view->batch[batch].left + FOLD__SPACE;
        view->batch[batch].left = left;
        left += FOLD__NODE_W;
    }
    return left + FOLD__SPACE;
}

static void fold__svg_columns(fold__text *text, const fold__view *view, int height)
{
    const fold_ctx *f = view->ctx;
    unsigned long step = 0, group = 0;
    for (uint32_t batch = 0; batch < view->n_batches; batch++) {
        const fold__seen_batch *seen = &view->batch[batch];
        const int middle = seen->left + FOLD__NODE_W / 2;
        if (seen->prologue)
            continue;
        fold__put(
            text,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"hsl(%d,60%%,95%%)\"/>\n",
            seen->left - 8, FOLD__TOP - 20, FOLD__NODE_W + 16, height,
            fold__hue(view->sig_at[seen->sig] - 1));
        fold__put(text,
                  "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\"><tspan font-weight=\"bold\">%lu</tspan>",
                  middle, FOLD__TOP - 50, ++step);
        fold__put(text, "<tspan x=\"%d\" dy=\"13\" font-size=\"10\">", middle);
        fold__put_name(text, fold__request_name(f, f->sigs[seen->sig].op), 12);
        fold__put(text, "</tspan><tspan x=\"%d\" dy=\"12\" font-size=\"10\">&#215;%lu</tspan></text>\n",
                  middle, (unsigned long)seen->count);
        if (fold__count_hidden(view, seen))
            fold__put(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"10\">+%lu</text>\n",
                      middle, FOLD__TOP - 26 + height, (unsigned long)fold__count_hidden(view, seen));
        if (view->n_groups > 1 && seen->group + 1ul != group)
            fold__put(text, "<text x=\"%d\" y=\"%d\" fill=\"gray\">group %lu</text>\n", seen->left - 8,
                      FOLD__TOP - 66, group = seen->group + 1ul);
    }
}

static void fold__svg_edges(fold__text *text, const fold__view *view)
{
    const fold_ctx *f = view->ctx;
    fold__put(text, "<g fill=\"none\" stroke=\"#667\" stroke-opacity=\"0.6\">\n");
    for (uint32_t id = 1; id <= f->n_nodes && !text->stopped; id++)
        for (uint32_t edge = f->first_edge[id]; edge < f->first_edge[id + 1] && fold__is_shown(view, id);
             edge++) {
            const uint32_t from = fold__call_of(f, f->edge_source[edge]);
            const int left = view->batch[fold__column(view, from)].left +
                             (fold__is_leaf(view, from) ? -FOLD__SPACE / 2 : FOLD__NODE_W);
            const int to = view->batch[fold__column(view, id)].left;
            const int bend = (to - left) / 2;
            if (fold__drawn_before(f, id, edge) || !fold__is_drawn(view, id) || !fold__is_drawn(view, from))
                continue;
            fold__put(text, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", left, (int)view->top[from],
                      left + bend, (int)view->top[from], to - bend, (int)view->top[id], to,
                      (int)view->top[id]);
        }
    fold__put(text, "</g>\n");
}

static void fold__svg_nodes(fold__text *text, const fold__view *view)
{
    const fold_ctx *f = view->ctx;
    for (uint32_t id = 1; id <= f->n_nodes && !text->stopped; id++) {
        if (!fold__is_drawn(view, id))
            continue;
        const fold__seen_batch *batch = &view->batch[fold__column(view, id)];
        const int leaf = fold__is_leaf(view, id);
        const int width = leaf ? FOLD__LEAF_W : FOLD__NODE_W;
        const int left = batch->left - (leaf ? FOLD__SPACE / 2 + FOLD__LEAF_W : 0);
        fold__put(text, "<g><title>");
        if (leaf)
            fold__put_leaf(text, f, id, FOLD__WHOLE);
        else
            fold__put_signature(text, f, batch->sig);
        fold__put(text, ", node %lu</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" ",
                  (unsigned long)id, left, (int)view->top[id] - FOLD__NODE_H / 2, width, FOLD__NODE_H);
        if (leaf)
            fold__put(text, "fill=\"white\" stroke=\"#aab\"/>");
        else
            fold__put(text, "fill=\"hsl(%d,60%%,75%%)\" stroke=\"hsl(%d,50%%,45%%)\"/>",
                      fold__hue(view->sig_at[batch->sig] - 1), fold__hue(view->sig_at[batch->sig] - 1));
        fold__put(text, "<text x=\"%d\" y=\"%d\" font-size=\"9\" text-anchor=\"middle\">", left + width / 2,
                  (int)view->top[id] + 3);
        if (leaf)
            fold__put_leaf(text, f, id, 8);
        else
            fold__put(text, "%lu", (unsigned long)id);
        fold__put(text, "</text></g>\n");
    }
}

static void fold__svg_legend(fold__text *text, const fold__view *view, int top)
{
    for (uint32_t sig = 0; sig < view->n_sigs && !text->stopped; sig++, top += 18) {
        fold__put(text,
                  "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" rx=\"3\" "
                  "fill=\"hsl(%d,60%%,75%%)\"/><text x=\"%d\" y=\"%d\">",
                  FOLD__LEFT, top - 10, fold__hue(sig), FOLD__LEFT + 22, top);
        fold__put_signature(text, view->ctx, view->sig[sig].sig);
        fold__put(text, ": ");
        fold__put_shapes(text, view->ctx, view->sig[sig].sig);
        fold__put(text, "; ");
        fold__put_count(text, view->sig[sig].calls, "call");
        fold__put(text, " in ");
        fold__put_count(text, view->sig[sig].batches, "batch");
        fold__put(text, "</text>\n");
    }
}

FOLD_API fold_status fold_ctx_print_svg(fold_ctx *f, fold_writer *write, void *user)
{
    fold__view view;
    fold__text text;
    if (!f)
        return FOLD_BAD_ARGUMENT;
    if (!fold__view_make(f, &view))
        return FOLD_NO_MEMORY;
    fold__text_start(&text, write, user, FOLD__QUOTE_XML);
    uint32_t hidden = 0;
    int lanes = fold__lay_out(&view);
    for (uint32_t id = 1; id <= f->n_nodes; id++)
        hidden += view.at[id] && view.top[id] == FOLD__HIDDEN;
    lanes += hidden ? FOLD__LANE : 0; /* where what is not drawn is counted */
    const int columns = fold__place_columns(&view);
    const int width = columns < 560 ? 560 : columns;
    const int height = FOLD__TOP + lanes + 18 * (int)view.n_sigs + 24;
    fold__put(&text,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ",
              width, height, width, height);
    fold__put(&text,
              "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
              "fill=\"white\"/>\n<text x=\"%d\" y=\"16\">",
              FOLD__LEFT);
    fold__put_head(&text, &view);
    if (hidden)
        fold__put(&text, "; drawn are the first samples, + counts all other calls");
    fold__put(&text, "</text>\n");
    fold__svg_columns(&text, &view, lanes + 8);
    fold__svg_edges(&text, &view);
    fold__svg_nodes(&text, &view);
    fold__svg_legend(&text, &view, FOLD__TOP + lanes + 20);
    fold__put(&text, "</svg>\n");
    return fold__view_end(&view, &text);
}

/* -- times ----------------------------------------------------------------------------------- */

/* Nanoseconds as microseconds: no locale's comma. */
static void fold__put_time(fold__text *text, const char *key, uint64_t ns)
{
    fold__put(text, ",\"%s\":%.0f.%03u", key, (double)(ns / 1000), (unsigned)(ns % 1000));
}

static void fold__put_event(fold__text *text, const fold_ctx *f, const fold__event *event, int lane)
{
    fold__put(text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"cat\":\"%s%s\",\"name\":\"", lane,
              event->kind & FOLD__EVENT_BACKWARD ? "backward" : "forward",
              event->kind & FOLD__EVENT_PROLOGUE ? ",prologue" : "");
    fold__put_signature(text, f, event->sig);
    fold__put(text, "\"");
    fold__put_time(text, "ts", event->start - f->run->began);
    fold__put_time(text, "dur", event->end - event->start);
    fold__put(text, ",\"args\":{\"calls\":%lu,\"group\":%lu,\"shapes\":\"", (unsigned long)event->calls,
              (unsigned long)event->group + 1);
    fold__put_shapes(text, f, event->sig);
    fold__put(text, "\"}}");
}

FOLD_API fold_status fold_ctx_print_trace(const fold_ctx *f, fold_writer *write, void *user)
{
    if (!f)
        return FOLD_BAD_ARGUMENT;
    const fold__run *run = f->run;
    const fold__event *event = f->trace;
    fold__text text;
    size_t dropped = 0;
    const int ran = f->trace_events && run->shown_epoch == f->epoch;
    fold__text_start(&text, write, user, FOLD__QUOTE_JSON);
    fold__put(&text,
              "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
              "\"fold\"}}");
    if (ran) {
        fold__put(&text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"cat\":\"plan\",\"name\":\"plan\",\"ts\":0");
        fold__put_time(&text, "dur", f->stats.schedule_ns);
        fold__put(&text, "}");
    }
    for (int thread = 0; thread < f->threads && ran; thread++) {
        const fold__worker *worker =
            (const fold__worker *)(const void *)f->arrays[FOLD__ARRAY_WORKERS].data + thread;
        const size_t count = fold__min_size(worker->events, f->trace_events);
        for (size_t at = 0; at < count && !text.stopped; at++)
            fold__put_event(&text, f, &event[(size_t)thread * f->trace_events + at], thread);
        dropped += worker->events - count;
    }
    fold__put(&text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%lu}}\n",
              (unsigned long)dropped);
    return fold__text_end(&text);
}

/* -- a model --------------------------------------------------------------------------------- */

static void fold__put_spaces(fold__text *text, size_t used, size_t width)
{
    for (; used < width; used++)
        fold__put_bytes(text, " ", 1);
}

static void fold__put_param(fold__text *text, const fold_model *m, const fold__param_data *param,
                            size_t widest)
{
    char shape[64];
    const size_t length = fold__shape_text(shape, sizeof shape, 0, &param->shape);
    fold__put_name(text, param->name, FOLD__WHOLE);
    fold__put_spaces(text, strlen(param->name), widest);
    fold__put(text, "  %s", shape);
    fold__put_spaces(text, length, 18);
    fold__put(text, " %11lu%14lu", (unsigned long)param->size, (unsigned long)(param->size * sizeof(float)));
    if (param->uses & FOLD_FOR_LOOKUP)
        fold__put(text, "  lookups");
    if (param->buffer)
        fold__put(text, "  buffer");
    else if (!fold__trainable(m, param))
        fold__put(text, "  frozen");
    if (param->rate_set)
        fold__put(text, "  rate set %d", param->rate_set);
    fold__put_bytes(text, "\n", 1);
}

FOLD_API fold_status fold_model_print(const fold_model *m, fold_writer *write, void *user)
{
    fold__text text;
    if (!m)
        return FOLD_BAD_ARGUMENT;
    size_t widest = 10, values = 0, trained = 0;
    for (uint32_t index = 0; index < m->n_params; index++)
        widest = fold__max_size(widest, fold__min_size(strlen(fold__params(m)[index].name), 40));
    fold__text_start(&text, write, user, FOLD__QUOTE_NONE);
    fold__put(&text, "parameters");
    fold__put_spaces(&text, 10, widest);
    fold__put(&text, "  shape                   values         bytes\n");
    for (uint32_t index = 0; index < m->n_params; index++) {
        const fold__param_data *param = &fold__params(m)[index];
        fold__put_param(&text, m, param, widest);
        values += param->size;
        trained += fold__trainable(m, param) ? param->size : 0;
    }
    fold__put(&text, "%lu parameters, %lu values, %lu of them trained; ", (unsigned long)m->n_params,
              (unsigned long)values, (unsigned long)trained);
    fold__put(&text, "bytes: %lu held, of which packed weights %lu\n", (unsigned long)m->arena.bytes,
              (unsigned long)(m->packs * sizeof(float)));
    for (uint32_t cell = 0; cell < m->n_cells; cell++) {
        const fold__cell_data *cell_data = &fold__cells(m)[cell];
        if (cell_data->is_projected)
            continue;
        fold__put(&text, "cell ");
        fold__put_name(&text, cell_data->name, FOLD__WHOLE);
        fold__put(&text, ": ");
        fold__put_count(&text, (size_t)cell_data->desc.n_in, "input");
        if (cell_data->desc.n_list)
            fold__put(&text, ", lists of %d", cell_data->desc.n_list);
        fold__put(&text, ", ");
        fold__put_count(&text, (size_t)cell_data->desc.n_out, "output");
        fold__put(&text, ", ");
        fold__put_count(&text, (size_t)cell_data->program.n_ops, "op");
        fold__put_bytes(&text, "\n", 1);
    }
    return fold__text_end(&text);
}

/* ==== room: files ============================================================================
   Owns: the safetensors format, both ways. Calls: text, model, optimisers. Trusts nothing that it reads. Must
   not know contexts. */

enum {
    FOLD__DTYPES_READ = 4,
    FOLD__HEADER_LIMIT = 100000000, /* bytes */
    FOLD__LEAST_TENSOR = 48         /* bytes of a tensor's entry in the header, at least */
};

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
    return (float *)(void *)m->arrays[which[part]].data;
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

FOLD__ZEROS_BY_DEFAULT(fold_save_desc)
FOLD_API uint64_t fold_model_steps(const fold_model *m) { return m ? m->steps : 0; }

static int fold__is_text(const char *from)
{
    for (int count; *from; from += count)
        if (!(count = fold__utf8(from)))
            return 0;
    return 1;
}

/* 0 and an error when there is something that a file cannot hold. */
static int fold__can_save(fold_model *m, const fold_save_desc *desc)
{
    for (uint32_t index = 0; index < m->n_params; index++) {
        const char *name = fold__params(m)[index].name;
        if (!strncmp(name, "optimizer.", 10) || !strcmp(name, "__metadata__")) {
            fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: in files the name '%s' stands for something else",
                             name);
            return 0;
        }
        if (fold__is_text(name))
            continue;
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: the name of parameter %lu is not UTF-8",
                         (unsigned long)index);
        return 0;
    }
    if (desc->config && !fold__is_text(desc->config))
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: config is not UTF-8");
    return !m->error.status;
}

/* State that is zero because it was never needed is left out. */
static int fold__is_saved(const fold_model *m, const fold__param_data *param, int part)
{
    if (!part || fold__trainable(m, param))
        return 1;
    const float *state = fold__part(m, part) + param->at;
    size_t at = 0;
    while (at < param->size && state[at] == 0)
        at++;
    return at < param->size;
}

static void fold__put_header(fold__text *text, const fold_model *m, const fold_save_desc *desc)
{
    unsigned long long at = 0;
    fold__put(text, "{\"__metadata__\":{\"producer\":\"fold.h " FOLD_VERSION "\"");
    if (desc->state)
        fold__put(text, ",\"optimizer\":\"%s\"", fold__rule_name(m->rule));
    if (desc->state)
        fold__put(text, ",\"steps\":\"%llu\"", (unsigned long long)m->steps);
    if (desc->config) {
        fold__put(text, ",\"config\":\"");
        fold__put_name(text, desc->config, FOLD__WHOLE);
        fold__put(text, "\"");
    }
    fold__put(text, "}");
    for (int part = 0; part < (desc->state ? fold__parts_of(m->rule) : 1); part++)
        for (uint32_t index = 0; index < m->n_params; index++) {
            const fold__param_data *param = &fold__params(m)[index];
            if (!fold__is_saved(m, param, part))
                continue;
            fold__put(text, ",\"%s", fold__part_name(m->rule, part));
            fold__put_name(text, param->name, FOLD__WHOLE);
            fold__put(text, "\":{\"dtype\":\"F32\",\"shape\":");
            for (int axis = 0; axis < param->shape.rank; axis++)
                fold__put(text, "%c%d", axis ? ',' : '[', param->shape.dim[axis]);
            fold__put(text, "],\"data_offsets\":[%llu,%llu]}", at, at + 4ull * param->size);
            at += 4ull * param->size;
        }
    fold__put(text, "}");
}

static int fold__count_bytes(const void *bytes, size_t size, void *count)
{
    (void)bytes;
    *(size_t *)count += size;
    return 0;
}

/* Writes floats, little-endian; nonzero when the writer stopped. */
static int fold__write_floats(fold_writer *write, void *user, const float *values, size_t count)
{
    enum { PIECE = 64 };
    unsigned char bytes[PIECE * 4];
    for (size_t at = 0, part; at < count; at += part) {
        part = fold__min_size(count - at, PIECE);
        for (size_t i = 0; i < part; i++) {
            uint32_t bits;
            memcpy(&bits, values + at + i, 4);
            for (int byte = 0; byte < 4; byte++)
                bytes[4 * i + (size_t)byte] = (unsigned char)(bits >> 8 * byte);
        }
        if (write(bytes, part * 4, user))
            return 1;
    }
    return 0;
}

/* Returns FOLD_IO when the writer stopped; the caller then says so. Other errors are the model's already. */
static fold_status fold__write_file(fold_model *m, fold_writer *write, void *user, const fold_save_desc *desc)
{
    const fold_save_desc options = desc ? *desc : fold_save_desc_default();
    const int parts = options.state ? fold__parts_of(m->rule) : 1;
    fold__text text;
    size_t length = 0;
    unsigned char head[8];
    if (!fold__can_save(m, &options) || !fold__states_ready(m, parts - 1))
        return m->error.status;
    fold__text_start(&text, fold__count_bytes, &length, FOLD__QUOTE_JSON);
    fold__put_header(&text, m, &options);
    fold__text_end(&text);
    const size_t padded = fold__round_up(length, 8);
    if (padded > FOLD__HEADER_LIMIT)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "save: names and config take over 100 MB");
    if (m->error.status)
        return m->error.status;
    for (int byte = 0; byte < 8; byte++)
        head[byte] = (unsigned char)((uint64_t)padded >> 8 * byte);
    fold__text_start(&text, write, user, FOLD__QUOTE_JSON);
    fold__put_bytes(&text, (const char *)head, sizeof head);
    fold__put_header(&text, m, &options);
    fold__put_spaces(&text, length, padded);
    if (fold__text_end(&text))
        return FOLD_IO;
    for (int part = 0; part < parts; part++)
        for (uint32_t index = 0; index < m->n_params; index++) {
            const fold__param_data *param = &fold__params(m)[index];
            if (!fold__is_saved(m, param, part))
                continue;
            if (fold__write_floats(write, user, fold__part(m, part) + param->at, param->size))
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
                         "save: '%.120s.tmp' and %d more are there, of savers at work or that died", path,
                         FOLD__DRAFTS - 1);
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

/* Writes a draft and gives it the file's name. `draft` is memory for the draft's own name. */
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

static int fold__json_fail(fold__json *json, const char *problem)
{
    if (!json->problem)
        json->problem = problem;
    return 0;
}
static void fold__json_blanks(fold__json *json) { json->at += strspn(json->at, " \t\n\r"); }
/* Whether this character comes next; then it is passed. */
static int fold__json_next(fold__json *json, char character)
{
    fold__json_blanks(json);
    if (*json->at != character)
        return 0;
    json->at++;
    return 1;
}
static int fold__json_take(fold__json *json, char character)
{
    static const char *const expected[] = { "expected {",       "expected }", "expected [",
                                            "expected ]",       "expected :", "expected a comma",
                                            "expected a string" };
    static const char what[] = "{}[]:,\"";
    return fold__json_next(json, character) ||
           fold__json_fail(json, expected[strchr(what, character) - what]);
}

/* Four hexadecimal digits; more than 0xffff when they are not there. */
static uint32_t fold__json_hex(fold__json *json)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t code = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        const char *digit = *json->at ? strchr(digits, *json->at) : NULL;
        if (!digit)
            return 0x10000;
        code = code << 4 | ((uint32_t)(digit - digits) & 15);
    }
    return code;
}

/* What comes after a backslash, as UTF-8. */
static int fold__json_escape(fold__json *json, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char character = *json->at++, *simple = character ? strchr(from, character) : NULL;
    if (simple) {
        *(*out)++ = to[simple - from];
        return 1;
    }
    uint32_t code = character == 'u' ? fold__json_hex(json) : 0x10000;
    if (code >= 0xd800 && code < 0xdc00 && json->at[0] == '\\' && json->at[1] == 'u') {
        json->at += 2;
        const uint32_t low = fold__json_hex(json);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00)) : 0;
    } else if ((code >= 0xd800 && code < 0xe000) || code > 0xffff) {
        code = 0;
    }
    if (!code)
        return fold__json_fail(json, "a string has an escape that is no character"); /* a zero byte neither */
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    *(*out)++ = (char)(lead[more] | code >> 6 * more);
    for (int i = more; i-- > 0;)
        *(*out)++ = (char)(0x80 | (code >> 6 * i & 0x3f));
    return 1;
}

/* A string, or NULL when there is none or it is not text. */
static char *fold__json_string(fold__json *json)
{
    if (!fold__json_take(json, '"'))
        return NULL;
    char *const text = json->at, *out = text;
    while (*json->at != '"') {
        const int count = fold__utf8(json->at);
        if (!count || (unsigned char)*json->at < 32)
            fold__json_fail(json, "a string is not UTF-8 text, or does not end");
        if (json->problem)
            return NULL;
        if (*json->at == '\\') {
            json->at++;
            if (!fold__json_escape(json, &out))
                return NULL;
            continue;
        }
        for (int i = 0; i < count; i++)
            *out++ = *json->at++;
    }
    json->at++;
    *out = 0;
    return text;
}

static int fold__json_number(fold__json *json, uint64_t *number)
{
    const int zero = fold__json_next(json, '0');
    *number = 0;
    if (zero)
        return (*json->at < '0' || *json->at > '9') || fold__json_fail(json, "a number begins with 0");
    if (*json->at < '1' || *json->at > '9')
        return fold__json_fail(json, "expected a whole number");
    for (; *json->at >= '0' && *json->at <= '9'; json->at++) {
        if (*number > UINT64_C(900000000000000000))
            return fold__json_fail(json, "a number is out of range");
        *number = *number * 10 + (uint64_t)(*json->at - '0');
    }
    return 1;
}

/* A tensor of a file. */
typedef struct fold__tensor {
    const char *name;
    int dtype;           /* index into fold__dtypes */
    int part;            /* of the parameter: see fold__part */
    fold_shape shape;    /* a rank above 4 is 5 here, and dimensions above INT_MAX are INT_MAX */
    uint32_t param;      /* 1 + the parameter that it is loaded into; 0: none */
    uint64_t begin, end; /* of its bytes in the file's data */
    const unsigned char *data;
} fold__tensor;

/* A shape; `count` gets the product of its dimensions. */
static int fold__json_shape(fold__json *json, fold_shape *shape, uint64_t *count)
{
    uint64_t dim;
    *count = 1;
    if (!fold__json_take(json, '['))
        return 0;
    do {
        if (!shape->rank && fold__json_next(json, ']')) {
            shape->rank = shape->dim[0] = 1;
            return 1;
        } /* Python's scalars are [] */
        if (!fold__json_number(json, &dim))
            return 0;
        if (dim && *count > INT64_MAX / dim)
            return fold__json_fail(json, "a shape overflows");
        *count *= dim;
        if (shape->rank < FOLD_MAX_RANK)
            shape->dim[shape->rank] = dim > INT_MAX ? INT_MAX : (int)dim;
        if (shape->rank <= FOLD_MAX_RANK)
            shape->rank++;
    } while (fold__json_next(json, ','));
    return fold__json_take(json, ']');
}

static int fold__json_offsets(fold__json *json, fold__tensor *tensor)
{
    return fold__json_take(json, '[') && fold__json_number(json, &tensor->begin) &&
           fold__json_take(json, ',') && fold__json_number(json, &tensor->end) && fold__json_take(json, ']');
}

static int fold__json_tensor(fold__json *json, fold__tensor *tensor)
{
    static const char *const member[] = { "dtype", "shape", "data_offsets" };
    unsigned seen = 0;
    uint64_t count = 0;
    memset(tensor, 0, sizeof *tensor);
    if (!fold__json_take(json, '{'))
        return 0;
    do {
        int which = 0;
        const char *key = fold__json_string(json);
        if (!key || !fold__json_take(json, ':'))
            return 0;
        while (which < 3 && strcmp(key, member[which]))
            which++;
        if (which == 3 || (seen & 1u << which))
            return fold__json_fail(json, "a tensor has a member twice, or one that the format has not");
        seen |= 1u << which;
        if (which == 1 && !fold__json_shape(json, &tensor->shape, &count))
            return 0;
        if (which == 2 && !fold__json_offsets(json, tensor))
            return 0;
        if (which)
            continue;
        if (!(key = fold__json_string(json)))
            return 0;
        while (tensor->dtype < FOLD__DTYPES - 1 && strcmp(key, fold__dtypes[tensor->dtype].name))
            tensor->dtype++;
    } while (fold__json_next(json, ','));
    const uint64_t width = (uint64_t)fold__dtypes[tensor->dtype].bytes;
    if (seen != 7)
        return fold__json_fail(json, "a tensor lacks dtype, shape or data_offsets");
    if (tensor->end < tensor->begin ||
        (width && ((tensor->end - tensor->begin) % width || (tensor->end - tensor->begin) / width != count)))
        return fold__json_fail(json, "data_offsets do not fit the type and shape");
    return fold__json_take(json, '}');
}

enum { FOLD__F_HEADER, FOLD__F_TENSORS, FOLD__F_ORDER, FOLD__F_STAGE, FOLD__F_COUNT }; /* arrays of a file */

/* A file that is being loaded. */
typedef struct fold__file {
    fold_model *model; /* NULL: it is only listed */
    fold__error *error;
    fold__arena arena;
    fold__array arrays[FOLD__F_COUNT];
    fold_load_desc desc;
    fold_reader *read; /* NULL: `bytes` are what is left of a block of memory */
    void *user;
    const unsigned char *bytes;
    size_t left;
    fold__tensor *tensor;
    uint32_t *order, count;
    const char *optimizer, *steps, *config; /* of the metadata; NULL: not there */
    int rule;
    uint64_t n_steps;
} fold__file;

static int fold__json_metadata(fold__json *json, fold__file *file)
{
    if (!fold__json_take(json, '{'))
        return 0;
    if (fold__json_next(json, '}'))
        return 1;
    do {
        const char *key = fold__json_string(json);
        const char *text = key && fold__json_take(json, ':') ? fold__json_string(json) : NULL;
        if (!text)
            return 0;
        const char **want = !strcmp(key, "optimizer") ? &file->optimizer : NULL;
        if (!strcmp(key, "steps"))
            want = &file->steps;
        if (!strcmp(key, "config"))
            want = &file->config;
        if (want && *want)
            return fold__json_fail(json, "the metadata have a key twice");
        if (want)
            *want = text;
    } while (fold__json_next(json, ','));
    return fold__json_take(json, '}');
}

static int fold__json_header(fold__json *json, fold__file *file, size_t length)
{
    int metadata = 0;
    if (*json->at != '{')
        return fold__json_fail(json, "expected {"); /* no space before it */
    json->at++;
    if (!fold__json_next(json, '}')) {
        do {
            const char *name = fold__json_string(json);
            if (!name || !fold__json_take(json, ':'))
                return 0;
            if (strcmp(name, "__metadata__")) {
                if (!fold__json_tensor(json, &file->tensor[file->count]))
                    return 0;
                file->tensor[file->count++].name = name;
            } else if (metadata++) {
                return fold__json_fail(json, "a second __metadata__");
            } else if (!fold__json_metadata(json, file)) {
                return 0;
            }
        } while (fold__json_next(json, ','));
        if (!fold__json_take(json, '}'))
            return 0;
    }
    fold__json_blanks(json);
    return (size_t)(json->at - json->start) == length ||
           fold__json_fail(json, "something follows the last }");
}

static int fold__by_name(const void *tensors, uint32_t one, uint32_t other)
{
    const fold__tensor *tensor = (const fold__tensor *)tensors;
    return strcmp(tensor[one].name, tensor[other].name) < 0;
}
static int fold__by_place(const void *tensors, uint32_t one, uint32_t other)
{
    const fold__tensor *tensor = (const fold__tensor *)tensors;
    return tensor[one].begin != tensor[other].begin ? tensor[one].begin < tensor[other].begin
                                                    : tensor[one].end < tensor[other].end;
}

/* -- loading --------------------------------------------------------------------------------- */

FOLD__ZEROS_BY_DEFAULT(fold_load_desc)

static int fold__load_fail(fold__file *file, fold_status status, const char *format, ...) FOLD__PRINTF(3, 4);
static int fold__load_fail(fold__file *file, fold_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold__fail_v(file->error, status, format, args);
    va_end(args);
    return 0;
}

/* A name for messages: short, and without what would move a terminal's cursor. */
enum { FOLD__SHORT = 64 };
static const char *fold__shorten(char out[FOLD__SHORT], const char *name)
{
    size_t at = 0;
    for (int count; *name && at + 8 < FOLD__SHORT; name += count) {
        count = fold__utf8(name);
        const int plain = count > 1 || (count && (unsigned char)*name >= 32 && *name != 127);
        if (plain)
            memcpy(out + at, name, (size_t)count);
        else
            out[at] = '?';
        at += plain ? (size_t)count : 1;
        if (!count)
            count = 1;
    }
    snprintf(out + at, FOLD__SHORT - at, "%s", *name ? ".." : "");
    return out;
}

/* Array `which` of the file with room for so many bytes, or NULL when there is no memory. */
static char *fold__file_need(fold__file *file, int which, size_t bytes)
{
    if (fold__arena_need(&file->arena, which, bytes))
        return file->arrays[which].data;
    fold__load_fail(file, FOLD_NO_MEMORY, "load: out of memory");
    return NULL;
}

/* Reads the next `count` bytes into `to`. */
static int fold__file_read(fold__file *file, void *to, size_t count)
{
    if (file->read ? file->read(to, count, file->user) != count : count > file->left)
        return fold__load_fail(file, FOLD_IO, "load: the file ends too early, or cannot be read");
    if (file->read)
        return 1;
    memcpy(to, file->bytes, count);
    file->bytes += count;
    file->left -= count;
    return 1;
}

/* Reads the header's text. Memory for it grows as its bytes come: a wrong length costs nothing. */
static char *fold__read_header(fold__file *file, size_t length)
{
    enum { FIRST = 1 << 16 };
    size_t have = 0;
    char *bytes;
    do {
        const size_t part = file->read ? fold__min_size(length - have, fold__max_size(have, FIRST)) : length;
        bytes = fold__file_need(file, FOLD__F_HEADER, have + part + 1);
        if (!bytes || !fold__file_read(file, bytes + have, part))
            return NULL;
        have += part;
    } while (have < length);
    bytes[length] = 0;
    return bytes;
}

/* Reads the header into the table of tensors, in order of their names, each but once. */
static int fold__load_header(fold__file *file)
{
    unsigned char head[8];
    char shown[FOLD__SHORT];
    uint64_t length = 0;
    if (!fold__file_read(file, head, sizeof head))
        return 0;
    for (int byte = 0; byte < 8; byte++)
        length |= (uint64_t)head[byte] << 8 * byte;
    if (length > FOLD__HEADER_LIMIT)
        return fold__load_fail(file, FOLD_IO,
                               "load: not a safetensors file (its header would have over 100 MB)");
    if (!file->read && length > file->left)
        return fold__load_fail(file, FOLD_IO, "load: the file ends too early");
    char *header = fold__read_header(file, (size_t)length);
    const size_t most = (size_t)length / FOLD__LEAST_TENSOR + 1;
    if (!header || !fold__file_need(file, FOLD__F_TENSORS, most * sizeof *file->tensor))
        return 0;
    if (!fold__file_need(file, FOLD__F_ORDER, most * sizeof *file->order))
        return 0;
    file->tensor = (fold__tensor *)(void *)file->arrays[FOLD__F_TENSORS].data;
    file->order = (uint32_t *)(void *)file->arrays[FOLD__F_ORDER].data;
    fold__json json = { header, header, NULL };
    if (!fold__json_header(&json, file, (size_t)length))
        return fold__load_fail(file, FOLD_IO, "load: not a safetensors file: %s (byte %lu of the header)",
                               json.problem, (unsigned long)(json.at - json.start));
    for (uint32_t i = 0; i < file->count; i++)
        file->order[i] = i;
    fold__sort(file->order, file->count, fold__by_name, file->tensor);
    for (uint32_t i = 1; i < file->count; i++) {
        const char *name = file->tensor[file->order[i]].name;
        if (strcmp(name, file->tensor[file->order[i - 1]].name))
            continue;
        return fold__load_fail(file, FOLD_IO, "load: '%s' is in the file twice", fold__shorten(shown, name));
    }
    return 1;
}

/* Compares a text with three parts joined. */
static int fold__compare_joined(const char *text, const char *const parts[3])
{
    for (int i = 0; i < 2; i++) {
        const size_t count = strlen(parts[i]);
        const int order = strncmp(text, parts[i], count);
        if (order)
            return order;
        text += count;
    }
    return strcmp(text, parts[2]);
}

static fold__tensor *fold__find_tensor(const fold__file *file, int part, const char *name)
{
    const char *const joined[3] = { fold__part_name(file->rule, part),
                                    file->desc.prefix ? file->desc.prefix : "", name };
    for (uint32_t low = 0, high = file->count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        fold__tensor *tensor = &file->tensor[file->order[middle]];
        const int order = fold__compare_joined(tensor->name, joined);
        if (!order)
            return tensor;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Joins a tensor and a part of a parameter. */
static int fold__match_part(fold__file *file, uint32_t index, int part)
{
    const fold__param_data *param = &fold__params(file->model)[index];
    fold__tensor *tensor = fold__find_tensor(file, part, param->name);
    char name[FOLD__SHORT];
    fold__shorten(name, param->name);
    if (!tensor) {
        if (file->desc.allow_missing || (part && !fold__trainable(file->model, param)))
            return 1;
        return fold__load_fail(file, FOLD_BAD_ARGUMENT, "load: %s%s is not in the file",
                               part ? "the optimiser's state of " : "", name);
    }
    if (tensor->dtype >= FOLD__DTYPES_READ)
        return fold__load_fail(file, FOLD_BAD_ARGUMENT,
                               "load: %s is of type %s; F32, F16, BF16 and F64 are read", name,
                               fold__dtypes[tensor->dtype].name);
    if (!fold__shape_same(&tensor->shape, &param->shape)) {
        char there[64] = "of more than 4 axes", here[64];
        if (tensor->shape.rank <= FOLD_MAX_RANK)
            fold__shape_text(there, sizeof there, 0, &tensor->shape);
        fold__shape_text(here, sizeof here, 0, &param->shape);
        return fold__load_fail(file, FOLD_BAD_SHAPE, "load: %s is %s in the file, %s in the model", name,
                               there, here);
    }
    tensor->param = index + 1;
    tensor->part = part;
    return 1;
}

/* What the metadata say of the optimiser. */
static int fold__load_rule(fold__file *file)
{
    if (file->model->inference)
        return fold__load_fail(file, FOLD_BAD_STATE,
                               "load: the model was made for inference and has no optimiser state");
    if (!file->optimizer && file->desc.allow_missing)
        return 1;
    if (!file->optimizer)
        return fold__load_fail(file, FOLD_BAD_ARGUMENT, "load: the file has no optimiser state");
    while (file->rule < FOLD__RULE_COUNT && strcmp(file->optimizer, fold__rule_name(file->rule)))
        file->rule++;
    const char *from = file->steps ? file->steps : "";
    size_t digits = 0;
    for (; digits < 18 && from[digits] >= '0' && from[digits] <= '9'; digits++)
        file->n_steps = file->n_steps * 10 + (uint64_t)(from[digits] - '0');
    if (file->rule < FOLD__RULE_COUNT && digits && !from[digits])
        return 1;
    return fold__load_fail(file, FOLD_IO,
                           "load: the metadata's `optimizer` or `steps` are not those of fold.h");
}

/* Finds every parameter's tensors, and looks at those left over. */
static int fold__load_match(fold__file *file)
{
    const char *prefix = file->desc.prefix ? file->desc.prefix : "";
    char shown[FOLD__SHORT];
    if (file->desc.state && !fold__load_rule(file))
        return 0;
    for (int part = 0; part < (file->desc.state ? fold__parts_of(file->rule) : 1); part++)
        for (uint32_t index = 0; index < file->model->n_params; index++)
            if (!fold__match_part(file, index, part))
                return 0;
    for (uint32_t i = 0; i < file->count && !file->desc.allow_unknown; i++) {
        const fold__tensor *tensor = &file->tensor[i];
        if (tensor->param || strncmp(tensor->name, prefix, strlen(prefix)) ||
            !strncmp(tensor->name, "optimizer.", 10))
            continue;
        return fold__load_fail(file, FOLD_BAD_ARGUMENT, "load: the model has no '%s', which is in the file",
                               fold__shorten(shown, tensor->name + strlen(prefix)));
    }
    const size_t config = (file->config ? strlen(file->config) : 0) + 1;
    if (file->desc.config && config > file->desc.config_size)
        return fold__load_fail(file, FOLD_BAD_ARGUMENT, "load: the file's config needs %lu bytes",
                               (unsigned long)config);
    return 1;
}

/* Finds the data of every tensor: where they lie in memory, else read to where they wait. They must fill the
 * file. */
static int fold__load_data(fold__file *file)
{
    char shown[FOLD__SHORT];
    uint64_t at = 0;
    size_t staged = 0;
    fold__sort(file->order, file->count, fold__by_place, file->tensor);
    for (uint32_t i = 0; i < file->count; i++) {
        const fold__tensor *tensor = &file->tensor[file->order[i]];
        if (tensor->begin != at)
            return fold__load_fail(file, FOLD_IO,
                                   "load: the data of '%s' do not begin where those before end",
                                   fold__shorten(shown, tensor->name));
        at = tensor->end;
        if (tensor->param)
            staged +=
                (size_t)(tensor->end - tensor->begin); /* at most 24 bytes for every value of the model */
    }
    if (!file->read && at != file->left)
        return fold__load_fail(file, FOLD_IO, "load: the file %s",
                               at > file->left ? "ends too early" : "has more than its data");
    if (file->read && !fold__file_need(file, FOLD__F_STAGE, staged + 1))
        return 0;
    unsigned char *to = (unsigned char *)file->arrays[FOLD__F_STAGE].data;
    for (uint32_t i = 0; i < file->count; i++) {
        fold__tensor *tensor = &file->tensor[file->order[i]];
        uint64_t left = file->read ? tensor->end - tensor->begin : 0;
        unsigned char skipped[256];
        tensor->data = file->read ? to : file->bytes + tensor->begin;
        if (tensor->param && left) {
            if (!fold__file_read(file, to, (size_t)left))
                return 0;
            to += left;
            left = 0;
        }
        for (size_t part; left; left -= part) {
            part = left < sizeof skipped ? (size_t)left : sizeof skipped;
            if (!fold__file_read(file, skipped, part))
                return 0;
        }
    }
    return 1;
}

static float fold__float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16 */
static float fold__half(uint32_t bits)
{
    const uint32_t sign = bits >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (!exponent)
        return (sign ? -1.0f : 1.0f) * (float)fraction / 16777216.0f;
    return fold__float_of(sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13);
}

FOLD__NOINLINE static void fold__read_floats(float *out, const unsigned char *in, size_t count, int dtype)
{
    const int width = fold__dtypes[dtype].bytes;
    for (size_t i = 0; i < count; i++, in += width) {
        uint64_t bits = 0;
        double wide;
        for (int byte = 0; byte < width; byte++)
            bits |= (uint64_t)in[byte] << 8 * byte;
        memcpy(&wide, &bits, sizeof wide);
        out[i] = dtype == 0   ? fold__float_of((uint32_t)bits)
                 : dtype == 1 ? fold__half((uint32_t)bits)
                 : dtype == 2 ? fold__float_of((uint32_t)bits << 16)
                              : (float)wide;
    }
}

/* Everything was checked: now the model is written. */
static void fold__load_values(fold__file *file)
{
    fold_model *m = file->model;
    const fold_param all = { 0, 0 };
    for (int which = FOLD__M_STATE1; which <= FOLD__M_STATE2 && file->desc.state; which++)
        if (m->arrays[which].data)
            memset(m->arrays[which].data, 0, m->arrays[which].need);
    const fold__fp saved = fold__fp_enter();
    for (uint32_t i = 0; i < file->count; i++) {
        const fold__tensor *tensor = &file->tensor[i];
        if (!tensor->param)
            continue;
        const fold__param_data *param = &fold__params(m)[tensor->param - 1];
        fold__read_floats(fold__part(m, tensor->part) + param->at, tensor->data, param->size, tensor->dtype);
    }
    fold__fp_leave(saved);
    if (file->desc.state) {
        m->rule = file->rule;
        m->steps = file->n_steps;
    }
    if (file->desc.config)
        snprintf(file->desc.config, file->desc.config_size, "%s", file->config ? file->config : "");
    for (uint32_t i = 0; i < file->count && file->desc.loaded; i++)
        *file->desc.loaded += file->tensor[i].param != 0;
    fold_values_write_end(m, all);
}

/* Loads a file. With `ends`, nothing may follow it. */
static fold_status fold__load_file(fold__file *file, int ends)
{
    char more;
    file->arena.array = file->arrays;
    int good = !file->model->error.status && fold__load_header(file) && fold__load_match(file) &&
               fold__load_data(file);
    if (good && ends && file->read(&more, 1, file->user))
        good = fold__load_fail(file, FOLD_IO, "load: the file has more than its data");
    if (good && fold__states_ready(file->model, file->desc.state ? fold__parts_of(file->rule) - 1 : 0))
        fold__load_values(file);
    fold__arena_free(&file->arena);
    return file->model->error.status;
}

static fold__file fold__file_of(const fold_model *m, fold_reader *read, void *user, const void *bytes,
                                size_t size)
{
    fold__file file;
    memset(&file, 0, sizeof file);
    file.arena.memory = m->arena.memory;
    file.arena.count = FOLD__F_COUNT;
    file.read = read;
    file.user = user;
    file.bytes = (const unsigned char *)bytes;
    file.left = size;
    return file;
}
static fold__file fold__file_to_load(fold_model *m, fold_reader *read, void *user, const void *bytes,
                                     size_t size, const fold_load_desc *desc)
{
    fold__file file = fold__file_of(m, read, user, bytes, size);
    file.desc = desc ? *desc : fold_load_desc_default();
    if (file.desc.loaded)
        *file.desc.loaded = 0;
    file.model = m;
    file.error = &m->error;
    return file;
}

FOLD_API fold_status fold_model_load_memory(fold_model *m, const void *bytes, size_t size,
                                            const fold_load_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    if (!bytes)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "load: no bytes");
    fold__file file = fold__file_to_load(m, NULL, NULL, bytes, size, desc);
    return fold__load_file(&file, 0);
}
FOLD_API fold_status fold_model_load_from(fold_model *m, fold_reader *read, void *user,
                                          const fold_load_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    if (!read)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "load: no reader");
    fold__file file = fold__file_to_load(m, read, user, NULL, 0, desc);
    return fold__load_file(&file, 0);
}

static void fold__put_tensors(fold__text *text, const fold__file *file)
{
    size_t widest = 10, bytes = 0;
    for (uint32_t i = 0; i < file->count; i++)
        widest = fold__max_size(widest, fold__min_size(strlen(file->tensor[i].name), 40));
    fold__put(text, "tensors");
    fold__put_spaces(text, 7, widest);
    fold__put(text, "  shape               type           bytes\n");
    for (uint32_t i = 0; i < file->count; i++) {
        const fold__tensor *tensor = &file->tensor[file->order[i]];
        char shape[64] = "of rank 5 or more";
        const size_t size = (size_t)(tensor->end - tensor->begin);
        if (tensor->shape.rank <= FOLD_MAX_RANK)
            fold__shape_text(shape, sizeof shape, 0, &tensor->shape);
        fold__put_name(text, tensor->name, FOLD__WHOLE);
        fold__put_spaces(text, strlen(tensor->name), widest);
        fold__put(text, "  %-18s  %-8s%12lu\n", shape, fold__dtypes[tensor->dtype].name, (unsigned long)size);
        bytes += size;
    }
    fold__put_count(text, file->count, "tensor");
    fold__put(text, ", %lu bytes of data", (unsigned long)bytes);
    if (file->optimizer && file->steps) {
        fold__put(text, "; optimizer ");
        fold__put_name(text, file->optimizer, FOLD__WHOLE);
        fold__put(text, ", steps ");
        fold__put_name(text, file->steps, FOLD__WHOLE);
    }
    if (file->config)
        fold__put(text, "; config of %lu bytes", (unsigned long)strlen(file->config));
    fold__put_bytes(text, "\n", 1);
}

/* What a file holds, or what keeps it from being read: `problem`, or what its header says when that is "". */
static fold_status fold__print_file(fold__file *file, const char *problem, fold_writer *write, void *user)
{
    fold__text text;
    fold__error error = { FOLD_OK, "" };
    file->error = &error;
    file->arena.array = file->arrays;
    fold__text_start(&text, write, user, FOLD__QUOTE_NONE);
    if (*problem)
        fold__put(&text, "%s\n", problem);
    else if (fold__load_header(file))
        fold__put_tensors(&text, file);
    else
        fold__put(&text, "%s\n", error.text);
    const fold_status status = fold__text_end(&text);
    fold__arena_free(&file->arena);
    return *problem ? FOLD_IO : error.status ? error.status : status;
}
FOLD_API fold_status fold_model_print_file_memory(const fold_model *m, const void *bytes, size_t size,
                                                  fold_writer *write, void *user)
{
    if (!m || !bytes)
        return FOLD_BAD_ARGUMENT;
    fold__file file = fold__file_of(m, NULL, NULL, bytes, size);
    return fold__print_file(&file, "", write, user);
}

#ifndef FOLD_NO_STDIO
static size_t fold__from_file(void *bytes, size_t count, void *file)
{
    return fread(bytes, 1, count, (FILE *)file);
}

FOLD_API fold_status fold_model_load(fold_model *m, const char *path, const fold_load_desc *desc)
{
    if (!m)
        return FOLD_BAD_ARGUMENT;
    fold__file file = fold__file_to_load(m, fold__from_file, NULL, NULL, 0, desc);
    if (!path)
        fold__model_fail(m, FOLD_BAD_ARGUMENT, "load: no path");
    if (m->error.status)
        return m->error.status;
    errno = 0;
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        fold__path_fail(m, "load", path);
        return m->error.status;
    }
    file.user = stream;
    fold__load_file(&file, 1);
    fclose(stream);
    return m->error.status;
}

FOLD_API fold_status fold_model_print_file(const fold_model *m, const char *path, fold_writer *write,
                                           void *user)
{
    char problem[200] = "";
    if (!m || !path)
        return FOLD_BAD_ARGUMENT;
    errno = 0;
    FILE *stream = fopen(path, "rb");
    if (!stream)
        snprintf(problem, sizeof problem, "load: '%.120s': %.60s", path, fold__path_problem());
    fold__file file = fold__file_of(m, fold__from_file, stream, NULL, 0);
    const fold_status status = fold__print_file(&file, problem, write, user);
    if (stream)
        fclose(stream);
    return status;
}
#endif

/* ==== room: training =========================================================================
   Owns: the loop of fold_fit. Calls: contexts, running, optimisers, files, the model. Must not know how they
   work. */

typedef struct fold__training {
    fold_fit_desc desc;
    fold_fit_report report;
    fold_model *model;
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
    fold_fit_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.batch = 32;
    desc.epochs = 10;
    return desc;
}

static const char *fold__fit_problem(const fold_fit_desc *desc)
{
    if (!desc->loss)
        return "no function records the loss";
    if (desc->samples < 1)
        return "samples must be at least 1";
    if (desc->batch < 0)
        return "the size of a batch is negative";
    if (desc->epochs < 0 || desc->first_epoch < 0 || desc->patience < 0)
        return "a count of epochs is negative";
    if (!!desc->sgd + !!desc->adagrad + !!desc->rmsprop + !!desc->adam != 1)
        return "exactly one optimiser must be given";
    return NULL;
}

static int fold__fit_start(fold__training *training)
{
    fold_ctx *f = training->desc.ctx;
    const char *problem = fold__fit_problem(&training->desc);
    fold_ctx_reset(f);
    if (problem)
        fold__fail(f, FOLD_BAD_ARGUMENT, "fit: %s", problem);
    if (fold__broken(f))
        return 0;
    training->arena.memory = training->model->arena.memory;
    training->arena.array = training->arrays;
    training->arena.count = 2;
    training->best_bytes = training->desc.keep_best ? training->model->span * sizeof(float) : 0;
    const size_t count = (size_t)training->desc.samples;
    const size_t batch = fold__min_size((size_t)training->desc.batch, count);
    const size_t bytes = fold__size(count, sizeof *training->order, batch * sizeof *training->loss);
    if (!fold__arena_need(&training->arena, 0, bytes) ||
        !fold__arena_need(&training->arena, 1, training->best_bytes)) {
        fold__fail(f, FOLD_NO_MEMORY, "fit: out of memory");
        return 0;
    }
    training->order = (int *)(void *)training->arrays[0].data;
    training->best = (float *)(void *)training->arrays[1].data;
    training->loss = (fold_node *)(void *)(training->order + count);
    fold_grads_clear(training->model);
    return 1;
}

/* Fisher and Yates's shuffle, of the samples in their own order. */
static void fold__fit_order(fold__training *training)
{
    fold__random random = { fold__mix64(training->desc.seed ^
                                        fold__mix64((uint64_t)training->report.epoch + 1)) };
    for (int i = 0; i < training->desc.samples; i++)
        training->order[i] = i;
    for (int i = training->desc.samples; i > 1 && !training->desc.in_order; i--) {
        const int chosen = (int)(fold__random_next(&random) % (uint64_t)i), sample = training->order[chosen];
        training->order[chosen] = training->order[i - 1];
        training->order[i - 1] = sample;
    }
}

static fold_status fold__fit_step(fold__training *training)
{
    if (training->desc.clip > 0)
        fold_grads_clip(training->model, training->desc.clip);
    if (training->desc.sgd)
        return fold_sgd_step(training->model, training->desc.sgd);
    if (training->desc.adagrad)
        return fold_adagrad_step(training->model, training->desc.adagrad);
    return training->desc.rmsprop ? fold_rmsprop_step(training->model, training->desc.rmsprop)
                                  : fold_adam_step(training->model, training->desc.adam);
}

/* Trains on `count` samples of the order, from `first` on. */
static int fold__fit_batch(fold__training *training, int first, int count)
{
    fold_ctx *f = training->desc.ctx;
    const uint64_t start = fold__now(f);
    const uint64_t salt = fold__mix64(training->desc.seed + fold__mix64((uint64_t)training->report.epoch));
    fold_ctx_reset(f);
    for (int i = 0; i < count && !fold__broken(f); i++) {
        const int sample = training->order[first + i];
        fold_dropout_seed(f, salt ^ fold__mix64((uint64_t)sample));
        training->loss[i] = training->desc.loss(f, sample, training->desc.user);
        if (fold_node_is_null(training->loss[i]))
            fold__fail(f, FOLD_BAD_ARGUMENT, "fit: the loss of sample %d is the null node", sample);
    }
    if (fold__broken(f))
        return 0;
    const fold_node mean = fold_mean_n(f, training->loss, count);
    if (fold_backward(f, mean))
        return 0;
    training->sum += (double)fold_scalar(f, mean) * (double)count;
    if (fold__fit_step(training))
        return 0;
    training->ns += fold__now(f) - start;
    training->report.trained = first + count;
    training->report.loss = training->sum / (double)training->report.trained;
    training->report.per_second =
        training->ns ? (double)training->report.trained * 1e9 / (double)training->ns : 0;
    return 1;
}

#ifndef FOLD_NO_STDIO
static void fold__fit_save(fold__training *training, const char *path, int state)
{
    fold_save_desc desc = fold_save_desc_default();
    desc.state = state;
    desc.config = training->desc.config;
    if (path)
        fold_model_save(training->model, path, &desc);
}
#endif

/* The metric, what is kept for it, and whether to go on. */
static int fold__fit_epoch_end(fold__training *training)
{
    fold_fit_report *report = &training->report;
    const int smaller = !training->desc.metric || training->desc.smaller_is_better;
    report->metric =
        training->desc.metric ? training->desc.metric(training->model, training->desc.user) : report->loss;
    report->epoch_end = 1;
    if (fold__broken(training->desc.ctx))
        return 0;
    const int better = report->best_epoch < 0 ? report->metric == report->metric
                       : smaller              ? report->metric < report->best
                                              : report->metric > report->best;
    if (better) {
        report->best = report->metric;
        report->best_epoch = report->epoch;
        if (training->best)
            memcpy(training->best, fold__values(training->model), training->best_bytes);
    }
#ifndef FOLD_NO_STDIO
    if (better)
        fold__fit_save(training, training->desc.best_path, 0);
    fold__fit_save(training, training->desc.last_path, 1);
#endif
    if (fold__broken(training->desc.ctx))
        return 0;
    const int since =
        report->epoch - (report->best_epoch < 0 ? training->desc.first_epoch - 1 : report->best_epoch);
    if (training->desc.patience && since >= training->desc.patience)
        report->ended = FOLD_FIT_PATIENCE;
    if (training->desc.progress && training->desc.progress(report, training->desc.user) && !report->ended)
        report->ended = FOLD_FIT_PROGRESS;
    return !report->ended;
}

/* One epoch; whether to go on. */
static int fold__fit_epoch(fold__training *training)
{
    const int samples = training->desc.samples, batch = training->desc.batch;
    training->sum = 0;
    training->ns = 0;
    training->report.epoch_end = 0;
    fold__fit_order(training);
    for (int first = 0, count; first < samples; first += count) {
        count = batch < samples - first ? batch : samples - first;
        if (!fold__fit_batch(training, first, count))
            return 0;
        if (!training->desc.progress || !training->desc.progress(&training->report, training->desc.user))
            continue;
        training->report.ended = FOLD_FIT_PROGRESS;
        return 0;
    }
    return fold__fit_epoch_end(training);
}

FOLD_API fold_status fold_fit(const fold_fit_desc *desc, fold_fit_report *report)
{
    fold__training training;
    const fold_param all = { 0, 0 };
    if (!desc || !desc->ctx)
        return FOLD_BAD_ARGUMENT;
    memset(&training, 0, sizeof training);
    training.desc = *desc;
    if (!training.desc.batch)
        training.desc.batch = fold_fit_desc_default().batch;
    if (!training.desc.epochs)
        training.desc.epochs = fold_fit_desc_default().epochs;
    training.model = desc->ctx->model;
    training.report.epoch = training.desc.first_epoch;
    training.report.best_epoch = -1;
    training.report.metric = training.report.best = (double)NAN;
    if (fold__fit_start(&training))
        for (int i = 0; i < training.desc.epochs; i++) {
            training.report.epoch = training.desc.first_epoch + i;
            if (!fold__fit_epoch(&training))
                break;
        }
    if (fold__broken(desc->ctx))
        training.report.ended = FOLD_FIT_ERROR;
    if (training.report.best_epoch >= 0 && training.best) {
        memcpy(fold__values(training.model), training.best, training.best_bytes);
        fold_values_write_end(training.model, all);
    }
    fold__arena_free(&training.arena);
    if (report)
        *report = training.report;
    return fold_ctx_status(desc->ctx);
}

#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC pop_options
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif /* FOLD_IMPLEMENTATION */

/* ============================================================================================
   This software is available under two licences; choose the one you prefer.
   --------------------------------------------------------------------------------------------
   A - MIT License. Copyright (c) 2026 the fold.h authors

   Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
   associated documentation files (the "Software"), to deal in the Software without restriction, including
   without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
   copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
   following conditions: The above copyright notice and this permission notice shall be included in all
   copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF
   ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS
   FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE
   LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
   ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
   --------------------------------------------------------------------------------------------
   B - Public domain (www.unlicense.org)

   This is free and unencumbered software released into the public domain. Anyone is free to copy, modify,
   publish, use, compile, sell, or distribute this software, either in source code form or as a compiled
   binary, for any purpose, commercial or non-commercial, and by any means. In jurisdictions that recognize
   copyright laws, the author or authors of this software dedicate any and all copyright interest in the
   software to the public domain. We make this dedication for the benefit of the public at large and to the
   detriment of our heirs and successors. We intend this dedication to be an overt act of relinquishment in
   perpetuity of all present and future rights to this software under copyright law. THE SOFTWARE IS
   PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
   WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL
   THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT
   OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
   THE SOFTWARE.
   ============================================================================================ */
