/* decode.h - decoding: sequences that grow by a query, a key and a value of 8 heads of 64 at each of 512 steps, every one a
   recording and a run of its own, in which the query attends to all rows so far. */

enum { DECODE_STEPS = 512, DECODE_HEADS = 8, DECODE_WIDTH = 512, DECODE_MOST = 64 };
typedef struct decode {
    fold_model *m;
    fold_ctx *f;
    int sequences;
    float *values;               /* of all steps: query, key, value */
    fold_cache cache[DECODE_MOST];
    float *memory[DECODE_MOST];
} decode;

static void decode_open(decode *d, const options *o)
{
    fold_model_desc model = fold_model_desc_default();
    fold_ctx_desc ctx = fold_ctx_desc_default();
    const size_t floats = (size_t)3 * DECODE_STEPS * DECODE_WIDTH;
    memset(d, 0, sizeof *d);
    d->sequences = o->s.batch > 0 ? o->s.batch : 1;
    if (d->sequences > DECODE_MOST) die("decode: at most 64 sequences", "");
    model.isa = o->isa;
    model.inference = 1;
    ctx.plan_cache_bytes = o->plan_cache ? (size_t)1 << 20 : 0;
    ctx.eager = o->schedule == EAGER;
    d->m = fold_model_new(&model);
    d->f = fold_ctx_new(d->m, &ctx);
    if (!d->f || fold_model_status(d->m)) die("decode: ", fold_model_message(d->m));
    d->values = (float *)take(NULL, floats, sizeof(float));
    for (size_t i = 0; i < floats; i++) d->values[i] = (float)((i * 2654435761u >> 8) & 1023) / 1024.0f - 0.5f;
    for (int i = 0; i < d->sequences; i++) {
        fold_cache *c = &d->cache[i];
        c->capacity = DECODE_STEPS;
        c->heads = DECODE_HEADS;
        c->width = DECODE_WIDTH;
        d->memory[i] = (float *)take(NULL, fold_cache_bytes(c) + 64, 1);
        c->memory = d->memory[i] + (64 - ((uintptr_t)d->memory[i] & 63)) / sizeof(float);
    }
}
static void decode_close(decode *d)
{
    for (int i = 0; i < d->sequences; i++) free(d->memory[i]);
    free(d->values);
    fold_ctx_free(d->f);
    fold_model_free(d->m);
}

static fold_node decode_row(decode *d, int step, int part)
{
    return fold_input_ref(d->f, d->values + (size_t)(3 * step + part) * DECODE_WIDTH, fold_shape1(DECODE_WIDTH));
}
/* All steps of all sequences; the bits of the last step, which may be exported. */
static uint64_t decode_all(decode *d, const char *path)
{
    fold_node found[DECODE_MOST];
    for (int i = 0; i < d->sequences; i++) fold_cache_truncate(&d->cache[i], 0);
    for (int step = 0; step < DECODE_STEPS; step++) {
        fold_ctx_reset(d->f);
        for (int i = 0; i < d->sequences; i++) {
            const fold_node q = decode_row(d, step, 0), k = decode_row(d, step, 1), v = decode_row(d, step, 2);
            found[i] = fold_attention_step(d->f, &d->cache[i], q, k, v);
        }
        if (fold_run(d->f, found, d->sequences)) die(fold_ctx_message(d->f), "");
    }
    if (path) {
        FILE *file = fopen(export_path(path, "outputs"), "wb");
        export_floats(file, fold_value(d->f, found[0]), DECODE_WIDTH);
        fclose(file);
    }
    return hash_floats(14695981039346656037u, fold_value(d->f, found[0]), DECODE_WIDTH);
}

static void decode_run(const options *o)
{
    decode d;
    double taken[4096];
    int n = 0;
    decode_open(&d, o);
    const uint64_t checksum = decode_all(&d, o->export);
    if (o->export) {
        decode_close(&d);
        return;
    }
    const char *isa = fold_model_isa(d.m);
    const double start = now_seconds(), before = fma_peak(isa);
    while (n < 3 || (n < 4096 && now_seconds() - start < o->seconds)) {
        const double begin = now_seconds();
        decode_all(&d, NULL);
        taken[n++] = now_seconds() - begin;
    }
    const double peak = 0.5 * (before + fma_peak(isa)), seconds = median(taken, n), steps = (double)d.sequences * DECODE_STEPS;
    const double rate = 2.0 * steps * (DECODE_STEPS + 1) * DECODE_WIDTH / seconds;
    if (o->json)
        printf("{\"workload\":\"decode\",\"mode\":\"infer\",\"batch\":%d,\"threads\":1,\"schedule\":\"%s\",\"isa\":\"%s\",\"samples_per_s\":%.6g,"
               "\"units_per_s\":%.6g,\"unit\":\"steps\",\"flop_per_s\":%.6g,\"fma_peak_flop_per_s\":%.6g,\"peak_fraction\":%.4f,"
               "\"plan_cache\":%s,\"checksum\":\"%016llx\"}\n",
               d.sequences, schedule_names[o->schedule], isa, d.sequences / seconds, steps / seconds, rate, peak, rate / peak,
               o->plan_cache ? "true" : "false", (unsigned long long)checksum);
    else
        printf("decode %d of 512 steps, 8 x 64: %.2f us a step, %.1f GFLOP/s, %.1f %%\n", d.sequences, 1e6 * seconds / steps, rate / 1e9,
               100 * rate / peak);
    fflush(stdout);
    decode_close(&d);
}
