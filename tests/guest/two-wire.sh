#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The packets of a get and a put: each packet between the two guests is checked. Marks
# on UDP port 9 tell where an operation begins and ends. Each runs a few times, because
# the server's test of a silent client may come between, more often on a slow
# machine; an operation's own packets are there each time.
# shellcheck disable=SC2015,SC2119,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
# shellcheck source=tests/guest/client.sh
. "$srcdir/tests/guest/client.sh"
port=17670
tos=96
rounds='1 2 3 4 5'

mark() {
	bash -c "echo '$1' >/dev/udp/$GUEST_PEER_ADDR/9"
}

# send_marked HANDLE: gets of keys and puts over them, by a handle that has blocks.
# A key for each round: one that shares its line and fingerprint with another costs
# an extra READ each time.
send_marked() {
	ask soak 0.5
	for n in $rounds; do
		succeeds put "key$n" first
		succeeds put "key$n" second
	done
	sleep 0.5
	for n in $rounds; do
		succeeds get "key$n"
		succeeds get "key$n"
		mark "$1-get$n"
		succeeds get "key$n"
		[ "$rest" = second ] || fail "get: $rest"
		mark "$1-put$n"
		succeeds put "key$n" "third$n"
		mark "$1-end$n"
	done
	succeeds get key1
	[ "$rest" = third1 ] || fail "get after put: $rest"
}

# ---- on the host, of $out/a.pcap

# One line a packet: destination port, source, DS field, data if it is a mark, or
# else opcode, destination QP, PSN.
packets() {
	tshark -r "$out/a.pcap" -Y 'udp.port == 4791 or udp.dstport == 9' -T fields \
		-E occurrence=f -E separator=/s -e udp.dstport -e ip.src -e ip.dsfield \
		-e infiniband.bth.opcode -e infiniband.bth.destqp \
		-e infiniband.bth.psn -e data.data 2>/dev/null
}

# between MARK MARK: "source opcode" of the packets between, each once even if it
# was sent again.
between() {
	awk -v from="$(hex "$1")" -v to="$(hex "$2")" '
		$1 == 9 && $NF ~ "^" to { on = 0 }
		on && $1 == 4791 && !seen[$2, $4, $5, $6]++ { print $2, $4 }
		$1 == 9 && $NF ~ "^" from { on = 1 }' "$dir/packets"
}

hex() {
	printf %s "$1" | od -An -tx1 | tr -d ' \n'
}

# how_many OPCODE-PATTERN: of the packets in $dir/some.
how_many() {
	grep -Ec " ($1)\$" "$dir/some"
}

# has PATTERN NUMBER WHAT
has() {
	[ "$(how_many "$1")" -eq "$2" ] ||
		echo "$(how_many "$1") $3 instead of $2: $(sort "$dir/some" | uniq -c | tr '\n' ';')" >>"$dir/strange"
}

# some_round CHECK FROM TO: the packets between these marks are right in one round.
some_round() {
	for n in $rounds; do
		between "$2$n" "$3$n" >"$dir/some"
		: >"$dir/strange"
		"$1"
		[ -s "$dir/strange" ] || return
		sed "s/^/    round $n: /" "$dir/strange"
	done
	fail "in each of the rounds"
}

# rxe tears words, so the window is READ twice.
get_sends() {
	has 12 3 "READ requests"
	has '13|16' 3 "first packets of answers"
	has '1[2-7]' "$(wc -l <"$dir/some")" "packets of READs"
}

# The look at a cached slot is a CAS that changes nothing.
remembered_get_sends() {
	has 19 1 "looks"
	has 12 1 "READ requests"
	has '13|16' 1 "first packets of answers"
	has 18 1 "answers to the look"
	has '1[2-9]' "$(wc -l <"$dir/some")" "packets of looks and READs"
}

# A cached value needs nothing else.
kept_get_sends() {
	has 19 1 "looks"
	has 18 1 "answers to the look"
	has '1[2-9]' "$(wc -l <"$dir/some")" "packets of looks"
	has '1[2-7]' 0 "packets of READs"
}

remembered_put_sends() {
	has '[6-9]|1[01]' 1 "WRITEs"
	has 12 0 "READ requests"
	has 19 1 "compare-and-swaps"
	has 18 1 "answers to it"
	has '[0-5]' 0 "SENDs"
}

put_sends() {
	has '[6-9]|1[01]' 1 "WRITEs"
	has 12 2 "READ requests"
	has 19 1 "compare-and-swaps"
	has 18 1 "answers to it"
	has '[0-5]' 0 "SENDs"
}

case ${GUEST_ROLE-} in
'')
	command -v tshark >/dev/null || skip_all "no tshark"
	testcase "two machines: put, get, put between marks"
	two_guests || fail "exit status $?"
	packets >"$dir/packets"

	testcase "get: window, window again, block: three READs, their answers, nothing else"
	some_round get_sends cold-get cold-put

	testcase "put over a key: a WRITE, the READs of a cold look-up, a compare-and-swap"
	some_round put_sends cold-put cold-end

	testcase "get of a remembered key: a look at its slot and a READ, their answers, nothing else"
	some_round remembered_get_sends warm-get warm-put

	testcase "get of a value that is kept: a look at its slot and the answer, nothing else"
	some_round kept_get_sends kept-get kept-put

	testcase "put over a remembered key: a WRITE and a compare-and-swap"
	some_round remembered_put_sends warm-put warm-end

	testcase "a get and a put: all is UDP port 4791"
	strange=$(tshark -r "$out/a.pcap" -Y 'not udp.port == 4791 and not udp.port == 9
		and not arp and not icmpv6 and not igmp' 2>/dev/null | head -n 3)
	[ -z "$strange" ] || fail "$strange"
	[ "$(wc -l <"$dir/packets")" -gt 100 ] || fail "only $(wc -l <"$dir/packets") packets"

	testcase "tos: on all packets of data, of server and client, and no other value"
	awk '$1 == 4791 && $4 != 100 { print $2, $3 }' "$dir/packets" | sort | uniq -c |
		awk '{ print $2, $3 }' >"$dir/tos"
	printf '10.99.0.%s 0x60\n' 1 2 >"$dir/want"
	cmp -s "$dir/want" "$dir/tos" || fail "$(tr '\n' ';' <"$dir/tos")"
	finish
	;;
a)
	# Of a slow machine's operations none shall look again whether it was too slow.
	serve two -q -m 64 --transport rdma --no-auth --listen ":$port" --tos $tos \
		--grace-ms 60000 || exit 1
	signal serves
	await "done" || fail "guest b has not come to its end"
	[ "$failures" -eq 0 ]
	exit
	;;
b)
	await serves || fail "guest a does not serve"
	open_client "kv://$GUEST_PEER_ADDR:$port?tos=$tos" 5000 0
	send_marked cold
	close_client
	open_client "kv://$GUEST_PEER_ADDR:$port?tos=$tos" 5000 65536 0
	send_marked warm
	close_client
	open_client "kv://$GUEST_PEER_ADDR:$port?tos=$tos" 5000
	send_marked kept
	close_client
	signal "done"
	[ "$failures" -eq 0 ]
	exit
	;;
esac
