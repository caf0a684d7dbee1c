#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make check-deb: Debian's packages as a user gets them: built from the release archive,
# without an error or a warning of lintian, and installed in a new Debian, where their own test
# (debian/tests) runs; then removed, without a trace.
# shellcheck disable=SC2154
set -u
cd "$top_builddir" || exit 1
skip() {
	printf 'SKIP: deb.sh: %s\n# PASS: 0\n# SKIP: 1\n# FAIL: 0\n' "$*"
	exit 0
}
for program in dh_python3 dpkg-buildpackage lintian mmdebstrap; do
	command -v $program >/dev/null || skip "needs $program"
done
[ "$(id -u)" -eq 0 ] || skip "needs root"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 skipped=0 failed=0

# step NAME COMMAND...: shows its output if it fails; 77 is a step that this host cannot do.
step() {
	name=$1
	shift
	"$@" >"$dir/log" 2>&1
	case $? in
	0)
		passed=$((passed + 1))
		echo "PASS: deb.sh: $name"
		;;
	77)
		skipped=$((skipped + 1))
		echo "SKIP: deb.sh: $name: $(tail -n 1 "$dir/log")"
		;;
	*)
		failed=$((failed + 1))
		cat "$dir/log"
		echo "FAIL: deb.sh: $name"
		finish
		;;
	esac
}
finish() {
	printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$passed" "$skipped" "$failed"
	[ "$failed" -eq 0 ]
	exit
}

# Of the release that this host has, from where it gets its packages.
new_debian() {
	# shellcheck disable=SC1091
	. /etc/os-release
	sources=
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
		[ ! -s "$file" ] || sources="$sources $file"
	done
	apt-config dump Acquire >"$dir/apt.conf"
	# shellcheck disable=SC2016,SC2086
	mmdebstrap --variant=apt --aptopt="$dir/apt.conf" \
		--include=dbus,gcc,libc6-dev,pkgconf,systemd-sysv \
		--customize-hook='cp -R deb "$srcdir/debian/tests" "$1/opt"' \
		--customize-hook='chroot "$1" sh -c "apt-get install -y --no-install-recommends /opt/deb/*.deb"' \
		"$VERSION_CODENAME" "$dir/root" $sources
}

# Without its configuration, service and user's folders.
purged() {
	# shellcheck disable=SC2016
	chroot "$dir/root" sh -c 'apt-get purge -y $(
		for deb in /opt/deb/*.deb; do dpkg-deb --field "$deb" Package; done)' || return
	left=$(find "$dir/root" -xdev -name '*farkv*' -o -xdev -name 'kv[gsct]*' | grep -v "^$dir/root/opt/")
	[ -z "$left" ] || {
		echo "left: $left"
		return 1
	}
}
export srcdir

step "make deb builds the packages" make deb
# Debian has no bug report that asks for the package.
step "lintian has nothing to say" lintian --allow-root --fail-on error,warning \
	--suppress-tags initial-upload-closes-no-bugs deb/*.changes
step "they can be installed in a new Debian" new_debian
step "a store, and each way to it" "$srcdir/tests/tools/boot.sh" "$dir/root" /opt/tests/store
step "systemd starts the service" "$srcdir/tests/tools/boot.sh" "$dir/root" /opt/tests/service
step "purged, they leave nothing" purged
finish
