#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The probes of doc/monitoring.md are in the programs, if sys/sdt.h was there.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs readelf
grep -q '^#define HAVE_SDT 1' "$top_builddir/config.h" || skip "built without sys/sdt.h"

# probes FILE: their names.
probes() {
	readelf -n "$1" 2>/dev/null | awk '/Provider: farkv$/ { ours = 1; next }
		ours && /Name:/ { print $2; ours = 0 }' | sort -u
}
library=$(echo "$top_builddir"/client/.libs/libfarkv.so.?)
[ -e "$library" ] || library=$KVCLI
for pair in "kvserver=$KVSERVER" "libfarkv=$library"; do
	cases=$((cases + 1))
	sed -n "s/^| \`\([a-z_]*\)\` | ${pair%%=*} | .*/\1/p" "$srcdir/doc/monitoring.md" | sort >"$dir/want"
	[ -s "$dir/want" ] || fail "doc/monitoring.md lists no probes of ${pair%%=*}"
	probes "${pair#*=}" | grep -vx reconnect >"$dir/have"
	[ "${pair%%=*}" = kvserver ] || probes "${pair#*=}" >"$dir/have"
	same "$dir/want" "$dir/have"
done
finish
