/* test_inside.c - what fold.h tells about itself: texts compared with what they must be, pictures by their parts. Writes
   build/inside.svg, .dot and .json and build/inside_race.svg, of names that need quoting, for other programs to read.
       cc -O2 -o test_inside tests/test_inside.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "check.h"
#include "models.h"
#include <time.h>
#include <stdlib.h>

static int allocations_left = -1; /* for pictures, until one fails; -1: none does */
static int may_allocate(void) { return allocations_left < 0 || allocations_left-- > 0; }
static void *test_realloc(void *old, size_t size) { return may_allocate() ? realloc(old, size) : NULL; }
static void *test_calloc(size_t n, size_t size) { return may_allocate() ? calloc(n, size) : NULL; }
#define realloc test_realloc
#define calloc test_calloc
#define FOLD_DRAW_IMPLEMENTATION
#include "../examples/fold_draw.h"
#undef realloc
#undef calloc

enum { H = 4, TEXT = 1 << 18 };

/* -- a writer into memory, which stops after so many bytes ------------------------------------------ */

typedef struct text { size_t n, limit; char s[TEXT]; } text;
static int to_text(const void *bytes, size_t n, void *user)
{
    text *t = (text *)user;
    if (t->n + n > t->limit) return 1;
    memcpy(t->s + t->n, bytes, n);
    t->n += n;
    t->s[t->n] = 0;
    return 0;
}
static text *empty(void)
{
    static text t;
    t.n = 0;
    t.s[0] = 0;
    t.limit = TEXT - 1;
    return &t;
}
typedef fold_status printer(fold_ctx *f, fold_writer *write, void *user);
static fold_status draw_race(fold_ctx *f, fold_writer *write, void *user) { return fold_draw_race(f, NULL, write, user); }
static const char *said(fold_ctx *f, printer *print)
{
    text *t = empty();
    CHECK_INT(print(f, to_text, t), FOLD_OK);
    return t->s;
}
static int count(const char *s, const char *part)
{
    int n = 0;
    while ((s = strstr(s, part))) { n++; s++; }
    return n;
}
#define CHECK_SAME_TEXT(got, want) check_that(!strcmp(got, want), __FILE__, __LINE__, "it says\n%s\nand should say\n%s", got, want)

static uint64_t tick(void *user) { return *(uint64_t *)user += 1500; }
static void one_by_one(int n, fold_task *task, void *user, void *pool)
{
    (void)pool;
    for (int i = n; i-- > 0;) task(i, user);
}

static printer *const printers[] = { fold_ctx_print, fold_ctx_print_splits, fold_draw_dot, fold_draw_svg, draw_race, fold_draw_trace };
enum { PRINTERS = sizeof printers / sizeof *printers, WHILE_LOOKING = 2 }; /* the first call their writer while they look */

/* -- three small trees ------------------------------------------------------------------------------ */

typedef struct net { fold_model *m; fold_param digit, W, b, V; fold_cell join; } net;

static void join(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_tanh(f, fold_linear_n(f, in, 2, n->W, n->b));
}
static net make_net(const char *cell, const char *table)
{
    net n;
    n.m = fold_model_new(NULL);
    n.digit = fold_table_new(n.m, table, 10, H);
    n.W = fold_weight_new(n.m, "W", 2 * H, H);
    n.b = fold_bias_new(n.m, "b", H);
    n.V = fold_weight_new(n.m, "V", H, 3);
    n.join = pair_cell(n.m, cell, join, &n, sizeof n, 1, H);
    return n;
}
static fold_node tree(fold_ctx *f, const net *n, const char **s)
{
    if (**s != '(') return fold_lookup(f, n->digit, *(*s)++ - '0');
    fold_node in[2];
    ++*s;
    in[0] = tree(f, n, s);
    in[1] = tree(f, n, s);
    ++*s;
    return fold_call(f, n->join, in, 2);
}
static fold_node record(fold_ctx *f, const net *n)
{
    static const char *const trees[3] = { "((12)(34))", "(5(67))", "(89)" };
    const fold_param none = { 0, 0 };
    fold_node loss[3];
    for (int i = 0; i < 3; i++) {
        const char *s = trees[i];
        loss[i] = fold_softmax_xent(f, fold_linear(f, tree(f, n, &s), n->V, none), i);
    }
    return fold_mean_n(f, loss, 3);
}
static fold_ctx *context(const net *n, int eager, size_t plan_cache_bytes)
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.eager = eager;
    d.plan_cache_bytes = plan_cache_bytes;
    d.group_bytes = SIZE_MAX;
    return fold_ctx_new(n->m, &d);
}
static fold_ctx *in_groups(const net *n) /* each sample in a group of its own */
{
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.group_bytes = 1;
    return fold_ctx_new(n->m, &d);
}

static const char printed[] =
    "13 calls in 5 batches, lower bound 5, schedule ratio\n"
    "leaves: 9 rows of digit [10 x 4]\n"
    "step 1: join = 4 x (digit [4], digit [4]) -> [4]\n"
    "step 2: join = 2 x (join|digit [4], join [4]) -> [4]\n"
    "step 3: linear(V) = 3 x (join [4]) -> [3]\n"
    "step 4: softmax_xent = 3 x (linear [3]) -> [1]\n"
    "step 5: mean_n = 1 x (3 in lists: softmax_xent [1]) -> [1]\n";

static void trees_as_text(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 1 << 20);
    for (int i = 0; i < 4; i++) { /* from the third on the plan is replayed */
        fold_ctx_reset(f);
        CHECK_SAME_TEXT(said(f, fold_ctx_print), "0 calls in 0 batches by depth, not run yet\n");
        const fold_node root = record(f, &n);
        CHECK_SAME_TEXT(said(f, fold_ctx_print),
                        "13 calls in 7 batches by depth, not run yet\n"
                        "leaves: 9 rows of digit [10 x 4]\n"
                        "step 1: join = 4 x (digit [4], digit [4]) -> [4]\n"
                        "step 2: join = 2 x (join|digit [4], join [4]) -> [4]\n"
                        "step 3: linear(V) = 1 x (join [4]) -> [3]\n"
                        "step 4: linear(V) = 2 x (join [4]) -> [3]\n"
                        "step 5: softmax_xent = 1 x (linear [3]) -> [1]\n"
                        "step 6: softmax_xent = 2 x (linear [3]) -> [1]\n"
                        "step 7: mean_n = 1 x (3 in lists: softmax_xent [1]) -> [1]\n");
        CHECK_INT(fold_backward(f, root), FOLD_OK);
        CHECK_SAME_TEXT(said(f, fold_ctx_print), printed);
        CHECK_INT(fold_ctx_stats(f).lower_bound, 5);
        fold_neg(f, root);
        CHECK_TEXT(said(f, fold_ctx_print), "14 calls in 8 batches by depth, not run yet\n");
    }
    CHECK(fold_ctx_stats(f).plan_hits > 0);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void eager_as_text(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 1, 0);
    record(f, &n);
    const char *s = said(f, fold_ctx_print);
    CHECK_TEXT(s, " by depth; the context is eager\n");
    CHECK_TEXT(s, "linear(W, b) in join = 4 x (digit [4], digit [4]) -> [4]\n");
    CHECK_TEXT(said(f, fold_ctx_print_splits), "linear(V): 3 calls in 2 batches: of several depths\n");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Another run on top of the first: what that one made is a leaf of this. */
static void second_run(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    const float x[H] = { 1, 2, 3, 4 };
    fold_node in[2] = { fold_input(f, x, H), fold_use(f, n.b) };
    const fold_node a = fold_call(f, n.join, in, 2);
    CHECK_INT(fold_run(f, &a, 1), FOLD_OK);
    CHECK_TEXT(said(f, fold_ctx_print), "leaves: 1 input\nstep 1: join = 1 x (input [4], ");
    in[0] = in[1] = a;
    const fold_node b = fold_call(f, n.join, in, 2);
    CHECK_INT(fold_run(f, &b, 1), FOLD_OK);
    CHECK_SAME_TEXT(said(f, fold_ctx_print),
                    "1 call in 1 batch, lower bound 1, schedule ratio\nleaves: 1 input\nstep 1: join = 1 x (join [4], join [4]) -> [4]\n");
    CHECK_INT(count(said(f, fold_draw_svg), "<path"), 1);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A run computes again what an earlier one computed and did not keep, and says so. */
static void recomputed(void)
{
    const net n = make_net("join", "digit");
    for (int keep = 0; keep < 2; keep++) {
        fold_ctx *f = context(&n, 0, 0);
        const float x[H] = { 1, 2, 3, 4 };
        const fold_node twice[2] = { fold_input(f, x, H), fold_input(f, x, H) };
        const fold_node first = fold_call(f, n.join, twice, 2), second[2] = { first, first };
        const fold_node root = fold_tanh(f, fold_call(f, n.join, second, 2));
        if (keep) fold_keep(f, first);
        CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
        CHECK_TEXT(said(f, fold_ctx_print), "3 calls in 3 batches,");
        const fold_node more = fold_neg(f, first);
        CHECK_INT(fold_run(f, &more, 1), FOLD_OK);
        CHECK_INT(fold_ctx_stats(f).recomputed_nodes, !keep);
        for (int way = 0; way < 2; way++) /* as text, and as it is drawn */
            CHECK_TEXT(said(f, way ? fold_draw_svg : fold_ctx_print), keep ? "1 call in 1 batch," : "2 calls (1 recomputed) in 2 batches,");
        CHECK_INT(fold_backward(f, fold_sum(f, root, FOLD_ALL)), FOLD_OK);
        CHECK_TEXT(said(f, fold_ctx_print), "4 calls (3 recomputed) in 4 batches,");
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* Groups of samples, and the part of a cell that runs before its recursion. */
static void groups_as_text(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = in_groups(&n);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    const fold_stats s = fold_ctx_stats(f);
    char head[120];
    CHECK(s.groups > 1);
    const char *t = said(f, fold_ctx_print);
    snprintf(head, sizeof head, "13 calls in %d batches", (int)s.batches);
    CHECK_TEXT(t, head);
    snprintf(head, sizeof head, "%d groups, lower bound %d, schedule ratio\n", (int)s.groups, (int)s.lower_bound);
    CHECK_TEXT(t, head);
    snprintf(head, sizeof head, "group %d\n", (int)s.groups);
    CHECK_TEXT(t, head);
    CHECK_INT(count(t, "step "), s.batches);
    CHECK_INT(count(t, "prologue: "), s.prologues);
    snprintf(head, sizeof head, "linear(V): 3 calls in 3 batches: in 3 of %d groups\n", (int)s.groups);
    CHECK_TEXT(said(f, fold_ctx_print_splits), head);
    CHECK_TEXT(said(f, fold_draw_svg), "group 2");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* -- what tells signatures apart -------------------------------------------------------------------- */

static void splits(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    const float x[6] = { 1, 2, 3, 4, 5, 6 };
    const fold_param none = { 0, 0 }, W2 = fold_weight_new(n.m, "W2", H, 3);
    fold_node r[16], a = fold_input(f, x, H), b = fold_input(f, x + 1, H), c = fold_input_shaped(f, x, fold_shape2(2, 3));
    int k = 0;
    r[k++] = fold_linear(f, a, n.V, none);
    r[k++] = fold_linear(f, b, n.V, none);
    r[k++] = fold_linear(f, a, W2, none);
    r[k++] = fold_sum(f, c, -2);
    r[k++] = fold_sum(f, c, FOLD_ALL);
    r[k++] = fold_leaky_relu(f, a, 0.5f);
    r[k++] = fold_leaky_relu(f, b, 0.25f);
    r[k++] = fold_neg(f, a);
    r[k++] = fold_neg(f, c);
    r[k++] = fold_mul(f, a, fold_shared(f, a));
    r[k++] = fold_mul(f, a, fold_shared(f, b));
    r[k++] = fold_mul(f, a, b);
    r[k++] = fold_slice(f, c, 1, 1, 2);
    r[k++] = fold_slice(f, c, 1, 0, 2);
    CHECK_INT(fold_run(f, r, k), FOLD_OK);
    CHECK_SAME_TEXT(said(f, fold_ctx_print_splits),
                    "14 calls in 13 batches, lower bound 13, schedule ratio\n"
                    "linear: 2 signatures\n"
                    "  1. 2 x linear(V): [4] -> [3]\n"
                    "  2. 1 x linear(W2): [4] -> [3]; unlike 1: parameter W2 for V\n"
                    "sum: 2 signatures\n"
                    "  1. 1 x sum(axis 0): [2 x 3] -> [3]\n"
                    "  2. 1 x sum(axis all): [2 x 3] -> [1]; unlike 1: axis all for 0\n"
                    "leaky: 2 signatures\n"
                    "  1. 1 x leaky(slope 0.5): [4] -> [4]\n"
                    "  2. 1 x leaky(slope 0.25): [4] -> [4]; unlike 1: slope 0.25 for 0.5\n"
                    "neg: 2 signatures\n"
                    "  1. 1 x neg: [4] -> [4]\n"
                    "  2. 1 x neg: [2 x 3] -> [2 x 3]; unlike 1: input 0 of shape [2 x 3] for [4]\n"
                    "mul: 3 signatures\n"
                    "  1. 1 x mul: [4], [4] -> [4]\n"
                    "  2. 1 x mul: [4], [4] -> [4]; unlike 1: a different value is shared\n"
                    "  3. 1 x mul: [4], [4] -> [4]; unlike 1: different inputs are shared\n"
                    "slice: 2 signatures\n"
                    "  1. 1 x slice(axis 1, start 1, length 2): [2 x 3] -> [2 x 2]\n"
                    "  2. 1 x slice(axis 1, start 0, length 2): [2 x 3] -> [2 x 2]; unlike 1: start 0 for 1\n");
    CHECK_TEXT(said(f, fold_ctx_print), "mul = 1 x (input [4], shared input [4]) -> [4]\n");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Calls row by row have signatures of their own, by which of their inputs are lists. */
static void splits_of_lists(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    const float x[4] = { 1, 2, 3, 4 };
    const fold_node a = fold_input(f, x, 2), list = fold_list_input(f, x, 2, fold_shape1(2));
    const fold_node in[5] = { a, a, list, a, list };
    fold_node r[4];
    r[0] = fold_tanh(f, fold_concat(f, in, 2, 0));
    r[1] = fold_tanh(f, fold_concat(f, in, 3, 0));
    r[2] = fold_tanh(f, fold_concat(f, in + 2, 3, 0));
    CHECK_INT(fold_run(f, r, 3), FOLD_OK);
    CHECK_TEXT(said(f, fold_ctx_print_splits), "concat: 3 signatures\n"
               "  1. 1 x concat(axis 0): [2], [2] -> [4]\n"
               "  2. 1 x concat(axis 0): [2], [2], list of [2] -> [6]; unlike 1: 3 inputs for 2\n");
    CHECK_TEXT(said(f, fold_ctx_print_splits), "; unlike 2: different inputs are lists\n");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A chain splits its own signature, and policy depth splits more than that. */
static void splits_of_one_signature(void)
{
    const net n = make_net("join", "digit");
    fold_ctx_desc d = fold_ctx_desc_default();
    d.schedule = FOLD_SCHEDULE_DEPTH;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    const float one = 1;
    fold_node x = fold_input(f, &one, 1), r[2] = { x, x };
    for (int i = 0; i < 3; i++) r[0] = fold_exp(f, r[0]);
    r[1] = fold_exp(f, fold_neg(f, fold_neg(f, fold_neg(f, x))));
    r[1] = fold_add(f, fold_square(f, r[0]), fold_square(f, r[1])); /* of depths 3 and 4 */
    CHECK_INT(fold_run(f, r, 2), FOLD_OK);
    const char *s = said(f, fold_ctx_print_splits);
    CHECK_TEXT(s, "neg: 3 calls in 3 batches: 3 because some read others\n");
    CHECK_TEXT(s, "exp: 4 calls in 4 batches: 3 because some read others, 1 more by the schedule\n");
    CHECK_TEXT(s, "square: 2 calls in 2 batches: 1 more by the schedule\n");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* -- pictures --------------------------------------------------------------------------------------- */

/* Bytes of the character that a text begins with, by the ranges of RFC 3629; 0: it is not UTF-8. */
static int utf8(const char *s)
{
    static const unsigned least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *bytes = (const unsigned char *)s;
    const int n = bytes[0] < 0x80 ? 1 : bytes[0] >> 5 == 6 ? 2 : bytes[0] >> 4 == 14 ? 3 : bytes[0] >> 3 == 30 ? 4 : 0;
    unsigned code = n > 1 ? bytes[0] & (0x7fu >> n) : bytes[0];
    for (int i = 1; i < n; i++) {
        if (bytes[i] >> 6 != 2) return 0;
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

/* Every tag closed in order, no stray & or <, and of text nothing that is not UTF-8, or no character of XML. */
static int well_formed(const char *s)
{
    char open[32][16];
    int depth = 0, elements = 0;
    for (; *s; s++) {
        const int n = utf8(s);
        if (!n || (n == 1 && (unsigned char)*s < 32 && *s != '\n') || !strncmp(s, "\xef\xbf\xbe", 3) || !strncmp(s, "\xef\xbf\xbf", 3)) return 0;
        s += n - 1;
        if (*s == '&') {
            const char *end = strchr(s, ';');
            if (s[1] != '#' || !end || end - s > 6) return 0;
        }
        if (*s != '<') continue;
        const char *end = strchr(s, '>'), *name = s[1] == '/' ? s + 2 : s + 1;
        size_t length = strcspn(name, " />\n");
        int quotes = 0;
        if (!end || length >= sizeof open[0] || depth == 32) return 0;
        for (const char *p = s; p < end; p++) quotes += *p == '"';
        if (quotes % 2 || memchr(s + 1, '<', (size_t)(end - s - 1))) return 0;
        if (s[1] == '/') {
            if (!depth || strlen(open[--depth]) != length || memcmp(open[depth], name, length)) return 0;
        } else if (end[-1] != '/') {
            memcpy(open[depth], name, length);
            open[depth++][length] = 0;
        }
        elements++;
        s = end;
    }
    return !depth && elements > 1;
}

static void pictures(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    const char *s = said(f, fold_draw_svg);
    CHECK(well_formed(s));
    CHECK_INT(count(s, "<title>"), 13 + 9);
    CHECK_INT(count(s, "<path"), 12 + 3 + 3 + 3);
    CHECK_INT(count(s, "<tspan font-weight"), 5);
    CHECK_TEXT(s, "<title>digit 9, node ");
    for (const char *at = s; (at = strstr(at, "<text")); at++) /* nobody needs the number of a node, but in an error */
        CHECK(strtol(strchr(at, '>') + 1, NULL, 10) < 19);
    CHECK_TEXT(s, ">linear(V): [4] -> [3]; 3 calls in 1 batch</text>");
    s = said(f, fold_draw_dot);
    CHECK_INT(count(s, " -> "), 12 + 3 + 3 + 3);
    CHECK_INT(count(s, "subgraph cluster_"), 5);
    CHECK_INT(count(s, "[label="), 13);
    CHECK_INT(count(s, "[fillcolor=white"), 9);
    CHECK_TEXT(s, "label=\"2: join x 2\"");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Names that would end a string, close a tag or are no text at all. */
static void strange_names(void)
{
    const net n = make_net("a\"b\\c<d>&'\n\x01\xff\xc3\xa9", "\"]<!--\xe2\x82\xac\\");
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_model_status(n.m), FOLD_OK);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    CHECK(well_formed(said(f, fold_draw_svg)));
    FILE *file = fopen("build/inside.svg", "wb");
    if (CHECK(file)) { CHECK_INT(fold_draw_svg(f, fold_to_file, file), FOLD_OK); CHECK_INT(fclose(file), 0); }
    CHECK(well_formed(said(f, draw_race)));
    CHECK_TEXT(said(f, draw_race), "a&#34;b\\c&#60;d&#62;&#38;'??\?\xc3");
    fold_draw_race_desc race = fold_draw_race_desc_default();
    race.title = "</title>&\"\x02\xff";
    file = fopen("build/inside_race.svg", "wb");
    if (CHECK(file)) { CHECK_INT(fold_draw_race(f, &race, fold_to_file, file), FOLD_OK); CHECK_INT(fclose(file), 0); }
    file = fopen("build/inside.dot", "wb");
    if (CHECK(file)) { CHECK_INT(fold_draw_dot(f, fold_to_file, file), FOLD_OK); CHECK_INT(fclose(file), 0); }
    CHECK_TEXT(said(f, fold_ctx_print), "a\"b\\c<d>&'??\?\xc3\xa9 = 4 x (");
    CHECK_TEXT(said(f, fold_draw_dot), "a\\\"b\\\\c<d>&'\\u000a\\u0001?\xc3\xa9");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Characters that XML has not, and their neighbours, which it has. */
static void characters_of_no_xml(void)
{
    const net n = make_net("\xef\xbf\xbe|\xef\xbf\xbf", "\xef\xbf\xbd\xef\xbe\xbf\xf0\x9f\xbf\xbf\xc2\x80\x7f");
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_model_status(n.m), FOLD_OK);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    const char *s = said(f, fold_draw_svg);
    CHECK(well_formed(s));
    CHECK_TEXT(s, "?|?");
    CHECK_TEXT(s, "\xef\xbf\xbd\xef\xbe\xbf\xf0\x9f\xbf\xbf\xc2\x80?");
    CHECK_TEXT(said(f, fold_draw_dot), "\xef\xbf\xbe|\xef\xbf\xbf"); /* which is text all the same */
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* -- times ------------------------------------------------------------------------------------------ */

/* Groups, two lanes and one; the second time with room for one event a lane, then without a clock. */
static void traces(void)
{
    const net n = make_net("join \"\\", "digit");
    for (int way = 0; way < 6; way++) {
        const int lanes = 1 + way % 2, room = way / 2 == 0;
        uint64_t now = UINT64_C(1) << 60;
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.group_bytes = way % 2 ? 1 : SIZE_MAX;
        d.trace_bytes = room ? 1 << 16 : 32 * (size_t)lanes;
        d.clock = way / 2 == 2 ? NULL : tick;
        d.clock_user = &now;
        d.threads = lanes;
        d.parallel_for = one_by_one;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        text *t = empty();
        CHECK_INT(fold_draw_trace(f, to_text, t), FOLD_OK);
        CHECK_INT(count(t->s, "\"ph\":\"X\""), 0);
        for (int run = 0; run < 2; run++) { /* events are those of the last */
            fold_ctx_reset(f);
            CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
        }
        const fold_stats s = fold_ctx_stats(f);
        const int all = (int)(s.batches + s.prologues);
        char dropped[40];
        t = empty();
        CHECK_INT(fold_draw_trace(f, to_text, t), FOLD_OK);
        const int forward = count(t->s, "\"cat\":\"forward"), backward = count(t->s, "\"cat\":\"backward");
        if (way / 2 == 2) CHECK_INT(count(t->s, "\"ph\":\"X\""), 0);
        else if (room) CHECK(forward == all && backward == all && count(t->s, "\"ph\":\"X\"") == 2 * all + 1);
        else CHECK_INT(forward + backward, lanes);
        snprintf(dropped, sizeof dropped, "\"dropped\":%d}", way / 2 == 1 ? 2 * all - lanes : 0);
        CHECK_TEXT(t->s, dropped);
        if (room && way % 2) { CHECK(s.groups > 2); CHECK_TEXT(t->s, "\"tid\":1"); CHECK_TEXT(t->s, "\"group\":2"); }
        if (room && !(way % 2)) CHECK_TEXT(t->s, "\"dur\":1.500,\"args\":{\"calls\":4,\"group\":1,\"shapes\":\"[4], [4] -> [4]\"}}");
        FILE *file = room ? fopen(way ? "build/inside1.json" : "build/inside0.json", "wb") : NULL;
        if (file) { CHECK_INT(fold_draw_trace(f, fold_to_file, file), FOLD_OK); CHECK_INT(fclose(file), 0); }
        t->limit = t->n = 20;
        CHECK_INT(fold_draw_trace(f, to_text, t), FOLD_IO);
        fold_ctx_reset(f);
        t = empty();
        CHECK_INT(fold_draw_trace(f, to_text, t), FOLD_OK);
        CHECK_INT(count(t->s, "\"ph\":\"X\""), 0);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* The clock that comes with fold.h goes on while time does, and fits the context's. */
static void its_own_clock(void)
{
#ifdef FOLD_HAS_CLOCK
    const net n = make_net("join", "digit");
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.clock = fold_clock_monotonic;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    const clock_t processor = clock();
    const time_t wall = time(NULL);
    const uint64_t start = fold_clock_monotonic(NULL);
    uint64_t last = start, run = 0;
    for (int i = 0; i < 20; i++) {
        fold_ctx_reset(f);
        CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
        run += fold_ctx_stats(f).run_ns;
    }
    while (clock() - processor < CLOCKS_PER_SEC / 50) { /* 20 ms of the processor's are as many of the wall's, or fewer */
        const uint64_t now = fold_clock_monotonic(NULL);
        CHECK(now >= last);
        last = now;
    }
    const double seconds = 1e-9 * (double)(last - start);
    CHECK_SAYS(seconds > 0.015 && seconds < difftime(time(NULL), wall) + 1.5, "20 ms took %g s", seconds);
    CHECK_SAYS(run > 0 && run < last - start, "20 runs took %g ns of %g", (double)run, (double)(last - start));
    fold_ctx_free(f);
    fold_model_free(n.m);
#else
    check_skip("fold_clock_monotonic (not on this system)");
#endif
}

/* The files of strange names, as programs that know the formats see them. */
static void other_programs(void)
{
#ifdef _WIN32
    check_skip("dot and xmllint (no shell to look for them with)");
#else
    static const char *const name[] = { "dot", "xmllint", "python3" };
    static const char *const look[] = { "command -v dot >/dev/null 2>&1", "command -v xmllint >/dev/null 2>&1", "python3 -c 1 >/dev/null 2>&1" };
    static const char *const read[] = {
        "dot -Tsvg build/inside.dot >/dev/null 2>&1", "xmllint --noout build/inside.svg >/dev/null 2>&1",
        "python3 -c \"\n"
        "import json, xml.dom.minidom\n"
        "for name in ('build/inside.svg', 'build/inside_race.svg'):\n"
        "    assert xml.dom.minidom.parse(name).documentElement.tagName == 'svg'\n"
        "for name in ('build/inside0.json', 'build/inside1.json'):\n"
        "    events = [e for e in json.load(open(name))['traceEvents'] if e['ph'] == 'X']\n"
        "    assert {e['name'] for e in events} == {'plan', 'join ' + chr(34) + chr(92), 'linear(V)', 'softmax_xent', 'mean_n'}, events\n"
        "    for tid in {e['tid'] for e in events}:\n"
        "        end = 0\n"
        "        for e in sorted((e for e in events if e['tid'] == tid), key=lambda e: e['ts']):\n"
        "            assert e['ts'] >= end - 1e-6 and e['dur'] >= 0, e\n"
        "            end = e['ts'] + e['dur']\n"
        "\""
    };
    for (int i = 0; i < 3; i++) {
        if (system(look[i])) { check_skip("%s (not installed)", name[i]); continue; }
        CHECK_SAYS(system(read[i]) == 0, "%s does not read what it should", name[i]);
    }
#endif
}

/* -- a model ---------------------------------------------------------------------------------------- */

/* The number that follows a text. */
static long number_after(const char *s, const char *what)
{
    const char *at = strstr(s, what);
    return at ? strtol(at + strlen(what), NULL, 10) : -1;
}

/* A picture of many samples is no higher than a few screens: some samples are drawn, all others counted. */
static void large_picture(void)
{
    enum { SAMPLES = 200 };
    static const char *const trees[3] = { "((12)(34))", "(5(67))", "(89)" };
    const net n = make_net("join", "digit");
    const fold_param none = { 0, 0 };
    for (int by_layer = 0; by_layer < 2; by_layer++) /* sample by sample, or all roots before all losses */
        for (int shared = 0; shared < 2; shared++) {
            fold_ctx *f = context(&n, 0, 0);
            fold_node root[SAMPLES], loss[SAMPLES];
            const fold_node one = fold_shared(f, fold_constant(f, 2));
            for (int i = 0; i < SAMPLES; i++) {
                const char *s = trees[i % 3];
                root[i] = tree(f, &n, &s);
                if (shared) root[i] = fold_mul(f, one, root[i]);
                if (!by_layer) loss[i] = fold_softmax_xent(f, fold_linear(f, root[i], n.V, none), i % 3);
            }
            for (int i = 0; i < SAMPLES && by_layer; i++)
                loss[i] = fold_softmax_xent(f, fold_linear(f, root[i], n.V, none), i % 3);
            const fold_node mean = fold_mean_n(f, loss, SAMPLES);
            CHECK_INT(fold_run(f, &mean, 1), FOLD_OK);
            const int batches = (int)fold_ctx_stats(f).batches;
            const char *s = said(f, fold_draw_svg);
            CHECK(well_formed(s));
            const long height = number_after(s, " height=\"");
            CHECK_SAYS(height > 1000 && height < 2000, "the picture is %ld pixels high", height);
            CHECK_INT(count(s, "text-anchor=\"middle\"><tspan font-weight"), batches); /* every column is there */
            CHECK_TEXT(s, "&#215;267<"); /* and says how many calls it has in all */
            CHECK_SAYS(count(s, "<path") > 100 && count(s, "<path") < 400, "it has %d edges", count(s, "<path"));
            CHECK_INT(count(s, "<title>mean_n"), 1);
            CHECK(count(s, "<title>softmax_xent") >= 20); /* whole samples are drawn, to their losses */
            CHECK_TEXT(s, "only the first samples are drawn, + counts the other calls");
            fold_ctx_free(f);
        }
    fold_model_free(n.m);
}

/* -- races ------------------------------------------------------------------------------------------ */

enum { MOMENTS = 96, CALLS = 4096 };
static int batch_sizes[CALLS];
static int size_of_batch(const fold_seen *s, void *user)
{
    (void)user;
    if (s->what == FOLD_SEEN_CALL) batch_sizes[s->batch] = s->calls;
    return 0;
}

/* What one side of a race shows: where its calls are, and in which moment each of them runs. */
typedef struct side { int calls, chips, bars, steps, at[CALLS][2], moment[CALLS]; } side;
static int after(const char **s, const char *what, const char *end)
{
    const char *at = strstr(*s, what);
    if (!at || at > end) return 0;
    *s = at + strlen(what);
    return 1;
}
static void read_side(const char *s, side *got)
{
    const char *end = strstr(s, "<path class=\"wire\""), *at = s, *calls = s, *strip = s;
    memset(got, 0, sizeof *got);
    if (!CHECK(end && after(&calls, "class=\"race calls\"", end) && after(&strip, "class=\"race strip\"", end))) return;
    while (after(&at, "<text x=\"150\" y=\"", end)) got->steps = (int)strtol(strchr(at, '>') + 1, NULL, 10); /* the last one is in sight */
    while (after(&calls, "<g class=\"race", strip) && *calls != ' ' && got->calls < CALLS) {
        got->moment[got->calls] = (int)strtol(calls, NULL, 10);
        got->at[got->calls][0] = (int)(10 * strtod(strstr(calls, "x=\"") + 3, NULL) + 0.5);
        got->at[got->calls++][1] = (int)(10 * strtod(strstr(calls, "y=\"") + 3, NULL) + 0.5);
    }
    at = strip;
    while (after(&at, "class=\"race", end)) got->chips++;
    while (after(&strip, "class=\"bar", end)) got->bars++;
}

/* Both sides show the same calls, each of them once, and count what the run counted. */
static void check_race(fold_ctx *f, const char *name, int drawn)
{
    static side got[2];
    const fold_stats stats = fold_ctx_stats(f);
    const int calls = stats.run_nodes, steps = stats.batches + stats.prologues;
    const char *s = said(f, draw_race), *right = strstr(s, "<g class=\"right\"");
    memset(batch_sizes, 0, sizeof batch_sizes);
    CHECK(well_formed(s));
    if (!CHECK(right)) return;
    read_side(strstr(s, "<g class=\"left\""), &got[0]);
    read_side(right, &got[1]);
    CHECK_SAYS(got[0].steps == calls && got[1].steps == steps, "%s: %d and %d steps of %d and %d", name, got[0].steps, got[1].steps, calls, steps);
    CHECK_SAYS(got[0].calls == drawn && got[1].calls == drawn, "%s: %d and %d calls are drawn, must be %d", name, got[0].calls, got[1].calls, drawn);
    CHECK(!memcmp(got[0].at, got[1].at, sizeof got[0].at));
    for (int i = 0; i < got[0].calls; i++)
        for (int k = 0; k < i && drawn <= MOMENTS; k++) CHECK_SAYS(memcmp(got[0].at[i], got[0].at[k], sizeof got[0].at[i]), "%s: calls %d and %d are in one place", name, k, i);
    CHECK_INT(strstr(s, "calls are drawn") != NULL, drawn < calls);
    for (int i = 0; i < 2; i++) { /* without animation, the counters show the end, and nothing is hidden */
        char at[60];
        const int all = i ? steps : calls;
        snprintf(at, sizeof at, "<g class=\"count%d ink\" transform=\"translate(0,%d)\"", i, -40 * (all < MOMENTS ? all : MOMENTS));
        CHECK_TEXT(s, at);
    }
    CHECK(!strstr(strstr(s, "</style>"), "opacity"));
    const int is_bar = (calls > steps ? calls : steps) > MOMENTS;
    CHECK_INT(got[0].bars + got[1].bars, 2 * is_bar);
    CHECK_INT(got[0].chips, is_bar ? 0 : calls);
    CHECK_INT(got[1].chips, is_bar ? 0 : calls + stats.prologues);
    CHECK_INT(fold_ctx_visit(f, size_of_batch, NULL), FOLD_OK);
    for (int i = 0; i < got[0].calls && drawn == calls && !is_bar; i++) CHECK_INT(got[0].moment[i], i);
    for (int step = 0; step < steps && drawn == calls && !is_bar; step++) {
        int together = 0;
        for (int i = 0; i < got[1].calls; i++) together += got[1].moment[i] == step;
        CHECK_SAYS(together == batch_sizes[step], "%s: step %d runs %d calls, must be %d", name, step, together, batch_sizes[step]);
    }
}

static void races(void)
{
    static const float values[H] = { 0.5f, -1, 2, 0.25f };
    const net n = make_net("join", "digit");
    const fold_recurrent lstm = fold_lstm_new(n.m, "lstm", H, H);
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_run(f, NULL, 0), FOLD_OK);
    check_race(f, "no calls", 0);
    fold_node x = fold_tanh(f, fold_input(f, values, H));
    CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
    check_race(f, "one call", 1);
    fold_ctx_reset(f);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    check_race(f, "trees", 13);
    CHECK_TEXT(said(f, draw_race), "<desc>The same 13 calls twice. On the left, one call runs at a time, in 13 steps.");
    fold_ctx_reset(f);
    fold_node word[5], last[3];
    for (int i = 0; i < 5; i++) word[i] = fold_input(f, values, H);
    for (int i = 0; i < 3; i++) last[i] = fold_unroll(f, &lstm, word, 3 + i, 0, NULL, NULL).h;
    x = fold_sum_n(f, last, 3);
    CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
    CHECK(fold_ctx_stats(f).prologues > 0);
    check_race(f, "a prologue", 3 + 4 + 5 + 1);
    CHECK_TEXT(said(f, draw_race), "6 batches, 1 prologue"); /* five of the LSTM, and sum_n */
    static const int lengths[4] = { 2, MOMENTS, MOMENTS + 1, 300 }; /* the most calls that have chips; more than have columns */
    for (int which = 0; which < 4; which++) {
        fold_ctx_reset(f);
        x = fold_input(f, values, H);
        for (int i = 0; i < lengths[which]; i++) x = fold_scale(f, x, 0.5f);
        CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
        check_race(f, "a chain", lengths[which] > 256 ? 256 : lengths[which]);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void races_of_groups(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = in_groups(&n);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    CHECK(fold_ctx_stats(f).groups > 1);
    check_race(f, "groups", 13);
    record(f, &n);
    CHECK_TEXT(said(f, draw_race), "by depth, as it would run");
    fold_ctx_free(f);
    f = context(&n, 1, 0);
    record(f, &n);
    CHECK_TEXT(said(f, draw_race), "by depth, as it would run");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Of many samples some are drawn, and all are counted. */
static void a_large_race(void)
{
    enum { SAMPLES = 100 };
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    fold_node loss[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) loss[i] = record(f, &n);
    const fold_node mean = fold_mean_n(f, loss, SAMPLES);
    CHECK_INT(fold_run(f, &mean, 1), FOLD_OK);
    const char *calls = strstr(said(f, draw_race), " calls are drawn");
    if (!CHECK(calls)) return;
    while (calls[-1] != '>') calls--; /* "N of the M calls are drawn" */
    const int drawn = (int)strtol(calls, NULL, 10);
    CHECK_SAYS(drawn > 60 && drawn < 300, "%d calls are drawn", drawn);
    CHECK_SAYS(strlen(said(f, draw_race)) < 120000, "it has %d bytes", (int)strlen(said(f, draw_race)));
    check_race(f, "many samples", drawn);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void settings_of_races(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    fold_draw_race_desc d = fold_draw_race_desc_default();
    const float bad[4] = { -1, 601, NAN, INFINITY };
    for (int i = 0; i < 4; i++) {
        text *t = empty();
        d.seconds = bad[i];
        CHECK_INT(fold_draw_race(f, &d, to_text, t), FOLD_BAD_ARGUMENT);
        CHECK_INT(t->n, 0);
    }
    d.seconds = 15;
    d.title = "Trees";
    CHECK_INT(fold_draw_race(f, &d, to_text, empty()), FOLD_OK);
    text *t = empty();
    CHECK_INT(fold_draw_race(f, &d, to_text, t), FOLD_OK);
    CHECK_TEXT(t->s, "<title>Trees</title>");
    CHECK_TEXT(t->s, "animation-duration:20s;"); /* with a second before it and four after it */
    CHECK_TEXT(said(f, draw_race), "<title>One recording, run twice</title>");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Without memory there is no picture, and nothing of one. */
static void pictures_without_memory(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    for (int i = WHILE_LOOKING; i < PRINTERS - 1; i++) {
        int left = 0;
        fold_status status = FOLD_NO_MEMORY;
        for (; status && left < 100; left++) {
            text *t = empty();
            allocations_left = left;
            status = printers[i](f, to_text, t);
            allocations_left = -1;
            CHECK_INT(status, t->n ? FOLD_OK : FOLD_NO_MEMORY);
        }
        CHECK_SAYS(left > 5 && left < 100, "it took %d allocations", left);
        CHECK_INT(fold_ctx_status(f), FOLD_OK);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

static void summary(void)
{
    const net n = make_net("join", "digit");
    fold_param_desc d = fold_param_desc_default();
    text *t = empty();
    d.name = "mean";
    d.shape = fold_shape1(3);
    d.buffer = 1;
    d.rate_set = 2;
    fold_param_new(n.m, &d);
    fold_param_freeze(n.m, n.V, 1);
    CHECK_INT(fold_model_print(n.m, to_text, t), FOLD_OK);
    CHECK_TEXT(t->s, "parameters  shape                   values         bytes\n"
                     "digit       [10 x 4]                    40           160  lookups\n"
                     "W           [8 x 4]                     32           128\n"
                     "b           [4]                          4            16\n"
                     "V           [4 x 3]                     12            48  frozen\n"
                     "mean        [3]                          3            12  buffer  rate set 2\n"
                     "5 parameters, 91 values, 76 of them trained; bytes: ");
    CHECK_TEXT(t->s, "cell join: 2 inputs, 1 output, 2 ops\n");
    fold_lstm_new(n.m, "lstm", 2, 3); /* each of its cells once, whatever else the library keeps for itself */
    fold_child_sum_new(n.m, "sum", 2, 3);
    t = empty();
    CHECK_INT(fold_model_print(n.m, to_text, t), FOLD_OK);
    CHECK_INT(count(t->s, "\ncell "), 4);
    CHECK_TEXT(t->s, "cell lstm: 3 inputs, 2 outputs, ");
    CHECK_TEXT(t->s, "cell sum: 1 input, 2 outputs, ");
    CHECK_TEXT(t->s, "cell sum: 1 input, lists of 2, 2 outputs, ");
    t = empty();
    t->limit = 10;
    CHECK_INT(fold_model_print(n.m, to_text, t), FOLD_IO);
    CHECK_INT(fold_model_print(n.m, NULL, NULL), FOLD_IO);
    CHECK_INT(fold_model_status(n.m), FOLD_OK);
    fold_model_free(n.m);
}

/* -- trouble ---------------------------------------------------------------------------------------- */

static void stopped_writers(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    const fold_node root = record(f, &n);
    for (int i = 0; i < PRINTERS; i++) {
        const size_t all = strlen(said(f, printers[i]));
        for (size_t limit = 0; limit < all; limit += 1 + all / 50) {
            text *t = empty();
            t->limit = limit;
            CHECK_INT(printers[i](f, to_text, t), FOLD_IO);
        }
        CHECK_INT(printers[i](f, NULL, NULL), FOLD_IO);
    }
    CHECK_INT(fold_ctx_status(f), FOLD_OK);
    CHECK_INT(fold_backward(f, root), FOLD_OK);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A writer that uses the context: each of its calls is refused, with a message, and the text is as it was. */
typedef struct busy { text *t; fold_ctx *f; fold_node root; printer *print; const net *n; int calls; } busy;
static int to_busy(const void *bytes, size_t n, void *user)
{
    busy *b = (busy *)user;
    float many[500] = { 0 };
    for (int i = 0; i < 50; i++) CHECK(fold_node_is_null(fold_input(b->f, many, 10 * i + 1)));
    CHECK(fold_node_is_null(fold_tanh(b->f, b->root)) && fold_node_is_null(fold_zeros(b->f, fold_shape1(3))));
    fold_ctx_reset(b->f);
    CHECK_INT(fold_run(b->f, &b->root, 1), FOLD_BAD_STATE);
    CHECK_INT(fold_backward(b->f, b->root), FOLD_BAD_STATE);
    CHECK_INT(fold_replay(b->f), FOLD_BAD_STATE);
    CHECK_INT(b->print(b->f, to_text, b->t), FOLD_BAD_STATE);
    CHECK_TEXT(fold_ctx_message(b->f), "print, visit: writers and visitors must not use the context");
    b->calls++;
    return to_text(bytes, n, b->t);
}
static void busy_writers(void)
{
    static char want[TEXT];
    const net n = make_net("join", "digit");
    for (int broken = 0; broken < 2; broken++) {
        fold_ctx *f = context(&n, 0, 0);
        const fold_node root = record(f, &n);
        if (broken) fold_lookup(f, n.digit, -1);
        else CHECK_INT(fold_backward(f, root), FOLD_OK);
        for (int i = 0; i < WHILE_LOOKING; i++) {
            strcpy(want, said(f, printers[i]));
            busy b = { empty(), f, root, printers[i], &n, 0 };
            CHECK_INT(printers[i](f, to_busy, &b), FOLD_OK);
            CHECK(b.calls > 0);
            CHECK_SAME_TEXT(b.t->s, want);
            CHECK_INT(fold_ctx_status(f), broken ? FOLD_BAD_ARGUMENT : FOLD_OK);
        }
        CHECK_INT(fold_backward(f, root), broken ? FOLD_BAD_ARGUMENT : FOLD_OK);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* What is drawn was copied before, so its writer may use the context. */
static int to_user(const void *bytes, size_t n, void *user)
{
    busy *b = (busy *)user;
    fold_ctx_reset(b->f);
    CHECK_INT(fold_backward(b->f, record(b->f, b->n)), FOLD_OK);
    return to_text(bytes, n, b->t);
}
static void writers_of_pictures(void)
{
    static char want[TEXT];
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    for (int i = WHILE_LOOKING; i < PRINTERS - 1; i++) {
        CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
        strcpy(want, said(f, printers[i]));
        busy b = { empty(), f, { 0, 0 }, printers[i], &n, 0 };
        CHECK_INT(printers[i](f, to_user, &b), FOLD_OK);
        CHECK_SAME_TEXT(b.t->s, want);
        CHECK_INT(printers[i](NULL, to_text, empty()), FOLD_BAD_ARGUMENT);
    }
    CHECK_INT(fold_draw_trace(NULL, to_text, empty()), FOLD_BAD_ARGUMENT);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* -- visitors ---------------------------------------------------------------------------------------- */

enum { NODES = 2000 };
typedef struct visit {
    fold_ctx *f;
    int what[4], calls, steps, batch, group, in_batch, expected, broken, limit;
    int seen[NODES]; /* of a node's id: 1, or -1 that of a leaf */
    int sample[NODES], batch_of[NODES], samples;
    fold_seen run;
} visit;

/* Every leaf comes before every call, every call once, batch by batch, behind those that it reads. */
static int check_seen(const fold_seen *s, void *user)
{
    visit *v = (visit *)user;
    v->what[s->what]++;
    if (s->what == FOLD_SEEN_RUN) v->run = *s;
    if (s->what == FOLD_SEEN_RUN) return CHECK(v->what[FOLD_SEEN_RUN] == 1 && !v->calls && !v->what[FOLD_SEEN_LEAF]) - 1;
    const int id = (int)s->node.id;
    if (!CHECK(id > 0 && id + s->n_out <= NODES)) return 1;
    for (int i = 0; i < s->n_out; i++) {
        CHECK_SAYS(!v->seen[id + i], "node %d is seen again", id + i);
        v->seen[id + i] = s->what == FOLD_SEEN_LEAF ? -1 : 1;
    }
    v->batch_of[id] = s->batch;
    if (s->what == FOLD_SEEN_LEAF) return CHECK(!v->calls) - 1;
    v->calls++;
    if (s->batch != v->batch) { /* a batch begins: the one before had as many calls as it said */
        CHECK(s->batch > v->batch && s->group >= v->group);
        CHECK_INT(v->in_batch, v->expected);
        v->in_batch = 0;
        v->steps++;
    }
    v->batch = s->batch;
    v->group = s->group;
    v->expected = s->calls;
    v->in_batch++;
    const int list = s->n_operands - s->n_in;
    CHECK(list == 0 || (s->n_list && list % s->n_list == 0));
    for (int i = 0; i < s->n_operands; i++) {
        const int from = (int)s->operand[i];
        CHECK_SAYS(from > 0 && from < id && v->seen[from], "node %d reads %d, which was not seen yet", id, from);
        CHECK(v->seen[from] < 0 || s->batch > v->batch_of[from]);
    }
    v->sample[id] = s->sample;
    if (s->sample >= v->samples) v->samples = s->sample + 1;
    return v->limit && v->calls == v->limit;
}
static visit visited(fold_ctx *f, fold_status status, int limit)
{
    visit v;
    memset(&v, 0, sizeof v);
    v.f = f;
    v.batch = -1;
    v.limit = limit;
    CHECK_INT(fold_ctx_visit(f, check_seen, &v), status);
    if (!status) CHECK_INT(v.in_batch, v.expected);
    return v;
}

static void visits(void)
{
    const net n = make_net("join", "digit");
    for (int way = 0; way < 24; way++) {
        const int eager = way == 23, lists = way & 1;
        static const float values[H] = { 0.5f, -1, 2, 0.25f };
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        d.group_bytes = way & 2 ? 1 : SIZE_MAX;
        d.dedupe = (way & 4) && !eager;
        d.schedule = (fold_schedule)(eager ? 0 : way / 8);
        d.plan_cache_bytes = eager ? 0 : 1 << 16;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        for (int run = 0; run < 4; run++) { /* the last by a kept plan */
            fold_ctx_reset(f);
            fold_node root = record(f, &n);
            if (lists) root = fold_add(f, root, fold_sum(f, fold_list_sum(f, fold_tanh(f, fold_list_input(f, values, 2, fold_shape1(2)))), FOLD_ALL));
            visit v = visited(f, FOLD_OK, 0);
            CHECK(eager ? v.run.name && !strcmp(v.run.name, "eager") : !v.run.name);
            CHECK_INT(v.samples, 0);
            CHECK_INT(fold_backward(f, root), FOLD_OK);
            v = visited(f, FOLD_OK, 0);
            const fold_stats s = fold_ctx_stats(f);
            CHECK_INT(v.calls, v.run.calls);
            CHECK(v.calls > 12 && v.what[FOLD_SEEN_LEAF] > 0);
            if (!eager) {
                CHECK_INT(v.calls, s.run_nodes);
                CHECK_INT(v.steps, s.batches);
                CHECK_INT(v.run.batch, s.batches + s.prologues);
                CHECK_INT(v.run.group, s.groups);
                CHECK_INT(v.run.lower_bound, s.lower_bound);
                CHECK_INT(v.samples, 3 + lists);
                CHECK_INT(v.sample[root.id], -1);
            }
            visited(f, FOLD_IO, 5); /* which stops */
            CHECK_INT(fold_ctx_visit(f, NULL, NULL), FOLD_IO);
            CHECK_INT(fold_ctx_status(f), FOLD_OK);
        }
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

/* The body of a cell, and what a call of it shows: its inputs that are lists, and which cell it is. */
typedef struct body { int what[2], n, lists; char text[300]; fold_cell called; const int *rows; } body;
static int see_body(const fold_seen *s, void *user)
{
    body *b = (body *)user;
    if (s->what > FOLD_SEEN_CALL || b->n > 250) return 1;
    b->n += snprintf(b->text + b->n, sizeof b->text - (size_t)b->n, "%s %u(", s->name, (unsigned)s->node.id);
    for (int i = 0; i < s->n_operands; i++) b->n += snprintf(b->text + b->n, sizeof b->text - (size_t)b->n, "%s%x+%u", i ? " " : "", (unsigned)s->operand[i], (unsigned)s->offset[i]);
    b->n += snprintf(b->text + b->n, sizeof b->text - (size_t)b->n, ") %d %d %d; ", s->n_in, s->n_out, s->out[0]->dim[0]);
    return 0;
}
static int see_called(const fold_seen *s, void *user)
{
    body *b = (body *)user;
    if (s->what == FOLD_SEEN_LEAF && s->index) b->rows = (const int *)s->index;
    if (s->what == FOLD_SEEN_CALL && s->is_cell) b->called = s->called, b->lists = (int)s->lists;
    if (b->rows) CHECK(b->rows[0] == 7 && b->rows[1] == 2);
    return 0;
}
static void bias_and_half(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    out[0] = fold_add(f, fold_use(f, n->b), in[1]);
    out[1] = fold_exp(f, fold_slice(f, out[0], 0, 1, 2));
}
static void bodies(void)
{
    static const int rows[2] = { 7, 2 };
    net n = make_net("join", "digit");
    body b;
    fold_cell none = { 0, 0 }, other;
    memset(&b, 0, sizeof b);
    CHECK_INT(fold_cell_visit(n.m, n.join, see_body, &b), FOLD_OK);
    CHECK_TEXT(b.text, "join 3(4+0) 2 1 4; linear 3(1+0 2+0) 2 1 4; tanh 4(3+0) 1 1 4; ");
    memset(&b, 0, sizeof b);
    other = pair_cell(n.m, "half", bias_and_half, &n, sizeof n, 2, H);
    CHECK_INT(fold_cell_visit(n.m, other, see_body, &b), FOLD_OK);
    CHECK_TEXT(b.text, "add 3(80000002+0 2+0) 2 1 4; exp 4(3+1) 1 1 2; ");
    b.n = 251;
    CHECK_INT(fold_cell_visit(n.m, other, see_body, &b), FOLD_IO);
    CHECK_INT(fold_cell_visit(n.m, none, see_body, &b), FOLD_BAD_HANDLE);
    other.id += 1;
    CHECK_INT(fold_cell_visit(n.m, other, see_body, &b), FOLD_BAD_HANDLE);
    CHECK_INT(fold_cell_visit(NULL, n.join, see_body, &b), FOLD_BAD_ARGUMENT);
    CHECK_INT(fold_cell_visit(n.m, n.join, NULL, NULL), FOLD_BAD_ARGUMENT);
    fold_ctx *f = fold_ctx_new(n.m, NULL);
    fold_node in[2];
    in[0] = fold_lookup(f, n.digit, 3);
    in[1] = fold_list_lookup(f, n.digit, rows, 2);
    const fold_node root = fold_call(f, n.join, in, 2);
    memset(&b, 0, sizeof b);
    CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
    CHECK_INT(fold_ctx_visit(f, see_called, &b), FOLD_OK);
    CHECK(b.called.id == n.join.id && b.called.salt == n.join.salt && b.lists == 2 && b.rows);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A reference that no call reads is shown in an eager context alone, where an exporter must know it, and never drawn. */
static void unread_references(void)
{
    static const float values[4] = { 0.5f, -1, 2, 0.25f };
    for (int way = 0; way < 6; way++) {
        const int eager = way % 2, calls = way / 2; /* no call, one, one that has run */
        fold_ctx_desc d = fold_ctx_desc_default();
        fold_model *m = fold_model_new(NULL);
        d.eager = eager;
        fold_ctx *f = fold_ctx_new(m, &d);
        const fold_node x = fold_input_ref(f, values, fold_shape1(4)), unread = fold_input_ref(f, values, fold_shape1(4));
        fold_input(f, values, 4);
        const fold_node y = calls ? fold_tanh(f, x) : x;
        if (calls > 1) CHECK_INT(fold_run(f, &y, 1), FOLD_OK);
        const visit v = visited(f, FOLD_OK, 0);
        CHECK_INT(v.what[FOLD_SEEN_LEAF], !!calls + eager * (calls ? 1 : 2));
        CHECK_INT(v.seen[unread.id], -eager);
        if (eager) CHECK_INT(v.batch_of[unread.id], -1);
        if (eager) CHECK_INT(v.batch_of[x.id], calls ? 0 : -1);
        text *drawn = empty();
        CHECK_INT(fold_draw_dot(f, to_text, drawn), FOLD_OK);
        CHECK_INT(strstr(drawn->s, "input_ref") != NULL, !!calls);
        CHECK_INT(fold_draw_svg(f, to_text, empty()), FOLD_OK);
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* What a call is: its op's name, attributes, parameters, shapes, operands and data. */
static int describe(const fold_seen *s, void *user)
{
    char *at = (char *)user + strlen((char *)user);
    if (s->what == FOLD_SEEN_RUN) return 0;
    at += sprintf(at, "%d %s", (int)s->node.id, s->name);
    if (s->cell) at += sprintf(at, " in %s", s->cell);
    for (int i = 0; i < 2 && !fold_param_is_null(s->param[i]); i++) at += sprintf(at, " p%d", (int)s->param[i].id);
    for (int i = 0; i < s->n_attr && s->attr_name[i]; i++) at += sprintf(at, s->attr[i] == FOLD_ALL ? " %s=all" : " %s=%g", s->attr_name[i], s->attr[i]);
    for (int i = 0; i < s->n_in + s->n_list; i++) at += sprintf(at, "%s%d", i ? "," : " [", s->in[i]->dim[0]);
    at += sprintf(at, "%s->[%d]", s->n_in + s->n_list ? "]" : "", s->out[0]->dim[0]);
    for (int i = 0; i < s->n_operands; i++)
        at += sprintf(at, " %d%s%d", (int)s->operand[i], s->offset[i] >> 31 ? "*" : "+", (int)(s->offset[i] & 0x7fffffff));
    if (s->rows >= 0) at += sprintf(at, " rows %d", s->rows);
    if (s->row >= 0) at += sprintf(at, " row %d", s->row);
    if (s->what == FOLD_SEEN_CALL && s->data) at += sprintf(at, " data %x", (unsigned)s->data);
    strcpy(at, "\n");
    return 0;
}
static void described(void)
{
    static const float values[H] = { 0.5f, -1, 2, 0.25f };
    static char told[TEXT];
    const net n = make_net("join", "digit");
    const fold_param none = { 0, 0 };
    fold_ctx *f = context(&n, 0, 0);
    fold_node x = fold_input(f, values, H), in[2] = { x, fold_lookup(f, n.digit, 7) };
    const fold_node y = fold_call(f, n.join, in, 2), rows = fold_list_input(f, values, 2, fold_shape1(2));
    fold_node out[4];
    out[0] = fold_sum(f, fold_leaky_relu(f, fold_add(f, y, fold_use(f, n.b)), 0.5f), FOLD_ALL);
    out[1] = fold_softmax_xent(f, fold_linear(f, fold_scale(f, y, 2), n.V, none), 2);
    out[2] = fold_sum(f, fold_list_sum(f, fold_tanh(f, rows)), 0);
    out[3] = fold_squared_error(f, fold_slice(f, x, 0, 1, 2), fold_slice(f, x, 0, 2, 2));
    CHECK_INT(fold_run(f, out, 4), FOLD_OK);
    told[0] = 0;
    CHECK_INT(fold_ctx_visit(f, describe, told), FOLD_OK);
    CHECK_SAME_TEXT(told, "1 input->[4]\n"
                          "2 digit p1->[4] row 7\n"
                          "4 input->[2] rows 2\n"
                          "5 b p3->[4]\n"
                          "3 join [4,4]->[4] 1+0 2+0\n"
                          "6 add [4,4]->[4] 3+0 5+0\n"
                          "7 leaky slope=0.5 [4]->[4] 6+0\n"
                          "8 sum axis=all [4]->[1] 7+0\n"
                          "9 scale [4]->[4] 3+0 data 40000000\n"
                          "10 linear p4 [4]->[3] 9+0\n"
                          "11 softmax_xent [3]->[1] 10+0 data 2\n"
                          "12 tanh [2]->[2] 4*0 rows 2\n"
                          "13 sum_n [2]->[2] 12*0\n"
                          "14 sum axis=0 [2]->[1] 13+0\n"
                          "17 squared_error [2,2]->[1] 1+1 1+2\n");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Times lead to the calls of their batch: its number, kind of call and group are the same. */
typedef struct timed { int n[2], prologues, planned, dropped; const char *name[64]; int calls[64], group[64]; } timed;
static int note_call(const fold_seen *s, void *user)
{
    timed *t = (timed *)user;
    if (s->what != FOLD_SEEN_CALL || !CHECK(s->batch < 64)) return 0;
    t->name[s->batch] = s->name;
    t->calls[s->batch] = s->calls;
    t->group[s->batch] = s->group;
    return 0;
}
static int note_time(const fold_seen *s, void *user)
{
    timed *t = (timed *)user;
    if (s->what == FOLD_SEEN_RUN) { t->planned++; return CHECK(s->end_ns > 0 && !s->start_ns && !t->n[0]) - 1; }
    CHECK_INT(s->what, FOLD_SEEN_TIME);
    CHECK(s->end_ns > s->start_ns && s->thread >= 0 && s->thread < 2);
    t->n[s->backward]++;
    t->prologues += s->prologue;
    t->dropped = s->dropped;
    if (s->prologue) return CHECK(!t->name[s->batch]) - 1;
    CHECK_INT(s->calls, t->calls[s->batch]);
    CHECK_INT(s->group, t->group[s->batch]);
    return CHECK(s->batch < 64 && t->name[s->batch] == s->name && s->out[0]->rank == 1) - 1;
}
static int stop_at_once(const fold_seen *s, void *user) { (void)s; (void)user; return 1; }
static void times(void)
{
    const net n = make_net("join", "digit");
    for (int way = 0; way < 4; way++) {
        uint64_t now = UINT64_C(1) << 60;
        timed t;
        fold_ctx_desc d = fold_ctx_desc_default();
        memset(&t, 0, sizeof t);
        d.training = 1;
        d.group_bytes = way & 1 ? 1 : SIZE_MAX;
        d.trace_bytes = way & 2 ? 1 << 16 : 64;
        d.clock = tick;
        d.clock_user = &now;
        d.threads = 1 + (way & 1);
        d.parallel_for = one_by_one;
        fold_ctx *f = fold_ctx_new(n.m, &d);
        CHECK_INT(fold_ctx_visit_times(f, note_time, &t), FOLD_OK);
        CHECK_INT(t.planned, 0);
        CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
        CHECK_INT(fold_ctx_visit(f, note_call, &t), FOLD_OK);
        CHECK_INT(fold_ctx_visit_times(f, note_time, &t), FOLD_OK);
        const fold_stats s = fold_ctx_stats(f);
        const int all = (int)(s.batches + s.prologues);
        CHECK_INT(t.planned, 1);
        if (way & 2) CHECK(t.n[0] == all && t.n[1] == all && t.prologues == 2 * s.prologues && !t.dropped);
        else CHECK(t.n[0] + t.n[1] == 2 && t.dropped > 0);
        CHECK_INT(fold_ctx_visit_times(f, stop_at_once, NULL), FOLD_IO);
        CHECK_INT(fold_ctx_visit_times(f, NULL, NULL), FOLD_IO);
        CHECK_INT(fold_ctx_visit_times(NULL, note_time, &t), FOLD_BAD_ARGUMENT);
        CHECK_INT(fold_ctx_visit(NULL, note_call, &t), FOLD_BAD_ARGUMENT);
        fold_ctx_free(f);
    }
    fold_model_free(n.m);
}

static void broken_recording(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    const fold_param none = { 0, 0 };
    const fold_node leaf = fold_lookup(f, n.digit, 3), in[2] = { leaf, leaf }, a = fold_call(f, n.join, in, 2);
    CHECK(fold_node_is_null(fold_linear(f, a, n.W, none)));
    CHECK_SAME_TEXT(said(f, fold_ctx_print),
                    "1 call in 1 batch by depth, not run yet\n"
                    "leaves: 1 row of digit [10 x 4]\n"
                    "step 1: join = 1 x (digit [4], digit [4]) -> [4]\n"
                    "error: linear: the input has 4 values, must have 8 ('W' is [8 x 4])\n");
    CHECK_INT(fold_ctx_status(f), FOLD_BAD_SHAPE);
    CHECK(well_formed(said(f, fold_draw_svg)));
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* In a block a look moves the arrays that hold a run; too small a block gives no picture and does no harm. */
static void in_a_block(void)
{
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    CHECK_INT(fold_backward(f, record(f, &n)), FOLD_OK);
    const size_t size = fold_ctx_stats(f).block_bytes;
    fold_ctx_free(f);
    int seen[2] = { 0, 0 };
    for (size_t more = 0; more < 8192; more += 512) {
        fold_ctx_desc d = fold_ctx_desc_default();
        char *raw = (char *)malloc(size + more + 64);
        d.training = 1;
        d.group_bytes = SIZE_MAX;
        d.memory.block = raw + (64 - (uintptr_t)raw % 64) % 64;
        d.memory.block_size = size + more;
        f = fold_ctx_new(n.m, &d);
        float value[3] = { 0, 0, 0 };
        for (int i = 0; i < 3 && CHECK(f); i++) {
            fold_ctx_reset(f);
            const fold_node root = record(f, &n);
            if (i) fold_draw_svg(f, to_text, empty());
            CHECK_INT(fold_backward(f, root), FOLD_OK);
            text *t = empty();
            const fold_status status = i ? fold_ctx_print(f, to_text, t) : FOLD_OK;
            CHECK(status == FOLD_OK || status == FOLD_NO_MEMORY);
            if (i && !status) CHECK_SAME_TEXT(t->s, printed);
            if (i) seen[status != FOLD_OK]++;
            CHECK_INT(fold_ctx_status(f), FOLD_OK);
            value[i] = fold_scalar(f, root);
        }
        CHECK(!memcmp(&value[0], &value[1], sizeof(float)) && !memcmp(&value[0], &value[2], sizeof(float)));
        free(raw);
    }
    CHECK_SAYS(seen[0] && seen[1], "%d looks and %d without memory: one of them was not tried", seen[0], seen[1]);
    fold_model_free(n.m);
}

static int to_size(const void *bytes, size_t n, void *user)
{
    (void)bytes;
    *(size_t *)user += n;
    return 0;
}
static void a_long_chain(void)
{
    enum { N = 100000 };
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    const float one = 1;
    fold_node x = fold_input(f, &one, 1);
    for (int i = 0; i < N; i++) x = fold_scale(f, x, 0.5f);
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < PRINTERS; i++) {
            size_t bytes = 0;
            CHECK_INT(printers[i](f, to_size, &bytes), FOLD_OK);
            CHECK(i == 1 || printers[i] == draw_race || printers[i] == fold_draw_trace || bytes > (size_t)N * 30);
        }
        CHECK_INT(fold_run(f, &x, 1), FOLD_OK);
    }
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Attributes have names; makers of one operand are told up to three, outputs of a call by number, alike operands together. */
static void three_of_three(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    (void)user;
    out[0] = fold_add(f, in[0], fold_tanh(f, in[1]));
    out[1] = fold_mul(f, in[0], in[2]);
}
static void attributes_and_makers(void)
{
    static const float values[H] = { 0.5f, -1, 2, 0.25f };
    const net n = make_net("join", "digit");
    const fold_param gain = fold_gain_new(n.m, "gain", H);
    fold_cell_desc d = fold_cell_desc_default();
    d.name = "three";
    d.body = three_of_three;
    d.n_in = 3;
    d.in[0] = d.in[1] = d.in[2] = fold_shape1(H);
    d.n_out = 2;
    const fold_cell three = fold_cell_new(n.m, &d);
    fold_ctx *f = context(&n, 0, 0);
    const fold_node x = fold_input(f, values, H);
    fold_node y[10];
    y[0] = fold_elu(f, x, 0.5f);
    y[1] = fold_pow(f, x, 2);
    y[2] = fold_at_least(f, x, -1);
    y[3] = fold_at_most(f, x, 3);
    y[4] = fold_rms_norm(f, x, gain, 0.125f);
    y[5] = fold_layer_norm(f, x, gain, gain, 0.25f);
    y[6] = fold_dropout(f, x, 0.75f);
    y[7] = fold_leaky_relu(f, x, 0.0625f);
    y[8] = fold_mul(f, x, fold_huber(f, y[0], y[1], 4));
    y[9] = fold_slice(f, fold_reshape(f, fold_concat2(f, y[8], y[7]), fold_shape2(2, H)), 1, 1, 2);
    fold_node all[10], in[3];
    for (int i = 0; i < 9; i++) all[i] = fold_tanh(f, y[i]);
    in[0] = in[1] = in[2] = all[0];
    const fold_node first = fold_call(f, three, in, 3);
    in[0] = fold_out(f, first, 1);
    in[1] = first;
    const fold_node second = fold_call(f, three, in, 3);
    all[9] = fold_out(f, second, 1);
    const fold_node root = fold_add(f, fold_sum(f, fold_sum_n(f, all, 10), 0), fold_sum(f, y[9], FOLD_ALL));
    CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
    const char *s = said(f, fold_ctx_print);
    static const char *const wanted[] = { "elu(alpha 0.5)", "pow(exponent 2)", "at_least(bound -1)", "at_most(bound 3)",
        "epsilon 0.125)", "epsilon 0.25)", "dropout(rate 0.75)", "leaky(slope 0.0625)", "huber(delta 4)", "sum(axis 0)",
        "slice(axis 1, start 1, length 2)", "|.. [4])", "three = 1 x (3 of tanh [4]) -> [4], [4]", "(three.1 [4], three.0 [4], tanh [4])" };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) CHECK_TEXT(s, wanted[i]);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* Calls of one cell that differ in what is shared; four equal shapes in a row are counted. */
static void splits_of_cells(void)
{
    static const float values[H] = { 0.5f, -1, 2, 0.25f };
    const net n = make_net("join", "digit");
    fold_ctx *f = context(&n, 0, 0);
    const fold_node x = fold_input(f, values, H), y = fold_lookup(f, n.digit, 1), shared = fold_shared(f, fold_tanh(f, y));
    fold_node in[4], root[2];
    in[0] = x;
    in[1] = shared;
    root[0] = fold_call(f, n.join, in, 2);
    in[1] = y;
    root[1] = fold_call(f, n.join, in, 2);
    in[2] = in[3] = x;
    root[0] = fold_add(f, fold_sum(f, root[0], FOLD_ALL), fold_sum(f, fold_concat(f, in, 4, 0), FOLD_ALL));
    in[1] = fold_concat2(f, x, y);
    root[1] = fold_add(f, fold_sum(f, root[1], FOLD_ALL), fold_sum(f, fold_concat(f, in, 3, 0), FOLD_ALL));
    CHECK_INT(fold_run(f, root, 2), FOLD_OK);
    const char *s = said(f, fold_ctx_print_splits);
    CHECK_TEXT(s, "join");
    CHECK_TEXT(s, "different inputs are shared");
    CHECK_TEXT(s, "4 of [4] -> [16]");
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* What runs before all recursion is in no picture's columns; what reads nothing has a place; calls that lie at one height part. */
static void columns_of_pictures(void)
{
    static const float values[H] = { 0.5f, -1, 2, 0.25f };
    const net n = make_net("join", "digit");
    const fold_recurrent lstm = fold_lstm_new(n.m, "lstm", H, H);
    fold_ctx *f = context(&n, 0, 0);
    fold_node x[4], all[8];
    for (int i = 0; i < 4; i++) x[i] = fold_input(f, values, H);
    all[0] = fold_unroll(f, &lstm, x, 4, 0, NULL, NULL).h;
    all[1] = fold_list_sum(f, fold_list_input(f, values, 0, fold_shape1(H)));
    for (int i = 2; i < 8; i++) all[i] = fold_tanh(f, fold_scale(f, x[3], (float)i)); /* all at the height of x[3] */
    const fold_node root = fold_sum(f, fold_sum_n(f, all, 8), FOLD_ALL);
    CHECK_INT(fold_run(f, &root, 1), FOLD_OK);
    CHECK_TEXT(said(f, fold_ctx_print), "prologue: lstm");
    CHECK_INT(count(said(f, fold_draw_dot), "lstm"), 8); /* four columns, and a call in each */
    CHECK(count(said(f, fold_draw_svg), "<rect") > 8);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

/* A batch that sends no gradient anywhere is no event of a backward pass. */
static uint64_t one_more(void *user) { return ++*(uint64_t *)user; }
static void trace_without_gradient(void)
{
    static const float values[H] = { 0.5f, -1, 2, 0.25f };
    const net n = make_net("join", "digit");
    const fold_param none = { 0, 0 };
    uint64_t now = 0;
    fold_ctx_desc d = fold_ctx_desc_default();
    d.training = 1;
    d.clock = one_more;
    d.clock_user = &now;
    d.trace_bytes = 4096;
    fold_ctx *f = fold_ctx_new(n.m, &d);
    const fold_node fixed = fold_tanh(f, fold_input(f, values, H)), x = fold_lookup(f, n.digit, 1);
    const fold_node loss = fold_sum(f, fold_linear(f, fold_add(f, fold_exp(f, fixed), x), n.V, none), FOLD_ALL);
    CHECK_INT(fold_backward(f, loss), FOLD_OK);
    text *t = empty();
    CHECK_INT(fold_draw_trace(f, to_text, t), FOLD_OK);
    CHECK_INT(count(t->s, "\"exp\"") + count(t->s, "\"exp "), 1);
    CHECK_INT(count(t->s, "\"tanh\"") + count(t->s, "\"tanh "), 1);
    CHECK_INT(count(t->s, "\"linear"), 2);
    fold_ctx_free(f);
    fold_model_free(n.m);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("trees as text", trees_as_text);
    check_run("an eager recording as text", eager_as_text);
    check_run("a second run", second_run);
    check_run("recomputed calls", recomputed);
    check_run("groups as text", groups_as_text);
    check_run("splits of ops", splits);
    check_run("splits of lists", splits_of_lists);
    check_run("splits of one signature", splits_of_one_signature);
    check_run("pictures", pictures);
    check_run("strange names", strange_names);
    check_run("a large picture", large_picture);
    check_run("races", races);
    check_run("races of groups", races_of_groups);
    check_run("a large race", a_large_race);
    check_run("settings of races", settings_of_races);
    check_run("pictures without memory", pictures_without_memory);
    check_run("summary of a model", summary);
    check_run("writers that stop", stopped_writers);
    check_run("writers that use the context", busy_writers);
    check_run("writers of pictures", writers_of_pictures);
    check_run("characters of no XML", characters_of_no_xml);
    check_run("visits", visits);
    check_run("unread references", unread_references);
    check_run("what visitors see", described);
    check_run("bodies of cells", bodies);
    check_run("visits of times", times);
    check_run("a broken recording", broken_recording);
    check_run("looking in a block", in_a_block);
    check_run("a long chain", a_long_chain);
    check_run("traces", traces);
    check_run("its own clock", its_own_clock);
    check_run("attributes and makers", attributes_and_makers);
    check_run("splits of cells", splits_of_cells);
    check_run("columns of pictures", columns_of_pictures);
    check_run("a trace without gradients", trace_without_gradient);
    check_run("other programs read the pictures", other_programs);
    return check_finish();
}
