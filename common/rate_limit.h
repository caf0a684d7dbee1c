/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rate_limit.h - at most so many in each period, and a count of the others. For lines
 * in a log that peers can cause in bulk, and for what a peer may ask for now and then.
 *
 * A period begins with the first that comes after the previous period is over. Zeroed
 * memory is a fresh limit. One thread at a time; the caller reads the clock.
 */
#ifndef COMMON_RATE_LIMIT_H
#define COMMON_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct rate_limit {
	uint64_t since_ns; /* the period's begin */
	uint32_t taken;    /* in this period */
	uint32_t dropped;  /* since rate_limit_dropped() last told */
};

/** True for the first `max` in each `period_ns`; the others are counted. */
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
 * How many were dropped, once the period is over in which they were; told once. 0 while
 * it goes on, and if there were none. `l->dropped` says whether to ask again.
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
