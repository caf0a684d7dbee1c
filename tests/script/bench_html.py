#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A page of kvbench --html, judged.

    bench_html.py page PAGE                     well-formed, self-contained, all parts there
    bench_html.py figures PAGE REPORT CSV       the figures of the JSON report and of the table
    bench_html.py compare PAGE OUTPUT           the figures that kvbench compare printed
    bench_html.py look PAGE PNG light|dark      what a browser shows

Exits with 0, or with a line on stderr that tells what is wrong.
"""
import csv
import html.parser
import itertools
import json
import re
import struct
import sys
import xml.etree.ElementTree as ET
import zlib

PARTS = ("stores", "throughput", "percentiles", "latency", "counts", "settings", "figures")
PERCENTILES = (50, 90, 95, 99, 99.9, 99.99)


def check(good, *why):
    if not good:
        sys.exit("bench_html: " + " ".join(str(w) for w in why))


def near(a, b, part=0.0, off=0.0):
    return abs(a - b) <= part * abs(b) + off


# ---- the file ---------------------------------------------------------------------

class Tags(html.parser.HTMLParser):
    """In HTML only these elements end where they begin."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)

    def handle_startendtag(self, tag, attrs):
        check(tag in ("meta", "line", "rect", "circle"), "<%s/> is open in HTML" % tag)
        self.seen.append(tag)


def read(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return text, ET.fromstring(text)


def part(root, name):
    found = [s for s in root.iter("section") if s.get("id") == name]
    check(len(found) == 1, len(found), "sections are called", name)
    return found[0]


def words(element):
    return "".join(element.itertext())


def rows(root, name):
    """The table of a section: its rows by the head's words."""
    table = part(root, name).find(".//table")
    head = [words(th) for th in table.iter("th") if th in list(table.find("thead/tr"))]
    return [dict(zip(head, (words(cell) for cell in tr))) for tr in table.find("tbody")]


def cmd_page(path):
    text, root = read(path)
    check(text.startswith("<!DOCTYPE html>\n"), "no HTML")
    check(root.tag == "html" and len(root.find("body")) > 5, "no body")
    for word in ("http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"):
        check(word not in text, "the page has", word)
    tags = Tags()
    tags.feed(text)
    tags.close()
    check(tags.seen == [e.tag for e in root.iter()], "HTML and XML differ")
    check([s.get("id") for s in root.iter("section")] == list(PARTS), "parts:",
          [s.get("id") for s in root.iter("section")])
    for name in "throughput", "percentiles":
        key = [words(li) for li in part(root, name).iter("li")]
        check(key and key == [words(p) for p in part(root, name).iter("polyline")], name, key)


# ---- figures ----------------------------------------------------------------------

def scale(section, axis):
    """Of an axis: functions from the drawing to figures, by two of its ticks."""
    ticks = []
    lines = [e for e in section.iter() if e.tag in ("line", "text")]
    for line, text in zip(lines, lines[1:]):
        is_x = line.get("x1") == line.get("x2")
        if line.tag == "line" and text.tag == "text" and is_x == (axis == "x"):
            m = re.fullmatch(r"([\d.e+-]+) ?([kMG]?)", words(text).strip())
            ticks.append((float(line.get(axis + "1")),
                          float(m[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[m[2]]))
    check(len(ticks) >= 2, "ticks of", axis, ticks)
    return ticks


def linear(ticks):
    (p, v), (q, w) = ticks[0], ticks[-1]
    return lambda at: v + (at - p) * (w - v) / (q - p)


def powers(ticks):
    (p, v), (q, w) = ticks[0], ticks[-1]
    return lambda at: v * (w / v) ** ((at - p) / (q - p))


def curves(section):
    return [(words(p), [tuple(map(float, xy.split(","))) for xy in p.get("points").split()])
            for p in section.iter("polyline")]


def check_rates(root, table):
    section = part(root, "throughput")
    x, y = linear(scale(section, "x")), linear(scale(section, "y"))
    for name, points in curves(section):
        want = [r for r in table if r["store"] == name and r["series"] == "ALL"]
        check(len(points) == len(want) > 0, name, len(points), "points of", len(want))
        top = max(float(r["ops_per_s"]) for r in want)
        for (at, rate), r in zip(points, want):
            middle = float(r["from_s"]) + float(r["length_s"]) / 2
            check(near(x(at), middle, 0.01, 0.01), name, "is drawn at", x(at), "for", middle)
            check(near(y(rate), float(r["ops_per_s"]), 0, top * 0.01), name, "is drawn as", y(rate),
                  "for", r["ops_per_s"])


def check_medians(root, report):
    section = part(root, "percentiles")
    ticks = scale(section, "x")
    y = powers(scale(section, "y"))
    middle = [at for at, value in ticks if value == 50]
    check(middle, "no tick of the 50th percentile")
    for name, points in curves(section):
        store, metric = name.split()
        if report[store][metric]["Operations"] == 1:
            continue
        want = report[store][metric]["50thPercentileLatency(ns)"] / 1000
        got = [y(v) for at, v in points if near(at, middle[0], 0, 0.11)]
        check(len(got) == 1 and near(got[0], want, 0.03), name, "has the median", got, "drawn for", want)


def read_report(path):
    """By store, metric and measurement; all of before the first store and after the last apart."""
    with open(path, encoding="utf-8") as f:
        lines = json.load(f)
    store, report = "", {}
    for line in lines:
        if line["measurement"] == "Binding":
            store = line["value"]
        if line["metric"] in ("ROUNDS", "MEDIAN", "RATIO"):
            store = ""
        report.setdefault(store, {}).setdefault(line["metric"], {})[line["measurement"]] = line["value"]
    return lines, report


def check_lines(root, lines):
    """Every line of the report is on the page, in order within settings and figures."""
    shown = []
    for name in "settings", "figures":
        metric = None
        for element in part(root, name).iter():
            if element.tag == "h4":
                metric = words(element)
            if element.tag == "tr":
                shown.append((metric, words(element[0]), words(element[1])))
    check(len(shown) == len(lines), len(shown), "lines on the page,", len(lines), "in the report")
    for line in lines:
        key = line["metric"], line["measurement"]
        values = [v for m, n, v in shown if (m, n) == key]
        if line["measurement"] != "Date":
            check(str(line["value"]) in values or
                  any(isinstance(line["value"], (int, float)) and float(v) == line["value"] for v in values),
                  *key, "is", values, "on the page,", line["value"], "in the report")


def cmd_figures(path, report_path, csv_path):
    _, root = read(path)
    lines, report = read_report(report_path)
    check_lines(root, lines)
    with open(csv_path, newline="", encoding="utf-8") as f:
        check_rates(root, list(csv.DictReader(f)))
    check_medians(root, report)
    first = None
    for row in rows(root, "stores"):
        got = report[row["store"]]["OVERALL"]
        rate = got["Throughput(ops/sec)"]
        first = first or rate
        check(near(float(row["operations/s"]), rate, 0, 0.51), row, "rate", rate)
        check(near(float(row["ratio"]), rate / first, 0, 0.001), row, "ratio", rate / first)
        check(near(float(row["seconds"]) * 1000, got["RunTime(ms)"], 0, 1.01), row)
    timed = {(s, m) for s in report for m in report[s] if report[s][m].get("Operations")}
    check(timed and timed == {(r["store"], r["operation"]) for r in rows(root, "latency")}, "timed:", timed)
    for row in rows(root, "latency"):
        got = report[row["store"]][row["operation"]]
        check(int(row["count"]) == got["Operations"], row)
        check(near(float(row["mean"]) * 1000, got["AverageLatency(ns)"], 0, 0.6), row)
        check(round(float(row["max"]) * 1000) == got["MaxLatency(ns)"], row)
        for p in PERCENTILES:
            key = "%g%sPercentileLatency(ns)" % (p, "th" if p == int(p) else "")
            check(round(float(row["p%g" % p]) * 1000) == got[key], p, row)
    outcomes = {(s, m, k[7:]): v for s in report for m in report[s] for k, v in report[s][m].items()
                if k.startswith("Return=")}
    check(outcomes == {(r["store"], r["operation"], r["outcome"]): int(r["count"])
                       for r in rows(root, "counts")}, "outcomes:", outcomes)


def cmd_compare(path, output):
    _, root = read(path)
    with open(output, encoding="utf-8") as f:
        printed = f.read().splitlines()
    check(printed[0] in words(root.find("body/p")), "no", printed[0])
    shown = rows(root, "stores")
    table = [line.split(None, 7) for line in printed[2:] if not line.startswith("left out")]
    check([r["store"] for r in shown] == [t[0] for t in table], "stores:", shown)
    for row, (_, rate, ratio, *_, place) in zip(shown, table):
        check((row["operations/s"], row["ratio"], row["placement"]) == (rate, ratio, place.strip()), row)
    left = "".join(line + "\n" for line in printed if line.startswith("left out"))
    check("".join(words(p) for p in part(root, "stores").iter("pre")) == left, "left out:", left)


# ---- the picture ------------------------------------------------------------------

def unfilter(kind, line, above, bpp):
    if kind == 0:
        return line
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, above))
    if kind == 1:
        out = bytearray(len(line))
        for c in range(bpp):
            out[c::bpp] = bytes(itertools.accumulate(line[c::bpp], lambda a, b: (a + b) & 255))
        return bytes(out)
    out = bytearray(bpp) + bytearray(line)
    above = bytes(bpp) + above
    for i in range(bpp, len(out)):
        a, b, c = out[i - bpp], above[i], above[i - bpp]
        if kind == 3:
            best = (a + b) // 2
        else:
            pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
            best = a if pa <= pb and pa <= pc else b if pb <= pc else c
        out[i] = (out[i] + best) & 255
    return bytes(out[bpp:])


def read_png(path):
    """Rows of pixels, each a list of (red, green, blue)."""
    with open(path, "rb") as f:
        data = f.read()
    at, packed, head = 8, b"", None
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        head = struct.unpack(">IIBBBBB", body) if name == b"IHDR" else head
        packed += body if name == b"IDAT" else b""
        at += size + 12
    check(head[2] == 8 and head[3] in (2, 6) and head[6] == 0, "PNG of the kind", head)
    bpp = 3 if head[3] == 2 else 4
    width = head[0] * bpp
    raw, above, known, image = zlib.decompress(packed), bytes(width), {}, []
    for at in range(0, len(raw), width + 1):
        key = raw[at], raw[at + 1:at + 1 + width], above
        if key not in known:
            above = unfilter(*key, bpp)
            known[key] = above, list(zip(*(above[c::bpp] for c in range(3))))
        above, pixels = known[key]
        image.append(pixels)
    return image


def colours(text, dark):
    """The page's variables: {"bg": (255, 255, 255), ...}."""
    blocks = re.findall(r"body\{(--bg:[^}]*)", text)
    check(len(blocks) == 2, len(blocks), "sets of colours")
    found = {}
    for block in blocks[:1 + dark]:
        for name, value in re.findall(r"--(\w+):#(\w+)", block):
            value = value if len(value) == 6 else "".join(c * 2 for c in value)
            found[name] = tuple(bytes.fromhex(value))
    return found


def areas(image, plot):
    """Where the charts are, by the colour below their curves: (top, bottom, left, right)."""
    found = []
    for y, row in enumerate(image):
        n = row.count(plot)
        if n < len(row) // 4:
            continue
        left, right = row.index(plot), len(row) - 1 - row[::-1].index(plot)
        if found and y - found[-1][1] < 60:
            top, _, l, r = found[-1]
            found[-1] = top, y, min(l, left), max(r, right)
        else:
            found.append((y, y, left, right))
    return found


def cmd_look(path, png, scheme):
    text, root = read(path)
    named = colours(text, scheme == "dark")
    image = read_png(png)
    check(image[0][0] == named["bg"], "the page is", image[0][0], "in the", scheme)
    charts = areas(image, named["plot"])
    check(len(charts) == 2, len(charts), "charts are seen")
    for name, (top, bottom, left, right) in zip(("throughput", "percentiles"), charts):
        check(bottom - top > 150 and right - left > 400, name, "is small")
        section = part(root, name)
        for line in section.iter("polyline"):
            colour = named[re.search(r"--(c\d)", line.get("style"))[1]]
            points = [tuple(map(float, xy.split(","))) for xy in line.get("points").split()]
            seen = [x for row in image[top:bottom + 1] for x in range(left, right + 1) if row[x] == colour]
            # The drawing is as wide as the page lets it.
            drawn = (points[-1][0] - points[0][0]) * (right - left) / 818
            check(seen and max(seen) - min(seen) >= 0.8 * drawn - 10, words(line), "is seen from",
                  seen and (min(seen), max(seen)), "of", drawn)
            check(any(colour in row for row in image[bottom:bottom + 120]), words(line), "has no key")
    above = image[:charts[0][0]]
    for rect in part(root, "stores").iter("rect"):
        colour = named[re.search(r"--(c\d)", rect.get("style"))[1]]
        longest = max(row.count(colour) for row in above)
        check(near(longest, float(rect.get("width")), 0.02, 3), "a bar of", rect.get("width"), "is", longest)
    for name, place in ("the title", above), ("the table of latencies", image[charts[1][1] + 60:]):
        check(sum(row.count(named["fg"]) for row in place) > 50, name, "is not seen")


globals()["cmd_" + sys.argv[1]](*sys.argv[2:])
