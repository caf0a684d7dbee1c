/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * calls_rig.h - counts what this thread requests from the system: system calls by a
 * filter (seccomp(2)), memory and locks by wrapped functions (--wrap in
 * tests/unit/unit.inc).
 */
#ifndef TESTS_RIG_CALLS_RIG_H
#define TESTS_RIG_CALLS_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct calls_seen {
	unsigned long calls, memory, locks;
	long last; /* system call */
};

/** While it is true this thread's calls count. */
extern _Thread_local bool counting;
extern struct calls_seen seen;

/** Bytes allocated by the library, without libc's own allocations. */
extern int64_t held_bytes;

/** malloc(3) as a wrapped program calls it, opaque to the compiler. */
void *__wrap_malloc(size_t n);

/**
 * Trap this thread's system calls from now on, to count them. Returns whether all
 * requirements are met, and prints which is not.
 */
bool can_watch(void);

#endif
