/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/cached.h - what is cached of a region that is not mapped: locations of keys, images
 * of windows, values; and the operations that begin by it.
 */
#ifndef COMMON_INDEX_CACHED_H
#define COMMON_INDEX_CACHED_H

#include "index_priv.h"

/** NULL if out of memory; of a cache of so many locations. */
struct cached *cached_new(size_t entries);
void cached_free(struct cached *w);
/** Cache values in so many bytes; see index_cache_values(). False if out of memory. */
bool cached_add_values(struct cached *w, size_t bytes);
/** Forget everything: a barrier. */
void cached_drop(struct cached *w);
const struct location_counters *cached_counters(const struct cached *w);

/**
 * Begin a GET by a cached location. False if there is none, or it is not to be used: then
 * nothing has happened. Asks for no directory.
 */
bool cached_get(struct index *ix, struct index_op *op, enum next *next_out);
/** The same of the others, and of inserts by a cached window. The operation has its
 * directory's entry, and its block. */
bool cached_start(struct index *ix, struct index_op *op, enum next *next_out);
/** The chain of OP_LOOK or OP_LOOK_AGAIN is done. */
enum next cached_looked(struct index *ix, struct index_op *op);
/**
 * A CAS was lost to `found`. True if the cache leads no further; false if
 * it is another word of the same key, to be decided upon.
 */
bool cached_lost(struct index *ix, struct index_op *op, uint64_t found,
	       enum next *next_out);

/** Remember; without a cache these do nothing. */
/** The operation's slot held `word`, whose block is of this version (0: unknown). */
void cached_store(struct index *ix, const struct index_op *op, uint64_t word,
		uint64_t version);
/** op->window is the operation's window. */
void cached_image(struct index *ix, const struct index_op *op);
/** The operation's CAS succeeded. */
void cached_swapped(struct index *ix, const struct index_op *op);

#endif
