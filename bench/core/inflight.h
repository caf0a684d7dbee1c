/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * inflight.h - an open loop of one thread with many requests in flight: every arrival of
 * the schedule (arrivals.h) is submitted when it is due, whether or not earlier ones are
 * complete. So a store that stalls gets the requests that arrive meanwhile, as in service.
 *
 * A session has at most queuedepth= operations in flight. An arrival that is due while all
 * of them are waits for the first completion. It is not dropped but counted (measure.h,
 * late_full): from then on the load follows the store as in a closed loop, and only
 * intended latencies are meaningful.
 *
 * An operation of two requests (read-modify-write, update=field) submits the second one
 * when the first is complete, in the same place. Latencies begin at submission, intended
 * ones at the due time; both end with the poll that returned the completion.
 *
 * The thread polls while anything is in flight, and yields after empty polls. It sleeps
 * only if nothing is.
 */
#ifndef BENCH_CORE_INFLIGHT_H
#define BENCH_CORE_INFLIGHT_H

#include "worker_parts.h"

/** True if such a loop is wanted and the store supports it. */
static inline bool inflight_used(const struct params *p,
				 const struct db_ops *ops)
{
	return p->open_loop && p->queue_depth && ops->submit;
}

/**
 * Set w->inflight for the worker's open session if inflight_used(): worker_run() then is
 * inflight_run(). FARKV_ENOMEM with a detail. worker_fini() frees it.
 */
int inflight_init(struct worker *w);
void inflight_free(struct inflight *f);

/**
 * Take arrivals until there are none, time is up, or shared->stop; then wait for all in
 * flight. All of them are measured.
 */
void inflight_run(struct worker *w);

#endif
