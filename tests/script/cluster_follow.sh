#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Followers as users see them, with a real ZooKeeper on loopback: kvcli wait, cluster status, stats,
# /metrics, Python, and kvgate's WAIT. A server is killed: its follower has its values.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
remote && skip "RDMA addresses are not known before the servers start"
needs java python3
[ -e /usr/share/java/zookeeper.jar ] || skip "needs zookeeper (Debian: zookeeper)"
expect 64 "$KVSERVER" -s "$dir/no" --cluster zk://h --node-name a
grep -q 'built without ZooKeeper' "$dir/err" && skip "built without ZooKeeper"

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
port=$(free_port)
mkdir "$dir/data"
cat >"$dir/zoo.cfg" <<-END
	tickTime=500
	dataDir=$dir/data
	clientPort=$port
	clientPortAddress=127.0.0.1
	admin.enableServer=false
END
java -Xmx128m -cp /usr/share/java/zookeeper.jar \
	org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" >"$dir/zk.log" 2>&1 &
zookeeper=$!
servers="$servers $zookeeper"
url=zk://127.0.0.1:$port/farkv/test
until kvcli cluster init --servers "a=$dir/a,b=$dir/b,c=$dir/c" --replicas 1 "$url" 2>"$dir/err"; do
	kill -0 "$zookeeper" || { cat "$dir/zk.log"; fail "ZooKeeper ended"; finish; }
	grep -q 'does not answer' "$dir/err" || { fail "$(cat "$dir/err")"; finish; }
done

metrics=127.0.0.1:$(free_port)
for name in a b c; do
	more=
	[ $name != a ] || more="--metrics $metrics"
	# shellcheck disable=SC2086 # words
	start_server $name -m 64m --cluster "$url" --node-name $name $more
	eval "pid_$name=$server"
done
FARKV_URI=shm://$dir/a,shm://$dir/b,shm://$dir/c
export FARKV_URI

# ---- until all copies are whole
expect 0 kvcli wait 60000 && silent
i=0
while [ $i -lt 60 ]; do
	i=$((i + 1))
	printf 'key%s\tvalue%s\n' $i $i
done >"$dir/records"
expect 0 kvcli -q load "$dir/records"
expect 0 kvcli wait && silent
kvcli dump | LC_ALL=C sort >"$dir/dumped"
LC_ALL=C sort "$dir/records" >"$dir/sorted"
same "$dir/sorted" "$dir/dumped"
expect 0 kvcli cluster status && shows '^a  *1366  serves .*, follower [bc] [0-9]+ ms later$'
expect 0 kvcli --json cluster status && shows '"server":"b",.*"followers":1,"follower_lag_ms":[0-9]+,"follower":"[ac]",'
expect 0 kvcli --json stats && shows '"followers":3,"follower_lag_ms":[0-9]+,'
expect 0 kvcli -u "$dir/a" stats && shows '^servers with a copy  *3$'
expect 0 python3 "$srcdir/tests/script/metrics.py" "$metrics" get /metrics &&
	shows '^farkv_followers 1$' && shows '^farkv_follower_lag_seconds [0-9]+\.[0-9]{3}$'

# ---- a follower that stands still: waits end by their time, and the copy gets older
# children PID: the processes that copy for a server.
children() { cat /proc/"$1"/task/*/children; }
copying=
for name in a b c; do
	eval "copying=\"\$copying \$(children \$pid_$name)\""
done
# shellcheck disable=SC2086 # words
freeze $copying
expect 1 kvcli wait 300 && says '^kvcli: wait: '
lag() { kvcli --json stats | sed -n 's/.*"follower_lag_ms":\([0-9]*\).*/\1/p'; }
tries=0
until [ "$(lag)" -ge 1000 ]; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { fail "the lag is $(lag)"; break; }
	sleep 0.1
done
# shellcheck disable=SC2086 # words
kill -CONT $copying
expect 0 kvcli wait && silent
[ "$(lag)" -lt 1000 ] || fail "the lag is $(lag)"

# ---- Python
case $PYTHON_SUMMARY in
no:*) echo "not tested: Python" ;;
*)
	mkdir -p "$dir/site/farkv"
	cp "$srcdir"/python/farkv/* "$dir/site/farkv" 2>/dev/null
	cp "$top_builddir/python/.libs/_farkv.so" "$dir/site/farkv"
	cat >"$dir/wait.py" <<-END
		import os, farkv
		store = farkv.Store(os.environ["FARKV_URI"])
		store[b"python"] = b"value"
		store.wait_followers(10)
		stats = store.stats()
		assert stats["followers"] == 3 and stats["follower_lag_ms"] < 10000, stats
	END
	expect 0 env PYTHONPATH="$dir/site" "$PYTHON" "$dir/wait.py" && silent
	;;
esac

# ---- kvgate's WAIT; at the end it kills server b: its follower has its values, and is followed itself
mkfifo "$dir/gate.ready"
"$KVGATE" --resp 0 --threads 1 --ready-fd 3 3>"$dir/gate.ready" >"$dir/gate.out" 2>"$dir/gate.err" &
gate=$!
servers="$servers $gate"
read -r ready <"$dir/gate.ready"
[ "$ready" = READY ] || { fail "kvgate did not start: $(cat "$dir/gate.err")"; finish; }
# shellcheck disable=SC2086 # words
expect 0 timeout 120 python3 "$srcdir/tests/script/gate_wait.py" \
	"$(sed -n 's/.*127.0.0.1:\([0-9]*\).*/\1/p' "$dir/gate.out")" "$pid_b" $copying && silent
wait "$pid_b" 2>/dev/null
kill "$gate"
wait "$gate" || fail "kvgate: exit status $?"
[ ! -s "$dir/gate.err" ] || fail "kvgate wrote: $(cat "$dir/gate.err")"
tries=0
until kvcli dump >"$dir/dumped" 2>"$dir/err" && kvcli cluster status 2>/dev/null | grep -q '^b  *0  away'; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { fail "nobody took over: $(cat "$dir/err")"; finish; }
	sleep 0.2
done
grep '^key' "$dir/dumped" | LC_ALL=C sort >"$dir/now"
same "$dir/sorted" "$dir/now"
expect 0 kvcli wait 60000 && silent
finish
