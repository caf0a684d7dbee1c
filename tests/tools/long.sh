#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs that take minutes, one after the other because each keeps two CPUs busy; a line
# for each with its time, and the sums: make check-scale, make check-bench, make
# check-lab.
#
# long.sh RUN... [--together RUN...]   programs of the build directory, or scripts of
#                                      the sources; together those that mostly sleep
# shellcheck disable=SC2154
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM HUP

# run RUN: its output, and a line with the verdict.
run() {
	name=${1##*/}
	program=$top_builddir/$1
	[ -x "$program" ] || program=$srcdir/$1
	begin=$(date +%s)
	# They have limits of their own for each case; this is the last.
	timeout -k 10 $((900 + 3 * ${LAB_SECONDS:-60})) "$program" 2>&1
	status=$?
	took=$(($(date +%s) - begin))
	case $status in
	0) verdict PASS "$name ($took s)" ;;
	77) verdict SKIP "$name" ;;
	*) verdict FAIL "$name ($took s, exit status $status)" ;;
	esac
}

verdict() {
	echo "$1: $2"
	echo "$1" >>"$out/verdicts"
}

sum() {
	printf '# %s: %s\n' "$1" "$(grep -c "^$1" "$out/verdicts")"
}

while [ $# -gt 0 ] && [ "$1" != --together ]; do
	run "$1"
	shift
done
[ $# -eq 0 ] || shift
for run in "$@"; do
	run "$run" >"$out/${run##*/}.log" &
done
wait
for run in "$@"; do
	cat "$out/${run##*/}.log"
done
[ -s "$out/verdicts" ] || verdict SKIP "nothing of it is built; it needs libcheck"
sum PASS
sum SKIP
sum FAIL
! grep -q '^FAIL' "$out/verdicts"
