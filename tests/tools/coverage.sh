#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make coverage: which lines the tests run, in a build of --enable-coverage: make check-code,
# then those of make check-rdma that $RDMA_TESTS names, by default the ones that reach
# most of the RDMA transport. If these cannot run the transport is left out, with a
# message. The table is in coverage.txt, with the lines that never ran. Fails if a test
# does, and under $least percent of common/, of client/ or of gate/.
# shellcheck disable=SC2086,SC2116,SC2154
set -u
cd "$top_builddir" || exit 1
least=90
srcdir=$(cd "$srcdir" && pwd -P) # as gcovr writes it: it is part of filters
: "${RDMA_TESTS:=t-suite t-roles t-refused}"
# Counting takes time.
: "${CK_TIMEOUT_MULTIPLIER:=4}"
export CK_TIMEOUT_MULTIPLIER

for tool in gcovr python3; do
	command -v $tool >/dev/null || {
		printf 'SKIP: %s is not here\n# PASS: 0\n# SKIP: 1\n# FAIL: 0\n' $tool
		exit 0
	}
done

# verdicts FILE: its lines of cases.
verdicts() {
	grep -E '^(PASS|FAIL|SKIP|ERROR): ' "$1"
}

# sum WORD: its cases in all logs.
sum() {
	cat coverage-check.log coverage-rdma.log coverage.txt | grep -Ec "^($1): "
}

# One after the other, or two makes would write the same files.
$MAKE all >coverage-check.log 2>&1 &&
	$MAKE check TESTS= >>coverage-check.log 2>&1 || {
	cat coverage-check.log
	exit 1
}
find . -name '*.gcda' -exec rm -f {} +

status=0
$MAKE check-code >coverage-check.log 2>&1 || {
	status=1
	cat test-suite.log
}
verdicts coverage-check.log
$MAKE check-rdma RDMA_TESTS="$RDMA_TESTS" >coverage-rdma.log 2>&1 || {
	status=1
	cat coverage-rdma.log
}
verdicts coverage-rdma.log
rdma=with-rdma
grep -q '^PASS: ' coverage-rdma.log || rdma=without-rdma

gcovr --root "$srcdir" --object-directory . --json coverage.json \
	--filter "$srcdir/common/" --filter "$srcdir/client/" \
	--filter "$srcdir/gate/" --filter "$srcdir/server/" --filter "$srcdir/bench/" . || status=1
python3 "$srcdir/tests/tools/coverage.py" coverage.json $rdma common=$least \
	client=$least gate=$least >coverage.txt || status=1
verdicts coverage.txt
printf '# PASS: %s\n# SKIP: %s\n# FAIL: %s\n' "$(sum PASS)" "$(sum SKIP)" \
	"$(sum 'FAIL|ERROR')"
exit $status
