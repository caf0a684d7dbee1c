#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvgate as users start it: options, addresses, passwords, limits, hostile clients. What goes
# through sockets is in gate.py.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
KVGATE=$(unwrap "$KVGATE")

# refused STATUS MESSAGE OPTION...: prints one line and serves nothing.
refused() {
	want=$1 message=$2
	shift 2
	expect "$want" timeout 20 "$KVGATE" "$@" && says "$message"
	prints ''
}

# start_gate [OPTION]...: waits until it serves; $gate is its id, $dir/gate.out its line.
start_gate() {
	rm -f "$dir/gate.ready"
	mkfifo "$dir/gate.ready"
	"$KVGATE" --ready-fd 3 "$@" 3>"$dir/gate.ready" >"$dir/gate.out" 2>"$dir/gate.err" &
	gate=$!
	servers="$servers $gate"
	ready=
	read -r ready <"$dir/gate.ready"
	[ "$ready" = READY ] || {
		cat "$dir/gate.err"
		fail "kvgate did not start: $*"
		exit 1
	}
}

stop_gate() {
	kill "$gate"
	wait "$gate" || fail "kvgate: exit status $?"
	[ ! -s "$dir/gate.err" ] || fail "kvgate wrote: $(head -n 3 "$dir/gate.err")"
}

# port N: of the N-th address in the line.
port() {
	grep -o '127.0.0.1:[0-9]*' "$dir/gate.out" | sed -n "${1}s/.*://p"
}

# ---- its messages
expect 0 timeout 20 "$KVGATE" --help && shows '^  -r, --resp=ADDRESS' && silent
expect 0 timeout 20 "$KVGATE" --version && shows '^kvgate [0-9]+\.[0-9]+\.[0-9]+$'
refused 64 'nothing to serve: give --resp'
refused 64 "resp: 'x:y' is no address" --resp x:y
refused 64 "memcached: '65536' is no address" --memcached 65536
refused 64 "'more' is no option" --resp 0 more
refused 64 'exclude each other' --resp 0 --no-auth --client-keys "$dir/none"
refused 78 'none' --resp 0 --client-keys "$dir/none"
refused 1 'no server at' --resp 0 -u "shm://$dir/none"
expect 0 "$KVGATE" --resp 0 --check-config && prints 'options: ok\n'
printf '[kvgate]\nresp = 0\nresp = %s\nthreads = x\n' "$dir/sock" >"$dir/conf"
refused 78 'conf:4: threads' --config "$dir/conf"

knows_options "$KVGATE"

start_server store -m 64m -I 1m
# No address that other machines reach, without passwords.
refused 64 'other machines reach 0.0.0.0:[0-9]*: give --client-keys' --resp '*:0'
refused 64 'max-output: .* does not hold' --resp 0 --max-output 64k

# ---- addresses: a Unix socket with its mode, a stale one is replaced, one in use is not
printf '[kvgate]\nresp = %s\nmemcached = 0\n' "$dir/redis.sock" >"$dir/conf"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$dir/redis.sock"
start_gate --config "$dir/conf" --socket-mode 0660
[ "$(stat -c %a "$dir/redis.sock")" = 660 ] || fail "mode of the socket"
grep -Eq "^kvgate: serving RESP at $dir/redis.sock, memcached at 127.0.0.1:[0-9]+ \\(pid $gate\\)$" \
	"$dir/gate.out" || fail "$(cat "$dir/gate.out")"
refused 1 'redis.sock is in use' --resp "$dir/redis.sock"
refused 1 "another program listens at $(port 1)" --memcached "$(port 1)"
expect 0 python3 "$srcdir/tests/script/gate.py" unix "$dir/redis.sock" "$(port 1)" &&
	expect 0 kvcli get from-gate && prints 'value\n'
if command -v redis-cli >/dev/null; then
	expect 0 redis-cli -s "$dir/redis.sock" get from-gate && prints 'value\n'
	# It asks for COMMAND DOCS before the first prompt.
	printf 'set a 1\nget a\n' >"$dir/in"
	# shellcheck disable=SC2024
	redis-cli -s "$dir/redis.sock" <"$dir/in" >"$dir/out" && prints 'OK\n1\n'
	expect 0 redis-cli -s "$dir/redis.sock" --bigkeys && shows 'Biggest string'
	expect 0 redis-cli -s "$dir/redis.sock" --scan && shows '^from-gate$'
else
	echo "left out: redis-cli, which is not installed"
fi
stop_gate
[ ! -e "$dir/redis.sock" ] || fail "the socket remains"

# ---- both protocols at one address, two threads
start_gate --resp "$dir/both.sock" --memcached "$dir/both.sock" --threads 2
expect 0 python3 "$srcdir/tests/script/gate.py" shared "$dir/both.sock"
stop_gate

# ---- passwords
(umask 077; for role in rw ro; do kvcli keygen "$role" "$role"; done >"$dir/clients")
chmod 600 "$dir/clients"
start_gate --resp 0 --memcached 0 --client-keys "$dir/clients"
expect 0 python3 "$srcdir/tests/script/gate.py" login "$(port 1)" "$(port 2)" "$dir/clients"
expect 0 python3 "$srcdir/tests/script/gate.py" rekey "$(port 1)" "$dir/clients" "$gate" "$dir/gate.err"
grep -q 'SIGHUP: keys read again; closed 1 connections whose key is gone or changed$' "$dir/gate.err" &&
	grep -q 'SIGHUP: the keys stay as they are: .*clients:1: ' "$dir/gate.err" ||
	fail "SIGHUP: $(cat "$dir/gate.err")"
: >"$dir/gate.err"
stop_gate

# ---- limits and hostile clients
start_gate --resp 0 --memcached 0 --max-clients 20 --max-output 2m --max-request 2m
expect 0 python3 "$srcdir/tests/script/gate.py" hostile "$(port 1)" "$(port 2)" "$gate" ||
	sed 's/^/    /' "$dir/out"
stop_gate
start_gate --resp "$dir/crowd.sock" --max-clients 10001
python3 "$srcdir/tests/script/gate.py" crowd "$dir/crowd.sock" "$gate" >"$dir/out" 2>&1
case $? in
0) ;;
77) echo "left out: 10,000 connections, which need as many open files (ulimit -n)" ;;
*) fail "10,000 connections: $(tail -n 1 "$dir/out")" ;;
esac
stop_gate
start_gate --resp 0 --memcached 0 --idle-timeout 1
expect 0 python3 "$srcdir/tests/script/gate.py" idle "$(port 1)" "$(port 2)"
stop_gate

# ---- a server that goes away: an error for each command, and it works again after that
start_gate --resp 0 --memcached 0 --timeout-ms 300
stop_server
expect 0 python3 "$srcdir/tests/script/gate.py" away "$(port 1)" "$(port 2)"
kill "$gate"
wait "$gate" || fail "kvgate: exit status $? without a server"
finish
