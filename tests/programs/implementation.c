/* The implementation and nothing else, for cc -I. */
#define FOLD_IMPLEMENTATION
#include "fold.h"
