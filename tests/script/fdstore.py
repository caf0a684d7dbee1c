# SPDX-License-Identifier: BSD-3-Clause
"""kvserver's store in systemd's file-descriptor store, with a systemd that this script plays.

fdstore.py KVSERVER KVCLI FOLDER
"""
import array
import os
import signal
import socket
import subprocess
import sys

KVSERVER, KVCLI, FOLDER = sys.argv[1:]
SOCK = FOLDER + "/sock"


server = 0


def check(holds, text):
    if not holds:
        if server:
            os.kill(server, signal.SIGKILL)
        print("FAIL:", text, flush=True)
        with open(FOLDER + "/log") as log:
            print(log.read())
        sys.exit(1)


class Systemd:
    """The notify socket, the store, and one service."""

    def __init__(self, room):
        self.room = room
        self.store = []  # (name, descriptor), in the order in which they came
        self.path = FOLDER + "/notify"
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)

    def take(self):
        """Everything that the service has sent."""
        while True:
            try:
                text, anc, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(4),
                                                    socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if text in (b"READY=1", b"STOPPING=1"):
                continue
            fields = dict(line.split("=", 1) for line in text.decode().split("\n"))
            name = fields["FDNAME"]
            if "FDSTOREREMOVE" in fields:
                for entry in [e for e in self.store if e[0] == name]:
                    os.close(entry[1])
                    self.store.remove(entry)
                continue
            check(fields["FDSTORE"] == "1" and fields["FDPOLL"] == "0", text)
            fds = array.array("i", anc[0][2])
            check(len(fds) == 1, "one descriptor with a message")
            self.store.append((name, fds[0]))

    def names(self):
        self.take()
        return sorted(name for name, _ in self.store)

    def await_names(self, names):
        """The server may not have seen the end of a client's session yet."""
        while self.names() != names:
            check(os.waitpid(self.pid, os.WNOHANG)[0] == 0, "the server has ended")

    def start(self, *options):
        self.take()
        fds = [fd for _, fd in self.store]
        names = ":".join(name for name, _ in self.store)
        ready, told = os.pipe()

        def arrange():
            high = [os.dup2(fd, 200 + i) for i, fd in enumerate(fds)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
                os.close(fd)
            os.dup2(told, 100)
            os.environ.update(NOTIFY_SOCKET=self.path, FDSTORE=str(self.room))
            if fds:
                os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)),
                                  LISTEN_FDNAMES=names)
            os.execv(KVSERVER, [KVSERVER, "-s", SOCK, "-m", "32m", "--max-sessions", "20",
                                "--ready-fd", "100", *options])

        log = open(FOLDER + "/log", "a")
        pid = os.fork()
        if pid == 0:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            arrange()
        os.close(told)
        text = os.read(ready, 6)
        os.close(ready)
        global server
        server = self.pid = pid
        check(text == b"READY\n", "the server did not start")

    def end(self, sig):
        os.kill(self.pid, sig)
        _, status = os.waitpid(self.pid, 0)
        global server
        server = 0
        return status

    def stop(self):
        """systemctl stop: the store is emptied."""
        status = self.end(signal.SIGTERM)
        self.take()
        for _, fd in self.store:
            os.close(fd)
        self.store = []
        return status


def kvcli(*args):
    return subprocess.run([KVCLI, "-s", SOCK, *args], capture_output=True, text=True).stdout


def log():
    with open(FOLDER + "/log") as f:
        return f.read()


class Client:
    """One connection that stays."""

    def __init__(self):
        self.p = subprocess.Popen([KVCLI, "-s", SOCK], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, bufsize=1)

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def close(self):
        self.p.stdin.close()
        return self.p.wait()


AREAS = ["farkv-data", "farkv-meta"]


def main():
    systemd = Systemd(4096)
    systemd.start()
    check(systemd.names() == AREAS, f"after the start the store has {systemd.names()}")
    kvcli("put", "a", "1")
    systemd.await_names(AREAS)
    client = Client()
    check(client.say("get a") == "1", "a client's first get")
    check(len(systemd.names()) == 3, f"a session's tether: {systemd.names()}")

    # kill -9: the client goes on without a server, and with the next one.
    systemd.end(signal.SIGKILL)
    check(client.say("get a") == "1", "a get without a server")
    systemd.start()
    check("the region is adopted; 1 clients of the previous server still use it" in log(),
          "the next server adopts the region and its client")
    check(kvcli("get", "a") == "1\n", "a new client has the value")
    kvcli("put", "b", "2")
    check(client.say("get b") == "2", "the old client has what a new one wrote")
    check(client.say("get a") == "1", "the old client goes on")

    # A client that is stopped holds up what it may still use, until it goes on.
    os.kill(client.p.pid, signal.SIGSTOP)
    systemd.end(signal.SIGKILL)
    systemd.start()
    check("1 clients of the previous server" in log().split("adopted")[-1],
          "a stopped client's tether comes back from the store")
    check('"barrier_waits":1' in kvcli("stats", "--json").replace(" ", ""),
          "a barrier waits for the stopped client")
    os.kill(client.p.pid, signal.SIGCONT)
    check(client.say("get b") == "2", "the client goes on")
    check(client.close() == 0, "the client ends")
    while '"barrier_waits":0' not in kvcli("stats", "--json").replace(" ", ""):
        pass
    kvcli("fsck")
    systemd.await_names(AREAS)

    # systemctl restart, then stop.
    check(systemd.end(signal.SIGTERM) == 0, "SIGTERM")
    systemd.start("--max-sessions", "1")
    check(kvcli("get", "a") == "1\n", "after a restart")
    check(kvcli("fsck", "-q") == "", "fsck")
    check(systemd.stop() == 0, "stop")
    systemd.start()
    check(kvcli("keys") == "", "after a stop another store begins")

    # One area of the two is no region.
    systemd.end(signal.SIGKILL)
    systemd.take()
    os.close(systemd.store.pop(0)[1])
    systemd.start()
    check(systemd.names() == AREAS, f"half a store is dropped: {systemd.names()}")

    # No room for every session's tether: nothing is put there, and the log says so.
    systemd.stop()
    systemd.room = 10
    systemd.start()
    check("the unit has FileDescriptorStoreMax=10, and with max-sessions=20 it takes 42" in log(),
          "too little room")
    check(systemd.names() == [], f"too little room: {systemd.names()}")
    systemd.stop()


main()
