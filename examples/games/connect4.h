/* connect4.h - Connect Four against an opponent that looks four moves ahead: the score is 1 for a win, -1 for a loss. */
#include "connect4/connect4.h"
typedef CConnect4 Env;
typedef float environment_value;
enum { environment_agents = 1, environment_observations = 42, environment_one_hot = 0, environment_heads = 1 };
static const int environment_choices[] = { 7 };
static void game_init(Env *e)
{
    init(e);
}
static void environment_settings(settings *s) { s->goal = 0.5; s->updates = 800; s->width = 128; s->rate = 0.002; }
#include "puffer.h"
