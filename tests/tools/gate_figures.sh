#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make gate-figures: kvgate beside memcached and redis-server of this machine, one after the other
# in each round, at Unix sockets; and its clients beside hostile ones. Some three minutes.
#
# gate_figures.sh [memcached|redis|hostile]...   all, or those named
#
# GATE_ROUNDS (5) rounds; GATE_SECONDS (2) for each run. Medians.
# shellcheck disable=SC2154
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

rounds=${GATE_ROUNDS:-5}
seconds=${GATE_SECONDS:-2}
KVGATE=$(unwrap "$KVGATE")
load=$(unwrap "$top_builddir/tests/tools/gate_load")

# background PROGRAM...: runs until the end of the script.
background() {
	"$@" >>"$dir/background.log" 2>&1 &
	servers="$servers $!"
}

# ready SOCKET: waits until it is there.
ready() {
	until [ -S "$1" ]; do
		kill -0 "${servers##* }" 2>/dev/null || skip "$(tail -n 1 "$dir/background.log")"
	done
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# compare NAME MINE THEIRS: functions that print a rate; the medians, and that of the ratios.
compare() {
	: >"$dir/mine"
	: >"$dir/theirs"
	for _ in $(seq "$rounds"); do
		$2 >>"$dir/mine"
		$3 >>"$dir/theirs"
	done
	printf '%-34s %10s %10s %6s\n' "$1" "$(median <"$dir/mine")" "$(median <"$dir/theirs")" \
		"$(paste "$dir/mine" "$dir/theirs" | awk '{ printf "%.2f\n", $1 / $2 }' | median)"
}

# pipelines SOCKET get|set
pipelines() {
	"$load" "$1" "$2" 50 32 "$seconds" | cut -d ' ' -f 1
}

beside_memcached() {
	background memcached -s "$dir/memcached" -t 1 -m 256 -u "$(id -un)"
	ready "$dir/memcached"
	for kind in get set; do
		mine() { pipelines "$dir/mc" "$kind"; }
		theirs() { pipelines "$dir/memcached" "$kind"; }
		compare "memcached: $kind, 50 x 32" mine theirs
	done
}

# benchmark SOCKET set|get DEPTH REQUESTS
benchmark() {
	redis-benchmark -s "$1" -t "$2" -P "$3" -n "$4" -q --csv | tail -n 1 | cut -d '"' -f 4
}

beside_redis() {
	background redis-server --port 0 --unixsocket "$dir/redis" --save ''
	ready "$dir/redis"
	for depth in 32 1; do
		n=1000000
		[ $depth = 32 ] || n=100000
		for kind in get set; do
			mine() { benchmark "$dir/resp" "$kind" "$depth" "$n"; }
			theirs() { benchmark "$dir/redis" "$kind" "$depth" "$n"; }
			compare "redis-server: $kind -P $depth" mine theirs
		done
	done
}

# The 99th percentile of single gets of 20 clients, alone and beside hostile ones.
hostile() {
	mine() { "$load" "$dir/mc" get 20 1 "$seconds" | cut -d ' ' -f 3; }
	for _ in $(seq "$rounds"); do mine; done >"$dir/alone"
	background python3 "$srcdir/tests/script/gate.py" hostiles "$dir/resp" "$dir/mc" \
		"$dir/hostile.ready"
	until [ -e "$dir/hostile.ready" ]; do
		kill -0 "${servers##* }" 2>/dev/null && continue
		fail "$(tail -n 1 "$dir/background.log")"
		exit 1
	done
	for _ in $(seq "$rounds"); do mine; done >"$dir/beside"
	printf '%-34s %8s us %7s us %6s\n' "99th percentile, hostile beside" \
		"$(median <"$dir/beside")" "$(median <"$dir/alone")" \
		"$(echo "$(median <"$dir/beside") $(median <"$dir/alone")" | awk '{ printf "%.2f", $1 / $2 }')"
}

[ $# -gt 0 ] || set -- memcached redis hostile
for part; do
	case $part in
	memcached) needs memcached ;;
	redis) needs redis-server redis-benchmark ;;
	hostile) needs python3 ;;
	*)
		fail "$part: there are memcached, redis and hostile"
		exit 1
		;;
	esac
done
start_server store -m 256m
background "$KVGATE" --memcached "$dir/mc" --resp "$dir/resp" --max-clients 20000
ready "$dir/resp"
printf '%-34s %10s %10s %6s\n' '' kvgate other ratio
for part; do
	case $part in
	memcached) beside_memcached ;;
	redis) beside_redis ;;
	hostile) hostile ;;
	esac
done
[ "$failures" -eq 0 ]
