/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * calls_rig.h - counts what this thread asks of the system: system calls by a filter
 * (seccomp(2)), memory and locks by what a program's calls for them are wrapped in (--wrap,
 * tests/unit/client.inc).
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

/** Bytes that the library holds, but for what comes from libc's own calls. */
extern int64_t held_bytes;

/** malloc(3) as a wrapped program calls it: not to be seen through. */
void *__wrap_malloc(size_t n);

/**
 * Stop this thread's system calls from now on, to count them. Is everything here that is
 * needed? Says what is not.
 */
bool can_watch(void);

#endif
