/* fold_draw.h - draws pictures and timelines of a context's run, using fold_ctx_visit.

   In one C or C++ file:  #define FOLD_DRAW_IMPLEMENTATION
                          #include "fold_draw.h"

       fold_run(f, &loss, 1);
       fold_draw_svg(f, fold_to_file, stdout);

   A picture shows the plan of the last run or, if something was recorded since, the recording by depth, like
   fold_ctx_print. Draw a picture if the batches are not as you expect, or a timeline if a run takes long.

   All calls return FOLD_OK, FOLD_IO if the writer stopped, FOLD_BAD_ARGUMENT if f is NULL, or FOLD_NO_MEMORY.
   While a picture is being written, it needs about 60 bytes per node from malloc. The calls also work in a
   context with an error, and do not change its status. The writer may use the context. There are no globals.
   The file compiles as C99 and C++17. With FOLD_NO_TEXT, contexts cannot be visited, and nothing is declared.

   The file is also an example of a visitor: fold_draw__take copies what it needs from each call, and all
   other code reads the copy. */

#ifndef FOLD_DRAW_H
#define FOLD_DRAW_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_draw.h needs fold.h 0.4.0 or later"
#endif
#ifndef FOLD_NO_TEXT

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a graph for Graphviz's dot, with one cluster per batch, coloured by kind of call. */
FOLD_API fold_status fold_draw_dot(fold_ctx *f, fold_writer *write, void *user);

/* Writes a self-contained SVG picture: one column per batch, coloured by kind of call. It has a legend and at
   most 64 rows. If there are more samples, only the first ones are drawn, and the calls of the others are
   only counted. */
FOLD_API fold_status fold_draw_svg(fold_ctx *f, fold_writer *write, void *user);

/* Writes a timeline as JSON in the Trace Event Format, which Perfetto and chrome://tracing display. It shows
   when the last run since the reset was planned, and when each of its batches ran, forward and backward, with
   its calls and group. With fold_ctx_desc.trace_over_ns it shows the last slow run. tid is the thread, and
   times are in microseconds since the run began. "dropped" in otherData is the number of events that did not
   fit into fold_ctx_desc.trace_bytes. Without trace_bytes or a clock, and in eager contexts, there are no
   events. Nothing is allocated. */
FOLD_API fold_status fold_draw_trace(fold_ctx *f, fold_writer *write, void *user);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_NO_TEXT */
#endif /* FOLD_DRAW_H */

#if defined(FOLD_DRAW_IMPLEMENTATION) && !defined(FOLD__DRAW_IMPLEMENTED) && !defined(FOLD_NO_TEXT)
#define FOLD__DRAW_IMPLEMENTED
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---------------------------------------------------------------------------------- */

enum { FOLD_DRAW__JSON, FOLD_DRAW__XML }; /* how to escape names; dot uses JSON's escapes */
typedef struct fold_draw__text {
    fold_writer *write;
    void *user;
    int quote, stopped;
} fold_draw__text;

static void fold_draw__bytes(fold_draw__text *text, const char *from, size_t count)
{
    if (count && !text->stopped)
        text->stopped = (text->write)(from, count, text->user);
}

/* Writes formatted text of at most 299 bytes. Write names, which may be longer, with fold_draw__name. */
static void fold_draw__put(fold_draw__text *text, const char *format, ...)
{
    char buffer[300];
    va_list args;
    va_start(args, format);
    const int count = fold_format(buffer, sizeof buffer, format, args);
    va_end(args);
    if (count > 0)
        fold_draw__bytes(text, buffer, (size_t)count < sizeof buffer ? (size_t)count : sizeof buffer - 1);
}

/* Returns the length in bytes of the UTF-8 sequence at the start of the text (Unicode 15, table 3-7), or 0 if
   it is not valid UTF-8. */
static int fold_draw__utf8(const char *from)
{
    const unsigned char *bytes = (const unsigned char *)from;
    const int lead = bytes[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    const int count = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const int least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const int most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < least || bytes[1] > most)
        return 0;
    for (int i = 2; i < count; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    return count;
}

/* Whether the bytes are U+FFFE or U+FFFF, which XML does not allow (XML 1.0, section 2.2). */
static int fold_draw__is_no_xml(const char *from)
{
    return !strncmp(from, "\xef\xbf\xbe", 3) || !strncmp(from, "\xef\xbf\xbf", 3);
}

/* Writes the first `characters` of a name, made safe inside quotes: special characters are escaped. Bytes
   that are not UTF-8, and characters that XML does not allow, are replaced with '?'. */
enum { FOLD_DRAW__WHOLE = 0x7fffffff };
static void fold_draw__name(fold_draw__text *text, const char *from, int characters)
{
    for (; *from && characters > 0; characters--) {
        const int count = fold_draw__utf8(from);
        const char character = count == 1 ? *from : 0;
        const int is_control = count == 1 && ((unsigned char)character < 32 || character == 127);
        if (is_control && text->quote == FOLD_DRAW__JSON)
            fold_draw__put(text, "\\u%04x", (unsigned)character);
        else if (is_control || !count || (text->quote == FOLD_DRAW__XML && fold_draw__is_no_xml(from)))
            fold_draw__bytes(text, "?", 1);
        else if (text->quote == FOLD_DRAW__XML && character && strchr("<>&\"", character))
            fold_draw__put(text, "&#%d;", character);
        else {
            if (text->quote == FOLD_DRAW__JSON && (character == '"' || character == '\\'))
                fold_draw__bytes(text, "\\", 1);
            fold_draw__bytes(text, from, (size_t)count);
        }
        from += count ? count : 1;
    }
    if (*from && characters == 0)
        fold_draw__bytes(text, "..", 2);
}

/* Writes a count with its noun, e.g. "1 call" or "3 batches". */
static void fold_draw__count(fold_draw__text *text, int count, const char *one, const char *many)
{
    fold_draw__put(text, "%d %s", count, count == 1 ? one : many);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void fold_draw__number(fold_draw__text *text, double number, int is_float)
{
    if (is_float)
        fold_draw__put(text, "%g", number);
    else
        fold_draw__put(text, "%s%.0f", number < 0 ? "-" : "", number < 0 ? -number : number);
}

/* Writes what a call computes, e.g. "linear(W, b)", "sum(axis 0)" or "compose". */
static void fold_draw__signature(fold_draw__text *text, const fold_model *m, const fold_seen *seen)
{
    const char *open = "(";
    fold_draw__name(text, seen->name, FOLD_DRAW__WHOLE);
    for (int i = 0; i < 2 && !fold_param_is_null(seen->param[i]); i++, open = ", ") {
        fold_draw__put(text, "%s", open);
        fold_draw__name(text, fold_param_name(m, seen->param[i]), FOLD_DRAW__WHOLE);
    }
    for (int i = 0; i < seen->n_attr; i++) {
        const char *name = seen->attr_name[i];
        if (!name)
            continue;
        fold_draw__put(text, "%s%s%s", open, name, *name ? " " : "");
        if (*name && !seen->float_attr && seen->attr[i] == FOLD_ALL)
            fold_draw__put(text, "all");
        else
            fold_draw__number(text, seen->attr[i], seen->float_attr);
        open = ", ";
    }
    if (*open == ',')
        fold_draw__bytes(text, ")", 1);
    if (!seen->cell)
        return;
    fold_draw__put(text, " in ");
    fold_draw__name(text, seen->cell, FOLD_DRAW__WHOLE);
}

static void fold_draw__shape(fold_draw__text *text, const fold_shape *shape)
{
    for (int axis = 0; axis < shape->rank; axis++)
        fold_draw__put(text, "%s%d", axis ? " x " : "[", shape->dim[axis]);
    fold_draw__bytes(text, "]", 1);
}

/* Writes the operand shapes of a call. Three or more equal shapes in a row are written as "15 of [1 x 1]". */
static void fold_draw__shapes(fold_draw__text *text, const fold_seen *seen)
{
    for (int input = 0, same; input < seen->n_in + seen->n_list; input += same) {
        const int end = input < seen->n_in ? seen->n_in : seen->n_in + seen->n_list;
        for (same = 1;
             input + same < end && !memcmp(seen->in[input], seen->in[input + same], sizeof **seen->in);)
            same++;
        if (same < 3)
            same = 1;
        fold_draw__put(text, "%s%s", input ? ", " : "", input >= seen->n_in ? "list of " : "");
        if (same > 1)
            fold_draw__put(text, "%d of ", same);
        fold_draw__shape(text, seen->in[input]);
    }
    for (int output = 0; output < seen->n_out; output++) {
        fold_draw__put(text, output ? ", " : " -> ");
        fold_draw__shape(text, seen->out[output]);
    }
}

/* ---- the copy that the visitor makes --------------------------------------------------------- */

enum { FOLD_DRAW__NOTHING, FOLD_DRAW__LEAF, FOLD_DRAW__CALL };
typedef struct fold_draw__node {
    int is, column;         /* kind of node; for a leaf, the column of its first reader */
    uint32_t call;          /* index of the call that computes the node */
    size_t first_operand;
    int n_operands;
    const char *name;       /* name of a leaf; lookups of one table differ in `row` */
    int rows, row, is_param;
    int top, low;           /* y coordinate in a picture; `low` is only used to compute `top` */
} fold_draw__node;
typedef struct fold_draw__column { /* a batch */
    int kind, number, group, first, calls, left;
} fold_draw__column;
typedef struct fold_draw__kind {
    fold_seen seen; /* the call; its shapes are copied below, since a visitor's pointers are only valid until
                       it returns */
    fold_shape in[2 * FOLD_MAX_IN], out[FOLD_MAX_OUT];
    int calls, batches;
} fold_draw__kind;
typedef struct fold_draw__plan {
    const fold_model *m;
    fold_seen run;
    size_t n_nodes, n_operands, n_calls, n_columns, n_kinds;           /* n_nodes is the last id + 1 */
    size_t nodes_room, operands_room, calls_room, columns_room, kinds_room;
    fold_draw__node *node;       /* nodes by id */
    uint32_t *operand;
    uint32_t *call, *spare; /* ids of calls, column by column */
    fold_draw__column *column;
    fold_draw__kind *kind;
} fold_draw__plan;

/* Grows an array to hold at least `wanted` items. New items are zero. */
static int fold_draw__grow(void *items, size_t *room, size_t wanted, size_t size)
{
    void *old = NULL, *grown;
    size_t more = *room ? *room : 16;
    memcpy(&old, items, sizeof old);
    if (wanted <= *room)
        return 1;
    while (more < wanted)
        more *= 2;
    grown = realloc(old, more * size);
    if (!grown)
        return 0;
    memset((char *)grown + *room * size, 0, (more - *room) * size);
    memcpy(items, &grown, sizeof grown);
    *room = more;
    return 1;
}

static void fold_draw__take_kind(const fold_seen *seen, fold_draw__kind *kind)
{
    kind->seen = *seen;
    for (int input = 0; input < seen->n_in + seen->n_list; input++)
        kind->in[input] = *seen->in[input];
    for (int output = 0; output < seen->n_out; output++)
        kind->out[output] = *seen->out[output];
}

/* The visitor: copies a leaf or a call. */
static int fold_draw__take(const fold_seen *seen, void *user)
{
    fold_draw__plan *plan = (fold_draw__plan *)user;
    const size_t id = seen->node.id, end = id + (size_t)seen->n_out, operands = (size_t)seen->n_operands;
    const int is_call = seen->what == FOLD_SEEN_CALL, kinds = is_call ? seen->kind + 1 : 0;
    if (seen->what == FOLD_SEEN_RUN)
        return plan->run = *seen, 0;
    if (!fold_draw__grow(&plan->node, &plan->nodes_room, end, sizeof *plan->node) ||
        !fold_draw__grow(&plan->operand, &plan->operands_room, plan->n_operands + operands,
                         sizeof *plan->operand) ||
        !fold_draw__grow(&plan->call, &plan->calls_room, plan->n_calls + 1, sizeof *plan->call) ||
        !fold_draw__grow(&plan->column, &plan->columns_room, plan->n_columns + 1, sizeof *plan->column) ||
        !fold_draw__grow(&plan->kind, &plan->kinds_room, (size_t)kinds, sizeof *plan->kind))
        return 1;
    if (plan->n_nodes < end)
        plan->n_nodes = end;
    for (size_t output = id; output < end; output++)
        plan->node[output].call = (uint32_t)id;
    fold_draw__node *node = &plan->node[id];
    if (seen->batch < 0)
        return 0; /* nothing reads this leaf */
    node->is = is_call ? FOLD_DRAW__CALL : FOLD_DRAW__LEAF;
    node->name = seen->name;
    node->rows = seen->rows;
    node->row = seen->row;
    node->is_param = seen->row < 0 && !fold_param_is_null(seen->param[0]) && !seen->n_operands;
    node->column = seen->batch; /* the batch, until all columns are known */
    if (!is_call)
        return 0;
    fold_draw__column *last = plan->column + plan->n_columns - 1;
    fold_draw__kind *kind = &plan->kind[seen->kind];
    if (!plan->n_columns || last->number != seen->batch) {
        last = &plan->column[plan->n_columns++];
        last->kind = seen->kind;
        last->number = seen->batch;
        last->group = seen->group;
        last->first = (int)plan->n_calls;
        kind->batches++;
    }
    last->calls++;
    if (!kind->calls++)
        fold_draw__take_kind(seen, kind);
    if (plan->n_kinds < (size_t)kinds)
        plan->n_kinds = (size_t)kinds;
    plan->call[plan->n_calls++] = (uint32_t)id;
    node->first_operand = plan->n_operands;
    node->n_operands = seen->n_operands;
    memcpy(plan->operand + plan->n_operands, seen->operand, operands * sizeof *plan->operand);
    plan->n_operands += operands;
    return 0;
}

static void fold_draw__free(fold_draw__plan *plan)
{
    free(plan->node);
    free(plan->operand);
    free(plan->call);
    free(plan->spare);
    free(plan->column);
    free(plan->kind);
}

static fold_status fold_draw__copy(fold_ctx *f, fold_draw__plan *plan)
{
    int *column_of;
    memset(plan, 0, sizeof *plan);
    plan->m = fold_ctx_model(f);
    fold_status status = fold_ctx_visit(f, fold_draw__take, plan);
    if (status == FOLD_IO)
        status = FOLD_NO_MEMORY; /* the visitor has no other reason to stop */
    for (size_t at = 0; at < plan->n_kinds; at++) {
        fold_draw__kind *kind = &plan->kind[at];
        for (int input = 0; input < kind->seen.n_in + kind->seen.n_list; input++)
            kind->seen.in[input] = &kind->in[input];
        for (int output = 0; output < kind->seen.n_out; output++)
            kind->seen.out[output] = &kind->out[output];
    }
    plan->spare = status ? NULL : (uint32_t *)calloc(plan->n_calls + 1, sizeof *plan->spare);
    column_of = plan->spare ? (int *)calloc((size_t)plan->run.batch + 1, sizeof *column_of) : NULL;
    if (!status && !column_of)
        status = FOLD_NO_MEMORY;
    for (size_t column = 0; column < plan->n_columns && column_of; column++)
        column_of[plan->column[column].number] = (int)column;
    for (size_t id = 0; id < plan->n_nodes && column_of; id++)
        plan->node[id].column = column_of[plan->node[id].column];
    free(column_of);
    if (status)
        fold_draw__free(plan);
    return status;
}

/* Writes the title, e.g. "27 calls in 6 batches, …". */
static void fold_draw__head(fold_draw__text *text, const fold_draw__plan *plan)
{
    const int prologues = plan->run.batch - (int)plan->n_columns;
    fold_draw__count(text, plan->run.calls, "call", "calls");
    if (plan->run.recomputed)
        fold_draw__put(text, " (%d recomputed)", plan->run.recomputed);
    fold_draw__put(text, " in ");
    fold_draw__count(text, (int)plan->n_columns, "batch", "batches");
    if (prologues)
        fold_draw__put(text, " and ");
    if (prologues)
        fold_draw__count(text, prologues, "prologue", "prologues");
    if (plan->run.group > 1)
        fold_draw__put(text, ", %d groups", plan->run.group);
    if (!plan->run.name)
        fold_draw__put(text, " by depth, not run yet");
    else if (!strcmp(plan->run.name, "eager"))
        fold_draw__put(text, " by depth; the context is eager");
    else
        fold_draw__put(text, ", lower bound %d, schedule %s", plan->run.lower_bound, plan->run.name);
}

/* Writes a node's label: "embed 7", "W", "input 3", or "compose 12" for a value that an earlier run
   computed. */
static void fold_draw__leaf(fold_draw__text *text, const fold_draw__node *node, size_t id, int characters)
{
    fold_draw__name(text, node->name, characters);
    if (node->row >= 0 && node->rows >= 0)
        fold_draw__put(text, ", %d rows", node->rows);
    else if (node->row >= 0)
        fold_draw__put(text, " %d", node->row);
    else if (!node->is_param)
        fold_draw__put(text, " %lu", (unsigned long)id);
}

/* Returns the call that computes an operand. If a call computes several operands, they are drawn as a single
   edge. */
static uint32_t fold_draw__operand(const fold_draw__plan *plan, const fold_draw__node *node, int operand)
{
    return plan->node[plan->operand[node->first_operand + (size_t)operand]].call;
}

static int fold_draw__drawn_before(const fold_draw__plan *plan, const fold_draw__node *node, int operand)
{
    enum { FOLD_DRAW__BACK = 16 };
    const uint32_t from = fold_draw__operand(plan, node, operand);
    for (int i = operand; i > 0 && operand - i < FOLD_DRAW__BACK; i--)
        if (fold_draw__operand(plan, node, i - 1) == from)
            return 1;
    return 0;
}

/* Hues are a golden angle apart, so that neighbours always differ. */
static int fold_draw__hue(int kind) { return (int)(((unsigned)kind * 137u + 210u) % 360u); }

/* ---- a graph --------------------------------------------------------------------------------- */

static void fold_draw__clusters(fold_draw__text *text, const fold_draw__plan *plan)
{
    for (size_t at = 0; at < plan->n_columns && !text->stopped; at++) {
        const fold_draw__column *column = &plan->column[at];
        const fold_seen *seen = &plan->kind[column->kind].seen;
        fold_draw__put(text, "  subgraph cluster_%d {\n    color=gray; label=\"%lu: ", column->number + 1,
                       at + 1ul);
        fold_draw__signature(text, plan->m, seen);
        fold_draw__put(text, " x %d\";\n    node [fillcolor=\"0.%03d 0.45 0.95\"];\n", column->calls,
                       fold_draw__hue(column->kind) * 1000 / 360);
        for (int i = 0; i < column->calls; i++) {
            const unsigned long id = plan->call[column->first + i];
            fold_draw__put(text, "    n%lu [label=\"", id);
            fold_draw__name(text, seen->name, 16);
            fold_draw__put(text, " %lu\"];\n", id);
        }
        fold_draw__put(text, "  }\n");
    }
}

FOLD_API fold_status fold_draw_dot(fold_ctx *f, fold_writer *write, void *user)
{
    fold_draw__plan plan;
    fold_draw__text text = { write, user, FOLD_DRAW__JSON, !write };
    const fold_status status = fold_draw__copy(f, &plan);
    if (status)
        return status;
    fold_draw__put(&text, "digraph fold {\n  rankdir=LR; fontname=\"sans-serif\"; label=\"");
    fold_draw__head(&text, &plan);
    fold_draw__put(&text, "\";\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", "
                          "fontsize=10];\n");
    fold_draw__clusters(&text, &plan);
    for (size_t id = 0; id < plan.n_nodes && !text.stopped; id++) {
        if (plan.node[id].is != FOLD_DRAW__LEAF)
            continue;
        fold_draw__put(&text, "  n%lu [fillcolor=white, label=\"", (unsigned long)id);
        fold_draw__leaf(&text, &plan.node[id], id, FOLD_DRAW__WHOLE);
        fold_draw__put(&text, "\"];\n");
    }
    for (size_t id = 0; id < plan.n_nodes && !text.stopped; id++)
        for (int i = 0; i < plan.node[id].n_operands; i++)
            if (!fold_draw__drawn_before(&plan, &plan.node[id], i))
                fold_draw__put(&text, "  n%lu -> n%lu;\n",
                               (unsigned long)fold_draw__operand(&plan, &plan.node[id], i),
                               (unsigned long)id);
    fold_draw__put(&text, "}\n");
    fold_draw__free(&plan);
    return text.stopped ? FOLD_IO : FOLD_OK;
}

/* ---- a picture ------------------------------------------------------------------------------- */

/* Sizes in a picture. A lane holds one node. Leaves are drawn to the left of the column of their first
   reader. Calls for which there is no lane are only counted. */
enum {
    FOLD_DRAW__MOST_LANES = 64,
    FOLD_DRAW__LANE = 24,
    FOLD_DRAW__NODE_W = 38,
    FOLD_DRAW__NODE_H = 16,
    FOLD_DRAW__LEAF_W = 66,
    FOLD_DRAW__SPACE = 40,
    FOLD_DRAW__TOP = 100,
    FOLD_DRAW__LEFT = 16,
    FOLD_DRAW__HIDDEN = INT32_MIN /* `top` of a node that is not drawn */
};

static int fold_draw__is_drawn(const fold_draw__node *node)
{
    return node->is && node->top != FOLD_DRAW__HIDDEN;
}

static int fold_draw__count_hidden(const fold_draw__plan *plan, const fold_draw__column *column)
{
    int count = 0;
    for (int i = 0; i < column->calls; i++)
        count += !fold_draw__is_drawn(&plan->node[plan->call[column->first + i]]);
    return count;
}

/* Moves the `count` nodes of a column apart until none overlap. Each position is the mean of two layouts: one
   that pushes all nodes down, and one that pushes all up. There are at most FOLD_DRAW__MOST_LANES nodes, in
   the order of their ids. */
static void fold_draw__part_column(fold_draw__plan *plan, uint32_t *ids, int count)
{
    fold_draw__node *node = plan->node;
    for (int i = 1; i < count; i++)
        for (int at = i;
             at > 0 && (node[ids[at]].top != node[ids[at - 1]].top ? node[ids[at]].top < node[ids[at - 1]].top
                                                                   : ids[at] < ids[at - 1]);
             at--) {
            const uint32_t higher = ids[at];
            ids[at] = ids[at - 1];
            ids[at - 1] = higher;
        }
    for (int i = 0; i < count; i++) {
        node[ids[i]].low = node[ids[i]].top;
        if (i && node[ids[i]].low < node[ids[i - 1]].low + FOLD_DRAW__LANE)
            node[ids[i]].low = node[ids[i - 1]].low + FOLD_DRAW__LANE;
    }
    for (int i = count; i-- > 1;)
        if (node[ids[i - 1]].top > node[ids[i]].top - FOLD_DRAW__LANE)
            node[ids[i - 1]].top = node[ids[i]].top - FOLD_DRAW__LANE;
    for (int i = 0; i < count; i++)
        node[ids[i]].top = (node[ids[i]].top + node[ids[i]].low) / 2;
}

/* Places a call at the mean height of its drawn operands, and returns whether it can be drawn. A call that
   reads nothing already has a lane, if any was left. */
static int fold_draw__place_call(fold_draw__plan *plan, uint32_t id, int needs_all)
{
    fold_draw__node *node = &plan->node[id];
    int64_t heights = 0, drawn = 0;
    if (!node->n_operands)
        return fold_draw__is_drawn(node);
    node->top = FOLD_DRAW__HIDDEN;
    for (int i = 0; i < node->n_operands; i++) {
        const fold_draw__node *from = &plan->node[fold_draw__operand(plan, node, i)];
        if (!fold_draw__is_drawn(from))
            continue;
        heights += from->top;
        drawn++;
    }
    if (!drawn || (needs_all && drawn < node->n_operands))
        return 0;
    node->top = (int)(heights / drawn);
    return 1;
}

/* Draws the calls whose operands are all drawn, so that samples are complete. If a column has no such call,
   as when it combines all samples, draws the calls with at least one drawn operand. */
static void fold_draw__lay_out_column(fold_draw__plan *plan, const fold_draw__column *column)
{
    int count = 0;
    for (int needs_all = 1; needs_all >= 0 && !count; needs_all--)
        for (int i = 0; i < column->calls; i++) {
            const uint32_t id = plan->call[column->first + i];
            if (count < FOLD_DRAW__MOST_LANES && fold_draw__place_call(plan, id, needs_all))
                plan->spare[count++] = id;
            else
                plan->node[id].top = FOLD_DRAW__HIDDEN;
        }
    fold_draw__part_column(plan, plan->spare, count);
}

/* Gives a lane to each leaf and to each call that reads nothing, in recording order, while there are lanes.
   Then lays out the columns from left to right. Returns the height of the picture. */
static int fold_draw__lay_out(fold_draw__plan *plan)
{
    int lanes = 0, top = 0, bottom = 0;
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (plan->node[id].is && !plan->node[id].n_operands)
            plan->node[id].top =
                lanes < FOLD_DRAW__MOST_LANES ? FOLD_DRAW__LANE * lanes++ : FOLD_DRAW__HIDDEN;
    for (size_t column = 0; column < plan->n_columns; column++)
        fold_draw__lay_out_column(plan, &plan->column[column]);
    for (size_t id = 0; id < plan->n_nodes; id++) {
        if (!fold_draw__is_drawn(&plan->node[id]))
            continue;
        if (plan->node[id].top < top)
            top = plan->node[id].top;
        if (plan->node[id].top > bottom)
            bottom = plan->node[id].top;
    }
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (fold_draw__is_drawn(&plan->node[id]))
            plan->node[id].top += FOLD_DRAW__TOP - top;
    return bottom - top + FOLD_DRAW__LANE;
}

/* Returns the width of the picture. */
static int fold_draw__place_columns(fold_draw__plan *plan)
{
    int left = FOLD_DRAW__LEFT;
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (plan->node[id].is == FOLD_DRAW__LEAF && fold_draw__is_drawn(&plan->node[id]))
            plan->column[plan->node[id].column].left = FOLD_DRAW__LEAF_W;
    for (size_t column = 0; column < plan->n_columns; column++) {
        left += plan->column[column].left + FOLD_DRAW__SPACE;
        plan->column[column].left = left;
        left += FOLD_DRAW__NODE_W;
    }
    return left + FOLD_DRAW__SPACE;
}

static void fold_draw__svg_columns(fold_draw__text *text, const fold_draw__plan *plan, int height)
{
    for (size_t at = 0; at < plan->n_columns; at++) {
        const fold_draw__column *column = &plan->column[at];
        const int middle = column->left + FOLD_DRAW__NODE_W / 2,
                  hidden = fold_draw__count_hidden(plan, column);
        fold_draw__put(text,
                       "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" "
                       "fill=\"hsl(%d,60%%,95%%)\"/>\n",
                       column->left - 8, FOLD_DRAW__TOP - 20, FOLD_DRAW__NODE_W + 16, height,
                       fold_draw__hue(column->kind));
        fold_draw__put(text,
                       "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\"><tspan "
                       "font-weight=\"bold\">%lu</tspan>",
                       middle, FOLD_DRAW__TOP - 50, at + 1ul);
        fold_draw__put(text, "<tspan x=\"%d\" dy=\"13\" font-size=\"10\">", middle);
        fold_draw__name(text, plan->kind[column->kind].seen.name, 12);
        fold_draw__put(text, "</tspan><tspan x=\"%d\" dy=\"12\" font-size=\"10\">&#215;%d</tspan></text>\n",
                       middle, column->calls);
        if (hidden)
            fold_draw__put(text,
                           "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"10\">+%d</text>\n",
                           middle, FOLD_DRAW__TOP - 26 + height, hidden);
        if (plan->run.group > 1 && (!at || column->group != column[-1].group))
            fold_draw__put(text, "<text x=\"%d\" y=\"%d\" fill=\"gray\">group %d</text>\n", column->left - 8,
                           FOLD_DRAW__TOP - 66, column->group + 1);
    }
}

static void fold_draw__svg_edges(fold_draw__text *text, const fold_draw__plan *plan)
{
    fold_draw__put(text, "<g fill=\"none\" stroke=\"#667\" stroke-opacity=\"0.6\">\n");
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++)
        for (int i = 0; i < plan->node[id].n_operands; i++) {
            const fold_draw__node *reader = &plan->node[id],
                                  *from = &plan->node[fold_draw__operand(plan, reader, i)];
            const int left = plan->column[from->column].left +
                             (from->is == FOLD_DRAW__LEAF ? -FOLD_DRAW__SPACE / 2 : FOLD_DRAW__NODE_W);
            const int to = plan->column[reader->column].left, bend = (to - left) / 2;
            if (fold_draw__drawn_before(plan, reader, i) || !fold_draw__is_drawn(reader) ||
                !fold_draw__is_drawn(from))
                continue;
            fold_draw__put(text, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", left, from->top, left + bend,
                           from->top, to - bend, reader->top, to, reader->top);
        }
    fold_draw__put(text, "</g>\n");
}

static void fold_draw__svg_nodes(fold_draw__text *text, const fold_draw__plan *plan)
{
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++) {
        const fold_draw__node *node = &plan->node[id];
        if (!fold_draw__is_drawn(node))
            continue;
        const fold_draw__column *column = &plan->column[node->column];
        const int leaf = node->is == FOLD_DRAW__LEAF, width = leaf ? FOLD_DRAW__LEAF_W : FOLD_DRAW__NODE_W;
        const int left = column->left - (leaf ? FOLD_DRAW__SPACE / 2 + FOLD_DRAW__LEAF_W : 0),
                  hue = fold_draw__hue(column->kind);
        fold_draw__put(text, "<g><title>");
        if (leaf)
            fold_draw__leaf(text, node, id, FOLD_DRAW__WHOLE);
        else
            fold_draw__signature(text, plan->m, &plan->kind[column->kind].seen);
        fold_draw__put(text, ", node %lu</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" ",
                       (unsigned long)id, left, node->top - FOLD_DRAW__NODE_H / 2, width, FOLD_DRAW__NODE_H);
        if (leaf)
            fold_draw__put(text, "fill=\"white\" stroke=\"#aab\"/>");
        else
            fold_draw__put(text, "fill=\"hsl(%d,60%%,75%%)\" stroke=\"hsl(%d,50%%,45%%)\"/>", hue, hue);
        fold_draw__put(text, "<text x=\"%d\" y=\"%d\" font-size=\"9\" text-anchor=\"middle\">",
                       left + width / 2, node->top + 3);
        if (leaf)
            fold_draw__leaf(text, node, id, 8);
        else
            fold_draw__put(text, "%lu", (unsigned long)id);
        fold_draw__put(text, "</text></g>\n");
    }
}

static void fold_draw__svg_legend(fold_draw__text *text, const fold_draw__plan *plan, int top)
{
    for (size_t at = 0; at < plan->n_kinds && !text->stopped; at++, top += 18) {
        const fold_draw__kind *kind = &plan->kind[at];
        fold_draw__put(text,
                       "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" rx=\"3\" "
                       "fill=\"hsl(%d,60%%,75%%)\"/>",
                       FOLD_DRAW__LEFT, top - 10, fold_draw__hue((int)at));
        fold_draw__put(text, "<text x=\"%d\" y=\"%d\">", FOLD_DRAW__LEFT + 22, top);
        fold_draw__signature(text, plan->m, &kind->seen);
        fold_draw__put(text, ": ");
        fold_draw__shapes(text, &kind->seen);
        fold_draw__put(text, "; ");
        fold_draw__count(text, kind->calls, "call", "calls");
        fold_draw__put(text, " in ");
        fold_draw__count(text, kind->batches, "batch", "batches");
        fold_draw__put(text, "</text>\n");
    }
}

FOLD_API fold_status fold_draw_svg(fold_ctx *f, fold_writer *write, void *user)
{
    fold_draw__plan plan;
    fold_draw__text text = { write, user, FOLD_DRAW__XML, !write };
    const fold_status status = fold_draw__copy(f, &plan);
    if (status)
        return status;
    int lanes = fold_draw__lay_out(&plan), hidden = 0;
    for (size_t id = 0; id < plan.n_nodes; id++)
        hidden += plan.node[id].is && !fold_draw__is_drawn(&plan.node[id]);
    lanes += hidden ? FOLD_DRAW__LANE : 0; /* for the count of hidden nodes */
    const int columns = fold_draw__place_columns(&plan), width = columns < 560 ? 560 : columns;
    const int height = FOLD_DRAW__TOP + lanes + 18 * (int)plan.n_kinds + 24;
    fold_draw__put(&text,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
                   "%d\" ",
                   width, height, width, height);
    fold_draw__put(&text, "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" "
                          "height=\"100%%\" fill=\"white\"/>\n");
    fold_draw__put(&text, "<text x=\"%d\" y=\"16\">", FOLD_DRAW__LEFT);
    fold_draw__head(&text, &plan);
    if (hidden)
        fold_draw__put(&text, "; only the first samples are drawn, + counts the other calls");
    fold_draw__put(&text, "</text>\n");
    fold_draw__svg_columns(&text, &plan, lanes + 8);
    fold_draw__svg_edges(&text, &plan);
    fold_draw__svg_nodes(&text, &plan);
    fold_draw__svg_legend(&text, &plan, FOLD_DRAW__TOP + lanes + 20);
    fold_draw__put(&text, "</svg>\n");
    fold_draw__free(&plan);
    return text.stopped ? FOLD_IO : FOLD_OK;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Writes nanoseconds as microseconds, in two parts since fold_format has no %.3f. */
static void fold_draw__time(fold_draw__text *text, const char *key, uint64_t ns)
{
    fold_draw__put(text, ",\"%s\":%.0f.%03u", key, (double)(ns / 1000), (unsigned)(ns % 1000));
}

typedef struct fold_draw__events {
    fold_draw__text text;
    const fold_model *m;
    unsigned long dropped;
    int thread;
} fold_draw__events;

static int fold_draw__event(const fold_seen *seen, void *user)
{
    fold_draw__events *events = (fold_draw__events *)user;
    fold_draw__text *text = &events->text;
    const int is_run = seen->what == FOLD_SEEN_RUN;
    if (is_run)
        fold_draw__put(text,
                       ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"cat\":\"plan\",\"name\":\"plan\",\"ts\":0");
    if (is_run)
        fold_draw__time(text, "dur", seen->end_ns);
    if (is_run)
        return fold_draw__put(text, "}"), text->stopped;
    if (seen->thread != events->thread)
        events->dropped += (unsigned long)seen->dropped;
    events->thread = seen->thread;
    fold_draw__put(text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"cat\":\"%s%s\",\"name\":\"", seen->thread,
                   seen->backward ? "backward" : "forward", seen->prologue ? ",prologue" : "");
    fold_draw__signature(text, events->m, seen);
    fold_draw__put(text, "\"");
    fold_draw__time(text, "ts", seen->start_ns);
    fold_draw__time(text, "dur", seen->end_ns - seen->start_ns);
    fold_draw__put(text, ",\"args\":{\"calls\":%d,\"group\":%d,\"shapes\":\"", seen->calls, seen->group + 1);
    fold_draw__shapes(text, seen);
    fold_draw__put(text, "\"}}");
    return text->stopped;
}

FOLD_API fold_status fold_draw_trace(fold_ctx *f, fold_writer *write, void *user)
{
    fold_draw__events events = { { write, user, FOLD_DRAW__JSON, !write }, fold_ctx_model(f), 0, -1 };
    if (!f)
        return FOLD_BAD_ARGUMENT;
    fold_draw__put(&events.text, "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\","
                                 "\"args\":{\"name\":\"fold\"}}");
    fold_ctx_visit_times(f, fold_draw__event, &events);
    fold_draw__put(&events.text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%lu}}\n",
                   events.dropped);
    return events.text.stopped ? FOLD_IO : FOLD_OK;
}

#endif /* FOLD_DRAW_IMPLEMENTATION */
