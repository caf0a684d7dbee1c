/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * slab_marks.h - which blocks are accounted for (sweep, fsck), and whether the books are right.
 *
 * Only blocks that are out carry marks. A block loses its mark when it comes
 * back; granted again it has none.
 */
#ifndef SERVER_MEMORY_SLAB_MARKS_H
#define SERVER_MEMORY_SLAB_MARKS_H

#include "slab.h"

enum slab_seen {
	SLAB_SEEN_FIRST, /* it is out, and now marked */
	SLAB_SEEN_AGAIN, /* it is out, and was already marked */
	SLAB_SEEN_BAD,   /* no block, of another class, not out, or granted with a */
			 /* newer incarnation than this one */
};

struct slab_list {
	struct block_ref *refs;
	size_t cap, n;
};

/** True if this block is out, granted with this incarnation or an earlier one. */
bool slab_is_out(const struct slab *s, struct block_ref ref);

/**
 * Prefetch what slab_is_out() reads for a block at `off`, which may be any number: first its
 * segment's record, for some blocks, then for the same ones the state, whose address that
 * record has.
 */
void slab_fetch_record(const struct slab *s, uint64_t off);
void slab_fetch_state(const struct slab *s, uint64_t off);

/** A slot or a session refers to this block, with the incarnation it had there. */
enum slab_seen slab_mark(struct slab *s, struct block_ref ref);

/**
 * Visit segment after segment, from *cursor = 0: the blocks that are out and not
 * marked are added to `out`, which has room for 64 or more, and *cursor moves past them.
 * True while there are more segments to visit, up to `segments` of them in a call. Blocks
 * may come, go and be marked between calls. References carry the incarnation
 * that the block was granted with.
 */
bool slab_unmarked(struct slab *s, uint64_t *cursor, unsigned segments,
		   struct slab_list *out);

/** Remove all marks, `segments` at a time from *cursor = 0; true: more. */
bool slab_unmark(struct slab *s, uint64_t *cursor, unsigned segments);

/**
 * No session holds this block and no slot names it: make it exhausted, free after a barrier.
 * False unless it is out and not marked, or if out of memory.
 */
bool slab_condemn(struct slab *s, struct block_ref ref);

/**
 * Count again from the states of the blocks: counts, lists, owners of pages, page map. False, with
 * a detail, if that differs from the kept figures. Time: 2 ns per block.
 */
bool slab_audit(const struct slab *s);

#endif
