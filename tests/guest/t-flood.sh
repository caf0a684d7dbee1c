#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients that exhaust a server, by RDMA: others are served meanwhile, and the
# server's memory for their messages is bounded.
#
# SIEGE_SECONDS: how long each attack goes on (default: 5). SIEGE_SERVER: another kvserver
# to attack, for figures.
# shellcheck disable=SC2154
# shellcheck source=tests/guest/lib.sh
. "$srcdir/tests/guest/lib.sh"

: "${SIEGE_SECONDS:=5}"
siege=$top_builddir/tests/lab/siege
[ -x "$siege" ] || skip_all "tests/lab/siege is not built"
CK_TIMEOUT_MULTIPLIER=12
export CK_TIMEOUT_MULTIPLIER

testcase "floods of requests, hoarders, attackers -> good clients are served, nothing stays"
if [ ! -x "$top_builddir/tests/lab/flood" ]; then
	skip "tests/lab/flood is not built; it needs libcheck"
else
	FARKV_TEST_TRANSPORT=rdma timeout -k 5 900 "$(unwrap "$top_builddir/tests/lab/flood")" \
		>"$dir/log" 2>&1
	status=$?
	grep '^  ' "$dir/log" | sed 's/^/  /'
	judge_exit $status
fi

# Of a line of siege: what the server's memory grew by, in MiB.
grew() {
	awk -v when="$1:" '$1 == when && /at most/ {
		sub(/.*own memory /, ""); print int($5 - $1) }' "$dir/siege.log"
}

for attack in in-use keys pings; do
	testcase "eight attackers, $attack: a ping is answered, memory is bounded"
	KVSERVER=${SIEGE_SERVER-$KVSERVER}
	serve "$attack" -m 256m --transport rdma --no-auth --listen :0 || continue
	timeout $((SIEGE_SECONDS + 600)) "$(unwrap "$siege")" "$(uri_of "$attack" kv)" \
		"$server" "$attack" 8 "$SIEGE_SECONDS" >"$dir/siege.log" 2>&1 ||
		fail "siege: status $?"
	sed 's/^/    /' "$dir/siege.log"
	more=$(grew "$attack")
	# 64 MiB of messages, and the growth of the region when blocks are used.
	[ "${more:-999}" -lt 128 ] || fail "memory grew by ${more:-?} MiB"
	expect 0 kvcli -u "$(uri_of "$attack" kv)" -t 60000 put key value
	stop "$server" || fail "kvserver ended with status $?: $(tail -n 5 "$dir/$attack.log")"
	resources_are_back
done
no_kernel_complaint
finish
