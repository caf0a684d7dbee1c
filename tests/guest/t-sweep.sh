#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients are killed: a sweep frees their memory, and no other memory.
# shellcheck disable=SC2154,SC2317
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
# shellcheck source=tests/guest/load.sh
. "$srcdir/tests/guest/load.sh"
# shellcheck source=tests/guest/client.sh
. "$srcdir/tests/guest/client.sh"

unset FARKV_URI FARKV_KEYS
GROW=$(unwrap "$top_builddir/tests/guest/rdma_grow")

# stat NAME: of the server at $uri.
stat() {
	"$KVCLI" -t 60000 -u "$uri" -j stats | tr -s '{,}' '\n' | sed -n "s/^ *\"$1\": *//p"
}
# One session is kvcli's own.
sessions_are() { [ "$(stat sessions)" -eq $(($1 + 1)) ]; }
swept() { [ "$(stat sweep_deaths)" -eq 0 ] && [ "$(stat sweeps)" -gt "$1" ]; }
queue_pairs() { rdma resource show qp | grep -c " pid $server "; }
own_only() { [ "$(queue_pairs)" -le 2 ]; }

# gives_back SECONDS: a sweep after $sweeps frees the memory of the dead.
gives_back() {
	until_true "$1" swept "$sweeps" || fail "no sweep in $1 s: $(tail -n 3 "$dir/main.log")"
	sed -n '/sweep: /s/^/    /p' "$dir/main.log" | tail -n 1
}

store_is_sound() {
	expect 0 kvcli -t 600000 -u "$uri" fsck
}

serve main -v -m 128 --no-auth --transport rdma || exit 1
uri=$(uri_of main kv)

testcase "kill -9 of an idle writer -> its blocks are swept, in seconds"
load idle -p 100000 "$uri"
until_true 5 sessions_are 1 || fail "not one client"
held=$(stat blocks_held)
[ "$held" -gt 0 ] || fail "it holds nothing"
sweeps=$(stat sweeps)
stop "$load" KILL
gives_back 20
[ "$(stat blocks_swept)" -ge "$held" ] || fail "$(stat blocks_swept) of $held blocks"
[ "$(stat blocks_held)" -eq 0 ] || fail "$(stat blocks_held) blocks are held by nobody"
store_is_sound
until_true 5 own_only || fail "$(queue_pairs) queue pairs"

testcase "kill -9 of one of two busy clients, again and again -> the other goes on, every key right"
background steady "$GROW" -k steady -n 20000 "$uri"
steady=$pid
for _ in 1 2 3; do
	load victim -t 2 "$uri"
	sweeps=$(stat sweeps)
	stop "$load" KILL
	gives_back 20
done
wait "$steady" || fail "$(tail -n 5 "$dir/steady.log")"
sed -n '/^\(writer\|reader\) /s/^/    /p' "$dir/steady.log"
[ "$(stat blocks_held)" -eq 0 ] || fail "$(stat blocks_held) blocks are held by nobody"
store_is_sound

testcase "kill -9 while another client is stopped -> that one is cut after 10 s, both are swept, it comes again"
background stopped "$GROW" -k stopped -n 15000 -e "$uri"
stopped=$pid
until_true 20 grep -q halfway "$dir/stopped.log" || fail "does not begin: $(cat "$dir/stopped.log")"
load victim "$uri"
sweeps=$(stat sweeps)
kill -STOP "$stopped"
stop "$load" KILL
gives_back 30
kill -CONT "$stopped"
wait "$stopped" || fail "$(tail -n 5 "$dir/stopped.log")"
sed -n '/^\(writer\|reader\) /s/^/    /p' "$dir/stopped.log"
until_true 20 sessions_are 0 || fail "$(stat sessions) sessions"
until_true 20 swept 0 || fail "deaths are left"
[ "$(stat blocks_held)" -eq 0 ] || fail "$(stat blocks_held) blocks are held by nobody"
store_is_sound

testcase "six clients are killed while another leaves a request lie -> a writer opens the store in its five seconds"
open_client "$uri" 5000
succeeds put key value
succeeds submit key
sweeps=$(stat sweeps)
dead=''
for n in 1 2 3 4 5 6; do
	load "victim$n" "$uri"
	dead="$dead $load"
done
for load in $dead; do
	stop "$load" KILL
	sleep 0.3
done
expect 0 kvcli -u "$uri" put other value
[ "$(stat sweeps)" -eq "$sweeps" ] || fail "the sweep did not wait: that says nothing"
succeeds wait 5000
[ "$rest" = value ] || fail "the request got '$rest'"
gives_back 20
close_client
store_is_sound

testcase "the server was stopped when its client died -> it sweeps when it goes on"
load victim "$uri"
sweeps=$(stat sweeps)
kill -STOP "$server"
stop "$load" KILL
sleep 1
kill -CONT "$server"
gives_back 20
store_is_sound

testcase "after all that nothing is left at the device"
stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/main.log")"
resources_are_back
no_kernel_complaint
finish
