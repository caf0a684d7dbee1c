#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Line coverage out of gcovr's JSON: a table by file, the lines that never ran,
and whether each folder has what is asked of it.

coverage.py JSON with-rdma|without-rdma FOLDER=PERCENT...
"""
import json
import sys

# The RDMA transport and what only it calls. They run where there is a device, or a
# guest; else they are left out.
RDMA = ("common/rdma/", "server/loop/conn_rdma")


def ranges(numbers):
    """[1, 2, 3, 7] -> "1-3 7"."""
    out, start, last = [], None, None
    for n in numbers + [None]:
        if start is not None and (n is None or n != last + 1):
            out.append("%d-%d" % (start, last) if last > start else str(start))
            start = None
        if start is None:
            start = n
        last = n
    return " ".join(out)


def lines_of(report):
    """path -> (lines that ran, lines that did not)."""
    files = {}
    for entry in report["files"]:
        ran, not_ran = set(), set()
        for line in entry["lines"]:
            if not line.get("gcovr/noncode"):
                (ran if line["count"] else not_ran).add(line["line_number"])
        old = files.get(entry["file"], (set(), set()))
        ran |= old[0]
        files[entry["file"]] = (ran, (not_ran | old[1]) - ran)
    return files


def percent(files):
    ran = sum(len(f[0]) for f in files)
    total = ran + sum(len(f[1]) for f in files)
    return (100.0 * ran / total if total else 0.0), ran, total


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        files = lines_of(json.load(f))
    wanted = dict(w.split("=") for w in sys.argv[3:])
    if sys.argv[2] == "without-rdma":
        print("the RDMA transport was not run, and is not counted")
        files = {p: f for p, f in files.items() if not p.startswith(RDMA)}
    for path in sorted(files):
        share, _, total = percent([files[path]])
        print("%-36s %5d lines %6.1f %%  %s" %
              (path, total, share, ranges(sorted(files[path][1]))))
    bad = False
    for folder in ("common", "client", "gate", "server", "bench"):
        share, ran, total = percent([f for p, f in files.items()
                                     if p.startswith(folder + "/")])
        least = float(wanted.get(folder, 0))
        short = total == 0 or share < least
        bad = bad or short
        print("%s: coverage: %-8s %5d of %5d lines %6.1f %% (at least %g)" %
              ("FAIL" if short else "PASS", folder + "/", ran, total, share,
               least))
    rdma = [f for p, f in files.items() if p.startswith(RDMA)]
    if rdma:
        print("of these the RDMA transport: %d of %d lines %.1f %%" %
              (percent(rdma)[1], percent(rdma)[2], percent(rdma)[0]))
    sys.exit(bad)


main()
