/* All headers behind macros of the names of functions, as leak checkers have them, for cc -I. */
#include "tests/leak_macros.h"
#define FOLD_IMPLEMENTATION
#define DATA_IMPLEMENTATION
#include "tests/programs/companions.c"
#include "examples/data.h"
