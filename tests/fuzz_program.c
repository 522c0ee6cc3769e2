/* Programs made of bytes: a session of test_sessions.c, whose choices the bytes change, is executed by eager contexts and
   by others, in blocks of exactly the size that was told, and must show the same bits and no error.

   With libFuzzer:    clang -g -O1 -DLIBFUZZER -fsanitize=fuzzer,address,undefined -o build/fuzz_program tests/fuzz_program.c -lm
                      build/fuzz_program -max_len=1024 -len_control=0 FOLDER
   As a program:      cc -g -O1 -fsanitize=address,undefined -o build/fuzz_program tests/fuzz_program.c -lm
                      build/fuzz_program [--runs N] [--seed N] [--corpus FOLDER] [FILE...]
   which makes up inputs; --corpus writes them to files, to begin with; files are replayed. What fails is printed as a
   program in C and shrunk by test_sessions.c. The first two bytes of an input are the session's seed. */

#define random_bits seeded_bits
#define random_unit seeded_unit
#define random_float seeded_float
#define random_below seeded_below
#include "check.h"
#undef random_bits
#undef random_unit
#undef random_float
#undef random_below

static struct { const uint8_t *data; size_t size; } changes;

/* What the seed says, changed by the byte at a place that the state of the stream names. So streams that are alike choose
   alike, as samples of one structure do, and a byte changes few choices. */
static uint64_t random_bits(check_random *r)
{
    const size_t place = (size_t)(r->state >> 13) % 1024;
    const uint64_t bits = seeded_bits(r);
    return place < changes.size ? bits + changes.data[place] * 0x9e3779b97f4a7c15u : bits;
}
static double random_unit(check_random *r) { return (double)(random_bits(r) >> 11) / 9007199254740992.0; }
static float random_float(check_random *r, float low, float high) { return low + (high - low) * (float)random_unit(r); }
static int random_below(check_random *r, int n) { return (int)(random_bits(r) % (uint64_t)n); }
static void random_fill_changed(check_random *r, float *x, size_t n, float low, float high)
{
    for (size_t i = 0; i < n; i++) x[i] = random_float(r, low, high);
}
#define random_fill random_fill_changed

#define main sessions_main
#include "test_sessions.c"
#include "../examples/options.h"
#undef main

static void one_input(const uint8_t *data, size_t size)
{
    if (size < 2) return;
    if (!sight.seen) sight.seen = (float *)malloc(MAX_SEEN * sizeof(float));
    if (!sight.seen) return;
    changes.data = data + 2;
    changes.size = size - 2;
    session_make(&the_session, data[0] | (uint64_t)data[1] << 8);
    changes.size = 0; /* shrinking chooses nothing */
    const enum verdict verdict = judge(&the_session);
    if (verdict == SAME) return;
    report_failure(verdict);
    abort();
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_input(data, size);
    return 0;
}
#else

static int replay_file(const char *name)
{
    static uint8_t bytes[4096];
    FILE *file = fopen(name, "rb");
    if (!file) return 0;
    one_input(bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
    return 1;
}

static void write_input(const char *folder, long number, const uint8_t *bytes, size_t size)
{
    char name[300];
    snprintf(name, sizeof name, "%s/%ld", folder, number);
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size) fprintf(stderr, "fuzz_program: cannot write %s\n", name);
    if (file) fclose(file);
}

int main(int argc, char **argv)
{
    long runs = 200, seed = 1, replayed = 0;
    const char *folder = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--runs")) { runs = (long)option_whole(argc, argv, i++, 0, LONG_MAX); continue; }
        if (!strcmp(argv[i], "--seed")) { seed = (long)option_whole(argc, argv, i++, 0, LONG_MAX); continue; }
        if (!strcmp(argv[i], "--corpus") && i + 1 < argc) { folder = argv[++i]; continue; }
        if (!replay_file(argv[i])) { fprintf(stderr, "fuzz_program: cannot read %s\n", argv[i]); return 1; }
        replayed++;
    }
    check_random r = { (uint64_t)seed };
    for (long i = 0; i < runs; i++) {
        uint8_t bytes[1024];
        const size_t size = 2 + (size_t)seeded_below(&r, 1 << seeded_below(&r, 10));
        for (size_t k = 0; k < size; k++) bytes[k] = (uint8_t)seeded_below(&r, k < 2 || !seeded_below(&r, 4) ? 256 : 1);
        if (folder) write_input(folder, i, bytes, size);
        one_input(bytes, size);
    }
    printf("%ld inputs, %zu runs, no complaint\n", runs + replayed, world.runs);
    return 0;
}
#endif
