/* ants: the meadow and the brain, shared by the programs of the tutorial. Include it after fold.h. */
#ifndef ANTS_H
#define ANTS_H
#include <stdlib.h>

enum { ANTS = 20, CRUMBS = 40, SIZE = 24, SIGHT = 3, MOST = 8, HIDDEN = 32, EAST = 0, WEST, NORTH, SOUTH, WAYS };
static const char *const way_name[WAYS] = { "east", "west", "north", "south" };

/* [brain] */
typedef struct { fold_recurrent memory; fold_dense choose; } brain;

static inline brain brain_new(fold_model *m)
{
    brain b;
    b.memory = fold_gru_new(m, "memory", 2, HIDDEN);
    b.choose = fold_dense_new(m, "choose", HIDDEN, WAYS, FOLD_ACT_LINEAR);
    return b;
}

/* One ant: looks at n crumbs, one after the other, then returns a score for each way to go. */
static inline fold_node think(fold_ctx *f, const brain *b, float crumb[][2], int n)
{
    fold_state memory = fold_recurrent_zeros(f, &b->memory);
    for (int i = 0; i < n; i++) memory = fold_recurrent_apply(f, &b->memory, fold_input(f, crumb[i], 2), memory);
    return fold_dense_apply(f, &b->choose, memory.h);
}
/* [end] */

typedef struct { int x, y; } place;
typedef struct { place ant[ANTS], crumb[CRUMBS]; fold_random chance; int eaten; } meadow;

static inline place somewhere(fold_random *chance)
{
    place p;
    p.x = fold_random_below(chance, SIZE);
    p.y = fold_random_below(chance, SIZE);
    return p;
}

static inline meadow meadow_new(int seed)
{
    meadow w;
    w.chance = fold_random_new((uint64_t)seed, 0);
    for (int i = 0; i < ANTS; i++) w.ant[i] = somewhere(&w.chance);
    for (int i = 0; i < CRUMBS; i++) w.crumb[i] = somewhere(&w.chance);
    w.eaten = 0;
    return w;
}

static inline int across(int from, int to) /* the meadow has no edge: what leaves it in the east comes back in the west */
{
    return (to - from + SIZE + SIZE / 2) % SIZE - SIZE / 2;
}

/* [look] */
/* Writes where an ant sees crumbs, as steps to the east and to the north, and returns how many they are: 0 to MOST. */
static inline int look(const meadow *w, int ant, float crumb[MOST][2])
{
    int n = 0;
    for (int i = 0; i < CRUMBS && n < MOST; i++) {
        int x = across(w->ant[ant].x, w->crumb[i].x), y = across(w->ant[ant].y, w->crumb[i].y);
        if (abs(x) > SIGHT || abs(y) > SIGHT || (!x && !y)) continue;
        crumb[n][0] = (float)x;
        crumb[n++][1] = (float)y;
    }
    return n;
}
/* [end] */

/* [teacher] */
/* The way to the nearest crumb; east if the ant sees none. */
static inline int best_way(float crumb[][2], int n)
{
    float nearest = 2 * SIGHT + 1;
    int way = EAST;
    for (int i = 0; i < n; i++) {
        float x = crumb[i][0], y = crumb[i][1], wide = x < 0 ? -x : x, high = y < 0 ? -y : y;
        if (wide + high >= nearest) continue;
        nearest = wide + high;
        way = wide >= high ? (x > 0 ? EAST : WEST) : y > 0 ? NORTH : SOUTH;
    }
    return way;
}
/* [end] */

static inline void walk(meadow *w, int ant, int way) /* one step; a crumb there is eaten, and another falls somewhere */
{
    place *at = &w->ant[ant];
    at->x = (at->x + (way == EAST) + SIZE - (way == WEST)) % SIZE;
    at->y = (at->y + (way == NORTH) + SIZE - (way == SOUTH)) % SIZE;
    for (int i = 0; i < CRUMBS; i++)
        if (w->crumb[i].x == at->x && w->crumb[i].y == at->y) {
            w->crumb[i] = somewhere(&w->chance);
            w->eaten++;
        }
}

#endif
