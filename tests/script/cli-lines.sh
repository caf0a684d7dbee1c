#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many commands over one connection of kvcli: lines of stdin, -x, -r; and --csv.
# shellcheck disable=SC2015,SC2059
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

start_server s

# lines STATUS TEXT [OPTION]...: kvcli with these lines on stdin.
lines() {
	want=$1
	printf '%b' "$2" >"$dir/in"
	shift 2
	cases=$((cases + 1))
	kvcli "$@" <"$dir/in" >"$dir/out" 2>"$dir/err"
	got=$?
	[ "$got" -eq "$want" ] || fail "exit status $got, expected $want: $(cat "$dir/in" "$dir/err")"
}

# ---- words as redis-cli has them
lines 0 'put a plain\nget a\n' && silent && prints 'plain\n'
lines 0 '\n  # a comment\n\tput   a\t"two  words" \r\nget a\n' && prints 'two  words\n'
lines 0 'put a "\\n\\t\\r\\b\\a\\x41\\"\\\\\\q"\nget a\n' && prints '\n\t\r\b\aA"\\q\n'
lines 0 "put a 'it\\\\'s \\\\n'\nget a\n" && prints "it's \\\\n\n"
lines 0 'put a ""\nget a\nput a x"y z"\nget a' && prints '\nxy z\n'
lines 1 'put "k\\x00y" "v\\x00e" --ttl 1h\nget "k\\x00y"\nexists k\nttl "k\\x00y"' && shows '^no$' && shows '^3[56][0-9][0-9]\.'
head -c 4 "$dir/out" | od -c | grep -q 'v  \\0   e  \\n' || fail "a NUL: $(od -c "$dir/out")"
lines 64 'put a "b\n' && says 'line 1: a quote is not closed'
lines 64 '\nput a "b"c\n' && says 'line 2: a blank is missing after a closing quote'

# ---- a failed command is named by its line, and the others run
lines 64 'put n 1\nget none\nfoo\nincr n\nget n x\nincr n 4\n'
prints '2\n6\n'
[ "$(wc -l <"$dir/err")" -eq 3 ] || fail "messages: $(cat "$dir/err")"
grep -q '^kvcli: line 2: get: none: no value' "$dir/err" || fail "line 2: $(cat "$dir/err")"
grep -q "^kvcli: line 3: unknown command 'foo'" "$dir/err" || fail "line 3: $(cat "$dir/err")"
grep -q '^kvcli: line 5: get: too many arguments' "$dir/err" || fail "line 5: $(cat "$dir/err")"
lines 1 'get none\nput n 1\n' && says '^kvcli: line 1: '
lines 64 'SETEX n 1\n' && says "unknown command 'SETEX': did you mean put"
lines 0 'put n 5\nquit\nfoo\n' && silent
lines 0 'exit' && silent
lines 0 '' && silent
expect 0 kvcli </dev/null && prints ''

# ---- options: of all lines, and of one
lines 0 'get n\nexists n\n' --json && shows '^."key":"n","result":"ok","value":"5","version":[0-9]+.$'
shows '^."key":"n","result":"ok".$'
lines 0 'get --json n\nget n\n' && shows '"value":"5"' && shows '^5$'
lines 64 'get n --uri shm:///x\nput n 6 -r 2\n' && [ "$(grep -c 'does not apply to a line' "$dir/err")" -eq 2 ] ||
	fail "options of the command line: $(cat "$dir/err")"
lines 64 'put n -\nload -\nrestore -\n' && [ "$(grep -c '^kvcli: line [123]: .*: - is stdin' "$dir/err")" -eq 3 ] ||
	fail "- in lines: $(cat "$dir/err")"
expect 0 kvcli get n && prints '5\n'

# ---- one connection, and a second one for the first command that writes
sessions() { kvcli --json stats | sed 's/.*"sessions_total":\([0-9]*\).*/\1/'; }
before=$(sessions)
i=0
while [ $i -lt 500 ]; do
	echo "get n"
	i=$((i + 1))
done >"$dir/in"
echo 'put m 1' >>"$dir/in"
cat "$dir/in" "$dir/in" >"$dir/more"
kvcli <"$dir/more" >"$dir/out" || fail "1002 lines: $?"
[ "$(wc -l <"$dir/out")" -eq 1000 ] || fail "1000 gets: $(wc -l <"$dir/out") lines"
[ "$(sessions)" -eq $((before + 3)) ] || fail "sessions: $before, then $(sessions)"

# ---- a dialogue through pipes: what is done is said before the next line is waited for
mkfifo "$dir/to" "$dir/from"
kvcli <"$dir/to" >"$dir/from" 2>"$dir/err" &
talker=$!
servers="$servers $talker"
exec 7>"$dir/to" 8<"$dir/from"
echo 'put talk one' >&7
echo 'get talk' >&7
read -r said <&8 && [ "$said" = one ] || fail "dialogue: $said"
echo 'incr n' >&7
read -r said <&8 && [ "$said" = 6 ] || fail "dialogue: $said"
exec 7>&- 8<&-
wait "$talker" || fail "dialogue: exit status $?"

# ---- long lines
python3 -c 'print("put long " + "x" * 300000); print("get long")' >"$dir/in"
kvcli <"$dir/in" >"$dir/out" && [ "$(wc -c <"$dir/out")" -eq 300001 ] || fail "a long line"

# ---- -x
printf '@a\nb\n' | kvcli -x put x && kvcli --raw get x >"$dir/out" && prints '@a\nb\n'
echo x | kvcli -x exists >"$dir/out" && prints 'yes\n'
echo x | kvcli -x exists n >"$dir/out" && prints 'n\tyes\nx\tyes\n'
printf 'k\000y' | kvcli --raw -x get >"$dir/out" && [ "$(wc -c <"$dir/out")" -eq 3 ] || fail "-x with a NUL"
head -c 70000 /dev/zero | expect 64 kvcli -x get && says 'longer than the longest key'
expect 2 kvcli -x get <"$dir" && says 'cannot read stdin: Is a directory'

# ---- -r and -i
expect 0 kvcli put n 0
expect 0 kvcli -r 3 incr n && prints '1\n2\n3\n'
expect 0 kvcli -r 2 -i 1ms incr n && prints '4\n5\n'
expect 1 kvcli -r 2 get none && [ "$(wc -l <"$dir/err")" -eq 2 ] || fail "-r: $(cat "$dir/err")"
expect 0 kvcli --key-base64 -r 2 put AP8KCQ== v && expect 0 kvcli --key-base64 get AP8KCQ==
expect 64 kvcli -r 2 put n - </dev/null && says '- is stdin, and --repeat would read it again'
expect 64 kvcli -i 1 get n && says '--interval needs --repeat'
echo 'get -i 1 n' | expect 64 kvcli && says 'line 1: .*--interval needs --repeat'
expect 64 kvcli -r 2 -i soon get n && says "'soon' is no time"
expect 64 kvcli -r 0 get n && says 'repeat'

# ---- CSV
expect 0 kvcli put q 'a "b", c'
expect 0 kvcli --csv get q && prints '"a ""b"", c"\n'
expect 0 kvcli --csv mget q n && prints '"q","a ""b"", c"\n"n","5"\n'
expect 0 kvcli --csv exists q n && prints '"q","yes"\n"n","yes"\n'
expect 0 kvcli --csv keys --match q && prints '"q"\n'
echo q >"$dir/in" && expect 0 kvcli --csv dump "$dir/in" && prints '"q","a ""b"", c"\n'
expect 64 kvcli --csv --json get q && says 'give --csv or --json, not both'
expect 64 kvcli --csv ping && says '--csv does not apply here'

# ---- help of a command has its options
expect 0 kvcli help put && shows '^ +--ttl=TIME' && ! grep -q -- '--match' "$dir/out" || fail "help put"
expect 0 kvcli keys --help && shows '--match=GLOB'

# ---- what people get wrong: STATUS|ARGUMENTS|what the one line says
while IFS='|' read -r status arguments line; do
	# shellcheck disable=SC2086
	expect "$status" kvcli $arguments </dev/null && says "$line" && prints ''
done <<END
64|SET a b|unknown command 'SET': did you mean put$
64|FLUSHALL|did you mean clear$
64|get|get: an argument is missing; usage: kvcli get KEY$
64|put a|put: an argument is missing; usage: kvcli put KEY VALUE$
64|put a b c|too many arguments; usage: kvcli put KEY VALUE$
64|put a -5|option -5; .*values that begin with a dash follow --$
64|keys user|too many arguments; usage: kvcli keys$
64|get a --ttl 5|--ttl does not apply here$
64|put a b --ttl 5w|'5w' is no time; give a number of seconds
64|put a @none/such|cannot open 'none/such': .*begins with @ is written @@
64|cas a one b|'one' is no version; take the number that gets prints$
64|incr q|q: .*number
64|--raw --json get a|give --raw or --json, not both$
64|-u http://localhost get a|scheme
64|--stat keys|--stat stands in place of a command: leave 'keys' out$
64|kill me|'me' is no session; take the ID that clients prints$
64|info|an argument is missing; usage: kvcli info FILE
1|get nokey|nokey: no value is stored under the key$
1|kill 1|there is no other session 1; kvcli clients lists them$
69|-s $dir/none get a|is kvserver running\? start it with: kvserver --socket
END

# ---- a server that goes away ends the series
kill "$server"
wait "$server"
lines 69 'get a\nget b\n' && [ "$(wc -l <"$dir/err")" -eq 2 ] || fail "no server: $(cat "$dir/err")"
grep -q '^kvcli: line 1: .*not run$' "$dir/err" || fail "no server: $(cat "$dir/err")"
finish
