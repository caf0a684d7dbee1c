#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvbench --html: the figures of the page are those of the report, of the timeline and of
# compare; all text is escaped; the page is whole or not there.
# shellcheck disable=SC2012,SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

a=$srcdir/bench/workloads/workloada
pages=$dir/pages
mkdir "$pages"
judge() { # COMMAND PAGE [FILE]...
	command=$1 page=$2
	shift 2
	cases=$((cases + 1))
	python3 "$srcdir/tests/script/bench_html.py" "$command" "$pages/$page" "$@" || fail "$page: $command"
}
says_last() {
	tail -n 1 "$dir/err" | grep -Eq "$1" || fail "stderr ends with: $(tail -n 1 "$dir/err")"
}
only() { # NAME...: no other file is among the pages
	[ "$(ls -A "$pages" | tr '\n' ' ')" = "$* " ] || fail "files: $(ls -A "$pages"), expected: $*"
}
# measured STATUS PAGE COMMAND STORES [OPTION]...: with a report and a table to compare with.
measured() {
	status=$1 page=$2 command=$3 stores=$4
	shift 4
	expect "$status" kvbench "$command" "$stores" -P "$a" -p recordcount=2000 -p fieldcount=1 -p timeline.interval=50 \
		-p hdrhistogram.percentiles=50,90,95,99,99.9,99.99 -p exporter=JSONArrayMeasurementsExporter \
		-p exportfile="$dir/report" -p csv="$dir/csv" --html "$pages/$page" "$@"
	judge page "$page"
	judge figures "$page" "$dir/report" "$dir/csv"
}

# ---- one store, several, those that are compared
start_server s -m 64m
measured 0 load.html load farkv
measured 0 run.html run farkv -p operationcount=100000 -threads 2
measured 0 both.html run farkv,null -p operationcount=20000 -target 100000
measured 0 short.html run null -p operationcount=1
grep -q '<p>2000 records of 100 bytes, zipfian[^<]*; 50 % read, 50 % update, 2 clients, medians of 1 round</p>' \
	"$pages/run.html" || fail "the settings in words"
grep -q '<tr><th>Transport</th><td class="t">shm' "$pages/run.html" || fail "no transport"
measured 1 fail.html run farkv -p operationcount=4000 -p recordcount=4000 -p requestdistribution=sequential
grep -q '<td class="t bad">NOT_FOUND</td>' "$pages/fail.html" || fail "failures are not marked"
grep -q '<p class="bad">The first failure: .*user' "$pages/fail.html" || fail "no first failure"
expect 0 kvbench run null -P "$a" -p rounds=3 --html "$pages/rounds.html"
judge page rounds.html
grep -q '<h4>ROUNDS</h4>' "$pages/rounds.html" || fail "no rounds"
expect 0 kvbench quick null -p recordcount=1000 -p maxexecutiontime=1 --html "$pages/quick.html"
judge page quick.html
mkdir "$dir/bin"
bare() {
	PATH=$dir/bin "$KVBENCH" "$@"
}
expect 0 bare compare null,farkv,memcached -p compare.kvserver="$KVSERVER" -p recordcount=2000 \
	-p operationcount=3000 -p maxexecutiontime=0 -p rounds=2 --html "$pages/compare.html"
shows '^left out: memcached: '
judge page compare.html
judge compare compare.html "$dir/out"
[ "$(stat -c %a "$pages/run.html")" = "$(stat -c %a "$dir/csv")" ] || fail "the mode is $(stat -c %a "$pages/run.html")"

# ---- text from outside
rm -f "$pages"/*
# shellcheck disable=SC1112
trace=$(printf '%s/<b>&amp;"x'"'"'\303\251\377\001.csv' "$dir")
printf '%s\n' time,key,size 0,a,100 1,b,200 2,a,100 >"$trace"
expect 0 kvbench replay "$trace" null --html "$pages/text.html"
judge page text.html
grep -q "/&lt;b&gt;&amp;amp; x'é? .csv</td>" "$pages/text.html" || fail "$(grep -a Trace "$pages/text.html")"

# ---- a page is whole or not there
only text.html
cp "$pages/text.html" "$dir/before"
expect 69 kvbench run farkv -P "$a" -u "$dir/none" --html "$pages/text.html"
same "$dir/before" "$pages/text.html"
for path in "$dir/none/x.html" "$pages"; do
	expect 78 kvbench run null -P "$a" -p operationcount=0 -p maxexecutiontime=3600 --html "$path"
	says_last "error: html: cannot create $path: (No such file|Is a directory)"
	prints ''
done
if be_nobody "$KVBENCH"; then
	expect 78 "$nobody" "$theirs/${KVBENCH##*/}" run null -P "$a" --html "$pages/x.html"
	says_last 'error: html: cannot create .*/x.html: Permission denied'
fi
expect 64 kvbench limit --html "$pages/x.html"
says_last 'html: has no meaning for limit'
# stopped SIGNAL STATUS: a run that has begun.
stopped() {
	$INT "$KVBENCH" run null -P "$a" -p operationcount=0 -p maxexecutiontime=3600 -s -p status.interval=1 \
		--html "$pages/text.html" >"$dir/out" 2>"$dir/err" &
	bench=$!
	until grep -q '^[^ ]* [^ ]* [1-9][0-9]* sec: ' "$dir/err"; do sleep 0.05; done
	only text.html
	kill "-$1" $bench
	wait $bench
	got=$?
	[ $got -eq "$2" ] || fail "$1: status $got"
	only text.html
}
stopped KILL 137
same "$dir/before" "$pages/text.html"
if [ -e /dev/full ]; then
	expect 1 kvbench run null -P "$a" --html /dev/full
	says_last 'error: html: cannot write /dev/full: No space left'
fi
expect 1 sh -c 'trap "" XFSZ; ulimit -f 8; exec "$@"' sh "$KVBENCH" run null -P "$a" --html "$pages/text.html" \
	-p exportfile=/dev/null
says_last 'error: html: cannot write .*/text.html: File too large'
only text.html
same "$dir/before" "$pages/text.html"
stopped INT 130
judge page text.html
grep -q '<p class="bad">Interrupted: ' "$pages/text.html" || fail "not a word of the interruption"
# A link stays one, and a reader of a pipe gets a page.
ln -s text.html "$pages/link.html"
expect 0 kvbench run null -P "$a" --html "$pages/link.html"
[ -L "$pages/link.html" ] && ! grep -q Interrupted "$pages/text.html" || fail "the link"
mkfifo "$dir/pipe"
cat "$dir/pipe" >"$pages/pipe.html" &
reader=$!
expect 0 kvbench run null -P "$a" --html "$dir/pipe"
wait $reader
judge page pipe.html
finish
