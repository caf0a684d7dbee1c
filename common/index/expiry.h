/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/expiry.h - values that expire: CLOCK, whether a block has expired, and the expiry of a
 * block that is about to be written. doc/protocol.md, "Expiry", has the rules.
 *
 * Over mapped memory CLOCK is loaded. Other clients have a sample of it: since its READ, CLOCK has
 * been at least the sample (the server may be stopped), and at most the sample plus the longest
 * time that may have passed.
 */
#ifndef COMMON_INDEX_EXPIRY_H
#define COMMON_INDEX_EXPIRY_H

#include "common/base/atomic.h"
#include "index_state.h"
#include "op.h"

/** CLOCK, over mapped memory. A following atom_load_follow() is not executed before it. */
static inline uint64_t expiry_clock(const struct index *ix)
{
	return atom_load_follow((const uint64_t *)(const void *)(ix->lane->base +
								 REGION_CLOCK_OFF));
}

/** False if no value of the region expires. */
static inline bool expiry_used(const struct index *ix)
{
	return !(ix->lane->caps & XPORT_DIRECT) || expiry_clock(ix) != 0;
}

/**
 * block_ttl_left() of a verified block, over mapped memory. Loads CLOCK only if the value expires.
 */
static inline uint64_t expiry_left(const struct index *ix, const struct block_view *view)
{
	return view->expiry ? block_ttl_left(view->expiry, view->flags, expiry_clock(ix)) :
			      BLOCK_NEVER;
}

/**
 * Set op->left_ms of the key's block, which `word` names. False: the sample of CLOCK is not exact
 * enough; the chain of OP_CLOCK is filled in (NEXT_POST). For operations that READ; the word was
 * READ after op->search.clock_ms.
 */
bool expiry_known(struct index *ix, struct index_op *op, uint64_t word,
		  const struct block_view *view);

/**
 * Add a READ of CLOCK to the chain; the slot is READ after it. `word` was in the slot before: if
 * the slot still shows it, this CLOCK is enough for expiry_known().
 */
void expiry_add_clock(const struct index *ix, struct index_op *op, uint64_t word);
/** The chain of expiry_add_clock() is done. False: CLOCK may be torn, and is not used. */
bool expiry_take_clock(struct index *ix, struct index_op *op);
/**
 * The chain of OP_CLOCK is done. True: op->left_ms is set, and the slot still held op->aged.word.
 * False: start again.
 */
bool expiry_looked(struct index *ix, struct index_op *op);

/**
 * Set op->expires of a value that is to expire. False: *next_out is the next step: OP_DATE, or
 * waiting for CLOCK.
 */
bool expiry_date(struct index *ix, struct index_op *op, enum next *next_out);
/** The chain of OP_DATE is done. */
enum next expiry_dated(struct index *ix, struct index_op *op);
/** expiry_date() over mapped memory. False: CLOCK is 0. */
bool expiry_date_now(const struct index *ix, struct index_op *op);

#endif
