/* SPDX-License-Identifier: BSD-3-Clause */
/** marks.h - libcheck with assertions that cost almost nothing when they hold. */
#ifndef TESTS_RIG_MARKS_H
#define TESTS_RIG_MARKS_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <check.h>

/**
 * Replaces libcheck's mark of each assertion that holds. libcheck writes the place to a
 * file, in case the test crashes next; that is a system call, and in a loop of a million
 * assertions takes longer than the rest. So the first 64 marks of a line are written, and
 * then one in 256; a crash is reported "after" such an assertion. Only the thread that
 * runs the tests writes: without fork (CK_FORK=no, as for valgrind) libcheck replaces the
 * file between a fixture and its test, and ends the program if a thread of the fixture
 * writes meanwhile.
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
