"""Random ONNX graphs for tests/random_onnx.c, with what numpy computes: every op that examples/fold_onnx.h reads, opsets 7 to 25, unusual
ranks and attributes. tests/make_onnx.py runs it. A graph is kept only if float and double agree, so that no result depends on rounding."""

import math
import random
import struct

import numpy as np

AGENTS = 3
FLOAT, INT32, INT64, BOOL, HALF = 1, 6, 7, 9, 10
erf = np.vectorize(math.erf)

# -- protobuf ---------------------------------------------------------------------------------------


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def tensor(r, name, values, kind):
    values = np.asarray(values)
    out = b"".join(number(1, d) for d in values.shape) if r.random() < 0.5 else text(1, b"".join(varint(d) for d in values.shape)) if values.ndim else b""
    out += number(2, kind) + (text(8, name) if name else b"")
    flat = values.reshape(-1)
    if r.random() < 0.5:
        return out + text(9, flat.astype({FLOAT: "<f4", INT32: "<i4", INT64: "<i8", BOOL: "u1"}[kind]).tobytes())
    if kind == FLOAT:
        return out + text(4, flat.astype("<f4").tobytes())
    return out + text(7 if kind == INT64 else 5, b"".join(varint(int(v)) for v in flat))


def attribute(r, name, value):
    proto3 = r.random() < 0.5  # which leaves out a 0
    if isinstance(value, str):
        return text(1, name) + text(4, value) + number(20, 3)
    if isinstance(value, float):
        return text(1, name) + (b"" if proto3 and value == 0 else real(2, value)) + number(20, 1)
    if isinstance(value, int):
        return text(1, name) + (b"" if proto3 and value == 0 else number(3, value)) + number(20, 2)
    if isinstance(value, np.ndarray):
        return text(1, name) + text(5, tensor(r, "", value, FLOAT if value.dtype.kind == "f" else INT64)) + number(20, 4)
    if value and isinstance(value[0], str):
        return text(1, name) + b"".join(text(9, v) for v in value) + number(20, 8)
    packed = text(8, b"".join(varint(v) for v in value)) if proto3 and value else b"".join(number(8, v) for v in value)
    return text(1, name) + packed + number(20, 7)


# -- graphs -----------------------------------------------------------------------------------------


class Value:
    """kind f: floats, h: halves, i: whole numbers, b: truth. runs: an array of each agent, in float and in double."""

    def __init__(self, name, kind, runs, constant=False):
        self.name, self.kind, self.runs, self.constant = name, kind, runs, constant
        self.dims = runs[0][0].shape

    def low(self):
        return min(float(x.min()) for pair in self.runs for x in pair)

    def largest(self):
        return max(float(np.abs(x).max()) for pair in self.runs for x in pair)

    def nearest_zero(self):
        return min(float(np.abs(x).min()) for pair in self.runs for x in pair)


class Skip(Exception):
    pass


class Graph:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.n = np.random.default_rng(seed)
        self.opset = self.r.randint(7, 25)
        self.values, self.nodes, self.weights, self.inputs, self.ops = [], [], b"", [], []
        self.count = 0

    def name(self):
        self.count += 1
        return self.r.choice(["v%d", "node/%d", "x.%d", "layer.%d.weight", "v:%d"]) % self.count

    def input(self, dims):
        runs = [self.n.uniform(-2, 2, dims).astype(np.float32) for _ in range(AGENTS)]
        v = Value(self.name(), "f", [(x, x.astype(np.float64)) for x in runs])
        self.inputs.append(v)
        self.values.append(v)

    def weight(self, values, kind=FLOAT):
        """A constant: an initialiser, or a node."""
        name = self.name()
        values = np.asarray(values, {FLOAT: np.float32, INT32: np.int32, INT64: np.int64, BOOL: np.uint8}[kind])
        if self.r.random() < 0.2:
            self.nodes.append(text(2, name) + text(4, "Constant") + text(5, text(1, "value") + text(5, tensor(self.r, "", values, kind)) + number(20, 4)))
        else:
            self.weights += text(5, tensor(self.r, name, values, kind))
        return Value(name, "f" if kind == FLOAT else "b" if kind == BOOL else "i", [(values, values.astype(np.float64) if kind == FLOAT else values)] * AGENTS, True)

    def random_weight(self, dims, scale=1.0):
        return self.weight(self.n.uniform(-scale, scale, dims))

    def node(self, op, inputs, function, kind="f", outputs=1, **attributes):
        """Adds a node; function gets arrays and returns one, or a list."""
        names = [self.name() for _ in range(outputs)]
        runs = []
        for agent in range(AGENTS):
            pair = []
            for k in range(2):
                try:
                    with np.errstate(all="ignore"):
                        y = function(*[x.runs[agent][k] for x in inputs if x])
                except ValueError as error:  # shapes that do not meet
                    raise Skip() from error
                y = y if isinstance(y, list) else [y]
                y = [np.asarray(x, {"f": (np.float32, np.float64)[k], "h": np.float16}.get(kind, np.int64)) for x in y]
                if any(x.size == 0 or x.size > 600 or x.ndim > 4 or not np.isfinite(x).all() for x in y):
                    raise Skip()
                pair.append(y)
            runs.append(pair)
        out = [Value(name, kind, [(a[0][i], a[1][i]) for a in runs], all(x.constant for x in inputs if x)) for i, name in enumerate(names)]
        for v in out:
            if v.largest() > 60:
                raise Skip()
        body = b"".join(text(1, x.name if x else "") for x in inputs) + b"".join(text(2, name) for name in names) + text(4, op)
        body += b"".join(text(5, attribute(self.r, key, value)) for key, value in attributes.items() if value is not None)
        self.nodes.append(body)
        self.values += out
        self.ops.append(op)
        return out if outputs > 1 else out[0]

    def pick(self, least=0, most=4, kind="f"):
        fitting = [v for v in self.values if v.kind == kind and least <= len(v.dims) <= most]
        if not fitting:
            raise Skip()
        return self.r.choice(fitting[-4:] if self.r.random() < 0.8 else fitting)

    def partner(self, x):
        """Something whose shape meets x's: another value, or a weight with some axes of 1, fewer, or one more."""
        r = self.r.random()
        if r < 0.3:
            for v in self.r.sample(self.values, len(self.values)):
                if v.kind == "f" and not v.constant and meets(v.dims, x.dims):
                    return v
        dims = [1 if self.r.random() < 0.3 else d for d in x.dims][self.r.randint(0, len(x.dims)) if self.r.random() < 0.5 else 0:]
        if self.r.random() < 0.15 and len(x.dims) < 4:
            dims = [self.r.randint(1, 3)] + [1] * (len(x.dims) - len(dims)) + dims
        return self.random_weight(dims)

    def axis(self, x):
        k = self.r.randrange(len(x.dims))
        return k, k - len(x.dims) if self.r.random() < 0.4 and self.opset >= 11 else k

    def whole(self, numbers):
        return self.weight(np.array(numbers, np.int64), INT64)


def meets(a, b):
    try:
        np.broadcast_shapes(a, b)
        return True
    except ValueError:
        return False


def listed(g, key, numbers, since):
    """A list that is an attribute before an opset, and an input from it on."""
    return ({key: [int(n) for n in numbers]}, []) if g.opset < since else ({}, [g.whole(numbers)])


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def softmax(x, axes, log=False):
    shifted = x - x.max(axes, keepdims=True)
    total = np.exp(shifted).sum(axes, keepdims=True)
    return shifted - np.log(total) if log else np.exp(shifted) / total


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


UNARY = {"Abs": np.abs, "Exp": np.exp, "Floor": np.floor, "Neg": np.negative, "Relu": relu, "Sigmoid": sigmoid, "Softplus": softplus,
         "Tanh": np.tanh, "Erf": erf, "Identity": lambda x: x, "Ceil": np.ceil, "Sign": np.sign, "Sin": np.sin, "Cos": np.cos, "Dropout": lambda x: x,
         "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Softsign": lambda x: x / (1 + np.abs(x)), "Mish": lambda x: x * np.tanh(softplus(x))}
BEGINS = {"Erf": 9, "Sign": 9, "HardSwish": 14, "Mish": 18}


def since(g, opset):
    """Gives up what the graph's opset does not have."""
    if g.opset < opset:
        raise Skip()


def apart(x):
    """Gives up a value that is close to a whole number and none, where roundings decide."""
    if any(((0 < np.abs(a - np.round(a))) & (np.abs(a - np.round(a)) < 1e-4)).any() for pair in x.runs for a in pair):
        raise Skip()
    return x


def unary(g):
    op = g.r.choice(sorted(UNARY))
    since(g, BEGINS.get(op, 0))
    g.node(op, [apart(g.pick()) if op in ("Ceil", "Floor", "Sign") else g.pick()], UNARY[op])


def positive(g):
    x = g.pick()
    if g.r.random() < 0.5 and x.low() < 0.2:
        x = g.node("Softplus", [x], softplus)
    if x.low() < 0.05:
        raise Skip()
    op = g.r.choice(["Log", "Sqrt", "Reciprocal", "Pow", "PowMany"])
    if op == "Pow":
        e = np.float32(g.r.choice([2, 0.5, -1, 3, 1.7, 0]))
        g.node("Pow", [x, g.weight(e)], lambda a, b: np.power(a, b))
    elif op == "PowMany":
        e = g.partner(x)
        g.node("Pow", [x, e], np.power)
    else:
        g.node(op, [x], {"Log": np.log, "Sqrt": np.sqrt, "Reciprocal": lambda a: 1 / a}[op])


def with_alpha(g):
    alpha = g.r.choice([None, 0.0, 0.3, 1.5])
    if g.r.random() < 0.5:
        a = 1.0 if alpha is None else alpha
        g.node("Elu", [g.pick()], lambda x: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))), alpha=alpha)
    else:
        a = 0.01 if alpha is None else alpha
        g.node("LeakyRelu", [g.pick()], lambda x: np.where(x > 0, x, a * x), alpha=alpha)


def with_two(g):
    alpha, other = g.r.choice([None, 0.0, 0.3, 1.5]), g.r.choice([None, 0.0, 0.4])
    op = g.r.choice(["HardSigmoid", "Selu", "Celu", "Swish"])
    since(g, {"Celu": 12, "Swish": 24}.get(op, 0))
    if op == "HardSigmoid":
        a, b = 0.2 if alpha is None else alpha, 0.5 if other is None else other
        g.node(op, [g.pick()], lambda x: np.clip(x * a + b, 0, 1), alpha=alpha, beta=other)
    elif op == "Selu":
        a, b = 1.6732632 if alpha is None else alpha, 1.0507010 if other is None else other
        g.node(op, [g.pick()], lambda x: b * np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))), alpha=alpha, gamma=other)
    elif op == "Celu":
        a = alpha or 1.0
        g.node(op, [g.pick()], lambda x: np.maximum(x, 0) + np.minimum(0, a * np.expm1(np.minimum(x, 0) / a)), alpha=alpha or None)
    else:
        a = 1.0 if alpha is None else alpha
        g.node(op, [g.pick()], lambda x: x * sigmoid(a * x), alpha=alpha)


def halves(g):
    """Rounded to the nearest whole number, halves to the even one."""
    since(g, 11)
    x = g.node("Floor", [apart(g.pick())], np.floor)
    g.node("Round", [g.node("Mul", [x, g.weight(np.float32(0.5))], np.multiply)], np.round)


def prelu(g):
    x = g.pick()
    dims = [1 if g.r.random() < 0.4 else d for d in x.dims][g.r.randint(0, len(x.dims)) :]
    g.node("PRelu", [x, g.random_weight(dims)], lambda a, s: np.where(a > 0, a, a * s))


def remainder(g):
    since(g, 10)
    x = g.pick()
    if g.r.random() < 0.5:
        y = g.weight(np.float32(g.r.choice([0.7, -1.3, 3.1])))
        q = [a / b for pair in x.runs for a, b in zip(pair, y.runs[0])]
        if any((np.abs(v - np.round(v)) < 1e-3).any() for v in q):
            raise Skip()
        g.node("Mod", [x, y], np.fmod, fmod=1)
        return
    a, b = g.whole(g.n.integers(-9, 10, 3)), g.whole(g.n.choice([-3, -2, 2, 4], g.r.choice([1, 3])))
    how = g.r.choice([None, 0, 1])
    g.node("Cast", [g.node("Mod", [a, b], np.fmod if how else np.mod, kind="i", fmod=how)], lambda v: v, to=FLOAT)


def tile(g):
    x = g.pick(1)
    times = [g.r.choice([1, 1, 2, 3]) for _ in x.dims]
    g.node("Tile", [x, g.whole(times)], lambda a, *_: np.tile(a, times))


def trilu(g):
    since(g, 14)
    x, k, upper = g.pick(2), g.r.choice([None, -2, -1, 0, 1, 2]), g.r.choice([None, 0, 1])
    g.node("Trilu", [x] + ([] if k is None else [g.weight(np.int64(k), INT64)]), lambda a, *_: (np.tril if upper == 0 else np.triu)(a, k or 0), upper=upper)


def mirrored(g):
    x = g.pick(1)
    how = g.r.choice(["edge", "reflect", "wrap"])
    since(g, 19 if how == "wrap" else 0)
    pads = [[g.r.randint(0, d - 1 if how == "reflect" else d) for d in x.dims] for _ in range(2)]
    attributes, more = listed(g, "pads", pads[0] + pads[1], 11)
    g.node("Pad", [x] + more, lambda a, *_: np.pad(a, list(zip(*pads)), mode=how), mode=how, **attributes)


def gelu(g):
    since(g, 20)
    how = g.r.choice([None, "none", "tanh"])
    if how == "tanh":
        g.node("Gelu", [g.pick()], lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), approximate=how)
    else:
        g.node("Gelu", [g.pick()], lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))), approximate=how)


def clip(g):
    x, low, high = g.pick(), g.r.choice([None, -1.0, 0.0]), g.r.choice([None, 0.0, 0.7])
    def function(x, *_):
        return np.minimum(np.maximum(x, -np.inf if low is None else low), np.inf if high is None else high)
    if g.opset < 11:
        g.node("Clip", [x], function, min=low, max=high)
    else:
        g.node("Clip", [x] + [None if b is None else g.weight(np.float32(b)) for b in (low, high)], function)


def binary(g):
    op, x = g.r.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"]), g.pick()
    y = g.partner(x)
    since(g, 8 if op in ("Max", "Min", "Sum") else 7)  # before, shapes must be equal
    if op == "Div" and y.nearest_zero() < 0.1:
        raise Skip()
    pair = [x, y] if g.r.random() < 0.7 or op == "Div" else [y, x]
    if op in ("Max", "Min", "Sum"):
        pair = pair[:g.r.randint(1, 2)] + ([g.partner(x)] if g.r.random() < 0.3 else [])
        function = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}[op]
        def many(*a):
            y = a[0]
            for x in a[1:]:
                y = function(y, x)
            return y
        g.node(op, pair, many)
    else:
        g.node(op, pair, {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op])


def truth(g):
    x = g.pick()
    op = g.r.choice(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"])
    since(g, 12 if "OrEqual" in op else 11 if op == "Equal" else 7)
    b = g.node(op, [x, g.partner(x)], {"Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
                                       "Equal": np.equal}[op], kind="b")
    if g.r.random() < 0.3:
        b = g.node("Not", [b], lambda a: a == 0, kind="b")
    others = [v for v in g.values if v.kind == "b" and meets(v.dims, b.dims)]
    if g.r.random() < 0.4:
        op = g.r.choice(["And", "Or"])
        b = g.node(op, [b, g.r.choice(others)], {"And": np.logical_and, "Or": np.logical_or}[op], kind="b")
    if g.r.random() < 0.5 and g.opset >= 9:
        y = g.partner(b)
        g.node("Where", [b, y, g.partner(y)], lambda c, a, d: np.where(c != 0, a, d))
    else:
        g.node("Cast", [b], lambda a: a, to=FLOAT)


def cast(g):
    i = g.node("Cast", [apart(g.pick())], np.trunc, kind="i", to=INT64)
    g.node("Cast", [i], lambda a: a, to=FLOAT)


def half(g):
    """What a tool makes that computes a part in half precision."""
    h = g.node("Cast", [g.pick()], lambda a: a.astype(np.float16), kind="h", to=HALF)
    g.node("Cast", [h], lambda a: a, to=FLOAT)


def quotient(g):
    """Of what a number was multiplied by: a rounded inverse would miss whole numbers."""
    x = g.node("Floor", [apart(g.pick())], np.floor)
    c = g.weight(np.float32(g.r.choice([3, 7, 41, 49, -5, 0.5])))
    y = g.node("Div", [g.node("Mul", [x, c], np.multiply), c], np.divide)
    g.node("Floor", [y], np.floor)


def scalar(g):
    """A shape without axes, and one that is put together of parts of which some are empty."""
    x = g.pick()
    dims = split_of(g, int(np.prod(x.dims)), g.r.randint(1, 3))
    if dims == [1] and g.r.random() < 0.7:
        g.node("Reshape", [x, g.whole([])], lambda a, *_: a.reshape(()))
        return
    parts = [g.whole(dims[:1]), g.whole([])] + ([g.whole(dims[1:])] if dims[1:] else [])
    s = g.node("Concat", parts, lambda *a: np.concatenate(a), kind="i", axis=0)
    g.node("Reshape", [x, s], lambda a, *_: a.reshape(dims))


def whole_consts(g):
    """Whole numbers that are constant: sums, quotients and powers of them, as shapes are computed."""
    n = g.r.randint(1, 4)
    a, b = g.whole(g.n.integers(-9, 10, n)), g.whole(g.n.choice([-3, -2, 2, 4], n if g.r.random() < 0.5 else 1))
    op = g.r.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"])
    since(g, 12 if op in ("Max", "Min", "Pow") else 7)
    if op == "Pow":
        a, b = g.whole(g.n.integers(1, 5, n)), g.weight(np.float32(g.r.choice([0.5, 1.5, 2])))
    f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": lambda x, y: np.trunc(x / y), "Max": np.maximum, "Min": np.minimum,
         "Pow": lambda x, y: np.trunc(np.power(x.astype(float), y))}[op]
    i = g.node(op, [a, b], f, kind="i")
    g.node("Cast", [i], lambda x: x, to=FLOAT)


def whole_sums(g):
    """Of inputs."""
    i = g.node("Cast", [apart(g.pick())], np.trunc, kind="i", to=INT64)
    for _ in range(g.r.randint(1, 3)):
        op = g.r.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Neg", "Abs", "Sign", "Clip"])
        since(g, {"Max": 12, "Min": 12, "Mod": 10, "Clip": 12}.get(op, 9))
        w = g.whole(g.n.choice([-3, -2, 2, 4], i.dims if g.r.random() < 0.5 else ()))
        if op in ("Neg", "Abs", "Sign"):
            i = g.node(op, [i], {"Neg": np.negative, "Abs": np.abs, "Sign": np.sign}[op], kind="i")
        elif op == "Clip":
            i = g.node(op, [i, g.whole(-1), g.whole(2)], lambda a, *_: np.clip(a, -1, 2), kind="i")
        else:
            i = g.node(op, [i, w], {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": lambda a, b: np.trunc(a / b), "Max": np.maximum,
                                    "Min": np.minimum, "Mod": np.mod}[op], kind="i")
    g.node("Cast", [i], lambda a: a, to=FLOAT)


def looked_up(g):
    """Rows of a table, by an index that is computed."""
    x = g.pick(1, 3)
    k, axis = g.axis(x)
    i = g.node("ArgMax", [x], lambda a: a.argmax(k), kind="i", axis=axis, keepdims=0)
    dims = [g.r.randint(1, 3) for _ in range(g.r.randint(0, 4 - len(x.dims)))]
    at = g.r.randint(0, len(dims))
    dims.insert(at, x.dims[k] + g.r.randint(0, 2))
    g.node("Gather", [g.random_weight(dims), i], lambda a, j: np.take(a, j, at), axis=at)


def quantised(g):
    """To 8 bits and back, by one scale or one for each index of an axis."""
    since(g, 13)
    x = g.pick()
    k, axis = g.axis(x) if x.dims else (0, 1)
    n = x.dims[k] if x.dims and g.r.random() < 0.5 else 0
    s = g.weight(g.n.choice([0.25, 0.1, 0.7], n) if n else np.float32(g.r.choice([0.25, 0.1, 0.7])))
    z = g.node("Cast", [g.weight(g.n.integers(-9, 9, n) if n else np.float32(3))], lambda a: a, kind="i", to=3)
    line = [-1 if i == k else 1 for i in range(len(x.dims))] if n else []
    def ratio(a, b):
        return a / b.reshape(line)
    if any((np.abs(np.abs(ratio(a, b) - np.floor(ratio(a, b))) - 0.5) < 1e-3).any() for p, q in zip(x.runs, s.runs) for a, b in zip(p, q)):
        raise Skip()
    q = g.node("QuantizeLinear", [x, s, z], lambda a, b, c: np.clip(np.round(ratio(a, b)) + c.reshape(line), -128, 127), kind="i", axis=axis)
    g.node("DequantizeLinear", [q, s, z], lambda a, b, c: (a - c.reshape(line)) * b.reshape(line), axis=axis)


def concat(g):
    x = g.pick(1)
    k, axis = g.axis(x)
    same = [v for v in g.values if v.kind == "f" and len(v.dims) == len(x.dims) and all(a == b for i, (a, b) in enumerate(zip(v.dims, x.dims)) if i != k)]
    parts = [g.r.choice(same) if g.r.random() < 0.7 else g.random_weight([g.r.randint(1, 3) if i == k else d for i, d in enumerate(x.dims)])
             for _ in range(g.r.randint(1, 3))]
    g.node("Concat", parts, lambda *a: np.concatenate(a, k), axis=axis)


def expand(g):
    since(g, 8)
    x = g.pick()
    dims = [g.r.randint(2, 3) if d == 1 and g.r.random() < 0.6 else g.r.choice([1, d]) for d in x.dims]
    if g.r.random() < 0.3 and len(dims) < 4:
        dims = [g.r.randint(1, 2)] + dims
    if not dims:
        raise Skip()
    g.node("Expand", [x, g.whole(dims)], lambda a, *_: np.broadcast_to(a, np.broadcast_shapes(a.shape, dims)))


def flatten(g):
    x = g.pick(1)
    k = g.r.randint(0, len(x.dims))
    axis = k - len(x.dims) if k < len(x.dims) and g.opset >= 11 and g.r.random() < 0.3 else k
    g.node("Flatten", [x], lambda a: a.reshape(int(np.prod(a.shape[:k])), -1), axis=axis)


def gather(g):
    x = g.pick(1)
    k, axis = g.axis(x)
    index = g.n.integers(-x.dims[k] if g.opset >= 11 else 0, x.dims[k], g.r.choice([(), (1,), (3,), (2, 2)]))
    g.node("Gather", [x, g.whole(index)], lambda a, i: np.take(a, i, k), axis=axis if axis or g.r.random() < 0.5 else None)


def pad(g):
    x = g.pick(1)
    pads = [[g.r.choice([0, 0, 1, 2, -1 if d > 1 else 0]) for d in x.dims] for _ in range(2)]
    if any(d + a + b < 1 for d, a, b in zip(x.dims, *pads)):
        raise Skip()
    value = g.r.choice([0.0, 1.5, -0.123456789])
    def function(a, *_):
        a = np.pad(a, [(max(p, 0), max(q, 0)) for p, q in zip(*pads)], constant_values=np.float32(value))
        return a[tuple(slice(max(-p, 0), n - max(-q, 0)) for p, q, n in zip(*pads, a.shape))]
    if g.opset < 11:
        g.node("Pad", [x], function, pads=pads[0] + pads[1], value=value)
    elif g.opset >= 18 and g.r.random() < 0.5:
        axes = [k for k in range(len(x.dims)) if pads[0][k] or pads[1][k]]
        g.r.shuffle(axes)
        told = [k - len(x.dims) if g.r.random() < 0.3 else k for k in axes]
        g.node("Pad", [x, g.whole([side[k] for side in pads for k in axes]), g.weight(np.float32(value)), g.whole(told)], function)
    else:
        g.node("Pad", [x, g.whole(pads[0] + pads[1]), g.weight(np.float32(value)) if value or g.r.random() < 0.5 else None], function)


def split_of(g, n, most):
    """A number as a product of factors."""
    dims = []
    while len(dims) < most - 1:
        d = g.r.choice([d for d in range(1, n + 1) if n % d == 0])
        dims.append(d)
        n //= d
    return dims + [n]


def reshape(g):
    x = g.pick(0, 5)
    dims = split_of(g, int(np.prod(x.dims)), g.r.randint(1, 4))
    told = list(dims)
    if g.r.random() < 0.4:
        told[g.r.randrange(len(told))] = -1
    for i in range(min(len(told), len(x.dims))):
        if told[i] == x.dims[i] and g.r.random() < 0.3:
            told[i] = 0
    if g.r.random() < 0.15 and len(told) < 4:
        told, dims = [1] + [t if t else d for t, d in zip(told, dims)], [1] + dims
    g.node("Reshape", [x, g.whole(told)], lambda a, *_: a.reshape(dims))


def slice_of(g):
    x = g.pick(1)
    axes = g.r.sample(range(len(x.dims)), g.r.randint(1, len(x.dims)))
    starts = [g.r.randint(-x.dims[k], x.dims[k]) for k in axes]
    ends = [g.r.choice([x.dims[k], 2**63 - 1, -1, g.r.randint(0, x.dims[k])]) for k in axes]
    steps = [g.r.choice([1, 1, 2, -1, -2]) if g.opset >= 10 else 1 for _ in axes]
    ends = [-2**62 if s < 0 else e for s, e in zip(steps, ends)]
    def function(a, *_):
        index = [slice(None)] * a.ndim
        for k, start, end, step in zip(axes, starts, ends, steps):
            index[k] = slice(start, None if end < -2**60 else min(end, 2**31), step)
        return a[tuple(index)]
    if g.opset < 10:
        g.node("Slice", [x], function, starts=starts, ends=ends, axes=axes)
    else:
        told = [k - len(x.dims) if g.opset >= 11 and g.r.random() < 0.3 else k for k in axes]
        g.node("Slice", [x, g.whole(starts), g.whole(ends), g.whole(told)] + ([g.whole(steps)] if any(s != 1 for s in steps) else []), function)


def split(g):
    x = g.pick(1)
    k, axis = g.axis(x)
    n = g.r.randint(1, 3)
    if g.opset >= 18 and x.dims[k] > n * (n - 1) and g.r.random() < 0.5:
        g.node("Split", [x], lambda a: np.array_split(a, range(-(-a.shape[k] // n), a.shape[k], -(-a.shape[k] // n)), k), outputs=n, axis=axis, num_outputs=n)
        return
    if g.r.random() < 0.5 and x.dims[k] % n == 0:
        g.node("Split", [x], lambda a: np.split(a, n, k), outputs=n, axis=axis, num_outputs=n if g.opset >= 18 else None)
        return
    if x.dims[k] < n:
        raise Skip()
    cuts = sorted(g.r.sample(range(1, x.dims[k]), n - 1))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [x.dims[k]])]
    attributes, more = listed(g, "split", sizes, 13)
    g.node("Split", [x] + more, lambda a, *_: np.split(a, cuts, k), outputs=n, axis=axis, **attributes)


def squeeze(g):
    x = g.pick(1)
    ones = [k for k, d in enumerate(x.dims) if d == 1]
    axes = sorted(g.r.sample(ones, g.r.randint(0, len(ones))))  # in another order ONNX Runtime's shapes are wrong before opset 13
    if not axes:
        g.node("Squeeze", [x], np.squeeze)
        return
    attributes, more = listed(g, "axes", [k - len(x.dims) if g.opset >= 11 and g.r.random() < 0.3 else k for k in axes], 13)
    g.node("Squeeze", [x] + more, lambda a, *_: np.squeeze(a, tuple(axes)), **attributes)


def unsqueeze(g):
    x = g.pick(0, 3)
    n = g.r.randint(1, 2 if len(x.dims) < 3 else 1)
    axes = g.r.sample(range(len(x.dims) + n), n)
    attributes, more = listed(g, "axes", axes, 13)
    g.node("Unsqueeze", [x] + more, lambda a, *_: np.expand_dims(a, tuple(axes)), **attributes)


def transpose(g):
    x = g.pick(1)
    order = g.r.sample(range(len(x.dims)), len(x.dims))
    if g.r.random() < 0.2:
        g.node("Transpose", [x], np.transpose)
    else:
        g.node("Transpose", [x], lambda a: np.transpose(a, order), perm=order)


def shape_of(g):
    """What exporters make of x.view(x.shape[0], -1)."""
    x = g.pick(1)
    if g.opset >= 15 and g.r.random() < 0.5:
        start, end = g.r.choice([None, 0, 1, -1, -2]), g.r.choice([None, 0, 1, 2, -1, 9])
        s = g.node("Shape", [x], lambda a: np.array(a.shape[start:end]), kind="i", start=start, end=end)
        g.node("Cast", [s], lambda a: a, to=FLOAT)
        return
    s = g.node("Shape", [x], lambda a: np.array(a.shape), kind="i")
    first = g.node("Gather", [s, g.whole([0])], lambda a, i: a[i], kind="i", axis=0)
    both = g.node("Concat", [first, g.whole([-1])], lambda *a: np.concatenate(a), kind="i", axis=0)
    g.node("Reshape", [x, both], lambda a, *_: a.reshape(a.shape[0], -1))


def filled(g):
    since(g, 9)
    x = g.pick(1, 3)
    value = g.r.choice([None, 0.0, 2.5])
    y = g.node("ConstantOfShape", [g.whole(x.dims)], lambda *_: np.full(x.dims, value or 0), value=None if value is None else np.array([value], np.float32))
    g.node("Add", [x, y], np.add)


REDUCE = {"ReduceL1": lambda x, a, k: np.abs(x).sum(a, keepdims=k), "ReduceL2": lambda x, a, k: np.sqrt((x * x).sum(a, keepdims=k)),
          "ReduceLogSum": lambda x, a, k: np.log(x.sum(a, keepdims=k)), "ReduceLogSumExp": lambda x, a, k: np.log(np.exp(x).sum(a, keepdims=k)),
          "ReduceMax": lambda x, a, k: x.max(a, keepdims=k), "ReduceMean": lambda x, a, k: x.mean(a, keepdims=k),
          "ReduceMin": lambda x, a, k: x.min(a, keepdims=k), "ReduceProd": lambda x, a, k: x.prod(a, keepdims=k),
          "ReduceSum": lambda x, a, k: x.sum(a, keepdims=k), "ReduceSumSquare": lambda x, a, k: (x * x).sum(a, keepdims=k)}


def reduce(g):
    op, x, keep = g.r.choice(sorted(REDUCE)), g.pick(1), g.r.choice([None, 0, 1])
    if op == "ReduceLogSum" and x.low() <= 0.01:
        raise Skip()
    axes = g.r.sample(range(len(x.dims)), g.r.randint(0, len(x.dims)))
    kept = keep != 0
    if not axes:
        g.node(op, [x], lambda a: REDUCE[op](a, None, kept), keepdims=keep)
        return
    told = [k - len(x.dims) if g.opset >= 11 and g.r.random() < 0.3 else k for k in axes]
    attributes, more = listed(g, "axes", told, 13 if op == "ReduceSum" else 18)
    g.node(op, [x] + more, lambda a, *_: REDUCE[op](a, tuple(axes), kept), keepdims=keep, **attributes)


def soft(g):
    x = g.pick(1)
    k, axis = g.axis(x)
    left_out = g.r.random() < 0.3
    if left_out:
        k = len(x.dims) - 1 if g.opset >= 13 else 1
        if k >= len(x.dims):
            raise Skip()
    axes = k if g.opset >= 13 else tuple(range(k, len(x.dims)))
    op = g.r.choice(["Softmax", "LogSoftmax"])
    g.node(op, [x], lambda a: softmax(a, axes, op != "Softmax"), axis=None if left_out else axis)


def argmax(g):
    x = g.pick(1)
    k, axis = g.axis(x)
    keep, last = g.r.choice([None, 0, 1]), g.r.choice([None, 0, 1]) if g.opset >= 12 else None
    if g.r.random() < 0.5:
        x = g.node("Floor", [apart(x)], np.floor)  # so that some are equal
    def function(a):
        i = a.shape[k] - 1 - np.flip(a, k).argmax(k) if last else a.argmax(k)
        return np.expand_dims(i, k) if keep != 0 else i
    i = g.node("ArgMax", [x], function, kind="i", axis=axis, keepdims=keep, select_last_index=last)
    g.node("Cast", [i], lambda a: a, to=FLOAT)


def layer_norm(g):
    since(g, 17)
    x = g.pick(1)
    k, axis = g.axis(x)
    if g.r.random() < 0.6:
        k, axis = len(x.dims) - 1, -1
    axes, epsilon = tuple(range(k, len(x.dims))), g.r.choice([None, 0.1])
    scale = [g.random_weight(x.dims[k:]) if g.r.random() < 0.9 else g.weight(np.zeros(x.dims[k:]))] + ([g.random_weight(x.dims[k:])] if g.r.random() < 0.6 else [])
    def function(a, *w):
        if a.var(axes).min() < 1e-3:  # of equal values it is rounding, by the root of epsilon
            raise Skip()
        mean, inverse = a.mean(axes, keepdims=True), 1 / np.sqrt(a.var(axes, keepdims=True) + (epsilon or 1e-5))
        y = (a - mean) * inverse * w[0] + (w[1] if len(w) > 1 else 0)
        return [y, mean, inverse][:outputs]
    outputs = g.r.choice([1, 1, 2, 3])
    g.node("LayerNormalization", [x] + scale, function, outputs=outputs, axis=axis if k < len(x.dims) - 1 or g.r.random() < 0.5 else None, epsilon=epsilon)


def written_norm(g):
    """A layer norm as older exporters write it, sometimes with another rank or another axis."""
    x = g.pick(1, 3)
    k = len(x.dims) - 1 if g.r.random() < 0.7 else g.r.randrange(len(x.dims))
    attributes, more = listed(g, "axes", [k], 18)
    def mean(v):
        return g.node("ReduceMean", [v] + more, lambda a, *_: a.mean(k, keepdims=True), **attributes)
    c = g.node("Sub", [x, mean(x)], np.subtract)
    q = g.node("Mul", [c, c], np.multiply) if g.r.random() < 0.5 else g.node("Pow", [c, g.weight(np.full([1] * g.r.choice([0, 0, 1, 4]), 2))], np.power)
    v = g.node("Add", [mean(q) if len(q.dims) == len(x.dims) else g.node("Abs", [mean(x)], np.abs), g.weight(np.full([1] * g.r.choice([0, 0, 1, 3, 4]), 0.25))], np.add)
    y = g.node("Div", [c, g.node("Sqrt", [v], np.sqrt)], np.divide)
    if g.r.random() < 0.6:
        y = g.node("Mul", [y, g.random_weight([y.dims[-1]])], np.multiply)
        g.node("Add", [g.random_weight([y.dims[-1]]), y], np.add)


def batch_norm(g):
    x = g.pick(2)
    c = x.dims[1]
    trains = g.r.random() < 0.2 and g.opset >= 14 and int(np.prod(x.dims)) > c
    w = [g.random_weight([c]), g.random_weight([c]), g.random_weight([c]), g.weight(g.n.uniform(0.3, 2, c))]
    axes, epsilon = tuple(k for k in range(len(x.dims)) if k != 1), g.r.choice([None, 0.01])
    momentum = g.r.choice([None, 0.5, 0.0])
    def function(a, s, b, m, v):
        line, old = [-1 if k == 1 else 1 for k in range(a.ndim)], (m, v)
        if trains:
            m, v = a.mean(axes), a.var(axes)
            if v.min() < 1e-3:
                raise Skip()
        y = (a - m.reshape(line)) / np.sqrt(v.reshape(line) + (epsilon or 1e-5)) * s.reshape(line) + b.reshape(line)
        keep = 0.9 if momentum is None else momentum
        return [y] + [o * keep + n * (1 - keep) for o, n in zip(old, (m, v))] if trains else y
    g.node("BatchNormalization", [x] + w, function, outputs=3 if trains else 1, epsilon=epsilon, momentum=momentum, training_mode=1 if trains else None)


def gemm(g):
    x = g.pick(2, 2)
    ta, tb, n = g.r.choice([None, 0, 1]), g.r.choice([None, 0, 1]), g.r.randint(1, 5)
    m, k = x.dims[::-1] if ta else x.dims
    b = g.random_weight([n, k] if tb else [k, n])
    alpha, beta = g.r.choice([None, 1.0, 0.5]), g.r.choice([None, 0.0, 2.0])
    c = [g.random_weight(g.r.choice([[n], [1, n], [m, n], [m, 1], [1]]))] if g.opset < 11 or g.r.random() < 0.7 else []
    def function(a, b, *c):
        y = (1.0 if alpha is None else alpha) * (a.T if ta else a) @ (b.T if tb else b)
        return y + (1.0 if beta is None else beta) * c[0] if c else y
    g.node("Gemm", [x, b] + c, function, alpha=alpha, beta=beta, transA=ta, transB=tb)


def matmul(g):
    x = g.pick(1)
    r, k, n = g.r.random(), x.dims[-1], g.r.randint(1, 5)
    if r < 0.3:
        fitting = [v for v in g.values if v.kind == "f" and len(v.dims) > 1 and v.dims[-2] == k and meets(v.dims[:-2], x.dims[:-2])]
        if fitting:
            g.node("MatMul", [x, g.r.choice(fitting)], np.matmul)
            return
    dims = g.r.choice([[k, n], [k, n], [k], list(x.dims[:-2]) + [k, n]])
    y = g.node("MatMul", [x, g.random_weight(dims)], np.matmul)
    if g.r.random() < 0.5 and y.dims:
        g.node("Add", [y, g.random_weight([y.dims[-1]])], np.add)


def conv(g):
    axes = g.r.randint(1, 2)
    x = g.pick(1)
    c, size = g.r.randint(1, 3), [g.r.randint(2, 5) for _ in range(axes)]
    total = int(np.prod(x.dims))
    while total % c:
        c -= 1
    spatial = split_of(g, total // c, axes)
    x = g.node("Reshape", [x, g.whole([1, c] + spatial)], lambda a, *_: a.reshape([1, c] + spatial))
    grouped = g.r.random() < 0.3 and c > 1
    taps, outs = [min(t - 1, 3) for t in size], c if grouped else g.r.randint(1, 3)
    taps = [max(t, 1) for t in taps]
    stride, dilation = g.r.choice([None, 1, 2]), g.r.choice([None, 1, 2])
    pads = [g.r.choice([0, 1, 1, 2]) for _ in range(2 * axes)] if g.r.random() < 0.6 else None
    same = g.r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]) if pads is None and g.r.random() < 0.4 and dilation in (None, 1) else None
    s, d = stride or 1, dilation or 1
    p = pads or [0] * (2 * axes)
    if same and same != "VALID":
        missing = [max((-(-n // s) - 1) * s + t - n, 0) for n, t in zip(spatial, taps)]
        p = [m // 2 if same == "SAME_UPPER" else m - m // 2 for m in missing] + [m - m // 2 if same == "SAME_UPPER" else m // 2 for m in missing]
    if any(n + a + b < (t - 1) * d + 1 for n, a, b, t in zip(spatial, p[:axes], p[axes:], taps)):
        raise Skip()
    w, b = g.random_weight([outs, 1 if grouped else c] + taps), [g.random_weight([outs])] if g.r.random() < 0.6 else []
    def function(a, w, *b):
        a = np.pad(a, [(0, 0), (0, 0)] + list(zip(p[:axes], p[axes:])))
        made = [(n - (t - 1) * d - 1) // s + 1 for n, t in zip(a.shape[2:], taps)]
        y = np.zeros([1, outs] + made, a.dtype)
        for tap in np.ndindex(*taps):
            window = a[(slice(None), slice(None)) + tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, n in zip(tap, made))]
            k = w[(slice(None), slice(None)) + tap]
            y += window * k[:, 0].reshape([1, -1] + [1] * axes) if grouped else np.einsum("oc,nc...->no...", k, window)
        return y + b[0].reshape([1, -1] + [1] * axes) if b else y
    g.node("Conv", [x, w] + b, function, strides=stride and [stride] * axes, dilations=dilation and [dilation] * axes, pads=pads, auto_pad=same,
           group=c if grouped else g.r.choice([None, 1]), kernel_shape=taps if g.r.random() < 0.5 else None)


def pool(g):
    x = g.pick(1)
    axes, total = g.r.randint(1, 2), int(np.prod(x.dims))
    dims = split_of(g, total, axes + 2)
    g.r.shuffle(dims)
    x = g.node("Reshape", [x, g.whole(dims)], lambda a, *_: a.reshape(dims))
    op = g.r.choice(["MaxPool", "AveragePool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"])
    if op[0] == "G":
        spatial = tuple(range(2, axes + 2))
        g.node(op, [x], lambda a: a.max(spatial, keepdims=True) if "Max" in op else a.mean(spatial, keepdims=True))
        return
    square = g.r.random() < 0.5
    taps = [g.r.randint(1, 4) for _ in range(axes)]
    strides = [g.r.randint(1, 3) for _ in range(axes)] if g.r.random() < 0.7 else None
    p = [g.r.randint(0, taps[k % axes] - 1) for k in range(2 * axes)]
    if square:
        taps, strides, p = taps[:1] * axes, strides and strides[:1] * axes, [min(p[0], taps[0] - 1)] * (2 * axes)
    pads, s = p if g.r.random() < 0.7 else None, strides or [1] * axes
    p = pads or [0] * (2 * axes)
    same = g.r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]) if pads is None and g.r.random() < 0.5 else None
    counts = g.r.choice([None, 0, 1]) if op == "AveragePool" else None
    ceil = g.r.choice([None, 0, 1]) if g.opset >= 10 and not same and not counts else None
    if same and same != "VALID":
        missing = [max((-(-n // b) - 1) * b + t - n, 0) for n, t, b in zip(dims[2:], taps, s)]
        p = [m // 2 if same == "SAME_UPPER" else m - m // 2 for m in missing] + [m - m // 2 if same == "SAME_UPPER" else m // 2 for m in missing]
    if any(n + a + b < t for n, a, b, t in zip(dims[2:], p[:axes], p[axes:], taps)):
        raise Skip()
    made = [(n + a + b - t + (z - 1 if ceil else 0)) // z + 1 for n, a, b, t, z in zip(dims[2:], p[:axes], p[axes:], taps, s)]
    made = [m - 1 if ceil and (m - 1) * z >= n + a else m for m, n, a, z in zip(made, dims[2:], p[:axes], s)]
    def function(a):
        y = np.zeros(dims[:2] + made, a.dtype)
        for at in np.ndindex(*made):
            begin = [i * z - b for i, z, b in zip(at, s, p[:axes])]
            window = a[(slice(None), slice(None)) + tuple(slice(max(b, 0), b + t) for b, t in zip(begin, taps))]
            flat = window.reshape(dims[0], dims[1], -1)
            if not flat.shape[2]:
                raise Skip()
            y[(slice(None), slice(None)) + at] = flat.max(2) if op == "MaxPool" else flat.sum(2) / (np.prod(taps) if counts else flat.shape[2])
        return y
    g.node(op, [x], function, kernel_shape=taps, strides=strides, pads=pads, auto_pad=same, count_include_pad=counts, ceil_mode=ceil)


def recurrent(g):
    x = g.pick(1)
    total = int(np.prod(x.dims))
    if total > 40:
        raise Skip()
    steps, batch, width = split_of(g, total, 3)
    layout = g.r.choice([None, 0, 1]) if g.opset >= 14 else None
    dims = [batch, steps, width] if layout else [steps, batch, width]
    x = g.node("Reshape", [x, g.whole(dims)], lambda a, *_: a.reshape(dims))
    op, n = g.r.choice(["LSTM", "LSTM", "GRU", "GRU", "RNN"]), g.r.randint(1, 4)
    lstm, plain, act = op == "LSTM", op == "RNN", g.r.choice([None, "Tanh", "Relu"])
    gates, direction = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.r.choice([None, "forward", "reverse", "bidirectional"])
    ways, late = 2 if direction == "bidirectional" else 1, g.r.choice([None, 0, 1])
    w, h, b = g.random_weight([ways, gates * n, width]), g.random_weight([ways, gates * n, n]), g.random_weight([ways, 2 * gates * n]) if g.r.random() < 0.7 else None
    state = [ways, batch, n] if not layout else [batch, ways, n]
    begin = [g.random_weight(state) if g.r.random() < 0.4 else None for _ in range(1 + lstm)]
    if begin[0] and g.r.random() < 0.5:  # one that depends on an input
        begin[0] = g.node("Mul", [begin[0], g.node("ReduceMean", [x], np.mean, keepdims=0)], np.multiply)
    peep = g.random_weight([ways, 3 * n]) if lstm and g.r.random() < 0.2 else None
    lengths = g.weight([steps] * batch, INT32) if g.r.random() < 0.2 else None
    more = [b, lengths] + begin + ([peep] if lstm else [])
    while more and more[-1] is None:
        more.pop()
    present = [i for i, v in enumerate(more) if v]
    def function(a, w, h, *rest):
        rest = {i: v for i, v in zip(present, rest)}
        if layout:
            a = a.transpose(1, 0, 2)
        zero = np.zeros((ways, batch, n), a.dtype)
        bias = rest.get(0, np.zeros((ways, 2 * gates * n), a.dtype))
        first = [rest.get(2 + i, zero) if not layout or 2 + i not in rest else rest[2 + i].transpose(1, 0, 2) for i in range(2)]
        p = rest.get(4, np.zeros((ways, 3 * n), a.dtype)) if lstm else None
        y, last = np.zeros((steps, ways, batch, n), a.dtype), [zero.copy(), zero.copy()]
        for d in range(ways):
            s, c = first[0][d], first[1][d] if lstm else None
            for t in range(steps)[:: -1 if d or direction == "reverse" else 1]:
                u, v = a[t] @ w[d].T + bias[d, : gates * n], s @ h[d].T + bias[d, gates * n :]
                if lstm:
                    i, o, f, z = np.split(u + v, 4, -1)
                    i, f = sigmoid(i + p[d, :n] * c), sigmoid(f + p[d, 2 * n :] * c)
                    c = f * c + i * np.tanh(z)
                    s = sigmoid(o + p[d, n : 2 * n] * c) * np.tanh(c)
                elif plain:
                    s = np.maximum(u + v, 0) if act == "Relu" else np.tanh(u + v)
                else:
                    z, r = sigmoid(u + v)[:, :n], sigmoid(u + v)[:, n : 2 * n]
                    seen = r * v[:, 2 * n :] if late else (r * s) @ h[d, 2 * n :].T + bias[d, gates * n + 2 * n :]
                    s = (1 - z) * np.tanh(u[:, 2 * n :] + seen) + z * s
                y[t, d] = s
            last[0][d], last[1][d] = s, c if lstm else 0
        if layout:
            return [y.transpose(2, 0, 1, 3)] + [v.transpose(1, 0, 2) for v in last[: 1 + lstm]]
        return [y] + last[: 1 + lstm]
    g.node(op, [x, w, h] + more, function, outputs=2 + lstm, hidden_size=n, direction=direction, layout=layout, activations=[act] * ways if plain and act else None,
           linear_before_reset=late if op == "GRU" else None)


def transposed(g):
    axes = g.r.randint(1, 2)
    x = g.pick(1)
    dims = split_of(g, int(np.prod(x.dims)), axes + 2)
    g.r.shuffle(dims)
    if dims[0] > 3 or max(dims[2:]) > 6:
        raise Skip()
    x = g.node("Reshape", [x, g.whole(dims)], lambda a, *_: a.reshape(dims))
    groups = g.r.choice([d for d in range(1, dims[1] + 1) if dims[1] % d == 0])
    each, taps = g.r.randint(1, 3), [g.r.randint(1, 3) for _ in range(axes)]
    s, d = [g.r.randint(1, 3) for _ in range(axes)], [g.r.choice([1, 1, 2])] * axes
    more = [g.r.randint(0, max(a, b) - 1) for a, b in zip(s, d)]
    full = [(n - 1) * a + (t - 1) * b + 1 + m for n, a, b, t, m in zip(dims[2:], s, d, taps, more)]
    p = [[g.r.randint(0, min(2, (f - 1) // 2)) for f in full] for _ in range(2)]
    wanted = [g.r.randint(max(1, f - 3), f) for f in full] if g.r.random() < 0.2 else None
    if wanted:
        p = [[(f - w) - (f - w) // 2 for f, w in zip(full, wanted)], [(f - w) // 2 for f, w in zip(full, wanted)]]
    w, b = g.random_weight([dims[1], each] + taps), [g.random_weight([groups * each])] if g.r.random() < 0.6 else []
    def function(a, w, *b):
        y, n = np.zeros([dims[0], groups * each] + full, a.dtype), dims[1] // groups
        for k in range(groups):
            for at in np.ndindex(*dims[2:]):
                for tap in np.ndindex(*taps):
                    to = tuple(i * q + t * e for i, q, t, e in zip(at, s, tap, d))
                    part = np.einsum("nc,co->no", a[(slice(None), slice(k * n, k * n + n)) + at], w[(slice(k * n, k * n + n), slice(None)) + tap])
                    y[(slice(None), slice(k * each, k * each + each)) + to] += part
        y = y[(slice(None), slice(None)) + tuple(slice(i, f - j) for i, j, f in zip(*p, full))]
        return y + b[0].reshape([1, -1] + [1] * axes) if b else y
    g.node("ConvTranspose", [x, w] + b, function, strides=s, dilations=d, pads=None if wanted else p[0] + p[1], output_padding=more, output_shape=wanted,
           group=groups if groups > 1 or g.r.random() < 0.5 else None)


def place_of(how, i, n, made, scale):
    if how == "align_corners":
        return i * (n - 1) / (made - 1) if made > 1 else 0
    if how == "asymmetric":
        return i / scale
    if how == "half_pixel_symmetric":
        return n / 2 * (1 - made / (scale * n)) + (i + 0.5) / scale - 0.5
    return (i + 0.5) / scale - 0.5 if made > 1 or how == "half_pixel" else 0


def resize(g):
    since(g, 11)
    x = g.pick(1)
    mode, how = g.r.choice(["nearest", "linear", "cubic"]), g.r.choice(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"])
    since(g, 19 if how == "half_pixel_symmetric" else 11)
    made, smooth, leaves = [g.r.choice([d, d, g.r.randint(1, 6)]) for d in x.dims], g.opset >= 18 and g.r.random() < 0.3, g.r.random() < 0.2
    scale, a = [m / d for m, d in zip(made, x.dims)], g.r.choice([None, -0.5])
    near = g.r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    told = how != "align_corners" and g.r.random() < 0.5
    if told:
        scale = [np.float32(g.r.choice([1, 1, 0.5, 1.5, 2, 2.6])) for _ in x.dims]
        made = [int(np.floor(float(v) * d)) for v, d in zip(scale, x.dims)]
        if min(made) < 1:
            raise Skip()
    def kernel(t):
        t, c = abs(t), -0.75 if a is None else a
        if mode == "linear":
            return max(0, 1 - t)
        return (c + 2) * t**3 - (c + 3) * t**2 + 1 if t <= 1 else c * t**3 - 5 * c * t**2 + 8 * c * t - 4 * c if t < 2 else 0
    def function(v, *_):
        for k, (n, m, q) in enumerate(zip(x.dims, made, scale)):
            w = np.zeros((n, m))
            for i in range(m if n != m or q != 1 else 0):
                at = place_of(how, i, n, m, float(q))
                rest = at % 1
                if mode == "nearest":
                    is_exact = how != "half_pixel_symmetric" and float(q) * 4 % 1 == 0  # else a tie depends on rounding
                    if any(abs(rest - edge) < 1e-3 and not (is_exact and rest == edge) for edge in (0, 0.5, 1)):
                        raise Skip()
                    to = {"floor": math.floor(at), "ceil": math.ceil(at), "round_prefer_floor": math.ceil(at - 0.5), "round_prefer_ceil": math.floor(at + 0.5)}[near]
                    w[min(max(to, 0), n - 1), i] = 1
                    continue
                spread = min(1, float(q)) if smooth else 1
                for j in range(-40, 50):
                    if 0 <= j < n or not (smooth or leaves):
                        w[min(max(j, 0), n - 1), i] += kernel((j - at) * spread)
                if abs(w[:, i].sum()) < 0.1:
                    raise Skip()
                w[:, i] /= w[:, i].sum() if smooth or leaves else 1
            if n != m or q != 1:
                v = np.moveaxis(np.tensordot(v, w.astype(v.dtype), (k, 0)), -1, k)
        return v
    last = [g.weight(np.array(scale, np.float32))] if told else [g.weight(np.zeros(0)) if g.r.random() < 0.3 else None, g.whole(made)]
    g.node("Resize", [x, None] + last, function, mode=mode, coordinate_transformation_mode=how, nearest_mode=near if mode == "nearest" else None,
           cubic_coeff_a=a, antialias=1 if smooth else None, exclude_outside=1 if leaves else None)


def products(g):
    """Einsum of one operand or two: sums, diagonals, an ellipsis, a result that is left out."""
    since(g, 12)
    x = g.pick(1)
    letters = g.r.sample("abcdeXYZ", len(x.dims))
    if len(x.dims) > 1 and x.dims[0] == x.dims[1] and g.r.random() < 0.3:
        letters[1] = letters[0]
    sizes, terms = dict(zip(letters, x.dims)), [("".join(letters), x)]
    if g.r.random() < 0.7:
        own = [(c, sizes.get(c) or g.r.randint(1, 4)) for c in g.r.sample("abcdeXYZ", g.r.randint(1, 3))]
        sizes.update(own)
        terms.append(("".join(c for c, _ in own), g.random_weight([d for _, d in own])))
    result = "".join(g.r.sample(sorted(sizes), g.r.randint(0, min(3, len(sizes)))))
    if g.r.random() < 0.3 and "".join(t for t, _ in terms).count(letters[0]) == 1:
        terms[0], result = ("..." + terms[0][0][1:], x), "..." + result.replace(letters[0], "")
    g.r.shuffle(terms)
    equation = ",".join(t for t, _ in terms) + ("->" + result if g.r.random() < 0.8 else "")
    g.node("Einsum", [v for _, v in terms], lambda *a: np.einsum(equation, *a), equation=equation)


def prefix_sums(g):
    since(g, 11)
    x = g.pick(1)
    k, axis = g.axis(x)
    late, back = g.r.choice([None, 0, 1]), g.r.choice([None, 0, 1])
    def function(a, *_):
        a = np.flip(a, k) if back else a
        y = np.cumsum(a, k) - (a if late else 0)
        return np.flip(y, k) if back else y
    g.node("CumSum", [x, g.weight(np.int64(axis), INT64)], function, exclusive=late, reverse=back)


def one_hot(g):
    since(g, 11)
    i = g.node("Cast", [apart(g.pick(0, 3))], np.trunc, kind="i", to=INT64)
    depth, axis = g.r.randint(1, 4), g.r.randint(-1, len(i.dims))
    def function(a, d, v):
        a = np.where(a < 0, a + depth, a)
        shape = [1] * (a.ndim + 1)
        k = axis % (a.ndim + 1)
        shape[k] = depth
        return np.where(np.expand_dims(a, k) == np.arange(depth).reshape(shape), v[1], v[0])
    g.node("OneHot", [i, g.weight(np.int64(depth), INT64), g.weight(np.array(g.r.choice([[0, 1], [-0.5, 2.5]])))], function, axis=axis)


def group_norm(g):
    x = g.pick(2)
    c = x.dims[1]
    groups = g.r.choice([d for d in range(1, c + 1) if c % d == 0]) if g.opset >= 18 and g.r.random() < 0.6 else None
    n, epsilon = groups if groups and g.opset < 21 else c, g.r.choice([None, 0.1])
    def function(a, s, b):
        v = a.reshape(a.shape[0], groups or c, -1)
        if v.var(2).min() < 1e-3:
            raise Skip()
        v = (v - v.mean(2, keepdims=True)) / np.sqrt(v.var(2, keepdims=True) + (epsilon or 1e-5))
        return (v.reshape(a.shape[0], n, -1) * s.reshape(-1, 1) + b.reshape(-1, 1)).reshape(a.shape)
    g.node("GroupNormalization" if groups else "InstanceNormalization", [x, g.random_weight([n]), g.random_weight([n])], function, epsilon=epsilon, num_groups=groups)


def vector_norm(g):
    x = g.pick(1)
    k, axis = g.axis(x)
    p = g.r.choice([None, 1, 2])
    def function(a):
        size = np.abs(a).sum(k, keepdims=True) if p == 1 else np.sqrt((a * a).sum(k, keepdims=True))
        if size.min() < 1e-3:
            raise Skip()
        return a / size
    g.node("LpNormalization", [x], function, axis=axis if axis != -1 or g.r.random() < 0.5 else None, p=p)


def blocks(g):
    x = g.pick(1)
    b, total = g.r.randint(1, 3), int(np.prod(x.dims))
    mode = g.r.choice([None, "DCR", "CRD"]) if g.opset >= 11 else None
    dims = split_of(g, total, 4)
    g.r.shuffle(dims)
    x = g.node("Reshape", [x, g.whole(dims)], lambda a, *_: a.reshape(dims))
    n, c, h, w = dims
    if g.r.random() < 0.5 and h % b == 0 and w % b == 0:
        g.node("SpaceToDepth", [x], lambda a: a.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b), blocksize=b)
        return
    while c % (b * b):
        b -= 1
    def function(a):
        a = a.reshape(n, c // b // b, b, b, h, w).transpose(0, 1, 4, 2, 5, 3) if mode == "CRD" else a.reshape(n, b, b, c // b // b, h, w).transpose(0, 3, 4, 1, 5, 2)
        return a.reshape(n, c // b // b, h * b, w * b)
    g.node("DepthToSpace", [x], function, blocksize=b, mode=mode)


def means(g):
    since(g, 8)
    x = g.pick()
    all_of = [x] + [g.partner(x) for _ in range(g.r.randint(0, 2))]
    g.node("Mean", all_of, lambda *a: sum(a[1:], a[0]) / len(a))


def sorted_constants(g):
    since(g, 11)
    n, k, largest = g.r.randint(1, 6), g.r.randint(1, 3), g.r.choice([None, 0, 1])
    if k > n:
        raise Skip()
    order = lambda a: np.argsort(-a if largest != 0 else a, -1, kind="stable")[..., :k]
    c = g.weight(g.n.integers(-3, 4, (g.r.randint(1, 2), n)))
    v, i = g.node("TopK", [c, g.whole([k])], lambda a, *_: [np.take_along_axis(a, order(a), -1), order(a)], outputs=2, largest=largest)
    i.kind = "i"
    j = g.node("Cast", [i], lambda a: a, to=FLOAT)
    g.node("Add", [g.pick(0, 0), g.node("Mul", [v, j], np.multiply)], np.add)


def steps(g):
    since(g, 11)
    start, delta, n = g.r.choice([0, 0.5, -2]), g.r.choice([1, -0.5, 0.3]), g.r.randint(1, 5)
    parts = [g.weight(np.float32(v)) for v in (start, start + delta * (n - 0.5), delta)]
    g.node("Range", parts, lambda a, b, c: a + c * np.arange(n))


CIRCLE = {"Atan": np.arctan, "Asin": np.arcsin, "Acos": np.arccos, "Tan": np.tan}


def angles(g):
    op, x = g.r.choice(sorted(CIRCLE)), g.pick()
    if op != "Atan":
        x = g.node("Mul", [g.node("Tanh", [x], np.tanh), g.weight(np.float32(0.8))], np.multiply)
    g.node(op, [x], CIRCLE[op])


def threshold(g):
    since(g, 10)
    x, alpha = g.pick(), g.r.choice([None, 0.5])
    if any((np.abs(a - (alpha or 1)) < 1e-4).any() for pair in x.runs for a in pair):
        raise Skip()
    g.node("ThresholdedRelu", [x], lambda a: np.where(a > (alpha or 1), a, 0), alpha=alpha)


MAKERS = [unary, unary, unary, positive, with_alpha, gelu, clip, binary, binary, binary, truth, cast, half, quotient, scalar, whole_consts, concat, expand, flatten, gather, pad, reshape, slice_of,
          split, squeeze, unsqueeze, transpose, shape_of, filled, reduce, reduce, soft, argmax, layer_norm, written_norm, batch_norm, gemm, matmul,
          matmul, conv, recurrent, pool, pool, with_two, halves, transposed, resize, resize, products, products, prefix_sums, one_hot, group_norm, vector_norm, blocks, means, sorted_constants, steps,
          angles, threshold, prelu, remainder, tile, trilu, mirrored, whole_sums, looked_up, quantised]


def agree(v):
    scale = max(v.largest(), 1e-3)
    return all(np.abs(a - b).max() <= 2e-5 * scale for a, b in v.runs)


def graph(seed):
    """Returns the bytes of a file, its inputs and outputs, and the names of its ops; None: it has an edge."""
    g = Graph(seed)
    for _ in range(g.r.randint(1, 3)):
        g.input([g.r.randint(1, 4) for _ in range(g.r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]))])
    if g.r.random() < 0.3:
        g.input([1, g.r.randint(2, 9)])
    wanted = g.r.randint(3, 15)
    for _ in range(60):
        if len(g.nodes) >= wanted:
            break
        before = len(g.values), len(g.nodes), g.weights, len(g.ops)
        try:
            g.r.choice(MAKERS)(g)
        except Skip:  # what was begun is taken back
            del g.values[before[0] :], g.nodes[before[1] :], g.ops[before[3] :]
            g.weights = before[2]
    made = [v for v in g.values if v not in g.inputs and not v.constant and v.kind == "f"]
    if not made or not all(agree(v) for v in g.values if v.kind == "f") or not all((a == b).all() for v in g.values if v.kind != "f" for a, b in v.runs):
        return None
    outputs = made[-1:] + g.r.sample(made, g.r.randint(0, min(2, len(made))))
    if g.r.random() < 0.2:  # an input, or a constant
        outputs.append(g.r.choice(g.inputs + [v for v in g.values if v.constant and v.kind == "f"]))
    if g.r.random() < 0.2:  # a part that is not read, and that no output needs
        g.nodes += [text(1, g.inputs[0].name) + text(2, "unused") + text(4, "Det"), text(1, "unused") + text(2, "unused too") + text(4, "Neg")]
    outputs = [v for i, v in enumerate(outputs) if v not in outputs[:i]]
    if g.r.random() < 0.2:
        g.r.shuffle(g.nodes)
    def info(field, v):
        dims = b"".join(text(1, number(1, d) if d > 1 or g.r.random() < 0.5 else text(2, "batch")) for d in v.dims)
        return text(field, text(1, v.name) + text(2, text(1, number(1, FLOAT) + text(2, dims))))
    body = b"".join(text(1, n) for n in g.nodes) + g.weights + b"".join(info(11, v) for v in g.inputs) + b"".join(info(12, v) for v in outputs)
    return number(1, 8) + text(7, body) + text(8, number(2, g.opset)), g.inputs, outputs, g.ops


def write(count, seed, file):
    """Graphs for tests/random_onnx.c: sizes are little-endian ints; each tensor has its values of all agents."""
    made = tried = 0
    ops = {}
    while made < count:
        one = graph(seed * 1000003 + tried)
        tried += 1
        if not one:
            continue
        made += 1
        for op in one[3]:
            ops[op] = ops.get(op, 0) + 1
        file.write(struct.pack("<iii", len(one[0]), len(one[1]), len(one[2])) + one[0])
        for v in one[1] + one[2]:
            file.write(struct.pack("<ii", len(v.name), int(np.prod(v.dims))) + v.name.encode() + b"".join(x[1].astype("<f4").tobytes() for x in v.runs))
    file.write(struct.pack("<iii", 0, 0, 0))
    return tried, ops
