/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * worker.h - the loop of one benchmark thread: draw operations, send them to the store,
 * check the results, record latencies.
 *
 * With openloop=true operations come from the common schedule of arrivals (arrivals.h);
 * otherwise each follows the thread's previous one. If the session has requests, an open
 * loop keeps many in flight: inflight.h.
 *
 * The loop takes no lock, allocates no memory, and makes no system call except to wait for
 * a schedule (-target).
 */
#ifndef BENCH_CORE_WORKER_H
#define BENCH_CORE_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/gen/workload.h"
#include "bench/store/db.h"

#include "arrivals.h"
#include "measure.h"

/**
 * Operations drawn before the call: their hashes overlap in the processor, and one time
 * stamp ends an operation and starts the next.
 */
#define WORKER_AHEAD 32
#define WORKER_OPS (DB_BATCH_MAX > WORKER_AHEAD ? DB_BATCH_MAX : WORKER_AHEAD)

/** A thread gives up after so many consecutive "service unavailable". */
#define WORKER_PATIENCE 100

/** Shared by the threads of a phase. */
struct worker_shared {
	const struct params *params;
	struct workload *workload;
	struct arrivals arrivals; /* of an open loop */
	_Atomic bool stop;
	atomic_flag have_failure; /* the thread that sets it writes `failure` */
	char failure[512];        /* read after the threads have ended */
};

struct inflight;

struct worker {
	/* of the caller */
	struct worker_shared *shared;
	struct db *db;
	struct workload_thread draw;
	double tick; /* ticks between due times; 0: no target */
	uint64_t offset; /* ticks before the first due time */

	/* own */
	struct measure *m;     /* current results: warm-up or measured */
	uint64_t now;          /* the last stamp */
	uint64_t until;        /* when time is up; 0: never */
	uint64_t due;          /* due time of the operation; 0: when called */
	struct rng gaps;       /* between arrivals; seeded by the caller */
	bool over;             /* no more arrivals */
	unsigned unavailable;  /* consecutive failures */
	const char *why; /* a completion's failure in words; NULL: error() */
	char *values;          /* a value per operation of a batch */
	size_t value_stride;
	char *scratch;         /* one more value, for checks and old values */
	size_t value_min, value_max;
	struct op *ops;      /* drawn ahead */
	size_t next, drawn;  /* in `ops`: the next one, and their number */
	struct db_item *reads, *writes;
	struct inflight *inflight; /* NULL: one call at a time */

	/* for the main thread, on a line of its own */
	_Alignas(64) _Atomic uint64_t done;
	char pad[56];
};

/** Allocate the buffers of `w`, whose shared part is set. FARKV_ENOMEM with a detail. */
int worker_init(struct worker *w);
void worker_fini(struct worker *w);

/**
 * Do `todo` operations (0: unlimited, or the open loop's schedule is the limit), until
 * `until` (a stamp; 0: unlimited), or until shared->stop. Results go to `m`, the number
 * done to w->done. Operations drawn but not started stay for the next call, as a dropped
 * insert would leave a gap in the record numbers.
 */
void worker_run(struct worker *w, struct measure *m, uint64_t todo,
		uint64_t until);

/** Record the time of closing the session. */
void worker_note_cleanup(struct worker *w, struct measure *m, uint64_t start);

#endif
