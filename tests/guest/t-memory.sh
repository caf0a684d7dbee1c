#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory that the machine does not have, by RDMA, where a server pins all of it.
# shellcheck disable=SC2154,SC2015
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

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

finish
