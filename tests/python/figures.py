# SPDX-License-Identifier: BSD-3-Clause
"""What Python costs, as ratios of one run: 1 M gets of 100 bytes against redis-py over a Unix
socket, and get_into of 2 MiB against a copy of memory. Needs the package, redis-server and
python3-redis, and a kvserver of 512 MiB at $FARKV_URI.

figures.py FOLDER    for redis-server's socket"""
import os
import statistics
import subprocess
import sys
import time

import farkv

ROUNDS, GETS, REDIS_GETS, LARGE = 5, 1_000_000, 50_000, 2 << 20


def rate(n, call):
    begin = time.perf_counter()
    for _ in range(n):
        call()
    return n / (time.perf_counter() - begin)


def medians(pairs):
    """Of both rates, and of the ratios of rounds, in which both had the same machine."""
    return (*(statistics.median(p[i] for p in pairs) for i in (0, 1)),
            statistics.median(a / b for a, b in pairs))


def against_redis(store, folder):
    import redis
    path = os.path.join(folder, "redis")
    with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                           "--daemonize", "no"], stdout=subprocess.DEVNULL) as server:
        try:
            client = redis.Redis(unix_socket_path=path)
            while True:
                try:
                    client.set(b"k", bytes(100))
                    break
                except redis.ConnectionError:
                    assert server.poll() is None
                    time.sleep(0.01)
            store[b"k"] = bytes(100)
            pairs = [(rate(GETS // ROUNDS, lambda: store[b"k"]),
                      rate(REDIS_GETS // ROUNDS, lambda: client.get(b"k")))
                     for _ in range(ROUNDS)]
        finally:
            server.terminate()
    print("gets of 100 bytes: farkv %.0f/s, redis-py %.0f/s: %.1f (at least 3)" % medians(pairs))


def cpu_time(call):
    """Of this thread, so that other programs' turns do not count."""
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def against_memcpy(store, n_targets, name):
    # More than the caches hold, in both: each value and each source is another one.
    n = 32
    sources = [os.urandom(LARGE) for _ in range(n)]
    targets = [bytearray(LARGE) for _ in range(n_targets)]
    views = [memoryview(target) for target in targets]
    for i, source in enumerate(sources):
        store[b"%d" % i] = source

    def farkv_pass():
        for i in range(n):
            store.get_into(b"%d" % i, targets[i % n_targets])

    def memcpy_pass():
        for i, source in enumerate(sources):
            views[i % n_targets][:] = source

    farkv_pass(), memcpy_pass()
    scale = n * LARGE / 1e9
    pairs = [(scale / cpu_time(farkv_pass), scale / cpu_time(memcpy_pass))
             for _ in range(10 * ROUNDS)]
    print("get_into of 2 MiB to %s: %.1f GB/s, memcpy %.1f GB/s: %.2f (at least 0.8)" %
          (name, *medians(pairs)))


with farkv.Store() as opened:
    against_redis(opened, sys.argv[1])
    against_memcpy(opened, 1, "one buffer")
    against_memcpy(opened, 32, "buffers in turn, more than the caches hold")
