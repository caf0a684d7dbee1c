#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Mistakes that users make: each ends at once, with a status of its own and a last line that
# says what was wrong and what to do.
# shellcheck source=tests/script/lib.sh disable=SC2016,SC2154
. "$srcdir/tests/script/lib.sh"

folder=$srcdir/bench/workloads
long=$(printf 'a%.0s' $(seq 200))
KVGATE=$(unwrap "$KVGATE")
export folder long KVGATE
start_server main -m 64m
echo 'no snapshot' >"$dir/text"
echo 'no snapshot' | gzip >"$dir/text.gz"

# STATUS | COMMAND | REGEX of the last line on stderr
while IFS='|' read -r status command regex; do
	eval "expect $status timeout 20 $(echo "$command" | sed 's/^kv\([a-z]*\)/"$KV\U\1"/')" </dev/null
	tail -n 1 "$dir/err" | grep -Eq -- "$regex" ||
		fail "$command: no '$regex' in: $(tail -n 1 "$dir/err")"
	[ "$(wc -c <"$dir/err")" -lt 1000 ] || fail "$command: says too much"
done <<'END'
64|kvserver -m lots|'lots' is not a size \(examples: 512k, 64m, 2g\)
64|kvserver -m 1k|1k is not within 1.0 MiB and
64|kvserver --memory 1g extra|'extra' is no option
64|kvserver --colour|unknown or ambiguous option --colour
64|kvserver --socket|missing argument of option --socket
64|kvserver --socket $long|path is longer than 107 bytes
64|kvserver --when-full=maybe|not one of: refuse evict
64|kvserver --save-every 10m|there is no file; give --save FILE
64|kvserver --max-item-size 100g|100g is not within 1 B and 512.0 MiB
64|kvserver --transport tcp|not one of: auto shm rdma both
64|kvserver --grace-ms -5|'-5' is not a whole number
64|kvserver --node-name a|--cluster-map FILE .*and --node-name NAME belong together
64|kvserver --replace|no region to take over; give --memory-file PATH
64|kvserver --verify-file $dir/text -M $dir/store|leave --memory-file out
78|kvserver --keys $dir/none|cannot open the key file .*/none
78|kvserver --cluster-map $dir/none --node-name a|cannot open the map .*/none
1|kvserver --socket $dir/main|already serves .*; stop it or choose another --socket
64|kvcli git a|unknown command 'git': did you mean get
64|kvcli delete a|did you mean del
64|kvcli get|usage: kvcli get KEY
64|kvcli get a b|too many arguments; usage: kvcli get KEY
1|kvcli get a|no value is stored under the key
64|kvcli put a|usage: kvcli put KEY VALUE
64|kvcli put "" v|the key is empty; keys have 1 to
64|kvcli put k v --ttl soon|'soon' is no time; give a number of seconds, or as in 500ms
64|kvcli put k v --ttl -1s|'-1s' is no time
64|kvcli incr k x|'x' is no number from 0 to
64|kvcli -u http://x get a|unknown scheme .*; write shm:///path/to/socket
69|kvcli -u shm:///nowhere get a|is kvserver running\? start it with: kvserver --socket /nowhere
64|kvcli --timeout-ms fast get a|'fast' is not a whole number
64|kvcli restore /nowhere|cannot open /nowhere
1|kvcli fsck --file $dir/text|no snapshot of kvcli save
64|kvcli restore $dir/text.gz|this is a gzip file; decompress it first: zcat .*/text.gz
1|kvcli kill 99|no other session 99; kvcli clients lists them
64|kvcli kill all|take the ID that clients prints
64|kvcli keys --match|missing argument of option --match
64|kvcli cas k v 1|'v' is no version; take the number that gets prints
64|kvcli --csv --json get a|give --csv or --json, not both
64|kvcli -i 1 get a|--interval needs --repeat
64|kvcli cluster init|usage: kvcli cluster init --servers
64|kvbench runn|unknown command 'runn': did you mean run
64|kvbench run|recordcount: not set or 0: give the number of records
78|kvbench run farkv -P workloadz|no property file workloadz here, nor in
64|kvbench run redsi -P $folder/workloada|redsi
64|kvbench run farkv -P $folder/workloade|a hash table does not have; workload E cannot run here
78|kvbench replay /nowhere|cannot open the trace /nowhere
69|kvbench limit -u shm:///nowhere|is kvserver running
64|kvgate|give --resp ADDRESS, --memcached ADDRESS or both
64|kvgate --resp nowhere:x|'nowhere:x' is no address: give PORT, HOST:PORT
64|kvgate --memcached 127.0.0.1:99999|no address: give PORT
1|kvgate -u shm:///nowhere --resp $dir/g|is kvserver running
END
[ "$cases" -ge 40 ] || fail "$cases mistakes"
finish
