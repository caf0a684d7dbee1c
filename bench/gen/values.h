/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * values.h - the contents of records. A record is one value: its fields one after the
 * other, without names or separators.
 *
 * Values are slices of a pattern, random printable bytes that are the same in every process
 * and are written once. So a value costs no pass over its bytes, however long it is. Two
 * values of a record start at different offsets, VALUE_OFFSETS of them.
 *
 * A checked value (dataintegrity=true) is a slice with a stamp over its first 24 and its last
 * 8 bytes: the key's hash, the number of the writing phase, the version; and a sum of these
 * and of the length. The stamp decides the offset. So a check tells another key's value, an
 * old one (ages.h), and one mixed of two, unless both start at the same offset and the mix
 * spares the stamp. Checked values shorter than VALUE_STAMPED bytes are a function of the key
 * alone.
 */
#ifndef BENCH_GEN_VALUES_H
#define BENCH_GEN_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/store/db.h"

#include "gen_histogram.h"
#include "gen_zipfian.h"
#include "rng.h"

enum field_length_dist {
	FIELD_LENGTH_CONSTANT,
	FIELD_LENGTH_UNIFORM,
	FIELD_LENGTH_ZIPFIAN,
	FIELD_LENGTH_HISTOGRAM,
};

#define VALUE_OFFSETS 256
/** Bytes between two offsets: the alignment that malloc(3) gives to a caller's value. */
#define VALUE_ALIGN 16
/** Bytes of the pattern after the longest value. */
#define VALUE_SLACK (VALUE_OFFSETS * VALUE_ALIGN)
/** Least length of a value with a stamp. */
#define VALUE_STAMPED 32

struct value_spec {
	uint64_t fields;
	uint64_t field_len_min;   /* except constant lengths and histograms */
	uint64_t field_len;       /* the constant, or the longest */
	enum field_length_dist dist;
	struct gen_zipfian zipfian;
	struct gen_histogram histogram;
	bool checked;             /* contents depend on key and version */
	uint64_t phase;           /* number of this phase in stamps; random */
	char *pattern;            /* with VALUE_SLACK bytes after the longest value */
	size_t pattern_len;
};

/** A buffer for one checked value after the other; starts zeroed, with `at` alone set. */
struct value_buf {
	char *at;      /* value_max_len() + VALUE_SLACK bytes of the caller */
	bool filled;   /* contains the pattern, but for the last stamp */
	size_t from, len;
};

/** What a check found. */
enum value_verdict {
	VALUE_GOOD,
	VALUE_OTHER_KEY, /* another key's, or no checked value at all */
	VALUE_TORN,      /* of mixed or cut contents */
	VALUE_OLD,       /* older than an acknowledged write */
};

/** The longest and the shortest value of the spec, in bytes. */
size_t value_max_len(const struct value_spec *v);
size_t value_min_len(const struct value_spec *v);

/**
 * Make the pattern for values of up to `max` bytes; the other fields are set. FARKV_ENOMEM
 * with a detail. End with value_fini(), which allows a zeroed struct. Takes 0.5 ms per MiB.
 */
int value_init(struct value_spec *v, size_t max);
void value_fini(struct value_spec *v);

/** The length of the next value: constant or drawn. */
size_t value_draw_len(const struct value_spec *v, struct rng *r);

/** An unchecked value of `len` bytes: a slice of the pattern. Valid until value_fini(). */
struct db_value value_slice(const struct value_spec *v, struct rng *r,
			    size_t len);

/**
 * The checked value of `len` bytes of version `version` of a key with value_hash() `hash`, in
 * `b`: valid until the next call with `b`. Writes some 64 bytes; the first call with `b`
 * fills it. Any thread, with a `b` of its own.
 */
struct db_value value_stamp(const struct value_spec *v, struct value_buf *b,
			    uint64_t hash, uint64_t version, size_t len);

/** The hash of a key for stamps. */
uint64_t value_hash(const char *key, size_t key_len);

/**
 * Check a value of any length and bytes for the key with this hash. `least` is the lowest
 * version that may be read: see ages_least(). Reads all bytes of value and pattern.
 */
enum value_verdict value_check(const struct value_spec *v, uint64_t hash,
			       uint64_t least, const struct db_value *value);

/** One line for users; never NULL. */
const char *value_verdict_text(enum value_verdict verdict);

/**
 * Printable random bytes: RandomByteIterator's of YCSB, six per 32 random bits. May write up
 * to 16 bytes after `len`.
 */
void value_random(struct rng *r, char *buf, size_t len);

#endif
