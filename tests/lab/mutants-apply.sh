#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each row of mutants.txt changes its file: none is out of date. check-mutants, which takes hours,
# looks whether the changes are noticed.
# shellcheck disable=SC2154
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
rows=0 stale=0
while IFS= read -r row; do
	case $row in '' | '#'*) continue ;; esac
	rest=${row#*|}
	file=$srcdir/${rest%%|*}
	rest=${rest#*|}
	rows=$((rows + 1))
	sed "${rest%|*}" "$file" >"$out" && ! cmp -s "$out" "$file" && continue
	echo "mutants.txt: '${row%%|*}' does not change $file" >&2
	stale=$((stale + 1))
done <"$srcdir/tests/lab/mutants.txt"
echo "$rows rows, $stale do not apply"
[ "$rows" -gt 0 ] && [ "$stale" -eq 0 ]
