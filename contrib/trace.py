#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write a made trace for kvbench replay to stdout.

trace.py zipf A KEYS REQUESTS          key k (from 1) with probability ~ k^-A
trace.py drift A KEYS REQUESTS D       the same; every D requests the next key becomes the hottest
trace.py scan A KEYS REQUESTS D        the same; of every 4 D requests the last D are a scan over
                                       4 KEYS other keys, which continues the previous one
trace.py loop KEYS REQUESTS            all keys in order, again and again

--size BYTES of each value (900). The same arguments make the same trace.
"""
import argparse
import bisect
import itertools
import random
import sys
from typing import Iterator, List

SEED = 42


def zipf(a: float, keys: int) -> Iterator[int]:
    rng = random.Random(SEED)
    sums: List[float] = list(itertools.accumulate(k ** -a for k in range(1, keys + 1)))
    while True:
        yield bisect.bisect_left(sums, rng.random() * sums[-1])


def requests(kind: str, numbers: List[float]) -> Iterator[int]:
    if kind == "loop":
        keys, n = map(int, numbers)
        yield from (i % keys for i in range(n))
        return
    a, keys, n = numbers[0], int(numbers[1]), int(numbers[2])
    every = int(numbers[3]) if kind != "zipf" else 1
    draw, cold = zipf(a, keys), 0
    for i in range(n):
        if kind == "scan" and i // every % 4 == 3:
            yield keys + cold % (4 * keys)
            cold += 1
        elif kind == "drift":
            yield (next(draw) - i // every) % keys
        else:
            yield next(draw)


def main() -> None:
    wanted = {"zipf": 3, "drift": 4, "scan": 4, "loop": 2}
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=wanted)
    parser.add_argument("number", nargs="+", type=float)
    parser.add_argument("--size", type=int, default=900)
    args = parser.parse_args()
    if len(args.number) != wanted[args.kind]:
        parser.error("%s takes %d numbers" % (args.kind, wanted[args.kind]))
    for i, key in enumerate(requests(args.kind, args.number)):
        sys.stdout.write("%d,k%d,%d\n" % (i // 1000, key, args.size))


main()
