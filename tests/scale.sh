#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make check-scale: the scenarios in full size, one after the other, because each
# keeps two CPUs busy. Prints what they measured, a line for each and the sums.
#
# scale.sh PROGRAM...
# shellcheck disable=SC2154
set -u
FARKV_SCALE=large
export FARKV_SCALE
passed=0 failed=0 skipped=0
if [ $# -eq 0 ]; then
	echo "SKIP: the scenarios are not built; they need libcheck"
	skipped=1
fi

for program in "$@"; do
	name=${program##*/}
	begin=$(date +%s)
	# The programs have limits of their own for each case; this is the last.
	timeout -k 10 900 "$top_builddir/$program" 2>&1
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
