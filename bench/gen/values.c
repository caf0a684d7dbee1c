/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "values.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

size_t value_max_len(const struct value_spec *v)
{
	uint64_t len = v->dist == FIELD_LENGTH_HISTOGRAM
			       ? gen_histogram_max(&v->histogram)
			       : v->field_len;

	return (size_t)(v->fields * len);
}

size_t value_min_len(const struct value_spec *v)
{
	uint64_t len = v->field_len_min;

	if (v->dist == FIELD_LENGTH_CONSTANT)
		len = v->field_len;
	else if (v->dist == FIELD_LENGTH_HISTOGRAM)
		len = gen_histogram_min(&v->histogram);
	return (size_t)(v->fields * len);
}

/*
 * Six characters of 32 bits, the first in the lowest byte: each takes overlapping bits,
 * mapped to 32..126.
 */
static inline uint64_t six_chars(uint64_t r)
{
	return ((r & 31) | (r >> 5 & 63) << 8 | (r >> 10 & 95) << 16 |
		(r >> 15 & 31) << 24 | (r >> 20 & 63) << 32 |
		(r >> 25 & 95) << 40) +
	       UINT64_C(0x202020202020);
}

void value_random(struct rng *r, char *buf, size_t len)
{
	for (size_t i = 0; i < len; i += 12) {
		uint64_t bits = rng_next(r);
		uint64_t low = htole64(six_chars(bits & UINT32_MAX));
		uint64_t high = htole64(six_chars(bits >> 32));

		/* Stores of eight bytes; the next one overwrites the last two. */
		memcpy(buf + i, &low, sizeof(low));
		memcpy(buf + i + 6, &high, sizeof(high));
	}
}

/* Append to the end of the field; the hash covers all of the text, also what is cut off. */
static size_t append(char *buf, size_t len, size_t at, const char *text)
{
	size_t n = strlen(text);

	if (n > len - at)
		n = len - at;
	memcpy(buf + at, text, n);
	return at + n;
}

static uint32_t java_hash(uint32_t h, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = 31 * h + (unsigned char)text[i];
	return h;
}

void value_checked(const char *key, size_t key_len, const char *field,
		   char *buf, size_t len)
{
	size_t at = key_len < len ? key_len : len, hashed = 0;
	uint32_t h = 0;
	char number[16];

	memcpy(buf, key, at);
	at = append(buf, len, at, ":");
	at = append(buf, len, at, field);
	while (at < len) {
		at = append(buf, len, at, ":");
		h = java_hash(h, buf + hashed, at - hashed);
		hashed = at;
		snprintf(number, sizeof(number), "%d", (int)(int32_t)h);
		at = append(buf, len, at, number);
	}
}

static size_t fill_checked(const struct value_spec *v, const char *key,
			   size_t key_len, char *buf)
{
	char name[128];
	size_t at = 0;

	for (uint64_t f = 0; f < v->fields; f++) {
		snprintf(name, sizeof(name), "%s%llu", v->field_prefix,
			 (unsigned long long)f);
		value_checked(key, key_len, name, buf + at,
			      (size_t)v->field_len);
		at += v->field_len;
	}
	return at;
}

static uint64_t field_len(const struct value_spec *v, struct rng *r)
{
	struct gen_zipfian z;

	switch (v->dist) {
	case FIELD_LENGTH_UNIFORM:
		return v->field_len_min +
		       rng_below(r, v->field_len - v->field_len_min + 1);
	case FIELD_LENGTH_ZIPFIAN:
		/* A copy draws the same, because it never grows. */
		z = v->zipfian;
		return gen_zipfian_next(&z, r);
	case FIELD_LENGTH_HISTOGRAM:
		return gen_histogram_next(&v->histogram, r);
	case FIELD_LENGTH_CONSTANT:
	default:
		return v->field_len;
	}
}

size_t value_fill(const struct value_spec *v, struct rng *r, const char *key,
		  size_t key_len, char *buf)
{
	uint64_t len = 0;

	if (v->checked)
		return fill_checked(v, key, key_len, buf);
	if (v->dist == FIELD_LENGTH_CONSTANT) {
		len = v->fields * v->field_len;
	} else {
		for (uint64_t f = 0; f < v->fields; f++)
			len += field_len(v, r);
	}
	value_random(r, buf, (size_t)len);
	return (size_t)len;
}

bool value_matches(const struct value_spec *v, const char *key, size_t key_len,
		   const void *data, char *scratch)
{
	size_t len = fill_checked(v, key, key_len, scratch);

	return !memcmp(data, scratch, len);
}
