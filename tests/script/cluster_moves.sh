#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients of three servers while keys move and servers stop, with a real ZooKeeper: their histories are
# linearizable (tests/lab/cluster_client.c). First partitions move, servers stop for moments and a client
# for longer than a lease; then one server stops for longer than its session, and its follower takes over;
# then one is cut off from ZooKeeper alone.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
# shellcheck source=tests/script/zookeeper.sh
. "$srcdir/tests/script/zookeeper.sh"
CLIENT=$top_builddir/tests/lab/cluster_client
[ -x "$CLIENT" ] || skip "tests/lab/cluster_client is not built; it needs libcheck"
history=${TMPDIR:-/tmp}/cluster_moves-$$.history

# A session of 2 s: nobody may be lost because the machine is busy.
start_zookeeper 1000
url=zk://127.0.0.1:$zookeeper_port/farkv/moves
init_cluster --servers "a=shm://$dir/a,b=shm://$dir/b,c=shm://$dir/c" --replicas 1 "$url"
# c reaches ZooKeeper by a way of its own, which can be cut.
start_relay "$zookeeper_port"
for name in a b c; do
	[ $name != c ] || url_of_c=zk://127.0.0.1:$relay_port/farkv/moves
	start_server $name -m 64m --cluster "${url_of_c:-$url}" --node-name $name
	eval "pid_$name=$server"
done

# with_clients OPTION...: clients begin to work; their ids are the lines of $dir/pids.
with_clients() {
	rm -f "$dir/until" "$dir/pids"
	"$CLIENT" --address "shm://$dir/a,shm://$dir/b,shm://$dir/c" --until "$dir/until" \
		--pids "$dir/pids" --record "$history" "$@" >"$dir/clients.out" 2>&1 &
	clients=$!
	servers="$servers $clients"
	until [ -s "$dir/pids" ]; do
		kill -0 "$clients" || { fail "$(cat "$dir/clients.out")"; finish; }
		sleep 0.05
	done
}
# judged: the clients end, and all was well. Calls may fail if ZooKeeper was too slow for leases.
judged() {
	cases=$((cases + 1))
	: >"$dir/until"
	wait "$clients"
	status=$?
	sed 's/^/    /' "$dir/clients.out"
	if [ $status -eq 3 ] && grep -q 'gives no lease' "$dir"/?.log; then
		echo "    calls failed while ZooKeeper did not answer"
	elif [ $status -ne 0 ]; then
		fail "$(tail -n 40 "$dir/clients.out")"
	fi
}
# stop SECONDS PID, called by eval
# shellcheck disable=SC2317
stop() {
	freeze "$2"
	sleep "$1"
	kill -CONT "$2"
}
# followed: wait until each server with partitions has a follower.
followed() {
	tries=0
	until kvcli --json cluster status "$url" 2>"$dir/err" |
		awk '/"partitions":0/ { next } /"follower":""/ { exit 1 }'; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || { fail "no followers: $(kvcli cluster status "$url")"; finish; }
		sleep 0.1
	done
}

# ---- moves: no call fails, but those of a client that is stopped for longer than a lease
with_clients --round 1 --spare 3
expect 0 kvcli -q cluster drain b "$url"
eval "stop 0.3 \$pid_a"
expect 0 kvcli -q cluster add "b=shm://$dir/b" "$url"
spare=$(sed -n 4p "$dir/pids")
freeze "$spare"
expect 0 kvcli -q cluster drain c "$url"
sleep 1
kill -CONT "$spare"
eval "stop 0.3 \$pid_b"
expect 0 kvcli -q cluster add "c=shm://$dir/c" "$url"
expect 0 kvcli cluster rebalance "$url"
judged

# ---- a server is lost: its follower has its keys
followed
with_clients --round 2 --lost b --map "$url"
sleep 1
eval "stop 3 \$pid_b"
sleep 2
judged

# ---- a server is cut off from ZooKeeper, and goes on: nobody may believe what it still has
expect 0 kvcli -q cluster rebalance "$url"
followed
with_clients --round 3 --lost c --map "$url"
sleep 1
stop 3 "$relay"
sleep 2
judged
grep -q 'beginning again, empty' "$dir/c.log" || fail "c was not cut off: $(tail -n 5 "$dir/c.log")"
finish
