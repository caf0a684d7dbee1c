#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hold the sources against the rules of the tree: who includes whom, no circles,
licence lines, length and parameters of functions, memory order by name. Prints what
breaks a rule, one line each.

tree.py ROOT        check the tree
tree.py --self-test plant one violation of each rule and see that it is found
"""
import os
import re
import sys

# What each folder may include beside itself and <farkv.h>: another folder, or one header.
# An arrow points down only; CONTRIBUTING.md shows the same table.
FORMATS = ("common/base", "common/region")
MAY_INCLUDE = {
    "include": (),
    "common/base": (),
    "common/region": ("common/base",),
    "common/xport": ("common/base",),
    "common/proto": FORMATS,
    "common/rdma": FORMATS + ("common/xport",),
    "common/index": FORMATS + ("common/xport",),
    "common/snapshot": FORMATS,
    "client": FORMATS + ("common/xport", "common/proto", "common/rdma",
                         "common/index"),
    "client/cli": ("common/base", "common/snapshot", "common/proto/clustermap.h",
                   "common/proto/keyfile.h", "common/rdma/probe.h", "server/cluster"),
    "gate": ("common/base", "common/proto/keyfile.h"),
    "server/memory": FORMATS,
    "server/index": FORMATS + ("common/xport", "server/memory"),
    "server/saver": ("common/base", "common/snapshot"),
    "server/cluster": ("common/base", "common/proto/clustermap.h"),
    # Its child is a client of two servers, of one by what libfarkv does not show.
    "server/follower": FORMATS + ("common/proto/clustermap.h", "client/follow.h"),
    "server/loop": FORMATS + ("common/xport", "common/proto", "common/rdma",
                              "server/memory", "server/index", "server/saver",
                              "server/cluster", "server/follower"),
    "server": ("common/base", "common/rdma", "server/loop", "server/follower"),
    "bench/base": ("common/base",),
    "bench/store": ("common/base", "bench/base"),
    "bench/gen": ("common/base", "bench/base", "bench/store"),
    "bench/core": ("common/base", "common/rdma/probe.h", "common/snapshot/outfile.h", "bench/base",
                   "bench/store", "bench/gen"),
    # It measures the limit with the store's own formats, and with bare requests.
    "bench/limit": FORMATS + ("bench/base", "bench/store", "bench/gen", "bench/core",
                              "client/raw.h"),
    "bench/compare": ("common/base", "bench/base", "bench/store", "bench/gen",
                      "bench/core"),
    "bench": ("common/base", "bench/base", "bench/core", "bench/limit",
              "bench/compare"),
    "python": (),
    "examples": (),
}
FOLDERS = ("include", "common", "client", "gate", "server", "bench", "examples")
LONGEST = 60
MOST_PARAMETERS = 5
# Named by others, or by the interface: jemalloc's hooks, farkv.h.
MANY_PARAMETERS = {
    "client/extents.c": {"on_alloc", "on_split", "on_merge"},
    "client/farkv_keys.c": {"farkv_get_into", "farkv_cas"},
}


def include_error(path, name, system):
    """What is wrong with this #include, or None."""
    where = os.path.dirname(path)
    if re.match(r"(infiniband|rdma)/", name):
        return None if where == "common/rdma" else \
            "only common/rdma may include <%s>" % name
    if system or name in ("config.h", "bench/commit.h"):
        return None
    if where not in MAY_INCLUDE:
        return "%s is no folder of MAY_INCLUDE" % where
    to = os.path.dirname(name) or where
    if to == where or to in MAY_INCLUDE[where] or name in MAY_INCLUDE[where]:
        return None
    return "%s may not include %s" % (where, name)


def check_includes(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        m = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if m:
            error = include_error(path, m[2], m[1] == "<")
            if error:
                yield number, error


def included(path, text):
    """The files of the tree that this one includes."""
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        if name != "config.h":
            yield name if "/" in name else os.path.join(os.path.dirname(path), name)


def unit(path):
    return re.sub(r"(_priv)?\.\w+$", "", path)


def circles(uses):
    """The largest sets of nodes in which each one reaches every other one."""
    def reached(node):
        seen, todo = set(), [node]
        while todo:
            new = uses.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    all_reached = {node: reached(node) for node in uses}
    return {frozenset(n for n in seen if node in all_reached.get(n, ()))
            for node, seen in all_reached.items() if node in seen}


def check_circles(texts):
    """Of all files, by path. A file x.c with x.h and x_priv.h uses another if it includes its header."""
    headers, units = {}, {}
    for path, text in texts.items():
        for name in included(path, text):
            if path.endswith(".h"):
                headers.setdefault(path, set()).add(name)
            if unit(name) != unit(path):
                units.setdefault(unit(path), set()).add(unit(name))
    for c in circles(headers):
        yield "headers include each other: " + ", ".join(sorted(c))
    for c in circles(units):
        yield "files use each other: " + ", ".join(sorted(c))


def check_licence(path, text):
    if path.startswith("examples/"):
        return
    if "SPDX-License-Identifier: BSD-3-Clause" not in text.split("\n")[0]:
        yield 1, "the first line names no licence"


def check_order(path, text):
    if path == "common/base/atomic.h" or path.startswith("bench/"):
        return
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b__atomic_|\batomic_thread_fence|\b__sync_", line) or \
                re.search(r"\bvolatile\b", line) and "sig_atomic_t" not in line \
                and not line.lstrip().startswith(("*", "/*")):
            yield number, "memory order without a name of common/base/atomic.h"


def check_fetch(path, text):
    if path == "common/region/fetch.h":
        return
    for number, line in enumerate(text.split("\n"), 1):
        if "__builtin_prefetch" in line:
            yield number, "the compiler may leave it out: see common/region/fetch.h"


def check_length(path, text):
    start = None
    for number, line in enumerate(text.split("\n"), 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start - 1 > LONGEST:
                yield start, "a function of %d lines" % (number - start - 1)
            start = None


def n_parameters(text):
    """Of what follows an opening parenthesis, up to the one that closes it."""
    depth, n = 1, 1
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        n += c == "," and depth == 1
        if not depth:
            return n
    return 0


def check_parameters(path, text):
    if path.startswith(("include/", "examples/")):
        return
    bare = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    lines = bare.split("\n")
    for at, line in enumerate(lines):
        if line != "{":
            continue
        head = at
        while head and lines[head - 1] and lines[head - 1][0] not in "#}":
            head -= 1
        m = re.search(r"\b(?!__attribute__)(\w+)\((?!\()", "\n".join(lines[head:at]))
        n = n_parameters(m.string[m.end():]) if m else 0
        if n > MOST_PARAMETERS and m[1] not in MANY_PARAMETERS.get(path, ()):
            yield at + 1, "%s() has %d parameters" % (m[1], n)


def check_notes(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield number, "an open end: %s" % line.strip()


RULES = (check_includes, check_licence, check_order, check_fetch, check_length,
         check_parameters, check_notes)


def check_file(path, text):
    return ["%s:%d: %s" % (path, number, what)
            for rule in RULES for number, what in rule(path, text)]


def sources(root):
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith((".c", ".cc", ".h", ".hpp")):
                    yield os.path.relpath(os.path.join(at, name), root)


PLANTED = (
    ("client/x.c", '#include "server/memory/slab.h"'),
    ("client/cli/x.c", '#include "client/handle.h"'),
    ("client/cli/x.c", '#include "common/index/index.h"'),
    ("client/cli/x.c", '#include "common/proto/msg.h"'),
    ("gate/x.c", '#include "client/handle.h"'),
    ("gate/x.c", '#include "common/index/index.h"'),
    ("server/loop/x.c", '#include "client/uri.h"'),
    ("server/memory/x.c", '#include "server/loop/control.h"'),
    ("server/index/x.c", '#include "common/index/index.h"'),
    ("bench/core/x.c", '#include "common/region/layout.h"'),
    ("bench/limit/x.c", '#include "common/index/index.h"'),
    ("bench/limit/x.c", '#include "client/conn.h"'),
    ("bench/core/x.c", '#include "client/raw.h"'),
    ("common/base/x.c", '#include "common/region/layout.h"'),
    ("common/region/x.c", '#include "common/xport/xport.h"'),
    ("common/xport/x.c", '#include "common/rdma/verbs.h"'),
    ("common/proto/x.c", '#include "common/index/alloc.h"'),
    ("common/index/x.c", '#include "common/rdma/verbs.h"'),
    ("common/new/x.c", '#include "common/base/err.h"'),
    ("common/index/x.c", "#include <infiniband/verbs.h>"),
    ("examples/x.c", '#include "common/base/err.h"'),
    ("common/x.c", "__atomic_thread_fence(__ATOMIC_SEQ_CST);"),
    ("server/x.c", "static volatile int stop;"),
    ("bench/x.c", "\t__builtin_prefetch(at);"),
    ("client/x.c", "/* TODO: later */"),
    ("client/x.c", "{\n" + "\tx++;\n" * 61 + "}\n"),
    ("server/x.c", "int x(int a, int b, int c,\n      int d, int e, int f)\n{\n}\n"),
    ("bench/x.h", "static __attribute__((cold)) int\n"
     "x(int (*a)(int, int), int b, int c, int d, int e, int f)\n{\n}\n"),
)
PLANTED_CIRCLES = (
    {"server/loop/x.c": '#include "y.h"\n', "server/loop/y.c": '#include "server/loop/x.h"\n'},
    {"client/x.c": '#include "y_priv.h"\n', "client/y.h": '#include "z.h"\n',
     "client/z.c": '#include "x.h"\n'},
    {"common/base/x.h": '#include "x_priv.h"\n', "common/base/x_priv.h": '#include "x.h"\n'},
)
GOOD_CIRCLES = {
    "client/x.c": '#include "x.h"\n#include "x_priv.h"\n#include "y.h"\n#include "z.h"\n',
    "client/x_priv.h": '#include "x.h"\n', "client/y.c": '#include "z.h"\n'}
LICENCE = "/* SPDX-License-Identifier: BSD-3-Clause */\n"


def table_errors(text):
    """How the table of CONTRIBUTING.md differs from MAY_INCLUDE."""
    rows = re.findall(r"^\| `([a-z/]+)` \|[^|]*\|([^|]*)\|$", text, re.M)
    shown = {folder: set(re.findall(r"`([^`]+)`", may)) for folder, may in rows}
    return ["CONTRIBUTING.md: the row of %s is not that of tree.py" % folder
            for folder in sorted(set(shown) | set(MAY_INCLUDE))
            if shown.get(folder) != set(MAY_INCLUDE.get(folder, ("",)))]


def self_test():
    missed = [p for p in PLANTED if not check_file(p[0], LICENCE + p[1])]
    if not check_file("common/x.c", "int x;\n"):
        missed.append("a file without a licence")
    good = '#include <farkv.h>\n#include "common/base/err.h"\n' \
        "int x(int (*a)(int, int), int b, int c, int d, /* , */ int e)\n" \
        "{\n" + "\tx++;\n" * 60 + "}\n"
    if check_file("client/cli/x.c", LICENCE + good):
        missed.append("a good file is refused")
    missed += [p for p in PLANTED_CIRCLES if not list(check_circles(p))]
    if list(check_circles(GOOD_CIRCLES)):
        missed.append("files without a circle are refused")
    if len(table_errors("| `client` | x | `common/base` |\n| `new` | x | - |\n")) != \
            len(MAY_INCLUDE) + 1:
        missed.append("another table")
    for m in missed:
        print("not found:", m)
    return not missed


def main():
    if sys.argv[1] == "--self-test":
        sys.exit(not self_test())
    found, texts = [], {}
    for path in sources(sys.argv[1]):
        with open(os.path.join(sys.argv[1], path), encoding="utf-8") as f:
            texts[path] = f.read()
        found += check_file(path, texts[path])
    found += check_circles(texts)
    with open(os.path.join(sys.argv[1], "CONTRIBUTING.md"), encoding="utf-8") as f:
        found += table_errors(f.read())
    print("\n".join(found + ["%d files, %d violations" % (len(texts), len(found))]))
    sys.exit(bool(found) or len(texts) < 50)


main()
