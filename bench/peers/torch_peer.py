#!/usr/bin/env python3
"""The bench's workloads in PyTorch, one thread: batched by hand, by PyTorch's own layers, or a sample at a time.

    python3 bench/peers/torch_peer.py --workload treelstm-sick --mode train --how levels --batch 256 --seconds 2

Prints one JSON object a line, with keys of bench/bench --json. Data come from the same generator (splitmix64) with the same
draws; time is the processor's. --how levels, packed, padded, …: as the network's comment says, index tensors are made before the
clock starts; build: they are made within the time of a batch, by plain Python loops; samples: one at a time by recursion. What ends
in -by-length runs batches of samples in order of length. Without --how all ways run. bench/peers/run.py compares.
"""
import argparse, json, statistics, time, warnings
import torch
from common import Random
from trees import Sick, Sst
from sequences import Chain, Crf, Gru, LanguageModel, Lattice, Pointer, Sequences, Tagger
from games import Ppo, PpoMlp
from lists import Attention, Decode, Frame, Graph, Mnist, Policy, PolicyMlp, Transformer


def sizes(batch, input, hidden, words, classes, min, max):
    return dict(batch=batch, input=input, hidden=hidden, words=words, classes=classes, min=min, max=max)


# As in bench/workloads.h. lstm-lm-softmax is bench's lstm-lm with --softmax on.
WORKLOADS = {
    "treelstm-sick": (Sick, sizes(256, 300, 150, 2400, 5, 5, 15)),
    "treelstm-sst": (Sst, sizes(256, 300, 150, 10000, 5, 5, 35)),
    "treelstm-tiny": (Sst, sizes(256, 8, 8, 10000, 0, 5, 35)),
    "lstm-lm-softmax": (LanguageModel, sizes(32, 200, 200, 10000, 0, 5, 60)),
    "lstm-lm": (Sequences, sizes(32, 200, 200, 10000, 0, 5, 60)),
    "gru": (Gru, sizes(32, 200, 200, 10000, 0, 5, 60)),
    "mnist-mlp": (Mnist, sizes(32, 784, 200, 1, 10, 1, 1)),
    "chain": (Chain, sizes(1, 150, 150, 10000, 0, 200, 200)),
    "lattice": (Lattice, sizes(64, 50, 100, 5000, 10, 10, 40)),
    "bilstm-tagger": (Tagger, sizes(32, 128, 50, 10000, 9, 5, 40)),
    "pointer": (Pointer, sizes(32, 128, 128, 10000, 0, 5, 40)),
    "crf": (Crf, sizes(32, 128, 128, 10000, 9, 5, 40)),
    "attention": (Attention, sizes(256, 16, 64, 1, 5, 1, 21)),
    "frame": (Frame, sizes(1, 16, 32, 500, 8, 1, 21)),
    "graph": (Graph, sizes(32, 64, 64, 20, 2, 10, 100)),
    "transformer": (Transformer, sizes(32, 128, 128, 10000, 5, 5, 40)),
    "policy": (Policy, sizes(1, 16, 64, 1, 8, 1, 1)),
    "policy-mlp": (PolicyMlp, sizes(1, 16, 64, 1, 8, 1, 1)),
    "ppo": (Ppo, sizes(32, 32, 128, 1, 6, 20, 64)),
    "ppo-mlp": (PpoMlp, sizes(32, 32, 128, 1, 6, 20, 64)),
    "decode": (Decode, sizes(1, 512, 512, 1, 0, 512, 512)),
}
RATES = {torch.optim.Adam: 0.0001}  # of the others 0.01, as in bench/side.h
BY_LENGTH = "-by-length"
FEWEST, FEWEST_BY_LENGTH = 2, 4     # batches of a measurement


def sample_length(sample):
    return len(sample[0] if isinstance(sample, tuple) else sample)


class Peer:
    """A workload run in one way, with its data; it goes on where the last measurement ended."""

    def __init__(self, workload, how, training, batch=None, given=None):
        self.make, usual = WORKLOADS[workload]
        self.o = o = argparse.Namespace(**usual)
        vars(o).update({key: value for key, value in (given or {}).items() if value is not None})
        o.batch = batch or o.batch
        self.training, self.by_length, o.how = training, how.endswith(BY_LENGTH), how.removesuffix(BY_LENGTH)
        torch.manual_seed(1)
        self.net = self.make(o)
        self.next = 0
        self.optimisers = None

    def generate(self, seed=1, batches=None):
        random, o = Random(seed), self.o
        data = [self.net.batch(random, o) for _ in range(batches or min(64, max(8, 512 // o.batch)))]
        if self.by_length:
            flat = sorted((x for batch in data for x in batch), key=sample_length)
            data = [flat[i : i + o.batch] for i in range(0, len(flat), o.batch)]
            step = next(k for k in (5, 7, 3) if len(data) % k)  # a few of them are long and short ones
            data = [data[i * step % len(data)] for i in range(len(data))]
        self.data = data
        late = o.how in ("build", "samples")
        self.prepared = [None if late else self.net.prepare(batch) for batch in data]
        self.times = [[] for _ in data]

    def open_optimisers(self):
        """Rows of tables that were looked up are all that sparse gradients have; PyTorch has an Adam of its own for them."""
        kind, parameters = self.net.optimiser, self.net.parameters()
        tables = [m.weight for m in vars(self.net).values() if isinstance(m, torch.nn.Embedding) and m.sparse and m.weight.requires_grad]
        rest = [p for p in parameters if not any(p is t for t in tables)]
        if kind is not torch.optim.Adam:
            rest, tables = parameters, []
        self.optimisers = [kind(rest, lr=RATES.get(kind, 0.01))] + ([torch.optim.SparseAdam(tables, lr=RATES[kind])] if tables else [])

    def forward(self, which):
        data = self.data[which]
        if self.o.how == "samples":
            out = [self.net.sample(x, self.training) for x in data]
            return sum(out) if self.training else out
        prepared = self.net.prepare(data) if self.o.how == "build" else self.prepared[which]
        return self.net.levels(prepared, self.training)

    def loss(self, which):
        return self.forward(which) / len(self.data[which])

    def run_batch(self, which):
        with torch.set_grad_enabled(self.training):
            if not self.training:
                self.forward(which)
                return
            if not self.optimisers:
                self.open_optimisers()
            loss = self.loss(which)
            for each in self.optimisers:
                each.zero_grad(set_to_none=True)
            loss.backward()
            for each in self.optimisers:
                each.step()

    def measure(self, seconds):
        """Units a second: of the batches run, by the median of each one's times."""
        fewest = FEWEST_BY_LENGTH if self.by_length else FEWEST
        times, count, start = [[] for _ in self.data], 0, time.process_time()
        while count < fewest or time.process_time() - start < seconds:
            begin = time.process_time()
            self.run_batch(self.next)
            times[self.next].append(time.process_time() - begin)
            self.next = (self.next + 1) % len(self.data)
            count += 1
        done = [k for k, each in enumerate(times) if each]
        return sum(self.net.units(self.data[k]) for k in done) / sum(statistics.median(times[k]) for k in done)

    def warm_up(self):
        for which in range(2):
            self.run_batch(which)


def modes_of(workload, how):
    peer = Peer(workload, how, False, 1)
    return [False, True] if peer.net.trains else [False]


def start_torch():
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # without it Intel's processors take ten times as long for gradients that vanish
    warnings.filterwarnings("ignore", message=".*(ested|in beta)")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workload", choices=WORKLOADS)
    p.add_argument("--mode", choices=["infer", "train"])
    p.add_argument("--how")
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--json", action="store_true", help="accepted for symmetry: it always does")
    for name in ("batch", "input", "hidden", "words", "classes", "min", "max"):
        p.add_argument("--" + name, type=int)
    given = p.parse_args()
    start_torch()
    sized = {key: getattr(given, key) for key in ("input", "hidden", "words", "classes", "min", "max")}
    for name, (make, _) in WORKLOADS.items():
        for how in make.hows if given.workload in (None, name) else ():
            for training in modes_of(name, how) if given.how in (None, how) else ():
                if given.mode not in (None, "train" if training else "infer"):
                    continue
                peer = Peer(name, how, training, given.batch, sized)
                peer.generate(given.seed)
                peer.warm_up()
                print(json.dumps({
                    "workload": name, "mode": "train" if training else "infer", "batch": peer.o.batch, "threads": 1, "schedule": "torch-" + how,
                    "isa": "torch " + torch.__version__, "units_per_s": round(peer.measure(given.seconds), 1), "unit": peer.net.unit}), flush=True)


if __name__ == "__main__":
    main()
