#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvbench limit: every side has plausible figures, and mistakes are named.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"

start_server s -m 256m

small="-p recordcount=20000 -p operationcount=10000 -p rounds=2"

# figures TEST SIDE: rate, share, p50, p99, ratio of the last table.
figures() {
	awk -v test="$1" -v side="$2" '/^[a-z]/ { now = $0 } now == test && $1 == side {
		print $2, $3, $4, $5, $6 }' "$dir/out"
}
# holds TEST SIDE CONDITION: on rate, share, p50, p99 and ratio.
holds() {
	line=$(figures "$1" "$2")
	cases=$((cases + 1))
	echo "$line" | awk '{ rate = $1; share = $2; p50 = $3; p99 = $4; ratio = $5 }
		NF == 5 && ('"$3"') { good = 1 } END { exit !good }' ||
		fail "$1, $2: not so that $3: '$line'"
}

# true_of TEST SIDE: its share and ratio are those of the rates and 99th percentiles
# beside them. Of one round, because medians of several are independent; a share
# has two decimals, and a percentile none.
true_of() {
	cases=$((cases + 1))
	figures "$1" limit >"$dir/limit"
	figures "$1" "$2" | awk -v file="$dir/limit" '
		function far(a, b, by) { return a - b > by || b - a > by }
		{ getline line <file; split(line, l, " ") }
		NF == 5 && $1 > 0 && $3 > 0 && $3 <= $4 && !far($2, $1 / l[1], 0.0051 + (1 + $2) / l[1]) &&
			!far($5, $4 / l[4], 0.0051 + (1 + $5) / l[4]) { good = 1 }
		END { exit !good }' ||
		fail "$1, $2: share and ratio are not those of '$(figures "$1" "$2")' to '$(cat "$dir/limit")'"
}

# shellcheck disable=SC2086
expect 0 kvbench limit $small -p rounds=1
for op in get put "get x32" "put x32" "get q32" "put q32"; do
	true_of "$op" limit
	true_of "$op" farkv
done
# shellcheck disable=SC2086
expect 0 kvbench limit $small
grep -Ev '^(Command line: limit .*|kvbench [0-9.]+|)$' "$dir/err" && fail "more than the preamble"
shows '^20000 records, keys of 16 bytes, values of 100, uniform.*; one client, medians of 2 rounds of 10000 operations; pages of [24] [MK]iB$'
for op in get put "get x32" "put x32" "get q32" "put q32"; do
	holds "$op" limit 'share == 1 && ratio == 1 && rate > 0 && rate < 1e9 && p50 >= 5 && p50 <= p99'
	holds "$op" farkv 'rate > 0 && rate < 1e9 && p50 >= 5 && p50 <= p99'
done
# libcuckoo, where kvbench has it, knows no batches.
if kvbench run libcuckoo -P "$srcdir/bench/workloads/workloadc" >/dev/null 2>&1; then
	# shellcheck disable=SC2086
	expect 0 kvbench limit $small -p rounds=1
	true_of get libcuckoo
	true_of put libcuckoo
	for op in "get x32" "put x32" "get q32" "put q32"; do
		[ -z "$(figures "$op" libcuckoo)" ] || fail "$op of libcuckoo"
	done
fi

# Lengths, keys of several lengths, other distributions.
for how in "-p fieldlength=1" "-p fieldlength=5000 -p recordcount=1500 -p operationcount=2000" \
	"-p fieldlength=20000 -p recordcount=500 -p operationcount=1000" "-p insertorder=hashed" \
	"-p requestdistribution=zipfian" "-p recordcount=1" \
	"-P $srcdir/bench/workloads/workloadb"; do
	# shellcheck disable=SC2086
	expect 0 kvbench limit $small -p rounds=1 $how -p keyprefix=other
	true_of get farkv
	true_of "put x32" farkv
	true_of "put q32" farkv
done

# Of a single operation, too.
# shellcheck disable=SC2086
expect 0 kvbench limit $small -p operationcount=1 -p rounds=1
true_of get farkv
true_of "put x32" farkv
true_of "put q32" farkv

# The longest of other0 to other9.
# shellcheck disable=SC2086
expect 0 kvbench limit $small -p keyprefix=other -p recordcount=10 -p zeropadding=0
shows '^10 records, keys of 6 bytes'

mistake() { # STATUS MESSAGE ARGUMENT...
	want=$1 message=$2
	shift 2
	# shellcheck disable=SC2086
	expect "$want" kvbench limit $small "$@" && tail -n 1 "$dir/err" | grep -Eq "$message" ||
		fail "$*: $(tail -n 1 "$dir/err")"
	[ "$(grep -c 'error:' "$dir/err")" -eq 1 ] || fail "$*: not one line of error"
	prints ''
}
mistake 64 'do not name a store' null
mistake 64 'insertproportion: limit works on records that are there' -p insertproportion=0.5
mistake 64 'fieldlengthdistribution: limit has values of one length' -p fieldlengthdistribution=uniform
mistake 64 'operationcount: limit needs one' -p operationcount=0 -p maxexecutiontime=1
mistake 64 'fieldlength: limit needs values' -p fieldlength=0
mistake 64 'threadcount: limit has one client' -threads 2
mistake 64 'target: limit has no schedule' -target 5
mistake 64 'exportfile: limit prints' -p exportfile="$dir/x"
for what in processes=2 batch=4 warmup=2 maxexecutiontime=1 update=field dataintegrity=true \
	loadfirst=false exporter=JSONMeasurementsExporter measurementtype=histogram \
	measurement.interval=intended hdrhistogram.fileoutput=true csv="$dir/x" plot="$dir/x" status=true \
	db=lmdb farkv.cache_entries=10 farkv.cache_bytes=0 farkv.op_timeout_ms=5 \
	farkv.connect_timeout_ms=5; do
	mistake 64 "${what%%=*}: has no meaning for limit" -p "$what"
done
[ ! -e "$dir/x" ] || fail "a file nobody writes"
# By RDMA (t-limit measures it) the store has to be there, too, and a device.
for how in "-u kv://[::1]:1" "-p farkv.uri=kv://[::1]:1"; do
	# shellcheck disable=SC2086
	kvbench limit $small $how >"$dir/out" 2>"$dir/err"
	case $? in
	1 | 69) ;;
	*) fail "$how: not refused" ;;
	esac
	tail -n 1 "$dir/err" | grep -Eiq 'error: .*(kv://|RDMA)' && [ ! -s "$dir/out" ] ||
		fail "$how: $(tail -n 1 "$dir/err")"
done
mistake 69 'none' --socket "$dir/none"

# interrupt SIGNAL SECONDS: its exit status in $got, at most 4 seconds after the signal.
interrupt() {
	# shellcheck disable=SC2086
	$INT "$KVBENCH" limit $small -p operationcount=1000000000000 >"$dir/out" 2>"$dir/err" &
	bench=$!
	sleep "$2"
	kill "-$1" $bench
	tries=0
	while kill -0 $bench 2>/dev/null && [ $tries -lt 40 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	[ $tries -lt 40 ] || kill -KILL $bench
	wait $bench
	got=$?
}

# A signal acts within a chunk, not at the end of a cell, which would take hours here. A
# busy machine may still be loading, or starting: then there is no output.
for signal in INT:130 TERM:143; do
	status=${signal#*:} signal=${signal%:*}
	cases=$((cases + 1))
	for seconds in 1 4 16; do
		interrupt "$signal" "$seconds"
		[ ! -s "$dir/err" ] || grep -q 'error: interrupted while loading$' "$dir/err" || break
	done
	[ $got -eq "$status" ] || fail "SIG$signal in the middle: exit status $got"
	[ "$(grep -c 'error:' "$dir/err")" -eq 1 ] && tail -n 1 "$dir/err" | grep -q 'error: interrupted while measuring$' ||
		fail "SIG$signal in the middle: $(cat "$dir/err")"
	prints ''
done
start_server full -m 8m
mistake 1 'farkv: loading failed: .*memory' -p recordcount=1000000

finish
