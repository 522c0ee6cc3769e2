/* test_bodies.c - cells whose bodies are made up at random, by nodes and by lists: values that nothing reads, gradients that
   are stopped, targets, lists that are empty. Batched and eager give the same values and gradients, and touch the same rows
   of tables, so that a step with decay leaves the same parameters.
       cc -O2 -o test_bodies tests/test_bodies.c -lm && ./test_bodies */

#define FOLD__SHARED_WORK 500 /* small batches, too */
#define FOLD__LONG_LIST 2
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"

enum { WIDTH = 4, WORDS = 64, MAX_VALUES = 64, CELLS = 2, KEPT = 3 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_UNDEFINED__)
enum { RECORDINGS = 1000 };
#else
enum { RECORDINGS = 6000 };
#endif

typedef struct body {
    uint64_t seed;
    int n_in, n_list, n_out;
    fold_param W, gain;
} body;
/* What grows: values, and the length of each if it is a list. In a body, 1 if it is one of every element. */
typedef struct values {
    fold_node node[MAX_VALUES];
    int list[MAX_VALUES], n;
} values;
enum { NO_LIST = -1 };

static void add_value(values *v, fold_node node, int list)
{
    v->node[v->n] = node;
    v->list[v->n++] = list;
}

/* -- a body ------------------------------------------------------------------------------------------- */

/* A sum, mean, maximum or weighed mean over the list of value `a`, of the elements. */
static fold_node reduced(fold_ctx *f, check_random *r, const values *v, int a, int b)
{
    switch (random_below(r, 4)) {
    case 0: return fold_list_sum(f, v->node[a]);
    case 1: return fold_list_mean(f, v->node[a]);
    default: return fold_list_softmax_mean(f, fold_dot(f, v->node[a], v->node[b]), v->node[a]);
    }
}
/* An op of one, two or three values. */
enum { OPS = 12 };
static const uint8_t reads[OPS] = { 1, 2, 2, 1, 3, 3, 1, 1, 2, 1, 3, 1 };
static fold_node grown(fold_ctx *f, int op, const body *of, fold_node x, fold_node y, fold_node z)
{
    const fold_param none = { 0, 0 };
    switch (op) {
    case 0: return fold_tanh(f, x);
    case 1: return fold_add(f, x, y);
    case 2: return fold_mul(f, x, y);
    case 3: return fold_stop_gradient(f, x);
    case 4: return fold_mul(f, z, fold_bce(f, x, y));
    case 5: return fold_mul(f, z, fold_softmax_kl(f, x, fold_softmax(f, y)));
    case 6: return fold_floor(f, x);
    case 7: return fold_linear(f, x, of->W, none);
    case 8: return fold_concat2(f, fold_slice(f, x, 0, 0, 2), fold_slice(f, y, 0, 2, 2));
    case 9: return fold_mul(f, x, fold_use(f, of->gain));
    case 10: return fold_concat2(f, fold_bce(f, x, y), fold_slice(f, z, 0, 1, 3));
    default: return fold_dropout(f, x, 0.5f);
    }
}
static void make_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const body *of = (const body *)user;
    check_random r = { of->seed };
    values v;
    v.n = 0;
    for (int i = 0; i < of->n_in + of->n_list; i++) add_value(&v, in[i], i >= of->n_in);
    for (int ops = 2 + random_below(&r, 6); ops-- > 0;) {
        const int a = random_below(&r, v.n), b = random_below(&r, v.n), c = random_below(&r, v.n);
        if (v.list[a] && !random_below(&r, 3)) add_value(&v, reduced(f, &r, &v, a, b), 0);
        else {
            const int op = random_below(&r, OPS);
            add_value(&v, grown(f, op, of, v.node[a], v.node[b], v.node[c]),
                      v.list[a] || (reads[op] > 1 && v.list[b]) || (reads[op] > 2 && v.list[c]));
        }
    }
    for (int i = 0; i < of->n_out; i++) {
        const int at = v.n - 1 - random_below(&r, v.n < 3 ? v.n : 3);
        out[i] = v.list[at] ? fold_list_sum(f, v.node[at]) : v.node[at];
    }
}
static fold_cell new_body(fold_model *m, body *of, const char *name, check_random *r)
{
    fold_cell_desc d = fold_cell_desc_default();
    of->seed = random_bits(r);
    d.n_list = of->n_list = random_below(r, 3);
    d.n_in = of->n_in = random_below(r, 4) + !of->n_list;
    d.n_out = of->n_out = 1 + random_below(r, 3);
    for (int i = 0; i < 4; i++) d.in[i] = d.list[i] = fold_shape1(WIDTH);
    d.name = name;
    d.body = make_body;
    d.user = of;
    return fold_cell_new(m, &d);
}

/* -- a recording -------------------------------------------------------------------------------------- */

typedef struct recording {
    fold_ctx *f;
    fold_param table[2];
    check_random random;
    int row, length; /* rows of tables are looked up once; how long lists are */
    values v;
} recording;

static fold_node word(recording *p, int table) { return fold_lookup(p->f, p->table[table], p->row++ % WORDS); }
static void add_leaf(recording *p)
{
    static const float x[12] = { 0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f, 0.7f, 0.8f, -0.9f, 1, 0, -1 };
    const int kind = random_below(&p->random, 8), table = kind == 1 || kind == 2;
    int rows[3];
    for (int i = 0; i < p->length && (kind == 2 || kind == 3); i++) rows[i] = p->row++ % WORDS;
    switch (kind) {
    case 0: add_value(&p->v, fold_input(p->f, x, WIDTH), NO_LIST); break;
    case 1: add_value(&p->v, word(p, 1), NO_LIST); break;
    case 2:
    case 3: add_value(&p->v, fold_list_lookup(p->f, p->table[table], rows, p->length), p->length); break;
    case 4: add_value(&p->v, fold_list_input(p->f, x, p->length, fold_shape1(WIDTH)), p->length); break;
    case 5: add_value(&p->v, fold_tanh(p->f, word(p, 0)), NO_LIST); break;
    case 6: add_value(&p->v, fold_stop_gradient(p->f, word(p, 0)), NO_LIST); break;
    default: add_value(&p->v, word(p, 0), NO_LIST); break;
    }
}
/* Some value that is a list, or none; a new one if there is no such. */
static fold_node some_value(recording *p, int is_list)
{
    for (int i = random_below(&p->random, p->v.n), tries = 0; tries < p->v.n; i = (i + 1) % p->v.n, tries++)
        if ((p->v.list[i] != NO_LIST) == is_list) return p->v.node[i];
    const fold_node made = word(p, 0), all[3] = { made, made, made };
    if (!is_list) return made;
    return p->length ? fold_list_join(p->f, all, p->length) : fold_list_input(p->f, NULL, 0, fold_shape1(WIDTH));
}
static void add_call(recording *p, fold_cell cell, const body *of)
{
    const int whole = random_below(&p->random, 2), count = random_below(&p->random, 4);
    fold_node in[4 + 2 * 4], y;
    for (int i = 0; i < of->n_in; i++) in[i] = some_value(p, whole && !of->n_list && random_below(&p->random, 2));
    if (whole)
        for (int i = 0; i < of->n_list; i++) in[of->n_in + i] = some_value(p, 1);
    else
        for (int i = 0; i < of->n_list * count; i++) in[of->n_in + i] = some_value(p, 0);
    if (!of->n_list) y = fold_call(p->f, cell, in, of->n_in);
    else if (whole) y = fold_call_list(p->f, cell, in, of->n_in, in + of->n_in);
    else y = fold_call_n(p->f, cell, in, of->n_in, in + of->n_in, count);
    for (int i = 0; i < of->n_out; i++) {
        const fold_node out = fold_out(p->f, y, i);
        add_value(&p->v, out, fold_list_length(p->f, out));
    }
}
static fold_node total(recording *p)
{
    fold_node loss = fold_zeros(p->f, fold_shape1(1));
    for (int terms = 1 + random_below(&p->random, 3); terms-- > 0;) {
        const int at = p->v.n - 1 - random_below(&p->random, p->v.n < 5 ? p->v.n : 5);
        const fold_node x = p->v.list[at] == NO_LIST ? p->v.node[at] : fold_list_sum(p->f, p->v.node[at]);
        loss = fold_add(p->f, loss, fold_sum(p->f, random_below(&p->random, 4) ? x : fold_square(p->f, x), FOLD_ALL));
    }
    return random_below(&p->random, 2) ? fold_tanh(p->f, loss) : loss;
}

/* -- what it gives -------------------------------------------------------------------------------------- */

enum { PARAMETERS = 600 }; /* floats of all, with what lies between them */
typedef struct result {
    float loss, kept[KEPT][WIDTH], touched[2 * WORDS], grads[PARAMETERS], values[PARAMETERS]; /* before and after a step */
} result;
static void copy_floats(float *to, const float *from, int n)
{
    if (CHECK_SAYS(n <= PARAMETERS, "%d floats", n) && n) memcpy(to, from, (size_t)n * sizeof *to);
}

static void play(uint64_t seed, int eager, result *to)
{
    recording p;
    body of[CELLS];
    fold_cell cell[CELLS];
    fold_node kept[KEPT];
    fold_ctx_desc d = fold_ctx_desc_default();
    const fold_sgd sgd = { 0.1f, 0, 0.1f };
    fold_model *m = fold_model_new(NULL);
    memset(to, 0, sizeof *to);
    p.random.state = seed;
    p.row = p.v.n = 0;
    p.table[0] = fold_table_new(m, "words", WORDS, WIDTH);
    p.table[1] = fold_table_new(m, "others", WORDS, WIDTH);
    const fold_param W = fold_weight_new(m, "W", WIDTH, WIDTH), gain = fold_gain_new(m, "gain", WIDTH);
    for (int i = 0; i < CELLS; i++) {
        of[i].W = W;
        of[i].gain = gain;
        cell[i] = new_body(m, &of[i], i ? "one" : "other", &p.random);
    }
    if (!random_below(&p.random, 4)) fold_param_freeze(m, p.table[1], 1);
    if (!random_below(&p.random, 4)) fold_param_freeze(m, W, 1), fold_param_freeze(m, gain, 1);
    d.training = 1;
    d.eager = eager;
    d.dedupe = !random_below(&p.random, 4);
    d.group_bytes = random_below(&p.random, 3) ? 0 : 2000;
    p.length = random_below(&p.random, 4);
    p.f = fold_ctx_new(m, &d);
    for (int leaves = 3 + random_below(&p.random, 4); leaves-- > 0;) add_leaf(&p);
    for (int calls = 1 + random_below(&p.random, 4); calls-- > 0;) {
        const int which = random_below(&p.random, CELLS);
        add_call(&p, cell[which], &of[which]);
    }
    const fold_node loss = total(&p);
    const int keeps = random_below(&p.random, KEPT + 1);
    for (int i = 0; i < keeps; i++) fold_keep_grad(p.f, kept[i] = some_value(&p, 0));
    if (!random_below(&p.random, 3)) fold_keep(p.f, some_value(&p, 0));
    CHECK_SAYS(!fold_backward(p.f, loss), "seed %llu: %s", (unsigned long long)seed, fold_ctx_message(p.f));
    to->loss = fold_scalar(p.f, loss);
    for (int i = 0; i < keeps; i++)
        if (fold_grad(p.f, kept[i])) memcpy(to->kept[i], fold_grad(p.f, kept[i]), sizeof to->kept[i]);
    for (int table = 0; table < 2; table++) {
        int rows[WORDS];
        for (int n = fold_grads_rows(m, p.table[table], WORDS, rows); n-- > 0;) to->touched[table * WORDS + rows[n]] = 1;
    }
    int n;
    const float *grads = fold_model_grads(m, &n);
    copy_floats(to->grads, grads, n);
    CHECK(!fold_sgd_step(m, &sgd));
    const float *left = fold_model_values(m, &n);
    copy_floats(to->values, left, n);
    fold_ctx_free(p.f);
    fold_model_free(m);
}

static void same_everywhere(void)
{
    static result batched, eager;
    int touched = 0;
    for (uint64_t seed = 0; seed < RECORDINGS; seed++) {
        play(seed * 7919, 0, &batched);
        play(seed * 7919, 1, &eager);
        if (!CHECK_BITS(batched.touched, eager.touched, 2 * WORDS) |
            !CHECK_BITS(&batched.loss, &eager.loss, sizeof batched / sizeof(float)))
            printf("    recording %d\n", (int)seed);
        for (int i = 0; i < 2 * WORDS; i++) touched += (int)batched.touched[i];
    }
    CHECK_SAYS(touched > RECORDINGS, "%d rows were touched", touched);
}

/* -- single cases ---------------------------------------------------------------------------------------- */

/* -in[0], and the sum of the list in the other body, are needed by elements alone. */
static void negated_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_sum(f, fold_mul(f, in[1], fold_neg(f, in[0])));
}
static void summed_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_list_sum(f, fold_mul(f, fold_list_sum(f, in[1]), in[1]));
    out[0] = fold_add(f, out[0], in[0]);
}
static fold_cell new_pair(fold_model *m, const char *name, fold_cell_body *made)
{
    fold_cell_desc d = fold_cell_desc_default();
    d.name = name;
    d.body = made;
    d.n_in = d.n_list = d.n_out = 1;
    d.in[0] = d.list[0] = fold_shape1(1);
    return fold_cell_new(m, &d);
}
/* What only elements need passes zeros on where there are none, with a positive sign, whatever runs beside it; and a reduction
   that only elements need writes nothing. */
static void empty_lists(void)
{
    const float x[2] = { 1, 2 };
    for (int way = 0; way < 8; way++) {
        const int eager = way & 1, beside = way >> 1 & 1, sums = way >> 2;
        fold_model *m = fold_model_new(NULL);
        const fold_cell cell = new_pair(m, "pair", sums ? summed_body : negated_body);
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node node = fold_input(f, x, 1), other = fold_input(f, x + 1, 1);
        fold_keep_grad(f, node);
        fold_keep_grad(f, other);
        fold_node y[2] = { fold_call_n(f, cell, &node, 1, NULL, 0), fold_call_n(f, cell, &other, 1, &other, beside) };
        CHECK_INT(fold_backward(f, fold_sum_n(f, y, 2)), FOLD_OK);
        const float *grad = fold_grad(f, node), want = sums ? 1 : 0;
        CHECK_SAYS(grad && *grad == want && !signbit(*grad), "way %d: %g", way, grad ? (double)*grad : 9.0);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("bodies: empty lists", empty_lists);
    check_run("bodies: the same everywhere", same_everywhere);
    return check_finish();
}
