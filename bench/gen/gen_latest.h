/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_latest.h - the newest record is the most frequent (SkewedLatestGenerator): a zipfian
 * distance back from the last record, over a window that grows with the inserts.
 */
#ifndef BENCH_GEN_GEN_LATEST_H
#define BENCH_GEN_GEN_LATEST_H

#include "gen_zipfian.h"

struct gen_latest {
	struct gen_zipfian back;
};

/** `last` is the last record's number at the start. */
static inline void gen_latest_init(struct gen_latest *g, uint64_t last)
{
	gen_zipfian_init(&g->back, 0, last - 1, ZIPFIAN_THETA);
}

/** `last` is the last record's number now. */
static inline uint64_t gen_latest_next(struct gen_latest *g, struct rng *r,
				       uint64_t last)
{
	return last - gen_zipfian_next_of(&g->back, r, last);
}

#endif
