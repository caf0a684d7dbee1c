#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hold the man pages against farkv.h, against each other and against the packages. Prints what is
wrong, one line each.

pages.py SRCDIR BUILDDIR
"""
import fnmatch
import glob
import os
import re
import shlex
import sys

SRC, BUILD = sys.argv[1:3]
# Pages of others that ours refer to.
FOREIGN = set("""chdir(2) exec(2) fork(2) madvise(2) mremap(2) munmap(2) poll(2)
    closefrom(3) jemalloc(3) malloc(3) pthread_cancel(3) sd_listen_fds(3) epoll(7) rdma(8)
    cdbmake(1) gnuplot(1) head(1) memcached(1) redis-cli(1) perf(1)""".split())
NO_CONSTANTS = {"FARKV_H", "FARKV_MUST_CHECK"}
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAIL: " + text)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def squeezed(text):
    """C without blanks that mean nothing."""
    return re.sub(r" ?([*(),;]) ?", r"\1", re.sub(r"\s+", " ", text.strip()))


def section(page, title):
    m = re.search(r"^\.SH %s\n(.*?)(?=^\.SH |\Z)" % title, page, re.M | re.S)
    return m[1] if m else ""


def plain(page):
    """The words of a page, with a line for each line."""
    lines = []
    for line in page.replace(r"\-", "-").replace(r"\&", "").split("\n"):
        if re.match(r"\.[BIR]{1,2} ", line):
            try:
                words = shlex.split(line, posix=True)
            except ValueError:
                words = line.split()
            line = ("" if len(words[0]) == 3 else " ").join(words[1:])
        lines.append(line)
    return "\n".join(lines)


class Header:
    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        defines = re.findall(r"^#define (FARKV_\w+)", text, re.M)
        text = re.sub(r"^#.*$", "", text, flags=re.M).replace("FARKV_MUST_CHECK", "")
        self.functions = {
            name: squeezed(proto) for proto, name in
            re.findall(r"^((?:int|void|size_t|uint64_t|const char)[ *]+(farkv_\w+)\([^;]*\)\s*;)", text, re.M)}
        self.structs = {
            name: [squeezed(d) for d in body.split(";") if d.strip()] for name, body in
            re.findall(r"^struct (farkv_\w+) \{(.*?)^\};", text, re.M | re.S)}
        enums = re.findall(r"^enum \w+ \{(.*?)^\};", text, re.M | re.S)
        self.constants = set(defines) - NO_CONSTANTS
        for body in enums:
            self.constants |= set(re.findall(r"\b(FARKV_\w+)\b", body))


def read_pages():
    """The text of each page, by "name.section"."""
    pages = {}
    for folder in (SRC, BUILD):
        for path in glob.glob(folder + "/doc/*.[1-8]"):
            pages[os.path.basename(path)] = read(path)
    return pages


def names_of(page):
    return re.sub(r"\\-.*", "", section(page, "NAME"), flags=re.S).replace(",", " ").split()


def check_functions(pages, header):
    listed, shown = {}, {}
    for file, page in pages.items():
        if not file.endswith(".3"):
            continue
        for name in names_of(page):
            listed.setdefault(name, []).append(file)
            if name not in header.functions and name + ".3" not in pages:
                fail("%s: its NAME lists %s, which is no function of farkv.h" % (file, name))
        for proto in re.findall(r"(?:int|void|size_t|uint64_t|const char)[ *]+farkv_\w+\([^;]*\)\s*;",
                                plain(section(page, "SYNOPSIS"))):
            name = re.search(r"(farkv_\w+)\(", proto)[1]
            shown.setdefault(name, []).append(file)
            if squeezed(proto) != header.functions.get(name):
                fail("%s: %s is not the prototype of farkv.h, %s" %
                     (file, squeezed(proto), header.functions.get(name)))
    for name in header.functions:
        where = listed.get(name, [])
        if len(where) != 1 or shown.get(name) != where:
            fail("%s is not on one page: NAME of %s, SYNOPSIS of %s" %
                 (name, where, shown.get(name, [])))
    if len(header.functions) < 40:
        fail("only %d functions were found in farkv.h" % len(header.functions))


def check_structs(pages, header):
    shown = {}
    for file, page in pages.items():
        for name, body in re.findall(r"^struct (farkv_\w+) \{\n(.*?)^\};", page, re.M | re.S):
            shown.setdefault(name, []).append(file)
            fields = re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";")
            if [squeezed(f) for f in fields if f.strip()] != header.structs.get(name):
                fail("%s: struct %s has other fields in farkv.h" % (file, name))
    for path in glob.glob(SRC + "/doc/*.3.in"):
        file = os.path.basename(path)[:-3]
        items = [squeezed("".join(shlex.split(i))) for i in
                 re.findall(r"^\.TP\n\.BI (.*)$", pages.get(file, ""), re.M)]
        for name in re.findall(r"^@FIELDS (\w+)@$", read(path), re.M):
            shown.setdefault(name, []).append(file)
            for field in header.structs.get(name, []):
                if field != "size_t size" and field not in items:
                    fail("%s lacks '%s' of struct %s" % (file, field, name))
    for name in header.structs:
        if len(shown.get(name, [])) != 1:
            fail("struct %s is not on one page, but on %s" % (name, shown.get(name, [])))


def check_constants(pages, header):
    words = set(re.findall(r"\w+", " ".join(t for f, t in pages.items() if f.endswith(".3"))))
    for name in sorted(header.constants - words):
        fail("%s of farkv.h is on no page" % name)


def check_references(pages, header):
    known = {"%s(%s)" % tuple(f.rsplit(".", 1)) for f in pages}
    known |= {"%s(3)" % name for name in header.functions}
    n = 0
    for file, page in pages.items():
        for name in re.findall(r"^\.BR (farkv_\w+) \(\)", page, re.M):
            if name not in names_of(page):
                fail("%s: %s() is on another page, so it is %s (3)" % (file, name, name))
        if not section(page, "SEE ALSO"):
            fail("%s has no SEE ALSO" % file)
        for name in re.findall(r"([\w.-]+)\((\d)\)", plain(page)):
            n += 1
            if "%s(%s)" % name not in known | FOREIGN:
                fail("%s refers to %s(%s), which is no page" % ((file,) + name))
    if n < 100:
        fail("only %d references were found" % n)
    others = [p for d in ("", "doc/", "contrib/", "include/", "debian/", "client/", "server/", "gate/")
              for p in glob.glob(SRC + "/" + d + "*") if os.path.isfile(p)]
    for path in others:
        if path.endswith((".svg", ".xz", ".in")) or os.path.basename(path) in pages:
            continue
        text = read(path)
        for name in re.findall(r"\b((?:kv(?:server|cli|bench|gate)|farkv[\w-]*)(?:\.conf)?)\((\d)\)", text):
            if "%s(%s)" % name not in known:
                fail("%s refers to %s(%s), which is no page" % ((path,) + name))
        for number, name in re.findall(r"\bman (?:(\d) )?((?:kv|farkv)[\w-]*)", text):
            if not any(k.startswith(name + "(" + number) for k in known):
                fail("%s: man %s %s shows nothing" % (path, number, name))


def check_packages(pages):
    patterns = {}
    for path in glob.glob(SRC + "/debian/*.install"):
        patterns[os.path.basename(path)] = [
            line.split()[0] for line in read(path).split("\n") if line.startswith("usr/share/man")]
    if not patterns: # the archive has no debian/
        return
    for file in pages:
        path = "usr/share/man/man%s/%s" % (file[-1], file)
        where = [p for p, lines in patterns.items() for line in lines
                 if fnmatch.fnmatch(path, line) or path.startswith(line + "/")]
        if len(where) != 1:
            fail("debian/: %s is not in one package, but in %s" % (file, where))
    for package, lines in patterns.items():
        for line in lines:
            if not any(("usr/share/man/man%s/%s" % (f[-1], f)).startswith(line.rstrip("*")) for f in pages):
                fail("debian/%s: there is no %s" % (package, line))


def main():
    header = Header(read(SRC + "/include/farkv.h"))
    pages = read_pages()
    check_functions(pages, header)
    check_structs(pages, header)
    check_constants(pages, header)
    check_references(pages, header)
    check_packages(pages)
    return 1 if failures else 0


sys.exit(main())
