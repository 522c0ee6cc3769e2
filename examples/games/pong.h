/* pong.h - Pong against a paddle that follows the ball, to 21: the score is points won less points lost. */
#include "pong/pong.h"
typedef Pong Env;
typedef float environment_value;
enum { environment_agents = 1, environment_observations = 8, environment_one_hot = 0, environment_heads = 1 };
static const int environment_choices[] = { 3 };
static void game_init(Env *e)
{
    e->width = 500, e->height = 640, e->paddle_width = 20, e->paddle_height = 70, e->ball_width = e->ball_height = 32;
    e->paddle_speed = 8, e->ball_initial_speed_x = 10, e->ball_initial_speed_y = 1, e->ball_max_speed_y = 13;
    e->ball_speed_y_increment = 3, e->max_score = 21, e->frameskip = 8;
    init(e);
}
static void environment_settings(settings *s) { s->goal = 15; s->updates = 400; s->rate = 0.003; }
#include "puffer.h"
