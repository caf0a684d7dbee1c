# SPDX-License-Identifier: BSD-3-Clause
"""kvcli at a terminal, for cli-tty.sh: python3 cli-tty.py KVCLI FOLDER [edits] [screens]."""
import fcntl
import os
import pty
import re
import signal
import stat
import struct
import sys
import termios

KVCLI, FOLDER = sys.argv[1:3]
EDITS = "edits" in sys.argv  # built with libedit
SCREENS = "screens" in sys.argv  # built with ncurses
HISTORY = FOLDER + "/history"


def stuck(*_):
    raise KeyboardInterrupt  # what was seen is shown, instead of a test that hangs


signal.signal(signal.SIGALRM, stuck)
signal.alarm(300)


class Terminal:
    """A program on a terminal; all reads wait for what they want."""

    def __init__(self, *args, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            everything = dict(os.environ, TERM="xterm", FARKV_HISTORY=HISTORY, COLUMNS="200", LINES="40")
            everything.update(env)
            os.execve(KVCLI, [KVCLI, *args], everything)
        self.seen = ""
        self.screen = ""

    def read(self):
        try:
            data = os.read(self.fd, 4096)
        except OSError:
            data = b""
        self.seen += data.decode(errors="replace")
        self.screen += data.decode(errors="replace")
        return data

    def until(self, pattern):
        """Read until it matches; what was before it is dropped."""
        while not (found := re.search(pattern, self.seen)):
            try:
                more = self.read()
            except KeyboardInterrupt:
                more = b""
            if not more:
                sys.exit("no %r in %r" % (pattern, self.screen))
        self.seen = self.seen[found.end():]
        return found

    def columns(self, n):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, n, 0, 0))

    def prompt(self):
        self.until("> $")
        while EDITS and termios.tcgetattr(self.fd)[3] & termios.ISIG:  # Ctrl-C is a key soon
            os.sched_yield()

    def type(self, text):
        os.write(self.fd, text.encode())

    def say(self, line, pattern):
        """Type a line; what is printed up to the next prompt must match."""
        self.type(line + "\n")
        self.until(pattern)
        self.prompt()

    def recall(self):
        """Run the previous line of the history, which is to be "get user:1"."""
        self.type("\x10")  # up
        check("the previous line", self.until("get user:1|secret")[0] == "get user:1")
        self.say("", r'\n"x"\r\n')

    def end(self):
        while self.read():
            pass
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def check(what, right):
    if not right:
        sys.exit("not so: " + what)


def one(*args):
    """A single command on a terminal: what it prints."""
    t = Terminal(*args)
    code = t.end()
    check("%r: exit status %d" % (args, code), code == 0)
    return t.screen.replace("\r\n", "\n")



# ---- single commands: quoted on a terminal
one("put", "odd", "a\"\\\n\t\x1b[31m \u00fc \u009b")
check("escapes", one("get", "odd") == '"a\\"\\\\\\n\\t\\x1b[31m \u00fc \\xc2\\x9b"\n')
check("--raw is as it is", "\x1b[31m" in one("--raw", "get", "odd"))
check("keys", one("keys") == '"odd"\n')
check("mget", one("mget", "odd").startswith('"odd"\t"a\\"'))
check("JSON", one("--json", "exists", "odd") == '{"key":"odd","result":"ok"}\n')
check("CSV", one("--csv", "keys") == '"odd"\n')

# ---- top: the whole screen, again and again
if SCREENS:
    t = Terminal("top", "-i", "10ms")
    t.until("kvcli top " + re.escape(os.environ["FARKV_URI"].split("?")[0])[:50])
    t.until(r"\b1 keys, ")
    t.until("GETS/S +HITS %")
    t.until("BLOCK +OUT")
    t.until(r"kvcli \(pid %d, this one\)" % t.pid)
    one("put", "second", "x")
    t.until(r"H2\b")  # only what changed is written
    one("del", "second")
    t.type("q")
    check("q ends top", t.end() == 0)
    check("the screen is left", "\x1b[?1049l" in t.screen.split("\x1b[?1049h")[1])
    one("top", "-r", "2", "-i", "1ms")
    t = Terminal("top")
    t.until("GETS/S")
    os.kill(t.pid, signal.SIGTERM)
    check("SIGTERM", t.end() == -signal.SIGTERM)
    t = Terminal("top", TERM="none such")
    t.until("kvcli: top: ncurses does not know this terminal: set TERM")
    check("an unknown terminal", t.end() == 2)
else:
    t = Terminal("top")
    t.until("built without ncurses; take --stat")
    check("no ncurses", t.end() == 2)

# ---- a dialogue
t = Terminal()
t.until('kvcli [0-9.]+; "help" lists')
t.until(re.escape(os.environ["FARKV_URI"].split("?")[0]) + "> $")
t.say('put word "two\\nlines"', "\r\n")
t.say("get word", r'\n"two\\nlines"\r\n')
t.say("get word --raw", "\ntwo\r\nlines")
t.say("get none", r"\nkvcli: get: none: no value")
t.say("SETEX word 1", "unknown command 'SETEX': did you mean put")
t.say("FLUSHALL", "did you mean clear")
t.say("INFO", "did you mean stats")
t.say("CLIENT", "did you mean clients") if "clients" in one("help") else None
t.say("put word -", "- is stdin, and that is the terminal")
t.say("help touch", "(?s)Usage: kvcli .*touch KEY TIME.*--key-base64")
t.say("help", "(?s)Commands:.*get KEY.*help COMMAND")
t.say("", "")
# A word that clears the screen elsewhere asks first.
t.type("clear\n")
t.until(r"\[y/N\] $")
t.say("n", "\n")
t.say("exists word", "\nyes\r\n")
t.type("clear\n")
t.until(r"\[y/N\] $")
t.say("y", r"removed 2 keys")
t.type("quit\n")
check("quit", t.end() == 0)

# ---- editing: history, completion, Ctrl-C
t = Terminal()
t.prompt()
if not EDITS:
    print("not tried: editing of lines; built without libedit")
    t.type("quit\n")
    check("quit", t.end() == 0)
    sys.exit()
t.type("get k\x03")
t.prompt()
t.say("put user:1 a", "\n")
t.say("put user:2 b", "\n")
t.say('put "user 3" c', "\n")
# What was completed shows in what is done.
t.say("ge\t user:1", r'\n"a"\r\n')
t.say("exi\tuser:1", r"\nyes\r\n")
t.say("get user:\t2", r'\n"b"\r\n')
t.say('get "user \t', r'\n"c"\r\n')
t.say("touch user:1 1h", "\n")
t.say("put user:1 x --tt\t1h", "\n")
t.say("ttl user:1", r"\n3600|\n3599")
t.type("get user\t")
t.until(r'"user 3"  user:1  user:2')
t.columns(20)
t.type("\t")
t.until(r'"user 3"  user:1\r\nuser:2\r\n')  # no word is broken
t.columns(200)
t.type("\x03")
t.prompt()
t.type("del user:1\x03")
t.prompt()
t.say("get user:1", r'\n"x"\r\n')  # a dropped line was not run
t.say(" put secret word", "\n")
t.recall()  # a line that begins with a blank is not remembered
t.type("\x04")  # Ctrl-D
check("the end of input", t.end() == 0)
check("mode of the history", stat.S_IMODE(os.stat(HISTORY).st_mode) == 0o600)
text = open(HISTORY).read()
check("history: " + text, "user:1" in text and "secret" not in text)

# ---- the history of the time before; a signal
t = Terminal()
t.prompt()
t.recall()
os.kill(t.pid, signal.SIGTERM)
check("SIGTERM", t.end() == -signal.SIGTERM)

# ---- a file that is no history stays
with open(HISTORY, "w") as f:
    f.write("precious\n")
t = Terminal()
t.until("is no history of kvcli")
t.prompt()
t.type("exit\n")
check("exit", t.end() == 0)
check("a foreign file", open(HISTORY).read() == "precious\n")

# ---- no server: said at once, and the dialogue goes on
t = Terminal("-s", FOLDER + "/none")
t.until("no server at")
t.prompt()
t.say("get a", "no server at")
t.type("quit\n")
check("no server", t.end() == 0)
