#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers and clients that fail: each failure is an error of its own, in bounded time,
# and the others go on.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
. "$srcdir/tests/guest/load.sh"

unset FARKV_URI FARKV_KEYS

# seconds_of COMMAND...: sets $took.
seconds_of() {
	start=$(uptime_s)
	"$@"
	took=$(uptime_s | awk -v start="$start" '{ printf "%.1f", $1 - start }')
}

# within SECONDS STATUS COMMAND...: as expect, and within that time, or a multiple of it
# on a busy machine.
within() {
	limit=$1
	shift
	seconds_of kvcli --version >/dev/null
	limit=$(echo "$limit $took" | awk '{ print $1 + 10 * $2 }')
	seconds_of expect "$@"
	awk -v took="$took" -v limit="$limit" 'BEGIN { exit !(took <= limit) }' ||
		fail "took $took s, more than $limit: $*"
}

# ---- nobody there

testcase "no listener -> 69, and what to start"
within 5 69 kvcli -u "kv://$GUEST_ADDR:7999" ping &&
	says "no server listens at kv://$GUEST_ADDR:7999: is kvserver running with --transport"

testcase "no route, no neighbour, unknown host, loopback -> an error of its own"
within 5 69 kvcli -u "kv://10.98.0.7" ping && says 'no RDMA way to kv://10.98.0.7:7670 .*kvcli devices'
within 5 69 kvcli -u "kv://10.99.0.77" ping && says 'no RDMA way to kv://10.99.0.77:7670'
within 5 69 kvcli -u "kv://no-such-host.invalid" ping && says "unknown host 'no-such-host.invalid'"
within 5 69 kvcli -u "kv://127.0.0.1" ping && says 'kv://127.0.0.1:7670'

testcase "all sessions taken -> refused, and the option is named; later there is room"
serve few -m 64 --no-auth --transport rdma --max-sessions 1 || exit 1
uri=$(uri_of few kv)
load one -p 5 "$uri"
within 5 2 kvcli -u "$uri" ping && says 'max-sessions'
stop "$load"
expect 0 kvcli -u "$uri" ping
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/few.log")"

# ---- the server fails

testcase "kill -9 of a server that has not answered a client yet -> 69, and it is no stranger"
serve hung -m 64 --no-auth --transport rdma || exit 1
kill -STOP "$server"
# The server's kernel has heard of one.
asked() { rdma resource show cm_id | grep " state CONNECT " | grep -q " pid $server "; }
background caller "$KVCLI" -t 60000 -u "$(uri_of hung kv)" ping
until_true 10 asked || fail "no connection: $(rdma resource show cm_id)"
stop "$server" KILL
wait "$pid"
status=$?
[ $status -eq 69 ] || fail "exit status $status"
grep -q 'ended before it answered' "$dir/caller.log" || fail "$(cat "$dir/caller.log")"

testcase "kill -9 of an idle server -> its clients say so; a new server, and they go on"
serve main -m 64 --no-auth --transport rdma || exit 1
uri=$(uri_of main kv)
load idle -t 2 -p 300 -T 2000 -B 10000 "$uri"
stop "$server" KILL
until_true 8 all_say FARKV_ || fail "nobody noticed: $(cat "$dir/idle.log")"
grep -q 'FARKV_EDISCONNECTED' "$dir/idle.log" || fail "$(cat "$dir/idle.log")"
serve main -m 64 --no-auth --transport rdma
until_true 15 all_say ok || fail "they do not come back: $(cat "$dir/idle.log")"
load_ends

testcase "kill -9 in the middle of operations -> errors in bounded time, then fresh sessions, nothing stale"
load busy -t 4 -T 2000 -B 10000 "$uri"
for round in 1 2 3; do
	stop "$server" KILL
	until_true 10 all_say FARKV_ || fail "round $round: $(cat "$dir/busy.log")"
	serve main -m 64 --no-auth --transport rdma
	until_true 15 all_say ok || fail "round $round, they do not come back: $(cat "$dir/busy.log")"
done
load_ends
show_errors busy

testcase "SIGTERM and a new server -> the same"
load leave -t 4 -T 2000 -B 10000 "$uri"
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/main.log")"
until_true 10 all_say FARKV_ || fail "$(cat "$dir/leave.log")"
serve main -m 64 --no-auth --transport rdma
until_true 15 all_say ok || fail "they do not come back: $(cat "$dir/leave.log")"
load_ends
show_errors leave

testcase "SIGSTOP of the server -> get, overwrite and delete go on; ping times out"
load stopped -t 2 -p 3 -T 20000 -B 30000 "$uri"
background ping "$KVCLI" -u "$uri" -t 2000 ping -c 100
ping=$pid
until_true 10 grep -q . "$dir/ping.log" || fail "no ping: $(cat "$dir/ping.log")"
until_true 20 load_did 400 || fail "too slow: $(cat "$dir/stopped.log")"
kill -STOP "$server"
before=$(load_ops)
wait "$ping"
status=$?
[ $status -eq 75 ] || fail "ping ended with $status: $(cat "$dir/ping.log")"
tail -n 1 "$dir/ping.log" | grep -q 'kvcli: ' || fail "ping said: $(cat "$dir/ping.log")"
within 6 75 kvcli -u "$uri" -t 2000 ping && says 'did not answer in time'
until_true 20 load_did $((before + 500)) || fail "operations stand still: $(cat "$dir/stopped.log")"
kill -CONT "$server"
until_true 10 kvcli -q -u "$uri" ping >/dev/null 2>&1 || fail "the server does not answer again"
all_say ok || fail "errors: $(cat "$dir/stopped.log")"
! grep -q FARKV_ "$dir/stopped.log" || fail "errors: $(cat "$dir/stopped.log")"
load_ends

# ---- a client fails

testcase "kill -9 of a client -> the server says so, its session and queue pairs are gone"
queue_pairs() { rdma resource show qp | grep -c " pid $server "; }
sessions_are() { kvcli -u "$uri" -j stats 2>/dev/null | grep -Eq "\"sessions\": ?$1\\b"; }
back_to() { [ "$(queue_pairs)" -eq "$1" ]; }
until_true 5 back_to 2 || fail "$(queue_pairs) queue pairs without clients, not those of its own lane"
own=$(queue_pairs)
goodbyes() { grep -c 'ended without goodbye' "$dir/main.log"; }
before=$(goodbyes)
load victim -t 3 -p 3 "$uri"
[ "$(queue_pairs)" -eq $((own + 6)) ] || fail "$(queue_pairs) queue pairs with 3 clients, $own without"
until_true 5 sessions_are 4 || fail "not 4 sessions: $(kvcli -u "$uri" -j stats)"
stop "$load" KILL
until_true 10 sessions_are 1 || fail "not 1 session: $(kvcli -u "$uri" -j stats)"
until_true 5 back_to "$own" || fail "$(queue_pairs) queue pairs, $own before"
[ "$(goodbyes)" -eq $((before + 3)) ] || fail "$(cat "$dir/main.log")"

testcase "kill -9 of a client that the server has not heard of while stopped -> gone after SIGCONT"
load victim -t 2 -p 3 "$uri"
kill -STOP "$server"
stop "$load" KILL
kill -CONT "$server"
until_true 10 sessions_are 1 || fail "not 1 session: $(kvcli -u "$uri" -j stats)"
until_true 5 back_to "$own" || fail "$(queue_pairs) queue pairs, $own before"

testcase "after all that nothing is left at the device"
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/main.log")"
resources_are_back
no_kernel_complaint
finish
