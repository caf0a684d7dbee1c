#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver in guest a, clients in guest b, by all the ways to name guest a.
# shellcheck disable=SC2119,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
port=17670

# what_a_user_does WHERE
what_a_user_does() {
	FARKV_URI=kv://$1:$port
	export FARKV_URI
	testcase "$1: put, get, delete"
	expect 0 kvcli -q put "key $1" 'some value'
	expect 0 kvcli get "key $1" && prints 'some value\n'
	expect 0 kvcli -q put "key $1" 'another'
	expect 0 kvcli get "key $1" && prints 'another\n'
	expect 0 kvcli -q del "key $1"
	expect 1 kvcli get "key $1"

	testcase "$1: load, then dump gives the same"
	expect 0 kvcli -q load "$dir/records.tsv"
	expect 0 kvcli -q dump "$dir/records.tsv" &&
		same "$dir/records.tsv" "$dir/out"
}

# cluster_map A B: of servers at these addresses
cluster_map() {
	cat >"$dir/map" <<-END
		farkv cluster 1
		epoch 1
		seed 0123456789abcdef
		server a kv://$1:$((port + 1))
		server b kv://$2:$((port + 1))
		partitions 0-2047 a
		partitions 2048-4095 b
	END
}

# part_of_the_cluster NAME: its server in this guest
part_of_the_cluster() {
	serve "part-$1" -q -m 64 --transport rdma --no-auth --listen ":$((port + 1))" \
		--cluster-map "$dir/map" --node-name "$1"
}

case ${GUEST_ROLE-} in
'')
	testcase "a server and its clients on two machines"
	two_guests || fail "exit status $?"
	finish
	;;
a)
	serve two -q -m 64 --transport rdma --no-auth --listen ":$port" || exit 1
	cluster_map "$GUEST_ADDR" "$GUEST_PEER_ADDR"
	part_of_the_cluster a || exit 1
	signal serves
	await "done" 80 || fail "guest b has not come to its end"
	kill -0 "$server" || fail "kvserver is gone: $(cat "$dir/two.log")"
	[ "$failures" -eq 0 ]
	exit
	;;
b)
	seq 1 200 | sed 's/.*/key&\tvalue &/' >"$dir/records.tsv"
	await serves || fail "guest a does not serve"
	for where in "$GUEST_PEER_ADDR" "[$GUEST_PEER_ADDR6]" "$GUEST_PEER_NAME"; do
		what_a_user_does "$where"
	done

	testcase "kvbench: three seconds of workload a without an error"
	FARKV_URI=kv://$GUEST_PEER_ADDR:$port
	expect 0 kvbench load farkv -P "$srcdir/bench/workloads/workloada" -p recordcount=500 -p fieldcount=2
	expect 0 kvbench run farkv -P "$srcdir/bench/workloads/workloada" -p recordcount=500 -p fieldcount=2 \
		-p operationcount=100000000 -p maxexecutiontime=3 --threads=2
	shows '^\[READ\], Return=OK, [1-9]'
	shows '^\[UPDATE\], Return=OK, [1-9]'
	grep -E 'Return=' "$dir/out" | grep -v 'Return=OK' >"$dir/errors" &&
		fail "$(cat "$dir/errors")"

	testcase "a cluster of servers on both machines"
	cluster_map "$GUEST_PEER_ADDR" "$GUEST_ADDR"
	part_of_the_cluster b || fail "$(cat "$dir/part-b.log")"
	part=$server
	FARKV_URI=kv://$GUEST_PEER_ADDR:$((port + 1))
	expect 0 kvcli -q load "$dir/records.tsv"
	sort "$dir/records.tsv" >"$dir/sorted"
	kvcli -q dump | sort >"$dir/dumped"
	cmp "$dir/sorted" "$dir/dumped" || fail "dump gives other records"
	FARKV_URI=kv://$GUEST_ADDR:$((port + 1))
	expect 0 kvcli get key200 && prints 'value 200\n'
	expect 0 kvcli cluster status && shows '^a  *2048  serves  *[1-9]' && shows '^b  *2048  serves  *[1-9]'
	kill "$part"
	wait "$part"

	testcase "resources: all given back"
	resources_are_back
	signal "done"
	finish
	;;
esac
