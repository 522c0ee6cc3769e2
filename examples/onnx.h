/* onnx.h - reads networks from ONNX files, such as the policy.onnx that robots and games ship, by calls of fold.h alone.

   In one C or C++ file:  #define ONNX_IMPLEMENTATION
                          #include "onnx.h"                          // behind fold.h
   Everywhere else:       #include "onnx.h"

       fold_onnx *o = fold_onnx_open(m, "policy.onnx", NULL);
       if (!o) puts(fold_model_message(m));
       fold_onnx_value in = { "obs", observation, FOLD_NULL_NODE }, out = { "actions", NULL, FOLD_NULL_NODE };
       fold_onnx_record(o, f, &in, 1, NULL, &out, 1);                 // once for each agent
       fold_run(f, &out.node, 1);                                     // all agents together
       const float *actions = fold_value(f, out.node);

   Opening reads the file once. Its weights become parameters of the model, under their names in the file. The rest
   becomes a list of steps, of which all shapes are known: an axis whose length the file leaves open, such as the batch,
   becomes 1. Recording walks the steps that an output needs, for one sample. So any number of agents batches, and the
   network is run, replayed, trained on, quantised and saved like any other. A batch that the file fixes to more than 1
   stays one sample. Where another axis is open, such as the length of a sequence, a binding tells its length.

   Values are those of the file, in its shapes. A state is an input and an output by name: hand in what came out, or
   zeros to begin anew. The parameters can train, but those that are subtracted or divided by, such as statistics of
   observations, and those that the file computes from others, are frozen.

   Ops that draw random numbers take them from a fold_random, or do without: then normal and uniform numbers
   are their mean, and a choice is the most probable one. So an action without noise is its mean. Names of tensors that feed such ops, such as
   logits, can be asked for like outputs.

   Errors: a file that is broken, or has something that is not read, is refused. The error of the model names the op, the
   node and the reason. What is computed in half or double precision there is computed in float here.

   It takes memory by the model's allocator alone. There are no globals. The file is C99 and C++17, and works in every build
   of fold.h. Erf, Pow by values that are not constant, and the noise of choices call libm, so their bits are those of
   libm. No gradient passes through Pow by such values, comparisons, and choices. */

#ifndef ONNX_H
#define ONNX_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fold_onnx fold_onnx;
enum { FOLD_ONNX_RANK = 8 };

/* Describes a tensor of the file, for a batch of 1. */
typedef struct fold_onnx_tensor {
    const char *name;                /* NULL: there is no such tensor */
    int rank, dim[FOLD_ONNX_RANK];   /* a scalar has rank 0 */
    int count;                       /* how many values it has; 0: nothing in the file makes it */
    int is_integer;                  /* whole numbers or truth values, which are floats here */
    int is_constant;
} fold_onnx_tensor;

/* Gives an input of the file a shape, or makes it a constant. */
typedef struct fold_onnx_binding {
    const char *name;
    const float *values;             /* read while the file is opened; NULL: it stays an input */
    int has_shape;                   /* 0: the shape is that of the file, with 1 for every axis that is not told */
    int rank, dim[FOLD_ONNX_RANK];
} fold_onnx_binding;

typedef struct fold_onnx_desc {
    const char *prefix;              /* comes before the names of parameters: "left." lets a model hold several files */
    const fold_onnx_binding *bindings;
    int n_bindings;
} fold_onnx_desc;
fold_onnx_desc fold_onnx_desc_default(void); /* all zero */

#ifndef FOLD_NO_STDIO
/* Opens a file; desc NULL is the default. Weights that the file keeps in other files are read beside it. Returns NULL when
   it cannot be read: the model has the error. */
fold_onnx *fold_onnx_open(fold_model *m, const char *path, const fold_onnx_desc *desc);
#endif
/* Opens a file that lies in memory, which is not read any more when the call returns. */
fold_onnx *fold_onnx_open_memory(fold_model *m, const void *bytes, size_t size, const fold_onnx_desc *desc);
/* Frees o, after the contexts that recorded it and before the model. NULL is fine. */
void fold_onnx_close(fold_onnx *o);

/* Tell the inputs and outputs, in the order of the file. Bound inputs and weights are no inputs. */
int fold_onnx_input_count(const fold_onnx *o);
fold_onnx_tensor fold_onnx_input(const fold_onnx *o, int index);
int fold_onnx_output_count(const fold_onnx *o);
fold_onnx_tensor fold_onnx_output(const fold_onnx *o, int index);
fold_onnx_tensor fold_onnx_find(const fold_onnx *o, const char *name); /* finds any tensor by its name */
/* Tell the metadata, such as joint names and scales; a missing key or value is NULL. */
int fold_onnx_metadata_count(const fold_onnx *o);
const char *fold_onnx_metadata_key(const fold_onnx *o, int index);
const char *fold_onnx_metadata(const fold_onnx *o, const char *key);

/* Names a tensor of a sample. An input has values, which are copied, or else a node of as many values. */
typedef struct fold_onnx_value {
    const char *name;
    const float *values;
    fold_node node;
} fold_onnx_value;
/* Records one sample: gives each of `out` the node of the tensor that it names, which may be an inner one. Only inputs that
   these need must be there. Noise can be an input too, by the name of the random op's output; else it is drawn from
   chance, and NULL is no noise. Two threads must not record the same o at once.
   Errors are those of the context: a name that is not in the file, an input that is missing. */
fold_status fold_onnx_record(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in, int n_in, fold_random *chance,
                             fold_onnx_value *out, int n_out);

#ifdef __cplusplus
}
#endif

#endif /* ONNX_H */

#ifdef ONNX_IMPLEMENTATION
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#ifndef FOLD_NO_STDIO
#include <stdio.h>
#endif

enum { ONNX__MOST_VALUES = 1 << 24, ONNX__SHORT = 64 };
enum { ONNX__FLOAT = 1, ONNX__INT32 = 6, ONNX__INT64 = 7, ONNX__BOOL = 9, ONNX__HALF = 10, ONNX__DOUBLE = 11 }; /* of ONNX */

/* ---- what is known of a file ------------------------------------------------------------------ */

typedef struct onnx__span { const unsigned char *at, *end; } onnx__span;

/* Memory that is freed as a whole, in chunks of the model's allocator. */
typedef struct onnx__chunk { struct onnx__chunk *next; size_t size; } onnx__chunk;
typedef struct onnx__arena { onnx__chunk *first; size_t used; } onnx__arena;

/* Values that are known when the file is opened: as they lie in the file, or computed. */
typedef struct onnx__constant {
    const unsigned char *raw; /* little-endian, of an ONNX type; NULL: they are numbers */
    int type;
    double *numbers;
} onnx__constant;

enum { ONNX__UNKNOWN, ONNX__INPUT, ONNX__COMPUTED, ONNX__FIXED }; /* where a value comes from */
typedef struct onnx__value {
    const char *name;
    int origin;
    int rank, dim[FOLD_ONNX_RANK], count;
    int is_integer, is_truth; /* truth values are integers, too */
    int channels_last;        /* its node has [height x width x channels], or [length x channels], for [1, channels, ...] */
    onnx__constant constant;
    fold_param param;         /* a constant that steps read as a value */
    int step;                 /* the one that makes it */
    fold_node node;           /* while a sample is recorded */
    int wanted, given;
} onnx__value;

/* Brings a value into another shape and order, when it is read or made. Most are windows, or do nothing at all. */
typedef struct onnx__move {
    fold_shape shape;
    int from, count;          /* the window */
    int is_window;
    fold_op op;               /* for all others */
    const int *source;        /* where each run of `run` values comes from; -1: from nowhere, it is pad */
    int run, has_pad;
    float pad;
} onnx__move;

typedef struct onnx__operand { int value; onnx__move *move; } onnx__operand; /* value -1: there is none */

/* What is known of an op: its row in the table at the end. */
typedef struct onnx__op {
    const char *type;
    int least, most;          /* inputs */
    const char *attributes;   /* those that are read; a node with another one is refused */
    int (*open)(fold_onnx *o);
    fold_node (*one)(fold_ctx *f, fold_node x);
    fold_node (*two)(fold_ctx *f, fold_node a, fold_node b);
    double (*number)(double a, double b); /* for constants, and for ops that fold.h has not */
    int flags;
} onnx__op;
enum { ONNX__INTEGERS = 1, ONNX__TRUTH = 2, ONNX__FREEZES = 4 }; /* reads whole numbers; makes truth values; of constants */

struct onnx__step;
typedef struct onnx__recording { fold_onnx *o; fold_ctx *f; fold_random *chance; } onnx__recording;
typedef void onnx__recorder(const onnx__recording *r, const struct onnx__step *step, const fold_node *in, fold_node *out);
typedef struct onnx__step {
    onnx__recorder *record;
    const onnx__op *op;
    onnx__operand *in;
    int n_in;
    int *out;                 /* values, or -1 */
    onnx__move **after;       /* for each output; NULL: none */
    int n_out;
    int number[12];           /* what the op needs to know, resolved */
    float real[2];
    fold_param param[8];
    fold_op own;
    float *noise;             /* place for a random op's */
    fold_node *nodes;         /* place for inputs, outputs, and what comes between */
    int needed;
} onnx__step;

enum { ONNX__MOST_OUT = 64 };
typedef struct onnx__node { /* that is being read */
    const onnx__op *op;
    onnx__span bytes;
    const char *type, *name;
    int *in, n_in;            /* -1: left out */
    int *out, n_out;
} onnx__node;

typedef struct onnx__weight { int value, form; float scale; fold_param param; } onnx__weight; /* a parameter that was made */
typedef struct onnx__pair { const char *key, *text; } onnx__pair;

struct fold_onnx {
    fold_model *model;
    fold_ctx *recording;       /* has the errors while a sample is recorded */
    fold_onnx_desc desc;
    onnx__arena kept, passing; /* passing: until the file is open */
    size_t budget, read;
    onnx__value *values;
    onnx__step *steps;
    int *named;                /* a hash table of values */
    onnx__weight *weights;
    onnx__pair *metadata;
    int *inputs, *outputs;
    int n_values, most_values, n_steps, most_steps, n_named, n_weights, n_metadata, n_inputs, n_outputs;
    int failed, version;
    const char *folder;        /* where other files lie; NULL: there are none */
    int folder_length;
    onnx__node node;
};

/* ---- text and errors -------------------------------------------------------------------------- */

/* Writes a text; one that is too long is cut. */
static void onnx__format(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold_format(text, size, format, args);
    va_end(args);
}

/* A name for messages, of at most 59 bytes. It is cut between characters. */
static const char *onnx__shorten(char out[ONNX__SHORT], const char *name)
{
    size_t at = 0;
    for (; *name && (at < 56 || (at < 60 && ((unsigned char)*name & 0xc0) == 0x80)); name++) out[at++] = *name;
    memcpy(out + at, *name ? ".." : "", *name ? 3 : 1);
    return out;
}

static int onnx__fail(fold_onnx *o, fold_status status, const char *format, ...)
{
    char text[240];
    va_list args;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    o->failed = 1;
    if (o->recording) fold_ctx_fail(o->recording, status, text);
    else fold_model_fail(o->model, status, text);
    return 0;
}

/* Says why the node that is being read is refused. */
static int onnx__refuse(fold_onnx *o, const char *format, ...)
{
    char reason[160], type[ONNX__SHORT], name[ONNX__SHORT];
    va_list args;
    va_start(args, format);
    fold_format(reason, sizeof reason, format, args);
    va_end(args);
    return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: %s '%s': %s", onnx__shorten(type, o->node.type),
                      onnx__shorten(name, o->node.name), reason);
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void onnx__release(fold_onnx *o, onnx__arena *arena)
{
    const fold_memory memory = fold_model_memory(o->model); /* o itself may lie in the last chunk */
    onnx__chunk *chunk = arena->first;
    arena->first = NULL;
    while (chunk) {
        onnx__chunk *next = chunk->next;
        memory.free(chunk, chunk->size, memory.user);
        chunk = next;
    }
}

/* Takes zeroed memory. There is a budget, so that a small file cannot ask for much. */
static void *onnx__take(fold_onnx *o, onnx__arena *arena, size_t count, size_t size)
{
    enum { CHUNK = 16384, HEAD = (sizeof(onnx__chunk) + 15) / 16 * 16 };
    const fold_memory memory = fold_model_memory(o->model);
    const size_t bytes = count > o->budget / size ? SIZE_MAX / 2 : (count * size + 15) / 16 * 16;
    if (!arena->first || arena->first->size - arena->used < bytes) {
        const size_t room = bytes + HEAD > CHUNK ? bytes + HEAD : (size_t)CHUNK;
        onnx__chunk *chunk = room > o->budget ? NULL : (onnx__chunk *)memory.alloc(room, 64, memory.user);
        if (!chunk)
            return onnx__fail(o, FOLD_NO_MEMORY, room > o->budget ? "onnx: the file asks for too much memory" : "onnx: out of memory"), (void *)0;
        o->budget -= room;
        chunk->next = arena->first;
        chunk->size = room;
        arena->first = chunk;
        arena->used = HEAD;
    }
    void *taken = (unsigned char *)arena->first + arena->used;
    arena->used += bytes;
    return memset(taken, 0, bytes);
}
#define ONNX__KEPT(o, type, count) ((type *)onnx__take(o, &(o)->kept, (size_t)(count), sizeof(type)))
#define ONNX__PASSING(o, type, count) ((type *)onnx__take(o, &(o)->passing, (size_t)(count), sizeof(type)))

static const char *onnx__copy_text(fold_onnx *o, onnx__span text)
{
    const size_t size = (size_t)(text.end - text.at);
    char *copy = ONNX__KEPT(o, char, size + 1);
    if (copy && size) memcpy(copy, text.at, size);
    return copy ? copy : "";
}

/* ---- protobuf --------------------------------------------------------------------------------- */

/* A field of a message: a number, or bytes. */
typedef struct onnx__field { int number, wire; uint64_t value; onnx__span bytes; } onnx__field;
enum { ONNX__VARINT = 0, ONNX__EIGHT = 1, ONNX__BYTES = 2, ONNX__FOUR = 5 };

static int onnx__broken(fold_onnx *o, onnx__span *from)
{
    from->at = from->end;
    return o->failed ? 0 : onnx__fail(o, FOLD_IO, "onnx: the file is broken, or is no ONNX file");
}

static int onnx__varint(onnx__span *from, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; from->at < from->end && shift < 64; shift += 7) {
        const unsigned char byte = *from->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static uint64_t onnx__little(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | from[i];
    return value;
}

/* Reads the next field. Returns 0 at the end, and after an error. */
static int onnx__next(fold_onnx *o, onnx__span *from, onnx__field *field)
{
    uint64_t key;
    if (from->at == from->end || o->failed) return 0;
    if (!onnx__varint(from, &key) || key > INT_MAX) return onnx__broken(o, from);
    memset(field, 0, sizeof *field);
    field->number = (int)(key >> 3);
    field->wire = (int)(key & 7);
    field->bytes.at = field->bytes.end = from->at;
    if (field->wire == ONNX__VARINT) return onnx__varint(from, &field->value) || onnx__broken(o, from);
    size_t length = field->wire == ONNX__EIGHT ? 8 : field->wire == ONNX__FOUR ? 4 : SIZE_MAX;
    if (field->wire == ONNX__BYTES && onnx__varint(from, &key) && key < SIZE_MAX) length = (size_t)key;
    if (length > (size_t)(from->end - from->at)) return onnx__broken(o, from);
    field->bytes.at = from->at;
    from->at += length;
    field->bytes.end = from->at;
    if (field->wire != ONNX__BYTES) field->value = onnx__little(field->bytes.at, (int)length);
    return 1;
}

static int onnx__is(onnx__span text, const char *word)
{
    const size_t size = strlen(word);
    return (size_t)(text.end - text.at) == size && !memcmp(text.at, word, size);
}

/* Finds the last field of a number, as protobuf does where there are several. */
static int onnx__field_of(fold_onnx *o, onnx__span from, int number, onnx__field *found)
{
    onnx__field field;
    int there = 0;
    memset(found, 0, sizeof *found);
    while (onnx__next(o, &from, &field)) {
        if (field.number != number) continue;
        *found = field;
        there = 1;
    }
    return there;
}
static int onnx__count_of(fold_onnx *o, onnx__span from, int number)
{
    onnx__field field;
    int count = 0;
    while (onnx__next(o, &from, &field)) count += field.number == number;
    return count;
}

static float onnx__float(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}
static double onnx__double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static double onnx__half(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) value = fraction ? (double)NAN : (double)INFINITY;
    return bits >> 15 & 1 ? -value : value;
}

/* Numbers of a repeated field, packed or one by one: writes the first `most`, and returns how many there are. */
static int onnx__numbers(fold_onnx *o, onnx__span from, int number, int wire, double *out, int most)
{
    const int size = wire == ONNX__FOUR ? 4 : 8;
    onnx__field field;
    int count = 0;
    while (onnx__next(o, &from, &field)) {
        if (field.number != number) continue;
        onnx__span packed = field.bytes;
        const int alone = field.wire == wire && wire != ONNX__BYTES;
        if (!alone && field.wire != ONNX__BYTES) return onnx__broken(o, &from);
        while (alone || packed.at < packed.end) {
            uint64_t bits = field.value;
            if (!alone && wire == ONNX__VARINT && !onnx__varint(&packed, &bits)) return onnx__broken(o, &from);
            if (!alone && wire != ONNX__VARINT) {
                if (packed.end - packed.at < size) return onnx__broken(o, &from);
                bits = onnx__little(packed.at, size);
                packed.at += size;
            }
            if (count < most)
                out[count] = wire == ONNX__VARINT ? (double)(int64_t)bits : size == 4 ? (double)onnx__float(bits) : onnx__double(bits);
            if (++count == ONNX__MOST_VALUES) return onnx__broken(o, &from);
            if (alone) break;
        }
    }
    return count;
}

/* ---- values ----------------------------------------------------------------------------------- */

static uint32_t onnx__hash(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

/* The place of a name in the table, which is a free one when the name is new. */
static int *onnx__place(const fold_onnx *o, const char *name)
{
    uint32_t at = onnx__hash(name);
    while (o->named[at & (uint32_t)(o->n_named - 1)] >= 0 &&
           strcmp(o->values[o->named[at & (uint32_t)(o->n_named - 1)]].name, name))
        at++;
    return &o->named[at & (uint32_t)(o->n_named - 1)];
}
static int onnx__find(const fold_onnx *o, const char *name) { return o && name && *name ? *onnx__place(o, name) : -1; }

/* The value of a name, which is added when it is new. An empty name is none, -1. */
static int onnx__name(fold_onnx *o, onnx__span text)
{
    if (text.at == text.end) return -1;
    const char *name = onnx__copy_text(o, text);
    if (o->failed) return -1;
    int *place = onnx__place(o, name);
    if (*place >= 0) return *place;
    if (o->n_values == o->most_values) return onnx__fail(o, FOLD_IO, "onnx: the file is broken") - 1;
    o->values[o->n_values].name = name;
    return *place = o->n_values++;
}

/* Counts the values of a shape; 0 after an error. */
static int onnx__size(fold_onnx *o, const int *dim, int rank)
{
    long long count = 1;
    for (int k = 0; k < rank; k++) {
        if (dim[k] < 1) return onnx__refuse(o, "an axis of %d values", dim[k]);
        count *= dim[k];
        if (count > ONNX__MOST_VALUES) return onnx__refuse(o, "a tensor of more than %d values", (int)ONNX__MOST_VALUES);
    }
    return (int)count;
}

/* fold.h's shape of a value has no axes of 1 in front, so that shapes meet as they do in the file. Rank 0: it has too many. */
static fold_shape onnx__shape(const int *dim, int rank)
{
    fold_shape shape = { 0, { 0, 0, 0, 0 } };
    while (rank > 1 && *dim == 1) rank--, dim++;
    if (rank > FOLD_MAX_RANK) return shape;
    if (!rank) return fold_shape1(1);
    shape.rank = rank;
    memcpy(shape.dim, dim, (size_t)rank * sizeof *dim);
    return shape;
}
static fold_shape onnx__node_shape(const onnx__value *value)
{
    if (value->channels_last && value->rank == 3) return fold_shape2(value->dim[2], value->dim[1]);
    if (value->channels_last) return fold_shape3(value->dim[2], value->dim[3], value->dim[1]);
    return onnx__shape(value->dim, value->rank);
}

static int onnx__set_shape(fold_onnx *o, int index, const int *dim, int rank)
{
    onnx__value *value = &o->values[index];
    if (rank > FOLD_ONNX_RANK) return onnx__refuse(o, "more than %d axes", (int)FOLD_ONNX_RANK);
    value->rank = rank;
    if (rank) memcpy(value->dim, dim, (size_t)rank * sizeof *dim);
    value->count = onnx__size(o, value->dim, rank);
    return value->count > 0;
}

static double onnx__number(const onnx__constant *constant, int i)
{
    const unsigned char *raw = constant->raw;
    if (!raw) return constant->numbers[i];
    switch (constant->type) {
    case ONNX__FLOAT: return (double)onnx__float(onnx__little(raw + 4 * (size_t)i, 4));
    case ONNX__DOUBLE: return onnx__double(onnx__little(raw + 8 * (size_t)i, 8));
    case ONNX__HALF: return onnx__half(onnx__little(raw + 2 * (size_t)i, 2));
    case ONNX__INT64: return (double)(int64_t)onnx__little(raw + 8 * (size_t)i, 8);
    case ONNX__INT32: return (double)(int32_t)onnx__little(raw + 4 * (size_t)i, 4);
    default: return (double)raw[i];
    }
}
static int onnx__type_size(int type)
{
    static const struct { int type, size; } sizes[] = { { ONNX__FLOAT, 4 }, { ONNX__DOUBLE, 8 }, { ONNX__HALF, 2 },
                                                        { ONNX__INT64, 8 }, { ONNX__INT32, 4 },  { ONNX__BOOL, 1 } };
    for (int i = 0; i < 6; i++)
        if (sizes[i].type == type) return sizes[i].size;
    return 0;
}
static void onnx__set_type(onnx__value *value, int type)
{
    value->is_integer = type == ONNX__INT64 || type == ONNX__INT32 || type == ONNX__BOOL;
    value->is_truth = type == ONNX__BOOL;
}
static int onnx__is_fixed(const fold_onnx *o, int value) { return value >= 0 && o->values[value].origin == ONNX__FIXED; }
static int onnx__is_scalar(const fold_onnx *o, int value) { return onnx__is_fixed(o, value) && o->values[value].count == 1; }
static double onnx__scalar(const fold_onnx *o, int value) { return onnx__number(&o->values[value].constant, 0); }

/* Rounds what was computed to the value's type. */
static double onnx__round(const onnx__value *value, double number)
{
    if (!value->is_integer) return (double)(float)number;
    return value->is_truth ? number != 0 : number < 0 ? ceil(number) : floor(number);
}

/* Makes an output constant, of numbers that are to be written. */
static double *onnx__fix(fold_onnx *o, int index, const int *dim, int rank)
{
    onnx__value *value = &o->values[index];
    if (!onnx__set_shape(o, index, dim, rank)) return NULL;
    value->origin = ONNX__FIXED;
    return value->constant.numbers = ONNX__PASSING(o, double, value->count);
}

/* ---- tensors of the file ---------------------------------------------------------------------- */

#ifndef FOLD_NO_STDIO
/* Reads bytes of another file. Memory is asked for only when they are there, and counts as the file's own. */
static const unsigned char *onnx__read_part(fold_onnx *o, const char *path, size_t from, size_t size)
{
    FILE *file = fopen(path, "rb");
    char shown[ONNX__SHORT];
    unsigned char *bytes = NULL;
    onnx__shorten(shown, path);
    if (!file) return onnx__fail(o, FOLD_IO, "onnx: '%s' cannot be opened", shown), bytes;
    const long length = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size == SIZE_MAX && length >= 0) size = (size_t)length; /* all of it */
    const int there = length >= 0 && length < LONG_MAX && from <= (size_t)length && (size_t)length - from >= size;
    if (there && !fseek(file, (long)from, SEEK_SET)) {
        o->budget += size < SIZE_MAX / 16 ? 4 * size : 0;
        bytes = ONNX__PASSING(o, unsigned char, size + 1);
        if (bytes && fread(bytes, 1, size, file) != size) bytes = NULL;
    }
    fclose(file);
    if (!bytes && !o->failed) onnx__fail(o, FOLD_IO, "onnx: '%s' has too few bytes", shown);
    o->read = size;
    return bytes;
}
#endif

/* The file of a location must lie beside this one, or below. */
static int onnx__is_beside(const char *location)
{
    if (!*location || *location == '/' || strchr(location, '\\') || strchr(location, ':')) return 0;
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/')) return 0;
    }
    return 1;
}

static const unsigned char *onnx__external(fold_onnx *o, onnx__span tensor, const char *name, size_t size)
{
    onnx__field entry, key, text;
    const char *location = "", *wrong = "is in another file, and this one was opened in memory";
    uint64_t offset = 0, length = size;
    char shown[ONNX__SHORT];
    while (onnx__next(o, &tensor, &entry)) {
        if (entry.number != 13 || !onnx__field_of(o, entry.bytes, 1, &key) || !onnx__field_of(o, entry.bytes, 2, &text)) continue;
        const char *word = onnx__copy_text(o, text.bytes);
        uint64_t number = 0;
        for (const char *digit = word; *digit >= '0' && *digit <= '9' && number < UINT64_MAX / 20; digit++)
            number = 10 * number + (uint64_t)(*digit - '0');
        if (onnx__is(key.bytes, "location")) location = word;
        if (onnx__is(key.bytes, "offset")) offset = number;
        if (onnx__is(key.bytes, "length")) length = number;
    }
    if (length != size || offset > SIZE_MAX / 2) wrong = "has other data than its shape tells";
    else if (!onnx__is_beside(location)) wrong = "is in a file that does not lie beside";
#ifndef FOLD_NO_STDIO
    else if (o->folder && !o->failed) {
        char *path = ONNX__PASSING(o, char, (size_t)o->folder_length + strlen(location) + 1);
        if (!path) return NULL;
        memcpy(path, o->folder, (size_t)o->folder_length);
        memcpy(path + o->folder_length, location, strlen(location));
        return onnx__read_part(o, path, (size_t)offset, size);
    }
#endif
    if (!o->failed) onnx__fail(o, FOLD_IO, "onnx: '%s' %s", onnx__shorten(shown, name), wrong);
    return NULL;
}

/* Numbers of a tensor that has no raw data. */
static int onnx__listed(fold_onnx *o, onnx__span tensor, onnx__value *value, int type)
{
    static const struct { int type, number, wire; } fields[] = {
        { ONNX__FLOAT, 4, ONNX__FOUR }, { ONNX__DOUBLE, 10, ONNX__EIGHT }, { ONNX__INT64, 7, ONNX__VARINT },
        { ONNX__INT32, 5, ONNX__VARINT }, { ONNX__BOOL, 5, ONNX__VARINT }, { ONNX__HALF, 5, ONNX__VARINT } };
    int i = 0;
    while (fields[i].type != type) i++;
    const int there = onnx__numbers(o, tensor, fields[i].number, fields[i].wire, NULL, 0);
    if (o->failed) return 0;
    if (there != value->count) return onnx__fail(o, FOLD_IO, "onnx: '%s' has %d values, its shape tells of %d", value->name, there, value->count);
    double *numbers = value->constant.numbers = ONNX__PASSING(o, double, there);
    if (!numbers) return 0;
    onnx__numbers(o, tensor, fields[i].number, fields[i].wire, numbers, there);
    for (int k = 0; k < there && type == ONNX__HALF; k++) numbers[k] = onnx__half((uint64_t)numbers[k] & 65535);
    return 1;
}

/* Reads a TensorProto into a constant. */
static int onnx__read_tensor(fold_onnx *o, onnx__span tensor, int index)
{
    onnx__value *value = &o->values[index];
    double dim[FOLD_ONNX_RANK];
    int whole[FOLD_ONNX_RANK];
    onnx__field field;
    const int rank = onnx__numbers(o, tensor, 1, ONNX__VARINT, dim, FOLD_ONNX_RANK);
    const int type = onnx__field_of(o, tensor, 2, &field) && field.value < 64 ? (int)field.value : 0, size = onnx__type_size(type);
    if (o->failed) return 0;
    if (value->origin != ONNX__UNKNOWN) return onnx__refuse(o, "another tensor has this name");
    if (!size) return onnx__refuse(o, "values of ONNX's type %d", type);
    for (int k = 0; k < rank && k < FOLD_ONNX_RANK; k++) whole[k] = dim[k] >= 0 && dim[k] <= INT_MAX ? (int)dim[k] : -1;
    if (!onnx__set_shape(o, index, whole, rank)) return 0;
    onnx__set_type(value, type);
    value->origin = ONNX__FIXED;
    value->constant.type = type;
    if (onnx__field_of(o, tensor, 3, &field)) return onnx__refuse(o, "a segment of a tensor");
    if (onnx__field_of(o, tensor, 14, &field) && field.value == 1) {
        value->constant.raw = onnx__external(o, tensor, value->name, (size_t)value->count * (size_t)size);
        return value->constant.raw != NULL;
    }
    if (!onnx__field_of(o, tensor, 9, &field)) return onnx__listed(o, tensor, value, type);
    if ((size_t)(field.bytes.end - field.bytes.at) != (size_t)value->count * (size_t)size)
        return onnx__refuse(o, "its data have another size than its shape tells");
    value->constant.raw = field.bytes.at;
    return 1;
}

/* ---- the node that is read: attributes and inputs ---------------------------------------------- */

static int onnx__attribute(fold_onnx *o, const char *name, int number, onnx__field *found)
{
    onnx__span from = o->node.bytes;
    onnx__field field, text;
    while (onnx__next(o, &from, &field))
        if (field.number == 5 && onnx__field_of(o, field.bytes, 1, &text) && onnx__is(text.bytes, name)) {
            if (number) return onnx__field_of(o, field.bytes, number, found);
            *found = field;
            return 1;
        }
    return 0;
}
/* A whole number; one that is no int becomes the nearest. */
static int onnx__near(double number) { return number < -INT_MAX ? -INT_MAX : number > INT_MAX ? INT_MAX : (int)number; }
static int onnx__whole(fold_onnx *o, const char *name, int otherwise)
{
    onnx__field field;
    return onnx__attribute(o, name, 3, &field) ? onnx__near((double)(int64_t)field.value) : otherwise;
}
static float onnx__real(fold_onnx *o, const char *name, float otherwise)
{
    onnx__field field;
    return onnx__attribute(o, name, 2, &field) ? onnx__float(field.value) : otherwise;
}
static int onnx__has_word(fold_onnx *o, const char *name, const char *word)
{
    onnx__field field;
    return onnx__attribute(o, name, 4, &field) && onnx__is(field.bytes, word);
}

/* A list of whole numbers, of an attribute or a constant input. Returns how many; -1: it is not there; -2: an error. */
static int onnx__list(fold_onnx *o, const char *name, int input, int *out, int most)
{
    onnx__field field;
    double numbers[ONNX__MOST_OUT];
    int count = -1;
    if (name && onnx__attribute(o, name, 0, &field)) {
        count = onnx__numbers(o, field.bytes, 8, ONNX__VARINT, numbers, ONNX__MOST_OUT);
    } else if (input >= 0 && input < o->node.n_in && o->node.in[input] >= 0) {
        const onnx__value *value = &o->values[o->node.in[input]];
        if (value->origin != ONNX__FIXED) return onnx__refuse(o, "'%s' is not constant", value->name) - 2;
        count = value->count;
        for (int i = 0; i < count && i < ONNX__MOST_OUT; i++) numbers[i] = onnx__number(&value->constant, i);
    }
    if (o->failed) return -2;
    if (count > most || count > ONNX__MOST_OUT) return onnx__refuse(o, "a list of %d numbers", count) - 2;
    for (int i = 0; i < count; i++) out[i] = onnx__near(numbers[i]);
    return count;
}

/* An axis from 0 on; -1 after an error. */
static int onnx__axis(fold_onnx *o, int axis, int rank)
{
    if (axis < -rank || axis >= rank) return onnx__refuse(o, "axis %d of %d axes", axis, rank) - 1;
    return axis < 0 ? axis + rank : axis;
}
static onnx__value *onnx__input(fold_onnx *o, int i) { return &o->values[o->node.in[i]]; }
static int onnx__has_input(const fold_onnx *o, int i) { return i < o->node.n_in && o->node.in[i] >= 0; }
/* An output; where it has no name, it is nobody's, and has a place of its own. */
static int onnx__output(fold_onnx *o, int i) { return o->node.out[i]; }

static int onnx__all_fixed(const fold_onnx *o)
{
    for (int i = 0; i < o->node.n_in; i++)
        if (o->node.in[i] >= 0 && !onnx__is_fixed(o, o->node.in[i])) return 0;
    return 1;
}

/* ---- parameters ------------------------------------------------------------------------------- */

/* Forms in which a constant is a parameter. */
enum { ONNX__AS_IT_IS, ONNX__AS_VECTOR, ONNX__AS_MATRIX, ONNX__AS_TRANSPOSED, ONNX__AS_FILTER, ONNX__AS_ZEROS, ONNX__AS_OTHER };

/* Makes a parameter of a value's name, and returns its values to write to. Returns NULL when there is one of this form, and
   after an error. */
static float *onnx__parameter(fold_onnx *o, int value, int form, fold_shape shape, unsigned uses, int frozen, float scale,
                              fold_param *param)
{
    fold_param_desc desc = fold_param_desc_default();
    char name[128];
    for (int i = 0; i < o->n_weights; i++)
        if (o->weights[i].value == value && o->weights[i].form == form && memcmp(&o->weights[i].scale, &scale, sizeof scale) == 0) {
            *param = o->weights[i].param;
            return NULL;
        }
    if (o->n_weights == 2 * o->most_values) return onnx__refuse(o, "too many parameters"), (float *)0;
    onnx__format(name, sizeof name, "%s%s", o->desc.prefix ? o->desc.prefix : "", o->values[value].name);
    for (int i = 0; i < o->n_weights; i++) /* a name stands for the first form, others say which they are */
        if (o->weights[i].value == value) {
            onnx__format(name, sizeof name, "%s%s.%d", o->desc.prefix ? o->desc.prefix : "", o->values[value].name, o->n_weights);
            break;
        }
    desc.name = name;
    desc.shape = shape;
    desc.uses = uses;
    desc.frozen = frozen || !o->values[value].constant.raw || o->values[value].is_integer;
    *param = fold_param_new(o->model, &desc);
    if (fold_param_is_null(*param)) return o->failed = 1, (float *)0;
    o->weights[o->n_weights].value = value;
    o->weights[o->n_weights].form = form;
    o->weights[o->n_weights].scale = scale;
    o->weights[o->n_weights++].param = *param;
    return fold_values_write_begin(o->model, *param);
}
static void onnx__end(fold_onnx *o, fold_param param)
{
    fold_values_write_end(o->model, param);
    if (fold_model_status(o->model)) o->failed = 1;
}

/* A constant that ops read like any value. A matrix is kept as a line, since it is no weight of products. */
static int onnx__use_constant(fold_onnx *o, int index, int frozen)
{
    onnx__value *value = &o->values[index];
    fold_shape shape = onnx__shape(value->dim, value->rank);
    if (!fold_param_is_null(value->param)) {
        if (frozen) fold_param_freeze(o->model, value->param, 1);
        return 1;
    }
    if (!shape.rank) return onnx__refuse(o, "more than %d axes", (int)FOLD_MAX_RANK);
    float *out = onnx__parameter(o, index, ONNX__AS_IT_IS, shape.rank == 2 ? fold_shape1(value->count) : shape, 0, frozen, 1,
                                 &value->param);
    if (!out) return 0;
    for (int i = 0; i < value->count; i++) out[i] = (float)onnx__number(&value->constant, i);
    onnx__end(o, value->param);
    return !o->failed;
}

/* A vector that is `scale` times a constant, or zeros where there is none. A constant of one value is repeated. */
static int onnx__vector(fold_onnx *o, int index, int count, float scale, fold_param *param)
{
    const onnx__value *value = index < 0 ? NULL : &o->values[index];
    if (!value) return 1;
    if (value->origin != ONNX__FIXED) return onnx__refuse(o, "'%s' is not constant", value->name);
    if (value->count != count && value->count != 1) return onnx__refuse(o, "'%s' has %d values, not %d", value->name, value->count, count);
    float *out = onnx__parameter(o, index, ONNX__AS_VECTOR + 8 * count, fold_shape1(count), 0, 0, scale, param);
    for (int i = 0; out && i < count; i++) out[i] = scale * (float)onnx__number(&value->constant, value->count == 1 ? 0 : i);
    if (out) onnx__end(o, *param);
    return !o->failed;
}

/* Zeros that never train, for a bias that is not there, of the value beside it. */
static int onnx__zeros(fold_onnx *o, int beside, int count, fold_param *param)
{
    if (onnx__parameter(o, beside, ONNX__AS_ZEROS, fold_shape1(count), 0, 1, 1, param)) onnx__end(o, *param);
    return !o->failed;
}

/* A weight [inputs x outputs] that is `scale` times a constant, or its transpose. */
static int onnx__matrix(fold_onnx *o, int index, int transposed, float scale, fold_param *param)
{
    const onnx__value *value = &o->values[index];
    const int rows = value->dim[transposed], columns = value->dim[!transposed];
    float *out = onnx__parameter(o, index, transposed ? ONNX__AS_TRANSPOSED : ONNX__AS_MATRIX, fold_shape2(rows, columns),
                                 FOLD_FOR_LINEAR, 0, scale, param);
    for (int i = 0; out && i < rows; i++)
        for (int k = 0; k < columns; k++)
            out[(size_t)i * (size_t)columns + (size_t)k] =
                scale * (float)onnx__number(&value->constant, transposed ? k * rows + i : i * columns + k);
    if (out) onnx__end(o, *param);
    return !o->failed;
}

/* ---- moves ------------------------------------------------------------------------------------ */

/* Says where every element of a result comes from: from the sum over its axes of at[axis][index], or, if one of them is -1,
   from nowhere. Everything that only moves elements is such a view. */
typedef struct onnx__view { int rank, count[FOLD_ONNX_RANK], *at[FOLD_ONNX_RANK]; float pad; } onnx__view;

static int *onnx__view_axis(fold_onnx *o, onnx__view *view, int axis, int count, int step)
{
    int *at = ONNX__PASSING(o, int, count);
    for (int i = 0; at && i < count; i++) at[i] = i * step;
    view->count[axis] = count;
    return view->at[axis] = at;
}

/* The view of all elements where they are. */
static onnx__view onnx__view_of(fold_onnx *o, const int *dim, int rank)
{
    onnx__view view;
    memset(&view, 0, sizeof view);
    view.rank = rank;
    for (int k = rank, step = 1; k-- > 0 && !o->failed; step *= dim[k]) onnx__view_axis(o, &view, k, dim[k], step);
    return view;
}

static int *onnx__sources(fold_onnx *o, const onnx__view *view, int *count)
{
    int index[FOLD_ONNX_RANK] = { 0 };
    if (o->failed || (*count = onnx__size(o, view->count, view->rank)) < 1) return NULL;
    int *source = ONNX__PASSING(o, int, *count);
    for (int i = 0; source && i < *count; i++) {
        for (int k = 0; k < view->rank && source[i] >= 0; k++) {
            const int at = view->at[k][index[k]];
            source[i] = at < 0 ? -1 : source[i] + at;
        }
        for (int k = view->rank; k-- > 0;) {
            if (++index[k] < view->count[k]) break;
            index[k] = 0;
        }
    }
    return source;
}

/* Ops of fold.h's kind. Their attributes are the dimensions of the result. */
static const char *onnx__infer_attributes(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)in, (void)n_in;
    out[0].rank = 0;
    while (out[0].rank < FOLD_MAX_RANK && attr[out[0].rank]) out[0].dim[out[0].rank] = (int)attr[out[0].rank], out[0].rank++;
    return NULL;
}
static fold_node onnx__apply_own(fold_ctx *f, fold_op op, const fold_node *in, int n_in, fold_shape shape)
{
    int32_t attr[FOLD_MAX_RANK] = { 0, 0, 0, 0 };
    for (int k = 0; k < shape.rank; k++) attr[k] = (int32_t)shape.dim[k];
    return fold_op_apply(f, op, in, n_in, attr, 0);
}
static int onnx__own_op(fold_onnx *o, const char *name, int n_in, void (*forward)(const fold_op_call *),
                        void (*backward)(const fold_op_call *), const void *user, fold_op *op)
{
    fold_op_desc desc = fold_op_desc_default();
    desc.name = name;
    desc.n_in = n_in;
    desc.n_out = 1;
    desc.n_attr = FOLD_MAX_RANK;
    desc.infer = onnx__infer_attributes;
    desc.forward = forward;
    desc.backward = backward;
    desc.needs = backward ? FOLD_NEEDS_IN : 0;
    desc.user = (void *)(uintptr_t)user;
    *op = fold_op_new(o->model, &desc);
    if (fold_model_status(o->model)) o->failed = 1;
    return !o->failed;
}

static int onnx__elements(fold_shape shape)
{
    int count = 1;
    for (int k = 0; k < shape.rank; k++) count *= shape.dim[k];
    return count;
}
static void onnx__move_row(const onnx__move *move, const float *in, float *out)
{
    const int runs = move->count / move->run, run = move->run, *source = move->source;
    if (run == 1 && !move->has_pad) {
        for (int i = 0; i < runs; i++) out[i] = in[source[i]];
        return;
    }
    for (int i = 0; i < runs; i++, out += run) {
        if (source[i] >= 0) memcpy(out, in + source[i], (size_t)run * sizeof *out);
        else
            for (int k = 0; k < run; k++) out[k] = move->pad;
    }
}
static void onnx__move_forward(const fold_op_call *c)
{
    for (int row = 0; row < c->rows; row++) onnx__move_row((const onnx__move *)c->user, fold_row(&c->in[0], row), fold_row(&c->out[0], row));
}
static void onnx__move_backward(const fold_op_call *c)
{
    const onnx__move *move = (const onnx__move *)c->user;
    const int runs = move->count / move->run, count = onnx__elements(c->in_shape[0]);
    for (int row = 0; row < c->rows; row++) {
        float *in = fold_row(&c->din[0], row);
        const float *out = fold_row(&c->dout[0], row);
        if (!in) return;
        memset(in, 0, (size_t)count * sizeof *in);
        for (int i = 0; i < runs; i++, out += move->run)
            for (int k = 0; k < move->run && move->source[i] >= 0; k++) in[move->source[i] + k] += out[k];
    }
}

/* The longest runs of neighbours, all of one length. */
static int onnx__run_length(const int *source, int count)
{
    int run = 0;
    for (int i = 0, begin = 0; i < count; i++) {
        const int goes_on = i + 1 < count && (source[i] < 0 ? source[i + 1] < 0 : source[i + 1] == source[i] + 1);
        if (goes_on) continue;
        int a = i + 1 - begin, b = run;
        while (b) {
            const int rest = a % b;
            a = b;
            b = rest;
        }
        run = a;
        begin = i + 1;
    }
    return run;
}

/* Makes the move of a view over a value of these dimensions, into the shape dim. */
static onnx__move *onnx__new_move(fold_onnx *o, const onnx__value *from, const onnx__view *view, fold_shape shape)
{
    int count = 0;
    int *source = onnx__sources(o, view, &count);
    onnx__move *move = source ? ONNX__KEPT(o, onnx__move, 1) : NULL;
    if (!move) return NULL;
    if (from->channels_last) {
        const int channels = from->dim[1], pixels = from->count / channels;
        for (int i = 0; i < count; i++)
            if (source[i] >= 0) source[i] = source[i] % pixels * channels + source[i] / pixels;
    }
    move->shape = shape;
    move->run = onnx__run_length(source, count);
    move->count = count;
    move->pad = view->pad;
    move->from = source[0];
    move->is_window = source[0] >= 0 && move->run == count;
    if (move->is_window) return move;
    int *runs = ONNX__KEPT(o, int, count / move->run);
    for (int i = 0; runs && i < count / move->run; i++) {
        runs[i] = source[i * move->run];
        move->has_pad |= runs[i] < 0;
    }
    move->source = runs;
    return runs && onnx__own_op(o, "onnx move", 1, onnx__move_forward, onnx__move_backward, move, &move->op) ? move : NULL;
}

static int onnx__same_shape(fold_shape a, fold_shape b)
{
    return a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
}
static fold_node onnx__reshape(fold_ctx *f, fold_node x, fold_shape shape)
{
    return onnx__same_shape(fold_node_shape(f, x), shape) ? x : fold_reshape(f, x, shape);
}
static fold_node onnx__apply_move(fold_ctx *f, const onnx__move *move, fold_node x)
{
    if (!move->is_window) return onnx__apply_own(f, move->op, &x, 1, move->shape);
    const int all = onnx__elements(fold_node_shape(f, x));
    if (move->from || move->count != all) x = fold_slice(f, onnx__reshape(f, x, fold_shape1(all)), 0, move->from, move->count);
    return onnx__reshape(f, x, move->shape);
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* Adds a step for the node that is read. Its inputs and outputs are set by the callers. */
static onnx__step *onnx__new_step(fold_onnx *o, onnx__recorder *record, int n_in, int n_out)
{
    if (o->failed) return NULL;
    if (o->n_steps == o->most_steps) return onnx__refuse(o, "too many steps"), (onnx__step *)0;
    onnx__step *step = &o->steps[o->n_steps];
    step->record = record;
    step->op = o->node.op;
    step->n_in = n_in;
    step->n_out = n_out;
    step->in = ONNX__KEPT(o, onnx__operand, n_in);
    step->out = ONNX__KEPT(o, int, n_out);
    step->after = ONNX__KEPT(o, onnx__move *, n_out);
    step->nodes = ONNX__KEPT(o, fold_node, n_in + n_out);
    if (o->failed) return NULL;
    for (int i = 0; i < n_in; i++) step->in[i].value = -1;
    for (int i = 0; i < n_out; i++) step->out[i] = -1;
    o->n_steps++;
    return step;
}

/* Sets what a step reads: a view, or NULL for the value as it is. */
static int onnx__reads_view(fold_onnx *o, onnx__step *step, int i, int index, const onnx__view *view, fold_shape shape)
{
    if (o->failed || !step) return 0;
    onnx__value *value = &o->values[index];
    step->in[i].value = index;
    if (value->origin == ONNX__FIXED && !onnx__use_constant(o, index, o->node.op->flags & ONNX__FREEZES)) return 0;
    if (!view) return 1;
    if (!shape.rank) return onnx__refuse(o, "more than %d axes", (int)FOLD_MAX_RANK);
    step->in[i].move = onnx__new_move(o, value, view, shape);
    return !o->failed;
}
static int onnx__reads_shape(fold_onnx *o, onnx__step *step, int i, int index, fold_shape shape)
{
    const onnx__view view = onnx__view_of(o, o->values[index].dim, o->values[index].rank);
    return onnx__reads_view(o, step, i, index, &view, shape);
}
static int onnx__reads(fold_onnx *o, onnx__step *step, int i, int index)
{
    const onnx__value *value = &o->values[index];
    if (!value->channels_last) return onnx__reads_view(o, step, i, index, NULL, fold_shape1(1));
    return onnx__reads_shape(o, step, i, index, onnx__shape(value->dim, value->rank));
}

/* Sets what a step makes, a float of this shape unless the caller changes it. */
static onnx__value *onnx__makes(fold_onnx *o, onnx__step *step, int i, int index, const int *dim, int rank)
{
    if (o->failed || !step || index < 0) return NULL;
    onnx__value *value = &o->values[index];
    if (!onnx__set_shape(o, index, dim, rank)) return NULL;
    if (!onnx__shape(dim, rank).rank) return onnx__refuse(o, "more than %d axes", (int)FOLD_MAX_RANK), (onnx__value *)0;
    value->origin = ONNX__COMPUTED;
    value->step = (int)(step - o->steps);
    step->out[i] = index;
    return value;
}
static void onnx__record_same(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    (void)r, (void)step;
    out[0] = in[0];
}

/* Makes an output of a view over an input, whether that is constant or not. */
static int onnx__emit_view(fold_onnx *o, int index, const onnx__view *view, int out, const int *dim, int rank)
{
    onnx__value *from = &o->values[index], *to = &o->values[out];
    const int fixed = from->origin == ONNX__FIXED;
    if (o->failed) return 0;
    to->is_integer = from->is_integer;
    to->is_truth = from->is_truth;
    if (fixed) {
        int count = 0;
        const int *source = onnx__sources(o, view, &count);
        double *numbers = source ? onnx__fix(o, out, dim, rank) : NULL;
        for (int i = 0; numbers && i < count; i++)
            numbers[i] = source[i] < 0 ? (double)view->pad : onnx__number(&from->constant, source[i]);
        return numbers != NULL;
    }
    onnx__step *step = onnx__new_step(o, onnx__record_same, 1, 1);
    if (!onnx__reads_view(o, step, 0, index, view, onnx__shape(dim, rank))) return 0;
    return onnx__makes(o, step, 0, out, dim, rank) != NULL;
}

/* ---- ops of elements -------------------------------------------------------------------------- */

static double onnx__add(double a, double b) { return a + b; }
static double onnx__sub(double a, double b) { return a - b; }
static double onnx__mul(double a, double b) { return a * b; }
static double onnx__div(double a, double b) { return a / b; }
static double onnx__pow(double a, double b) { return pow(a, b); }
static double onnx__min(double a, double b) { return isnan(a) || a < b ? a : b; }
static double onnx__max(double a, double b) { return isnan(a) || a > b ? a : b; }
static double onnx__less(double a, double b) { return a < b; }
static double onnx__less_equal(double a, double b) { return a <= b; }
static double onnx__greater(double a, double b) { return a > b; }
static double onnx__greater_equal(double a, double b) { return a >= b; }
static double onnx__equal(double a, double b) { return a == b; } /* NaN equals nothing */
static double onnx__and(double a, double b) { return a != 0 && b != 0; }
static double onnx__or(double a, double b) { return a != 0 || b != 0; }
static double onnx__not(double a, double b) { return (void)b, a == 0; }
static double onnx__not_zero(double a, double b) { return (void)b, a != 0; }
static double onnx__trunc(double a, double b) { return (void)b, a < 0 ? ceil(a) : floor(a); }
static double onnx__neg(double a, double b) { return (void)b, -a; }
static double onnx__abs(double a, double b) { return (void)b, fabs(a); }
static double onnx__exp(double a, double b) { return (void)b, exp(a); }
static double onnx__log(double a, double b) { return (void)b, log(a); }
static double onnx__sqrt(double a, double b) { return (void)b, sqrt(a); }
static double onnx__floor(double a, double b) { return (void)b, floor(a); }
static double onnx__erf(double a, double b) { return (void)b, erf(a); }
static double onnx__reciprocal(double a, double b) { return (void)b, 1 / a; }

/* The shape in which shapes meet, as in fold.h. Returns its rank, or -1 after an error. */
static int onnx__meet(fold_onnx *o, const onnx__value *a, const int *dim, int rank, int *out)
{
    int result[FOLD_ONNX_RANK];
    const int most = a->rank > rank ? a->rank : rank;
    for (int k = 0; k < most; k++) {
        const int x = k + a->rank < most ? 1 : a->dim[k + a->rank - most], y = k + rank < most ? 1 : dim[k + rank - most];
        if (x != y && x != 1 && y != 1) return onnx__refuse(o, "axes of %d and %d values do not meet", x, y) - 1;
        result[k] = x == 1 ? y : x;
    }
    memcpy(out, result, (size_t)most * sizeof *out);
    return most;
}

/* A value, repeated to a shape that it meets. */
static onnx__view onnx__repeated(fold_onnx *o, const onnx__value *value, const int *dim, int rank)
{
    const onnx__view alone = onnx__view_of(o, value->dim, value->rank);
    onnx__view view = onnx__view_of(o, dim, rank);
    for (int k = 0; k < rank && !o->failed; k++) {
        const int own = k - (rank - value->rank), repeats = own < 0 || value->dim[own] == 1;
        if (repeats) onnx__view_axis(o, &view, k, dim[k], 0);
        else view.at[k] = alone.at[own];
    }
    return view;
}

static int onnx__is_whole(const fold_onnx *o, int index) /* whole numbers that only are known when a sample runs */
{
    return index >= 0 && o->values[index].is_integer && o->values[index].origin != ONNX__FIXED;
}
static int onnx__takes_floats(fold_onnx *o)
{
    for (int i = 0; i < o->node.n_in; i++)
        if (onnx__is_whole(o, o->node.in[i]) && !(o->node.op->flags & ONNX__INTEGERS))
            return onnx__refuse(o, "'%s' has whole numbers that are no constants", onnx__input(o, i)->name);
    return 1;
}

/* Computes an output of constants, one or two. */
static int onnx__compute(fold_onnx *o, const int *dim, int rank)
{
    int *source[2], count = 0;
    onnx__value *out = &o->values[onnx__output(o, 0)];
    const int whole = onnx__input(o, 0)->is_integer && onnx__input(o, o->node.n_in - 1)->is_integer;
    double *numbers = onnx__fix(o, onnx__output(o, 0), dim, rank);
    for (int i = 0; numbers && i < 2; i++) {
        const onnx__view view = onnx__repeated(o, onnx__input(o, i < o->node.n_in ? i : 0), dim, rank);
        source[i] = onnx__sources(o, &view, &count);
    }
    if (o->failed) return 0;
    out->is_truth = (o->node.op->flags & ONNX__TRUTH) != 0;
    out->is_integer = out->is_truth || whole;
    for (int i = 0; i < count; i++) {
        const double a = onnx__number(&onnx__input(o, 0)->constant, source[0][i]);
        const double b = onnx__number(&onnx__input(o, o->node.n_in - 1)->constant, source[1][i]);
        if (whole && o->node.op->number == onnx__div && b == 0) return onnx__refuse(o, "a division by 0");
        numbers[i] = onnx__round(out, o->node.op->number(a, b));
    }
    return 1;
}

static void onnx__record_one(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = step->op->one(r->f, in[0]);
}
/* An op of one input keeps the order in which its elements lie. */
static onnx__step *onnx__one_step(fold_onnx *o, onnx__recorder *record)
{
    onnx__value *from = onnx__input(o, 0);
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, record, 1, 1) : NULL;
    if (!onnx__reads_view(o, step, 0, o->node.in[0], NULL, fold_shape1(1))) return NULL;
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), from->dim, from->rank);
    if (!out) return NULL;
    out->channels_last = from->channels_last;
    return step;
}
static int onnx__open_one(fold_onnx *o)
{
    if (onnx__all_fixed(o) && o->node.op->number) return onnx__compute(o, onnx__input(o, 0)->dim, onnx__input(o, 0)->rank);
    return onnx__one_step(o, onnx__record_one) != NULL;
}

static void onnx__record_alpha(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = step->number[0] ? fold_elu(r->f, in[0], step->real[0]) : fold_leaky_relu(r->f, in[0], step->real[0]);
}
static int onnx__open_alpha(fold_onnx *o)
{
    onnx__step *step = onnx__one_step(o, onnx__record_alpha);
    if (!step) return 0;
    step->number[0] = !strcmp(o->node.type, "Elu");
    step->real[0] = onnx__real(o, "alpha", step->number[0] ? 1.0f : 0.01f);
    return isfinite(step->real[0]) || onnx__refuse(o, "alpha is not finite");
}
static void onnx__record_gelu(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = step->number[0] ? fold_gelu_tanh(r->f, in[0]) : fold_gelu(r->f, in[0]);
}
static int onnx__open_gelu(fold_onnx *o)
{
    onnx__step *step = onnx__one_step(o, onnx__record_gelu);
    if (step) step->number[0] = onnx__has_word(o, "approximate", "tanh");
    return step != NULL;
}
static void onnx__record_clip(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = fold_clip(r->f, in[0], step->real[0], step->real[1]);
}
static int onnx__open_clip(fold_onnx *o)
{
    float bound[2] = { onnx__real(o, "min", -INFINITY), onnx__real(o, "max", INFINITY) };
    for (int i = 0; i < 2; i++) {
        if (!onnx__has_input(o, i + 1)) continue;
        if (!onnx__is_scalar(o, o->node.in[i + 1])) return onnx__refuse(o, "a bound that is not constant");
        bound[i] = (float)onnx__scalar(o, o->node.in[i + 1]);
    }
    if (!(bound[0] <= bound[1])) return onnx__refuse(o, "bounds that leave nothing between them");
    onnx__step *step = onnx__one_step(o, onnx__record_clip);
    if (!step) return 0;
    step->real[0] = bound[0];
    step->real[1] = bound[1];
    return 1;
}

/* Ops that fold.h has not, element by element, of equal shapes. No gradient passes, but through Erf. */
static void onnx__map_forward(const fold_op_call *c)
{
    const onnx__op *op = (const onnx__op *)c->user;
    const int count = onnx__elements(c->out_shape[0]);
    for (int row = 0; row < c->rows; row++) {
        const float *a = fold_row(&c->in[0], row), *b = fold_row(&c->in[c->n_in - 1], row);
        float *out = fold_row(&c->out[0], row);
        for (int i = 0; i < count; i++) out[i] = (float)op->number((double)a[i], (double)b[i]);
    }
}
static void onnx__erf_backward(const fold_op_call *c)
{
    const int count = onnx__elements(c->in_shape[0]);
    for (int row = 0; row < c->rows && fold_row(&c->din[0], row); row++)
        for (int i = 0; i < count; i++) {
            const double x = (double)fold_row(&c->in[0], row)[i];
            fold_row(&c->din[0], row)[i] = (float)(1.1283791670955126 * exp(-x * x)) * fold_row(&c->dout[0], row)[i];
        }
}
static void onnx__record_own(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = onnx__apply_own(r->f, step->own, in, step->n_in, fold_node_shape(r->f, in[0]));
}
static int onnx__open_map(fold_onnx *o)
{
    const onnx__op *op = o->node.op;
    int dim[FOLD_ONNX_RANK];
    const onnx__value *last = onnx__input(o, o->node.n_in - 1);
    const int rank = onnx__meet(o, onnx__input(o, 0), last->dim, last->rank, dim);
    if (rank < 0) return 0;
    if (onnx__all_fixed(o)) return onnx__compute(o, dim, rank);
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_own, o->node.n_in, 1) : NULL;
    for (int i = 0; i < o->node.n_in && !o->failed; i++) {
        const onnx__view view = onnx__repeated(o, onnx__input(o, i), dim, rank);
        onnx__reads_view(o, step, i, o->node.in[i], &view, onnx__shape(dim, rank));
    }
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank);
    if (!out) return 0;
    out->is_truth = (op->flags & ONNX__TRUTH) != 0;
    out->is_integer = out->is_truth || (op->number == onnx__pow && onnx__is_whole(o, o->node.in[0]));
    return onnx__own_op(o, op->type, step->n_in, onnx__map_forward, op->number == onnx__erf ? onnx__erf_backward : NULL, op, &step->own);
}

static void onnx__record_two(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = step->op->two(r->f, in[0], in[1]);
}
/* One operand is a number: it is data, so that calls with other numbers batch together. */
static void onnx__record_number(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    const float number = step->real[0];
    const fold_node x = in[step->number[0]];
    if (step->op->number == onnx__mul) out[0] = fold_scale(r->f, x, number);
    else if (step->op->number == onnx__add) out[0] = fold_shift(r->f, x, number);
    else if (step->number[0] == 0) out[0] = fold_shift(r->f, x, -number);
    else out[0] = fold_shift(r->f, fold_neg(r->f, x), number);
}

static void onnx__record_silu(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    (void)step;
    out[0] = fold_silu(r->f, in[0]);
}
static onnx__recorder onnx__record_linear;

/* x sigmoid(x), and a product with its bias, are one call of fold.h. The step before then only runs if it is asked for. Returns
   whether it is so. */
static int onnx__joins(fold_onnx *o)
{
    for (int side = 0; side < 2; side++) {
        const int other = o->node.in[!side];
        const onnx__value *made = onnx__input(o, side), *bias = &o->values[other];
        if (made->origin != ONNX__COMPUTED) continue;
        const onnx__step *before = &o->steps[made->step];
        const int silu = o->node.op->number == onnx__mul && before->op->one == fold_sigmoid && before->in[0].value == other;
        const int row = bias->origin == ONNX__FIXED && bias->rank && bias->rank <= made->rank && bias->count == bias->dim[bias->rank - 1];
        const int adds = o->node.op->number == onnx__add && before->record == onnx__record_linear && before->n_in == 1 && row &&
                         bias->count == made->dim[made->rank - 1];
        onnx__step *step = silu || adds ? onnx__new_step(o, silu ? onnx__record_silu : onnx__record_linear, 1, 1) : NULL;
        if (!step) continue;
        step->in[0] = before->in[0];
        step->param[0] = before->param[0];
        if (adds && !onnx__vector(o, other, bias->count, 1, &step->param[1])) return 0;
        onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), made->dim, made->rank);
        if (out) out->channels_last = made->channels_last;
        return 1;
    }
    return 0;
}

static int onnx__open_two(fold_onnx *o)
{
    onnx__value *a = onnx__input(o, 0), *b = onnx__input(o, 1);
    int dim[FOLD_ONNX_RANK];
    if (onnx__joins(o) || o->failed) return !o->failed;
    const int rank = onnx__meet(o, a, b->dim, b->rank, dim), by_number = o->node.op->number != onnx__div;
    if (rank < 0) return 0;
    if (onnx__all_fixed(o)) return onnx__compute(o, dim, rank);
    if (!onnx__takes_floats(o)) return 0;
    const int number = !by_number ? -1 : onnx__is_scalar(o, o->node.in[1]) ? 1 : onnx__is_scalar(o, o->node.in[0]) ? 0 : -1;
    const int scalar = number >= 0 && isfinite((float)onnx__scalar(o, o->node.in[number]));
    onnx__step *step = onnx__new_step(o, scalar ? onnx__record_number : onnx__record_two, 2, 1);
    if (!step) return 0;
    if (scalar) {
        step->number[0] = !number;
        step->real[0] = (float)onnx__scalar(o, o->node.in[number]);
    }
    const int side = number >= 0 && rank == o->values[o->node.in[!number]].rank ? !number : -1; /* keeps the order of its elements */
    const int both = a->channels_last && b->channels_last && a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim);
    const int last = both || (side >= 0 && scalar && o->values[o->node.in[side]].channels_last);
    for (int i = 0; i < 2; i++) {
        if (scalar && i == number) continue;
        if (last) onnx__reads_view(o, step, i, o->node.in[i], NULL, fold_shape1(1));
        else onnx__reads(o, step, i, o->node.in[i]);
    }
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank);
    if (out) out->channels_last = last;
    return out != NULL;
}
/* Min, Max, Sum of any number: from the left, two by two. */
static void onnx__record_many(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = in[0];
    for (int i = 1; i < step->n_in; i++) out[0] = step->op->two(r->f, out[0], in[i]);
}
static int onnx__open_many(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK], rank = 0;
    for (int i = 0; i < o->node.n_in && rank >= 0; i++) rank = onnx__meet(o, onnx__input(o, i), dim, rank, dim);
    if (rank < 0) return 0;
    if (onnx__all_fixed(o) && o->node.n_in <= 2) return onnx__compute(o, dim, rank);
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_many, o->node.n_in, 1) : NULL;
    for (int i = 0; i < o->node.n_in && !o->failed; i++) onnx__reads(o, step, i, o->node.in[i]);
    return onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank) != NULL;
}

static void onnx__record_pow(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = step->real[0] == 2 ? fold_square(r->f, in[0]) : fold_pow(r->f, in[0], step->real[0]);
}
static int onnx__open_pow(fold_onnx *o)
{
    const int scalar = onnx__is_scalar(o, o->node.in[1]) && onnx__input(o, 1)->rank <= onnx__input(o, 0)->rank;
    if (!scalar || onnx__all_fixed(o) || onnx__is_whole(o, o->node.in[0])) return onnx__open_map(o);
    const float exponent = (float)onnx__scalar(o, o->node.in[1]);
    if (!isfinite(exponent)) return onnx__refuse(o, "an exponent that is not finite");
    onnx__step *step = onnx__one_step(o, onnx__record_pow);
    if (step) step->real[0] = exponent;
    return step != NULL;
}

static int onnx__open_cast(fold_onnx *o)
{
    const int to = onnx__whole(o, "to", 0);
    const onnx__value *from = onnx__input(o, 0);
    onnx__value *out = &o->values[onnx__output(o, 0)], type;
    const int fixed = from->origin == ONNX__FIXED, rounds = !fixed && !from->is_integer;
    static const onnx__op whole = { "Cast", 1, 1, "", NULL, NULL, NULL, onnx__trunc, 0 };
    static const onnx__op truth = { "Cast", 1, 1, "", NULL, NULL, NULL, onnx__not_zero, ONNX__INTEGERS | ONNX__TRUTH };
    memset(&type, 0, sizeof type);
    onnx__set_type(&type, to);
    if (!onnx__type_size(to) || (to == ONNX__HALF && rounds)) return onnx__refuse(o, "to ONNX's type %d", to);
    if (!fixed && type.is_integer && !(from->is_truth || (from->is_integer && !type.is_truth))) {
        o->node.op = type.is_truth ? &truth : &whole;
        if (!onnx__open_map(o)) return 0;
    } else {
        const onnx__view view = onnx__view_of(o, from->dim, from->rank);
        if (!onnx__emit_view(o, o->node.in[0], &view, onnx__output(o, 0), from->dim, from->rank)) return 0;
    }
    out->is_integer = type.is_integer;
    out->is_truth = type.is_truth;
    for (int i = 0; fixed && i < out->count; i++) out->constant.numbers[i] = onnx__round(out, out->constant.numbers[i]);
    return 1;
}

static void onnx__record_where(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    (void)step;
    out[0] = fold_select(r->f, in[0], in[1], in[2]);
}
static int onnx__open_where(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK], rank = 0, count = 0, *source[3] = { NULL, NULL, NULL };
    onnx__view view[3];
    for (int i = 0; i < 3 && rank >= 0; i++) rank = onnx__meet(o, onnx__input(o, i), dim, rank, dim);
    if (rank < 0) return 0;
    for (int i = 0; i < 3; i++) view[i] = onnx__repeated(o, onnx__input(o, i), dim, rank);
    const int fixed = onnx__all_fixed(o);
    onnx__step *step = fixed ? NULL : onnx__new_step(o, onnx__record_where, 3, 1);
    for (int i = 0; i < 3 && !o->failed; i++) {
        if (fixed) source[i] = onnx__sources(o, &view[i], &count);
        else onnx__reads_view(o, step, i, o->node.in[i], &view[i], onnx__shape(dim, rank));
    }
    onnx__value *out = &o->values[onnx__output(o, 0)];
    out->is_integer = onnx__input(o, 1)->is_integer && onnx__input(o, 2)->is_integer;
    out->is_truth = onnx__input(o, 1)->is_truth && onnx__input(o, 2)->is_truth;
    if (!fixed) return onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank) != NULL;
    double *numbers = o->failed ? NULL : onnx__fix(o, onnx__output(o, 0), dim, rank);
    for (int i = 0; numbers && i < count; i++) {
        const int which = onnx__number(&onnx__input(o, 0)->constant, source[0][i]) != 0 ? 1 : 2;
        numbers[i] = onnx__number(&onnx__input(o, which)->constant, source[which][i]);
    }
    return numbers != NULL;
}

/* ---- ops that move elements -------------------------------------------------------------------- */

/* Gives an input another shape. */
static int onnx__emit_shape(fold_onnx *o, const int *dim, int rank)
{
    const onnx__value *from = onnx__input(o, 0);
    const onnx__view view = onnx__view_of(o, from->dim, from->rank);
    const int count = o->failed ? 0 : onnx__size(o, dim, rank);
    if (!count) return 0;
    if (count != from->count) return onnx__refuse(o, "%d values into a shape of %d, for a batch of 1", from->count, count);
    return onnx__emit_view(o, o->node.in[0], &view, onnx__output(o, 0), dim, rank);
}
static int onnx__open_same(fold_onnx *o)
{
    if (onnx__has_input(o, 2) && (!onnx__is_scalar(o, o->node.in[2]) || onnx__scalar(o, o->node.in[2]) != 0))
        return onnx__refuse(o, "a mode of training"); /* of Dropout */
    return onnx__emit_shape(o, onnx__input(o, 0)->dim, onnx__input(o, 0)->rank);
}
static int onnx__open_reshape(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int dim[FOLD_ONNX_RANK], open = -1, known = 1;
    const int rank = onnx__list(o, "shape", 1, dim, FOLD_ONNX_RANK), zero = onnx__whole(o, "allowzero", 0);
    for (int k = 0; k < rank; k++) {
        if (dim[k] == 0 && !zero && k < from->rank) dim[k] = from->dim[k];
        if (dim[k] == -1 && open < 0) open = k;
        else if (dim[k] < 1 || dim[k] > from->count) return onnx__refuse(o, "%d values into an axis of %d", from->count, dim[k]);
        else if (known <= from->count) known *= dim[k];
    }
    if (open >= 0) dim[open] = from->count / known;
    if (rank < 0) return o->failed ? 0 : onnx__refuse(o, "no shape");
    return onnx__emit_shape(o, dim, rank);
}
static int onnx__open_flatten(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int axis = onnx__whole(o, "axis", 1), dim[2] = { 1, 1 };
    if (axis != from->rank && (axis = onnx__axis(o, axis, from->rank)) < 0) return 0;
    for (int k = 0; k < from->rank; k++) dim[k >= axis] *= from->dim[k];
    return onnx__emit_shape(o, dim, 2);
}

/* The axes that an op names, as marks; without a list, `all` of them. Returns 0 after an error. */
static int onnx__marked_axes(fold_onnx *o, int input, int rank, int all, int *marks)
{
    int axes[FOLD_ONNX_RANK];
    const int count = onnx__list(o, "axes", input, axes, FOLD_ONNX_RANK);
    for (int k = 0; k < rank; k++) marks[k] = count < 1 && all;
    for (int i = 0; i < count; i++) {
        const int axis = onnx__axis(o, axes[i], rank);
        if (axis < 0) return 0;
        marks[axis] = 1;
    }
    return count != -2;
}
static int onnx__open_squeeze(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int marks[FOLD_ONNX_RANK], dim[FOLD_ONNX_RANK], rank = 0;
    if (!onnx__marked_axes(o, 1, from->rank, 1, marks)) return 0;
    const int listed = onnx__list(o, "axes", 1, dim, FOLD_ONNX_RANK) > 0;
    for (int k = 0; k < from->rank; k++) {
        if (marks[k] && listed && from->dim[k] != 1) return onnx__refuse(o, "axis %d has %d values", k, from->dim[k]);
        if (!marks[k] || from->dim[k] != 1) dim[rank++] = from->dim[k];
    }
    return onnx__emit_shape(o, dim, rank);
}
static int onnx__open_unsqueeze(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int marks[FOLD_ONNX_RANK], dim[FOLD_ONNX_RANK];
    const int more = onnx__list(o, "axes", 1, dim, FOLD_ONNX_RANK), rank = from->rank + more;
    if (more < 1 || rank > FOLD_ONNX_RANK) return o->failed ? 0 : onnx__refuse(o, "no axes, or too many");
    if (!onnx__marked_axes(o, 1, rank, 0, marks)) return 0;
    for (int k = 0, next = 0; k < rank; k++) {
        if (!marks[k] && next == from->rank) return onnx__refuse(o, "an axis that is named twice");
        dim[k] = marks[k] ? 1 : from->dim[next++];
    }
    return onnx__emit_shape(o, dim, rank);
}
static int onnx__emit_own_view(fold_onnx *o, const onnx__view *view)
{
    return onnx__emit_view(o, o->node.in[0], view, onnx__output(o, 0), view->count, view->rank);
}
/* Axis i of the result is axis order[i]. */
static onnx__view onnx__permuted(fold_onnx *o, const int *dim, int rank, const int *order)
{
    const onnx__view from = onnx__view_of(o, dim, rank);
    onnx__view view = from;
    for (int i = 0; i < rank; i++) {
        view.count[i] = from.count[order[i]];
        view.at[i] = from.at[order[i]];
    }
    return view;
}
static int onnx__open_transpose(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int order[FOLD_ONNX_RANK], seen = 0;
    const int count = onnx__list(o, "perm", -1, order, FOLD_ONNX_RANK);
    for (int i = 0; i < from->rank && count == -1; i++) order[i] = from->rank - 1 - i;
    if (count != -1 && count != from->rank) return o->failed ? 0 : onnx__refuse(o, "perm has %d axes, not %d", count, from->rank);
    for (int i = 0; i < from->rank; i++) {
        if ((order[i] = onnx__axis(o, order[i], from->rank)) < 0) return 0;
        seen |= 1 << order[i];
    }
    if (seen != (1 << from->rank) - 1) return onnx__refuse(o, "perm names an axis twice");
    const onnx__view view = onnx__permuted(o, from->dim, from->rank, order);
    return onnx__emit_own_view(o, &view);
}
static int onnx__open_expand(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK];
    int rank = onnx__list(o, NULL, 1, dim, FOLD_ONNX_RANK);
    if (rank < 0 || (rank && !onnx__size(o, dim, rank)) || (rank = onnx__meet(o, onnx__input(o, 0), dim, rank, dim)) < 0) return 0;
    if (!onnx__size(o, dim, rank)) return 0;
    const onnx__view view = onnx__repeated(o, onnx__input(o, 0), dim, rank);
    return onnx__emit_own_view(o, &view);
}
static int onnx__open_tile(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int times[FOLD_ONNX_RANK];
    const int count = onnx__list(o, NULL, 1, times, FOLD_ONNX_RANK);
    if (count != from->rank) return o->failed ? 0 : onnx__refuse(o, "%d repeats of %d axes", count, from->rank);
    onnx__view view = onnx__view_of(o, from->dim, from->rank);
    for (int k = 0; k < from->rank && !o->failed; k++) {
        const int *at = view.at[k];
        if (times[k] < 1 || times[k] > ONNX__MOST_VALUES / from->dim[k]) return onnx__refuse(o, "%d repeats", times[k]);
        int *more = onnx__view_axis(o, &view, k, from->dim[k] * times[k], 1);
        for (int i = 0; more && i < view.count[k]; i++) more[i] = at[i % from->dim[k]];
    }
    return onnx__emit_own_view(o, &view);
}

static int onnx__clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
static int onnx__open_slice(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int starts[FOLD_ONNX_RANK], ends[FOLD_ONNX_RANK], axes[FOLD_ONNX_RANK], steps[FOLD_ONNX_RANK], seen = 0;
    const int count = onnx__list(o, "starts", 1, starts, FOLD_ONNX_RANK), n_ends = onnx__list(o, "ends", 2, ends, FOLD_ONNX_RANK);
    const int n_axes = onnx__list(o, "axes", 3, axes, FOLD_ONNX_RANK), n_steps = onnx__list(o, NULL, 4, steps, FOLD_ONNX_RANK);
    if (count < 0 || n_ends != count || (n_axes != -1 && n_axes != count) || (n_steps != -1 && n_steps != count) || count > from->rank)
        return o->failed ? 0 : onnx__refuse(o, "starts, ends, axes and steps of other lengths");
    onnx__view view = onnx__view_of(o, from->dim, from->rank);
    for (int i = 0; i < count && !o->failed; i++) {
        const int axis = onnx__axis(o, n_axes == -1 ? i : axes[i], from->rank), step = n_steps == -1 ? 1 : steps[i];
        if (axis < 0) return 0;
        const int n = from->dim[axis], back = step < 0, *at = view.at[axis];
        if (!step || step == -INT_MAX || seen >> axis & 1) return onnx__refuse(o, "a step of %d, or an axis that is named twice", step);
        seen |= 1 << axis;
        const int start = onnx__clamp(starts[i] < 0 ? starts[i] + n : starts[i], 0, back ? n - 1 : n);
        const int end = onnx__clamp(ends[i] < 0 ? ends[i] + n : ends[i], back ? -1 : 0, n);
        const int left = back ? start - end : end - start, by = back ? -step : step;
        if (left < 1) return onnx__refuse(o, "nothing is left of axis %d", axis);
        int *part = onnx__view_axis(o, &view, axis, (left - 1) / by + 1, 1);
        for (int k = 0; part && k < view.count[axis]; k++) part[k] = at[start + k * step];
    }
    return onnx__emit_own_view(o, &view);
}
static int onnx__open_split(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int parts[ONNX__MOST_OUT], begin = 0;
    const int axis = onnx__axis(o, onnx__whole(o, "axis", 0), from->rank), n = o->node.n_out;
    const int count = onnx__list(o, "split", 1, parts, ONNX__MOST_OUT);
    if (axis < 0 || count == -2) return 0;
    if (count == -1 && (n > ONNX__MOST_OUT || n < 1)) return onnx__refuse(o, "%d outputs", n);
    const int each = count == -1 ? (from->dim[axis] + n - 1) / n : 0;
    if (each * (n - 1) >= from->dim[axis] && count == -1) return onnx__refuse(o, "%d values into %d parts", from->dim[axis], n);
    for (int i = 0; i < n && count == -1; i++) parts[i] = i < n - 1 ? each : from->dim[axis] - each * (n - 1);
    if (count != -1 && count != n) return onnx__refuse(o, "%d parts and %d outputs", count, n);
    for (int i = 0; i < n; begin += parts[i++]) {
        onnx__view view = onnx__view_of(o, from->dim, from->rank);
        if (o->failed) return 0;
        if (parts[i] < 1 || parts[i] > from->dim[axis] - begin) return onnx__refuse(o, "parts that do not make up axis %d", axis);
        view.at[axis] += begin;
        view.count[axis] = parts[i];
        if (onnx__output(o, i) < 0) continue;
        if (!onnx__emit_view(o, o->node.in[0], &view, onnx__output(o, i), view.count, view.rank)) return 0;
    }
    return begin == from->dim[axis] || onnx__refuse(o, "parts that do not make up axis %d", axis);
}
static int onnx__open_gather(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0), *index = onnx__input(o, 1);
    int dim[2 * FOLD_ONNX_RANK], rank = 0;
    const int axis = onnx__axis(o, onnx__whole(o, "axis", 0), from->rank);
    if (axis < 0) return 0;
    if (index->origin != ONNX__FIXED) return onnx__refuse(o, "an index that is not constant");
    if (from->rank - 1 + index->rank > FOLD_ONNX_RANK) return onnx__refuse(o, "more than %d axes", (int)FOLD_ONNX_RANK);
    for (int k = 0; k < axis; k++) dim[rank++] = from->dim[k];
    for (int k = 0; k < index->rank; k++) dim[rank++] = index->dim[k];
    for (int k = axis + 1; k < from->rank; k++) dim[rank++] = from->dim[k];
    onnx__view view = onnx__view_of(o, from->dim, from->rank);
    const int *at = view.at[axis];
    int *taken = o->failed ? NULL : onnx__view_axis(o, &view, axis, index->count, 1);
    for (int i = 0; taken && i < index->count; i++) {
        const int which = onnx__axis(o, onnx__near(onnx__number(&index->constant, i)), from->dim[axis]);
        if (which < 0) return 0;
        taken[i] = at[which];
    }
    return onnx__emit_view(o, o->node.in[0], &view, onnx__output(o, 0), dim, rank);
}

/* Where element i of a padded axis of n comes from; -1: it is pad. */
static int onnx__padded(fold_onnx *o, int i, int n)
{
    if (i >= 0 && i < n) return i;
    if (onnx__has_word(o, "mode", "edge")) return i < 0 ? 0 : n - 1;
    if (!onnx__has_word(o, "mode", "reflect")) return -1;
    i = i < 0 ? -i : 2 * (n - 1) - i;
    return i >= 0 && i < n ? i : onnx__refuse(o, "a reflection that is longer than its axis") - 1;
}
static int onnx__open_pad(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int pads[2 * FOLD_ONNX_RANK], axes[FOLD_ONNX_RANK];
    const int count = onnx__list(o, "pads", 1, pads, 2 * FOLD_ONNX_RANK), n_axes = onnx__list(o, NULL, 3, axes, FOLD_ONNX_RANK);
    const int n = n_axes == -1 ? from->rank : n_axes;
    onnx__field mode;
    if (count != 2 * n) return o->failed ? 0 : onnx__refuse(o, "%d pads of %d axes", count, n);
    if (onnx__attribute(o, "mode", 4, &mode) && !onnx__is(mode.bytes, "constant") && !onnx__is(mode.bytes, "edge") && !onnx__is(mode.bytes, "reflect"))
        return onnx__refuse(o, "a mode that is none of constant, edge and reflect");
    onnx__view view = onnx__view_of(o, from->dim, from->rank);
    view.pad = onnx__real(o, "value", 0);
    if (onnx__has_input(o, 2)) {
        if (!onnx__is_scalar(o, o->node.in[2])) return onnx__refuse(o, "a value that is not constant");
        view.pad = (float)onnx__scalar(o, o->node.in[2]);
    }
    for (int i = 0; i < n && !o->failed; i++) {
        const int axis = onnx__axis(o, n_axes == -1 ? i : axes[i], from->rank);
        if (axis < 0) return 0;
        const long long total = (long long)pads[i] + pads[n + i] + from->dim[axis];
        const int *at = view.at[axis];
        if (total < 1 || total > ONNX__MOST_VALUES || pads[i] > ONNX__MOST_VALUES) return onnx__refuse(o, "%d pads", pads[i]);
        int *padded = onnx__view_axis(o, &view, axis, (int)total, 1);
        for (int k = 0; padded && k < (int)total; k++) {
            const int source = onnx__padded(o, k - pads[i], from->dim[axis]);
            padded[k] = source < 0 ? -1 : at[source];
        }
    }
    return onnx__emit_own_view(o, &view);
}

static void onnx__record_concat(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = step->n_in == 1 ? in[0] : fold_concat(r->f, in, step->n_in, step->number[0]);
}
static int onnx__concat_constants(fold_onnx *o, const int *dim, int rank, int outer, int whole)
{
    double *numbers = onnx__fix(o, onnx__output(o, 0), dim, rank);
    const int width = numbers ? o->values[onnx__output(o, 0)].count / outer : 0;
    for (int i = 0, begin = 0; numbers && i < o->node.n_in; i++) {
        const onnx__value *from = onnx__input(o, i);
        const int own = from->count / outer;
        for (int k = 0; k < from->count; k++) numbers[k / own * width + begin + k % own] = onnx__number(&from->constant, k);
        begin += own;
    }
    o->values[onnx__output(o, 0)].is_integer = whole;
    return numbers != NULL;
}
static int onnx__open_concat(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK], outer = 1, whole = 1;
    const onnx__value *first = onnx__input(o, 0);
    const int axis = onnx__axis(o, onnx__whole(o, "axis", 1), first->rank);
    if (axis < 0) return 0;
    memcpy(dim, first->dim, sizeof dim);
    dim[axis] = 0;
    for (int k = 0; k < axis; k++) outer *= dim[k];
    for (int i = 0; i < o->node.n_in; i++) {
        const onnx__value *value = onnx__input(o, i);
        int fits = value->rank == first->rank;
        for (int k = 0; k < first->rank && fits; k++) fits = k == axis || value->dim[k] == first->dim[k];
        if (!fits) return onnx__refuse(o, "'%s' has another shape", value->name);
        dim[axis] += value->dim[axis];
        whole &= value->is_integer;
        if (!onnx__size(o, dim, first->rank)) return 0;
    }
    if (onnx__all_fixed(o)) return onnx__concat_constants(o, dim, first->rank, outer, whole);
    onnx__step *step = onnx__new_step(o, onnx__record_concat, o->node.n_in, 1);
    for (int i = 0; i < o->node.n_in && !o->failed; i++) {
        const int own = onnx__input(o, i)->count / outer;
        onnx__reads_shape(o, step, i, o->node.in[i], outer == 1 ? fold_shape1(own) : fold_shape2(outer, own));
    }
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), dim, first->rank);
    if (!out) return 0;
    step->number[0] = outer > 1;
    out->is_integer = whole;
    return 1;
}

/* ---- constants -------------------------------------------------------------------------------- */

static int onnx__open_shape(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int start = onnx__whole(o, "start", 0), end = onnx__whole(o, "end", from->rank);
    start = onnx__clamp(start < 0 ? start + from->rank : start, 0, from->rank);
    end = onnx__clamp(end < 0 ? end + from->rank : end, 0, from->rank);
    const int count = end - start;
    if (count < 1) return onnx__refuse(o, "the shape of no axes");
    double *numbers = onnx__fix(o, onnx__output(o, 0), &count, 1);
    for (int i = 0; numbers && i < count; i++) numbers[i] = from->dim[start + i];
    o->values[onnx__output(o, 0)].is_integer = 1;
    return numbers != NULL;
}
static int onnx__open_constant(fold_onnx *o)
{
    onnx__field field;
    double *numbers = NULL;
    if (onnx__attribute(o, "value", 5, &field)) return onnx__read_tensor(o, field.bytes, onnx__output(o, 0));
    const int whole = onnx__attribute(o, "value_int", 0, &field) || onnx__attribute(o, "value_ints", 0, &field);
    if (onnx__attribute(o, "value_int", 3, &field) && (numbers = onnx__fix(o, onnx__output(o, 0), NULL, 0)) != NULL)
        *numbers = (double)(int64_t)field.value;
    else if (onnx__attribute(o, "value_float", 2, &field) && (numbers = onnx__fix(o, onnx__output(o, 0), NULL, 0)) != NULL)
        *numbers = (double)onnx__float(field.value);
    else if (onnx__attribute(o, whole ? "value_ints" : "value_floats", 0, &field)) {
        const int number = whole ? 8 : 7, wire = whole ? ONNX__VARINT : ONNX__FOUR;
        const int count = onnx__numbers(o, field.bytes, number, wire, NULL, 0);
        numbers = o->failed ? NULL : onnx__fix(o, onnx__output(o, 0), &count, 1);
        if (numbers) onnx__numbers(o, field.bytes, number, wire, numbers, count);
    }
    o->values[onnx__output(o, 0)].is_integer = whole;
    return numbers || o->failed ? !o->failed : onnx__refuse(o, "no value that is read");
}
static int onnx__open_constant_of_shape(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK];
    onnx__field field;
    onnx__value *out = &o->values[onnx__output(o, 0)], *single = &o->values[o->most_values]; /* a place for it */
    const int rank = onnx__list(o, NULL, 0, dim, FOLD_ONNX_RANK);
    if (rank < 0) return 0;
    memset(single, 0, sizeof *single);
    single->name = out->name;
    if (onnx__attribute(o, "value", 5, &field) && !onnx__read_tensor(o, field.bytes, o->most_values)) return 0;
    double *numbers = onnx__fix(o, onnx__output(o, 0), dim, rank);
    for (int i = 0; numbers && i < out->count; i++) numbers[i] = single->origin == ONNX__FIXED ? onnx__number(&single->constant, 0) : 0;
    out->is_integer = single->is_integer;
    out->is_truth = single->is_truth;
    return numbers != NULL;
}

/* ---- ops along axes --------------------------------------------------------------------------- */

/* Ops along axes read [outer x count x inner]; outer and inner are left out where they are 1. */
static fold_shape onnx__along(int outer, int count, int inner)
{
    return inner > 1 ? fold_shape3(outer, count, inner) : outer > 1 ? fold_shape2(outer, count) : fold_shape1(count);
}

typedef struct onnx__reduction {
    const char *type;
    fold_node (*before)(fold_ctx *, fold_node);
    fold_node (*reduce)(fold_ctx *, fold_node, int);
    fold_node (*after)(fold_ctx *, fold_node);
} onnx__reduction;
static const onnx__reduction onnx__reductions[] = {
    { "ReduceSum", NULL, fold_sum, NULL },         { "ReduceMean", NULL, fold_mean, NULL },
    { "ReduceMax", NULL, fold_amax, NULL },        { "ReduceMin", NULL, fold_amin, NULL },
    { "ReduceProd", NULL, fold_prod, NULL },       { "ReduceL1", fold_abs, fold_sum, NULL },
    { "ReduceL2", fold_square, fold_sum, fold_sqrt }, { "ReduceSumSquare", fold_square, fold_sum, NULL },
    { "ReduceLogSum", NULL, fold_sum, fold_log },  { "ReduceLogSumExp", NULL, fold_logsumexp, NULL } };

static void onnx__record_reduce(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    const onnx__reduction *reduction = &onnx__reductions[step->number[0]];
    out[0] = reduction->before ? reduction->before(r->f, in[0]) : in[0];
    out[0] = reduction->reduce(r->f, out[0], step->number[1]);
    if (reduction->after) out[0] = reduction->after(r->f, out[0]);
}
/* Axes that lie side by side are reduced where they are, others are brought to the end. */
static int onnx__open_reduce(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    int marks[FOLD_ONNX_RANK], order[FOLD_ONNX_RANK], dim[FOLD_ONNX_RANK], rank = 0, kept = 0, count = 1, inner = 1, which = 0, first = -1, last = -1;
    if (!onnx__takes_floats(o) || !onnx__marked_axes(o, 1, from->rank, !onnx__whole(o, "noop_with_empty_axes", 0), marks)) return 0;
    const int keeps = onnx__whole(o, "keepdims", 1);
    for (int k = 0; k < from->rank; k++) {
        if (!marks[k]) order[kept++] = k;
        if (!marks[k] || keeps) dim[rank++] = marks[k] ? 1 : from->dim[k];
        if (!marks[k]) continue;
        if (first < 0) first = k;
        last = k;
        count *= from->dim[k];
    }
    for (int k = 0, next = kept; k < from->rank; k++)
        if (marks[k]) order[next++] = k;
    const int together = first < 0 || last - first == from->rank - kept - 1;
    for (int k = last + 1; together && first >= 0 && k < from->rank; k++) inner *= from->dim[k];
    onnx__view view = onnx__view_of(o, from->dim, from->rank);
    if (!together) view = onnx__permuted(o, from->dim, from->rank, order);
    const int outer = from->count / count / inner;
    onnx__step *step = onnx__new_step(o, onnx__record_reduce, 1, 1);
    if (!onnx__reads_view(o, step, 0, o->node.in[0], &view, onnx__along(outer, count, inner))) return 0;
    while (strcmp(onnx__reductions[which].type, o->node.type)) which++;
    step->number[0] = which;
    step->number[1] = inner > 1 ? 1 : outer > 1;
    return onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank) != NULL;
}

/* Reads an input with an axis at the end, [others x axis], and moves the result back. */
static int onnx__reads_with_last(fold_onnx *o, onnx__step *step, int axis, int goes_back)
{
    const onnx__value *from = onnx__input(o, 0);
    onnx__value turned;
    int order[FOLD_ONNX_RANK], back[FOLD_ONNX_RANK];
    const int rank = from->rank;
    for (int k = 0; k < rank; k++) order[k] = k < axis ? k : k < rank - 1 ? k + 1 : axis;
    for (int k = 0; k < rank; k++) back[order[k]] = k;
    const onnx__view view = onnx__permuted(o, from->dim, rank, order);
    if (!onnx__reads_view(o, step, 0, o->node.in[0], &view, onnx__along(from->count / from->dim[axis], from->dim[axis], 1))) return 0;
    if (!goes_back || axis == rank - 1) return 1;
    memset(&turned, 0, sizeof turned);
    const onnx__view home = onnx__permuted(o, view.count, rank, back);
    if (!onnx__shape(from->dim, rank).rank) return onnx__refuse(o, "more than %d axes", (int)FOLD_MAX_RANK);
    step->after[0] = onnx__new_move(o, &turned, &home, onnx__shape(from->dim, rank));
    return !o->failed;
}
/* From the largest value on, so that large ones lose nothing. */
static fold_node onnx__log_softmax(fold_ctx *f, fold_node x)
{
    fold_shape shape = fold_node_shape(f, x);
    if (shape.rank > 1) shape.dim[shape.rank - 1] = 1;
    const fold_node largest = fold_stop_gradient(f, fold_amax(f, x, -1));
    return fold_log_softmax(f, fold_sub(f, x, shape.rank > 1 ? fold_reshape(f, largest, shape) : largest));
}
static int onnx__open_softmax(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    const int flat = o->version < 13; /* then all axes from this one on are one */
    const int axis = from->rank ? onnx__axis(o, onnx__whole(o, "axis", flat ? 1 : -1), from->rank) : -1;
    int inner = 1;
    if (axis < 0) return o->failed ? 0 : onnx__refuse(o, "an input without axes");
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_one, 1, 1) : NULL;
    if (!step) return 0;
    for (int k = axis; k < from->rank; k++) inner *= from->dim[k];
    if (flat && !onnx__reads_shape(o, step, 0, o->node.in[0], onnx__along(from->count / inner, inner, 1))) return 0;
    if (!flat && !onnx__reads_with_last(o, step, axis, 1)) return 0;
    return onnx__makes(o, step, 0, onnx__output(o, 0), from->dim, from->rank) != NULL;
}

/* The largest value's index, of the last axis. A NaN is the largest. */
static void onnx__argmax_forward(const fold_op_call *c)
{
    const onnx__step *step = (const onnx__step *)c->user;
    const int n = c->in_shape[0].dim[c->in_shape[0].rank - 1], lines = onnx__elements(c->in_shape[0]) / n;
    for (int row = 0; row < c->rows; row++)
        for (int line = 0; line < lines; line++) {
            const float *x = fold_row(&c->in[0], row) + (size_t)line * (size_t)n;
            int best = 0;
            for (int i = 1; i < n; i++)
                if (!isnan(x[best]) && (x[i] > x[best] || isnan(x[i]) || (step->number[0] && x[i] == x[best]))) best = i;
            fold_row(&c->out[0], row)[line] = (float)best;
        }
}
static void onnx__record_argmax(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    fold_node x = in[0];
    if (step->noise) { /* a choice: Gumbel's maximum, with noise or without */
        const fold_shape shape = fold_node_shape(r->f, x);
        for (int i = 0; r->chance && i < onnx__elements(shape); i++)
            step->noise[i] = (float)-log(-log((double)fold_random_uniform(r->chance) + 0x1p-25));
        if (r->chance) x = fold_add(r->f, x, fold_input_shaped(r->f, step->noise, shape));
    }
    out[0] = onnx__apply_own(r->f, step->own, &x, 1, fold_shape1(step->number[1]));
}
static int onnx__open_argmax(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    const int chooses = !strcmp(o->node.type, "Multinomial");
    int dim[FOLD_ONNX_RANK], rank = 0;
    const int axis = chooses ? from->rank - 1 : from->rank ? onnx__axis(o, onnx__whole(o, "axis", 0), from->rank) : -1;
    if (axis < 0) return o->failed ? 0 : onnx__refuse(o, "an input without axes");
    if (chooses && onnx__whole(o, "sample_size", 1) != 1) return onnx__refuse(o, "more than one sample");
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_argmax, 1, 1) : NULL;
    if (!step || !onnx__reads_with_last(o, step, axis, 0)) return 0;
    for (int k = 0; k < from->rank; k++)
        if (k != axis || chooses || onnx__whole(o, "keepdims", 1)) dim[rank++] = k == axis ? 1 : from->dim[k];
    step->number[0] = onnx__whole(o, "select_last_index", 0);
    step->number[1] = from->count / from->dim[axis];
    if (chooses) step->noise = ONNX__KEPT(o, float, from->count);
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank);
    if (!out) return 0;
    out->is_integer = 1;
    return onnx__own_op(o, chooses ? "onnx choice" : "onnx argmax", 1, onnx__argmax_forward, NULL, step, &step->own);
}

/* Random numbers: those that are drawn, or else their mean. */
static void onnx__record_random(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    (void)in;
    for (int i = 0; i < step->number[1]; i++) {
        float x = step->number[0] ? 0.0f : 0.5f;
        if (r->chance) x = step->number[0] ? fold_random_normal(r->chance) : fold_random_uniform(r->chance);
        step->noise[i] = step->real[0] + step->real[1] * x;
    }
    out[0] = fold_input(r->f, step->noise, step->number[1]);
}
static int onnx__open_random(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK], rank = onnx__list(o, "shape", -1, dim, FOLD_ONNX_RANK);
    const int normal = !strncmp(o->node.type, "RandomNormal", 12);
    if (rank == -2) return 0;
    if (o->node.n_in) {
        rank = onnx__input(o, 0)->rank;
        memcpy(dim, onnx__input(o, 0)->dim, sizeof dim);
    }
    onnx__step *step = rank < 0 ? NULL : onnx__new_step(o, onnx__record_random, 0, 1);
    if (!step) return o->failed ? 0 : onnx__refuse(o, "no shape");
    const float low = onnx__real(o, normal ? "mean" : "low", 0), high = onnx__real(o, normal ? "scale" : "high", 1);
    if (!onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank)) return 0;
    step->number[0] = normal;
    step->number[1] = o->values[onnx__output(o, 0)].count;
    step->real[0] = low;
    step->real[1] = normal ? high : high - low;
    return (step->noise = ONNX__KEPT(o, float, step->number[1])) != NULL;
}

/* ---- norms ------------------------------------------------------------------------------------ */

static void onnx__record_layer_norm(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = fold_layer_norm(r->f, in[0], step->param[0], step->param[1], step->real[0]);
    if (step->out[1] >= 0) out[1] = fold_mean(r->f, in[0], -1);
    if (step->out[2] < 0) return;
    const fold_node deviation = fold_sqrt(r->f, fold_shift(r->f, fold_variance(r->f, in[0], -1), step->real[0]));
    out[2] = fold_div(r->f, fold_constant(r->f, 1), deviation);
}
static int onnx__open_layer_norm(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    const int axis = onnx__axis(o, onnx__whole(o, "axis", -1), from->rank);
    int dim[FOLD_ONNX_RANK], inner = 1;
    if (axis < 0) return 0;
    for (int k = 0; k < from->rank; k++) dim[k] = k < axis ? from->dim[k] : 1;
    for (int k = axis; k < from->rank; k++) inner *= from->dim[k];
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_layer_norm, 1, 3) : NULL;
    if (!step || !onnx__reads_shape(o, step, 0, o->node.in[0], onnx__along(from->count / inner, inner, 1))) return 0;
    step->real[0] = onnx__real(o, "epsilon", 1e-5f);
    if (!(step->real[0] > 0)) return onnx__refuse(o, "an epsilon that is not positive");
    if (!onnx__vector(o, o->node.in[1], inner, 1, &step->param[0])) return 0;
    if (onnx__has_input(o, 2) ? !onnx__vector(o, o->node.in[2], inner, 1, &step->param[1]) : !onnx__zeros(o, o->node.in[1], inner, &step->param[1]))
        return 0;
    for (int i = 1; i < 3 && i < o->node.n_out; i++)
        if (o->node.out[i] >= 0 && !onnx__makes(o, step, i, o->node.out[i], dim, from->rank)) return 0;
    return onnx__makes(o, step, 0, onnx__output(o, 0), from->dim, from->rank) != NULL;
}

/* Batch norm of fixed statistics is x gain + bias, channel by channel; the statistics are part of both. */
static int onnx__batch_norm_params(fold_onnx *o, onnx__step *step, int channels, fold_shape shape)
{
    const float epsilon = onnx__real(o, "epsilon", 1e-5f);
    for (int i = 1; i < 5; i++)
        if (!onnx__is_fixed(o, o->node.in[i]) || onnx__input(o, i)->count != channels)
            return onnx__refuse(o, "'%s' is not %d constant values", onnx__input(o, i)->name, channels);
    for (int which = 0; which < 2; which++) {
        float *out = onnx__parameter(o, o->node.in[1 + which], ONNX__AS_OTHER + 8 * o->n_steps, shape, 0, 0, 1, &step->param[which]);
        for (int k = 0; out && k < channels; k++) {
            const double scale = onnx__number(&onnx__input(o, 1)->constant, k);
            const double gain = scale / sqrt(onnx__number(&onnx__input(o, 4)->constant, k) + (double)epsilon);
            const double mean = onnx__number(&onnx__input(o, 3)->constant, k), bias = onnx__number(&onnx__input(o, 2)->constant, k);
            out[k] = (float)(which ? bias - mean * gain : gain);
        }
        if (out) onnx__end(o, step->param[which]);
        if (o->failed) return 0;
    }
    return 1;
}
static void onnx__record_batch_norm(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    const fold_node gain = fold_use(r->f, step->param[0]), bias = fold_use(r->f, step->param[1]);
    out[0] = fold_add(r->f, fold_mul(r->f, in[0], gain), bias);
}
/* In training it norms by the mean and variance of what it reads, [channels x values], and tells their running means. */
static void onnx__record_batch_training(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    fold_ctx *f = r->f;
    const int channels = step->number[0];
    const fold_shape column = fold_shape2(channels, 1), line = fold_shape1(channels);
    const fold_node now[2] = { fold_mean(f, in[0], -1), fold_variance(f, in[0], -1) };
    out[0] = fold_standardize(f, in[0], fold_reshape(f, now[0], column), fold_reshape(f, now[1], column), step->real[0]);
    out[0] = fold_mul(f, out[0], fold_reshape(f, in[1], column));
    out[0] = fold_add(f, out[0], fold_reshape(f, in[2], column));
    for (int i = 0; i < 2; i++) {
        const fold_node kept = fold_scale(f, fold_reshape(f, in[3 + i], line), step->real[1]);
        out[1 + i] = fold_add(f, kept, fold_scale(f, now[i], 1 - step->real[1]));
    }
}
static int onnx__open_batch_training(fold_onnx *o)
{
    static const int backs[5][FOLD_ONNX_RANK] = { { 0 }, { 0 }, { 1, 0 }, { 1, 0, 2 }, { 1, 0, 2, 3 } };
    const onnx__value *from = onnx__input(o, 0);
    const int rank = from->rank, channels = from->dim[1];
    onnx__value turned;
    if (rank > 4) return onnx__refuse(o, "an input of rank %d", rank);
    onnx__step *step = onnx__new_step(o, onnx__record_batch_training, 5, 3);
    const onnx__view view = onnx__permuted(o, from->dim, rank, backs[rank]);
    if (!onnx__reads_view(o, step, 0, o->node.in[0], &view, fold_shape2(channels, from->count / channels))) return 0;
    for (int i = 1; i < 5; i++) {
        if (onnx__input(o, i)->count != channels) return onnx__refuse(o, "'%s' is not %d values", onnx__input(o, i)->name, channels);
        if (!onnx__reads(o, step, i, o->node.in[i])) return 0;
        if (i < 3 && i < o->node.n_out && o->node.out[i] >= 0 && !onnx__makes(o, step, i, o->node.out[i], &from->dim[1], 1)) return 0;
    }
    step->number[0] = channels;
    step->real[0] = onnx__real(o, "epsilon", 1e-5f);
    step->real[1] = onnx__real(o, "momentum", 0.9f);
    memset(&turned, 0, sizeof turned);
    const onnx__view home = onnx__permuted(o, view.count, rank, backs[rank]);
    step->after[0] = onnx__new_move(o, &turned, &home, onnx__shape(from->dim, rank));
    return !o->failed && onnx__makes(o, step, 0, onnx__output(o, 0), from->dim, rank) != NULL;
}
static int onnx__open_batch_norm(fold_onnx *o)
{
    const onnx__value *from = onnx__input(o, 0);
    if (from->rank < 2 || !onnx__takes_floats(o)) return o->failed ? 0 : onnx__refuse(o, "an input of rank %d", from->rank);
    if (onnx__whole(o, "training_mode", 0)) return onnx__open_batch_training(o);
    const int channels = from->dim[1], last = from->channels_last || from->rank == 2;
    const int inner = from->count / channels / from->dim[0];
    onnx__step *step = onnx__new_step(o, onnx__record_batch_norm, 1, 1);
    if (!step || !onnx__batch_norm_params(o, step, channels, last ? fold_shape1(channels) : fold_shape3(1, channels, 1))) return 0;
    const fold_shape shape = fold_shape3(from->dim[0], channels, inner), flat = fold_shape2(from->dim[0], channels);
    if (from->channels_last ? !onnx__reads_view(o, step, 0, o->node.in[0], NULL, shape)
                            : !onnx__reads_shape(o, step, 0, o->node.in[0], last ? flat : shape)) return 0;
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), from->dim, from->rank);
    if (!out) return 0;
    out->channels_last = from->channels_last;
    return 1;
}

/* ---- products --------------------------------------------------------------------------------- */

static void onnx__record_linear(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = fold_linear(r->f, in[0], step->param[0], step->param[1]);
    if (step->n_in > 1 && step->in[1].value >= 0) out[0] = fold_add(r->f, out[0], in[1]);
}
static void onnx__record_product(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    out[0] = fold_matmul(r->f, in[0], in[1]);
    if (step->real[0] != 1) out[0] = fold_scale(r->f, out[0], step->real[0]);
    if (step->n_in < 3 || step->in[2].value < 0) return;
    out[0] = fold_add(r->f, out[0], step->real[1] == 1 ? in[2] : fold_scale(r->f, in[2], step->real[1]));
}

static int onnx__open_gemm(fold_onnx *o)
{
    static const int turned[2] = { 1, 0 };
    const onnx__value *a = onnx__input(o, 0), *b = onnx__input(o, 1), *c = onnx__has_input(o, 2) ? onnx__input(o, 2) : NULL;
    const int turn[2] = { onnx__whole(o, "transA", 0) != 0, onnx__whole(o, "transB", 0) != 0 };
    const float alpha = onnx__real(o, "alpha", 1), beta = onnx__real(o, "beta", 1);
    if (a->rank != 2 || b->rank != 2 || a->dim[!turn[0]] != b->dim[turn[1]]) return onnx__refuse(o, "matrices that do not fit");
    const int dim[2] = { a->dim[turn[0]], b->dim[!turn[1]] }, inner = a->dim[!turn[0]];
    const int linear = b->origin == ONNX__FIXED, row = c && c->origin == ONNX__FIXED && (c->count == 1 || (c->count == dim[1] && c->dim[c->rank - 1] == dim[1]));
    int meets[FOLD_ONNX_RANK];
    if (!onnx__takes_floats(o)) return 0;
    if (c && (onnx__meet(o, c, dim, 2, meets) != 2 || meets[0] != dim[0] || meets[1] != dim[1]))
        return o->failed ? 0 : onnx__refuse(o, "a bias of another shape");
    if (linear && c && !row && beta != 1) return onnx__refuse(o, "a beta of a bias that is a matrix");
    onnx__step *step = onnx__new_step(o, linear ? onnx__record_linear : onnx__record_product, linear ? 2 : 3, 1);
    if (!step) return 0;
    for (int i = 0; i < 2 - linear; i++) {
        const onnx__value *value = onnx__input(o, i);
        onnx__view view = onnx__view_of(o, value->dim, 2);
        if (turn[i]) view = onnx__permuted(o, value->dim, 2, turned);
        const fold_shape shape = i ? fold_shape2(inner, dim[1]) : linear ? onnx__along(dim[0], inner, 1) : fold_shape2(dim[0], inner);
        if (!onnx__reads_view(o, step, i, o->node.in[i], &view, shape)) return 0;
    }
    step->real[0] = alpha;
    step->real[1] = beta;
    if (linear && !onnx__matrix(o, o->node.in[1], turn[1], alpha, &step->param[0])) return 0;
    if (linear && row && !onnx__vector(o, o->node.in[2], dim[1], beta, &step->param[1])) return 0;
    if (c && !(linear && row) && !onnx__reads(o, step, 2 - linear, o->node.in[2])) return 0;
    return onnx__makes(o, step, 0, onnx__output(o, 0), dim, 2) != NULL;
}

/* A product of batches of matrices. A vector is a matrix of one row, or of one column, and loses that axis again. */
static int onnx__open_matmul(fold_onnx *o)
{
    const onnx__value *a = onnx__input(o, 0), *b = onnx__input(o, 1);
    const int m = a->rank > 1 ? a->dim[a->rank - 2] : 1, k = a->rank ? a->dim[a->rank - 1] : 0;
    const int n = b->rank > 1 ? b->dim[b->rank - 1] : 1, batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    int dim[FOLD_ONNX_RANK + 2], whole[FOLD_ONNX_RANK + 2];
    onnx__value batch = *a;
    batch.rank = batch_a;
    int rank = onnx__meet(o, &batch, b->dim, batch_b, dim);
    if (rank < 0 || !onnx__takes_floats(o)) return 0;
    if (!b->rank || k != b->dim[b->rank > 1 ? b->rank - 2 : 0]) return onnx__refuse(o, "matrices that do not fit");
    const int count = rank ? onnx__size(o, dim, rank) : 1, of_all = rank;
    const int linear = b->origin == ONNX__FIXED && b->rank == 2, one = batch_b == 0;
    if (a->rank > 1) dim[rank++] = m;
    if (b->rank > 1) dim[rank++] = n;
    onnx__step *step = count ? onnx__new_step(o, linear ? onnx__record_linear : onnx__record_product, linear ? 1 : 2, 1) : NULL;
    if (!step) return 0;
    step->real[0] = 1;
    const int rows = linear || one ? count * m : m;
    for (int i = 0; i < 2 - linear; i++) {
        onnx__value value = *onnx__input(o, i);
        const int height = i ? k : m, width = i ? n : k;
        const int keeps = i && one; /* the second is one matrix for all rows of the first */
        memcpy(whole, dim, (size_t)of_all * sizeof *whole);
        whole[of_all] = height;
        whole[of_all + 1] = width;
        if (value.rank < 2) value.rank = 2, value.dim[0] = height, value.dim[1] = width;
        const onnx__view view = keeps ? onnx__view_of(o, value.dim, 2) : onnx__repeated(o, &value, whole, of_all + 2);
        fold_shape shape = linear ? onnx__along(rows, k, 1) : fold_shape2(i ? k : rows, width);
        if (!linear && !one && count > 1) shape = fold_shape3(count, height, width);
        if (!onnx__reads_view(o, step, i, o->node.in[i], &view, shape)) return 0;
    }
    if (linear && !onnx__matrix(o, o->node.in[1], 0, 1, &step->param[0])) return 0;
    return onnx__makes(o, step, 0, onnx__output(o, 0), dim, rank) != NULL;
}

/* ---- convolutions ----------------------------------------------------------------------------- */

typedef struct onnx__window { int taps[2], stride, dilation, begin[2], end[2], out[2]; } onnx__window;

/* Reads what a convolution tells of its windows. */
static int onnx__read_window(fold_onnx *o, const onnx__value *x, const onnx__value *filter, onnx__window *window)
{
    const int axes = x->rank - 2;
    int strides[2] = { 1, 1 }, dilations[2] = { 1, 1 }, pads[4] = { 0, 0, 0, 0 }, kernel[2];
    const int n_pads = onnx__list(o, "pads", -1, pads, 4), n_kernel = onnx__list(o, "kernel_shape", -1, kernel, 2);
    const int n_strides = onnx__list(o, "strides", -1, strides, 2), n_dilations = onnx__list(o, "dilations", -1, dilations, 2);
    if ((n_pads != -1 && n_pads != 2 * axes) || (n_strides != -1 && n_strides != axes) || (n_dilations != -1 && n_dilations != axes) ||
        (n_kernel != -1 && n_kernel != axes))
        return o->failed ? 0 : onnx__refuse(o, "lists that do not fit %d axes", axes);
    if (axes == 2 && (strides[0] != strides[1] || dilations[0] != dilations[1]))
        return onnx__refuse(o, "strides or dilations that differ from axis to axis");
    window->stride = strides[0];
    window->dilation = dilations[0];
    if (window->stride < 1 || window->dilation < 1 || window->stride > 4096 || window->dilation > 4096)
        return onnx__refuse(o, "a stride of %d, a dilation of %d", window->stride, window->dilation);
    const int upper = onnx__has_word(o, "auto_pad", "SAME_UPPER"), same = upper || onnx__has_word(o, "auto_pad", "SAME_LOWER");
    const int valid = onnx__has_word(o, "auto_pad", "VALID");
    for (int k = 0; k < axes; k++) {
        const int n = x->dim[2 + k], taps = window->taps[k] = filter->dim[2 + k];
        const long long reach = (long long)(taps - 1) * window->dilation + 1;
        if (n_kernel != -1 && kernel[k] != taps) return onnx__refuse(o, "a kernel of %d, and weights of %d", kernel[k], taps);
        if (reach > 65536) return onnx__refuse(o, "a kernel that reaches too far");
        const int missing = ((n + window->stride - 1) / window->stride - 1) * window->stride + (int)reach - n;
        window->begin[k] = same ? (missing < 0 ? 0 : (missing + !upper) / 2) : valid ? 0 : pads[k];
        window->end[k] = same ? (missing < 0 ? 0 : missing - window->begin[k]) : valid ? 0 : pads[axes + k];
        if (window->begin[k] < 0 || window->end[k] < 0 || window->begin[k] > 65536 || window->end[k] > 65536)
            return onnx__refuse(o, "pads of %d and %d", window->begin[k], window->end[k]);
        const long long room = (long long)n + window->begin[k] + window->end[k] - reach;
        if (room < 0) return onnx__refuse(o, "a kernel that is longer than axis %d", 2 + k);
        window->out[k] = (int)(room / window->stride) + 1;
    }
    return 1;
}

/* Filters of [outputs x inputs x taps] have [taps x inputs x outputs] here. */
static int onnx__filter(fold_onnx *o, int index, fold_param *param)
{
    const onnx__value *value = &o->values[index];
    const int outputs = value->dim[0], inputs = value->dim[1], taps = value->count / outputs / inputs;
    const fold_shape shape = value->rank == 3 ? fold_shape3(taps, inputs, outputs)
                                              : fold_shape4(value->dim[2], value->dim[3], inputs, outputs);
    float *out = onnx__parameter(o, index, ONNX__AS_FILTER, shape, FOLD_FOR_CONV, 0, 1, param);
    for (int i = 0; out && i < value->count; i++) {
        const int output = i / (inputs * taps), input = i / taps % inputs, tap = i % taps;
        out[(tap * inputs + input) * outputs + output] = (float)onnx__number(&value->constant, i);
    }
    if (out) onnx__end(o, *param);
    return !o->failed;
}

static void onnx__record_conv(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    fold_conv_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.stride = step->number[1];
    desc.padding = step->number[2];
    desc.dilation = step->number[3];
    desc.depthwise = step->number[4];
    out[0] = (step->number[0] == 3 ? fold_conv1d : fold_conv2d)(r->f, in[0], step->param[0], step->param[1], &desc);
}

/* Reads [1, channels, ...] with its channels last, and padded where fold.h cannot pad by itself. */
static int onnx__reads_channels_last(fold_onnx *o, onnx__step *step, onnx__window *window)
{
    const onnx__value *x = onnx__input(o, 0);
    const int axes = x->rank - 2, last = axes - 1;
    int equal = window->begin[0] == window->end[0] && window->begin[last] == window->begin[0] && window->end[last] == window->begin[0];
    for (int k = 0; k < axes; k++) equal &= window->begin[k] < (window->taps[k] - 1) * window->dilation + 1;
    step->number[2] = equal ? window->begin[0] : 0;
    if (equal && x->channels_last) return onnx__reads_view(o, step, 0, o->node.in[0], NULL, fold_shape1(1));
    const onnx__view from = onnx__view_of(o, x->dim, x->rank);
    onnx__view view = from;
    view.rank = axes + 1;
    for (int k = 0; k < axes && !o->failed; k++) {
        const int before = equal ? 0 : window->begin[k], n = x->dim[2 + k];
        int *at = onnx__view_axis(o, &view, k, n + before + (equal ? 0 : window->end[k]), 1);
        for (int i = 0; at && i < view.count[k]; i++) at[i] = i < before || i >= before + n ? -1 : from.at[2 + k][i - before];
    }
    view.count[axes] = from.count[1];
    view.at[axes] = from.at[1];
    const fold_shape shape = axes == 1 ? fold_shape2(view.count[0], view.count[1]) : fold_shape3(view.count[0], view.count[1], view.count[2]);
    return onnx__reads_view(o, step, 0, o->node.in[0], &view, shape);
}
static int onnx__open_conv(fold_onnx *o)
{
    const onnx__value *x = onnx__input(o, 0), *filter = onnx__input(o, 1);
    const int groups = onnx__whole(o, "group", 1), axes = x->rank - 2;
    onnx__window window;
    memset(&window, 0, sizeof window);
    if (!onnx__takes_floats(o)) return 0;
    if (axes < 1 || axes > 2 || x->dim[0] != 1 || filter->rank != x->rank) return onnx__refuse(o, "an input of rank %d, or more than one sample", x->rank);
    if (filter->origin != ONNX__FIXED) return onnx__refuse(o, "weights that are not constant");
    const int outputs = filter->dim[0], depthwise = groups > 1 && groups == x->dim[1] && outputs == groups;
    if (groups != 1 && !depthwise) return onnx__refuse(o, "%d groups of %d channels", groups, x->dim[1]);
    if (filter->dim[1] != (depthwise ? 1 : x->dim[1])) return onnx__refuse(o, "weights of %d channels, not %d", filter->dim[1], x->dim[1]);
    if (!onnx__read_window(o, x, filter, &window)) return 0;
    onnx__step *step = onnx__new_step(o, onnx__record_conv, 1, 1);
    if (!step || !onnx__reads_channels_last(o, step, &window)) return 0;
    step->number[0] = x->rank;
    step->number[1] = window.stride;
    step->number[3] = window.dilation;
    step->number[4] = depthwise;
    if (!onnx__filter(o, o->node.in[1], &step->param[0])) return 0;
    if (onnx__has_input(o, 2) && !onnx__vector(o, o->node.in[2], outputs, 1, &step->param[1])) return 0;
    const int dim[4] = { 1, outputs, window.out[0], window.out[1] };
    onnx__value *out = onnx__makes(o, step, 0, onnx__output(o, 0), dim, x->rank);
    if (!out) return 0;
    out->channels_last = 1;
    return 1;
}

/* ---- recurrent layers ------------------------------------------------------------------------- */

enum { ONNX__STEPS, ONNX__BATCH, ONNX__WIDTH, ONNX__HIDDEN, ONNX__DIRECTIONS, ONNX__REVERSE, ONNX__IS_LSTM, ONNX__RESETS_LATE, ONNX__PEEPS };

/* Columns [from, from + count) of [batch x width]. */
static fold_node onnx__columns(fold_ctx *f, fold_node x, int batch, int from, int count)
{
    return fold_slice(f, x, batch > 1, from, count);
}
static fold_node onnx__product_of_both(fold_ctx *f, fold_node x, fold_node h, int batch, fold_param W, fold_param b)
{
    const fold_node both[2] = { x, h };
    return batch == 1 ? fold_linear_n(f, both, 2, W, b) : fold_linear(f, fold_concat(f, both, 2, 1), W, b);
}

/* ONNX's gates are i o f c, of which c goes through tanh. Peepholes are i o f. */
static void onnx__lstm_step(fold_ctx *f, const onnx__step *step, const fold_param *param, fold_node x, fold_node *h, fold_node *c)
{
    const int n = step->number[ONNX__HIDDEN], batch = step->number[ONNX__BATCH];
    const fold_node all = onnx__product_of_both(f, x, *h, batch, param[0], param[1]);
    const fold_node update = fold_tanh(f, onnx__columns(f, all, batch, 3 * n, n));
    if (!step->number[ONNX__PEEPS]) {
        const fold_node gates = fold_sigmoid(f, onnx__columns(f, all, batch, 0, 3 * n));
        const fold_node in = fold_mul(f, onnx__columns(f, gates, batch, 0, n), update);
        *c = fold_add(f, fold_mul(f, onnx__columns(f, gates, batch, 2 * n, n), *c), in);
        *h = fold_mul(f, onnx__columns(f, gates, batch, n, n), fold_tanh(f, *c));
        return;
    }
    fold_node gate[3];
    const fold_node peeps = fold_use(f, param[2]);
    for (int k = 0; k < 3; k++) {
        const int which = k == 0 ? 0 : 3 - k; /* o is last, since it sees the new c */
        const fold_node seen = fold_mul(f, fold_slice(f, peeps, 0, which * n, n), *c);
        gate[which] = fold_sigmoid(f, fold_add(f, onnx__columns(f, all, batch, which * n, n), seen));
        if (k == 1) *c = fold_add(f, fold_mul(f, gate[2], *c), fold_mul(f, gate[0], update));
    }
    *h = fold_mul(f, gate[1], fold_tanh(f, *c));
}

/* ONNX's gates are z r h. The reset comes after the product with h, as in PyTorch, or before. */
static void onnx__gru_step(fold_ctx *f, const onnx__step *step, const fold_param *param, fold_node x, fold_node *h)
{
    const int n = step->number[ONNX__HIDDEN], batch = step->number[ONNX__BATCH];
    fold_node gates, fresh;
    if (step->number[ONNX__RESETS_LATE]) {
        const fold_node a = fold_linear(f, x, param[0], param[1]), b = fold_linear(f, *h, param[2], param[3]);
        gates = fold_sigmoid(f, fold_add(f, onnx__columns(f, a, batch, 0, 2 * n), onnx__columns(f, b, batch, 0, 2 * n)));
        fresh = fold_mul(f, onnx__columns(f, gates, batch, n, n), onnx__columns(f, b, batch, 2 * n, n));
        fresh = fold_tanh(f, fold_add(f, onnx__columns(f, a, batch, 2 * n, n), fresh));
    } else {
        gates = fold_sigmoid(f, onnx__product_of_both(f, x, *h, batch, param[0], param[1]));
        fresh = fold_mul(f, onnx__columns(f, gates, batch, n, n), *h);
        fresh = fold_tanh(f, onnx__product_of_both(f, x, fresh, batch, param[2], param[3]));
    }
    *h = fold_add(f, fresh, fold_mul(f, onnx__columns(f, gates, batch, 0, n), fold_sub(f, *h, fresh)));
}

static void onnx__record_recurrent(const onnx__recording *r, const onnx__step *step, const fold_node *in, fold_node *out)
{
    const int *number = step->number, steps = number[ONNX__STEPS], batch = number[ONNX__BATCH], width = number[ONNX__WIDTH];
    const int n = number[ONNX__HIDDEN], directions = number[ONNX__DIRECTIONS];
    fold_node *y = step->nodes + step->n_in + step->n_out, *last = y + steps * directions;
    const fold_shape shape = batch == 1 ? fold_shape1(n) : fold_shape2(batch, n), row = batch == 1 ? fold_shape1(width) : fold_shape2(batch, width);
    for (int way = 0; way < directions; way++) {
        fold_node state[2];
        for (int i = 0; i <= number[ONNX__IS_LSTM]; i++) {
            if (step->in[1 + i].value < 0) state[i] = fold_zeros(r->f, shape);
            else state[i] = onnx__reshape(r->f, fold_slice(r->f, in[1 + i], 0, way * batch * n, batch * n), shape);
        }
        const fold_param *param = step->param + 4 * way;
        for (int t = 0; t < steps; t++) {
            const int at = (way || number[ONNX__REVERSE]) ? steps - 1 - t : t;
            const fold_node x = onnx__reshape(r->f, fold_slice(r->f, in[0], 0, at * batch * width, batch * width), row);
            if (number[ONNX__IS_LSTM]) onnx__lstm_step(r->f, step, param, x, &state[0], &state[1]);
            else onnx__gru_step(r->f, step, param, x, &state[0]);
            y[at * directions + way] = onnx__reshape(r->f, state[0], fold_shape1(batch * n));
        }
        last[way] = onnx__reshape(r->f, state[0], fold_shape1(batch * n));
        if (number[ONNX__IS_LSTM]) last[directions + way] = onnx__reshape(r->f, state[1], fold_shape1(batch * n));
    }
    out[0] = steps * directions == 1 ? y[0] : fold_concat(r->f, y, steps * directions, 0);
    out[1] = directions == 1 ? last[0] : fold_concat(r->f, last, directions, 0);
    if (step->n_out > 2) out[2] = directions == 1 ? last[1] : fold_concat(r->f, last + directions, directions, 0);
}

/* Makes the weight and the bias of some gates, which read x, or h, or both: the rows of x come first. */
typedef struct onnx__gates { int slot, reads_x, reads_h, from, count; } onnx__gates;
static int onnx__gate_params(fold_onnx *o, onnx__step *step, int way, const onnx__gates *gates, int all)
{
    const int n = step->number[ONNX__HIDDEN], width = step->number[ONNX__WIDTH], columns = gates->count * n;
    const int inputs = gates->reads_x ? width : 0, rows = inputs + (gates->reads_h ? n : 0);
    const int form = ONNX__AS_OTHER + 8 * (8 * o->n_steps + 4 * way + gates->slot), weight = gates->reads_x ? 1 : 2;
    const onnx__constant *W = &onnx__input(o, 1)->constant, *R = &onnx__input(o, 2)->constant;
    const fold_shape shape = fold_shape2(rows, columns);
    fold_param *param = &step->param[4 * way + gates->slot];
    float *out = onnx__parameter(o, o->node.in[weight], form, shape, FOLD_FOR_LINEAR, 0, 1, param);
    for (int i = 0; out && i < rows; i++)
        for (int k = 0; k < columns; k++) {
            const int row = (way * all + gates->from) * n + k;
            *out++ = (float)(i < inputs ? onnx__number(W, row * width + i) : onnx__number(R, row * n + i - inputs));
        }
    if (o->failed) return 0;
    onnx__end(o, *param);
    if (!onnx__has_input(o, 3)) return !o->failed;
    const onnx__constant *B = &onnx__input(o, 3)->constant;
    out = onnx__parameter(o, o->node.in[3], form, fold_shape1(columns), 0, 0, 1, param + 1);
    for (int k = 0; out && k < columns; k++) {
        const int at = (2 * way * all + gates->from) * n + k;
        const double of_x = gates->reads_x ? onnx__number(B, at) : 0, of_h = gates->reads_h ? onnx__number(B, at + all * n) : 0;
        out[k] = (float)(of_x + of_h);
    }
    if (out) onnx__end(o, param[1]);
    return !o->failed;
}

static int onnx__has_usual_activations(fold_onnx *o, int per_direction)
{
    onnx__field attribute, field;
    int i = 0;
    if (!onnx__attribute(o, "activations", 0, &attribute)) return 1;
    while (onnx__next(o, &attribute.bytes, &field)) {
        if (field.number != 9) continue;
        if (!onnx__is(field.bytes, i++ % per_direction ? "Tanh" : "Sigmoid")) return 0;
    }
    return !o->failed;
}

/* Tells whether the inputs of a recurrent layer have the shapes that they must have. */
static int onnx__recurrent_fits(fold_onnx *o, const onnx__step *step, int all, int later)
{
    const int *number = step->number, n = number[ONNX__HIDDEN], directions = number[ONNX__DIRECTIONS], batch = number[ONNX__BATCH];
    const long long counts[8] = { 0, (long long)directions * all * n * number[ONNX__WIDTH], (long long)directions * all * n * n,
                                  2ll * directions * all * n, batch, (long long)directions * batch * n,
                                  (long long)directions * batch * n, 3ll * directions * n };
    for (int i = 1; i < o->node.n_in; i++) {
        if (!onnx__has_input(o, i)) continue;
        if (onnx__input(o, i)->count != counts[i]) return onnx__refuse(o, "'%s' has another shape than the others ask for", onnx__input(o, i)->name);
        if (i != 5 && i != 6 && onnx__input(o, i)->origin != ONNX__FIXED) return onnx__refuse(o, "'%s' is not constant", onnx__input(o, i)->name);
    }
    for (int i = 0; onnx__has_input(o, 4) && i < batch; i++)
        if (onnx__number(&onnx__input(o, 4)->constant, i) != number[ONNX__STEPS]) return onnx__refuse(o, "sequences of several lengths");
    if (later && number[ONNX__IS_LSTM]) return onnx__refuse(o, "linear_before_reset");
    if (onnx__whole(o, "input_forget", 0)) return onnx__refuse(o, "input_forget");
    return onnx__has_usual_activations(o, number[ONNX__IS_LSTM] ? 3 : 2) || onnx__refuse(o, "other activations than Sigmoid and Tanh");
}

/* Outputs that have the batch first are turned. */
static int onnx__makes_turned(fold_onnx *o, onnx__step *step, int i, const int *dim, int rank, const int *order)
{
    onnx__value inner;
    int turned[FOLD_ONNX_RANK];
    if (i >= o->node.n_out || o->node.out[i] < 0) return 1;
    for (int k = 0; k < rank; k++) turned[k] = order ? dim[order[k]] : dim[k];
    if (!onnx__makes(o, step, i, o->node.out[i], turned, rank)) return 0;
    if (!order) return 1;
    memset(&inner, 0, sizeof inner);
    const onnx__view view = onnx__permuted(o, dim, rank, order);
    step->after[i] = onnx__new_move(o, &inner, &view, onnx__shape(turned, rank));
    return !o->failed;
}
static int onnx__recurrent_params(fold_onnx *o, onnx__step *step)
{
    static const onnx__gates lstm = { 0, 1, 1, 0, 4 };
    static const onnx__gates gru[2][2] = { { { 0, 1, 1, 0, 2 }, { 2, 1, 1, 2, 1 } }, { { 0, 1, 0, 0, 3 }, { 2, 0, 1, 0, 3 } } };
    const int is_lstm = step->number[ONNX__IS_LSTM], late = step->number[ONNX__RESETS_LATE], n = step->number[ONNX__HIDDEN];
    for (int way = 0; way < step->number[ONNX__DIRECTIONS]; way++) {
        for (int i = 0; i < 2 - is_lstm; i++)
            if (!onnx__gate_params(o, step, way, is_lstm ? &lstm : &gru[late][i], is_lstm ? 4 : 3)) return 0;
        if (!step->number[ONNX__PEEPS]) continue;
        const int form = ONNX__AS_OTHER + 8 * (8 * o->n_steps + way);
        float *out = onnx__parameter(o, o->node.in[7], form, fold_shape1(3 * n), 0, 0, 1, &step->param[4 * way + 2]);
        for (int k = 0; out && k < 3 * n; k++) out[k] = (float)onnx__number(&onnx__input(o, 7)->constant, way * 3 * n + k);
        if (out) onnx__end(o, step->param[4 * way + 2]);
    }
    return !o->failed;
}
static int onnx__open_recurrent(fold_onnx *o)
{
    static const int batch_first[3] = { 1, 0, 2 }, batch_first_y[4] = { 2, 0, 1, 3 };
    const onnx__value *x = onnx__input(o, 0);
    const int is_lstm = !strcmp(o->node.type, "LSTM"), late = onnx__whole(o, "linear_before_reset", 0) != 0;
    const int turned = onnx__whole(o, "layout", 0) == 1, both = onnx__has_word(o, "direction", "bidirectional"), n = onnx__whole(o, "hidden_size", 0);
    if (x->rank != 3 || n < 1 || n > 65536 || onnx__input(o, 1)->rank != 3) return onnx__refuse(o, "an input of rank %d, %d hidden values", x->rank, n);
    const int steps = x->dim[turned], batch = x->dim[!turned], directions = both ? 2 : 1;
    if (steps > 1024) return onnx__refuse(o, "%d steps", steps);
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_recurrent, 3, is_lstm ? 3 : 2) : NULL;
    if (!step) return 0;
    const int numbers[9] = { steps, batch, x->dim[2], n, directions, onnx__has_word(o, "direction", "reverse"), is_lstm, late, onnx__has_input(o, 7) };
    memcpy(step->number, numbers, sizeof numbers);
    if (!onnx__recurrent_fits(o, step, is_lstm ? 4 : 3, late) || !onnx__recurrent_params(o, step)) return 0;
    for (int i = 0; i < 3; i++) { /* x, h, c */
        const int input = i ? 4 + i : 0;
        if (!onnx__has_input(o, input)) continue;
        const onnx__value *value = onnx__input(o, input);
        if (value->rank != 3) return onnx__refuse(o, "'%s' has rank %d", value->name, value->rank);
        onnx__view view = onnx__view_of(o, value->dim, 3);
        if (turned) view = onnx__permuted(o, value->dim, 3, batch_first);
        if (!onnx__reads_view(o, step, i, o->node.in[input], &view, fold_shape1(value->count))) return 0;
    }
    step->nodes = ONNX__KEPT(o, fold_node, step->n_in + step->n_out + (steps + 2) * directions);
    const int dim[4] = { steps, directions, batch, n };
    return onnx__makes_turned(o, step, 0, dim, 4, turned ? batch_first_y : NULL) &&
           onnx__makes_turned(o, step, 1, dim + 1, 3, turned ? batch_first : NULL) &&
           (!is_lstm || onnx__makes_turned(o, step, 2, dim + 1, 3, turned ? batch_first : NULL)) && !o->failed;
}

/* ---- the table of ops ------------------------------------------------------------------------- */

#define ONNX__ONE(type, one, number) { type, 1, 1, "", onnx__open_one, one, NULL, number, 0 }
#define ONNX__TWO(type, two, number, flags) { type, 2, 2, "", onnx__open_two, NULL, two, number, flags }
#define ONNX__MAP(type, inputs, number, flags) { type, inputs, inputs, "", onnx__open_map, NULL, NULL, number, flags }
#define ONNX__OTHER(type, least, most, attributes, open, flags) { type, least, most, attributes, open, NULL, NULL, NULL, flags }
#define ONNX__REDUCE(type) ONNX__OTHER(type, 1, 2, "axes keepdims noop_with_empty_axes", onnx__open_reduce, 0)
enum { ONNX__ANY = 1 << 20 }; /* inputs, none of which may be left out */

static const onnx__op onnx__ops[] = {
    ONNX__ONE("Abs", fold_abs, onnx__abs),
    ONNX__ONE("Exp", fold_exp, onnx__exp),
    ONNX__ONE("Floor", fold_floor, onnx__floor),
    ONNX__ONE("Log", fold_log, onnx__log),
    ONNX__ONE("Neg", fold_neg, onnx__neg),
    ONNX__ONE("Relu", fold_relu, NULL),
    ONNX__ONE("Sigmoid", fold_sigmoid, NULL),
    ONNX__ONE("Softplus", fold_softplus, NULL),
    ONNX__ONE("Sqrt", fold_sqrt, onnx__sqrt),
    ONNX__ONE("Tanh", fold_tanh, NULL),
    ONNX__OTHER("Elu", 1, 1, "alpha", onnx__open_alpha, 0),
    ONNX__OTHER("LeakyRelu", 1, 1, "alpha", onnx__open_alpha, 0),
    ONNX__OTHER("Gelu", 1, 1, "approximate", onnx__open_gelu, 0),
    ONNX__OTHER("Clip", 1, 3, "min max", onnx__open_clip, 0),
    ONNX__TWO("Add", fold_add, onnx__add, 0),
    ONNX__TWO("Div", fold_div, onnx__div, ONNX__FREEZES),
    ONNX__TWO("Mul", fold_mul, onnx__mul, 0),
    ONNX__TWO("Sub", fold_sub, onnx__sub, ONNX__FREEZES),
    { "Max", 1, ONNX__ANY, "", onnx__open_many, NULL, fold_maximum, onnx__max, 0 },
    { "Min", 1, ONNX__ANY, "", onnx__open_many, NULL, fold_minimum, onnx__min, 0 },
    { "Sum", 1, ONNX__ANY, "", onnx__open_many, NULL, fold_add, onnx__add, 0 },
    { "Pow", 2, 2, "", onnx__open_pow, NULL, NULL, onnx__pow, ONNX__INTEGERS | ONNX__FREEZES },
    ONNX__MAP("And", 2, onnx__and, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("Equal", 2, onnx__equal, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("Erf", 1, onnx__erf, 0),
    ONNX__MAP("Greater", 2, onnx__greater, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("GreaterOrEqual", 2, onnx__greater_equal, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("Less", 2, onnx__less, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("LessOrEqual", 2, onnx__less_equal, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("Not", 1, onnx__not, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("Or", 2, onnx__or, ONNX__INTEGERS | ONNX__TRUTH),
    ONNX__MAP("Reciprocal", 1, onnx__reciprocal, 0),
    ONNX__OTHER("Cast", 1, 1, "to saturate", onnx__open_cast, ONNX__INTEGERS),
    ONNX__OTHER("Where", 3, 3, "", onnx__open_where, ONNX__INTEGERS),
    ONNX__OTHER("Concat", 1, ONNX__ANY, "axis", onnx__open_concat, ONNX__INTEGERS),
    ONNX__OTHER("Constant", 0, 0, "value value_float value_floats value_int value_ints", onnx__open_constant, 0),
    ONNX__OTHER("ConstantOfShape", 1, 1, "value", onnx__open_constant_of_shape, 0),
    ONNX__OTHER("Dropout", 1, 3, "ratio seed", onnx__open_same, 0),
    ONNX__OTHER("Expand", 2, 2, "", onnx__open_expand, 0),
    ONNX__OTHER("Flatten", 1, 1, "axis", onnx__open_flatten, 0),
    ONNX__OTHER("Gather", 2, 2, "axis", onnx__open_gather, 0),
    ONNX__OTHER("Identity", 1, 1, "", onnx__open_same, 0),
    ONNX__OTHER("Pad", 1, 4, "mode pads value", onnx__open_pad, 0),
    ONNX__OTHER("Reshape", 1, 2, "shape allowzero", onnx__open_reshape, 0),
    ONNX__OTHER("Shape", 1, 1, "start end", onnx__open_shape, 0),
    ONNX__OTHER("Slice", 1, 5, "starts ends axes", onnx__open_slice, 0),
    ONNX__OTHER("Split", 1, 2, "axis split num_outputs", onnx__open_split, 0),
    ONNX__OTHER("Squeeze", 1, 2, "axes", onnx__open_squeeze, 0),
    ONNX__OTHER("Tile", 2, 2, "", onnx__open_tile, 0),
    ONNX__OTHER("Transpose", 1, 1, "perm", onnx__open_transpose, 0),
    ONNX__OTHER("Unsqueeze", 1, 2, "axes", onnx__open_unsqueeze, 0),
    ONNX__REDUCE("ReduceL1"), ONNX__REDUCE("ReduceL2"), ONNX__REDUCE("ReduceLogSum"), ONNX__REDUCE("ReduceLogSumExp"),
    ONNX__REDUCE("ReduceMax"), ONNX__REDUCE("ReduceMean"), ONNX__REDUCE("ReduceMin"), ONNX__REDUCE("ReduceProd"),
    ONNX__REDUCE("ReduceSum"), ONNX__REDUCE("ReduceSumSquare"),
    { "Softmax", 1, 1, "axis", onnx__open_softmax, fold_softmax, NULL, NULL, 0 },
    { "LogSoftmax", 1, 1, "axis", onnx__open_softmax, onnx__log_softmax, NULL, NULL, 0 },
    ONNX__OTHER("ArgMax", 1, 1, "axis keepdims select_last_index", onnx__open_argmax, 0),
    ONNX__OTHER("Multinomial", 1, 1, "dtype sample_size seed", onnx__open_argmax, 0),
    ONNX__OTHER("RandomNormal", 0, 0, "dtype mean scale seed shape", onnx__open_random, 0),
    ONNX__OTHER("RandomNormalLike", 1, 1, "dtype mean scale seed", onnx__open_random, 0),
    ONNX__OTHER("RandomUniform", 0, 0, "dtype high low seed shape", onnx__open_random, 0),
    ONNX__OTHER("RandomUniformLike", 1, 1, "dtype high low seed", onnx__open_random, 0),
    ONNX__OTHER("BatchNormalization", 5, 5, "epsilon momentum training_mode", onnx__open_batch_norm, 0),
    ONNX__OTHER("LayerNormalization", 2, 3, "axis epsilon stash_type", onnx__open_layer_norm, 0),
    ONNX__OTHER("Gemm", 2, 3, "alpha beta transA transB", onnx__open_gemm, 0),
    ONNX__OTHER("MatMul", 2, 2, "", onnx__open_matmul, 0),
    ONNX__OTHER("Conv", 2, 3, "auto_pad dilations group kernel_shape pads strides", onnx__open_conv, 0),
    ONNX__OTHER("GRU", 3, 6, "activations direction hidden_size layout linear_before_reset", onnx__open_recurrent, 0),
    ONNX__OTHER("LSTM", 3, 8, "activations direction hidden_size input_forget layout", onnx__open_recurrent, 0) };

/* ---- opening ---------------------------------------------------------------------------------- */

/* Tells whether a word is one of a list of words. */
static int onnx__is_listed(const char *list, onnx__span word)
{
    while (*list) {
        const size_t size = strcspn(list, " ");
        if ((size_t)(word.end - word.at) == size && !memcmp(list, word.at, size)) return 1;
        list += size + (list[size] == ' ');
    }
    return 0;
}

/* Reads names of a node into values. An output without a name is a value that nobody finds. */
static int *onnx__names(fold_onnx *o, onnx__span node, int number, int count, int is_output)
{
    int *names = ONNX__PASSING(o, int, count + 1), i = 0;
    onnx__field field;
    while (names && onnx__next(o, &node, &field)) {
        if (field.number != number) continue;
        names[i] = onnx__name(o, field.bytes);
        if (names[i] >= 0 && is_output && o->values[names[i]].origin != ONNX__UNKNOWN)
            return onnx__refuse(o, "'%s' is there already", o->values[names[i]].name), (int *)0;
        if (names[i] >= 0 && !is_output && o->values[names[i]].origin == ONNX__UNKNOWN)
            return onnx__refuse(o, "'%s' is made by nothing before it", o->values[names[i]].name), (int *)0;
        i++;
    }
    return o->failed ? NULL : names;
}

static int onnx__node_fits(fold_onnx *o)
{
    const onnx__op *op = o->node.op;
    onnx__span from = o->node.bytes;
    onnx__field field, name;
    char shown[ONNX__SHORT];
    if (o->node.n_in < op->least || o->node.n_in > op->most) return onnx__refuse(o, "%d inputs", o->node.n_in);
    if (o->node.n_out < 1 || (o->node.out[0] < 0 && op->open != onnx__open_recurrent)) return onnx__refuse(o, "no output");
    for (int i = 0; i < o->node.n_in; i++)
        if (o->node.in[i] < 0 && (i < op->least || op->most == ONNX__ANY)) return onnx__refuse(o, "input %d is left out", i);
    while (onnx__next(o, &from, &field)) {
        if (field.number != 5 || !onnx__field_of(o, field.bytes, 1, &name) || onnx__is_listed(op->attributes, name.bytes)) continue;
        return onnx__refuse(o, "an attribute %s", onnx__shorten(shown, onnx__copy_text(o, name.bytes)));
    }
    return !o->failed;
}

static int onnx__open_node(fold_onnx *o, onnx__span bytes)
{
    onnx__node *node = &o->node;
    onnx__field type, field;
    memset(node, 0, sizeof *node);
    node->bytes = bytes;
    node->type = onnx__field_of(o, bytes, 4, &type) ? onnx__copy_text(o, type.bytes) : "";
    node->n_in = onnx__count_of(o, bytes, 1);
    node->n_out = onnx__count_of(o, bytes, 2);
    if (!onnx__field_of(o, bytes, 3, &field) || field.bytes.at == field.bytes.end) onnx__field_of(o, bytes, 2, &field);
    node->name = o->failed || field.bytes.at == field.bytes.end ? "" : onnx__copy_text(o, field.bytes);
    if (o->failed) return 0;
    for (size_t i = 0; i < sizeof onnx__ops / sizeof *onnx__ops; i++)
        if (!strcmp(onnx__ops[i].type, node->type)) node->op = &onnx__ops[i];
    if (onnx__field_of(o, bytes, 7, &field) && field.bytes.at < field.bytes.end && !onnx__is(field.bytes, "ai.onnx"))
        return onnx__refuse(o, "an op of another domain than ONNX's own");
    if (!node->op) return onnx__refuse(o, "this op is not read");
    if (!(node->in = onnx__names(o, bytes, 1, node->n_in, 0)) || !(node->out = onnx__names(o, bytes, 2, node->n_out, 1))) return 0;
    while (node->n_in && node->in[node->n_in - 1] < 0) node->n_in--; /* those that are left out at the end */
    return onnx__node_fits(o) && node->op->open(o) && !o->failed;
}

/* Says in messages what is read when no node is. */
static void onnx__reads_now(fold_onnx *o, const char *what, const char *name)
{
    o->node.type = what;
    o->node.name = name;
}

static const onnx__op onnx__no_op = { "", 0, 0, "", NULL, NULL, NULL, NULL, 0 };

/* Takes the shape and type of a ValueInfoProto: axes that are not told are 1. */
static int onnx__read_shape(fold_onnx *o, onnx__span info, onnx__value *value)
{
    onnx__field type, tensor, shape, field, dim;
    memset(&tensor, 0, sizeof tensor);
    if (onnx__field_of(o, info, 2, &type) && !onnx__field_of(o, type.bytes, 1, &tensor)) return onnx__refuse(o, "it is no tensor");
    if (onnx__field_of(o, tensor.bytes, 1, &field)) {
        if (!onnx__type_size((int)(field.value & 63)) || field.value > 63) return onnx__refuse(o, "values of ONNX's type %d", (int)(field.value & 1023));
        onnx__set_type(value, (int)field.value);
    }
    if (!onnx__field_of(o, tensor.bytes, 2, &shape)) return !o->failed;
    while (onnx__next(o, &shape.bytes, &field)) {
        if (field.number != 1) continue;
        if (value->rank == FOLD_ONNX_RANK) return onnx__refuse(o, "more than %d axes", (int)FOLD_ONNX_RANK);
        const int told = onnx__field_of(o, field.bytes, 1, &dim) && (int64_t)dim.value > 0 && dim.value <= INT_MAX;
        value->dim[value->rank++] = told ? (int)dim.value : 1;
    }
    return !o->failed;
}

/* An input of the graph, unless it has a value already, as weights do in old files. */
static int onnx__open_input(fold_onnx *o, onnx__span info)
{
    onnx__field field;
    const fold_onnx_binding *bound = NULL;
    const int index = onnx__field_of(o, info, 1, &field) ? onnx__name(o, field.bytes) : -1;
    if (index < 0) return o->failed ? 0 : onnx__fail(o, FOLD_IO, "onnx: an input without a name");
    onnx__value *value = &o->values[index];
    onnx__reads_now(o, "input", value->name);
    if (value->origin == ONNX__FIXED) return 1;
    if (value->origin != ONNX__UNKNOWN) return onnx__refuse(o, "it is there twice");
    for (int i = 0; i < o->desc.n_bindings; i++)
        if (o->desc.bindings[i].name && !strcmp(o->desc.bindings[i].name, value->name)) bound = &o->desc.bindings[i];
    if (!onnx__read_shape(o, info, value)) return 0;
    if (bound && bound->has_shape && (bound->rank < 0 || bound->rank > FOLD_ONNX_RANK)) return onnx__refuse(o, "rank %d", bound->rank);
    if (!onnx__set_shape(o, index, bound && bound->has_shape ? bound->dim : value->dim, bound && bound->has_shape ? bound->rank : value->rank)) return 0;
    value->origin = ONNX__INPUT;
    if (!bound || !bound->values) {
        if (!onnx__shape(value->dim, value->rank).rank) return onnx__refuse(o, "more than %d axes", (int)FOLD_MAX_RANK);
        o->inputs[o->n_inputs++] = index;
        return 1;
    }
    value->origin = ONNX__FIXED;
    value->constant.numbers = ONNX__PASSING(o, double, value->count);
    for (int i = 0; value->constant.numbers && i < value->count; i++) value->constant.numbers[i] = (double)bound->values[i];
    return !o->failed;
}

/* An output that is constant is a value like any other, and one that nothing makes is told to have no values. */
static int onnx__open_output(fold_onnx *o, onnx__span info)
{
    onnx__field field;
    const int index = onnx__field_of(o, info, 1, &field) ? onnx__name(o, field.bytes) : -1;
    if (index < 0) return o->failed ? 0 : onnx__fail(o, FOLD_IO, "onnx: an output without a name");
    o->outputs[o->n_outputs++] = index;
    onnx__reads_now(o, "output", o->values[index].name);
    o->node.op = &onnx__no_op;
    return o->values[index].origin != ONNX__FIXED || onnx__use_constant(o, index, 0);
}

/* Calls read for every field of a number. */
static int onnx__each(fold_onnx *o, onnx__span from, int number, int (*read)(fold_onnx *, onnx__span))
{
    onnx__field field;
    while (onnx__next(o, &from, &field))
        if (field.number == number && !read(o, field.bytes)) return 0;
    return !o->failed;
}
static int onnx__open_initializer(fold_onnx *o, onnx__span tensor)
{
    onnx__field field;
    const int index = onnx__field_of(o, tensor, 8, &field) ? onnx__name(o, field.bytes) : -1;
    if (index < 0) return o->failed ? 0 : onnx__fail(o, FOLD_IO, "onnx: a weight without a name");
    onnx__reads_now(o, "weight", o->values[index].name);
    return onnx__read_tensor(o, tensor, index);
}
static int onnx__open_metadata(fold_onnx *o, onnx__span entry)
{
    onnx__field key, text;
    const onnx__span none = { entry.end, entry.end };
    if (!onnx__field_of(o, entry, 1, &key)) return !o->failed;
    o->metadata[o->n_metadata].key = onnx__copy_text(o, key.bytes);
    o->metadata[o->n_metadata++].text = onnx__copy_text(o, onnx__field_of(o, entry, 2, &text) ? text.bytes : none);
    return !o->failed;
}
/* The version of ONNX's own ops. */
static int onnx__open_version(fold_onnx *o, onnx__span entry)
{
    onnx__field field;
    if (onnx__field_of(o, entry, 1, &field) && field.bytes.at < field.bytes.end && !onnx__is(field.bytes, "ai.onnx")) return !o->failed;
    if (onnx__field_of(o, entry, 2, &field)) o->version = field.value < 1000 ? (int)field.value : 1000;
    return !o->failed;
}

/* Makes the tables, as large as the graph can need. */
static int onnx__make_tables(fold_onnx *o, onnx__span model, onnx__span graph)
{
    onnx__field field;
    onnx__span from = graph;
    int names = onnx__count_of(o, graph, 5) + onnx__count_of(o, graph, 11) + onnx__count_of(o, graph, 12), outputs = 0;
    while (onnx__next(o, &from, &field))
        if (field.number == 1) outputs += onnx__count_of(o, field.bytes, 2);
    names += outputs + onnx__count_of(o, graph, 1); /* inputs of nodes are names of these, or are refused */
    for (o->n_named = 16; o->n_named < 4 * names && o->n_named < 1 << 28; o->n_named *= 2) {}
    o->most_values = names + 1;
    o->most_steps = outputs;
    if (o->failed) return 0;
    o->values = ONNX__KEPT(o, onnx__value, o->most_values + 1);
    o->steps = ONNX__KEPT(o, onnx__step, outputs + 1);
    o->named = ONNX__KEPT(o, int, o->n_named);
    o->weights = ONNX__PASSING(o, onnx__weight, 2 * o->most_values);
    o->inputs = ONNX__KEPT(o, int, onnx__count_of(o, graph, 11) + 1);
    o->outputs = ONNX__KEPT(o, int, onnx__count_of(o, graph, 12) + 1);
    o->metadata = ONNX__KEPT(o, onnx__pair, onnx__count_of(o, model, 14) + 1);
    for (int i = 0; o->named && i < o->n_named; i++) o->named[i] = -1;
    return !o->failed;
}

static int onnx__open_all(fold_onnx *o, onnx__span model)
{
    onnx__field graph;
    if (!onnx__field_of(o, model, 7, &graph) || graph.wire != ONNX__BYTES) return o->failed ? 0 : onnx__fail(o, FOLD_IO, "onnx: the file has no graph");
    if (!onnx__make_tables(o, model, graph.bytes) || !onnx__each(o, model, 8, onnx__open_version)) return 0;
    if (o->version < 1 || o->version > 20) return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: the file has opset %d; 1 to 20 are read", o->version);
    if (onnx__count_of(o, graph.bytes, 15)) return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: the file has sparse weights");
    o->node.op = &onnx__no_op;
    return onnx__each(o, model, 14, onnx__open_metadata) && onnx__each(o, graph.bytes, 5, onnx__open_initializer) &&
           onnx__each(o, graph.bytes, 11, onnx__open_input) && onnx__each(o, graph.bytes, 1, onnx__open_node) &&
           onnx__each(o, graph.bytes, 12, onnx__open_output);
}

fold_onnx_desc fold_onnx_desc_default(void)
{
    fold_onnx_desc desc;
    memset(&desc, 0, sizeof desc);
    return desc;
}

/* Begins a reader of a file of this size; NULL after an error. It is moved into memory of its own. */
static fold_onnx *onnx__begin(fold_model *m, const fold_onnx_desc *desc, size_t size)
{
    enum { ROOM = 8 << 20 };
    fold_onnx begun;
    memset(&begun, 0, sizeof begun);
    if (!m || fold_model_status(m)) return NULL;
    begun.model = m;
    if (desc) begun.desc = *desc;
    begun.budget = (size < SIZE_MAX / 8 ? 4 * size : size) + ROOM;
    fold_onnx *o = ONNX__KEPT(&begun, fold_onnx, 1);
    if (o) *o = begun;
    return o;
}
static fold_onnx *onnx__finish(fold_onnx *o, onnx__span model)
{
    const int opened = !o->failed && onnx__open_all(o, model);
    onnx__release(o, &o->passing);
    memset(&o->node, 0, sizeof o->node);
    o->desc.bindings = NULL;
    o->desc.prefix = NULL;
    if (opened) return o;
    fold_onnx_close(o);
    return NULL;
}

fold_onnx *fold_onnx_open_memory(fold_model *m, const void *bytes, size_t size, const fold_onnx_desc *desc)
{
    const onnx__span model = { (const unsigned char *)bytes, (const unsigned char *)bytes + (bytes ? size : 0) };
    fold_onnx *o = onnx__begin(m, desc, size);
    return o ? onnx__finish(o, model) : NULL;
}
void fold_onnx_close(fold_onnx *o)
{
    if (o) onnx__release(o, &o->kept);
}

#ifndef FOLD_NO_STDIO
fold_onnx *fold_onnx_open(fold_model *m, const char *path, const fold_onnx_desc *desc)
{
    fold_onnx *o = onnx__begin(m, desc, 0);
    onnx__span model = { NULL, NULL };
    if (!o) return NULL;
    o->folder = path ? path : "";
    for (const char *at = o->folder; *at; at++)
        if (*at == '/' || *at == '\\') o->folder_length = (int)(at - o->folder) + 1;
    model.at = model.end = onnx__read_part(o, o->folder, 0, SIZE_MAX);
    if (model.at) model.end += o->read;
    o = onnx__finish(o, model);
    if (o) o->folder = NULL;
    return o;
}
#endif

/* ---- asking ----------------------------------------------------------------------------------- */

static fold_onnx_tensor onnx__tensor(const fold_onnx *o, int index)
{
    fold_onnx_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    if (index < 0) return tensor;
    const onnx__value *value = &o->values[index];
    tensor.name = value->name;
    tensor.rank = value->rank;
    memcpy(tensor.dim, value->dim, sizeof tensor.dim);
    tensor.count = value->origin == ONNX__UNKNOWN ? 0 : value->count;
    tensor.is_integer = value->is_integer;
    tensor.is_constant = value->origin == ONNX__FIXED;
    return tensor;
}
int fold_onnx_input_count(const fold_onnx *o) { return o ? o->n_inputs : 0; }
int fold_onnx_output_count(const fold_onnx *o) { return o ? o->n_outputs : 0; }
fold_onnx_tensor fold_onnx_input(const fold_onnx *o, int index)
{
    return onnx__tensor(o, o && index >= 0 && index < o->n_inputs ? o->inputs[index] : -1);
}
fold_onnx_tensor fold_onnx_output(const fold_onnx *o, int index)
{
    return onnx__tensor(o, o && index >= 0 && index < o->n_outputs ? o->outputs[index] : -1);
}
fold_onnx_tensor fold_onnx_find(const fold_onnx *o, const char *name) { return onnx__tensor(o, onnx__find(o, name)); }
int fold_onnx_metadata_count(const fold_onnx *o) { return o ? o->n_metadata : 0; }
const char *fold_onnx_metadata_key(const fold_onnx *o, int index)
{
    return o && index >= 0 && index < o->n_metadata ? o->metadata[index].key : NULL;
}
const char *fold_onnx_metadata(const fold_onnx *o, const char *key)
{
    for (int i = 0; o && key && i < o->n_metadata; i++)
        if (!strcmp(o->metadata[i].key, key)) return o->metadata[i].text;
    return NULL;
}

/* ---- recording -------------------------------------------------------------------------------- */

/* Takes what is handed in. */
static int onnx__give(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in)
{
    char shown[ONNX__SHORT];
    const int index = onnx__find(o, in->name);
    onnx__shorten(shown, in->name ? in->name : "");
    if (index < 0 || o->values[index].origin == ONNX__UNKNOWN) return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: there is no '%s'", shown);
    onnx__value *value = &o->values[index];
    if (value->origin == ONNX__FIXED || value->channels_last) return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: '%s' is no input", shown);
    const fold_shape shape = onnx__node_shape(value);
    value->given = 1;
    if (in->values) {
        value->node = fold_input_shaped(f, in->values, shape);
        return 1;
    }
    const fold_shape own = fold_node_shape(f, in->node);
    if (fold_node_is_null(in->node) || onnx__elements(own) != value->count)
        return fold_ctx_status(f) ? 0 : onnx__fail(o, FOLD_BAD_SHAPE, "onnx: '%s' has %d values", shown, value->count);
    value->node = onnx__reshape(f, in->node, shape);
    return 1;
}

/* Marks the steps that are needed, from the last to the first. */
static int onnx__mark(fold_onnx *o)
{
    char shown[ONNX__SHORT];
    for (int i = o->n_steps; i-- > 0;) {
        onnx__step *step = &o->steps[i];
        step->needed = 0;
        for (int k = 0; k < step->n_out; k++)
            if (step->out[k] >= 0 && o->values[step->out[k]].wanted && !o->values[step->out[k]].given) step->needed = 1;
        for (int k = 0; step->needed && k < step->n_in; k++)
            if (step->in[k].value >= 0) o->values[step->in[k].value].wanted = 1;
    }
    for (int i = 0; i < o->n_inputs; i++) {
        const onnx__value *value = &o->values[o->inputs[i]];
        if (value->wanted && !value->given)
            return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: the input '%s' is not handed in", onnx__shorten(shown, value->name));
    }
    return 1;
}

static fold_node onnx__value_node(fold_ctx *f, const onnx__value *value)
{
    if (value->origin != ONNX__FIXED) return value->node;
    return onnx__reshape(f, fold_use(f, value->param), onnx__shape(value->dim, value->rank));
}
static void onnx__record_step(const onnx__recording *r, const onnx__step *step)
{
    fold_node *in = step->nodes, *out = step->nodes + step->n_in;
    memset(in, 0, (size_t)(step->n_in + step->n_out) * sizeof *in);
    for (int i = 0; i < step->n_in; i++) {
        const onnx__operand *operand = &step->in[i];
        if (operand->value < 0) continue;
        in[i] = onnx__value_node(r->f, &r->o->values[operand->value]);
        if (operand->move) in[i] = onnx__apply_move(r->f, operand->move, in[i]);
    }
    step->record(r, step, in, out);
    for (int i = 0; i < step->n_out; i++) {
        onnx__value *value = step->out[i] < 0 ? NULL : &r->o->values[step->out[i]];
        if (!value || value->given) continue;
        if (step->after[i]) out[i] = onnx__apply_move(r->f, step->after[i], out[i]);
        value->node = onnx__reshape(r->f, out[i], onnx__node_shape(value));
    }
}

static int onnx__ask(fold_onnx *o, const fold_onnx_value *out)
{
    char shown[ONNX__SHORT];
    const int index = onnx__find(o, out->name);
    const onnx__value *value = index < 0 ? NULL : &o->values[index];
    onnx__shorten(shown, out->name ? out->name : "");
    if (!value || value->origin == ONNX__UNKNOWN) return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: nothing makes '%s'", shown);
    if (value->origin == ONNX__FIXED && fold_param_is_null(value->param))
        return onnx__fail(o, FOLD_BAD_ARGUMENT, "onnx: '%s' is a constant that is no value of the network", shown);
    o->values[index].wanted = 1;
    return 1;
}
static void onnx__hand_out(fold_onnx *o, fold_ctx *f, fold_onnx_value *out)
{
    const onnx__value *value = &o->values[onnx__find(o, out->name)];
    out->node = onnx__value_node(f, value);
    if (!value->channels_last) return;
    const fold_shape flat = fold_shape2(value->count / value->dim[1], value->dim[1]);
    out->node = fold_transpose(f, onnx__reshape(f, out->node, flat), 0, 1);
    out->node = onnx__reshape(f, out->node, onnx__shape(value->dim, value->rank));
}

fold_status fold_onnx_record(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in, int n_in, fold_random *chance,
                             fold_onnx_value *out, int n_out)
{
    const onnx__recording r = { o, f, chance };
    const fold_node none = { 0, 0 };
    for (int i = 0; out && i < n_out; i++) out[i].node = none;
    if (!o || !f || !out || (!in && n_in > 0)) return FOLD_BAD_ARGUMENT;
    if (fold_ctx_status(f)) return fold_ctx_status(f);
    o->recording = f;
    o->failed = 0;
    if (fold_ctx_model(f) != o->model) onnx__fail(o, FOLD_BAD_HANDLE, "onnx: the context is of another model");
    for (int i = 0; i < o->n_values; i++) o->values[i].wanted = o->values[i].given = 0;
    for (int i = 0; i < n_in && !o->failed; i++) onnx__give(o, f, &in[i]);
    for (int i = 0; i < n_out && !o->failed; i++) onnx__ask(o, &out[i]);
    if (o->failed || !onnx__mark(o)) return fold_ctx_status(f);
    for (int i = 0; i < o->n_steps; i++)
        if (o->steps[i].needed) onnx__record_step(&r, &o->steps[i]);
    for (int i = 0; i < n_out; i++) onnx__hand_out(o, f, &out[i]);
    return fold_ctx_status(f);
}
#endif /* ONNX_IMPLEMENTATION */
