"""Writes a release: python3 tests/release.py --network FILE [--out FOLDER] [--site FOLDER] [--url URL] [--maintainer TEXT]

    fold-VERSION.tar.gz, .zip   all files of the repository except those whose paths begin with a dot, and
                                site/                    the pages that `make web` built, if there are any
                                src/                     headers that include the others, since Arduino, PlatformIO and
                                                         ESP-IDF look for headers there
                                library.json             what PlatformIO wants to know of a library
                                library.properties       what Arduino does, and keywords.txt for its editor
                                idf_component.yml        what ESP-IDF does, together with CMakeLists.txt
                                examples/sketch/network.h  the network of the sketch, printed by examples/policy.c
    fold-VERSION-notes.md       the commit, the archives' hashes, and what CHANGELOG.md says of this version

The version is that of fold.h. Archives contain the same bytes whenever and wherever they are made of a commit: names are
sorted, times are the commit's, and nobody owns the files. Only site/ depends on the compiler that built it.

URL is the project's address, which registries of Arduino libraries require; MAINTAINER is a name with an e-mail address."""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile

import interface

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SENTENCE = "Dynamic batching of neural networks in one header."
PARAGRAPH = (
    "Write a network for one sample, of any shape, as plain C: fold.h runs many of them in batches, and trains them. "
    "On AVR boards, which are too small for it, run networks that it printed as C: see the example sketch.")
KEYWORDS = ["neural-network", "machine-learning", "dynamic-batching", "reinforcement-learning", "onnx"]
NOT_ON_BOARDS = ["bench", "site", "tests"]


def git(*arguments):
    return subprocess.run(["git", "-C", FOLDER, *arguments], check=True, stdout=subprocess.PIPE).stdout.decode()


def read(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def version_of_header():
    numbers = re.findall(rb"^#define FOLD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", read("fold.h"), re.M)
    return ".".join(number.decode() for number in numbers)


def changes(version):
    """The date of the version's section in CHANGELOG.md, and its lines up to the next version."""
    pattern = r"^## %s - ([^\n]*)\n(.*?)(?=^## \d|\Z)" % re.escape(version)
    found = re.search(pattern, read("CHANGELOG.md").decode(), re.M | re.S)
    if not found:
        sys.exit("release: CHANGELOG.md has no section of version %s, which fold.h says it is" % version)
    return found.group(1), found.group(2).strip() + "\n"


# ---- what boards need ----------------------------------------------------------------------------------------------


def library_json(version, settings):
    library = {
        "name": "fold", "version": version, "description": SENTENCE + " " + PARAGRAPH.split(". ")[0] + ".", "keywords": KEYWORDS,
        "license": "MIT OR Unlicense", "authors": [{"name": "the fold.h authors"}],
        "frameworks": "*", "platforms": "*", "headers": "fold.h",
        "examples": [{"name": "sketch", "base": "examples/sketch", "files": ["sketch.ino", "network.h"]}],
        "export": {"exclude": NOT_ON_BOARDS}}
    if settings.url:
        library["homepage"] = settings.url
    return json.dumps(library, indent=2) + "\n"


def library_properties(version, settings):
    fields = [
        ("name", "fold"), ("version", version), ("author", "the fold.h authors"), ("maintainer", settings.maintainer),
        ("sentence", SENTENCE), ("paragraph", PARAGRAPH), ("category", "Data Processing"), ("url", settings.url),
        ("architectures", "*"), ("includes", "fold.h")]
    return "".join("%s=%s\n" % field for field in fields if field[1])


def idf_component(version, settings):
    """Strings are written as in JSON, which is YAML."""
    lines = ['version: "%s"' % version, "description: " + json.dumps(SENTENCE), 'license: "MIT" # or Unlicense: see LICENSE']
    if settings.url:
        lines.append("url: " + json.dumps(settings.url))
    lines += ["tags:"] + ["  - " + json.dumps(word) for word in KEYWORDS]
    lines += ["files:", "  exclude:"] + ['    - "%s/**/*"' % folder for folder in NOT_ON_BOARDS]
    return "\n".join(lines) + "\n"


def keywords():
    """The Arduino editor colours types, calls and constants."""
    kinds = {"function": "KEYWORD2", "macro": "LITERAL1"}
    lines = set()
    for each in interface.declarations():
        lines.add("%s\t%s" % (each["name"], kinds.get(each["kind"], "KEYWORD1")))
        if each["kind"] == "enum":
            lines.update("%s\tLITERAL1" % member.split()[0] for member in each["members"])
    return "\n".join(sorted(line for line in lines if line.startswith(("fold_", "FOLD_")))) + "\n"


def forwarding_headers(names):
    for name in names:
        if re.fullmatch(r"fold\.h|examples/fold_\w+\.h", name):
            yield "src/" + os.path.basename(name), '/* for Arduino, PlatformIO and ESP-IDF */\n#include "../%s"\n' % name


# ---- archives ------------------------------------------------------------------------------------------------------


def files_of_release(version, settings):
    """Names with bytes and whether it is a program."""
    files = {}
    for line in git("ls-files", "-s").splitlines():
        mode, name = line.split(None, 1)[0], line.split("\t", 1)[1]
        if not name.startswith("."):
            files[name] = (read(name), mode == "100755")
    made = dict(forwarding_headers(list(files)))
    made["library.json"] = library_json(version, settings)
    made["library.properties"] = library_properties(version, settings)
    made["idf_component.yml"] = idf_component(version, settings)
    made["keywords.txt"] = keywords()
    files.update((name, (text.encode(), False)) for name, text in made.items())
    files["examples/sketch/network.h"] = (read(os.path.abspath(settings.network)), False)
    site = os.path.abspath(settings.site)
    for folder, _, names in os.walk(site):
        for name in names:
            path = os.path.join(folder, name)
            files["site/" + os.path.relpath(path, site).replace(os.sep, "/")] = (read(path), False)
    return files


def write_tar(path, top, files, seconds):
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=seconds) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            content, program = files[name]
            member = tarfile.TarInfo(top + name) # of user and group 0, which have no names
            member.size, member.mtime, member.mode = len(content), seconds, 0o755 if program else 0o644
            archive.addfile(member, io.BytesIO(content))


def write_zip(path, top, files, seconds):
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(files):
            content, program = files[name]
            member = zipfile.ZipInfo(top + name, time.gmtime(seconds)[:6])
            member.create_system = 3 # Unix, whatever this is, so that modes mean something
            member.external_attr = (0o100755 if program else 0o100644) << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, 9)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def write_notes(path, version, commit, changed, seconds, archives):
    day, section = changes(version)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
        file.write("# fold.h %s\n\nCommit %s of %s%s.\n" %
                   (version, commit, made, ", with changes that are not committed" if changed else ""))
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", day) or b'"%s-dev"' % version.encode() in read("fold.h"):
            file.write("A preview: this version is not released yet.\n")
        file.write("\n| archive | SHA-256 |\n|---|---|\n")
        file.writelines("| %s | %s |\n" % (os.path.basename(each), sha256(each)) for each in archives)
        file.write("\n" + section)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True)
    parser.add_argument("--out", default="build")
    parser.add_argument("--site", default="build/site")
    parser.add_argument("--url", default="")
    parser.add_argument("--maintainer", default="the fold.h authors")
    settings = parser.parse_args()

    if not os.path.exists(os.path.join(FOLDER, ".git")):
        sys.exit("release: this is no clone of the repository, so there is no commit to release")
    version, commit = version_of_header(), git("rev-parse", "HEAD").strip()
    seconds = int(git("show", "-s", "--format=%ct", "HEAD"))
    changed = git("status", "--porcelain", "--untracked-files=no") != ""
    if changed:
        print("NOT A RELEASE: there are changes that are not committed")
    files = files_of_release(version, settings)
    pages = sum(name.startswith("site/") for name in files)
    if not pages:
        print("SKIPPED: the site (%s is not there: make web builds it)" % settings.site)
    if not settings.url:
        print("SKIPPED: the project's address (give it as URL=https://...: Arduino's registry refuses libraries without one)")
    base = os.path.join(settings.out, "fold-" + version)
    archives = [base + ".tar.gz", base + ".zip"]
    os.makedirs(settings.out, exist_ok=True)
    write_tar(archives[0], "fold-%s/" % version, files, seconds)
    write_zip(archives[1], "fold-%s/" % version, files, seconds)
    write_notes(base + "-notes.md", version, commit, changed, seconds, archives)
    print("RESULT release archive=%s bytes=%d files=%d pages=%d sha256=%s" %
          (archives[0], os.path.getsize(archives[0]), len(files), pages, sha256(archives[0])))


if __name__ == "__main__":
    main()
