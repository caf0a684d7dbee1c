/* SPDX-License-Identifier: BSD-3-Clause */
/** test_main.h - run one suite; exit 0 if all passed. */
#ifndef TESTS_RIG_TEST_MAIN_H
#define TESTS_RIG_TEST_MAIN_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "marks.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_UNDER_TSAN true
#endif
#if __has_feature(address_sanitizer)
#define TEST_UNDER_ASAN true
#endif
#elif defined(__SANITIZE_THREAD__)
#define TEST_UNDER_TSAN true
#elif defined(__SANITIZE_ADDRESS__)
#define TEST_UNDER_ASAN true
#endif
#ifndef TEST_UNDER_TSAN
#define TEST_UNDER_TSAN false
#endif
#ifndef TEST_UNDER_ASAN
#define TEST_UNDER_ASAN false
#endif

/**
 * For a case whose child starts threads after fork(): ThreadSanitizer's runtime takes
 * them for the parent's and ends the child ("dup thread"). Under it returns true, and
 * prints that.
 */
static inline bool test_tsan_skips(const char *test)
{
	if (!TEST_UNDER_TSAN)
		return false;
	printf("  left out: %s: ThreadSanitizer has no threads in a child of "
	       "a process with threads\n", test);
	fflush(stdout);
	return true;
}

/**
 * Number of repetitions of a randomized test: n, or n / $TEST_ONE_IN, which valgrind.sh
 * sets because valgrind is 30 times slower. At least one.
 */
static inline unsigned test_rounds(unsigned n)
{
	const char *s = getenv("TEST_ONE_IN");
	int part = s ? atoi(s) : 1;

	return part > 1 ? (n - 1) / (unsigned)part + 1 : n;
}

/** The body of a main(): run one suite, return. */
#define TEST_RUN(suite)                                                        \
	do {                                                                   \
		SRunner *sr;                                                   \
		int failed;                                                    \
                                                                               \
		/* limits are for hangs, not for a busy machine */        \
		setenv("CK_DEFAULT_TIMEOUT", "60", 0);                         \
		setenv("CK_TIMEOUT_MULTIPLIER", "5", 0);                       \
		sr = srunner_create(suite);                                    \
		srunner_run_all(sr, CK_NORMAL);                                \
		failed = srunner_ntests_failed(sr);                            \
		srunner_free(sr);                                              \
		return failed ? EXIT_FAILURE : EXIT_SUCCESS;                   \
	} while (0)

#define TEST_MAIN(suite)                                                       \
	int main(void)                                                         \
	{                                                                      \
		TEST_RUN(suite);                                               \
	}

#endif
