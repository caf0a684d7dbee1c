/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_hotspot.h - a fraction of the operations goes to a fraction of the records, uniformly
 * within each part (HotspotIntegerGenerator).
 */
#ifndef BENCH_GEN_GEN_HOTSPOT_H
#define BENCH_GEN_GEN_HOTSPOT_H

#include <stdbool.h>

#include "rng.h"

struct gen_hotspot {
	uint64_t min;
	uint64_t hot;       /* records min..min+hot-1 */
	uint64_t cold;      /* records after those */
	double hot_op_frac; /* of the draws */
};

/** False if a part with draws has no records: the range is too small for the fraction. */
static inline bool gen_hotspot_init(struct gen_hotspot *g, uint64_t min,
				    uint64_t max, double data_frac,
				    double op_frac)
{
	uint64_t items = max - min + 1;

	g->min = min;
	g->hot = (uint64_t)((double)items * data_frac);
	if (g->hot > items)
		g->hot = items;
	g->cold = items - g->hot;
	g->hot_op_frac = op_frac;
	return (g->hot || op_frac <= 0.0) && (g->cold || op_frac >= 1.0);
}

static inline uint64_t gen_hotspot_next(const struct gen_hotspot *g,
					struct rng *r)
{
	if (rng_double(r) < g->hot_op_frac)
		return g->min + rng_below(r, g->hot);
	return g->min + g->hot + rng_below(r, g->cold);
}

#endif
