#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A program that sleeps on farkv_event_fd(), and a store on another machine: between two
# machines each answer takes a while.
# shellcheck disable=SC2119,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

EVENT=$(unwrap "$top_builddir/tests/guest/rdma_event")

case ${GUEST_ROLE-} in
'')
	testcase "two machines"
	two_guests || fail "exit status $?"
	finish
	;;
a)
	testcase "the server"
	serve main -m 128 --no-auth --transport rdma --listen ":7711" || exit 1
	signal up
	await "done" 300 || fail "the client does not end"
	stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/main.log")"
	finish
	;;
b)
	testcase "gets by epoll alone -> all complete, asleep in between"
	await up 60 || fail "no server"
	expect 0 timeout -k 5 250 "$EVENT" "kv://$GUEST_PEER_ADDR:7711"
	sed 's/^/    /' "$dir/out"
	signal "done"
	resources_are_back
	finish
	;;
esac
