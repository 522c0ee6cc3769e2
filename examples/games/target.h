/* target.h - 8 agents look for 4 stars that jump away when one is reached: the score is stars in 1000 steps of an agent. */
#include "target/target.h"
typedef Target Env;
typedef float environment_value;
enum { environment_agents = 8, environment_observations = 28, environment_one_hot = 0, environment_heads = 2 };
static const int environment_choices[] = { 9, 5 };
#define GAME_SCORE(e) (e)->env.log.n
#define GAME_EPISODES(e) ((e)->steps % (1000 / environment_agents) == 0)
static void game_init(Env *e)
{
    e->width = 1080, e->height = 720, e->num_agents = 8, e->num_goals = 4;
    init(e);
}
static void environment_settings(settings *s) { s->goal = 5; s->updates = 800; s->environments = 16; s->width = 128; s->rate = 0.002; }
#include "puffer.h"
