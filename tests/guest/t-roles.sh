#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Roles by RDMA: refusals by the device, refusals by the server, and
# the information that a refused client gets.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

RAW=$(unwrap "$top_builddir/tests/guest/rdma_raw")
raw() { "$RAW" "$@"; }
unset FARKV_URI FARKV_KEYS

# Keys: the server's file, and one for each client.
for who in 'writer rw' 'reader ro'; do
	name=${who% *}
	# shellcheck disable=SC2086
	(umask 077 && kvcli keygen $who >"$dir/$name.key")
done
(umask 077 && cat "$dir/writer.key" "$dir/reader.key" >"$dir/server.keys" &&
	kvcli keygen writer rw >"$dir/wrong.key" && kvcli keygen stranger rw >"$dir/stranger.key")

# no_text WHAT...: none of it is in the output.
no_text() {
	for text in "$@"; do
		! grep -Fq -- "$text" "$dir/out" "$dir/err" || fail "'$text' is in the output"
	done
}

testcase "kvserver: --transport rdma without keys and without --no-auth -> one line, 64"
for transport in rdma both; do
	expect 64 "$KVSERVER" -s "$dir/none" -m 64 --transport "$transport" &&
		says '--keys FILE .*--no-auth' && prints ''
done
expect 64 "$KVSERVER" -s "$dir/none" -m 64 -t rdma --no-auth --keys "$dir/server.keys" &&
	says '--keys and --no-auth'
[ ! -e "$dir/none" ] || fail "a socket is left"

testcase "kvserver: a key file that others can read -> refused, and named"
cp "$dir/server.keys" "$dir/open.keys"
for mode in 644 640 604; do
	chmod "$mode" "$dir/open.keys"
	expect 78 "$KVSERVER" -s "$dir/none" -m 64 -t rdma --keys "$dir/open.keys" &&
		says "$dir/open.keys" && prints ''
done
expect 78 "$KVSERVER" -s "$dir/none" -m 64 -t rdma --keys "$dir/missing.keys" && says 'missing.keys'

testcase "kvserver --no-auth: serves by RDMA"
serve open -m 64 --transport rdma --no-auth || finish
open_uri=$(uri_of open kv)
# shellcheck disable=SC2086
set -- "$GUEST_ADDR" "${open_uri##*:}"
expect 0 kvcli -u "$open_uri" ping

testcase "control connection: READ, WRITE and compare-and-swap with the right key of memory -> the device refuses"
expect 0 raw control "$@"

testcase "data connection: without session, token or with a used one -> rejected"
expect 0 raw data "$@"

testcase "rights: a reader's WRITE and CAS, a writer's outside the region -> the device refuses, no byte changes"
expect 0 raw rights "$@"
sed -n '/refused/{s/^/    /p;}' "$dir/out" | sort | uniq -c | sort -rn | head -n 3

testcase "strangers: anything but HELLO -> a reason, no text, the end"
expect 0 raw strangers "$@"

testcase "silence: who says no HELLO is sent away after five seconds"
expect 0 raw silent "$@"

testcase "deafness: who does not answer a barrier is cut off after ten seconds"
expect 0 raw barrier "$@"

testcase "after all that the server serves, and lets go of what they held"
expect 0 kvcli -u "$open_uri" put key value
expect 0 kvcli -u "$open_uri" get key && prints 'value\n'
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/open.log")"
resources_are_back

testcase "half-open connections: they take places, for five seconds"
serve few -m 64 --transport rdma --no-auth --max-sessions 4 || finish
few_uri=$(uri_of few kv)
expect 0 raw half-open "$GUEST_ADDR" "${few_uri##*:}"
expect 0 kvcli -u "$few_uri" ping
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/few.log")"
resources_are_back

testcase "kvserver --keys: a writer's key reads and writes"
serve keyed -m 64 --transport both --keys "$dir/server.keys" || finish
uri=$(uri_of keyed kv)
writer="$uri?keys=$dir/writer.key"
expect 0 kvcli -u "$writer" put key value
expect 0 kvcli -u "$writer" get key && prints 'value\n'
expect 0 env FARKV_KEYS="$dir/writer.key" "$KVCLI" -u "$uri" put key value2
expect 0 kvcli -u "$uri?keys=$dir/server.keys&key=writer" get key && prints 'value2\n'

testcase "a reader's key: reads; put, add, cas and del -> not permitted"
reader="$uri?keys=$dir/reader.key"
expect 0 kvcli -u "$reader" get key && prints 'value2\n'
expect 0 kvcli -u "$reader" gets key
for command in 'put key x' 'add other x' 'replace key x' 'cas key 1 x' 'del key'; do
	# shellcheck disable=SC2086
	expect 77 kvcli -u "$reader" $command && says 'read-only|only read'
done
expect 0 kvcli -u "$writer" get key && prints 'value2\n'

testcase "wrong key, unknown name, no key -> not permitted, and nothing else"
expect 77 kvcli -u "$uri?keys=$dir/wrong.key" get key && says "does not accept the key 'writer'"
expect 77 kvcli -u "$uri?keys=$dir/stranger.key" get key && says "does not accept the key 'stranger'"
expect 77 kvcli -u "$uri" get key && says 'asks for a key'
cp "$dir/writer.key" "$dir/open.key" && chmod 644 "$dir/open.key"
expect 77 kvcli -u "$uri?keys=$dir/open.key" get key && says "$dir/open.key"

testcase "AUTH: every wrong one gets the same refusal, byte for byte; a replay too"
expect 0 raw auth "$GUEST_ADDR" "${uri##*:}" "$dir/server.keys"
secret=$(cut -d ' ' -f 3 "$dir/writer.key")
cp "$dir/keyed.log" "$dir/out"
: >"$dir/err"
no_text "$secret"

testcase "HELLO in place of another session: of the same key only"
expect 0 raw replace "$GUEST_ADDR" "${uri##*:}" "$dir/server.keys"

testcase "strangers at a server with keys -> a reason, no text, the end"
expect 0 raw strangers "$GUEST_ADDR" "${uri##*:}"

# in_log TEXT: of the server, at last.
in_log() {
	until_true 10 grep -Eq -- "$1" "$dir/keyed.log" || fail "not in the log: $1: $(tail -n 5 "$dir/keyed.log")"
}
testcase "SIGHUP: a key that was added lets in at once"
(umask 077 && kvcli keygen keeper rw >"$dir/keeper.key" && cat "$dir/keeper.key" >>"$dir/server.keys")
keeper="$uri?keys=$dir/keeper.key"
expect 77 kvcli -u "$keeper" get key && says "does not accept the key 'keeper'"
kill -HUP "$server"
in_log 'keys added: keeper$'
expect 0 kvcli -u "$keeper" get key && prints 'value2\n'

testcase "SIGHUP: the session of a removed key writes no more, others go on"
for who in writer keeper; do
	mkfifo "$dir/$who.feed"
	"$KVCLI" -u "$uri" -k "$dir/$who.key" load - <"$dir/$who.feed" >"$dir/$who.out" 2>&1 &
	eval "$who=$!"
done
exec 4>"$dir/writer.feed" 5>"$dir/keeper.feed"
records() { awk -v p="$1" 'BEGIN { for (i = 0; i < 128; i++) printf "%s%d\tvalue\n", p, i }'; }
there() { kvcli -q -u "$uri" -k "$dir/keeper.key" exists "$1"; }
records writer >&4
records keeper >&5
until_true 20 there writer127 && until_true 20 there keeper127 || fail "no session"
grep -v '^writer ' "$dir/server.keys" >"$dir/fewer" && cat "$dir/fewer" >"$dir/server.keys"
kill -HUP "$server"
in_log 'keys removed: writer$'
in_log 'sessions ended: 1$'
(trap '' PIPE && records late >&4) 2>/dev/null
records more >&5
exec 4>&- 5>&-
# shellcheck disable=SC2154
wait "$keeper" || fail "the session of a key that stays: $(cat "$dir/keeper.out")"
wait "$writer" && fail "the session of a removed key goes on"
there more127 || fail "the session of a key that stays stores nothing"
there late0 && fail "the session of a removed key stores"
expect 77 kvcli -u "$uri" -k "$dir/writer.key" get key && says "does not accept the key 'writer'"
cat "$dir/writer.key" >>"$dir/server.keys"
kill -HUP "$server"
in_log 'keys added: writer$'
writer="$uri?keys=$dir/writer.key"
expect 0 kvcli -u "$writer" get key

testcase "the line to try, with a key of the file"
cases=$((cases + 1))
eval "$(sed -n 's/.*; try: //p' "$dir/keyed.log")" >"$dir/out" 2>"$dir/err" || fail "$(cat "$dir/err")"
shows 'answered in'

testcase "both: who comes by the socket reads; a put names the kv:// address"
socket=$(uri_of keyed shm)
expect 0 kvcli -u "$socket" get key && prints 'value2\n'
expect 77 kvcli -u "$socket" put key x && says "$uri"
expect 77 kvcli -u "$socket" del key && says "$uri"
expect 0 kvcli -u "$socket" get key && prints 'value2\n'
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/keyed.log")"
resources_are_back

testcase "--keys-on-socket: the socket's clients need a key as well"
serve strict -m 64 --transport both --keys "$dir/server.keys" --keys-on-socket || finish
socket=$(uri_of strict shm)
expect 77 kvcli -u "$socket" get key && says 'asks for a key: .*shm://'
expect 1 kvcli -u "$socket" -k "$dir/reader.key" get key
expect 1 kvcli -u "$socket?keys=$dir/reader.key" get key
expect 1 env FARKV_KEYS="$dir/reader.key" "$KVCLI" -u "$socket" get key
expect 77 env FARKV_KEYS="$dir/wrong.key" "$KVCLI" -u "$socket" get key && says 'does not accept the key'
stop "$server"

testcase "a key that was given, and a server that asks for none -> refused"
serve open -m 64 --transport both --no-auth || finish
for address in "$(uri_of open kv)" "$(uri_of open shm)"; do
	expect 77 kvcli -u "$address" -k "$dir/reader.key" ping && says 'did not ask for the key'
	expect 77 env FARKV_KEYS="$dir/reader.key" "$KVCLI" -u "$address" ping && says 'did not ask for the key'
	expect 0 kvcli -u "$address" ping
done

testcase "a port that is in use -> said as that, in one line"
port=$(uri_of open kv)
port=${port##*:}
for host in '' "$GUEST_ADDR"; do
	expect 1 "$KVSERVER" -s "$dir/none" -m 64 -t rdma --no-auth --listen "$host:$port" &&
		says "address already in use: another server listens at .* port $port by RDMA; .*--listen"
done
expect 0 kvcli -u "$(uri_of open kv)" ping
stop "$server"

# tries ADDRESS SHOWN: kvcli and a shell accept the output of a server at that address.
tries() {
	serve tried -m 64 --transport rdma --no-auth --listen "$1" || return
	uri=$(uri_of tried kv)
	case $uri in
	"$2"*) ;;
	*) fail "it prints $uri, expected $2" ;;
	esac
	expect 0 kvcli -u "$uri" put key value
	eval "$(sed -n 's/.*; try: //p' "$dir/tried.log")" >"$dir/out" 2>"$dir/err" || fail "$(cat "$dir/err")"
	shows 'answered in'
}
testcase "a server with RDMA after one without: refused while a client of that one may write"
file=/dev/shm/t-roles.$$
serve first -m 64 --transport shm --memory-file "$file"
mkfifo "$dir/lines"
"$KVCLI" -s "$dir/first" <"$dir/lines" >"$dir/holder.log" 2>&1 &
holder=$!
servers="$servers $holder"
exec 4>"$dir/lines"
echo 'put key value' >&4
until_true 5 kvcli -q -s "$dir/first" get key >"$dir/out"
stop "$server" KILL
for transport in rdma both; do
	expect 1 timeout 60 "$KVSERVER" -s "$dir/first" --memory-file "$file" --transport "$transport" --no-auth &&
		says "1 clients of this host may still write, one of them pid $holder, .*--transport shm" && prints ''
done
serve first --memory-file "$file" --transport shm
stop "$server" KILL
exec 4>&-
wait "$holder"
serve first --memory-file "$file" --transport both --no-auth
expect 0 kvcli -u "$(uri_of first kv)" put key other
stop "$server" KILL
mkfifo "$dir/reads"
serve first --memory-file "$file" --transport both --no-auth
"$KVCLI" -s "$dir/first" <"$dir/reads" >"$dir/reader.log" 2>&1 &
servers="$servers $!"
exec 4>"$dir/reads"
echo 'get key' >&4
until_true 5 grep -q other "$dir/reader.log" || fail "a reader of the socket: $(cat "$dir/reader.log")"
stop "$server" KILL
serve first --memory-file "$file" --transport both --no-auth || fail "readers of the socket hold up nobody"
exec 4>&-
stop "$server"
rm -rf "$file" "$file.data" "$file.sessions"

testcase "an IPv6 address, as it is printed"
if [ -n "${GUEST_ADDR6-}" ]; then
	tries "[$GUEST_ADDR6]:0" "kv://[$GUEST_ADDR6]:"
	stop "$server"
else
	skip "the device has no such address"
fi
testcase "an address of the link, with its interface, as it is printed"
local6=$(ip -6 -o address show dev "$GUEST_DEV" scope link | awk '{ sub("/.*", "", $4); print $4; exit }')
if [ -n "$local6" ]; then
	tries "[$local6%$GUEST_DEV]:0" "kv://[$local6%25$GUEST_DEV]:"
	expect 0 kvcli -u "kv://[$local6%$GUEST_DEV]:${uri##*:}" get key && prints 'value\n'
	expect 64 kvcli -u "kv://[$local6]:${uri##*:}" get key && says "give its interface too, as in \\[$local6%eth0\\]"
	expect 1 "$KVSERVER" -m 64 -t rdma --no-auth --listen "[$local6]:0" && says 'give its interface too'
	stop "$server"
else
	skip "the device has no such address"
fi
finish
