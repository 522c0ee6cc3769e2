/* neighbours: agents that come and go and see changing neighbours, as the rows of one list
     cc -O2 -o neighbours examples/cookbook/neighbours.c -lm && ./neighbours */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { SENSES = 4, HIDDEN = 16, AGENTS = 50, MOST = 10, FRAMES = 60 }; /* at most 10 neighbours */
static float senses[AGENTS][SENSES], memory[AGENTS][HIDDEN]; /* they outlive a frame */
static int from[AGENTS * MOST], to[AGENTS * MOST];
typedef struct { fold_dense key, query; fold_recurrent brain; } net;

static int look_around(int present, int frame) /* agent to[e] looks at agent from[e]; returns the edges */
{
    int edges = 0;
    for (int i = 0; i < present; i++) {
        for (int k = 0; k < (i + frame) % (MOST + 1); k++) {
            from[edges] = (i + k + 1) % present;
            to[edges++] = i;
        }
    }
    return edges;
}

/* [think] */
static fold_node think(fold_ctx *f, const net *n, int present, int edges) /* all agents at once */
{
    fold_node seen = fold_list_input(f, senses[0], present, fold_shape1(SENSES));
    fold_state before = { fold_list_input(f, memory[0], present, fold_shape1(HIDDEN)), FOLD_NULL_NODE };
    fold_node key = fold_dense_apply(f, &n->key, before.h), query = fold_dense_apply(f, &n->query, before.h);
    fold_node around = fold_list_attention_to(f, query, key, before.h, 1, from, to, edges);
    return fold_recurrent_apply(f, &n->brain, fold_concat2(f, seen, around), before).h;
}
/* [end] */

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    net n;
    n.key = fold_dense_new(m, "key", HIDDEN, HIDDEN, FOLD_ACT_LINEAR);
    n.query = fold_dense_new(m, "query", HIDDEN, HIDDEN, FOLD_ACT_LINEAR);
    n.brain = fold_gru_new(m, "brain", SENSES + HIDDEN, HIDDEN);
    fold_ctx *f = fold_ctx_new(m, NULL);
    for (int frame = 0; frame < FRAMES; frame++) {
        int present = AGENTS - frame % 10; /* agents come and go */
        for (int i = 0; i < present; i++) senses[i][0] = (float)((i + frame) % 5);
        /* [frame] */
        fold_ctx_reset(f);
        fold_node h = think(f, &n, present, look_around(present, frame));
        if (fold_run(f, &h, 1)) return puts(fold_ctx_message(f)), 1;
        fold_read(f, &h, 1, memory[0]);
        /* [end] */
    }
    printf("%d nodes for %d agents\n", fold_ctx_stats(f).run_nodes, AGENTS - (FRAMES - 1) % 10);
    fold_ctx_free(f);
    fold_model_free(m);
    return memory[0][0] == 0; /* fails if nothing was written */
}
