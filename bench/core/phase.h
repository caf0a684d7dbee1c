/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * phase.h - one load or one run on one store: threads open their sessions, warm up, start
 * together, and are measured until the last one has ended.
 */
#ifndef BENCH_CORE_PHASE_H
#define BENCH_CORE_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gen/params.h"
#include "bench/store/db.h"

#include "measure.h"
#include "status.h"
#include "timeline.h"

struct phase {
	const struct params *params;
	struct db_store *store;
	bool load;
	enum status_mode status;
	const char *title; /* of the live status line */
	const char *tag;   /* in the names of .hdr files; NULL: do not write them */
	bool timeline;     /* keep one in the result */
};

#define FIGURES_MAX 16

/** A binding's own count, from db_ops.figures(). */
struct figure {
	char name[24];
	uint64_t value;
};

struct phase_result {
	struct measure m;  /* of all threads */
	struct timeline timeline; /* if asked for */
	uint64_t ops;      /* operations done */
	uint64_t ns;       /* from the common start to the end of the last thread */
	bool interrupted;  /* SIGINT or SIGTERM ended it early */
	bool unrecorded;   /* a .hdr file could not be written; already reported */
	uint64_t warm_ops; /* done in the warm-up; in the store's own figures */
	uint64_t cpu_ns;   /* CPU time of this process during `ns` */
	uint64_t server_cpu_ns; /* of the store; 0: unknown */
	struct figure figures[FIGURES_MAX];
	unsigned n_figures;
	struct db_served served[DB_SERVERS_MAX]; /* of one process alone */
	unsigned n_served; /* servers; 0: one, or not known */
	char failure[512]; /* the first failed operation, or "" */
};

/** NULL and a zeroed struct are allowed. */
void phase_result_fini(struct phase_result *r);

/**
 * Run the phase. End *out with phase_result_fini(). Failed operations are results; an error
 * means that there is no result: a session could not be opened (the binding's error),
 * FARKV_EINVAL, FARKV_ENOMEM, FARKV_ESYS, each with a detail.
 */
int phase_run(const struct phase *ph, struct phase_result *out);

/**
 * From now on SIGINT, SIGTERM and SIGHUP, unless ignored, end phases early instead of the
 * process.
 */
void phase_catch_signals(void);

/** The last such signal, or 0. */
int phase_signal(void);

/** True if one came. */
bool phase_was_interrupted(void);

#endif
