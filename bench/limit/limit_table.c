/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "limit_table.h"

#include <farkv.h>
#include <stdlib.h>

#include "bench/base/stat.h"
#include "common/base/err.h"

int limit_table_init(struct limit_table *t, size_t rounds)
{
	t->rounds = rounds;
	t->cells = calloc(rounds * LIMIT_TESTS * LIMIT_SIDES_MAX,
			  sizeof(*t->cells));
	return t->cells ? 0 : err_set(FARKV_ENOMEM, "no memory for results");
}

void limit_table_fini(struct limit_table *t)
{
	free(t->cells);
}

struct limit_cell *limit_cell(const struct limit_table *t, size_t round,
			      enum limit_test test, size_t side)
{
	return &t->cells[(round * LIMIT_TESTS + test) * LIMIT_SIDES_MAX +
			 side];
}

static double rate_of(const struct limit_cell *c)
{
	return c->rate;
}

static double p50_of(const struct limit_cell *c)
{
	return c->p50;
}

static double p99_of(const struct limit_cell *c)
{
	return c->p99;
}

/* Median of a figure, or of its ratios to the first side. */
static double median_of(const struct limit_table *t, enum limit_test test,
			size_t side, double (*figure)(const struct limit_cell *),
			bool ratio)
{
	double *v = calloc(t->rounds, sizeof(*v)), m;

	for (size_t r = 0; v && r < t->rounds; r++) {
		double of = ratio ? figure(limit_cell(t, r, test, 0)) : 1.0;

		v[r] = of > 0.0 ? figure(limit_cell(t, r, test, side)) / of
				: 0.0;
	}
	m = v ? stat_median(v, t->rounds) : 0.0;
	free(v);
	return m;
}

static void print_row(const struct limit_table *t, enum limit_test test,
		      size_t side, FILE *out)
{
	double rate = median_of(t, test, side, rate_of, false);
	const struct limit_side_ops *ops = t->side[side];

	if (rate <= 0.0)
		return;
	fprintf(out, "  %-12s %12.0f %9.2f %9.0f %9.0f %9.2f\n",
		ops->row[test] ? ops->row[test] : ops->name, rate,
		median_of(t, test, side, rate_of, true),
		median_of(t, test, side, p50_of, false),
		median_of(t, test, side, p99_of, false),
		median_of(t, test, side, p99_of, true));
}

void limit_table_print(const struct limit_table *t, FILE *out)
{
	static const char *const title[LIMIT_TESTS] = {
		[LIMIT_GET] = "get",
		[LIMIT_PUT] = "put",
		[LIMIT_MGET] = "get x32",
		[LIMIT_MPUT] = "put x32",
		[LIMIT_QGET] = "get q32",
		[LIMIT_QPUT] = "put q32",
	};

	fprintf(out, "%-14s %12s %9s %9s %9s %9s\n", "", "per second", "share",
		"p50 ns", "p99 ns", "p99 ratio");
	for (int test = 0; test < LIMIT_TESTS; test++) {
		fprintf(out, "%s\n", title[test]);
		for (size_t s = 0; s < t->n_sides; s++)
			print_row(t, test, s, out);
	}
}
