#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""WAIT of kvgate with one thread, on a cluster with followers.

usage: gate_wait.py PORT VICTIM COPYING...
Stops the processes COPYING for a while, and kills the server VICTIM.
"""
import os
import signal
import socket
import sys
import time

port, victim, copying = int(sys.argv[1]), int(sys.argv[2]), [int(p) for p in sys.argv[3:]]


class Connection:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.lines = self.socket.makefile("rb")

    def ask(self, *commands):
        self.socket.sendall(b"".join(c.encode() + b"\r\n" for c in commands))

    def line(self):
        return self.lines.readline().decode().rstrip("\r\n")

    def says(self, command, *wanted):
        self.ask(command)
        found = [self.line() for _ in wanted]
        assert found == list(wanted), "%s: %s, expected %s" % (command, found, wanted)

    def info(self, section, field):
        self.ask("INFO " + section)
        text = self.lines.read(int(self.line()[1:]) + 2).decode()
        return text.split(field + ":")[1].split("\r\n")[0]


def blocked(n):
    while other.info("clients", "blocked_clients") != str(n):
        time.sleep(0.01)


one, other, silent = Connection(), Connection(), Connection()

# ---- the followers go on
one.says("SET k 1", "+OK")
one.says("WAIT 1 0", ":1")
one.says("WAIT 0 0", ":0")
one.says("WAIT 5 60000", ":1")
one.says("WAIT 1 -1", "-ERR timeout is negative")
assert other.info("replication", "connected_slaves") == "1"
assert int(other.info("replication", "farkv_follower_lag_ms")) < 60000

# ---- they stand still: no other connection waits, nor does one that has gone
for pid in copying:
    os.kill(pid, signal.SIGSTOP)
one.says("SET k 2", "+OK")
begin = time.monotonic()
one.says("WAIT 1 300", ":0")
assert time.monotonic() - begin >= 0.299
one.ask("WAIT 1 0", "GET k", "WAIT 1 60000")
other.says("PING", "+PONG")
blocked(1)
gone = Connection()
gone.ask("WAIT 1 0")
blocked(2)
gone.socket.shutdown(socket.SHUT_RDWR)
blocked(1)
other.says("PING", "+PONG")
for pid in copying:
    os.kill(pid, signal.SIGCONT)
assert [one.line() for _ in range(4)] == [":1", "$1", "2", ":1"]
blocked(0)

# ---- a server is lost: each connection that was there is told once
silent.says("SET quiet 1", "+OK")
os.kill(victim, signal.SIGKILL)
told = 0
end = time.monotonic() + 60
while True:
    one.ask("WAIT 1 10000")
    if one.line() == ":1":
        break
    told += 1
    assert time.monotonic() < end, "WAIT is 0 for ever"
    time.sleep(0.2)
assert told > 0, "a loss was not told"
silent.says("WAIT 1 10000", ":0")
silent.says("WAIT 1 10000", ":1")
Connection().says("WAIT 1 10000", ":1")
