/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash_mid.h - XXH3 of 129 to 240 bytes, what most small values have with their keys, of
 * bytes that are copied on the way or not. For hash.h.
 *
 * XXH3 itself takes 8 bytes at a time, with half as many instructions again. All of them
 * wait for the data in the one queue that whole numbers have in a CPU, and when that is
 * full, what could be asked of memory behind them waits, too; vectors have a queue of
 * their own. A GET of 100 bytes from a million, one at a time, takes 0.25 us in place of
 * 0.37 (AMD EPYC, Zen 5). Of the first 128 bytes hash_wide.h has the same by wider
 * vectors, for who has them. The algorithm: xxHash specification, "XXH3 algorithm overview",
 * medium inputs.
 */
#ifndef COMMON_HASH_MID_H
#define COMMON_HASH_MID_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "util.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__SSE2__) && defined(__x86_64__)
#include <emmintrin.h>

#include "hash_wide.h"

#define HASH_MID 1

/*
 * The beginning of the algorithm's default secret, as little-endian numbers. Behind 128
 * bytes it begins anew, 3 bytes further on; the end of the data has the last 17 of these.
 */
static const uint64_t hash_secret[17] __attribute__((aligned(64))) = {
	UINT64_C(0xBE4BA423396CFEB8), UINT64_C(0x1CAD21F72C81017C),
	UINT64_C(0xDB979083E96DD4DE), UINT64_C(0x1F67B3B7A4A44072),
	UINT64_C(0x78E5C0CC4EE679CB), UINT64_C(0x2172FFCC7DD05A82),
	UINT64_C(0x8E2443F7744608B8), UINT64_C(0x4C263A81E69035E0),
	UINT64_C(0xCB00C391BB52283C), UINT64_C(0xA32E531B8B65D088),
	UINT64_C(0x4EF90DA297486471), UINT64_C(0xD8ACDEA946EF1938),
	UINT64_C(0x3F349CE33F76FAA8), UINT64_C(0x1D4F0BC7C7BBDCF9),
	UINT64_C(0x3159B4CD4BE0518A), UINT64_C(0x647378D9C97E9FC8),
	UINT64_C(0xC3EBD33483ACC5EA),
};
#define HASH_SECRET_AT(at) ((const uint8_t *)hash_secret + (at))
#define HASH_SECRET_LAST HASH_SECRET_AT(sizeof(hash_secret) - 17)

static inline __m128i hash_load(const uint8_t *at)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);

	/* Loaded once, even if somebody writes there: what is copied is what is hashed. */
	__asm__("" : "+x"(bytes));
	return bytes;
}

/** The product's halves, one over the other. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
	/* Of a product in C the compiler keeps one half on the stack. */
	__asm__("mulq %1" : "+a"(a), "+d"(b) : : "cc");
	return a ^ b;
}

static inline uint64_t hash_mix(__m128i bytes, const uint8_t *secret)
{
	__m128i k = _mm_loadu_si128((const __m128i *)(const void *)secret);
	__m128i x = _mm_xor_si128(bytes, k);
	uint64_t high = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x));
	uint64_t low = (uint64_t)_mm_cvtsi128_si64(x);

	return hash_fold(low, high);
}

static inline uint64_t hash_avalanche(uint64_t h)
{
	h ^= h >> 37;
	h *= UINT64_C(0x165667919E3779F9);
	return h ^ h >> 32;
}

/** hash_wide_head() for a CPU without what that needs. */
static inline uint64_t hash_mid_head(const uint8_t *data)
{
	uint64_t h = 0;

#pragma GCC unroll 8
	for (size_t at = 0; at < 128; at += 16)
		h += hash_mix(hash_load(data + at), HASH_SECRET_AT(at));
	return h;
}

/** XXH3 of `len` bytes, 129 to 240. */
static inline uint64_t hash_mid(const uint8_t *data, size_t len)
{
	uint64_t h = len * UINT64_C(0x9E3779B185EBCA87);

	h += cpu_has_avx2() ? hash_wide_head(data) : hash_mid_head(data);
	h = hash_avalanche(h);
	for (size_t at = 128; at + 16 <= len; at += 16)
		h += hash_mix(hash_load(data + at), HASH_SECRET_AT(at - 125));
	h += hash_mix(hash_load(data + len - 16), HASH_SECRET_LAST);
	return hash_avalanche(h);
}

/* The same by whole numbers. */
IN_LINE uint64_t hash_mix_words(const uint8_t *at, const uint8_t *secret)
{
	uint64_t low, high, k[2];

	memcpy(&low, at, sizeof(low));
	memcpy(&high, at + sizeof(low), sizeof(high));
	memcpy(k, secret, sizeof(k));
	low ^= k[0];
	high ^= k[1];
	return hash_fold(low, high);
}

/** hash_mid() of what was stored a moment ago, by 8 bytes at a time (hash_stored()). */
static inline uint64_t hash_mid_stored(const uint8_t *data, size_t len)
{
	uint64_t h = len * UINT64_C(0x9E3779B185EBCA87);

#pragma GCC unroll 8
	for (size_t at = 0; at < 128; at += 16)
		h += hash_mix_words(data + at, HASH_SECRET_AT(at));
	h = hash_avalanche(h);
	for (size_t at = 128; at + 16 <= len; at += 16)
		h += hash_mix_words(data + at, HASH_SECRET_AT(at - 125));
	h += hash_mix_words(data + len - 16, HASH_SECRET_LAST);
	return hash_avalanche(h);
}

static inline __m128i hash_copy(uint8_t *to, const uint8_t *from)
{
	__m128i bytes = hash_load(from);

	_mm_storeu_si128((__m128i *)(void *)to, bytes);
	return bytes;
}

/** hash_wide_head_copy() for a CPU without what that needs. */
static inline uint64_t hash_mid_head_copy(uint8_t *to, const uint8_t *from)
{
	uint64_t h = 0;

#pragma GCC unroll 8
	for (size_t at = 0; at < 128; at += 16)
		h += hash_mix(hash_copy(to + at, from + at), HASH_SECRET_AT(at));
	return h;
}

/**
 * Copy `room` bytes, a multiple of 8, and return hash_mid() of the first `len` of what was
 * copied, whoever else writes to `from`.
 */
static inline uint64_t hash_mid_copy(uint8_t *to, const uint8_t *from, size_t len,
				     size_t room)
{
	uint64_t h = len * UINT64_C(0x9E3779B185EBCA87), word;
	size_t at = 128;

	h += cpu_has_avx2() ? hash_wide_head_copy(to, from) :
			      hash_mid_head_copy(to, from);
	h = hash_avalanche(h);
	for (; at + 16 <= room; at += 16) {
		__m128i bytes = hash_copy(to + at, from + at);

		if (at + 16 <= len)
			h += hash_mix(bytes, HASH_SECRET_AT(at - 125));
	}
	if (at < room) {
		memcpy(&word, from + at, sizeof(word));
		memcpy(to + at, &word, sizeof(word));
	}
	h += hash_mix(hash_copy(to + len - 16, from + len - 16), HASH_SECRET_LAST);
	return hash_avalanche(h);
}
#else
#define HASH_MID 0
#define hash_mid(data, len) XXH3_64bits(data, len)
#define hash_mid_stored(data, len) XXH3_64bits(data, len)
#define hash_mid_copy(to, from, len, room) ((void)(room), XXH3_64bits(from, len))
#endif

#endif
