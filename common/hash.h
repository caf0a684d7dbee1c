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

/** Bytes that stand somewhere. */
struct hash_piece {
	const void *data;
	size_t len;
};

/**
 * hash_image() of the pieces one after the other, as if they stood in one place.
 * Slower to begin than that by some 60 ns: for long ones.
 */
static inline uint64_t hash_pieces(const struct hash_piece *piece, unsigned n)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	for (unsigned i = 0; i < n; i++)
		if (piece[i].len)
			XXH3_64bits_update(&state, piece[i].data, piece[i].len);
	return XXH3_64bits_digest(&state);
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
