#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A service manager is told READY=1 when kvserver serves, STOPPING=1 when it leaves.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
remote && skip "by RDMA nothing is different"

expect 0 timeout 60 python3 - "$KVSERVER" "$dir" <<'PY' || cat "$dir/err"
import os, signal, socket, subprocess, sys
server, folder = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(folder + "/notify")
p = subprocess.Popen([server, "-q", "-m", "8", "-s", folder + "/told"], stdout=subprocess.DEVNULL,
                     env=dict(os.environ, NOTIFY_SOCKET=folder + "/notify"))
assert s.recv(100) == b"READY=1"
assert os.path.exists(folder + "/told")
p.send_signal(signal.SIGTERM)
assert s.recv(100) == b"STOPPING=1"
assert p.wait() == 0
PY
finish
