/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index_get.h - the fast GET: a value of up to OVER_MAX bytes whose slot is in its home
 * line, in line with the caller.
 *
 * It waits for memory twice: for the window, which farkv_get() requests before all else,
 * and for the block that the slot names. A CPU looks some 300 to 450 instructions ahead,
 * so what lies between one GET's block and the next one's window must be short: then the
 * two overlap. That is why all of this is one function with its caller, and nothing of it
 * is in memory (doc/performance.md).
 */
#ifndef COMMON_INDEX_GET_H
#define COMMON_INDEX_GET_H

#include "fetch.h"
#include "index_direct.h"
#include "window_scan.h"

static_assert(OVER_MAX < INDEX_PART_MIN, "a fast GET brings no part elsewhere");

/* Where the value may be: the slot, the word that it held, and the block that this names. */
struct source {
	const uint64_t *slot;
	uint64_t word;
	const uint8_t *block;
	uint64_t bytes; /* of its class */
};

/* The bytes of the classes of up to OVER_MAX. */
static const uint16_t over_bytes[] = {
	CLASS_BYTES(0), CLASS_BYTES(1), CLASS_BYTES(2), CLASS_BYTES(3),
	CLASS_BYTES(4), CLASS_BYTES(5), CLASS_BYTES(6), CLASS_BYTES(7),
	CLASS_BYTES(8), CLASS_BYTES(9), CLASS_BYTES(10), CLASS_BYTES(11),
};
#define OVER_CLASSES (sizeof(over_bytes) / sizeof(over_bytes[0]))
static_assert(CLASS_BYTES(OVER_CLASSES - 1) <= OVER_MAX &&
	      CLASS_BYTES(OVER_CLASSES) > OVER_MAX, "the classes of up to OVER_MAX");

/* The first slot of those in `match`, if a block may be copied from where it leads. */
IN_LINE bool
find_source(const struct index *ix, size_t room, const uint64_t *slots, uint32_t match,
	    struct source *src)
{
	uint64_t w, off;

	src->slot = &slots[__builtin_ctz(match)];
	w = atom_load_follow(src->slot);
	off = slot_off(w);
	if ((w & (SLOT_FROZEN | SLOT_DEAD)) || slot_class(w) >= OVER_CLASSES)
		return false;
	src->bytes = over_bytes[slot_class(w)];
	if (off < ix->sb.meta_bytes || off + src->bytes > ix->sb.region_bytes ||
	    src->bytes > room)
		return false;
	src->word = w;
	src->block = ix->lane->base + off;
	return true;
}

/* All of most blocks; a loop would take longer than the rest of a large one. */
static inline void fetch_source(const struct source *src)
{
	fetch_line(src->block);
	fetch_line(src->block + LINE_BYTES);
	fetch_line(src->block + 2 * LINE_BYTES);
}

static inline uint64_t block_lengths(const uint8_t *block)
{
	uint64_t found;

	ATOM_UNWATCHED_BEGIN();
	found = atom_word_at(block + offsetof(struct block_header, value_len));
	ATOM_UNWATCHED_END();
	__asm__("" : "+r"(found)); /* what is checked of it is not loaded again */
	return found;
}

/* The header's second word in the block that this word names, if it is of these lengths. */
static inline uint64_t lengths_by(uint64_t word, uint16_t key_len, uint32_t value_len)
{
	struct block_header h = {.value_len = value_len,
				 .key_len = key_len,
				 .inc_flags = slot_inc(word)};

	return block_head_lengths(&h);
}

static inline bool holds(const struct source *src, uint16_t key_len, uint32_t len)
{
	return block_room(key_len, len) <= src->bytes;
}

/*
 * Copy the block, if its head is what the word names and this key's, and verify the copy.
 * The length is guessed to be the last value's: so no address depends on the block's head,
 * and only the data waits for it. A lying head cannot change the length any more.
 */
IN_LINE bool
copy_block(const struct index *ix, uint8_t *to, const struct index_key *key,
	   const struct source *src)
{
	uint64_t binding = word_binding(src->word);
	uint32_t len = ix->usual_len;
	uint64_t usual = lengths_by(src->word, key->len, len);

	__asm__("" : "+r"(binding), "+r"(usual)); /* now, not where it is needed */
	if (!holds(src, key->len, len) ||
	    __builtin_expect(block_lengths(src->block) != usual, 0))
		return false;
	return block_copy_holds(to, src->block, binding, key->len, len) &&
	       atom_same_block(key->data, to + sizeof(struct block_header), key->len);
}

/** The slots of the home line that have the key's fingerprint, one bit for each. */
IN_LINE uint32_t get_matches(const struct index_key *key, const uint64_t *slots)
{
	return window_scan(slots, hash_fp(key->hash)).match;
}

/**
 * Copy the key's block to `to`, which has `room` bytes. `match` is get_matches() of the
 * window `slots`, taken not long ago. True: the copy is the key's value of usual_len bytes,
 * and was at some moment during the call. False: index_get_rest() goes on, if src->slot is
 * not NULL from there.
 *
 * What stands in front of the slot does not matter: a key has one slot (I1), and while its
 * word stands and is not FROZEN, no other subtable has the key.
 */
IN_LINE bool get_fast(const struct index *ix, const struct index_key *key,
		      const uint64_t *slots, uint32_t match, uint8_t *to, size_t room,
		      struct source *src)
{
	if (!match || !find_source(ix, room, slots, match, src)) {
		src->slot = NULL;
		return false;
	}
	fetch_source(src);
	return copy_block(ix, to, key, src) && still_holds(src->slot, src->word);
}

/**
 * get_fast() was not enough: look at the next candidates in the line, then at all that can
 * be. Sets up want->op. False: it is pending, and index_run() has to.
 */
bool index_get_rest(struct index *ix, const struct index_want *want,
		    const uint64_t *slots, uint32_t match, struct source *src);

#endif
