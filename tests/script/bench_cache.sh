#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvbench with the store as a cache: hits and misses of traces and of requests for blocks are
# those of a model, whatever the number of threads; what a full store refuses is counted.
# shellcheck disable=SC2015,SC2119,SC2120
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

number() { # SECTION MEASUREMENT
	sed -n "s|^\[$1\], $2, ||p" "$dir/out"
}
is() { # SECTION MEASUREMENT VALUE
	[ "$(number "$1" "$2")" = "$3" ] || fail "[$1], $2 is '$(number "$1" "$2")', expected $3"
}
takes() { # MILLISECONDS: at least
	[ "$(number OVERALL 'RunTime(ms)')" -ge "$1" ] || fail "took $(number OVERALL 'RunTime(ms)') ms, not $1"
}
mistake() { # STATUS MESSAGE ARGUMENT...
	want=$1 message=$2
	shift 2
	expect "$want" kvbench "$@" && tail -n 1 "$dir/err" | grep -Eq "$message" || fail "$*: $(tail -n 1 "$dir/err")"
	[ "$(grep -c 'error:' "$dir/err")" -eq 1 ] || fail "$*: not one line of error"
	prints ''
}

# model FILE [WARMUP]: what an endless cache answers, in the words of the report.
cat >"$dir/model.py" <<'PY'
import json, sys
lines = open(sys.argv[1]).read().split("\n")[:-1]
warm = int(float(sys.argv[2]) * len(lines)) if len(sys.argv) > 2 else 0
there, n = {}, dict.fromkeys("hits misses sets deletes gone hit_bytes missed_bytes whole".split(), 0)
for i, line in enumerate(lines):
    if i == warm:
        n = dict.fromkeys(n, 0)
    if line.startswith("{"):
        keys = json.loads(line)["hash_ids"]
        prefix = 0
        while prefix < len(keys) and keys[prefix] in there:
            prefix += 1
        n["hits"] += prefix
        n["misses"] += len(keys) - prefix
        n["whole"] += 0 < len(keys) == prefix
        there.update(dict.fromkeys(keys))
        continue
    time, key, size, op = line.split(",")
    if op == "get":
        hit = key in there
        n["hits" if hit else "misses"] += 1
        n["hit_bytes" if hit else "missed_bytes"] += int(size)
        there[key] = size
    elif op == "set":
        n["sets"] += 1
        there[key] = size
    else:
        n["deletes" if key in there else "gone"] += 1
        there.pop(key, None)
print(" ".join(str(v) for v in n.values()))
PY
model() {
	read -r hits misses sets deletes gone hit_bytes missed_bytes whole <<END
$(python3 "$dir/model.py" "$@")
END
}
agrees() { # ARGUMENT...: of a replay into a store that has none of the keys
	expect 0 kvbench replay "$@"
	is CACHE Hits "$hits"
	is CACHE Misses "$misses"
	is CACHE RefusedPuts 0
	is CACHE MissRatio "$(python3 -c "print(('%.6f' % ($misses / ($hits + $misses))).rstrip('0'))")"
	grep -q 'warning' "$dir/err" && fail "$*: $(cat "$dir/err")"
}

# ---- traces of keys: gets, sets and deletes
made=0
trace() { # [KEYS]: the next one in $csv, with keys that no other has
	made=$((made + 1))
	csv=$dir/trace$made.csv
	python3 - "$made" "${1:-300}" >"$csv" <<'PY'
import random, sys
random.seed(int(sys.argv[1]))
for i in range(3000):
    op = random.choices(["get", "set", "delete"], [8, 1, 1])[0]
    key = min(int(random.expovariate(3 / int(sys.argv[2]))), int(sys.argv[2]))
    print("%.3f,t%s:%d,%d,%s" % (i / 1500, sys.argv[1], key, random.choice([0, 5, 31, 32, 100, 5000]), op))
PY
}
start_server s -m 256m
uri=$FARKV_URI
for how in '' '-threads 3' '-p processes=2 -threads 2' '-p dataintegrity=true' '-p dataintegrity=true -threads 3'; do
	trace
	model "$csv"
	# shellcheck disable=SC2086
	agrees "$csv" $how
	is CACHE Requests 3000
	is READ Return=OK "$hits"
	is READ Return=NOT_FOUND "$misses"
	is READ-NOT_FOUND Operations "$misses"
	is INSERT Return=OK "$misses"
	is UPDATE Return=OK "$sets"
	is DELETE Return=OK "$deletes"
	is DELETE Return=NOT_FOUND "$gone"
	is CACHE ByteMissRatio "$(python3 -c "print(('%.6f' % ($missed_bytes / ($hit_bytes + $missed_bytes))).rstrip('0'))")"
	case $how in *integrity*) is VERIFY Return=OK "$hits" ;; esac
done
is WORKLOAD Trace "$csv"
# A part that does not count, but fills the store.
trace
model "$csv" 0.4
agrees "$csv" -p replay.warmup=0.4 -threads 2
is CACHE Requests 1800
# By the trace's time, ten times as fast, and at a rate; the schedule is that of all threads.
trace
model "$csv"
agrees "$csv" -p replay.speed=4 -threads 2
takes 480
shows '^\[READ\], 99thPercentileLatency'
trace
model "$csv"
agrees "$csv" -target 6000 -threads 2
takes 480
shows '^\[Intended-READ\], Operations, '
# Several stores: each has the trace from its start.
expect 0 kvbench replay "$csv" farkv,null
is CACHE Requests "3000
3000"
shows '^\[RATIO\], farkv/null Throughput'
is CACHE MissRatio "$(number CACHE MissRatio | head -n 1)
0.0"

# ---- a full store refuses, and its gets miss
start_server full -m 8m
python3 -c 'for i in range(1000): print("%d,big%d,100000" % (i, i % 500))' >"$dir/big.csv"
expect 0 kvbench replay "$dir/big.csv" -threads 2
refused=$(number CACHE RefusedPuts)
[ "$refused" -ge 800 ] && [ "$refused" -lt 1000 ] || fail "$refused of 1000 puts were refused"
is INSERT Return=NO_SPACE "$refused"
[ $(($(number CACHE Hits) + $(number CACHE Misses))) -eq 1000 ] || fail "hits and misses: $(grep CACHE "$dir/out")"
is INSERT Return=OK $(($(number CACHE Misses) - refused))
# Longer than a value may be, here and in the store.
printf '1,long,4294967295\n2,long,67108865,set\n3,short,10\n' >"$dir/long.csv"
expect 0 kvbench replay "$dir/long.csv"
is CACHE RefusedPuts 2
is UPDATE Return=BAD_REQUEST 1
stop_server

# ---- a bad line costs no run
FARKV_URI=$uri
printf '1,before,10\n2,bad line,10\n' >"$dir/bad.csv"
mistake 78 "error: $dir/bad.csv:2: the second field is the key" replay "$dir/bad.csv"
expect 1 kvcli get before
printf '{"timestamp": 1, "hash_ids": [1]}\n{"timestamp": 1, "hash_ids": [x]}\n' >"$dir/bad.jsonl"
mistake 78 "error: $dir/bad.jsonl:2: hash_ids: expected" replay "$dir/bad.jsonl"
mistake 78 "error: cannot open the trace $dir/none: No such file" replay "$dir/none"
# Values that expire, and a binding that has none.
printf '1,ttl,10\n2,ttl2,10,set,60\n' >"$dir/ttl.csv"
mistake 64 "error: $dir/ttl.csv:2: kvbench's null has no values that expire; -p replay.nottl=true" replay "$dir/ttl.csv" null
expect 0 kvbench replay "$dir/ttl.csv" null -p replay.nottl=true
# By a trace ten times as fast values expire ten times as soon: after 0.2 s, before the second get.
printf '0,brief,10,set,2\n10,brief,10\n10,lasting,10,set\n20,lasting,10\n' >"$dir/ttl.csv"
expect 0 kvbench replay "$dir/ttl.csv" -p replay.speed=10
is CACHE Misses 1
is CACHE Hits 1

# ---- prompts: prefixes of blocks
python3 - >"$dir/prompts.jsonl" <<'PY'
import json, random
random.seed(5)
for i in range(400):
    doc, n = random.randrange(20), random.randrange(0, 200)
    # Each document's blocks, and a part of two documents that is the same.
    ids = [doc // 2 * 1000 + k for k in range(min(n, 20))] + [100000 + doc * 1000 + k for k in range(20, n)]
    print(json.dumps({"timestamp": i, "input_length": n * 512, "output_length": 1, "hash_ids": ids}))
PY
model "$dir/prompts.jsonl"
agrees "$dir/prompts.jsonl" -p fieldlength=1000 -p dataintegrity=true
is CACHE Requests 400
is CACHE WholeRequests "$whole"
is REQUEST Operations 400
is EXISTS Operations 400
is READ Return=OK "$hits"
is VERIFY Return=OK "$hits"
is WORKLOAD ValueBytes 1000
# The same again: all blocks are there, and nothing is written; by many threads.
expect 0 kvbench replay "$dir/prompts.jsonl" -p fieldlength=1000 -threads 3
is CACHE Misses 0
is CACHE MissRatio 0.0
is INSERT Operations 0
is READ Return=OK $((hits + misses))
# A block after a missing one is no hit, is not read, and not written again.
printf '{"timestamp": 1, "hash_ids": [901, 902]}\n{"timestamp": 2, "hash_ids": [903, 902]}\n' >"$dir/hole.jsonl"
expect 0 kvbench replay "$dir/hole.jsonl" -p fieldlength=100
is CACHE Hits 0
is CACHE Misses 4
is READ Operations 0
is INSERT Operations 3
# The default length is that of a block.
printf '{"timestamp": 1, "hash_ids": [777, 778]}\n' >"$dir/one.jsonl"
expect 0 kvbench replay "$dir/one.jsonl"
is WORKLOAD ValueBytes 2097152
# shellcheck disable=SC2016 # for the shell that runs it
expect 0 sh -c '"$KVCLI" get 778 | wc -c' # and a newline
prints '2097153\n'

# ---- the workload kvcache: a miss stores the block, so later requests hit
kvcache="-P $srcdir/bench/workloads/kvcache -p fieldlength=20000 -p recordcount=3 -p kvcache.blocks=5 -p dataintegrity=true"
# shellcheck disable=SC2086
expect 0 kvbench run $kvcache -threads 2
is REQUEST Return=OK 1000
is CACHE RefusedPuts 0
# Two threads may miss the same block at once.
n=$(number INSERT Operations)
[ "$n" -ge 15 ] && [ "$n" -le 30 ] || fail "$n blocks were stored, of 15 that there are"
is VERIFY Return=OK "$(number CACHE Hits)"
# shellcheck disable=SC2086
expect 0 kvbench run $kvcache -p requestdistribution=uniform -p processes=2
is CACHE WholeRequests 1000
is CACHE Misses 0
shows '^\[CACHE\], Got\(GB/s\), [0-9.]+$'
shows '^\[REQUEST\], 99thPercentileLatency\(us\), [0-9]+$'
# shellcheck disable=SC2086
expect 0 kvbench run $kvcache -p operationcount=0 -p maxexecutiontime=1 -p warmup=0.1 -target 500
takes 990
# Values that are not these blocks'.
# shellcheck disable=SC2086
expect 0 kvbench run $kvcache -p keyprefix=other -p dataintegrity=false
# shellcheck disable=SC2086
expect 1 kvbench run $kvcache -p keyprefix=other
tail -n 1 "$dir/err" | grep -q "VERIFY other[0-9]*:[0-4]: UNEXPECTED_STATE: the value is not this key's" ||
	fail "$(tail -n 1 "$dir/err")"

# ---- mistakes
mistake 64 'no trace; give replay FILE' replay
mistake 64 'replay.file: there is nothing to load' load null -p replay.file="$csv"
mistake 64 'replay.file: quick has a workload of its own' quick null -p replay.file="$csv"
mistake 64 'replay.file: has no meaning for limit' limit -p replay.file="$csv"
mistake 64 'kvcache.blocks: has no meaning for limit' limit -p kvcache.blocks=2
mistake 64 'replay.file: give it to run, with' compare -p replay.file="$csv"
mistake 64 'openloop: a cache.s client waits' replay "$csv" null -target 1000 -p openloop=true
mistake 64 'batch: a cache.s client has one request' replay "$csv" null -p batch=2
mistake 64 'warmup: of a trace give the part' replay "$csv" null -p warmup=1
mistake 64 'replay.speed: gives the requests. times' replay "$csv" null -target 1000 -p replay.speed=1
mistake 64 'kvcache.blocks: a trace has requests of its own' replay "$csv" null -p kvcache.blocks=2
mistake 64 'kvcache.blocks: a request reads what is there' run null -p recordcount=10 -p operationcount=10 -p kvcache.blocks=2
mistake 64 'loadfirst: there is nothing to load' replay "$csv" null -p loadfirst=true
finish
