/* fold_onnx.h - loads networks from ONNX files into fold.h, such as the policy.onnx that robots and games
   ship. It uses public calls only.

   In one C or C++ file:  #define FOLD_ONNX_IMPLEMENTATION
                          #include "fold_onnx.h"
   Everywhere else:       #include "fold_onnx.h"

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

enum { FOLD_ONNX__MOST_VALUES = 1 << 24, FOLD_ONNX__MOST_OUT = 64 };

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
enum { FOLD_ONNX__INTEGERS = 1, FOLD_ONNX__TRUTH = 2, FOLD_ONNX__FREEZES = 4, FOLD_ONNX__STOPS = 8 };
enum { FOLD_ONNX__COUNTS = 1 | 16 }; /* integers, but not of 8 bits: their results would wrap */
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

/* Levenshtein distance: how many letters must be changed, removed or added. Only the first 63 letters
   count. */
static int fold_onnx__distance(const char *a, const char *b)
{
    enum { FOLD_ONNX__MAX = 63 };
    int row[FOLD_ONNX__MAX + 1];
    for (int k = 0; k <= FOLD_ONNX__MAX; k++)
        row[k] = k;
    for (int i = 0; a[i] && i < FOLD_ONNX__MAX; i++)
        for (int k = 0, before = row[0]++; b[k] && k < FOLD_ONNX__MAX; k++) {
            const int changed = before + (a[i] != b[k]),
                      added = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
            before = row[k + 1];
            row[k + 1] = changed < added ? changed : added;
        }
    return row[strlen(b) < FOLD_ONNX__MAX ? strlen(b) : (size_t)FOLD_ONNX__MAX];
}

/* "; nearest: ..." for a message: the most similar name with this origin or, if that is 0, with any. */
static const char *fold_onnx__nearest(fold_onnx *o, const char *name, int origin)
{
    int best = 0, least = INT_MAX;
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
    if (!o->failed && o->n_weights == 2 * o->most_values)
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

/* ---- element-wise ops ------------------------------------------------------------------------- */

/* A function of doubles and its C text. fold_onnx_print prints the text for ops that fold.h lacks; formulas
   of such ops call no other function, so their bits are the same everywhere. Doubles of at least 2^52 =
   4503599627370496 are whole numbers. */
#define FOLD_ONNX__FORMULA(name, ...) FOLD_ONNX__FORMULA_OF(name, __VA_ARGS__)
#define FOLD_ONNX__FORMULA_OF(name, ...)                                        \
    static double fold_onnx__##name##_of(double own_a, double own_b)            \
    {                                                                           \
        double own_y;                                                           \
        (void)own_b;                                                            \
        __VA_ARGS__                                                             \
        return own_y;                                                           \
    }                                                                           \
    static const fold_onnx__formula fold_onnx__##name[1] = { { fold_onnx__##name##_of, #__VA_ARGS__ } };

FOLD_ONNX__FORMULA(add, own_y = own_a + own_b;)
FOLD_ONNX__FORMULA(sub, own_y = own_a - own_b;)
FOLD_ONNX__FORMULA(mul, own_y = own_a * own_b;)
FOLD_ONNX__FORMULA(div, own_y = own_a / own_b;)
FOLD_ONNX__FORMULA(min, own_y = own_a != own_a || own_a < own_b ? own_a : own_b;)
FOLD_ONNX__FORMULA(max, own_y = own_a != own_a || own_a > own_b ? own_a : own_b;)
FOLD_ONNX__FORMULA(less, own_y = own_a < own_b;)
FOLD_ONNX__FORMULA(less_equal, own_y = own_a <= own_b;)
FOLD_ONNX__FORMULA(greater, own_y = own_a > own_b;)
FOLD_ONNX__FORMULA(greater_equal, own_y = own_a >= own_b;)
FOLD_ONNX__FORMULA(equal, own_y = own_a == own_b;) /* NaN equals nothing */
FOLD_ONNX__FORMULA(and, own_y = own_a != 0 && own_b != 0;)
FOLD_ONNX__FORMULA(or, own_y = own_a != 0 || own_b != 0;)
FOLD_ONNX__FORMULA(xor, own_y = (own_a != 0) != (own_b != 0);)
FOLD_ONNX__FORMULA(not, own_y = own_a == 0;)
FOLD_ONNX__FORMULA(is_nan, own_y = own_a != own_a;)
FOLD_ONNX__FORMULA(not_zero, own_y = own_a != 0;)
FOLD_ONNX__FORMULA(sign, own_y = own_a > 0 ? 1 : own_a < 0 ? -1 : own_a - own_a;)
FOLD_ONNX__FORMULA(neg, own_y = -own_a;)
FOLD_ONNX__FORMULA(reciprocal, own_y = 1 / own_a;)
/* for constants only */
FOLD_ONNX__FORMULA(abs, own_y = fabs(own_a);)
FOLD_ONNX__FORMULA(exp, own_y = exp(own_a);)
FOLD_ONNX__FORMULA(log, own_y = log(own_a);)
FOLD_ONNX__FORMULA(sqrt, own_y = sqrt(own_a);)
FOLD_ONNX__FORMULA(floor, own_y = floor(own_a);)
FOLD_ONNX__FORMULA(ceil, own_y = ceil(own_a);)
FOLD_ONNX__FORMULA(sin, own_y = sin(own_a);)
FOLD_ONNX__FORMULA(cos, own_y = cos(own_a);)

/* Rounds to the nearest whole number, halves to the even one. 0 keeps its sign. */
#define FOLD_ONNX__NEAREST                                                                \
    own_y = own_a;                                                                        \
    if (own_a > -4503599627370496.0 && own_a < 4503599627370496.0) {                      \
        const long long own_whole = (long long)own_a;                                     \
        const double own_rest = own_a - (double)own_whole;                                \
        const double own_least = own_whole % 2 ? 0.5 : 0.50000000000000011;               \
        own_y = (double)(own_whole + (own_rest >= own_least) - (own_rest <= -own_least)); \
        if (own_y == 0)                                                                   \
            own_y = own_a * 0;                                                            \
    }
FOLD_ONNX__FORMULA(nearest_whole, FOLD_ONNX__NEAREST)
/* Truncates. Integers have no negative zero. */
#define FOLD_ONNX__TRUNC(y)                                \
    if (y > -4503599627370496.0 && y < 4503599627370496.0) \
        y = (double)(long long)y;
FOLD_ONNX__FORMULA(trunc, own_y = own_a; FOLD_ONNX__TRUNC(own_y))
FOLD_ONNX__FORMULA(whole_div, own_y = own_a / own_b; FOLD_ONNX__TRUNC(own_y))
static double fold_onnx__round(const fold_onnx__value *value, double number)
{
    return value->is_integer ? fold_onnx__trunc_of(number, 0) : (double)(float)number;
}

/* Converts to 8 bits, wrapping. */
#define FOLD_ONNX__BYTE(least)                                         \
    own_y = own_a;                                                     \
    if (own_y > -4503599627370496.0 && own_y < 4503599627370496.0) {   \
        own_y = (double)(((long long)own_y - least) % 256);            \
        own_y += own_y < 0 ? 256 + least : least;                      \
    }
FOLD_ONNX__FORMULA(to_uint8, FOLD_ONNX__BYTE(0))
FOLD_ONNX__FORMULA(to_int8, FOLD_ONNX__BYTE(-128))

/* The remainder is exact, and has the sign of a. */
#define FOLD_ONNX__REMAINDER                                         \
    double own_rest = own_a < 0 ? -own_a : own_a;                    \
    const double own_by = own_b < 0 ? -own_b : own_b;                \
    own_y = own_a;                                                   \
    if (!(own_rest - own_rest == 0) || !(own_by > 0))                \
        own_y = (own_a - own_a) / (own_b - own_b);                   \
    else if (own_rest >= own_by) {                                   \
        while (own_rest >= own_by) {                                 \
            double own_part = own_by;                                \
            while (own_part <= own_rest / 2)                         \
                own_part *= 2;                                       \
            own_rest -= own_part;                                    \
        }                                                            \
        own_y = own_a < 0 ? -own_rest : own_rest;                    \
    }
FOLD_ONNX__FORMULA(fmod, FOLD_ONNX__REMAINDER)
FOLD_ONNX__FORMULA(whole_fmod, FOLD_ONNX__REMAINDER own_y += 0.0;)
/* The remainder with the sign of b. */
#define FOLD_ONNX__MODULO                               \
    FOLD_ONNX__REMAINDER                                \
    if (own_y < 0 ? own_b > 0 : own_y > 0 && own_b < 0) \
        own_y += own_b;                                 \
    own_y += 0.0;
FOLD_ONNX__FORMULA(mod, FOLD_ONNX__MODULO)

/* erf(x) as x P(x^2), fitted for |x| up to 3.95, to within 3e-13. Beyond that it is 1 or -1 in float. */
#define FOLD_ONNX__ERF                                                                            \
    static const double own_of[23] = {                                                            \
        0.358000769593852, -0.178769505371224, 0.133176554963779, -0.108638594504752,             \
        0.0904913961027041, -0.0743160151244299, 0.0588574094963502, -0.0443270754996763,         \
        0.0314870063516764, -0.0210096379533542, 0.0131497575402629, -0.00772149857460007,        \
        0.00426094995059383, -0.00221681488843273, 0.00108603845167938, -0.000497222773957321,    \
        0.000218677819459626, -9.78799762479255e-05, 3.85697676423461e-05, -9.90116796310531e-06, \
        3.70219472061078e-06, -3.16217085312322e-06, 1.02685720905475e-06 };                      \
    const double own_at = own_a * own_a / 7.80125 - 1;                                            \
    int own_k;                                                                                    \
    own_y = own_of[22];                                                                           \
    for (own_k = 21; own_k >= 0; own_k--)                                                         \
        own_y = own_y * own_at + own_of[own_k];                                                   \
    own_y = own_a > 3.95 ? 1 : own_a < -3.95 ? -1 : own_y * own_a;
FOLD_ONNX__FORMULA(erf, FOLD_ONNX__ERF)

/* The arc tangent of own_x: a series, after the argument is reduced to at most 0.42. */
#define FOLD_ONNX__ATAN                                                                      \
    double own_t = own_x < 0 ? -own_x : own_x, own_base = 0;                                 \
    if (own_t > 2.4142135623730949) {                                                        \
        own_base = 1.5707963267948966;                                                       \
        own_t = -1 / own_t;                                                                  \
    } else if (own_t > 0.41421356237309503) {                                                \
        own_base = 0.78539816339744828;                                                      \
        own_t = (own_t - 1) / (own_t + 1);                                                   \
    }                                                                                        \
    for (own_k = 27, own_y = 0; own_k > 0; own_k -= 2)                                       \
        own_y = 1.0 / own_k - own_y * own_t * own_t;                                         \
    own_y = own_x < 0 ? -own_base - own_y * own_t : own_base + own_y * own_t;
FOLD_ONNX__FORMULA(atan, int own_k; const double own_x = own_a; FOLD_ONNX__ATAN)
/* asin(a) = atan(a / sqrt(1 - a^2)), with the root by Newton's method. */
#define FOLD_ONNX__ASIN                                                                      \
    int own_k;                                                                               \
    double own_root = own_a >= -1 && own_a <= 1 ? 1 : (own_a - own_a) / (own_a - own_a);     \
    for (own_k = 0; own_k < 40; own_k++)                                                     \
        own_root = (own_root + (1 - own_a) * (1 + own_a) / own_root) / 2;                    \
    const double own_x = own_a / own_root;                                                   \
    FOLD_ONNX__ATAN
FOLD_ONNX__FORMULA(asin, FOLD_ONNX__ASIN)
FOLD_ONNX__FORMULA(acos, FOLD_ONNX__ASIN own_y = 1.5707963267948966 - own_y;)

/* Powers with small whole exponents are products; others are exp(b log |a|), computed from series. */
#define FOLD_ONNX__POWER                                                                                 \
    const int own_is_far = !(own_b > -9e15 && own_b < 9e15); /* then b is even */                        \
    long long own_whole = own_is_far ? 0 : (long long)own_b, own_n;                                      \
    double own_m = own_a < 0 ? -own_a : own_a;                                                           \
    own_y = 1;                                                                                           \
    if (own_b == (double)own_whole && own_whole > -1024 && own_whole < 1024) {                           \
        for (own_m = own_a, own_n = own_whole < 0 ? -own_whole : own_whole; own_n > 0; own_n /= 2) {     \
            if (own_n % 2)                                                                               \
                own_y *= own_m;                                                                          \
            own_m *= own_m;                                                                              \
        }                                                                                                \
        if (own_whole < 0)                                                                               \
            own_y = 1 / own_y;                                                                           \
    } else if (own_a != own_a || own_b != own_b ||                                                       \
               (own_a < 0 && own_a - own_a == 0 && !own_is_far && own_b != (double)own_whole))           \
        own_y = own_a == 1 ? 1 : (own_a - own_a) / (own_a - own_a);                                      \
    else {                                                                                               \
        double own_log = own_m > 1 ? 1e300 : -1e300, own_s, own_power; /* infinity; 0 */                 \
        int own_k, own_e = 0;                                                                            \
        if (own_m > 0 && own_m - own_m == 0) {                                                           \
            for (; own_m > 1.5; own_m /= 2)                                                              \
                own_e++;                                                                                 \
            for (; own_m < 0.75; own_m *= 2)                                                             \
                own_e--;                                                                                 \
            own_s = (own_m - 1) / (own_m + 1);                                                           \
            for (own_k = 23, own_log = 0; own_k > 0; own_k -= 2)                                         \
                own_log = own_log * own_s * own_s + 2.0 / own_k;                                         \
            own_log = own_log * own_s + own_e * 0.69314718055994531;                                     \
        }                                                                                                \
        own_power = own_log == 0 ? 0 : own_b * own_log;                                                  \
        own_power = own_power > 800 ? 800 : own_power < -800 ? -800 : own_power;                         \
        own_e = (int)(own_power * 1.4426950408889634);                                                   \
        own_power -= own_e * 0.69314718055994531;                                                        \
        for (own_k = 20; own_k > 0; own_k--)                                                             \
            own_y = 1 + own_y * own_power / own_k;                                                       \
        for (; own_e > 0; own_e--)                                                                       \
            own_y *= 2;                                                                                  \
        for (; own_e < 0; own_e++)                                                                       \
            own_y /= 2;                                                                                  \
        if (own_whole % 2 && own_b == (double)own_whole && (own_a < 0 || (own_a == 0 && 1 / own_a < 0))) \
            own_y = -own_y;                                                                              \
    }
FOLD_ONNX__FORMULA(pow, FOLD_ONNX__POWER)
/* Raised a little before truncation, so that the square root of 4 is 2. */
#define FOLD_ONNX__WHOLE_POWER \
    FOLD_ONNX__POWER           \
    own_y *= 1.000000000001;   \
    FOLD_ONNX__TRUNC(own_y)
FOLD_ONNX__FORMULA(whole_pow, FOLD_ONNX__WHOLE_POWER)

/* Rounds to half precision: a significand of 11 bits, or fewer below 2^-14. */
#define FOLD_ONNX__TO_HALF                                                         \
    double own_m = own_a < 0 ? -own_a : own_a, own_step = 5.9604644775390625e-08;  \
    own_y = own_a;                                                                 \
    if (own_m >= 65520)                                                            \
        own_y = own_a * 1e300 * 1e300;                                             \
    else if (own_m > 0) {                                                          \
        while (own_m >= own_step * 2048)                                           \
            own_step *= 2;                                                         \
        const int own_n = (int)(own_m / own_step);                                 \
        own_m = own_m / own_step - own_n;                                          \
        own_m = (own_n + (own_m > 0.5 || (own_m == 0.5 && own_n % 2))) * own_step; \
        own_y = own_a < 0 ? -own_m : own_m;                                        \
    }
FOLD_ONNX__FORMULA(to_half, FOLD_ONNX__TO_HALF)

static fold_node fold_onnx__one_over(fold_ctx *f, fold_node x) { return fold_div(f, fold_constant(f, 1), x); }
static fold_node fold_onnx__tan(fold_ctx *f, fold_node x)
{
    const fold_node sine = fold_sin(f, x);
    return fold_div(f, sine, fold_cos(f, x));
}
static fold_node fold_onnx__divide_by(fold_ctx *f, fold_node x, float number)
{
    return fold_div(f, x, fold_constant(f, number));
}
static fold_node fold_onnx__rounded_up(fold_ctx *f, fold_node x)
{
    return fold_neg(f, fold_floor(f, fold_neg(f, x)));
}
static fold_node fold_onnx__hard_sigmoid(fold_ctx *f, fold_node x, float alpha, float beta)
{
    return fold_clip(f, fold_shift(f, fold_scale(f, x, alpha), beta), 0, 1);
}
static fold_node fold_onnx__hard_swish(fold_ctx *f, fold_node x)
{
    return fold_mul(f, x, fold_onnx__hard_sigmoid(f, x, 1 / 6.0f, 0.5f));
}
static fold_node fold_onnx__mish(fold_ctx *f, fold_node x)
{
    return fold_mul(f, x, fold_tanh(f, fold_softplus(f, x)));
}
static fold_node fold_onnx__softsign(fold_ctx *f, fold_node x)
{
    return fold_div(f, x, fold_shift(f, fold_abs(f, x), 1));
}
static fold_node fold_onnx__swish(fold_ctx *f, fold_node x, float alpha)
{
    return alpha == 1 ? fold_silu(f, x) : fold_mul(f, x, fold_sigmoid(f, fold_scale(f, x, alpha)));
}
static fold_node fold_onnx__selu(fold_ctx *f, fold_node x, float alpha, float gamma)
{
    return fold_scale(f, fold_elu(f, x, alpha), gamma);
}
/* This and the next are exact for x > 0. */
static fold_node fold_onnx__celu(fold_ctx *f, fold_node x, float alpha)
{
    const fold_node below = fold_onnx__divide_by(f, fold_at_most(f, x, 0), alpha);
    const fold_node above = fold_relu(f, x);
    return fold_add(f, above, fold_elu(f, below, alpha));
}
static fold_node fold_onnx__prelu(fold_ctx *f, fold_node x, fold_node slope)
{
    const fold_node above = fold_relu(f, x);
    return fold_add(f, above, fold_mul(f, slope, fold_at_most(f, x, 0)));
}

static int fold_onnx__no_broadcast(fold_onnx *o, int one, int other)
{
    return FOLD_ONNX__REFUSE(o, "axes of %d and %d values do not broadcast", one, other);
}

/* Replaces dims by the shape to which a and dims broadcast, as in fold.h. */
static int fold_onnx__meet(fold_onnx *o, const fold_onnx__dims *a, fold_onnx__dims *dims)
{
    const fold_onnx__dims had = *dims;
    dims->rank = a->rank > had.rank ? a->rank : had.rank;
    for (int k = 0; k < dims->rank; k++) {
        const int own = k + a->rank - dims->rank, other = k + had.rank - dims->rank;
        const int x = own < 0 ? 1 : a->dim[own], y = other < 0 ? 1 : had.dim[other];
        if (x != y && x != 1 && y != 1)
            return fold_onnx__no_broadcast(o, x, y);
        dims->dim[k] = x == 1 ? y : x;
    }
    return fold_onnx__size(o, dims);
}

/* Whether an element-wise result has integers or booleans. Its type is that of the first operand that is not
   a condition; truth values are booleans. */
static int fold_onnx__makes_whole(fold_onnx *o)
{
    const fold_onnx__op *op = o->node.op;
    return op->flags & FOLD_ONNX__TRUTH ||
           fold_onnx__in(o, !op->number && !op->calls.two && o->node.n_in == 3)->is_integer;
}

/* Computes an output from constants. An op without `number` is Where, whose first input chooses. */
static int fold_onnx__compute(fold_onnx *o, const fold_onnx__dims *dims)
{
    const fold_onnx__op *op = o->node.op;
    const int n = o->node.n_in, whole = fold_onnx__makes_whole(o);
    fold_onnx__view *view = FOLD_ONNX__SCRATCH(o, fold_onnx__view, n);
    int *index = FOLD_ONNX__SCRATCH(o, int, n *FOLD_ONNX_RANK);
    double *x = FOLD_ONNX__SCRATCH(o, double, n),
           *numbers = fold_onnx__fix(o, fold_onnx__out(o), dims, whole);
    for (int i = 0; i < n && !o->failed; i++)
        view[i] = fold_onnx__repeated(o, &fold_onnx__in(o, i)->dims, dims);
    for (int i = 0; i < fold_onnx__out(o)->count && !o->failed; i++) {
        for (int k = 0; k < n; k++)
            x[k] = fold_onnx__number(fold_onnx__in(o, k),
                                     fold_onnx__next_source(&view[k], index + k * FOLD_ONNX_RANK));
        double y = op->number ? x[0] : x[x[0] != 0 ? 1 : 2];
        if (op->most == 1)
            y = op->number->of(y, y);
        for (int k = 1; k < n && op->number; k++)
            y = op->number->of(y, x[k]);
        if (whole && op->number && !(fabs(y) <= INT_MAX)) /* int32 could wrap, and int64 be rounded */
            return FOLD_ONNX__REFUSE(o, "the integer %g: a division by 0, or too large", y);
        numbers[i] = fold_onnx__round(fold_onnx__out(o), y);
    }
    return !o->failed;
}

/* Element-wise ops that fold.h lacks, for equal shapes. Those with FOLD_ONNX__STOPS have no gradient. */
static void fold_onnx__map_forward(const fold_op_call *c)
{
    const fold_onnx__formula *formula = (const fold_onnx__formula *)c->user;
    const int count = fold_onnx__elements(c->out_shape[0]);
    for (int row = 0; row < c->rows; row++) {
        const float *a = fold_row(&c->in[0], row), *b = fold_row(&c->in[c->n_in - 1], row);
        float *out = fold_row(&c->out[0], row);
        for (int i = 0; i < count; i++)
            out[i] = (float)formula->of((double)a[i], (double)b[i]);
    }
}

/* The derivative of a function of one number. */
static double fold_onnx__slope_of_one(const fold_onnx__formula *f, double a)
{
    return f == fold_onnx__acos   ? -1 / sqrt(1 - a * a)
           : f == fold_onnx__asin ? 1 / sqrt(1 - a * a)
           : f == fold_onnx__atan ? 1 / (1 + a * a)
           : f == fold_onnx__erf  ? 1.1283791670955126 * exp(-a * a)
                                  : 1; /* rounding to half precision */
}

static double fold_onnx__slope_of_two(const fold_onnx__formula *f, double a, double b, int of)
{
    if (f == fold_onnx__fmod)
        return of ? -fold_onnx__trunc_of(a / b, 0) : 1;
    if (!of)
        return b == 0 ? 0 : b * pow(a, b - 1);
    return a == 0 && b >= 0 ? 0 : pow(a, b) * log(a);
}

static void fold_onnx__map_backward(const fold_op_call *c)
{
    const fold_onnx__formula *f = (const fold_onnx__formula *)c->user;
    const int count = fold_onnx__elements(c->out_shape[0]);
    for (int of = 0; of < c->n_in; of++)
        for (int row = 0; row < c->rows && fold_row(&c->din[of], row); row++) {
            const float *a = fold_row(&c->in[0], row), *b = fold_row(&c->in[c->n_in - 1], row);
            const float *out = fold_row(&c->dout[0], row);
            float *in = fold_row(&c->din[of], row);
            for (int i = 0; i < count; i++)
                in[i] = (float)(c->n_in == 1 ? fold_onnx__slope_of_one(f, (double)a[i])
                                             : fold_onnx__slope_of_two(f, (double)a[i], (double)b[i], of)) *
                        out[i];
        }
}

static void fold_onnx__record_own(fold_onnx *o, const fold_onnx__step *s, const fold_node *in, fold_node *out)
{
    if (s->n_in == 3)
        out[0] = fold_select(o->f, in[0], in[1], in[2]);
    else
        out[0] = fold_onnx__apply_own(o->f, s->own, in, s->n_in, o->values[s->out[0]].shape);
}

/* An element-wise step of one input. If the input is a permutation of another value, the step reads that
   value, and its result is permuted instead. */
static int fold_onnx__one_step(fold_onnx *o, const fold_onnx__calls *calls, int input, float first,
                               float second)
{
    const fold_onnx__move *move;
    const fold_onnx__dims dims = fold_onnx__in(o, input)->dims;
    const int base = fold_onnx__base(o, o->node.in[input], &move);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    if ((calls->with || calls->between != fold_clip) && !isfinite(first + second))
        return FOLD_ONNX__REFUSE(o, "a number that is not finite");
    fold_onnx__out(o)->is_integer = fold_onnx__in(o, input)->is_integer;
    s.calls = *calls;
    s.stops = (o->node.op->flags & FOLD_ONNX__STOPS) != 0;
    s.real[0] = first;
    s.real[1] = second;
    return fold_onnx__reads(o, &s, 0, base, NULL, fold_shape1(1)) &&
           fold_onnx__makes_moved(o, &s, &o->values[base].dims, move, &dims);
}

static int fold_onnx__open_gelu(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const ways[2] = { "none", "tanh" };
    fold_onnx__calls calls = o->node.op->calls;
    (void)from;
    calls.one = fold_onnx__word(o, "approximate", ways, 2) ? fold_gelu_tanh : fold_gelu;
    return fold_onnx__one_step(o, &calls, 0, 0, 0);
}

static int fold_onnx__open_clip(fold_onnx *o, const fold_onnx__value *from)
{
    const double low = fold_onnx__setting(o, 1, (double)fold_onnx__real(o, "min", -FLT_MAX)),
                 high = fold_onnx__setting(o, 2, (double)fold_onnx__real(o, "max", FLT_MAX));
    if (!(low <= high) || low == (double)INFINITY || high == -(double)INFINITY)
        return FOLD_ONNX__REFUSE(o, "no value is between %g and %g", low, high);
    if (!fold_onnx__is_fixed(o, o->node.in[0]))
        return fold_onnx__one_step(o, &o->node.op->calls, 0, (float)low, (float)high);
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &from->dims, from->is_integer);
    for (int i = 0; numbers && i < from->count; i++) {
        const double x = fold_onnx__number(from, i);
        numbers[i] = x < low ? low : x > high ? high : x;
    }
    return numbers != NULL;
}

static fold_node fold_onnx__less_from(fold_ctx *f, fold_node x, float number)
{
    return fold_shift(f, fold_neg(f, x), number);
}

/* With a constant number as one operand, sums, differences, products and quotients are calls of one input.
   The number is data, so that calls with different numbers are batched. Returns 0 for any other op. */
static int fold_onnx__joins_number(fold_onnx *o, int rank)
{
    const fold_onnx__formula *op = o->node.op->number;
    const int is_sum = op == fold_onnx__add || op == fold_onnx__sub;
    double number = 0;
    int power;
    for (int x = 0; x < 2 && (is_sum || op == fold_onnx__mul || op == fold_onnx__div); x++) {
        fold_onnx__calls calls = { NULL, NULL, NULL, NULL, NULL, NULL };
        if (fold_onnx__in(o, x)->dims.rank < rank || !fold_onnx__scalar(o, o->node.in[!x], &number))
            continue;
        const double inverse = op == fold_onnx__div ? 1 / number : 1;
        if (op == fold_onnx__sub && !x)
            number = -number;
        if ((op == fold_onnx__div && x) || !isfinite((float)number) || !isfinite((float)inverse))
            continue;
        const int is_exact = frexp(number, &power) == (number < 0 ? -0.5 : 0.5); /* and so is its inverse */
        if (op == fold_onnx__div && is_exact)
            number = inverse;
        if (is_sum ? number != 0 || !signbit(number) : number != 1)
            calls.with = is_sum                             ? fold_shift
                         : op != fold_onnx__div || is_exact ? fold_scale
                                                            : fold_onnx__divide_by;
        if (op == fold_onnx__sub && x)
            calls.with = fold_onnx__less_from;
        if (!is_sum && number == -1)
            calls.one = fold_neg, calls.with = NULL;
        return fold_onnx__one_step(o, &calls, x, (float)number, 0);
    }
    return 0;
}

/* Lets the node compute a formula instead of what its row in the table says. */
static void fold_onnx__computes(fold_onnx *o, const fold_onnx__formula *number, int flags)
{
    fold_onnx__op *op = FOLD_ONNX__PASSING(o, fold_onnx__op, 1);
    if (!op)
        return;
    *op = *o->node.op;
    memset(&op->calls, 0, sizeof op->calls);
    op->number = number;
    op->flags = flags;
    o->node.op = op;
}

static int fold_onnx__joins(fold_onnx *o); /* several ops that are one of fold.h */
/* Element-wise ops of one to three inputs, or of any number, such as sums; these go from the left. */
static int fold_onnx__open_elements(fold_onnx *o, const fold_onnx__value *from)
{
    if (o->node.op->number == fold_onnx__div && from->is_integer)
        fold_onnx__computes(o, fold_onnx__whole_div, FOLD_ONNX__INTEGERS | FOLD_ONNX__STOPS);
    const fold_onnx__op *op = o->node.op;
    const int n = o->node.n_in, *in = o->node.in, chooses = n == 3 && !op->calls.two;
    const int stops = (op->flags & (FOLD_ONNX__STOPS | FOLD_ONNX__TRUTH)) != 0;
    fold_onnx__dims dims = { 0, { 0 } };
    for (int i = 0; i < n && !o->failed; i++)
        fold_onnx__meet(o, &fold_onnx__in(o, i)->dims, &dims);
    if (o->failed)
        return 0;
    if (fold_onnx__all_fixed(o) && (chooses || op->number))
        return fold_onnx__compute(o, &dims);
    if (!op->calls.two && (op->calls.one || op->calls.with || op->calls.between))
        return fold_onnx__one_step(o, &op->calls, 0, fold_onnx__real(o, "alpha", op->alpha),
                                   fold_onnx__real(o, "beta", op->beta));
    if (op->calls.two && n == 2 && (fold_onnx__joins(o) || fold_onnx__joins_number(o, dims.rank)))
        return 1;
    fold_onnx__step s =
        fold_onnx__begin(o, op->calls.two ? fold_onnx__record_calls : fold_onnx__record_own, n);
    s.calls = op->calls;
    s.real[0] = (float)n; /* by which a mean is divided */
    for (int i = 0; i < n && !o->failed; i++) {
        const fold_onnx__view view = fold_onnx__repeated(o, &fold_onnx__in(o, i)->dims, &dims);
        fold_onnx__reads(o, &s, i, in[i], op->calls.two ? NULL : &view, fold_onnx__shape(&dims));
    }
    fold_onnx__out(o)->is_integer = fold_onnx__makes_whole(o);
    s.stops = stops;
    if (!op->calls.two && n < 3)
        s.own = fold_onnx__own_op(o, op->type, n, fold_onnx__map_forward,
                                  stops ? NULL : fold_onnx__map_backward, op->number);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &dims);
}

static int fold_onnx__open_pow(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__calls calls = { NULL, NULL, fold_pow, NULL, NULL, NULL };
    double exponent = 0;
    /* fold_pow ignores the sign of zero, and does not accept exponents that are 0, infinite or large */
    const int is_number = fold_onnx__scalar(o, o->node.in[1], &exponent) && fabs(exponent) <= 64 &&
                          exponent != 0 && (exponent == -1 || fmod(exponent, 2) != -1) &&
                          fold_onnx__in(o, 1)->dims.rank <= from->dims.rank;
    if (from->is_integer) /* powers of integers are integers */
        fold_onnx__computes(o, fold_onnx__whole_pow, FOLD_ONNX__INTEGERS | FOLD_ONNX__STOPS);
    if (!is_number || fold_onnx__all_fixed(o) || from->is_integer)
        return fold_onnx__open_elements(o, from);
    if (exponent == 1 || exponent == 2 || exponent == -1)
        calls.with = NULL;
    if (exponent == 2)
        calls.one = fold_square;
    if (exponent == -1)
        calls.one = fold_onnx__one_over;
    return fold_onnx__one_step(o, &calls, 0, (float)exponent, 0);
}

static int fold_onnx__open_selu(fold_onnx *o, const fold_onnx__value *from)
{
    const int is_old = o->version < 6;
    (void)from;
    return fold_onnx__one_step(o, &o->node.op->calls, 0,
                               fold_onnx__real(o, "alpha", is_old ? 1.6732f : o->node.op->alpha),
                               fold_onnx__real(o, "gamma", is_old ? 1.0507f : o->node.op->beta));
}

static fold_node fold_onnx__thresholded(fold_ctx *f, fold_node x, float alpha)
{
    const fold_node above = fold_shift(f, x, -alpha);
    return fold_select(f, above, x, fold_clip(f, x, 0, 0));
}

static fold_node fold_onnx__shrink(fold_ctx *f, fold_node x, float lambda, float bias)
{
    const fold_node below = fold_shift(f, fold_neg(f, x), -lambda);
    const fold_node raised = fold_shift(f, x, bias), zero = fold_clip(f, x, 0, 0);
    const fold_node rest = fold_select(f, below, raised, zero);
    const fold_node above = fold_shift(f, x, -lambda), lowered = fold_shift(f, x, -bias);
    return fold_select(f, above, lowered, rest);
}

static int fold_onnx__open_shrink(fold_onnx *o, const fold_onnx__value *from)
{
    (void)from;
    return fold_onnx__one_step(o, &o->node.op->calls, 0, fold_onnx__real(o, "lambd", 0.5f),
                               fold_onnx__real(o, "bias", 0));
}

/* The slope broadcasts to the shape of x, but x does not broadcast to that of the slope. */
static int fold_onnx__open_prelu(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__value *slope = fold_onnx__in(o, 1);
    fold_onnx__dims dims = from->dims;
    if (o->version < 7 && slope->count != 1)
        return FOLD_ONNX__REFUSE(o, "%d slopes before opset 7", slope->count);
    if (fold_onnx__meet(o, &slope->dims, &dims) && !fold_onnx__same_dims(&dims, &from->dims))
        return FOLD_ONNX__REFUSE(o, "slopes of a larger shape");
    return !o->failed && fold_onnx__open_elements(o, from);
}

static int fold_onnx__open_mod(fold_onnx *o, const fold_onnx__value *from)
{
    const int like_c = fold_onnx__whole(o, "fmod", 0) != 0;
    if (like_c && from->is_integer)
        fold_onnx__computes(o, fold_onnx__whole_fmod, FOLD_ONNX__INTEGERS | FOLD_ONNX__STOPS);
    else if (like_c)
        fold_onnx__computes(o, fold_onnx__fmod, FOLD_ONNX__FREEZES);
    else if (!from->is_integer)
        return FOLD_ONNX__REFUSE(o, "floats need fmod=1");
    return fold_onnx__open_elements(o, from);
}

/* A cast changes values if floats become integers, numbers become booleans, or bits are lost. */
static int fold_onnx__open_cast(fold_onnx *o, const fold_onnx__value *from)
{
    const int to = fold_onnx__whole(o, "to", 0);
    const fold_onnx__type *type = fold_onnx__type_of((uint64_t)to);
    const fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    fold_onnx__value *out = fold_onnx__out(o);
    if (!type)
        return fold_onnx__no_type(o, (uint64_t)to);
    const int changes = to == FOLD_ONNX__BOOL || to == FOLD_ONNX__HALF || type->is_integer == 2 ||
                        (type->is_integer && !from->is_integer);
    if (changes)
        fold_onnx__computes(o,
                            to == FOLD_ONNX__HALF    ? fold_onnx__to_half
                            : to == FOLD_ONNX__BOOL  ? fold_onnx__not_zero
                            : type->is_integer != 2  ? fold_onnx__trunc
                            : to == FOLD_ONNX__UINT8 ? fold_onnx__to_uint8
                                                     : fold_onnx__to_int8,
                            FOLD_ONNX__INTEGERS | (to == FOLD_ONNX__HALF ? 0 : FOLD_ONNX__STOPS) |
                                (to == FOLD_ONNX__BOOL ? FOLD_ONNX__TRUTH : 0));
    if (!(changes ? fold_onnx__open_elements(o, from)
                  : fold_onnx__emit(o, &view, o->node.out[0], &view.dims)))
        return 0;
    out->is_integer = type->is_integer;
    out->type = type;
    for (int i = 0; out->numbers && i < out->count; i++)
        out->numbers[i] = fold_onnx__round(out, out->numbers[i]);
    return 1;
}

/* ---- quantisation ----------------------------------------------------------------------------- */

/* number: whether it quantises (or else dequantises), whether it has a zero point, the least and the largest
   result. */
static void fold_onnx__record_quantize(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                       fold_node *out)
{
    const int *n = s->number, rank = o->has_list ? fold_onnx__most_axes(o->f, in, s->n_in) : 0;
    const fold_node scale = fold_onnx__with_axes(o->f, in[1], rank),
                    zero = n[1] ? fold_onnx__with_axes(o->f, in[2], rank) : scale;
    fold_node x = fold_onnx__with_axes(o->f, in[0], rank);
    if (!n[0] && n[1])
        x = fold_sub(o->f, x, zero);
    if (!n[0]) {
        out[0] = fold_mul(o->f, x, scale);
        return;
    }
    x = fold_div(o->f, x, scale);
    x = fold_onnx__apply_own(o->f, s->own, &x, 1, fold_node_shape(o->f, x));
    out[0] = fold_clip(o->f, n[1] ? fold_add(o->f, x, zero) : x, (float)n[2], (float)n[3]);
}

/* A view with the scale (or zero point) of each element of x. The input has one scale for all of x, for each
   index of the axis, or for each block along it. `own` becomes a view that only has to broadcast to x. */
static fold_onnx__view fold_onnx__scales(fold_onnx *o, int input, fold_onnx__view *own)
{
    const fold_onnx__dims *x = &fold_onnx__in(o, 0)->dims, *scale = &fold_onnx__in(o, input)->dims;
    const int is_one = fold_onnx__in(o, input)->count == 1, block = fold_onnx__whole(o, "block_size", 0);
    const int axis = is_one ? 0 : fold_onnx__axis_of(o, fold_onnx__in(o, 0), 1);
    fold_onnx__dims line = *x, one = { 1, { 1 } };
    for (int k = 0; k < line.rank; k++)
        line.dim[k] = k == axis ? x->dim[k] : 1;
    if (is_one || !block) {
        if (!is_one && !o->failed && (scale->rank != 1 || scale->dim[0] != x->dim[axis]))
            FOLD_ONNX__REFUSE(o, "'%.60s' does not fit axis %d", fold_onnx__in(o, input)->name, axis);
        *own = fold_onnx__view_of(o, is_one ? &one : &line);
        return fold_onnx__repeated(o, &own->dims, x);
    }
    fold_onnx__view view = fold_onnx__view_of(o, scale);
    line = *scale;
    if (axis < line.rank && block > 0 && line.dim[axis] == (x->dim[axis] - 1) / block + 1)
        line.dim[axis] = x->dim[axis];
    if (!fold_onnx__same_dims(&line, x))
        FOLD_ONNX__REFUSE(o, "'%.60s' does not fit blocks of %d", fold_onnx__in(o, input)->name, block);
    const int *had = view.at[axis];
    int *at = o->failed ? NULL : FOLD_ONNX__SCRATCH(o, int, x->dim[axis]);
    for (int i = 0; at && i < x->dim[axis]; i++)
        at[i] = had[i / block];
    view.dims = *x;
    view.at[axis] = at;
    return *own = view;
}

/* The type that QuantizeLinear makes, and its least and largest numbers. */
static const fold_onnx__type *fold_onnx__quantized(fold_onnx *o, int *least, int *largest)
{
    const fold_onnx__value *zero = fold_onnx__has_in(o, 2) ? fold_onnx__in(o, 2) : NULL;
    const int told = fold_onnx__whole(o, "output_dtype", 0);
    const fold_onnx__type *type =
        zero ? zero->type : fold_onnx__type_of((uint64_t)(told ? told : FOLD_ONNX__UINT8));
    if (!type || type->type < FOLD_ONNX__UINT8 || type->type > FOLD_ONNX__INT16)
        return FOLD_ONNX__REFUSE(o, "a zero point that is not of 8 or 16 bits"), (const fold_onnx__type *)0;
    const int half = 128 << (type->size == 2 ? 8 : 0),
              is_signed = type->type == FOLD_ONNX__INT8 || type->type == FOLD_ONNX__INT16;
    *least = is_signed ? -half : 0;
    *largest = *least + 2 * half - 1;
    return type;
}

/* QuantizeLinear and DequantizeLinear. For constants, such as weights, the results are constants too,
   computed with quotients that are rounded to float, like those of other values. */
static int fold_onnx__open_quantize(fold_onnx *o, const fold_onnx__value *from)
{
    const int quantizes = o->node.type[0] == 'Q', n = o->node.n_in;
    fold_onnx__value *out = fold_onnx__out(o);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_quantize, n);
    fold_onnx__view own[3], view[3];
    int index[3][FOLD_ONNX_RANK] = { { 0 } };
    const fold_onnx__type *type = quantizes ? fold_onnx__quantized(o, &s.number[2], &s.number[3]) : NULL;
    for (int i = 1; i < n && !o->failed; i++)
        view[i] = fold_onnx__scales(o, i, &own[i]);
    if (o->failed)
        return 0;
    double *numbers = fold_onnx__all_fixed(o) ? fold_onnx__fix(o, out, &from->dims, 0) : NULL;
    out->is_integer = type ? type->is_integer : 0;
    out->type = type;
    for (int i = 0; numbers && i < from->count; i++) {
        const double x = fold_onnx__number(from, i),
                     scale =
                         fold_onnx__number(fold_onnx__in(o, 1), fold_onnx__next_source(&view[1], index[1])),
                     zero = n == 3 ? fold_onnx__number(fold_onnx__in(o, 2),
                                                       fold_onnx__next_source(&view[2], index[2]))
                                   : 0;
        numbers[i] = quantizes ? fold_onnx__nearest_whole->of((double)(float)(x / scale), 0) + zero
                               : (double)(float)(x - zero) * scale;
        if (quantizes)
            numbers[i] = fold_onnx__min_of(fold_onnx__max_of(numbers[i], s.number[2]), s.number[3]);
    }
    if (numbers || o->failed)
        return numbers != NULL;
    s.number[0] = s.stops = quantizes;
    s.number[1] = n == 3;
    fold_onnx__reads(o, &s, 0, o->node.in[0], NULL, fold_shape1(1));
    for (int i = 1; i < n; i++)
        fold_onnx__reads(o, &s, i, o->node.in[i], &own[i], fold_onnx__shape(&own[i].dims));
    if (quantizes)
        s.own = fold_onnx__own_op(o, "Round", 1, fold_onnx__map_forward, NULL, fold_onnx__nearest_whole);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

/* The scale is 1 / 255 of the range of x and 0, or 1 if that range is empty. */
static void fold_onnx__record_dynamic_quantize(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                               fold_node *out)
{
    fold_ctx *f = o->f;
    const fold_shape scalar = fold_shape1(1);
    const fold_node x = fold_onnx__part(f, in[0], 0, s->number[0]), one = fold_constant(f, 1);
    const fold_node low = fold_at_most(f, fold_amin(f, x, 0), 0),
                    range = fold_sub(f, fold_at_least(f, fold_amax(f, x, 0), 0), low);
    const fold_node ones = fold_add(f, fold_scale(f, range, 0), one);
    out[1] = fold_select(f, range, fold_onnx__divide_by(f, range, 255), ones);
    const fold_node zero = fold_clip(f, fold_div(f, fold_neg(f, low), out[1]), 0, 255);
    out[2] = fold_onnx__apply_own(f, s->own, &zero, 1, scalar);
    const fold_node scaled = fold_div(f, x, out[1]);
    out[0] = fold_add(f, fold_onnx__apply_own(f, s->own, &scaled, 1, fold_shape1(s->number[0])), out[2]);
    out[0] = fold_clip(f, out[0], 0, 255);
}

static int fold_onnx__open_dynamic_quantize(fold_onnx *o, const fold_onnx__value *from)
{
    static const fold_onnx__dims scalar = { 0, { 0 } };
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_dynamic_quantize, 1);
    s.number[0] = from->count;
    s.stops = 1;
    s.own = fold_onnx__own_op(o, "Round", 1, fold_onnx__map_forward, NULL, fold_onnx__nearest_whole);
    fold_onnx__reads(o, &s, 0, o->node.in[0], NULL, fold_shape1(1));
    for (int i = 2; i >= 0; i--) {
        if (!fold_onnx__has_out(o, i))
            continue;
        fold_onnx__makes(o, &s, i, o->node.out[i], i ? &scalar : &from->dims);
        o->values[o->node.out[i]].is_integer = i == 1 ? 0 : 2;
        o->values[o->node.out[i]].type = i == 1 ? NULL : fold_onnx__type_of(FOLD_ONNX__UINT8);
    }
    return !o->failed;
}

/* ---- several ops that are one of fold.h --------------------------------------------------------- */

/* An op that is joined into a later one runs only if its own result is requested. */
static fold_onnx__recorder fold_onnx__record_linear, fold_onnx__record_layer_norm;

/* Input i of the op that makes a value; 0 if that op has a different type. */
static int fold_onnx__input_of(const fold_onnx *o, int index, const char *type, int i)
{
    const fold_onnx__step *s = fold_onnx__maker(o, index);
    return s && !strcmp(s->op->type, type) ? s->from[i] : 0;
}

/* The value whose mean over the last axis this one is; 0 if it is no such mean. */
static int fold_onnx__mean_of(const fold_onnx *o, int index)
{
    const int from = fold_onnx__input_of(o, index, "ReduceMean", 0);
    if (!o->values[from].dims.rank)
        return 0;
    fold_onnx__dims kept = o->values[from].dims;
    kept.dim[kept.rank - 1] = 1;
    return fold_onnx__same_dims(&kept, &o->values[index].dims) ? from : 0;
}

/* Returns x if the value is x - mean(x), or else 0. */
static int fold_onnx__centred(const fold_onnx *o, int index)
{
    const int from = fold_onnx__input_of(o, index, "Sub", 0);
    return fold_onnx__mean_of(o, fold_onnx__input_of(o, index, "Sub", 1)) == from ? from : 0;
}

/* Joins a product with its bias, or a norm with its gain or bias, if that is a constant row. */
static int fold_onnx__joins_row(fold_onnx *o)
{
    const int adds = o->node.op->number == fold_onnx__add;
    for (int side = 0; side < 2 && (adds || o->node.op->number == fold_onnx__mul); side++) {
        const fold_onnx__dims *made = &fold_onnx__in(o, side)->dims, *row = &fold_onnx__in(o, !side)->dims;
        const fold_onnx__step *before = fold_onnx__maker(o, o->node.in[side]);
        const int count = row->rank ? row->dim[row->rank - 1] : 0;
        if (!before || !fold_onnx__is_fixed(o, o->node.in[!side]) ||
            fold_onnx__in(o, !side)->count != count || row->rank > made->rank ||
            count != made->dim[made->rank - 1])
            continue;
        const int is_linear = before->record == fold_onnx__record_linear && before->n_in == 1 && adds &&
                              fold_param_is_null(before->param[1]);
        const int is_norm = before->record == fold_onnx__record_layer_norm && before->number[0] <= adds;
        if (!is_linear && !is_norm)
            continue;
        fold_onnx__step s = *before;
        s.op = o->node.op;
        s.from = o->node.in;
        s.out[1] = s.out[2] = 0;
        s.number[0] = is_linear ? 1 : 1 + adds; /* a norm: 1 with a gain, 2 with a bias */
        return fold_onnx__vector(o, o->node.in[!side], count, 1, &s.param[adds]) &&
               fold_onnx__makes(o, &s, 0, o->node.out[0], made);
    }
    return 0;
}

/* Joins (x - mean) / sqrt(mean((x - mean)^2) + epsilon) over the last axis. */
static int fold_onnx__joins_norm(fold_onnx *o)
{
    const int x = fold_onnx__centred(o, o->node.in[0]),
              sum = fold_onnx__input_of(o, o->node.in[1], "Sqrt", 0);
    const int variance = fold_onnx__input_of(o, sum, "Add", 0), square = fold_onnx__mean_of(o, variance);
    const int again = fold_onnx__input_of(o, square, "Mul", 0);
    double epsilon = 0, two = 0;
    if (o->node.op->number != fold_onnx__div || !x || fold_onnx__is_fixed(o, x))
        return 0;
    if (!fold_onnx__same_dims(&o->values[square].dims, &o->values[x].dims) ||
        !fold_onnx__same_dims(&o->values[sum].dims, &o->values[variance].dims))
        return 0;
    if (!fold_onnx__scalar(o, fold_onnx__input_of(o, sum, "Add", 1), &epsilon) || !(epsilon > 0))
        return 0;
    const int by_mul = again == fold_onnx__input_of(o, square, "Mul", 1) && fold_onnx__centred(o, again) == x;
    const int by_pow = fold_onnx__scalar(o, fold_onnx__input_of(o, square, "Pow", 1), &two) && two == 2 &&
                       fold_onnx__centred(o, fold_onnx__input_of(o, square, "Pow", 0)) == x;
    if (!by_mul && !by_pow)
        return 0;
    const fold_onnx__dims *dims = &o->values[x].dims;
    const int width = dims->dim[dims->rank - 1];
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_layer_norm, 1);
    s.real[0] = (float)epsilon;
    return fold_onnx__reads(o, &s, 0, x, NULL, fold_shape1(1)) &&
           fold_onnx__fill(o, o->node.out[0], width, 1, &s.param[0]) &&
           fold_onnx__fill(o, o->node.out[0], width, 0, &s.param[1]) &&
           fold_onnx__makes(o, &s, 0, o->node.out[0], dims);
}

static int fold_onnx__joins(fold_onnx *o) { return fold_onnx__joins_row(o) || fold_onnx__joins_norm(o); }

/* ---- ops that move elements -------------------------------------------------------------------- */

static int fold_onnx__emit_shape(fold_onnx *o, const fold_onnx__dims *dims)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0);
    const fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    const int count = fold_onnx__size(o, dims);
    if (count && count != from->count)
        return FOLD_ONNX__REFUSE(o, "%d values into a shape of %d, for a batch of 1", from->count, count);
    return fold_onnx__emit(o, &view, o->node.out[0], dims);
}

static int fold_onnx__open_identity(fold_onnx *o, const fold_onnx__value *from)
{
    return fold_onnx__emit_shape(o, &from->dims);
}

static int fold_onnx__open_reshape(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims;
    int open = -1;
    long long known = 1;
    const int zero = fold_onnx__whole(o, "allowzero", 0);
    dims.rank = fold_onnx__list(o, "shape", 1, dims.dim, FOLD_ONNX_RANK);
    for (int k = 0; k < dims.rank; k++) {
        if (dims.dim[k] == 0 && !zero && k < from->dims.rank)
            dims.dim[k] = from->dims.dim[k];
        if (dims.dim[k] == -1 && open < 0)
            open = k;
        else if (dims.dim[k] < 1 || dims.dim[k] > from->count)
            return FOLD_ONNX__REFUSE(o, "%d values into an axis of %d", from->count, dims.dim[k]);
        else if (known <= from->count)
            known *= dims.dim[k];
    }
    if (open >= 0)
        dims.dim[open] = (int)(from->count / known);
    return dims.rank < 0 ? FOLD_ONNX__REFUSE(o, "no shape") : fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_flatten(fold_onnx *o, const fold_onnx__value *from)
{
    int axis = fold_onnx__whole(o, "axis", 1);
    if (axis != from->dims.rank)
        axis = fold_onnx__axis(o, axis, from->dims.rank);
    const fold_onnx__dims dims = { 2,
                                   { fold_onnx__product(&from->dims, 0, axis),
                                     fold_onnx__product(&from->dims, axis, from->dims.rank) } };
    return fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_squeeze(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims = { 0, { 0 } };
    unsigned marks;
    const int named = fold_onnx__marked_axes(o, from->dims.rank, 0, &marks);
    for (int k = 0; k < from->dims.rank && named != -2; k++)
        if (named > 0 ? !(marks >> k & 1) : from->dims.dim[k] != 1)
            dims.dim[dims.rank++] = from->dims.dim[k];
    return fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_unsqueeze(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims = { 0, { 0 } };
    unsigned marks;
    const int named = fold_onnx__marked_axes(o, from->dims.rank, 1, &marks);
    if (named < 0)
        return FOLD_ONNX__REFUSE(o, "no axes");
    for (int k = 0; dims.rank < from->dims.rank + named; dims.rank++)
        dims.dim[dims.rank] = marks >> dims.rank & 1 ? 1 : from->dims.dim[k++];
    return fold_onnx__emit_shape(o, &dims);
}

static int fold_onnx__open_transpose(fold_onnx *o, const fold_onnx__value *from)
{
    const int rank = from->dims.rank;
    int order[FOLD_ONNX_RANK], seen = 0;
    const int count = fold_onnx__list(o, "perm", -1, order, FOLD_ONNX_RANK);
    if (count != -1 && count != rank)
        return FOLD_ONNX__REFUSE(o, "perm has %d axes, not %d", count, rank);
    for (int i = 0; i < rank; i++) {
        order[i] = count == -1 ? rank - 1 - i : fold_onnx__axis(o, order[i], rank);
        seen |= 1 << order[i];
    }
    if (seen != (1 << rank) - 1)
        return FOLD_ONNX__REFUSE(o, "perm names an axis twice");
    const fold_onnx__view all = fold_onnx__view_of(o, &from->dims), view = fold_onnx__permuted(&all, order);
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_expand(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__dims dims;
    dims.rank = fold_onnx__list(o, NULL, 1, dims.dim, FOLD_ONNX_RANK);
    if (dims.rank < 0 || !fold_onnx__size(o, &dims) || !fold_onnx__meet(o, &from->dims, &dims))
        return 0;
    const fold_onnx__view view = fold_onnx__repeated(o, &from->dims, &dims);
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

/* A negative index counts from the end. The result is clamped to [low, high]. */
static int fold_onnx__index(int index, int count, int low, int high)
{
    if (index < 0)
        index += count;
    return index < low ? low : index > high ? high : index;
}

static int fold_onnx__open_slice(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const names[4] = { "starts", "ends", "axes", NULL };
    int list[4][FOLD_ONNX_RANK], n[4], seen = 0; /* starts, ends, axes, steps */
    for (int i = 0; i < 4; i++) {
        n[i] = fold_onnx__list(o, names[i], 1 + i, list[i], FOLD_ONNX_RANK);
        if (n[i] < (i < 2 ? 0 : -1) || (n[i] >= 0 && n[i] != n[0]) || n[0] > from->dims.rank)
            return FOLD_ONNX__REFUSE(o, "starts, ends, axes and steps of different lengths");
    }
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    for (int i = 0; i < n[0]; i++) {
        const int axis = fold_onnx__axis(o, n[2] < 0 ? i : list[2][i], from->dims.rank),
                  step = n[3] < 0 ? 1 : list[3][i], back = step < 0;
        if (!step || step == -INT_MAX || seen >> axis & 1)
            return FOLD_ONNX__REFUSE(o, "a step of %d, or an axis that is named twice", step);
        const int count = from->dims.dim[axis], start = fold_onnx__index(list[0][i], count, 0, count - back);
        const int end = fold_onnx__index(list[1][i], count, -back, count - back);
        const int left = back ? start - end : end - start;
        if (left < 1)
            return FOLD_ONNX__REFUSE(o, "axis %d would be empty", axis);
        seen |= 1 << axis;
        fold_onnx__take_axis(o, &view, axis, start, step, (left - 1) / (back ? -step : step) + 1);
    }
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_split(fold_onnx *o, const fold_onnx__value *from)
{
    int parts[FOLD_ONNX__MOST_OUT], begin = 0;
    const int axis = fold_onnx__axis_of(o, from, 0), n = o->node.n_out,
              count = fold_onnx__list(o, "split", 1, parts, FOLD_ONNX__MOST_OUT);
    if ((count != -1 && count != n) || n > FOLD_ONNX__MOST_OUT)
        return FOLD_ONNX__REFUSE(o, "%d parts and %d outputs", count, n);
    if (count == -1 && o->version < 18 && from->dims.dim[axis] % n)
        return FOLD_ONNX__REFUSE(o, "%d parts that are not equal, of %d values", n, from->dims.dim[axis]);
    const fold_onnx__view all = fold_onnx__view_of(o, &from->dims);
    const int had = all.dims.dim[axis];
    for (int i = 0; i < n && !o->failed; begin += parts[i++]) {
        fold_onnx__view view = all;
        if (count == -1)
            parts[i] = i < n - 1 ? (had + n - 1) / n : had - begin;
        if (parts[i] < 1 || parts[i] > had - begin || (i == n - 1 && parts[i] != had - begin))
            return FOLD_ONNX__REFUSE(o, "parts that do not make up axis %d", axis);
        fold_onnx__take_axis(o, &view, axis, begin, 1, parts[i]);
        if (fold_onnx__has_out(o, i))
            fold_onnx__emit(o, &view, o->node.out[i], &view.dims);
    }
    return !o->failed;
}

/* Gather copies runs of values from [outer x count x run]. Returns where the run of an index begins, or -1 if
   there is none: the values are then NaN. */
static int fold_onnx__looked_up(const int *size, float index)
{
    index += index < 0 ? (float)size[0] : 0;
    return index >= 0 && index < (float)size[0] ? (int)index * size[1] : -1;
}

static void fold_onnx__gather_forward(const fold_op_call *c)
{
    const int *size = (const int *)c->user, run = size[1]; /* count and run */
    const int n = fold_onnx__elements(c->in_shape[1]), all = fold_onnx__elements(c->out_shape[0]) / run;
    for (int row = 0; row < c->rows; row++)
        for (int i = 0; i < all; i++) {
            const int at = fold_onnx__looked_up(size, fold_row(&c->in[1], row)[i % n]);
            const float *from = fold_row(&c->in[0], row) + (size_t)(i / n) * (size_t)(size[0] * run);
            for (int k = 0; k < run; k++)
                fold_row(&c->out[0], row)[i * run + k] = at < 0 ? NAN : from[at + k];
        }
}

static void fold_onnx__gather_backward(const fold_op_call *c)
{
    const int *size = (const int *)c->user, run = size[1];
    const int n = fold_onnx__elements(c->in_shape[1]), all = fold_onnx__elements(c->out_shape[0]) / run;
    for (int row = 0; row < c->rows; row++) {
        float *table = fold_row(&c->din[0], row), *index = fold_row(&c->din[1], row);
        if (index)
            memset(index, 0, (size_t)n * sizeof *index);
        if (table)
            memset(table, 0, (size_t)fold_onnx__elements(c->in_shape[0]) * sizeof *table);
        for (int i = 0; i < all && table; i++) {
            const int at = fold_onnx__looked_up(size, fold_row(&c->in[1], row)[i % n]);
            for (int k = 0; k < run && at >= 0; k++)
                table[i / n * size[0] * run + at + k] += fold_row(&c->dout[0], row)[i * run + k];
        }
    }
}

static int fold_onnx__open_gather_by_input(fold_onnx *o, const fold_onnx__dims *dims, int axis)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_own, 2);
    int *size = FOLD_ONNX__KEPT(o, int, 2);
    for (int i = 0; i < 2; i++)
        fold_onnx__reads(o, &s, i, o->node.in[i], NULL, fold_shape1(1));
    if (!size || o->failed)
        return 0;
    size[0] = from->dims.dim[axis];
    size[1] = fold_onnx__product(&from->dims, axis + 1, from->dims.rank);
    s.own =
        fold_onnx__own_op(o, "onnx gather", 2, fold_onnx__gather_forward, fold_onnx__gather_backward, size);
    fold_onnx__out(o)->is_integer = from->is_integer;
    return fold_onnx__makes(o, &s, 0, o->node.out[0], dims);
}

static int fold_onnx__open_gather(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__value *index = fold_onnx__in(o, 1);
    const int axis = fold_onnx__axis_of(o, from, 0), more = index->dims.rank;
    fold_onnx__dims dims = from->dims;
    if ((dims.rank += more - 1) > FOLD_ONNX_RANK)
        return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    for (int k = axis; k < dims.rank; k++)
        dims.dim[k] = k < axis + more ? index->dims.dim[k - axis] : from->dims.dim[k + 1 - more];
    if (index->origin != FOLD_ONNX__FIXED)
        return fold_onnx__open_gather_by_input(o, &dims, axis);
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    const int *at = view.at[axis];
    int *taken = view.at[axis] = FOLD_ONNX__SCRATCH(o, int, index->count);
    view.dims.dim[axis] = index->count;
    for (int i = 0; i < index->count && !o->failed; i++)
        taken[i] = at[fold_onnx__axis(o, fold_onnx__near(fold_onnx__number(index, i)), from->dims.dim[axis])];
    return fold_onnx__emit(o, &view, o->node.out[0], &dims);
}

static int fold_onnx__open_pad(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const modes[4] = { "constant", "edge", "reflect", "wrap" };
    int pads[2 * FOLD_ONNX_RANK], axes[FOLD_ONNX_RANK];
    const int count = fold_onnx__list(o, "pads", 1, pads, 2 * FOLD_ONNX_RANK),
              n_axes = fold_onnx__list(o, NULL, 3, axes, FOLD_ONNX_RANK);
    const int n = n_axes == -1 ? from->dims.rank : n_axes;
    const int beyond = fold_onnx__word(o, "mode", modes, 4);
    if (count != 2 * n)
        return FOLD_ONNX__REFUSE(o, "%d pads of %d axes", count, n);
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    view.pad = (float)fold_onnx__setting(o, 2, (double)fold_onnx__real(o, "value", 0));
    for (int i = 0; i < n; i++) {
        const int axis = fold_onnx__axis(o, n_axes == -1 ? i : axes[i], from->dims.rank);
        const long long total = (long long)pads[i] + pads[n + i] + view.dims.dim[axis];
        if (total < 1 || total > FOLD_ONNX__MOST_VALUES || pads[i] > FOLD_ONNX__MOST_VALUES ||
            pads[i] < -FOLD_ONNX__MOST_VALUES || (beyond > 0 && (pads[i] < 0 || pads[n + i] < 0)))
            return FOLD_ONNX__REFUSE(o, "pads of %d and %d", pads[i], pads[n + i]);
        fold_onnx__take_beyond(o, &view, axis, -pads[i], 1, (int)total, beyond);
    }
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_tile(fold_onnx *o, const fold_onnx__value *from)
{
    int times[FOLD_ONNX_RANK];
    const int rank = from->dims.rank, count = fold_onnx__list(o, NULL, 1, times, FOLD_ONNX_RANK);
    if (count != rank || o->version < 6)
        return FOLD_ONNX__REFUSE(o, "opset %d, %d repeats of %d axes", o->version, count, rank);
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    for (int k = 0; k < rank; k++) {
        if (times[k] < 1 || times[k] > FOLD_ONNX__MOST_VALUES / view.dims.dim[k])
            return FOLD_ONNX__REFUSE(o, "%d repeats", times[k]);
        fold_onnx__take_beyond(o, &view, k, 0, 1, times[k] * view.dims.dim[k], FOLD_ONNX__WRAP);
    }
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

static int fold_onnx__open_trilu(fold_onnx *o, const fold_onnx__value *from)
{
    const double diagonal = fold_onnx__setting(o, 1, 0), most = FOLD_ONNX__MOST_VALUES;
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    if (from->dims.rank < 2)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d", from->dims.rank);
    view.cuts = fold_onnx__whole(o, "upper", 1) ? -1 : 1;
    view.diagonal = (int)(diagonal < -most ? -most : diagonal < most ? diagonal : most);
    return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
}

/* SpaceToDepth turns the pixels of blocks into channels, DepthToSpace channels into blocks. */
static int fold_onnx__open_blocks(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const modes[2] = { "DCR", "CRD" };
    static const int orders[3][6] = { { 0, 3, 4, 1, 5, 2 }, { 0, 1, 4, 2, 5, 3 }, { 0, 3, 5, 1, 2, 4 } };
    const int way = !strcmp(o->node.type, "SpaceToDepth") ? 2 : fold_onnx__word(o, "mode", modes, 2),
              b = fold_onnx__whole(o, "blocksize", 0), *x = from->dims.dim;
    if (from->dims.rank != 4 || b < 1 || b > 4096 || (way == 2 ? x[2] % b || x[3] % b : x[1] % (b * b)))
        return FOLD_ONNX__REFUSE(o, "blocks of %d, which do not fit an input of rank %d", b, from->dims.rank);
    const int c = way == 2 ? x[1] : x[1] / b / b, h = way == 2 ? x[2] / b : x[2],
              w = way == 2 ? x[3] / b : x[3];
    const fold_onnx__dims cut[3] = { { 6, { x[0], b, b, c, h, w } },
                                     { 6, { x[0], c, b, b, h, w } },
                                     { 6, { x[0], c, h, b, w, b } } };
    const fold_onnx__dims deep = { 4, { x[0], c * b * b, h, w } }, wide = { 4, { x[0], c, h * b, w * b } };
    const fold_onnx__view all = fold_onnx__view_of(o, &cut[way]),
                          view = fold_onnx__permuted(&all, orders[way]);
    return fold_onnx__emit(o, &view, o->node.out[0], way == 2 ? &deep : &wide);
}

/* Compares indices [outer x 1 x inner] with places [depth x 1]. A negative index counts from the end. Floats
   are truncated. */
static void fold_onnx__record_one_hot(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                      fold_node *out)
{
    const int depth = s->number[0];
    const fold_node places = fold_reshape(o->f, fold_use(o->f, s->param[0]), fold_shape2(depth, 1));
    const fold_node below = fold_floor(o->f, fold_relu(o->f, fold_neg(o->f, in[0])));
    fold_node x = fold_sub(o->f, fold_floor(o->f, fold_relu(o->f, in[0])), below); /* passes no gradient */
    const fold_node is_negative = fold_clip(o->f, fold_neg(o->f, x), 0, 1);
    x = fold_add(o->f, x, fold_scale(o->f, is_negative, (float)depth));
    x = fold_shift(o->f, fold_neg(o->f, fold_abs(o->f, fold_sub(o->f, x, places))), 1);
    out[0] = fold_shift(o->f, fold_scale(o->f, fold_relu(o->f, x), s->real[1] - s->real[0]), s->real[0]);
}

static int fold_onnx__one_hot_step(fold_onnx *o, const fold_onnx__dims *dims, int axis)
{
    const fold_onnx__value *from = fold_onnx__in(o, 0), *values = fold_onnx__in(o, 2);
    const int inner = fold_onnx__product(dims, axis + 1, dims->rank), depth = dims->dim[axis];
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_one_hot, 1);
    double *places = FOLD_ONNX__SCRATCH(o, double, depth);
    for (int i = 0; places && i < depth; i++)
        places[i] = i;
    for (int i = 0; i < 2; i++)
        s.real[i] = (float)fold_onnx__number(values, i);
    s.number[0] = depth;
    s.stops = 1;
    fold_onnx__out(o)->is_integer = values->is_integer;
    fold_onnx__reads_shape(o, &s, 0, o->node.in[0], fold_shape3(from->count / inner, 1, inner));
    return fold_onnx__supply(o, o->node.out[0], places, depth, &s.param[0]) &&
           fold_onnx__makes(o, &s, 0, o->node.out[0], dims);
}

static int fold_onnx__open_one_hot(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__value *values = fold_onnx__in(o, 2);
    const int rank = from->dims.rank + 1, axis = fold_onnx__axis(o, fold_onnx__whole(o, "axis", -1), rank);
    const double depth = fold_onnx__setting(o, 1, 0);
    fold_onnx__dims dims = from->dims;
    if (rank > FOLD_ONNX_RANK)
        return fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    if (values->origin != FOLD_ONNX__FIXED || values->count != 2)
        return FOLD_ONNX__REFUSE(o, "'%.60s' is not two constant numbers", values->name);
    dims.rank = rank;
    dims.dim[axis] = fold_onnx__near(depth);
    for (int k = axis + 1; k < rank; k++)
        dims.dim[k] = from->dims.dim[k - 1];
    if (o->failed || from->origin != FOLD_ONNX__FIXED)
        return fold_onnx__size(o, &dims) && fold_onnx__one_hot_step(o, &dims, axis);
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, values->is_integer);
    const int inner = fold_onnx__product(&dims, axis + 1, rank);
    for (int i = 0; numbers && i < fold_onnx__out(o)->count; i++) {
        const int place = i / inner % dims.dim[axis], line = i / inner / dims.dim[axis];
        const double index = fold_onnx__number(from, line * inner + i % inner);
        numbers[i] = fold_onnx__number(values, (index < 0 ? index + depth : index) == place);
    }
    return numbers != NULL;
}

/* Dropout after training: the same values, and a mask that keeps all of them. */
static int fold_onnx__open_dropout(fold_onnx *o, const fold_onnx__value *from)
{
    const double ratio = fold_onnx__setting(o, 1, 0.5), trains = fold_onnx__setting(o, 2, 0);
    if ((trains != 0 || (o->version < 7 && !fold_onnx__whole(o, "is_test", 0))) && ratio != 0)
        return FOLD_ONNX__REFUSE(o, "it drops values; export the network for inference");
    double *mask = fold_onnx__has_out(o, 1)
                       ? fold_onnx__fix(o, &o->values[o->node.out[1]], &from->dims, o->version > 9)
                       : NULL;
    for (int i = 0; mask && i < from->count; i++)
        mask[i] = 1;
    return fold_onnx__emit_shape(o, &from->dims);
}

static void fold_onnx__record_concat(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    out[0] = s->n_in == 1 ? in[0] : fold_concat(o->f, in, s->n_in, s->number[0]);
}

static int fold_onnx__open_concat(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__dims *first = &from->dims;
    fold_onnx__dims dims = *first;
    const int n = o->node.n_in, axis = fold_onnx__axis_of(o, from, 1), fixed = fold_onnx__all_fixed(o);
    const int whole = from->is_integer;
    int begin = 0;
    dims.dim[axis] = 0;
    for (int i = 0; i < n; i++) {
        fold_onnx__dims other = fold_onnx__in(o, i)->dims;
        const int more = axis < other.rank ? other.dim[axis] : 0;
        if (axis < other.rank)
            other.dim[axis] = first->dim[axis];
        if (!fold_onnx__same_dims(&other, first))
            return FOLD_ONNX__REFUSE(o, "'%.60s' has a different shape", fold_onnx__in(o, i)->name);
        dims.dim[axis] += more;
        if (dims.dim[axis] && !fold_onnx__size(o, &dims))
            return 0;
    }
    const int outer = fold_onnx__product(&dims, 0, axis), all = fold_onnx__product(&dims, axis, dims.rank);
    double *numbers = fixed ? fold_onnx__fix(o, fold_onnx__out(o), &dims, whole) : NULL;
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_concat, n);
    s.number[0] = outer > 1;
    s.n_in = 0;
    fold_onnx__out(o)->is_integer = whole;
    for (int i = 0; i < n && !o->failed; i++) {
        const fold_onnx__value *part = fold_onnx__in(o, i);
        const int own = part->count / outer;
        if (!fixed && own)
            fold_onnx__reads_shape(o, &s, s.n_in++, o->node.in[i], fold_onnx__along(outer, own, 1));
        for (int k = 0; fixed && k < part->count; k++)
            numbers[k / own * all + begin + k % own] = fold_onnx__number(part, k);
        begin += own;
    }
    return fixed ? !o->failed : fold_onnx__makes(o, &s, 0, o->node.out[0], &dims);
}

static int fold_onnx__open_shape(fold_onnx *o, const fold_onnx__value *from)
{
    const int rank = from->dims.rank,
              start = fold_onnx__index(fold_onnx__whole(o, "start", 0), rank, 0, rank),
              end = fold_onnx__index(fold_onnx__whole(o, "end", rank), rank, 0, rank);
    const fold_onnx__dims dims = { 1, { end > start ? end - start : 0 } };
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, 1);
    for (int i = 0; numbers && i < end - start; i++)
        numbers[i] = from->dims.dim[start + i];
    return numbers != NULL;
}

static int fold_onnx__open_size(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__dims scalar = { 0, { 0 } };
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &scalar, 1);
    return numbers && (*numbers = from->count, 1);
}

static int fold_onnx__open_range(fold_onnx *o, const fold_onnx__value *from)
{
    const double start = fold_onnx__setting(o, 0, 0), limit = fold_onnx__setting(o, 1, 0),
                 delta = fold_onnx__setting(o, 2, 1), n = ceil((limit - start) / delta);
    if (!(n <= (double)FOLD_ONNX__MOST_VALUES))
        return FOLD_ONNX__REFUSE(o, "%g values", n);
    const fold_onnx__dims dims = { 1, { n > 0 ? (int)n : 0 } };
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, from->is_integer);
    for (int i = 0; numbers && i < dims.dim[0]; i++)
        numbers[i] = fold_onnx__round(from, start + i * delta);
    return numbers != NULL;
}

static int fold_onnx__open_constant(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const names[4] = { "value_float", "value_int", "value_floats", "value_ints" };
    static const int fields[4] = { 2, 3, 7, 8 };
    fold_onnx__field field;
    fold_onnx__value *out = fold_onnx__out(o);
    (void)from;
    if (fold_onnx__attribute(o, "value", 5, &field))
        return fold_onnx__read_tensor(o, field.bytes, out);
    for (int i = 0; i < 4; i++) {
        const fold_onnx__type *type =
            fold_onnx__type_of(i % 2 ? (int)FOLD_ONNX__INT64 : (int)FOLD_ONNX__FLOAT);
        if (!fold_onnx__attribute(o, names[i], i > 1 ? -fields[i] : fields[i], &field))
            continue;
        const fold_onnx__dims dims = { i > 1,
                                       { fold_onnx__numbers(o, field.bytes, fields[i], type, NULL, 0) } };
        double *numbers = fold_onnx__fix(o, out, &dims, type->is_integer);
        if (numbers && i < 2)
            *numbers = fold_onnx__decode(type->type, field.value);
        return numbers && (i < 2 || fold_onnx__read_listed(o, field.bytes, fields[i], type, out));
    }
    return FOLD_ONNX__REFUSE(o, "no value of a supported type");
}

static int fold_onnx__open_constant_of_shape(fold_onnx *o, const fold_onnx__value *from)
{
    (void)from;
    fold_onnx__dims dims;
    fold_onnx__field field;
    fold_onnx__value single;
    memset(&single, 0, sizeof single);
    dims.rank = fold_onnx__list(o, NULL, 0, dims.dim, FOLD_ONNX_RANK);
    if (dims.rank < 0)
        return 0;
    const int is_told = fold_onnx__attribute(o, "value", 5, &field);
    if (is_told && (!fold_onnx__read_tensor(o, field.bytes, &single) || single.count != 1))
        return FOLD_ONNX__REFUSE(o, "%d values to fill it with", single.count);
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, single.is_integer);
    for (int i = 0; numbers && is_told && i < fold_onnx__out(o)->count; i++)
        numbers[i] = fold_onnx__number(&single, 0);
    return numbers != NULL;
}

/* ---- ops along axes --------------------------------------------------------------------------- */

/* An input as [outer x count x inner], where `count` combines the marked axes. `kept` is the input's shape
   without those, or with 1 in their place. */
typedef struct fold_onnx__lines {
    fold_onnx__view view;
    int order[FOLD_ONNX_RANK], outer, count, inner;
    fold_onnx__dims kept;
} fold_onnx__lines;

/* Marked axes that are adjacent are read in place if the op allows that; others are moved to the end. */
static fold_onnx__lines fold_onnx__reads_lines(fold_onnx *o, fold_onnx__step *s, unsigned marks, int keeps,
                                               int in_place)
{
    const fold_onnx__dims *from = &fold_onnx__in(o, 0)->dims;
    const fold_onnx__view all = fold_onnx__view_of(o, from);
    fold_onnx__lines l;
    int last = 0, n = 0, next = 0;
    memset(&l, 0, sizeof l);
    for (int ends = 0; ends < 2; ends++)
        for (int k = 0; k < from->rank; k++) {
            const int is_marked = (int)(marks >> k & 1);
            if (is_marked == ends)
                l.order[next++] = k;
            if (is_marked && ends)
                last = k + 1, n++;
            if (!ends && (!is_marked || keeps))
                l.kept.dim[l.kept.rank++] = is_marked ? 1 : from->dim[k];
        }
    const int together = in_place && (n == 0 || last - l.order[next - n] == n);
    l.view = together ? all : fold_onnx__permuted(&all, l.order);
    l.inner = together && n ? fold_onnx__product(from, last, from->rank) : 1;
    l.count = fold_onnx__product(&l.view.dims, together ? last - n : next - n, together ? last : next);
    l.outer = fold_onnx__in(o, 0)->count / l.count / l.inner;
    fold_onnx__reads(o, s, 0, o->node.in[0], &l.view, fold_onnx__along(l.outer, l.count, l.inner));
    return l;
}

/* Makes the output of a step whose result has the shape of its lines; axes are moved back. */
static int fold_onnx__makes_lines(fold_onnx *o, fold_onnx__step *s, const fold_onnx__lines *l)
{
    int back[FOLD_ONNX_RANK];
    for (int k = 0; k < l->view.dims.rank; k++)
        back[l->order[k]] = k;
    return fold_onnx__makes_permuted(o, s, &l->view.dims, back);
}

static int fold_onnx__open_reduce(fold_onnx *o, const fold_onnx__value *from)
{
    unsigned marks;
    const fold_onnx__calls *calls = &o->node.op->calls;
    const int named = fold_onnx__marked_axes(o, from->dims.rank, 0, &marks),
              is_plain = !calls->one && !calls->after;
    if (named == -2)
        return 0;
    const int all = named < 1 && !fold_onnx__whole(o, "noop_with_empty_axes", 0);
    if (all) /* a global pool, which reads one input, keeps the first two axes */
        marks = o->node.op->most == 1 ? ~3u : ~0u;
    /* runtimes disagree on this */
    if (named < 1 && !all && !is_plain)
        return FOLD_ONNX__REFUSE(o, "there are no axes to reduce");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, marks, fold_onnx__whole(o, "keepdims", 1), 1);
    s.calls = o->node.op->calls;
    s.number[0] = l.inner > 1 || l.outer > 1;
    fold_onnx__out(o)->is_integer = from->is_integer;
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &l.kept);
}

/* A sum from the end reverses the values, and then the sums. A sum that excludes the value itself shifts the
   values by one, so that they begin with a 0. */
static int fold_onnx__open_cumsum(fold_onnx *o, const fold_onnx__value *from)
{
    const int back = fold_onnx__whole(o, "reverse", 0) != 0, late = fold_onnx__whole(o, "exclusive", 0) != 0;
    const int axis = fold_onnx__axis(o, fold_onnx__near(fold_onnx__setting(o, 1, 0)), from->dims.rank);
    const int n = from->dims.dim[axis], outer = fold_onnx__product(&from->dims, 0, axis),
              inner = fold_onnx__product(&from->dims, axis + 1, from->dims.rank);
    fold_onnx__view in = fold_onnx__view_of(o, &from->dims), out = in;
    fold_onnx__take_axis(o, &in, axis, back ? n - 1 + late : -late, back ? -1 : 1, n);
    fold_onnx__take_axis(o, &out, axis, back ? n - 1 : 0, back ? -1 : 1, n);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    s.calls.along = fold_cumsum;
    s.number[0] = inner > 1 || outer > 1;
    fold_onnx__out(o)->is_integer = from->is_integer;
    fold_onnx__reads(o, &s, 0, o->node.in[0], &in, fold_onnx__along(outer, n, inner));
    return fold_onnx__makes_view(o, &s, &from->dims, &out);
}

/* A vector of zeros stays as it is. */
static void fold_onnx__record_lp_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                      fold_node *out)
{
    const int squares = s->number[0] == 2;
    const fold_node sum = fold_sum(o->f, squares ? fold_square(o->f, in[0]) : fold_abs(o->f, in[0]), -1);
    const fold_node size = fold_at_least(o->f, sum, FLT_MIN);
    out[0] = fold_div(o->f, in[0],
                      fold_onnx__reshape(o->f, squares ? fold_sqrt(o->f, size) : size,
                                         fold_onnx__along(s->number[1], 1, 1)));
}

static int fold_onnx__open_lp_norm(fold_onnx *o, const fold_onnx__value *from)
{
    const int axis = fold_onnx__axis_of(o, from, -1);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_lp_norm, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, 1u << axis, 1, 0);
    s.number[0] = fold_onnx__whole(o, "p", 2);
    s.number[1] = l.outer;
    if (s.number[0] != 1 && s.number[0] != 2)
        return FOLD_ONNX__REFUSE(o, "p of %d, not 1 or 2", s.number[0]);
    return fold_onnx__makes_lines(o, &s, &l);
}

/* Computed relative to the largest value, so that large values lose no precision. */
static fold_node fold_onnx__log_softmax(fold_ctx *f, fold_node x)
{
    fold_shape shape = fold_node_shape(f, x);
    if (shape.rank > 1)
        shape.dim[shape.rank - 1] = 1;
    const fold_node largest = fold_stop_gradient(f, fold_amax(f, x, -1));
    return fold_log_softmax(f, fold_sub(f, x, shape.rank > 1 ? fold_reshape(f, largest, shape) : largest));
}

static int fold_onnx__open_softmax(fold_onnx *o, const fold_onnx__value *from)
{
    const int flat = o->version < 13; /* then all axes from this one on count as one */
    const int axis = fold_onnx__axis_of(o, from, flat ? 1 : -1);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, (flat ? ~0u : 1u) << axis, 1, 0);
    s.calls = o->node.op->calls;
    return fold_onnx__makes_lines(o, &s, &l);
}

/* The index of the largest value along the last axis. NaN counts as the largest. */
static void fold_onnx__argmax_forward(const fold_op_call *c)
{
    const int takes_last = *(const int *)c->user;
    const int n = c->in_shape[0].dim[c->in_shape[0].rank - 1],
              lines = fold_onnx__elements(c->in_shape[0]) / n;
    for (int row = 0; row < c->rows; row++)
        for (int line = 0; line < lines; line++) {
            const float *x = fold_row(&c->in[0], row) + (size_t)line * (size_t)n;
            int best = 0;
            for (int i = 1; i < n; i++)
                if (!isnan(x[best]) && (x[i] > x[best] || isnan(x[i]) || (takes_last && x[i] == x[best])))
                    best = i;
            fold_row(&c->out[0], row)[line] = (float)best;
        }
}

static void fold_onnx__record_argmax(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    const fold_shape shape = fold_node_shape(o->f, in[0]);
    fold_node x = s->number[1] ? fold_neg(o->f, in[0]) : in[0]; /* the smallest */
    if (s->noise && o->chance) { /* a choice, by the Gumbel-max method */
        for (int i = 0; i < fold_onnx__elements(shape); i++)
            s->noise[i] = (float)-log(-log((double)fold_random_uniform(o->chance) + 0x1p-25));
        x = fold_add(o->f, x, fold_input_shaped(o->f, s->noise, shape));
    }
    out[0] = fold_onnx__apply_own(o->f, s->own, &x, 1, fold_shape1(s->number[0]));
}

static int fold_onnx__open_argmax(fold_onnx *o, const fold_onnx__value *from)
{
    static const int takes[2] = { 0, 1 };
    const int chooses = !strcmp(o->node.type, "Multinomial"),
              axis = fold_onnx__axis_of(o, from, chooses ? -1 : 0),
              last = fold_onnx__whole(o, "select_last_index", 0) != 0;
    if (fold_onnx__whole(o, "sample_size", 1) != 1)
        return FOLD_ONNX__REFUSE(o, "more than one sample");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_argmax, 1);
    const fold_onnx__lines l =
        fold_onnx__reads_lines(o, &s, 1u << axis, fold_onnx__whole(o, "keepdims", 1), 0);
    s.number[0] = l.outer;
    s.number[1] = !strcmp(o->node.type, "ArgMin");
    s.stops = 1;
    if (chooses)
        s.noise = FOLD_ONNX__KEPT(o, float, from->count);
    s.own = fold_onnx__own_op(o, chooses ? "onnx choice" : "onnx argmax", 1, fold_onnx__argmax_forward, NULL,
                              &takes[last]);
    fold_onnx__out(o)->is_integer = 1;
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &l.kept);
}

/* The largest or smallest values of constants. Equal values keep their order. */
static int fold_onnx__open_top(fold_onnx *o, const fold_onnx__value *from)
{
    const int axis = fold_onnx__axis_of(o, from, -1), largest = fold_onnx__whole(o, "largest", 1) != 0;
    const double k = fold_onnx__setting(o, 1, fold_onnx__whole(o, "k", 0));
    fold_onnx__dims dims = from->dims;
    if (o->failed || from->origin != FOLD_ONNX__FIXED)
        return FOLD_ONNX__REFUSE(o, "values that are not constant");
    const int n = dims.dim[axis], inner = fold_onnx__product(&dims, axis + 1, dims.rank);
    if (!(k >= 1 && k <= n && k * from->count <= (double)FOLD_ONNX__MOST_VALUES))
        return FOLD_ONNX__REFUSE(o, "%g of %d values", k, n);
    const int most = dims.dim[axis] = (int)k;
    double *numbers = fold_onnx__fix(o, fold_onnx__out(o), &dims, from->is_integer), *places = NULL;
    if (fold_onnx__has_out(o, 1))
        places = fold_onnx__fix(o, &o->values[o->node.out[1]], &dims, 1);
    char *taken = o->failed ? NULL : FOLD_ONNX__SCRATCH(o, char, from->count);
    for (int i = 0; taken && i < from->count / n * most; i++) {
        const int first = i / inner / most * n * inner + i % inner;
        int best = -1;
        for (int at = first; at < first + n * inner; at += inner) {
            const double value = fold_onnx__number(from, at),
                         had = fold_onnx__number(from, best < 0 ? at : best);
            if (!taken[at] && (best < 0 || (largest ? value > had : value < had)))
                best = at;
        }
        taken[best] = 1;
        numbers[i] = fold_onnx__number(from, best);
        if (places)
            places[i] = (best - first) / inner;
    }
    return !o->failed;
}

/* Normal numbers or, without a generator, their mean. */
static void fold_onnx__record_random(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    (void)in;
    for (int i = 0; i < s->number[0]; i++)
        s->noise[i] = s->real[0] + s->real[1] * (o->chance ? fold_random_normal(o->chance) : 0);
    out[0] = fold_input(o->f, s->noise, s->number[0]);
}

static int fold_onnx__open_random(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_random, 0);
    s.number[0] = from->count;
    s.real[0] = fold_onnx__real(o, "mean", 0);
    s.real[1] = fold_onnx__real(o, "scale", 1);
    s.noise = FOLD_ONNX__KEPT(o, float, s.number[0]);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

static void fold_onnx__record_layer_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                         fold_node *out)
{
    out[0] = s->number[1] ? fold_rms_norm(o->f, in[0], s->param[0], s->real[0])
                          : fold_layer_norm(o->f, in[0], s->param[0], s->param[1], s->real[0]);
    if (s->out[1])
        out[1] = fold_mean(o->f, in[0], -1);
    if (!s->out[2])
        return;
    const fold_node deviation = fold_sqrt(o->f, fold_shift(o->f, fold_variance(o->f, in[0], -1), s->real[0]));
    out[2] = fold_div(o->f, fold_constant(o->f, 1), deviation);
}

/* In fold.h an epsilon of 0 means the default. */
static float fold_onnx__epsilon(fold_onnx *o)
{
    const float epsilon = fold_onnx__real(o, "epsilon", 1e-5f);
    if (!(epsilon >= 0))
        FOLD_ONNX__REFUSE(o, "an epsilon that is negative");
    return epsilon != 0 ? epsilon : FLT_MIN;
}

static int fold_onnx__open_layer_norm(fold_onnx *o, const fold_onnx__value *from)
{
    const int axis = fold_onnx__axis_of(o, from, -1), beside = o->node.in[1];
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_layer_norm, 1);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, ~0u << axis, 1, 0);
    s.number[0] = 2; /* it has a gain and a bias */
    s.number[1] = !strcmp(o->node.type, "RMSNormalization");
    s.real[0] = fold_onnx__epsilon(o);
    for (int i = 1; i < 3 && fold_onnx__has_in(o, i); i++) {
        fold_onnx__dims meets = from->dims;
        for (int k = 0; k < axis; k++)
            meets.dim[k] = 1;
        if (fold_onnx__meet(o, &fold_onnx__in(o, i)->dims, &meets) &&
            fold_onnx__product(&meets, 0, meets.rank) != l.count)
            return FOLD_ONNX__REFUSE(o, "'%.60s' does not fit the axes of the norm",
                                     fold_onnx__in(o, i)->name);
    }
    fold_onnx__vector(o, beside, l.count, 1, &s.param[0]);
    if (fold_onnx__has_in(o, 2))
        fold_onnx__vector(o, o->node.in[2], l.count, 1, &s.param[1]);
    else
        fold_onnx__fill(o, beside, l.count, 0, &s.param[1]);
    for (int i = 1; i < 3; i++)
        if (fold_onnx__has_out(o, i))
            fold_onnx__makes(o, &s, i, o->node.out[i], &l.kept);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

/* Batch norm of [values x channels] with given statistics or, in training, with those of the values; training
   also returns running statistics. */
static void fold_onnx__record_batch_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                         fold_node *out)
{
    const int trains = s->number[0];
    const fold_node x = fold_onnx__reshape(o->f, in[0], fold_shape2(s->number[1], s->number[2]));
    const fold_node mean = trains ? fold_mean(o->f, x, 0) : in[3];
    const fold_node variance = trains ? fold_variance(o->f, x, 0) : in[4];
    out[0] = fold_mul(o->f, fold_standardize(o->f, x, mean, variance, s->real[0]), in[1]);
    out[0] = fold_add(o->f, out[0], in[2]);
    for (int i = 1; i < 3 && trains; i++) {
        const fold_node now = fold_scale(o->f, i == 1 ? mean : variance, 1 - s->real[1]);
        out[i] = fold_add(o->f, fold_scale(o->f, in[2 + i], s->real[1]), now);
    }
}

static int fold_onnx__open_batch_norm(fold_onnx *o, const fold_onnx__value *from)
{
    if (from->dims.rank < 2)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d", from->dims.rank);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_batch_norm, 5);
    const fold_onnx__lines l = fold_onnx__reads_lines(o, &s, 1u << 1, 0, 0);
    const fold_onnx__dims channels = { 1, { l.count } };
    s.number[1] = l.outer;
    s.number[2] = l.count;
    if (o->version < 7 || fold_onnx__whole(o, "spatial", 1) != 1)
        return FOLD_ONNX__REFUSE(o, "opset %d, or spatial other than 1, is not supported", o->version);
    s.number[0] = fold_onnx__whole(o, "training_mode", o->version < 14 && o->node.n_out > 1) != 0;
    s.real[0] = fold_onnx__epsilon(o);
    s.real[1] = fold_onnx__real(o, "momentum", 0.9f);
    for (int i = 1; i < 5; i++) {
        const int index = o->node.in[i];
        if (fold_onnx__in(o, i)->count != l.count)
            return FOLD_ONNX__REFUSE(o, "'%.60s' is not %d values", fold_onnx__in(o, i)->name, l.count);
        if (i > 2 && fold_onnx__is_fixed(o, index))
            fold_onnx__use_constant(o, index, 1);
        fold_onnx__reads_shape(o, &s, i, index, fold_shape1(l.count));
    }
    for (int i = 1; i < 3 && s.number[0]; i++)
        if (fold_onnx__has_out(o, i))
            fold_onnx__makes(o, &s, i, o->node.out[i], &channels);
    return fold_onnx__makes_lines(o, &s, &l);
}

/* Normalises each row of [rows x values], then applies a gain and a bias per channel or group. */
static void fold_onnx__record_group_norm(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                         fold_node *out)
{
    const int *n = s->number; /* rows, batch, gains, values of each */
    const fold_node mean = fold_reshape(o->f, fold_mean(o->f, in[0], -1), fold_shape2(n[0], 1)),
                    variance = fold_reshape(o->f, fold_variance(o->f, in[0], -1), fold_shape2(n[0], 1));
    const fold_node plain = fold_standardize(o->f, in[0], mean, variance, s->real[0]);
    out[0] = fold_mul(o->f, fold_onnx__reshape(o->f, plain, fold_shape3(n[1], n[2], n[3])), in[1]);
    out[0] = fold_add(o->f, out[0], in[2]);
}

/* In InstanceNormalization, each channel is a group. Before opset 21, gains and biases are per group. */
static int fold_onnx__open_group_norm(fold_onnx *o, const fold_onnx__value *from)
{
    const int channels = from->dims.dim[1], groups = fold_onnx__whole(o, "num_groups", channels);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_group_norm, 3);
    if (from->dims.rank < 2 || groups < 1 || channels % groups)
        return FOLD_ONNX__REFUSE(o, "%d groups of an input of rank %d", groups, from->dims.rank);
    const int batch = from->dims.dim[0], gains = o->version < 21 ? groups : channels;
    const int settings[5] = { batch * groups, batch, gains, from->count / batch / gains, 0 };
    memcpy(s.number, settings, sizeof settings);
    s.real[0] = fold_onnx__epsilon(o);
    fold_onnx__reads_shape(o, &s, 0, o->node.in[0], fold_shape2(settings[0], from->count / settings[0]));
    for (int i = 1; i < 3; i++) {
        if (fold_onnx__in(o, i)->count != gains)
            return FOLD_ONNX__REFUSE(o, "'%.60s' is not %d values", fold_onnx__in(o, i)->name, gains);
        fold_onnx__reads_shape(o, &s, i, o->node.in[i], fold_shape2(gains, 1));
    }
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &from->dims);
}

/* ---- products --------------------------------------------------------------------------------- */

/* If there are more inputs than the product reads, the last one is added. */
static void fold_onnx__record_linear(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    const int n = s->number[0]; /* inputs of the product */
    out[0] = n == 1 ? fold_linear(o->f, in[0], s->param[0], s->param[1]) : fold_matmul(o->f, in[0], in[1]);
    if (n == 2 && s->real[0] != 1)
        out[0] = fold_scale(o->f, out[0], s->real[0]);
    if (s->n_in > n)
        out[0] = fold_add(o->f, out[0], s->real[1] == 1 ? in[n] : fold_scale(o->f, in[n], s->real[1]));
}

/* Makes `scale` times a constant [inputs x outputs] the weight of a step. If the step's operand is a permuted
   row, the original row is read instead, and the rows of the weight are permuted. */
static int fold_onnx__reads_by_weight(fold_onnx *o, fold_onnx__step *s, const fold_onnx__view *from,
                                      const fold_onnx__view *all, int turned, int rows, float scale)
{
    fold_onnx__view view = *all;
    const int inputs = view.dims.dim[0];
    fold_onnx__weight wanted =
        fold_onnx__form(fold_onnx__in(o, 1), turned ? FOLD_ONNX__TURNED : FOLD_ONNX__AS_IT_IS, scale,
                        fold_shape2(inputs, view.dims.dim[1]));
    if (!fold_onnx__reads(o, s, 0, o->node.in[0], from, fold_onnx__along(rows, inputs, 1)))
        return 0;
    const fold_onnx__move *move;
    const int base = fold_onnx__base(o, s->in[0], &move);
    if (rows == 1 && move && !move->is_window) {
        int *to = view.at[0] = FOLD_ONNX__SCRATCH(o, int, inputs);
        for (int i = 0; to && i < inputs; i++)
            to[move->source[i / move->run] + i % move->run] = all->at[0][i];
        wanted.form = FOLD_ONNX__ALONE;
        fold_onnx__reads_shape(o, s, 0, base, move->shape);
    }
    return fold_onnx__weigh(o, wanted, &view, FOLD_FOR_LINEAR, 0, &s->param[0]);
}

/* A product of one or two operands, written as in Einsum: each axis has a label, and the result is summed over
   the labels that it lacks. For each label, its size and how often operands have it; for each kind, its labels
   in the order of the result. */
enum { FOLD_ONNX__LABELS = 128, FOLD_ONNX__MOST_LABELS = 3 * FOLD_ONNX_RANK + 1 };
/* labels of the result that are in both operands, only in the first, and only in the second; and all others */
enum { FOLD_ONNX__BOTH, FOLD_ONNX__ROWS, FOLD_ONNX__COLUMNS, FOLD_ONNX__SUMMED, FOLD_ONNX__KINDS };
typedef struct fold_onnx__equation {
    char has[2][FOLD_ONNX_RANK + 1], result[FOLD_ONNX_RANK + 1];
    char kinds[FOLD_ONNX__KINDS][FOLD_ONNX__MOST_LABELS];
    int size[FOLD_ONNX__LABELS], times[FOLD_ONNX__LABELS];
} fold_onnx__equation;

/* Reads a term of an equation, which has a letter for each axis, and returns its end. An ellipsis is the
   axes of `rank` that have no letter, or `dots` axes if rank is -1; the last of them has the label 8. */
static const char *fold_onnx__term(fold_onnx *o, const char *text, int rank, int dots, char *label)
{
    int n = 0, letters = 0;
    for (const char *at = text; *at && *at != ',' && *at != '-'; at++)
        letters += *at != ' ' && *at != '.';
    for (; *text && *text != ',' && *text != '-'; text++) {
        const int is_dots = !strncmp(text, "...", 3), is_letter = (*text | 32) >= 'a' && (*text | 32) <= 'z';
        const int count = !is_dots ? is_letter : rank < 0 ? dots : rank - letters;
        text += is_dots ? 2 : 0;
        if ((!is_dots && !is_letter && *text != ' ') || count < 0 || n + count > FOLD_ONNX_RANK)
            return FOLD_ONNX__REFUSE(o, "an equation that does not fit its operands"), text;
        for (int k = 0; k < count; k++)
            label[n++] = is_dots ? (char)(FOLD_ONNX_RANK - count + k + 1) : *text;
    }
    label[n] = 0;
    if (rank >= 0 && n != rank)
        FOLD_ONNX__REFUSE(o, "%d labels of %d axes", n, rank);
    return text;
}

/* A view of an operand whose axes are the labels of these kinds, after those of both operands. Along a label
   that the operand lacks, its values repeat; a label that it has twice takes the diagonal. */
static fold_onnx__view fold_onnx__labelled(fold_onnx *o, const fold_onnx__equation *e, int input, int kind,
                                           int next)
{
    const fold_onnx__dims *from = &fold_onnx__in(o, input)->dims;
    const fold_onnx__view all = fold_onnx__view_of(o, from);
    fold_onnx__view view = all;
    char labels[3 * FOLD_ONNX__MOST_LABELS];
    fold_onnx__format(labels, sizeof labels, "%s%s%s", e->kinds[0], e->kinds[kind], e->kinds[next]);
    if (strlen(labels) > FOLD_ONNX_RANK)
        fold_onnx__too_many_axes(o, FOLD_ONNX_RANK);
    view.dims.rank = o->failed ? 0 : (int)strlen(labels);
    for (int k = 0; k < view.dims.rank && !o->failed; k++) {
        view.dims.dim[k] = e->size[(int)labels[k]];
        view.at[k] = FOLD_ONNX__SCRATCH(o, int, view.dims.dim[k]);
        for (int axis = 0; axis < from->rank && view.at[k]; axis++)
            for (int i = 0; e->has[input][axis] == labels[k] && i < from->dim[axis]; i++)
                view.at[k][i] += all.at[axis][i];
    }
    fold_onnx__size(o, &view.dims);
    return view;
}

/* If the equation has no result, that is the ellipsis, then all letters that occur once, in alphabetical
   order. */
static int fold_onnx__read_equation(fold_onnx *o, const char *text, fold_onnx__equation *e)
{
    int n = 0, dots = 0;
    for (int i = 0; i < 2 && i < o->node.n_in && e && !o->failed; i++) {
        const fold_onnx__dims *dims = &fold_onnx__in(o, i)->dims;
        text = fold_onnx__term(o, text + (i && *text == ','), dims->rank, 0, e->has[i]);
        for (int k = 0; k < dims->rank && !o->failed; k++) {
            int *size = &e->size[(int)e->has[i][k]];
            if (*size > 1 && dims->dim[k] > 1 && *size != dims->dim[k])
                return fold_onnx__no_broadcast(o, *size, dims->dim[k]);
            *size = dims->dim[k] > *size ? dims->dim[k] : *size;
            e->times[(int)e->has[i][k]]++;
        }
    }
    if (o->failed)
        return 0;
    for (int label = 1; label <= FOLD_ONNX_RANK; label++)
        dots += e->times[label] > 0;
    if (!strncmp(text, "->", 2))
        text = fold_onnx__term(o, text + 2, -1, dots, e->result);
    else
        for (int label = 1; label < FOLD_ONNX__LABELS && n < FOLD_ONNX_RANK; label++)
            if (label <= FOLD_ONNX_RANK ? e->times[label] > 0 : e->times[label] == 1)
                e->result[n++] = (char)label;
    for (const char *at = e->result; *at; at++) {
        const int in_a = strchr(e->has[0], *at) != NULL, in_b = strchr(e->has[1], *at) != NULL;
        char *kind = e->kinds[in_a && in_b ? FOLD_ONNX__BOTH : in_a ? FOLD_ONNX__ROWS : FOLD_ONNX__COLUMNS];
        if ((!in_a && !in_b) || strchr(at + 1, *at))
            return FOLD_ONNX__REFUSE(o, "a result with a label twice, or of no operand");
        kind[strlen(kind)] = *at;
    }
    for (int label = 1; label < FOLD_ONNX__LABELS; label++)
        if (e->times[label] && !strchr(e->result, label))
            e->kinds[FOLD_ONNX__SUMMED][strlen(e->kinds[FOLD_ONNX__SUMMED])] = (char)label;
    return !o->failed && (!*text || FOLD_ONNX__REFUSE(o, "an equation that does not fit its operands"));
}

/* Ends a product of two operands [m x n], or of a batch of them: its labels are moved to their places in the
   result. */
static int fold_onnx__makes_product(fold_onnx *o, fold_onnx__step *s, const fold_onnx__equation *e,
                                    const fold_onnx__dims *made)
{
    char text[3 * FOLD_ONNX__MOST_LABELS];
    int order[FOLD_ONNX_RANK];
    fold_onnx__dims full = { (int)strlen(e->result), { 0 } };
    fold_onnx__format(text, sizeof text, "%s%s%s", e->kinds[FOLD_ONNX__BOTH], e->kinds[FOLD_ONNX__ROWS],
                      e->kinds[FOLD_ONNX__COLUMNS]);
    for (int i = 0; i < full.rank; i++) {
        full.dim[i] = e->size[(int)text[i]];
        order[i] = (int)(strchr(text, e->result[i]) - text);
    }
    const fold_onnx__view all = fold_onnx__view_of(o, &full), view = fold_onnx__permuted(&all, order);
    return fold_onnx__makes_view(o, s, made, &view);
}

/* alpha times the product of two operands, as matrices [rows x summed] and [summed x columns] or batches of
   them, plus beta times a third input. A constant matrix becomes a weight, and a constant row its bias. */
static int fold_onnx__multiplies(fold_onnx *o, const fold_onnx__equation *e, float alpha, float beta)
{
    const fold_onnx__view a = fold_onnx__labelled(o, e, 0, FOLD_ONNX__ROWS, FOLD_ONNX__SUMMED),
                          b = fold_onnx__labelled(o, e, 1, FOLD_ONNX__SUMMED, FOLD_ONNX__COLUMNS);
    const fold_onnx__value *c = fold_onnx__has_in(o, 2) && beta != 0 ? fold_onnx__in(o, 2) : NULL;
    const int batches = (int)strlen(e->kinds[FOLD_ONNX__BOTH]),
              rows = batches + (int)strlen(e->kinds[FOLD_ONNX__ROWS]),
              columns = batches + (int)strlen(e->kinds[FOLD_ONNX__SUMMED]), *in = o->node.in;
    if (o->failed)
        return 0;
    const int count = fold_onnx__product(&b.dims, 0, batches), m = fold_onnx__product(&a.dims, batches, rows),
              k = fold_onnx__product(&b.dims, batches, columns),
              n = fold_onnx__product(&b.dims, columns, b.dims.rank);
    const int linear = fold_onnx__is_fixed(o, in[1]) && count == 1 && b.dims.rank == 2 && columns == 1 &&
                       fold_onnx__in(o, 1)->dims.rank == 2 && fold_onnx__in(o, 1)->count == k * n;
    const int row = linear && c && fold_onnx__is_fixed(o, in[2]) &&
                    (c->count == 1 || (c->count == n && c->dims.dim[c->dims.rank - 1] == n));
    const fold_onnx__dims result = { 2, { m, n } }, made = { 3, { count, m, n } };
    fold_onnx__dims meets = result;
    if (c && (!fold_onnx__meet(o, &c->dims, &meets) || !fold_onnx__same_dims(&meets, &result)))
        return FOLD_ONNX__REFUSE(o, "a bias of another shape");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_linear, 2 - linear + (c && !row));
    s.number[0] = 2 - linear;
    s.real[0] = alpha;
    s.real[1] = beta;
    if (linear)
        fold_onnx__reads_by_weight(o, &s, &a, &b, e->has[1][0] == *e->kinds[FOLD_ONNX__COLUMNS], m, alpha);
    else
        fold_onnx__reads(o, &s, 0, in[0], &a, count > 1 ? fold_shape3(count, m, k) : fold_shape2(m, k));
    if (!linear)
        fold_onnx__reads(o, &s, 1, in[1], &b, count > 1 ? fold_shape3(count, k, n) : fold_shape2(k, n));
    if (row)
        fold_onnx__vector(o, in[2], n, beta, &s.param[1]);
    else if (c)
        fold_onnx__reads(o, &s, 2 - linear, in[2], NULL, fold_shape1(1));
    return fold_onnx__makes_product(o, &s, e, &made);
}

/* A product of matrices or, with MatMul, of batches of them and of vectors. */
static int fold_onnx__open_product(fold_onnx *o, const fold_onnx__value *from)
{
    const fold_onnx__dims *a = &from->dims, *b = &fold_onnx__in(o, 1)->dims;
    const int least = !strcmp(o->node.type, "Gemm") ? 2 : 1, most = least == 2 ? 2 : FOLD_ONNX_RANK;
    const int turns_a = fold_onnx__whole(o, "transA", 0) != 0, turns_b = fold_onnx__whole(o, "transB", 0) != 0;
    const float alpha = fold_onnx__real(o, "alpha", 1), beta = fold_onnx__real(o, "beta", 1);
    fold_onnx__equation *e = FOLD_ONNX__SCRATCH(o, fold_onnx__equation, 1);
    char text[32];
    if (a->rank < least || b->rank < least || a->rank > most || b->rank > most ||
        a->dim[a->rank - 1 - turns_a] != b->dim[b->rank > 1 ? b->rank - 2 + turns_b : 0])
        return FOLD_ONNX__REFUSE(o, "matrices that do not fit");
    fold_onnx__format(text, sizeof text, "%s,%s->...%s%s", a->rank == 1 ? "k" : turns_a ? "km" : "...mk",
                      b->rank == 1 ? "k" : turns_b ? "nk" : "...kn", a->rank > 1 ? "m" : "",
                      b->rank > 1 ? "n" : "");
    return fold_onnx__read_equation(o, text, e) && fold_onnx__multiplies(o, e, alpha, beta);
}

/* A single operand is moved, and summed over the axes that the result lacks. */
static int fold_onnx__open_einsum(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__equation *e = FOLD_ONNX__SCRATCH(o, fold_onnx__equation, 1);
    fold_onnx__field field;
    (void)from;
    if (!fold_onnx__attribute(o, "equation", 4, &field))
        return FOLD_ONNX__REFUSE(o, "no equation");
    if (!fold_onnx__read_equation(o, fold_onnx__copy_text(o, field.bytes), e))
        return 0;
    if (o->node.n_in == 2)
        return fold_onnx__multiplies(o, e, 1, 1);
    const fold_onnx__view a = fold_onnx__labelled(o, e, 0, FOLD_ONNX__ROWS, FOLD_ONNX__SUMMED);
    fold_onnx__dims kept = a.dims;
    kept.rank = (int)strlen(e->result);
    if (o->failed)
        return 0;
    if (kept.rank == a.dims.rank)
        return fold_onnx__emit(o, &a, o->node.out[0], &a.dims);
    const int outer = fold_onnx__product(&kept, 0, kept.rank),
              count = fold_onnx__product(&a.dims, kept.rank, a.dims.rank);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_calls, 1);
    s.calls.along = fold_sum;
    s.number[0] = outer > 1;
    fold_onnx__reads(o, &s, 0, o->node.in[0], &a, fold_onnx__along(outer, count, 1));
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &kept);
}

/* ---- convolutions and pools ------------------------------------------------------------------- */

/* How windows move along an axis. begin and end are padding, made is the number of windows. If `pads` is not
   FOLD_ONNX__GIVEN, the padding is computed: such that there is a window for each stride, with the odd one at
   the end (UPPER) or the beginning, or none. */
enum { FOLD_ONNX__GIVEN, FOLD_ONNX__UPPER, FOLD_ONNX__LOWER, FOLD_ONNX__VALID };
typedef struct fold_onnx__window {
    int stride, dilation, taps, reach, begin, end, made, pads;
} fold_onnx__window;
enum { FOLD_ONNX__MOST_WINDOWS = 3, FOLD_ONNX__MOST_REACH = 32767 };

static int fold_onnx__window_fits(fold_onnx *o, fold_onnx__window *w)
{
    const long long reach = (long long)(w->taps - 1) * w->dilation + 1;
    if (w->stride < 1 || w->dilation < 1 || w->stride > 4096 || w->dilation > 4096)
        return FOLD_ONNX__REFUSE(o, "a stride of %d, a dilation of %d", w->stride, w->dilation);
    if (w->taps < 1 || reach > FOLD_ONNX__MOST_REACH)
        return FOLD_ONNX__REFUSE(o, "a kernel of %d, a dilation of %d", w->taps, w->dilation);
    w->reach = (int)reach;
    return 1;
}

/* A transposed convolution of n values is an ordinary one, with reversed filters, of the values with zeros
   between them. begin and end become the padding of that, which is negative if values are cut off. `more` is
   additional length at the end; `wanted`, if not 0, is the length of the result. */
static int fold_onnx__transposed_window(fold_onnx *o, int n, int more, int wanted, fold_onnx__window *w)
{
    const int upper = w->pads == FOLD_ONNX__UPPER, same = upper || w->pads == FOLD_ONNX__LOWER,
              most = FOLD_ONNX__MOST_REACH;
    const long long spread = (long long)w->stride * (n - 1) + 1, whole = spread + w->reach - 1 + more;
    const long long given = wanted ? wanted : same ? (long long)w->stride * n : whole - w->begin - w->end;
    const long long extra = whole > given ? whole - given : 0;
    if (wanted || same)
        w->begin = (int)(upper ? extra / 2 : extra - extra / 2);
    if (whole > FOLD_ONNX__MOST_VALUES || given < 1 || given > most || more < 0 || more > most ||
        w->begin < 0 || w->begin > most || w->end < 0 || w->end > most)
        return FOLD_ONNX__REFUSE(o, "pads of %d and %d, of a kernel of %d", w->begin, w->end, w->reach);
    w->begin = w->reach - 1 - w->begin;
    w->made = (int)given;
    w->end = w->made + w->reach - 1 - (int)spread - w->begin;
    return 1;
}

/* The windows of n values. With ceil_mode the last one may reach beyond the padding, but not begin in it. */
static int fold_onnx__read_window(fold_onnx *o, int n, fold_onnx__window *w)
{
    const int most = FOLD_ONNX__MOST_REACH;
    if (w->pads != FOLD_ONNX__GIVEN) {
        const int full = ((n + w->stride - 1) / w->stride - 1) * w->stride + w->reach,
                  missing = w->pads == FOLD_ONNX__VALID || full < n ? 0 : full - n;
        w->begin = (missing + (w->pads == FOLD_ONNX__LOWER)) / 2;
        w->end = missing - w->begin;
    }
    if (w->begin < 0 || w->end < 0 || w->begin > most || w->end > most || n + w->begin + w->end < w->reach)
        return FOLD_ONNX__REFUSE(o, "pads of %d and %d, of a kernel of %d", w->begin, w->end, w->reach);
    const int more = fold_onnx__whole(o, "ceil_mode", 0) ? w->stride - 1 : 0;
    w->made = (n + w->begin + w->end - w->reach + more) / w->stride + 1;
    w->made -= more && (w->made - 1) * w->stride >= n + w->begin;
    return !o->failed;
}

/* The windows along each axis but the first two; those of a pool if filter is NULL. */
static int fold_onnx__read_windows(fold_onnx *o, const fold_onnx__dims *filter, fold_onnx__window *windows)
{
    static const char *const names[6] = { "strides",        "dilations",    "kernel_shape",
                                          "output_padding", "output_shape", "pads" };
    static const char *const ways[4] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const fold_onnx__dims *x = &fold_onnx__in(o, 0)->dims;
    const int axes = x->rank - 2, transposed = !strcmp(o->node.type, "ConvTranspose"),
              pads = fold_onnx__word(o, "auto_pad", ways, 4);
    int list[6][2 * FOLD_ONNX__MOST_WINDOWS] = { { 1, 1, 1 }, { 1, 1, 1 }, { 0 }, { 0 }, { 0 }, { 0 } };
    if (axes < 1 || axes > (filter ? 2 : FOLD_ONNX__MOST_WINDOWS))
        return FOLD_ONNX__REFUSE(o, "an input of rank %d", x->rank);
    for (int k = 0; k < axes && filter; k++)
        list[2][k] = filter->dim[2 + k];
    for (int i = 0; i < 6; i++) {
        const int count = fold_onnx__list(o, names[i], -1, list[i], 2 * FOLD_ONNX__MOST_WINDOWS);
        if (count != -1 && count != (i < 5 ? axes : 2 * axes))
            return FOLD_ONNX__REFUSE(o, "%s do not fit %d axes", names[i], axes);
    }
    for (int k = 0; k < axes && !o->failed; k++) {
        const fold_onnx__window w = {
            list[0][k], list[1][k], list[2][k], 0, list[5][k], list[5][axes + k], 0, pads
        };
        windows[k] = w;
        if (filter && w.taps != filter->dim[2 + k])
            return FOLD_ONNX__REFUSE(o, "a kernel of %d, and weights of %d", w.taps, filter->dim[2 + k]);
        if (!fold_onnx__window_fits(o, &windows[k]))
            return 0;
        if (transposed)
            fold_onnx__transposed_window(o, x->dim[2 + k], list[3][k], list[4][k], &windows[k]);
        else
            fold_onnx__read_window(o, x->dim[2 + k], &windows[k]);
    }
    return !o->failed;
}

/* Each sample of a batch, and each group of channels, is a separate convolution. */
static void fold_onnx__record_conv(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                   fold_node *out)
{
    const fold_param none = { 0, 0 };
    const int axes = s->number[0], groups = s->n_filters, samples = s->number[1];
    fold_node *made = s->nodes + s->n_in + FOLD_ONNX__OUTS;
    fold_shape image = fold_node_shape(o->f, in[0]);
    for (int k = 0; k < axes + 1 && samples > 1; k++)
        image.dim[k] = image.dim[k + 1];
    image.rank = axes + 1;
    const int channels = image.dim[axes] / groups;
    for (int i = 0; i < samples * groups; i++) {
        const int g = i % groups;
        fold_node x = samples == 1 ? in[0] : fold_slice(o->f, in[0], 0, i / groups, 1);
        x = fold_onnx__reshape(o->f, x, image);
        if (groups > 1)
            x = fold_slice(o->f, x, axes, g * channels, channels);
        made[i] = (axes == 1 ? fold_conv1d : fold_conv2d)(o->f, x, s->filters[g],
                                                          groups == 1 ? s->param[1] : none, &s->conv);
        if (groups > 1 && g == groups - 1)
            made[i / groups] = fold_concat(o->f, made + i - g, groups, axes);
    }
    out[0] = samples == 1 ? made[0] : fold_concat(o->f, made, samples, 0);
    if (groups > 1 && !fold_param_is_null(s->param[1]))
        out[0] = fold_add(o->f, out[0], fold_use(o->f, s->param[1]));
}

static void fold_onnx__record_pool(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                   fold_node *out)
{
    static fold_node (*const pools[2][2])(fold_ctx * f, fold_node x, int size, int stride,
                                          int padding) = { { fold_max_pool1d, fold_max_pool2d },
                                                           { fold_mean_pool1d, fold_mean_pool2d } };
    const int *n = s->number;
    out[0] = pools[n[1]][n[0] - 1](o->f, in[0], n[2], n[3], n[4]);
}

/* Plans the filters of a convolution. fold.h has [taps x inputs x outputs] instead of [outputs x inputs x
   taps] or, for a transposed convolution, [inputs x outputs x taps], whose taps are reversed. Each group has
   its own filter, unless each is a single channel. */
static void fold_onnx__read_filters(fold_onnx *o, fold_onnx__step *s, int groups, int transposed)
{
    static const int orders[2][2][4] = { { { 2, 1, 0 }, { 2, 0, 1 } }, { { 2, 3, 1, 0 }, { 2, 3, 0, 1 } } };
    const fold_onnx__value *filter = fold_onnx__in(o, 1);
    const int n = s->conv.depthwise ? 1 : groups, own = filter->dims.dim[0] / n;
    fold_onnx__view taps = fold_onnx__view_of(o, &filter->dims);
    for (int k = 2; k < filter->dims.rank && transposed; k++)
        fold_onnx__take_axis(o, &taps, k, filter->dims.dim[k] - 1, -1, filter->dims.dim[k]);
    s->n_filters = n;
    s->filters = FOLD_ONNX__KEPT(o, fold_param, n);
    s->nodes = FOLD_ONNX__KEPT(o, fold_node, s->n_in + FOLD_ONNX__OUTS + n * s->number[1]);
    for (int g = 0; g < n && !o->failed; g++) {
        fold_onnx__view view = taps;
        fold_onnx__take_axis(o, &view, 0, g * own, 1, own);
        view = fold_onnx__permuted(&view, orders[s->number[0] - 1][transposed && !s->conv.depthwise]);
        fold_onnx__weight wanted =
            fold_onnx__form(filter, n > 1 || transposed ? FOLD_ONNX__ALONE : FOLD_ONNX__TURNED, 1,
                            fold_onnx__shape_from(&view.dims, 0));
        fold_onnx__weigh(o, wanted, &view, FOLD_FOR_CONV, 0, &s->filters[g]);
    }
}

/* The input of a convolution, channels last. Padding that fold.h does not support is added here. For a
   transposed convolution, zeros are inserted between the values. */
static void fold_onnx__read_image(fold_onnx *o, fold_onnx__step *s, const fold_onnx__window *w,
                                  int transposed)
{
    static const int orders[2][4] = { { 0, 2, 1 }, { 0, 2, 3, 1 } };
    const fold_onnx__view all = fold_onnx__view_of(o, &fold_onnx__in(o, 0)->dims);
    const int axes = s->number[0];
    fold_onnx__view image = fold_onnx__permuted(&all, orders[axes - 1]);
    int equal = w[0].begin >= 0;
    for (int k = 0; k < axes && !o->failed; k++) {
        const int *had = image.at[1 + k], stride = transposed ? w[k].stride : 1;
        const int count = (image.dims.dim[1 + k] - 1) * stride + 1;
        int *at = stride > 1 ? FOLD_ONNX__SCRATCH(o, int, count) : NULL;
        for (int i = 0; at && i < count; i++)
            at[i] = i % stride ? -1 : had[i / stride];
        image.at[1 + k] = at ? at : image.at[1 + k];
        image.dims.dim[1 + k] = count;
        equal &= w[k].begin == w[0].begin && w[k].end == w[0].begin && w[0].begin < w[k].reach;
    }
    if (equal)
        s->conv.padding = w[0].begin;
    for (int k = 0; k < axes && !equal; k++)
        fold_onnx__take_axis(o, &image, 1 + k, -w[k].begin, 1, w[k].begin + image.dims.dim[1 + k] + w[k].end);
    fold_onnx__reads(o, s, 0, o->node.in[0], &image, fold_onnx__shape_from(&image.dims, s->number[1] == 1));
}

/* If strides differ from axis to axis, windows are computed with a stride of 1, and some are then dropped. */
static int fold_onnx__open_conv(fold_onnx *o, const fold_onnx__value *from)
{
    static const int back[2][4] = { { 0, 2, 1 }, { 0, 3, 1, 2 } };
    const fold_onnx__dims *x = &from->dims, *filter = &fold_onnx__in(o, 1)->dims;
    const int groups = fold_onnx__whole(o, "group", 1), axes = x->rank - 2,
              transposed = !strcmp(o->node.type, "ConvTranspose");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_conv, 1);
    fold_onnx__window w[FOLD_ONNX__MOST_WINDOWS];
    fold_onnx__dims made = { axes + 2, { x->dim[0] } };
    if (axes < 1 || axes > 2 || x->dim[0] > 1024 || filter->rank != x->rank)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d, %d samples", x->rank, x->dim[0]);
    if (groups < 1 || x->dim[1] % groups || filter->dim[0] % groups)
        return FOLD_ONNX__REFUSE(o, "%d groups of %d channels", groups, x->dim[1]);
    if (filter->dim[!transposed] != (transposed ? x->dim[1] : x->dim[1] / groups))
        return FOLD_ONNX__REFUSE(o, "weights of %d channels, not %d", filter->dim[!transposed],
                                 transposed ? x->dim[1] : x->dim[1] / groups);
    const int outputs = transposed ? filter->dim[1] * groups : filter->dim[0];
    if (!fold_onnx__read_windows(o, filter, w))
        return 0;
    const int differ = w[axes - 1].stride != w[0].stride;
    if (w[axes - 1].dilation != w[0].dilation)
        return FOLD_ONNX__REFUSE(o, "dilations that differ from axis to axis");
    s.number[0] = axes;
    s.number[1] = x->dim[0];
    s.conv.depthwise = groups > 1 && groups == x->dim[1] && outputs == groups;
    s.conv.stride = transposed || differ ? 1 : w[0].stride;
    s.conv.dilation = w[0].dilation;
    fold_onnx__read_image(o, &s, w, transposed);
    fold_onnx__read_filters(o, &s, groups, transposed);
    if (fold_onnx__has_in(o, 2))
        fold_onnx__vector(o, o->node.in[2], outputs, 1, &s.param[1]);
    for (int k = 0; k < axes; k++)
        made.dim[1 + k] =
            !differ || transposed ? w[k].made : x->dim[2 + k] + w[k].begin + w[k].end - w[k].reach + 1;
    made.dim[axes + 1] = outputs;
    const fold_onnx__view all = fold_onnx__view_of(o, &made);
    fold_onnx__view view = fold_onnx__permuted(&all, back[axes - 1]);
    for (int k = 0; k < axes && differ && !transposed; k++)
        fold_onnx__take_axis(o, &view, 2 + k, 0, w[k].stride, w[k].made);
    return fold_onnx__makes_view(o, &s, &made, &view);
}

/* Pools a view of a value along n axes from `first` on, which are moved to the front. *index and *view become
   those of the result; the last pool of the node makes its output. fold.h pads both ends of an axis equally,
   so surplus windows are dropped at the end; an axis with more padding there is therefore reversed. Padding
   that counts in means is added here. */
static int fold_onnx__pool(fold_onnx *o, int *index, fold_onnx__view *view, const fold_onnx__window *w,
                           int first, int n, int is_last)
{
    const int rank = view->dims.rank, is_mean = !strcmp(o->node.type, "AveragePool"),
              counts = is_mean && fold_onnx__whole(o, "count_include_pad", 0);
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_pool, 1);
    int order[FOLD_ONNX_RANK], back[FOLD_ONNX_RANK], next = 0;
    const int padding = counts ? 0 : w[first].begin > w[first].end ? w[first].begin : w[first].end;
    const int settings[5] = { n, is_mean, w[first].taps, w[first].stride, padding };
    memcpy(s.number, settings, sizeof settings);
    for (int k = first; k < first + n; k++) {
        const int length = view->dims.dim[2 + k], turns = !counts && w[k].end > w[k].begin;
        if (counts)
            fold_onnx__take_axis(o, view, 2 + k, -w[k].begin, 1, w[k].begin + length + w[k].end);
        else
            fold_onnx__take_axis(o, view, 2 + k, turns ? length - 1 : 0, turns ? -1 : 1,
                                 w[k].end < 0 ? length + w[k].end : length);
    }
    for (int ends = 0; ends < 2; ends++)
        for (int k = 0; k < rank; k++)
            if ((k - 2 >= first && k - 2 < first + n) != ends)
                order[back[k] = next++] = k;
    const fold_onnx__view front = fold_onnx__permuted(view, order);
    fold_onnx__dims made = front.dims, flat = front.dims;
    flat.rank = n + 1;
    flat.dim[n] = fold_onnx__product(&made, n, rank);
    fold_onnx__reads(o, &s, 0, *index, &front, fold_onnx__shape_from(&flat, 0));
    for (int k = 0; k < n; k++)
        flat.dim[k] = made.dim[k] = (made.dim[k] + 2 * padding - w[first].taps) / w[first].stride + 1;
    const fold_onnx__view all = fold_onnx__view_of(o, &made);
    *view = fold_onnx__permuted(&all, back);
    for (int k = first; k < first + n; k++) {
        const int turns = !counts && w[k].end > w[k].begin;
        fold_onnx__take_axis(o, view, 2 + k, turns ? w[k].made - 1 : 0, turns ? -1 : 1, w[k].made);
    }
    if (is_last || o->failed)
        return fold_onnx__makes_view(o, &s, &flat, view);
    *index = fold_onnx__new_value(o, fold_onnx__out(o)->name);
    return fold_onnx__makes(o, &s, 0, *index, &flat);
}

/* Pools one axis after another, or two at once if the windows are squares. `end` becomes the padding that is
   used, which is negative if values are left over. */
static int fold_onnx__open_pool(fold_onnx *o, const fold_onnx__value *from)
{
    fold_onnx__window w[FOLD_ONNX__MOST_WINDOWS];
    fold_onnx__view view = fold_onnx__view_of(o, &from->dims);
    const int axes = from->dims.rank - 2, counts = fold_onnx__whole(o, "count_include_pad", 0);
    int index = o->node.in[0], together = axes == 2;
    if (fold_onnx__has_out(o, 1))
        return FOLD_ONNX__REFUSE(o, "the indices of the largest values");
    if (o->failed || !fold_onnx__read_windows(o, NULL, w))
        return 0;
    for (int k = 0; k < axes; k++) {
        const int end = (w[k].made - 1) * w[k].stride + w[k].taps - from->dims.dim[2 + k] - w[k].begin;
        if (w[k].dilation != 1)
            return FOLD_ONNX__REFUSE(o, "a dilation of %d", w[k].dilation);
        if (counts ? end > w[k].end : w[k].begin >= w[k].taps || end >= w[k].taps)
            return FOLD_ONNX__REFUSE(o, "pads of %d and %d, of a kernel of %d, which %s", w[k].begin, end,
                                     w[k].taps,
                                     counts ? "count only in part" : "leave a window without values");
        w[k].end = end;
        together &= w[k].taps == w[0].taps && w[k].stride == w[0].stride &&
                    (counts || (w[k].begin == w[0].begin && end <= w[0].begin));
    }
    for (int k = 0; k < axes; k += 1 + together)
        if (!fold_onnx__pool(o, &index, &view, w, k, 1 + together, k + 1 + together == axes))
            return 0;
    return 1;
}

/* ---- resizing --------------------------------------------------------------------------------- */

/* How an axis is resized: where its elements are in the input, and how that is rounded or interpolated. */
enum { FOLD_ONNX__HALF_PIXEL, FOLD_ONNX__PYTORCH, FOLD_ONNX__CORNERS, FOLD_ONNX__ASYMMETRIC };
enum { FOLD_ONNX__FOR_NN = 4, FOLD_ONNX__SYMMETRIC };
enum { FOLD_ONNX__NEAR_FLOOR, FOLD_ONNX__NEAR_CEIL, FOLD_ONNX__ROUND_DOWN, FOLD_ONNX__ROUND_UP };
enum { FOLD_ONNX__BY_NEAREST, FOLD_ONNX__BY_LINEAR, FOLD_ONNX__BY_CUBIC };
typedef struct fold_onnx__resize {
    int places, rounds, mode, is_smooth, leaves_out, made[FOLD_ONNX_RANK];
    float scale[FOLD_ONNX_RANK], slope;
} fold_onnx__resize;

/* Where element i of `made` is in an axis of n values. Other runtimes compute it in single precision. */
static double fold_onnx__place_of(const fold_onnx__resize *r, int i, int n, int made, float scale)
{
    const double at = (double)i, centre = (double)(float)((at + 0.5) / (double)scale),
                 lacks = 1 - made / ((double)scale * n);
    switch (r->places) {
    case FOLD_ONNX__PYTORCH: return made > 1 ? (double)(float)(centre - 0.5) : 0;
    case FOLD_ONNX__CORNERS: return made > 1 ? (double)(float)(at * (n - 1) / (made - 1)) : 0;
    case FOLD_ONNX__ASYMMETRIC: return (double)(float)(at / (double)scale);
    case FOLD_ONNX__FOR_NN: return centre;
    case FOLD_ONNX__SYMMETRIC: return n / 2.0 * lacks + centre - 0.5;
    default: return (double)(float)(centre - 0.5);
    }
}

static int fold_onnx__nearest_of(const fold_onnx__resize *r, double at, int n)
{
    const double whole = r->rounds == FOLD_ONNX__NEAR_FLOOR   ? ceil(at - 0.5)
                         : r->rounds == FOLD_ONNX__NEAR_CEIL  ? floor(at + 0.5)
                         : r->rounds == FOLD_ONNX__ROUND_DOWN ? floor(at)
                                                              : ceil(at);
    return whole < 0 ? 0 : whole < n ? (int)whole : n - 1;
}

/* The weight of a value at this distance: linear, or cubic (Keys 1981). */
static double fold_onnx__weight_at(const fold_onnx__resize *r, double x)
{
    const double a = (double)r->slope;
    x = fabs(x);
    if (r->mode == FOLD_ONNX__BY_LINEAR)
        return x < 1 ? 1 - x : 0;
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/* The weights [n x made] of an axis. Values outside it are those of the edge, or are left out. */
static int fold_onnx__interpolation(fold_onnx *o, const fold_onnx__resize *r, int n, int made, float scale,
                                    fold_param *param)
{
    const fold_onnx__dims dims = { 2, { n, made } };
    const double spread = r->is_smooth && scale < 1 ? (double)scale : 1, reach = r->mode / spread;
    double *weights = fold_onnx__size(o, &dims) ? FOLD_ONNX__SCRATCH(o, double, n *made) : NULL;
    for (int i = 0; weights && i < made; i++) {
        const double at = fold_onnx__place_of(r, i, n, made, scale);
        double sum = 0;
        for (int k = (int)ceil(at - reach); k <= at + reach; k++) {
            const int from = k < 0 ? 0 : k < n ? k : n - 1;
            const double weight = from != k && r->leaves_out ? 0 : fold_onnx__weight_at(r, (k - at) * spread);
            weights[from * made + i] += weight;
            sum += weight;
        }
        for (int k = 0; k < n && r->leaves_out; k++)
            weights[k * made + i] /= sum;
    }
    return fold_onnx__supply(o, o->node.out[0], weights, n * made, param);
}

/* Reads the scales or lengths of all axes, or of those that are listed. */
static int fold_onnx__read_scales(fold_onnx *o, fold_onnx__resize *r, const fold_onnx__dims *x)
{
    static const char *const policies[3] = { "stretch", "not_larger", "not_smaller" };
    const int is_resize = !strcmp(o->node.type, "Resize"), late = is_resize && o->version > 10, at = 1 + late,
              keeps = fold_onnx__word(o, "keep_aspect_ratio_policy", policies, 3);
    int axes[FOLD_ONNX_RANK];
    double told[FOLD_ONNX_RANK], best = 0; /* lengths or scales */
    const int listed = fold_onnx__list(o, "axes", -1, axes, FOLD_ONNX_RANK),
              n = listed < 0 ? x->rank : listed,
              has_lengths = late && fold_onnx__has_in(o, 3) && fold_onnx__in(o, 3)->count;
    const int count = fold_onnx__numbers_of(o, has_lengths ? NULL : "scales", 7, FOLD_ONNX__FLOAT,
                                            has_lengths ? 3 : at, told, FOLD_ONNX_RANK);
    if (count != n || o->failed)
        return FOLD_ONNX__REFUSE(o, "scales or sizes of %d axes, for %d", count, n);
    for (int k = 0; k < x->rank; k++)
        r->scale[k] = 1, r->made[k] = x->dim[k];
    for (int i = 0; i < n; i++) {
        const int axis = listed < 0 ? i : fold_onnx__axis(o, axes[i], x->rank), had = x->dim[axis];
        const double scale = has_lengths ? told[i] / had : told[i], length = scale * had;
        if (has_lengths && (!i || (keeps == 1 ? scale < best : scale > best)))
            best = scale;
        r->scale[axis] = (float)scale;
        r->made[axis] = fold_onnx__near(has_lengths ? told[i] : floor((double)r->scale[axis] * had));
        if (!(scale > 0) || !isfinite(r->scale[axis]) || r->made[axis] < 1)
            return FOLD_ONNX__REFUSE(o, "axis %d by a scale of %g, of %d values", axis, scale, had);
        if (r->places == FOLD_ONNX__CORNERS && fabs(length - r->made[axis]) > 1e-5 * length)
            return FOLD_ONNX__REFUSE(o, "align_corners and a length of %g, on which runtimes disagree",
                                     length);
    }
    for (int i = 0; i < n && keeps && has_lengths; i++) {
        const int axis = listed < 0 ? i : fold_onnx__axis(o, axes[i], x->rank);
        r->scale[axis] = (float)best;
        r->made[axis] = fold_onnx__near(floor(best * x->dim[axis] + 0.5));
    }
    return !o->failed;
}

/* Interpolates one axis after another, by a product with its weights. */
static void fold_onnx__record_resize(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                     fold_node *out)
{
    const fold_onnx__dims *from = &o->values[s->in[0]].dims, *to = &o->values[s->out[0]].dims;
    fold_node x = in[0];
    for (int k = 0; k < from->rank; k++) {
        const int n = from->dim[k], made = to->dim[k], outer = fold_onnx__product(to, 0, k),
                  inner = fold_onnx__product(from, k + 1, from->rank);
        if (fold_param_is_null(s->param[k]))
            continue;
        if (inner > 1)
            x = fold_transpose(o->f, fold_onnx__reshape(o->f, x, fold_shape3(outer, n, inner)), 1, 2);
        x = fold_onnx__reshape(o->f, x, fold_shape2(outer * inner, n));
        const fold_node weights = fold_use(o->f, s->param[k]);
        x = fold_matmul(o->f, x, fold_reshape(o->f, weights, fold_shape2(n, made)));
        if (inner > 1)
            x = fold_transpose(o->f, fold_reshape(o->f, x, fold_shape3(outer, inner, made)), 1, 2);
    }
    out[0] = x;
}

static int fold_onnx__open_resize(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const modes[3] = { "nearest", "linear", "cubic" };
    static const char *const places[6] = { "half_pixel", "pytorch_half_pixel",   "align_corners",
                                           "asymmetric", "tf_half_pixel_for_nn", "half_pixel_symmetric" };
    static const char *const rounds[4] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil" };
    const fold_onnx__dims *x = &from->dims;
    const int is_old = o->version < 11 || !strcmp(o->node.type, "Upsample");
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_resize, 1);
    fold_onnx__resize r;
    memset(&r, 0, sizeof r);
    r.mode = fold_onnx__word(o, "mode", modes, 3);
    r.places =
        is_old ? FOLD_ONNX__ASYMMETRIC : fold_onnx__word(o, "coordinate_transformation_mode", places, 6);
    r.rounds = is_old ? FOLD_ONNX__ROUND_DOWN : fold_onnx__word(o, "nearest_mode", rounds, 4);
    r.slope = fold_onnx__real(o, "cubic_coeff_a", -0.75f);
    r.is_smooth = fold_onnx__whole(o, "antialias", 0) != 0;
    r.leaves_out = r.is_smooth || fold_onnx__whole(o, "exclude_outside", 0);
    if (!fold_onnx__read_scales(o, &r, x))
        return 0;
    fold_onnx__view view = fold_onnx__view_of(o, x);
    for (int k = 0; k < x->rank && !o->failed; k++) {
        const int n = x->dim[k], *had = view.at[k], made = view.dims.dim[k] = r.made[k];
        if (r.mode != FOLD_ONNX__BY_NEAREST) {
            if ((made != n || r.scale[k] != 1) && fold_onnx__size(o, &view.dims))
                fold_onnx__interpolation(o, &r, n, made, r.scale[k], &s.param[k]);
            continue;
        }
        if (o->version < 11 && r.scale[k] < 1)
            r.rounds = FOLD_ONNX__ROUND_UP;
        int *at = view.at[k] = FOLD_ONNX__SCRATCH(o, int, made);
        for (int i = 0; at && i < made; i++)
            at[i] = had[fold_onnx__nearest_of(&r, fold_onnx__place_of(&r, i, n, made, r.scale[k]), n)];
    }
    if (r.mode == FOLD_ONNX__BY_NEAREST)
        return fold_onnx__emit(o, &view, o->node.out[0], &view.dims);
    return fold_onnx__reads(o, &s, 0, o->node.in[0], NULL, fold_shape1(1)) &&
           fold_onnx__makes(o, &s, 0, o->node.out[0], &view.dims);
}

/* ---- recurrent layers ------------------------------------------------------------------------- */

struct fold_onnx__layer {
    int steps, batch, width, hidden, ways;
    int is_lstm, reverse, resets_late, peeps, batch_first;
    int gates, is_relu; /* gates 1: an RNN; is_relu: with relu, not tanh */
};
enum { FOLD_ONNX__PER_WAY = 7 }; /* parameters of each direction */

/* Gate k, in ONNX's order i o f c, of which c uses tanh. With peepholes, gates read the cell state. */
static fold_node fold_onnx__lstm_gate(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param,
                                      fold_node gates, fold_node c, int k)
{
    const fold_node gate = fold_onnx__part(f, gates, k * l->hidden, l->hidden);
    return !l->peeps ? gate : fold_sigmoid(f, fold_add(f, gate, fold_mul(f, fold_use(f, param[4 + k]), c)));
}

static void fold_onnx__lstm_step(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param, fold_node x,
                                 fold_node *state)
{
    const int n = l->hidden; /* x and h have separate biases, which train separately */
    const fold_node seen = fold_linear(f, x, param[0], param[1]);
    const fold_node all = fold_add(f, seen, fold_linear(f, state[0], param[2], param[3]));
    const fold_node update = fold_tanh(f, fold_onnx__part(f, all, 3 * n, n)),
                    gates = l->peeps ? all : fold_sigmoid(f, fold_onnx__part(f, all, 0, 3 * n)),
                    in = fold_onnx__lstm_gate(f, l, param, gates, state[1], 0),
                    keep = fold_onnx__lstm_gate(f, l, param, gates, state[1], 2);
    const fold_node kept = fold_mul(f, keep, state[1]);
    state[1] = fold_add(f, kept, fold_mul(f, in, update));
    const fold_node out = fold_onnx__lstm_gate(f, l, param, gates, state[1], 1);
    state[0] = fold_mul(f, out, fold_tanh(f, state[1]));
}

/* ONNX's order of gates is z r h. The reset is applied after the product with h, as in PyTorch, or before. */
static void fold_onnx__gru_step(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param, fold_node x,
                                fold_node *state)
{
    const int n = l->hidden;
    const fold_node h = state[0], a = fold_linear(f, x, param[0], param[1]),
                    b = fold_linear(f, h, param[2], param[3]);
    const fold_node of_x = fold_onnx__part(f, a, 0, 2 * n), of_h = fold_onnx__part(f, b, 0, 2 * n);
    const fold_node gates = fold_sigmoid(f, fold_add(f, of_x, of_h));
    const fold_node reset = fold_onnx__part(f, gates, n, n),
                    seen = l->resets_late ? fold_mul(f, reset, fold_onnx__part(f, b, 2 * n, n))
                                          : fold_linear(f, fold_mul(f, reset, h), param[4], param[5]),
                    fresh = fold_tanh(f, fold_add(f, fold_onnx__part(f, a, 2 * n, n), seen));
    const fold_node update = fold_onnx__part(f, gates, 0, n);
    state[0] = fold_add(f, fresh, fold_mul(f, update, fold_sub(f, h, fresh)));
}

static void fold_onnx__rnn_step(fold_ctx *f, const fold_onnx__layer *l, const fold_param *param, fold_node x,
                                fold_node *state)
{
    const fold_node seen = fold_linear(f, x, param[0], param[1]);
    const fold_node all = fold_add(f, seen, fold_linear(f, state[0], param[2], param[3]));
    state[0] = l->is_relu ? fold_relu(f, all) : fold_tanh(f, all);
}

/* Each direction of each sequence of a batch is a separate chain of calls. */
static void fold_onnx__record_recurrent(fold_onnx *o, const fold_onnx__step *s, const fold_node *in,
                                        fold_node *out)
{
    const fold_onnx__layer *l = s->layer;
    const int n = l->hidden, states = 1 + l->is_lstm, chains = l->batch * l->ways;
    fold_node *y = s->nodes + s->n_in + FOLD_ONNX__OUTS, *last = y + l->steps * chains, state[2];
    for (int chain = 0; chain < chains; chain++) {
        const int b = chain / l->ways, way = chain % l->ways,
                  place = l->batch_first ? chain : way * l->batch + b;
        for (int i = 0; i < states; i++)
            state[i] = !s->in[1 + i] ? fold_zeros(o->f, fold_shape1(n))
                                     : fold_onnx__part(o->f, in[1 + i], place * n, n);
        for (int t = 0; t < l->steps; t++) {
            const int at = way || l->reverse ? l->steps - 1 - t : t;
            const int row = l->batch_first ? b * l->steps + at : at * l->batch + b;
            const fold_node x = fold_onnx__part(o->f, in[0], row * l->width, l->width);
            (l->gates == 4   ? fold_onnx__lstm_step
             : l->gates == 3 ? fold_onnx__gru_step
                             : fold_onnx__rnn_step)(o->f, l, s->param + FOLD_ONNX__PER_WAY * way, x, state);
            y[l->batch_first ? row * l->ways + way : (at * l->ways + way) * l->batch + b] = state[0];
        }
        for (int i = 0; i < states; i++)
            last[i * chains + place] = state[i];
    }
    for (int i = 0; i <= states; i++) {
        const int parts = i ? chains : l->steps * chains;
        const fold_node *part = i ? last + (i - 1) * chains : y;
        out[i] = parts == 1 ? part[0] : fold_concat(o->f, part, parts, 0);
    }
}

/* Plans the weight and the bias of some gates, which read x or h, from parts of the file's tensors. */
typedef struct fold_onnx__gates {
    int slot, reads_h, from, count;
} fold_onnx__gates;
static void fold_onnx__gate_params(fold_onnx *o, fold_onnx__step *s, int way, const fold_onnx__gates *gates)
{
    static const int order[3] = { 0, 2, 1 };
    const int n = s->layer->hidden, ways = s->layer->ways, rows = gates->reads_h ? n : s->layer->width,
              all = s->layer->gates * n, first = gates->from * n, columns = gates->count * n;
    const fold_onnx__dims whole = { 3, { ways, all, rows } }, biases = { 1, { ways * 2 * all } };
    fold_param *param = &s->param[FOLD_ONNX__PER_WAY * way + gates->slot];
    fold_onnx__view view = fold_onnx__view_of(o, &whole);
    fold_onnx__take_axis(o, &view, 0, way, 1, 1);
    fold_onnx__take_axis(o, &view, 1, first, 1, columns);
    view = fold_onnx__permuted(&view, order);
    fold_onnx__weigh_alone(o, fold_onnx__in(o, 1 + gates->reads_h), &view, fold_shape2(rows, columns),
                           FOLD_FOR_LINEAR, param);
    if (!fold_onnx__has_in(o, 3))
        return;
    view = fold_onnx__view_of(o, &biases);
    fold_onnx__take_axis(o, &view, 0, (2 * way + gates->reads_h) * all + first, 1, columns);
    fold_onnx__weigh_alone(o, fold_onnx__in(o, 3), &view, fold_shape1(columns), 0, param + 1);
}

static void fold_onnx__recurrent_params(fold_onnx *o, fold_onnx__step *s)
{
    static const fold_onnx__gates lstm[2] = { { 0, 0, 0, 4 }, { 2, 1, 0, 4 } },
                                  rnn[2] = { { 0, 0, 0, 1 }, { 2, 1, 0, 1 } },
                                  late[2] = { { 0, 0, 0, 3 }, { 2, 1, 0, 3 } },
                                  early[3] = { { 0, 0, 0, 3 }, { 2, 1, 0, 2 }, { 4, 1, 2, 1 } };
    const fold_onnx__layer *l = s->layer;
    const fold_onnx__gates *gates = l->is_lstm ? lstm : l->gates == 1 ? rnn : l->resets_late ? late : early;
    for (int way = 0; way < l->ways && !o->failed; way++) {
        for (int i = 0; i < 2 + (gates == early); i++)
            fold_onnx__gate_params(o, s, way, &gates[i]);
        for (int k = 0; k < 3 && l->peeps; k++) {
            const fold_onnx__dims all = { 1, { fold_onnx__in(o, 7)->count } };
            fold_onnx__view view = fold_onnx__view_of(o, &all);
            fold_onnx__take_axis(o, &view, 0, (3 * way + k) * l->hidden, 1, l->hidden);
            fold_onnx__weigh_alone(o, fold_onnx__in(o, 7), &view, fold_shape1(l->hidden), 0,
                                   &s->param[FOLD_ONNX__PER_WAY * way + 4 + k]);
        }
    }
}

static int fold_onnx__recurrent_fits(fold_onnx *o, const fold_onnx__layer *l)
{
    const int n = l->hidden, per_way = l->gates == 1 ? 1 : l->gates - 1;
    const long long weights = (long long)l->ways * l->gates * n, states = (long long)l->ways * l->batch * n;
    const long long counts[8] = { 0,      weights * l->width, weights * n, 2 * weights, l->batch, states,
                                  states, 3ll * l->ways * n };
    fold_onnx__field attribute, field;
    for (int i = 1; i < o->node.n_in; i++) {
        const fold_onnx__value *value = fold_onnx__in(o, i);
        if (!fold_onnx__has_in(o, i))
            continue;
        if (value->count != counts[i])
            return FOLD_ONNX__REFUSE(o, "the shape of '%.60s' does not match the others", value->name);
        if (i != 5 && i != 6 && value->origin != FOLD_ONNX__FIXED)
            return FOLD_ONNX__REFUSE(o, "'%.60s' is not constant", value->name);
        for (int k = 0; i == 4 && k < l->batch; k++)
            if (fold_onnx__number(value, k) != l->steps)
                return FOLD_ONNX__REFUSE(o, "sequences of different lengths");
    }
    if (fold_onnx__whole(o, "input_forget", 0))
        return FOLD_ONNX__REFUSE(o, "input_forget");
    if (!fold_onnx__attribute(o, "activations", -9, &attribute))
        return 1;
    for (int i = 0; fold_onnx__next_of(o, &attribute.bytes, 9, &field); i++)
        if (!fold_onnx__is(field.bytes, i % per_way || (per_way == 1 && !l->is_relu) ? "Tanh"
                                        : per_way == 1                               ? "Relu"
                                                                                     : "Sigmoid"))
            return FOLD_ONNX__REFUSE(o, "activations other than Sigmoid and Tanh; of RNN, Tanh or Relu");
    return !o->failed;
}

static int fold_onnx__open_recurrent(fold_onnx *o, const fold_onnx__value *from)
{
    static const char *const directions[3] = { "forward", "reverse", "bidirectional" };
    const fold_onnx__dims *x = &from->dims;
    fold_onnx__layer *l = FOLD_ONNX__KEPT(o, fold_onnx__layer, 1);
    fold_onnx__field words, word;
    if (!l)
        return 0;
    l->batch_first = fold_onnx__whole(o, "layout", 0) == 1;
    l->steps = x->dim[l->batch_first];
    l->batch = x->dim[!l->batch_first];
    l->width = x->dim[2];
    l->hidden = fold_onnx__whole(o, "hidden_size", 0);
    const int direction = fold_onnx__word(o, "direction", directions, 3);
    l->ways = direction == 2 ? 2 : 1;
    l->reverse = direction == 1;
    l->is_lstm = !strcmp(o->node.type, "LSTM");
    l->gates = l->is_lstm ? 4 : !strcmp(o->node.type, "GRU") ? 3 : 1;
    l->is_relu = fold_onnx__attribute(o, "activations", -9, &words) &&
                 fold_onnx__field_of(o, words.bytes, 9, &word) && fold_onnx__is(word.bytes, "Relu");
    l->resets_late = fold_onnx__whole(o, "linear_before_reset", 0) != 0;
    l->peeps = fold_onnx__has_in(o, 7);
    const int steps = l->steps, batch = l->batch, ways = l->ways, n = l->hidden;
    const fold_onnx__dims y[2] = { { 4, { steps, ways, batch, n } }, { 4, { batch, steps, ways, n } } },
                          state[2] = { { 3, { ways, batch, n } }, { 3, { batch, ways, n } } };
    if (x->rank != 3 || n < 1 || n > 65536)
        return FOLD_ONNX__REFUSE(o, "an input of rank %d, %d hidden values", x->rank, n);
    if ((long long)steps * batch > 1024)
        return FOLD_ONNX__REFUSE(o, "%d steps of %d sequences, of at most 1024 together", steps, batch);
    if (!fold_onnx__recurrent_fits(o, l))
        return 0;
    fold_onnx__step s = fold_onnx__begin(o, fold_onnx__record_recurrent, 3);
    s.nodes = FOLD_ONNX__KEPT(o, fold_node, s.n_in + FOLD_ONNX__OUTS + (steps + 2) * batch * ways);
    s.layer = l;
    fold_onnx__recurrent_params(o, &s);
    for (int i = 0, input = 0; i < 3; input = 5 + i++) /* x, h, c */
        if (fold_onnx__has_in(o, input))
            fold_onnx__reads_shape(o, &s, i, o->node.in[input], fold_shape1(fold_onnx__in(o, input)->count));
    for (int i = 1 + l->is_lstm; i > 0; i--)
        if (fold_onnx__has_out(o, i))
            fold_onnx__makes(o, &s, i, o->node.out[i], &state[l->batch_first]);
    return fold_onnx__makes(o, &s, 0, o->node.out[0], &y[l->batch_first]);
}

/* ---- the table of ops ------------------------------------------------------------------------- */

static int fold_onnx__open_if(fold_onnx *o, const fold_onnx__value *from); /* it opens nodes */
#define FOLD_ONNX__AXIS(type, one)                                                                         \
    FOLD_ONNX__OP(type, 1, 1, "axis", fold_onnx__open_softmax, NULL, 0, 0, 0, one, NULL, NULL, NULL, NULL, \
                  NULL)
#define FOLD_ONNX__ONE(type, one, number, flags)                                                        \
    FOLD_ONNX__OP(type, 1, 1, "", fold_onnx__open_elements, number, 0, 0, flags, one, NULL, NULL, NULL, \
                  NULL, NULL)
#define FOLD_ONNX__WITH(type, with, alpha)                                                                  \
    FOLD_ONNX__OP(type, 1, 1, "alpha", fold_onnx__open_elements, NULL, alpha, 0, 0, NULL, NULL, with, NULL, \
                  NULL, NULL)
#define FOLD_ONNX__BETWEEN(type, most, attributes, open, between, alpha, beta)                             \
    FOLD_ONNX__OP(type, 1, most, attributes, open, NULL, alpha, beta, most == 3 ? FOLD_ONNX__INTEGERS : 0, \
                  NULL, NULL, NULL, between, NULL, NULL)
#define FOLD_ONNX__TWO(type, least, most, open, two, with, number, flags) \
    FOLD_ONNX__OP(type, least, most, "", open, number, 0, 0, flags, NULL, two, with, NULL, NULL, NULL)
#define FOLD_ONNX__MANY(type, least, most, two, number, flags) \
    FOLD_ONNX__TWO(type, least, most, fold_onnx__open_elements, two, NULL, number, flags)
#define FOLD_ONNX__TEST(type, inputs, number) \
    FOLD_ONNX__MANY(type, inputs, inputs, NULL, number, FOLD_ONNX__INTEGERS | FOLD_ONNX__TRUTH)
#define FOLD_ONNX__REDUCE(type, before, along, after, flags)                                            \
    FOLD_ONNX__OP(type, 1, 2, "axes keepdims noop_with_empty_axes", fold_onnx__open_reduce, NULL, 0, 0, \
                  flags, before, NULL, NULL, NULL, along, after)
#define FOLD_ONNX__GLOBAL(type, along) \
    FOLD_ONNX__OP(type, 1, 1, "", fold_onnx__open_reduce, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, along, NULL)
#define FOLD_ONNX__MOVE(type, least, most, attributes, open) \
    FOLD_ONNX__ROW(type, least, most, attributes, open, NULL, FOLD_ONNX__INTEGERS)
#define FOLD_ONNX__OTHER(type, least, most, words, open) \
    FOLD_ONNX__ROW(type, least, most, words, open, NULL, 0)
enum { FOLD_ONNX__ANY = 1 << 20 }; /* any number of inputs, all required */

/* How opsets up to 25 changed the way these ops are written, or what they compute. A number is the opset that
   made the change. Not listed: ops that never changed, and versions that only allow more types or negative
   axes.
     Softmax, LogSoftmax      before 13 all axes from `axis` (default 1) on are one; then only `axis` (-1)
     BatchNormalization       7, 8: `spatial`, which must be 1. 7 to 13: more than one output means training;
                              then `training_mode`. Before 7: refused
     Clip                     before 11 bounds are attributes, then inputs
     Pad                      before 11 pads and value are attributes, then inputs; 18: axes; 19: wrap
     Slice                    before 10 starts, ends and axes are attributes, then inputs, with steps
     Squeeze, Unsqueeze       before 13 axes are an attribute, then an input
     Split                    before 13 sizes are an attribute, then an input; 18: num_outputs, unequal parts
     Reduce...                before 18 (ReduceSum 13) axes are an attribute, then an input, and
                              noop_with_empty_axes. ReduceMax, ReduceMin of booleans (20): refused
     Reshape                  before 5 the shape is an attribute; 14: allowzero
     ArgMax                   12: select_last_index
     Pow                      12: the exponent may have a different type; the result has the base's
     Max, Min, Clip           12: integers
     QuantizeLinear,          13: axis; 19: types of 8-bit floats, which are refused; 21: block_size, 16 bits,
     DequantizeLinear         output_dtype; 23: precision. Sums are in float. 4 bits are refused
     Shape                    15: start, end
     Constant                 12: value_int, value_ints, value_float, value_floats
     Cast                     before 6 `to` is text: refused; 19: saturate, 24: round_mode, both for types
                              that are not supported
     Dropout                  before 7 is_test; 12: ratio and training_mode are inputs. Training is refused
     Resize                   10: scales are the second input, as in Upsample; then the third, sizes the
                              fourth; 18: axes, antialias, keep_aspect_ratio_policy; 19: half_pixel_symmetric
     Upsample                 before 9 scales are an attribute, before 7 there are two: refused
     GroupNormalization       before 21 gains and biases are per group, then per channel
     TopK                     before 10 k is an attribute, then an input; 11: largest
     LpNormalization          22: a vector of zeros stays as it is; here always
     AveragePool, MaxPool     7: count_include_pad; 8: indices, 10 (19): dilations, which are refused;
                              10: ceil_mode
     PRelu                    before 7 slopes are per channel: only a single one is supported
     Selu                     before 6 the defaults of alpha and gamma have 5 digits
     Tile                     before 6 a count and an axis are inputs: refused
     GRU, LSTM, RNN           14: layout
     Gemm                     11: C may be left out
     If                       refused unless the condition is known when the file is opened
   New in: ConstantOfShape, Where, Erf, IsNaN, OneHot, Shrink, Sign 9; Mod, ThresholdedRelu, QuantizeLinear,
   DequantizeLinear 10; CumSum, Range, DepthToSpace's mode, DynamicQuantizeLinear, Round 11; Celu,
   LessOrEqual, GreaterOrEqual, Einsum 12; HardSwish, Trilu 14; LayerNormalization 17; Mish,
   GroupNormalization 18; Gelu 20; RMSNormalization 23; Swish 24. */
static const fold_onnx__op fold_onnx__ops[] = {
    FOLD_ONNX__ONE("Abs", fold_abs, fold_onnx__abs, FOLD_ONNX__COUNTS),
    FOLD_ONNX__ONE("Exp", fold_exp, fold_onnx__exp, 0),
    FOLD_ONNX__ONE("Ceil", fold_onnx__rounded_up, fold_onnx__ceil, FOLD_ONNX__STOPS),
    FOLD_ONNX__ONE("Cos", fold_cos, fold_onnx__cos, 0),
    FOLD_ONNX__ONE("Floor", fold_floor, fold_onnx__floor, FOLD_ONNX__STOPS),
    FOLD_ONNX__ONE("HardSwish", fold_onnx__hard_swish, NULL, 0),
    FOLD_ONNX__ONE("Mish", fold_onnx__mish, NULL, 0),
    FOLD_ONNX__ONE("Round", NULL, fold_onnx__nearest_whole, FOLD_ONNX__STOPS),
    FOLD_ONNX__ONE("Sign", NULL, fold_onnx__sign, FOLD_ONNX__STOPS | FOLD_ONNX__INTEGERS),
    FOLD_ONNX__ONE("Sin", fold_sin, fold_onnx__sin, 0),
    FOLD_ONNX__ONE("Softsign", fold_onnx__softsign, NULL, 0),
    FOLD_ONNX__ONE("Log", fold_log, fold_onnx__log, 0),
    FOLD_ONNX__ONE("Neg", fold_neg, fold_onnx__neg, FOLD_ONNX__COUNTS),
    FOLD_ONNX__ONE("Relu", fold_relu, NULL, 0),
    FOLD_ONNX__ONE("Sigmoid", fold_sigmoid, NULL, 0),
    FOLD_ONNX__ONE("Softplus", fold_softplus, NULL, 0),
    FOLD_ONNX__ONE("Sqrt", fold_sqrt, fold_onnx__sqrt, 0),
    FOLD_ONNX__ONE("Tanh", fold_tanh, NULL, 0),
    FOLD_ONNX__ONE("Acos", NULL, fold_onnx__acos, 0),
    FOLD_ONNX__ONE("Asin", NULL, fold_onnx__asin, 0),
    FOLD_ONNX__ONE("Atan", NULL, fold_onnx__atan, 0),
    FOLD_ONNX__ONE("Tan", fold_onnx__tan, NULL, 0),
    FOLD_ONNX__ONE("Erf", NULL, fold_onnx__erf, 0),
    FOLD_ONNX__ONE("Reciprocal", fold_onnx__one_over, fold_onnx__reciprocal, 0),
    FOLD_ONNX__WITH("Elu", fold_elu, 1),
    FOLD_ONNX__WITH("LeakyRelu", fold_leaky_relu, 0.01f),
    FOLD_ONNX__WITH("Celu", fold_onnx__celu, 1),
    FOLD_ONNX__WITH("Swish", fold_onnx__swish, 1),
    FOLD_ONNX__WITH("ThresholdedRelu", fold_onnx__thresholded, 1),
    FOLD_ONNX__BETWEEN("HardSigmoid", 1, "alpha beta", fold_onnx__open_elements, fold_onnx__hard_sigmoid,
                       0.2f, 0.5f),
    FOLD_ONNX__BETWEEN("Selu", 1, "alpha gamma", fold_onnx__open_selu, fold_onnx__selu, 1.67326319f,
                       1.05070102f),
    FOLD_ONNX__BETWEEN("Shrink", 1, "bias lambd", fold_onnx__open_shrink, fold_onnx__shrink, 0, 0),
    FOLD_ONNX__TWO("PRelu", 2, 2, fold_onnx__open_prelu, fold_onnx__prelu, NULL, NULL, 0),
    FOLD_ONNX__MANY("Add", 2, 2, fold_add, fold_onnx__add, FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Div", 2, 2, fold_div, fold_onnx__div, FOLD_ONNX__FREEZES | FOLD_ONNX__INTEGERS),
    FOLD_ONNX__MANY("Mul", 2, 2, fold_mul, fold_onnx__mul, FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Sub", 2, 2, fold_sub, fold_onnx__sub, FOLD_ONNX__FREEZES | FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Max", 1, FOLD_ONNX__ANY, fold_maximum, fold_onnx__max, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__MANY("Min", 1, FOLD_ONNX__ANY, fold_minimum, fold_onnx__min, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__TWO("Mean", 1, FOLD_ONNX__ANY, fold_onnx__open_elements, fold_add, fold_onnx__divide_by, NULL,
                   0),
    FOLD_ONNX__MANY("Sum", 1, FOLD_ONNX__ANY, fold_add, fold_onnx__add, FOLD_ONNX__COUNTS),
    FOLD_ONNX__MANY("Where", 3, 3, NULL, NULL, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__TEST("And", 2, fold_onnx__and),
    FOLD_ONNX__TEST("Equal", 2, fold_onnx__equal),
    FOLD_ONNX__TEST("Greater", 2, fold_onnx__greater),
    FOLD_ONNX__TEST("GreaterOrEqual", 2, fold_onnx__greater_equal),
    FOLD_ONNX__TEST("IsNaN", 1, fold_onnx__is_nan),
    FOLD_ONNX__TEST("Less", 2, fold_onnx__less),
    FOLD_ONNX__TEST("LessOrEqual", 2, fold_onnx__less_equal),
    FOLD_ONNX__TEST("Not", 1, fold_onnx__not),
    FOLD_ONNX__TEST("Or", 2, fold_onnx__or),
    FOLD_ONNX__TEST("Xor", 2, fold_onnx__xor),
    FOLD_ONNX__ROW("Mod", 2, 2, "fmod", fold_onnx__open_mod, fold_onnx__mod,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES | FOLD_ONNX__STOPS),
    FOLD_ONNX__ROW("Pow", 2, 2, "", fold_onnx__open_pow, fold_onnx__pow,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES),
    FOLD_ONNX__OTHER("Gelu", 1, 1, "approximate", fold_onnx__open_gelu),
    FOLD_ONNX__BETWEEN("Clip", 3, "min max", fold_onnx__open_clip, fold_clip, 0, 0),
    FOLD_ONNX__MOVE("Cast", 1, 1, "round_mode saturate to", fold_onnx__open_cast),
    FOLD_ONNX__MOVE("Concat", 1, FOLD_ONNX__ANY, "axis", fold_onnx__open_concat),
    FOLD_ONNX__MOVE("DepthToSpace", 1, 1, "blocksize mode", fold_onnx__open_blocks),
    FOLD_ONNX__ROW("DequantizeLinear", 2, 3, "axis block_size output_dtype", fold_onnx__open_quantize, NULL,
                   FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES),
    FOLD_ONNX__OTHER("DynamicQuantizeLinear", 1, 1, "", fold_onnx__open_dynamic_quantize),
    FOLD_ONNX__ROW("QuantizeLinear", 2, 3, "axis block_size output_dtype precision saturate",
                   fold_onnx__open_quantize, NULL, FOLD_ONNX__INTEGERS | FOLD_ONNX__FREEZES),
    FOLD_ONNX__MOVE("Dropout", 1, 3, "is_test ratio seed", fold_onnx__open_dropout),
    FOLD_ONNX__MOVE("Expand", 2, 2, "", fold_onnx__open_expand),
    FOLD_ONNX__MOVE("Flatten", 1, 1, "axis", fold_onnx__open_flatten),
    FOLD_ONNX__MOVE("Gather", 2, 2, "axis", fold_onnx__open_gather),
    FOLD_ONNX__MOVE("Identity", 1, 1, "", fold_onnx__open_identity),
    FOLD_ONNX__MOVE("OneHot", 3, 3, "axis", fold_onnx__open_one_hot),
    FOLD_ONNX__MOVE("Pad", 1, 4, "mode pads value", fold_onnx__open_pad),
    FOLD_ONNX__MOVE("Reshape", 1, 2, "shape allowzero", fold_onnx__open_reshape),
    FOLD_ONNX__MOVE("Slice", 1, 5, "starts ends axes", fold_onnx__open_slice),
    FOLD_ONNX__MOVE("SpaceToDepth", 1, 1, "blocksize", fold_onnx__open_blocks),
    FOLD_ONNX__MOVE("Split", 1, 2, "axis split num_outputs", fold_onnx__open_split),
    FOLD_ONNX__MOVE("Squeeze", 1, 2, "axes", fold_onnx__open_squeeze),
    FOLD_ONNX__MOVE("Tile", 2, 2, "", fold_onnx__open_tile),
    FOLD_ONNX__MOVE("Transpose", 1, 1, "perm", fold_onnx__open_transpose),
    FOLD_ONNX__MOVE("TopK", 1, 2, "axis k largest sorted", fold_onnx__open_top),
    FOLD_ONNX__MOVE("Trilu", 1, 2, "upper", fold_onnx__open_trilu),
    FOLD_ONNX__MOVE("Unsqueeze", 1, 2, "axes", fold_onnx__open_unsqueeze),
    FOLD_ONNX__OTHER("Constant", 0, 0, "value value_float value_floats value_int value_ints",
                     fold_onnx__open_constant),
    FOLD_ONNX__MOVE("ConstantOfShape", 1, 1, "value", fold_onnx__open_constant_of_shape),
    FOLD_ONNX__MOVE("If", 1, 1, "else_branch then_branch", fold_onnx__open_if),
    FOLD_ONNX__MOVE("Range", 3, 3, "", fold_onnx__open_range),
    FOLD_ONNX__MOVE("Shape", 1, 1, "start end", fold_onnx__open_shape),
    FOLD_ONNX__MOVE("Size", 1, 1, "", fold_onnx__open_size),
    FOLD_ONNX__GLOBAL("GlobalAveragePool", fold_mean),
    FOLD_ONNX__GLOBAL("GlobalMaxPool", fold_amax),
    FOLD_ONNX__REDUCE("ReduceL1", fold_abs, fold_sum, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__REDUCE("ReduceL2", fold_square, fold_sum, fold_sqrt, 0),
    FOLD_ONNX__REDUCE("ReduceLogSum", NULL, fold_sum, fold_log, 0),
    FOLD_ONNX__REDUCE("ReduceLogSumExp", NULL, fold_logsumexp, NULL, 0),
    FOLD_ONNX__REDUCE("ReduceMax", NULL, fold_amax, NULL, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__REDUCE("ReduceMean", NULL, fold_mean, NULL, 0),
    FOLD_ONNX__REDUCE("ReduceMin", NULL, fold_amin, NULL, FOLD_ONNX__INTEGERS),
    FOLD_ONNX__REDUCE("ReduceProd", NULL, fold_prod, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__REDUCE("ReduceSum", NULL, fold_sum, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__REDUCE("ReduceSumSquare", fold_square, fold_sum, NULL, FOLD_ONNX__COUNTS),
    FOLD_ONNX__AXIS("Softmax", fold_softmax),
    FOLD_ONNX__AXIS("LogSoftmax", fold_onnx__log_softmax),
    FOLD_ONNX__MOVE("CumSum", 2, 2, "exclusive reverse", fold_onnx__open_cumsum),
    FOLD_ONNX__OTHER("LpNormalization", 1, 1, "axis p", fold_onnx__open_lp_norm),
    FOLD_ONNX__MOVE("ArgMax", 1, 1, "axis keepdims select_last_index", fold_onnx__open_argmax),
    FOLD_ONNX__MOVE("ArgMin", 1, 1, "axis keepdims select_last_index", fold_onnx__open_argmax),
    FOLD_ONNX__OTHER("Multinomial", 1, 1, "dtype sample_size seed", fold_onnx__open_argmax),
    FOLD_ONNX__MOVE("RandomNormalLike", 1, 1, "dtype mean scale seed", fold_onnx__open_random),
    FOLD_ONNX__OTHER("BatchNormalization", 5, 5, "epsilon momentum spatial training_mode",
                     fold_onnx__open_batch_norm),
    FOLD_ONNX__OTHER("GroupNormalization", 3, 3, "epsilon num_groups stash_type", fold_onnx__open_group_norm),
    FOLD_ONNX__OTHER("InstanceNormalization", 3, 3, "epsilon", fold_onnx__open_group_norm),
    FOLD_ONNX__OTHER("RMSNormalization", 2, 2, "axis epsilon stash_type", fold_onnx__open_layer_norm),
    FOLD_ONNX__OTHER("LayerNormalization", 2, 3, "axis epsilon stash_type", fold_onnx__open_layer_norm),
    FOLD_ONNX__OTHER("Einsum", 1, 2, "equation", fold_onnx__open_einsum),
    FOLD_ONNX__OTHER("Gemm", 2, 3, "alpha beta transA transB", fold_onnx__open_product),
    FOLD_ONNX__OTHER("MatMul", 2, 2, "", fold_onnx__open_product),
    FOLD_ONNX__OTHER("AveragePool", 1, 1,
                     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
                     fold_onnx__open_pool),
    FOLD_ONNX__MOVE("MaxPool", 1, 1, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
                    fold_onnx__open_pool),
    FOLD_ONNX__OTHER("Conv", 2, 3, "auto_pad dilations group kernel_shape pads strides",
                     fold_onnx__open_conv),
    FOLD_ONNX__OTHER("ConvTranspose", 2, 3,
                     "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
                     fold_onnx__open_conv),
    FOLD_ONNX__MOVE("Resize", 1, 4,
                    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
                    "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
                    fold_onnx__open_resize),
    FOLD_ONNX__MOVE("Upsample", 1, 2, "mode scales", fold_onnx__open_resize),
    FOLD_ONNX__OTHER("GRU", 3, 6, "activations direction hidden_size layout linear_before_reset",
                     fold_onnx__open_recurrent),
    FOLD_ONNX__OTHER("RNN", 3, 6, "activations direction hidden_size layout", fold_onnx__open_recurrent),
    FOLD_ONNX__OTHER("LSTM", 3, 8, "activations direction hidden_size input_forget layout",
                     fold_onnx__open_recurrent)
};

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
    if (o->node.n_out < 1 || (!o->node.out[0] && op->open != fold_onnx__open_recurrent))
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
        if (!i && fold_onnx__is_fixed(o, o->node.in[i]) && !value->count &&
            op->open != fold_onnx__open_concat && op->open != fold_onnx__open_constant_of_shape)
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
   whose result is another value. */
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
    o->weights = FOLD_ONNX__PASSING(o, fold_onnx__weight *, 2 * o->most_values);
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

/* A whole number, then doubled or halved: exact, also for infinities and NaN, which have no names in C without
   a header. */
static int fold_onnx__print_pad(float pad, fold_writer *write, void *writer)
{
    int power = 128;
    double whole = isfinite(pad) ? ldexp(frexp((double)pad, &power), FLT_MANT_DIG) : pad < 0 ? -1 : 1;
    for (power -= isfinite(pad) ? FLT_MANT_DIG : 0; power < 0 && fmod(whole, 2) == 0; power++)
        whole /= 2;
    return fold_onnx__write(write, writer, "        float own_pad = %.0f.0f;\n", whole) ||
           (power && fold_onnx__write(write, writer,
                                      "        for (i = 0; i < %d; i++)\n            own_pad *= %s;\n",
                                      power < 0 ? -power : power, power < 0 ? "0.5f" : "2.0f")) ||
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
