#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Python package: its types by mypy, its tests by pytest.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
case $PYTHON_SUMMARY in
no:*) skip "the package is not built: ${PYTHON_SUMMARY#no: }" ;;
esac
"$PYTHON" -c 'import pytest' 2>/dev/null || skip "$PYTHON has no pytest"

# The package as it is installed: the modules of the tree, and the built one.
mkdir -p "$dir/site/farkv"
cp "$srcdir"/python/farkv/* "$dir/site/farkv" 2>/dev/null
cp "$top_builddir/python/.libs/_farkv.so" "$dir/site/farkv" || fail "no module was built"
PYTHONPATH=$dir/site PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE

if [ "${FARKV_TEST_TRANSPORT-}" = rdma ]; then
	: # the types were checked where the machine is not an emulated one
elif command -v mypy >/dev/null; then
	cases=$((cases + 1))
	(cd "$dir/site" && mypy --strict --cache-dir "$dir/mypy" -p farkv) >"$dir/out" ||
		fail "mypy: $(cat "$dir/out")"
else
	echo "not tested: the types, which need mypy"
fi
cases=$((cases + 1))
# Tests that wait for what does not come shall not wait for ever.
# shellcheck disable=SC2086 # words
timeout -k 5 900 "$PYTHON" -m pytest -q -p no:cacheprovider -W error --basetemp "$dir/tmp" ${PYTEST_ARGS-} \
	"$srcdir/tests/python" || fail "pytest"
finish
