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

finish
