#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli when memory, descriptors and system calls fail: each call of each
# command fails in turn (failing.h). The command either succeeds completely, or
# gives the reason in one line, with an exit status; nothing is half written.
# FARKV_LAB=large takes every call, or as many of them as LAB_SECONDS is of 60 s;
# otherwise every $stride-th, from another one at each time. FARKV_CALL is the only one
# to try, to look into a finding.
# shellcheck disable=SC2154
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

program=$top_builddir/tests/lab/failing_kvcli
[ -x "$program" ] || skip "$program is not built"
stride=40
if [ "${FARKV_LAB-}" = large ]; then
	stride=$((60 / ${LAB_SECONDS:-60}))
	[ "$stride" -gt 0 ] || stride=1
fi
start_server s -m 64m

# ---- the store's content
awk 'BEGIN { for (i = 0; i < 40; i++) {
	v = "value " i " "; while (length(v) < i % 7 * 40) v = v v
	print "key" i "\t" v } }' >"$dir/records.tsv"
cut -f 1 "$dir/records.tsv" >"$dir/keys.txt"
awk '{ print $1 }' FS='\t' "$dir/records.tsv" >"$dir/keys.tsv"

# plan: before each run, and what "done" means after one that exited with 0.
lay_out() {
	kvcli put one 1 && kvcli put two 2 && kvcli del three 2>/dev/null
	return 0
}
remove_all() {
	xargs -n 300 "$KVCLI" -q del <"$dir/keys.txt" >/dev/null 2>&1
	return 0
}
# Each record of a load is stored whole or not at all.
dump_is_part() {
	"$KVCLI" -q dump "$dir/keys.tsv" >"$dir/part"
	sort "$dir/records.tsv" >"$dir/all.sorted"
	sort "$dir/part" | comm -23 - "$dir/all.sorted" >"$dir/strange"
	[ ! -s "$dir/strange" ] || fail "$what: half written: $(head -n 1 "$dir/strange")"
	[ "$1" -ne 0 ] || cmp -s "$dir/part" "$dir/records.tsv" ||
		fail "$what: loaded, and not all is there"
}

# checked STATUS: the last run, by the rules that hold for all commands.
checked() {
	live=$(sed -n 's/^live //p' "$dir/report")
	errors=$(grep -c '^kvcli: ' "$dir/err")
	if [ -z "$live" ] || [ "$1" -ge 124 ]; then
		fail "$what: died: status $1: $(head -c 500 "$dir/err")"
	elif [ "$live" -ne 0 ]; then
		fail "$what: $live blocks not freed"
	fi
	case $1 in
	0) ;;
	2 | 64 | 69 | 75 | 77 | 1) [ "$errors" -eq 1 ] ||
		fail "$what: status $1 with $errors messages: $(cat "$dir/err")" ;;
	*) fail "$what: status $1: $(cat "$dir/err")" ;;
	esac
}

# each BEFORE AFTER COMMAND...: with calls 1, 2, ... failing, until one run comes
# through. BEFORE and AFTER are functions; AFTER gets the exit status.
each() {
	before=$1 after=$2
	shift 2
	n=${FARKV_CALL:-$((1 + $(date +%S | sed 's/^0//') % stride))}
	tried=0
	while :; do
		what="kvcli $1, call $n"
		$before
		rm -f "$dir/report"
		FAILING_AT=$n FAILING_REPORT=$dir/report timeout -k 1 120 \
			"$program" "$@" >"$dir/out" 2>"$dir/err" </dev/null
		status=$?
		which=$(sed -n "s/^failed [0-9]* //p" "$dir/report" | head -n 1)
		what="$what ($which)"
		checked $status
		$after $status
		[ -n "$which" ] || break
		n=$((n + stride)) tried=$((tried + 1))
		if [ -n "${FARKV_CALL-}" ] || [ "$n" -ge 2000 ]; then
			break
		fi
	done
	cases=$((cases + tried))
	[ "$status" -eq 0 ] || [ -n "$which" ] ||
		fail "$what: status $status though nothing failed"
	echo "  kvcli $1: $tried calls failed in turn"
}

got_one() {
	[ "$1" -ne 0 ] || [ "$(cat "$dir/out")" = 1 ] || fail "$what: printed '$(cat "$dir/out")'"
}
got_all() {
	[ "$1" -ne 0 ] || cmp -s "$dir/out" "$dir/records.tsv" ||
		fail "$what: status 0 and not all was written"
}
# At least what was loaded.
lacks_nothing() { # STATUS EXPECTED
	sort "$2" >"$dir/expected"
	sort "$dir/out" | comm -13 - "$dir/expected" >"$dir/missing"
	[ "$1" -ne 0 ] || [ ! -s "$dir/missing" ] ||
		fail "$what: status 0 without $(head -c 100 "$dir/missing")"
}
got_whole() { lacks_nothing "$1" "$dir/records.tsv"; }
got_keys() { lacks_nothing "$1" "$dir/keys.txt"; }
cleared() {
	[ "$1" -ne 0 ] || [ -z "$("$KVCLI" keys)" ] || fail "$what: status 0, and keys are left"
}
three_is() {
	value=$("$KVCLI" -q get three)
	if [ "$1" -eq 0 ]; then
		[ "$value" = 3 ] || fail "$what: status 0 and three is '$value'"
	else
		[ -z "$value" ] || [ "$value" = 3 ] || fail "$what: three is '$value'"
	fi
}
nothing() { :; }
fetched() {
	[ "$1" -ne 0 ] || [ "$(wc -l <"$dir/out")" -ge 2 ] || fail "$what: printed '$(cat "$dir/out")'"
}

each lay_out got_one get one
each lay_out three_is put three 3
each lay_out three_is add three 3
each lay_out fetched mget one two
each nothing fetched stats
each nothing nothing fsck
each remove_all dump_is_part load "$dir/records.tsv"
each nothing got_all -q dump "$dir/keys.tsv"
each nothing got_whole -q dump
each nothing got_keys keys
each nothing cleared clear
kvcli -q load "$dir/records.tsv"
kvcli -q save "$dir/snap"
saved() {
	kvcli -q fsck --file "$dir/snap" || fail "$what: status $1 and a damaged file"
	[ -z "$(find "$dir" -name 'snap.*')" ] || fail "$what: status $1, and a file is left"
	rm -f "$dir"/snap.*
}
each nothing saved save "$dir/snap"
each remove_all dump_is_part -q restore "$dir/snap"
each nothing nothing info "$dir/snap"
expect 0 kvcli fsck
stop_server
finish
