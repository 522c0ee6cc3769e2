/* rl.h for programs that are linked to the bench, which has none, for cc -I. */
#include "fold.h"
#define RL_IMPLEMENTATION
#include "examples/rl.h"
