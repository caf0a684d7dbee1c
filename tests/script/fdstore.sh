#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kvserver's store in systemd's file-descriptor store, and the socket of a socket unit: fdstore.py
# plays systemd.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
remote && skip "about clients of this host"

cases=$((cases + 1))
mkdir "$dir/folder"
timeout 120 python3 "$srcdir/tests/script/fdstore.py" "$KVSERVER" "$KVCLI" "$dir/folder" ||
	fail "fdstore.py: status $?"
finish
