/* options.h - reads the command line of the examples, and reports their progress.

   A program makes a table of its options, with defaults and bounds, and options_read sets those on the
   command line:

       int steps = 600;
       const char *svg = NULL;
       const option table[2] = { option_of_whole("--steps", &steps, 0, 1000000, "of training"),
                                 option_of_text("--svg", &svg, "FILE", "writes the end as a picture") };
       options_read(argc, argv, "Agents learn to fly.", table, OPTION_COUNT(table));

   The array has an explicit size because tcc requires one. -h and --help list the options. A wrong option or
   number ends the program with a message that names it. options_read also makes stdout write each line as
   soon as it is complete, even to a pipe. bench and tests read numbers with option_number and option_whole.

   A loop that runs for seconds calls time_left_show in each iteration, and time_left_end before the program
   prints anything else:

       time_left left = TIME_LEFT;
       for (int step = 0; step < steps; step++) {
           ...
           time_left_show(&left, step + 1, steps, "step %d of %d, loss %.3f", step + 1, steps, loss);
       }
       time_left_end(&left); */

#ifndef OPTIONS_H
#define OPTIONS_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define options_isatty _isatty
#else
#include <unistd.h>
#define options_isatty isatty
#endif

/* Continues a hash (FNV-1a) over more bytes; begin with RESULT_HASH. Programs print the hash in their RESULT
   line, so that the results of two runs can be compared bit for bit. */
#define RESULT_HASH 0xcbf29ce484222325u
static inline uint64_t result_hash(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return hash;
}

/* Returns the number that follows argv[i], which must be in [low, high]. */
static inline double option_number(int argc, char **argv, int i, double low, double high)
{
    const char *text = i + 1 < argc ? argv[i + 1] : "";
    char *end;
    const double x = strtod(text, &end);
    if (end != text && !*end && x >= low && x <= high) return x;
    fprintf(stderr, "%s: %s needs a number from %g to %g, not '%s'\n", argv[0], argv[i], low, high, text);
    exit(1);
}

/* The same for a whole number. */
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

#define OPTION_COUNT(table) ((int)(sizeof table / sizeof *table))

/* Exactly one pointer is set, to the variable of the option. Its initial value is the default. */
typedef struct option {
    const char *name, *value, *about;
    int *whole, *flag;
    uint64_t *seed;
    double *number;
    const char **text;
    double low, high;
    int *count; /* option_of_texts: number of texts so far */
} option;

static inline option option_new(const char *name, const char *value, const char *about, double low, double high)
{
    const option o = { name, value, about, NULL, NULL, NULL, NULL, NULL, low, high, NULL };
    return o;
}
static inline option option_of_whole(const char *name, int *to, int low, int high, const char *about)
{
    option o = option_new(name, "N", about, low, high);
    o.whole = to;
    return o;
}
static inline option option_of_number(const char *name, double *to, double low, double high, const char *about)
{
    option o = option_new(name, "X", about, low, high);
    o.number = to;
    return o;
}
static inline option option_of_seed(const char *name, uint64_t *to, const char *about)
{
    option o = option_new(name, "N", about, 0, 9e15);
    o.seed = to;
    return o;
}
/* `value` describes the text, such as "FILE". If the name has no dash, the text is a word that belongs to no
   option. */
static inline option option_of_text(const char *name, const char **to, const char *value, const char *about)
{
    option o = option_new(name, value, about, 0, 0);
    o.text = to;
    return o;
}
/* The same for an option that may be given up to `most` times. Each time adds a text to the array `to`. */
static inline option option_of_texts(const char *name, const char **to, int *count, int most, const char *value, const char *about)
{
    option o = option_new(name, value, about, 0, most);
    o.text = to;
    o.count = count;
    return o;
}
static inline option option_of_flag(const char *name, int *to, const char *about) /* 1 if it is given */
{
    option o = option_new(name, "", about, 0, 0);
    o.flag = to;
    return o;
}

static inline void options_print(const char *program, const char *about, const option *table, int n)
{
    printf("usage: %s [options]\n%s\n", program, about);
    for (int i = 0; i < n; i++) {
        const option *o = &table[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, *o->value ? " " : "", o->value);
        printf("  %-16s %s", left, o->about);
        if (o->whole) printf(" (%.0f to %.0f", o->low, o->high);
        if (o->whole && *o->whole >= o->low) printf("; default %d", *o->whole); /* below low: it means "all" */
        if (o->number) printf(" (%g to %g; default %g", o->low, o->high, *o->number);
        if (o->seed) printf(" (0 to %.0f; default %llu", o->high, (unsigned long long)*o->seed);
        if (o->text && *o->text) printf(" (default %s", *o->text);
        puts(o->whole || o->number || o->seed || (o->text && *o->text) ? ")" : "");
    }
    puts("  -h               prints this");
}

/* Sets the variable of an option from argv[i] and the next word. Returns the number of words used. */
static inline int option_read(int argc, char **argv, int i, const option *o)
{
    if (o->flag) return *o->flag = 1;
    if (o->whole) *o->whole = (int)option_whole(argc, argv, i, (long long)o->low, (long long)o->high);
    if (o->seed) *o->seed = (uint64_t)option_whole(argc, argv, i, 0, (long long)o->high);
    if (o->number) *o->number = option_number(argc, argv, i, o->low, o->high);
    if (o->text && o->name[0] != '-') return *o->text = argv[i], 1;
    if (o->text && i + 1 == argc) {
        fprintf(stderr, "%s: %s needs a %s\n", argv[0], argv[i], o->value);
        exit(1);
    }
    if (o->count && *o->count >= (int)o->high) {
        fprintf(stderr, "%s: %s may be given %d times\n", argv[0], argv[i], *o->count);
        exit(1);
    }
    if (o->text) o->text[o->count ? (*o->count)++ : 0] = argv[i + 1];
    return 2;
}

/* `about` describes the program in one or more sentences. */
static inline void options_read(int argc, char **argv, const char *about, const option *table, int n)
{
#ifdef _WIN32
    setvbuf(stdout, NULL, _IONBF, 0); /* Windows has no line buffering */
#else
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
#endif
    for (int i = 1; i < argc;) {
        int k = 0;
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
            options_print(argv[0], about, table, n);
            exit(0);
        }
        while (k < n && (table[k].name[0] == '-' ? strcmp(table[k].name, argv[i]) : argv[i][0] == '-')) k++;
        if (k == n) {
            fprintf(stderr, "%s: there is no option %s; -h lists those there are\n", argv[0], argv[i]);
            exit(1);
        }
        i += option_read(argc, argv, i, &table[k]);
    }
}

/* Reports on stderr how far a loop is, and how much time is left. On a terminal, the report is a line that is
   overwritten once a second; otherwise it is a new line every five seconds. Nothing is written to stdout, whose
   contents are therefore the same in every run. */
typedef struct time_left {
    time_t start, shown; /* times of the start and of the last report; 0: not started */
    int line;            /* 1: the terminal shows it */
} time_left;
#define TIME_LEFT { 0, 0, 0 }

/* `done` and `all` may have any unit. The other arguments are those of printf. */
static inline void time_left_show(time_left *t, double done, double all, const char *format, ...)
{
    const time_t now = time(NULL);
    const int terminal = options_isatty(2);
    const double left = t->start && done > 0 ? difftime(now, t->start) * (all - done) / done : 0;
    va_list args;
    if (!t->start) t->start = t->shown = now;
    if (difftime(now, t->shown) < (terminal ? 1 : 5)) return;
    t->shown = now;
    t->line = terminal;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (left >= 100) fprintf(stderr, ", %.0f min left", left / 60);
    else fprintf(stderr, ", %.0f s left", left);
    fputs(terminal ? "\033[K\r" : "\n", stderr);
}
static inline void time_left_end(time_left *t) /* clears the line of the report */
{
    if (t->line) fputs("\033[K", stderr);
    t->line = 0;
}

#endif
