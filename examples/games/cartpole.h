/* cartpole.h - a pole on a cart is to stand for 200 steps: the score is for how many it does. */
#include "cartpole/cartpole.h"
typedef Cartpole Env;
typedef float environment_value;
enum { environment_agents = 1, environment_observations = 4, environment_one_hot = 0, environment_heads = 1 };
static const int environment_choices[] = { 2 };
static void game_init(Env *e)
{
    init(e);
}
static void environment_settings(settings *s) { s->goal = 190; s->updates = 100; s->layers = 1; s->rate = 0.003; }
#include "puffer.h"
