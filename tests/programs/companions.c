/* All headers that stand beside fold.h, for cc -I. */
#include "fold.h"
#define FOLD_DRAW_IMPLEMENTATION
#include "examples/fold_draw.h"
#define FOLD_FIT_IMPLEMENTATION
#include "examples/fold_fit.h"
#define FOLD_ONNX_IMPLEMENTATION
#include "examples/fold_onnx.h"
#define FOLD_RECORD_IMPLEMENTATION
#include "examples/fold_record.h"
#define FOLD_RL_IMPLEMENTATION
#include "examples/fold_rl.h"
#define FOLD_TORCH_IMPLEMENTATION
#include "examples/fold_torch.h"
#define FOLD_TO_C_IMPLEMENTATION
#include "examples/fold_to_c.h"
int main(void) { return 0; }
