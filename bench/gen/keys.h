/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * keys.h - the key of a record number, as CoreWorkload.buildKeyName() makes it: a prefix,
 * zero padding, and the decimal digits of the number or of its hash. Worked examples: 0
 * hashed -> user6284781860667377211; 10 ordered with padding 12 -> user000000000010.
 */
#ifndef BENCH_GEN_KEYS_H
#define BENCH_GEN_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of a key buffer; key_build() may write past the key inside it. */
#define KEY_CAP 128
#define KEY_PREFIX_MAX 64
#define KEY_PADDING_MAX 32
/** ":", and the number of a block of the record. */
#define BLOCK_SUFFIX_MAX 6

struct key_format {
	char prefix[KEY_PREFIX_MAX];
	unsigned prefix_len;
	unsigned padding; /* least digits, 0..KEY_PADDING_MAX */
	bool hashed;
};

/** False if prefix or padding are too long. */
bool key_format_init(struct key_format *f, const char *prefix, uint64_t padding,
		     bool hashed);

/** Write the part that all keys share, before key_build(). */
void key_prepare(const struct key_format *f, char key[KEY_CAP]);

/**
 * Complete the prepared `key` for record `number`; returns its length. Not terminated. No
 * branches on digits: some 100 instructions, a quarter of them for the hash.
 */
unsigned key_build(const struct key_format *f, uint64_t number,
		   char key[KEY_CAP]);

/** The longest key of the format, in bytes. */
unsigned key_max_len(const struct key_format *f);

#endif
