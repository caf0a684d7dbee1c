/* SPDX-License-Identifier: BSD-3-Clause */
/** clock.h - the clocks for deadlines and grace periods. Leaf. */
#ifndef COMMON_BASE_CLOCK_H
#define COMMON_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/** Any clock of clock_gettime(2), in ns. */
static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/**
 * The clock of I4 and of all deadlines, in ns. CLOCK_BOOTTIME also counts while the machine is
 * suspended, so a block is never taken for younger than it is. vDSO, no system call.
 */
static inline uint64_t clock_now_ns(void)
{
	return clock_read_ns(CLOCK_BOOTTIME);
}

/**
 * The time `ns` from now, for pthread_cond_timedwait() with CLOCK_MONOTONIC: condition variables
 * cannot use the clock of clock_now_ns(). CLOCK_MONOTONIC stops while the machine is suspended, so
 * check clock_now_ns() every few seconds.
 */
static inline struct timespec clock_after_ns(uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ns += (uint64_t)ts.tv_nsec;
	ts.tv_sec += (time_t)(ns / NS_PER_SEC);
	ts.tv_nsec = (long)(ns % NS_PER_SEC);
	return ts;
}

/** Sleep about `ns`; a signal ends the sleep early. */
static inline void clock_sleep_ns(uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC),
			      .tv_nsec = (long)(ns % NS_PER_SEC)};

	nanosleep(&ts, NULL);
}

#endif
