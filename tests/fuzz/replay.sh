#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every fuzz target on its corpus: seeds, and inputs that fuzzing has found.
# shellcheck disable=SC2154
set -u
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
failures=0 targets=0
for corpus in "$srcdir"/tests/fuzz/corpus/*; do
	name=$(basename "$corpus")
	targets=$((targets + 1))
	if ! "$top_builddir/tests/fuzz/$name" "$corpus" >"$TMPDIR/out" 2>&1; then
		cat "$TMPDIR/out"
		echo "FAIL: $name"
		failures=$((failures + 1))
	fi
done
echo "$targets targets, $failures failures"
[ "$targets" -ge 19 ] && [ "$failures" -eq 0 ]
