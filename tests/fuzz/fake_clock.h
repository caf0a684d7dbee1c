/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fake_clock.h - a clock that the input controls. With fake_clock.c in a program,
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME advance by a microsecond at each reading only, and a
 * sleep, or a wait on a condition with a deadline, ends at once, at its time.
 */
#ifndef TESTS_FUZZ_FAKE_CLOCK_H
#define TESTS_FUZZ_FAKE_CLOCK_H

#include <stdint.h>

/** Back to the beginning. */
void fake_clock_reset(void);

/** Time passes. */
void fake_clock_advance(uint64_t ns);

/** Called during a wait on a condition, with the mutex released; or NULL. */
extern void (*fake_clock_idle)(void);

/** Number of readings since the reset. */
uint64_t fake_clock_looks(void);

#endif
