#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The installation: install into an empty folder, compile the example by
# pkg-config against it, shared and static, and run it against an installed
# server.
# shellcheck disable=SC2154
set -u
[ "${SANITIZED:-no}" = no ] || {
	echo "SKIP: a program without the sanitizer cannot link a library with it"
	exit 77
}
dir=$(mktemp -d)
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT
die() {
	echo "FAIL: $*"
	exit 1
}

DOCS=${DOCDIR:?}
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s -C "$top_builddir" install DESTDIR="$dir" >"$dir/log" 2>&1 || {
	cat "$dir/log"
	die "make install"
}
root=$dir$PREFIX
for f in bin/kvserver bin/kvcli bin/kvbench bin/kvgate include/farkv.h include/farkv.hpp lib/pkgconfig/farkv.pc \
	lib/libfarkv.a lib/libfarkv.so share/farkv/workloads/workloada; do
	[ -e "$root/$f" ] || die "$f was not installed"
done
# All pages, and one for each function: its own, or a line that leads to it.
for f in "$top_builddir"/doc/*.[1-8] "$srcdir"/doc/*.[1-8]; do
	page=$(basename "$f")
	[ -e "$root/share/man/man${page##*.}/$page" ] || die "$page was not installed"
done
n=0
for name in $(grep -o '\bfarkv_[a-z_]*(' "$srcdir/include/farkv.h" | sort -u | tr -d '('); do
	page=$root/share/man/man3/$name.3
	n=$((n + 1))
	[ -e "$page" ] || die "man $name shows nothing"
	link=$(sed -n 's/^\.so //p' "$page")
	grep -q "^.*\b$name\b.*\\\\-" "$root/share/man/${link:-man3/$name.3}" || die "man $name shows another page"
done
[ "$n" -ge 40 ] || die "only $n functions in farkv.h"
[ "$(find "$root/include" -type f | wc -l)" -eq 2 ] || die "more than two headers"

# Links between the installed documents lead somewhere.
n=0
for doc in "$dir$DOCS"/*.md "$dir$DOCS"/*/*.md; do
	for link in $(grep -o '](\([A-Za-z/._-]*\))' "$doc" | tr -d ']()'); do
		n=$((n + 1))
		[ -e "$(dirname "$doc")/$link" ] || die "${doc#"$dir"}: $link is not there"
	done
done
[ "$n" -ge 8 ] || die "only $n links in the installed documents"

export PKG_CONFIG_PATH="$root/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$dir"
cc=${CC:-cc}
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/hello.c" -o "$dir/shared" \
	$(pkg-config --cflags --libs farkv) || die "shared"
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/async.c" -o "$dir/async" \
	$(pkg-config --cflags --libs farkv) || die "async"
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/session.c" -o "$dir/session" \
	$(pkg-config --cflags --libs farkv) || die "session"
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/epoll.c" -o "$dir/epoll" \
	$(pkg-config --cflags --libs farkv) || die "epoll"
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/threads.c" -o "$dir/threads" \
	$(pkg-config --cflags --libs farkv) -pthread || die "threads"
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/metrics.c" -o "$dir/metrics" \
	$(pkg-config --cflags --libs farkv) || die "metrics"
# The static library and, of the others, what the linker takes.
# shellcheck disable=SC2046
$cc -Wall -Wextra -Werror "$srcdir/examples/hello.c" -o "$dir/static" \
	$(pkg-config --cflags farkv) \
	$(pkg-config --static --libs farkv | sed 's/-lfarkv/-l:libfarkv.a/') ||
	die "static"
# All of it static, where the others' static libraries are installed.
echo 'int main(void) { return 0; }' >"$dir/empty.c"
others=$(sed -n 's/^Requires.private: //p' "$root/lib/pkgconfig/farkv.pc" | tr -d ,)
# shellcheck disable=SC2046,SC2086
if (unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
	$cc -static "$dir/empty.c" -o "$dir/empty" \
		$(pkg-config --static --libs $others) >"$dir/log" 2>&1); then
	$cc -static "$srcdir/examples/hello.c" -o "$dir/whole" \
		$(pkg-config --cflags --static --libs farkv) >"$dir/log" 2>&1 || {
		cat "$dir/log"
		die "a program that is static as a whole"
	}
else
	echo "not tested: a static program as a whole ($(tail -n 1 "$dir/log"))"
fi

# The names that a static program sees are the public ones, and no others: it
# may have a log_init() of its own, and probes.
cat >"$dir/own.c" <<'C'
#include <stdio.h>
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#else
#define DTRACE_PROBE(provider, name)
#endif
int batch_get, wire_get_u8, index_get;
int err_set(void) { return 0; }
void log_init(void) { batch_get = wire_get_u8 = index_get = err_set(); }
#define main hello
#include "examples/hello.c"
#undef main
int main(void)
{
	log_init();
	DTRACE_PROBE(own, begin);
	return hello();
}
C
if [ "${JOINED:-no}" = no ]; then
	echo "no objcopy: the names of the static library are not looked at"
else
	${NM:-nm} -g --defined-only "$root/lib/libfarkv.a" >"$dir/names" ||
		die "nm"
	[ "$(grep -c ' T farkv_' "$dir/names")" -ge 18 ] || die "the test reads nm wrongly"
	grep -E '^[0-9a-f]+ [A-Za-z] ' "$dir/names" | grep -Ev ' T farkv_| _[.]stapsdt[.]base$' &&
		die "libfarkv.a shows names that are not public"
	# shellcheck disable=SC2046
	$cc "$dir/own.c" -I"$srcdir" -o "$dir/own" \
		$(pkg-config --cflags farkv) "$root/lib/libfarkv.a" \
		$(pkg-config --static --libs farkv | sed 's/-lfarkv//') ||
		die "static, with names of its own"
fi

export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
mkfifo "$dir/ready"
"$root/bin/kvserver" -q -m 64 -s "$dir/s" --ready-fd 3 3>"$dir/ready" >/dev/null &
server=$!
read -r line <"$dir/ready"
[ "$line" = READY ] || die "the installed server"
export FARKV_URI="shm://$dir/s"
for program in shared static whole own; do
	[ -e "$dir/$program" ] || continue
	[ "$("$dir/$program")" = world ] || die "$program: hello"
done
[ "$("$dir/async" hello hello)" = "10 bytes" ] || die "async"
[ "$(printf 'hello\nhello' | "$dir/epoll")" = "hello: world
hello: world" ] || die "epoll"
# session ARGUMENT...: the answer has the name, and the time that is left.
session() {
	case $("$dir/session" "$@") in
	"alice, 1800 s left" | "alice, 17"[0-9][0-9]" s left") ;;
	*) die "session: $*" ;;
	esac
}
session 17 alice
session 17
"$dir/session" 18 2>"$dir/err" && die "session: unknown"
"$dir/metrics" "$dir/client.prom" >"$dir/out" || die "metrics"
grep -q '^farkv_client_latency_seconds_count{call="put"} 1000$' "$dir/client.prom" || die "metrics: the file"
"$dir/threads"
[ "$("$root/bin/kvcli" get counter)" = 4000 ] || die "threads"
[ "$("$root/bin/kvcli" get hello)" = world ] || die "the installed kvcli"
case $PYTHON_SUMMARY in
no:*) echo "not tested: the Python package (${PYTHON_SUMMARY#no: })" ;;
*)
	[ "$(PYTHONPATH=$dir$PYTHONDIR "$PYTHON" -c 'import farkv
print(farkv.Store()[b"hello"].decode())')" = world ] || die "the installed Python package"
	[ "$PREFIX" != /usr/local ] ||
		"$PYTHON" -c 'import sys; assert sys.argv[1] in sys.path, sys.path' "$PYTHONDIR" ||
		die "Python does not look in $PYTHONDIR"
	;;
esac
"$root/bin/kvbench" run null -P "$root/share/farkv/workloads/workloadc" \
	>/dev/null 2>"$dir/err" || {
	cat "$dir/err"
	die "the installed kvbench"
}
grep -q "$PREFIX/share/farkv" "$root/bin/kvbench" ||
	die "the installed kvbench does not look for its workloads there"
ldd "$dir/shared" | grep -q "$root/lib/libfarkv.so" || die "not the installed library"
ldd "$dir/static" | grep -q libfarkv && die "static is not static"

make -s -C "$top_builddir" uninstall DESTDIR="$dir" >"$dir/log" 2>&1 || {
	cat "$dir/log"
	die "make uninstall"
}
left=$(find "$root/share/man" -type f)
[ -z "$left" ] || die "not removed: $left"
exit 0
