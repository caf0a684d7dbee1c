#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make fuzz: build the fuzz targets with libFuzzer in fuzz-build/ and run each for a
# while, from the committed corpus on. What a run finds that reaches something new
# goes to $FUZZ_CORPUS/NAME (fuzz-build/corpus/NAME), an input that fails to
# fuzz-build/NAME-*.
#
#   FUZZ_SECONDS  for each target [20]
#   FUZZ_TARGETS  names [all]
#   FUZZ_CC       a compiler with libFuzzer [clang]
# shellcheck disable=SC2154
set -u
seconds=${FUZZ_SECONDS:-20}
targets=${FUZZ_TARGETS:-}
cc=${FUZZ_CC:-clang}
build=$PWD/fuzz-build
corpora=${FUZZ_CORPUS:-$build/corpus}

for t in $FUZZ_ALL; do
	all="${all:-} $(basename "$t")"
done
targets=${targets:-$all}

mkdir -p "$build" "$corpora" || exit 1
if [ ! -f "$build/Makefile" ]; then
	(cd "$build" && "$srcdir/configure" --quiet CC="$cc" \
		CFLAGS='-O1 -g' --disable-shared --enable-fuzzer \
		--enable-sanitizer=address) || {
		echo "fuzz: no build with $cc" >&2
		exit 1
	}
fi
set --
for t in $targets; do
	set -- "$@" "tests/fuzz/$t"
done
unset MAKEFLAGS MFLAGS
make -C "$build" -s -j"$(nproc)" "$@" >"$build/build.log" 2>&1 || {
	cat "$build/build.log" >&2
	exit 1
}

# stat NAME LOG: a number that libFuzzer printed at the end.
stat() {
	sed -n "s/^stat::$1: *//p" "$2"
}

passed=0 failed=0
for t in $targets; do
	log=$build/$t.log
	mkdir -p "$corpora/$t"
	set -- "$corpora/$t" "$srcdir/tests/fuzz/corpus/$t"
	if [ -f "$srcdir/tests/fuzz/dict/$t" ]; then
		set -- -dict="$srcdir/tests/fuzz/dict/$t" "$@"
	fi
	if "$build/tests/fuzz/$t" -max_total_time="$seconds" -timeout=120 \
		-rss_limit_mb=2048 -print_final_stats=1 -verbosity=1 \
		-artifact_prefix="$build/$t-" "$@" >"$log" 2>&1; then
		verdict=PASS
		passed=$((passed + 1))
	else
		verdict=FAIL
		failed=$((failed + 1))
		grep -vE '^#[0-9]+' "$log" | tail -n 60
	fi
	printf '%s: %s: %s executions, %s/s; %s; %s inputs\n' "$verdict" "$t" \
		"$(stat number_of_executed_units "$log")" \
		"$(stat average_exec_per_sec "$log")" \
		"$(sed -n 's/^#.*\(cov: [0-9]* ft: [0-9]*\).*/\1/p' "$log" |
			tail -n 1)" \
		"$(find "$corpora/$t" "$srcdir/tests/fuzz/corpus/$t" -type f |
			wc -l)"
done
echo "# PASS: $passed"
echo "# FAIL: $failed"
[ "$failed" -eq 0 ]
