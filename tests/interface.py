#!/usr/bin/env python3
"""Holds the public declarations of fold.h and its companions against tests/interface.txt.

    python3 tests/interface.py [--renew] [--json]

From 0.4.0 on public names are stable: a declaration that changes or goes is a break, and a new one is there to stay. So a
difference is an error until --renew writes the list anew, which shows in the diff of the commit that means it. --json prints the
same declarations for generators of bindings: kind, name, header, text, and the members of structs and enums. The last line is
"N passed, N failed"."""

import difflib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "interface.txt"
HEADERS = ["fold.h"] + ["examples/fold_%s.h" % name for name in ("draw", "fit", "onnx", "record", "rl", "to_c", "torch")]


def public_part(text, guard):
    """What stands between the guard and its end, without comments and continued lines."""
    begin, end = "#ifndef %s\n#define %s\n" % (guard, guard), "#endif /* %s */" % guard
    text = text[text.index(begin) + len(begin):text.index(end)]
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return text.replace("\\\n", " ")


def spaced(text):
    """With one space where there was any."""
    return re.sub(r"\s*([),])", r"\1", re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", text))).strip()


def macros(text):
    """(name with its parameters, value) of each macro that users may name."""
    for line in text.split("\n"):
        found = re.match(r"\s*#\s*define\s+(FOLD_(?!_)\w+(?:\([^)]*\))?)\s*(.*)$", line)
        if found and not re.match(r"FOLD_(API|VERSION\w*|\w+_IMPLEMENTED)$", found.group(1)):
            yield found.group(1), spaced(found.group(2))


def statements(text):
    """The declarations: what ends with ; outside all braces."""
    text = re.sub(r'extern "C" \{|^\s*#.*$', " ", text, flags=re.M)
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == ";" and depth <= 0:
            yield text[start:at]
            start = at + 1


def members_of(body, is_enum):
    return [spaced(member) for member in body.split("," if is_enum else ";") if member.strip()]


def declaration(text):
    """{kind, name, text, members} of one declaration, or None."""
    text = text.strip(" \n\t}")
    body = re.match(r"typedef (struct|enum|union)\s*(\w*)\s*\{(.*)\}\s*(\w+)$", text, re.S)
    if not body:
        body = re.match(r"(struct|enum|union)\s+(\w+)\s*\{(.*?)()$", text, re.S)
    if body:
        kind, name = body.group(1), body.group(4) or body.group(2)
        return {"kind": kind, "name": name, "text": "%s %s" % (kind, name),
                "members": members_of(body.group(3), kind == "enum")}
    text = spaced(text)
    function = re.match(r"FOLD_API (.*?)(\w+)\(", text)
    if function:
        return {"kind": "function", "name": function.group(2), "text": text[len("FOLD_API "):]}
    alias = re.match(r"typedef .*?\(\s*\*\s*(\w+)\)|typedef .*?(\w+)(?:\(.*\))?$", text)
    return alias and {"kind": "type", "name": alias.group(1) or alias.group(2), "text": text}


def declarations():
    for header in HEADERS:
        text = (ROOT / header).read_text(encoding="utf-8")
        text = public_part(text, Path(header).stem.upper() + "_H")
        for name, value in macros(text):
            yield {"kind": "macro", "name": name.split("(")[0], "header": header,
                   "text": ("#define %s %s" % (name, value)).strip()}
        for statement in statements(text):
            found = declaration(statement)
            if found and not found["name"].startswith("fold__"):
                yield dict(found, header=header)


def lines():
    header = None
    for each in declarations():
        if each["header"] != header:
            header = each["header"]
            yield "== " + header
        yield each["text"]
        for member in each.get("members", ()):
            yield "    " + member


def main():
    if "--json" in sys.argv:
        print(json.dumps(list(declarations()), indent=1))
        return 0
    now = "\n".join(lines()) + "\n"
    if "--renew" in sys.argv:
        LIST.write_text(now, encoding="utf-8")
    differences = list(difflib.unified_diff(LIST.read_text(encoding="utf-8").split("\n"), now.split("\n"),
                                            "tests/interface.txt", "the headers", lineterm="", n=0))
    print("\n".join(differences) if differences else "%d public declarations" % len(list(declarations())))
    if differences:
        print("Public names are stable. If the change is meant, write it down: python3 tests/interface.py --renew")
    print("%d passed, %d failed" % (not differences, bool(differences)))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
