#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver --user, started by root; --numa-node.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs ps
remote && skip "about sockets of this host"

# refused STATUS MESSAGE OPTION...
refused() {
	want=$1 message=$2
	shift 2
	expect "$want" timeout 20 "$KVSERVER" -s "$dir/refused" -m 8 "$@" && says "$message"
	[ ! -e "$dir/refused" ] || fail "a socket remains: $*"
}
refused 64 "user: there is no user 'no-such-user'" --user no-such-user
expect 64 timeout 20 "$KVSERVER" --check-config -u no-such-user && says "user: there is no user 'no-such-user'"
refused 64 "numa-node: 'x' is not the number of a node" --numa-node x
if "$KVSERVER" -s "$dir/refused" -m 8 --numa-node 5000 2>&1 | grep -q 'built without libnuma'; then
	refused 1 'numa-node: 5000: this kvserver was built without libnuma; install libnuma-dev' --numa-node 5000
elif [ -d /sys/devices/system/node/node0 ]; then
	refused 1 'numa-node: there is no node 5000 with memory for this process; the last one is' --numa-node 5000
	# Containers may not be allowed to choose.
	if "$KVSERVER" -s "$dir/refused" -m 8 --numa-node 0 --check-config >/dev/null; then
		start_server numa -m 8 --numa-node 0
		expect 0 kvcli put key value
		[ "$(awk '/^Mems_allowed_list/ { print $2 }' "/proc/$server/status")" != '' ] || fail "no list of nodes"
		grep -q 'prefer.*:0' "/proc/$server/numa_maps" 2>/dev/null || [ ! -s "/proc/$server/numa_maps" ] ||
			fail "--numa-node 0 prefers no node: $(head -n 3 "/proc/$server/numa_maps")"
		stop_server
	fi
fi

be_nobody "$KVSERVER" "$KVCLI" || {
	[ "$(id -u)" -eq 0 ] || refused 64 'user: only root can run it as' --user "$(id -un)"
	finish
}
expect 64 "$nobody" "$theirs/kvserver" -s "$dir/refused" -m 8 --user root && says 'user: only root can run it as root; start it as'
id nobody >/dev/null 2>&1 || finish
# Counts of a build of --enable-coverage, which nobody may not write in there.
export GCOV_PREFIX="$theirs/counts"
# A process that has changed its user cannot be examined for leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
uid=$(id -u nobody)

# ---- socket, lock, folder and files are the user's; the process, too, with all its threads
belongs() { # PATH...
	for path in "$@"; do
		[ "$(stat -c %u "$path")" = "$uid" ] || fail "$path belongs to user $(stat -c %u "$path"), not $uid"
	done
}
mkdir -m 755 "$dir/files"
chown nobody "$dir/files"
held() {
	rm -f "$dir/held.ready"
	start_server held -s "$dir/run/sock" -m 16m --user nobody --memory-file "$dir/files/store"
	export FARKV_URI="shm://$dir/run/sock"
}
theirs() { "$nobody" "$theirs/kvcli" "$@"; }
held
for status in /proc/"$server"/task/*/status; do
	awk -v uid="$uid" '/^[UG]id:/ { for (i = 2; i <= 5; i++) bad += $i == 0; bad += /^Uid/ && $2 != uid }
		/^Cap(Prm|Eff):/ { bad += $2 !~ /^0+$/ } END { exit bad > 0 }' "$status" ||
		fail "a thread has other rights than nobody: $(grep -E '^(Uid|Gid|Cap)' "$status")"
done
[ "$(awk '/^Groups:/ { for (i = 2; i <= NF; i++) n += $i == 0 } END { print n + 0 }' "/proc/$server/status")" -eq 0 ] ||
	fail "the server is in root's group: $(grep ^Groups "/proc/$server/status")"
expect 0 theirs put key value
belongs "$dir/run" "$dir/run/sock" "$dir/run/sock.lock" "$dir/files/store" "$dir/files/store.data" \
	"$dir/files/store.sessions"
stop_server
[ ! -e "$dir/run/sock" ] && [ ! -e "$dir/run/sock.lock" ] || fail "files remain: $(ls "$dir/run")"
held
expect 0 theirs get key && prints 'value\n'
stop_server

# ---- the child that saves is that user, too; memory without files; a client of root's
start_server saves -m 16m --user nobody --save "$dir/files/snap"
expect 0 kvcli put key value
for child in $(ps -o pid= --ppid "$server"); do
	grep -q "^Uid:.$uid.$uid.$uid.$uid\$" "/proc/$child/status" || fail "the child: $(grep ^Uid "/proc/$child/status")"
done
stop_server
belongs "$dir/files/snap"

# ---- what that user may not read or make
(umask 077 && kvcli keygen alice rw >"$dir/keys")
refused 78 'key' --user nobody --keys "$dir/keys"
mkdir -m 700 "$dir/closed"
refused 1 'memory-file: .*Permission denied' --user nobody --memory-file "$dir/closed/store"
finish
