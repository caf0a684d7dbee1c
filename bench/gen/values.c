/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "values.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "fnvhash.h"

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

size_t value_draw_len(const struct value_spec *v, struct rng *r)
{
	uint64_t len = 0;

	if (v->dist == FIELD_LENGTH_CONSTANT)
		return (size_t)(v->fields * v->field_len);
	for (uint64_t f = 0; f < v->fields; f++)
		len += field_len(v, r);
	return (size_t)len;
}

/* ---- the pattern ------------------------------------------------------------------- */

/* Every process has the same pattern, so that it can check what another one wrote. */
#define PATTERN_SEED 1

int value_init(struct value_spec *v, size_t max)
{
	struct rng r;

	v->pattern = malloc(max + VALUE_SLACK + 16);
	if (!v->pattern)
		return err_set(FARKV_ENOMEM, "no memory for values of %zu bytes",
			       max);
	rng_seed(&r, PATTERN_SEED, 0);
	value_random(&r, v->pattern, max + VALUE_SLACK);
	v->pattern_len = max + VALUE_SLACK;
	if (getrandom(&v->phase, sizeof(v->phase), GRND_NONBLOCK) !=
	    sizeof(v->phase))
		v->phase = clock_now_ns();
	return 0;
}

void value_fini(struct value_spec *v)
{
	gen_histogram_fini(&v->histogram);
	free(v->pattern);
	v->pattern = NULL;
}

struct db_value value_slice(const struct value_spec *v, struct rng *r,
			    size_t len)
{
	size_t from = (size_t)rng_below(r, VALUE_OFFSETS) * VALUE_ALIGN;

	return (struct db_value){v->pattern + from, len};
}

/* ---- stamps ------------------------------------------------------------------------ */

/* Little-endian in a value: head over the first bytes, sum over the last ones. */
struct stamp {
	uint64_t hash, phase, version;
};

#define SUM_BYTES sizeof(uint64_t)

static_assert(sizeof(struct stamp) + SUM_BYTES == VALUE_STAMPED, "VALUE_STAMPED");

static uint64_t mix(uint64_t h, uint64_t word)
{
	uint64_t state = h ^ word;

	return rng_splitmix(&state);
}

uint64_t value_hash(const char *key, size_t key_len)
{
	uint64_t h = FNV64_OFFSET;

	for (size_t i = 0; i < key_len; i++)
		h = (h ^ (unsigned char)key[i]) * FNV64_PRIME;
	return mix(h, key_len);
}

static uint64_t stamp_sum(const struct stamp *s, size_t len)
{
	return mix(mix(mix(mix(0, s->hash), s->phase), s->version), len);
}

static size_t stamp_offset(uint64_t sum)
{
	return (size_t)(sum % VALUE_OFFSETS) * VALUE_ALIGN;
}

/* The bytes of a value that is too short for a stamp. */
static void short_bytes(uint64_t hash, char bytes[VALUE_STAMPED])
{
	for (size_t i = 0; i < VALUE_STAMPED; i += sizeof(uint64_t)) {
		uint64_t word = htole64(rng_splitmix(&hash));

		memcpy(bytes + i, &word, sizeof(word));
	}
}

/* Replace the last stamp in `b` by the pattern; the first time copy the whole pattern. */
static void buf_restore(const struct value_spec *v, struct value_buf *b)
{
	size_t end = b->from + b->len;

	if (!b->filled) {
		memcpy(b->at, v->pattern, v->pattern_len);
		b->filled = true;
		return;
	}
	memcpy(b->at + b->from, v->pattern + b->from,
	       UTIL_MIN(b->len, (size_t)VALUE_STAMPED));
	if (b->len >= VALUE_STAMPED)
		memcpy(b->at + end - SUM_BYTES, v->pattern + end - SUM_BYTES,
		       SUM_BYTES);
}

struct db_value value_stamp(const struct value_spec *v, struct value_buf *b,
			    uint64_t hash, uint64_t version, size_t len)
{
	struct stamp s = {hash, v->phase, version};
	uint64_t sum = stamp_sum(&s, len);
	char bytes[VALUE_STAMPED];

	buf_restore(v, b);
	b->from = stamp_offset(sum);
	b->len = len;
	if (len < VALUE_STAMPED) {
		short_bytes(hash, bytes);
		memcpy(b->at + b->from, bytes, len);
	} else {
		s = (struct stamp){htole64(hash), htole64(v->phase),
				   htole64(version)};
		sum = htole64(sum);
		memcpy(b->at + b->from, &s, sizeof(s));
		memcpy(b->at + b->from + len - SUM_BYTES, &sum, SUM_BYTES);
	}
	return (struct db_value){b->at + b->from, len};
}

/* A version of this phase, or of a load: other phases' versions cannot be compared. */
static bool is_old(const struct value_spec *v, const struct stamp *s,
		   uint64_t least)
{
	return s->version < least &&
	       (s->phase == v->phase || s->version == 0);
}

enum value_verdict value_check(const struct value_spec *v, uint64_t hash,
			       uint64_t least, const struct db_value *value)
{
	const char *at = value->data;
	size_t len = value->len, body = len - VALUE_STAMPED;
	char bytes[VALUE_STAMPED];
	struct stamp s;
	uint64_t sum, end;

	if (len < VALUE_STAMPED) {
		short_bytes(hash, bytes);
		return memcmp(at, bytes, len) ? VALUE_OTHER_KEY : VALUE_GOOD;
	}
	memcpy(&s, at, sizeof(s));
	s = (struct stamp){le64toh(s.hash), le64toh(s.phase),
			   le64toh(s.version)};
	if (s.hash != hash)
		return VALUE_OTHER_KEY;
	sum = stamp_sum(&s, len);
	memcpy(&end, at + len - SUM_BYTES, SUM_BYTES);
	if (le64toh(end) != sum || len + VALUE_SLACK > v->pattern_len ||
	    memcmp(at + sizeof(s), v->pattern + stamp_offset(sum) + sizeof(s),
		   body) != 0)
		return VALUE_TORN;
	return is_old(v, &s, least) ? VALUE_OLD : VALUE_GOOD;
}

const char *value_verdict_text(enum value_verdict verdict)
{
	static const char *const texts[] = {
		[VALUE_GOOD] = "the value is right",
		[VALUE_OTHER_KEY] =
			("the value is not this key's; was it written with dataintegrity=true?"),
		[VALUE_TORN] = "the value is cut or mixed of several",
		[VALUE_OLD] = "the value is older than an acknowledged write",
	};

	return texts[verdict];
}
