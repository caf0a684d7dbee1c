#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Containerfile and the examples for Kubernetes, as far as that shows without running them: what
# they name is what the program, the build and the guides have.
# shellcheck source=tests/script/lib.sh disable=SC2154
. "$srcdir/tests/script/lib.sh"
needs python3
python3 -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"

expect 0 kvcli keygen alice rw
(umask 077 && cp "$dir/out" "$dir/keys")
cases=$((cases + 1))
python3 "$srcdir/tests/script/images.py" "$srcdir" "$KVSERVER" "$KVCLI" "$dir/keys" || fail "images.py"
finish
