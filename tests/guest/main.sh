#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The guest's process 1 once the host's root folder is its own: set up network and
# RDMA device, run the script, leave its exit status, switch off.
set -u
role='' out='' folder='' modules_at='' command=()
# shellcheck disable=SC1091
. /run/guest/job
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mtu=4500

off() {
	sync
	busybox poweroff -f
	sleep 1000
}

die() {
	echo "guest: $*"
	off
}

# address DEVICE NUMBER: 10.99.0.NUMBER and fd99::NUMBER.
address() {
	ip address add "10.99.0.$2/24" dev "$1" &&
		ip address add "fd99::$2/64" dev "$1" nodad
}

# rxe sends nothing over a dummy device; over one end of a pair it does.
set_up_pair() {
	ip link add v0 mtu $mtu type veth peer name v1 mtu $mtu &&
		address v0 1 && ip address add 10.99.1.1/24 dev v1 &&
		ip link set v1 up
}

# The page of QEMU's ivshmem device: its second BAR, which programs can map.
shared_memory() {
	local device
	for device in /sys/bus/pci/devices/*; do
		[ "$(cat "$device/vendor" "$device/device" | tr '\n' ' ')" = '0x1af4 0x1110 ' ] || continue
		echo 1 >"$device/enable"
		echo "$device/resource2"
	done
}

# Sets the variables of the script.
describe() {
	local own=1 peer=2 peer_name=b
	GUEST_DEV=v0 GUEST_NAME=guest-a
	if [ "$role" != one ]; then
		GUEST_DEV=eth0 GUEST_NAME=guest-$role GUEST_ROLE=$role
		[ "$role" = a ] || own=2 peer=1 peer_name=a
		GUEST_PEER_ADDR=10.99.0.$peer GUEST_PEER_ADDR6=fd99::$peer
		GUEST_PEER_NAME=guest-$peer_name GUEST_SHARED=$out/shared
		GUEST_MEMORY=$(shared_memory)
		export GUEST_ROLE GUEST_PEER_ADDR GUEST_PEER_ADDR6 GUEST_PEER_NAME
		export GUEST_SHARED GUEST_MEMORY
	fi
	GUEST_ADDR=10.99.0.$own GUEST_ADDR6=fd99::$own
	export GUEST_DEV GUEST_NAME GUEST_ADDR GUEST_ADDR6 GUEST_OUT
}

set_up_network() {
	printf '10.99.0.%s guest-%s\nfd99::%s guest-%s\n' 1 a 1 a 2 b 2 b >>/etc/hosts
	echo "$GUEST_NAME" >/proc/sys/kernel/hostname
	# Addresses are used at once, without a look for others who have them.
	echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad
	echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
	ip link set lo up
	if [ "$role" = one ]; then
		set_up_pair
	else
		address eth0 "${GUEST_ADDR##*.}"
	fi || die "cannot set up the network"
	ip link set "$GUEST_DEV" up
	rdma link add rxe0 type rxe netdev "$GUEST_DEV" || die "cannot add the device rxe0"
}

# If no driver matches a device by its name libibverbs loads all of them,
# in every process: half of a client's start time in here.
forget_other_drivers() {
	local file
	[ -e /etc/libibverbs.d/rxe.driver ] || return 0
	for file in /etc/libibverbs.d/*.driver; do
		[[ $file = */rxe.driver ]] || rm -f "$file"
	done
}

# Processes that the script left running would keep the pipes open.
kill_all_but() {
	local process
	for process in /proc/[0-9]*; do
		process=${process#/proc/}
		[ "$process" -eq 1 ] || [[ " $* " = *" $process "* ]] ||
			kill -KILL "$process" 2>/dev/null
	done
}

# The script's output goes through pipes: a port can be opened once only, and the
# script may well open /dev/stderr again.
run() {
	local readers=()
	exec 3> >(exec cat >/dev/vport0p1) && readers+=($!)
	exec 4> >(exec cat >/dev/vport0p2 3>&-) && readers+=($!)
	(
		# shellcheck disable=SC1091
		. /run/guest/environment
		PATH=$PATH:/usr/sbin:/sbin
		cd "$folder" || exit 125
		exec setsid -w -- "${command[@]}" 3>&- 4>&-
	) </dev/null >&3 2>&4
	status=$?
	exec 3>&- 4>&-
	kill_all_but "${readers[@]}"
	wait "${readers[@]}"
}

describe
ulimit -l unlimited
mkdir -p /lib/modules && ln -sfn "$modules_at" "/lib/modules/$(uname -r)"
forget_other_drivers
set_up_network
uname -r >"$GUEST_OUT/started"
run
dmesg >"$GUEST_OUT/dmesg"
echo "$status" >"$GUEST_OUT/status"
off
