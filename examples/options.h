/* options.h - numbers of a command line, for the examples, bench and tests: the one behind option argv[i]. What is no
   such number, and all of one, ends the program with a message that names the option. */

#ifndef OPTIONS_H
#define OPTIONS_H

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* From low to high. */
static inline double option_number(int argc, char **argv, int i, double low, double high)
{
    const char *text = i + 1 < argc ? argv[i + 1] : "";
    char *end;
    const double x = strtod(text, &end);
    if (end != text && !*end && x >= low && x <= high) return x;
    fprintf(stderr, "%s: %s needs a number from %g to %g, not '%s'\n", argv[0], argv[i], low, high, text);
    exit(1);
}

/* The same of a whole number. */
static inline long long option_whole(int argc, char **argv, int i, long long low, long long high)
{
    const char *text = i + 1 < argc ? argv[i + 1] : "";
    char *end;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && x >= low && x <= high) return x;
    fprintf(stderr, "%s: %s needs a whole number from %lld to %lld, not '%s'\n", argv[0], argv[i], low, high, text);
    exit(1);
}

#endif
