#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A script that runs programs as another user works wherever the build is: devices.sh
# again, from a copy in a private home, whose temporary folder is private too.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "an ordinary user becomes nobody else"
be_nobody "$KVCLI" || skip "root may not become another user here"
needs python3

home=$dir/home
mkdir -m 700 "$home" "$home/tmp"
for file in server/kvserver client/cli/kvcli bench/kvbench tests/script/fake_kvcli; do
	[ -e "$top_builddir/$file" ] || continue
	mkdir -p "$home/${file%/*}"
	cp "$(unwrap "$top_builddir/$file")" "$home/$file"
done
mkdir -p "$home/client/.libs"
cp "$top_builddir"/client/.libs/libfarkv.so.? "$home/client/.libs" 2>/dev/null

cases=$((cases + 1))
(
	umask 077
	TMPDIR=$home/tmp top_builddir=$home KVSERVER=$home/server/kvserver
	KVCLI=$home/client/cli/kvcli KVBENCH=$home/bench/kvbench
	export TMPDIR top_builddir KVSERVER KVCLI KVBENCH
	exec sh "$srcdir/tests/script/devices.sh"
) >"$dir/log" 2>&1
got=$?
[ $got -eq 0 ] || [ $got -eq 77 ] || {
	cat "$dir/log"
	fail "devices.sh in a private home: exit status $got"
}
! grep 'as somebody else' "$dir/log" || fail "devices.sh leaves cases out in a private home"
finish
