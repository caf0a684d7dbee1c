#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Silent clients: one whose machine is gone is noticed, one that is only
# stopped is left alone.
# shellcheck disable=SC2119,SC2154,SC2317
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
# shellcheck source=tests/guest/client.sh
. "$srcdir/tests/guest/client.sh"
port=17670
# A guest that its host does not run for half a second is not dead: 0.5 s for each of
# the server's retries. 10 s of silence, 2 until the server tests it, 4 for the retries:
# then it is noticed. A busy machine has more time.
ack_timeout=17 stopped_s=18 noticed_s=40

# Of the idle client; kvcli runs beside the server.
client_cut() { grep -q "$GUEST_PEER_ADDR.* ended without goodbye\|$GUEST_PEER_ADDR.*cut off" "$dir/two.log"; }
own_only() { [ "$(rdma resource show qp | grep -c " pid $server ")" -le 2 ]; }
sessions_are() { kvcli -u "kv://$GUEST_ADDR:$port" -j stats 2>/dev/null | grep -Eq "\"sessions\": ?$1\\b"; }

case ${GUEST_ROLE-} in
'')
	testcase "silent clients, on a machine that lives and on one that died"
	two_guests || fail "exit status $?"
	finish
	;;
a)
	serve two -m 64 --transport rdma --no-auth --ack-timeout $ack_timeout --listen ":$port" || exit 1
	signal serves
	await idle || fail "guest b has no client"

	testcase "a client is stopped for $stopped_s s -> its session goes on, and the client too"
	sleep $stopped_s
	until_true 5 sessions_are 2 || fail "not its session and kvcli's: $(cat "$dir/two.log")"
	! client_cut || fail "cut: $(cat "$dir/two.log")"
	signal go-on
	await went-on || fail "the client did not go on"

	testcase "the machine of an idle client is switched off -> its session ends in $noticed_s s"
	# Nor was it cut meanwhile and came back.
	until_true 5 sessions_are 2 || fail "not its session and kvcli's: $(cat "$dir/two.log")"
	! client_cut || fail "cut before: $(cat "$dir/two.log")"
	signal die
	began=$(uptime_s)
	until_true $noticed_s client_cut || fail "nobody noticed: $(cat "$dir/two.log")"
	took=$(uptime_s | awk -v began="$began" '{ print $1 - began }')
	echo "    after $took s"
	awk -v took="$took" -v limit="$noticed_s" 'BEGIN { exit !(took < limit) }' ||
		fail "after $took s"
	until_true 5 sessions_are 1 || fail "sessions are left: $(cat "$dir/two.log")"
	until_true 5 own_only ||
		fail "queue pairs are left: $(rdma resource show qp)"
	stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/two.log")"
	finish
	;;
b)
	await serves || exit 1
	open_client "kv://$GUEST_PEER_ADDR:$port" 2000
	succeeds put key value
	kill -STOP "$client_pid"
	signal idle
	await go-on || exit 1
	kill -CONT "$client_pid"
	testcase "the client that was stopped goes on"
	succeeds get key
	[ "$rest" = value ] || fail "$rest"
	end_case
	signal went-on
	await die || exit 1
	# The rig takes a guest that leaves its status for well.
	echo "$failed_cases" >"$GUEST_OUT/status"
	busybox poweroff -f
	;;
esac
