/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * failing.h - allocations and system calls that fail on request.
 *
 * A program linked with $(failing_ldflags) and failing.c has its own calls of
 * malloc(3), mmap(2), socket(2), ... counted, those of libc and of shared
 * libraries not; with failing_verbs.c, those of an RDMA device too. The test chooses which
 * of them fails: each of 1, 2, ... until a run ends before that one. The calls of all
 * threads are counted together, so the N-th may be another one in another run;
 * the test has to hold for each.
 *
 * A program without a test inside takes this from its environment:
 *   FAILING_AT=N        the N-th call since the start fails
 *   FAILING_TIMES=K     and the K-1 after it (default 1)
 *   FAILING_ONLY=verbs  only calls of libibverbs and librdmacm are counted
 *   FAILING_REPORT=FILE the failed call ("failed 12 mmap") and, at exit, how many
 *                       blocks were never freed ("live 0") are written there
 *
 * Blocks that the program itself allocated are followed until it frees them, so
 * leaks are seen without a sanitizer.
 */
#ifndef TESTS_LAB_FAILING_H
#define TESTS_LAB_FAILING_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Count from here; the call with the number `at` (from 1; 0: none) and the
 * `times` - 1 after it (UINT64_MAX: all) fail.
 */
void failing_arm(uint64_t at, uint64_t times);

/**
 * For other wrapped calls than those of failing.c: counts this one, of the function
 * `name`, and tells whether it is to fail.
 */
bool failing_fails(const char *name);

/** Nothing fails and nothing is counted, until resumed. */
void failing_pause(void);
void failing_resume(void);

/** The calls counted since failing_arm(). */
uint64_t failing_calls(void);

/** The name of the first call that failed; NULL if none did. */
const char *failing_which(void);

/** Blocks allocated by wrapped calls, since the start, and not freed. */
unsigned failing_live(void);

#endif
