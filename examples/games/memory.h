/* memory.h - what was shown in the first step, -1 or 1, is asked after 8 steps: the score is the share of right answers. */
#include "memory/memory.h"
typedef Memory Env;
typedef float environment_value;
enum { environment_agents = 1, environment_observations = 1, environment_one_hot = 0, environment_heads = 1 };
static const int environment_choices[] = { 2 };
static void game_init(Env *e)
{
    e->length = 8;
}
static void environment_settings(settings *s) { s->goal = 0.999; s->updates = 200; s->memory = 1; s->rate = 0.003; }
#include "puffer.h"
