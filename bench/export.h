/* export.h - what a workload computes, written to files for other libraries, which compare their values with it. */

/* PATH.values and PATH.gradients are safetensors, PATH.outputs plain floats: names end so. */
static const char *export_path(const char *path, const char *what)
{
    static char name[512];
    if (snprintf(name, sizeof name, "%s.%s", path, what) >= (int)sizeof name) die("too long: ", path);
    return name;
}
static void export_floats(FILE *file, const float *x, size_t n)
{
    if (!file || fwrite(x, sizeof *x, n, file) != n) die("cannot write what is exported", "");
}
static void export_model(fold_model *m, const char *path, const char *what)
{
    if (fold_model_save(m, export_path(path, what), NULL)) die(fold_model_message(m), "");
}
/* Writes the samples of all batches: how many batches; of each how many items and samples, these line by line. */
static void export_samples(const bench *b)
{
    FILE *file = fopen(export_path(b->o->export, "samples"), "w");
    if (!file) die("cannot write what is exported", "");
    fprintf(file, "%d\n", b->rotation);
    for (const recording *r = b->data; r < b->data + b->rotation; r++) {
        fprintf(file, "%d %d\n", r->n_items, r->n_samples);
        for (const item *x = r->items; x < r->items + r->n_items; x++) fprintf(file, "%d %d %d %d\n", x->word, x->child, x->next, x->label);
        for (const sample *x = r->samples; x < r->samples + r->n_samples; x++) {
            fprintf(file, "%d %d %d %d", x->root[0], x->root[1], x->first, x->count);
            for (int k = 0; k < 5; k++) fprintf(file, " %.9g", (double)x->target[k]);
            fputc('\n', file);
        }
    }
    if (fclose(file)) die("cannot write what is exported", "");
}
/* Writes the parameters, and what the first batch gives: outputs, or losses of samples and the gradients of their mean. */
static void export_batch(const bench *b)
{
    side a;
    uint64_t hash = 0;
    export_samples(b);
    open_side(&a, b, RATIO);
    export_model(a.model, b->o->export, "values");
    run_samples(&a, b, &b->data[0], 0, b->data[0].n_samples, (double[N_STAGES]){ 0 }, &hash);
    FILE *file = fopen(export_path(b->o->export, "outputs"), "wb");
    for (size_t i = 0; i < a.out.n; i++) {
        size_t n;
        const float *v = root_value(&a, i, &n);
        export_floats(file, v, n);
    }
    if (fclose(file)) die("cannot write what is exported", "");
    for (int i = 0; i < fold_param_count(a.model) && b->training; i++) { /* gradients are saved as values are */
        const fold_param p = fold_param_at(a.model, i);
        const fold_shape s = fold_param_shape(a.model, p);
        size_t n = sizeof(float);
        for (int k = 0; k < s.rank; k++) n *= (size_t)s.dim[k];
        memcpy(fold_values_write_begin(a.model, p), fold_param_grad(a.model, p), n);
        fold_values_write_end(a.model, p);
    }
    if (b->training) export_model(a.model, b->o->export, "gradients");
    close_side(&a);
}
