#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli save, restore, info and fsck --file: what comes back, what a damaged file does, saves that
# fail or are interrupted, writers meanwhile. With FARKV_TEST_TRANSPORT=rdma by RDMA.
# tests/unit/test_snapshot flips every bit.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

many=60000
remote && many=6000
mkdir "$dir/files"
snap=$dir/files/snap

# Nothing but the snapshot is in its folder.
no_litter() {
	[ "$(ls "$dir/files")" = snap ] || fail "$1 leaves $(ls "$dir/files")"
}
# The store's records, sorted.
content() {
	"$KVCLI" dump | LC_ALL=C sort
}
records() { # FROM TO WHAT
	awk -v from="$1" -v to="$2" -v what="$3" \
		'BEGIN { for (i = from; i <= to; i++) print "key" i "\t" what " of " i }'
}

start_server s -m 128m

# ---- an empty store
expect 0 kvcli save "$snap" && says '^saved 0 records, 96 B, '
expect 0 kvcli restore "$snap" && says '^restored 0 records'
expect 0 kvcli info "$snap" && shows '^records  *0$'

# ---- values of any bytes and length come back
records 1 "$many" value >"$dir/many.tsv"
expect 0 kvcli -q load "$dir/many.tsv"
expect 0 kvcli put none ''
head -c 3000000 /dev/urandom >"$dir/random"
expect 0 kvcli put large "@$dir/random"
printf '\0\n\t' | expect 0 kvcli --key-base64 put AAoJ -
content >"$dir/before"
expect 0 kvcli save "$snap" && says "^saved $((many + 3)) records, "
[ "$(stat -c %a "$snap")" = 600 ] || fail "mode $(stat -c %a "$snap")"
no_litter "a save"
expect 0 kvcli -q clear
expect 0 kvcli restore "$snap" && says "^restored $((many + 3)) records, "
content >"$dir/after"
same "$dir/before" "$dir/after"
expect 0 kvcli -q save "$snap" && silent
expect 0 kvcli -q restore "$snap" && silent
expect 0 kvcli --json save "$snap" && silent && shows "^\{\"records\":$((many + 3)),\"bytes\":[0-9]+,\"seconds\":[0-9.e-]+\}$"
expect 0 kvcli --json restore "$snap" && silent && shows "^\{\"restored\":$((many + 3)),\"kept\":0,.*\"complete\":true\}$"
expect 0 kvcli info "$snap" && shows '^saved  *20[0-9-]+ [0-9:]+ UTC$'
shows "^records  *$((many + 3))$"
shows '^bytes of values  *[0-9]+ \('
expect 0 kvcli info - <"$snap"
expect 0 kvcli --json info "$snap" && shows "\"records\":$((many + 3)),"
expect 0 kvcli fsck --file "$snap" && prints "$((many + 3)) records, nothing is wrong\n"

# ---- one moment for all keys is not offered
rm "$snap"
expect 64 kvcli save --consistent "$snap" && says '--consistent: writers use the blocks .* again'
[ ! -e "$snap" ] || fail "a refused save has written a file"
expect 64 kvcli restore --consistent "$snap" && says '--consistent does not apply here'
kvcli -q save "$snap"

expect 64 kvcli save '' && says "the file's name is empty"

# ---- pipes
kvcli -q clear
kvcli -q put late 1
kvcli restore "$snap" 2>"$dir/err" && says '^restored'
content >"$dir/before"
start_server t -m 128m
to=$FARKV_URI
FARKV_URI=shm://$dir/s
remote && FARKV_URI=$(grep -o 'kv://[^ ,;)]*' "$dir/s.log" | head -n 1)
kvcli -q save - | kvcli -q -u "$to" restore - || fail "from a store to another one"
FARKV_URI=$to content >"$dir/after"
same "$dir/before" "$dir/after"
expect 64 kvcli save - --json && says 'prints to stdout'
expect 0 kvcli -q save /dev/null
[ -c /dev/null ] || fail "save replaced /dev/null"
kvcli save - 2>"$dir/err" | :
[ ! -s "$dir/err" ] || fail "a reader that leaves: $(cat "$dir/err")"

# ---- merging
FARKV_URI=$to
kvcli -q clear
kvcli put key1 mine && kvcli put other mine
expect 0 kvcli -q restore "$snap"
expect 0 kvcli mget key1 other && prints 'key1\tvalue of 1\nother\tmine\n'
kvcli put key1 mine
expect 0 kvcli restore --if-absent "$snap" && says "^restored 0 records.*; $((many + 3)) keys had a value and kept it$"
expect 0 kvcli get key1 && prints 'mine\n'

# ---- user words and times to live: time in a file counts
kvcli -q clear
tail -c +2 "$srcdir/tests/fuzz/corpus/snapshot/user-words" | expect 0 kvcli -q restore -
expect 0 kvcli --json --key-base64 get AGtleQ== && shows ',"user":1\}$'
kvcli -q save - | kvcli -q restore -
expect 0 kvcli --json --key-base64 get AGtleQ== && shows ',"user":1\}$'
kvcli -q clear
kvcli put long 1 --ttl 1h
kvcli put never 1
kvcli -q save "$dir/ttl"
kvcli -q clear
expect 0 kvcli info "$dir/ttl" && shows '^  of which expire  *1$'
expect 0 kvcli restore "$dir/ttl" && says '^restored 2 records'
expect 0 kvcli ttl never && prints 'never\n'
expect 0 kvcli ttl long && shows '^3[3-5][0-9][0-9]\.[0-9]+$'
kvcli -q clear
kvcli put short 1 --ttl 2s && kvcli -q save "$dir/ttl" || fail "a save of a value that expires"
while kvcli -q get short >/dev/null; do :; done
# The store may be 10 ms early.
tries=0
until kvcli restore "$dir/ttl" 2>&1 | grep -q '^restored 0 records.*; 1 had expired$' || [ $tries -eq 100 ]; do
	tries=$((tries + 1))
done
while [ $tries -lt 100 ] && kvcli -q get short >/dev/null; do :; done
expect 0 kvcli --json restore "$dir/ttl" && shows '"restored":0,"kept":0,"expired":1,'
expect 0 kvcli keys && prints ''
kvcli -q restore "$snap"

# ---- options and names
expect 64 kvcli info "$snap" -s "$dir/t" && says '--socket does not apply here'
expect 64 kvcli fsck --file "$snap" -u "$to" && says '--file needs no server: leave out --uri'
expect 64 kvcli stats --file "$snap" && says '--file does not apply here'
expect 64 kvcli backup x && says 'did you mean save'
expect 64 kvcli restore "$dir/nowhere" && says "restore: cannot open $dir/nowhere: No such file"
expect 2 kvcli save "$dir/nowhere/snap" && says "save: cannot create $dir/nowhere/snap: No such file"
expect 2 kvcli save "$dir" && says "cannot create $dir: Is a directory"
expect 2 kvcli restore "$dir" && says "cannot read $dir: Is a directory"
ln -s "$snap" "$dir/link"
expect 0 kvcli -q save "$dir/link"
[ -L "$dir/link" ] || fail "the save replaced a symbolic link"
expect 0 kvcli -q fsck --file "$snap"

# ---- a file that is cut or flipped restores nothing
kvcli -q clear
kvcli -q load - <<END
a	one
b	two
END
kvcli -q save "$dir/few"
kvcli -q clear
size=$(stat -c %s "$dir/few")
refused() {
	expect 64 kvcli restore "$1" && says "$1: .*; nothing was restored"
	expect 1 kvcli fsck --file "$1" && says "fsck: $1: "
	expect 64 kvcli info "$1" && says "info: $1: " && prints ''
	expect 0 kvcli keys && prints ''
}
for cut in 0 1 7 8 31 32 71 72 100 $((size - 64)) $((size - 1)); do
	head -c "$cut" "$dir/few" >"$dir/cut"
	refused "$dir/cut"
done
for at in 0 9 20 31 33 50 75 106 $((size - 60)) $((size - 1)); do
	{
		head -c "$at" "$dir/few"
		tail -c +$((at + 1)) "$dir/few" | head -c 1 | tr '\000-\377' '\001-\377\000'
		tail -c +$((at + 2)) "$dir/few"
	} >"$dir/flipped"
	[ "$(stat -c %s "$dir/flipped")" -eq "$size" ] || fail "the test's own file"
	refused "$dir/flipped"
done
cat "$dir/few" "$dir/few" >"$dir/twice"
refused "$dir/twice"
refused "$dir/many.tsv"
expect 64 kvcli restore - <"$dir/cut" && says 'stdin: .*; nothing was restored'

# ---- of a pipe that ends, whole chunks are restored and counted
size=$(stat -c %s "$snap")
head -c $((size - 5)) "$snap" | kvcli restore - >"$dir/out" 2>"$dir/err" && fail "a cut pipe: status 0"
grep -q "^kvcli: restore: stdin: cut off at byte $((size - 5));" "$dir/err" || fail "a cut pipe: $(cat "$dir/err")"
n=$(sed -n 's/^stopped by an error; restored \([0-9]*\) records.*/\1/p' "$dir/err")
[ "${n:-0}" -eq "$(kvcli keys | wc -l)" ] || fail "restored ${n:-?}, but there are $(kvcli keys | wc -l)"
[ "$n" -gt 0 ] || fail "a pipe restores nothing"

# ---- a store that is too small, or takes no such value
kvcli -q clear
awk 'BEGIN { v = "x"; while (length(v) < 60000) v = v v; for (i = 0; i < 100; i++) print "key" i "\t" v }' |
	kvcli -q load -
kvcli -q save "$dir/wide"
start_server small -m 4m
expect 2 kvcli restore "$dir/wide"
grep -Eq '^kvcli: restore: key[0-9]+: the region has no memory left' "$dir/err" || fail "too small: $(cat "$dir/err")"
grep -Eq '^stopped by an error; restored [1-9][0-9]? of 100 records' "$dir/err" || fail "too small: $(cat "$dir/err")"
kvcli -q clear
FARKV_URI=$to
kvcli -q clear
kvcli put large "@$dir/random"
kvcli -q save "$dir/one"
expect 64 kvcli -s "$dir/small" restore "$dir/one"
grep -q '^kvcli: restore: large: the value has 3000000 bytes' "$dir/err" || fail "a large value: $(cat "$dir/err")"
stop_server

# ---- a save that fails or is interrupted: the old file stays, and no other
FARKV_URI=shm://$dir/s
remote && FARKV_URI=$(grep -o 'kv://[^ ,;)]*' "$dir/s.log" | head -n 1)
cp "$snap" "$dir/old"
unchanged() {
	same "$dir/old" "$snap"
	no_litter "$1"
}
(ulimit -f 100 && exec "$KVCLI" save "$snap") 2>"$dir/err"
[ $? -eq 2 ] || fail "a file that gets too large"
says "save: cannot write $snap: File too large; nothing was saved, and a file of that name is as it was"
unchanged "a file that gets too large"

# A file system of 1 MiB, if this may be mounted.
cat >"$dir/full.sh" <<'END'
mount -t tmpfs -o size=1m none "$1" || exit 77
echo old >"$1/snap"
"$KVCLI" save "$1/snap" 2>"$2"
echo "$? $(cat "$1/snap") $(ls "$1")" >"$3"
END
mkdir "$dir/tmpfs"
if unshare -m true 2>/dev/null; then private='unshare -m'; else private='unshare -Urm'; fi
if $private sh "$dir/full.sh" "$dir/tmpfs" "$dir/err" "$dir/out" 2>/dev/null; then
	prints '2 old snap\n'
	says "save: cannot write $dir/tmpfs/snap: No space left on device; nothing was saved"
else
	echo "  left out: a disk that is full: no file system can be mounted here"
fi

begun() {
	[ -e "$1" ]
}
# SIGNAL STATUS: until one comes before the end of the save.
interrupt() {
	tries=0
	while :; do
		env --default-signal=INT "$KVCLI" save "$snap" 2>"$dir/err" &
		saving=$!
		until begun "$snap".??????; do
			kill -0 $saving 2>/dev/null || break
		done
		kill -s "$1" $saving 2>/dev/null
		wait $saving
		status=$?
		[ $status -eq 0 ] || break
		tries=$((tries + 1))
		cp "$snap" "$dir/old"
		[ $tries -lt 1000 ] || break
	done
	[ "$status" -eq "$2" ] || fail "SIG$1: exit status $status: $(cat "$dir/err")"
}
for signal in INT:130 TERM:143; do
	interrupt ${signal%:*} ${signal#*:}
	says '^kvcli: save: interrupted; nothing was saved, and a file of that name is as it was$'
	unchanged "SIG${signal%:*}"
done

# kill -9 leaves the temporary file alone, which another save does not take for its own.
interrupt KILL 137
same "$dir/old" "$snap"
# shellcheck disable=SC2012
[ "$(ls "$dir/files" | wc -l)" -eq 2 ] || fail "kill -9 of a save leaves $(ls "$dir/files")"
rm "$snap".??????
expect 0 kvcli fsck

# A pipe that nobody reads: the header, of 32 bytes, fits, the first chunk does not.
mkfifo "$dir/unread"
exec 8<>"$dir/unread"
env --default-signal=INT "$KVCLI" save "$dir/unread" 2>"$dir/err" &
saving=$!
until python3 -c 'import fcntl, struct, termios
raise SystemExit(struct.unpack("i", fcntl.ioctl(8, termios.FIONREAD, bytes(4)))[0] <= 32)'; do
	kill -0 $saving || break
done
kill -INT $saving
wait $saving
[ $? -eq 130 ] || fail "a pipe that nobody reads: $(cat "$dir/err")"
exec 8>&-

# ---- the server is killed: a save fails or has all of it, a restore says how far it came
if ! remote; then
	start_server mortal -m 64m
	kvcli -q load "$dir/many.tsv"
	"$KVCLI" -t 300 save "$snap" 2>"$dir/err" &
	saving=$!
	until begun "$snap".??????; do kill -0 $saving 2>/dev/null || break; done
	kill -9 "$server"
	if wait $saving; then
		expect 0 kvcli info "$snap" && shows "^records  *$many$"
	else
		same "$dir/old" "$snap"
		says '^kvcli: save: '
	fi
	no_litter "a save whose server is killed"

	start_server killed -m 64m
	"$KVCLI" -t 300 restore "$dir/unread" 2>"$dir/err" &
	restoring=$!
	exec 8>"$dir/unread"
	head -c 1500000 "$dir/old" >&8
	until [ -n "$(kvcli keys --count 1)" ]; do kill -0 $restoring || break; done
	kill -9 "$server"
	wait "$server" 2>/dev/null
	tail -c +1500001 "$dir/old" >&8 2>/dev/null
	exec 8>&-
	wait $restoring && fail "a restore whose server is killed: status 0"
	grep -q '^stopped by an error; restored [0-9]* records' "$dir/err" || fail "a killed server: $(cat "$dir/err")"

	# kill -9 of the restore: what it has stored is there, and the store is sound.
	start_server left -m 64m
	"$KVCLI" restore "$dir/unread" 2>"$dir/err" &
	restoring=$!
	exec 8>"$dir/unread"
	head -c 1500000 "$dir/old" >&8
	until [ -n "$(kvcli keys --count 1)" ]; do kill -0 $restoring || break; done
	kill -9 $restoring
	wait $restoring
	[ $? -eq 137 ] || fail "a restore that is killed: $(cat "$dir/err")"
	exec 8>&-
	expect 0 kvcli fsck
	[ "$(kvcli keys | wc -l)" -lt "$many" ] || fail "a killed restore has restored all"
	stop_server
fi
FARKV_URI=shm://$dir/s
remote && FARKV_URI=$(grep -o 'kv://[^ ,;)]*' "$dir/s.log" | head -n 1)

# ---- others write meanwhile: each record is a value of its key
for round in 1 2 3; do
	records 1 3000 "round $round" >"$dir/round$round.tsv"
done
kvcli -q clear
kvcli -q load "$dir/round1.tsv"
writer() {
	until [ -e "$dir/enough" ]; do
		for round in 1 2 3; do
			"$KVCLI" -q load "$dir/round$round.tsv" || exit 1
		done
	done
}
writer &
first=$!
writer &
second=$!
for i in 1 2 3 4 5; do
	expect 0 kvcli -q save "$snap"
	kvcli -q -u "$to" clear
	kvcli -q -u "$to" restore "$snap"
	kvcli -u "$to" dump >"$dir/out"
	awk -F '[\t ]' '$1 != "key" $NF || $2 != "round" || $3 !~ /^[123]$/ || $4 != "of" { bad++ }
		END { exit NR != 3000 || bad }' "$dir/out" ||
		fail "save $i beside writers: $(wc -l <"$dir/out") records"
done
: >"$dir/enough"
wait $first && wait $second || fail "a writer failed"
expect 0 kvcli fsck
finish
