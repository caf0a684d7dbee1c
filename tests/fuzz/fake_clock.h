/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fake_clock.h - the clock of the product in the hands of the input. With
 * fake_clock.c in a program, CLOCK_MONOTONIC and CLOCK_BOOTTIME stand still but for
 * a microsecond at each look at them, and who sleeps or waits on a condition until
 * some time wakes up at once, at that time.
 */
#ifndef TESTS_FUZZ_FAKE_CLOCK_H
#define TESTS_FUZZ_FAKE_CLOCK_H

#include <stdint.h>

/** Back to the beginning. */
void fake_clock_reset(void);

/** Time passes. */
void fake_clock_advance(uint64_t ns);

/** Called while somebody waits on a condition, with the mutex released; or NULL. */
extern void (*fake_clock_idle)(void);

/** How often it was looked at since the beginning. */
uint64_t fake_clock_looks(void);

#endif
