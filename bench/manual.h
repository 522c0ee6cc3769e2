/* manual.h - what an expert would write without a batching library: the tree-LSTMs and the chain, batched level by
   level by hand on the same kernels, and a frame of agents, all at once and forward only. Nodes lie in the order of their levels; the projections of all inputs are one
   product up front, weight gradients one at the end; children are read in place through row pointers. A policy is plain C instead,
   as a program without any library would have it: policy.c. */

enum { MANUAL_CHUNK = 64, MAX_LEVELS = MAX_NODES }; /* samples at a time: their rows stay near the cache */

typedef enum manual_kind { CHILD_SUM, BINARY, CHAIN, FRAME, POLICY } manual_kind;

/* Set by programs that have the workload policy: policy_by_hand. */
static policy_function *policy_of_agents;

/* One chunk of samples. Rows are nodes by level; those of row r lead to its children by edges edge[r] .. edge[r + 1). */
typedef struct manual {
    fold_model *m;
    const fold__kernels *k;
    const net *n;
    manual_kind kind;
    fold_param W, bias, U, c, leaf_W, leaf_b; /* U, c: child-sum's forget gate; leaf: binary's */
    int in, h, gates, o, f;            /* a row of g: gates of width h, sigmoid all but the last; o, f: output, first forget */
    int rows, edges, levels, start[MAX_LEVELS + 1], cap;
    int base, *row_of, *level_of, *item_of, *edge, *child, *parent; /* items are numbered from the chunk's first, `base` */
    float *g, *s, *hs, *cs, *tc, *dh, *dc, *xf, *ef, *y, *dy; /* gates, child sums, h, c, tanh c, their gradients, forget gates
                                                                 of rows' inputs and of edges, logits and their gradients */
    float **x, **a, **b;               /* row pointers: of inputs, and for the call at hand */
    policy_weights policy;
    float *scratch, *t, *pairs;        /* t: two rows; pairs: features, hidden layer and their gradients */
} manual;

static float *manual_grad(const manual *u, fold_param p) { return fold__grads(u->m) + fold__param_of(u->m, p)->at; }
static void manual_map(const manual *u, const fold__map_fn *f, float *y, const float *a, const float *b, const float *c, int n)
{
    f[u->k->set](y, a, b, c, 0, (size_t)n, 1, NULL);
}

static fold_rows rows_at(float *const *rows)
{
    const fold_rows r = { NULL, 0, rows };
    return r;
}
static fold_rows rows_from(float *base, int width)
{
    const fold_rows r = { base, width, NULL };
    return r;
}
static fold_rows bias_rows(const manual *u, fold_param b)
{
    const fold_rows r = { (float *)(uintptr_t)fold_param_value(u->m, b), 0, NULL };
    return r;
}

/* y = init + x W, the inputs x[0 .. segments), each of width k, meeting the rows of W from `first` on. */
static void manual_linear(const manual *u, fold_param W, int first, int rows, const fold_rows *x, int segments, int k, fold_rows init, fold_rows y)
{
    const fold__param_data *w = fold__param_of(u->m, W);
    const int n = w->shape.dim[1];
    fold__seg seg[2];
    fold__product p;
    for (int i = 0; i < segments; i++) {
        seg[i].input = x[i];
        seg[i].inner = k;
        seg[i].weights = fold__packs(u->m) + w->pack + fold__pack_row(u->k, w->shape.dim[0], n, (size_t)(first + i * k));
    }
    memset(&p, 0, sizeof p);
    p.rows = rows; p.columns = n; p.n_seg = segments; p.seg = seg; p.init = init; p.output = y;
    p.inner = w->shape.dim[0];
    if (rows) u->k->product(&p, u->scratch);
}

/* dx = init + dy Wᵀ for the rows first .. first + k of W. */
static void manual_back(const manual *u, fold_param W, int first, int k, int rows, fold_rows dy, fold_rows init, fold_rows dx)
{
    const fold__param_data *w = fold__param_of(u->m, W);
    fold__seg seg;
    fold__product p;
    fold__keep_back_pack(u->m, fold__param_of(u->m, W), first, k);
    memset(&p, 0, sizeof p);
    seg.input = dy;
    seg.inner = w->shape.dim[1];
    seg.weights = fold__packs(u->m) + w->pack_t;
    p.n_pack = w->shape.dim[0] - fold__back_first(w);
    p.col = first - fold__back_first(w);
    p.rows = rows; p.columns = k; p.n_seg = 1; p.seg = &seg; p.init = init; p.output = dx;
    p.inner = seg.inner;
    if (rows) u->k->product(&p, u->scratch);
}

/* Adds xᵀ dy to the rows of W's gradient from `first` on. */
static void manual_weights(const manual *u, fold_param W, int first, int k, int rows, fold_rows x, fold_rows dy)
{
    const int n = fold__param_of(u->m, W)->shape.dim[1];
    if (rows) u->k->weight_grad(rows, &x, k, &dy, n, manual_grad(u, W) + (size_t)first * (size_t)n, (size_t)n, u->scratch, 0);
}
static void manual_bias(const manual *u, fold_param b, int rows, fold_rows dy)
{
    float *g = manual_grad(u, b);
    const size_t n = (size_t)fold__param_of(u->m, b)->shape.dim[0];
    for (int r = 0; r < rows; r++) FOLD__MAP_OF(u->k, add)(g, g, fold__at(&dy, r), NULL, 0, n, 1, NULL);
}

/* ---- levels ------------------------------------------------------------------------------- */

static void manual_reserve(manual *u, int rows)
{
    float **const wide[] = { &u->s, &u->hs, &u->cs, &u->tc, &u->dh, &u->dc, &u->xf, &u->ef };
    const size_t n = (size_t)rows, h = (size_t)u->h;
    if (rows <= u->cap) return;
    u->cap = rows;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) *wide[i] = (float *)take(*wide[i], n * h + 64, sizeof(float));
    u->g = (float *)take(u->g, n * h * (size_t)u->gates + 64, sizeof(float));
    u->y = (float *)take(u->y, n * 16 + 64, sizeof(float));
    u->dy = (float *)take(u->dy, n * 16 + 64, sizeof(float));
    u->x = (float **)take(u->x, n, sizeof *u->x);
    u->a = (float **)take(u->a, n, sizeof *u->a);
    u->b = (float **)take(u->b, n, sizeof *u->b);
    u->row_of = (int *)take(u->row_of, n, sizeof(int));
    u->level_of = (int *)take(u->level_of, n, sizeof(int));
    u->item_of = (int *)take(u->item_of, n, sizeof(int));
    u->edge = (int *)take(u->edge, n + 1, sizeof(int));
    u->child = (int *)take(u->child, n, sizeof(int));
    u->parent = (int *)take(u->parent, n, sizeof(int));
}

static int manual_level(const manual *u, const item *it, int i, int first)
{
    const int *of = u->level_of;
    int level = 0;
    if (u->kind == CHAIN) return i > first ? of[i - 1 - u->base] + 1 : 0;
    if (u->kind == BINARY && it[i].child >= 0) {
        const int l = of[it[i].child - u->base], r = of[it[i].next - u->base];
        return 1 + (l > r ? l : r);
    }
    for (int k = u->kind == CHILD_SUM ? it[i].child : -1; k >= 0; k = it[k].next)
        if (of[k - u->base] >= level) level = of[k - u->base] + 1;
    return level;
}

/* The rows of samples [from, to). */
static void manual_levels(manual *u, const recording *r, int from, int to)
{
    int next[MAX_LEVELS];
    u->base = r->samples[from].first;
    u->rows = r->samples[to - 1].first + r->samples[to - 1].count - u->base;
    manual_reserve(u, u->rows);
    memset(u->start, 0, sizeof u->start);
    u->levels = 0;
    for (int s = to; s-- > from;) {
        const sample *x = &r->samples[s];
        for (int k = 0; k < x->count; k++) {
            const int i = u->kind == CHAIN ? x->first + k : x->first + x->count - 1 - k; /* children first */
            const int level = u->level_of[i - u->base] = manual_level(u, r->items, i, x->first);
            if (level >= u->levels) u->levels = level + 1;
            u->start[level + 1]++;
        }
    }
    for (int l = 0; l < u->levels; l++) u->start[l + 1] += u->start[l];
    memcpy(next, u->start, sizeof next);
    for (int i = 0; i < u->rows; i++) {
        u->row_of[i] = next[u->level_of[i]]++;
        u->item_of[u->row_of[i]] = i;
    }
}

/* Their inputs and edges. */
static void manual_edges(manual *u, const recording *r)
{
    const float *table = fold_param_value(u->m, u->n->words);
    u->edges = 0;
    for (int row = 0; row < u->rows; row++) {
        const int i = u->base + u->item_of[row];
        const item *it = &r->items[i];
        u->edge[row] = u->edges;
        u->x[row] = (float *)(uintptr_t)(table + (size_t)it->word * (size_t)u->in);
        int k = u->kind != CHAIN ? it->child : u->level_of[i - u->base] ? i - 1 : -1;
        for (int count = 0; k >= 0; count++) {
            u->child[u->edges] = u->row_of[k - u->base];
            u->parent[u->edges++] = row;
            k = u->kind == CHILD_SUM ? r->items[k].next : u->kind == BINARY && !count ? it->next : -1;
        }
    }
    u->edge[u->rows] = u->edges;
}

/* ---- forward ------------------------------------------------------------------------------ */

static float *at_row(float *base, int row, int width) { return base + (ptrdiff_t)row * width; }

/* Gates, c and h of rows [from, to) from the gates' sums. A leaf of a binary tree has gates i, o, u only. */
static void manual_cells(manual *u, int from, int to)
{
    const int h = u->h, wide = u->gates * h;
    for (int r = from; r < to; r++) {
        const int first = u->edge[r], last = u->edge[r + 1], gates = u->kind == BINARY && first == last ? 3 : u->gates;
        float *g = at_row(u->g, r, wide), *c = at_row(u->cs, r, h);
        manual_map(u, fold__maps_sigmoid, g, g, NULL, NULL, (gates - 1) * h);
        manual_map(u, fold__maps_tanh, g + (gates - 1) * h, g + (gates - 1) * h, NULL, NULL, h);
        manual_map(u, fold__maps_mul, c, g, g + (gates - 1) * h, NULL, h);
        for (int e = first; e < last; e++) {
            const float *f = u->kind == CHILD_SUM ? at_row(u->ef, e, h) : g + (u->f + e - first) * h, *old = at_row(u->cs, u->child[e], h);
            if (e == first) manual_map(u, fold__maps_mul, u->t, f, old, NULL, h);
            else { manual_map(u, fold__maps_mul, u->t + h, f, old, NULL, h); manual_map(u, fold__maps_add, u->t, u->t, u->t + h, NULL, h); }
        }
        if (last > first) manual_map(u, fold__maps_add, c, c, u->t, NULL, h);
    }
    manual_map(u, fold__maps_tanh, at_row(u->tc, from, h), at_row(u->cs, from, h), NULL, NULL, (to - from) * h);
    for (int r = from; r < to; r++)
        manual_map(u, fold__maps_mul, at_row(u->hs, r, h), at_row(u->g, r, wide) + u->o * h, at_row(u->tc, r, h), NULL, h);
}

/* Child-sum: sums of the children's h into s, and the forget gates of all edges of the level. */
static void manual_children(manual *u, int from, int to)
{
    const int h = u->h, first = u->edge[from], last = u->edge[to];
    for (int r = from; r < to; r++) {
        float *s = at_row(u->s, r, h);
        memcpy(s, at_row(u->hs, u->child[u->edge[r]], h), (size_t)h * sizeof *s);
        for (int e = u->edge[r] + 1; e < u->edge[r + 1]; e++) manual_map(u, fold__maps_add, s, s, at_row(u->hs, u->child[e], h), NULL, h);
    }
    for (int e = first; e < last; e++) {
        u->a[e - first] = at_row(u->hs, u->child[e], h);
        u->b[e - first] = at_row(u->xf, u->parent[e], h);
    }
    const fold_rows x = rows_at(u->a);
    manual_linear(u, u->U, u->in, last - first, &x, 1, h, rows_at(u->b), rows_from(at_row(u->ef, first, h), h));
    manual_map(u, fold__maps_sigmoid, at_row(u->ef, first, h), at_row(u->ef, first, h), NULL, NULL, (last - first) * h);
}

static void manual_level_forward(manual *u, int from, int to)
{
    const int h = u->h, wide = u->gates * h;
    const fold_rows g = rows_from(at_row(u->g, from, wide), wide);
    if (u->kind == CHILD_SUM) {
        const fold_rows s = rows_from(at_row(u->s, from, h), h);
        manual_children(u, from, to);
        manual_linear(u, u->W, u->in, to - from, &s, 1, h, g, g);
        return;
    }
    for (int r = from; r < to; r++) {
        u->a[r - from] = at_row(u->hs, u->child[u->edge[r]], h);
        u->b[r - from] = at_row(u->hs, u->child[u->edge[r + 1] - 1], h);
    }
    const fold_rows x[2] = { rows_at(u->a), rows_at(u->b) };
    if (u->kind == BINARY) manual_linear(u, u->W, 0, to - from, x, 2, h, bias_rows(u, u->bias), g);
    else manual_linear(u, u->W, u->in, to - from, x, 1, h, g, g);
}

static void manual_forward(manual *u)
{
    const int h = u->h, wide = u->gates * h, inner = u->start[1];
    const fold_rows x = rows_at(u->x), inner_x = rows_at(u->x + inner), g = rows_from(u->g, wide);
    if (u->kind == BINARY) manual_linear(u, u->leaf_W, 0, inner, &x, 1, u->in, bias_rows(u, u->leaf_b), g);
    else manual_linear(u, u->W, 0, u->rows, &x, 1, u->in, bias_rows(u, u->bias), g);
    if (u->kind == CHILD_SUM)
        manual_linear(u, u->U, 0, u->rows - inner, &inner_x, 1, u->in, bias_rows(u, u->c), rows_from(at_row(u->xf, inner, h), h));
    for (int l = 0; l < u->levels; l++) {
        if (l) manual_level_forward(u, u->start[l], u->start[l + 1]);
        manual_cells(u, u->start[l], u->start[l + 1]);
    }
}

/* ---- backward ----------------------------------------------------------------------------- */

/* From dh and dc of rows [from, to): gradients of the gates' sums into g, of old c into dc, of edges' forget gates into ef. */
static void manual_cells_back(manual *u, int from, int to)
{
    const int h = u->h, wide = u->gates * h;
    float *t = u->t, *t2 = u->t + h;
    for (int r = from; r < to; r++) {
        const int first = u->edge[r], last = u->edge[r + 1], gates = u->kind == BINARY && first == last ? 3 : u->gates;
        float *g = at_row(u->g, r, wide), *o = g + u->o * h, *z = g + (gates - 1) * h;
        float *dh = at_row(u->dh, r, h), *dc = at_row(u->dc, r, h), *tc = at_row(u->tc, r, h);
        manual_map(u, fold__maps_mul, t, dh, o, NULL, h);
        manual_map(u, fold__maps_d_tanh, t, t, tc, NULL, h);
        manual_map(u, fold__maps_add, dc, dc, t, NULL, h);
        manual_map(u, fold__maps_mul, t, dh, tc, NULL, h);
        manual_map(u, fold__maps_d_sigmoid, o, t, o, NULL, h);
        manual_map(u, fold__maps_mul, t, dc, g, NULL, h);
        manual_map(u, fold__maps_mul, t2, dc, z, NULL, h);
        manual_map(u, fold__maps_d_tanh, z, t, z, NULL, h);
        manual_map(u, fold__maps_d_sigmoid, g, t2, g, NULL, h);
        if (u->kind == CHAIN && first == last) memset(g + u->f * h, 0, (size_t)h * sizeof *g); /* no old c */
        for (int e = first; e < last; e++) {
            float *f = u->kind == CHILD_SUM ? at_row(u->ef, e, h) : g + (u->f + e - first) * h, *old_dc = at_row(u->dc, u->child[e], h);
            manual_map(u, fold__maps_mul, t, dc, at_row(u->cs, u->child[e], h), NULL, h);
            manual_map(u, fold__maps_addmul, old_dc, dc, f, old_dc, h);
            manual_map(u, fold__maps_d_sigmoid, f, t, f, NULL, h);
        }
    }
}

static void manual_level_back(manual *u, int from, int to)
{
    const int h = u->h, wide = u->gates * h, first = u->edge[from], last = u->edge[to];
    const fold_rows g = rows_from(at_row(u->g, from, wide), wide);
    if (u->kind == CHILD_SUM) { /* ds goes where dh of these rows was: nothing reads that any more */
        manual_back(u, u->W, u->in, h, to - from, g, rows_at(NULL), rows_from(at_row(u->dh, from, h), h));
        for (int e = first; e < last; e++) {
            float *dh = at_row(u->dh, u->child[e], h);
            manual_map(u, fold__maps_add, dh, dh, at_row(u->dh, u->parent[e], h), NULL, h);
            u->a[e - first] = dh;
        }
        manual_back(u, u->U, u->in, h, last - first, rows_from(at_row(u->ef, first, h), h), rows_at(u->a), rows_at(u->a));
        return;
    }
    for (int r = from; r < to; r++) {
        u->a[r - from] = at_row(u->dh, u->child[u->edge[r]], h);
        u->b[r - from] = at_row(u->dh, u->child[u->edge[r + 1] - 1], h);
    }
    manual_back(u, u->W, u->kind == BINARY ? 0 : u->in, h, to - from, g, rows_at(u->a), rows_at(u->a));
    if (u->kind == BINARY) manual_back(u, u->W, h, h, to - from, g, rows_at(u->b), rows_at(u->b));
}

/* Weights of the recursion: for BINARY left children in a, right in b; for CHILD_SUM the forget gates too. */
static void manual_weights_of_states(manual *u)
{
    const int h = u->h, wide = u->gates * h, inner = u->start[1], rows = u->rows - inner;
    const fold_rows g = rows_from(at_row(u->g, inner, wide), wide), ef = rows_from(u->ef, h);
    if (u->kind == CHILD_SUM) {
        for (int e = 0; e < u->edges; e++) u->a[e] = at_row(u->hs, u->child[e], h);
        manual_weights(u, u->W, u->in, h, rows, rows_from(at_row(u->s, inner, h), h), g);
        manual_weights(u, u->U, u->in, h, u->edges, rows_at(u->a), ef);
        manual_bias(u, u->c, u->edges, ef);
        for (int r = inner; r < u->rows; r++) { /* the parent's input meets all its edges */
            float *sum = at_row(u->xf, r, h);
            memcpy(sum, at_row(u->ef, u->edge[r], h), (size_t)h * sizeof *sum);
            for (int e = u->edge[r] + 1; e < u->edge[r + 1]; e++) manual_map(u, fold__maps_add, sum, sum, at_row(u->ef, e, h), NULL, h);
        }
        manual_weights(u, u->U, 0, u->in, rows, rows_at(u->x + inner), rows_from(at_row(u->xf, inner, h), h));
        return;
    }
    for (int r = inner; r < u->rows; r++) {
        u->a[r - inner] = at_row(u->hs, u->child[u->edge[r]], h);
        u->b[r - inner] = at_row(u->hs, u->child[u->edge[r + 1] - 1], h);
    }
    manual_weights(u, u->W, u->kind == BINARY ? 0 : u->in, h, rows, rows_at(u->a), g);
    if (u->kind == BINARY) manual_weights(u, u->W, h, h, rows, rows_at(u->b), g);
}

static void manual_backward(manual *u)
{
    const int wide = u->gates * u->h, inner = u->start[1];
    const fold_rows g = rows_from(u->g, wide), inner_g = rows_from(at_row(u->g, inner, wide), wide);
    memset(u->dc, 0, (size_t)u->rows * (size_t)u->h * sizeof *u->dc);
    for (int l = u->levels - 1; l >= 0; l--) {
        manual_cells_back(u, u->start[l], u->start[l + 1]);
        if (l) manual_level_back(u, u->start[l], u->start[l + 1]);
    }
    manual_weights_of_states(u);
    if (u->kind == BINARY) {
        manual_weights(u, u->leaf_W, 0, u->in, inner, rows_at(u->x), g);
        manual_bias(u, u->leaf_b, inner, g);
        manual_bias(u, u->bias, u->rows - inner, inner_g);
    } else {
        manual_weights(u, u->W, 0, u->in, u->rows, rows_at(u->x), g);
        manual_bias(u, u->bias, u->rows, g);
    }
}

/* ---- heads -------------------------------------------------------------------------------- */

/* Softmax of a row of logits into p, the loss against targets t, which sum to 1; and its gradient, if wanted, times `weight`. */
static float manual_softmax(const manual *u, const float *y, const float *t, float *p, float *dy, float weight, int n)
{
    const float log_sum = dy ? fold__log_sum_row(u->k, p, y, (size_t)n) : 0; /* p holds the exps meanwhile */
    float loss = 0;
    fold__softmax_row(u->k, p, y, (size_t)n);
    for (int i = 0; i < n && dy; i++) {
        if (t[i] > 0) loss += t[i] * (logf(t[i]) - (y[i] - log_sum));
        dy[i] = (p[i] - t[i]) * weight;
    }
    return loss;
}

/* A dense layer's gradients, from dy: its weights, its bias and, with dx, its inputs. */
static void manual_dense_back(const manual *u, const fold_dense *d, int rows, int in, int out, float *x, float *dy, float *dx)
{
    manual_weights(u, d->W, 0, in, rows, rows_from(x, in), rows_from(dy, out));
    manual_bias(u, d->b, rows, rows_from(dy, out));
    manual_back(u, d->W, 0, in, rows, rows_from(dy, out), rows_at(NULL), rows_from(dx, in));
}

/* Every node's class. Losses are added up in item order, as the library's are hashed. */
static void manual_classes(manual *u, const recording *r, float weight, int training, uint64_t *hash)
{
    const int n = u->n->s.classes, h = u->h;
    const fold_rows x = rows_from(u->hs, h);
    float p[16], t[16];
    manual_linear(u, u->n->classes.W, 0, u->rows, &x, 1, h, bias_rows(u, u->n->classes.b), rows_from(u->y, n));
    for (int i = 0; i < u->rows; i++) {
        const int row = u->row_of[i], label = r->items[u->base + i].label;
        float *y = at_row(u->y, row, n);
        if (training) {
            for (int k = 0; k < n; k++) t[k] = k == label ? 1.0f : 0.0f;
            const float loss = manual_softmax(u, y, t, p, at_row(u->dy, row, n), weight, n);
            if (hash) *hash = hash_floats(*hash, &loss, 1);
        } else if (hash) *hash = hash_floats(*hash, y, (size_t)n);
    }
    if (training) manual_dense_back(u, &u->n->classes, u->rows, h, n, u->hs, u->dy, u->dh);
}

/* The likeness of pairs. */
static void manual_pairs(manual *u, const recording *r, int from, int to, int training, uint64_t *hash)
{
    const int n = u->n->s.classes, h = u->h, pairs = to - from;
    float *x = u->pairs, *q = x + pairs * 2 * h, *dq = q + pairs * HEAD, *dx = dq + pairs * HEAD, p[16];
    const fold_rows features = rows_from(x, 2 * h), hidden = rows_from(q, HEAD);
    for (int i = 0; i < pairs; i++) {
        const sample *s = &r->samples[from + i];
        const float *a = at_row(u->hs, u->row_of[s->root[0] - u->base], h), *b = at_row(u->hs, u->row_of[s->root[1] - u->base], h);
        manual_map(u, fold__maps_mul, at_row(x, i, 2 * h), a, b, NULL, h);
        manual_map(u, fold__maps_sub, at_row(x, i, 2 * h) + h, a, b, NULL, h);
        manual_map(u, fold__maps_abs, at_row(x, i, 2 * h) + h, at_row(x, i, 2 * h) + h, NULL, NULL, h);
    }
    manual_linear(u, u->n->head.W, 0, pairs, &features, 1, 2 * h, bias_rows(u, u->n->head.b), hidden);
    manual_map(u, fold__maps_sigmoid, q, q, NULL, NULL, pairs * HEAD);
    manual_linear(u, u->n->classes.W, 0, pairs, &hidden, 1, HEAD, bias_rows(u, u->n->classes.b), rows_from(u->y, n));
    for (int i = 0; i < pairs; i++) {
        float *dy = training ? at_row(u->dy, i, n) : NULL;
        const float loss = manual_softmax(u, at_row(u->y, i, n), r->samples[from + i].target, p, dy, 1.0f / (float)r->n_samples, n);
        if (hash) *hash = hash_floats(*hash, training ? &loss : p, training ? 1 : (size_t)n);
    }
    if (!training) return;
    manual_dense_back(u, &u->n->classes, pairs, HEAD, n, q, u->dy, dq);
    manual_map(u, fold__maps_d_sigmoid, dq, dq, q, NULL, pairs * HEAD);
    manual_dense_back(u, &u->n->head, pairs, 2 * h, HEAD, x, dq, dx);
    for (int i = 0; i < pairs; i++) {
        const sample *s = &r->samples[from + i];
        const int l = u->row_of[s->root[0] - u->base], m = u->row_of[s->root[1] - u->base];
        float *d = at_row(dx, i, 2 * h), *a = at_row(u->hs, l, h), *b = at_row(u->hs, m, h);
        manual_map(u, fold__maps_sub, u->t, a, b, NULL, h);
        manual_map(u, fold__maps_d_abs, u->t, d + h, u->t, NULL, h);
        manual_map(u, fold__maps_addmul, at_row(u->dh, l, h), d, b, u->t, h);
        manual_map(u, fold__maps_neg, u->t, u->t, NULL, NULL, h);
        manual_map(u, fold__maps_addmul, at_row(u->dh, m, h), d, a, u->t, h);
    }
}

/* The last state itself; in training the sum of its values. */
static void manual_states(manual *u, const recording *r, int from, int to, int training, uint64_t *hash)
{
    for (int i = from; i < to; i++) {
        const sample *x = &r->samples[i];
        const int row = u->row_of[(u->kind == CHAIN ? x->first + x->count - 1 : x->root[0]) - u->base];
        const float *h = at_row(u->hs, row, u->h), sum = fold__reducer_of(u->k)->sum(h, (size_t)u->h);
        if (hash) *hash = hash_floats(*hash, training ? &sum : h, training ? 1 : (size_t)u->h);
        for (int k = 0; k < u->h && training; k++) at_row(u->dh, row, u->h)[k] = 1.0f / (float)r->n_samples;
    }
}

/* ---- a frame ------------------------------------------------------------------------------ */

/* GRU: the state of every agent, in hs. g has room for both products. */
static void manual_gru(manual *u, int agents, const float *observed, const float *state)
{
    const int h = u->h, gates = 3 * h;
    float *from_x = u->g, *from_h = u->g + agents * gates;
    const fold_rows x = rows_from((float *)(uintptr_t)observed, u->in), before = rows_from((float *)(uintptr_t)state, h);
    manual_linear(u, u->W, 0, agents, &x, 1, u->in, bias_rows(u, u->bias), rows_from(from_x, gates));
    manual_linear(u, u->U, 0, agents, &before, 1, h, bias_rows(u, u->c), rows_from(from_h, gates));
    for (int i = 0; i < agents; i++) {
        float *a = at_row(from_x, i, gates), *b = at_row(from_h, i, gates), *now = at_row(u->hs, i, h);
        manual_map(u, fold__maps_add, a, a, b, NULL, 2 * h);
        manual_map(u, fold__maps_sigmoid, a, a, NULL, NULL, 2 * h);
        manual_map(u, fold__maps_addmul, now, a, b + 2 * h, a + 2 * h, h);
        manual_map(u, fold__maps_tanh, now, now, NULL, NULL, h);
        manual_map(u, fold__maps_sub, b, state + i * h, now, NULL, h);
        manual_map(u, fold__maps_addmul, now, a + h, b, now, h);
    }
}
/* What agents attend to, in s, a head and an agent at a time; the index has one agent's neighbours behind the other's. */
static void manual_around(manual *u, int agents, const int *from, const int *to, int edges)
{
    const int h = u->h, width = h / FRAME_HEADS, row = 3 * h;
    const float scale = 1 / sqrtf((float)width);
    float score[MAX_NODES];
    memset(u->s, 0, (size_t)agents * (size_t)h * sizeof *u->s);
    for (int first = 0, end; first < edges; first = end) {
        for (end = first; end < edges && to[end] == to[first];) end++;
        for (int head = 0; head < FRAME_HEADS; head++) {
            const int col = head * width, n = end - first;
            const float *query = at_row(u->g, to[first], row) + col;
            float *out = at_row(u->s, to[first], h) + col;
            for (int k = 0; k < n; k++) score[k] = scale * fold__reducer_of(u->k)->dot(query, at_row(u->g, from[first + k], row) + h + col, (size_t)width);
            const float sum = fold__reducer_of(u->k)->exp_sum(score, score, fold__reducer_of(u->k)->largest(score, (size_t)n), (size_t)n, 1);
            for (int k = 0; k < n; k++)
                FOLD__MAP_OF(u->k, axpy)(out, at_row(u->g, from[first + k], row) + 2 * h + col, NULL, out, score[k] / sum, (size_t)width, 1, NULL);
        }
    }
}
static void manual_frame(manual *u, const recording *r, const sample *x, uint64_t *hash)
{
    const sizes *s = &u->n->s;
    const int agents = s->words, h = u->h, *from = r->index + x->first;
    const float *observed = r->values + (size_t)x->root[0] * (size_t)(u->in + h);
    const fold_rows now = rows_from(u->hs, h), both[2] = { now, rows_from(u->s, h) };
    manual_gru(u, agents, observed, observed + agents * u->in);
    manual_linear(u, u->n->dense[0].W, 0, agents, &now, 1, h, bias_rows(u, u->n->dense[0].b), rows_from(u->g, 3 * h));
    manual_around(u, agents, from, from + x->count, x->count);
    manual_linear(u, u->n->classes.W, 0, agents, both, 2, h, bias_rows(u, u->n->classes.b), rows_from(u->y, s->classes));
    if (hash) *hash = hash_floats(hash_floats(*hash, u->y, (size_t)(agents * s->classes)), u->hs, (size_t)(agents * h));
}

/* ---- a policy ----------------------------------------------------------------------------- */

static void policy_open(policy_weights *w, const fold_model *m)
{
    static const char *const names[POLICY_WEIGHTS] = { "first.W", "first.b", "second.W", "second.b", "state.W",
                                                       "state.b", "state.U", "state.c",  "head.W",   "head.b" };
    for (int i = 0; i < POLICY_WEIGHTS; i++) {
        w->of[i] = fold_param_value(m, fold_param_find(m, names[i]));
        if (!w->of[i]) die("policy: no weights ", names[i]);
    }
}
static void manual_policy(manual *u, const recording *r, uint64_t *hash)
{
    const int agents = r->n_samples;
    float *const memory = r->values + agents * u->in;
    policy_of_agents(&u->policy, agents, r->values, memory, memory + agents * u->h, u->y);
    if (hash) *hash = hash_floats(*hash, u->y, (size_t)(agents * u->n->s.classes));
}

/* ---- the whole ---------------------------------------------------------------------------- */

static void manual_open(manual *u, const net *n, const char *name, fold_model *m)
{
    memset(u, 0, sizeof *u);
    u->m = m;
    u->k = m->kernels;
    u->n = n;
    u->in = n->s.input;
    u->h = n->s.hidden;
    u->kind = !strcmp(name, "treelstm-sick") ? CHILD_SUM : !strcmp(name, "chain") ? CHAIN : !strcmp(name, "frame") ? FRAME :
              !strcmp(name, "policy") ? POLICY : BINARY;
    if (n->s.classes > 8) die("by hand at most 8 classes", "");
    u->gates = u->kind == FRAME ? 6 : u->kind == BINARY ? 5 : u->kind == CHAIN ? 4 : 3;
    u->o = u->kind == CHAIN ? 2 : 1;
    u->f = u->kind == CHAIN ? 1 : 2;
    u->W = u->kind == CHAIN ? n->lstm_W[0] : n->W;
    u->bias = u->kind == CHAIN ? n->lstm_b[0] : n->b;
    u->U = n->W_f;
    u->c = n->b_f;
    u->leaf_W = n->leaf_W;
    u->leaf_b = n->leaf_b;
    if (u->kind == FRAME) {
        u->W = fold_param_find(m, "state.W");
        u->bias = fold_param_find(m, "state.b");
        u->U = fold_param_find(m, "state.U");
        u->c = fold_param_find(m, "state.c");
    }
    if (u->kind == POLICY) policy_open(&u->policy, m);
    const int k = u->in + 2 * u->h, wide = (u->gates + 1) * u->h + HEAD;
    const size_t a = fold__scratch_floats(u->k, k, wide), b = fold__scratch_floats(u->k, wide, k);
    u->scratch = (float *)take(NULL, a > b ? a : b, sizeof(float));
    u->t = (float *)take(NULL, (size_t)u->h * 2 + 64, sizeof(float));
    u->pairs = (float *)take(NULL, MANUAL_CHUNK * (4 * (size_t)u->h + 2 * HEAD) + 64, sizeof(float));
}

static void manual_close(manual *u)
{
    void *const all[] = { u->g, u->s, u->hs, u->cs, u->tc, u->dh, u->dc, u->xf, u->ef, u->y, u->dy, u->x, u->a, u->b, u->row_of, u->level_of,
                          u->item_of, u->edge, u->child, u->parent, u->scratch, u->t, u->pairs };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* What its arrays take for the largest chunk so far. */
static size_t manual_bytes(const manual *u)
{
    const size_t h = (size_t)u->h, floats = (8 + (size_t)u->gates) * h + 32;
    return (size_t)u->cap * (floats * sizeof(float) + 3 * sizeof(float *) + 6 * sizeof(int));
}

/* One batch; seconds of finding the levels, and of the rest. Losses are means over the batch's samples. */
static void manual_batch(manual *u, const recording *r, int training, double *t_levels, double *t_run, uint64_t *hash)
{
    if (u->kind == FRAME || u->kind == POLICY) {
        const double start = now_seconds();
        manual_reserve(u, u->kind == FRAME ? u->n->s.words : r->n_samples);
        if (u->kind == POLICY) manual_policy(u, r, hash);
        else for (int i = 0; i < r->n_samples; i++) manual_frame(u, r, &r->samples[i], hash);
        *t_run += now_seconds() - start;
        return;
    }
    for (uint32_t i = 0; i < u->m->n_params && training; i++) fold__params(u->m)[i].grad_clear = 0; /* they are written to */
    for (int from = 0; from < r->n_samples; from += MANUAL_CHUNK) {
        const int to = from + MANUAL_CHUNK < r->n_samples ? from + MANUAL_CHUNK : r->n_samples;
        const double start = now_seconds();
        manual_levels(u, r, from, to);
        manual_edges(u, r);
        const double found = now_seconds();
        manual_forward(u);
        if (training) memset(u->dh, 0, (size_t)u->rows * (size_t)u->h * sizeof *u->dh);
        if (u->kind == CHILD_SUM) manual_pairs(u, r, from, to, training, hash);
        else if (u->n->s.classes) manual_classes(u, r, 1.0f / (float)r->n_samples, training, hash);
        else manual_states(u, r, from, to, training, hash);
        if (training) manual_backward(u);
        *t_levels += found - start;
        *t_run += now_seconds() - found;
    }
}
