/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gen_zipfian.h"

/* Euler-Maclaurin for the terms first+1..last of x^-theta, theta < 1. */
static double tail(double first, double last, double theta)
{
	double p = 1.0 - theta;
	double integral = (pow(last, p) - pow(first, p)) / p;
	double ends = (pow(last, -theta) - pow(first, -theta)) / 2.0;
	double slopes = -theta *
			(pow(last, -theta - 1.0) - pow(first, -theta - 1.0)) /
			12.0;

	return integral + ends + slopes;
}

double gen_zipfian_zeta(uint64_t from, uint64_t to, double theta, double sum)
{
	uint64_t direct = from > ZIPFIAN_DIRECT_TERMS ? from
						      : ZIPFIAN_DIRECT_TERMS;
	uint64_t i;

	/* A short range is cheaper term by term. */
	if (to - from <= 4096)
		direct = to;
	for (i = from; i < to && i < direct; i++)
		sum += 1.0 / pow((double)(i + 1), theta);
	if (i < to)
		sum += tail((double)i, (double)to, theta);
	return sum;
}

/*
 * One or two items use eta only after their number has grown; starting from three keeps
 * every draw in range, unlike YCSB's formula.
 */
static void set_eta(struct gen_zipfian *g)
{
	double items = g->items < 3 ? 3.0 : (double)g->items;

	g->eta = (1.0 - pow(2.0 / items, 1.0 - g->theta)) /
		 (1.0 - g->zeta_2 / g->zeta_n);
}

void gen_zipfian_init_zeta(struct gen_zipfian *g, uint64_t min, uint64_t max,
			   double theta, double zeta_n)
{
	g->min = min;
	g->items = max - min + 1;
	g->zeta_for = g->items;
	g->theta = theta;
	g->alpha = 1.0 / (1.0 - theta);
	g->hundred = fabs(g->alpha - 100.0) < 1e-9;
	g->zeta_2 = gen_zipfian_zeta(0, 2, theta, 0.0);
	g->zeta_n = zeta_n;
	g->second = 1.0 + pow(0.5, theta);
	set_eta(g);
}

void gen_zipfian_init(struct gen_zipfian *g, uint64_t min, uint64_t max,
		      double theta)
{
	gen_zipfian_init_zeta(g, min, max, theta,
			      gen_zipfian_zeta(0, max - min + 1, theta, 0.0));
}

void gen_zipfian_grow(struct gen_zipfian *g, uint64_t items)
{
	if (items <= g->zeta_for)
		return;
	g->zeta_n = gen_zipfian_zeta(g->zeta_for, items, g->theta, g->zeta_n);
	g->zeta_for = items;
	set_eta(g);
}
