/* puffer.h - makes an environment of train.c from a game of PufferLib 3.0. Before it stand the game's header, `Env`, an enum
   with environment_agents, environment_observations, environment_one_hot and environment_heads, environment_choices,
   game_init, which sets the game up, and environment_settings. The game draws by rand, which train.c seeds. */
#ifndef PUFFER_H
#define PUFFER_H

#ifndef GAME_SCORE /* the sum of scores that the game logged, and of how many episodes: its log begins again each time */
#define GAME_SCORE(e) (e)->env.log.score
#define GAME_EPISODES(e) (e)->env.log.n
#endif

/* An action is whole or a float, and what agents see floats or bytes: each game has its own types. */
typedef struct environment {
    Env env;
    __typeof__(*((Env *)0)->observations) observations[environment_agents * environment_observations];
    __typeof__(*((Env *)0)->actions) actions[environment_agents * environment_heads];
    float rewards[environment_agents];
    int steps;
    __typeof__(*((Env *)0)->terminals) terminals[environment_agents]; /* some games read their own of the step before */
} environment;

static void environment_see(const environment *e, environment_value *seen)
{
    for (int i = 0; i < environment_agents * environment_observations; i++) seen[i] = (environment_value)e->observations[i];
}

static void environment_init(environment *e, uint64_t seed)
{
    (void)seed;
    memset(e, 0, sizeof *e);
    e->env.observations = e->observations;
    e->env.actions = e->actions;
    e->env.rewards = e->rewards;
    e->env.terminals = e->terminals;
    game_init(&e->env);
}

#define ENVIRONMENT_HAS_CLOSE
#ifndef GAME_CLOSE
#define GAME_CLOSE(e) c_close(&(e)->env)
#endif
static void environment_close(environment *e) { GAME_CLOSE(e); }

static void environment_reset(environment *e, environment_value *seen)
{
    c_reset(&e->env);
    environment_see(e, seen);
}

static void environment_step(environment *e, const float *actions, float *rewards, unsigned char *terminals,
                             environment_value *seen)
{
    for (int i = 0; i < environment_agents * environment_heads; i++) e->actions[i] = actions[i];
    c_step(&e->env);
    e->steps++;
    for (int i = 0; i < environment_agents; i++) {
        rewards[i] = e->rewards[i];
        terminals[i] = e->terminals[i] != 0;
    }
    environment_see(e, seen);
}

#define ENVIRONMENT_HAS_SCORE
static double environment_score(environment *e, double *episodes)
{
    const double score = GAME_SCORE(e), n = GAME_EPISODES(e);
    if (n > 0) memset(&e->env.log, 0, sizeof e->env.log);
    *episodes += n;
    return n > 0 ? score : 0;
}

#endif
