# SPDX-License-Identifier: BSD-3-Clause
"""A kvserver for each test that asks for one: $KVSERVER, over shared memory or, with
FARKV_TEST_TRANSPORT=rdma, by RDMA."""
import os
import re
import signal
import subprocess

import pytest

import farkv

REMOTE = os.environ.get("FARKV_TEST_TRANSPORT") == "rdma"


def pytest_configure(config):
    config.addinivalue_line("markers", "rdma: is run by RDMA, too")


def pytest_collection_modifyitems(items):
    """Most of the package knows no transport, and an emulated machine is slow."""
    if REMOTE:
        items[:] = [item for item in items if item.get_closest_marker("rdma")]


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.listen = ":0"
        self.uri = None
        self.process = None
        self.start()

    def start(self):
        where = ["--transport", "rdma", "--no-auth", "--listen", self.listen] if REMOTE else \
            ["-s", str(self.folder / "s")]
        ready_r, ready_w = os.pipe()
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen(
                [os.environ["KVSERVER"], "-q", "-m", "128m", "--ready-fd", str(ready_w)] + where,
                pass_fds=[ready_w], stdout=log, stderr=log)
        os.close(ready_w)
        with os.fdopen(ready_r) as ready:
            assert ready.readline() == "READY\n", (self.folder / "log").read_text()
        if REMOTE:
            self.uri = re.search(r"kv://[^ ,;)]*", (self.folder / "log").read_text())[0]
            self.listen = ":" + self.uri.rsplit(":", 1)[1]
        else:
            self.uri = "shm://%s" % (self.folder / "s")

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(sig)
        self.process.wait()


@pytest.fixture
def server(tmp_path):
    s = Server(tmp_path)
    yield s
    s.kill(signal.SIGTERM)


@pytest.fixture
def store(server):
    with farkv.Store(server.uri) as s:
        yield s
