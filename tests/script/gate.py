# SPDX-License-Identifier: BSD-3-Clause
"""Clients of kvgate, well-behaved and hostile, for gate.sh: gate.py CASE ADDRESS..."""
import os
import resource
import signal
import socket
import sys
import threading
import time

# For hangs; nothing depends on how long something takes.
TIMEOUT = 60


def connect(address):
    s = socket.socket(socket.AF_UNIX if "/" in address else socket.AF_INET)
    # A Unix socket that does not block has no patience with a full queue.
    s.connect(address if "/" in address else ("127.0.0.1", int(address)))
    s.settimeout(TIMEOUT)
    return s


def read_exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        assert more, "closed after %r, expected %d bytes" % (data[:100], n)
        data += more
    return data


def asks(s, request, answer):
    s.sendall(request)
    got = read_exactly(s, len(answer))
    assert got == answer, "%r: answered %r, expected %r" % (request[:100], got[:200], answer[:200])


def read_to_end(s):
    data = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return data
            data += more
    except ConnectionResetError:
        return data


def admitted(address):
    """A connection after others were closed, which may count for a moment longer."""
    while True:
        s = connect(address)
        try:
            s.sendall(b"PING\r\n")
            if s.recv(1) == b"+":
                assert read_exactly(s, 6) == b"PONG\r\n"
                return s
        except (BrokenPipeError, ConnectionResetError):
            pass


def unix(resp, memcached):
    """Both see the same values; whole pipelines; every piece of a request alone."""
    r, m = connect(resp), connect(memcached)
    asks(r, b"*3\r\n$3\r\nSET\r\n$9\r\nfrom-gate\r\n$5\r\nvalue\r\n", b"+OK\r\n")
    asks(m, b"get from-gate\r\n", b"VALUE from-gate 0 5\r\nvalue\r\nEND\r\n")
    asks(r, b"*1\r\n$4\r\nPING\r\n" * 50000, b"+PONG\r\n" * 50000)
    asks(m, b"mn\r\n" * 50000, b"MN\r\n" * 50000)
    big = os.urandom(1 << 20)
    asks(r, b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n%s\r\n" % (len(big), big), b"+OK\r\n")
    asks(m, b"get big\r\n", b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (len(big), big))
    for byte in b"*2\r\n$3\r\nGET\r\n$9\r\nfrom-gate\r\n":
        r.sendall(bytes([byte]))
    asks(r, b"", b"$5\r\nvalue\r\n")
    asks(r, b"*2\r\n$3\r\nDEL\r\n$3\r\nbig\r\n", b":1\r\n")


def shared(address):
    """The first byte tells the protocol. Clients of two threads count together."""
    asks(connect(address), b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n")
    asks(connect(address), b"PING\r\n", b"+PONG\r\n")
    asks(connect(address), b"version\r\n", b"VERSION ")

    def count():
        s = connect(address)
        for _ in range(500):
            s.sendall(b"INCR n\r\n")
            assert s.recv(100).startswith(b":")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    asks(connect(address), b"GET n\r\n", b"$4\r\n2000\r\n")


def login(resp, memcached, keys):
    with open(keys, encoding="ascii") as f:
        secret = {line.split()[0]: line.split()[2].encode() for line in f}
    r = connect(resp)
    asks(r, b"GET a\r\n", b"-NOAUTH Authentication required.\r\n")
    asks(r, b"AUTH x\r\n", b"-WRONGPASS ")
    assert b"\r\n" in r.recv(1000)
    asks(r, b"AUTH rw %s\r\n" % secret["ro"], b"-WRONGPASS ")
    assert b"\r\n" in r.recv(1000)
    asks(r, b"AUTH rw %s\r\n" % secret["rw"], b"+OK\r\n")
    asks(r, b"SET a 1\r\n", b"+OK\r\n")
    asks(r, b"RESET\r\nGET a\r\n", b"+RESET\r\n-NOAUTH Authentication required.\r\n")
    asks(r, b"AUTH %s\r\n" % secret["ro"], b"+OK\r\n")
    asks(r, b"GET a\r\n", b"$1\r\n1\r\n")
    asks(r, b"SET a 2\r\n", b"-NOPERM ")
    r = connect(resp)
    asks(r, b"HELLO 3 AUTH default %s\r\n" % secret["rw"], b"%7\r\n")
    # Before the login nothing large is taken.
    r = connect(resp)
    asks(r, b"*11\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n")
    m = connect(memcached)
    asks(m, b"get a\r\n", b"CLIENT_ERROR unauthenticated\r\n")
    asks(m, b"set x 0 0 4\r\nrw x\r\n", b"CLIENT_ERROR authentication failure\r\n")
    word = b"rw " + secret["rw"]
    asks(m, b"set x 0 0 %d\r\n%s\r\n" % (len(word), word), b"STORED\r\n")
    asks(m, b"get a\r\n", b"VALUE a 0 1\r\n1\r\nEND\r\n")


def rekey(resp, keys, gate, log):
    """The file of keys is read again at SIGHUP; a connection whose key is gone ends."""
    with open(keys, encoding="ascii") as f:
        secret = {line.split()[0]: line.split()[2] for line in f}
    r, w = connect(resp), connect(resp)
    asks(r, b"AUTH ro %s\r\n" % secret["ro"].encode(), b"+OK\r\n")
    asks(w, b"AUTH rw %s\r\n" % secret["rw"].encode(), b"+OK\r\n")
    with open(keys, "w", encoding="ascii") as f:
        f.write("rw rw %s\nnew rw %s\n" % (secret["rw"], secret["ro"]))
    os.kill(int(gate), signal.SIGHUP)
    assert r.recv(100) == b""
    asks(w, b"PING\r\n", b"+PONG\r\n")
    asks(connect(resp), b"AUTH new %s\r\n" % secret["ro"].encode(), b"+OK\r\n")
    with open(keys, "w", encoding="ascii") as f:
        f.write("nonsense\n")
    os.kill(int(gate), signal.SIGHUP)
    while "stay as they are" not in open(log, encoding="ascii").read():
        time.sleep(0.01)
    asks(connect(resp), b"AUTH rw %s\r\n" % secret["rw"].encode(), b"+OK\r\n")


def rss_kib(pid):
    with open("/proc/%s/status" % pid, encoding="ascii") as f:
        return int([line for line in f if line.startswith("VmRSS")][0].split()[1])


def refused_at_once(port, request, answer):
    s = connect(port)
    s.sendall(request)
    got = read_to_end(s)
    assert got.startswith(answer), (request[:50], got[:200])


def too_many(resp, memcached):
    """The 21st connection is told so; when one leaves there is room again."""
    held = [connect(resp) for _ in range(19)]
    for s in held:
        asks(s, b"PING\r\n", b"+PONG\r\n")
    one = connect(resp)
    asks(one, b"PING\r\n", b"+PONG\r\n")
    assert read_to_end(connect(resp)) == b"-ERR max number of clients reached\r\n"
    assert read_to_end(connect(memcached)) == b"ERROR Too many open connections\r\n"
    asks(one, b"CLIENT KILL SKIPME yes\r\n", b":19\r\n")
    for s in held:
        assert read_to_end(s) == b""
    one.sendall(b"QUIT\r\n")
    assert read_to_end(one) == b"+OK\r\n"


def info(s, field):
    s.sendall(b"INFO\r\n")
    head = b""
    while not head.endswith(b"\r\n"):
        head += read_exactly(s, 1)
    text = read_exactly(s, int(head[1:]) + 2).decode()
    return int([line for line in text.split("\r\n") if line.startswith(field + ":")][0]
               .split(":")[1])


def until_clients(witness, n):
    """Wait until there are n connections; each question gives the gate its turn."""
    for _ in range(5000):
        if info(witness, "connected_clients") == n:
            return
    raise AssertionError("%d connections, expected %d" % (info(witness, "connected_clients"), n))


def slow_reader(port, hello, answer, request, witness):
    """Requests without reading the answers, 20 MB: it is cut off, at --max-output."""
    n = info(witness, "connected_clients")
    s = connect(port)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asks(s, hello, answer)
    s.sendall(request * 20)
    until_clients(witness, n)


def hostile(resp, memcached, pid):
    too_many(resp, memcached)
    witness = admitted(resp)
    asks(witness, b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1000000\r\n" + b"x" * 1000000 + b"\r\n",
         b"+OK\r\n")
    before = rss_kib(pid)
    slow_reader(resp, b"PING\r\n", b"+PONG\r\n", b"GET b\r\n", witness)
    slow_reader(memcached, b"mn\r\n", b"MN\r\n", b"get b\r\n", witness)
    refused_at_once(resp, b"*1\r\n$1073741824\r\n", b"-ERR Protocol error: invalid bulk length")
    refused_at_once(resp, b"*1073741824\r\n", b"-ERR Protocol error: invalid multibulk length")
    refused_at_once(resp, b"x" * 100000, b"-ERR Protocol error: too big inline request")
    refused_at_once(memcached, b"x" * 3000, b"CLIENT_ERROR line too long")
    refused_at_once(resp, b"POST / HTTP/1.1\r\n", b"")
    refused_at_once(memcached, b"GET / HTTP/1.1\r\n", b"")
    # A gigabyte that is announced is not waited for with memory.
    half = [connect(memcached), connect(resp)]
    half[0].sendall(b"set a 0 0 1073741824\r\n")
    assert read_exactly(half[0], 13) == b"SERVER_ERROR "
    half[1].sendall(b"*1000000\r\n$1000000\r\nx")
    asks(witness, b"PING\r\n", b"+PONG\r\n")
    grown = rss_kib(pid) - before
    # A sanitizer's heap keeps what was freed.
    if os.environ.get("SANITIZED", "no") == "no":
        assert grown < 20000, "grew by %d KiB" % grown
    # A million empty words take the request's size in memory, not more.
    asks(witness, b"*250000\r\n$6\r\nEXISTS\r\n" + b"$1\r\na\r\n" * 249999, b":0\r\n")
    asks(witness, b"DEL b\r\n", b":1\r\n")


CROWD = 10000


def crowd(path, pid):
    """10,000 connections, some of which have sent half a request: the others are served, and when
    they have gone so has their memory. Exit status 77: this many files may not be opened."""
    need = CROWD + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < need:
        if hard != resource.RLIM_INFINITY and hard < need:
            sys.exit(77)
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
    witness = connect(path)
    asks(witness, b"SET a 1\r\n", b"+OK\r\n")
    for _ in range(2):
        clients = [connect(path) for _ in range(CROWD)]
        for i, s in enumerate(clients):
            if i % 4 == 0:
                s.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1000000\r\n")
            elif i % 4 == 1:
                asks(s, b"GET a\r\n", b"$1\r\n1\r\n")
        assert info(witness, "connected_clients") == CROWD + 1
        for s in clients:
            s.close()
        until_clients(witness, 1)
        asks(witness, b"GET a\r\n", b"$1\r\n1\r\n")
        files = len(os.listdir("/proc/%s/fd" % pid))
        assert files < 100, "%d files are open" % files


def hostiles(resp, memcached, ready):
    """For gate_figures.sh, until it is killed: silent connections, 50 readers that take nothing of
    what they asked for, 20 announcements of a gigabyte, and 100 requests that come byte by byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asks(connect(resp), b"*3\r\n$3\r\nSET\r\n$6\r\nlarger\r\n$100000\r\n" + b"x" * 100000 + b"\r\n",
         b"+OK\r\n")
    held = [connect(resp) for _ in range(min(CROWD, hard - 1000))]
    for _ in range(50):
        held.append(connect(memcached))
        held[-1].sendall(b"get larger\r\n" * 100)
    for _ in range(20):
        held.append(connect(memcached))
        held[-1].sendall(b"set a 0 0 1073741824\r\n")
    slow = [connect(memcached) for _ in range(100)]
    with open(ready, "w", encoding="ascii"):
        pass
    while True:
        for byte in b"get key:000001\r\n":
            for s in slow:
                s.sendall(bytes([byte]))
            time.sleep(0.01)
        for s in slow:
            s.recv(4096)


def idle(resp, memcached):
    """A client that is silent, and one that never completes its request, are closed."""
    for port in resp, memcached:
        assert read_to_end(connect(port)) == b""
        s = connect(port)
        s.settimeout(0.1)
        try:
            while True:
                s.sendall(b"x")
                try:
                    assert s.recv(100) == b""
                    break
                except TimeoutError:
                    pass
        except (BrokenPipeError, ConnectionResetError):
            pass


def away(resp, memcached):
    r, m = connect(resp), connect(memcached)
    asks(r, b"PING\r\n", b"+PONG\r\n")
    asks(r, b"SET a 1\r\n", b"-ERR ")
    asks(m, b"set a 0 0 1\r\nx\r\n", b"SERVER_ERROR ")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
