#!/usr/bin/env python3
"""Measures here and now, and writes the pages that show it: python3 bench/figures.py COMMAND [--kept] [--seconds S]

    study              bench/STUDY.md and bench/log/STUDY.md   FOLD_DATA: real trees, DYNET: a clone of DyNet
    dynet              their sections of DyNet  DYNET
    results            bench/log/RESULTS.md     PEERS: options of bench/peers/run.py
    programs           bench/log/PROGRAMS.md    FOLD_DATA: real data
    small, mixed, two  print one table of those pages
    pages              takes the figures of bench/FIGURES.md and README.md from those pages, as the first four do in the end
    quotes             fails if a page quotes something else, and says which
    readme             prints README.md's table

What a command prints is kept in build/figures: --kept writes the page again without measuring. --seconds replaces the seconds of
each command, for a trial. A section that cannot be measured, since a program or a clone is not here, stays as it was.
"""
import argparse, collections, concurrent.futures, datetime, functools, itertools, json, os, re, statistics, subprocess, sys
from pathlib import Path

STUDY, RESULTS, PROGRAMS, FIGURES = map(Path, ("bench/STUDY.md", "bench/log/RESULTS.md", "bench/log/PROGRAMS.md", "bench/FIGURES.md"))
README, LOG, MODES = Path("README.md"), Path("bench/log"), ("infer", "train")
TABLES = LOG / "STUDY.md"  # those of the study that are long
SMALL, DYNET, TWO = "Narrow and wide trees against batching by hand", "Beside DyNet", "Two threads"
FRAME, PYTORCH = "A game's frame and a robot's step: median, tail and worst", "Beside PyTorch, rounds by turns"
PLACE = re.compile("^Measured on .*", re.M)  # when and where a table was measured, with which fold.h
Output = collections.namedtuple("Output", "command place text")
given = argparse.Namespace(kept=False, seconds=None)


FENCED = """`{command}`

```
{text}
```"""
TREES = """`{command}`, one thread

![how many times as fast as one at a time, against the batch](study.svg)

{table}"""
COLUMNS = """Columns of the tables of real trees:

- *alone*: one at a time, recorded and run eagerly
- *by hand*: batched level by level on the same kernels; making the arrays of indices counts
- *ratio* (the default), *depth*, *agenda*: recorded, scheduled and run by fold.h, with the schedule of this name
- *record*, *schedule*, *run*: the parts of *ratio*
- *MB*: memory of a recording and its run with *ratio*, and then by hand
"""
WORDS, IN_WORDS = "### The tables in words\n", "## Real trees, in words\n\n[The tables](log/STUDY.md) are in the log.\n"
MIXED = """Batches of a recording (`{command}`). mixed-N are trees of N kinds of nodes. No schedule makes fewer
than *bound*, the sum of the longest chains of calls of each kind. DESIGN.md says how *ratio* chooses.

{table}"""
LITERATURE = """The seven networks of ACRoBat (Fegade et al. 2024), grid LSTM and lattice LSTM, printed by `{command}`. The last
four decide from computed values what to run next, and run in rounds. *batches* are those of all samples; no schedule of the same
groups and rounds has fewer than *bound*, and none of one group of all samples fewer than *one group*. Times are of inference.

{table}"""
BY_HAND = """Speed compared with level-wise batching by hand (`{command}`): medians of turns in one process, by
the processor's clock. Recording and scheduling count; inputs are twice as wide as hidden states.

{table}"""
BESIDE_DYNET = """{words}

Measured by turns, one thread each (`{command}`, where DYNET names a clone of DyNet). Both sides have the same weights,
samples and optimiser, and their outputs, losses and gradients agree. DyNet's products are Eigen's; its speed depends on how the products of
a gate are written. Each network is written in four or six forms, which bench/peers/dynet.cc lists. Each form is tried without autobatching
and, in batches, also with it, by mean depth and by depth. The fastest three take part in all turns, and the table has the best of them. The
exception is CompactVanillaLSTMBuilder (form 1 of the tagger) by depth: DyNet then batches unlike nodes, and its results are wrong.

{table}"""
DYNET_SHORT = """{words}
[All rows](log/STUDY.md#beside-dynet) say which form of a network and which autobatching were DyNet's best.

{table}"""
WAYS = """

Ways of PyTorch: levels and edges are batched by hand with index tensors that were made beforehand, build makes them in the time; samples are
one at a time; packed and padded are nn.LSTM, nn.GRU and attention over packed or padded rows, nested over nested tensors, masks with states
that start from scratch. By length, all sentences were dealt to batches in order of length, which fold.h's were not. A row whose turns
disagreed, since others used the machine, is left out."""


class Skipped(Exception):
    """Something is not here, so there is nothing to measure."""


# -- measuring ---------------------------------------------------------------------------------------

@functools.lru_cache(None)
def machine():
    about = dict(re.findall("^(.*?): +(.*)$", subprocess.getoutput("lscpu"), re.M))
    isa = re.search('"isa":"([a-z0-9]+)"', subprocess.getoutput("bench/bench --workload chain --mode infer --seconds 0.01 --json"))
    compiler = subprocess.getoutput("${CC:-cc} --version").split("\n")[0]
    return (f"{about.get('Model name', 'unknown processor')}, {os.cpu_count()} processors, L2 {about.get('L2 cache', 'unknown')}, "
            f"{isa.group(1) if isa else 'unknown'} kernels, {compiler}")


def run(command, to):
    """Its lines also appear on the terminal, since some of it takes an hour."""
    process, skipped = subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, universal_newlines=True), ""
    for line in process.stdout:
        skipped = skipped or line.strip() if line.startswith("SKIPPED") else skipped
        to.write(line)
        print(line.rstrip()[:150], file=sys.stderr, flush=True)
    if process.wait() == 127:
        skipped = f"{command}: not found"
    if skipped:
        raise Skipped(skipped)
    if process.returncode:
        sys.exit(f"figures: {command} failed")


def measure(title, command):
    """What the command prints. DIR stands for FOLD_DATA, which the study needs, too: pages show no figures of made-up data."""
    path = Path("build/figures", re.sub("[^a-z0-9]+", "-", title.lower()) + ".txt")
    if not given.kept and not os.environ.get("FOLD_DATA") and re.search(" --data DIR|bench/study ", command):
        raise Skipped("FOLD_DATA names no folder of real data")
    if given.seconds:
        command = re.sub(r"--seconds \S+", f"--seconds {given.seconds:g}", command)
    if not given.kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{path}.new", "w") as to:
            commit = subprocess.getoutput("git rev-parse --short HEAD 2>/dev/null || echo 'no commit'")
            to.write(f"{command}\nMeasured on {datetime.date.today()}, fold.h at {commit}: {machine()}\n")
            run(command.replace(" DIR", f" '{os.environ.get('FOLD_DATA')}'"), to)
        os.replace(f"{path}.new", path)
    if not path.exists():
        raise Skipped(f"no {path}")
    return Output(*path.read_text().rstrip("\n").split("\n", 2))


def bench(workload, mode, batch, options):
    command = f"bench/bench --json --workload {workload} --mode {mode} --batch {batch} {options}"
    return json.loads(subprocess.check_output(command.split(), universal_newlines=True).split("\n")[0])


def small():
    """Prints how fast trees of several sizes are beside batching by hand."""
    print("| | batch | hidden 8 | 16 | 32 | 150 |\n|---|--:|--:|--:|--:|--:|")
    for workload, mode, batch in itertools.product(("treelstm-sst", "treelstm-sick"), MODES, (1, 16, 256)):
        lines = [bench(workload, mode, batch, f"--hidden {hidden} --input {2 * hidden} --compare manual --clock processor "
                       f"--seconds {given.seconds or 1}") for hidden in (8, 16, 32, 150)]
        print(row(f"{workload}, {mode}", batch, *(f"{line['ratio']:.2f}" for line in lines)), flush=True)


def mixed():
    """Prints how many batches each schedule makes of networks that mix kinds of calls."""
    networks = [f"mixed-{n}" for n in (1, 2, 5, 10, 16, 20, 60)] + ["ed-lattice", "shift-reduce", "limbs"]
    print("| " + row(*networks, "sum"), "|---|" + "--:|" * (len(networks) + 1), sep="\n")
    for name, schedule, key in (("ratio", "ratio", "batches"), ("depth", "depth", "batches"), ("agenda", "agenda", "batches"),
                                ("bound", "ratio", "lower_bound")):
        counts = [bench(each, "infer", 64, f"--schedule {schedule} --seconds 0.05")[key] for each in networks]
        print(row(name, *(f"{count:.1f}" for count in counts + [sum(counts)])), flush=True)


def two():
    """Prints rates of two threads beside one, and beside two processes of one thread each on the same processors. Each is the best
    of five turns, since others on the machine only make a turn slower."""
    print(f"{'':26} {'one thread':>11} {'two threads':>11} {'two processes':>13}  two threads beside two processes")
    processes = concurrent.futures.ThreadPoolExecutor(2)
    for each in itertools.product(("treelstm-sick", "treelstm-sst", "lstm-lm", "transformer"), MODES, (32, 256)):
        rate = lambda threads: bench(*each, f"--seconds {given.seconds or 0.5} --threads {threads}")["samples_per_s"]
        turns = [(rate(1), rate(2), sum(processes.map(rate, (1, 1)))) for _ in range(5)]
        one, threads, both = map(max, zip(*turns))
        print("{:14} {:5} {:5}".format(*each), f"{one:9.0f}/s {threads / one:9.2f} x {both / one:11.2f} x  {threads / both:.2f}", flush=True)


# -- pages -------------------------------------------------------------------------------------------

def parts_of(page):
    """What is before the first section, then each section."""
    return re.split("^(?=## )", page.read_text(), flags=re.M)


def section_of(page, title):
    head = f"## {title}\n\n"
    return "".join(part[len(head):].rstrip("\n") for part in parts_of(page) if part.startswith(head))


def fill(form, out, lines=0):
    """A form with the last lines (0: all) of what a command printed, or all above its RESULT line, or what that says in words."""
    text = [line for line in out.text.split("\n") if not line.startswith("epoch ")][-lines:]
    return form.format(command=out.command, text="\n".join(text).strip("\n"), table=out.text.split("\nRESULT")[0].rstrip("\n"),
                       words=in_words(out.text) if form == BESIDE_DYNET else "")


def section(page, title, command, form=FENCED, lines=0):
    """What the command prints now, in a form. If it cannot be measured, the section as it is on the page."""
    try:
        out = measure(title, command)
        text = f"{out.place}\n\n{fill(form, out, lines)}"
    except Skipped as reason:
        text = section_of(page, title)
        print(f"{'KEPT AS IT WAS' if text else 'LEFT OUT'}: {title} ({reason})", file=sys.stderr)
        if text and not PLACE.search(text):
            text = f"{PLACE.search(page.read_text()).group()}\n\n{text}"
    return f"\n## {title}\n\n{text}\n" if text else ""


def write_page(page, head, sections):
    text = "".join(sections)
    page.write_text(once(f"{head}\n\n{PLACE.search(text).group()}\n{text}"))


def once(text):
    """The page with the place of the measurement at its head, and again only above tables of another day, machine or fold.h."""
    place = PLACE.search(text).group()
    head, tail = text.split(place, 1)
    return head + place + tail.replace(f"{place}\n\n", "")


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table(text):
    """The rows of a table as dicts.

    >>> table("| | batch |\\n|---|--:|\\n| sst | 16 |")
    [{'': 'sst', 'batch': '16'}]
    """
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")]
    return [dict(zip(lines[0], line)) for line in lines[2:]]


def span(numbers, form=".1f"):
    return f"{min(numbers):{form}} to {max(numbers):{form}}"


# -- the pages that are measured ---------------------------------------------------------------------

def in_words(text):
    """What the table beside DyNet says.

    >>> rows = ["| network | ratio |", "|---|--:|", "| sst, hidden 16 | 2 |", "| sick, hidden 16 | 3 |", "| sst, hidden 150 | 0.9 |"]
    >>> print(in_words("\\n".join(rows + ["RESULT dynet rows=4 published=3"])))
    fold.h is faster in 2 of 3 rows: 2.00 to 3.00 times as fast at hidden 16 (median 2.50), 0.90 to 0.90 at hidden 150 (median 0.90).
    Rows left out, since their turns disagreed: 1.
    """
    ratios = collections.defaultdict(list)
    for line in table(text):
        ratios[int(line["network"].split("hidden ")[1])].append(float(line["ratio"]))
    words = [f"{span(ratios[hidden], '.2f')} at hidden {hidden} (median {statistics.median(ratios[hidden]):.2f})" for hidden in sorted(ratios)]
    every = sum(ratios.values(), [])
    return (f"fold.h is faster in {sum(ratio > 1 for ratio in every)} of {len(every)} rows: {', '.join(words).replace(' at', ' times as fast at', 1)}.\n"
            f"Rows left out, since their turns disagreed: {numbers('dynet', text)['rows'] - len(every):.0f}.")


def study():
    trees = measure("study", "bench/study --svg bench/study.svg --seconds 2 --looks 256")
    tables = find("(?s)(^## Real trees.*?)^" + WORDS, trees.text)
    dynet = beside_dynet()
    write_page(STUDY, "# Does dynamic batching pay on real trees?\n\n"
               "Made by `make bench-study`. The figures hold for this machine and day; ratios within a row carry further.",
               [f"\n{trees.place}\n\n{fill(TREES, trees)}\n".replace(tables + WORDS, IN_WORDS),
                section(STUDY, "Networks that mix kinds of calls", "python3 bench/figures.py mixed", MIXED),
                section(STUDY, "Networks of the literature", "bench/literature --seconds 4", LITERATURE),
                section(STUDY, SMALL, "python3 bench/figures.py small --seconds 1", BY_HAND), in_short(dynet)])
    write_page(TABLES, f"# All tables of the study\n\nMade by `make bench-study`; STUDY.md says what they show. {COLUMNS.rstrip()}",
               [f"\n{trees.place}\n\n{tables.rstrip()}\n", dynet])


def beside_dynet():
    return section(TABLES, DYNET, "python3 bench/peers/dynet.py", BESIDE_DYNET)


def in_short(dynet):
    """The section for STUDY.md: a row a network, a column a batch."""
    if not dynet:
        return ""
    rows = collections.defaultdict(lambda: dict.fromkeys(("1", "16", "256"), "-"))
    for line in table(dynet):
        rows[line["network"], line[""]][line["batch"]] = line["ratio"]
    short = "\n".join([row("network", "", "batch 1", "16", "256"), "|---|---|--:|--:|--:|"] + [row(*each, *rows[each].values()) for each in rows])
    words = find("(?s)(^fold.h is faster in .*?: [0-9]+\\.)$", dynet)
    return f"\n## {DYNET}\n\n{PLACE.search(dynet).group()}\n\n{DYNET_SHORT.format(words=words, table=short)}\n"


def study_dynet():
    dynet = beside_dynet()
    for page, text in ((TABLES, dynet), (STUDY, in_short(dynet))):
        others = [part for part in parts_of(page) if not part.startswith(f"## {DYNET}\n")]
        page.write_text(once("".join(others).rstrip("\n") + "\n" + text))


def results():
    start, by_hand = "bench/bench --workload ", "against level-wise batching by hand, alternating"
    commands = [("All workloads", "bench/bench --seconds 1"),
                ("Against one sample at a time, alternating", f"{start}treelstm-sick --compare eager --seconds 3"),
                ("A frame of 500 agents against the same by hand, alternating", f"{start}frame --mode infer --compare manual --seconds 2"),
                *((f"{each} {by_hand}", f"{start}{each} --compare manual --seconds 2")
                  for each in ("treelstm-sick", "treelstm-sst", "treelstm-tiny", "chain")),
                *((f"{each}, one sample a batch, against by hand", f"{start}{each} --batch 1 --compare manual --seconds 1")
                  for each in ("treelstm-sick", "treelstm-sst")),
                (TWO, "python3 bench/figures.py two --seconds 0.5"),
                ("Equal calls made one", f"{start}treelstm-sick --dedupe on --seconds 1"),
                ("Small and growing batches, hidden 16", f"for n in 1 4 16 64 256 1024; do {start}treelstm-sst --hidden 16 --batch $n "
                 "--mode infer --seconds 0.5 | tail -n 1; done"),
                ("Kept plans", f"{start}treelstm-tiny --plan-cache on --seconds 1"),
                *((f"Without cells, {each.split()[0]}", f"{start}{each} --cells off --seconds 1")
                  for each in ("treelstm-sick", "treelstm-sst", "lstm-lm --softmax off")),
                (FRAME, "bench/bench --frames 3000")]
    write_page(RESULTS, "# What the bench printed\n\n"
               "Made by `make bench-results`. Figures hold for this machine and day; ratios within a table carry further.",
               [section(RESULTS, *each) for each in commands] +
               [section(RESULTS, PYTORCH, f"sh bench/peers/run {os.environ.get('PEERS', '')}".strip(), FENCED + WAYS)])


def programs():
    wanted = ((1, "listops"), (1, "notebook"), (30, "mnist --data DIR"), (30, "treelstm_sick --data DIR --seeds 5"),
              (1, "treelstm_sst --data DIR --seed 1"), (1, "treelstm_sst --data DIR --seed 2"), (1, "treelstm_sst --data DIR --seed 3"),
              (3, "shift_reduce"), (12, "char_lm"), (4, "transformer --data DIR"), (1, "molecules"), (1, "molecules --attention"), (3, "speech"),
              (2, "swarm"), (1, "swarm --soak 60"), (4, "robot_arm"), (6, "game_jobs"), (2, "cartpole"), (1, "mpi_sick --shards 2"))
    write_page(PROGRAMS, "# What the examples print\n\n"
               "Made by `make bench-programs`: the last lines of each program, on one core. DIR is a folder of real data.",
               [section(PROGRAMS, command.replace(" --data DIR", ""), f"build/{command}", FENCED, lines) for lines, command in wanted])


# -- figures that other pages quote ------------------------------------------------------------------

def find(pattern, text):
    found = re.search(pattern, text, re.M)
    return found.group(1) if found else sys.exit(f"figures: no table has the form {pattern}")


def numbers(program, text):
    """Of the program's first RESULT line."""
    return {key: float(value) for key, value in re.findall(r" (\w+)=([0-9.]+)(?= |$)", find(f"^RESULT {program}( .*)", text))}


def lines(title):
    """The words of each line of a table in RESULTS.md."""
    return [line.split() for line in section_of(RESULTS, title).split("\n") if len(line.split()) > 5]


def rate(title, workload, mode, column=5):
    return float(find(f"^({workload} +{mode} .*)", section_of(RESULTS, title)).split()[column])


def peers(*batches, workloads=""):
    """How many times as fast as PyTorch's best form, of all rows that settled."""
    return [float(line[5]) for line in lines(PYTORCH) if line[0].startswith(workloads) and line[1] in MODES
            and line[2] in batches and line[3] != "not"]


def dynet_ratios():
    return [float(line["ratio"]) for line in table(section_of(TABLES, DYNET))]


def threads(*begin):
    """Two threads beside two processes, training."""
    return [float(line[-1]) for line in lines(TWO) if line[1] == "train" and line[:len(begin)] == list(begin)]


def readme_rows():
    """What, figure, command and page."""
    sick, swarm, arm = (numbers(program, PROGRAMS.read_text()) for program in ("treelstm_sick", "swarm", "robot_arm"))
    neighbours = find("^300 agents, ([0-9.]+) neighbours", PROGRAMS.read_text())
    by_hand = lambda hidden: span([float(line[hidden]) for line in table(section_of(STUDY, SMALL))], ".2f")
    torch, blas = (find(form, section_of(RESULTS, PYTORCH)) for form in (r"^PyTorch ([0-9]+\.[0-9]+)", r"^PyTorch .* runs on (\w+)"))
    networks = len(set(line[0] for line in lines(PYTORCH) if line[1] == "infer"))
    return [
        ("real sentence pairs (SICK, Tree-LSTM of 150) in batches of 256, against one at a time",
         f"{sick['infer_per_s'] / sick['eager_infer_per_s']:.1f} times as fast, training {sick['train_per_s'] / sick['eager_train_per_s']:.1f} times",
         "treelstm_sick --data DIR --seeds 5", PROGRAMS),
        ("trees at hidden 150, against batching by hand on the same kernels", f"{by_hand('150')} of its speed", "bench/figures.py small", STUDY),
        ("the same at hidden 16", f"{by_hand('16')} of its speed: slower", "bench/figures.py small", STUDY),
        (f"{networks} networks in batches of 32 and 256, against PyTorch {torch} ({blas}) at its best",
         f"median {statistics.median(peers('32', '256')):.1f} times as fast, least {min(peers('32', '256')):.2f}", "make bench-peers", RESULTS),
        ("those networks, one sample at a time", f"{span(peers('1'))} times as fast", "make bench-peers", RESULTS),
        (f"a frame of 300 agents with {neighbours} neighbours each, against one op at a time",
         f"{swarm['p50_us'] / 1000:.2f} ms, {swarm['eager_over_batched']:.1f} times as fast", "swarm", PROGRAMS),
        ("24 robot arms of 2 to 7 links, replayed, against one op at a time",
         f"{arm['run_us']:.0f} µs, {arm['eager_over_batched']:.1f} times as fast", "robot_arm", PROGRAMS),
        ("training on two threads, against two processes", f"{span(threads(), '.2f')} of their speed", "bench/figures.py two", RESULTS)]


def other_rows():
    output, ratios, of_sick, of_sst = PROGRAMS.read_text(), dynet_ratios(), "treelstm_sick --data DIR --seeds 5", "treelstm_sst --data DIR --seed 1"
    sick, sst, arm, listops = (numbers(program, output) for program in ("treelstm_sick", "treelstm_sst", "robot_arm", "listops"))
    frame = numbers("frame", section_of(RESULTS, FRAME))
    seeds = [[float(value) for value in re.findall(f"^RESULT treelstm_sst .*{key}=([0-9.]+)", output, re.M)] for key in ("accuracy5", "accuracy2")]
    mean = lambda values: f"{statistics.mean(values):.2f} ({statistics.stdev(values):.2f})"
    logged = lambda page, pattern: find(pattern, (LOG / page).read_text())
    return [
        (f"four networks of hidden 8 to 150 in batches of 1 to 256, against DyNet at its best ({len(ratios)} rows)",
         f"median {statistics.median(ratios):.1f} times as fast, least {min(ratios):.2f}, most {max(ratios):.1f}", "make bench-dynet", STUDY),
        ("nested lists, batched, against one at a time", f"{listops['batched_per_s'] / listops['eager_per_s']:.1f} times as many samples a second",
         "make demo", PROGRAMS),
        ("the arms, recorded each tick", f"{arm['recorded_us']:.0f} µs", "robot_arm", PROGRAMS),
        ("SICK pairs a second in batches of 256", f"{sick['infer_per_s']:,.0f}, training {sick['train_per_s']:,.0f}", of_sick, PROGRAMS),
        ("SICK, mean (deviation) of 5 seeds; Tai et al. (2015) report 0.8676 and 0.2532",
         f"{find('of 5: (Pearson .*?),', output)}, squared error {find('of 5: .*, MSE (.*)', output)}", of_sick, PROGRAMS),
        ("SST, mean (deviation) of 3 seeds with random word vectors; Tai et al. (2015) report 43.9 and 82.0",
         f"five classes {mean(seeds[0])}, two classes {mean(seeds[1])} %", of_sst, PROGRAMS),
        ("an epoch of 8,544 SST trees", f"{sst['epoch_seconds']:.1f} s of processor time", of_sst, PROGRAMS),
        ("SST trees a second, a loss at every node, batches of 256",
         f"{rate('All workloads', 'treelstm-sst', 'infer'):,.0f}, training {rate('All workloads', 'treelstm-sst', 'train'):,.0f}",
         "bench/bench --workload treelstm-sst", RESULTS),
        ("tiny cells (hidden 8), recording and scheduling included",
         f"{sum(rate('All workloads', 'treelstm-tiny', 'infer', column) for column in (9, 10, 11)):.0f} ns a tree node", "bench/bench --workload treelstm-tiny", RESULTS),
        ("trees, against PyTorch batched by hand with index tensors made in advance, batches of 32 and 256",
         f"{span(peers('32', '256', workloads='treelstm-s'))} times as fast", "make bench-peers", RESULTS),
        ("episodes of uneven length, simulated and trained on, against one op at a time",
         logged("learning.md", "([0-9.]+ to [0-9.]+ times as fast), the same bits after"), "cartpole --seed 10", LOG / "learning.md"),
        ("a frame of 500 agents (GRU of 32, attention to 0 to 20 changing neighbours), recorded every frame",
         f"{frame['agents_p50_us'] / 1000:.2f} ms, by hand {frame['agents_by_hand_us'] / 1000:.2f}", "make frame", RESULTS),
        ("a robot's step (GRU of 64), replayed, against plain C at -O3 -march=native",
         f"{frame['robot1_over_hand']:.2f} of its time; four robots {frame['robot4_over_hand']:.2f}", "make frame", RESULTS),
        ("two ranks of MPI against one, real pairs, 256 and 32 a step",
         " and ".join(logged("threads.md", rf"^\| {n} pairs \|.*?\|.*?\| .*?\((.*?) x\)") for n in (256, 32)) + " times as fast", "make mpi", LOG / "threads.md"),
        ("memory of values and gradients, SST training at 256",
         logged("replay.md", r"at 256 \| [0-9]+ MB without reuse \| ([0-9.]+ MB)") + ", without reuse " +
         logged("replay.md", r"at 256 \| ([0-9]+) MB without reuse"), "bench/bench --workload treelstm-sst --json", LOG / "replay.md")]


def readme_table():
    return "\n".join(["| what | figure | command |", "|---|---|---|"] + [row(what, figure, f"`{command}`") for what, figure, command, _ in readme_rows()])


def expected():
    """FIGURES.md and README.md as they should be."""
    rows = [row(what, figure, f"`{command}`", f"[{page.name}]({page.relative_to('bench')})") for what, figure, command, page in readme_rows() + other_rows()]
    places = [f"- {page.name}: {PLACE.search(page.read_text()).group()}" for page in (STUDY, RESULTS, PROGRAMS)]
    return [(FIGURES, """# Figures

Made by `python3 bench/figures.py pages` from the tables of other pages; a test holds README.md to them. A table of another day, machine or
fold.h says so. Each is of one core of a virtual machine that others may have used: ratios carry further than rates.

""" + "\n".join(places) + "\n\n| what | figure | command | table |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"),
            (README, with_table(README.read_text()))]


def with_table(text):
    text, tables = re.subn(r"^\| what \| figure .*?(?=\n\n)", lambda _: readme_table(), text, flags=re.M | re.S)
    return text if tables == 1 else sys.exit(f"figures: README.md has {tables} tables of figures")


def quoted():
    """Pages, and what a sentence of each must say."""
    networks = ("treelstm-sick", "treelstm-sst", "lstm-lm")
    merged = [rate("Equal calls made one", "treelstm-sick", mode) / rate("All workloads", "treelstm-sick", mode) for mode in MODES]
    cells = [rate("All workloads", each, mode) / rate(f"Without cells, {each}", each, mode) for each in networks for mode in MODES]
    share = find("recording and scheduling, ([0-9]+ to [0-9]+ %) of the time at hidden 150", STUDY.read_text())
    return [(README, f"{span(dynet_ratios())} times as fast"),
            (Path("examples/cookbook/training.md"), f"({span(merged)} times as fast)"),
            (Path("bench/DESIGN.md"), f"take {share} of the time"),
            (Path("bench/DESIGN.md"), f"take {span(cells)} times as long"),
            (Path("bench/DESIGN.md"), f"train treelstm-sick at {threads('treelstm-sick', 'train', '256')[0]:.2f} of the speed of two processes")]


def pages():
    for page, text in expected():
        page.write_text(text)
    for line in disagreements():
        print(line, file=sys.stderr)


def quotes():
    sys.exit("\n".join(disagreements()) or 0)


def disagreements():
    wrong = [f"{page} is older than the tables: python3 bench/figures.py pages" for page, text in expected() if page.read_text() != text]
    return wrong + [f"{page} does not say: {words}" for page, words in quoted() if words not in " ".join(page.read_text().split())]


def main():
    measured = {"study": study, "dynet": study_dynet, "results": results, "programs": programs}
    others = {"small": small, "mixed": mixed, "two": two, "pages": pages, "quotes": quotes, "readme": lambda: print(readme_table())}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*measured, *others])
    parser.add_argument("--kept", action="store_true", help="write what build/figures has, without measuring")
    parser.add_argument("--seconds", type=float, help="of each measurement")
    parser.parse_args(namespace=given)
    os.chdir(Path(__file__).resolve().parent.parent)
    try:
        {**measured, **others}[given.command]()
    except Skipped as reason:
        sys.exit(f"figures: {reason}")
    if given.command in measured:
        pages()


if __name__ == "__main__":
    main()
