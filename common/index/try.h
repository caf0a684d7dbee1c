/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/try.h - operations over mapped memory, single and in batches: the fast path (index/shm.h)
 * if it applies, then the search by loads (index/search.h). Unusual cases are left to the phases
 * (index/step.h).
 */
#ifndef COMMON_INDEX_TRY_H
#define COMMON_INDEX_TRY_H

#include "op.h"

struct get_source;
struct put;

/**
 * Prefetch the window of a key that is about to be used, if the region is mapped. Pass the result
 * to index_get() or index_put() before any other call on the index.
 */
const void *index_prefetch_window(const struct index *ix, uint64_t hash);

/** A GET that has not begun. */
struct index_get_req {
	struct index_key key;
	/* Not running, and not shared with another GET. The caller sets `into` and `into_cap`. */
	struct index_op *op;
};

/**
 * Begin a GET and try it as index_try() does. `window` is what index_prefetch_window() has just
 * returned for the key.
 *
 * True: the operation's result is final; if it is 0, so are its version and the view's value and
 * length, and no other field is set. False: it has begun, and index_run() ends it. A GET that
 * fails, or may fail later, has cleared the error's line, except if `window` is NULL.
 */
bool index_get(struct index *ix, const struct index_get_req *req, const void *window);

/**
 * index_get() for `n` GETs, without index_prefetch_window(): their windows, then their blocks, are
 * requested together. True: all are final. False: all have begun and must be run together; some may
 * need a new connection, and then the results of the others have to be read again
 * (index_op_resume()).
 */
bool index_get_many(struct index *ix, const struct index_get_req *reqs, size_t n);

/** index_get() for a PUT that index_op_start() has just set up. */
bool index_put(struct index *ix, struct index_op *op, const void *window);

/* ---- after a fast path --------------------------------------------------------------- */

/**
 * Continue after get_fast(): look at the line's other candidates, then search the window. Sets up
 * req->op, whose view shows whether the value is at src->to or in the operation's buffer. False: it
 * is pending, and index_run() must end it.
 */
bool index_get_slow(struct index *ix, const struct index_get_req *req, struct get_source *src);

/**
 * Continue as an operation, which index_op_start() has set up: hand the block over to it. `lost`:
 * after PUT_LOST.
 */
void index_put_to_op(struct index_op *op, const struct put *p, bool lost);

/* ---- operations that index_op_start() has set up -------------------------------------- */

/**
 * Try an operation that index_op_start() has set up. True: it is final. False: the lane has no
 * mapping, or something unusual was met: the operation is pending, may hold a block, and continues
 * in index_run() or index_submit() inside the same critical section.
 *
 * No deadline, no system call; reads the clock only as often as retiring blocks needs. A write that
 * loses its CAS backs off for some microseconds (backoff.h). Counts retries, no requests. A write
 * that fails has cleared the error's line.
 */
bool index_try(struct index *ix, struct index_op *op);

/**
 * After FARKV_EVERSION: if others are writing the key now, back off for some microseconds. For a
 * caller that would otherwise wait, not for one with other requests in flight.
 */
void index_pause(struct index *ix, const struct index_op *op);

/**
 * index_try() for ops[0..n-1], which were just set up. Requests the memory of many together,
 * windows first, then blocks. Those not ended are INDEX_PENDING.
 */
void index_try_many(struct index *ix, struct index_op *const *ops, size_t n);

/** Prefetch windows and blocks of operations that are about to run. No other effect. */
void index_fetch_many(const struct index *ix, struct index_op *const *ops,
		      size_t n);

#endif
