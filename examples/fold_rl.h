/* fold_rl.h - reinforcement learning with fold.h: policies, log-probabilities of actions in plain floats,
   running means and standard deviations of observations, advantages, the loss of PPO, and a trainer that runs
   PPO over many environments, even if agents see lists of items. It uses only public calls.

   In one C or C++ file:  #define FOLD_RL_IMPLEMENTATION
                          #include "fold_rl.h"
   Everywhere else:       #include "fold_rl.h"

   examples/train.c trains agents in any environment, and examples/forage.c agents that see lists.
   examples/ppo.c and examples/cartpole.cpp have their own training loops.

   Errors are set on the model or context, with a message. Only a trainer needs memory, which it gets from the
   model's allocator. There are no globals. The file compiles as C99 and C++17 and works in every build of
   fold.h. With FOLD_INFERENCE, the calls for training are not declared. */

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

/* A policy is a single cell. It consists of dense layers (the encoder), a recurrent layer (the memory), and
   two heads that read the memory's output (the actor and the critic). The cell's inputs are x, h and, with
   memory.has_c, c; its outputs are actor, critic, h and c. If memory.hidden is 0, there is no memory and no
   state, and the heads read the encoder. */
typedef struct fold_rl_policy {
    int inputs;       /* number of values of x */
    fold_mlp encoder; /* with 0 layers, its output is x */
    fold_recurrent memory;
    fold_dense actor, critic;
    fold_cell cell; /* made by fold_rl_policy_assemble */
} fold_rl_policy;
typedef struct fold_rl_step {
    fold_node actor, critic;
    fold_state state;
} fold_rl_step;

/* Like fold_dense_new, but W begins as an orthogonal matrix times `scale`. Use 0.01 for an actor, so that its
   choices begin about equally likely, 1 for a critic, and the square root of 2 for hidden layers. */
FOLD_API fold_dense fold_rl_dense_new(fold_model *m, const char *name, int inputs, int outputs,
                                      fold_activation activation, float scale);
/* Creates a policy with an encoder, a memory, an actor and a critic. The encoder is one tanh layer [inputs x
   width]. `make`, such as fold_lstm_new, creates the memory, which has `width` values (NULL: none). The actor
   has `actions` outputs and scale 0.01. Names are NAME.encoder.0.W, NAME.memory.W, NAME.actor.W and so on. */
FOLD_API fold_rl_policy fold_rl_policy_new(fold_model *m, const char *name, fold_recurrent_maker *make,
                                           int inputs, int width, int actions);
/* Creates the cell of a policy whose other members you have set. They may come from fold_torch.h. */
FOLD_API fold_status fold_rl_policy_assemble(fold_model *m, const char *name, fold_rl_policy *policy);
/* Records a step as one call. Without a memory, `state` is not used, and the returned state is null. */
FOLD_API fold_rl_step fold_rl_policy_apply(fold_ctx *f, const fold_rl_policy *policy, fold_node x,
                                           fold_state state);

/* ---- log-probabilities in plain floats ---- */

/* Return the same as fold_gaussian_log_prob and fold_gaussian_entropy, up to rounding. All arrays have n
   values. */
FOLD_API float fold_rl_gaussian_log_prob(const float *x, const float *mean, const float *log_deviation,
                                         int n);
FOLD_API float fold_rl_gaussian_entropy(const float *log_deviation, int n);
/* Returns the log-probability of the action tanh(x), where x is drawn from normal distributions. This is the
   log-probability of x minus the sum of log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)) (Haarnoja et al.
   2018, appendix C). There is no formula for the entropy; estimate it as the mean of minus the
   log-probability over many draws. fold_rl_squashed records the log-probability as a node. */
FOLD_API float fold_rl_squashed_log_prob(const float *x, const float *mean, const float *log_deviation,
                                         int n);
FOLD_API fold_node fold_rl_squashed(fold_ctx *f, fold_node x, fold_node mean, fold_node log_deviation);

/* ---- the mean and deviation of observations ---- */

/* The mean and variance [n] of all rows added so far. They are in buffers that are saved with the model:
   NAME.mean, NAME.variance, NAME.rest [2 x n] (the rounding errors of both) and NAME.count [2]. The mean and
   the variance are exact to 48 bits, even if many rows are added one at a time. An observation becomes (x -
   mean) / (sqrt(variance + epsilon_inside) + epsilon_outside), clipped to [-clip, clip]. Stable-Baselines3
   uses epsilon_inside 1e-8 and clip 10, rsl_rl epsilon_outside 0.01 and no clip (0). */
typedef struct fold_rl_moments {
    fold_param mean, variance, rest, count;
    int n;
    float epsilon_inside, epsilon_outside, clip;
} fold_rl_moments;
/* Creates moments with mean 0, variance 1 and a count of 0 rows. epsilon_inside is 1e-8 and clip 10. */
FOLD_API fold_rl_moments fold_rl_moments_new(fold_model *m, const char *name, int n);
/* Adds `rows` rows of n values in one step (Chan, Golub, LeVeque 1979). Errors: a value is not finite or is
   outside [-1e18, 1e18], since squares of larger values may overflow a float. On error, nothing changes. */
FOLD_API fold_status fold_rl_moments_add(fold_model *m, const fold_rl_moments *moments, const float *values,
                                         int rows);
/* Normalises rows of observations in place and returns 1. Returns 0 and changes nothing if the array or model
   is missing, epsilon_inside or epsilon_outside is negative or not finite, or clip is not finite. */
FOLD_API int fold_rl_moments_apply(const fold_model *m, const fold_rl_moments *moments, float *values,
                                   int rows);
/* Creates moments from NAME._mean and NAME._var of a state_dict, as rsl_rl saves them. epsilon_outside is
   0.01, and there is no clip. The file's count and _std are not used: the count is set to 2^20 rows. Errors
   are set on the model. */
FOLD_API fold_rl_moments fold_rl_moments_read(fold_tensors *t, const char *name);

#ifndef FOLD_INFERENCE
/* ---- PPO (Schulman et al. 2017) ---- */

/* Episodes, or pieces of episodes, stored one after another in the arrays. Lengths may be 0. */
typedef struct fold_rl_episodes {
    const float *reward, *value; /* for each step: its reward, and the value predicted before it */
    const int *length;           /* for each episode: its number of steps */
    const float *after;          /* for each episode: the value predicted after its last step; 0 if the
                                    episode is over. NULL: all episodes are over */
    int episodes;
} fold_rl_episodes;
/* Writes generalised advantages (Schulman et al. 2016):
       d[t] = reward[t] + discount value[t + 1] - value[t]
       advantage[t] = d[t] + discount trace advantage[t + 1], target[t] = advantage[t] + value[t]
   target may be NULL. Errors, set on the model: a discount or trace outside [0, 1]; a reward or value that is
   not finite (the message names its episode and step). On error, nothing is written. */
FOLD_API fold_status fold_rl_advantages(fold_model *m, const fold_rl_episodes *e, float discount, float trace,
                                        float *advantage, float *target);
/* Stored steps of agents, one agent after the other: step t of agent a is row a * steps + t of the arrays. */
typedef struct fold_rl_rollout {
    int agents, steps;
    const unsigned char *over; /* [agents x steps]: not 0 if an episode ends with this step */
    const float *value;        /* [agents x steps]: value predicted before the step; needed with segment */
    const float *next_value;   /* [agents]: value predicted after the last step; NULL: all 0 */
    int segment;               /* if above 0, pieces also end after every `segment` steps of the rollout */
} fold_rl_rollout;
/* Cuts stored steps into pieces. A piece ends where an episode, a segment or the rollout ends. Returns the
   number of pieces. For each piece, in the order of the rows, it writes the first row, the number of steps,
   and the value after the last step, which is 0 if the episode is over. `length` and `after` are what
   fold_rl_advantages needs. The arrays have room for agents * steps pieces; first and after may be NULL.
   Segments shorten the sequences that a recurrent layer learns from. Compute advantages first, from a cut
   without segments, because they depend on later segments too. Errors, set on the model, with result -1: a
   missing array; a negative number; more than 2^30 steps. */
FOLD_API int fold_rl_cut(fold_model *m, const fold_rl_rollout *r, int *first, int *length, float *after);
/* Shifts and scales n values, such as advantages, to mean 0 and standard deviation 1. A single value becomes
   0. Returns 1. If a value is not finite or the array is missing, returns 0 and changes nothing. */
FOLD_API int fold_rl_standardize(float *values, int n);

/* Computes the loss of PPO, summed over n steps. log_prob, entropy and value are lists of n rows from the
   current policy; `steps` has arrays of n values recorded when the steps were taken, which must stay valid
   until fold_ctx_reset. With ratio = e^(log_prob - old_log_prob) and a = advantage, a step's loss is
     value_share (value - target)^2 - min(ratio a, clip(ratio, 1 - clip, 1 + clip) a) - entropy_share entropy
   entropy may be a single node, which then counts n times. Errors, set on the context: clip is not above 0, a
   share is not finite, or a list does not have n rows; the message says which. */
typedef struct fold_rl_ppo {
    float clip, value_share, entropy_share;
} fold_rl_ppo;
typedef struct fold_rl_steps {
    const float *old_log_prob, *advantage, *target;
    int n;
} fold_rl_steps;
FOLD_API fold_node fold_rl_ppo_loss(fold_ctx *f, const fold_rl_ppo *o, const fold_rl_steps *steps,
                                    fold_node log_prob, fold_node entropy, fold_node value);

/* ---- training over many environments ---- */

/* A body is a user-defined policy: a function over lists, with one row per agent. Agents may see items, such
   as food, neighbours or obstacles, whose number differs between agents and changes with every step. All
   items are one list, end to end: first those of row 0, then those of row 1, and so on. Item i belongs to row
   to[i], and from[i] is i: pass both to fold_list_attention_to, or `to` alone to other calls ending in _to:
       fold_node seen = fold_list_attention_to(f, query, key, value, 4, in->from, in->to, in->item_count);
   A row without items gets zeros. from and to are valid during the call. */
typedef struct fold_rl_input {
    int rows, item_count;   /* number of rows, and total number of their items, which may be 0 */
    fold_node observations; /* list of `rows` rows: normalised or converted observations */
    fold_node items;        /* list of all items [item_values], normalised; null if max_items is 0 */
    const int *from, *to;   /* [item_count] */
    fold_state state;       /* lists of `rows` rows [hidden]: the state that the previous step returned, or
                               zeros in the first step of an episode; null without a state */
} fold_rl_input;
/* Records a step for all rows, with any calls of fold.h, and returns lists of `rows` rows: actor, with one
   value per choice or number; critic [1]; and the state, if there is one. A row's results must depend only on
   that row, its items and its state. The body is called for each step, and for parts of a minibatch; what it
   records may differ between calls. To report an error, it calls fold_ctx_fail. */
typedef fold_rl_step fold_rl_body(fold_ctx *f, const fold_rl_input *in, const void *user);

/* A trainer runs PPO over many environments, which you step: games, simulators, anything that takes actions.
   It normalises observations, draws actions, and learns from the rewards in its rollout buffer.
       while (fold_rl_trainer_updates(t) < 100) {
           fold_rl_trainer_act(t, &seen, actions);              // draws an action for each agent
           ...                                                  // your environments take a step
           fold_rl_trainer_add(t, rewards, terminals);          // stores the rewards
           if (fold_rl_trainer_is_full(t)) fold_rl_trainer_learn(t, &seen, &report);
       }
   - All arrays have one row per agent, over all environments. An environment whose episode is over starts a
     new episode in the same step, and its next observations are the first of that episode.
   - A checkpoint is fold_model_save with `state`, right after fold_rl_trainer_learn. After fold_model_load
     with `state` into a model with an equal trainer, training continues with the same bits: the agents'
     memory and the number of updates are buffers of the model (NAME.h, NAME.c and NAME.updates), and draws
     depend only on the seed and that number. Save the state of the environments yourself.
   - Trained weights are bit-identical for any number of threads, batched and eager.
   The names in brackets are those of Stable-Baselines3 and CleanRL. A setting of 0 means the default. */
typedef struct fold_rl_trainer_desc {
    int agents;         /* number of agents that act in each step [n_envs]; 1 to 2^20 */
    int observations;   /* number of values that an agent observes; at least 1 */
    int bytes;          /* 1: observations are bytes, which the policy gets divided by 255 */
    int one_hot;        /* not 0: observations are bytes below this number (at most 256), and the policy gets
                           each byte as `one_hot` values, one of which is 1. Larger bytes become zeros */
    int raw;            /* 1: float observations are not normalised. 0: they are, by the running mean and
                           standard deviation in NAME.observations (VecNormalize). Large values, such as
                           coordinates in pixels, must be normalised */
    const int *choices; /* number of choices of each head; copied. NULL: an action is `heads` real numbers,
                           drawn from normal distributions with standard deviations e^NAME.log_deviation.
                           They are unbounded: clip them before the environment uses them */
    int heads;          /* number of heads, at most 64; 0 means 1 */
    int masks;          /* 1: fold_rl_seen.mask may exclude illegal moves. Needs choices */
    const fold_rl_policy *policy; /* copied. It needs one input per observed value, and one output of the
                                actor per choice or number. NULL: the trainer creates one, named NAME, from
                                the next three settings */
    fold_recurrent_maker *memory; /* such as fold_lstm_new; NULL: none */
    int layers, width; /* number of tanh layers of the encoder (at most 4) and width of each, and of the
                          memory. 0 means 2 layers (1 with a memory) and a width of 64 */
    fold_rl_body *body; /* a user-defined policy, instead of policy, memory, layers and width */
    int hidden, has_c;  /* width of the body's state h, and 1 if it has a c as well. 0: no state */
    int max_items;      /* largest number of items that an agent sees in a step. Needs a body; 0: none */
    int item_values;    /* values of an item. They are normalised like observations, with the mean and
                           standard deviation in NAME.items, unless raw is 1 */
    int steps;         /* steps of each agent between updates [n_steps, num_steps]. 0 means 64 */
    int epochs;        /* passes over these steps [n_epochs, update_epochs]. 0 means 4 */
    int minibatches;   /* minibatches per pass [num_minibatches]. 0 means 4. With a memory, minibatches
                          consist of whole pieces of episodes, and differ in size */
    int segment;       /* with a memory or state, pieces have at most this many steps, and each starts from
                          the state that the agent had at that step [bptt_horizon]. 0: not cut */
    float rate;        /* learning rate of Adam [learning_rate]. 0 means 0.001 */
    fold_rates rates;  /* schedule of the learning rate, counted in updates [anneal_lr]: FOLD_RATE_LINEAR with
                          steps = 100 reaches 0 after 100 updates. 0: constant */
    float discount, trace;                  /* [gamma, gae_lambda]. 0 means 0.99 and 0.95 */
    float clip, value_share, entropy_share; /* [clip_range, vf_coef, ent_coef]. 0 means 0.2, 0.5 and 0 */
    float max_norm;                         /* maximum norm of the gradients [max_grad_norm]. 0 means 0.5 */
    float target_kl;          /* an update stops after an epoch whose approx_kl exceeds this; 0: never */
    float reward_limit;       /* rewards are clipped to [-reward_limit, reward_limit]; 0: not clipped */
    uint64_t seed;            /* seed for actions and for the order of minibatches */
    const fold_ctx_desc *ctx; /* settings of both contexts, such as threads or eager. NULL: the defaults */
    const void *user;         /* passed to body */
} fold_rl_trainer_desc;
FOLD_API fold_rl_trainer_desc fold_rl_trainer_desc_default(void); /* the defaults, with 1 agent */

/* What agents observe in a step. The arrays are only read during the call. */
typedef struct fold_rl_seen {
    const float *observations; /* [agents x observations]; not read if bytes or one_hot is set */
    const unsigned char *bytes;   /* [agents x observations], read instead if bytes or one_hot is set */
    const unsigned char *mask;    /* [agents x choices of all heads]: 0 excludes a move. NULL: all legal */
    const unsigned char *present; /* [agents]: 0 if the agent is absent. It then gets action 0 and is not
                                learned from; its episode ended with its last step, and a new one starts when
                                it returns. NULL: all agents are present */
    const float *items;     /* [sum of item_counts x item_values]: items, one agent after the other */
    const int *item_counts; /* [agents]: how many of these items each agent sees; items of absent agents are
                               skipped. Read if max_items is not 0 */
} fold_rl_seen;

/* What an update did. approx_kl to value_loss are means over the steps of its last epoch. */
typedef struct fold_rl_report {
    int updates;          /* number of updates so far, including this one */
    int steps;            /* number of agents' steps that it learned from */
    int epochs;           /* number of epochs, fewer than requested if target_kl stopped it */
    double rate;          /* learning rate of Adam */
    double approx_kl;     /* ratio - 1 - log ratio (Schulman 2020): how far the policy has moved */
    double clip_fraction; /* fraction of steps whose ratio was outside [1 - clip, 1 + clip] */
    double entropy;
    double policy_loss;
    double value_loss;         /* (value - target)^2 */
    double explained_variance; /* 1 - variance of (target - value) / variance of target, with the values
                                predicted when the steps were taken: 1 is perfect, 0 no better than the mean.
                                NaN if all targets are equal */
    double norm;               /* largest norm of the gradients, before clipping */
} fold_rl_report;

typedef struct fold_rl_trainer fold_rl_trainer;
/* Creates a trainer for a model. The trainer's arrays come from the model's allocator. On failure, returns
   NULL and sets an error on the model that says why. Free the trainer before the model. */
FOLD_API fold_rl_trainer *fold_rl_trainer_new(fold_model *m, const char *name, const fold_rl_trainer_desc *d);
FOLD_API void fold_rl_trainer_free(fold_rl_trainer *t); /* frees t; NULL is fine */
/* Returns the trainer's policy; NULL if it has a body. */
FOLD_API const fold_rl_policy *fold_rl_trainer_policy(const fold_rl_trainer *t);
/* Return the moments that normalise observations and items; all zero without normalisation. */
FOLD_API fold_rl_moments fold_rl_trainer_moments(const fold_rl_trainer *t);
FOLD_API fold_rl_moments fold_rl_trainer_item_moments(const fold_rl_trainer *t);
FOLD_API int fold_rl_trainer_updates(const fold_rl_trainer *t); /* updates so far, including loaded ones */
FOLD_API int fold_rl_trainer_is_full(const fold_rl_trainer *t); /* 1 if fold_rl_trainer_learn is next */

/* Draws actions [agents x heads] for the observations: integers counted from 0, or real numbers if there are
   no `choices`. Errors, set on the model: an observation or item is not finite; a count is out of range; the
   weights have become infinite or NaN; an agent has a head without a legal move; lists that a body returns do
   not have the right shape; a different call is due. After an error, the step is not stored. */
FOLD_API fold_status fold_rl_trainer_act(fold_rl_trainer *t, const fold_rl_seen *seen, float *actions);
/* Handles episodes that a time limit ends in this step [truncations]. In such steps only, call it between act
   and add. `last` has the last observations of these episodes, before the environments started again; its
   `present` must be 1 for their agents and 0 for all others. The discounted values of these observations are
   added to the rewards (Pardo et al. 2018). Set `terminals` for these agents in add as well. The call takes
   as long as a step of the policy. Errors, set on the model: those of fold_rl_trainer_act; `present` is
   NULL. */
FOLD_API fold_status fold_rl_trainer_truncate(fold_rl_trainer *t, const fold_rl_seen *last);
/* Stores the results of the actions: rewards [agents], and terminals [agents], not 0 for each agent whose
   episode is over. These agents begin the next step with a cleared memory. terminals may be NULL if no
   episode is over. Entries of absent agents are not read. Errors, set on the model: a reward is not finite; a
   different call is due. */
FOLD_API fold_status fold_rl_trainer_add(fold_rl_trainer *t, const float *rewards,
                                         const unsigned char *terminals);
/* Learns from a full buffer and empties it. `seen` has the current observations, which you also pass to the
   next act. From them, the policy predicts the values after the last steps of unfinished episodes. report may
   be NULL. Errors, set on the model: those of fold_rl_trainer_act, fold_rl_advantages and the optimiser;
   gradients that are not finite, in which case no optimiser step is taken. */
FOLD_API fold_status fold_rl_trainer_learn(fold_rl_trainer *t, const fold_rl_seen *seen,
                                           fold_rl_report *report);
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

/* Compilers must round every product and sum separately, so that results do not depend on flags. */
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

/* Unsafe compiler flags break comparisons with NaN, so fold_finite excludes NaN first. */
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
    if (*name)
        strcat(joined, ".");
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

/* A count is two floats, the multiples of 2^20 and the remainder: one float could not count beyond 2^24. */
static double fold_rl__count(const float *count) { return (double)count[0] * 1048576 + (double)count[1]; }
static void fold_rl__set_count(float *count, double rows)
{
    count[0] = (float)floor(rows / 1048576);
    count[1] = (float)(rows - (double)count[0] * 1048576);
}

/* Splits a value into the nearest float, `high`, and the rounding error, `low`. */
static void fold_rl__split(double value, float *high, float *low)
{
    *high = (float)value;
    *low = (float)(value - (double)*high);
}

/* Check this before you write values: fold_values_write_begin takes a null parameter to mean all. */
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

/* Checks all episodes. If one is invalid, sets an error on the model and returns 0. */
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

FOLD_API int fold_rl_cut(fold_model *m, const fold_rl_rollout *r, int *first, int *length, float *after)
{
    if (!r || !length || (!r->over && r->agents > 0 && r->steps > 0))
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_cut: r, over or length is NULL"), -1;
    if (r->agents < 0 || r->steps < 0 || r->segment < 0 || (double)r->agents * r->steps > 1 << 30)
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                             "fold_rl_cut: agents is %d, steps %d and segment %d, must be at least 0, and at "
                             "most 2^30 steps in all",
                             r->agents, r->steps, r->segment),
               -1;
    if (r->segment && after && !r->value)
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                             "fold_rl_cut: value is NULL, but gives what comes after a segment"),
               -1;
    int pieces = 0;
    for (int agent = 0; agent < r->agents; agent++)
        for (int step = 0, from = 0; step < r->steps; step++) {
            const int row = agent * r->steps + step, is_last = step == r->steps - 1;
            if (!r->over[row] && !is_last && (!r->segment || (step + 1) % r->segment))
                continue;
            if (first)
                first[pieces] = agent * r->steps + from;
            if (after)
                after[pieces] = r->over[row]    ? 0
                                : !is_last      ? r->value[row + 1]
                                : r->next_value ? r->next_value[agent]
                                                : 0;
            length[pieces++] = step + 1 - from;
            from = step + 1;
        }
    return pieces;
}

/* Whether x is a list of n rows or, if `or_one`, a single node. If not, sets an error on the context. */
static int fold_rl__fits(fold_ctx *f, fold_node x, const char *name, int n, int or_one)
{
    const int rows = fold_list_length(f, x);
    if (rows == n || (rows < 0 && or_one) || fold_node_is_null(x))
        return 1; /* ops report null nodes themselves */
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

/* ---- training over many environments ------------------------------------------------------------- */

/* The number of agents or pieces per call of a body: enough for long lists, which are fast, but few enough
   that threads can share the calls. Tests set it lower. */
#ifndef FOLD_RL__CHUNK
#define FOLD_RL__CHUNK 64
#endif
enum { FOLD_RL__HEADS = 64, FOLD_RL__LAYERS = 4, FOLD_RL__AGENTS = 1 << 20 };

/* Arrays of a rollout have `steps` rows for each agent, one agent after the other. Arrays of a minibatch,
   named `part_…`, have copies of its rows, in its order. */
struct fold_rl_trainer {
    fold_rl_trainer_desc d; /* with defaults filled in; d.choices is `choices` or NULL */
    fold_model *m;
    fold_rl_policy policy; /* with a body, all zero except hidden and has_c of the memory */
    fold_rl_moments moments, item_moments;
    fold_param deviation, kept_h, kept_c, updates;
    fold_ctx *acting, *learning;
    int total;    /* number of outputs of the actor */
    int features; /* number of values of an observation, as the policy gets it */
    int rows;     /* number of rows of the rollout */
    int part_rows;
    int step;      /* the next step of the rollout */
    int has_acted; /* 1: fold_rl_trainer_add is next */
    int recorded;
    int pieces;
    int segments;   /* number per agent; first_h and first_c: the states before each */
    int part_items; /* number of items in the minibatch so far */
    size_t block_size;
    char *block;
    int *choices, *action, *length, *first, *order, *part_action;
    fold_random *chance;
    fold_random shuffle;
    fold_node *node, *actor, *critic;
    float *now, *logits, *cut, *next_value, *h, *c, *first_h, *first_c, *last_h, *last_c;
    float *seen, *log_prob, *value, *reward, *number, *advantage, *target, *after;
    unsigned char *seen_bytes, *mask, *present, *is_over, *present_now;
    float *part_seen, *part_mask, *part_old, *part_advantage, *part_target, *part_number;
    float *part_log_prob, *part_entropy, *part_value;
    int *now_count, *count, *part_count, *from, *to;
    float *now_items, *items, *part_item, *part_h, *part_c;
};

typedef struct fold_rl__room {
    char *base;
    size_t used;
} fold_rl__room;
static void *fold_rl__carve(fold_rl__room *room, size_t count, size_t size)
{
    void *at = room->base ? room->base + room->used : NULL;
    room->used += (count * size + 63) / 64 * 64;
    return at;
}

static float *fold_rl__floats(fold_rl__room *room, size_t count)
{
    return (float *)fold_rl__carve(room, count, sizeof(float));
}

static int *fold_rl__ints(fold_rl__room *room, size_t count)
{
    return (int *)fold_rl__carve(room, count, sizeof(int));
}

static unsigned char *fold_rl__octets(fold_rl__room *room, size_t count)
{
    return (unsigned char *)fold_rl__carve(room, count, 1);
}

static void fold_rl__lay_out_rollout(fold_rl_trainer *t, fold_rl__room *room)
{
    const fold_rl_trainer_desc *d = &t->d;
    const size_t agents = (size_t)d->agents, rows = (size_t)t->rows, heads = (size_t)d->heads;
    const size_t total = (size_t)t->total, seen = (size_t)d->observations;
    const size_t states = agents * (size_t)(t->policy.memory.hidden ? t->policy.memory.hidden : 1);
    const size_t items = (size_t)d->max_items * (size_t)d->item_values;
    float **const state[6] = { &t->h, &t->c, &t->last_h, &t->last_c, &t->first_h, &t->first_c };
    t->choices = fold_rl__ints(room, heads);
    t->chance = (fold_random *)fold_rl__carve(room, agents, sizeof(fold_random));
    t->now = fold_rl__floats(room, agents * (size_t)t->features);
    t->logits = fold_rl__floats(room, agents * total);
    t->next_value = fold_rl__floats(room, agents);
    t->cut = fold_rl__floats(room, agents);
    t->present_now = fold_rl__octets(room, agents);
    for (int i = 0; i < 6; i++)
        *state[i] = fold_rl__floats(room, i < 4 ? states : states * (size_t)t->segments);
    t->now_count = fold_rl__ints(room, items ? agents : 0);
    t->now_items = fold_rl__floats(room, agents * items);
    t->count = fold_rl__ints(room, items ? rows : 0);
    t->items = fold_rl__floats(room, rows * items);
    t->seen = fold_rl__floats(room, d->bytes ? 0 : rows * seen);
    t->seen_bytes = fold_rl__octets(room, d->bytes ? rows * seen : 0);
    t->mask = fold_rl__octets(room, d->masks ? rows * total : 0);
    t->present = fold_rl__octets(room, rows);
    t->is_over = fold_rl__octets(room, rows);
    t->action = fold_rl__ints(room, rows * heads);
    t->number = fold_rl__floats(room, rows * heads);
    t->log_prob = fold_rl__floats(room, rows);
    t->value = fold_rl__floats(room, rows);
    t->reward = fold_rl__floats(room, rows);
    t->advantage = fold_rl__floats(room, rows);
    t->target = fold_rl__floats(room, rows);
    t->after = fold_rl__floats(room, rows);
    t->length = fold_rl__ints(room, rows);
    t->first = fold_rl__ints(room, rows);
    t->order = fold_rl__ints(room, rows);
}

static void fold_rl__lay_out_part(fold_rl_trainer *t, fold_rl__room *room)
{
    const size_t rows = (size_t)t->part_rows, heads = (size_t)t->d.heads, steps = (size_t)t->d.steps;
    const size_t hidden = (size_t)t->policy.memory.hidden, items = (size_t)t->d.max_items;
    const size_t pieces = hidden || t->d.body ? (size_t)t->rows : 0;
    const size_t states = t->d.body ? pieces * hidden : 0, chunk = t->d.body ? FOLD_RL__CHUNK : 0;
    t->part_seen = fold_rl__floats(room, rows * (size_t)t->features);
    t->part_mask = fold_rl__floats(room, t->d.masks ? rows * (size_t)t->total : 0);
    t->part_action = fold_rl__ints(room, rows * heads);
    t->part_number = fold_rl__floats(room, rows * heads);
    t->part_old = fold_rl__floats(room, rows);
    t->part_advantage = fold_rl__floats(room, rows);
    t->part_target = fold_rl__floats(room, rows);
    t->part_log_prob = fold_rl__floats(room, rows);
    t->part_entropy = fold_rl__floats(room, rows);
    t->part_value = fold_rl__floats(room, rows);
    t->node = (fold_node *)fold_rl__carve(room, pieces, sizeof(fold_node));
    t->actor = (fold_node *)fold_rl__carve(room, steps, sizeof(fold_node));
    t->critic = (fold_node *)fold_rl__carve(room, steps, sizeof(fold_node));
    t->part_count = fold_rl__ints(room, items ? rows : 0);
    t->part_item = fold_rl__floats(room, rows * items * (size_t)t->d.item_values);
    t->part_h = fold_rl__floats(room, states);
    t->part_c = fold_rl__floats(room, states);
    t->from = fold_rl__ints(room, chunk * (items ? items : 1));
    t->to = fold_rl__ints(room, chunk * items);
}

FOLD_API fold_rl_trainer_desc fold_rl_trainer_desc_default(void)
{
    fold_rl_trainer_desc d;
    memset(&d, 0, sizeof d);
    d.agents = d.heads = 1;
    d.width = d.steps = 64;
    d.epochs = d.minibatches = 4;
    d.rate = 0.001f;
    d.discount = 0.99f;
    d.trace = 0.95f;
    d.clip = 0.2f;
    d.value_share = d.max_norm = 0.5f;
    return d;
}

/* Replaces zeros with the defaults. */
static fold_rl_trainer_desc fold_rl__completed(const fold_rl_trainer_desc *given)
{
    const fold_rl_trainer_desc defaults = fold_rl_trainer_desc_default();
    fold_rl_trainer_desc d = *given;
    int *const whole[] = { &d.heads, &d.width, &d.steps, &d.epochs, &d.minibatches };
    const int wholes[] = { defaults.heads, defaults.width, defaults.steps, defaults.epochs,
                           defaults.minibatches };
    float *const number[] = { &d.rate, &d.discount, &d.trace, &d.clip, &d.value_share, &d.max_norm };
    const float numbers[] = { defaults.rate, defaults.discount,    defaults.trace,
                              defaults.clip, defaults.value_share, defaults.max_norm };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!*whole[i])
            *whole[i] = wholes[i];
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (*number[i] == 0)
            *number[i] = numbers[i];
    if (!d.layers)
        d.layers = d.memory ? 1 : 2;
    if (d.one_hot)
        d.bytes = 1;
    return d;
}

/* Checks that settings do not conflict. If they do, sets an error on the model and returns 0. */
static int fold_rl__settings_fit(fold_model *m, const fold_rl_trainer_desc *d)
{
    const float factor = fold_rate_factor(&d->rates, 0);
    const char *wrong = NULL;
    if (!fold_finite(&factor, 1))
        wrong = "a setting of rates is out of range";
    else if (d->masks && !d->choices)
        wrong = "masks need choices, not numbers";
    else if (d->body && (d->policy || d->memory))
        wrong = "body is set, and so is policy or memory; use one of them";
    else if (!d->body && (d->hidden || d->has_c || d->max_items || d->item_values))
        wrong = "hidden, has_c, max_items and item_values need a body";
    else if (!d->max_items != !d->item_values)
        wrong = "one of max_items and item_values is 0; set both, or none";
    else if (d->has_c && !d->hidden)
        wrong = "has_c is set, but hidden is 0";
    return !wrong || (fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_trainer_new: %s", wrong), 0);
}

static int fold_rl__sizes_ok(fold_model *m, const fold_rl_trainer_desc *d)
{
    const double rows = (double)d->agents * d->steps, most_rows = 1 << 30, most_features = 1 << 24;
    const double features = (double)d->observations * (d->one_hot ? d->one_hot : 1);
    if (rows > most_rows || features > most_features)
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                             "fold_rl_trainer_new: a rollout has %g steps of %g values, must be at most 2^30 "
                             "of 2^24",
                             rows, features),
               0;
    const double items = (double)d->max_items * d->item_values;
    if (rows * d->max_items > most_rows || items > most_features)
        return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                             "fold_rl_trainer_new: a rollout has up to %g items, and an agent sees up to %g "
                             "of their values, must be at most 2^30 and 2^24",
                             rows * d->max_items, items),
               0;
    return 1;
}

static int fold_rl__settings_ok(fold_model *m, const fold_rl_trainer_desc *d)
{
    const double most = 3.0e38;
    const struct {
        const char *name;
        double value, low, high;
    } settings[] = {
        { "agents", (double)d->agents, 1, FOLD_RL__AGENTS },
        { "observations", (double)d->observations, 1, 1 << 24 },
        { "one_hot", (double)d->one_hot, 0, 256 },
        { "heads", (double)d->heads, 1, FOLD_RL__HEADS },
        { "layers", (double)d->layers, 1, FOLD_RL__LAYERS },
        { "width", (double)d->width, 1, 1 << 16 },
        { "hidden", (double)d->hidden, 0, 1 << 16 },
        { "max_items", (double)d->max_items, 0, 1 << 16 },
        { "item_values", (double)d->item_values, 0, 1 << 16 },
        { "segment", (double)d->segment, 0, 1 << 20 },
        { "steps", (double)d->steps, 1, 1 << 20 },
        { "epochs", (double)d->epochs, 1, 1 << 20 },
        { "minibatches", (double)d->minibatches, 1, 1 << 20 },
        { "rate", (double)d->rate, 0, most },
        { "discount", (double)d->discount, 0, 1 },
        { "trace", (double)d->trace, 0, 1 },
        { "clip", (double)d->clip, 1e-6, most },
        { "value_share", (double)d->value_share, 0, most },
        { "entropy_share", (double)d->entropy_share, 0, most },
        { "max_norm", (double)d->max_norm, 0, most },
        { "target_kl", (double)d->target_kl, 0, most },
        { "reward_limit", (double)d->reward_limit, 0, most },
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const float value = (float)settings[i].value;
        if (!fold_finite(&value, 1) || settings[i].value < settings[i].low ||
            settings[i].value > settings[i].high)
            return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_trainer_new: %s is %g, must be in [%g, %g]", settings[i].name,
                                 settings[i].value, settings[i].low, settings[i].high),
                   0;
    }
    for (int i = 0; d->choices && i < d->heads; i++)
        if (d->choices[i] < 1 || d->choices[i] > 1 << 16)
            return fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_trainer_new: choices[%d] is %d, must be in [1, 65536]", i,
                                 d->choices[i]),
                   0;
    return fold_rl__sizes_ok(m, d) && fold_rl__settings_fit(m, d);
}

static fold_rl_policy fold_rl__make_policy(fold_rl_trainer *t, const char *name)
{
    const fold_rl_trainer_desc *d = &t->d;
    fold_rl_policy p;
    char part[128], layer[16] = "encoder.0";
    memset(&p, 0, sizeof p);
    p.inputs = t->features;
    p.encoder.layers = d->layers;
    for (int i = 0; i < d->layers; i++, layer[8]++)
        p.encoder.layer[i] =
            fold_rl_dense_new(t->m, fold_rl__join(part, t->m, name, layer), i ? d->width : t->features,
                              d->width, FOLD_ACT_TANH, 1.41421356f);
    if (d->memory)
        p.memory = d->memory(t->m, fold_rl__join(part, t->m, name, "memory"), d->width, d->width);
    p.actor = fold_rl_dense_new(t->m, fold_rl__join(part, t->m, name, "actor"), d->width, t->total,
                                FOLD_ACT_LINEAR, 0.01f);
    p.critic =
        fold_rl_dense_new(t->m, fold_rl__join(part, t->m, name, "critic"), d->width, 1, FOLD_ACT_LINEAR, 1);
    fold_rl_policy_assemble(t->m, name, &p);
    return p;
}

/* Creates the trainer's parameters and buffers. If it fails, sets an error on the model and returns 0. */
static int fold_rl__make_parameters(fold_rl_trainer *t, const char *name)
{
    char part[128];
    const fold_rl_trainer_desc *d = &t->d;
    if (!d->body)
        t->policy = d->policy ? *d->policy : fold_rl__make_policy(t, name);
    else
        t->policy.memory.hidden = d->hidden, t->policy.memory.has_c = d->has_c;
    const int hidden = t->policy.memory.hidden;
    if (!d->body && t->policy.inputs != t->features)
        fold_rl__fail(t->m, NULL, FOLD_BAD_SHAPE,
                      "fold_rl_trainer_new: the policy has %d inputs, but sees %d values", t->policy.inputs,
                      t->features);
    const fold_shape weights = fold_param_shape(t->m, t->policy.actor.W);
    if (!d->body && (weights.rank != 2 || weights.dim[1] != t->total))
        fold_rl__fail(t->m, NULL, FOLD_BAD_SHAPE,
                      "fold_rl_trainer_new: the policy's actor has %d outputs, but actions need %d",
                      weights.rank == 2 ? weights.dim[1] : 0, t->total);
    if (!d->choices)
        t->deviation = fold_bias_new(t->m, fold_rl__join(part, t->m, name, "log_deviation"), d->heads);
    if (!d->raw && !d->bytes)
        t->moments =
            fold_rl_moments_new(t->m, fold_rl__join(part, t->m, name, "observations"), d->observations);
    if (!d->raw && d->max_items)
        t->item_moments = fold_rl_moments_new(t->m, fold_rl__join(part, t->m, name, "items"), d->item_values);
    t->updates = fold_rl__buffer(t->m, name, "updates", fold_shape1(2), 0);
    if (hidden)
        t->kept_h = fold_rl__buffer(t->m, name, "h", fold_shape2(d->agents, hidden), 0);
    if (hidden && t->policy.memory.has_c)
        t->kept_c = fold_rl__buffer(t->m, name, "c", fold_shape2(d->agents, hidden), 0);
    return fold_model_status(t->m) == FOLD_OK;
}

/* Allocates all arrays, set to zero. */
static int fold_rl__take_arrays(fold_rl_trainer *t)
{
    const fold_memory memory = fold_model_memory(t->m);
    const double rows = (double)t->rows, hidden = (double)t->policy.memory.hidden;
    const double row = 8.0 * t->features + 8.0 * t->d.heads + 8.0 * t->total + 32 * hidden + 256 +
                       (8.0 * t->d.item_values + 1024) * t->d.max_items;
    fold_rl__room room = { NULL, 0 };
    fold_rl__lay_out_rollout(t, &room);
    fold_rl__lay_out_part(t, &room);
    if (rows * row < (double)(SIZE_MAX / 4))
        t->block = (char *)(memory.alloc)(room.used, 64, memory.user);
    if (!t->block)
        return fold_rl__fail(t->m, NULL, FOLD_NO_MEMORY,
                             "fold_rl_trainer_new: no memory for %.0f steps of %d values", rows, t->features),
               0;
    t->block_size = room.used;
    memset(t->block, 0, room.used);
    room.base = t->block;
    room.used = 0;
    const int *choices = t->d.choices;
    fold_rl__lay_out_rollout(t, &room);
    fold_rl__lay_out_part(t, &room);
    if (choices) {
        memcpy(t->choices, choices, (size_t)t->d.heads * sizeof(int));
        t->d.choices = t->choices;
    }
    for (int i = 0; t->d.body && i < FOLD_RL__CHUNK * (t->d.max_items ? t->d.max_items : 1); i++)
        t->from[i] = i;
    return 1;
}

FOLD_API fold_rl_trainer *fold_rl_trainer_new(fold_model *m, const char *name, const fold_rl_trainer_desc *d)
{
    if (!m || !d || !name) {
        fold_rl__fail(m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_trainer_new: name or d is NULL");
        return NULL;
    }
    const fold_memory memory = fold_model_memory(m);
    const fold_rl_trainer_desc complete = fold_rl__completed(d);
    if (fold_model_status(m) || !fold_rl__settings_ok(m, &complete))
        return NULL;
    fold_rl_trainer *t = (fold_rl_trainer *)(memory.alloc)(sizeof *t, 64, memory.user);
    if (!t) {
        fold_rl__fail(m, NULL, FOLD_NO_MEMORY, "fold_rl_trainer_new: no memory");
        return NULL;
    }
    memset(t, 0, sizeof *t);
    t->d = complete;
    t->m = m;
    t->features = complete.observations * (complete.one_hot ? complete.one_hot : 1);
    for (int i = 0; i < complete.heads; i++)
        t->total += complete.choices ? complete.choices[i] : 1;
    t->rows = complete.agents * complete.steps;
    t->segments = complete.segment ? (complete.steps - 1) / complete.segment + 1 : 1;
    fold_ctx_desc ctx = complete.ctx ? *complete.ctx : fold_ctx_desc_default();
    if (fold_rl__make_parameters(t, name)) {
        t->part_rows = t->policy.memory.hidden ? t->rows : (t->rows - 1) / complete.minibatches + 1;
        if (fold_rl__take_arrays(t)) {
            ctx.training = 0;
            t->acting = fold_ctx_new(m, &ctx);
            ctx.training = 1;
            t->learning = fold_ctx_new(m, &ctx);
            if (!t->acting || !t->learning)
                fold_rl__fail(m, NULL, FOLD_NO_MEMORY, "fold_rl_trainer_new: no memory for contexts");
        }
    }
    if (!fold_model_status(m))
        return t;
    fold_rl_trainer_free(t);
    return NULL;
}

FOLD_API void fold_rl_trainer_free(fold_rl_trainer *t)
{
    if (!t)
        return;
    const fold_memory memory = fold_model_memory(t->m);
    fold_ctx_free(t->acting);
    fold_ctx_free(t->learning);
    if (t->block)
        (memory.free)(t->block, t->block_size, memory.user);
    (memory.free)(t, sizeof *t, memory.user);
}

FOLD_API const fold_rl_policy *fold_rl_trainer_policy(const fold_rl_trainer *t)
{
    return t && !t->d.body ? &t->policy : NULL;
}

FOLD_API fold_rl_moments fold_rl_trainer_moments(const fold_rl_trainer *t)
{
    fold_rl_moments none;
    memset(&none, 0, sizeof none);
    return t ? t->moments : none;
}

FOLD_API fold_rl_moments fold_rl_trainer_item_moments(const fold_rl_trainer *t)
{
    fold_rl_moments none;
    memset(&none, 0, sizeof none);
    return t ? t->item_moments : none;
}

FOLD_API int fold_rl_trainer_updates(const fold_rl_trainer *t)
{
    const float *updates = t ? fold_param_value(t->m, t->updates) : NULL;
    return updates ? (int)fold_rl__count(updates) : 0;
}
FOLD_API int fold_rl_trainer_is_full(const fold_rl_trainer *t) { return t && t->step == t->d.steps; }

/* ---- acting -------------------------------------------------------------------------------------- */

/* Random numbers depend only on the seed, the agent and the number of updates, so a checkpoint need not save
   generators. Agents have numbers below 2^20, so the shuffle can use 2^20. */
static void fold_rl__begin_rollout(fold_rl_trainer *t)
{
    const uint64_t stream = (uint64_t)fold_rl_trainer_updates(t) << 24;
    const size_t bytes = (size_t)t->d.agents * (size_t)t->policy.memory.hidden * sizeof(float);
    for (int agent = 0; agent < t->d.agents; agent++)
        t->chance[agent] = fold_random_new(t->d.seed, stream + (uint64_t)agent);
    t->shuffle = fold_random_new(t->d.seed, stream + FOLD_RL__AGENTS);
    if (!t->policy.memory.hidden)
        return;
    memcpy(t->h, fold_param_value(t->m, t->kept_h), bytes);
    if (t->policy.memory.has_c)
        memcpy(t->c, fold_param_value(t->m, t->kept_c), bytes);
}

static void fold_rl__forget(fold_rl_trainer *t, int agent)
{
    const size_t width = (size_t)t->policy.memory.hidden;
    if (!width)
        return;
    memset(&t->h[(size_t)agent * width], 0, width * sizeof(float));
    memset(&t->c[(size_t)agent * width], 0, width * sizeof(float));
}

/* Converts n bytes to the values that the policy reads. */
static void fold_rl__spread(const fold_rl_trainer *t, const unsigned char *bytes, size_t n, float *values)
{
    const size_t one_hot = (size_t)t->d.one_hot;
    if (!one_hot) {
        for (size_t i = 0; i < n; i++)
            values[i] = (float)bytes[i] / 255;
        return;
    }
    memset(values, 0, n * one_hot * sizeof(float));
    for (size_t i = 0; i < n; i++)
        if (bytes[i] < one_hot)
            values[i * one_hot + bytes[i]] = 1;
}

/* Finds the agents that are present, and writes their observations to t->now. Returns their number, or -1. */
static int fold_rl__read_observations(fold_rl_trainer *t, const fold_rl_seen *seen)
{
    const size_t n = (size_t)t->d.observations;
    int there = 0;
    if (t->d.bytes ? !seen->bytes : !seen->observations)
        return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_trainer: there are no %s",
                             t->d.bytes ? "bytes" : "observations"),
               -1;
    for (int agent = 0; agent < t->d.agents; agent++) {
        const size_t at = (size_t)agent * n;
        t->present_now[agent] = !seen->present || seen->present[agent];
        if (!t->present_now[agent])
            continue;
        float *to = t->now + (size_t)there++ * (size_t)t->features;
        if (t->d.bytes) {
            fold_rl__spread(t, seen->bytes + at, n, to);
            continue;
        }
        if (!fold_finite(seen->observations + at, (int)n))
            return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_trainer: an observation of agent %d is not finite", agent),
                   -1;
        memcpy(to, seen->observations + at, n * sizeof(float));
    }
    return there;
}

/* Writes the items of present agents end to end to t->now_items. Returns the number of items, or -1. */
static int fold_rl__read_items(fold_rl_trainer *t, const fold_rl_seen *seen)
{
    const size_t width = (size_t)t->d.item_values;
    const float *next = seen->items;
    int n = 0;
    if (t->d.max_items && !seen->item_counts)
        return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_trainer: there are no item_counts"), -1;
    for (int agent = 0; t->d.max_items && agent < t->d.agents; agent++) {
        const int count = seen->item_counts[agent];
        if (count < 0 || count > t->d.max_items)
            return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_trainer: agent %d sees %d items, must be in [0, %d]", agent, count,
                                 t->d.max_items),
                   -1;
        t->now_count[agent] = t->present_now[agent] ? count : 0;
        if (!count)
            continue;
        if (!next)
            return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT, "fold_rl_trainer: there are no items"), -1;
        if (t->present_now[agent]) {
            if (!fold_finite(next, count * t->d.item_values))
                return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT,
                                     "fold_rl_trainer: an item of agent %d is not finite", agent),
                       -1;
            memcpy(t->now_items + (size_t)n * width, next, (size_t)count * width * sizeof(float));
            n += count;
        }
        next += (size_t)count * width;
    }
    return n;
}

/* Reads what agents see into t->now and t->now_items; absent agents get zeros and no items. If `adds`, the
   moments are updated. */
static int fold_rl__see(fold_rl_trainer *t, const fold_rl_seen *seen, int adds)
{
    const size_t n = (size_t)t->features;
    int there = fold_rl__read_observations(t, seen);
    const int items = there < 0 ? -1 : fold_rl__read_items(t, seen);
    if (items < 0)
        return 0;
    if (adds && t->moments.n && fold_rl_moments_add(t->m, &t->moments, t->now, there))
        return 0;
    if (adds && t->item_moments.n && fold_rl_moments_add(t->m, &t->item_moments, t->now_items, items))
        return 0;
    if (t->moments.n)
        fold_rl_moments_apply(t->m, &t->moments, t->now, there);
    if (t->item_moments.n)
        fold_rl_moments_apply(t->m, &t->item_moments, t->now_items, items);
    for (int agent = t->d.agents - 1; agent >= 0; agent--) /* from the last agent, since rows move up */
        if (t->present_now[agent])
            memmove(t->now + (size_t)agent * n, t->now + (size_t)--there * n, n * sizeof(float));
        else
            memset(t->now + (size_t)agent * n, 0, n * sizeof(float));
    return 1;
}

/* Returns a body's input, without a state. The rows are read in place. */
static fold_rl_input fold_rl__input(fold_rl_trainer *t, fold_ctx *f, const float *seen, int rows,
                                    const float *items, const int *counts)
{
    fold_rl_input in;
    memset(&in, 0, sizeof in);
    in.rows = rows;
    in.from = t->from;
    in.to = t->to;
    in.observations = fold_list_input_ref(f, seen, rows, fold_shape1(t->features));
    if (!t->d.max_items)
        return in;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < counts[row]; i++)
            t->to[in.item_count++] = row;
    in.items = fold_list_input_ref(f, items, in.item_count, fold_shape1(t->d.item_values));
    return in;
}

/* Sets an error on the context if x is not a list of `rows` rows [width]. */
static void fold_rl__check_list(fold_ctx *f, fold_node x, const char *name, int rows, int width)
{
    const fold_shape shape = fold_node_shape(f, x);
    const int length = fold_list_length(f, x);
    if (fold_node_is_null(x))
        fold_rl__fail(NULL, f, FOLD_BAD_SHAPE, "the body returned no %s", name);
    else if (length < 0)
        fold_rl__fail(NULL, f, FOLD_BAD_SHAPE, "%s of the body is one node, must be a list of %d rows [%d]",
                      name, rows, width);
    else if (shape.rank != 1)
        fold_rl__fail(NULL, f, FOLD_BAD_SHAPE, "%s of the body has rows of rank %d, must have rows [%d]",
                      name, shape.rank, width);
    else if (length != rows || shape.dim[0] != width)
        fold_rl__fail(NULL, f, FOLD_BAD_SHAPE, "%s of the body is %d rows [%d], must be %d rows [%d]", name,
                      length, shape.dim[0], rows, width);
}

/* Calls the body, and checks what it returns. */
static fold_rl_step fold_rl__apply(fold_rl_trainer *t, fold_ctx *f, const fold_rl_input *in)
{
    const fold_rl_step step = t->d.body(f, in, t->d.user);
    fold_rl__check_list(f, step.actor, "actor", in->rows, t->total);
    fold_rl__check_list(f, step.critic, "critic", in->rows, 1);
    if (t->d.hidden)
        fold_rl__check_list(f, step.state.h, "state.h", in->rows, t->d.hidden);
    if (t->d.has_c)
        fold_rl__check_list(f, step.state.c, "state.c", in->rows, t->d.hidden);
    return step;
}

/* Records and runs a step of the body for all agents. It cannot be replayed, because item counts change. */
static fold_status fold_rl__run_body(fold_rl_trainer *t)
{
    fold_ctx *f = t->acting;
    const int agents = t->d.agents;
    const size_t hidden = (size_t)t->d.hidden;
    const float *items = t->now_items;
    fold_ctx_reset(f);
    for (int from = 0; from < agents; from += FOLD_RL__CHUNK) {
        const int rows = agents - from < FOLD_RL__CHUNK ? agents - from : FOLD_RL__CHUNK;
        const size_t at = (size_t)from;
        fold_rl_input in = fold_rl__input(t, f, t->now + at * (size_t)t->features, rows, items,
                                          t->now_count + (t->d.max_items ? at : 0));
        if (t->d.hidden)
            in.state.h = fold_list_input_ref(f, t->h + at * hidden, rows, fold_shape1(t->d.hidden));
        if (t->d.has_c)
            in.state.c = fold_list_input_ref(f, t->c + at * hidden, rows, fold_shape1(t->d.hidden));
        const fold_rl_step step = fold_rl__apply(t, f, &in);
        items += (size_t)in.item_count * (size_t)t->d.item_values;
        fold_output_ref(f, step.actor, t->logits + at * (size_t)t->total);
        fold_output_ref(f, step.critic, t->next_value + at);
        if (t->d.hidden)
            fold_output_ref(f, step.state.h, t->h + at * hidden);
        if (t->d.has_c)
            fold_output_ref(f, step.state.c, t->c + at * hidden);
    }
    return fold_run(f, NULL, 0);
}

/* Records or replays a step of the policy for all agents, from t->now. */
static fold_status fold_rl__run_policy(fold_rl_trainer *t)
{
    fold_ctx *f = t->acting;
    const int agents = t->d.agents, hidden = t->policy.memory.hidden;
    fold_state state = { { 0, 0 }, { 0, 0 } };
    fold_status status;
    if (t->d.body) {
        status = fold_rl__run_body(t);
    } else if (t->recorded) {
        status = fold_replay(f);
    } else {
        fold_ctx_reset(f);
        if (hidden)
            state.h = fold_list_input_ref(f, t->h, agents, fold_shape1(hidden));
        if (t->policy.memory.has_c)
            state.c = fold_list_input_ref(f, t->c, agents, fold_shape1(hidden));
        const fold_node x = fold_list_input_ref(f, t->now, agents, fold_shape1(t->features));
        const fold_rl_step step = fold_rl_policy_apply(f, &t->policy, x, state);
        const fold_node roots[4] = { step.actor, step.critic, step.state.h, step.state.c };
        float *const to[4] = { t->logits, t->next_value, t->h, t->c };
        const int n = 2 + (hidden > 0) + (t->policy.memory.has_c != 0);
        for (int i = 0; i < n; i++)
            fold_output_ref(f, roots[i], to[i]);
        status = fold_run(f, roots, n);
    }
    t->recorded = !status;
    if (status)
        fold_rl__fail(t->m, NULL, status, "fold_rl_trainer: %s", fold_ctx_message(f));
    return status;
}

/* Draws the action of an agent. If it cannot, sets an error on the model and returns 0. */
static int fold_rl__draw(fold_rl_trainer *t, int agent, size_t row, float *actions)
{
    const size_t heads = (size_t)t->d.heads;
    float *logits = t->logits + (size_t)agent * (size_t)t->total, *x = t->number + row * heads;
    int *chosen = t->action + row * heads;
    fold_random *chance = &t->chance[agent];
    if (t->d.choices) {
        t->log_prob[row] = fold_random_softmax_n(chance, logits, t->d.choices, t->d.heads, chosen);
        for (size_t i = 0; i < heads; i++)
            x[i] = (float)chosen[i];
    } else {
        const float *s = fold_param_value(t->m, t->deviation);
        for (size_t i = 0; i < heads; i++)
            x[i] = logits[i] + expf(s[i]) * fold_random_normal(chance);
        t->log_prob[row] = fold_rl_gaussian_log_prob(x, logits, s, t->d.heads);
    }
    memcpy(actions + (size_t)agent * heads, x, heads * sizeof(float));
    if (fold_finite(&t->log_prob[row], 1) && fold_finite(&t->next_value[agent], 1))
        return 1;
    return fold_rl__fail(t->m, NULL, FOLD_BAD_STATE,
                         "fold_rl_trainer_act: agent %d has no action to draw: no legal move in a head, or "
                         "weights that are not numbers",
                         agent),
           0;
}

/* Sets the logits of an agent's illegal moves to -infinity, and stores its mask. */
static void fold_rl__rule_out(fold_rl_trainer *t, const unsigned char *mask, int agent, size_t row)
{
    const size_t n = (size_t)t->total, from = (size_t)agent * n;
    for (size_t i = 0; i < n; i++) {
        t->mask[row * n + i] = !mask || mask[from + i];
        if (!t->mask[row * n + i])
            t->logits[from + i] = -(float)HUGE_VAL;
    }
}

/* Whether t exists, has no error, and expects the call `turn` next: 0 act, 1 add, 2 learn. */
static int fold_rl__in_turn(fold_rl_trainer *t, const char *call, int turn, const void *read)
{
    if (!t)
        return 0;
    if (!read)
        fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT, "%s: an array is NULL", call);
    const int next = fold_rl_trainer_is_full(t) ? 2 : t->has_acted;
    if (turn != next)
        fold_rl__fail(t->m, NULL, FOLD_BAD_STATE, "%s: fold_rl_trainer_%s is next", call,
                      next == 2   ? "learn"
                      : next == 1 ? "add"
                                  : "act");
    return fold_model_status(t->m) == FOLD_OK;
}

static fold_status fold_rl__status(const fold_rl_trainer *t)
{
    return t ? fold_model_status(t->m) : FOLD_BAD_ARGUMENT;
}

/* Stores the items of an agent, from `from` on. Returns the number of their values. */
static size_t fold_rl__store_items(fold_rl_trainer *t, const float *from, int agent, size_t row)
{
    const size_t n = (size_t)t->now_count[agent] * (size_t)t->d.item_values;
    t->count[row] = t->now_count[agent];
    memcpy(t->items + row * (size_t)t->d.max_items * (size_t)t->d.item_values, from, n * sizeof(float));
    return n;
}

/* Before the first step of a segment, saves the agents' states. */
static void fold_rl__keep_first(fold_rl_trainer *t)
{
    const size_t hidden = (size_t)t->policy.memory.hidden, segments = (size_t)t->segments;
    const int segment = t->d.segment ? t->d.segment : t->d.steps;
    if (t->step % segment)
        return;
    for (size_t agent = 0; agent < (size_t)t->d.agents; agent++) {
        const size_t to = (agent * segments + (size_t)(t->step / segment)) * hidden;
        memcpy(t->first_h + to, t->last_h + agent * hidden, hidden * sizeof(float));
        memcpy(t->first_c + to, t->last_c + agent * hidden, hidden * sizeof(float));
    }
}

/* Returns the state before the first row of a piece, from `states` (first_h or first_c). Returns NULL if an
   episode begins there within a segment. */
static const float *fold_rl__state_before(const fold_rl_trainer *t, const float *states, int row)
{
    const int segment = t->d.segment ? t->d.segment : t->d.steps, agent = row / t->d.steps,
              step = row % t->d.steps;
    if (step % segment)
        return NULL;
    return states +
           ((size_t)agent * (size_t)t->segments + (size_t)(step / segment)) * (size_t)t->policy.memory.hidden;
}

FOLD_API fold_status fold_rl_trainer_act(fold_rl_trainer *t, const fold_rl_seen *seen, float *actions)
{
    if (!fold_rl__in_turn(t, "fold_rl_trainer_act", 0, seen && actions ? seen : NULL))
        return fold_rl__status(t);
    const size_t n = (size_t)t->d.observations, steps = (size_t)t->d.steps, step = (size_t)t->step;
    const size_t states = (size_t)t->d.agents * (size_t)t->policy.memory.hidden * sizeof(float);
    if (!step)
        fold_rl__begin_rollout(t);
    for (int agent = 0; agent < t->d.agents; agent++)
        if (seen->present && !seen->present[agent])
            fold_rl__forget(t, agent);
    memcpy(t->last_h, t->h, states);
    memcpy(t->last_c, t->c, states);
    if (!fold_rl__see(t, seen, 1) || fold_rl__run_policy(t))
        return fold_rl__status(t);
    const float *items = t->now_items;
    for (int agent = 0; agent < t->d.agents; agent++) {
        const size_t row = (size_t)agent * steps + step;
        t->present[row] = t->present_now[agent];
        t->value[row] = t->present[row] ? t->next_value[agent] : 0;
        if (!t->present[row]) {
            if (step)
                t->is_over[row - 1] = 1;
            memset(actions + (size_t)agent * (size_t)t->d.heads, 0, (size_t)t->d.heads * sizeof(float));
            continue;
        }
        if (t->d.bytes)
            memcpy(t->seen_bytes + row * n, seen->bytes + (size_t)agent * n, n);
        else
            memcpy(t->seen + row * n, t->now + (size_t)agent * n, n * sizeof(float));
        if (t->d.max_items)
            items += fold_rl__store_items(t, items, agent, row);
        if (t->d.masks)
            fold_rl__rule_out(t, seen->mask, agent, row);
        if (!fold_rl__draw(t, agent, row, actions)) {
            memcpy(t->h, t->last_h, states);
            memcpy(t->c, t->last_c, states);
            return fold_rl__status(t);
        }
    }
    fold_rl__keep_first(t);
    t->has_acted = 1;
    return FOLD_OK;
}

/* Computes next_value for what agents see, without changing their states. */
static int fold_rl__values(fold_rl_trainer *t, const fold_rl_seen *seen)
{
    const size_t states = (size_t)t->d.agents * (size_t)t->policy.memory.hidden * sizeof(float);
    memcpy(t->last_h, t->h, states);
    memcpy(t->last_c, t->c, states);
    const int computed = fold_rl__see(t, seen, 0) && !fold_rl__run_policy(t);
    memcpy(t->h, t->last_h, states);
    memcpy(t->c, t->last_c, states);
    return computed;
}

FOLD_API fold_status fold_rl_trainer_truncate(fold_rl_trainer *t, const fold_rl_seen *last)
{
    if (!fold_rl__in_turn(t, "fold_rl_trainer_truncate", 1, last ? last->present : NULL))
        return fold_rl__status(t);
    if (!fold_rl__values(t, last))
        return fold_rl__status(t);
    for (int agent = 0; agent < t->d.agents; agent++)
        t->cut[agent] = t->present_now[agent] ? t->next_value[agent] : 0;
    return FOLD_OK;
}

FOLD_API fold_status fold_rl_trainer_add(fold_rl_trainer *t, const float *rewards,
                                         const unsigned char *terminals)
{
    if (!fold_rl__in_turn(t, "fold_rl_trainer_add", 1, rewards))
        return fold_rl__status(t);
    const size_t steps = (size_t)t->d.steps, step = (size_t)t->step;
    const float limit = t->d.reward_limit;
    for (int agent = 0; agent < t->d.agents; agent++)
        if (t->present[(size_t)agent * steps + step] && !fold_finite(&rewards[agent], 1))
            return fold_rl__fail(t->m, NULL, FOLD_BAD_ARGUMENT,
                                 "fold_rl_trainer_add: the reward of agent %d is %g", agent,
                                 (double)rewards[agent]);
    for (int agent = 0; agent < t->d.agents; agent++) {
        const size_t row = (size_t)agent * steps + step;
        float reward = t->present[row] ? rewards[agent] : 0;
        if (limit > 0)
            reward = reward > limit ? limit : reward < -limit ? -limit : reward;
        t->reward[row] = reward + t->d.discount * t->cut[agent];
        t->cut[agent] = 0;
        t->is_over[row] = !t->present[row] || (terminals && terminals[agent]);
        if (t->is_over[row])
            fold_rl__forget(t, agent);
    }
    t->step++;
    t->has_acted = 0;
    return FOLD_OK;
}

/* ---- learning ------------------------------------------------------------------------------------ */

/* Cuts the rollout into pieces, also for absent agents. On failure, sets the model's error and returns 0. */
static int fold_rl__cut(fold_rl_trainer *t, int segment)
{
    const fold_rl_rollout r = { t->d.agents, t->d.steps, t->is_over, t->value, t->next_value, segment };
    for (int agent = 0; agent < t->d.agents; agent++)
        if (!t->present_now[agent])
            t->next_value[agent] = 0;
    t->pieces = fold_rl_cut(t->m, &r, t->first, t->length, t->after);
    return t->pieces >= 0;
}

/* Computes advantages and targets, standardises the advantages of all steps of present agents, and writes the
   units of a pass to t->order: steps or, with a memory, pieces. Returns the number of units, or -1. */
static int fold_rl__prepare(fold_rl_trainer *t, fold_rl_report *report)
{
    double sum[2] = { 0, 0 }, squares[2] = { 0, 0 };
    int units = 0, there = 0;
    if (!fold_rl__cut(t, 0))
        return -1;
    const fold_rl_episodes episodes = { t->reward, t->value, t->length, t->after, t->pieces };
    if (fold_rl_advantages(t->m, &episodes, t->d.discount, t->d.trace, t->advantage, t->target))
        return -1;
    for (int row = 0; row < t->rows; row++)
        if (t->present[row]) {
            const double x[2] = { (double)t->target[row], (double)t->target[row] - (double)t->value[row] };
            for (int i = 0; i < 2; i++) {
                sum[i] += x[i];
                squares[i] += x[i] * x[i];
            }
            t->order[there++] = row;
        }
    report->steps = there;
    for (int i = 0; i < 2 && there; i++)
        squares[i] = squares[i] / there - sum[i] / there * (sum[i] / there);
    report->explained_variance = squares[0] > 0 ? 1 - squares[1] / squares[0] : (double)NAN;
    for (int i = 0; i < there; i++)
        t->after[i] = t->advantage[t->order[i]]; /* `after` is unused here, and large enough */
    if (!fold_rl_standardize(t->after, there))
        return fold_rl__fail(t->m, NULL, FOLD_BAD_STATE, "fold_rl_trainer_learn: advantages are not finite"),
               -1;
    for (int i = 0; i < there; i++)
        t->advantage[t->order[i]] = t->after[i];
    if (!t->policy.memory.hidden)
        return there;
    if (t->d.segment && !fold_rl__cut(t, t->d.segment))
        return -1;
    for (int piece = 0; piece < t->pieces; piece++)
        if (t->present[t->first[piece]])
            t->order[units++] = piece;
    return units;
}

/* Copies a row of the rollout to row i of the minibatch. */
static void fold_rl__gather(fold_rl_trainer *t, int i, int row)
{
    const size_t from = (size_t)row, to = (size_t)i, heads = (size_t)t->d.heads,
                 n = (size_t)t->d.observations, total = (size_t)t->total;
    if (t->d.bytes)
        fold_rl__spread(t, t->seen_bytes + from * n, n, t->part_seen + to * (size_t)t->features);
    else
        memcpy(t->part_seen + to * n, t->seen + from * n, n * sizeof(float));
    for (size_t k = 0; t->d.masks && k < total; k++)
        t->part_mask[to * total + k] = t->mask[from * total + k] ? 0 : -(float)HUGE_VAL;
    for (size_t k = 0; k < heads; k++)
        t->part_action[k * (size_t)t->part_rows + to] = t->action[from * heads + k];
    memcpy(t->part_number + to * heads, t->number + from * heads, heads * sizeof(float));
    if (t->d.max_items) {
        const size_t width = (size_t)t->d.item_values, count = (size_t)t->count[row];
        t->part_count[i] = t->count[row];
        memcpy(t->part_item + (size_t)t->part_items * width, t->items + from * (size_t)t->d.max_items * width,
               count * width * sizeof(float));
        t->part_items += t->count[row];
    }
    t->part_old[i] = t->log_prob[row];
    t->part_advantage[i] = t->advantage[row];
    t->part_target[i] = t->target[row];
}

/* Records the loss of n gathered rows, from `first` on. actor and critic are lists of n rows. */
static fold_node fold_rl__loss(fold_rl_trainer *t, fold_node actor, fold_node critic, int first, int n)
{
    fold_ctx *f = t->learning;
    const fold_rl_ppo ppo = { t->d.clip, t->d.value_share, t->d.entropy_share };
    const fold_rl_steps steps = { t->part_old + first, t->part_advantage + first, t->part_target + first, n };
    fold_node log_prob = FOLD_NULL_NODE, entropy = FOLD_NULL_NODE;
    if (t->d.masks) {
        const float *mask = t->part_mask + (size_t)first * (size_t)t->total;
        const fold_node ruled_out = fold_list_input_ref(f, mask, n, fold_shape1(t->total));
        actor = fold_add(f, actor, ruled_out);
    }
    if (!t->d.choices) {
        const fold_node s = fold_use(f, t->deviation);
        const float *numbers = t->part_number + (size_t)first * (size_t)t->d.heads;
        const fold_node x = fold_list_input_ref(f, numbers, n, fold_shape1(t->d.heads));
        log_prob = fold_gaussian_log_prob(f, x, actor, s);
        entropy = fold_gaussian_entropy(f, s);
    }
    for (int head = 0, at = 0; t->d.choices && head < t->d.heads; at += t->d.choices[head++]) {
        const int *index = t->part_action + (size_t)head * (size_t)t->part_rows + first;
        const fold_node logits = t->d.heads > 1 ? fold_slice(f, actor, 0, at, t->d.choices[head]) : actor;
        const fold_node all = fold_log_softmax(f, logits);
        const fold_node chosen = fold_pick_each(f, all, index, n), spread = fold_softmax_entropy(f, logits);
        log_prob = head ? fold_add(f, log_prob, chosen) : chosen;
        entropy = head ? fold_add(f, entropy, spread) : spread;
    }
    fold_output_ref(f, log_prob, t->part_log_prob + first);
    fold_output_ref(f, entropy, t->part_entropy + first);
    fold_output_ref(f, critic, t->part_value + first);
    return fold_rl_ppo_loss(f, &ppo, &steps, log_prob, entropy, critic);
}

/* Records the loss of a piece, step by step, and gathers its rows from `first` on. */
static fold_node fold_rl__piece_loss(fold_rl_trainer *t, int piece, int first)
{
    fold_ctx *f = t->learning;
    const int n = t->length[piece], row = t->first[piece], hidden = t->policy.memory.hidden;
    fold_state state = fold_recurrent_zeros(f, &t->policy.memory);
    const float *h = fold_rl__state_before(t, t->first_h, row),
                *c = fold_rl__state_before(t, t->first_c, row);
    if (h) { /* the piece may continue an episode */
        state.h = fold_input_ref(f, h, fold_shape1(hidden));
        if (t->policy.memory.has_c)
            state.c = fold_input_ref(f, c, fold_shape1(hidden));
    }
    for (int i = 0; i < n; i++) {
        fold_rl__gather(t, first + i, row + i);
        const float *seen = t->part_seen + (size_t)(first + i) * (size_t)t->features;
        const fold_node x = fold_input_ref(f, seen, fold_shape1(t->features));
        const fold_rl_step step = fold_rl_policy_apply(f, &t->policy, x, state);
        t->actor[i] = step.actor;
        t->critic[i] = step.critic;
        state = step.state;
    }
    const fold_node actor = fold_list_join(f, t->actor, n), critic = fold_list_join(f, t->critic, n);
    return fold_rl__loss(t, actor, critic, first, n);
}

/* Return the first row of a unit of t->order, and its number of steps (1 for a single row). */
static int fold_rl__row_of(const fold_rl_trainer *t, int unit) { return t->d.hidden ? t->first[unit] : unit; }
static int fold_rl__steps_of(const fold_rl_trainer *t, int unit) { return t->d.hidden ? t->length[unit] : 1; }

/* Returns the states before the first steps of n units, as a list whose rows are written to `to`. */
static fold_node fold_rl__states_before(fold_rl_trainer *t, const int *unit, int n, const float *states,
                                        float *to)
{
    const size_t hidden = (size_t)t->d.hidden;
    for (int i = 0; i < n; i++) {
        const float *before = fold_rl__state_before(t, states, fold_rl__row_of(t, unit[i]));
        if (before)
            memcpy(to + (size_t)i * hidden, before, hidden * sizeof(float));
        else
            memset(to + (size_t)i * hidden, 0, hidden * sizeof(float));
    }
    return fold_list_input_ref(t->learning, to, n, fold_shape1(t->d.hidden));
}

/* Records the loss of n units with the body, from t->order[at] on. Gathers their rows, from *rows on, and
   adds their number to *rows. The next steps of all unfinished units form one list. The longest units come
   first, so that the unfinished ones are always the first rows. */
static fold_node fold_rl__chunk_loss(fold_rl_trainer *t, int at, int slot, int n, int *rows)
{
    fold_ctx *f = t->learning;
    const int first = *rows;
    const size_t state_at = (size_t)slot * (size_t)t->d.hidden;
    fold_state state = { { 0, 0 }, { 0, 0 } };
    int unit[FOLD_RL__CHUNK], steps = 0;
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && fold_rl__steps_of(t, unit[k - 1]) < fold_rl__steps_of(t, t->order[at + i]); k--)
            unit[k] = unit[k - 1];
        unit[k] = t->order[at + i];
    }
    if (t->d.hidden)
        state.h = fold_rl__states_before(t, unit, n, t->first_h, t->part_h + state_at);
    if (t->d.has_c)
        state.c = fold_rl__states_before(t, unit, n, t->first_c, t->part_c + state_at);
    for (int going = n;; steps++) {
        const int before = going, row = *rows, items = t->part_items;
        while (going && fold_rl__steps_of(t, unit[going - 1]) == steps)
            going--;
        if (!going)
            break;
        if (t->d.hidden && going < before)
            state.h = fold_list_take(f, state.h, t->from, going);
        if (t->d.has_c && going < before)
            state.c = fold_list_take(f, state.c, t->from, going);
        for (int i = 0; i < going; i++)
            fold_rl__gather(t, (*rows)++, fold_rl__row_of(t, unit[i]) + steps);
        fold_rl_input in = fold_rl__input(t, f, t->part_seen + (size_t)row * (size_t)t->features, going,
                                          t->part_item + (size_t)items * (size_t)t->d.item_values,
                                          t->part_count + (t->d.max_items ? row : 0));
        in.state = state;
        const fold_rl_step step = fold_rl__apply(t, f, &in);
        t->actor[steps] = step.actor;
        t->critic[steps] = step.critic;
        state = step.state;
    }
    const fold_node actor = fold_list_join(f, t->actor, steps), critic = fold_list_join(f, t->critic, steps);
    return fold_rl__loss(t, actor, critic, first, *rows - first);
}

/* Records the loss of a minibatch, the units [from, to) of t->order. Returns its number of rows. */
static int fold_rl__minibatch(fold_rl_trainer *t, int from, int to, fold_node *loss)
{
    fold_ctx *f = t->learning;
    const fold_state none = { { 0, 0 }, { 0, 0 } };
    int n = 0;
    t->part_items = 0;
    if (t->d.body) {
        int chunks = 0;
        for (int i = from; i < to; i += FOLD_RL__CHUNK) {
            const int units = to - i < FOLD_RL__CHUNK ? to - i : FOLD_RL__CHUNK;
            t->node[chunks++] = fold_rl__chunk_loss(t, i, i - from, units, &n);
        }
        *loss = fold_sum_n(f, t->node, chunks);
        return n;
    }
    if (t->policy.memory.hidden) {
        for (int i = from; i < to; n += t->length[t->order[i++]])
            t->node[i - from] = fold_rl__piece_loss(t, t->order[i], n);
        *loss = fold_sum_n(f, t->node, to - from);
        return n;
    }
    for (int i = from; i < to; i++)
        fold_rl__gather(t, n++, t->order[i]);
    const fold_node x = fold_list_input_ref(f, t->part_seen, n, fold_shape1(t->features));
    const fold_rl_step step = fold_rl_policy_apply(f, &t->policy, x, none);
    *loss = fold_rl__loss(t, step.actor, step.critic, 0, n);
    return n;
}

/* Adds a minibatch of n rows to the sums in the report. */
static void fold_rl__tell(const fold_rl_trainer *t, int n, fold_rl_report *report)
{
    const double clip = (double)t->d.clip;
    for (int i = 0; i < n; i++) {
        const double moved = (double)t->part_log_prob[i] - (double)t->part_old[i], ratio = exp(moved);
        const double a = (double)t->part_advantage[i];
        const double limited = ratio > 1 + clip ? 1 + clip : ratio < 1 - clip ? 1 - clip : ratio;
        const double error = (double)t->part_value[i] - (double)t->part_target[i];
        report->approx_kl += ratio - 1 - moved;
        report->clip_fraction += ratio != limited;
        report->entropy += (double)t->part_entropy[t->d.choices ? i : 0];
        report->policy_loss -= ratio * a < limited * a ? ratio * a : limited * a;
        report->value_loss += error * error;
    }
}

/* Takes an optimiser step with a minibatch. Returns its number of rows, or -1 with an error on the model. */
static int fold_rl__learn_part(fold_rl_trainer *t, int from, int to, fold_rl_report *report)
{
    fold_ctx *f = t->learning;
    fold_adam adam = fold_adam_default();
    fold_node loss = FOLD_NULL_NODE;
    fold_ctx_reset(f);
    const int n = fold_rl__minibatch(t, from, to, &loss);
    if (fold_backward(f, fold_scale(f, loss, 1 / (float)n)))
        return fold_rl__fail(t->m, NULL, fold_ctx_status(f), "fold_rl_trainer_learn: %s",
                             fold_ctx_message(f)),
               -1;
    const float norm = (float)fold_grads_clip(t->m, t->d.max_norm);
    if (!fold_finite(&norm, 1)) {
        fold_grads_clear(t->m);
        return fold_rl__fail(t->m, NULL, FOLD_BAD_STATE,
                             "fold_rl_trainer_learn: the norm of the gradients is %g in update %d",
                             (double)norm, report->updates),
               -1;
    }
    if (report->norm < (double)norm)
        report->norm = (double)norm;
    fold_rl__tell(t, n, report);
    adam.rate = (float)report->rate;
    return fold_adam_step(t->m, &adam) ? -1 : n;
}

/* Makes the passes over all units, one minibatch at a time. */
static int fold_rl__learn(fold_rl_trainer *t, int units, fold_rl_report *report)
{
    const int parts = t->d.minibatches < units ? t->d.minibatches : units;
    double *const sums[5] = { &report->approx_kl, &report->clip_fraction, &report->entropy,
                              &report->policy_loss, &report->value_loss };
    while (report->epochs < t->d.epochs && parts > 0) {
        fold_random_shuffle(&t->shuffle, units, t->order);
        for (int i = 0; i < 5; i++)
            *sums[i] = 0;
        for (int part = 0; part < parts; part++) {
            const int from = (int)((int64_t)units * part / parts);
            const int to = (int)((int64_t)units * (part + 1) / parts);
            if (fold_rl__learn_part(t, from, to, report) < 0)
                return 0;
        }
        for (int i = 0; i < 5; i++)
            *sums[i] /= report->steps;
        report->epochs++;
        if (t->d.target_kl > 0 && report->approx_kl > (double)t->d.target_kl)
            break;
    }
    return 1;
}

/* Writes the state that a checkpoint needs to buffers of the model. */
static fold_status fold_rl__keep(fold_rl_trainer *t, int updates)
{
    const size_t bytes = (size_t)t->d.agents * (size_t)t->policy.memory.hidden * sizeof(float);
    const struct {
        fold_param p;
        const float *values;
    } states[2] = { { t->kept_h, t->last_h }, { t->kept_c, t->last_c } };
    float *count = fold_values_write_begin(t->m, t->updates);
    if (count)
        fold_rl__set_count(count, updates);
    fold_values_write_end(t->m, t->updates);
    for (int i = 0; i < (bytes > 0) + (t->policy.memory.has_c != 0); i++) {
        float *to = fold_values_write_begin(t->m, states[i].p);
        if (to)
            memcpy(to, states[i].values, bytes);
        fold_values_write_end(t->m, states[i].p);
    }
    return fold_model_status(t->m);
}

FOLD_API fold_status fold_rl_trainer_learn(fold_rl_trainer *t, const fold_rl_seen *seen,
                                           fold_rl_report *report)
{
    fold_rl_report made;
    memset(&made, 0, sizeof made);
    if (!fold_rl__in_turn(t, "fold_rl_trainer_learn", 2, seen))
        return fold_rl__status(t);
    const int before = fold_rl_trainer_updates(t);
    if (!fold_rl__values(t, seen)) /* the values after the rollout */
        return fold_rl__status(t);
    made.updates = before + 1;
    made.rate = (double)(t->d.rate * fold_rate_factor(&t->d.rates, (uint64_t)before));
    const int units = fold_rl__prepare(t, &made);
    if (units < 0 || !fold_rl__learn(t, units, &made))
        return fold_rl__status(t);
    t->step = 0;
    if (report)
        *report = made;
    return fold_rl__keep(t, before + 1);
}
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* FOLD_RL_IMPLEMENTATION */
