#!/bin/sh
# Make the configure script of a fresh checkout.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux
exec autoreconf --install --force
