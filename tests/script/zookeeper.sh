# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154
#
# For the scripts of clusters: a real ZooKeeper on loopback. Source it after lib.sh; the script is
# skipped without what it needs. Sets $zookeeper_port. The session's time is two of ZooKeeper's ticks.
remote && skip "RDMA addresses are not known before the servers start"
needs java python3
[ -e /usr/share/java/zookeeper.jar ] || skip "needs zookeeper (Debian: zookeeper)"
"$KVSERVER" -s "$dir/no" --cluster zk://h --node-name a 2>&1 | grep -q 'built without ZooKeeper' &&
	skip "built without ZooKeeper"

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_zookeeper [TICK]: at a port that was free just now, or at the same one again; ticks of 500 ms.
# Its process is $zookeeper.
zookeeper_port=
start_zookeeper() {
	if [ -z "$zookeeper_port" ]; then
		zookeeper_port=$(free_port)
		mkdir "$dir/data"
		cat >"$dir/zoo.cfg" <<-END
			tickTime=${1:-500}
			dataDir=$dir/data
			clientPort=$zookeeper_port
			clientPortAddress=127.0.0.1
			admin.enableServer=false
		END
	fi
	java -Xmx128m -Dzookeeper.forceSync=no -cp /usr/share/java/zookeeper.jar \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" >"$dir/zk.log" 2>&1 &
	zookeeper=$!
	servers="$servers $zookeeper"
}

# init_cluster OPTION... URL: kvcli cluster init, as soon as ZooKeeper answers.
init_cluster() {
	until kvcli cluster init "$@" 2>"$dir/err"; do
		kill -0 "$zookeeper" || { cat "$dir/zk.log"; fail "ZooKeeper ended"; finish; }
		grep -q 'does not answer' "$dir/err" || { fail "$(cat "$dir/err")"; finish; }
	done
}

# start_relay PORT: a way to that port of this machine, at $relay_port; SIGSTOP to $relay cuts it.
start_relay() {
	relay_port=$(free_port)
	python3 - "$relay_port" "$1" <<-'END' &
		import asyncio
		import sys

		async def pass_on(reader, writer):
		    while data := await reader.read(65536):
		        writer.write(data)
		        await writer.drain()
		    writer.close()

		async def connected(reader, writer):
		    to = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
		    await asyncio.gather(pass_on(reader, to[1]), pass_on(to[0], writer),
		                         return_exceptions=True)

		async def main():
		    server = await asyncio.start_server(connected, "127.0.0.1", int(sys.argv[1]))
		    await server.serve_forever()

		asyncio.run(main())
	END
	relay=$!
	servers="$servers $relay"
}
