/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "keys.h"

#include <endian.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "fnvhash.h"

#define TEN_8 UINT64_C(100000000)
#define TEN_16 UINT64_C(10000000000000000)

/* Every key fits, including eight bytes that a store may write after it. */
_Static_assert(KEY_PREFIX_MAX + KEY_PADDING_MAX + 24 <= KEY_CAP, "key buffer");

bool key_format_init(struct key_format *f, const char *prefix, uint64_t padding,
		     bool hashed)
{
	size_t len = strlen(prefix);

	if (len > KEY_PREFIX_MAX || padding > KEY_PADDING_MAX)
		return false;
	memcpy(f->prefix, prefix, len);
	f->prefix_len = (unsigned)len;
	f->padding = (unsigned)padding;
	f->hashed = hashed;
	return true;
}

void key_prepare(const struct key_format *f, char key[KEY_CAP])
{
	memcpy(key, f->prefix, f->prefix_len);
}

unsigned key_max_len(const struct key_format *f)
{
	return f->prefix_len + (f->padding > 20 ? f->padding : 20);
}

/*
 * The eight decimal digits of v < 10^8, one per byte, the most significant in the lowest
 * byte. Halves, pairs, then digits are split in parallel in one word: x / 100 is x * 10486
 * >> 20 for x < 10^4, x / 10 is x * 103 >> 10 for x < 100.
 */
static inline uint64_t digits_8(uint64_t v)
{
	uint64_t x, q;

	x = v / 10000 | (v % 10000) << 32;
	q = (x * 10486) >> 20 & UINT64_C(0x0000007f0000007f);
	x = q | (x - q * 100) << 16;
	q = (x * 103) >> 10 & UINT64_C(0x000f000f000f000f);
	return q | (x - q * 10) << 8;
}

static inline void store_8(char *at, uint64_t digits)
{
	digits = htole64(digits + UINT64_C(0x3030303030303030));
	memcpy(at, &digits, sizeof(digits));
}

/* digits_8() of v < 10^4, in four bytes. */
static inline uint32_t digits_4(uint32_t v)
{
	uint32_t q = (v * 10486) >> 20, x = q | (v - q * 100) << 16;

	q = (x * 103) >> 10 & 0x000f000f;
	return q | (x - q * 10) << 8;
}

/* Sixteen digits: of `high`, then of `low`, both below 10^8. */
#if defined(__SSE2__)
/*
 * digits_8() of both at once; x / 10000 is x * 3518437209 >> 45, x / 100 is x * 5243 >> 19,
 * x / 10 is x * 6554 >> 16 for the x that occur.
 */
static inline void store_16(char *at, uint64_t high, uint64_t low)
{
	__m128i x = _mm_set_epi64x((int64_t)low, (int64_t)high), q;

	q = _mm_srli_epi64(_mm_mul_epu32(x, _mm_set1_epi64x(3518437209)), 45);
	x = _mm_sub_epi64(x, _mm_mul_epu32(q, _mm_set1_epi64x(10000)));
	x = _mm_or_si128(q, _mm_slli_epi64(x, 32));
	q = _mm_srli_epi16(_mm_mulhi_epu16(x, _mm_set1_epi32(5243)), 3);
	x = _mm_sub_epi16(x, _mm_mullo_epi16(q, _mm_set1_epi32(100)));
	x = _mm_or_si128(q, _mm_slli_epi32(x, 16));
	q = _mm_mulhi_epu16(x, _mm_set1_epi16(6554));
	x = _mm_sub_epi16(x, _mm_mullo_epi16(q, _mm_set1_epi16(10)));
	x = _mm_or_si128(q, _mm_slli_epi16(x, 8));
	x = _mm_add_epi8(x, _mm_set1_epi8('0'));
	_mm_storeu_si128((__m128i *)(void *)at, x);
}
#else
static inline void store_16(char *at, uint64_t high, uint64_t low)
{
	store_8(at, digits_8(high));
	store_8(at + 8, digits_8(low));
}
#endif

/*
 * Numbers of up to 16 digits and padded ones, through a buffer. Not inlined, because the
 * common keys would pay for its registers.
 */
static __attribute__((noinline)) unsigned
build_padded(const struct key_format *f, uint64_t number, char *at)
{
	char all[24];
	unsigned len = 24, pad = 0;

	store_8(all, digits_8(number / TEN_16));
	store_16(all + 8, number / TEN_8 % TEN_8, number % TEN_8);
	while (len > 1 && all[24 - len] == '0')
		len--;
	if (f->padding > len)
		pad = f->padding - len;
	memset(at, '0', pad);
	memcpy(at + pad, all + 24 - len, len);
	return f->prefix_len + pad + len;
}

unsigned key_build(const struct key_format *f, uint64_t number,
		   char key[KEY_CAP])
{
	char *at = key + f->prefix_len;
	uint64_t rest;
	uint32_t top;
	unsigned skip;

	if (f->hashed)
		number = fnvhash64(number);
	if (number < TEN_16 || f->padding > 17)
		return build_padded(f, number, at);
	/* 17 to 20 digits: 99.8 % of all hashes. */
	top = digits_4((uint32_t)(number / TEN_16));
	rest = number % TEN_16;
	skip = (unsigned)__builtin_ctz(top) / 8;
	top = htole32((top + 0x30303030) >> skip * 8);
	memcpy(at, &top, sizeof(top));
	store_16(at + 4 - skip, rest / TEN_8, rest % TEN_8);
	return f->prefix_len + 20 - skip;
}
