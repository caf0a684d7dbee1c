/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/value_cache.h - blocks that a client has READ, cached by slot and word.
 *
 * A word that is unchanged in its slot names the same content until a barrier (I5). So a look at
 * the slot, 8 bytes, proves that the cached block is the key's value, and the block is not READ
 * again. This saves half of a GET's requests and most of its bytes.
 *
 * Memory is allocated at once and touched as it fills: a ring in which the newest block overwrites
 * the oldest (FIFO), and a set-associative table. The caller stores a block when it is READ for the
 * second time, so that keys read once evict nothing. One thread.
 */
#ifndef COMMON_INDEX_VALUE_CACHE_H
#define COMMON_INDEX_VALUE_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct value_cache;

/** A cache that takes `bytes` in all, VALUE_CACHE_MIN to VALUE_CACHE_MAX. NULL if out of memory. */
struct value_cache *value_cache_new(size_t bytes);
#define VALUE_CACHE_MIN 1024u
#define VALUE_CACHE_MAX (1u << 30)
/** NULL is allowed. */
void value_cache_free(struct value_cache *k);

/**
 * The cached block that `word` names for the slot at this offset, of *bytes_out bytes; NULL if
 * there is none. Valid until the next value_cache_store() or value_cache_renew().
 */
const uint8_t *value_cache_find(const struct value_cache *k, uint64_t slot, uint64_t word,
			 size_t *bytes_out);

/**
 * Store a copy of a block that was seen whole while the slot held `word`. Replaces the slot's
 * cached block, in place if that has the same length. A block of more than an eighth of the ring,
 * which is seven eighths of the memory, is not stored; the slot's cached block then remains.
 */
void value_cache_store(struct value_cache *k, uint64_t slot, uint64_t word, const uint8_t *block,
		size_t bytes);

/**
 * value_cache_store(), but only if the slot has a cached block: for a value that the session
 * overwrites.
 */
void value_cache_renew(struct value_cache *k, uint64_t slot, uint64_t word, const uint8_t *block,
		size_t bytes);

/** Remove all, at a barrier. */
void value_cache_drop(struct value_cache *k);

#endif
