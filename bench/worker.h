/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * worker.h - the loop of one benchmark thread: draw operations, send them to
 * the store, check what comes back, record how long it took.
 *
 * With openloop=true an operation is taken from the common schedule of arrivals
 * (arrivals.h), else it follows its thread's last one. Where the session takes
 * requests, those of an open loop are under way together: inflight.h.
 *
 * The loop takes no lock and no memory, and makes no system call of its own
 * but to wait for a schedule (-target).
 */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arrivals.h"
#include "db.h"
#include "measure.h"
#include "workload.h"

/** Operations drawn ahead of the call: their hashes overlap in the processor,
 * and one time stamp ends an operation and starts the next. */
#define WORKER_AHEAD 32
#define WORKER_OPS (DB_BATCH_MAX > WORKER_AHEAD ? DB_BATCH_MAX : WORKER_AHEAD)

/** A thread that meets so many "service unavailable" in a row gives up. */
#define WORKER_PATIENCE 100

/** What the threads of a phase share. */
struct worker_shared {
	const struct params *params;
	struct workload *workload;
	struct arrivals arrivals; /* of an open loop */
	_Atomic bool stop;
	atomic_flag have_failure; /* the first one to set it writes `failure` */
	char failure[512];        /* read it when the threads have ended */
};

struct inflight;

struct worker {
	/* of the caller */
	struct worker_shared *shared;
	struct db *db;
	struct workload_thread draw;
	double tick; /* ticks between two operations' due times; 0: no target */
	uint64_t offset; /* ticks before the first is due; with a target */

	/* own */
	struct measure *m;     /* where results go now: warm-up or measured */
	uint64_t now;          /* the last stamp */
	uint64_t until;        /* when time is up; 0: never */
	uint64_t due;          /* when the operation was due; 0: when called */
	struct rng gaps;       /* between arrivals; seeded by the caller */
	bool over;             /* there are no more arrivals */
	unsigned unavailable;  /* in a row */
	const char *why; /* a completion's line about its failure; NULL: db's error() */
	char *values;          /* a value per operation of a batch */
	size_t value_stride;
	char *scratch;         /* one more, for checks and old values */
	size_t value_min, value_max;
	struct op *ops;      /* drawn ahead */
	size_t next, drawn;  /* of `ops`: the next one, and how many there are */
	struct db_item *reads, *writes;
	struct inflight *inflight; /* NULL: one call at a time */

	/* for the main thread, on a line of its own */
	_Alignas(64) _Atomic uint64_t done;
	char pad[56];
};

/** Buffers for `w`, whose shared part is set. FARKV_ENOMEM with a detail. */
int worker_init(struct worker *w);
void worker_fini(struct worker *w);

/**
 * Carry out `todo` operations (0: no bound, or an open loop's schedule has one), until
 * `until` (a stamp; 0: no bound), or until shared->stop. Results go to `m`, the number
 * done to w->done.
 * What was drawn and not begun is left for the next call: an insert that was
 * dropped would leave a gap in the numbers of the records.
 */
void worker_run(struct worker *w, struct measure *m, uint64_t todo,
		uint64_t until);

/** Record the time that closing the session took. */
void worker_note_cleanup(struct worker *w, struct measure *m, uint64_t start);

#endif
