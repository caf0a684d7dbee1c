#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A cluster whose map is in ZooKeeper: three kvservers and a real ZooKeeper on loopback. A server is
# killed, one is stopped for longer than its session, ZooKeeper is stopped and started again.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
# shellcheck source=tests/script/zookeeper.sh
. "$srcdir/tests/script/zookeeper.sh"

expect 64 "$KVSERVER" -s "$dir/no" --cluster zk://h --node-name a
says 'the path names the cluster'
expect 64 "$KVSERVER" -s "$dir/no" --cluster zk://h/p && says 'belong together'
expect 64 "$KVSERVER" -s "$dir/no" --cluster zk://h/p --node-name a --cluster-map m && says 'leave out --cluster-map'
expect 64 "$KVSERVER" -s "$dir/no" --cluster zk://h/p --node-name a --memory-file "$dir/m" && says 'begins empty'
expect 64 "$KVSERVER" -s "$dir/no" --cluster zk://h/p --node-name 'a b' && says 'node-name: .a b. is not'

start_zookeeper 500
port=$zookeeper_port
url=zk://127.0.0.1:$port/farkv/test
list=a=shm://$dir/a,b=shm://$dir/b,c=shm://$dir/c
init_cluster --servers "$list" "$url"
expect 64 kvcli cluster init --servers "$list" "$url" && says 'is there already'

# ---- plans of moves, in a cluster whose second server is not started
plan=zk://127.0.0.1:$port/farkv/plan
expect 0 kvcli cluster init --servers "x=shm://$dir/x" --replicas 1 "$plan"
expect 69 kvcli cluster status "$plan" && shows '^map of epoch 1, 1 replica$' && shows '^x  *4096  away  '
expect 64 kvcli cluster add y=/y --no-wait "$plan" && says 'server x has partitions, but is not there'
expect 1 kvcli cluster rebalance "zk://127.0.0.1:$port/farkv/none" && says 'there is no cluster at /farkv/none'
start_server x -m 32m --cluster "$plan" --node-name x
pid_x=$server
expect 0 kvcli cluster rebalance "$plan" && says '^kvcli: cluster: there is nothing to move$'
expect 0 kvcli cluster add y=/y --no-wait "$plan" && says "^kvcli: cluster: 2048 partitions are to move; start the server with --cluster $plan --node-name y$"
expect 0 kvcli cluster status "$plan" && shows '^x  *4096  here  ' && shows '^y  *0  away  .* /y$' &&
	shows '^2048 partitions are to move from x to y$'
tries=0
until kvcli -u "shm://$dir/x" --json cluster status 2>"$dir/err" | grep -q '"server":"x",.*"moving":2048'; do
	tries=$((tries + 1))
	[ $tries -lt 50 ] || { fail "a client does not see the moves: $(cat "$dir/err")"; finish; }
	sleep 0.1
done
expect 64 kvcli cluster add y=/z --no-wait "$plan" && says 'another server has this name'
expect 64 kvcli cluster add y=/y --no-wait "$plan" && says 'the cluster has this server already'
expect 0 kvcli cluster rebalance --no-wait "$plan" && says 'these moves are planned already'
expect 64 kvcli cluster drain z "$plan" && says "the cluster has no server 'z'"
expect 1 kvcli cluster drain x "$plan.none" && says 'there is no cluster'
timeout -s INT 2 env "$KVCLI" cluster rebalance "$plan" 2>"$dir/err"
grep -q "the moves go on: kvcli cluster status $plan shows what is left$" "$dir/err" || fail "$(cat "$dir/err")"
expect 0 kvcli cluster drain y "$plan" && says 'nothing has to move'
expect 0 kvcli cluster drain y "$plan" && says 'server y is drained already'
expect 0 kvcli cluster status "$plan" && shows '^y  *0  away  drained  '
grep -q 'to move' "$dir/out" && fail "moves to a server that is drained: $(cat "$dir/out")"
expect 64 kvcli cluster drain x "$plan" && says 'no server is there that may have the partitions'
expect 0 kvcli -q cluster add y=/y --no-wait "$plan" && silent
expect 0 kvcli cluster status "$plan" && shows '^2048 partitions are to move from x to y$'
kill "$pid_x"
wait "$pid_x"

for name in a b c; do
	start_server $name -m 32m --cluster "$url" --node-name $name
	eval "pid_$name=$server"
done
FARKV_URI=shm://$dir/a,shm://$dir/b,shm://$dir/c
export FARKV_URI
i=0
while [ $i -lt 60 ]; do
	i=$((i + 1))
	printf 'key%s\told%s\n' $i $i
done >"$dir/records"
expect 0 kvcli -q load "$dir/records"
expect 0 kvcli cluster status && shows '^map of epoch 4$' && shows '^b  *1365  serves '

# count: how many keys have a value; no key may have a wrong one, or fail.
count() {
	found=0 i=0
	while [ $i -lt 60 ]; do
		i=$((i + 1))
		kvcli get key$i >"$dir/got" 2>"$dir/err"
		case $? in
		0)
			[ "$(cat "$dir/got")" = "$1$i" ] || fail "key$i is $(cat "$dir/got")"
			found=$((found + 1))
			;;
		1) ;;
		*) return 1 ;;
		esac
	done
}
# settle WORD: wait until every key answers, with its value or without.
settle() {
	tries=0
	until count "$1"; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || { fail "the keys do not answer: $(cat "$dir/err")"; finish; }
		sleep 0.2
	done
}

# ---- one is killed: its keys answer again, without values; the others' have theirs
count old && [ $found -eq 60 ] || fail "$found of 60 keys"
kvcli keys | sort >"$dir/before"
eval "kill -9 \$pid_b; wait \$pid_b 2>/dev/null"
settle old
[ $found -gt 20 ] && [ $found -lt 60 ] || fail "$found of 60 keys after a server was killed"
expect 0 kvcli -q load "$dir/records"
count old && [ $found -eq 60 ] || fail "$found of 60 keys were stored again"
expect 69 kvcli cluster status && shows '^map of epoch 5$' && shows '^b  *0  away '

# ---- a client that knows the servers sees no error of the others, and takes the newer map
# ---- one is stopped beyond its session: what it has is never served again
mkfifo "$dir/shell"
kvcli <"$dir/shell" >"$dir/shell.out" 2>"$dir/shell.err" &
shell=$!
servers="$servers $shell"
exec 7>"$dir/shell"
echo 'get key1' >&7
eval "freeze \$pid_c"
epoch() { kvcli -u "shm://$dir/a" cluster status 2>/dev/null | sed -n 's/^map of epoch //p'; }
tries=0
until [ "$(epoch)" = 6 ]; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { fail "nobody took over from a stopped server"; finish; }
	sleep 0.2
done
sed 's/old/new/' "$dir/records" >"$dir/newer"
FARKV_URI=shm://$dir/a
expect 0 kvcli -q load "$dir/newer"
i=0
while [ $i -lt 60 ]; do
	i=$((i + 1))
	echo "get key$i" >&7
done
eval "kill -CONT \$pid_c"
FARKV_URI=shm://$dir/c,shm://$dir/a
settle new
[ $found -eq 60 ] || fail "$found of 60 keys by the address of a server that was stopped"
exec 7>&-
wait $shell
sed 1d "$dir/shell.out" | grep -q old && fail "an old value was read: $(grep -m 1 old "$dir/shell.out")"
grep -q 'begin\(ning\)* again, empty' "$dir/c.log" || fail "the stopped server did not begin again: $(cat "$dir/c.log")"

# ---- ZooKeeper is stopped: calls wait, nothing is lost
FARKV_URI=shm://$dir/a
freeze "$zookeeper"
sleep 3
kill -CONT "$zookeeper"
settle new
[ $found -eq 60 ] || fail "$found of 60 keys after ZooKeeper was stopped"

# ---- ... and started again
kill "$zookeeper"
wait "$zookeeper"
start_zookeeper 500
settle new
[ $found -eq 60 ] || fail "$found of 60 keys after ZooKeeper was started again"

# ---- a server that cannot register is not ready
freeze "$zookeeper"
at=127.0.0.1:$(free_port)
"$KVSERVER" -s "$dir/b" -m 32m --cluster "$url" --node-name b --metrics "$at" >"$dir/b.out" 2>"$dir/b.log" &
server=$!
servers="$servers $server"
# is_ready WORD: what /readyz says, once it answers.
is_ready() {
	until [ "$(python3 "$srcdir/tests/script/metrics.py" "$at" get /readyz 2>"$dir/err")" = "$1" ]; do
		kill -0 "$server" || { fail "$(cat "$dir/b.log")"; finish; }
		sleep 0.1
	done
}
is_ready 'joining the cluster'
kill -CONT "$zookeeper"
is_ready ready
finish
