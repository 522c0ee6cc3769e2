"""What all networks of the peers share: the bench's random numbers, and weights as fold.h names them."""
import json, math
import numpy, torch
import torch.nn.functional as F

MASK = (1 << 64) - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Random:
    """splitmix64, as in bench/workloads.h."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        if n <= 1:
            return 0
        self.state = (self.state + STEP) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * FIRST) & MASK
        z = ((z ^ (z >> 27)) * SECOND) & MASK
        return (z ^ (z >> 31)) % n

    def many(self, count, n):
        """count numbers below n > 1, as float32."""
        z = numpy.uint64(self.state) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(STEP)
        self.state = (self.state + count * STEP) & MASK
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(FIRST)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(SECOND)
        return torch.from_numpy(((z ^ (z >> numpy.uint64(31))) % numpy.uint64(n)).astype(numpy.float32))

    def values(self, count):
        return self.many(count, 2001) / 1000 - 1


def weight(*shape):
    bound = math.sqrt(6 / sum(shape)) if len(shape) > 1 else 0.0
    return torch.nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def tensors_of(path):
    """The tensors of a safetensors file of floats."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            tensors[name] = torch.from_numpy(numpy.frombuffer(data[begin + a : begin + b], dtype=numpy.float32).copy()).view(entry["shape"])
    return tensors


class Net:
    """A network in PyTorch. hows: the ways in which it runs a batch; PREPARED: index tensors are made before the clock starts."""
    hows = ("levels",)
    trains, relu = True, False

    def parameters(self):
        return [p for p in self.tensors() if p.requires_grad]

    def tensors(self):
        for part in vars(self).values():
            for each in part if isinstance(part, (list, tuple)) else [part]:
                if isinstance(each, torch.nn.Module):
                    yield from each.parameters()
                elif isinstance(each, torch.nn.Parameter):
                    yield each

    def load(self, tensors):
        """Takes fold.h's values: weights(t) gives pairs of a parameter and its value or gradient, of tensors by their names there."""
        with torch.no_grad():
            for parameter, value in self.weights(tensors):
                parameter.copy_(value)

    @classmethod
    def batch(cls, random, o):
        """Samples as fold.h's bench draws them: the numbers of one, draw(random, o), behind those of another."""
        return [cls.draw(random, o) for _ in range(o.batch)]

    def in_order(self, prepared, y):
        """The outputs of inference as fold.h lays them out."""
        return y

    def sample_in_order(self, sample, y):
        return y


def linear_of(layer, t, name):
    """The pairs of a torch.nn.Linear."""
    return [(layer.weight, t[name + ".W"].t()), (layer.bias, t[name + ".b"])]


def lstm_of(layer, t, name, suffix="_l0"):
    """Of one layer and direction of a torch.nn.LSTM: fold.h's gates are i f o u in one matrix for x and h, and one bias."""
    def gates(x):
        i, f, o, u = x.chunk(4, -1)
        return torch.cat([i, f, u, o], -1)
    n = t[name + ".W"].shape[0] - layer.hidden_size
    W, U = gates(t[name + ".W"]).split([n, layer.hidden_size])
    unused = getattr(layer, "bias_hh" + suffix)
    unused.requires_grad_(False).zero_()
    return [(getattr(layer, "weight_ih" + suffix), W.t()), (getattr(layer, "weight_hh" + suffix), U.t()),
            (getattr(layer, "bias_ih" + suffix), gates(t[name + ".b"]))]


def gru_of(layer, t, name, suffix=""):
    """Of one layer of a torch.nn.GRU, or of a GRUCell."""
    return [(getattr(layer, "weight_ih" + suffix), t[name + ".W"].t()), (getattr(layer, "weight_hh" + suffix), t[name + ".U"].t()),
            (getattr(layer, "bias_ih" + suffix), t[name + ".b"]), (getattr(layer, "bias_hh" + suffix), t[name + ".c"])]
