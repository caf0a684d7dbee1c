# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# For the test scripts: a private server, and commands whose exit status and
# output are compared. Source it.
#
# $dir is an empty folder of the script's own, removed at its end together with
# every server that start_server started.
set -u

# Of a private TMPDIR, such as libpam-tmpdir's, another user sees nothing.
dir=$(mktemp -d)
if [ -n "${TMPDIR-}" ] && [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null &&
	! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$TMPDIR"; then
	rmdir "$dir"
	dir=$(mktemp -d -p /tmp)
fi
servers=
cases=0
failures=0
first_failure=

cleanup() {
	for pid in $servers; do
		kill -CONT "$pid" 2>/dev/null
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP PIPE

skip() {
	echo "SKIP: $*"
	exit 77
}

# needs PROGRAM...: skips the whole script, by the program's name, if one is missing.
needs() {
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "needs $program"
	done
}

# libtool's wrappers take longer to start than the programs they start. (A file that is no
# script is the program, and the one in .libs an older one.)
unwrap() {
	real=${1%/*}/.libs/${1##*/}
	if [ -x "$real" ] && [ "$(head -c 2 "$1")" = '#!' ]; then
		echo "$real"
	else
		echo "$1"
	fi
}

for program in "$KVSERVER" "$KVCLI" "$KVBENCH"; do
	[ -x "$program" ] || skip "$program is not built; run by make check"
done
KVSERVER=$(unwrap "$KVSERVER")
KVCLI=$(unwrap "$KVCLI")
KVBENCH=$(unwrap "$KVBENCH")
# shellcheck disable=SC2154 # exported by make check
LD_LIBRARY_PATH=$top_builddir/client/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export KVSERVER KVCLI KVBENCH LD_LIBRARY_PATH

kvcli() { "$KVCLI" "$@"; }
kvbench() { "$KVBENCH" "$@"; }

# remote: the servers serve by RDMA, at kv:// addresses, and have no socket.
remote() {
	[ "${FARKV_TEST_TRANSPORT-}" = rdma ]
}

# A program that a script starts by & ignores SIGINT. Words in front of
# one that has to react to it; start_server takes them from $by.
# shellcheck disable=SC2034
INT='env --default-signal=INT'
by=

# From now on descriptor 9 is a pipe without a reader.
gone() {
	mkfifo "$dir/gone"
	# shellcheck disable=SC2094
	exec 6<>"$dir/gone" 9>"$dir/gone" 6<&-
}

# start_server NAME [OPTION]...: serves $dir/NAME; its id is in $server.
start_server() {
	name=$1
	shift
	mkfifo "$dir/$name.ready"
	FARKV_URI=shm://$dir/$name
	# By RDMA all memory is locked: less than a gigabyte without -m.
	if remote; then
		set -- -m 64m "$@" --transport rdma --no-auth --listen :0
	else
		set -- -s "$dir/$name" "$@"
	fi
	$by "$KVSERVER" -q --ready-fd 3 "$@" \
		3>"$dir/$name.ready" >"$dir/$name.log" 2>&1 &
	server=$!
	servers="$servers $server"
	read -r ready <"$dir/$name.ready"
	[ "${ready-}" = READY ] || {
		cat "$dir/$name.log"
		fail "the server did not start"
		exit 1
	}
	remote && FARKV_URI=$(grep -o 'kv://[^ ,;)]*' "$dir/$name.log" | head -n 1)
	export FARKV_URI
}

# Stops the last server, which must exit with 0; its memory is free again.
stop_server() {
	kill "$server"
	wait "$server" || fail "kvserver: exit status $?"
}

# freeze PID: it does nothing from now on. (It stops some time after the signal was sent.)
freeze() {
	kill -STOP "$1" || return
	until grep -qs '^State:.[TZ]' "/proc/$1/status" || [ ! -e "/proc/$1" ]; do :; done
}

# be_nobody PROGRAM...: $nobody then runs a command as a user who owns nothing, and
# $theirs has copies of the programs that this user can run although the build may lie in
# a private home. The counts of a copy in a build of --enable-coverage stay in $theirs.
# False if this is not root or may not become another user.
be_nobody() {
	theirs=$dir/theirs
	nobody=$theirs/as-nobody
	if ! [ "$(id -u)" -eq 0 ] || ! command -v setpriv >/dev/null; then return 1; fi
	chmod 711 "$dir"
	mkdir -m 755 "$theirs" "$theirs/counts"
	for program in "$@"; do
		cp "$(unwrap "$program")" "$theirs"
	done
	cp "$top_builddir"/client/.libs/libfarkv.so.? "$theirs" 2>/dev/null
	cat >"$nobody" <<-END
		#!/bin/sh
		LD_LIBRARY_PATH='$theirs' GCOV_PREFIX='$theirs/counts' exec setpriv \\
			--reuid=65534 --regid=65534 --clear-groups -- "\$@"
	END
	chmod 755 "$theirs"/*
	chmod 1777 "$theirs/counts"
	"$nobody" "$theirs/${1##*/}" --version >/dev/null 2>&1
}

fail() {
	echo "FAIL: $*"
	failures=$((failures + 1))
	[ -n "$first_failure" ] || first_failure=$(echo "$*" | head -n 1 | cut -c 1-200)
}

# expect STATUS COMMAND...: runs it; output is in $dir/out and $dir/err.
expect() {
	want=$1
	shift
	cases=$((cases + 1))
	"$@" >"$dir/out" 2>"$dir/err"
	got=$?
	[ "$got" -eq "$want" ] && return 0
	fail "exit status $got, expected $want: $(echo "$*" | cut -c 1-200)"
	sed 's/^/    /' "$dir/err" | cut -c 1-300
	return 1
}

# After expect: exactly this on stdout.
prints() {
	printf '%b' "$1" >"$dir/want"
	cmp -s "$dir/want" "$dir/out" && return
	fail "printed '$(head -c 200 "$dir/out" | tr '\0' '?')', expected '$1'"
}

# After expect: stdout has a line that matches.
shows() {
	grep -Eq -- "$1" "$dir/out" ||
		fail "nothing on stdout matches '$1': $(head -c 300 "$dir/out")"
}

# After expect: exactly one line on stderr, and it matches.
says() {
	lines=$(wc -l <"$dir/err")
	[ "$lines" -eq 1 ] || fail "$lines lines on stderr, expected one: $(cat "$dir/err")"
	grep -Eq -- "$1" "$dir/err" || fail "stderr does not match '$1': $(cat "$dir/err")"
}

silent() {
	[ ! -s "$dir/err" ] || fail "stderr is not empty: $(cat "$dir/err")"
}

same() {
	cases=$((cases + 1))
	cmp "$1" "$2" || fail "$1 and $2 differ"
}

# complete_with PROGRAM WORD...: what its completion in bash offers for the last word.
complete_with() {
	# shellcheck disable=SC2016
	bash -c 'name=${0##*/}
		. <("$0" --completion bash)
		COMP_WORDS=("$name" "$@") COMP_CWORD=$#
		"_$name"
		printf "%s\n" "${COMPREPLY[@]}"' "$@" | sort
}

# knows_options PROGRAM: its completion offers the long options of --help, no others.
knows_options() {
	cases=$((cases + 1))
	"$1" --help | grep -o -- '--[a-z][a-z0-9-]*' | sort -u >"$dir/want"
	if command -v bash >/dev/null; then
		complete_with "$1" -- | diff - "$dir/want" || fail "$1: completion of options in bash"
	fi
	if command -v zsh >/dev/null; then
		"$1" --completion zsh >"$dir/completion"
		# shellcheck disable=SC2016
		zsh -f -c '_arguments() { print -rl -- "$@" }; . "$1"' zsh "$dir/completion" |
			sed -n 's/^\(([^)]*)\|[*]\)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' | sort |
			diff - "$dir/want" || fail "$1: completion of options in zsh"
	fi
}

finish() {
	echo "$cases cases, $failures failures${first_failure:+; the first: $first_failure}"
	[ "$failures" -eq 0 ]
	exit
}
