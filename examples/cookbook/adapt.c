/* adapt: a machine that wears learns its own behaviour again, in two static arrays and without malloc
     cc -O2 -o adapt examples/cookbook/adapt.c -lm && ./adapt */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include "../unfused.h"
#include <stdio.h>

enum { SEEN = 2, HIDDEN = 16, STEPS = 16, LESSONS = 400, PART = 20 };
#ifndef MODEL_BYTES /* the program prints how many it needs */
#define MODEL_BYTES 65536
#define CONTEXT_BYTES 262144
#endif
static unsigned char model_block[MODEL_BYTES], context_block[CONTEXT_BYTES];

static float seen[STEPS][SEEN], speed[STEPS]; /* speed and current of a motor; the speed that follows */

static void drive(int lesson) /* the motor runs for some steps */
{
    float now = (float)(lesson % 5) / 4;
    for (int t = 0; t < STEPS; t++) {
        const float current = (float)((lesson * 7 + t * t) % 17 - 8) / 8;
        seen[t][0] = now;
        seen[t][1] = current;
        now = 0.75f * now + 0.25f * current - 0.125f * now * now;
        speed[t] = now;
    }
}

static fold_model *new_model(void)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.memory.block = model_block;
    desc.memory.block_size = sizeof model_block;
    desc.tracing.block = context_block; /* until the model is sealed */
    desc.tracing.block_size = sizeof context_block;
    fold_model *m = fold_model_new(&desc);
    static fold_model_size known; /* arrays that need not grow leave no holes in the block */
    known.values = known.grads = known.state = known.state2 = 4000; /* as fold_model_measure reports them */
    known.packs = 7500;
    fold_model_reserve(m, &known);
    return m;
}

static fold_ctx *new_context(fold_model *m)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.training = 1;
    desc.group_bytes = 16384;
    desc.memory.block = context_block;
    desc.memory.block_size = sizeof context_block;
    return fold_ctx_new(m, &desc);
}

static unsigned long hash_of(const fold_model *m) /* of all parameters, by FNV-1a */
{
    int count;
    const float *values = fold_model_values(m, &count);
    const unsigned char *bytes = (const unsigned char *)values;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < (size_t)count * sizeof *values; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

enum { MILLION = 1000000 };
static unsigned long millionths(float sum) { return (unsigned long)(sum * 1e6f / (float)PART); } /* of the mean */

int main(void)
{
    fold_model *m = new_model();
    float before = 0, after = 0; /* errors of the first and the last lessons */
    /* [adapt] */
    fold_recurrent body = fold_gru_new(m, "body", SEEN, HIDDEN);
    for (int i = 0; i < fold_param_count(m); i++) fold_param_freeze(m, fold_param_at(m, i), 1);
    fold_dense head = fold_dense_new(m, "head", HIDDEN, 1, FOLD_ACT_LINEAR);
    fold_model_seal(m);

    fold_ctx *f = new_context(m);
    /* recorded once, then repeated on what seen and speed hold */
    fold_node x = fold_list_input_ref(f, seen[0], STEPS, fold_shape1(SEEN));
    fold_node next = fold_list_input_ref(f, speed, STEPS, fold_shape1(1));
    fold_node guess = fold_dense_apply(f, &head, fold_unroll_list(f, &body, x, 0, NULL, NULL));
    fold_node mean = fold_list_mean(f, fold_squared_error(f, guess, next));
    fold_adam adam = fold_adam_default();
    adam.rate = 0.03f;
    for (int lesson = 0; lesson < LESSONS; lesson++) {
        drive(lesson);
        fold_status failed = lesson == 0 ? fold_backward(f, mean) : fold_replay(f);
        if (failed || fold_adam_step(m, &adam)) return puts(fold_ctx_message(f)), 1;
        if (lesson < PART) before += fold_scalar(f, mean);
        if (lesson >= LESSONS - PART) after += fold_scalar(f, mean);
    }
    /* [end] */
    const unsigned long first = millionths(before), last = millionths(after); /* for a printf without floats */
    printf("error %lu.%06lu before, %lu.%06lu after\n", first / MILLION, first % MILLION, last / MILLION, last % MILLION);
    printf("model %lu bytes, context %lu bytes, hash %08lx\n", (unsigned long)fold_model_measure(m).block_bytes,
           (unsigned long)fold_ctx_stats(f).block_bytes, hash_of(m));
    fold_ctx_free(f);
    fold_model_free(m);
    return !(after < before / 2);
}
