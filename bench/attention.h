/* attention.h - the kernels of attention alone, forward and backward, in multiplications and additions a second of what the
   rows see: 4 q k d forward, 10 q k d backward. The share is of the peak of fused multiply-adds, measured in turns with them. */

enum { ATTEND_FORWARD, ATTEND_BACKWARD, ATTEND_PEAK, ATTEND_TIMES, ATTEND_LOOPS = 100000, ATTEND_PARTS = 512, ATTEND_PAIRS = 10000000 };
typedef struct attend_shape {
    const char *name;
    int lists, least, most; /* lengths are spread evenly from least to most */
    int heads, width, causal;
    int decoding;           /* 1: one query a call, of each length from least to most, no backward; 2: keys kept as panels */
} attend_shape;
static const attend_shape attend_shapes[] = {
    { "64 of 5..40, 4 x 32", 64, 5, 40, 4, 32, 0, 0 },     { "the same, causal", 64, 5, 40, 4, 32, 1, 0 },
    { "16 of 64..512, 8 x 64", 16, 64, 512, 8, 64, 0, 0 }, { "the same, causal", 16, 64, 512, 8, 64, 1, 0 },
    { "decoding 512, 8 x 64", 512, 1, 512, 8, 64, 0, 1 },  { "the same, keys in panels", 512, 1, 512, 8, 64, 0, 2 },
};

/* The operands of all lists of a shape, end to end; of decoding, one list that grows. */
typedef struct attend {
    const fold__kernels *k;
    const attend_shape *shape;
    size_t rows, width;
    float *blocks[8], *norms, *scratch, *panels; /* at multiples of 64 bytes */
    char *taken[11]; int n_taken;
} attend;

static int attend_length(const attend_shape *s, int list) { return s->least + list * (s->most - s->least) / (s->lists - 1); }

static fold__attention_call attend_call(const attend *a, int list, size_t row)
{
    fold__attention_call call;
    fold_rows *const rows[] = { &call.query, &call.key, &call.value, &call.out, &call.d_out, &call.d_query, &call.d_key, &call.d_value };
    memset(&call, 0, sizeof call);
    call.keys = attend_length(a->shape, list);
    call.queries = a->shape->decoding ? 1 : call.keys;
    call.heads = a->shape->heads;
    call.width = call.value_width = a->shape->width;
    call.causal = a->shape->causal;
    for (int i = 0; i < 8; i++) rows[i]->base = a->blocks[i] + row * a->width, rows[i]->stride = (ptrdiff_t)a->width;
    call.norms.base = a->norms + row * 2 * (size_t)call.heads;
    call.norms.stride = 2 * call.heads;
    if (a->shape->decoding == 2) call.key_panels = a->panels;
    return call;
}

/* Pairs of a query and a key that it sees, of all heads, times the width of a head. */
static double attend_pairs(const attend_shape *s, int list)
{
    const double n = attend_length(s, list);
    return (s->decoding ? n : s->causal ? n * (n + 1) / 2 : n * n) * s->heads * s->width;
}

/* All lists, in parts that take a millisecond at most, and each part's best time so far: on a machine with other work a long
   run is always interrupted. */
static double attend_once(const attend *a, int backward, double *best)
{
    double all = 0, pairs = 0, start = now_seconds();
    size_t row = 0;
    int part = 0;
    for (int list = 0; list < a->shape->lists; list++) {
        const fold__attention_call call = attend_call(a, list, row);
        if (call.key_panels) {
            fold_rows key = call.key;
            key.base += (call.keys - 1) * key.stride;
            fold__attention_append(a->panels, &key, call.keys - 1, 1, call.heads, call.width);
        }
        fold__attend(a->k, &call, 0, call.heads, a->scratch, backward);
        if (!a->shape->decoding) row += (size_t)call.keys;
        pairs += attend_pairs(a->shape, list);
        if (list + 1 < a->shape->lists && pairs < ATTEND_PAIRS) continue;
        const double seconds = now_seconds() - start;
        if (best[part] == 0 || seconds < best[part]) best[part] = seconds;
        all += best[part++];
        pairs = 0;
        start = now_seconds();
    }
    return all;
}

static float *attend_floats(attend *a, size_t n)
{
    char *p = a->taken[a->n_taken++] = (char *)take(NULL, n * sizeof(float) + 64, 1);
    float *block = (float *)(void *)(p + (64 - ((uintptr_t)p & 63)));
    for (size_t i = 0; i < n; i++) block[i] = (float)((i * 2654435761u >> 8) & 1023) / 512.0f - 1.0f;
    return block;
}

static void attend_open(attend *a, const attend_shape *shape)
{
    a->shape = shape;
    a->width = (size_t)(shape->heads * shape->width);
    a->rows = 0;
    a->n_taken = 0;
    for (int list = 0; list < shape->lists; list++) a->rows += (size_t)attend_length(shape, list);
    for (int block = 0; block < 8; block++) a->blocks[block] = attend_floats(a, a->rows * a->width);
    a->norms = attend_floats(a, a->rows * 2 * (size_t)shape->heads);
    a->panels = attend_floats(a, (size_t)(shape->most + 63) / 64 * 64 * a->width);
    const fold__attention_call largest = attend_call(a, shape->lists - 1, 0);
    a->scratch = attend_floats(a, fold__attention_floats(&largest, 1));
}

static void attend_line(const attend *a, const double *best, double peak, int json)
{
    double pairs = 0;
    for (int list = 0; list < a->shape->lists; list++) pairs += attend_pairs(a->shape, list);
    for (int way = 0; way < (a->shape->decoding ? 1 : 2); way++) {
        const double rate = (way ? 10 : 4) * pairs / best[way];
        if (json)
            printf("{\"workload\":\"attention-kernels\",\"shape\":\"%s\",\"causal\":%d,\"product\":\"%s\",\"isa\":\"%s\",\"threads\":1,"
                   "\"flop_per_s\":%.6g,\"fma_peak_flop_per_s\":%.6g,\"peak_fraction\":%.4f}\n",
                   a->shape->name, a->shape->causal, way ? "backward" : "forward", a->k->name, rate, peak, rate / peak);
        else
            printf("%s%7.1f GFLOP/s %5.1f %%", way ? "  backward" : "", rate / 1e9, 100 * rate / peak);
    }
    if (!json) putchar('\n');
    fflush(stdout);
}

/* The best times of as many turns as fit. */
static void attend_measure(const attend *a, double seconds, double *best)
{
    const peak_kind peak = peak_of(a->k->name);
    const double end = now_seconds() + seconds;
    double parts[2][ATTEND_PARTS] = { { 0 } };
    best[ATTEND_PEAK] = 1e30;
    for (int turn = 0; turn < 3 || now_seconds() < end; turn++) {
        best[ATTEND_FORWARD] = attend_once(a, 0, parts[0]);
        if (!a->shape->decoding) best[ATTEND_BACKWARD] = attend_once(a, 1, parts[1]);
        const double start = now_seconds();
        peak.run(ATTEND_LOOPS);
        const double time = now_seconds() - start;
        if (time < best[ATTEND_PEAK]) best[ATTEND_PEAK] = time;
    }
}

static void attend_run(const char *isa, double seconds, int json)
{
    attend a;
    memset(&a, 0, sizeof a);
    a.k = fold__kernels_for(isa);
    if (!a.k) die("this machine has no isa ", isa);
    for (size_t i = 0; i < sizeof attend_shapes / sizeof *attend_shapes; i++) {
        double best[ATTEND_TIMES];
        attend_open(&a, &attend_shapes[i]);
        if (!json) printf("attention %-24s", a.shape->name);
        attend_measure(&a, seconds, best);
        attend_line(&a, best, ATTEND_LOOPS * peak_of(a.k->name).flop_per_loop / best[ATTEND_PEAK], json);
        for (int block = 0; block < a.n_taken; block++) free(a.taken[block]);
    }
}
