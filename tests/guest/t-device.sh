#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device fails, is taken away, or is less than it should be.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
# shellcheck source=tests/guest/load.sh
. "$srcdir/tests/guest/load.sh"

unset FARKV_URI FARKV_KEYS
device=${rdma_link%/*}

in_guest() { [ -e /run/guest/job ]; }
port_is() { rdma link show "$rdma_link" 2>/dev/null | grep -q "state $1 "; }
link_up() {
	ip link set "$GUEST_DEV" up
	# Going down took it away.
	ip address replace "$GUEST_ADDR6/64" dev "$GUEST_DEV" nodad
	until_true 5 port_is ACTIVE || fail "the port stays down"
}
is_over() { ! kill -0 "$1" 2>/dev/null; }
sessions_are() { kvcli -u "$uri" -j stats 2>/dev/null | grep -Eq "\"sessions\": ?$1\\b"; }

# ---- few receive buffers

testcase "64 clients on 16 receive buffers -> all work, and nobody is told to wait"
serve many -m 256 --no-auth --transport rdma --control-buffers 16 || exit 1
uri=$(uri_of many kv)
# On a busy machine the thread that empties them may not get a CPU in time.
for try in 1 2 3 4 5 6 7 8; do
	mark_counters
	expect 0 "$LOAD" -t 64 -n 20 -v 2000 -T 30000 -B 30000 "$uri"
	[ "$(grep -c ' ok$' "$dir/out")" -eq 64 ] || fail "not all clients: $(tail -n 5 "$dir/out")"
	! grep FARKV_ "$dir/out" || fail "errors"
	sed -n 's/^done: /    /p' "$dir/out"
	waits=0
	! is_rxe || waits=$(counted send_rnr_err)
	[ "$waits" -gt 0 ] || break
	echo "    $waits times somebody had to wait"
done
[ "$waits" -eq 0 ] || fail "RNR in each of $try rounds"
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/many.log")"
resources_are_back

# ---- locked memory

testcase "little memory to lock -> one line with the limit; auto serves without RDMA"
if ! in_guest || ! be_nobody "$KVCLI" "$KVSERVER"; then
	skip "only in a guest, with setpriv"
else
	chown 65534:65534 "$theirs"
	printf '#!/bin/sh\nulimit -l 16384\nexec %s %s "$@"\n' "$nobody" "$theirs/kvserver" >"$dir/limited"
	chmod 755 "$dir/limited"
	expect 1 "$dir/limited" -s "$theirs/s" -m 64 --no-auth -t rdma &&
		grep -Eq 'cannot register .* of memory .*limit of locked memory is 16.0 MiB; raise it .ulimit -l unlimited, LimitMEMLOCK=infinity' "$dir/err" ||
		fail "$(cat "$dir/err")"
	own=$KVSERVER
	KVSERVER=$dir/limited
	if serve theirs/s -m 64 --no-auth; then
		grep -q 'warning: no RDMA: cannot register .*limit of locked memory' "$dir/theirs/s.log" ||
			fail "it does not say why: $(cat "$dir/theirs/s.log")"
		expect 0 kvcli -u "$(uri_of theirs/s shm)" put key value
		[ -z "$(uri_of theirs/s kv)" ] || fail "it speaks of kv://"
		stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/theirs/s.log")"
	fi
	KVSERVER=$own
	serve main -m 64 --no-auth -t rdma || exit 1
	expect 2 sh -c 'ulimit -l 64 && exec "$@"' sh "$nobody" "$theirs/kvcli" -u "$(uri_of main kv)" ping &&
		says 'limit of locked memory is 64.0 KiB'
	stop "$server"
fi

# ---- the link

testcase "a port that is down -> --transport rdma says so; auto takes the socket and says why"
if ! in_guest; then
	skip "only in a guest"
else
	ip link set "$GUEST_DEV" down
	until_true 5 port_is DOWN || fail "the port stays up"
	expect 1 "$KVSERVER" -s "$dir/none" -m 64 --no-auth -t rdma && says "$device.*down.*ip link set $GUEST_DEV up"
	if serve auto -m 64 --no-auth -v; then
		grep -Eq "transport: shared memory, for clients of this host: .*$device.*down" "$dir/auto.log" ||
			fail "$(cat "$dir/auto.log")"
		expect 0 kvcli -u "$(uri_of auto shm)" put key value
		stop "$server"
	fi
	expect 69 kvcli -u "kv://$GUEST_ADDR" -t 2000 ping && says "down.*ip link set $GUEST_DEV up"
	link_up
fi

testcase "ip link set down for a moment under load -> nobody notices"
if ! in_guest; then
	skip "only in a guest"
else
	serve main -m 64 --no-auth -t rdma || exit 1
	uri=$(uri_of main kv)
	load blip -t 3 -p 2 -T 10000 -B 20000 "$uri"
	ip link set "$GUEST_DEV" down
	link_up
	until_true 20 load_did $(($(load_ops) + 300)) || fail "they stand still: $(cat "$dir/blip.log")"
	all_say ok || fail "errors: $(cat "$dir/blip.log")"
	show_errors blip
	load_ends
	stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/main.log")"
fi

# A message of the connection manager that is sent while the link goes down brings rxe's
# queue pair 1 to ERR, and the kernel (6.1) repairs only the half that sends: nobody can
# connect any more, and the device sends without receiving. Then the device is made again.
deaf() {
	is_rxe || return
	mark_counters
	sleep 3
	[ "$(counted sent_pkts)" -gt 0 ] && [ "$(counted rcvd_pkts)" -eq 0 ]
}

# come_back: all clients work again; fails if they cannot.
come_back() {
	for _ in 1 2 3 4; do
		until_true 4 all_say ok && return
		deaf && return 1
	done
	fail "they do not come back: $(tail -n 20 "$dir/down.log")"
}

make_device() {
	rdma link add "$device" type rxe netdev "$GUEST_DEV"
	until_true 5 port_is ACTIVE || fail "the device does not come back"
}

# link_down_under_load: fails if the device is deaf then.
link_down_under_load() {
	serve link -m 64 --no-auth -t rdma || exit 1
	uri=$(uri_of link kv)
	load down -t 3 -p 2 -T 2000 -B 10000 "$uri"
	ip link set "$GUEST_DEV" down
	until_true 10 all_say FARKV_ || fail "no errors: $(tail -n 20 "$dir/down.log")"
	link_up
	come_back || return
	until_true 20 load_did $(($(load_ops) + 300)) || fail "they stand still: $(tail -n 20 "$dir/down.log")"
	until_true 10 sessions_are 4 || fail "not 3 sessions and one: $(kvcli -u "$uri" -j stats)"
	show_errors down
	! grep '^T' "$dir/down.log" | grep -v 'FARKV_ELINKDOWN\|FARKV_ETIMEDOUT\|FARKV_EMAYBE\|FARKV_EDISCONNECTED\| ok$' ||
		fail "other errors"
	load_ends
	grep -q 'the port is down' "$dir/link.log" || fail "the server's log: $(cat "$dir/link.log")"
	stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/link.log")"
	resources_are_back
}

testcase "ip link set down under load -> errors in bounded time; up, and they go on"
if ! in_guest; then
	skip "only in a guest"
else
	skip "rxe is deaf after each of 5 times that the link was down"
	for _ in 1 2 3 4 5; do
		link_down_under_load && skipped_for= && break
		echo "    rxe is deaf; once more with another device"
		stop "$load" KILL
		stop "$server" KILL
		rdma link delete "$device"
		make_device
	done
fi

# ---- the device

testcase "rdma link delete under load -> server and clients say so and end"
if ! in_guest; then
	skip "only in a guest"
else
	serve main -m 64 --no-auth -t rdma || exit 1
	uri=$(uri_of main kv)
	load gone -t 3 -p 1 -T 2000 -B 10000 "$uri"
	background delete rdma link delete "$device"
	until_true 15 is_over "$server" || fail "kvserver does not end: $(cat "$dir/main.log")"
	wait "$server"
	[ $? -eq 1 ] || fail "kvserver ended with another status than 1"
	grep -q 'error: .*device was removed.*leaving' "$dir/main.log" || fail "its last words: $(cat "$dir/main.log")"
	until_true 15 all_say FARKV_ || fail "clients do not notice: $(cat "$dir/gone.log")"
	show_errors gone
	load_ends
	until_true 15 is_over "$pid" || fail "rdma link delete hangs"
	make_device
	serve again -m 64 --no-auth -t rdma || exit 1
	expect 0 kvcli -u "$(uri_of again kv)" ping
	stop "$server"
	resources_are_back
fi
no_kernel_complaint
finish
