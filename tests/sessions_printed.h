/* sessions_printed.h - recordings of random sessions as C files, by examples/fold_to_c.h. Of each recording some values are outputs that
   can be printed; those that cannot must be refused by the name of an op. The written file holds what an eager context gives, so it
   compares bits with the kernels of this program: those of most machines have fused multiply-adds, portable ones have none. */

enum { PRINTED_IN = 400, PRINTED_OUT = 3, PRINTED_TRIES = 12 };
typedef struct printing {
    fold_ctx *f;
    const graph *g;
    const float *data[PRINTED_IN]; /* of inputs */
    fold_to_c_port in[PRINTED_IN], out[PRINTED_OUT];
    char name[PRINTED_IN + PRINTED_OUT][8];
    int n_in, n_out, value[PRINTED_OUT];
} printing;
static struct { long items, outputs, refused; } printed_sum;

static int to_nowhere(const void *bytes, size_t size, void *user) { return (void)bytes, (void)size, (void)user, 0; }

static fold_to_c_result print_values(const printing *p, const char *name, fold_writer *write, void *user)
{
    fold_to_c_desc desc = fold_to_c_desc_default();
    desc.name = name;
    desc.in = p->in;
    desc.out = p->out;
    desc.n_in = p->n_in;
    desc.n_out = p->n_out;
    return fold_to_c(p->f, &desc, write, user);
}

/* Of an op by name, of a reference that is no port, or of a row of a list that is read where it lies. */
static int is_refusal(const char *message)
{
    return strstr(message, " cannot be printed: ") || strstr(message, " reads a list: lists have no fixed length") ||
           strstr(message, "' is part of a list, or not computed by this recording") ||
           strstr(message, " a fold_input_ref that is neither input nor state");
}

/* Records all items of a graph. Inputs by reference become those of the printed function. */
static void record_printing(printing *p, const net *n, const graph *g)
{
    static fold_node in[MAX_LIST], node[MAX_VALUES];
    static memory r;
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.eager = 1;
    memset(&r, 0, sizeof r);
    memset(p, 0, sizeof *p);
    p->g = g;
    p->f = fold_ctx_new(n->m, &desc);
    for (int k = 0; k < g->n_items; k++) {
        const item *t = &g->items[k];
        for (int i = 0; i < t->n_in; i++) in[i] = node[g->operands[t->in0 + i]];
        play_item(p->f, n, g, t, in, node + t->out0, &r);
        if (t->op != OP_input_ref || p->n_in == PRINTED_IN) continue;
        snprintf(p->name[p->n_in], sizeof *p->name, "x%d", p->n_in);
        p->in[p->n_in].name = p->name[p->n_in];
        p->in[p->n_in].node = node[t->out0];
        p->data[p->n_in++] = g->data + t->at_data;
    }
    for (int i = 0; i < PRINTED_OUT; i++) {
        snprintf(p->name[PRINTED_IN + i], sizeof *p->name, "y%d", i);
        p->out[i].name = p->name[PRINTED_IN + i];
    }
    /* Outputs are drawn from the later half, where values have most behind them. */
    check_random random = { the_session.seed + 99 };
    for (int i = 0; i < PRINTED_TRIES && p->n_out < PRINTED_OUT; i++) {
        const int v = g->n_values - 1 - random_below(&random, g->n_values / 2 + 1);
        if (g->values[v].list) continue;
        p->value[p->n_out] = v;
        p->out[p->n_out++].node = node[v];
        const fold_to_c_result result = print_values(p, "trial", to_nowhere, NULL);
        if (!result.status) continue;
        CHECK_SAYS(is_refusal(result.message), "seed %llu: %s", (unsigned long long)the_session.seed, result.message);
        p->n_out--;
        printed_sum.refused++;
    }
}

static void write_bits(FILE *file, const float *values, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        fprintf(file, "0x%lxu,%s", (unsigned long)bits, i % 12 == 11 ? "\n" : " ");
    }
}

/* Writes a function that makes a step and counts the floats that differ. */
static void write_comparison(FILE *file, const printing *p, const char *name)
{
    static float y[MAX_DATA];
    int n_in = 0, n_out = 0;
    fprintf(file, "static const unsigned %s_in[] = { ", name);
    for (int i = 0; i < p->n_in; i++) write_bits(file, p->data[i], size_of(fold_node_shape(p->f, p->in[i].node)));
    fprintf(file, "0 };\nstatic const unsigned %s_want[] = { ", name);
    for (int i = 0; i < p->n_out; i++) {
        fold_read(p->f, &p->out[i].node, 1, y);
        write_bits(file, y, size_of(fold_node_shape(p->f, p->out[i].node)));
    }
    fprintf(file, "};\nstatic int %s_check(void)\n{\n    static float in[sizeof %s_in / 4], out[sizeof %s_want / 4];\n    int wrong = 0, i;\n", name, name, name);
    fprintf(file, "    memcpy(in, %s_in, sizeof in);\n    %s_step(", name, name);
    for (int i = 0; i < p->n_in; n_in += size_of(fold_node_shape(p->f, p->in[i++].node))) fprintf(file, "in + %d, ", n_in);
    for (int i = 0; i < p->n_out; n_out += size_of(fold_node_shape(p->f, p->out[i++].node))) fprintf(file, "%sout + %d", i ? ", " : "", n_out);
    fprintf(file, ");\n    for (i = 0; i < %d; i++) wrong += differs(out[i], %s_want[i]);\n", n_out, name);
    fprintf(file, "    if (wrong) printf(\"%s: %%d outputs differ\\n\", wrong);\n    return wrong != 0;\n}\n", name);
}

/* Writes what can be printed of the sessions from options.seed on. */
static void write_printed(void)
{
    static printing p;
    static net n;
    FILE *file = fopen(options.print, "w");
    if (!CHECK(file != NULL)) return;
    char *calls = (char *)calloc((size_t)options.sessions + 1, 60), *end = calls;
    int count = 0;
    write_begin(file);
    turn = EAGERLY;
    for (int i = 0; i < options.sessions; i++) {
        session *s = &the_session;
        check_random r = { options.seed + (uint64_t)i };
        char name[24];
        s->seed = options.seed + (uint64_t)i;
        snprintf(name, sizeof name, "n%llu", (unsigned long long)s->seed);
        memset(s->part, 1, sizeof s->part);
        s->in_place = 0;
        choose_sizes(s, &r);
        describe_cells();
        limits l = { 0, 0, 0, 0, 0 };
        l.samples = 1 + random_below(&r, 2);
        l.steps = 2 + random_below(&r, 10);
        l.structure = random_bits(&r);
        l.data = random_bits(&r);
        generator.no_matrices = 0;
        graph_make(&generator, &s->graph[0], &l);
        make_net(&n, 0, s);
        record_printing(&p, &n, &s->graph[0]);
        CHECK_SAYS(!fold_ctx_status(p.f), "seed %llu: %s", (unsigned long long)s->seed, fold_ctx_message(p.f));
        if (p.n_out) {
            const fold_to_c_result result = print_values(&p, name, fold_to_file, file);
            CHECK_SAYS(!result.status, "%s: %s", name, result.message);
            write_comparison(file, &p, name);
            end += snprintf(end, 60, "    failed += %s_check();\n", name);
            count++;
        }
        printed_sum.items += s->graph[0].n_items;
        printed_sum.outputs += p.n_out;
        fold_ctx_free(p.f);
        fold_model_free(n.m);
    }
    write_end(file, calls, count);
    free(calls);
    CHECK_INT(fclose(file), 0);
    printf("RESULT printed sessions=%d items=%ld outputs=%ld refused=%ld\n", options.sessions, printed_sum.items, printed_sum.outputs, printed_sum.refused);
}
