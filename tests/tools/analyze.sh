#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make analyze: the sources checked by clang-tidy (.clang-tidy lists which
# checks, and why not the others), cppcheck, gcc -fanalyzer and shellcheck. One
# finding fails it; what is not installed is skipped, by name. $ANALYZERS chooses
# ("cppcheck gcc"). Prints a line for each and the sums.
#
# analyze.sh COMPILER-FLAG...   the flags that the sources are compiled with
# analyze.sh --one TOOL FILE    one file; the flags are in $FLAGS
# shellcheck disable=SC2154,SC2086
set -u
cd "$top_builddir" || exit 1

# clang's path analysis takes most of clang-tidy's time. An eighth of its default number of
# states for each function takes a sixth of that time, and finds as many of the errors that were
# planted at the ends of long functions.
clang_flags="-Xclang -analyzer-config -Xclang max-nodes=30000"

# Off: leaks and uninitialised values, because gcc 12 loses track of a pointer to a
# member, in a list, or in a structure returned by value. Valgrind and the
# sanitizers look for both.
gcc_flags="-O1 -fanalyzer -Werror -Wno-format-truncation
	-Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value"

one() {
	case $1 in
	clang-tidy) clang-tidy --quiet "$2" -- $FLAGS $clang_flags 2>/dev/null ;;
	gcc) gcc $FLAGS $gcc_flags -c "$2" -o /dev/null ;;
	# SC2317: functions are called by name, too. SC2015: in "expect && says ||"
	# what follows the && does not fail, it reports.
	shellcheck) (cd "$srcdir" &&
		shellcheck -x -e SC2317,SC2015 "${2#"$srcdir"/}") ;;
	esac
}

if [ "${1-}" = --one ]; then
	one "$2" "$3"
	exit
fi

FLAGS="$*"
export FLAGS
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM HUP
passed=0 failed=0 skipped=0

# Largest first, so that no processor waits for the last one.
sources() {
	find "$srcdir/common" "$srcdir/client" "$srcdir/gate" "$srcdir/server" \
		"$srcdir/bench" "$srcdir/examples" -name '*.c' -exec ls -S {} +
}
scripts() {
	for file in "$srcdir/quickstart" "$srcdir/.ci/run" "$srcdir/autogen.sh" \
		"$srcdir"/tests/*.sh "$srcdir"/tests/*/*.sh "$srcdir/tests/guest/guest"; do
		[ ! -e "$file" ] || echo "$file"
	done
}

verdict() {
	begin=$2
	took=$(($(date +%s) - begin))
	if [ "$3" -eq 0 ]; then
		passed=$((passed + 1))
		echo "PASS: $1 ($took s)"
	else
		failed=$((failed + 1))
		cat "$out/$1"
		echo "FAIL: $1 ($took s)"
	fi
}

wanted() {
	case " ${ANALYZERS-$1} " in *" $1 "*) ;; *) return 1 ;; esac
	command -v "$1" >/dev/null && return
	skipped=$((skipped + 1))
	echo "SKIP: $1 is not here"
	return 1
}

# each TOOL FILES...: one process a file, as many as there are processors.
each() {
	wanted "$1" || return
	begin=$(date +%s)
	$2 | xargs -P "$(nproc)" -I '{}' "$0" --one "$1" '{}' >"$out/$1" 2>&1
	verdict "$1" "$begin" $?
}

check_cpp() {
	wanted cppcheck || return
	begin=$(date +%s)
	# Its macros make structures; other headers it need not know.
	queue=$(echo '#include <sys/queue.h>' | gcc -M -x c - |
		tr ' ' '\n' | grep 'queue\.h$')
	includes="--include=$queue"
	for flag in "$@"; do
		case $flag in -I* | -D*) includes="$includes $flag" ;; esac
	done
	cppcheck --quiet -j "$(nproc)" --std=c11 --enable=warning,performance,portability \
		--inline-suppr --suppressions-list="$srcdir/tests/tools/cppcheck.supp" \
		--error-exitcode=1 --library=posix,gnu --include=config.h $includes \
		"$srcdir/common" "$srcdir/client" "$srcdir/gate" "$srcdir/server" \
		"$srcdir/bench" \
		>"$out/cppcheck" 2>&1
	verdict cppcheck "$begin" $?
}

each clang-tidy sources
each gcc sources
check_cpp "$@"
each shellcheck scripts
printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$passed" "$skipped" "$failed"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
