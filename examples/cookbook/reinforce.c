/* reinforce: learns to walk to a goal from episodes of any length (REINFORCE)
     cc -O2 -o reinforce examples/cookbook/reinforce.c -lm && ./reinforce */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { WALKS = 32, LONGEST = 40, END = 8 }; /* walks on a line from -END to END; one end is the goal */
typedef struct {
    float seen[LONGEST][2], reward;
    int action[LONGEST], steps, at, goal;
    fold_random chance;
} walk;

static int play(fold_ctx *f, const fold_mlp *policy, walk *walks) /* walks that go on are one batch */
{
    for (int step = 0; step < LONGEST; step++) {
        fold_node logits[WALKS];
        walk *going[WALKS];
        int n = 0;
        fold_ctx_reset(f);
        for (walk *w = walks; w < walks + WALKS; w++) {
            if (w->at == END || w->at == -END) continue;
            w->seen[step][0] = (float)w->at / END;
            w->seen[step][1] = (float)w->goal;
            going[n] = w;
            logits[n++] = fold_mlp_apply(f, policy, fold_input(f, w->seen[step], 2));
        }
        if (fold_run(f, logits, n)) return 1;
        for (int i = 0; i < n; i++) {
            int right = fold_random_softmax(&going[i]->chance, fold_value(f, logits[i]), 2);
            going[i]->action[going[i]->steps++] = right;
            going[i]->at += right ? 1 : -1;
            going[i]->reward = going[i]->at == going[i]->goal * END ? 1 - 0.5f * (float)step / LONGEST : 0;
        }
    }
    return 0;
}

/* [loss] */
/* REINFORCE (Williams 1992): an episode is a list, of any length. */
static fold_node loss(fold_ctx *f, const fold_mlp *policy, const walk *w, float expected)
{
    fold_node logits = fold_mlp_apply(f, policy, fold_list_input(f, w->seen[0], w->steps, fold_shape1(2)));
    fold_node chosen = fold_list_sum(f, fold_pick_each(f, fold_log_softmax(f, logits), w->action, w->steps));
    return fold_scale(f, chosen, expected - w->reward);
}
/* [end] */

int main(void)
{
    static walk walks[WALKS];
    const int sizes[] = { 2, 16, 2 };
    fold_model *m = fold_model_new(NULL);
    fold_mlp policy = fold_mlp_new(m, "policy", sizes, 2, FOLD_ACT_TANH);
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(m, &training), *playing = fold_ctx_new(m, NULL);
    fold_adam adam = fold_adam_default();
    adam.rate = 0.02f;
    float mean = 0;
    for (int update = 0; update <= 100; update++) {
        fold_node losses[WALKS];
        for (int i = 0; i < WALKS; i++) {
            memset(&walks[i], 0, sizeof walks[i]);
            walks[i].goal = i % 2 ? 1 : -1;
            walks[i].chance = fold_random_new(1, (uint64_t)(update * WALKS + i));
        }
        if (play(playing, &policy, walks)) puts(fold_ctx_message(playing));
        mean = 0;
        for (int i = 0; i < WALKS; i++)
            mean += walks[i].reward / WALKS;
        fold_ctx_reset(f);
        for (int i = 0; i < WALKS; i++)
            losses[i] = loss(f, &policy, &walks[i], mean);
        if (fold_backward(f, fold_mean_n(f, losses, WALKS)) || fold_adam_step(m, &adam))
            return puts(fold_ctx_message(f)), 1;
        if (update % 50 == 0) printf("update %d: reward %.2f\n", update, (double)mean);
    }
    fold_ctx_free(playing);
    fold_ctx_free(f);
    fold_model_free(m);
    return !(mean > 0.8f);
}
