/* All headers that stand beside fold.h, for cc -I. */
#include "fold.h"
#define DRAW_IMPLEMENTATION
#include "examples/draw.h"
#define FIT_IMPLEMENTATION
#include "examples/fit.h"
#define ONNX_IMPLEMENTATION
#include "examples/onnx.h"
#define RL_IMPLEMENTATION
#include "examples/rl.h"
#define TORCH_IMPLEMENTATION
#include "examples/torch.h"
#define TO_C_IMPLEMENTATION
#include "examples/to_c.h"
int main(void) { return 0; }
