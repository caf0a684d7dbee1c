/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * slab.h - the server's allocator: segments of one class, cut into blocks.
 *
 * A block is free, out (granted: with a session, or published, or in some
 * session's limbo), in the server's own limbo, or worn. The server does not
 * know whose an out block is: clients take over what they unlink. It does know
 * which blocks are out, so that a RETURN of anything else is refused.
 *
 * Two bytes of private memory per block; nothing in the region. The control
 * thread owns it.
 *
 * A segment is a run of pages cut into blocks of one class. When all its blocks
 * are free it can be retired (slab_shrink()), and its pages serve another class
 * or the index; the incarnations of new segments start at 0, since a barrier
 * lies between.
 */
#ifndef SERVER_SLAB_H
#define SERVER_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/alloc.h"
#include "common/layout.h"
#include "heap.h"

struct slab;

struct slab_counts {
	uint64_t out, free, limbo, worn; /* blocks */
	uint64_t pages;                  /* of all segments */
	uint64_t bytes_out, bytes_free;  /* ... their bytes */
	uint64_t bytes_limbo, bytes_worn;
	uint64_t bytes_slack; /* of segments, too short for another block */
};

/** `heap` covers pages first..first+count; `grace_ns` is T. */
struct slab *slab_new(struct heap *heap, uint64_t first, uint64_t count,
		      uint64_t grace_ns);
void slab_free(struct slab *s);

/**
 * Hand out up to `want` blocks of a class: from segments of the fullest quarter
 * first, from new ones last, so that segments have a chance to become empty.
 * Takes blocks of limbo whose T has passed at `now` into account. Returns how
 * many; fewer than `want`, down to 0, when memory is out; some is kept for the
 * smallest classes. Of each class 1/32 of the blocks (of large ones 1/128) stays free,
 * less as many as are coming back: in limbo, worn, or under tombstones (slab_note_dead()).
 */
size_t slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
		  struct block_ref *refs_out);

/** True if pages are out and half of the class's reserve, or more, has been granted. */
bool slab_tight(const struct slab *s, uint8_t cls);

/** A walk over the index has counted so many tombstones over blocks of each class. */
void slab_note_dead(struct slab *s, const uint64_t dead[CLASS_COUNT]);

/**
 * A client is being told that there is no memory: forget the credit that was lent, so that
 * the next client that deletes can be lent the rest.
 */
void slab_write_off(struct slab *s, uint8_t cls);

/**
 * Take a block back. ref.inc is the incarnation of its next content. False, and
 * nothing changes, unless `ref` is exactly a block that is out. If there is no memory
 * for the list of those in limbo or worn it is true as well, but the block stays out,
 * until a sweep finds that nobody has it: slab_forgotten() counts it.
 */
bool slab_return(struct slab *s, struct block_ref ref, enum alloc_state state,
		 uint64_t now);

/**
 * Take the tombstone over that `word` (of a retired slot, DEAD) names: T from
 * `now` it is free under the next incarnation, or worn if that was the last one
 * (barrier_want() after a series of drops). False, and nothing changes, unless it
 * is a block that is out, granted with this incarnation or one before.
 */
bool slab_drop(struct slab *s, uint64_t word, uint64_t now);

/** Blocks of limbo whose T has passed at `now` are free; a barrier frees them too. */
void slab_settle(struct slab *s, uint64_t now);

/**
 * Retire the pages of segments all of whose blocks are free, so that another
 * class or the index can have them after a barrier (barrier_want() it). With
 * `keep_one` each class keeps an empty segment unless it has free blocks in
 * others, or its segments are long. Returns the number of pages. Time: classes
 * and segments retired.
 */
uint64_t slab_shrink(struct slab *s, bool keep_one);

/** Pages that slab_shrink(s, false) would retire now. */
uint64_t slab_empty(const struct slab *s);

/**
 * Nobody holds or refers to this block: its session died. It is worn from now on:
 * free after a barrier. False unless it is out and not marked, or without memory.
 */
bool slab_condemn(struct slab *s, struct block_ref ref);

/**
 * A barrier begins, to the benefit of the blocks that are worn or in limbo now: those
 * that come later wait for the next one. False if there are none.
 */
bool slab_barrier_begin(struct slab *s);

/** It has passed: those blocks are free; the worn ones start again at incarnation 0. */
void slab_barrier_passed(struct slab *s);

/** Blocks that came back and stay out all the same, for want of memory, since the start. */
uint64_t slab_forgotten(const struct slab *s);

struct slab_counts slab_count(const struct slab *s);
/** Of one class; no pages, no slack. */
struct slab_counts slab_count_class(const struct slab *s, uint8_t cls);

#endif
