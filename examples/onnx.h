/* onnx.h - reads networks from ONNX files, such as the policy.onnx that robots and games ship, by calls of
   fold.h alone.

   In one C or C++ file:  #define ONNX_IMPLEMENTATION
                          #include "onnx.h"                          // behind fold.h
   Everywhere else:       #include "onnx.h"

       fold_onnx *o = fold_onnx_open(m, "policy.onnx", NULL);
       if (!o) puts(fold_model_message(m));
       fold_onnx_value in = { "obs", observation, FOLD_NULL_NODE }, out = { "actions", NULL, FOLD_NULL_NODE };
       fold_onnx_record(o, f, &in, 1, NULL, &out, 1);                 // once for each agent
       fold_run(f, &out.node, 1);                                     // all agents together
       const float *actions = fold_value(f, out.node);

   Opening reads the file once. Its weights become parameters of the model, under their names in the file.
   The rest becomes a list of steps, of which all shapes are known: an axis whose length the file leaves
   open, such as the batch, becomes 1. Recording walks the steps that an output needs, for one sample. So
   any number of agents batches, and the network is run, replayed, trained on, quantised and saved like any
   other. A batch that the file fixes to more than 1 stays one sample. Where another axis is open, such as
   the length of a sequence, a binding tells its length.

   Values are those of the file, in its shapes. A state is an input and an output by name: hand in what
   came out, or zeros to begin anew. The parameters can train, but those that are subtracted or divided by,
   such as statistics of observations, and those that the file computes from others, are frozen.

   Ops that draw random numbers take them from a fold_random, or do without: then normal and uniform
   numbers are their mean, and a choice is the most probable one. So an action without noise is its mean.
   Names of tensors that feed such ops, such as logits, can be asked for like outputs.

   Errors: a file that is broken, or has something that is not read, is refused. The error of the model
   names the op, the node and the reason. What is computed in half or double precision there is computed in
   float here.

   It takes memory by the model's allocator alone. There are no globals. The file is C99 and C++17, and
   works in every build of fold.h. Erf, Pow by values that are not constant, and the noise of choices call
   libm, so their bits are those of libm. No gradient passes through Pow by such values, comparisons, and
   choices. */

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
    int has_shape; /* 0: the shape is that of the file, with 1 for every axis that is not told */
    int rank, dim[FOLD_ONNX_RANK];
} fold_onnx_binding;

typedef struct fold_onnx_desc {
    const char *prefix; /* comes before the names of parameters: "left." lets a model hold several files */
    const fold_onnx_binding *bindings;
    int n_bindings;
} fold_onnx_desc;
fold_onnx_desc fold_onnx_desc_default(void); /* all zero */

#ifndef FOLD_NO_STDIO
/* Opens a file; desc NULL is the default. Weights that the file keeps in other files are read beside it.
   Returns NULL when it cannot be read: the model has the error. */
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
/* Records one sample: gives each of `out` the node of the tensor that it names, which may be an inner one.
   Only inputs that these need must be there. Noise can be an input too, by the name of the random op's
   output; else it is drawn from chance, and NULL is no noise. Two threads must not record the same o at once.
   Errors are those of the context: a name that is not in the file, an input that is missing. */
fold_status fold_onnx_record(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in, int n_in,
                             fold_random *chance, fold_onnx_value *out, int n_out);
#ifndef FOLD_NO_TEXT
/* Prints one of the ops that fold_onnx_record adds to those of fold.h: it is the `own` of a to_c_desc
   (examples/to_c.h). Returns 1 for an op that it cannot print, such as Erf. */
int fold_onnx_print(const fold_seen *seen, fold_writer *write, void *writer, void *user);
#endif

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

enum { ONNX__MOST_VALUES = 1 << 24, ONNX__MOST_OUT = 64 };

/* ---- what is known of a file ------------------------------------------------------------------ */

typedef struct onnx__span { const unsigned char *at, *end; } onnx__span;

/* Memory that is freed as a whole, in chunks of the model's allocator. */
typedef struct onnx__chunk { struct onnx__chunk *next; size_t size; } onnx__chunk;
typedef struct onnx__arena { onnx__chunk *first; size_t used; } onnx__arena;

/* A type of ONNX: how raw values lie, and the field and wire of values that are listed. */
typedef struct onnx__type { int type, size, is_integer, field, wire; } onnx__type;
enum { ONNX__VARINT = 0, ONNX__EIGHT = 1, ONNX__BYTES = 2, ONNX__FOUR = 5 }; /* protobuf's wires */
enum { ONNX__FLOAT = 1, ONNX__INT32 = 6, ONNX__INT64 = 7 };
enum { ONNX__BOOL = 9, ONNX__HALF = 10, ONNX__DOUBLE = 11 };
static const onnx__type onnx__types[] = {
    { ONNX__FLOAT, 4, 0, 4, ONNX__FOUR },   { ONNX__DOUBLE, 8, 0, 10, ONNX__EIGHT },
    { ONNX__HALF, 2, 0, 5, ONNX__VARINT },  { ONNX__INT64, 8, 1, 7, ONNX__VARINT },
    { ONNX__INT32, 4, 1, 5, ONNX__VARINT }, { ONNX__BOOL, 1, 1, 5, ONNX__VARINT } };

/* Values that are known when the file is opened: as they lie in the file, or computed. */
typedef struct onnx__constant {
    const unsigned char *raw; /* little-endian; NULL: they are numbers */
    const onnx__type *type;
    double *numbers;
} onnx__constant;

enum { ONNX__UNKNOWN, ONNX__INPUT, ONNX__COMPUTED, ONNX__FIXED }; /* where a value comes from */
typedef struct onnx__value {
    const char *name;
    int origin;
    int rank, dim[FOLD_ONNX_RANK], count;
    int is_integer;           /* so are truth values */
    onnx__constant constant;
    fold_param param;         /* a constant that steps read as a value */
    int step;                 /* the one that makes it */
    fold_node node;           /* while a sample is recorded */
    int wanted, given;
} onnx__value;

/* Brings a value into another shape and order, when it is read or made. Most are windows, or do nothing at
   all. */
typedef struct onnx__move {
    fold_shape shape;
    int from, count;          /* the window */
    int is_window, is_permutation;
    fold_op op;               /* for all others */
    const int *source;        /* where each run of `run` values comes from; -1: from nowhere, it is pad */
    int run, has_pad;
    float pad;
} onnx__move;
typedef struct onnx__operand { int value; onnx__move *move; } onnx__operand; /* value -1: there is none */

/* What is known of an op: its row in the table of ops. */
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
enum { ONNX__INTEGERS = 1, ONNX__TRUTH = 2, ONNX__FREEZES = 4, ONNX__LINE = 8 };

/* Records ops of fold.h for a step, whose operands are `in`, and writes what it makes to `out`. */
struct onnx__step;
typedef void onnx__recorder(fold_onnx *o, const struct onnx__step *s, const fold_node *in, fold_node *out);
typedef struct onnx__step {
    onnx__recorder *record;
    const onnx__op *op;
    onnx__operand *in;
    int n_in;
    int *out;                 /* values, or -1 */
    int n_out;
    int number[10];           /* what the op needs to know, resolved */
    float real[2];
    fold_param param[8];
    fold_op own;
    float *noise;             /* place for a random op's */
    fold_node *nodes;         /* place for inputs, outputs, and what comes between */
    int needed;
} onnx__step;

typedef struct onnx__node { /* that is being read */
    const onnx__op *op;
    onnx__span bytes;
    const char *type, *name;
    int *in, n_in;            /* -1: left out */
    int *out, n_out;
} onnx__node;

/* A parameter that was made of a value, in one of the forms. */
typedef struct onnx__weight {
    int value, form;
    float scale;
    fold_shape shape;
    fold_param param;
} onnx__weight;
enum { ONNX__AS_IT_IS, ONNX__TURNED, ONNX__ZEROS, ONNX__ONES, ONNX__OF_STEP }; /* + n: the n-th step's own */
typedef struct onnx__pair { const char *key, *text; } onnx__pair;

struct fold_onnx {
    fold_model *model;
    fold_ctx *f;               /* while a sample is recorded: errors are its own */
    fold_random *chance;
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

/* Says why something is refused: the node that is read, if one is. The first error stays. */
static int onnx__fail(fold_onnx *o, fold_status status, const char *format, ...)
{
    char reason[160], text[240];
    va_list args;
    if (o->failed) return 0;
    va_start(args, format);
    fold_format(reason, sizeof reason, format, args);
    va_end(args);
    if (o->node.type)
        onnx__format(text, sizeof text, "onnx: %.40s '%.60s': %s", o->node.type, o->node.name, reason);
    else onnx__format(text, sizeof text, "onnx: %s", reason);
    o->failed = 1;
    if (o->f) fold_ctx_fail(o->f, status, text);
    else fold_model_fail(o->model, status, text);
    return 0;
}
#define ONNX__REFUSE(o, ...) onnx__fail(o, FOLD_BAD_ARGUMENT, __VA_ARGS__)

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
        if (!chunk) {
            const char *reason = room > o->budget ? "the file asks for too much memory" : "out of memory";
            return onnx__fail(o, FOLD_NO_MEMORY, "%s", reason), (void *)0;
        }
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

static int onnx__broken(fold_onnx *o, onnx__span *from)
{
    from->at = from->end;
    return onnx__fail(o, FOLD_IO, "the file is broken, or is no ONNX file");
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
/* Copies the text of a field; "" where it is missing. */
static const char *onnx__text_of(fold_onnx *o, onnx__span from, int number)
{
    onnx__field field;
    return onnx__field_of(o, from, number, &field) ? onnx__copy_text(o, field.bytes) : "";
}

/* Calls read for every field of a number. */
static int onnx__each(fold_onnx *o, onnx__span from, int number, int (*read)(fold_onnx *, onnx__span))
{
    onnx__field field;
    while (onnx__next(o, &from, &field))
        if (field.number == number && !read(o, field.bytes)) return 0;
    return !o->failed;
}

static const onnx__type *onnx__type_of(uint64_t type)
{
    for (size_t i = 0; i < sizeof onnx__types / sizeof *onnx__types; i++)
        if ((uint64_t)onnx__types[i].type == type) return &onnx__types[i];
    return NULL;
}
static double onnx__half(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) value = fraction ? (double)NAN : (double)INFINITY;
    return bits >> 15 & 1 ? -value : value;
}
static double onnx__decode(int type, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float single;
    double whole;
    memcpy(&single, &low, sizeof single);
    memcpy(&whole, &bits, sizeof whole);
    switch (type) {
    case ONNX__FLOAT: return (double)single;
    case ONNX__DOUBLE: return whole;
    case ONNX__HALF: return onnx__half((unsigned)(bits & 65535));
    case ONNX__INT64: return (double)(int64_t)bits;
    case ONNX__INT32: return (double)(int32_t)low;
    default: return (double)(bits & 255);
    }
}

/* Numbers of a repeated field, packed or one by one: writes the first `most`, returns how many there are. */
static int onnx__numbers(fold_onnx *o, onnx__span from, int number, const onnx__type *type, double *out,
                         int most)
{
    const int wire = type->wire, size = wire == ONNX__FOUR ? 4 : 8;
    onnx__field field;
    int count = 0;
    while (onnx__next(o, &from, &field)) {
        if (field.number != number) continue;
        onnx__span packed = field.bytes;
        const int alone = field.wire == wire;
        if (!alone && field.wire != ONNX__BYTES) return onnx__broken(o, &from);
        while (alone || packed.at < packed.end) {
            uint64_t bits = field.value;
            if (!alone && wire == ONNX__VARINT && !onnx__varint(&packed, &bits))
                return onnx__broken(o, &from);
            if (!alone && wire != ONNX__VARINT) {
                if (packed.end - packed.at < size) return onnx__broken(o, &from);
                bits = onnx__little(packed.at, size);
                packed.at += size;
            }
            if (count < most) out[count] = onnx__decode(type->type, bits);
            if (++count == ONNX__MOST_VALUES) return onnx__broken(o, &from);
            if (alone) break;
        }
    }
    return count;
}

/* ---- values ----------------------------------------------------------------------------------- */

/* The place of a name in the table, which is a free one when the name is new. */
static int *onnx__place(const fold_onnx *o, const char *name)
{
    const uint32_t mask = (uint32_t)(o->n_named - 1);
    uint32_t at = 2166136261u;
    for (const char *letter = name; *letter; letter++) at = (at ^ (unsigned char)*letter) * 16777619u;
    while (o->named[at & mask] >= 0 && strcmp(o->values[o->named[at & mask]].name, name)) at++;
    return &o->named[at & mask];
}
static int onnx__find(const fold_onnx *o, const char *name)
{
    return o && name && *name ? *onnx__place(o, name) : -1;
}

/* The value of a name, which is added when it is new. An empty name is none, -1. */
static int onnx__name(fold_onnx *o, const char *name)
{
    if (!*name || o->failed) return -1;
    int *place = onnx__place(o, name);
    if (*place >= 0) return *place;
    if (o->n_values == o->most_values) return onnx__fail(o, FOLD_IO, "the file is broken") - 1;
    o->values[o->n_values].name = name;
    return *place = o->n_values++;
}

/* Counts the values of a shape; 0 after an error. */
static int onnx__size(fold_onnx *o, const int *dim, int rank)
{
    long long count = 1;
    for (int k = 0; k < rank; k++) {
        if (dim[k] < 1) return ONNX__REFUSE(o, "an axis of %d values", dim[k]);
        count *= dim[k];
        if (count > ONNX__MOST_VALUES)
            return ONNX__REFUSE(o, "a tensor of more than %d values", (int)ONNX__MOST_VALUES);
    }
    return (int)count;
}
static int onnx__too_many_axes(fold_onnx *o, int most) { return ONNX__REFUSE(o, "more than %d axes", most); }

static fold_shape onnx__plain_shape(const int *dim, int rank)
{
    fold_shape shape = { 0, { 0, 0, 0, 0 } };
    shape.rank = rank;
    for (int k = 0; k < rank; k++) shape.dim[k] = dim[k];
    return shape;
}
/* fold.h's shape of a value has no axes of 1 in front, so that shapes meet as they do in the file. Rank 0:
   too many axes. */
static fold_shape onnx__shape(const int *dim, int rank)
{
    while (rank > 1 && *dim == 1) rank--, dim++;
    return rank ? onnx__plain_shape(dim, rank <= FOLD_MAX_RANK ? rank : 0) : fold_shape1(1);
}
static int onnx__elements(fold_shape shape)
{
    int count = 1;
    for (int k = 0; k < shape.rank; k++) count *= shape.dim[k];
    return count;
}

static int onnx__set_shape(fold_onnx *o, int index, const int *dim, int rank)
{
    onnx__value *value = &o->values[index];
    if (rank > FOLD_ONNX_RANK) return onnx__too_many_axes(o, FOLD_ONNX_RANK);
    value->rank = rank;
    if (rank) memmove(value->dim, dim, (size_t)rank * sizeof *dim);
    value->count = onnx__size(o, value->dim, rank);
    return value->count > 0;
}
static double onnx__number(const onnx__constant *constant, int i)
{
    if (!constant->raw) return constant->numbers[i];
    const size_t size = (size_t)constant->type->size;
    return onnx__decode(constant->type->type, onnx__little(constant->raw + size * (size_t)i, (int)size));
}
static int onnx__is_fixed(const fold_onnx *o, int value)
{
    return value >= 0 && o->values[value].origin == ONNX__FIXED;
}

/* Takes a constant of one value; 0 when it is none. */
static int onnx__scalar(const fold_onnx *o, int value, double *number)
{
    if (!onnx__is_fixed(o, value) || o->values[value].count != 1) return 0;
    *number = onnx__number(&o->values[value].constant, 0);
    return 1;
}

/* Rounds what was computed to the value's type. */
static double onnx__round(const onnx__value *value, double number)
{
    if (!value->is_integer) return (double)(float)number;
    return number < 0 ? ceil(number) : floor(number);
}

/* Makes a value constant, of numbers that are to be written. */
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
    unsigned char *bytes = NULL;
    if (!file) return onnx__fail(o, FOLD_IO, "'%.60s' cannot be opened", path), bytes;
    const long length = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size == SIZE_MAX && length >= 0) size = (size_t)length; /* all of it */
    const int is_known = length >= 0 && length < LONG_MAX && from <= (size_t)length;
    if (is_known && (size_t)length - from >= size && !fseek(file, (long)from, SEEK_SET)) {
        o->budget += size < SIZE_MAX / 16 ? 4 * size : 0;
        bytes = ONNX__PASSING(o, unsigned char, size + 1);
        if (bytes && fread(bytes, 1, size, file) != size) bytes = NULL;
    }
    fclose(file);
    if (!bytes) onnx__fail(o, FOLD_IO, "'%.60s' has too few bytes", path);
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

static const unsigned char *onnx__external(fold_onnx *o, onnx__span tensor, size_t size)
{
    onnx__field entry, key;
    const char *location = "", *wrong = "it is in another file, and this one was opened in memory";
    uint64_t offset = 0, length = size;
    while (onnx__next(o, &tensor, &entry)) {
        if (entry.number != 13 || !onnx__field_of(o, entry.bytes, 1, &key)) continue;
        const char *word = onnx__text_of(o, entry.bytes, 2);
        uint64_t number = 0;
        for (const char *digit = word; *digit >= '0' && *digit <= '9' && number < UINT64_MAX / 20; digit++)
            number = 10 * number + (uint64_t)(*digit - '0');
        if (onnx__is(key.bytes, "location")) location = word;
        if (onnx__is(key.bytes, "offset")) offset = number;
        if (onnx__is(key.bytes, "length")) length = number;
    }
    if (length != size || offset > SIZE_MAX / 2) wrong = "its data have another size than its shape tells";
    else if (!onnx__is_beside(location)) wrong = "it is in a file that does not lie beside this one";
#ifndef FOLD_NO_STDIO
    else if (o->folder && !o->failed) {
        char *path = ONNX__PASSING(o, char, (size_t)o->folder_length + strlen(location) + 1);
        if (!path) return NULL;
        memcpy(path, o->folder, (size_t)o->folder_length);
        memcpy(path + o->folder_length, location, strlen(location));
        return onnx__read_part(o, path, (size_t)offset, size);
    }
#endif
    return onnx__fail(o, FOLD_IO, "%s", wrong), (const unsigned char *)0;
}

/* Numbers of a tensor that has no raw data. */
static int onnx__read_listed(fold_onnx *o, onnx__span tensor, onnx__value *value, const onnx__type *type)
{
    const int there = onnx__numbers(o, tensor, type->field, type, NULL, 0);
    if (o->failed) return 0;
    if (there != value->count)
        return ONNX__REFUSE(o, "%d values, its shape tells of %d", there, value->count);
    double *numbers = value->constant.numbers = ONNX__PASSING(o, double, there);
    if (numbers) onnx__numbers(o, tensor, type->field, type, numbers, there);
    return numbers != NULL;
}

/* Reads a TensorProto into a constant. */
static int onnx__read_tensor(fold_onnx *o, onnx__span tensor, int index)
{
    onnx__value *value = &o->values[index];
    double dim[FOLD_ONNX_RANK];
    int whole[FOLD_ONNX_RANK];
    onnx__field field;
    const int rank = onnx__numbers(o, tensor, 1, onnx__type_of(ONNX__INT64), dim, FOLD_ONNX_RANK);
    onnx__field_of(o, tensor, 2, &field);
    const onnx__type *type = onnx__type_of(field.value);
    if (o->failed) return 0;
    if (value->origin != ONNX__UNKNOWN) return ONNX__REFUSE(o, "another tensor has this name");
    if (!type) return ONNX__REFUSE(o, "values of ONNX's type %d", (int)(field.value & 1023));
    for (int k = 0; k < rank && k < FOLD_ONNX_RANK; k++)
        whole[k] = dim[k] >= 0 && dim[k] <= INT_MAX ? (int)dim[k] : -1;
    if (!onnx__set_shape(o, index, whole, rank)) return 0;
    value->is_integer = type->is_integer;
    value->origin = ONNX__FIXED;
    value->constant.type = type;
    const size_t size = (size_t)value->count * (size_t)type->size;
    if (onnx__field_of(o, tensor, 3, &field)) return ONNX__REFUSE(o, "a segment of a tensor");
    if (onnx__field_of(o, tensor, 14, &field) && field.value == 1)
        return (value->constant.raw = onnx__external(o, tensor, size)) != NULL;
    if (!onnx__field_of(o, tensor, 9, &field)) return onnx__read_listed(o, tensor, value, type);
    if ((size_t)(field.bytes.end - field.bytes.at) != size)
        return ONNX__REFUSE(o, "its data have another size than its shape tells");
    value->constant.raw = field.bytes.at;
    return 1;
}

/* ---- the node that is read: attributes and inputs ---------------------------------------------- */

/* Finds an attribute, or with a number that field of it. */
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
static int onnx__near(double number)
{
    return number < -INT_MAX ? -INT_MAX : number > INT_MAX ? INT_MAX : (int)number;
}
static int onnx__whole(fold_onnx *o, const char *name, int otherwise)
{
    onnx__field field;
    return onnx__attribute(o, name, 3, &field) ? onnx__near((double)(int64_t)field.value) : otherwise;
}
static float onnx__real(fold_onnx *o, const char *name, float otherwise)
{
    onnx__field field;
    return onnx__attribute(o, name, 2, &field) ? (float)onnx__decode(ONNX__FLOAT, field.value) : otherwise;
}
static int onnx__has_word(fold_onnx *o, const char *name, const char *word)
{
    onnx__field field;
    return onnx__attribute(o, name, 4, &field) && onnx__is(field.bytes, word);
}

static onnx__value *onnx__in(fold_onnx *o, int i) { return &o->values[o->node.in[i]]; }
static int onnx__has_in(const fold_onnx *o, int i) { return i < o->node.n_in && o->node.in[i] >= 0; }
static int onnx__has_out(const fold_onnx *o, int i) { return i < o->node.n_out && o->node.out[i] >= 0; }
static onnx__value *onnx__out(fold_onnx *o) { return &o->values[o->node.out[0]]; }

/* A list of whole numbers, of an attribute or a constant input. Returns how many; -1: it is not there; -2: an
   error. */
static int onnx__list(fold_onnx *o, const char *name, int input, int *out, int most)
{
    onnx__field field;
    double numbers[ONNX__MOST_OUT];
    int count = -1;
    if (name && onnx__attribute(o, name, 0, &field)) {
        count = onnx__numbers(o, field.bytes, 8, onnx__type_of(ONNX__INT64), numbers, ONNX__MOST_OUT);
    } else if (input >= 0 && onnx__has_in(o, input)) {
        const onnx__value *value = onnx__in(o, input);
        if (value->origin != ONNX__FIXED) return ONNX__REFUSE(o, "'%s' is not constant", value->name) - 2;
        count = value->count;
        for (int i = 0; i < count && i < ONNX__MOST_OUT; i++) numbers[i] = onnx__number(&value->constant, i);
    }
    if (o->failed) return -2;
    if (count > most || count > ONNX__MOST_OUT) return ONNX__REFUSE(o, "a list of %d numbers", count) - 2;
    for (int i = 0; i < count; i++) out[i] = onnx__near(numbers[i]);
    return count;
}

/* An axis from 0 on; -1 after an error. */
static int onnx__axis(fold_onnx *o, int axis, int rank)
{
    if (axis < -rank || axis >= rank) return ONNX__REFUSE(o, "axis %d of %d axes", axis, rank) - 1;
    return axis < 0 ? axis + rank : axis;
}
/* The axis that an attribute names; without it another one. */
static int onnx__axis_of(fold_onnx *o, const onnx__value *value, int otherwise)
{
    return onnx__axis(o, onnx__whole(o, "axis", otherwise), value->rank);
}

static int onnx__all_fixed(const fold_onnx *o)
{
    for (int i = 0; i < o->node.n_in; i++)
        if (o->node.in[i] >= 0 && !onnx__is_fixed(o, o->node.in[i])) return 0;
    return 1;
}
/* Whole numbers that are not constant are read by few ops, since floats stand for them. */
static int onnx__takes_floats(fold_onnx *o)
{
    for (int i = 0; i < o->node.n_in; i++)
        if (onnx__has_in(o, i) && onnx__in(o, i)->is_integer && !onnx__is_fixed(o, o->node.in[i]) &&
            !(o->node.op->flags & ONNX__INTEGERS))
            return ONNX__REFUSE(o, "'%s' has whole numbers that are no constants", onnx__in(o, i)->name);
    return 1;
}

/* ---- views ------------------------------------------------------------------------------------ */

/* Says where every element of a result comes from: from the sum over its axes of at[axis][index], or, if one
   of them is -1, from nowhere. Everything that only moves elements is such a view. */
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
    for (int k = rank, step = 1; k-- > 0 && !o->failed; step *= dim[k])
        onnx__view_axis(o, &view, k, dim[k], step);
    return view;
}
static onnx__view onnx__all_of(fold_onnx *o, const onnx__value *value)
{
    return onnx__view_of(o, value->dim, value->rank);
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

/* A value, repeated to a shape that it meets. */
static onnx__view onnx__repeated(fold_onnx *o, const onnx__value *value, const int *dim, int rank)
{
    const onnx__view alone = onnx__all_of(o, value);
    onnx__view view = onnx__view_of(o, dim, rank);
    for (int k = 0; k < rank && !o->failed; k++) {
        const int own = k - (rank - value->rank);
        if (own < 0 || value->dim[own] == 1) onnx__view_axis(o, &view, k, dim[k], 0);
        else view.at[k] = alone.at[own];
    }
    return view;
}

/* Returns the source of the element at index, and goes on to the next one. */
static int onnx__next_source(const onnx__view *view, int *index)
{
    int source = 0;
    for (int k = 0; k < view->rank && source >= 0; k++) {
        const int at = view->at[k][index[k]];
        source = at < 0 ? -1 : source + at;
    }
    for (int k = view->rank; k-- > 0;) {
        if (++index[k] < view->count[k]) break;
        index[k] = 0;
    }
    return source;
}
static int *onnx__sources(fold_onnx *o, const onnx__view *view, int *count)
{
    int index[FOLD_ONNX_RANK] = { 0 };
    if (o->failed || (*count = onnx__size(o, view->count, view->rank)) < 1) return NULL;
    int *source = ONNX__PASSING(o, int, *count);
    for (int i = 0; source && i < *count; i++) source[i] = onnx__next_source(view, index);
    return source;
}

/* ---- parameters ------------------------------------------------------------------------------- */

static int onnx__same_shape(fold_shape a, fold_shape b)
{
    return a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
}

/* Finds the parameter that a value is in this form, or makes it and returns its values, to be written until
   onnx__end. Returns NULL for one that was found, and after an error. */
static float *onnx__parameter(fold_onnx *o, onnx__weight wanted, unsigned uses, int frozen, fold_param *param)
{
    fold_param_desc desc = fold_param_desc_default();
    char name[128];
    const onnx__value *value = &o->values[wanted.value];
    const char *prefix = o->desc.prefix ? o->desc.prefix : "";
    onnx__format(name, sizeof name, "%s%s", prefix, value->name);
    for (int i = 0; i < o->n_weights; i++) {
        const onnx__weight *made = &o->weights[i];
        if (made->value != wanted.value) continue;
        *param = made->param;
        if (made->form == wanted.form && onnx__same_shape(made->shape, wanted.shape) &&
            !memcmp(&made->scale, &wanted.scale, sizeof wanted.scale)) {
            if (frozen) fold_param_freeze(o->model, *param, 1);
            return NULL;
        }
        /* only the first form has the name alone */
        onnx__format(name, sizeof name, "%s%s.%d", prefix, value->name, o->n_weights);
    }
    if (o->n_weights == 2 * o->most_values) return ONNX__REFUSE(o, "too many parameters"), (float *)0;
    desc.name = name;
    desc.shape = wanted.shape;
    desc.uses = uses;
    desc.frozen = frozen || !value->constant.raw || value->is_integer;
    wanted.param = *param = fold_param_new(o->model, &desc);
    if (fold_param_is_null(*param)) return o->failed = 1, (float *)0;
    o->weights[o->n_weights++] = wanted;
    return fold_values_write_begin(o->model, *param);
}
static int onnx__end(fold_onnx *o, fold_param param)
{
    fold_values_write_end(o->model, param);
    if (fold_model_status(o->model)) o->failed = 1;
    return !o->failed;
}

/* A parameter of `scale` times a view of a constant. */
static int onnx__weigh(fold_onnx *o, onnx__weight wanted, const onnx__view *view, unsigned uses, int frozen,
                       fold_param *param)
{
    const onnx__value *value = &o->values[wanted.value];
    int index[FOLD_ONNX_RANK] = { 0 };
    if (value->origin != ONNX__FIXED) return ONNX__REFUSE(o, "'%s' is not constant", value->name);
    float *out = o->failed ? NULL : onnx__parameter(o, wanted, uses, frozen, param);
    if (!out) return !o->failed;
    for (int i = 0; i < onnx__elements(wanted.shape); i++)
        out[i] = wanted.scale * (float)onnx__number(&value->constant, onnx__next_source(view, index));
    return onnx__end(o, *param);
}

/* A constant that ops read like any value. A matrix is kept as a line, since it is no weight of products. */
static int onnx__use_constant(fold_onnx *o, int index, int frozen)
{
    onnx__value *value = &o->values[index];
    const fold_shape shape = onnx__shape(value->dim, value->rank),
                     kept = shape.rank == 2 ? fold_shape1(value->count) : shape;
    const onnx__weight wanted = { index, ONNX__AS_IT_IS, 1, kept, { 0, 0 } };
    const onnx__view view = onnx__all_of(o, value);
    if (frozen && !fold_param_is_null(value->param)) fold_param_freeze(o->model, value->param, 1);
    if (!fold_param_is_null(value->param)) return 1;
    if (!shape.rank) return onnx__too_many_axes(o, FOLD_MAX_RANK);
    return onnx__weigh(o, wanted, &view, 0, frozen, &value->param);
}

/* A vector that is `scale` times a constant. A constant of one value is repeated; index -1 is none. */
static int onnx__vector(fold_onnx *o, int index, int count, float scale, fold_param *param)
{
    const onnx__weight wanted = { index, ONNX__AS_IT_IS, scale, fold_shape1(count), { 0, 0 } };
    if (index < 0) return 1;
    const int had = o->values[index].count;
    onnx__view view = onnx__view_of(o, &count, 1);
    if (had == 1 && count > 1) onnx__view_axis(o, &view, 0, count, 0);
    if (had != count && had != 1)
        return ONNX__REFUSE(o, "'%s' has %d values, not %d", o->values[index].name, had, count);
    return onnx__weigh(o, wanted, &view, 0, 0, param);
}

/* Zeros or ones that never train, for a bias or a gain that is not there, named by the value beside it. */
static int onnx__fill(fold_onnx *o, int beside, int count, int form, fold_param *param)
{
    const onnx__weight wanted = { beside, form, 1, fold_shape1(count), { 0, 0 } };
    float *out = onnx__parameter(o, wanted, 0, 1, param);
    for (int i = 0; out && i < count; i++) out[i] = form == ONNX__ONES ? 1.0f : 0.0f;
    return out ? onnx__end(o, *param) : !o->failed;
}

/* ---- moves ------------------------------------------------------------------------------------ */

/* Ops of fold.h's kind. Their attributes are the dimensions of the result. */
static const char *onnx__infer_attributes(const fold_shape *in, int n_in, const int32_t *attr,
                                          fold_shape *out)
{
    (void)in, (void)n_in;
    for (out[0].rank = 0; out[0].rank < FOLD_MAX_RANK && attr[out[0].rank]; out[0].rank++)
        out[0].dim[out[0].rank] = (int)attr[out[0].rank];
    return NULL;
}
static fold_node onnx__apply_own(fold_ctx *f, fold_op op, const fold_node *in, int n_in, fold_shape shape)
{
    int32_t attr[FOLD_MAX_RANK] = { 0, 0, 0, 0 };
    for (int k = 0; k < shape.rank; k++) attr[k] = (int32_t)shape.dim[k];
    return fold_op_apply(f, op, in, n_in, attr, 0);
}
typedef void onnx__kernel(const fold_op_call *c);
static int onnx__own_op(fold_onnx *o, const char *name, int n_in, onnx__kernel *forward,
                        onnx__kernel *backward, const void *user, fold_op *op)
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
    const onnx__move *move = (const onnx__move *)c->user;
    for (int row = 0; row < c->rows; row++)
        onnx__move_row(move, fold_row(&c->in[0], row), fold_row(&c->out[0], row));
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

/* The longest runs of neighbours, all of one length: the greatest common divisor of the lengths of all. */
static int onnx__run_length(const int *source, int count)
{
    int run = 0;
    for (int i = 0, begin = 0; i < count; i++) {
        if (i + 1 < count && (source[i] < 0 ? source[i + 1] < 0 : source[i + 1] == source[i] + 1)) continue;
        for (int length = i + 1 - begin; length;) {
            const int rest = run % length;
            run = length;
            length = rest;
        }
        begin = i + 1;
    }
    return run;
}

/* Tells whether each of `all` values is taken once. */
static int onnx__is_permutation(fold_onnx *o, const int *source, int count, int all)
{
    char *seen = count == all ? ONNX__PASSING(o, char, all) : NULL;
    for (int i = 0; seen && i < count; i++)
        if (source[i] < 0 || seen[source[i]]++) return 0;
    return seen != NULL;
}
/* Makes the move that takes its `count` elements from where source tells, among `all` values. */
static onnx__move *onnx__new_move(fold_onnx *o, const int *source, int count, int all, float pad,
                                  fold_shape shape)
{
    onnx__move *move = source && !o->failed ? ONNX__KEPT(o, onnx__move, 1) : NULL;
    if (!shape.rank) return onnx__too_many_axes(o, FOLD_MAX_RANK), (onnx__move *)0;
    if (!move) return NULL;
    move->shape = shape;
    move->run = onnx__run_length(source, count);
    move->count = count;
    move->pad = pad;
    move->from = source[0];
    move->is_window = source[0] >= 0 && move->run == count;
    move->is_permutation = onnx__is_permutation(o, source, count, all);
    if (move->is_window) return move;
    int *runs = ONNX__KEPT(o, int, count / move->run);
    for (int i = 0; runs && i < count / move->run; i++) {
        runs[i] = source[i * move->run];
        move->has_pad |= runs[i] < 0;
    }
    move->source = runs;
    return runs && onnx__own_op(o, "onnx move", 1, onnx__move_forward, onnx__move_backward, move, &move->op)
               ? move
               : NULL;
}

static fold_node onnx__reshape(fold_ctx *f, fold_node x, fold_shape shape)
{
    return onnx__same_shape(fold_node_shape(f, x), shape) ? x : fold_reshape(f, x, shape);
}
/* Takes values that lie side by side. */
static fold_node onnx__part(fold_ctx *f, fold_node x, int from, int count)
{
    const fold_shape shape = fold_node_shape(f, x);
    const int all = onnx__elements(shape);
    if (!from && count == all) return onnx__reshape(f, x, fold_shape1(all));
    return fold_slice(f, shape.rank == 1 ? x : fold_reshape(f, x, fold_shape1(all)), 0, from, count);
}
static fold_node onnx__apply_move(fold_ctx *f, const onnx__move *move, fold_node x)
{
    if (!move->is_window) return onnx__apply_own(f, move->op, &x, 1, move->shape);
    if (move->from || move->count != onnx__elements(fold_node_shape(f, x)))
        x = onnx__part(f, x, move->from, move->count);
    return onnx__reshape(f, x, move->shape);
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* Adds a step for the node that is read. Its inputs and outputs are set by the callers. */
static onnx__step *onnx__new_step(fold_onnx *o, onnx__recorder *record, int n_in, int n_out)
{
    if (o->n_steps == o->most_steps) ONNX__REFUSE(o, "too many steps");
    if (o->failed) return NULL;
    onnx__step *step = &o->steps[o->n_steps];
    memset(step, 0, sizeof *step);
    step->record = record;
    step->op = o->node.op;
    step->n_in = n_in;
    step->n_out = n_out;
    step->in = ONNX__KEPT(o, onnx__operand, n_in);
    step->out = ONNX__KEPT(o, int, n_out);
    step->nodes = ONNX__KEPT(o, fold_node, n_in + n_out);
    if (o->failed) return NULL;
    for (int i = 0; i < n_in; i++) step->in[i].value = -1;
    for (int i = 0; i < n_out; i++) step->out[i] = -1;
    o->n_steps++;
    return step;
}
/* The step that makes a value; NULL: none does. */
static const onnx__step *onnx__maker(const fold_onnx *o, int index)
{
    return index >= 0 && o->values[index].origin == ONNX__COMPUTED ? &o->steps[o->values[index].step] : NULL;
}

static void onnx__record_same(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    (void)o, (void)s;
    out[0] = in[0];
}

/* The move that makes a value, if nothing else does; NULL: none. */
static onnx__move *onnx__move_of(const fold_onnx *o, int index)
{
    const onnx__step *before = onnx__maker(o, index);
    return before && before->record == onnx__record_same ? before->in[0].move : NULL;
}
/* The value of which this one is a permutation, by *move, or this one itself, and NULL. */
static int onnx__base(const fold_onnx *o, int index, onnx__move **move)
{
    *move = onnx__move_of(o, index);
    if (*move && !(*move)->is_permutation) *move = NULL;
    return *move ? onnx__maker(o, index)->in[0].value : index;
}

/* Where each element of a view lies. A view of what was only moved is one of what it was moved from: index
   becomes that. */
static int *onnx__trace(fold_onnx *o, int *index, const onnx__view *view, int *count)
{
    const onnx__move *move = onnx__move_of(o, *index);
    int *source = onnx__sources(o, view, count);
    if (!move || move->has_pad) return source;
    *index = onnx__maker(o, *index)->in[0].value;
    for (int i = 0; source && i < *count; i++) {
        const int at = source[i], run = move->run;
        if (at >= 0) source[i] = move->is_window ? move->from + at : move->source[at / run] + at % run;
    }
    return source;
}

/* Sets what a step reads: a view, or NULL for the value as it is. */
static int onnx__reads_view(fold_onnx *o, onnx__step *step, int i, int index, const onnx__view *view,
                            fold_shape shape)
{
    int count;
    if (o->failed || !step) return 0;
    if (onnx__is_fixed(o, index) && !onnx__use_constant(o, index, o->node.op->flags & ONNX__FREEZES))
        return 0;
    if (view) {
        const int *source = onnx__trace(o, &index, view, &count);
        step->in[i].move = onnx__new_move(o, source, count, o->values[index].count, view->pad, shape);
    }
    step->in[i].value = index;
    return !o->failed;
}
static int onnx__reads_shape(fold_onnx *o, onnx__step *step, int i, int index, fold_shape shape)
{
    const onnx__view view = onnx__all_of(o, &o->values[index]);
    return onnx__reads_view(o, step, i, index, &view, shape);
}
/* Sets what a step makes, a float of this shape unless the caller changes it. */
static onnx__value *onnx__makes(fold_onnx *o, onnx__step *step, int i, int index, const int *dim, int rank)
{
    if (o->failed || !step || index < 0) return NULL;
    onnx__value *value = &o->values[index];
    if (!onnx__set_shape(o, index, dim, rank)) return NULL;
    if (!onnx__shape(dim, rank).rank) return onnx__too_many_axes(o, FOLD_MAX_RANK), (onnx__value *)0;
    value->origin = ONNX__COMPUTED;
    value->step = (int)(step - o->steps);
    step->out[i] = index;
    return value;
}
/* Sets the only output, of this shape, to a move of what the step makes, in the shape `made`; NULL: it makes
   the output. */
static int onnx__makes_moved(fold_onnx *o, onnx__step *step, const int *made, int made_rank, onnx__move *move,
                             const int *dim, int rank)
{
    if (!move || o->failed) return onnx__makes(o, step, 0, o->node.out[0], dim, rank) != NULL;
    o->values[o->n_values].name = onnx__out(o)->name;
    const int inner = o->n_values++;
    onnx__step *moved = onnx__new_step(o, onnx__record_same, 1, 1);
    if (!moved || !onnx__makes(o, step, 0, inner, made, made_rank)) return 0;
    moved->in[0].value = inner;
    moved->in[0].move = move;
    return onnx__makes(o, moved, 0, o->node.out[0], dim, rank) != NULL;
}
/* The same for an output whose axis i is axis order[i] of what the step makes. */
static int onnx__makes_permuted(fold_onnx *o, onnx__step *step, const int *made, int rank, const int *order)
{
    int count = 0;
    const onnx__view view = onnx__permuted(o, made, rank, order);
    const int *source = onnx__sources(o, &view, &count);
    onnx__move *move = onnx__new_move(o, source, count, count, 0, onnx__shape(view.count, rank));
    return move && onnx__makes_moved(o, step, made, rank, move, view.count, rank);
}

/* Makes an output of a view over an input, whether that is constant or not. */
static int onnx__emit_view(fold_onnx *o, const onnx__view *view, int out, const int *dim, int rank)
{
    const onnx__value *from = onnx__in(o, 0);
    if (o->failed) return 0;
    o->values[out].is_integer = from->is_integer;
    if (from->origin != ONNX__FIXED) {
        onnx__step *step = onnx__new_step(o, onnx__record_same, 1, 1);
        if (!onnx__reads_view(o, step, 0, o->node.in[0], view, onnx__shape(dim, rank))) return 0;
        return onnx__makes(o, step, 0, out, dim, rank) != NULL;
    }
    int index[FOLD_ONNX_RANK] = { 0 };
    double *numbers = onnx__fix(o, out, dim, rank);
    for (int i = 0; numbers && i < o->values[out].count; i++) {
        const int source = onnx__next_source(view, index);
        numbers[i] = source < 0 ? (double)view->pad : onnx__number(&from->constant, source);
    }
    return numbers != NULL;
}
static int onnx__emit_own_view(fold_onnx *o, const onnx__view *view)
{
    return onnx__emit_view(o, view, o->node.out[0], view->count, view->rank);
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

/* Widens a shape to the one in which it and a value meet, as in fold.h. Returns its rank, or -1 after an
   error. */
static int onnx__meet(fold_onnx *o, const onnx__value *a, int *dim, int rank)
{
    int result[FOLD_ONNX_RANK];
    const int most = a->rank > rank ? a->rank : rank;
    for (int k = 0; k < most; k++) {
        const int own = k + a->rank - most, other = k + rank - most;
        const int x = own < 0 ? 1 : a->dim[own], y = other < 0 ? 1 : dim[other];
        if (x != y && x != 1 && y != 1)
            return ONNX__REFUSE(o, "axes of %d and %d values do not meet", x, y) - 1;
        result[k] = x == 1 ? y : x;
    }
    memcpy(dim, result, (size_t)most * sizeof *dim);
    return most;
}

/* Computes an output of constants, of which three choose: the first is a condition then. */
static int onnx__compute(fold_onnx *o, const int *dim, int rank)
{
    int *source[3] = { NULL, NULL, NULL }, count = 0, whole = 1;
    const int n = o->node.n_in, last = n - 1;
    onnx__value *out = onnx__out(o);
    double *numbers = onnx__fix(o, o->node.out[0], dim, rank), x[3] = { 0, 0, 0 };
    for (int i = 0; i < n && !o->failed; i++) {
        const onnx__view view = onnx__repeated(o, onnx__in(o, i), dim, rank);
        source[i] = onnx__sources(o, &view, &count);
        whole &= (n == 3 && i == 0) || onnx__in(o, i)->is_integer;
    }
    out->is_integer = whole || o->node.op->flags & ONNX__TRUTH;
    for (int i = 0; i < count && !o->failed; i++) {
        for (int k = 0; k < n; k++) x[k] = onnx__number(&onnx__in(o, k)->constant, source[k][i]);
        if (whole && o->node.op->number == onnx__div && x[1] == 0) return ONNX__REFUSE(o, "a division by 0");
        numbers[i] = onnx__round(out, n == 3 ? x[x[0] != 0 ? 1 : 2] : o->node.op->number(x[0], x[last]));
    }
    return !o->failed;
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
            fold_row(&c->din[0], row)[i] =
                (float)(1.1283791670955126 * exp(-x * x)) * fold_row(&c->dout[0], row)[i];
        }
}

static void onnx__record_one(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = s->op->one(o->f, in[0]);
}
static void onnx__record_many(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = in[0];
    for (int i = 1; i < s->n_in; i++) out[0] = s->op->two(o->f, out[0], in[i]);
}
static void onnx__record_own(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    if (s->n_in == 3) out[0] = fold_select(o->f, in[0], in[1], in[2]);
    else out[0] = onnx__apply_own(o->f, s->own, in, s->n_in, fold_node_shape(o->f, in[0]));
}
static void onnx__record_line(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const float factor = s->real[0], term = s->real[1];
    out[0] = factor == 1 ? in[0] : factor == -1 ? fold_neg(o->f, in[0]) : fold_scale(o->f, in[0], factor);
    if (term != 0) out[0] = fold_shift(o->f, out[0], term);
}
static void onnx__record_alpha(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = s->number[0] ? fold_elu(o->f, in[0], s->real[0]) : fold_leaky_relu(o->f, in[0], s->real[0]);
}
static void onnx__record_gelu(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = s->number[0] ? fold_gelu_tanh(o->f, in[0]) : fold_gelu(o->f, in[0]);
}
static void onnx__record_clip(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = fold_clip(o->f, in[0], s->real[0], s->real[1]);
}
static void onnx__record_pow(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = s->real[0] == 2 ? fold_square(o->f, in[0]) : fold_pow(o->f, in[0], s->real[0]);
}
static void onnx__record_silu(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    (void)s;
    out[0] = fold_silu(o->f, in[0]);
}

/* A step on the elements of one input, in whatever order they lie: what moved them moves the result. */
static onnx__step *onnx__one_step(fold_onnx *o, onnx__recorder *record, int input, float first, float second)
{
    onnx__move *move;
    const onnx__value *from = onnx__in(o, input);
    const int base = onnx__base(o, o->node.in[input], &move);
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, record, 1, 1) : NULL;
    if (!onnx__reads_view(o, step, 0, base, NULL, fold_shape1(1))) return NULL;
    step->real[0] = first;
    step->real[1] = second;
    const onnx__value *made = &o->values[base];
    return onnx__makes_moved(o, step, made->dim, made->rank, move, from->dim, from->rank) ? step : NULL;
}
static int onnx__open_alpha(fold_onnx *o)
{
    const int is_elu = !strcmp(o->node.type, "Elu");
    onnx__step *step =
        onnx__one_step(o, onnx__record_alpha, 0, onnx__real(o, "alpha", is_elu ? 1.0f : 0.01f), 0);
    if (!step) return 0;
    step->number[0] = is_elu;
    return isfinite(step->real[0]) || ONNX__REFUSE(o, "alpha is not finite");
}
static int onnx__open_gelu(fold_onnx *o)
{
    onnx__step *step = onnx__one_step(o, onnx__record_gelu, 0, 0, 0);
    if (step) step->number[0] = onnx__has_word(o, "approximate", "tanh");
    return step != NULL;
}
static int onnx__open_clip(fold_onnx *o)
{
    double bound[2] = { (double)onnx__real(o, "min", -INFINITY), (double)onnx__real(o, "max", INFINITY) };
    for (int i = 0; i < 2; i++)
        if (onnx__has_in(o, i + 1) && !onnx__scalar(o, o->node.in[i + 1], &bound[i]))
            return ONNX__REFUSE(o, "a bound that is not constant");
    if (!(bound[0] <= bound[1])) return ONNX__REFUSE(o, "bounds that leave nothing between them");
    return onnx__one_step(o, onnx__record_clip, 0, (float)bound[0], (float)bound[1]) != NULL;
}

/* With a number as one operand, sums, differences, products and quotients are factor x + term. Numbers are
   data, so that calls with others batch together. Returns the input that is x; -1: none is. */
static int onnx__line(fold_onnx *o, int rank, float *factor, float *term)
{
    const onnx__op *op = o->node.op;
    double number = 0;
    for (int x = 0; x < 2; x++) {
        if (onnx__in(o, x)->rank < rank || !onnx__scalar(o, o->node.in[!x], &number)) continue;
        if (op->number == onnx__div) number = x ? (double)INFINITY : 1 / number;
        if (!isfinite((float)number)) continue;
        const int is_sum = op->number == onnx__add || op->number == onnx__sub;
        if (op->number == onnx__sub && x == 0) number = -number;
        *factor = !is_sum ? (float)number : op->number == onnx__sub && x ? -1.0f : 1.0f;
        *term = is_sum ? (float)number : 0;
        return x;
    }
    return -1;
}
static int onnx__same_move(const onnx__move *a, const onnx__move *b)
{
    if (!a || !b || a->count != b->count || a->run != b->run) return a == b;
    return a->is_window ? a->from == b->from
                        : !memcmp(a->source, b->source, (size_t)(a->count / a->run) * sizeof(int));
}

static int onnx__joins(fold_onnx *o); /* several ops that are one of fold.h */
/* Elements of inputs that meet: of one, two or three, and sums and the like of any number, from the left. */
static int onnx__open_elements(fold_onnx *o)
{
    const onnx__op *op = o->node.op;
    const int n = o->node.n_in, *in = o->node.in;
    int dim[FOLD_ONNX_RANK], rank = 0, base[2];
    float factor = 1, term = 0;
    onnx__move *move[2];
    for (int i = 0; i < n && rank >= 0; i++) rank = onnx__meet(o, onnx__in(o, i), dim, rank);
    if (rank < 0) return 0;
    if (onnx__all_fixed(o) && n <= 3 && (op->number || n == 3)) return onnx__compute(o, dim, rank);
    if (!onnx__takes_floats(o)) return 0;
    if (op->one) return onnx__one_step(o, onnx__record_one, 0, 0, 0) != NULL;
    if (op->two && n == 2) {
        if (onnx__joins(o) || o->failed) return !o->failed;
        const int x = op->flags & ONNX__LINE ? onnx__line(o, rank, &factor, &term) : -1;
        if (x >= 0) return onnx__one_step(o, onnx__record_line, x, factor, term) != NULL;
    }
    onnx__step *step = onnx__new_step(o, op->two ? onnx__record_many : onnx__record_own, n, 1);
    for (int i = 0; i < 2 && n == 2; i++) base[i] = onnx__base(o, in[i], &move[i]);
    const int moved = op->two && n == 2 && move[0] && onnx__same_move(move[0], move[1]);
    for (int i = 0; i < n && !o->failed; i++) {
        onnx__view view = onnx__repeated(o, onnx__in(o, i), dim, rank); /* ops of one's own repeat nothing */
        onnx__reads_view(o, step, i, moved ? base[i] : in[i], op->two ? NULL : &view, onnx__shape(dim, rank));
    }
    onnx__value *out = onnx__out(o);
    out->is_integer = op->flags & ONNX__TRUTH || (op->number == onnx__pow && onnx__in(o, 0)->is_integer) ||
                      (n == 3 && onnx__in(o, 1)->is_integer && onnx__in(o, 2)->is_integer);
    if (moved)
        return onnx__makes_moved(o, step, o->values[base[0]].dim, o->values[base[0]].rank, move[0], dim,
                                 rank);
    if (!onnx__makes(o, step, 0, o->node.out[0], dim, rank) || op->two || n == 3) return !o->failed;
    onnx__kernel *backward = op->number == onnx__erf ? onnx__erf_backward : NULL;
    return onnx__own_op(o, op->type, n, onnx__map_forward, backward, op, &step->own);
}

static int onnx__open_pow(fold_onnx *o)
{
    double exponent = 0;
    const int scalar =
        onnx__scalar(o, o->node.in[1], &exponent) && onnx__in(o, 1)->rank <= onnx__in(o, 0)->rank;
    if (!scalar || onnx__all_fixed(o) || onnx__in(o, 0)->is_integer) return onnx__open_elements(o);
    if (!isfinite((float)exponent)) return ONNX__REFUSE(o, "an exponent that is not finite");
    return onnx__one_step(o, onnx__record_pow, 0, (float)exponent, 0) != NULL;
}

/* A cast changes values where floats become whole numbers, and numbers truth. */
static int onnx__open_cast(fold_onnx *o)
{
    static const onnx__op whole = { "Cast", 1, 1, "", NULL, NULL, NULL, onnx__trunc, 0 };
    static const onnx__op truth = {
        "Cast", 1, 1, "", NULL, NULL, NULL, onnx__not_zero, ONNX__INTEGERS | ONNX__TRUTH
    };
    const int to = onnx__whole(o, "to", 0);
    const onnx__type *type = onnx__type_of((uint64_t)to);
    const onnx__value *from = onnx__in(o, 0);
    if (!type || (to == ONNX__HALF && !from->is_integer && from->origin != ONNX__FIXED))
        return ONNX__REFUSE(o, "to ONNX's type %d", to);
    onnx__value *out = onnx__out(o);
    if (to == ONNX__BOOL || (type->is_integer && !from->is_integer)) {
        o->node.op = to == ONNX__BOOL ? &truth : &whole;
        if (!onnx__open_elements(o)) return 0;
    } else {
        const onnx__view view = onnx__all_of(o, from);
        if (!onnx__emit_own_view(o, &view)) return 0;
    }
    out->is_integer = type->is_integer;
    for (int i = 0; out->constant.numbers && i < out->count; i++)
        out->constant.numbers[i] = onnx__round(out, out->constant.numbers[i]);
    return 1;
}

/* ---- several ops that are one of fold.h --------------------------------------------------------- */

/* The op before then only runs if it is asked for. */
static onnx__recorder onnx__record_linear, onnx__record_layer_norm, onnx__record_reduce;
enum { ONNX__REDUCES_BY_MEAN = 1 }; /* its row of the table of reductions */

/* x sigmoid(x) */
static int onnx__joins_silu(fold_onnx *o)
{
    onnx__move *move[2];
    for (int x = 0; x < 2; x++) {
        const int base = onnx__base(o, o->node.in[x], &move[0]),
                  other = onnx__base(o, o->node.in[!x], &move[1]);
        const onnx__step *before = onnx__maker(o, other);
        if (before && before->op->one == fold_sigmoid && before->in[0].value == base &&
            onnx__same_move(move[0], move[1]))
            return onnx__one_step(o, onnx__record_silu, x, 0, 0) != NULL;
    }
    return 0;
}

/* A product with its bias; a norm with its gain, or bias: the other input is a constant row. */
static int onnx__joins_row(fold_onnx *o)
{
    for (int side = 0; side < 2; side++) {
        const onnx__value *made = onnx__in(o, side), *row = onnx__in(o, !side);
        const onnx__step *before = onnx__maker(o, o->node.in[side]);
        const int count = row->rank ? row->dim[row->rank - 1] : 0, slot = o->node.op->number == onnx__add;
        if (!before || row->origin != ONNX__FIXED || row->count != count || row->rank > made->rank ||
            count != made->dim[made->rank - 1])
            continue;
        const int is_linear = before->record == onnx__record_linear && before->n_in == 1 && slot &&
                              fold_param_is_null(before->param[1]);
        const int is_norm = before->record == onnx__record_layer_norm && before->number[0] <= slot;
        if (o->node.op->number == onnx__sub || o->node.op->number == onnx__div || !(is_linear || is_norm))
            continue;
        onnx__step *step = onnx__new_step(o, before->record, 1, before->n_out);
        if (!step) return 0;
        step->in[0] = before->in[0];
        memcpy(step->param, before->param, sizeof step->param);
        step->real[0] = before->real[0];
        step->number[0] = is_linear ? 1 : 1 + slot; /* a norm has so many of gain and bias */
        if (!onnx__vector(o, o->node.in[!side], count, 1, &step->param[slot])) return 0;
        return onnx__makes(o, step, 0, o->node.out[0], made->dim, made->rank) != NULL;
    }
    return 0;
}

/* The value of which a step makes the mean over the last axis; -1: it does something else. */
static int onnx__mean_of(const fold_onnx *o, const onnx__step *s, int width)
{
    const int is_mean = s && s->record == onnx__record_reduce && s->number[0] == ONNX__REDUCES_BY_MEAN;
    const onnx__move *move = is_mean ? s->in[0].move : NULL;
    if (!move || !move->is_window || move->from || move->shape.dim[move->shape.rank - 1] != width) return -1;
    return s->number[2] == 1 && move->count == o->values[s->in[0].value].count ? s->in[0].value : -1;
}
static int onnx__is_square_of(const onnx__step *s, int value)
{
    if (!s || s->in[0].value != value || s->in[0].move) return 0;
    if (s->record == onnx__record_pow) return s->real[0] == 2;
    return s->n_in == 2 && s->op->two == fold_mul && s->in[1].value == value && !s->in[1].move;
}
static int onnx__is_difference(const onnx__step *s)
{
    return s && s->op->two == fold_sub && s->n_in == 2 && !s->in[0].move;
}

/* (x - mean) / sqrt(mean((x - mean)^2) + epsilon), over the last axis. */
static int onnx__joins_norm(fold_onnx *o)
{
    const onnx__step *sub = onnx__maker(o, o->node.in[0]), *root = onnx__maker(o, o->node.in[1]);
    if (o->node.op->number != onnx__div || !onnx__is_difference(sub) || !root || root->op->one != fold_sqrt)
        return 0;
    const int x = sub->in[0].value, width = o->values[x].rank ? o->values[x].dim[o->values[x].rank - 1] : 0;
    const onnx__step *shift = onnx__maker(o, root->in[0].value);
    if (!shift || shift->record != onnx__record_line || shift->real[0] != 1 || !(shift->real[1] > 0))
        return 0;
    const int square = onnx__mean_of(o, onnx__maker(o, shift->in[0].value), width);
    const onnx__step *squares = onnx__maker(o, square),
                     *again = squares ? onnx__maker(o, squares->in[0].value) : NULL;
    if (!squares || !onnx__is_square_of(squares, squares->in[0].value) || !onnx__is_difference(again))
        return 0;
    if (again->in[0].value != x || onnx__mean_of(o, onnx__maker(o, again->in[1].value), width) != x ||
        onnx__mean_of(o, onnx__maker(o, sub->in[1].value), width) != x || o->values[x].origin == ONNX__FIXED)
        return 0;
    const onnx__value *from = &o->values[x];
    onnx__step *step = onnx__new_step(o, onnx__record_layer_norm, 1, 1);
    if (!onnx__reads_view(o, step, 0, x, NULL, fold_shape1(1))) return 0;
    step->real[0] = shift->real[1];
    return onnx__fill(o, o->node.out[0], width, ONNX__ONES, &step->param[0]) &&
           onnx__fill(o, o->node.out[0], width, ONNX__ZEROS, &step->param[1]) &&
           onnx__makes(o, step, 0, o->node.out[0], from->dim, from->rank) != NULL;
}
static int onnx__joins(fold_onnx *o)
{
    if (o->node.op->number == onnx__mul && onnx__joins_silu(o)) return 1;
    return !o->failed && (onnx__joins_row(o) || (!o->failed && onnx__joins_norm(o)));
}

/* ---- ops that move elements -------------------------------------------------------------------- */

/* Gives an input another shape. */
static int onnx__emit_shape(fold_onnx *o, const int *dim, int rank)
{
    const onnx__value *from = onnx__in(o, 0);
    const onnx__view view = onnx__all_of(o, from);
    const int count = o->failed ? 0 : onnx__size(o, dim, rank);
    if (!count) return 0;
    if (count != from->count)
        return ONNX__REFUSE(o, "%d values into a shape of %d, for a batch of 1", from->count, count);
    return onnx__emit_view(o, &view, o->node.out[0], dim, rank);
}
static int onnx__open_same(fold_onnx *o)
{
    double training = 0; /* of Dropout */
    if (onnx__has_in(o, 2) && (!onnx__scalar(o, o->node.in[2], &training) || training != 0))
        return ONNX__REFUSE(o, "a mode of training");
    return onnx__emit_shape(o, onnx__in(o, 0)->dim, onnx__in(o, 0)->rank);
}
static int onnx__open_reshape(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int dim[FOLD_ONNX_RANK], open = -1, known = 1;
    const int rank = onnx__list(o, "shape", 1, dim, FOLD_ONNX_RANK), zero = onnx__whole(o, "allowzero", 0);
    for (int k = 0; k < rank; k++) {
        if (dim[k] == 0 && !zero && k < from->rank) dim[k] = from->dim[k];
        if (dim[k] == -1 && open < 0) open = k;
        else if (dim[k] < 1 || dim[k] > from->count)
            return ONNX__REFUSE(o, "%d values into an axis of %d", from->count, dim[k]);
        else if (known <= from->count) known *= dim[k];
    }
    if (open >= 0) dim[open] = from->count / known;
    return rank < 0 ? ONNX__REFUSE(o, "no shape") : onnx__emit_shape(o, dim, rank);
}
static int onnx__open_flatten(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int axis = onnx__whole(o, "axis", 1), dim[2] = { 1, 1 };
    if (axis != from->rank && (axis = onnx__axis(o, axis, from->rank)) < 0) return 0;
    for (int k = 0; k < from->rank; k++) dim[k >= axis] *= from->dim[k];
    return onnx__emit_shape(o, dim, 2);
}

/* The axes that an op names, as marks. Returns how many it names; -1: there is no list; -2: an error. */
static int onnx__marked_axes(fold_onnx *o, int rank, int *marks)
{
    int axes[FOLD_ONNX_RANK];
    const int count = onnx__list(o, "axes", 1, axes, FOLD_ONNX_RANK);
    memset(marks, 0, FOLD_ONNX_RANK * sizeof *marks);
    for (int i = 0; i < count; i++) {
        const int axis = onnx__axis(o, axes[i], rank);
        if (axis < 0) return -2;
        marks[axis] = 1;
    }
    return count;
}
static int onnx__open_squeeze(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int marks[FOLD_ONNX_RANK], dim[FOLD_ONNX_RANK], rank = 0;
    const int count = onnx__marked_axes(o, from->rank, marks);
    if (count == -2) return 0;
    for (int k = 0; k < from->rank; k++) {
        if (marks[k] && from->dim[k] != 1) return ONNX__REFUSE(o, "axis %d has %d values", k, from->dim[k]);
        if (count > 0 ? !marks[k] : from->dim[k] != 1) dim[rank++] = from->dim[k];
    }
    return onnx__emit_shape(o, dim, rank);
}
static int onnx__open_unsqueeze(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int marks[FOLD_ONNX_RANK], dim[FOLD_ONNX_RANK], rank = from->rank, next = 0;
    const int more = onnx__list(o, "axes", 1, dim, FOLD_ONNX_RANK);
    if (more < 1 || (rank += more) > FOLD_ONNX_RANK) return ONNX__REFUSE(o, "no axes, or too many");
    if (onnx__marked_axes(o, rank, marks) < 0) return 0;
    for (int k = 0; k < rank; k++) {
        if (!marks[k] && next == from->rank) return ONNX__REFUSE(o, "an axis that is named twice");
        dim[k] = marks[k] ? 1 : from->dim[next++];
    }
    return onnx__emit_shape(o, dim, rank);
}
static int onnx__open_transpose(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int order[FOLD_ONNX_RANK], seen = 0;
    const int rank = from->rank, count = onnx__list(o, "perm", -1, order, FOLD_ONNX_RANK);
    if (count != -1 && count != rank) return ONNX__REFUSE(o, "perm has %d axes, not %d", count, rank);
    for (int i = 0; i < rank; i++) {
        if ((order[i] = count == -1 ? rank - 1 - i : onnx__axis(o, order[i], rank)) < 0) return 0;
        seen |= 1 << order[i];
    }
    if (seen != (1 << rank) - 1) return ONNX__REFUSE(o, "perm names an axis twice");
    const onnx__view view = onnx__permuted(o, from->dim, rank, order);
    return onnx__emit_own_view(o, &view);
}
static int onnx__open_expand(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK];
    int rank = onnx__list(o, NULL, 1, dim, FOLD_ONNX_RANK);
    if (rank < 0 || !onnx__size(o, dim, rank) || (rank = onnx__meet(o, onnx__in(o, 0), dim, rank)) < 0)
        return 0;
    if (!onnx__size(o, dim, rank)) return 0;
    const onnx__view view = onnx__repeated(o, onnx__in(o, 0), dim, rank);
    return onnx__emit_own_view(o, &view);
}

static int onnx__clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}
static int onnx__open_slice(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int list[4][FOLD_ONNX_RANK], n[4], seen = 0; /* starts, ends, axes, steps */
    static const char *const names[4] = { "starts", "ends", "axes", NULL };
    for (int i = 0; i < 4; i++) {
        n[i] = onnx__list(o, names[i], 1 + i, list[i], FOLD_ONNX_RANK);
        if (n[i] < (i < 2 ? 0 : -1) || (n[i] >= 0 && n[i] != n[0]) || n[0] > from->rank)
            return ONNX__REFUSE(o, "starts, ends, axes and steps of other lengths");
    }
    onnx__view view = onnx__all_of(o, from);
    for (int i = 0; i < n[0] && !o->failed; i++) {
        const int axis = onnx__axis(o, n[2] < 0 ? i : list[2][i], from->rank),
                  step = n[3] < 0 ? 1 : list[3][i];
        if (axis < 0) return 0;
        const int count = from->dim[axis], back = step < 0, *at = view.at[axis];
        if (!step || step == -INT_MAX || seen >> axis & 1)
            return ONNX__REFUSE(o, "a step of %d, or an axis that is named twice", step);
        seen |= 1 << axis;
        const int start = onnx__clamp(list[0][i] + (list[0][i] < 0 ? count : 0), 0, back ? count - 1 : count);
        const int end =
            onnx__clamp(list[1][i] + (list[1][i] < 0 ? count : 0), back ? -1 : 0, back ? count - 1 : count);
        const int left = back ? start - end : end - start;
        if (left < 1) return ONNX__REFUSE(o, "nothing is left of axis %d", axis);
        int *part = onnx__view_axis(o, &view, axis, (left - 1) / (back ? -step : step) + 1, step);
        for (int k = 0; part && k < view.count[axis]; k++) part[k] = at[start + part[k]];
    }
    return onnx__emit_own_view(o, &view);
}
static int onnx__open_split(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int parts[ONNX__MOST_OUT], begin = 0;
    const int axis = onnx__axis_of(o, from, 0), n = o->node.n_out,
              count = onnx__list(o, "split", 1, parts, ONNX__MOST_OUT);
    if (axis < 0 || (count != -1 && count != n) || n > ONNX__MOST_OUT)
        return ONNX__REFUSE(o, "%d parts and %d outputs", count, n);
    const int all = from->dim[axis], each = (all + n - 1) / n;
    for (int i = 0; i < n; begin += parts[i++]) {
        onnx__view view = onnx__all_of(o, from);
        if (count == -1) parts[i] = i < n - 1 ? each : all - begin;
        if (o->failed || parts[i] < 1 || parts[i] > all - begin || (i == n - 1 && parts[i] != all - begin))
            return ONNX__REFUSE(o, "parts that do not make up axis %d", axis);
        view.at[axis] += begin;
        view.count[axis] = parts[i];
        if (onnx__has_out(o, i) && !onnx__emit_view(o, &view, o->node.out[i], view.count, view.rank))
            return 0;
    }
    return 1;
}
static int onnx__open_gather(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0), *index = onnx__in(o, 1);
    int dim[2 * FOLD_ONNX_RANK], rank = 0;
    const int axis = onnx__axis_of(o, from, 0);
    if (axis < 0) return 0;
    if (index->origin != ONNX__FIXED) return ONNX__REFUSE(o, "an index that is not constant");
    for (int k = 0; k < axis; k++) dim[rank++] = from->dim[k];
    for (int k = 0; k < index->rank; k++) dim[rank++] = index->dim[k];
    for (int k = axis + 1; k < from->rank; k++) dim[rank++] = from->dim[k];
    onnx__view view = onnx__all_of(o, from);
    const int *at = view.at[axis];
    int *taken = o->failed ? NULL : onnx__view_axis(o, &view, axis, index->count, 1);
    for (int i = 0; taken && i < index->count; i++) {
        const int which = onnx__axis(o, onnx__near(onnx__number(&index->constant, i)), from->dim[axis]);
        if (which < 0) return 0;
        taken[i] = at[which];
    }
    return onnx__emit_view(o, &view, o->node.out[0], dim, rank);
}
static int onnx__open_pad(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int pads[2 * FOLD_ONNX_RANK], axes[FOLD_ONNX_RANK];
    const int count = onnx__list(o, "pads", 1, pads, 2 * FOLD_ONNX_RANK),
              n_axes = onnx__list(o, NULL, 3, axes, FOLD_ONNX_RANK);
    const int n = n_axes == -1 ? from->rank : n_axes;
    double value = (double)onnx__real(o, "value", 0);
    onnx__field mode;
    if (count != 2 * n) return ONNX__REFUSE(o, "%d pads of %d axes", count, n);
    if (onnx__attribute(o, "mode", 4, &mode) && !onnx__is(mode.bytes, "constant"))
        return ONNX__REFUSE(o, "a mode that is not constant");
    if (onnx__has_in(o, 2) && !onnx__scalar(o, o->node.in[2], &value))
        return ONNX__REFUSE(o, "a value that is not constant");
    onnx__view view = onnx__all_of(o, from);
    view.pad = (float)value;
    for (int i = 0; i < n && !o->failed; i++) {
        const int axis = onnx__axis(o, n_axes == -1 ? i : axes[i], from->rank);
        if (axis < 0) return 0;
        const long long total = (long long)pads[i] + pads[n + i] + from->dim[axis];
        const int *at = view.at[axis], had = view.count[axis];
        if (total < 1 || total > ONNX__MOST_VALUES || pads[i] > ONNX__MOST_VALUES)
            return ONNX__REFUSE(o, "%d pads", pads[i]);
        int *padded = onnx__view_axis(o, &view, axis, (int)total, 1);
        for (int k = 0; padded && k < (int)total; k++)
            padded[k] = k < pads[i] || k - pads[i] >= had ? -1 : at[k - pads[i]];
    }
    return onnx__emit_own_view(o, &view);
}

static void onnx__record_concat(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = s->n_in == 1 ? in[0] : fold_concat(o->f, in, s->n_in, s->number[0]);
}
static int onnx__open_concat(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK], outer = 1, begin = 0;
    const onnx__value *first = onnx__in(o, 0);
    const int n = o->node.n_in, rank = first->rank, axis = onnx__axis_of(o, first, 1),
              fixed = onnx__all_fixed(o);
    onnx__value *out = onnx__out(o);
    if (axis < 0) return 0;
    memcpy(dim, first->dim, sizeof dim);
    dim[axis] = 0;
    out->is_integer = 1;
    for (int k = 0; k < axis; k++) outer *= dim[k];
    for (int i = 0; i < n; i++) {
        const onnx__value *value = onnx__in(o, i);
        int fits = value->rank == rank;
        for (int k = 0; k < rank && fits; k++) fits = k == axis || value->dim[k] == first->dim[k];
        if (!fits) return ONNX__REFUSE(o, "'%.60s' has another shape", value->name);
        dim[axis] += value->dim[axis];
        out->is_integer &= value->is_integer;
        if (!onnx__size(o, dim, rank)) return 0;
    }
    double *numbers = fixed ? onnx__fix(o, o->node.out[0], dim, rank) : NULL;
    onnx__step *step = fixed ? NULL : onnx__new_step(o, onnx__record_concat, n, 1);
    for (int i = 0; i < n && !o->failed; i++) {
        const onnx__value *from = onnx__in(o, i);
        const int own = from->count / outer;
        if (step)
            onnx__reads_shape(o, step, i, o->node.in[i],
                              outer == 1 ? fold_shape1(own) : fold_shape2(outer, own));
        for (int k = 0; numbers && k < from->count; k++)
            numbers[k / own * (out->count / outer) + begin + k % own] = onnx__number(&from->constant, k);
        begin += own;
    }
    if (step) step->number[0] = outer > 1;
    return fixed ? numbers != NULL : onnx__makes(o, step, 0, o->node.out[0], dim, rank) != NULL;
}

/* ---- constants -------------------------------------------------------------------------------- */

static int onnx__open_shape(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int start = onnx__whole(o, "start", 0), end = onnx__whole(o, "end", from->rank);
    start = onnx__clamp(start < 0 ? start + from->rank : start, 0, from->rank);
    end = onnx__clamp(end < 0 ? end + from->rank : end, 0, from->rank);
    const int count = end - start;
    if (count < 1) return ONNX__REFUSE(o, "the shape of no axes");
    double *numbers = onnx__fix(o, o->node.out[0], &count, 1);
    for (int i = 0; numbers && i < count; i++) numbers[i] = from->dim[start + i];
    onnx__out(o)->is_integer = 1;
    return numbers != NULL;
}
static int onnx__open_constant(fold_onnx *o)
{
    static const struct { const char *name; int field, type, is_list; } kinds[] = {
        { "value_float", 2, ONNX__FLOAT, 0 }, { "value_int", 3, ONNX__INT64, 0 },
        { "value_floats", 7, ONNX__FLOAT, 1 }, { "value_ints", 8, ONNX__INT64, 1 } };
    onnx__field field;
    if (onnx__attribute(o, "value", 5, &field)) return onnx__read_tensor(o, field.bytes, o->node.out[0]);
    for (int i = 0; i < 4; i++) {
        const onnx__type *type = onnx__type_of((uint64_t)kinds[i].type);
        if (!onnx__attribute(o, kinds[i].name, 0, &field)) continue;
        const onnx__type one = { type->type, type->size, type->is_integer, 0,
                                 kinds[i].field == 2 ? ONNX__FOUR : type->wire };
        const int count = onnx__numbers(o, field.bytes, kinds[i].field, &one, NULL, 0);
        double *numbers =
            o->failed || count < 1 ? NULL : onnx__fix(o, o->node.out[0], &count, kinds[i].is_list);
        if (numbers) onnx__numbers(o, field.bytes, kinds[i].field, &one, numbers, onnx__out(o)->count);
        onnx__out(o)->is_integer = type->is_integer;
        return numbers != NULL || ONNX__REFUSE(o, "no values");
    }
    return ONNX__REFUSE(o, "no value that is read");
}
static int onnx__open_constant_of_shape(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK];
    onnx__field field;
    onnx__value *out = onnx__out(o), *single = &o->values[o->most_values]; /* a place for it */
    const int rank = onnx__list(o, NULL, 0, dim, FOLD_ONNX_RANK);
    double number = 0;
    if (rank < 0) return 0;
    memset(single, 0, sizeof *single);
    if (onnx__attribute(o, "value", 5, &field) && !onnx__read_tensor(o, field.bytes, o->most_values))
        return 0;
    onnx__scalar(o, o->most_values, &number);
    double *numbers = onnx__fix(o, o->node.out[0], dim, rank);
    for (int i = 0; numbers && i < out->count; i++) numbers[i] = number;
    out->is_integer = single->is_integer;
    return numbers != NULL;
}

/* ---- ops along axes --------------------------------------------------------------------------- */

/* Ops along axes read [outer x count x inner]; outer and inner are left out where they are 1. */
static fold_shape onnx__along(int outer, int count, int inner)
{
    return inner > 1   ? fold_shape3(outer, count, inner)
           : outer > 1 ? fold_shape2(outer, count)
                       : fold_shape1(count);
}
static int onnx__product_of(const int *dim, int from, int to)
{
    int count = 1;
    for (int k = from; k < to; k++) count *= dim[k];
    return count;
}

typedef struct onnx__reduction {
    const char *type;
    fold_node (*before)(fold_ctx *, fold_node);
    fold_node (*reduce)(fold_ctx *, fold_node, int);
    fold_node (*after)(fold_ctx *, fold_node);
} onnx__reduction;
static const onnx__reduction onnx__reductions[] = {
    { "ReduceSum", NULL, fold_sum, NULL },            { "ReduceMean", NULL, fold_mean, NULL },
    { "ReduceMax", NULL, fold_amax, NULL },           { "ReduceMin", NULL, fold_amin, NULL },
    { "ReduceProd", NULL, fold_prod, NULL },          { "ReduceL1", fold_abs, fold_sum, NULL },
    { "ReduceL2", fold_square, fold_sum, fold_sqrt }, { "ReduceSumSquare", fold_square, fold_sum, NULL },
    { "ReduceLogSum", NULL, fold_sum, fold_log },     { "ReduceLogSumExp", NULL, fold_logsumexp, NULL } };

static void onnx__record_reduce(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const onnx__reduction *reduction = &onnx__reductions[s->number[0]];
    out[0] = reduction->before ? reduction->before(o->f, in[0]) : in[0];
    out[0] = reduction->reduce(o->f, out[0], s->number[1]);
    if (reduction->after) out[0] = reduction->after(o->f, out[0]);
}
/* Axes that lie side by side are reduced where they are, others are brought to the end. */
static int onnx__open_reduce(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    int marks[FOLD_ONNX_RANK], order[FOLD_ONNX_RANK], dim[FOLD_ONNX_RANK], rank = 0, kept = 0, count = 1,
                                                                           last = 0;
    const int all = from->rank, named = onnx__marked_axes(o, all, marks),
              keeps = onnx__whole(o, "keepdims", 1);
    if (named == -2 || !onnx__takes_floats(o)) return 0;
    for (int k = 0; k < all; k++) {
        if (named < 1) marks[k] = !onnx__whole(o, "noop_with_empty_axes", 0);
        if (!marks[k]) order[kept++] = k;
        if (!marks[k] || keeps) dim[rank++] = marks[k] ? 1 : from->dim[k];
        if (marks[k]) count *= from->dim[last = k];
    }
    for (int k = 0, next = kept; k < all; k++)
        if (marks[k]) order[next++] = k;
    int inner = onnx__product_of(from->dim, last + 1, all), first = 0;
    while (first < all && !marks[first]) first++;
    const int together = first == all || last - first == all - kept - 1;
    if (!together || first == all) inner = 1;
    const onnx__view view = together ? onnx__all_of(o, from) : onnx__permuted(o, from->dim, all, order);
    const int outer = from->count / count / inner;
    onnx__step *step = onnx__new_step(o, onnx__record_reduce, 1, 1);
    if (!onnx__reads_view(o, step, 0, o->node.in[0], &view, onnx__along(outer, count, inner))) return 0;
    while (strcmp(onnx__reductions[step->number[0]].type, o->node.type)) step->number[0]++;
    step->number[1] = inner > 1 || outer > 1;
    step->number[2] = inner;
    return onnx__makes(o, step, 0, o->node.out[0], dim, rank) != NULL;
}

/* Reads an input with an axis at the end, [others x axis]; *view is in that order, which is written to
   `order`. */
static int onnx__reads_with_last(fold_onnx *o, onnx__step *step, int axis, int *order, onnx__view *view)
{
    const onnx__value *from = onnx__in(o, 0);
    const int rank = from->rank, width = from->dim[axis];
    for (int k = 0; k < rank; k++) order[k] = k < axis ? k : k < rank - 1 ? k + 1 : axis;
    *view = onnx__permuted(o, from->dim, rank, order);
    return onnx__reads_view(o, step, 0, o->node.in[0], view, onnx__along(from->count / width, width, 1));
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
    const onnx__value *from = onnx__in(o, 0);
    const int flat = o->version < 13; /* then all axes from this one on are one */
    const int axis = onnx__axis_of(o, from, flat ? 1 : -1), rank = from->rank;
    int order[FOLD_ONNX_RANK], back[FOLD_ONNX_RANK];
    onnx__view view;
    if (axis < 0) return 0;
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_one, 1, 1) : NULL;
    if (flat || axis == rank - 1) {
        const int width = onnx__product_of(from->dim, axis, rank);
        return onnx__reads_shape(o, step, 0, o->node.in[0], onnx__along(from->count / width, width, 1)) &&
               onnx__makes(o, step, 0, o->node.out[0], from->dim, rank) != NULL;
    }
    if (!onnx__reads_with_last(o, step, axis, order, &view)) return 0;
    for (int k = 0; k < rank; k++) back[order[k]] = k;
    return onnx__makes_permuted(o, step, view.count, rank, back);
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
                if (!isnan(x[best]) &&
                    (x[i] > x[best] || isnan(x[i]) || (step->number[0] && x[i] == x[best])))
                    best = i;
            fold_row(&c->out[0], row)[line] = (float)best;
        }
}
static void onnx__record_argmax(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const fold_shape shape = fold_node_shape(o->f, in[0]);
    fold_node x = in[0];
    if (s->noise && o->chance) { /* a choice: Gumbel's maximum */
        for (int i = 0; i < onnx__elements(shape); i++)
            s->noise[i] = (float)-log(-log((double)fold_random_uniform(o->chance) + 0x1p-25));
        x = fold_add(o->f, x, fold_input_shaped(o->f, s->noise, shape));
    }
    out[0] = onnx__apply_own(o->f, s->own, &x, 1, fold_shape1(s->number[1]));
}
static int onnx__open_argmax(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    const int chooses = !strcmp(o->node.type, "Multinomial"), axis = onnx__axis_of(o, from, chooses ? -1 : 0);
    int dim[FOLD_ONNX_RANK], order[FOLD_ONNX_RANK], rank = 0;
    onnx__view view;
    if (axis < 0) return 0;
    if (onnx__whole(o, "sample_size", 1) != 1) return ONNX__REFUSE(o, "more than one sample");
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_argmax, 1, 1) : NULL;
    if (!onnx__reads_with_last(o, step, axis, order, &view)) return 0;
    for (int k = 0; k < from->rank; k++)
        if (k != axis || onnx__whole(o, "keepdims", 1)) dim[rank++] = k == axis ? 1 : from->dim[k];
    step->number[0] = onnx__whole(o, "select_last_index", 0);
    step->number[1] = from->count / from->dim[axis];
    if (chooses) step->noise = ONNX__KEPT(o, float, from->count);
    onnx__out(o)->is_integer = 1;
    return onnx__makes(o, step, 0, o->node.out[0], dim, rank) &&
           onnx__own_op(o, chooses ? "onnx choice" : "onnx argmax", 1, onnx__argmax_forward, NULL, step,
                        &step->own);
}

#ifndef FOLD_NO_TEXT
/* -- the same ops as C -- */

static int onnx__write(fold_writer *write, void *writer, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    return write(text, strlen(text), writer);
}

static int onnx__print_move(const onnx__move *move, fold_writer *write, void *writer)
{
    const int runs = move->count / move->run;
    int stopped = onnx__write(write, writer, "        static const int own_from[%d] = {", runs);
    for (int i = 0; i < runs && !stopped; i++)
        stopped = onnx__write(write, writer, i % 16 ? "%d, " : "\n            %d, ", move->source[i]);
    stopped =
        stopped ||
        onnx__write(write, writer, "\n        };\n        int k;\n        for (i = 0; i < %d; i++)\n", runs);
    if (move->has_pad)
        return stopped || onnx__write(write, writer,
                                      "            for (k = 0; k < %d; k++) own_out[i * %d + k] = "
                                      "own_from[i] < 0 ? (float)%g : own_in0[own_from[i] + k];\n",
                                      move->run, move->run, (double)move->pad);
    return stopped || onnx__write(write, writer,
                                  "            for (k = 0; k < %d; k++) own_out[i * %d + k] = "
                                  "own_in0[own_from[i] + k];\n",
                                  move->run, move->run);
}

static int onnx__print_argmax(const fold_seen *seen, fold_writer *write, void *writer)
{
    const onnx__step *step = (const onnx__step *)seen->own->user;
    const int n = seen->in[0]->dim[seen->in[0]->rank - 1], lines = onnx__elements(*seen->in[0]) / n;
    return onnx__write(write, writer,
                       "        for (i = 0; i < %d; i++) {\n            const float *own_line = own_in0 + i "
                       "* %d;\n            int best = 0, k;\n",
                       lines, n) ||
           onnx__write(write, writer,
                       "            for (k = 1; k < %d; k++)\n                if (own_line[best] == "
                       "own_line[best] && (!(own_line[k] %s own_line[best]))) best = k;\n",
                       n, step->number[0] ? "<" : "<=") ||
           onnx__write(write, writer, "            own_out[i] = (float)best;\n        }\n");
}

int fold_onnx_print(const fold_seen *seen, fold_writer *write, void *writer, void *user)
{
    static const struct { const char *type, *text;
    } maps[] = { { "Less", "own_in0[i] < own_in1[i]" },
                 { "LessOrEqual", "own_in0[i] <= own_in1[i]" },
                 { "Greater", "own_in0[i] > own_in1[i]" },
                 { "GreaterOrEqual", "own_in0[i] >= own_in1[i]" } };
    (void)user;
    if (!seen || !seen->own || !write) return 1;
    if (seen->own->forward == onnx__move_forward)
        return onnx__print_move((const onnx__move *)seen->own->user, write, writer);
    if (seen->own->forward == onnx__argmax_forward) return onnx__print_argmax(seen, write, writer);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (seen->own->forward == onnx__map_forward && !strcmp(maps[i].type, seen->name))
            return onnx__write(write, writer,
                               "        for (i = 0; i < %d; i++) own_out[i] = %s ? 1.0f : 0.0f;\n",
                               onnx__elements(*seen->out[0]), maps[i].text);
    return 1;
}
#endif

/* Random numbers: those that are drawn, or else their mean. */
static void onnx__record_random(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const int normal = s->number[0];
    (void)in;
    for (int i = 0; i < s->number[1]; i++) {
        float x = normal ? 0.0f : 0.5f;
        if (o->chance) x = normal ? fold_random_normal(o->chance) : fold_random_uniform(o->chance);
        s->noise[i] = s->real[0] + s->real[1] * x;
    }
    out[0] = fold_input(o->f, s->noise, s->number[1]);
}
static int onnx__open_random(fold_onnx *o)
{
    int dim[FOLD_ONNX_RANK], rank = onnx__list(o, "shape", -1, dim, FOLD_ONNX_RANK);
    const int normal = !strncmp(o->node.type, "RandomNormal", 12);
    if (o->node.n_in) memcpy(dim, onnx__in(o, 0)->dim, sizeof dim);
    if (o->node.n_in) rank = onnx__in(o, 0)->rank;
    if (rank < 0) return ONNX__REFUSE(o, "no shape");
    onnx__step *step = onnx__new_step(o, onnx__record_random, 0, 1);
    if (!onnx__makes(o, step, 0, o->node.out[0], dim, rank)) return 0;
    step->number[0] = normal;
    step->number[1] = onnx__out(o)->count;
    step->real[0] = onnx__real(o, normal ? "mean" : "low", 0);
    step->real[1] = onnx__real(o, normal ? "scale" : "high", 1) - (normal ? 0 : step->real[0]);
    return (step->noise = ONNX__KEPT(o, float, step->number[1])) != NULL;
}

/* ---- norms ------------------------------------------------------------------------------------ */

static void onnx__record_layer_norm(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    out[0] = fold_layer_norm(o->f, in[0], s->param[0], s->param[1], s->real[0]);
    if (s->n_out > 1 && s->out[1] >= 0) out[1] = fold_mean(o->f, in[0], -1);
    if (s->n_out < 3 || s->out[2] < 0) return;
    const fold_node deviation = fold_sqrt(o->f, fold_shift(o->f, fold_variance(o->f, in[0], -1), s->real[0]));
    out[2] = fold_div(o->f, fold_constant(o->f, 1), deviation);
}
static int onnx__open_layer_norm(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    const int axis = onnx__axis_of(o, from, -1), rank = from->rank;
    int dim[FOLD_ONNX_RANK];
    if (axis < 0 || !onnx__takes_floats(o)) return 0;
    for (int k = 0; k < rank; k++) dim[k] = k < axis ? from->dim[k] : 1;
    const int inner = onnx__product_of(from->dim, axis, rank), beside = o->node.in[1];
    onnx__step *step = onnx__new_step(o, onnx__record_layer_norm, 1, 3);
    if (!onnx__reads_shape(o, step, 0, o->node.in[0], onnx__along(from->count / inner, inner, 1))) return 0;
    step->number[0] = 2; /* it has a gain and a bias */
    step->real[0] = onnx__real(o, "epsilon", 1e-5f);
    if (!(step->real[0] > 0)) return ONNX__REFUSE(o, "an epsilon that is not positive");
    if (!onnx__vector(o, beside, inner, 1, &step->param[0])) return 0;
    if (!onnx__has_in(o, 2)) onnx__fill(o, beside, inner, ONNX__ZEROS, &step->param[1]);
    else if (!onnx__vector(o, o->node.in[2], inner, 1, &step->param[1])) return 0;
    for (int i = 1; i < 3; i++)
        if (onnx__has_out(o, i) && !onnx__makes(o, step, i, o->node.out[i], dim, rank)) return 0;
    return onnx__makes(o, step, 0, o->node.out[0], from->dim, rank) != NULL;
}

/* Batch norm of [values x channels] by statistics that it is given, or in training by its own; then it tells
   running ones. */
static void onnx__record_batch_norm(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const int trains = s->number[0];
    const fold_node mean = trains ? fold_mean(o->f, in[0], 0) : in[3];
    const fold_node variance = trains ? fold_variance(o->f, in[0], 0) : in[4];
    out[0] = fold_mul(o->f, fold_standardize(o->f, in[0], mean, variance, s->real[0]), in[1]);
    out[0] = fold_add(o->f, out[0], in[2]);
    for (int i = 1; i < 3 && trains; i++) {
        const fold_node now = fold_scale(o->f, i == 1 ? mean : variance, 1 - s->real[1]);
        out[i] = fold_add(o->f, fold_scale(o->f, in[2 + i], s->real[1]), now);
    }
}
static int onnx__open_batch_norm(fold_onnx *o)
{
    const onnx__value *from = onnx__in(o, 0);
    const int rank = from->rank, channels = rank > 1 ? from->dim[1] : 0,
              trains = onnx__whole(o, "training_mode", 0);
    int order[FOLD_ONNX_RANK], back[FOLD_ONNX_RANK];
    if (rank < 2) return ONNX__REFUSE(o, "an input of rank %d", rank);
    for (int k = 0; k < rank; k++) order[k] = k == 0 ? 0 : k < rank - 1 ? k + 1 : 1;
    for (int k = 0; k < rank; k++) back[order[k]] = k;
    const onnx__view view = onnx__permuted(o, from->dim, rank, order);
    onnx__step *step = onnx__takes_floats(o) ? onnx__new_step(o, onnx__record_batch_norm, 5, 3) : NULL;
    if (!onnx__reads_view(o, step, 0, o->node.in[0], &view, fold_shape2(from->count / channels, channels)))
        return 0;
    step->number[0] = trains;
    step->real[0] = onnx__real(o, "epsilon", 1e-5f);
    step->real[1] = onnx__real(o, "momentum", 0.9f);
    for (int i = 1; i < 5; i++) {
        if (onnx__in(o, i)->count != channels)
            return ONNX__REFUSE(o, "'%.60s' is not %d values", onnx__in(o, i)->name, channels);
        if (i > 2 && onnx__is_fixed(o, o->node.in[i]) && !onnx__use_constant(o, o->node.in[i], 1)) return 0;
        if (!onnx__reads_shape(o, step, i, o->node.in[i], fold_shape1(channels))) return 0;
        if (i < 3 && trains && onnx__has_out(o, i) && !onnx__makes(o, step, i, o->node.out[i], &channels, 1))
            return 0;
    }
    return onnx__makes_permuted(o, step, view.count, rank, back);
}

/* ---- products --------------------------------------------------------------------------------- */

/* The last input is what is added, if there are more than a product reads. */
static void onnx__record_linear(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const int n = s->number[0]; /* inputs of the product */
    out[0] = n == 1 ? fold_linear(o->f, in[0], s->param[0], s->param[1]) : fold_matmul(o->f, in[0], in[1]);
    if (n == 2 && s->real[0] != 1) out[0] = fold_scale(o->f, out[0], s->real[0]);
    if (s->n_in > n)
        out[0] = fold_add(o->f, out[0], s->real[1] == 1 ? in[n] : fold_scale(o->f, in[n], s->real[1]));
}

/* Makes a constant [inputs x outputs] the weight of a step, times `scale`. A row of inputs that is only
   permuted is read as it was, by a weight whose rows are permuted. */
static int onnx__reads_by_weight(fold_onnx *o, onnx__step *step, const onnx__view *view, int turned, int rows,
                                 float scale)
{
    static const int orders[2][2] = { { 0, 1 }, { 1, 0 } };
    const onnx__value *weight = onnx__in(o, 1);
    const int inputs = weight->dim[turned], outputs = weight->dim[!turned];
    onnx__weight wanted = {
        o->node.in[1], turned ? ONNX__TURNED : ONNX__AS_IT_IS, scale, fold_shape2(inputs, outputs), { 0, 0 }
    };
    onnx__view order = onnx__permuted(o, weight->dim, 2, orders[turned]);
    if (!onnx__reads_view(o, step, 0, o->node.in[0], view, onnx__along(rows, inputs, 1))) return 0;
    onnx__move *move = step->in[0].move;
    if (rows == 1 && move->is_permutation && !move->is_window) {
        const int *from = order.at[0];
        int *to = onnx__view_axis(o, &order, 0, inputs, 1);
        for (int i = 0; to && i < inputs; i++) to[move->source[i / move->run] + i % move->run] = from[i];
        wanted.form = ONNX__OF_STEP + o->n_steps;
        move->is_window = 1;
        move->from = 0;
    }
    return onnx__weigh(o, wanted, &order, FOLD_FOR_LINEAR, 0, &step->param[0]);
}

/* The view of matrices of a batch, which is repeated where they are fewer; turned, they are transposed. */
static onnx__view onnx__matrices(fold_onnx *o, const onnx__value *value, const int *batch, int rank,
                                 int turned)
{
    int dim[FOLD_ONNX_RANK + 2];
    for (int k = 0; k < rank + 2; k++) dim[k] = k < rank ? batch[k] : value->dim[value->rank - 2 + k - rank];
    onnx__view view = onnx__repeated(o, value, dim, rank + 2);
    for (int k = rank; k < rank + 2; k++) dim[k] = view.count[k];
    int *const at[2] = { view.at[rank], view.at[rank + 1] };
    for (int k = 0; k < 2 && turned; k++) {
        view.count[rank + k] = dim[rank + !k];
        view.at[rank + k] = at[!k];
    }
    return view;
}

/* alpha a b + beta c, of matrices, or of batches of them. A vector is a matrix of one row, or of one column,
   and loses that axis again. A constant matrix b is a weight, and a constant row c its bias. */
static int onnx__open_product(fold_onnx *o)
{
    onnx__value side[2] = { *onnx__in(o, 0), *onnx__in(o, 1) };
    const int is_gemm = !strcmp(o->node.type, "Gemm"), has_c = onnx__has_in(o, 2), *in = o->node.in;
    const int turn[2] = { onnx__whole(o, "transA", 0) != 0, onnx__whole(o, "transB", 0) != 0 };
    const float alpha = onnx__real(o, "alpha", 1), beta = onnx__real(o, "beta", 1);
    int dim[FOLD_ONNX_RANK + 2], rank = 0, size[2][2], kept[2], count;
    for (int i = 0; i < 2 && rank >= 0; i++) {
        onnx__value *value = &side[i], outer;
        kept[i] = value->rank > 1;
        if (!value->rank || (is_gemm && value->rank != 2)) return ONNX__REFUSE(o, "matrices that do not fit");
        if (value->rank == 1) {
            value->rank = 2;
            value->dim[i] = 1;
            value->dim[!i] = value->count;
        }
        for (int k = 0; k < 2; k++) size[i][k] = value->dim[value->rank - 2 + (k ^ turn[i])];
        outer = *value;
        outer.rank -= 2;
        rank = onnx__meet(o, &outer, dim, rank);
    }
    if (rank < 0 || !(count = onnx__size(o, dim, rank)) || !onnx__takes_floats(o)) return 0;
    const int m = size[0][0], k = size[0][1], n = size[1][1], one = side[1].rank == 2;
    const onnx__value *c = has_c ? onnx__in(o, 2) : NULL;
    const int linear = one && kept[1] && onnx__is_fixed(o, in[1]), rows = one ? count * m : m;
    const int row = linear && has_c && onnx__is_fixed(o, in[2]) &&
                    (c->count == 1 || (c->count == n && c->dim[c->rank - 1] == n));
    int out[FOLD_ONNX_RANK + 2], meets[FOLD_ONNX_RANK] = { m, n };
    if (k != size[1][0]) return ONNX__REFUSE(o, "matrices that do not fit");
    if (c && (onnx__meet(o, c, meets, 2) != 2 || meets[0] != m || meets[1] != n))
        return ONNX__REFUSE(o, "a bias of another shape");
    onnx__step *step = onnx__new_step(o, onnx__record_linear, 2 - linear + (has_c && !row), 1);
    if (!step) return 0;
    step->number[0] = 2 - linear;
    step->real[0] = alpha;
    step->real[1] = beta;
    const onnx__view a = onnx__matrices(o, &side[0], dim, rank, turn[0]),
                     b = onnx__matrices(o, &side[1], dim, one ? 0 : rank, turn[1]);
    const int batched = !one && count > 1;
    if (linear && !onnx__reads_by_weight(o, step, &a, turn[1], rows, alpha)) return 0;
    if (row && !onnx__vector(o, in[2], n, beta, &step->param[1])) return 0;
    if (!linear) {
        onnx__reads_view(o, step, 0, in[0], &a, batched ? fold_shape3(count, m, k) : fold_shape2(rows, k));
        onnx__reads_view(o, step, 1, in[1], &b, batched ? fold_shape3(count, k, n) : fold_shape2(k, n));
    }
    if (has_c && !row && !onnx__reads_view(o, step, 2 - linear, in[2], NULL, fold_shape1(1))) return 0;
    memcpy(out, dim, sizeof out);
    for (int i = 0; i < 2; i++)
        if (kept[i]) out[rank++] = i ? n : m;
    return onnx__makes(o, step, 0, o->node.out[0], out, rank) != NULL;
}

/* ---- convolutions ----------------------------------------------------------------------------- */

typedef struct onnx__window { int taps, begin, end, out; } onnx__window; /* along an axis */

/* Reads what a convolution tells of its windows: they move alike along all axes. */
static int onnx__read_windows(fold_onnx *o, int *stride, int *dilation, onnx__window *window)
{
    static const char *const names[4] = { "strides", "dilations", "kernel_shape", "pads" };
    const onnx__value *x = onnx__in(o, 0), *filter = onnx__in(o, 1);
    const int axes = x->rank - 2;
    int list[4][4] = { { 1, 1 }, { 1, 1 }, { filter->dim[2], filter->dim[3] }, { 0 } };
    for (int i = 0; i < 4; i++) {
        const int count = onnx__list(o, names[i], -1, list[i], 4);
        if (count != -1 && count != (i < 3 ? axes : 2 * axes))
            return ONNX__REFUSE(o, "%s do not fit %d axes", names[i], axes);
    }
    *stride = list[0][0];
    *dilation = list[1][0];
    if (axes == 2 && (list[0][1] != *stride || list[1][1] != *dilation))
        return ONNX__REFUSE(o, "strides or dilations that differ from axis to axis");
    if (*stride < 1 || *dilation < 1 || *stride > 4096 || *dilation > 4096)
        return ONNX__REFUSE(o, "a stride of %d, a dilation of %d", *stride, *dilation);
    const int upper = onnx__has_word(o, "auto_pad", "SAME_UPPER"),
              same = upper || onnx__has_word(o, "auto_pad", "SAME_LOWER");
    const int valid = onnx__has_word(o, "auto_pad", "VALID");
    for (int k = 0; k < axes; k++) {
        const int n = x->dim[2 + k], taps = filter->dim[2 + k];
        const long long reach = (long long)(taps - 1) * *dilation + 1;
        int begin = list[3][k], end = list[3][axes + k];
        if (list[2][k] != taps) return ONNX__REFUSE(o, "a kernel of %d, and weights of %d", list[2][k], taps);
        if (reach > 65536) return ONNX__REFUSE(o, "a kernel that reaches too far");
        if (same || valid) {
            const int missing = valid ? 0 : ((n + *stride - 1) / *stride - 1) * *stride + (int)reach - n;
            begin = missing < 0 ? 0 : (missing + !upper) / 2;
            end = missing < 0 ? 0 : missing - begin;
        }
        if (begin < 0 || end < 0 || begin > 65536 || end > 65536)
            return ONNX__REFUSE(o, "pads of %d and %d", begin, end);
        const long long room = (long long)n + begin + end - reach;
        if (room < 0) return ONNX__REFUSE(o, "a kernel that is longer than axis %d", 2 + k);
        const onnx__window found = { taps, begin, end, (int)(room / *stride) + 1 };
        window[k] = found;
    }
    return 1;
}

static void onnx__record_conv(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    fold_conv_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.stride = s->number[1];
    desc.padding = s->number[2];
    desc.dilation = s->number[3];
    desc.depthwise = s->number[4];
    out[0] = (s->number[0] == 1 ? fold_conv1d : fold_conv2d)(o->f, in[0], s->param[0], s->param[1], &desc);
}
/* Reads [1, channels, ...] with its channels last, and padded where fold.h cannot pad by itself. */
static int onnx__reads_image(fold_onnx *o, onnx__step *step, const onnx__window *window)
{
    const onnx__value *x = onnx__in(o, 0);
    const int axes = x->rank - 2, padding = window[0].begin, *dim = x->dim;
    const onnx__view from = onnx__all_of(o, x);
    onnx__view view = from;
    int equal = 1;
    for (int k = 0; k < axes; k++)
        equal &= window[k].begin == padding && window[k].end == padding &&
                 padding < (window[k].taps - 1) * step->number[3] + 1;
    step->number[2] = equal ? padding : 0;
    view.rank = axes + 1;
    for (int k = 0; k < axes && !o->failed; k++) {
        const int before = equal ? 0 : window[k].begin, n = dim[2 + k];
        int *at = onnx__view_axis(o, &view, k, n + before + (equal ? 0 : window[k].end), 1);
        for (int i = 0; at && i < view.count[k]; i++)
            at[i] = i < before || i >= before + n ? -1 : from.at[2 + k][i - before];
    }
    view.count[axes] = dim[1];
    view.at[axes] = from.at[1];
    return onnx__reads_view(o, step, 0, o->node.in[0], &view, onnx__plain_shape(view.count, axes + 1));
}
/* Filters of [outputs x inputs x taps] have [taps x inputs x outputs] here, and so do images their channels
   last. */
static int onnx__open_conv(fold_onnx *o)
{
    static const int filters[2][4] = { { 2, 1, 0 }, { 2, 3, 1, 0 } },
                     back[2][4] = { { 0, 2, 1 }, { 0, 3, 1, 2 } };
    const onnx__value *x = onnx__in(o, 0), *filter = onnx__in(o, 1);
    const int groups = onnx__whole(o, "group", 1), axes = x->rank - 2;
    onnx__window window[2];
    int stride = 1, dilation = 1;
    if (!onnx__takes_floats(o)) return 0;
    if (axes < 1 || axes > 2 || x->dim[0] != 1 || filter->rank != x->rank)
        return ONNX__REFUSE(o, "an input of rank %d, or more than one sample", x->rank);
    const int outputs = filter->dim[0], depthwise = groups > 1 && groups == x->dim[1] && outputs == groups;
    if (groups != 1 && !depthwise) return ONNX__REFUSE(o, "%d groups of %d channels", groups, x->dim[1]);
    if (filter->dim[1] != (depthwise ? 1 : x->dim[1]))
        return ONNX__REFUSE(o, "weights of %d channels, not %d", filter->dim[1], x->dim[1]);
    onnx__step *step =
        onnx__read_windows(o, &stride, &dilation, window) ? onnx__new_step(o, onnx__record_conv, 1, 1) : NULL;
    if (!step) return 0;
    const int numbers[5] = { axes, stride, 0, dilation, depthwise };
    memcpy(step->number, numbers, sizeof numbers);
    const onnx__view view = onnx__permuted(o, filter->dim, filter->rank, filters[axes - 1]);
    const onnx__weight wanted = {
        o->node.in[1], ONNX__TURNED, 1, onnx__plain_shape(view.count, filter->rank), { 0, 0 }
    };
    if (!onnx__reads_image(o, step, window) ||
        !onnx__weigh(o, wanted, &view, FOLD_FOR_CONV, 0, &step->param[0]))
        return 0;
    if (onnx__has_in(o, 2) && !onnx__vector(o, o->node.in[2], outputs, 1, &step->param[1])) return 0;
    const int made[4] = { 1, window[0].out, axes == 1 ? outputs : window[1].out, outputs };
    return onnx__makes_permuted(o, step, made, x->rank, back[axes - 1]);
}

/* ---- recurrent layers ------------------------------------------------------------------------- */

enum { ONNX__STEPS, ONNX__BATCH, ONNX__WIDTH, ONNX__HIDDEN, ONNX__WAYS, ONNX__REVERSE };
enum { ONNX__IS_LSTM = 6, ONNX__RESETS_LATE, ONNX__PEEPS, ONNX__BATCH_FIRST }; /* these go on */

/* Gate k of ONNX's i o f c, of which c goes through tanh. Peepholes are i o f; `gates` are all three without
   them. */
static fold_node onnx__lstm_gate(fold_ctx *f, const onnx__step *s, fold_param peeps, fold_node all,
                                 fold_node c, int k)
{
    const int n = s->number[ONNX__HIDDEN];
    if (!s->number[ONNX__PEEPS]) return onnx__part(f, all, k * n, n);
    const fold_node seen = fold_mul(f, onnx__part(f, fold_use(f, peeps), k * n, n), c);
    return fold_sigmoid(f, fold_add(f, onnx__part(f, all, k * n, n), seen));
}
static void onnx__lstm_step(fold_ctx *f, const onnx__step *s, const fold_param *param, fold_node x,
                            fold_node *h, fold_node *c)
{
    const int n = s->number[ONNX__HIDDEN];
    const fold_node both[2] = { x, *h }, all = fold_linear_n(f, both, 2, param[0], param[1]);
    const fold_node update = fold_tanh(f, onnx__part(f, all, 3 * n, n));
    const fold_node gates = s->number[ONNX__PEEPS] ? all : fold_sigmoid(f, onnx__part(f, all, 0, 3 * n));
    const fold_node in = onnx__lstm_gate(f, s, param[2], gates, *c, 0),
                    keep = onnx__lstm_gate(f, s, param[2], gates, *c, 2);
    *c = fold_add(f, fold_mul(f, keep, *c), fold_mul(f, in, update));
    *h = fold_mul(f, onnx__lstm_gate(f, s, param[2], gates, *c, 1), fold_tanh(f, *c));
}
/* ONNX's gates are z r h. The reset comes after the product with h, as in PyTorch, or before. */
static void onnx__gru_step(fold_ctx *f, const onnx__step *s, const fold_param *param, fold_node x,
                           fold_node *h)
{
    const int n = s->number[ONNX__HIDDEN];
    fold_node both[2] = { x, *h }, gates, fresh;
    if (s->number[ONNX__RESETS_LATE]) {
        const fold_node a = fold_linear(f, x, param[0], param[1]), b = fold_linear(f, *h, param[2], param[3]);
        gates = fold_sigmoid(f, fold_add(f, onnx__part(f, a, 0, 2 * n), onnx__part(f, b, 0, 2 * n)));
        fresh = fold_mul(f, onnx__part(f, gates, n, n), onnx__part(f, b, 2 * n, n));
        fresh = fold_tanh(f, fold_add(f, onnx__part(f, a, 2 * n, n), fresh));
    } else {
        gates = fold_sigmoid(f, fold_linear_n(f, both, 2, param[0], param[1]));
        both[1] = fold_mul(f, onnx__part(f, gates, n, n), *h);
        fresh = fold_tanh(f, fold_linear_n(f, both, 2, param[2], param[3]));
    }
    *h = fold_add(f, fresh, fold_mul(f, onnx__part(f, gates, 0, n), fold_sub(f, *h, fresh)));
}

/* Every sequence of a batch is a chain of its own, in each direction. */
static void onnx__record_recurrent(fold_onnx *o, const onnx__step *s, const fold_node *in, fold_node *out)
{
    const int *number = s->number, steps = number[ONNX__STEPS], batch = number[ONNX__BATCH],
              width = number[ONNX__WIDTH];
    const int n = number[ONNX__HIDDEN], ways = number[ONNX__WAYS], first = number[ONNX__BATCH_FIRST],
              chains = batch * ways;
    fold_node *y = s->nodes + s->n_in + s->n_out, *last = y + steps * chains;
    for (int chain = 0; chain < chains; chain++) {
        const int b = chain / ways, way = chain % ways, place = first ? chain : way * batch + b;
        fold_node state[2];
        for (int i = 0; i <= number[ONNX__IS_LSTM]; i++)
            state[i] = s->in[1 + i].value < 0 ? fold_zeros(o->f, fold_shape1(n))
                                              : onnx__part(o->f, in[1 + i], place * n, n);
        for (int t = 0; t < steps; t++) {
            const int at = way || number[ONNX__REVERSE] ? steps - 1 - t : t;
            const fold_node x =
                onnx__part(o->f, in[0], (first ? b * steps + at : at * batch + b) * width, width);
            if (number[ONNX__IS_LSTM]) onnx__lstm_step(o->f, s, s->param + 4 * way, x, &state[0], &state[1]);
            else onnx__gru_step(o->f, s, s->param + 4 * way, x, &state[0]);
            y[first ? (b * steps + at) * ways + way : (at * ways + way) * batch + b] = state[0];
        }
        for (int i = 0; i <= number[ONNX__IS_LSTM]; i++) last[i * chains + place] = state[i];
    }
    for (int i = 0; i < s->n_out; i++) {
        const fold_node *part = i ? last + (i - 1) * chains : y;
        const int parts = i ? chains : steps * chains;
        out[i] = parts == 1 ? part[0] : fold_concat(o->f, part, parts, 0);
    }
}

/* Makes the weight and the bias of some gates, which read x, or h, or both: the rows of x come first. */
typedef struct onnx__gates { int slot, reads_x, reads_h, from, count; } onnx__gates;
static int onnx__gate_params(fold_onnx *o, onnx__step *step, int way, const onnx__gates *gates, int all)
{
    const int n = step->number[ONNX__HIDDEN], width = step->number[ONNX__WIDTH], columns = gates->count * n;
    const int inputs = gates->reads_x ? width : 0, rows = inputs + (gates->reads_h ? n : 0),
              bias = onnx__has_in(o, 3) ? o->node.in[3] : 0;
    const int form = ONNX__OF_STEP + 8 * o->n_steps + 4 * way + gates->slot,
              first = (way * all + gates->from) * n;
    const onnx__constant *W = &onnx__in(o, 1)->constant, *R = &onnx__in(o, 2)->constant,
                         *B = &o->values[bias].constant;
    const onnx__weight weight = {
        o->node.in[gates->reads_x ? 1 : 2], form, 1, fold_shape2(rows, columns), { 0, 0 }
    };
    const onnx__weight vector = { bias, form, 1, fold_shape1(columns), { 0, 0 } };
    fold_param *param = &step->param[4 * way + gates->slot];
    float *out = onnx__parameter(o, weight, FOLD_FOR_LINEAR, 0, param);
    for (int i = 0; out && i < rows * columns; i++) {
        const int row = i / columns, from = first + i % columns;
        out[i] = (float)(row < inputs ? onnx__number(W, from * width + row)
                                      : onnx__number(R, from * n + row - inputs));
    }
    if (!out || !onnx__end(o, *param)) return 0;
    if (!onnx__has_in(o, 3)) return 1;
    out = onnx__parameter(o, vector, 0, 0, param + 1);
    for (int k = 0; out && k < columns; k++) {
        const int at = first + way * all * n + k;
        out[k] = (float)((gates->reads_x ? onnx__number(B, at) : 0) +
                         (gates->reads_h ? onnx__number(B, at + all * n) : 0));
    }
    return out && onnx__end(o, param[1]);
}
static int onnx__recurrent_params(fold_onnx *o, onnx__step *step)
{
    static const onnx__gates gates[3][2] = { { { 0, 1, 1, 0, 2 },
                                               { 2, 1, 1, 2, 1 } }, /* the reset is early */
                                             { { 0, 1, 0, 0, 3 }, { 2, 0, 1, 0, 3 } },   /* or late */
                                             { { 0, 1, 1, 0, 4 }, { 0, 0, 0, 0, 0 } } }; /* of an LSTM */
    const int is_lstm = step->number[ONNX__IS_LSTM], n = step->number[ONNX__HIDDEN];
    for (int way = 0; way < step->number[ONNX__WAYS]; way++) {
        for (int i = 0; i < 2 - is_lstm; i++)
            if (!onnx__gate_params(o, step, way, &gates[is_lstm ? 2 : step->number[ONNX__RESETS_LATE]][i],
                                   is_lstm ? 4 : 3))
                return 0;
        if (!step->number[ONNX__PEEPS]) continue;
        const onnx__weight wanted = { o->node.in[7], ONNX__OF_STEP + way, 1, fold_shape1(3 * n), { 0, 0 } };
        onnx__view view = onnx__view_of(o, &onnx__in(o, 7)->count, 1);
        view.at[0] += way * 3 * n;
        if (!onnx__weigh(o, wanted, &view, 0, 0, &step->param[4 * way + 2])) return 0;
    }
    return 1;
}

/* Tells whether the inputs and attributes of a recurrent layer are those that are read. */
static int onnx__recurrent_fits(fold_onnx *o, const int *number, int all)
{
    const int n = number[ONNX__HIDDEN], ways = number[ONNX__WAYS], batch = number[ONNX__BATCH],
              per_way = all == 4 ? 3 : 2;
    const long long weights = (long long)ways * all * n, states = (long long)ways * batch * n;
    const long long counts[8] = {
        0, weights * number[ONNX__WIDTH], weights * n, 2 * weights, batch, states, states, 3ll * ways * n
    };
    onnx__field attribute, field;
    for (int i = 1, is_state = 0; i < o->node.n_in; i++) {
        if (!onnx__has_in(o, i)) continue;
        is_state = i == 5 || i == 6;
        const onnx__value *value = onnx__in(o, i);
        if (value->count != counts[i] || (is_state && value->rank != 3))
            return ONNX__REFUSE(o, "'%.60s' has another shape than the others ask for", value->name);
        if (!is_state && value->origin != ONNX__FIXED)
            return ONNX__REFUSE(o, "'%.60s' is not constant", value->name);
        for (int k = 0; i == 4 && k < batch; k++)
            if (onnx__number(&value->constant, k) != number[ONNX__STEPS])
                return ONNX__REFUSE(o, "sequences of several lengths");
    }
    if (onnx__whole(o, "input_forget", 0)) return ONNX__REFUSE(o, "input_forget");
    if (!onnx__attribute(o, "activations", 0, &attribute)) return 1;
    for (int i = 0; onnx__next(o, &attribute.bytes, &field);)
        if (field.number == 9 && !onnx__is(field.bytes, i++ % per_way ? "Tanh" : "Sigmoid"))
            return ONNX__REFUSE(o, "other activations than Sigmoid and Tanh");
    return !o->failed;
}
static int onnx__open_recurrent(fold_onnx *o)
{
    const onnx__value *x = onnx__in(o, 0);
    const int is_lstm = !strcmp(o->node.type, "LSTM"), late = onnx__whole(o, "linear_before_reset", 0) != 0;
    const int first = onnx__whole(o, "layout", 0) == 1,
              ways = onnx__has_word(o, "direction", "bidirectional") ? 2 : 1;
    const int n = onnx__whole(o, "hidden_size", 0), reverse = onnx__has_word(o, "direction", "reverse");
    if (x->rank != 3 || n < 1 || n > 65536)
        return ONNX__REFUSE(o, "an input of rank %d, %d hidden values", x->rank, n);
    const int steps = x->dim[first], batch = x->dim[!first], chains = batch * ways;
    const int numbers[10] = { steps,   batch, x->dim[2],          n,    ways, reverse,
                              is_lstm, late,  onnx__has_in(o, 7), first };
    if ((long long)steps * batch > 1024) return ONNX__REFUSE(o, "%d steps of %d sequences", steps, batch);
    if (!onnx__takes_floats(o) || !onnx__recurrent_fits(o, numbers, is_lstm ? 4 : 3)) return 0;
    onnx__step *step = onnx__new_step(o, onnx__record_recurrent, 3, is_lstm ? 3 : 2);
    if (!step) return 0;
    memcpy(step->number, numbers, sizeof numbers);
    step->nodes = ONNX__KEPT(o, fold_node, step->n_in + step->n_out + (steps + 2) * chains);
    if (!onnx__recurrent_params(o, step)) return 0;
    for (int i = 0; i < 3; i++) { /* x, h, c */
        const int input = i ? 4 + i : 0;
        if (onnx__has_in(o, input))
            onnx__reads_shape(o, step, i, o->node.in[input], fold_shape1(onnx__in(o, input)->count));
    }
    const int y[2][4] = { { steps, ways, batch, n }, { batch, steps, ways, n } },
              state[2][3] = { { ways, batch, n }, { batch, ways, n } };
    for (int i = 0; i < step->n_out; i++)
        if (onnx__has_out(o, i) &&
            !onnx__makes(o, step, i, o->node.out[i], i ? state[first] : y[first], i ? 3 : 4))
            return 0;
    return !o->failed;
}

/* ---- the table of ops ------------------------------------------------------------------------- */

#define ONNX__ONE(type, one, number) { type, 1, 1, "", onnx__open_elements, one, NULL, number, 0 }
#define ONNX__MANY(type, least, most, two, number, flags) \
    { type, least, most, "", onnx__open_elements, NULL, two, number, flags }
#define ONNX__TEST(type, inputs, number) \
    ONNX__MANY(type, inputs, inputs, NULL, number, ONNX__INTEGERS | ONNX__TRUTH)
#define ONNX__OTHER(type, least, most, attributes, open, flags) \
    { type, least, most, attributes, open, NULL, NULL, NULL, flags }
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
    ONNX__ONE("Erf", NULL, onnx__erf),
    ONNX__ONE("Reciprocal", NULL, onnx__reciprocal),
    ONNX__MANY("Add", 2, 2, fold_add, onnx__add, ONNX__LINE),
    ONNX__MANY("Div", 2, 2, fold_div, onnx__div, ONNX__LINE | ONNX__FREEZES),
    ONNX__MANY("Mul", 2, 2, fold_mul, onnx__mul, ONNX__LINE),
    ONNX__MANY("Sub", 2, 2, fold_sub, onnx__sub, ONNX__LINE | ONNX__FREEZES),
    ONNX__MANY("Max", 1, ONNX__ANY, fold_maximum, onnx__max, 0),
    ONNX__MANY("Min", 1, ONNX__ANY, fold_minimum, onnx__min, 0),
    ONNX__MANY("Sum", 1, ONNX__ANY, fold_add, onnx__add, 0),
    ONNX__MANY("Where", 3, 3, NULL, NULL, ONNX__INTEGERS),
    ONNX__TEST("And", 2, onnx__and),
    ONNX__TEST("Equal", 2, onnx__equal),
    ONNX__TEST("Greater", 2, onnx__greater),
    ONNX__TEST("GreaterOrEqual", 2, onnx__greater_equal),
    ONNX__TEST("Less", 2, onnx__less),
    ONNX__TEST("LessOrEqual", 2, onnx__less_equal),
    ONNX__TEST("Not", 1, onnx__not),
    ONNX__TEST("Or", 2, onnx__or),
    { "Pow", 2, 2, "", onnx__open_pow, NULL, NULL, onnx__pow, ONNX__INTEGERS | ONNX__FREEZES },
    ONNX__OTHER("Elu", 1, 1, "alpha", onnx__open_alpha, 0),
    ONNX__OTHER("LeakyRelu", 1, 1, "alpha", onnx__open_alpha, 0),
    ONNX__OTHER("Gelu", 1, 1, "approximate", onnx__open_gelu, 0),
    ONNX__OTHER("Clip", 1, 3, "min max", onnx__open_clip, 0),
    ONNX__OTHER("Cast", 1, 1, "to saturate", onnx__open_cast, ONNX__INTEGERS),
    ONNX__OTHER("Concat", 1, ONNX__ANY, "axis", onnx__open_concat, ONNX__INTEGERS),
    ONNX__OTHER("Constant", 0, 0, "value value_float value_floats value_int value_ints", onnx__open_constant,
                0),
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
    ONNX__OTHER("Transpose", 1, 1, "perm", onnx__open_transpose, 0),
    ONNX__OTHER("Unsqueeze", 1, 2, "axes", onnx__open_unsqueeze, 0),
    ONNX__REDUCE("ReduceL1"),
    ONNX__REDUCE("ReduceL2"),
    ONNX__REDUCE("ReduceLogSum"),
    ONNX__REDUCE("ReduceLogSumExp"),
    ONNX__REDUCE("ReduceMax"),
    ONNX__REDUCE("ReduceMean"),
    ONNX__REDUCE("ReduceMin"),
    ONNX__REDUCE("ReduceProd"),
    ONNX__REDUCE("ReduceSum"),
    ONNX__REDUCE("ReduceSumSquare"),
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
    ONNX__OTHER("Gemm", 2, 3, "alpha beta transA transB", onnx__open_product, 0),
    ONNX__OTHER("MatMul", 2, 2, "", onnx__open_product, 0),
    ONNX__OTHER("Conv", 2, 3, "auto_pad dilations group kernel_shape pads strides", onnx__open_conv, 0),
    ONNX__OTHER("GRU", 3, 6, "activations direction hidden_size layout linear_before_reset",
                onnx__open_recurrent, 0),
    ONNX__OTHER("LSTM", 3, 8, "activations direction hidden_size input_forget layout", onnx__open_recurrent,
                0)
};

/* ---- opening ---------------------------------------------------------------------------------- */

/* Tells whether a word is one of a list of words. */
static int onnx__is_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (size_t size; *list; list += size + (list[size] == ' ')) {
        size = strcspn(list, " ");
        if (size == length && !memcmp(list, word, size)) return 1;
    }
    return 0;
}

/* Reads names of a node into values. An input without a name is left out, such an output is nobody's. */
static int *onnx__names(fold_onnx *o, int number, int count)
{
    int *names = ONNX__PASSING(o, int, count + 1), i = 0;
    onnx__span from = o->node.bytes;
    onnx__field field;
    while (names && onnx__next(o, &from, &field)) {
        if (field.number != number) continue;
        const int name = names[i++] = onnx__name(o, onnx__copy_text(o, field.bytes));
        if (name < 0 || (o->values[name].origin == ONNX__UNKNOWN) == (number == 2)) continue;
        const char *problem = number == 2 ? "is there already" : "is made by nothing before it";
        return ONNX__REFUSE(o, "'%.60s' %s", o->values[name].name, problem), (int *)0;
    }
    return o->failed ? NULL : names;
}
static int onnx__node_fits(fold_onnx *o)
{
    const onnx__op *op = o->node.op;
    onnx__span from = o->node.bytes;
    onnx__field field;
    if (o->node.n_in < op->least || o->node.n_in > op->most)
        return ONNX__REFUSE(o, "%d inputs", o->node.n_in);
    if (o->node.n_out < 1 || (o->node.out[0] < 0 && op->open != onnx__open_recurrent))
        return ONNX__REFUSE(o, "no output");
    for (int i = 0; i < o->node.n_in; i++)
        if (o->node.in[i] < 0 && (i < op->least || op->most == ONNX__ANY))
            return ONNX__REFUSE(o, "input %d is left out", i);
    while (onnx__next(o, &from, &field)) {
        const char *name = field.number == 5 ? onnx__text_of(o, field.bytes, 1) : "";
        if (*name && !onnx__is_listed(op->attributes, name))
            return ONNX__REFUSE(o, "an attribute %.60s", name);
    }
    return !o->failed;
}
/* Says in messages what is read when no node is. */
static void onnx__reads_now(fold_onnx *o, const char *what, const char *name)
{
    static const onnx__op none = { "", 0, 0, "", NULL, NULL, NULL, NULL, 0 };
    memset(&o->node, 0, sizeof o->node);
    o->node.op = &none;
    o->node.type = what;
    o->node.name = name;
}

static int onnx__open_node(fold_onnx *o, onnx__span bytes)
{
    onnx__node *node = &o->node;
    const char *name = onnx__text_of(o, bytes, 3), *domain = onnx__text_of(o, bytes, 7);
    onnx__reads_now(o, onnx__text_of(o, bytes, 4), *name ? name : onnx__text_of(o, bytes, 2));
    node->bytes = bytes;
    node->op = NULL;
    node->n_in = onnx__count_of(o, bytes, 1);
    node->n_out = onnx__count_of(o, bytes, 2);
    for (size_t i = 0; i < sizeof onnx__ops / sizeof *onnx__ops; i++)
        if (!strcmp(onnx__ops[i].type, node->type)) node->op = &onnx__ops[i];
    if (*domain && strcmp(domain, "ai.onnx") != 0)
        return ONNX__REFUSE(o, "an op of another domain than ONNX's own");
    if (!node->op) return ONNX__REFUSE(o, "this op is not read");
    if (!(node->in = onnx__names(o, 1, node->n_in)) || !(node->out = onnx__names(o, 2, node->n_out)))
        return 0;
    while (node->n_in && node->in[node->n_in - 1] < 0) node->n_in--; /* those that are left out at the end */
    return onnx__node_fits(o) && node->op->open(o) && !o->failed;
}

/* Takes the shape and type of a ValueInfoProto: axes that are not told are 1. */
static int onnx__read_shape(fold_onnx *o, onnx__span info, onnx__value *value)
{
    onnx__field type, tensor, shape, field, dim;
    memset(&tensor, 0, sizeof tensor);
    if (onnx__field_of(o, info, 2, &type) && !onnx__field_of(o, type.bytes, 1, &tensor))
        return ONNX__REFUSE(o, "it is no tensor");
    if (onnx__field_of(o, tensor.bytes, 1, &field)) {
        const onnx__type *known = onnx__type_of(field.value);
        if (!known) return ONNX__REFUSE(o, "values of ONNX's type %d", (int)(field.value & 1023));
        value->is_integer = known->is_integer;
    }
    if (!onnx__field_of(o, tensor.bytes, 2, &shape)) return !o->failed;
    while (onnx__next(o, &shape.bytes, &field)) {
        if (field.number != 1) continue;
        if (value->rank == FOLD_ONNX_RANK) return onnx__too_many_axes(o, FOLD_ONNX_RANK);
        const int told =
            onnx__field_of(o, field.bytes, 1, &dim) && (int64_t)dim.value > 0 && dim.value <= INT_MAX;
        value->dim[value->rank++] = told ? (int)dim.value : 1;
    }
    return !o->failed;
}

/* Reads the name of a value of the graph. Returns -1 after an error. */
static int onnx__open_value(fold_onnx *o, const char *what, const char *name)
{
    const int index = onnx__name(o, name);
    onnx__reads_now(o, what, name);
    return index >= 0 ? index : ONNX__REFUSE(o, "it has no name") - 1;
}
/* An input of the graph, unless it has a value already, as weights do in old files. */
static int onnx__open_input(fold_onnx *o, onnx__span info)
{
    static const fold_onnx_binding none = { NULL, NULL, 0, 0, { 0 } };
    const fold_onnx_binding *bound = &none;
    const int index = onnx__open_value(o, "input", onnx__text_of(o, info, 1));
    onnx__value *value = &o->values[index < 0 ? 0 : index];
    if (index < 0) return 0;
    if (value->origin != ONNX__UNKNOWN)
        return value->origin == ONNX__FIXED || ONNX__REFUSE(o, "it is there twice");
    for (int i = 0; i < o->desc.n_bindings; i++)
        if (o->desc.bindings[i].name && !strcmp(o->desc.bindings[i].name, value->name))
            bound = &o->desc.bindings[i];
    if (!onnx__read_shape(o, info, value)) return 0;
    if (bound->rank < 0) return ONNX__REFUSE(o, "rank %d", bound->rank);
    if (!onnx__set_shape(o, index, bound->has_shape ? bound->dim : value->dim,
                         bound->has_shape ? bound->rank : value->rank))
        return 0;
    value->origin = bound->values ? ONNX__FIXED : ONNX__INPUT;
    if (!bound->values) {
        o->inputs[o->n_inputs++] = index;
        return onnx__shape(value->dim, value->rank).rank || onnx__too_many_axes(o, FOLD_MAX_RANK);
    }
    value->constant.numbers = ONNX__PASSING(o, double, value->count);
    for (int i = 0; value->constant.numbers && i < value->count; i++)
        value->constant.numbers[i] = (double)bound->values[i];
    return !o->failed;
}
/* An output that is constant is a value like any other; one that nothing makes is told to have no values. */
static int onnx__open_output(fold_onnx *o, onnx__span info)
{
    const int index = onnx__open_value(o, "output", onnx__text_of(o, info, 1));
    if (index < 0) return 0;
    o->outputs[o->n_outputs++] = index;
    return o->values[index].origin != ONNX__FIXED || onnx__use_constant(o, index, 0);
}
static int onnx__open_initializer(fold_onnx *o, onnx__span tensor)
{
    const int index = onnx__open_value(o, "weight", onnx__text_of(o, tensor, 8));
    return index >= 0 && onnx__read_tensor(o, tensor, index);
}
static int onnx__open_metadata(fold_onnx *o, onnx__span entry)
{
    o->metadata[o->n_metadata].key = onnx__text_of(o, entry, 1);
    o->metadata[o->n_metadata++].text = onnx__text_of(o, entry, 2);
    return !o->failed;
}
/* The version of ONNX's own ops. */
static int onnx__open_version(fold_onnx *o, onnx__span entry)
{
    onnx__field field;
    const char *domain = onnx__text_of(o, entry, 1);
    if ((!*domain || !strcmp(domain, "ai.onnx")) && onnx__field_of(o, entry, 2, &field))
        o->version = field.value < 1000 ? (int)field.value : 1000;
    return !o->failed;
}

/* Makes the tables, as large as the graph can need: an output may be a move of a value of its own. */
static int onnx__make_tables(fold_onnx *o, onnx__span model, onnx__span graph)
{
    onnx__field field;
    onnx__span from = graph;
    const int inputs = onnx__count_of(o, graph, 11), n_outputs = onnx__count_of(o, graph, 12);
    int outputs = 0;
    while (onnx__next(o, &from, &field))
        if (field.number == 1) outputs += onnx__count_of(o, field.bytes, 2);
    o->most_values =
        1 + inputs + n_outputs + onnx__count_of(o, graph, 5) + onnx__count_of(o, graph, 1) + 2 * outputs;
    o->most_steps = 2 * outputs;
    for (o->n_named = 16; o->n_named < 4 * o->most_values && o->n_named < 1 << 28; o->n_named *= 2) {}
    if (o->failed) return 0;
    o->values = ONNX__KEPT(o, onnx__value, o->most_values + 1);
    o->steps = ONNX__KEPT(o, onnx__step, o->most_steps + 1);
    o->named = ONNX__KEPT(o, int, o->n_named);
    o->weights = ONNX__PASSING(o, onnx__weight, 2 * o->most_values);
    o->inputs = ONNX__KEPT(o, int, inputs + 1);
    o->outputs = ONNX__KEPT(o, int, n_outputs + 1);
    o->metadata = ONNX__KEPT(o, onnx__pair, onnx__count_of(o, model, 14) + 1);
    if (o->named) memset(o->named, 0xff, (size_t)o->n_named * sizeof *o->named); /* -1: a free place */
    return !o->failed;
}

static int onnx__open_all(fold_onnx *o, onnx__span model)
{
    onnx__field graph;
    if (!onnx__field_of(o, model, 7, &graph) || graph.wire != ONNX__BYTES)
        return onnx__fail(o, FOLD_IO, "the file has no graph");
    if (!onnx__make_tables(o, model, graph.bytes) || !onnx__each(o, model, 8, onnx__open_version)) return 0;
    if (o->version < 1 || o->version > 20)
        return ONNX__REFUSE(o, "the file has opset %d; 1 to 20 are read", o->version);
    if (onnx__count_of(o, graph.bytes, 15)) return ONNX__REFUSE(o, "the file has sparse weights");
    return onnx__each(o, model, 14, onnx__open_metadata) &&
           onnx__each(o, graph.bytes, 5, onnx__open_initializer) &&
           onnx__each(o, graph.bytes, 11, onnx__open_input) &&
           onnx__each(o, graph.bytes, 1, onnx__open_node) &&
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
    memset(&o->desc, 0, sizeof o->desc);
    o->folder = NULL;
    if (opened) return o;
    fold_onnx_close(o);
    return NULL;
}

fold_onnx *fold_onnx_open_memory(fold_model *m, const void *bytes, size_t size, const fold_onnx_desc *desc)
{
    const onnx__span model = { (const unsigned char *)bytes,
                               (const unsigned char *)bytes + (bytes ? size : 0) };
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
    return onnx__finish(o, model);
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
fold_onnx_tensor fold_onnx_find(const fold_onnx *o, const char *name)
{
    return onnx__tensor(o, onnx__find(o, name));
}
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

/* Takes what is handed in: for an input, or instead of random numbers. */
static int onnx__give(fold_onnx *o, const fold_onnx_value *in)
{
    const int index = onnx__find(o, in->name);
    onnx__value *value = index < 0 ? NULL : &o->values[index];
    const onnx__step *maker = onnx__maker(o, index);
    if (!value || value->origin == ONNX__UNKNOWN)
        return ONNX__REFUSE(o, "there is no '%.60s'", in->name ? in->name : "");
    if (value->origin != ONNX__INPUT && !(maker && maker->noise))
        return ONNX__REFUSE(o, "'%.60s' is no input", in->name);
    const fold_shape shape = onnx__shape(value->dim, value->rank);
    value->given = 1;
    if (in->values) {
        value->node = fold_input_shaped(o->f, in->values, shape);
        return 1;
    }
    if (fold_node_is_null(in->node) || onnx__elements(fold_node_shape(o->f, in->node)) != value->count) {
        if (fold_ctx_status(o->f)) return 0;
        return onnx__fail(o, FOLD_BAD_SHAPE, "'%.60s' has %d values", in->name, value->count);
    }
    value->node = onnx__reshape(o->f, in->node, shape);
    return 1;
}

/* Marks the steps that are needed, from the last to the first. */
static int onnx__mark(fold_onnx *o)
{
    for (int i = o->n_steps; i-- > 0;) {
        onnx__step *step = &o->steps[i];
        step->needed = 0;
        for (int k = 0; k < step->n_out; k++)
            if (step->out[k] >= 0 && o->values[step->out[k]].wanted && !o->values[step->out[k]].given)
                step->needed = 1;
        for (int k = 0; step->needed && k < step->n_in; k++)
            if (step->in[k].value >= 0) o->values[step->in[k].value].wanted = 1;
    }
    for (int i = 0; i < o->n_inputs; i++) {
        const onnx__value *value = &o->values[o->inputs[i]];
        if (value->wanted && !value->given)
            return ONNX__REFUSE(o, "the input '%.60s' is not handed in", value->name);
    }
    return 1;
}

static fold_node onnx__value_node(fold_ctx *f, const onnx__value *value)
{
    if (value->origin != ONNX__FIXED) return value->node;
    return onnx__reshape(f, fold_use(f, value->param), onnx__shape(value->dim, value->rank));
}
static void onnx__record_step(fold_onnx *o, const onnx__step *step)
{
    fold_node *in = step->nodes, *out = step->nodes + step->n_in;
    memset(in, 0, (size_t)(step->n_in + step->n_out) * sizeof *in);
    for (int i = 0; i < step->n_in; i++) {
        const onnx__operand *operand = &step->in[i];
        if (operand->value < 0) continue;
        in[i] = onnx__value_node(o->f, &o->values[operand->value]);
        if (operand->move) in[i] = onnx__apply_move(o->f, operand->move, in[i]);
    }
    step->record(o, step, in, out);
    for (int i = 0; i < step->n_out; i++) {
        onnx__value *value = step->out[i] < 0 ? NULL : &o->values[step->out[i]];
        if (value && !value->given)
            value->node = onnx__reshape(o->f, out[i], onnx__shape(value->dim, value->rank));
    }
}

static int onnx__ask(fold_onnx *o, const fold_onnx_value *out)
{
    const int index = onnx__find(o, out->name);
    const char *name = out->name ? out->name : "";
    if (index < 0 || o->values[index].origin == ONNX__UNKNOWN)
        return ONNX__REFUSE(o, "nothing makes '%.60s'", name);
    if (onnx__is_fixed(o, index) && fold_param_is_null(o->values[index].param))
        return ONNX__REFUSE(o, "'%.60s' is a constant that is no value of the network", name);
    o->values[index].wanted = 1;
    return 1;
}

fold_status fold_onnx_record(fold_onnx *o, fold_ctx *f, const fold_onnx_value *in, int n_in,
                             fold_random *chance, fold_onnx_value *out, int n_out)
{
    const fold_node none = { 0, 0 };
    for (int i = 0; out && i < n_out; i++) out[i].node = none;
    if (!o || !f || !out || (!in && n_in > 0)) return FOLD_BAD_ARGUMENT;
    if (fold_ctx_status(f)) return fold_ctx_status(f);
    o->f = f;
    o->chance = chance;
    o->failed = 0;
    if (fold_ctx_model(f) != o->model) onnx__fail(o, FOLD_BAD_HANDLE, "the context is of another model");
    for (int i = 0; i < o->n_values; i++) o->values[i].wanted = o->values[i].given = 0;
    for (int i = 0; i < n_in && !o->failed; i++) onnx__give(o, &in[i]);
    for (int i = 0; i < n_out && !o->failed; i++) onnx__ask(o, &out[i]);
    if (o->failed || !onnx__mark(o)) return fold_ctx_status(f);
    for (int i = 0; i < o->n_steps; i++)
        if (o->steps[i].needed) onnx__record_step(o, &o->steps[i]);
    for (int i = 0; i < n_out; i++) out[i].node = onnx__value_node(f, &o->values[onnx__find(o, out[i].name)]);
    return fold_ctx_status(f);
}
#endif /* ONNX_IMPLEMENTATION */
