#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The log of kvserver in its formats, under journald, and what changes at SIGHUP.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
remote && skip "the same by RDMA"

# serve [OPTION]...: its log is $dir/log.
serve() {
	rm -f "$dir/ready"
	mkfifo "$dir/ready"
	$by "$KVSERVER" -m 8 -s "$dir/sock" --ready-fd 3 "$@" 3>"$dir/ready" 2>"$dir/log" >/dev/null &
	server=$!
	servers="$servers $server"
	read -r ready <"$dir/ready"
	[ "$ready" = READY ] || fail "no server: $(cat "$dir/log")"
}
# logged TEXT: waits until a line of the log has it.
logged() {
	cases=$((cases + 1))
	for _ in $(seq 600); do
		grep -Eq -- "$1" "$dir/log" && return
		kill -0 "$server" || break
		sleep 0.1
	done
	fail "not in the log: $1: $(cat "$dir/log")"
}
stamp='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z'

# ---- formats
serve -v
expect 0 kvcli -s "$dir/sock" put key value
logged "^$stamp kvserver: debug: .*session"
stop_server
logged "^$stamp kvserver: signal 15: leaving"
grep -vEq "^$stamp kvserver: " "$dir/log" && fail "a line without time: $(cat "$dir/log")"

serve -v --log-format logfmt
expect 0 kvcli -s "$dir/sock" put key value
stop_server
logged "^time=$stamp level=info program=kvserver msg=\"signal 15: leaving, [0-9]+ connections\"\$"

serve -v --log-format json
expect 0 kvcli -s "$dir/sock" put key value
stop_server
cases=$((cases + 1))
python3 - "$dir/log" <<'PY' || fail "not so: $(cat "$dir/log")"
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) > 1 and all(list(o) == ["time", "level", "program", "msg"] for o in lines)
assert {o["level"] for o in lines} == {"info", "debug"}
assert any("leaving" in o["msg"] for o in lines)
assert all(re.fullmatch(r"[-0-9]+T[:0-9]+\.\d{3}Z", o["time"]) for o in lines)
PY
expect 64 timeout 20 "$KVSERVER" -s "$dir/sock" --log-format xml && says "log-format: 'xml' is not one of: text logfmt json"

# ---- journald: no time, but the number of the level; only if stderr is that stream
as_journal() { # FORMAT
	: >"$dir/log"
	JOURNAL_STREAM=$(stat -c %d:%i "$dir/log") python3 - "$KVSERVER" "$dir" "$1" <<'PY'
import os, sys
server, folder, form = sys.argv[1:]
log = os.open(folder + "/log", os.O_WRONLY | os.O_APPEND)
os.dup2(log, 2)
os.execv(server, [server, "-m", "8", "-s", folder + "/no/such/folder/sock", "--log-format", form])
PY
}
as_journal text
[ "$(cat "$dir/log")" = "<3>kvserver: error: $(sed 's/.*error: //' "$dir/log")" ] || fail "under journald: $(cat "$dir/log")"
as_journal json
grep -q '^<3>{"level":"error","program":"kvserver","msg":"cannot make the folder' "$dir/log" || fail "under journald: $(cat "$dir/log")"
JOURNAL_STREAM=1:1 serve
stop_server
logged "^$stamp kvserver: signal 15"

# ---- SIGHUP: options that can change, and that cannot
cat >"$dir/conf" <<'CONF'
[kvserver]
memory = 8m
verbose = 0
CONF
serve --config "$dir/conf"
kill -HUP "$server"
logged 'kvserver: SIGHUP: options read again; changed: none$'
cat >"$dir/conf" <<'CONF'
[kvserver]
memory = 9m
max-sessions = 7
verbose = 1
drain-ms = 5
log-format = logfmt
CONF
kill -HUP "$server"
logged "level=warning .*SIGHUP: changed in $dir/conf, but only a restart changes: max-sessions\""
logged 'level=info .*SIGHUP: options read again; changed: drain-ms log-format verbose"'
expect 0 kvcli -s "$dir/sock" put key value
logged 'level=debug .*session'
echo 'colour = red' >>"$dir/conf"
kill -HUP "$server"
logged "level=error .*SIGHUP: the options stay as they are: $dir/conf:7: unknown option 'colour'"
expect 0 kvcli -s "$dir/sock" get key && prints 'value\n'
printf '[kvserver]\nquiet = yes\n' >"$dir/conf"
kill -HUP "$server"
for _ in $(seq 600); do
	before=$(wc -l <"$dir/log")
	kvcli -s "$dir/sock" ping >"$dir/out"
	[ "$(wc -l <"$dir/log")" -gt "$before" ] || break
done
[ "$(wc -l <"$dir/log")" -eq "$before" ] || fail "a quiet server goes on: $(tail -n 3 "$dir/log")"
stop_server
finish
