#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# farkv.hpp, compiled with address and undefined behaviour sanitizers: by g++ as C++17, by clang++
# as C++20. tree.sh looks at both standards' syntax.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
[ "${SANITIZED:-no}" = no ] ||
	skip "a program with a sanitizer of its own cannot link a library with another one"

# tried COMPILER STANDARD: the program in $dir/program; its cases are on stdout.
tried() {
	expect 0 "$1" -std="$2" -O1 -g -Wall -Wextra -Wconversion -Werror \
		-fsanitize=address,undefined -fno-sanitize-recover=all \
		-I"$srcdir/include" "$srcdir/tests/script/cxx.cc" -o "$dir/program" \
		-L"$top_builddir/client/.libs" -lfarkv || return
	expect 0 "$dir/program" && shows '^a_store_records_latency_if_asked$'
}

start_server cxx -m 64m
n=0
for way in g++:c++17 clang++:c++20; do
	if command -v "${way%:*}" >/dev/null; then
		tried "${way%:*}" "${way#*:}"
		n=$((n + 1))
	else
		echo "not tested: ${way%:*} is not installed"
	fi
done
[ "$n" -gt 0 ] || skip "needs g++ or clang++"
stop_server
finish
