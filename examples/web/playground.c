/* The functions that playground.html calls, compiled to WebAssembly by `make web`. What it runs are the networks of three
   programs, which the page also shows as C; their mains are not linked. */
#define main trees_main
#include "trees.c"
#undef main
#define main lists_main
#include "lists.c"
#undef main
#define main agents_main
#include "agents.c"
#undef main
#define FOLD_DRAW_IMPLEMENTATION
#include "../fold_draw.h"
#include "../options.h"

#define PAGE(name) __attribute__((export_name(#name))) name

enum { TREES, LISTS, AGENTS, NETS };
enum { TEXT = 1 << 14, PICTURE = 1 << 22, MOST_ROOTS = 1 << 12 };

static struct {
    tree_net trees;
    sentence_net lists;
    policy agents;
    fold_model *model[NETS];
    fold_ctx *batched[NETS], *eager[NETS];
    fold_node root[MOST_ROOTS];
    char text[TEXT], picture[PICTURE], problem[400];
    size_t picture_size;
} page;

/* ---- what is typed ---- */

static fold_node record_line(fold_ctx *f, int net, const char *line, const char **wrong)
{
    if (net == TREES) return tree_record(f, &page.trees, line, wrong);
    if (net == LISTS) return sentence_record(f, &page.lists, line, wrong);
    return agent_record(f, &page.agents, line, wrong);
}

static int trim(char *line) /* spaces before and after it; returns whether anything is left */
{
    size_t length = strlen(line), before = strspn(line, " \t\r");
    while (length > before && strchr(" \t\r", line[length - 1])) length--;
    memmove(line, line + before, length - before);
    line[length - before] = 0;
    return length > before;
}

/* Records every line of the text so many times over; returns how many roots, or 0 with a problem. */
static int record(fold_ctx *f, int net, int copies)
{
    int count = 0;
    page.problem[0] = 0;
    fold_ctx_reset(f);
    for (int copy = 0; copy < copies; copy++) {
        const char *at = page.text, *wrong = NULL;
        for (int number = 1; *at && count < MOST_ROOTS; number++) {
            static char line[TEXT];
            const size_t length = strcspn(at, "\n");
            memcpy(line, at, length);
            line[length] = 0;
            at += length + (at[length] == '\n');
            if (!trim(line)) continue;
            page.root[count++] = record_line(f, net, line, &wrong);
            if (!wrong) continue;
            snprintf(page.problem, sizeof page.problem, "line %d: %s", number, wrong);
            return 0;
        }
    }
    if (!count) snprintf(page.problem, sizeof page.problem, "type a line");
    return count;
}

static int append(const void *bytes, size_t size, void *user)
{
    (void)user;
    if (size >= sizeof page.picture - page.picture_size) return 1;
    memcpy(page.picture + page.picture_size, bytes, size);
    page.picture_size += size;
    page.picture[page.picture_size] = 0;
    return 0;
}

static int run(fold_ctx *f, int net, int copies)
{
    const int count = record(f, net, copies);
    if (!count || !fold_run(f, page.root, count)) return count;
    snprintf(page.problem, sizeof page.problem, "%s", fold_ctx_message(f));
    return 0;
}

/* ---- what the page calls ---- */

void PAGE(begin)(void)
{
    for (int net = 0; net < NETS; net++) page.model[net] = fold_model_new(NULL);
    page.trees = tree_net_new(page.model[TREES]);
    page.lists = sentence_net_new(page.model[LISTS]);
    page.agents = policy_new(page.model[AGENTS]);
    for (int net = 0; net < NETS; net++) {
        fold_ctx_desc desc = fold_ctx_desc_default();
        page.batched[net] = fold_ctx_new(page.model[net], &desc);
        desc.eager = 1;
        page.eager[net] = fold_ctx_new(page.model[net], &desc);
    }
}

char *PAGE(text)(void) { return page.text; }
int PAGE(text_size)(void) { return TEXT; }
const char *PAGE(problem)(void) { return page.problem; }
const char *PAGE(picture)(void) { return page.picture; }

/* Runs the lines once, and draws their plan. Returns how many lines there are, or 0 with a problem. */
int PAGE(draw)(int net)
{
    fold_ctx *f = page.batched[net];
    const int count = run(f, net, 1);
    page.picture_size = 0;
    if (!count || !fold_draw_svg(f, append, NULL)) return count;
    snprintf(page.picture, sizeof page.picture, "<p>This plan is too large for a picture.</p>");
    return count;
}

int PAGE(calls)(int net) { return fold_ctx_stats(page.batched[net]).run_nodes; }
int PAGE(batches)(int net) { return fold_ctx_stats(page.batched[net]).batches; }

/* Records and runs copies of the lines, batched or one call at a time. Returns a hash of all results. */
uint64_t PAGE(race)(int net, int one_at_a_time, int copies)
{
    fold_ctx *f = one_at_a_time ? page.eager[net] : page.batched[net];
    const int count = run(f, net, copies);
    uint64_t hash = RESULT_HASH;
    for (int i = 0; i < count; i++) {
        const fold_shape shape = fold_node_shape(f, page.root[i]);
        hash = result_hash(hash, fold_value(f, page.root[i]), (size_t)shape.dim[0] * sizeof(float));
    }
    return hash;
}
