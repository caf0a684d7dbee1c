#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The transport's tests over the device's lanes, and the library's with a kvserver
# at a kv:// address in place of a socket; one case for each program; $SUITE
# chooses.
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
	timeout -k 5 600 "$(unwrap "$top_builddir/tests/unit/$1")" >"$dir/log" 2>&1
	status=$?
	sed -n -e 's/^  left out: /    left out: /p' -e 's/^  put by /    put by /p' \
		-e 's/^  increment by /    increment by /p' "$dir/log"
	judge_exit "$status"
}

: "${SUITE:=test_xport test_verbs test_loopback test_farkv test_batch test_buffers test_buffers_extents test_raw test_limits test_structs test_outage test_hammer}"
for program in $SUITE; do
	testcase "$program: by RDMA"
	if [ -e "$top_builddir/tests/unit/$program" ]; then
		passes "$program"
	else
		skip "it is not built; it needs libcheck"
	fi
done
finish
