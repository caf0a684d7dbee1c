#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients that are killed at every step, that stop in the middle, and that connect and
# leave in crowds, with a kvserver at a kv:// address; one case for each program.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

FARKV_TEST_TRANSPORT=rdma
# Emulated machines are slow: longer limits for each of a program's cases.
CK_TIMEOUT_MULTIPLIER=4
export FARKV_TEST_TRANSPORT CK_TIMEOUT_MULTIPLIER

# t-sweep and t-growth stop clients, too: scale_stopped runs if this test is named.
programs='scale_kill scale_clients'
[ "${FARKV_LAB-}" != large ] || programs="$programs scale_stopped"
for program in $programs; do
	testcase "$program: by RDMA"
	if [ ! -e "$top_builddir/tests/scale/$program" ]; then
		skip "it is not built; it needs libcheck"
		continue
	fi
	timeout -k 5 900 "$(unwrap "$top_builddir/tests/scale/$program")" >"$dir/log" 2>&1
	status=$?
	sed 's/^/    /' "$dir/log" | tail -n 40
	[ $status -eq 0 ] || fail "exit status $status"
	resources_are_back
done
finish
