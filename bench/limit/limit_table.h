/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * limit_table.h - the figures of `kvbench limit` and their table: medians over the rounds,
 * and medians of the rounds' ratios to the first side, the limit.
 */
#ifndef BENCH_LIMIT_LIMIT_TABLE_H
#define BENCH_LIMIT_LIMIT_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "limit_side.h"

#define LIMIT_SIDES_MAX 6

/** One side's result of one test in one round; all 0: none. */
struct limit_cell {
	double rate; /* operations a second */
	double p50;  /* ns, of an operation or of a batch */
	double p99;
};

struct limit_table {
	size_t n_sides, rounds;
	const struct limit_side_ops *side[LIMIT_SIDES_MAX];
	struct limit_cell *cells;
};

/** For `rounds` rounds. FARKV_ENOMEM with a detail. */
int limit_table_init(struct limit_table *t, size_t rounds);
void limit_table_fini(struct limit_table *t);

struct limit_cell *limit_cell(const struct limit_table *t, size_t round,
			      enum limit_test test, size_t side);

/** A line for each test and side that has figures. */
void limit_table_print(const struct limit_table *t, FILE *out);

#endif
