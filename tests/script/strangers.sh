#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tests that Redis and memcached have of themselves, with kvgate in their place: Redis's Tcl
# suites and memcached's Perl tests out of Debian's source packages, memccapable, and Debian's
# clients. What cannot be had is left out by its name.
#
# Sources are fetched by apt-get with a list of sources of this build's own, in strangers-sources/.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
KVGATE=$(unwrap "$KVGATE")
sources=$top_builddir/strangers-sources
left_out() {
	echo "  left out: $*"
}

# stranger COMMAND...: it succeeds. One that waits in vain fails by its name, and not as this script.
stranger() {
	expect 0 timeout "${patience:-120}" "$@"
}

# fetch PACKAGE: unpacks the source package into $sources/PACKAGE; false if it cannot be had.
fetch() {
	[ ! -e "$sources/$1/.done" ] || return 0
	command -v apt-get >/dev/null && command -v xz >/dev/null || return 1
	mkdir -p "$sources/parts" "$sources/lists/partial" "$sources/cache/archives/partial" "$sources/$1"
	for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -e "$list" ] || sed -n 's/^deb /deb-src /p' "$list" >"$sources/parts/$(basename "$list" .list).list"
	done
	for list in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"$sources/parts/$(basename "$list")"
	done
	set -- "$1" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$sources/parts" \
		-o Dir::State::lists="$sources/lists" -o Dir::Cache="$sources/cache" -o APT::Sandbox::User=
	package=$1
	shift
	(cd "$sources" && apt-get "$@" update -qq &&
		apt-get "$@" source --download-only -qq "$package") >"$dir/fetch.log" 2>&1 || return 1
	tar -x -C "$sources/$package" --strip-components=1 -f "$sources/$package"_*.orig.tar.* &&
		touch "$sources/$package/.done"
}

start_server store -m 256m
mkfifo "$dir/gate.ready"
"$KVGATE" --resp 0 --memcached 0 --ready-fd 3 3>"$dir/gate.ready" >"$dir/gate.out" 2>"$dir/gate.err" &
gate=$!
servers="$gate $servers"
read -r ready <"$dir/gate.ready"
[ "${ready-}" = READY ] || {
	cat "$dir/gate.err"
	exit 1
}
resp=$(grep -o '127.0.0.1:[0-9]*' "$dir/gate.out" | sed -n 1s/.*://p)
memcached=$(grep -o '127.0.0.1:[0-9]*' "$dir/gate.out" | sed -n 2s/.*://p)

# ---- memcached's tests. They are for a fresh server, so the one that counts gets comes first.
# Left out are those of what kvgate does not have, or of memcached's inside: slabs, the LRU,
# evictions and its memory (lru*, slab*, evictions, stats, 64bit, issue_14, 22, 29, 42, 163, 183,
# chunked-items, extstore*), the binary protocol, UDP, SASL and TLS (binary*, udp, sasl, ssl*),
# options of its program and signals (dash-M, daemonize, restart, unixsocket, maxconns, conn-limits,
# idle-timeout, item_size_max, dyn-maxbytes, ascii-auth, shutdown, whitespace, line-lengths, misbehave,
# refhang, issue_61, 67, 140, 260), its log (watcher*), a clock that tests move (expirations, touch's
# own part runs), flush_all switched off and refused (flush-all), items of exactly 1 MiB (getset),
# CAS switched off (issue_50), slabs automove (strtol-testing), leases (metaget).
their_tests='issue_104 bogus-commands cas flags getandtouch incrdecr issue_108 issue_152 issue_192
	issue_3 issue_41 issue_68 issue_70 malicious-commands multiversioning noreply quit touch'
if ! command -v prove >/dev/null; then
	left_out "memcached's tests: needs prove (perl)"
elif ! fetch memcached; then
	left_out "memcached's tests: the source package memcached cannot be fetched"
else
	# They ask the program for what it can do.
	printf '#!/bin/sh\necho "memcached 1.6 unix-socket"\n' >"$sources/memcached/memcached-debug"
	chmod +x "$sources/memcached/memcached-debug"
	for t in $their_tests; do
		kvcli clear >/dev/null
		# shellcheck disable=SC2016
		stranger sh -c 'cd "$1" && T_MEMD_USE_DAEMON=127.0.0.1:$2 exec prove "t/$3.t"' \
			sh "$sources/memcached" "$memcached" "$t" || grep -E 'Failed|not ok' "$dir/out"
	done
fi

# ---- libmemcached's own test of a server
if command -v memccapable >/dev/null; then
	stranger memccapable -h 127.0.0.1 -p "$memcached" -a ||
		cat "$dir/out"
	[ "$(grep -o '\[pass\]' "$dir/out" "$dir/err" | wc -l)" -eq 27 ] || fail "memccapable: not 27 tests"
else
	left_out "memccapable (libmemcached-tools)"
fi

# ---- Redis's suites, except the tests that the list names
suites='unit/type/string unit/expire unit/keyspace unit/scan unit/protocol unit/info'
if ! command -v tclsh >/dev/null; then
	left_out "Redis's suites: needs tclsh (tcl)"
elif ! fetch redis; then
	left_out "Redis's suites: the source package redis cannot be fetched"
else
	grep -v '^#' "$srcdir/tests/script/strangers-redis.skip" >"$dir/skip"
	# There are no functions that the harness could flush.
	sed -i '/^ *r function flush$/d' "$sources/redis/tests/support/server.tcl"
	# The tags of what a test needs beside the commands: replicas, DEBUG, files, gigabytes.
	tags='-needs:repl -needs:debug -needs:config-maxmemory -needs:reset -needs:save -large-memory'
	set --
	for suite in $suites; do
		set -- "$@" --single "$suite"
	done
	# shellcheck disable=SC2016
	patience=400 stranger sh -c 'cd "$1" && shift && exec tclsh tests/test_helper.tcl "$@"' \
		sh "$sources/redis" --host 127.0.0.1 --port "$resp" --singledb --ignore-encoding \
		--durable --tags "$tags" --skipfile "$dir/skip" "$@" ||
		{
		grep -a 'err\]\|exception' "$dir/out"
		tail -n 5 "$dir/out" "$dir/err"
	}
	n=$(grep -ac '\[.*ok.*\]' "$dir/out")
	echo "Redis: $n tests passed"
	[ "$n" -ge 140 ] || fail "only $n of Redis's tests passed"
fi

# ---- clients of Debian
python=/usr/bin/python3 # of Debian, which has its packages
for client in redis pymemcache; do
	if "$python" -c "import $client" 2>/dev/null; then
		stranger "$python" "$srcdir/tests/script/strangers.py" "$client" "$resp" "$memcached" ||
			cat "$dir/err"
	else
		left_out "python3-$client"
	fi
done
# client LANGUAGE OPTION CODE FILE: it is there if the code runs.
client() {
	if command -v "$1" >/dev/null && "$1" "$2" "$3" >/dev/null 2>&1; then
		stranger "$1" "$srcdir/tests/script/$4" "$resp" || cat "$dir/err"
	else
		left_out "$1-redis"
	fi
}
client php -r 'exit(extension_loaded("redis") ? 0 : 1);' strangers.php
client ruby -e 'require "redis"' strangers.rb
# shellcheck disable=SC2046,SC2086
if pkg-config --exists hiredis 2>/dev/null; then
	expect 0 ${CC-cc} -o "$dir/hiredis" "$srcdir/tests/script/strangers.c" \
		$(pkg-config --cflags --libs hiredis) && stranger "$dir/hiredis" "$resp" || cat "$dir/err"
else
	left_out "hiredis (libhiredis-dev)"
fi

# ---- libmemcached's programs
if command -v memccp >/dev/null; then
	printf 'one\n' >"$dir/file-a"
	printf 'two\n' >"$dir/file-b"
	at=--servers=127.0.0.1:$memcached
	stranger memcflush "$at"
	stranger memccp "$at" --flag=7 "$dir/file-a" "$dir/file-b"
	stranger memccat "$at" file-a file-b && prints 'one\n\ntwo\n\n'
	stranger memccat "$at" --flag file-a && prints '7\none\n\n'
	stranger memcexist "$at" file-a
	stranger memctouch "$at" --expire=100 file-a
	stranger memcrm "$at" file-a
	expect 1 timeout 120 memcexist "$at" file-a
	stranger memcping "$at"
	# The server counts once a second.
	until memcstat "$at" >"$dir/out" && grep -q 'curr_items: 1$' "$dir/out"; do
		kill -0 "$gate" || break
		sleep 0.1
	done
	shows 'curr_items: 1$'
else
	left_out "memccp and the like (libmemcached-tools)"
fi

# ---- redis-tools
if command -v redis-cli >/dev/null; then
	cli() { timeout 120 redis-cli -p "$resp" "$@"; }
	expect 0 cli flushall
	expect 0 cli mset k1 1 k2 22 k3 333
	expect 0 cli --bigkeys && shows 'Biggest string found .*k3.* has 3 bytes'
	cli --scan >"$dir/keys"
	[ "$(sort "$dir/keys" | tr '\n' ' ')" = 'k1 k2 k3 ' ] || fail "redis-cli --scan: $(cat "$dir/keys")"
	cli --stat -i 0.01 2>"$dir/err" | head -n 3 >"$dir/out"
	shows '^[0-9]+ +[0-9.]+[MK] +[0-9]+ +0 +[0-9]+ \(\+[0-9]+\)'
	if command -v script >/dev/null; then
		printf 'set k4 hello\nget k4\nquit\n' |
			TERM=dumb script -qec "redis-cli -p $resp" /dev/null >"$dir/out" 2>&1
		shows '"hello"'
	else
		left_out "redis-cli at a terminal: needs script (bsdutils)"
	fi
else
	left_out "redis-cli (redis-tools)"
fi
if command -v redis-benchmark >/dev/null; then
	for pipeline in 1 32; do
		stranger redis-benchmark -p "$resp" -t ping,set,get,incr,mset -n 20000 -r 1000 -P "$pipeline" -q
		grep -qi 'error' "$dir/out" "$dir/err" && fail "redis-benchmark: $(grep -i error "$dir/out")"
	done
else
	left_out "redis-benchmark (redis-tools)"
fi

# ---- nutcracker in front of two gates with a store each
if command -v nutcracker >/dev/null && command -v redis-cli >/dev/null; then
	start_server store2 -m 64m
	mkfifo "$dir/gate2.ready"
	"$KVGATE" --resp 0 --memcached 0 --ready-fd 3 3>"$dir/gate2.ready" >"$dir/gate2.out" 2>&1 &
	gate2=$!
	servers="$gate2 $servers"
	read -r ready <"$dir/gate2.ready"
	second() { grep -o '127.0.0.1:[0-9]*' "$dir/gate2.out" | sed -n "$1s/.*://p"; }
	for pool in resp memcached; do
		[ $pool = resp ] && redis=true first=$resp nth=1
		[ $pool = memcached ] && redis=false first=$memcached nth=2
		printf '%s:\n  listen: %s 0600\n  redis: %s\n  hash: murmur\n  distribution: modula\n  servers:\n   - 127.0.0.1:%s:1\n   - 127.0.0.1:%s:1\n' \
			"$pool" "$dir/$pool.nut" "$redis" "$first" "$(second "$nth")"
	done >"$dir/nutcracker.yml"
	# It wants a port for its statistics.
	free='import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
	nutcracker -c "$dir/nutcracker.yml" -a 127.0.0.1 -s "$("$python" -c "$free")" -o "$dir/nutcracker.log" &
	servers="$! $servers"
	until [ -S "$dir/memcached.nut" ]; do
		kill -0 "${servers%% *}" 2>/dev/null || break
	done
	redis-cli -p "$resp" flushall >/dev/null
	n=0
	while [ $n -lt 200 ]; do
		n=$((n + 1))
		echo "set nut:$n $n"
	done >"$dir/in"
	stranger redis-cli -s "$dir/resp.nut" <"$dir/in"
	[ "$(grep -c '^OK$' "$dir/out")" -eq 200 ] || fail "nutcracker: $(sort -u "$dir/out" | head -n 3)"
	stranger redis-cli -s "$dir/resp.nut" mget nut:1 nut:50 nut:200 && prints '1\n50\n200\n'
	# Both have a part of the keys.
	one=$(redis-cli -p "$resp" dbsize) two=$(redis-cli -p "$(second 1)" dbsize)
	[ $((one + two)) -eq 200 ] && [ "$one" -gt 0 ] && [ "$two" -gt 0 ] ||
		fail "nutcracker: $one and $two keys"
	if "$python" -c "import pymemcache" 2>/dev/null; then
		stranger "$python" "$srcdir/tests/script/strangers.py" nutcracker "$dir/memcached.nut" \
			"$dir/memcached.nut" || cat "$dir/err"
	fi
	kill "$gate2"
	wait "$gate2" || fail "the second kvgate: exit status $?"
else
	left_out "nutcracker"
fi

kill "$gate"
wait "$gate" || fail "kvgate: exit status $?"
[ ! -s "$dir/gate.err" ] || fail "kvgate wrote: $(head -n 3 "$dir/gate.err")"
[ "$cases" -gt 0 ] || skip "nothing of it can be had here"
finish
