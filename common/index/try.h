/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/try.h - operations by loads, on lanes that hand out the region's memory: a GET; and
 * a write, whose search is by loads, and which is done at once, with a chain or without
 * one. What is unusual is left to the phases (index/step.h).
 */
#ifndef COMMON_INDEX_TRY_H
#define COMMON_INDEX_TRY_H

#include "op.h"

/**
 * An operation on a key of this hash is about to begin: where the region is mapped, its
 * window is fetched ahead. What it returns is for index_get() or index_put(), before anything
 * else is asked of the index.
 */
const void *index_prefetch_window(const struct index *ix, uint64_t hash);

/**
 * An operation that index_op_start() has set up, on a region that is mapped: a GET by
 * loads; a write by loads and a compare-and-swap, or a few if rivals win. No deadline, no
 * system call; of a clock as much as alloc_retire() needs. A write that loses to rivals
 * spins for some microseconds (backoff.h). True if the operation is final. False if the
 * lane has no mapping, or anything unusual was met: then it is pending, may hold a block,
 * and goes on in index_run() or index_submit(), inside the same gate. Counts retries, no
 * requests. A write that fails has cleared the error's line.
 */
bool index_try(struct index *ix, struct index_op *op);

/**
 * An operation has ended with FARKV_EVERSION: if others write its key just now, spin for
 * some microseconds at most, so that they get on. For calls that wait, not for a caller
 * with other requests in flight.
 */
void index_pause(struct index *ix, const struct index_op *op);

/**
 * The same as index_try() for operations that were just set up, ops[0..n-1]: the memory
 * that they need is fetched side by side, in stages (windows, blocks). Those that it
 * could not end are INDEX_PENDING still.
 */
void index_try_many(struct index *ix, struct index_op *const *ops, size_t n);

/**
 * Fetch ahead what operations of any kind, just set up, are going to look at, shortly
 * before they are run. Nothing else comes of it.
 */
void index_fetch_many(const struct index *ix, struct index_op *const *ops,
		      size_t n);

/* ---- for the files of the index --------------------------------------------------- */

/**
 * A writer's search by loads, in place of READs of its window and candidates; for
 * lanes with XPORT_DIRECT_STORE. True: *next_out is what swap_decide() or swap_absent()
 * said. False if anything unusual was met: nothing has happened.
 */
bool index_try_write(struct index *ix, struct index_op *op, enum next *next_out);

/** A GET by loads that walks its whole window. False: it is left to index_run(). */
bool index_get_search(struct index *ix, struct index_op *op, const uint64_t *slots);

/**
 * A PUT goes on by walking its whole window after the fast path. There its swap was lost
 * to the word *lost_to, or it has swapped nothing: NULL. False as above.
 */
bool index_put_search(struct index *ix, struct index_op *op, const uint64_t *slots,
		      const uint64_t *lost_to);

#endif
