/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_exponential.h - exponentially distributed distances
 * (ExponentialGenerator): `percentile` percent of them lie below `range`.
 */
#ifndef BENCH_GEN_GEN_EXPONENTIAL_H
#define BENCH_GEN_GEN_EXPONENTIAL_H

#include <math.h>
#include <stdbool.h>

#include "rng.h"

struct gen_exponential {
	double gamma;
};

/** 0 < percentile < 100, range > 0. */
static inline void gen_exponential_init(struct gen_exponential *g,
					double percentile, double range)
{
	g->gamma = -log(1.0 - percentile / 100.0) / range;
}

/** True if at least one draw in a thousand is below `items`. */
static inline bool gen_exponential_reaches(double percentile, double range,
					   uint64_t items)
{
	struct gen_exponential g;

	gen_exponential_init(&g, percentile, range);
	return -expm1(-g.gamma * (double)items) >= 1e-3;
}

static inline uint64_t gen_exponential_next(const struct gen_exponential *g,
					    struct rng *r)
{
	/* 1 - u is never 0, so the logarithm is finite: at most 53 ln 2. */
	return (uint64_t)(-log(1.0 - rng_double(r)) / g->gamma);
}

#endif
