/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/publish.h - changing a slot: decide by what was found there, write the block, swap the word
 * (OP_SWAP), evaluate the result, also after the lane broke, and retire the old block.
 */
#ifndef COMMON_INDEX_PUBLISH_H
#define COMMON_INDEX_PUBLISH_H

#include "alloc.h"
#include "index_state.h"
#include "op.h"

/** NEXT_DECIDE: by kind, op->search.word and .version. kind_compares() needs the version. */
enum next swap_decide(struct index *ix, struct index_op *op);
/** NEXT_ABSENT: claim slot op->search.from, wait for growth, or end. */
enum next swap_absent(struct index *ix, struct index_op *op);

/** NEXT_SWAP: the chain of OP_SWAP; it also writes the block unless that is written. */
enum next swap_chain(struct index *ix, struct index_op *op);
/** The chain of OP_SWAP is done. */
enum next swap_done(struct index *ix, struct index_op *op);
/** The CAS of op->swap found `found`. */
enum next swap_result(struct index *ix, struct index_op *op, uint64_t found);
/** The lane broke while the operation's chain, of any phase, was in flight. */
enum next swap_broken(struct index *ix, struct index_op *op);

/**
 * Build the operation's block under its next version: in the block itself if that is mapped and
 * large, else in op->buf. NEXT_POST, or the operation has ended.
 */
enum next op_block_image(struct index *ix, struct index_op *op,
			 uint8_t **image_out);

/** DOUBT_RESOLVING: conclude from the key's slot, which holds `word`, or from its absence. */
enum next swap_resolve(struct index *ix, struct index_op *op, uint64_t word);
enum next swap_resolve_absent(struct index *ix, struct index_op *op);

/* ---- the block that a CAS has unlinked ----------------------------------------------- */

/**
 * A block that is retired without a clock reading starts its grace period at the next reading, and
 * so waits a little longer. A reading costs half as much as a search by loads, and 1 % of a write
 * by RDMA (rxe). At most UNDATED_MAX - 1 blocks in a row are retired undated, and only of classes
 * that have enough other deferred blocks.
 */
#define UNDATED_MAX 16u
/** Larger blocks, of more than 32 KiB, are dated at once. */
#define UNDATED_CLASS 34u
static_assert(CLASS_BYTES(UNDATED_CLASS) == 32768, "UNDATED_CLASS");

/** True if a block may be retired without a date this time. */
static inline bool may_stay_undated(const struct index *ix, uint8_t cls)
{
	return cls <= UNDATED_CLASS &&
	       alloc_class_deferred(&ix->alloc->cls[cls]) >= 2 * UNDATED_MAX &&
	       ix->undated + 1 < UNDATED_MAX;
}

/** Account for a block that the session got in exchange for one of class `instead`. */
static inline void op_trade(struct index *ix, struct block_ref ref, uint8_t instead)
{
	if (__builtin_expect(ref.cls != instead, 0))
		alloc_gain(ix->alloc, ref.cls);
}

/**
 * Retire a block that a CAS has unlinked, in exchange for one of class `instead`. Its grace period
 * begins now or at the next clock reading.
 */
static inline void op_retire(struct index *ix, struct block_ref ref, uint8_t instead)
{
	op_trade(ix, ref, instead);
	/* On failure the block is leaked; the sweep finds it. */
	if (may_stay_undated(ix, ref.cls)) {
		ix->undated++;
		(void)alloc_retire_undated(ix->alloc, ref);
		return;
	}
	ix->undated = 0;
	ix->recent_ns = index_now(ix);
	(void)alloc_retire(ix->alloc, ref, ix->recent_ns);
}

#endif
