/* policy.c - see policy.h. */
#include "policy.h"
#include <math.h>

static void linear(const float *restrict x, int inputs, const float *restrict W, const float *restrict b, int outputs, float *restrict y)
{
    for (int j = 0; j < outputs; j++) y[j] = b[j];
    for (int i = 0; i < inputs; i++)
        for (int j = 0; j < outputs; j++) y[j] += x[i] * W[i * outputs + j];
}
static void relu(float *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
}
static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

static void gru(const float *x, const float *h, const float *const *w, float *restrict next)
{
    enum { H = POLICY_HIDDEN };
    float from_x[3 * H], from_h[3 * H];
    linear(x, H, w[0], w[1], 3 * H, from_x);
    linear(h, H, w[2], w[3], 3 * H, from_h);
    for (int i = 0; i < H; i++) {
        const float reset = sigmoid(from_x[i] + from_h[i]), keep = sigmoid(from_x[H + i] + from_h[H + i]);
        const float now = tanhf(from_x[2 * H + i] + reset * from_h[2 * H + i]);
        next[i] = now + keep * (h[i] - now);
    }
}

void policy_by_hand(const policy_weights *w, int agents, const float *observed, const float *memory, float *next, float *out)
{
    for (int i = 0; i < agents; i++) {
        float first[POLICY_HIDDEN], second[POLICY_HIDDEN];
        linear(observed + i * POLICY_IN, POLICY_IN, w->of[0], w->of[1], POLICY_HIDDEN, first);
        relu(first, POLICY_HIDDEN);
        linear(first, POLICY_HIDDEN, w->of[2], w->of[3], POLICY_HIDDEN, second);
        relu(second, POLICY_HIDDEN);
        gru(second, memory + i * POLICY_HIDDEN, w->of + 4, next + i * POLICY_HIDDEN);
        linear(next + i * POLICY_HIDDEN, POLICY_HIDDEN, w->of[8], w->of[9], POLICY_OUT, out + i * POLICY_OUT);
    }
}
