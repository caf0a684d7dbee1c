#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Links a test program instead of libtool, which starts some ninety processes for it, most
# of them for programs that will be installed. Test programs stay where they are, so
# this script starts the compiler with the names of the libraries' files. A shared library's
# folder is in the program, independent of LD_LIBRARY_PATH, so no wrapper is needed.
#
# link.sh [LIBTOOL-OPTION...] --mode=link COMPILER ARGUMENT...
set -eu

while [ "$1" != --mode=link ]; do shift; done
shift

more=
# use LIBRARY.la: one that the build has made; sets $library and adds to $more.
use() {
	dir=${1%/*}/.libs
	while IFS='=' read -r name value; do
		value=${value#\'}
		value=${value%\'}
		case $name in
		dlname) dlname=$value ;;
		old_library) archive=$value ;;
		dependency_libs) needs=$value ;;
		esac
	done <"$1"
	if [ -n "$dlname" ]; then
		library=$dir/$dlname
		more="$more -Wl,-rpath,$PWD/$dir -Wl,--disable-new-dtags"
	else
		library=$dir/$archive
		more="$more $needs"
	fi
}

n=$# before=
while [ "$n" -gt 0 ]; do
	arg=$1
	shift
	n=$((n - 1))
	# A program of an older build that libtool left there would be taken for this one.
	[ "$before" != -o ] || rm -f "${arg%/*}/.libs/${arg##*/}"
	before=$arg
	case $arg in
	*.la)
		use "$arg"
		arg=$library
		;;
	esac
	set -- "$@" "$arg"
done
# shellcheck disable=SC2086 # words
exec "$@" $more
