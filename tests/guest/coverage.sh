#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest: the suites of t-suite.sh; then the counts of the lines that ran, which
# begin with those of the host, go to $GUEST_OUT as an archive.
# shellcheck disable=SC2154
set -u
touch /run/begun
"$srcdir/tests/guest/suite.sh" --here t-suite
cd "$top_builddir" || exit 1
find . -name '*.gcda' -newer /run/begun >/run/counts
tar cf "$GUEST_OUT/counts.tar" -T /run/counts
