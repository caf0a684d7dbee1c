#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ycsb_report.py FILE...: read YCSB reports as two kinds of programs do, and see that
both find in each FILE what they find in a report of YCSB's own."""
import re
import sys

# YCSB 0.18.0-SNAPSHOT against its BasicDB, hdrhistogram.percentiles=50,95,99,99.9,
# as its client printed it.
YCSB = """\
[OVERALL], RunTime(ms), 4142
[OVERALL], Throughput(ops/sec), 4828.585224529213
[TOTAL_GCS_G1_Young_Generation], Count, 1
[READ], Operations, 10009
[READ], AverageLatency(us), 0.24667798980917174
[READ], MinLatency(us), 0
[READ], MaxLatency(us), 1273
[READ], 50thPercentileLatency(us), 0
[READ], 95thPercentileLatency(us), 0
[READ], 99thPercentileLatency(us), 0
[READ], 99.9PercentileLatency(us), 7
[READ], Return=OK, 10009
"""


def by_fields(text):
    """As scripts do with cut or split: three fields, the first in brackets."""
    found = {}
    for line in text.splitlines():
        fields = [f.strip() for f in line.split(",")]
        if len(fields) != 3 or not fields[0].startswith("["):
            continue
        section = fields[0].strip("[]")
        try:
            found.setdefault(section, {})[fields[1]] = float(fields[2])
        except ValueError:
            pass  # YCSB has no words there; a reader of numbers goes on
    return found


NUMBER = r"(?P<value>\d+(?:\.\d+)?)"
LATENCY = r"(?P<stat>Average|Min|Max|[\d.]+(?:st|nd|rd|th)?Percentile)Latency\(us\)"


def by_grammar(text):
    """Strictly: only what YCSB's exporter writes, whole numbers where it has them."""
    found = {}
    for line in text.splitlines():
        m = re.fullmatch(r"\[OVERALL\], (RunTime\(ms\)|Throughput\(ops/sec\)), "
                         + NUMBER, line)
        if m:
            assert m[1][0] == "T" or m["value"].isdigit(), line
            found.setdefault("OVERALL", []).append((m[1], m["value"]))
            continue
        m = re.fullmatch(r"\[(?P<op>[A-Z-]+)\], (?:(?P<name>Operations|Return=[A-Z_]+)|"
                         + LATENCY + r"), " + NUMBER, line)
        if m and m["op"] not in ("ENVIRONMENT", "WORKLOAD", "FARKV"):
            whole = m["stat"] != "Average"
            assert m["value"].isdigit() or not whole, line
            found.setdefault(m["op"], []).append((m["name"] or m["stat"], m["value"]))
    return found


def main():
    want_fields, want_grammar = by_fields(YCSB), by_grammar(YCSB)
    assert len(want_grammar["READ"]) == 9 and len(want_fields["READ"]) == 9
    for path in sys.argv[1:]:
        text = open(path, encoding="utf-8").read()
        fields, grammar = by_fields(text), by_grammar(text)
        for section in "OVERALL", "READ":
            names = list(want_fields[section])
            got = [n for n in fields[section] if n in names]
            assert got == names, (section, names, got)
            # The same names in the same order, and nothing between.
            assert [n for n, _ in grammar[section]] == \
                [n for n, _ in want_grammar[section]], (section, grammar[section])
        read = fields["READ"]
        assert read["Operations"] == read["Return=OK"] > 0
        assert read["MinLatency(us)"] <= read["50thPercentileLatency(us)"] <= \
            read["99thPercentileLatency(us)"] <= read["MaxLatency(us)"]
        overall = fields["OVERALL"]
        ops = sum(fields[s]["Operations"] for s in ("READ", "UPDATE") if s in fields)
        ms = overall["RunTime(ms)"]
        assert abs(overall["Throughput(ops/sec)"] * ms / 1000 - ops) <= ops / ms + 1
    print(len(sys.argv) - 1, "reports read twice")


main()
