#!/usr/bin/env python3
"""Holds convolutions and pools to PyTorch's, in double precision: values and gradients, with weights and images brought over
by the permutations that fold.h tells. Builds fold.h as a shared library; CC chooses the compiler.
    python3 tests/check_torch.py        (python3 with torch; skips aloud without)"""

import ctypes
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as functional
except ImportError:
    print("SKIPPED: convolutions beside PyTorch's (this python3 has no torch)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)


class Handle(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("salt", ctypes.c_uint32)]


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("dim", ctypes.c_int * 4)]


class Conv(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("stride", "padding", "dilation", "depthwise")]


def library():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    with tempfile.TemporaryDirectory() as folder:
        source, built = os.path.join(folder, "fold.c"), os.path.join(folder, "fold.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#define FOLD_IMPLEMENTATION\n#include "fold.h"\n'
                       "fold_ctx *training_ctx(fold_model *m);\n"
                       "fold_ctx *training_ctx(fold_model *m) { fold_ctx_desc d = fold_ctx_desc_default();\n"
                       "    d.training = 1; return fold_ctx_new(m, &d); }\n")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-I" + root, "-o", built, source, "-lm"], check=True)
        fold = ctypes.CDLL(built)
    for name in ("model_new", "ctx_message", "model_message", "value", "grad", "param_grad", "values_write_begin"):
        getattr(fold, "fold_" + name).restype = ctypes.c_void_p
    fold.training_ctx.restype = ctypes.c_void_p
    for name in ("filter_new", "bias_new", "input_shaped", "conv1d", "conv2d", "max_pool1d", "max_pool2d", "mean_pool1d",
                 "mean_pool2d", "dot"):
        getattr(fold, "fold_" + name).restype = Handle
    return fold


FOLD = library()


def shape_of(tensor):
    return Shape(tensor.dim(), (ctypes.c_int * 4)(*tensor.shape))


def floats(tensor):
    return (ctypes.c_float * tensor.numel())(*tensor.detach().float().flatten().tolist())


def tensor_at(address, shape):
    count = torch.Size(shape).numel()
    return torch.tensor(list((ctypes.c_float * count).from_address(address)), dtype=torch.float64).reshape(shape)


def channels_last(image):
    return image.permute(*range(1, image.dim()), 0)


def write(model, param, values):
    ctypes.memmove(FOLD.fold_values_write_begin(model, param), floats(values), 4 * values.numel())
    FOLD.fold_values_write_end(model, param)


def compare(name, pairs):
    """Whether all are equal but for float32's rounding."""
    for what, got, want in pairs:
        wrong = 1.0 if got.shape != want.shape else ((got - want).abs() / (1 + want.abs())).max().item()
        if not wrong < 2e-5:
            print(f"FAILED: {name}: {what} is wrong by {wrong:g}, shapes {tuple(got.shape)} and {tuple(want.shape)}")
            return False
    return True


def run(name, model, record, image, params, wanted):
    """Runs what `record` makes of an image, and backward from its product with fixed factors. params: those of fold.h, what
    they are in PyTorch, and the permutation between."""
    ctx = ctypes.c_void_p(FOLD.training_ctx(model))
    x = FOLD.fold_input_shaped(ctx, floats(channels_last(image)), shape_of(channels_last(image)))
    y = record(ctx, x)
    want = channels_last(wanted)
    factors = torch.randn(want.shape, dtype=torch.float64)
    (want * factors).sum().backward()
    FOLD.fold_keep(ctx, y)
    FOLD.fold_keep_grad(ctx, x)
    status = FOLD.fold_backward(ctx, FOLD.fold_dot(ctx, y, FOLD.fold_input_shaped(ctx, floats(factors), shape_of(factors))))
    if status:
        print(f"FAILED: {name}: {ctypes.string_at(FOLD.fold_ctx_message(ctx)).decode()}")
        return False
    shape = FOLD.fold_node_shape(ctx, y)
    pairs = [("its value", tensor_at(FOLD.fold_value(ctx, y), tuple(shape.dim[:shape.rank])), want.detach()),
             ("the gradient of x", tensor_at(FOLD.fold_grad(ctx, x), channels_last(image).shape), channels_last(image.grad))]
    for param, leaf, order in params:
        grad = leaf.grad.permute(*order)
        pairs.append(("a parameter's gradient", tensor_at(FOLD.fold_param_grad(model, param), grad.shape), grad))
    same = compare(name, pairs)
    FOLD.fold_ctx_free(ctx)
    return same


def random(*shape):
    return torch.randn(*shape).double().requires_grad_()  # floats, as fold.h has them


def convolution(size, inputs, outputs, taps, stride, padding, dilation, depthwise):
    lines = len(size) == 1
    name = f"conv{len(size)}d {size} {inputs}->{outputs} {taps} stride {stride} padding {padding} dilation {dilation}"
    image, bias = random(inputs, *size), random(outputs)
    torch_weight = random(outputs, 1 if depthwise else inputs, *taps)
    wanted = (functional.conv1d if lines else functional.conv2d)(image[None], torch_weight, bias, stride, padding, dilation,
                                                                 inputs if depthwise else 1)[0]
    order = (2, 1, 0) if lines else (2, 3, 1, 0)  # as fold.h tells
    weight = torch_weight.permute(*order)
    model = ctypes.c_void_p(FOLD.fold_model_new(None))
    param = FOLD.fold_filter_new(model, b"W", shape_of(weight)), FOLD.fold_bias_new(model, b"b", outputs)
    write(model, param[0], weight)
    write(model, param[1], bias)
    desc = Conv(stride, padding, dilation, depthwise)
    call = FOLD.fold_conv1d if lines else FOLD.fold_conv2d
    same = run(name, model, lambda ctx, x: call(ctx, x, param[0], param[1], ctypes.byref(desc)), image,
               ((param[0], torch_weight, order), (param[1], bias, (0,))), wanted)
    FOLD.fold_model_free(model)
    return same


def pool(kind, size, channels, window, stride, padding):
    rank = len(size)
    image = random(channels, *size)
    if kind == "max":
        wanted = getattr(functional, f"max_pool{rank}d")(image[None], window, stride or None, padding)[0]
    else:
        wanted = getattr(functional, f"avg_pool{rank}d")(image[None], window, stride or None, padding, count_include_pad=False)[0]
    model = ctypes.c_void_p(FOLD.fold_model_new(None))
    call = getattr(FOLD, f"fold_{kind}_pool{rank}d")
    name = f"{kind}_pool{rank}d {size} {window} stride {stride} padding {padding}"
    same = run(name, model, lambda ctx, x: call(ctx, x, window, stride, padding), image, (), wanted)
    FOLD.fold_model_free(model)
    return same


def main():
    torch.manual_seed(1)
    FOLD.fold_node_shape.restype = Shape
    results = []
    for stride in (1, 2, 3):
        for padding in (0, 1, 2):
            for dilation in (1, 2):
                results.append(convolution((13, 11), 5, 18, (3, 3), stride, padding, dilation, 0))
                results.append(convolution((10, 9), 16, 7, (2, 3), stride, min(padding, 1), dilation, 0))
                results.append(convolution((40,), 3, 16, (5,), stride, padding, dilation, 0))
                results.append(convolution((9, 12), 6, 6, (3, 3), stride, padding, dilation, 1))
                results.append(convolution((31,), 17, 17, (4,), stride, padding, dilation, 1))
    for kind in ("max", "mean"):
        for window, stride, padding in ((2, 0, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0), (4, 2, 2)):
            results.append(pool(kind, (11, 8), 5, window, stride, padding))
            results.append(pool(kind, (23,), 16, window, stride, padding))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
