/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash.h - the three uses of XXH3 in the region format. Leaf.
 *
 * XXH3 64-bit is stable since xxHash 0.8.0; its values are part of the format.
 */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/** Hash of a key under the region's seed; decides subtable, line, fingerprint. */
static inline uint64_t hash_key(uint64_t seed, const void *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, seed);
}

/** Checksum of a contiguous image: whole blocks and the superblock. */
static inline uint64_t hash_image(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

/**
 * Checksum of a block's header: its first `len` bytes, seeded with the hash of
 * the block's key. Lets a writer trust header and key without the value.
 */
static inline uint32_t hash_header(const void *hdr, size_t len, uint64_t key_hash)
{
	return (uint32_t)XXH3_64bits_withSeed(hdr, len, key_hash);
}

#endif
