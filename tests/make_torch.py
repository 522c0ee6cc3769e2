#!/usr/bin/env python3
"""Makes files of modules of PyTorch, with inputs and what the modules make of them, for tests/test_torch.c and README.md.

    python3 tests/make_torch.py tests        torch.safetensors and tagger.safetensors, as they are kept there
    python3 tests/make_torch.py FILE SEED    modules of other sizes
    python3 tests/make_torch.py --back FILE.out SEED    loads them from what test_torch wrote: they must do what they did

Case k of a file has the tensors k.options (the kind, and what a state_dict does not tell), k.m.… (the state_dict), k.x and k.y. Of
the sum of y's values times `factors`, k.dx is the gradient, k.g.… are those of the parameters, and k.dp is the sum of all parameters
times their gradients. A batch norm has no k.g.…, since fold.h folds its statistics into its gain and bias. All of it is computed in
double precision. `cases` is how many there are."""

import os
import random
import struct
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_safetensors import check, write  # noqa: E402

KINDS = ("linear", "embedding", "norm", "conv", "rnn", "lstm", "gru", "attention", "transformer", "cnn", "relu",
         "encoder", "line")
LINEAR, RELU, GELU = 0, 1, 5  # fold_activation
LAYER, RMS, FIXED = 0, 1, 2  # fold_norm_kind
TYPES = {torch.float32: ("F32", "f"), torch.float64: ("F64", "d"), torch.float16: ("F16", "e"), torch.int64: ("I64", "q")}


def factors(count):
    return torch.tensor([(k * 7 % 11 - 5) / 8 for k in range(count)], dtype=torch.float64)


class RMSNorm(nn.Module):
    """Which older versions of PyTorch have not."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + torch.finfo(torch.float32).eps).sqrt() * self.weight


class Cnn(nn.Module):
    """Images [channels x 8 x 10]; what follows nn.Flatten reads values with their channels first."""

    def __init__(self, channels, inside, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, inside, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(inside)
        self.out = nn.Linear(inside * 4 * 5, outputs)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.out(torch.flatten(nn.functional.max_pool2d(x, 2), 1))


class Line(nn.Module):
    """A convolution over a list [length x channels] of any length, then pools."""

    def __init__(self, inputs, outputs, taps, stride, padding, dilation, depthwise):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, taps, stride, padding, dilation, inputs if depthwise else 1)

    def forward(self, x):
        y = torch.relu(self.conv(x.T[None]))
        y = nn.functional.avg_pool1d(nn.functional.max_pool1d(y, 3, 1, 1), 2, 1, 1, count_include_pad=False)
        return y[0].T


class Tagger(nn.Module):
    """The network of README.md."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 3, bidirectional=True, batch_first=True)
        self.tag = nn.Linear(6, 3)

    def forward(self, sentence):
        return self.tag(self.lstm(self.words(sentence))[0])


def shake(module):
    """Random values everywhere, so that nothing hides behind a zero or a one; floats, computed with as doubles."""
    with torch.no_grad():
        for name, value in list(module.named_parameters()) + list(module.named_buffers()):
            if value.dtype.is_floating_point:
                scale = min(0.4, 0.8 / (value.numel() / value.shape[0]) ** 0.5)  # larger ones make recurrences chaotic
                value.copy_(torch.rand(value.shape) + 0.5 if "var" in name else torch.randn(value.shape) * scale)
    return module.double().eval()


def random_input(*shape):
    return torch.randn(*shape).double().requires_grad_()


def causal_mask(rows, columns):
    return torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)


class Cases:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.random = random.Random(seed)
        self.tensors, self.count, self.modules = [], 0, []

    def size(self, most):
        return self.random.randint(1, most)

    def put(self, name, tensor):
        """A tensor of doubles is kept as floats."""
        tensor = tensor.detach()
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        if tensor.dtype == torch.bfloat16:
            raw = b"".join(struct.pack("<f", value)[2:] for value in tensor.float().flatten().tolist())
            self.tensors.append((name, "BF16", list(tensor.shape), raw))
            return
        kind, letter = TYPES[tensor.dtype]
        raw = struct.pack(f"<{tensor.numel()}{letter}", *tensor.flatten().tolist())
        self.tensors.append((name, kind, list(tensor.shape), raw))

    def case(self, kind, module, options, call, x, beside=(), dtype=None):
        """call makes y of x; beside: other inputs, by name. dtype: that of the file's weights."""
        shake(module)
        if dtype:
            module.to(dtype).double()
        y = call(module, x)
        k = self.count
        self.count += 1
        self.modules.append((module, call, x.detach(), y.detach()))
        self.put(f"{k}.options", torch.tensor([KINDS.index(kind)] + list(options) + [0] * (7 - len(options)), dtype=torch.float64))
        for name, value in module.state_dict().items():
            self.put(f"{k}.m.{name}", value.to(dtype) if dtype and value.dtype.is_floating_point else value)
        for name, value in dict(beside, x=x, y=y).items():
            self.put(f"{k}.{name}", value)
        (y.flatten() * factors(y.numel())).sum().backward()
        normed = [name for name, part in module.named_modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        for name, parameter in module.named_parameters():
            if name.rpartition(".")[0] not in normed:
                self.put(f"{k}.g.{name}", parameter.grad)
        self.put(f"{k}.dp", sum((p * p.grad).sum() for p in module.parameters()).reshape(1) if list(module.parameters()) else torch.zeros(1))
        if x.requires_grad:
            self.put(f"{k}.dx", x.grad)

    # -- kinds ----------------------------------------------------------------------------------

    def linear(self, inputs, outputs, bias=True, activation=LINEAR, dtype=None):
        after = {LINEAR: lambda y: y, RELU: torch.relu}[activation]
        self.case("linear", nn.Linear(inputs, outputs, bias), [activation], lambda m, x: after(m(x)),
                  random_input(self.size(5), inputs), dtype=dtype)

    def embedding(self, rows, width):
        self.case("embedding", nn.Embedding(rows, width), [], lambda m, x: m(x.long()), torch.randint(rows, (7,)).double())

    def norm(self, width, kind, epsilon=0.0):
        """Batch norm is of rows or, by its options, of images with their channels first."""
        x = random_input(self.size(6), width)
        if kind == LAYER:
            module = nn.LayerNorm(width, epsilon) if epsilon else nn.LayerNorm(width)
        elif kind == RMS:
            module = getattr(nn, "RMSNorm", RMSNorm)(width)
        else:
            module = nn.BatchNorm1d(width, epsilon) if epsilon else nn.BatchNorm1d(width)
        self.case("norm", module, [kind, epsilon], lambda m, x: m(x), x)

    def norm_of_images(self, channels, affine=True):
        self.case("norm", nn.BatchNorm2d(channels, affine=affine), [FIXED, 0], lambda m, x: m(x[None])[0],
                  random_input(channels, 3, 4))

    def conv(self, size, inputs, outputs, taps, stride=1, padding=0, dilation=1, depthwise=False, bias=True, activation=LINEAR):
        make = nn.Conv1d if len(size) == 1 else nn.Conv2d
        module = make(inputs, outputs, taps, stride, padding, dilation, inputs if depthwise else 1, bias)
        after = {LINEAR: lambda y: y, RELU: torch.relu}[activation]
        self.case("conv", module, [activation, stride, padding, dilation, int(depthwise)],
                  lambda m, x: after(m(x[None])[0]), random_input(inputs, *size))

    def recurrent(self, kind, inputs, hidden, layers=1, bidirectional=False, bias=True, steps=5):
        make = {"rnn": nn.RNN, "relu": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[kind]
        of_relu = {"nonlinearity": "relu"} if kind == "relu" else {}
        self.case(kind, make(inputs, hidden, layers, bias=bias, bidirectional=bidirectional, **of_relu), [], lambda m, x: m(x[:, None])[0][:, 0],
                  random_input(steps, inputs))

    def cell(self, kind, inputs, hidden, steps=4):
        def call(m, x):
            state, rows = None, []
            for row in x:
                state = m(row[None], state)
                rows.append(state[0] if kind == "lstm" else state)
            return torch.cat(rows)
        make = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}[kind]
        self.case(kind, make(inputs, hidden), [], call, random_input(steps, inputs))

    def attention(self, width, heads, rows=4, causal=False, bias=True, keys=None):
        """keys: (rows, width of keys, of values), of attention to other rows."""
        module = nn.MultiheadAttention(width, heads, bias=bias, kdim=keys and keys[1], vdim=keys and keys[2])
        x = random_input(rows, width)
        beside = {"k": torch.randn(keys[0], keys[1]).double(), "v": torch.randn(keys[0], keys[2]).double()} if keys else {}
        mask = causal_mask(rows, keys[0] if keys else rows) if causal else None

        def call(m, x):
            k, v = beside.get("k", x), beside.get("v", x)
            return m(x[:, None], k[:, None], v[:, None], need_weights=False, attn_mask=mask)[0][:, 0]
        self.case("attention", module, [heads, int(causal)], call, x, beside)

    def transformer(self, width, heads, inner, norm_first=False, gelu=False, causal=False, rows=5, epsilon=1e-5):
        module = nn.TransformerEncoderLayer(width, heads, inner, 0.1, "gelu" if gelu else "relu", epsilon, norm_first=norm_first)
        mask = causal_mask(rows, rows) if causal else None
        self.case("transformer", module, [heads, GELU if gelu else RELU, int(norm_first), int(causal), epsilon],
                  lambda m, x: m(x[:, None], src_mask=mask)[:, 0], random_input(rows, width))

    def encoder(self, width, heads, inner, layers, norm=True, norm_first=False, gelu=False, causal=False, rows=5, epsilon=1e-5):
        layer = nn.TransformerEncoderLayer(width, heads, inner, 0.1, "gelu" if gelu else "relu", epsilon, norm_first=norm_first)
        module = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width) if norm else None)  # whose epsilon is its own
        mask = causal_mask(rows, rows) if causal else None
        self.case("encoder", module, [heads, GELU if gelu else RELU, int(norm_first), int(causal), epsilon],
                  lambda m, x: m(x[:, None], mask)[:, 0], random_input(rows, width))

    def line(self, inputs, outputs, taps, rows, stride=1, padding=0, dilation=1, depthwise=False):
        self.case("line", Line(inputs, outputs, taps, stride, padding, dilation, depthwise),
                  [RELU, stride, padding, dilation, int(depthwise)], lambda m, x: m(x), random_input(rows, inputs))

    def cnn(self, channels, inside, outputs):
        self.case("cnn", Cnn(channels, inside, outputs), [], lambda m, x: m(x[None])[0], random_input(channels, 8, 10))

    def write(self, path):
        write(path, [("cases", "F32", [1], struct.pack("<f", self.count))] + self.tensors)


def kept():
    """The cases of tests/torch.safetensors."""
    c = Cases(1)
    c.linear(5, 7)
    c.linear(3, 4, bias=False, activation=RELU)
    c.linear(4, 3, dtype=torch.float16)
    c.linear(4, 3, dtype=torch.bfloat16)
    c.embedding(6, 5)
    c.norm(6, LAYER)
    c.norm(6, LAYER, 1e-2)
    c.norm(7, RMS)
    c.norm(5, FIXED, 1e-3)
    c.norm_of_images(4)
    c.norm_of_images(3, affine=False)
    c.conv((5, 6), 3, 4, (2, 3), stride=2, padding=1)
    c.conv((7,), 3, 2, (3,), dilation=2, bias=False, activation=RELU)
    c.conv((5, 5), 4, 4, (3, 3), padding=1, depthwise=True)
    c.conv((6,), 3, 3, (2,), depthwise=True)
    c.cnn(2, 3, 4)
    for kind in ("rnn", "lstm", "gru"):
        c.recurrent(kind, 3, 4)
        c.recurrent(kind, 2, 3, layers=2, bidirectional=True)
        c.recurrent(kind, 3, 2, bias=False)
        c.cell(kind, 3, 2)
    c.attention(6, 2)
    c.attention(4, 4, causal=True, bias=False)
    c.attention(6, 3, rows=2, keys=(5, 6, 6), causal=True)
    c.attention(6, 1, keys=(3, 4, 5))
    c.transformer(6, 2, 7)
    c.transformer(4, 1, 9, norm_first=True, gelu=True, causal=True, epsilon=1e-3)
    c.recurrent("relu", 3, 4, steps=17)
    c.recurrent("relu", 2, 3, layers=2, bidirectional=True, steps=2)
    c.encoder(4, 2, 5, 2, rows=17)
    c.encoder(4, 2, 3, 1, norm=False, norm_first=True, gelu=True, causal=True, rows=1)
    c.line(3, 4, 3, 17, stride=2, padding=1)
    c.line(3, 3, 2, 5, dilation=2, depthwise=True)
    c.line(2, 3, 2, 1, padding=1)
    c.encoder(4, 2, 3, 2, rows=3, epsilon=0.1)
    return c


def other(seed):
    """One case of each kind, and of larger sizes."""
    c = Cases(seed)
    size = c.size
    c.linear(size(200), size(200), bias=size(2) > 1, activation=c.random.choice((LINEAR, RELU)))
    c.embedding(size(50), size(70))
    c.norm(1 + size(90), LAYER)
    c.norm(size(90), RMS)
    c.norm(size(90), FIXED)
    c.norm_of_images(size(40))
    c.norm_of_images(size(40), affine=False)
    taps = size(3), size(3)
    c.conv((size(9) + 6, size(9) + 6), size(20), size(40), taps, size(3), size(3) % min(taps), size(2), bias=size(2) > 1)
    c.conv((size(30) + 6,), size(20), size(40), taps[:1], size(3), size(3) % taps[0], size(2))
    channels = size(40)
    c.conv((size(9) + 2, size(9) + 2), channels, channels, (3, 3), size(2), 1, 1, depthwise=True)
    c.cnn(size(4), size(20), size(10))
    for kind in ("rnn", "lstm", "gru"):
        c.recurrent(kind, size(40), size(70), size(4), size(2) > 1, size(3) > 1, size(12))
        c.cell(kind, size(40), size(70))
    heads = size(8)
    c.attention(heads * size(20), heads, size(30), size(2) > 1)
    c.attention(heads * size(20), heads, size(30), False, size(2) > 1, (size(30), size(60), size(60)))
    c.transformer(heads * (1 + size(20)), heads, size(200), size(2) > 1, size(2) > 1, size(2) > 1, size(40))
    for rows in (1, 2, 17, 300):
        c.recurrent("relu", size(20), size(30), size(2), size(2) > 1, size(3) > 1, rows)
        c.encoder(heads * (1 + size(4)), heads, size(30), size(3), size(2) > 1, size(2) > 1, size(2) > 1, size(2) > 1, rows,
                  c.random.choice((1e-5, 1e-3, 0.1)))
        taps, channels = size(4), size(30)
        c.line(size(20), size(30), taps, rows, size(3), taps - 1, size(2))
        c.line(channels, channels, taps, rows, size(2), taps - 1, 1, depthwise=True)
    return c


def tagger(path):
    torch.manual_seed(178)  # whose tags differ
    net = Tagger()
    with torch.no_grad():
        for value in net.parameters():
            value.mul_(3)
    c = Cases(0)
    for name, value in net.state_dict().items():
        c.put(name, value)
    write(path, c.tensors)
    sentence = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    print("tags", " ".join(str(tag) for tag in net.double()(sentence)[0].argmax(-1).tolist()))
    print("logits of the first", " ".join(f"{value:.4f}" for value in net(sentence)[0, 0].tolist()))


def back(path, cases):
    """Loads every module from a file of test_torch; load_state_dict wants just the tensors that the module has."""
    _, header, data, _ = check(path)
    failed = 0
    for k, (module, call, x, y) in enumerate(cases.modules):
        state = {}
        for name, tensor in header.items():
            if name.startswith(f"{k}.m."):
                begin, end = tensor["data_offsets"]
                values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
                state[name[len(f"{k}.m."):]] = torch.tensor(values).reshape(tensor["shape"])
        for value in module.state_dict().values():
            value.zero_()
        module.load_state_dict(state)
        wrong = (call(module, x) - y).abs().max().item() / (0.1 + y.abs().max().item())
        if not wrong < 2e-5:
            print(f"FAILED: case {k}, {type(module).__name__}: wrong by {wrong:g}")
            failed += 1
    print(f"{len(cases.modules) - failed} passed, {failed} failed")
    return failed


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--back":
        sys.exit(back(sys.argv[2], other(int(sys.argv[3]))))
    if len(sys.argv) == 3:
        other(int(sys.argv[2])).write(sys.argv[1])
    elif len(sys.argv) == 2:
        kept().write(os.path.join(sys.argv[1], "torch.safetensors"))
        tagger(os.path.join(sys.argv[1], "tagger.safetensors"))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
