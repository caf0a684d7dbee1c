#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make check-lab: the laboratory's long runs, one after the other, because each keeps
# two CPUs busy.
#
# lab.sh PROGRAM...   as they lie in the build directory or in the sources
# shellcheck disable=SC2154
set -u
FARKV_LAB=large
export FARKV_LAB
passed=0 failed=0 skipped=0
for run in "$@"; do
	name=${run##*/}
	program=$top_builddir/$run
	[ -x "$program" ] || program=$srcdir/$run
	begin=$(date +%s)
	# They have limits of their own; this is the last.
	timeout -k 10 $((900 + 3 * ${LAB_SECONDS:-60})) "$program" 2>&1
	status=$?
	took=$(($(date +%s) - begin))
	case $status in
	0)
		passed=$((passed + 1))
		echo "PASS: $name ($took s)"
		;;
	77)
		skipped=$((skipped + 1))
		echo "SKIP: $name"
		;;
	*)
		failed=$((failed + 1))
		echo "FAIL: $name ($took s, exit status $status)"
		;;
	esac
done
printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$passed" "$skipped" "$failed"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
