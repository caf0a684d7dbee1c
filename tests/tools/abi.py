#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print what programs that were built against libfarkv rely on: its name and symbols with
their versions, the functions' declarations, sizes and offsets of the structs, values of the
enums and macros of farkv.h. Sizes and values come from the compiler.

abi.py HEADER LIBRARY    with $CC, or cc
"""
import os
import re
import subprocess
import sys
import tempfile


def bare(path):
    """The header without comments and attributes."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"\bFARKV_MUST_CHECK\b", "", text)


def symbols(library):
    out = subprocess.run(["readelf", "-dW", "--dyn-syms", library], check=True,
                         stdout=subprocess.PIPE, universal_newlines=True).stdout
    yield from re.findall(r"Library (soname: \[.*\])", out)
    defined = re.findall(r" (?:GLOBAL|WEAK) +DEFAULT +\d+ (\S+@@\S+)", out)
    yield from ("symbol " + name for name in sorted(set(defined)))


def declarations(text):
    for m in re.finditer(r"^(?:int|void|size_t|uint64_t|const char)\b[^;{}#]*?\)\s*;", text, re.M):
        yield " ".join(m[0].split()).replace(") ;", ");")


def printed(text):
    """C statements that print each struct, enum and number."""
    for name, body in re.findall(r"^struct (\w+) \{([^}]*)\};", text, re.M):
        yield 'printf("struct %s: %%zu\\n", sizeof(struct %s));' % (name, name)
        for declared in body.split(";"):
            # "uint64_t a, b[2]" declares a and b.
            for field in re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", declared.strip()):
                at = "struct %s, %s" % (name, field)
                size = "((struct %s *)0)->%s" % (name, field)
                yield 'printf("  %s: %%zu, %%zu\\n", offsetof(%s), sizeof(%s));' % (
                    field, at, size)
    constants = re.findall(r"^#define (FARKV_\w+) +[(\dU]", text, re.M)
    for body in re.findall(r"^enum \w+ \{([^}]*)\};", text, re.M):
        constants += re.findall(r"\b(FARKV_\w+)", re.sub(r"=[^,]*", "", body))
    for name in constants:
        if not name.startswith("FARKV_VERSION_"):
            yield 'printf("%s = %%lld\\n", (long long)%s);' % (name, name)


def layout(header, text):
    program = "#include <stddef.h>\n#include <stdio.h>\n#include \"%s\"\n" \
        "int main(void)\n{\n\t%s\n\treturn 0;\n}\n" % (
            os.path.abspath(header), "\n\t".join(printed(text)))
    with tempfile.TemporaryDirectory() as folder:
        source, out = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program)
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run(compiler + [source, "-o", out], check=True)
        return subprocess.run([out], check=True, stdout=subprocess.PIPE,
                              universal_newlines=True).stdout


def main():
    header, library = sys.argv[1:]
    text = bare(header)
    print("\n".join(symbols(library)))
    print("\n".join(declarations(text)))
    print(layout(header, text), end="")


main()
