#!/usr/bin/env python3
"""Finds expressions that leave the order of a recording to the C compiler.

    python3 tests/check_order.py [FILE...]

C does not say which argument of a call is evaluated first, nor which operand of + or =, nor which value in braces. gcc and
clang choose differently. If two of them record, nodes get other numbers and sums of gradients other bits, so each call that
records gets a statement or a declarator of its own. The same holds for calls that draw random numbers or make parameters.

It reads the syntax alone. A call counts if the body of its function has one that counts, at any depth; the first ones are
named in FIRST. One without a body here, such as a pointer to a function, counts if it returns a node or is given a context.
Without files it checks itself by the snippets below, then all sources, the C of the pages, and those tests whose recordings
must be the same under all compilers. The last line is "N passed, N failed"."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ["fold.h", "examples/*.[ch]", "examples/*.cpp", "examples/cookbook/*.c", "bench/*.[ch]", "bench/*.cpp", "bench/peers/*.[ch]",
           "tests/test_golden.c", "tests/test_to_c.c", "tests/test_sessions.c", "tests/sessions_*.h", "tests/models.h",
           "tests/policy.c"]
PAGES = ["*.md", "examples/*.md", "bench/*.md"]
FIRST = {"fold__append", "fold_random_bits", "fold_random_uniform", "fold_param_new"}
HARMLESS = {"memset", "free", "printf", "fold__fail", "fold__model_fail"}  # without a body here; they may be given a context

TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|\\\r?\n|//[^\n]*|/\*.*?\*/)|(?P<line>\n)
      |(?P<value>(?:L|u8|u|U)?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\.?\d(?:[eEpP][+-]|[\w.'])*)
      |(?P<word>[A-Za-z_]\w*(?:\s*\#\#\s*\w+)*)
      |(?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|\#\#|.)""",
    re.S | re.X)
CLOSING = {"(": ")", "[": "]", "{": "}"}
# what splits an expression, loosest first: the signs, what C leaves open between the parts, or None if they have an order
SPLITS = (({","}, None),
          ({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}, "both sides of ="),
          ({"?", ":"}, None), ({"||"}, None), ({"&&"}, None),
          ({"+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "<=", ">=", "==", "!=", "<<", ">>"}, "operands"))
BEFORE_BLOCKS = {"if", "for", "while", "switch", "catch"}
NO_CALLS = BEFORE_BLOCKS | {"sizeof", "alignof", "_Alignof", "decltype", "defined", "__attribute__", "_Pragma"}


class Word(str):
    """A token; values are all "0"."""

    def __new__(cls, text, line):
        word = super().__new__(cls, text)
        word.line = line
        return word


class Group(list):
    """What two brackets hold: words and groups."""

    def __init__(self, bracket, line):
        super().__init__()
        self.bracket, self.line = bracket, line


def is_name(token):
    return isinstance(token, Word) and (token[0].isalpha() or token[0] == "_")


def is_sign(token, *signs):
    return isinstance(token, Word) and token in signs


def is_group(token, bracket):
    return isinstance(token, Group) and token.bracket == bracket


def split(tokens, signs):
    parts = [[]]
    for token in tokens:
        if is_sign(token, *signs):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def lines_of(text):
    """The tokens of each line; one that ends in a backslash goes on in the next."""
    number, lines = 1, [[]]
    for match in TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "line":
            lines.append([])
        elif kind != "space":
            lines[-1].append(Word("0" if kind == "value" else re.sub(r"\s", "", token), number))
        number += token.count("\n")
    return lines


def grouped(tokens, name):
    stack = [Group("", 0)]
    for token in tokens:
        if token in CLOSING:
            stack.append(Group(token, token.line))
        elif token in CLOSING.values():
            if CLOSING.get(stack[-1].bracket) != token:
                raise SyntaxError(f"{name}:{token.line}: '{token}' closes nothing")
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise SyntaxError(f"{name}:{stack[-1].line}: '{stack[-1].bracket}' stays open")
    return stack[0]


def calls_in(tokens, parameters=()):
    """All (name, what it is given) in tokens, at any depth, but for what a macro gives its own parameters."""
    for before, token in zip([None] + tokens[:-1], tokens):
        if isinstance(token, Group) and not is_sign(before, *parameters):
            yield from calls_in(token, parameters)
            if token.bracket == "(" and is_name(before) and before not in NO_CALLS:
                yield before, token


class Source:
    """A file: the bodies of its functions and macros by name, all else, and what its declarations say of names."""

    def __init__(self, name, text):
        self.name, self.bodies, self.macros, self.rest = name, {}, set(), []  # macros: those that are expressions
        self.contexts = set(re.findall(r"\bfold_ctx\s*\*\s*(?:const\s+)?(\w+)", text))
        self.returns_node = set(re.findall(r"\bfold_(?:node|state)\s*\(\s*\*\s*(\w+)", text))
        self.includes = re.findall(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', text, re.M)
        code, parameters = [], {}
        for line in lines_of(text):
            if not line or line[0] != "#":
                code += line
            elif len(line) > 3 and line[1] == "define":
                body = grouped(line[3:], name)
                self.bodies.setdefault(line[2], []).append(body)
                parameters[line[2]] = [each for each in body[0] if is_name(each)] if is_group(body[0], "(") else []
                if not any(is_sign(each, ";") or is_group(each, "{") for each in body):
                    self.macros.add(line[2])
        self.find_functions(grouped(code, name))
        self.calls = {(caller, called, self.gives_context(given)) for caller, bodies in self.bodies.items()
                      for body in bodies for called, given in calls_in(body, parameters.get(caller, ()))}

    def gives_context(self, given):
        return any(len(part) == 1 and is_sign(part[0], *self.contexts) for part in split(given, {","}))

    def find_functions(self, tokens):
        head = []
        for token in tokens:
            if is_group(token, "{"):
                declarator = [each for each in head if not is_sign(each, "const", "noexcept", "override")]
                if len(declarator) > 1 and is_group(declarator[-1], "(") and is_name(declarator[-2]):
                    self.bodies.setdefault(declarator[-2], []).append(token)
                    head = []
                    continue
                if any(is_sign(each, "namespace", "extern", "struct", "class") for each in head):
                    self.find_functions(token)
                    head = []
                    continue
            head.append(token)
            if is_sign(token, ";"):
                self.rest += head
                head = []
        self.rest += head


class Check:
    """The mistakes of a source, with all that it includes."""

    def __init__(self, source, included):
        self.source, self.mistakes, self.counting = source, [], set(FIRST)
        everything = [source] + included
        self.names = set().union(*(each.bodies for each in everything))
        self.macros = set().union(*(each.macros for each in everything))
        self.returns_node = set().union(*(each.returns_node for each in everything))
        callers = {}
        for each in everything:
            for caller, called, gives_context in each.calls:
                callers.setdefault(called, set()).add(caller)
                if self.counts(called, gives_context):
                    self.counting.add(called)
        todo = list(self.counting)
        while todo:
            found = callers.get(todo.pop(), set()) - self.counting
            self.counting |= found
            todo += found
        for body in [body for bodies in source.bodies.values() for body in bodies] + [source.rest]:
            self.block(body)

    def counts(self, name, gives_context):
        if name in self.counting or name in self.names or name in HARMLESS:
            return name in self.counting
        return gives_context or name in self.returns_node

    def block(self, tokens):
        """Statements: each begins when all before it is done."""
        statement = []
        for token in tokens:
            begins = not statement or is_sign(statement[-1], "else", "do", ":")
            if is_sign(token, ";"):
                self.expression(statement)
                statement = []
            elif is_group(token, "{") and begins or self.is_body(statement, token):
                self.expression(statement)
                self.block(token)
                statement = []
            elif is_group(token, "(") and statement and is_sign(statement[-1], *BEFORE_BLOCKS):
                self.block(token)
                statement = []
            else:
                statement.append(token)
        self.expression(statement)

    @staticmethod
    def is_body(before, token):
        """Whether braces follow a macro such as FOR_EACH(x), or a function, not a type in parentheses."""
        named = len(before) > 1 and is_group(before[-1], "(") and is_name(before[-2]) and before[-2] != "return"
        return named and is_group(token, "{")

    # What follows returns those of its calls that count.

    def without_order(self, parts, what, line):
        found = [calls for calls in parts if calls]
        if len(found) > 1:
            self.mistakes.append(f"{self.source.name}:{line}: {what}: " + ", ".join(calls[-1] for calls in found))
        return sum(found, [])

    def expression(self, tokens):
        for signs, what in SPLITS:
            parts = split(tokens, signs)
            if len(parts) > 1:
                found = [self.expression(part) for part in parts]
                return self.without_order(found, what, tokens[0].line) if what else sum(found, [])
        return self.operand(tokens)

    def operand(self, tokens):
        done, parts, before = [], [], None
        for i, token in enumerate(tokens):
            if is_name(token) and isinstance(before, Group):  # a cast ended, or one call of a macro follows another
                done += self.without_order(parts, "a call and its function", token.line)
                parts = []
            if is_group(token, "{") and is_group(before, "(") and i > 1 and is_group(tokens[i - 2], "["):
                self.block(token)  # a function without a name, of C++: it runs later
            elif is_group(token, "{"):
                values = [self.expression(part) for part in split(token, {","})]
                parts.append(self.without_order(values, "values in braces", token.line))
            elif is_group(token, "(") and is_name(before):
                parts.append(self.call(before, token))
            elif isinstance(token, Group):
                parts.append(self.expression(token))
            before = token
        return done + self.without_order(parts, "a call and its function", tokens[0].line if tokens else 0)

    def call(self, name, given):
        if name in NO_CALLS:
            return []
        itself = [name] if self.counts(name, self.source.gives_context(given)) else []
        if any(is_sign(token, ";") or self.is_body(given[:i], token) for i, token in enumerate(given)):  # of a macro
            self.block(given)
            return itself
        arguments = [self.expression(part) for part in split(given, {","})]
        if name in self.macros:  # what it is given stands among what it calls
            return self.without_order(arguments + [itself], f"arguments of {name}", given.line)
        return self.without_order(arguments, f"arguments of {name}", given.line) + itself


def c_of_page(text):
    """A page with all lines blank but those of its C."""
    lines, inside = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside and re.match(r"```(c|cpp)\b", line) is not None
            lines.append("")
        else:
            lines.append(line[2:] if inside and line.startswith("> ") else line if inside else "")
    return "\n".join(lines)


class Files:
    def __init__(self):
        self.known = {}

    def source(self, path):
        if path not in self.known:
            text = path.read_text()
            self.known[path] = Source(str(path.relative_to(ROOT)), c_of_page(text) if path.suffix == ".md" else text)
        return self.known[path]

    def included(self, path, seen):
        for name in self.source(path).includes:
            for other in ((path.parent / name).resolve(), ROOT / name, ROOT / "examples" / name):
                if other.is_file() and other not in seen:
                    seen.add(other)
                    self.included(other, seen)
        return seen

    def mistakes(self, path):
        header = ROOT / "fold.h"  # which headers without an #include of it belong to as well
        return Check(self.source(path), [self.source(other) for other in self.included(path, {path, header}) - {path}]).mistakes


HEAD = """
struct node { int id; }; fold_node fold__append(fold_ctx *f) { return f->n++; }
fold_node fold_a(fold_ctx *f, fold_node x) { return fold__append(f); }
FOLD_API fold_node fold_b(fold_ctx *f, fold_node x)
{
    return fold_a(f, x);
}
int fold_length(fold_ctx *f) { return f->n; }
#define BOTH(f, x, y) fold_add(f, fold_a(f, x), y)
"""
WRONG = [
    "return fold_add(f, fold_a(f, x), fold_b(f, y));",
    "const fold_node z = fold_add(f, fold_a(f, x),\n    fold_length(f) ? x : fold_b(f, y));",
    "fold_node in[2] = { fold_a(f, x), fold_b(f, y) };",
    "fold_state s = { .h = fold_a(f, x), .c = fold_b(f, y) };",
    "run(f, (fold_node[2]){ fold_a(f, x), fold_b(f, y) }, 2);",
    "if (fold_a(f, x).id == fold_b(f, y).id) return x;",
    "while (n < fold_a(f, x).id + fold_b(f, y).id) n++;",
    "for (int i = 0; i < fold_a(f, x).id * fold_b(f, y).id; i++) step(i);",
    "out[fold_a(f, x).id] = fold_b(f, y);",
    "names[fold_a(f, x).id](fold_b(f, y));",
    "float v = (float)fold_random_uniform(r) - fold_random_uniform(r);",
    "point p = { 2 * fold_random_uniform(r), (int)fold_random_bits(r) };",
    "join(fold_param_new(m, &d), fold_param_new(m, &e));",
    "use(desc->body(f, x), desc->body(f, y));",
    "BOTH(f, x, fold_a(f, y));",
    "switch (n) { case 1: return fold_mul(f, fold_a(f, x), fold_b(f, y)); default: break; }",
    "CHECK(fold_value(f, fold_a(f, x)) == fold_value(f, fold_b(f, y)));",
    "EACH(x, y = fold_add(f, fold_a(f, x), fold_b(f, y)); n++)",
    "auto later = [&](int i) { return fold_add(f, fold_a(f, x), fold_b(f, y)); };",
]
RIGHT = [
    "const fold_node a = fold_a(f, x), b = fold_b(f, y); return fold_add(f, a, b);",
    "return fold_a(f, fold_b(f, fold_a(f, x)));",
    "return fold_add(f, fold_a(f, x), y);",
    "return n ? fold_a(f, x) : fold_b(f, y);",
    "return fold_a(f, x).id && fold_b(f, y).id || fold_a(f, y).id;",
    "return fold_a(f, x), fold_b(f, y);",
    "fold_node z = fold_a(f, x), in[2] = { z, fold_b(f, y) };",
    "fold_node in[2]; in[0] = fold_a(f, x); in[1] = fold_b(f, y);",
    "for (z = fold_a(f, x); fold_b(f, z).id; z = fold_b(f, z)) n++;",
    "if (n) { x = fold_a(f, x); } else { y = fold_b(f, y); }",
    "int n = fold_length(f) + fold_length(f), k = (int)sizeof(fold_a(f, x)) + fold_b(f, x).id;",
    "memset(f, 0, sizeof *f); both(fold_length(f), fold_a(f, x)); /* fold_add(f, fold_a(f, x), fold_b(f, y)) */",
    "EACH(x, x = fold_a(f, x); y = fold_b(f, y);)",
    "auto later = [&](int i) { return fold_a(f, x); }; use(fold_b(f, y), [=] () { return fold_a(f, x); });",
    "puts(\"fold_add(f, fold_a(f, x), fold_b(f, y)\");",
]
BODIES = [  # how many mistakes a whole source has
    (1, "static int deep(fold_ctx *g) { return fold_a(g, g->x).id; } static int outer(fold_ctx *g) { return deep(g); }\n"
        "int main(void) { return outer(f) + outer(f); }"),
    (1, "fold_node (*pick)(int n); int main(void) { return same(pick(1), pick(2)); }"),
    (1, "#define TWICE(f, x) \\\n    fold_add(f, fold_a(f, x), \\\n  fold_b(f, x))\nint n;"),
    (1, "#define OP(name) use(f, fold_##name(f, x), fold_ ## name(f, y));\nfold_ctx *f;"),
    (1, "extern \"C\" { namespace a { struct b { void c() { use(fold_a(f, x), fold_b(f, y)); } }; } }"),
    (0, "static int depth(int n) { return n ? depth(n - 1) : 0; } int main(void) { return depth(1) + depth(2); }"),
    (0, "#define LIST(X) \\\n    X(fold_a(f, x))\nfold_node both[] = { LIST(A), LIST(B) };"),
    (0, "#define LIST(X) \\\n    X(one, fold_a(f, x)) \\\n    X(two, fold_b(f, y))\nint n;"),
]
PAGE = "text (f, fold_a(f, x)\n```c name=one\n> out = fold_add(f, fold_a(f, x), fold_b(f, y));\n```\n```sh\nuse(fold_a(f, x), fold_b(f, y))\n```\n"


def check_itself():
    """How often the check is wrong about what is known."""
    head, wrong = Source("head", HEAD), []

    def expect(what, count, text):
        found = Check(Source("snippet", text), [head]).mistakes
        if len(found) != count:
            wrong.append(f"{len(found)} mistakes, not {count}, in: {what}: {found}")

    for count, snippets in ((1, WRONG), (0, RIGHT)):
        for each in snippets:
            expect(each, count, "fold_node snippet(fold_ctx *f, fold_node x, fold_node y)\n{\n" + each + "\n}\n")
    for count, text in BODIES:
        expect(text, count, text)
    expect(PAGE, 1, c_of_page(PAGE))
    if "snippet:3:" not in Check(Source("snippet", "int n;\n\n" + WRONG[0]), [head]).mistakes[0]:
        wrong.append("a mistake has another line")
    return wrong, len(WRONG) + len(RIGHT) + len(BODIES) + 2


def check_names(files):
    """All public calls of fold.h that return a node count, so that FIRST still names where nodes are made."""
    header = files.source(ROOT / "fold.h")
    public = (ROOT / "fold.h").read_text().split("#if defined(FOLD_IMPLEMENTATION)")[0]
    names = set(re.findall(r"^FOLD_API fold_(?:node|state) (fold_\w+)\(fold_ctx \*f", public, re.M)) - {"fold_out"}
    written = {name for name in names if name in header.bodies}  # the rest comes from a macro
    missing = sorted(written - Check(header, []).counting)
    wrong = [f"fold.h: does not count: {', '.join(missing)}"] if missing else []
    gone = sorted(FIRST - set(header.bodies))
    if gone or len(written) < 80:
        wrong.append(f"fold.h: of its calls only {len(written)} are found, and not: {', '.join(gone)}")
    return wrong


def main():
    files, wrong, total = Files(), [], 0
    paths = [Path(each).resolve() for each in sys.argv[1:]]
    if not paths:
        wrong, total = check_itself()
        wrong += check_names(files)
        total += 1
        paths = sorted(path for pattern in SOURCES + PAGES for path in ROOT.glob(pattern))
    failed = len(wrong)
    for path in paths:
        mistakes = files.mistakes(path)
        wrong += mistakes
        failed += bool(mistakes)
        total += 1
    for each in wrong:
        print(each)
    print(f"{total - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
