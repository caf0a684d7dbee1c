#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash
# First process of the guest, in its initramfs: load the modules, mount the host's
# root folder under one that can be written, and go on there with main.sh.

fail() {
	echo "guest: $*" >/dev/console
	/bin/busybox poweroff -f
	exec /bin/busybox sleep 1000
}

/bin/busybox mkdir -p /usr/bin /usr/sbin /sbin /proc /sys /dev /host /new /rw
/bin/busybox --install -s
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1

for m in /modules/*; do
	insmod "$m" || fail "cannot load the module $m"
done

mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=262144 host /host ||
	fail "cannot mount the host's root folder"
mount -t tmpfs -o mode=755 rw /rw && mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work root /new ||
	fail "cannot mount the root folder"

for fs in proc sys dev; do
	mkdir -p /new/$fs
	mount -o move /$fs /new/$fs
done
mkdir -p /new/dev/shm /new/dev/pts /new/run
ln -s /proc/self/fd /new/dev/fd
ln -s fd/0 /new/dev/stdin
ln -s fd/1 /new/dev/stdout
ln -s fd/2 /new/dev/stderr
mount -t tmpfs shm /new/dev/shm
mount -t devpts pts /new/dev/pts
mount -t tmpfs -o mode=755 run /new/run
out=$(cat /job/out)
mkdir -p "/new$out"
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=262144 out "/new$out" ||
	fail "cannot mount $out"
mkdir /new/run/guest && cp /job/* /new/run/guest
exec switch_root /new /bin/bash /run/guest/main.sh
