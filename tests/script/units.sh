#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The systemd units: no mistakes in them, and how much a service may do.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs systemd-analyze

for unit in kvserver kvserver-rdma; do
	file=$dir/$unit.service
	grep -q '^ExecStart=/usr/local/bin/kvserver ' "$srcdir/contrib/$unit.service" || fail "$unit: ExecStart"
	sed "s,/usr/local/bin/kvserver,$(realpath "$KVSERVER")," "$srcdir/contrib/$unit.service" >"$file"
	expect 0 systemd-analyze --man=no verify "$file" && silent
	# Of 100; 20 is shown as 2.0.
	expect 0 systemd-analyze security --offline=true --threshold=20 "$file"
done

# READY=1 when it serves, STOPPING=1 when it leaves.
if command -v python3 >/dev/null && ! remote; then
	expect 0 timeout 60 python3 - "$KVSERVER" "$dir" <<'PY'
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
fi
finish
