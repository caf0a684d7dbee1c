#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tools by RDMA: kvbench's workloads; kvcli and the Python package if this test is named.
# shellcheck disable=SC2015,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

FARKV_TEST_TRANSPORT=rdma
export FARKV_TEST_TRANSPORT KVSERVER KVCLI KVBENCH

# passes SCRIPT: a script of tests/script; its last lines are shown.
passes() {
	timeout -k 5 600 sh "$srcdir/tests/script/$1" >"$dir/log" 2>&1
	judge_exit $?
}

# Scripts that start many programs take long in a guest, and test little of the transport: t-smoke
# and two-basic have kvcli's gets and puts.
tools=
[ "${FARKV_LAB-}" != large ] || tools='cli-data cli-admin python'
for tool in $tools; do
	testcase "$tool.sh: by RDMA"
	passes "$tool.sh"
done

number() { # SECTION MEASUREMENT: of the last report
	sed -n "s|^\[$1\], $2, ||p" "$dir/out"
}
workloads=$srcdir/bench/workloads
# Of a slow machine's operations none shall look again whether it was too slow.
serve bench -m 64m --transport rdma --no-auth --listen :0 --grace-ms 60000 || exit 1
FARKV_URI=$(uri_of bench kv)
export FARKV_URI

testcase "kvbench: a load of 1000 records"
expect 0 kvbench load farkv -P "$workloads/workloada" -p dataintegrity=true
[ "$(number INSERT Return=OK)" = 1000 ] || fail "$(number INSERT Return=OK) of 1000 records"

# proportion NAME: its value in the property file of workload $w; 0 without one.
proportion() {
	sed -n "s/^$1proportion=//p" "$workloads/workload$w" | grep . || echo 0
}
# share SECTION PROPORTION...: these together are its share of the $count operations, within
# half a percent of all.
share() {
	section=$1
	shift
	n=$(number "$section" Operations)
	wanted=$(echo "$*" | tr ' ' '+')
	awk "BEGIN { off = ${n:-0} / $count - ($wanted); exit off > 0.005 || off < -0.005 }" ||
		fail "${n:-0} of $count are $section, expected $wanted of all"
}
# Nothing but OK, and every value read equals the one written.
all_well() {
	! grep -E -e '-FAILED\]' -e ', Return=' "$dir/out" | grep -v ', Return=OK, ' >"$dir/bad" ||
		fail "$(head -n 5 "$dir/bad")"
	for section in READ UPDATE INSERT; do
		[ "$(number $section Return=OK)" = "$(number $section Operations)" ] ||
			fail "$section: $(number $section Return=OK) of $(number $section Operations)"
	done
	[ "$(number VERIFY Return=OK)" = "$(number READ Operations)" ] ||
		fail "not all values are verified"
}

# Enough that chance stays within half a percent in three of four runs; with
# this seed it always does. B and c read as a does.
for w in a d f; do
	[ $w = d ] && count=10000 || count=30000
	testcase "kvbench: workload $w -> its mix of $count operations, no error, all values right"
	expect 0 kvbench run farkv -P "$workloads/workload$w" -p dataintegrity=true \
		-p seed=5 -threads 2 -p operationcount="$count" || continue
	all_well
	share READ "$(proportion read)" "$(proportion readmodifywrite)"
	share UPDATE "$(proportion update)" "$(proportion readmodifywrite)"
	share INSERT "$(proportion insert)"
	share READ-MODIFY-WRITE "$(proportion readmodifywrite)"
	modify=$(number READ-MODIFY-WRITE Operations)
	[ $(($(number READ Operations) + $(number UPDATE Operations) + $(number INSERT Operations) - \
		${modify:-0})) -eq "$count" ] || fail "not $count operations"
done

testcase "kvbench: an open loop -> several requests in flight of one session, all values right"
count=3000
expect 0 kvbench run farkv -P "$workloads/workloadf" -p dataintegrity=true -p seed=6 \
	-p operationcount=$count -target 1000 -p openloop=true -p arrivals=poisson
all_well
[ "$(number READ Operations)" -eq $count ] || fail "$(number READ Operations) of $count reads"
[ "$(number READ-MODIFY-WRITE Operations)" -eq "$(number UPDATE Operations)" ] || fail "not every update follows a read"
[ "$(number QUEUE MostInFlight)" -ge 2 ] || fail "$(number QUEUE MostInFlight) in flight at most"

testcase "kvbench: workload e scans -> refused, with the reason"
expect 64 kvbench run farkv -P "$workloads/workloade"
grep -q 'workloade:[0-9]*: scanproportion: ' "$dir/err" || fail "$(cat "$dir/err")"
[ ! -s "$dir/out" ] || fail "prints $(head -n 1 "$dir/out")"

# gets COUNT FIRST CACHE PROPERTY...: COUNT calls that get ten keys in turn, of which
# FIRST take two round trips, since their keys are searched for, and the others one. A
# key with others of its fingerprint takes one more.
gets() {
	count=$1 first=$2 cache=$3
	shift 3
	expect 0 kvbench run farkv -P "$workloads/workloadc" -p recordcount=10 \
		-p requestdistribution=sequential -p farkv.cache_entries="$cache" "$@"
	hits=$(number FARKV CacheHits)
	values=$(number FARKV CacheValues)
	trips=$(number FARKV RoundTrips)
	[ "${trips:-0}" -ge $((count + first)) ] && [ "$trips" -le $((count + first + 2)) ] ||
		fail "$count calls take $trips round trips, expected $((count + first))"
	# A word that can tear is looked at by a CAS that changes nothing.
	swaps=$(number FARKV CASs)
	[ "$swaps" = 0 ] || [ "$swaps" = "$hits" ] || fail "$swaps swaps for $hits looks"
}

testcase "kvbench: a get takes two round trips, of a key that is remembered one"
gets 1000 10 65536 -p operationcount=1000
[ "$hits" = 990 ] || fail "$hits of 1000 were remembered"
gets 1000 1000 0 -p operationcount=1000
[ "$hits$swaps" = 00 ] || fail "$hits of 1000 were remembered, $swaps swapped"

testcase "kvbench: a batch of 128 gets takes two, of keys that are remembered one"
gets 10 1 65536 -p operationcount=1280 -p batch=128
[ "$hits" = 1152 ] || fail "$hits of 1280 were remembered"
gets 10 10 0 -p operationcount=1280 -p batch=128
[ "$hits$swaps" = 00 ] || fail "$hits of 1280 were remembered, $swaps swapped"

# The first get of a key searches, the second READs the value at its cached location.
testcase "kvbench: from their third get on values are at hand, unless none are to be kept"
gets 1000 10 65536 -p operationcount=1000
[ "$values" = 980 ] || fail "$values of 1000 were at hand"
reads=$(number FARKV READs)
[ "$swaps" = 0 ] && looks=$hits || looks=0
[ $((reads - looks)) -le 60 ] || fail "$reads READs, $looks of them looks"
gets 10 1 65536 -p operationcount=1280 -p batch=128
[ "$values" = 1024 ] || fail "$values of 1280 were at hand"
gets 1000 10 65536 -p operationcount=1000 -p farkv.cache_bytes=0
[ "$hits $values" = "990 0" ] || fail "$hits remembered, $values at hand"

testcase "kvbench: more memory for keys than can be meant -> refused"
expect 64 kvbench run farkv -P "$workloads/workloadc" -p farkv.cache_entries=4000000000
tail -n 1 "$dir/err" | grep -q 'cache_entries is 4000000000; at most ' || fail "$(cat "$dir/err")"

stop "$server" || fail "kvserver: exit status $?"
resources_are_back
finish
