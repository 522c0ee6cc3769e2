/* grid.h - mazes of 5 to 11 squares, seen five squares far: the score is the share of mazes whose goal is found in time. */
#include "grid/grid.h"
typedef Grid Env;
typedef unsigned char environment_value;
enum { environment_agents = 1, environment_observations = 121, environment_one_hot = 8, environment_heads = 1 };
static const int environment_choices[] = { 5 };
/* Its own c_close also frees the game itself. */
#define GAME_CLOSE(e) free((e)->env.grid), free((e)->env.counts), free((e)->env.agents)
static void game_init(Env *e)
{
    enum { MAZES = 1024, SIDE = 11 };
    static State mazes[MAZES];
    e->max_size = SIDE, e->num_maps = MAZES, e->levels = mazes;
    init_grid(e);
    for (int i = 0; i < MAZES && !mazes[MAZES - 1].grid; i++) {
        const int side = 5 + 2 * (i % 4);
        create_maze_level(e, side, side, (float)(i % 7) / 6, i);
        init_state(&mazes[i], SIDE, 1);
        get_state(e, &mazes[i]);
    }
}
static void environment_settings(settings *s) { s->goal = 0.9; s->updates = 400; s->memory = 1; s->width = 128; s->rate = 0.002; }
#include "puffer.h"
