#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make check-rdma: all tests that need an RDMA device. With a device on this host
# they run here, else in a guest; FARKV_CHECK_RDMA=guest takes the guest in any
# case. Prints a line for each case and the sums.
#
# suite.sh [NAME]...     all tests but rig and two-smoke, which test the guests, and some with a
#                        part of their rounds and keys; or those named, and all rounds
# suite.sh -NAME...      all but those
# suite.sh --here NAME... the t-tests on this machine, without sums
# shellcheck disable=SC2046,SC2086,SC2154
set -u
here=$srcdir/tests/guest
guest=$here/guest
limit=3000 # seconds for each test: most take one or two minutes, t-suite half an hour on a busy machine
[ -z "${LAB_SECONDS-}${LAB_OPERATIONS-}" ] || limit=20000 # if asked to do more
TEST_LIMIT=$((limit - 100))
export TEST_LIMIT
counts=$top_builddir/guest-out/counts.tar
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
trap 'exit 1' INT TERM HUP

patiently=
# run NAME: one test; says so if it ended without a verdict.
run() {
	began=$(seconds)
	$patiently timeout -k 10 $limit "$here/$1.sh" >"$results/$1" 2>&1 </dev/null
	status=$?
	cat "$results/$1"
	if [ $status -eq 124 ] || [ $status -eq 137 ]; then
		echo "FAIL: $1: stopped after $limit s"
	elif ! grep -Eq '^(PASS|FAIL|SKIP): ' "$results/$1"; then
		echo "FAIL: $1: ended without a case, with status $status"
	elif [ $status -ne 0 ] && [ $status -ne 77 ] && ! grep -q '^FAIL: ' "$results/$1"; then
		echo "FAIL: $1: ended with status $status"
	fi
	echo "# $1: $(($(seconds) - began)) s"
}

seconds() {
	date +%s
}

# The environment of a guest's tests, for an active device of this
# host whose network interface has an address. Fails if there is none.
describe_device() {
	GUEST_DEV=$(rdma link show 2>/dev/null |
		awk '$4 == "ACTIVE" && $7 == "netdev" { print $8; exit }')
	[ -n "$GUEST_DEV" ] || return
	GUEST_ADDR=$(address_of -4)
	GUEST_ADDR6=$(address_of -6)
	GUEST_NAME=$GUEST_ADDR
	GUEST_OUT=$results/out
	export GUEST_DEV GUEST_ADDR GUEST_ADDR6 GUEST_NAME GUEST_OUT
	mkdir "$GUEST_OUT" && [ -n "$GUEST_ADDR" ]
}

address_of() {
	ip -o "$1" address show dev "$GUEST_DEV" scope global |
		awk '{ sub("/.*", "", $4); print $4; exit }'
}

run_all() {
	for name in "$@"; do
		run "$name"
	done
}

# A guest's files are lost. The counts of a build of --enable-coverage come
# back; they start from the counts of this host.
leave_counts() {
	[ "$SANITIZED" = coverage ] && [ -e /run/guest/job ] || return 0
	(cd "$top_builddir" && find . -name '*.gcda' -newer "$results/begun" |
		tar -c -f "$GUEST_OUT/counts.tar" -T -)
}

take_counts() {
	[ -e "$counts" ] || return 0
	tar -x -C "$top_builddir" -f "$counts"
	rm -f "$counts"
}

# run_single NAME...: the t-tests, here or in one guest for all.
run_single() {
	[ $# -gt 0 ] || return
	if [ "${FARKV_CHECK_RDMA-}" != guest ] && describe_device; then
		echo "on this host's $GUEST_DEV, $GUEST_ADDR"
		run_all "$@"
	elif [ -n "$no_guest" ]; then
		echo "SKIP: $*: $no_guest"
	else
		rm -f "$counts"
		"$guest" run --timeout $((4 * limit)) --out "$top_builddir/guest-out" \
			-- "$here/suite.sh" --here "$@" 2>&1 ||
			echo "FAIL: guest: ended with status $?"
		take_counts
	fi
}

# run_starters NAME...: tests that start guests themselves.
run_starters() {
	for name in "$@"; do
		if [ -n "$no_guest" ]; then
			echo "SKIP: $name: $no_guest"
		else
			run "$name"
		fi
	done
}

names() {
	for file in "$here"/$1; do
		[ ! -e "$file" ] || basename "$file" .sh
	done
}

sum() {
	grep -c "^$1: " "$results/log"
}

if [ "${1-}" = --here ]; then
	shift
	echo "Linux $(uname -r), up for $(cut -d ' ' -f 1 /proc/uptime) s"
	: >"$results/begun"
	run_all "$@"
	leave_counts
	exit
fi

left_out='^two-smoke$'
while [ $# -gt 0 ] && [ "${1#-}" != "$1" ]; do
	left_out="$left_out|^${1#-}\$"
	shift
done
if [ $# -gt 0 ]; then
	FARKV_LAB=large
	export FARKV_LAB
fi
[ $# -gt 0 ] || set -- $({
	names 't-*.sh'
	names 'two-*.sh'
} | grep -Ev "$left_out")
single='' beside='' starters=''
for name in "$@"; do
	[ -e "$here/$name.sh" ] || {
		echo "check-rdma: there is no test $name in $here"
		exit 1
	}
	case $name in
	t-*) single="$single $name" ;;
	rig | two-basic | two-silent | two-smoke | two-wire) beside="$beside $name" ;;
	*) starters="$starters $name" ;;
	esac
done
no_guest=$("$guest" fetch)
case $? in
0) no_guest= ;;
77) no_guest=${no_guest#SKIP: } ;;
*) exit 1 ;;
esac
{
	# Half of their time is the start of guests, and they measure nothing that a busy
	# machine would spoil.
	(
		patiently='nice -n 10'
		run_starters $beside
	) >"$results/beside" &
	run_single $single
	wait
	cat "$results/beside"
	run_starters $starters
} | tee "$results/log"
passed=$(sum PASS) failed=$(sum FAIL) skipped=$(sum SKIP)
printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$passed" "$skipped" "$failed"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
