#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unit programs over RDMA: the transport's over the device's lanes, the library's with a
# kvserver at a kv:// address. One case per program; $SUITE names the programs.
# FARKV_LAB=large adds those that test nothing of the transport.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

FARKV_TEST_TRANSPORT=rdma
# Emulated machines are slow: longer limits for each of a program's cases.
CK_TIMEOUT_MULTIPLIER=12
export FARKV_TEST_TRANSPORT CK_TIMEOUT_MULTIPLIER
if is_rxe; then
	FARKV_TEST_TEARS=1
	export FARKV_TEST_TEARS
fi

# passes PROGRAM: shows its skipped cases, its measurements, and the reason of a failure.
passes() {
	timeout -k 5 600 "$(unwrap "$1")" >"$dir/log" 2>&1
	status=$?
	sed -n -e 's/^  left out: /    left out: /p' -e 's/^  put by /    put by /p' \
		-e 's/^  increment by /    increment by /p' "$dir/log"
	judge_exit "$status"
}

more=
[ "${FARKV_LAB-}" != large ] || more='test_gate test_cluster test_limits'
: "${SUITE:=test_xport test_verbs test_loopback test_farkv test_expiry test_update test_hits \
	test_batch test_evict test_borrow test_cluster_servers test_follow test_scan test_buffers \
	test_buffers_extents test_raw test_structs test_outage test_restart test_hammer $more}"
for program in $SUITE; do
	testcase "$program: by RDMA"
	path=$top_builddir/tests/unit/$program
	[ -e "$path" ] || path=$top_builddir/tests/scale/$program
	if [ -e "$path" ]; then
		passes "$path"
	else
		skip "it is not built; it needs libcheck"
	fi
done
finish
