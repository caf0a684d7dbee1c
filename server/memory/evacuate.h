/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * evacuate.h - pages change their use: empty segments are retired, and places are chosen whose
 * blocks are to leave, so that their segments become empty.
 *
 * A *place* is a run of adjacent pages, together with the rest of the segments that it touches.
 * Nothing is granted from it meanwhile. The caller moves the blocks that slots name
 * (evacuate_leaves()), and ends the evacuation when those are free again. One at a time. Control
 * thread only.
 */
#ifndef SERVER_MEMORY_EVACUATE_H
#define SERVER_MEMORY_EVACUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "slab.h"

/**
 * Retire the pages of empty segments, so that another class or the index can have them after a
 * barrier (call barrier_want()). With `keep_one` each class keeps an empty segment unless it
 * has free blocks in others or its segments are long. Returns the number of pages. Time: the
 * number of classes and of segments retired.
 */
uint64_t slab_shrink(struct slab *s, bool keep_one);

/** Pages that slab_shrink(s, false) would retire now. */
uint64_t slab_empty(const struct slab *s);

/** Blocks of up to this size are moved; longer ones have to be left out of the index. */
#define EVACUATE_MOVE_BYTES 65536u

/** What is wanted of an evacuation. */
struct evacuation {
	uint64_t run;   /* adjacent pages */
	uint64_t pages; /* about this many in all, and at least one place */
	bool force;     /* a request waits: values may be left out, ... */
	uint8_t cls;    /* ... but not to make what it has: segments of its class, unless they lie
			   across places of a longer run; CLASS_COUNT: none waits */
};

/**
 * Choose places: of the next ones after the last choice, some times as many as are needed, those
 * with the fewest bytes to move for a page.
 *
 * Of single pages those are chosen whose blocks fit into free blocks of other segments; if there
 * are none and `force` is set, a quarter of `pages`, whose values will be left out. If `cls` has a
 * sixteenth of the memory already, these are only segments that are half empty, of blocks that are
 * never moved. A longer run needs `force`. The heap holds all pages of its place, and most of the
 * free pages lie elsewhere: the index needs some to move anything.
 *
 * A segment that an evacuation has not emptied is stuck: clients hold blocks of it. It is not
 * chosen until a block of it has come back, or until `force` has found no other place.
 *
 * Returns the pages of the segments chosen. Time: a look at each page.
 */
uint64_t evacuate_begin(struct slab *s, const struct evacuation *e);

/** True if some segments are stuck. */
bool evacuate_stuck(const struct slab *s);

/** True if the block at `off` is in a place that was chosen. */
bool evacuate_leaves(const struct slab *s, uint64_t off);

/** True if the chosen places are to be emptied though their blocks fit nowhere else. */
bool evacuate_forced(const struct slab *s);

/**
 * Retire the chosen segments that are empty, and grant from the others again. Returns the pages
 * retired, which a barrier frees; call heap_release() then.
 */
uint64_t evacuate_end(struct slab *s);

#endif
