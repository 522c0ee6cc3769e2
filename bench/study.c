/* study: tells whether dynamic batching pays on real trees, recording and scheduling counted.

     cc -O2 -o bench/study bench/study.c -lm -lpthread
     bench/study --data DIR --svg study.svg

   Part one follows the evaluation study of D. Taylor (2018). It draws batches of 1 to 1024 from parse trees of sentiment (DIR/sst)
   and from pairs of dependency trees (DIR/sick), at a large and a small hidden size. It times a tree
   - alone, eagerly,
   - in batches by each schedule, with recording, scheduling and running apart,
   - in batches made by hand, level by level, on the same kernels.
   Without --data (or the environment's FOLD_DATA) the trees are random.

   Part two is the experiment of Looks et al. (2017, table 1): trees of 128 leaves, state 1024, have all one shape or each its own.

   Times are medians of alternating runs. Several small batches run in a row so that caches are as warm as in use, and every batch has
   other trees. */
#define _POSIX_C_SOURCE 199309L
#define FOLD_USE_THREADS
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define DATA_IMPLEMENTATION
#include "../examples/data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "peak.h"
#include "workloads.h"
#include "side.h"
#include "../examples/options.h"

enum { MAX_SIZES = 16, MAX_HIDDEN = 4, N_CORPORA = 2, N_MODES = 2 };

/* Batches are drawn from these real trees. Without them the workloads make random trees. */
typedef struct corpus { const char *name, *title; recording trees; data_vocab words; } corpus;
static corpus corpora[N_CORPORA] = { { .name = "sst", .title = "SST" }, { .name = "sick", .title = "SICK" } };

typedef struct settings {
    const char *data, *svg;
    double seconds;
    int sizes[MAX_SIZES], n_sizes, hidden[MAX_HIDDEN], n_hidden, looks_max, looks_state, seed;
} settings;

/* ---- real trees --------------------------------------------------------------------------- */

static sample *new_sample(corpus *c)
{
    recording *r = &c->trees;
    r->samples = (sample *)take(r->samples, (size_t)r->n_samples + 1, sizeof *r->samples);
    memset(&r->samples[r->n_samples], 0, sizeof *r->samples);
    r->samples[r->n_samples].first = r->n_items;
    return &r->samples[r->n_samples++];
}

/* Copies a binary tree, each item before its children. */
static int add_binary_tree(recording *r, const data_node *nodes, int from)
{
    const data_node *at = &nodes[from];
    const int root = new_item(r, at->word < 0 ? 0 : at->word, -1, -1, at->label);
    if (at->child < 0) return root;
    const int left = add_binary_tree(r, nodes, at->child), right = add_binary_tree(r, nodes, nodes[at->child].sibling);
    return with_children(r, root, left, right);
}

static int read_sst(corpus *c, const char *path)
{
    data_set s;
    data_trees t;
    data_error e;
    const data_ptb desc = { { 1, -1, 0, 0 }, 5, 2, 0 };
    memset(&s, 0, sizeof s);
    memset(&t, 0, sizeof t);
    memset(&e, 0, sizeof e);
    if (data_load_trees(&s, &t, &desc, &c->words, path, &e)) die(e.text, "");
    for (size_t i = 0; i < s.count; i++) {
        const int32_t *tree = data_ints(&s, data_find(&s, "tree"), i, NULL);
        sample *x = new_sample(c);
        x->root[0] = add_binary_tree(&c->trees, t.nodes, tree[1]);
        x->count = c->trees.n_items - x->first;
    }
    data_trees_free(&t);
    data_set_free(&s);
    return 1;
}

/* Returns the number of a word in the vocabulary. */
static int number_of_word(const data_vocab *v, int word)
{
    int n = 0;
    for (size_t i = 0; i < v->words[word].length; i++) n = 10 * n + v->text[v->words[word].text + i] - '0';
    return n;
}

/* Appends a tree, parents before children, from the word and the head (1 up, 0: none) of every token. */
static void add_dependency_tree(corpus *c, const int32_t *words, const int32_t *heads, int n, const data_vocab *numbers)
{
    int order[MAX_NODES], found = 0, base = c->trees.n_items;
    for (int done = -1; done < found; done++) { /* breadth first: the children of order[done], or the root */
        const int of = done < 0 ? 0 : order[done] + 1;
        int last = -1;
        for (int i = 0; i < n && found < n; i++) {
            if (number_of_word(numbers, heads[i]) != of) continue;
            const int at = new_item(&c->trees, words[i], -1, -1, 0);
            if (done >= 0 && last < 0) c->trees.items[base + done].child = at;
            if (done >= 0 && last >= 0) c->trees.items[last].next = at;
            last = at;
            order[found++] = i;
        }
    }
    if (found != n) die("a tree of SICK is no tree", "");
}

/* Reads lines of words; returns 1 when the file is there. */
static int read_lines(data_set *s, data_vocab *v, const char *dir, const char *name)
{
    char path[1024];
    data_error e;
    const data_words words = { 1, -1, 0, 0 };
    memset(s, 0, sizeof *s);
    memset(&e, 0, sizeof e);
    if (!data_path(path, sizeof path, dir, name)) return 0;
    if (data_load_lines(s, name, &words, v, path, &e)) die(e.text, "");
    return 1;
}

static int read_sick(corpus *c, const char *dir)
{
    data_set toks[2], heads[2];
    data_vocab numbers;
    memset(&numbers, 0, sizeof numbers);
    if (!read_lines(&toks[0], &c->words, dir, "sick/train/a.toks") || !read_lines(&toks[1], &c->words, dir, "sick/train/b.toks") ||
        !read_lines(&heads[0], &numbers, dir, "sick/train/a.parents") || !read_lines(&heads[1], &numbers, dir, "sick/train/b.parents")) return 0;
    for (size_t i = 0; i < toks[0].count; i++) {
        sample *x = new_sample(c);
        for (int k = 0; k < 2; k++) {
            size_t n, m;
            const int32_t *words = data_ints(&toks[k], 0, i, &n), *of = data_ints(&heads[k], 0, i, &m);
            if (n != m || n > MAX_NODES) die("words and heads of SICK differ in number", "");
            x->root[k] = c->trees.n_items;
            add_dependency_tree(c, words, of, (int)n, &numbers);
        }
        x->count = c->trees.n_items - x->first;
        x->target[i % 5] = 1; /* the time does not depend on what it learns */
    }
    for (int k = 0; k < 2; k++) { data_set_free(&toks[k]); data_set_free(&heads[k]); }
    data_vocab_free(&numbers);
    return 1;
}

/* Draws the samples of a batch from a corpus. */
static void draw(recording *r, const corpus *c, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        const sample *from = &c->trees.samples[random_below(random, c->trees.n_samples)];
        sample *x = &r->samples[i];
        const int shift = r->n_items - from->first;
        *x = *from;
        x->first += shift;
        for (int k = 0; k < 2; k++) x->root[k] += shift;
        for (int k = from->first; k < from->first + from->count; k++) {
            const item *it = &c->trees.items[k];
            new_item(r, it->word, it->child < 0 ? -1 : it->child + shift, it->next < 0 ? -1 : it->next + shift, it->label);
        }
        r->units += from->count;
    }
}
static void draw_sst(recording *r, const sizes *s, uint64_t *random) { (void)s; draw(r, &corpora[0], random); }
static void draw_sick(recording *r, const sizes *s, uint64_t *random) { (void)s; draw(r, &corpora[1], random); }

/* Reads the corpora that are there; returns 1 when both are. */
static int read_corpora(const char *dir)
{
    char path[1024];
    if (!dir) return 0;
    if (!data_path(path, sizeof path, dir, "sst/train.txt")) return 0;
    return read_sst(&corpora[0], path) && read_sick(&corpora[1], dir);
}

/* ---- part one: real trees ----------------------------------------------------------------- */

static const schedule ways[] = { EAGER, MANUAL, RATIO, DEPTH, AGENDA };
static const char *const way_names[] = { "one at a time", "by hand", "ratio", "depth", "agenda" };
enum { N_WAYS = sizeof ways / sizeof *ways, DYNAMIC = 2 };

/* Times are in microseconds a sample, memory is in megabytes. */
typedef struct figures {
    double way[N_WAYS], record, schedule, run, mb, mb_by_hand, levels_by_hand;
} figures;
typedef struct table {
    int hidden, corpus, mode;
    figures at[MAX_SIZES];
} table;
static table tables[MAX_HIDDEN * N_CORPORA * N_MODES];
static int n_tables;

static workload workload_of(int c, int real)
{
    workload w = workloads[c == 0]; /* the first two are sick and sst */
    if (!real) return w;
    w.generate = c == 0 ? draw_sst : draw_sick;
    w.s.words = (int)corpora[c].words.n_words;
    return w;
}

static figures measure_ways(const settings *o, const workload *w, int hidden, int training, int size)
{
    options at = { .schedule = RATIO, .compare = -1, .threads = 1, .seed = o->seed, .seconds = o->seconds, .s = { -1, -1, -1, -1, -1, -1, -1, -1, -1 } };
    bench b = { &at, w, w->s, training, 0, NULL };
    side sides[N_WAYS];
    figures x;
    b.s.batch = size;
    b.s.hidden = hidden;
    b.s.input = 2 * hidden;
    generate(&b);
    for (int i = 0; i < N_WAYS; i++) open_side(&sides[i], &b, ways[i]);
    measure(sides, N_WAYS, &b);
    for (int i = 0; i < N_WAYS; i++) {
        const result r = result_of(&sides[i], &b);
        if (ways[i] == MANUAL) x.mb_by_hand = 1e-6 * (double)manual_bytes(&sides[i].by_hand);
        if (ways[i] == MANUAL) x.levels_by_hand = 1e6 * r.stage[SCHEDULE] / r.samples;
        x.way[i] = 1e6 * r.stage[WHOLE] / r.samples;
        if (i != DYNAMIC) continue;
        x.mb = 1e-6 * (double)fold_ctx_stats(sides[i].ctx).peak_bytes;
        x.record = 1e6 * r.stage[RECORD] / r.samples;
        x.schedule = 1e6 * r.stage[SCHEDULE] / r.samples;
        x.run = 1e6 * (r.stage[RUN] + r.stage[OPTIMISE]) / r.samples;
    }
    for (int i = 0; i < N_WAYS; i++) close_side(&sides[i]);
    forget(&b);
    return x;
}

static const char *const mode_names[N_MODES] = { "inference", "training" };

static void measure_tables(const settings *o, int real, int watched)
{
    for (int h = 0; h < o->n_hidden; h++)
        for (int c = 0; c < N_CORPORA; c++)
            for (int mode = 0; mode < N_MODES; mode++) {
                table *t = &tables[n_tables++];
                const workload w = workload_of(c, real);
                t->hidden = o->hidden[h];
                t->corpus = c;
                t->mode = mode;
                for (int i = 0; i < o->n_sizes; i++) {
                    if (watched)
                        fprintf(stderr, "\r%s, %s, hidden %d, batches of %d   ", corpora[c].title, mode_names[mode],
                                t->hidden, o->sizes[i]);
                    t->at[i] = measure_ways(o, &w, t->hidden, mode, o->sizes[i]);
                }
            }
}

static void print_table(const settings *o, const table *t, int real)
{
    printf("\n### %s, %s, hidden %d, microseconds a %s%s\n\n", corpora[t->corpus].title, mode_names[t->mode], t->hidden,
           t->corpus ? "pair" : "tree", real ? "" : " (random trees)");
    printf("| batch | alone | by hand | ratio | depth | agenda | record | schedule | run | alone / ratio | by hand / ratio | MB | by hand |\n");
    printf("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < o->n_sizes; i++) {
        const figures *x = &t->at[i];
        printf("| %d |", o->sizes[i]);
        for (int k = 0; k < N_WAYS; k++) printf(" %.1f |", x->way[k]);
        printf(" %.1f | %.1f | %.1f | %.2f | %.2f | %.1f | %.1f |\n", x->record, x->schedule, x->run,
               x->way[0] / x->way[DYNAMIC], x->way[1] / x->way[DYNAMIC], x->mb, x->mb_by_hand);
    }
}

/* ---- the tables in words ------------------------------------------------------------------- */

typedef struct range { double least, most; } range;
static range wider(range r, double x)
{
    range to = { fmin(r.least, x), fmax(r.most, x) };
    return to;
}
static const range nothing = { HUGE_VAL, -HUGE_VAL };

static double speed_up(const figures *x, int way) { return x->way[0] / x->way[way]; }
static double built_share(const figures *x) { return (x->record + x->schedule) / x->way[DYNAMIC]; }

/* Returns how fast the default schedule is beside a way, at one hidden size and sizes[first .. last). */
static range beside(int hidden, int way, int first, int last)
{
    range r = nothing;
    for (int k = 0; k < n_tables; k++)
        for (int i = first; i < last && tables[k].hidden == hidden; i++)
            r = wider(r, tables[k].at[i].way[way] / tables[k].at[i].way[DYNAMIC]);
    return r;
}
static range building(int hidden, int n_sizes)
{
    range r = nothing;
    for (int k = 0; k < n_tables; k++)
        for (int i = 0; i < n_sizes && tables[k].hidden == hidden; i++)
            r = wider(r, built_share(&tables[k].at[i]));
    return r;
}

/* Returns the first size from which on every table is within a tenth of its best. */
static int enough(const settings *o)
{
    int from = 0;
    for (int k = 0; k < n_tables; k++) {
        double best = 0;
        for (int i = 0; i < o->n_sizes; i++) best = fmax(best, speed_up(&tables[k].at[i], DYNAMIC));
        for (int i = from; i < o->n_sizes; i++)
            if (speed_up(&tables[k].at[i], DYNAMIC) < 0.9 * best && i + 1 < o->n_sizes) from = i + 1;
    }
    return o->sizes[from];
}

/* Says whether it pays, when and why. */
static void print_answer(const settings *o)
{
    int always = 1;
    for (int h = 0; h < o->n_hidden; h++) always &= beside(o->hidden[h], 0, 0, o->n_sizes).least > 1;
    printf("\n## The answer\n\n%s. Compared with one at a time, the default schedule is",
           always ? "Batching pays" : "Batching does not always pay");
    for (int h = 0; h < o->n_hidden; h++) {
        const range r = beside(o->hidden[h], 0, 0, o->n_sizes);
        printf("%s %.1f to %.1f times as fast at hidden %d", h ? " and" : "", r.least, r.most, o->hidden[h]);
    }
    printf(" in batches of %d to %d, recording and scheduling counted. In batches of %d it is", o->sizes[0], o->sizes[o->n_sizes - 1],
           o->sizes[0]);
    for (int h = 0; h < o->n_hidden; h++) {
        const range r = beside(o->hidden[h], 0, 0, 1);
        printf("%s %.1f to %.1f times as fast at hidden %d", h ? " and" : "", r.least, r.most, o->hidden[h]);
    }
    printf(", because the nodes of one tree batch too. From batches of %d on, every table is within a tenth of its best.\n\n", enough(o));
    printf("A batch reads each weight once for many rows and calls each kernel once. The price is recording and scheduling,");
    for (int h = 0; h < o->n_hidden; h++) {
        const range r = building(o->hidden[h], o->n_sizes);
        printf("%s %.0f to %.0f %% of the time at hidden %d", h ? " and" : "", 100 * r.least, 100 * r.most, o->hidden[h]);
    }
    printf(". Batching by hand saves most of this.\n");
}

/* Prints in how many batches of a hidden size the default schedule is over a tenth slower than another way and, if that is batching
   by hand, how much of the difference is recording and scheduling. */
static void print_slower(const settings *o, int way, int hidden)
{
    range share = nothing;
    int slower = 0, batches = 0;
    for (int k = 0; k < n_tables; k++)
        for (int i = 0; i < o->n_sizes && tables[k].hidden == hidden; i++) {
            const figures *x = &tables[k].at[i];
            const double excess = x->way[DYNAMIC] - x->way[way];
            batches++;
            if (excess <= 0.1 * x->way[way]) continue;
            slower++;
            share = wider(share, (x->record + x->schedule - x->levels_by_hand) / excess);
        }
    printf(" (%d of %d", slower, batches);
    if (slower && ways[way] == MANUAL) printf(", %.0f to %.0f %%", 100 * share.least, 100 * share.most);
    printf(")");
}

static void print_verdicts(const settings *o)
{
    printf("\n### The tables in words\n\n"
           "How many times as fast the default schedule is. In brackets: the batches in which it is over 10 %% slower and, by hand, how much of "
           "the difference is recording and scheduling.\n\n");
    for (int i = 0; i < N_WAYS; i++) {
        if (i == DYNAMIC) continue;
        printf("- compared with %s:", i == 1 ? "batching by hand" : way_names[i]);
        for (int h = 0; h < o->n_hidden; h++) {
            const range r = beside(o->hidden[h], i, 0, o->n_sizes);
            printf("%s %.2f to %.2f at hidden %d", h ? "," : "", r.least, r.most, o->hidden[h]);
            print_slower(o, i, o->hidden[h]);
        }
        printf("\n");
    }
}

/* ---- the picture: how many times as fast as one at a time ----------------------------------- */

enum { PANEL_W = 220, PANEL_H = 220, MARGIN = 42, TITLE = 34, FOOT = 44 };
static const char *const colours[N_WAYS] = { "#999999", "#c0392b", "#2471a3", "#229954", "#b9770e" };
static const char *const strokes[N_WAYS] = { "stroke-width=\"1\"", "stroke-width=\"2\"", "stroke-width=\"3\"",
                                             "stroke-width=\"1.5\" stroke-dasharray=\"6 3\"",
                                             "stroke-width=\"1.5\" stroke-dasharray=\"2 3\"" };

typedef struct panel { FILE *to; double x0, y0, top; const settings *o; } panel;

static double across(const panel *p, int i)
{
    return p->x0 + (p->o->n_sizes > 1 ? (double)PANEL_W * i / (p->o->n_sizes - 1) : 0);
}
static double up(const panel *p, double gain) { return p->y0 + PANEL_H * (1 - gain / p->top); }

static void draw_line(const panel *p, const table *t, int way)
{
    fprintf(p->to, "<polyline fill=\"none\" stroke=\"%s\" %s points=\"", colours[way], strokes[way]);
    for (int i = 0; i < p->o->n_sizes; i++)
        fprintf(p->to, "%.1f,%.1f ", across(p, i), up(p, speed_up(&t->at[i], way)));
    fprintf(p->to, "\"/>\n");
}

static void draw_axes(const panel *p, const table *t)
{
    const double step = p->top > 12 ? 4 : p->top > 6 ? 2 : p->top > 3 ? 1 : 0.5;
    fprintf(p->to, "<text x=\"%.0f\" y=\"%.0f\" font-weight=\"bold\">%s, %s, hidden %d</text>\n", p->x0, p->y0 - 12,
            corpora[t->corpus].title, mode_names[t->mode], t->hidden);
    for (double gain = 0; gain <= p->top * 1.001; gain += step) {
        fprintf(p->to, "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>", p->x0, p->x0 + PANEL_W,
                up(p, gain), up(p, gain));
        fprintf(p->to, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g&#215;</text>\n", p->x0 - 6, up(p, gain) + 4, gain);
    }
    for (int i = 0; i < p->o->n_sizes; i++)
        fprintf(p->to, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%d</text>\n", across(p, i), p->y0 + PANEL_H + 16,
                p->o->sizes[i]);
    fprintf(p->to, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">batch</text>\n", p->x0 + PANEL_W / 2.0,
            p->y0 + PANEL_H + 32);
}

static double highest(const settings *o, int hidden) /* a whole number above all that is drawn for this size */
{
    double most = 1;
    for (int k = 0; k < n_tables; k++)
        for (int i = 0; i < o->n_sizes && tables[k].hidden == hidden; i++)
            for (int way = 0; way < N_WAYS; way++) most = fmax(most, speed_up(&tables[k].at[i], way));
    return floor(most) + 1;
}

static void draw_legend(FILE *to, int y)
{
    for (int k = 0; k < N_WAYS; k++) {
        const int x = MARGIN + 200 * k;
        fprintf(to, "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" %s/>", x, x + 30, y - 4, y - 4, colours[k],
                strokes[k]);
        fprintf(to, "<text x=\"%d\" y=\"%d\">%s%s</text>\n", x + 36, y, way_names[k], k == DYNAMIC ? " (the default)" : "");
    }
}

static void draw_picture(const settings *o)
{
    FILE *to = fopen(o->svg, "w");
    const int columns = N_CORPORA * N_MODES, tall = TITLE + PANEL_H + FOOT, w = columns * (PANEL_W + MARGIN) + MARGIN / 2,
              h = o->n_hidden * tall + 60;
    if (!to) die("cannot write ", o->svg);
    fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ", w, h, w, h);
    fprintf(to, "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    fprintf(to, "<text x=\"%d\" y=\"20\">Samples a second, beside one sample at a time</text>\n", MARGIN);
    for (int k = 0; k < n_tables; k++) {
        const int column = k % columns, row = k / columns;
        const panel p = { to, MARGIN + column * (PANEL_W + MARGIN), 24 + TITLE + row * tall, highest(o, tables[k].hidden), o };
        draw_axes(&p, &tables[k]);
        draw_line(&p, &tables[k], 0);
        for (int way = N_WAYS - 1; way > 0; way--) draw_line(&p, &tables[k], way);
    }
    draw_legend(to, h - 14);
    fprintf(to, "</svg>\n");
    if (fclose(to)) die("cannot write ", o->svg);
}

/* ---- part two: 128 leaves, state 1024 ----------------------------------------------------- */

enum { LEAVES = 128, ALONE = 8, TIMES = 3 };

/* Makes a tree whose nodes split their leaves in halves. */
static int balanced_tree(recording *r, const sizes *s, uint64_t *random, int leaves)
{
    if (leaves == 1) return new_item(r, random_below(random, s->words), -1, -1, 0);
    const int root = new_item(r, 0, -1, -1, 0);
    const int left = balanced_tree(r, s, random, leaves / 2), right = balanced_tree(r, s, random, leaves - leaves / 2);
    return with_children(r, root, left, right);
}
static void balanced_generate(recording *r, const sizes *s, uint64_t *random)
{
    for (int i = 0; i < r->n_samples; i++) {
        sample *x = &r->samples[i];
        x->first = r->n_items;
        x->root[0] = balanced_tree(r, s, random, LEAVES);
        x->count = r->n_items - x->first;
        r->units += x->count;
    }
}

/* Returns the seconds of a batch: the median of a few runs, after one that is not timed. */
static double looks_time(const settings *o, schedule how, int same, int size)
{
    options at = { .schedule = how, .compare = -1, .threads = 1, .seed = o->seed, .s = { -1, -1, -1, -1, -1, -1, -1, -1, -1 } };
    workload w = workloads[2]; /* it reads the root's h alone */
    side a;
    double t[TIMES];
    const int n = size < 256 ? TIMES : 1;
    w.s.input = w.s.hidden = o->looks_state;
    w.s.words = 1000;
    w.s.min = w.s.max = LEAVES;
    if (same) w.generate = balanced_generate;
    bench b = { &at, &w, w.s, 0, 2, NULL };
    b.s.batch = size;
    generate(&b);
    open_side(&a, &b, how);
    for (int i = -1; i < n; i++) {
        const double seconds = run_batch(&a, &b, i & 1, 0, NULL);
        if (i >= 0) t[i] = seconds;
    }
    close_side(&a);
    forget(&b);
    return median(t, n);
}

static void looks(const settings *o)
{
    static const int sizes_of_table[] = { 1, 32, 64, 128, 256, 512, 1024 };
    const double alone = looks_time(o, EAGER, 0, ALONE) / ALONE;
    printf("\n## Trees of %d leaves, state %d, inference\n\n", LEAVES, o->looks_state);
    printf("Seconds, as in table 1 of Looks et al. (2017):\n\n"
           "- *manual batch*: trees of one shape, batched by hand\n"
           "- *dynamic batch*: the same trees, batched by fold.h\n"
           "- *full dynamic batch*: trees of random shapes\n"
           "- *cost ratio*: full dynamic divided by manual\n");
    printf("- *speed-up*: how many times as fast full dynamic is as one tree at a time, which takes %.4f s (mean of %d)\n\n", alone, ALONE);
    printf("| batch | manual batch | a tree | dynamic batch | a tree | full dynamic batch | a tree | cost ratio | speed-up "
           "|\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (size_t i = 0; i < sizeof sizes_of_table / sizeof *sizes_of_table; i++) {
        const int n = sizes_of_table[i];
        if (n > o->looks_max) break;
        const double by_hand = looks_time(o, MANUAL, 1, n), dynamic = looks_time(o, RATIO, 1, n), full = looks_time(o, RATIO, 0, n);
        printf("| %d | %.3f | %.4f | %.3f | %.4f | %.3f | %.4f | %.2f | %.2f |\n", n, by_hand, by_hand / n, dynamic, dynamic / n, full, full / n,
               full / by_hand, alone * n / full);
        fflush(stdout);
    }
}

/* ---- command line ------------------------------------------------------------------------- */

static const char usage[] =
    "usage: study [options]\n"
    "  --data DIR       DIR/sst and DIR/sick; default: the environment's FOLD_DATA; without it trees are random\n"
    "  --svg FILE       also draws the tables\n"
    "  --sizes N,N,…    batches, at most 16; default 1,4,16,64,256,1024\n"
    "  --seconds S      of timing, for each row; default 1\n"
    "  --hidden N,N,…   at most 4, inputs are twice as wide; default 150,16\n"
    "  --looks N        largest batch of the experiment of Looks et al.; default 128, 0: none\n"
    "  --looks-state N  default 1024\n"
    "  --seed N\n";

static int number(const char *name, const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || (*end && *end != ',') || n < 1 || n > 100000) die("no good number for ", name);
    return (int)n;
}

/* Reads numbers parted by commas; returns how many. */
static int numbers(int *list, int most, const char *name, const char *text)
{
    int n = 0;
    for (; text && n < most; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL)
        list[n++] = number(name, text);
    return n;
}

static settings parse(int argc, char **argv)
{
    settings o = { getenv("FOLD_DATA"), NULL, 1, { 1, 4, 16, 64, 256, 1024 }, 6, { 150, 16 }, 2, 128, 1024, 1 };
    if (o.data && !*o.data) o.data = NULL;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "-h") || !strcmp(name, "--help")) { fputs(usage, stdout); exit(0); }
        if (!value) { fputs(usage, stderr); exit(1); }
        i++;
        if (!strcmp(name, "--data")) o.data = value;
        else if (!strcmp(name, "--svg")) o.svg = value;
        else if (!strcmp(name, "--seconds")) o.seconds = option_number(argc, argv, i - 1, 0, 1e6);
        else if (!strcmp(name, "--hidden")) o.n_hidden = numbers(o.hidden, MAX_HIDDEN, name, value);
        else if (!strcmp(name, "--looks")) o.looks_max = (int)option_whole(argc, argv, i - 1, 0, 100000);
        else if (!strcmp(name, "--looks-state")) o.looks_state = (int)option_whole(argc, argv, i - 1, 1, 100000);
        else if (!strcmp(name, "--seed")) o.seed = (int)option_whole(argc, argv, i - 1, 0, INT_MAX);
        else if (!strcmp(name, "--sizes")) o.n_sizes = numbers(o.sizes, MAX_SIZES, name, value);
        else die("no option ", name);
    }
    return o;
}

int main(int argc, char **argv)
{
    const settings o = parse(argc, argv);
    const int real = read_corpora(o.data), last = o.n_sizes - 1, watched = isatty(2);
    fold_model *any = fold_model_new(NULL);
    if (!any) die("out of memory", "");
    const char *isa = fold_model_isa(any);
    printf("One core reaches %.0f GFLOP/s of fused multiply-adds and reads memory at %.0f GB/s here.\n", 1e-9 * fma_peak(isa),
           1e-9 * read_bandwidth(isa, (size_t)1 << 28));
    fold_model_free(any);
    measure_tables(&o, real, watched);
    print_answer(&o);
    printf("\n## Real trees, recording and scheduling counted\n");
    for (int k = 0; k < n_tables; k++)
        print_table(&o, &tables[k], real);
    print_verdicts(&o);
    if (o.svg) draw_picture(&o);
    if (o.looks_max) looks(&o);
    printf("\nRESULT study");
    for (int c = 0; c < N_CORPORA; c++) {
        const figures *x = &tables[c * N_MODES].at[last];
        printf(" %s_alone_us=%.1f %s_dynamic_us=%.1f %s_manual_us=%.1f", corpora[c].name, x->way[0], corpora[c].name, x->way[DYNAMIC],
               corpora[c].name, x->way[1]);
    }
    printf(" data=%s\n", real ? "real" : "generated");
    for (int c = 0; c < N_CORPORA; c++) { free(corpora[c].trees.items); free(corpora[c].trees.samples); data_vocab_free(&corpora[c].words); }
    return 0;
}
