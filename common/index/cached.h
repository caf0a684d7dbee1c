/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/cached.h - what is cached of a region that is not mapped: locations of keys, images of
 * windows, values; and the operations that begin from it.
 */
#ifndef COMMON_INDEX_CACHED_H
#define COMMON_INDEX_CACHED_H

#include "index_state.h"
#include "op.h"

/** A cache of `entries` locations. NULL if out of memory. */
struct cached *cached_new(size_t entries);
void cached_free(struct cached *w);
/** Also cache values, in `bytes` of memory; see index_cache_values(). False if out of memory. */
bool cached_add_values(struct cached *w, size_t bytes);
/** Forget everything, for a barrier. */
void cached_drop(struct cached *w);
const struct location_counters *cached_counters(const struct cached *w);

/**
 * Begin a GET or EXISTS by a cached location; needs no directory. False, without effect, if there
 * is none or it must not be used.
 */
bool cached_read(struct index *ix, struct index_op *op, enum next *next_out);
/**
 * cached_read() for writes, and for inserts by a cached window. The operation has its directory
 * entry and its block.
 */
bool cached_start(struct index *ix, struct index_op *op, enum next *next_out);
/** The chain of OP_LOOK or OP_LOOK_AGAIN is done. */
enum next cached_looked(struct index *ix, struct index_op *op);
/**
 * A CAS found `found`. True: *next_out is the next step. False: `found` is another word of the same
 * key, which the caller has to decide upon.
 */
bool cached_lost(struct index *ix, struct index_op *op, uint64_t found,
	       enum next *next_out);
/**
 * This operation found `word` in its slot, which is the key's, and must know whether that value has
 * expired: READ CLOCK, the slot and the block's header, and decide. One round trip. False, without
 * effect, if there is no cache.
 */
bool cached_look_at(struct index *ix, struct index_op *op, uint64_t word, enum next *next_out);

/**
 * Cache the location: the operation's slot held `word`, whose block has this version (0: unknown).
 * This and the next two do nothing without a cache.
 */
void cached_store(struct index *ix, const struct index_op *op, uint64_t word,
		uint64_t version);
/** Cache op->window as the image of the operation's window. */
void cached_image(struct index *ix, const struct index_op *op);
/** Cache what the operation's CAS has published. */
void cached_swapped(struct index *ix, const struct index_op *op);

#endif
