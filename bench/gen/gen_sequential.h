/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_sequential.h - min to max repeatedly, one sequence for all threads
 * (SequentialGenerator).
 */
#ifndef BENCH_GEN_GEN_SEQUENTIAL_H
#define BENCH_GEN_GEN_SEQUENTIAL_H

#include <stdatomic.h>
#include <stdint.h>

struct gen_sequential {
	uint64_t min;
	uint64_t items;
	_Atomic uint64_t count;
};

static inline void gen_sequential_init(struct gen_sequential *g, uint64_t min,
				       uint64_t max)
{
	g->min = min;
	g->items = max - min + 1;
	atomic_init(&g->count, 0);
}

/** Any thread. */
static inline uint64_t gen_sequential_next(struct gen_sequential *g)
{
	return g->min + atomic_fetch_add_explicit(&g->count, 1,
						  memory_order_relaxed) %
				g->items;
}

#endif
