#!/usr/bin/env python3
"""Exports PyTorch networks as ONNX files, with inputs and the outputs that PyTorch computes, for tests/test_onnx.c. Or makes random
graphs, with the outputs that numpy computes, for tests/random_onnx.c.

    python3 tests/make_onnx.py FOLDER [SEED]    makes folders in the format of examples/policy.c; set FOLD_POLICIES to FOLDER
    python3 tests/make_onnx.py --random COUNT SEED FILE

Each PyTorch network is exported at opsets 11, 13 and 17, with a batch of 1 and with a batch of any size."""

import os
import sys
import warnings

if len(sys.argv) == 5 and sys.argv[1] == "--random":
    import random_onnx

    with open(sys.argv[4], "wb") as graphs:
        tried, ops = random_onnx.write(int(sys.argv[2]), int(sys.argv[3]), graphs)
    print("%d graphs of %d, nodes:" % (int(sys.argv[2]), tried), ", ".join("%s %d" % op for op in sorted(ops.items())))
    sys.exit()

import torch
from torch import nn
from torch.nn import functional

warnings.filterwarnings("ignore")


class Recurrent(nn.Module):
    """What rsl_rl exports: a step of a GRU, whose state is an input and an output."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(20, 32)
        self.actor = nn.Sequential(nn.Linear(32, 64), nn.ELU(), nn.Linear(64, 6))

    def forward(self, x, h):
        y, h = self.rnn(x.unsqueeze(0), h)
        return self.actor(y.squeeze(0)), h


class Sequence(nn.Module):
    def __init__(self, layers, both):
        super().__init__()
        self.rnn = nn.LSTM(12, 16, layers, bidirectional=both, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, h, c


class Temporal(nn.Module):
    """Causal convolutions over time."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(6, 16, 3), nn.Conv1d(16, 16, 3, dilation=2)
        self.out = nn.Linear(64, 5)

    def forward(self, x):
        x = torch.relu(self.first(functional.pad(x, (2, 0))))
        x = torch.relu(self.second(functional.pad(x, (4, 0))))
        return self.out(x[:, :, -4:].flatten(1))


class Heads(nn.Module):
    """Heads of SAC and PPO."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.SiLU(), nn.LayerNorm(32))
        self.mean, self.deviation, self.logits = nn.Linear(32, 4), nn.Linear(32, 4), nn.Linear(32, 7)

    def forward(self, x):
        h = self.body(x)
        logits = self.logits(h)
        deviation = torch.clamp(self.deviation(h), -20, 2).exp()
        spread = logits - logits.logsumexp(-1, keepdim=True)
        return torch.tanh(self.mean(h)), deviation, functional.softplus(logits), torch.log_softmax(logits, -1), spread, logits.argmax(1)


class Entities(nn.Module):
    """Attention over entities, of which a mask leaves out some; a latent is divided by its norm."""

    def __init__(self):
        super().__init__()
        self.embed, self.query, self.key, self.value = nn.Linear(5, 32), nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.out = nn.Linear(32, 3)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2)

    def forward(self, x, mask):
        h = functional.gelu(self.embed(x))
        scores = self.heads(self.query(h)) @ self.heads(self.key(h)).transpose(-1, -2) / 8**0.5
        shares = scores.masked_fill(mask[:, None, None, :] < 0.5, -1e9).softmax(-1)
        y = (shares @ self.heads(self.value(h))).transpose(1, 2).reshape(h.shape)
        m = mask.unsqueeze(-1)
        y = (y * m).sum(1) / m.sum(1).clamp(min=1)
        return self.out(y / y.norm(dim=-1, keepdim=True)), torch.where(mask > 0.5, mask, mask * 0 - 1)


def transformer(norm_first, activation):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first, activation=activation)
    return nn.TransformerEncoder(layer, 2)


def normed():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8),
                        nn.Hardtanh(), nn.Flatten(), nn.Linear(512, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.1))
    for module in net:
        if hasattr(module, "running_var"):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


def networks():
    yield "mlp", nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 2)), [torch.randn(1, 8)]
    yield "gru", Recurrent(), [torch.randn(1, 20), torch.randn(1, 1, 32)]
    yield "lstm", Sequence(1, False), [torch.randn(1, 5, 12)]
    yield "lstm-both", Sequence(2, True), [torch.randn(1, 5, 12)]
    yield "tcn", Temporal(), [torch.randn(1, 6, 10)]
    yield "nature", nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                  nn.Flatten(), nn.Linear(3136, 64), nn.ReLU(), nn.Linear(64, 5)), [torch.rand(1, 4, 84, 84)]
    yield "heads", Heads(), [torch.randn(1, 10)]
    yield "entities", Entities(), [torch.randn(1, 7, 5), torch.tensor([[1.0, 1, 0, 1, 0, 1, 1]])]
    yield "transformer", transformer(False, "relu"), [torch.randn(1, 6, 32)]
    yield "transformer-first", transformer(True, "gelu"), [torch.randn(1, 6, 32)]
    yield "batch-norm", normed(), [torch.randn(1, 3, 16, 16)]


def write(folder, net, inputs, opset, any_batch):
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        outputs = net(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    names = ["in%d" % i for i in range(len(inputs))]
    axes = {name: {1 if x.dim() == 3 and x.shape[0] == 1 and i else 0: "batch"} for i, (name, x) in enumerate(zip(names, inputs))}
    torch.onnx.export(net, tuple(inputs), folder + "/model.onnx", opset_version=opset, input_names=names,
                      output_names=["out%d" % i for i in range(len(outputs))], dynamic_axes=axes if any_batch else {})
    with open(folder + "/index.txt", "w") as index:
        print("model model.onnx\ncases 1", file=index)
        for kind, letter, values in (("input", "in", inputs), ("output", "out", outputs)):
            for i, x in enumerate(values):
                print(kind, i, letter + str(i), *x.shape, file=index)
                with open("%s/case0_%s%d.f32" % (folder, letter, i), "wb") as file:
                    file.write(x.detach().float().contiguous().numpy().tobytes())


def main():
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for name, net, inputs in networks():
        net.eval()
        for opset in (11, 13, 17):
            for any_batch in (0, 1):
                write("%s/%s-%d-%d" % (sys.argv[1], name, opset, any_batch), net, inputs, opset, any_batch)


if __name__ == "__main__":
    main()
