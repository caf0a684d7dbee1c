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
# Each case ends as one line, PASS, FAIL or SKIP, with its seconds. The functions of
# tests/script/lib.sh can be used too (expect, prints, shows, says, $dir).
#
# $GUEST_ADDR, $GUEST_ADDR6, $GUEST_DEV: see guest --help; a host with a device of
# its own has them too. $rdma_link is the device's name and port: rxe0/1.
# shellcheck source=tests/script/lib.sh
. "$srcdir/tests/script/lib.sh"

# ---- cases

script=$(basename "$0" .sh)
current=
skipped_for=
failed_cases=0

# testcase NAME: ends the previous case.
testcase() {
	end_case
	current=$1
	skipped_for=
	failures=0
	began=$(uptime_s)
}

# Replaces tests/script/lib.sh's: the reason why the current case fails; the script goes on.
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

# A script that ends within a case has failed, whatever its exit status.
trap 'unfinished; cleanup' EXIT
unfinished() {
	[ -z "$current" ] || fail "the script ended here"
	end_case
}

finish() {
	end_case
	[ "$failed_cases" -eq 0 ]
	exit
}

# judge_exit STATUS: of a program of tests, whose output is in $dir/log.
judge_exit() {
	case $1 in
	0) ;;
	77) skip "$(sed -n 's/^SKIP: //p' "$dir/log")" ;;
	*)
		tail -n 40 "$dir/log" | sed 's/^/    /'
		fail "exit status $1"
		;;
	esac
	resources_are_back
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

# until_true SECONDS COMMAND...: tries until it succeeds. The seconds are plenty on a
# machine that does nothing else; a busy one has five times as many. Time limits of the
# product are measured.
until_true() {
	deadline=$(uptime_s | awk -v more="$1" '{ print $1 + 5 * more }')
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

# uri_of NAME SCHEME: the address that the server printed: shm://... or kv://...
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

# Objects of the device that processes hold; the kernel has a few of its own.
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

# All objects of the device are freed within five seconds.
resources_are_back() {
	until_true 5 no_new_resources && return
	fail "resources that are left: $(diff "$dir/resources.before" "$dir/resources" |
		sed -n 's/^> //p')"
}

# A driver's errors are not the test's, but explain others.
no_kernel_complaint() {
	! dmesg | grep -E 'BUG: |WARNING: CPU|Oops: |refcount_t: ' || fail "the kernel complains"
}

# listens_at PORT: something listens there, by rdma_cm.
listens_at() {
	rdma resource show cm_id | grep -q "LISTEN.*:$1 "
}

# The index of GUEST_ADDR's RoCE v2 GID.
gid_index() {
	port=/sys/class/infiniband/${rdma_link%/*}/ports/${rdma_link#*/}
	# shellcheck disable=SC2046,SC2183
	wanted=$(printf 'ffff:%02x%02x:%02x%02x' $(echo "$GUEST_ADDR" | tr . ' '))
	for gid in "$port"/gids/*; do
		index=${gid##*/}
		grep -q "$wanted\$" "$gid" 2>/dev/null &&
			grep -q 'RoCE v2' "$port/gid_attrs/types/$index" 2>/dev/null &&
			echo "$index" && return
	done
	fail "no RoCE v2 GID for $GUEST_ADDR"
}

# Addresses are exchanged by TCP: with rdma_cm (-R) ib_read_lat connects twice, and
# dies when its server is slow to listen the second time.
# read_lat_server SIZE COUNT: in the background, listens when this returns.
read_lat_server() {
	background read_lat ib_read_lat -d "${rdma_link%/*}" -i "${rdma_link#*/}" \
		-x "$(gid_index)" -p 18515 -s "$1" -n "$2"
	until_true 20 accepts_at 18515 || fail "ib_read_lat: $(cat "$dir/read_lat.log")"
}

# read_lat_client ADDRESS SIZE COUNT: prints the median in microseconds.
read_lat_client() {
	ib_read_lat -d "${rdma_link%/*}" -i "${rdma_link#*/}" -x "$(gid_index)" \
		-p 18515 -s "$2" -n "$3" "$1" >"$dir/read_lat.client" 2>&1 ||
		cat "$dir/read_lat.client" >&2
	awk -v size="$2" '$1 == size && NF >= 9 { print $5 }' "$dir/read_lat.client"
}

# read_lat SIZE COUNT: ib_read_lat's median in microseconds on this machine and in
# this boot, the measure for all other latencies.
read_lat() {
	read_lat_server "$1" "$2"
	read_lat_client "$GUEST_ADDR" "$1" "$2"
	wait "$pid" || cat "$dir/read_lat.log" >&2
}

# read_rate SIZE COUNT: the READs that ib_read_bw completes each second, with as many
# in flight as the device takes.
read_rate() {
	set -- -d "${rdma_link%/*}" -i "${rdma_link#*/}" -x "$(gid_index)" -s "$1" -n "$2" -p 18515
	background read_bw ib_read_bw "$@"
	until_true 20 accepts_at 18515 || fail "ib_read_bw: $(cat "$dir/read_bw.log")"
	ib_read_bw "$@" "$GUEST_ADDR" >"$dir/read_bw.client" 2>&1 ||
		cat "$dir/read_bw.client" >&2
	awk -v size="$8" '$1 == size && NF >= 5 { print $5 * 1000000 }' "$dir/read_bw.client"
	wait "$pid" || cat "$dir/read_bw.log" >&2
}

# accepts_at PORT: something listens there, by TCP.
accepts_at() {
	[ -n "$(ss -Hltn "sport = :$1")" ]
}

# ---- two guests

# A two-*.sh script is started on the host, calls two_guests, and is run again by
# that in both guests, where $GUEST_ROLE is a or b:
#
#	case ${GUEST_ROLE-} in
#	'')
#		testcase "two machines: ..."
#		two_guests || fail "exit status $?"
#		[ "$(opcodes "$out/a.pcap" 12)" -eq 500 ] || fail "READs"
#		finish
#		;;
#	a) ... ;;
#	b) ... ;;
#	esac
#
# Cases may be in the guests as well.

# two_guests [OPTION]...: runs this script in two guests, with options of guest run;
# returns its exit status. Their files are in the folder $out.
two_guests() {
	out=$dir/out
	{
		"$srcdir/tests/guest/guest" run --two --timeout "${TEST_LIMIT:-1400}" \
			--out "$out" "$@" -- "$0"
		echo $? >"$dir/two.status"
	} >"$dir/two.log" 2>&1
	if [ "$(cat "$dir/two.status")" -eq 77 ]; then
		skip_all "$(sed 's/^SKIP: //' "$dir/two.log")"
	fi
	# A guest's cases count like those of the host.
	sed -E 's/^([ab]): (PASS|FAIL|SKIP): ([^:]*): /\2: \3: \1: /; s/^([ab]: )/    \1/' "$dir/two.log"
	return "$(cat "$dir/two.status")"
}

# opcodes FILE NUMBER: how many RoCE v2 packets of that opcode were recorded, such
# as 12 (READ request), 16 (READ response only), 19 (compare-and-swap). A packet
# that was sent again, as on a busy machine, counts once.
opcodes() {
	tshark -r "$1" -Y "udp.port == 4791 && infiniband.bth.opcode == $2" -T fields \
		-e infiniband.bth.destqp -e infiniband.bth.psn 2>/dev/null | sort -u | wc -l
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

# pause_peer SECONDS halt|freeze: the other guest stands still for that long, all of
# it; returns when it goes on. Halted, its clocks stand still too, as of a virtual
# machine that is moved or saved; frozen, they have gone on, as of one whose host is
# overloaded.
pause_peer() {
	case $GUEST_ROLE in
	a) pause_file=$GUEST_SHARED/pause.b ;;
	b) pause_file=$GUEST_SHARED/pause.a ;;
	esac
	echo "$1 $2" >"$pause_file.new" && mv "$pause_file.new" "$pause_file"
	until_true "$(awk -v s="$1" 'BEGIN { print s + 10 }')" test ! -e "$pause_file" ||
		fail "no pause of the other guest"
}
