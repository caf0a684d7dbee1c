#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvbench --html in a browser: titles, charts, each curve and bar in its colour, in light and
# dark, and on paper.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3 chromium

# browse PAGE OPTION...: without a profile of the user's; root needs --no-sandbox.
browse() {
	page=$1
	shift
	expect 0 env HOME="$dir" timeout 120 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
		--hide-scrollbars --force-color-profile=srgb --user-data-dir="$dir/profile" --window-size=1000,1700 \
		"$@" "file://$dir/$page"
}
judge() { # WORD...
	cases=$((cases + 1))
	python3 "$srcdir/tests/script/bench_html.py" "$@" || fail "$*"
}

start_server s -m 64m
expect 0 kvbench load farkv -P "$srcdir/bench/workloads/workloada" -p recordcount=2000
expect 0 kvbench run farkv -P "$srcdir/bench/workloads/workloada" -p recordcount=2000 -p operationcount=200000 \
	-p timeline.interval=50 --html "$dir/run.html"
# Without a target, at which the curves of both would be one.
expect 0 kvbench run farkv,null -P "$srcdir/bench/workloads/workloada" -p recordcount=2000 \
	-p operationcount=1000000000 -p maxexecutiontime=1 -p timeline.interval=100 -p rounds=2 \
	--html "$dir/both.html"
stop_server

browse run.html --screenshot="$dir/light.png"
judge look "$dir/run.html" "$dir/light.png" light
browse both.html --screenshot="$dir/dark.png" --blink-settings=preferredColorScheme=0
judge look "$dir/both.html" "$dir/dark.png" dark
browse both.html --print-to-pdf="$dir/page.pdf" --no-pdf-header-footer
pages=$(grep -ac '/Type /Page$' "$dir/page.pdf")
[ "${pages:-0}" -ge 1 ] || fail "no paper: $(tail -n 3 "$dir/err")"
finish
