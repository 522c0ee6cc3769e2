/* test_reference.c - the oracle of the other tests: gradients of reference.h against difference quotients of its own values, on
   the shapes of the table of ops; what it says of NaN, as PyTorch does; and the accuracy that it allows
   against the table in fold.h's section on contracts.
       cc -O2 -o test_reference tests/test_reference.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "op_table.h"

static ref_tape tape;

/* ---- gradients ---------------------------------------------------------------------------------- */

static double loss_of(const op_case *c, int sample, int result)
{
    double sum = 0;
    for (int i = 0; i < tape.n_steps; i++) ref_compute(&tape, &tape.step[i]);
    for (int i = 0; i < c->out_size; i++) sum += tape.value[result].v[i] * (double)c->weight[sample][i];
    return sum;
}
/* d loss / d element of a value on the tape. */
static double difference(const op_case *c, int sample, int result, double *x)
{
    const double h = 1e-5, before = *x;
    *x = before + h;
    const double above = loss_of(c, sample, result);
    *x = before - h;
    const double below = loss_of(c, sample, result);
    *x = before;
    return (above - below) / (2 * h);
}
static void compare_operand(const op_case *c, int sample, int result, int k, int i)
{
    ref_value *x = &tape.value[c->value[k][i]];
    const int n = (int)ref_count(x), stride = n > 60 ? n / 20 : 1;
    for (int e = 0; e < n; e += stride) {
        const double want = difference(c, sample, result, &x->v[e]),
                     got = is(&c->in[k], "tk") ? want : x->g[e];
        CHECK_SAYS(fabs(got - want) <= 1e-7 * (1 + fabs(want)),
                   "gradient of operand %d, element %d: %.9g, the quotient is %.9g", k, e, got, want);
    }
}
static void test_gradients(const op_row *row, const char *spec)
{
    static op_case c;
    char name[160];
    snprintf(name, sizeof name, "reference of %s: %s", row->name, spec);
    if (!check_begin(name)) return;
    parse(&c, row, spec);
    fill(&c);
    for (int sample = 0; sample < 2; sample++) {
        load(&tape, &c, sample, 0);
        const int result = row->reference(&tape, &c),
                  stops = !strcmp(row->name, "stop_gradient") || !strcmp(row->name, "user op twice");
        for (int i = 0; i < c.out_size; i++) tape.value[result].g[i] = (double)c.weight[sample][i];
        ref_backward(&tape);
        for (int k = 0; k < c.n_in && !stops; k++)
            for (int i = 0; i < (is_list(&c.in[k]) ? c.count : c.in[k].count); i++)
                compare_operand(&c, sample, result, k, i);
    }
    check_end();
}

/* ---- what NaN does ------------------------------------------------------------------------------ */

/* PyTorch's: it passes through relu, minima, maxima and bounds, and but for bounds so does its gradient. */
static double of_one(int op, double x, double z, double *slope)
{
    ref_attr a = ref_attrs(-1, 0, 0, 0, 0);
    const double second = z;
    ref_begin(&tape);
    const int in[2] = { ref_input(&tape, ref_shape1(1), REF_NODE, &x),
                        ref_input(&tape, ref_shape1(1), REF_NODE, &second) };
    a.z = z;
    const int y = ref_apply(&tape, op, &a, in, op == REF_minimum || op == REF_maximum ? 2 : 1);
    tape.value[y].g[0] = 1;
    ref_backward(&tape);
    *slope = tape.value[in[0]].g[0];
    return tape.value[y].v[0];
}
static void test_nan(void)
{
    static const int passes[] = { REF_relu,    REF_at_least, REF_at_most,    REF_clip,
                                  REF_minimum, REF_maximum,  REF_leaky_relu, REF_abs };
    double slope;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        CHECK_SAYS(isnan(of_one(passes[i], (double)NAN, 1, &slope)), "%s hides NaN",
                   ref_rows[passes[i]].name);
    CHECK(isnan(of_one(REF_maximum, 1, (double)NAN, &slope)) && slope == 1);
    CHECK(isnan(of_one(REF_minimum, (double)NAN, 1, &slope)) && slope == 1);
    CHECK(isnan(of_one(REF_clip, (double)NAN, 1, &slope)) && slope == 0);
    CHECK(isnan(of_one(REF_relu, (double)NAN, 1, &slope)) && slope == 1);
}

/* ---- the accuracy that fold.h states ------------------------------------------------------------ */

/* The table behind "Columns: bound for values, bound for gradients, ops.", up to the next word of the contracts: two numbers
   and ops. */
static void test_accuracy(void)
{
    char line[200], word[64];
    int seen[REF_OP_COUNT] = { 0 }, inside = 0, value = -1, gradient = -1, used, at;
    FILE *header = fopen("fold.h", "r");
    if (!header) header = fopen("../fold.h", "r");
    if (!CHECK_SAYS(header, "fold.h is not here")) return;
    while (fgets(line, sizeof line, header) && inside < 2) {
        if (inside && strncmp(line, "         ", 9)) inside = 2;
        for (at = 0; inside == 1 && sscanf(line + at, "%63s%n", word, &used) == 1; at += used) {
            int op = 0;
            if (sscanf(line + at, "%d %d%n", &value, &gradient, &used) == 2) continue;
            while (op < REF_OP_COUNT && strcmp(ref_rows[op].name, word)) op++;
            if (!CHECK_SAYS(op < REF_OP_COUNT, "fold.h states the accuracy of '%s', which has no reference",
                            word))
                continue;
            CHECK_SAYS(ref_rows[op].units[0] == value && ref_rows[op].units[1] == gradient,
                       "%s: %d and %d units in fold.h, %g and %g here", word, value, gradient,
                       ref_rows[op].units[0], ref_rows[op].units[1]);
            CHECK_SAYS(!seen[op]++, "%s is there twice", word);
        }
        inside += strstr(line, "Columns: bound for values, bound for gradients, ops.") != NULL;
    }
    for (int op = 0; op < REF_OP_COUNT; op++)
        CHECK_SAYS(seen[op], "fold.h does not state the accuracy of %s", ref_rows[op].name);
    fclose(header);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (const char *const *spec = rows[r].specs; *spec; spec++)
            if (rows[r].user != &twice) test_gradients(&rows[r], *spec);
    check_run("reference: NaN", test_nan);
    check_run("reference: the accuracy in fold.h", test_accuracy);
    return check_finish();
}
