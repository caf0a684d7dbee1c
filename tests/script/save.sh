#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver --save and --restore: when it saves, what a failed or killed save leaves, what is restored
# before anybody is served, and what is refused.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"

mkdir "$dir/files"
snap=$dir/files/snap
listing() {
	# shellcheck disable=SC2012
	[ "$(ls "$dir/files" | tr '\n' ' ')" = "$2" ] || fail "$1 leaves $(ls "$dir/files")"
}
stat_of() {
	"$KVCLI" stats --json | sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p"
}
# Until a counter of `kvcli stats` is at least $2; the server must live.
until_stat() {
	while [ "$(stat_of "$1")" -lt "$2" ]; do
		kill -0 "$server" || fail "the server has ended"
	done
}
saver_of() {
	cat /proc/"$1"/task/"$1"/children
}
# A server that must fail at once: its status and its line.
refused() { # STATUS TEXT OPTION...
	want=$1
	text=$2
	shift 2
	timeout 60 "$KVSERVER" -s "$dir/refused" -m 8m "$@" >"$dir/out" 2>"$dir/err"
	[ $? -eq "$want" ] || fail "kvserver $*: not status $want: $(cat "$dir/err")"
	grep -q "$text" "$dir/err" || fail "kvserver $*: $(cat "$dir/err")"
	[ ! -s "$dir/out" ] || fail "kvserver $*: it has served: $(cat "$dir/out")"
	[ ! -e "$dir/refused" ] || fail "kvserver $*: a socket is left"
}
start_again() {
	rm -f "$dir/$1.ready"
	start_server "$@"
}

# ---- options
refused 64 'save-every: there is no file' --save-every 1m
refused 64 "save-every: '10x' is no time" --save "$snap" --save-every 10x
refused 64 "save-every: '0' is no time" --save "$snap" --save-every 0
refused 1 "restore: cannot read $snap: No such file" --restore "$snap"
refused 64 'save: a server of a cluster has a part' --save "$snap" --cluster-map x --node-name y

# ---- the first start, a save on request, one at the end, and the next start
start_server s -m 128m --save "$snap" --restore "$snap"
[ "$(stat_of saves)" = 0 ] || fail "saves at the start: $(stat_of saves)"
kvcli put a 1
kill -USR1 "$server"
until_stat saves 1
listing "the first save" "snap "
kvcli put b 2
stop_server
listing "the last save" "snap snap.1 "
expect 0 kvcli info "$snap" && shows '^records  *2$'
expect 0 kvcli info "$snap.1" && shows '^records  *1$'
[ "$(stat -c %a "$snap")" = 600 ] || fail "mode $(stat -c %a "$snap")"
start_again s -m 128m --save "$snap" --restore "$snap"
expect 0 kvcli mget a b && prints 'a\t1\nb\t2\n'
expect 0 kvcli stats && shows '^  last saved at  *never$'

# ---- a file that cannot be written: one line each, a counter, and the old file
cp "$snap" "$dir/old"
mv "$dir/files" "$dir/away"
kill -USR1 "$server"
until_stat saves_failed 1
grep -q "error: save: cannot create $snap: No such file" "$dir/s.log" || fail "no folder: $(cat "$dir/s.log")"
mv "$dir/away" "$dir/files"
same "$dir/old" "$snap"
kill -USR1 "$server"
until_stat saves 1
kill -9 "$server"
wait "$server" 2>/dev/null

# ---- by the clock
start_again s -m 128m -q --save "$snap" --save-every 1s
until_stat saves 2
stop_server

# ---- a disk that is full
cat >"$dir/full.sh" <<'END'
mount -t tmpfs -o size=1m none "$dir/tmpfs" || exit 77
echo old >"$dir/tmpfs/snap"
mkfifo "$dir/full.ready"
"$KVSERVER" -q -m 64m -s "$dir/full" --save "$dir/tmpfs/snap" --ready-fd 3 3>"$dir/full.ready" >/dev/null 2>"$dir/err" &
read -r ready <"$dir/full.ready"
head -c 3000000 /dev/urandom | "$KVCLI" -s "$dir/full" put large -
kill -USR1 $!
until "$KVCLI" -s "$dir/full" stats --json | grep -q '"saves_failed": *1'; do
	kill -0 $! || break
done
echo "$(cat "$dir/tmpfs/snap") $(ls "$dir/tmpfs")" >"$dir/out"
kill $!
wait $!
END
mkdir "$dir/tmpfs"
export dir
if unshare -m true 2>/dev/null; then private='unshare -m'; else private='unshare -Urm'; fi
if $private sh "$dir/full.sh" 2>/dev/null; then
	prints 'old snap\n'
	grep -q " kvserver: error: save: cannot write $dir/tmpfs/snap: No space left on device" "$dir/err" ||
		fail "a full disk: $(cat "$dir/err")"
else
	echo "  left out: a disk that is full: no file system can be mounted here"
fi

# ---- what is restored before serving, and what is refused
start_again s -m 128m
awk 'BEGIN { for (i = 0; i < 300; i++) printf "key%d\t%065000d\n", i, i }' | kvcli -q load -
kvcli -q save "$dir/wide"
stop_server
head -c 5000000 "$dir/wide" >"$dir/cut"
refused 1 "restore: $dir/cut: .*; nothing was restored" --restore "$dir/cut"
refused 1 'restore: key[0-9]*: the region has no memory left.*; [1-9][0-9]* of 300 records were restored' \
	--restore "$dir/wide"
[ -e "$dir/wide" ] || fail "the snapshot is gone"
start_again s -m 128m --restore "$dir/wide"
[ "$(kvcli keys | wc -l)" -eq 300 ] || fail "restored $(kvcli keys | wc -l) of 300"
stop_server
grep -q 'without goodbye' "$dir/s.log" && fail "the saver does not say goodbye"

# Connections that the server at $1 has accepted.
accepted() {
	awk -v path="$1" '$8 == path && $6 == "03" { n++ } END { print n + 0 }' /proc/net/unix
}
# Starts a server that restores from a pipe; descriptor 8 writes to it.
start_restore() { # NAME OPTION...
	name=$1
	shift
	rm -f "$dir/pipe"
	mkfifo "$dir/pipe"
	"$KVSERVER" -q -m 128m -s "$dir/$name" --restore "$dir/pipe" "$@" >"$dir/$name.log" 2>&1 &
	server=$!
	servers="$servers $server"
	exec 8>"$dir/pipe"
}

# ---- a client that comes early waits for the end of the restore
start_restore early
"$KVCLI" -s "$dir/early" get key299 >"$dir/out" 2>"$dir/err" 8>&- &
client=$!
until [ "$(accepted "$dir/early")" -eq 2 ]; do
	kill -0 "$server" || break
	kill -0 $client 2>/dev/null || break
done
cat "$dir/wide" >&8
exec 8>&-
wait $client || fail "a client that comes early: $(cat "$dir/err" "$dir/early.log")"
[ "$(wc -c <"$dir/out")" -eq 65001 ] || fail "a client that comes early got $(wc -c <"$dir/out") bytes"
stop_server

# ---- kill -9 in the middle of a restore: no later server takes the half for a whole
start_restore half --memory-file "$dir/region" --save "$dir/half-snap"
saver=$(saver_of "$server")
head -c 3000000 "$dir/wide" >&8
[ ! -e "$dir/region" ] || fail "the region is there before the restore has ended"
kill -9 "$server"
wait "$server" 2>/dev/null
exec 8>&-
while kill -0 "${saver% }" 2>/dev/null; do :; done
start_server whole -m 128m --memory-file "$dir/region"
expect 0 kvcli keys && prints ''
kvcli put a 1
kill -9 "$server"
wait "$server" 2>/dev/null
start_again whole -m 128m --memory-file "$dir/region" --restore "$dir/wide" --save "$dir/kept"
expect 0 kvcli keys && prints 'a\n'
stop_server
[ ! -e "$dir/kept" ] || fail "a region in files was saved at the end"

# ---- SIGTERM in the middle of a restore ends the server, and nothing is saved
cp "$dir/wide" "$dir/files/wide"
start_restore term --save "$dir/files/wide"
head -c 3000000 "$dir/wide" >&8
kill "$server"
wait "$server" && fail "an interrupted restore: status 0"
exec 8>&-
same "$dir/wide" "$dir/files/wide"
grep -q 'restore: interrupted by a signal' "$dir/term.log" || fail "SIGTERM: $(cat "$dir/term.log")"
rm "$dir/files/wide"

# ---- the middle of a save: the saver is stopped while it writes $snap.new
start_again s -m 128m --restore "$dir/wide" --save "$snap"
rm -f "$snap" "$snap.1"
kill -USR1 "$server"
until_stat saves 1
halt() {
	tries=0
	while :; do
		cp "$snap" "$dir/old"
		saves=$(stat_of saves)
		kill -USR1 "$server"
		until [ -e "$snap.new" ] || [ "$(stat_of saves)" -gt "$saves" ]; do :; done
		freeze "$saver"
		[ -e "$snap.new" ] && cmp -s "$dir/old" "$snap" && return
		kill -CONT "$saver"
		until_stat saves $((saves + 1))
		tries=$((tries + 1))
		[ $tries -lt 200 ] || {
			fail "every save was over at once"
			return
		}
	done
}
saver=$(saver_of "$server")
saver=${saver% }
halt
[ "$(stat_of items)" -eq 300 ] || fail "the server waits for its saver"
kill "$server"
# The last save follows the one that is interrupted; a second signal ends that, too.
while kvcli -t 500 ping >/dev/null 2>&1; do :; done
kill -CONT "$saver"
wait "$server" || fail "a signal during a save: status $?"
expect 0 kvcli info "$snap" && shows '^records  *300$'
[ ! -e "$snap.new" ] || fail "SIGTERM during a save leaves $snap.new"

start_again s -m 128m --restore "$dir/wide" --save "$snap"
saver=$(saver_of "$server")
saver=${saver% }
halt
kill -9 "$server"
wait "$server" 2>/dev/null
kill -CONT "$saver"
while kill -0 "$saver" 2>/dev/null; do :; done
# One that had read everything may have ended its save.
cmp -s "$dir/old" "$snap" || expect 0 kvcli -q fsck --file "$snap"
[ ! -e "$snap.new" ] || fail "kill -9 of the server leaves $snap.new"

start_again s -m 128m --restore "$dir/wide" --save "$snap"
saver=$(saver_of "$server")
saver=${saver% }
halt
kill -9 "$saver"
until_stat saves_failed 1
same "$dir/old" "$snap"
grep -q 'error: save: the saving process has ended' "$dir/s.log" || fail "kill -9 of the saver: $(cat "$dir/s.log")"
expect 0 kvcli get key1
stop_server
same "$dir/old" "$snap"
[ -e "$snap.new" ] || fail "the test's own file is gone"
start_again s -m 128m --restore "$dir/wide" --save "$snap"
kill -USR1 "$server"
until_stat saves 1
[ ! -e "$snap.new" ] || fail "a save leaves what a killed one has left"
expect 0 kvcli -q fsck --file "$snap"
stop_server

# ---- two servers, one file
(
	flock 9
	start_again s -m 8m --save "$snap"
	kill -USR1 "$server"
	until_stat saves_failed 1
	grep -q "another process writes $snap.new" "$dir/s.log" || fail "two writers: $(cat "$dir/s.log")"
	kill -9 "$server"
	exit $failures
) 9>"$snap.new" || fail "two servers, one file"

# ---- with a key
(umask 077 && kvcli keygen writer >"$dir/keys")
start_again s -m 8m --keys "$dir/keys" --transport shm --save "$dir/files/keyed"
export FARKV_KEYS="$dir/keys"
kvcli put a 1
kill -USR1 "$server"
until_stat saves 1
stop_server
expect 0 kvcli info "$dir/files/keyed" && shows '^records  *1$'
finish
