#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The commands of the README, the guides and the man pages work, in their order, on a
# server that was started as plain `kvserver`; so does the program of farkv(3).
#
# Commands are the lines "    $ COMMAND" of a Markdown file, and the lines between .EX
# and .EE of a man page. They run at a twentieth of their size: the records and operations
# of kvbench, the memory of a kvserver without -m; rounds and seconds are 1. With
# FARKV_SCALE=large (make check-scale) records and memory are those of the documents.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
remote && skip "these are for a server with a socket"

part=20
[ "${FARKV_SCALE-}" != large ] || part=1

# The reason not to run a command here; false if there is none.
excepted() {
	case $1 in
	*kv://* | *'--transport rdma'* | *'kvcli doctor'*) echo "needs an RDMA device" ;;
	*/etc/farkv/*) echo "needs files of root's in /etc" ;;
	*.uri=/run/*) echo "needs other stores' servers" ;;
	*) return 1 ;;
	esac
}
# Changes to commands: no terminal for less, a socket of this test, no gnuplot or
# LMDB if there is none.
adapted() {
	sed "s/| less\$/| cat/; s,/tmp/\([a-z]*\)\.sock,$dir/\1.sock,g
		$(command -v gnuplot >/dev/null || echo 's/ --plot [^ ]*//')
		$("$KVBENCH" --help | grep -qw lmdb || echo 's/,lmdb//')"
}

from_markdown() {
	awk 'more { sub(/^ +/, ""); command = command " " $0 }
		!more && /^    \$ / { command = substr($0, 7); begun = 1 }
		begun { more = sub(/ *\\$/, "", command); if (!more) { print command; begun = 0 } }' "$1"
}
# A block that shows output too marks its commands by "$ ".
from_page() {
	sed -n '/^\.EX/,/^\.EE/p' "$1" | sed 's/\\-/-/g; s/\\e/\\/g' | awk '
		/^\.EX/ { n = marked = 0; next }
		/^\.EE/ {
			if (marked || text[1] ~ /^(kv(server|cli|bench)|umask|printf) /)
				for (i = 1; i <= n; i++) if (!marked || sub(/^\$ /, "", text[i])) print text[i]
			next
		}
		more { sub(/^ +/, " "); text[n] = text[n] $0; more = sub(/ *\\$/, "", text[n]); next }
		{ text[++n] = $0; if (/^\$ /) marked = 1; more = sub(/ *\\$/, "", text[n]) }'
}

# kvserver LINE: replaces the previous server, in the background; waits until it serves.
run_server() {
	[ -z "$server" ] || {
		kill "$server"
		wait "$server"
	}
	set -- "${1%&}"
	case $1 in *' -m '*) ;; *) set -- "$1 -m $((1024 / part))m" ;; esac
	: >"$dir/said"
	eval "exec \"\$KVSERVER\" ${1#kvserver}" >"$dir/said" 2>&1 &
	server=$!
	until grep -q '^kvserver: serving' "$dir/said"; do
		kill -0 "$server" 2>/dev/null || {
			cp "$dir/said" "$dir/err"
			return 1
		}
		sleep 0.05
	done
}
# A comparison starts its own servers, so the same one need not be run twice.
again() {
	case $1 in
	'kvbench compare'*) grep -qxF "$1" "$dir/ran" ;;
	*) return 1 ;;
	esac
}
# shellcheck disable=SC2317
kvbench() {
	command=$1
	shift
	case $command in
	quick) set -- -p recordcount=200000 -p maxexecutiontime=5 "$@" ;;
	limit) set -- -p recordcount=1000000 -p operationcount=1000000 -p rounds=5 "$@" ;;
	compare) # its servers are its own
		set -- -p compare.kvserver="$KVSERVER" -p farkv.connect_timeout_ms=60000 "$@"
		set -- "$@" -p recordcount=$((2000 * part)) -p operationcount=40000 -p rounds=1 \
			-p maxexecutiontime=0
		;;
	esac
	n=$#
	while [ "$n" -gt 0 ]; do
		arg=$1
		shift
		case $arg in
		recordcount=*) arg=recordcount=$((${arg#*=} / part)) ;;
		operationcount=*) arg=operationcount=$((${arg#*=} / 20)) ;;
		maxexecutiontime=[1-9]* | rounds=*) arg=${arg%%=*}=1 ;;
		esac
		set -- "$@" "$arg"
		n=$((n - 1))
	done
	"$KVBENCH" "$command" "$@"
}
run_line() {
	case $1 in
	kvserver*) run_server "$1" ;;
	*) eval "$1" >"$dir/out" 2>"$dir/err" </dev/null ;;
	esac
}

# works DOCUMENT READER: all its commands, in one shell, in a folder of their own.
works() {
	work=$dir/$(basename "$1").d
	mkdir -p "$work/run"
	cp "$srcdir"/bench/workloads/* "$work" # where make install has not been yet
	"$2" "$1" | adapted >"$work.commands"
	[ -s "$work.commands" ] || return 0
	(
		cd "$work" || exit 1
		server=
		trap '[ -z "$server" ] || kill "$server"' EXIT
		XDG_RUNTIME_DIR=$work/run
		export XDG_RUNTIME_DIR
		unset FARKV_URI
		head -n 1 "$work.commands" | grep -q '^kvserver' || run_line kvserver || exit 1
		while IFS= read -r line <&4; do
			if why=$(excepted "$line"); then
				echo "not run, $why: $line"
			elif again "$line" || run_line "$line"; then
				echo "$line" >>"$dir/ran"
			else
				echo "exit status $?: $line"
				sed 's/^/    /' "$dir/err"
				exit 1
			fi
		done 4<"$work.commands"
	) || fail "$(basename "$1")"
}

: >"$dir/ran"
for page in kvserver.8 kvcli.1 kvbench.1 farkv.7; do
	works "$top_builddir/doc/$page" from_page
done
for guide in "$srcdir/README.md" "$srcdir"/doc/*.md; do
	works "$guide" from_markdown
done

# shellcheck disable=SC2016
"$KVBENCH" --help | sed -n 's/^Try: /     /; s/^     kvbench/    $ kvbench/p' >"$dir/help"
works "$dir/help" from_markdown

works "$srcdir/doc/farkv-keys.5" from_page

# The configurations of kvserver.conf(5) are some.
for program in "$KVSERVER" "$KVGATE"; do
	sed 's/\\-/-/g' "$srcdir/doc/kvserver.conf.5" |
		sed -n "/^\[$(basename "$program")\]/,/^\.EE/p" | sed '$d' >"$dir/page.conf"
	[ -s "$dir/page.conf" ] || fail "kvserver.conf.5 has no [$(basename "$program")]"
	expect 0 "$program" --config "$dir/page.conf" --check-config
done
# What it says is for the command line alone is refused there, and nothing else is unknown.
only=$(sed 's/\\-/-/g' "$srcdir/doc/kvserver.conf.5" | sed -n '/^Some options/,/^of kvserver/p')
n=0
for option in $("$KVSERVER" --help | sed -n 's/^ .*--\([a-z-]*\).*/\1/p'); do
	n=$((n + 1))
	printf '[kvserver]\n%s =\n' "$option" >"$dir/page.conf"
	"$KVSERVER" --config "$dir/page.conf" --check-config >"$dir/out" 2>&1
	if echo "$only" | grep -qw -- "$option"; then
		grep -q 'unknown option' "$dir/out" || fail "kvserver.conf.5: $option can be in a file"
	else
		! grep -q 'unknown option' "$dir/out" || fail "kvserver.conf.5: $option cannot be in a file"
	fi
done
[ "$n" -ge 9 ] || fail "only $n options of kvserver were found"

# The program of farkv(3)
if [ "${SANITIZED:-no}" = no ]; then
	start_server program -m 64m
	sed -n '/^\.SH EXAMPLES/,$p' "$srcdir/doc/farkv.3" | sed -n '/^\.EX/,/^\.EE/p' |
		sed '1d;$d; s/\\e/\\/g' >"$dir/program.c"
	# shellcheck disable=SC2086
	expect 0 ${CC:-cc} -Wall -Werror -I"$srcdir/include" "$dir/program.c" -o "$dir/program.out" \
		-L"$top_builddir/client/.libs" -lfarkv
	expect 0 "$dir/program.out" && prints 'world\n'
fi
ran=$(wc -l <"$dir/ran")
[ "$ran" -ge 30 ] || fail "only $ran commands were found"
cases=$((cases + ran))
finish
