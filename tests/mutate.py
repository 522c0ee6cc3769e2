"""Random mutants: python3 tests/mutate.py [--seed N] [--count N] [--jobs N] [--again] [--report] [--section WORD]

Changes one operator, constant or condition of fold.h at a time and looks whether a test finds it. The mutants are drawn by
the seed and spread evenly over the sections of fold.h. Where a change compiles with a warning, or leaves what is compiled as it
was, another is drawn. Where tcc is installed, those tests that pass with it within ten seconds run first, as it compiles
them; what they find is found. For all others the implementation is compiled as tests/run does it, at -O1, where compiling
and running take the least time together, and tests/test_*.c run, the quickest first, up to the first that fails. One that
takes five times its usual time has failed, too. Where `make coverage` has been run on the same fold.h, those tests alone run
that run a line of the statement; of kernels, which have many forms, and of what gcov has no lines for, all do.

Results stand in build/mutate/seed_N, a line a mutant; a second run goes on where the first one ended, and --again runs those
anew that no test found. What survives gets a test, or its code goes, or it is named in tests/mutants_kept.txt: as `same` if
nothing that a test could see changes, as `speed` if only speed or memory does; that one is not run again. Which mutants
a seed draws depends on the text of each line and not on where it stands, so they stay the same while other lines change."""

import argparse
import collections
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WORK = os.path.join(ROOT, "build", "mutate")
KEPT = os.path.join(HERE, "mutants_kept.txt")
BY_TEST = os.path.join(ROOT, "build", "coverage", "by_test.json")
CC = os.environ.get("CC", "cc")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wdouble-promotion",
            "-Wno-parentheses", "-Werror"]
SHARING = ["-DFOLD_USE_THREADS", "-DFOLD__SHARED_WORK=500", "-DFOLD__LONG_LIST=2"]
LONGER, SHORTEST = 5, 2  # a test is stopped at so many times its usual time, and not before so many seconds of a processor
QUICKLY = 10  # what takes tcc's programs more seconds is left to the others
MEMORY = 8 << 20  # KiB of addresses that a test may take

# ---- what can be changed ------------------------------------------------------------------------------

TOKEN = re.compile(r"""(?P<skip>\s+|//.*|/\*.*?\*/|/\*.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+')
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*)|(?P<word>[A-Za-z_]\w*)
    |(?P<operator>->|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)""", re.X)
BINARY = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "<<": [">>"], ">>": ["<<"],
    "&": ["|"], "|": ["&"], "^": ["|"], "+=": ["-=", "="], "-=": ["+=", "="], "*=": ["/=", "="], "/=": ["*="], "%=": ["="],
    "|=": ["&=", "="], "&=": ["|=", "="], "^=": ["="], "<<=": [">>="], ">>=": ["<<="],
}
EITHER_SIDE = {"++": "--", "--": "++"}
CONDITION = re.compile(r"(?:if|while) (?=\()")


def changes_of_number(number):
    """Other values in its place: one more, one less, none."""
    value = number.rstrip("uUlLfF").lower() if not number.lower().startswith("0x") else number.lower().rstrip("ul")
    zero = not value.strip("0x.")
    if zero:
        return ["1" + number[1:] if "." not in number and "x" not in number.lower() else "(%s + 1)" % number]
    return ["(%s + 1)" % number, "(%s - 1)" % number, "0" + re.search(r"[uUlL]*$", number).group()
            if not re.search(r"[.]|[^xX0-9a-fA-F]e", number) else "(-%s)" % number]


def closing(line, at):
    """Where the bracket that opens at a place closes, or -1."""
    depth = 0
    for i in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            return i
    return -1


def changed_lines(line):
    """Every text that the line can be changed to."""
    found, before = [], ""  # before: the token in front, without spaces and comments
    replace = lambda match, by: found.append(line[:match.start()] + by + line[match.end():])
    start = re.match(r"#\s*define\s+\w+(?:\([^)]*\))?", line)
    for match in TOKEN.finditer(line, start.end() if start else 0):
        if match.lastgroup == "skip":
            continue
        token, operand = match.group(), bool(re.match(r"[\w)\]]", before[-1:])) and before not in ("return", "case")
        if match.lastgroup == "number":
            for other in changes_of_number(token):
                replace(match, other)
        elif token in EITHER_SIDE:
            replace(match, EITHER_SIDE[token])
        elif token in BINARY and operand and line[match.start() - 1:match.end() + 1] == " %s " % token:  # not `type *name`
            for other in BINARY[token]:
                replace(match, other)
        elif token == "!" or (token == "-" and not operand):
            replace(match, "")
        before = token
    for match in CONDITION.finditer(line):
        end = closing(line, match.end())
        if end > 0 and line[end:].rstrip(" {\\") != ");":
            condition = line[match.end():end + 1]
            for other in ("(!%s)" % condition, "(1)", "(0)"):
                found.append(line[:match.end()] + other + line[end + 1:])
    return [text for text in dict.fromkeys(found) if text != line]


Mutant = collections.namedtuple("Mutant", "key section line nth old new")  # nth: of the lines of a section with that text


def mutants_of(text, seed):
    """For every section its mutants in the order in which the seed draws them."""
    lines, sections, section, comment = text.split("\n"), collections.OrderedDict(), None, False
    seen = collections.Counter()
    begin = next(at for at, line in enumerate(lines) if line.startswith("/* ==== section:"))
    for at in range(begin, len(lines)):
        line = lines[at]
        banner = re.match(r"/\* ==== section: (.*?) =+$", line)
        if banner:
            section = banner.group(1)
            sections[section] = []
        if comment or (line.lstrip().startswith("/*") and "*/" not in line):
            comment = "*/" not in line
            continue
        if re.match(r"\s*#\s*(?!define)", line):
            continue
        old = line.strip()
        nth = seen[section, old]
        seen[section, old] += 1
        if re.search(r"/\*(?!.*\*/)", line):
            comment = True
        for new in changed_lines(line):
            named = "\0".join((str(seed), section, old, str(nth), new.strip()))
            sections[section].append(Mutant(hashlib.sha256(named.encode()).hexdigest(), section, at, nth, old, new.strip()))
    for each in sections.values():
        each.sort()
    return sections


# ---- which tests run a line --------------------------------------------------------------------------


def key_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Coverage:
    """What tests/coverage.py saw of this fold.h, if it did."""

    def __init__(self, text):
        self.lines, self.known, self.tests = text.split("\n"), set(), {}
        if os.path.exists(BY_TEST):
            with open(BY_TEST, encoding="utf-8") as file:
                seen = json.load(file)
            if seen["of"] == key_of(text):
                self.known = set(seen["known"])
                self.tests = {name: set(lines) for name, lines in seen["tests"].items()}

    def statement(self, at):
        """The numbers, from 1, of the lines of the statement at a line, from 0."""
        ends = lambda line: re.search(r"[;{}:]$|\*/$|^$", line.strip())
        first = last = at
        while first and not ends(self.lines[first - 1]):
            first -= 1
        while last + 1 < len(self.lines) and not ends(self.lines[last]):
            last += 1
        return set(range(first + 1, last + 2))

    def runs(self, test, mutant):
        """Whether a test may run what a mutant changes."""
        lines = self.statement(mutant.line)
        return "kernels" in mutant.section or not lines & self.known or bool(lines & self.tests.get(test, lines))


# ---- a tree of the files, in which one mutant after the other is built and tested -------------------------


class Tree:
    """A copy of fold.h and its tests, and what does not change with fold.h's inside: their objects."""

    def __init__(self, folder, options=(), tried=True):
        self.folder, self.options, self.level = folder, list(options), "-O1"  # of the compiler; of the implementation
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("tests", "examples", "bench"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
        os.mkdir(os.path.join(folder, "build"))
        with open(os.path.join(ROOT, "fold.h"), encoding="utf-8") as file:
            self.text = file.read()
        self.coverage = Coverage(self.text)
        self.write("fold.h", self.text)
        self.tests, self.usual = [], {}  # (name, the object of the implementation it wants or None)
        with open(os.path.join(folder, "tests", "jobs.txt"), encoding="utf-8") as file:
            rows = file.read()  # tests that it does not name are linked to any implementation
            linked = {name: {"sharing": "second", "apart": "fold"}.get(way)
                      for name, way in re.findall(r"\| (test_\w+) .*\| programs (?:tested '?)?(\w+)", rows)}
        for source in sorted(os.listdir(os.path.join(folder, "tests"))):
            name = source[:-2]
            if not re.fullmatch(r"test_\w+\.c", source) or name.startswith("test_include"):
                continue
            with open(os.path.join(folder, "tests", source), encoding="utf-8") as file:
                code = file.read()
            if "fold.h" not in code:
                continue
            self.tests.append((name, linked.get(name, "fold")))
        self.run("main", [CC, "-O0", "-c", "-o", "build/main.o", "tests/programs/main.c"])
        for name, wanted in self.tests:
            made = ["-c", "-o", "build/%s.o" % name] if tried else ["-fsyntax-only"]
            if wanted and not self.run(name, [CC, "-O0", "-DFOLD__IMPLEMENTED"] + made + ["tests/%s.c" % name]):
                sys.exit("%s does not compile" % name)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def run(self, name, command):
        """Whether a command succeeds; what it prints goes to a file."""
        with open(os.path.join(self.folder, "build", name + ".log"), "wb") as log:
            return subprocess.call(["nice"] + command, cwd=self.folder, stdout=log, stderr=log) == 0

    def compile(self, name, command):
        return self.run(name, [CC, "-O0", "-I."] + self.options + command)

    def preprocessed_by(self, compiler, options):
        self.run("preprocessed", [compiler, "-E", "-P", "-I."] + options + ["tests/programs/implementation.c"])
        return self.read("build/preprocessed.log")

    def preprocessed(self, options):
        return self.preprocessed_by(CC, options)

    def as_it_is(self):
        """What mutants are compared with, and how long each test takes."""
        self.write("fold.h", self.text)
        self.sources = [self.preprocessed(options) for options in ([], SHARING)]
        self.objects = {}
        for name in ("fold", "second"):
            if not self.build_object(name):
                sys.exit("fold.h does not compile: %s" % self.read("build/%s.log" % name).decode())
            self.objects[name] = self.read("build/%s.o" % name)
        for name, wanted in self.tests:
            failure = self.test(name, wanted)
            if failure:
                sys.exit("%s fails with fold.h as it is: %s" % (name, failure))
        self.quick_source, self.quick = self.preprocessed_by("tcc", []) if shutil.which("tcc") else b"", []
        if self.quick_source:
            self.quick = [name for name, _ in self.tests if not self.test("quick_" + name, None)]
        self.tests.sort(key=lambda test: self.usual[test[0]])
        self.quick.sort(key=lambda name: self.usual["quick_" + name])

    def as_in(self, other):
        """Takes what as_it_is() found in another tree: its files are the same."""
        for name in ("sources", "objects", "tests", "usual", "quick_source", "quick"):
            setattr(self, name, getattr(other, name))

    def build_object(self, name):
        """The implementation: plain, with the test of its kernels, or shared out among threads."""
        if name == "fold":
            return self.compile(name, WARNINGS + [self.level, "-Dmain=hosted_main", "-c", "-o", "build/fold.o", "tests/test_kernels.c"])
        return self.compile(name, WARNINGS + SHARING + [self.level, "-c", "-o", "build/second.o", "tests/programs/implementation.c"])

    def program(self, name, wanted):
        """Makes a test program; whether it could."""
        if name.startswith("quick_"):
            return self.run(name, ["tcc", "-I.", "-o", "build/" + name, "tests/%s.c" % name[6:], "-lm", "-lpthread"])
        if name == "test_kernels":
            parts = ["build/main.o", "build/fold.o"]
        elif wanted is None:
            parts = ["tests/%s.c" % name]
        else:
            parts = ["build/%s.o" % name, "build/%s.o" % wanted]
        return self.compile(name, ["-o", "build/" + name] + parts + ["-lm", "-lpthread"])

    def test(self, name, wanted):
        """What fails, or "" ."""
        if not self.program(name, wanted):
            return "it does not compile"
        usual = self.usual.get(name)
        most = (max(SHORTEST, int(LONGER * usual + 1)) if usual is not None else
                QUICKLY if name.startswith("quick_") else 600)
        cases = " short" if name.endswith("test_kernels") else ""  # as tests/run has it
        log = os.path.join(self.folder, "build", name + ".log")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(log, "wb") as file:
            try:  # the shell's limits: of a processor's time; the other, for tests that only wait, of the clock's
                status = subprocess.run(
                    ["sh", "-c", "ulimit -c 0; ulimit -t %d; ulimit -v %d; exec nice build/%s" % (most, MEMORY, name + cases)],
                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=20 * most + 40).returncode
            except subprocess.TimeoutExpired:
                return "it does not end"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if usual is None:
            self.usual[name] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if status == 0:
            return ""
        with open(log, encoding="utf-8", errors="replace") as file:
            said = [line.strip() for line in file if re.search(r"\.c:\d+|FAIL|differ|wrong", line)]
        why = "too slow" if status in (-9, -24) else "signal %d" % -status if status < 0 else "status %d" % status
        return " ".join((said[0] if said and status > 0 else why).split())[:160]

    def try_mutant(self, mutant):
        """(outcome, test, what it said) of one mutant: found, survived, or no mutant."""
        lines = self.text.split("\n")
        old = lines[mutant.line]
        lines[mutant.line] = old[:len(old) - len(old.lstrip())] + mutant.new
        self.write("fold.h", "\n".join(lines))
        if [self.preprocessed(options) for options in ([], SHARING)] == self.sources:
            return "no mutant", "-", "it is not compiled"
        if self.quick and self.preprocessed_by("tcc", []) != self.quick_source:
            if not self.compile("warnings", WARNINGS + ["-fsyntax-only", "tests/programs/implementation.c"]):
                return "no mutant", "-", "it does not compile"
            for name in self.quick:
                if not self.coverage.runs(name, mutant):
                    continue
                failure = self.test("quick_" + name, None)
                if failure:
                    return "found", name, failure
        built = {}

        def differs(name):
            built[name] = self.build_object(name)
            return built[name] and self.read("build/%s.o" % name) != self.objects[name]

        if not differs("fold") and (not built["fold"] or not differs("second")):
            return "no mutant", "-", "nothing changes" if all(built.values()) else "it does not compile"
        for name, wanted in self.tests:
            if not self.coverage.runs(name, mutant):
                continue
            if wanted not in built and wanted and not self.build_object(wanted):
                return "no mutant", "-", "it does not compile"
            built[wanted] = True
            failure = self.test(name, wanted)
            if failure:
                return "found", name, failure
        return "survived", "-", "-"


# ---- results ---------------------------------------------------------------------------------------


class Results:
    """The lines of one seed's file: outcome, test, section, nth, old line, new line, what the test said, seconds."""

    def __init__(self, seed):
        os.makedirs(WORK, exist_ok=True)
        self.path, self.of = os.path.join(WORK, "seed_%d" % seed), {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    outcome, test, section, nth, old, new = line.rstrip("\n").split("\t")[:6]
                    self.of[section, int(nth), old, new] = (outcome, test)

    def add(self, mutant, outcome, test, said, seconds):
        self.of[mutant.section, mutant.nth, mutant.old, mutant.new] = (outcome, test)
        parts = [outcome, test, mutant.section, str(mutant.nth), mutant.old, mutant.new, said, "%.0f" % seconds]
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("\t".join(part.replace("\t", " ") for part in parts) + "\n")

    def outcome(self, mutant):
        return self.of.get((mutant.section, mutant.nth, mutant.old, mutant.new), (None, None))


def kept_mutants():
    """Those that were looked at: {(section, old, new): (kind, why)}. A paragraph is the kind and why, the section, and both lines."""
    if not os.path.exists(KEPT):
        return {}
    with open(KEPT, encoding="utf-8") as file:
        paragraphs = re.split(r"\n\s*\n", file.read().strip())
    kept = {}
    for paragraph in paragraphs[1:]:  # the first says what the file is
        lines = paragraph.split("\n")
        kind, why = lines[0].split(": ", 1)
        section, old, new = (line.strip() for line in (lines[1], lines[2][1:], lines[3][1:]))
        if kind not in ("same", "speed") or lines[2][0] != "-" or lines[3][0] != "+":
            sys.exit("%s: what is this?\n%s" % (KEPT, paragraph))
        kept[section, old, new] = (kind, why)
    return kept


class Draw:
    """Which mutant is next: the sections take turns, and each gives its first ones that are mutants."""

    def __init__(self, sections, results, count, again):
        self.sections, self.results, self.lock = sections, results, threading.Lock()
        self.shares = {section: 0 for section in sections}
        names, given = list(sections), 0
        while given < count and names:  # evenly, as far as the sections have so many
            names = [section for section in names if self.shares[section] < len(sections[section])]
            for section in names[:count - given]:
                self.shares[section] += 1
                given += 1
        self.begun = set()
        self.again = [each for each in self.sample() if results.outcome(each)[0] == "survived"] if again else []

    def drawn(self, section):
        """A section's mutants in their order, with those that are being tried, up to its share."""
        out = []
        for mutant in self.sections[section]:
            if len(out) == self.shares[section]:
                break
            if self.results.outcome(mutant)[0] != "no mutant":
                out.append(mutant)
        return out

    def sample(self):
        return [mutant for section in self.sections for mutant in self.drawn(section)
                if self.results.outcome(mutant)[0] in ("found", "survived")]

    def next(self):
        with self.lock:
            if self.again:
                return self.again.pop()
            waiting = [(nth, mutant) for section in self.sections for nth, mutant in enumerate(self.drawn(section))
                       if not self.results.outcome(mutant)[0] and mutant.key not in self.begun]
            if not waiting:
                return None
            mutant = min(waiting, key=lambda each: each[0])[1]
            self.begun.add(mutant.key)
            return mutant

    def done(self, mutant, *outcome):
        with self.lock:
            self.results.add(mutant, *outcome)
            known = self.sample()
            found = sum(self.results.outcome(each)[0] == "found" for each in known)
            print("%d of %d found; %s by %s: %s: %s -> %s (%s)" % (found, len(known), outcome[0], outcome[1], mutant.section,
                                                                 mutant.old, mutant.new, outcome[2]), flush=True)


def report(draw, wanted):
    """The table of the sections, the survivors, and the figure; whether it is what is wanted."""
    kept, rows, missed, by = kept_mutants(), [], [], collections.Counter()
    total = collections.Counter()
    for section in draw.sections:
        row = collections.Counter()
        for mutant in draw.drawn(section):
            outcome, test = draw.results.outcome(mutant)
            if outcome == "survived":
                outcome = kept.get((mutant.section, mutant.old, mutant.new), ("missed",))[0]
                if outcome == "missed":
                    missed.append(mutant)
            if outcome:
                row[outcome] += 1
            if outcome == "found":
                by[test] += 1
        rows.append((section, row))
        total.update(row)
    print("\n%-40s %6s %6s %6s %6s" % ("section", "found", "missed", "same", "speed"))
    for section, row in rows + [("all", total)]:
        print("%-40s %6d %6d %6d %6d" % ((section,) + tuple(row[kind] for kind in ("found", "missed", "same", "speed"))))
    print("\nfound by " + ", ".join("%s %d" % each for each in by.most_common()))
    for mutant in missed:
        print("\nmissed: %s, line %d\n- %s\n+ %s" % (mutant.section, mutant.line + 1, mutant.old, mutant.new))
    counted = total["found"] + total["missed"]
    percent = 100.0 * total["found"] / max(1, counted)
    print("\n%d mutants: %.1f %% found, %d of %d; besides %d that change nothing and %d that change speed or memory alone"
          % (sum(total.values()), percent, total["found"], counted, total["same"], total["speed"]))
    return percent >= wanted


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=400, help="how many mutants; 0: only checks that all tests compile, as they are run")
    options.add_argument("--jobs", type=int, default=1, help="how many at a time")
    options.add_argument("--again", action="store_true", help="those that no test found, anew and first")
    options.add_argument("--report", action="store_true", help="only what is known")
    options.add_argument("--section", default="", help="only sections with this word in their names")
    options.add_argument("--wanted", type=float, default=97, help="the percentage that must be found")
    option = options.parse_args()
    with open(os.path.join(ROOT, "fold.h"), encoding="utf-8") as file:
        sections = mutants_of(file.read(), option.seed)
    sections = collections.OrderedDict((section, each) for section, each in sections.items() if option.section in section)
    draw, kept = Draw(sections, Results(option.seed), option.count, option.again), kept_mutants()

    def work(tree):
        while True:
            mutant = draw.next()
            if mutant is None:
                return
            start, named = time.time(), (mutant.section, mutant.old, mutant.new) in kept
            outcome = ("survived", "-", "it is named") if named else tree.try_mutant(mutant)
            draw.done(mutant, *outcome, time.time() - start)

    if not option.report:
        if not option.count:
            print("%d tests compile" % len(Tree(os.path.join(WORK, "tree_0"), tried=False).tests))
            return 0
        trees = [Tree(os.path.join(WORK, "tree_%d_%d" % (option.seed, job))) for job in range(option.jobs)]
        first = trees[0]
        first.as_it_is()
        for tree in trees[1:]:
            tree.as_in(first)
        print("coverage: %s" % (BY_TEST if first.coverage.tests else "unknown, so all tests run"))
        print("unchanged: %s" % ", ".join(
            "%s %.1f s" % (name, first.usual[name]) for name in ["quick_" + name for name in first.quick] +
            [name for name, _ in first.tests]), flush=True)
        workers = [threading.Thread(target=work, args=(tree,)) for tree in trees]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return not report(draw, option.wanted)


if __name__ == "__main__":
    sys.exit(main())
