#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client that stops in the middle of a call while its key moves, with a real ZooKeeper: nothing old is
# read, and nothing new is lost (tests/lab/cluster_cut.c).
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
# shellcheck source=tests/script/zookeeper.sh
. "$srcdir/tests/script/zookeeper.sh"
PROGRAM=$top_builddir/tests/lab/cluster_cut
[ -x "$PROGRAM" ] || skip "tests/lab/cluster_cut is not built; it needs libcheck"

# A session of 2 s: nobody may be lost because the machine is busy.
start_zookeeper 1000
url=zk://127.0.0.1:$zookeeper_port/farkv/cut
init_cluster --servers "a=shm://$dir/a,b=shm://$dir/b,c=shm://$dir/c" "$url"
for name in a b c; do
	start_server $name -m 32m --cluster "$url" --node-name $name
done
expect 0 "$PROGRAM" --map "$url" --address "shm://$dir/a,shm://$dir/b,shm://$dir/c" ||
	tail -n 30 "$dir"/?.log
sed 's/^/    /' "$dir/out"
finish
