/* SPDX-License-Identifier: BSD-3-Clause */
/** marks.h - libcheck, with assertions that cost next to nothing where they hold. */
#ifndef TESTS_RIG_MARKS_H
#define TESTS_RIG_MARKS_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <check.h>

/**
 * What libcheck does behind each assertion that holds: it writes where that was to a
 * file, for the case that the test crashes next. That is a system call, and in a loop of
 * a million assertions takes longer than all else. So of one line only the first times
 * are written, and then one in 256: what a crash is reported to come "after" is such an
 * assertion.
 *
 * And only of the thread that runs the tests: without fork (CK_FORK=no, as for valgrind)
 * libcheck closes that file and opens another between a fixture and its test, and ends all
 * if a thread that a fixture has started writes meanwhile.
 */
static inline void test_mark(const char *file, int line)
{
	static _Thread_local uint32_t passed[1024];
	uint32_t *n = &passed[(unsigned)line % 1024];

	if ((++*n < 64 || *n % 256 == 0) && syscall(SYS_gettid) == getpid())
		(_mark_point)(file, line);
}
#define _mark_point(file, line) test_mark(file, line)

#endif
