#!/usr/bin/env python3
"""Checks that fold.h holds no pointer into an array of a context across a request for room, after which the array may lie elsewhere.

    python3 tests/check_moves.py [HEADER]

A function asks when it calls fold__ask, or a function that asks. A variable holds when it was set from an array (f->nodes,
run->batch, …) or from a function that returns such a pointer. Statements are read in their order, bodies of loops twice. It reads
text, not C: the build that moves all arrays (FOLD__MOVE_ARRAYS) finds what it cannot see. The last line is "N passed, N failed"."""

import re
import sys

HOLDERS = ("fold__program",)  # structs of such pointers


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def functions(text, first_line):
    """name -> (what stands before its parameters, its body, the body's first line)"""
    found = {}
    for m in re.finditer(r"^(\w[^;{}\n=]*?)\b(fold_\w+)\([^;{}]*?\)\s*\n\{\n(.*?)^\}", text, re.S | re.M):
        found[m.group(2)] = (m.group(1), m.group(3), first_line + text.count("\n", 0, m.start(3)))
    return found


def closure(names, calls):
    """names, and all that call one of them"""
    names, before = set(names), 0
    while len(names) != before:
        before = len(names)
        names |= {name for name, called in calls.items() if called & names}
    return names


def statements(body):
    """(text, line) in order; what is in a loop stands twice"""
    parts = [(m.group(0), body.count("\n", 0, m.end() - len(m.group(0).lstrip()))) for m in re.finditer(r"[^;{}]*[;{}]", body)]

    def unrolled(parts):
        result, at = [], 0
        while at < len(parts):
            end = at
            if re.search(r"\b(for|while)\b", parts[at][0]):
                head = parts[at][0]
                while head.count("(") > head.count(")"):  # the semicolons of a for
                    end += 1
                    head += parts[end][0]
                inner, depth = end + 1, parts[end][0].endswith("{")
                end += 1
                while depth:
                    depth += parts[end][0].endswith("{") - parts[end][0].endswith("}")
                    end += 1
                result += 2 * (parts[at:inner] + unrolled(parts[inner:end]))
                at = end
            else:
                result.append(parts[at])
                at += 1
        return result

    return unrolled(parts)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "fold.h"
    text = without_comments(open(path, encoding="utf-8").read())
    table = open(path, encoding="utf-8").read().split("#define FOLD__ARRAYS(")[1].split("\n\n")[0]
    arrays = re.findall(r"\b(?:NODE|EDGE|KEEP|BRIEF|RUN|RUN_BRIEF)\(\w+, [^,]+, (\w+)\)", table)
    for kind in "NODE", "PLANNING":
        table = text.split("#define FOLD__RUN_%s_ARRAYS(" % kind)[1].split("\n\n")[0]
        arrays += re.findall(r"\b(?:ALL|TRAINING|SAME)\([^,]+, (\w+),", table)
    array = re.compile(r"\b(?:f|run|tracer)->(?:run->)?(?:%s)\b" % "|".join(sorted(set(arrays))))
    start = text.index("#if defined(FOLD_IMPLEMENTATION)")
    found = functions(text[start:], text.count("\n", 0, start) + 1)
    calls = {name: set(re.findall(r"\b(fold_\w+)\s*\(", body)) & set(found) for name, (_, body, _) in found.items()}
    asks = closure(["fold__ask"], calls)
    gives = re.compile(r"\breturn [^;]*%s" % array.pattern)
    returns = {name for name, (head, body, _) in found.items()
               if ("*" in head and gives.search(body)) or (head.split()[-1] in HOLDERS and array.search(body))}
    asking = re.compile(r"\b(?:%s)\s*\(" % "|".join(asks))
    giving = re.compile(r"\b(?:%s)\s*\(" % "|".join(returns))
    address = re.compile(r"&\s*(?:%s)|(?:%s)(?!\[|\w)" % (array.pattern, array.pattern))  # an element's, or where the array begins
    declared = re.compile(r"\s*(?:const )?(\w+)\s+(\**)\s*(?:const )?(\w+)\s*=(?!=)(.*)$", re.S)
    set_again = re.compile(r"\s*()()(\w+)\s*=(?!=)(.*)$", re.S)

    failed = 0
    for name in sorted(asks & set(found), key=lambda name: found[name][2]):
        _, body, line = found[name]
        pointers, held, stale = set(), set(), set()  # variables
        for statement, at in statements(body):
            m = declared.match(statement) or set_again.match(statement)
            used = m.group(4) if m else statement
            for variable in [v for v in stale if re.search(r"(?<![\w.>])%s\b(?!\.n_)" % v, used)]:
                print("%s:%d: %s uses %s, which it took before it asked for room" % (path, line + at, name, variable))
                stale.discard(variable)
                failed += 1
            if asking.search(statement.split("return")[0] if "return" in statement else statement):
                stale |= held
            if not m:
                continue
            variable = m.group(3)
            if m.group(2) or m.group(1) in HOLDERS:
                pointers.add(variable)
            stale.discard(variable)
            held.discard(variable)
            if variable in pointers and (giving.search(used) or address.search(used)):
                held.add(variable)
    print("%d functions of %d ask for room" % (len(asks), len(found)))
    print("%d passed, %d failed" % (failed == 0, failed))
    return failed != 0


sys.exit(main())
