/* peak.h - what this core can do at most: fused multiply-adds a second in the instruction set in use, and bytes a second. */

static clockid_t now_clock = CLOCK_MONOTONIC; /* --clock processor: CLOCK_PROCESS_CPUTIME_ID */
static double asking;                         /* seconds that a question of that clock takes, which are not counted */
static double now_seconds(void)
{
    static double asked;
    struct timespec t;
    clock_gettime(now_clock, &t);
    asked += asking;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - asked;
}

static volatile float peak_sink;
typedef struct peak_kind { void (*run)(long); double flop_per_loop; void (*read)(const float *, size_t); } peak_kind;

#if FOLD__X86 && (defined(__GNUC__) || defined(__clang__))
/* Twelve independent chains hide a latency of up to six cycles on two units. The loop counts down in %0. */
#define PEAK_CHAINS(op, reg) \
    op(0, reg) op(1, reg) op(2, reg) op(3, reg) op(4, reg) op(5, reg) op(6, reg) op(7, reg) op(8, reg) op(9, reg) \
    op(10, reg) op(11, reg)
#define PEAK_CLEAR(i, reg) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define PEAK_FMA(i, reg) "vfmadd231ps %%" #reg "12, %%" #reg "12, %%" #reg #i "\n\t"
#define PEAK_CLEAR_SSE(i, reg) "xorps %%xmm" #i ", %%xmm" #i "\n\t"
#define PEAK_MUL(i) "mulps %%xmm12, %%xmm" #i "\n\t"
#define PEAK_ADD(i) "addps %%xmm12, %%xmm" #i "\n\t"
#define PEAK_CLOBBERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12"

static void peak_avx512(long loops)
{
    __asm__ volatile(PEAK_CHAINS(PEAK_CLEAR, xmm) "vxorps %%xmm12, %%xmm12, %%xmm12\n"
                     "1:\n\t" PEAK_CHAINS(PEAK_FMA, zmm) "sub $1, %0\n\tjnz 1b\n\tvzeroupper"
                     : "+r"(loops) : : PEAK_CLOBBERS, "cc");
}
static void peak_avx2(long loops)
{
    __asm__ volatile(PEAK_CHAINS(PEAK_CLEAR, xmm) "vxorps %%xmm12, %%xmm12, %%xmm12\n"
                     "1:\n\t" PEAK_CHAINS(PEAK_FMA, ymm) "sub $1, %0\n\tjnz 1b\n\tvzeroupper"
                     : "+r"(loops) : : PEAK_CLOBBERS, "cc");
}
/* Without fused operations: half multiplications, half additions. */
static void peak_sse(long loops)
{
    __asm__ volatile(PEAK_CHAINS(PEAK_CLEAR_SSE, xmm) "xorps %%xmm12, %%xmm12\n"
                     "1:\n\t" PEAK_MUL(0) PEAK_ADD(1) PEAK_MUL(2) PEAK_ADD(3) PEAK_MUL(4) PEAK_ADD(5)
                     PEAK_MUL(6) PEAK_ADD(7) PEAK_MUL(8) PEAK_ADD(9) PEAK_MUL(10) PEAK_ADD(11)
                     "sub $1, %0\n\tjnz 1b"
                     : "+r"(loops) : : PEAK_CLOBBERS, "cc");
}
/* Reads n floats, a multiple of 128. */
static void peak_read(const float *a, size_t n)
{
    const float *end = a + n;
    __asm__ volatile("1:\n\t" "movups (%0), %%xmm0\n\t" "movups 16(%0), %%xmm1\n\t" "movups 32(%0), %%xmm2\n\t" "movups 48(%0), %%xmm3\n\t"
                     "add $64, %0\n\tcmp %1, %0\n\tjb 1b"
                     : "+r"(a) : "r"(end) : "xmm0", "xmm1", "xmm2", "xmm3", "cc", "memory");
}
static void peak_read_avx2(const float *a, size_t n)
{
    const float *end = a + n;
    __asm__ volatile("1:\n\t" "vmovups (%0), %%ymm0\n\t" "vmovups 32(%0), %%ymm1\n\t" "vmovups 64(%0), %%ymm2\n\t" "vmovups 96(%0), %%ymm3\n\t"
                     "sub $-128, %0\n\tcmp %1, %0\n\tjb 1b\n\tvzeroupper"
                     : "+r"(a) : "r"(end) : "xmm0", "xmm1", "xmm2", "xmm3", "cc", "memory");
}
static void peak_read_avx512(const float *a, size_t n)
{
    const float *end = a + n;
    __asm__ volatile("1:\n\t" "vmovups (%0), %%zmm0\n\t" "vmovups 64(%0), %%zmm1\n\t" "vmovups 128(%0), %%zmm2\n\t" "vmovups 192(%0), %%zmm3\n\t"
                     "add $256, %0\n\tcmp %1, %0\n\tjb 1b\n\tvzeroupper"
                     : "+r"(a) : "r"(end) : "xmm0", "xmm1", "xmm2", "xmm3", "cc", "memory");
}

static peak_kind peak_of(const char *isa)
{
    const peak_kind avx512 = { peak_avx512, 12 * 16 * 2, peak_read_avx512 };
    const peak_kind avx2 = { peak_avx2, 12 * 8 * 2, peak_read_avx2 }, sse = { peak_sse, 12 * 4, peak_read };
    const int bits = !strcmp(isa, "avx512") ? 512 : !strcmp(isa, "avx2") ? 256 : !strcmp(isa, "portable") ? 128 : fold__best_pass();
    return bits >= 512 ? avx512 : bits >= 256 ? avx2 : sse;
}

#else
static void peak_read(const float *a, size_t n)
{
    float s[8] = { 0 };
    for (size_t i = 0; i < n; i += 8)
        for (size_t k = 0; k < 8; k++) s[k] += a[i + k];
    for (int k = 1; k < 8; k++) s[0] += s[k];
    peak_sink = s[0];
}
static void peak_plain(long loops)
{
    float a[32] = { 0 };
    const float x = peak_sink;
    while (loops--)
        for (int i = 0; i < 32; i++) a[i] = a[i] * x + x;
    for (int i = 1; i < 32; i++) a[0] += a[i];
    peak_sink = a[0];
}
static peak_kind peak_of(const char *isa)
{
    const peak_kind plain = { peak_plain, 64, peak_read };
    (void)isa;
    return plain;
}
#endif

static double seconds_of_loops(peak_kind kind, long loops)
{
    const double start = now_seconds();
    kind.run(loops);
    return now_seconds() - start;
}

/* FLOP a second: the best of five runs of some milliseconds. */
static double fma_peak(const char *isa)
{
    const peak_kind kind = peak_of(isa);
    long loops = 50000;
    double least = 1e9;
    while (seconds_of_loops(kind, loops) < 3e-3) loops *= 2; /* meanwhile the wide units wake up */
    for (int i = 0; i < 5; i++) least = fmin(least, seconds_of_loops(kind, loops));
    return (double)loops * kind.flop_per_loop / least;
}

/* Bytes a second at which this many bytes are read over and over, from whichever cache or memory holds them. */
static double read_bandwidth(const char *isa, size_t bytes)
{
    const peak_kind kind = peak_of(isa);
    const size_t n = (bytes / sizeof(float) / 128 + 1) * 128, passes = ((size_t)8 << 20) / (n * sizeof(float)) + 1;
    float *a = (float *)calloc(n, sizeof *a);
    double best = 0;
    if (!a) return 0;
    for (size_t i = 0; i < n; i++) a[i] = (float)(i & 7);
    for (int trial = 0; trial < 4; trial++) {
        const double start = now_seconds();
        for (size_t pass = 0; pass < passes; pass++) kind.read(a, n);
        const double rate = (double)(passes * n * sizeof *a) / (now_seconds() - start);
        if (rate > best) best = rate;
    }
    free(a);
    return best;
}
