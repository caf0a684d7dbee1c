#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Prometheus's own judgement of /metrics, the alerts, and the expressions of the dashboard.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3 promtool

start_server s -m 64m --metrics 0
expect 0 kvcli put key value
at=$(sed -n 's,.* metrics at http://\([^/]*\)/metrics.*,\1,p' "$dir/s.log")
expect 0 python3 "$srcdir/tests/script/metrics.py" "$at" get /metrics
cp "$dir/out" "$dir/metrics"
expect 0 promtool check metrics <"$dir/metrics" && silent
expect 0 promtool check rules "$srcdir/contrib/prometheus/farkv.rules.yml" && shows 'SUCCESS: [1-9][0-9]* rules found'

# shellcheck disable=SC2086 # words of a compiler
if command -v "${CC%% *}" >/dev/null && [ "${SANITIZED:-no}" = no ]; then
	expect 0 $CC -I"$srcdir/include" "$srcdir/examples/metrics.c" -o "$dir/program" \
		-L"$top_builddir/client/.libs" -lfarkv
	expect 0 "$dir/program" "$dir/client.prom"
	expect 0 promtool check metrics <"$dir/client.prom" && silent
fi

# The dashboard's expressions as rules.
expect 0 python3 "$srcdir/tests/script/metrics.py" : dashboard "$srcdir/contrib/grafana/farkv.json"
{
	printf 'groups:\n- name: dashboard\n  rules:\n'
	n=0
	while read -r line; do
		n=$((n + 1))
		printf "  - record: r%d\n    expr: '%s'\n" "$n" "$line"
	done <"$dir/out"
} >"$dir/dashboard.yml"
expect 0 promtool check rules "$dir/dashboard.yml" && shows 'SUCCESS: [1-9][0-9]+ rules found'
finish
