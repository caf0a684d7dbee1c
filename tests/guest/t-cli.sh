#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tools by RDMA: kvcli's data, real input in bulk, and kvbench's workloads.
# shellcheck disable=SC2015,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

FARKV_TEST_TRANSPORT=rdma
export FARKV_TEST_TRANSPORT KVCLI KVBENCH

# passes SCRIPT: of tests/; its last lines are shown.
passes() {
	timeout -k 5 600 sh "$srcdir/tests/$1" >"$dir/log" 2>&1
	judge_exit $?
}

for tool in cli-data dumpavail; do
	testcase "$tool.sh: by RDMA"
	passes "$tool.sh"
done

testcase "kvbench: workloads A, B, C, D and F, with contents checked"
number() { # SECTION MEASUREMENT: of the last report
	sed -n "s|^\[$1\], $2, ||p" "$dir/out"
}
workloads=$srcdir/bench/workloads
# Of a slow machine's operations none shall look again whether it was too slow.
serve bench -m 64m --transport rdma --no-auth --listen :0 --grace-ms 60000
FARKV_URI=$(uri_of bench kv)
export FARKV_URI
expect 0 kvbench load farkv -P "$workloads/workloada" -p dataintegrity=true
for w in a b c d f; do
	expect 0 kvbench run farkv -P "$workloads/workload$w" -p dataintegrity=true \
		-threads 2 -p operationcount=1000 || continue
	[ "$(number VERIFY Return=OK)" = "$(number READ Operations)" ] ||
		fail "workload $w: not all values are verified"
done

testcase "kvbench: a get takes two round trips, and so does a batch of 128"
expect 0 kvbench run farkv -P "$workloads/workloadc" -p operationcount=1000 \
	-p requestdistribution=uniform
trips=$(number FARKV RoundTrips)
[ "${trips:-0}" -ge 2000 ] && [ "$trips" -le 2010 ] || fail "1000 gets take $trips round trips"
[ "$(number FARKV CASs)" = 0 ] || fail "gets swap"
expect 0 kvbench run farkv -P "$workloads/workloadc" -p operationcount=1280 -p batch=128
trips=$(number FARKV RoundTrips)
[ "${trips:-0}" -ge 20 ] && [ "$trips" -le 24 ] || fail "10 batches take $trips round trips"
stop "$server" || fail "kvserver: exit status $?"
resources_are_back
finish
