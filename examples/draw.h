/* draw.h - draws pictures and time lines of a context's run, by the visitor of fold.h (fold_ctx_visit).

   In one C or C++ file:  #define DRAW_IMPLEMENTATION
                          #include "draw.h"                          // behind fold.h

       fold_run(f, &loss, 1);
       draw_svg(f, fold_to_file, stdout);

   A picture shows the plan of the last run, or the recording by depth if something was recorded since, as fold_ctx_print
   does. Make one when batches are not what you expect, and a time line when a run takes long.

   All return FOLD_OK, FOLD_IO when the writer stopped, FOLD_BAD_ARGUMENT without a context, or FOLD_NO_MEMORY. A picture
   takes memory by malloc, about 60 bytes a node, until it is written. They work in a context with an error too, and leave
   its status alone. The writer may use the context. There are no globals. The file is C99 and C++17. With FOLD_NO_TEXT
   there is nothing to draw by, and it declares nothing.

   It shows a visitor as well: draw__take copies what it needs of each call, and all else reads the copy. */

#ifndef DRAW_H
#define DRAW_H
#ifndef FOLD_NO_TEXT

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a graph for Graphviz's dot: a cluster for every batch, coloured by kind of call. */
fold_status draw_dot(fold_ctx *f, fold_writer *write, void *user);

/* Writes an SVG picture, which needs nothing else: a column for every batch, coloured by kind of call, and a legend. It
   has at most 64 rows. If there are more samples, the first are drawn, and the calls of all others counted. */
fold_status draw_svg(fold_ctx *f, fold_writer *write, void *user);

/* Writes JSON in the Trace Event Format, which Perfetto and chrome://tracing show. It tells when the last run since the
   reset planned, and when each of its batches ran, forward and backward, with its calls and group. With
   fold_ctx_desc.trace_over_ns that is the last slow run. tid is the thread, and times are microseconds since the run
   began. Events beyond fold_ctx_desc.trace_bytes are counted as "dropped" in otherData. There are no events without
   trace_bytes or clock, or in eager contexts. It takes no memory. */
fold_status draw_trace(fold_ctx *f, fold_writer *write, void *user);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_NO_TEXT */
#endif /* DRAW_H */

#if defined(DRAW_IMPLEMENTATION) && !defined(FOLD_NO_TEXT)
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---------------------------------------------------------------------------------- */

enum { DRAW__JSON, DRAW__XML }; /* names are written in these ways; JSON's is dot's too */
typedef struct draw__text {
    fold_writer *write;
    void *user;
    int quote, stopped;
    size_t count;
    char buffer[400];
} draw__text;

static draw__text draw__text_of(fold_writer *write, void *user, int quote)
{
    draw__text text;
    text.write = write;
    text.user = user;
    text.quote = quote;
    text.stopped = !write;
    text.count = 0;
    return text;
}

static fold_status draw__end(draw__text *text)
{
    if (text->count && !text->stopped) text->stopped = (text->write)(text->buffer, text->count, text->user);
    text->count = 0;
    return text->stopped ? FOLD_IO : FOLD_OK;
}

static void draw__bytes(draw__text *text, const char *from, size_t count)
{
    while (count && !text->stopped) {
        const size_t left = sizeof text->buffer - text->count, part = count < left ? count : left;
        memcpy(text->buffer + text->count, from, part);
        text->count += part;
        from += part;
        count -= part;
        if (text->count == sizeof text->buffer) draw__end(text);
    }
}

/* Writes text of up to 300 bytes. Names go by draw__name, whatever their length. */
static void draw__put(draw__text *text, const char *format, ...)
{
    char buffer[300];
    va_list args;
    va_start(args, format);
    const int count = fold_format(buffer, sizeof buffer, format, args);
    va_end(args);
    if (count > 0) draw__bytes(text, buffer, (size_t)count < sizeof buffer ? (size_t)count : sizeof buffer - 1);
}

/* Tells how many bytes the well-formed UTF-8 sequence has that a text begins with (Unicode 15, table 3-7), or 0. */
static int draw__utf8(const char *from)
{
    const unsigned char *bytes = (const unsigned char *)from;
    const int lead = bytes[0];
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    const int count = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const int least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const int most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < least || bytes[1] > most) return 0;
    for (int i = 2; i < count; i++)
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    return count;
}

/* Whether a character is U+FFFE or U+FFFF, which XML does not allow (XML 1.0, section 2.2). */
static int draw__is_no_xml(const char *from) { return !strncmp(from, "\xef\xbf\xbe", 3) || !strncmp(from, "\xef\xbf\xbf", 3); }

/* Writes a name of at most so many characters, safe inside quotes: a character that would end them as an escape, a byte
   that is no text as '?', and so a character that is none of XML. */
enum { DRAW__WHOLE = 0x7fffffff };
static void draw__name(draw__text *text, const char *from, int characters)
{
    for (; *from && characters > 0; characters--) {
        const int count = draw__utf8(from);
        const char character = count == 1 ? *from : 0;
        const int is_control = count == 1 && ((unsigned char)character < 32 || character == 127);
        if (is_control && text->quote == DRAW__JSON) draw__put(text, "\\u%04x", (unsigned)character);
        else if (is_control || !count || (text->quote == DRAW__XML && draw__is_no_xml(from))) draw__bytes(text, "?", 1);
        else if (text->quote == DRAW__XML && character && strchr("<>&\"", character)) draw__put(text, "&#%d;", character);
        else {
            if (text->quote == DRAW__JSON && (character == '"' || character == '\\')) draw__bytes(text, "\\", 1);
            draw__bytes(text, from, (size_t)count);
        }
        from += count ? count : 1;
    }
    if (*from && characters == 0) draw__bytes(text, "..", 2);
}

/* Writes "1 call", "3 batches". */
static void draw__count(draw__text *text, int count, const char *one, const char *many)
{
    draw__put(text, "%d %s", count, count == 1 ? one : many);
}

/* ---- what a call is -------------------------------------------------------------------------- */

/* Writes a number with a point, whatever the locale. */
static void draw__number(draw__text *text, double number, int is_float)
{
    if (is_float) draw__put(text, "%g", number);
    else draw__put(text, "%s%.0f", number < 0 ? "-" : "", number < 0 ? -number : number);
}

/* Writes "linear(W, b)", "sum(axis 0)", "compose". */
static void draw__signature(draw__text *text, const fold_model *m, const fold_seen *seen)
{
    const char *open = "(";
    draw__name(text, seen->name, DRAW__WHOLE);
    for (int i = 0; i < 2 && !fold_param_is_null(seen->param[i]); i++, open = ", ") {
        draw__put(text, "%s", open);
        draw__name(text, fold_param_name(m, seen->param[i]), DRAW__WHOLE);
    }
    for (int i = 0; i < seen->n_attr; i++) {
        const char *name = seen->attr_name[i];
        if (!name) continue;
        draw__put(text, "%s%s%s", open, name, *name ? " " : "");
        if (*name && !seen->float_attr && seen->attr[i] == FOLD_ALL) draw__put(text, "all");
        else draw__number(text, seen->attr[i], seen->float_attr);
        open = ", ";
    }
    if (*open == ',') draw__bytes(text, ")", 1);
    if (!seen->cell) return;
    draw__put(text, " in ");
    draw__name(text, seen->cell, DRAW__WHOLE);
}

static void draw__shape(draw__text *text, const fold_shape *shape)
{
    for (int axis = 0; axis < shape->rank; axis++) draw__put(text, "%s%d", axis ? " x " : "[", shape->dim[axis]);
    draw__bytes(text, "]", 1);
}

/* Writes the shapes of operands and outputs. Three and more equal ones in a row are counted: "15 of [1 x 1]". */
static void draw__shapes(draw__text *text, const fold_seen *seen)
{
    for (int input = 0, same; input < seen->n_in + seen->n_list; input += same) {
        const int end = input < seen->n_in ? seen->n_in : seen->n_in + seen->n_list;
        for (same = 1; input + same < end && !memcmp(seen->in[input], seen->in[input + same], sizeof **seen->in);) same++;
        if (same < 3) same = 1;
        draw__put(text, "%s%s", input ? ", " : "", input >= seen->n_in ? "list of " : "");
        if (same > 1) draw__put(text, "%d of ", same);
        draw__shape(text, seen->in[input]);
    }
    for (int output = 0; output < seen->n_out; output++) {
        draw__put(text, output ? ", " : " -> ");
        draw__shape(text, seen->out[output]);
    }
}

/* ---- a copy of what is visited --------------------------------------------------------------- */

enum { DRAW__NOTHING, DRAW__LEAF, DRAW__CALL };
typedef struct draw__node {
    int is, column;         /* a leaf takes the column of its first reader */
    uint32_t call;          /* the node whose output it is */
    size_t first_operand;
    int n_operands;
    const char *name;       /* names a leaf; row tells it from others of the name */
    int rows, row, is_param;
    int top, low;           /* its place in a picture is top; low serves to find it */
} draw__node;
typedef struct draw__column { int kind, number, group, first, calls, left; } draw__column; /* a batch */
typedef struct draw__kind {
    fold_seen seen; /* its shapes are those below: what a visitor sees holds until it returns */
    fold_shape in[2 * FOLD_MAX_IN], out[FOLD_MAX_OUT];
    int calls, batches;
} draw__kind;
typedef struct draw__plan {
    const fold_model *m;
    fold_seen run;
    size_t n_nodes, n_operands, n_calls, n_columns, n_kinds;           /* the last node + 1 */
    size_t nodes_room, operands_room, calls_room, columns_room, kinds_room;
    draw__node *node;       /* by id */
    uint32_t *operand;
    uint32_t *call, *spare; /* ids, column by column */
    draw__column *column;
    draw__kind *kind;
} draw__plan;

/* Makes room for more items, which are zero. */
static int draw__grow(void *items, size_t *room, size_t wanted, size_t size)
{
    void *old = NULL, *grown;
    size_t more = *room ? *room : 16;
    memcpy(&old, items, sizeof old);
    if (wanted <= *room) return 1;
    while (more < wanted) more *= 2;
    grown = realloc(old, more * size);
    if (!grown) return 0;
    memset((char *)grown + *room * size, 0, (more - *room) * size);
    memcpy(items, &grown, sizeof grown);
    *room = more;
    return 1;
}

static void draw__take_kind(const fold_seen *seen, draw__kind *kind)
{
    kind->seen = *seen;
    for (int input = 0; input < seen->n_in + seen->n_list; input++) kind->in[input] = *seen->in[input];
    for (int output = 0; output < seen->n_out; output++) kind->out[output] = *seen->out[output];
}

/* Copies a leaf or a call; it is the visitor. */
static int draw__take(const fold_seen *seen, void *user)
{
    draw__plan *plan = (draw__plan *)user;
    const size_t id = seen->node.id, end = id + (size_t)seen->n_out, operands = (size_t)seen->n_operands;
    const int is_call = seen->what == FOLD_SEEN_CALL, kinds = is_call ? seen->kind + 1 : 0;
    if (seen->what == FOLD_SEEN_RUN) return plan->run = *seen, 0;
    if (!draw__grow(&plan->node, &plan->nodes_room, end, sizeof *plan->node) ||
        !draw__grow(&plan->operand, &plan->operands_room, plan->n_operands + operands, sizeof *plan->operand) ||
        !draw__grow(&plan->call, &plan->calls_room, plan->n_calls + 1, sizeof *plan->call) ||
        !draw__grow(&plan->column, &plan->columns_room, plan->n_columns + 1, sizeof *plan->column) ||
        !draw__grow(&plan->kind, &plan->kinds_room, (size_t)kinds, sizeof *plan->kind))
        return 1;
    if (plan->n_nodes < end) plan->n_nodes = end;
    for (size_t output = id; output < end; output++) plan->node[output].call = (uint32_t)id;
    draw__node *node = &plan->node[id];
    if (seen->batch < 0) return 0; /* nothing reads it */
    node->is = is_call ? DRAW__CALL : DRAW__LEAF;
    node->name = seen->name;
    node->rows = seen->rows;
    node->row = seen->row;
    node->is_param = seen->row < 0 && !fold_param_is_null(seen->param[0]) && !seen->n_operands;
    node->column = seen->batch; /* its number, until all columns are known */
    if (!is_call) return 0;
    draw__column *last = plan->column + plan->n_columns - 1;
    draw__kind *kind = &plan->kind[seen->kind];
    if (!plan->n_columns || last->number != seen->batch) {
        last = &plan->column[plan->n_columns++];
        last->kind = seen->kind;
        last->number = seen->batch;
        last->group = seen->group;
        last->first = (int)plan->n_calls;
        kind->batches++;
    }
    last->calls++;
    if (!kind->calls++) draw__take_kind(seen, kind);
    if (plan->n_kinds < (size_t)kinds) plan->n_kinds = (size_t)kinds;
    plan->call[plan->n_calls++] = (uint32_t)id;
    node->first_operand = plan->n_operands;
    node->n_operands = seen->n_operands;
    memcpy(plan->operand + plan->n_operands, seen->operand, operands * sizeof *plan->operand);
    plan->n_operands += operands;
    return 0;
}

static void draw__free(draw__plan *plan)
{
    free(plan->node);
    free(plan->operand);
    free(plan->call);
    free(plan->spare);
    free(plan->column);
    free(plan->kind);
}

static fold_status draw__copy(fold_ctx *f, draw__plan *plan)
{
    int *column_of;
    memset(plan, 0, sizeof *plan);
    plan->m = fold_ctx_model(f);
    fold_status status = fold_ctx_visit(f, draw__take, plan);
    if (status == FOLD_IO) status = FOLD_NO_MEMORY; /* the visitor stops for no other reason */
    for (size_t at = 0; at < plan->n_kinds; at++) {
        draw__kind *kind = &plan->kind[at];
        for (int input = 0; input < kind->seen.n_in + kind->seen.n_list; input++) kind->seen.in[input] = &kind->in[input];
        for (int output = 0; output < kind->seen.n_out; output++) kind->seen.out[output] = &kind->out[output];
    }
    plan->spare = status ? NULL : (uint32_t *)calloc(plan->n_calls + 1, sizeof *plan->spare);
    column_of = plan->spare ? (int *)calloc((size_t)plan->run.batch + 1, sizeof *column_of) : NULL;
    if (!status && !column_of) status = FOLD_NO_MEMORY;
    for (size_t column = 0; column < plan->n_columns && column_of; column++) column_of[plan->column[column].number] = (int)column;
    for (size_t id = 0; id < plan->n_nodes && column_of; id++) plan->node[id].column = column_of[plan->node[id].column];
    free(column_of);
    if (status) draw__free(plan);
    return status;
}

/* Writes "27 calls in 6 batches, …". */
static void draw__head(draw__text *text, const draw__plan *plan)
{
    const int prologues = plan->run.batch - (int)plan->n_columns;
    draw__count(text, plan->run.calls, "call", "calls");
    draw__put(text, " in ");
    draw__count(text, (int)plan->n_columns, "batch", "batches");
    if (prologues) draw__put(text, " and ");
    if (prologues) draw__count(text, prologues, "prologue", "prologues");
    if (plan->run.group > 1) draw__put(text, ", %d groups", plan->run.group);
    if (!plan->run.name) draw__put(text, " by depth, not run yet");
    else if (!strcmp(plan->run.name, "eager")) draw__put(text, " by depth; the context is eager");
    else draw__put(text, ", lower bound %d, schedule %s", plan->run.lower_bound, plan->run.name);
}

/* Writes "embed 7", "W", "input 3" or, of a value that an earlier run made, "compose 12". */
static void draw__leaf(draw__text *text, const draw__node *node, size_t id, int characters)
{
    draw__name(text, node->name, characters);
    if (node->row >= 0 && node->rows >= 0) draw__put(text, ", %d rows", node->rows);
    else if (node->row >= 0) draw__put(text, " %d", node->row);
    else if (!node->is_param) draw__put(text, " %lu", (unsigned long)id);
}

/* Tells the node whose output an operand is, and whether an operand before it is of the same node: pictures show one
   edge for both. */
static uint32_t draw__operand(const draw__plan *plan, const draw__node *node, int operand)
{
    return plan->node[plan->operand[node->first_operand + (size_t)operand]].call;
}
static int draw__drawn_before(const draw__plan *plan, const draw__node *node, int operand)
{
    enum { BACK = 16 };
    const uint32_t from = draw__operand(plan, node, operand);
    for (int i = operand; i > 0 && operand - i < BACK; i--)
        if (draw__operand(plan, node, i - 1) == from) return 1;
    return 0;
}

/* Kinds get hues a golden angle apart. */
static int draw__hue(int kind) { return (int)(((unsigned)kind * 137u + 210u) % 360u); }

/* ---- a graph --------------------------------------------------------------------------------- */

static void draw__clusters(draw__text *text, const draw__plan *plan)
{
    for (size_t at = 0; at < plan->n_columns && !text->stopped; at++) {
        const draw__column *column = &plan->column[at];
        const fold_seen *seen = &plan->kind[column->kind].seen;
        draw__put(text, "  subgraph cluster_%d {\n    color=gray; label=\"%lu: ", column->number + 1, at + 1ul);
        draw__signature(text, plan->m, seen);
        draw__put(text, " x %d\";\n    node [fillcolor=\"0.%03d 0.45 0.95\"];\n", column->calls,
                  draw__hue(column->kind) * 1000 / 360);
        for (int i = 0; i < column->calls; i++) {
            const unsigned long id = plan->call[column->first + i];
            draw__put(text, "    n%lu [label=\"", id);
            draw__name(text, seen->name, 16);
            draw__put(text, " %lu\"];\n", id);
        }
        draw__put(text, "  }\n");
    }
}

fold_status draw_dot(fold_ctx *f, fold_writer *write, void *user)
{
    draw__plan plan;
    draw__text text = draw__text_of(write, user, DRAW__JSON);
    const fold_status status = draw__copy(f, &plan);
    if (status) return status;
    draw__put(&text, "digraph fold {\n  rankdir=LR; fontname=\"sans-serif\"; label=\"");
    draw__head(&text, &plan);
    draw__put(&text, "\";\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=10];\n");
    draw__clusters(&text, &plan);
    for (size_t id = 0; id < plan.n_nodes && !text.stopped; id++) {
        if (plan.node[id].is != DRAW__LEAF) continue;
        draw__put(&text, "  n%lu [fillcolor=white, label=\"", (unsigned long)id);
        draw__leaf(&text, &plan.node[id], id, DRAW__WHOLE);
        draw__put(&text, "\"];\n");
    }
    for (size_t id = 0; id < plan.n_nodes && !text.stopped; id++)
        for (int i = 0; i < plan.node[id].n_operands; i++)
            if (!draw__drawn_before(&plan, &plan.node[id], i))
                draw__put(&text, "  n%lu -> n%lu;\n", (unsigned long)draw__operand(&plan, &plan.node[id], i), (unsigned long)id);
    draw__put(&text, "}\n");
    draw__free(&plan);
    return draw__end(&text);
}

/* ---- a picture ------------------------------------------------------------------------------- */

/* Sizes in a picture: a lane holds one node. Leaves are drawn in the space before the column of their first reader. Calls
   that find no lane are counted, not drawn. */
enum {
    DRAW__MOST_LANES = 64,
    DRAW__LANE = 24,
    DRAW__NODE_W = 38,
    DRAW__NODE_H = 16,
    DRAW__LEAF_W = 66,
    DRAW__SPACE = 40,
    DRAW__TOP = 100,
    DRAW__LEFT = 16,
    DRAW__HIDDEN = INT32_MIN /* the height of a node that is not drawn */
};

static int draw__is_drawn(const draw__node *node) { return node->is && node->top != DRAW__HIDDEN; }

static int draw__count_hidden(const draw__plan *plan, const draw__column *column)
{
    int count = 0;
    for (int i = 0; i < column->calls; i++) count += !draw__is_drawn(&plan->node[plan->call[column->first + i]]);
    return count;
}

/* Moves `count` nodes of a column apart, as little as need be: halfway between the nearest places that fit downwards and
   upwards. There are at most DRAW__MOST_LANES nodes, in the order of their ids. */
static void draw__part_column(draw__plan *plan, uint32_t *ids, int count)
{
    draw__node *node = plan->node;
    for (int i = 1; i < count; i++)
        for (int at = i; at > 0 && (node[ids[at]].top != node[ids[at - 1]].top ? node[ids[at]].top < node[ids[at - 1]].top
                                                                               : ids[at] < ids[at - 1]); at--) {
            const uint32_t higher = ids[at];
            ids[at] = ids[at - 1];
            ids[at - 1] = higher;
        }
    for (int i = 0; i < count; i++) {
        node[ids[i]].low = node[ids[i]].top;
        if (i && node[ids[i]].low < node[ids[i - 1]].low + DRAW__LANE) node[ids[i]].low = node[ids[i - 1]].low + DRAW__LANE;
    }
    for (int i = count; i-- > 1;)
        if (node[ids[i - 1]].top > node[ids[i]].top - DRAW__LANE) node[ids[i - 1]].top = node[ids[i]].top - DRAW__LANE;
    for (int i = 0; i < count; i++) node[ids[i]].top = (node[ids[i]].top + node[ids[i]].low) / 2;
}

/* Tells whether a call has a lane. A call that reads nothing has one already; another needs operands that are drawn, and
   lies at their mean height. */
static int draw__place_call(draw__plan *plan, uint32_t id, int needs_all)
{
    draw__node *node = &plan->node[id];
    int64_t heights = 0, drawn = 0;
    if (!node->n_operands) return draw__is_drawn(node);
    node->top = DRAW__HIDDEN;
    for (int i = 0; i < node->n_operands; i++) {
        const draw__node *from = &plan->node[draw__operand(plan, node, i)];
        if (!draw__is_drawn(from)) continue;
        heights += from->top;
        drawn++;
    }
    if (!drawn || (needs_all && drawn < node->n_operands)) return 0;
    node->top = (int)(heights / drawn);
    return 1;
}

/* Finds the calls of a column that are drawn. All their operands must be drawn, so that samples are whole. If there is no
   such call, as in a column that joins all samples, it finds calls with any operand that is drawn. */
static void draw__lay_out_column(draw__plan *plan, const draw__column *column)
{
    int count = 0;
    for (int needs_all = 1; needs_all >= 0 && !count; needs_all--)
        for (int i = 0; i < column->calls; i++) {
            const uint32_t id = plan->call[column->first + i];
            if (count < DRAW__MOST_LANES && draw__place_call(plan, id, needs_all)) plan->spare[count++] = id;
            else plan->node[id].top = DRAW__HIDDEN;
        }
    draw__part_column(plan, plan->spare, count);
}

/* Gives leaves, and calls that read nothing, a lane each as they were recorded, as long as there are lanes. The columns
   follow from left to right. Returns the height of it all. */
static int draw__lay_out(draw__plan *plan)
{
    int lanes = 0, top = 0, bottom = 0;
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (plan->node[id].is && !plan->node[id].n_operands)
            plan->node[id].top = lanes < DRAW__MOST_LANES ? DRAW__LANE * lanes++ : DRAW__HIDDEN;
    for (size_t column = 0; column < plan->n_columns; column++) draw__lay_out_column(plan, &plan->column[column]);
    for (size_t id = 0; id < plan->n_nodes; id++) {
        if (!draw__is_drawn(&plan->node[id])) continue;
        if (plan->node[id].top < top) top = plan->node[id].top;
        if (plan->node[id].top > bottom) bottom = plan->node[id].top;
    }
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (draw__is_drawn(&plan->node[id])) plan->node[id].top += DRAW__TOP - top;
    return bottom - top + DRAW__LANE;
}

/* Gives each column its place; returns the width of it all. */
static int draw__place_columns(draw__plan *plan)
{
    int left = DRAW__LEFT;
    for (size_t id = 0; id < plan->n_nodes; id++)
        if (plan->node[id].is == DRAW__LEAF && draw__is_drawn(&plan->node[id]))
            plan->column[plan->node[id].column].left = DRAW__LEAF_W;
    for (size_t column = 0; column < plan->n_columns; column++) {
        left += plan->column[column].left + DRAW__SPACE;
        plan->column[column].left = left;
        left += DRAW__NODE_W;
    }
    return left + DRAW__SPACE;
}

static void draw__svg_columns(draw__text *text, const draw__plan *plan, int height)
{
    for (size_t at = 0; at < plan->n_columns; at++) {
        const draw__column *column = &plan->column[at];
        const int middle = column->left + DRAW__NODE_W / 2, hidden = draw__count_hidden(plan, column);
        draw__put(text, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"hsl(%d,60%%,95%%)\"/>\n",
                  column->left - 8, DRAW__TOP - 20, DRAW__NODE_W + 16, height, draw__hue(column->kind));
        draw__put(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\"><tspan font-weight=\"bold\">%lu</tspan>", middle,
                  DRAW__TOP - 50, at + 1ul);
        draw__put(text, "<tspan x=\"%d\" dy=\"13\" font-size=\"10\">", middle);
        draw__name(text, plan->kind[column->kind].seen.name, 12);
        draw__put(text, "</tspan><tspan x=\"%d\" dy=\"12\" font-size=\"10\">&#215;%d</tspan></text>\n", middle, column->calls);
        if (hidden)
            draw__put(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"10\">+%d</text>\n", middle,
                      DRAW__TOP - 26 + height, hidden);
        if (plan->run.group > 1 && (!at || column->group != column[-1].group))
            draw__put(text, "<text x=\"%d\" y=\"%d\" fill=\"gray\">group %d</text>\n", column->left - 8, DRAW__TOP - 66,
                      column->group + 1);
    }
}

static void draw__svg_edges(draw__text *text, const draw__plan *plan)
{
    draw__put(text, "<g fill=\"none\" stroke=\"#667\" stroke-opacity=\"0.6\">\n");
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++)
        for (int i = 0; i < plan->node[id].n_operands; i++) {
            const draw__node *reader = &plan->node[id], *from = &plan->node[draw__operand(plan, reader, i)];
            const int left = plan->column[from->column].left + (from->is == DRAW__LEAF ? -DRAW__SPACE / 2 : DRAW__NODE_W);
            const int to = plan->column[reader->column].left, bend = (to - left) / 2;
            if (draw__drawn_before(plan, reader, i) || !draw__is_drawn(reader) || !draw__is_drawn(from)) continue;
            draw__put(text, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", left, from->top, left + bend, from->top, to - bend,
                      reader->top, to, reader->top);
        }
    draw__put(text, "</g>\n");
}

static void draw__svg_nodes(draw__text *text, const draw__plan *plan)
{
    for (size_t id = 0; id < plan->n_nodes && !text->stopped; id++) {
        const draw__node *node = &plan->node[id];
        if (!draw__is_drawn(node)) continue;
        const draw__column *column = &plan->column[node->column];
        const int leaf = node->is == DRAW__LEAF, width = leaf ? DRAW__LEAF_W : DRAW__NODE_W;
        const int left = column->left - (leaf ? DRAW__SPACE / 2 + DRAW__LEAF_W : 0), hue = draw__hue(column->kind);
        draw__put(text, "<g><title>");
        if (leaf) draw__leaf(text, node, id, DRAW__WHOLE);
        else draw__signature(text, plan->m, &plan->kind[column->kind].seen);
        draw__put(text, ", node %lu</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" ", (unsigned long)id,
                  left, node->top - DRAW__NODE_H / 2, width, DRAW__NODE_H);
        if (leaf) draw__put(text, "fill=\"white\" stroke=\"#aab\"/>");
        else draw__put(text, "fill=\"hsl(%d,60%%,75%%)\" stroke=\"hsl(%d,50%%,45%%)\"/>", hue, hue);
        draw__put(text, "<text x=\"%d\" y=\"%d\" font-size=\"9\" text-anchor=\"middle\">", left + width / 2, node->top + 3);
        if (leaf) draw__leaf(text, node, id, 8);
        else draw__put(text, "%lu", (unsigned long)id);
        draw__put(text, "</text></g>\n");
    }
}

static void draw__svg_legend(draw__text *text, const draw__plan *plan, int top)
{
    for (size_t at = 0; at < plan->n_kinds && !text->stopped; at++, top += 18) {
        const draw__kind *kind = &plan->kind[at];
        draw__put(text, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" rx=\"3\" fill=\"hsl(%d,60%%,75%%)\"/>", DRAW__LEFT,
                  top - 10, draw__hue((int)at));
        draw__put(text, "<text x=\"%d\" y=\"%d\">", DRAW__LEFT + 22, top);
        draw__signature(text, plan->m, &kind->seen);
        draw__put(text, ": ");
        draw__shapes(text, &kind->seen);
        draw__put(text, "; ");
        draw__count(text, kind->calls, "call", "calls");
        draw__put(text, " in ");
        draw__count(text, kind->batches, "batch", "batches");
        draw__put(text, "</text>\n");
    }
}

fold_status draw_svg(fold_ctx *f, fold_writer *write, void *user)
{
    draw__plan plan;
    draw__text text = draw__text_of(write, user, DRAW__XML);
    const fold_status status = draw__copy(f, &plan);
    if (status) return status;
    int lanes = draw__lay_out(&plan), hidden = 0;
    for (size_t id = 0; id < plan.n_nodes; id++) hidden += plan.node[id].is && !draw__is_drawn(&plan.node[id]);
    lanes += hidden ? DRAW__LANE : 0; /* one lane counts the nodes that are not drawn */
    const int columns = draw__place_columns(&plan), width = columns < 560 ? 560 : columns;
    const int height = DRAW__TOP + lanes + 18 * (int)plan.n_kinds + 24;
    draw__put(&text, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ", width, height,
              width, height);
    draw__put(&text, "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    draw__put(&text, "<text x=\"%d\" y=\"16\">", DRAW__LEFT);
    draw__head(&text, &plan);
    if (hidden) draw__put(&text, "; drawn are the first samples, + counts all other calls");
    draw__put(&text, "</text>\n");
    draw__svg_columns(&text, &plan, lanes + 8);
    draw__svg_edges(&text, &plan);
    draw__svg_nodes(&text, &plan);
    draw__svg_legend(&text, &plan, DRAW__TOP + lanes + 20);
    draw__put(&text, "</svg>\n");
    draw__free(&plan);
    return draw__end(&text);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Writes nanoseconds as microseconds, without a locale's comma. */
static void draw__time(draw__text *text, const char *key, uint64_t ns)
{
    draw__put(text, ",\"%s\":%.0f.%03u", key, (double)(ns / 1000), (unsigned)(ns % 1000));
}

typedef struct draw__events { draw__text text; const fold_model *m; unsigned long dropped; int thread; } draw__events;

static int draw__event(const fold_seen *seen, void *user)
{
    draw__events *events = (draw__events *)user;
    draw__text *text = &events->text;
    const int is_run = seen->what == FOLD_SEEN_RUN;
    if (is_run) draw__put(text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"cat\":\"plan\",\"name\":\"plan\",\"ts\":0");
    if (is_run) draw__time(text, "dur", seen->end_ns);
    if (is_run) return draw__put(text, "}"), text->stopped;
    if (seen->thread != events->thread) events->dropped += (unsigned long)seen->dropped;
    events->thread = seen->thread;
    draw__put(text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"cat\":\"%s%s\",\"name\":\"", seen->thread,
              seen->backward ? "backward" : "forward", seen->prologue ? ",prologue" : "");
    draw__signature(text, events->m, seen);
    draw__put(text, "\"");
    draw__time(text, "ts", seen->start_ns);
    draw__time(text, "dur", seen->end_ns - seen->start_ns);
    draw__put(text, ",\"args\":{\"calls\":%d,\"group\":%d,\"shapes\":\"", seen->calls, seen->group + 1);
    draw__shapes(text, seen);
    draw__put(text, "\"}}");
    return text->stopped;
}

fold_status draw_trace(fold_ctx *f, fold_writer *write, void *user)
{
    draw__events events;
    memset(&events, 0, sizeof events);
    events.text = draw__text_of(write, user, DRAW__JSON);
    events.thread = -1;
    if (!f) return FOLD_BAD_ARGUMENT;
    events.m = fold_ctx_model(f);
    draw__put(&events.text, "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"fold\"}}");
    fold_ctx_visit_times(f, draw__event, &events);
    draw__put(&events.text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%lu}}\n", events.dropped);
    return draw__end(&events.text);
}

#endif /* DRAW_IMPLEMENTATION */
