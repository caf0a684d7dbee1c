#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Data that kvcli stores and gets: values of every kind and size, whole files, and
# servers that stop, die and count. With FARKV_TEST_TRANSPORT=rdma by RDMA.
# shellcheck disable=SC2015,SC2059
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

large=20 # MiB
memory=512m
records=20000
formats='tsv nul cdb'
if remote; then
	large=9
	memory=128m
	records=3000
	formats=cdb # it knows no transport
fi
start_server s -m 64m

# ---- values of any bytes
i=0
: >"$dir/bytes"
while [ $i -lt 256 ]; do
	printf "\\$(printf %03o $i)" >>"$dir/bytes"
	i=$((i + 1))
done
[ "$(wc -c <"$dir/bytes")" -eq 256 ] || fail "the test's own bytes"
head -c 1048577 /dev/urandom >"$dir/random"
: >"$dir/none"
for f in bytes random none; do
	expect 0 kvcli put "$f" "@$dir/$f"
	kvcli --raw get "$f" >"$dir/back"
	same "$dir/$f" "$dir/back"
	expect 0 kvcli put "$f" - <"$dir/$f"
	kvcli --raw get "$f" >"$dir/back"
	same "$dir/$f" "$dir/back"
	kvcli --json get "$f" >"$dir/json"
	remote && continue # Python takes its time in an emulated machine
	python3 - "$dir/json" "$dir/$f" <<'PY' || fail "JSON of $f"
import base64, json, sys
o = json.load(open(sys.argv[1]))
v = base64.b64decode(o["value_base64"]) if "value_base64" in o else o["value"].encode()
sys.exit(v != open(sys.argv[2], "rb").read())
PY
done

# ---- load and dump, in every format, and back
python3 - "$dir" $large <<'PY'
import random, sys
r = random.Random(7)
d = sys.argv[1]
recs = {}
def noise(n):
    return r.getrandbits(8 * n).to_bytes(n, "big").replace(b"\0", b"\t") if n else b""
for i in range(700):
    k = noise(r.choice([1, 5, 30, 300]))
    recs[k] = noise(r.choice([0, 1, 40, 3000]))
recs[b"k" * 65535] = b"long key"
recs[b"large"] = noise(1 << 16) * 16 * int(sys.argv[2])
def tsv(b):
    for a, c in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\0", b"\\0")):
        b = b.replace(a, c)
    return b
for z in (0, 1):
    if z:  # NUL bytes too, for the formats that carry them
        recs[b"zero\0key"] = b"\0\0"
        open(d + "/all.cdb", "wb").write(b"".join(b"+%d,%d:%s->%s\n" % (len(k), len(v), k, v) for k, v in recs.items()) + b"\n")
        open(d + "/all.tsv", "wb").write(b"".join(tsv(k) + b"\t" + tsv(v) + b"\n" for k, v in recs.items()))
    else:
        open(d + "/all.nul", "wb").write(b"".join(k + b"\0" + v + b"\0" for k, v in recs.items()))
        open(d + "/keys.nul", "wb").write(b"".join(k + b"\0" for k in recs))
PY
for f in $formats; do
	start_server "s-$f" -m $memory
	expect 0 kvcli load "$dir/all.$f" && grep -Eq 'loaded 70[0-9] records|loaded [67][0-9][0-9] records' "$dir/err" || fail "summary of load: $(cat "$dir/err")"
	keys=$dir/all.$f
	[ "$f" != nul ] || keys=$dir/keys.nul
	expect 0 kvcli dump "$keys" && silent
	same "$dir/all.$f" "$dir/out"
	expect 0 kvcli -f "$f" dump - <"$keys"
	same "$dir/all.$f" "$dir/out"
	[ "$f" = cdb ] || stop_server
done
expect 0 kvcli -q -f cdb load - <"$dir/all.cdb" && silent
expect 0 kvcli --json load "$dir/all.cdb" && shows '"complete":true'
expect 0 kvcli --if-absent load "$dir/all.cdb" && grep -q 'loaded 0 records' "$dir/err" || fail "if-absent: $(cat "$dir/err")"
stop_server

# The longest key and value there are; one byte more.
longest() {
	python3 - "$dir" <<'PY'
import sys
key, value = b"K" * 65535, bytes(range(256)) * (1 << 18)
for name, v in (("most", value), ("more", value + b"!")):
    with open("%s/%s.cdb" % (sys.argv[1], name), "wb") as f:
        f.write(b"+1,1:a->b\n+%d,%d:%s->%s\n+1,1:c->d\n\n" % (len(key), len(v), key, v))
PY
	start_server large -m 512m
	expect 64 kvcli -q load "$dir/more.cdb" && says 'more.cdb: record 2, byte [0-9]+: the value is longer than 67108864'
	expect 0 kvcli get a
	expect 1 kvcli -q get c
	expect 0 kvcli load "$dir/most.cdb"
	expect 0 kvcli dump "$dir/most.cdb"
	same "$dir/most.cdb" "$dir/out"
	stop_server
	rm "$dir/most.cdb" "$dir/more.cdb" "$dir/out"
}
remote || longest # in an emulated machine it takes too long

# ---- a server that is stopped
start_server stopped
expect 0 kvcli put key value
expect 1 kvcli wait && says 'the store is one server, which has no follower'
expect 0 kvcli ping && shows 'answered in [0-9.]+ us'
expect 0 kvcli --json ping && shows '^\{"rtt_ns":[0-9]+\}$'
freeze "$server"
expect 75 kvcli -t 100 ping && says 'did not answer in time'
expect 75 kvcli -t 100 get key && says 'did not answer in time'
kill -CONT "$server"
expect 0 kvcli get key && prints 'value\n'

# ---- a server that is killed during a load
start_server killed
mkfifo "$dir/feed"
kvcli load - <"$dir/feed" >"$dir/out" 2>"$dir/err" &
loader=$!
exec 4>"$dir/feed"
i=0
while [ $i -lt 128 ]; do
	echo "key$i	value" >&4
	i=$((i + 1))
done
until kvcli -q exists key127; do sleep 0.02; done
kill -KILL "$server"
(
	trap '' PIPE
	i=0
	while [ $i -lt 50000 ] && echo "more$i	value"; do
		i=$((i + 1))
	done >&4 2>/dev/null
)
exec 4>&-
wait $loader
got=$?
# By RDMA it may die between a request and its answer: nobody knows.
if [ $got -ne 69 ]; then
	remote && [ $got -eq 2 ] && grep -q 'it may have happened' "$dir/err" ||
		fail "a load whose server is killed ends with $got"
fi
grep -Eq 'line [0-9]+: ' "$dir/err" && grep -Eq 'stored (12[89]|1[3-9][0-9]|[2-9][0-9][0-9]|[0-9]{4,}) records' "$dir/err" ||
	fail "a load whose server is killed says: $(cat "$dir/err")"

# ---- stats
start_server counted
expect 0 kvcli put key value
expect 0 kvcli stats && shows '^items +1$' && shows '^sessions open +1$'
# Fields of the public header are those of the JSON, all of them.
sed -n '/^struct farkv_stats {/,/^};/s/^	[a-z_0-9 ]* \([a-z_]*\)\(\[.*\]\)*;.*/\1/p' \
	"$srcdir/include/farkv.h" | grep -vx size | sort >"$dir/fields"
[ -s "$dir/fields" ] || fail "no fields found in farkv.h"
expect 0 kvcli --json stats
tr -d '{}"\n' <"$dir/out" | tr , '\n' | sed 's/:.*//' | sort | cmp - "$dir/fields" ||
	fail "stats --json lacks fields of farkv.h"
remote || python3 - "$dir/out" <<'PY' || fail "JSON of stats"
import json, sys
o = json.load(open(sys.argv[1]))
sys.exit(not (o["items"] == 1 and o["sessions"] == 1 and o["sets"] == 1
              and o["max_key"] == 65535 and o["grace_ns"] == 100000000))
PY

# ---- fsck
expect 0 kvcli fsck && silent && shows '^items +1$' && shows '^blocks in clients. hands +0$' &&
	shows '^nothing is wrong$'
expect 0 kvcli --quiet fsck && silent && prints ''
sed -n '/^struct farkv_fsck {/,/^};/s/^	uint64_t \([a-z_]*\);.*/\1/p' \
	"$srcdir/include/farkv.h" | sort >"$dir/fields"
[ -s "$dir/fields" ] || fail "no fields of fsck found in farkv.h"
expect 0 kvcli --json fsck
tr -d '{}"\n' <"$dir/out" | tr , '\n' | sed 's/:.*//' | sort | cmp - "$dir/fields" ||
	fail "fsck --json lacks fields of farkv.h"

# ---- a load that is interrupted gives its memory back
start_server interrupted -m 64m
mkfifo "$dir/slow"
$INT "$KVCLI" load - <"$dir/slow" >"$dir/out" 2>"$dir/err" &
loader=$!
exec 5>"$dir/slow"
i=0
while [ $i -lt 1280 ]; do
	echo "key$i	value" >&5
	i=$((i + 1))
done
until kvcli -q exists key1279; do sleep 0.02; done
# Meanwhile: a client that is stopped leaves a check undecided.
remote || {
	freeze $loader
	expect 2 kvcli -t 30000 fsck
	grep -q '^nothing is wrong' "$dir/out" && fail "fsck: undecided, and nothing is wrong"
	says "held or leaked: cannot tell, session [0-9]+ \\(pid $loader\\) does not answer"
	kill -CONT $loader
}
expect 0 kvcli fsck && shows '^blocks in clients. hands +[1-9]'
kill -INT $loader
kill -TERM $loader
wait $loader
got=$?
exec 5>&-
[ $got -eq 143 ] || [ $got -eq 130 ] || fail "an interrupted load ends with $got"
cases=$((cases + 1))

# ---- two loaders at once
start_server both
for who in a b; do
	awk -v who=$who -v records=$records 'BEGIN {
		for (i = 0; i < records; i++) printf "key%05d\t%s%05d\n", i, who, i
	}' >"$dir/$who.tsv"
done
kvcli -q load "$dir/a.tsv" &
other=$!
expect 0 kvcli -q load "$dir/b.tsv"
wait $other || fail "the other loader"
expect 0 kvcli dump "$dir/a.tsv"
awk -F '\t' -v records=$records '{ if ($2 != "a" substr($1, 4) && $2 != "b" substr($1, 4)) exit 1 } END { exit NR != records }' "$dir/out" ||
	fail "two loaders left a value that none of them wrote"

finish
