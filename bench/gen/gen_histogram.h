/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_histogram.h - numbers by a histogram from a file (HistogramGenerator;
 * fieldlengthdistribution=histogram). The file:
 *
 *	BlockSize<tab>100
 *	0<tab>15          weight of 100
 *	1<tab>7           weight of 200, and so on
 *
 * YCSB gives bucket 0 one draw too many and the last bucket its predecessor's number; here
 * every bucket gets its own weight and number.
 */
#ifndef BENCH_GEN_GEN_HISTOGRAM_H
#define BENCH_GEN_GEN_HISTOGRAM_H

#include <stddef.h>

#include "rng.h"

struct gen_histogram {
	uint64_t block;
	uint64_t *upto; /* cumulative weights */
	size_t buckets;
};

/**
 * Read `path`. Errors: FARKV_ESYS, FARKV_ENOMEM, or FARKV_EINVAL with a detail
 * that names file and line. End with gen_histogram_fini().
 */
int gen_histogram_load(struct gen_histogram *g, const char *path);
void gen_histogram_fini(struct gen_histogram *g);

uint64_t gen_histogram_next(const struct gen_histogram *g, struct rng *r);

/** The largest and the smallest possible number. */
uint64_t gen_histogram_max(const struct gen_histogram *g);
uint64_t gen_histogram_min(const struct gen_histogram *g);

#endif
