#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Environments that a shell gives to programs: descriptors that are closed or that nobody reads,
# ignored signals, a terminal, a umask, a user without a folder.
# shellcheck disable=SC2015,SC2016
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

# serve NAME REDIRECTIONS [OPTION]...: as start_server, with descriptors of its own.
serve() {
	name=$1 redirections=$2
	shift 2
	rm -f "$dir/$name.ready"
	mkfifo "$dir/$name.ready"
	FARKV_URI=shm://$dir/$name
	export FARKV_URI
	eval '$by "$KVSERVER" -v -m 64m -s "$dir/$name" --ready-fd 3 "$@" 3>"$dir/$name.ready"' \
		"$redirections" '&'
	server=$!
	servers="$servers $server"
	[ "$(timeout 60 head -n 1 "$dir/$name.ready")" = READY ] && return
	fail "$name: the server did not start"
	kill -KILL "$server"
	finish
}

# ---- descriptors 0 to 2 that are closed: nothing else gets their numbers
closed() { # REDIRECTIONS DESCRIPTOR...
	redirections=$1
	shift
	serve closed "$redirections >'$dir/closed.out' 2>'$dir/closed.err' $redirections"
	for fd in "$@"; do
		[ "$(readlink "/proc/$server/fd/$fd")" = /dev/null ] ||
			fail "$redirections: descriptor $fd is $(readlink "/proc/$server/fd/$fd")"
	done
	seq 60 | awk '{ printf "key%d\tvalue%d\n", $1, $1 }' >"$dir/sixty.tsv"
	expect 0 kvcli -q load "$dir/sixty.tsv"
	expect 0 kvcli dump "$dir/sixty.tsv"
	same "$dir/sixty.tsv" "$dir/out"
	expect 0 kvcli fsck
	[ "$(cat "$dir/closed.lock")" = "$server" ] || fail "$redirections: the lock file has: $(cat "$dir/closed.lock")"
	stop_server
}
closed '0<&-' 0
closed '1>&-' 1
closed '2>&-' 2
closed '0<&- 1>&- 2>&-' 0 1 2
for words in "$KVCLI keygen alice" "$KVBENCH run null -P $srcdir/bench/workloads/workloadc"; do
	# shellcheck disable=SC2086
	$words >&- 2>"$dir/err" && fail "$words: a closed stdout went unnoticed"
	grep -q 'cannot write .*: Bad file descriptor$' "$dir/err" || fail "$words: $(cat "$dir/err")"
done

# ---- a log that nobody reads blocks nothing
mkfifo "$dir/log"
exec 8<>"$dir/log"
fill() { dd if=/dev/zero of="$dir/log" bs=4096 count=10000 oflag=nonblock 2>/dev/null; }
empty() { dd if="$dir/log" bs=1M iflag=nonblock 2>/dev/null | tr -d '\0'; }
fill
serve unread '>"$dir/log" 2>&1'
expect 0 kvcli put key value
expect 0 kvcli get key && prints 'value\n'
empty >"$dir/told"
expect 0 kvcli ping
empty >>"$dir/told"
cp "$dir/told" "$dir/out"
shows ' kvserver: warning: [0-9]+ lines of the log were dropped$'
shows ' kvserver: .*session'
fill
stop_server
[ ! -e "$dir/unread" ] || fail "the socket of a server whose log is full stays"
empty >"$dir/out"
exec 8>&-

# ---- output that cannot be written fails
gone
workload="-P $srcdir/bench/workloads/workloadc"
for words in "$KVSERVER --version" "$KVSERVER --help" "$KVSERVER --check-config" "$KVCLI --version" \
	"$KVCLI --help" "$KVBENCH --version" "$KVBENCH --help" "$KVBENCH run null $workload" \
	"$KVBENCH quick null -p maxexecutiontime=1"; do
	[ -w /dev/full ] || break
	# shellcheck disable=SC2086
	$words >/dev/full 2>"$dir/err" && fail "$words: a full disk went unnoticed"
	grep -q 'cannot write .*: No space left on device$' "$dir/err" || fail "$words: $(cat "$dir/err")"
	# shellcheck disable=SC2086
	{ env --default-signal=PIPE $words 2>"$dir/err"; echo $? >"$dir/status"; } >&9
	[ "$(cat "$dir/status")" -eq 141 ] && ! grep -q 'cannot write' "$dir/err" ||
		fail "$words: a closed pipe: $(cat "$dir/status") $(cat "$dir/err")"
	cases=$((cases + 2))
done
if [ -w /dev/full ]; then
	# A server whose line is lost serves.
	serve lost '>/dev/full 2>"$dir/lost.err"'
	expect 0 kvcli ping
	grep -q 'warning: cannot write to stdout: No space left on device$' "$dir/lost.err" || fail "$(cat "$dir/lost.err")"
	stop_server
fi

# ---- signals that are ignored when a program starts stay ignored
serve ignoring '>/dev/null 2>&1'
kill -INT "$server"
expect 0 kvcli ping
mkfifo "$dir/feed"
# feed PREFIX [OPTION]: a load by $by, in $loader, that has stored 256 records and waits for
# more from descriptor 7.
feed() {
	# shellcheck disable=SC2086
	$by "$KVCLI" ${2-} load - <"$dir/feed" >"$dir/out" 2>"$dir/err" &
	loader=$!
	exec 7>"$dir/feed"
	seq 256 | awk -v p="$1" '{ printf "%s%d\tvalue\n", p, $1 }' >&7
	until kvcli -q exists "${1}256" >"$dir/exists" 2>&1 || ! kill -0 $loader 2>/dev/null; do sleep 0.02; done
}
feed a
kill -INT $loader
printf 'last\tone\n' >&7
exec 7>&-
wait $loader || fail "a load that ignores SIGINT ends with $?: $(cat "$dir/err")"
expect 0 kvcli get last && prints 'one\n'
# run [COMMAND...]: a benchmark by it, in $bench, that has begun.
run() {
	: >"$dir/err"
	# shellcheck disable=SC2086
	"$@" "$KVBENCH" run null $workload -s -target 1000 -p operationcount=$operations >"$dir/out" 2>"$dir/err" &
	bench=$!
	until grep -q ' 0 sec: ' "$dir/err"; do sleep 0.02; done
}
operations=1000
run env --ignore-signal=HUP
kill -INT $bench
kill -HUP $bench
wait $bench || fail "a run that ignores signals: $(cat "$dir/err")"
shows '^\[READ\], Operations, 1000$'
stop_server

# ---- other signals end a program as they end others, with a line about it
by='env --default-signal=INT,HUP'
operations=1000000
serve heeding '>/dev/null 2>&1'
for signal in INT:130 TERM:143 HUP:129; do
	status=${signal#*:} signal=${signal%:*}
	for option in '' -q; do
		feed "$signal$option" "$option"
		kill "-$signal" $loader
		wait $loader 2>/dev/null # the shell names the signal
		got=$?
		exec 7>&-
		[ $got -eq "$status" ] || fail "load $option, SIG$signal: exit status $got"
		case $option in
		'') says '^interrupted; stored 256 records, ' ;;
		*) says '^kvcli: load: interrupted$' ;;
		esac
	done
	# shellcheck disable=SC2086
	run $by
	kill "-$signal" $bench
	wait $bench 2>/dev/null
	got=$?
	[ $got -eq "$status" ] && shows '^\[READ\], Operations, ' ||
		fail "kvbench, SIG$signal: exit status $got"
	[ "$(grep -c interrupted "$dir/err")" -eq 1 ] || fail "kvbench, SIG$signal: $(cat "$dir/err")"
	cases=$((cases + 3))
done
kill -INT "$server"
wait "$server" || fail "SIGINT: exit status $?"
by=

# ---- escape sequences go to terminals that support them
cat >"$dir/terminal.py" <<'PY'
"""terminal.py COMMAND...: runs it with stderr on a terminal; what it wrote there is ours"""
import os, pty, subprocess, sys
outer, inner = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stderr=inner, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
os.close(inner)
try:
    while True:
        os.write(1, os.read(outer, 4096))
except OSError:
    pass
sys.exit(p.wait())
PY
escapes() { # ENVIRONMENT...: in what kvbench writes to a terminal
	# shellcheck disable=SC2086
	env -u NO_COLOR TERM=xterm "$@" python3 "$dir/terminal.py" \
		"$KVBENCH" run null $workload -target 2000 >"$dir/live" ||
		fail "kvbench on a terminal: $(cat "$dir/live")"
	grep -q "$(printf '\033')" "$dir/live"
}
escapes && escapes NO_COLOR= || fail "no live line on a terminal"
escapes TERM=dumb && fail "escape sequences for TERM=dumb"
escapes NO_COLOR=1 && fail "escape sequences in spite of NO_COLOR"
cases=$((cases + 4))

# ---- a server removes only its own files
serve first '>/dev/null 2>&1'
first=$server
rm "$dir/first" "$dir/first.lock"
serve first '>/dev/null 2>&1'
kill "$first"
wait "$first" || fail "the first server: exit status $?"
expect 0 kvcli ping
[ -e "$dir/first.lock" ] || fail "a server removed the lock of another"
expect 1 timeout 20 "$KVSERVER" -s "$dir/first" -m 8m && says "pid $server\) already serves"
stop_server
[ ! -e "$dir/first" ] && [ ! -e "$dir/first.lock" ] || fail "files of the second server stay"

# ---- modes are the same under every umask
folder=700
[ "$(id -u)" -ne 0 ] || folder=755
printf '#!/bin/sh\numask "$MASK"\nexec "%s" "$@"\n' "$KVSERVER" >"$dir/masked"
chmod +x "$dir/masked"
whole=$KVSERVER KVSERVER=$dir/masked
for MASK in 000 077 777; do
	export MASK
	mkdir "$dir/mask$MASK"
	serve "mask$MASK/new" '>/dev/null 2>&1' --socket-mode 0640 -s "$dir/mask$MASK/new/s"
	FARKV_URI=shm://$dir/mask$MASK/new/s
	modes=$(stat -c %a "$dir/mask$MASK/new" "$dir/mask$MASK/new/s" "$dir/mask$MASK/new/s.lock" | tr '\n' ' ')
	[ "$modes" = "$folder 640 600 " ] || fail "umask $MASK: modes of folder, socket and lock: $modes"
	expect 0 kvcli ping
	stop_server
done
KVSERVER=$whole

# ---- default addresses: another user's, with nothing in the environment
uid=64321
tmp=/tmp/farkv-$uid
mkdir "$dir/bin"
cp "$KVSERVER" "$KVCLI" "$top_builddir"/client/.libs/libfarkv.so.* "$dir/bin/"
chmod -R a+rX "$dir"
mkdir -m 1777 "$dir/counts"
# Words in front of a command that is that user's; counters of a coverage build cannot be
# written by it.
other="setpriv --reuid=$uid --regid=$uid --clear-groups env -u XDG_RUNTIME_DIR -u FARKV_URI
	GCOV_PREFIX=$dir/counts LD_LIBRARY_PATH=$dir/bin"
# shellcheck disable=SC2086
if $other "$dir/bin/kvcli" --version >"$dir/out" 2>/dev/null && [ ! -e $tmp ] &&
	! $other /usr/bin/test -w /run && ! $other /usr/bin/test -w /run/farkv; then
	serve_other() { # the server's exit status if it does not start
		rm -f "$dir/other.ready"
		mkfifo -m 666 "$dir/other.ready"
		$other "$dir/bin/kvserver" -q -m 8m --ready-fd 3 3>"$dir/other.ready" >"$dir/out" 2>"$dir/err" &
		server=$!
		servers="$servers $server"
		[ "$(timeout 60 head -n 1 "$dir/other.ready")" = READY ]
	}
	serve_other || fail "without XDG_RUNTIME_DIR and rights to /run: $(cat "$dir/err")"
	shows "^kvserver: serving .* at shm://$tmp/kvserver.sock "
	[ "$(stat -c '%a %u' $tmp)" = "700 $uid" ] || fail "mode and owner of $tmp: $(stat -c '%a %u' $tmp)"
	expect 0 $other "$dir/bin/kvcli" put key value
	# A dead socket stands before a live one.
	mkdir -p "$dir/xdg/farkv"
	chmod -R 777 "$dir/xdg"
	$other XDG_RUNTIME_DIR="$dir/xdg" "$dir/bin/kvserver" -q -m 8m >"$dir/out" 2>&1 &
	dead=$!
	until [ -s "$dir/out" ]; do sleep 0.02; done
	kill -KILL $dead
	wait $dead 2>/dev/null
	[ -S "$dir/xdg/farkv/kvserver.sock" ] || fail "a killed server leaves no socket"
	expect 0 $other XDG_RUNTIME_DIR="$dir/xdg" "$dir/bin/kvcli" get key && prints 'value\n'
	stop_server
	expect 69 $other "$dir/bin/kvcli" ping && says "no server at $tmp/kvserver.sock"
	# Folders that others can enter, or have made.
	for wrong in "chmod 755 $tmp" "chown 1 $tmp" "eval rmdir $tmp && ln -s $dir/xdg $tmp"; do
		$wrong
		serve_other && fail "$wrong: a server serves there"
		wait "$server"
		[ $? -eq 1 ] && says "$tmp is not a folder of mode 0700 that belongs to you: .*--socket" ||
			fail "$wrong: $(cat "$dir/err")"
		chmod 700 $tmp
	done
	rm $tmp
else
	echo "not tested: defaults of a user with no rights to /run (not root, or $tmp exists)"
fi

finish
