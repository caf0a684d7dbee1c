#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device fails, or is less than it should be.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
. "$srcdir/tests/guest/load.sh"

unset FARKV_URI FARKV_KEYS

testcase "64 clients on 16 receive buffers -> all work, and nobody is told to wait"
serve many -m 256 --no-auth --transport rdma --control-buffers 16 || exit 1
uri=$(uri_of many kv)
mark_counters
expect 0 "$LOAD" -t 64 -n 40 -v 2000 -T 30000 -B 30000 "$uri"
[ "$(grep -c ' ok$' "$dir/out")" -eq 64 ] || fail "not all clients: $(tail -n 5 "$dir/out")"
! grep FARKV_ "$dir/out" || fail "errors"
sed -n 's/^done: /    /p' "$dir/out"
if is_rxe; then
	for rnr in rcvd_rnr_err send_rnr_err retry_rnr_exceeded_err; do
		[ "$(counted $rnr)" -eq 0 ] || fail "$rnr: $(counted $rnr)"
	done
fi
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/many.log")"
resources_are_back
finish
