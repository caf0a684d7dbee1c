/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "hash_wide.h"

#include "cpu.h"
#include "hash_mid.h"

#if HASH_MID
#include <immintrin.h>

#define WITH_AVX2 __attribute__((target("avx2")))

/* Of four pairs of numbers the products' halves, one over the other. */
WITH_AVX2 static inline __m256i fold_four(__m256i a, __m256i b)
{
	__m256i a_high = _mm256_srli_epi64(a, 32), b_high = _mm256_srli_epi64(b, 32);
	__m256i low = _mm256_mul_epu32(a, b);
	__m256i one = _mm256_mul_epu32(a, b_high);
	__m256i other = _mm256_mul_epu32(a_high, b);
	__m256i high = _mm256_mul_epu32(a_high, b_high);
	/* Neither sum is above 2^64 - 1: (2^32 - 1)^2 + 2^32 - 1 is less. */
	__m256i carry = _mm256_add_epi64(one, _mm256_srli_epi64(low, 32));
	__m256i middle = _mm256_add_epi64(
		other, _mm256_and_si256(carry, _mm256_set1_epi64x(UINT32_MAX)));

	high = _mm256_add_epi64(high, _mm256_srli_epi64(carry, 32));
	high = _mm256_add_epi64(high, _mm256_srli_epi64(middle, 32));
	low = _mm256_blend_epi32(low, _mm256_slli_epi64(middle, 32), 0xaa);
	return _mm256_xor_si256(high, low);
}

WITH_AVX2 static inline __m256i load(const uint8_t *at)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

WITH_AVX2 static inline __m256i load_once(const uint8_t *at)
{
	__m256i bytes = load(at);

	__asm__("" : "+x"(bytes));
	return bytes;
}

WITH_AVX2 static inline __m256i load_copy(uint8_t *to, const uint8_t *at)
{
	__m256i bytes = load_once(at);

	_mm256_storeu_si256((__m256i *)(void *)to, bytes);
	return bytes;
}

/* Of 64 bytes, and those of the secret from `at` on. In which order does not matter. */
WITH_AVX2 static inline __m256i mix_four(__m256i first, __m256i last, unsigned at)
{
	__m256i x = _mm256_xor_si256(first, load(HASH_SECRET_AT(at)));
	__m256i y = _mm256_xor_si256(last, load(HASH_SECRET_AT(at + 32)));

	return fold_four(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
}

WITH_AVX2 static inline uint64_t sum_four(__m256i x)
{
	__m128i two = _mm_add_epi64(_mm256_castsi256_si128(x),
				    _mm256_extracti128_si256(x, 1));

	return cpu_without_uppers((uint64_t)_mm_cvtsi128_si64(
		_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))));
}

WITH_AVX2 uint64_t hash_wide_head(const uint8_t *data)
{
	return sum_four(_mm256_add_epi64(
		mix_four(load_once(data), load_once(data + 32), 0),
		mix_four(load_once(data + 64), load_once(data + 96), 64)));
}

WITH_AVX2 uint64_t hash_wide_head_copy(uint8_t *to, const uint8_t *from)
{
	__m256i sum = mix_four(load_copy(to, from), load_copy(to + 32, from + 32), 0);

	return sum_four(_mm256_add_epi64(
		sum, mix_four(load_copy(to + 64, from + 64),
			      load_copy(to + 96, from + 96), 64)));
}
#endif
