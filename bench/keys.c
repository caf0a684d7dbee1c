/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "keys.h"

#include <endian.h>
#include <string.h>

#include "fnvhash.h"

#define TEN_8 UINT64_C(100000000)
#define TEN_16 UINT64_C(10000000000000000)

/* All keys, padded or not, fit with the eight bytes that a store may overrun. */
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
 * The eight decimal digits of v < 10^8, one a byte, the most significant in
 * the lowest byte. Halves, then pairs, then digits part side by side in one
 * word: x / 100 is x * 10486 >> 20 for x < 10^4, x / 10 is x * 103 >> 10 for
 * x < 100.
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

static inline unsigned zeros_in_front(uint64_t digits)
{
	return (unsigned)__builtin_ctzll(digits | UINT64_C(1) << 63) / 8;
}

/* Numbers of up to 16 digits, and padded ones: by way of a buffer. */
static unsigned build_padded(const struct key_format *f, uint64_t number,
			     char *at)
{
	char all[24];
	unsigned len = 24, pad = 0;

	store_8(all, digits_8(number / TEN_16));
	store_8(all + 8, digits_8(number / TEN_8 % TEN_8));
	store_8(all + 16, digits_8(number % TEN_8));
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
	uint64_t top, rest;
	unsigned skip;

	if (f->hashed)
		number = fnvhash64(number);
	if (number < TEN_16 || f->padding > 17)
		return build_padded(f, number, at);
	/* 17 to 20 digits: all but two in a thousand hashes. */
	top = digits_8(number / TEN_16);
	rest = number % TEN_16;
	skip = zeros_in_front(top);
	store_8(at, top >> skip * 8);
	at += 8 - skip;
	store_8(at, digits_8(rest / TEN_8));
	store_8(at + 8, digits_8(rest % TEN_8));
	return f->prefix_len + 24 - skip;
}
