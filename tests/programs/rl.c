/* fold_rl.h for programs that are linked to the bench, which has none, for cc -I. */
#include "fold.h"
#define FOLD_RL_IMPLEMENTATION
#include "examples/fold_rl.h"
