# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154
# For the test scripts that need an RDMA device: t-*.sh run on one machine, which
# is the guest or a host with a device; two-*.sh start two guests. Source it:
#
#	. "$srcdir/tests/guest/lib.sh"
#	testcase "get: a key that is there -> its value"
#	serve main -m 64
#	expect 0 kvcli get key && prints 'value\n'
#	testcase "get: ..."
#	finish
#
# Each case ends as one line, PASS, FAIL or SKIP, with its seconds. What
# tests/lib.sh has can be used too (expect, prints, shows, says, $dir).
#
# $GUEST_ADDR, $GUEST_ADDR6, $GUEST_DEV: see guest --help; a host with a device of
# its own has them too. $rdma_link is the device's name and port: rxe0/1.
# shellcheck source=tests/lib.sh
. "$srcdir/tests/lib.sh"

# libtool's wrappers take longer to start than the programs they start.
unwrap() {
	real=$(dirname "$1")/.libs/$(basename "$1")
	[ -x "$real" ] && echo "$real" || echo "$1"
}
KVCLI=$(unwrap "$KVCLI")
KVBENCH=$(unwrap "$KVBENCH")
LD_LIBRARY_PATH=$top_builddir/client/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# ---- cases

script=$(basename "$0" .sh)
current=
skipped_for=
failed_cases=0

# testcase NAME: ends the case before it.
testcase() {
	end_case
	current=$1
	skipped_for=
	failures=0
	began=$(uptime_s)
}

# In place of tests/lib.sh's: why the current case fails; it goes on.
fail() {
	printf '    %s\n' "$*"
	failures=$((failures + 1))
}

# The current case cannot be tried here.
skip() {
	skipped_for=$*
}

# skip_all REASON: nor can the whole script.
skip_all() {
	echo "SKIP: $script: $*"
	exit 77
}

finish() {
	end_case
	[ "$failed_cases" -eq 0 ]
	exit
}

uptime_s() {
	cut -d ' ' -f 1 /proc/uptime
}

end_case() {
	[ -n "$current" ] || return 0
	verdict=PASS
	[ -z "$skipped_for" ] || verdict=SKIP
	[ "$failures" -eq 0 ] || verdict=FAIL
	[ $verdict != FAIL ] || failed_cases=$((failed_cases + 1))
	printf '%s: %s: %s%s (%s s)\n' $verdict "$script" "$current" \
		"${skipped_for:+: $skipped_for}" \
		"$(uptime_s | awk -v began="$began" '{ printf "%.1f", $1 - began }')"
	current=
}

# until_true SECONDS COMMAND...: tries until it succeeds.
until_true() {
	deadline=$(uptime_s | awk -v more="$1" '{ print $1 + more }')
	shift
	until "$@"; do
		uptime_s | awk -v end="$deadline" '{ exit $1 < end }' && return 1
		sleep 0.05
	done
}

# ---- servers and other programs in the background

# serve NAME [OPTION]...: starts kvserver and waits until it serves; its id is in
# $server, its output in $dir/NAME.log. It is stopped at the script's end.
serve() {
	name=$1
	shift
	rm -f "$dir/$name.ready"
	mkfifo "$dir/$name.ready"
	"$KVSERVER" -s "$dir/$name" --ready-fd 3 "$@" \
		3>"$dir/$name.ready" >"$dir/$name.log" 2>&1 &
	server=$!
	servers="$servers $server"
	ready=
	read -r ready <"$dir/$name.ready"
	[ "$ready" = READY ] && return
	fail "kvserver $* did not start: $(cat "$dir/$name.log")"
	return 1
}

# uri_of NAME SCHEME: where that server serves, as it said: shm://... or kv://...
uri_of() {
	grep -o "$2://[^ ,;)]*" "$dir/$1.log" | head -n 1
}

# background NAME COMMAND...: its id is in $pid, its output in $dir/NAME.log.
background() {
	name=$1
	shift
	"$@" >"$dir/$name.log" 2>&1 &
	pid=$!
	servers="$servers $pid"
}

# stop PID [SIGNAL]: ends a child and returns its exit status.
stop() {
	kill "-${2:-TERM}" "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

# ---- the device

rdma_link=$(rdma link show 2>/dev/null | awk '$4 == "ACTIVE" { print $2; exit }')

is_rxe() {
	[ -e "/sys/class/infiniband/${rdma_link%/*}/parent" ]
}

# counter NAME: of the port, such as sent_pkts or rcvd_seq_err.
counter() {
	counters | sed -n "s/^\"$1\":\([0-9]*\)\$/\1/p"
}

# All of them, one in a line: "sent_pkts":17
counters() {
	rdma statistic show link "$rdma_link" -j | tr -s '[]{},' '\n'
}

# mark_counters, then counted NAME: how many since.
mark_counters() {
	counters >"$dir/counters"
}

counted() {
	echo $(($(counter "$1") - $(sed -n "s/^\"$1\":\([0-9]*\)\$/\1/p" "$dir/counters")))
}

# What processes hold of the device; the kernel has a few of its own.
resources() {
	[ -n "$rdma_link" ] || return
	for kind in pd cq qp cm_id mr ctx srq; do
		rdma resource show $kind | sed -n "/ pid /s/^/$kind: /p"
	done
}
resources >"$dir/resources.before"

no_new_resources() {
	resources >"$dir/resources"
	cmp -s "$dir/resources.before" "$dir/resources"
}

# All that was taken from the device has been given back, in five seconds.
resources_are_back() {
	until_true 5 no_new_resources && return
	fail "resources that are left: $(diff "$dir/resources.before" "$dir/resources" |
		sed -n 's/^> //p')"
}

listens_at() {
	rdma resource show cm_id | grep -q "LISTEN.*:$1 "
}

# read_lat SIZE COUNT: ib_read_lat's median in microseconds, the measure of this
# machine and boot.
read_lat() {
	background read_lat ib_read_lat -R -p 18515 -s "$1" -n "$2"
	until_true 10 listens_at 18515 || return
	ib_read_lat -R -p 18515 -s "$1" -n "$2" "$GUEST_ADDR" 2>"$dir/read_lat.err" |
		awk -v size="$1" '$1 == size && NF >= 9 { print $5 }'
	wait "$pid"
}

# ---- two guests

# in_two_guests [OPTION]...: the first line of a two-*.sh script. Runs the script
# again in both guests and returns there at once; on the host it returns when both
# have ended, with their exit status. $out is guest's --out folder, for the packets.
in_two_guests() {
	[ -z "${GUEST_ROLE-}" ] || return 0
	out=$dir/out
	"$srcdir/tests/guest/guest" run --two --out "$out" "$@" -- "$0"
}

# signal NAME: to the other guest; await NAME [SECONDS]: from it.
signal() {
	: >"$GUEST_SHARED/$1.$GUEST_ROLE"
}

await() {
	case $GUEST_ROLE in
	a) until_true "${2:-60}" test -e "$GUEST_SHARED/$1.b" ;;
	b) until_true "${2:-60}" test -e "$GUEST_SHARED/$1.a" ;;
	esac
}
