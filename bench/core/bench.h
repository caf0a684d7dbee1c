/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * bench.h - a whole benchmark: one or several stores, each opened once. Their rounds
 * alternate, so that disturbances of the machine affect all alike.
 */
#ifndef BENCH_CORE_BENCH_H
#define BENCH_CORE_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/base/props.h"
#include "bench/gen/params.h"
#include "bench/store/db.h"

#include "phase.h"

#define BENCH_DBS_MAX 8

struct report;

struct bench {
	struct props *props;
	struct params params;      /* of the measurement */
	struct params load_params; /* of a load that a run needs first */
	bool load;                 /* the load is measured */
	bool bad_file;             /* bench_init() failed at a property's file */
	bool timeline;             /* keep one of the measurement */
	enum status_mode status;
	size_t n_dbs;
	struct db_store *store[BENCH_DBS_MAX];
	struct phase_result *results; /* n_dbs per round, in order */
	size_t n_rounds;              /* finished rounds */
	/* Called before each round of store `i`; may be NULL. */
	void (*before)(void *arg, size_t i);
	void *before_arg;
	/* Of a comparison: */
	const char *placement[BENCH_DBS_MAX]; /* on processors, in words; NULL: not chosen */
	const char *left_out; /* one line per store that does not take part; NULL: none */
};

/**
 * Read the properties and open the stores. FARKV_EINVAL for properties, the
 * binding's own errors; with a detail. End with bench_fini() in any case.
 */
int bench_init(struct bench *b, struct props *props, const char *uri,
	       bool load);
void bench_fini(struct bench *b);

/**
 * Load the records that a run needs into store `i`, with progress on stderr. *out may be
 * NULL. Errors as phase_run(); a failed insert is one too (FARKV_ESYS).
 */
int bench_load_first(struct bench *b, size_t i, struct phase_result *out);

/**
 * All rounds. Loads first if a store starts empty (or as loadfirst= says). Errors as
 * phase_run(); failed operations are not errors.
 */
int bench_run(struct bench *b);

/**
 * Measure the rate of `ops` operations on the loaded store `i`, or of as many as fit into a
 * second. Not part of the results. Errors as phase_run(); failed operations are FARKV_ESYS.
 */
int bench_probe(struct bench *b, size_t i, uint64_t ops, double *rate_out);

/** Median of the rates of store `i`, and of its ratios to the first store's. */
double bench_median_rate(const struct bench *b, size_t i);
double bench_median_ratio(const struct bench *b, size_t i);

/** The result of store `i` whose throughput is the median of its rounds. */
const struct phase_result *bench_median(const struct bench *b, size_t i);

/** Operations of all rounds that failed. */
uint64_t bench_failures(const struct bench *b);

/** The first failure's text, or NULL. */
const char *bench_failure(const struct bench *b);

/** True if a .hdr file could not be written completely. */
bool bench_unrecorded(const struct bench *b);

/** The timelines of all rounds as a table; errors show in ferror(out). */
void bench_csv(const struct bench *b, FILE *out);

/** "1000 records of 100 bytes, zipfian; 95 % read, ...", without an end of line. */
void bench_describe(const struct bench *b, FILE *out);

/** Pass all lines of the report on. */
void bench_lines(const struct bench *b, struct report *r);

/** Print everything in YCSB's format. */
void bench_report(const struct bench *b, FILE *out);

#endif
