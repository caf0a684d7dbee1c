#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The simulation: a seed gives the same run each time and another seed another one;
# some hundred seeds in make check, as many as LAB_SECONDS allow in make check-lab,
# where each kind of event has to be met.
# shellcheck disable=SC2154
set -u
sim=$top_builddir/tests/lab/sim
case ${SANITIZED:-} in
*thread*) echo "SKIP: its coroutines are no threads"; exit 77 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0

trace() # SEED
{
	"$sim" --seed "$1" --steps 1500 | sed -n 's/.*: trace //p'
}

first=$(trace 5)
if [ -z "$first" ] || [ "$first" != "$(trace 5)" ]; then
	echo "FAIL: seed 5 does not give the same run twice"
	failures=$((failures + 1))
fi
if [ "$first" = "$(trace 6)" ]; then
	echo "FAIL: seeds 5 and 6 give the same run"
	failures=$((failures + 1))
fi

# So the last of many is the same run as alone.
"$sim" --seeds 1-6 --trace >"$dir/many" && "$sim" --seed 6 --trace >"$dir/one"
lines=$(grep -c '^[0-9]* -*[0-9]* [a-z]' "$dir/one")
all=$(grep -c '^[0-9]* -*[0-9]* [a-z]' "$dir/many")
if [ "$lines" -lt 100 ] || [ "$all" -lt 3000 ]; then
	echo "FAIL: a trace of $lines lines, and of $all for six seeds"
	failures=$((failures + 1))
fi
grep '^[0-9]* -*[0-9]* [a-z]' "$dir/one" >"$dir/a"
grep '^[0-9]* -*[0-9]* [a-z]' "$dir/many" | tail -n "$lines" >"$dir/b"
if ! cmp -s "$dir/a" "$dir/b"; then
	echo "FAIL: seed 6 runs differently after seeds 1 to 5"
	failures=$((failures + 1))
fi

if [ "${FARKV_LAB:-small}" = large ]; then
	pids=
	for cpu in $(seq "$(nproc)"); do
		"$sim" --seeds $((cpu * 10000000))-$((cpu * 10000000 + 9999999)) \
			--seconds "${LAB_SECONDS:-60}" --all >"$dir/run$cpu" 2>&1 &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid" || failures=$((failures + 1))
	done
	cat "$dir"/run*
	awk '/ seeds, / { n += $1; r += $3 }
		END { printf "%d seeds in all, %d a second\n", n, r }' "$dir"/run*
else
	"$sim" --seeds 1-200 --seconds 5 || failures=$((failures + 1))
fi
[ "$failures" -eq 0 ]
