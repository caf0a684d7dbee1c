#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The rules of the tree; every header compiles alone; prefetches stay; the
# library exports what farkv.h declares, and nothing else.
# shellcheck disable=SC2154,SC2086
set -u
command -v python3 >/dev/null || {
	echo "SKIP: needs python3"
	exit 77
}
[ "${SANITIZED:-no}" = no ] || {
	echo "SKIP: the sources are the same in every build"
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() {
	echo "FAIL: $*"
	failures=$((failures + 1))
}

python3 "$srcdir/tests/tools/tree.py" --self-test || fail "tree.py finds not all"
python3 "$srcdir/tests/tools/tree.py" "$srcdir" || fail "the tree breaks its rules"

# A header that no list names is not in the release archive.
(cd "$srcdir" && find include common client gate server bench tests -name '*.h' -o -name '*.hpp') >"$dir/headers"
while read -r h; do
	grep -qF "$h" "$srcdir/Makefile.in" || fail "$h is in no list of sources"
done <"$dir/headers"
[ "$(wc -l <"$dir/headers")" -gt 50 ] || fail "the test finds no headers"

cc=${CC:-cc}
grep -v -e '^tests/' -e '[.]hpp$' "$dir/headers" >"$dir/own"
while read -r h; do
	# The build has compiled a header that its own source includes first.
	[ ! -e "${h%.h}.c" ] ||
		! grep -v 'config\.h' "${h%.h}.c" | grep -m 1 '^#include' | grep -q "[\"/]${h##*/}\"" || continue
	printf '#include "config.h"\n#include "%s"\n' "$srcdir/$h" >"$dir/one.c"
	$cc -std=gnu11 -fsyntax-only -Wall -Werror -I"$top_builddir" \
		-I"$srcdir/include" -I"$srcdir" $HEADER_CFLAGS "$dir/one.c" ||
		fail "$h does not compile alone"
done <"$dir/own"
# The compiler keeps the prefetches.
cat >"$dir/ahead.c" <<-END
	#include "common/region/fetch.h"
	static __attribute__((noinline)) void ahead(const uint8_t *p) { fetch_lines(p, 192); }
	void all(const uint8_t *const *p) { for (int i = 0; i < 9; i++) ahead(p[i]); }
	static __attribute__((noinline)) void write_ahead(const uint8_t *p) { fetch_lines_to_write(p, 192); }
	void each(const uint8_t *const *p) { for (int i = 0; i < 9; i++) write_ahead(p[i]); }
END
case $(uname -m) in
x86_64 | aarch64)
	$cc -std=gnu11 -O2 -S -I"$srcdir/include" -I"$srcdir" -o "$dir/ahead.s" "$dir/ahead.c"
	for f in all each; do
		sed -n "/^$f:/,/\\.size/p" "$dir/ahead.s" | grep -q ahead ||
			fail "the compiler leaves out fetching ahead ($f)"
	done
	[ "$(grep -c 'prefetch\|prfm' "$dir/ahead.s")" -ge 2 ] ||
		fail "the compiler leaves out fetching ahead"
	;;
esac
printf '#include <farkv.h>\nint main(void) { return farkv_version()[0] == 0; }\n' >"$dir/pub.c"
for std in c99 c11; do
	$cc -std=$std -pedantic-errors -fsyntax-only -Wall -Wextra -Werror \
		-I"$srcdir/include" "$dir/pub.c" || fail "farkv.h is not plain $std"
done
cxx=${CXX:-c++}
if command -v "$cxx" >/dev/null; then
	cp "$dir/pub.c" "$dir/pub.cc"
	for std in c++98 c++11 c++17; do
		"$cxx" -std=$std -pedantic-errors -fsyntax-only -Wall -Wextra -Werror \
			-I"$srcdir/include" "$dir/pub.cc" || fail "farkv.h is not $std"
	done
	printf '#include <farkv.hpp>\nint main() { return 0; }\n' >"$dir/hpp.cc"
	for std in c++17 c++20; do
		"$cxx" -std=$std -pedantic-errors -fsyntax-only -Wall -Wextra -Wconversion -Werror \
			-I"$srcdir/include" "$dir/hpp.cc" || fail "farkv.hpp is not $std"
	done
else
	echo "without a C++ compiler farkv.h is not tried in C++"
fi

sed -n 's/.*[ *]\(farkv_[a-z_]*\)(.*/\1/p' "$srcdir/include/farkv.h" |
	grep -v '^farkv_error$' | sort -u >"$dir/declared.all"
# Declarations begin at the left margin; names in comments do not count.
grep -E '^(int|void|size_t|uint64_t|const char)\b' "$srcdir/include/farkv.h" |
	sed -n 's/.*\b\(farkv_[a-z_]*\)(.*/\1/p' | sort -u >"$dir/declared"
[ "$(wc -l <"$dir/declared")" -ge 18 ] || fail "the test reads farkv.h wrongly"
nm -D --defined-only "$top_builddir/client/.libs/libfarkv.so" |
	awk '$2 ~ /^[A-Z]$/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' |
	sort -u >"$dir/exported"
diff "$dir/declared" "$dir/exported" ||
	fail "libfarkv.so exports something else than farkv.h declares"

# It writes to neither: that is for programs. (A failed assertion does.)
nm -D --undefined-only "$top_builddir/client/.libs/libfarkv.so" >"$dir/imported"
grep -E ' (stdout|stderr|v?printf|perror|puts|psignal|err|warn)(@|$)' "$dir/imported" &&
	fail "libfarkv.so writes to stdout or stderr"

[ "$failures" -eq 0 ]
