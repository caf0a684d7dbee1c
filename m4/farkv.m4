dnl SPDX-License-Identifier: BSD-3-Clause
dnl FARKV_WARNINGS: the warnings of this tree that the compiler knows, kept out
dnl of the user's CFLAGS.
AC_DEFUN([FARKV_WARNINGS], [
  FARKV_CFLAGS="-std=gnu11"
  for flag in -Wall -Wextra -Wshadow -Wconversion -Wpointer-arith \
      -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
      -Wwrite-strings -Wformat=2 -Wno-sign-conversion; do
    AS_VAR_PUSHDEF([have], [farkv_cv_flag_$flag])
    AC_CACHE_CHECK([whether $CC accepts $flag], [have], [
      save_CFLAGS=$CFLAGS
      CFLAGS="$CFLAGS -Werror $flag"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[]], [[]])],
        [AS_VAR_SET([have], [yes])], [AS_VAR_SET([have], [no])])
      CFLAGS=$save_CFLAGS])
    AS_VAR_IF([have], [yes], [FARKV_CFLAGS="$FARKV_CFLAGS $flag"])
    AS_VAR_POPDEF([have])
  done
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat warnings as errors])])
  AS_IF([test "x$enable_werror" = xyes], [FARKV_CFLAGS="$FARKV_CFLAGS -Werror"])
  AC_SUBST([FARKV_CFLAGS])
])

dnl FARKV_SANITIZER: --enable-sanitizer=address|thread|undefined, and
dnl --enable-coverage, whose runtime all that is linked needs likewise.
AC_DEFUN([FARKV_SANITIZER], [
  AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=KIND],
      [build with address (and undefined), thread or undefined])],
    [], [enable_sanitizer=no])
  AS_CASE([$enable_sanitizer],
    [no], [san=],
    [address], [san="-fsanitize=address,undefined"],
    [thread], [san="-fsanitize=thread"],
    [undefined], [san="-fsanitize=undefined"],
    [AC_MSG_ERROR([--enable-sanitizer takes address, thread or undefined, not '$enable_sanitizer'])])
  AS_IF([test -n "$san"], [
    san="$san -fno-sanitize-recover=all -fno-omit-frame-pointer"
    AC_MSG_CHECKING([whether $CC links with $san])
    save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $san"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[]], [[]])], [AC_MSG_RESULT([yes])],
      [AC_MSG_ERROR([the compiler has no runtime for $san; install it (libasan, libtsan, libubsan or libclang-rt-dev)])])
    CFLAGS=$save_CFLAGS
    FARKV_SANFLAGS=$san])
  AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage],
      [count which lines run; see make coverage])])
  AS_IF([test "x$enable_coverage" = xyes], [
    AS_IF([test -n "$san"],
      [AC_MSG_ERROR([--enable-coverage and --enable-sanitizer exclude each other])])
    dnl Threads count the same lines.
    FARKV_SANFLAGS="--coverage -fprofile-update=atomic"
    enable_sanitizer=coverage])
  AC_SUBST([FARKV_SANFLAGS])
  AC_SUBST([SANITIZED], [$enable_sanitizer])
  AM_CONDITIONAL([SANITIZER], [test -n "$san"])
])

dnl FARKV_FUZZER: --enable-fuzzer: the fuzz targets are libFuzzer's, with all
dnl sources made for it. After FARKV_SANITIZER. See make fuzz.
AC_DEFUN([FARKV_FUZZER], [
  AC_ARG_ENABLE([fuzzer],
    [AS_HELP_STRING([--enable-fuzzer],
      [build the fuzz targets with libFuzzer (make fuzz does that)])],
    [], [enable_fuzzer=no])
  AS_IF([test "x$enable_fuzzer" = xyes], [
    AC_MSG_CHECKING([whether $CC has libFuzzer])
    save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $FARKV_SANFLAGS -fsanitize=fuzzer"
    AC_LINK_IFELSE([AC_LANG_SOURCE([
        int LLVMFuzzerTestOneInput(const char *p, unsigned long n);
        int LLVMFuzzerTestOneInput(const char *p, unsigned long n)
        { return !p && n; }])],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_ERROR([--enable-fuzzer needs clang and its libFuzzer (Debian: clang libclang-rt-dev)])])
    CFLAGS=$save_CFLAGS
    FARKV_SANFLAGS="$FARKV_SANFLAGS -fsanitize=fuzzer-no-link"
    FUZZER_LDFLAGS=-fsanitize=fuzzer])
  AC_SUBST([FUZZER_LDFLAGS])
  AM_CONDITIONAL([FUZZER], [test "x$enable_fuzzer" = xyes])
])

dnl FARKV_JOIN: how to make one object of many, in which what the shared library
dnl hides is local. RELOC_FLAGS are for the compiler as linker.
AC_DEFUN([FARKV_JOIN], [
  AC_CHECK_TOOL([OBJCOPY], [objcopy], [:])
  AC_CACHE_CHECK([how $CC joins objects for $OBJCOPY --localize-hidden],
    [farkv_cv_join], [
    farkv_cv_join=no
    echo '__attribute__((visibility("hidden"))) int f(void) { return 0; }' \
      > conftest.c
    dnl The longer one is for GCC and objects of -flto.
    for flags in "-r -nostdlib -flinker-output=nolto-rel" "-r -nostdlib"; do
      AS_IF([$CC $CFLAGS -c conftest.c 2>&AS_MESSAGE_LOG_FD &&
          $CC $CFLAGS $flags -o conftest-joined.o conftest.$OBJEXT \
            2>&AS_MESSAGE_LOG_FD &&
          $OBJCOPY --localize-hidden conftest-joined.o \
            2>&AS_MESSAGE_LOG_FD && test "$OBJCOPY" != :],
        [farkv_cv_join=$flags; break])
    done
    rm -f conftest.c conftest.$OBJEXT conftest-joined.o])
  AC_SUBST([RELOC_FLAGS], [$farkv_cv_join])
  AS_IF([test "x$farkv_cv_join" = xno],
    [AC_MSG_WARN([libfarkv.a will show the names of its inner functions])])
  AM_CONDITIONAL([JOIN], [test "x$farkv_cv_join" != xno])
])

dnl FARKV_VERBS: --with-verbs=auto|yes|no: the RDMA transport, built where its
dnl libraries are.
AC_DEFUN([FARKV_VERBS], [
  AC_ARG_WITH([verbs],
    [AS_HELP_STRING([--with-verbs=auto|yes|no],
      [RDMA through libibverbs and librdmacm @<:@auto@:>@])],
    [], [with_verbs=auto])
  AS_CASE([$with_verbs], [auto|yes|no], [],
    [AC_MSG_ERROR([--with-verbs takes auto, yes or no, not '$with_verbs'])])
  have_verbs=no
  AS_IF([test "x$with_verbs" != xno], [
    PKG_CHECK_MODULES([VERBS], [libibverbs >= 1.11 librdmacm], [have_verbs=yes], [
      AS_IF([test "x$with_verbs" = xyes],
        [AC_MSG_ERROR([--with-verbs=yes needs libibverbs and librdmacm (Debian: libibverbs-dev librdmacm-dev)])])])])
  verbs_summary=$have_verbs
  dnl For farkv.pc: what a program with the static library links, too.
  AC_SUBST([VERBS_REQUIRES])
  AS_IF([test "x$have_verbs" = xyes], [
    VERBS_REQUIRES=", libibverbs, librdmacm"
    AC_DEFINE([HAVE_VERBS], [1], [Define if libibverbs and librdmacm are present.])])
  AM_CONDITIONAL([HAVE_VERBS], [test "x$have_verbs" = xyes])
])

dnl FARKV_JEMALLOC: its header, for buffers from the jemalloc that a program has;
dnl only tests are linked with it. One whose names are prefixed does not count.
AC_DEFUN([FARKV_JEMALLOC], [
  PKG_CHECK_MODULES([JEMALLOC], [jemalloc >= 5], [have_jemalloc=yes],
    [have_jemalloc=no])
  AS_IF([test "x$have_jemalloc" = xyes], [
    save_CFLAGS=$CFLAGS save_LIBS=$LIBS
    CFLAGS="$CFLAGS $JEMALLOC_CFLAGS" LIBS="$JEMALLOC_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <jemalloc/jemalloc.h>]],
        [[dallocx(mallocx(1, MALLOCX_ARENA(1)), MALLOCX_TCACHE_NONE);]])],
      [], [have_jemalloc=no])
    CFLAGS=$save_CFLAGS LIBS=$save_LIBS])
  AS_IF([test "x$have_jemalloc" = xyes],
    [AC_DEFINE([HAVE_JEMALLOC], [1], [Define if jemalloc's header is present.])])
  AM_CONDITIONAL([HAVE_JEMALLOC], [test "x$have_jemalloc" = xyes])
])

dnl FARKV_NUMA: kvserver --numa-node, where libnuma is.
AC_DEFUN([FARKV_NUMA], [
  AC_ARG_WITH([numa],
    [AS_HELP_STRING([--with-numa=auto|yes|no],
      [kvserver --numa-node, by libnuma @<:@auto@:>@])],
    [], [with_numa=auto])
  have_numa=no
  numa_summary=no
  AS_IF([test "x$with_numa" != xno], [
    numa_summary="no, for that install libnuma-dev"
    PKG_CHECK_MODULES([NUMA], [numa >= 2.0], [have_numa=yes], [:])
    AS_IF([test "x$with_numa$have_numa" = xyesno],
      [AC_MSG_ERROR([--with-numa: no libnuma here; install libnuma-dev])])])
  AS_IF([test "x$have_numa" = xyes],
    [AC_DEFINE([HAVE_NUMA], [1], [Define if libnuma is present.])
    numa_summary=yes])
])

dnl FARKV_SDT: probes for perf, bpftrace and SystemTap, where their header is.
AC_DEFUN([FARKV_SDT], [
  AC_ARG_WITH([probes],
    [AS_HELP_STRING([--with-probes=auto|yes|no],
      [probes for perf, bpftrace and SystemTap, by sys/sdt.h @<:@auto@:>@])],
    [], [with_probes=auto])
  have_sdt=no
  sdt_summary=no
  AS_IF([test "x$with_probes" != xno], [
    sdt_summary="no, for that install systemtap-sdt-dev"
    AC_CHECK_HEADER([sys/sdt.h], [have_sdt=yes])
    AS_IF([test "x$with_probes$have_sdt" = xyesno],
      [AC_MSG_ERROR([--with-probes: no sys/sdt.h here; install systemtap-sdt-dev])])])
  AS_IF([test "x$have_sdt" = xyes],
    [AC_DEFINE([HAVE_SDT], [1], [Define if sys/sdt.h is present.])
    sdt_summary=yes])
])

dnl FARKV_LMDB: the LMDB binding of kvbench, built where the library is.
AC_DEFUN([FARKV_LMDB], [
  PKG_CHECK_MODULES([LMDB], [lmdb], [have_lmdb=yes], [have_lmdb=no])
  AS_IF([test "x$have_lmdb" = xyes],
    [AC_DEFINE([HAVE_LMDB], [1], [Define if LMDB is present.])])
  AM_CONDITIONAL([HAVE_LMDB], [test "x$have_lmdb" = xyes])
])

dnl FARKV_LIBEDIT: lines of the interactive kvcli can be edited where the library is.
AC_DEFUN([FARKV_LIBEDIT], [
  AC_ARG_WITH([libedit],
    [AS_HELP_STRING([--with-libedit=auto|yes|no],
      [history and completion in kvcli, by libedit @<:@auto@:>@])],
    [], [with_libedit=auto])
  have_libedit=no
  libedit_summary=no
  AS_IF([test "x$with_libedit" != xno], [
    libedit_summary="no, for that install libedit-dev"
    PKG_CHECK_MODULES([LIBEDIT], [libedit >= 3.0], [have_libedit=yes], [:])
    AS_IF([test "x$with_libedit$have_libedit" = xyesno],
      [AC_MSG_ERROR([--with-libedit: no libedit here; install libedit-dev])])])
  AS_IF([test "x$have_libedit" = xyes],
    [AC_DEFINE([HAVE_LIBEDIT], [1], [Define if libedit is present.])
    libedit_summary=yes])
])

dnl FARKV_NCURSES: kvcli top, where the library is.
AC_DEFUN([FARKV_NCURSES], [
  AC_ARG_WITH([ncurses],
    [AS_HELP_STRING([--with-ncurses=auto|yes|no],
      [kvcli top, by ncurses @<:@auto@:>@])],
    [], [with_ncurses=auto])
  have_ncurses=no
  ncurses_summary=no
  AS_IF([test "x$with_ncurses" != xno], [
    ncurses_summary="no, for that install libncurses-dev"
    PKG_CHECK_MODULES([NCURSES], [ncursesw], [have_ncurses=yes], [:])
    AS_IF([test "x$with_ncurses$have_ncurses" = xyesno],
      [AC_MSG_ERROR([--with-ncurses: no ncurses here; install libncurses-dev])])])
  AS_IF([test "x$have_ncurses" = xyes],
    [AC_DEFINE([HAVE_NCURSES], [1], [Define if ncurses is present.])
    ncurses_summary=yes])
])

dnl FARKV_ZOOKEEPER: clusters whose map is in ZooKeeper, where its library is. That has
dnl no .pc file.
AC_DEFUN([FARKV_ZOOKEEPER], [
  AC_ARG_WITH([zookeeper],
    [AS_HELP_STRING([--with-zookeeper=auto|yes|no],
      [kvserver --cluster, by libzookeeper_st @<:@auto@:>@])],
    [], [with_zookeeper=auto])
  have_zookeeper=no
  zookeeper_summary=no
  AC_SUBST([ZOOKEEPER_LIBS])
  AS_IF([test "x$with_zookeeper" != xno], [
    zookeeper_summary="no, for that install libzookeeper-st-dev"
    AC_CHECK_HEADER([zookeeper/zookeeper.h],
      [AC_CHECK_LIB([zookeeper_st], [zookeeper_interest], [have_zookeeper=yes])])
    AS_IF([test "x$with_zookeeper$have_zookeeper" = xyesno],
      [AC_MSG_ERROR([--with-zookeeper: no libzookeeper_st here; install libzookeeper-st-dev])])])
  AS_IF([test "x$have_zookeeper" = xyes],
    [AC_DEFINE([HAVE_ZOOKEEPER], [1], [Define if libzookeeper_st is present.])
    ZOOKEEPER_LIBS=-lzookeeper_st
    zookeeper_summary=yes])
])

dnl FARKV_HIREDIS: the Redis binding of kvbench, built where the library is.
AC_DEFUN([FARKV_HIREDIS], [
  PKG_CHECK_MODULES([HIREDIS], [hiredis >= 0.14], [have_hiredis=yes],
    [have_hiredis=no])
  AS_IF([test "x$have_hiredis" = xyes],
    [AC_DEFINE([HAVE_HIREDIS], [1], [Define if hiredis is present.])])
  AM_CONDITIONAL([HAVE_HIREDIS], [test "x$have_hiredis" = xyes])
])

dnl FARKV_LIBCUCKOO: the libcuckoo binding of kvbench, the only C++ in the tree,
dnl built where a C++ compiler and the header are, and C programs can be linked
dnl with what it makes.
AC_DEFUN([FARKV_LIBCUCKOO], [
  AC_LANG_PUSH([C++])
  AC_CACHE_CHECK([for libcuckoo], [farkv_cv_libcuckoo], [
    save_CXXFLAGS=$CXXFLAGS
    CXXFLAGS="$CXXFLAGS -std=gnu++11 -pthread"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM(
        [[#include <libcuckoo/cuckoohash_map.hh>]],
        [[libcuckoo::cuckoohash_map<int, int> map(1); return map.erase(1);]])],
      [farkv_cv_libcuckoo=yes], [farkv_cv_libcuckoo=no])
    CXXFLAGS=$save_CXXFLAGS])
  AC_LANG_POP([C++])
  have_libcuckoo=$farkv_cv_libcuckoo
  AS_IF([test "x$have_libcuckoo" = xyes],
    [AC_CHECK_LIB([stdc++], [__cxa_begin_catch], [:], [have_libcuckoo=no])])
  AS_IF([test "x$have_libcuckoo" = xyes],
    [AC_DEFINE([HAVE_LIBCUCKOO], [1], [Define if libcuckoo is present.])])
  AM_CONDITIONAL([HAVE_LIBCUCKOO], [test "x$have_libcuckoo" = xyes])
])

dnl FARKV_PYTHON: the Python package, built where a Python has cffi and its headers are there.
dnl PYTHON names it; otherwise the system's comes first, for which the packages are, then the
dnl one in PATH. A sanitizer's library cannot be loaded into a program without it.
AC_DEFUN([FARKV_PYTHON], [
  AC_ARG_ENABLE([python], [AS_HELP_STRING([--enable-python],
      [build the Python package (auto: where cffi and Python.h are there)])],
    [], [enable_python=auto])
  why_no_python="not enabled"
  AS_IF([test "x$SANITIZED" != xno && test "x$SANITIZED" != xcoverage],
      [why_no_python="not with a sanitizer"],
    [test "x$enable_shared" = xno], [why_no_python="needs a shared library"],
    [test "x$enable_python" != xno], [
      why_no_python="needs cffi and Python.h (Debian: python3-cffi, python3-dev)"
      AC_CACHE_CHECK([for a Python with cffi and Python.h], [farkv_cv_python], [
        farkv_cv_python=no
        for p in ${PYTHON-/usr/bin/python3 python3}; do
          AS_IF([$p -c 'import cffi, os, sysconfig
assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null],
            [farkv_cv_python=$p; break])
        done])
      AS_IF([test "x$farkv_cv_python" != xno], [PYTHON=$farkv_cv_python; why_no_python=])])
  AS_IF([test -z "$why_no_python"],
    [AM_PATH_PYTHON([3.8])
    # Where this Python looks below the prefix: Debian's in dist-packages.
    python_prefix=$prefix
    test "x$prefix" != xNONE || python_prefix=$ac_default_prefix
    for p in `$PYTHON -c 'import site; print(*site.getsitepackages())'`; do
      AS_CASE([$p], ["$python_prefix"/*],
        [pyexecdir='${exec_prefix}'${p@%:@"$python_prefix"}; break])
    done
    PYTHON_CPPFLAGS=-I`$PYTHON -c 'import sysconfig; print(sysconfig.get_path("include"))'`
    python_summary=$PYTHON],
    [test "x$enable_python" = xyes], [AC_MSG_ERROR([--enable-python: $why_no_python])],
    [python_summary="no: $why_no_python"])
  AC_SUBST([PYTHON_CPPFLAGS])
  AC_SUBST([python_summary])
  AM_CONDITIONAL([PYTHON_MODULE], [test -z "$why_no_python"])
])
