#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The network between two machines gets slow, lossy, interrupted, good again; then the other
# machine is switched off.
# shellcheck disable=SC2119,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
# shellcheck source=tests/guest/client.sh
. "$srcdir/tests/guest/client.sh"
port=17670
op_timeout=1500
# Over the deadline of an operation: a lane's drain, and a busy machine.
most_ms=$((op_timeout + 6000))

# soak SECONDS: sets operations, errors, wrong, longest, first: the first error.
soak() {
	ask soak "$1"
	# shellcheck disable=SC2086
	set -- $rest
	operations=${1:-0} errors=${2:-none} wrong=${3:-none} longest=${4:-0} first=${5:-none}
	echo "    $operations operations, $errors errors, $wrong wrong, longest $longest ms"
}

# soak_well SECONDS: soaks without an error, one unless the machine is busy.
soak_well() {
	all=0
	for _ in 1 2 3 4 5 6 7 8; do
		soak "$1"
		[ "$errors" = 0 ] || fail "errors: $(tail -n 3 "$dir/client.log")"
		[ "$wrong" = 0 ] || fail "$wrong values are wrong"
		all=$((all + operations))
		[ $all -le 20 ] || return
	done
	fail "only $all operations"
}

# bad_way OPTION...: of netem, for packets that leave this guest.
bad_way() {
	expect 0 tc qdisc replace dev "$GUEST_DEV" root netem "$@"
}

# is_typed WHAT ERROR: timed out, outcome unknown, or a lost connection.
is_typed() {
	case $2 in
	-1007 | -1008 | -110[0-5]) ;;
	*) fail "$1: error $2" ;;
	esac
}

# fails_in_time WORD...
fails_in_time() {
	ask "$@"
	is_typed "$*" "$err"
	[ "$ms" -le $most_ms ] || fail "$*: error $err only after $ms ms"
	echo "    $1: $err after $ms ms: $rest"
}

works() {
	ask get key
	[ "$err" = 0 ] && [ "$rest" = "$1" ]
}

# works_again SECONDS VALUE
works_again() {
	until_true "$1" works "$2" || fail "not again in $1 s: $err after $ms ms: $rest"
	succeeds put key "$2 more"
	soak_well 1
}

peer_dies() {
	succeeds put key value
	signal die
	soak 8
	[ "$wrong" = 0 ] || fail "$wrong values are wrong"
	[ "$errors" -gt 0 ] || fail "nobody has noticed"
	is_typed soak "$first"
	[ "$longest" -le $most_ms ] || fail "an operation took $longest ms"
	sed -n '1p; $p' "$dir/client.log" | sed 's/^/    /'
	fails_in_time get key
}

case ${GUEST_ROLE-} in
'')
	testcase "a bad way between two machines, and a dead peer"
	two_guests || fail "exit status $?"
	finish
	;;
a)
	serve two -q -m 64 --transport rdma --no-auth --listen ":$port" || exit 1
	signal serves
	await flap 90 || exit 1
	ip link set "$GUEST_DEV" down
	sleep 3
	ip link set "$GUEST_DEV" up
	signal flapped
	await die 90 || exit 1
	# The rig takes a guest that leaves its status for well.
	echo 0 >"$GUEST_OUT/status"
	busybox poweroff -f
	;;
b)
	await serves || fail "guest a does not serve"
	open_client "kv://$GUEST_PEER_ADDR:$port" $op_timeout
	testcase "a good way: no error, all values right"
	soak_well 3

	# At least one round trip for each: the locations are cached.
	testcase "5 ms of delay: no error, all values right, 5 ms for an operation"
	bad_way delay 5ms
	soak_well 3
	[ "$operations" -le 600 ] || fail "$operations operations in 3 s: too many"

	testcase "1% of loss: no error, all values right, some packets sent again"
	bad_way loss 1%
	mark_counters
	for _ in 1 2 3 4 5; do # a slow machine does so little that nothing may be lost
		soak_well 6
		[ "$(counted completer_retry_err)" -eq 0 ] || [ "$longest" -lt 60 ] || break
	done
	[ "$(counted completer_retry_err)" -gt 0 ] || fail "nothing was sent again"
	[ "$longest" -ge 60 ] || fail "no operation waited for --ack-timeout"
	expect 0 tc qdisc del dev "$GUEST_DEV" root

	testcase "all packets lost: typed errors in bounded time; then the handle works again"
	succeeds put key one
	: >"$dir/client.log"
	bad_way loss 100%
	fails_in_time get key
	fails_in_time put other value
	expect 0 tc qdisc del dev "$GUEST_DEV" root
	works_again 10 one

	testcase "link down: typed errors in bounded time; link up: the handle works again"
	succeeds put key two
	expect 0 ip link set "$GUEST_DEV" down
	fails_in_time get key
	fails_in_time put other value
	fails_in_time get key
	expect 0 ip link set "$GUEST_DEV" up
	works_again 10 two

	testcase "the peer's link goes down and up: the handle works again"
	succeeds put key three
	signal flap
	await flapped || fail "guest a says nothing"
	works_again 10 three

	testcase "the peer dies: its client learns it in bounded time"
	: >"$dir/client.log"
	peer_dies

	testcase "the peer is dead: another client learns it in bounded time"
	began=$(uptime_s)
	kvcli --version >"$dir/out"
	starts_in=$(uptime_s | awk -v began="$began" '{ print $1 - began }')
	began=$(uptime_s)
	kvcli -u "kv://$GUEST_PEER_ADDR:$port" -t 3000 get key >"$dir/out" 2>"$dir/err"
	status=$?
	case $status in
	69 | 75) ;;
	*) fail "exit status $status" ;;
	esac
	says "kv://$GUEST_PEER_ADDR:$port"
	took=$(uptime_s | awk -v began="$began" '{ print $1 - began }')
	echo "    after $took s; it starts in $starts_in s"
	awk -v took="$took" -v start="$starts_in" 'BEGIN { exit took > 6 + 10 * start }' ||
		fail "after $took s"
	close_client
	finish
	;;
esac
