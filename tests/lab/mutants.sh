#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Breaks one rule of the store at a time, as mutants.txt says, in a copy of the tree, and
# says which of the laboratory's runs notice.
#
# mutants.sh [NAME]   only mutants whose name contains NAME
#
# Run by make check-mutants. MUTANT_RUNS: how many seeds the stress gets (4).
# shellcheck disable=SC2154
set -uf
only=${1:-${MUTANT-}}
runs=${MUTANT_RUNS:-4}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
copy=$dir/tree build=$dir/build
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
		CFLAGS="-O1 -w") >"$dir/log" 2>&1 ||
		die "configure fails: $(tail -3 "$dir/log")"
}

# What the runs need; a tree without a piece is not asked for it.
targets="server/kvserver client/cli/kvcli tests/lab/stress"
[ -f "$srcdir/tests/lab/sim.c" ] && targets="$targets tests/lab/sim"

build_all() {
	# shellcheck disable=SC2086
	make -C "$build" -j2 $targets >"$dir/log" 2>&1
}

# Each: 0 if nothing was noticed, else what was, on standard output.
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
	timeout 300 "$build/tests/lab/sim" --seeds 1-4000 --seconds 120 >"$dir/out" 2>&1 &&
		return 0
	grep -m1 -i 'seed' "$dir/out" || tail -1 "$dir/out"
	return 1
}

# mutate NAME: all rows of that name; sets what must and may notice
mutate() {
	wanted=
	: >"$dir/files"
	while IFS= read -r row; do
		[ "${row%%|*}" = "$1" ] || continue
		rest=${row#*|}
		file=${rest%%|*}
		rest=${rest#*|}
		wanted="$wanted ${rest##*|}"
		sed -i.before "${rest%|*}" "$copy/$file" ||
			die "$1: sed fails on $file"
		cmp -s "$copy/$file" "$copy/$file.before" &&
			die "$1: '${rest%|*}' changes nothing in $file"
		rm "$copy/$file.before"
		echo "$file" >>"$dir/files"
	done <"$srcdir/tests/lab/mutants.txt"
}

restore() {
	sort -u "$dir/files" | while read -r file; do
		cp "$srcdir/$file" "$copy/$file" && touch "$copy/$file"
	done
}

missed=0
# try NAME: with what it said
try() {
	# shellcheck disable=SC2086
	for run in $(printf '%s\n' $wanted | sort -u); do
		name=${run%\?}
		case " $targets " in
		*"/$name "*) ;;
		*) continue ;;
		esac
		begin=$(date +%s)
		if said=$("run_$name"); then
			verdict=missed
			[ "$name" = "$run" ] && verdict=MISSED &&
				missed=$((missed + 1))
		else
			verdict=caught
		fi
		printf '%-44s %-7s %s (%s s) %s\n' "$1" "$name" "$verdict" \
			$(($(date +%s) - begin)) "$said"
	done
}

make_copy
build_all || die "the tree does not build: $(grep -m3 error "$dir/log")"
if [ -z "$only" ]; then
	for name in stress sim; do
		case " $targets " in
		*"/$name "*) "run_$name" || die "$name fails without a mutant" ;;
		esac
	done
fi
grep -v '^#' "$srcdir/tests/lab/mutants.txt" | cut -d'|' -f1 | grep . |
	awk '!seen[$0]++' | grep -F -- "$only" >"$dir/names"
[ -s "$dir/names" ] || die "no mutant is called '$only'"
while IFS= read -r mutant <&3; do
	mutate "$mutant"
	build_all || die "$mutant: does not build: $(grep -m3 error "$dir/log")"
	try "$mutant"
	restore
done 3<"$dir/names"
echo "mutants: $(wc -l <"$dir/names"), $missed not noticed by a run that should"
[ "$missed" -eq 0 ]
