#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device exists, moves data, counts, and frees everything.
# shellcheck disable=SC2154,SC3045
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

testcase "ibv_devinfo: the port is active"
expect 0 ibv_devinfo -d "${rdma_link%/*}" && shows 'PORT_ACTIVE'
[ "$(ulimit -l)" = unlimited ] || fail "locked memory is limited to $(ulimit -l) KiB"

testcase "ib_read_lat: 256 B -> a latency, and packets are counted"
mark_counters
latency=$(read_lat 256 500)
awk -v us="${latency:-0}" 'BEGIN { exit !(us > 0) }' ||
	fail "no latency"
echo "    typical: ${latency:-none} us"
if is_rxe; then
	[ "$(counted sent_pkts)" -ge 1000 ] || fail "$(counted sent_pkts) packets for 500 READs"
fi

for address in "$GUEST_ADDR" "${GUEST_ADDR6-}" "$GUEST_NAME"; do
	testcase "rping: ${address:-IPv6}"
	if [ -z "$address" ]; then
		skip "the device has no such address"
		continue
	fi
	background rping rping -s -a "$address" -p 18516 -C 20
	until_true 10 listens_at 18516 || fail "rping does not listen"
	expect 0 timeout 20 rping -c -a "$address" -p 18516 -C 20 -V || cat "$dir/rping.log"
	wait "$pid" || fail "rping -s: $(cat "$dir/rping.log")"
done

testcase "rdma resource: a listener shows, and is gone with its process"
background listener rping -s -a "$GUEST_ADDR" -p 18517
until_true 10 listens_at 18517 || fail "rping does not listen"
no_new_resources && fail "a listener is no resource"
stop "$pid"
resources_are_back
finish
