/* SPDX-License-Identifier: BSD-3-Clause */
/** gen_uniform.h - every number of [min, max] equally often (UniformLongGenerator). */
#ifndef BENCH_GEN_GEN_UNIFORM_H
#define BENCH_GEN_GEN_UNIFORM_H

#include "rng.h"

struct gen_uniform {
	uint64_t min;
	uint64_t items;
};

/** The range includes both ends; max >= min. */
static inline void gen_uniform_init(struct gen_uniform *g, uint64_t min,
				    uint64_t max)
{
	g->min = min;
	g->items = max - min + 1;
}

static inline uint64_t gen_uniform_next(const struct gen_uniform *g,
					struct rng *r)
{
	return g->min + rng_below(r, g->items);
}

#endif
