#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device refuses: each call of libibverbs and librdmacm fails in turn (failing.h), of
# a client from its start to its end, and of a server while a client connects, works and
# leaves. A client succeeds, or gives the reason in one line; a server that
# cannot start logs it, one that has started serves the next client; both end as they
# should and free all objects of the device.
#
# Every $FAILING_STRIDE-th call (default: 4), beginning with one of the first at random.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

: "${FAILING_STRIDE:=4}"
client=$top_builddir/tests/lab/failing_kvcli
daemon=$top_builddir/tests/lab/failing_kvserver
[ -x "$client" ] && [ -x "$daemon" ] || skip_all "tests/lab/failing_* are not built"
FAILING_REPORT=$dir/report
FAILING_ONLY=verbs
export FAILING_REPORT FAILING_ONLY

first_call() {
	echo $((1 + $(date +%s) % FAILING_STRIDE))
}

# The call that failed in the last run; nothing if it ended before that call.
refused() {
	sed -n 's/^failed [0-9]* //p' "$dir/report" | head -n 1
}

# ended_well NAME STATUS: it ended by itself and kept no memory.
ended_well() {
	live=$(sed -n 's/^live //p' "$dir/report")
	[ "$live" = 0 ] || fail "$what: $1 died or kept ${live:-?} blocks; status $2: $(cat "$dir/err")"
}

# one_line NAME FILE: its whole output, after the time if there is one.
one_line() {
	[ "$(wc -l <"$2")" -eq 1 ] && grep -Eq "^([0-9TZ:.-]+ )?$1: " "$2" ||
		fail "$what: not one line: $(cat "$2")"
}

# client_run COMMAND...: its exit status is in $status.
client_run() {
	timeout -k 1 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
	status=$?
	case $status in
	0) [ ! -s "$dir/err" ] || one_line kvcli "$dir/err" ;;
	2 | 64 | 69 | 75 | 77) one_line kvcli "$dir/err" ;;
	*) fail "$what: kvcli: status $status: $(cat "$dir/err")" ;;
	esac
}

testcase "kvcli: each call of the device fails in turn"
serve main -m 64m --transport rdma --no-auth --listen :0
FARKV_URI=$(uri_of main kv)
export FARKV_URI
kvcli put there yes
n=$(first_call) tried=0 managed=0
while :; do
	what="put, call $n"
	rm -f "$dir/report"
	FAILING_AT=$n client_run "$client" -q put key "$n"
	which=$(refused)
	what="$what ($which)"
	ended_well kvcli $status
	[ -n "$which" ] || break
	value=$(kvcli get key 2>/dev/null)
	if [ $status -eq 0 ]; then
		managed=$((managed + 1))
		[ "$value" = "$n" ] || fail "$what: status 0, and the value is '$value'"
	elif [ -n "$value" ]; then
		[ "$value" -le "$n" ] || fail "$what: the value is '$value'"
	fi
	n=$((n + FAILING_STRIDE)) tried=$((tried + 1))
	[ $n -lt 500 ] || break
done
[ "$status" -eq 0 ] || fail "$what: status $status though nothing failed: $(cat "$dir/err")"
[ $tried -ge $((20 / FAILING_STRIDE)) ] || fail "only $tried calls failed"
echo "    $tried calls failed in turn; $managed did not matter"
expect 0 kvcli get there && prints 'yes\n'
expect 0 kvcli fsck
stop "$server" || fail "kvserver: exit status $?"
resources_are_back

testcase "kvserver: each call of the device fails in turn"
# serves: it has started, with that call to fail. Otherwise it ends before its pipe is read.
serves() {
	rm -f "$dir/report" "$dir/ready"
	mkfifo "$dir/ready"
	FAILING_AT=$n "$daemon" -q --ready-fd 3 -m 16m --transport rdma --no-auth \
		--listen :0 3>"$dir/ready" >"$dir/main.log" 2>&1 &
	server=$!
	servers="$servers $server"
	ready=
	read -r ready <"$dir/ready"
	[ "$ready" = READY ]
}
# A get prints the value, or its status is 1: there is none.
answered() {
	value=$(kvcli get key 2>"$dir/get.err")
	[ $? -le 1 ]
}
n=$(first_call) tried=0 managed=0
while :; do
	what="kvserver, call $n"
	if serves; then
		FARKV_URI=$(uri_of main kv)
		client_run "$KVCLI" -q --timeout-ms 3000 put key "$n"
		said=$status
		# The one whose connection failed was one.
		until_true 10 answered || fail "$what: it takes nobody any more: $(cat "$dir/get.err")"
		[ $said -ne 0 ] || [ "$value" = "$n" ] ||
			fail "$what: stored, and the value is '$value'"
		stop "$server"
		status=$?
		[ $status -eq 0 ] || fail "$what: ended with status $status: $(cat "$dir/main.log")"
	else
		wait "$server"
		status=$?
		[ $status -ne 0 ] && [ $status -lt 124 ] || fail "$what: no start, status $status"
		one_line kvserver "$dir/main.log"
	fi
	cp "$dir/main.log" "$dir/err"
	which=$(refused)
	what="$what ($which)"
	ended_well kvserver $status
	[ -n "$which" ] || break
	[ $status -ne 0 ] || managed=$((managed + 1))
	n=$((n + FAILING_STRIDE)) tried=$((tried + 1))
	[ $n -lt 500 ] || break
done
[ "$status" -eq 0 ] || fail "$what: status $status though nothing failed"
[ $tried -ge $((20 / FAILING_STRIDE)) ] || fail "only $tried calls failed"
echo "    $tried calls failed in turn; $managed servers went on"
resources_are_back
no_kernel_complaint
finish
