#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server in a memory cgroup that is smaller than its --memory: an allocation that does not
# fit is "no memory", and neither the server nor a client is killed.
# shellcheck disable=SC2154,SC2015
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

limit=$((96 << 20))
above=
group=

# own KIND: the folder of this process's cgroup, of version 1 (memory) or 2 ('').
own() {
	path=$(sed -n "s/^[0-9]*:$1:\(.*\)/\1/p" /proc/self/cgroup | head -n 1)
	[ -n "$path" ] && echo "/sys/fs/cgroup${1:+/$1}$path"
}

# make_group: one of ours below the own one; false if that is not allowed.
make_group() {
	for kind in memory ''; do
		above=$(own "$kind") && [ -d "$above" ] || continue
		group=$above/farkv-test-$$
		mkdir "$group" 2>/dev/null || continue
		for file in memory.limit_in_bytes memory.max; do
			[ -e "$group/$file" ] || continue
			# Swap would let it pass.
			[ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
			echo $limit >"$group/$file" 2>/dev/null && return
		done
		rmdir "$group"
	done
	group=
	return 1
}

# shellcheck disable=SC2317
leave_group() {
	cleanup
	[ -z "$group" ] || rmdir "$group"
}
trap leave_group EXIT

make_group || skip "no memory cgroup can be made here"
mkfifo "$dir/grouped.ready"
# shellcheck disable=SC2016 # for the shell that runs it
sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' in-group "$group" \
	"$KVSERVER" -s "$dir/grouped" -m 512m --ready-fd 3 \
	3>"$dir/grouped.ready" >"$dir/grouped.log" 2>&1 &
server=$!
servers="$servers $server"
read -r ready <"$dir/grouped.ready"
[ "${ready-}" = READY ] || fail "the server did not start: $(cat "$dir/grouped.log")"
FARKV_URI=shm://$dir/grouped
export FARKV_URI

# ---- it warns at the start, in one line
cases=$((cases + 1))
grep -Eq 'warning: memory: 512.0 MiB is more than the limit of the cgroup .*, 96.0 MiB' \
	"$dir/grouped.log" || fail "no warning at the start: $(cat "$dir/grouped.log")"

# ---- 160 MiB do not fit into 96
awk 'BEGIN { v = "0123456789"; for (; length(v) < 8000;) v = v v; for (i = 0; i < 20000; i++) print "key" i "\t" v }' \
	>"$dir/much"
cases=$((cases + 1))
kvcli load --format tsv "$dir/much" >"$dir/out" 2>"$dir/err"
status=$?
[ $status -ne 0 ] && [ $status -lt 128 ] || fail "load: exit status $status: $(cat "$dir/err")"
grep -q "the server's machine has no memory left" "$dir/err" ||
	fail "load does not say why: $(cat "$dir/err")"
grep -q 'warning: no memory for more pages of the region' "$dir/grouped.log" ||
	fail "nothing in the log: $(cat "$dir/grouped.log")"
kill -0 "$server" || fail "the server is gone"

# ---- stored values stay, and freed memory is used
expect 0 kvcli get key0 && [ "$(wc -c <"$dir/out")" -ge 8000 ] || fail "a value is lost"
expect 0 kvcli fsck
expect 0 kvcli stats --json && shows '"pages_refused": ?[1-9]'
i=0
while [ $i -lt 20 ]; do
	echo "key$i"
	i=$((i + 1))
done >"$dir/keys"
expect 0 xargs "$KVCLI" del <"$dir/keys"
head -n 1 "$dir/much" | sed 's/^key0/new/' >"$dir/new"
expect 0 kvcli load --format tsv "$dir/new"
expect 0 kvcli get new && [ "$(wc -c <"$dir/out")" -ge 8000 ] || fail "the new value is lost"
stop_server
servers=
finish
