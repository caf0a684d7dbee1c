#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make scale-figures: the cost of growth, updates and sweeps, on a machine that does
# nothing else; some twenty minutes.
#
# scale_figures.sh [growth|reads|updates|sweep]...   all, or those named
#
# SCALE_ROUNDS (5) rounds of each comparison; SCALE_SECONDS (10) for each run;
# SCALE_RATE (200000) inserts a second; SCALE_ITEMS (10000000) for the sweep.
# shellcheck disable=SC2154
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

rounds=${SCALE_ROUNDS:-5}
seconds=${SCALE_SECONDS:-10}
rate=${SCALE_RATE:-200000}
records=1000000
FARKV_SCALE=full
export FARKV_SCALE

title() {
	printf '\n== %s\n' "$*"
}

program() {
	"$top_builddir/tests/scale/$1" || fail "$1: exit status $?"
}

# pinned CPU COMMAND...: on that CPU if there are two, so that the reader's does
# nothing but read.
if [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null; then
	pinned() {
		cpu=$1
		shift
		taskset -c "$cpu" "$@"
	}
else
	pinned() {
		shift
		"$@"
	}
fi

# stat NAME: one of the server's figures.
stat() {
	kvcli stats --json | sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p"
}

small="-p fieldcount=1 -p fieldlength=8"

# measure NAME SERVER-OPTION...: reads of workload C beside a client that inserts;
# sets $reads, operations a second, and $splits of the same time.
measure() {
	name=$1
	shift
	start_server "$name" -m 2g "$@"
	# shellcheck disable=SC2086
	kvbench load $small -p recordcount=$records >"$dir/load" 2>&1 ||
		fail "load: $(cat "$dir/load")"
	command -v taskset >/dev/null && [ "$(nproc)" -ge 2 ] &&
		taskset -p -c 0 "$server" >/dev/null
	total=$((records + rate * (seconds + 60)))
	# shellcheck disable=SC2086
	pinned 0 "$KVBENCH" load $small -p recordcount=$total \
		-p insertstart=$records -p insertcount=$((total - records)) \
		-p maxexecutiontime=$((seconds + 4)) \
		--target="$rate" >"$dir/inserts" 2>&1 &
	inserter=$!
	sleep 1
	before=$(stat splits)
	# shellcheck disable=SC2086
	pinned 1 "$KVBENCH" run -P "$srcdir/bench/workloads/workloadc" $small -p recordcount=$records \
		-p operationcount=0 -p maxexecutiontime="$seconds" \
		>"$dir/reads" 2>&1 || fail "run: $(cat "$dir/reads")"
	splits=$(($(stat splits) - before))
	reads=$(sed -n 's/^\[OVERALL\], Throughput(ops\/sec), *//p' "$dir/reads")
	wait "$inserter" || fail "inserts: $(cat "$dir/inserts")"
	inserts=$(sed -n 's/^\[OVERALL\], Throughput(ops\/sec), *//p' "$dir/inserts")
	stop_server
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

reads() {
	title "workload C, 8-byte values, $records records, beside $rate inserts a second"
	echo "round      growing (splits, inserts/s)   index made in advance (splits)   ratio"
	: >"$dir/ratios"
	round=1
	while [ "$round" -le "$rounds" ]; do
		measure "grow$round"
		grow=$reads grow_splits=$splits grow_inserts=$inserts
		measure "still$round" --index-slots 134217728
		awk -v r="$round" -v g="$grow" -v gs="$grow_splits" \
			-v gi="$grow_inserts" -v s="$reads" -v ss="$splits" 'BEGIN {
			printf "%5d %12.0f (%d, %.0f) %20.0f (%d) %16.3f\n", r, g, gs, gi, s, ss, g / s
			print g / s >"'"$dir/ratio"'"
		}'
		cat "$dir/ratio" >>"$dir/ratios"
		round=$((round + 1))
	done
	echo "median of the ratios: $(median <"$dir/ratios")"
}

[ $# -gt 0 ] || set -- growth reads updates sweep
for figure in "$@"; do
	case $figure in
	growth)
		title "growth from 100 to 20 million items, one writer and one reader"
		program scale_growth
		;;
	reads) reads ;;
	updates)
		title "100 million updates of a million items"
		CK_RUN_CASE=updates program scale_memory
		;;
	sweep)
		title "sweeps"
		program scale_sweep
		;;
	*) fail "there is no figure $figure" ;;
	esac
done
[ "$failures" -eq 0 ]
