/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/search.h - search the whole window of a key by loads, over mapped memory, where the fast
 * paths (index/shm.h) have not ended the operation. What a search cannot end is left to the phases
 * (index/step.h).
 *
 * `slots` is the key's window, from index/direct.h.
 */
#ifndef COMMON_INDEX_SEARCH_H
#define COMMON_INDEX_SEARCH_H

#include "op.h"

/** A GET. False: leave it to index_run(). */
bool index_get_search(struct index *ix, struct index_op *op, const uint64_t *slots);

/** An EXISTS. False: leave it to index_run(). */
bool index_exists_search(struct index *ix, struct index_op *op, const uint64_t *slots);

/**
 * A write from its start, or on after the fast path. `lost_to` points to the word that the fast
 * path's CAS found, or is NULL if it swapped nothing. Backs off after a lost CAS. False: leave it to
 * index_run().
 */
bool index_write_search(struct index *ix, struct index_op *op, const uint64_t *slots,
			const uint64_t *lost_to);

/**
 * The search of a write that index_run() drives, instead of READs, for lanes with
 * XPORT_DIRECT_STORE. True: *next_out is the result of swap_decide() or swap_absent(). False:
 * something unusual was met, and nothing has happened.
 */
bool index_write_decide(struct index *ix, struct index_op *op, enum next *next_out);

/* ---- values where they lie --------------------------------------------------------- */

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

#endif
