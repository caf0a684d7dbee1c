#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# lincheck as a program: its output and exit status.
# shellcheck disable=SC2154
set -u
lincheck=$top_builddir/tests/lab/lincheck
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0

# expect STATUS TEXT FILE...: the exit status, and what a line of the output contains
expect() {
	status=$1 text=$2
	shift 2
	"$lincheck" "$@" >"$dir/out" 2>&1
	got=$?
	if [ "$got" -ne "$status" ] || ! grep -qF -- "$text" "$dir/out"; then
		echo "FAIL: lincheck $*: exit status $got, not $status, or no" \
			"'$text' in:"
		cat "$dir/out"
		failures=$((failures + 1))
	fi
}

cat >"$dir/good" <<END
# client key kind invoked responded result value expected version
1 7 put 0 10 ok 1 0 0
2 7 get 5 15 ok 1 0 100
2 8 get 20 30 notfound 0 0 0
END
cat >"$dir/bad" <<END
1 7 put 0 10 ok 1 0 0
2 7 get 20 30 notfound 0 0 0
END
cat >"$dir/versions" <<END
1 7 put 0 10 ok 1 0 0
2 7 get 20 30 ok 1 0 100
2 7 get 20 30 ok 1 0 101
END
echo "1 7 put 0 10 perhaps 1 0 0" >"$dir/nonsense"
: >"$dir/empty"

expect 0 "linearizable: 3 operations on 2 keys" "$dir/good"
expect 0 "linearizable: 0 operations" "$dir/empty"
expect 1 "not linearizable: key 7, by 2 of its operations" "$dir/bad"
expect 1 "one value, two versions" "$dir/versions"
expect 2 "nonsense:1: RESULT is none of" "$dir/nonsense"
expect 2 "No such file" "$dir/absent"
expect 2 "usage: lincheck"
expect 1 "$dir/good: linearizable" "$dir/good" "$dir/bad"
expect 2 "$dir/bad: not linearizable" "$dir/nonsense" "$dir/bad"
if [ "$("$lincheck" - <"$dir/good")" != "$("$lincheck" "$dir/good" |
	sed "s|$dir/good|-|")" ]; then
	echo "FAIL: standard input is read differently"
	failures=$((failures + 1))
fi
if [ "$("$lincheck" "$dir/nonsense" 2>&1 | wc -l)" -ne 1 ]; then
	echo "FAIL: more than one line for bad input"
	failures=$((failures + 1))
fi
[ "$failures" -eq 0 ]
