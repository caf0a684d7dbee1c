/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_discrete.h - one of a few choices by weight (DiscreteGenerator): the
 * chooser of operations. Weights count relative to their sum.
 */
#ifndef BENCH_GEN_GEN_DISCRETE_H
#define BENCH_GEN_GEN_DISCRETE_H

#include <stdbool.h>

#include "rng.h"

#define DISCRETE_MAX 8

struct gen_discrete {
	unsigned n;                     /* choices with a positive weight */
	uint64_t below[DISCRETE_MAX];   /* cumulative weight, scaled to 2^64 */
	unsigned choice[DISCRETE_MAX];  /* index of the caller's weight */
};

/** False if no weight is above 0; n is at most DISCRETE_MAX. */
bool gen_discrete_init(struct gen_discrete *g, const double *weight,
		       unsigned n);

/** The index of the chosen weight. A single choice draws no random number. */
static inline unsigned gen_discrete_next(const struct gen_discrete *g,
					 struct rng *r)
{
	uint64_t x;
	unsigned i = 0;

	if (g->n == 1)
		return g->choice[0];
	x = rng_next(r);
	while (i < g->n - 1 && x >= g->below[i])
		i++;
	return g->choice[i];
}

#endif
