#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Machines that stand still in the middle of operations, while others go on and use
# memory again: halted, when their clocks show nothing of it (doc/protocol.md, "A machine
# that stands still"), and frozen, when they jump. See far.sh.
#
# LAB_SECONDS: how long the halt lasts that the server takes for death (default: 20);
# LAB_HALTS: the others. Without FARKV_LAB=large there is but one halt, which is longer
# than the grace period.
# shellcheck disable=SC2034,SC2086,SC2154,SC2317
# shellcheck source=tests/guest/far.sh
. "$srcdir/tests/guest/far.sh"
lasts=${LAB_SECONDS:-20}
if ! is_large && [ -z "$LAB_ROUNDS" ]; then
	LAB_ROUNDS=halted LAB_HALTS=
	export LAB_HALTS
fi
halts=${LAB_HALTS-0.2 0.3 0.2 0.4 0.3 2}

halted_title="the clients' machine is halted: for${halts:+ $halts, then} $lasts s"
halted() {
	goes_on
	for s in $halts; do
		ask_peer pause $s halt
		sleep 0.5
	done
	goes_on
	ask_peer pause "$lasts" halt
	goes_on
	ask_peer ended
}

frozen_title="the clients' machine is frozen: for $halts s"
frozen() {
	goes_on
	for s in $halts; do
		ask_peer pause $s freeze
		sleep 0.5
	done
	goes_on
}

server_title="the server's machine is halted and frozen: for moments, 2 s"
server() {
	goes_on
	for s in 0.2 0.3 2; do
		for how in halt freeze; do
			pause_peer $s $how
			sleep 0.5
			goes_on
		done
	done
}

choose 3 halted frozen server
rounds "two machines, and one of them stands still"
