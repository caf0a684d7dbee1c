/* SPDX-License-Identifier: BSD-3-Clause */
/** test_main.h - run one suite; exit 0 if all passed. */
#ifndef TESTS_TEST_MAIN_H
#define TESTS_TEST_MAIN_H

#include <stdlib.h>

#include <check.h>

#define TEST_MAIN(suite)                                                       \
	int main(void)                                                         \
	{                                                                      \
		SRunner *sr;                                                   \
		int failed;                                                    \
                                                                               \
		/* check's 4 s are too few under sanitizers on a busy machine */ \
		setenv("CK_DEFAULT_TIMEOUT", "60", 0);                         \
		sr = srunner_create(suite);                                    \
		srunner_run_all(sr, CK_NORMAL);                                \
		failed = srunner_ntests_failed(sr);                            \
		srunner_free(sr);                                              \
		return failed ? EXIT_FAILURE : EXIT_SUCCESS;                   \
	}

#endif
