#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The systemd units: no mistakes in them, and how much a service may do.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs systemd-analyze

# Verified together with its service.
socket=$dir/kvserver.socket
cp "$srcdir/contrib/kvserver.socket" "$socket"

for unit in kvserver kvserver-rdma; do
	file=$dir/$unit.service
	grep -q '^ExecStart=/usr/local/bin/kvserver ' "$srcdir/contrib/$unit.service" || fail "$unit: ExecStart"
	sed "s,/usr/local/bin/kvserver,$(realpath "$KVSERVER")," "$srcdir/contrib/$unit.service" >"$file"
	expect 0 systemd-analyze --man=no verify "$file" "$socket" && silent
	# Of 100; 20 is shown as 2.0.
	expect 0 systemd-analyze security --offline=true --threshold=20 "$file"
done

# systemd's own program for socket units: the first client starts the server, and is served.
listens=$(sed -n 's/^ListenSequentialPacket=//p' "$socket")
name=$(sed -n 's/^FileDescriptorName=//p' "$socket")
grep -qx "socket = $listens" "$srcdir/contrib/kvserver.conf" || fail "kvserver.conf: not at $listens"
grep -q '^RuntimeDirectory=farkv$' "$srcdir/contrib/kvserver.service" &&
	fail "kvserver.service: the socket ends with its folder"
if ! remote; then
	systemd-socket-activate --seqpacket --fdname="$name" --listen="$dir/passed" \
		--setenv="LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}" \
		"$KVSERVER" -q -m 8m >"$dir/passed.log" 2>&1 &
	servers="$servers $!"
	until [ -S "$dir/passed" ]; do kill -0 $! || break; sleep 0.1; done
	expect 0 kvcli -s "$dir/passed" put a 1
	expect 0 kvcli -s "$dir/passed" get a
	kill $!
	wait $!
	[ -S "$dir/passed" ] || fail "the socket is gone"
fi
finish
