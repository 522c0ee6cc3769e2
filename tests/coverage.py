"""What of fold.h the tests run: python3 tests/coverage.py [--lines PERCENT] [--branches PERCENT] [--list]

Compiles fold.h at -O0 with gcc's --coverage in the ways of tests/run (plain, shared out among threads, within the tests that
want it whole), runs tests/test_*.c and adds up what gcov counts. The n-th branch of a line counts once, however many functions,
instruction sets and builds have a copy of it, and is covered if it is taken in one of them; so nothing is inlined here. Lines
that were never run are listed, and with --list the branches that were never taken. It fails where a share is below what is
wanted. Which lines each test ran stands in build/coverage/by_test.json, for tests/mutate.py."""

import argparse
import collections
import json
import os
import subprocess
import sys

from mutate import BY_TEST, ROOT, Tree, key_of

WORK = os.path.join(ROOT, "build", "coverage")
Counts = collections.namedtuple("Counts", "lines branches")


def counted(tree, notes):
    """gcov's records of fold.h of one object."""
    out = subprocess.run(["gcov", "-b", "-c", "-j", "-t", notes], cwd=tree.folder, capture_output=True, check=True).stdout
    for file in json.loads(out)["files"]:
        if os.path.basename(file["file"]) == "fold.h":
            yield from file["lines"]


def add_up(tree, into):
    """Adds {line: how often it ran} and {(line, number of the branch): how often it was taken} of the test that was run."""
    ran = set()
    for notes in sorted(os.listdir(os.path.join(tree.folder, "build"))):
        data = os.path.join(tree.folder, "build", notes[:-5] + ".gcda")
        if not notes.endswith(".gcno") or not os.path.exists(data):
            continue
        for record in counted(tree, os.path.join("build", notes)):
            line = record["line_number"]
            ran.update([line] if record["count"] else [])
            into.lines[line] += record["count"]
            for number, branch in enumerate(record["branches"]):
                into.branches[line, number] += branch["count"]
        os.remove(data)
    return sorted(ran)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lines", type=float, default=100)
    options.add_argument("--branches", type=float, default=95)
    options.add_argument("--list", action="store_true", help="every branch that was never taken")
    option = options.parse_args()
    tree = Tree(os.path.join(WORK, "tree"), ["--coverage", "-fprofile-update=atomic"])
    tree.level = "-O0"  # what is optimised has lines that nothing counts
    tree.write("fold.h", tree.text.replace("__attribute__((always_inline, unused))", "__attribute__((unused))"))
    for name in ("fold", "second"):
        if not tree.build_object(name):
            sys.exit("fold.h does not compile")
    result, by_test = Counts(collections.Counter(), collections.Counter()), {}
    for name, wanted in tree.tests:
        failure = tree.test(name, wanted)
        print("%-20s %s" % (name, failure or "%.1f s" % tree.usual[name]), flush=True)
        if failure:
            return 1
        by_test[name] = add_up(tree, result)
    with open(BY_TEST, "w", encoding="utf-8") as file:
        json.dump({"of": key_of(tree.text), "known": sorted(result.lines), "tests": by_test}, file)
    text = tree.text.split("\n")
    missed = sorted(line for line, runs in result.lines.items() if not runs)
    untaken = collections.Counter(line for (line, _), taken in result.branches.items() if not taken)
    for line in missed:
        print("never run: fold.h:%d: %s" % (line, text[line - 1].strip()))
    if option.list:
        for line in sorted(set(untaken) - set(missed)):
            print("%d never taken: fold.h:%d: %s" % (untaken[line], line, text[line - 1].strip()))
    shares = [100.0 * (1 - len(missed) / len(result.lines)), 100.0 * (1 - sum(untaken.values()) / len(result.branches))]
    print("lines: %.2f %%, %d of %d; branches: %.2f %%, %d of %d" % (
        shares[0], len(result.lines) - len(missed), len(result.lines),
        shares[1], len(result.branches) - sum(untaken.values()), len(result.branches)))
    return shares[0] < option.lines or shares[1] < option.branches


if __name__ == "__main__":
    sys.exit(main())
