/* SPDX-License-Identifier: BSD-3-Clause */
/** die.h - for programs that only tests start: give up with one line. */
#ifndef TESTS_DIE_H
#define TESTS_DIE_H

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

#endif
