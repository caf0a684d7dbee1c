#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every command of kvcli and every exit status. Keys and values: cli-item.sh, cli-data.sh.
# shellcheck disable=SC2015,SC2059
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

start_server s

# ---- dashes, @ and -
expect 0 kvcli put -- -key -value
expect 0 kvcli get -- -key && prints '-value\n'
expect 0 kvcli put at @@home
expect 0 kvcli --ttl 1h put dated soon && expect 0 kvcli ttl dated && shows '^3[56][0-9][0-9]\.[0-9]{3}$'
expect 0 kvcli touch dated 2h && expect 0 kvcli --json ttl dated && shows '"ttl_ms":7[12][0-9]*}'
expect 0 kvcli touch dated never && expect 0 kvcli ttl dated && shows '^never$'
expect 0 kvcli --ttl 60d replace dated later && expect 0 kvcli ttl dated && shows '^518[0-9]*\.'
expect 0 kvcli --ttl 1ms put brief x
while kvcli -q exists brief; do :; done
expect 1 kvcli ttl brief && expect 1 kvcli touch brief 1h && expect 0 kvcli --ttl 0 add brief y
expect 0 kvcli ttl brief && shows '^never$'
expect 0 kvcli --initial 5 --ttl 1h incr visits && expect 0 kvcli incr visits && prints '6\n'
expect 0 kvcli ttl visits && shows '^3[56][0-9][0-9]\.'
expect 0 kvcli --json keys --match visits && shows '"ttl_ms":3[56][0-9]*}'
expect 0 kvcli --json gets visits && shows '"ttl_ms":3[56][0-9]*}'
printf 'visits\n' >"$dir/visits"
expect 0 kvcli --json dump "$dir/visits" && shows '"value":"6","ttl_ms":3[56][0-9]*}'
expect 0 kvcli get at && prints '@home\n'
expect 64 kvcli put key -value && says 'unknown .*-v;.*begin with a dash follow --'

# ---- keys of any bytes
expect 0 kvcli --key-base64 put AP8KCQ== binary
expect 0 kvcli --key-base64 get AP8KCQ== && prints 'binary\n'
expect 0 kvcli --json --key-base64 get AP8KCQ== && shows '"key_base64":"AP8KCQ==".*"value":"binary"'
expect 0 kvcli --key-base64 mget AP8KCQ== && printf '\\0\377\\n\\t\tbinary\n' | cmp -s - "$dir/out" ||
	fail "a binary key in a tsv line: $(od -c "$dir/out")"
expect 0 kvcli --key-base64 exists AP8KCQ==
expect 1 kvcli --key-base64 get AP8K && says 'get: .x00.xff.x0a: no value'
expect 0 kvcli --key-base64 del AP8KCQ==
expect 1 kvcli -q --key-base64 exists AP8KCQ==
for text in A AA AAA AA= A=== 'AA A' AB== AAB= ====; do
	expect 64 kvcli --key-base64 get "$text" && says 'not base64'
done

start_server few

printf 'key\tnew\nother\tx\n' >"$dir/two.tsv"
expect 0 kvcli put key old
expect 0 kvcli --if-absent load "$dir/two.tsv"
expect 0 kvcli get key && prints 'old\n'
expect 0 kvcli get other && prints 'x\n'
printf 'key\t1\nkey\t2\nkey\t3\n' >"$dir/thrice.tsv"
expect 0 kvcli load "$dir/thrice.tsv"
expect 0 kvcli get key && prints '3\n'
printf 'key\nnothing\nother\n' >"$dir/keys"
expect 1 kvcli dump "$dir/keys" && prints 'key\t3\nother\tx\n' && says 'dump: 1 of 3 keys'
printf 'a\0b' >"$dir/bytes"
expect 0 kvcli put zero "@$dir/bytes"
printf 'zero\0' >"$dir/zero.keys"
expect 64 kvcli -f nul dump "$dir/zero.keys" && says 'zero.keys: record 1: key or value holds a NUL byte'

# Only the first bytes of the output can look like another kind of file.
printf '\037\213\010\t1\n\3757zXZ\t2\n' | kvcli -q load - 2>/dev/null && fail 'a gzip file was loaded'
printf '\\x1f\213\010\t1\n\\xfd7zXZ\t2\n' >"$dir/odd.tsv"
expect 0 kvcli -q load "$dir/odd.tsv"
printf 'key\0\037\213\010\0\3757zXZ\0' >"$dir/later.keys"
expect 0 kvcli -f nul dump - <"$dir/later.keys"
printf 'key\0003\0\037\213\010\0001\0\3757zXZ\0002\0' | cmp -s - "$dir/out" || fail "$(od -c "$dir/out")"
tr '\0' '\n' <"$dir/later.keys" | kvcli dump - >"$dir/out"
printf 'key\t3\n\037\213\010\t1\n\3757zXZ\t2\n' | cmp -s - "$dir/out" || fail "$(od -c "$dir/out")"
expect 0 kvcli mget "$(printf '\037\213\010')" key && shows '^.x1f'
# In nul the first key and the NUL after it begin like an xz file.
printf '\\xfd7zXZ\n' >"$dir/xz.keys"
kvcli dump "$dir/xz.keys" >"$dir/out"
printf '\\xfd7zXZ\t2\n' | cmp -s - "$dir/out" || fail "$(od -c "$dir/out")"
start_server foreign
expect 0 kvcli -q load "$dir/odd.tsv"
expect 0 kvcli del "$(printf '\037\213\010')"
expect 64 kvcli -f nul keys && says 'the first key begins like another kind of file'
expect 64 kvcli -f nul dump && says 'the first key begins like another kind of file'
expect 0 kvcli keys && printf '\\xfd7zXZ\n' | cmp -s - "$dir/out" || fail "$(od -c "$dir/out")"

# ---- all keys
start_server all
expect 0 kvcli keys && silent && prints ''
expect 0 kvcli dump && silent && prints ''
expect 0 kvcli -f cdb dump && prints '\n'
for key in one user1 user2 user3 'a[b' 'a*b' axxb; do
	expect 0 kvcli put "$key" "v$key"
done
expect 0 kvcli --key-base64 put AP8KCQ== binary # NUL, 0xff, newline, TAB
# matches GLOB KEY...: keys prints these, which are sorted.
matches() {
	expect 0 kvcli keys --match "$1"
	shift
	LC_ALL=C sort "$dir/out" >"$dir/sorted" && mv "$dir/sorted" "$dir/out"
	[ $# -eq 0 ] || set -- "$(printf '%s\\n' "$@")"
	prints "${1-}"
}
LC_ALL=C matches '*' '\\0\0377\\n\\t' 'a*b' 'a[b' axxb one user1 user2 user3
matches 'user?' user1 user2 user3
matches 'user[1-2]' user1 user2
matches 'user[!1-2]' user3
matches 'user[^1]' user2 user3
matches '*r2' user2
matches 'u*e*3' user3
matches 'a[b' 'a[b'
matches 'a[[]b' 'a[b'
matches 'a\*b' 'a*b'
matches 'a*b' 'a*b' 'a[b' axxb
matches '?'
matches 'on'
matches 'onee'
matches '????' '\\0\0377\\n\\t' axxb
expect 0 kvcli keys --count 3 && silent && [ "$(wc -l <"$dir/out")" -eq 3 ] || fail "keys --count 3: $(cat "$dir/out")"
expect 0 kvcli --json keys --match one && shows '^\{"key":"one","length":4,"version":[0-9]+\}$'
expect 0 kvcli --json keys --match '?[!x]*[!a-z0-9b]' && shows '^\{"key_base64":"AP8KCQ==","length":6,'
expect 64 kvcli -f nul keys --match '????' && says 'keys: .x00.xff.x0a.x09: key or value holds a NUL byte'
expect 64 kvcli -f nul dump && says 'dump: .x00.xff.x0a.x09: key or value holds a NUL byte'
expect 64 kvcli -f cdb keys && says 'cdb has no form for keys alone'
# Keys that were printed are keys to dump, and what was dumped is loaded again.
kvcli keys >"$dir/all.keys"
kvcli dump >"$dir/all.tsv"
kvcli -f cdb dump >"$dir/all.cdb"
expect 0 kvcli dump "$dir/all.keys"
same "$dir/all.tsv" "$dir/out"
expect 0 kvcli clear && silent && prints 'removed 8 keys\n'
expect 0 kvcli keys && prints ''
expect 0 kvcli -q load "$dir/all.cdb"
expect 0 kvcli dump && LC_ALL=C sort "$dir/out" >"$dir/after" && LC_ALL=C sort "$dir/all.tsv" >"$dir/before"
same "$dir/before" "$dir/after"
expect 0 kvcli --json clear && prints '{"removed":8,"complete":true}\n'
expect 0 kvcli -q clear && prints ''
expect 64 kvcli clear now
expect 64 kvcli keys now

# ---- truncated files, and files of other kinds: earlier records are stored
cut_file() { # FORMAT BYTES RECORDS-STORED
	head -c "$2" "$dir/cut.$1" >"$dir/part.$1"
	start_server "c-$1-$2"
	expect 64 kvcli load "$dir/part.$1" && grep -Eq "^stopped by an error; stored $3 records" "$dir/err" ||
		fail "$1 cut at $2: $(cat "$dir/err")"
	grep -Eq "part.$1: record $(($3 + 1)), byte $2: " "$dir/err" ||
		fail "$1 cut at $2 is not named: $(cat "$dir/err")"
	expect 0 kvcli --json stats && shows "\"items\":$3,"
	kill "$server"
}
printf '+1,3:a->one\n+1,3:b->two\n\n' >"$dir/cut.cdb"
printf 'a\0one\0b\0two\0' >"$dir/cut.nul"
cut_file cdb 5 0
cut_file cdb 11 0
cut_file cdb 12 1
cut_file cdb 13 1
cut_file cdb 24 2
printf 'a\tone\nb\ttwo\n' >"$dir/cut.tsv"
cut_tsv() { # BYTES RECORDS-STORED
	head -c "$1" "$dir/cut.tsv" >"$dir/part.tsv"
	start_server "c-tsv-$1"
	expect 64 kvcli load "$dir/part.tsv" && grep -Eq "^stopped by an error; stored $2 records" "$dir/err" ||
		fail "tsv cut at $1: $(cat "$dir/err")"
	grep -Eq "part.tsv: line $(($2 + 1)): the file ends in the middle" "$dir/err" ||
		fail "tsv cut at $1 is not named: $(cat "$dir/err")"
	expect 0 kvcli --json stats && shows "\"items\":$2,"
	kill "$server"
}
cut_tsv 1 0
cut_tsv 7 1
# The last newline may be missing: kvcli warns, since the value may be truncated.
unended_tsv() { # BYTES RECORDS-STORED KEY VALUE
	head -c "$1" "$dir/cut.tsv" >"$dir/part.tsv"
	start_server "c-tsv-$1"
	expect 0 kvcli load "$dir/part.tsv" && says "^loaded $2 records.*; the last line has no newline: is the file whole\?\$"
	expect 0 kvcli --json stats && shows "\"items\":$2,"
	expect 0 kvcli --raw get "$3" && prints "$4"
	kill "$server"
}
unended_tsv 2 1 a ''
unended_tsv 5 1 a one
unended_tsv 8 2 b ''
unended_tsv 11 2 b two
cut_file nul 1 0
cut_file nul 2 0
cut_file nul 3 0
cut_file nul 8 1

start_server bad
malformed() { # FORMAT TEXT MESSAGE
	printf "$2" >"$dir/bad.$1"
	expect 64 kvcli -q load "$dir/bad.$1" && says "bad.$1: $3"
}
malformed tsv 'a\tok\nno tab\n' 'line 2: no TAB'
malformed tsv 'a\tok\n\n\tempty\n' 'line 3: the key is empty'
malformed tsv 'a\tback\\slash\n' 'line 1: unknown escape'
malformed tsv 'a\t\\x4\n' 'line 1: unknown escape'
# shellcheck disable=SC1003
malformed tsv 'a\tok\nb\t\\' 'line 2: the file ends'
malformed tsv 'a\tok\nb\tx\ry\n' 'line 2: a carriage return within the line'
malformed tsv 'a\tok\n\rb\tx\n' 'line 2: a carriage return within the line'
malformed tsv 'a\tx\r\r\n' 'line 1: a carriage return within the line'
malformed tsv 'a\tok\nb\t\000\n' 'line 2: a NUL byte: this is not a text file'
malformed tsv 'b\000\tx\n' 'line 1: a NUL byte: this is not a text file'
malformed cdb '\357\273\277+1,1:a->b\n\n' 'begins with a byte order mark'
malformed nul '\357\273\277a\000b\000' 'begins with a byte order mark'
malformed cdb '+1,1:a->b\r\n\r\n' 'record 1, byte 10: no newline'
malformed cdb '+1,1:a->b\n\n+1,1:c->d\n\n' 'record 2, byte 12: more data after'
expect 0 kvcli get a && prints 'b\n'
malformed cdb 'a->b\n' 'record 1, byte 1: expected'
malformed cdb '+1,1:a->bc\n\n' 'record 1, byte [0-9]+: no newline'
malformed cdb '+1,1:ab->c\n\n' 'record 1, byte [0-9]+: no ->'
malformed cdb '+0,1:->c\n\n' 'record 1, byte [0-9]+: the key is empty'
malformed cdb '+70000,1:' 'record 1, byte [0-9]+: the key is longer'
malformed cdb '+1,99999999999:a->' 'record 1, byte [0-9]+: the value is longer'
malformed cdb '+1,99999999999999999999:a->' 'record 1, byte [0-9]+: expected'
malformed nul '\0value\0' 'record 1, byte 1: the key is empty'
expect 64 kvcli load "$dir/not there" && says 'cannot open .*not there'
expect 64 kvcli put key "@$dir/not there" && says 'cannot open .*not there'
expect 2 kvcli put key "@$dir" && says 'cannot read'

# ---- text of other systems; files of other kinds
start_server elsewhere
printf '\357\273\277first\t1\r\nsecond\t2 \\r\r\n\r\nthird\t\r\nlast\t4\r\n' >"$dir/windows.tsv"
expect 0 kvcli -q load "$dir/windows.tsv" && silent
expect 0 kvcli fsck && shows '^items +4$'
expect 0 kvcli --raw mget first third last && prints '14'
expect 0 kvcli --raw get second && prints '2 \r'
printf '\357\273\277first\r\nlast\r\n' >"$dir/windows.keys"
expect 0 kvcli dump "$dir/windows.keys" && prints 'first\t1\nlast\t4\n'
expect 0 kvcli dump - <"$dir/windows.tsv" && prints 'first\t1\nsecond\t2 \\r\nthird\t\nlast\t4\n'
printf 'first\t1\r' >"$dir/windows.tsv"
expect 0 kvcli load "$dir/windows.tsv" && says 'the last line has no newline'
expect 0 kvcli --raw get first && prints '1'
# A value from a file is the file's content.
printf '\357\273\277x\r\n\037\213\010' >"$dir/raw"
expect 0 kvcli put raw "@$dir/raw"
kvcli --raw get raw >"$dir/back"
same "$dir/raw" "$dir/back"
# A key that a file of another kind begins with is dumped so that it can be loaded.
for key in '\357\273\277key' '\037\213\010key' 'PK\003\004' '\377\376'; do
	printf "$key" | base64 >"$dir/key64"
	expect 0 kvcli --key-base64 put "$(cat "$dir/key64")" value
	expect 0 kvcli --key-base64 mget "$(cat "$dir/key64")"
	cp "$dir/out" "$dir/odd.tsv"
	expect 0 kvcli --key-base64 del "$(cat "$dir/key64")"
	expect 0 kvcli -q load "$dir/odd.tsv"
	expect 0 kvcli --raw --key-base64 get "$(cat "$dir/key64")" && prints value
done
expect 0 kvcli fsck && shows '^items +9$'
# other_kind NAME COMMAND MAGIC: of a file and of stdin, in each format, before anything is stored.
other_kind() {
	printf "$3" >"$dir/some file"
	for format in tsv cdb nul; do
		flag=
		[ $format = tsv ] || flag="-f $format "
		# shellcheck disable=SC2086
		expect 64 kvcli -q $flag load "$dir/some file" &&
			says "some file: this is $1; .* it first: $2 '$dir/some file' \| kvcli ${flag}load -\$"
		# shellcheck disable=SC2086
		expect 64 kvcli -q $flag dump - <"$dir/some file" &&
			says "stdin: this is $1; .* it first: $2 FILE \| kvcli ${flag}dump -\$"
	done
}
other_kind 'a gzip file' zcat '\037\213\010\000\000\000'
other_kind 'an xz file' xzcat '\3757zXZ\000\000'
other_kind 'a zstd file' zstdcat '\050\265\057\375\004'
other_kind 'a bzip2 file' bzcat 'BZh91AY&SY\000'
other_kind 'a zip file' 'unzip -p' 'PK\003\004\024'
other_kind 'UTF-16 text' 'iconv -f UTF-16 -t UTF-8' '\377\376a\000\t\000'
expect 0 kvcli fsck && shows '^items +9$'
if command -v gzip >/dev/null; then
	printf 'real\tyes\n' | gzip >"$dir/real.gz"
	expect 64 kvcli load "$dir/real.gz" && grep -q 'this is a gzip file' "$dir/err" || fail "$(cat "$dir/err")"
	zcat "$dir/real.gz" | kvcli -q load - || fail "the command that load advises"
	expect 0 kvcli get real && prints 'yes\n'
fi
# Input that begins like one and is none.
printf 'PK\t1\nBZh91\t2\n\357\t3\n' >"$dir/like.tsv"
expect 0 kvcli -q load "$dir/like.tsv"
expect 0 kvcli --raw mget PK BZh91 && prints '12'
printf 'P\t' >"$dir/like.tsv"
expect 0 kvcli -q load "$dir/like.tsv"
# Where one byte decides, kvcli does not wait for more.
mkfifo "$dir/slowly"
kvcli -q load - <"$dir/slowly" &
loader=$!
exec 4>"$dir/slowly"
printf 'P' >&4
printf 'K' >&4
printf '\003slow\t1\n' >&4
exec 4>&-
wait $loader || fail "a mark that comes in pieces"
expect 0 kvcli --key-base64 get UEsDc2xvdw== && prints '1\n'

# ---- limits
long=$(head -c 65536 /dev/zero | tr '\0' k)
expect 64 kvcli get "$long" && says '65536 bytes.*at most 65535'
expect 64 kvcli put "$long" x && says '65536 bytes.*at most 65535'
start_server small -m 8m -I 1k --max-key-size 10
head -c 1025 /dev/zero >"$dir/over"
head -c 1024 /dev/zero >"$dir/limit"
expect 0 kvcli put key "@$dir/limit"
expect 64 kvcli put key "@$dir/over" && says 'put: key: .*1025 bytes.*at most 1024'
expect 64 kvcli put 12345678901 x && says '11 bytes.*at most 10'
printf 'good\t1\n\n12345678901\t2\nlater\t3\n' >"$dir/over.tsv"
for absent in '' --if-absent; do
	# shellcheck disable=SC2086
	expect 64 kvcli $absent load "$dir/over.tsv" && grep -Eq 'over.tsv: line 3: .*11 bytes' "$dir/err" ||
		fail "$(cat "$dir/err")"
done
expect 0 kvcli get good
printf '+1,1024:a->%s\n+1,1025:b->%s\n\n' "$(tr '\0' v <"$dir/limit")" "$(tr '\0' v <"$dir/over")" >"$dir/over.cdb"
expect 64 kvcli -q load "$dir/over.cdb" && says 'over.cdb: record 2: .*1025 bytes.*at most 1024'
expect 0 kvcli get a
# Input without an end is given up at the limit.
endless() { # MESSAGE PIPE ARGUMENT...
	message=$1
	pipe=$2
	shift 2
	expect 64 sh -c "yes | $pipe | \"\$@\"" sh "$KVCLI" -q "$@" && says "$message"
}
endless 'stdin is longer than .*1.0 KiB' "tr -d '\\n'" put key -
endless 'stdin: line 1: the key is longer than 65535' "tr -d '\\n'" load -
endless 'stdin: line 1: the value is longer than 1024 bytes' "tr '\\n' '\\t'" load -
endless 'stdin: record 1, .*the key is longer than 65535' cat -f nul load -
python3 -c 'print("".join("k%06d\t%s\n" % (i, "x" * 1000) for i in range(20000)), end="")' >"$dir/full.tsv"
expect 2 kvcli load "$dir/full.tsv" && grep -Eq 'full.tsv: line [0-9]+: .*no memory left.*--memory' "$dir/err" || fail "$(cat "$dir/err")"
expect 0 kvcli get k000000
expect 0 kvcli del k000000 k000001 k000002
sleep 0.2 # the grace period
expect 0 kvcli put k000000 back

# ---- usage
usage() { # MESSAGE ARGUMENT...
	message=$1
	shift
	expect 64 kvcli "$@" && says "$message"
}
usage "unknown command 'fetch': did you mean get$" fetch key
for pair in set:put rm:del delete:del remove:del cat:get ls:keys list:keys flushall:clear export:dump insert:add putt:put gte:get exist:exists \
	delt:del statz:stats dmup:dump clera:clear; do
	usage "unknown command '${pair%:*}': did you mean ${pair#*:}$" "${pair%:*}" key
	usage "unknown command '${pair%:*}': did you mean ${pair#*:}$" help "${pair%:*}"
done
for word in frobnicate x '' getput "$long"; do
	usage "unknown command '.*'; see kvcli --help|unknown command 'kkkk" "$word"
done
usage 'option --sokcet: did you mean --socket; see' --sokcet /x ping
usage 'option --sokcet=/x: did you mean --socket; see' --sokcet=/x ping
usage 'option --colour; see' --colour ping
usage 'argument is missing.*get KEY' get
usage 'argument is missing.*put KEY VALUE' put key
usage 'too many arguments.*put KEY VALUE' put key a b
usage 'too many arguments' ping now
usage 'usage: kvcli stats$' stats now
usage "option --socket: '' is not a path" -s '' ping
usage 'unknown or ambiguous option' --colour get key
usage 'missing argument' get key -t
usage 'timeout-ms' -t soon ping
usage 'format' -f xml load x
usage 'not both' -s a -u b ping
usage 'option --colour;' get key --colour
usage 'option -y;' get -y key
usage 'option -t;' get key -t
usage 'not both' --raw --json get key
usage '--if-absent does not apply here' put key value --if-absent
usage '--raw does not apply here' put key value --raw
usage '--count does not apply here' get key -c 2
usage '--format does not apply here' get key -f cdb
usage '--key-base64 does not apply here' load --key-base64 x
usage '--match does not apply here' dump --match x
usage '--count does not apply here' get key --count 1
usage '--memory does not apply here' devices --memory 2g
usage '--memory does not apply here' get key -m 4g
usage '--socket does not apply here' -s x devices
usage '--uri does not apply here' devices -u shm:///x
usage '--keys does not apply here' devices -k x
usage '--keys does not apply here' keygen --keys x alice
usage '--key does not apply here' keygen alice --key x
usage "option --keys: '' is not a path" --keys '' ping
usage 'memory' doctor -m lots
usage 'memory' doctor -m 0
usage 'too many arguments' devices rxe0
usage 'too many arguments' doctor now
usage 'argument is missing.*keygen NAME' keygen
usage 'too many arguments.*keygen NAME' keygen alice rw now
usage "'RW' is neither rw nor ro" keygen alice RW
usage 'name is 1 to 63' keygen 'al ice'
usage 'name is 1 to 63' keygen ''
usage '--json does not apply here' keygen --json alice
usage '--socket does not apply here' keygen -s x alice
usage '--key-base64 does not apply here' keygen --key-base64 alice
# The command line is looked at before the server.
expect 64 kvcli -s "$dir/none-such" cas key one x && says "'one' is no version"
expect 64 kvcli -s "$dir/none-such" put key "@$dir/none" extra
expect 64 kvcli -s "$dir/none-such" put key "@$dir/not there" && says 'cannot open'
expect 64 kvcli -s "$dir/none-such" load "$dir/not there" && says 'cannot open'
usage 'the key is empty' get ''
usage "'soon' is no time" --ttl soon put key x
usage "'5w' is no time" touch key 5w
usage "'100000d' is no time" --ttl 100000d add key x
usage '--ttl does not apply here' --ttl 1s get key
usage '--ttl is for the first number: give --initial' --ttl 1s incr key
usage 'scheme' -u http://localhost ping
usage 'address' -u shm:// ping
expect 0 kvcli --help && shows '^  cas KEY VERSION VALUE'
expect 0 kvcli help load && shows '^  cdb '
expect 0 kvcli load --help && shows '^  cdb '
expect 64 kvcli help fetch
expect 0 kvcli --version && shows '^kvcli [0-9]+\.[0-9]+\.[0-9]+$'

# ---- keys: a line each, never the same
expect 0 kvcli -q keygen alice && silent && shows '^alice rw [A-Za-z0-9+/]{43}=$'
cp "$dir/out" "$dir/key"
expect 0 kvcli keygen alice rw && silent && shows '^alice rw [A-Za-z0-9+/]{43}=$'
cmp -s "$dir/out" "$dir/key" && fail "keygen gave one key twice"
expect 0 kvcli keygen Bob.2_b-c ro && shows '^Bob\.2_b-c ro [A-Za-z0-9+/]{43}=$'
[ "$(wc -l <"$dir/out")" -eq 1 ] || fail "more than a line"
[ "$(cut -d ' ' -f 3 "$dir/out" | base64 -d | wc -c)" -eq 32 ] || fail "a key is 32 bytes"
name63=$(head -c 63 /dev/zero | tr '\0' n)
expect 0 kvcli keygen "$name63"
expect 64 kvcli keygen "n$name63" && says 'name is 1 to 63' && prints ''
expect 0 kvcli keygen -- -dash && shows '^-dash rw '

# ---- output that gets lost
if [ -w /dev/full ]; then
	for words in 'get good' '--json get good' 'mget good' 'stats' 'keygen alice' '--help' keys dump "dump $dir/full.tsv"; do
		# shellcheck disable=SC2086
		"$KVCLI" $words >/dev/full 2>"$dir/err"
		[ $? -eq 2 ] || fail "$words: a full disk went unnoticed"
		says 'cannot write the output: No space left'
	done
fi
"$KVCLI" get good >&- 2>"$dir/err"
[ $? -eq 2 ] || fail "a closed stdout went unnoticed"
says 'cannot write the output'
# A closed pipe ends it as it ends other programs.
gone
for words in "dump $dir/full.tsv" dump keys "mget good good" "stats" "--help"; do
	# shellcheck disable=SC2086
	{ env --default-signal=PIPE "$KVCLI" $words 2>"$dir/err"; echo $? >"$dir/status"; } >&9
	[ "$(cat "$dir/status")" -eq 141 ] || fail "$words: a closed pipe: $(cat "$dir/status")"
	silent
done
expect 0 kvcli get good
"$KVCLI" put good - <&- 2>"$dir/err"
[ $? -eq 2 ] || fail "a closed stdin went unnoticed"
says 'cannot read stdin: Bad file descriptor'
expect 0 kvcli get good && prints '1\n'

# ---- sockets of any name
start_server 'a%41:b c'
(cd "$dir" && exec "$KVCLI" -s 'a%41:b c' put key value) || fail "-s with a relative path"
expect 0 kvcli -s "$dir/a%41:b c" get key && prints 'value\n'
expect 0 kvcli -u "shm://$dir/a%2541:b%20c" get key && prints 'value\n'
kill "$server"

# ---- servers that are not there, not ours, or private
expect 69 kvcli -s "$dir/none-such" ping && says 'no server at .*none-such'
expect 69 kvcli -s "$dir/none such" ping && says "start it with: kvserver --socket '.*/none such'\$"
expect 69 kvcli -s "$dir/bytes" ping && says 'bytes is not a socket'
python3 - "$dir" <<'PY' &
import os, socket, sys
d = sys.argv[1]
s = [socket.socket(socket.AF_UNIX, t) for t in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)]
for x, n in zip(s, ("stream", "packet")):
    x.bind(d + "/" + n)
    x.listen(8)
open(d + "/up", "w").close()
while True:
    c, _ = s[1].accept()
    c.recv(1 << 16)
    c.send(b"220 mail.example.org ESMTP ready\r\n")
    c.close()
PY
servers="$servers $!"
until [ -e "$dir/up" ]; do sleep 0.05; done
expect 2 kvcli -s "$dir/stream" ping && says 'not a farkv socket'
expect 2 kvcli -s "$dir/packet" ping && says 'packet'

start_server private
expect 0 kvcli put key value
if [ "$(id -u)" -ne 0 ]; then
	chmod 0 "$dir/private"
	expect 77 kvcli get key && says 'may not connect'
	chmod 600 "$dir/private"
else
	if be_nobody "$KVCLI"; then
		expect 77 "$nobody" "$theirs/kvcli" get key && says 'may not connect'
	else
		echo "not tested: exit status 77 (no way to run as somebody else)"
	fi
fi

# ---- progress: on a terminal, and nowhere else
start_server watched
python3 - "$KVCLI" <<'PY' || fail "progress on a terminal"
import os, pty, select, subprocess, sys
for options, shown in (["load", "-"], True), (["-q", "load", "-"], False):
    try:
        outer, inner = pty.openpty()
    except OSError:
        print("no terminals here: progress is not tried")
        break
    p = subprocess.Popen([sys.argv[1]] + options, stdin=subprocess.PIPE, stderr=inner)
    os.close(inner)
    seen = b""
    for batch in range(1500 if shown else 15):
        p.stdin.write(b"".join(b"k%d\tvalue\n" % i for i in range(128)))
        p.stdin.flush()
        if select.select([outer], [], [], 0.02)[0]:
            seen += os.read(outer, 4096)
        if b" records, " in seen:
            break
    if (b" records, " in seen) != shown:
        sys.exit("%r: %r" % (options, seen))
    p.stdin.write(b"no tab\n")
    p.stdin.close()
    p.wait()
    try:
        while True:
            seen += os.read(outer, 4096)
    except OSError:
        pass
    # The message stands on a line of its own.
    at = seen.index(b"kvcli: load: stdin: line ")
    if p.returncode != 64 or (shown and not seen[:at].endswith(b"\r\x1b[K")):
        sys.exit("%r: %r" % (options, seen))
PY

# ---- completion knows the commands, options and their arguments
knows_options "$KVCLI"
kvcli --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\).*/\1/p' >"$dir/commands"
if command -v bash >/dev/null; then
	{ cat "$dir/commands"; echo help; } | sort >"$dir/want"
	complete_with "$KVCLI" '' | cmp - "$dir/want" || fail "completion of commands"
	[ "$(complete_with "$KVCLI" --format c)" = cdb ] || fail "completion of formats"
	[ "$(complete_with "$KVCLI" --format = c)" = cdb ] || fail "completion of --format=c"
	[ "$(complete_with "$KVCLI" -f c)" = cdb ] || fail "completion of -f c"
	[ -z "$(complete_with "$KVCLI" get pu)" ] || fail "a command after a command"
	(cd "$dir" && [ "$(complete_with "$KVCLI" load comm)" = commands ]) || fail "completion of files"
fi
expect 64 kvcli --completion fish && says "completion: 'fish' is neither bash nor zsh" && prints ''
expect 64 kvcli --completion

# ---- a machine without RDMA; others are in devices.sh
json_is() { # PYTHON-EXPRESSION about o
	python3 -c 'import json, sys
o = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$dir/out" "$1" || fail "JSON is not: $1: $(cat "$dir/out")"
}
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	expect 1 kvcli devices && prints '' && says 'devices: (no RDMA device; .*rdma link add rxe0 type rxe netdev [^ ]|this build has no RDMA; .*--with-verbs)'
	expect 1 kvcli devices --quiet && prints '' && silent
	expect 1 kvcli devices --json && silent
	json_is 'o["usable"] is False and o["devices"] == [] and "RDMA" in o["problem"] and o["remedy"]'
	expect 1 kvcli doctor && silent && shows '^FAIL  devices: no RDMA device|^FAIL  build: this build'
	shows 'rdma link add|--with-verbs'
	[ "$(wc -l <"$dir/out")" -eq 13 ] && ! grep -Evq '^(ok  |warn|FAIL)  [a-z ]+: .' "$dir/out" || fail "lines of doctor: $(cat "$dir/out")"
	expect 1 kvcli doctor --quiet && ! grep -q '^ok' "$dir/out" || fail "doctor --quiet: $(cat "$dir/out")"
	expect 1 kvcli --json doctor && silent
	json_is 'o["usable"] is False and len(o["checks"]) == 13 and all(c["level"] in ("ok", "warn", "FAIL") and c["detail"] for c in o["checks"])'
	json_is '[c["level"] for c in o["checks"] if c["check"] == "devices"] == ["FAIL"] or not o["checks"][0]["level"] == "ok"'
else
	echo "not tested: a machine without RDMA"
fi
start_server asked
kvcli doctor >"$dir/out"
shows '^ok    store: .*answers$'
stop_server
kvcli doctor >"$dir/out"
shows '^warn  store: .*no server|^warn  store: .*server'

finish
