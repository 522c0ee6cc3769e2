"""bench/figures.py writes the pages of bench as they are: python3 tests/check_figures.py FOLDER

What the pages say was printed stands for what is printed now, and each page must be written again to the letter. In a copy of the
pages, in FOLDER."""
import os, re, shutil, sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.abspath("bench"))
import figures

FORMS = {"Networks that mix kinds of calls": figures.MIXED, "Networks of the literature": figures.LITERATURE, figures.SMALL: figures.BY_HAND,
         figures.DYNET: figures.BESIDE_DYNET, figures.PYTORCH: figures.FENCED + figures.WAYS}


def output_of(text, form, place):
    """What was printed, out of a section that has a form."""
    own = figures.PLACE.search(text)
    pattern = re.escape(form)
    for name in ("command", "text", "table", "words"):
        pattern = pattern.replace(re.escape("{%s}" % name), "(?P<%s>.*)" % name)
    found = re.search(pattern + r"\n*\Z", text[own.end():] if own else text, re.S).groupdict()
    printed = (found.get("text") or found.get("table")).rstrip("\n")
    if found.get("words"):
        printed += "\n\nRESULT dynet rows=" + str(len(figures.table(printed)) + int(re.search("disagreed: ([0-9]+)", found["words"]).group(1)))
    return figures.Output(found["command"], own.group() if own else place, printed)


def recalled(page):
    """A measure that takes from the page, as it is now, what a command prints."""
    place, outputs = figures.PLACE.search(page.read_text()).group(), {}
    parts = figures.parts_of(page)
    for part in parts[1:]:
        title, text = part[3:].split("\n\n", 1)
        form = FORMS.get(title, figures.FENCED)
        if title != figures.DYNET and (title in FORMS or "\n```\n" in text):
            outputs[title] = output_of(text, form, place)
    if page == figures.STUDY:
        of_trees = "".join(part for part in parts if part[3:].split("\n")[0] not in FORMS)
        tables, beside_dynet = figures.parts_of(figures.TABLES)[1:]
        outputs["study"] = output_of(of_trees.replace(figures.IN_WORDS, tables + figures.WORDS), figures.TREES, place)
        outputs[figures.DYNET] = output_of(beside_dynet[3:].split("\n\n", 1)[1], figures.BESIDE_DYNET, place)
    return lambda title, command: outputs[title]


def is_kept():
    """What a command prints is kept, and what is not there leaves a section as it was."""
    figures.given.kept = False
    first = figures.measure("A title", "echo one; echo two")
    figures.given.kept = True
    assert figures.measure("A title", "echo three") == first and first.text == "one\ntwo", first
    figures.given.kept = False
    Path("page.md").write_text("# Page\n\nMeasured on a day\n\n## A title\n\nold\n")
    for command in ("echo SKIPPED: it", "./no-such-program"):
        now = figures.section(Path("page.md"), "A title", command)
        assert now == "\n## A title\n\nMeasured on a day\n\nold\n", now


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bench/log").mkdir(parents=True)
    pages = (figures.STUDY, figures.RESULTS, figures.PROGRAMS)
    for page in (*pages, figures.TABLES):
        shutil.copy(page, folder / page)
    os.chdir(folder)
    is_kept()
    for page, write in zip(pages, (figures.study, figures.results, figures.programs)):
        written = (page, figures.TABLES)
        before, figures.measure = [each.read_text() for each in written], recalled(page)
        write()
        for each, text in zip(written, before):
            if each.read_text() != text:
                sys.exit(f"{each} would be written as in {folder / each}")


if __name__ == "__main__":
    main()
