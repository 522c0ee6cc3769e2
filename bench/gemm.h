/* gemm.h - the kernels alone: the three products of a linear layer with weight W [K x N], for M rows.
   Each is held against a bound: the peak of fused multiply-adds, or the operands' bytes at the speed at which
   as many bytes are read over and over, whichever takes longer. */

enum { GEMM_FORWARD, GEMM_INPUTS, GEMM_WEIGHTS, GEMM_PRODUCTS, GEMM_MS = 9, GEMM_SHAPES = 8 };
static const char *const gemm_names[GEMM_PRODUCTS] = { "Y=XW", "dX+=dYWT", "dW+=XTdY" };
static const int gemm_m[GEMM_MS] = { 1, 2, 3, 4, 6, 12, 48, 240, 768 };
static const int gemm_kn[GEMM_SHAPES][2] = { { 8, 64 },    { 64, 64 },    { 150, 5 },   { 150, 450 },
                                             { 300, 600 }, { 512, 1024 }, { 784, 200 }, { 200, 10000 } };

/* Operands of the largest case, at multiples of 64 bytes and with room for a vector read past their ends. */
typedef struct gemm {
    const fold__kernels *k;
    float *x, *w, *y, *dw, *pack, *pack_t, *scratch;
    char *blocks[7]; int n_blocks;
} gemm;

static float *gemm_floats(gemm *g, size_t n)
{
    char *p = g->blocks[g->n_blocks++] = (char *)take(NULL, n * sizeof(float) + 256, 1);
    float *a = (float *)(void *)(p + (64 - ((uintptr_t)p & 63)));
    for (size_t i = 0; i < n; i++) a[i] = (float)((i * 2654435761u >> 8) & 1023) / 4096.0f - 0.125f;
    return a;
}

static fold_rows gemm_rows(float *base, int width)
{
    const fold_rows r = { base, width, NULL };
    return r;
}

/* add: chains go on from what is in `to`. */
static void gemm_product(const gemm *g, int m, int k, int n, const float *pack, float *from, float *to, int add)
{
    fold__seg seg;
    fold__product p;
    memset(&p, 0, sizeof p);
    seg.input = gemm_rows(from, k);
    seg.weights = pack;
    seg.inner = k;
    p.rows = m;
    p.columns = n;
    p.n_seg = 1;
    p.inner = k;
    p.seg = &seg;
    p.output = gemm_rows(to, n);
    if (add) p.init = p.output;
    g->k->product(&p, g->scratch);
}

static void gemm_once(const gemm *g, int product, int m, int k, int n)
{
    if (product == GEMM_FORWARD) gemm_product(g, m, k, n, g->pack, g->x, g->y, 0);
    if (product == GEMM_INPUTS) gemm_product(g, m, n, k, g->pack_t, g->y, g->x, 1);
    if (product == GEMM_WEIGHTS) {
        const fold_rows x = gemm_rows(g->x, k), dy = gemm_rows(g->y, n);
        g->k->weight_grad(m, &x, k, &dy, n, g->dw, (size_t)n, g->scratch, 0);
    }
}

/* Seconds of one call: the median of blocks of calls of about a millisecond. */
static double gemm_time(const gemm *g, int product, int m, int k, int n, double seconds)
{
    double blocks[64];
    int count = 0;
    double start = now_seconds();
    gemm_once(g, product, m, k, n);
    const double once = now_seconds() - start;
    const int calls = once > 1e-3 ? 1 : (int)(1e-3 / (once + 1e-8)) + 1;
    const double end = now_seconds() + seconds;
    do {
        start = now_seconds();
        for (int i = 0; i < calls; i++) gemm_once(g, product, m, k, n);
        blocks[count++] = (now_seconds() - start) / calls;
    } while (count < 64 && (count < 3 || now_seconds() < end));
    return median(blocks, count);
}

static void gemm_shape(gemm *g, int k, int n)
{
    g->k->pack(g->pack, g->w, k, n, 0, 0, k);
    g->k->pack(g->pack_t, g->w, n, k, 1, 0, k);
    memset(g->dw, 0, (size_t)k * (size_t)n * sizeof *g->dw);
}

/* One shape, all products and rows: a JSON line each, or a table of per cent of the bound. */
static void gemm_lines(gemm *g, int k, int n, double seconds, double peak, int json)
{
    double share[GEMM_PRODUCTS][GEMM_MS];
    gemm_shape(g, k, n);
    for (int i = 0; i < GEMM_MS; i++) {
        const double m = gemm_m[i], flop = 2 * m * k * n;
        const double size = 4 * (m * k + m * n + (double)k * n), bandwidth = read_bandwidth(g->k->name, (size_t)size);
        for (int p = 0; p < GEMM_PRODUCTS; p++) {
            const double again = p == GEMM_INPUTS ? 4 * m * k : p == GEMM_WEIGHTS ? 4.0 * k * n : 0; /* read and written */
            const double memory = flop / (size + again) * bandwidth, bound = memory < peak ? memory : peak;
            const double rate = flop / gemm_time(g, p, gemm_m[i], k, n, seconds);
            share[p][i] = rate / bound;
            if (!json) continue;
            printf("{\"workload\":\"gemm\",\"product\":\"%s\",\"m\":%d,\"k\":%d,\"n\":%d,\"isa\":\"%s\",\"threads\":1", gemm_names[p], gemm_m[i], k,
                   n, g->k->name);
            printf(",\"flop_per_s\":%.6g,\"fma_peak_flop_per_s\":%.6g,\"peak_fraction\":%.4f", rate, peak, rate / peak);
            printf(",\"bandwidth_bytes_per_s\":%.6g,\"bound\":%.6g,\"bound_fraction\":%.4f}\n", bandwidth, bound, rate / bound);
        }
    }
    for (int p = 0; p < GEMM_PRODUCTS && !json; p++) {
        printf("gemm %4d x %-5d %-8s", k, n, gemm_names[p]);
        for (int i = 0; i < GEMM_MS; i++) printf(" %5.1f", 100 * share[p][i]);
        putchar('\n');
    }
    fflush(stdout);
}

/* All shapes in about `seconds` for every 200 cases. */
static void gemm_run(const char *isa, double seconds, int json)
{
    gemm g;
    size_t most_w = 0, most_x = 0, most_y = 0, most_scratch = 0, most_pack = 0;
    memset(&g, 0, sizeof g);
    g.k = fold__kernels_for(isa);
    if (!g.k) die("this machine has no isa ", isa);
    for (int i = 0; i < GEMM_SHAPES; i++) {
        const int k = gemm_kn[i][0], n = gemm_kn[i][1];
        most_w = fold__max_size(most_w, (size_t)k * (size_t)n);
        most_x = fold__max_size(most_x, (size_t)gemm_m[GEMM_MS - 1] * (size_t)k);
        most_y = fold__max_size(most_y, (size_t)gemm_m[GEMM_MS - 1] * (size_t)n);
        most_pack = fold__max_size(most_pack, fold__max_size(fold__pack_floats(g.k, k, n), fold__pack_floats(g.k, n, k)));
        most_scratch = fold__max_size(most_scratch, fold__max_size(fold__scratch_floats(g.k, k, n), fold__scratch_floats(g.k, n, k)));
    }
    g.x = gemm_floats(&g, most_x);
    g.y = gemm_floats(&g, most_y);
    g.w = gemm_floats(&g, most_w);
    g.dw = gemm_floats(&g, most_w);
    g.pack = gemm_floats(&g, most_pack);
    g.pack_t = gemm_floats(&g, most_pack);
    g.scratch = gemm_floats(&g, most_scratch);
    const double peak = fma_peak(g.k->name);
    if (!json) {
        printf("\n%-24s", "per cent of the bound, M");
        for (int i = 0; i < GEMM_MS; i++) printf(" %5d", gemm_m[i]);
        putchar('\n');
    }
    for (int i = 0; i < GEMM_SHAPES; i++) gemm_lines(&g, gemm_kn[i][0], gemm_kn[i][1], seconds / 200, peak, json);
    for (int i = 0; i < g.n_blocks; i++) free(g.blocks[i]);
}
