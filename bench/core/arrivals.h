/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * arrivals.h - the schedule of an open loop: when each operation arrives, independent of
 * earlier ones. All threads take arrivals from this one schedule, so a session that hangs
 * delays its own operation only, as long as another session is free. An arrival that finds
 * none waits, and its wait is measured. At most as many operations are in flight as there
 * are threads.
 *
 * (Schroeder, Wierman, Harchol-Balter, "Open versus closed: a cautionary tale", NSDI 2006,
 * on what a closed loop hides.)
 */
#ifndef BENCH_CORE_ARRIVALS_H
#define BENCH_CORE_ARRIVALS_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/gen/rng.h"

/*
 * Times are in 1/256 ticks: whole ticks would make a gap at ten million a second wrong by
 * some thousandths.
 */
#define ARRIVALS_UNIT 256

struct arrivals {
	uint64_t start;         /* stamp; set while no thread takes arrivals */
	double gap;             /* units between two arrivals, on average */
	bool poisson;           /* exponential gaps; otherwise constant */
	uint64_t most;          /* number of arrivals; 0: no end */
	_Atomic uint64_t taken;
	_Atomic uint64_t next;  /* units from the start to the next arrival */
};

/** `tick` is the mean gap in ticks. */
static inline void arrivals_init(struct arrivals *a, double tick, bool poisson)
{
	a->gap = tick * ARRIVALS_UNIT;
	a->poisson = poisson;
}

/** Begin at stamp `start`. No thread may take arrivals meanwhile. */
static inline void arrivals_begin(struct arrivals *a, uint64_t start,
				  uint64_t most)
{
	a->start = start;
	a->most = most;
	atomic_store(&a->taken, 0);
	atomic_store(&a->next, 0);
}

/** The stamp of the next arrival; false if there are none left. Any thread. */
static inline bool arrivals_take(struct arrivals *a, struct rng *r,
				 uint64_t *stamp_out)
{
	double gap = a->gap;
	uint64_t at;

	if (atomic_fetch_add_explicit(&a->taken, 1, memory_order_relaxed) >=
		    a->most &&
	    a->most)
		return false;
	if (a->poisson)
		gap *= -log(1.0 - rng_double(r));
	at = atomic_fetch_add_explicit(&a->next, (uint64_t)(gap + 0.5),
				       memory_order_relaxed);
	*stamp_out = a->start + at / ARRIVALS_UNIT;
	return true;
}

#endif
