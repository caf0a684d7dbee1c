/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * report.h - results in YCSB's format: "[READ], Operations, 1000", or the same triples as
 * JSON, or as CSV. The classic lines are in us, cut to whole numbers as in YCSB; further
 * lines are in ns.
 */
#ifndef BENCH_CORE_REPORT_H
#define BENCH_CORE_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/gen/params.h"

#include "phase.h"

/** Takes a line; `is_text` is false for a number. */
typedef void (*report_fn)(void *arg, const char *metric, const char *measurement,
			  const char *value, bool is_text);

struct report {
	FILE *out;
	enum exporter kind;
	uint64_t lines; /* written so far */
	report_fn fn;   /* gets the lines instead; NULL: none */
	void *arg;
};

void report_begin(struct report *r, FILE *out, enum exporter kind);
/** Close what report_begin() opened. Errors show in ferror(out). */
void report_end(struct report *r);

void report_u64(struct report *r, const char *metric, const char *measurement,
		uint64_t value);
/** At most six decimals, no exponent, a point in every locale. */
void report_double(struct report *r, const char *metric,
		   const char *measurement, double value);
void report_text(struct report *r, const char *metric, const char *measurement,
		 const char *value);

/** [WORKLOAD]: all that is needed to repeat the run. */
void report_workload(struct report *r, const struct params *p, bool load,
		     const char *db_name);

/** [ENVIRONMENT]: machine and system. Characters that would break a line become blanks. */
void report_environment(struct report *r);

/** The store's own facts, under `metric`. */
void report_facts(struct report *r, const char *metric, struct db_store *store);

/** [OVERALL], [CPU] and the series of one phase. */
void report_phase(struct report *r, const struct params *p,
		  const struct phase_result *res);

/** Operations a second. */
double report_throughput(const struct phase_result *res);

#endif
