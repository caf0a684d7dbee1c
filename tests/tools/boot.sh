#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A machine of namespaces: the systemd of a root folder is its init, and all of it ends with this
# script. Needs root. Exits with the command's status, or 77 if systemd does not start.
#
# boot.sh ROOT COMMAND...
set -u
root=$1
shift
group=
init=
outer=
cleanup() {
	[ -z "$init" ] || kill -9 "$init" 2>/dev/null # with all processes of its namespace
	[ -z "$outer" ] || kill -9 "$outer" 2>/dev/null
	wait
	[ -z "$group" ] || find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
	umount "$root.cgroup" 2>/dev/null
	rmdir "$root.cgroup" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

# systemd's groups of processes stay apart from this host's.
mkdir "$root.cgroup" && mount -t cgroup2 cgroup2 "$root.cgroup" &&
	group=$root.cgroup/farkv-boot.$$ && mkdir "$group" || {
	echo "there is no cgroup2 to mount"
	exit 77
}

# shellcheck disable=SC2016
unshare --mount --pid --fork --uts --ipc sh -eu -c '
	echo 0 >"$2/cgroup.procs"
	exec unshare --cgroup sh -eu -c '\''
		mount --make-rprivate /
		mount --bind "$1" "$1"
		mount -t proc proc "$1/proc"
		mount -t sysfs -o ro sysfs "$1/sys"
		mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
		mount -t tmpfs tmpfs "$1/run"
		mount -t tmpfs tmpfs "$1/dev"
		mkdir "$1/dev/pts" "$1/dev/shm"
		# No bind mounts: systemd changes the modes of what it has.
		for node in null:3 zero:5 full:7 random:8 urandom:9; do
			mknod -m 666 "$1/dev/${node%:*}" c 1 "${node#*:}"
		done
		mknod -m 666 "$1/dev/tty" c 5 0
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
		ln -s pts/ptmx "$1/dev/ptmx"
		exec chroot "$1" env -i container=namespaces /lib/systemd/systemd --log-target=null
	'\'' sh "$1"' sh "$root" "$group" >/dev/null 2>"$root.log" &
outer=$!

# inside COMMAND...
inside() {
	nsenter --target "$init" --mount --pid --uts --ipc --cgroup chroot "$root" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
# "degraded" is a machine, too: this one has no console.
state=
for _ in $(seq 600); do
	kill -0 "$outer" 2>/dev/null || break
	init=$(cat "/proc/$outer/task/$outer/children")
	init=${init% }
	[ -z "$init" ] || state=$(inside systemctl is-system-running 2>>"$root.log")
	case $state in running | degraded) break ;; esac
	sleep 0.1
done
case $state in
running | degraded) ;;
*)
	echo "systemd is '$state': $(tail -n 1 "$root.log")"
	exit 77
	;;
esac
inside "$@"
