#!/usr/bin/env python3
"""fold.h beside DyNet, one thread each, by turns.

    DYNET=/path/to/dynet make bench-dynet
    DYNET=/path/to/dynet python3 bench/peers/dynet.py --workload treelstm-sst --hidden 16 --batch 1,16

DYNET names a clone of github.com/clab/dynet. It is built once, into build/dynet, with Debian's cmake and libeigen3-dev, in
some ten minutes, with -O3 -march=native. Both sides have the same weights, samples and optimiser, and outputs, losses and
gradients of the first batch are compared in every form. DyNet's side is the best that was found: a network can be written in
several forms, with autobatching or without (bench/peers/dynet.cc); each is probed, the best three take part in all rounds.
Rates are by the processor's clock; turns.py has the rules. A row that does not settle is not printed.
Autobatching by depth is wrong for CompactVanillaLSTMBuilder: VanillaLSTMC has the signature of VanillaLSTMH in DyNet's nodes-lstm.cc.
"""
import argparse, json, os, re, subprocess, sys, tempfile

from turns import Tally, rate_of

FORMS = {"treelstm-tiny": 6, "treelstm-sst": 6, "treelstm-sick": 4, "bilstm-tagger": 4}
AUTOBATCH = ("none", "by mean depth", "by depth")
SIZES = {"treelstm-tiny": (8,), "bilstm-tagger": (50,)}  # hidden; of others 16, 64, 150
INPUTS = {8: 8, 16: 16, 64: 64, 150: 300, 50: 128}
BATCHES = (1, 16, 256)
ERROR = 1e-4
WRONG_IN_DYNET = ("bilstm-tagger", 1, 2)  # network, form, autobatching; in batches


def build(source):
    """Compiles DyNet and the driver, and returns the driver's path."""
    library, driver = os.path.abspath("build/dynet"), os.path.abspath("build/dynet/driver")
    os.makedirs(library, exist_ok=True)
    if os.path.exists(library + "/CMakeCache.txt"):
        with open(library + "/CMakeCache.txt") as cache:
            if "CMAKE_HOME_DIRECTORY:INTERNAL=%s\n" % source not in cache.read():
                sys.exit("build/dynet is of another clone: remove it")
    if not os.path.exists(library + "/dynet/libdynet.so"):
        with open(library + "/log", "w") as log:
            for command in (["cmake", "-S", source, "-B", library, "-DEIGEN3_INCLUDE_DIR=/usr/include/eigen3", "-DRELEASE_OPT_LEVEL=3"],
                            ["make", "-C", library, "dynet"]):
                if subprocess.run(command, stdout=log, stderr=log).returncode:
                    sys.exit("DyNet cannot be built: see %s/log" % library)
    subprocess.run(["c++", "-std=c++17", "-O3", "-march=native", "-w", "-DEIGEN_FAST_MATH", "-I" + source, "-I" + library,
                    "-I/usr/include/eigen3", "bench/peers/dynet.cc", "-o", driver, "-L" + library + "/dynet", "-ldynet",
                    "-Wl,-rpath," + library + "/dynet"], check=True)
    return driver


def version(source):
    """The commit of the clone, and the flags with which it was compiled."""
    commit = subprocess.run(["git", "-C", source, "log", "-1", "--format=%h of %ad", "--date=short"], capture_output=True, text=True).stdout
    with open("build/dynet/dynet/CMakeFiles/dynet.dir/flags.make") as file:
        flags = re.search("^CXX_FLAGS = *(.*)", file.read(), re.M).group(1)
    return "DyNet at %s, compiled with `%s`" % (commit.strip() or "no commit", flags)


class Driver:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.now = None

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()
        except BrokenPipeError:
            return ""

    def set(self, way):
        if way != self.now:
            self.ask("form %d %d" % way)
            self.now = way

    def rate(self, way, seconds):
        self.set(way)
        return float(self.ask("turn %g" % seconds) or 0)

    def error(self, way):
        self.set(way)
        return float(self.ask("check") or "inf")


def name_of(way):
    return "form %d, autobatch %s" % (way[0], AUTOBATCH[way[1]])


def row(given, tally, driver, workload, hidden, training, batch):
    mode = "train" if training else "infer"
    options = ["--workload", workload, "--mode", mode, "--batch", str(batch), "--hidden", str(hidden), "--input", str(INPUTS[hidden])]
    bench = [given.bench, "--json", "--clock", "processor", *options]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "batch")
        subprocess.run(bench + ["--export", path], check=True)
        peer = Driver([driver, workload, mode, path, "64" if batch < 16 else "300" if batch < 256 else "900"])
        ways = []
        for way in [(form, kind) for form in range(FORMS[workload]) for kind in range(len(AUTOBATCH) if batch > 1 or given.all else 1)]:
            error = peer.error(way)
            tally.checked += 1
            if error <= ERROR:
                tally.error = max(tally.error, error)
                ways.append(way)
                continue
            known = (workload, *way) == WRONG_IN_DYNET
            print("%s: %s %s, batch %d, %s: its values differ by %.2g" %
                  ("LEFT OUT" if known else "FAILED", workload, mode, batch, name_of(way), error), file=sys.stderr)
            tally.wrong += not known
        if tally.wrong:
            return
        best = sorted(ways, key=lambda way: -peer.rate(way, given.seconds / 2))[:3]

        def turns():
            line = json.loads(subprocess.run(bench + ["--seconds", str(given.seconds)], check=True, capture_output=True, text=True).stdout)
            return [line["samples_per_s"], *(peer.rate(way, given.seconds) for way in best)]
        rounds, settled = tally.rounds_of(given, turns)
        peer.process.stdin.close()
        peer.process.wait()
    if not settled:
        print("%s %s hidden %d, batch %d: not settled in %d rounds" % (workload, mode, hidden, batch, len(rounds)), file=sys.stderr)
        return
    ours, *theirs = (rate_of(rates) for rates in zip(*rounds))
    rate, way = max(zip(theirs, best))
    if tally.least is None or ours / rate < tally.least[0]:
        tally.least = (ours / rate, "%s-%d-%s-%d" % (workload, hidden, mode, batch))
    print("| %s, hidden %d | %s | %d | %.0f | %.0f | %s | %.2f |" % (workload, hidden, mode, batch, ours, rate, name_of(way), ours / rate), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workload", help="one or more of %s, with commas" % ", ".join(FORMS))
    p.add_argument("--mode", choices=["infer", "train"])
    p.add_argument("--hidden", help="one or more, with commas (16,64,150)")
    p.add_argument("--batch", help="one or more, with commas (1,16,256)")
    p.add_argument("--seconds", type=float, default=0.4, help="of each turn (0.4)")
    p.add_argument("--rounds", type=int, default=5, help="at least (5)")
    p.add_argument("--most", type=int, default=15, help="at most (15)")
    p.add_argument("--bench", default="bench/bench")
    p.add_argument("--all", action="store_true", help="autobatching of a batch of one, too")
    given = p.parse_args()
    source = os.environ.get("DYNET", "")
    if not os.path.exists(source + "/dynet/dynet.h"):
        print("SKIPPED: fold.h beside DyNet (DYNET does not name a clone of it)")
        print(Tally().result("dynet"))
        return 0
    driver, tally = build(os.path.abspath(source)), Tally()
    print(version(source) + "\n")
    print("| network | | batch | fold.h, samples/s | DyNet's best | by | ratio |\n|---|---|--:|--:|--:|---|--:|")
    numbers = lambda text, default: [int(x) for x in text.split(",")] if text else default
    for workload in given.workload.split(",") if given.workload else FORMS:
        for hidden in numbers(given.hidden, SIZES.get(workload, (16, 64, 150))):
            for training in (False, True):
                if given.mode in (None, "train" if training else "infer") and not (training and workload == "treelstm-tiny"):
                    for batch in numbers(given.batch, BATCHES):
                        row(given, tally, driver, workload, hidden, training, batch)
    print(tally.result("dynet"))
    return tally.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
