/* check.h - the harness all tests share: checks that say where and why, named tests, reproducible random
   data. C99 and C++17. A program includes it in one file:

       static void addition(void) { CHECK(1 + 1 == 2); }
       int main(int argc, char **argv)
       {
           check_start(argc, argv);     // arguments: -v lists every test; other words select tests by name
           check_run("addition", addition);
           return check_finish();       // prints "N passed, N failed", and what check_skip counted
       }

   Tests that are rows of a table run between check_begin(name) and check_end() instead. */

#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define CHECK_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CHECK_PRINTF(text, first)
#endif

enum { CHECK_SHOWN = 5 }; /* failures printed per test */

typedef struct check_state {
    char test[160];
    int argc, verbose, failures; /* failures of the running test */
    char **argv;
    long passed, failed, skipped, checks;
} check_state;
static check_state check;

/* -- tests ----------------------------------------------------------------------------------- */

static inline void check_start(int argc, char **argv)
{
    check.argc = argc;
    check.argv = argv;
    for (int i = 1; i < argc; i++) check.verbose |= !strcmp(argv[i], "-v");
}

static inline int check_selected(const char *name)
{
    int words = 0;
    for (int i = 1; i < check.argc; i++) {
        if (!strcmp(check.argv[i], "-v")) continue;
        if (strstr(name, check.argv[i])) return 1;
        words++;
    }
    return !words;
}

/* Starts a test; 0 when it was not selected. */
static inline int check_begin(const char *name)
{
    if (!check_selected(name)) return 0;
    snprintf(check.test, sizeof check.test, "%.*s", (int)sizeof check.test - 1, name);
    check.failures = 0;
    return 1;
}

static inline void check_end(void)
{
    if (check.failures) check.failed++;
    else check.passed++;
    if (check.failures > CHECK_SHOWN)
        printf("%s: %d more failures\n", check.test, check.failures - CHECK_SHOWN);
    if (check.verbose) printf("%s  %s\n", check.failures ? "FAIL" : "ok  ", check.test);
    fflush(stdout);
}

static inline void check_run(const char *name, void (*test)(void))
{
    if (!check_begin(name)) return;
    test();
    check_end();
}

/* Counts what this machine cannot test, and says so: "what (why)", as printf says. */
static inline void check_skip(const char *text, ...) CHECK_PRINTF(1, 2);
static inline void check_skip(const char *text, ...)
{
    va_list args;
    va_start(args, text);
    printf("SKIPPED: ");
    vprintf(text, args);
    printf("\n");
    va_end(args);
    check.skipped++;
}

/* The last line of the program and its exit status: 1 when a test failed or none ran. */
static inline int check_finish(void)
{
    printf("%ld passed, %ld failed", check.passed, check.failed);
    if (check.skipped) printf(", %ld skipped", check.skipped);
    printf("\n");
    return check.failed || !check.passed;
}

/* -- checks: each gives whether it held ------------------------------------------------------ */

static inline int check_that(int holds, const char *file, int line, const char *text, ...) CHECK_PRINTF(4, 5);
static inline int check_that(int holds, const char *file, int line, const char *text, ...)
{
    check.checks++;
    if (holds) return 1;
    if (check.failures++ < CHECK_SHOWN) {
        va_list args;
        va_start(args, text);
        printf("%s:%d: %s: ", file, line, check.test);
        vprintf(text, args);
        printf("\n");
        va_end(args);
    }
    return 0;
}

static inline int check_int(long long got, long long want, const char *file, int line, const char *what)
{
    return check_that(got == want, file, line, "%s is %lld, want %lld", what, got, want);
}

static inline int check_near(double got, double want, double margin, const char *file, int line,
                             const char *what)
{
    const int holds = fabs(got - want) <= margin || got == want; /* NaN never holds */
    return check_that(holds, file, line, "%s is %.9g, want %.9g +- %.3g", what, got, want, margin);
}

static inline int check_text(const char *got, const char *part, const char *file, int line)
{
    const char *text = got ? got : "(null)";
    return check_that(got && strstr(got, part), file, line, "\"%s\" does not contain \"%s\"", text, part);
}

static inline int check_bits(const float *a, const float *b, size_t n, const char *file, int line,
                             const char *what)
{
    size_t i = 0;
    if (!check_that(a && b, file, line, "%s: no values", what)) return 0;
    while (i < n && !memcmp(a + i, b + i, sizeof *a)) i++;
    if (i == n) return check_that(1, file, line, "%s", what);
    return check_that(0, file, line, "%s: value %d of %d is %.9g, want exactly %.9g", what, (int)i, (int)n,
                      (double)a[i], (double)b[i]);
}

#define CHECK(holds) check_that(!!(holds), __FILE__, __LINE__, "%s", #holds)
#define CHECK_SAYS(holds, ...) check_that(!!(holds), __FILE__, __LINE__, __VA_ARGS__) /* as printf says */
#define CHECK_INT(got, want) check_int((long long)(got), (long long)(want), __FILE__, __LINE__, #got)
#define CHECK_NEAR(got, want, margin)                                                                    \
    check_near((double)(got), (double)(want), margin, __FILE__, __LINE__, #got)
#define CHECK_TEXT(text, part) check_text(text, part, __FILE__, __LINE__)
#define CHECK_BITS(got, want, n) check_bits(got, want, (size_t)(n), __FILE__, __LINE__, #got) /* n floats, equal bits */

/* Tells whether a message begins with the name of the call of fold.h that stands in a text. Those of calls of cells and of
   your own ops, and of layers over lists, begin with the names of those. */
static inline int names_call(const char *call, const char *message)
{
    call += *call == '(';
    const size_t n = strcspn(call, "(");
    if (strncmp(call, "fold_", 5) || !strncmp(call, "fold_call", 9) || !strncmp(call, "fold_op_apply", n) || strstr(call, "_list(f, ")) return 1;
    return !strncmp(call + 5, message, n - 5) && message[n - 5] == ':';
}

/* -- random data: splitmix64 (Steele et al. 2014) -------------------------------------------- */

typedef struct check_random { uint64_t state; } check_random;

static inline uint64_t random_bits(check_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline double random_unit(check_random *r)
{
    return (double)(random_bits(r) >> 11) / 9007199254740992.0;
}
static inline float random_float(check_random *r, float low, float high)
{
    return low + (high - low) * (float)random_unit(r);
}
static inline int random_below(check_random *r, int n) { return (int)(random_bits(r) % (uint64_t)n); }
static inline void random_fill(check_random *r, float *x, size_t n, float low, float high)
{
    for (size_t i = 0; i < n; i++) x[i] = random_float(r, low, high);
}

/* -- memory: aligned, and freed by its address alone ------------------------------------------- */

static inline void *aligned_block(size_t size, size_t align)
{
    char *raw = (char *)malloc(size + align + sizeof raw);
    if (!raw) return NULL;
    char *block = raw + sizeof raw;
    block += (align - (uintptr_t)block % align) % align;
    memcpy(block - sizeof raw, &raw, sizeof raw);
    return block;
}
static inline void free_block(void *block)
{
    char *raw;
    memcpy(&raw, (char *)block - sizeof raw, sizeof raw);
    free(raw);
}

#endif /* CHECK_H */
