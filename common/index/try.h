/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/try.h - operations over mapped memory by loads: reads, and writes whose search is by loads
 * and whose CAS is by an instruction or a chain. Unusual cases are left to the phases
 * (index/step.h).
 */
#ifndef COMMON_INDEX_TRY_H
#define COMMON_INDEX_TRY_H

#include "op.h"

/**
 * Prefetch the window of a key that is about to be used, if the region is mapped. Pass the result
 * to index_get() or index_put() before any other call on the index.
 */
const void *index_prefetch_window(const struct index *ix, uint64_t hash);

/**
 * Try an operation that index_op_start() has set up. True: it is final. False: the lane has no
 * mapping, or something unusual was met: the operation is pending, may hold a block, and goes on in
 * index_run() or index_submit() inside the same critical section.
 *
 * No deadline, no system call; reads the clock at most as often as retiring blocks needs. A write
 * that loses its CAS backs off for some microseconds (backoff.h). Counts retries, no requests. A
 * write that fails has cleared the error's line.
 */
bool index_try(struct index *ix, struct index_op *op);

/**
 * After FARKV_EVERSION: if others are writing the key now, back off for some microseconds. For
 * callers that wait, not for those with other requests in flight.
 */
void index_pause(struct index *ix, const struct index_op *op);

/**
 * index_try() for ops[0..n-1], which were just set up. Requests the memory of many side by side,
 * windows first, then blocks. Those not ended are INDEX_PENDING.
 */
void index_try_many(struct index *ix, struct index_op *const *ops, size_t n);

/** Prefetch windows and blocks of operations that are about to run. No other effect. */
void index_fetch_many(const struct index *ix, struct index_op *const *ops,
		      size_t n);

/** A look at a key's slot: where, what was there, and the time before. */
struct index_look {
	uint64_t slot; /* offset in the region */
	uint64_t word;
	uint64_t at_ns;
};

/** A value where it lies in the mapped region. */
struct index_borrowed {
	const uint8_t *value;
	uint32_t value_len;
	uint32_t user;    /* as little verified as the value; 0: none */
	uint64_t version;
	uint64_t left_ms; /* until it expires, or BLOCK_NEVER */
	struct index_look look;
};

/**
 * Find the value of a key by loads, without reading it: header and key are verified. `op` is not
 * running; its buffer gets the header. 0, FARKV_ENOTFOUND, or INDEX_PENDING: the lane has no
 * mapping, or something unusual was met, which a GET finds out.
 */
int index_borrow(struct index *ix, struct index_op *op, const struct index_key *key,
		 struct index_borrowed *out);

/**
 * True if what the caller has loaded of that value was it, given that no barrier was answered since
 * the look: the slot still holds the word, or not more than T/2 has passed. `one_clock`: all
 * writers run by this machine's clock; otherwise time proves nothing. Inside the critical section.
 */
bool index_look_holds(const struct index *ix, const struct index_look *look, bool one_clock);

/* ---- for the files of the index --------------------------------------------------- */

/**
 * A writer's search by loads instead of READs, for lanes with XPORT_DIRECT_STORE. True: *next_out
 * is the result of swap_decide() or swap_absent(). False: something unusual was met, and nothing
 * has happened.
 */
bool index_try_write(struct index *ix, struct index_op *op, enum next *next_out);

/** A GET by loads over the whole window. False: leave it to index_run(). */
bool index_get_search(struct index *ix, struct index_op *op, const uint64_t *slots);

/**
 * A PUT by loads over the whole window, after the fast path. `lost_to` points to the word that the
 * fast path's CAS found, or is NULL if it swapped nothing. False: leave it to index_run().
 */
bool index_put_search(struct index *ix, struct index_op *op, const uint64_t *slots,
		      const uint64_t *lost_to);

#endif
