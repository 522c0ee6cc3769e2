# from_python: trains with a shared library of fold.h, through ctypes
#     cc -O2 -shared -fPIC -DFOLD_IMPLEMENTATION -x c fold.h -o libfold.so -lm && python3 examples/cookbook/from_python.py
import ctypes
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_float, c_int, c_uint32, c_void_p

class Handle(Structure):  # fold_node, fold_param: two 32-bit numbers, passed by value
    _fields_ = [("id", c_uint32), ("salt", c_uint32)]
class CtxDesc(Structure):  # the first member of fold_ctx_desc; the rest stays zero, which means the defaults
    _fields_ = [("training", c_int), ("rest", c_char * 1024)]
class Sgd(Structure):
    _fields_ = [("rate", c_float), ("momentum", c_float), ("decay", c_float)]

fold = ctypes.CDLL("./libfold.so")
def declare(name, result, *arguments):  # else ctypes cuts pointers to ints
    getattr(fold, name).restype, getattr(fold, name).argtypes = result, arguments
declare("fold_model_new", c_void_p, c_void_p)
declare("fold_weight_new", Handle, c_void_p, c_char_p, c_int, c_int)
declare("fold_bias_new", Handle, c_void_p, c_char_p, c_int)
declare("fold_ctx_new", c_void_p, c_void_p, POINTER(CtxDesc))
declare("fold_ctx_reset", None, c_void_p)
declare("fold_ctx_message", c_char_p, c_void_p)
declare("fold_input", Handle, c_void_p, POINTER(c_float), c_int)
declare("fold_linear", Handle, c_void_p, Handle, Handle, Handle)
declare("fold_softmax_xent", Handle, c_void_p, Handle, c_int)
declare("fold_mean_n", Handle, c_void_p, POINTER(Handle), c_int)
declare("fold_backward", c_int, c_void_p, Handle)
declare("fold_sgd_step", c_int, c_void_p, POINTER(Sgd))
declare("fold_scalar", c_float, c_void_p, Handle)

model = fold.fold_model_new(None)
W, b = fold.fold_weight_new(model, b"W", 3, 2), fold.fold_bias_new(model, b"b", 2)
ctx = fold.fold_ctx_new(model, byref(CtxDesc(training=1)))
samples = [((c_float * 3)(1, 2, 3), 0), ((c_float * 3)(-1, 0, 1), 1)]
for step in range(200):
    fold.fold_ctx_reset(ctx)
    losses = [fold.fold_softmax_xent(ctx, fold.fold_linear(ctx, fold.fold_input(ctx, x, 3), W, b), label)
              for x, label in samples]
    mean = fold.fold_mean_n(ctx, (Handle * len(losses))(*losses), len(losses))
    if fold.fold_backward(ctx, mean) or fold.fold_sgd_step(model, byref(Sgd(rate=0.1))):
        raise RuntimeError(fold.fold_ctx_message(ctx).decode())
loss = fold.fold_scalar(ctx, mean)
print(f"loss {loss:.4f}")
assert loss < 0.1
