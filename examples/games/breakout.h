/* breakout.h - Breakout with 6 rows of 18 bricks and five balls: the score is that of the bricks hit, at most 864. */
#include "breakout/breakout.h"
typedef Breakout Env;
typedef float environment_value;
enum { environment_agents = 1, environment_observations = 118, environment_one_hot = 0, environment_heads = 1 };
static const int environment_choices[] = { 3 };
static void game_init(Env *e)
{
    e->frameskip = 4, e->width = 576, e->height = 330, e->paddle_width = 62, e->paddle_height = 8;
    e->ball_width = e->ball_height = 32, e->brick_width = 32, e->brick_height = 12, e->brick_rows = 6, e->brick_cols = 18;
    init(e);
}
static void environment_settings(settings *s) { s->goal = 100; s->updates = 1000; s->width = 128; s->rate = 0.002; }
#include "puffer.h"
