/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * timed.h - calls of a handle that records latency.
 *
 * kv->timed is one of the reasons against the fast path (kv->taken), so a handle that does not
 * record pays nothing. On the slow path each recorded function calls timed_begin(), which clears
 * kv->timed: until timed_end() the handle is an ordinary one. Handles of a cluster's servers have
 * the cluster's kv->latency, for requests, but are never `timed`.
 */
#ifndef CLIENT_TIMED_H
#define CLIENT_TIMED_H

#include "common/base/clock.h"

#include "handle.h"

/** Let a handle that was just opened record its calls. 0, or FARKV_ENOMEM with a detail. */
int timed_start(struct farkv *kv);
/** Before a handle is closed: add its counts to the sums of the process. */
void timed_stop(struct farkv *kv);

/** Begin a recorded call. Returns the time, or 0 if the handle does not record or is NULL. */
static inline uint64_t timed_begin(struct farkv *kv)
{
	if (__builtin_expect(!kv || !kv->timed, 1))
		return 0;
	kv->timed = false;
	return clock_now_ns();
}

/** timed_end() of a call that is recorded. */
int timed_record(struct farkv *kv, enum farkv_latency_kind kind, int result, uint64_t began_ns);

/** End the call of timed_begin(), and record it unless `began_ns` is 0. Returns `result`. */
static inline int timed_end(struct farkv *kv, enum farkv_latency_kind kind, int result,
			    uint64_t began_ns)
{
	return __builtin_expect(!began_ns, 1) ? result : timed_record(kv, kind, result, began_ns);
}

/**
 * End a call that took `n` completions, each of which was recorded when it was taken. Returns `n`.
 */
int timed_took(struct farkv *kv, int n);

#endif
