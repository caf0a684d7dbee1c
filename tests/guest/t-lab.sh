#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that use a store at a kv:// address while they and its server are stopped,
# continued and killed, and while its index grows from nothing: their results are
# linearizable, the store is sound after every round, and no object is left at the device.
#
# LAB_SECONDS: duration (default: 30); LAB_OPERATIONS: until that many have been
# recorded and checked, without a time limit; LAB_SEED repeats the choices.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

stress=$top_builddir/tests/lab/stress
[ -x "$stress" ] || skip_all "tests/lab/stress is not built; it needs libcheck"
: "${LAB_SECONDS:=30}" "${LAB_SEED:=$(date +%N | sed 's/^0*//')}" # no octal number
FARKV_LAB=large
FARKV_TEST_TRANSPORT=rdma
CK_TIMEOUT_MULTIPLIER=4
TMPDIR=$GUEST_OUT
export LAB_SECONDS LAB_SEED FARKV_LAB FARKV_TEST_TRANSPORT CK_TIMEOUT_MULTIPLIER TMPDIR

[ -z "${LAB_OPERATIONS-}" ] && much="$LAB_SECONDS s" || much="$LAB_OPERATIONS operations"
testcase "$much of clients and servers that are stopped and killed, seed $LAB_SEED"
! is_rxe || mark_counters
"$(unwrap "$stress")" >"$GUEST_OUT/stress.log" 2>&1
status=$?
sed 's/^/    /' "$GUEST_OUT/stress.log" | tail -n 60
[ $status -eq 0 ] || fail "exit status $status"
checked=$(sed -n 's/^  seed .*: \([0-9]*\) operations in .* all in order$/\1/p' "$GUEST_OUT/stress.log" |
	awk '{ sum += $1 } END { print sum + 0 }')
echo "    $checked operations recorded and checked"
[ "$checked" -ge "${LAB_OPERATIONS:-1}" ] || fail "only $checked operations"
! is_rxe || [ "$(counted sent_pkts)" -gt 100000 ] ||
	fail "only $(counted sent_pkts) packets: was that RDMA?"
resources_are_back
no_kernel_complaint
finish
