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

#include <stdint.h>

#include "worker_parts.h"

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
