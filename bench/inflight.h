/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * inflight.h - an open loop of one thread with many requests under way: every arrival
 * of the schedule (arrivals.h) is submitted when it is due, whether or not those before
 * it are complete. So a store that stalls meets the requests that arrive meanwhile, as
 * it would in service.
 *
 * A session has at most queuedepth= operations under way. An arrival that is due while
 * all of them are waits for the first completion. It is not dropped, and it is counted
 * (measure.h, late_full): from there on the load follows the store as in a closed loop,
 * and only intended latencies tell the truth.
 *
 * An operation of two requests (read-modify-write, update=field) submits the second
 * when the first is complete, in the same place. Latencies begin at the submission,
 * intended ones when the arrival was due; both end with the poll that told of the end.
 *
 * The thread polls as long as anything is under way: it sleeps only if nothing is, and
 * lets other threads pass if polls find nothing.
 */
#ifndef BENCH_INFLIGHT_H
#define BENCH_INFLIGHT_H

#include "worker.h"

/** Whether such a loop is wanted of stores with these calls, and they can. */
static inline bool inflight_used(const struct params *p,
				 const struct db_ops *ops)
{
	return p->open_loop && p->queue_depth && ops->submit;
}

/**
 * Set w->inflight for the worker's session, which is open, if inflight_used(): then
 * worker_run() is inflight_run(). FARKV_ENOMEM with a detail. worker_fini() frees it.
 */
int inflight_init(struct worker *w);
void inflight_free(struct inflight *f);

/**
 * Take arrivals until there are none, time is up, or shared->stop; then wait for the
 * ends of all that is under way. All of these are measured.
 */
void inflight_run(struct worker *w);

#endif
