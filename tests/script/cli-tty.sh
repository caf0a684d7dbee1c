#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvcli on a terminal: what a person types, and what it looks like.
# shellcheck disable=SC2015
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
python3 -c 'import pty; pty.openpty()' 2>/dev/null || skip "there are no terminals here"

start_server s
with=
grep -q '^#define HAVE_LIBEDIT 1' "$top_builddir/config.h" && with=edits
grep -q '^#define HAVE_NCURSES 1' "$top_builddir/config.h" && with="$with screens"
# libedit frees no names of functions that are added (EL_ADDFN), nor ncurses what it has before it
# knows the terminal.
printf 'leak:libedit\nleak:libtinfo\n' >"$dir/leaks"
LSAN_OPTIONS=suppressions=$dir/leaks:print_suppressions=0
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0
export LSAN_OPTIONS ASAN_OPTIONS
# shellcheck disable=SC2086 # words
python3 "$srcdir/tests/script/cli-tty.py" "$KVCLI" "$dir" $with || fail "a terminal: exit status $?"
cases=$((cases + 1))
finish
