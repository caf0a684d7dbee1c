#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver and its clients in namespaces of their own, as in containers: the death of a
# client there is noticed, and memory comes back.
# shellcheck disable=SC2015,SC2154
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

# contained COMMAND...: in PID, mount and, where need be, user namespaces of its own, in
# which it ends with this call.
if unshare --pid --fork --mount-proc --kill-child true 2>/dev/null; then
	contained() { exec unshare --pid --fork --mount-proc --kill-child "$@"; }
elif unshare --user --map-root-user --pid --fork --mount-proc --kill-child true 2>/dev/null; then
	contained() { exec unshare --user --map-root-user --pid --fork --mount-proc --kill-child "$@"; }
else
	skip "no PID namespace can be made here (unshare --pid --mount-proc)"
fi

# A memory cgroup, where one can be made: $group, else empty.
group=
for g in "/sys/fs/cgroup/memory/farkv-test.$$" "/sys/fs/cgroup/farkv-test.$$"; do
	mkdir "$g" 2>/dev/null || continue
	for limit in memory.limit_in_bytes memory.max; do
		echo 268435456 2>/dev/null >"$g/$limit" && group=$g
	done
	[ -n "$group" ] && break
	rmdir "$g"
done
[ -n "$group" ] || echo "SKIP: no memory cgroup can be made here; that part is left out"
ungroup() {
	# unshare passes no SIGTERM on.
	[ -z "${server-}" ] || kill -9 "$server" 2>/dev/null
	cleanup
	[ -z "$group" ] || rmdir "$group"
}
trap ungroup EXIT

# stat NAME: one number of kvcli stats.
stat_of() {
	kvcli -s "$dir/box" -j stats | grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'
}

# settles NAME VALUE: within some seconds, or the case fails.
settles() {
	cases=$((cases + 1))
	for _ in $(seq 300); do
		[ "$(stat_of "$1")" = "$2" ] && return
		sleep 0.1
	done
	fail "$1 is $(stat_of "$1") for 30 s, not $2"
}

# A client that has a session, and blocks, until it is killed; its id is in $client. With
# "contained" as its first word it has a PID namespace of its own.
start_client() {
	mkfifo "$dir/records"
	("$@" "$KVCLI" -q -s "$dir/box" load - <"$dir/records") &
	client=$!
	servers="$servers $client"
	exec 4>"$dir/records"
	i=0
	while [ $i -lt 128 ]; do
		i=$((i + 1))
		printf '%s %d\tvalue\n' "$1" $i
	done >&4
	cases=$((cases + 1))
	until kvcli -q -s "$dir/box" exists "$1 128" >/dev/null; do sleep 0.1; done
	rm "$dir/records"
}

bench() {
	expect 0 env FARKV_URI="shm://$dir/box" timeout 600 "$KVBENCH" "$1" \
		-P "$srcdir/bench/workloads/workloada" -p recordcount=10 \
		-p readproportion=0 -p updateproportion=1 -p fieldcount=1 \
		-p fieldlength=30000 -p operationcount=150000
}

# ---- the server in a container
mkfifo "$dir/ready"
(
	[ -z "$group" ] || echo 0 >"$group/cgroup.procs"
	contained "$KVSERVER" -q --ready-fd 3 -m 1m --grace-ms 1 -s "$dir/box" 3>"$dir/ready" >"$dir/box.log" 2>&1
) &
server=$!
servers="$servers $server"
read -r ready <"$dir/ready"
[ "${ready-}" = READY ] || {
	cat "$dir/box.log"
	fail "the server did not start"
	exit 1
}

# ---- a client outside of it is killed: its blocks come back, and no barrier waits for it
for where in exec contained; do
	start_client $where
	kill -9 "$client" # or unshare, which takes what it has started along
	wait "$client" 2>/dev/null
	exec 4>&-
	settles sessions 1
	settles sweep_deaths 0
	settles barrier_waits 0
done
# More updates than all blocks have incarnations (4096 each): exhausted blocks have to come
# back, and those that the dead clients held.
bench load
bench run
expect 0 kvcli -s "$dir/box" fsck
finish
