#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers with followers that are killed while clients write, with a real ZooKeeper: what a wait for
# followers has covered is never lost (tests/lab/cluster_kills.c). FARKV_KILLS: how many, 5.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
# shellcheck source=tests/script/zookeeper.sh
. "$srcdir/tests/script/zookeeper.sh"
PROGRAM=$top_builddir/tests/lab/cluster_kills
[ -x "$PROGRAM" ] || skip "tests/lab/cluster_kills is not built; it needs libcheck"

start_zookeeper 500
url=zk://127.0.0.1:$zookeeper_port/farkv/kills
init_cluster --servers "a=shm://$dir/a,b=shm://$dir/b,c=shm://$dir/c" --replicas 1 "$url"
expect 0 "$PROGRAM" --map "$url" --dir "$dir" --kills "${FARKV_KILLS:-5}" || tail -n 30 "$dir"/?.log
sed 's/^/    /' "$dir/out"
finish
