#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A client that shares no line with libfarkv: written from doc/control-channel.md
and doc/region-format.md alone, to show that they say enough. It reads what kvcli
wrote, and writes what kvcli reads.

It is no model to copy: it stores slots without a compare-and-swap, which is
right only while nobody else writes.

usage: KVSERVER=... KVCLI=... outsider.py; exit status 77: cannot be run here
"""
import array
import ctypes
import ctypes.util
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

M64 = (1 << 64) - 1
TYPES = dict(HELLO=1, GRANT_REQ=2, RETURN=3, HINT=4, PREFIX_REQ=5, STATS_REQ=6,
             PING=7, BARRIER_ACK=8, BYE=11, READY=14, WELCOME=65, REFUSE=66, GRANT=67,
             HINT_REPLY=68, PREFIX=69, STATS=70, PONG=71, BYE_ACK=76)
DEFERRED = 1
BARRIER_WAITS = 39
checks = 0


def skip(why):
    print("SKIP:", why)
    sys.exit(77)


def expect(what, found, wanted):
    global checks
    checks += 1
    if found != wanted:
        sys.exit("FAIL: %s: %r, expected %r" % (what, found, wanted))


def load_xxh3():
    name = ctypes.util.find_library("xxhash")
    if not name:
        skip("libxxhash was not found")
    f = ctypes.CDLL(name).XXH3_64bits_withSeed
    f.restype = ctypes.c_uint64
    f.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return lambda data, seed=0: f(bytes(data), len(data), seed)


xxh3 = load_xxh3()


def load_mmap():
    """Python's own does not map a file without a byte."""
    f = ctypes.CDLL(None, use_errno=True).mmap
    f.restype = ctypes.c_void_p
    f.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                  ctypes.c_int, ctypes.c_long]

    libc = ctypes.CDLL(None)
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def tie(fd):
        at = f(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        expect("mapping of the tether", at is not None and at != 2 ** 64 - 1, True)
        os.close(fd)
        return at
    return tie, lambda at: libc.munmap(at, 4096)


tie, untie = load_mmap()


# ---- control-channel.md ------------------------------------------------------

def encode(kind, req, body):
    head = struct.pack("<HBBII", 0x4B46, kind, 3, len(body), req)
    return head + struct.pack("<I", xxh3(body, xxh3(head)) & 0xFFFFFFFF) + body


def decode(packet):
    magic, kind, version, length, req, check = struct.unpack("<HBBIII",
                                                             packet[:16])
    expect("magic, version", (magic, version), (0x4B46, 3))
    expect("length", length, len(packet) - 16)
    expect("checksum", check,
           xxh3(packet[16:], xxh3(packet[:12])) & 0xFFFFFFFF)
    return kind, req, packet[16:]


def block_list(kind_class=0, state=0, number=0, words=()):
    return struct.pack("<BBQI", kind_class, state, number, len(words)) + \
        b"".join(struct.pack("<Q", w) for w in words)


class Session:
    """One conversation; `role` 0 reads and writes, 1 reads only."""

    def __init__(self, path, role):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(20)
        self.sock.connect(path)
        self.req = 1
        name = b"outsider"
        self.sock.send(encode(TYPES["HELLO"], 1, struct.pack(
            "<BIIQQQBH", role, os.getpid(), 0, 0, 0, 0, 0, len(name)) + name))
        fds = array.array("i")
        packet, extra, _, _ = self.sock.recvmsg(16384, 64)
        for _, _, data in extra:
            fds.frombytes(data[:12])
        self.fds = list(fds)
        kind, req, body = decode(packet)
        expect("answer to HELLO", (kind, req, len(self.fds)),
               (TYPES["WELCOME"], 1, 3))
        self.tether = tie(self.fds.pop())
        (self.id, self.prefix, self.role, swept, id0, id1, self.region_bytes,
         self.meta_bytes, self.grace_ns, flags, _, tag,
         address) = struct.unpack("<IIBBQQQQQI16s32sH", body[:104])
        body = body[104 + address:]
        areas, = struct.unpack("<I", body[:4])
        expect("unknown flags", flags & ~1, 0)
        expect("proof without credentials", tag, bytes(32))
        expect("role, swept, areas", (self.role, swept, areas), (role, 0, 2))
        expect("bytes after the areas", len(body), 4 + 2 * 28)
        area = [struct.unpack("<QQQI", body[4 + 28 * i:32 + 28 * i])
                for i in range(2)]
        expect("areas", area, [
            (0, self.meta_bytes, 0, 0),
            (self.meta_bytes, self.region_bytes - self.meta_bytes, 0, 0)])
        self.region_id = struct.pack("<QQ", id0, id1)
        self.counter = 0
        self.send("READY")

    def send(self, kind, body=b""):
        self.req += 1
        self.sock.send(encode(TYPES[kind], self.req, body))

    def call(self, kind, body, answer):
        self.send(kind, body)
        got, req, reply = decode(self.sock.recv(16384))
        expect("answer to " + kind, (got, req), (TYPES[answer], self.req))
        return reply

    def refusal(self):
        kind, _, body = decode(self.sock.recv(16384))
        expect("REFUSE", kind, TYPES["REFUSE"])
        reason, length = struct.unpack("<HH", body[:4])
        expect("its text", len(body), 4 + length)
        expect("then the end", self.sock.recv(16384), b"")
        return reason

    def grant(self, cls, count):
        body = self.call("GRANT_REQ", struct.pack("<BI", cls, count), "GRANT")
        got, _, _, n = struct.unpack("<BBQI", body[:14])
        expect("class of the grant", got, cls)
        return list(struct.unpack("<%dQ" % n, body[14:]))

    def version(self):
        self.counter += 1
        return self.prefix << 32 | self.counter

    def stats(self):
        body = self.call("STATS_REQ", b"", "STATS")
        n, = struct.unpack("<I", body[:4])
        return dict(struct.unpack("<HQ", body[4 + 10 * i:14 + 10 * i])
                    for i in range(n))

    def bye(self):
        expect("BYE_ACK", self.call("BYE", block_list(), "BYE_ACK"), b"")
        self.close()

    def close(self):
        self.sock.close()
        for fd in self.fds:
            os.close(fd)


# ---- region-format.md --------------------------------------------------------

def bits(word, high, low):
    return word >> low & ((1 << (high - low + 1)) - 1)


def class_bytes(c):
    if c < 2:
        return 64 + 32 * c
    return ((4 + (c - 2) % 4) << (5 + (c - 2) // 4)) + (2048 if c >= 38 else 0)


def class_for(n):
    return next(c for c in range(95) if class_bytes(c) >= n)


def binding(word):
    return (word & (1 << 53) - 1) * \
        0x9E3779B97F4A7C15 & M64


class Region:
    def __init__(self, s):
        self.meta = mmap.mmap(s.fds[0], s.meta_bytes, prot=mmap.PROT_READ)
        self.base = s.meta_bytes
        self.data = mmap.mmap(
            s.fds[1], s.region_bytes - s.meta_bytes,
            prot=mmap.PROT_READ | (0 if s.role else mmap.PROT_WRITE))
        sb = self.meta[:144]
        f = struct.unpack("<8sII16sQQQQQQIIIIIIIIQQQQ", sb)
        expect("magic, version, size", f[:3], (b"FKVREGN1", 3, 144))
        expect("id", f[3], s.region_id)
        self.seed = f[4]
        expect("sizes, T", (f[5], f[6], f[8]),
               (s.region_bytes, s.meta_bytes, s.grace_ns))
        expect("constants", f[10:15], (32768, 512, 8, 32, 95))
        expect("superblock checksum", f[21], xxh3(sb[:136]))
        expect("flags, heat area", (f[16], f[20]), (0, 0))
        self.n_sessions, self.page_map, self.sessions = f[17:20]
        pages = (s.region_bytes - s.meta_bytes) // 32768
        expect("place of the tables",
               (self.page_map % 64, self.sessions % 64,
                self.sessions + 16 * self.n_sessions <= self.page_map,
                self.page_map + 4 * pages <= s.meta_bytes), (0, 0, True, True))
        expect("CLOCK", self.meta[576:584], bytes(8))
        expect("meta area", s.meta_bytes % (2 << 20), 0)

    def word(self, off):
        return struct.unpack_from("<Q", self.data, off - self.base)[0]

    def store(self, off, word):
        struct.pack_into("<Q", self.data, off - self.base, word)

    def bytes_at(self, off, n):
        return self.data[off - self.base:off - self.base + n]

    def session(self, number):
        """(pid, start time) of a session's entry; None if it has none."""
        for i in range(self.n_sessions):
            prefix, pid, start = struct.unpack_from("<IIQ", self.meta, self.sessions + 16 * i)
            if prefix == number:
                return pid, start

    def page(self, off):
        """What the page map says of the page at an offset: kind, length, class."""
        p, = struct.unpack_from("<I", self.meta,
                                self.page_map + 4 * ((off - self.base) // 32768))
        return bits(p, 31, 30), bits(p, 29, 7), bits(p, 6, 0)

    def window(self, key):
        """Offset of the key's first slot, and its subtable's EMPTY word."""
        h = xxh3(key, self.seed)
        d, = struct.unpack_from("<Q", self.meta, 512)
        expect("D", bits(d, 63, 63), 1)
        depth = bits(d, 53, 48)
        index = h >> (64 - depth) if depth else 0
        e, = struct.unpack_from("<Q", self.meta, bits(d, 47, 0) + 8 * index)
        expect("entry", (bits(e, 63, 63), bits(e, 62, 57) <= depth), (1, True))
        line = bits(h, 29, 8) * 505 >> 22
        return bits(e, 29, 0) * 32768 + 64 * line, bits(e, 48, 30) << 34

    def open_block(self, word):
        """The verified content of the block that a slot word names."""
        size = class_bytes(bits(word, 40, 34))
        b = self.bytes_at(bits(word, 33, 0) * 32, size)
        version, vlen, klen, inc, expiry, head_sum = struct.unpack(
            "<QIHHII", b[:24])
        key = b[24:24 + klen]
        expect("unknown flag", inc & 0x8000, 0)
        end = 24 + klen + vlen + (4 if inc & 0x4000 else 0)
        at = (end + 7) // 8 * 8
        expect("incarnation", inc & 0xFFF, bits(word, 52, 41))
        expect("expiry", expiry, 0)
        expect("head_sum", head_sum, xxh3(
            b[:20], xxh3(key, self.seed) ^ binding(word)) & 0xFFFFFFFF)
        expect("padding", b[end:at], bytes(at - end))
        expect("checksum", struct.unpack("<Q", b[at:at + 8])[0],
               xxh3(b[:end]) ^ binding(word))
        return key, b[24 + klen:24 + klen + vlen], version, bool(inc & 0x1000)

    def search(self, key):
        """(slot offset, its word); the word is None where a new key goes."""
        at, empty = self.window(key)
        for off in range(at, at + 512, 8):
            word = self.word(off)
            if word == empty:
                return off, None
            expect("not frozen", bits(word, 54, 54), 0)
            if bits(word, 63, 56) == (xxh3(key, self.seed) & 0xFF or 255) and \
                    self.open_block(word)[0] == key:
                return off, word
        sys.exit("FAIL: the window is full")

    def get(self, key):
        word = self.search(key)[1]
        if word is None or bits(word, 55, 55):
            return None
        return self.open_block(word)[1]

    def put(self, s, key, value):
        """Returns the block that was replaced, with its next incarnation."""
        room = (24 + len(key) + len(value) + 7) // 8 * 8 + 8
        block = s.grant(class_for(room), 1)[0]
        head = struct.pack("<QIHHI", s.version(), len(value), len(key),
                           bits(block, 52, 41), 0)
        head += struct.pack("<I", xxh3(
            head, xxh3(key, self.seed) ^ binding(block)) & 0xFFFFFFFF)
        image = head + key + value
        image += bytes(room - 8 - len(image)) + \
            struct.pack("<Q", xxh3(image) ^ binding(block))
        at = bits(block, 33, 0) * 32 - self.base
        self.data[at:at + room] = image
        off, old = self.search(key)
        fp = xxh3(key, self.seed) & 0xFF or 255
        self.store(off, block | fp << 56 | 1 << 53)
        if old is None:
            return None
        return (old & (1 << 41) - 1) | bits(old, 52, 41) + 1 << 41


# ---- the two of them over one store ------------------------------------------

def kvcli(*args, data=None):
    return subprocess.run([os.environ["KVCLI"], *args], input=data, check=True,
                          stdout=subprocess.PIPE).stdout


def read_theirs(path):
    values = {b"empty": b"", b"small": b"x", b"two lines": os.urandom(100),
              b"k" * 300: os.urandom(5000), b"large": os.urandom(3 << 20)}
    for key, value in values.items():
        kvcli("put", key.decode(), "-", data=value)
    for key in ("small and gone", "large and gone"):
        kvcli("put", key, "-", data=bytes(1 if key[0] == "s" else 4096))
        kvcli("del", key)
    s = Session(path, 1)
    r = Region(s)
    for key, value in values.items():
        expect("value of %r" % key[:20], r.get(key) == value, True)
    expect("deleted", r.get(b"small and gone"), None)
    expect("its tombstone has a slot", r.search(b"small and gone")[1] is None,
           False)
    expect("tombstone of a large value",
           r.open_block(r.search(b"large and gone")[1])[1::2], (b"", True))
    expect("never there", r.get(b"never"), None)
    try:
        mmap.mmap(s.fds[1], 4096)
        sys.exit("FAIL: a read-only session maps the data for writing")
    except PermissionError:
        pass
    expect("PONG", s.call("PING", struct.pack("<Q", 77), "PONG"),
           struct.pack("<Q", 77))
    return s, r


def write_ours(path):
    s = Session(path, 0)
    r = Region(s)
    for key, value in ((b"ours", b"first"), (b"ours, long", os.urandom(70000))):
        expect("new key", r.put(s, key, value), None)
        expect("what kvcli reads", kvcli("--raw", "get", key.decode()) == value,
               True)
    for _ in range(3):
        value = os.urandom(11)
        old = r.put(s, b"ours", value)
        s.send("RETURN", block_list(state=DEFERRED, words=[old]))
        expect("overwritten", kvcli("--raw", "get", "ours") == value, True)
    kvcli("put", "ours", "theirs")
    expect("what kvcli wrote over it", r.get(b"ours"), b"theirs")
    hint = s.call("HINT", struct.pack("<QIB", s.meta_bytes // 32768, 1, 0),
                  "HINT_REPLY")
    expect("HINT_REPLY", hint, b"\0")
    prefix, = struct.unpack("<I", s.call("PREFIX_REQ", b"", "PREFIX"))
    expect("another prefix", prefix > s.prefix, True)
    stats = s.stats()
    expect("statistics", sorted(stats), list(range(1, 57)) + [132, 133])
    expect("bytes, errors", (stats[2], stats[19]), (s.region_bytes, 0))
    s.bye()


def page_map(r):
    """Every block lies in a segment of its class, and the window in a subtable."""
    for key in (b"small", b"large", b"ours, long"):
        off, word = r.search(key)
        expect("page of the index", r.page(off), (1, 0, 0))
        off, cls = bits(word, 33, 0) * 32, bits(word, 40, 34)
        first = off // 32768 * 32768
        while r.page(first)[0] == 3:
            expect("later page", r.page(first), (3, 0, cls))
            first -= 32768
        kind, pages, found = r.page(first)
        expect("first page", (kind, found), (2, cls))
        expect("block's place", ((off - first) % class_bytes(cls),
                                 off + class_bytes(cls) <= first + pages * 32768), (0, True))


def sessions(path, r):
    with open("/proc/self/stat") as f:
        me = os.getpid(), int(f.read().rpartition(")")[2].split()[19])
    watch, gone, stays = (Session(path, role) for role in (1, 0, 0))
    for s in watch, gone, stays:
        expect("entry of a session", r.session(s.id), me)
    before = watch.stats()
    for s, counts in (gone, (5, 3, 1)), (stays, (70, 0, M64)):
        ctypes.memmove(s.tether, struct.pack("<QQQ", *counts), 24)
    sums = watch.stats()
    expect("gets, hits, misses, sets",
           [(sums[i] - before[i]) & M64 for i in range(44, 48)], [78, 75, 3, 0])
    gone.bye()
    stays.close()  # without BYE, and with its tether mapped
    deadline = time.monotonic() + 20
    while watch.stats()[BARRIER_WAITS] == 0 and time.monotonic() < deadline:
        pass
    expect("after BYE", r.session(gone.id), None)
    expect("while its process may use the region", r.session(stays.id), me)
    untie(stays.tether)
    while watch.stats()[BARRIER_WAITS] != 0 and time.monotonic() < deadline:
        pass
    expect("afterwards", r.session(stays.id), None)
    now = watch.stats()
    expect("counts of ended sessions", [now[i] for i in range(44, 48)],
           [sums[i] for i in range(44, 48)])
    watch.bye()


def no_memory_for_readers(path, readonly):
    """A reader can neither take blocks nor return what others hold."""
    writer = Session(path, 0)
    block = writer.grant(0, 1)[0]
    for kind, body in (("GRANT_REQ", struct.pack("<BI", 0, 1)),
                       ("RETURN", block_list(words=[block]))):
        reader = Session(path, 1)
        reader.send(kind, body)
        expect(kind + " of a reader", reader.refusal(), 2)
        reader.close()
    writer.send("RETURN", block_list(words=[block]))
    writer.bye()
    readonly.bye()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        os.environ["FARKV_URI"] = "shm://" + path
        ready, theirs = os.pipe()
        server = subprocess.Popen(
            [os.environ["KVSERVER"], "-q", "-m", "64", "-s", path,
             "--grace-ms", "1", "--ready-fd", str(theirs)],
            pass_fds=[theirs], stdout=subprocess.DEVNULL)
        os.close(theirs)
        try:
            expect("READY", os.read(ready, 16), b"READY\n")
            readonly, region = read_theirs(path)
            write_ours(path)
            expect("seen by who was there before", region.get(b"ours"),
                   b"theirs")
            page_map(region)
            sessions(path, region)
            no_memory_for_readers(path, readonly)
        finally:
            server.terminate()
            expect("exit status of kvserver", server.wait(), 0)
    print("%d checks" % checks)


main()
