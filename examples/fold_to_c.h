/* fold_to_c.h - prints a recording as one plain C file, with fold_ctx_visit.

   In one C or C++ file:  #define FOLD_TO_C_IMPLEMENTATION
                          #include "fold_to_c.h"

       fold_ctx *f = fold_ctx_new(m, &desc);              // desc.eager = 1: calls of cells become their ops
       fold_node x = fold_input_ref(f, sample, fold_shape1(1)), h = fold_zeros(f, fold_shape1(16)), ...;
       const fold_to_c_port in = { "x", x, none }, out = { "y", y, none };
       const fold_to_c_port state[2] = { { "h", h, new_h }, { "c", c, new_c } };
       fold_to_c_desc net = fold_to_c_desc_default();
       net.name = "lstm"; net.in = &in; net.n_in = 1; ...
       fold_to_c_result printed = fold_to_c(f, &net, fold_to_file, file);
       if (printed.status) puts(printed.message);

   The printed file contains constant weights, a struct for the states, and

       void lstm_reset(lstm_state *s);
       void lstm_step(lstm_state *s, const float *x, float *y);

   It needs neither fold.h nor libm, and no memory except its stack. It compiles as C99 and C++17 without
   warnings. Unsafe floating-point flags do not change its results; the file does not compile with flags that
   would. It uses the widest vectors that the compiler flags allow (-march=native), otherwise plain loops. To
   use it, compile it, and include it in other files after `#define lstm_DECLARATIONS`. Alternatively, include
   the whole file in one of yours.

   Use fold_to_c for one small network that runs on one sample at a time: in a plugin, on a chip or in a
   control loop. For many voices or robots at once, fold_replay is faster: it reads each weight only once.

   Results are bit-identical to those of fold_replay if both use fused multiply-adds. If neither does, they
   are bit-identical to those of the portable kernels. Denormals are kept or flushed, as the processor is set.
   Weights must be floats: print before you call fold_model_quantize, and set fold_to_c_desc.bytes to get
   int8. Weights that stay floats may be NaN or infinite. List ops, losses and random ops are errors whose
   message names the op, and so are user-defined ops, unless fold_to_c_desc.print_op prints them.

   There are no globals. Memory for printing comes from malloc, and is freed before fold_to_c returns. With
   FOLD_NO_TEXT, contexts cannot be visited, and nothing is declared. */

#ifndef FOLD_TO_C_H
#define FOLD_TO_C_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_to_c.h needs fold.h 0.4.0 or later"
#endif
#ifndef FOLD_NO_TEXT

#ifdef __cplusplus
extern "C" {
#endif

/* An input, an output or a state of the network. */
typedef struct fold_to_c_port {
    const char *name; /* name of the argument or, for a state, of the struct's member: a C identifier */
    fold_node node;   /* input: a node from fold_input_ref or fold_input. Output: any node. State: the input
                         node that reads the state, with the value to which lstm_reset sets the state */
    fold_node next;   /* state: the node that computes its next value, which may also be an output. Otherwise
                         null */
} fold_to_c_port;

/* Prints a user-defined op: C statements that compute `float *own_out` from `const float *own_in0, *own_in1,
   ...`. Returns nonzero if it cannot print the op. `@` becomes the prefix of names, including its `_`. */
typedef int fold_to_c_print_op(const fold_seen *seen, fold_writer *write, void *writer, void *user);

typedef struct fold_to_c_desc {
    const char *name;   /* prefix of all names in the file, before a `_`. NULL: "network" */
    const char *source; /* origin of the network, for the first comment of the file. NULL: not mentioned */
    int agents;         /* number of agents that each step computes, stored one after another in the arguments
                           and in an array of states. 0 means 1 */
    const fold_to_c_port *in, *out, *state;
    int n_in, n_out, n_state;
    int bytes;          /* weights with at least this many values become int8, a quarter of the size. On every
                           processor, their products are bit-identical to those after fold_model_quantize with
                           this min_values. 0: all weights stay float */
    fold_to_c_print_op *print_op;      /* NULL: user-defined ops are refused */
    void *print_op_user;
} fold_to_c_desc;
FOLD_API fold_to_c_desc fold_to_c_desc_default(void); /* all zero */

typedef struct fold_to_c_result {
    fold_status status;   /* FOLD_OK, FOLD_IO if the writer stopped, FOLD_NO_MEMORY, or FOLD_BAD_ARGUMENT */
    size_t weight_bytes;  /* bytes of the constants. All three sizes exclude padding for vectors */
    size_t state_bytes;   /* bytes of the states of one agent */
    size_t work_bytes;    /* bytes of the values that a step keeps on its stack */
    char message[240];    /* error message with the op's name; "" after success */
} fold_to_c_result;

/* Prints the code that computes the outputs and next states from the inputs and states. Copied inputs that
   are not ports become constants, and so do looked-up rows, even with fold_index_ref. A fold_input_ref that
   is not a port is an error, even as an output. f must be eager, and is not changed. */
FOLD_API fold_to_c_result fold_to_c(fold_ctx *f, const fold_to_c_desc *desc, fold_writer *write, void *user);

#ifdef __cplusplus
}
#endif

#endif /* FOLD_NO_TEXT */
#endif /* FOLD_TO_C_H */

#if defined(FOLD_TO_C_IMPLEMENTATION) && !defined(FOLD__TO_C_IMPLEMENTED) && !defined(FOLD_NO_TEXT)
#define FOLD__TO_C_IMPLEMENTED
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text of every file ------------------------------------------------------------------------ */

/* `@` is the prefix of names. @V is a vector of @WIDTH floats, or one float, and @I holds its bits. */
static const char *const fold_to_c__head[] = {
    "#if defined(__FAST_MATH__) || (defined(__clang__) && __FINITE_MATH_ONLY__ + 0)\n"
    "#error \"-ffast-math and -ffinite-math-only change the results\"\n"
    "#endif\n"
    "#if defined(__clang__)\n"
    "#if __clang_major__ > 12 && (defined(__x86_64__) || defined(__i386__))\n"
    "#pragma float_control(precise, on) /* whatever -funsafe-math-optimizations and such allow */\n"
    "#elif __clang_major__ > 12\n"
    "#pragma clang fp reassociate(off)\n"
    "#endif\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#elif defined(__GNUC__)\n"
    "#pragma GCC push_options\n"
    "#pragma GCC optimize(\"fp-contract=off\", \"no-unsafe-math-optimizations\", \"no-associative-math\")\n"
    "#pragma GCC optimize(\"no-reciprocal-math\", \"signed-zeros\", \"no-finite-math-only\")\n"
    "#pragma GCC optimize(\"no-single-precision-constant\")\n"
    "#pragma GCC optimize(\"no-tree-slp-vectorize\") /* with it gcc 12 sums in a different order */\n"
    "#if defined(__i386__) && !defined(__SSE2_MATH__) && !defined(__TINYC__)\n"
    "#pragma GCC target(\"sse2,fpmath=sse\") /* x87 registers would round twice */\n"
    "#endif\n"
    "#endif\n\n",

    "#include <float.h>\n"
    "#include <math.h> /* INFINITY, NAN */\n"
    "#include <stdint.h>\n"
    "#include <string.h> /* memcpy */\n"
    "#if defined(__GNUC__) && !defined(__TINYC__) && defined(__AVX__)\n"
    "#include <immintrin.h>\n"
    "#elif defined(__GNUC__) && !defined(__TINYC__) && defined(__SSE2__)\n"
    "#include <emmintrin.h>\n"
    "#elif defined(__aarch64__) && defined(__ARM_NEON)\n"
    "#include <arm_neon.h>\n"
    "#endif\n"
    "#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 2) && \\\n"
    "    !(defined(__i386__) && defined(__GNUC__) && !defined(__clang__))\n"
    "#error \"floats are computed in a wider type here, which changes the results: use SSE2\"\n"
    "#endif\n\n",

    "/* Floats of a vector, as wide as the compiler may; 1: plain loops. */\n"
    "#if !defined(__GNUC__) || defined(__TINYC__)\n"
    "#define @WIDTH 1\n"
    "#elif defined(__AVX512F__) && @WIDEST > 8\n"
    "#define @WIDTH 16\n"
    "#elif defined(__AVX__) && @WIDEST > 4\n"
    "#define @WIDTH 8\n"
    "#elif defined(__SSE2__) || (defined(__aarch64__) && defined(__ARM_NEON)) || defined(__VSX__) || "
    "defined(__wasm_simd128__)\n"
    "#define @WIDTH 4\n"
    "#else\n"
    "#define @WIDTH 1\n"
    "#endif\n\n"
    "#if !defined(__GNUC__) || defined(__TINYC__)\n"
    "#define @INLINE static inline\n"
    "#define @ALIGNED\n"
    "#elif defined(__OPTIMIZE_SIZE__)\n"
    "#define @INLINE static inline __attribute__((unused))\n"
    "#define @ALIGNED __attribute__((aligned(4 * @WIDTH)))\n"
    "#else\n"
    "#define @INLINE static inline __attribute__((always_inline, unused))\n"
    "#define @ALIGNED __attribute__((aligned(4 * @WIDTH)))\n"
    "#endif\n\n",

    "#if @WIDTH > 1\n"
    "typedef float @V __attribute__((vector_size(4 * @WIDTH)));\n"
    "typedef uint32_t @I __attribute__((vector_size(4 * @WIDTH)));\n"
    "typedef float @L __attribute__((vector_size(4 * @WIDTH), aligned(4), may_alias)); /* at any address */\n"
    "#define @LOAD(from) ((@V)*(const @L *)(const void *)(from))\n"
    "#define @STORE(to, x) (*(@L *)(void *)(to) = (@L)(x))\n"
    "#define @BITS(x) ((@I)(x))\n"
    "#define @FLOATS(x) ((@V)(x))\n"
    "#else\n"
    "typedef float @V;\n"
    "typedef uint32_t @I;\n"
    "#define @LOAD(from) (*(from))\n"
    "#define @STORE(to, x) (*(to) = (x))\n"
    "#define @BITS(x) @bits(x)\n"
    "#define @FLOATS(x) @floats(x)\n"
    "#define @ALL(x) (x)\n"
    "#define @IALL(x) (x)\n"
    "#define @LESS(a, b, x, y) ((a) < (b) ? (x) : (y))\n"
    "#define @SAME(a, b, x, y) ((a) == (b) ? (x) : (y))\n"
    "#define @MAX(a, b) ((a) > (b) ? (a) : (b))\n"
    "#define @MIN(a, b) ((a) < (b) ? (a) : (b))\n"
    "#if defined(__GNUC__) && !defined(__TINYC__) && (defined(__FMA__) || defined(__FP_FAST_FMAF) || "
    "defined(__ARM_FEATURE_FMA))\n"
    "#define @FMA(a, b, c) __builtin_fmaf(a, b, c)\n"
    "#endif\n"
    "#endif\n\n",

    "#if @WIDTH == 16\n"
    "#define @ALL(x) ((@V)_mm512_set1_ps(x))\n"
    "#define @IALL(x) ((@I)_mm512_set1_epi32((int)(x)))\n"
    "#define @FMA(a, b, c) ((@V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))\n"
    "#define @MAX(a, b) ((@V)_mm512_maskz_max_ps((__mmask16)0xffff, (__m512)(a), (__m512)(b)))\n"
    "#define @MIN(a, b) ((@V)_mm512_maskz_min_ps((__mmask16)0xffff, (__m512)(a), (__m512)(b)))\n"
    "#define @PICK(a, how, b, x, y) \\\n"
    "    ((@V)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)(a), (__m512)(b), how), (__m512)(y), "
    "(__m512)(x)))\n"
    "#define @LESS(a, b, x, y) @PICK(a, _CMP_LT_OQ, b, x, y)\n"
    "#define @SAME(a, b, x, y) @PICK(a, _CMP_EQ_OQ, b, x, y)\n"
    "#elif @WIDTH == 8\n"
    "#define @ALL(x) ((@V)_mm256_set1_ps(x))\n"
    "#define @IALL(x) ((@I)_mm256_set1_epi32((int)(x)))\n"
    "#ifdef __FMA__\n"
    "#define @FMA(a, b, c) ((@V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))\n"
    "#endif\n"
    "#define @MAX(a, b) ((@V)_mm256_max_ps((__m256)(a), (__m256)(b)))\n"
    "#define @MIN(a, b) ((@V)_mm256_min_ps((__m256)(a), (__m256)(b)))\n"
    "#define @PICK(a, how, b, x, y) \\\n"
    "    ((@V)_mm256_blendv_ps((__m256)(y), (__m256)(x), _mm256_cmp_ps((__m256)(a), (__m256)(b), how)))\n"
    "#define @LESS(a, b, x, y) @PICK(a, _CMP_LT_OQ, b, x, y)\n"
    "#define @SAME(a, b, x, y) @PICK(a, _CMP_EQ_OQ, b, x, y)\n",

    "#elif @WIDTH == 4\n"
    "#define @LESS(a, b, x, y) @choose((@I)((a) < (b)), x, y)\n"
    "#define @SAME(a, b, x, y) @choose((@I)((a) == (b)), x, y)\n"
    "#define @ALL(x) @all(x)\n"
    "#define @IALL(x) @iall(x)\n"
    "#ifdef __SSE2__\n"
    "#define @MAX(a, b) ((@V)_mm_max_ps((__m128)(a), (__m128)(b)))\n"
    "#define @MIN(a, b) ((@V)_mm_min_ps((__m128)(a), (__m128)(b)))\n"
    "#else\n"
    "#define @MAX(a, b) @LESS(b, a, a, b)\n"
    "#define @MIN(a, b) @LESS(a, b, a, b)\n"
    "#endif\n"
    "#if defined(__FMA__)\n"
    "#define @FMA(a, b, c) ((@V)_mm_fmadd_ps((__m128)(a), (__m128)(b), (__m128)(c)))\n"
    "#elif defined(__aarch64__)\n"
    "#define @FMA(a, b, c) ((@V)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))\n"
    "#endif\n"
    "#endif\n"
    "#ifndef @FMA /* no fused multiply-add: results differ in the last bits */\n"
    "#define @FMA(a, b, c) ((a) * (b) + (c))\n"
    "#define @TWO_ROUNDINGS\n"
    "#define @FUSE(a, b, c) ((a) * (b) + (c))\n"
    "#else\n"
    "#define @FUSE(a, b, c) __builtin_fmaf(a, b, c)\n"
    "#endif\n\n"
    "#define @PAD(n) (((n) + @WIDTH - 1) / @WIDTH * @WIDTH) /* rounds up to whole vectors */\n\n"
};

/* Functions that are printed only if "@name(" occurs in printed text. Each function comes after the functions
   that it calls. `only` is its preprocessor condition. */
typedef struct fold_to_c__helper {
    const char *name, *only, *text;
} fold_to_c__helper;
static const fold_to_c__helper fold_to_c__helpers[] = {
    { "bits", "@WIDTH == 1",
      "@INLINE @I @bits(@V x)\n{\n    @I bits;\n    memcpy(&bits, &x, sizeof bits);\n    return bits;\n}\n" },
    { "floats", "@WIDTH == 1",
      "@INLINE @V @floats(@I bits)\n{\n    @V x;\n    memcpy(&x, &bits, sizeof x);\n    return x;\n}\n" },
    { "all", "@WIDTH == 4",
      "@INLINE @V @all(float x)\n{\n    const @V v = { x, x, x, x };\n    return v;\n}\n" },
    { "iall", "@WIDTH == 4",
      "@INLINE @I @iall(uint32_t x)\n{\n    const @I v = { x, x, x, x };\n    return v;\n}\n" },
    { "choose", "@WIDTH == 4",
      "@INLINE @V @choose(@I mask, @V x, @V y)\n{\n    return (@V)((mask & (@I)x) | (~mask & (@I)y));\n}\n" },
    { "magnitude", NULL,
      "@INLINE @V @magnitude(@V x)\n{\n    return @FLOATS(@BITS(x) & @IALL(0x7fffffffu));\n}\n" },
    { "negative", NULL,
      "@INLINE @V @negative(@V x)\n{\n    return @FLOATS(@BITS(x) ^ @IALL(0x80000000u));\n}\n" },
    { "square", NULL, "@INLINE @V @square(@V x)\n{\n    return x * x;\n}\n" },
    { "root", NULL,
      "/* Roots are rounded correctly, as in IEEE 754. */\n"
      "#if @WIDTH == 16\n"
      "#define @root(x) ((@V)_mm512_maskz_sqrt_ps((__mmask16)0xffff, (__m512)(x)))\n"
      "#elif @WIDTH == 8\n"
      "#define @root(x) ((@V)_mm256_sqrt_ps((__m256)(x)))\n"
      "#elif @WIDTH == 4 && defined(__SSE2__)\n"
      "#define @root(x) ((@V)_mm_sqrt_ps((__m128)(x)))\n"
      "#elif @WIDTH == 4 && defined(__aarch64__)\n"
      "#define @root(x) ((@V)vsqrtq_f32((float32x4_t)(x)))\n"
      "#else\n"
      "static float @root_of(float x)\n"
      "{\n"
      "    uint32_t bits, root = 0, rest = 0;\n"
      "    int exponent, i;\n"
      "    memcpy(&bits, &x, sizeof bits);\n"
      "    if (!(x > 0.0f) || bits >= 0x7f800000u) return x < 0.0f ? (x - x) / (x - x) : x;\n"
      "    exponent = (int)(bits >> 23);\n"
      "    bits = (bits & 0x7fffffu) | (exponent ? 0x800000u : 0u);\n"
      "    exponent = exponent ? exponent : 1;\n"
      "    while (!(bits & 0x800000u)) bits <<= 1, exponent--;\n"
      "    exponent -= 127;\n"
      "    if (exponent & 1) bits <<= 1, exponent--;\n"
      "    for (i = 0; i < 25; i++) { /* each bit of the root from two bits of the number */\n"
      "        const uint32_t step = root * 4 + 1;\n"
      "        rest = rest * 4 + (i < 12 ? bits >> (23 - 2 * i) & 3u : i == 12 ? (bits & 1u) << 1 : 0u);\n"
      "        root *= 2;\n"
      "        if (rest >= step) rest -= step, root++;\n"
      "    }\n"
      "    root = (root >> 1) + (root & 1u);\n"
      "    bits = root + ((uint32_t)(exponent / 2 + 126) << 23);\n"
      "    memcpy(&x, &bits, sizeof x);\n"
      "    return x;\n"
      "}\n"
      "#if @WIDTH == 1\n"
      "#define @root(x) @root_of(x)\n"
      "#else\n"
      "@INLINE @V @root(@V x)\n{\n    const @V roots = { @root_of(x[0]), @root_of(x[1]), @root_of(x[2]), "
      "@root_of(x[3]) };\n"
      "    return roots;\n}\n"
      "#endif\n"
      "#endif\n" },

    { "exp_reduce", NULL,
      "/* x = n ln 2 + r: returns r, and n in bits. */\n"
      "@INLINE @V @exp_reduce(@V x, @I *number)\n"
      "{\n"
      "    const @V magic = @ALL(12582912.0f), rounded = @FMA(x, @ALL(0x1.715476p+0f), magic), whole = "
      "rounded - magic;\n"
      "    *number = @BITS(rounded) - @IALL(0x4b400000u);\n"
      "    return @FMA(whole, @ALL(-0x1.7f7d1cp-20f), @FMA(whole, @ALL(-0x1.62e4p-1f), x));\n"
      "}\n" },
    { "exp_tail", NULL,
      "/* (exp(r) - 1 - r) / r^2 */\n"
      "@INLINE @V @exp_tail(@V r)\n"
      "{\n"
      "    @V q = @FMA(@ALL(0x1.6a2312p-10f), r, @ALL(0x1.123a8ep-7f));\n"
      "    q = @FMA(q, r, @ALL(0x1.5558f6p-5f));\n"
      "    q = @FMA(q, r, @ALL(0x1.55549p-3f));\n"
      "    return @FMA(q, r, @ALL(0x1.fffffcp-2f));\n"
      "}\n" },
    { "exp_made", NULL,
      "/* exp(r) 2^n, with 2^n in two factors */\n"
      "@INLINE @V @exp_made(@V r, @I number)\n"
      "{\n"
      "    const @V p = @FMA(@FMA(@exp_tail(r), r, @ALL(1.0f)), r, @ALL(1.0f));\n"
      "    const @I biased = number + @IALL(254u), half = biased >> 1;\n"
      "    return p * @FLOATS(half << 23) * @FLOATS((biased - half) << 23);\n"
      "}\n" },
    { "exp_low", NULL,
      "/* exp(x) of x <= 89 */\n"
      "@INLINE @V @exp_low(@V x)\n"
      "{\n"
      "    @I number;\n"
      "    const @V r = @exp_reduce(@MAX(@ALL(-104.0f), x), &number);\n"
      "    return @exp_made(r, number);\n"
      "}\n" },
    { "exp", NULL, "@INLINE @V @exp(@V x)\n{\n    return @exp_low(@MIN(@ALL(89.0f), x));\n}\n" },
    { "log_core", NULL,
      "/* log(1 + fraction) + exponent ln 2 */\n"
      "@INLINE @V @log_core(@V fraction, @V exponent)\n"
      "{\n"
      "    @V p = @FMA(@ALL(-0x1.38c1a2p-4f), fraction, @ALL(0x1.056496p-3f));\n"
      "    p = @FMA(p, fraction, @ALL(-0x1.0d875ap-3f));\n"
      "    p = @FMA(p, fraction, @ALL(0x1.22d90ap-3f));\n"
      "    p = @FMA(p, fraction, @ALL(-0x1.5471f6p-3f));\n"
      "    p = @FMA(p, fraction, @ALL(0x1.99a012p-3f));\n"
      "    p = @FMA(p, fraction, @ALL(-0x1.000228p-2f));\n"
      "    p = @FMA(p, fraction, @ALL(0x1.555554p-2f));\n"
      "    p = @FMA(p, fraction, @ALL(-0.5f));\n"
      "    p = @FMA(fraction * fraction, p, exponent * @ALL(0x1.7f7d1cp-20f));\n"
      "    return @FMA(exponent, @ALL(0x1.62e4p-1f), fraction + p);\n"
      "}\n" },
    { "log_split", NULL,
      "/* x = 2^exponent (1 + fraction) */\n"
      "@INLINE @V @log_split(@V x, @V *exponent)\n"
      "{\n"
      "    const @V tiny = @ALL(0x1p-126f), scaled = @LESS(x, tiny, x * @ALL(8388608.0f), x);\n"
      "    const @V bias = @LESS(x, tiny, @ALL(8388608.0f + 127.0f + 23.0f), @ALL(8388608.0f + 127.0f));\n"
      "    const @I bits = @BITS(scaled), number = (bits + @IALL(0x3f800000u - 0x3f3504f3u)) >> 23;\n"
      "    *exponent = @FLOATS(number + @IALL(0x4b000000u)) - bias;\n"
      "    return @FLOATS(bits - (number << 23) + @IALL(0x3f800000u)) - @ALL(1.0f);\n"
      "}\n" },
    { "log", NULL,
      "@INLINE @V @log(@V x)\n"
      "{\n"
      "    const @V zero = @ALL(0.0f), infinity = @FLOATS(@IALL(0x7f800000u)), nan = "
      "@FLOATS(@IALL(0x7fc00000u));\n"
      "    @V exponent, fraction = @log_split(x, &exponent), y = @log_core(fraction, exponent);\n"
      "    y = @LESS(zero, x, y, @SAME(x, zero, @negative(infinity), nan));\n"
      "    return @LESS(x, infinity, y, x);\n"
      "}\n" },
    { "sigmoid_of", NULL,
      "/* sigmoid(x) from e = exp(-|x|) */\n"
      "@INLINE @V @sigmoid_of(@V x, @V e)\n"
      "{\n"
      "    return @LESS(x, @ALL(0.0f), e, @ALL(1.0f)) / (@ALL(1.0f) + e);\n"
      "}\n" },
    { "sigmoid", NULL,
      "@INLINE @V @sigmoid(@V x)\n{\n    return @sigmoid_of(x, @exp_low(@negative(@magnitude(x))));\n}\n" },
    { "exp_less_one", NULL,
      "/* exp(x) - 1 of x between -80 and 80 */\n"
      "@INLINE @V @exp_less_one(@V x)\n"
      "{\n"
      "    @I number;\n"
      "    const @V r = @exp_reduce(x, &number), q = @FMA(r * r, @exp_tail(r), r);\n"
      "    const @V power = @FLOATS((number + @IALL(127u)) << 23);\n"
      "    return @FMA(power, q, power - @ALL(1.0f));\n"
      "}\n" },
    { "tanh", NULL,
      "@INLINE @V @tanh(@V x)\n"
      "{\n"
      "    const @V bounded = @MIN(@ALL(10.0f), @magnitude(x)), q = @exp_less_one(bounded + bounded);\n"
      "    return @FLOATS(@BITS(q / (q + @ALL(2.0f))) ^ (@BITS(x) & @IALL(0x80000000u)));\n"
      "}\n" },
    { "softplus", NULL,
      "@INLINE @V @softplus(@V x)\n"
      "{\n"
      "    const @V one = @ALL(1.0f), u = @exp_low(@negative(@magnitude(x))), limit = @ALL(0.41421356f);\n"
      "    const @V fraction = @LESS(limit, u, (u - one) * @ALL(0.5f), u);\n"
      "    return @MAX(x, @ALL(0.0f)) + @log_core(fraction, @LESS(limit, u, one, @ALL(0.0f)));\n"
      "}\n" },
    { "product_rest", NULL,
      "/* a b - c, rounded once */\n"
      "@INLINE @V @product_rest(@V a, @V b, @V c)\n"
      "{\n"
      "#ifdef @TWO_ROUNDINGS /* halves of 12 bits have exact products (Dekker 1971) */\n"
      "    const @V a_high = @FLOATS(@BITS(a) & @IALL(0xfffff000u)), a_low = a - a_high;\n"
      "    const @V b_high = @FLOATS(@BITS(b) & @IALL(0xfffff000u)), b_low = b - b_high;\n"
      "    return a_high * b_high - c + a_high * b_low + a_low * b_high + a_low * b_low;\n"
      "#else\n"
      "    return @FMA(a, b, @negative(c));\n"
      "#endif\n"
      "}\n" },
    { "gelu_tanh_exp", NULL,
      "/* exp(-|z|), z = 2 sqrt(2 / pi) (x + 0.044715 x^3), by parts that keep what floats would lose */\n"
      "@INLINE @V @gelu_tanh_exp(@V x)\n"
      "{\n"
      "    const @V a = @ALL(0x1.26afp+1f), b = @ALL(0x1.a5a7dp-4f), magic = @ALL(12582912.0f);\n"
      "    const @V down = @MAX(@ALL(-12.0f), @negative(@magnitude(x))), square = down * down, u = b * "
      "square, p = u + a;\n"
      "    const @V n = @FMA(down, p, magic);\n"
      "    @V rest = @FMA(@ALL(-0x1.151aaep-29f), square, @ALL(-0x1.ef218cp-18f)), r;\n"
      "    rest = @FMA(b, @product_rest(down, down, square), rest);\n"
      "    rest = @product_rest(b, square, u) + rest;\n"
      "    rest = (u - (p - a)) + rest;\n"
      "    r = @product_rest(down, p, n - magic);\n"
      "    r = @FMA(down, rest, r) * @ALL(0x1.62e43p-1f);\n"
      "    return @exp_made(r, @BITS(n) - @IALL(0x4b400000u));\n"
      "}\n" },
    { "gelu_tanh", NULL,
      "@INLINE @V @gelu_tanh(@V x)\n{\n    return @MAX(@ALL(-12.0f), x) * @sigmoid_of(x, "
      "@gelu_tanh_exp(x));\n}\n" },
    { "normal_tail", NULL,
      "/* R(t): a standard normal variable is below -t with probability exp(-t^2 / 2) R(t) */\n"
      "@INLINE @V @normal_tail(@V t)\n"
      "{\n"
      "    const @V u = @ALL(1.0f) / @FMA(t, @ALL(0x1.333334p-2f), @ALL(1.0f)), v = u - @ALL(0.75f);\n"
      "    @V p = @FMA(@ALL(-0x1.51de3ap-6f), v, @ALL(-0x1.b69d92p-6f));\n"
      "    p = @FMA(p, v, @ALL(0x1.d773fap-6f));\n"
      "    p = @FMA(p, v, @ALL(0x1.13e76ap-5f));\n"
      "    p = @FMA(p, v, @ALL(-0x1.3fcb2cp-4f));\n"
      "    p = @FMA(p, v, @ALL(-0x1.46029ep-4f));\n"
      "    p = @FMA(p, v, @ALL(0x1.931f14p-3f));\n"
      "    p = @FMA(p, v, @ALL(0x1.053cb0p-1f));\n"
      "    p = @FMA(p, v, @ALL(0x1.168e58p-1f));\n"
      "    p = @FMA(p, v, @ALL(0x1.514e00p-2f));\n"
      "    return p * u;\n"
      "}\n" },
    { "normal_exp", NULL,
      "/* exp(-t^2 / 2) */\n"
      "@INLINE @V @normal_exp(@V t)\n"
      "{\n"
      "    const @V half = @ALL(-0.5f), square = t * t, rest = @product_rest(t, t, square);\n"
      "    @I number;\n"
      "    const @V r = @exp_reduce(square * half, &number);\n"
      "    return @exp_made(@FMA(rest, half, r), number);\n"
      "}\n" },
    { "gelu", NULL,
      "@INLINE @V @gelu(@V x)\n"
      "{\n"
      "    const @V t = @MIN(@ALL(14.4f), @magnitude(x)), tail = t * @normal_tail(t);\n"
      "    return @FMA(@negative(tail), @normal_exp(t), @MAX(@ALL(-0.0f), x));\n"
      "}\n" },
    { "silu", NULL,
      "@INLINE @V @silu(@V x)\n{\n    const @V bounded = @MAX(@ALL(-104.0f), x);\n    return bounded * "
      "@sigmoid(bounded);\n}\n" },
    { "relu", NULL, "@INLINE @V @relu(@V x)\n{\n    return @MAX(@ALL(0.0f), x) + @ALL(0.0f);\n}\n" },
    { "leaky", NULL,
      "@INLINE @V @leaky(@V x, @V slope)\n{\n    return @LESS(@ALL(0.0f), x, x, x * slope);\n}\n" },
    { "elu", NULL,
      "@INLINE @V @elu(@V x, @V alpha)\n"
      "{\n"
      "    const @V zero = @ALL(0.0f), q = @exp_less_one(@MAX(@ALL(-30.0f), @LESS(x, zero, x, zero)));\n"
      "    return @LESS(x, zero, alpha * q, x);\n"
      "}\n" },
    { "sine", NULL,
      "/* sin(x + quarters pi / 2) of |x| <= 2^18, else NaN: x = n pi / 2 + r, pi / 2 in three parts */\n"
      "@INLINE @V @sine(@V x, uint32_t quarters)\n"
      "{\n"
      "    const @V magic = @ALL(12582912.0f), rounded = @FMA(x, @ALL(0x1.45f306p-1f), magic), n = rounded - "
      "magic;\n"
      "    const @V part = @ALL(0x1.777a5cp-25f), middle = n * part;\n"
      "    const @I number = @BITS(rounded) + @IALL(quarters - 0x4b400000u);\n"
      "    const @V half = @FLOATS((number << 31) ^ @IALL(0x3f800000u));\n"
      "    @V r = @product_rest(@negative(n), @ALL(0x1.921fb6p+0f), @negative(x)), square, odd, even;\n"
      "    r = (r + middle) + @product_rest(n, part, middle);\n"
      "    r = @FMA(n, @ALL(0x1.ee59dap-50f), r);\n"
      "    r = @LESS(@ALL(262144.0f), @magnitude(x), @FLOATS(@IALL(0x7fc00000u)), r);\n"
      "    square = r * r;\n"
      "    odd = @FMA(@ALL(0x1.6c7fd6p-19f), square, @ALL(-0x1.a00e1ep-13f));\n"
      "    odd = @FMA(odd, square, @ALL(0x1.111106p-7f));\n"
      "    odd = @FMA(odd, square, @ALL(-0x1.555556p-3f));\n"
      "    odd = @FMA(odd * square, r, r);\n"
      "    even = @FMA(@ALL(0x1.9985ecp-16f), square, @ALL(-0x1.6c0accp-10f));\n"
      "    even = @FMA(even, square, @ALL(0x1.555548p-5f));\n"
      "    even = @FMA(even * square, square, @FMA(@ALL(-0.5f), square, @ALL(1.0f)));\n"
      "    r = @LESS(half, @ALL(0.0f), even, odd);\n"
      "    return @FLOATS(@BITS(r) ^ ((number & @IALL(2u)) << 30));\n"
      "}\n" },
    { "sin", NULL, "@INLINE @V @sin(@V x)\n{\n    return @SAME(x, @ALL(0.0f), x, @sine(x, 0u));\n}\n" },
    { "cos", NULL, "@INLINE @V @cos(@V x)\n{\n    return @sine(x, 1u);\n}\n" },
    { "floor", NULL,
      "@INLINE @V @floor(@V x)\n"
      "{\n"
      "    const @V whole = @ALL(8388608.0f), size = @magnitude(x), zero = @ALL(0.0f);\n"
      "    @V y = size + whole - whole;\n"
      "    y = @FLOATS(@BITS(y) ^ (@BITS(x) & @IALL(0x80000000u)));\n"
      "    y = y - @LESS(x, y, @ALL(1.0f), zero);\n"
      "    return @LESS(size, whole, y, x);\n"
      "}\n" },
    { "power_of", NULL,
      "/* |x|^p = 2^(p exponent) e^(p log(1 + fraction)) */\n"
      "@INLINE @V @power_of(@V x, @V p)\n"
      "{\n"
      "    const @V magic = @ALL(12582912.0f), zero = @ALL(0.0f), one = @ALL(1.0f), infinity = "
      "@FLOATS(@IALL(0x7f800000u));\n"
      "    @V exponent, fraction = @log_split(x, &exponent), whole, n, r, edge;\n"
      "    const @V part = p * @log_core(fraction, zero);\n"
      "    whole = p * exponent;\n"
      "    n = whole + part * @ALL(0x1.715476p+0f);\n"
      "    n = @MIN(@ALL(140.0f), @MAX(@ALL(-160.0f), n)) + magic;\n"
      "    r = (whole - (n - magic)) + @product_rest(p, exponent, whole);\n"
      "    r = @FMA(r, @ALL(0x1.62e43p-1f), part);\n"
      "    r = @MIN(one, @MAX(@ALL(-1.0f), r));\n"
      "    r = @exp_made(r, @BITS(n) - @IALL(0x4b400000u));\n"
      "    edge = @LESS(p, zero, @LESS(x, one, infinity, zero), @LESS(x, one, zero, infinity));\n"
      "    edge = @SAME(p, zero, one, edge);\n"
      "    r = @SAME(x, zero, edge, r);\n"
      "    return @LESS(x, infinity, r, @SAME(x, infinity, edge, x));\n"
      "}\n" },
    { "pow", NULL,
      "@INLINE @V @pow(@V x, @V p)\n"
      "{\n"
      "    const @V half = p * @ALL(0.5f), power = @power_of(@magnitude(x), p);\n"
      "    const @V sign = @FLOATS(@BITS(power) ^ (@BITS(x) & @IALL(0x80000000u)));\n"
      "    const @V whole = @SAME(@floor(half), half, power, sign);\n"
      "    return @SAME(@floor(p), p, whole, @LESS(x, @ALL(0.0f), @FLOATS(@IALL(0x7fc00000u)), power));\n"
      "}\n" },

    { "zeros", NULL,
      "@INLINE void @zeros(float *to, int from, int end)\n"
      "{\n    int i;\n    for (i = from; i < end; i++) to[i] = 0.0f;\n}\n" },
    { "take", NULL,
      "/* Copies n floats, and makes the rest of their vectors zero. */\n"
      "@INLINE void @take(float *to, const float *from, int n, int room)\n"
      "{\n"
      "    int i;\n"
      "    memcpy(to, from, (size_t)n * sizeof *to);\n"
      "    for (i = n; i < room; i++) to[i] = 0.0f;\n"
      "}\n" },
    { "products", NULL,
      "/* y[j] = from[j] + x[0] w[0][j] + x[1] w[1][j] + ..., a chain of fused multiply-adds for each of n\n"
      "   columns, a few vectors of them at a time in registers. Without `from` sums begin with 0. */\n"
      "#define @START(i) @V s##i = from ? @LOAD(from + j + i * @WIDTH) : @ALL(0.0f);\n"
      "#define @ADD(i) s##i = @FMA(factor, @LOAD(row + i * @WIDTH), s##i);\n"
      "#define @PUT(i) @STORE(y + j + i * @WIDTH, s##i);\n"
      "#define @EACH_1(F) F(0)\n"
      "#define @EACH_2(F) F(0) F(1)\n"
      "#define @EACH_4(F) @EACH_2(F) F(2) F(3)\n"
      "#define @EACH_8(F) @EACH_4(F) F(4) F(5) F(6) F(7)\n"
      "#define @TILES(count) \\\n"
      "    for (; n - j >= count * @WIDTH; j += count * @WIDTH) { \\\n"
      "        const float *row = w + j; \\\n"
      "        @EACH_##count(@START) \\\n"
      "        for (k = 0; k < inner; k++, row += n) { \\\n"
      "            const @V factor = @ALL(x[k]); \\\n"
      "            @EACH_##count(@ADD) \\\n"
      "        } \\\n"
      "        @EACH_##count(@PUT) \\\n"
      "    }\n"
      "@INLINE void @products(float *y, const float *from, int n, const float *x, int inner, const float "
      "*w)\n"
      "{\n"
      "    int j = 0, k;\n"
      "    @TILES(8)\n"
      "    @TILES(4)\n"
      "    @TILES(2)\n"
      "    @TILES(1)\n"
      "}\n" },
    { "join", NULL,
      "/* The sum of sixteen lanes: lane i and i + 8, then + 4, + 2, + 1. */\n"
      "@INLINE float @join(float *lanes)\n"
      "{\n"
      "#if @WIDTH > 1\n"
      "    typedef float four __attribute__((vector_size(16), aligned(4), may_alias));\n"
      "    const four *of = (const four *)(const void *)lanes;\n"
      "    const four sum = (of[0] + of[2]) + (of[1] + of[3]);\n"
      "    return (sum[0] + sum[2]) + (sum[1] + sum[3]);\n"
      "#else\n"
      "    int half, i;\n"
      "    for (half = 8; half > 0; half /= 2)\n"
      "        for (i = 0; i < half; i++) lanes[i] += lanes[i + half];\n"
      "    return lanes[0];\n"
      "#endif\n"
      "}\n" },
    { "dot", NULL,
      "/* The sum of x[k] w[k] in sixteen chains; x and w are padded with zeros to a multiple of 16. */\n"
      "@INLINE float @dot(const float *x, const float *w, int count)\n"
      "{\n"
      "    @ALIGNED float lanes[16];\n"
      "    int lane, k;\n"
      "    for (lane = 0; lane < 16; lane += @WIDTH) {\n"
      "        @V s = @ALL(0.0f);\n"
      "        for (k = lane; k < count; k += 16) s = @FMA(@LOAD(x + k), @LOAD(w + k), s);\n"
      "        @STORE(lanes + lane, s);\n"
      "    }\n"
      "    return @join(lanes);\n"
      "}\n" },
    { "dot_of", NULL,
      "/* The same without padding. */\n"
      "@INLINE float @dot_of(const float *x, const float *w, int count)\n"
      "{\n"
      "    float lanes[16] = { 0.0f };\n"
      "    int k;\n"
      "    for (k = 0; k < count; k++) lanes[k % 16] = @FUSE(x[k], w[k], lanes[k % 16]);\n"
      "    for (; k % 16; k++) lanes[k % 16] += 0.0f;\n"
      "    return @join(lanes);\n"
      "}\n" },
    { "apart", NULL,
      "/* The sum of count floats that are not adjacent, in one chain. */\n"
      "@INLINE float @apart(const float *x, int count, int step)\n"
      "{\n    float sum = 0.0f;\n    int k;\n    for (k = 0; k < count; k++) sum += x[k * step];\n    return "
      "sum;\n}\n" },
    { "first_of", NULL,
      "/* The first NaN of a line, else the first largest (sign 1) or the first smallest (sign -1). */\n"
      "@INLINE float @first_of(const float *x, int count, int step, float sign)\n"
      "{\n"
      "    float best = x[0];\n"
      "    int k;\n"
      "    for (k = 1; k < count && best == best; k++)\n"
      "        if (!(sign * x[k * step] <= sign * best)) best = x[k * step];\n"
      "    return best;\n"
      "}\n" },
    { "infinity", NULL,
      "@INLINE float @infinity(float sign)\n"
      "{\n    const uint32_t bits = 0x7f800000u;\n    float x;\n    memcpy(&x, &bits, sizeof x);\n    return "
      "sign * x;\n}\n" },
    { "few", NULL,
      "/* y[j] = from[j] + the sum of x[k] w[j][k], for few columns, which w stores one after another. */\n"
      "@INLINE void @few(float *y, const float *from, int n, const float *x, int inner, const float *w)\n"
      "{\n"
      "    int j;\n"
      "    for (j = 0; j < n; j++, w += inner) y[j] = (from ? from[j] : 0.0f) + @dot(x, w, inner);\n"
      "}\n" },
    { "to_bytes", NULL,
      "/* Quantises x: the largest magnitude becomes 127. Returns the scale; NaN if x is not finite. */\n"
      "@INLINE float @to_bytes(signed char *bytes, const float *x, int count)\n"
      "{\n"
      "    uint32_t most = 0, bits;\n"
      "    float largest, factor;\n"
      "    int k;\n"
      "    for (k = 0; k < count; k++) {\n"
      "        memcpy(&bits, x + k, sizeof bits);\n"
      "        bits &= 0x7fffffffu;\n"
      "        most = bits > most ? bits : most;\n"
      "    }\n"
      "    memcpy(&largest, &most, sizeof largest);\n"
      "    memset(bytes, 0, (size_t)count);\n"
      "    if (most >= 0x7f800000u) return largest - largest;\n"
      "    if (largest < 0x1p-119f) return 0.0f;\n"
      "    factor = 127.0f / largest;\n"
      "    for (k = 0; k < count; k++) bytes[k] = (signed char)(int)(x[k] * factor + 12582912.0f - "
      "12582912.0f);\n"
      "    return largest / 127.0f;\n"
      "}\n" },
    { "bytes", NULL,
      "/* y[j] = from[j] + the sum of x[k] w[j][k], times the scales of x and of each of n columns; then "
      "zeros. */\n"
      "@INLINE void @bytes(float *y, const float *from, int n, int room, const signed char *x, float unit, "
      "int inner,\n"
      "                    const signed char *w, const float *units)\n"
      "{\n"
      "    int j, k;\n"
      "    for (j = 0; j < n; j++, w += inner) {\n"
      "        int32_t sum = 0;\n"
      "        for (k = 0; k < inner; k++) sum += x[k] * w[k];\n"
      "        y[j] = (from ? from[j] : 0.0f) + (float)sum * unit * units[j];\n"
      "    }\n"
      "    for (; j < room; j++) y[j] = 0.0f;\n"
      "}\n" },
    { "sum", NULL,
      "/* The sum of count floats, at most 512, in sixteen chains. */\n"
      "@INLINE float @sum(const float *x, int count)\n"
      "{\n"
      "    float lanes[16] = { 0.0f };\n"
      "    int k, i;\n"
      "    for (k = 0; k + 16 <= count; k += 16)\n"
      "        for (i = 0; i < 16; i++) lanes[i] += x[k + i];\n"
      "    for (i = 0; k < count; k++, i++) lanes[i] += x[k];\n"
      "    return @join(lanes);\n"
      "}\n" },
    { "exp_sum", NULL,
      "/* Sets y = exp(x - largest) and returns the sum, in sixteen chains. */\n"
      "@INLINE float @exp_sum(float *y, const float *x, float largest, int count)\n"
      "{\n"
      "    float lanes[16] = { 0.0f };\n"
      "    int k;\n"
      "    for (k = 0; k + @WIDTH <= count; k += @WIDTH) @STORE(y + k, @exp(@LOAD(x + k) - @ALL(largest)));\n"
      "#if @WIDTH > 1\n"
      "    if (k < count) {\n"
      "        float rest[@WIDTH] = { 0.0f };\n"
      "        memcpy(rest, x + k, (size_t)(count - k) * sizeof *rest);\n"
      "        @STORE(rest, @exp(@LOAD(rest) - @ALL(largest)));\n"
      "        memcpy(y + k, rest, (size_t)(count - k) * sizeof *rest);\n"
      "    }\n"
      "#endif\n"
      "    for (k = 0; k < count; k++) lanes[k % 16] += y[k];\n"
      "    return @join(lanes);\n"
      "}\n" },
    { "largest", NULL,
      "/* The largest of count floats, ignoring NaN. */\n"
      "@INLINE float @largest(const float *x, int count)\n"
      "{\n"
      "    float most = @infinity(-1.0f);\n"
      "    int k;\n"
      "    for (k = 0; k < count; k++) most = x[k] > most ? x[k] : most;\n"
      "    return most;\n"
      "}\n" },
    { "first", NULL, /* to compute a single value with a function of vectors */
      "@INLINE float @first(@V x)\n{\n    float lanes[@WIDTH];\n    @STORE(lanes, x);\n    return "
      "lanes[0];\n}\n" }
};

/* ---- what is printed --------------------------------------------------------------------------- */

enum {
    FOLD_TO_C__PARTS = 8,
    FOLD_TO_C__LEAST_PART = 4,
    FOLD_TO_C__WIDTHS = 4,
    FOLD_TO_C__NAME = 64,
    FOLD_TO_C__AXES = FOLD_MAX_RANK
};
static const int fold_to_c__widths[FOLD_TO_C__WIDTHS] = { 1, 4, 8, 16 };

/* How an op is printed. In the text of a map, A, B and C are its operands and S is its number. */
typedef enum fold_to_c__kind {
    FOLD_TO_C__MAP,
    FOLD_TO_C__COPY,
    FOLD_TO_C__LINEAR,
    FOLD_TO_C__MATMUL,
    FOLD_TO_C__CONV,
    FOLD_TO_C__MAX_POOL,
    FOLD_TO_C__MEAN_POOL,
    FOLD_TO_C__DOT,
    FOLD_TO_C__SOFTMAX,
    FOLD_TO_C__LOG_SOFTMAX,
    FOLD_TO_C__REDUCE,
    FOLD_TO_C__CUMSUM,
    FOLD_TO_C__NORM,
    FOLD_TO_C__CONCAT,
    FOLD_TO_C__SLICE,
    FOLD_TO_C__TRANSPOSE,
    FOLD_TO_C__PICK,
    FOLD_TO_C__OWN
} fold_to_c__kind;
enum { FOLD_TO_C__NO_NUMBER, FOLD_TO_C__ATTRIBUTE, FOLD_TO_C__DATA }; /* where a map's number comes from */
typedef struct fold_to_c__op {
    const char *name;
    fold_to_c__kind kind;
    const char *text;
    int number;
} fold_to_c__op;
static const fold_to_c__op fold_to_c__ops[] = {
    { "add", FOLD_TO_C__MAP, "A + B", FOLD_TO_C__NO_NUMBER },
    { "sub", FOLD_TO_C__MAP, "A - B", FOLD_TO_C__NO_NUMBER },
    { "mul", FOLD_TO_C__MAP, "A * B", FOLD_TO_C__NO_NUMBER },
    { "div", FOLD_TO_C__MAP, "A / B", FOLD_TO_C__NO_NUMBER },
    { "minimum", FOLD_TO_C__MAP, "@SAME(A, A, @MIN(A, B), A)", FOLD_TO_C__NO_NUMBER },
    { "maximum", FOLD_TO_C__MAP, "@SAME(A, A, @MAX(A, B), A)", FOLD_TO_C__NO_NUMBER },
    { "scale", FOLD_TO_C__MAP, "A * @ALL(S)", FOLD_TO_C__DATA },
    { "shift", FOLD_TO_C__MAP, "A + @ALL(S)", FOLD_TO_C__DATA },
    { "neg", FOLD_TO_C__MAP, "@negative(A)", FOLD_TO_C__NO_NUMBER },
    { "exp", FOLD_TO_C__MAP, "@exp(A)", FOLD_TO_C__NO_NUMBER },
    { "log", FOLD_TO_C__MAP, "@log(A)", FOLD_TO_C__NO_NUMBER },
    { "sqrt", FOLD_TO_C__MAP, "@root(A)", FOLD_TO_C__NO_NUMBER },
    { "square", FOLD_TO_C__MAP, "@square(A)", FOLD_TO_C__NO_NUMBER },
    { "abs", FOLD_TO_C__MAP, "@magnitude(A)", FOLD_TO_C__NO_NUMBER },
    { "sigmoid", FOLD_TO_C__MAP, "@sigmoid(A)", FOLD_TO_C__NO_NUMBER },
    { "tanh", FOLD_TO_C__MAP, "@tanh(A)", FOLD_TO_C__NO_NUMBER },
    { "relu", FOLD_TO_C__MAP, "@relu(A)", FOLD_TO_C__NO_NUMBER },
    { "leaky", FOLD_TO_C__MAP, "@leaky(A, @ALL(S))", FOLD_TO_C__ATTRIBUTE },
    { "gelu_tanh", FOLD_TO_C__MAP, "@gelu_tanh(A)", FOLD_TO_C__NO_NUMBER },
    { "gelu", FOLD_TO_C__MAP, "@gelu(A)", FOLD_TO_C__NO_NUMBER },
    { "silu", FOLD_TO_C__MAP, "@silu(A)", FOLD_TO_C__NO_NUMBER },
    { "softplus", FOLD_TO_C__MAP, "@softplus(A)", FOLD_TO_C__NO_NUMBER },
    { "elu", FOLD_TO_C__MAP, "@elu(A, @ALL(S))", FOLD_TO_C__ATTRIBUTE },
    { "sin", FOLD_TO_C__MAP, "@sin(A)", FOLD_TO_C__NO_NUMBER },
    { "cos", FOLD_TO_C__MAP, "@cos(A)", FOLD_TO_C__NO_NUMBER },
    { "pow", FOLD_TO_C__MAP, "@pow(A, @ALL(S))", FOLD_TO_C__ATTRIBUTE },
    { "floor", FOLD_TO_C__MAP, "@floor(A)", FOLD_TO_C__NO_NUMBER },
    { "at_least", FOLD_TO_C__MAP, "@LESS(A, @ALL(S), @ALL(S), A)", FOLD_TO_C__ATTRIBUTE },
    { "at_most", FOLD_TO_C__MAP, "@LESS(@ALL(S), A, @ALL(S), A)", FOLD_TO_C__ATTRIBUTE },
    { "select", FOLD_TO_C__MAP, "@LESS(@ALL(0.0f), A, B, C)", FOLD_TO_C__NO_NUMBER },
    { "copy", FOLD_TO_C__COPY, NULL, FOLD_TO_C__NO_NUMBER },
    { "stop", FOLD_TO_C__COPY, NULL, FOLD_TO_C__NO_NUMBER },
    { "linear", FOLD_TO_C__LINEAR, NULL, FOLD_TO_C__NO_NUMBER },
    { "matmul", FOLD_TO_C__MATMUL, NULL, FOLD_TO_C__NO_NUMBER },
    { "conv", FOLD_TO_C__CONV, NULL, FOLD_TO_C__NO_NUMBER },
    { "max_pool", FOLD_TO_C__MAX_POOL, NULL, FOLD_TO_C__NO_NUMBER },
    { "mean_pool", FOLD_TO_C__MEAN_POOL, NULL, FOLD_TO_C__NO_NUMBER },
    { "dot", FOLD_TO_C__DOT, NULL, FOLD_TO_C__NO_NUMBER },
    { "softmax", FOLD_TO_C__SOFTMAX, NULL, FOLD_TO_C__NO_NUMBER },
    { "log_softmax", FOLD_TO_C__LOG_SOFTMAX, NULL, FOLD_TO_C__NO_NUMBER },
    { "sum", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "mean", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "amax", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "amin", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "variance", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "logsumexp", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "prod", FOLD_TO_C__REDUCE, NULL, FOLD_TO_C__NO_NUMBER },
    { "cumsum", FOLD_TO_C__CUMSUM, NULL, FOLD_TO_C__NO_NUMBER },
    { "layer_norm", FOLD_TO_C__NORM, NULL, FOLD_TO_C__NO_NUMBER },
    { "rms_norm", FOLD_TO_C__NORM, NULL, FOLD_TO_C__NO_NUMBER },
    { "concat", FOLD_TO_C__CONCAT, NULL, FOLD_TO_C__NO_NUMBER },
    { "slice", FOLD_TO_C__SLICE, NULL, FOLD_TO_C__NO_NUMBER },
    { "transpose", FOLD_TO_C__TRANSPOSE, NULL, FOLD_TO_C__NO_NUMBER },
    { "pick", FOLD_TO_C__PICK, NULL, FOLD_TO_C__NO_NUMBER }
};
/* Ops that cannot be printed, and why. */
static const struct {
    const char *name, *why;
} fold_to_c__refused[] = {
    { "list_take", "lists have no fixed length" }, { "list_attention", "lists have no fixed length" },
    { "attention_step", "its cache grows" },       { "dropout", "random numbers are for training" },
    { "softmax_xent", "losses are for training" }, { "softmax_kl", "losses are for training" },
    { "bce", "losses are for training" },          { "squared_error", "losses are for training" },
    { "huber", "losses are for training" },        { "hinge", "losses are for training" }
};

/* kinds of values */
enum { FOLD_TO_C__NOTHING, FOLD_TO_C__INPUT, FOLD_TO_C__STATE, FOLD_TO_C__CONSTANT, FOLD_TO_C__MADE };

/* A value. Its floats are stored in `size / block` parts of `block` floats, each padded to whole vectors. If
   all readers of a map's result read only parts, the map is split into one map per part. The kind of the
   original value is then NOTHING, and its parts are the values from index `part` on. */
typedef struct fold_to_c__value {
    int is, port, size, block, part;
    int span;               /* for a list: number of floats in all rows; otherwise equal to `size` */
    int copy_of;            /* operand of the copy that made the value, or -1 */
    fold_shape shape;
    int line;               /* for a shifting state, and the concat stored in it: number of floats appended in
                               each step; otherwise 0 */
    int is_ref;             /* 1: an input by reference, which cannot become a constant */
    fold_node node;
    fold_param param;       /* for a constant: the parameter that it is a view of */
    const float *constant;  /* floats of a constant, which are read after the visit */
    int call, made, last;   /* the call and the stage that compute the value; the last stage that reads it */
    int is_read;            /* 1: the loop that computes the value also reads it */
    int in_memory, slack;   /* in_memory: it is stored, not only in a loop's registers. slack: whole vectors
                               may extend beyond its end */
    int copied;             /* 1: an input or state that is read in whole vectors, so it is first copied to
                               memory that allows this */
    int slot, number;       /* the value's memory, and its number in names */
    char letter;            /* distinguishes parts of a map in names; 0: none */
} fold_to_c__value;
typedef struct fold_to_c__operand {
    int value, offset, size;
    fold_shape shape;
} fold_to_c__operand;
typedef struct fold_to_c__call {
    const fold_to_c__op *op;
    const char *name, *cell;
    int value, first, n_in, needed, stage;
    int broadcasts;         /* 1: a map whose operands are broadcast */
    fold_shape out;
    fold_param param[2];
    int attr[4];
    float number;
    fold_seen seen;         /* for a user-defined op; the shapes are in the operands */
} fold_to_c__call;
/* A printed statement or loop. If its kind is MAP, it is a loop of maps. */
typedef struct fold_to_c__stage {
    fold_to_c__kind kind;
    int size, call, part;
} fold_to_c__stage;
typedef struct fold_to_c__item {
    int call, part, stage;
} fold_to_c__item;
/* Memory for values. `value` is the last value placed in it. */
typedef struct fold_to_c__slot {
    int count, block, slack, value;
} fold_to_c__slot;
/* The forms in which weights are printed, in parts of `block` columns. int8 weights (BYTES) are stored column
   by column, with a scale for each column (UNITS). */
enum { FOLD_TO_C__AS_IS, FOLD_TO_C__ROWS, FOLD_TO_C__COLUMNS, FOLD_TO_C__BYTES, FOLD_TO_C__UNITS };
typedef struct fold_to_c__weight {
    int form, block, from, inner, columns, transposed, value;
    fold_param param;
} fold_to_c__weight;

typedef struct fold_to_c__printer {
    fold_ctx *f;
    const fold_model *m;
    const fold_to_c_desc *desc;
    const char *name;
    fold_writer *write;
    void *user;
    int stopped, scanning, widest;
    unsigned char wanted[sizeof fold_to_c__helpers / sizeof *fold_to_c__helpers];
    fold_to_c_result result;
    size_t n_values, values_room, n_calls, calls_room, n_operands, operands_room, n_ids, ids_room;
    fold_to_c__operand *end;     /* the outputs, then the next values of states */
    size_t n_stages, stages_room, n_items, items_room, n_slots, slots_room, n_weights, weights_room;
    fold_to_c__value *value;
    fold_to_c__call *call;
    fold_to_c__operand *operand;
    int *id;                /* by node id: 1 + the index of the node's value, or 0 */
    fold_to_c__stage *stage;
    fold_to_c__item *item;
    fold_to_c__slot *slot;
    fold_to_c__weight *weight;
    int not_eager; /* 1: the context is not eager; then every message begins by saying so */
} fold_to_c__printer;

/* Sets the result's error, unless there is one already. */
static void fold_to_c__fail(fold_to_c__printer *p, fold_status status, const char *format, ...)
{
    va_list args;
    if (p->result.status)
        return;
    p->result.status = status;
    strcpy(p->result.message, p->not_eager ? "to_c: the context is not eager; " : "to_c: ");
    const size_t at = strlen(p->result.message);
    va_start(args, format);
    fold_format(p->result.message + at, sizeof p->result.message - at, format, args);
    va_end(args);
}

/* Grows an array to hold at least `wanted` items. New items are zero. */
static int fold_to_c__grow(fold_to_c__printer *p, void *items, size_t *room, size_t wanted, size_t size)
{
    void *old = NULL, *grown;
    size_t more = *room ? *room : 16;
    memcpy(&old, items, sizeof old);
    if (wanted <= *room)
        return 1;
    while (more < wanted)
        more *= 2;
    grown = realloc(old, more * size);
    if (!grown)
        return fold_to_c__fail(p, FOLD_NO_MEMORY, "no memory"), 0;
    memset((char *)grown + *room * size, 0, (more - *room) * size);
    memcpy(items, &grown, sizeof grown);
    *room = more;
    return 1;
}
#define FOLD_TO_C__ADD(p, array, n, room) \
    (fold_to_c__grow(p, &(p)->array, &(p)->room, (p)->n + 1, sizeof *(p)->array) ? (int)(p)->n++ : -1)

static int fold_to_c__size(const fold_shape *shape)
{
    int size = 1;
    for (int k = 0; k < shape->rank; k++)
        size *= shape->dim[k];
    return size;
}

/* ---- text -------------------------------------------------------------------------------------- */

/* Writes text to p->write, replacing `@` with the prefix of names. It is also the writer for
   fold_to_c_print_op. */
static int fold_to_c__bytes(const void *bytes, size_t size, void *user)
{
    fold_to_c__printer *p = (fold_to_c__printer *)user;
    const char *from = (const char *)bytes, *at;
    for (size_t length; size && !p->stopped && !p->scanning; from += length, size -= length) {
        at = (const char *)memchr(from, '@', size);
        length = at == from ? 1 : at ? (size_t)(at - from) : size;
        if (at != from)
            p->stopped = (p->write)(from, length, p->user) != 0;
        else
            p->stopped = (p->write)(p->name, strlen(p->name), p->user) || (p->write)("_", 1, p->user);
    }
    return p->stopped;
}

/* Marks the helpers that a piece of code calls, and the helpers that they call in turn. */
static void fold_to_c__scan(fold_to_c__printer *p, const char *text)
{
    for (const char *at = strchr(text, '@'); at; at = strchr(at + 1, '@'))
        for (size_t i = 0; i < sizeof p->wanted; i++) {
            const size_t length = strlen(fold_to_c__helpers[i].name);
            if (p->wanted[i] || strncmp(at + 1, fold_to_c__helpers[i].name, length) != 0 ||
                at[1 + length] != '(')
                continue;
            p->wanted[i] = 1;
            fold_to_c__scan(p, fold_to_c__helpers[i].text);
        }
}

static void fold_to_c__text(fold_to_c__printer *p, const char *text)
{
    if (p->scanning)
        fold_to_c__scan(p, text);
    fold_to_c__bytes(text, strlen(text), p);
}

/* Prints formatted text of at most 399 bytes. */
static void fold_to_c__put(fold_to_c__printer *p, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    fold_to_c__text(p, text);
}

/* Prints a name in a comment. Anything that could end the comment, or is not printable ASCII, becomes '?'. */
static void fold_to_c__comment(fold_to_c__printer *p, const char *name)
{
    for (; name && *name; name++) {
        const int ends = name[0] == '*' || name[0] == '/' || name[0] == '@' || name[0] == '\\';
        fold_to_c__put(p, "%c",
                       ends || (unsigned char)*name < ' ' || (unsigned char)*name > '~' ? '?' : *name);
    }
}

/* Returns the shortest text that reads back as the same float, with a decimal point in every locale. */
static const char *fold_to_c__float(float value, char text[32])
{
    const char *point = localeconv()->decimal_point;
    if (value != value || fabsf(value) > FLT_MAX)
        return strcpy(text, value != value ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, 30, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    char *at = strstr(text, point);
    if (at)
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    if (at)
        *at = '.';
    strcat(text, strpbrk(text, ".e") ? "f" : ".0f");
    return text;
}

/* ---- the copy that the visitor makes ----------------------------------------------------------- */

static int fold_to_c__value_of(fold_to_c__printer *p, uint32_t id, const fold_shape *shape, int is)
{
    const int value = FOLD_TO_C__ADD(p, value, n_values, values_room);
    if (value < 0 || !fold_to_c__grow(p, &p->id, &p->ids_room, (size_t)id + 1, sizeof *p->id))
        return -1;
    fold_to_c__value *v = &p->value[value];
    p->id[id] = value + 1;
    v->is = is;
    v->shape = *shape;
    v->size = v->block = v->span = fold_to_c__size(shape);
    v->copy_of = v->port = v->part = v->call = v->made = v->last = v->slot = -1;
    v->number = (int)id;
    return value;
}

static const fold_to_c__op *fold_to_c__find(const char *name)
{
    for (size_t i = 0; i < sizeof fold_to_c__ops / sizeof *fold_to_c__ops; i++)
        if (!strcmp(fold_to_c__ops[i].name, name))
            return &fold_to_c__ops[i];
    return NULL;
}

static void fold_to_c__refuse(fold_to_c__printer *p, const fold_seen *seen)
{
    const char *why =
        seen->user_op ? "it is a user-defined op; set print_op" : "fold_to_c.h does not know it";
    if (seen->rows >= 0 || seen->n_list)
        why = "lists have no fixed length";
    for (size_t i = 0; i < sizeof fold_to_c__refused / sizeof *fold_to_c__refused; i++)
        if (!strcmp(fold_to_c__refused[i].name, seen->name))
            why = fold_to_c__refused[i].why;
    if (seen->is_cell)
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT,
                        "%.60s is a cell; record in an eager context, where its ops are calls", seen->name);
    else
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "%.60s cannot be printed: %s", seen->name, why);
}

static void fold_to_c__see_call(fold_to_c__printer *p, const fold_seen *seen)
{
    static const fold_to_c__op own = { "", FOLD_TO_C__OWN, NULL, FOLD_TO_C__NO_NUMBER };
    const fold_to_c__op *op = seen->user_op ? p->desc->print_op ? &own : NULL : fold_to_c__find(seen->name);
    const uint32_t bits = (uint32_t)seen->data;
    const int value = fold_to_c__value_of(p, seen->node.id, seen->out[0], FOLD_TO_C__MADE);
    const int made = value < 0 ? -1 : FOLD_TO_C__ADD(p, call, n_calls, calls_room);
    if (made < 0 || !fold_to_c__grow(p, &p->operand, &p->operands_room,
                                     p->n_operands + (size_t)seen->n_operands, sizeof *p->operand))
        return;
    fold_to_c__call *call = &p->call[made];
    p->value[value].call = made;
    if (seen->rows > 0)
        p->value[value].span *= seen->rows;
    call->op = seen->is_cell || seen->n_list || seen->rows >= 0 || seen->n_out != 1 ? NULL : op;
    call->name = seen->name;
    call->cell = seen->cell;
    call->value = value;
    call->first = (int)p->n_operands;
    call->n_in = seen->n_operands;
    call->out = *seen->out[0];
    call->seen = *seen;
    memcpy(call->param, seen->param, sizeof call->param);
    memcpy(&call->number, &bits, sizeof bits);
    if (op && op->number == FOLD_TO_C__ATTRIBUTE)
        call->number = (float)seen->attr[0];
    for (int i = 0; i < seen->n_attr; i++)
        call->attr[i] = seen->float_attr ? 0 : (int)seen->attr[i];
    if (seen->float_attr)
        call->number = (float)seen->attr[0];
    for (int i = 0; i < seen->n_operands; i++) {
        fold_to_c__operand *operand = &p->operand[p->n_operands++];
        operand->value = (int)seen->operand[i]; /* the node's id, until all values are known */
        operand->offset = (int)(seen->offset[i] & 0x7fffffffu);
        if (i >= seen->n_in)
            continue;
        operand->shape = *seen->in[i];
        operand->size = fold_to_c__size(seen->in[i]);
    }
}

/* The visitor: copies a leaf or a call. */
static int fold_to_c__see(const fold_seen *seen, void *user)
{
    fold_to_c__printer *p = (fold_to_c__printer *)user;
    if (seen->what == FOLD_SEEN_RUN)
        p->not_eager = !seen->name || strcmp(seen->name, "eager") != 0;
    if (seen->what == FOLD_SEEN_CALL)
        fold_to_c__see_call(p, seen);
    if (seen->what == FOLD_SEEN_LEAF) {
        const int value = fold_to_c__value_of(p, seen->node.id, seen->out[0], FOLD_TO_C__CONSTANT);
        if (value >= 0 && seen->row < 0)
            p->value[value].param = seen->param[0];
        if (value >= 0 && seen->rows >= 0)
            p->value[value].is = FOLD_TO_C__NOTHING, p->value[value].span *= seen->rows;
        if (value >= 0) {
            p->value[value].node = seen->node;
            p->value[value].is_ref = !strcmp(seen->name, "input_ref");
        }
    }
    return p->result.status != FOLD_OK;
}

/* ---- the plan: loops, and memory of values ------------------------------------------------------- */

/* Whether each column of a product is summed in sixteen chains along the inputs, instead of in one. fold.h
   uses the same order (fold__is_narrow). */
static int fold_to_c__is_narrow(int rows, int columns) { return columns < 16 && rows > 4 * columns; }

/* Indices of attributes in fold.h: those of linear ops, and of ops on windows. */
enum { FOLD_TO_C__TRANSPOSED, FOLD_TO_C__STARTS, FOLD_TO_C__FIRST_ROW, FOLD_TO_C__OUTPUTS };

static const fold_to_c__operand *fold_to_c__in(const fold_to_c__printer *p, const fold_to_c__call *call,
                                               int i)
{
    return &p->operand[call->first + i];
}

static int fold_to_c__by_number(const void *one, const void *other)
{
    const uint32_t a = ((const fold_to_c__call *)one)->seen.node.id,
                   b = ((const fold_to_c__call *)other)->seen.node.id;
    return a < b ? -1 : a > b;
}

/* Replaces a copy with its operand. Calls come after the calls that they read from, so one step is enough. */
static void fold_to_c__behind_copy(const fold_to_c__printer *p, fold_to_c__operand *operand)
{
    if (operand->value < 0 || p->value[operand->value].copy_of < 0)
        return;
    const fold_to_c__operand *from = &p->operand[p->value[operand->value].copy_of];
    operand->offset += from->offset;
    operand->value = from->value;
}

/* Finds the value of a node. If the node is a view, its floats are part of a different value. */
static int fold_to_c__locate(fold_to_c__printer *p, fold_node node, const char *what, const char *name,
                             fold_to_c__operand *found)
{
    const float *at = fold_value(p->f, node);
    const fold_shape shape = fold_node_shape(p->f, node);
    memset(found, 0, sizeof *found);
    found->shape = shape;
    found->size = fold_to_c__size(&shape);
    found->value = (size_t)node.id < p->ids_room ? p->id[node.id] - 1 : -1;
    for (size_t i = 0; at && found->value < 0 && i < p->n_values; i++)
        if (p->value[i].constant && at >= p->value[i].constant &&
            at + found->size <= p->value[i].constant + p->value[i].span) {
            found->value = (int)i;
            found->offset = (int)(at - p->value[i].constant);
        }
    fold_to_c__behind_copy(p, found);
    /* a parameter or constant that no call reads */
    if (at && shape.rank && found->value < 0 && fold_list_length(p->f, node) < 0) {
        found->value = fold_to_c__value_of(p, node.id, &shape, FOLD_TO_C__CONSTANT);
        if (found->value >= 0)
            p->value[found->value].constant = at;
        if (found->value >= 0)
            p->value[found->value].node = node;
    }
    const fold_to_c__value *v = found->value < 0 ? NULL : &p->value[found->value];
    if (v && v->is == FOLD_TO_C__CONSTANT && v->is_ref) {
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT,
                        "%s '%.60s' is a fold_input_ref that is neither input nor state", what,
                        name ? name : "");
        return 0;
    }
    if (at && shape.rank && v && v->is != FOLD_TO_C__NOTHING)
        return 1;
    fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "%s '%.60s' is part of a list, or not computed by this recording",
                    what, name ? name : "");
    return 0;
}

/* Adds an input or a state. If nothing reads it, the visitor did not see it as a leaf. */
static void fold_to_c__port(fold_to_c__printer *p, const fold_to_c_port *port, int is, int index)
{
    const char *what = is == FOLD_TO_C__INPUT ? "input" : "state", *name = port->name ? port->name : "";
    const fold_shape shape = fold_node_shape(p->f, port->node);
    int value = (size_t)port->node.id < p->ids_room ? p->id[port->node.id] - 1 : -1;
    if (value < 0 && shape.rank)
        value = fold_to_c__value_of(p, port->node.id, &shape, FOLD_TO_C__CONSTANT);
    if (value < 0 || p->value[value].is != FOLD_TO_C__CONSTANT || p->value[value].param.id) {
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "%s '%.60s' is not from fold_input_ref or fold_input", what,
                        name);
        return;
    }
    p->value[value].is = is;
    p->value[value].port = index;
    p->value[value].constant = fold_value(p->f, port->node);
}

static int fold_to_c__is_name(const char *name)
{
    static const char used[] = " i j k s agent source target factors from line patch padded at tap row "
                               "column left top seen most "
                               "sum "
                               "factor shift power gain bias bytes unit a b memcpy memmove memset size_t "
                               "int32_t uint32_t " /* then
                                                      the
                                                      keywords
                                                      of C
                                                      and
                                                      C++ */
                               "auto break case char const continue default do double else enum extern float "
                               "for goto if inline int "
                               "long register restrict "
                               "return short signed sizeof static struct switch typedef union unsigned void "
                               "volatile while bool "
                               "true false nullptr asm typeof "
                               "alignas alignof constexpr static_assert thread_local catch class const_cast "
                               "delete dynamic_cast "
                               "explicit export friend mutable "
                               "namespace new operator private protected public reinterpret_cast static_cast "
                               "template this throw "
                               "try typeid typename using "
                               "virtual wchar_t and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq "
                               "char8_t char16_t "
                               "char32_t concept consteval "
                               "constinit co_await co_return co_yield decltype noexcept requires INFINITY "
                               "NAN linux unix ";
    char word[FOLD_TO_C__NAME];
    const char *at = name;
    if (!name || !*name || (*name >= '0' && *name <= '9'))
        return 0;
    for (; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
              *at == '_'))
            return 0;
    snprintf(word, sizeof word, " %.40s ", name);
    /* names of values and of their memory */
    if ((*name == 't' || *name == 'm') && name[1] >= '0' && name[1] <= '9')
        return 0;
    return at - name < FOLD_TO_C__NAME / 2 && !strstr(used, word) && strncmp(name, "own_", 4) &&
           strncmp(name, "__", 2);
}

static void fold_to_c__check_names(fold_to_c__printer *p)
{
    const fold_to_c_desc *desc = p->desc;
    const fold_to_c_port *all[3] = { desc->in, desc->out, desc->state };
    const int count[3] = { desc->n_in, desc->n_out, desc->n_state };
    if (!fold_to_c__is_name(p->name))
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "'%.60s' is not a C name", p->name);
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < count[which]; i++)
            if (!fold_to_c__is_name(all[which][i].name))
                fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "'%.60s' is not a C name, or used by the printed code",
                                all[which][i].name ? all[which][i].name : "");
            else
                /* states are struct members, so they may have the same names as arguments */
                for (int k = 0; k < i + (which == 1 ? desc->n_in : 0) && !p->result.status; k++)
                    if (!strcmp(all[which][i].name, (k < i ? all[which][k] : desc->in[k - i]).name))
                        fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "two ports are named '%.60s'",
                                        all[which][i].name);
}

/* Replaces the node ids in operands with indices of values. */
static void fold_to_c__resolve(fold_to_c__printer *p)
{
    for (size_t i = 0; i < p->n_calls && !p->result.status; i++) {
        fold_to_c__call *call = &p->call[i];
        p->value[call->value].constant = fold_value(p->f, call->seen.node);
        for (int k = 0; k < call->n_in; k++) {
            fold_to_c__operand *operand = &p->operand[call->first + k];
            operand->value = (size_t)operand->value < p->ids_room ? p->id[operand->value] - 1 : -1;
        }
    }
    for (size_t i = 0; i < p->n_values; i++) {
        fold_to_c__value *v = &p->value[i];
        if (v->is == FOLD_TO_C__NOTHING)
            v->constant = fold_value(p->f, v->node);
        if (v->is != FOLD_TO_C__CONSTANT)
            continue;
        v->constant = v->param.id ? fold_param_value(p->m, v->param) : fold_value(p->f, v->node);
        if (!v->constant)
            v->is = FOLD_TO_C__NOTHING;
    }
    for (int i = 0; i < p->desc->n_in; i++)
        fold_to_c__port(p, &p->desc->in[i], FOLD_TO_C__INPUT, i);
    for (int i = 0; i < p->desc->n_state; i++)
        fold_to_c__port(p, &p->desc->state[i], FOLD_TO_C__STATE, i);
    if (p->n_calls)
        qsort(p->call, p->n_calls, sizeof *p->call, fold_to_c__by_number);
    for (size_t i = 0; i < p->n_calls; i++) {
        fold_to_c__call *call = &p->call[i];
        p->value[call->value].call = (int)i;
        for (int k = 0; k < call->n_in; k++)
            fold_to_c__behind_copy(p, &p->operand[call->first + k]);
        if (call->op && call->op->kind == FOLD_TO_C__COPY)
            p->value[call->value].copy_of = call->first;
    }
}

/* From the last call to the first, marks the calls that outputs and next states depend on. Only marked calls
   cause an error if they cannot be printed. */
static void fold_to_c__mark(fold_to_c__printer *p)
{
    for (int i = 0; i < p->desc->n_out + p->desc->n_state; i++) {
        const int call = p->value[p->end[i].value].call;
        if (call >= 0)
            p->call[call].needed = 1;
    }
    for (int i = (int)p->n_calls - 1; i >= 0 && !p->result.status; i--) {
        fold_to_c__call *call = &p->call[i];
        if (!call->needed)
            continue;
        if (!call->op)
            fold_to_c__refuse(p, &call->seen);
        for (int k = 0; k < call->n_in && !p->result.status; k++) {
            const fold_to_c__operand *operand = fold_to_c__in(p, call, k);
            const fold_to_c__value *from = operand->value < 0 ? NULL : &p->value[operand->value];
            if (!from || from->is == FOLD_TO_C__NOTHING)
                fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "%.60s reads a list: lists have no fixed length",
                                call->name);
            else if (from->is == FOLD_TO_C__CONSTANT && from->is_ref)
                fold_to_c__fail(p, FOLD_BAD_ARGUMENT,
                                "%.60s reads a fold_input_ref that is neither input nor state", call->name);
            else if (from->call >= 0)
                p->call[from->call].needed = 1;
            if (call->op->kind != FOLD_TO_C__MAP)
                continue;
            call->broadcasts |= operand->size != 1 && operand->size != fold_to_c__size(&call->out);
        }
    }
}

static int fold_to_c__reads_vectors(const fold_to_c__printer *p, const fold_to_c__call *call, int i);

/* Counts the readers of a value. Returns -1 if one of them reads whole vectors. */
static int fold_to_c__count_readers(const fold_to_c__printer *p, int value)
{
    int readers = 0;
    for (size_t c = 0; c < p->n_calls; c++)
        for (int i = 0; i < p->call[c].n_in && p->call[c].needed; i++) {
            if (fold_to_c__in(p, &p->call[c], i)->value != value)
                continue;
            if (fold_to_c__reads_vectors(p, &p->call[c], i))
                return -1;
            readers++;
        }
    return readers;
}

/* Finds states that shift, such as the delay lines of a temporal convolution: the next state is the old state
   without its first values, with new values appended. Such a state gets twice the memory, so that a step only
   appends values; the step that reaches the end then moves the state back to the start. */
static void fold_to_c__find_lines(fold_to_c__printer *p)
{
    for (int i = 0; i < p->desc->n_state; i++) {
        const fold_to_c__operand *next = &p->end[p->desc->n_out + i];
        fold_to_c__value *whole = &p->value[next->value], *state;
        const fold_to_c__call *call = whole->call < 0 ? NULL : &p->call[whole->call];
        int ends = 0;
        if (!call || call->op->kind != FOLD_TO_C__CONCAT || call->n_in != 2)
            continue;
        const fold_to_c__operand *first = fold_to_c__in(p, call, 0), *second = fold_to_c__in(p, call, 1);
        state = &p->value[first->value];
        for (int k = 0; k < call->attr[0]; k++)
            ends |= call->out.dim[k] != 1; /* rows are not contiguous */
        for (int k = 0; k < p->desc->n_out + p->desc->n_state; k++)
            ends |= p->end[k].value == first->value ||
                    (k != p->desc->n_out + i && p->end[k].value == next->value);
        if (ends || state->is != FOLD_TO_C__STATE || state->port != i || first->size != state->size ||
            next->size != state->size || next->offset != second->size ||
            fold_to_c__count_readers(p, first->value) != 1 || fold_to_c__count_readers(p, next->value) < 0)
            continue;
        state->line = whole->line = second->size;
        whole->port = i;
    }
}

static int fold_to_c__is_loop(const fold_to_c__call *call)
{
    return call->op->kind == FOLD_TO_C__MAP && !call->broadcasts;
}

/* Whether a linear op is narrow, so that it sums in sixteen chains. */
static int fold_to_c__has_lanes(const fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_shape shape = fold_param_shape(p->m, call->param[0]);
    return fold_to_c__is_narrow(fold_to_c__size(&shape) / call->attr[FOLD_TO_C__OUTPUTS],
                                call->attr[FOLD_TO_C__OUTPUTS]);
}

/* Whether a call reads its operand i in whole vectors. */
static int fold_to_c__reads_vectors(const fold_to_c__printer *p, const fold_to_c__call *call, int i)
{
    const int starts =
        call->op->kind == FOLD_TO_C__LINEAR && call->attr[FOLD_TO_C__STARTS] && i + 1 == call->n_in;
    return starts ? !fold_to_c__has_lanes(p, call)
                  : fold_to_c__is_loop(call) && fold_to_c__in(p, call, i)->size > 1;
}

/* Returns the size of the parts in which all readers read a value, such as the gates of an LSTM. Without such
   parts, returns the value's size. */
static int fold_to_c__find_parts(const fold_to_c__printer *p, int value)
{
    const fold_to_c__value *v = &p->value[value];
    const fold_to_c__call *maker = &p->call[v->call];
    int part = 0;
    if (maker->op->kind == FOLD_TO_C__LINEAR
            ? fold_to_c__has_lanes(p, maker) || maker->attr[FOLD_TO_C__STARTS] || maker->out.rank > 1
            : !fold_to_c__is_loop(maker))
        return v->size;
    for (int i = 0; i < p->desc->n_out + p->desc->n_state; i++)
        if (p->end[i].value == value)
            return v->size;
    for (int pass = 0; pass < 2; pass++) /* first pass: vector readers determine the size; second pass: the
                                            others must fit */
        for (size_t c = (size_t)v->call + 1; c < p->n_calls; c++) {
            const fold_to_c__call *call = &p->call[c];
            for (int i = 0; i < call->n_in && call->needed; i++) {
                const fold_to_c__operand *operand = fold_to_c__in(p, call, i);
                const int vectors = fold_to_c__reads_vectors(p, call, i);
                const int size =
                    vectors && fold_to_c__is_loop(call) ? p->value[call->value].block : operand->size;
                if (operand->value != value)
                    continue;
                if (!pass && vectors) {
                    if ((part && part != size) || operand->offset % size || v->size % size)
                        return v->size;
                    part = size;
                } else if (pass && part && !vectors &&
                           operand->offset / part != (operand->offset + size - 1) / part)
                    return v->size;
            }
        }
    return part < FOLD_TO_C__LEAST_PART || v->size / part > FOLD_TO_C__PARTS ? v->size : part;
}

/* Splits values into parts, from the last value to the first. Each part of a map becomes a value. */
static void fold_to_c__cut(fold_to_c__printer *p)
{
    for (int i = (int)p->n_calls - 1; i >= 0 && !p->result.status; i--) {
        const fold_to_c__call *call = &p->call[i];
        if (!call->needed)
            continue;
        const int block = fold_to_c__find_parts(p, call->value), parts = p->value[call->value].size / block;
        p->value[call->value].block = block;
        if (!fold_to_c__is_loop(call) || parts == 1)
            continue;
        for (int k = 0; k < parts; k++) {
            const int part = FOLD_TO_C__ADD(p, value, n_values, values_room);
            if (part < 0)
                return;
            p->value[part] = p->value[call->value];
            p->value[part].size = block;
            p->value[part].part = -1;
            p->value[part].letter = (char)('a' + k);
            if (!k)
                p->value[call->value].part = part;
        }
    }
}

/* Returns the operand of one part of a map: floats of a value, or of one of its parts. */
static fold_to_c__operand fold_to_c__at(const fold_to_c__printer *p, fold_to_c__operand operand, int part,
                                        int block)
{
    const fold_to_c__value *v;
    if (operand.size > 1) {
        operand.offset += part * block;
        operand.size = block;
    }
    v = &p->value[operand.value];
    if (v->part >= 0) {
        operand.value = v->part + operand.offset / v->block;
        operand.offset %= v->block;
    }
    return operand;
}

static fold_to_c__operand fold_to_c__operand_of(const fold_to_c__printer *p, const fold_to_c__call *call,
                                                int i, int part)
{
    return fold_to_c__at(p, *fold_to_c__in(p, call, i), part,
                         fold_to_c__is_loop(call) ? p->value[call->value].block : 0);
}
static int fold_to_c__made_by(const fold_to_c__printer *p, const fold_to_c__item *item)
{
    const fold_to_c__value *v = &p->value[p->call[item->call].value];
    return v->part >= 0 ? v->part + item->part : p->call[item->call].value;
}

/* Whether a map can share the loop that computes its operand, because it reads only the same element. */
static int fold_to_c__is_beside(const fold_to_c__printer *p, const fold_to_c__operand *operand, int size)
{
    return operand->offset == 0 && operand->size == size && p->value[operand->value].size == size;
}

/* Returns the first loop of the map's size that comes after the stages that the map reads, or -1. */
static int fold_to_c__find_loop(const fold_to_c__printer *p, const fold_to_c__call *call, int part, int size)
{
    int from = 0;
    for (int i = 0; i < call->n_in; i++) {
        const fold_to_c__operand operand = fold_to_c__operand_of(p, call, i, part);
        const int made = p->value[operand.value].made;
        const int within = made >= 0 && p->stage[made].kind == FOLD_TO_C__MAP &&
                           p->stage[made].size == size && fold_to_c__is_beside(p, &operand, size);
        if (made + !within > from)
            from = made + !within;
    }
    for (; from < (int)p->n_stages; from++)
        if (p->stage[from].kind == FOLD_TO_C__MAP && p->stage[from].size == size && p->stage[from].part)
            return from;
    return -1;
}

/* Divides the calls into stages. Maps of one size share a loop; any other call is a separate stage. */
static void fold_to_c__stages(fold_to_c__printer *p)
{
    for (size_t c = 0; c < p->n_calls && !p->result.status; c++) {
        const fold_to_c__call *call = &p->call[c];
        if (!call->needed)
            continue;
        const int loop = fold_to_c__is_loop(call), block = p->value[call->value].block,
                  parts = loop ? p->value[call->value].size / block : 1;
        for (int part = 0; part < parts; part++) {
            int stage = loop ? fold_to_c__find_loop(p, call, part, block) : -1;
            const int item = FOLD_TO_C__ADD(p, item, n_items, items_room);
            if (item >= 0 && stage < 0 && (stage = FOLD_TO_C__ADD(p, stage, n_stages, stages_room)) >= 0) {
                p->stage[stage].kind = call->op->kind;
                p->stage[stage].size = block;
                p->stage[stage].call = (int)c;
                p->stage[stage].part = loop;
            }
            if (item < 0 || stage < 0)
                return;
            p->item[item].call = (int)c;
            p->item[item].part = part;
            p->item[item].stage = stage;
            p->value[fold_to_c__made_by(p, &p->item[item])].made = stage;
        }
    }
}

/* Notes that a stage reads a value from memory, possibly in whole vectors. */
static void fold_to_c__read(fold_to_c__printer *p, const fold_to_c__operand *operand, int stage, int vectors)
{
    fold_to_c__value *v = &p->value[operand->value];
    const int whole =
        operand->offset % v->block == 0 && (operand->size == v->block || operand->size == v->size);
    if (stage > v->last)
        v->last = stage;
    v->in_memory = 1;
    if (vectors) {
        v->slack |= !whole;
        if (v->is != FOLD_TO_C__MADE)
            v->copied |= v->size % 16 || operand->size % 16 || operand->offset % 16;
    }
}

/* Finds which values are read from memory, and the last stage that reads each. Goes from the last stage to
   the first, so that values which only unused parts read become unused as well. */
static void fold_to_c__readers(fold_to_c__printer *p)
{
    for (int i = 0; i < p->desc->n_out + p->desc->n_state; i++) {
        fold_to_c__read(p, &p->end[i], (int)p->n_stages, 0);
        p->value[p->end[i].value].copied |= p->value[p->end[i].value].is == FOLD_TO_C__STATE;
    }
    for (size_t i = p->n_items; i-- > 0;) {
        const fold_to_c__item *item = &p->item[i];
        const fold_to_c__call *call = &p->call[item->call];
        fold_to_c__value *made = &p->value[fold_to_c__made_by(p, item)];
        if (!fold_to_c__is_loop(call))
            made->in_memory = 1;
        if (!made->in_memory && !made->is_read)
            continue;
        for (int k = 0; k < call->n_in; k++) {
            const fold_to_c__operand operand = fold_to_c__operand_of(p, call, k, item->part);
            if (p->value[operand.value].made == item->stage && fold_to_c__is_loop(call))
                p->value[operand.value].is_read = 1;
            else
                fold_to_c__read(p, &operand, item->stage, fold_to_c__reads_vectors(p, call, k));
        }
        if (call->op->kind == FOLD_TO_C__CONV || (call->op->kind == FOLD_TO_C__LINEAR && call->out.rank > 1))
            made->slack = 1; /* each line ends with a whole vector */
    }
}

static int fold_to_c__room(int count, int block, int slack, int width)
{
    return count * ((block + width - 1) / width * width) + slack * (width - 1);
}

/* Whether the slot is large enough for the value, with vectors of any width. */
static int fold_to_c__holds(const fold_to_c__slot *slot, const fold_to_c__value *v)
{
    for (int w = 0; w < FOLD_TO_C__WIDTHS; w++)
        if (fold_to_c__room(slot->count, slot->block, slot->slack, fold_to_c__widths[w]) <
            fold_to_c__room(v->size / v->block, v->block, v->slack, fold_to_c__widths[w]))
            return 0;
    return 1;
}

static fold_to_c__value fold_to_c__value_like(const fold_to_c__slot *slot)
{
    fold_to_c__value v;
    memset(&v, 0, sizeof v);
    v.size = slot->count * slot->block;
    v.block = slot->block;
    v.slack = slot->slack;
    return v;
}

/* Whether a loop may write a value over a value that nothing reads later. Each vector must be read before it
   is written, and an element that every iteration reads must not be overwritten. */
static int fold_to_c__overwrites(const fold_to_c__printer *p, int value, int read)
{
    const int stage = p->value[value].made, block = p->value[read].block;
    int is_made = 0;
    if (stage < 0 || !p->stage[stage].part || p->value[read].last != stage)
        return 0;
    for (size_t i = 0; i < p->n_items; i++) {
        const fold_to_c__item *item = &p->item[i];
        if (item->stage != stage)
            continue;
        for (int k = 0; k < p->call[item->call].n_in; k++) {
            const fold_to_c__operand operand = fold_to_c__operand_of(p, &p->call[item->call], k, item->part);
            const int is_later = operand.offset >= block || operand.offset >= 16;
            if (operand.value == read && (operand.size == 1 || (is_made && !is_later)))
                return 0;
        }
        is_made |= fold_to_c__made_by(p, item) == value;
    }
    return is_made;
}

/* Places a value in a free slot: the smallest one that is large enough, or else an enlarged one, or else a
   new one. */
static void fold_to_c__place(fold_to_c__printer *p, int value)
{
    fold_to_c__value *v = &p->value[value];
    int best = -1, grows = -1;
    for (int i = 0; i < (int)p->n_slots; i++) {
        const fold_to_c__slot *slot = &p->slot[i];
        const fold_to_c__value as_slot = fold_to_c__value_like(slot);
        const fold_to_c__slot as_value = { v->size / v->block, v->block, v->slack, 0 };
        if (p->value[slot->value].last >= v->made && !fold_to_c__overwrites(p, value, slot->value))
            continue;
        if (fold_to_c__holds(slot, v))
            best =
                best < 0 || slot->count * slot->block < p->slot[best].count * p->slot[best].block ? i : best;
        else if (fold_to_c__holds(&as_value, &as_slot))
            grows = grows < 0 || slot->count * slot->block > p->slot[grows].count * p->slot[grows].block
                        ? i
                        : grows;
    }
    if (best < 0 && grows < 0)
        grows = FOLD_TO_C__ADD(p, slot, n_slots, slots_room);
    if (best < 0 && grows < 0)
        return;
    v->slot = best < 0 ? grows : best;
    if (best < 0) {
        p->slot[grows].count = v->size / v->block;
        p->slot[grows].block = v->block;
        p->slot[grows].slack = v->slack;
    }
    p->slot[v->slot].value = value;
}

static int fold_to_c__needs_slot(const fold_to_c__value *v)
{
    return v->part < 0 && !v->line &&
           (v->is == FOLD_TO_C__MADE ? v->made >= 0 && v->in_memory
                                     : v->is != FOLD_TO_C__CONSTANT && v->in_memory && v->copied);
}

static void fold_to_c__slots(fold_to_c__printer *p)
{
    for (int stage = -1; stage < (int)p->n_stages; stage++)
        for (size_t i = 0; i < p->n_values; i++)
            if (p->value[i].made == stage && fold_to_c__needs_slot(&p->value[i]))
                fold_to_c__place(p, (int)i);
    for (size_t i = 0; i < p->n_slots; i++)
        p->result.work_bytes += sizeof(float) * (size_t)(p->slot[i].count * p->slot[i].block);
}

/* Chooses the vector width. Wider vectors are not always faster: if half of their lanes are padding, half the
   width is better. */
static void fold_to_c__choose_width(fold_to_c__printer *p)
{
    double cost[FOLD_TO_C__WIDTHS] = { 0, 0, 0, 0 };
    for (size_t i = 0; i < p->n_items; i++) {
        const fold_to_c__call *call = &p->call[p->item[i].call];
        const fold_to_c__value *v = &p->value[call->value];
        const int is_product = call->op->kind == FOLD_TO_C__LINEAR;
        const double each = is_product ? 1.0 + fold_to_c__in(p, call, 0)->size : 20.0;
        if (!is_product && !fold_to_c__is_loop(call))
            continue;
        for (int w = 1; w < FOLD_TO_C__WIDTHS; w++)
            cost[w] +=
                each *
                fold_to_c__room(is_product ? v->size / v->block : 1, v->block, 0, fold_to_c__widths[w]) /
                fold_to_c__widths[w];
    }
    p->widest = cost[3] < 0.85 * cost[2] ? 16 : cost[2] < 0.85 * cost[1] ? 8 : 4;
}

/* ---- printing ---------------------------------------------------------------------------------- */

typedef struct fold_to_c__string {
    char text[160];
} fold_to_c__string;

/* Formats text into s; s->text may be one of the arguments. Returns nothing, since tcc 0.9.27 loses the
   arguments of a variadic function that returns a large struct. */
static void fold_to_c__format(fold_to_c__string *s, const char *format, ...)
{
    fold_to_c__string made;
    va_list args;
    va_start(args, format);
    fold_format(made.text, sizeof made.text, format, args);
    va_end(args);
    *s = made;
}

static fold_to_c__string fold_to_c__name_of(const fold_to_c__value *v)
{
    fold_to_c__string name;
    fold_to_c__format(&name, v->letter ? "t%d%c" : "t%d", v->number, v->letter);
    return name;
}

/* Returns the index of these weights, and adds them if they are new. */
static int fold_to_c__weight_of(fold_to_c__printer *p, const fold_to_c__weight *wanted)
{
    for (size_t i = 0; i < p->n_weights; i++) {
        const fold_to_c__weight *w = &p->weight[i];
        if (w->form == wanted->form && w->block == wanted->block && w->from == wanted->from &&
            w->inner == wanted->inner && w->columns == wanted->columns &&
            w->transposed == wanted->transposed && w->value == wanted->value &&
            w->param.id == wanted->param.id)
            return (int)i;
    }
    const int added = FOLD_TO_C__ADD(p, weight, n_weights, weights_room);
    if (added >= 0)
        p->weight[added] = *wanted;
    return added < 0 ? 0 : added;
}

static int fold_to_c__param_weight(fold_to_c__printer *p, fold_param param, int form, int from, int inner,
                                   int columns, int transposed, int block)
{
    const fold_to_c__weight w = { form, block, from, inner, columns, transposed, -1, param };
    if (!fold_param_value(p->m, param))
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT,
                        "weight '%.60s' is quantised; print before fold_model_quantize (for int8 set "
                        "fold_to_c_desc.bytes)",
                        fold_param_name(p->m, param));
    return fold_to_c__weight_of(p, &w);
}

static int fold_to_c__bias_weight(fold_to_c__printer *p, const fold_to_c__call *call, int columns, int block)
{
    return fold_to_c__param_weight(p, call->param[1], FOLD_TO_C__ROWS, 0, 1, columns, 0, block);
}

/* Returns a C expression for the address of an operand's floats. */
static fold_to_c__string fold_to_c__address(fold_to_c__printer *p, const fold_to_c__operand *operand)
{
    const fold_to_c__value *v = &p->value[operand->value];
    const int part = operand->offset / v->block, rest = operand->offset % v->block;
    fold_to_c__string at;
    if (v->is == FOLD_TO_C__CONSTANT) {
        const int size = v->size;
        const fold_to_c__weight w = { FOLD_TO_C__AS_IS, size, 0, 1, size, 0, operand->value, v->param };
        fold_to_c__format(&at, "@w%d", fold_to_c__weight_of(p, &w));
    } else if (v->is == FOLD_TO_C__MADE || (v->copied && v->in_memory))
        at = fold_to_c__name_of(v);
    else if (v->is == FOLD_TO_C__STATE)
        fold_to_c__format(&at, "s->%s", p->desc->state[v->port].name);
    else
        fold_to_c__format(&at, "%s", p->desc->in[v->port].name);
    if (part && v->block % 16)
        fold_to_c__format(&at, "%s + %d * @PAD(%d)", at.text, part, v->block);
    else if (part)
        fold_to_c__format(&at, "%s + %d", at.text, part * v->block);
    if (rest)
        fold_to_c__format(&at, "%s + %d", at.text, rest);
    return at;
}

/* Returns a C expression for the address of an operand. The call must not be in a loop of maps. */
static fold_to_c__string fold_to_c__place_of(fold_to_c__printer *p, const fold_to_c__call *call, int i)
{
    const fold_to_c__operand operand = fold_to_c__operand_of(p, call, i, 0);
    return fold_to_c__address(p, &operand);
}
static int fold_to_c__in_size(const fold_to_c__printer *p, const fold_to_c__call *call, int i)
{
    return fold_to_c__in(p, call, i)->size;
}

/* Returns e.g. "@PAD(20)", or the number itself if it fills whole vectors of any width. */
static fold_to_c__string fold_to_c__padded(int count, int block)
{
    fold_to_c__string room;
    if (block % 16 == 0)
        fold_to_c__format(&room, "%d", count * block);
    else if (count > 1)
        fold_to_c__format(&room, "%d * @PAD(%d)", count, block);
    else
        fold_to_c__format(&room, "@PAD(%d)", block);
    return room;
}

static fold_to_c__string fold_to_c__padded_value(const fold_to_c__value *v)
{
    return fold_to_c__padded(v->size / v->block, v->block);
}

static void fold_to_c__put_shape(fold_to_c__printer *p, const fold_shape *shape)
{
    for (int k = 0; k < shape->rank; k++)
        fold_to_c__put(p, k ? " x %d" : "[%d", shape->dim[k]);
    fold_to_c__put(p, "]");
}

/* Prints a comment, e.g. "t5 [64]: linear of lstm.W, in lstm". */
static void fold_to_c__put_comment(fold_to_c__printer *p, const fold_to_c__call *call, int value)
{
    fold_to_c__put(p, "    /* %s ", fold_to_c__name_of(&p->value[value]).text);
    fold_to_c__put_shape(p, &call->out);
    fold_to_c__put(p, ": ");
    fold_to_c__comment(p, call->name);
    for (int i = 0; i < 2 && call->param[i].id; i++) {
        fold_to_c__put(p, i ? ", " : " of ");
        fold_to_c__comment(p, fold_param_name(p->m, call->param[i]));
    }
    if (call->cell)
        fold_to_c__put(p, ", in ");
    fold_to_c__comment(p, call->cell);
    fold_to_c__put(p, " */\n");
}

/* Prints the declaration of a value's pointer. */
static void fold_to_c__declare(fold_to_c__printer *p, int value)
{
    const fold_to_c__value *v = &p->value[value];
    if (v->slot >= 0)
        fold_to_c__put(p, "    float *const %s = m%d;\n", fold_to_c__name_of(v).text, v->slot);
    if (v->is == FOLD_TO_C__MADE && v->line)
        fold_to_c__put(p, "    float *const %s = s->%s + s->%s_at;\n", fold_to_c__name_of(v).text,
                       p->desc->state[v->port].name, p->desc->state[v->port].name);
}

/* Prints code that writes zeros after a value that is read in whole vectors. */
static void fold_to_c__put_rest(fold_to_c__printer *p, const fold_to_c__value *v, int whole)
{
    if (v->line)
        return;
    if (!whole && v->size % 16)
        fold_to_c__put(p, "    @zeros(%s, %d, %s%s);\n", fold_to_c__name_of(v).text, v->size,
                       fold_to_c__padded_value(v).text, v->slack ? " + @WIDTH - 1" : "");
    else if (v->slack)
        fold_to_c__put(p, "    @zeros(%s, %s, %s + @WIDTH - 1);\n", fold_to_c__name_of(v).text,
                       fold_to_c__padded_value(v).text, fold_to_c__padded_value(v).text);
}

/* -- loops of maps -- */

/* Returns an operand of a map as a C expression. */
static fold_to_c__string fold_to_c__lane(fold_to_c__printer *p, const fold_to_c__call *call, int i, int part,
                                         int stage)
{
    const fold_to_c__operand operand = fold_to_c__operand_of(p, call, i, part);
    const fold_to_c__value *v = &p->value[operand.value];
    fold_to_c__string lane;
    if (v->made == stage && v->is == FOLD_TO_C__MADE)
        fold_to_c__format(&lane, "v%s", fold_to_c__name_of(v).text + 1);
    else if (operand.size == 1) {
        fold_to_c__operand whole = operand;
        whole.offset = 0;
        fold_to_c__format(&lane, "@ALL((%s)[%d])", fold_to_c__address(p, &whole).text, operand.offset);
    } else
        fold_to_c__format(&lane, "@LOAD(%s + i)", fold_to_c__address(p, &operand).text);
    return lane;
}

static void fold_to_c__put_map(fold_to_c__printer *p, const fold_to_c__op *op, const fold_to_c__string in[3],
                               float number)
{
    char text[32];
    if (p->scanning)
        fold_to_c__scan(p, op->text);
    for (const char *at = op->text; *at; at++) {
        const int is_word = at > op->text && ((at[-1] >= 'A' && at[-1] <= 'Z') || at[-1] == '@');
        const int goes_on = at[1] >= 'A' && at[1] <= 'Z';
        if (*at >= 'A' && *at <= 'C' && !is_word && !goes_on)
            fold_to_c__put(p, "%s", in[*at - 'A'].text);
        else if (*at == 'S' && !is_word && !goes_on)
            fold_to_c__put(p, "%s", fold_to_c__float(number, text));
        else
            fold_to_c__put(p, "%c", *at);
    }
}

static void fold_to_c__put_loop(fold_to_c__printer *p, int stage)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (p->item[i].stage == stage) {
            const int value = fold_to_c__made_by(p, &p->item[i]);
            if (p->value[value].in_memory)
                fold_to_c__declare(p, value);
        }
    fold_to_c__put(p, "    for (i = 0; i < %s; i += @WIDTH) {\n",
                   fold_to_c__padded(1, p->stage[stage].size).text);
    for (size_t i = 0; i < p->n_items; i++) {
        const fold_to_c__item *item = &p->item[i];
        const fold_to_c__call *call = &p->call[item->call];
        fold_to_c__string in[3];
        if (item->stage != stage)
            continue;
        const fold_to_c__value *v = &p->value[fold_to_c__made_by(p, item)];
        if (!v->in_memory && !v->is_read)
            continue;
        for (int k = 0; k < call->n_in && k < 3; k++)
            in[k] = fold_to_c__lane(p, call, k, item->part, stage);
        fold_to_c__put(p, "        const @V v%s = ", fold_to_c__name_of(v).text + 1);
        fold_to_c__put_map(p, call->op, in, call->number);
        fold_to_c__put(p, ";");
        if (call->cell)
            fold_to_c__put(p, " /* ");
        fold_to_c__comment(p, call->cell);
        if (call->cell) fold_to_c__put(p, " */");
        fold_to_c__put(p, "\n");
        if (v->in_memory)
            fold_to_c__put(p, "        @STORE(%s + i, v%s);\n", fold_to_c__name_of(v).text,
                           fold_to_c__name_of(v).text + 1);
    }
    fold_to_c__put(p, "    }\n");
    for (size_t i = 0; i < p->n_items; i++)
        if (p->item[i].stage == stage && p->value[fold_to_c__made_by(p, &p->item[i])].in_memory)
            fold_to_c__put_rest(p, &p->value[fold_to_c__made_by(p, &p->item[i])], 1);
}

/* -- products -- */

/* A segment of a product. It computes the columns of `to`, in blocks: `from` plus the product of `inner`
   values of x and the weights from row `row` on. */
typedef struct fold_to_c__segment {
    fold_param param;
    int transposed, row, inner, columns, block;
    int is_narrow, in_bytes;
    const char *to, *from, *x;
} fold_to_c__segment;

/* Whether a weight of a linear op, or a filter with several channels, becomes int8, by the rules of
   fold_model_quantize. */
static int fold_to_c__becomes_bytes(const fold_to_c__printer *p, fold_param param, int columns)
{
    const fold_shape shape = fold_param_shape(p->m, param);
    const int size = fold_to_c__size(&shape);
    return p->desc->bytes && size >= p->desc->bytes && columns >= 16 && size / columns <= 131072;
}

static int fold_to_c__segment_weight(fold_to_c__printer *p, const fold_to_c__segment *s, int form)
{
    const int whole = form == FOLD_TO_C__UNITS;
    return fold_to_c__param_weight(p, s->param, form, whole ? 0 : s->row, whole ? 1 : s->inner, s->columns,
                                   s->transposed, s->block);
}

/* Prints a product with few columns. Its inputs are padded with zeros to a multiple of sixteen. */
static void fold_to_c__put_few(fold_to_c__printer *p, const fold_to_c__segment *s)
{
    const int room = (s->inner + 15) / 16 * 16, weight = fold_to_c__segment_weight(p, s, FOLD_TO_C__COLUMNS);
    if (room == s->inner) {
        fold_to_c__put(p, "    @few(%s, %s, %d, %s, %d, @w%d);\n", s->to, s->from, s->columns, s->x, room,
                       weight);
        return;
    }
    fold_to_c__put(p, "    {\n        @ALIGNED float line[%d];\n        @take(line, %s, %d, %d);\n", room,
                   s->x, s->inner, room);
    fold_to_c__put(p, "        @few(%s, %s, %d, line, %d, @w%d);\n    }\n", s->to, s->from, s->columns, room,
                   weight);
}

/* Prints a product with int8 weights. Without `is_padded`, nothing is written after the columns, since other
   rows follow. */
static void fold_to_c__put_bytes(fold_to_c__printer *p, const fold_to_c__segment *s, int is_padded)
{
    const int weight = fold_to_c__segment_weight(p, s, FOLD_TO_C__BYTES),
              units = fold_to_c__segment_weight(p, s, FOLD_TO_C__UNITS);
    fold_to_c__string room = fold_to_c__padded(1, s->block);
    if (!is_padded)
        fold_to_c__format(&room, "%d", s->block);
    fold_to_c__put(p,
                   "    {\n        signed char bytes[%d];\n        const float unit = @to_bytes(bytes, %s, "
                   "%d);\n",
                   s->inner, s->x, s->inner);
    for (int block = 0; block < s->columns / s->block; block++) {
        fold_to_c__string at = { "" };
        if (block)
            fold_to_c__format(&at, " + %s", fold_to_c__padded(block, s->block).text);
        fold_to_c__put(p, "        @bytes(%s%s, %s%s, ", s->to, at.text, s->from,
                       strcmp(s->from, "0") ? at.text : "");
        fold_to_c__put(p, "%d, %s, bytes, unit, %d, @w%d + %d, ", s->block, room.text, s->inner, weight,
                       block * s->block * s->inner);
        fold_to_c__put(p, "@w%d%s);\n", units, at.text);
    }
    fold_to_c__put(p, "    }\n");
}

static void fold_to_c__put_segment(fold_to_c__printer *p, const fold_to_c__segment *s, int is_padded)
{
    if (s->in_bytes)
        fold_to_c__put_bytes(p, s, is_padded);
    else if (s->is_narrow)
        fold_to_c__put_few(p, s);
    else
        fold_to_c__put(p, "    @products(%s, %s, %s, %s, %d, @w%d);\n", s->to, s->from,
                       fold_to_c__padded(s->columns / s->block, s->block).text, s->x, s->inner,
                       fold_to_c__segment_weight(p, s, FOLD_TO_C__ROWS));
}

static void fold_to_c__put_linear(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__value *v = &p->value[call->value];
    const int columns = call->attr[FOLD_TO_C__OUTPUTS], starts = call->attr[FOLD_TO_C__STARTS],
              segments = call->n_in - starts;
    const int inner = fold_to_c__in(p, call, 0)->shape.dim[fold_to_c__in(p, call, 0)->shape.rank - 1],
              lines = fold_to_c__in_size(p, call, 0) / inner;
    const int block = lines > 1 ? columns : v->block;
    fold_to_c__string to = fold_to_c__name_of(v), from = { "0" }, x;
    fold_to_c__segment segment = { call->param[0],
                                   call->attr[FOLD_TO_C__TRANSPOSED],
                                   call->attr[FOLD_TO_C__FIRST_ROW],
                                   0,
                                   columns,
                                   block,
                                   fold_to_c__has_lanes(p, call),
                                   fold_to_c__becomes_bytes(p, call->param[0], columns),
                                   to.text,
                                   from.text,
                                   NULL };
    if (starts)
        from = fold_to_c__place_of(p, call, segments);
    if (starts && lines > 1)
        fold_to_c__format(&from, "%s + i * %d", from.text, columns);
    if (call->param[1].id)
        fold_to_c__format(&from, "@w%d", fold_to_c__bias_weight(p, call, columns, block));
    if (lines > 1) {
        fold_to_c__format(&to, "%s + i * %d", to.text, columns);
        fold_to_c__put(p, "    for (i = 0; i < %d; i++) {\n", lines);
    }
    for (int s = 0; s < segments; s++, segment.row += segment.inner, segment.from = to.text) {
        segment.inner = lines > 1 ? inner : fold_to_c__in_size(p, call, s);
        x = fold_to_c__place_of(p, call, s);
        if (lines > 1)
            fold_to_c__format(&x, "%s + i * %d", x.text, inner);
        segment.x = x.text;
        fold_to_c__put_segment(p, &segment, lines == 1);
    }
    if (lines > 1)
        fold_to_c__put(p, "    }\n");
    fold_to_c__put_rest(p, v, !segment.is_narrow && lines == 1);
}

/* -- other ops: plain loops over values in memory -- */

/* A shape seen as [outer][length][inner] around an axis; FOLD_ALL: [1][size][1]. */
typedef struct fold_to_c__axis {
    int outer, length, inner;
} fold_to_c__axis;
static fold_to_c__axis fold_to_c__around(const fold_shape *shape, int axis)
{
    fold_to_c__axis around = { 1, 1, 1 };
    if (axis == FOLD_ALL)
        around.length = fold_to_c__size(shape);
    for (int k = 0; k < shape->rank && axis != FOLD_ALL; k++)
        *(k < axis ? &around.outer : k == axis ? &around.length : &around.inner) *= shape->dim[k];
    return around;
}

/* Prints code that sums adjacent values in blocks of at most 512, and adds the sums of the blocks pairwise.
   `x` is the first value. */
static void fold_to_c__put_sum(fold_to_c__printer *p, const char *x, int from, int count)
{
    int left = 512;
    if (count <= 512) {
        fold_to_c__put(p, "@sum(%s + %d, %d)", x, from, count);
        return;
    }
    while (left < count - left)
        left *= 2;
    fold_to_c__put(p, "(");
    fold_to_c__put_sum(p, x, from, left);
    fold_to_c__put(p, " + ");
    fold_to_c__put_sum(p, x, from + left, count - left);
    fold_to_c__put(p, ")");
}

/* Prints an expression that sums every `inner`-th value, beginning with `first`. Values are added in chains
   of at most 32, and the sums of the chains are added pairwise. */
static void fold_to_c__put_apart_sum(fold_to_c__printer *p, const char *x, int first, int count, int inner)
{
    int left = 32;
    if (count <= 32) {
        fold_to_c__put(p, "@apart(%s + %d, %d, %d)", x, first * inner, count, inner);
        return;
    }
    while (left < count - left)
        left *= 2;
    fold_to_c__put(p, "(");
    fold_to_c__put_apart_sum(p, x, first, left, inner);
    fold_to_c__put(p, " + ");
    fold_to_c__put_apart_sum(p, x, first + left, count - left, inner);
    fold_to_c__put(p, ")");
}

/* Prints code that sums a line. `x` is its first value. */
static void fold_to_c__put_line_sum(fold_to_c__printer *p, const char *x, const fold_to_c__axis *axis)
{
    if (axis->inner == 1)
        fold_to_c__put_sum(p, x, 0, axis->length);
    else
        fold_to_c__put_apart_sum(p, x, 0, axis->length, axis->inner);
}

static void fold_to_c__put_concat(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__axis whole = fold_to_c__around(&call->out, call->attr[0]);
    const fold_to_c__string to = fold_to_c__name_of(&p->value[call->value]);
    for (int i = 0, at = 0; i < call->n_in; i++) {
        const int part = fold_to_c__in_size(p, call, i) / whole.outer,
                  is_there = p->value[call->value].line && !i;
        if (is_there) {
            at += part;
            continue;
        }
        if (whole.outer == 1)
            fold_to_c__put(p, "    memcpy(%s + %d, %s, %d * sizeof(float));\n", to.text, at,
                           fold_to_c__place_of(p, call, i).text, part);
        else
            fold_to_c__put(p,
                           "    for (i = 0; i < %d; i++) memcpy(%s + %d + i * %d, %s + i * %d, %d * "
                           "sizeof(float));\n",
                           whole.outer, to.text, at, whole.length * whole.inner,
                           fold_to_c__place_of(p, call, i).text, part, part);
        at += part;
    }
}

static void fold_to_c__put_slice(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__axis whole = fold_to_c__around(&fold_to_c__in(p, call, 0)->shape, call->attr[0]);
    const fold_to_c__string to = fold_to_c__name_of(&p->value[call->value]);
    const fold_to_c__string from = fold_to_c__place_of(p, call, 0);
    const int part = call->attr[2] * whole.inner, at = call->attr[1] * whole.inner;
    fold_to_c__put(p, "    for (i = 0; i < %d; i++) ", whole.outer);
    fold_to_c__put(p, "memcpy(%s + i * %d, %s + %d + i * %d, %d * sizeof(float));\n", to.text, part,
                   from.text, at, whole.length * whole.inner, part);
}

/* Prints loops over all elements of a shape, with the indices i0, i1, … of its axes. */
static void fold_to_c__put_nest(fold_to_c__printer *p, const fold_shape *shape)
{
    fold_to_c__put(p, "    {\n        int i0%s%s%s;\n", shape->rank > 1 ? ", i1" : "",
                   shape->rank > 2 ? ", i2" : "", shape->rank > 3 ? ", i3" : "");
    for (int k = 0; k < shape->rank; k++)
        fold_to_c__put(p, "        for (i%d = 0; i%d < %d; i%d++)\n", k, k, shape->dim[k], k);
}

/* Returns the index of an element, computed from the step of each axis. */
static fold_to_c__string fold_to_c__index(const fold_shape *shape, const int step[FOLD_TO_C__AXES])
{
    fold_to_c__string index = { "0" };
    for (int k = 0; k < shape->rank; k++)
        if (step[k])
            fold_to_c__format(&index, "%s + i%d * %d", index.text, k, step[k]);
    return index;
}

static void fold_to_c__steps(const fold_shape *shape, int step[FOLD_TO_C__AXES])
{
    for (int k = shape->rank, at = 1; k-- > 0; at *= shape->dim[k])
        step[k] = at;
}

static void fold_to_c__put_transpose(fold_to_c__printer *p, const fold_to_c__call *call)
{
    int to[FOLD_TO_C__AXES], from[FOLD_TO_C__AXES];
    fold_to_c__steps(&call->out, to);
    fold_to_c__steps(&fold_to_c__in(p, call, 0)->shape, from);
    const int swapped = from[call->attr[0]];
    from[call->attr[0]] = from[call->attr[1]];
    from[call->attr[1]] = swapped;
    fold_to_c__put_nest(p, &call->out);
    fold_to_c__put(p, "            %s[%s] = (%s)[", fold_to_c__name_of(&p->value[call->value]).text,
                   fold_to_c__index(&call->out, to).text, fold_to_c__place_of(p, call, 0).text);
    fold_to_c__put(p, "%s];\n    }\n", fold_to_c__index(&call->out, from).text);
}

/* Prints a map whose operands are broadcast. */
static void fold_to_c__put_broadcast(fold_to_c__printer *p, const fold_to_c__call *call)
{
    static const struct {
        const char *name, *text;
    } plain[] = { { "minimum", "a < b || a != a ? a : b" }, { "maximum", "a > b || a != a ? a : b" } };
    const char *text = call->op->text;
    int step[FOLD_TO_C__AXES];
    fold_to_c__put_nest(p, &call->out);
    fold_to_c__put(p, "        {\n");
    for (int i = 0; i < call->n_in; i++) {
        const fold_shape *shape = &fold_to_c__in(p, call, i)->shape;
        for (int k = call->out.rank, at = 1; k-- > 0;) {
            const int axis = k - (call->out.rank - shape->rank), dim = axis < 0 ? 1 : shape->dim[axis];
            step[k] = dim == 1 ? 0 : at;
            at *= dim;
        }
        fold_to_c__put(p, "            const float %c = (%s)[%s];\n", "ab"[i],
                       fold_to_c__place_of(p, call, i).text, fold_to_c__index(&call->out, step).text);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i].name, call->op->name))
            text = plain[i].text;
    fold_to_c__steps(&call->out, step);
    fold_to_c__put(p, "            %s[%s] = ", fold_to_c__name_of(&p->value[call->value]).text,
                   fold_to_c__index(&call->out, step).text);
    for (; *text; text++)
        fold_to_c__put(p, "%c", *text == 'A' ? 'a' : *text == 'B' ? 'b' : *text);
    fold_to_c__put(p, ";\n        }\n    }\n");
}

static void fold_to_c__put_softmax(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__axis axis = fold_to_c__around(&call->out, call->out.rank - 1);
    const fold_to_c__string to = fold_to_c__name_of(&p->value[call->value]),
                            from = fold_to_c__place_of(p, call, 0);
    const int log = call->op->kind == FOLD_TO_C__LOG_SOFTMAX;
    fold_to_c__put(p,
                   "    for (i = 0; i < %d; i++) {\n        const float *source = %s + i * %d;\n        "
                   "float *target = %s + i * %d;\n",
                   axis.outer, from.text, axis.length, to.text, axis.length);
    fold_to_c__put(p,
                   "        const float most = @largest(source, %d), sum = @exp_sum(target, source, most, "
                   "%d);\n",
                   axis.length, axis.length);
    fold_to_c__put(p, log ? "        const float shift = -(most + @first(@log(@ALL(sum))));\n        int k;\n"
                          : "        const float factor = 1.0f / sum;\n        int k;\n");
    fold_to_c__put(p,
                   log ? "        for (k = 0; k < %d; k++) target[k] = source[k] + shift;\n    }\n"
                       : "        for (k = 0; k < %d; k++) target[k] *= factor;\n    }\n",
                   axis.length);
}

/* Prints code for one line. `x` is its first value, `y` the result. */
static void fold_to_c__put_line(fold_to_c__printer *p, const char *name, const fold_to_c__axis *axis)
{
    const int length = axis->length, inner = axis->inner;
    char text[32];
    const char *share = fold_to_c__float(1.0f / (float)length, text);
    if (!strcmp(name, "amax") || !strcmp(name, "amin")) {
        fold_to_c__put(p, "            target[j] = @first_of(source, %d, %d, %s);\n", length, inner,
                       strcmp(name, "amax") ? "-1.0f" : "1.0f");
    } else if (!strcmp(name, "prod")) {
        fold_to_c__put(p,
                       "            target[j] = source[0];\n            for (k = 1; k < %d; k++) target[j] "
                       "*= source[k * %d];\n",
                       length, inner);
    } else if (!strcmp(name, "logsumexp")) {
        fold_to_c__put(p, "            const float most = @first_of(source, %d, %d, 1.0f);\n", length, inner);
        fold_to_c__put(p, "            const float shift = most - most == 0.0f ? most : most != most ? most "
                          ": 0.0f;\n");
        fold_to_c__put(p,
                       "            for (k = 0; k < %d; k++) line[k] = @first(@exp(@ALL(source[k * %d] - "
                       "shift)));\n",
                       length, inner);
        fold_to_c__put(p, "            target[j] = @first(@log(@ALL(");
        if (inner == 1)
            fold_to_c__put_sum(p, "line", 0, length);
        else
            fold_to_c__put_apart_sum(p, "line", 0, length, 1);
        fold_to_c__put(p, "))) + shift;\n");
    } else {
        fold_to_c__put(p, "            target[j] = ");
        fold_to_c__put_line_sum(p, "source", axis);
        fold_to_c__put(p, ";\n");
        if (strcmp(name, "sum") != 0)
            fold_to_c__put(p, "            target[j] *= %s;\n", share);
    }
    if (strcmp(name, "variance") != 0)
        return;
    fold_to_c__put(p,
                   "            for (k = 0; k < %d; k++) line[k] = source[k * %d] - target[j], line[k] *= "
                   "line[k];\n            target[j] = ",
                   length, inner);
    if (inner == 1)
        fold_to_c__put_sum(p, "line", 0, length);
    else
        fold_to_c__put_apart_sum(p, "line", 0, length, 1);
    fold_to_c__put(p, ";\n            target[j] *= %s;\n", share);
}

static void fold_to_c__put_reduce(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const char *name = call->op->name;
    const fold_to_c__axis axis = fold_to_c__around(&fold_to_c__in(p, call, 0)->shape, call->attr[0]);
    const int has_line = !strcmp(name, "variance") || !strcmp(name, "logsumexp"),
              counts = has_line || !strcmp(name, "prod");
    if (has_line)
        fold_to_c__put(p, "    {\n    float line[%d];\n", axis.length);
    fold_to_c__put(p,
                   "    for (i = 0; i < %d; i++) {\n        float *target = %s + i * %d;\n        int j%s;\n",
                   axis.outer, fold_to_c__name_of(&p->value[call->value]).text, axis.inner,
                   counts ? ", k" : "");
    fold_to_c__put(p,
                   "        for (j = 0; j < %d; j++) {\n            const float *source = %s + i * %d + j;\n",
                   axis.inner, fold_to_c__place_of(p, call, 0).text, axis.length * axis.inner);
    fold_to_c__put_line(p, name, &axis);
    fold_to_c__put(p, "        }\n    }\n%s", has_line ? "    }\n" : "");
}

static void fold_to_c__put_cumsum(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__axis axis = fold_to_c__around(&call->out, call->attr[0]);
    const char *text = "    for (i = 0; i < %d; i++) {\n        const float *source = %s + i * %d;\n        "
                       "float *target = %s + i * %d;\n        int k;\n";
    const int size = axis.length * axis.inner;
    fold_to_c__put(p, text, axis.outer, fold_to_c__place_of(p, call, 0).text, size,
                   fold_to_c__name_of(&p->value[call->value]).text, size);
    fold_to_c__put(p,
                   "        for (k = 0; k < %d; k++) target[k] = k < %d ? source[k] : target[k - %d] + "
                   "source[k];\n    }\n",
                   size, axis.inner, axis.inner);
}

/* Prints code that sets `factor` to the mean square of a row, and `source` to the row (minus its mean, if
   `centred`). If a sum overflows or underflows, the code computes it again from the row times a power of two,
   as in fold__standardise. */
static void fold_to_c__put_deviation(fold_to_c__printer *p, int count, int centred, const char *share,
                                     const char *epsilon)
{
    fold_to_c__put(p, "        {\n        float power = 1.0f;\n        const float *const row = source;\n    "
                      "    for (;;) {\n");
    if (centred)
        fold_to_c__put(p, "            float shift;\n");
    fold_to_c__put(p,
                   "            if (power != 1.0f) {\n                for (k = 0; k < %d; k++) target[k] = "
                   "row[k] * power;\n"
                   "                source = target;\n            }\n",
                   count);
    if (centred) {
        fold_to_c__put(p, "            shift = -(");
        fold_to_c__put_sum(p, "source", 0, count);
        fold_to_c__put(p,
                       " * %s);\n            for (k = 0; k < %d; k++) target[k] = source[k] + shift;\n       "
                       "     source = target;\n",
                       share, count);
    }
    fold_to_c__put(p, "            factor = @dot_of(source, source, %d) * %s + %s * power * power;\n", count,
                   share, epsilon);
    fold_to_c__put(p,
                   "            if (power != 1.0f || (factor > 0x1p-100f && factor <= 0x1.fffffep+127f)) "
                   "break;\n"
                   "            power = factor < 1.0f ? 0x1p+80f : 0x1p-80f;\n        }\n"
                   "        if (factor == 0.0f) factor = %s; /* all values are equal */\n        }\n",
                   epsilon);
}

static void fold_to_c__put_norm(fold_to_c__printer *p, const fold_to_c__call *call)
{
    char share[32], epsilon[32];
    const int centred = call->n_in > 2, count = call->out.dim[call->out.rank - 1];
    fold_to_c__float(1.0f / (float)count, share);
    fold_to_c__float(call->number, epsilon);
    fold_to_c__put(p,
                   "    for (i = 0; i < %d; i++) {\n        const float *source = %s + i * %d, *gain = %s;\n",
                   fold_to_c__size(&call->out) / count, fold_to_c__place_of(p, call, 0).text, count,
                   fold_to_c__place_of(p, call, 1).text);
    if (centred)
        fold_to_c__put(p, "        const float *bias = %s;\n", fold_to_c__place_of(p, call, 2).text);
    fold_to_c__put(p, "        float *target = %s + i * %d, factor;\n        int k;\n",
                   fold_to_c__name_of(&p->value[call->value]).text, count);
    fold_to_c__put_deviation(p, count, centred, share, epsilon);
    fold_to_c__put(p, "        factor = 1.0f / @first(@root(@ALL(factor)));\n");
    fold_to_c__put(p, "        for (k = 0; k < %d; k++) {\n            target[k] = source[k] * factor;\n",
                   count);
    fold_to_c__put(p, centred
                          ? "            target[k] = @FUSE(target[k], gain[k], bias[k]);\n        }\n    }\n"
                          : "            target[k] = target[k] * gain[k];\n        }\n    }\n");
}

static void fold_to_c__put_matmul(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_shape *left = &fold_to_c__in(p, call, 0)->shape, *right = &fold_to_c__in(p, call, 1)->shape;
    const int count = left->rank == 3 ? left->dim[0] : 1,
              rows = left->rank == 1 ? 1 : left->dim[left->rank - 2];
    const int inner = left->dim[left->rank - 1], columns = right->rank == 1 ? 1 : right->dim[right->rank - 1];
    fold_to_c__put(p,
                   "    for (i = 0; i < %d; i++) {\n        const float *source = %s + i * %d, *factors = %s "
                   "+ i / %d * %d;\n",
                   count * rows, fold_to_c__place_of(p, call, 0).text, inner,
                   fold_to_c__place_of(p, call, 1).text, rows, inner * columns);
    fold_to_c__put(p, "        float *target = %s + i * %d;\n        int j, k;\n",
                   fold_to_c__name_of(&p->value[call->value]).text, columns);
    if (fold_to_c__is_narrow(inner, columns)) {
        fold_to_c__put(p, "        float column[%d];\n        for (j = 0; j < %d; j++) {\n", inner, columns);
        fold_to_c__put(p, "            for (k = 0; k < %d; k++) column[k] = factors[k * %d + j];\n", inner,
                       columns);
        fold_to_c__put(p, "            target[j] = 0.0f + @dot_of(source, column, %d);\n        }\n    }\n",
                       inner);
        return;
    }
    fold_to_c__put(p,
                   "        for (j = 0; j < %d; j++) target[j] = 0.0f;\n        for (k = 0; k < %d; k++)\n",
                   columns, inner);
    fold_to_c__put(p,
                   "            for (j = 0; j < %d; j++) target[j] = @FUSE(source[k], factors[k * %d + j], "
                   "target[j]);\n    }\n",
                   columns, columns);
}

/* -- windows over a grid or a line -- */

typedef struct fold_to_c__filter {
    int height, width, channels, tall, wide, stride, dilation, above, left, lines, columns, outputs;
} fold_to_c__filter;
static fold_to_c__filter fold_to_c__filter_of(const fold_shape *in, const fold_to_c__call *call)
{
    const int grid = in->rank == 3, *attr = call->attr;
    fold_to_c__filter filter;
    filter.height = grid ? in->dim[0] : 1;
    filter.width = in->dim[in->rank - 2];
    filter.channels = in->dim[in->rank - 1];
    filter.tall = attr[0] & 0x7fff;
    filter.wide = attr[0] >> 16;
    filter.stride = attr[1] & 0x7fff;
    filter.dilation = attr[1] >> 16;
    filter.above = grid ? attr[2] : 0;
    filter.left = attr[2];
    filter.outputs = attr[3] ? attr[3] : filter.channels;
    filter.lines = grid ? call->out.dim[0] : 1;
    filter.columns = call->out.dim[call->out.rank - 2];
    return filter;
}

/* Prints loops over those taps of one position that are inside x, for pools and depthwise filters. */
static void fold_to_c__put_taps(fold_to_c__printer *p, const fold_to_c__call *call,
                                const fold_to_c__filter *filter, const char *begin, const char *tap,
                                const char *end)
{
    fold_to_c__put(p,
                   "    for (i = 0; i < %d; i++) {\n        const float *source = %s;\n        float *target "
                   "= %s + i * %d;\n",
                   filter->lines * filter->columns, fold_to_c__place_of(p, call, 0).text,
                   fold_to_c__name_of(&p->value[call->value]).text, filter->channels);
    fold_to_c__put(p,
                   "        const int top = i / %d * %d - %d, left = i %% %d * %d - %d;\n        int tap, j, "
                   "seen = 0;\n",
                   filter->columns, filter->stride, filter->above, filter->columns, filter->stride,
                   filter->left);
    fold_to_c__put(p,
                   "        for (j = 0; j < %d; j++) target[j] = %s;\n        for (tap = 0; tap < %d; tap++) "
                   "{\n",
                   filter->channels, begin, filter->tall * filter->wide);
    fold_to_c__put(p, "            const int row = top + tap / %d * %d, column = left + tap %% %d * %d;\n",
                   filter->wide, filter->dilation, filter->wide, filter->dilation);
    fold_to_c__put(p, "            const float *from = source + (row * %d + column) * %d;\n", filter->width,
                   filter->channels);
    fold_to_c__put(p,
                   "            if (row < 0 || row >= %d || column < 0 || column >= %d) continue;\n          "
                   "  seen++;\n",
                   filter->height, filter->width);
    fold_to_c__put(p, "            for (j = 0; j < %d; j++) target[j] = %s;\n        }\n        %s\n    }\n",
                   filter->channels, tap, end);
}

static void fold_to_c__put_pool(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__filter filter = fold_to_c__filter_of(&fold_to_c__in(p, call, 0)->shape, call);
    const int mean = call->op->kind == FOLD_TO_C__MEAN_POOL;
    fold_to_c__string end;
    fold_to_c__format(&end, "for (j = 0; j < %d; j++) target[j] *= 1.0f / (float)seen;", filter.channels);
    fold_to_c__put_taps(p, call, &filter, mean ? "0.0f" : "@infinity(-1.0f)",
                        mean ? "from[j] + target[j]"
                             : "from[j] > target[j] || from[j] != from[j] ? from[j] : target[j]",
                        mean ? end.text : "(void)seen;");
}

/* Prints a filter that mixes channels, multiplying patches of x by weights. A padded x is copied first. */
static void fold_to_c__put_filter(fold_to_c__printer *p, const fold_to_c__call *call,
                                  const fold_to_c__filter *filter)
{
    const int across = filter->dilation == 1 ? filter->wide : 1, runs = filter->tall * filter->wide / across,
              length = across * filter->channels;
    const int copied = runs > 1 && length < 16, whole = runs * length, outputs = filter->outputs,
              is_narrow = fold_to_c__is_narrow(whole, outputs);
    const int in_bytes = filter->channels > 1 && fold_to_c__becomes_bytes(p, call->param[0], outputs);
    const int pitch = (filter->width + 2 * filter->left) * filter->channels,
              padded = (filter->height + 2 * filter->above) * pitch;
    const fold_to_c__string to = fold_to_c__name_of(&p->value[call->value]);
    fold_to_c__string bias = { "0" }, from;
    if (call->param[1].id)
        fold_to_c__format(&bias, "@w%d", fold_to_c__bias_weight(p, call, outputs, outputs));
    fold_to_c__put(p, "    {\n    const float *source = %s;\n", fold_to_c__place_of(p, call, 0).text);
    if (filter->left) {
        fold_to_c__put(p, "    float padded[%d] = { 0.0f };\n    for (i = 0; i < %d; i++)\n", padded,
                       filter->height);
        fold_to_c__put(p,
                       "        memcpy(padded + (i + %d) * %d + %d, source + i * %d, %d * sizeof(float));\n  "
                       "  source = padded;\n",
                       filter->above, pitch, filter->left * filter->channels,
                       filter->width * filter->channels, filter->width * filter->channels);
    }
    fold_to_c__put(p,
                   "    for (i = 0; i < %d; i++) {\n        const float *at = source + i / %d * %d + i %% %d "
                   "* %d;\n",
                   filter->lines * filter->columns, filter->columns, filter->stride * pitch, filter->columns,
                   filter->stride * filter->channels);
    fold_to_c__put(p, "        float *target = %s + i * %d;\n", to.text, outputs);
    const int patches = (is_narrow || in_bytes) && (copied || runs == 1);
    fold_to_c__segment segment = { call->param[0], 0,         0,         patches ? whole : length,
                                   outputs,        outputs,   is_narrow, in_bytes,
                                   "target",       bias.text, NULL };
    if (patches)
        fold_to_c__put(p, "        float patch[%d];\n", whole);
    for (int run = 0; run < runs; run++) {
        fold_to_c__format(&from, "at + %d",
                          run / (runs / filter->tall) * filter->dilation * pitch +
                              run % (runs / filter->tall) * filter->dilation * filter->channels);
        if (patches) {
            fold_to_c__put(p, "        memcpy(patch + %d, %s, %d * sizeof(float));\n", run * length,
                           from.text, length);
            if (run + 1 < runs)
                continue;
        }
        segment.x = patches ? "patch" : from.text;
        fold_to_c__put_segment(p, &segment, 0);
        segment.row += length;
        segment.from = "target";
    }
    fold_to_c__put(p, "    }\n    }\n");
}

static void fold_to_c__put_conv(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__filter filter = fold_to_c__filter_of(&fold_to_c__in(p, call, 0)->shape, call);
    fold_to_c__string begin = { "0.0f" }, tap;
    if (call->attr[3]) {
        fold_to_c__put_filter(p, call, &filter);
        return;
    }
    if (call->param[1].id)
        fold_to_c__format(&begin, "@w%d[j]",
                          fold_to_c__bias_weight(p, call, filter.channels, filter.channels));
    fold_to_c__format(&tap, "@FUSE(from[j], @w%d[tap * @PAD(%d) + j], target[j])",
                      fold_to_c__param_weight(p, call->param[0], FOLD_TO_C__ROWS, 0,
                                              filter.tall * filter.wide, filter.channels, 0, filter.channels),
                      filter.channels);
    fold_to_c__put_taps(p, call, &filter, begin.text, tap.text, "(void)seen;");
}

/* -- user-defined ops -- */

static void fold_to_c__put_own(fold_to_c__printer *p, const fold_to_c__call *call)
{
    fold_seen seen = call->seen;
    seen.out[0] = &call->out;
    fold_to_c__put(p, "    {\n");
    for (int i = 0; i < call->n_in; i++) {
        seen.in[i] = &fold_to_c__in(p, call, i)->shape;
        fold_to_c__put(p, "        const float *own_in%d = %s;\n", i, fold_to_c__place_of(p, call, i).text);
    }
    fold_to_c__put(p, "        float *own_out = %s;\n", fold_to_c__name_of(&p->value[call->value]).text);
    if (p->desc->print_op(&seen, fold_to_c__bytes, p, p->desc->print_op_user))
        fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "%.60s cannot be printed: fold_to_c_desc.print_op refused it",
                        call->name);
    fold_to_c__put(p, "    }\n");
}

static void fold_to_c__put_call(fold_to_c__printer *p, const fold_to_c__call *call)
{
    const fold_to_c__string to = fold_to_c__name_of(&p->value[call->value]);
    fold_to_c__put_comment(p, call, call->value);
    fold_to_c__declare(p, call->value);
    switch (call->op->kind) {
    case FOLD_TO_C__LINEAR: fold_to_c__put_linear(p, call); return;
    case FOLD_TO_C__MAP: fold_to_c__put_broadcast(p, call); break;
    case FOLD_TO_C__MATMUL: fold_to_c__put_matmul(p, call); break;
    case FOLD_TO_C__CONV: fold_to_c__put_conv(p, call); break;
    case FOLD_TO_C__MAX_POOL:
    case FOLD_TO_C__MEAN_POOL: fold_to_c__put_pool(p, call); break;
    case FOLD_TO_C__DOT:
        fold_to_c__put(p, "    %s[0] = @dot_of(%s, %s, %d);\n", to.text, fold_to_c__place_of(p, call, 0).text,
                       fold_to_c__place_of(p, call, 1).text, fold_to_c__in_size(p, call, 0));
        break;
    case FOLD_TO_C__SOFTMAX:
    case FOLD_TO_C__LOG_SOFTMAX: fold_to_c__put_softmax(p, call); break;
    case FOLD_TO_C__REDUCE: fold_to_c__put_reduce(p, call); break;
    case FOLD_TO_C__CUMSUM: fold_to_c__put_cumsum(p, call); break;
    case FOLD_TO_C__NORM: fold_to_c__put_norm(p, call); break;
    case FOLD_TO_C__CONCAT: fold_to_c__put_concat(p, call); break;
    case FOLD_TO_C__SLICE: fold_to_c__put_slice(p, call); break;
    case FOLD_TO_C__TRANSPOSE: fold_to_c__put_transpose(p, call); break;
    case FOLD_TO_C__PICK:
        fold_to_c__put(p, "    %s[0] = (%s)[%d];\n", to.text, fold_to_c__place_of(p, call, 0).text,
                       (int)call->seen.data);
        break;
    default: fold_to_c__put_own(p, call); break;
    }
    fold_to_c__put_rest(p, &p->value[call->value], 0);
}

/* -- weights -- */

static float fold_to_c__param_at(const fold_to_c__printer *p, const fold_to_c__weight *w, int row, int column)
{
    const float *values = fold_param_value(p->m, w->param);
    const fold_shape shape = fold_param_shape(p->m, w->param);
    if (!w->transposed)
        return values[(size_t)row * (size_t)w->columns + (size_t)column];
    return values[(size_t)column * (size_t)(fold_to_c__size(&shape) / w->columns) + (size_t)row];
}

/* Returns the largest magnitude in a parameter's column; 0 if fold.h treats the column as zeros. */
static float fold_to_c__largest_of(const fold_to_c__printer *p, const fold_to_c__weight *w, int column)
{
    const fold_shape shape = fold_param_shape(p->m, w->param);
    float largest = 0.0f;
    for (int row = 0; row < fold_to_c__size(&shape) / w->columns; row++)
        largest = fmaxf(largest, fabsf(fold_to_c__param_at(p, w, row, column)));
    return largest < 0x1p-119f ? 0.0f : largest;
}

static float fold_to_c__weight_at(const fold_to_c__printer *p, const fold_to_c__weight *w, int row,
                                  int column)
{
    if (w->form == FOLD_TO_C__AS_IS)
        return p->value[w->value].constant[column];
    if (w->form == FOLD_TO_C__UNITS)
        return fold_to_c__largest_of(p, w, column) / 127.0f;
    return fold_to_c__param_at(p, w, w->from + row, column);
}

/* Returns a value that is to be rounded to int8. If it is infinite or NaN, sets an error and returns 0. */
static float fold_to_c__finite_at(fold_to_c__printer *p, const fold_to_c__weight *w, int row, int column)
{
    const float value = fold_to_c__weight_at(p, w, row, column);
    if (value - value == 0.0f)
        return value;
    fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "'%.60s' has an infinity or a NaN, which int8 cannot hold",
                    w->param.id ? fold_param_name(p->m, w->param) : "a constant");
    return 0.0f;
}

static void fold_to_c__put_byte_column(fold_to_c__printer *p, const fold_to_c__weight *w, int column)
{
    const float largest = fold_to_c__largest_of(p, w, column),
                factor = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (int row = 0; row < w->inner; row++)
        fold_to_c__put(p, "%s%d,", row % 24 ? " " : "\n    ",
                       (int)nearbyintf(fold_to_c__finite_at(p, w, row, column) * factor));
}

/* Prints floats, padded with zeros to whole vectors or to a multiple of sixteen. */
static void fold_to_c__put_floats(fold_to_c__printer *p, const fold_to_c__weight *w, int row, int column,
                                  int count, int down)
{
    char text[32];
    for (int i = 0; i < count; i++) {
        const float value = fold_to_c__weight_at(p, w, down ? row + i : row, down ? column : column + i);
        fold_to_c__put(p, "%s%s,", i % 8 ? " " : "\n    ", fold_to_c__float(value, text));
    }
    if (down)
        for (int i = count; i % 16; i++)
            fold_to_c__put(p, " 0.0f,");
    else if (count % 16)
        fold_to_c__put(p, " @REST_%d", count % 16);
}

static void fold_to_c__put_weight(fold_to_c__printer *p, int index)
{
    const fold_to_c__weight *w = &p->weight[index];
    const int slack = w->form == FOLD_TO_C__AS_IS && p->value[w->value].slack,
              is_bytes = w->form == FOLD_TO_C__BYTES;
    const int by_columns = w->form == FOLD_TO_C__COLUMNS || is_bytes,
              room = is_bytes ? w->inner : (w->inner + 15) / 16 * 16;
    fold_to_c__put(p, "/* ");
    fold_to_c__comment(p, w->param.id ? fold_param_name(p->m, w->param) : "a constant");
    if (w->form == FOLD_TO_C__UNITS)
        fold_to_c__put(p, ": scales of its columns");
    else if (w->form != FOLD_TO_C__AS_IS)
        fold_to_c__put(p, " [%d x %d]", w->inner, w->columns);
    if (w->from)
        fold_to_c__put(p, ", from row %d on", w->from);
    if (by_columns)
        fold_to_c__put(p, ", column by column");
    fold_to_c__put(p,
                   is_bytes ? " */\nstatic const signed char @w%d["
                            : " */\nstatic @ALIGNED const float @w%d[",
                   index);
    if (by_columns)
        fold_to_c__put(p, "%d] = {", w->columns * room);
    else
        fold_to_c__put(p, "%d * %s%s] = {", w->inner, fold_to_c__padded(w->columns / w->block, w->block).text,
                       slack ? " + @WIDTH - 1" : "");
    for (int row = 0; row < (by_columns ? w->columns : w->inner) && !p->stopped && !p->result.status; row++)
        for (int block = 0; block < (by_columns ? 1 : w->columns / w->block); block++)
            if (is_bytes)
                fold_to_c__put_byte_column(p, w, row);
            else if (by_columns)
                fold_to_c__put_floats(p, w, 0, row, w->inner, 1);
            else
                fold_to_c__put_floats(p, w, row, block * w->block, w->block, 0);
    fold_to_c__put(p, "\n};\n");
    p->result.weight_bytes +=
        p->scanning ? 0 : (is_bytes ? 1 : sizeof(float)) * (size_t)w->inner * (size_t)w->columns;
}

/* Prints the zeros that pad parts of n columns to whole vectors. */
static void fold_to_c__put_rests(fold_to_c__printer *p)
{
    int used[16] = { 0 };
    for (size_t i = 0; i < p->n_weights; i++)
        if (p->weight[i].form != FOLD_TO_C__COLUMNS && p->weight[i].form != FOLD_TO_C__BYTES)
            used[p->weight[i].block % 16] = 1;
    for (int w = 1; w < FOLD_TO_C__WIDTHS; w++) {
        const int width = fold_to_c__widths[FOLD_TO_C__WIDTHS - w];
        fold_to_c__put(p, w == 1 ? "#if @WIDTH == %d\n" : "#elif @WIDTH == %d\n", width);
        for (int n = 1; n < 16; n++) {
            if (!used[n])
                continue;
            fold_to_c__put(p, "#define @REST_%d", n);
            for (int i = n; i % width; i++)
                fold_to_c__put(p, " 0.0f,");
            fold_to_c__put(p, "\n");
        }
    }
    fold_to_c__put(p, "#else\n");
    for (int n = 1; n < 16; n++)
        if (used[n])
            fold_to_c__put(p, "#define @REST_%d\n", n);
    fold_to_c__put(p, "#endif\n\n");
}

/* -- the file -- */

static int fold_to_c__agents(const fold_to_c__printer *p)
{
    return p->desc->agents > 1 ? p->desc->agents : 1;
}

static void fold_to_c__put_arguments(fold_to_c__printer *p)
{
    const char *open = "";
    if (p->desc->n_state)
        fold_to_c__put(p, "@state *s"), open = ", ";
    for (int i = 0; i < p->desc->n_in; i++, open = ", ")
        fold_to_c__put(p, "%sconst float *%s", open, p->desc->in[i].name);
    for (int i = 0; i < p->desc->n_out; i++, open = ", ")
        fold_to_c__put(p, "%sfloat *%s", open, p->desc->out[i].name);
    if (!*open)
        fold_to_c__put(p, "void");
}

static void fold_to_c__put_declarations(fold_to_c__printer *p)
{
    const fold_to_c_desc *desc = p->desc;
    fold_to_c__put(p, "/* Made by fold.h's examples/fold_to_c.h");
    if (desc->source)
        fold_to_c__put(p, " from ");
    fold_to_c__comment(p, desc->source);
    fold_to_c__put(p, ".\n");
    for (int i = 0; i < desc->n_in + desc->n_out; i++) {
        const fold_to_c_port *port = i < desc->n_in ? &desc->in[i] : &desc->out[i - desc->n_in];
        const fold_shape shape = fold_node_shape(p->f, port->node);
        fold_to_c__put(p, "   %s %s ", i < desc->n_in ? "reads " : "writes", port->name);
        fold_to_c__put_shape(p, &shape);
        fold_to_c__put(p, "\n");
    }
    if (fold_to_c__agents(p) > 1)
        fold_to_c__put(p,
                       "   A step computes %d agents, which are stored one after another in the arrays and "
                       "in `s`.\n",
                       fold_to_c__agents(p));
    fold_to_c__put(p, "   Other files include it after #define @DECLARATIONS. */\n#ifndef "
                      "@IS_DECLARED\n#define @IS_DECLARED\n");
    fold_to_c__put(p, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    if (desc->n_state)
        fold_to_c__put(p, "typedef struct @state {\n");
    for (int i = 0; i < desc->n_state; i++) {
        const fold_shape shape = fold_node_shape(p->f, desc->state[i].node);
        const int value = p->id[desc->state[i].node.id] - 1, line = p->value[value].line;
        const int room = line ? 2 * fold_to_c__size(&shape) + line : fold_to_c__size(&shape);
        fold_to_c__put(p, "    float %s[%d];\n", desc->state[i].name, room);
        if (line)
            fold_to_c__put(p, "    int %s_at; /* index of its first value; grows by %d a step */\n",
                           desc->state[i].name, line);
        p->result.state_bytes += p->scanning ? 0 : sizeof(float) * (size_t)room;
    }
    if (desc->n_state)
        fold_to_c__put(p, "} @state;\n/* Sets the initial state%s. */\nvoid @reset(@state *s);\n",
                       fold_to_c__agents(p) > 1 ? " of one agent" : "");
    fold_to_c__put(p, "/* Computes one step. */\nvoid @step(");
    fold_to_c__put_arguments(p);
    fold_to_c__put(p, ");\n#ifdef __cplusplus\n}\n#endif\n#endif\n\n#ifndef @DECLARATIONS\n");
}

static void fold_to_c__put_step(fold_to_c__printer *p)
{
    const fold_to_c_desc *desc = p->desc;
    fold_to_c__put(p, fold_to_c__agents(p) > 1 ? "static void @one(" : "void @step(");
    fold_to_c__put_arguments(p);
    fold_to_c__put(p, ")\n{\n");
    for (size_t i = 0; i < p->n_slots; i++)
        fold_to_c__put(p, "    @ALIGNED float m%d[%s%s];\n", (int)i,
                       fold_to_c__padded(p->slot[i].count, p->slot[i].block).text,
                       p->slot[i].slack ? " + @WIDTH - 1" : "");
    fold_to_c__put(p, "    int i;\n");
    for (int i = 0; i < desc->n_in; i++)
        fold_to_c__put(p, "    (void)%s;\n", desc->in[i].name);
    for (size_t i = 0; i < p->n_values; i++) {
        const fold_to_c__value *v = &p->value[i];
        if (v->is == FOLD_TO_C__MADE || v->slot < 0)
            continue;
        fold_to_c__declare(p, (int)i);
        fold_to_c__put(p, "    @take(%s, %s%s, %d, %s%s);\n", fold_to_c__name_of(v).text,
                       v->is == FOLD_TO_C__STATE ? "s->" : "",
                       (v->is == FOLD_TO_C__STATE ? desc->state : desc->in)[v->port].name, v->size,
                       fold_to_c__padded_value(v).text, v->slack ? " + @WIDTH - 1" : "");
    }
    for (int stage = 0; stage < (int)p->n_stages && !p->result.status; stage++)
        if (p->stage[stage].part)
            fold_to_c__put_loop(p, stage);
        else
            fold_to_c__put_call(p, &p->call[p->stage[stage].call]);
    for (int i = 0; i < desc->n_out + desc->n_state; i++) {
        const fold_to_c__operand *end = &p->end[i];
        const fold_to_c__value *v = &p->value[end->value];
        const char *name = i < desc->n_out ? "" : desc->state[i - desc->n_out].name;
        if (i >= desc->n_out && v->line) {
            fold_to_c__put(p,
                           "    s->%s_at += %d;\n    if (s->%s_at > %d) {\n        memmove(s->%s, s->%s + "
                           "s->%s_at, %d * sizeof(float));\n",
                           name, v->line, name, end->size, name, name, name, end->size);
            fold_to_c__put(p, "        s->%s_at = 0;\n    }\n", name);
            continue;
        }
        fold_to_c__put(p, "    memcpy(%s%s, %s, %d * sizeof(float));\n", i < desc->n_out ? "" : "s->",
                       i < desc->n_out ? desc->out[i].name : desc->state[i - desc->n_out].name,
                       fold_to_c__address(p, end).text, end->size);
    }
    fold_to_c__put(p, "    (void)i;\n}\n\n");
}

static void fold_to_c__put_agents(fold_to_c__printer *p)
{
    const fold_to_c_desc *desc = p->desc;
    const char *open = "";
    fold_to_c__put(p, "void @step(");
    fold_to_c__put_arguments(p);
    fold_to_c__put(p, ")\n{\n    int agent;\n    for (agent = 0; agent < %d; agent++)\n        @one(",
                   fold_to_c__agents(p));
    if (desc->n_state)
        fold_to_c__put(p, "s + agent"), open = ", ";
    for (int i = 0; i < desc->n_in + desc->n_out; i++, open = ", ") {
        const fold_to_c_port *port = i < desc->n_in ? &desc->in[i] : &desc->out[i - desc->n_in];
        const fold_shape shape = fold_node_shape(p->f, port->node);
        fold_to_c__put(p, "%s%s + agent * %d", open, port->name, fold_to_c__size(&shape));
    }
    fold_to_c__put(p, ");\n}\n\n");
}

static void fold_to_c__put_reset(fold_to_c__printer *p)
{
    char text[32];
    fold_to_c__put(p, "void @reset(@state *s)\n{\n    memset(s, 0, sizeof *s);\n");
    for (int i = 0; i < p->desc->n_state; i++) {
        const float *values = fold_value(p->f, p->desc->state[i].node);
        const fold_shape shape = fold_node_shape(p->f, p->desc->state[i].node);
        for (int k = 0; values && k < fold_to_c__size(&shape); k++)
            if (values[k] != 0.0f)
                fold_to_c__put(p, "    s->%s[%d] = %s;\n", p->desc->state[i].name, k,
                               fold_to_c__float(values[k], text));
    }
    fold_to_c__put(p, "}\n\n");
}

static void fold_to_c__put_file(fold_to_c__printer *p)
{
    fold_to_c__put_declarations(p);
    fold_to_c__put(p, "#define @WIDEST %d\n", p->widest);
    for (size_t i = 0; i < sizeof fold_to_c__head / sizeof *fold_to_c__head; i++)
        fold_to_c__text(p, fold_to_c__head[i]);
    for (size_t i = 0; i < sizeof p->wanted && !p->scanning; i++) {
        if (!p->wanted[i])
            continue;
        if (fold_to_c__helpers[i].only)
            fold_to_c__put(p, "#if %s\n", fold_to_c__helpers[i].only);
        fold_to_c__text(p, fold_to_c__helpers[i].text);
        fold_to_c__put(p, fold_to_c__helpers[i].only ? "#endif\n\n" : "\n");
    }
    fold_to_c__put_rests(p);
    for (size_t i = 0; i < p->n_weights; i++)
        fold_to_c__put_weight(p, (int)i);
    fold_to_c__put(p, "\n");
    if (p->desc->n_state)
        fold_to_c__put_reset(p);
    fold_to_c__put_step(p);
    if (fold_to_c__agents(p) > 1)
        fold_to_c__put_agents(p);
    fold_to_c__put(p, "#if defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)\n#pragma GCC "
                      "pop_options\n#endif\n");
    fold_to_c__put(p, "#endif /* @DECLARATIONS */\n");
}

FOLD_API fold_to_c_desc fold_to_c_desc_default(void)
{
    fold_to_c_desc desc;
    memset(&desc, 0, sizeof desc);
    return desc;
}

static void fold_to_c__plan(fold_to_c__printer *p)
{
    const fold_to_c_desc *desc = p->desc;
    fold_to_c__resolve(p);
    p->end = (fold_to_c__operand *)calloc((size_t)(desc->n_out + desc->n_state) + 1, sizeof *p->end);
    if (!p->end)
        fold_to_c__fail(p, FOLD_NO_MEMORY, "no memory");
    for (int i = 0; i < desc->n_out + desc->n_state && !p->result.status; i++) {
        const fold_to_c_port *port = i < desc->n_out ? &desc->out[i] : &desc->state[i - desc->n_out];
        const fold_shape shape = fold_node_shape(p->f, port->node);
        if (fold_to_c__locate(p, i < desc->n_out ? port->node : port->next,
                              i < desc->n_out ? "output" : "next of state", port->name, &p->end[i]) &&
            i >= desc->n_out && fold_to_c__size(&shape) != p->end[i].size)
            fold_to_c__fail(p, FOLD_BAD_ARGUMENT, "state '%.60s' has %d floats, but its next %d", port->name,
                            fold_to_c__size(&shape), p->end[i].size);
    }
    if (!p->result.status)
        fold_to_c__mark(p);
    if (!p->result.status)
        fold_to_c__find_lines(p);
    if (!p->result.status)
        fold_to_c__cut(p);
    if (!p->result.status)
        fold_to_c__stages(p);
    if (p->result.status)
        return;
    fold_to_c__readers(p);
    fold_to_c__slots(p);
    fold_to_c__choose_width(p);
}

static void fold_to_c__free(fold_to_c__printer *p)
{
    free(p->value);
    free(p->call);
    free(p->operand);
    free(p->id);
    free(p->end);
    free(p->stage);
    free(p->item);
    free(p->slot);
    free(p->weight);
}

FOLD_API fold_to_c_result fold_to_c(fold_ctx *f, const fold_to_c_desc *desc, fold_writer *write, void *user)
{
    const fold_to_c_desc none = fold_to_c_desc_default();
    fold_to_c__printer p;
    memset(&p, 0, sizeof p);
    p.f = f;
    p.m = fold_ctx_model(f);
    p.desc = desc ? desc : &none;
    p.name = p.desc->name ? p.desc->name : "network";
    p.write = write;
    p.user = user;
    p.stopped = !write;
    if (!f || !desc)
        fold_to_c__fail(&p, FOLD_BAD_ARGUMENT, "f or desc is NULL");
    else
        fold_to_c__check_names(&p);
    const fold_status seen = p.result.status ? FOLD_OK : fold_ctx_visit(f, fold_to_c__see, &p);
    if (seen)
        fold_to_c__fail(&p, seen, "the recording cannot be visited");
    if (!p.result.status)
        fold_to_c__plan(&p);
    /* the first pass only finds the helpers to print */
    for (p.scanning = 1; p.scanning >= 0 && !p.result.status; p.scanning--)
        fold_to_c__put_file(&p);
    if (p.stopped)
        fold_to_c__fail(&p, FOLD_IO, "the writer stopped");
    fold_to_c__free(&p);
    return p.result;
}
#endif /* FOLD_TO_C_IMPLEMENTATION */
