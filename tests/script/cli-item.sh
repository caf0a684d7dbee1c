#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli's commands for one key and for several: what they print, and their exit status.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"

start_server s -m 64m

# ---- one key
expect 0 kvcli put hello world && silent
expect 0 kvcli get hello && prints 'world\n'
expect 0 kvcli --raw get hello && prints 'world'
expect 0 kvcli -u "$FARKV_URI" get hello && prints 'world\n'
expect 0 kvcli --json get hello && shows '^\{"key":"hello","result":"ok","value":"world","version":[0-9]+\}$'
expect 1 kvcli get nothing && says 'get: nothing: no value' && prints ''
expect 1 kvcli -q get nothing && silent
expect 1 kvcli --json get nothing && prints '{"key":"nothing","result":"not_found"}\n' && silent
expect 1 kvcli add hello again && says 'add: hello: .*has a value'
expect 0 kvcli get hello && prints 'world\n'
expect 0 kvcli add fresh 1
expect 0 kvcli replace fresh 2
expect 0 kvcli get fresh && prints '2\n'
expect 1 kvcli replace nothing x && says 'replace: nothing'
expect 1 kvcli get nothing
expect 0 kvcli put empty '' && silent
expect 0 kvcli get empty && prints '\n'
expect 0 kvcli --raw get empty && prints ''

# ---- versions
expect 0 kvcli gets hello && shows '^[0-9]+	world$'
version=$(cut -f 1 "$dir/out")
expect 0 kvcli --raw gets hello && prints "$version\nworld"
expect 0 kvcli cas hello "$version" moon
next=$(cat "$dir/out")
[ "$next" != "$version" ] || fail "cas did not change the version"
expect 1 kvcli cas hello "$version" sun && says 'cas: hello'
expect 0 kvcli gets hello && prints "$next\tmoon\n"
expect 1 kvcli cas nothing 1 x && says 'cas: nothing: no value'
expect 64 kvcli cas hello one x && says "'one' is no version"
expect 0 kvcli --json cas hello "$next" stars && shows '"result":"ok","version":[0-9]+'

# ---- counters and appends
expect 1 kvcli incr visits && says 'incr: visits: no value'
expect 1 kvcli decr visits 3
expect 0 kvcli incr visits --initial 41 && prints '41\n'
expect 0 kvcli incr visits --initial 7 && prints '42\n'
expect 0 kvcli incr visits 58 && prints '100\n'
expect 0 kvcli decr visits && prints '99\n'
expect 0 kvcli get visits && prints '99\n'
expect 0 kvcli --json decr visits 200 && shows '^\{"key":"visits","result":"ok","value":"0"\}$'
expect 0 kvcli decr visits --initial 5 && prints '0\n'
expect 0 kvcli put visits 18446744073709551615
expect 0 kvcli incr visits && prints '0\n'
expect 0 kvcli -q incr visits && prints ''
expect 64 kvcli incr visits -- -1 && says "DELTA '-1' is no number from 0 to 18446744073709551615"
expect 64 kvcli incr visits --initial x && says "--initial 'x' is no number"
expect 64 kvcli get visits --initial 1 && says '--initial does not apply here'
expect 64 kvcli incr hello && says 'incr: hello: the value, of 5 bytes, is no decimal number below 2.64'
expect 0 kvcli append visits ' of 9' && expect 0 kvcli get visits && prints '1 of 9\n'
expect 0 kvcli prepend visits 'visit ' && expect 0 kvcli get visits && prints 'visit 1 of 9\n'
printf '\0\n' | expect 0 kvcli append visits -
expect 0 kvcli --raw get visits && prints 'visit 1 of 9\0\n'
expect 1 kvcli append nothing x && says 'append: nothing: no value'
expect 1 kvcli prepend nothing x
expect 0 kvcli del visits

# ---- several keys
expect 0 kvcli exists hello && prints 'yes\n'
expect 1 kvcli exists nothing && prints 'no\n'
expect 1 kvcli exists hello nothing && prints 'hello\tyes\nnothing\tno\n'
# shellcheck disable=SC2046
expect 1 kvcli exists hello $(seq 1 126) hello hello nothing hello
[ "$(grep -c 'hello.yes' "$dir/out")" -eq 4 ] || fail "of several groups: $(cat "$dir/out")"
[ "$(wc -l <"$dir/out")" -eq 131 ] || fail "not a line for each key"
expect 0 kvcli mget hello fresh && prints 'hello\tstars\nfresh\t2\n'
expect 1 kvcli mget hello nothing fresh && prints 'hello\tstars\nfresh\t2\n' && says 'mget: nothing'
expect 0 kvcli --raw mget hello fresh && prints 'stars2'
expect 1 kvcli --json mget nothing hello && shows '^\{"key":"nothing","result":"not_found"\}$'
# A key that is not valid does not hide the others.
expect 64 kvcli exists hello '' nothing && prints 'hello\tyes\nnothing\tno\n' && says 'exists: : the key is empty'
# shellcheck disable=SC2046
expect 64 kvcli exists '' $(seq 1 128) hello && shows '^128	no$' && shows '^hello	yes$'
expect 64 kvcli mget '' hello && shows '^hello	'
expect 1 kvcli del hello nothing fresh && says 'del: nothing'
expect 1 kvcli -q exists hello
expect 1 kvcli -q exists fresh
expect 1 kvcli del hello && says 'del: hello: no value'

finish
