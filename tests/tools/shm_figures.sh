#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make shm-figures: operations over shared memory, compared with the limit, with one
# client and with one connection, on a machine that does nothing else; some four minutes.
#
# shm_figures.sh [limit|clients|key]...   all, or those named
#
# SHM_ROUNDS (5) rounds of each comparison; SHM_RECORDS (1000000); SHM_SECONDS (3) for each
# run of clients. Medians; ends with status 1 if one misses its target.
# shellcheck disable=SC2154
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

rounds=${SHM_ROUNDS:-5}
records=${SHM_RECORDS:-1000000}
seconds=${SHM_SECONDS:-3}
workloads=$srcdir/bench/workloads
FARKV_SCALE=full
export FARKV_SCALE

# target NAME FIGURE at-least|at-most|above BOUND
target() {
	awk -v name="$1" -v x="$2" -v how="$3" -v bound="$4" 'BEGIN {
		met = how == "at-most" ? x <= bound : how == "above" ? x > bound : x >= bound
		printf "%-42s %6.2f   %-8s %5.2f   %s\n", name, x, how, bound,
			met ? "met" : "missed"
		exit !met
	}' || failures=$((failures + 1))
}

# ---- one client, against the limit

# limit NAME [PROPERTY...]: on a server of its own; the table stays in $dir/NAME.table.
limit() {
	table=$dir/$1.table
	start_server "$1" -m 3g
	shift
	kvbench limit --uri "$FARKV_URI" -p recordcount="$records" -p rounds="$rounds" \
		"$@" >"$table" 2>"$dir/err" || fail "limit: $(cat "$dir/err")"
	stop_server
	cat "$table"
}

# cell OPERATION SIDE COLUMN: of the last table: 2 per second, 3 share, 6 p99 ratio.
cell() {
	awk -v op="$1" -v side="$2" -v column="$3" '
		!/^ / { section = $0 }
		section == op && $1 == side { print $column }' "$table"
}

limits() {
	limit small
	target "get, share of the limit" "$(cell get farkv 3)" at-least 0.85
	target "get, 99th percentile to the limit's" "$(cell get farkv 6)" at-most 1.25
	target "put over a value, share of the limit" "$(cell put farkv 3)" at-least 0.80
	target "32 gets together, share of the limit" "$(cell 'get x32' farkv 3)" at-least 0.70
	limit large -p fieldlength=1024
	target "get of 1 KiB, share of the limit" "$(cell get farkv 3)" at-least 0.85
}

# ---- two client processes, against one

# rate WORKLOAD PROPERTY...: operations a second.
rate() {
	file=$workloads/workload$1
	shift
	kvbench run farkv -P "$file" -p recordcount="$records" -p operationcount=0 \
		-p maxexecutiontime="$seconds" "$@" 2>"$dir/err" |
		sed -n 's/^\[OVERALL\], Throughput.*, //p'
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# compare NAME WORKLOAD FIRST SECOND: the median of the rounds' ratios goes to $ratio.
compare() {
	: >"$dir/ratios"
	round=0
	while [ $round -lt "$rounds" ]; do
		round=$((round + 1))
		# shellcheck disable=SC2086
		one=$(rate "$2" $3) two=$(rate "$2" $4)
		echo "${one:-0} ${two:-0}" |
			awk -v name="$1" '{ r = $1 ? $2 / $1 : 0
				printf "    %s: %.0f and %.0f a second, %.2f\n", name, $1, $2, r
				print r >"/dev/stderr" }' 2>>"$dir/ratios"
	done
	ratio=$(median <"$dir/ratios")
}

clients() {
	for workload in c b a; do
		start_server "clients-$workload" -m 4g
		kvbench load farkv -P "$workloads/workload$workload" \
			-p recordcount="$records" >"$dir/out" 2>"$dir/err" ||
			fail "load: $(cat "$dir/err")"
		compare "workload $workload" "$workload" "-p processes=1" "-p processes=2"
		stop_server
		bound=1.90
		[ $workload = a ] && bound=1.80
		target "two processes against one, workload $workload" "$ratio" at-least $bound
	done
}

# ---- 64 connections, one key

key() {
	"$top_builddir/tests/scale/scale_hot" || fail "scale_hot: exit status $?"
}

[ $# -gt 0 ] || set -- limit clients key
for part; do
	case $part in
	limit) limits ;;
	clients) clients ;;
	key) key ;;
	*) fail "$part: there are limit, clients and key" ;;
	esac
done
[ "$failures" -eq 0 ]
