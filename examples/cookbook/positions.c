/* positions: adds a fixed table of sines and cosines to the words of a sentence
     cc -O2 -o positions examples/cookbook/positions.c -lm && ./positions */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <math.h>
#include <stdio.h>

enum { LONGEST = 512, WIDTH = 32, WORDS = 50 };

/* Adds a table of sines and cosines, with periods of 6 to 60,000 rows (Vaswani et al. 2017). */
static fold_param new_places(fold_model *m)
{
    static float values[LONGEST][WIDTH];
    fold_param_desc desc = fold_param_desc_default();
    for (int row = 0; row < LONGEST; row++)
        for (int i = 0; i < WIDTH; i += 2) {
            const double angle = row * pow(10000, -(double)i / WIDTH);
            values[row][i] = (float)sin(angle);
            values[row][i + 1] = (float)cos(angle);
        }
    desc.name = "places";
    desc.shape = fold_shape2(LONGEST, WIDTH);
    desc.values = values[0];
    desc.uses = FOLD_FOR_LOOKUP;
    desc.buffer = 1; /* never trained */
    return fold_param_new(m, &desc);
}

int main(void)
{
    static const int sentence[] = { 3, 1, 4, 1, 5 };
    fold_model *m = fold_model_new(NULL);
    fold_param words = fold_table_new(m, "words", WORDS, WIDTH), places = new_places(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node near = fold_list_positions(f, places, 0, 5), far = fold_list_positions(f, places, 400, 5);
    fold_node x[3];
    /* [add] */
    fold_node said = fold_list_lookup(f, words, sentence, 5);
    x[0] = fold_list_mean(f, fold_add(f, said, near)); /* the sum is what a layer reads */
    /* [end] */
    fold_node first = fold_list_at(f, near, 0), first_far = fold_list_at(f, far, 0);
    x[1] = fold_dot(f, first, fold_list_at(f, near, 3));
    x[2] = fold_dot(f, first_far, fold_list_at(f, far, 3));
    if (fold_run(f, x, 3)) return puts(fold_ctx_message(f)), 1;
    printf("three rows apart: %.4f at the front, %.4f from row 400 on\n", (double)fold_scalar(f, x[1]),
           (double)fold_scalar(f, x[2]));
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
