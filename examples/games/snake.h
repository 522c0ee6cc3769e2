/* snake.h - 16 snakes in a field of 64 by 64 with 72 pieces of food: the score is the length of a snake when it dies. */
#include "snake/snake.h"
typedef CSnake Env;
typedef unsigned char environment_value;
enum { environment_agents = 16, environment_observations = 121, environment_one_hot = 8, environment_heads = 1 };
static const int environment_choices[] = { 4 };
static void game_init(Env *e)
{
    e->width = e->height = 64, e->num_snakes = 16, e->vision = 5, e->leave_corpse_on_death = 1, e->food = 72;
    e->reward_food = e->reward_corpse = 0.1f, e->reward_death = -1, e->max_snake_length = 1024;
    init_csnake(e);
}
static void environment_settings(settings *s) { s->goal = 30; s->updates = 400; s->environments = 8; s->width = 128; s->rate = 0.002; }
#include "puffer.h"
