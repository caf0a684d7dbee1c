#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a shell hands to the programs: descriptors that are closed or that nobody reads.
# shellcheck disable=SC2015
# shellcheck source=tests/lib.sh disable=SC2154
. "$srcdir/tests/lib.sh"

# serve NAME REDIRECTIONS [OPTION]...: as start_server, with descriptors of its own.
serve() {
	name=$1 redirections=$2
	shift 2
	rm -f "$dir/$name.ready"
	mkfifo "$dir/$name.ready"
	FARKV_URI=shm://$dir/$name
	export FARKV_URI
	eval '"$KVSERVER" -v -m 64m -s "$dir/$name" --ready-fd 3 "$@" 3>"$dir/$name.ready"' \
		"$redirections" '&'
	server=$!
	servers="$servers $server"
	[ "$(timeout 60 head -n 1 "$dir/$name.ready")" = READY ] || fail "$name: the server did not start"
}

# ---- descriptors 0 to 2 that are closed: nothing else gets their numbers
closed() { # REDIRECTIONS DESCRIPTOR...
	redirections=$1
	shift
	serve closed "$redirections >'$dir/closed.out' 2>'$dir/closed.err' $redirections"
	for fd in "$@"; do
		[ "$(readlink "/proc/$server/fd/$fd")" = /dev/null ] ||
			fail "$redirections: descriptor $fd is $(readlink "/proc/$server/fd/$fd")"
	done
	seq 60 | awk '{ printf "key%d\tvalue%d\n", $1, $1 }' >"$dir/sixty.tsv"
	expect 0 kvcli -q load "$dir/sixty.tsv"
	expect 0 kvcli dump "$dir/sixty.tsv"
	same "$dir/sixty.tsv" "$dir/out"
	expect 0 kvcli fsck
	[ "$(cat "$dir/closed.lock")" = "$server" ] || fail "$redirections: the lock file has: $(cat "$dir/closed.lock")"
	stop_server
}
closed '0<&-' 0
closed '1>&-' 1
closed '2>&-' 2
closed '0<&- 1>&- 2>&-' 0 1 2
for words in "$KVCLI keygen alice" "$KVBENCH run null -P $srcdir/bench/workloads/workloadc"; do
	# shellcheck disable=SC2086
	$words >&- 2>"$dir/err" && fail "$words: a closed stdout went unnoticed"
	grep -q 'cannot write .*: Bad file descriptor$' "$dir/err" || fail "$words: $(cat "$dir/err")"
done

# ---- a log that nobody reads holds nothing up
mkfifo "$dir/log"
exec 8<>"$dir/log"
fill() { dd if=/dev/zero of="$dir/log" bs=4096 count=10000 oflag=nonblock 2>/dev/null; }
empty() { dd if="$dir/log" bs=1M iflag=nonblock 2>/dev/null | tr -d '\0'; }
fill
serve unread '>"$dir/log" 2>&1'
expect 0 kvcli put key value
expect 0 kvcli get key && prints 'value\n'
empty >"$dir/out"
prints ''
expect 0 kvcli ping
empty >"$dir/out"
shows '^kvserver: warning: [0-9]+ lines of the log were dropped$'
shows '^kvserver: .*session'
fill
stop_server
[ ! -e "$dir/unread" ] || fail "the socket of a server whose log is full stays"
empty >"$dir/out"
exec 8>&-

finish
