/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/publish.h - what changes a slot: decide by what was found there, write the block and
 * swap the word (OP_SWAP), and see what came of it, also when the lane broke meanwhile.
 */
#ifndef COMMON_INDEX_PUBLISH_H
#define COMMON_INDEX_PUBLISH_H

#include "priv.h"

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

#endif
