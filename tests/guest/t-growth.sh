#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The index grows and is compacted by the server's compare-and-swaps over its own
# device, while clients go on; stop; lose their connection; lose the device.
# shellcheck disable=SC2154,SC2317
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

unset FARKV_URI FARKV_KEYS
GROW=$(unwrap "$top_builddir/tests/guest/rdma_grow")
slots=4096 # of a subtable
if [ "${FARKV_LAB-}" = large ]; then
	records=100000 enough_splits=30 fresh_keys=20000
else
	records=50000 enough_splits=15 fresh_keys=12000
fi
device=${rdma_link%/*}

in_guest() { [ -e /run/guest/job ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
link_up() {
	ip link set "$GUEST_DEV" up
	# Going down took it away.
	ip address replace "$GUEST_ADDR6/64" dev "$GUEST_DEV" nodad
	until_true 5 port_is ACTIVE || fail "the port stays down"
}
port_is() { rdma link show "$rdma_link" 2>/dev/null | grep -q "state $1 "; }

# stat NAME: of the server at $uri.
stat() {
	"$KVCLI" -t 60000 -u "$uri" -j stats | tr -s '{,}' '\n' | sed -n "s/^ *\"$1\": *//p"
}
splits_are() { [ "$(stat splits)" -ge "$1" ]; }
splits_or_gone() { splits_are "$1" || gone "$2"; }

# migrations NAME KIND: how long they took, by the log of that server.
migrations() {
	sed -n "s/.*was $2 in \\([0-9]*\\) us.*/\\1/p" "$dir/$1.log" | sort -n |
		awk -v kind="$2" '{ us[NR] = $1 } END {
			if (NR) printf "    %d %s, median %.1f ms, longest %.1f ms\n",
				NR, kind, us[int((NR + 1) / 2)] / 1000, us[NR] / 1000 }'
}

# ends_well NAME STATUS: a rdma_grow, whose process is $pid.
ends_well() {
	until_true 150 gone "$pid" || {
		fail "$1 does not end: $(tail -n 5 "$dir/$1.log")"
		kill -KILL "$pid"
	}
	wait "$pid"
	status=$?
	sed -n '/^\(writer\|reader\) /s/^/    /p' "$dir/$1.log"
	[ $status -eq 0 ] || fail "$1 ended with status $status: $(grep -v '^\(writer\|reader\) ' "$dir/$1.log" | tail -n 5)"
}

store_is_sound() {
	expect 0 kvcli -t 600000 -u "$uri" fsck || fail "$(cat "$dir/out")"
}

# ---- growth

testcase "kvbench load of $records records into the smallest index, a checked writer and reader beside it"
serve main -v -m 256 --no-auth --transport rdma || exit 1
uri=$(uri_of main kv)
! is_rxe || mark_counters
background beside "$GROW" -n 20000 "$uri"
expect 0 kvbench load farkv -u "$uri" -p recordcount=$records -p fieldcount=1 -p fieldlength=40 -p threadcount=1 \
	-p farkv.op_timeout_ms=60000 -p farkv.connect_timeout_ms=60000
sed -n 's/^\[INSERT\], \(AverageLatency\|99thPercentileLatency\|MaxLatency\|Return\)/    insert \1/p' "$dir/out"
! grep 'Return=' "$dir/out" | grep -v 'Return=OK' || fail "errors"
ends_well beside
[ "$(stat items)" -eq $((records + 20000)) ] || fail "$(stat items) items"
splits=$(stat splits)
[ "$splits" -ge $enough_splits ] || fail "$splits splits"
store_is_sound

testcase "each slot of each migration was changed by a compare-and-swap of the server's card"
migrations main split
migrations main compacted
[ "$(grep -c 'a subtable of .* was' "$dir/main.log")" -eq $(($(stat splits) + $(stat compactions))) ] || fail "the log does not name all"
want=$((($(stat splits) + $(stat compactions)) * slots))
# A request and an answer each: at least as many at its port.
! is_rxe || [ "$(counted sent_pkts)" -ge $((2 * want)) ] || fail "the device counts fewer packets"
stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/main.log")"
did=$(sed -n 's/.*loopback connection did \([0-9]*\) compare.*/\1/p' "$dir/main.log")
echo "    $did compare-and-swaps for $want slots"
{ [ "$did" -ge "$want" ] && [ "$did" -le $((want + want / 20)) ]; } || fail "$did compare-and-swaps for $want slots"
resources_are_back

testcase "fresh keys put and deleted in turn -> the index is compacted and stays small"
serve churn -v -m 64 --no-auth --transport rdma || exit 1
uri=$(uri_of churn kv)
background churner "$GROW" -n $fresh_keys -l 500 "$uri"
ends_well churner
migrations churn compacted
[ "$(stat items)" -eq 500 ] || fail "$(stat items) items"
[ "$(stat compactions)" -ge 2 ] || fail "$(stat compactions) compactions"
[ "$(stat subtables)" -le 2 ] || fail "$(stat subtables) subtables"
store_is_sound
stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/churn.log")"

# ---- clients that stand still

testcase "a client is stopped while the index grows -> nothing wrong, nothing lost, no stall for others"
serve still -v -m 128 --no-auth --transport rdma || exit 1
uri=$(uri_of still kv)
background stopped "$GROW" -k s -n 15000 -T 3000 -e "$uri"
stopped=$pid
until_true 30 splits_are 1 || fail "no split"
background others "$GROW" -n 15000 "$uri"
others=$pid
for _ in 1 2 3; do
	before=$(stat splits)
	gone "$others" && break
	kill -STOP "$stopped" 2>/dev/null || break
	until_true 20 splits_or_gone $((before + 1)) "$others" || fail "no split while it is stopped"
	kill -CONT "$stopped"
	sleep 0.3
done
pid=$others
ends_well others
pid=$stopped
ends_well stopped
[ "$(stat items)" -eq 30000 ] || fail "$(stat items) items"
store_is_sound
stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/still.log")"

# ---- the server's own lane

# Its queue pair counts packets from 0: one for each compare-and-swap.
own_packets() {
	rdma resource show qp | awk -v pid="$server" '/ rq-psn 0 / && $0 ~ " pid " pid " " {
		for (i = 1; i < NF; i++)
			if ($i == "sq-psn" && $(i + 1) > most) most = $(i + 1) }
		END { print most + 0 }'
}

# Stops the server in the middle of a split or compaction. A few slots may have
# taken two.
stop_half_way() {
	kill -STOP "$server"
	done=$(($(own_packets) % slots))
	[ $done -ge 100 ] && [ $done -le $((slots - 100)) ] && return
	kill -CONT "$server"
	return 1
}

testcase "the link is down in the middle of a split -> the server's lane breaks and is reconnected"
if ! in_guest; then
	skip "only in a guest"
else
	serve flap -v -m 128 --no-auth --transport rdma || exit 1
	uri=$(uri_of flap kv)
	background flapping "$GROW" -n 30000 -T 5000 -e "$uri"
	flapping=$pid
	until stop_half_way || gone "$flapping"; do
		sleep 0.02
	done
	# This may not be their fault: rxe's connection manager may not survive it.
	kill -STOP "$flapping" || fail "no split lasted long enough"
	ip link set "$GUEST_DEV" down
	kill -CONT "$server"
	until_true 10 grep -q 'loopback connection broke' "$dir/flap.log" || fail "it does not break"
	sleep 1
	link_up
	until_true 10 grep -q 'loopback connection works again' "$dir/flap.log" || fail "$(grep loopback "$dir/flap.log")"
	kill -CONT "$flapping"
	ends_well flapping
	migrations flap split
	sed -n '/itself/s/^/    /p' "$dir/flap.log"
	[ "$(stat splits)" -ge 5 ] || fail "$(stat splits) splits"
	[ "$(stat items)" -eq 30000 ] || fail "$(stat items) items"
	store_is_sound
	stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/flap.log")"
	resources_are_back
fi

testcase "the device is removed while the index grows -> the server leaves and says so in one line"
if ! in_guest || ! is_rxe; then
	skip "only rxe's devices can be removed and made again"
else
	serve bereft -m 128 --no-auth --transport rdma || exit 1
	uri=$(uri_of bereft kv)
	# On a machine that is starved of CPU an operation may take too long, and end it.
	for name in k l m; do
		background "$name" "$GROW" -k "$name" -n 1000000 -T 2000 "$uri"
		grower=$pid grower_log=$dir/$name.log
		until_true 30 splits_or_gone 3 "$grower"
		gone "$grower" || break
	done
	splits_are 3 || fail "no splits"
	background remover rdma link delete "$device"
	remover=$pid
	until_true 15 gone "$server" || fail "kvserver stays: $(cat "$dir/bereft.log")"
	wait "$server"
	[ $? -eq 1 ] || fail "kvserver ended with another status than 1"
	grep -q 'error: .*device was removed.*leaving' "$dir/bereft.log" || fail "its last words: $(cat "$dir/bereft.log")"
	grep -E 'warning|error' "$dir/bereft.log" | grep -v 'device was removed\|ended without goodbye' >"$dir/more" &&
		fail "and more: $(head -n 5 "$dir/more")"
	until_true 15 gone "$grower" || fail "the clients hang"
	grep -q 'put .*-110\|get .*-110\|put .*-100\|get .*-100' "$grower_log" || fail "clients: $(tail -n 3 "$grower_log")"
	until_true 15 gone "$remover" || fail "rdma link delete hangs"
	rdma link add "$device" type rxe netdev "$GUEST_DEV"
	until_true 5 port_is ACTIVE || fail "the device does not come back"
fi
no_kernel_complaint
finish
