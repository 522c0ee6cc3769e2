/* All companions, for each file of a program that has a draw.h, fit.h and data.h of its own: cc -IDIRECTORY -I. -Iexamples. fold.h is
   left to them to include. One file defines IMPLEMENTS and holds the implementations; with FOLD_STATIC each does. */
#include "data.h"
#include "draw.h"
#include "fit.h"
#ifdef IMPLEMENTS
#define FOLD_IMPLEMENTATION
#define FOLD_DRAW_IMPLEMENTATION
#define FOLD_FIT_IMPLEMENTATION
#define FOLD_ONNX_IMPLEMENTATION
#define FOLD_RECORD_IMPLEMENTATION
#define FOLD_RL_IMPLEMENTATION
#define FOLD_TORCH_IMPLEMENTATION
#define FOLD_TO_C_IMPLEMENTATION
#endif
#include "fold_draw.h"
#include "fold_fit.h"
#include "fold_onnx.h"
#include "fold_record.h"
#include "fold_rl.h"
#include "fold_to_c.h"
#include "fold_torch.h"
