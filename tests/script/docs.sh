#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The documents name every option and command, and the README's program is the example.
# (pages.sh holds the pages of the library against farkv.h.)
# shellcheck disable=SC2154
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() {
	echo "FAIL: $*"
	failures=$((failures + 1))
}

options_of() {
	"$1" --help | sed -n 's/^ .*--\([a-z-]*\).*/\1/p'
}
for program in "$KVSERVER" "$KVCLI" "$KVBENCH" "$KVGATE"; do
	page=$(ls "$top_builddir/doc/$(basename "$program")".[18])
	n=0
	for option in $(options_of "$program"); do
		n=$((n + 1))
		sed 's/\\-/-/g' "$page" | grep -q -- "--$option" ||
			fail "$page does not name --$option"
	done
	[ "$n" -ge 9 ] || fail "only $n options of $program were found"
	grep -q '@[A-Za-z]\+@' "$page" && fail "$page: something was not filled in"
done
for command in $("$KVCLI" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\).*/\1/p'); do
	grep -EB1 "^\.BI? \"?$command\b" "$top_builddir/doc/kvcli.1" | grep -q '^\.TP$' ||
		fail "kvcli.1 has no paragraph for $command"
done

# shellcheck disable=SC2016
sed -n '/^```c$/,/^```$/p' "$srcdir/README.md" | sed '1d;$d' >"$dir/readme.c"
diff "$srcdir/examples/hello.c" "$dir/readme.c" ||
	fail "the README's program is not examples/hello.c"
[ "$(wc -l <"$srcdir/examples/hello.c")" -eq 12 ] || fail "it has not 12 lines"
quickstart=$srcdir/quickstart
if [ -e "$quickstart" ]; then # the archive has none
	"$quickstart" --help >"$dir/help" || fail "quickstart --help"
	for words in '' check 'check --all' cluster --help; do
		grep -q "[.]/quickstart $words *\( \|$\)" "$dir/help" || fail "quickstart --help does not name '$words'"
	done
	for words in walk 'check --some' 'check --all more' --all; do
		# shellcheck disable=SC2086
		"$quickstart" $words >"$dir/out" 2>"$dir/err" && fail "quickstart $words: exit status 0"
		grep -q "^quickstart: '$words' is unknown; known are: check, check --all, cluster, --help\$" "$dir/err" ||
			fail "quickstart $words: $(cat "$dir/err")"
		[ ! -s "$dir/out" ] || fail "quickstart $words begins"
	done
	for doc in README CONTRIBUTING; do
		grep -q '[.]/quickstart check --all' "$srcdir/$doc.md" || fail "$doc.md does not name check --all"
	done
	grep -q '^exec ./quickstart check --all$' "$srcdir/.ci/run" || fail ".ci/run does something else"
fi
head -5 "$srcdir/README.md" | grep -q '^    ./quickstart ' &&
	head -5 "$srcdir/README.md" | grep -q '^    ./quickstart check ' ||
	fail "the README does not open with the two commands"

# Links between documents lead somewhere.
for doc in "$srcdir"/*.md "$srcdir"/doc/*.md; do
	for link in $(grep -o '](\([A-Za-z/._-]*\))' "$doc" | tr -d ']()'); do
		[ -e "$(dirname "$doc")/$link" ] || fail "$doc: $link is not there"
	done
done
# RDMA: a feature listed as used is in the sources, one that is left out
# is not; the transport's options are explained.
features=$srcdir/doc/rdma-features.md
sed -n 's/^| \([^|]*\) | \(used\|optional\|handled\|left out\) | [^|]* |$/\2|\1/p' \
	"$features" >"$dir/features"
rows=$(grep '^| ' "$features" | grep -vc '^| feature | | ')
[ "$rows" -ge 85 ] && [ "$(wc -l <"$dir/features")" -eq "$rows" ] ||
	fail "rdma-features.md: $(wc -l <"$dir/features") of $rows rows can be read"
in_sources() {
	cat "$srcdir"/common/rdma/*.[ch] | grep -qw "$1"
}
while IFS='|' read -r state feature; do
	for name in $(echo "$feature" | grep -oE '\b(ibv|IBV|rdma|RDMA)_[A-Za-z_0-9]+'); do
		if [ "$state" = "left out" ]; then
			! in_sources "$name" || fail "rdma-features.md: $name is not left out"
		elif [ -e "$srcdir/common/rdma/verbs.h" ]; then
			in_sources "$name" || fail "rdma-features.md: $name is not used"
		fi
	done
done <"$dir/features"
if options_of "$KVSERVER" | grep -qx transport; then
	for option in transport listen keys no-auth ack-timeout tos control-buffers; do
		grep -q -- "--$option\b" "$srcdir/doc/rdma.md" || fail "rdma.md does not name --$option"
		options_of "$KVSERVER" | grep -qx -- "$option" || fail "kvserver has no --$option"
	done
fi
if grep -nE '^\| `?--' "$srcdir/doc/"*.md; then
	fail "options are listed outside of the pages"
fi
if grep -q '^socket-mode *= *0660' "$srcdir/contrib/kvserver.conf"; then
	grep -q '^Group=' "$srcdir/contrib/kvserver.service" &&
		grep -q '^SocketGroup=' "$srcdir/contrib/kvserver.socket" ||
		fail "contrib/: the socket is for a group that nobody can be in"
fi
"$KVSERVER" --config "$srcdir/contrib/kvserver.conf" --check-config >/dev/null ||
	fail "contrib/kvserver.conf"

[ "$failures" -eq 0 ]
