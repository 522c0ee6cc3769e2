"""Networks of PyTorch as ONNX files, trained for 20 steps there and by tests/train_onnx.c here: python3 tests/train_onnx.py write FOLDER,
then train_onnx FOLDER, then python3 tests/train_onnx.py back FOLDER, which loads what fold_onnx.h saved and compares."""

import random
import struct
import sys

import numpy as np
import torch
from random_onnx import FLOAT, INT64, attribute, number, tensor, text, varint
from torch import nn

STEPS, RATE, SAMPLES = 20, 0.005, 2  # with larger steps attention is chaotic: PyTorch itself is off by 5e-5 then


class Last(nn.Module):
    """A recurrent layer, of which a linear one reads all outputs."""

    def __init__(self, layer):
        super().__init__()
        self.rnn, self.out = layer, nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, 0])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x + torch.softmax(self.q(x) @ self.k(x).T * 0.5, -1) @ self.v(x))


def gates(name, order, n):
    """ONNX's gates are in another order than PyTorch's: z r h of r z n, i o f c of i f g o."""
    return name, [row for g in order for row in range(g * n, g * n + n)]


def recurrent(layer, op, order):
    """W, R and B of PyTorch's four tensors; the rows of each."""
    rows = gates(op, order, 5)[1]
    p = {k: v.detach().numpy() for k, v in layer.named_parameters()}
    return {"W": p["weight_ih_l0"][rows][None], "R": p["weight_hh_l0"][rows][None], "B": np.concatenate([p["bias_ih_l0"][rows], p["bias_hh_l0"][rows]])[None]}


def networks():
    """Name, network, shape of x, nodes: op, inputs, outputs, attributes; "state" names are those of PyTorch."""
    def linear(x, name, y):
        return "Gemm", [x, name + ".weight", name + ".bias"], [y], {"transB": 1}
    yield "mlp", nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)), (1, 6), [linear("x", "0", "a"), ("Tanh", ["a"], ["b"], {}), linear("b", "2", "y")]
    yield ("conv", nn.Sequential(nn.Conv2d(2, 3, 2, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3, groups=3), nn.Flatten(), nn.Linear(12, 2)), (1, 2, 3, 3),
           [("Conv", ["x", "0.weight", "0.bias"], ["a"], {"pads": [1, 1, 1, 1]}), ("Relu", ["a"], ["b"], {}), ("Conv", ["b", "2.weight", "2.bias"], ["c"], {"group": 3}),
            ("Flatten", ["c"], ["d"], {}), linear("d", "4", "y")])
    for op, layer, order in (("GRU", nn.GRU(4, 5), (1, 0, 2)), ("LSTM", nn.LSTM(4, 5), (0, 3, 1, 2))):
        yield (op.lower(), Last(layer), (4, 1, 4), [(op, ["x", "W", "R", "B"], ["a"], {"hidden_size": 5, "linear_before_reset": 1} if op == "GRU" else {"hidden_size": 5}),
                                                    ("Reshape", ["a", "rows"], ["b"], {}), linear("b", "out", "y")], order)
    yield ("attention", Attention(), (3, 6), [linear("x", n, n) for n in "qkv"] + [("Transpose", ["k"], ["t"], {}), ("MatMul", ["q", "t"], ["all"], {}),
           ("Mul", ["all", "half"], ["s"], {}), ("Softmax", ["s"], ["p"], {}), ("MatMul", ["p", "v"], ["m"], {}), ("Add", ["x", "m"], ["sum"], {}),
           ("LayerNormalization", ["sum", "norm.weight", "norm.bias"], ["y"], {})])


def weights_of(net, order):
    weights = {k: v.detach().numpy() for k, v in net.state_dict().items()}
    return dict(recurrent(net.rnn, "", order[0]), **{k: v for k, v in weights.items() if not k.startswith("rnn.")}) if order else weights


def write(folder):
    r = random.Random(1)
    for name, net, shape, nodes, *order in networks():
        x = [torch.randn(shape) for _ in range(SAMPLES)]
        target = [torch.randn(net(s).shape) for s in x]
        body = b""
        for op, inputs, outputs, attributes in nodes:
            node = b"".join(text(1, i) for i in inputs) + b"".join(text(2, o) for o in outputs) + text(4, op)
            body += text(1, node + b"".join(text(5, attribute(r, k, v)) for k, v in attributes.items()))
        for key, value in weights_of(net, order).items():
            body += text(5, tensor(r, key, value, FLOAT))
        body += text(5, tensor(r, "rows", np.array([4, 5]), INT64)) + text(5, tensor(r, "half", np.float32(0.5), FLOAT))
        for field, key, dims in ((11, "x", shape), (12, "y", target[0].shape)):
            body += text(field, text(1, key) + text(2, text(1, number(1, FLOAT) + text(2, b"".join(text(1, number(1, d)) for d in dims)))))
        with open("%s/%s.onnx" % (folder, name), "wb") as file:
            file.write(number(1, 8) + text(7, body) + text(8, number(2, 17)))
        with open("%s/%s.bin" % (folder, name), "wb") as file:
            file.write(struct.pack("<ii", x[0].numel(), target[0].numel()))
            for s, t in zip(x, target):
                file.write(s.numpy().astype("<f4").tobytes() + t.numpy().astype("<f4").tobytes())
        torch.save(net.state_dict(), "%s/%s.first" % (folder, name))
        step = torch.optim.SGD(net.parameters(), RATE)
        for _ in range(STEPS):
            step.zero_grad()
            sum(((net(s) - t) ** 2).sum() for s, t in zip(x, target)).backward()
            step.step()
        torch.save(net.state_dict(), "%s/%s.right" % (folder, name))


def fields(data):
    at = 0
    def take():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return value
    while at < len(data):
        key = take()
        value = take()
        if key & 7 == 2:
            at += value
            value = data[at - value : at]
        yield key >> 3, value


def tensors(path):
    with open(path, "rb") as file:
        graph = dict(fields(file.read()))[7]
    for field, value in fields(graph):
        if field == 5:
            parts = dict(fields(value))
            if parts[2] == FLOAT:
                yield parts[8].decode(), np.frombuffer(parts[9] if 9 in parts else parts[4], "<f4")


def back(folder):
    failed = 0
    for name, net, _, _, *order in networks():
        saved, state = dict(tensors("%s/%s.trained.onnx" % (folder, name))), {}
        first, right = torch.load("%s/%s.first" % (folder, name)), torch.load("%s/%s.right" % (folder, name))
        if order:
            rows = gates("", order[0], 5)[1]
            w, h = saved.pop("W").reshape(-1, 4), saved.pop("R").reshape(-1, 5)
            b = saved.pop("B").reshape(2, -1)
            for key, made in (("weight_ih_l0", w), ("weight_hh_l0", h), ("bias_ih_l0", b[0]), ("bias_hh_l0", b[1])):
                turned = np.empty_like(made)
                turned[rows] = made
                state["rnn." + key] = turned
        saved.pop("half")
        state.update(saved)
        net.load_state_dict({k: torch.from_numpy(np.array(v)).reshape(right[k].shape) for k, v in state.items()})
        by = max((v - right[k]).abs().max().item() for k, v in net.state_dict().items())
        moved = min((v - first[k]).abs().max().item() for k, v in net.state_dict().items())
        fails = not by <= 3e-6 or moved < 1e-4 and name != "attention"  # a bias of keys has no gradient
        failed += fails
        print("%s: %s: differs from PyTorch's by %.2g after %d steps of at least %.2g" % ("FAILED" if fails else "right", name, by, STEPS, moved))
    return failed


if __name__ == "__main__":
    torch.manual_seed(1)
    sys.exit(write(sys.argv[2]) if sys.argv[1] == "write" else back(sys.argv[2]))
