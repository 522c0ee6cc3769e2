/* test_kernels.c - the kernels room: every instruction set against plain loops (bit for bit where the contract says so), maps against
   reference.h, a table of errors in ulp, and a small timing.
   cc -O2 tests/test_kernels.c -o test_kernels -lm && ./test_kernels [quick|short|full|time [set]] [word…]
   Words run the tests that have one of them in their names. */
#define _POSIX_C_SOURCE 200809L
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "reference.h"
#include <time.h>
#ifdef __clang__
#define NO_CONTRACT _Pragma("STDC FP_CONTRACT OFF")
#else
#define NO_CONTRACT
#endif

/* A test is named by its function and by the kernel set that it tests, such as "test_product [avx2]". */
static int begin(const char *call, const char *isa)
{
    char name[80];
    snprintf(name, sizeof name, "%.*s [%s]", (int)strcspn(call, "("), call, isa);
    return check_begin(name);
}
#define RUN(isa, call) do { if (begin(#call, isa)) { call; check_end(); } } while (0)
/* What was checked, of which set, and three numbers that say with what. */
#define HOLDS(ok, what, isa, a, b, c) check_that(!!(ok), __FILE__, __LINE__, "%s [%s] %d %d %d", what, isa, a, b, c)

static check_random rng = { 12345 };
static uint32_t rnd(void) { return (uint32_t)(random_bits(&rng) >> 32); }
static int below(int n) { return random_below(&rng, n); }
static uint32_t bits_of(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
static float float_of(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }
static int same(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }
static float value(void) /* the upper bits are the value, the lower ones its kind */
{
    static const float special[4] = { 0.0f, -0.0f, 1e-40f, -3e-39f };
    const uint32_t r = rnd(), kind = r & 127u;
    if (kind < 20) return special[kind / 5];
    return ((float)(r >> 8) / 8388608.0f - 1.0f) * (kind < 42 ? 1e-19f : 1.0f);
}
static float *floats(size_t n)       /* exactly n, so that a sanitizer sees a step beyond */
{
    float *p = (float *)malloc((n ? n : 1) * sizeof *p);
    size_t i;
    for (i = 0; i < n; i++) p[i] = value();
    return p;
}
/* the kernel set's multiply-add */
static int fused(const fold__kernels *f)
{
#ifdef FOLD_REPRODUCIBLE
    (void)f;
    return 1;
#else
    return f->name[0] != 'p'; /* portable: asked at every product of two numbers */
#endif
}
static float ma(const fold__kernels *f, float a, float b, float c)
{
    NO_CONTRACT
    volatile float p;
    if (fused(f)) return fmaf(a, b, c);
    p = a * b;
    return p + c;
}
static float tree(const float *lane)
{
    NO_CONTRACT
    float t[16];
    int h, i;
    memcpy(t, lane, sizeof t);
    for (h = 8; h; h /= 2) for (i = 0; i < h; i++) t[i] = t[i] + t[i + h];
    return t[0];
}
static float narrow_dot(const fold__kernels *f, const float *a, const float *w, ptrdiff_t step, int k)
{
    float lane[16] = { 0.0f };
    int i, padded = (k + 15) / 16 * 16;
    for (i = 0; i < padded; i++) lane[i % 16] = ma(f, i < k ? a[i] : 0.0f, i < k ? w[i * step] : 0.0f, lane[i % 16]);
    return tree(lane);
}

/* rows x n floats behind row pointers, in random order, or as a plain matrix */
typedef struct { fold_rows r; float *data; float **ptr; } matrix;
static matrix make(int rows, int n, int pointers)
{
    matrix m;
    int i, j;
    m.data = floats((size_t)rows * (size_t)n);
    m.ptr = (float **)malloc((size_t)(rows + 1) * sizeof *m.ptr);
    m.r.base = pointers ? NULL : m.data; m.r.stride = pointers ? 0 : n; m.r.rows = pointers ? m.ptr : NULL;
    for (i = 0; i < rows; i++) m.ptr[i] = m.data + (ptrdiff_t)i * n;
    for (i = rows - 1; i > 0; i--) { float *t = m.ptr[i]; j = below(i + 1); m.ptr[i] = m.ptr[j]; m.ptr[j] = t; }
    return m;
}
static void drop(matrix *m) { free(m->data); free(m->ptr); }

static float *packed(const fold__kernels *f, const float *w, int k, int n, int transposed)
{
    const int rows = transposed ? n : k;
    float *p = floats(fold__pack_floats(f, k, n)), *t = NULL;
    int i, j, count;
    if (transposed) {
        t = floats((size_t)k * (size_t)n);
        for (i = 0; i < k; i++) for (j = 0; j < n; j++) t[j * k + i] = w[i * n + j];
    }
    for (i = 0; i < rows; i += count) {      /* in parts, as the optimisers do */
        count = 1 + below(rows - i);
        f->pack(p, t ? t : w, k, n, transposed, i, count);
    }
    free(t);
    return p;
}

static void test_product(const fold__kernels *f, int tries)
{
    static const int ns[] = { 1,  2,  3,  4,  5,  7,  8,   15,  16,  17,  23,  24,  31,  32,  33,  40,  47, 48,
                              49, 63, 64, 65, 80, 96, 100, 112, 128, 129, 144, 160, 192, 200, 257, 300, 450 };
    static const int ms[] = { 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 48, 250 };
    int t, i, r, j, s, exact = strcmp(f->name, "cblas") != 0;
    for (t = 0; t < tries; t++) {
        int n = ns[below((int)(sizeof ns / sizeof *ns))], m = ms[below((int)(sizeof ms / sizeof *ms))];
        int n_seg = below(7), k[6] = { 0 }, first[6] = { 0 }, total = below(9), init_kind = below(4);
        int part = below(2), col = part ? below(n) : 0, wanted = part ? 1 + below(n - col) : n;       /* a range of columns */
        if (part && below(3) == 0) { col = n / 3; wanted = n - 2 * (n / 3); }
        matrix a[6], init, y;
        float *w, *pack, *expect, *scratch;
        fold__seg seg[6];
        fold__product p;
        for (s = 0; s < n_seg; s++) { k[s] = below(4) == 0 ? 0 : 1 + below(m > 60 ? 20 : 75); first[s] = total; total += k[s] + below(3); }
        const int narrow = n < 16 && total > 4 * n, in_place = below(3) == 0, beyond = in_place && !narrow ? FOLD__BEYOND : 0;
        w = floats((size_t)total * (size_t)n + (size_t)beyond);
        for (i = 0; i < beyond; i++) w[total * n + i] = NAN;
        pack = packed(f, w, total, n, below(2));
        for (s = 0; s < n_seg; s++) {
            a[s] = make(m, k[s], below(2));
            seg[s].input = a[s].r; seg[s].inner = k[s];
            seg[s].weights = in_place ? w + (size_t)first[s] * (size_t)n : pack + fold__pack_row(f, total, n, (size_t)first[s]);
        }
        init = make(init_kind == 1 ? 1 : m, wanted, init_kind == 2);
        if (init_kind == 1) init.r.stride = 0;
        y = make(m, wanted, below(2));
        memset(&p, 0, sizeof p);
        p.rows = m; p.columns = wanted; p.n_seg = n_seg; p.seg = seg; p.inner = total; p.output = y.r;
        p.n_pack = part ? n : below(2) * n; p.col = col;
        p.in_place = in_place ? (size_t)n : 0;
        if (init_kind == 1 || init_kind == 2) p.init = init.r;
        if (init_kind == 3) p.init = y.r;
        expect = (float *)malloc(((size_t)m * (size_t)wanted + 1) * sizeof *expect);
        memcpy(expect, y.data, (size_t)m * (size_t)wanted * sizeof *expect);
        for (r = 0; r < m; r++) for (j = 0; j < wanted; j++) {
            float *to = expect + (fold__at(&y.r, r) - y.data) + j;
            float acc = init_kind == 1 || init_kind == 2 ? fold__at(&init.r, r)[j] : init_kind == 3 ? *to : 0.0f;
            for (s = 0; s < n_seg; s++) {
                const float *x = fold__at(&seg[s].input, r), *v = w + (ptrdiff_t)first[s] * n + col + j;
                if (narrow) acc = acc + narrow_dot(f, x, v, n, k[s]);
                else for (i = 0; i < k[s]; i++) acc = ma(f, x[i], v[i * n], acc);
            }
            *to = acc;
        }
        scratch = floats(fold__product_floats(f, (size_t)m, total, n) + (in_place ? fold__narrow_stride(total) : 0));
        f->product(&p, scratch);
        for (i = 0; i < m * wanted; i++) {
            int ok = exact ? same(expect[i], y.data[i]) : fabs((double)expect[i] - (double)y.data[i]) <= 1e-4 * (1.0 + fabs((double)expect[i]));
            HOLDS(ok, "product", f->name, m, part ? -n : n, total);
            if (!ok) break;
        }
        for (s = 0; s < n_seg; s++) drop(&a[s]);
        drop(&init); drop(&y);
        free(w); free(pack); free(expect); free(scratch);
    }
}

/* What the contract says of a row and of a column in bytes, in its plainest form. Returns the scale. */
static float bytes_of(const float *x, ptrdiff_t step, int n, int *q)
{
    NO_CONTRACT
    float most = 0;
    int i, finite = 1;
    for (i = 0; i < n; i++) {
        const float magnitude = fabsf(x[i * step]);
        if (!(magnitude <= FLT_MAX)) finite = 0;
        if (magnitude > most) most = magnitude;
    }
    for (i = 0; i < n; i++) {
        volatile float scaled = finite && most >= ldexpf(1, -119) ? x[i * step] * (127 / most) : 0;
        q[i] = (int)lrintf(scaled);
    }
    return !finite ? NAN : most < ldexpf(1, -119) ? 0 : most / 127;
}
/* A row of x, sometimes of one magnitude, of zeros, or with what is not finite. */
static void byte_row(float *x, int n)
{
    const int kind = below(12), at = below(n);
    int i;
    for (i = 0; i < n; i++) {
        if (kind == 0) x[i] = below(2) ? 3.5f : -3.5f;
        if (kind == 1) x[i] = below(2) ? 0.0f : -0.0f;
        if (kind == 2) x[i] = 1e-37f;
        if (kind == 3) x[i] = (float)(below(509) - 254) / 2;
        if (kind == 4) x[i] *= 1e38f;
    }
    if (kind == 3) x[at] = 127;
    if (kind == 5) x[at] = below(2) ? INFINITY : -INFINITY;
    if (kind == 6) x[at] = NAN;
}
static void test_byte_product(const fold__kernels *f, int tries)
{
    static const int ns[] = { 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 112, 128, 130, 200 };
    static const int ms[] = { 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 13, 23, 24, 25, 60 };
    const fold__int8_kernels *kernels = fold__int8_kernels_for(f);
    int t, i, r, j, s;
    for (t = 0; t < tries; t++) {
        const int n = ns[below((int)(sizeof ns / sizeof *ns))], m = ms[below((int)(sizeof ms / sizeof *ms))], transposed = below(2);
        int n_seg = 1 + below(4), k[4], first[4], total = below(9), most = 0, init_kind = below(4), *qx = (int *)malloc(400 * sizeof *qx);
        matrix a[4], init, y;
        fold__seg seg[4];
        fold__product p;
        for (s = 0; s < n_seg; s++) { k[s] = 1 + below(90); first[s] = total; total += k[s] + below(3); if (k[s] > most) most = k[s]; }
        float *w = floats((size_t)total * (size_t)n), *expect = (float *)malloc(((size_t)m * (size_t)n + 1) * sizeof *expect);
        int *qw = (int *)malloc((size_t)total * (size_t)n * sizeof *qw);
        float *scales = (float *)malloc((size_t)n * sizeof *scales), *scratch = floats(fold__int8_floats(kernels, SIZE_MAX, most));
        const size_t size = fold__format_size(kernels, total, n);
        uint8_t *bytes = (uint8_t *)malloc(size);
        const ptrdiff_t step = transposed ? 1 : n, next = transposed ? total : 1;
        for (j = 0; j < n; j++) {
            if (below(9) == 0) for (i = 0; i < total; i++) w[i * step + j * next] = below(2) ? 1.5f : -1.5f;
            scales[j] = bytes_of(w + j * next, step, total, qw + j * total);
        }
        const float worst = fold__int8_pack(kernels, bytes, w, total, n, transposed);
        double error = 0;
        for (j = 0; j < n; j++) {
            double lost = 0, whole = 0;
            for (i = 0; i < total; i++) {
                const double x = (double)w[i * step + j * next], d = x - (double)((float)qw[j * total + i] * scales[j]);
                lost += d * d;
                whole += x * x;
            }
            if (lost > 0 && sqrt(lost / whole) > error) error = sqrt(lost / whole);
        }
        HOLDS(fabs((double)worst - error) <= 1e-6 * error, "byte_pack's error", f->name, n, total, transposed);
        const fold__int8_weight weight = fold__int8_weight_at(kernels, bytes, total, n, transposed);
        const int kept = kernels->as_saved ? n : (n + 15) / 16 * 16;
        HOLDS((const uint8_t *)(weight.scales + kept) == bytes + size, "form_size", f->name, n, total, 0);
        for (s = 0; s < n_seg; s++) {
            a[s] = make(m, k[s], below(2));
            for (r = 0; r < m; r++) byte_row(fold__at(&a[s].r, r), k[s]);
            seg[s].input = a[s].r; seg[s].inner = k[s]; seg[s].row = first[s]; seg[s].weights = NULL;
        }
        init = make(init_kind == 1 ? 1 : m, n, init_kind == 2);
        if (init_kind == 1) init.r.stride = 0;
        y = make(m, n, below(2));
        memset(&p, 0, sizeof p);
        p.rows = m; p.columns = n; p.n_seg = n_seg; p.seg = seg; p.output = y.r;
        if (init_kind == 1 || init_kind == 2) p.init = init.r;
        if (init_kind == 3) p.init = y.r;
        for (r = 0; r < m; r++) for (j = 0; j < n; j++) expect[r * n + j] = init_kind ? fold__at(&p.init, r)[j] : 0;
        for (s = 0; s < n_seg; s++) for (r = 0; r < m; r++) {
            const float scale = bytes_of(fold__at(&a[s].r, r), 1, k[s], qx);
            for (j = 0; j < n; j++) {
                int sum = 0;
                for (i = 0; i < k[s]; i++) sum += qx[i] * qw[j * total + first[s] + i];
                volatile float part = (float)sum * scale;
                part = part * scales[j];
                expect[r * n + j] += part;
            }
        }
        fold__int8_product(kernels, &weight, &p, scratch);
        for (r = 0; r < m; r++) for (j = 0; j < n; j++)
            HOLDS(same(fold__at(&y.r, r)[j], expect[r * n + j]), "byte_product", f->name, r, j, t);
        for (s = 0; s < n_seg; s++) drop(&a[s]);
        drop(&init); drop(&y);
        free(w); free(expect); free(qw); free(scales); free(scratch); free(bytes); free(qx);
    }
}

/* The bits of the product of floats that are the halves' values, and the nearest halves: whole numbers of 8 bits. */
static float nearest_half(float x)
{
    int exponent;
    const double fraction = frexp((double)x, &exponent), unit = ldexp(1, (exponent < -125 ? -125 : exponent) - 8);
    const double value = nearbyint(ldexp(fraction, exponent) / unit) * unit;
    return (float)(fabs(value) > 0x1.fep127 ? copysign(0x1.fep127, value) : value);
}
static void test_half_product(const fold__kernels *f, int tries)
{
    static const int ns[] = { 16, 17, 31, 48, 63, 64, 65, 79, 80, 81, 128, 143, 144, 200 };
    static const int ms[] = { 0, 1, 2, 3, 5, 6, 7, 8, 13, 24, 60, 239, 241, 500 };
    const fold__int8_kernels *kernels = fold__bf16_kernels_for(f);
    int t, i, r, s;
    if (!f->panel) return; /* its sums have no order */
    for (t = 0; t < tries; t++) {
        const int n = ns[below((int)(sizeof ns / sizeof *ns))], m = ms[below((int)(sizeof ms / sizeof *ms))], transposed = below(2);
        int n_seg = 1 + below(4), first[4], total = below(9), inner[4], init_kind = below(4);
        matrix a[4], init, y, want;
        fold__seg seg[4];
        fold__product p;
        for (s = 0; s < n_seg; s++) { inner[s] = 1 + below(t % 16 ? 40 : 400); first[s] = total; total += inner[s] + below(3); }
        const size_t count = (size_t)total * (size_t)n, size = fold__bf16_size(total, n);
        float *w = floats(count), *pack = floats(fold__pack_floats(f, total, n) + 16), *line = floats((size_t)(total > n ? total : n));
        float *scratch = floats(fold__bf16_floats((size_t)m, total) + fold__product_floats(f, (size_t)m, total, n));
        uint8_t *bytes = (uint8_t *)floats(size / sizeof(float) + 1);
        for (i = 0; i < (int)count; i++) if (below(50) == 0) w[i] *= below(2) ? 1e38f : 1e-40f;
        if (t % 3 == 0) { w[0] = FLT_MAX; w[1] = -1.00390625f; w[2] = 1.01171875f; w[3] = -0.0f; } /* the two between two neighbours */
        const float error = fold__bf16_pack(kernels, bytes, w, total, n, transposed); /* of a few values too small for 8 bits more */
        HOLDS(error >= 0 && (error < 0.004f || total < 16), "half_pack's error", f->name, n, total, transposed);
        for (i = 0; i < (int)count; i++) w[i] = nearest_half(w[i]);
        const fold__int8_weight weight = fold__int8_weight_at(kernels, bytes, total, n, transposed);
        const int lines = transposed ? n : total, columns = transposed ? total : n;
        kernels->bf16->read(kernels->bf16, &weight, lines, columns, transposed, t % lines, line);
        HOLDS(!memcmp(line, w + (t % lines) * columns, (size_t)columns * sizeof *w), "half_read", f->name, n, total, transposed);
        for (i = 0; i < (int)count; i++) if (fabsf(w[i]) > 1e30f) w[i] = 1;
        fold__bf16_pack(kernels, bytes, w, total, n, transposed);
        f->pack(pack, w, total, n, transposed, 0, transposed ? n : total);
        for (s = 0; s < n_seg; s++) {
            a[s] = make(m, inner[s], below(2));
            seg[s].input = a[s].r; seg[s].inner = inner[s]; seg[s].row = first[s];
            seg[s].weights = pack + fold__pack_row(f, total, n, (size_t)first[s]);
        }
        init = make(init_kind == 1 ? 1 : m, n, init_kind == 2);
        if (init_kind == 1) init.r.stride = 0;
        y = make(m, n, below(2));
        want = make(m, n, 0);
        for (r = 0; r < m; r++) memcpy(fold__at(&want.r, r), fold__at(&y.r, r), (size_t)n * sizeof *w);
        memset(&p, 0, sizeof p);
        p.rows = m; p.columns = n; p.n_seg = n_seg; p.seg = seg;
        p.inner = total;
        if (init_kind == 1 || init_kind == 2) p.init = init.r;
        if (init_kind == 3) p.init = want.r;
        p.output = want.r;
        f->product(&p, scratch);
        if (init_kind == 3) p.init = y.r;
        p.output = y.r;
        kernels->product(kernels, &weight, &p, scratch);
        for (r = 0; r < m; r++) HOLDS(!memcmp(fold__at(&y.r, r), fold__at(&want.r, r), (size_t)n * sizeof *w), "half_product", f->name, m, n, t);
        for (s = 0; s < n_seg; s++) drop(&a[s]);
        drop(&init); drop(&y); drop(&want);
        free(w); free(pack); free(line); free(scratch); free(bytes);
    }
}

/* apart: chains begin at zero and are added. */
static void test_weight_grad(const fold__kernels *f, int tries, int apart)
{
    int t, i, j, r, exact = strcmp(f->name, "cblas") != 0;
    if (apart && !fold__adds_separately(f)) return;
    for (t = 0; t < tries; t++) {
        const int tall = t % 16 == 1, large = t % 64 == 17; /* more weight rows or rows than one block of a gradient has */
        const int packed = t % 32 == 9; /* operands that are packed */
        int m = large ? 150 + below(20) : packed ? 10 + below(100) : below(4) == 0 ? below(230) : below(20);
        int k = tall ? 500 + below(200) : packed ? 60 + below(90) : 1 + below(t % 8 ? 40 : 230);
        int n = large || packed ? 450 + below(300) : 1 + below(tall ? 20 : t % 7 ? 80 : 200);
        const int ldw = t % 5 ? n + below(3) : 1024; /* 1024: a multiple of 4 KB */
        if (apart && !m) continue; /* of one row at least */
        matrix x = make(m, k, below(2)), dy = make(m, n, below(2));
        size_t all = (size_t)(k - 1) * (size_t)ldw + (size_t)n;
        float *dw = floats(all), *expect = (float *)malloc(all * sizeof *expect), *scratch = floats(fold__scratch_floats(f, k, n));
        memcpy(expect, dw, all * sizeof *expect);
        for (i = 0; i < k; i++) for (j = 0; j < n; j++) {
            float acc = apart ? 0 : expect[i * ldw + j];
            for (r = 0; r < m; r++) acc = ma(f, fold__at(&x.r, r)[i], fold__at(&dy.r, r)[j], acc);
            expect[i * ldw + j] = apart ? expect[i * ldw + j] + acc : acc;
        }
        f->weight_grad(m, &x.r, k, &dy.r, n, dw, (size_t)ldw, scratch, apart);
        for (i = 0; i < (int)all; i++) {
            int ok = exact ? same(expect[i], dw[i]) : fabs((double)expect[i] - (double)dw[i]) <= 1e-4 * (1.0 + fabs((double)expect[i]));
            HOLDS(ok, "weight_grad", f->name, m, k, n);
            if (!ok) break;
        }
        drop(&x); drop(&dy); free(dw); free(expect); free(scratch);
    }
}

static void test_add_products(const fold__kernels *f)
{
    for (int n = 1; n < 70; n++) {
        const int m = below(20);
        matrix left = make(m, n, below(2)), right = make(m, n, below(2));
        float *sum = floats((size_t)n), *expect = floats((size_t)n);
        for (int i = 0; i < n; i++) {
            expect[i] = sum[i];
            for (int r = 0; r < m; r++) expect[i] = ma(f, fold__at(&left.r, r)[i], fold__at(&right.r, r)[i], expect[i]);
        }
        f->add_products(m, &left.r, &right.r, sum, (size_t)n);
        for (int i = 0; i < n; i++) HOLDS(same(expect[i], sum[i]), "add_products", f->name, m, n, i);
        drop(&left); drop(&right); free(sum); free(expect);
    }
}

static float special(void)
{
    static const float s[] = { 0.0f,   -0.0f,  1.0f,    -1.0f,   1e-45f, -1e-45f, 1e-38f, 88.7228f,
                               88.73f, -87.5f, -103.9f, -104.1f, 3e38f,  -3e38f,  0.5f,   9.1f };
    uint32_t u = rnd();
    if (u % 16u == 0) return (float)INFINITY;
    if (u % 16u == 1) return -(float)INFINITY;
    if (u % 16u == 2) return (float)NAN;
    if (u % 16u < 6) return s[below(16)];
    if (u % 16u < 9) return float_of(rnd());
    return ((float)(rnd() >> 8) / 8388608.0f - 1.0f) * 12.0f;
}

static const char *map_name[] = {
#define NAME(name, expression) #name,
    FOLD__MADE_MAPS(NAME, NAME)
};

static fold__map_fn map_of(const fold__kernels *f, int map)
{
    static const fold__map_fn *const of_sets[] = {
#define OF_SETS(name, expression) fold__maps_##name,
        FOLD__MADE_MAPS(OF_SETS, OF_SETS)
    };
    return of_sets[map][f->set];
}

/* An op's map, or with `slope` its gradient map of input 0 or 1, as reference.h has the op. takes: what the map is given, one
   letter each: g the gradient of the result, a and b the inputs, y the result. */
typedef struct { int map, op, slope; const char *takes; } map_row;
static const map_row map_rows[] = {
#define VALUE(map, op, takes) { FOLD__MAP_##map, REF_##op, -1, takes },
#define SLOPE(map, op, input, takes) { FOLD__MAP_d_##map, REF_##op, input, takes },
    VALUE(add, add, "ab") VALUE(sub, sub, "ab") VALUE(mul, mul, "ab") VALUE(div, div, "ab")
    VALUE(min, minimum, "ab") VALUE(max, maximum, "ab") VALUE(scale, scale, "a") VALUE(shift, shift, "a")
    VALUE(neg, neg, "a") VALUE(copy, copy, "a") VALUE(exp, exp, "a") VALUE(log, log, "a")
    VALUE(sqrt, sqrt, "a") VALUE(square, square, "a") VALUE(abs, abs, "a") VALUE(sigmoid, sigmoid, "a")
    VALUE(tanh, tanh, "a") VALUE(relu, relu, "a") VALUE(leaky, leaky_relu, "a") VALUE(gelu_tanh, gelu_tanh, "a")
    VALUE(softplus, softplus, "a") VALUE(silu, silu, "a") VALUE(gelu, gelu, "a") VALUE(elu, elu, "a")
    VALUE(sin, sin, "a") VALUE(cos, cos, "a") VALUE(pow, pow, "a") VALUE(floor, floor, "a")
    VALUE(at_least, at_least, "a") VALUE(at_most, at_most, "a")
    SLOPE(min_a, minimum, 0, "gab") SLOPE(min_b, minimum, 1, "gab") SLOPE(max_a, maximum, 0, "gab") SLOPE(max_b, maximum, 1, "gab")
    SLOPE(div_b, div, 1, "gyb") SLOPE(exp, exp, 0, "gy") SLOPE(log, log, 0, "ga") SLOPE(sqrt, sqrt, 0, "gy")
    SLOPE(square, square, 0, "ga") SLOPE(abs, abs, 0, "ga") SLOPE(sigmoid, sigmoid, 0, "gy") SLOPE(tanh, tanh, 0, "gy")
    SLOPE(relu, relu, 0, "gy") SLOPE(leaky, leaky_relu, 0, "ga") SLOPE(gelu_tanh, gelu_tanh, 0, "ga")
    SLOPE(softplus, softplus, 0, "ga") SLOPE(silu, silu, 0, "ga") SLOPE(gelu, gelu, 0, "ga")
    SLOPE(elu, elu, 0, "ga") SLOPE(sin, sin, 0, "ga") SLOPE(cos, cos, 0, "ga") SLOPE(pow, pow, 0, "ga")
    SLOPE(at_least, at_least, 0, "ga") SLOPE(at_most, at_most, 0, "ga")
};

static ref_tape tape;
/* What an op gives for n numbers a, and b: on the tape, with gradients for those of g. Returns where the result is. */
static int refer_map(const map_row *m, const float *a, const float *b, const float *g, float scalar, int n, int *in)
{
    const ref_attr number = ref_attrs((double)scalar, 0, 0, 0, 0);
    int i, y;
    ref_begin(&tape);
    for (i = 0; i < 2; i++) in[i] = ref_input(&tape, ref_shape1(n), REF_NODE, NULL);
    for (i = 0; i < n; i++) {
        tape.value[in[0]].v[i] = (double)a[i];
        tape.value[in[1]].v[i] = (double)b[i];
    }
    y = ref_apply(&tape, m->op, &number, in, strchr(m->takes, 'b') ? 2 : 1);
    for (i = 0; i < n; i++) tape.value[y].g[i] = (double)g[i];
    ref_backward(&tape);
    return y;
}
static float number_for(int positive)
{
    const float x = ((float)(rnd() >> 8) / 8388608.0f - 1.0f) * 4.0f;
    if (positive) return fabsf(x) + 0.01f;
    return fabsf(x) < 0.01f ? 0.5f : x;
}
static void test_map(const fold__kernels *f, const map_row *m, int n, float s)
{
    const int positive = m->op == REF_log || m->op == REF_sqrt || m->op == REF_pow;
    float *value[4], *y = floats((size_t)n), *given[3]; /* a, b, g, y */
    int i, k, in[2], result;
    for (k = 0; k < 4; k++) value[k] = floats((size_t)n);
    for (i = 0; i < n; i++) {
        value[0][i] = number_for(positive);
        value[1][i] = m->op == REF_div ? fabsf(number_for(1)) + 0.1f : below(8) ? number_for(0) : value[0][i];
        value[2][i] = number_for(0);
        for (k = 0; k < 2 && m->slope < 0; k++) /* gradients at NaN: test_ops, which has those of PyTorch */
            if (n % 2 && below(9) == 0) value[k][i] = below(2) ? (float)NAN : -(float)NAN;
    }
    result = refer_map(m, value[0], value[1], value[2], s, n, in);
    for (i = 0; i < n; i++) value[3][i] = (float)tape.value[result].v[i];
    given[0] = given[1] = given[2] = value[0];
    for (k = 0; m->takes[k]; k++) given[k] = value[strchr("abgy", m->takes[k]) - "abgy"];
    map_of(f, m->map)(y, given[0], given[1], given[2], s, (size_t)n, 1, NULL);
    for (i = 0; i < n; i++) {
        const ref_value *of = &tape.value[m->slope < 0 ? result : in[m->slope]];
        const double want = m->slope < 0 ? of->v[i] : of->g[i], bound = m->slope < 0 ? of->b[i] : of->gb[i];
        HOLDS(want != want ? y[i] != y[i] : fabs(want - (double)y[i]) <= bound, map_name[m->map], f->name, i, (int)bits_of(value[0][i]), (int)bits_of(y[i]));
    }
    for (k = 0; k < 3; k++) { /* in place */
        float *at = given[k];
        float *copy = floats((size_t)n);
        memcpy(copy, at, (size_t)n * sizeof *at);
        map_of(f, m->map)(at, given[0], given[1], given[2], s, (size_t)n, 1, NULL);
        for (i = 0; i < n; i++) HOLDS(same(at[i], y[i]), "map in place", f->name, m->map, i, n);
        memcpy(at, copy, (size_t)n * sizeof *at);
        free(copy);
    }
    for (k = 0; k < 4; k++) free(value[k]);
    free(y);
}
/* Maps that are no op: fill, multiply-adds, and the parts of a gradient of largest values. */
static void test_plain_maps(const fold__kernels *f, int n, float s)
{
    float *a = floats((size_t)n), *b = floats((size_t)n), *c = floats((size_t)n), *y = floats((size_t)n);
    map_of(f, FOLD__MAP_fill)(y, a, b, c, s, (size_t)n, 1, NULL);
    for (int i = 0; i < n; i++) HOLDS(same(y[i], s), "fill", f->name, i, n, 0);
    map_of(f, FOLD__MAP_axpy)(y, a, b, c, s, (size_t)n, 1, NULL);
    for (int i = 0; i < n; i++) HOLDS(same(y[i], ma(f, a[i], s, c[i])), "axpy", f->name, i, n, 0);
    map_of(f, FOLD__MAP_addmul)(y, a, b, c, s, (size_t)n, 1, NULL);
    for (int i = 0; i < n; i++) HOLDS(same(y[i], ma(f, a[i], b[i], c[i])), "addmul", f->name, i, n, 0);
    /* what a largest value takes of a gradient, and what it leaves */
    for (int i = 0; i < n; i++) b[i] = below(4) == 0 ? (float)NAN : below(2) ? c[i] : b[i];
    map_of(f, FOLD__MAP_d_largest)(y, a, b, c, s, (size_t)n, 1, NULL);
    for (int i = 0; i < n; i++) HOLDS(same(y[i], b[i] == c[i] || b[i] != b[i] ? a[i] : 0.0f), "d_largest", f->name, i, n, 0);
    map_of(f, FOLD__MAP_d_others)(b, a, y, c, s, (size_t)n, 1, NULL);
    for (int i = 0; i < n; i++) HOLDS(same(b[i], bits_of(y[i]) ? 0.0f : a[i]), "d_others", f->name, i, n, 0);
    free(a); free(b); free(c); free(y);
}
static void test_maps(const fold__kernels *f)
{
    const int rows = (int)(sizeof map_rows / sizeof *map_rows);
    int seen[FOLD__MAP_COUNT] = { 0 }, map, t;
    for (t = 0; t < 200; t++) {
        const int n = 1 + (t < 70 ? t : below(200));
        const float s = value();
        for (map = 0; map < rows; map++) test_map(f, &map_rows[map], n, s);
        test_plain_maps(f, n, s);
    }
    seen[FOLD__MAP_fill] = seen[FOLD__MAP_axpy] = seen[FOLD__MAP_addmul] = seen[FOLD__MAP_d_largest] = seen[FOLD__MAP_d_others] = 1;
    for (map = 0; map < rows; map++) seen[map_rows[map].map] = 1;
    for (map = 0; map < FOLD__MAP_COUNT; map++) HOLDS(seen[map], "a map without a reference", map_name[map], map, 0, 0);
}

/* Several rows at once, behind pointers or one after the other, in place or not, against one by one. */
static void test_map_rows(const fold__kernels *f)
{
    int map, t, r, i;
    for (map = 0; map < FOLD__MAP_COUNT; map++)
        for (t = 0; t < 60; t++) {
            const int n = t < 40 ? 1 + t : 1 + below(8), rows = 1 + below(7);
            const float s = value();
            matrix m[4], want = make(rows, n, 0);
            fold_rows all[4];
            for (i = 0; i < 4; i++) { m[i] = make(rows, n, below(2)); all[i] = m[i].r; }
            if (t % 4) all[0] = all[t % 4];
            for (r = 0; r < rows; r++)
                map_of(f, map)(fold__at(&want.r, r), fold__at(&all[1], r), fold__at(&all[2], r), fold__at(&all[3], r), s, (size_t)n, 1, NULL);
            map_of(f, map)(fold__at(&all[0], 0), fold__at(&all[1], 0), fold__at(&all[2], 0), fold__at(&all[3], 0), s, (size_t)n, (size_t)rows, all);
            for (r = 0; r < rows; r++)
                for (i = 0; i < n; i++) HOLDS(same(fold__at(&all[0], r)[i], fold__at(&want.r, r)[i]), map_name[map], "rows", n, rows, r);
            for (i = 0; i < 4; i++) drop(&m[i]);
            drop(&want);
        }
}

/* Two sets that must agree to the bit: maps and reductions on everything, special values included. */
static void test_same(const fold__kernels *f, const fold__kernels *g, int tries)
{
    int t, i, map;
    for (t = 0; t < tries; t++) {
        int n = below(150), soft = below(2);
        float *a = floats((size_t)n), *b = floats((size_t)n), *c = floats((size_t)n), *y = floats((size_t)n), *z = floats((size_t)n), s = special();
        float u[4], v[4];
        if (!soft) for (i = 0; i < n; i++) { a[i] = special(); b[i] = special(); c[i] = special(); }
        for (map = 0; map < FOLD__MAP_COUNT; map++) {
            map_of(f, map)(y, a, b, c, s, (size_t)n, 1, NULL);
            map_of(g, map)(z, a, b, c, s, (size_t)n, 1, NULL);
            for (i = 0; i < n; i++) HOLDS(same(y[i], z[i]), map_name[map], "same", map, (int)bits_of(a[i]), (int)bits_of(b[i]));
        }
        u[0] = fold__reducer_of(f)->sum(a, (size_t)n); u[1] = fold__reducer_of(f)->dot(a, b, (size_t)n); u[2] = fold__reducer_of(f)->largest(a, (size_t)n); u[3] = fold__reducer_of(f)->exp_sum(y, a, u[2], (size_t)n, 1);
        v[0] = fold__reducer_of(g)->sum(a, (size_t)n); v[1] = fold__reducer_of(g)->dot(a, b, (size_t)n); v[2] = fold__reducer_of(g)->largest(a, (size_t)n); v[3] = fold__reducer_of(g)->exp_sum(z, a, v[2], (size_t)n, 1);
        for (i = 0; i < 4; i++) HOLDS(same(u[i], v[i]), "reduction", "same", i, n, soft);
        for (i = 0; i < n; i++) HOLDS(same(y[i], z[i]), "exp_sum", "same", i, n, soft);
        free(a); free(b); free(c); free(y); free(z);
    }
}

static void test_reductions(const fold__kernels *f)
{
    int n, i;
    for (n = 0; n < 100; n++) {
        float *a = floats((size_t)n), *b = floats((size_t)n), *y = floats((size_t)n), lane[16] = { 0.0f }, m = -(float)INFINITY;
        for (i = 0; i < (n + 15) / 16 * 16; i++) lane[i % 16] = lane[i % 16] + (i < n ? a[i] : 0.0f);
        for (i = 0; i < n; i++) m = a[i] > m ? a[i] : m;
        HOLDS(same(fold__reducer_of(f)->sum(a, (size_t)n), tree(lane)), "sum", f->name, n, 0, 0);
        HOLDS(same(fold__reducer_of(f)->dot(a, b, (size_t)n), narrow_dot(f, a, b, 1, n)), "dot", f->name, n, 0, 0);
        HOLDS(fold__reducer_of(f)->largest(a, (size_t)n) == m, "max", f->name, n, 0, 0);
        m = fold__reducer_of(f)->exp_sum(y, a, 0.5f, (size_t)n, 1);
        HOLDS(same(m, fold__reducer_of(f)->sum(y, (size_t)n)), "exp_sum", f->name, n, 0, 0);
        free(a); free(b); free(y);
    }
}

/* Sums of exps of more than a tile, kept or not, beside the sum of all that were kept. */
static void test_exp_sum(const fold__kernels *f)
{
    for (int n = 1000; n < 3400; n += 97) {
        float *a = floats((size_t)n), *y = floats((size_t)n), *tile = floats(FOLD__EXP_TILE);
        const float largest = fold__reducer_of(f)->largest(a, (size_t)n);
        const float kept = fold__reducer_of(f)->exp_sum(y, a, largest, (size_t)n, 1);
        double all = 0;
        for (int i = 0; i < n; i++) all += exp((double)a[i] - (double)largest);
        HOLDS(fabs(all - (double)kept) <= 1e-5 * all, "exp_sum", f->name, n, 0, 0);
        HOLDS(same(kept, fold__reducer_of(f)->sum(y, (size_t)n)), "exp_sum", f->name, n, 0, 1);
        HOLDS(same(kept, fold__reducer_of(f)->exp_sum(tile, a, largest, (size_t)n, 0)), "exp_sum", f->name, n, 0, 2);
        free(a); free(y); free(tile);
    }
}

/* NaN never wins, wherever it stands and whatever came before it; of nothing else the largest is -inf. */
static void test_max_of_nan(const fold__kernels *f)
{
    const float nan = float_of(0x7fc00000u), inf = (float)INFINITY;
    int n, i, t;
    for (n = 1; n < 70; n++) for (t = 0; t < 20; t++) {
        float *a = floats((size_t)n), m = -inf;
        for (i = 0; i < n; i++) {
            if (t == 0 || (t < 10 ? below(3) == 0 : i == below(n))) a[i] = below(2) ? nan : -nan;
            else if (below(4) == 0) a[i] = -inf;
            m = a[i] > m ? a[i] : m;
        }
        HOLDS(fold__reducer_of(f)->largest(a, (size_t)n) == m, "max of NaN", f->name, n, t, 0);
        free(a);
    }
}

/* States that only decay become 0, and no subnormal numbers that stay for ever; NaN and infinity stay, and what is larger. */
static void test_fading_states(const fold__kernels *f)
{
    enum { COUNT = 21, TURNS = 20000 };
    const fold__step step = { FOLD__RULE_adam, 2, 0.1f, 0, 0, 1e-8f, 0.9f, 0.1f, 1, 0.99f, 0.01f, 1, 0 };
    for (int rule = FOLD__RULE_momentum; rule <= FOLD__RULE_adam; rule++) {
        float value[COUNT], grad[COUNT] = { 0 }, mean[COUNT], square[COUNT];
        for (int i = 0; i < COUNT; i++) {
            value[i] = 1;
            mean[i] = i % 2 && rule != FOLD__RULE_squares ? -1e-3f : 1e-3f;
            square[i] = 1e-6f;
        }
        for (int turn = 0; turn < TURNS; turn++) {
            f->rule[rule](&step, value, grad, mean, square, COUNT);
            grad[3] = turn % 2 ? 1e-4f : -1e-4f; /* this one goes on */
        }
        for (int i = 0; i < COUNT; i++) {
            HOLDS((mean[i] == 0) == (i != 3), "fading mean", f->name, rule, i, 0);
            HOLDS(rule != FOLD__RULE_adam || (square[i] == 0) == (i != 3), "fading square", f->name, rule, i, 0);
        }
        mean[0] = 1e-30f; /* over 2^-100 */
        mean[1] = float_of(0x7fc00000u);
        mean[2] = (float)INFINITY;
        f->rule[rule](&step, value, grad, mean, square, 3);
        HOLDS(mean[0] == 0.9f * 1e-30f && mean[1] != mean[1] && mean[2] == (float)INFINITY, "states that stay", f->name, rule, 0, 0);
    }
}

/* Multiply-add where rounding twice would show: sums near the middle between two floats, subnormals, everything else. */
static void test_fma(const fold__kernels *f, int tries)
{
    float a[64], b[64], c[64], y[64];
    int t, i;
    if (!fused(f)) return;
    for (t = 0; t < tries; t++) {
        for (i = 0; i < 64; i++) {
            a[i] = float_of(rnd()); b[i] = float_of(rnd()); c[i] = float_of(rnd());
            if (t % 3 == 1) {            /* a b has few bits and ends in the middle; c is far below or zero */
                a[i] = 1.0f + (float)below(4096) / 4096.0f; b[i] = 1.0f + (float)(2 * below(2048) + 1) / 4096.0f;
                c[i] = (float)(below(3) - 1) * ldexpf(1.0f, -24 - below(60));
            } else if (t % 3 == 2) {     /* around the smallest normal */
                a[i] = ldexpf(1.0f + (float)below(1 << 23) / 8388608.0f, -60 - below(10));
                b[i] = ldexpf(1.0f + (float)below(1 << 23) / 8388608.0f, -60 - below(16));
                c[i] = ldexpf((float)(below(5) - 2), -120 - below(32));
            }
        }
        map_of(f, FOLD__MAP_addmul)(y, a, b, c, 0.0f, 64, 1, NULL);
        for (i = 0; i < 64; i++) HOLDS(same(y[i], fmaf(a[i], b[i], c[i])), "fma", f->name, t % 3, (int)bits_of(a[i]), (int)bits_of(b[i]));
    }
}

static void test_edges(const fold__kernels *f)
{
    const float inf = (float)INFINITY, nan = (float)NAN;
    float x[8], y[8], z[8];
    int i;
    x[0] = inf; x[1] = -inf; x[2] = nan; x[3] = 89.0f; x[4] = -104.0f; x[5] = 0.0f; x[6] = -100.0f; x[7] = 88.7228f;
    map_of(f, FOLD__MAP_exp)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == inf && y[1] == 0.0f && y[2] != y[2] && y[3] == inf && y[4] == 0.0f && y[5] == 1.0f && y[6] > 0.0f && y[6] < 1e-43f &&
              y[7] > 3.4e38f && y[7] < inf,
          "exp edges", f->name, 0, 0, 0);
    x[3] = -1.0f; x[4] = 1e-45f; x[6] = -0.0f; x[7] = 1.0f;
    map_of(f, FOLD__MAP_log)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == inf && y[1] != y[1] && y[2] != y[2] && y[3] != y[3] && y[4] > -103.3f && y[4] < -103.2f && y[5] == -inf && y[6] == -inf &&
              y[7] == 0.0f,
          "log edges", f->name, 0, 0, 0);
    map_of(f, FOLD__MAP_tanh)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == 1.0f && y[1] == -1.0f && y[2] != y[2] && y[4] == 1e-45f && bits_of(y[6]) == 0x80000000u, "tanh edges", f->name, 0, 0, 0);
    map_of(f, FOLD__MAP_sigmoid)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == 1.0f && y[1] == 0.0f && y[2] != y[2] && y[5] == 0.5f, "sigmoid edges", f->name, 0, 0, 0);
    map_of(f, FOLD__MAP_softplus)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == inf && y[1] == 0.0f && y[2] != y[2], "softplus edges", f->name, 0, 0, 0);
    map_of(f, FOLD__MAP_relu)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == inf && y[1] == 0.0f && y[2] != y[2] && bits_of(y[6]) == 0 && y[7] == 1.0f, "relu edges", f->name, 0, 0, 0);
    map_of(f, FOLD__MAP_gelu_tanh)(y, x, NULL, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == inf && y[1] == 0.0f && y[2] != y[2], "gelu_tanh edges", f->name, 0, 0, 0);
    for (i = 0; i < 8; i++) z[i] = 1.0f;
    map_of(f, FOLD__MAP_d_gelu_tanh)(y, z, x, NULL, 0.0f, 8, 1, NULL);
    HOLDS(y[0] == 1.0f && y[1] == 0.0f && y[2] != y[2], "slope of gelu_tanh at its edges", f->name, 0, 0, 0);
}

static void edges_of(const fold__kernels *f, const char *name, int map, float scalar, const float want[6])
{
    const float inf = (float)INFINITY, nan = float_of(0x7fc00000u), x[6] = { 0.0f, -0.0f, inf, -inf, nan, -3.0f };
    float y[6];
    int i;
    map_of(f, map)(y, x, NULL, NULL, scalar, 6, 1, NULL);
    for (i = 0; i < 5; i++) HOLDS(same(y[i], want[i]), name, f->name, i, (int)bits_of(y[i]), (int)bits_of(want[i]));
    HOLDS(want[5] != want[5] ? y[5] != y[5] : fabsf(y[5] - want[5]) <= 4e-7f * fabsf(want[5]), name, f->name, 5, 0, 0);
}
/* Zeros, infinities, NaN, and what is outside a domain. */
static void test_domains(const fold__kernels *f)
{
    const float inf = (float)INFINITY, nan = float_of(0x7fc00000u), far[4] = { 262144.0f, 262160.0f, -1e30f, -262144.0f };
    const struct { const char *name; int map; float scalar, want[6]; } row[] = {
        { "sin", FOLD__MAP_sin, 0, { 0.0f, -0.0f, nan, nan, nan, -0.14112001f } },
        { "cos", FOLD__MAP_cos, 0, { 1, 1, nan, nan, nan, -0.9899925f } },
        { "silu", FOLD__MAP_silu, 0, { 0.0f, -0.0f, inf, -0.0f, nan, -0.14227761f } },
        { "gelu", FOLD__MAP_gelu, 0, { 0.0f, -0.0f, inf, -0.0f, nan, -0.0040496941f } },
        { "elu", FOLD__MAP_elu, 2, { 0.0f, -0.0f, inf, -2, nan, -1.9004259f } },
        { "floor", FOLD__MAP_floor, 0, { 0.0f, -0.0f, inf, -inf, nan, -3 } },
        { "pow 0", FOLD__MAP_pow, 0, { 1, 1, 1, 1, nan, 1 } },
        { "pow 2", FOLD__MAP_pow, 2, { 0, 0, inf, inf, nan, 9 } },
        { "pow 3", FOLD__MAP_pow, 3, { 0, -0.0f, inf, -inf, nan, -27 } },
        { "pow 1/2", FOLD__MAP_pow, 0.5f, { 0, 0, inf, nan, nan, nan } },
        { "pow -1", FOLD__MAP_pow, -1, { inf, -inf, 0.0f, -0.0f, nan, -0.33333334f } },
        { "pow -2", FOLD__MAP_pow, -2, { inf, inf, 0.0f, 0.0f, nan, 0.11111111f } },
        { "at_least", FOLD__MAP_at_least, -1, { 0.0f, -0.0f, inf, -1, nan, -1 } },
        { "at_most", FOLD__MAP_at_most, -1, { -1, -1, -1, -inf, nan, -3 } },
    };
    float y[4];
    size_t i;
    for (i = 0; i < sizeof row / sizeof *row; i++) edges_of(f, row[i].name, row[i].map, row[i].scalar, row[i].want);
    map_of(f, FOLD__MAP_sin)(y, far, NULL, NULL, 0.0f, 4, 1, NULL);
    HOLDS(y[0] == y[0] && y[1] != y[1] && y[2] != y[2] && y[3] == -y[0], "far sine", f->name, 0, 0, 0);
}

/* The slope of gelu_tanh keeps its relative accuracy where it is small. */
static void test_gelu_tanh_slope(const fold__kernels *f)
{
    const float one = 1.0f;
    float x, y;
    for (x = -10.0f; x < -1.0f; x += 0.00173f) {
        double v = (double)x, t = 0.7978845608028654, s = 1 / (1 + exp(-2 * t * (v + 0.044715 * v * v * v)));
        double want = s + v * s * (1 - s) * 2 * t * (1 + 3 * 0.044715 * v * v);
        map_of(f, FOLD__MAP_d_gelu_tanh)(&y, &one, &x, NULL, 0.0f, 1, 1, NULL);
        HOLDS(fabs((double)y - want) <= 1e-6 * fabs(want), "slope of gelu_tanh", f->name, (int)(1000 * v), 0, 0);
    }
}

/* ---- attention ---- */

/* Rows of `width` floats, `stride` apart, that end with the last row; what lies between them must stay as it is. */
typedef struct { fold_rows r; int rows, width; size_t size; } strided;
static strided strided_new(int rows, int width)
{
    strided s;
    const int stride = width + (below(2) ? below(20) : 0);
    s.rows = rows; s.width = width;
    s.size = rows ? (size_t)(rows - 1) * (size_t)stride + (size_t)width : 0;
    s.r.base = floats(s.size); s.r.stride = stride; s.r.rows = NULL;
    return s;
}
static strided strided_copy(const strided *s)
{
    strided t = *s;
    t.r.base = floats(s->size);
    memcpy(t.r.base, s->r.base, s->size * sizeof(float));
    return t;
}

enum { QUERY, KEY, VALUE, D_OUT, OUT, NORMS, D_QUERY, D_KEY, D_VALUE, OPERANDS };
typedef struct { fold__attention_call call; strided o[OPERANDS]; fold__adjacency adjacency; } attention;
static void attention_point(attention *a)
{
    if (a->call.adjacency) a->call.adjacency = &a->adjacency;
    a->call.query = a->o[QUERY].r; a->call.key = a->o[KEY].r; a->call.value = a->o[VALUE].r; a->call.d_out = a->o[D_OUT].r;
    a->call.out = a->o[OUT].r; a->call.norms = a->o[NORMS].r;
    a->call.d_query = a->o[D_QUERY].r; a->call.d_key = a->o[D_KEY].r; a->call.d_value = a->o[D_VALUE].r;
}
static attention attention_new(int queries, int keys, int heads, int width, int value_width, int causal)
{
    attention a;
    memset(&a, 0, sizeof a);
    a.call.queries = queries; a.call.keys = keys; a.call.heads = heads; a.call.width = width; a.call.value_width = value_width;
    a.call.causal = causal;
    for (int i = 0; i < OPERANDS; i++) {
        const int of_keys = i == KEY || i == VALUE || i == D_KEY || i == D_VALUE;
        const int of_value = i == VALUE || i == D_OUT || i == OUT || i == D_VALUE;
        a.o[i] = strided_new(of_keys ? keys : queries, heads * (i == NORMS ? 2 : of_value ? value_width : width));
    }
    attention_point(&a);
    return a;
}
static attention attention_copy(const attention *from)
{
    attention a = *from;
    for (int i = 0; i < OPERANDS; i++) a.o[i] = strided_copy(&from->o[i]);
    attention_point(&a);
    return a;
}
static void attention_free(attention *a) { for (int i = 0; i < OPERANDS; i++) free(a->o[i].r.base); }

static int *ints(int n) { return (int *)calloc((size_t)n + 1, sizeof(int)); }
/* Lets rows see up to `most` keys each, some twice; the index is turned round the slow way. */
static void attention_look(attention *a, int most)
{
    const int queries = a->call.queries, keys = a->call.keys;
    int *first = ints(queries + 1), *first_reader = ints(keys + 1), padded = 0, n = 0;
    for (int i = 0; i < queries; i++) first[i + 1] = first[i] + (keys && below(5) ? below(below(9) ? most / 4 + 1 : most + 1) : 0);
    int *seen = ints(first[queries]), *reader = ints(first[queries]), *weight_at = ints(first[queries]);
    for (int pair = 0; pair < first[queries]; pair++) seen[pair] = below(keys);
    for (int j = 0; j < keys; j++, padded = 0) {
        first_reader[j] = n;
        for (int i = 0; i < queries; padded += (first[i + 1] - first[i] + 15) / 16 * 16, i++)
            for (int pair = first[i]; pair < first[i + 1]; pair++)
                if (seen[pair] == j) {
                    reader[n] = i;
                    weight_at[n++] = padded + pair - first[i];
                }
    }
    first_reader[keys] = n;
    const fold__adjacency adjacency = { first, seen, first_reader, reader, weight_at, 0 };
    a->adjacency = adjacency;
    a->call.adjacency = &a->adjacency;
}
static void attention_shut(attention *a)
{
    const fold__adjacency *s = &a->adjacency;
    const int *const all[5] = { s->query_start, s->key_of, s->key_start, s->query_of, s->weight_at };
    for (int i = 0; i < 5 && a->call.adjacency; i++) free((void *)(uintptr_t)all[i]);
}

static float *row_of(const fold_rows *r, int row, int col) { return r->base + (ptrdiff_t)row * r->stride + col; }
static int seen_by(const fold__attention_call *c, int query)
{
    const int seen = c->causal ? query + 1 + c->keys - c->queries : c->keys;
    if (c->adjacency) return c->adjacency->query_start[query + 1] - c->adjacency->query_start[query];
    return seen < 0 ? 0 : seen;
}
/* The j-th key that a query sees; the most that one sees. */
static int key_seen(const fold__attention_call *c, int query, int j) { return c->adjacency ? c->adjacency->key_of[c->adjacency->query_start[query] + j] : j; }
static size_t most_seen(const fold__attention_call *c)
{
    int most = c->keys;
    for (int i = 0; i < c->queries; i++) most = seen_by(c, i) > most ? seen_by(c, i) : most;
    return (size_t)most;
}
static float chain_dot(const fold__kernels *f, const float *a, const float *b, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum = ma(f, a[i], b[i], sum);
    return sum;
}

/* Weights of one query and head, times inverse; unless given, the largest score and the sum of exps are found. */
static void weights_reference(const fold__kernels *f, const fold__attention_call *c, int head, int query, int given, float *weight, float *norm)
{
    const int seen = seen_by(c, query);
    const float scale = c->scale != 0.0f ? c->scale : 1.0f / sqrtf((float)c->width);
    float lane[16] = { 0.0f }, largest = -(float)INFINITY;
    for (int j = 0; j < seen; j++) {
        weight[j] = chain_dot(f, row_of(&c->query, query, head * c->width), row_of(&c->key, key_seen(c, query, j), head * c->width), c->width);
        largest = weight[j] > largest ? weight[j] : largest;
    }
    if (given) largest = norm[0];
    for (int j = 0; j < seen; j++) {
        const float x = ma(f, weight[j], scale, -(largest * scale));
        if (x < -87.0f) weight[j] = 0.0f;
        else map_of(f, FOLD__MAP_exp)(&weight[j], &x, NULL, NULL, 0.0f, 1, 1, NULL);
        lane[j % 16] = lane[j % 16] + weight[j];
    }
    norm[0] = largest;
    if (!given) norm[1] = 0.0f + tree(lane);
}

static void forward_reference(const fold__kernels *f, const fold__attention_call *c)
{
    float *weight = floats(most_seen(c));
    for (int head = 0; head < c->heads; head++)
        for (int i = 0; i < c->queries; i++) {
            const int seen = seen_by(c, i);
            float norm[2] = { c->adjacency ? -(float)INFINITY : 0.0f, 0.0f };
            if (seen) weights_reference(f, c, head, i, 0, weight, norm);
            if (c->norms.base) memcpy(row_of(&c->norms, i, 2 * head), norm, sizeof norm);
            for (int t = 0; t < c->value_width; t++) {
                float sum = 0.0f;
                for (int j = 0; j < seen; j++) sum = ma(f, weight[j], row_of(&c->value, key_seen(c, i, j), head * c->value_width)[t], sum);
                *row_of(&c->out, i, head * c->value_width + t) = seen ? sum * (1.0f / norm[1]) : 0.0f;
            }
        }
    free(weight);
}

/* Adds what query i contributes to the chains of d_key and d_value, and writes its d_query. */
static void backward_row_reference(const fold__kernels *f, const fold__attention_call *c, int head, int i, float *weight, float *slope)
{
    NO_CONTRACT
    const int seen = seen_by(c, i), qk = head * c->width, vo = head * c->value_width;
    const float scale = c->scale != 0.0f ? c->scale : 1.0f / sqrtf((float)c->width), *d_out = row_of(&c->d_out, i, vo);
    float lane[16] = { 0.0f }, *norm = row_of(&c->norms, i, 2 * head), mean;
    if (seen) weights_reference(f, c, head, i, 1, weight, norm);
    for (int j = 0; j < seen; j++) {
        weight[j] = weight[j] * (1.0f / norm[1]);
        slope[j] = chain_dot(f, d_out, row_of(&c->value, key_seen(c, i, j), vo), c->value_width);
        lane[j % 16] = ma(f, weight[j], slope[j], lane[j % 16]);
    }
    mean = 0.0f + tree(lane);
    for (int j = 0; j < seen; j++) slope[j] = (weight[j] * (slope[j] - mean)) * scale;
    for (int t = 0; t < c->width; t++) {
        float sum = 0.0f;
        for (int j = 0; j < seen; j++) sum = ma(f, slope[j], row_of(&c->key, key_seen(c, i, j), qk)[t], sum);
        if (c->d_query.base) *row_of(&c->d_query, i, qk + t) = sum;
        for (int j = 0; j < seen && c->d_key.base; j++) {
            float *to = row_of(&c->d_key, key_seen(c, i, j), qk + t);
            *to = ma(f, slope[j], row_of(&c->query, i, qk)[t], *to);
        }
    }
    for (int j = 0; j < seen && c->d_value.base; j++)
        for (int t = 0; t < c->value_width; t++) {
            float *to = row_of(&c->d_value, key_seen(c, i, j), vo + t);
            *to = ma(f, weight[j], d_out[t], *to);
        }
}

static void backward_reference(const fold__kernels *f, const fold__attention_call *c)
{
    float *weight = floats(most_seen(c)), *slope = floats(most_seen(c));
    for (int j = 0; j < c->keys; j++) {
        if (c->d_key.base) memset(row_of(&c->d_key, j, 0), 0, (size_t)(c->heads * c->width) * sizeof(float));
        if (c->d_value.base) memset(row_of(&c->d_value, j, 0), 0, (size_t)(c->heads * c->value_width) * sizeof(float));
    }
    for (int head = 0; head < c->heads; head++)
        for (int i = 0; i < c->queries; i++) backward_row_reference(f, c, head, i, weight, slope);
    free(weight); free(slope);
}

static int attention_size(void)
{
    switch (rnd() % 8u) {
    case 0: return below(2);
    case 1: return below(130);
    case 2: return 16 * below(6);
    default: return below(45);
    }
}

/* Rows of inf or NaN, somewhere: who does not see them must not notice. */
static void attention_poison(attention *a)
{
    for (int i = QUERY; i <= D_OUT; i++)
        for (int n = below(3); n > 0 && a->o[i].rows; n--) {
            const int row = below(a->o[i].rows), all = below(2), col = below(a->o[i].width);
            for (int t = 0; t < a->o[i].width; t++)
                if (all || t == col) *row_of(&a->o[i].r, row, t) = rnd() % 3u ? (float)NAN : rnd() % 2u ? (float)INFINITY : -(float)INFINITY;
        }
}

/* The keys as panels, appended in parts. */
static float *attention_panels(const fold__attention_call *c)
{
    float *panels = floats(((size_t)c->keys + 63) / 64 * 64 * (size_t)(c->heads * c->width));
    for (int first = 0, count; first < c->keys; first += count) {
        fold_rows keys = c->key;
        count = 1 + below(c->keys - first);
        keys.base += first * keys.stride;
        fold__attention_append(panels, &keys, first, count, c->heads, c->width);
    }
    return panels;
}

/* Both in parts of the heads, each with scratch of its own that holds anything. */
static void attention_run(const fold__kernels *f, const fold__attention_call *c, int backward)
{
    const int part = below(c->heads + 1);
    for (int i = 0; i < 2; i++) {
        float *scratch = floats(fold__attention_floats(c, backward));
        fold__attend(f, c, i ? part : 0, i ? c->heads : part, scratch, backward);
        free(scratch);
    }
}

static void attention_compare(const fold__kernels *f, const attention *got, const attention *want, const char *what)
{
    for (int i = 0; i < OPERANDS; i++)
        for (size_t at = 0; at < want->o[i].size; at++) {
            const float a = got->o[i].r.base[at], b = want->o[i].r.base[at];
            const int ok = same(a, b) || (i == NORMS && a == b); /* the largest score may be 0 of either sign */
            HOLDS(ok, what, f->name, i, want->call.queries, want->call.keys);
            if (!ok) return;
        }
}

static void test_attention(const fold__kernels *f, int tries)
{
    static const int widths[] = { 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 64, 80 };
    const int n_widths = (int)(sizeof widths / sizeof *widths);
    for (int t = 0; t < tries; t++) {
        const int queries = attention_size(), keys = below(3) ? queries : attention_size(), heads = 1 + below(below(4) ? 2 : 8);
        const int width = widths[below(n_widths)], value_width = below(2) ? width : widths[below(n_widths)];
        const int by_index = below(3) == 0;
        attention want = attention_new(queries, keys, heads, width, value_width, !by_index && below(2)), got;
        const char *const what[2] = { by_index ? "attention by index" : want.call.causal ? "causal attention" : "attention",
                                      by_index ? "attention by index, backward" : want.call.causal ? "causal attention, backward" : "attention, backward" };
        float *panels = NULL;
        if (by_index) attention_look(&want, below(8) ? 40 : 3000);
        if (below(3) == 0) want.call.scale = 0.25f + (float)below(100) / 16.0f;
        if (below(4) == 0) attention_poison(&want);
        got = attention_copy(&want);
        attention_point(&got);
        forward_reference(f, &want.call);
        if (below(4) == 0 && !by_index) got.call.key_panels = panels = attention_panels(&got.call);
        attention_run(f, &got.call, 0);
        attention_compare(f, &got, &want, what[0]);
        if (below(4) == 0) { want.call.d_query.base = got.call.d_query.base = NULL; }
        if (below(4) == 0) { want.call.d_key.base = got.call.d_key.base = NULL; }
        if (below(4) == 0) { want.call.d_value.base = got.call.d_value.base = NULL; }
        backward_reference(f, &want.call);
        attention_run(f, &got.call, 1);
        attention_compare(f, &got, &want, what[1]);
        attention_shut(&want); attention_free(&want); attention_free(&got); free(panels);
    }
}

/* The sum of out times d_out in double precision, from operands that lie without gaps. */
static double attention_loss(const fold__attention_call *c, double *const *of)
{
    const double scale = c->scale != 0.0f ? (double)c->scale : 1 / sqrt((double)c->width);
    double loss = 0;
    for (int head = 0; head < c->heads; head++)
        for (int i = 0; i < c->queries; i++) {
            double weight[16], sum = 0;
            for (int j = 0; j < seen_by(c, i); j++) {
                double score = 0;
                for (int t = 0; t < c->width; t++)
                    score += of[QUERY][(i * c->heads + head) * c->width + t] *
                             of[KEY][(key_seen(c, i, j) * c->heads + head) * c->width + t];
                sum += weight[j] = exp(score * scale);
            }
            for (int j = 0; j < seen_by(c, i); j++)
                for (int t = 0; t < c->value_width; t++)
                    loss += weight[j] / sum * of[VALUE][(key_seen(c, i, j) * c->heads + head) * c->value_width + t] *
                            of[D_OUT][(i * c->heads + head) * c->value_width + t];
        }
    return loss;
}

/* Gradients against difference quotients in double precision. */
static void test_attention_gradient(const fold__kernels *f)
{
    for (int t = 0; t < 60; t++) {
        attention a = attention_new(below(7), below(12), 1 + below(3), 1 + below(9), 1 + below(20), below(2));
        double *of[D_OUT + 1];
        if (below(3) == 0) a.call.scale = 0.5f;
        if (!a.call.causal && below(2)) attention_look(&a, 16);
        for (int i = 0; i <= D_OUT; i++) {
            of[i] = (double *)malloc(((size_t)a.o[i].rows * (size_t)a.o[i].width + 1) * sizeof(double));
            for (int row = 0; row < a.o[i].rows; row++)
                for (int col = 0; col < a.o[i].width; col++)
                    of[i][row * a.o[i].width + col] = (double)(*row_of(&a.o[i].r, row, col) = (float)(below(2001) - 1000) / 1000.0f);
        }
        attention_run(f, &a.call, 0);
        attention_run(f, &a.call, 1);
        for (int i = QUERY; i <= VALUE; i++)
            for (int at = 0; at < a.o[i].rows * a.o[i].width; at++) {
                const double x = of[i][at], got = (double)*row_of(&a.o[i + D_QUERY].r, at / a.o[i].width, at % a.o[i].width);
                of[i][at] = x + 1e-4;
                const double above = attention_loss(&a.call, of);
                of[i][at] = x - 1e-4;
                const double want = (above - attention_loss(&a.call, of)) / 2e-4;
                of[i][at] = x;
                HOLDS(fabs(want - got) <= 1e-5 * (1 + fabs(want)), "attention's gradient", f->name, i, a.call.queries, a.call.keys);
            }
        for (int i = 0; i <= D_OUT; i++) free(of[i]);
        attention_shut(&a);
        attention_free(&a);
    }
}

/* Every step-th of all floats within the limit: how far a map is from its op, in units in the last place of the result, and
   whether that is within what is told of the op's accuracy. */
static void ulp_row(const fold__kernels *f, const char *name, const map_row *m, float scalar, double limit, uint32_t step)
{
    float x[256], y[256], ones[256], worst_x = 0.0f;
    double worst = 0.0;
    uint64_t u = 0;
    int n, i, in[2], result;
    for (i = 0; i < 256; i++) ones[i] = 1;
    while (u < 0x100000000u) {
        for (n = 0; n < 256 && u < 0x100000000u; n++, u += step) x[n] = float_of((uint32_t)u);
        map_of(f, m->map)(y, x, NULL, NULL, scalar, (size_t)n, 1, NULL);
        result = refer_map(m, x, ones, ones, scalar, n, in);
        for (i = 0; i < n; i++) {
            const double want = tape.value[result].v[i], error = fabs((double)y[i] - want);
            if (!(fabs((double)x[i]) <= limit) || want != want || fabs(want) > 3.4028235e38) continue;
            HOLDS(error <= tape.value[result].b[i], name, f->name, (int)bits_of(x[i]), (int)bits_of(y[i]), 0);
            if (error / ref_ulp(want) > worst) { worst = error / ref_ulp(want); worst_x = x[i]; }
        }
    }
    printf("  %-9s %-9s %8.3f ulp at %g\n", f->name, name, worst, (double)worst_x);
}

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }

static void time_product(const fold__kernels *f, int m, int k, int n)
{
    matrix a = make(m, k, 1), y = make(m, n, 0);
    float *w = floats((size_t)k * (size_t)n), *pack, *scratch = floats(fold__scratch_floats(f, k, n)), *raw;
    double best = 1e9, t, flop = 2.0 * m * k * n, pack_time = 1e9, wg = 1e9, bytes_time = 1e9;
    const fold__int8_kernels *kernels = fold__int8_kernels_for(f);
    float *bytes = floats((fold__format_size(kernels, k, n) + 64) / sizeof(float) + 16), *byte_scratch = floats(fold__int8_floats(kernels, SIZE_MAX, k));
    uint8_t *quads = (uint8_t *)(((uintptr_t)bytes + 63) & ~(uintptr_t)63);
    fold__seg seg;
    fold__product p;
    int i, rep, reps = (int)(2e7 / flop) + 1;
    raw = floats(fold__pack_floats(f, k, n) + 16);
    pack = (float *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
    for (i = 0; i < m * k; i++) a.data[i] = (float)(rnd() >> 8) / 8388608.0f - 1.0f;
    for (i = 0; i < k * n; i++) w[i] = (float)(rnd() >> 8) / 8388608.0f - 1.0f;
    for (i = 0; i < m * n; i++) y.data[i] = (float)(rnd() >> 8) / 8388608.0f - 1.0f;
    seg.input = a.r; seg.inner = k; seg.weights = pack; seg.row = 0;
    memset(&p, 0, sizeof p);
    p.rows = m; p.columns = n; p.n_seg = 1; p.seg = &seg; p.inner = k; p.output = y.r;
    fold__int8_pack(kernels, quads, w, k, n, 0);
    const fold__int8_weight weight = fold__int8_weight_at(kernels, quads, k, n, 0);
    for (rep = 0; rep < 15; rep++) {
        t = now();
        for (i = 0; i < reps; i++) fold__int8_product(kernels, &weight, &p, byte_scratch);
        t = (now() - t) / reps; if (t < bytes_time) bytes_time = t;
        t = now();
        for (i = 0; i < (reps + 7) / 8; i++) f->pack(pack, w, k, n, 1, 0, n);
        t = (now() - t) / ((reps + 7) / 8); if (t < pack_time) pack_time = t;
        t = now();
        for (i = 0; i < reps; i++) f->product(&p, scratch);
        t = (now() - t) / reps; if (t < best) best = t;
    }
    for (i = 0; i < m * n; i++) y.data[i] = (float)(rnd() >> 8) / 8388608.0f - 1.0f;
    memset(w, 0, (size_t)k * (size_t)n * sizeof *w);
    for (rep = 0; rep < 15; rep++) {
        t = now();
        for (i = 0; i < reps; i++) f->weight_grad(m, &a.r, k, &y.r, n, w, (size_t)n, scratch, 0);
        t = (now() - t) / reps; if (t < wg) wg = t;
    }
    printf("  %-9s rows %4d K %4d N %4d   product %7.2f   in bytes %7.2f (%.2f x)   weight_grad %7.2f GFLOP/s   packT %5.2f ns/float\n",
           f->name, m, k, n, flop / best * 1e-9, flop / bytes_time * 1e-9, best / bytes_time, flop / wg * 1e-9,
           pack_time * 1e9 / ((double)k * n));
    drop(&a); drop(&y); free(w); free(raw); free(scratch); free(bytes); free(byte_scratch);
}

static void time_maps(const fold__kernels *f)
{
    static const int maps[] = { FOLD__MAP_add, FOLD__MAP_exp, FOLD__MAP_log, FOLD__MAP_sigmoid, FOLD__MAP_tanh, FOLD__MAP_gelu_tanh, FOLD__MAP_softplus };
    float a[1000], y[1000];
    int i, j, rep;
    for (i = 0; i < 1000; i++) a[i] = (float)(rnd() >> 8) / 2097152.0f + 0.01f;
    printf("  %-9s ns per element:", f->name);
    for (j = 0; j < (int)(sizeof maps / sizeof *maps); j++) {
        double best = 1e9, t;
        for (rep = 0; rep < 10; rep++) {
            t = now();
            for (i = 0; i < 100; i++) map_of(f, maps[j])(y, a, a, a, 0.0f, 1000, 1, NULL);
            t = (now() - t) * 1e4; if (t < best) best = t;
        }
        printf(" %s %.2f", map_name[maps[j]], best);
    }
    printf("\n");
}

/* Every set that the header can have, the portable one first and those that sum in another order last. */
enum { PORTABLE, NEON, AVX2, AVX512, CBLAS, SETS };
static const char *const set_name[SETS] = { "portable", "neon", "avx2", "avx512", "cblas" };

/* The list above has every set that runs here: none is left out when another is added. */
static void test_best_is_known(void)
{
    const char *best = fold__kernels_for(NULL)->name;
    int known = 0;
    for (int i = 0; i < SETS; i++) known |= !strcmp(best, set_name[i]);
    HOLDS(known, "the best set is tested", best, 0, 0, 0);
}

/* What processors and systems tell that these kernels do not run on chooses lesser ones. */
static void test_passes(void)
{
#if FOLD__X86
    const uint32_t basic = 1u << 27 | 1u << 28 | 1u << 12, extended = 1u << 5, all = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    HOLDS(fold__pass_of(basic, 0xe6u, all) == 512, "all there is", "passes", 0, 0, 0);
    HOLDS(fold__pass_of(basic, 0x06u, all) == 256, "its registers are not saved", "passes", 512, 0, 0);
    HOLDS(fold__pass_of(basic, 0xe6u, extended) == 256, "no AVX-512", "passes", 0, 0, 0);
    for (int bit = 16; bit < 32; bit += bit == 17 ? 13 : 1)
        HOLDS(fold__pass_of(basic, 0xe6u, all & ~(1u << bit)) == 256, "a part of AVX-512 is missing", "passes", bit, 0, 0);
    HOLDS(fold__pass_of(basic, 0xe6u, all & ~(1u << 5)) == 1, "no AVX2", "passes", 0, 0, 0);
    HOLDS(fold__pass_of(basic, 0x02u, all) == 1, "registers are not saved", "passes", 256, 0, 0);
    for (int bit = 12; bit < 32; bit += bit == 12 ? 15 : bit == 27 ? 1 : 4)
        HOLDS(fold__pass_of(basic & ~(1u << bit), 0xe6u, all) == 1, "no AVX, FMA or saving", "passes", bit, 0, 0);
    HOLDS(fold__pass_of(0, 0, 0) == 1, "nothing", "passes", 0, 0, 0);
#endif
}

/* Limits that no recording comes near, and sizes that no memory holds. */
static void test_limits(void)
{
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    HOLDS(!fold__malloc(SIZE_MAX - 100, 64, NULL) && !fold__malloc(SIZE_MAX / 2, 64, NULL), "too much", "malloc", 0, 0, 0);
    HOLDS(!fold__arena_need(&m->arena, 0, SIZE_MAX / 2), "too much", "arena", 0, 0, 0);
    HOLDS(!fold__grow_nodes(f, UINT32_MAX / 2) && strstr(fold_ctx_message(f), "at most two billion nodes"), "the message",
          "nodes", 0, 0, 0);
    fold_ctx_reset(f);
    HOLDS(!fold__grow_edges(f, UINT32_MAX / 2 + 1) && strstr(fold_ctx_message(f), "at most two billion operands"), "the message",
          "operands", 0, 0, 0);
    m->span = INT_MAX - 64;
    fold_bias_new(m, "b", 64);
    HOLDS(strstr(fold_model_message(m), "the model would have more than 2147483647 values") != NULL, "the message", "values", 0, 0, 0);
    m->span = 0;
    fold_ctx_free(f);
    fold_model_free(m);
}

static void test_set(const fold__kernels *f, int share)
{
    RUN(f->name, test_product(f, 2500 / share));
    RUN(f->name, test_byte_product(f, 1500 / share));
    RUN(f->name, test_half_product(f, 300 / share));
    RUN(f->name, test_weight_grad(f, 200 / share, 0));
    RUN(f->name, test_weight_grad(f, 200 / share, 1));
    if (!strcmp(f->name, "cblas")) return; /* the rest is another set's */
    RUN(f->name, test_add_products(f));
    RUN(f->name, test_maps(f));
    RUN(f->name, test_map_rows(f));
    RUN(f->name, test_reductions(f));
    RUN(f->name, test_exp_sum(f));
    RUN(f->name, test_max_of_nan(f));
    RUN(f->name, test_fading_states(f));
    RUN(f->name, test_edges(f));
    RUN(f->name, test_domains(f));
    RUN(f->name, test_gelu_tanh_slope(f));
    RUN(f->name, test_fma(f, 30000 / share));
    RUN(f->name, test_attention(f, 1000 / share));
    RUN(f->name, test_attention_gradient(f));
}

/* Against the first set of the same arithmetic: under FOLD_REPRODUCIBLE that is the portable one for all. */
static void test_sets_agree(const fold__kernels *const *set, int share)
{
    const fold__kernels *first = NULL;
    for (int i = 0; i < CBLAS; i++) {
        if (!set[i] || (!first && !fused(set[i]))) continue;
        if (first) RUN(set[i]->name, test_same(first, set[i], 2000 / share));
        else first = set[i];
    }
}

static const map_row *row_of_map(int map)
{
    const map_row *m = map_rows;
    while (m->map != map) m++;
    return m;
}
static void test_ulps(const fold__kernels *f, uint32_t step)
{
    static const struct { const char *name; int map; float scalar; double limit; } row[] = {
        { "exp", FOLD__MAP_exp, 0, 1e39 },         { "log", FOLD__MAP_log, 0, 1e39 },
        { "tanh", FOLD__MAP_tanh, 0, 1e39 },       { "sigmoid", FOLD__MAP_sigmoid, 0, 1e39 },
        { "softplus", FOLD__MAP_softplus, 0, 1e39 }, { "gelu_tanh", FOLD__MAP_gelu_tanh, 0, 1e39 },
        { "gelu", FOLD__MAP_gelu, 0, 1e39 }, { "silu", FOLD__MAP_silu, 0, 1e39 },
        { "silu near", FOLD__MAP_silu, 0, 87 },    { "elu", FOLD__MAP_elu, 1, 1e39 },
        { "sin", FOLD__MAP_sin, 0, 262144 },       { "cos", FOLD__MAP_cos, 0, 262144 },
        { "floor", FOLD__MAP_floor, 0, 1e39 },     { "pow 2", FOLD__MAP_pow, 2, 1e39 },
        { "pow -1", FOLD__MAP_pow, -1, 1e39 },     { "pow 1/2", FOLD__MAP_pow, 0.5f, 1e39 },
        { "pow 1/3", FOLD__MAP_pow, 1.0f / 3, 1e39 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        RUN(f->name, ulp_row(f, row[i].name, row_of_map(row[i].map), row[i].scalar, row[i].limit, step));
}

static void time_set(const fold__kernels *f)
{
    static const int shape[][3] = { { 1, 300, 450 },   { 2, 300, 450 },  { 3, 300, 450 },  { 4, 300, 450 },   { 5, 300, 450 },
                                    { 6, 300, 450 },   { 7, 300, 448 },  { 8, 300, 450 },  { 9, 300, 450 },   { 12, 150, 192 },
                                    { 16, 300, 450 },  { 48, 300, 448 }, { 48, 150, 450 }, { 256, 300, 450 }, { 256, 784, 1024 },
                                    { 768, 300, 600 }, { 1, 512, 512 }, { 256, 64, 64 },  { 256, 32, 20 },  { 256, 300, 5 },   { 1, 300, 5 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) time_product(f, shape[i][0], shape[i][1], shape[i][2]);
    time_maps(f);
}

/* test_kernels [quick | short | full | time [set]]; short: a tenth of the random cases, or less under a sanitizer */
#if defined(__SANITIZE_ADDRESS__)
enum { SHORT = 40 };
#else
enum { SHORT = 10 };
#endif
/* -- slices of one long list -------------------------------------------------------------------------- */

/* A clock that goes on as a slow op works: its forward by 500 a call and 100 a row, its backward by twice that; and, as gradients
   of weights are summed, by one for each thousand multiplications. */
static uint64_t work_clock;
static uint64_t clock_of_work(void *user)
{
    (void)user;
    return work_clock;
}
static const char *slow_infer(const fold_shape *in, int n_in, const int32_t *attr, fold_shape *out)
{
    (void)n_in; (void)attr;
    out[0] = in[0];
    return NULL;
}
static void slow_forward(const fold_op_call *call)
{
    work_clock += 500 + 100 * (uint64_t)call->rows;
    for (int row = 0; row < call->rows; row++)
        memcpy(fold_row(&call->out[0], row), fold_row(&call->in[0], row), sizeof(float) * (size_t)call->out_shape[0].dim[0]);
}
static void slow_backward(const fold_op_call *call)
{
    work_clock += 1000 + 200 * (uint64_t)call->rows;
    for (int row = 0; row < call->rows && fold_row(&call->din[0], row); row++)
        memcpy(fold_row(&call->din[0], row), fold_row(&call->dout[0], row), sizeof(float) * (size_t)call->out_shape[0].dim[0]);
}
static const fold__kernels *untimed;
static void timed_weight_grad(int rows, const fold_rows *input, int inner, const fold_rows *dy, int columns,
                              float *dw, size_t ldw, float *scratch, int apart)
{
    work_clock += (uint64_t)rows * (uint64_t)inner * (uint64_t)columns / 1000;
    untimed->weight_grad(rows, input, inner, dy, columns, dw, ldw, scratch, apart);
}

/* No slice of a run over one long list takes much longer than it may: forward, backward, nor in the sums of a
   weight with two uses. */
static void one_long_list(void)
{
    enum { LONG = 3000, WIDE = 64, LIMIT = 4000 };
    static float in[LONG * WIDE], want[WIDE * WIDE];
    for (int i = 0; i < LONG * WIDE; i++) in[i] = 0.1f * (float)(i * 37 % 41 - 20);
    for (int training = 0; training < 2; training++) {
        fold_model *m = fold_model_new(NULL);
        fold_op_desc slow_desc = fold_op_desc_default();
        slow_desc.name = "slow";
        slow_desc.n_in = slow_desc.n_out = 1;
        slow_desc.infer = slow_infer;
        slow_desc.forward = slow_forward;
        slow_desc.backward = slow_backward;
        const fold_op slow = fold_op_new(m, &slow_desc);
        fold__kernels timed = *m->kernels;
        untimed = m->kernels;
        timed.weight_grad = timed_weight_grad;
        m->kernels = &timed;
        const fold_param W = fold_weight_new(m, "wide", WIDE, WIDE);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = training;
        d.clock = clock_of_work;
        d.group_bytes = SIZE_MAX;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node input = fold_list_input_ref(f, in, LONG, fold_shape1(WIDE));
        const fold_node x = fold_linear(f, input, W, FOLD_NULL_PARAM), y = fold_op_apply(f, slow, &x, 1, NULL, 0);
        const fold_node loss = fold_sum(f, fold_list_mean(f, fold_linear(f, y, W, FOLD_NULL_PARAM)), FOLD_ALL);
        for (int time = 0; time < 5; time++) { /* at once, to learn, and in slices, replayed in the end */
            int slice_count = 0;
            fold_grads_clear(m);
            const fold_status begun = time ? fold_replay_begin(f) : training ? fold_backward(f, loss) : fold_run(f, &loss, 1);
            HOLDS(!begun, "long list: begin", "", training, time, (int)begun);
            for (int more = time > 0; more; slice_count++) {
                const uint64_t begin = work_clock;
                HOLDS(!fold_run_more(f, LIMIT, &more), "long list: more", "", training, time, slice_count);
                const int took = (int)(work_clock - begin);
                HOLDS(time < 2 || took <= LIMIT + 1000, "long list: a slice took long", "", training, time, took);
            }
            HOLDS(!time || slice_count > 50, "long list: slices", "", training, time, slice_count);
            if (!time && training) memcpy(want, fold_param_grad(m, W), sizeof want);
            int wrong = 0; /* bits are those of a run at once, but for cblas */
            const int equal = strcmp(fold_model_isa(m), "cblas") != 0;
            for (int i = 0; i < WIDE * WIDE && training; i++) {
                const float got = fold_param_grad(m, W)[i];
                wrong += equal ? got != want[i] : !(fabsf(got - want[i]) <= 1e-5f * (1 + fabsf(want[i])));
            }
            HOLDS(!wrong, "long list: gradient", fold_model_isa(m), training, time, wrong);
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Sums and products of bytes stop at SIZE_MAX, which no allocator grants. */
static void sizes_stop(void)
{
    const size_t most = SIZE_MAX, half = SIZE_MAX / 2;
    const struct { size_t got, want; } sizes[] = {
        { fold__size(2, 3, 4), 10 }, { fold__size(half / 8, 8, 6), half / 8 * 8 + 6 }, { fold__size(5, 0, 1), 1 },
        { fold__size(half / 8 + 1, 8, 0), most }, { fold__size(half, half, 0), most }, { fold__size(1, 1, most), most },
        { fold__size(0, 1, half + 1), most }, { fold__size(2, 3, fold__size(half, 2, 0)), most }
    };
    int i;
    for (i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) HOLDS(sizes[i].got == sizes[i].want, "a size stops at the largest", "all", i, 0, 0);
}

/* Times of more than 2^32 ns keep their upper half. The time of a unit of work is a mean, which moves by a sixteenth. */
static void times_are_learned(void)
{
    fold__work_unit unit = { 0, 0 };
    HOLDS(fold__as_double(UINT64_C(5) << 32 | 3) == 21474836483.0, "a long time", "all", 0, 0, 0);
    fold__learn_unit(&unit, 4, 32);
    HOLDS(fold__unit_ns(&unit) == 8, "the first time", "all", 0, 0, 0);
    fold__learn_unit(&unit, 1, 40);
    fold__learn_unit(&unit, 0, 1000); /* nothing was done */
    HOLDS(fold__unit_ns(&unit) == 10, "a mean of times", "all", 0, 0, 0);
}

/* An element that a cell was given is no concatenation, whatever the memory held before. */
static void linear_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const fold_param none = { 0, 0 };
    out[0] = fold_list_sum(f, fold_linear(f, in[1], *(const fold_param *)user, none));
}
static void elements_are_given(void)
{
    const float x = 3;
    fold_model *m = fold_model_new(NULL);
    const fold_param W = fold_weight_new(m, "W", 1, 1);
    fold_cell_desc c = fold_cell_desc_default();
    c.name = "linear";
    c.body = linear_body;
    c.user = &W;
    c.n_in = c.n_list = c.n_out = 1;
    c.in[0] = c.list[0] = fold_shape1(1);
    const fold_cell cell = fold_cell_new(m, &c);
    fold_ctx_desc d = fold_ctx_desc_default();
    d.eager = 1;
    fold_ctx *f = fold_ctx_new(m, &d);
    const fold_node node = fold_tanh(f, fold_input(f, &x, 1));
    memset(&f->sigs[0], 0, sizeof f->sigs[0]); /* no signature: nothing may read it */
    f->sigs[0].op = FOLD__OP_concat;
    f->sigs[0].out_shape[0] = f->shape[node.id];
    const fold_node y = fold_call_n(f, cell, &node, 1, &node, 1);
    CHECK_SAYS(!fold_node_is_null(y) && !fold_run(f, &y, 1), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
    fold_model_free(m);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *only = argc > 2 ? argv[2] : NULL;
    const int has_mode = *mode && strstr("quick short full time", mode) != NULL;
    const fold__kernels *set[SETS];
    const fold__fp saved = fold__fp_enter(0);
    const int share = strcmp(mode, "short") ? 1 : SHORT;
    const uint32_t step = !strcmp(mode, "full") ? 7u : 8209u * (uint32_t)(share * share);
    int i;
    check_start(argc - has_mode, argv + has_mode);
    for (i = 0; i < SETS; i++) set[i] = fold__kernels_for(set_name[i]);
    printf("best: %s\n", fold__kernels_for(NULL)->name);
    if (!strcmp(mode, "time")) {
        for (i = 0; i < SETS; i++)
            if (set[i] && (!only || !strcmp(only, set_name[i]))) time_set(set[i]);
        return 0;
    }
    RUN("all", test_best_is_known());
    RUN("all", test_passes());
    RUN("all", test_limits());
    RUN("all", sizes_stop());
    RUN("all", times_are_learned());
    RUN("all", elements_are_given());
    if (share == 1) RUN("all", one_long_list());
    for (i = 0; i < SETS; i++) {
        if (set[i]) test_set(set[i], share);
        else check_skip("kernels %s (not on this machine, or not compiled in)", set_name[i]);
    }
    test_sets_agree(set, share);
    for (i = 0; i < CBLAS; i++)
        if (set[i]) test_ulps(set[i], step);
    fold__fp_leave(saved);
    return check_finish();
}
