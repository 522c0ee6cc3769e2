/* controller: a controller that is recorded once and replayed every step, in a static block of memory
     cc -O2 -o controller examples/cookbook/controller.c -lm && ./controller */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>
#include <string.h>

enum { SENSORS = 16, HIDDEN = 64, ACTIONS = 8, BLOCK = 96 << 10 };
typedef struct { fold_dense in, out; fold_recurrent memory; } policy;
static float sensors[SENSORS], state[HIDDEN];
static unsigned char block[BLOCK]; /* all memory of the context */

/* [record] */
static fold_node record(fold_ctx *f, const policy *p)
{
    fold_state before = { fold_input_ref(f, state, fold_shape1(HIDDEN)), FOLD_NULL_NODE };
    fold_node x = fold_dense_apply(f, &p->in, fold_input_ref(f, sensors, fold_shape1(SENSORS)));
    fold_node h = fold_recurrent_apply(f, &p->memory, x, before).h;
    fold_output_ref(f, h, state); /* where the next step reads it */
    return fold_dense_apply(f, &p->out, h);
}
/* [end] */

static size_t measure(fold_model *m, const policy *p) /* while you develop; the number goes into BLOCK */
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    /* [measure] */
    desc.measure = 1;
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_node action = record(f, p);
    fold_run(f, &action, 1);
    fold_replay(f);
    size_t bytes = fold_ctx_stats(f).block_bytes;
    /* [end] */
    fold_ctx_free(f);
    return bytes;
}

int main(void)
{
    fold_model *m = fold_model_new(NULL);
    policy p;
    p.in = fold_dense_new(m, "in", SENSORS, HIDDEN, FOLD_ACT_RELU);
    p.memory = fold_gru_new(m, "memory", HIDDEN, HIDDEN);
    p.out = fold_dense_new(m, "out", HIDDEN, ACTIONS, FOLD_ACT_LINEAR);
    if (measure(m, &p) > BLOCK) { printf("BLOCK must be %d\n", (int)measure(m, &p)); return 1; }

    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.memory.block = block;
    desc.memory.block_size = BLOCK;
    fold_ctx *f = fold_ctx_new(m, &desc);
    fold_node action = record(f, &p);
    float sum = 0;
    for (int step = 0; step < 1000; step++) {
        float now[SENSORS];
        for (int i = 0; i < SENSORS; i++)
            now[i] = (float)((step + i) % 7) / (step % 100 == 50 ? 0 : 7); /* a sensor that fails at times */
        /* [step] */
        if (fold_finite(now, SENSORS)) memcpy(sensors, now, sizeof now);   /* else the last good one stays */
        if (step ? fold_replay(f) : fold_run(f, &action, 1)) return puts(fold_ctx_message(f)), 1;
        /* [end] */
        sum += fold_value(f, action)[0];
    }
    printf("1000 steps, recorded once%s\n", sum == sum ? "" : ", but not a number");
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
