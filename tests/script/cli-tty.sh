#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli on a terminal: what a person types, and what it looks like.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
python3 -c 'import pty; pty.openpty()' 2>/dev/null || skip "there are no terminals here"

start_server s
edits=plain
grep -q '^#define HAVE_LIBEDIT 1' "$top_builddir/config.h" && edits=edits
python3 "$srcdir/tests/script/cli-tty.py" "$KVCLI" "$dir" $edits || fail "a terminal: exit status $?"
cases=$((cases + 1))
finish
