#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client written from the documents alone works.
# shellcheck disable=SC2154
command -v python3 >/dev/null || {
	echo "SKIP: needs python3"
	exit 77
}
exec python3 "$srcdir/tests/script/outsider.py"
