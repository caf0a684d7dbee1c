/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_zipfian.h - zipfian numbers, the smallest the most frequent, by the
 * method of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly
 * generating billion-record synthetic databases", SIGMOD 1994, as YCSB's
 * ZipfianGenerator carries it out: zeta grows with the number of items, eta
 * keeps the number of items of the start.
 */
#ifndef BENCH_GEN_ZIPFIAN_H
#define BENCH_GEN_ZIPFIAN_H

#include <math.h>
#include <stdbool.h>

#include "rng.h"

/** YCSB's constant: the exponent of every distribution called zipfian. */
#define ZIPFIAN_THETA 0.99

struct gen_zipfian {
	uint64_t min;
	uint64_t items;    /* of the start; stands in eta's numerator for ever */
	uint64_t zeta_for; /* zeta_n is the sum of so many terms */
	double theta;      /* 0 < theta < 1 */
	double alpha;      /* 1 / (1 - theta) */
	double zeta_2;
	double zeta_n;
	double eta;
	double second; /* 1 + 0.5^theta: below it, the second number */
	bool hundred;  /* alpha is 100 but for rounding: theta is 0.99 */
};

/**
 * Sum of i^-theta for i in from+1..to, added to `sum`. Term by term up to
 * ZIPFIAN_DIRECT_TERMS, which gives YCSB's own digits; beyond, the rest comes
 * from the Euler-Maclaurin formula, whose error there is below one part in
 * 10^20, so that 10^10 items cost milliseconds and not ten minutes.
 */
#define ZIPFIAN_DIRECT_TERMS (UINT64_C(1) << 20)
double gen_zipfian_zeta(uint64_t from, uint64_t to, double theta, double sum);

/** Numbers min..max. Cost: up to 2^20 terms of zeta, some 20 ms. */
void gen_zipfian_init(struct gen_zipfian *g, uint64_t min, uint64_t max,
		      double theta);

/** The same with a zeta that is known; no cost. */
void gen_zipfian_init_zeta(struct gen_zipfian *g, uint64_t min, uint64_t max,
			   double theta, double zeta_n);

/** Grow zeta to `items` terms; a smaller number changes nothing. */
void gen_zipfian_grow(struct gen_zipfian *g, uint64_t items);

/*
 * x^alpha for x up to 1. Of YCSB's theta alpha is 99.99999999999991; the whole
 * power takes eight products instead of a pow(), and differs by less than one
 * part in 10^12, which moves no rank below 10^9 but where pow() rounds too.
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

/** One number of min..min+items-1 for a number of items that may grow. */
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
