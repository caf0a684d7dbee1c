#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver as users start it: options, files, sockets, signals.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

# refused STATUS MESSAGE OPTION...: prints one line and starts nothing.
refused() {
	want=$1 message=$2
	shift 2
	expect "$want" timeout 20 "$KVSERVER" -s "$dir/refused" "$@" && says "$message"
	prints ''
	[ ! -e "$dir/refused" ] || fail "a socket remains: $*"
}

# ---- its messages
expect 0 timeout 20 "$KVSERVER" --help && shows '^  -m, --memory=SIZE' && silent
knows_options "$KVSERVER"
expect 0 timeout 20 "$KVSERVER" -h && shows 'kvcli put'
expect 0 timeout 20 "$KVSERVER" --version && shows '^kvserver [0-9]+\.[0-9]+\.[0-9]+, region format 3$'

# ---- without options: the default socket, one line, a sparse gigabyte
mkdir "$dir/run"
: >"$dir/out" # what the last command printed is not what is waited for
XDG_RUNTIME_DIR=$dir/run "$KVSERVER" >"$dir/out" 2>"$dir/err" &
server=$!
servers="$servers $server"
sock=$dir/run/farkv/kvserver.sock
until [ -s "$dir/out" ]; do sleep 0.02; done
cases=$((cases + 1))
[ "$(wc -l <"$dir/out")" -eq 1 ] && shows "^kvserver: serving 1.0 GiB at shm://$sock \(pid $server\)"
silent
[ "$(stat -c %a "$sock")" = 600 ] || fail "mode of the socket"
[ "$(stat -c %a "$dir/run/farkv")" = 700 ] || [ "$(id -u)" -eq 0 ] || fail "mode of the folder"
rss=$(awk '/^VmRSS:/ { print $2 }' "/proc/$server/status")
[ "${rss:-0}" -lt 200000 ] || fail "an empty gigabyte takes $rss KiB"
expect 0 env XDG_RUNTIME_DIR="$dir/run" "$KVCLI" put key value
expect 0 env XDG_RUNTIME_DIR="$dir/run" "$KVCLI" get key && prints 'value\n'
expect 0 kvcli -s "$sock" get key && prints 'value\n'

# ---- one server for each socket
expect 1 env XDG_RUNTIME_DIR="$dir/run" timeout 20 "$KVSERVER" && says "pid $server\) already serves"
expect 0 kvcli -s "$sock" get key && prints 'value\n'
kill "$server"
wait "$server" || fail "SIGTERM: exit status"
[ ! -e "$sock" ] && [ ! -e "$sock.lock" ] || fail "files remain after SIGTERM"

# ---- quiet: only the line with the address
start_server hush -m 64m
expect 0 cat "$dir/hush.log"
[ "$(wc -l <"$dir/out")" -eq 1 ] && shows "^kvserver: serving 64.0 MiB at shm://$dir/hush \\(pid $server\\)"
cases=$((cases + 1))
stop_server

# ---- a full store: puts without end, of values that grow, fail or evict
awk 'BEGIN { v = sprintf("%2000s", ""); for (i = 0; i < 30000; i++)
	printf "k%d\t%s\n", i, substr(v, 1, 100 + i % 20 * 100) }' >"$dir/endless.tsv"
start_server refuses -m 16m
expect 2 kvcli -f tsv load "$dir/endless.tsv"
grep -q 'no memory left' "$dir/err" || fail "a full store: $(cat "$dir/err")"
stop_server
start_server evicts -m 16m --when-full evict
expect 0 kvcli -f tsv load "$dir/endless.tsv"
grep -q 'loaded 30000 records' "$dir/err" || fail "summary of load: $(cat "$dir/err")"
expect 0 kvcli get k29999
expect 0 kvcli fsck
expect 0 kvcli stats && shows 'values evicted +[0-9]{4,}'
stop_server
refused 64 "when-full: 'often'" --when-full often

# ---- limits of the shell that it is started in
# shellcheck disable=SC2317
limited() { # OPTION N COMMAND...
	(ulimit "$1" "$2" && shift 2 && exec "$@")
}
expect 1 limited -f 100 timeout 20 "$KVSERVER" -s "$dir/refused" -m 64m && says 'File too large'

# ---- silent connections make room if descriptors run out first
printf '#!/bin/sh\nulimit -n 20\nexec "%s" "$@"\n' "$KVSERVER" >"$dir/few"
chmod +x "$dir/few"
whole=$KVSERVER KVSERVER=$dir/few
start_server quiet -m 8
KVSERVER=$whole
python3 - "$dir/quiet" "$dir/mute" <<'MUTE' &
import socket, sys, time
held = []
for i in range(40):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    held.append(s)
open(sys.argv[2], "w").close()
time.sleep(600)
MUTE
mute=$!
until [ -e "$dir/mute" ]; do sleep 0.02; done
expect 0 kvcli --timeout-ms 30000 put key value
kill "$mute" "$server"
wait "$server" "$mute" 2>/dev/null

# ---- kill -9 leaves a socket; the next server replaces it
start_server s -m 64
kill -9 "$server"
wait "$server" 2>/dev/null
[ -S "$dir/s" ] || fail "the killed server's socket is not there"
expect 69 kvcli -s "$dir/s" ping && says 'no server'
rm "$dir/s.ready"
by=$INT
start_server s -m 64
expect 0 kvcli ping
kill -INT "$server"
wait "$server" || fail "SIGINT: exit status"
[ ! -e "$dir/s" ] || fail "the socket remains after SIGINT"

# ---- a memory file: the next server has what one left that was killed
file=$dir/store
start_server memo -m 64m --memory-file "$file"
expect 0 kvcli -s "$dir/memo" put key value
refused 1 "memory-file: $file is in use by a kvserver .pid $server." --memory-file "$file"
kill -9 "$server"
wait "$server" 2>/dev/null
expect 0 "$KVSERVER" --verify-file "$file" && prints "$file: 1 keys in 64.0 MiB, nothing is wrong\n"
[ ! -e "$dir/none.new" ] && expect 1 "$KVSERVER" --verify-file "$dir/none" && says "cannot read $dir/none" && [ ! -e "$dir/none.new" ] ||
	fail "--verify-file makes a store"
rm "$dir/memo.ready"
start_server memo -m 8m --memory-file "$file" --verify
expect 1 "$KVSERVER" --verify-file "$file" && says "is in use by a kvserver .pid $server."
expect 0 kvcli -s "$dir/memo" get key && prints 'value\n'
# A tether that cannot be opened may be held: its session counts as a client until it can.
mkfifo "$dir/lines"
"$KVCLI" -s "$dir/memo" <"$dir/lines" >"$dir/lines.out" &
holder=$!
servers="$servers $holder"
exec 3>"$dir/lines"
echo ping >&3
until [ -s "$dir/lines.out" ]; do sleep 0.02; done
kill -9 "$server"
wait "$server" 2>/dev/null
tether=$(ls "$file.sessions")
mv "$file.sessions/$tether" "$dir/tether"
ln -s "$tether" "$file.sessions/$tether"
refused 1 "cannot open the tether of session $tether .*levels of symbolic links" --memory-file "$file"
mv "$dir/tether" "$file.sessions/$tether"
rm "$dir/memo.ready"
start_server memo --memory-file "$file"
exec 3>&-
wait "$holder" || fail "a client of two servers: exit status"
first=$server
rm "$dir/memo.ready"
start_server memo --memory-file "$file" --replace
wait "$first" || fail "a server that is replaced: exit status"
expect 0 kvcli -s "$dir/memo" get key && prints 'value\n'
expect 0 kvcli -s "$dir/memo" fsck && shows 'nothing is wrong'
# A server that waits for another one's end can be ended.
freeze "$server"
"$KVSERVER" -s "$dir/waits" --memory-file "$file" --replace >"$dir/out" 2>"$dir/err" &
waits=$!
servers="$servers $waits"
until grep -q '^ShdPnd:.*[4567c-f][0-9a-f][0-9a-f][0-9a-f]$' "/proc/$server/status"; do sleep 0.02; done
kill "$waits"
wait "$waits"
[ $? -eq 1 ] || fail "--replace, interrupted: exit status"
says "ended by a signal; the kvserver of $file .pid $server. was asked to end"
kill -CONT "$server"
wait "$server" || fail "SIGTERM by --replace: exit status"
# Of several that take over at once one is left.
rm "$dir/memo.ready"
start_server memo --memory-file "$file"
first=$server
freeze "$first"
"$KVSERVER" -q -s "$dir/memo" --memory-file "$file" --replace >>"$dir/memo.log" 2>&1 &
second=$!
"$KVSERVER" -q -s "$dir/memo" --memory-file "$file" --replace >>"$dir/memo.log" 2>&1 &
third=$!
servers="$servers $second $third"
kill -CONT "$first"
wait "$first" || fail "a server that two replace: exit status"
until ! kill -0 "$second" || ! kill -0 "$third"; do sleep 0.02; done 2>/dev/null
if kill -0 "$second" 2>/dev/null; then
	server=$second second=$third
else
	server=$third
fi
wait "$second" || fail "the first one of two that replace: exit status"
until kvcli -q -s "$dir/memo" ping 2>/dev/null; do kill -0 "$server" || break; done
expect 0 kvcli -s "$dir/memo" get key && prints 'value\n'
stop_server
# The next server keeps the mode, whatever it is told.
rm "$dir/memo.ready"
start_server memo --memory-file "$file" --when-full evict --max-sessions 3000
grep -q "when-full: the store of $file was made with refuse, and keeps that" "$dir/memo.log" ||
	fail "no word of the mode"
grep -q "max-sessions: the store of $file was made for fewer, and takes 2048" "$dir/memo.log" ||
	fail "no word of the session table"
expect 0 kvcli -s "$dir/memo" stats && shows 'evicts when it is full [(]1: yes[)] +0'
stop_server
echo text >"$dir/text"
refused 1 "memory-file: $dir/text is left as it is: .*not a farkv region" --memory-file "$dir/text"
expect 0 cat "$dir/text" && prints 'text\n'
# A value of which a byte has changed.
python3 - "$file.data" <<'PY' || fail "no value in the file"
import sys
with open(sys.argv[1], "r+b") as f:
    data = f.read()
    at = data.find(b"keyvalue")
    assert at >= 0
    f.seek(at + 3)
    f.write(b"V")
PY
expect 1 "$KVSERVER" --verify-file "$file" && says 'it is damaged: a slot.s block does not verify'
truncate -s 1m "$file.data"
refused 1 "store.data has 1048576 bytes.*it was cut" --memory-file "$file"
refused 1 'cannot open .*/nowhere/store.new' --memory-file "$dir/nowhere/store"
refused 64 'replace: there is no region' --replace
refused 64 'verify: there is no region' --verify

# ---- a server that ends waits for clients, not for ever
start_server drain -m 64 --drain-ms 300
python3 - "$dir/drain" <<'PY' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
open(sys.argv[1] + ".up", "w").close()
time.sleep(30)
PY
holder=$!
servers="$servers $holder"
until [ -e "$dir/drain.up" ]; do sleep 0.02; done
expect 0 kvcli ping # who came before has been let in
began=$(date +%s%N)
kill "$server"
sleep 0.1
kill -INT "$server" # more signals change nothing
kill "$server"
wait "$server" || fail "drain: exit status"
took=$((($(date +%s%N) - began) / 1000000))
[ "$took" -ge 200 ] && [ "$took" -lt 20000 ] || fail "drained for $took ms"
kill "$holder"

# ---- signals at any moment of its life leave no socket, and status 0
storm() { # SIGNAL PID: sent again and again until the server is gone
	i=0
	while [ $i -lt 20000 ] && kill -"$1" "$2" 2>/dev/null; do
		i=$((i + 1))
	done
	wait "$2" || fail "a storm of $1: exit status $?"
	[ ! -e "$dir/storm" ] && [ ! -e "$dir/storm.lock" ] || fail "a storm of $1: files remain"
}
for signal in TERM INT TERM INT TERM INT; do
	start_server storm -m 256m
	storm $signal "$server"
	rm "$dir/storm.ready"
	$by "$KVSERVER" -q -s "$dir/storm" -m 8 >"$dir/storm.log" 2>&1 &
	server=$!
	servers="$servers $server"
	i=0
	until [ -e "$dir/storm" ] || [ $i -eq 20000000 ]; do
		i=$((i + 1))
	done
	storm $signal "$server"
done

by=

# ---- addresses of RDMA: refused by any transport, before anything is started
refuses() { # ADDRESS WHY
	expect 64 "$KVSERVER" -s "$dir/nowhere" -t shm -m 8 --listen "$1" && says "--listen '.*': $2"
	[ ! -e "$dir/nowhere" ] || fail "--listen $1: a socket is left"
}
start_server unheard -m 8 -t shm --listen 192.0.2.1:1
grep -q 'warning: listen: 192.0.2.1:1 is not used: shared memory, as asked for' "$dir/unheard.log" || fail "no word of --listen"
stop_server
refuses '[::1' "'\]' is missing"
refuses '[::1]18515' "after '\]' comes a colon"
refuses '::1:18515' 'an IPv6 address needs brackets'
refuses "$(printf '%0300d' 0):1" 'the host name is too long'
for port in 65536 -1 x ''; do
	refuses "host:$port" 'the port is a number from 0'
done
expect 64 "$KVSERVER" -s "$dir/nowhere" -t rdma --listen 192.0.2.1:1 && says 'anybody on the network can come: .*--keys FILE.*--no-auth'

# ---- a shell and kvcli accept the printed address
# serve_loud SOCKET OPTION...: in $dir, without -q; its output is in $dir/loud.log.
serve_loud() {
	socket=$1
	shift
	rm -f "$dir/loud.ready"
	mkfifo "$dir/loud.ready"
	(cd "$dir" && exec "$KVSERVER" -m 8 -t shm -s "$socket" --ready-fd 3 "$@") \
		3>"$dir/loud.ready" >"$dir/loud.log" 2>&1 &
	server=$!
	servers="$servers $server"
	ready=
	read -r ready <"$dir/loud.ready"
	[ "$ready" = READY ] || fail "no server at $socket: $(cat "$dir/loud.log")"
}
# at_last COMMAND...: tries until it succeeds, or gives up after a long time.
at_last() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 3000 ] || return 1
		sleep 0.02
	done
}
# logged TEXT: waits until a line of the log has it.
logged() {
	at_last grep -Eq -- "$1" "$dir/loud.log" || fail "not in the log: $1: $(cat "$dir/loud.log")"
}
unset FARKV_URI FARKV_KEYS
try_it() { # the command that it says to try, word for word
	cases=$((cases + 1))
	eval "$(sed -n 's/.*; try: //p' "$dir/loud.log")" >"$dir/out" 2>"$dir/err" ||
		fail "$(cat "$dir/loud.log"): $(cat "$dir/err")"
	shows 'answered in'
}
tab=$(printf '\t')
mkdir "$dir/a b"
# shellcheck disable=SC2016 # as it stands
for name in plain 'a b/c d' "it's" '$(false)' 'a%41&b;c#d?e=f' '*[x]' "$(printf '\303\244\377')" "$dir/a b/~"; do
	serve_loud "$name"
	try_it
	expect 0 kvcli -u "$(sed -n 's/.* at \(shm:[^ ]*\) .*/\1/p' "$dir/loud.log")" ping
	stop_server
done
# A path that is too long when absolute: used from the same folder.
deep=$dir/$(head -c 100 /dev/zero | tr '\0' d)
mkdir "$deep"
: >"$dir/loud.log" # before logged() reads it: the former server's is still there
(cd "$deep" && exec "$KVSERVER" -m 8 -s 'x y') >"$dir/loud.log" 2>&1 &
server=$!
servers="$servers $server"
logged 'serving'
cd "$deep" || exit 1
try_it
expect 0 kvcli -u './x y' ping
cd "$OLDPWD" || exit 1
stop_server
for bad in "a${tab}b" "$(printf 'a\nb')" "$(printf 'a\177b')"; do
	expect 64 timeout 20 "$KVSERVER" -m 8 -s "$dir/$bad" && says 'holds a control character'
	[ ! -e "$dir/$bad" ] || fail "a socket that no client takes"
done
serve_loud taken2
expect 1 timeout 20 "$KVSERVER" -m 8 -s "$dir/taken2" && says "address already in use: a kvserver \\(pid $server\\) already serves"
stop_server

# ---- keys: without RDMA the socket asks for them; SIGHUP reads them again
secret() { # FILE NAME ROLE
	(umask 077 && kvcli keygen "$2" "$3" >"$1")
}
for who in 'alice rw' 'bob ro' 'carol rw' 'dave rw'; do
	secret "$dir/${who% *}.key" "${who% *}" "${who#* }"
done
keys=$dir/the\ keys
(umask 077 && cat "$dir/bob.key" "$dir/alice.key" "$dir/carol.key" "$dir/dave.key" >"$keys")
serve_loud keyed --keys 'the keys'
uri=shm://$dir/keyed
logged 'clients need a key'
try_it
grep -q 'key alice' "$dir/loud.log" || fail "a key that may write comes first: $(cat "$dir/loud.log")"
expect 77 kvcli -u "$uri" ping && says 'asks for a key: .*--keys, .FARKV_KEYS, or as shm://'
expect 0 kvcli -k "$dir/alice.key" -u "$uri" put key value
expect 0 kvcli get key --keys "$keys" --key bob -u "$uri" && prints 'value\n'
expect 77 kvcli put key other --keys "$keys" -u "$uri" --key bob && says 'read-only|only read'
expect 0 kvcli --key carol -u "$uri?keys=$(echo "$keys" | sed 's/ /%20/')" get key && prints 'value\n'
expect 0 kvcli -u "$uri?keys=$dir/alice.key" get key && prints 'value\n'
expect 0 env FARKV_KEYS="$dir/bob.key" "$KVCLI" -s "$dir/keyed" get key && prints 'value\n'
expect 0 env FARKV_KEYS="$keys" "$KVCLI" -s "$dir/keyed" --key dave get key && prints 'value\n'
expect 64 kvcli -u "$uri" --keys "$keys" get key && says 'holds 4 keys: give the name'
expect 64 kvcli -u "$uri" --keys "$keys" --key eve get key && says "no key of the name 'eve'"
expect 64 kvcli -u "$uri" --key bob get key && says "key 'bob' is named, but no file"
expect 64 kvcli -u "$uri" --keys "$keys" --key '' get key && says 'the name is empty'
# Options have precedence over the address, the address over the environment.
expect 0 env FARKV_KEYS=/nowhere "$KVCLI" -u "$uri?keys=$dir/alice.key" get key
expect 0 env FARKV_KEYS=/nowhere "$KVCLI" -u "$uri?keys=/nowhere" -k "$dir/alice.key" get key
expect 0 env FARKV_KEYS="$dir/alice.key" "$KVBENCH" load farkv -p farkv.uri="$uri" -p recordcount=10 -p operationcount=10 -P "$srcdir/bench/workloads/workloada"
expect 0 kvbench load farkv -p farkv.uri="$uri?keys=$dir/alice.key" -p recordcount=10 -p operationcount=10 -P "$srcdir/bench/workloads/workloada"

# hold NAME: a client with that key stores 128 records and goes on by the descriptor 4 to 6.
hold() {
	mkfifo "$dir/$1.feed"
	"$KVCLI" -k "$dir/$1.key" -u "$uri" load - <"$dir/$1.feed" >"$dir/$1.out" 2>&1 &
}
records() { # PREFIX: as many as go in one call
	awk -v p="$1" 'BEGIN { for (i = 0; i < 128; i++) printf "%s%d\tvalue\n", p, i }'
}
there() { kvcli -q -k "$dir/alice.key" -u "$uri" exists "$1"; }
hold alice && alice=$! && exec 4>"$dir/alice.feed"
hold carol && carol=$! && exec 5>"$dir/carol.feed"
hold dave && dave=$! && exec 6>"$dir/dave.feed"
records alice >&4
records carol >&5
records dave >&6
for who in alice carol dave; do
	at_last there "${who}127" || fail "$who stores nothing: $(cat "$dir/$who.out")"
done
cp "$dir/dave.key" "$dir/dave.old" && secret "$dir/dave.key" dave rw && secret "$dir/erin.key" erin rw
(umask 077 && cat "$dir/alice.key" "$dir/bob.key" "$dir/dave.key" "$dir/erin.key" >"$keys")
kill -HUP "$server"
logged 'SIGHUP: keys read again: 1 added, 1 removed, 1 changed; sessions ended: 2'
for line in 'added: erin' 'removed: carol' 'changed: dave'; do
	grep -q "keys $line\$" "$dir/loud.log" || fail "not in the log: $line"
done
(trap '' PIPE && records late5 >&5) 2>/dev/null
(trap '' PIPE && records late6 >&6) 2>/dev/null
records late4 >&4
exec 4>&- 5>&- 6>&-
wait "$alice" || fail "the session of a key that stays ended: $(cat "$dir/alice.out")"
there late4127 || fail "the session of a key that stays stores nothing"
for who in $carol $dave; do
	wait "$who"
	got=$?
	[ $got -eq 69 ] || [ $got -eq 77 ] || fail "a client whose key is gone ends with $got"
done
grep -Eq 'its key was removed or changed|does not accept the key' "$dir/carol.out" || fail "$(cat "$dir/carol.out")"
there late50 && fail "the session of a removed key stores"
there late60 && fail "the session of a changed key stores"
expect 77 kvcli -k "$dir/carol.key" -u "$uri" get key && says "does not accept the key 'carol'"
expect 77 kvcli -k "$dir/dave.old" -u "$uri" get key && says "does not accept the key 'dave'"
expect 0 kvcli -k "$dir/dave.key" -u "$uri" get key
expect 0 kvcli -k "$dir/erin.key" -u "$uri" get key
# A file that is not acceptable changes nothing.
chmod 644 "$keys"
kill -HUP "$server"
logged "error: SIGHUP: the keys stay as they are: .*chmod 600 'the keys'\$"
expect 0 kvcli -k "$dir/erin.key" -u "$uri" get key
stop_server
serve_loud unkeyed
kill -HUP "$server"
logged 'SIGHUP: nothing to read again: there are no --keys'

# ---- a client that has a key does not talk to a server that asks for none
uri=shm://$dir/unkeyed
expect 0 kvcli -u "$uri" put key value
refuses_keyless() {
	expect 77 "$@" && says 'did not ask for the key that was given .*alice.key.*unset FARKV_KEYS'
}
refuses_keyless "$KVCLI" -k "$dir/alice.key" -u "$uri" get key
refuses_keyless "$KVCLI" -u "$uri?keys=$dir/alice.key" get key
refuses_keyless env FARKV_KEYS="$dir/alice.key" "$KVCLI" -u "$uri" get key
expect 0 env FARKV_KEYS= "$KVCLI" -u "$uri" get key
stop_server

# ---- sizes
start_server bare -m 8
expect 0 kvcli --json stats && shows '"heap_bytes":8388608,'
kill "$server"
start_server human --memory=48m --max-item-size 10k --max-key-size 20 --grace-ms 7
expect 0 kvcli --json stats && shows '"heap_bytes":50331648,' && shows '"max_value":10240,' &&
	shows '"max_key":20,' && shows '"grace_ns":7000000[,}]'
kill "$server"
start_server slots -m 64 --index-slots 10000
expect 0 kvcli --json stats && shows '"index_slots":16384,'
kill "$server"
refused 64 'memory: .?1\.5g.? is not' -m 1.5g
refused 64 'memory: 0 is not within' -m 0
refused 64 'memory: .*is not within' -m 600g
refused 64 'memory' -m -5
refused 64 'max-item-size: 10.0 MiB is more than a quarter' -m 16m -I 10m
refused 64 'max-key-size: 65536 is not within 1 and 65535' --max-key-size 65536
refused 64 'grace-ms: 0 is' --grace-ms 0
refused 64 "index-slots: '100m' is not" --index-slots 100m
refused 64 'index-slots: .*half of the memory' -m 16m --index-slots 2000000
refused 64 'index-slots: .*half of the memory' -m 16m --index-slots 2000000 --check-config
refused 64 'socket-mode' --socket-mode 9
refused 64 'unknown or ambiguous option --colour' --colour
refused 64 'option --memroy=1g: did you mean --memory; see kvserver --help' --memroy=1g
refused 64 "'word' is no option" word
refused 64 "option --socket: '' is not a path" --socket ''
refused 64 'ready-fd: 77: Bad file' --ready-fd 77
refused 64 'hugepages: .often. is not' --hugepages=often
# Pages of 2 MiB, or a refusal, depending on the kernel.
"$KVSERVER" --hugepages=always -m 64 --socket "$dir/always" --ready-fd 4 4>"$dir/always.ready" \
	2>"$dir/always.log" >/dev/null &
server=$!
for _ in $(seq 100); do
	[ -s "$dir/always.ready" ] && break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
kill "$server" 2>/dev/null
wait "$server"
grep -Eq 'pages: 2 MiB|no memory of the kind asked for' "$dir/always.log" ||
	fail "--hugepages=always: $(cat "$dir/always.log")"
start_server huge -m 64 --hugepages
kill "$server"
grep -q 'cannot be sealed' "$dir/huge.log" && fail "--hugepages took memory that any client can cut short"

# By default, as memory comes into use, if this kernel can; not if the kernel gives huge pages
# to any program that touches memory.
# shmem_huge: KiB that the server has mapped as huge pages.
shmem_huge() {
	awk '/ShmemPmdMapped/ { n += $2 } END { print n + 0 }' "/proc/$server/smaps"
}
if grep -Eq 'pages: 2 MiB, transparent(;|$)' "$dir/huge.log" &&
	grep -Eq '\[(never|advise)\]' /sys/kernel/mm/transparent_hugepage/shmem_enabled; then
	start_server ahead -m 64
	[ "$(shmem_huge)" -eq 0 ] || fail "huge pages before there is anything to put there"
	expect 0 kvcli put key value
	for _ in $(seq 100); do
		[ "$(shmem_huge)" -ge 4096 ] && break
		sleep 0.1
	done
	[ "$(shmem_huge)" -ge 4096 ] || fail "a server that was not told to makes no huge pages"
	expect 0 kvcli get key && prints 'value\n'
	kill "$server"
	start_server small -m 64 --hugepages=never
	expect 0 kvcli put key value
	sleep 0.3
	[ "$(shmem_huge)" -eq 0 ] || fail "--hugepages=never makes huge pages"
	kill "$server"
fi

# ---- modes, places
start_server mode -m 8 --socket-mode 0666
[ "$(stat -c %a "$dir/mode")" = 666 ] || fail "--socket-mode 0666"
kill "$server"
echo precious >"$dir/file"
expect 1 timeout 20 "$KVSERVER" -s "$dir/file" -m 8 && says 'file exists and is not a socket'
[ ! -e "$dir/file.lock" ] || fail "a server that did not start left its lock file"
[ "$(cat "$dir/file")" = precious ] || fail "a file was replaced by a socket"
expect 1 timeout 20 "$KVSERVER" -s "$dir/no/such/folder/s" -m 8 && says 'cannot make the folder .*no/such/folder'
long=$dir/$(head -c 108 /dev/zero | tr '\0' x)
expect 64 timeout 20 "$KVSERVER" -s "$long" -m 8 && says 'longer than 107'
expect 64 env XDG_RUNTIME_DIR="$long" timeout 20 "$KVSERVER" -m 8 && says 'longer than 107'
python3 - "$dir/taken" <<'PY' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen(1)
open(sys.argv[1] + ".up", "w").close()
time.sleep(30)
PY
servers="$servers $!"
until [ -e "$dir/taken.up" ]; do sleep 0.02; done
expect 1 timeout 20 "$KVSERVER" -s "$dir/taken" -m 8 && says 'address already in use: another program listens at .*taken'

# ---- configuration files
cat >"$dir/good.conf" <<'CONF'
# a comment
[kvserver]
memory = 32m
max-item-size = 1m
socket-mode = 0640
CONF
expect 0 timeout 20 "$KVSERVER" --config "$dir/good.conf" --check-config && shows 'good.conf: ok'
start_server conf --config "$dir/good.conf" --memory 16m
expect 0 kvcli --json stats && shows '"heap_bytes":16777216,' && shows '"max_value":1048576,'
[ "$(stat -c %a "$dir/conf")" = 640 ] || fail "socket-mode of the file"
kill "$server"
wrong() { # TEXT MESSAGE
	printf '%b' "$1" >"$dir/bad.conf"
	expect 78 timeout 20 "$KVSERVER" --config "$dir/bad.conf" --check-config && says "bad.conf:$2"
	refused 78 "bad.conf:$2" --config "$dir/bad.conf"
}
wrong '[kvserver]\nmemory = lots\n' "2: memory: 'lots' is not"
wrong '[kvserver]\nmemroy = 1g\n' "2: unknown option 'memroy': did you mean memory$"
wrong '[kvserver]\n\ncolour = red\n' "3: unknown option 'colour'"
wrong '[kvserver]\nmemory = 1g\nmemory\n' '3: neither'
wrong '[server]\nmemory = 1g\n' '2: section \[server\] is unknown'
wrong 'memory = 1g\n' '1: section \[\] is unknown'
wrong '[kvserver\nmemory = 1g\n' '1: neither'
wrong '[kvserver]\nhugepages = often\n' '2: hugepages'
wrong '[kvserver]\nconfig = other\n' '2: unknown option'
wrong '[kvserver]\nmemory = 1g\n\nmemory = 2g\n' '4: memory: line 2 has this option already'
wrong '[kvserver]\nsocket =\n' "2: socket: '' is not a path"
unusable() { # TEXT MESSAGE: each line is good, the whole is not
	printf '%b' "$1" >"$dir/bad.conf"
	expect 78 timeout 20 "$KVSERVER" --config "$dir/bad.conf" --check-config && says "$2"
	expect 78 timeout 20 "$KVSERVER" --config "$dir/bad.conf" && says "$2"
}
unusable '[kvserver]\nmemory = 16m\nindex-slots = 2000000\n' 'index-slots: 2000000 slots need more'
unusable '[kvserver]\nmemory = 16m\nmax-item-size = 8m\n' 'max-item-size: .* quarter of the memory'
unusable "[kvserver]\nsocket = /$(head -c 107 /dev/zero | tr '\0' x)\n" 'socket: path is longer than 107'
wrong '\\0001\\0377junk\n' '1: neither'
expect 78 timeout 20 "$KVSERVER" --config "$dir/missing.conf" && says 'cannot open .*missing.conf'
expect 78 timeout 20 "$KVSERVER" --config "$dir" && says 'is a directory'
expect 0 timeout 20 "$KVSERVER" --check-config -m 64 && shows 'ok$'
expect 64 timeout 20 "$KVSERVER" --check-config -m x

finish
