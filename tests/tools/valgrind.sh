#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make check-valgrind: memory errors, leaks and uninitialised values of the unit
# tests. Cases run in one process (CK_FORK=no), so leaks of all are seen at the
# end; random repetitions are fewer (TEST_ONE_IN). Prints a
# line for each program and the sums.
#
# valgrind.sh PROGRAM...
# valgrind.sh --one PROGRAM
# shellcheck disable=SC2154,SC2086
set -u

# Valgrind runs the program, not libtool's script around it.
if [ "${1-}" = --one ]; then
	log=$out/log.${2##*/}
	start=$(date +%s)
	CK_FORK=no CK_TIMEOUT_MULTIPLIER=30 TEST_ONE_IN=20 \
		$LIBTOOL --mode=execute valgrind \
		--quiet --error-exitcode=99 --leak-check=full \
		--show-leak-kinds=definite,indirect,possible \
		--errors-for-leak-kinds=definite,indirect,possible \
		--suppressions="$srcdir/tests/tools/valgrind.supp" \
		"$top_builddir/$2" >"$log" 2>&1
	status=$?
	took=$(($(date +%s) - start))
	case $status in
	0) echo "PASS: ${2##*/} ($took s)" ;;
	77) echo "SKIP: ${2##*/}" ;;
	# In one piece, for another one talks too.
	*) echo "$(tail -n 60 "$log" | sed 's/^/    /')
FAIL: ${2##*/}: exit status $status" ;;
	esac
	exit 0
fi

command -v valgrind >/dev/null || {
	printf 'SKIP: valgrind is not here\n# PASS: 0\n# SKIP: 1\n# FAIL: 0\n'
	exit 0
}
out=$(mktemp -d)
export out
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM HUP
printf '%s\n' "$@" | xargs -P "$(nproc)" -I '{}' "$0" --one '{}' | tee "$out/all"
passed=$(grep -c '^PASS: ' "$out/all")
skipped=$(grep -c '^SKIP: ' "$out/all")
failed=$(($# - passed - skipped))
printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$passed" "$skipped" "$failed"
[ "$failed" -eq 0 ]
