/* The smallest program that has the implementation, for cc -I. */
#define FOLD_IMPLEMENTATION
#include "fold.h"
int main(void) { return fold_shape1(2).dim[0] - 2; }
