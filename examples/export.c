/* export: turns a safetensors file into a C array, for programs that read their weights from flash.

     cc -O2 -o export examples/export.c -lm && ./export model.safetensors --name my_weights --out my_weights.h

   The array contains the file byte for byte, for little-endian machines. Its elements are 32-bit words, so
   that every compiler aligns it well enough for floats; gcc and clang align it to a cache line. Pass the
   array to fold_model_read_in_place:

     #include "my_weights.h"
     fold_model_read_in_place(m, my_weights, my_weights_bytes);

   A comment above the array lists what the file contains. Without a file, the program first trains the policy
   that examples/firmware.c runs (examples/policy.h). Training takes --steps batches. When the last value of
   an observation is 1, this policy must remember ten of the other values, and act on them until the next such
   observation. --bytes quantises the weights to int8, a quarter of the size; a program that reads such a file
   must call fold_model_quantize before it creates its layers. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "policy.h"
#include "options.h"
#include "unfused.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, MOMENTS = 8, WORDS_A_LINE = 8 };

typedef struct options {
    const char *file, *name, *out, *save;
    int steps, bytes;
    uint64_t seed;
} options;

typedef struct bytes {
    unsigned char *at;
    size_t count, room;
} bytes;

static void fail(const char *what)
{
    fprintf(stderr, "export: %s\n", what);
    exit(1);
}

static int append(const void *from, size_t size, void *user)
{
    bytes *to = (bytes *)user;
    if (to->count + size + 4 > to->room) {
        to->room = 2 * (to->count + size) + 4096;
        to->at = (unsigned char *)realloc(to->at, to->room);
        if (!to->at) fail("out of memory");
    }
    memcpy(to->at + to->count, from, size);
    to->count += size;
    return 0;
}

/* -- the policy --------------------------------------------------------------------------------------------- */

/* Holds a sample: what the policy observes, and what it must do at every moment. */
static void moments(fold_random *random, float observed[MOMENTS][OBSERVED], float wanted[MOMENTS][ACTIONS])
{
    for (int at = 0; at < MOMENTS; at++) {
        for (int i = 0; i < OBSERVED - 1; i++) observed[at][i] = 2 * fold_random_uniform(random) - 1;
        observed[at][OBSERVED - 1] = at == 0 || fold_random_below(random, 3) == 0;
        memcpy(wanted[at], observed[at][OBSERVED - 1] > 0 ? observed[at] : wanted[at - 1], sizeof wanted[at]);
    }
}

/* Records the losses of a batch; returns their mean. */
static fold_node record(fold_ctx *f, const policy *p, fold_random *random)
{
    fold_node loss[BATCH * MOMENTS];
    for (int sample = 0; sample < BATCH; sample++) {
        float observed[MOMENTS][OBSERVED], wanted[MOMENTS][ACTIONS];
        fold_node in[2] = { FOLD_NULL_NODE, fold_recurrent_zeros(f, &p->state).h };
        moments(random, observed, wanted);
        for (int at = 0; at < MOMENTS; at++) {
            in[0] = fold_input(f, observed[at], OBSERVED);
            const fold_node call = fold_call(f, p->cell, in, 2);
            in[1] = fold_out(f, call, 1);
            loss[sample * MOMENTS + at] = fold_squared_error(f, fold_out(f, call, 0), fold_input(f, wanted[at], ACTIONS));
        }
    }
    return fold_mean_n(f, loss, BATCH * MOMENTS);
}

/* Appends the policy to `to` as a file, its weights quantized if that is wanted, and keeps it. */
static void write_policy(const options *o, const fold_model *trained, bytes *to)
{
    fold_model_desc desc = fold_model_desc_default();
    policy p;
    desc.inference = 1;
    fold_model *m = fold_model_new(&desc);
    policy_new(&p, m);
    fold_values_copy(m, trained);
    if (o->bytes) fold_model_quantize(m, NULL);
    if (fold_model_save_to(m, append, to, NULL)) fail(fold_model_message(m));
    if (o->save && fold_model_save(m, o->save, NULL)) fail(fold_model_message(m));
    fold_model_free(m);
}

/* Trains the policy and appends it to `to` as a file. Tells the mean squared errors of the first and the last batch. */
static void train(const options *o, bytes *to, double *before, double *after)
{
    fold_model_desc desc = fold_model_desc_default();
    fold_ctx_desc training = fold_ctx_desc_default();
    fold_adam adam = fold_adam_default();
    fold_random random = fold_random_new(o->seed, 1);
    policy p;
    desc.seed = o->seed;
    training.training = 1;
    adam.rate = 0.003f;
    fold_model *m = fold_model_new(&desc);
    policy_new(&p, m);
    fold_ctx *f = fold_ctx_new(m, &training);
    for (int step = 0; step < o->steps; step++) {
        fold_ctx_reset(f);
        const fold_node loss = record(f, &p, &random);
        if (fold_backward(f, loss)) fail(fold_ctx_message(f));
        *after = (double)fold_scalar(f, loss) / ACTIONS;
        if (!step) *before = *after;
        if (step % 100 == 0) fprintf(stderr, "step %d: mean squared error %.4f\n", step, *after);
        if (fold_adam_step(m, &adam)) fail(fold_model_message(m));
    }
    write_policy(o, m, to);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- the array ---------------------------------------------------------------------------------------------- */

static void read_file(const char *path, bytes *to)
{
    unsigned char part[4096];
    FILE *file = fopen(path, "rb");
    if (!file) fail("the file cannot be opened");
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) append(part, got, to);
    if (ferror(file)) fail("the file cannot be read");
    fclose(file);
}

static void write_array(FILE *out, const options *o, const bytes *file)
{
    const size_t words = (file->count + 3) / 4;
    bytes text = { NULL, 0, 0 };
    fold_model *m = fold_model_new(NULL);
    const fold_status status = fold_model_print_file_memory(m, file->at, file->count, append, &text);
    append("", 1, &text);
    if (status) fail((const char *)text.at);
    for (char *end = (char *)text.at; (end = strstr(end, "*/")) != NULL;) *end = '+'; /* a name must not end the comment */
    fprintf(out, "/* Made by fold.h's examples/export.c.\n%s*/\n#include <stdint.h>\n\n", (const char *)text.at);
    fprintf(out, "enum { %s_bytes = %lu };\n#ifdef __GNUC__\n__attribute__((aligned(64)))\n#endif\n", o->name, (unsigned long)file->count);
    fprintf(out, "static const uint32_t %s[%lu] = {\n", o->name, (unsigned long)words);
    for (size_t word = 0; word < words; word++) {
        uint32_t bits = 0;
        for (size_t byte = 0; byte < 4 && 4 * word + byte < file->count; byte++)
            bits |= (uint32_t)file->at[4 * word + byte] << 8 * byte;
        fprintf(out, "0x%08lx,%s", (unsigned long)bits, word % WORDS_A_LINE == WORDS_A_LINE - 1 ? "\n" : "");
    }
    fprintf(out, "\n};\n");
    free(text.at);
    fold_model_free(m);
}

static int is_word(const char *text)
{
    return (*text < '0' || *text > '9') && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] == 0;
}

int main(int argc, char **argv)
{
    options o = { NULL, "policy_weights", "policy_weights.h", NULL, 600, 0, 1 };
    bytes file = { NULL, 0, 0 };
    double before = 0, after = 0;
    const option table[7] = {
        option_of_text("FILE", &o.file, "", "a safetensors file; else a policy is trained first"),
        option_of_text("--out", &o.out, "HEADER", "gets the array"),
        option_of_text("--name", &o.name, "NAME", "of the array"),
        option_of_whole("--steps", &o.steps, 0, 1000000, "batches of the training"),
        option_of_seed("--seed", &o.seed, "of weights and batches"),
        option_of_text("--save", &o.save, "FILE", "keeps the trained policy as a file, too"),
        option_of_flag("--bytes", &o.bytes, "makes bytes of its weights"),
    };
    options_read(argc, argv, "Writes a safetensors file as an array of C.", table, OPTION_COUNT(table));
    if (!*o.name || !is_word(o.name)) fail("--name must be a name of C");
    if (o.file) read_file(o.file, &file);
    else train(&o, &file, &before, &after);
    FILE *out = fopen(o.out, "w");
    if (!out) fail("the header cannot be written");
    write_array(out, &o, &file);
    if (fclose(out)) fail("the header cannot be written");
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < file.count; i++) hash = (hash ^ file.at[i]) * 16777619u;
    printf("RESULT export bytes=%lu error_before=%.4f error_after=%.4f hash=%08lx\n", (unsigned long)file.count, before, after,
           (unsigned long)hash);
    free(file.at);
    return 0;
}
