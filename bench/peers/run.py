#!/usr/bin/env python3
"""fold.h beside PyTorch, one thread each, by turns.

    make bench-peers
    python3 bench/peers/run.py --workload lstm-lm --mode train --batch 32,256 --rounds 5

First both sides must compute the same: PyTorch takes fold.h's weights, and outputs, losses and all gradients of a batch are
compared. Both flush subnormal numbers to zero. Then come rounds: fold.h's bench, and each way of PyTorch that
bench/peers/torch_peer.py tells of, one after the other, in seconds of the processor. Others on the machine only make a turn
slower, so a side's rate is the second best of its turns. There are rounds until the best three turns of each side lie within 8 %
of one another, and without that the row is not published.
PyTorch on the reference BLAS is refused, and where OpenBLAS is older than the processor its kernels are chosen for it (blas.py).
bench/peers/run finds a python3 that has torch.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
import torch
import kernels
from blas import REFUSED, blas
from common import tensors_of
from torch_peer import BY_LENGTH, WORKLOADS, Peer, modes_of, start_torch
from turns import Tally, rate_of

# Errors that are let pass, to the largest of a tensor: on small sizes (--check); on full ones, where sums run over 10,000 rows; of
# gradients of networks with ReLU there, where one of a million sums is so close to zero that it is cut on one side alone.
SMALL_ERROR, ERROR, RELU_ERROR = 1e-4, 5e-4, 1e-2
BATCHES = {"frame": (1, 32), "decode": (1, 32), "policy": (1, 64, 256, 512), "policy-mlp": (1, 64, 256, 512),
           "ppo": (32, 64, 256, 512), "ppo-mlp": (32, 64, 256, 512)}  # of others 1, 32, 256: 256 frames are 128,000 agents, a cache of 32 sequences 67 MB
SMALL = dict(input=16, hidden=24, words=50)  # --check
FIXED = {"mnist-mlp": ("input", "words"), "policy": ("words",), "policy-mlp": ("words",), "ppo": ("words",), "ppo-mlp": ("words",), "decode": ("input", "hidden", "words"), "transformer": ()}


def bench(given, *options):
    out = subprocess.run([given.bench, "--json", "--clock", "processor", "--flush", "on", *options], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def bench_options(workload, training, batch):
    options = ["--workload", workload.removesuffix("-softmax"), "--mode", "train" if training else "infer", "--batch", str(batch)]
    if workload.startswith("lstm-lm"):
        options += ["--softmax", "on" if workload.endswith("-softmax") else "off"]
    return options + (["--plan-cache", "on"] if workload == "decode" else [])


# -- the same network ----------------------------------------------------------------------------------

def error_of(got, want):
    """The largest difference by the largest value."""
    got, want = got.detach().to_dense().flatten(), want.flatten()
    if got.shape != want.shape:
        return float("inf")
    error = ((got - want).abs().max() / want.abs().max().clamp(min=1e-20)).item()
    return error if error == error else float("inf")


def check(given, tally, workload, training, batch, hows, sized):
    """Whether PyTorch gives what fold.h does, in each way."""
    options = bench_options(workload, training, batch)
    for key, value in sized.items():
        options += ["--" + key, str(value)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "batch")
        bench(given, *options, "--export", path)
        values = tensors_of(path + ".values") if os.path.exists(path + ".values") else {}
        with open(path + ".outputs", "rb") as file:
            outputs = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
        gradients = tensors_of(path + ".gradients") if training else None
    for how in hows:
        peer = Peer(workload, how, training, batch, sized)
        peer.by_length = False
        peer.generate(batches=1)
        peer.net.load(values)
        error, where = same(peer, outputs, gradients)
        tally.checked += 1
        tally.error = max(tally.error, error)
        if not error <= (SMALL_ERROR if sized else RELU_ERROR if training and peer.net.relu else ERROR):
            print("FAILED: %s %s %s, batch %d: %s differs by %.2g" % (workload, "train" if training else "infer", how, batch, where, error))
            wrong += 1
    tally.wrong += wrong
    return wrong == 0


def same(peer, outputs, gradients):
    """The largest error and where it is."""
    if not gradients:
        with torch.no_grad():
            y = peer.forward(0)
        if peer.o.how == "samples":
            y = torch.cat([peer.net.sample_in_order(x, out) for x, out in zip(peer.data[0], y)])
        else:
            y = peer.net.in_order(peer.net.prepare(peer.data[0]), y)
        return error_of(y, outputs), "an output"
    loss = peer.loss(0)
    loss.backward()
    errors = [(error_of(loss, outputs.double().sum().float() / len(peer.data[0])), "the loss")]
    for number, (parameter, want) in enumerate(peer.net.weights(gradients)):
        if parameter.requires_grad:
            errors.append((error_of(parameter.grad, want), "gradient %d" % number))
    return max(errors)


# -- measuring -----------------------------------------------------------------------------------------

def compare(given, tally, workload, training, batch, hows):
    """One row."""
    peers = {}
    for how in hows:
        peers[how] = Peer(workload, how, training, batch)
        peers[how].generate()
        peers[how].warm_up()
    options = bench_options(workload, training, batch) + ["--seconds", str(given.seconds)]

    def turns():
        return [bench(given, *options)[0]["units_per_s"], *(peer.measure(given.seconds) for peer in peers.values())]
    rounds, settled = tally.rounds_of(given, turns)
    name = "%-15s %-5s %5d " % (workload, "train" if training else "infer", batch)
    if not settled:
        print(name + "not published: the best three of %d turns of a side lie further apart" % len(rounds), file=sys.stderr)
        return
    ours, *theirs = (rate_of(rates) for rates in zip(*rounds))
    unit, cells, least = next(iter(peers.values())).net.unit, [], None
    for how, rate in zip(hows, theirs):
        ratio = ours / rate
        cells.append((ratio, "%s %.0f (%.2f)" % (how, rate, ratio)))
        least = ratio if least is None else min(least, ratio)
    if tally.least is None or least < tally.least[0]:
        tally.least = (least, "%s-%s-%d" % (workload, "train" if training else "infer", batch))
    print(name + "%9.0f %-7s %7.2f %6d  %s" % (ours, unit, least, len(rounds), ", ".join(text for _, text in sorted(cells))), flush=True)


def compare_kernels(given, tally, workload):
    is_gemm, kept = workload == "gemm", []
    names = [(shape, way) for shape, *_ in kernels.ATTENTION_SHAPES for way in ("forward", "backward") if way == "forward" or shape[0] != "d"]

    def turns():
        lines = bench(given, "--workload", workload, "--seconds", str(given.seconds if is_gemm else given.seconds / 4))
        keys = [(x["product"], x["m"], x["k"], x["n"]) for x in lines] if is_gemm else names
        ours = {key: x["flop_per_s"] for key, x in zip(keys, lines)}
        theirs = kernels.gemm() if is_gemm else kernels.attention()
        kept.append((ours, theirs))
        return [statistics.geometric_mean(rates.values()) for rates in (ours, theirs)]
    rounds, settled = tally.rounds_of(given, turns)
    if not settled:
        print("%s not published: the best three of %d turns of a side lie further apart" % (workload, len(rounds)), file=sys.stderr)
        return
    ratio_of = {key: rate_of([ours[key] for ours, _ in kept]) / rate_of([theirs[key] for _, theirs in kept]) for key in kept[0][1]}
    print("\n%s: how many times as fast fold.h is; %d rounds" % (workload, len(rounds)))
    if is_gemm:
        print("%-24s" % "rows" + "".join("%7d" % m for m in kernels.GEMM_ROWS))
        for k, n in kernels.GEMM_SHAPES:
            for product in ("Y=XW", "dX+=dYWT", "dW+=XTdY"):
                print("%4d x %-5d %-10s  " % (k, n, product) + "".join("%7.2f" % ratio_of[product, m, k, n] for m in kernels.GEMM_ROWS), flush=True)
        return
    for key in names:
        print("%-32s %-9s %6.2f   fold.h %.1f GFLOP/s" % (*key, ratio_of[key], 1e-9 * rate_of([ours[key] for ours, _ in kept])), flush=True)


def ways(workload, training, batch):
    """Those that differ at this batch: one sample has no order, and one at a time is for one sample."""
    for how in WORKLOADS[workload][0].hows:
        if training not in modes_of(workload, how):
            continue
        if batch > 1 and how == "samples" or batch == 1 and how.endswith(BY_LENGTH):
            continue
        yield how


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workload", help="one or more of bench's, with commas; lstm-lm-softmax is one of its own")
    p.add_argument("--mode", choices=["infer", "train"])
    p.add_argument("--batch", help="one or more, with commas (1,32,256)")
    p.add_argument("--seconds", type=float, default=0.3, help="of each turn (0.3)")
    p.add_argument("--rounds", type=int, default=5, help="at least (5)")
    p.add_argument("--most", type=int, default=25, help="at most (25)")
    p.add_argument("--bench", default="bench/bench")
    p.add_argument("--check", action="store_true", help="only compares what both compute, on small sizes")
    given = p.parse_args()
    start_torch()
    library, is_reference = blas()
    if is_reference and not given.check:
        sys.exit(REFUSED % library)
    print("PyTorch %s runs on %s" % (torch.__version__, library), flush=True)
    tally = Tally()
    names = given.workload.split(",") if given.workload else [*WORKLOADS, "gemm", "attention-kernels"]
    if not given.check:
        print("%-15s %-5s %5s %9s %-7s %7s %6s  %s" % ("", "", "", "fold.h", "", "by the", "", "PyTorch's units/s"))
        print("%-15s %-5s %5s %9s %-7s %7s %6s  %s" % ("workload", "mode", "batch", "units/s", "", "best", "rounds", "(fold.h's ratio to it), the best first"))
    for workload in names:
        if workload not in WORKLOADS:
            if not given.check:
                compare_kernels(given, tally, workload)
            continue
        for training in (False, True):
            if given.mode not in (None, "train" if training else "infer"):
                continue
            batches = [int(b) for b in given.batch.split(",")] if given.batch else BATCHES.get(workload, (1, 32, 256))
            for batch in (3,) if given.check else batches:
                if batch > max(BATCHES.get(workload, (batch,))):
                    print("%s is left out at %d: its largest batch is %d" % (workload, batch, max(BATCHES[workload])), flush=True)
                    continue
                hows = list(ways(workload, training, batch))
                if given.check:
                    hows = [how for how in WORKLOADS[workload][0].hows if not how.endswith(BY_LENGTH) and training in modes_of(workload, how)]
                sized = {key: SMALL[key] for key in SMALL if key not in FIXED.get(workload, ())} if given.check else {}
                if hows and check(given, tally, workload, training, batch, hows, sized) and not given.check:
                    compare(given, tally, workload, training, batch, hows)
    print(tally.result("peers"))
    return tally.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
