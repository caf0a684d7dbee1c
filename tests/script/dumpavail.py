#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turn "apt-cache dumpavail" on stdin into cdb records for kvcli.

dumpavail.py DIR writes
  DIR/all.cdb     one record per stanza, keyed by package name and version
  DIR/a.cdb b.cdb the same keys, two rounds of other values each, for two
                  clients that overwrite everything twice: one from the
                  front, one from the back, so that each is last somewhere
"""
import sys


def record(out, key, value):
    out.write(b"+%d,%d:%s->%s\n" % (len(key), len(value), key, value))


def key_of(stanza):
    fields = {}
    for line in stanza.split(b"\n"):
        name, colon, value = line.partition(b": ")
        if colon and name in (b"Package", b"Version"):
            fields[name] = value
    return fields.get(b"Package", b"") + b" " + fields.get(b"Version", b"")


def main():
    folder = sys.argv[1]
    stanzas = {}
    for stanza in sys.stdin.buffer.read().split(b"\n\n"):
        if stanza.strip():
            stanzas[key_of(stanza)] = stanza
    with open(folder + "/all.cdb", "wb") as out:
        for key, value in stanzas.items():
            record(out, key, value)
        out.write(b"\n")
    items = list(stanzas.items())
    for who, step in ((b"a"[0], 1), (b"b"[0], -1)):
        with open("%s/%c.cdb" % (folder, who), "wb") as out:
            for turn in (1, 2):
                for key, value in items[::step]:
                    record(out, key, b"%c%d %s" % (who, turn, value))
            out.write(b"\n")
    print(len(stanzas))


main()
