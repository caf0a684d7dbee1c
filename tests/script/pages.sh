#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The man pages are well-formed.
# shellcheck disable=SC2154
command -v mandoc >/dev/null || {
	echo "SKIP: needs mandoc"
	exit 77
}
exec mandoc -T lint -W warning "$top_builddir/doc/kvserver.1" \
	"$top_builddir/doc/kvcli.1" "$top_builddir/doc/kvbench.1" "$top_builddir/doc/kvgate.1" \
	"$srcdir/doc/farkv.3"
