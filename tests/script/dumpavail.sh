#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Real input: packages that apt knows, some 20,000, loaded, read back and compared byte
# for byte; then overwritten twice by two clients at once, and once more.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3

command -v apt-cache >/dev/null || skip "no apt-cache here"
apt-cache dumpavail 2>/dev/null | head -c 16m >"$dir/stanzas"
[ -s "$dir/stanzas" ] || skip "apt-cache dumpavail prints nothing; run apt-get update"
count=$(python3 "$srcdir/tests/script/dumpavail.py" "$dir" <"$dir/stanzas")
start_server s -m 1g

expect 0 kvcli load "$dir/all.cdb"
cat "$dir/err"
grep -q "^loaded $count records" "$dir/err" || fail "not all of $count records were loaded"
expect 0 kvcli --json stats && shows "\"items\":$count,"
expect 0 kvcli dump "$dir/all.cdb"
same "$dir/all.cdb" "$dir/out"

kvcli -q load "$dir/a.cdb" &
other=$!
expect 0 kvcli -q load "$dir/b.cdb"
wait $other || fail "the other client"
expect 0 kvcli dump "$dir/all.cdb"
# Both clients wrote every key twice: each value is the second of one of them,
# "a2 ..." or "b2 ...", and otherwise the stanza.
python3 - "$dir/all.cdb" "$dir/out" <<'PY' || fail "a value is nobody's last"
import re, sys


def records(path):
    data, at, found = open(path, "rb").read(), 0, {}
    while data[at:at + 1] == b"+":
        m = re.compile(rb"\+(\d+),(\d+):").match(data, at)
        k, v = int(m[1]), int(m[2])
        key = data[m.end():m.end() + k]
        found[key] = data[m.end() + k + 2:m.end() + k + 2 + v]
        at = m.end() + k + 2 + v + 1
    return found


want, got = records(sys.argv[1]), records(sys.argv[2])
writers = {b"a": 0, b"b": 0}
for key, value in got.items():
    if value[:3] not in (b"a2 ", b"b2 ") or value[3:] != want[key]:
        sys.exit("%r: %r" % (key, value[:40]))
    writers[value[:1]] += 1
print("last writer:", writers)
sys.exit(got.keys() != want.keys())
PY
expect 0 kvcli -q load "$dir/all.cdb"
expect 0 kvcli dump "$dir/all.cdb"
same "$dir/all.cdb" "$dir/out"

finish
