#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hdr_log.py FILE: what a .hdr file holds, all intervals together, as lines
"name value". A decoder of HdrHistogram's log format 1.3 and of its V2 encoding that
shares nothing with kvbench's encoder but the published format; it first proves itself
by a line of the logs that come with HdrHistogram."""
import base64
import math
import struct
import sys
import zlib

HEADER = ">iiiiqqd"
# jHiccup-2.0.7S.logV2.hlog of HdrHistogram, first interval: its maximum in ms.
KNOWN = ("2.769", "HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4"
         "uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=")


def counts_of(data):
    """The counters of a V2 histogram: ZigZag LEB128, a negative skips zeros."""
    counts, at = {}, 0
    index = 0
    while at < len(data):
        z = shift = 0
        while True:
            byte = data[at]
            at += 1
            if shift == 56:
                z |= byte << shift
                break
            z |= (byte & 0x7f) << shift
            if not byte & 0x80:
                break
            shift += 7
        value = (z >> 1) ^ -(z & 1)
        if value < 0:
            index += -value
        else:
            if value:
                counts[index] = value
            index += 1
    return counts


def decode(text):
    raw = base64.b64decode(text, validate=True)
    cookie, length = struct.unpack_from(">ii", raw)
    assert cookie == 0x1c849314 and length == len(raw) - 8, "compressed header"
    raw = zlib.decompress(raw[8:])
    cookie, length, offset, digits, lowest, highest, ratio = \
        struct.unpack_from(HEADER, raw)
    size = struct.calcsize(HEADER)
    assert cookie == 0x1c849313 and length == len(raw) - size, "header"
    assert (offset, ratio) == (0, 1.0), "settings"
    counts = counts_of(raw[size:])
    assert not counts or ends(max(counts), digits, lowest)[0] <= highest, "range"
    return counts, digits, lowest


def ends(index, digits=3, lowest=1):
    """Lowest and highest value of a counter: for 3 digits 2048 of one unit, then
    1024 steps for each doubling. The unit is a power of two up to the lowest."""
    half = 1 << math.ceil(math.log2(2 * 10 ** digits)) - 1
    unit = int(math.log2(lowest))
    shift = max(index // half - 1, 0)
    low = index - shift * half << shift + unit
    return low, low + (1 << shift + unit) - 1


def percentile(counts, p):
    want = max(1, math.ceil(math.nextafter(p, 0) * sum(counts.values()) / 100))
    for index in sorted(counts):
        want -= counts[index]
        if want <= 0:
            return ends(index)[1]


def main():
    known, digits, lowest = decode(KNOWN[1])
    assert "%.3f" % (ends(max(known), digits, lowest)[1] / 1e6) == KNOWN[0]
    lines = open(sys.argv[1], encoding="ascii").read().splitlines()
    assert lines[1] == "#[Histogram log format version 1.3]", lines[1]
    assert lines[4].startswith('"StartTimestamp","Interval_Length"'), lines[4]
    total, at = {}, None
    for line in lines[5:]:
        start, length, top, text = line.split(",")
        counts, digits, lowest = decode(text)
        assert (digits, lowest) == (3, 1), "settings"
        assert at is None or abs(float(start) - at) < 0.0021, "a gap in time"
        at = float(start) + float(length)
        highest = ends(max(counts))[1] if counts else 0
        assert abs(float(top) * 1e6 - highest) < 1, "Interval_Max"
        for index, n in counts.items():
            total[index] = total.get(index, 0) + n
    print("intervals", len(lines) - 5)
    print("seconds", "%.3f" % (at or 0))
    print("count", sum(total.values()))
    print("min", ends(min(total))[0])
    print("max", ends(max(total))[1])
    for p in 50, 95, 99:
        print("p%d" % p, percentile(total, p))


main()
