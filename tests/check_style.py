"""How fold.h and its companions are written: python3 tests/check_style.py [--columns N] [--lines N] [--letters PERCENT] [--list]

Prints for each file the longest line, the longest function of the implementation, missing blank lines and what clang-format
would change, and for fold.h the share of one-letter words in its code (keywords are words; comments, strings and numbers are
not). It fails where a figure exceeds its limit, if the map behind FOLD_IMPLEMENTATION names something that does not exist,
if a function of fold.h calls one of a later section, or if a macro or enumerator has no prefix.
--list shows every place. Prose is not checked: people read it."""

import argparse
import collections
import difflib
import glob
import os
import re
import subprocess
import sys

WANTED = {"columns": 110, "lines": 60, "letters": 10.0}
LIMITS = {"columns": 110, "lines": 60, "letters": 10.0}

SHORT = 7  # lines of a function that may stand beside another one without a blank line
GAPS, FORMAT = 0, 0  # blank lines that are missing, and places that clang-format would write in other ways
CLANG_FORMAT = "clang-format"  # of version 14: others format in other ways
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADER = os.path.join(FOLDER, "fold.h")
COMPANIONS = sorted(glob.glob(os.path.join(FOLDER, "examples", "fold_*.h")))
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NUMBER = re.compile(r"(?<![A-Za-z_0-9])\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BANNER = re.compile(r"^/\* ==== section: (.*?) =+$", re.M)
# calls into later sections that must stay, each with its reason
UPWARD = {("fold__make_ctx", "fold__eager_mode"): "a context learns when it is made that it is eager"}


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


def in_directives(lines):
    """The numbers of the lines that belong to a directive of the preprocessor."""
    found, goes_on = set(), False
    for at, line in enumerate(lines):
        if goes_on or line.startswith("#"):
            found.add(at)
            goes_on = line.endswith("\\")
    return found


def is_one_line(line):
    """Whether a function stands on the line, the whole of it."""
    return bool(re.match(r"[A-Za-z].*\) \{.*\}$", line))


def is_short(lines, first):
    """Whether what begins at the line, a comment before it counted, is a function of at most SHORT lines."""
    if is_one_line(lines[first]):
        return True
    end = next((at for at in range(first, first + SHORT) if lines[at] == "}" or is_one_line(lines[at])), None)
    return end is not None and (is_one_line(lines[end]) or "{" in lines[first:end])


def missing_gaps(lines, first):
    """The numbers of the lines behind functions where a blank line is missing. Short functions may stand together."""
    directive, start = in_directives(lines), first
    for at in range(first, len(lines) - 1):
        if not lines[at] or at in directive:
            start = at + 1
        elif lines[at] == "}" or is_one_line(lines[at]):
            together = at - start < SHORT and is_short(lines, at + 1)
            if lines[at + 1] and not lines[at + 1].startswith("#") and not together:
                yield at + 1
            start = at + 1


def straightened(lines, first):
    """(number of a line, how it should be) where a directive's backslashes do not stand in one column."""
    at = first
    while at < len(lines):
        end = at
        while lines[at].startswith("#") and lines[end].endswith("\\"):
            end += 1
        if len(set(map(len, lines[at:end]))) > 1:
            bare = [line[:-1].rstrip() for line in lines[at:end]]
            for number, line in enumerate(bare, at):
                yield number, line.ljust(max(map(len, bare)) + 1) + "\\"
        at = max(end, at + 1)


def layout_problems(lines, first):
    """(number of a line, what is wrong there): a banner or a comment over nothing, a call broken behind its name."""
    banner, directive = re.compile(r"/\* (--|==)"), in_directives(lines)
    for at in range(first, len(lines) - 2):
        line, behind = lines[at], next((line for line in lines[at + 1:] if line), "")
        if re.match(r"/\* -- ", line):
            if banner.match(behind) or behind.startswith("#endif"):
                yield at, "a banner stands over nothing"
        elif line.endswith("*/") and not lines[at + 1] and not banner.match(line) and at not in directive:
            start = at
            while start > first and not lines[start].startswith("/*") and re.match(r" |$", lines[start]):
                start -= 1
            before = next((line for line in reversed(lines[first:start]) if line), "")
            if lines[start].startswith("/*") and not banner.match(lines[start]) and not before.startswith("#") \
                    and not before.endswith(("= */", "- */")) and "MAP OF" not in "".join(lines[start:start + 2]):
                yield start, "a comment stands over nothing"
        if re.match(r" *\*/$", line) and not lines[at - 1].endswith("=="):
            yield at, "a comment ends on a line of its own"
        if re.search(r"\w\($", line) and not re.search(r"FOLD__[A-Z_0-9]+\($", line):
            yield at, "a call is broken behind its name"


def formatted(lines, first):
    """(begin, end, lines) of what clang-format would write instead of the lines from begin to end. Definitions of macros are
    passed over, and macros that take statements or are called; so are comments, which it moves to columns far away. Section
    by section, since it takes ten times as long for the whole."""
    section = "/* ==== section" if any(line.startswith("/* ==== section") for line in lines) else "/* ---- "
    starts = [at for at in range(first, len(lines)) if lines[at].startswith(section)] + [len(lines)]
    for start, end in zip(starts, starts[1:]):
        section = lines[start:end]
        while not section[-1]:
            section.pop()
        new = subprocess.run([CLANG_FORMAT, "--style=file", "--assume-filename=" + HEADER], text=True, check=True,
                             input="\n".join(section) + "\n", stdout=subprocess.PIPE).stdout.split("\n")[:-1]
        passed, new_passed = in_directives(section) | in_macro_uses(section), in_directives(new) | in_macro_uses(new)
        for kind, a, b, c, d in difflib.SequenceMatcher(None, section, new, autojunk=False).get_opcodes():
            if kind != "equal" and not passed & set(range(a, b)) and not new_passed & set(range(c, d)) \
                    and without_comments(section[a:b]) != without_comments(new[c:d]):
                yield start + a, start + b, new[c:d]


def in_macro_uses(lines):
    """The numbers of the lines of macros that take statements, or whose result is called."""
    found, text = set(), "\n".join(lines)
    for match in re.finditer(r"\bFOLD_(?:[A-Z_]*_)?_[A-Z_0-9]+(?=\()", text):
        depth, statements, ends = 0, False, []
        for at in range(match.end(), len(text)):
            depth += (text[at] == "(") - (text[at] == ")")
            statements |= text[at] == ";" and depth > 0
            if not depth and text[at] == ")":
                ends.append(at)
            elif not depth and not text[at].isspace():
                break
        if ends and (statements or len(ends) > 1):
            found |= set(range(text.count("\n", 0, match.start()), text.count("\n", 0, ends[-1]) + 1))
    return found


def without_comments(lines):
    """The code of lines whose first and last may lie within a comment."""
    text = re.sub(r"/\*.*?(\*/|\Z)", "", re.sub(r"\A((?!/\*).)*?\*/", "", "\n".join(lines), flags=re.S), flags=re.S)
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def upward_calls(lines, first):
    """(number of a line, what is wrong): calls of functions of later sections, but for those of UPWARD."""
    code, section, of_line = code_of("\n".join(lines)).split("\n"), 0, []
    for line in lines:
        section += bool(BANNER.match(line))
        of_line.append(section)
    bodies = {name: (start - 1, start - 1 + length) for length, name, start in functions(lines, first)}
    for at in range(first, len(lines)):
        if is_one_line(lines[at]):
            bodies[re.search(r"(\w+)\s*\(", code[at]).group(1)] = (at, at + 1)
    needed = set()
    for name, (start, end) in bodies.items():
        for at in range(start, end):
            for called in re.findall(r"\b(fold_\w+)\s*\(", code[at]):
                if called not in bodies or of_line[bodies[called][0]] <= of_line[start]:
                    continue
                needed.add((name, called))
                if (name, called) not in UPWARD:
                    yield at, "%s calls %s of a later section" % (name, called)
    for pair in UPWARD.keys() - needed:
        yield first, "%s does not call %s, as UPWARD says" % pair


def bare_names(path):
    """What a header defines without its prefix: macros and enumerators, inside functions too. A user's -DWIDTH=1 would break them."""
    code = NOT_CODE.sub(" ", read(path))
    names = re.findall(r"^\s*#\s*define\s+(\w+)", code, re.M)
    for body in re.findall(r"\benum\b\s*\w*\s*\{(.*?)\}", code, re.S):
        body = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", " ", body, flags=re.M)
        while "(" in body:  # arguments of macros
            body = re.sub(r"\([^()]*\)", " ", body)
        names += re.findall(r"(?:^|,)\s*(\w+)", body)
    return sorted({name for name in names if not re.match(r"fold_|FOLD_", name)})


def is_clang_format_14():
    try:
        said = subprocess.run([CLANG_FORMAT, "--version"], text=True, stdout=subprocess.PIPE).stdout
    except OSError:
        return False
    return " version 14." in said


def fix(lines, first):
    """Makes the lines what they should be, as far as a program can tell."""
    for _ in range(4):  # a change may bring another one
        changes = list(formatted(lines, first)) if is_clang_format_14() else []
        for start, end, new in reversed(changes):
            lines[start:end] = new
        if not changes:
            break
    for at, line in straightened(lines, first):
        lines[at] = line
    for at in reversed(list(missing_gaps(lines, first))):
        lines.insert(at, "")


def map_problems(text):
    """What the map behind FOLD_IMPLEMENTATION says that the code does not: its sections are the banners in their order, and
    every private name in it is in the code."""
    start = text.index("THE MAP OF THE IMPLEMENTATION")
    page, code = text[start:text.index("*/", start)], text[text.index("*/", start):]
    listed = re.findall(r"^     (\S.*?)(?:  +\S.*)?$", page[page.index("Sections  "):page.index("   Words  ")], re.M)
    banners = re.findall(BANNER.pattern, text, re.M)
    problems = ["the map's sections are not the banners: %s" % section for section in sorted(set(listed) ^ set(banners))]
    if not problems and listed != banners:
        problems.append("the map's sections are in another order than the banners")
    names = sorted(set(re.findall(r"(?:fold__|FOLD__)\w*\w", page)))
    names = [re.sub(r"^fold__(?:map_)?(\w+?)__(?:avx2|avx512|neon|portable)$", r"\1", name) for name in names]
    return problems + ["the map names %s, which is not there" % name for name in names
                       if not re.search(r"\b%s\b" % name, code)]


def begin_of(lines):
    """The line with which a file's implementation begins."""
    return next(at for at, line in enumerate(lines) if re.match(r"#if defined\(FOLD_\w*IMPLEMENTATION\)", line))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def companion_problems(path, limit):
    """Prints the figures of a companion, and returns what exceeds its limit."""
    name, lines = os.path.relpath(path, FOLDER), read(path).split("\n")
    begin = begin_of(lines)
    measured = sorted(functions(lines, begin), reverse=True)
    problems = ["%s:%d: %d columns" % (name, at + 1, len(line)) for at, line in enumerate(lines) if len(line) > limit.columns]
    problems += ["%s:%d: %s has %d lines" % (name, at, function, length)
                 for length, function, at in measured if length > limit.lines]
    problems += ["%s:%d: no blank line between functions" % (name, at + 1) for at in missing_gaps(lines, begin)]
    if is_clang_format_14():
        problems += ["%s:%d: clang-format would write\n%s" % (name, start + 1, "\n".join(new))
                     for start, end, new in formatted(lines, begin)]
    problems += ["%s:%d: %s: %s" % (name, at + 1, what, lines[at].strip()[:60]) for at, what in layout_problems(lines, begin)]
    problems += ["%s:%d: its backslash stands beside the others" % (name, at + 1)
                 for at, line in straightened(lines, begin) if line != lines[at]]
    print("%s: %d lines, the longest of %d columns, the longest function of %d lines, %d problems"
          % (name, len(lines), max(map(len, lines)), measured[0][0], len(problems)))
    return problems


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--columns", type=int, default=LIMITS["columns"], help="of the longest line")
    options.add_argument("--lines", type=int, default=LIMITS["lines"], help="of the longest function")
    options.add_argument("--letters", type=float, default=LIMITS["letters"], help="percent of the words")
    options.add_argument("--list", action="store_true", help="every place that exceeds a limit")
    options.add_argument("--fix", action="store_true", help="before all else write what a program can: blank lines between "
                         "functions, backslashes, and what clang-format does")
    limit = options.parse_args()

    for path in [HEADER] + COMPANIONS if limit.fix else []:
        lines = read(path).split("\n")
        fix(lines, begin_of(lines))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    text = read(HEADER)
    lines = text.split("\n")
    begin = begin_of(lines)
    measured = sorted(functions(lines, begin), reverse=True)
    words = WORD.findall(code_of("\n".join(lines[begin:])))
    letters = collections.Counter(word for word in words if len(word) == 1)

    figures = {
        "columns": max(map(len, lines)),
        "lines": measured[0][0],
        "letters": 100.0 * sum(letters.values()) / len(words),
    }
    allowed = {"columns": limit.columns, "lines": limit.lines, "letters": limit.letters}
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

    gaps, other = list(missing_gaps(lines, begin)), []
    figures["missing blank lines"], allowed["missing blank lines"] = len(gaps), GAPS
    for at in gaps if limit.list else []:
        print("fold.h:%d: no blank line between functions" % (at + 1))
    if is_clang_format_14():
        other = list(formatted(lines, begin))
        figures["clang-format"], allowed["clang-format"] = len(other), FORMAT
    else:
        print("SKIPPED: clang-format (there is none of version 14)")
    print("layout: %d blank lines are missing, clang-format would write %d places in other ways (at most %d, %d)"
          % (len(gaps), len(other), GAPS, FORMAT))
    for start, end, new in other if limit.list else []:
        print("fold.h:%d: clang-format would write\n%s" % (start + 1, "\n".join(new)))

    failed = 0
    for name, figure in figures.items():
        most = allowed[name]
        if figure > most:
            failed += 1
            print("too much: %s %.1f, at most %.1f" % (name, figure, most))
    problems = map_problems(text) + ["fold.h:%d: %s: %s" % (at + 1, what, lines[at].strip()[:60])
                                     for at, what in layout_problems(lines, begin)]
    problems += ["fold.h:%d: %s" % (at + 1, what) for at, what in upward_calls(lines, begin)]
    for path in [HEADER] + COMPANIONS:
        problems += ["%s: %s has no prefix" % (os.path.relpath(path, FOLDER), name) for name in bare_names(path)]
    problems += ["fold.h:%d: its backslash stands beside the others" % (at + 1)
                 for at, line in straightened(lines, begin) if line != lines[at]]
    for path in COMPANIONS:
        problems += companion_problems(path, limit)
    for problem in problems:
        print(problem)
    failed += bool(problems)
    skipped = ", 1 skipped" if "clang-format" not in figures else ""
    print("%d passed, %d failed%s" % (len(figures) + 1 - failed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
