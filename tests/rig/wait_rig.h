/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * wait_rig.h - counts what this thread waits for, by what a program's calls of the C library
 * are wrapped in (--wrap; tests/unit/client.inc): calls that may put it to sleep.
 */
#ifndef TESTS_RIG_WAIT_RIG_H
#define TESTS_RIG_WAIT_RIG_H

#include <stdbool.h>

/** While it is true this thread must not wait. */
extern _Thread_local bool must_not_wait;
/** How often it has, and by which call last. */
extern unsigned long waits;
extern const char *last_wait;

/** How often a thread of the library's has gone to sleep with a lock: whoever wants that
 * waits as long. */
unsigned long slept_locked(void);

#endif
