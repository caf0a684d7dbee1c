/* SPDX-License-Identifier: BSD-3-Clause */
/** die.h - for programs that only tests start: give up with one line. */
#ifndef TESTS_RIG_DIE_H
#define TESTS_RIG_DIE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/** Say what is wrong, on stderr, and exit with 1. */
__attribute__((format(printf, 1, 2), noreturn))
static inline void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/** A call of farkv.h, which the caller includes, that has to succeed. */
#define MUST(call)                                                          \
	do {                                                                \
		int err_ = (call);                                          \
		if (err_)                                                   \
			die("%s: %s: %s", #call, farkv_strerror(err_),      \
			    farkv_errdetail());                             \
	} while (0)

#endif
