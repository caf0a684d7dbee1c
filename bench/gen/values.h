/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * values.h - the contents of records. A record is one value: its fields one after the
 * other, without names or separators.
 */
#ifndef BENCH_GEN_VALUES_H
#define BENCH_GEN_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen_histogram.h"
#include "gen_zipfian.h"
#include "rng.h"

enum field_length_dist {
	FIELD_LENGTH_CONSTANT,
	FIELD_LENGTH_UNIFORM,
	FIELD_LENGTH_ZIPFIAN,
	FIELD_LENGTH_HISTOGRAM,
};

/** Bytes after a value that value_fill() may overwrite. */
#define VALUE_SLACK 16

struct value_spec {
	uint64_t fields;
	uint64_t field_len_min;   /* except constant lengths and histograms */
	uint64_t field_len;       /* the constant, or the longest */
	enum field_length_dist dist;
	struct gen_zipfian zipfian;
	struct gen_histogram histogram;
	const char *field_prefix; /* names of fields, for checked contents */
	bool checked;             /* contents computed from the key */
};

/** The longest and the shortest value of the spec, in bytes. */
size_t value_max_len(const struct value_spec *v);
size_t value_min_len(const struct value_spec *v);

/**
 * Write the value of one record to `buf` of value_max_len() + VALUE_SLACK bytes; returns
 * its length. With `checked` it is a function of the key.
 */
size_t value_fill(const struct value_spec *v, struct rng *r, const char *key,
		  size_t key_len, char *buf);

/**
 * Random content of a field: RandomByteIterator's, printable, six bytes per 32 random bits.
 * May write up to VALUE_SLACK bytes after `len`.
 */
void value_random(struct rng *r, char *buf, size_t len);

/**
 * The checked content of a field (CoreWorkload.buildDeterministicValue): key, ':', field
 * name, then repeatedly ':' and Java's String.hashCode() of the text so far, cut to `len`.
 */
void value_checked(const char *key, size_t key_len, const char *field,
		   char *buf, size_t len);

/** True if `data` is the checked value of `key`; `scratch` as for value_fill(). */
bool value_matches(const struct value_spec *v, const char *key, size_t key_len,
		   const void *data, char *scratch);

#endif
