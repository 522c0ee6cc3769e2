/* choice: learns to choose the best of any number of moves, then plays
     cc -O2 -o choice examples/cookbook/choice.c -lm && ./choice */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { FEATURES = 4, HIDDEN = 32, MOST = 30, GAMES = 32, STEPS = 600 }; /* at most 30 moves */
typedef struct net { fold_dense state, move, score; } net;
typedef struct game { float state[FEATURES], moves[MOST][FEATURES]; int count, best; } game;

/* [scores] */
/* Returns a score for each move, as a list of [1]. */
static fold_node scores_of(fold_ctx *f, const net *n, const game *g)
{
    fold_node state = fold_dense_apply(f, &n->state, fold_input(f, g->state, FEATURES));
    fold_node moves = fold_list_input(f, g->moves[0], g->count, fold_shape1(FEATURES));
    moves = fold_dense_apply(f, &n->move, moves);
    return fold_dense_apply(f, &n->score, fold_relu(f, fold_add(f, moves, state)));
}
/* [end] */

static void draw_game(fold_random *random, game *g) /* the best move has the largest product with the state */
{
    float most = -99;
    g->count = 1 + fold_random_below(random, MOST);
    for (int k = 0; k < FEATURES; k++) g->state[k] = fold_random_normal(random);
    for (int i = 0; i < g->count; i++) {
        float like = 0;
        for (int k = 0; k < FEATURES; k++) {
            g->moves[i][k] = fold_random_normal(random);
            like += g->state[k] * g->moves[i][k];
        }
        if (like > most) g->best = i;
        if (like > most) most = like;
    }
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    net n;
    n.state = fold_dense_new(m, "state", FEATURES, HIDDEN, FOLD_ACT_LINEAR);
    n.move = fold_dense_new(m, "move", FEATURES, HIDDEN, FOLD_ACT_LINEAR);
    n.score = fold_dense_new(m, "score", HIDDEN, 1, FOLD_ACT_LINEAR);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training);
    fold_adam adam = fold_adam_default();
    fold_random random = fold_random_new(1, 1);
    static game games[GAMES];
    adam.rate = 0.01f;
    for (int step = 0; step < STEPS; step++) {
        fold_node loss[GAMES];
        fold_ctx_reset(f);
        for (int i = 0; i < GAMES; i++) {
            draw_game(&random, &games[i]);
            /* [loss] */
            loss[i] = fold_list_choice_xent(f, scores_of(f, &n, &games[i]), games[i].best);
            /* [end] */
        }
        if (fold_backward(f, fold_mean_n(f, loss, GAMES)) || fold_adam_step(m, &adam))
            return puts(fold_ctx_message(f)), 1;
    }

    fold_node scores[GAMES]; /* then it plays */
    int best = 0, drawn = 0;
    fold_ctx_reset(f);
    for (int i = 0; i < GAMES; i++) {
        draw_game(&random, &games[i]);
        scores[i] = scores_of(f, &n, &games[i]);
    }
    if (fold_run(f, scores, GAMES)) return puts(fold_ctx_message(f)), 1;
    for (int i = 0; i < GAMES; i++) {
        /* [play] */
        best += fold_argmax(fold_value(f, scores[i]), games[i].count) == games[i].best;
        drawn += fold_random_row(&random, f, scores[i]) == games[i].best; /* by probability, to explore */
        /* [end] */
    }
    printf("of %d games the best move in %d, drawn in %d; %d batches\n", GAMES, best, drawn,
           fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return best < GAMES / 2;
}
