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
 * A write from its start, or from where the fast path ended. `lost_to` points to the word that the
 * fast path's CAS found, or is NULL if it swapped nothing. Backs off after a lost CAS. False: leave
 * it to index_run().
 */
bool index_write_search(struct index *ix, struct index_op *op, const uint64_t *slots,
			const uint64_t *lost_to);

/**
 * For a write that index_run() drives, on lanes with XPORT_DIRECT_STORE: search by loads instead of
 * READs. True: *next_out is the result of swap_decide() or swap_absent(). False, without effect, if
 * something unusual was met.
 */
bool index_write_decide(struct index *ix, struct index_op *op, enum next *next_out);

/* ---- borrowed values ------------------------------------------------------------ */

/** A look at a key's slot: the slot, its word, and a time before the look. */
struct index_look {
	uint64_t slot; /* offset in the region */
	uint64_t word;
	uint64_t at_ns;
};

/** A borrowed value: a pointer into the mapped region. */
struct index_borrowed {
	const uint8_t *value;
	uint32_t value_len;
	uint32_t user;    /* not verified, like the value; 0: none */
	uint64_t version;
	uint64_t left_ms; /* until it expires, or BLOCK_NEVER */
	struct index_look look;
};

/**
 * Find the value of a key by loads, without reading it: header and key are verified. `op` is not
 * running; its buffer gets the header. 0, FARKV_ENOTFOUND, or INDEX_PENDING: the lane has no
 * mapping, or something unusual was met; use a GET.
 */
int index_borrow(struct index *ix, struct index_op *op, const struct index_key *key,
		 struct index_borrowed *out);

/**
 * True if the bytes that the caller has loaded from the borrowed value were that value, provided
 * that the session has answered no barrier since the look: the slot still holds the word, or at
 * most T/2 has passed. `one_clock`: all writers use this machine's clock; otherwise the time is no
 * proof. Inside the critical section.
 */
bool index_look_holds(const struct index *ix, const struct index_look *look, bool one_clock);

#endif
