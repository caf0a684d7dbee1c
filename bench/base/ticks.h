/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * ticks.h - time stamps around an operation. Uses the processor's counter if it runs at a
 * constant rate (constant and non-stop by CPUID), calibrated against CLOCK_MONOTONIC;
 * otherwise that clock. A stamp of the counter costs about a third of clock_gettime().
 *
 * ticks_now() reads the counter without a fence: a load in flight may complete after the
 * stamp and then counts for the next operation. So sums and means stay exact and no fence
 * stalls the pipeline between operations. The time of one operation alone is between two
 * ticks_settled().
 */
#ifndef BENCH_BASE_TICKS_H
#define BENCH_BASE_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "common/base/clock.h"

struct ticks_state {
	bool counter;        /* use the processor's counter */
	uint64_t ns_mul;     /* ns = ticks * ns_mul / 2^60; below 2^64 */
	double ticks_per_ns;
};

extern struct ticks_state ticks_state;

/** Calibrate; takes 10 ms where the counter is used. Once, before threads. */
void ticks_init(void);

/** CLOCK_MONOTONIC in ns, unaffected by clock adjustments and sleep. */
static inline uint64_t ticks_clock_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/** A stamp. Comparable between threads. */
static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(ticks_state.counter, 1))
		return __rdtsc();
#endif
	return ticks_clock_ns();
}

/**
 * A stamp that waits for all earlier instructions, including loads but not stores on their
 * way to the cache, and that no later one overtakes. x86-64 only; elsewhere ticks_now().
 * Costs 15 to 20 ns more, and operations cannot overlap.
 */
static inline uint64_t ticks_settled(void)
{
#if defined(__x86_64__)
	uint64_t now;

	_mm_lfence();
	now = ticks_now();
	_mm_lfence();
	return now;
#else
	return ticks_now();
#endif
}

/**
 * Ticks to ns; below 2^60, which are years. The upper half of a product: a 128-bit shift is
 * microcode on many processors.
 */
static inline uint64_t ticks_to_ns(uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)(ticks << 4) *
			   ticks_state.ns_mul) >>
			  64);
}

/**
 * ns between two stamps; 0 if the later one is smaller, as counters of two processors may
 * differ by a few ticks.
 */
static inline uint64_t ticks_span_ns(uint64_t from, uint64_t to)
{
	return (int64_t)(to - from) > 0 ? ticks_to_ns(to - from) : 0;
}

static inline uint64_t ticks_from_ns(uint64_t ns)
{
	return (uint64_t)((double)ns * ticks_state.ticks_per_ns);
}

#endif
