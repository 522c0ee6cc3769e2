/* fold_onnx.h - loads networks from ONNX files into fold.h, such as the policy.onnx that robots and games
   ship. It uses public calls only.

   In one C or C++ file:  #define FOLD_ONNX_IMPLEMENTATION
                          #include "fold_onnx.h"
   Everywhere else:       #include "fold_onnx.h"

   Copy fold_onnx_ops.h too: the implementation includes it from the same folder. That file has what each op
   does; this one opens, records, saves and prints.

       fold_onnx *o = fold_onnx_open(m, "policy.onnx", NULL);
       if (!o) puts(fold_model_message(m));
       fold_onnx_value in = { "obs", observation, FOLD_NULL_NODE }, out = { "actions", NULL, FOLD_NULL_NODE };
       fold_onnx_record(o, f, &in, 1, NULL, &out, 1);                 // once for each agent
       fold_run(f, &out.node, 1);                                     // all agents together
       const float *actions = fold_value(f, out.node);

   Opening reads the file once and checks all shapes. If the file leaves the length of an axis open, such as
   the batch, it becomes 1; for any other open axis, such as the length of a sequence, give the length in a
   binding. Recording adds one sample to a context, with only the ops that the requested outputs need. So any
   number of agents can be batched, and the network can be run, replayed, trained, quantised and saved like
   any other. If the file fixes the batch to more than 1, that whole batch is one sample.

   Weights become parameters of the model, named as in the file. A weight that is stored in a different
   layout, such as the transpose of a matrix, gets ".turned" or ".part" after its name, so that PyTorch does
   not mistake it for the original: to save weights for PyTorch, use fold_onnx_save. Parameters can be
   trained, except these, which are frozen: subtrahends and divisors, such as the statistics of observations;
   exponents; the statistics of BatchNormalization; and constants computed from other constants.

   Values have the file's shapes. A recurrent state is an input and an output, each with a name: pass the last
   output in as the next input, or pass zeros to start from scratch.

   Ops that draw random numbers use a fold_random. Without one, a normal number is its mean and a choice is
   the most probable one, so actions have no noise. Tensors that feed such ops, such as logits, can be
   requested by name like outputs.

   If takes the branch that its condition chooses when the file is opened: the condition must be a constant,
   or be computed from shapes and bound inputs. Dropout drops nothing, even in training contexts. Pools have
   windows of any shape along up to three axes, without dilations, and do not return indices. Convolutions,
   including transposed ones, have one or two axes with equal dilations; a transposed one costs as much as an
   ordinary one whose output has the same size. Resize supports all modes except tf_crop_and_resize; linear
   and cubic modes multiply each axis by a matrix of weights, so they suit small images. Einsum takes one or
   two operands. The inputs of TopK and Range must be constants. Sin, Cos and Tan return NaN for magnitudes
   above 262144. Functions that the file defines are opened where they are called.

   Integers and booleans are stored as floats, which hold all integers up to 2^24 exactly. Casts to 8 bits
   wrap; additions and products of 8-bit integers are refused. If Gather's index is computed and out of range,
   which the specification calls an error, the result is NaN. QuantizeLinear and DequantizeLinear of constants
   make constants, so a quantised weight becomes a weight of floats.

   Errors: a broken file is refused. Tensors that depend on an unsupported part of a file are refused when
   they are requested; the file itself is refused only if all of its outputs are. The message names the op,
   the node and the reason. Half and double precision are computed in float; a Cast to half rounds.

   Memory comes from the model's allocator only, and there are no globals. The file is C99 and C++17 and works
   in every build of fold.h. The noise of choices, gradients of Erf and Pow, and Exp, Log, Sin and Cos of
   constants call the C library, so their bits depend on it.

   No gradient passes through ArgMax, ArgMin, OneHot, Multinomial, Floor, Ceil, Round, Sign, comparisons,
   And, Or, Xor, Not, IsNaN, Cast to integers or booleans, Div, Pow and Mod of integers, QuantizeLinear,
   DynamicQuantizeLinear, the index of Gather, and the condition of Where (fold_onnx_tensor.stops_gradient).
   It passes through all other ops. */

#ifndef FOLD_ONNX_H
#define FOLD_ONNX_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_onnx.h needs fold.h 0.4.0 or later"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fold_onnx fold_onnx;
enum { FOLD_ONNX_RANK = 8 };

/* Describes a tensor of the file. Its shape is that for a batch of 1, unless a binding says otherwise. */
typedef struct fold_onnx_tensor {
    const char *name;              /* NULL: there is no such tensor */
    int rank, dim[FOLD_ONNX_RANK]; /* a scalar has rank 0 */
    int count;                     /* of values; 0: nothing computes it, or the op that would is refused */
    int is_integer;                /* integers or booleans, which are stored as floats */
    int is_constant;
    int stops_gradient; /* no gradient passes through the op that computes it: see the list above */
} fold_onnx_tensor;

/* Gives an input of the file a shape, or makes it a constant. */
typedef struct fold_onnx_binding {
    const char *name;
    const float *values; /* of the constant, read while the file is opened; NULL: it stays an input */
    int has_shape;       /* 0: use the file's shape, with 1 for every axis that it leaves open */
    int rank, dim[FOLD_ONNX_RANK];
    int count; /* length of values; an input of a different size is refused. 0: not checked */
} fold_onnx_binding;

typedef struct fold_onnx_desc {
    const char *prefix; /* begins all parameter names, such as "left.": a model can hold several files */
    const fold_onnx_binding *bindings;
    int n_bindings;
    size_t max_bytes; /* limit on memory while the file is opened, including parameters; 0: 64 MB plus 8
                         times the file's size */
} fold_onnx_desc;
FOLD_API fold_onnx_desc fold_onnx_desc_default(void); /* all zero */

#ifndef FOLD_NO_STDIO
/* Opens an .onnx file; desc may be NULL. Separate files of weights are read from the same folder or its
   subfolders. Returns NULL on failure; the error is set on the model. */
FOLD_API fold_onnx *fold_onnx_open(fold_model *m, const char *path, const fold_onnx_desc *desc);
#endif
/* Opens a file in memory. The bytes may be freed when the call returns. */
FOLD_API fold_onnx *fold_onnx_open_memory(fold_model *m, const void *bytes, size_t size,
                                          const fold_onnx_desc *desc);
/* Writes a copy of an .onnx file with the current values of its weights, so that PyTorch or ONNX Runtime can
   read what was trained here. All other bytes stay the same. The file must have been opened in m with the
   same desc. Returns the model's status. Errors: a weight that has changed but is not stored as float32 in
   the file itself; a weight with two parameters, such as a matrix and its transpose, that were trained to
   different values. */
FOLD_API fold_status fold_onnx_save_to(fold_model *m, const void *bytes, size_t size,
                                       const fold_onnx_desc *desc, fold_writer *write, void *writer);
#ifndef FOLD_NO_STDIO
FOLD_API fold_status fold_onnx_save(fold_model *m, const char *from, const char *to,
                                    const fold_onnx_desc *desc);
#endif
/* Frees o, which may be NULL. First free the contexts that recorded it; free the model afterwards. */
FOLD_API void fold_onnx_close(fold_onnx *o);

/* Inputs and outputs, in the file's order. Weights and inputs that are bound to values are not included. */
FOLD_API int fold_onnx_input_count(const fold_onnx *o);
FOLD_API fold_onnx_tensor fold_onnx_input(const fold_onnx *o, int index);
FOLD_API int fold_onnx_output_count(const fold_onnx *o);
FOLD_API fold_onnx_tensor fold_onnx_output(const fold_onnx *o, int index);
FOLD_API fold_onnx_tensor fold_onnx_find(const fold_onnx *o, const char *name); /* any tensor, by name */
/* The file's metadata, such as joint names and scales; NULL if there is no such index or key. */
FOLD_API int fold_onnx_metadata_count(const fold_onnx *o);
FOLD_API const char *fold_onnx_metadata_key(const fold_onnx *o, int index);
FOLD_API const char *fold_onnx_metadata(const fold_onnx *o, const char *key);

/* A named tensor of one sample. For an input, set `values`, which are copied, or else `node`, with the same
   number of values. To record many samples at the cost of one, pass a list with one row per sample for every
   input that differs between samples. Everything that depends on such an input is then also a list. */
typedef struct fold_onnx_value {
    const char *name;
    const float *values;
    fold_node node;
} fold_onnx_value;
/* Records one sample and sets the node of each element of `out`, whose names may be those of outputs or of
   any other tensors. Only the inputs that these need are required. To supply noise, pass it as an input with
   the name of the random op's output; otherwise it is drawn from `chance`, or left out if that is NULL. It is
   drawn for a single sample, so drawing noise for lists is an error. Do not record the same o on two threads
   at once. Errors, set on the context: a name that is not in the file; a missing input. */
FOLD_API fold_status fold_onnx_record(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in, int n_in,
                                      fold_random *chance, fold_onnx_value *out, int n_out);
#ifndef FOLD_NO_TEXT
/* Prints the user-defined ops of fold_onnx_record as C: use it as print_op of a fold_to_c_desc
   (examples/fold_to_c.h). Returns 1 for any other op. */
FOLD_API int fold_onnx_print(const fold_seen *seen, fold_writer *write, void *writer, void *user);
#endif

#ifdef __cplusplus
}
#endif

#endif /* FOLD_ONNX_H */

#if defined(FOLD_ONNX_IMPLEMENTATION) && !defined(FOLD__ONNX_IMPLEMENTED)
#define FOLD__ONNX_IMPLEMENTED
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#ifndef FOLD_NO_STDIO
#include <stdio.h>
#endif

/* Every product and every sum is rounded separately, so results do not depend on the compiler or its
   flags. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

enum { FOLD_ONNX__MOST_VALUES = 1 << 24, FOLD_ONNX__MOST_OUT = 64, FOLD_ONNX__FILTERS = 1024 };

/* ---- an open file ----------------------------------------------------------------------------- */

typedef struct fold_onnx__span {
    const unsigned char *at, *end;
} fold_onnx__span;

/* Memory that is freed as a whole, in chunks of the model's allocator. */
typedef struct fold_onnx__chunk {
    struct fold_onnx__chunk *next;
    size_t size;
} fold_onnx__chunk;
typedef struct fold_onnx__arena {
    fold_onnx__chunk *first;
    size_t used;
} fold_onnx__arena;

/* An ONNX type: the size of a raw value, and the protobuf field and wire type of listed values. */
typedef struct fold_onnx__type {
    int type, size, is_integer, field, wire; /* is_integer 2: of 8 bits */
} fold_onnx__type;
/* wire types of protobuf */
enum { FOLD_ONNX__VARINT = 0, FOLD_ONNX__EIGHT = 1, FOLD_ONNX__BYTES = 2, FOLD_ONNX__FOUR = 5 };
enum {
    FOLD_ONNX__FLOAT = 1,
    FOLD_ONNX__UINT8,
    FOLD_ONNX__INT8,
    FOLD_ONNX__UINT16,
    FOLD_ONNX__INT16,
    FOLD_ONNX__INT32,
    FOLD_ONNX__INT64,
    FOLD_ONNX__BOOL = 9,
    FOLD_ONNX__HALF,
    FOLD_ONNX__DOUBLE,
    FOLD_ONNX__UINT32,
    FOLD_ONNX__UINT64
};
static const fold_onnx__type fold_onnx__types[] = {
    { FOLD_ONNX__FLOAT, 4, 0, 4, FOLD_ONNX__FOUR },     { FOLD_ONNX__DOUBLE, 8, 0, 10, FOLD_ONNX__EIGHT },
    { FOLD_ONNX__HALF, 2, 0, 5, FOLD_ONNX__VARINT },    { FOLD_ONNX__INT64, 8, 1, 7, FOLD_ONNX__VARINT },
    { FOLD_ONNX__INT32, 4, 1, 5, FOLD_ONNX__VARINT },   { FOLD_ONNX__BOOL, 1, 1, 5, FOLD_ONNX__VARINT },
    { FOLD_ONNX__UINT8, 1, 2, 5, FOLD_ONNX__VARINT },   { FOLD_ONNX__INT8, 1, 2, 5, FOLD_ONNX__VARINT },
    { FOLD_ONNX__UINT16, 2, 1, 5, FOLD_ONNX__VARINT },  { FOLD_ONNX__INT16, 2, 1, 5, FOLD_ONNX__VARINT },
    { FOLD_ONNX__UINT32, 4, 1, 11, FOLD_ONNX__VARINT }, { FOLD_ONNX__UINT64, 8, 1, 11, FOLD_ONNX__VARINT }
};

/* a shape as in the file */
typedef struct fold_onnx__dims {
    int rank, dim[FOLD_ONNX_RANK];
} fold_onnx__dims;

enum {
    FOLD_ONNX__UNKNOWN,
    FOLD_ONNX__INPUT,
    FOLD_ONNX__COMPUTED,
    FOLD_ONNX__FIXED,
    FOLD_ONNX__REFUSED
}; /* where a value comes from */
typedef struct fold_onnx__value {
    const char *name;
    int origin, maker; /* maker: 1 + the index of the node that makes it; 0: none */
    int stands_for;    /* for a function's input: the value passed by the call; -1: it is left out */
    const char *why;   /* why it is refused */
    fold_onnx__dims dims;
    int count;
    fold_shape shape; /* of its fold_node */
    int is_integer;   /* or boolean; 2: of 8 bits */
    int is_frozen;    /* a constant that must not be trained */
    /* the elements of a constant, in exactly one of these three */
    const unsigned char *raw; /* as in the file, little-endian, of this type */
    const float *floats;
    double *numbers;
    const fold_onnx__type *type;
    fold_param param; /* of a constant that steps read as a value */
    int step;         /* the step that makes it */
    char *seen;       /* while a tensor is saved: whether a parameter holds the element */
    fold_node node;   /* while a sample is recorded */
    int wanted, given;
} fold_onnx__value;

/* Brings a value into a different shape and order. Most moves take a window, a single run of adjacent values:
   then fold.h's slices and reshapes do it. Others need `op`. */
typedef struct fold_onnx__move {
    fold_shape shape;
    int from, count; /* the first value, if the move is a window, and the number of values */
    int is_window, is_part, is_permutation;
    fold_op op;        /* if it is not a window */
    const int *source; /* where each run of `run` values comes from; -1: padding */
    int run, has_pad;
    float pad;
} fold_onnx__move;

/* The calls of fold.h that make up an op, in this order; NULL: left out. */
typedef struct fold_onnx__calls {
    fold_node (*one)(fold_ctx *f, fold_node x);
    fold_node (*two)(fold_ctx *f, fold_node a, fold_node b); /* joins all inputs, from the left */
    fold_node (*with)(fold_ctx *f, fold_node x, float real);
    fold_node (*between)(fold_ctx *f, fold_node x, float low, float high);
    fold_node (*along)(fold_ctx *f, fold_node x, int axis);
    fold_node (*after)(fold_ctx *f, fold_node x);
} fold_onnx__calls;

typedef struct fold_onnx__formula {
    double (*of)(double a, double b);
    const char *text; /* the same in C */
} fold_onnx__formula;

/* A row in the table of ops. */
typedef struct fold_onnx__op {
    const char *type;
    int least, most;        /* number of inputs */
    const char *attributes; /* the supported ones; a node with any other is refused */
    int (*open)(fold_onnx *o, const fold_onnx__value *from); /* its first input */
    fold_onnx__calls calls;
    const fold_onnx__formula *number; /* for constants, and for ops that fold.h lacks */
    float alpha, beta;                /* default values of alpha, and of beta or gamma */
    int flags;
} fold_onnx__op;
/* INTEGERS: reads integers that are not constant. COUNTS: but not those of 8 bits, since results would wrap.
   TRUTH: makes truth values. FREEZES: constants after the first input are not trained. STOPS: passes no
   gradient. EMPTY: the first input may be empty. LEAVES: the first output may be left out. */
enum { FOLD_ONNX__INTEGERS = 1, FOLD_ONNX__TRUTH = 2, FOLD_ONNX__FREEZES = 4, FOLD_ONNX__STOPS = 8 };
enum { FOLD_ONNX__COUNTS = 1 | 16, FOLD_ONNX__EMPTY = 32, FOLD_ONNX__LEAVES = 64 };
#define FOLD_ONNX__OP(type, least, most, attributes, open, number, alpha, beta, flags, ...) \
    {                                                                                       \
        type, least, most, attributes, open, { __VA_ARGS__ }, number, alpha, beta, flags    \
    }
#define FOLD_ONNX__ROW(type, least, most, attributes, open, number, flags)                                \
    FOLD_ONNX__OP(type, least, most, attributes, open, number, 0, 0, flags, NULL, NULL, NULL, NULL, NULL, \
                  NULL)

/* Records a step whose operands are `in`, and writes its results to `out`. */
struct fold_onnx__step;
typedef struct fold_onnx__layer fold_onnx__layer;
typedef void fold_onnx__recorder(fold_onnx *o, const struct fold_onnx__step *s, const fold_node *in,
                                 fold_node *out);
typedef struct fold_onnx__step {
    fold_onnx__recorder *record;
    const fold_onnx__op *op; /* of the file's node */
    const int *from;         /* the inputs of that node, while the file is opened */
    fold_onnx__calls calls;
    const fold_onnx__move *move;
    int *in, n_in, n_out, out[3]; /* values */
    int number[5];                /* settings, whose meaning depends on `record` */
    float real[2];
    const fold_onnx__layer *layer;
    fold_conv_desc conv;
    fold_param param[14], *filters;
    int n_filters; /* of a convolution: one per group */
    fold_op own;
    int stops;        /* no gradient passes through it */
    float *noise;     /* buffer of a random op */
    fold_node *nodes; /* buffer for inputs, outputs and intermediate nodes */
    int needed;
} fold_onnx__step;
enum { FOLD_ONNX__OUTS = 3 };

typedef struct fold_onnx__node { /* while the file is opened */
    const fold_onnx__op *op;
    fold_onnx__span bytes;
    const char *type, *name;
    int *in, n_in; /* 0: left out */
    int *out, n_out;
    int next, is_open; /* next: the first input whose maker has not been visited yet */
} fold_onnx__node;

/* A call of a function that the file defines. The function's nodes are opened in place of the call: their
   names get the prefix, and their attributes may refer to those of the call. */
typedef struct fold_onnx__scope {
    const struct fold_onnx__scope *outer;
    const char *prefix;
    fold_onnx__span call, function;
} fold_onnx__scope;

/* A parameter made from a constant: `scale` times the elements of `view`, or all elements in order if that is
   NULL. While nodes are opened, parameters are only planned: a handle then has the id 1 + the weight's index
   and the salt 0. They are created when all are known, so that each array of the model is allocated once. */
struct fold_onnx__view;
typedef struct fold_onnx__weight {
    const fold_onnx__value *value;
    int form;
    float scale;
    const struct fold_onnx__view *view;
    fold_param_desc desc;
    fold_param param;
} fold_onnx__weight;
enum { FOLD_ONNX__AS_IT_IS, FOLD_ONNX__TURNED, FOLD_ONNX__ALONE }; /* ALONE: not shared with other ops */
typedef struct fold_onnx__pair {
    const char *key, *text;
} fold_onnx__pair;

struct fold_onnx {
    fold_model *model;
    fold_ctx *f; /* while a sample is recorded: errors are set on it */
    fold_random *chance;
    fold_onnx_desc desc;
    fold_onnx__arena kept, passing, scratch; /* passing: freed once the file is open; scratch: freed after
                                                each part of it */
    size_t budget, most, read;
    fold_onnx__span file;
    char why[240], near[80];  /* why: why a part of the file is refused */
    fold_onnx__value *values; /* index 0 means none */
    fold_onnx__step *steps;
    int *named;                  /* hash table of values by name */
    fold_onnx__weight **weights; /* while the file is opened */
    fold_onnx__pair *metadata;
    int *inputs, *outputs;
    int n_values, most_values, n_steps, most_steps, n_named, n_weights, n_metadata, n_inputs, n_outputs;
    int n_nodes; /* number of nodes read so far */
    int has_functions;
    int saves; /* parameters are written into our copy of the file, instead of being read from it */
    int failed, version, has_list; /* has_list: an input of this sample is a list */
    const char *folder;            /* path whose folder has separate weights; NULL: in memory */
    int folder_length;
    fold_onnx__node node;
    const fold_onnx__scope *scope; /* NULL: that of the graph */
};

/* ---- text and errors -------------------------------------------------------------------------- */

/* Text that is too long is truncated. */
static void fold_onnx__format(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold_format(text, size, format, args);
    va_end(args);
}

/* Sets the message, which begins with the current node, if any. Only the first error is kept. While a file is
   opened, FOLD_BAD_ARGUMENT refuses a part of it; any other error is set on the model. */
static int fold_onnx__fail(fold_onnx *o, fold_status status, const char *format, ...)
{
    char text[240];
    va_list args;
    if (o->failed)
        return 0;
    fold_onnx__format(text, sizeof text, o->node.type ? "onnx: %.40s '%.60s': " : "onnx: ", o->node.type,
                      o->node.name);
    const size_t at = strlen(text);
    va_start(args, format);
    fold_format(text + at, sizeof text - at, format, args);
    va_end(args);
    o->failed = 1;
    if (o->f)
        fold_ctx_fail(o->f, status, text);
    else if (status != FOLD_BAD_ARGUMENT)
        fold_model_fail(o->model, status, text);
    else
        memcpy(o->why, text, sizeof text);
    return 0;
}
#define FOLD_ONNX__REFUSE(o, ...) fold_onnx__fail(o, FOLD_BAD_ARGUMENT, __VA_ARGS__)

/* Sets what messages begin with while no node is being read. */
static void fold_onnx__reads_now(fold_onnx *o, const char *what, const char *name)
{
    memset(&o->node, 0, sizeof o->node);
    o->node.type = what;
    o->node.name = name;
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* Returns the number of bytes freed. */
static size_t fold_onnx__release(fold_onnx *o, fold_onnx__arena *arena)
{
    const fold_memory memory = fold_model_memory(o->model); /* o itself may be in the last chunk */
    fold_onnx__chunk *chunk = arena->first;
    size_t freed = 0;
    arena->first = NULL;
    while (chunk) {
        fold_onnx__chunk *next = chunk->next;
        freed += chunk->size;
        (memory.free)(chunk, chunk->size, memory.user);
        chunk = next;
    }
    return freed;
}

static int fold_onnx__over_budget(fold_onnx *o)
{
    return fold_onnx__fail(o, FOLD_NO_MEMORY,
                           "the file needs more than %lu bytes; raise fold_onnx_desc.max_bytes",
                           (unsigned long)o->most);
}

/* The budget keeps a small file from asking for gigabytes. */
static void *fold_onnx__take_any(fold_onnx *o, fold_onnx__arena *arena, size_t count, size_t size)
{
    enum { FOLD_ONNX__CHUNK = 16384, FOLD_ONNX__HEAD = (sizeof(fold_onnx__chunk) + 15) / 16 * 16 };
    const fold_memory memory = fold_model_memory(o->model);
    const size_t bytes = count > o->budget / size ? SIZE_MAX / 2 : (count * size + 15) / 16 * 16;
    if (!arena->first || arena->first->size - arena->used < bytes) {
        const size_t room =
            bytes + FOLD_ONNX__HEAD > FOLD_ONNX__CHUNK ? bytes + FOLD_ONNX__HEAD : (size_t)FOLD_ONNX__CHUNK;
        fold_onnx__chunk *chunk =
            room > o->budget ? NULL : (fold_onnx__chunk *)(memory.alloc)(room, 64, memory.user);
        if (!chunk && room > o->budget)
            fold_onnx__over_budget(o);
        if (!chunk)
            return fold_onnx__fail(o, FOLD_NO_MEMORY, "out of memory"), (void *)0;
        o->budget -= room;
        chunk->next = arena->first;
        chunk->size = room;
        arena->first = chunk;
        arena->used = FOLD_ONNX__HEAD;
    }
    void *taken = (unsigned char *)arena->first + arena->used;
    arena->used += bytes;
    return taken;
}

/* The same, but zeroed. */
static void *fold_onnx__take(fold_onnx *o, fold_onnx__arena *arena, size_t count, size_t size)
{
    void *taken = fold_onnx__take_any(o, arena, count, size);
    return taken ? memset(taken, 0, count * size) : NULL;
}
#define FOLD_ONNX__TAKE(o, from, type, count) \
    ((type *)fold_onnx__take(o, &(o)->from, (size_t)(count), sizeof(type)))
#define FOLD_ONNX__KEPT(o, type, count) FOLD_ONNX__TAKE(o, kept, type, count)
#define FOLD_ONNX__PASSING(o, type, count) FOLD_ONNX__TAKE(o, passing, type, count)
#define FOLD_ONNX__SCRATCH(o, type, count) FOLD_ONNX__TAKE(o, scratch, type, count)

/* ---- protobuf --------------------------------------------------------------------------------- */

/* A field of a message: a number, or bytes. */
typedef struct fold_onnx__field {
    int number, wire;
    uint64_t value;
    fold_onnx__span bytes;
} fold_onnx__field;

static int fold_onnx__broken(fold_onnx *o, fold_onnx__span *from)
{
    from->at = from->end;
    return fold_onnx__fail(o, FOLD_IO, "the file is broken, or not an ONNX file");
}
static uint64_t fold_onnx__little(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | from[i];
    return value;
}

/* Reads a number from the start of `from`. Returns 0 if there is none. */
static int fold_onnx__take_number(fold_onnx__span *from, int wire, uint64_t *value)
{
    const int size = wire == FOLD_ONNX__EIGHT ? 8 : 4;
    *value = 0;
    for (int shift = 0; wire == FOLD_ONNX__VARINT && from->at < from->end && shift < 64; shift += 7) {
        const unsigned char byte = *from->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return 1;
    }
    if ((wire != FOLD_ONNX__EIGHT && wire != FOLD_ONNX__FOUR) || from->end - from->at < size)
        return 0;
    *value = fold_onnx__little(from->at, size);
    from->at += size;
    return 1;
}

/* Reads the next field. Returns 0 at the end and after an error. */
static int fold_onnx__next(fold_onnx *o, fold_onnx__span *from, fold_onnx__field *field)
{
    uint64_t key;
    if (from->at == from->end || o->failed)
        return 0;
    if (!fold_onnx__take_number(from, FOLD_ONNX__VARINT, &key) || key > INT_MAX)
        return fold_onnx__broken(o, from);
    memset(field, 0, sizeof *field);
    field->number = (int)(key >> 3);
    field->wire = (int)(key & 7);
    field->bytes.at = field->bytes.end = from->at;
    if (field->wire != FOLD_ONNX__BYTES)
        return fold_onnx__take_number(from, field->wire, &field->value) || fold_onnx__broken(o, from);
    if (!fold_onnx__take_number(from, FOLD_ONNX__VARINT, &key) || key > (uint64_t)(from->end - from->at))
        return fold_onnx__broken(o, from);
    field->bytes.at = from->at;
    field->bytes.end = from->at += key;
    return 1;
}

static int fold_onnx__next_of(fold_onnx *o, fold_onnx__span *from, int number, fold_onnx__field *field)
{
    while (fold_onnx__next(o, from, field))
        if (field->number == number)
            return 1;
    return 0;
}

/* Finds the last field with this number, as protobuf does if there are several. Returns how many there
   are. */
static int fold_onnx__field_of(fold_onnx *o, fold_onnx__span from, int number, fold_onnx__field *found)
{
    fold_onnx__field field;
    int count = 0;
    memset(found, 0, sizeof *found);
    for (; fold_onnx__next_of(o, &from, number, &field); count++)
        *found = field;
    return count;
}

static int fold_onnx__is(fold_onnx__span text, const char *word)
{
    const size_t size = strlen(word);
    return (size_t)(text.end - text.at) == size && !memcmp(text.at, word, size);
}

static int fold_onnx__same_text(fold_onnx__span a, fold_onnx__span b)
{
    const size_t size = (size_t)(a.end - a.at);
    return size == (size_t)(b.end - b.at) && (!size || !memcmp(a.at, b.at, size));
}

static const char *fold_onnx__copy_text(fold_onnx *o, fold_onnx__span text)
{
    const size_t size = (size_t)(text.end - text.at);
    char *copy = FOLD_ONNX__KEPT(o, char, size + 1);
    if (copy && size)
        memcpy(copy, text.at, size);
    return copy ? copy : "";
}

/* Copies the text of a field; "" if it is missing. */
static const char *fold_onnx__text_of(fold_onnx *o, fold_onnx__span from, int number)
{
    fold_onnx__field field;
    return fold_onnx__field_of(o, from, number, &field) ? fold_onnx__copy_text(o, field.bytes) : "";
}
static const fold_onnx__type *fold_onnx__type_of(uint64_t type)
{
    for (size_t i = 0; i < sizeof fold_onnx__types / sizeof *fold_onnx__types; i++)
        if ((uint64_t)fold_onnx__types[i].type == type)
            return &fold_onnx__types[i];
    return NULL;
}

static int fold_onnx__no_type(fold_onnx *o, uint64_t type)
{
    static const char *const names[] = { "no type", "float",  "uint8",     "int8",       "uint16",  "int16",
                                         "int32",   "int64",  "string",    "bool",       "float16", "double",
                                         "uint32",  "uint64", "complex64", "complex128", "bfloat16" };
    const size_t known = sizeof names / sizeof *names;
    if (type >= known)
        return FOLD_ONNX__REFUSE(o, "values of ONNX's type %d are not supported", (int)(type & 1023));
    return FOLD_ONNX__REFUSE(o, "%s values are not supported here", names[type]);
}

static double fold_onnx__half(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double value = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                         : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                        : ldexp(fraction, -24);
    return bits >> 15 & 1 ? -value : value;
}

static double fold_onnx__decode(int type, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float single;
    double whole;
    memcpy(&single, &low, sizeof single);
    memcpy(&whole, &bits, sizeof whole);
    switch (type) {
    case FOLD_ONNX__FLOAT: return (double)single;
    case FOLD_ONNX__DOUBLE: return whole;
    case FOLD_ONNX__HALF: return fold_onnx__half((unsigned)(bits & 65535));
    case FOLD_ONNX__INT64: return (double)(int64_t)bits;
    case FOLD_ONNX__INT32: return (double)(int32_t)low;
    case FOLD_ONNX__UINT8: return (double)(low & 255);
    case FOLD_ONNX__INT8: return (double)(int8_t)(low & 255);
    case FOLD_ONNX__UINT16: return (double)(low & 65535);
    case FOLD_ONNX__INT16: return (double)(int16_t)(low & 65535);
    case FOLD_ONNX__UINT32: return (double)low;
    case FOLD_ONNX__UINT64: return (double)bits;
    default: return bits != 0; /* a boolean */
    }
}

/* Reads a repeated field of numbers, packed or not. Writes the first `most`; returns how many there are. */
static int fold_onnx__numbers(fold_onnx *o, fold_onnx__span from, int number, const fold_onnx__type *type,
                              double *out, int most)
{
    fold_onnx__field field;
    int count = 0;
    while (fold_onnx__next_of(o, &from, number, &field)) {
        const int packed = field.wire == FOLD_ONNX__BYTES;
        if (!packed && field.wire != type->wire)
            return fold_onnx__broken(o, &from);
        while (!packed || field.bytes.at < field.bytes.end) {
            if (packed && !fold_onnx__take_number(&field.bytes, type->wire, &field.value))
                return fold_onnx__broken(o, &from);
            if (count < most)
                out[count] = fold_onnx__decode(type->type, field.value);
            if (++count == FOLD_ONNX__MOST_VALUES)
                return fold_onnx__broken(o, &from);
            if (!packed)
                break;
        }
    }
    return count;
}

/* ---- values ----------------------------------------------------------------------------------- */

/* The hash-table entry of a name, or a free entry if the name is new. */
static int *fold_onnx__place(const fold_onnx *o, const char *name)
{
    const uint32_t mask = (uint32_t)(o->n_named - 1);
    uint32_t at = 2166136261u;
    for (const char *letter = name; *letter; letter++)
        at = (at ^ (unsigned char)*letter) * 16777619u;
    while (o->named[at & mask] && strcmp(o->values[o->named[at & mask]].name, name))
        at++;
    return &o->named[at & mask];
}

static int fold_onnx__find(const fold_onnx *o, const char *name)
{
    return o && name && *name ? *fold_onnx__place(o, name) : 0;
}

static int fold_onnx__new_value(fold_onnx *o, const char *name)
{
    if (o->n_values == o->most_values)
        return fold_onnx__fail(o, FOLD_IO, "the file is broken");
    memset(&o->values[o->n_values], 0, sizeof *o->values);
    o->values[o->n_values].name = name;
    return o->n_values++;
}

/* Levenshtein distance: how many letters must be changed, removed or added. Only the first ones count. */
enum { FOLD_ONNX__LETTERS = 63 };
static int fold_onnx__distance(const char *a, const char *b)
{
    int row[FOLD_ONNX__LETTERS + 1];
    for (int k = 0; k <= FOLD_ONNX__LETTERS; k++)
        row[k] = k;
    for (int i = 0; a[i] && i < FOLD_ONNX__LETTERS; i++)
        for (int k = 0, before = row[0]++; b[k] && k < FOLD_ONNX__LETTERS; k++) {
            const int changed = before + (a[i] != b[k]),
                      added = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
            before = row[k + 1];
            row[k + 1] = changed < added ? changed : added;
        }
    return row[strlen(b) < FOLD_ONNX__LETTERS ? strlen(b) : (size_t)FOLD_ONNX__LETTERS];
}

/* "; nearest: ..." for a message: the most similar name with this origin or, if that is 0, with any. A name
   with more than about a third of its letters changed is not suggested, unless the name is very short. */
static const char *fold_onnx__nearest(fold_onnx *o, const char *name, int origin)
{
    const int letters = name && strlen(name) < FOLD_ONNX__LETTERS ? (int)strlen(name) : FOLD_ONNX__LETTERS;
    int best = 0, least = letters > 2 ? (letters + 1) / 3 + 1 : INT_MAX;
    for (int i = 1; i < o->n_values && name; i++) {
        const fold_onnx__value *value = &o->values[i];
        const int fits = origin ? value->origin == origin : value->origin != FOLD_ONNX__UNKNOWN;
        const int distance = fits ? fold_onnx__distance(name, value->name) : INT_MAX;
        if (distance < least)
            least = distance, best = i;
    }
    o->near[0] = 0;
    if (best)
        fold_onnx__format(o->near, sizeof o->near, "; nearest: '%.60s'", o->values[best].name);
    return o->near;
}

/* The value that a name refers to in the current scope, which is added if it is new. An empty name is no
   value. */
static int fold_onnx__meant(fold_onnx *o, fold_onnx__span text)
{
    const char *prefix = o->scope ? o->scope->prefix : "";
    const size_t before = strlen(prefix), size = (size_t)(text.end - text.at);
    char *name = size ? FOLD_ONNX__KEPT(o, char, before + size + 1) : NULL;
    if (!name || o->failed)
        return 0;
    memcpy(name, prefix, before);
    memcpy(name + before, text.at, size);
    int *place = fold_onnx__place(o, name);
    *place = *place ? *place : fold_onnx__new_value(o, name);
    const int given = o->values[*place].stands_for;
    return !given ? *place : given < 0 ? 0 : given;
}

static int fold_onnx__product(const fold_onnx__dims *dims, int from, int to)
{
    int count = 1;
    for (int k = from; k < to; k++)
        count *= dims->dim[k];
    return count;
}
static int fold_onnx__same_dims(const fold_onnx__dims *a, const fold_onnx__dims *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}
static int fold_onnx__too_many_axes(fold_onnx *o, int most)
{
    return FOLD_ONNX__REFUSE(o, "more than %d axes", most);
}
static int fold_onnx__is_empty(fold_onnx *o, const fold_onnx__value *value)
{
    return FOLD_ONNX__REFUSE(o, "'%.60s' has no values", value->name);
}

/* The number of values; 0 after an error. */
static int fold_onnx__size(fold_onnx *o, const fold_onnx__dims *dims)
{
    long long count = 1;
    if (dims->rank > FOLD_ONNX_RANK)
        return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    for (int k = 0; k < dims->rank; k++) {
        if (dims->dim[k] < 1)
            return FOLD_ONNX__REFUSE(o, "an axis of %d values", dims->dim[k]);
        count *= dims->dim[k];
        if (count > FOLD_ONNX__MOST_VALUES)
            return FOLD_ONNX__REFUSE(o, "a tensor of more than %d values", (int)FOLD_ONNX__MOST_VALUES);
    }
    return o->failed ? 0 : (int)count;
}

/* The shape of the axes from `first` on; rank 0 if there are too many. */
static fold_shape fold_onnx__shape_from(const fold_onnx__dims *dims, int first)
{
    fold_shape shape = { 0, { 0, 0, 0, 0 } };
    if (dims->rank - first <= FOLD_MAX_RANK)
        shape.rank = dims->rank - first;
    for (int k = 0; k < shape.rank; k++)
        shape.dim[k] = dims->dim[first + k];
    return shape;
}

/* Leading axes of 1 are dropped, so that shapes broadcast as they do in the file. */
static fold_shape fold_onnx__shape(const fold_onnx__dims *dims)
{
    int first = 0;
    while (first < dims->rank - 1 && dims->dim[first] == 1)
        first++;
    return dims->rank ? fold_onnx__shape_from(dims, first) : fold_shape1(1);
}

/* Ops along axes read [outer x count x inner], without inner if it is 1, then without outer if it is 1. */
static fold_shape fold_onnx__along(int outer, int count, int inner)
{
    return inner > 1   ? fold_shape3(outer, count, inner)
           : outer > 1 ? fold_shape2(outer, count)
                       : fold_shape1(count);
}
static int fold_onnx__elements(fold_shape shape)
{
    int count = 1;
    for (int k = 0; k < shape.rank; k++)
        count *= shape.dim[k];
    return count;
}
static int fold_onnx__set_dims(fold_onnx *o, fold_onnx__value *value, const fold_onnx__dims *dims)
{
    value->count = fold_onnx__size(o, dims);
    if (value->count)
        value->dims = *dims;
    return value->count > 0;
}

static double fold_onnx__number(const fold_onnx__value *constant, int i)
{
    if (!constant->raw)
        return constant->floats ? (double)constant->floats[i] : constant->numbers[i];
    const size_t size = (size_t)constant->type->size;
    return fold_onnx__decode(constant->type->type,
                             fold_onnx__little(constant->raw + size * (size_t)i, (int)size));
}

static int fold_onnx__is_fixed(const fold_onnx *o, int value)
{
    return o->values[value].origin == FOLD_ONNX__FIXED;
}

/* Returns 0 unless the value is a constant with a single element. */
static int fold_onnx__scalar(const fold_onnx *o, int value, double *number)
{
    if (!fold_onnx__is_fixed(o, value) || o->values[value].count != 1)
        return 0;
    *number = fold_onnx__number(&o->values[value], 0);
    return 1;
}

/* Makes a value a constant that is not trained. It may be empty, such as a list of no axes. */
static int fold_onnx__fix_as(fold_onnx *o, fold_onnx__value *value, const fold_onnx__dims *dims,
                             int is_integer)
{
    const int is_empty = dims->rank == 1 && !dims->dim[0];
    value->count = is_empty ? 0 : fold_onnx__size(o, dims);
    if (is_empty || value->count)
        value->dims = *dims;
    value->origin = FOLD_ONNX__FIXED;
    value->is_integer = is_integer;
    value->is_frozen = 1;
    return !o->failed;
}

/* The same. Returns the array of its elements, which the caller fills. */
static double *fold_onnx__fix(fold_onnx *o, fold_onnx__value *value, const fold_onnx__dims *dims,
                              int is_integer)
{
    value->numbers =
        fold_onnx__fix_as(o, value, dims, is_integer) ? FOLD_ONNX__PASSING(o, double, value->count) : NULL;
    return value->numbers;
}

/* ---- tensors of the file ---------------------------------------------------------------------- */

#ifndef FOLD_NO_STDIO
/* Reads `size` bytes of a file from an offset; SIZE_MAX: all. Memory is allocated only if the file has that
   many, and the budget grows with them. */
static const unsigned char *fold_onnx__read_part(fold_onnx *o, const char *path, size_t from, size_t size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    if (!file)
        return fold_onnx__fail(o, FOLD_IO, "'%.60s' cannot be opened", path), bytes;
    const long length = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size == SIZE_MAX && length >= 0)
        size = (size_t)length; /* all of it */
    const int is_known = length >= 0 && length < LONG_MAX && from <= (size_t)length;
    if (is_known && (size_t)length - from >= size && !fseek(file, (long)from, SEEK_SET)) {
        const size_t more = size < SIZE_MAX / 32 && !o->desc.max_bytes ? 8 * size : 0;
        o->budget += more;
        o->most += more;
        bytes = (unsigned char *)fold_onnx__take_any(o, &o->passing, size + 1, 1);
        if (bytes && fread(bytes, 1, size, file) != size)
            bytes = NULL;
    }
    fclose(file);
    if (!bytes)
        fold_onnx__fail(o, FOLD_IO, "'%.60s' has too few bytes", path);
    o->read = size;
    return bytes;
}
#endif

/* A location must be in the folder of the file, or below, so that a file cannot read others. */
static int fold_onnx__is_beside(const char *location)
{
    if (!*location || *location == '/' || strchr(location, '\\') || strchr(location, ':'))
        return 0;
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
            return 0;
    }
    return 1;
}

static const unsigned char *fold_onnx__external(fold_onnx *o, fold_onnx__span tensor, size_t size)
{
    fold_onnx__field entry, key;
    const char *location = "", *wrong = "it is in a separate file; use fold_onnx_open";
    uint64_t offset = 0, length = size;
    while (fold_onnx__next_of(o, &tensor, 13, &entry)) {
        const char *word = fold_onnx__text_of(o, entry.bytes, 2);
        uint64_t number = 0;
        for (const char *digit = word; *digit >= '0' && *digit <= '9' && number < UINT64_MAX / 20; digit++)
            number = 10 * number + (uint64_t)(*digit - '0');
        if (!fold_onnx__field_of(o, entry.bytes, 1, &key))
            continue;
        if (fold_onnx__is(key.bytes, "location"))
            location = word;
        if (fold_onnx__is(key.bytes, "offset"))
            offset = number;
        if (fold_onnx__is(key.bytes, "length"))
            length = number;
    }
    if (length != size || offset > SIZE_MAX / 2)
        wrong = "its data do not match its shape";
    else if (!fold_onnx__is_beside(location))
        wrong = "it is in a file outside the folder of this one";
#ifndef FOLD_NO_STDIO
    else if (o->folder && !o->failed) {
        char *path = FOLD_ONNX__PASSING(o, char, (size_t)o->folder_length + strlen(location) + 1);
        if (!path)
            return NULL;
        memcpy(path, o->folder, (size_t)o->folder_length);
        strcpy(path + o->folder_length, location);
        return fold_onnx__read_part(o, path, (size_t)offset, size);
    }
#endif
    return fold_onnx__fail(o, FOLD_IO, "%s", wrong), (const unsigned char *)0;
}

static int fold_onnx__read_listed(fold_onnx *o, fold_onnx__span from, int field, const fold_onnx__type *type,
                                  fold_onnx__value *value)
{
    const int there = fold_onnx__numbers(o, from, field, type, NULL, 0);
    if (there != value->count)
        return FOLD_ONNX__REFUSE(o, "%d values for a shape of %d", there, value->count);
    value->numbers = FOLD_ONNX__PASSING(o, double, there);
    return value->numbers && fold_onnx__numbers(o, from, field, type, value->numbers, there) == there;
}

/* Reads a TensorProto into a constant. */
static int fold_onnx__read_tensor(fold_onnx *o, fold_onnx__span tensor, fold_onnx__value *value)
{
    double dim[FOLD_ONNX_RANK];
    fold_onnx__dims dims;
    fold_onnx__field field;
    dims.rank = fold_onnx__numbers(o, tensor, 1, fold_onnx__type_of(FOLD_ONNX__INT64), dim, FOLD_ONNX_RANK);
    fold_onnx__field_of(o, tensor, 2, &field);
    const fold_onnx__type *type = fold_onnx__type_of(field.value);
    if (value->origin != FOLD_ONNX__UNKNOWN)
        return FOLD_ONNX__REFUSE(o, "two tensors have this name");
    if (!type)
        return fold_onnx__no_type(o, field.value);
    for (int k = 0; k < dims.rank && k < FOLD_ONNX_RANK; k++)
        dims.dim[k] = dim[k] >= 0 && dim[k] <= INT_MAX ? (int)dim[k] : -1;
    if (!fold_onnx__fix_as(o, value, &dims, type->is_integer))
        return 0;
    value->is_frozen = type->is_integer;
    value->type = type;
    const size_t size = (size_t)value->count * (size_t)type->size;
    if (fold_onnx__field_of(o, tensor, 3, &field))
        return FOLD_ONNX__REFUSE(o, "segments of tensors are not supported");
    if (fold_onnx__field_of(o, tensor, 14, &field) && field.value == 1)
        return (value->raw = fold_onnx__external(o, tensor, size)) != NULL;
    const int is_raw = fold_onnx__field_of(o, tensor, 9, &field) > 0;
    if (!is_raw && type->type == FOLD_ONNX__FLOAT &&
        fold_onnx__field_of(o, tensor, type->field, &field) == 1 && field.wire == FOLD_ONNX__BYTES &&
        (size_t)(field.bytes.end - field.bytes.at) == size)
        return (value->raw = field.bytes.at) != NULL; /* packed floats are the same bytes */
    if (!is_raw)
        return fold_onnx__read_listed(o, tensor, type->field, type, value);
    if ((size_t)(field.bytes.end - field.bytes.at) != size)
        return FOLD_ONNX__REFUSE(o, "its data do not match its shape");
    value->raw = field.bytes.at;
    return 1;
}

/* ---- the current node: attributes and inputs --------------------------------------------------- */

/* Resolves an attribute that, inside a function, refers to an attribute of the call or, failing that, to the
   function's default. Returns 0 if neither exists. */
static int fold_onnx__refers(fold_onnx *o, fold_onnx__field *attribute)
{
    fold_onnx__field wanted, name;
    for (const fold_onnx__scope *scope = o->scope;
         scope && fold_onnx__field_of(o, attribute->bytes, 21, &wanted); scope = scope->outer) {
        int found = 0;
        for (int i = 0; i < 2 && !found; i++)
            for (fold_onnx__span from = i ? scope->function : scope->call;
                 !found && fold_onnx__next_of(o, &from, i ? 11 : 5, attribute);)
                found = fold_onnx__field_of(o, attribute->bytes, 1, &name) &&
                        fold_onnx__same_text(name.bytes, wanted.bytes);
        if (!found)
            return 0;
    }
    return !o->failed;
}

/* Finds an attribute's value, which is in the field `number`. If that field is missing, the value is 0 or "",
   which proto3 does not write. For a list, pass minus the field's number, and read it from `found`. */
static int fold_onnx__attribute(fold_onnx *o, const char *name, int number, fold_onnx__field *found)
{
    const int wanted = number < 0 ? -number : number;
    const int wire = number == 2 ? FOLD_ONNX__FOUR : number == 3 ? FOLD_ONNX__VARINT : FOLD_ONNX__BYTES;
    fold_onnx__span from = o->node.bytes;
    fold_onnx__field field, whole;
    while (fold_onnx__next_of(o, &from, 5, &whole)) {
        if (!fold_onnx__field_of(o, whole.bytes, 1, &field) || !fold_onnx__is(field.bytes, name))
            continue;
        if (!fold_onnx__refers(o, &whole))
            return 0;
        memset(found, 0, sizeof *found);
        if (number < 0)
            *found = whole;
        while (fold_onnx__next(o, &whole.bytes, &field)) {
            const int is_value = field.number > 1 && field.number < 12, is_type = field.number == 20;
            if (is_value ? field.number != wanted
                         : is_type && field.value && field.value + 1 != (uint64_t)wanted)
                return FOLD_ONNX__REFUSE(o, "attribute %s has the wrong type", name);
            if (number < 0 || !is_value)
                continue;
            if (field.wire != wire)
                return fold_onnx__broken(o, &from);
            *found = field;
        }
        return !o->failed;
    }
    return 0;
}

/* The number as an int; a number out of range becomes the nearest int. */
static int fold_onnx__near(double number)
{
    return !(number > -INT_MAX) ? -INT_MAX : number > INT_MAX ? INT_MAX : (int)number; /* also a NaN */
}
static int fold_onnx__whole(fold_onnx *o, const char *name, int otherwise)
{
    fold_onnx__field field;
    return fold_onnx__attribute(o, name, 3, &field) ? fold_onnx__near((double)(int64_t)field.value)
                                                    : otherwise;
}
static float fold_onnx__real(fold_onnx *o, const char *name, float otherwise)
{
    fold_onnx__field field;
    return fold_onnx__attribute(o, name, 2, &field) ? (float)fold_onnx__decode(FOLD_ONNX__FLOAT, field.value)
                                                    : otherwise;
}

/* The index of an attribute's text among n words; 0 if the attribute is missing. */
static int fold_onnx__word(fold_onnx *o, const char *name, const char *const *words, int n)
{
    fold_onnx__field field;
    if (!fold_onnx__attribute(o, name, 4, &field))
        return 0;
    for (int i = 0; i < n; i++)
        if (fold_onnx__is(field.bytes, words[i]))
            return i;
    return FOLD_ONNX__REFUSE(o, "%s '%.40s' is not supported", name, fold_onnx__copy_text(o, field.bytes));
}

static fold_onnx__value *fold_onnx__in(fold_onnx *o, int i) { return &o->values[o->node.in[i]]; }
static int fold_onnx__has_in(const fold_onnx *o, int i) { return i < o->node.n_in && o->node.in[i]; }
static int fold_onnx__has_out(const fold_onnx *o, int i) { return i < o->node.n_out && o->node.out[i]; }
static fold_onnx__value *fold_onnx__out(fold_onnx *o) { return &o->values[o->node.out[0]]; }

/* Reads a list of numbers from an attribute, whose values of this type are in the field `number`, or from a
   constant input. Returns its length; -1: there is none; -2: an error. */
static int fold_onnx__numbers_of(fold_onnx *o, const char *name, int number, int type, int input, double *out,
                                 int most)
{
    fold_onnx__field field;
    int count = -1;
    if (name && fold_onnx__attribute(o, name, -number, &field)) {
        count = fold_onnx__numbers(o, field.bytes, number, fold_onnx__type_of((uint64_t)type), out, most);
    } else if (input >= 0 && fold_onnx__has_in(o, input)) {
        const fold_onnx__value *value = fold_onnx__in(o, input);
        if (value->origin != FOLD_ONNX__FIXED)
            return FOLD_ONNX__REFUSE(o, "'%s' is not constant", value->name) - 2;
        count = value->count;
        for (int i = 0; i < count && i < most; i++)
            out[i] = fold_onnx__number(value, i);
    }
    if (count > most)
        return FOLD_ONNX__REFUSE(o, "a list of %d numbers", count) - 2;
    return o->failed ? -2 : count;
}

/* The same for a list of integers. */
static int fold_onnx__list(fold_onnx *o, const char *name, int input, int *out, int most)
{
    double numbers[FOLD_ONNX__MOST_OUT];
    const int count = fold_onnx__numbers_of(o, name, 8, FOLD_ONNX__INT64, input, numbers, most);
    for (int i = 0; i < count; i++)
        out[i] = fold_onnx__near(numbers[i]);
    return count;
}

/* A negative axis counts from the end. Returns it counted from 0; 0 after an error. */
static int fold_onnx__axis(fold_onnx *o, int axis, int rank)
{
    if (axis < -rank || axis >= rank)
        return FOLD_ONNX__REFUSE(o, "axis %d does not exist, there are %d", axis, rank);
    return axis < 0 ? axis + rank : axis;
}
static int fold_onnx__axis_of(fold_onnx *o, const fold_onnx__value *from, int otherwise)
{
    return fold_onnx__axis(o, fold_onnx__whole(o, "axis", otherwise), from->dims.rank);
}

/* Sets a bit in `marks` for each axis that an op lists, counted in a shape of this rank or, if the op adds
   them, of the rank including them. Returns how many there are; -1: there is no list; -2: an error. */
static int fold_onnx__marked_axes(fold_onnx *o, int rank, int adds, unsigned *marks)
{
    int axes[FOLD_ONNX_RANK];
    const int count = fold_onnx__list(o, "axes", 1, axes, FOLD_ONNX_RANK - (adds ? rank : 0));
    *marks = 0;
    for (int i = 0; i < count; i++) {
        const int axis = fold_onnx__axis(o, axes[i], adds ? rank + count : rank);
        if (o->failed || *marks >> axis & 1)
            return FOLD_ONNX__REFUSE(o, "an axis that is named twice") - 2;
        *marks |= 1u << axis;
    }
    return count;
}

/* The constant number that input i must be; `otherwise` if it is left out; 0 after an error. */
static double fold_onnx__setting(fold_onnx *o, int i, double otherwise)
{
    if (fold_onnx__has_in(o, i) && !fold_onnx__scalar(o, o->node.in[i], &otherwise))
        return FOLD_ONNX__REFUSE(o, "'%.60s' is not a constant number", fold_onnx__in(o, i)->name);
    return otherwise;
}

static int fold_onnx__all_fixed(const fold_onnx *o)
{
    for (int i = 0; i < o->node.n_in; i++)
        if (o->node.in[i] && !fold_onnx__is_fixed(o, o->node.in[i]))
            return 0;
    return 1;
}

/* ---- views ------------------------------------------------------------------------------------ */

/* Where each element of a result comes from. Its source offset is the sum of at[axis][index] over the axes;
   if any of these is -1, the element is padding. If cuts is 1 or -1, the elements of each matrix above or
   below a diagonal are padding too; the diagonal is given as column minus row. All ops that only move
   elements are expressed as such views. */
typedef struct fold_onnx__view {
    fold_onnx__dims dims;
    int *at[FOLD_ONNX_RANK], cuts, diagonal;
    float pad;
} fold_onnx__view;
/* What is beyond the ends of an axis: padding, the nearest value, the values mirrored, or repeated. */
enum { FOLD_ONNX__PADDING, FOLD_ONNX__EDGE, FOLD_ONNX__REFLECT, FOLD_ONNX__WRAP };

/* The view that leaves all elements in place. */
static fold_onnx__view fold_onnx__view_of(fold_onnx *o, const fold_onnx__dims *dims)
{
    fold_onnx__view view;
    memset(&view, 0, sizeof view);
    view.dims = *dims;
    fold_onnx__size(o, dims);
    for (int k = dims->rank, step = 1; k-- > 0 && !o->failed; step *= dims->dim[k]) {
        view.at[k] = FOLD_ONNX__SCRATCH(o, int, dims->dim[k]);
        for (int i = 0; view.at[k] && i < dims->dim[k]; i++)
            view.at[k][i] = i * step;
    }
    return view;
}

/* Replaces an axis by its elements start, start + step ..., some of which may be beyond its ends. */
static void fold_onnx__take_beyond(fold_onnx *o, fold_onnx__view *view, int axis, int start, int step,
                                   int count, int beyond)
{
    const int *had = view->at[axis], n = view->dims.dim[axis], period = n > 1 ? 2 * n - 2 : 1;
    int *at = o->failed ? NULL : FOLD_ONNX__SCRATCH(o, int, count);
    for (int i = 0; at && i < count; i++) {
        int from = start + i * step;
        if (beyond == FOLD_ONNX__EDGE)
            from = from < 0 ? 0 : from < n ? from : n - 1;
        if (beyond == FOLD_ONNX__WRAP)
            from = (from % n + n) % n;
        if (beyond == FOLD_ONNX__REFLECT) {
            from = (from % period + period) % period;
            from = from < n ? from : period - from;
        }
        at[i] = from < 0 || from >= n ? -1 : had[from];
    }
    view->dims.dim[axis] = count;
    view->at[axis] = at;
}

static void fold_onnx__take_axis(fold_onnx *o, fold_onnx__view *view, int axis, int start, int step,
                                 int count)
{
    fold_onnx__take_beyond(o, view, axis, start, step, count, FOLD_ONNX__PADDING);
}

/* Axis i of the result is axis order[i] of `from`. */
static fold_onnx__view fold_onnx__permuted(const fold_onnx__view *from, const int *order)
{
    fold_onnx__view view = *from;
    for (int i = 0; i < from->dims.rank; i++) {
        view.dims.dim[i] = from->dims.dim[order[i]];
        view.at[i] = from->at[order[i]];
    }
    return view;
}

/* `from`, broadcast to dims. */
static fold_onnx__view fold_onnx__repeated(fold_onnx *o, const fold_onnx__dims *from,
                                           const fold_onnx__dims *dims)
{
    const fold_onnx__view alone = fold_onnx__view_of(o, from);
    fold_onnx__view view = alone;
    view.dims = *dims;
    for (int k = 0; k < dims->rank && !o->failed; k++) {
        const int own = k - (dims->rank - from->rank), is_there = own >= 0 && from->dim[own] == dims->dim[k];
        view.at[k] = is_there ? alone.at[own] : FOLD_ONNX__SCRATCH(o, int, dims->dim[k]); /* zeros */
    }
    return view;
}

/* Returns the source of the element at index, and moves index to the next element. */
static int fold_onnx__next_source(const fold_onnx__view *view, int *index)
{
    const int *last = index + view->dims.rank - 1;
    int source = view->cuts && view->cuts * (last[0] - last[-1] - view->diagonal) > 0 ? -1 : 0;
    for (int k = 0; k < view->dims.rank && source >= 0; k++) {
        const int at = view->at[k][index[k]];
        source = at < 0 ? -1 : source + at;
    }
    for (int k = view->dims.rank; k-- > 0;) {
        if (++index[k] < view->dims.dim[k])
            break;
        index[k] = 0;
    }
    return source;
}

static int *fold_onnx__sources(fold_onnx *o, const fold_onnx__view *view, int *count)
{
    int index[FOLD_ONNX_RANK] = { 0 };
    if (!(*count = fold_onnx__size(o, &view->dims)))
        return NULL;
    int *source = FOLD_ONNX__SCRATCH(o, int, *count);
    for (int i = 0; source && i < *count; i++)
        source[i] = fold_onnx__next_source(view, index);
    return source;
}

/* Whether a view of `count` values does anything but leave all of them in place. */
static int fold_onnx__moves(const fold_onnx__view *view, int count)
{
    int moves = view->cuts || fold_onnx__product(&view->dims, 0, view->dims.rank) != count;
    for (int k = view->dims.rank, step = 1; k-- > 0 && !moves; step *= view->dims.dim[k])
        for (int i = 0; i < view->dims.dim[k] && !moves; i++)
            moves = view->at[k][i] != i * step;
    return moves;
}

/* A copy that is kept until the file is open; NULL for NULL. */
static const fold_onnx__view *fold_onnx__kept_view(fold_onnx *o, const fold_onnx__view *view)
{
    fold_onnx__view *kept = view ? FOLD_ONNX__PASSING(o, fold_onnx__view, 1) : NULL;
    if (!kept)
        return NULL;
    *kept = *view;
    for (int k = 0; k < view->dims.rank; k++) {
        kept->at[k] = FOLD_ONNX__PASSING(o, int, view->dims.dim[k]);
        if (kept->at[k])
            memcpy(kept->at[k], view->at[k], (size_t)view->dims.dim[k] * sizeof(int));
    }
    return kept;
}

static float fold_onnx__float(const fold_onnx__value *constant, size_t i)
{
    if (!constant->raw || constant->type->type != FOLD_ONNX__FLOAT)
        return (float)fold_onnx__number(constant, (int)i);
    const unsigned char *at = constant->raw + 4 * i;
    const uint32_t bits =
        at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; /* one load */
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Writes `scale` times the elements of a view of a constant; view NULL: all of them, in order. A matrix is
   written a few rows at a time, so that its transpose is read in whole cache lines. */
static void fold_onnx__write_floats(const fold_onnx__value *from, const fold_onnx__view *view, float scale,
                                    float *out)
{
    enum { FOLD_ONNX__ROWS = 8 };
    int index[FOLD_ONNX_RANK] = { 0 }, zero = 0;
    for (int i = 0; !view && i < from->count; i++)
        out[i] = scale * fold_onnx__float(from, (size_t)i);
    const int rank = view ? view->dims.rank : 0, columns = rank ? view->dims.dim[rank - 1] : 1,
              rows = rank > 1 ? view->dims.dim[rank - 2] : 1,
              count = view ? fold_onnx__product(&view->dims, 0, rank) : 0;
    const int *of_row = rank > 1 ? view->at[rank - 2] : &zero, *of_column = rank ? view->at[rank - 1] : &zero;
    for (int begin = 0; begin < count; begin += rows * columns) {
        int base = 0;
        for (int k = 0; k < rank - 2; k++)
            base = base < 0 || view->at[k][index[k]] < 0 ? -1 : base + view->at[k][index[k]];
        for (int first = 0; first < rows; first += FOLD_ONNX__ROWS)
            for (int x = 0; x < columns; x++)
                for (int y = first; y < rows && y < first + FOLD_ONNX__ROWS; y++) {
                    const int is_pad =
                        (base | of_row[y] | of_column[x]) < 0 || view->cuts * (x - y - view->diagonal) > 0;
                    out[begin + y * columns + x] =
                        is_pad ? view->pad
                               : scale * fold_onnx__float(from, (size_t)(base + of_row[y] + of_column[x]));
                }
        for (int k = rank - 2; k-- > 0 && ++index[k] == view->dims.dim[k];)
            index[k] = 0;
    }
}

/* ---- parameters ------------------------------------------------------------------------------- */

static int fold_onnx__same_shape(fold_shape a, fold_shape b)
{
    return a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
}

/* A parameter has the tensor's name only if it has the tensor's values unchanged, since other programs would
   take it for the tensor. If the name is taken, a number is appended. */
static const char *fold_onnx__param_name(fold_onnx *o, const fold_onnx__weight *wanted)
{
    const char *prefix = o->desc.prefix ? o->desc.prefix : "", *of = wanted->value->name;
    const int is_whole = fold_onnx__elements(wanted->desc.shape) == wanted->value->count;
    const int is_plain = wanted->form == FOLD_ONNX__AS_IT_IS && is_whole && wanted->scale == 1;
    const char *form = is_plain ? "" : wanted->form == FOLD_ONNX__TURNED ? ".turned" : ".part";
    const size_t before = strlen(prefix), size = before + strlen(of) + 32;
    char *name = FOLD_ONNX__PASSING(o, char, size);
    for (int i = 0, taken = 1; name && taken; i++) {
        fold_onnx__format(name, size, i ? "%s%s%s.%d" : "%s%s%s", prefix, of, form, i);
        taken = (!is_plain || i) && fold_onnx__find(o, name + before);
        for (int k = 0; k < o->n_weights && !taken; k++)
            taken = !strcmp(o->weights[k]->desc.name, name);
    }
    return name ? name : "";
}

/* Writes a parameter's values back to the tensor that it was made from. Values that have not changed are left
   as they are in the file, so that nothing is rounded twice. */
static int fold_onnx__store(fold_onnx *o, const fold_onnx__weight *w)
{
    fold_onnx__value *value = &o->values[fold_onnx__find(o, w->value->name)];
    const float *now = fold_param_value(o->model, w->param);
    const unsigned char *raw = w->value->raw;
    const int can_write =
        raw && raw >= o->file.at && raw < o->file.end && w->value->type->size == 4 && !w->value->is_frozen;
    int index[FOLD_ONNX_RANK] = { 0 };
    if (!now || !fold_onnx__same_shape(fold_param_shape(o->model, w->param), w->desc.shape))
        return FOLD_ONNX__REFUSE(o, "the parameter has a different shape, or is quantised");
    if (!value->seen)
        value->seen = FOLD_ONNX__PASSING(o, char, value->count);
    for (int i = 0; value->seen && i < fold_onnx__elements(w->desc.shape); i++) {
        const int at = w->view ? fold_onnx__next_source(w->view, index) : i;
        const float made = now[i] / w->scale;
        uint32_t bits;
        const int is_new = w->scale * (float)fold_onnx__number(w->value, at) != now[i];
        if (is_new && (!can_write || !isfinite(made)))
            return FOLD_ONNX__REFUSE(o, "it cannot be written: it is not float32 in the file");
        if (is_new && value->seen[at])
            return FOLD_ONNX__REFUSE(o, "it has two parameters, which were trained to different values");
        memcpy(&bits, &made, sizeof bits);
        for (int k = 0; is_new && k < 4; k++)
            ((unsigned char *)(uintptr_t)raw)[4 * (size_t)at + (size_t)k] = (unsigned char)(bits >> 8 * k);
        if (raw)
            value->seen[at] = 1;
    }
    return !o->failed;
}

/* Plans a parameter, or finds the one that already has this form of a value. */
static int fold_onnx__weigh(fold_onnx *o, fold_onnx__weight wanted, const fold_onnx__view *view,
                            unsigned uses, int frozen, fold_param *param)
{
    const fold_onnx__value *value = wanted.value;
    const size_t bytes = sizeof(float) * (size_t)fold_onnx__elements(wanted.desc.shape);
    if (!o->failed && value->origin != FOLD_ONNX__FIXED)
        return FOLD_ONNX__REFUSE(o, "'%s' is not constant", value->name);
    if (!o->failed && o->n_weights == 2 * o->most_values + FOLD_ONNX__FILTERS)
        return FOLD_ONNX__REFUSE(o, "too many parameters");
    for (int i = 0; i < o->n_weights && wanted.form != FOLD_ONNX__ALONE && !o->failed; i++) {
        fold_onnx__weight *made = o->weights[i];
        if (made->value->name != value->name || made->form != wanted.form ||
            !fold_onnx__same_shape(made->desc.shape, wanted.desc.shape) ||
            memcmp(&made->scale, &wanted.scale, sizeof wanted.scale) != 0)
            continue;
        made->desc.frozen |= frozen;
        param->id = (uint32_t)i + 1;
        return 1;
    }
    if (o->failed || bytes > o->budget)
        return fold_onnx__over_budget(o); /* repeated values count too */
    o->budget -= bytes;
    fold_onnx__weight *made = FOLD_ONNX__PASSING(o, fold_onnx__weight, 1);
    fold_onnx__value *kept = FOLD_ONNX__PASSING(o, fold_onnx__value, 1);
    wanted.desc.init = FOLD_INIT_CONSTANT; /* a gain of zeros is then accepted */
    wanted.desc.uses = uses;
    wanted.desc.frozen = frozen || value->is_frozen;
    wanted.desc.name = fold_onnx__param_name(o, &wanted);
    wanted.view = fold_onnx__kept_view(o, view && fold_onnx__moves(view, value->count) ? view : NULL);
    wanted.value = kept;
    if (o->failed)
        return 0;
    *kept = *value; /* a copy: the value may exist only for this parameter */
    *made = wanted;
    o->weights[o->n_weights++] = made;
    param->id = (uint32_t)o->n_weights;
    return 1;
}

static fold_onnx__weight fold_onnx__form(const fold_onnx__value *value, int form, float scale,
                                         fold_shape shape)
{
    fold_onnx__weight wanted = { value, form, scale, NULL, fold_param_desc_default(), { 0, 0 } };
    wanted.desc.shape = shape;
    return wanted;
}
/* Plans a parameter that no other op can share. */
static int fold_onnx__weigh_alone(fold_onnx *o, const fold_onnx__value *value, const fold_onnx__view *view,
                                  fold_shape shape, unsigned uses, fold_param *param)
{
    return fold_onnx__weigh(o, fold_onnx__form(value, FOLD_ONNX__ALONE, 1, shape), view, uses, 0, param);
}

/* Plans the parameter of a constant that ops read like any other value. A matrix is stored as a vector, since
   it is not the weight of a product. */
static int fold_onnx__use_constant(fold_onnx *o, int index, int frozen)
{
    fold_onnx__value *value = &o->values[index];
    const fold_shape shape = fold_onnx__shape(&value->dims),
                     kept = shape.rank == 2 ? fold_shape1(value->count) : shape;
    value->shape = shape;
    if (!shape.rank)
        return fold_onnx__too_many_axes(o, FOLD_MAX_RANK);
    if (!value->count)
        return fold_onnx__is_empty(o, value);
    return fold_onnx__weigh(o, fold_onnx__form(value, FOLD_ONNX__AS_IT_IS, 1, kept), NULL, 0, frozen,
                            &value->param);
}

/* Plans a vector that is `scale` times a constant. A constant of one value is repeated. */
static int fold_onnx__vector(fold_onnx *o, int index, int count, float scale, fold_param *param)
{
    const fold_onnx__value *value = &o->values[index];
    const fold_onnx__weight wanted = fold_onnx__form(value, FOLD_ONNX__AS_IT_IS, scale, fold_shape1(count));
    const fold_onnx__dims dims = { 1, { count } }, one = { 1, { 1 } };
    const fold_onnx__view view = fold_onnx__repeated(o, &one, &dims);
    if (value->count != count && value->count != 1)
        return FOLD_ONNX__REFUSE(o, "'%s' has %d values, not %d", value->name, value->count, count);
    return fold_onnx__weigh(o, wanted, value->count == 1 ? &view : NULL, 0, 0, param);
}

/* Plans a vector that the file does not have: a frozen constant, named after the value `beside`. */
static int fold_onnx__supply(fold_onnx *o, int beside, const double *numbers, int count, fold_param *param)
{
    fold_onnx__value one = o->values[beside];
    const fold_onnx__dims dims = { 1, { count } };
    double *copy = fold_onnx__fix(o, &one, &dims, 0);
    one.raw = NULL;
    one.floats = NULL;
    if (copy && numbers)
        memcpy(copy, numbers, (size_t)count * sizeof *copy);
    return numbers && fold_onnx__weigh_alone(o, &one, NULL, fold_shape1(count), 0, param);
}

/* Plans a missing bias or gain. */
static int fold_onnx__fill(fold_onnx *o, int beside, int count, double number, fold_param *param)
{
    double *numbers = FOLD_ONNX__SCRATCH(o, double, count);
    for (int i = 0; numbers && i < count; i++)
        numbers[i] = number;
    return fold_onnx__supply(o, beside, numbers, count, param);
}

/* How many bytes a matrix takes when packed for the kernels, measured by adding one row of it to `probe`. */
static size_t fold_onnx__pack_bytes(fold_model *probe, int rows, int columns)
{
    const size_t before = fold_model_measure(probe).packs;
    fold_param_desc desc = fold_param_desc_default();
    char name[16];
    fold_onnx__format(name, sizeof name, "%d", fold_param_count(probe));
    desc.name = name;
    desc.shape = fold_shape2(1, columns);
    fold_param_new(probe, &desc);
    return (fold_model_measure(probe).packs - before) * ((size_t)rows + 16); /* narrow ones are rounded up */
}

/* Reserves memory for all parameters from `first` on, since a model's arrays double when they grow. The sizes
   of packed weights are measured in a temporary model. */
static void fold_onnx__reserve(fold_onnx *o, int first)
{
    fold_model_desc desc = fold_model_desc_default();
    fold_model_size size = fold_model_measure(o->model);
    const fold_memory memory = fold_model_memory(o->model);
    const int trains = size.grads > 0;
    desc.isa = fold_model_isa(o->model);
    desc.inference = 1;
    desc.memory.alloc = memory.alloc;
    desc.memory.free = memory.free;
    desc.memory.user = memory.user;
    fold_model *probe = fold_model_new(&desc);
    for (int i = first; i < o->n_weights; i++) {
        const fold_param_desc *weight = &o->weights[i]->desc;
        const int count = fold_onnx__elements(weight->shape),
                  columns = weight->shape.dim[weight->shape.rank - 1];
        const size_t bytes = ((size_t)count + 15) / 16 * 16 * sizeof(float);
        size.values += bytes;
        if (weight->shape.rank == 1)
            size.packs += bytes;
        if (weight->uses & (FOLD_FOR_LINEAR | FOLD_FOR_CONV))
            size.packs += fold_onnx__pack_bytes(probe, count / columns, columns);
        if (trains && weight->uses & (FOLD_FOR_LINEAR | FOLD_FOR_CONV))
            size.packs += fold_onnx__pack_bytes(probe, columns, count / columns);
    }
    size.grads = trains ? size.values : 0;
    if (fold_model_status(probe) == FOLD_OK)
        fold_model_reserve(o->model, &size);
    fold_model_free(probe);
}

/* Creates the parameter of a weight or, when saving, stores its values. */
static int fold_onnx__make_param(fold_onnx *o, fold_onnx__weight *w)
{
    fold_onnx__reads_now(o, "weight", w->value->name);
    w->param = o->saves ? fold_param_find(o->model, w->desc.name) : fold_param_new(o->model, &w->desc);
    if (o->saves && fold_param_is_null(w->param))
        return FOLD_ONNX__REFUSE(o, "the model has no parameter '%s'", w->desc.name);
    if (o->saves)
        return fold_onnx__store(o, w);
    float *out = fold_values_write_begin(o->model, w->param);
    if (out && !fold_param_is_null(w->param))
        fold_onnx__write_floats(w->value, w->view, w->scale, out);
    fold_values_write_end(o->model, w->param);
    o->failed |= fold_model_status(o->model) != FOLD_OK;
    return !o->failed;
}

/* Creates the planned parameters. Memory is reserved again after the first one: only then is it known whether
   the model trains. */
static int fold_onnx__make_params(fold_onnx *o)
{
    for (int i = 0; i < o->n_weights; i++) {
        if (i < 2 && !o->saves)
            fold_onnx__reserve(o, i);
        if (!fold_onnx__make_param(o, o->weights[i]))
            return 0;
    }
    for (int i = 0; i < o->n_values; i++)
        if (!fold_param_is_null(o->values[i].param))
            o->values[i].param = o->weights[o->values[i].param.id - 1]->param;
    for (int i = 0; i < o->n_steps; i++) {
        fold_onnx__step *s = &o->steps[i];
        for (size_t k = 0; k < sizeof s->param / sizeof *s->param; k++)
            if (!fold_param_is_null(s->param[k]))
                s->param[k] = o->weights[s->param[k].id - 1]->param;
        for (int k = 0; k < s->n_filters; k++)
            s->filters[k] = o->weights[s->filters[k].id - 1]->param;
    }
    memset(&o->node, 0, sizeof o->node);
    return !o->failed;
}

/* ---- moves ------------------------------------------------------------------------------------ */

/* The attributes of the user-defined ops are the dimensions of the result. */
static const char *fold_onnx__infer_attributes(const fold_shape *in, int n_in, const int32_t *attr,
                                               fold_shape *out)
{
    (void)in, (void)n_in;
    for (out[0].rank = 0; out[0].rank < FOLD_MAX_RANK && attr[out[0].rank]; out[0].rank++)
        out[0].dim[out[0].rank] = (int)attr[out[0].rank];
    return NULL;
}

static fold_node fold_onnx__apply_own(fold_ctx *f, fold_op op, const fold_node *in, int n_in,
                                      fold_shape shape)
{
    int32_t attr[FOLD_MAX_RANK] = { 0, 0, 0, 0 };
    for (int k = 0; k < shape.rank; k++)
        attr[k] = (int32_t)shape.dim[k];
    return fold_op_apply(f, op, in, n_in, attr, 0);
}

typedef void fold_onnx__kernel(const fold_op_call *c);
static fold_op fold_onnx__own_op(fold_onnx *o, const char *name, int n_in, fold_onnx__kernel *forward,
                                 fold_onnx__kernel *backward, const void *user)
{
    const fold_op none = { 0, 0 };
    fold_op_desc desc = fold_op_desc_default();
    desc.name = name;
    desc.n_in = n_in;
    desc.n_out = 1;
    desc.n_attr = FOLD_MAX_RANK;
    desc.infer = fold_onnx__infer_attributes;
    desc.forward = forward;
    desc.backward = backward;
    if (o->saves)
        return none;
    desc.needs = backward ? FOLD_NEEDS_IN : 0;
    desc.user = (void *)(uintptr_t)user;
    const fold_op op = fold_op_new(o->model, &desc);
    o->failed |= fold_model_status(o->model) != FOLD_OK;
    return op;
}

static void fold_onnx__move_forward(const fold_op_call *c)
{
    const fold_onnx__move *move = (const fold_onnx__move *)c->user;
    const int runs = move->count / move->run, run = move->run, *source = move->source;
    for (int row = 0; row < c->rows; row++) {
        const float *in = fold_row(&c->in[0], row);
        float *out = fold_row(&c->out[0], row);
        for (int i = 0; i < runs && run == 1 && !move->has_pad; i++)
            out[i] = in[source[i]];
        for (int i = 0; i < runs && (run > 1 || move->has_pad); i++, out += run) {
            if (source[i] >= 0)
                memcpy(out, in + source[i], (size_t)run * sizeof *out);
            for (int k = 0; k < run && source[i] < 0; k++)
                out[k] = move->pad;
        }
    }
}

static void fold_onnx__move_backward(const fold_op_call *c)
{
    const fold_onnx__move *move = (const fold_onnx__move *)c->user;
    const int runs = move->count / move->run, count = fold_onnx__elements(c->in_shape[0]);
    for (int row = 0; row < c->rows && fold_row(&c->din[0], row); row++) {
        float *in = fold_row(&c->din[0], row);
        const float *out = fold_row(&c->dout[0], row);
        memset(in, 0, (size_t)count * sizeof *in);
        for (int i = 0; i < runs; i++, out += move->run)
            for (int k = 0; k < move->run && move->source[i] >= 0; k++)
                in[move->source[i] + k] += out[k];
    }
}

/* The length of pieces into which all runs of adjacent values can be cut: the greatest common divisor of
   their lengths. */
static int fold_onnx__run_length(const int *source, int count)
{
    int run = 0;
    for (int i = 0, begin = 0; i < count; i++) {
        if (i + 1 < count && (source[i] < 0 ? source[i + 1] < 0 : source[i + 1] == source[i] + 1))
            continue;
        for (int length = i + 1 - begin; length;) {
            const int rest = run % length;
            run = length;
            length = rest;
        }
        begin = i + 1;
    }
    return run;
}

/* Whether `source` takes each of `all` values exactly once. */
static int fold_onnx__is_permutation(fold_onnx *o, const int *source, int count, int all)
{
    char *seen = count == all ? FOLD_ONNX__SCRATCH(o, char, all) : NULL;
    for (int i = 0; seen && i < count; i++)
        if (source[i] < 0 || seen[source[i]]++)
            return 0;
    return seen != NULL;
}

/* source[i] is the index of element i, of `count`, among `all` values; -1: padding. */
static fold_onnx__move *fold_onnx__new_move(fold_onnx *o, const int *source, int count, int all, float pad,
                                            fold_shape shape)
{
    if (!shape.rank)
        fold_onnx__too_many_axes(o, FOLD_MAX_RANK);
    fold_onnx__move *move = o->failed ? NULL : FOLD_ONNX__KEPT(o, fold_onnx__move, 1);
    if (!move)
        return NULL;
    move->shape = shape;
    move->run = fold_onnx__run_length(source, count);
    move->count = count;
    move->pad = pad;
    move->from = source[0];
    move->is_window = source[0] >= 0 && move->run == count;
    move->is_part = move->from || count != all;
    move->is_permutation = fold_onnx__is_permutation(o, source, count, all);
    if (move->is_window)
        return move;
    int *runs = FOLD_ONNX__KEPT(o, int, count / move->run);
    for (int i = 0; runs && i < count / move->run; i++) {
        runs[i] = source[i * move->run];
        move->has_pad |= runs[i] < 0;
    }
    move->source = runs;
    move->op = fold_onnx__own_op(o, "onnx move", 1, fold_onnx__move_forward, fold_onnx__move_backward, move);
    return move;
}

static fold_node fold_onnx__reshape(fold_ctx *f, fold_node x, fold_shape shape)
{
    return fold_onnx__same_shape(fold_node_shape(f, x), shape) ? x : fold_reshape(f, x, shape);
}
/* A run of adjacent values, as a vector. */
static fold_node fold_onnx__part(fold_ctx *f, fold_node x, int from, int count)
{
    const int all = fold_onnx__elements(fold_node_shape(f, x));
    x = fold_onnx__reshape(f, x, fold_shape1(all));
    return !from && count == all ? x : fold_slice(f, x, 0, from, count);
}

static void fold_onnx__record_move(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                   fold_node *out)
{
    const fold_onnx__move *move = s->move;
    out[0] = in[0];
    if (!move->is_window)
        out[0] = fold_onnx__apply_own(o->f, move->op, in, 1, move->shape);
    if (move->is_part && move->is_window)
        out[0] = fold_onnx__part(o->f, in[0], move->from, move->count);
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* A list's rows need as many axes as the nodes that they are combined with. */
static int fold_onnx__most_axes(fold_ctx *f, const fold_node *in, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++)
        if (fold_node_shape(f, in[i]).rank > most)
            most = fold_node_shape(f, in[i]).rank;
    return most;
}

static fold_node fold_onnx__with_axes(fold_ctx *f, fold_node x, int rank)
{
    fold_shape shape = fold_node_shape(f, x);
    const int more = rank - shape.rank;
    if (more < 1 || !shape.rank)
        return x;
    for (int k = rank; k-- > 0;)
        shape.dim[k] = k < more ? 1 : shape.dim[k - more];
    shape.rank = rank;
    return fold_reshape(f, x, shape);
}

static void fold_onnx__record_calls(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                    fold_node *out)
{
    const fold_onnx__calls *calls = &s->calls;
    const int rank = o->has_list && calls->two ? fold_onnx__most_axes(o->f, in, s->n_in) : 0;
    fold_node x = fold_onnx__with_axes(o->f, in[0], rank);
    if (calls->one)
        x = calls->one(o->f, x);
    for (int i = 1; i < s->n_in && calls->two; i++)
        x = calls->two(o->f, x, fold_onnx__with_axes(o->f, in[i], rank));
    if (calls->with)
        x = calls->with(o->f, x, s->real[0]);
    if (calls->between)
        x = calls->between(o->f, x, s->real[0], s->real[1]);
    if (calls->along)
        x = calls->along(o->f, x, s->number[0]);
    if (calls->after)
        x = calls->after(o->f, x);
    out[0] = x;
}

/* Begins a step for the current node. The step joins the file's steps when fold_onnx__makes sets its first
   output. */
static fold_onnx__step fold_onnx__begin(fold_onnx *o, fold_onnx__recorder *record, int n_in)
{
    fold_onnx__step s;
    memset(&s, 0, sizeof s);
    if (o->node.n_in && fold_onnx__in(o, 0)->is_integer && !(o->node.op->flags & FOLD_ONNX__INTEGERS))
        FOLD_ONNX__REFUSE(o, "'%.60s' has integers, which are not supported here", fold_onnx__in(o, 0)->name);
    s.record = record;
    s.op = o->node.op;
    s.from = o->node.in;
    s.n_in = n_in;
    s.in = FOLD_ONNX__KEPT(o, int, n_in);
    s.nodes = FOLD_ONNX__KEPT(o, fold_node, n_in + FOLD_ONNX__OUTS);
    return s;
}

/* Sets output i of a step to the value `index`; 0: not used. Set output 0 last, since that adds the step. */
static int fold_onnx__makes(fold_onnx *o, fold_onnx__step *s, int i, int index, const fold_onnx__dims *dims)
{
    fold_onnx__value *value = &o->values[index];
    if (o->n_steps == o->most_steps)
        FOLD_ONNX__REFUSE(o, "too many steps");
    if (o->failed || (index && !fold_onnx__set_dims(o, value, dims)))
        return 0;
    s->out[i] = index;
    if (i >= s->n_out)
        s->n_out = i + 1;
    if (index) {
        value->shape = fold_onnx__shape(dims);
        value->origin = FOLD_ONNX__COMPUTED;
        value->step = o->n_steps;
        if (!value->shape.rank)
            return fold_onnx__too_many_axes(o, FOLD_MAX_RANK);
    }
    if (!i)
        o->steps[o->n_steps++] = *s;
    return 1;
}

/* The step that makes a value, or NULL. */
static const fold_onnx__step *fold_onnx__maker(const fold_onnx *o, int index)
{
    return o->values[index].origin == FOLD_ONNX__COMPUTED ? &o->steps[o->values[index].step] : NULL;
}
/* The move that makes a value, or NULL. */
static const fold_onnx__move *fold_onnx__move_of(const fold_onnx *o, int index)
{
    const fold_onnx__step *before = fold_onnx__maker(o, index);
    return before ? before->move : NULL;
}

/* If a move makes this value by permuting another, sets *move and returns the other value. Otherwise returns
   this value and sets *move to NULL. */
static int fold_onnx__base(const fold_onnx *o, int index, const fold_onnx__move **move)
{
    *move = fold_onnx__move_of(o, index);
    if (*move && !(*move)->is_permutation)
        *move = NULL;
    return *move ? fold_onnx__maker(o, index)->in[0] : index;
}

/* Makes a move from a view of the value *index. If that value is itself the result of a move, *index becomes
   the source of that, and the new move does both. */
static fold_onnx__move *fold_onnx__trace(fold_onnx *o, int *index, const fold_onnx__view *view,
                                         fold_shape shape)
{
    const fold_onnx__move *before = fold_onnx__move_of(o, *index);
    int count, *source = fold_onnx__sources(o, view, &count);
    const int run = before ? before->run : 1, composes = before && !before->has_pad;
    if (composes)
        *index = fold_onnx__maker(o, *index)->in[0];
    for (int i = 0; source && i < count && composes; i++) {
        const int at = source[i];
        if (at >= 0)
            source[i] = before->is_window ? before->from + at : before->source[at / run] + at % run;
    }
    return fold_onnx__new_move(o, source, count, o->values[*index].count, view->pad, shape);
}

static int fold_onnx__makes_move(fold_onnx *o, int from, const fold_onnx__move *move, int to,
                                 const fold_onnx__dims *dims)
{
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_move, 1);
    s.move = move;
    if (o->failed)
        return 0;
    s.in[0] = from;
    if (fold_onnx__makes(o, &s, 0, to, dims))
        o->values[to].shape = move->shape;
    return !o->failed;
}

/* Sets operand i of a step to a view of a value, for which another value may be added; view NULL: to the
   value itself. */
static int fold_onnx__reads(fold_onnx *o, fold_onnx__step *s, int i, int index, const fold_onnx__view *view,
                            fold_shape shape)
{
    if (o->failed)
        return 0;
    if (fold_onnx__is_fixed(o, index) &&
        !fold_onnx__use_constant(o, index, i && o->node.op->flags & FOLD_ONNX__FREEZES))
        return 0;
    const fold_onnx__move *move = view ? fold_onnx__trace(o, &index, view, shape) : NULL;
    if (move &&
        !(move->is_window && !move->is_part && fold_onnx__same_shape(shape, o->values[index].shape))) {
        const fold_onnx__dims dims = { 1, { move->count } };
        const int inner = fold_onnx__new_value(o, o->values[index].name);
        fold_onnx__makes_move(o, index, move, inner, &dims);
        index = inner;
    }
    if (!o->failed)
        s->in[i] = index;
    return !o->failed;
}

/* Sets operand i of a step to a value in a different shape. */
static int fold_onnx__reads_shape(fold_onnx *o, fold_onnx__step *s, int i, int index, fold_shape shape)
{
    const fold_onnx__view view = fold_onnx__view_of(o, &o->values[index].dims);
    return fold_onnx__reads(o, s, i, index, &view, shape);
}

/* Ends a step whose result has the shape `made`. The node's output is a move of that result; NULL: the result
   itself. */
static int fold_onnx__makes_moved(fold_onnx *o, fold_onnx__step *s, const fold_onnx__dims *made,
                                  const fold_onnx__move *move, const fold_onnx__dims *dims)
{
    if (!move || o->failed)
        return fold_onnx__makes(o, s, 0, o->node.out[0], dims);
    const int inner = fold_onnx__new_value(o, fold_onnx__out(o)->name);
    return fold_onnx__makes(o, s, 0, inner, made) &&
           fold_onnx__makes_move(o, inner, move, o->node.out[0], dims);
}

/* The same, with a view of the result as output. */
static int fold_onnx__makes_view(fold_onnx *o, fold_onnx__step *s, const fold_onnx__dims *made,
                                 const fold_onnx__view *view)
{
    int count = 0;
    const int all = fold_onnx__size(o, made);
    if (o->failed || !fold_onnx__moves(view, all))
        return fold_onnx__makes(o, s, 0, o->node.out[0], &view->dims);
    const int *source = fold_onnx__sources(o, view, &count);
    const fold_onnx__move *move =
        fold_onnx__new_move(o, source, count, all, 0, fold_onnx__shape(&view->dims));
    return fold_onnx__makes_moved(o, s, made, move, &view->dims);
}

/* The same, with an output whose axis i is axis order[i] of the result. */
static int fold_onnx__makes_permuted(fold_onnx *o, fold_onnx__step *s, const fold_onnx__dims *made,
                                     const int *order)
{
    const fold_onnx__view all = fold_onnx__view_of(o, made), view = fold_onnx__permuted(&all, order);
    return fold_onnx__makes_view(o, s, made, &view);
}

/* Makes an output that is a view of the first input, in this shape; constant if the input is. */
static int fold_onnx__emit(fold_onnx *o, const fold_onnx__view *view, int out, const fold_onnx__dims *dims)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0);
    fold_onnx__value *to = &o->values[out];
    int index[FOLD_ONNX_RANK] = { 0 }, source = o->node.in[0];
    if (o->failed)
        return 0;
    if (from->origin != FOLD_ONNX__FIXED) {
        const fold_onnx__move *move = fold_onnx__trace(o, &source, view, fold_onnx__shape(dims));
        to->is_integer = from->is_integer;
        return fold_onnx__makes_move(o, source, move, out, dims);
    }
    const int moves = fold_onnx__moves(view, from->count);
    if (!fold_onnx__fix_as(o, to, dims, from->is_integer))
        return 0;
    to->type = from->type;
    to->raw = moves || to->is_integer ? NULL : from->raw; /* the same bytes */
    float *floats = !to->raw && !to->is_integer ? FOLD_ONNX__PASSING(o, float, to->count) : NULL;
    if ((to->floats = floats) != NULL)
        fold_onnx__write_floats(from, moves ? view : NULL, 1, floats);
    if (to->is_integer)
        to->numbers = FOLD_ONNX__PASSING(o, double, to->count);
    for (int i = 0; to->numbers && i < to->count; i++) {
        source = fold_onnx__next_source(view, index);
        to->numbers[i] = source < 0 ? (double)view->pad : fold_onnx__number(from, source);
    }
    return !o->failed;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static int fold_onnx__open_if(fold_onnx *o, const fold_onnx__value *from); /* it opens nodes */
#include "fold_onnx_ops.h"

/* ---- opening ---------------------------------------------------------------------------------- */

/* `list` has words, separated by spaces. */
static int fold_onnx__is_listed(const char *list, const char *word)
{
    char all[160], one[120];
    fold_onnx__format(all, sizeof all, " %s ", list);
    fold_onnx__format(one, sizeof one, " %s ", word);
    return !strchr(word, ' ') && strstr(all, one) != NULL;
}

/* Reads the inputs or outputs of a node. An input without a name is left out, and an output without one is
   not used. */
static int *fold_onnx__names(fold_onnx *o, int number, int maker, int *count)
{
    fold_onnx__span from = o->node.bytes;
    fold_onnx__field field;
    *count = fold_onnx__field_of(o, from, number, &field);
    int *names = FOLD_ONNX__PASSING(o, int, *count + 1);
    for (int i = 0; names && fold_onnx__next_of(o, &from, number, &field); i++) {
        const int name = names[i] = fold_onnx__meant(o, field.bytes);
        fold_onnx__value *value = &o->values[name];
        if (!maker || !name)
            continue;
        if (value->origin != FOLD_ONNX__UNKNOWN || value->maker)
            FOLD_ONNX__REFUSE(o, "'%.60s' is made twice", value->name);
        value->maker = maker;
    }
    return o->failed ? NULL : names;
}

static int fold_onnx__node_fits(fold_onnx *o)
{
    const fold_onnx__op *op = o->node.op;
    fold_onnx__span from = o->node.bytes;
    fold_onnx__field field;
    if (o->node.n_in < op->least || o->node.n_in > op->most)
        return FOLD_ONNX__REFUSE(o, "%d inputs are not supported", o->node.n_in);
    if (o->node.n_out < 1 || (!o->node.out[0] && !(op->flags & FOLD_ONNX__LEAVES)))
        return FOLD_ONNX__REFUSE(o, "no output");
    while (fold_onnx__next_of(o, &from, 5, &field)) {
        const char *name = fold_onnx__text_of(o, field.bytes, 1);
        if (!fold_onnx__is_listed(op->attributes, name))
            return FOLD_ONNX__REFUSE(o, "attribute %.60s is not supported", name);
    }
    for (int i = 0; i < o->node.n_in; i++) {
        const fold_onnx__value *value = fold_onnx__in(o, i);
        if (!fold_onnx__has_in(o, i) && (i < op->least || op->most == FOLD_ONNX__ANY))
            return FOLD_ONNX__REFUSE(o, "input %d is left out", i);
        if (!i && fold_onnx__is_fixed(o, o->node.in[i]) && !value->count && !(op->flags & FOLD_ONNX__EMPTY))
            return fold_onnx__is_empty(o, value);
        /* few ops read integers that are not constant, since they are stored as floats */
        if (value->is_integer && value->origin != FOLD_ONNX__FIXED && !(op->flags & FOLD_ONNX__INTEGERS))
            return FOLD_ONNX__REFUSE(o, "'%s' has integers that are not constant", value->name);
        if (value->is_integer == 2 && (op->flags & FOLD_ONNX__COUNTS) == FOLD_ONNX__COUNTS)
            return FOLD_ONNX__REFUSE(o, "'%s' has integers of 8 bits, which wrap; cast them", value->name);
    }
    return !o->failed;
}

/* Ends a part of the file that makes n values. If the part was refused, these are refused too, and the steps
   and values begun for them are removed. Returns 0 if the model has an error. */
static int fold_onnx__end_part(fold_onnx *o, const int *made, int n, int n_steps, int n_values)
{
    o->budget += fold_onnx__release(o, &o->scratch);
    if (!o->failed)
        return 1;
    if (fold_model_status(o->model))
        return 0;
    o->failed = 0;
    const char *why = o->why;
    char *copy = FOLD_ONNX__KEPT(o, char, strlen(why) + 1);
    if (!copy)
        return 0;
    strcpy(copy, why);
    for (int i = 0; i < n; i++) {
        if (!made[i])
            continue;
        o->values[made[i]].origin = FOLD_ONNX__REFUSED;
        o->values[made[i]].why = copy;
    }
    o->n_steps = n_steps;
    o->n_values = n_values;
    return 1;
}

/* Finds the function of the file that a node calls, by its name, domain and overload. */
static int fold_onnx__function_of(fold_onnx *o, fold_onnx__span node, fold_onnx__field *function)
{
    static const int of_node[3] = { 4, 7, 8 }, of_function[3] = { 1, 10, 13 };
    fold_onnx__field wanted, there;
    for (fold_onnx__span from = o->file; o->has_functions && fold_onnx__next_of(o, &from, 25, function);) {
        int same = 1;
        for (int i = 0; i < 3; i++) {
            fold_onnx__field_of(o, node, of_node[i], &wanted);
            fold_onnx__field_of(o, function->bytes, of_function[i], &there);
            same &= fold_onnx__same_text(wanted.bytes, there.bytes);
        }
        if (same)
            return 1;
    }
    return 0;
}

/* Reads the type, inputs and outputs of a node, before any node is opened. */
static int fold_onnx__read_node(fold_onnx *o, fold_onnx__node *node, int maker, fold_onnx__span bytes)
{
    const char *name = fold_onnx__text_of(o, bytes, 3);
    fold_onnx__reads_now(o, fold_onnx__text_of(o, bytes, 4), *name ? name : fold_onnx__text_of(o, bytes, 2));
    o->node.bytes = bytes;
    o->node.in = fold_onnx__names(o, 1, 0, &o->node.n_in);
    o->node.out = fold_onnx__names(o, 2, maker, &o->node.n_out);
    for (size_t i = 0; i < sizeof fold_onnx__ops / sizeof *fold_onnx__ops; i++)
        if (!strcmp(fold_onnx__ops[i].type, o->node.type))
            o->node.op = &fold_onnx__ops[i];
    *node = o->node;
    return !o->failed;
}

static int fold_onnx__open_function(fold_onnx *o, fold_onnx__span function); /* it opens nodes */
static int fold_onnx__open_node(fold_onnx *o)
{
    fold_onnx__node *node = &o->node;
    const char *domain = fold_onnx__text_of(o, node->bytes, 7);
    fold_onnx__field function;
    for (int i = 0; i < node->n_in; i++) {
        const fold_onnx__value *value = fold_onnx__in(o, i);
        if (node->in[i] && value->origin == FOLD_ONNX__UNKNOWN)
            return FOLD_ONNX__REFUSE(o, "nothing makes '%.60s'%s", value->name,
                                     value->maker ? ", except nodes that need it" : "");
        if (value->origin != FOLD_ONNX__REFUSED)
            continue;
        fold_onnx__format(o->why, sizeof o->why, "%s", value->why);
        return o->failed = 1, 0;
    }
    if (fold_onnx__function_of(o, node->bytes, &function))
        return fold_onnx__open_function(o, function.bytes);
    if (*domain && strcmp(domain, "ai.onnx") != 0)
        return FOLD_ONNX__REFUSE(o, "an op of the domain '%.60s', not ONNX's own", domain);
    if (!node->op)
        return FOLD_ONNX__REFUSE(o, "this op is not supported%s",
                                 strcmp(node->type, "Loop") && strcmp(node->type, "Scan")
                                     ? ""
                                     : "; export the layer unrolled, or one step with its state as an input");
    while (node->n_in && !node->in[node->n_in - 1])
        node->n_in--; /* trailing ones that are left out */
    return fold_onnx__node_fits(o) && ((node->op->open)(o, node->n_in ? fold_onnx__in(o, 0) : NULL) ||
                                       FOLD_ONNX__REFUSE(o, "this form of it is not supported"));
}

/* Opens a node. The values and steps of a refused branch or function stay, since these values have names. */
static int fold_onnx__open_part(fold_onnx *o, const fold_onnx__node *node)
{
    const int n_steps = o->n_steps, n_values = o->n_values, n_nodes = o->n_nodes;
    o->node = *node;
    fold_onnx__open_node(o);
    const int is_if = o->n_nodes > n_nodes;
    return fold_onnx__end_part(o, node->out, node->n_out, is_if ? o->n_steps : n_steps,
                               is_if ? o->n_values : n_values);
}

/* Opens each node of a graph or function after those that make its inputs, whatever their order in the file.
   Makers are numbered across all graphs. */
static int fold_onnx__open_nodes(fold_onnx *o, fold_onnx__span graph, int number)
{
    fold_onnx__field field;
    const int n = fold_onnx__field_of(o, graph, number, &field), before = o->n_nodes;
    fold_onnx__node *nodes = FOLD_ONNX__PASSING(o, fold_onnx__node, n + 1);
    int *waiting = FOLD_ONNX__PASSING(o, int, n + 1), depth = 0;
    o->n_nodes += n;
    for (int i = 0; waiting && fold_onnx__next_of(o, &graph, number, &field); i++)
        if (!fold_onnx__read_node(o, &nodes[i], before + i + 1, field.bytes))
            return 0;
    for (int i = 0; waiting && i < n; i++)
        for (waiting[depth++] = i; depth;) {
            fold_onnx__node *node = &nodes[waiting[depth - 1]];
            const int left = !node->is_open && node->next < node->n_in;
            const int maker = left ? o->values[node->in[node->next++]].maker - before : 0;
            if (maker > 0 && maker <= n && !nodes[maker - 1].next && !nodes[maker - 1].is_open)
                waiting[depth++] = maker - 1;
            if (left)
                continue;
            depth--;
            if (node->is_open)
                continue;
            node->is_open = 1;
            if (!fold_onnx__open_part(o, node))
                return 0;
        }
    return !o->failed;
}

/* Reads the shape and type of a ValueInfoProto. Axes that are left open become 1. */
static int fold_onnx__read_shape(fold_onnx *o, fold_onnx__span info, fold_onnx__value *value)
{
    fold_onnx__field type, tensor, shape, field, dim;
    memset(&tensor, 0, sizeof tensor);
    if (fold_onnx__field_of(o, info, 2, &type) && !fold_onnx__field_of(o, type.bytes, 1, &tensor))
        return FOLD_ONNX__REFUSE(o, "it is no tensor");
    if (fold_onnx__field_of(o, tensor.bytes, 1, &field)) {
        const fold_onnx__type *known = fold_onnx__type_of(field.value);
        if (!known)
            return fold_onnx__no_type(o, field.value);
        value->is_integer = known->is_integer;
        value->type = known;
    }
    if (!fold_onnx__field_of(o, tensor.bytes, 2, &shape))
        value->dims.rank = -1;
    while (fold_onnx__next_of(o, &shape.bytes, 1, &field)) {
        if (value->dims.rank == FOLD_ONNX_RANK)
            return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
        const int told = fold_onnx__field_of(o, field.bytes, 1, &dim) && (int64_t)dim.value >= 0;
        value->dims.dim[value->dims.rank++] = !told ? 1 : dim.value > INT_MAX ? INT_MAX : (int)dim.value;
    }
    return !o->failed;
}

/* The value of a name, which messages then begin with; 0 after an error. */
static int fold_onnx__open_value(fold_onnx *o, const char *what, fold_onnx__span name)
{
    const int index = fold_onnx__meant(o, name);
    fold_onnx__reads_now(o, what, index ? o->values[index].name : "");
    return index ? index : FOLD_ONNX__REFUSE(o, "it has no name");
}

/* In old files weights are also listed as inputs; these already have a value. */
static int fold_onnx__open_input(fold_onnx *o, fold_onnx__span info, int index)
{
    const fold_onnx_binding *bound = NULL;
    fold_onnx__value *value = &o->values[index];
    if (!index)
        return 0;
    if (value->origin == FOLD_ONNX__INPUT)
        return fold_onnx__fail(o, FOLD_IO, "it is there twice");
    if (value->origin != FOLD_ONNX__UNKNOWN)
        return 1;
    for (int i = 0; i < o->desc.n_bindings; i++)
        if (o->desc.bindings[i].name && !strcmp(o->desc.bindings[i].name, value->name))
            bound = &o->desc.bindings[i];
    if (!fold_onnx__read_shape(o, info, value))
        return 0;
    fold_onnx__dims dims = value->dims;
    value->dims.rank = 0;
    if (bound && bound->has_shape) {
        dims.rank = bound->rank;
        memcpy(dims.dim, bound->dim, sizeof dims.dim);
    }
    if (dims.rank < 0)
        return FOLD_ONNX__REFUSE(o, "it has no shape; give one with fold_onnx_desc.bindings");
    if (bound && bound->values) {
        double *numbers = fold_onnx__fix(o, value, &dims, value->is_integer);
        if (numbers && bound->count && bound->count != value->count)
            return FOLD_ONNX__REFUSE(o, "%d values are bound to a shape of %d", bound->count, value->count);
        for (int i = 0; numbers && i < value->count; i++)
            numbers[i] = (double)bound->values[i];
        return numbers != NULL;
    }
    value->origin = FOLD_ONNX__INPUT;
    value->shape = fold_onnx__shape(&dims);
    if (!fold_onnx__set_dims(o, value, &dims))
        return 0;
    if (!value->shape.rank)
        return fold_onnx__too_many_axes(o, FOLD_MAX_RANK);
    return o->inputs[o->n_inputs++] = index;
}

/* Counts the weights of a graph, and the outputs and inputs of its nodes, which are in the field `number`;
   including those of its branches and of the functions that it calls. */
typedef struct fold_onnx__count {
    int weights, made, read, depth;
} fold_onnx__count;
enum { FOLD_ONNX__MOST_DEPTH = 16 };
static void fold_onnx__count_graph(fold_onnx *o, fold_onnx__span graph, int number, fold_onnx__count *count)
{
    fold_onnx__field field, node, type, inner;
    if (count->depth++ == FOLD_ONNX__MOST_DEPTH)
        FOLD_ONNX__REFUSE(o, "branches or functions in each other, more than %d deep",
                          (int)FOLD_ONNX__MOST_DEPTH);
    if (count->made + count->read > INT_MAX / 1024)
        FOLD_ONNX__REFUSE(o, "too many nodes");
    if (number == 1)
        count->weights +=
            fold_onnx__field_of(o, graph, 5, &field) + fold_onnx__field_of(o, graph, 15, &field);
    count->made += number == 7 ? 1 + fold_onnx__field_of(o, graph, 4, &field) : 0;
    while (fold_onnx__next_of(o, &graph, number, &node)) {
        fold_onnx__field_of(o, node.bytes, 4, &type);
        const int is_if = fold_onnx__is(type.bytes, "If"),
                  is_pool = fold_onnx__is(type.bytes, "MaxPool") || fold_onnx__is(type.bytes, "AveragePool");
        count->made += fold_onnx__field_of(o, node.bytes, 2, &field);
        count->made += is_pool ? FOLD_ONNX__MOST_WINDOWS - 1 : 0; /* of one axis each */
        count->read += fold_onnx__field_of(o, node.bytes, 1, &field);
        if (fold_onnx__function_of(o, node.bytes, &inner))
            fold_onnx__count_graph(o, inner.bytes, 7, count);
        for (fold_onnx__span from = node.bytes; is_if && fold_onnx__next_of(o, &from, 5, &field);)
            if (fold_onnx__field_of(o, field.bytes, 6, &inner))
                fold_onnx__count_graph(o, inner.bytes, 1, count);
    }
    count->depth--;
}

/* Allocates tables for the most that the graph can need: each input and output of a node may need a move,
   whose result is another value. Only convolutions can need more parameters, one for each group. */
static int fold_onnx__make_tables(fold_onnx *o, fold_onnx__span model, fold_onnx__span graph)
{
    fold_onnx__field field;
    fold_onnx__count count = { 0, 0, 0, 0 };
    fold_onnx__count_graph(o, graph, 1, &count);
    const int n_inputs = fold_onnx__field_of(o, graph, 11, &field), n_weights = count.weights,
              n_outputs = fold_onnx__field_of(o, graph, 12, &field), made = count.made, read = count.read,
              n_metadata = fold_onnx__field_of(o, model, 14, &field);
    if (made + read > INT_MAX / 32 || n_weights > INT_MAX / 32)
        return FOLD_ONNX__REFUSE(o, "too many nodes");
    o->most_steps = 2 * made + read;
    o->most_values = 1 + n_inputs + n_outputs + n_weights + 2 * made + 2 * read;
    o->n_named = 16;
    while (o->n_named < 4 * o->most_values && o->n_named < 1 << 28)
        o->n_named *= 2;
    if (o->failed)
        return 0;
    o->values = FOLD_ONNX__KEPT(o, fold_onnx__value, o->most_values);
    o->steps = FOLD_ONNX__KEPT(o, fold_onnx__step, o->most_steps + 1);
    o->named = FOLD_ONNX__KEPT(o, int, o->n_named);
    o->weights = FOLD_ONNX__PASSING(o, fold_onnx__weight *, 2 * o->most_values + FOLD_ONNX__FILTERS);
    o->inputs = FOLD_ONNX__KEPT(o, int, n_inputs + 1);
    o->outputs = FOLD_ONNX__KEPT(o, int, n_outputs + 1);
    o->metadata = FOLD_ONNX__KEPT(o, fold_onnx__pair, n_metadata + 1);
    o->n_values = 1;
    return !o->failed;
}

/* Opens weights, sparse weights, inputs or outputs of a graph, which are in the field `number`. One that is
   refused is no error until it is needed. */
static int fold_onnx__open_values(fold_onnx *o, fold_onnx__span graph, int number)
{
    fold_onnx__field field, name;
    while (fold_onnx__next_of(o, &graph, number, &field)) {
        const char *kind = number == 11 ? "input" : number == 12 ? "output" : "weight";
        /* the tensor of its values has its name */
        if (number == 15)
            fold_onnx__field_of(o, field.bytes, 1, &field);
        fold_onnx__field_of(o, field.bytes, *kind == 'w' ? 8 : 1, &name);
        const int index = fold_onnx__open_value(o, kind, name.bytes);
        if (!index)
            return 0;
        if (number == 15)
            FOLD_ONNX__REFUSE(o, "it is sparse");
        else if (number == 5)
            fold_onnx__read_tensor(o, field.bytes, &o->values[index]);
        else if (number == 11)
            fold_onnx__open_input(o, field.bytes, index);
        else
            o->outputs[o->n_outputs++] = index;
        if (number == 12 && fold_onnx__is_fixed(o, index))
            fold_onnx__use_constant(o, index, 0);
        if (!fold_onnx__end_part(o, &index, 1, o->n_steps, o->n_values))
            return 0;
    }
    memset(&o->node, 0, sizeof o->node);
    return 1;
}

/* Makes the outputs of a branch or function, which are in its field `number`, the outputs of the node. Where
   one was refused, the node's output is refused too. */
static int fold_onnx__hand_out(fold_onnx *o, const fold_onnx__node *node, fold_onnx__span from, int number)
{
    fold_onnx__field field, name;
    o->node = *node;
    for (int i = 0; i < node->n_out && fold_onnx__next_of(o, &from, number, &field); i++) {
        if (number == 12 && fold_onnx__field_of(o, field.bytes, 1, &name))
            field = name;
        int index = fold_onnx__meant(o, field.bytes);
        const fold_onnx__value *made = &o->values[index];
        const fold_onnx__view view = fold_onnx__view_of(o, &made->dims);
        o->node.in = &index;
        o->node.n_in = 1;
        if (made->origin == FOLD_ONNX__UNKNOWN)
            return FOLD_ONNX__REFUSE(o, "nothing makes output %d of the %s", i,
                                     number == 12 ? "branch" : "function");
        if (node->out[i] && made->origin == FOLD_ONNX__REFUSED) {
            o->values[node->out[i]].origin = FOLD_ONNX__REFUSED;
            o->values[node->out[i]].why = made->why;
        } else if (node->out[i] && !fold_onnx__emit(o, &view, node->out[i], &view.dims))
            return 0;
    }
    o->node = *node;
    return !o->failed;
}

/* Opens the nodes of the branch that a known condition takes, in place of the If. Names in a branch must
   differ from those around it. */
static int fold_onnx__open_if(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__node node = o->node;
    fold_onnx__field graph, field;
    double condition = 0;
    (void)from;
    if (!fold_onnx__scalar(o, node.in[0], &condition))
        return FOLD_ONNX__REFUSE(o, "a condition that is not constant; bind its input if it is a setting");
    if (!fold_onnx__attribute(o, condition != 0 ? "then_branch" : "else_branch", 6, &graph))
        return FOLD_ONNX__REFUSE(o, "no branch for this condition");
    if (fold_onnx__field_of(o, graph.bytes, 12, &field) != node.n_out)
        return FOLD_ONNX__REFUSE(o, "a branch whose outputs do not match the node's");
    o->n_nodes++;
    return fold_onnx__open_values(o, graph.bytes, 5) && fold_onnx__open_nodes(o, graph.bytes, 1) &&
           fold_onnx__hand_out(o, &node, graph.bytes, 12);
}

/* Reads the version of ONNX's own ops, whose domain is "" or "ai.onnx", from the field `number`. */
static int fold_onnx__read_version(fold_onnx *o, fold_onnx__span model, int number)
{
    fold_onnx__field field, version;
    while (fold_onnx__next_of(o, &model, number, &field)) {
        const char *domain = fold_onnx__text_of(o, field.bytes, 1);
        if ((!*domain || !strcmp(domain, "ai.onnx")) && fold_onnx__field_of(o, field.bytes, 2, &version))
            o->version = version.value < 1000 ? (int)version.value : 1000;
    }
    if (!o->version)
        return FOLD_ONNX__REFUSE(o, "the file does not name its opset of ONNX's own ops (domain '')");
    if (o->version < 0 || o->version > 25)
        return FOLD_ONNX__REFUSE(o, "the file has opset %d of ONNX's own ops, not 1 to 25", o->version);
    return !o->failed;
}

/* Opens the nodes of a function of the file in place of a call. Its opset may be different. */
static int fold_onnx__open_function(fold_onnx *o, fold_onnx__span function)
{
    static const fold_onnx__op call = FOLD_ONNX__MOVE("", 0, FOLD_ONNX__ANY, "", NULL);
    const fold_onnx__scope *outer = o->scope;
    const char *before = outer ? outer->prefix : "";
    const size_t size = strlen(before) + strlen(o->node.type) + 16;
    const int version = o->version, number = o->n_nodes++;
    fold_onnx__node node = o->node;
    fold_onnx__field field;
    char *prefix = FOLD_ONNX__KEPT(o, char, size);
    if (!prefix)
        return 0;
    fold_onnx__format(prefix, size, "%s%s.%d/", before, node.type, number);
    const fold_onnx__scope scope = { outer, prefix, node.bytes, function };
    fold_onnx__span from = function;
    o->scope = &scope;
    node.op = &call;
    for (int i = 0; fold_onnx__next_of(o, &from, 4, &field); i++) {
        const int name = fold_onnx__meant(o, field.bytes);
        if (name)
            o->values[name].stands_for = i < node.n_in && node.in[i] ? node.in[i] : -1;
    }
    const int made = fold_onnx__read_version(o, function, 9) && fold_onnx__open_nodes(o, function, 7) &&
                     fold_onnx__hand_out(o, &node, function, 5);
    o->scope = outer;
    o->version = version;
    return made;
}

/* A binding that names no input is misspelt, or is for a different file. */
static int fold_onnx__bindings_fit(fold_onnx *o, fold_onnx__span graph)
{
    fold_onnx__field field;
    for (int i = 0; i < o->desc.n_bindings; i++) {
        const char *name = o->desc.bindings[i].name;
        int found = !name || !*name;
        for (fold_onnx__span from = graph; !found && fold_onnx__next_of(o, &from, 11, &field);)
            found = !strcmp(fold_onnx__text_of(o, field.bytes, 1), name);
        if (!found)
            return FOLD_ONNX__REFUSE(o, "no input is named '%.60s', as a binding is%s", name,
                                     fold_onnx__nearest(o, name, FOLD_ONNX__INPUT));
    }
    return !o->failed;
}

/* Reads a ModelProto. A constant output is a value like any other; an output that nothing makes has a count
   of 0. Fails if all outputs are refused. */
static int fold_onnx__open_all(fold_onnx *o, fold_onnx__span model)
{
    fold_onnx__field graph, field;
    int refused = 0, made = 0;
    o->file = model;
    o->has_functions = fold_onnx__field_of(o, model, 25, &field);
    if (!fold_onnx__field_of(o, model, 7, &graph) || graph.wire != FOLD_ONNX__BYTES)
        return fold_onnx__fail(o, FOLD_IO, "the file has no graph");
    if (!fold_onnx__make_tables(o, model, graph.bytes) || !fold_onnx__read_version(o, model, 8))
        return 0;
    for (fold_onnx__span from = model; fold_onnx__next_of(o, &from, 14, &field); o->n_metadata++) {
        o->metadata[o->n_metadata].key = fold_onnx__text_of(o, field.bytes, 1);
        o->metadata[o->n_metadata].text = fold_onnx__text_of(o, field.bytes, 2);
    }
    if (!fold_onnx__open_values(o, graph.bytes, 5) || !fold_onnx__open_values(o, graph.bytes, 15) ||
        !fold_onnx__open_values(o, graph.bytes, 11) || !fold_onnx__bindings_fit(o, graph.bytes) ||
        !fold_onnx__open_nodes(o, graph.bytes, 1) || !fold_onnx__open_values(o, graph.bytes, 12))
        return 0;
    for (int i = o->n_outputs; i-- > 0;) {
        const int origin = o->values[o->outputs[i]].origin;
        if (origin == FOLD_ONNX__REFUSED)
            refused = o->outputs[i];
        else
            made |= origin != FOLD_ONNX__UNKNOWN;
    }
    if (refused && !made)
        fold_onnx__format(o->why, sizeof o->why, "%s", o->values[refused].why);
    return !o->failed && (made || !refused) && fold_onnx__make_params(o);
}

FOLD_API fold_onnx_desc fold_onnx_desc_default(void)
{
    fold_onnx_desc desc;
    memset(&desc, 0, sizeof desc);
    return desc;
}

/* path NULL: the file is in memory. */
static fold_onnx *fold_onnx__open(fold_model *m, const char *path, const void *bytes, size_t size,
                                  const fold_onnx_desc *desc, int saves)
{
    enum { FOLD_ONNX__ROOM = 64 << 20 };
    const unsigned char *begin = (const unsigned char *)bytes;
    fold_onnx__span file = { begin, begin ? begin + size : NULL };
    fold_onnx begun;
    (void)path;
    memset(&begun, 0, sizeof begun);
    if (!m || fold_model_status(m))
        return NULL;
    begun.model = m;
    if (desc)
        begun.desc = *desc;
    begun.budget = begun.most = begun.desc.max_bytes
                                    ? begun.desc.max_bytes
                                    : 8 * (begin && size < SIZE_MAX / 16 ? size : 0) + FOLD_ONNX__ROOM;
    fold_onnx *o = FOLD_ONNX__KEPT(&begun, fold_onnx, 1);
    if (!o)
        return NULL;
    *o = begun; /* into its own memory */
#ifndef FOLD_NO_STDIO
    for (const char *at = o->folder = path; path && *at; at++)
        if (*at == '/' || *at == '\\')
            o->folder_length = (int)(at - path) + 1;
    if (path)
        file.at = file.end = fold_onnx__read_part(o, path, 0, SIZE_MAX);
    if (file.at && path)
        file.end += o->read;
#endif
    o->saves = saves;
    unsigned char *copy = saves ? FOLD_ONNX__KEPT(o, unsigned char, file.end - file.at + 1) : NULL;
    if (copy) {
        memcpy(copy, file.at, (size_t)(file.end - file.at));
        file.end = copy + (file.end - file.at);
        file.at = copy;
    }
    const int opened = !o->failed && fold_onnx__open_all(o, file);
    if (!opened && !fold_model_status(m))
        fold_model_fail(m, FOLD_BAD_ARGUMENT, o->why);
    fold_onnx__release(o, &o->passing);
    fold_onnx__release(o, &o->scratch);
    memset(&o->node, 0, sizeof o->node);
    memset(&o->desc, 0, sizeof o->desc);
    if (opened)
        return o;
    fold_onnx_close(o);
    return NULL;
}

FOLD_API void fold_onnx_close(fold_onnx *o)
{
    if (o)
        fold_onnx__release(o, &o->kept);
}

/* Writes a file that was opened to be saved, and closes it. */
static fold_status fold_onnx__write_file(fold_model *m, fold_onnx *o, fold_writer *write, void *writer)
{
    const size_t size = o ? (size_t)(o->file.end - o->file.at) : 0;
    if (o && (!write || write(o->file.at, size, writer)))
        fold_model_fail(m, FOLD_IO, "onnx: a file cannot be written");
    fold_onnx_close(o);
    return m ? fold_model_status(m) : FOLD_BAD_ARGUMENT;
}

FOLD_API fold_onnx *fold_onnx_open_memory(fold_model *m, const void *bytes, size_t size,
                                          const fold_onnx_desc *desc)
{
    return fold_onnx__open(m, NULL, bytes, size, desc, 0);
}
FOLD_API fold_status fold_onnx_save_to(fold_model *m, const void *bytes, size_t size,
                                       const fold_onnx_desc *desc, fold_writer *write, void *writer)
{
    return fold_onnx__write_file(m, fold_onnx__open(m, NULL, bytes, size, desc, 1), write, writer);
}
#ifndef FOLD_NO_STDIO
FOLD_API fold_onnx *fold_onnx_open(fold_model *m, const char *path, const fold_onnx_desc *desc)
{
    return fold_onnx__open(m, path ? path : "", NULL, 0, desc, 0);
}

FOLD_API fold_status fold_onnx_save(fold_model *m, const char *from, const char *to,
                                    const fold_onnx_desc *desc)
{
    fold_onnx *o = fold_onnx__open(m, from ? from : "", NULL, 0, desc, 1);
    FILE *file = o && to ? fopen(to, "wb") : NULL;
    fold_status status = fold_onnx__write_file(m, o, file ? fold_to_file : NULL, file);
    if (file && fclose(file) && !status)
        status = fold_model_fail(m, FOLD_IO, "onnx: a file cannot be written");
    return status;
}
#endif

/* ---- queries ---------------------------------------------------------------------------------- */

static fold_onnx_tensor fold_onnx__tensor(const fold_onnx *o, int index)
{
    fold_onnx_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    if (!index)
        return tensor;
    const fold_onnx__value *value = &o->values[index];
    tensor.name = value->name;
    tensor.rank = value->dims.rank;
    memcpy(tensor.dim, value->dims.dim, sizeof tensor.dim);
    tensor.count =
        value->origin == FOLD_ONNX__UNKNOWN || value->origin == FOLD_ONNX__REFUSED ? 0 : value->count;
    tensor.is_integer = value->is_integer != 0;
    tensor.is_constant = value->origin == FOLD_ONNX__FIXED;
    tensor.stops_gradient = fold_onnx__maker(o, index) && fold_onnx__maker(o, index)->stops;
    return tensor;
}

FOLD_API int fold_onnx_input_count(const fold_onnx *o) { return o ? o->n_inputs : 0; }
FOLD_API int fold_onnx_output_count(const fold_onnx *o) { return o ? o->n_outputs : 0; }
FOLD_API fold_onnx_tensor fold_onnx_input(const fold_onnx *o, int index)
{
    return fold_onnx__tensor(o, o && index >= 0 && index < o->n_inputs ? o->inputs[index] : 0);
}
FOLD_API fold_onnx_tensor fold_onnx_output(const fold_onnx *o, int index)
{
    return fold_onnx__tensor(o, o && index >= 0 && index < o->n_outputs ? o->outputs[index] : 0);
}
FOLD_API fold_onnx_tensor fold_onnx_find(const fold_onnx *o, const char *name)
{
    return fold_onnx__tensor(o, fold_onnx__find(o, name));
}
FOLD_API int fold_onnx_metadata_count(const fold_onnx *o) { return o ? o->n_metadata : 0; }
FOLD_API const char *fold_onnx_metadata_key(const fold_onnx *o, int index)
{
    return o && index >= 0 && index < o->n_metadata ? o->metadata[index].key : NULL;
}
FOLD_API const char *fold_onnx_metadata(const fold_onnx *o, const char *key)
{
    for (int i = 0; o && key && i < o->n_metadata; i++)
        if (!strcmp(o->metadata[i].key, key))
            return o->metadata[i].text;
    return NULL;
}

/* ---- recording -------------------------------------------------------------------------------- */

/* Sets an input, or noise that replaces random numbers. */
static int fold_onnx__give(fold_onnx *o, const fold_onnx_value *in)
{
    const int index = fold_onnx__find(o, in->name);
    const fold_onnx__step *maker = fold_onnx__maker(o, index);
    fold_onnx__value *value = &o->values[index];
    if (value->origin == FOLD_ONNX__UNKNOWN)
        return FOLD_ONNX__REFUSE(o, "nothing is named '%.60s'%s", in->name ? in->name : "",
                                 fold_onnx__nearest(o, in->name, FOLD_ONNX__INPUT));
    if (value->origin != FOLD_ONNX__INPUT && !(maker && maker->noise))
        return FOLD_ONNX__REFUSE(o, "'%.60s' is not an input", in->name);
    value->given = 1;
    value->node = in->values ? fold_input_shaped(o->f, in->values, value->shape) : in->node;
    if (in->values)
        return 1;
    o->has_list |= !fold_node_is_null(in->node) && fold_list_length(o->f, in->node) >= 0;
    const int count = fold_node_is_null(in->node) ? 0 : fold_onnx__elements(fold_node_shape(o->f, in->node));
    if (count != value->count) {
        if (fold_ctx_status(o->f))
            return 0;
        return fold_onnx__fail(o, FOLD_BAD_SHAPE, "'%.60s' has %d values, its node %d", in->name,
                               value->count, count);
    }
    value->node = fold_onnx__reshape(o->f, in->node, value->shape);
    return 1;
}

/* Marks the steps that are needed, from the last to the first. */
static int fold_onnx__mark(fold_onnx *o)
{
    for (int i = o->n_steps; i-- > 0;) {
        fold_onnx__step *s = &o->steps[i];
        s->needed = 0;
        for (int k = 0; k < s->n_out; k++)
            s->needed |= s->out[k] && o->values[s->out[k]].wanted && !o->values[s->out[k]].given;
        for (int k = 0; s->needed && k < s->n_in; k++)
            o->values[s->in[k]].wanted = 1;
    }
    for (int i = 0; i < o->n_inputs; i++) {
        const fold_onnx__value *value = &o->values[o->inputs[i]];
        if (value->wanted && !value->given)
            return FOLD_ONNX__REFUSE(o, "input '%.60s' is missing", value->name);
    }
    return 1;
}

static fold_node fold_onnx__value_node(fold_ctx *f, const fold_onnx__value *value)
{
    if (value->origin != FOLD_ONNX__FIXED)
        return value->node;
    return fold_onnx__reshape(f, fold_use(f, value->param), value->shape);
}

static void fold_onnx__record_step(fold_onnx *o, const fold_onnx__step *s)
{
    fold_node *in = s->nodes, *out = s->nodes + s->n_in;
    for (int i = 0; i < s->n_in; i++)
        in[i] = fold_onnx__value_node(o->f, &o->values[s->in[i]]);
    s->record(o, s, in, out);
    for (int i = 0; i < s->n_out; i++) {
        fold_onnx__value *value = &o->values[s->out[i]];
        if (s->out[i] && !value->given)
            value->node = fold_onnx__reshape(o->f, out[i], value->shape);
    }
}

/* Noise is drawn for a single sample, and the rows of a list must not share it. */
static int fold_onnx__may_draw(fold_onnx *o, const fold_onnx__step *s)
{
    return !s->noise || !o->chance || !o->has_list ||
           FOLD_ONNX__REFUSE(o, "'%.60s' cannot draw noise for a list; pass the noise as an input",
                             o->values[s->out[0]].name);
}

static int fold_onnx__ask(fold_onnx *o, const fold_onnx_value *out)
{
    const int index = fold_onnx__find(o, out->name);
    const char *name = out->name ? out->name : "";
    if (o->values[index].origin == FOLD_ONNX__REFUSED)
        return FOLD_ONNX__REFUSE(o, "'%.60s' is not available: %s", name,
                                 o->values[index].why + strlen("onnx: "));
    if (o->values[index].origin == FOLD_ONNX__UNKNOWN)
        return FOLD_ONNX__REFUSE(o, "nothing makes '%.60s'%s", name, fold_onnx__nearest(o, name, 0));
    if (fold_onnx__is_fixed(o, index) && fold_param_is_null(o->values[index].param))
        return FOLD_ONNX__REFUSE(o, "'%.60s' is a constant that is no value of the network", name);
    o->values[index].wanted = 1;
    return 1;
}

FOLD_API fold_status fold_onnx_record(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in, int n_in,
                                      fold_random *chance, fold_onnx_value *out, int n_out)
{
    const fold_node none = { 0, 0 };
    for (int i = 0; out && i < n_out; i++)
        out[i].node = none;
    if (!o || !f || !out || (!in && n_in > 0))
        return FOLD_BAD_ARGUMENT;
    if (fold_ctx_status(f))
        return fold_ctx_status(f);
    o->f = f;
    o->chance = chance;
    o->failed = o->has_list = 0;
    if (fold_ctx_model(f) != o->model)
        fold_onnx__fail(o, FOLD_BAD_HANDLE, "the context belongs to a different model");
    for (int i = 0; i < o->n_values; i++)
        o->values[i].wanted = o->values[i].given = 0;
    for (int i = 0; i < n_in && !o->failed; i++)
        fold_onnx__give(o, &in[i]);
    for (int i = 0; i < n_out && !o->failed; i++)
        fold_onnx__ask(o, &out[i]);
    if (o->failed || !fold_onnx__mark(o))
        return fold_ctx_status(f);
    for (int i = 0; i < o->n_steps; i++)
        if (o->steps[i].needed && fold_onnx__may_draw(o, &o->steps[i]))
            fold_onnx__record_step(o, &o->steps[i]);
    for (int i = 0; i < n_out; i++)
        out[i].node = fold_onnx__value_node(f, &o->values[fold_onnx__find(o, out[i].name)]);
    return fold_ctx_status(f);
}

#ifndef FOLD_NO_TEXT
/* ---- printing ops as C ------------------------------------------------------------------------ */

static int fold_onnx__write(fold_writer *write, void *writer, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    return write(text, strlen(text), writer);
}

/* A whole number, times or divided by powers of two, which is exact. Infinities and NaN have no names in C
   without a header, so they are computed. */
static int fold_onnx__print_pad(float pad, fold_writer *write, void *writer)
{
    int power = 127;
    double whole = isfinite(pad) ? ldexp(frexp((double)pad, &power), FLT_MANT_DIG) : pad < 0 ? -1 : 1;
    power -= isfinite(pad) ? FLT_MANT_DIG : 0;
    for (; power < 0 && fmod(whole, 2) == 0; power++)
        whole /= 2;
    int stopped = fold_onnx__write(write, writer, "        float own_pad = %.0f.0f", whole);
    for (int by; power && !stopped; power -= by) {
        by = power > 60 ? 60 : power < -60 ? -60 : power;
        stopped =
            fold_onnx__write(write, writer, " %c %.0f.0f", by < 0 ? '/' : '*', ldexp(1, by < 0 ? -by : by));
    }
    return stopped || fold_onnx__write(write, writer, ";\n") ||
           (!isfinite(pad) && fold_onnx__write(write, writer, "        own_pad *= 2.0f;\n")) ||
           (isnan(pad) && fold_onnx__write(write, writer, "        own_pad -= own_pad;\n"));
}

static int fold_onnx__print_move(const fold_onnx__move *move, fold_writer *write, void *writer)
{
    const int run = move->run, runs = move->count / run;
    int stopped = fold_onnx__write(write, writer, "        static const int own_from[%d] = {", runs);
    for (int i = 0; i < runs && !stopped; i++)
        stopped = fold_onnx__write(write, writer, i % 16 ? "%d, " : "\n            %d, ", move->source[i]);
    stopped = stopped || fold_onnx__write(write, writer, "\n        };\n        int k;\n") ||
              (move->has_pad && fold_onnx__print_pad(move->pad, write, writer));
    return stopped ||
           fold_onnx__write(write, writer,
                            "        for (i = 0; i < %d; i++)\n            for (k = 0; k < %d; k++)\n"
                            "                own_out[i * %d + k] = %sown_in0[own_from[i] + k];\n",
                            runs, run, run, move->has_pad ? "own_from[i] < 0 ? own_pad : " : "");
}

static int fold_onnx__print_argmax(const fold_seen *seen, fold_writer *write, void *writer)
{
    const int n = seen->in[0]->dim[seen->in[0]->rank - 1], lines = fold_onnx__elements(*seen->in[0]) / n;
    const char *sign = *(const int *)seen->user_op->user ? "<" : "<=";
    return fold_onnx__write(write, writer,
                            "        for (i = 0; i < %d; i++) {\n            int best = 0, k;\n"
                            "            const float *own_line = own_in0 + i * %d;\n",
                            lines, n) ||
           fold_onnx__write(write, writer,
                            "            for (k = 1; k < %d; k++)\n                if (own_line[best] == "
                            "own_line[best] && (!(own_line[k] %s own_line[best]))) best = k;\n"
                            "            own_out[i] = (float)best;\n        }\n",
                            n, sign);
}

static int fold_onnx__print_gather(const fold_seen *seen, fold_writer *write, void *writer)
{
    const int *size = (const int *)seen->user_op->user, all = fold_onnx__elements(*seen->out[0]) / size[1];
    const int n = fold_onnx__elements(*seen->in[1]);
    return fold_onnx__print_pad((float)NAN, write, writer) ||
           fold_onnx__write(write, writer,
                            "        for (i = 0; i < %d; i++) {\n            int k;\n"
                            "            float own_at = own_in1[i %% %d];\n"
                            "            own_at += own_at < 0.0f ? %d.0f : 0.0f;\n",
                            all, n, size[0]) ||
           fold_onnx__write(write, writer,
                            "            for (k = 0; k < %d; k++)\n                own_out[i * %d + k] = "
                            "own_at >= 0.0f && own_at < %d.0f\n                    ? "
                            "own_in0[(i / %d * %d + (int)own_at) * %d + k] : own_pad;\n        }\n",
                            size[1], size[1], size[0], n, size[0], size[1]);
}

/* Prints a formula, with a line for each statement. */
static int fold_onnx__print_formula(const fold_seen *seen, fold_writer *write, void *writer)
{
    static const char spaces[] = "                        ";
    const char *text = ((const fold_onnx__formula *)seen->user_op->user)->text, *end;
    int stopped = fold_onnx__write(write, writer, "        for (i = 0; i < %d; i++) {\n",
                                   fold_onnx__elements(*seen->out[0]));
    for (int i = 0; i < 2 && !stopped; i++)
        stopped = fold_onnx__write(write, writer, "            const double own_%c = (double)own_in%d[i];\n",
                                   "ab"[i], i && seen->n_in > 1);
    stopped =
        stopped || fold_onnx__write(write, writer, "            double own_y;\n            (void)own_b;\n");
    for (int depth = 0, block = 0; *text && !stopped; text = end + (*end == ' ')) {
        stopped = write(spaces, 12 + 4 * (size_t)((block - (*text == '}')) & 3), writer);
        for (end = text; *end && (end == text || depth || *end == ';' || !strchr(";{}", end[-1])); end++) {
            depth += (*end == '(') - (*end == ')');
            block += (*end == '{') - (*end == '}');
            if (end - text > 80 && *end == ' ')
                break;
        }
        stopped =
            stopped || write(text, (size_t)(end - text), writer) || fold_onnx__write(write, writer, "\n");
    }
    return stopped || fold_onnx__write(write, writer, "            own_out[i] = (float)own_y;\n        }\n");
}

FOLD_API int fold_onnx_print(const fold_seen *seen, fold_writer *write, void *writer, void *user)
{
    (void)user;
    if (!seen || !seen->user_op || !write)
        return 1;
    if (seen->user_op->forward == fold_onnx__move_forward)
        return fold_onnx__print_move((const fold_onnx__move *)seen->user_op->user, write, writer);
    if (seen->user_op->forward == fold_onnx__argmax_forward)
        return fold_onnx__print_argmax(seen, write, writer);
    if (seen->user_op->forward == fold_onnx__gather_forward)
        return fold_onnx__print_gather(seen, write, writer);
    return seen->user_op->forward != fold_onnx__map_forward || fold_onnx__print_formula(seen, write, writer);
}
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* FOLD_ONNX_IMPLEMENTATION */
