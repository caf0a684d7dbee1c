/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * timed.h - calls of a handle that records latency.
 *
 * kv->timed is one of the reasons why a call does not take the fast path (kv->taken), so that a handle
 * that does not record pays nothing. Each public function that is recorded comes to timed_begin()
 * then, which clears it: between that and timed_end() the handle is an ordinary one. Handles of a
 * cluster's servers have the cluster's kv->latency, for requests, but are never `timed`.
 */
#ifndef CLIENT_TIMED_H
#define CLIENT_TIMED_H

#include "common/base/clock.h"

#include "handle.h"

/** A handle that was opened now is to record: FARKV_ENOMEM. */
int timed_start(struct farkv *kv);
/** It is about to be closed. */
void timed_stop(struct farkv *kv);

/** A recorded call begins: the time; 0 for a handle that does not record, or is NULL. */
static inline uint64_t timed_begin(struct farkv *kv)
{
	if (__builtin_expect(!kv || !kv->timed, 1))
		return 0;
	kv->timed = false;
	return clock_now_ns();
}

/** timed_end() after a time. */
int timed_record(struct farkv *kv, enum farkv_latency_kind kind, int result, uint64_t began_ns);

/** ... and ends; returns `result`. */
static inline int timed_end(struct farkv *kv, enum farkv_latency_kind kind, int result,
			    uint64_t began_ns)
{
	return __builtin_expect(!began_ns, 1) ? result : timed_record(kv, kind, result, began_ns);
}

/** The same for a call that took `n` completions, which are recorded already; returns `n`. */
int timed_took(struct farkv *kv, int n);

#endif
