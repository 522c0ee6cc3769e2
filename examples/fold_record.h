/* fold_record.h - writes a recording to a file, and plays it in several ways to find where results differ.

   In one C or C++ file:  #define FOLD_RECORD_IMPLEMENTATION
                          #include "fold_record.h"

   If results look wrong, write the recording before or after the run, and send the file:

       fold_record_desc desc = fold_record_desc_default();
       desc.losses = &loss;
       desc.n_losses = 1;
       fold_record_result written = fold_record_write(f, &desc, fold_to_file, file);
       if (written.status) puts(written.message);

   examples/replay.c plays a file: batched with every schedule, eager, each sample alone, and as printed C. It
   compares all bits and names the first node that differs. In your own program:

       fold_record *r = fold_record_read(bytes, size, &result);
       fold_record_result same = fold_record_compare(r, &batched, -1);
       if (same.differ) puts(same.message);
       fold_record_free(r);

   The file is text, a line per call: ops, cells and their bodies, shapes, inputs, and the parameters and rows
   of tables that are used. Floats are written as their bits, so a player computes the same bits. Values that
   can be read when the file is written are in it as hashes, which show whether another machine, compiler or
   kernel set computes the same. The first line has the format's version; other versions are refused. A few
   samples of a small network take 5 to 40 kB, the 64 trees of examples/hello.c 105 kB.

   These cannot be written, and are refused by name: user-defined ops, whose code is not in the recording;
   fold_attention_step and fold_conv1d_step, whose caches are not; quantised parameters. A fold_input_ref
   becomes its present value, a fold_index_ref or fold_edges_ref the indices of the last run, and a result of
   an earlier run an input. The player trains all parameters, also frozen ones.

   A file may be hostile: every number in it is checked, and errors are values that name the line. A player
   refuses files that name more than 2^26 values; what ops need beside their results is not counted.

   There are no globals. Memory comes from malloc: about 200 bytes per node while a file is written, and all
   values while it is played. With FOLD_NO_TEXT, contexts cannot be visited, and nothing is declared. */

#ifndef FOLD_RECORD_H
#define FOLD_RECORD_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_record.h needs fold.h 0.4.0 or later"
#endif
#ifndef FOLD_NO_TEXT

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fold_record_desc {
    const fold_node *outputs; /* results in question. NULL: all that no other call reads */
    const fold_node *losses;  /* values [1] whose gradients are compared as well; NULL: none */
    int n_outputs, n_losses;
} fold_record_desc;
FOLD_API fold_record_desc fold_record_desc_default(void); /* all zero */

typedef struct fold_record_result {
    fold_status status;  /* FOLD_OK, FOLD_NO_MEMORY, FOLD_IO if the writer stopped, or the first error */
    int line;            /* line of the file that is wrong, or that recorded what failed; 0: none */
    int values, differ;  /* how many floats, or with hashes calls, were compared, and how many differ */
    char message[240];   /* the error, or the first difference; "" if there is none */
} fold_record_result;

/* Writes the recording of a context, which it does not change. It writes the calls that fold_ctx_visit shows:
   those of the last run or, if something was recorded since, all. desc may be NULL. An output that is a view
   must be readable, so write it after a run. Write it before an optimiser steps and before referenced inputs
   change, since the file gets their present values. */
FOLD_API fold_record_result fold_record_write(fold_ctx *f, const fold_record_desc *desc, fold_writer *write,
                                              void *user);

typedef struct fold_record fold_record;
/* Reads a file in memory, and creates a model with its parameters and cells. The bytes are not needed
   afterwards. Returns NULL, with an error in *result, if the file is wrong. result may be NULL. */
FOLD_API fold_record *fold_record_read(const void *bytes, size_t size, fold_record_result *result);
FOLD_API void fold_record_free(fold_record *r); /* frees a recording and its model; NULL is fine */

typedef struct fold_record_about {
    int calls, cells, parameters, samples, outputs, losses; /* samples: 0 if they are not known */
    int training;          /* 1: the context had `training` */
    const char *kernels;   /* kernel set that computed the hashes in the file */
    const char *schedule;  /* "eager", the schedule of its plan, or "none" */
} fold_record_about;
FOLD_API fold_record_about fold_record_describe(const fold_record *r); /* describes a recording */
FOLD_API fold_model *fold_record_model(fold_record *r); /* returns the model for contexts that play it */

/* Records the calls again, in a context of fold_record_model: all, or only those that one sample needs
   (-1: all). The caller runs them. Errors of calls are also set on the context. */
FOLD_API fold_record_result fold_record_play(fold_record *r, fold_ctx *f, int sample);
/* Returns an output, or a loss, of the last fold_record_play; null if it was not recorded. */
FOLD_API fold_node fold_record_output(const fold_record *r, int i);
FOLD_API fold_node fold_record_loss(const fold_record *r, int i);

/* Plays and runs a recording in a new context, and compares bits with an eager context of the same machine:
   the outputs, and gradients of parameters if there are losses and `sample` is -1. If an output differs, it
   runs again with all values kept to find the first one. Without `desc` it compares the eager context with
   the hashes of the file. A NaN equals any NaN. `training` is set as it was. */
FOLD_API fold_record_result fold_record_compare(fold_record *r, const fold_ctx_desc *desc, int sample);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_NO_TEXT */
#endif /* FOLD_RECORD_H */

#if defined(FOLD_RECORD_IMPLEMENTATION) && !defined(FOLD__RECORD_IMPLEMENTED) && !defined(FOLD_NO_TEXT)
#define FOLD__RECORD_IMPLEMENTED
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a recording in memory --------------------------------------------------------------------- */

/* The writer fills these structs from what it visits, the reader from a file. A program is the recording or
   the body of a cell. Its values have ids from 1 on, in record order; an item has one id per output. */
enum { FOLD_RECORD__VERSION = 1, FOLD_RECORD__MOST_FLOATS = 1 << 26, FOLD_RECORD__NAME = 128 };

/* Kinds of items, with the words that begin their lines. */
enum {
    FOLD_RECORD__INPUT,  /* values */
    FOLD_RECORD__LIST,   /* rows of values */
    FOLD_RECORD__USE,    /* a parameter */
    FOLD_RECORD__LOOKUP, /* rows of a table */
    FOLD_RECORD__OP,
    FOLD_RECORD__CELL,
    FOLD_RECORD__KINDS
};
static const char *const fold_record__words[FOLD_RECORD__KINDS] = { "input",  "list", "use",
                                                                    "lookup", "op",   "cell" };

typedef struct fold_record__operand {
    uint32_t id, offset; /* floats [offset, ...) of the value, or of each of its rows */
    int whole;           /* 1: a list is read whole or row by row; 0: as one value */
} fold_record__operand;

typedef struct fold_record__item {
    int kind, which;      /* which: index of the op in the table, or of the parameter or cell */
    uint32_t id;
    int line, sample, rows; /* rows: of a leaf or a result that is a list; -1: a node */
    int length;           /* number of rows that it runs over, -1: none */
    int n_in, n_list, n_out, n_operands, n_attr;
    int n_index;          /* number of its indices; -1: it has none */
    uint32_t shared, lists;
    int param[2];         /* indices of parameters; -1: none */
    double attr[4];
    uint64_t data, hash;  /* hash: of all outputs; 0: not readable */
    size_t shape;         /* in `shapes`: of inputs, list components, then outputs */
    size_t operand, index, value; /* in the arrays of those */
    fold_node node;       /* of the writer's context */
} fold_record__item;

typedef struct fold_record__port {
    fold_record__operand at;
    fold_shape shape;
    fold_node node; /* of the last play, or of the writer's context */
} fold_record__port;

typedef struct fold_record__program {
    size_t n_items, items_room, n_shapes, shapes_room, n_operands, operands_room, n_index, index_room;
    size_t n_values, values_room, n_ports, ports_room, n_ids, ids_room;
    fold_record__item *item;
    fold_shape *shapes;
    fold_record__operand *operands;
    int *index;
    float *values;
    fold_record__port *port; /* outputs of the recording, then its losses; or outputs of the body */
    int *owner;              /* by id: 1 + the item that makes it; 0: an input of the body */
    fold_node *node;         /* by id, while it is played */
    int n_losses;
} fold_record__program;

typedef struct fold_record__param {
    char name[FOLD_RECORD__NAME];
    fold_shape shape;
    int used, whole, uses, line; /* whole: not only rows of it are used */
    float *values;
    unsigned char *row;     /* by row: 1 if it is used */
    const float *from;      /* of the writer's model */
    fold_param handle;
} fold_record__param;

typedef struct fold_record__cell {
    struct fold_record *record;
    char name[FOLD_RECORD__NAME];
    int n_in, n_list, n_out, line;
    fold_shape shape[FOLD_MAX_CELL_IN + FOLD_MAX_LIST];
    fold_record__program body;
    fold_cell handle;
} fold_record__cell;

struct fold_record {
    fold_record_result result;
    fold_record__program top;
    size_t n_params, params_room, n_cells, cells_room;
    fold_record__param *param;
    fold_record__cell **cell;
    fold_model *m;
    int training, samples;
    char kernels[32], schedule[32];
    uint64_t floats;     /* read or played so far, against hostile files */
    size_t n_steps, steps_room;
    fold_node *steps;    /* elements of the call that is being played */
    float **want;        /* by id: values of the eager run */
    int *wanted;         /* by id: their number */
    float **want_grad;   /* by parameter */
};

static int fold_record__fail(fold_record *r, fold_status status, int line, const char *format, ...)
{
    char text[200];
    va_list args;
    if (r->result.status)
        return 0;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    r->result.status = status;
    r->result.line = line;
    strcpy(r->result.message, "record: ");
    strcat(r->result.message, text);
    return 0;
}

/* Grows an array to hold at least `wanted` items. New items are zero. */
static int fold_record__grow(fold_record *r, void *items, size_t *room, size_t wanted, size_t size)
{
    void *old = NULL, *grown;
    size_t more = *room ? *room : 16;
    memcpy(&old, items, sizeof old);
    if (wanted <= *room)
        return 1;
    while (more < wanted)
        more *= 2;
    grown = more > SIZE_MAX / size ? NULL : realloc(old, more * size);
    if (!grown)
        return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
    memset((char *)grown + *room * size, 0, (more - *room) * size);
    memcpy(items, &grown, sizeof grown);
    *room = more;
    return 1;
}

/* Adds `count` zeroed items to an array of a struct; is 0 if there is no memory. */
#define FOLD_RECORD__ADD(r, of, array, n, room, count)                                                       \
    (fold_record__grow(r, &(of)->array, &(of)->room, (of)->n + (size_t)(count), sizeof *(of)->array) ?       \
         ((of)->n += (size_t)(count), 1) :                                                                   \
         0)

static int fold_record__size(const fold_shape *shape)
{
    int size = 1;
    for (int axis = 0; axis < shape->rank; axis++)
        size *= shape->dim[axis];
    return size;
}

static void fold_record__shape_text(const fold_shape *shape, char text[64])
{
    text[0] = 0;
    for (int axis = 0, at = 0; axis < shape->rank; axis++)
        at += snprintf(text + at, 64 - (size_t)at, "%s%d", axis ? "x" : "", shape->dim[axis]);
}

static int fold_record__same_shape(const fold_shape *one, const fold_shape *other)
{
    int same = one->rank == other->rank;
    for (int axis = 0; axis < one->rank && same; axis++)
        same = one->dim[axis] == other->dim[axis];
    return same;
}

static const fold_shape *fold_record__out_shape(const fold_record__program *g, const fold_record__item *t)
{
    return &g->shapes[t->shape + (size_t)(t->n_in + t->n_list)];
}

static const int *fold_record__index(const fold_record__program *g, const fold_record__item *t)
{
    static const int none = 0;
    return g->index ? g->index + t->index : &none;
}

/* Returns the item that makes a value, or NULL for an input of a body. */
static fold_record__item *fold_record__owner(const fold_record__program *g, uint32_t id)
{
    return id < g->n_ids && g->owner[id] ? &g->item[g->owner[id] - 1] : NULL;
}

/* Adds an item, which gets its ids with its outputs. Returns NULL if there is no memory. */
static fold_record__item *fold_record__add(fold_record *r, fold_record__program *g, int kind)
{
    if (!FOLD_RECORD__ADD(r, g, item, n_items, items_room, 1))
        return NULL;
    fold_record__item *t = &g->item[g->n_items - 1];
    t->kind = kind;
    t->id = (uint32_t)g->n_ids;
    t->rows = t->length = t->sample = t->n_index = t->param[0] = t->param[1] = -1;
    t->shape = g->n_shapes;
    t->operand = g->n_operands;
    t->index = g->n_index;
    t->value = g->n_values;
    return t;
}

/* Gives the next `count` ids to the newest item or, before the first, to the inputs of a body. */
static int fold_record__give_ids(fold_record *r, fold_record__program *g, int count)
{
    const size_t end = g->n_ids + (size_t)count;
    if (end > INT_MAX || !fold_record__grow(r, &g->owner, &g->ids_room, end, sizeof *g->owner))
        return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
    for (; g->n_ids < end; g->n_ids++)
        g->owner[g->n_ids] = (int)g->n_items;
    if (g->n_items)
        g->item[g->n_items - 1].n_out = count;
    return 1;
}

static void fold_record__clear_program(fold_record__program *g)
{
    free(g->item);
    free(g->shapes);
    free(g->operands);
    free(g->index);
    free(g->values);
    free(g->port);
    free(g->owner);
    free(g->node);
    memset(g, 0, sizeof *g);
}

static void fold_record__forget_wanted(fold_record *r)
{
    for (size_t id = 0; id < r->top.n_ids && r->want; id++)
        free(r->want[id]);
    for (size_t param = 0; param < r->n_params && r->want_grad; param++)
        free(r->want_grad[param]);
    free(r->want);
    free(r->wanted);
    free(r->want_grad);
    r->want = r->want_grad = NULL;
    r->wanted = NULL;
}

FOLD_API void fold_record_free(fold_record *r)
{
    if (!r)
        return;
    fold_record__forget_wanted(r);
    fold_model_free(r->m);
    for (size_t param = 0; param < r->n_params; param++) {
        free(r->param[param].values);
        free(r->param[param].row);
    }
    for (size_t cell = 0; cell < r->n_cells; cell++) {
        fold_record__clear_program(&r->cell[cell]->body);
        free(r->cell[cell]);
    }
    fold_record__clear_program(&r->top);
    free(r->param);
    free(r->cell);
    free(r->steps);
    free(r);
}

/* Returns the bits of a float. Every NaN counts as the same one. */
static uint32_t fold_record__bits_of(const float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
}

/* Continues a hash (FNV-1a) over the bits of floats. */
static uint64_t fold_record__hash(uint64_t hash, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = fold_record__bits_of(&values[i]);
        for (int byte = 0; byte < 4; byte++, bits >>= 8)
            hash = (hash ^ (bits & 255u)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Hashes the outputs of a call; 0 if one cannot be read. */
static uint64_t fold_record__hash_item(fold_ctx *f, const fold_record__program *g, const fold_record__item *t,
                                       const fold_node *node)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int out = 0; out < t->n_out; out++) {
        const float *values = fold_node_is_null(node[out]) ? NULL : fold_value(f, node[out]);
        const int rows = fold_list_length(f, node[out]);
        const int size = fold_record__size(fold_record__out_shape(g, t) + out);
        if (!values)
            return 0;
        hash = fold_record__hash(hash, values, (size_t)size * (size_t)(rows < 0 ? 1 : rows));
    }
    return hash ? hash : 1;
}

/* ---- ops --------------------------------------------------------------------------------------- */

/* How an op is recorded: the form of its public call, or why it cannot be played. */
typedef enum fold_record__form {
    FOLD_RECORD__UNARY,
    FOLD_RECORD__BINARY,
    FOLD_RECORD__NUMBER,
    FOLD_RECORD__DATA,
    FOLD_RECORD__AXIS,
    FOLD_RECORD__INDEX,
    FOLD_RECORD__LINEAR,
    FOLD_RECORD__CONV,
    FOLD_RECORD__POOL,
    FOLD_RECORD__NORM,
    FOLD_RECORD__HUBER,
    FOLD_RECORD__DROPOUT,
    FOLD_RECORD__REDUCE,
    FOLD_RECORD__CONCAT,
    FOLD_RECORD__SLICE,
    FOLD_RECORD__TRANSPOSE,
    FOLD_RECORD__SELECT,
    FOLD_RECORD__COPY,
    FOLD_RECORD__TAKE,
    FOLD_RECORD__SOFTMAX, /* over rows; the result has a row for each */
    FOLD_RECORD__OVER,    /* over rows; the result has a row for each target */
    FOLD_RECORD__CHOICE,
    FOLD_RECORD__ENTROPY, /* part of fold_list_softmax_entropy */
    FOLD_RECORD__ATTENTION,
    FOLD_RECORD__WINDOWS, /* part of fold_conv1d over a list */
    FOLD_RECORD__REFUSED
} fold_record__form;

typedef void fold_record__any(void);
typedef fold_node fold_record__call_unary(fold_ctx *f, fold_node x);
typedef fold_node fold_record__call_binary(fold_ctx *f, fold_node a, fold_node b);
typedef fold_node fold_record__call_number(fold_ctx *f, fold_node x, float number);
typedef fold_node fold_record__call_axis(fold_ctx *f, fold_node x, int axis);
typedef fold_node fold_record__call_each(fold_ctx *f, fold_node x, const int *index, int n);
typedef fold_node fold_record__call_pool(fold_ctx *f, fold_node x, int size, int stride, int padding);
typedef fold_node fold_record__call_nodes(fold_ctx *f, const fold_node *x, int n);
typedef fold_node fold_record__call_to(fold_ctx *f, fold_node x, const int *to, int edges, int rows);

typedef struct fold_record__op {
    const char *name;
    fold_record__form form;
    int n_in;                     /* number of inputs in a file; -1: any */
    fold_record__any *call, *over, *to; /* the call for nodes, for whole lists or each row, for targets */
} fold_record__op;

#define FOLD_RECORD__CALL(name) (fold_record__any *)fold_##name
#define FOLD_RECORD__UNARY_OP(name) { #name, FOLD_RECORD__UNARY, 1, FOLD_RECORD__CALL(name), NULL, NULL }
#define FOLD_RECORD__BINARY_OP(name) { #name, FOLD_RECORD__BINARY, 2, FOLD_RECORD__CALL(name), NULL, NULL }
#define FOLD_RECORD__NUMBER_OP(name) { #name, FOLD_RECORD__NUMBER, 1, FOLD_RECORD__CALL(name), NULL, NULL }
#define FOLD_RECORD__AXIS_OP(name) { #name, FOLD_RECORD__AXIS, 1, FOLD_RECORD__CALL(name), NULL, NULL }
#define FOLD_RECORD__INDEX_OP(name) \
    { #name, FOLD_RECORD__INDEX, 1, FOLD_RECORD__CALL(name), FOLD_RECORD__CALL(name##_each), NULL }
#define FOLD_RECORD__OTHER_OP(name, form, n_in) { #name, FOLD_RECORD__##form, n_in, NULL, NULL, NULL }
#define FOLD_RECORD__POOL_OP(name, call) \
    { #name, FOLD_RECORD__POOL, 1, FOLD_RECORD__CALL(call##1d), FOLD_RECORD__CALL(call##2d), NULL }
#define FOLD_RECORD__REDUCE_OP(name)                                                                   \
    { #name "_n", FOLD_RECORD__REDUCE, 1, FOLD_RECORD__CALL(name##_n), FOLD_RECORD__CALL(list_##name), \
      FOLD_RECORD__CALL(list_##name##_to) }
#define FOLD_RECORD__ROWS_OP(name, form) \
    { #name, FOLD_RECORD__##form, 1, NULL, FOLD_RECORD__CALL(name), FOLD_RECORD__CALL(name##_to) }

static const fold_record__op fold_record__ops[] = {
    FOLD_RECORD__OTHER_OP(linear, LINEAR, -1),
    FOLD_RECORD__BINARY_OP(matmul),
    FOLD_RECORD__OTHER_OP(conv, CONV, 1),
    FOLD_RECORD__POOL_OP(max_pool, max_pool),
    FOLD_RECORD__POOL_OP(mean_pool, mean_pool),
    FOLD_RECORD__BINARY_OP(dot),
    FOLD_RECORD__BINARY_OP(add),
    FOLD_RECORD__BINARY_OP(sub),
    FOLD_RECORD__BINARY_OP(mul),
    FOLD_RECORD__BINARY_OP(div),
    FOLD_RECORD__BINARY_OP(minimum),
    FOLD_RECORD__BINARY_OP(maximum),
    { "scale", FOLD_RECORD__DATA, 1, FOLD_RECORD__CALL(scale), NULL, NULL },
    { "shift", FOLD_RECORD__DATA, 1, FOLD_RECORD__CALL(shift), NULL, NULL },
    FOLD_RECORD__UNARY_OP(neg),
    FOLD_RECORD__UNARY_OP(exp),
    FOLD_RECORD__UNARY_OP(log),
    FOLD_RECORD__UNARY_OP(sqrt),
    FOLD_RECORD__UNARY_OP(square),
    FOLD_RECORD__UNARY_OP(abs),
    FOLD_RECORD__UNARY_OP(sigmoid),
    FOLD_RECORD__UNARY_OP(tanh),
    FOLD_RECORD__UNARY_OP(relu),
    { "leaky", FOLD_RECORD__NUMBER, 1, FOLD_RECORD__CALL(leaky_relu), NULL, NULL },
    FOLD_RECORD__UNARY_OP(gelu_tanh),
    FOLD_RECORD__UNARY_OP(softplus),
    FOLD_RECORD__UNARY_OP(gelu),
    FOLD_RECORD__UNARY_OP(silu),
    FOLD_RECORD__NUMBER_OP(elu),
    FOLD_RECORD__UNARY_OP(sin),
    FOLD_RECORD__UNARY_OP(cos),
    FOLD_RECORD__NUMBER_OP(pow),
    FOLD_RECORD__UNARY_OP(floor),
    FOLD_RECORD__NUMBER_OP(at_least),
    FOLD_RECORD__NUMBER_OP(at_most),
    FOLD_RECORD__UNARY_OP(softmax),
    FOLD_RECORD__UNARY_OP(log_softmax),
    FOLD_RECORD__AXIS_OP(sum),
    FOLD_RECORD__AXIS_OP(mean),
    FOLD_RECORD__AXIS_OP(amax),
    FOLD_RECORD__AXIS_OP(amin),
    FOLD_RECORD__AXIS_OP(variance),
    FOLD_RECORD__AXIS_OP(logsumexp),
    FOLD_RECORD__AXIS_OP(prod),
    FOLD_RECORD__AXIS_OP(cumsum),
    FOLD_RECORD__OTHER_OP(layer_norm, NORM, 3),
    FOLD_RECORD__OTHER_OP(rms_norm, NORM, 2),
    FOLD_RECORD__OTHER_OP(dropout, DROPOUT, 1),
    FOLD_RECORD__REDUCE_OP(sum),
    FOLD_RECORD__REDUCE_OP(mean),
    FOLD_RECORD__REDUCE_OP(max),
    FOLD_RECORD__OTHER_OP(softmax_mean_n, REDUCE, 2),
    FOLD_RECORD__OTHER_OP(concat, CONCAT, -1),
    FOLD_RECORD__OTHER_OP(slice, SLICE, 1),
    FOLD_RECORD__OTHER_OP(transpose, TRANSPOSE, 1),
    FOLD_RECORD__INDEX_OP(pick),
    FOLD_RECORD__OTHER_OP(select, SELECT, 3),
    FOLD_RECORD__OTHER_OP(copy, COPY, 1),
    FOLD_RECORD__OTHER_OP(list_take, TAKE, 1),
    { "list_unstack", FOLD_RECORD__UNARY, 1, FOLD_RECORD__CALL(list_unstack), NULL, NULL },
    FOLD_RECORD__ROWS_OP(list_softmax, SOFTMAX),
    FOLD_RECORD__ROWS_OP(list_log_softmax, SOFTMAX),
    FOLD_RECORD__ROWS_OP(list_logsumexp, OVER),
    FOLD_RECORD__OTHER_OP(list_sum, ENTROPY, 1),
    FOLD_RECORD__OTHER_OP(list_softmax_xent, CHOICE, 1),
    FOLD_RECORD__OTHER_OP(list_attention, ATTENTION, 3),
    FOLD_RECORD__OTHER_OP(attention_step, REFUSED, 3),
    FOLD_RECORD__OTHER_OP(conv1d_step, REFUSED, 1),
    FOLD_RECORD__OTHER_OP(list_windows, WINDOWS, 1),
    FOLD_RECORD__POOL_OP(list_max_pool, max_pool),
    FOLD_RECORD__POOL_OP(list_mean_pool, mean_pool),
    { "stop", FOLD_RECORD__UNARY, 1, FOLD_RECORD__CALL(stop_gradient), NULL, NULL },
    FOLD_RECORD__INDEX_OP(softmax_xent),
    FOLD_RECORD__BINARY_OP(softmax_kl),
    FOLD_RECORD__BINARY_OP(bce),
    FOLD_RECORD__BINARY_OP(squared_error),
    FOLD_RECORD__OTHER_OP(huber, HUBER, 2),
    FOLD_RECORD__INDEX_OP(hinge)
};
enum { FOLD_RECORD__OPS = sizeof fold_record__ops / sizeof *fold_record__ops };

static int fold_record__find_op(const char *name)
{
    for (int op = 0; op < (int)FOLD_RECORD__OPS; op++)
        if (!strcmp(fold_record__ops[op].name, name))
            return op;
    return -1;
}

static int fold_record__is(const fold_record__item *t, fold_record__form form)
{
    return t && t->kind == FOLD_RECORD__OP && fold_record__ops[t->which].form == form;
}

static const char *fold_record__name(const fold_record *r, const fold_record__item *t)
{
    switch (t->kind) {
    case FOLD_RECORD__OP: return fold_record__ops[t->which].name;
    case FOLD_RECORD__CELL: return r->cell[t->which]->name;
    case FOLD_RECORD__USE:
    case FOLD_RECORD__LOOKUP: return r->param[t->which].name;
    default: return fold_record__words[t->kind];
    }
}

/* ---- playing ----------------------------------------------------------------------------------- */

/* A program being played: the recording, or the body of a cell. */
typedef struct fold_record__player {
    fold_record *r;
    fold_ctx *f;
    const fold_record__program *program;
    fold_node *node; /* by id; null: not played, since a later call records it as well */
    int is_body, draws;
    uint64_t data;
} fold_record__player;

static const fold_node fold_record__null = { 0, 0 };
static const fold_param fold_record__none = { 0, 0 };
static const char fold_record__too_large[] = "the recording has more than 2^26 values";

/* Sets an error of the file on the context, which stops playing. Returns the null node. */
static fold_node fold_record__stop(fold_record__player *p, const char *why)
{
    fold_ctx_fail(p->f, FOLD_BAD_ARGUMENT, why);
    return fold_record__null;
}

/* Returns the part of a value that an operand reads, as a view. */
static fold_node fold_record__part(fold_record__player *p, const fold_record__operand *at,
                                   const fold_shape *shape)
{
    fold_ctx *f = p->f;
    fold_node x = p->node[at->id];
    fold_shape of = fold_node_shape(f, x);
    const int wanted = fold_record__size(shape), rows = p->is_body ? -1 : fold_list_length(f, x);
    uint32_t offset = at->offset, size = (uint32_t)fold_record__size(&of);
    if (!of.rank)
        return fold_record__stop(p, "an operand is part of a call that cannot be played alone");
    if (rows >= 0 && !at->whole && offset % size + (uint32_t)wanted <= size) {
        x = fold_list_at(f, x, (int)(offset / size));
        offset %= size;
    } else if (rows >= 0 && !at->whole) {
        if ((uint64_t)size * (uint64_t)rows > FOLD_RECORD__MOST_FLOATS)
            return fold_record__stop(p, "a list is too large");
        x = fold_list_stack(f, fold_reshape(f, x, fold_shape1((int)size)));
        size *= (uint32_t)rows;
        of = fold_shape2(rows, (int)size);
    }
    if (offset > size || (uint32_t)wanted > size - offset)
        return fold_record__stop(p, "an operand is outside the value it reads");
    if (!offset && fold_record__same_shape(&of, shape))
        return x;
    if ((uint32_t)wanted != size) {
        x = fold_slice(f, fold_reshape(f, x, fold_shape1((int)size)), 0, (int)offset, wanted);
        of = fold_shape1(wanted);
    }
    return fold_record__same_shape(&of, shape) ? x : fold_reshape(f, x, *shape);
}

/* Returns operand i of an item; i counts the elements of all list components. */
static fold_node fold_record__in(fold_record__player *p, const fold_record__item *t, int i)
{
    const fold_record__program *g = p->program;
    const int elements = t->n_list ? (t->n_operands - t->n_in) / t->n_list : 0;
    const int input = i < t->n_in || !elements ? i : t->n_in + (i - t->n_in) / elements;
    const fold_node x =
        fold_record__part(p, &g->operands[t->operand + (size_t)i], &g->shapes[t->shape + (size_t)input]);
    return !p->is_body && i < t->n_in && (t->shared >> i & 1) ? fold_shared(p->f, x) : x;
}

/* Returns the operand that is input i of the call. Inputs that are read row by row come last in a file. */
static int fold_record__place(const fold_record__item *t, int i)
{
    int lists = 0;
    for (int before = 0; before < i; before++)
        lists += t->n_list && (t->lists >> before & 1);
    return t->n_list && (t->lists >> i & 1) ? t->n_in + lists : i - lists;
}

/* Collects the inputs in the order of the call. */
static int fold_record__inputs(fold_record__player *p, const fold_record__item *t, fold_node *in)
{
    const int count = t->n_in + (t->lists ? t->n_list : 0);
    for (int i = 0; i < count; i++)
        in[i] = fold_record__in(p, t, fold_record__place(t, i));
    return count;
}

static fold_param fold_record__handle(const fold_record__player *p, const fold_record__item *t, int which)
{
    return t->param[which] < 0 ? fold_record__none : p->r->param[t->param[which]].handle;
}

/* Returns the parameter that an input is, for norms. */
static fold_param fold_record__used(fold_record__player *p, const fold_record__item *t, int i)
{
    const fold_record__program *g = p->program;
    const size_t at = t->operand + (size_t)fold_record__place(t, i);
    const fold_record__item *from = fold_record__owner(g, g->operands[at].id);
    return from && from->kind == FOLD_RECORD__USE ? p->r->param[from->which].handle : fold_record__none;
}

/* Returns the item that makes the first operand. */
static const fold_record__item *fold_record__maker(const fold_record__player *p, const fold_record__item *t)
{
    const fold_record__program *g = p->program;
    return t && t->n_operands ? fold_record__owner(g, g->operands[t->operand].id) : NULL;
}

/* Plays fold_conv1d over a list, of which a file has the windows and then the product. */
static fold_node fold_record__conv_list(fold_record__player *p, const fold_record__item *t, int depthwise)
{
    const fold_record__item *windows = fold_record__maker(p, t);
    const int steps = (int)windows->attr[1];
    const fold_conv_desc desc = { steps & 0xffff, (int)windows->attr[2], steps >> 16, depthwise };
    const fold_node x = fold_record__in(p, windows, 0);
    return fold_conv1d(p->f, x, fold_record__handle(p, t, 0), fold_record__handle(p, t, 1), &desc);
}

static fold_node fold_record__conv(fold_record__player *p, const fold_record__item *t, const fold_node *in)
{
    const int steps = (int)t->attr[1], rank = p->program->shapes[t->shape].rank;
    const fold_conv_desc desc = { steps & 0xffff, (int)t->attr[2], steps >> 16, t->attr[3] == 0 };
    if (fold_record__is(fold_record__maker(p, t), FOLD_RECORD__WINDOWS))
        return fold_reshape(p->f, fold_record__conv_list(p, t, 1), *fold_record__out_shape(p->program, t));
    return (rank == 3 ? fold_conv2d : fold_conv1d)(p->f, in[0], fold_record__handle(p, t, 0),
                                                   fold_record__handle(p, t, 1), &desc);
}

/* In the body of a cell with a list, one product of several inputs is two ops: for the inputs that are the
   same for all elements, and for the others. Plays the whole product. */
static fold_node fold_record__joined(fold_record__player *p, const fold_record__item *t, const fold_node *in,
                                     int n)
{
    fold_node all[2 * FOLD_MAX_IN];
    const fold_record__program *g = p->program;
    const fold_record__item *first =
        fold_record__owner(g, g->operands[t->operand + (size_t)t->n_operands - 1].id);
    if (!fold_record__is(first, FOLD_RECORD__LINEAR) || first->n_in + first->n_list + n - 1 > FOLD_MAX_IN)
        return fold_record__stop(p, "a product starts from a value that is not one");
    const int leading = fold_record__inputs(p, first, all);
    memcpy(all + leading, in, (size_t)(n - 1) * sizeof *in);
    n += leading - 1;
    const fold_param W = fold_record__handle(p, t, 0), b = fold_record__handle(p, first, 1);
    return t->attr[0] != 0 ? fold_linear_t(p->f, fold_concat(p->f, all, n, -1), W, b)
                           : fold_linear_n(p->f, all, n, W, b);
}

static fold_node fold_record__linear(fold_record__player *p, const fold_record__item *t, const fold_node *in,
                                     int n)
{
    const int transposed = t->attr[0] != 0, starts = t->attr[1] != 0;
    const fold_param W = fold_record__handle(p, t, 0), b = fold_record__handle(p, t, 1);
    const fold_shape of = fold_param_shape(p->r->m, W);
    int given = 0;
    if (fold_record__is(fold_record__maker(p, t), FOLD_RECORD__WINDOWS))
        return fold_record__conv_list(p, t, 0);
    if (of.rank > 2) { /* fold_conv1d over a list that is too short, of which a file has an empty one */
        const fold_conv_desc desc = { 0, 0, n > 1 ? 2 : 1, 0 };
        return fold_conv1d(p->f, fold_list_input(p->f, NULL, 0, fold_shape1(of.dim[1])), W, b, &desc);
    }
    for (int i = 0; i < n; i++) {
        const fold_shape shape = fold_node_shape(p->f, in[i]);
        given += shape.rank ? shape.dim[shape.rank - 1] : 0;
    }
    if (starts)
        return n == 2 && !transposed ? fold_linear_then(p->f, in[1], in[0], W)
                                     : fold_record__joined(p, t, in, n);
    if (transposed && given < of.dim[1])
        return fold_record__null; /* played by fold_record__joined */
    if (transposed)
        return fold_linear_t(p->f, n > 1 ? fold_concat(p->f, in, n, -1) : in[0], W, b);
    if (given < of.dim[0])
        return fold_linear_first(p->f, n > 1 ? fold_concat(p->f, in, n, -1) : in[0], W, b);
    return n == 1 ? fold_linear(p->f, in[0], W, b) : fold_linear_n(p->f, in, n, W, b);
}

static fold_node fold_record__pooled(fold_record__player *p, const fold_record__item *t, fold_node x)
{
    const fold_record__op *op = &fold_record__ops[t->which];
    fold_record__any *call = p->program->shapes[t->shape].rank == 3 ? op->over : op->call;
    return ((fold_record__call_pool *)call)(p->f, x, (int)t->attr[0] >> 16, (int)t->attr[1] & 0xffff,
                                            (int)t->attr[2]);
}

/* Collects the n elements of all list components in r->steps, which has room for twice as many and is
   overwritten by the next call. */
static int fold_record__elements(fold_record__player *p, const fold_record__item *t, int n)
{
    fold_record *r = p->r;
    if (!fold_record__grow(r, &r->steps, &r->steps_room, 2 * (size_t)n + 1, sizeof *r->steps))
        return !fold_node_is_null(fold_record__stop(p, "no memory"));
    for (int i = 0; i < n; i++)
        r->steps[i] = fold_record__in(p, t, t->n_in + i);
    return 1;
}

static fold_node fold_record__reduce(fold_record__player *p, const fold_record__item *t)
{
    const fold_record__op *op = &fold_record__ops[t->which];
    const int two = op->n_in == 2, count = t->n_list ? (t->n_operands - t->n_in) / t->n_list : 0;
    const int whole = t->n_list && t->n_operands && p->program->operands[t->operand].whole;
    fold_node in[2] = { fold_record__null, fold_record__null };
    fold_ctx *f = p->f;
    for (int i = 0; i < (two ? 2 : 1) && (p->is_body || !t->n_list || whole); i++)
        in[i] = fold_record__in(p, t, i);
    if (!p->is_body && !t->n_list) {
        const int *to = fold_record__index(p->program, t);
        return two ? fold_list_softmax_mean_to(f, in[0], in[1], to, t->n_index, t->rows)
                   : ((fold_record__call_to *)op->to)(f, in[0], to, t->n_index, t->rows);
    }
    if (p->is_body || whole)
        return two ? fold_list_softmax_mean(f, in[0], in[1])
                   : ((fold_record__call_unary *)op->over)(f, in[0]);
    if (!fold_record__elements(p, t, t->n_operands - t->n_in))
        return fold_record__null;
    return two ? fold_softmax_mean_n(f, p->r->steps, p->r->steps + count, count)
               : ((fold_record__call_nodes *)op->call)(f, p->r->steps, count);
}

/* fold_list_softmax_entropy sums p log p over rows, with p = softmax, log p = at_least(log_softmax). A file
   has these ops; this plays the whole call in place of the last one, which negates the sum. */
static fold_node fold_record__entropy(fold_record__player *p, const fold_record__item *sum)
{
    const fold_record__item *product = fold_record__maker(p, sum), *chance = fold_record__maker(p, product);
    if (!fold_record__is(product, FOLD_RECORD__BINARY) || !fold_record__is(chance, FOLD_RECORD__SOFTMAX))
        return fold_record__stop(p, "list_sum is not part of an entropy");
    const fold_node x = fold_record__in(p, chance, 0);
    return sum->rows < 0 ? fold_list_softmax_entropy(p->f, x)
                         : fold_list_softmax_entropy_to(p->f, x, fold_record__index(p->program, sum),
                                                        sum->n_index, sum->rows);
}

static fold_node fold_record__over_rows(fold_record__player *p, const fold_record__item *t, fold_node x)
{
    const fold_record__op *op = &fold_record__ops[t->which];
    const int *index = fold_record__index(p->program, t);
    int rows = t->rows;
    switch (op->form) {
    case FOLD_RECORD__CHOICE:
        if (t->rows < 0)
            return fold_list_choice_xent(p->f, x, t->n_index > 0 ? index[0] : -1);
        if (t->n_index < t->rows)
            return fold_record__stop(p, "too few labels");
        return fold_list_choice_xent_to(p->f, x, index, index + t->rows, t->n_index - t->rows, t->rows);
    case FOLD_RECORD__OVER:
        if (t->rows < 0)
            return ((fold_record__call_unary *)op->over)(p->f, x);
        break;
    default:
        if (t->n_index < 1)
            return ((fold_record__call_unary *)op->over)(p->f, x);
        rows = 0;
        for (int i = 0; i < t->n_index; i++)
            rows = index[i] >= rows && index[i] < INT_MAX ? index[i] + 1 : rows;
        if ((p->r->floats += (uint64_t)rows) > FOLD_RECORD__MOST_FLOATS) /* fold.h notes where each begins */
            return fold_record__stop(p, fold_record__too_large);
    }
    return ((fold_record__call_to *)op->to)(p->f, x, index, t->n_index, rows);
}

/* Returns the key for fold_dropout_seed with which the next draw is this one: the inverse of splitmix64. */
static uint64_t fold_record__key(uint64_t bits)
{
    bits ^= bits >> 31 ^ bits >> 62;
    bits *= UINT64_C(0x319642b2d24d8ec3);
    bits ^= bits >> 27 ^ bits >> 54;
    bits *= UINT64_C(0x96de1b173f119089);
    return bits ^ bits >> 30 ^ bits >> 60;
}

static fold_node fold_record__dropout(fold_record__player *p, const fold_record__item *t, fold_node x)
{
    if (!p->is_body)
        fold_dropout_seed(p->f, fold_record__key(t->data));
    else if (t->data > 1000)
        return fold_record__stop(p, "a body has too many dropouts");
    for (; p->is_body && (uint64_t)p->draws < t->data; p->draws++) /* draws that no output needs */
        fold_dropout(p->f, x, (float)t->attr[0]);
    p->draws++;
    return fold_dropout(p->f, x, (float)t->attr[0]);
}

static fold_node fold_record__attention(fold_record__player *p, const fold_record__item *t,
                                        const fold_node *in)
{
    const int heads = (int)t->attr[0], mask = (int)t->attr[1], edges = t->n_index / 2;
    const int *from = fold_record__index(p->program, t);
    return mask < 2 ? fold_list_attention(p->f, in[0], in[1], in[2], heads, mask)
                    : fold_list_attention_to(p->f, in[0], in[1], in[2], heads, from, from + edges, edges);
}

/* Plays an op of one to three inputs. */
static fold_node fold_record__small(fold_record__player *p, const fold_record__item *t, const fold_node *in,
                                    int n)
{
    fold_ctx *f = p->f;
    const fold_record__op *op = &fold_record__ops[t->which];
    const int *index = fold_record__index(p->program, t);
    const uint32_t bits = (uint32_t)t->data;
    float number = (float)t->attr[0];
    if (op->n_in >= 0 && n != op->n_in)
        return fold_record__stop(p, "wrong number of inputs");
    switch (op->form) {
    case FOLD_RECORD__UNARY:
        if (!strcmp(op->name, "neg") && fold_record__is(fold_record__maker(p, t), FOLD_RECORD__ENTROPY))
            return fold_record__entropy(p, fold_record__maker(p, t));
        return ((fold_record__call_unary *)op->call)(f, in[0]);
    case FOLD_RECORD__BINARY: return ((fold_record__call_binary *)op->call)(f, in[0], in[1]);
    case FOLD_RECORD__DATA: memcpy(&number, &bits, sizeof number); /* fall through */
    case FOLD_RECORD__NUMBER: return ((fold_record__call_number *)op->call)(f, in[0], number);
    case FOLD_RECORD__AXIS: return ((fold_record__call_axis *)op->call)(f, in[0], (int)t->attr[0]);
    case FOLD_RECORD__INDEX:
        return t->n_index < 0 ? ((fold_record__call_axis *)op->call)(f, in[0], (int)t->data)
                              : ((fold_record__call_each *)op->over)(f, in[0], index, t->n_index);
    case FOLD_RECORD__NORM:
        return n == 3
                   ? fold_layer_norm(f, in[0], fold_record__used(p, t, 1), fold_record__used(p, t, 2), number)
                   : fold_rms_norm(f, in[0], fold_record__used(p, t, 1), number);
    case FOLD_RECORD__HUBER: return fold_huber(f, in[0], in[1], number);
    case FOLD_RECORD__DROPOUT: return fold_record__dropout(p, t, in[0]);
    case FOLD_RECORD__CONV: return fold_record__conv(p, t, in);
    case FOLD_RECORD__POOL: return fold_record__pooled(p, t, in[0]);
    case FOLD_RECORD__SLICE: return fold_slice(f, in[0], (int)t->attr[0], (int)t->attr[1], (int)t->attr[2]);
    case FOLD_RECORD__TRANSPOSE: return fold_transpose(f, in[0], (int)t->attr[0], (int)t->attr[1]);
    case FOLD_RECORD__SELECT: return fold_select(f, in[0], in[1], in[2]);
    case FOLD_RECORD__TAKE: return fold_list_take(f, in[0], index, t->n_index);
    case FOLD_RECORD__ATTENTION: return fold_record__attention(p, t, in);
    default: return fold_record__over_rows(p, t, in[0]);
    }
}

static fold_node fold_record__play_op(fold_record__player *p, const fold_record__item *t)
{
    const fold_record__form form = fold_record__ops[t->which].form;
    fold_node in[2 * FOLD_MAX_IN];
    memset(in, 0, sizeof in);
    if (form == FOLD_RECORD__REDUCE)
        return fold_record__reduce(p, t);
    if (form == FOLD_RECORD__COPY && t->n_list)
        return fold_record__elements(p, t, t->n_operands) ? fold_list_join(p->f, p->r->steps, t->n_operands)
                                                          : fold_record__null;
    if (form == FOLD_RECORD__WINDOWS || form == FOLD_RECORD__ENTROPY)
        return fold_record__null; /* played by the call that reads it */
    const int of_windows = fold_record__is(fold_record__maker(p, t), FOLD_RECORD__WINDOWS);
    const int of_sum = fold_record__is(fold_record__maker(p, t), FOLD_RECORD__ENTROPY);
    const int n = of_windows || of_sum ? t->n_in + t->n_list : fold_record__inputs(p, t, in);
    switch (form) {
    case FOLD_RECORD__LINEAR: return fold_record__linear(p, t, in, n);
    case FOLD_RECORD__CONCAT: return fold_concat(p->f, in, n, (int)t->attr[0]);
    case FOLD_RECORD__COPY: return in[0]; /* the call that reads a copy makes it */
    default: return fold_record__small(p, t, in, n);
    }
}

/* Plays a call of a cell. Elements of a list are component by component in a file, but not in fold_call_n. */
static fold_node fold_record__play_cell(fold_record__player *p, const fold_record__item *t)
{
    fold_record *r = p->r;
    const fold_cell cell = r->cell[t->which]->handle;
    const int count = t->n_list ? (t->n_operands - t->n_in) / t->n_list : 0;
    fold_node in[2 * FOLD_MAX_IN];
    if (t->data)
        fold_dropout_seed(p->f, fold_record__key(t->data));
    const int n = fold_record__inputs(p, t, in);
    if (!t->n_list || t->lists)
        return fold_call(p->f, cell, in, n);
    if (!fold_record__elements(p, t, count * t->n_list))
        return fold_record__null;
    if (count == 1 && p->program->operands[t->operand + (size_t)t->n_in].whole)
        return fold_call_list(p->f, cell, in, n, r->steps);
    fold_node *turned = r->steps + count * t->n_list;
    for (int component = 0; component < t->n_list; component++)
        for (int i = 0; i < count; i++)
            turned[i * t->n_list + component] = r->steps[component * count + i];
    return fold_call_n(p->f, cell, in, n, turned, count);
}

static fold_node fold_record__play_leaf(fold_record__player *p, const fold_record__item *t)
{
    const fold_record__program *g = p->program;
    const int *index = fold_record__index(g, t);
    const float *values = g->values ? g->values + t->value : NULL;
    switch (t->kind) {
    case FOLD_RECORD__INPUT: return fold_input_shaped(p->f, values, g->shapes[t->shape]);
    case FOLD_RECORD__LIST: return fold_list_input(p->f, values, t->rows, g->shapes[t->shape]);
    case FOLD_RECORD__USE: return fold_use(p->f, p->r->param[t->which].handle);
    default:
        return t->rows < 0 ? fold_lookup(p->f, p->r->param[t->which].handle, index[0])
                           : fold_list_lookup(p->f, p->r->param[t->which].handle, index, t->rows);
    }
}

/* Whether an item came out as the file says. A file that lies could make it larger than was checked, or its
   hash be taken over more floats than it has. */
static void fold_record__check_result(fold_record__player *p, const fold_record__item *t)
{
    const fold_shape *shape = fold_record__out_shape(p->program, t);
    fold_ctx *f = p->f;
    for (int out = 0; out < t->n_out; out++) {
        const fold_node x = p->node[t->id + (uint32_t)out];
        const fold_shape made = fold_node_shape(f, x);
        if (fold_node_is_null(x) || fold_ctx_status(f))
            return;
        if (!fold_record__same_shape(&made, &shape[out]))
            fold_record__stop(p, "a result has a different shape in the file");
        else if (!p->is_body && out == 0 && fold_list_length(f, x) != t->rows)
            fold_record__stop(p, "a result has a different number of rows in the file");
    }
}

/* Counts the floats of an item, and those of the body of a cell for each row or element that it runs over. */
static int fold_record__fits(fold_record__player *p, const fold_record__item *t)
{
    const fold_record__program *g = p->program,
                               *body = t->kind == FOLD_RECORD__CELL ? &p->r->cell[t->which]->body : NULL;
    const int elements = t->n_list ? (t->n_operands - t->n_in) / t->n_list : 1;
    uint64_t rows = (uint64_t)(t->rows > elements ? t->rows : elements < 1 ? 1 : elements);
    uint64_t floats = 0, draws = 0;
    for (int i = 0; body && i < t->n_operands; i++) {
        const fold_record__operand *at = &g->operands[t->operand + (size_t)i];
        const int length = at->whole ? fold_list_length(p->f, p->node[at->id]) : 1;
        rows = length > 0 && (uint64_t)length > rows ? (uint64_t)length : rows;
    }
    for (int out = 0; out < t->n_out; out++)
        floats += (uint64_t)fold_record__size(fold_record__out_shape(g, t) + out);
    for (size_t i = 0; body && i < body->n_items && floats < FOLD_RECORD__MOST_FLOATS; i++) {
        const fold_record__item *made = &body->item[i];
        const int drops = fold_record__is(made, FOLD_RECORD__DROPOUT);
        const uint64_t times = drops && made->data > draws ? made->data - draws + 1 : 1;
        floats += times * (uint64_t)fold_record__size(fold_record__out_shape(body, made));
        draws += drops ? times : 0; /* as fold_record__dropout does */
    }
    if (floats < FOLD_RECORD__MOST_FLOATS && rows < FOLD_RECORD__MOST_FLOATS &&
        (p->r->floats += (floats + 1) * rows) < FOLD_RECORD__MOST_FLOATS)
        return 1;
    fold_record__stop(p, fold_record__too_large);
    return 0;
}

/* Plays the items that are needed (all if `need` is NULL), until one fails. Returns it, or NULL. */
static const fold_record__item *fold_record__play_items(fold_record__player *p, const unsigned char *need)
{
    const fold_record__program *g = p->program;
    for (size_t i = 0; i < g->n_items; i++) {
        const fold_record__item *t = &g->item[i];
        fold_node *node = &p->node[t->id];
        if (need && !need[i])
            continue;
        if (!p->is_body && !fold_record__fits(p, t))
            return t;
        node[0] = t->kind == FOLD_RECORD__OP     ? fold_record__play_op(p, t)
                  : t->kind == FOLD_RECORD__CELL ? fold_record__play_cell(p, t)
                                                 : fold_record__play_leaf(p, t);
        for (int out = 1; out < t->n_out && !fold_ctx_status(p->f); out++)
            node[out] = fold_out(p->f, node[0], out);
        fold_record__check_result(p, t);
        if (fold_ctx_status(p->f))
            return t;
    }
    return NULL;
}

static void fold_record__body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    fold_record__cell *cell = *(fold_record__cell *const *)user;
    fold_record__player p = { cell->record, f, &cell->body, cell->body.node, 1, 0, 0 };
    for (int i = 0; i < cell->n_in + cell->n_list; i++)
        p.node[1 + i] = in[i];
    if (fold_record__play_items(&p, NULL))
        return;
    for (int i = 0; i < cell->n_out; i++) {
        const fold_record__port *port = &cell->body.port[i];
        out[i] = fold_record__part(&p, &port->at, &port->shape);
    }
}

/* Adds the parameters and cells to a new model. */
static int fold_record__build(fold_record *r)
{
    r->m = fold_model_new(NULL);
    if (!r->m)
        return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory for the model");
    for (size_t i = 0; i < r->n_params && !fold_model_status(r->m); i++) {
        fold_param_desc desc = fold_param_desc_default();
        desc.name = r->param[i].name;
        desc.shape = r->param[i].shape;
        desc.values = r->param[i].values;
        desc.uses = (unsigned)r->param[i].uses;
        r->param[i].handle = fold_param_new(r->m, &desc);
        if (fold_model_status(r->m))
            return fold_record__fail(r, fold_model_status(r->m), r->param[i].line, "%s",
                                     fold_model_message(r->m));
    }
    for (size_t i = 0; i < r->n_cells; i++) {
        fold_record__cell *cell = r->cell[i];
        fold_cell_desc desc = fold_cell_desc_default();
        cell->body.node = (fold_node *)calloc(cell->body.n_ids + 1, sizeof(fold_node));
        if (!cell->body.node)
            return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
        desc.name = cell->name;
        desc.body = fold_record__body;
        desc.user = &r->cell[i];
        desc.user_size = sizeof r->cell[i];
        desc.n_in = cell->n_in;
        desc.n_list = cell->n_list;
        desc.n_out = cell->n_out;
        memcpy(desc.in, cell->shape, (size_t)cell->n_in * sizeof *desc.in);
        memcpy(desc.list, cell->shape + cell->n_in, (size_t)cell->n_list * sizeof *desc.list);
        cell->handle = fold_cell_new(r->m, &desc);
        if (fold_model_status(r->m))
            return fold_record__fail(r, fold_model_status(r->m), cell->line, "%s", fold_model_message(r->m));
    }
    r->top.node = (fold_node *)calloc(r->top.n_ids + 1, sizeof(fold_node));
    return r->top.node ? 1 : fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
}

static int fold_record__outputs(const fold_record *r) { return (int)r->top.n_ports - r->top.n_losses; }

/* Whether an item belongs to a sample: without samples, each output is one. */
static int fold_record__is_of(const fold_record *r, const fold_record__item *t, int sample)
{
    return r->samples ? t->sample == sample : fold_record__owner(&r->top, r->top.port[sample].at.id) == t;
}

/* Marks the items that a sample needs, and with 2 those of its own that no other one of its own reads. */
static unsigned char *fold_record__needed(fold_record *r, int sample)
{
    const fold_record__program *g = &r->top;
    const int samples = r->samples ? r->samples : fold_record__outputs(r);
    unsigned char *need = sample < samples ? (unsigned char *)calloc(g->n_items + 1, 1) : NULL;
    for (size_t i = g->n_items; i-- > 0 && need;) {
        const fold_record__item *t = &g->item[i];
        if (fold_record__is_of(r, t, sample) && !need[i])
            need[i] = 2;
        for (int at = 0; at < t->n_operands && need[i]; at++) {
            const fold_record__item *from = fold_record__owner(g, g->operands[t->operand + (size_t)at].id);
            if (from)
                need[from - g->item] = 1;
        }
    }
    if (sample >= samples)
        fold_record__fail(r, FOLD_BAD_ARGUMENT, 0, "sample is %d, must be below %d", sample, samples);
    else if (!need)
        fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
    return need;
}

static void fold_record__start(fold_record *r)
{
    memset(&r->result, 0, sizeof r->result);
    r->floats = 0;
}

/* Plays the items that are marked, and finds the outputs and losses. */
static int fold_record__play(fold_record *r, fold_ctx *f, const unsigned char *need)
{
    fold_record__program *g = &r->top;
    fold_record__player p = { r, f, g, g->node, 0, 0, 0 };
    memset(g->node, 0, g->n_ids * sizeof *g->node);
    for (size_t i = 0; i < g->n_ports; i++)
        g->port[i].node = fold_record__null;
    const fold_record__item *failed = fold_record__play_items(&p, need);
    for (size_t i = 0; i < g->n_ports && !failed; i++)
        if (!fold_node_is_null(g->node[g->port[i].at.id]))
            g->port[i].node = fold_record__part(&p, &g->port[i].at, &g->port[i].shape);
    if (!fold_ctx_status(f))
        return 1;
    return fold_record__fail(r, fold_ctx_status(f), failed ? failed->line : 0, "%s", fold_ctx_message(f));
}

FOLD_API fold_record_result fold_record_play(fold_record *r, fold_ctx *f, int sample)
{
    static const fold_record_result none = { FOLD_BAD_ARGUMENT, 0, 0, 0, "record: r or f is NULL" };
    if (!r || !f)
        return none;
    fold_record__start(r);
    unsigned char *need = sample < 0 ? NULL : fold_record__needed(r, sample);
    if (fold_ctx_model(f) != r->m)
        fold_record__fail(r, FOLD_BAD_HANDLE, 0, "the context is not of fold_record_model");
    if (!r->result.status)
        fold_record__play(r, f, need);
    free(need);
    return r->result;
}

FOLD_API fold_node fold_record_output(const fold_record *r, int i)
{
    return r && i >= 0 && i < fold_record__outputs(r) ? r->top.port[i].node : fold_record__null;
}
FOLD_API fold_node fold_record_loss(const fold_record *r, int i)
{
    return r && i >= 0 && i < r->top.n_losses ? r->top.port[fold_record__outputs(r) + i].node
                                              : fold_record__null;
}

FOLD_API fold_model *fold_record_model(fold_record *r) { return r ? r->m : NULL; }

FOLD_API fold_record_about fold_record_describe(const fold_record *r)
{
    fold_record_about about;
    memset(&about, 0, sizeof about);
    about.kernels = about.schedule = "";
    if (!r)
        return about;
    for (size_t i = 0; i < r->top.n_items; i++)
        about.calls += r->top.item[i].kind >= FOLD_RECORD__OP;
    about.cells = (int)r->n_cells;
    about.parameters = (int)r->n_params;
    about.samples = r->samples;
    about.outputs = fold_record__outputs(r);
    about.losses = r->top.n_losses;
    about.training = r->training;
    about.kernels = r->kernels;
    about.schedule = r->schedule;
    return about;
}

/* ---- comparing --------------------------------------------------------------------------------- */

/* Compares floats. Describes the first difference, unless there was one before. */
static void fold_record__compare_floats(fold_record *r, const char *what, const fold_record__item *t,
                                        const float *got, const float *want, int count)
{
    fold_record_result *result = &r->result;
    result->values += count;
    for (int i = 0; i < count; i++) {
        if (fold_record__bits_of(&got[i]) == fold_record__bits_of(&want[i]))
            continue;
        if (!result->differ++ && t) {
            char dims[64];
            fold_record__shape_text(fold_record__out_shape(&r->top, t), dims);
            result->line = t->line;
            snprintf(result->message, sizeof result->message,
                     "node %u (%.60s, %s, sample %d): float %d is %.9g, must be %.9g", (unsigned)t->id,
                     fold_record__name(r, t), dims, t->sample, i, (double)got[i], (double)want[i]);
        } else if (result->differ == 1)
            snprintf(result->message, sizeof result->message, "%.100s: float %d is %.9g, must be %.9g", what,
                     i, (double)got[i], (double)want[i]);
    }
}

/* Reads the values of a node: those of a list row after row. Returns their number, or 0. */
static int fold_record__read_values(fold_ctx *f, fold_node x, const float **values)
{
    const fold_shape shape = fold_node_shape(f, x);
    const int rows = fold_list_length(f, x);
    *values = fold_node_is_null(x) ? NULL : fold_value(f, x);
    return *values ? fold_record__size(&shape) * (rows < 0 ? 1 : rows) : 0;
}

/* Runs what was played: outputs, or the ends of a sample. Then the gradients of the losses. */
static int fold_record__run(fold_record *r, fold_ctx *f, const unsigned char *need, int keep)
{
    fold_record__program *g = &r->top;
    size_t n = 0;
    fold_node *roots = (fold_node *)calloc(g->n_ids + g->n_ports + 1, sizeof *roots);
    if (!roots)
        return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
    for (size_t i = 0; i < g->n_items; i++)
        for (int out = 0; out < g->item[i].n_out; out++) {
            const fold_node x = g->node[g->item[i].id + (uint32_t)out];
            if (!fold_node_is_null(x) && g->item[i].kind >= FOLD_RECORD__OP &&
                (keep || (need && need[i] == 2)))
                roots[n++] = x;
        }
    for (size_t i = 0; i < g->n_ports; i++)
        if (!fold_node_is_null(g->port[i].node))
            roots[n++] = g->port[i].node;
    fold_status status = fold_run(f, roots, (int)n);
    free(roots);
#ifndef FOLD_INFERENCE
    if (!need && !status)
        fold_grads_clear(r->m);
    for (size_t i = g->n_ports - (size_t)g->n_losses; i < g->n_ports && !need && !status; i++)
        status = fold_backward(f, g->port[i].node);
#endif
    return !status || fold_record__fail(r, status, 0, "%s", fold_ctx_message(f));
}

static int fold_record__keep_wanted(fold_record *r, fold_ctx *f)
{
    const fold_record__program *g = &r->top;
    r->want = (float **)calloc(g->n_ids + 1, sizeof *r->want);
    r->wanted = (int *)calloc(g->n_ids + 1, sizeof *r->wanted);
    r->want_grad = (float **)calloc(r->n_params + 1, sizeof *r->want_grad);
    if (!r->want || !r->wanted || !r->want_grad)
        return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
    for (size_t id = 1; id < g->n_ids; id++) {
        const float *values;
        const int count = fold_record__read_values(f, g->node[id], &values);
        if (!count || fold_record__owner(g, (uint32_t)id)->kind < FOLD_RECORD__OP)
            continue;
        r->want[id] = (float *)malloc((size_t)count * sizeof **r->want);
        if (!r->want[id])
            return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
        memcpy(r->want[id], values, (size_t)count * sizeof **r->want);
        r->wanted[id] = count;
    }
#ifndef FOLD_INFERENCE
    for (size_t i = 0; i < r->n_params && g->n_losses; i++) {
        const size_t bytes = (size_t)fold_record__size(&r->param[i].shape) * sizeof(float);
        const float *grad = fold_param_grad(r->m, r->param[i].handle);
        r->want_grad[i] = grad ? (float *)malloc(bytes) : NULL;
        if (grad && !r->want_grad[i])
            return fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
        if (grad)
            memcpy(r->want_grad[i], grad, bytes);
    }
#endif
    return 1;
}

/* Compares the values of an eager context with the hashes in the file. */
static void fold_record__compare_hashes(fold_record *r, fold_ctx *f)
{
    const fold_record__program *g = &r->top;
    for (size_t i = 0; i < g->n_items; i++) {
        const fold_record__item *t = &g->item[i];
        const uint64_t hash = t->hash ? fold_record__hash_item(f, g, t, &g->node[t->id]) : 0;
        if (!hash)
            continue;
        r->result.values++;
        if (hash == t->hash || r->result.differ++)
            continue;
        r->result.line = t->line;
        snprintf(r->result.message, sizeof r->result.message,
                 "node %u (%.60s, sample %d): values here are not those in the file", (unsigned)t->id,
                 fold_record__name(r, t), t->sample);
    }
}

static void fold_record__compare_all(fold_record *r, fold_ctx *f, int gradients)
{
    const fold_record__program *g = &r->top;
    for (size_t id = 1; id < g->n_ids; id++) {
        const float *values;
        const int count = r->wanted[id] ? fold_record__read_values(f, g->node[id], &values) : 0;
        if (count == r->wanted[id] && count)
            fold_record__compare_floats(r, "", fold_record__owner(g, (uint32_t)id), values, r->want[id],
                                        count);
    }
#ifndef FOLD_INFERENCE
    for (size_t i = 0; i < r->n_params && gradients; i++)
        if (r->want_grad[i])
            fold_record__compare_floats(r, r->param[i].name, NULL, fold_param_grad(r->m, r->param[i].handle),
                                        r->want_grad[i], fold_record__size(&r->param[i].shape));
#else
    (void)gradients;
#endif
}

/* Plays, runs and compares in a new context. desc NULL: in an eager one, which sets what is wanted. */
static void fold_record__try(fold_record *r, const fold_ctx_desc *given, const unsigned char *need, int keep)
{
    fold_ctx_desc desc = given ? *given : fold_ctx_desc_default();
    desc.training = r->training;
    desc.eager = desc.eager || !given;
    fold_ctx *f = fold_ctx_new(r->m, &desc);
    fold_record__start(r);
    if (!f)
        fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory for a context");
    if (f && fold_record__play(r, f, need) && fold_record__run(r, f, need, keep)) {
        if (given)
            fold_record__compare_all(r, f, !need && !desc.dedupe);
        else if (fold_record__keep_wanted(r, f))
            fold_record__compare_hashes(r, f);
    }
    fold_ctx_free(f);
}

FOLD_API fold_record_result fold_record_compare(fold_record *r, const fold_ctx_desc *desc, int sample)
{
    static const fold_record_result none = { FOLD_BAD_ARGUMENT, 0, 0, 0, "record: r is NULL" };
    if (!r)
        return none;
    if (!desc || !r->want) {
        fold_record__forget_wanted(r);
        fold_record__try(r, NULL, NULL, 0);
        if (r->result.status)
            fold_record__forget_wanted(r);
        if (!desc || r->result.status)
            return r->result;
    }
    fold_record__start(r);
    unsigned char *need = sample < 0 ? NULL : fold_record__needed(r, sample);
    if (!r->result.status)
        fold_record__try(r, desc, need, 0);
    if (!r->result.status && r->result.differ) {
        const fold_record_result outputs = r->result;
        fold_record__try(r, desc, need, 1);
        if (r->result.status || !r->result.differ)
            r->result = outputs; /* it does not differ if all values are kept */
    }
    free(need);
    return r->result;
}

/* ---- reading a file ---------------------------------------------------------------------------- */

/* Words of a file, separated by spaces and line ends; # begins a comment. */
typedef struct fold_record__reader {
    fold_record *r;
    const char *at, *end;
    int line;
    char word[3 * FOLD_RECORD__NAME + 1]; /* the current word; "" at the end of the file */
} fold_record__reader;

/* What may follow an item, in this order. */
#define FOLD_RECORD__KEY_LIST(X)                                                                         \
    X(in) X(list) X(out) X(from) X(lists) X(shared) X(params) X(attr) X(data) X(index) X(rows) X(sample) \
    X(hash) X(values)
#define FOLD_RECORD__KEY_TEXT(name) #name,
#define FOLD_RECORD__KEY_NUMBER(name) FOLD_RECORD__KEY_##name,
static const char *const fold_record__keys[] = { FOLD_RECORD__KEY_LIST(FOLD_RECORD__KEY_TEXT) };
enum { FOLD_RECORD__KEY_LIST(FOLD_RECORD__KEY_NUMBER) FOLD_RECORD__KEYS };

static int fold_record__wrong(fold_record__reader *file, const char *why)
{
    return fold_record__fail(file->r, FOLD_BAD_ARGUMENT, file->line, "line %d: %s, at '%.40s'", file->line,
                             why, file->word);
}

/* Reads the next word. Returns 0 after an error. */
static int fold_record__next(fold_record__reader *file)
{
    size_t n = 0;
    int comment = 0;
    for (; file->at < file->end; file->at++) {
        comment = *file->at == '\n' ? 0 : comment || *file->at == '#';
        file->line += *file->at == '\n' && file->line < INT_MAX;
        if (!comment && *file->at != ' ' && *file->at != '\n' && *file->at != '\r')
            break;
    }
    for (; file->at < file->end && *file->at != ' ' && *file->at != '\n' && *file->at != '\r'; file->at++) {
        if (n + 1 == sizeof file->word)
            return fold_record__wrong(file, "a word is too long");
        file->word[n++] = *file->at >= ' ' && *file->at <= '~' ? *file->at : '?';
    }
    file->word[n] = 0;
    return !file->r->result.status;
}

static int fold_record__is_word(const fold_record__reader *file, const char *word)
{
    return !file->r->result.status && !strcmp(file->word, word);
}

/* Reads the next word, which must be this one. */
static int fold_record__expect(fold_record__reader *file, const char *word)
{
    if (fold_record__next(file) && strcmp(file->word, word) != 0)
        fold_record__fail(file->r, FOLD_BAD_ARGUMENT, file->line, "line %d: '%s' is missing, at '%.40s'",
                          file->line, word, file->word);
    return !file->r->result.status;
}

/* Reads a number from *at on; hexadecimal if base is 16. Returns 0 if there are no digits, or too many. */
static int fold_record__digits(const char **at, int base, uint64_t most, uint64_t *number)
{
    const char *begin = *at;
    *number = 0;
    for (;; ++*at) {
        const int digit = **at >= '0' && **at <= '9'                 ? **at - '0'
                          : base == 16 && **at >= 'a' && **at <= 'f' ? **at - 'a' + 10
                                                                     : -1;
        if (digit < 0)
            return *at != begin;
        if (*number > (most - (uint64_t)digit) / (uint64_t)base || (uint64_t)digit > most)
            return 0;
        *number = *number * (uint64_t)base + (uint64_t)digit;
    }
}

/* Reads the next word as a whole number in [low, high], where low is 0 or negative. */
static int fold_record__integer(fold_record__reader *file, int low, int high)
{
    uint64_t number = 0;
    if (!fold_record__next(file))
        return low;
    const int minus = file->word[0] == '-';
    const char *at = file->word + minus;
    if (!fold_record__digits(&at, 10, minus ? 0u - (uint64_t)(int64_t)low : (uint64_t)high, &number) || *at) {
        fold_record__wrong(file, "a number is not as it must be");
        return low;
    }
    return minus ? (int)-(int64_t)number : (int)number;
}

static uint64_t fold_record__bits(fold_record__reader *file, uint64_t most)
{
    uint64_t bits = 0;
    if (fold_record__next(file)) {
        const char *at = file->word;
        if (!fold_record__digits(&at, 16, most, &bits) || *at)
            fold_record__wrong(file, "hexadecimal digits are not as they must be");
    }
    return bits;
}

/* Reads a shape from *at on, such as 3x4. */
static int fold_record__shape_at(const char **at, fold_shape *shape)
{
    uint64_t number, size = 1;
    memset(shape, 0, sizeof *shape);
    do {
        if (shape->rank == FOLD_MAX_RANK || !fold_record__digits(at, 10, FOLD_RECORD__MOST_FLOATS, &number))
            return 0;
        size *= number;
        if (!number || size >= FOLD_RECORD__MOST_FLOATS) /* below, so that the sum of all inputs is an int */
            return 0;
        shape->dim[shape->rank++] = (int)number;
    } while (**at == 'x' && ++*at);
    return 1;
}

static void fold_record__shape(fold_record__reader *file, fold_shape *shape)
{
    const char *at = file->word;
    memset(shape, 0, sizeof *shape);
    if (fold_record__next(file) && (!fold_record__shape_at(&at, shape) || *at))
        fold_record__wrong(file, "a shape is not as it must be");
}

/* Reads an operand: the id of a value, +offset, and * if it is a list that is read whole. */
static void fold_record__operand_of(fold_record__reader *file, uint32_t ids, fold_record__operand *operand)
{
    const char *at = file->word;
    uint64_t id = 0, offset = 0;
    memset(operand, 0, sizeof *operand);
    if (!fold_record__next(file))
        return;
    if (!fold_record__digits(&at, 10, INT_MAX, &id) ||
        (*at == '+' && (++at, !fold_record__digits(&at, 10, INT_MAX, &offset))) || id < 1 || id >= ids) {
        fold_record__wrong(file, "an operand is not an earlier value");
        return;
    }
    operand->whole = *at == '*';
    operand->id = (uint32_t)id;
    operand->offset = (uint32_t)offset;
    if (at[operand->whole])
        fold_record__wrong(file, "an operand is not as it must be");
}

/* Reads a name, in which %xx stands for a byte. */
static void fold_record__read_name(fold_record__reader *file, char *name, size_t room)
{
    size_t n = 0;
    if (!fold_record__next(file))
        return;
    for (const char *at = file->word; *at; n++) {
        uint64_t byte = (unsigned char)*at;
        char two[3] = { 0, 0, 0 };
        const char *digit = two;
        if (*at++ == '%') {
            two[0] = *at ? *at++ : '\0';
            two[1] = *at ? *at++ : '\0';
            if (!fold_record__digits(&digit, 16, 255, &byte) || digit != two + 2 || !byte)
                fold_record__wrong(file, "a name is not as it must be");
        }
        if (n + 1 >= room) {
            fold_record__wrong(file, "a name is too long");
            return;
        }
        name[n] = (char)(unsigned char)byte;
    }
    name[n] = 0;
    if (!n)
        fold_record__wrong(file, "a name is missing");
}

/* Reads floats as bits in hexadecimal; *n means n times. They are kept as they are read, so that no memory is
   taken for a number that lies. */
static int fold_record__floats(fold_record__reader *file, float **values, size_t *n_values, size_t *room,
                               uint64_t count)
{
    fold_record *r = file->r;
    if (count > FOLD_RECORD__MOST_FLOATS - r->floats)
        return fold_record__wrong(file, "there are more than 2^26 values");
    r->floats += count;
    while (count && fold_record__next(file)) {
        const char *at = file->word;
        uint64_t bits = 0, times = 1;
        uint32_t word;
        float value;
        if (!fold_record__digits(&at, 16, UINT32_MAX, &bits) ||
            (*at == '*' && (++at, !fold_record__digits(&at, 10, count, &times))) || *at || !times ||
            times > count)
            return fold_record__wrong(file, "values are not as they must be");
        if (!fold_record__grow(r, values, room, *n_values + (size_t)times, sizeof **values))
            return 0;
        word = (uint32_t)bits;
        memcpy(&value, &word, sizeof value);
        for (count -= times; times; times--)
            (*values)[(*n_values)++] = value;
    }
    return !r->result.status;
}

static void fold_record__read_shapes(fold_record__reader *file, fold_record__program *g, int count)
{
    for (int i = 0; i < count && FOLD_RECORD__ADD(file->r, g, shapes, n_shapes, shapes_room, 1); i++)
        fold_record__shape(file, &g->shapes[g->n_shapes - 1]);
}

static int fold_record__read_operands(fold_record__reader *file, fold_record__program *g, uint32_t ids)
{
    const int count = fold_record__integer(file, 0, INT_MAX);
    for (int i = 0; i < count && !file->r->result.status; i++)
        if (FOLD_RECORD__ADD(file->r, g, operands, n_operands, operands_room, 1))
            fold_record__operand_of(file, ids, &g->operands[g->n_operands - 1]);
    return count;
}

static int fold_record__read_index(fold_record__reader *file, fold_record__program *g)
{
    const int count = fold_record__integer(file, 0, INT_MAX);
    for (int i = 0; i < count && !file->r->result.status; i++)
        if (FOLD_RECORD__ADD(file->r, g, index, n_index, index_room, 1))
            g->index[g->n_index - 1] = fold_record__integer(file, 0, INT_MAX);
    return count;
}

/* Whether attribute i of an op is a float. */
static int fold_record__is_float(const fold_record__item *t)
{
    const fold_record__form form =
        t->kind == FOLD_RECORD__OP ? fold_record__ops[t->which].form : FOLD_RECORD__UNARY;
    return form == FOLD_RECORD__NUMBER || form == FOLD_RECORD__NORM || form == FOLD_RECORD__HUBER ||
           form == FOLD_RECORD__DROPOUT;
}

static void fold_record__read_attr(fold_record__reader *file, fold_record__item *t)
{
    t->n_attr = fold_record__integer(file, 0, 4);
    for (int i = 0; i < t->n_attr; i++) {
        const int is_float = fold_record__is_float(t);
        const uint32_t bits = is_float ? (uint32_t)fold_record__bits(file, UINT32_MAX) : 0;
        float value;
        memcpy(&value, &bits, sizeof value);
        t->attr[i] = is_float ? (double)value : (double)fold_record__integer(file, INT_MIN, INT_MAX);
    }
}

static void fold_record__read_values_of(fold_record__reader *file, fold_record__program *g,
                                        const fold_record__item *t)
{
    const uint64_t rows = t->kind == FOLD_RECORD__LIST ? (uint64_t)(t->rows < 0 ? 0 : t->rows) : 1;
    const uint64_t size = t->n_out ? (uint64_t)fold_record__size(fold_record__out_shape(g, t)) : 0;
    if (rows > FOLD_RECORD__MOST_FLOATS || t->kind > FOLD_RECORD__LIST)
        fold_record__wrong(file, "values are not as they must be");
    else
        fold_record__floats(file, &g->values, &g->n_values, &g->values_room, rows * size);
}

/* Reads what follows a key of an item. */
static void fold_record__read_key(fold_record__reader *file, fold_record__program *g, fold_record__item *t,
                                  int key)
{
    int count;
    switch (key) {
    case FOLD_RECORD__KEY_in:
        t->n_in = fold_record__integer(file, 0, FOLD_MAX_IN); /* the bits of `lists` */
        fold_record__read_shapes(file, g, t->n_in);
        break;
    case FOLD_RECORD__KEY_list:
        t->n_list = fold_record__integer(file, 0, FOLD_MAX_IN - t->n_in);
        fold_record__read_shapes(file, g, t->n_list);
        break;
    case FOLD_RECORD__KEY_out:
        count = fold_record__integer(file, 0, FOLD_MAX_OUT);
        fold_record__read_shapes(file, g, count);
        fold_record__give_ids(file->r, g, count);
        break;
    case FOLD_RECORD__KEY_from: t->n_operands = fold_record__read_operands(file, g, t->id); break;
    case FOLD_RECORD__KEY_lists: t->lists = (uint32_t)fold_record__bits(file, UINT32_MAX); break;
    case FOLD_RECORD__KEY_shared: t->shared = (uint32_t)fold_record__bits(file, UINT32_MAX); break;
    case FOLD_RECORD__KEY_params:
        for (int i = 0; i < 2; i++)
            t->param[i] = fold_record__integer(file, 0, (int)file->r->n_params) - 1;
        break;
    case FOLD_RECORD__KEY_attr: fold_record__read_attr(file, t); break;
    case FOLD_RECORD__KEY_data: t->data = fold_record__bits(file, UINT64_MAX); break;
    case FOLD_RECORD__KEY_index: t->n_index = fold_record__read_index(file, g); break;
    case FOLD_RECORD__KEY_rows: t->rows = fold_record__integer(file, -1, INT_MAX); break;
    case FOLD_RECORD__KEY_sample: t->sample = fold_record__integer(file, -1, (int)g->n_items); break;
    case FOLD_RECORD__KEY_hash: t->hash = fold_record__bits(file, UINT64_MAX); break;
    default: fold_record__read_values_of(file, g, t);
    }
}

/* Checks an item as a whole, so that playing stays inside its arrays. Returns what is wrong, or NULL. */
static const char *fold_record__problem(const fold_record *r, const fold_record__program *g,
                                        const fold_record__item *t)
{
    const fold_record__op *op = t->kind == FOLD_RECORD__OP ? &fold_record__ops[t->which] : NULL;
    const fold_record__cell *cell = t->kind == FOLD_RECORD__CELL ? r->cell[t->which] : NULL;
    const int inputs = t->n_in + t->n_list, calls = op || cell, joins = op && op->form == FOLD_RECORD__COPY;
    const int by_rows = t->lists && t->n_list && !joins, elements = t->n_operands - t->n_in;
    int lists = 0;
    for (int i = 0; i < 32; i++)
        lists += i < inputs && (t->lists >> i & 1);
    if (!t->n_out)
        return "an item has no result";
    if (!calls && (inputs || t->n_operands || t->n_out != 1))
        return "a leaf has inputs";
    if (t->kind == FOLD_RECORD__LIST && t->rows < 0)
        return "a list has no rows";
    if (t->kind == FOLD_RECORD__LOOKUP && t->n_index != (t->rows < 0 ? 1 : t->rows))
        return "a lookup has too few rows";
    if (g != &r->top && (t->n_list || t->lists || (t->kind != FOLD_RECORD__USE && !op)))
        return "an item is not allowed in a body";
    if (t->n_list ? elements < 0 || elements % t->n_list : elements != 0)
        return "the number of operands is wrong";
    if (by_rows && (lists != t->n_list || elements != t->n_list))
        return "the number of lists is wrong";
    if (op && t->n_list && (op->form == FOLD_RECORD__REDUCE ? t->n_in : !by_rows && !joins))
        return "the op has no list";
    if (op && (op->n_in >= 0 ? inputs != op->n_in : inputs < 1))
        return "the number of inputs is wrong";
    if (op && op->form == FOLD_RECORD__LINEAR && t->attr[1] != 0 && inputs < 2)
        return "a product has nothing to start from";
    if (op && t->n_out > 1)
        return "the number of results is wrong";
    if (cell && (t->n_out != cell->n_out || (by_rows ? inputs != cell->n_in || cell->n_list
                                                     : t->n_in != cell->n_in || t->n_list != cell->n_list)))
        return "the cell has other inputs or outputs";
    return NULL;
}

static int fold_record__kind_of(const fold_record__reader *file)
{
    int kind = 0;
    while (kind < FOLD_RECORD__KINDS && !fold_record__is_word(file, fold_record__words[kind]))
        kind++;
    return kind;
}

/* Reads the item that the current word begins. */
static void fold_record__read_item(fold_record__reader *file, fold_record__program *g, int kind)
{
    fold_record *r = file->r;
    fold_record__item *t = fold_record__add(r, g, kind);
    if (!t)
        return;
    const int line = t->line = file->line, end = (int)g->n_ids;
    const size_t nth = g->n_items - 1;
    if (fold_record__integer(file, 0, INT_MAX) != end && !r->result.status)
        fold_record__wrong(file, "ids are not in order");
    if (kind == FOLD_RECORD__OP && fold_record__next(file) &&
        (t->which = fold_record__find_op(file->word)) < 0)
        fold_record__wrong(file, "there is no such op");
    if (kind == FOLD_RECORD__OP && !r->result.status &&
        fold_record__ops[t->which].form == FOLD_RECORD__REFUSED)
        fold_record__wrong(file, "this op cannot be played");
    if (kind == FOLD_RECORD__CELL || kind == FOLD_RECORD__USE || kind == FOLD_RECORD__LOOKUP)
        t->which =
            fold_record__integer(file, 0, (int)(kind == FOLD_RECORD__CELL ? r->n_cells : r->n_params)) - 1;
    if (!r->result.status && t->which < 0)
        fold_record__wrong(file, "a number is not as it must be");
    for (int key = 0; fold_record__next(file) && strcmp(file->word, ";") != 0; key++) {
        while (key < FOLD_RECORD__KEYS && strcmp(fold_record__keys[key], file->word) != 0)
            key++;
        if (key == FOLD_RECORD__KEYS)
            fold_record__wrong(file, "a key is unknown, twice or in the wrong place");
        else
            fold_record__read_key(file, g, &g->item[nth], key);
    }
    const char *problem = r->result.status ? NULL : fold_record__problem(r, g, &g->item[nth]);
    const fold_record__item *made = &g->item[nth];
    const uint64_t size = problem || r->result.status || kind > FOLD_RECORD__LIST
                              ? 0
                              : (uint64_t)fold_record__size(fold_record__out_shape(g, made));
    if (!problem &&
        g->n_values - made->value != size * (uint64_t)(kind == FOLD_RECORD__LIST ? made->rows : 1))
        problem = "values are missing";
    if (problem && !r->result.status)
        fold_record__fail(r, FOLD_BAD_ARGUMENT, line, "line %d: %s", line, problem);
    if (g == &r->top && made->sample >= r->samples)
        r->samples = made->sample + 1;
}

/* Reads outputs or losses: each is an operand and a shape. */
static int fold_record__read_ports(fold_record__reader *file, fold_record__program *g, int most)
{
    const int count = fold_record__integer(file, 0, most);
    for (int i = 0; i < count && !file->r->result.status; i++) {
        if (!FOLD_RECORD__ADD(file->r, g, port, n_ports, ports_room, 1))
            break;
        fold_record__port *port = &g->port[g->n_ports - 1];
        fold_record__operand_of(file, (uint32_t)g->n_ids, &port->at);
        fold_record__shape(file, &port->shape);
    }
    return count;
}

static void fold_record__read_param(fold_record__reader *file)
{
    fold_record *r = file->r;
    size_t n = 0, room = 0;
    if (!FOLD_RECORD__ADD(r, r, param, n_params, params_room, 1))
        return;
    fold_record__param *param = &r->param[r->n_params - 1];
    param->line = file->line;
    fold_record__read_name(file, param->name, sizeof param->name);
    param->uses = fold_record__integer(file, 0, 15);
    fold_record__shape(file, &param->shape);
    if (!fold_record__next(file) || !param->shape.rank)
        return;
    const size_t size = (size_t)fold_record__size(&param->shape), width = size / (size_t)param->shape.dim[0];
    if (fold_record__is_word(file, "values")) {
        fold_record__floats(file, &param->values, &n, &room, size);
    } else if (fold_record__is_word(file, "rows")) {
        const int rows = fold_record__integer(file, 0, param->shape.dim[0]);
        if (size > FOLD_RECORD__MOST_FLOATS - r->floats)
            fold_record__wrong(file, "there are more than 2^26 values");
        r->floats += r->result.status ? 0 : size;
        param->values = r->result.status ? NULL : (float *)calloc(size, sizeof(float));
        if (!param->values && !r->result.status)
            fold_record__fail(r, FOLD_NO_MEMORY, file->line, "no memory");
        for (int i = 0; i < rows && !r->result.status; i++) {
            const int row = fold_record__integer(file, 0, param->shape.dim[0] - 1);
            float *to = NULL;
            n = room = 0;
            if (fold_record__floats(file, &to, &n, &room, width))
                memcpy(param->values + (size_t)row * width, to, width * sizeof *to);
            free(to);
        }
    } else
        fold_record__wrong(file, "values or rows are missing");
    fold_record__expect(file, ";");
}

static void fold_record__read_cell(fold_record__reader *file)
{
    fold_record *r = file->r;
    fold_record__cell *cell = (fold_record__cell *)calloc(1, sizeof *cell);
    if (!cell || !FOLD_RECORD__ADD(r, r, cell, n_cells, cells_room, 1)) {
        fold_record__fail(r, FOLD_NO_MEMORY, file->line, "no memory");
        free(cell);
        return;
    }
    r->cell[r->n_cells - 1] = cell;
    cell->record = r;
    cell->line = file->line;
    cell->body.n_ids = 1;
    fold_record__read_name(file, cell->name, sizeof cell->name);
    fold_record__expect(file, "in");
    cell->n_in = fold_record__integer(file, 0, FOLD_MAX_CELL_IN);
    for (int i = 0; i < cell->n_in; i++)
        fold_record__shape(file, &cell->shape[i]);
    fold_record__expect(file, "list");
    cell->n_list = fold_record__integer(file, 0, FOLD_MAX_LIST);
    for (int i = 0; i < cell->n_list; i++)
        fold_record__shape(file, &cell->shape[cell->n_in + i]);
    fold_record__expect(file, ";");
    fold_record__give_ids(r, &cell->body, cell->n_in + cell->n_list);
    int kind;
    while (fold_record__next(file) && (kind = fold_record__kind_of(file)) < FOLD_RECORD__KINDS)
        fold_record__read_item(file, &cell->body, kind);
    if (!fold_record__is_word(file, "outputs"))
        fold_record__wrong(file, "outputs are missing");
    cell->n_out = fold_record__read_ports(file, &cell->body, FOLD_MAX_OUT);
    fold_record__expect(file, ";");
}

static void fold_record__read_file(fold_record__reader *file)
{
    fold_record *r = file->r;
    int kind;
    r->top.n_ids = 1;
    fold_record__expect(file, "fold_record");
    if (fold_record__integer(file, 0, INT_MAX) != FOLD_RECORD__VERSION)
        fold_record__fail(r, FOLD_BAD_ARGUMENT, file->line,
                          "line %d: version '%.20s' of the format, must be %d", file->line, file->word,
                          (int)FOLD_RECORD__VERSION);
    fold_record__expect(file, "kernels");
    fold_record__read_name(file, r->kernels, sizeof r->kernels);
    fold_record__expect(file, "schedule");
    fold_record__read_name(file, r->schedule, sizeof r->schedule);
    fold_record__expect(file, "training");
    r->training = fold_record__integer(file, 0, 1);
    while (fold_record__next(file)) {
        if (fold_record__is_word(file, "param"))
            fold_record__read_param(file);
        else if (fold_record__is_word(file, "define"))
            fold_record__read_cell(file);
        else
            break;
    }
    for (; (kind = fold_record__kind_of(file)) < FOLD_RECORD__KINDS && !r->result.status;
         fold_record__next(file))
        fold_record__read_item(file, &r->top, kind);
    if (!fold_record__is_word(file, "outputs"))
        fold_record__wrong(file, "an item or outputs are missing");
    fold_record__read_ports(file, &r->top, (int)r->top.n_items * FOLD_MAX_OUT);
    fold_record__expect(file, "losses");
    r->top.n_losses = fold_record__read_ports(file, &r->top, (int)r->top.n_items * FOLD_MAX_OUT);
    fold_record__expect(file, "end");
}

/* Plays everything once without computing it, so that later plays cannot fail. */
static void fold_record__try_to_play(fold_record *r)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = r->training;
    fold_ctx *f = r->result.status || !fold_record__build(r) ? NULL : fold_ctx_new(r->m, &desc);
    r->floats = 0;
#ifdef FOLD_INFERENCE
    if (r->training)
        fold_record__fail(r, FOLD_BAD_STATE, 0,
                          "the recording is of training; compile without FOLD_INFERENCE");
#endif
    if (f)
        fold_record__play(r, f, NULL);
    else
        fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory for a context");
    fold_ctx_free(f);
}

FOLD_API fold_record *fold_record_read(const void *bytes, size_t size, fold_record_result *result)
{
    fold_record_result failed = { FOLD_NO_MEMORY, 0, 0, 0, "record: no memory" };
    fold_record *r = (fold_record *)calloc(1, sizeof *r);
    if (r) {
        fold_record__reader file;
        memset(&file, 0, sizeof file);
        file.r = r;
        file.at = (const char *)bytes;
        file.end = bytes ? file.at + size : file.at;
        file.line = 1;
        fold_record__read_file(&file);
        fold_record__try_to_play(r);
        failed = r->result;
    }
    if (result)
        *result = failed;
    if (!failed.status)
        return r;
    fold_record_free(r);
    return NULL;
}

/* ---- writing a file ---------------------------------------------------------------------------- */

/* What a visitor of fold.h fills: the recording, or a body. */
typedef struct fold_record__writer {
    fold_record *r;
    fold_ctx *f;
    const fold_model *m;
    fold_record__program *program;
    fold_record__cell *cell; /* the cell whose body is visited, or NULL */
    uint32_t *id;            /* by node id of the context: the id in the file, or 0 */
    size_t ids_room;
    fold_cell *called;       /* the handles of r->cell */
    size_t called_room;
    fold_writer *write;      /* of the file */
    void *user;
    int stopped, column;
} fold_record__writer;

static int fold_record__param_of(fold_param p) { return p.id ? (int)p.id - 1 : -1; }

static int fold_record__cell_of(fold_record__writer *w, fold_cell cell)
{
    fold_record *r = w->r;
    for (size_t i = 0; i < r->n_cells; i++)
        if (w->called[i].id == cell.id)
            return (int)i;
    if (!fold_record__grow(r, &w->called, &w->called_room, r->n_cells + 1, sizeof *w->called) ||
        !FOLD_RECORD__ADD(r, r, cell, n_cells, cells_room, 1))
        return -1;
    r->cell[r->n_cells - 1] = (fold_record__cell *)calloc(1, sizeof **r->cell);
    if (!r->cell[r->n_cells - 1]) {
        r->n_cells--;
        fold_record__fail(r, FOLD_NO_MEMORY, 0, "no memory");
        return -1;
    }
    w->called[r->n_cells - 1] = cell;
    return (int)r->n_cells - 1;
}

/* Marks a parameter as used, all of it if `whole` is set. Returns it, or NULL. */
static fold_record__param *fold_record__use(fold_record__writer *w, int param, int uses, int whole)
{
    if (param < 0 || (size_t)param >= w->r->n_params)
        return NULL;
    fold_record__param *p = &w->r->param[param];
    p->used = 1;
    p->uses |= uses;
    p->whole |= whole;
    if (!p->row && !whole)
        p->row = (unsigned char *)calloc((size_t)p->shape.dim[0], 1);
    if (!p->row && !whole)
        fold_record__fail(w->r, FOLD_NO_MEMORY, 0, "no memory");
    return p;
}

static void fold_record__copy_ints(fold_record__writer *w, const int *from, int count)
{
    fold_record__program *g = w->program;
    if (count > 0 && FOLD_RECORD__ADD(w->r, g, index, n_index, index_room, count))
        memcpy(g->index + g->n_index - count, from, (size_t)count * sizeof *from);
}

/* Returns where fold.h stores the rows of each target (see fold__segments_of): their starts and order. */
static const int *fold_record__segments(const int *index, int rows, const int **order)
{
    *order = index[0] ? NULL : index + 1;
    return index + 1 + (index[0] ? 0 : rows);
}

/* Adds the target of each of n rows and, before them, the row that each target chooses. */
static void fold_record__copy_targets(fold_record__writer *w, const int *index, int rows, int targets,
                                      int chooses)
{
    const int *order, *start = fold_record__segments(index, rows, &order);
    const int *choice = index + rows + (targets < 0 ? 1 : targets) + 2;
    for (int target = 0; target < (targets < 0 ? 1 : targets) && chooses; target++) {
        const int at = start[target] + choice[target], label = order ? order[at] : at;
        fold_record__copy_ints(w, &label, 1);
    }
    if (targets < 0)
        return;
    const size_t first = w->program->n_index;
    if (rows && !FOLD_RECORD__ADD(w->r, w->program, index, n_index, index_room, rows))
        return;
    for (int target = 0; rows && start[target] < rows; target++)
        for (int at = start[target]; at < start[target + 1]; at++)
            w->program->index[first + (size_t)(order ? order[at] : at)] = target;
}

/* Adds the edges of attention (see fold__adjacency_of): from, then to, query by query. */
static void fold_record__copy_edges(fold_record__writer *w, const int *start, int queries)
{
    const int edges = start[queries];
    fold_record__copy_ints(w, start + queries + 1, edges);
    for (int query = 0; query < queries; query++)
        for (int at = start[query]; at < start[query + 1]; at++)
            fold_record__copy_ints(w, &query, 1);
}

/* Copies the indices of a call or a lookup from where fold.h stores them. */
static void fold_record__copy_index(fold_record__writer *w, const fold_seen *seen, fold_record__item *t,
                                    int rows)
{
    const int *index = (const int *)seen->index;
    const size_t before = w->program->n_index;
    const fold_record__form form =
        t->kind == FOLD_RECORD__OP ? fold_record__ops[t->which].form : FOLD_RECORD__TAKE;
    t->index = before;
    if (rows < 0 &&
        (form == FOLD_RECORD__SOFTMAX || form == FOLD_RECORD__REDUCE || form == FOLD_RECORD__OVER ||
         form == FOLD_RECORD__ENTROPY || form == FOLD_RECORD__CHOICE)) {
        fold_record__fail(w->r, FOLD_BAD_STATE, 0, "%.60s reads a list of unknown length", seen->name);
        return;
    }
    switch (form) {
    case FOLD_RECORD__INDEX:
        for (int row = 0; row < t->rows; row++) {
            const int label = (int)((const uint64_t *)seen->index)[row];
            fold_record__copy_ints(w, &label, 1);
        }
        break;
    case FOLD_RECORD__TAKE: fold_record__copy_ints(w, index, t->rows); break;
    case FOLD_RECORD__SOFTMAX: fold_record__copy_targets(w, index, rows, rows, 0); break;
    case FOLD_RECORD__REDUCE:
    case FOLD_RECORD__OVER:
    case FOLD_RECORD__ENTROPY: fold_record__copy_targets(w, index, rows, t->rows, 0); break;
    case FOLD_RECORD__CHOICE: fold_record__copy_targets(w, index, rows, t->rows, 1); break;
    case FOLD_RECORD__ATTENTION:
        if ((int)seen->attr[1] < 2)
            return;
        fold_record__copy_edges(w, index, t->rows);
        break;
    default: return;
    }
    t->n_index = (int)(w->program->n_index - before);
}

/* Copies operands, with the context's ids for now. Returns the number of rows of the first list, or -1. */
static int fold_record__copy_operands(fold_record__writer *w, const fold_seen *seen, fold_record__item *t)
{
    fold_record__program *g = w->program;
    int rows = -1;
    t->n_operands = seen->n_operands;
    if (!FOLD_RECORD__ADD(w->r, g, operands, n_operands, operands_room, seen->n_operands))
        return -1;
    for (int i = 0; i < seen->n_operands; i++) {
        fold_record__operand *to = &g->operands[t->operand + (size_t)i];
        to->id = seen->operand[i];
        to->offset = seen->offset[i] & 0x7fffffffu;
        to->whole = (int)(seen->offset[i] >> 31);
        const uint32_t at = to->id < w->ids_room ? w->id[to->id] : 0;
        if (to->whole && at && rows < 0)
            rows = g->item[at - 1].length;
    }
    return rows;
}

static void fold_record__copy_shapes(fold_record__writer *w, const fold_shape *const *shape, int count)
{
    fold_record__program *g = w->program;
    for (int i = 0; i < count && FOLD_RECORD__ADD(w->r, g, shapes, n_shapes, shapes_room, 1); i++)
        g->shapes[g->n_shapes - 1] = *shape[i];
}

/* Notes which item has a node of the context, whose ids need not be dense. */
static void fold_record__note_node(fold_record__writer *w, uint32_t id, int n_out)
{
    if (fold_record__grow(w->r, &w->id, &w->ids_room, (size_t)id + (size_t)n_out, sizeof *w->id))
        for (int out = 0; out < n_out; out++)
            w->id[id + (uint32_t)out] = (uint32_t)w->program->n_items;
}

/* Adds an item for a parameter, before the op of a body that reads it. Returns its place as an id. */
static void fold_record__see_param(fold_record__writer *w, uint32_t id, fold_param param)
{
    const int which = fold_record__param_of(param);
    fold_record__item *t = fold_record__add(w->r, w->program, FOLD_RECORD__USE);
    if (!t || which < 0 || (size_t)which >= w->r->n_params)
        return;
    t->which = which;
    t->n_out = 1;
    t->id = id;
    const fold_shape *shape = &w->r->param[which].shape;
    fold_record__copy_shapes(w, &shape, 1);
    fold_record__use(w, which, 0, 1);
}

static void fold_record__see_leaf(fold_record__writer *w, const fold_seen *seen)
{
    const int is_param = !seen->n_in && !seen->n_list && seen->param[0].id != 0;
    fold_record__item *t = fold_record__add(w->r, w->program, FOLD_RECORD__INPUT);
    if (!t)
        return;
    t->kind = !is_param       ? seen->rows < 0 ? FOLD_RECORD__INPUT : FOLD_RECORD__LIST
              : seen->row < 0 ? FOLD_RECORD__USE
                              : FOLD_RECORD__LOOKUP;
    t->which = is_param ? fold_record__param_of(seen->param[0]) : 0;
    t->n_out = 1;
    t->id = seen->node.id;
    t->node = seen->node;
    t->sample = seen->sample;
    t->rows = t->length = seen->rows;
    fold_record__copy_shapes(w, seen->out, 1);
    fold_record__note_node(w, seen->node.id, 1);
    if (t->kind == FOLD_RECORD__USE)
        fold_record__use(w, t->which, 0, 1);
    if (t->kind != FOLD_RECORD__LOOKUP)
        return;
    if (seen->rows < 0)
        fold_record__copy_ints(w, &seen->row, 1);
    else
        fold_record__copy_index(w, seen, t, seen->rows);
    t->n_index = seen->rows < 0 ? 1 : seen->rows;
    const fold_record__param *table = fold_record__use(w, t->which, FOLD_FOR_LOOKUP, 0);
    for (int i = 0; i < t->n_index && !w->r->result.status; i++)
        table->row[w->program->index[t->index + (size_t)i]] = 1;
}

static int fold_record__refuse(fold_record__writer *w, const fold_seen *seen)
{
    const int op = seen->is_cell || seen->user_op ? -1 : fold_record__find_op(seen->name);
    if (seen->is_cell || (op >= 0 && fold_record__ops[op].form != FOLD_RECORD__REFUSED))
        return 0;
    fold_record__fail(w->r, FOLD_BAD_ARGUMENT, 0, "%.60s cannot be written: %s", seen->name,
                      seen->user_op ? "the code of a user-defined op is not in the recording"
                      : op >= 0
                          ? "the rows of its cache are not in the recording; use fold_list_attention or "
                            "fold_conv1d"
                          : "fold_record.h does not know this op");
    return 1;
}

/* Whether the data of a call are its own, and not a place in the memory of fold.h. */
static int fold_record__has_data(const fold_record__item *t)
{
    return t->kind == FOLD_RECORD__CELL || fold_record__is(t, FOLD_RECORD__DATA) ||
           fold_record__is(t, FOLD_RECORD__INDEX) || fold_record__is(t, FOLD_RECORD__DROPOUT);
}

static void fold_record__see_call(fold_record__writer *w, const fold_seen *seen)
{
    fold_record *r = w->r;
    fold_record__program *g = w->program;
    if (fold_record__refuse(w, seen))
        return;
    for (int i = 0; i < seen->n_operands && w->cell; i++)
        if (seen->operand[i] >> 31)
            fold_record__see_param(w, seen->operand[i],
                                   fold_param_at(w->m, (int)(seen->operand[i] & 0x7fffffffu)));
    const int which =
        seen->is_cell ? fold_record__cell_of(w, seen->called) : fold_record__find_op(seen->name);
    fold_record__item *t =
        which < 0 ? NULL : fold_record__add(r, g, seen->is_cell ? FOLD_RECORD__CELL : FOLD_RECORD__OP);
    if (!t)
        return;
    t->which = which;
    t->id = seen->node.id;
    t->node = seen->node;
    t->n_in = seen->n_in;
    t->n_list = seen->n_list;
    t->n_out = seen->is_cell ? seen->n_out : 1; /* attention has one more, which only its gradient reads */
    t->shared = seen->shared;
    t->lists = seen->lists;
    t->sample = seen->sample;
    t->rows = t->length = seen->rows;
    t->data = fold_record__has_data(t) && !seen->index ? seen->data : 0;
    t->n_attr = seen->n_attr;
    memcpy(t->attr, seen->attr, sizeof t->attr);
    fold_record__copy_shapes(w, seen->in, seen->n_in + seen->n_list);
    fold_record__copy_shapes(w, seen->out, t->n_out);
    const int rows = fold_record__copy_operands(w, seen, t);
    if (t->length < 0 && seen->n_list && seen->lists)
        t->length = rows;
    fold_record__note_node(w, seen->node.id, seen->n_out);
    if (seen->index)
        fold_record__copy_index(w, seen, t, rows);
    for (int i = 0; i < 2 && !seen->is_cell; i++)
        t->param[i] = fold_record__param_of(seen->param[i]);
    const int conv =
        fold_record__is(t, FOLD_RECORD__CONV) ||
        (t->param[0] >= 0 && (size_t)t->param[0] < r->n_params && r->param[t->param[0]].shape.rank > 2);
    fold_record__use(w, t->param[0],
                     conv              ? FOLD_FOR_CONV
                     : t->attr[0] != 0 ? FOLD_FOR_LINEAR_T
                                       : FOLD_FOR_LINEAR,
                     1);
    fold_record__use(w, t->param[1], 0, 1);
}

/* The visitor of fold_ctx_visit and fold_cell_visit. */
static int fold_record__see(const fold_seen *seen, void *user)
{
    fold_record__writer *w = (fold_record__writer *)user;
    fold_record *r = w->r;
    if (seen->what == FOLD_SEEN_LEAF)
        fold_record__see_leaf(w, seen);
    else if (seen->what == FOLD_SEEN_CALL)
        fold_record__see_call(w, seen);
    else if (!w->cell) {
        r->training = seen->backward;
        snprintf(r->schedule, sizeof r->schedule, "%s", seen->name ? seen->name : "none");
    } else {
        snprintf(w->cell->name, sizeof w->cell->name, "%s", seen->name);
        w->cell->n_in = seen->n_in;
        w->cell->n_list = seen->n_list;
        w->cell->n_out = seen->n_out;
        for (int i = 0; i < seen->n_in + seen->n_list; i++)
            w->cell->shape[i] = *seen->in[i];
        for (int i = 0; i < seen->n_out && FOLD_RECORD__ADD(r, w->program, port, n_ports, ports_room, 1);
             i++) {
            w->program->port[i].at.id = seen->operand[i];
            w->program->port[i].shape = *seen->out[i];
        }
    }
    return r->result.status != FOLD_OK;
}

static int fold_record__by_id(const void *one, const void *other)
{
    const uint32_t a = ((const fold_record__item *)one)->id, b = ((const fold_record__item *)other)->id;
    return a < b ? -1 : a > b;
}

/* Returns the id of a parameter that item `before` of a body reads. */
static uint32_t fold_record__used_at(const fold_record__program *g, uint32_t param, size_t before)
{
    while (before-- > 0)
        if (g->item[before].kind == FOLD_RECORD__USE && g->item[before].which == (int)(param & 0x7fffffffu))
            return g->item[before].id;
    return 0;
}

/* Numbers the values of a program densely, and makes its operands refer to these numbers. */
static void fold_record__number(fold_record__writer *w, int inputs)
{
    fold_record__program *g = w->program;
    const size_t n_items = g->n_items;
    if (!w->cell && n_items)
        qsort(g->item, n_items, sizeof *g->item, fold_record__by_id);
    if (w->ids_room)
        memset(w->id, 0, w->ids_room * sizeof *w->id);
    if (!fold_record__grow(w->r, &w->id, &w->ids_room, (size_t)inputs + 1, sizeof *w->id))
        return;
    g->n_items = 0;
    g->n_ids = 1;
    fold_record__give_ids(w->r, g, inputs);
    for (int i = 1; i <= inputs; i++)
        w->id[i] = (uint32_t)i;
    for (size_t i = 0; i < n_items; i++) {
        fold_record__item *t = &g->item[i];
        const uint32_t id = t->id, used = id >> 31;
        for (int at = 0; at < t->n_operands; at++) {
            fold_record__operand *operand = &g->operands[t->operand + (size_t)at];
            operand->id = operand->id >> 31           ? fold_record__used_at(g, operand->id, i)
                          : operand->id < w->ids_room ? w->id[operand->id]
                                                      : 0;
            if (!operand->id)
                fold_record__fail(w->r, FOLD_BAD_STATE, 0, "%.60s reads a value that is not in the plan",
                                  fold_record__name(w->r, t));
        }
        g->n_items++;
        t->id = (uint32_t)g->n_ids;
        if (!used &&
            fold_record__grow(w->r, &w->id, &w->ids_room, (size_t)id + (size_t)t->n_out, sizeof *w->id))
            for (int out = 0; out < t->n_out; out++)
                w->id[id + (uint32_t)out] = t->id + (uint32_t)out;
        fold_record__give_ids(w->r, g, t->n_out);
    }
}

/* Finds the value of which a node is a part: by its id or, for a view, by where its floats are. */
static int fold_record__locate(fold_record__writer *w, fold_node x, fold_record__port *port)
{
    const fold_record__program *g = &w->r->top;
    const float *at = fold_value(w->f, x);
    const int rows = fold_list_length(w->f, x);
    memset(port, 0, sizeof *port);
    port->shape = fold_node_shape(w->f, x);
    port->node = x;
    port->at.whole = rows >= 0;
    port->at.id = port->shape.rank && x.id < w->ids_room ? w->id[x.id] : 0;
    const size_t size = (size_t)fold_record__size(&port->shape);
    for (size_t i = 0; i < g->n_items && at && !port->at.id; i++)
        for (int out = 0; out < g->item[i].n_out; out++) {
            const fold_shape *shape = fold_record__out_shape(g, &g->item[i]) + out;
            const size_t width = (size_t)fold_record__size(shape);
            fold_node from = g->item[i].node;
            from.id += (uint32_t)out;
            const float *values = fold_value(w->f, from);
            const int length = fold_list_length(w->f, from);
            const size_t floats = width * (size_t)(length < 0 ? 1 : length);
            const uintptr_t first = (uintptr_t)values, place = (uintptr_t)at; /* of any two arrays */
            if (!values || place < first || place + size * sizeof *at > first + floats * sizeof *at ||
                (rows >= 0 && (at != values || size != width || length != rows)))
                continue;
            port->at.id = g->item[i].id + (uint32_t)out;
            port->at.offset = (uint32_t)(at - values);
            break;
        }
    return port->at.id ||
           fold_record__fail(w->r, FOLD_BAD_STATE, 0,
                             "an output or loss is not in the plan; call fold_run or fold_backward "
                             "before, and name whole values or views of nodes");
}

static void fold_record__add_port(fold_record__writer *w, fold_node x)
{
    fold_record *r = w->r;
    fold_record__port port;
    if (!r->result.status && fold_record__locate(w, x, &port) &&
        FOLD_RECORD__ADD(r, &r->top, port, n_ports, ports_room, 1))
        r->top.port[r->top.n_ports - 1] = port;
}

/* Makes all results that nothing reads outputs. */
static void fold_record__default_outputs(fold_record__writer *w)
{
    const fold_record__program *g = &w->r->top;
    unsigned char *read = (unsigned char *)calloc(g->n_ids + 1, 1);
    if (!read)
        fold_record__fail(w->r, FOLD_NO_MEMORY, 0, "no memory");
    for (size_t i = 0; i < g->n_operands && read; i++)
        read[g->operands[i].id] = 1;
    for (size_t i = 0; i < g->n_items && read; i++) {
        const fold_record__item *t = &g->item[i];
        int reads = t->kind < FOLD_RECORD__OP;
        for (int out = 0; out < t->n_out; out++)
            reads |= read[t->id + (uint32_t)out];
        for (int out = 0; out < t->n_out && !reads; out++) {
            fold_node x = t->node;
            x.id += (uint32_t)out;
            fold_record__add_port(w, x);
        }
    }
    free(read);
}

static void fold_record__find_outputs(fold_record__writer *w, const fold_record_desc *desc)
{
    fold_record *r = w->r;
    if (desc->n_losses && !r->training)
        fold_record__fail(r, FOLD_BAD_STATE, 0, "losses need a context with `training`");
    if (desc->n_outputs < 0 || desc->n_losses < 0 || (desc->n_losses && !desc->losses))
        fold_record__fail(r, FOLD_BAD_ARGUMENT, 0, "outputs or losses are NULL, or their number is negative");
    for (int i = 0; i < desc->n_outputs && desc->outputs; i++)
        fold_record__add_port(w, desc->outputs[i]);
    if (!desc->outputs && !r->result.status)
        fold_record__default_outputs(w);
    for (int i = 0; i < desc->n_losses && !r->result.status; i++)
        fold_record__add_port(w, desc->losses[i]);
    r->top.n_losses = r->result.status ? 0 : desc->n_losses;
}

/* Returns the hash of what the context has of a call. */
static uint64_t fold_record__hash_seen(fold_record__writer *w, const fold_record__item *t)
{
    fold_node node[FOLD_MAX_OUT];
    for (int out = 0; out < t->n_out; out++) {
        node[out] = t->node;
        node[out].id += (uint32_t)out;
    }
    return fold_record__hash_item(w->f, &w->r->top, t, node);
}

/* Visits the recording. */
static void fold_record__visit(fold_record__writer *w)
{
    fold_record *r = w->r;
    if (!FOLD_RECORD__ADD(r, r, param, n_params, params_room, fold_param_count(w->m)))
        return;
    for (size_t i = 0; i < r->n_params; i++) {
        const fold_param p = fold_param_at(w->m, (int)i);
        snprintf(r->param[i].name, sizeof r->param[i].name, "%s", fold_param_name(w->m, p));
        r->param[i].shape = fold_param_shape(w->m, p);
        r->param[i].from = fold_param_value(w->m, p);
    }
    w->program = &r->top;
    r->top.n_ids = 1;
    fold_status status = fold_ctx_visit(w->f, fold_record__see, w);
    if (status && !r->result.status)
        fold_record__fail(r, status, 0, "the context cannot be visited: %s%s", fold_status_text(status),
                          status == FOLD_NO_MEMORY ? "; its block needs 40 bytes more per node" : "");
    if (!r->result.status)
        fold_record__number(w, 0);
    for (size_t i = 0; i < r->top.n_items && !r->result.status; i++)
        if (r->top.item[i].kind >= FOLD_RECORD__OP)
            r->top.item[i].hash = fold_record__hash_seen(w, &r->top.item[i]);
}

static void fold_record__visit_cells(fold_record__writer *w)
{
    fold_record *r = w->r;
    for (size_t i = 0; i < r->n_cells && !r->result.status; i++) {
        w->cell = r->cell[i];
        w->program = &w->cell->body;
        w->program->n_ids = 1;
        if (w->ids_room)
            memset(w->id, 0, w->ids_room * sizeof *w->id);
        const fold_status status = fold_cell_visit(w->m, w->called[i], fold_record__see, w);
        if (status && !r->result.status)
            fold_record__fail(r, status, 0, "a cell cannot be visited");
        if (r->result.status)
            break;
        fold_record__number(w, w->cell->n_in + w->cell->n_list);
        for (size_t port = 0; port < w->program->n_ports && !r->result.status; port++)
            w->program->port[port].at.id = w->id[w->program->port[port].at.id];
    }
    for (size_t i = 0; i < r->n_params && !r->result.status; i++)
        if (r->param[i].used && !r->param[i].from)
            fold_record__fail(r, FOLD_BAD_STATE, 0,
                              "parameter '%.60s' is quantised; write before fold_model_quantize",
                              r->param[i].name);
        else if (r->param[i].used &&
                 strlen(fold_param_name(w->m, fold_param_at(w->m, (int)i))) >= FOLD_RECORD__NAME)
            fold_record__fail(r, FOLD_BAD_ARGUMENT, 0, "the name of parameter '%.60s' has over %d bytes",
                              r->param[i].name, FOLD_RECORD__NAME - 1);
}

/* -- text -- */

static void fold_record__bytes(fold_record__writer *w, const char *text, size_t size)
{
    if (!w->stopped && size)
        w->stopped = (w->write)(text, size, w->user) != 0;
}

/* Writes a word. Lines are broken before they exceed 100 columns. */
static void fold_record__word(fold_record__writer *w, const char *word)
{
    const int length = (int)strlen(word);
    if (w->column && w->column + 1 + length > 100) {
        fold_record__bytes(w, "\n ", 2);
        w->column = 1;
    } else if (w->column)
        fold_record__bytes(w, " ", 1);
    fold_record__bytes(w, word, (size_t)length);
    w->column += 1 + length;
}

static void fold_record__line(fold_record__writer *w)
{
    fold_record__bytes(w, "\n", 1);
    w->column = 0;
}

static void fold_record__int(fold_record__writer *w, const char *key, int number)
{
    char text[32];
    if (key)
        fold_record__word(w, key);
    snprintf(text, sizeof text, "%d", number);
    fold_record__word(w, text);
}

static void fold_record__hex(fold_record__writer *w, const char *key, uint64_t bits)
{
    char text[32], *at = text + sizeof text;
    if (key)
        fold_record__word(w, key);
    *--at = 0;
    do
        *--at = "0123456789abcdef"[bits & 15];
    while (bits >>= 4);
    fold_record__word(w, at);
}

static void fold_record__put_name(fold_record__writer *w, const char *key, const char *name)
{
    char text[3 * FOLD_RECORD__NAME + 1];
    size_t n = 0;
    for (; *name && n + 4 < sizeof text; name++) {
        const unsigned byte = (unsigned char)*name;
        if (byte > ' ' && byte <= '~' && byte != '%' && byte != '#' && byte != ';')
            text[n++] = *name;
        else
            n += (size_t)snprintf(text + n, 4, "%%%02x", byte);
    }
    text[n] = 0;
    fold_record__word(w, key);
    fold_record__word(w, n ? text : "?"); /* a cell may have an empty name */
}

static void fold_record__put_shape(fold_record__writer *w, const fold_shape *shape)
{
    char text[64];
    fold_record__shape_text(shape, text);
    fold_record__word(w, text);
}

static void fold_record__put_operand(fold_record__writer *w, const fold_record__operand *operand)
{
    char text[64], offset[32] = "";
    if (operand->offset)
        snprintf(offset, sizeof offset, "+%u", (unsigned)operand->offset);
    snprintf(text, sizeof text, "%u%s%s", (unsigned)operand->id, offset, operand->whole ? "*" : "");
    fold_record__word(w, text);
}

/* Writes floats as bits; n equal ones as one word. */
static void fold_record__put_floats(fold_record__writer *w, const float *values, size_t count)
{
    for (size_t i = 0, same; i < count; i += same) {
        uint32_t bits, next;
        char text[64];
        memcpy(&bits, &values[i], sizeof bits);
        for (same = 1; i + same < count; same++) {
            memcpy(&next, &values[i + same], sizeof next);
            if (next != bits)
                break;
        }
        snprintf(text, sizeof text, same > 1 ? "%lx*%lu" : "%lx", (unsigned long)bits, (unsigned long)same);
        fold_record__word(w, text);
    }
}

static void fold_record__put_param(fold_record__writer *w, const fold_record__param *param)
{
    const size_t size = (size_t)fold_record__size(&param->shape);
    const size_t rows = (size_t)param->shape.dim[0], width = size / rows;
    int n = 0;
    fold_record__put_name(w, "param", param->name);
    fold_record__int(w, NULL, param->uses ? param->uses : param->shape.rank == 2 ? FOLD_FOR_LOOKUP : 0);
    fold_record__put_shape(w, &param->shape);
    for (size_t row = 0; row < rows && !param->whole; row++)
        n += param->row[row];
    if (!param->whole)
        fold_record__int(w, "rows", n);
    for (size_t row = 0; row < rows && !param->whole; row++)
        if (param->row[row]) {
            fold_record__int(w, NULL, (int)row);
            fold_record__put_floats(w, param->from + row * width, width);
        }
    if (param->whole) {
        fold_record__word(w, "values");
        fold_record__put_floats(w, param->from, size);
    }
    fold_record__word(w, ";");
    fold_record__line(w);
}

static void fold_record__put_shapes(fold_record__writer *w, const char *key, const fold_shape *shape,
                                    int count)
{
    fold_record__int(w, key, count);
    for (int i = 0; i < count; i++)
        fold_record__put_shape(w, &shape[i]);
}

/* The number of a parameter in the file, from 1 on: only parameters that are used are in it. */
static int fold_record__number_of(const fold_record *r, int param)
{
    int number = 0;
    for (int i = 0; i <= param; i++)
        number += r->param[i].used;
    return param < 0 ? 0 : number;
}

static void fold_record__put_attr(fold_record__writer *w, const fold_record__item *t)
{
    int params = 0;
    for (int i = 0; i < 2; i++)
        params |= t->param[i] >= 0;
    if (params) {
        fold_record__int(w, "params", fold_record__number_of(w->r, t->param[0]));
        fold_record__int(w, NULL, fold_record__number_of(w->r, t->param[1]));
    }
    if (t->n_attr)
        fold_record__int(w, "attr", t->n_attr);
    for (int i = 0; i < t->n_attr; i++) {
        const float value = (float)t->attr[i];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (fold_record__is_float(t))
            fold_record__hex(w, NULL, bits);
        else
            fold_record__int(w, NULL, (int)t->attr[i]);
    }
    if (t->data)
        fold_record__hex(w, "data", t->data);
}

static void fold_record__put_item(fold_record__writer *w, const fold_record__program *g,
                                  const fold_record__item *t)
{
    const fold_shape *shape = &g->shapes[t->shape];
    const int rows = t->rows < 0 ? 1 : t->rows;
    fold_record__int(w, fold_record__words[t->kind], (int)t->id);
    if (t->kind == FOLD_RECORD__OP)
        fold_record__word(w, fold_record__ops[t->which].name);
    else if (t->kind > FOLD_RECORD__LIST)
        fold_record__int(w, NULL,
                         t->kind == FOLD_RECORD__CELL ? t->which + 1
                                                      : fold_record__number_of(w->r, t->which));
    if (t->n_in)
        fold_record__put_shapes(w, "in", shape, t->n_in);
    if (t->n_list)
        fold_record__put_shapes(w, "list", shape + t->n_in, t->n_list);
    fold_record__put_shapes(w, "out", shape + t->n_in + t->n_list, t->n_out);
    if (t->n_operands)
        fold_record__int(w, "from", t->n_operands);
    for (int i = 0; i < t->n_operands; i++)
        fold_record__put_operand(w, &g->operands[t->operand + (size_t)i]);
    if (t->lists)
        fold_record__hex(w, "lists", t->lists);
    if (t->shared)
        fold_record__hex(w, "shared", t->shared);
    fold_record__put_attr(w, t);
    if (t->n_index >= 0)
        fold_record__int(w, "index", t->n_index);
    for (int i = 0; i < t->n_index; i++)
        fold_record__int(w, NULL, g->index[t->index + (size_t)i]);
    if (t->rows >= 0)
        fold_record__int(w, "rows", t->rows);
    if (t->sample >= 0)
        fold_record__int(w, "sample", t->sample);
    if (t->hash)
        fold_record__hex(w, "hash", t->hash);
    if (t->kind <= FOLD_RECORD__LIST) {
        const float *values = fold_value(w->f, t->node);
        fold_record__word(w, "values");
        if (values)
            fold_record__put_floats(w, values, (size_t)rows * (size_t)fold_record__size(shape));
        else
            fold_record__fail(w->r, FOLD_BAD_STATE, 0, "the value of a leaf cannot be read: %.100s",
                              fold_ctx_message(w->f));
    }
    fold_record__word(w, ";");
    fold_record__line(w);
}

static void fold_record__put_ports(fold_record__writer *w, const char *key, const fold_record__port *port,
                                   int count)
{
    fold_record__int(w, key, count);
    for (int i = 0; i < count; i++) {
        fold_record__put_operand(w, &port[i].at);
        fold_record__put_shape(w, &port[i].shape);
    }
}

static void fold_record__put_cell(fold_record__writer *w, const fold_record__cell *cell)
{
    fold_record__put_name(w, "define", cell->name);
    fold_record__put_shapes(w, "in", cell->shape, cell->n_in);
    fold_record__put_shapes(w, "list", cell->shape + cell->n_in, cell->n_list);
    fold_record__word(w, ";");
    fold_record__line(w);
    for (size_t i = 0; i < cell->body.n_items; i++)
        fold_record__put_item(w, &cell->body, &cell->body.item[i]);
    fold_record__put_ports(w, "outputs", cell->body.port, cell->n_out);
    fold_record__word(w, ";");
    fold_record__line(w);
}

static void fold_record__put_file(fold_record__writer *w)
{
    static const char note[] = "# a recording of fold.h " FOLD_VERSION "; examples/replay.c plays it\n";
    fold_record *r = w->r;
    fold_record__int(w, "fold_record", FOLD_RECORD__VERSION);
    fold_record__put_name(w, "kernels", fold_model_isa(w->m));
    fold_record__put_name(w, "schedule", r->schedule);
    fold_record__int(w, "training", r->training);
    fold_record__line(w);
    fold_record__bytes(w, note, sizeof note - 1);
    for (size_t i = 0; i < r->n_params; i++)
        if (r->param[i].used)
            fold_record__put_param(w, &r->param[i]);
    for (size_t i = 0; i < r->n_cells; i++)
        fold_record__put_cell(w, r->cell[i]);
    for (size_t i = 0; i < r->top.n_items && !r->result.status; i++)
        fold_record__put_item(w, &r->top, &r->top.item[i]);
    fold_record__put_ports(w, "outputs", r->top.port, fold_record__outputs(r));
    fold_record__line(w);
    fold_record__put_ports(w, "losses", r->top.port + fold_record__outputs(r), r->top.n_losses);
    fold_record__line(w);
    fold_record__word(w, "end");
    fold_record__line(w);
    if (w->stopped)
        fold_record__fail(r, FOLD_IO, 0, "the writer stopped");
}

FOLD_API fold_record_desc fold_record_desc_default(void)
{
    fold_record_desc desc;
    memset(&desc, 0, sizeof desc);
    return desc;
}

FOLD_API fold_record_result fold_record_write(fold_ctx *f, const fold_record_desc *desc, fold_writer *write,
                                              void *user)
{
    static const fold_record_result none = { FOLD_BAD_ARGUMENT, 0, 0, 0, "record: f or write is NULL" };
    static const fold_record_result full = { FOLD_NO_MEMORY, 0, 0, 0, "record: no memory" };
    const fold_record_desc zero = fold_record_desc_default();
    fold_record__writer w;
    if (!f || !write)
        return none;
    memset(&w, 0, sizeof w);
    w.r = (fold_record *)calloc(1, sizeof *w.r);
    if (!w.r)
        return full;
    w.f = f;
    w.m = fold_ctx_model(f);
    w.write = write;
    w.user = user;
    if (fold_ctx_status(f))
        fold_record__fail(w.r, fold_ctx_status(f), 0, "the context has an error: %.150s",
                          fold_ctx_message(f));
    if (!w.r->result.status)
        fold_record__visit(&w);
    if (!w.r->result.status)
        fold_record__find_outputs(&w, desc ? desc : &zero);
    if (!w.r->result.status)
        fold_record__visit_cells(&w);
    if (!w.r->result.status)
        fold_record__put_file(&w);
    const fold_record_result result = w.r->result;
    free(w.id);
    free(w.called);
    fold_record_free(w.r);
    return result;
}
#endif /* FOLD_RECORD_IMPLEMENTATION */
