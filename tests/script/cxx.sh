#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# farkv.hpp, compiled by g++ and clang++ with address and undefined behaviour sanitizers, as
# C++17 and C++20.
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
	expect 0 "$dir/program" && shows '^a_store_moves_and_closes_once$'
}

start_server cxx -m 64m
n=0
for cxx in g++ clang++; do
	command -v "$cxx" >/dev/null || {
		echo "not tested: $cxx is not installed"
		continue
	}
	for std in c++17 c++20; do
		tried "$cxx" "$std"
		n=$((n + 1))
	done
done
[ "$n" -gt 0 ] || skip "needs g++ or clang++"
stop_server
finish
