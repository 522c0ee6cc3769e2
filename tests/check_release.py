"""Holds what tests/release.py wrote against the documented formats: python3 tests/check_release.py ARCHIVE.tar.gz COMMIT

The .zip and the -notes.md are those beside the archive. COMMIT is the one that they should name. The formats are those of

    library.json         docs.platformio.org/en/latest/manifests/library-json, and the JSON schema of PlatformIO 6
    library.properties   docs.arduino.cc/arduino-cli/library-specification, and the stricter schemas of arduino-lint
    idf_component.yml    docs.espressif.com/projects/idf-component-manager/en/latest/reference/manifest_file.html

The last line is "N passed, N failed"."""

import json
import posixpath
import re
import sys
import tarfile
import zipfile

SEMVER = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
URL = r"https?://[\w.-]+(/\S*)?"
CATEGORIES = ["Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing", "Data Storage",
              "Data Processing", "Other"]


class Release:
    def __init__(self, path, commit):
        self.path, self.commit, self.base = path, commit, path[:-len(".tar.gz")]
        with tarfile.open(path) as archive:
            self.members = archive.getmembers()
            self.bytes = {each.name: archive.extractfile(each).read() for each in self.members if each.isfile()}
        self.top = self.members[0].name.split("/")[0] + "/"
        self.files = {name[len(self.top):]: content for name, content in self.bytes.items()}
        numbers = re.findall(r"^#define FOLD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", self.text("fold.h"), re.M)
        self.version = ".".join(numbers)

    def text(self, name):
        return self.files[name].decode("utf-8")

    def notes(self):
        with open(self.base + "-notes.md", encoding="utf-8") as file:
            return file.read()


# ---- a test yields what is wrong ---------------------------------------------------------------------------------


def names_and_times(release):
    names = [member.name for member in release.members]
    if names != sorted(names) or len(set(names)) != len(names):
        yield "names are not sorted, or not unique"
    if release.top != "fold-%s/" % release.version or posixpath.basename(release.base) != "fold-" + release.version:
        yield "the folder is %s, the archive %s, of version %s" % (release.top, release.base, release.version)
    for member in release.members:
        if not member.isfile() or not member.name.startswith(release.top) or "/../" in member.name:
            yield "%s is no file of %s" % (member.name, release.top)
        if (member.uid, member.gid, member.uname, member.gname) != (0, 0, "", "") or member.mode not in (0o644, 0o755):
            yield "%s has an owner, or mode %o" % (member.name, member.mode)
    if len({member.mtime for member in release.members}) != 1:
        yield "files have different times"
    with open(release.path, "rb") as file:
        head = file.read(10)
    if int.from_bytes(head[4:8], "little") != release.members[0].mtime or head[3]:
        yield "gzip's head has another time, or a name"


def zip_is_the_same(release):
    with zipfile.ZipFile(release.base + ".zip") as archive:
        if {each: archive.read(each) for each in archive.namelist()} != release.bytes:
            yield "the files differ"
        if len({each.date_time for each in archive.infolist()}) != 1:
            yield "files have different times"


def what_it_has(release):
    wanted = ["fold.h", "LICENSE", "README.md", "CHANGELOG.md", "CMakeLists.txt", "Makefile", "examples/hello.c",
              "examples/sketch/sketch.ino", "examples/sketch/network.h", "site/index.html"]
    wanted += ["examples/fold_%s.h" % each for each in ("draw", "fit", "onnx", "onnx_ops", "record", "rl", "to_c", "torch")]
    yield from ("there is no " + name for name in wanted if name not in release.files)
    yield from ("%s is not for others" % name for name in release.files if name.startswith("."))
    for text, target in re.findall(r"\[([^\]]+)\]\(([^)#\s]+)[^)]*\)", release.text("README.md")):
        folder = target.rstrip("/") + "/"
        if not re.match(r"\w+:", target) and target not in release.files and \
                not any(name.startswith(folder) for name in release.files):
            yield "README's link %s leads to %s, which is not there" % (text, target)


def headers_in_src(release):
    headers = [name for name in release.files if re.fullmatch(r"fold\.h|examples/fold_\w+\.h", name)]
    sources = [name for name in release.files if name.startswith("src/")]
    if len(headers) < 7 or len(headers) != len(sources):
        yield "%d headers, %d files in src" % (len(headers), len(sources))
    for name in headers:
        include = '#include "../%s"' % name
        if include not in release.files.get("src/" + posixpath.basename(name), b"").decode():
            yield "src has no header that includes " + name


def forms(fields, wanted, required):
    """Fields that are missing, unknown, or not of the form that `wanted` gives: a pattern, a list or a function."""
    yield from ("there is no " + name for name in required if name not in fields)
    for name, value in fields.items():
        form = wanted.get(name)
        if form is None:
            yield "unknown field " + name
        elif isinstance(form, str) and not (isinstance(value, str) and re.fullmatch(form, value)):
            yield "%s is %r" % (name, value)
        elif isinstance(form, list) and value not in form:
            yield "%s is %r" % (name, value)
        elif callable(form) and not form(value):
            yield "%s is %r" % (name, value)


def library_json(release):
    slug = r"[a-z0-9]+(-[a-z0-9]+)*"
    text = r"[^\n]{1,255}"

    def words(value):
        return isinstance(value, list) and value and all(re.fullmatch(slug, word) for word in value)

    def people(value):
        return all(set(each) <= {"name", "email", "url", "maintainer"} and each.get("name") for each in value)

    def examples(value):
        return all(each["base"] + "/" + name in release.files for each in value for name in each["files"])

    def export(value):
        return set(value) <= {"include", "exclude"} and all(isinstance(each, list) for each in value.values())

    fields = json.loads(release.text("library.json"))
    yield from forms(fields, {
        "name": slug, "version": SEMVER, "description": text, "keywords": words, "homepage": URL, "authors": people,
        "license": ["MIT OR Unlicense"], "frameworks": ["*"], "platforms": ["*"],
        "headers": lambda value: "src/" + value in release.files, "examples": examples, "export": export,
    }, ["name", "version", "description", "keywords", "homepage", "license", "headers"])
    if len(fields["name"]) > 50 or len(fields["version"]) > 20 or fields["version"] != release.version:
        yield "version %s, name %s" % (fields["version"], fields["name"])


def library_properties(release):
    lines = release.text("library.properties").splitlines()
    fields = dict(line.split("=", 1) for line in lines)
    if len(fields) != len(lines):
        yield "a field occurs twice"
    line = r"\S.*\S"
    no_arduino = r"(?!(?i:.*arduino))" + line
    yield from forms(fields, {
        "name": r"(?!(?i:.*(arduino|library)))[A-Za-z][A-Za-z0-9_.-]{0,15}", "version": SEMVER, "author": line,
        "maintainer": no_arduino, "sentence": line, "paragraph": line, "category": CATEGORIES, "url": URL,
        "architectures": ["*"],
        "includes": lambda value: all("src/" + each in release.files for each in value.split(",")),
    }, ["name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"])
    if fields["version"] != release.version:
        yield "version is " + fields["version"]
    if fields["paragraph"].startswith(fields["sentence"]):
        yield "the paragraph begins with the sentence, which is put before it"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", release.top[:-1]):
        yield "the root folder must not be called " + release.top
    sketches = [name for name in release.files if name.endswith(".ino")]
    for name in sketches:
        if posixpath.basename(posixpath.dirname(name)) + ".ino" != posixpath.basename(name):
            yield "%s is not in a folder of its name" % name
    for each in release.text("keywords.txt").splitlines():
        if not re.fullmatch(r"\w+\t(KEYWORD[123]|LITERAL[12])", each):
            yield "keywords.txt: %r" % each
    if "fold_ctx_new\tKEYWORD2" not in release.text("keywords.txt"):
        yield "keywords.txt does not name fold_ctx_new"


def yaml(text):
    """The little of YAML that idf_component.yml uses: a key with a string, a list of strings or a mapping of lists."""
    fields, path = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r'( *)(?:(\w+):|-)(?: ("(?:[^"\\]|\\.)*")(?: #.*)?)?', line)
        if not found or len(found.group(1)) % 2:
            raise ValueError("idf_component.yml:%d: %s" % (number, line))
        depth, key, value = len(found.group(1)) // 2, found.group(2), found.group(3)
        parents, here = path[:depth], fields
        for name in parents[:-1]:
            here = here[name]
        if key is None:
            here[parents[-1]] = (here[parents[-1]] or []) + [json.loads(value)]
            continue
        if parents:
            here[parents[-1]] = here = here[parents[-1]] or {}
        here[key] = json.loads(value) if value else None
        path = parents + [key]
    return fields


def idf_component(release):
    def tags(value):
        return all(re.fullmatch(r"[A-Za-z0-9_-]{3,32}", tag) for tag in value) and \
            len({tag.lower() for tag in value}) == len(value)

    def files(value):
        patterns = value.get("exclude", [])
        return set(value) <= {"include", "exclude"} and len(set(patterns)) == len(patterns) and \
            all(re.fullmatch(r"\w+/\*\*/\*", each) for each in patterns)

    fields = yaml(release.text("idf_component.yml"))
    yield from forms(fields, {
        "version": SEMVER, "description": r"\S.*\S", "license": ["MIT"], "url": URL, "tags": tags, "files": files,
    }, ["version", "description", "license", "url", "tags"])
    if fields["version"] != release.version:
        yield "version is " + fields["version"]


def notes_and_changes(release):
    notes, changes = release.notes(), release.text("CHANGELOG.md")
    first = re.search(r"^## (\S+) - ([^\n]*)\n(.*?)(?=^## \d)", changes, re.M | re.S)
    if first.group(1) != release.version:
        yield "CHANGELOG.md begins with " + first.group(1)
    section = first.group(3).strip()
    if not notes.startswith("# fold.h %s\n\nCommit %s of " % (release.version, release.commit)) or \
            not notes.endswith("\n" + section + "\n"):
        yield "they do not name %s and end with CHANGELOG's section" % release.commit
    released = re.fullmatch(r"\d{4}-\d\d-\d\d", first.group(2)) and '"%s"' % release.version in release.text("fold.h")
    if ("A preview" in notes) == bool(released):
        yield "a version without a date, or with -dev in fold.h, is a preview, and no other is"
    titles = re.findall(r"^### (.*)$", section, re.M)
    if titles != ["Changed: what to write instead", "Added", "Fixed"]:
        yield "CHANGELOG.md has the titles " + ", ".join(titles)


def main():
    release, failed = Release(*sys.argv[1:3]), 0
    tests = [names_and_times, zip_is_the_same, what_it_has, headers_in_src, library_json, library_properties, idf_component,
             notes_and_changes]
    for test in tests:
        try:
            wrong = list(test(release))
        except (KeyError, ValueError) as error: # a field that others build on
            wrong = [repr(error)]
        failed += bool(wrong)
        for each in wrong[:10]:
            print("FAILED: %s: %s" % (test.__name__, each))
    print("%d passed, %d failed" % (len(tests) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
