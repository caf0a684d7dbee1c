# SPDX-License-Identifier: BSD-3-Clause
"""kvserver's store in systemd's file-descriptor store, and a socket that systemd passes. This script
plays systemd.

fdstore.py KVSERVER KVCLI FOLDER
"""
import array
import os
import select
import signal
import socket
import subprocess
import sys
import time

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
        self.passed = []  # (name, descriptor) of sockets
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

    def spawn(self, options):
        """Returns the descriptor at which the service will say that it is ready."""
        self.take()
        fds = [fd for _, fd in self.passed + self.store]
        names = ":".join(name for name, _ in self.passed + self.store)
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
            os.execv(KVSERVER, [KVSERVER, "-m", "32m", "--max-sessions", "20",
                                "--ready-fd", "100", *options])

        log = open(FOLDER + "/log", "a")
        pid = os.fork()
        if pid == 0:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            arrange()
        os.close(told)
        global server
        server = self.pid = pid
        return ready

    def start(self, *options):
        ready = self.spawn(options if self.passed else ["-s", SOCK, *options])
        text = os.read(ready, 6)
        os.close(ready)
        check(text == b"READY\n", "the server did not start")

    def refused(self, line, *options):
        """The service does not start, and says so in one line."""
        before = len(log())
        os.close(self.spawn(options))
        _, status = os.waitpid(self.pid, 0)
        global server
        server = 0
        said = log()[before:]
        check(os.waitstatus_to_exitcode(status) == 64, f"status {status}")
        check(line in said and said.count("\n") == 1, f"no '{line}' in: {said}")

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

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def say(self, line):
        self.ask(line)
        return self.p.stdout.readline().strip()

    def close(self):
        self.p.stdin.close()
        return self.p.wait()


AREAS = ["farkv-data", "farkv-meta"]


def listener(path, kind=socket.SOCK_SEQPACKET):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    s.listen()
    return s


def await_queue(sock):
    """Until a client has connected."""
    select.select([sock], [], [])


def passed_socket(systemd):
    sock = listener(SOCK)
    inode = os.stat(SOCK).st_ino
    systemd.passed = [("farkv-socket", sock.fileno())]

    # The first client waits for the first server.
    first = Client()
    first.ask("put a 1")
    await_queue(sock)
    systemd.start("--socket-mode", "0666")
    check(first.say("get a") == "1", "the first client")
    check(f"serving 32.0 MiB at shm://{SOCK} " in log(), "the address is the passed socket's")
    check(os.stat(SOCK).st_mode & 0o777 != 0o666, "the mode is systemd's")
    check(not os.path.exists(SOCK + ".lock"), "no lock file")

    # Another server of the same path finds it in use.
    passed, systemd.passed = systemd.passed, []
    pid = systemd.pid
    p = subprocess.run([KVSERVER, "-m", "8m", "-s", SOCK], capture_output=True, text=True)
    check(p.returncode == 1 and "another program listens at" in p.stderr, p.stderr)
    systemd.passed = passed

    # Between two servers a connected client goes on, for as long as it takes.
    for sig in signal.SIGKILL, signal.SIGTERM:
        check(systemd.pid == pid, "one server")
        systemd.end(sig)
        await_queue(sock)  # the client looks for a server
        for _ in range(100):
            time.sleep(0.01)  # more than the looks after which it joins a server that listens
            check(first.say("get a") == "1", f"a client of the server before, signal {sig}")
        # A new one waits.
        new = Client()
        new.ask("get a")
        systemd.start("-s", SOCK)
        check(new.p.stdout.readline() == "1\n", "a client that came without a server")
        check(new.close() == 0, "its end")
        first.ask("put a 1")
        check(first.say("get a") == "1", "the old client goes on")
        # It is connected, not about to be: that needs a server.
        check("answered in" in first.say("ping"), "the old client joins")
        pid = systemd.pid
    check(first.close() == 0, "the first client's end")

    check(systemd.stop() == 0, "stop")
    check(os.stat(SOCK).st_ino == inode, "the socket stays")
    check(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1, "and listens")

    # Mistakes.
    wrong = "no listening Unix socket with a path; the unit needs ListenSequentialPacket=PATH"
    stream = listener(FOLDER + "/stream", socket.SOCK_STREAM)
    nameless = listener("\0farkv-test-" + FOLDER)
    deaf = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    deaf.bind(FOLDER + "/deaf")
    tcp = socket.create_server(("127.0.0.1", 0))
    with open(FOLDER + "/log") as file:
        for fd in stream, nameless, deaf, tcp, file:
            systemd.passed = [("farkv-socket", fd.fileno())]
            systemd.refused(wrong)
    for s in stream, nameless, deaf, tcp:
        s.close()
    systemd.passed = [("farkv-socket", sock.fileno())]
    other = FOLDER + "/other"
    systemd.refused(f"socket: {other}, but the socket that was passed is {SOCK}; leave out --socket",
                    "-s", other)
    check(not os.path.exists(other), "no other socket was made")
    systemd.refused("stop the socket unit", "--transport", "rdma", "--no-auth")
    systemd.passed *= 2
    systemd.refused("several sockets were passed; the socket unit needs a single Listen line")
    # Of another name: it is closed, and the server makes its own.
    systemd.passed = [("kvserver.socket", sock.fileno())]
    systemd.start("-s", other)
    check("descriptor 'kvserver.socket' that was passed is not used" in log(), "another name")
    fds = [os.readlink(f"/proc/{systemd.pid}/fd/{n}") for n in os.listdir(f"/proc/{systemd.pid}/fd")]
    check(f"socket:[{os.fstat(sock.fileno()).st_ino}]" not in fds, "it is closed")
    systemd.stop()
    check(not os.path.exists(other), "its own socket is gone")
    systemd.passed = []
    sock.close()
    os.unlink(SOCK)


def main():
    systemd = Systemd(4096)
    passed_socket(systemd)
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
