#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Three kvservers are one store: kvcli cluster, kvserver --cluster-map, kvcli and kvbench with the
# address of any of them; a server is killed, and comes back. tests/unit/test_cluster has the library's
# calls, by RDMA too.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
remote && skip "RDMA addresses are not known before the servers start; test_cluster does this by RDMA"

map=$dir/map
list=a=shm://$dir/a,b=shm://$dir/b,c=shm://$dir/c

# ---- kvcli cluster init
expect 64 kvcli cluster init "$map" && says 'give the servers by --servers'
expect 64 kvcli cluster init --servers a=x "$map" && says 'servers: server 1: an address is'
expect 64 kvcli cluster init --servers a=/a,a=/b "$map" && says 'server 2: another server has this name'
expect 64 kvcli cluster nothing && says 'usage: kvcli cluster init'
expect 64 kvcli --servers a=/a get k && says 'servers does not apply here'
[ -e "$map" ] && fail "a refused map was written"
expect 0 kvcli cluster init --servers "$list" "$map" && says "^kvcli: cluster: wrote $map; start each"
grep -q '^partitions 0-1365 a$' "$map" || fail "$(cat "$map")"
expect 64 kvcli cluster init --servers "$list" "$map" && says 'is there already'
expect 0 kvcli -q cluster init --servers "$list" - && shows '^server c shm:' && silent

# ---- what changes a cluster needs a coordinator; what a map says needs no server
expect 64 kvcli cluster add d "$map" && says 'is no NAME=ADDRESS'
expect 64 kvcli cluster add d=/d && says 'usage: kvcli cluster init'
expect 64 kvcli cluster add d=/d "$map" && says "'$map' is no zk://HOST:PORT/PATH: only a cluster whose map is in"
expect 64 kvcli cluster drain a "$map" && says 'only a cluster whose map is in ZooKeeper changes'
expect 64 kvcli cluster rebalance --no-wait "$map" && says 'only a cluster whose map is in ZooKeeper'
expect 64 kvcli cluster rebalance --replicas 1 "$map" && says 'usage: kvcli cluster init'
expect 64 kvcli cluster status --no-wait && says 'usage: kvcli cluster init'
expect 64 kvcli --no-wait get k && says 'no-wait does not apply here'
expect 64 kvcli cluster init --servers "$list" --replicas 2 "$dir/no" && says 'option --replicas: 2 is not within'
expect 64 kvcli cluster init --servers "$list" --replicas 1 "$dir/no" && says 'replicas needs a map in ZooKeeper'
expect 0 kvcli cluster status "$map" && shows '^map of epoch 1$' && shows '^a  *1366  -  '
expect 64 kvcli cluster status "$dir/no" && says 'cannot open the map'
cat >"$dir/moves" <<-'END'
	farkv cluster 1
	epoch 9
	seed 0123456789abcdef
	lease 1000
	replicas 1
	server a /a
	server b /b 4 drained
	follower a b
	partitions 0-2999 a
	partitions 3000-4095 b
	move 3000-3099 a fenced
	move 3100-4095 a
END
expect 0 kvcli cluster status "$dir/moves" && shows '^map of epoch 9, 1 replica$' &&
	shows '^a  *3000  -     *b  */a$' && shows '^b  *1096  -  *drained  -  */b$' &&
	shows '^1096 partitions are to move from b to a, 100 of them now$'
expect 0 kvcli --json cluster status "$dir/moves" && shows '"server":"a",.*"drained":false,"follower":"b",' &&
	shows '"emptied":4,"moves":\[{"to":"a","partitions":1096,"fenced":100}\]'

# ---- kvserver's options
serve_not() { # STATUS TEXT [OPTION]...
	status=$1 text=$2
	shift 2
	expect "$status" "$KVSERVER" -s "$dir/no" "$@" && says "$text"
}
serve_not 64 'belong together' --cluster-map "$map"
serve_not 64 'belong together' --node-name a
serve_not 78 "the map $map has no server 'd'" --cluster-map "$map" --node-name d
serve_not 78 'cannot open the map' --cluster-map "$dir/none" --node-name a
sed 's/^partitions 0-1365/partitions 0-1364/' "$map" >"$dir/bad"
serve_not 78 'bad:8: the partitions are' --cluster-map "$dir/bad" --node-name a
expect 0 "$KVSERVER" --check-config --cluster-map "$map" --node-name a

# ---- three servers are one store
for name in a b c; do
	start_server $name -m 64m --cluster-map "$map" --node-name $name --when-full evict
	eval "pid_$name=$server"
done
FARKV_URI=shm://$dir/nobody,shm://$dir/b,shm://$dir/c
export FARKV_URI
i=0
while [ $i -lt 30 ]; do
	i=$((i + 1))
	printf 'key%s\tvalue%s\n' $i $i
done >"$dir/records"
expect 0 kvcli -q load "$dir/records"
kvcli dump | LC_ALL=C sort >"$dir/dumped"
LC_ALL=C sort "$dir/records" >"$dir/sorted"
same "$dir/sorted" "$dir/dumped"
expect 0 kvcli cluster status && shows '^map of epoch 1$' && shows '^a  *1366  serves ' &&
	shows "^c  *1365  serves .* shm://$dir/c$"
expect 0 kvcli --json cluster status && shows '"server":"b",.*"serves":true,'
expect 0 kvcli fsck && shows '^nothing is wrong$'
expect 0 kvcli clients && shows '^a/[0-9]* .*this one.$' && shows '^c/[0-9]* .*this one.$'
expect 0 kvcli --csv clients && shows '^b/[0-9]*,shm,ro,'
expect 0 kvcli --json clients && shows '"server":"b",'
expect 64 kvcli kill 1 && says 'several servers; give SERVER/ID'
expect 1 kvcli kill d/1 && says "'d/1': the store has no server of that name"
expect 1 kvcli kill b/4000000000 && says 'no other session 4000000000'
expect 0 kvcli memory && shows ' of 192.0 MiB in use: '
# Of some figures a sum means nothing.
expect 0 kvcli --json stats && shows '"cache": *1,' && shows '"sessions": *3,' && shows '"grace_ns": *10000000,'
expect 0 kvbench load -P "$srcdir/bench/workloads/workloada" -p recordcount=2000
expect 0 kvbench run -P "$srcdir/bench/workloads/workloada" -p recordcount=2000 -p operationcount=5000 --threads=2
sum=$(sed -n 's/^\[FARKV\], ServerOperations([abc]), //p' "$dir/out" | awk '{ sum += $1 } END { print NR, sum }')
[ "$sum" = '3 5000' ] || fail "servers and their operations: $sum"
shows '^\[FARKV\], ServerErrors\(c\), 0$'
kvbench quick -p recordcount=2000 -p operationcount=5000 --threads=2 >"$dir/out" 2>"$dir/err" || fail "$(cat "$dir/err")"
shows '^  server  *operations  *share  *errors$' && shows '^  b  *[0-9]{4}  *[0-9.]* %  *0$'
expect 1 kvcli wait 10 && says '^kvcli: wait: .*the cluster has no followers: kvcli cluster init --replicas 1$'
expect 64 kvcli wait soon && says "'soon' is not a number of milliseconds"
expect 0 kvcli save "$dir/snap"

# ---- one is killed: its keys fail by its name, the others go on; it comes back empty
eval "kill -9 \$pid_b; wait \$pid_b 2>/dev/null"
found=0 named=0
i=0
while [ $i -lt 30 ]; do
	i=$((i + 1))
	if kvcli get key$i >"$dir/got" 2>"$dir/err"; then
		[ "$(cat "$dir/got")" = value$i ] || fail "key$i is $(cat "$dir/got")"
		found=$((found + 1))
	else
		grep -q '^kvcli: get: key[0-9]*: server b: ' "$dir/err" || fail "$(cat "$dir/err")"
		named=$((named + 1))
	fi
done 2>/dev/null
[ $found -gt 0 ] && [ $named -gt 0 ] || fail "$found keys found, $named not"
expect 69 kvcli cluster status && shows '^b .* away ' && shows '^c .* serves ' && says 'server b: '
kvcli cluster status >"$dir/both" 2>&1
head -n 1 "$dir/both" | grep -q ': server b: ' || fail "the error is not before the table: $(cat "$dir/both")"
expect 69 kvcli -q clear && says 'server b: '
rm "$dir/b.ready"
start_server b -m 64m --cluster-map "$map" --node-name b
FARKV_URI=shm://$dir/c
expect 0 kvcli -q restore "$dir/snap"
kvcli dump | grep '^key' | LC_ALL=C sort >"$dir/dumped"
same "$dir/sorted" "$dir/dumped"
expect 0 kvcli -q clear
expect 0 kvcli keys && silent

# ---- a server of no cluster
start_server alone -m 16m
expect 1 kvcli -u "shm://$dir/alone" cluster status && says 'belongs to no cluster'
finish
