#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli devices and kvcli doctor with cards that this machine does not have.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

fake=$top_builddir/tests/script/fake_kvcli
[ -x "$fake" ] || skip "built without libibverbs"
FARKV_URI=shm://$dir/none-such
FAKE_ROOT=$dir/root
FAKE_VERBS=$dir/verbs
export FARKV_URI FAKE_ROOT FAKE_VERBS
release=$(uname -r)
kvcli() { "$fake" "$@"; }

# machine: an empty one; what follows adds to it, `verbs` gets lines of fake_verbs.c
machine() {
	rm -rf "$FAKE_ROOT"
	mkdir -p "$FAKE_ROOT/sys/class/infiniband" "$FAKE_ROOT/sys/module/ib_uverbs" \
		"$FAKE_ROOT/sys/module/rdma_ucm" "$FAKE_ROOT/dev/infiniband"
	: >"$FAKE_ROOT/dev/infiniband/rdma_cm"
	cat >"$FAKE_VERBS"
}
card() { # NAME NODE DRIVER INTERFACE
	mkdir -p "$FAKE_ROOT/sys/class/infiniband/$1/device/net/$4" "$FAKE_ROOT/sys/bus/$3" \
		"$FAKE_ROOT/sys/class/infiniband_verbs/$2"
	ln -s "../../../../bus/$3" "$FAKE_ROOT/sys/class/infiniband/$1/device/driver"
	echo "$1" >"$FAKE_ROOT/sys/class/infiniband_verbs/$2/ibdev"
	: >"$FAKE_ROOT/dev/infiniband/$2"
}
json_is() { # PYTHON-EXPRESSION... about o, d (the first device), p (its first port)
	python3 -c 'import json, sys
o = json.load(open(sys.argv[1]))
d = (o.get("devices") or [None])[0]
p = (d or {}).get("ports") and d["ports"][0]
wrong = [e for e in sys.argv[2:] if not eval(e)]
sys.exit("\n".join(wrong) or 0)' "$dir/out" "$@" 2>"$dir/wrong" || fail "not so: $(cat "$dir/wrong" "$dir/out")"
}
hints() { # STATE REGEX
	cases=$((cases + 1))
	hint=$(FAKE_HINT=1 "$fake")
	echo "$hint" | grep -Eq "^$1 $2" || fail "the hint is '$hint', expected $1 $2"
	[ "$(echo "$hint" | wc -l)" -eq 1 ] || fail "the hint is not one line: $hint"
}

# ---- a RoCE card with two ports, one without a cable
machine <<'V'
device mlx5_0 uverbs0 0c42a10300a1b2c3 ib hca 16 32 15b3 0
port active eth 1024 4096 0
port down eth 1024 4096 0
gid 1 0 v1 fe80::e42:a1ff:fea1:b2c3
gid 1 1 v2 fe80::e42:a1ff:fea1:b2c3
gid 1 2 v1 ::ffff:10.1.2.3
gid 1 3 v2 ::ffff:10.1.2.3
gid 1 4 v2 2001:db8::7
gid 2 0 v2 fe80::e42:a1ff:fea1:b2c4
V
card mlx5_0 uverbs0 mlx5_core ens1f0
expect 0 kvcli devices && silent
shows '^mlx5_0 +1  yes +active +Ethernet +- +1024 +3  10\.1\.2\.3$'
shows '^mlx5_0 +2  no +down +Ethernet'
shows '^mlx5_0: card, driver mlx5_core, firmware 20.31.1014, node GUID 0c42:a103:00a1:b2c3$'
shows 'GID 3 +RoCE v2 +10\.1\.2\.3 .*<- chosen$'
[ "$(grep -c chosen "$dir/out")" -eq 2 ] || fail "not one GID chosen for each port"
expect 0 kvcli devices --quiet && prints 'mlx5_0\n'
expect 0 kvcli devices --json && silent
json_is 'o["usable"] and d["usable"] and d["node_guid"] == "0c42:a103:00a1:b2c3" and d["driver"] == "mlx5_core"' \
	'not d["software"] and d["atomics"] == "device" and d["max_qp_init_rd_atom"] == 16 and d["max_qp_rd_atom"] == 32' \
	'd["max_qp"] == 1000 and d["max_srq"] == 500 and d["max_mr_size"] == 1 << 32 and d["odp"] is False' \
	'len(d["ports"]) == 2 and p["usable"] and not d["ports"][1]["usable"] and d["ports"][1]["state"] == "down"' \
	'p["gid_chosen"] == 3 and "IPv4" in p["gid_why"] and p["link_layer"] == "Ethernet" and "lid" not in p' \
	'[g["type"] for g in p["gids"]] == ["RoCE v1", "RoCE v2", "RoCE v1", "RoCE v2", "RoCE v2"]' \
	'[g["address"] for g in p["gids"]][3:] == ["10.1.2.3", "2001:db8::7"] and [g["index"] for g in p["gids"]] == [0, 1, 2, 3, 4]' \
	'p["active_mtu"] == 1024 and p["max_mtu"] == 4096 and p["max_msg_size"] == 1 << 30'
expect 0 kvcli doctor -m 1m && silent
shows '^ok    ports: mlx5_0/1 active \(Ethernet\), mlx5_0/2 down'
shows '^ok    gid: mlx5_0/1 uses GID 3, 10\.1\.2\.3 \(RoCE v2 over IPv4\)$'
shows '^ok    atomics: mlx5_0: compare-and-swap within the device, 16 READs and CAS out, 32 in$'
shows '^ok    registration: a device registers 1.0 MiB in one piece \(4.0 GiB at most\)'
shows '^ok    fork: '
shows '^warn  store: no server at '
expect 1 kvcli doctor -m 5g && shows '^FAIL  registration: no device registers 5.0 GiB in one piece, but 4.0 GiB; '

# ---- which GID
choice() { # POSITION REASON GID...: the table of one port
	want=$1 reason=$2
	shift 2
	{
		echo 'device r0 uverbs0 1 ib hca 16 16 15b3 0'
		echo 'port active eth 1024 4096 0'
		i=0
		for gid in "$@"; do
			echo "gid 1 $i $gid"
			i=$((i + 1))
		done
	} | machine
	kvcli devices --json >"$dir/out"
	cases=$((cases + 1))
	json_is "p['gid_chosen'] == $want and '$reason' in p['gid_why'] and p['usable'] == ($want != None)"
}
choice 1 'RoCE v2 over IPv4' 'v2 fe80::1' 'v2 ::ffff:10.0.0.1' 'v2 2001:db8::1' 'v2 ::ffff:10.0.0.2'
choice 2 'RoCE v2 over IPv4' 'v2 fe80::1' 'v2 2001:db8::1' 'v2 ::ffff:10.0.0.1'
choice 1 'no IPv4 address' 'v2 fe80::1' 'v2 fd00::1'
choice 1 'no IPv4 address' 'v2 ::ffff:169.254.1.1' 'v2 2001:db8::1' 'v2 fe80::1'
choice 1 'link-local IPv4' 'v2 fe80::1' 'v2 ::ffff:169.254.1.1'
choice 1 'link-local IPv6' 'v1 ::ffff:10.0.0.1' 'v2 fe80::1'
choice 0 'link-local IPv6' 'v2 febf::1' 'v2 fe80::1'
choice 0 'no IPv4 address' 'v2 fec0::1'
choice None 'none of its 2 addresses is RoCE version 2' 'v1 fe80::1' 'v1 ::ffff:10.0.0.1'
choice None 'none of its 1' 'v2 ::'
choice None 'no address'
expect 1 kvcli devices && says 'devices: r0: port 1: the port has no address; give its interface an IP address$'
expect 1 kvcli doctor && shows '^FAIL  gid: r0/1: the port has no address; give its interface'
hints 7 'r0: port 1: the port has no address; give'
choice 0 'link-local' 'v2 fe80::1'
expect 0 kvcli doctor -m 1m && shows '^warn  gid: r0/1 uses GID 0, fe80::1 .*same link only.*ip address add'

# ---- InfiniBand: a LID, no choice of GID
machine <<'V'
device mlx4_0 uverbs0 0002c903001a2b3c ib global 128 16 02c9 0
port active ib 4096 4096 17
gid 1 0 ib fe80::2:c903:1a:2b3d
V
card mlx4_0 uverbs0 mlx4_core ib0
expect 0 kvcli devices && shows '^mlx4_0 +1  yes +active +InfiniBand +ib0 +4096 +-  -$' && shows 'LID 17$'
expect 0 kvcli devices --json
json_is 'p["lid"] == 17 and p["gid_chosen"] is None and "InfiniBand" in p["gid_why"] and d["atomics"] == "global"' \
	'p["interface"] == "ib0" and p["gids"][0]["type"] == "IB"'
expect 0 kvcli doctor -m 1m
sed -i 's/^port active/port down/' "$FAKE_VERBS"
expect 1 kvcli devices && says 'mlx4_0: port 1 is down; look at the cable and the subnet manager'
expect 1 kvcli doctor && shows '^FAIL  ports: mlx4_0/1 down .InfiniBand ib0.; look at the cable and the subnet manager$'
hints 6 'mlx4_0: port 1 is down'

# ---- no compare-and-swap; of two devices the one that can be helped counts
machine <<'V'
device siw0 uverbs0 1 iwarp none 16 16 626d74 0
port active eth 1024 4096 0
gid 1 0 ib 1122::
device mlx5_1 uverbs1 2 ib hca 16 16 15b3 0
port down eth 1024 4096 0
V
card siw0 uverbs0 e1000 eth5
card mlx5_1 uverbs1 mlx5_core ens9
expect 1 kvcli devices && says 'mlx5_1: port 1 is down; as root: ip link set ens9 up'
shows '^siw0: software device, driver siw, '
shows 'cannot be used: it has no compare-and-swap'
expect 1 kvcli doctor && shows '^FAIL  devices: siw0 .software siw. cannot be used: it has no compare-and-swap, mlx5_1 .card mlx5_core. cannot be used: port 1 is down; as root: ip link set ens9 up'
shows '^ok    atomics: siw0: no compare-and-swap, .*mlx5_1: compare-and-swap within'
sed -i '/^device mlx5_1/,$d' "$FAKE_VERBS"
rm -r "$FAKE_ROOT/sys/class/infiniband/mlx5_1"
expect 1 kvcli doctor && shows '^FAIL  atomics: siw0: no compare-and-swap'
hints 4 'siw0: it has no compare-and-swap'
expect 1 kvcli devices --quiet && prints '' && silent
machine <<'V'
device x0 uverbs0 1 ib hca 0 16 1 0
port active eth 1024 4096 0
gid 1 0 v2 ::ffff:10.0.0.1
V
expect 1 kvcli devices && says 'x0: it allows no READ in flight'
sed -i 's/ ib hca 0/ nosrq hca 16/' "$FAKE_VERBS"
expect 1 kvcli devices && says 'x0: it has no shared receive queues'

# ---- nodes that are not there, or not for us
machine <<'V'
device mlx5_0 uverbs0 1 ib hca 16 16 15b3 13
V
card mlx5_0 uverbs0 mlx5_core ens1
rm "$FAKE_ROOT/dev/infiniband/uverbs0"
expect 1 kvcli devices && says 'mlx5_0: there is no /dev/infiniband/uverbs0; in a container give it --device /dev/infiniband'
shows '^mlx5_0 +-  no +- +- +- +- +-  -$'
: >"$FAKE_VERBS" # the library does not list it then
expect 1 kvcli devices --json
json_is 'd["name"] == "mlx5_0" and "there is no /dev/infiniband/uverbs0" in d["problem"] and d["ports"] == [] and "atomics" not in d'
expect 1 kvcli doctor && shows '^FAIL  device nodes: there is no /dev/infiniband/uverbs0'
hints 5 'mlx5_0: there is no /dev/infiniband/uverbs0'
: >"$FAKE_ROOT/dev/infiniband/uverbs0"
expect 1 kvcli devices && says 'mlx5_0: libibverbs has no driver for it; install the package ibverbs-providers'
hints 3 'mlx5_0: libibverbs has no driver'
echo 'device mlx5_0 uverbs0 1 ib hca 16 16 15b3 5' >"$FAKE_VERBS"
expect 1 kvcli devices && says 'mlx5_0: /dev/infiniband/uverbs0: Input/output error; look at dmesg'

# ---- no device
machine </dev/null
echo 'list 38' >"$FAKE_VERBS"
expect 1 kvcli devices && prints '' && says 'devices: no RDMA device; for a software device, as root: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev [^ ]'
hints 2 'no RDMA device; '
echo 'list 12' >"$FAKE_VERBS"
expect 1 kvcli devices && says 'no RDMA device: Cannot allocate memory; '
rm -r "${FAKE_ROOT:?}/dev" "${FAKE_ROOT:?}/sys"
mkdir -p "$FAKE_ROOT/lib/modules/$release"
echo 'kernel/drivers/infiniband/hw/x.ko: kernel/a/rdma_rxe.ko' >"$FAKE_ROOT/lib/modules/$release/modules.dep"
expect 1 kvcli devices && says 'rdma link add .*comes without rdma_rxe'
expect 1 kvcli doctor && shows '^FAIL  device nodes: there is no /dev/infiniband; '
shows "^FAIL  kernel modules: neither ib_uverbs nor rdma_ucm is loaded, and kernel .*without rdma_rxe"
echo 'kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/x.ko' >>"$FAKE_ROOT/lib/modules/$release/modules.dep"
expect 1 kvcli doctor
! grep -q 'without rdma_rxe' "$dir/out" || fail "rdma_rxe is there"

# ---- a software device; connection manager, fork, limits
good() {
	machine <<'V'
device rxe0 uverbs0 1 ib hca 128 128 ffffff 0
port active eth 512 4096 0
gid 1 0 v2 ::ffff:10.0.0.1
V
	mkdir -p "$FAKE_ROOT/sys/class/infiniband/rxe0"
	echo eth7 >"$FAKE_ROOT/sys/class/infiniband/rxe0/parent"
	: >"$FAKE_ROOT/dev/infiniband/uverbs0"
}
good
expect 0 kvcli devices && shows '^rxe0: software device, driver rdma_rxe, ' && shows 'may tear'
shows '^rxe0 +1  yes +active +Ethernet +eth7 +512 +0  10.0.0.1$'
expect 0 kvcli doctor -m 1m && shows '^warn  mtu: rxe0/1 512 of 4096 bytes; .*ip link set eth7 mtu'
shows '^ok    fork'
echo 'fork needed' >>"$FAKE_VERBS"
expect 0 kvcli doctor -m 1m && shows '^warn  fork: .*RDMAV_FORK_SAFE=1'
good
echo 'cm 19' >>"$FAKE_VERBS"
expect 1 kvcli doctor && shows '^FAIL  device nodes: uverbs0 opens, /dev/infiniband/rdma_cm: No such device; look at dmesg'
expect 1 kvcli devices && says 'devices: /dev/infiniband/rdma_cm: No such device'
expect 1 kvcli devices -q && prints ''
rm "$FAKE_ROOT/dev/infiniband/rdma_cm"
rm -r "$FAKE_ROOT/sys/module/rdma_ucm"
hints 8 'there is no /dev/infiniband/rdma_cm; .*modprobe -a ib_uverbs rdma_ucm'
expect 1 kvcli doctor && shows '^warn  kernel modules: ib_uverbs, but not rdma_ucm; '

# As somebody who may lock little and open nothing.
good
somebody=
if be_nobody "$fake"; then
	somebody=$nobody fake=$theirs/fake_kvcli
	chmod -R a+rX "$FAKE_ROOT" "$FAKE_VERBS"
	chmod 666 "$FAKE_ROOT/dev/infiniband/"*
fi
# shellcheck disable=SC2086 # empty as an ordinary user
if [ -n "$somebody" ] || [ "$(id -u)" -ne 0 ]; then
	limited() {
		expect "$1" sh -c 'ulimit -l 4096 && shift && exec "$@"' sh "$@"
	}
	limited 1 $somebody "$fake" doctor -m 4m &&
		shows '^FAIL  memlock: only 4.0 MiB may be locked.*4.0 MiB .--memory.*; ulimit -l unlimited; .*LimitMEMLOCK=infinity'
	limited 0 $somebody "$fake" doctor -m 2m &&
		shows '^ok    memlock: 4.0 MiB may be locked, enough for kvserver -m 2.0 MiB'
	limited 0 $somebody env FAKE_HINT=1 "$fake" &&
		shows '^9 this process may lock only 4.0 MiB of memory; ulimit -l unlimited'
	chmod 600 "$FAKE_ROOT/dev/infiniband/uverbs0"
	[ -n "$somebody" ] || chmod 0 "$FAKE_ROOT/dev/infiniband/uverbs0"
	sed -i 's/ffffff 0$/ffffff 2/' "$FAKE_VERBS"
	expect 1 $somebody "$fake" devices &&
		says '/dev/infiniband/uverbs0 \(mode 0[06]00\): Permission denied; as root: chmod 0666 /dev/infiniband/uverbs0'
else
	echo "not tested: limits (no way to run as somebody else)"
fi

finish
