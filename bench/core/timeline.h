/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * timeline.h - a row for each kind of operation in each interval of a phase: for a table
 * (CSV), a plot, and YCSB's time series.
 */
#ifndef BENCH_CORE_TIMELINE_H
#define BENCH_CORE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "measure.h"

/** A row of all operations together, with `count` only. */
#define TIMELINE_ALL (-1)

struct timeline_row {
	double from_s; /* since the start of the phase */
	double len_s;
	int series; /* enum series, or TIMELINE_ALL */
	uint64_t count;
	double mean; /* this and the following in ns, of successful operations */
	uint64_t p50, p95, p99, p999, max;
};

struct timeline {
	struct timeline_row *v;
	size_t n, room;
};

/**
 * Add the rows of one interval in which `done` operations ended and `m` was measured.
 * FARKV_ENOMEM with a detail; earlier rows stay.
 */
int timeline_add(struct timeline *t, double from_s, double len_s,
		 uint64_t done, const struct measure *m);

void timeline_free(struct timeline *t);

/** The line of column names. */
void timeline_csv_head(FILE *out);

/** All rows as lines that begin with `store` and `round`. */
void timeline_csv(const struct timeline *t, const char *store, size_t round,
		  FILE *out);

#endif
