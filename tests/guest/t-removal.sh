#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device is removed while a server runs: the server logs it, ends, and frees the device.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

is_rxe || skip_all "only rxe's devices can be removed and made again"
unset FARKV_URI FARKV_KEYS

# leaves OPTION...: a server with these options, while its device is removed.
leaves() {
	serve bereft -m 64 --no-auth "$@" || finish
	uri=$(uri_of bereft kv)
	expect 0 kvcli -u "$uri" put key value
	# In the middle of a session, or not.
	[ -z "$client" ] || background client "$KVCLI" -u "$uri" -c 60 ping
	[ -z "$client" ] || until_true 10 connected || fail "no client"
	rdma link delete "${rdma_link%/*}" &
	remover=$!
	until_true 10 gone "$server" || {
		fail "kvserver stays: $(cat "$dir/bereft.log")"
		kill "$server"
	}
	wait "$server" && fail "kvserver ended with status 0"
	[ -z "$client" ] || stop "$pid"
	wait "$remover" || fail "rdma link delete: status $?"
	grep -q 'device was removed.*leaving' "$dir/bereft.log" ||
		fail "$(cat "$dir/bereft.log")"
	rdma link add "${rdma_link%/*}" type rxe netdev "$GUEST_DEV" || fail "rdma link add"
}

connected() {
	"$KVCLI" -u "$uri" stats | grep -Eq 'sessions open.* 2$|^ *2 .*sessions open'
}

gone() {
	! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

for transport in rdma both; do
	testcase "--transport $transport: the device is removed, nobody connected -> a line, status 1"
	client=
	leaves --transport "$transport"
done

testcase "the device is removed with a client -> the same"
client=yes
leaves --transport rdma
finish
