# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154
# For test scripts that watch clients while something fails: tests/guest/rdma_load in
# the background. Source it after lib.sh.

LOAD=$(unwrap "$top_builddir/tests/guest/rdma_load")

# load NAME [OPTION]... URI: starts clients and waits until each has done something;
# what they say is in $dir/NAME.log, their process is $load.
load() {
	load_name=$1
	load_threads=1
	case "$*" in
	*' -t '*) load_threads=$(echo "$*" | sed 's/.* -t \([0-9]*\) .*/\1/') ;;
	esac
	shift
	background "$load_name" "$LOAD" "$@"
	load=$pid
	until_true 20 all_say ok || fail "clients do not start: $(cat "$dir/$load_name.log")"
}

# all_say TEXT: the last line of every client has it.
all_say() {
	awk -v text="$1" -v threads="$load_threads" '
		/^T[0-9]+ / { last[$1] = $0 }
		END {
			for (t in last)
				n += index(last[t], text) > 0
			exit n != threads
		}' "$dir/$load_name.log"
}

# load_ops: how many operations have succeeded by now.
load_ops() {
	said=$(grep -c '^ops ' "$dir/$load_name.log")
	kill -USR1 "$load"
	until_true 5 load_said "$said"
	sed -n 's/^ops //p' "$dir/$load_name.log" | tail -n 1
}

load_said() {
	[ "$(grep -c '^ops ' "$dir/$load_name.log")" -gt "$1" ]
}

# load_did N: so many or more.
load_did() {
	[ "$(load_ops)" -ge "$1" ]
}

# Ends them; they know whether a value was wrong or an operation took too long.
load_ends() {
	stop "$load"
	load_status=$?
	[ $load_status -eq 0 ] || fail "clients ended with status $load_status: $(grep -v ' ok$' "$dir/$load_name.log")"
	sed -n 's/^done: /    /p' "$dir/$load_name.log"
}

# show_errors NAME: which errors they met, and how often.
show_errors() {
	sed -n 's/^T[0-9]* [a-z]* \(FARKV_[A-Z]*\) after.*/    \1/p' "$dir/$1.log" | sort | uniq -c
}
