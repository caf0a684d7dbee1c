#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs that take minutes, one after the other because each keeps two CPUs busy; a line
# for each with its time, and the sums: make check-scale, make check-lab.
#
# long.sh RUN...   programs of the build directory, or scripts of the sources
# shellcheck disable=SC2154
set -u
passed=0 failed=0 skipped=0
if [ $# -eq 0 ]; then
	echo "SKIP: nothing of it is built; it needs libcheck"
	skipped=1
fi

for run in "$@"; do
	name=${run##*/}
	program=$top_builddir/$run
	[ -x "$program" ] || program=$srcdir/$run
	begin=$(date +%s)
	# They have limits of their own for each case; this is the last.
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
[ "$failed" -eq 0 ]
