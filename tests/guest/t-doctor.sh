#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli devices and kvcli doctor with a live device: their output is true, and their
# advice helps.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

device=${rdma_link%/*}
FARKV_URI=shm://$dir/none-such
export FARKV_URI
in_guest() { [ -e /run/guest/job ]; }

# has TEXT...: the JSON has all of them; tests/script/devices.sh reads it as JSON, but an
# interpreter takes half a minute to start under emulation.
has() {
	for text in "$@"; do
		grep -Fq -- "$text" "$dir/out" || fail "no $text in: $(cat "$dir/out")"
	done
}
port_is() {
	rdma link show "$rdma_link" | grep -q "state $1 "
}
# A field in the output of libibverbs' own program.
field() {
	sed -n "s/^[[:space:]]*$1:[[:space:]]*//p" "$dir/devinfo" | head -n 1
}
ibv_devinfo -v -d "$device" >"$dir/devinfo"

testcase "devices: an active device -> usable, ibv_devinfo's numbers, the IPv4 GID"
expect 0 kvcli devices --quiet && shows "^$device\$"
expect 0 kvcli devices && silent && shows "^$device +1  yes +active "
shows "node GUID $(field node_guid)\$"
expect 0 kvcli devices --json && silent
has '{"usable":true,' "{\"name\":\"$device\",\"usable\":true," "\"node_guid\":\"$(field node_guid)\"" \
	"\"max_qp_rd_atom\":$(field max_qp_rd_atom),\"max_qp_init_rd_atom\":$(field max_qp_init_rd_atom)," \
	"\"max_qp\":$(field max_qp),\"max_srq\":$(field max_srq)," \
	"\"active\":true,\"link_layer\":\"$(field link_layer)\",\"interface\":\"$GUEST_DEV\"," \
	"\"active_mtu\":$(field active_mtu | cut -d ' ' -f 1)," "\"max_msg_size\":$(($(field max_msg_sz)))," \
	"{\"index\":$(grep -o '"gid_chosen":[0-9]*' "$dir/out" | head -n 1 | cut -d : -f 2),\"type\":\"RoCE v2\",\"address\":\"$GUEST_ADDR\","
[ "$(grep -o '{"index":' "$dir/out" | wc -l)" -eq "$(grep -c 'GID\[' "$dir/devinfo")" ] ||
	fail "not as many GIDs as ibv_devinfo has: $(cat "$dir/out")"
! is_rxe || has '"software":true,"driver":"rdma_rxe","firmware":null' '"atomics":"device"' '"odp":false'
! is_rxe || { expect 0 kvcli devices && shows 'may tear'; }

testcase "doctor: nothing is wrong -> 0, and no line says FAIL"
expect 0 kvcli doctor -m 64m
[ "$(wc -l <"$dir/out")" -eq 13 ] || fail "$(wc -l <"$dir/out") lines"
for what in build 'kernel modules' 'device nodes' devices ports gid atomics memlock registration fork; do
	shows "^ok    $what: "
done
shows "^ok    gid: .*$GUEST_ADDR .RoCE v2 over IPv4"
shows '^warn  store: no server'
if serve main -m 64; then
	FARKV_URI=$(uri_of main shm) expect 0 kvcli doctor -m 64m && shows '^ok    store: '
	stop "$server"
fi

testcase "doctor and devices: they leave nothing open"
resources_are_back

testcase "as somebody else: little memory to lock -> FAIL, with what to do"
if ! in_guest || ! be_nobody "$KVCLI"; then
	skip "only in a guest, with setpriv"
else
	expect 1 sh -c 'ulimit -l 8192 && exec "$@"' sh "$nobody" "$theirs/kvcli" doctor
	shows '^FAIL  memlock: only 8.0 MiB .*LimitMEMLOCK=infinity'
	shows '^ok    device nodes: '
	expect 0 sh -c 'ulimit -l 8192 && exec "$@"' sh "$nobody" "$theirs/kvcli" doctor -m 4m
fi

testcase "no right to open the node -> a finding, and the advice helps"
if ! in_guest; then
	skip "only in a guest"
else
	node=$(ls /dev/infiniband/uverbs*)
	chmod 600 "$node"
	{
		expect 1 "$nobody" "$theirs/kvcli" devices &&
			says "$device: $node \(mode 0600\): Permission denied; as root: chmod 0666 $node"
		expect 1 "$nobody" "$theirs/kvcli" doctor && shows "^FAIL  device nodes: $node .*Permission denied"
		chmod 0666 "$node"
		expect 0 "$nobody" "$theirs/kvcli" devices
		chmod 600 /dev/infiniband/rdma_cm
		expect 1 "$nobody" "$theirs/kvcli" doctor && shows '^FAIL  device nodes: .*/dev/infiniband/rdma_cm .mode 0600.: Permission denied; as root: chmod 0666 /dev/infiniband/rdma_cm'
		expect 1 "$nobody" "$theirs/kvcli" devices --quiet && prints ''
		chmod 666 /dev/infiniband/rdma_cm
		expect 0 "$nobody" "$theirs/kvcli" doctor -m 4m
	}
fi

testcase "no node, as in a container -> there is no /dev/infiniband/..."
if ! in_guest; then
	skip "only in a guest"
else
	mv /dev/infiniband /dev/infiniband.away
	expect 1 kvcli devices && says "$device: there is no /dev/infiniband/uverbs0; in a container .*--device /dev/infiniband"
	expect 1 kvcli doctor && shows '^FAIL  device nodes: there is no /dev/infiniband/uverbs0'
	mv /dev/infiniband.away /dev/infiniband
	expect 0 kvcli devices
fi

testcase "ip link set down -> FAIL, 1; the advice brings it back"
if ! in_guest; then
	skip "only in a guest"
else
	ip link set "$GUEST_DEV" down
	until_true 5 port_is DOWN || fail "the port stays up"
	expect 1 kvcli devices && says "devices: $device: port 1 is down; as root: ip link set $GUEST_DEV up\$"
	expect 1 kvcli devices --quiet && prints '' && silent
	expect 1 kvcli doctor -m 64m
	shows "^FAIL  ports: $device/1 down .Ethernet $GUEST_DEV.; as root: ip link set $GUEST_DEV up"
	shows "^FAIL  devices: $device .*port 1 is down"
	advice=$(kvcli devices 2>&1 >/dev/null | sed -n 's/.*as root: //p')
	$advice || fail "the advice '$advice' does not work"
	ip address replace "$GUEST_ADDR6/64" dev "$GUEST_DEV" nodad
	until_true 5 port_is ACTIVE || fail "the port stays down"
	expect 0 kvcli doctor -m 64m
fi

testcase "no device -> 1, and the advice makes one"
if ! in_guest; then
	skip "only in a guest"
else
	rdma link delete "$device"
	expect 1 kvcli devices && prints '' && says 'no RDMA device; .*: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev '
	expect 1 kvcli doctor && shows '^FAIL  devices: no RDMA device; '
	advice=$(kvcli devices 2>&1 | sed -n 's/.*as root: //p')
	(eval "$advice") >/dev/null 2>&1
	expect 0 kvcli devices --quiet && prints 'rxe0\n'
	rdma link delete rxe0
	rdma link add "$device" type rxe netdev "$GUEST_DEV"
	until_true 5 port_is ACTIVE || fail "the device does not come back"
	expect 0 kvcli doctor -m 64m
fi
finish
