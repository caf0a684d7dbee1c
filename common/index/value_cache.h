/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/value_cache.h - blocks that a client has READ, kept beside where they are (location.h).
 *
 * A word that is found unchanged in its slot names the content that it named, until a
 * barrier (I5): so a look at the slot, 8 bytes, tells that the block kept here is the
 * key's value now, and the block itself is not READ again. That is half of a GET's
 * requests, and most of its bytes.
 *
 * Fixed memory, taken at once and touched as it fills: a ring in which the newest block
 * overwrites the oldest (FIFO), and a table of what is where, sets of a few places.
 * Who calls it keeps a block only when it is READ for a second time, so that what is
 * asked for once drives nothing out. One thread.
 */
#ifndef COMMON_INDEX_VALUE_CACHE_H
#define COMMON_INDEX_VALUE_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct value_cache;

/** In `bytes` in all, between these two. NULL if out of memory. */
struct value_cache *value_cache_new(size_t bytes);
#define VALUE_CACHE_MIN 1024u
#define VALUE_CACHE_MAX (1u << 30)
/** NULL is allowed. */
void value_cache_free(struct value_cache *k);

/**
 * The block that `word` names, as it was kept for the slot at this offset; NULL if it is
 * not there. `*bytes_out` are its bytes. It stays until the next value_cache_store() or
 * value_cache_renew().
 */
const uint8_t *value_cache_find(const struct value_cache *k, uint64_t slot, uint64_t word,
			 size_t *bytes_out);

/**
 * Keep a copy of a block that was seen whole while the slot held `word`. Takes the place
 * of what was kept for the slot, where it lies if it is as long. One of more than an
 * eighth of the ring, which has seven eighths of the memory, is not kept: then what was
 * kept for the slot stays.
 */
void value_cache_store(struct value_cache *k, uint64_t slot, uint64_t word, const uint8_t *block,
		size_t bytes);

/** The same, if a block was kept for this slot: of a value that its owner overwrites. */
void value_cache_renew(struct value_cache *k, uint64_t slot, uint64_t word, const uint8_t *block,
		size_t bytes);

/** Remove all, at a barrier. */
void value_cache_drop(struct value_cache *k);

#endif
