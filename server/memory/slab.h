/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * slab.h - the server's allocator: segments of one class, cut into blocks.
 *
 * A block is free, out (granted: held by a session, published, or in a session's grace list),
 * in the server's own grace list, or exhausted (its incarnations are used up). The server does
 * not know which session holds an out block, for clients take over what they unlink. It does
 * know which blocks are out, so it refuses a RETURN of anything else.
 *
 * A segment is a run of pages cut into blocks of one class. When all its blocks are free it
 * can be retired (evacuate.h), and its pages serve another class or the index. Incarnations
 * in a new segment start at 0, since a barrier lies between.
 *
 * Two bytes of private memory per block; nothing in the region. Event loop only.
 */
#ifndef SERVER_MEMORY_SLAB_H
#define SERVER_MEMORY_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/layout.h"

#include "heap.h"
#include "resets.h"

struct slab;

struct slab_counts {
	uint64_t out, free, deferred, exhausted; /* blocks */
	uint64_t pages;                  /* of all segments */
	uint64_t bytes_out, bytes_free;  /* bytes of those */
	uint64_t bytes_deferred, bytes_exhausted;
	uint64_t bytes_slack; /* ends of segments, too short for another block */
	uint64_t bytes_stuck; /* of bytes_free: in segments that could not be emptied (evacuate.h) */
};

/** `heap` covers pages first..first+count; `grace_ns` is T. */
struct slab *slab_new(struct heap *heap, uint64_t first, uint64_t count,
		      uint64_t grace_ns);
void slab_free(struct slab *s);

/**
 * Take over the segments of heap_restore(): every block is out, as granted with incarnation 0. A
 * sweep finds those that nobody has, and a barrier frees them. Call before anything is granted. 0,
 * or FARKV_ENOMEM with a detail. Time: 1 ns per block.
 */
int slab_restore(struct slab *s);

/**
 * Hand out up to `want` blocks of a class: from segments of the fullest quarter first, from
 * new ones last, so that others can become empty. Blocks whose grace period has ended at `now`
 * are included. Returns their number, less than `want` or 0 if memory is out. Some memory is
 * kept for the smallest classes. Of each class 1/32 of the blocks (of large ones 1/128) stays
 * free, minus those on their way back: in a grace list, exhausted, or under tombstones
 * (slab_note_dead()).
 */
size_t slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
		  struct block_ref *refs_out);

/** True if pages are out and at least half of the class's reserve has been granted. */
bool slab_tight(const struct slab *s, uint8_t cls);

/** Set the number of tombstones over blocks of each class, as a walk has counted them. */
void slab_note_dead(struct slab *s, const uint64_t dead[CLASS_COUNT]);

/**
 * A client is told that there is no memory: forget the credit, so that the next client that
 * deletes can get the rest.
 */
void slab_write_off(struct slab *s, uint8_t cls);

/**
 * Take a block back. ref.inc is the incarnation of its next content. False, with no effect,
 * unless `ref` is exactly a block that is out. Without memory for a list entry the result is
 * true, but the block stays out until a sweep finds it: slab_forgotten() counts it.
 */
bool slab_return(struct slab *s, struct block_ref ref, enum return_kind state,
		 uint64_t now);

/**
 * Take the block of the tombstone that `word` (of a retired slot, DEAD) names: T after `now`
 * it is free under the next incarnation, or exhausted if that was the last one (call
 * barrier_want() after a series of drops). False, with no effect, unless it is a block that is
 * out, granted with this incarnation or an earlier one.
 */
bool slab_drop(struct slab *s, uint64_t word, uint64_t now);

/** Free blocks whose grace period has ended at `now`; a barrier frees them, too. */
void slab_settle(struct slab *s, uint64_t now);

/** Pages that segments of large blocks can still take; others are kept for the index and for
 * small blocks. */
uint64_t slab_room(const struct slab *s);

/** Adjacent pages that a new segment of this class takes, if there are no shorter ones. */
uint32_t slab_run(const struct slab *s, uint8_t cls);

/**
 * Of a store that evicts, which frees memory before it is asked for (evacuate.h): keep nothing in
 * reserve but a few pages for visits, and take no segments shorter than slab_run().
 */
void slab_keep_no_reserve(struct slab *s);

/**
 * A barrier begins, for the blocks that are exhausted or wait for their grace period now.
 * Later ones wait for the next barrier. False if there are none.
 */
bool slab_barrier_begin(struct slab *s);

/** It has passed: those blocks are free, the exhausted ones with incarnation 0. */
void slab_barrier_passed(struct slab *s);

/** Where incarnations began again: of exhausted blocks that became free, and of new segments. */
struct resets *slab_resets(struct slab *s);

/** Returned blocks that stay out because there was no memory to list them, since the start. */
uint64_t slab_forgotten(const struct slab *s);

struct slab_counts slab_count(const struct slab *s);
/** Of one class; no pages, no slack. */
struct slab_counts slab_count_class(const struct slab *s, uint8_t cls);

#endif
