/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The variants for AVX2. It is enabled by a pragma and not by attributes, because most of the code
 * is xxHash's. The headers that xxHash includes come first: they are for any CPU, and clang rejects
 * their intrinsics otherwise.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define XXH_VECTOR XXH_AVX2
#endif

#include "hash.h"

uint64_t hash_long(const void *data, size_t len)
{
	return cpu_without_uppers(XXH3_64bits(data, len));
}

uint64_t hash_long_pieces(const struct hash_piece *piece, unsigned n)
{
	return cpu_without_uppers(hash_pieces_narrow(piece, n));
}

#if defined(__x86_64__)
/* XXH3_mul128_fold64() of four pairs: each 64-bit product out of four 32-bit ones. */
static inline __m256i fold_four(__m256i a, __m256i b)
{
	__m256i a_high = _mm256_srli_epi64(a, 32), b_high = _mm256_srli_epi64(b, 32);
	__m256i low = _mm256_mul_epu32(a, b);
	__m256i one = _mm256_mul_epu32(a, b_high);
	__m256i other = _mm256_mul_epu32(a_high, b);
	__m256i high = _mm256_mul_epu32(a_high, b_high);
	/* Neither sum overflows: (2^32 - 1)^2 + 2^32 - 1 is less than 2^64. */
	__m256i carry = _mm256_add_epi64(one, _mm256_srli_epi64(low, 32));
	__m256i middle = _mm256_add_epi64(
		other, _mm256_and_si256(carry, _mm256_set1_epi64x(UINT32_MAX)));

	high = _mm256_add_epi64(high, _mm256_srli_epi64(carry, 32));
	high = _mm256_add_epi64(high, _mm256_srli_epi64(middle, 32));
	low = _mm256_blend_epi32(low, _mm256_slli_epi64(middle, 32), 0xaa);
	return _mm256_xor_si256(high, low);
}

static inline __m256i load(const uint8_t *at)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* Copy 32 bytes, each loaded once: the same bytes are stored and mixed. */
static inline __m256i load_copy(uint8_t *to, const uint8_t *at)
{
	__m256i bytes = load(at);

	__asm__("" : "+x"(bytes));
	_mm256_storeu_si256((__m256i *)(void *)to, bytes);
	return bytes;
}

/* Copy 64 bytes and mix them; the order of the four products does not matter. */
static inline __m256i mix_four(uint8_t *to, const uint8_t *from, const uint8_t *secret)
{
	__m256i x = _mm256_xor_si256(load_copy(to, from), load(secret));
	__m256i y = _mm256_xor_si256(load_copy(to + 32, from + 32), load(secret + 32));

	return fold_four(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
}

uint64_t hash_wide_copy(uint8_t *to, const uint8_t *from)
{
	__m256i sum = _mm256_add_epi64(mix_four(to, from, XXH3_kSecret),
				       mix_four(to + 64, from + 64, XXH3_kSecret + 64));
	__m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum),
				    _mm256_extracti128_si256(sum, 1));

	return cpu_without_uppers((uint64_t)_mm_cvtsi128_si64(
		_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))));
}
#else
uint64_t hash_wide_copy(uint8_t *to, const uint8_t *from)
{
	return hash_copy_head(to, from);
}
#endif

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
