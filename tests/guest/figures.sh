#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The time of an operation, compared with one READ of the same device by perftest, and
# its cost for the server's CPU. Boots a guest, in which it calls itself with
# --here.
#
# figures.sh [ROUNDS [OPERATIONS]]
#
# Each round measures ib_read_lat, then get, put and insert that search, get and put of
# cached locations (cached_...) and gets of these in batches, gets of cached values
# (cached_value_get), and ib_read_bw, so that the machine's changes of speed affect all alike; many
# short rounds do that best. Fails if a median over the rounds misses its target.
# shellcheck disable=SC2154
if [ "${1-}" != --here ]; then
	exec "$srcdir/tests/guest/guest" run -- "$0" --here "$@"
fi
shift
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

rounds=${1:-15}
operations=${2:-500}
work=100000
figures=$(unwrap "$top_builddir/tests/guest/rdma_figures")

# cpu_ns PID: processor time of all its threads.
cpu_ns() {
	cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

# wakes PID: how often its threads have waited.
wakes() {
	cat "/proc/$1"/task/*/status | awk '/^voluntary/ { sum += $2 } END { print sum }'
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# of NAME: that operation's figure of each round.
of() {
	sed -n "s/.*\<$1 \([0-9.]*\).*/\1/p" "$dir/rounds"
}

# row NAME TARGET: medians of the times and of the rounds' ratios.
row() {
	of "$1" >"$dir/op"
	us=$(median <"$dir/op")
	ratio=$(of read | paste - "$dir/op" | awk '{ print $2 / $1 }' | median)
	awk -v name="$1" -v us="$us" -v ratio="$ratio" -v target="$2" 'BEGIN {
		printf "%-10s %8.1f %8.2f %8.2f  %s\n", name, us, ratio, target,
			ratio <= target ? "met" : "missed"
		exit ratio > target
	}'
}

# rate_row TARGET: a key of a batch takes two requests, which are compared with two
# READs; the ratio is to be as large as the target.
rate_row() {
	of mget >"$dir/op"
	rate=$(median <"$dir/op")
	ratio=$(of reads | paste - "$dir/op" | awk '{ print $2 / ($1 / 2) }' | median)
	awk -v rate="$rate" -v ratio="$ratio" -v target="$1" 'BEGIN {
		printf "%-10s %8d %8.2f %8.2f  %s\n", "mget", rate, ratio, target,
			(ratio >= target) ? "met" : "missed"
		exit ratio < target
	}'
}

testcase "figures"
serve figures -q -m 128 --index-slots 1000000 --transport rdma --no-auth --listen "$GUEST_ADDR:17670"
uri=kv://$GUEST_ADDR:17670
round=0
while [ $round -lt "$rounds" ]; do
	round=$((round + 1))
	{
		echo "read $(read_lat 256 "$operations")"
		"$figures" "$uri" round "$operations" 2>"$dir/figures.err" ||
			fail "$(cat "$dir/figures.err")"
		echo "reads $(read_rate 256 "$((operations * 5))")"
	} | tr '\n' ' ' >>"$dir/rounds"
	echo >>"$dir/rounds"
done
sed 's/^/    /' "$dir/rounds"

mkfifo "$dir/say" "$dir/told"
"$figures" "$uri" work $work <"$dir/say" >"$dir/told" 2>"$dir/work.err" &
worker=$!
servers="$servers $worker"
exec 8>"$dir/say" 9<"$dir/told"
read -r _ <&9
before_ns=$(cpu_ns "$server") before=$(wakes "$server") began=$(uptime_s)
echo go >&8
read -r _ <&9
after_ns=$(cpu_ns "$server") after=$(wakes "$server")
echo go >&8
wait "$worker" || fail "$(cat "$dir/work.err")"

printf '%-10s %8s %8s %8s\n' '' us ratio target
printf '%-10s %8.1f\n' read "$(of read | median)"
row get 2.4 || fail "get misses its target"
row put 3.4 || fail "put misses its target"
row insert 3.0 || fail "insert misses its target"
row cached_get 1.75 || fail "a remembered get misses its target"
row cached_value_get 1.0 || fail "a get of a value that is kept misses its target"
row cached_put 1.4 || fail "a remembered put misses its target"
printf '%-10s %8s %8s %8s\n' '' keys/s ratio target
printf '%-10s %8d\n' reads "$(of reads | median)"
rate_row 0.8 || fail "gets in batches of 16 miss their target"
# It looks after silent clients, every other second; see rdma_idle.c.
most=$(uptime_s | awk -v began="$began" '{ printf "%d", ($1 - began) * 2 + 20 }')
printf "kvserver, over %s operations: %s wakes of at most %s, %s us of CPU time\n" \
	$work $((after - before)) "$most" $(((after_ns - before_ns) / 1000))
[ $((after - before)) -le "$most" ] || fail "the server's CPU takes part"
finish
