/* firmware: runs the policy of examples/policy.h on a microcontroller, without an operating system, malloc or
   stdio.

     cc -O2 -I. -o firmware examples/firmware.c -lm && ./firmware

   Compiled like this, the program makes up its weights. Trained weights are an array in flash, used in place.
   Use export to train weights or to convert your own, then compile the firmware with them:

     cc -O2 -o export examples/export.c -lm && ./export --out policy_weights.h
     cc -O2 -I. -DWEIGHTS -o firmware examples/firmware.c -lm && ./firmware

   int8 weights (export --bytes, and -DIN_BYTES here) need a quarter of the flash, and are also used in place.
   Everything else is in two static arrays, one for the model and one for its context. On the desktop, or in
   an emulator of the target, the program runs the policy for some steps. Then it prints a hash of the
   actions, and four sizes: MODEL_BYTES and CONTEXT_BYTES are those of the two arrays, PARAMS_BYTES and
   CELLS_BYTES those of parts of the model. Compile and run it with the large defaults, then with the printed
   PARAMS_BYTES and CELLS_BYTES, so that no memory is wasted. The second run prints the four sizes for your
   firmware. For the target, add its start-up code and linker script:

     arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16 -Os -ffunction-sections -fdata-sections
         -Wl,--gc-sections -DBARE -DWEIGHTS -DMODEL_BYTES=... -I. -o firmware.elf examples/firmware.c ...

   -DBARE leaves out everything but the firmware itself. Replace `sensors` and `motors` with the functions of
   your machine. */
#define FOLD_INFERENCE
#define FOLD_NO_TEXT
#define FOLD_PLAIN_CONTEXTS
#define FOLD_NO_STDIO
#define FOLD_NO_MALLOC
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "policy.h"
#ifdef WEIGHTS
#include "policy_weights.h"
#elif defined(BARE)
#error "a bare firmware needs WEIGHTS"
#else
#include <stdio.h>

/* Makes weights up, as a safetensors file in memory: the length of its header, the header, the values. */
enum {
    HEADER = 1016,
    WEIGHTS_MADE = (OBSERVED + 1) * HIDDEN + (HIDDEN + 1) * HIDDEN + 2 * (HIDDEN + 1) * 3 * HIDDEN + (HIDDEN + 1) * ACTIONS,
    policy_weights_bytes = 8 + HEADER + 4 * WEIGHTS_MADE
};
static float policy_weights[policy_weights_bytes / 4];

static void make_weights(void)
{
    static const struct { const char *name; int rows, columns; } tensor[] = {
        { "first.W", OBSERVED, HIDDEN }, { "first.b", 0, HIDDEN }, { "second.W", HIDDEN, HIDDEN }, { "second.b", 0, HIDDEN },
        { "state.W", HIDDEN, 3 * HIDDEN }, { "state.b", 0, 3 * HIDDEN }, { "state.U", HIDDEN, 3 * HIDDEN }, { "state.c", 0, 3 * HIDDEN },
        { "head.W", HIDDEN, ACTIONS }, { "head.b", 0, ACTIONS }
    };
    unsigned char *const length = (unsigned char *)policy_weights;
    char *const header = (char *)policy_weights + 8, shape[32];
    uint32_t random = 1;
    int used = 0, at = 0;
    length[0] = HEADER & 255;
    length[1] = HEADER >> 8;
    memset(header, ' ', HEADER);
    for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) {
        const int rows = tensor[i].rows, count = (rows ? rows : 1) * tensor[i].columns;
        if (rows) snprintf(shape, sizeof shape, "%d,%d", rows, tensor[i].columns);
        else snprintf(shape, sizeof shape, "%d", tensor[i].columns);
        used += snprintf(header + used, (size_t)(HEADER - used), "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
                         i ? ',' : '{', tensor[i].name, shape, 4 * at, 4 * (at + count));
        for (int end = at + count; at < end; at++) {
            random = random * 1664525u + 1013904223u;
            policy_weights[(8 + HEADER) / 4 + at] = ((float)(random >> 8) / 16777216 - 0.5f) / 4;
        }
    }
    header[used] = '}';
}
#endif

#ifndef MODEL_BYTES
#define MODEL_BYTES 131072
#define CONTEXT_BYTES 65536
#endif
#ifndef PARAMS_BYTES /* fold_model_measure tells them; arrays of this size waste nothing */
#define PARAMS_BYTES 0
#define CELLS_BYTES 0
#endif

static float observed[OBSERVED], memory[HIDDEN];
static unsigned char model_block[MODEL_BYTES], context_block[CONTEXT_BYTES];

static struct firmware {
    fold_model *m;
    fold_ctx *f;
    policy p;
    fold_node action;
    fold_model_size size; /* with the memory of tracing */
} firmware;

/* Builds the network. Cells are traced in memory that is the context's afterwards. */
static int make_layers(void)
{
    fold_model_desc of_model = fold_model_desc_default();
    fold_model_size known = { 0 };
    of_model.inference = 1;
    of_model.memory.block = model_block;
    of_model.memory.block_size = sizeof model_block;
    of_model.tracing.block = context_block;
    of_model.tracing.block_size = sizeof context_block;
    known.params = PARAMS_BYTES;
    known.cells = CELLS_BYTES;
    fold_model *m = firmware.m = fold_model_new(&of_model);
    fold_model_reserve(m, &known);
#ifdef IN_BYTES
    fold_model_quantize(m, NULL); /* all layers that are made from here on */
#endif
    fold_model_read_in_place(m, policy_weights, policy_weights_bytes);
    policy_new(&firmware.p, m);
    firmware.size = fold_model_measure(m);
    return fold_model_seal(m) == FOLD_OK;
}

/* Records one step and runs it for the first time. */
static int record_and_run(void)
{
    fold_ctx_desc of_context = fold_ctx_desc_default();
    of_context.group_bytes = 16384;
    of_context.memory.block = context_block;
    of_context.memory.block_size = sizeof context_block;
    fold_ctx *f = firmware.f = fold_ctx_new(firmware.m, &of_context);
    fold_node in[2];
    in[0] = fold_input_ref(f, observed, fold_shape1(OBSERVED));
    in[1] = fold_input_ref(f, memory, fold_shape1(HIDDEN));
    const fold_node call = fold_call(f, firmware.p.cell, in, 2);
    firmware.action = fold_out(f, call, 0);
    fold_output_ref(f, fold_out(f, call, 1), memory);
    return fold_run(f, &firmware.action, 1) == FOLD_OK;
}

/* Takes another step: observations and memory give actions and the next memory. */
static int replay(void) { return fold_replay(firmware.f) == FOLD_OK; }
static const float *actions(void) { return fold_value(firmware.f, firmware.action); }

#ifdef BARE
/* They stand for a machine's registers. */
static volatile float sensor[OBSERVED], motor[ACTIONS];
static void sensors(void)
{
    for (int i = 0; i < OBSERVED; i++) observed[i] = sensor[i];
}
static void motors(const float *action)
{
    for (int i = 0; i < ACTIONS; i++) motor[i] = action[i];
}

int main(void)
{
    if (!make_layers() || !record_and_run()) return 1;
    for (;;) {
        sensors();
        if (!replay()) return 1;
        motors(actions());
    }
}
#else
#include <stdio.h>
#include <string.h>

enum { STEPS = 100 };

/* Reads the processor's counter: a RISC-V counts instructions, a Cortex-M its clock, down from 2^24. Elsewhere
   it stands still. */
static unsigned clock_now(void)
{
#ifdef __ARM_ARCH_7EM__
    volatile unsigned *const systick = (volatile unsigned *)0xe000e010u;
    if (!(systick[0] & 1)) {
        systick[1] = 0xffffffu;
        systick[2] = 0;
        systick[0] = 5;
    }
    return 0xffffffu - systick[2];
#elif defined(__riscv) && !defined(__linux__)
    unsigned long count;
    __asm__ volatile("csrr %0, minstret" : "=r"(count));
    return (unsigned)count;
#else
    return 0;
#endif
}

/* Counts the bytes of the stack below `top` that were written since it was painted, and paints it anew. */
enum { STACK = 65536, PAINT = 0xa5 };
static size_t stack_written(uintptr_t top)
{
    unsigned char below[STACK]; /* a call from the same place has its frames here */
    unsigned char *volatile found = below; /* volatile, since the bytes that the call left are read */
    volatile unsigned char *const stack = found;
    size_t at = 0;
    while (at < STACK && stack[at] == PAINT) at++;
    const size_t written = (size_t)(top - (uintptr_t)&stack[at]);
    for (at = 0; at < STACK; at++) stack[at] = PAINT;
    return written;
}

/* Calls it and tells how much of the stack that takes, or 0 when it failed. */
static size_t stack_of(int (*call)(void))
{
    unsigned char top;
    size_t (*volatile measure)(uintptr_t) = stack_written; /* volatile, so that neither gets its frame inside this one's */
    int (*volatile called)(void) = call;
    measure((uintptr_t)&top);
    const int fine = called();
    const size_t written = measure((uintptr_t)&top);
    return fine ? written : 0;
}

int main(void)
{
    uint32_t hash = 2166136261u; /* FNV-1a, fed with all actions, float by float */
    unsigned spent = 0;
#ifndef WEIGHTS
    make_weights();
#endif
    const size_t making = stack_of(make_layers), running = making ? stack_of(record_and_run) : 0;
    if (!running) {
        printf("firmware: %s; %s\n", fold_model_message(firmware.m), fold_ctx_message(firmware.f));
        return 1;
    }
    memset(memory, 0, sizeof memory);
    size_t replaying = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < OBSERVED; i++) observed[i] = (float)((step * 7 + i * 13) % 31 - 15) / 16;
        observed[OBSERVED - 1] = step % 5 == 0;
        if (step == 0) replaying = stack_of(replay);
        else {
            const unsigned before = clock_now();
            replay();
            spent += (clock_now() - before) & 0xffffffu;
        }
        const float *action = actions();
        for (int i = 0; i < ACTIONS; i++) {
            uint32_t bits;
            memcpy(&bits, &action[i], sizeof bits);
            hash = (hash ^ bits) * 16777619u;
        }
    }
    const size_t context = fold_ctx_stats(firmware.f).block_bytes, tracing = firmware.size.tracing;
    const size_t shared = context > tracing ? context : tracing, model = fold_model_measure(firmware.m).block_bytes;
    printf("sizes -DMODEL_BYTES=%lu -DCONTEXT_BYTES=%lu -DPARAMS_BYTES=%lu -DCELLS_BYTES=%lu\n", (unsigned long)model,
           (unsigned long)shared, (unsigned long)firmware.size.params, (unsigned long)firmware.size.cells);
    printf("stack make_layers=%lu record_and_run=%lu replay=%lu\n", (unsigned long)making, (unsigned long)running,
           (unsigned long)replaying);
    printf("RESULT firmware isa=%s ram_model=%lu ram_context=%lu tracing=%lu ticks_per_step=%u hash=%08lx\n",
           fold_model_isa(firmware.m), (unsigned long)MODEL_BYTES, (unsigned long)CONTEXT_BYTES, (unsigned long)tracing,
           spent / (STEPS - 1), (unsigned long)hash);
    return 0;
}
#endif
