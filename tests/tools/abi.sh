#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The library's interface is the one in abi.txt; a change of each kind is seen.
# abi.sh --update writes abi.txt.
# shellcheck disable=SC2154
set -u
for program in python3 readelf; do
	command -v $program >/dev/null || {
		echo "SKIP: needs $program"
		exit 77
	}
done
[ "${SANITIZED:-no}" = no ] || {
	echo "SKIP: the interface is the same in every build"
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
golden=$srcdir/tests/tools/abi.txt
library=$top_builddir/client/.libs/libfarkv.so
abi() {
	python3 "$srcdir/tests/tools/abi.py" "$1" "$library" >"$2" || {
		echo "FAIL: abi.py"
		exit 1
	}
}

abi "$srcdir/include/farkv.h" "$dir/now"
if [ "${1-}" = --update ]; then
	cp "$dir/now" "$golden"
	exit
fi
diff -u "$golden" "$dir/now" || {
	echo "FAIL: the interface has changed. CONTRIBUTING.md, \"Versions\", says what that asks for;"
	echo "then run make abi-update, and commit tests/tools/abi.txt"
	exit 1
}
[ "$(grep -c '^symbol farkv_.*@@FARKV_0' "$golden")" -ge 30 ] || {
	echo "FAIL: abi.py reads the library wrongly"
	exit 1
}

failures=0
# seen NAME SED-SCRIPT: a header changed like that has another interface.
seen() {
	sed "$2" "$srcdir/include/farkv.h" >"$dir/farkv.h"
	cmp -s "$srcdir/include/farkv.h" "$dir/farkv.h" && echo "$1: sed changes nothing"
	abi "$dir/farkv.h" "$dir/then"
	if cmp -s "$dir/now" "$dir/then"; then
		echo "FAIL: not seen: $1"
		failures=$((failures + 1))
	fi
}
seen 'a field that moves' '/^struct farkv_options {/,/^}/{/uint32_t flags;/d; s/^\(.*\*name;\).*/\1 uint32_t flags;/}'
seen 'a field with another type' 's/uint32_t queue_depth;/uint64_t queue_depth;/'
seen 'a new field at the end' '/^struct farkv_value {/,/^}/s/^};/uint64_t more; };/'
seen 'an error with another number' 's/FARKV_EEXISTS = -1001/FARKV_EEXISTS = -1999/'
seen 'another parameter' 's/^int farkv_delete(struct farkv \*kv/int farkv_delete(const struct farkv *kv/'
seen 'another limit' 's/FARKV_SCAN_MIN 64u/FARKV_SCAN_MIN 65u/'
seen 'a value inserted into an enum' 's/^\tFARKV_REQUEST_PUT,/\tFARKV_REQUEST_X, FARKV_REQUEST_PUT,/'
[ "$failures" -eq 0 ]
