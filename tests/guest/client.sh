# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154
# A handle that stays open between a script's commands, by tests/guest/rdma_client. Source
# it after lib.sh:
#
#	open_client "kv://$GUEST_PEER_ADDR:17670" 2000
#	ask get key		# $err, $ms, $rest
#	close_client
client=$(unwrap "$top_builddir/tests/guest/rdma_client")

# open_client URI OP_TIMEOUT_MS [CACHE_ENTRIES [CACHE_BYTES]]
open_client() {
	rm -f "$dir/ask" "$dir/answer"
	mkfifo "$dir/ask" "$dir/answer"
	# shellcheck disable=SC2086
	"$client" "$1" "$2" ${3-} ${4-} <"$dir/ask" >"$dir/answer" 2>"$dir/client.log" &
	client_pid=$!
	servers="$servers $client_pid"
	exec 8>"$dir/ask" 9<"$dir/answer"
	take_answer
	[ "$err" = 0 ] || fail "cannot open $1: $err $rest"
}

# Without one, $err is "gone".
take_answer() {
	err='' ms='' rest=''
	read -r err ms rest <&9 || {
		err=gone
		fail "the client is gone: $(tail -n 3 "$dir/client.log")"
	}
}

# ask WORD...: one command, and its answer.
ask() {
	echo "$*" >&8
	take_answer
}

# succeeds WORD...: asks and expects FARKV_OK.
succeeds() {
	ask "$@"
	[ "$err" = 0 ] || fail "$*: $err after $ms ms: $rest"
}

close_client() {
	exec 8>&- 9<&-
	wait "$client_pid" || fail "the client ended with status $?"
}
