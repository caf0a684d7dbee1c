#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What kvbench writes besides its report: .hdr logs, by a decoder of their
# published format; the timeline as a table; the picture.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

c=$srcdir/bench/workloads/workloadc
f=$srcdir/bench/workloads/workloadf
number() {
	sed -n "s|^\[$1\], $2, ||p" "$dir/out"
}
# log FILE: its content matches the report's SECTION.
log() {
	python3 "$srcdir/tests/script/hdr_log.py" "$dir/$1" >"$dir/log" 2>"$dir/why" ||
		fail "$1: $(tail -n 1 "$dir/why")"
}
agrees() { # NAME SECTION MEASUREMENT
	got=$(sed -n "s/^$1 //p" "$dir/log")
	[ "$got" = "$(number "$2" "$3")" ] ||
		fail "$2: $1 is '$got' in the .hdr log, $3 '$(number "$2" "$3")' in the report"
}

# ---- .hdr: two intervals and a part, all that was measured, in ns
expect 0 kvbench run null -P "$f" -p operationcount=0 -p maxexecutiontime=3 -p status.interval=1 -target 5000 \
	-p measurement.interval=both -p hdrhistogram.fileoutput=true -p hdrhistogram.output.path="$dir/hdr-"
for section in READ UPDATE READ-MODIFY-WRITE CLEANUP Intended-READ; do
	log hdr-$section.hdr
	agrees count $section Operations
	agrees min $section 'MinLatency(ns)'
	agrees max $section 'MaxLatency(ns)'
	agrees p50 $section '50thPercentileLatency(ns)'
	agrees p95 $section '95thPercentileLatency(ns)'
	agrees p99 $section '99thPercentileLatency(ns)'
done
log hdr-READ.hdr
grep -Eq '^intervals [3-9]$' "$dir/log" || fail "intervals: $(cat "$dir/log")"
head -n 1 "$dir/hdr-READ.hdr" | grep -q '^#\[Logging for: READ\]$' || fail "head of hdr-READ.hdr"

# ---- beside buckets the log is called as its section is
expect 0 kvbench run null -P "$f" -p operationcount=1000 -p measurementtype=hdrhistogram+histogram \
	-p measurement.interval=both -p hdrhistogram.fileoutput=true -p hdrhistogram.output.path="$dir/both-"
for section in HdrREAD HdrIntended-READ; do
	log both-$section.hdr
	agrees count $section Operations
	agrees p99 $section '99thPercentileLatency(ns)'
done
head -n 1 "$dir/both-HdrREAD.hdr" | grep -q '^#\[Logging for: HdrREAD\]$' || fail "head of both-HdrREAD.hdr"
[ ! -e "$dir/both-READ.hdr" ] || fail "a log is called as no section is"

# ---- and with counters that take several bytes
expect 0 kvbench run null -P "$f" -p operationcount=400000 -p hdrhistogram.fileoutput=true -p hdrhistogram.output.path="$dir/many-"
for section in READ UPDATE READ-MODIFY-WRITE; do
	log many-$section.hdr
	agrees count $section Operations
	agrees p50 $section '50thPercentileLatency(ns)'
	agrees p99 $section '99thPercentileLatency(ns)'
done

# ---- a log of each store and round, and of what fails
expect 0 kvbench run null,lmdb -P "$c" -p rounds=2 -p hdrhistogram.fileoutput=true \
	-p hdrhistogram.output.path="$dir/two-" || : # without LMDB: below
if [ "$got" -eq 0 ]; then
	for tag in null-1 null-2 lmdb-1 lmdb-2; do
		log two-$tag-READ.hdr
		grep -qx 'count 1000' "$dir/log" || fail "$tag: $(cat "$dir/log")"
	done
	[ ! -e "$dir/two-lmdb-1-INSERT.hdr" ] || fail "the load before a run has a log"
fi
start_server s -m 64m
expect 0 kvbench load farkv -P "$c" -p hdrhistogram.fileoutput=true -p hdrhistogram.output.path="$dir/load-"
log load-INSERT.hdr
agrees count INSERT Operations
expect 1 kvbench run farkv -P "$c" -p recordcount=2000 -p requestdistribution=sequential -p operationcount=2000 \
	-p hdrhistogram.fileoutput=true -p hdrhistogram.output.path="$dir/fail-"
log fail-READ-FAILED.hdr
grep -qx 'count 1000' "$dir/log" || fail "failures: $(cat "$dir/log")"
expect 1 kvbench run null -P "$c" -p hdrhistogram.fileoutput=true -p hdrhistogram.output.path="$dir/none/"
tail -n 1 "$dir/err" | grep -q 'hdrhistogram.output.path: cannot open .*none/READ.hdr: No such file' ||
	fail "$(tail -n 1 "$dir/err")"

# ---- the table: intervals without a gap, whose operations are those of the report
expect 0 kvbench run null -P "$f" -p operationcount=0 -p maxexecutiontime=1 -target 5000 -p timeline.interval=100 -p csv="$dir/t.csv"
python3 - "$dir/t.csv" "$(number READ Operations)" "$(number READ-MODIFY-WRITE Operations)" \
	"$(number OVERALL 'RunTime(ms)')" <<'PY' || fail "table"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
def total(series):
    return sum(int(r["operations"]) for r in rows if r["series"] == series)
# A workload F: every operation reads, half of them write too.
assert total("READ") == int(sys.argv[2]), total("READ")
assert total("READ-MODIFY-WRITE") == int(sys.argv[3])
assert total("ALL") == total("READ"), (total("ALL"), total("READ"))
every = [r for r in rows if r["series"] == "ALL"]
assert 5 <= len(every) <= 12, len(every)
at = 0.0
for r in every:
    assert abs(float(r["from_s"]) - at) < 0.0021 and r["store"] == "null" and r["round"] == "1"
    at = float(r["from_s"]) + float(r["length_s"])
assert abs(at * 1000 - int(sys.argv[4])) < 150, at
for r in rows:
    if r["series"] != "ALL":
        p = [int(r[k + "_ns"]) for k in ("p50", "p95", "p99", "p99.9", "max")]
        assert p == sorted(p), p
PY
expect 78 kvbench run null -P "$c" -p csv="$dir/none/t.csv"
says_last() {
	tail -n 1 "$dir/err" | grep -Eq "$1" || fail "stderr ends with: $(tail -n 1 "$dir/err")"
}
says_last 'error: csv: cannot open .*none/t.csv: No such file'

# ---- no other file gets a closed stdout's number, and a failed write is reported
lost() { # STATUS OF THE COMMAND, WHAT
	[ "$1" -eq 1 ] && tail -n 1 "$dir/err" | grep -q 'error: cannot write .*stdout: ' ||
		fail "$2: status $1, $(tail -n 1 "$dir/err")"
}
kvbench run null -P "$c" -p csv="$dir/t.csv" >&- 2>"$dir/err"
lost $? "a closed stdout"
head -n 1 "$dir/t.csv" | grep -q '^store,round,' && ! grep -q OVERALL "$dir/t.csv" ||
	fail "the report of a closed stdout is in the table"
kvbench run null -P "$c" -s -p csv="$dir/t.csv" -p exportfile="$dir/report" <&- >&- 2>&- ||
	fail "files alone are enough: status $?"
grep -q OVERALL "$dir/report" && ! grep -q ' sec: ' "$dir/report" "$dir/t.csv" ||
	fail "the status line of a closed stderr is in a file"
if [ -e /dev/full ]; then
	for words in --help --version "run null -P $c" "quick null -p recordcount=100 -p maxexecutiontime=1" \
		"limit -u $FARKV_URI -p recordcount=1000 -p operationcount=1000 -p rounds=1"; do
		# shellcheck disable=SC2086
		kvbench $words >/dev/full 2>"$dir/err"
		lost $? "a full disk: $words"
	done
fi

# ---- a terminal that is gone: the results are reported
heard= # by kvbench, whoever runs this by nohup
env --default-signal=HUP true 2>"$dir/err" && heard="env --default-signal=HUP"
: >"$dir/err"
# shellcheck disable=SC2086
$heard "$KVBENCH" run null -P "$c" -p maxexecutiontime=3600 -p timeline.interval=10 -p csv="$dir/t.csv" \
	-s -p status.interval=1 >"$dir/out" 2>"$dir/err" &
bench=$!
until grep -q '^[^ ]* [^ ]* [1-9][0-9]* sec: ' "$dir/err"; do sleep 0.05; done
kill -HUP $bench
wait $bench
got=$?
[ $got -eq 129 ] && shows '^\[READ\], Return=OK, [1-9]' && grep -q ',READ,' "$dir/t.csv" || fail "hung up: status $got"

# ---- the picture
mkdir "$dir/bin"
PATH=$dir/bin expect 78 "$KVBENCH" run null -P "$c" --plot "$dir/p.svg"
says_last 'plot: there is no gnuplot'
[ ! -e "$dir/p.svg" ] || fail "a picture that nobody can draw"
printf '#!/bin/sh\ncat >"%s/script"\necho "</svg>" >"%s/p.svg"\n' "$dir" "$dir" >"$dir/bin/gnuplot"
chmod +x "$dir/bin/gnuplot"
PATH=$dir/bin:$PATH expect 78 "$KVBENCH" run null -P "$c" --plot "$dir/none/p.svg"
says_last 'plot: cannot open .*none/p.svg: '
prints ''
PATH=$dir/bin:$PATH expect 0 "$KVBENCH" run null -P "$f" --plot "$dir/p.svg" -p operationcount=100000
# shellcheck disable=SC2016
for line in "set output \"$dir/p.svg\"" '\$r0 << EOD' '\$l0_0 << EOD' '.*title "null READ-MODIFY-WRITE"'; do
	grep -Eqx "$line" "$dir/script" || fail "gnuplot is not told $line"
done
printf '#!/bin/sh\nexit 3\n' >"$dir/bin/gnuplot"
PATH=$dir/bin:$PATH expect 1 "$KVBENCH" run null -P "$c" --plot "$dir/p.svg"
says_last 'gnuplot failed and left no .*p.svg'
rm -f "$dir/q.svg"
PATH=$dir/bin:$PATH expect 1 "$KVBENCH" run null -P "$c" --plot "$dir/q.svg"
[ ! -e "$dir/q.svg" ] || fail "an empty picture stays"
if command -v gnuplot >/dev/null; then
	expect 0 kvbench run null -P "$f" --plot "$dir/p.svg" -p operationcount=100000
	python3 - "$dir/p.svg" <<'PY' || fail "picture"
import sys, xml.dom.minidom
text = open(sys.argv[1]).read()
xml.dom.minidom.parseString(text)
for word in "Throughput over time", "Latency by percentile", "null READ", "null UPDATE", "99.9":
    assert word in text, word
PY
	# No room for the whole of it, which gnuplot does not mind.
	printf '#!/bin/sh\ntrap "" XFSZ\nulimit -f 8\nexec "%s" "$@"\n' "$(command -v gnuplot)" >"$dir/bin/gnuplot"
	PATH=$dir/bin:$PATH expect 1 "$KVBENCH" run null -P "$c" --plot "$dir/p.svg" -p exportfile=/dev/null
	says_last 'plot: .*p.svg is not whole'
else
	echo "no gnuplot: its picture is not looked at"
fi
finish
