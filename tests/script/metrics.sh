#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver --metrics: what Prometheus and probes get; the dashboard and the alerts use only that.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

# ask WORD...: of the last server.
ask() {
	python3 "$srcdir/tests/script/metrics.py" "$at" "$@"
}
# where NAME: sets $at to the last server's address.
where() {
	at=$(sed -n 's,.* metrics at http://\([^/]*\)/metrics.*,\1,p' "$dir/$1.log")
	[ -n "$at" ] || fail "$1: no address of /metrics: $(cat "$dir/$1.log")"
}

# ---- the figures of kvcli stats, and more
start_server s -m 64m --when-full evict --metrics 0
where s
case $at in 127.0.0.1:*) ;; *) fail "without HOST: $at" ;; esac
awk 'BEGIN { v = sprintf("%1000s", ""); for (i = 0; i < 200000; i++)
	printf "k%d\t%s\n", i, substr(v, 1, 100 + i % 10 * 90) }' >"$dir/many.tsv"
expect 0 kvcli -q -f tsv load "$dir/many.tsv"
expect 0 kvcli put --ttl 1ms short value
expect 0 kvcli get k199999
expect 1 kvcli get missing
expect 0 ask stats "$KVCLI" && silent
expect 0 ask get /metrics
cp "$dir/out" "$dir/metrics"
shows '^memcached_items_evicted_total [0-9]{4,}$'
shows '^farkv_size_evictions_total\{block_bytes="128"\} [1-9]'
shows '^farkv_class_bytes\{block_bytes="[0-9]+",state="out"\} [1-9]'
shows '^farkv_build_info\{version="[0-9.]+",region_format="[0-9]+"\} 1$'
remote || shows '^farkv_sessions\{transport="shm",role="rw"\} 0$'
mkfifo "$dir/to"
"$KVCLI" <"$dir/to" >"$dir/got" &
stay=$!
servers="$servers $stay"
exec 7>"$dir/to"
echo 'put stay 1' >&7
until expect 0 ask get /metrics && grep -q '^farkv_sessions{.*role="rw"} 1$' "$dir/out"; do
	kill -0 "$stay" || break
done
exec 7>&-
wait "$stay" || fail "a client that stayed"

# ---- probes, and clients that are no Prometheus
expect 0 ask get /healthz && prints 'ok\n'
expect 0 ask get /readyz && prints 'ready\n'
expect 204 ask get / && prints 'Not Found\n'
expect 0 ask hostile && silent
expect 0 kvcli get k199999

# ---- the dashboard and the alerts use what is there
expect 0 ask uses "$srcdir/contrib/grafana/farkv.json" "$srcdir/contrib/prometheus/farkv.rules.yml" && silent
echo 'expr: farkv_no_such_metric > 0' >"$dir/wrong.yml"
expect 1 ask uses "$dir/wrong.yml" && says 'farkv_no_such_metric is not exported'
at=:
expect 0 ask dashboard "$srcdir/contrib/grafana/farkv.json" && silent
where s

# ---- what a program tells of itself
# shellcheck disable=SC2086 # words of a compiler
if command -v "${CC%% *}" >/dev/null && [ "${SANITIZED:-no}" = no ]; then
	expect 0 $CC -Wall -Wextra -Werror -I"$srcdir/include" "$srcdir/examples/metrics.c" \
		-o "$dir/program" -L"$top_builddir/client/.libs" -lfarkv
	expect 0 "$dir/program" "$dir/client.prom" && shows '^1000 gets: 50 % in [0-9]+ ns, 99 % in [0-9]+ ns$'
	expect 0 python3 "$srcdir/tests/script/metrics.py" : client "$dir/client.prom"
	prints '{call="get"} 1000 0\n{call="put"} 1000 0\n'
	[ ! -e "$dir/client.prom.new" ] || fail "a partial file remains"
	expect 1 "$dir/program" "$dir/no/such/folder" && says 'No such file'
	expect 1 env FARKV_URI="$dir/nobody" "$dir/program" && says 'no server'
else
	echo "not tested: examples/metrics.c needs a compiler, and no sanitizer"
fi

# ---- the port is taken
refused() { # STATUS MESSAGE OPTION...
	want=$1 message=$2
	shift 2
	expect "$want" timeout 20 "$KVSERVER" -s "$dir/refused" -m 8 "$@" && says "$message"
	[ ! -e "$dir/refused" ] || fail "a socket remains: $*"
}
refused 1 "metrics: $at: address already in use; stop .* or choose another port" --metrics "$at"
refused 64 "metrics: 'here' is no address: give PORT, HOST:PORT or \[IPV6\]:PORT" --metrics here
refused 64 "metrics: 'localhost:70000' is no address" --metrics localhost:70000
refused 64 "metrics: '::1:9151' is no address" --metrics ::1:9151
refused 64 "metrics: cannot find the address of 'no.such.host.invalid'" --metrics no.such.host.invalid:1
expect 64 timeout 20 "$KVSERVER" --check-config --metrics x && says "metrics: 'x' is no address"
kill "$server"
wait "$server" || fail "exit status"

# ---- 503 while it leaves: a client that does not listen holds the end up
start_server leaves -m 8 --drain-ms 60000 --metrics localhost:0
where leaves
if ! remote; then
	"$KVCLI" -u "$FARKV_URI" <"$dir/to" >"$dir/got" &
	stay=$!
	servers="$servers $stay"
	exec 7>"$dir/to"
	echo 'put a 1' >&7
	until kvcli exists a >"$dir/out" 2>&1; do :; done
	freeze "$stay"
	kill "$server"
	while ask get /readyz >"$dir/out"; do :; done
	[ "$(cat "$dir/out")" = 'shutting down' ] || fail "/readyz while it leaves: $(cat "$dir/out")"
	expect 0 ask get /healthz && prints 'ok\n'
	exec 7>&-
	kill -CONT "$stay"
	wait "$stay"
else
	kill "$server"
fi
wait "$server" || fail "exit status after SIGTERM"

finish
