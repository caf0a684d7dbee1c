#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvbench as a YCSB user runs it: all workloads, the report, mistakes.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

workloads=$srcdir/bench/workloads
start_server s -m 256m

# number SECTION MEASUREMENT: of the last report.
number() {
	sed -n "s|^\[$1\], $2, ||p" "$dir/out"
}
is() { # SECTION MEASUREMENT VALUE
	[ "$(number "$1" "$2")" = "$3" ] ||
		fail "[$1], $2 is '$(number "$1" "$2")', expected $3"
}
# await ID TEXT [TIMES]: until a kvbench in the background has printed that on stderr TIMES times.
await() {
	until [ "$(grep -c -- "$2" "$dir/err")" -ge "${3:-1}" ] || ! kill -0 "$1"; do sleep 0.05; done
}
takes() { # MILLISECONDS: at least; how much more is the machine's affair
	[ "$(number OVERALL 'RunTime(ms)')" -ge "$1" ] || fail "took $(number OVERALL 'RunTime(ms)') ms, not $1"
}
sums_to() { # VALUE SECTION...: of Operations
	want=$1
	shift
	sum=0
	for section in "$@"; do
		n=$(number "$section" Operations)
		sum=$((sum + ${n:-0}))
	done
	[ "$sum" -eq "$want" ] || fail "$* sum to $sum operations, expected $want"
}

# ---- the workloads, with contents checked
for db in farkv null; do
	check=$([ $db = null ] && echo false || echo true)
	expect 0 kvbench load $db -P "$workloads/workloada" -p dataintegrity="$check"
	is INSERT Operations 1000
	is INSERT Return=OK 1000
	is WORKLOAD Phase load
	for w in a b c d f; do
		expect 0 kvbench run -db $db -P "$workloads/workload$w" -p seed=1 -p dataintegrity="$check" \
			-threads 2 -p operationcount=5000
		is WORKLOAD Seed 1
		is WORKLOAD Binding $db
		case $w in
		a | b) sums_to 5000 READ UPDATE ;;
		c) is READ Operations 5000 ;;
		d) sums_to 5000 READ INSERT ;;
		f)
			[ "$(number READ Operations)" -eq 5000 ] || fail "workload F reads"
			is READ-MODIFY-WRITE Operations "$(number UPDATE Operations)"
			;;
		esac
		[ $db = null ] || is VERIFY Return=OK "$(number READ Operations)"
		is CLEANUP Operations 2
	done
done
expect 64 kvbench run -P "$workloads/workloade" -db farkv &&
	grep -q 'workloade:[0-9]*: scanproportion: a scan reads neighbours in the order of the keys' "$dir/err" ||
	fail "workload E: $(cat "$dir/err")"

# ---- an open loop with requests in flight: contents checked, nothing lost
for how in queuedepth=128 queuedepth=1 queuedepth=0; do
	expect 0 kvbench load farkv -P "$workloads/workloada" -p dataintegrity=true -p keyprefix="$how" -p recordcount=5000 \
		-target 100000 -p openloop=true -threads 2 -p $how
	is INSERT Return=OK 5000
	# All records, and no others, whichever thread had the last arrival.
	expect 0 kvbench run farkv -P "$workloads/workloadc" -p dataintegrity=true -p keyprefix="$how" -p recordcount=5000 \
		-p operationcount=5000 -p requestdistribution=sequential -target 100000 -p openloop=true -p $how
	is VERIFY Return=OK 5000
	for update in replace field; do
		expect 0 kvbench run farkv -P "$workloads/workloadf" -p dataintegrity=true -p keyprefix="$how" \
			-p operationcount=5000 -p recordcount=5000 -target 100000 -p openloop=true -threads 2 -p $how \
			-p insertproportion=0.1 -p update=$update
		sums_to 5000 READ INSERT
		is READ-MODIFY-WRITE Operations "$(number UPDATE Operations)"
		is VERIFY Return=OK "$(number READ Operations)"
	done
	case $how in
	queuedepth=0) grep -q MostInFlight "$dir/out" && fail "calls are not in flight" ;;
	*) shows '^\[QUEUE\], MostInFlight, [0-9]+$' && shows '^\[QUEUE\], LateQueueFull, [0-9]+$' ;;
	esac
done
expect 1 kvbench run farkv -P "$workloads/workloadc" -p keyprefix=none -target 100000 -p openloop=true
is READ Return=NOT_FOUND 1000
expect 64 kvbench load farkv -P "$workloads/workloada" -target 1000 -p openloop=true -p core_workload_insertion_retry_limit=1
grep -q 'core_workload_insertion_retry_limit: openloop=true tries nothing again' "$dir/err" || fail "$(tail -n 1 "$dir/err")"
# A run has no use for it, in flight or not.
expect 0 kvbench run null -P "$workloads/workloada" -target 10000 -p openloop=true -p core_workload_insertion_retry_limit=1
# Two processes, a warm-up, a time limit with requests in flight: these complete and count once.
open="-target 20000 -p openloop=true"
# shellcheck disable=SC2086
expect 0 kvbench run farkv -P "$workloads/workloadf" $open -p operationcount=10000 -p processes=2 -p dataintegrity=true
is READ Operations 10000
is VERIFY Return=OK 10000
is QUEUE Operations 10000
is CLEANUP Operations 2
# shellcheck disable=SC2086
expect 0 kvbench run farkv -P "$workloads/workloadf" $open -p operationcount=10000 -p warmup=0.5 -p dataintegrity=true
is READ Operations 10000
is VERIFY Return=OK 10000
is QUEUE Operations 10000
# 50 ms for each: many are in flight at the time limit.
for how in '' '-p processes=2'; do
	# shellcheck disable=SC2086
	expect 0 kvbench run null -P "$workloads/workloadc" $open -p operationcount=0 -p maxexecutiontime=1 \
		-p queuedepth=4096 -p null.delay_us=50000 $how
	n=$(number READ Operations)
	[ "${n:-0}" -ge 100 ] && [ "$n" -le 20001 ] || fail "one second at 20000/s: '$n' reads $how"
	is READ Return=OK "$n"
	is QUEUE Operations "$n"
	[ "$(number QUEUE MostInFlight)" -ge 100 ] || fail "$(number QUEUE MostInFlight) in flight at most $how"
done
# A store with calls only does not pass for one with requests in flight.
# shellcheck disable=SC2086
if "$KVBENCH" run null,lmdb -P "$workloads/workloada" $open >"$dir/out" 2>"$dir/err"; then
	[ "$(grep -c 'openloop: .* has calls only' "$dir/err")" -eq 1 ] && grep -q 'openloop: lmdb has calls only' "$dir/err" ||
		fail "no word of calls: $(cat "$dir/err")"
	# shellcheck disable=SC2086
	expect 0 kvbench run null,lmdb -P "$workloads/workloada" $open -p queuedepth=0
	grep -q 'calls only' "$dir/err" && fail "calls were asked for: $(cat "$dir/err")"
fi
# A server that is killed: an error in one line, long before the hour is over.
start_server gone -m 64m
expect 0 kvbench load farkv -P "$workloads/workloadc"
: >"$dir/err" # await() reads it before the run empties it
# shellcheck disable=SC2086
timeout 300 "$KVBENCH" run farkv -P "$workloads/workloadc" $open -p maxexecutiontime=3600 -p farkv.op_timeout_ms=1000 \
	-s -p status.interval=1 >"$dir/out" 2>"$dir/err" &
bench=$!
await $bench 'READ: Count=[1-9]'
kill -KILL "$server"
wait $bench
got=$?
[ $got -eq 1 ] || fail "the server was killed: exit status $got"
[ "$(grep -c 'error:' "$dir/err")" -eq 1 ] && tail -n 1 "$dir/err" |
	grep -Eq 'error: [0-9]+ operations failed, the first: READ user[0-9]+: SERVICE_UNAVAILABLE: .' ||
	fail "the server was killed: $(cat "$dir/err")"
FARKV_URI=shm://$dir/s
expect 64 kvbench run farkv -P "$workloads/workloada" -target 1000 -p openloop=true -p batch=2

# ---- the shape of the report
expect 0 kvbench run null -P "$workloads/workloadc" -p hdrhistogram.percentiles=50,91,99.9
for line in 'OVERALL\], RunTime\(ms\), [0-9]+' 'OVERALL\], Throughput\(ops/sec\), [0-9]+\.[0-9]+' \
	'READ\], Operations, 1000' 'READ\], AverageLatency\(us\), [0-9]+\.[0-9]+' \
	'READ\], MinLatency\(us\), [0-9]+' 'READ\], MaxLatency\(us\), [0-9]+' \
	'READ\], 50thPercentileLatency\(us\), [0-9]+' 'READ\], 91stPercentileLatency\(us\), [0-9]+' \
	'READ\], 99\.9PercentileLatency\(us\), [0-9]+' 'READ\], 50thPercentileLatency\(ns\), [0-9]+' \
	'READ\], Return=OK, 1000' 'WORKLOAD\], RequestDistribution, zipfian-scrambled'; do
	shows "^\[$line\$"
done
grep -qv '^\[[A-Za-z-]*\], [^,]*, [^,]*$' "$dir/out" && fail "a line of another shape"
expect 0 kvbench run null -P "$workloads/workloadc" -p exporter=JSONArrayMeasurementsExporter -p exportfile="$dir/report.json"
prints ''
python3 - "$dir/report.json" <<'PY' || fail "JSON report"
import json, sys
lines = {(l["metric"], l["measurement"]): l["value"] for l in json.load(open(sys.argv[1]))}
sys.exit(lines[("READ", "Operations")] != 1000 or lines[("READ", "Return=OK")] != 1000)
PY
expect 0 kvbench run null -P "$workloads/workloada" -p seed=9 -p exporter=site.ycsb.measurements.exporter.CSVMeasurementsExporter
shows '^metric,measurement,value$'
cp "$dir/out" "$dir/report.csv"
expect 0 kvbench run null -P "$workloads/workloada" -p seed=9
python3 - "$dir/report.csv" "$dir/out" <<'PY' || fail "CSV report"
import csv, sys
rows = [tuple(r) for r in csv.reader(open(sys.argv[1], newline=""))]
text = [tuple(l.rstrip("\n")[1:].replace("], ", ", ", 1).split(", ", 2)) for l in open(sys.argv[2])]
assert rows[0] == ("metric", "measurement", "value") and all(len(r) == 3 for r in rows)
# The same names in the same order, and the same counts.
assert [r[:2] for r in rows[1:]] == [t[:2] for t in text]
counts = [r for r in rows if r[1] == "Operations" or r[1].startswith("Return=")]
assert counts == [t for t in text if t[1] == "Operations" or t[1].startswith("Return=")]
assert len(counts) == 5 and sum(int(c[2]) for c in counts if c[1] == "Operations") == 1001
PY
expect 64 kvbench run null -P "$workloads/workloada" -p exporter=XMLMeasurementsExporter
grep -q 'exporter: expected TextMeasurementsExporter, .* or CSVMeasurementsExporter$' "$dir/err" || fail "$(tail -n 1 "$dir/err")"

buckets() { # of the report: the sum of its whole-number lines
	awk -F', ' '$1 == "[READ]" && $2 ~ /^[0-9]+$/ { sum += $3 } END { print sum }' "$dir/out"
}
# ---- YCSB's other kinds of measurement, and its client's own command line
expect 0 kvbench -t -db null -P "$workloads/workloadc" -p measurementtype=histogram -p null.stall_ms=1500 \
	-p measurement.histogram.verbose=true -p histogram.buckets=1000
is READ Operations 1000
[ "$(buckets)" -eq 999 ] || fail "buckets sum to $(buckets)"
is READ '>1000' 1
is READ '95thPercentileLatency(us)' 0
# One of 1000 at 1.5 s, on a busy machine more of them: between max and mean there are bounds for any numbers.
awk -v v="$(number READ 'LatencyVariance(us)')" -v mean="$(number READ 'AverageLatency(us)')" \
	-v max="$(number READ 'MaxLatency(us)')" 'BEGIN {
	exit !(max >= 1500000 && v >= 0.999 * (max - mean) ^ 2 / 1000 && v <= 1.001 * mean * (max - mean)) }' ||
	fail "variance: $(grep '^.READ' "$dir/out")"
expect 0 kvbench -t -db null -P "$workloads/workloadc" -p measurementtype=hdrhistogram+histogram
shows '^\[HdrREAD\], 50thPercentileLatency\(ns\), ' && is HdrREAD Return=OK 1000 && is BucketREAD Operations 1000
grep -q '^\[READ\]' "$dir/out" && fail "YCSB has no [READ] beside [HdrREAD] and [BucketREAD]"
expect 0 kvbench -t null -P "$workloads/workloadc" -p measurementtype=timeseries -p timeseries.granularity=100 \
	-p operationcount=1000 -target 1000
[ "$(grep -Ec '^\[READ\], [0-9]+, [0-9.]+$' "$dir/out")" -ge 2 ] || fail "time series: $(cat "$dir/out")"
expect 0 kvbench run null -P "$workloads/workloadc" -p measurement.histogram.verbose=true
[ "$(buckets)" -eq 1000 ] || fail "buckets sum to $(buckets)"
expect 0 kvbench -load -db null -P "$workloads/workloadc"
is WORKLOAD Phase load

# ---- environment, and processor time of both sides
expect 0 kvbench run farkv -P "$workloads/workloada" -p operationcount=20000 -p dataintegrity=true
shows "^\[ENVIRONMENT\], Kernel, $(uname -s) $(uname -r) "
shows "^\[ENVIRONMENT\], Commit, [0-9a-f]{7,}|unknown"
for name in Date Machine Memory Pages Device kvbench; do
	shows "^\[ENVIRONMENT\], $name, .+"
done
is FARKV Transport shm
shows '^\[FARKV\], Pages, 4 KiB; '
is FARKV Library "$("$KVCLI" -V | cut -d ' ' -f 2)"
# Work before the start does not count: here the server's loads, below a warm-up.
server_cpu() {
	kvcli stats --json | sed 's/.*"cpu_ns": *\([0-9]*\).*/\1/'
}
before=$(server_cpu)
expect 0 kvbench run farkv -P "$workloads/workloada" -p operationcount=20000 -p dataintegrity=true
python3 - "$dir/out" $(($(server_cpu) - before)) <<'PY' || fail "processor time"
import sys
v = {tuple(l.rstrip("\n").split(", ")[:2]): l.rstrip("\n").split(", ")[2] for l in open(sys.argv[1])}
ms = float(v["[OVERALL]", "RunTime(ms)"])
client, server = (float(v["[CPU]", k + "(s)"]) for k in ("Client", "Server"))
assert 0 < client * 1000 <= 3 * ms + 30, (client, ms)  # one thread, and the library's
assert 0 < server * 1e9 <= int(sys.argv[2]), (server, sys.argv[2])
assert abs(float(v["[CPU]", "ClientPerOperation(ns)"]) - client * 1e9 / 20000) < 2
# Loads and stores are no requests.
assert v["[FARKV]", "READs"] == v["[FARKV]", "CASs"] == v["[FARKV]", "RoundTrips"] == "0"
messages, ops = float(v["[FARKV]", "ControlMessages"]), 20000
assert abs(float(v["[FARKV]", "ControlMessagesPerOperation"]) - messages / ops) < 1e-5
assert v["[FARKV]", "CacheMisses"] == v["[FARKV]", "CacheValues"] == "0"  # the last: all have room
PY
expect 0 kvbench run null -P "$workloads/workloada" -p operationcount=0 -p maxexecutiontime=1 -p warmup=1
takes 990
client=$(number CPU 'Client(s)')
[ "$(printf '%.0f' "${client}e3")" -le 1600 ] || fail "one second of one thread took $client s of a processor"

expect 0 kvbench load farkv -P "$workloads/workloadc" -p recordcount=20000

# ---- seeds repeat, time limits and targets hold
expect 0 kvbench run null -P "$workloads/workloada" -p seed=7
first=$(number READ Operations)
expect 0 kvbench run null -P "$workloads/workloada" -p seed=7
is READ Operations "$first"
expect 0 kvbench run null -P "$workloads/workloada" -p operationcount=1000 -target 2000
takes 450
shows '^\[Intended-READ\], Operations, '

expect 0 timeout 300 "$KVBENCH" run null -P "$workloads/workloada" -p operationcount=0 -target 2 -p maxexecutiontime=1
takes 990
expect 0 kvbench load null -P "$workloads/workloada" -target 100 -p maxexecutiontime=1
n=$(number INSERT Operations)
[ "$n" -ge 1 ] && [ "$n" -le 101 ] || fail "$n inserts in a second at 100/s"
grep -q "time was up after $n of 1000 records" "$dir/err" || fail "no word of a part load: $(cat "$dir/err")"

# A time replaces the number of operations that a file has; of two in one file, or of two
# that are given, what ends first counts.
expect 0 kvbench run null -P "$workloads/workloadc" -p maxexecutiontime=1 -target 2000
takes 990
expect 0 kvbench quick null -P "$workloads/workloadc" -p maxexecutiontime=1 -target 2000
shows '^[1-9][0-9]*\.[0-9] s, 1 client'
expect 0 kvbench run null -P "$workloads/workloadc" -p maxexecutiontime=3600 -p operationcount=1500
is READ Operations 1500
printf 'recordcount=10\noperationcount=1500\nmaxexecutiontime=3600\nreadproportion=1\nupdateproportion=0\n' >"$dir/both.props"
expect 0 kvbench run null -P "$dir/both.props"
is READ Operations 1500

# ---- more threads and processes than operations: the idle ones are not started
for how in '-p processes=2' '-p processes=5 -threads 3' '-threads 9' '-p processes=3 -p batch=64' \
	'-p processes=2 -p rounds=2' '-p processes=3 -target 1000 -p openloop=true' \
	'-p processes=2 -p warmup=0.01' "-p processes=2 -p csv=$dir/idle.csv"; do
	for n in 1 2 4; do
		# shellcheck disable=SC2086
		expect 0 kvbench run null,null -P "$workloads/workloadc" -p recordcount=3 -p operationcount=$n $how
		[ "$(number READ Operations | sort -u)" = $n ] || fail "$n operations, $how: $(number READ Operations)"
		# shellcheck disable=SC2086
		expect 0 kvbench load null -p recordcount=$n $how
		is INSERT Operations $n
	done
done
expect 0 kvbench run farkv -P "$workloads/workloada" -p processes=3 -p operationcount=1
sums_to 1 READ UPDATE

# ---- lengths from a file
# shellcheck disable=SC2317
histogram() {
	kvbench "$@" -P "$workloads/workloada" -p fieldcount=2 -p keyprefix=histogram \
		-p fieldlengthdistribution=histogram -p fieldlengthhistogram="$dir/lengths"
}
expect 78 histogram run null && grep -q "histogram $dir/lengths: No such file" "$dir/err" || fail "histogram: $(cat "$dir/err")"
printf 'BlockSize\t400\n0\t1\n2\t1\n' >"$dir/lengths"
expect 78 histogram run null && grep -q "error: $dir/lengths:3: " "$dir/err" || fail "histogram: $(cat "$dir/err")"
printf 'BlockSize\t400\n0\t1\n1\t1\n' >"$dir/lengths"
expect 0 histogram run -db farkv,null
is WORKLOAD ValueBytes "1600
1600"

# ---- several stores alternately: each is loaded
expect 0 kvbench run -db null,farkv -P "$workloads/workloadc" -p keyprefix=both
expect 1 kvbench run -db null,farkv -P "$workloads/workloadc" -p keyprefix=neither -p loadfirst=false
stores=farkv,null built=
for db in lmdb libcuckoo memcached; do
	"$KVBENCH" run $db -P "$workloads/workloadc" -p memcached.uri="$dir/nobody" >"$dir/out" 2>"$dir/err" && stores=farkv,$db,null
	grep -q "was built without $db" "$dir/err" || built="$built $db"
done
case $built in *libcuckoo*)
	expect 0 kvbench run libcuckoo -P "$workloads/workloadd" -threads 2 -p dataintegrity=true -p operationcount=5000
	is VERIFY Return=OK "$(number READ Operations)"
	;;
esac
# So long that an interruption is not half of a round.
expect 0 kvbench run -db $stores -P "$workloads/workloada" -p rounds=3 -p operationcount=50000
shows '^\[ROUNDS\], farkv round 3 Throughput\(ops/sec\), [0-9.]+$'
shows '^\[MEDIAN\], null Throughput\(ops/sec\), [0-9.]+$'
shows '^\[RATIO\], farkv/null Throughput, [0-9]+\.[0-9]+$'

case $built in *lmdb*)
	expect 64 kvbench run lmdb -P "$workloads/workloadc" -p lmdb.path="$dir/typo"
	grep -q 'error: lmdb.path: .*/typo has no database; load one' "$dir/err" && [ ! -e "$dir/typo" ] ||
		fail "a path without a database: $(tail -n 1 "$dir/err")"
	expect 0 kvbench load lmdb -P "$workloads/workloadc" -p lmdb.path="$dir/typo"
	expect 0 kvbench run lmdb -P "$workloads/workloadc" -p lmdb.path="$dir/typo"
	;;
esac

# ---- status and quick: their output, at a low rate
expect 0 kvbench run null -P "$workloads/workloada" -p maxexecutiontime=2 -p operationcount=0 -p status.interval=1 -s -target 1000
grep -Eq '^[0-9-]+ [0-9:]+ [1-9][0-9]* sec: [0-9]+ operations; [0-9.]+ current ops/sec; est completion in .*\[READ: Count=[0-9]+, Max=' "$dir/err" ||
	fail "status: $(cat "$dir/err")"
expect 0 kvbench quick -p keyprefix=quick -p recordcount=2000 -p maxexecutiontime=1 -target 1000
shows '^loaded 2000 records of 100 bytes' && shows 'operations/s$' && shows '^  read ' && shows '^  update '
expect 0 kvbench quick null,farkv -p keyprefix=twice -p recordcount=2000 -p maxexecutiontime=1 -target 1000
shows '^farkv: loaded 2000 records' && shows '^null: [1-9][0-9]*\.[0-9] s, 1 client'

# ---- failures are not ignored
expect 1 kvbench run farkv -P "$workloads/workloadc" -p recordcount=40000 -p requestdistribution=sequential \
	-p operationcount=40000
is READ-FAILED Operations 20000
is READ Return=NOT_FOUND 20000
tail -n 1 "$dir/err" | grep -q '20000 operations failed, the first: READ user[0-9]*: NOT_FOUND: were these records loaded' ||
	fail "$(tail -n 1 "$dir/err")"
expect 1 kvbench run farkv -P "$workloads/workloadc" -p recordcount=3000 -p fieldlength=99
is READ Return=UNEXPECTED_STATE 1000
expect 1 kvbench run farkv -P "$workloads/workloadc" -p recordcount=20000 -p dataintegrity=true
is READ Return=OK 1000
is VERIFY Return=UNEXPECTED_STATE 1000
expect 69 kvbench run -P "$workloads/workloada" --socket "$dir/none"
start_server full -m 8m
for batch in 1 16; do
	expect 1 kvbench load -P "$workloads/workloada" --socket "$dir/full" -p recordcount=1000000 -p batch=$batch
	is INSERT-FAILED Operations $batch
	tail -n 1 "$dir/err" | grep -q "^kvbench: error: $batch operations* failed, .*: NO_SPACE: .*memory" ||
		fail "full store: $(tail -n 1 "$dir/err")"
done
FARKV_URI=shm://$dir/s
# shellcheck disable=SC2016
expect 0 sh -c 'cd "$1" && "$KVBENCH" run --socket s -P "$2"' sh "$dir" "$workloads/workloadc"
mistake() { # STATUS MESSAGE ARGUMENT...
	want=$1 message=$2
	shift 2
	expect "$want" kvbench "$@" && tail -n 1 "$dir/err" | grep -Eq "$message" ||
		fail "$*: $(tail -n 1 "$dir/err")"
	[ "$(grep -c 'error:' "$dir/err")" -eq 1 ] || fail "$*: not one line of error"
	prints ''
}
mistake 64 'no command'
mistake 64 "unknown command 'walk'" walk
mistake 64 "unknown command 'quik': did you mean quick$" quik
mistake 64 'option --targt: did you mean --target; see' run --targt 4
mistake 64 'one word too many' run null more words
mistake 64 "db: 'mongo' is unknown; there are: farkv, null" run mongo -P "$workloads/workloada"
mistake 64 'recordcount: not set' run null
mistake 64 'operationcount: not set' run null -p recordcount=10
mistake 64 'insertstart: has to be below recordcount' run null -P "$workloads/workloada" -p insertstart=1000
mistake 64 'queuedepth: needs openloop=true' run null -P "$workloads/workloada" -p queuedepth=8
mistake 64 'queuedepth: needs openloop=true' limit -p queuedepth=8
mistake 64 'openloop: farkv would have many requests in flight, and (memcached|redis|lmdb|libcuckoo) has calls only' \
	compare -p openloop=true -target 1000 -p recordcount=1000 -p rounds=1
mistake 64 "readproportion: 'half' is not" run null -P "$workloads/workloada" -p readproportion=half
mistake 64 'measurementtype: kvbench keeps no line for each operation' run null -P "$workloads/workloada" -p measurementtype=raw
mistake 64 "option --socket: '' is not a path" run null -P "$workloads/workloada" --socket ''
mistake 64 'threadcount' run null -P "$workloads/workloada" -threads 0
mistake 78 'cannot open the property file .*missing' run null -P "$dir/missing"
mistake 78 'no property file workloadx here, nor in /.*/workloads$' run null -P workloadx
printf 'recordcount=10\nfoo\\u00zz=1\n' >"$dir/bad.props"
mistake 78 'bad.props:2: ' run null -P "$dir/bad.props"
expect 0 kvbench run null -P "$workloads/workloada" -p colour=red && grep -q 'colour: unknown property' "$dir/err" ||
	fail "unknown property: $(cat "$dir/err")"
# YCSB's names of things that differ here.
for name in redis.host null.stall_s farkv.nosuch; do
	expect 0 kvbench run null -P "$workloads/workloada" -p $name=1
	grep -q "warning: -p: $name: unknown property, ignored" "$dir/err" || fail "$name: $(cat "$dir/err")"
done
grep -q 'ignored; there are: farkv.uri, farkv.op_timeout_ms, ' "$dir/err" || fail "no word of farkv.uri: $(cat "$dir/err")"
for name in lmdb.path null.delay_us farkv.uri core_workload_insertion_keep_going_on_error; do
	case $name in lmdb.*) echo "$built" | grep -q lmdb || continue ;; esac
	expect 0 kvbench run null -P "$workloads/workloada" -p $name="$([ $name = null.delay_us ] && echo 0 || echo true)"
	grep -q warning "$dir/err" && fail "$name: $(cat "$dir/err")"
done
warned() { # MESSAGE ARGUMENT...
	message=$1
	shift
	expect 0 kvbench run null -P "$workloads/workloada" "$@" && grep -q "warning: -p: $message" "$dir/err" ||
		fail "$*: $(cat "$dir/err")"
}
warned 'writeallfields: an update writes the whole record; update=field' -p writeallfields=false
warned 'measurement.trackjvm: there is no JVM' -p measurement.trackjvm=true
expect 0 kvbench run null -P "$workloads/workloada" -p writeallfields=true -p dotransactions=true
grep -q warning "$dir/err" && fail "nothing to warn of: $(cat "$dir/err")"
mistake 64 'dotransactions: false says load' run null -P "$workloads/workloada" -p dotransactions=false
mistake 64 'dotransactions: true says run' load null -P "$workloads/workloada" -p dotransactions=true
mistake 64 'update: update=field writes one field, and writeallfields=true' run null -P "$workloads/workloada" \
	-p update=field -p writeallfields=true
mistake 64 'operationcount: requestdistribution=zipfian is laid out' run null -P "$workloads/workloada" \
	-p insertproportion=1 -p operationcount=18446744073709551615 -p maxexecutiontime=1
mistake 64 'exponential.frac: of a thousand draws' run null -P "$workloads/workloada" \
	-p requestdistribution=exponential -p exponential.frac=1e9
mistake 64 'readproportion: the proportions of operations have no sum' run null -P "$workloads/workloada" \
	-p readproportion=1e308 -p updateproportion=1e308
mistake 64 'hdrhistogram.percentiles: expected' run null -P "$workloads/workloada" -p hdrhistogram.percentiles=0x32
mistake 64 'exporter: quick and compare print' quick null -p exporter=JSONMeasurementsExporter
if echo "$built" | grep -q memcached; then
	mistake 64 'keyprefix: memcached.s keys have no blanks' run memcached -P "$workloads/workloada" -p keyprefix='a b'
fi

# ---- results: an old file stays until there are new results
echo precious >"$dir/kept"
expect 69 kvbench run farkv -u "$dir/nobody" -P "$workloads/workloada" -p exportfile="$dir/kept" -p csv="$dir/new.csv"
[ "$(cat "$dir/kept")" = precious ] || fail "a failed run has emptied the last one's report"
[ ! -e "$dir/new.csv" ] || fail "a failed run leaves an empty table"
yes precious | head -n 10000 >"$dir/kept"
expect 0 kvbench run null -P "$workloads/workloada" -p exportfile="$dir/kept"
grep -q precious "$dir/kept" && fail "a report with the end of an older one"
start_server brief -m 64m
cases=$((cases + 1))
: >"$dir/err"
"$KVBENCH" run farkv -P "$workloads/workloadc" -p maxexecutiontime=1 -p rounds=99 -p loadfirst=true \
	-s -p status.interval=1 >"$dir/out" 2>"$dir/err" &
runs=$!
await $runs '\[CLEANUP: ' 3 # of the load and two rounds
stop_server
wait $runs
rc=$?
[ $rc -eq 69 ] || [ $rc -eq 1 ] || fail "a server that left in a late round: $(cat "$dir/err")"
[ -n "$(number OVERALL 'Throughput(ops/sec)')" ] || fail "no report of the rounds before: $(tail -n 5 "$dir/err")"

# ---- what is counted, what is shown, what is drawn
start_server few -m 64m
expect 1 kvbench run farkv -p recordcount=10 -p operationcount=10 -p readmodifywriteproportion=1 -p readproportion=0 \
	-p updateproportion=0
tail -n 1 "$dir/err" | grep -q 'error: 10 operations failed' || fail "$(tail -n 1 "$dir/err")"
expect 0 kvbench quick farkv -p recordcount=1000 -p maxexecutiontime=1 -p measurement.interval=intended -target 1000
grep -q '^  read .* of ' "$dir/out" || fail "quick: no row: $(cat "$dir/out")"
expect 0 kvbench load farkv -p recordcount=1000 -p insertstart=0 -p insertcount=100
expect 0 kvbench run farkv -p recordcount=1000 -p insertstart=0 -p insertcount=100 -p operationcount=3000 \
	-p requestdistribution=zipfian-exact -p readproportion=0.8 -p insertproportion=0.2 -p updateproportion=0
if ! remote; then
	cases=$((cases + 1))
	# shellcheck disable=SC3045
	(ulimit -n 40 && exec "$KVBENCH" run farkv -P "$workloads/workloadc" -threads 64) >"$dir/out" 2>"$dir/err"
	tail -n 1 "$dir/err" | grep -q "ulimit -n" || fail "few descriptors: $(tail -n 1 "$dir/err")"
fi
stop_server

expect 0 kvbench --help && shows '^  -P, --properties=FILE'
[ "$(sed -n '/^Try: /,$p' "$dir/out" | sed 's/^Try: /     /' | grep -Ec '^     kvbench (quick|load -P|run -P)')" -eq 3 ] &&
	[ "$(sed -n '/^Try: /,$p' "$dir/out" | wc -l)" -eq 3 ] || fail "--help does not end with three commands to try"
knows_options "$KVBENCH"
expect 0 kvbench -V && shows '^kvbench [0-9.]+$'

finish
