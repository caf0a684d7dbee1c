#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of operations: round trips and verbs by the handle's counters, packets by
# the device's, no time of the server's CPU; and torn READs.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

COUNT=$(unwrap "$top_builddir/tests/guest/rdma_count")
IDLE=$(unwrap "$top_builddir/tests/guest/rdma_idle")
LOAD=$(unwrap "$top_builddir/tests/guest/rdma_load")

# An index that is large from the start: growth is measured elsewhere (t-growth). Of a
# slow machine's operations none shall look again whether it was too slow.
serve main -m 128 --index-slots 1000000 --no-auth --transport rdma --grace-ms 60000 || exit 1
uri=$(uri_of main kv)

testcase "round trips, verbs and packets of every operation, and on remembered keys -> the budgets"
if is_rxe; then
	expect 0 "$COUNT" "${rdma_link%/*}" "$uri"
	sed 's/^/    /' "$dir/out"
else
	skip "the device counts no packets as rdma_rxe does"
fi
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/main.log")"

testcase "100,000 operations after warm-up -> no CPU time of kvserver"
serve idle -m 128 --index-slots 1000000 --no-auth --transport rdma || exit 1
expect 0 "$IDLE" "$server" "$(uri_of idle kv)"
sed 's/^/    /' "$dir/out"
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/idle.log")"

# With a short grace period blocks are used again while a READ is in flight.
testcase "two writers over one value of 4 KiB -> READs tear, nobody gets a wrong value"
serve torn -m 64 --no-auth --transport rdma --grace-ms 1 || exit 1
expect 0 "$LOAD" -H -t 4 -n 2000 -v 4096 -T 20000 -B 20000 "$(uri_of torn kv)"
sed '/ ok$/d; s/^/    /' "$dir/out"
retries=$(sed -n 's/^done: .*retries //p' "$dir/out")
[ "${retries:-0}" -gt 0 ] || fail "no READ had to be repeated"
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/torn.log")"
resources_are_back
finish
