/* fold_draw.h - draws pictures and timelines of a context's run, using fold_ctx_visit.

   In one C or C++ file:  #define FOLD_DRAW_IMPLEMENTATION
                          #include "fold_draw.h"

       fold_run(f, &loss, 1);
       fold_draw_svg(f, fold_to_file, stdout);          the plan
       fold_draw_race(f, NULL, fold_to_file, stdout);   a moving picture to post

   A picture shows the plan of the last run. If something has been recorded since, it shows the recording by
   depth instead, as fold_ctx_print does. Draw a picture if the batches are not as you expect, a race to show
   others what batching does to your network, or a timeline if a run takes too long.

   All calls return FOLD_OK, FOLD_IO if the writer stopped, FOLD_BAD_ARGUMENT if f is NULL, or FOLD_NO_MEMORY.
   Writing a picture temporarily takes about 60 bytes per node from malloc. The calls also work in a context
   with an error, and do not change its status. The writer may use the context. There are no globals. The file
   compiles as C99 and C++17. With FOLD_NO_TEXT, contexts cannot be visited, and nothing is declared.

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
   most 64 rows. If there are more samples than rows, only the first are drawn, and calls of the others are
   only counted. */
FOLD_API fold_status fold_draw_svg(fold_ctx *f, fold_writer *write, void *user);

typedef struct fold_draw_race_desc {
    const char *title; /* heading, also read by screen readers. NULL: "One recording, run twice" */
    float seconds;     /* duration without the pauses, up to 600. 0 means 1/3 s per step, at most 8 s */
} fold_draw_race_desc;
FOLD_API fold_draw_race_desc fold_draw_race_desc_default(void);

/* Writes a moving SVG picture in which the recording runs twice: on the left one call per step, in recording
   order, and on the right one batch or prologue per step. A batch takes longer than one of its calls, so the
   picture compares numbers of steps, not times. The picture loops, also as an <img> in a web page or README.
   Viewers without animation show the end of both runs, with the numbers of steps. Colours adapt to dark mode.
   At most 64 rows of the first 256 batches are drawn, and other calls are only counted. The file has about
   600 bytes per drawn call. desc may be NULL. If `seconds` is out of range, returns FOLD_BAD_ARGUMENT. */
FOLD_API fold_status fold_draw_race(fold_ctx *f, const fold_draw_race_desc *desc, fold_writer *write,
                                    void *user);

/* Writes a timeline as JSON in the Trace Event Format, which Perfetto and chrome://tracing display. It shows
   when the last run since the reset was planned, and when each batch of the run ran, forward and backward,
   with the batch's calls and group. With fold_ctx_desc.trace_over_ns it shows the last slow run. tid is the
   thread, and times are in microseconds since the run began. "dropped" in otherData is the number of events
   that did not fit into fold_ctx_desc.trace_bytes. Without trace_bytes or a clock, and in eager contexts,
   there are no events. Nothing is allocated. */
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

/* Compilers must round every product and sum separately, so that a picture has the same bytes everywhere. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

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

/* Writes at most `characters` characters of a name, with special characters escaped so that it is safe inside
   quotes. Bytes that are not UTF-8, and characters that XML does not allow, are replaced with '?'. */
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
    node->column = seen->batch; /* the number of the batch, until all columns are known */
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

/* Writes a leaf's label: "embed 7", "W", "input", or "compose" for a value that an earlier run computed. */
static void fold_draw__leaf(fold_draw__text *text, const fold_draw__node *node, int characters)
{
    fold_draw__name(text, node->name, characters);
    if (node->row >= 0 && node->rows >= 0)
        fold_draw__put(text, ", %d rows", node->rows);
    else if (node->row >= 0)
        fold_draw__put(text, " %d", node->row);
}

/* Returns the call that computes an operand. Several operands from one call are drawn as a single edge. */
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
        fold_draw__leaf(&text, &plan.node[id], FOLD_DRAW__WHOLE);
        if (plan.node[id].row < 0 && !plan.node[id].is_param)
            fold_draw__put(&text, " %lu", (unsigned long)id);
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
typedef struct fold_draw__frame {
    int node_w, leaf_w, space; /* widths of a call, of a leaf, and of the space before a column */
    double left, top, x, y;    /* position of the layout's origin in the picture, and size of its units */
} fold_draw__frame;

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

/* Gives a lane to each leaf and to each call that reads nothing, in recording order, as long as there are
   lanes. Then lays out the columns from left to right. Returns the height of the picture. */
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

/* Places the columns from left to right, and returns their width, including a space at the end. */
static int fold_draw__place_columns(fold_draw__plan *plan, const fold_draw__frame *frame)
{
    int left = 0;
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (plan->node[id].is == FOLD_DRAW__LEAF && fold_draw__is_drawn(&plan->node[id]))
            plan->column[plan->node[id].column].left = frame->leaf_w;
    for (size_t column = 0; column < plan->n_columns; column++) {
        left += plan->column[column].left + frame->space;
        plan->column[column].left = left;
        left += frame->node_w;
    }
    return left + frame->space;
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

/* Rounds to tenths, which keeps files small. */
static double fold_draw__tenths(double value)
{
    const double tenths = 10 * value;
    return (double)(int64_t)(tenths + (tenths < 0 ? -0.5 : 0.5)) / 10;
}

static double fold_draw__x(const fold_draw__frame *frame, int left)
{
    return fold_draw__tenths(frame->left + frame->x * left);
}

static double fold_draw__y(const fold_draw__frame *frame, int top)
{
    return fold_draw__tenths(frame->top + frame->y * top);
}

static void fold_draw__svg_edges(fold_draw__text *text, const fold_draw__plan *plan,
                                 const fold_draw__frame *frame)
{
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++)
        for (int i = 0; i < plan->node[id].n_operands; i++) {
            const fold_draw__node *reader = &plan->node[id],
                                  *from = &plan->node[fold_draw__operand(plan, reader, i)];
            const int left = plan->column[from->column].left +
                             (from->is == FOLD_DRAW__LEAF ? -frame->space / 2 : frame->node_w);
            const int to = plan->column[reader->column].left, bend = (to - left) / 2;
            if (fold_draw__drawn_before(plan, reader, i) || !fold_draw__is_drawn(reader) ||
                !fold_draw__is_drawn(from))
                continue;
            const double from_y = fold_draw__y(frame, from->top), to_y = fold_draw__y(frame, reader->top);
            fold_draw__put(text, "<path d=\"M%g %gC%g %g %g %g %g %g\"/>\n", fold_draw__x(frame, left),
                           from_y, fold_draw__x(frame, left + bend), from_y, fold_draw__x(frame, to - bend),
                           to_y, fold_draw__x(frame, to), to_y);
        }
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
            fold_draw__leaf(text, node, FOLD_DRAW__WHOLE);
        else
            fold_draw__signature(text, plan->m, &plan->kind[column->kind].seen);
        fold_draw__put(text, ", node %lu</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" ",
                       (unsigned long)id, left, node->top - FOLD_DRAW__NODE_H / 2, width, FOLD_DRAW__NODE_H);
        if (!leaf) {
            fold_draw__put(text, "fill=\"hsl(%d,60%%,75%%)\" stroke=\"hsl(%d,50%%,45%%)\"/></g>\n", hue, hue);
            continue;
        }
        fold_draw__put(text,
                       "fill=\"white\" stroke=\"#aab\"/><text x=\"%d\" y=\"%d\" font-size=\"9\" "
                       "text-anchor=\"middle\">",
                       left + width / 2, node->top + 3);
        fold_draw__leaf(text, node, 8);
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
    const fold_draw__frame frame = { FOLD_DRAW__NODE_W, FOLD_DRAW__LEAF_W, FOLD_DRAW__SPACE, 0, 0, 1, 1 };
    const int columns = fold_draw__place_columns(&plan, &frame), width = columns < 560 ? 560 : columns;
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
    fold_draw__put(&text, "<g fill=\"none\" stroke=\"#667\" stroke-opacity=\"0.6\">\n");
    fold_draw__svg_edges(&text, &plan, &frame);
    fold_draw__put(&text, "</g>\n");
    fold_draw__svg_nodes(&text, &plan);
    fold_draw__svg_legend(&text, &plan, FOLD_DRAW__TOP + lanes + 20);
    fold_draw__put(&text, "</svg>\n");
    fold_draw__free(&plan);
    return text.stopped ? FOLD_IO : FOLD_OK;
}

/* ---- a race ---------------------------------------------------------------------------------- */

/* Sizes of a race in pixels. Both sides show the same graph, scaled so that it fits. A side with more than
   FOLD_DRAW__FRAMES steps shows several steps at a time. */
enum {
    FOLD_DRAW__RACE_W = 640,
    FOLD_DRAW__SIDE_W = 286,
    FOLD_DRAW__MOST_COLUMNS = 256, /* narrower columns could not be seen */
    FOLD_DRAW__SIDE_H = 480,
    FOLD_DRAW__RIGHT = 318,   /* distance from one side to the other */
    FOLD_DRAW__EDGE = 18,
    FOLD_DRAW__GRAPH = 128,   /* top of the graph, below the headings */
    FOLD_DRAW__MARGIN = 4,    /* between a call and the frame of its step */
    FOLD_DRAW__STRIP_H = 60,  /* maximum height of the strip of steps below the graph */
    FOLD_DRAW__CHIP_H = 10,   /* maximum height of a call in the strip */
    FOLD_DRAW__FRAMES = 96
};
typedef struct fold_draw__race {
    fold_draw__text text;
    fold_draw__plan plan;
    fold_draw__frame frame;
    int steps[2], most; /* steps[0]: number of calls; [1]: of batches and prologues; most: the maximum */
    int height;         /* height of the graph */
    int columns, drawn; /* numbers of columns and calls in the graph */
    int bottom;         /* y coordinate of the strip's bottom */
    double chip;        /* height of a call in the strip */
    double seconds;     /* duration without the pauses */
} fold_draw__race;

FOLD_API fold_draw_race_desc fold_draw_race_desc_default(void)
{
    fold_draw_race_desc desc;
    memset(&desc, 0, sizeof desc);
    return desc;
}

/* Return the number of moments at which the longer side changes, and the moment at which a step is shown. */
static int fold_draw__moments(const fold_draw__race *race)
{
    return race->most < FOLD_DRAW__FRAMES ? race->most : FOLD_DRAW__FRAMES;
}

static int fold_draw__moment(const fold_draw__race *race, int step)
{
    return race->most ? (int)((int64_t)step * fold_draw__moments(race) / race->most) : 0;
}

/* Return the seconds of a loop (a pause, the race, a longer pause), and the percentage at which a step
   begins. */
enum { FOLD_DRAW__READY = 1, FOLD_DRAW__DONE = 4 };
static double fold_draw__loop(const fold_draw__race *race)
{
    return (double)FOLD_DRAW__READY + race->seconds + (double)FOLD_DRAW__DONE;
}

static double fold_draw__percent(const fold_draw__race *race, double steps)
{
    const double now = (double)FOLD_DRAW__READY + (race->most ? race->seconds * steps / race->most : 0);
    return fold_draw__tenths(100 * now / fold_draw__loop(race));
}

/* Scales the graph so that it fits a side: columns get narrower, and lanes lower. Then places the strip. */
static void fold_draw__race_place(fold_draw__race *race)
{
    fold_draw__plan *plan = &race->plan;
    fold_draw__frame *frame = &race->frame;
    const int lanes = fold_draw__lay_out(plan), room = FOLD_DRAW__SIDE_W - 2 * FOLD_DRAW__MARGIN;
    int most = 1, width = 0;
    race->columns =
        plan->n_columns < FOLD_DRAW__MOST_COLUMNS ? (int)plan->n_columns : FOLD_DRAW__MOST_COLUMNS;
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (plan->node[id].column >= race->columns)
            plan->node[id].top = FOLD_DRAW__HIDDEN;
    race->height = lanes < FOLD_DRAW__SIDE_H ? lanes : FOLD_DRAW__SIDE_H;
    frame->node_w = 26, frame->leaf_w = 18, frame->space = 14;
    fold_draw__place_columns(plan, frame);
    if (race->columns)
        width = plan->column[race->columns - 1].left + frame->node_w - frame->space / 2;
    frame->x = width > room / 2 ? (double)room / width : 2;
    frame->left = (double)FOLD_DRAW__MARGIN - frame->x * frame->space / 2;
    frame->y = (double)race->height / lanes;
    frame->top = (double)FOLD_DRAW__GRAPH + frame->y * (FOLD_DRAW__LANE / 2 - FOLD_DRAW__TOP);
    for (size_t at = 0; at < plan->n_calls; at++)
        race->drawn += fold_draw__is_drawn(&plan->node[plan->call[at]]);
    for (size_t at = 0; at < plan->n_columns; at++)
        most = plan->column[at].calls > most ? plan->column[at].calls : most;
    const int is_bar = race->most > FOLD_DRAW__FRAMES, high = most * FOLD_DRAW__CHIP_H;
    race->chip = (high < FOLD_DRAW__STRIP_H ? high : FOLD_DRAW__STRIP_H) / (double)most;
    race->bottom = FOLD_DRAW__GRAPH + race->height + 24 + (is_bar ? 14 : (int)(race->chip * most));
}

/* Returns how far a step's frame extends beyond the calls in it, on each side. */
static double fold_draw__margin(const fold_draw__frame *frame)
{
    const double room = 0.4 * frame->x * frame->space, most = FOLD_DRAW__MARGIN;
    return room < most ? room : most;
}

/* Writes the rectangle of a node or, if is_step, of the frame around it, with a margin. */
static void fold_draw__race_box(fold_draw__race *race, const fold_draw__node *node, int is_step)
{
    const fold_draw__frame *frame = &race->frame;
    const int leaf = node->is == FOLD_DRAW__LEAF;
    const int left = race->plan.column[node->column].left - (leaf ? frame->space / 2 + frame->leaf_w : 0);
    const double w = frame->x * (leaf ? frame->leaf_w : frame->node_w),
                 h = frame->y * (double)FOLD_DRAW__NODE_H;
    const double beside = is_step ? fold_draw__margin(frame) : 0;
    const double above = is_step ? (double)FOLD_DRAW__MARGIN * frame->y : 0;
    fold_draw__put(&race->text, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"%g\"",
                   fold_draw__tenths(fold_draw__x(frame, left) - beside),
                   fold_draw__tenths(fold_draw__y(frame, node->top) - h / 2 - above),
                   fold_draw__tenths(w + 2 * beside), fold_draw__tenths(h + 2 * above),
                   fold_draw__tenths((w < h ? w : h) / 4 + (beside < above ? beside : above)));
}

/* Writes a label into a node, if it is large enough for one. */
static void fold_draw__race_number(fold_draw__race *race, const fold_draw__node *node, int number)
{
    const fold_draw__frame *frame = &race->frame;
    const int leaf = node->is == FOLD_DRAW__LEAF, digits = number < 10 ? 1 : number < 100 ? 2 : 3;
    const int width = leaf ? frame->leaf_w : frame->node_w;
    const int left = race->plan.column[node->column].left - (leaf ? frame->space / 2 + frame->leaf_w : 0);
    if (frame->x * width < 8 * digits || frame->y * (double)FOLD_DRAW__NODE_H < 12 || number > 999)
        return;
    fold_draw__put(&race->text, "<text x=\"%g\" y=\"%g\">%d</text>",
                   fold_draw__tenths(fold_draw__x(frame, left) + frame->x * width / 2),
                   fold_draw__tenths(fold_draw__y(frame, node->top) + 4), number);
}

/* Returns the width of outlines: small calls have thin ones. */
static double fold_draw__stroke(const fold_draw__race *race)
{
    const double w = race->frame.x * race->frame.node_w, h = race->frame.y * (double)FOLD_DRAW__NODE_H;
    const double size = w < h ? w : h;
    return size < 10 ? fold_draw__tenths(0.05 + size / 10) : 1;
}

/* Writes what both sides show at all times: edges, leaves, and calls that have not run. */
static void fold_draw__race_graph(fold_draw__race *race)
{
    fold_draw__text *text = &race->text;
    const fold_draw__plan *plan = &race->plan;
    fold_draw__put(text, "<defs><g id=\"graph\"><g class=\"wire\" fill=\"none\" stroke=\"#8c959f\">\n");
    fold_draw__svg_edges(text, plan, &race->frame);
    fold_draw__put(text,
                   "</g><g class=\"off\" fill=\"#fff\" stroke=\"#afb8c1\" "
                   "stroke-width=\"%g\">\n",
                   fold_draw__stroke(race));
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++) {
        if (!fold_draw__is_drawn(&plan->node[id]))
            continue;
        fold_draw__race_box(race, &plan->node[id], 0);
        fold_draw__put(text, "/>\n");
    }
    fold_draw__put(text, "</g><g class=\"dim\" fill=\"#57606a\" font-size=\"11\" text-anchor=\"middle\">\n");
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++) {
        const fold_draw__node *node = &plan->node[id];
        if (node->is == FOLD_DRAW__LEAF && fold_draw__is_drawn(node) && node->row >= 0 && node->rows < 0)
            fold_draw__race_number(race, node, node->row);
    }
    fold_draw__put(text, "</g></g></defs>\n");
}

/* Writes the frames of steps: on the left, one around each call, and on the right, one around each batch. */
static void fold_draw__race_steps(fold_draw__race *race, int side)
{
    fold_draw__text *text = &race->text;
    const fold_draw__plan *plan = &race->plan;
    const fold_draw__frame *frame = &race->frame;
    int step = 0;
    fold_draw__put(text, "<g class=\"race step\" fill=\"#ffe9a8\">\n");
    for (size_t id = 0; id < plan->n_nodes && !side && !text->stopped; id++) {
        const int is_call = plan->node[id].is == FOLD_DRAW__CALL;
        if (is_call && fold_draw__is_drawn(&plan->node[id])) {
            fold_draw__race_box(race, &plan->node[id], 1);
            fold_draw__put(text, " class=\"race%d\"/>\n", fold_draw__moment(race, step));
        }
        step += is_call;
    }
    for (int at = 0; at < race->columns && side && !text->stopped; at++) {
        const fold_draw__column *column = &plan->column[at];
        const double margin = fold_draw__margin(frame);
        fold_draw__put(text,
                       "<rect x=\"%g\" y=\"%d\" width=\"%g\" height=\"%d\" rx=\"%g\" class=\"race%d\"/>\n",
                       fold_draw__tenths(fold_draw__x(frame, column->left) - margin), FOLD_DRAW__GRAPH - 4,
                       fold_draw__tenths(frame->x * frame->node_w + 2 * margin), race->height + 8,
                       fold_draw__tenths(2 * margin), fold_draw__moment(race, column->number));
    }
    fold_draw__put(text, "</g>\n");
}

/* Writes the calls that have run, each with the number of its step. */
static void fold_draw__race_calls(fold_draw__race *race, int side)
{
    fold_draw__text *text = &race->text;
    const fold_draw__plan *plan = &race->plan;
    int step = 0;
    fold_draw__put(text,
                   "<g class=\"race calls\" font-size=\"11\" text-anchor=\"middle\" fill=\"#1f2328\" "
                   "stroke-width=\"%g\">\n",
                   fold_draw__stroke(race));
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++) {
        const fold_draw__node *node = &plan->node[id];
        if (node->is != FOLD_DRAW__CALL)
            continue;
        const int now = side ? plan->column[node->column].number : step,
                  hue = fold_draw__hue(plan->column[node->column].kind);
        step++;
        if (!fold_draw__is_drawn(node))
            continue;
        fold_draw__put(text, "<g class=\"race%d\">", fold_draw__moment(race, now));
        fold_draw__race_box(race, node, 0);
        fold_draw__put(text, " fill=\"hsl(%d,70%%,75%%)\" stroke=\"hsl(%d,50%%,40%%)\"/>", hue, hue);
        fold_draw__race_number(race, node, now + 1);
        fold_draw__put(text, "</g>\n");
    }
    fold_draw__put(text, "</g>\n");
}

/* Writes one call, or one prologue, in the strip below a graph. */
static void fold_draw__race_chip(fold_draw__race *race, int step, int above, int hue)
{
    const double pitch = (double)FOLD_DRAW__SIDE_W / race->most;
    fold_draw__put(&race->text, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" class=\"race%d\" ",
                   fold_draw__tenths(step * pitch),
                   fold_draw__tenths(race->bottom - (above + 1) * race->chip),
                   fold_draw__tenths(pitch > 4 ? pitch - 2 : 0.7 * pitch),
                   fold_draw__tenths(0.8 * race->chip), fold_draw__moment(race, step));
    if (hue < 0)
        fold_draw__put(&race->text, "fill=\"#8c959f\"/>\n");
    else
        fold_draw__put(&race->text, "fill=\"hsl(%d,60%%,66%%)\"/>\n", hue);
}

/* Writes the strip. Steps have the same width on both sides; their height shows their number of calls. */
static void fold_draw__race_strip(fold_draw__race *race, int side)
{
    fold_draw__text *text = &race->text;
    const fold_draw__plan *plan = &race->plan;
    const int is_bar = race->most > FOLD_DRAW__FRAMES;
    int step = 0;
    fold_draw__put(text, "<g class=\"race strip\">\n");
    for (size_t id = 0; id < plan->n_nodes && !side && !is_bar; id++)
        if (plan->node[id].is == FOLD_DRAW__CALL)
            fold_draw__race_chip(race, step++, 0, fold_draw__hue(plan->column[plan->node[id].column].kind));
    for (size_t at = 0; at < plan->n_columns && side && !is_bar; at++) {
        const fold_draw__column *column = &plan->column[at];
        for (; step < column->number; step++)
            fold_draw__race_chip(race, step, 0, -1);
        for (int i = 0; i < column->calls; i++)
            fold_draw__race_chip(race, step, i, fold_draw__hue(column->kind));
        step++;
    }
    if (is_bar)
        fold_draw__put(text,
                       "<g transform=\"translate(0,%d)\"><rect class=\"bar%d\" width=\"%g\" height=\"12\" "
                       "fill=\"%s\"/></g>\n",
                       race->bottom - 14, side,
                       fold_draw__tenths(0.05 + (double)FOLD_DRAW__SIDE_W * race->steps[side] / race->most),
                       side ? "#2da44e" : "#8c959f");
    fold_draw__put(text, "</g><path class=\"wire\" stroke=\"#8c959f\" d=\"M0 %d.5H%d\"/>\n", race->bottom,
                   FOLD_DRAW__SIDE_W);
}

/* Writes the counter of steps: a column of numbers moves behind a window that shows one of them. */
static void fold_draw__race_count(fold_draw__race *race, int side)
{
    fold_draw__text *text = &race->text;
    const int steps = race->steps[side], shown = steps < FOLD_DRAW__FRAMES ? steps : FOLD_DRAW__FRAMES;
    fold_draw__put(text,
                   "<text class=\"dim\" x=\"%d\" y=\"103\" font-size=\"15\" fill=\"#57606a\" "
                   "text-anchor=\"end\">%s</text>",
                   FOLD_DRAW__SIDE_W, steps == 1 ? "step" : "steps");
    fold_draw__put(text,
                   "<svg x=\"%d\" y=\"46\" width=\"150\" height=\"38\"><g class=\"count%d ink\" "
                   "transform=\"translate(0,%d)\" font-size=\"%d\" font-weight=\"bold\" fill=\"#1f2328\" "
                   "text-anchor=\"end\">\n",
                   FOLD_DRAW__SIDE_W - 150, side, -40 * shown,
                   steps < 1000    ? 36
                   : steps < 10000 ? 28
                                   : 20);
    for (int i = 0; i <= shown; i++)
        fold_draw__put(text, "<text x=\"150\" y=\"%d\">%d</text>\n", 34 + 40 * i,
                       shown ? (int)((int64_t)i * steps / shown) : 0);
    fold_draw__put(text, "</g></svg>\n");
}

static void fold_draw__race_side(fold_draw__race *race, int side)
{
    fold_draw__text *text = &race->text;
    const fold_draw__plan *plan = &race->plan;
    const int prologues = race->plan.run.batch - (int)race->plan.n_columns;
    fold_draw__put(text, "<g class=\"%s\" transform=\"translate(%d,0)\">\n", side ? "right" : "left",
                   FOLD_DRAW__EDGE + side * FOLD_DRAW__RIGHT);
    fold_draw__put(text,
                   "<text class=\"ink\" y=\"80\" font-size=\"18\" font-weight=\"bold\" "
                   "fill=\"#1f2328\">%s</text>\n",
                   side ? "Batched by fold.h" : "One call at a time");
    fold_draw__put(text, "<text class=\"dim\" y=\"103\" font-size=\"15\" fill=\"#57606a\">");
    if (!side)
        fold_draw__put(text, "in the order of the program");
    else if (!plan->run.name || !strcmp(plan->run.name, "eager"))
        fold_draw__put(text, "by depth, as it would run");
    else if (prologues) {
        fold_draw__count(text, (int)plan->n_columns, "batch", "batches");
        fold_draw__put(text, ", ");
        fold_draw__count(text, prologues, "prologue", "prologues");
    } else
        fold_draw__put(text, "calls of one kind share a step");
    fold_draw__put(text, "</text>\n");
    fold_draw__race_count(race, side);
    fold_draw__race_steps(race, side);
    fold_draw__put(text, "<use href=\"#graph\"/>\n");
    fold_draw__race_calls(race, side);
    fold_draw__race_strip(race, side);
    fold_draw__put(text, "</g>\n");
}

/* Writes the animation. In a viewer without animations, or for a reader who has turned them off, the picture
   shows the end of both sides. */
static void fold_draw__race_style(fold_draw__race *race)
{
    fold_draw__text *text = &race->text;
    const double stroke = fold_draw__stroke(race),
                 after = fold_draw__percent(race, race->most + 2.6 * race->most / race->seconds);
    fold_draw__put(text, "<style>\n@media(prefers-color-scheme:dark){.page{fill:#0d1117;stroke:#30363d}"
                         ".ink{fill:#f0f6fc}.dim{fill:#9198a1}.wire{stroke:#656c76}\n"
                         ".off{fill:#161b22;stroke:#656c76}.step{fill:#5f4b14}}\n");
    fold_draw__put(text,
                   "@media(prefers-reduced-motion:no-preference){\n.race,.race *,.count0,.count1{"
                   "animation-duration:%gs;animation-iteration-count:infinite}\n",
                   fold_draw__tenths(fold_draw__loop(race)));
    fold_draw__put(text, ".race{animation-name:race}@keyframes race{%g%%{opacity:1}%g%%,100%%{opacity:0}}\n",
                   after, fold_draw__tenths(after + 4));
    for (int i = 0; i < fold_draw__moments(race) && !text->stopped; i++) {
        const double at = fold_draw__percent(race, (double)i * race->most / fold_draw__moments(race));
        fold_draw__put(text, ".race%d{animation-name:race%d}@keyframes race%d{0%%,%g%%{opacity:0}", i, i, i,
                       at);
        fold_draw__put(text, "%g%%{opacity:1;stroke-width:%gpx}%g%%{stroke-width:%gpx}}\n",
                       fold_draw__tenths(at + 0.4), 4 * stroke, fold_draw__tenths(at + 4), stroke);
    }
    for (int side = 0; side < 2 && !text->stopped; side++) {
        const int steps = race->steps[side], shown = steps < FOLD_DRAW__FRAMES ? steps : FOLD_DRAW__FRAMES;
        const double begin = fold_draw__percent(race, 0), end = fold_draw__percent(race, steps);
        if (!steps)
            continue;
        fold_draw__put(text,
                       ".count%d{animation-name:count%d}@keyframes count%d{0%%{transform:translateY(0)}",
                       side, side, side);
        fold_draw__put(text, "%g%%{transform:translateY(0);animation-timing-function:steps(%d,start)}", begin,
                       shown);
        fold_draw__put(text, "%g%%,100%%{transform:translateY(%dpx)}}\n", end, -40 * shown);
        fold_draw__put(text, ".bar%d{animation-name:bar%d;animation-timing-function:linear}@keyframes bar%d{",
                       side, side, side);
        fold_draw__put(text, "0%%,%g%%{transform:scaleX(0)}%g%%{transform:scaleX(1)}}\n", begin, end);
    }
    fold_draw__put(text, "}\n</style>\n");
}

/* Returns a parameter's name that tells this kind from another of the same name; "" if none is needed. */
static const char *fold_draw__distinction(const fold_draw__plan *plan, int kind)
{
    const fold_seen *seen = &plan->kind[kind].seen;
    for (int other = 0; other < (int)plan->n_kinds; other++)
        if (other != kind && !strcmp(plan->kind[other].seen.name, seen->name))
            return fold_param_is_null(seen->param[0]) ? "" : fold_param_name(plan->m, seen->param[0]);
    return "";
}

/* Writes the legend, one colour per kind of call, and returns the picture's height. The widths of entries are
   estimates, since fonts differ. */
static int fold_draw__race_legend(fold_draw__race *race)
{
    enum { FOLD_DRAW__MOST_KINDS = 11, FOLD_DRAW__NAME = 14 };
    fold_draw__text *text = &race->text;
    const fold_draw__plan *plan = &race->plan;
    const int kinds = (int)plan->n_kinds,
              shown = kinds < FOLD_DRAW__MOST_KINDS ? kinds : FOLD_DRAW__MOST_KINDS;
    int left = FOLD_DRAW__EDGE, top = race->bottom + 32;
    fold_draw__put(text, "<g class=\"dim\" font-size=\"15\" fill=\"#57606a\">\n");
    for (int at = -1; at < shown; at++) {
        const char *name = at < 0 ? "a step" : plan->kind[at].seen.name;
        const char *more = at < 0 ? "" : fold_draw__distinction(plan, at);
        const size_t length = strlen(name), rest = strlen(more);
        const int width = 50 + 9 * (int)((length < FOLD_DRAW__NAME ? length : FOLD_DRAW__NAME + 1) +
                                         (rest < FOLD_DRAW__NAME ? rest : FOLD_DRAW__NAME + 1));
        if (left + width > FOLD_DRAW__RACE_W && left > FOLD_DRAW__EDGE)
            left = FOLD_DRAW__EDGE, top += 24;
        fold_draw__put(text, "<rect x=\"%d\" y=\"%d\" width=\"16\" height=\"14\" rx=\"4\" ", left, top - 12);
        if (at < 0)
            fold_draw__put(text, "class=\"step\" fill=\"#ffe9a8\"/>");
        else
            fold_draw__put(text, "fill=\"hsl(%d,70%%,75%%)\"/>", fold_draw__hue(at));
        fold_draw__put(text, "<text x=\"%d\" y=\"%d\">", left + 22, top);
        fold_draw__name(text, name, FOLD_DRAW__NAME);
        fold_draw__put(text, *more ? " " : "");
        fold_draw__name(text, more, FOLD_DRAW__NAME);
        fold_draw__put(text, "</text>\n");
        left += width;
    }
    if (race->drawn < race->steps[0])
        fold_draw__put(text, "<text x=\"%d\" y=\"%d\">%d of the %d calls are drawn</text>\n", FOLD_DRAW__EDGE,
                       top += 24, race->drawn, race->steps[0]);
    fold_draw__put(text, "</g>\n");
    return top + 18;
}

/* Writes the description for screen readers, and the title. */
static void fold_draw__race_head(fold_draw__race *race, const char *title, int height)
{
    fold_draw__text *text = &race->text;
    title = title ? title : "One recording, run twice";
    fold_draw__put(text,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
                   "%d\" ",
                   FOLD_DRAW__RACE_W, height, FOLD_DRAW__RACE_W, height);
    fold_draw__put(text, "font-family=\"system-ui,sans-serif\" role=\"img\">\n<title>");
    fold_draw__name(text, title, FOLD_DRAW__WHOLE);
    fold_draw__put(text, "</title>\n<desc>The same ");
    fold_draw__count(text, race->steps[0], "call", "calls");
    fold_draw__put(text, " twice. On the left, one call runs at a time, in ");
    fold_draw__count(text, race->steps[0], "step", "steps");
    fold_draw__put(text,
                   ". On the right, fold.h runs calls of one kind together as soon as they are ready, in ");
    fold_draw__count(text, race->steps[1], "step", "steps");
    fold_draw__put(text, ". The results have the same bits.</desc>\n");
    fold_draw__race_style(race);
    fold_draw__put(text,
                   "<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"12\" "
                   "fill=\"#fff\" "
                   "stroke=\"#d1d9e0\"/>\n",
                   FOLD_DRAW__RACE_W - 1, height - 1);
    fold_draw__put(text,
                   "<text class=\"ink\" x=\"%d\" y=\"38\" font-size=\"21\" font-weight=\"bold\" "
                   "fill=\"#1f2328\">",
                   FOLD_DRAW__EDGE);
    fold_draw__name(text, title, 46);
    fold_draw__put(text, "</text>\n");
}

FOLD_API fold_status fold_draw_race(fold_ctx *f, const fold_draw_race_desc *desc, fold_writer *write,
                                    void *user)
{
    enum { FOLD_DRAW__MOST_SECONDS = 600 };
    fold_draw__race race;
    memset(&race, 0, sizeof race);
    const fold_draw_race_desc settings = desc ? *desc : fold_draw_race_desc_default();
    const fold_draw__text text = { write, user, FOLD_DRAW__XML, !write };
    if (!(settings.seconds >= 0 && settings.seconds <= (float)FOLD_DRAW__MOST_SECONDS))
        return FOLD_BAD_ARGUMENT;
    const fold_status status = fold_draw__copy(f, &race.plan);
    if (status)
        return status;
    race.text = text;
    race.steps[0] = (int)race.plan.n_calls;
    race.steps[1] = race.plan.run.batch;
    race.most = race.steps[race.steps[1] > race.steps[0]];
    race.seconds = settings.seconds > 0 ? (double)settings.seconds : race.most < 24 ? race.most / 3.0 : 8;
    fold_draw__race_place(&race);
    race.text.stopped = 1;
    const int height = fold_draw__race_legend(&race); /* only to measure the height */
    race.text.stopped = !write;
    fold_draw__race_head(&race, settings.title, height);
    fold_draw__race_graph(&race);
    fold_draw__race_side(&race, 0);
    fold_draw__race_side(&race, 1);
    fold_draw__race_legend(&race);
    fold_draw__put(&race.text, "</svg>\n");
    fold_draw__free(&race.plan);
    return race.text.stopped ? FOLD_IO : FOLD_OK;
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

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* FOLD_DRAW_IMPLEMENTATION */
