/* policy.h - a policy written by hand in plain C: two dense layers with ReLU, a GRU and a head, of 16 to 64 to 64 to 64 to 8
   values. It is a translation unit of its own, so that the compiler may use all it knows: -O3 -march=native. */

enum { POLICY_IN = 16, POLICY_HIDDEN = 64, POLICY_OUT = 8, POLICY_WEIGHTS = 10 };

/* W and b of the first and the second layer; W, b, U, c of the GRU, whose gates are r, z and n; W and b of the head. Matrices have
   a row for each input. */
typedef struct policy_weights { const float *of[POLICY_WEIGHTS]; } policy_weights;

/* A step of so many agents: what they observe and remember, one after the other; what they then remember, and the head's values. */
typedef void policy_function(const policy_weights *w, int agents, const float *observed, const float *memory, float *next, float *out);
policy_function policy_by_hand;
