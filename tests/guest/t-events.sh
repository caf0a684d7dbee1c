#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Requests in flight for a program that sleeps on farkv_event_fd(): none is lost, none is
# polled for in vain, and the descriptor outlives the connection.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

EVENT=$(unwrap "$top_builddir/tests/guest/rdma_event")
options="-m 128 --no-auth --transport rdma --listen $GUEST_ADDR:7711"

testcase "gets by epoll alone; a server that stops, is killed, and comes back -> all complete, asleep meanwhile"
# shellcheck disable=SC2086
serve main $options || exit 1
mkfifo "$dir/go"
# For reading, too: or opening it would wait for a writer.
exec 9<>"$dir/go"
# A program that a shell starts in the background has no input of its own.
# shellcheck disable=SC2016
background event sh -c 'exec "$@" <&9' sh timeout -k 5 300 "$EVENT" "$server" "$(uri_of main kv)"
event=$pid
killed() { grep -q '^killed$' "$dir/event.log" || ! kill -0 "$event" 2>/dev/null; }
until_true 60 killed || fail "it does not get that far"
# shellcheck disable=SC2086
serve again $options && echo go >&9
wait "$event" || fail "exit status $?"
exec 9>&-
sed 's/^/    /' "$dir/event.log"
stop "$server" || fail "kvserver ended with status $?: $(cat "$dir/again.log")"
resources_are_back
no_kernel_complaint
finish
