/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_zipfian.h - zipfian numbers, the smallest most frequent, by the method of Gray,
 * Sundaresan, Englert, Baclawski and Weinberger, "Quickly generating billion-record
 * synthetic databases", SIGMOD 1994, as in YCSB's ZipfianGenerator: zeta grows with the
 * number of items, eta keeps the initial number.
 */
#ifndef BENCH_GEN_GEN_ZIPFIAN_H
#define BENCH_GEN_GEN_ZIPFIAN_H

#include <math.h>
#include <stdbool.h>

#include "rng.h"

/** YCSB's constant: the exponent of every distribution called zipfian. */
#define ZIPFIAN_THETA 0.99

struct gen_zipfian {
	uint64_t min;
	uint64_t items;    /* initial number, in eta's numerator */
	uint64_t zeta_for; /* number of terms in zeta_n */
	double theta;      /* 0 < theta < 1 */
	double alpha;      /* 1 / (1 - theta) */
	double zeta_2;
	double zeta_n;
	double eta;
	double second; /* 1 + 0.5^theta: below it, the second number */
	bool hundred;  /* alpha is 100 except for rounding: theta is 0.99 */
};

/**
 * Add i^-theta for i in from+1..to to `sum`. Up to ZIPFIAN_DIRECT_TERMS term by term, which
 * gives YCSB's digits; the rest by the Euler-Maclaurin formula, with a relative error below
 * 10^-20, so that 10^10 items take milliseconds instead of ten minutes.
 */
#define ZIPFIAN_DIRECT_TERMS (UINT64_C(1) << 20)
double gen_zipfian_zeta(uint64_t from, uint64_t to, double theta, double sum);

/** Numbers min..max. Cost: up to 2^20 terms of zeta, some 20 ms. */
void gen_zipfian_init(struct gen_zipfian *g, uint64_t min, uint64_t max,
		      double theta);

/** With a known zeta; no cost. */
void gen_zipfian_init_zeta(struct gen_zipfian *g, uint64_t min, uint64_t max,
			   double theta, double zeta_n);

/** Grow zeta to `items` terms; fewer terms change nothing. */
void gen_zipfian_grow(struct gen_zipfian *g, uint64_t items);

/*
 * x^alpha for x up to 1. YCSB's theta gives alpha 99.99999999999991; the whole power takes
 * eight products instead of a pow() and differs by less than one part in 10^12. That moves
 * no rank below 10^9 except by rounding, as pow() does too.
 */
static inline double gen_zipfian_power(const struct gen_zipfian *g, double x)
{
	double x4, x32;

	if (!g->hundred)
		return pow(x, g->alpha);
	x *= x;
	x4 = x * x;
	x32 = x4 * x4;
	x32 *= x32;
	x32 *= x32;
	return x32 * x32 * x32 * x4;
}

/** A number in min..min+items-1, where `items` may grow. */
static inline uint64_t gen_zipfian_next_of(struct gen_zipfian *g,
					   struct rng *r, uint64_t items)
{
	double u, uz;

	if (__builtin_expect(items > g->zeta_for, 0))
		gen_zipfian_grow(g, items);
	u = rng_double(r);
	uz = u * g->zeta_n;
	if (uz < 1.0)
		return g->min;
	if (uz < g->second)
		return g->min + 1;
	return g->min + (uint64_t)((double)items *
				   gen_zipfian_power(g, g->eta * u - g->eta +
								1.0));
}

static inline uint64_t gen_zipfian_next(struct gen_zipfian *g, struct rng *r)
{
	return gen_zipfian_next_of(g, r, g->items);
}

#endif
