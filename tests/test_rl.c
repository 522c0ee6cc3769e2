/* test_rl.c - advantages, pieces of games, policies, log-probabilities, moments of observations and the loss of PPO: examples/fold_rl.h.
       cc -O2 -o test_rl tests/test_rl.c -lm */

#define FOLD_IMPLEMENTATION
#include "../fold.h"
#define FOLD_RL_IMPLEMENTATION
#include "../examples/fold_rl.h"
#include "check.h"

/* -- advantages ------------------------------------------------------------------------------------ */

enum { EPISODES = 6, STEPS = 320 };
static const int lengths[EPISODES] = { 0, 1, 2, 17, 0, 300 };

/* Formula 16 of Schulman et al. (2016) as it stands: the sum of (discount trace)^l d[t + l]. */
static double advantage_of(const float *reward, const float *value, int length, double after, int step, double discount, double trace)
{
    double sum = 0, factor = 1;
    for (int t = step; t < length; t++, factor *= discount * trace) {
        const double next = t + 1 < length ? (double)value[t + 1] : after;
        sum += factor * ((double)reward[t] + discount * next - (double)value[t]);
    }
    return sum;
}
static void advantages(void)
{
    static const float after[EPISODES] = { 5, 2, 0, -1, 3, 0.5f };
    fold_random r = fold_random_new(1, 0);
    float reward[STEPS], value[STEPS], advantage[STEPS], target[STEPS];
    fold_model *m = fold_model_new(NULL);
    fold_random_gaussian(&r, NULL, NULL, STEPS, reward);
    fold_random_gaussian(&r, NULL, NULL, STEPS, value);
    for (int given = 0; given < 2; given++) { /* what comes after, or nothing */
        const fold_rl_episodes e = { reward, value, lengths, given ? after : NULL, EPISODES };
        CHECK_INT(fold_rl_advantages(m, &e, 0.99f, 0.95f, advantage, given ? target : NULL), FOLD_OK);
        for (int i = 0, first = 0; i < EPISODES; first += lengths[i++])
            for (int t = 0; t < lengths[i]; t++) {
                const double want = advantage_of(reward + first, value + first, lengths[i], given ? (double)after[i] : 0, t,
                                                 (double)0.99f, (double)0.95f);
                CHECK_NEAR(advantage[first + t], want, 2e-5);
                if (given) CHECK_NEAR(target[first + t], want + (double)value[first + t], 2e-5);
            }
    }
    fold_model_free(m);
}
static void bad_rewards(void)
{
    float reward[STEPS] = { 0 }, value[STEPS] = { 0 }, after[EPISODES] = { 0 }, advantage[STEPS];
    int length[EPISODES];
    static const char *const says[] = { "the reward of episode 3, step 4 is nan", "the reward of episode 5, step 299 is inf",
                                        "episode 2, step 1 is 0, its value nan", "the value after episode 4 is nan",
                                        "episode 1 has -1 steps", "one of its arrays, or advantage is NULL",
                                        "discount is nan and trace 0.95, must be in [0, 1]", "discount is 1.5 and",
                                        "discount is 0.99 and trace -0.5", "episode 5 has 2147483647 steps, after 20" };
    for (int bad = 0; bad < 10; bad++) {
        fold_model *m = fold_model_new(NULL);
        fold_rl_episodes e = { reward, value, length, after, EPISODES };
        memcpy(length, lengths, sizeof length);
        if (bad == 0) reward[3 + 4] = NAN;
        if (bad == 1) reward[STEPS - 1] = INFINITY;
        if (bad == 2) value[2] = NAN;
        if (bad == 3) after[4] = NAN;
        if (bad == 4) length[1] = -1;
        if (bad == 5) e.reward = NULL;
        if (bad == 9) length[EPISODES - 1] = INT_MAX;
        for (int i = 0; i < STEPS; i++) advantage[i] = 7;
        CHECK_INT(fold_rl_advantages(m, &e, bad == 6 ? NAN : bad == 7 ? 1.5f : 0.99f, bad == 8 ? -0.5f : 0.95f, advantage, NULL), FOLD_BAD_ARGUMENT);
        for (int i = 0; i < STEPS; i++) CHECK_NEAR(advantage[i], 7, 0);
        CHECK_SAYS(strstr(fold_model_message(m), says[bad]), "%s", fold_model_message(m));
        reward[3 + 4] = reward[STEPS - 1] = value[2] = after[4] = 0;
        fold_model_free(m);
    }
    CHECK_INT(fold_rl_advantages(NULL, NULL, 1, 1, NULL, NULL), FOLD_BAD_ARGUMENT);
}
static void standardized(void)
{
    float values[5] = { 1, 2, 3, 4, 10 }, one = 7, same[3] = { 2, 2, 2 };
    double sum = 0, squares = 0;
    fold_rl_standardize(values, 5);
    for (int i = 0; i < 5; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    CHECK_NEAR(sum, 0, 1e-5);
    CHECK_NEAR(squares / 5, 1, 1e-5);
    fold_rl_standardize(&one, 1);
    fold_rl_standardize(same, 3);
    CHECK(one == 0 && same[0] == 0 && same[2] == 0);
    CHECK_INT(fold_rl_standardize(NULL, 3), 0);
    CHECK_INT(fold_rl_standardize(&one, 0), 1);
    values[1] = NAN;
    const float before = values[0];
    CHECK_INT(fold_rl_standardize(values, 5), 0);
    CHECK(values[0] == before);
}

/* -- pieces ---------------------------------------------------------------------------------------- */

/* Cuts end where an episode, a segment or the rollout does, and nothing is lost. */
static void cuts(void)
{
    enum { AGENTS = 3, LENGTH = 11, ALL = AGENTS * LENGTH };
    fold_model *m = fold_model_new(NULL);
    fold_random r = fold_random_new(9, 0);
    for (int trial = 0; trial < 60; trial++) {
        unsigned char over[ALL];
        float value[ALL], next[AGENTS], after[ALL];
        int first[ALL], length[ALL], only[ALL];
        for (int i = 0; i < ALL; i++) {
            over[i] = fold_random_below(&r, 4) == 0;
            value[i] = fold_random_uniform(&r);
        }
        for (int i = 0; i < AGENTS; i++) next[i] = 5 + fold_random_uniform(&r);
        const int segment = trial % 6 == 5 ? LENGTH + 4 : trial % 6;
        const fold_rl_rollout rollout = { AGENTS, LENGTH, over, value, trial % 2 ? next : NULL, segment };
        const int pieces = fold_rl_cut(m, &rollout, first, length, after);
        int row = 0;
        for (int i = 0; i < pieces; i++) {
            CHECK_INT(first[i], row);
            for (int k = 0; k < length[i] - 1; k++, row++)
                CHECK(!over[row] && row % LENGTH < LENGTH - 1 && (!segment || (row % LENGTH + 1) % segment));
            const int is_last = row % LENGTH == LENGTH - 1;
            CHECK(over[row] || is_last || (segment && (row % LENGTH + 1) % segment == 0));
            const float want = over[row] ? 0 : !is_last ? value[row + 1] : trial % 2 ? next[row / LENGTH] : 0;
            CHECK_NEAR(after[i], want, 0);
            row++;
        }
        CHECK_INT(row, ALL);
        CHECK_INT(fold_rl_cut(m, &rollout, NULL, only, NULL), pieces);
        CHECK(!memcmp(only, length, (size_t)pieces * sizeof *length));
    }
    CHECK_INT(fold_model_status(m), FOLD_OK);
    fold_model_free(m);
}
static void cuts_refused(void)
{
    static const unsigned char over[2] = { 0, 0 };
    static const struct { fold_rl_rollout r; const char *says; } cases[] = {
        { { 1, 2, NULL, NULL, NULL, 0 }, "fold_rl_cut: r, over or length is NULL" },
        { { -1, 2, over, NULL, NULL, 0 }, "fold_rl_cut: agents is -1, steps 2 and segment 0, must be at least 0, and at most 2^30 steps in all" },
        { { 1, -2, over, NULL, NULL, 0 }, "fold_rl_cut: agents is 1, steps -2 and segment 0, must be" },
        { { 1, 2, over, NULL, NULL, -3 }, "fold_rl_cut: agents is 1, steps 2 and segment -3, must be" },
        { { 1 << 20, 1 << 11, over, NULL, NULL, 0 }, "fold_rl_cut: agents is 1048576, steps 2048 and segment 0, must be" },
        { { 1, 2, over, NULL, NULL, 1 }, "fold_rl_cut: value is NULL, but gives what comes after a segment" },
    };
    int length[2] = { 7, 7 };
    float after[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fold_model *m = fold_model_new(NULL);
        CHECK_INT(fold_rl_cut(m, &cases[i].r, NULL, length, after), -1);
        CHECK_SAYS(!strncmp(fold_model_message(m), cases[i].says, strlen(cases[i].says)), "%s", fold_model_message(m));
        CHECK_INT(fold_model_status(m), FOLD_BAD_ARGUMENT);
        CHECK(length[0] == 7);
        fold_model_free(m);
    }
    const fold_rl_rollout fine = { 1, 2, over, NULL, NULL, 1 }, none = { 0, 2, NULL, NULL, NULL, 0 };
    CHECK_INT(fold_rl_cut(NULL, NULL, NULL, NULL, NULL), -1);
    CHECK_INT(fold_rl_cut(NULL, &fine, NULL, NULL, NULL), -1);
    CHECK_INT(fold_rl_cut(NULL, &fine, NULL, length, NULL), 2);
    CHECK_INT(fold_rl_cut(NULL, &none, NULL, length, NULL), 0);
}

/* -- log-probabilities ----------------------------------------------------------------------------- */

static void log_probabilities(void)
{
    enum { N = 5 };
    const float x[N] = { 0.3f, -2, 7, 0, -11 }, mean[N] = { 0.1f, 1, 6.5f, -0.2f, -10 }, s[N] = { -1, 0.4f, -0.3f, -2, 1 };
    double want = 0, entropy = 0, squashed = 0;
    for (int i = 0; i < N; i++) {
        const double deviation = exp((double)s[i]), z = ((double)x[i] - (double)mean[i]) / deviation, t = tanh((double)x[i]);
        want += -0.5 * z * z - log(deviation * sqrt(2 * 3.14159265358979323846));
        entropy += 0.5 * log(2 * 3.14159265358979323846 * 2.71828182845904523536 * deviation * deviation);
        squashed -= fabs((double)x[i]) < 4 ? log(1 - t * t) : log(4.0) - 2 * fabs((double)x[i]); /* 1 - t^2 cancels there */
    }
    squashed += want;
    CHECK_NEAR(fold_rl_gaussian_log_prob(x, mean, s, N), want, 1e-5);
    CHECK_NEAR(fold_rl_gaussian_entropy(s, N), entropy, 1e-5);
    CHECK_NEAR(fold_rl_squashed_log_prob(x, mean, s, N), squashed, 1e-4);
    CHECK(fold_rl_gaussian_log_prob(x, mean, s, 0) == 0 && fold_rl_gaussian_entropy(s, 0) == 0);
    fold_model *m = fold_model_new(NULL);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_node nx = fold_input(f, x, N), nm = fold_input(f, mean, N), ns = fold_input(f, s, N);
    const fold_node all[3] = { fold_gaussian_log_prob(f, nx, nm, ns), fold_gaussian_entropy(f, ns), fold_rl_squashed(f, nx, nm, ns) };
    CHECK_INT(fold_run(f, all, 3), FOLD_OK);
    CHECK_NEAR(fold_scalar(f, all[0]), fold_rl_gaussian_log_prob(x, mean, s, N), 1e-5);
    CHECK_NEAR(fold_scalar(f, all[1]), fold_rl_gaussian_entropy(s, N), 1e-5);
    CHECK_NEAR(fold_scalar(f, all[2]), fold_rl_squashed_log_prob(x, mean, s, N), 2e-5);
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- moments of observations ----------------------------------------------------------------------- */

enum { WIDTH = 3, ROWS = 500 };

/* The mean and variance of the first rows in double precision. */
static void moments_of(const float *rows, int n, double mean[WIDTH], double variance[WIDTH])
{
    for (int i = 0; i < WIDTH; i++) {
        mean[i] = variance[i] = 0;
        for (int row = 0; row < n; row++) mean[i] += (double)rows[row * WIDTH + i] / n;
        for (int row = 0; row < n; row++) variance[i] += pow((double)rows[row * WIDTH + i] - mean[i], 2) / n;
    }
}
static void draw_rows(float *rows)
{
    fold_random r = fold_random_new(3, 1);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < WIDTH; i++) rows[row * WIDTH + i] = 100.0f * (float)i + (1 + (float)i) * fold_random_normal(&r);
}
static void moments(void)
{
    static float rows[ROWS * WIDTH], seen[ROWS * WIDTH];
    double mean[WIDTH], variance[WIDTH];
    fold_model *m = fold_model_new(NULL);
    const fold_rl_moments s = fold_rl_moments_new(m, "observations", WIDTH);
    draw_rows(rows);
    for (int at = 0, step = 1; at < ROWS; at += step, step = at + 2 * step > ROWS ? ROWS - at : 2 * step) { /* 1, 2, 4, … rows */
        if (!step) break;
        CHECK_INT(fold_rl_moments_add(m, &s, rows + at * WIDTH, step), FOLD_OK);
        moments_of(rows, at + step, mean, variance);
        for (int i = 0; i < WIDTH; i++) {
            CHECK_NEAR(fold_param_value(m, s.mean)[i], mean[i], 1e-5 * (1 + 100 * i));
            CHECK_NEAR(fold_param_value(m, s.variance)[i], variance[i], 1e-4 * (1 + variance[i]));
        }
    }
    CHECK_INT(fold_rl_moments_add(m, &s, NULL, 0), FOLD_OK);
    CHECK_NEAR(fold_param_value(m, s.count)[1], ROWS, 0);
    memcpy(seen, rows, sizeof rows);
    seen[1] = 1e6f;
    CHECK_INT(fold_rl_moments_apply(m, &s, seen, ROWS), 1);
    CHECK_NEAR(seen[1], 10, 0); /* clipped */
    for (int k = 2; k < ROWS * WIDTH; k++)
        CHECK_NEAR(seen[k], ((double)rows[k] - mean[k % WIDTH]) / sqrt(variance[k % WIDTH] + 1e-8), 2e-4);
    fold_model_save(m, "build/moments.safetensors", NULL);
    fold_model *other = fold_model_new(NULL);
    const fold_rl_moments again = fold_rl_moments_new(other, "observations", WIDTH);
    CHECK_INT(fold_model_load(other, "build/moments.safetensors", NULL), FOLD_OK);
    CHECK_BITS(fold_param_value(other, again.mean), fold_param_value(m, s.mean), WIDTH);
    CHECK_BITS(fold_param_value(other, again.variance), fold_param_value(m, s.variance), WIDTH);
    CHECK_BITS(fold_param_value(other, again.count), fold_param_value(m, s.count), 2);
    fold_model_free(other);
    rows[7] = NAN;
    CHECK_INT(fold_rl_moments_add(m, &s, rows, ROWS), FOLD_BAD_ARGUMENT);
    CHECK_SAYS(strstr(fold_model_message(m), "value 1 of row 2 is nan"), "%s", fold_model_message(m));
    CHECK_NEAR(fold_param_value(m, s.count)[1], ROWS, 0);
    fold_model_clear_error(m);
    rows[7] = 2e18f;
    CHECK_INT(fold_rl_moments_add(m, &s, rows, ROWS), FOLD_BAD_ARGUMENT);
    CHECK_SAYS(strstr(fold_model_message(m), "value 1 of row 2 is 2e+18, must be in [-1e18, 1e18]"), "%s", fold_model_message(m));
    for (int bad = 0; bad < 5; bad++) {
        fold_rl_moments wrong = s;
        const float was = seen[3];
        if (bad == 0) wrong.epsilon_inside = NAN;
        if (bad == 1) wrong.epsilon_inside = -1;
        if (bad == 2) wrong.epsilon_outside = NAN;
        if (bad == 3) wrong.epsilon_outside = -0.5f;
        if (bad == 4) wrong.clip = NAN;
        CHECK_INT(fold_rl_moments_apply(m, &wrong, seen, ROWS), 0);
        CHECK_NEAR(seen[3], was, 0);
    }
    CHECK_INT(fold_rl_moments_apply(m, &s, NULL, 1), 0);
    fold_model_free(m);
}

/* Rows that come one at a time for days: floats alone would stop moving, as a step is less than half a unit. */
static void moments_one_by_one(void)
{
    enum { MANY = 2000000 };
    fold_model *m = fold_model_new(NULL);
    const fold_rl_moments s = fold_rl_moments_new(m, "o", 2);
    double sum = 0, squares = 0;
    check_random r = { 7 };
    for (int i = 0; i < MANY; i++) {
        const float row[2] = { i < MANY / 2 ? -3.0f : 3.0f, 100 + random_float(&r, -0.01f, 0.01f) };
        const double away = (double)row[1] - 100;
        sum += away;
        squares += away * away;
        fold_rl_moments_add(m, &s, row, 1);
    }
    const double mean = sum / MANY, variance = squares / MANY - mean * mean;
    CHECK_NEAR(fold_param_value(m, s.mean)[0], 0, 1e-7);
    CHECK_NEAR(fold_param_value(m, s.variance)[0], 9, 1e-6);
    CHECK_NEAR((double)fold_param_value(m, s.mean)[1] + (double)fold_param_value(m, s.rest)[1], 100 + mean, 1e-9);
    CHECK_NEAR(fold_param_value(m, s.variance)[1], variance, 1e-5 * variance);
    CHECK_INT(fold_rl_moments_add(m, &s, NULL, -1), FOLD_BAD_ARGUMENT);
    CHECK_TEXT(fold_model_message(m), "fold_rl_moments_add: rows is -1");
    fold_model_free(m);
}

/* The count goes on where a float would stop. */
static void many_rows(void)
{
    float count[2] = { 0, 0 };
    fold_rl__set_count(count, 16777216.0 * 1000);
    fold_rl__set_count(count, fold_rl__count(count) + 1);
    CHECK(fold_rl__count(count) == 16777216.0 * 1000 + 1);
}

/* Makes a safetensors file of a header and floats. Returns its size. */
static size_t put_tensor(char *file, const char *header, const float *values, int n)
{
    uint64_t length = strlen(header);
    for (int i = 0; i < 8; i++) file[i] = (char)(length >> (8 * i) & 255);
    memcpy(file + 8, header, (size_t)length);
    memcpy(file + 8 + length, values, (size_t)n * sizeof(float));
    return 8 + (size_t)length + (size_t)n * sizeof(float);
}
static void moments_of_rsl_rl(void)
{
    static const float values[8] = { 1, 2, 0.25f, 4, 0.5f, 2, 0, 0 };
    char file[1024], bad[1024];
    const size_t size = put_tensor(file, "{\"actor._mean\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                         "\"actor._var\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
                                         "\"actor._std\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[16,24]},"
                                         "\"actor.count\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}", values, 8);
    float x[2] = { 2, 6 };
    fold_model *m = fold_model_new(NULL);
    fold_tensors *t = fold_tensors_open_memory(m, file, size);
    const fold_rl_moments s = fold_rl_moments_read(t, "actor");
    CHECK_SAYS(fold_tensors_close(t) == FOLD_OK, "%s", fold_model_message(m));
    fold_rl_moments_apply(m, &s, x, 1);
    CHECK_NEAR(x[0], 1 / (0.5 + 0.01), 1e-6);
    CHECK_NEAR(x[1], 4 / (2 + 0.01), 1e-6);
    t = fold_tensors_open_memory(m, file, size);
    fold_rl_moments_read(t, "critic");
    CHECK_INT(fold_tensors_close(t), FOLD_BAD_ARGUMENT);
    CHECK_SAYS(strstr(fold_model_message(m), "critic._mean"), "%s", fold_model_message(m));
    fold_model_free(m);
    m = fold_model_new(NULL);
    const size_t other = put_tensor(bad, "{\"_mean\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                         "\"_var\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[8,20]}}", values, 5);
    t = fold_tensors_open_memory(m, bad, other);
    fold_rl_moments_read(t, NULL);
    CHECK_INT(fold_tensors_close(t), FOLD_BAD_SHAPE);
    CHECK_SAYS(strstr(fold_model_message(m), "2 means and 3 variances"), "%s", fold_model_message(m));
    fold_model_free(m);
}

/* -- policies -------------------------------------------------------------------------------------- */

/* Moments that could not be made have null handles, which stand for all parameters where values are written: nothing is. */
static void moments_that_are_not_there(void)
{
    static const float values[4] = { 1, 2, 3, 4 };
    fold_model *m = fold_model_new(NULL), *file = fold_model_new(NULL);
    const fold_param W = fold_bias_new(m, "W", 4);
    unsigned char saved[2000];
    size_t size = 0;
    for (int i = 0; i < 2; i++) {
        const fold_param p = fold_bias_new(file, i ? "o._var" : "o._mean", 2);
        fold_values_write_begin(file, p)[0] = 7;
        fold_values_write_end(file, p);
    }
    FILE *out = fopen("build/rl_twice.safetensors", "w+b");
    if (!CHECK(out != NULL)) return;
    CHECK_INT(fold_model_save_to(file, fold_to_file, out, NULL), FOLD_OK);
    rewind(out);
    size = fread(saved, 1, sizeof saved, out);
    fclose(out);
    remove("build/rl_twice.safetensors");
    fold_bias_new(m, "V.count", 2);
    for (int way = 0; way < 5; way++) { /* all zero, names that are taken, a file that lacks it, one that is read twice, a part of a name */
        fold_rl_moments moments;
        memset(&moments, 0, sizeof moments);
        fold_tensors *t = fold_tensors_open_memory(m, saved, size);
        if (way == 1) moments = fold_rl_moments_new(m, "W", 2), moments = fold_rl_moments_new(m, "W", 2);
        if (way == 2) moments = fold_rl_moments_read(t, "none");
        if (way == 3) moments = fold_rl_moments_read(t, "o"), moments = fold_rl_moments_read(t, "o");
        if (way == 4) moments = fold_rl_moments_new(m, "V", 2); /* of which all but the count could be made */
        if (way) CHECK_INT(fold_model_status(m), FOLD_BAD_ARGUMENT);
        fold_tensors_close(t);
        fold_model_clear_error(m);
        float x[4] = { 1, 2, 3, 4 };
        fold_rl_moments_apply(m, &moments, x, 1);
        if (way < 4) CHECK_BITS(x, values, 4);
        CHECK_INT(fold_rl_moments_add(m, &moments, values, 2), FOLD_BAD_ARGUMENT);
        CHECK_TEXT(fold_model_message(m), "fold_rl_moments_add: moments or values is NULL");
        for (int i = 0; i < 4; i++) CHECK_NEAR(fold_param_value(m, W)[i], 0, 0);
        fold_model_clear_error(m);
    }
    fold_model_free(file);
    fold_model_free(m);
}

static void dense_scales(void)
{
    enum { IN = 7, OUT = 4 };
    fold_model *m = fold_model_new(NULL);
    const fold_dense layer = fold_rl_dense_new(m, "actor", IN, OUT, FOLD_ACT_LINEAR, 0.01f);
    const float *W = fold_param_value(m, layer.W);
    for (int a = 0; a < OUT; a++)
        for (int b = 0; b < OUT; b++) {
            double sum = 0;
            for (int i = 0; i < IN; i++) sum += (double)W[i * OUT + a] * (double)W[i * OUT + b];
            CHECK_NEAR(sum, a == b ? 1e-4 : 0, 1e-8);
        }
    CHECK(!fold_param_is_null(fold_param_find(m, "actor.W")) && !fold_param_is_null(fold_param_find(m, "actor.b")));
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    fold_rl_dense_new(m, name, 2, 2, FOLD_ACT_LINEAR, 1);
    CHECK_SAYS(strstr(fold_model_message(m), "is too long"), "%s", fold_model_message(m));
    fold_model_free(m);
}

/* A step is one call, and has the bits of its layers one by one. */
static void policies(void)
{
    enum { IN = 5, HIDDEN = 12, ACTIONS = 3, STEPS_OF = 4 };
    fold_recurrent_maker *const make[] = { fold_lstm_new, fold_gru_new, NULL };
    static const int outputs[] = { 4, 3, 2 }; /* the call's, which is one */
    fold_random r = fold_random_new(4, 0);
    float x[STEPS_OF][IN];
    for (int t = 0; t < STEPS_OF; t++) fold_random_gaussian(&r, NULL, NULL, IN, x[t]);
    for (int kind = 0; kind < 3; kind++) {
        fold_model *m = fold_model_new(NULL);
        const fold_rl_policy p = fold_rl_policy_new(m, "player", make[kind], IN, HIDDEN, ACTIONS);
        fold_ctx *f = fold_ctx_new(m, NULL);
        fold_state one = { { 0, 0 }, { 0, 0 } }, apart = one;
        if (make[kind]) one = apart = fold_recurrent_zeros(f, &p.memory);
        for (int t = 0; t < STEPS_OF; t++) {
            const fold_node in = fold_input(f, x[t], IN);
            const int before = fold_ctx_stats(f).nodes;
            const fold_rl_step step = fold_rl_policy_apply(f, &p, in, one);
            CHECK_INT(fold_ctx_stats(f).nodes - before, outputs[kind]);
            fold_node h = fold_tanh(f, fold_linear(f, in, p.encoder.layer[0].W, p.encoder.layer[0].b));
            if (make[kind]) {
                apart = fold_recurrent_apply(f, &p.memory, h, apart);
                h = apart.h;
            }
            const fold_node roots[4] = { step.actor, step.critic, fold_dense_apply(f, &p.actor, h), fold_dense_apply(f, &p.critic, h) };
            CHECK_SAYS(!fold_run(f, roots, 4), "%s", fold_ctx_message(f));
            CHECK_BITS(fold_value(f, roots[0]), fold_value(f, roots[2]), ACTIONS);
            CHECK_BITS(fold_value(f, roots[1]), fold_value(f, roots[3]), 1);
            one = step.state;
        }
        fold_ctx_free(f);
        fold_model_free(m);
    }
    fold_model *m = fold_model_new(NULL);
    CHECK_INT(fold_rl_policy_assemble(m, "none", NULL), FOLD_BAD_ARGUMENT);
    fold_model_clear_error(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    const fold_state none = { { 0, 0 }, { 0, 0 } };
    CHECK(fold_node_is_null(fold_rl_policy_apply(f, NULL, fold_constant(f, 1), none).actor));
    CHECK_SAYS(strstr(fold_ctx_message(f), "policy is NULL"), "%s", fold_ctx_message(f));
    fold_ctx_free(f);
    fold_model_free(m);
}

/* -- the loss of PPO ------------------------------------------------------------------------------- */

static void losses(void)
{
    enum { N = 6 };
    const float old[N] = { -1, -2, -0.5f, -1, -3, -1 }, now[N] = { -1, -1, -1.5f, -0.9f, -1, -2 }, value[N] = { 0, 1, 2, -1, 0.5f, 3 };
    const float advantage[N] = { 1, 1, 1, -1, -1, -1 }, target[N] = { 1, 1, 0, 0, 0.25f, -2 }, entropy[N] = { 1, 0.5f, 0.2f, 0, 1, 2 };
    const fold_rl_ppo o = { 0.2f, 0.5f, 0.1f };
    const fold_rl_steps steps = { old, advantage, target, N };
    double want = 0, slope[N];
    for (int i = 0; i < N; i++) {
        const double ratio = exp((double)now[i] - (double)old[i]), a = (double)advantage[i], error = (double)value[i] - (double)target[i];
        const double careful = (ratio < 0.8 ? 0.8 : ratio > 1.2 ? 1.2 : ratio) * a;
        want += 0.5 * error * error - (ratio * a < careful ? ratio * a : careful) - 0.1 * (double)entropy[i];
        slope[i] = ratio * a <= careful ? -ratio * a : 0;
    }
    for (int eager = 0; eager < 2; eager++) {
        fold_ctx_desc d = fold_ctx_desc_default();
        d.training = 1;
        d.eager = eager;
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, &d);
        fold_param_desc pd = fold_param_desc_default();
        pd.name = "now";
        pd.shape = fold_shape2(N, 1);
        pd.values = now;
        pd.uses = FOLD_FOR_LOOKUP;
        const fold_param p = fold_param_new(m, &pd);
        const int rows[N] = { 0, 1, 2, 3, 4, 5 };
        const fold_node list = fold_list_lookup(f, p, rows, N);
        const fold_node loss = fold_rl_ppo_loss(f, &o, &steps, list, fold_list_input(f, entropy, N, fold_shape1(1)),
                                                fold_list_input(f, value, N, fold_shape1(1)));
        CHECK_SAYS(!fold_backward(f, loss), "%s", fold_ctx_message(f));
        CHECK_NEAR(fold_scalar(f, loss), want, 1e-5);
        for (int i = 0; i < N; i++) CHECK_NEAR(fold_param_grad(m, p)[i], slope[i], 1e-5);
        CHECK(fold_node_is_null(fold_rl_ppo_loss(f, NULL, &steps, list, list, list)));
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

/* Illegal moves have a logit of -infinity: probabilities, entropies, losses and gradients are those of the legal moves. */
static void moves_ruled_out(void)
{
    const float values[3] = { 0.5f, -1, 2 }, mask[3] = { 0, 0, -INFINITY };
    const double e = exp(0.5), g = exp(-1.0), p = e / (e + g), q = g / (e + g), entropy = -p * log(p) - q * log(q);
    for (int as_list = 0; as_list < 3; as_list++)
        for (int eager = 0; eager < 2; eager++) {
            fold_ctx_desc d = fold_ctx_desc_default();
            d.training = 1;
            d.eager = eager;
            fold_model *m = fold_model_new(NULL);
            fold_param_desc pd = fold_param_desc_default();
            pd.name = "logits", pd.shape = fold_shape1(3), pd.values = values;
            const fold_param logits = fold_param_new(m, &pd);
            fold_ctx *f = fold_ctx_new(m, &d);
            const int to[3] = { 0, 0, 0 }, label = 0;
            const fold_node x = fold_add(f, fold_use(f, logits), fold_input(f, mask, 3)), list = fold_list_unstack(f, x);
            const fold_node spread = as_list == 0   ? fold_softmax_entropy(f, x)
                                     : as_list == 1 ? fold_list_softmax_entropy(f, list)
                                                    : fold_list_at(f, fold_list_softmax_entropy_to(f, list, to, 3, 1), 0);
            const fold_node loss = as_list == 0   ? fold_softmax_xent(f, x, 0)
                                   : as_list == 1 ? fold_list_choice_xent(f, list, 0)
                                                  : fold_list_at(f, fold_list_choice_xent_to(f, list, &label, to, 3, 1), 0);
            const fold_node scaled = fold_scale(f, spread, 0.5f);
            fold_keep(f, spread);
            CHECK_SAYS(!fold_backward(f, fold_sub(f, loss, scaled)), "%s", fold_ctx_message(f));
            CHECK_NEAR(fold_scalar(f, spread), entropy, 1e-6);
            const float *grad = fold_param_grad(m, logits);
            CHECK_NEAR(grad[0], p - 1 + 0.5 * p * (log(p) + entropy), 1e-6);
            CHECK_NEAR(grad[1], q + 0.5 * q * (log(q) + entropy), 1e-6);
            CHECK_NEAR(grad[2], 0, 0);
            fold_ctx_free(f);
            fold_model_free(m);
        }
}

static void losses_refused(void)
{
    enum { N = 3 };
    static const float values[N] = { 0, 0, 0 };
    static const struct { fold_rl_ppo o; int n, log_prob, entropy, value; const char *says; } cases[] = {
        { { 0.2f, 0.5f, 0.1f }, N, N, 0, N, NULL }, /* one entropy for all */
        { { 0, 0.5f, 0.1f }, N, N, N, N, "fold_rl_ppo_loss: clip is 0, must be above 0" },
        { { NAN, 0.5f, 0.1f }, N, N, N, N, "fold_rl_ppo_loss: clip is nan, must be above 0" },
        { { 0.2f, NAN, 0.1f }, N, N, N, N, "fold_rl_ppo_loss: value_share is nan and entropy_share 0.1, must be finite" },
        { { 0.2f, 0.5f, INFINITY }, N, N, N, N, "fold_rl_ppo_loss: value_share is 0.5 and entropy_share inf, must be finite" },
        { { 0.2f, 0.5f, 0.1f }, 2, N, N, N, "fold_rl_ppo_loss: log_prob has 3 rows, but steps->n is 2" },
        { { 0.2f, 0.5f, 0.1f }, N, N, 2, N, "fold_rl_ppo_loss: entropy has 2 rows, but steps->n is 3" },
        { { 0.2f, 0.5f, 0.1f }, N, N, N, 0, "fold_rl_ppo_loss: value is one node, must be a list of 3 rows" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fold_model *m = fold_model_new(NULL);
        fold_ctx *f = fold_ctx_new(m, NULL);
        const fold_rl_steps steps = { values, values, values, cases[i].n };
        const int rows[3] = { cases[i].log_prob, cases[i].entropy, cases[i].value };
        fold_node x[3];
        for (int k = 0; k < 3; k++)
            x[k] = rows[k] ? fold_list_input(f, values, rows[k], fold_shape1(1)) : fold_input(f, values, 1);
        const fold_node loss = fold_rl_ppo_loss(f, &cases[i].o, &steps, x[0], x[1], x[2]);
        CHECK_INT(fold_node_is_null(loss), cases[i].says != NULL);
        CHECK_SAYS(!strcmp(fold_ctx_message(f), cases[i].says ? cases[i].says : ""), "%s", fold_ctx_message(f));
        fold_ctx_free(f);
        fold_model_free(m);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("advantages", advantages);
    check_run("bad rewards", bad_rewards);
    check_run("standardized", standardized);
    check_run("cuts", cuts);
    check_run("cuts that are refused", cuts_refused);
    check_run("log-probabilities", log_probabilities);
    check_run("moments", moments);
    check_run("moments, row by row", moments_one_by_one);
    check_run("many rows", many_rows);
    check_run("moments of rsl_rl", moments_of_rsl_rl);
    check_run("moments that are not there", moments_that_are_not_there);
    check_run("dense scales", dense_scales);
    check_run("policies", policies);
    check_run("moves that are ruled out", moves_ruled_out);
    check_run("losses", losses);
    check_run("losses that are refused", losses_refused);
    return check_finish();
}
