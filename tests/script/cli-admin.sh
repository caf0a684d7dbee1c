#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sessions and ending one, memory by size; figures that go on; watch.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3 ps

start_server s -m 64m

# A client that stays, a line at a time.
mkfifo "$dir/to" "$dir/from"
"$KVCLI" <"$dir/to" >"$dir/from" 2>"$dir/err.stay" &
stay=$!
servers="$servers $stay"
exec 7>"$dir/to" 8<"$dir/from"
ask() { # LINE ANSWER
	echo "$1" >&7
	read -r said <&8
	[ "$said" = "$2" ] || fail "$1: $said, expected $2: $(cat "$dir/err.stay")"
}
ask 'incr n --initial 1' 1
ask 'incr n' 2
ask 'get n' 2

is() { # PYTHON-EXPRESSION about o, the objects of $dir/out
	python3 -c 'import json, sys
o = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not eval(sys.argv[2]))' "$dir/out" "$1" || fail "not so: $1: $(cat "$dir/out")"
}

# ---- clients
expect 0 kvcli --json clients && silent
is 'len(o) == 2 and [c["self"] for c in o] == [False, True] and o[0]["id"] < o[1]["id"]'
is 'all(c["name"] == "kvcli" and c["age_ms"] < 10**7 for c in o)'
is '[c["role"] for c in o] == ["rw", "ro"]'
is 'o[0]["sets"] == 2 and o[0]["hits"] >= 1 or o[0]["kind"] == "rdma"'
remote || is "o[0]['pid'] == $stay and o[0]['peer'] == 'pid $stay' and o[0]['kind'] == 'shm'"
! remote || is 'all(c["kind"] == "rdma" and ":" in c["peer"] for c in o)'
id=$(python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["id"])' "$dir/out")
expect 0 kvcli clients && shows '^ID +KIND +ROLE +PEER' && shows "^$id +(shm|rdma) +rw " && shows 'kvcli \(this one\)$'
expect 0 kvcli --csv clients && shows '^id,kind,role,peer' && shows "^$id,(shm|rdma),rw,\"[^\"]*\",[0-9]+\.[0-9]{3},"

# ---- kill: the session ends, and its client is told
expect 64 kvcli kill one && says "kill: 'one' is no session"
expect 1 kvcli kill 1 && says 'there is no other session 1; kvcli clients lists them'
expect 0 kvcli kill "$id" && silent && prints ''
expect 1 kvcli kill "$id" && says "no other session $id"
echo 'incr n' >&7
exec 7>&-
wait "$stay"
[ $? -eq 69 ] && grep -q '^kvcli: line 4: incr: n: .*ended by session [0-9]* (kvcli kill)$' "$dir/err.stay" ||
	fail "the client that was ended: $(cat "$dir/err.stay")"
exec 8<&-
# One that ends itself does not.
printf 'put a 1\nclients --json\n' | kvcli >"$dir/out"
self=$(python3 -c 'import json, sys
print([c["id"] for c in map(json.loads, open(sys.argv[1])) if c["self"]][0])' "$dir/out")
[ "$self" -gt "$id" ] || fail "the number of a session: $self"

# The rest is the same on any transport.
! remote || finish

# ---- memory
expect 0 kvcli --json memory && is 'len(o) >= 1 and all(c["out"] + c["free"] > 0 for c in o)'
is '[c["block_bytes"] for c in o] == sorted({c["block_bytes"] for c in o})'
head -c 100000 /dev/zero | expect 0 kvcli put large -
expect 0 kvcli --json memory && is 'o[-1]["block_bytes"] > 100000 and o[-1]["out"] >= 1'
expect 0 kvcli memory && shows '^BLOCK +OUT' && shows 'in use: .* index'
expect 0 kvcli --csv memory && shows '^block_bytes,out,free,deferred,exhausted$' && shows '^[0-9]+,[0-9]+,[0-9]+,0,0$'

# ---- pauses
expect 0 kvcli slowlog && shows '^RANK +PAUSE .us. +AGO .s. +WHAT' && shows '^ +1 +[0-9.]+ +[0-9.]+ +(message|growth|count|timers|returns)'
expect 0 kvcli --json slowlog && is '[x["rank"] for x in o] == list(range(1, len(o) + 1)) and len(o) <= 32'
is '[x["pause_ns"] for x in o] == sorted((x["pause_ns"] for x in o), reverse=True)'
expect 0 kvcli --csv slowlog && shows '^server,rank,pause_us,ago_s,what$' && shows '^,1,[0-9.]+,[0-9.]+,[a-z]+$'

# ---- rates
expect 0 kvcli --stat -r 2 -i 1ms --json && silent
is 'len(o) == 2 and all(x["sessions"] == 1 and x["items"] == o[0]["items"] > 0 for x in o)'
is 'all(0 <= x["hit_percent"] <= 100 and x["used_bytes"] > 100000 for x in o)'
is 'all(type(x["items"]) == type(x["gets_per_second"]) == int for x in o)'
expect 0 kvcli --stat -r 3 -i 1ms --csv && [ "$(wc -l <"$dir/out")" -eq 4 ] && shows '^items,used_bytes,' ||
	fail "--stat --csv: $(cat "$dir/out")"
expect 0 kvcli --stat -r 1 -i 0 && shows '^ +KEYS +MEMORY +SESSIONS +GETS/S'
expect 64 kvcli --stat get n && says "^kvcli: --stat stands in place of a command: leave 'get' out"
expect 64 kvcli --bigkeys --latency && says '^kvcli: give --latency or --bigkeys, not both$'
echo '--stat get n' | expect 64 kvcli && says "line 1: --stat stands in place of a command: leave 'get' out"
expect 64 kvcli --stat -i soon && says "'soon' is no time"
echo '--stat -r 2 -i 1ms --csv' | kvcli >"$dir/out" && [ "$(wc -l <"$dir/out")" -eq 3 ] || fail "--stat in a line"
expect 64 kvcli top && says '^kvcli: top: it needs a terminal; take --stat$'

# ---- latency
ordered='all(0 < x["samples"] and x["min_us"] <= x["median_us"] <= x["p99_us"] <= x["max_us"] for x in o)'
expect 0 kvcli --latency -i 1ms --json && is '[x["what"] for x in o] == ["get", "ping"]' && is "$ordered"
expect 0 kvcli --latency-history -r 2 -i 1ms --json && is 'len(o) == 4' && is "$ordered"
expect 0 kvcli --latency -i 1ms && shows '^get +min [0-9.]+ us, median'
expect 0 kvcli --latency -i 1ms --csv && shows '^ping,[0-9.]+,' && shows '^what,min_us'
FARKV_URI=shm:///none expect 0 kvcli --intrinsic-latency 1 --json && is "len(o) == 1 and o[0]['what'] == 'gap' and $ordered"
expect 0 kvcli exists n && expect 1 kvcli exists 'kvcli --latency'

# ---- the largest values
for size in 10 2000 300 40000; do
	head -c $size /dev/zero | kvcli put "size$size" - || fail "put of $size bytes"
done
expect 0 kvcli --bigkeys -c 3 --csv && prints 'key,length\n"large",100000\n"size40000",40000\n"size2000",2000\n'
expect 0 kvcli --bigkeys -c 2 --json && is '[x["length"] for x in o] == [100000, 40000]'
expect 0 kvcli --bigkeys && shows '^97.7 KiB +"large"$' && shows '^7 keys, ' && shows '^below 512 B +1 keys +300 B'
expect 64 kvcli --bigkeys -c 5000 && says 'count is at most 1000'

# ---- watch
alive() { # a program that has ended is there until it is waited for
	case $(ps -o stat= -p "$watcher") in '' | Z*) return 1 ;; esac
}
looks() { # until the watcher has read the key once
	until kvcli --json clients >"$dir/out" && python3 -c 'import json, sys
o = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not any(c["role"] == "ro" and c["hits"] + c["misses"] > 0 for c in o))' "$dir/out"; do
		alive || return
	done
}
if ! remote; then
	kvcli put w one
	"$KVCLI" watch w >"$dir/seen" 2>&1 &
	watcher=$!
	looks
	kvcli put w two
	wait "$watcher" || fail "watch: exit status $?"
	[ "$(cat "$dir/seen")" = two ] || fail "watch: $(cat "$dir/seen")"
	"$KVCLI" --json -r 2 watch new >"$dir/seen" 2>&1 &
	watcher=$!
	looks
	kvcli put new 1
	until [ -s "$dir/seen" ]; do alive || break; done
	kvcli del new
	wait "$watcher"
	code=$?
	[ $code -eq 1 ] || fail "watch: exit status $code"
	cp "$dir/seen" "$dir/out"
	is '[x["result"] for x in o] == ["ok", "not_found"] and o[0]["value"] == "1"'
	# Ctrl-C ends it.
	env --default-signal=INT "$KVCLI" watch w >"$dir/seen" 2>&1 &
	watcher=$!
	looks
	kill -INT "$watcher"
	wait "$watcher"
	code=$?
	[ $code -eq 130 ] || fail "watch at SIGINT: exit status $code"
fi
expect 64 kvcli watch
finish
