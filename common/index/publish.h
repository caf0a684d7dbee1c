/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/publish.h - what changes a slot: decide by what was found there, write the block and
 * swap the word (OP_SWAP), and see what came of it, also when the lane broke meanwhile.
 */
#ifndef COMMON_INDEX_PUBLISH_H
#define COMMON_INDEX_PUBLISH_H

#include "alloc_inline.h"
#include "index_priv.h"

/** NEXT_DECIDE: by the kind, and by op->search.word and .version; only a CAS looks at the
 * version. */
enum next swap_decide(struct index *ix, struct index_op *op);
/** NEXT_ABSENT: claim the slot op->search.from, wait, or end. */
enum next swap_absent(struct index *ix, struct index_op *op);

/** NEXT_SWAP: the chain of OP_SWAP, which writes the block, too, if that is not written. */
enum next swap_chain(struct index *ix, struct index_op *op);
/** That chain is done. */
enum next swap_done(struct index *ix, struct index_op *op);
/** The CAS of op->swap found this word. */
enum next swap_result(struct index *ix, struct index_op *op, uint64_t found);
/** The lane broke under a chain, of OP_SWAP or another. */
enum next swap_broken(struct index *ix, struct index_op *op);

/**
 * The image of the operation's block, of its next version: in op->buf, or where it
 * belongs, if that is mapped and the better place. NEXT_POST; or the operation has ended.
 */
enum next op_block_image(struct index *ix, struct index_op *op,
			 uint8_t **image_out);

/** DOUBT_RESOLVING: the key's slot holds `word`, or there is none. */
enum next swap_resolve(struct index *ix, struct index_op *op, uint64_t word);
enum next swap_resolve_absent(struct index *ix, struct index_op *op);

/* ---- the block that a CAS has unlinked ----------------------------------------------- */

/**
 * A clock is as dear as half a search by loads, and some 1 % of a write by RDMA (measured on
 * rxe). Who has many blocks at rest can let the last few rest a little longer; who has few
 * would miss them.
 */
#define UNDATED_MAX 16u
/** Blocks of larger classes, of more than 32 KiB, are worth having at once. */
#define UNDATED_CLASS 34u
static_assert(CLASS_BYTES(UNDATED_CLASS) == 32768, "UNDATED_CLASS");

/** May a block rest without a look at the clock, this time? */
static inline bool may_stay_undated(const struct index *ix, uint8_t cls)
{
	return cls <= UNDATED_CLASS &&
	       alloc_class_deferred(&ix->alloc->cls[cls]) >= 2 * UNDATED_MAX &&
	       ix->undated + 1 < UNDATED_MAX;
}

/** A block is this session's now, for one of class `instead` that it gave. */
static inline void op_trade(struct index *ix, struct block_ref ref, uint8_t instead)
{
	if (__builtin_expect(ref.cls != instead, 0))
		alloc_gain(ix->alloc, ref.cls);
}

/** A CAS has unlinked this block, for one of class `instead`: it rests from now on. */
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
