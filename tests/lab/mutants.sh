#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Breaks one rule of the store at a time, as mutants.txt says, in a copy of the tree, and
# looks whether it is noticed, by whom, and how soon.
#
# mutants.sh [NAME]   only mutants whose name contains NAME
#
# Run by make check-mutants.
# MUTANT_SEEDS: the simulation's, from the first to the last (1-10000)
# MUTANT_RUN: all: not only the first that is named; or one name: that one only
# MUTANT_RUNS: how many runs of 3 seconds the stress gets (4)
# MUTANT_SECONDS: how long the simulation may take for its seeds (1800)
# shellcheck disable=SC2154
set -uf
only=${1:-${MUTANT-}}
seeds=${MUTANT_SEEDS:-1-10000}
which=${MUTANT_RUN:-first}
runs=${MUTANT_RUNS:-4}
seconds=${MUTANT_SECONDS:-1800}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
copy=$dir/tree build=$dir/build list=$srcdir/tests/lab/mutants.txt
KVSERVER=$build/server/kvserver KVCLI=$build/client/cli/kvcli
TMPDIR=$dir
export KVSERVER KVCLI TMPDIR
unset FARKV_LAB

die() {
	echo "mutants: $*" >&2
	exit 1
}

make_copy() {
	mkdir "$copy" "$build" || exit 1
	(cd "$srcdir" && tar cf - --exclude=.git --exclude='*.o' \
		--exclude='*.lo' --exclude=config.status .) |
		(cd "$copy" && tar xf -) || die "the tree cannot be copied"
	(cd "$build" && "$copy/configure" -q --disable-shared CC="${CC:-cc}" \
		CFLAGS="-O2 -w") >"$dir/log" 2>&1 ||
		die "configure fails: $(tail -3 "$dir/log")"
	# Files that make makes before all targets, and not for one.
	make -C "$build" bench/commit.h >"$dir/log" 2>&1 ||
		die "bench/commit.h: $(tail -3 "$dir/log")"
}

# targets RUN...: what has to be built for them
targets() {
	for run in "$@"; do
		case $run in
		stress) echo server/kvserver client/cli/kvcli tests/lab/stress ;;
		sim) echo tests/lab/sim ;;
		esac
	done
}

build_for() {
	# shellcheck disable=SC2046
	make -C "$build" -j2 $(targets "$@") >"$dir/log" 2>&1
}

# run NAME: 0 if nothing was noticed; else what was, on standard output.
run() {
	case $1 in
	sim) run_sim ;;
	stress) run_stress ;;
	esac
}

run_stress() {
	seed=0
	while [ "$seed" -lt "$runs" ]; do
		seed=$((seed + 1))
		CK_RUN_CASE=clients timeout 120 "$build/tests/lab/stress" \
			--seed "$seed" --seconds 3 >"$dir/out" 2>&1 && continue
		echo "run $seed: $(grep -E -m1 \
			'not linearizable|torn|says that|fsck:|one v|ended with' \
			"$dir/out" || tail -1 "$dir/out")"
		return 1
	done
}

run_sim() {
	rc=0
	timeout "$seconds" "$build/tests/lab/sim" --seeds "$seeds" \
		>"$dir/out" 2>&1 || rc=$?
	[ "$rc" -ne 0 ] || return 0
	# A run that is only slow has noticed nothing.
	if [ "$rc" -eq 124 ]; then
		echo "not done with seeds $seeds after $seconds s"
		return 0
	fi
	grep -m1 '^seed' "$dir/out" || tail -1 "$dir/out"
	return 1
}

# mutate NAME: all rows of that name; sets the runs that have to notice
mutate() {
	wanted=
	: >"$dir/files"
	while IFS= read -r row; do
		[ "${row%%|*}" = "$1" ] || continue
		rest=${row#*|}
		file=${rest%%|*}
		rest=${rest#*|}
		wanted=${rest##*|}
		sed -i.before "${rest%|*}" "$copy/$file" ||
			die "$1: sed fails on $file"
		cmp -s "$copy/$file" "$copy/$file.before" &&
			die "$1: '${rest%|*}' changes nothing in $file"
		rm "$copy/$file.before"
		echo "$file" >>"$dir/files"
	done <"$list"
	case $which in
	all) ;;
	first) wanted=${wanted%% *} ;;
	*)
		case " $wanted " in
		*" $which "*) wanted=$which ;;
		*) wanted= ;;
		esac
		;;
	esac
}

restore() {
	sort -u "$dir/files" | while read -r file; do
		cp "$srcdir/$file" "$copy/$file" && touch "$copy/$file"
	done
}

tried=0 missed=0
# try NAME: with the runs that are wanted
try() {
	for run in $wanted; do
		begin=$(date +%s)
		tried=$((tried + 1))
		verdict=caught
		if said=$(run "$run"); then
			verdict=MISSED
			missed=$((missed + 1))
		fi
		printf '%-44s %-6s %s (%s s) %s\n' "$1" "$run" "$verdict" \
			$(($(date +%s) - begin)) "$said"
	done
}

make_copy
if [ -z "$only" ]; then
	# A run that fails without a mutant would seem to notice each.
	mutant_free=sim
	[ "$which" = all ] || [ "$which" = stress ] &&
		mutant_free="$mutant_free stress"
	# shellcheck disable=SC2086
	build_for $mutant_free ||
		die "the tree does not build: $(grep -m3 error "$dir/log")"
	for name in $mutant_free; do
		said=$(run "$name") || die "$name fails without a mutant: $said"
	done
fi
grep -v '^#' "$list" | cut -d'|' -f1 | grep . |
	awk '!seen[$0]++' | grep -F -- "$only" >"$dir/names"
[ -s "$dir/names" ] || die "no mutant is called '$only'"
while IFS= read -r mutant <&3; do
	mutate "$mutant"
	# shellcheck disable=SC2086
	[ -z "$wanted" ] || build_for $wanted ||
		die "$mutant: does not build: $(grep -m3 error "$dir/log")"
	try "$mutant"
	restore
done 3<"$dir/names"
echo "mutants: $(wc -l <"$dir/names"), $tried runs, $missed that did not notice"
[ "$missed" -eq 0 ] && [ "$tried" -gt 0 ]
