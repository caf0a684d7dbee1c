/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rate_limit.h - at most a number of events per period, and a count of the others. For log
 * lines and requests that peers can cause in bulk.
 *
 * A period begins with the first event after the previous period. Zeroed memory is a new
 * limit. One thread at a time; the caller reads the clock.
 */
#ifndef COMMON_BASE_RATE_LIMIT_H
#define COMMON_BASE_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct rate_limit {
	uint64_t since_ns; /* start of the period */
	uint32_t taken;    /* in this period */
	uint32_t dropped;  /* since the last rate_limit_dropped() */
};

/** True for the first `max` events of each `period_ns`; counts the others. */
static inline bool rate_limit_take(struct rate_limit *l, uint32_t max,
				   uint64_t period_ns, uint64_t now)
{
	if (!l->taken || now - l->since_ns > period_ns) {
		l->since_ns = now;
		l->taken = 0;
	}
	if (l->taken == max) {
		l->dropped++;
		return false;
	}
	l->taken++;
	return true;
}

/**
 * Returns once, after the period in question, how many of its events were dropped; otherwise 0.
 * Call again later while `l->dropped` is not 0.
 */
static inline uint32_t rate_limit_dropped(struct rate_limit *l,
					  uint64_t period_ns, uint64_t now)
{
	uint32_t n = l->dropped;

	if (!n || now - l->since_ns <= period_ns)
		return 0;
	l->dropped = 0;
	return n;
}

#endif
