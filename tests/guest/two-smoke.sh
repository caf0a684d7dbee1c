#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two machines move data between them, each packet is recorded, and the network between
# them can be made worse.
# shellcheck disable=SC2015,SC2119,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

# read_from_a ROUND COUNT: guest a waits for the READs of guest b, which prints how
# long the fastest took: others a busy machine keeps waiting.
read_from_a() {
	if [ "$GUEST_ROLE" = a ]; then
		read_lat_server 256 "$2"
		signal "listens-$1"
		wait "$pid" || fail "ib_read_lat: $(cat "$dir/read_lat.log")"
	else
		await "listens-$1" || echo "guest a does not listen" >&2
		read_lat_client "$GUEST_PEER_ADDR" 256 "$2" >/dev/null
		awk '$1 == 256 && NF >= 9 { print $3 }' "$dir/read_lat.client"
	fi
}

case ${GUEST_ROLE-} in
'')
	command -v tshark >/dev/null || skip_all "no tshark"
	testcase "two machines: 500 READs are 500 requests and 500 responses on the wire"
	two_guests || fail "exit status $?"
	for side in a b; do
		[ "$(opcodes "$out/$side.pcap" 12)" -eq 500 ] &&
			[ "$(opcodes "$out/$side.pcap" 16)" -eq 500 ] || fail \
			"$side.pcap: $(opcodes "$out/$side.pcap" 12) requests, $(opcodes "$out/$side.pcap" 16) responses"
	done
	finish
	;;
a)
	read_from_a 1 450
	read_from_a 2 50
	[ "$failures" -eq 0 ]
	exit
	;;
b)
	fast=$(read_from_a 1 450)
	testcase "netem: a delay of 20 ms shows in the latency"
	expect 0 tc qdisc add dev "$GUEST_DEV" root netem delay 20ms
	slow=$(read_from_a 2 50)
	awk -v fast="${fast:-0}" -v slow="${slow:-0}" \
		'BEGIN { exit !(fast > 0 && fast < 20000 && slow > 20000) }' ||
		fail "$fast us, then $slow us"
	finish
	;;
esac
