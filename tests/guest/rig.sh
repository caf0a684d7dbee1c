#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The guests themselves: their output, and their failures.
# shellcheck disable=SC2015,SC2016,SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"
guest=$srcdir/tests/guest/guest

# A cache of its own, with the common kernel, shows the files that a run leaves.
kernel=$("$guest" fetch) || skip_all "$kernel"
cache=$dir/cache
mkdir "$cache"
case $kernel in
/boot/*) ;;
*) ln -s "${kernel%/boot/*}" "$cache/kernel" ;;
esac
# shellcheck disable=SC2317
run() {
	"$guest" run --cache "$cache" "$@"
}
leaves_nothing() {
	left=$(find "$cache" -mindepth 1 -maxdepth 1 ! -name kernel ! -name 'vmlinux-*')
	[ -z "$left" ] || fail "left in the cache: $left"
	! grep -slF "$cache" /proc/[0-9]*/cmdline >"$dir/left" ||
		fail "still running: $(cat "$dir/left")"
}

testcase "run: status, output, folder, arguments and environment arrive"
folder="$dir/it's a folder"
mkdir "$folder"
cd "$folder" || exit
MARK='a "b" $c' expect 3 run --out "$dir/one" -- sh -c '
	echo "$MARK|$1|$(pwd)|$(id -u)|$(ulimit -l)"
	seq 1 50000
	echo "to stderr" >/dev/stderr
	touch "$HOME/guest-was-here" "$PWD/guest-was-here"
	echo result >"$GUEST_OUT/file"
	sleep 1000 &
	exit 3' sh 'x  y'
{
	echo "a \"b\" \$c|x  y|$folder|0|unlimited"
	seq 1 50000
} >"$dir/want"
cmp "$dir/want" "$dir/out" || fail "standard output differs"
says '^to stderr$'
[ ! -e "$HOME/guest-was-here" ] && [ ! -e "$folder/guest-was-here" ] ||
	fail "the guest wrote to the host"
[ "$(cat "$dir/one/file")" = result ] || fail "no result in --out"
grep -q 'Linux version' "$dir/one/dmesg" || fail "no kernel log in --out"
leaves_nothing
cd "$dir" || exit

testcase "run: a script that hangs -> 124 at its time, one line"
expect 124 run --timeout 8 -- sh -c 'echo begins; sleep 1000'
prints 'begins\n'
says '^guest: the guest timed out after 8 s$'
leaves_nothing

testcase "run: a kernel that dies -> 125 and its last words"
expect 125 run -- sh -c 'echo begins; sleep 1; echo c >/proc/sysrq-trigger; sleep 1000'
prints 'begins\n'
grep -q '^guest: the guest died' "$dir/err" || fail "does not say so"
grep -q 'Kernel panic.*sysrq' "$dir/err" || fail "no word of the panic: $(cat "$dir/err")"
leaves_nothing

testcase "run: ended by a signal -> the guest ends too"
"$guest" run --cache "$cache" -- sh -c 'echo begins; sleep 1000' >"$dir/killed" &
pid=$!
servers="$servers $pid"
until_true 60 grep -q begins "$dir/killed" || fail "did not begin"
kill "$pid"
wait "$pid"
[ $? -eq 143 ] || fail "exit status"
leaves_nothing

testcase "run --two: they reach and signal each other, all packets are recorded"
expect 5 run --two --out "$dir/two" -- sh -c '
	. "$srcdir/tests/guest/lib.sh"
	[ "$GUEST_NAME" = "guest-$GUEST_ROLE" ] || exit 9
	echo "$GUEST_ADDR" >"$GUEST_SHARED/$GUEST_ROLE"
	if [ "$GUEST_ROLE" = a ]; then
		background rping rping -s -a "$GUEST_NAME" -p 18516 -C 3
		until_true 10 listens_at 18516 || exit 10
		signal listens
		await rping-ended || exit 11
		[ "$(cat "$GUEST_SHARED/b")" = "$GUEST_PEER_ADDR" ] || exit 12
		wait "$pid" || exit 13
		echo done
	else
		await listens || exit 14
		rping -c -a "$GUEST_PEER_NAME" -p 18516 -C 3 || exit 15
		signal rping-ended
		exit 5
	fi'
shows '^a: done$'
for role in a b; do
	[ "$(wc -c <"$dir/two/$role.pcap")" -gt 1000 ] || fail "few packets in $role.pcap"
done
leaves_nothing

testcase "pause_peer: a guest's clock stands still when it is halted, and goes on when it is frozen"
# For each pause b says by how much its clock has jumped, which on a busy machine may be
# seconds at any time.
# shellcheck disable=SC2317
jumps() {
	expect 0 run --two -- sh -c '
	. "$srcdir/tests/guest/lib.sh"
	if [ "$GUEST_ROLE" = a ]; then
		for how in halt freeze; do
			await "$how" || exit 9
			began=$(uptime_s)
			pause_peer 4 "$how"
			uptime_s | awk -v began="$began" "{ exit !(\$1 - began >= 4) }" || exit 10
			signal "$how-over"
		done
		exit "$failures"
	fi
	for how in halt freeze; do
		signal "$how"
		last=$(uptime_s) most=0
		until [ -e "$GUEST_SHARED/$how-over.a" ]; do
			now=$(uptime_s)
			most=$(echo "$last $now $most" | awk "{ d = \$2 - \$1; print (d > \$3 ? d : \$3) }")
			last=$now
		done
		echo "$how $most"
	done'
	awk '$2 == "halt" { halted = $3 < 3 } $2 == "freeze" { frozen = $3 >= 3.9 }
		END { exit !(halted && frozen) }' "$dir/out"
}
jumps || jumps || jumps || fail "jumps: $(cat "$dir/out")"

testcase "run --two: one fails -> the other is not waited for"
expect 6 run --two -- sh -c '[ "$GUEST_ROLE" = a ] && exit 6; sleep 1000'
grep -q '^guest: guest b stopped after guest a had failed$' "$dir/err" || fail "does not say so"
leaves_nothing

testcase "run: no QEMU -> SKIP, one line with the reason"
mkdir "$dir/bin"
for tool in bash dirname uname; do
	ln -s "$(command -v $tool)" "$dir/bin/$tool"
done
expect 77 env PATH="$dir/bin" "$guest" run -- true
shows '^SKIP: no guest: no qemu-system-x86_64 \(package qemu-system-x86\)$'
[ "$(wc -l <"$dir/out")" -eq 1 ] || fail "more than a line"

testcase "fetch: the kernel cannot be had -> SKIP, one line with the reason"
case $kernel in
/boot/*) skip "the host's own kernel is used" ;;
*)
	mkdir "$dir/fake"
	for tool in apt-get apt-cache; do
		printf '#!/bin/sh\necho "E: no network" >&2\nexit 100\n' >"$dir/fake/$tool"
		chmod +x "$dir/fake/$tool"
	done
	expect 77 env PATH="$dir/fake:$PATH" "$guest" fetch --cache "$dir/empty"
	shows '^SKIP: no guest: apt-get cannot fetch .*: E: no network$'
	[ "$(wc -l <"$dir/out")" -eq 1 ] || fail "more than a line"
	;;
esac

testcase "run: a wrong command line -> 125, one line"
for wrong in "run" "run --" "run --timeout 0 -- true" "run --frob -- true" "walk" \
	"run --cache /proc/none -- true" "fetch -- x"; do
	# shellcheck disable=SC2086
	expect 125 "$guest" $wrong && says '^guest: .*'
done
finish
