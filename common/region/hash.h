/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash.h - the three uses of XXH3 in the region format. Leaf.
 *
 * XXH3 64-bit is stable since xxHash 0.8.0; its values are part of the format. The code is xxHash's
 * own, inlined, and for long images also compiled for AVX2 (hash_long()); only hash_copy() is ours.
 */
#ifndef COMMON_REGION_HASH_H
#define COMMON_REGION_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/atomic.h"
#include "common/base/cpu.h"
#include "common/base/util.h"

/** Hash of a key under the region's seed; decides subtable, line, fingerprint. */
static inline uint64_t hash_key(uint64_t seed, const void *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, seed);
}

/** hash_key() with the most common lengths, 9 to 16 bytes, inlined into the caller. */
IN_LINE uint64_t hash_key_in_line(uint64_t seed, const void *key, size_t len)
{
	if (__builtin_expect(len - 9 < 8, 1))
		return XXH3_len_9to16_64b((const uint8_t *)key, len, XXH3_kSecret, seed);
	return hash_key(seed, key, len);
}

/* ---- variants for AVX2, in hash.c; only if cpu_has_avx2() ------------------------------ */

struct hash_piece;

/**
 * XXH3_64bits(), of any length and alignment, by xxHash's own code compiled for AVX2: a program for
 * any x86-64 has vectors of 16 bytes only. Images of up to HASH_COPY_MAX bytes use no vectors.
 *
 * A GET of a value of 1000 bytes over shared memory takes 1400 instructions, instead of 2100.
 */
uint64_t hash_long(const void *data, size_t len);

/** The same for pieces (hash_pieces()). */
uint64_t hash_long_pieces(const struct hash_piece *piece, unsigned n);

/** Bytes that hash_wide_copy() copies and mixes. */
#define HASH_WIDE_BYTES 128u

/**
 * Copy HASH_WIDE_BYTES, each loaded once, and return the sum of XXH3_mix16B() of each 16 of them
 * with the default secret: the start of hash_copy(). Any alignment, no overlap.
 *
 * Eight 64-bit products wait for the block in the CPU's integer queue and keep the next operation's
 * loads out of it; vectors wait in a queue of their own. doc/performance.md has the ratio.
 */
uint64_t hash_wide_copy(uint8_t *to, const uint8_t *from);

/* ---- images ---------------------------------------------------------------------------- */

/** Lengths that hash_copy() takes: those of most small values with their keys. */
#define HASH_COPY_MIN 129u
#define HASH_COPY_MAX 240u
static inline bool hash_can_copy(size_t len)
{
	return len - HASH_COPY_MIN <= HASH_COPY_MAX - HASH_COPY_MIN;
}

/** Checksum of a contiguous image: whole blocks and the superblock. */
static inline uint64_t hash_image(const void *data, size_t len)
{
	return len > HASH_COPY_MAX && cpu_has_avx2() ? hash_long(data, len) :
						       XXH3_64bits(data, len);
}

/* ---- sum and copy in one pass ----------------------------------------------------- */

/* XXH3_mul128_fold64(). In C, GCC (12.2) spills half of the product to the stack. */
IN_LINE uint64_t hash_fold(uint64_t a, uint64_t b)
{
#if defined(__x86_64__)
	__asm__("mulq %1" : "+a"(a), "+d"(b) : : "cc");
	return a ^ b;
#else
	return XXH3_mul128_fold64(a, b);
#endif
}

/* Copy 16 bytes, each loaded once, and mix them: XXH3_mix16B(). */
IN_LINE uint64_t hash_copy_16(uint8_t *to, const uint8_t *from, const uint8_t *secret)
{
	uint64_t low, high;

	memcpy(&low, from, sizeof(low));
	memcpy(&high, from + 8, sizeof(high));
	__asm__("" : "+r"(low), "+r"(high)); /* store what is mixed: load once */
	memcpy(to, &low, sizeof(low));
	memcpy(to + 8, &high, sizeof(high));
	return hash_fold(low ^ XXH_readLE64(secret), high ^ XXH_readLE64(secret + 8));
}

/** hash_wide_copy() for any CPU. Not inlined: CPUs with AVX2 would pay for its registers. */
static __attribute__((noinline, unused)) uint64_t hash_copy_head(uint8_t *to, const uint8_t *from)
{
	const uint8_t *secret = XXH3_kSecret;
	uint64_t h = 0;

	__asm__("" : "+r"(secret)); /* load from memory: constants take twice the instructions */
#pragma GCC unroll 8
	for (size_t i = 0; i < HASH_WIDE_BYTES; i += 16)
		h += hash_copy_16(to + i, from + i, secret + i);
	return h;
}

/**
 * Copy `room` bytes, a multiple of 8, and return hash_image() of the first `len` bytes of the copy,
 * even if others write to `from` meanwhile. `len` is HASH_COPY_MIN to HASH_COPY_MAX, and `room` is
 * block_room() of that length. The algorithm is XXH3_len_129to240_64b(). One pass saves 90 of 480
 * instructions of a GET of 100 bytes.
 */
IN_LINE uint64_t hash_copy(uint8_t *to, const uint8_t *from, size_t len, size_t room)
{
	const uint8_t *secret = XXH3_kSecret;
	uint64_t h = len * XXH_PRIME64_1;
	size_t at = HASH_WIDE_BYTES;

	/* Copies the bytes after `len`; the others of these 16 are copied again when mixed. */
	memcpy(to + room - 16, from + room - 16, 16);
	h += cpu_has_avx2() ? hash_wide_copy(to, from) : hash_copy_head(to, from);
	h = XXH3_avalanche(h);
	for (; at + 16 <= len; at += 16)
		h += hash_copy_16(to + at, from + at, secret + at - 125);
	h += hash_copy_16(to + len - 16, from + len - 16,
			  secret + XXH3_SECRET_SIZE_MIN - 17);
	return XXH3_avalanche(h);
}

/* ---- other uses ---------------------------------------------------------------------- */

/** A piece of a scattered image. */
struct hash_piece {
	const void *data;
	size_t len;
	void *to; /**< not NULL: it is copied there, and the copy is summed */
};

/** Bytes that are copied before they are summed: both copies fit into a first-level cache. */
#define HASH_STEP_BYTES ((size_t)16 << 10)

/** hash_pieces() for any CPU. */
static inline uint64_t hash_pieces_narrow(const struct hash_piece *piece, unsigned n)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	for (unsigned i = 0; i < n; i++) {
		const struct hash_piece *p = &piece[i];
		size_t step = p->to ? HASH_STEP_BYTES : p->len;

		for (size_t at = 0; at < p->len; at += step) {
			const uint8_t *data = (const uint8_t *)p->data + at;
			uint8_t *to = p->to ? (uint8_t *)p->to + at : NULL;
			size_t len = UTIL_MIN(step, p->len - at);

			if (to)
				atom_copy_block(to, data, len);
			XXH3_64bits_update(&state, to ? to : data, len);
		}
	}
	return XXH3_64bits_digest(&state);
}

/**
 * hash_image() of the pieces, as if they were contiguous. Other threads may write to pieces that
 * are copied.
 */
static inline uint64_t hash_pieces(const struct hash_piece *piece, unsigned n)
{
	return cpu_has_avx2() ? hash_long_pieces(piece, n) :
				hash_pieces_narrow(piece, n);
}

/**
 * Checksum of a block header: XXH3, seeded with `seed`, of the 20 bytes whose first 16 are
 * `w0` and `w1` and whose last are `w2`.
 */
static inline uint32_t hash_header(uint64_t w0, uint64_t w1, uint32_t w2, uint64_t seed)
{
	uint64_t words[] = {w0, w1, w2};

	return (uint32_t)XXH3_len_17to128_64b((const uint8_t *)words, 20, XXH3_kSecret,
					      XXH_SECRET_DEFAULT_SIZE, seed);
}

#endif
