#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory that the machine does not have: with vm.overcommit_memory=2, and by RDMA, where a
# server pins all of it.
# shellcheck disable=SC2154,SC2015
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

# much MIB: so many values of 8 KiB as take that.
much() {
	awk -v n="$(($1 * 128))" 'BEGIN { v = "0123456789"; for (; length(v) < 7000;) v = v v
		for (i = 0; i < n; i++) print "key" i "\t" v }'
}

total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)

testcase "kvserver: by RDMA with more memory than there is -> refused, nothing taken"
expect 1 "$KVSERVER" -s "$dir/none" -m "$((2 * total))m" -t rdma --no-auth --listen :0 &&
	says 'RDMA pins all of it.*give less with --memory' && prints ''
[ ! -e "$dir/none" ] || fail "a socket is left"
resources_are_back

testcase "kvserver: an RDMA address that is taken -> refused, before any memory is"
serve main -m 64m -t rdma --no-auth --listen :7799
expect 1 "$KVSERVER" -s "$dir/none" -m "$((total / 2))m" -t rdma --no-auth --listen :7799 &&
	says 'ddress already in use' && prints ''
# More than there is: it says that it cannot listen, for it has not come to the memory.
expect 1 "$KVSERVER" -s "$dir/none" -m "$((2 * total))m" -t rdma --no-auth --listen :7799 &&
	says 'ddress already in use'
FARKV_URI=$(uri_of main kv)
export FARKV_URI
expect 0 kvcli put key value
expect 0 kvcli get key && prints 'value\n'
stop "$server" || fail "kvserver: exit status $?"
resources_are_back

testcase "kvserver: vm.overcommit_memory=2 -> puts fail when there is no more, nobody dies"
before=$(cat /proc/sys/vm/overcommit_memory) ratio=$(cat /proc/sys/vm/overcommit_ratio)
serve main -m "$((2 * total))m" -t shm --hugepages=never
grep -q "is more than this machine's memory" "$dir/main.log" || fail "no warning"
FARKV_URI=$(uri_of main shm)
export FARKV_URI
committed=$(awk '/^Committed_AS:/ { print int($2 / 1024) }' /proc/meminfo)
# 100 MiB more than now.
echo $(((committed + 100) * 1024)) >/proc/sys/vm/overcommit_kbytes
echo 2 >/proc/sys/vm/overcommit_memory
much 200 | kvcli load --format tsv - >"$dir/out" 2>"$dir/err"
status=$?
echo "$before" >/proc/sys/vm/overcommit_memory
echo "$ratio" >/proc/sys/vm/overcommit_ratio
[ $status -ne 0 ] && [ $status -lt 128 ] || fail "load: exit status $status: $(cat "$dir/err")"
grep -q "the server's machine has no memory left" "$dir/err" || fail "$(cat "$dir/err")"
kill -0 "$server" || fail "the server is gone"
expect 0 kvcli get key0
expect 0 kvcli fsck
stop "$server" || fail "kvserver: exit status $?"
finish
