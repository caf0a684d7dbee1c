#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvbench compare: each installed store has a line of figures, the others are named, and
# no process or file remains, however it ends.
# shellcheck disable=SC2009,SC2015,SC2016,SC2086,SC2317
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs ps

unset FARKV_URI
mkdir "$dir/tmp"
export TMPDIR="$dir/tmp"
small="-p recordcount=2000 -p operationcount=3000 -p maxexecutiontime=0 -p rounds=2"
ours="-p compare.kvserver=$KVSERVER"

# No server of ours runs, no file of theirs is there.
is_clean() {
	cases=$((cases + 1))
	tries=0
	while ps -e -o args= | grep -F "$TMPDIR/kvbench." | grep -Fv grep >"$dir/left"; do
		# A process that was killed together with its parent needs a moment.
		tries=$((tries + 1))
		[ $tries -lt 100 ] || break
		sleep 0.1
	done
	[ ! -s "$dir/left" ] || fail "still there: $(cat "$dir/left")"
	[ "${1-}" = files ] || [ -z "$(ls "$TMPDIR")" ] || fail "files remain: $(ls -R "$TMPDIR")"
	rm -rf "${TMPDIR:?}"/*
}
# row STORE: its ratio and percentiles are plausible.
row() {
	cases=$((cases + 1))
	awk -v store="$1" '$1 == store && $2 > 100 && $3 > 0 && $4 > 0 && $4 <= $5 &&
		$6 > 0 && $6 <= $7 { n++ } END { exit n != 1 }' "$dir/out" ||
		fail "no good line of $1: $(cat "$dir/out")"
}
has() { # STORE PROGRAM: 0 if it is built in and installed
	grep -q "^left out: $1: this kvbench was built without it\$" "$dir/all" && return 1
	[ "$2" = - ] || command -v "$2" >/dev/null
}

expect 0 kvbench compare $small $ours
cp "$dir/out" "$dir/all"
is_clean
shows '^2000 records of 100 bytes, zipfian.*; 95 % read, 5 % update, 1 client, medians of 2 rounds$'
row farkv
shows '^farkv +[0-9]+ +1\.000 '
for store in memcached:memcached redis:redis-server lmdb:- libcuckoo:-; do
	name=${store%:*}
	if has "$name" "${store#*:}"; then
		row "$name"
	else
		shows "^left out: $name: "
	fi
done
if [ "$(nproc)" -ge 2 ]; then
	shows '^farkv .*  client and server on a cpu each$'
	! grep -q '^memcached' "$dir/out" ||
		shows '^memcached .*  (client and server on (a cpu each|one cpu)|not pinned)$'
	! grep -q '^lmdb' "$dir/out" || shows '^lmdb .*  client on one cpu$'
fi

# Several clients are not pinned; batches; a list of one's own.
expect 0 kvbench compare farkv,memcached $small $ours -threads 2 -p batch=8
is_clean
row farkv
shows '^2000 records .* batches of 8, 2 clients'
shows '^farkv .*  not pinned$'
! grep -Eq '^(lmdb|left out: lmdb)' "$dir/out" || fail "lmdb was not asked for"

# Without servers: a $PATH with the tools of libtool's scripts only.
mkdir "$dir/bin"
for tool in sh sed ls cat dirname basename expr rm mv mkdir uname grep; do
	ln -s "$(command -v $tool)" "$dir/bin/$tool"
done
bare() {
	PATH=$dir/bin "$KVBENCH" "$@"
}
expect 0 bare compare $small $ours
is_clean
row farkv
shows '^left out: memcached: there is no memcached in \$PATH$'
! has redis - || shows '^left out: redis: there is no redis-server in \$PATH$'
expect 1 bare compare $small
grep -q 'error: farkv: there is no kvserver in \$PATH$' "$dir/err" || fail "no kvserver: $(cat "$dir/err")"
prints ''
is_clean
expect 78 bare compare $small $ours --plot "$dir/x.svg"
grep -q 'error: plot: there is no gnuplot in \$PATH' "$dir/err" || fail "no gnuplot: $(cat "$dir/err")"
[ ! -e "$dir/x.svg" ] || fail "a picture without gnuplot"
is_clean
printf '#!/bin/sh\necho "one line"\necho "no room today" >&2\nexit 3\n' >"$dir/bin/memcached"
chmod +x "$dir/bin/memcached"
expect 0 bare compare $small $ours
shows '^left out: memcached: memcached ended at once: no room today$'
is_clean

# The picture shows all stores that took part.
if command -v gnuplot >/dev/null; then
	expect 0 kvbench compare $small $ours --plot "$dir/all.svg"
	is_clean
	grep -q '<svg' "$dir/all.svg" && grep -q 'farkv' "$dir/all.svg" || fail "the picture"
	! grep -q '^memcached' "$dir/all" || grep -q memcached "$dir/all.svg" || fail "no memcached in the picture"
fi

# A running store keeps its records; addresses of others are properties.
start_server s -m 256m
expect 0 kvbench compare farkv,lmdb $small --socket "$dir/s" -p keyprefix=mine
is_clean
row farkv
expect 0 kvcli -u "$FARKV_URI" exists mine000000000000
expect 69 kvbench compare $small --socket "$dir/none"
is_clean
unset FARKV_URI
if has redis -; then
	expect 69 kvbench compare farkv,redis $small $ours -p redis.uri="$dir/nobody"
	grep -q "redis: cannot connect to $dir/nobody: " "$dir/err" || fail "redis: $(cat "$dir/err")"
	is_clean
fi
expect 69 kvbench run memcached -P "$srcdir/bench/workloads/workloada" -p memcached.uri="$dir/nobody"
grep -q "memcached: cannot connect to $dir/nobody: " "$dir/err" || fail "memcached: $(cat "$dir/err")"
for uri in '' :1 host: host:0 host:65536 host:1x '[::1' ' /x'; do
	expect 64 kvbench run memcached -P "$srcdir/bench/workloads/workloada" -p memcached.uri="$uri"
done
expect 64 kvbench compare farkv,mongo $small $ours
grep -q "error: db: 'mongo' is unknown" "$dir/err" || fail "mongo: $(cat "$dir/err")"
is_clean
expect 64 kvbench compare $small $ours -p loadfirst=false
is_clean
for list in farkv,cuck "farkv," lmdb,farkv,mem; do
	expect 64 kvbench compare "$list" $small $ours
	grep -q "error: db: '[a-z]*' is unknown" "$dir/err" || fail "$list: $(cat "$dir/err")"
	is_clean
done
expect 64 kvbench compare farkv,null,farkv $small $ours
grep -q "error: db: farkv is there twice" "$dir/err" || fail "twice: $(cat "$dir/err")"
is_clean
expect 64 kvbench compare farkv $small $ours -p recordcount=4611686018427387903
grep -q "recordcount: needs more memory" "$dir/err" || fail "recordcount: $(cat "$dir/err")"
is_clean
# Clients of several processes are several clients.
expect 0 kvbench compare farkv,null $small $ours -p processes=2
shows '^2000 records .* 2 clients'
shows '^farkv .*  not pinned$'
# A folder's name is the servers', too, wherever they go.
mkdir "$dir/near"
(cd "$dir" && TMPDIR=near "$KVBENCH" compare farkv,memcached $small $ours >"$dir/out" 2>"$dir/err") ||
	fail "a relative TMPDIR: $(cat "$dir/err")"
row farkv
[ -z "$(ls "$dir/near")" ] || fail "files remain: $(ls "$dir/near")"
TMPDIR=$dir/nowhere expect 1 "$KVBENCH" compare farkv $small $ours
grep -q "error: TMPDIR: $dir/nowhere: " "$dir/err" || fail "no TMPDIR: $(cat "$dir/err")"

# A round that a signal ended does not count.
for try in 1 2 3 4 5 6; do
	$INT "$KVBENCH" run null,null -P "$srcdir/bench/workloads/workloadc" -p recordcount=1000 \
		-p operationcount=1000000 -p rounds=1000 >"$dir/out" 2>"$dir/err" &
	pid=$!
	sleep 0.6
	kill -INT $pid
	wait $pid
	[ $? -eq 130 ] || fail "interrupted, try $try: not 130"
	cases=$((cases + 1))
	if grep -q '^\[ROUNDS\]' "$dir/out"; then
		! grep -Eq '^\[(ROUNDS|MEDIAN|RATIO)\].*, 0(\.0*)?$' "$dir/out" ||
			fail "a store has done nothing: $(grep -E '^\[(MEDIAN|RATIO)' "$dir/out")"
	else
		grep -q 'error: interrupted before a round was over$' "$dir/err" || fail "no round: $(cat "$dir/err")"
	fi
done

# 20000 operations on values of a megabyte, for each of three placements, take half a minute.
# Half of the 40 that count are writes: with workload b's 5 % there may be none.
if has redis redis-server && [ "$(nproc)" -ge 2 ]; then
	begun=$(date +%s)
	expect 0 kvbench compare farkv,redis $ours -p recordcount=10 -p operationcount=40 \
		-p readproportion=0.5 -p updateproportion=0.5 \
		-p maxexecutiontime=0 -p rounds=1 -p fieldlength=1000000
	took=$(($(date +%s) - begun))
	# Without an end 60000 of them; half as long is long enough.
	most=$(awk '$1 == "redis" && $2 > 0 { print int(30000 / $2) }' "$dir/out")
	[ "${most:-0}" -gt 15 ] || most=15
	[ $took -lt $most ] || fail "to choose a placement took $took s"
	row redis
	is_clean
fi

# Signals: the first ends the comparison, and all that it started.
for signal in TERM KILL; do
	mkfifo "$dir/err.$signal"
	"$KVBENCH" compare $ours -p recordcount=2000 -p operationcount=0 -p maxexecutiontime=600 \
		-p status.interval=1 -s >"$dir/out" 2>"$dir/err.$signal" &
	pid=$!
	exec 7<"$dir/err.$signal"
	while read -r line; do
		case $line in *"current ops/sec"*) break ;; esac
	done <&7
	ps -e -o args= | grep -F "$TMPDIR/kvbench." | grep -Fvq grep || fail "no server runs meanwhile"
	kill -$signal $pid
	cat <&7 >"$dir/rest"
	wait $pid
	got=$?
	exec 7<&-
	if [ $signal = TERM ]; then
		[ $got -eq 143 ] || fail "exit status $got after SIGTERM"
		is_clean
	else
		is_clean files
	fi
done

finish
