"""How fold.h is written: python3 tests/check_style.py [--columns N] [--lines N] [--letters PERCENT] [--list]

Prints the longest line, the longest function of the implementation and the share of one-letter words among the words of
the implementation's code (keywords are words; comments, strings and numbers are not), each with what is wanted. It fails
where a figure is beyond its limit, or where the map behind FOLD_IMPLEMENTATION names what is not there."""

import argparse
import collections
import os
import re
import sys

WANTED = {"columns": 110, "lines": 60, "letters": 10.0}
LIMITS = {"columns": 110, "lines": 60, "letters": 10.0}

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fold.h")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NUMBER = re.compile(r"(?<![A-Za-z_0-9])\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def code_of(text):
    """The text without comments, strings and numbers, its line ends kept."""
    blank = lambda match: "\n" * match.group().count("\n") or " "
    return NUMBER.sub("0", NOT_CODE.sub(blank, text))


def functions(lines, first):
    """(lines, name, number of its first line) of every function defined from the line on, its declaration counted."""
    for at in range(first, len(lines)):
        if lines[at] != "{":
            continue
        start = at
        while start > first and lines[start - 1] and not re.match(r"[}#]|.*;$|.*\*/$", lines[start - 1]):
            start -= 1
        end = lines.index("}", at)
        declared = code_of(" ".join(lines[start:at]))
        name = re.search(r"(\w+)\s*\(", declared)
        yield end - start + 1, name.group(1) if name else declared, start + 1


def map_problems(text):
    """What the map behind FOLD_IMPLEMENTATION says that the code does not: its rooms are the banners in their order, and
    every private name in it is in the code."""
    start = text.index("THE MAP OF THE IMPLEMENTATION")
    page, code = text[start:text.index("*/", start)], text[text.index("*/", start):]
    listed = re.findall(r"^     (\S.*?)(?:  +\S.*)?$", page[page.index("Rooms  "):page.index("Words\n")], re.M)
    banners = re.findall(r"^/\* ==== room: (.*?) =+$", text, re.M)
    problems = ["the map's rooms are not the banners: %s" % room for room in sorted(set(listed) ^ set(banners))]
    if not problems and listed != banners:
        problems.append("the map's rooms are in another order than the banners")
    names = sorted(set(re.findall(r"(?:fold__|FOLD__)\w*\w", page)))
    names = [re.sub(r"^fold__(?:map_)?(\w+?)__(?:avx2|avx512|neon|portable)$", r"\1", name) for name in names]
    return problems + ["the map names %s, which is not there" % name for name in names
                       if not re.search(r"\b%s\b" % name, code)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--columns", type=int, default=LIMITS["columns"], help="of the longest line")
    options.add_argument("--lines", type=int, default=LIMITS["lines"], help="of the longest function")
    options.add_argument("--letters", type=float, default=LIMITS["letters"], help="percent of the words")
    options.add_argument("--list", action="store_true", help="every line and function beyond what is wanted")
    limit = options.parse_args()

    with open(HEADER, encoding="utf-8") as file:
        text = file.read()
    lines = text.split("\n")
    begin = next(at for at, line in enumerate(lines) if line.startswith("#if defined(FOLD_IMPLEMENTATION)"))
    measured = sorted(functions(lines, begin), reverse=True)
    words = WORD.findall(code_of("\n".join(lines[begin:])))
    letters = collections.Counter(word for word in words if len(word) == 1)

    figures = {
        "columns": max(map(len, lines)),
        "lines": measured[0][0],
        "letters": 100.0 * sum(letters.values()) / len(words),
    }
    wide = [(len(line), at + 1) for at, line in enumerate(lines) if len(line) > WANTED["columns"]]
    long = [each for each in measured if each[0] > WANTED["lines"]]
    print("fold.h: %d lines, %d of them the implementation's" % (len(lines), len(lines) - begin))
    print("longest line: %d columns (wanted %d: %d lines are longer)" % (figures["columns"], WANTED["columns"], len(wide)))
    print("longest function: %d lines, %s (wanted %d: %d of %d are longer)"
          % (measured[0][0], measured[0][1], WANTED["lines"], len(long), len(measured)))
    print("one-letter words: %.1f %% of %d (wanted %.0f %%); %s" % (
        figures["letters"], len(words), WANTED["letters"],
        ", ".join("%s %d" % each for each in letters.most_common(12))))
    if limit.list:
        for columns, at in wide:
            print("fold.h:%d: %d columns" % (at, columns))
        for length, name, at in long:
            print("fold.h:%d: %s has %d lines" % (at, name, length))

    failed = 0
    for name, figure in figures.items():
        most = getattr(limit, name)
        if figure > most:
            failed += 1
            print("too much: %s %.1f, at most %.1f" % (name, figure, most))
    problems = map_problems(text)
    for problem in problems:
        print(problem)
    failed += bool(problems)
    print("%d passed, %d failed" % (len(figures) + 1 - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
