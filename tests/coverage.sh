#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make coverage: which lines make check runs; with a guest (see check-rdma) those
# of the RDMA transport, too. The table is in coverage.txt, with the lines that
# never ran. Fails under $least percent of common/ and of client/.
# shellcheck disable=SC2154
set -u
cd "$top_builddir" || exit 1
least=90
rdma_least=70

command -v gcovr >/dev/null || {
	printf 'SKIP: gcovr is not here\n# PASS: 0\n# SKIP: 1\n# FAIL: 0\n'
	exit 0
}
find . -name '*.gcda' -exec rm -f {} +
$MAKE check >coverage-check.log 2>&1
status=$?
grep -E '^(PASS|FAIL|SKIP|ERROR)' coverage-check.log
[ $status -eq 0 ] || cat test-suite.log

rdma_wanted=$rdma_least
guest=$srcdir/tests/guest/guest
if no_guest=$("$guest" fetch); then
	SUITE="${SUITE-test_xport test_verbs test_own_lane test_farkv test_outage}" \
		"$guest" run --timeout 900 --out "$PWD/coverage-out" -- \
		"$srcdir/tests/guest/coverage.sh" 2>&1 &&
		tar xf coverage-out/counts.tar || status=1
else
	echo "${no_guest:-SKIP: no guest}; the RDMA transport is not counted"
	rdma_wanted=0
fi

gcovr --root "$srcdir" --object-directory . --json coverage.json \
	--filter "$srcdir/common/" --filter "$srcdir/client/" \
	--filter "$srcdir/server/" --filter "$srcdir/bench/" . || status=1
python3 "$srcdir/tests/coverage.py" coverage.json common=$least client=$least \
	rdma=$rdma_wanted >coverage.txt || status=1
grep -E '^(PASS|FAIL)' coverage.txt
exit $status
