/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * block.h - the block: one immutable key and value (I2).
 *
 *   | header 24 | key | value | user word 0 or 4 | 0..7 zero bytes | checksum 8 |
 *
 * The writer owns the block before publication and after unlinking; in between no byte of
 * it changes. The checksum comes last so that both sides read the block once, front to
 * back. It covers everything before the padding and is combined with block_binding(),
 * so an intact block of another place, class or incarnation fails.
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
	uint16_t inc_flags; /* bits 0..11 inc, then BLOCK_TOMBSTONE, _SECONDS, _USER, 0 */
	uint32_t expiry;    /* region time modulo 2^32, in ms or seconds; 0: never */
	uint32_t head_sum;  /* block_head_sum() */
};
static_assert(sizeof(struct block_header) == BLOCK_HEADER_BYTES, "block header: size");
static_assert(offsetof(struct block_header, version) == 0, "block header");
static_assert(offsetof(struct block_header, head_sum) == 20, "block header");

#define BLOCK_INC_MASK 0x0FFFu
#define BLOCK_TOMBSTONE 0x1000u
#define BLOCK_SECONDS 0x2000u /* expiry counts seconds of region time, not milliseconds */
#define BLOCK_USER 0x4000u    /* a user word follows the value */
#define BLOCK_FLAGS (BLOCK_TOMBSTONE | BLOCK_SECONDS | BLOCK_USER)

/* ---- expiry -------------------------------------------------------------
 *
 * Times are region time (CLOCK), modulo 2^32 in the block's unit, and compared by their
 * difference as a signed 32-bit number. So a block is taken for alive again 2^31 units
 * after it expired: it must be removed before. The unit is milliseconds for up to
 * BLOCK_MS_MAX, seconds for more.
 */
#define BLOCK_MS_MAX (UINT64_C(24) * 86400 * 1000)
#define BLOCK_TTL_MAX_MS (UINT64_C(0x7FFFFFFF) * 1000) /* 68 years */
#define BLOCK_NEVER UINT64_MAX

struct block_expiry {
	uint32_t at;    /* header.expiry */
	uint16_t flags; /* 0 or BLOCK_SECONDS */
};

/**
 * The expiry of a block that lives `ttl_ms`, 1..BLOCK_TTL_MAX_MS, from `now_ms` on; a time in
 * seconds is rounded down. 0: it never expires.
 */
static inline struct block_expiry block_expiry_encode(uint64_t now_ms, uint64_t ttl_ms)
{
	struct block_expiry e = {.at = (uint32_t)(now_ms + ttl_ms)};

	if (ttl_ms == 0)
		return (struct block_expiry){0};
	if (ttl_ms > BLOCK_MS_MAX)
		e = (struct block_expiry){.at = (uint32_t)((now_ms + ttl_ms) / 1000),
					  .flags = BLOCK_SECONDS};
	if (e.at == 0) /* means never */
		e.at = 1;
	return e;
}

/** True if a block with this expiry has expired at `now_ms`. Other bits of `flags` are ignored. */
static inline bool block_expired(uint32_t at, uint16_t flags, uint64_t now_ms)
{
	uint64_t now = flags & BLOCK_SECONDS ? now_ms / 1000 : now_ms;

	return at != 0 && (int32_t)((uint32_t)now - at) >= 0;
}

/** Milliseconds left at `now_ms`: 0 if it has expired, BLOCK_NEVER if it never will. */
static inline uint64_t block_ttl_left(uint32_t at, uint16_t flags, uint64_t now_ms)
{
	if (at == 0)
		return BLOCK_NEVER;
	if (block_expired(at, flags, now_ms))
		return 0;
	if (flags & BLOCK_SECONDS)
		return (uint64_t)(at - (uint32_t)(now_ms / 1000)) * 1000 - now_ms % 1000;
	return at - (uint32_t)now_ms;
}

/* ---- header and sums -------------------------------------------------------- */

/** Bytes that a block with these inc_flags has after its value, before the padding. */
static inline uint32_t block_user_bytes(uint16_t flags)
{
	return flags & BLOCK_USER ? BLOCK_USER_BYTES : 0;
}

/** Bytes before the padding: header, key, value, user word. */
static inline uint64_t block_end(const struct block_header *h)
{
	return sizeof(*h) + h->key_len + (uint64_t)h->value_len +
	       block_user_bytes(h->inc_flags);
}

/** block_room() of a block with this header. */
static inline uint64_t block_room_of(const struct block_header *h)
{
	return block_room(h->key_len, (uint64_t)h->value_len + block_user_bytes(h->inc_flags));
}

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
 * Copy a block that others may overwrite, with a key and value of these lengths and no user word,
 * and verify the copy. True if its checksum fits `binding`.
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

/**
 * Change a block's image, class_bytes() long and not verified yet, into that of the block `to`:
 * another place and incarnation, the same content. False if it is not an intact image of `from`
 * with a key of this hash. *room_out: its length.
 */
bool block_rebind(uint8_t *image, struct block_ref from, struct block_ref to,
		  uint64_t key_hash, size_t *room_out);

/** A verified block. Points into the image that was verified. */
struct block_view {
	const uint8_t *key;
	const uint8_t *value;
	uint64_t version;
	uint32_t value_len;
	uint32_t expiry;
	uint32_t user; /* 0 if it has none, and after block_verify_head() */
	uint16_t key_len;
	uint16_t flags; /* of BLOCK_FLAGS */
};

/** block_room_of() the block of a view. */
static inline uint64_t block_view_room(const struct block_view *v)
{
	return block_room(v->key_len, (uint64_t)v->value_len + block_user_bytes(v->flags));
}

enum block_check {
	BLOCK_MINE,    /* intact, and the key is the one asked for */
	BLOCK_OTHER,   /* intact, and it is another key's */
	BLOCK_BAD,     /* not, or no longer, what the word names */
	BLOCK_PARTIAL, /* unknown: the image ends before the key does */
};

/** Write header and key at `p`; returns their length. */
IN_LINE size_t block_head_encode(uint8_t *p, uint64_t binding,
				 const struct block_header *h, const void *key,
				 uint64_t key_hash)
{
	/* Store whole words, which a following checksum can load without a stall. */
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
	uint16_t flags;  /* of BLOCK_FLAGS */
	uint32_t expiry; /* header.expiry */
	uint32_t user;   /* with BLOCK_USER */
};

/** The header of the block of `kv` that `word` names, without its head_sum. */
static inline struct block_header block_header_of(const struct block_pair *kv, uint64_t word,
						  uint64_t version)
{
	return (struct block_header){
		.version = version,
		.value_len = kv->value_len,
		.key_len = kv->key_len,
		.inc_flags = (uint16_t)(slot_inc(word) | kv->flags),
		.expiry = kv->expiry,
	};
}

/**
 * Write the image of the block that `word` names, without its checksum, which block_encode()
 * or block_seal_copy() adds.
 */
IN_LINE void block_fill(uint8_t *p, uint64_t word, uint64_t version, const struct block_pair *kv)
{
	struct block_header h = block_header_of(kv, word, version);
	size_t sum_at = block_room_of(&h) - BLOCK_SUM_BYTES;
	uint8_t *value = p + sizeof(h) + kv->key_len;
	uint64_t zero = 0;

	/* Zero the padding, with one store; the value then overwrites the rest of it. */
	memcpy(p + sum_at - sizeof(zero), &zero, sizeof(zero));
	(void)block_head_encode(p, word_binding(word), &h, kv->key, kv->key_hash);
	if (__builtin_expect(kv->value_len != 0, 1))
		memcpy(value, kv->value, kv->value_len);
	if (kv->flags & BLOCK_USER)
		memcpy(value + kv->value_len, &kv->user, sizeof(kv->user));
}

/** Write a block's image at `dst`, block_room_of() bytes. */
IN_LINE void block_encode(void *dst, struct block_ref ref, uint64_t version,
			  const struct block_pair *kv)
{
	struct block_header h = block_header_of(kv, 0, version);
	uint64_t sum;

	block_fill((uint8_t *)dst, slot_pack(ref, 0, 0), version, kv);
	sum = hash_image(dst, block_end(&h)) ^ block_binding(ref);
	memcpy((uint8_t *)dst + block_room_of(&h) - sizeof(sum), &sum, sizeof(sum));
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
 * block_encode() for a value that is written from the caller's memory: `dst` gets the
 * block_room_of() - value_len bytes around it. A value that changes before the block is written
 * fails verification.
 */
void block_encode_around(void *dst, struct block_ref ref, uint64_t version,
			 const struct block_pair *kv);

/**
 * block_encode() for large values, from BLOCK_PAST_CACHE bytes on: the value is copied past the
 * caches. It is read twice and must not change in between.
 */
void block_encode_past_cache(void *dst, struct block_ref ref, uint64_t version,
			     const struct block_pair *kv);
#define BLOCK_PAST_CACHE 16384u

/**
 * A private copy of a block in two parts: bytes seg_at to seg_at + seg_len are at `seg`, the others
 * at `image`, where those after the segment begin at image + seg_at.
 */
struct block_split {
	const uint8_t *image; /* with header and key: seg_at is after them */
	uint8_t *seg;
	size_t seg_at, seg_len;
	/*
	 * NULL, or where block_verify_split() copies the segment from, in one pass with the sum.
	 * The header at `image` must then have these lengths.
	 */
	const uint8_t *seg_from;
};

/**
 * block_verify() of a split copy; seg_at is the end of the searched key. For BLOCK_MINE the value
 * is `seg`, or NULL if it is longer; for BLOCK_OTHER key and value are NULL.
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
 * Sets all of *view_out but key and value, which are NULL, and the user word.
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
