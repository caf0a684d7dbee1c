#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The man pages agree with farkv.h, refer to pages that exist, are in a package, and are well-formed.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
python3 "$srcdir/tests/script/pages.py" "$srcdir" "$top_builddir" || exit 1
needs mandoc
for page in "$top_builddir"/doc/*.[1-8] "$srcdir"/doc/*.[1-8]; do
	expect 0 mandoc -T lint -W warning "$page" || cat "$dir/out"
done
finish
