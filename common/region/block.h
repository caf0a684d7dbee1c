/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * block.h - the block: one immutable key and value (I2).
 *
 *   | header 24 | key | value | 0..7 zero bytes | checksum 8 |
 *
 * The writer owns the block before publication and after reuse; in between no byte of
 * it changes. The checksum stands last so that both sides walk the block once, front to
 * back. It covers everything before the padding and is combined with block_binding(),
 * so that intact bytes of another place, class or incarnation do not pass.
 *
 * `head_sum` covers the header and, through the seed, the key's hash: a writer that
 * only asks whether a slot is its key's reads header and key, not the value.
 */
#ifndef COMMON_REGION_BLOCK_H
#define COMMON_REGION_BLOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/atomic.h"
#include "hash.h"
#include "layout.h"
#include "common/base/util.h"

struct block_header {
	uint64_t version;   /* unique per write: prefix 32 | counter 32 */
	uint32_t value_len; /* bytes */
	uint16_t key_len;   /* bytes, 1..65535 */
	uint16_t inc_flags; /* bits 0..11 inc, bit 12 tombstone, others 0 */
	uint32_t expiry;    /* seconds after created_s; 0: never. Always 0 today */
	uint32_t head_sum;  /* block_head_sum() */
};
static_assert(sizeof(struct block_header) == BLOCK_HEADER_BYTES, "block header: size");
static_assert(offsetof(struct block_header, version) == 0, "block header");
static_assert(offsetof(struct block_header, head_sum) == 20, "block header");

#define BLOCK_TOMBSTONE 0x1000u
#define BLOCK_INC_MASK 0x0FFFu

/**
 * Place, class and incarnation of the block that a slot word names, mixed into one word that goes
 * into both checksums.
 */
static inline uint64_t word_binding(uint64_t word)
{
	return (word & SLOT_BLOCK_MASK) * UINT64_C(0x9E3779B97F4A7C15);
}

/** word_binding() of a block. */
static inline uint64_t block_binding(struct block_ref ref)
{
	return word_binding(slot_pack(ref, 0, 0));
}

/** The header's second word. */
static inline uint64_t block_head_lengths(const struct block_header *h)
{
	return (uint64_t)h->inc_flags << 48 | (uint64_t)h->key_len << 32 |
	       h->value_len;
}

/** `head_sum` of a header whose other fields are set; the key has this hash. */
static inline uint32_t block_head_sum(const struct block_header *h, uint64_t binding,
				      uint64_t key_hash)
{
	return hash_header(h->version, block_head_lengths(h), h->expiry,
			   key_hash ^ binding);
}

/** The checksum at the end of an image of `room` bytes (block_room()). */
static inline uint64_t block_sum(const uint8_t *image, size_t room)
{
	uint64_t sum;

	memcpy(&sum, image + room - BLOCK_SUM_BYTES, sizeof(sum));
	return sum;
}

/**
 * Copy a block that others may overwrite, with a key and value of these lengths, and verify the
 * copy. True if its checksum fits `binding`.
 */
IN_LINE bool
block_copy_holds(uint8_t *to, const uint8_t *block, uint64_t binding,
		 uint16_t key_len, uint32_t value_len)
{
	size_t end = sizeof(struct block_header) + key_len + value_len;
	size_t room = block_room(key_len, value_len);
	uint64_t hash;

	if (__builtin_expect(hash_can_copy(end), 1)) {
		ATOM_UNWATCHED_BEGIN();
		hash = hash_copy(to, block, end, room);
		ATOM_UNWATCHED_END();
	} else {
		atom_copy_small(to, block, room);
		hash = hash_image(to, end);
	}
	return block_sum(to, room) == (hash ^ binding);
}

/** A verified block. Points into the image that was verified. */
struct block_view {
	const uint8_t *key;
	const uint8_t *value;
	uint64_t version;
	uint32_t value_len;
	uint16_t key_len;
	bool tombstone;
};

enum block_check {
	BLOCK_MINE,    /* intact, and the key is the one asked for */
	BLOCK_OTHER,   /* intact, and it is another key's */
	BLOCK_BAD,     /* not what the word names, or no longer so */
	BLOCK_PARTIAL, /* unknown: the image ends before the key does */
};

/** Write header and key at `p`; returns their length. */
IN_LINE size_t block_head_encode(uint8_t *p, uint64_t binding,
				 const struct block_header *h, const void *key,
				 uint64_t key_hash)
{
	/* By whole words, which a following checksum can load without a stall. */
	uint64_t words[] = {h->version, block_head_lengths(h),
			    (uint64_t)block_head_sum(h, binding, key_hash) << 32 | h->expiry};

	for (unsigned i = 0; i < 3; i++)
		memcpy(p + i * sizeof(words[0]), &words[i], sizeof(words[0]));
	if (__builtin_expect(h->key_len - 8u <= 8u, 1)) { /* 8 to 16 bytes: no call */
		memcpy(p + sizeof(*h), key, 8);
		memcpy(p + sizeof(*h) + h->key_len - 8, (const uint8_t *)key + h->key_len - 8,
		       8);
	} else {
		memcpy(p + sizeof(*h), key, h->key_len);
	}
	return sizeof(*h) + h->key_len;
}

/** A key and its value, for a block to hold. */
struct block_pair {
	const void *key;
	uint64_t key_hash; /* hash_key() of it */
	const void *value; /* may be NULL if value_len is 0 */
	uint32_t value_len;
	uint16_t key_len;
};

/**
 * Write the image of the block that `word` names, without its checksum, which block_encode()
 * or block_seal_copy() adds. `flags` is 0 or BLOCK_TOMBSTONE.
 */
IN_LINE void block_fill(uint8_t *p, uint64_t word, uint64_t version,
			const struct block_pair *kv, uint16_t flags)
{
	size_t sum_at = block_room(kv->key_len, kv->value_len) - BLOCK_SUM_BYTES;
	uint64_t zero = 0;
	struct block_header h = {
		.version = version,
		.value_len = kv->value_len,
		.key_len = kv->key_len,
		.inc_flags = (uint16_t)(slot_inc(word) | flags),
	};

	/* Zero the padding, with one store; the value then overwrites the rest of it. */
	memcpy(p + sum_at - sizeof(zero), &zero, sizeof(zero));
	(void)block_head_encode(p, word_binding(word), &h, kv->key, kv->key_hash);
	if (__builtin_expect(kv->value_len != 0, 1))
		memcpy(p + sizeof(h) + kv->key_len, kv->value, kv->value_len);
}

/** Write a block's image at `dst`, block_room() bytes. `flags` is 0 or BLOCK_TOMBSTONE. */
IN_LINE void block_encode(void *dst, struct block_ref ref, uint64_t version,
			  const struct block_pair *kv, uint16_t flags)
{
	size_t end = sizeof(struct block_header) + kv->key_len + kv->value_len;
	uint64_t sum;

	block_fill((uint8_t *)dst, slot_pack(ref, 0, 0), version, kv, flags);
	sum = hash_image(dst, end) ^ block_binding(ref);
	memcpy((uint8_t *)dst + block_room(kv->key_len, kv->value_len) - sizeof(sum), &sum,
	       sizeof(sum));
}

/** Copy an image that block_fill() made into its block, and add the checksum. */
IN_LINE void block_seal_copy(uint8_t *block, const uint8_t *image, uint64_t binding,
			     size_t end, size_t room)
{
	uint64_t sum;

	ATOM_UNWATCHED_BEGIN();
	if (__builtin_expect(hash_can_copy(end), 1)) {
		sum = hash_copy(block, image, end, room);
	} else {
		sum = hash_image(image, end);
		memcpy(block, image, room - sizeof(sum));
	}
	sum ^= binding;
	memcpy(block + room - sizeof(sum), &sum, sizeof(sum));
	ATOM_UNWATCHED_END();
}

/**
 * block_encode() for a value that is written from the caller's memory: `dst` gets the block_room()
 * - value_len bytes around it. A value that changes before the block is written fails verification.
 */
void block_encode_around(void *dst, struct block_ref ref, uint64_t version,
			 const struct block_pair *kv);

/**
 * block_encode() for large values, from BLOCK_PAST_CACHE bytes on, without flags: the value is
 * copied past the caches. It is read twice and must not change in between.
 */
void block_encode_past_cache(void *dst, struct block_ref ref, uint64_t version,
			     const struct block_pair *kv);
#define BLOCK_PAST_CACHE 16384u

/**
 * A private copy of a block whose bytes seg_at to seg_at + seg_len are at `seg`. The bytes after
 * them are at image + seg_at.
 */
struct block_split {
	const uint8_t *image; /* with header and key: seg_at is after them */
	const uint8_t *seg;
	size_t seg_at, seg_len;
};

/**
 * block_verify() of a split copy; seg_at is the end of the key that is asked for. For BLOCK_MINE
 * the value is `seg`, or NULL if it is longer; for BLOCK_OTHER key and value are NULL.
 */
enum block_check block_verify_split(const struct block_split *parts,
				    struct block_ref ref, const void *key,
				    uint16_t key_len,
				    struct block_view *view_out);

/**
 * Verify a whole block: `image` is a private copy of class_bytes(ref.cls)
 * bytes. Fills *view_out for BLOCK_MINE and BLOCK_OTHER.
 */
enum block_check block_verify(const void *image, struct block_ref ref,
			      const void *key, uint16_t key_len,
			      struct block_view *view_out);

/** The key that a caller looks for. */
struct block_key {
	const void *data;
	uint64_t hash; /* hash_key() of it, ... */
	uint64_t seed; /* ... under the region's seed, as other keys are */
	uint16_t len;
};

/**
 * Verify header and key only, from a private copy of the block's first `have` bytes.
 * Sets version, lengths and tombstone of *view_out; key and value are NULL.
 */
enum block_check block_verify_head(const void *image, size_t have, struct block_ref ref,
				   const struct block_key *asked,
				   struct block_view *view_out);

/**
 * The hash of the key of an intact block, from its first `have` bytes. Verifies header and
 * key: false if they are not what `ref` names, or do not fit into `have`.
 */
bool block_key_hash(const void *image, size_t have, struct block_ref ref,
		    uint64_t seed, uint64_t *hash_out);

#endif
