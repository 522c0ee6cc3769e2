/* agents: each line is what one agent sees: any number of things, each with its place. All agents decide together.

     cc -O2 -o agents examples/web/agents.c -lm && ./agents

   The playground runs these functions, and shows this program with the lines that you typed. */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const agent[] = {
    "crumb 2,0  wall -1,1  crumb 3,3",
    "nothing",
};

enum { THINGS = 3, MOST_SEEN = 50, AGENT_WIDTH = 32, WAYS = 4 };
static const char *const thing_name[THINGS] = { "crumb", "wall", "hawk" };
typedef struct { fold_dense see[THINGS], choose; } policy;
typedef struct { int thing; float place[2]; } seen;

/* Each kind of thing is seen through a layer of its own. */
static policy policy_new(fold_model *m)
{
    policy p;
    for (int i = 0; i < THINGS; i++) p.see[i] = fold_dense_new(m, thing_name[i], 2, AGENT_WIDTH, FOLD_ACT_TANH);
    p.choose = fold_dense_new(m, "choose", AGENT_WIDTH, WAYS, FOLD_ACT_LINEAR);
    return p;
}

/* Reads "crumb 2,0" or the like; returns how many bytes, 0 if it is nothing of the kind. */
static int read_thing(const char *line, seen *to)
{
    char *end;
    for (to->thing = 0; to->thing < THINGS; to->thing++) {
        const size_t size = strlen(thing_name[to->thing]);
        if (strncmp(line, thing_name[to->thing], size)) continue;
        to->place[0] = strtof(line + size, &end);
        if (end == line + size || *end != ',') return 0;
        const char *second = end + 1;
        to->place[1] = strtof(second, &end);
        return end == second ? 0 : (int)(end - line);
    }
    return 0;
}

/* Records one line: the agent sums up what it sees, and scores each way to go. If it cannot be read, *wrong says why. */
static fold_node agent_record(fold_ctx *f, const policy *p, const char *line, const char **wrong)
{
    fold_node sum = fold_zeros(f, fold_shape1(AGENT_WIDTH));
    for (int count = 0; *line && strcmp(line, "nothing"); count++) {
        seen s;
        const int size = read_thing(line, &s);
        if (!size) *wrong = "a line is \"nothing\", or such as: crumb 2,0 wall -1,1 hawk 0,3";
        else if (count == MOST_SEEN) *wrong = "an agent sees at most 50 things";
        if (*wrong) break;
        sum = fold_add(f, sum, fold_dense_apply(f, &p->see[s.thing], fold_input(f, s.place, 2)));
        for (line += size; *line == ' ';) line++;
    }
    return fold_dense_apply(f, &p->choose, sum);
}

int main(void)
{
    enum { LINES = sizeof agent / sizeof *agent };
    fold_model *m = fold_model_new(NULL);
    const policy p = policy_new(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node root[LINES];
    const char *wrong = NULL;
    for (int i = 0; i < LINES && !wrong; i++) root[i] = agent_record(f, &p, agent[i], &wrong);
    if (wrong) return puts(wrong), 1;
    if (fold_run(f, root, LINES)) return puts(fold_ctx_message(f)), 1;
    printf("%d calls in %d batches\n", fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
