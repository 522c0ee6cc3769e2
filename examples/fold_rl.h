/* fold_rl.h - reinforcement learning with fold.h: policies, log-probabilities of actions in plain floats,
   running means and deviations of observations, advantages, and the loss of PPO. It uses public calls only.

   In one C or C++ file:  #define FOLD_RL_IMPLEMENTATION
                          #include "fold_rl.h"
   Everywhere else:       #include "fold_rl.h"

   examples/ppo.c learns a game with it, and examples/cartpole.cpp learns to balance a pole.

   Errors are set on the model or context, with a message. Nothing is allocated, and there are no globals. The
   file is C99 and C++17 and works in every build of fold.h. With FOLD_INFERENCE the calls for training are
   not declared. */

#ifndef FOLD_RL_H
#define FOLD_RL_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_rl.h needs fold.h 0.4.0 or later"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- policies ---- */

/* A policy: dense layers (the encoder), a recurrent layer (the memory), and on its output two heads, actor
   and critic. It is one cell: its inputs are x, h and, with memory.has_c, c; its outputs are actor, critic, h
   and c. Without a memory (memory.hidden is 0) the heads read the encoder's output, and there is no state. */
typedef struct fold_rl_policy {
    int inputs;              /* values of x */
    fold_mlp encoder;        /* 0 layers: none, x goes on unchanged */
    fold_recurrent memory;
    fold_dense actor, critic;
    fold_cell cell;          /* made by fold_rl_policy_assemble */
} fold_rl_policy;
typedef struct fold_rl_step { fold_node actor, critic; fold_state state; } fold_rl_step;

/* Like fold_dense_new, but W is initialised orthogonal times `scale`: 0.01 gives an actor that begins with
   nearly equal chances, 1 suits a critic, and the square root of 2 hidden layers. */
FOLD_API fold_dense fold_rl_dense_new(fold_model *m, const char *name, int inputs, int outputs,
                                      fold_activation activation, float scale);
/* Makes a policy: an encoder with one tanh layer [inputs x width], a memory of `width` made by `make`, such
   as fold_lstm_new (NULL: no memory), an actor of scale 0.01 with `actions` values, and a critic. Parameters
   are named NAME.encoder.0.W, NAME.memory.W, NAME.actor.W and so on. */
FOLD_API fold_rl_policy fold_rl_policy_new(fold_model *m, const char *name, fold_recurrent_maker *make,
                                           int inputs, int width, int actions);
/* Makes the cell of a policy whose other members you have set, with any calls of fold.h or fold_torch.h. */
FOLD_API fold_status fold_rl_policy_assemble(fold_model *m, const char *name, fold_rl_policy *policy);
/* Records a step as one call. Without a memory `state` is not used, and the state returned is null. */
FOLD_API fold_rl_step fold_rl_policy_apply(fold_ctx *f, const fold_rl_policy *policy, fold_node x,
                                           fold_state state);

/* ---- log-probabilities in plain floats ---- */

/* The same, up to rounding, as fold_gaussian_log_prob and fold_gaussian_entropy. All arrays have n values. */
FOLD_API float fold_rl_gaussian_log_prob(const float *x, const float *mean, const float *log_deviation,
                                         int n);
FOLD_API float fold_rl_gaussian_entropy(const float *log_deviation, int n);
/* The log-probability of the action tanh(x) with x drawn from normal distributions: that of x, minus the sum
   of log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)) (Haarnoja et al. 2018, appendix C). Its entropy has
   no formula; the mean of minus the log-probability over many draws estimates it. fold_rl_squashed records
   the log-probability as a node. */
FOLD_API float fold_rl_squashed_log_prob(const float *x, const float *mean, const float *log_deviation,
                                         int n);
FOLD_API fold_node fold_rl_squashed(fold_ctx *f, fold_node x, fold_node mean, fold_node log_deviation);

/* ---- the mean and deviation of observations ---- */

/* The mean and variance [n] of all rows added so far, in buffers of the model, which are saved with it:
   NAME.mean, NAME.variance, NAME.rest [2 x n] (what rounding to float cut off from both) and NAME.count [2].
   Together they are as exact as doubles of 48 bits, even if many rows are added one at a time. An observation
   becomes (x - mean) / (sqrt(variance + epsilon_inside) + epsilon_outside), clipped to [-clip, clip].
   Stable-Baselines3 uses epsilon_inside 1e-8 and clip 10, rsl_rl epsilon_outside 0.01 and no clip (0). */
typedef struct fold_rl_moments {
    fold_param mean, variance, rest, count;
    int n;
    float epsilon_inside, epsilon_outside, clip;
} fold_rl_moments;
/* Starts with mean 0, variance 1 and a count of 0 rows, epsilon_inside 1e-8 and clip 10. */
FOLD_API fold_rl_moments fold_rl_moments_new(fold_model *m, const char *name, int n);
/* Adds `rows` rows of n values in one step (Chan, Golub, LeVeque 1979). Errors: a value that is not finite or
   outside [-1e18, 1e18], whose square a float could not hold; then nothing changes. */
FOLD_API fold_status fold_rl_moments_add(fold_model *m, const fold_rl_moments *moments, const float *values,
                                         int rows);
/* Normalises rows of observations in place and returns 1. It returns 0 and changes nothing if there is no
   array or model, if epsilon_inside or epsilon_outside is negative or not finite, or clip is not finite. */
FOLD_API int fold_rl_moments_apply(const fold_model *m, const fold_rl_moments *moments, float *values,
                                   int rows);
/* Makes moments from NAME._mean and NAME._var of a state_dict, as rsl_rl's EmpiricalNormalization saves them,
   with epsilon_outside 0.01 and no clip. The file's count and _std are not used: the moments count as 2^20
   rows, whatever is added later. Errors are set on the model. */
FOLD_API fold_rl_moments fold_rl_moments_read(fold_tensors *t, const char *name);

#ifndef FOLD_INFERENCE
/* ---- PPO (Schulman et al. 2017) ---- */

/* Episodes, or pieces of them. Their steps follow each other in the arrays; lengths may be 0. */
typedef struct fold_rl_episodes {
    const float *reward, *value; /* of each step: the reward, and the value predicted before it */
    const int *length;           /* of each episode, in steps */
    const float *after;          /* of each episode: the value predicted after its last step, 0 if the episode
                                    is over. NULL: all are over */
    int episodes;
} fold_rl_episodes;
/* Writes generalised advantages (Schulman et al. 2016):
       d[t] = reward[t] + discount value[t + 1] - value[t]
       advantage[t] = d[t] + discount trace advantage[t + 1], target[t] = advantage[t] + value[t]
   target may be NULL. Errors, set on the model: a discount or trace outside [0, 1]; a reward or value that is
   not finite, whose episode and step the message names. Then nothing is written. */
FOLD_API fold_status fold_rl_advantages(fold_model *m, const fold_rl_episodes *e, float discount, float trace,
                                        float *advantage, float *target);
/* Shifts and scales n values to mean 0 and deviation 1, as PPO does with advantages, and returns 1. A single
   value becomes 0. It returns 0 and changes nothing if a value is not finite or there is no array. */
FOLD_API int fold_rl_standardize(float *values, int n);

/* The loss of PPO, summed over n steps. log_prob, entropy and value are lists of n rows from the policy as it
   is now; `steps` has arrays of n values from when the steps were taken, which must stay until
   fold_ctx_reset. With ratio = e^(log_prob - old_log_prob) and a = advantage, a step's loss is
     value_share (value - target)^2 - min(ratio a, clip(ratio, 1 - clip, 1 + clip) a) - entropy_share entropy
   entropy may be a single node, which then counts n times. Errors, set on the context: clip is not above 0, a
   share is not finite, or a list does not have n rows; the message says which. */
typedef struct fold_rl_ppo { float clip, value_share, entropy_share; } fold_rl_ppo;
typedef struct fold_rl_steps { const float *old_log_prob, *advantage, *target; int n; } fold_rl_steps;
FOLD_API fold_node fold_rl_ppo_loss(fold_ctx *f, const fold_rl_ppo *o, const fold_rl_steps *steps,
                                    fold_node log_prob, fold_node entropy, fold_node value);
#endif

#ifdef __cplusplus
}
#endif

#endif /* FOLD_RL_H */

#if defined(FOLD_RL_IMPLEMENTATION) && !defined(FOLD__RL_IMPLEMENTED)
#define FOLD__RL_IMPLEMENTED
#include <limits.h>
#include <math.h>
#include <string.h>

/* Every product and sum is rounded by itself, so results do not depend on the compiler or its flags. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

/* Sets the error on the context or, if f is NULL, on the model. */
static fold_status fold_rl__fail(fold_model *m, fold_ctx *f, fold_status status, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    fold_format(message, sizeof message, format, args);
    va_end(args);
    return f ? fold_ctx_fail(f, status, message) : fold_model_fail(m, status, message);
}

/* Unsafe compiler flags break comparisons with NaN, so fold_finite looks for it first. */
static int fold_rl__within(float value, double low, double high)
{
    return fold_finite(&value, 1) && (double)value >= low && (double)value <= high;
}

static const char *fold_rl__join(char joined[128], fold_model *m, const char *name, const char *part)
{
    if (strlen(name) + strlen(part) > 126) {
        fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl.h: the name '%.40s' is too long", name);
        name = "";
    }
    strcpy(joined, name);
    if (*name) strcat(joined, ".");
    return strcat(joined, part);
}

/* ---- policies ------------------------------------------------------------------------------------ */

FOLD_API fold_dense fold_rl_dense_new(fold_model *m, const char *name, int inputs, int outputs,
                                      fold_activation activation, float scale)
{
    char part[128];
    fold_dense layer;
    fold_param_desc d = fold_param_desc_default();
    name = name ? name : "";
    d.name = fold_rl__join(part, m, name, "W");
    d.shape = fold_shape2(inputs, outputs);
    d.init = FOLD_INIT_ORTHOGONAL;
    d.init_scale = scale;
    layer.W = fold_param_new(m, &d);
    layer.b = fold_bias_new(m, fold_rl__join(part, m, name, "b"), outputs);
    layer.activation = activation;
    return layer;
}

static void fold_rl__body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_rl_policy *p = (const fold_rl_policy *)user;
    fold_node x = p->encoder.layers ? fold_mlp_apply(f, &p->encoder, in[0]) : in[0];
    if (p->memory.hidden) {
        fold_state state = { in[1], { 0, 0 } };
        if (p->memory.has_c)
            state.c = in[2];
        state = fold_recurrent_apply(f, &p->memory, x, state);
        out[2] = x = state.h;
        if (p->memory.has_c)
            out[3] = state.c;
    }
    out[0] = fold_dense_apply(f, &p->actor, x);
    out[1] = fold_dense_apply(f, &p->critic, x);
}

FOLD_API fold_status fold_rl_policy_assemble(fold_model *m, const char *name, fold_rl_policy *policy)
{
    fold_cell_desc d = fold_cell_desc_default();
    if (!policy)
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_policy_assemble: policy is NULL");
    const int states = policy->memory.hidden ? 1 + policy->memory.has_c : 0;
    d.name = name;
    d.body = fold_rl__body;
    d.user = policy;
    d.user_size = sizeof *policy;
    d.n_in = 1 + states;
    d.in[0] = fold_shape1(policy->inputs);
    d.in[1] = d.in[2] = fold_shape1(policy->memory.hidden);
    d.n_out = 2 + states;
    policy->cell = fold_cell_new(m, &d);
    return fold_model_status(m);
}

FOLD_API fold_rl_policy fold_rl_policy_new(fold_model *m, const char *name, fold_recurrent_maker *make,
                                           int inputs, int width, int actions)
{
    fold_rl_policy p;
    char part[128];
    memset(&p, 0, sizeof p);
    name = name ? name : "";
    p.inputs = inputs;
    p.encoder.layers = 1;
    p.encoder.layer[0] = fold_rl_dense_new(m, fold_rl__join(part, m, name, "encoder.0"), inputs, width,
                                           FOLD_ACT_TANH, 1.41421356f);
    if (make)
        p.memory = make(m, fold_rl__join(part, m, name, "memory"), width, width);
    p.actor =
        fold_rl_dense_new(m, fold_rl__join(part, m, name, "actor"), width, actions, FOLD_ACT_LINEAR, 0.01f);
    p.critic = fold_rl_dense_new(m, fold_rl__join(part, m, name, "critic"), width, 1, FOLD_ACT_LINEAR, 1);
    fold_rl_policy_assemble(m, name, &p);
    return p;
}

FOLD_API fold_rl_step fold_rl_policy_apply(fold_ctx *f, const fold_rl_policy *policy, fold_node x,
                                           fold_state state)
{
    const fold_node in[3] = { x, state.h, state.c };
    fold_rl_step step;
    memset(&step, 0, sizeof step);
    if (!policy) {
        fold_ctx_fail(f, FOLD_BAD_ARGUMENT, "fold_rl_policy_apply: policy is NULL");
        return step;
    }
    const int states = policy->memory.hidden ? 1 + policy->memory.has_c : 0;
    const fold_node call = fold_call(f, policy->cell, in, 1 + states);
    step.actor = fold_out(f, call, 0);
    step.critic = fold_out(f, call, 1);
    if (states)
        step.state.h = fold_out(f, call, 2);
    if (states > 1)
        step.state.c = fold_out(f, call, 3);
    return step;
}

/* ---- log-probabilities --------------------------------------------------------------------------- */

static const double fold_rl__half_log_2_pi = 0.91893853320467274178;

FOLD_API float fold_rl_gaussian_log_prob(const float *x, const float *mean, const float *log_deviation, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double s = (double)log_deviation[i], z = ((double)x[i] - (double)mean[i]) * exp(-s);
        sum -= 0.5 * z * z + s + fold_rl__half_log_2_pi;
    }
    return (float)sum;
}

FOLD_API float fold_rl_gaussian_entropy(const float *log_deviation, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)log_deviation[i] + 0.5 + fold_rl__half_log_2_pi;
    return (float)sum;
}

FOLD_API float fold_rl_squashed_log_prob(const float *x, const float *mean, const float *log_deviation, int n)
{
    double sum = (double)fold_rl_gaussian_log_prob(x, mean, log_deviation, n);
    for (int i = 0; i < n; i++) {
        const double twice = -2 * (double)x[i];
        const double softplus = (twice > 0 ? twice : 0) + log1p(exp(-fabs(twice)));
        sum -= 2 * (0.69314718055994530942 - (double)x[i] - softplus);
    }
    return (float)sum;
}

FOLD_API fold_node fold_rl_squashed(fold_ctx *f, fold_node x, fold_node mean, fold_node log_deviation)
{
    const fold_node softplus = fold_softplus(f, fold_scale(f, x, -2));
    const fold_node inner = fold_shift(f, fold_neg(f, fold_add(f, x, softplus)), 0.69314718f);
    const fold_node slopes = fold_sum(f, fold_scale(f, inner, 2), FOLD_ALL);
    return fold_sub(f, fold_gaussian_log_prob(f, x, mean, log_deviation), slopes);
}

/* ---- moments ------------------------------------------------------------------------------------- */

static fold_param fold_rl__buffer(fold_model *m, const char *name, const char *part, fold_shape shape,
                                  float value)
{
    char joined[128];
    fold_param_desc d = fold_param_desc_default();
    d.name = fold_rl__join(joined, m, name ? name : "", part);
    d.shape = shape;
    d.init = FOLD_INIT_CONSTANT;
    d.init_scale = value;
    d.buffer = 1;
    return fold_param_new(m, &d);
}

FOLD_API fold_rl_moments fold_rl_moments_new(fold_model *m, const char *name, int n)
{
    fold_rl_moments moments;
    moments.mean = fold_rl__buffer(m, name, "mean", fold_shape1(n), 0);
    moments.variance = fold_rl__buffer(m, name, "variance", fold_shape1(n), 1);
    moments.rest = fold_rl__buffer(m, name, "rest", fold_shape2(2, n), 0);
    moments.count = fold_rl__buffer(m, name, "count", fold_shape1(2), 0);
    moments.n = n;
    moments.epsilon_inside = 1e-8f;
    moments.epsilon_outside = 0;
    moments.clip = 10;
    return moments;
}

/* The count is two floats, multiples of 2^20 and the rest, since a single one would stop at 2^24. */
static double fold_rl__count(const float *count) { return (double)count[0] * 1048576 + (double)count[1]; }
static void fold_rl__set_count(float *count, double rows)
{
    count[0] = (float)floor(rows / 1048576);
    count[1] = (float)(rows - (double)count[0] * 1048576);
}

/* `low` gets what rounding to `high` cuts off. */
static void fold_rl__split(double value, float *high, float *low)
{
    *high = (float)value;
    *low = (float)(value - (double)*high);
}

/* Must be checked before values are written, since there a null parameter means all parameters. */
static int fold_rl__are_there(const fold_rl_moments *moments)
{
    return moments && !fold_param_is_null(moments->mean) && !fold_param_is_null(moments->variance) &&
           !fold_param_is_null(moments->rest) && !fold_param_is_null(moments->count);
}

FOLD_API fold_status fold_rl_moments_add(fold_model *m, const fold_rl_moments *moments, const float *values,
                                         int rows)
{
    if (!fold_rl__are_there(moments) || (!values && rows > 0))
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_moments_add: moments or values is NULL");
    if (rows < 0)
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_moments_add: rows is %d", rows);
    const size_t n = (size_t)moments->n, added = (size_t)rows;
    for (size_t i = 0; i < added * n; i++)
        if (!fold_rl__within(values[i], -1e18, 1e18))
            return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_moments_add: value %d of row %d is %g, must be in [-1e18, 1e18]",
                                 (int)(i % n), (int)(i / n), (double)values[i]);
    float *mean = fold_values_write_begin(m, moments->mean),
          *variance = fold_values_write_begin(m, moments->variance);
    float *rest = fold_values_write_begin(m, moments->rest),
          *count = fold_values_write_begin(m, moments->count);
    if (mean && variance && rest && count && rows > 0) {
        const double before = fold_rl__count(count), all = before + rows;
        for (size_t i = 0; i < n; i++) {
            const double old_mean = (double)mean[i] + (double)rest[i],
                         old_variance = (double)variance[i] + (double)rest[n + i];
            double sum = 0, squares = 0;
            for (size_t row = 0; row < added; row++)
                sum += (double)values[row * n + i];
            const double now = sum / rows, moved = now - old_mean;
            for (size_t row = 0; row < added; row++) {
                const double away = (double)values[row * n + i] - now;
                squares += away * away;
            }
            fold_rl__split(old_mean + moved * rows / all, &mean[i], &rest[i]);
            fold_rl__split((old_variance * before + squares + moved * moved * before * rows / all) / all,
                           &variance[i], &rest[n + i]);
        }
        fold_rl__set_count(count, all);
    }
    fold_values_write_end(m, moments->mean);
    fold_values_write_end(m, moments->variance);
    fold_values_write_end(m, moments->rest);
    fold_values_write_end(m, moments->count);
    return fold_model_status(m);
}

FOLD_API int fold_rl_moments_apply(const fold_model *m, const fold_rl_moments *moments, float *values,
                                   int rows)
{
    const float *mean = moments ? fold_param_value(m, moments->mean) : NULL;
    const float *variance = moments ? fold_param_value(m, moments->variance) : NULL;
    if (!mean || !variance || !values)
        return 0;
    if (!fold_rl__within(moments->epsilon_inside, 0, HUGE_VAL) ||
        !fold_rl__within(moments->epsilon_outside, 0, HUGE_VAL) || !fold_finite(&moments->clip, 1))
        return 0;
    for (int i = 0; i < moments->n; i++) {
        const float factor = 1 / (sqrtf(variance[i] + moments->epsilon_inside) + moments->epsilon_outside),
                    clip = moments->clip;
        for (int row = 0; row < rows; row++) {
            float *x = &values[(size_t)row * (size_t)moments->n + (size_t)i];
            *x = (*x - mean[i]) * factor;
            if (clip > 0)
                *x = *x > clip ? clip : *x < -clip ? -clip : *x;
        }
    }
    return 1;
}

FOLD_API fold_rl_moments fold_rl_moments_read(fold_tensors *t, const char *name)
{
    fold_model *m = fold_tensors_model(t);
    char joined[128];
    fold_rl_moments moments;
    memset(&moments, 0, sizeof moments);
    int at[2];
    for (int i = 0; i < 2; i++) {
        fold_rl__join(joined, m, name ? name : "", i ? "_var" : "_mean");
        at[i] = fold_tensors_find(t, joined);
        if (at[i] < 0) {
            fold_tensors_missing(t, "fold_rl_moments_read", joined);
            return moments;
        }
        fold_tensors_take(t, at[i]);
    }
    const uint64_t n = fold_tensors_at(t, at[0]).count, variances = fold_tensors_at(t, at[1]).count;
    if (n != variances || n < 1 || n > 1 << 24) {
        fold_rl__fail(m, NULL, FOLD_BAD_SHAPE, "fold_rl_moments_read: %s has %lu means and %lu variances",
                      name ? name : "", (unsigned long)n, (unsigned long)variances);
        return moments;
    }
    for (int i = 0; i < 2; i++) {
        const int skipped =
            fold_tensors_find(t, fold_rl__join(joined, m, name ? name : "", i ? "_std" : "count"));
        if (skipped >= 0)
            fold_tensors_take(t, skipped);
    }
    moments = fold_rl_moments_new(m, name, (int)n);
    if (fold_model_status(m))
        return moments;
    moments.epsilon_inside = moments.clip = 0;
    moments.epsilon_outside = 0.01f;
    float *mean = fold_values_write_begin(m, moments.mean),
          *variance = fold_values_write_begin(m, moments.variance);
    float *count = fold_values_write_begin(m, moments.count);
    if (mean && variance && count) {
        fold_tensors_read(t, at[0], 0, (size_t)n, mean, 1);
        fold_tensors_read(t, at[1], 0, (size_t)n, variance, 1);
        fold_rl__set_count(count, 1048576);
    }
    fold_values_write_end(m, moments.mean);
    fold_values_write_end(m, moments.variance);
    fold_values_write_end(m, moments.count);
    return moments;
}

#ifndef FOLD_INFERENCE
/* ---- PPO ----------------------------------------------------------------------------------------- */

/* Returns 0 with an error of the model if not. */
static int fold_rl__episodes_ok(fold_model *m, const fold_rl_episodes *e)
{
    for (int episode = 0, first = 0; episode < e->episodes; episode++) {
        const int length = e->length[episode];
        if (length < 0 || length > INT_MAX - first)
            return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_advantages: episode %d has %d steps, after %d", episode, length,
                                 first),
                   0;
        if (e->after && !fold_finite(&e->after[episode], 1))
            return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_advantages: the value after episode %d is %g", episode,
                                 (double)e->after[episode]),
                   0;
        for (int step = 0; step < length; step++, first++)
            if (!fold_finite(&e->reward[first], 1) || !fold_finite(&e->value[first], 1))
                return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                                     "fold_rl_advantages: the reward of episode %d, step %d is %g, its value "
                                     "%g",
                                     episode, step, (double)e->reward[first], (double)e->value[first]),
                       0;
    }
    return 1;
}

FOLD_API fold_status fold_rl_advantages(fold_model *m, const fold_rl_episodes *e, float discount, float trace,
                                        float *advantage, float *target)
{
    if (!e || (e->episodes > 0 && (!e->reward || !e->value || !e->length || !advantage)))
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                             "fold_rl_advantages: e, one of its arrays, or advantage is NULL");
    if (!fold_rl__within(discount, 0, 1) || !fold_rl__within(trace, 0, 1))
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                             "fold_rl_advantages: discount is %g and trace %g, must be in [0, 1]",
                             (double)discount, (double)trace);
    if (!fold_rl__episodes_ok(m, e))
        return FOLD_BAD_ARGUMENT;
    for (int episode = 0, first = 0; episode < e->episodes; first += e->length[episode++]) {
        float next = e->after ? e->after[episode] : 0, later = 0;
        for (int step = first + e->length[episode] - 1; step >= first; step--) {
            const float value = e->value[step];
            later = e->reward[step] + discount * next - value + discount * trace * later;
            advantage[step] = later;
            if (target)
                target[step] = later + value;
            next = value;
        }
    }
    return FOLD_OK;
}

FOLD_API int fold_rl_standardize(float *values, int n)
{
    double sum = 0, squares = 0;
    if (!values || (n > 0 && !fold_finite(values, n)))
        return 0;
    for (int i = 0; i < n; i++)
        sum += (double)values[i];
    const double mean = n > 0 ? sum / n : 0;
    for (int i = 0; i < n; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    const double deviation = n > 0 ? sqrt(squares / n) + 1e-8 : 1;
    for (int i = 0; i < n; i++)
        values[i] = (float)(((double)values[i] - mean) / deviation);
    return 1;
}

/* Whether x is a list of n rows or, if `or_one`, a single node. If not, the context gets an error. */
static int fold_rl__fits(fold_ctx *f, fold_node x, const char *name, int n, int or_one)
{
    const int rows = fold_list_length(f, x);
    if (rows == n || (rows < 0 && or_one) || fold_node_is_null(x))
        return 1; /* ops report null themselves */
    if (rows < 0)
        fold_rl__fail(NULL, f, FOLD_BAD_SHAPE, "fold_rl_ppo_loss: %s is one node, must be a list of %d rows",
                      name, n);
    else
        fold_rl__fail(NULL, f, FOLD_BAD_SHAPE, "fold_rl_ppo_loss: %s has %d rows, but steps->n is %d", name,
                      rows, n);
    return 0;
}

FOLD_API fold_node fold_rl_ppo_loss(fold_ctx *f, const fold_rl_ppo *o, const fold_rl_steps *steps,
                                    fold_node log_prob, fold_node entropy, fold_node value)
{
    if (!o || !steps)
        return fold_rl__fail(NULL, f, FOLD_BAD_ARGUMENT, "fold_rl_ppo_loss: o or steps is NULL"),
               FOLD_NULL_NODE;
    const int n = steps->n;
    if (!(o->clip > 0))
        return fold_rl__fail(NULL, f, FOLD_BAD_ARGUMENT, "fold_rl_ppo_loss: clip is %g, must be above 0",
                             (double)o->clip),
               FOLD_NULL_NODE;
    if (!fold_finite(&o->value_share, 1) || !fold_finite(&o->entropy_share, 1))
        return fold_rl__fail(NULL, f, FOLD_BAD_ARGUMENT,
                             "fold_rl_ppo_loss: value_share is %g and entropy_share %g, must be finite",
                             (double)o->value_share, (double)o->entropy_share),
               FOLD_NULL_NODE;
    const int fits = fold_rl__fits(f, log_prob, "log_prob", n, 0) &&
                     fold_rl__fits(f, entropy, "entropy", n, 1) && fold_rl__fits(f, value, "value", n, 0);
    if (!fits)
        return FOLD_NULL_NODE;
    const fold_node old = fold_list_input_ref(f, steps->old_log_prob, n, fold_shape1(1));
    const fold_node advantage = fold_list_input_ref(f, steps->advantage, n, fold_shape1(1));
    const fold_node target = fold_list_input_ref(f, steps->target, n, fold_shape1(1));
    const fold_node ratio = fold_exp(f, fold_sub(f, log_prob, old));
    const fold_node careful = fold_mul(f, fold_clip(f, ratio, 1 - o->clip, 1 + o->clip), advantage);
    const fold_node worse = fold_minimum(f, fold_mul(f, ratio, advantage), careful);
    const fold_node gain = fold_add(f, worse, fold_scale(f, entropy, o->entropy_share));
    const fold_node error = fold_scale(f, fold_squared_error(f, value, target), o->value_share);
    return fold_list_sum(f, fold_sub(f, error, gain));
}
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* FOLD_RL_IMPLEMENTATION */
