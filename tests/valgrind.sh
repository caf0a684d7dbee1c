#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make check-valgrind: memory errors, leaks and lost descriptors of the unit tests.
# Cases run in one process (CK_FORK=no), so what one leaves is seen at the end.
# Prints a line for each program and the sums.
#
# valgrind.sh PROGRAM...
# shellcheck disable=SC2154,SC2086
set -u
command -v valgrind >/dev/null || {
	printf 'SKIP: valgrind is not here\n# PASS: 0\n# SKIP: 1\n# FAIL: 0\n'
	exit 0
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM HUP

# Valgrind runs the program, not libtool's script around it.
one() {
	CK_FORK=no CK_TIMEOUT_MULTIPLIER=30 $LIBTOOL --mode=execute valgrind \
		--quiet --error-exitcode=99 --leak-check=full \
		--show-leak-kinds=definite,indirect,possible \
		--errors-for-leak-kinds=definite,indirect,possible \
		--suppressions="$srcdir/tests/valgrind.supp" \
		"$top_builddir/$1" >"$out/log.${1##*/}" 2>&1
	status=$?
	case $status in
	0) echo "PASS: ${1##*/}" ;;
	77) echo "SKIP: ${1##*/}" ;;
	*)
		tail -n 60 "$out/log.${1##*/}" | sed 's/^/    /'
		echo "FAIL: ${1##*/}: exit status $status"
		;;
	esac
}

for program in "$@"; do
	# Two at a time, where there are two processors.
	one "$program" >"$out/said.${program##*/}" &
	[ $(($(jobs | wc -l) % $(nproc))) -ne 0 ] || wait
done
wait
cat "$out"/said.* >"$out/all"
cat "$out/all"
failed=$(grep -c '^FAIL: ' "$out/all")
printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$(grep -c '^PASS: ' "$out/all")" \
	"$(grep -c '^SKIP: ' "$out/all")" "$failed"
[ "$failed" -eq 0 ]
