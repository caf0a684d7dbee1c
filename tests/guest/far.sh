# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2119,SC2120,SC2154,SC2317
# Two machines with clients on both, and faults in rounds: the results of the
# clients of both are one history for each round, by one clock, and it must be
# linearizable. Source it:
#
#	. "$srcdir/tests/guest/far.sh"
#	loss_title="1% of packets are lost"
#	loss() { bad_way loss 1%; goes_on; sleep 5; }
#	choose 2 loss ...
#	rounds "two machines, ..."
#
# A round's function runs in guest b while clients work in both; the server is in guest
# a. With NAME_harm=a (or b) that machine's clients are stopped and killed.
#
# FARKV_LAB=large: all rounds; LAB_ROUNDS: these; LAB_SEED: repeats the choice of rounds
# and operations.
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
port=17670
far=$top_builddir/tests/lab/far
lincheck=$top_builddir/tests/lab/lincheck
: "${LAB_SEED:=$(date +%N | sed 's/^0*//')}" "${LAB_ROUNDS:=}"
export LAB_SEED LAB_ROUNDS # which the guests find then

# ---- the network between them, in both directions

# bad_way OPTION...: of netem, for packets of both; none: a good network.
bad_way() {
	ask_peer way "$*"
	set_way "$@"
}

set_way() {
	tc qdisc del dev "$GUEST_DEV" root 2>/dev/null
	[ $# -eq 0 ] || expect 0 tc qdisc add dev "$GUEST_DEV" root netem "$@"
}

set_link() {
	expect 0 ip link set "$GUEST_DEV" "$1"
	[ "$1" = down ] || ip address replace "$GUEST_ADDR6/64" dev "$GUEST_DEV" nodad
}

# shows_in COUNTER...: one of the device's counters shows the fault.
shows_in() {
	until_true 20 any_counted "$@" || fail "$*: none"
}

any_counted() {
	for counter in "$@"; do
		[ "$(counted "$counter")" -gt 0 ] && return
	done
	return 1
}

# ---- guest b directs guest a

asked=0
ask_peer() {
	asked=$((asked + 1))
	echo "$*" >"$GUEST_SHARED/ask-$asked.new"
	mv "$GUEST_SHARED/ask-$asked.new" "$GUEST_SHARED/ask-$asked"
	await "did-$asked" 60 || fail "guest a does not do it: $*"
}

# Carries out commands until "end".
serve_peer() {
	while :; do
		asked=$((asked + 1))
		until_true 120 test -e "$GUEST_SHARED/ask-$asked" || {
			fail "guest b says nothing"
			return
		}
		read -r what rest <"$GUEST_SHARED/ask-$asked"
		[ "$what" != end ] || return
		# shellcheck disable=SC2086
		case $what in
		way) set_way $rest ;;
		link) set_link $rest ;;
		pause)
			said=$(wc -l <"$dir/two.log")
			pause_peer $rest
			;;
		begin)
			mark_counters
			begin_clients $rest
			;;
		shows_in) shows_in $rest ;;
		finish) finish_clients ;;
		ended) some_ended ;;
		esac
		signal "did-$asked"
	done
}

# ---- the clients of this machine

# begin_clients NUMBER NAME [OPTION]...
begin_clients() {
	number=$1 round=$2
	shift 2
	side=0
	[ "$GUEST_ROLE" = a ] || side=1
	# On one CPU this script has to get its share.
	background "$round" nice "$(unwrap "$far")" --address "$uri" --round "$number" \
		--seed $((LAB_SEED + number)) --first $((number * 10000 + side * 5000)) --clock "$GUEST_MEMORY:$side" \
		--until "$GUEST_SHARED/over-$number" --record "$GUEST_OUT/$round.history" "$@"
	clients=$pid
}

finish_clients() {
	wait "$clients" || fail "clients ended with status $?: $(cat "$dir/$round.log")"
	grep -v ' answers$' "$dir/$round.log" | grep -v '^Running\|^100%' | sed 's/^/    /'
	# Guest b knows nothing of the server's.
	[ "$GUEST_ROLE" = b ] || expect 0 kvcli -u "$uri" fsck || fail "$(cat "$dir/out")"
}

# In the last pause the server has cut off silent clients.
some_ended() {
	tail -n +$((said + 1)) "$dir/two.log" | grep -q 'without goodbye\|cut off' ||
		fail "no session has ended: $(tail -n 5 "$dir/two.log")"
}

# How many answers they have got, as of a second ago.
answers() {
	sed -n 's/ answers$//p' "$dir/$round.log" | tail -n 1
}

more_than() {
	[ "$(answers)" -gt "$1" ]
}

has_begun() {
	[ -n "$(answers)" ]
}

# goes_on: clients of this machine get answers (again).
goes_on() {
	now=$(answers)
	until_true 60 more_than $((${now:-0} + 20)) || fail "no answers: $(tail -n 3 "$dir/$round.log")"
}

# ---- rounds

is_large() {
	[ "${FARKV_LAB-}" = large ]
}

# choose NUMBER NAME...: sets LAB_ROUNDS, unless it is set, to all or so many of them.
choose() {
	some=$1
	shift
	[ -z "$LAB_ROUNDS" ] || return 0
	LAB_ROUNDS=$*
	is_large || LAB_ROUNDS=$(echo "$*" | awk -v seed="$LAB_SEED" -v n="$some" '{
		srand(seed)
		for (; n > 0; n--) {
			at = 1 + int(rand() * NF)
			printf "%s%s", $at, (n > 1 ? " " : "")
			$at = $NF
			NF--
		}
	}')
}

# title NAME
title() {
	eval "echo \"\$$1_title\""
}

# harm NAME GUEST: the option for its clients.
harm() {
	[ "$(eval "echo \"\${$1_harm-}\"")" != "$2" ] || echo --harm
}

# director NAME...: guest b's part.
director() {
	[ $# -gt 0 ] || fail "no rounds"
	n=0
	for name in "$@"; do
		n=$((n + 1))
		testcase "$(title "$name"): clients go on"
		mark_counters
		ask_peer begin $n "$name" --clients 2 "$(harm "$name" a)"
		# shellcheck disable=SC2046
		begin_clients $n "$name" $(harm "$name" b)
		until_true 60 has_begun || fail "no client begins"
		"$name"
		bad_way
		: >"$GUEST_SHARED/over-$n"
		ask_peer finish
		finish_clients
	done
	end_case
	ask_peer_to_end
}

ask_peer_to_end() {
	asked=$((asked + 1))
	echo end >"$GUEST_SHARED/ask-$asked"
}

# Of both histories of a round, on the host.
judge() {
	testcase "$(title "$1"): the history of both machines is linearizable"
	cat "$out/a/$1.history" "$out/b/$1.history" >"$dir/history" || fail "no history"
	"$lincheck" "$dir/history" >"$dir/verdict" 2>&1 || {
		fail "status $?"
		mkdir -p "$top_builddir/guest-out"
		cp "$dir/history" "$top_builddir/guest-out/$1.history"
		echo "    the history is in $top_builddir/guest-out/$1.history"
	}
	sed 's/^/    /' "$dir/verdict"
}

on_host() {
	[ -x "$far" ] || skip_all "tests/lab/far is not built; it needs libcheck"
	testcase "$1, seed $LAB_SEED: $LAB_ROUNDS"
	two_guests || fail "exit status $?"
	for name in $LAB_ROUNDS; do
		judge "$name"
	done
	finish
}

server_guest() {
	testcase "beside the server: clients go on, and the store is sound after each round"
	serve two -v -m 64 --transport rdma --no-auth --listen ":$port" || exit 1
	uri=kv://$GUEST_ADDR:$port
	signal serves
	serve_peer
	testcase "after all that the server leaves well, and nothing is left at the device"
	grep -E 'warning|error' "$dir/two.log" | sed 's/^/    /' | head -n 20
	stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/two.log")"
	resources_are_back
	no_kernel_complaint
	finish
}

# rounds TITLE: those of LAB_ROUNDS.
# shellcheck disable=SC2086
rounds() {
	case ${GUEST_ROLE-} in
	'') on_host "$1" ;;
	a) server_guest ;;
	b)
		uri=kv://$GUEST_PEER_ADDR:$port
		await serves || exit 1
		director $LAB_ROUNDS
		finish
		;;
	esac
}
