/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash.h - the three uses of XXH3 in the region format. Leaf.
 *
 * XXH3 64-bit is stable since xxHash 0.8.0; its values are part of the format.
 */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "hash_long.h"
#include "hash_mid.h"

/** Hash of a key under the region's seed; decides subtable, line, fingerprint. */
static inline uint64_t hash_key(uint64_t seed, const void *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, seed);
}

/**
 * The same, with what most keys need in line: XXH3 of 9 to 16 bytes. (The xxHash
 * specification, "XXH3 algorithm overview". The constants are the secret's bytes 24 to 55,
 * in words, the first two and the last two by xor.)
 */
static inline uint64_t hash_key_in_line(uint64_t seed, const void *key, size_t len)
{
#if defined(__SIZEOF_INT128__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (__builtin_expect(len - 9 < 8, 1)) {
		__extension__ typedef unsigned __int128 wide;
		const uint8_t *at = (const uint8_t *)key;
		uint64_t first, last, h;
		wide product;

		memcpy(&first, at, sizeof(first));
		memcpy(&last, at + len - sizeof(last), sizeof(last));
		first ^= UINT64_C(0x6782737BEA4239B9) + seed;
		last ^= UINT64_C(0xAF56BC3B0996523A) - seed;
		product = (wide)first * last;
		h = len + __builtin_bswap64(first) + last +
		    ((uint64_t)product ^ (uint64_t)(product >> 64));
		h ^= h >> 37;
		h *= UINT64_C(0x165667919E3779F9);
		return h ^ h >> 32;
	}
#endif
	return hash_key(seed, key, len);
}

#define HASH_MID_MIN 129u
#define HASH_MID_MAX HASH_LONG_ABOVE

/** Are there so many that hash_mid() is for them? */
static inline bool hash_is_mid(size_t len)
{
	return HASH_MID && len >= HASH_MID_MIN && len <= HASH_MID_MAX;
}

/** XXH3 of so few bytes, or so many, that hash_mid() is not for them. */
static inline uint64_t hash_not_mid(const void *data, size_t len)
{
	return len > HASH_LONG_ABOVE && cpu_has_avx2() ? hash_long(data, len) :
							  XXH3_64bits(data, len);
}

/** Checksum of a contiguous image: whole blocks and the superblock. */
static inline uint64_t hash_image(const void *data, size_t len)
{
	return hash_is_mid(len) ? hash_mid((const uint8_t *)data, len) :
				  hash_not_mid(data, len);
}

/**
 * hash_image() of what was stored a moment ago. Of a few bytes it loads 8 at a time, which
 * one store still under way can mostly serve; 16 of two of them have to wait for the cache.
 * (A block of 100 bytes is made in 16 ns by this, in 20 by the other: AMD EPYC, Zen 5.)
 */
static inline uint64_t hash_stored(const void *data, size_t len)
{
	return hash_is_mid(len) ? hash_mid_stored((const uint8_t *)data, len) :
				  hash_not_mid(data, len);
}

/** Bytes that stand somewhere. */
struct hash_piece {
	const void *data;
	size_t len;
};

/** hash_pieces() for any CPU. */
static inline uint64_t hash_pieces_narrow(const struct hash_piece *piece, unsigned n)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	for (unsigned i = 0; i < n; i++)
		if (piece[i].len)
			XXH3_64bits_update(&state, piece[i].data, piece[i].len);
	return XXH3_64bits_digest(&state);
}

/**
 * hash_image() of the pieces one after the other, as if they stood in one place.
 * Slower to begin than that by some 60 ns: for long ones.
 */
static inline uint64_t hash_pieces(const struct hash_piece *piece, unsigned n)
{
	return cpu_has_avx2() ? hash_long_pieces(piece, n) :
				hash_pieces_narrow(piece, n);
}

/** What a header's checksum takes from its seed. */
struct hash_seed {
	uint64_t seed, mix[4];
};

static inline struct hash_seed hash_header_seed(uint64_t seed)
{
	/* The head of XXH3's own secret, as four numbers. */
	return (struct hash_seed){seed,
				  {UINT64_C(0xBE4BA423396CFEB8) + seed,
				   UINT64_C(0x1CAD21F72C81017C) - seed,
				   UINT64_C(0xDB979083E96DD4DE) + seed,
				   UINT64_C(0x1F67B3B7A4A44072) - seed}};
}

/**
 * Checksum of a block header: XXH3, seeded with the hash of the block's key, of the 20
 * bytes whose first 16 are `w0` and `w1` and whose last are `w2`. Lets a writer trust
 * header and key without the value. From registers: XXH3 itself would load bytes across
 * those that were just stored one by one, and wait until they are in the cache. (XXH3
 * of 17 to 32 bytes: the xxHash specification, "XXH3 algorithm overview".)
 */
static inline uint32_t hash_header(uint64_t w0, uint64_t w1, uint32_t w2,
				   const struct hash_seed *s)
{
#if defined(__SIZEOF_INT128__)
	__extension__ typedef unsigned __int128 wide;
	wide a = (wide)(w0 ^ s->mix[0]) * (w1 ^ s->mix[1]);
	uint64_t lo = w0 >> 32 | w1 << 32, hi = w1 >> 32 | (uint64_t)w2 << 32;
	wide b = (wide)(lo ^ s->mix[2]) * (hi ^ s->mix[3]);
	uint64_t h = 20 * UINT64_C(0x9E3779B185EBCA87);

	h += (uint64_t)a ^ (uint64_t)(a >> 64);
	h += (uint64_t)b ^ (uint64_t)(b >> 64);
	h ^= h >> 37;
	h *= UINT64_C(0x165667919E3779F9);
	return (uint32_t)(h ^ h >> 32);
#else
	uint64_t words[] = {w0, w1, w2};

	return (uint32_t)XXH3_64bits_withSeed(words, 20, s->seed);
#endif
}

#endif
