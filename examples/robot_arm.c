/* robot_arm: one network controls arms of 2 to 7 joints, with and without tools, at 1000 Hz.

     cc -O2 -o robot_arm examples/robot_arm.c -lm && ./robot_arm --svg robot_arm.svg

   Which torques give a planar arm the acceleration you want? The Newton-Euler recursion computes them (Luh,
   Walker and Paul 1980): motion is passed from the base to the tip, and forces are passed back from the tip
   to the base. The network is the same recursion, written in ordinary C, with learned cells in place of the
   mechanics. The cells multiply the outputs of linear layers, because the equations of mechanics contain such
   products. The network is trained on random arms with any number of links and in any position, each with its
   own structure. Then it controls arms that it has not seen.

   In control, each joint follows a path. Its desired acceleration is the acceleration of the path plus a
   correction for the error, and the network computes the torques of all arms in one run. When an arm grips a
   tool or lets go of it, the network must be recorded again; until then, the recording is replayed with new
   sensor values (fold_replay). Time is simulated, in ticks of one millisecond. The simulation runs twice. The
   first time, each tick computes a whole run, and the results are always the same. The second time, each tick
   computes only a slice of a run, for --budget microseconds (fold_run_more), and torques stay the same until
   the run has finished, so tip errors depend on the speed of the machine. A miss is a tick whose slice takes
   longer than the tick itself; misses happen on a busy machine. Jitter is the standard deviation of the slice
   times. An eager context repeats some ticks and must compute the same bits; the printed ratio is the time of
   the fastest eager tick divided by that of the fastest batched one.

   For comparison, the same arms are also controlled by the mechanics themselves, and by feedback alone. The
   feedback assumes that each joint has the same inertia as in a stretched-out arm. Tip errors are root mean
   squares in millimetres, for arms that are one or two metres long. Torque errors are relative to the torque
   that holds the stretched arm against gravity. robot_arm.svg was made with --seconds 3.1. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include "options.h"
#include "unfused.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEWEST = 2, MOST = 7, KINDS = MOST - FEWEST + 1, /* links */
    SENSES = 8, TOOL = 2, WIDTH = 32, PRODUCTS = 48,
    BATCH = 64, MOST_ARMS = 200, TICKS = 1000        /* arms in training and in control; ticks a second */
};
static const double gravity = 9.81, friction = 0.1, motor = 0.05, stiffness = 400, damping = 40, most_wanted = 40;
static const double most_torque = 300, most_speed = 20; /* limits of a motor */
static const float unit_torque = 10;

typedef struct options {
    uint64_t seed; int arms, steps; double seconds, budget; const char *svg;
} options;

static void fail(const char *what)
{
    fprintf(stderr, "robot_arm: %s\n", what);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *bytes = calloc(count ? count : 1, size);
    if (!bytes) fail("out of memory");
    return bytes;
}

static double within(double x, double most) { return x < -most ? -most : x > most ? most : x; }

/* ---- the network ----------------------------------------------------------------------------- */

/* Records U (P x * tanh(Q x)) + c: products of pairs of values. One of each is bounded, so that deep recursion stays so. */
typedef struct product { fold_param P, p, Q, q, U, c; } product;
typedef struct net {
    product first, second, outward, inward, tool;
    fold_cell sense, pass, gather, grip;
    fold_dense torque;
} net;

static product new_product(fold_model *m, const char *name, int inputs)
{
    static const char *const suffix[] = { "P", "p", "Q", "q", "U", "c" };
    fold_param made[6];
    char full[32];
    for (int i = 0; i < 6; i++) {
        snprintf(full, sizeof full, "%s.%s", name, suffix[i]);
        made[i] = i == 4 ? fold_weight_new(m, full, PRODUCTS, WIDTH) : i == 5 ? fold_bias_new(m, full, WIDTH) :
                  i % 2 ? fold_bias_new(m, full, PRODUCTS) : fold_weight_new(m, full, inputs, PRODUCTS);
    }
    const product all = { made[0], made[1], made[2], made[3], made[4], made[5] };
    return all;
}

static fold_node apply(fold_ctx *f, const product *p, const fold_node *x, int n)
{
    const fold_node a = fold_linear_n(f, x, n, p->P, p->p), b = fold_linear_n(f, x, n, p->Q, p->q);
    return fold_linear(f, fold_mul(f, a, fold_tanh(f, b)), p->U, p->c);
}

/* Takes a link's sensor values, gives what matters of them. */
static void sense_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    const net *n = (const net *)user;
    const fold_node parts[2] = { in[0], apply(f, &n->first, in, 1) };
    out[0] = apply(f, &n->second, parts, 2);
}
/* Takes the motion of the joint and the link, gives the motion of the next joint. */
static void pass_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_add(f, in[0], apply(f, &((const net *)user)->outward, in, 2));
}
/* Takes the load beyond a link, the motion of its joint and the link, gives the load on the joint. */
static void gather_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = fold_add(f, in[0], apply(f, &((const net *)user)->inward, in, 4));
}
/* Takes the tip's motion, the last link and the tool, gives the load of the tool. */
static void grip_body(fold_ctx *f, const fold_node *in, fold_node *out, const void *user)
{
    out[0] = apply(f, &((const net *)user)->tool, in, 3);
}

static fold_cell new_cell(fold_model *m, const char *name, fold_cell_body *body, const net *n, const int *sizes,
                          int n_in)
{
    fold_cell_desc desc = fold_cell_desc_default();
    desc.name = name;
    desc.body = body;
    desc.user = n;
    desc.n_in = n_in;
    for (int i = 0; i < n_in; i++) desc.in[i] = fold_shape1(sizes[i]);
    desc.n_out = 1;
    return fold_cell_new(m, &desc);
}

/* n is read when the cells are called: it must outlive the model. */
static void new_net(net *n, fold_model *m)
{
    const int link[] = { WIDTH, WIDTH, WIDTH, SENSES }, senses = SENSES, tool[] = { WIDTH, WIDTH, TOOL };
    n->first = new_product(m, "first", SENSES);
    n->second = new_product(m, "second", SENSES + WIDTH);
    n->outward = new_product(m, "outward", 2 * WIDTH);
    n->inward = new_product(m, "inward", 3 * WIDTH + SENSES);
    n->tool = new_product(m, "tool", 2 * WIDTH + TOOL);
    n->torque = fold_dense_new(m, "torque", WIDTH, 1, FOLD_ACT_LINEAR);
    n->sense = new_cell(m, "sense", sense_body, n, &senses, 1);
    n->pass = new_cell(m, "pass", pass_body, n, link, 2);
    n->gather = new_cell(m, "gather", gather_body, n, link, 4);
    n->grip = new_cell(m, "grip", grip_body, n, tool, 3);
}

/* The network reads this of an arm, and writes its torques here. */
typedef struct wires {
    int links, has_tool;
    float senses[MOST][SENSES], tool[TOOL], torque[MOST]; /* in units */
} wires;

/* Records a link and all beyond it, out to the tip and back; returns the load on the link's joint. torque[i] becomes that
   of joint i. */
static fold_node record(fold_ctx *f, const net *n, const wires *x, int link, fold_node motion, fold_node before,
                        fold_node *torque)
{
    if (link == x->links) {
        const fold_node in[3] = { motion, before, fold_input_ref(f, x->tool, fold_shape1(TOOL)) };
        return x->has_tool ? fold_out(f, fold_call(f, n->grip, in, 3), 0) : fold_zeros(f, fold_shape1(WIDTH));
    }
    const fold_node sensed = fold_input_ref(f, x->senses[link], fold_shape1(SENSES));
    const fold_node known = fold_out(f, fold_call(f, n->sense, &sensed, 1), 0), out[2] = { motion, known };
    const fold_node next = fold_out(f, fold_call(f, n->pass, out, 2), 0);
    const fold_node back[4] = { record(f, n, x, link + 1, next, known, torque), motion, known, sensed };
    const fold_node load = fold_out(f, fold_call(f, n->gather, back, 4), 0);
    torque[link] = fold_dense_apply(f, &n->torque, load);
    return load;
}
static void record_arm(fold_ctx *f, const net *n, const wires *x, fold_node *torque)
{
    const fold_node still = fold_zeros(f, fold_shape1(WIDTH));
    record(f, n, x, 0, still, still, torque);
}

/* ---- mechanics ------------------------------------------------------------------------------- */

/* Links are rods. A tool is a weight, some way beyond the tip. Joint i must follow middle + swing sin(pace t + phase). */
typedef struct arm {
    int links, has_tool, next_change; /* the tick at which it grips its tool, or lets it go */
    double length[MOST], mass[MOST], tool_mass, tool_reach;
    double angle[MOST], speed[MOST];  /* each joint counts from the link before it */
    double middle[MOST], swing[MOST], pace[MOST], phase[MOST];
    fold_random chance;
} arm;

static double between(fold_random *chance, double low, double high)
{
    return low + (high - low) * (double)fold_random_uniform(chance);
}

static arm new_arm(fold_random chance, int links)
{
    arm a;
    memset(&a, 0, sizeof a);
    a.links = links;
    for (int i = 0; i < links; i++) {
        a.length[i] = between(&chance, 0.15, 0.35);
        a.mass[i] = between(&chance, 0.3, 1.2);
        a.middle[i] = i ? between(&chance, -0.5, 0.5) : between(&chance, 0.8, 2.2);
        a.swing[i] = between(&chance, 0.2, 0.7);
        a.pace[i] = between(&chance, 0.8, 2.5);
        a.phase[i] = between(&chance, 0, 6.2831853);
    }
    a.tool_mass = between(&chance, 0.2, 1);
    a.tool_reach = between(&chance, 0.05, 0.2);
    a.has_tool = fold_random_below(&chance, 2);
    a.next_change = fold_random_below(&chance, 3 * TICKS);
    a.chance = chance;
    return a;
}

/* Finds the torques that give the joints these accelerations, by Newton and Euler's recursion. Each joint has friction,
   and a motor with an inertia of its own. */
static void inverse_dynamics(const arm *a, const double *speed, const double *wanted, double down, double *torque)
{
    double ux[MOST], uy[MOST], fx[MOST], fy[MOST], spin[MOST];
    double angle = 0, omega = 0, alpha = 0, ax = 0, ay = down, beyond_x = 0, beyond_y = 0, moment = 0;
    for (int i = 0; i < a->links; i++) {
        angle += a->angle[i];
        omega += speed[i];
        alpha += wanted[i];
        ux[i] = cos(angle);
        uy[i] = sin(angle);
        const double jx = -alpha * uy[i] - omega * omega * ux[i], jy = alpha * ux[i] - omega * omega * uy[i];
        fx[i] = a->mass[i] * (ax + 0.5 * a->length[i] * jx);
        fy[i] = a->mass[i] * (ay + 0.5 * a->length[i] * jy);
        spin[i] = a->mass[i] * a->length[i] * a->length[i] / 12 * alpha;
        ax += a->length[i] * jx;
        ay += a->length[i] * jy;
        if (i + 1 < a->links || !a->has_tool) continue;
        beyond_x = a->tool_mass * (ax + a->tool_reach * jx);
        beyond_y = a->tool_mass * (ay + a->tool_reach * jy);
        moment = a->tool_reach * (ux[i] * beyond_y - uy[i] * beyond_x);
    }
    for (int i = a->links - 1; i >= 0; i--) {
        moment += spin[i] + 0.5 * a->length[i] * (ux[i] * fy[i] - uy[i] * fx[i]) +
                  a->length[i] * (ux[i] * beyond_y - uy[i] * beyond_x);
        beyond_x += fx[i];
        beyond_y += fy[i];
        torque[i] = moment + friction * speed[i] + motor * wanted[i];
    }
}

/* Moves an arm by a tick. The accelerations that torques give follow from the recursion, column by column. */
static void move(arm *a, const double *torque)
{
    const double still[MOST] = { 0 };
    double matrix[MOST][MOST], rest[MOST];
    const int n = a->links;
    inverse_dynamics(a, a->speed, still, gravity, rest);
    for (int k = 0; k < n; k++) {
        double one[MOST] = { 0 };
        one[k] = 1;
        inverse_dynamics(a, still, one, 0, matrix[k]);
    }
    for (int i = 0; i < n; i++) rest[i] = within(torque[i], most_torque) - rest[i];
    for (int k = 0; k < n; k++) /* Gauss: the matrix is positive definite */
        for (int i = k + 1; i < n; i++) {
            const double share = matrix[i][k] / matrix[k][k];
            for (int j = k; j < n; j++) matrix[i][j] -= share * matrix[k][j];
            rest[i] -= share * rest[k];
        }
    for (int k = n - 1; k >= 0; k--) {
        for (int j = k + 1; j < n; j++) rest[k] -= matrix[k][j] * rest[j];
        rest[k] /= matrix[k][k];
    }
    for (int i = 0; i < n; i++) {
        a->speed[i] = within(a->speed[i] + rest[i] / TICKS, most_speed);
        a->angle[i] += a->speed[i] / TICKS;
    }
}

/* Tells where the path is at a time. `second` may be NULL. */
static void path_at(const arm *a, double time, double *angle, double *speed, double *second)
{
    for (int i = 0; i < a->links; i++) {
        const double phase = a->pace[i] * time + a->phase[i];
        angle[i] = a->middle[i] + a->swing[i] * sin(phase);
        speed[i] = a->swing[i] * a->pace[i] * cos(phase);
        if (second) second[i] = -a->swing[i] * a->pace[i] * a->pace[i] * sin(phase);
    }
}

/* Returns the acceleration wanted: that of the path, and one that takes back the error. */
static void wanted_at(const arm *a, double time, double *wanted)
{
    double angle[MOST], speed[MOST];
    path_at(a, time, angle, speed, wanted);
    for (int i = 0; i < a->links; i++) {
        wanted[i] += stiffness * (angle[i] - a->angle[i]) + damping * (speed[i] - a->speed[i]);
        wanted[i] = within(wanted[i], most_wanted);
    }
}

/* Tells the torque that holds joint i of the arm stretched out, and the inertia. */
static void stretched(const arm *a, int i, double *hold, double *inertia)
{
    double reach = 0;
    *hold = 0;
    *inertia = motor;
    for (; i < a->links; i++) {
        const double half = a->length[i] / 2, middle = reach + half;
        *hold += gravity * a->mass[i] * middle;
        *inertia += a->mass[i] * (middle * middle + half * half / 3);
        reach += a->length[i];
    }
    if (!a->has_tool) return;
    reach += a->tool_reach;
    *hold += gravity * a->tool_mass * reach;
    *inertia += a->tool_mass * reach * reach;
}

/* Finds the places of the joints and of the tip, for these angles: links + 1 of them. */
static void places(const arm *a, const double *angle, double (*place)[2])
{
    double sum = 0;
    place[0][0] = place[0][1] = 0;
    for (int i = 0; i < a->links; i++) {
        sum += angle[i];
        place[i + 1][0] = place[i][0] + a->length[i] * cos(sum);
        place[i + 1][1] = place[i][1] + a->length[i] * sin(sum);
    }
}

static void read_sensors(wires *x, const arm *a, const double *wanted)
{
    double angle = 0, omega = 0, alpha = 0;
    x->links = a->links;
    x->has_tool = a->has_tool;
    x->tool[0] = (float)a->tool_mass;
    x->tool[1] = (float)(5 * a->tool_reach);
    for (int i = 0; i < a->links; i++) {
        float *s = x->senses[i];
        angle += a->angle[i];
        omega += a->speed[i];
        alpha += wanted[i];
        s[0] = (float)cos(angle);
        s[1] = (float)sin(angle);
        s[2] = (float)(omega / 3);
        s[3] = (float)(alpha / 20);
        s[4] = (float)(a->speed[i] / 2);
        s[5] = (float)(4 * a->length[i]);
        s[6] = (float)a->mass[i];
        s[7] = (float)(wanted[i] / 20);
    }
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Makes a random arm in a random position. Its torques come in the units of the network, with the torques that hold it. */
static void example(fold_random *chance, wires *x, double *torque, double *hold)
{
    double wanted[MOST], inertia;
    const int links = FEWEST + fold_random_below(chance, KINDS);
    arm a = new_arm(fold_random_new(fold_random_bits(chance), 0), links);
    for (int i = 0; i < links; i++) {
        a.angle[i] = i ? between(chance, -1.5, 1.5) : between(chance, -0.5, 3.6);
        a.speed[i] = 1.2 * (double)fold_random_normal(chance);
        wanted[i] = 5 * (double)fold_random_normal(chance);
    }
    read_sensors(x, &a, wanted);
    inverse_dynamics(&a, a.speed, wanted, gravity, torque);
    for (int i = 0; i < links; i++) stretched(&a, i, &hold[i], &inertia);
}

/* Records some examples. The loss is the mean square of errors, relative to the torque that holds the joint. */
static fold_node loss_of(fold_ctx *f, const net *n, fold_random *chance, wires *x, int arms)
{
    fold_node losses[BATCH], torque[MOST], parts[MOST];
    double right[MOST], hold[MOST];
    for (int k = 0; k < arms; k++) {
        example(chance, &x[k], right, hold);
        record_arm(f, n, &x[k], torque);
        for (int i = 0; i < x[k].links; i++) {
            const fold_node said = fold_scale(f, torque[i], unit_torque / (float)hold[i]);
            parts[i] = fold_squared_error(f, said, fold_constant(f, (float)(right[i] / hold[i])));
        }
        losses[k] = fold_mean_n(f, parts, x[k].links);
    }
    return fold_mean_n(f, losses, arms);
}

/* Returns the root mean square error over arms that are not trained on. */
static double examine(fold_model *m, const net *n, uint64_t seed)
{
    enum { ROUNDS = 16 };
    static wires x[BATCH];
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_random chance = fold_random_new(seed, 2);
    double sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        fold_ctx_reset(f);
        const fold_node loss = loss_of(f, n, &chance, x, BATCH);
        if (fold_run(f, &loss, 1)) fail(fold_ctx_message(f));
        sum += (double)fold_scalar(f, loss);
    }
    fold_ctx_free(f);
    return sqrt(sum / ROUNDS);
}

static void learn(fold_model *m, const net *n, const options *o)
{
    static wires x[BATCH];
    fold_ctx_desc desc = fold_ctx_desc_default();
    fold_adam adam = fold_adam_default();
    fold_rates rates = { FOLD_RATE_COSINE, 100, 0, 0, 0, 0 };
    fold_random chance = fold_random_new(o->seed, 1);
    desc.training = 1;
    fold_ctx *f = fold_ctx_new(m, &desc);
    rates.steps = o->steps;
    time_left left = TIME_LEFT;
    for (int step = 0; step < o->steps; step++) {
        fold_ctx_reset(f);
        const fold_node loss = loss_of(f, n, &chance, x, BATCH);
        fold_backward(f, loss);
        fold_grads_clip(m, 1);
        adam.rate = 0.004f * fold_rate_factor(&rates, (uint64_t)step);
        if (fold_ctx_status(f) || fold_adam_step(m, &adam)) fail(fold_ctx_message(f));
        time_left_show(&left, step + 1, o->steps, "learning: step %d of %d, error %.4f", step + 1, o->steps,
                       sqrt((double)fold_scalar(f, loss)));
    }
    time_left_end(&left);
    fold_ctx_free(f);
}

/* ---- the picture ----------------------------------------------------------------------------- */

enum { KEYS = 200, KEY_TICKS = 40, PANEL = 320 };
typedef struct key { double place[MOST + 1][2], tool[2], target[2]; int has_tool; } key;
typedef struct picture { /* an arm of each kind */
    int keys, links[KINDS];
    double per_metre[KINDS];
    key (*poses)[KEYS];
} picture;

static void add_key(picture *p, const arm *arms, int count, double time)
{
    for (int kind = 0; kind < KINDS && kind < count; kind++) {
        const arm *a = &arms[kind];
        key *pose = &p->poses[kind][p->keys];
        double angle[MOST], speed[MOST], target[MOST + 1][2];
        const int n = a->links;
        double reach = a->tool_reach;
        for (int i = 0; i < n; i++) reach += a->length[i];
        p->links[kind] = n;
        p->per_metre[kind] = 0.48 * PANEL / reach;
        places(a, a->angle, pose->place);
        path_at(a, time, angle, speed, NULL);
        places(a, angle, target);
        for (int k = 0; k < 2; k++) {
            const double last = pose->place[n][k] - pose->place[n - 1][k];
            pose->tool[k] = pose->place[n][k] + last / a->length[n - 1] * a->tool_reach;
            pose->target[k] = target[n][k];
        }
        pose->has_tool = a->has_tool;
    }
    p->keys++;
}

static void draw_point(FILE *file, const picture *p, int kind, const double *place, const char *after)
{
    const double scale = p->per_metre[kind];
    fprintf(file, "%.1f,%.1f%s", PANEL / 2 + scale * place[0], 0.7 * PANEL - scale * place[1], after);
}

/* Draws one key of a moving line: the arm, or the tool from the tip on. */
static void draw_line(FILE *file, const picture *p, int kind, int at, int is_tool, const char *after)
{
    const key *pose = &p->poses[kind][at];
    const int links = p->links[kind];
    for (int i = is_tool ? links : 0; i <= links; i++)
        draw_point(file, p, kind, pose->place[i], i < links || is_tool ? " " : after);
    if (is_tool) draw_point(file, p, kind, pose->tool, after);
}

static void draw_moving(FILE *file, const picture *p, int kind, int is_tool, const char *style, double seconds)
{
    const key *pose = p->poses[kind];
    fprintf(file, "<polyline %s points=\"", style);
    draw_line(file, p, kind, 0, is_tool, "\">");
    fprintf(file, "<animate attributeName=\"points\" dur=\"%.2fs\" repeatCount=\"indefinite\" values=\"", seconds);
    for (int k = 0; k < p->keys; k++) draw_line(file, p, kind, k, is_tool, k + 1 < p->keys ? ";" : "\"/>");
    if (is_tool) {
        fprintf(file, "<animate attributeName=\"opacity\" calcMode=\"discrete\" dur=\"%.2fs\" repeatCount=\"indefinite\" "
                      "values=\"", seconds);
        for (int k = 0; k < p->keys; k++) fprintf(file, "%d%s", pose[k].has_tool, k + 1 < p->keys ? ";" : "\"/>");
    }
    fputs("</polyline>\n", file);
}

static void draw_panel(FILE *file, const picture *p, int kind, double seconds)
{
    const key *pose = p->poses[kind];
    fprintf(file, "<g transform=\"translate(%d,%d)\">\n<rect x=\"6\" y=\"6\" width=\"%d\" height=\"%d\" rx=\"10\" "
                  "fill=\"#fff\" stroke=\"#d8dee6\"/>\n", kind % 3 * PANEL, kind / 3 * PANEL, PANEL - 12, PANEL - 12);
    fputs("<polyline fill=\"none\" stroke=\"#f2b36b\" stroke-width=\"5\" stroke-opacity=\".6\" points=\"", file);
    for (int k = 0; k < p->keys; k++) draw_point(file, p, kind, pose[k].target, k + 1 < p->keys ? " " : "\"/>\n");
    fputs("<polyline fill=\"none\" stroke=\"#b0413e\" points=\"", file);
    for (int k = 0; k < p->keys; k++)
        draw_point(file, p, kind, pose[k].place[p->links[kind]], k + 1 < p->keys ? " " : "\"/>\n");
    fprintf(file, "<path d=\"M%d,%dl-14,26h28z\" fill=\"#8795a8\"/>\n", PANEL / 2, PANEL * 7 / 10);
    draw_moving(file, p, kind, 0, "fill=\"none\" stroke=\"#2f4b7c\" stroke-width=\"9\" stroke-linejoin=\"round\" "
                "stroke-linecap=\"round\" stroke-opacity=\".85\" marker-start=\"url(#joint)\" marker-mid=\"url(#joint)\"",
                seconds);
    draw_moving(file, p, kind, 1, pose->has_tool ? "class=\"tool\"" : "class=\"tool\" opacity=\"0\"", seconds);
    fprintf(file, "<text x=\"20\" y=\"30\">%d links</text>\n</g>\n", p->links[kind]);
}

static void draw(const char *path, const picture *p)
{
    const double seconds = (double)(p->keys - 1) * KEY_TICKS / TICKS;
    FILE *file = fopen(path, "w");
    if (!file) fail("the picture cannot be written");
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
                  "font-size=\"14\" fill=\"#44546a\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#f3f5f8\"/>\n",
            3 * PANEL, 2 * PANEL + 30);
    fputs("<style>.tool{fill:none;stroke:#3a7d44;stroke-width:7;stroke-linecap:round;marker-end:url(#weight)}</style>\n"
          "<marker id=\"joint\" viewBox=\"-4 -4 8 8\" markerWidth=\"7\" markerHeight=\"7\" markerUnits=\"userSpaceOnUse\">"
          "<circle r=\"3\" fill=\"#fff\"/></marker>\n<marker id=\"weight\" viewBox=\"-8 -8 16 16\" markerWidth=\"18\" "
          "markerHeight=\"18\" markerUnits=\"userSpaceOnUse\"><circle r=\"7\" fill=\"#3a7d44\"/></marker>\n", file);
    for (int kind = 0; kind < KINDS; kind++)
        if (p->links[kind]) draw_panel(file, p, kind, seconds);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">one network moves them all; orange: where the tip "
                  "should go, red: where it goes; green: a tool</text>\n</svg>\n", 3 * PANEL / 2, 2 * PANEL + 19);
    if (fclose(file)) fail("the picture cannot be written");
}

/* ---- control --------------------------------------------------------------------------------- */

/* Makes the torques of all arms. Its wires stay as they are while a run lasts. */
typedef struct brain {
    const net *n;
    fold_ctx *f, *eager;
    wires x[MOST_ARMS];
    int running, changed, began, runs, recorded; /* `began`: in which tick; the last two count */
    uint64_t budget;                             /* nanoseconds a tick; 0: a whole run */
    double waited;                               /* ticks from the beginning of a run to its end, summed */
    uint64_t *eager_took, *beside;
    int compared, identical;
} brain;

/* Begins a run with the sensor values of now: the last recording again, or a new one if a tool came or went. */
static void begin(brain *b, const arm *arms, int count, double time)
{
    static fold_node roots[MOST_ARMS * MOST];
    int n_roots = 0;
    for (int i = 0; i < count; i++) {
        double wanted[MOST];
        wanted_at(&arms[i], time, wanted);
        read_sensors(&b->x[i], &arms[i], wanted);
    }
    b->runs++;
    if (!b->changed) {
        if (fold_replay_begin(b->f)) fail(fold_ctx_message(b->f));
        return;
    }
    fold_ctx_reset(b->f);
    for (int i = 0; i < count; i++) {
        fold_node *torque = &roots[n_roots];
        record_arm(b->f, b->n, &b->x[i], torque);
        for (int k = 0; k < arms[i].links; k++) fold_output_ref(b->f, torque[k], &b->x[i].torque[k]);
        n_roots += arms[i].links;
    }
    if (fold_run_begin(b->f, roots, n_roots)) fail(fold_ctx_message(b->f));
    b->changed = 0;
    b->recorded++;
}

/* Runs a tick's share of a run; returns the nanoseconds that it took. */
static uint64_t think(brain *b, const arm *arms, int count, int tick)
{
    const uint64_t start = fold_clock_monotonic(NULL);
    if (!b->running) {
        begin(b, arms, count, (double)tick / TICKS);
        b->began = tick;
    }
    const uint64_t used = fold_clock_monotonic(NULL) - start;
    const uint64_t left = !b->budget ? 0 : used < b->budget ? b->budget - used : 1;
    if (fold_run_more(b->f, left, &b->running)) fail(fold_ctx_message(b->f));
    if (!b->running) b->waited += tick - b->began + 1;
    return fold_clock_monotonic(NULL) - start;
}

/* Tells whether an eager context gives the torques of the run that has just ended. */
static void compare(brain *b, int count, uint64_t took)
{
    const uint64_t start = fold_clock_monotonic(NULL);
    fold_ctx_reset(b->eager);
    for (int i = 0; i < count; i++) {
        fold_node torque[MOST];
        float said[MOST];
        record_arm(b->eager, b->n, &b->x[i], torque);
        if (fold_run(b->eager, torque, b->x[i].links) || fold_read(b->eager, torque, b->x[i].links, said))
            fail(fold_ctx_message(b->eager));
        b->identical &= !memcmp(said, b->x[i].torque, (size_t)b->x[i].links * sizeof *said);
    }
    b->eager_took[b->compared] = fold_clock_monotonic(NULL) - start;
    b->beside[b->compared++] = took;
}

enum { BY_NETWORK, IN_SLICES, BY_MECHANICS, BY_FEEDBACK, PILOTS };
typedef struct ride {
    double tip_mm;
    uint64_t *took, *anew; /* nanoseconds of each tick, and of those that recorded anew */
    brain b;
    uint64_t hash;       /* covers the angles of all joints at the end */
} ride;

static void torques_of(const arm *a, const brain *b, int i, int pilot, double time, double *torque)
{
    double wanted[MOST], hold, inertia;
    wanted_at(a, time, wanted);
    if (pilot == BY_MECHANICS) inverse_dynamics(a, a->speed, wanted, gravity, torque);
    for (int k = 0; k < a->links && pilot != BY_MECHANICS; k++) {
        stretched(a, k, &hold, &inertia);
        torque[k] = pilot == BY_FEEDBACK ? inertia * wanted[k] : (double)(unit_torque * b->x[i].torque[k]);
    }
}

static double square_of_tip_error(const arm *a, double time)
{
    double angle[MOST], speed[MOST], is[MOST + 1][2], should[MOST + 1][2];
    path_at(a, time, angle, speed, NULL);
    places(a, a->angle, is);
    places(a, angle, should);
    const double dx = is[a->links][0] - should[a->links][0], dy = is[a->links][1] - should[a->links][1];
    return dx * dx + dy * dy;
}

/* Moves all arms for --seconds of simulated time. */
static void drive(fold_model *m, const net *n, const options *o, int pilot, ride *r, picture *p)
{
    enum { COMPARE_EVERY = 50 };
    static arm arms[MOST_ARMS];
    const int ticks = (int)(o->seconds * TICKS);
    fold_ctx_desc desc = fold_ctx_desc_default();
    brain *b = &r->b;
    double sum = 0, torque[MOST];
    desc.clock = fold_clock_monotonic;
    b->n = n;
    b->f = fold_ctx_new(m, &desc);
    desc.eager = 1;
    b->eager = fold_ctx_new(m, &desc);
    if (!b->f || !b->eager) fail("out of memory");
    b->changed = b->identical = 1;
    b->budget = pilot == IN_SLICES ? (uint64_t)(1000 * o->budget) : 0;
    for (int i = 0; i < o->arms; i++) {
        arms[i] = new_arm(fold_random_new(o->seed, 3 + (uint64_t)i), FEWEST + i % KINDS);
        path_at(&arms[i], 0, arms[i].angle, arms[i].speed, NULL);
    }
    for (int tick = 0; tick < ticks; tick++) {
        const double time = (double)tick / TICKS;
        for (int i = 0; i < o->arms; i++) {
            arm *a = &arms[i];
            if (tick < a->next_change) continue;
            a->has_tool = !a->has_tool;
            a->next_change = tick + TICKS + fold_random_below(&a->chance, 3 * TICKS);
            b->changed = 1;
        }
        const int recorded = b->recorded;
        if (pilot <= IN_SLICES) r->took[tick] = think(b, arms, o->arms, tick);
        if (b->recorded > recorded) r->anew[recorded] = r->took[tick];
        if (pilot == BY_NETWORK && tick % COMPARE_EVERY == 0) compare(b, o->arms, r->took[tick]);
        if (p && p->keys < KEYS && tick % KEY_TICKS == 0) add_key(p, arms, o->arms, time);
        for (int i = 0; i < o->arms; i++) {
            torques_of(&arms[i], b, i, pilot, time, torque);
            move(&arms[i], torque);
            sum += square_of_tip_error(&arms[i], time + 1.0 / TICKS);
        }
    }
    r->tip_mm = 1000 * sqrt(sum / ticks / o->arms);
    r->hash = RESULT_HASH;
    for (int i = 0; i < o->arms; i++) r->hash = result_hash(r->hash, arms[i].angle, sizeof arms[i].angle);
    fold_ctx_free(b->eager);
    fold_ctx_free(b->f);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
/* Sorts the values; returns the one below which this share of them is, in microseconds. */
static double microseconds(uint64_t *values, int count, double share)
{
    const int at = (int)(share * count);
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count ? 1e-3 * (double)values[at < count ? at : count - 1] : 0;
}

static int run(fold_model *m, const net *n, const options *o)
{
    const int ticks = (int)(o->seconds * TICKS);
    ride *r = (ride *)take(PILOTS, sizeof *r), *whole = &r[BY_NETWORK], *sliced = &r[IN_SLICES];
    picture p;
    double sum = 0, squares = 0;
    int misses = 0;
    memset(&p, 0, sizeof p);
    if (o->svg) p.poses = (key (*)[KEYS])take(KINDS, sizeof *p.poses);
    const double before = examine(m, n, o->seed);
    learn(m, n, o);
    const double after = examine(m, n, o->seed);
    for (int pilot = 0; pilot < PILOTS; pilot++) {
        r[pilot].took = (uint64_t *)take((size_t)ticks, sizeof *r->took);
        r[pilot].anew = (uint64_t *)take((size_t)ticks, sizeof *r->took);
        r[pilot].b.eager_took = (uint64_t *)take((size_t)ticks, sizeof *r->took);
        r[pilot].b.beside = (uint64_t *)take((size_t)ticks, sizeof *r->took);
        drive(m, n, o, pilot, &r[pilot], o->svg && pilot == BY_NETWORK ? &p : NULL);
    }
    if (o->svg) draw(o->svg, &p);
    for (int i = 0; i < ticks; i++) {
        const double took = 1e-3 * (double)sliced->took[i];
        misses += took > 1e6 / TICKS;
        sum += took;
        squares += took * took;
    }
    const brain *b = &whole->b;
    const double eager = microseconds(b->eager_took, b->compared, 0);
    const double beside = microseconds(b->beside, b->compared, 0);
    const double spread = squares / ticks - sum / ticks * (sum / ticks);
    printf("%d arms, %d ticks: tips are off by %.2f mm by the network, %.2f by mechanics, %.2f by feedback alone\n", o->arms,
           ticks, whole->tip_mm, r[BY_MECHANICS].tip_mm, r[BY_FEEDBACK].tip_mm);
    const double anew = microseconds(whole->anew, b->recorded, 0.5);
    printf("%d runs: half take %.0f us, of the %d that are recorded anew %.0f; at best %.0f, eager %.0f; %s bits\n", b->runs,
           microseconds(whole->took, ticks, 0.5), b->recorded, anew, beside, eager, b->identical ? "the same" : "OTHER");
    printf("slices of %.0f us: %.2f mm, a run takes %.1f ticks and %.0f us\n", o->budget, sliced->tip_mm,
           sliced->b.waited / sliced->b.runs, sum / sliced->b.runs);
    printf("RESULT robot_arm error_before=%.4f error_after=%.4f tip_mm=%.3f mechanics_mm=%.3f feedback_mm=%.3f run_us=%.1f "
           "recorded_us=%.1f eager_us=%.1f eager_over_batched=%.2f identical=%d recorded=%d replayed=%d "
           "sliced_tip_mm=%.3f slice_p50_us=%.1f slice_p99_us=%.1f slice_worst_us=%.1f jitter_us=%.1f misses=%d ticks=%d "
           "hash=%016llx\n", before, after, whole->tip_mm, r[BY_MECHANICS].tip_mm, r[BY_FEEDBACK].tip_mm,
           microseconds(whole->took, ticks, 0.5), anew, eager, beside > 0 ? eager / beside : 0, b->identical, b->recorded,
           b->runs - b->recorded, sliced->tip_mm,
           microseconds(sliced->took, ticks, 0.5), microseconds(sliced->took, ticks, 0.99),
           microseconds(sliced->took, ticks, 1), sqrt(spread > 0 ? spread : 0), misses, ticks,
           (unsigned long long)whole->hash);
    const int wrong = !b->identical;
    for (int pilot = 0; pilot < PILOTS; pilot++) {
        free(r[pilot].took);
        free(r[pilot].anew);
        free(r[pilot].b.eager_took);
        free(r[pilot].b.beside);
    }
    free(r);
    free(p.poses);
    return wrong;
}

/* ---- command line ---------------------------------------------------------------------------- */

static options parse_options(int argc, char **argv)
{
    options o = { 1, 24, 8000, 8, 50, NULL };
    const option table[6] = {
        option_of_whole("--arms", &o.arms, 1, MOST_ARMS, "moved at the same time"),
        option_of_number("--seconds", &o.seconds, 0.01, 1000, "of simulated time"),
        option_of_number("--budget", &o.budget, 1, 1e6, "microseconds a tick for the network where it runs in slices"),
        option_of_whole("--steps", &o.steps, 0, 1000000, "of training"),
        option_of_seed("--seed", &o.seed, "of weights and arms"),
        option_of_text("--svg", &o.svg, "FILE", "writes the movement of an arm of each kind as a moving picture"),
    };
    options_read(argc, argv, "Learns the inverse dynamics of arms of any number of links, and moves arms by it.", table,
                 OPTION_COUNT(table));
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    static net n;
    fold_model_desc desc = fold_model_desc_default();
    desc.seed = o.seed;
    fold_model *m = fold_model_new(&desc);
    if (!m) fail("out of memory");
    new_net(&n, m);
    if (fold_model_status(m)) fail(fold_model_message(m));
    const int wrong = run(m, &n, &o);
    fold_model_free(m);
    return wrong;
}
