#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A script whose tool is not installed is skipped at once, and names it.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"

mkdir "$dir/bin"
(
	IFS=:
	for folder in $PATH /usr/sbin /sbin; do
		ln -s "$folder"/* "$dir/bin/" 2>/dev/null # the first of a name counts
	done
)

# without TOOL SCRIPT...: each script, started with the argument $part and a $PATH that lacks the tool
part=none
without() {
	tool=$1
	shift
	rm -f "$dir/bin/$tool"
	for script in "$@"; do
		cases=$((cases + 1))
		PATH=$dir/bin SANITIZED=no timeout 60 sh "$srcdir/tests/$script" "$part" >"$dir/log" 2>&1 </dev/null
		got=$?
		# Without a tool that this machine does not have anyway, it may not come so far.
		other=$(sed -n -e 's/^SKIP: needs \([^ ]*\).*/\1/p' -e 's/^SKIP: \([^ ]*\) is not here$/\1/p' "$dir/log")
		[ "${other:-$tool}" = "$tool" ] || command -v "$other" >/dev/null || continue
		if [ $got -ne 77 ] && [ $got -ne 0 ] || ! grep -q "^SKIP: .*\b$tool\b" "$dir/log"; then
			fail "$script without $tool: exit status $got, $(tail -n 3 "$dir/log")"
		fi
	done
	[ ! -e "$(command -v "$tool")" ] || ln -s "$(command -v "$tool")" "$dir/bin/$tool"
}
# users TOOL: the scripts of this folder that call it
users() {
	(cd "$srcdir/tests" && grep -lw "$1" -- script/*.sh tools/*.sh | grep -v -e /missing.sh -e /lib.sh -e /zookeeper.sh -e /gate_figures.sh)
}

# shellcheck disable=SC2046
without python3 $(users python3)
# shellcheck disable=SC2046
without pgrep $(users pgrep)
part=hostile
without python3 tools/gate_figures.sh
part=memcached
without memcached tools/gate_figures.sh
part=redis
without redis-benchmark tools/gate_figures.sh
part=none
without ps script/bench_compare.sh
without chromium script/bench_browser.sh
without apt-cache script/dumpavail.sh
without mandoc script/pages.sh
without spin model/run.sh
without valgrind tools/valgrind.sh
without gcovr tools/coverage.sh
for tool in clang-tidy cppcheck shellcheck; do
	export ANALYZERS=$tool
	without $tool tools/analyze.sh
done
finish
