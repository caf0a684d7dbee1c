#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Network faults between two machines: packets are lost, late, in another order,
# doubled, damaged; the link is down. See far.sh.
#
# LAB_SECONDS: how long a round lasts (default: 5). Without FARKV_LAB=large one round.
# shellcheck disable=SC2034,SC2154,SC2317
# shellcheck source=tests/guest/far.sh
. "$srcdir/tests/guest/far.sh"
lasts=${LAB_SECONDS:-5}

loss_title="1% of packets are lost, the server's machine stops and kills clients"
loss_harm=a
loss() {
	bad_way loss 1%
	goes_on
	sleep "$lasts"
	shows_in completer_retry_err
}

order_title="packets are late, and in another order"
order() {
	bad_way delay 2ms 2ms
	goes_on
	# What it has found here took long.
	sleep $((3 * lasts))
	shows_in out_of_seq_request rcvd_seq_err
}

twice_title="a fifth of packets arrive twice, clients are stopped and killed"
twice_harm=b
twice() {
	bad_way duplicate 20%
	goes_on
	sleep "$lasts"
	ask_peer shows_in duplicate_request
}

damage_title="1% of packets are damaged"
damage() {
	bad_way corrupt 1%
	goes_on
	sleep "$lasts"
	shows_in completer_retry_err
}

link_title="the link is down on one side, then on the other, for 2 s"
link() {
	goes_on
	set_link down
	sleep 2
	set_link up
	goes_on
	ask_peer link down
	sleep 2
	ask_peer link up
	goes_on
}

choose 1 loss order twice damage link
rounds "two machines, and what a network does to them"
