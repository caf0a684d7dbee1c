/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * wait_rig.h - counts the waits of this thread by wrapped C functions that may put it to
 * sleep (--wrap in tests/unit/unit.inc).
 */
#ifndef TESTS_RIG_WAIT_RIG_H
#define TESTS_RIG_WAIT_RIG_H

#include <stdbool.h>

/** While it is true this thread must not wait. */
extern _Thread_local bool must_not_wait;
/** How often it has waited, and by which call last. */
extern unsigned long waits;
extern const char *last_wait;

/**
 * How often a thread of the library has slept with a lock held: a thread that wants the
 * lock waits as long.
 */
unsigned long slept_locked(void);

#endif
