/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A GET of a value that is there, straight on: one alone, or many side by side. One waits
 * for memory twice, for the window, which farkv_get() asks for before all else, and for the
 * block that the slot names. What it does behind that is little, and so is what the next
 * does in front of it: a CPU looks some 300 to 450 instructions ahead, and so two that
 * follow each other overlap. Of many all windows are asked for before the first is looked
 * at, and all blocks before the first is copied.
 */
#include "config.h"

#include <string.h>

#include "err.h"
#include "fetch.h"
#include "index_direct.h"
#include "util.h"
#include "window_scan.h"

static_assert(OVER_MAX < INDEX_PART_MIN, "a GET straight on brings no part elsewhere");

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
find_source(const struct index *ix, const struct index_op *op, const uint64_t *slots,
	    uint32_t match, struct source *src)
{
	uint64_t w, off;

	src->slot = &slots[__builtin_ctz(match)];
	w = atom_load_follow(src->slot);
	off = slot_off(w);
	if ((w & (SLOT_FROZEN | SLOT_DEAD)) || slot_class(w) >= OVER_CLASSES)
		return false;
	src->bytes = over_bytes[slot_class(w)];
	if (off < ix->sb.meta_bytes || off + src->bytes > ix->sb.region_bytes ||
	    src->bytes > op->buf_bytes)
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
 * The value has mostly the length that the last one had. Taken for granted until the head
 * has come, it makes nothing wait for it but the data: of that a CPU has room for little
 * more than there is. If somebody breaks the rules, the length stays what it was here.
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

/* Is the value but longer or shorter than the last one? The next may be like this one. */
static bool other_length(struct index *ix, const struct index_key *key,
			 const struct source *src)
{
	uint64_t found = block_lengths(src->block);
	uint32_t len = (uint32_t)found;

	if (len == ix->usual_len || found != lengths_by(src->word, key->len, len) ||
	    !holds(src, key->len, len))
		return false;
	ix->usual_len = len;
	return true;
}

/*
 * Is the block not this key's, but intact? Then whoever has it keeps its slot (I1). Any
 * length, and so it is copied anew.
 */
static bool is_others(const struct index_op *op, const struct index_key *key,
		      const struct source *src)
{
	uint64_t found = block_lengths(src->block);
	uint32_t len = (uint32_t)found;
	uint16_t key_len = (uint16_t)(found >> 32);

	return key_len > 0 && found == lengths_by(src->word, key_len, len) &&
	       holds(src, key_len, len) &&
	       block_copy_holds(op->buf, src->block, word_binding(src->word), key_len,
				len) &&
	       (key_len != key->len ||
		!atom_same_block(key->data, op->buf + sizeof(struct block_header),
				 key_len)) &&
	       still_holds(src->slot, src->word);
}

/*
 * Not at first sight: a value of another length than the last one, or one of the next slots
 * of this fingerprint in the line, as one in 130 is where lines are half full.
 */
static __attribute__((noinline)) bool copy_otherwise(struct index *ix, struct index_op *op,
						     const struct index_key *key,
						     uint32_t match, struct source *src)
{
	const uint64_t *slots = src->slot - __builtin_ctz(match);
	unsigned n = 0;

	for (;;) {
		if ((n && copy_block(ix, op->buf, key, src)) ||
		    (other_length(ix, key, src) && copy_block(ix, op->buf, key, src))) {
			if (!still_holds(src->slot, src->word))
				break;
			op->view.value_len = ix->usual_len;
			return true;
		}
		if (!is_others(op, key, src)) {
			if (!still_holds(src->slot, src->word))
				break;
			return false;
		}
		match &= match - 1;
		if (!match || ++n == OP_PROBE_MAX ||
		    !find_source(ix, op, slots, match, src))
			return false;
		fetch_source(src);
	}
	ix->retries++; /* a rival's word came */
	return false;
}

/*
 * What comes in front of one operation's data and behind the last one's keeps the CPU from
 * seeing both at once. So the operation is not even begun: `op` lends its buffer, and says
 * what was found. Nor does anybody ask where a walk would stop in front of the slot: a key
 * has one slot (I1), and while its word stands and is not FROZEN, no other subtable has
 * it. Who does not find it asks (index_get_search()). `match` is what a scan of the line
 * has said, not long ago; `alone`: nobody has fetched the block.
 */
IN_LINE bool
get_straight_on(struct index *ix, const struct index_want *want, const uint64_t *slots,
		uint32_t match, bool alone)
{
	const struct index_key *key = &want->key;
	struct index_op *op = want->op;
	uint8_t *to = op->buf;
	struct source src;

	if (!match || !find_source(ix, op, slots, match, &src))
		return false;
	/* While it comes, what can be done as if it were all that one hopes. */
	if (alone)
		fetch_source(&src);
	op->view.value = to + sizeof(struct block_header) + key->len;
	op->view.value_len = ix->usual_len;
	op->result = 0;
	if (!copy_block(ix, to, key, &src) &&
	    !copy_otherwise(ix, op, key, match, &src))
		goto in_vain;
	if (!still_holds(src.slot, src.word)) {
		ix->retries++;
		goto in_vain;
	}
	memcpy(&op->version, to, sizeof(op->version));
	return true;
in_vain:
	op->result = INDEX_PENDING;
	return false;
}

static inline uint32_t matches(const struct index_key *key, const uint64_t *slots)
{
	return window_scan(slots, hash_fp(key->hash)).match;
}

bool index_get_over(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	struct index_want want = {op->key, op};

	if (!get_straight_on(ix, &want, slots, matches(&op->key, slots), false))
		return index_get_search(ix, op, slots);
	op->view.key = op->view.value - op->key.len;
	op->view.key_len = op->key.len;
	op->view.version = op->version;
	op->view.tombstone = false;
	return true;
}

/* What is the caller's stays. */
static void start_get(const struct index_want *want)
{
	struct index_op *op = want->op;
	void *into = op->into;
	size_t into_cap = op->into_cap;

	index_op_start(op, INDEX_GET, &want->key, NULL, 0, 0);
	op->into = into;
	op->into_cap = into_cap;
}

/* False: it has begun, and is not final. */
static __attribute__((noinline)) bool get_otherwise(struct index *ix,
						    const struct index_want *want,
						    const uint64_t *slots)
{
	err_clear(); /* what follows may fail */
	start_get(want);
	return slots && index_get_search(ix, want->op, slots);
}

static __attribute__((noinline)) bool get_mapped(struct index *ix,
						 const struct index_want *want,
						 const uint64_t *slots)
{
	if (get_straight_on(ix, want, slots, matches(&want->key, slots), true))
		return true;
	return get_otherwise(ix, want, slots);
}

/* What is not mapped has nothing to do with all that. */
bool index_get(struct index *ix, const struct index_want *want, const void *expected)
{
	if (__builtin_expect(expected != NULL, 1))
		return get_mapped(ix, want, expected);
	start_get(want);
	return false;
}

/* ---- many of them ------------------------------------------------------------------ */

static inline void fetch_homes(const struct index *ix, const struct index_want *wants,
				 size_t n, const uint64_t **slots)
{
	bool lead = loads_lead(ix);

	for (size_t i = 0; i < n; i++) {
		slots[i] = lead ? window_of(ix, wants[i].key.hash) : NULL;
		fetch_line(slots[i]);
	}
}

/* Wherever the first of the key's slots leads: fetching ahead does no harm. */
static inline void fetch_first(const struct index *ix, const uint64_t *slots, uint32_t match)
{
	uint64_t w = atom_load_relaxed(&slots[__builtin_ctz(match)]);

	fetch_lines(ix->lane->base + slot_off(w),
		    fetch_ahead(slot_class(w) < OVER_CLASSES ?
					over_bytes[slot_class(w)] :
					class_bytes(slot_class(w))));
}

/* Returns how many are not final. */
static size_t get_some(struct index *ix, const struct index_want *wants, size_t n)
{
	const uint64_t *slots[MANY];
	uint32_t match[MANY];
	size_t left = 0;

	fetch_homes(ix, wants, n, slots);
	for (size_t i = 0; i < n; i++) {
		match[i] = slots[i] ? matches(&wants[i].key, slots[i]) : 0;
		if (match[i])
			fetch_first(ix, slots[i], match[i]);
	}
	for (size_t i = 0; i < n; i++)
		left += !get_straight_on(ix, &wants[i], slots[i], match[i], false) &&
			!get_otherwise(ix, &wants[i], slots[i]);
	return left;
}

/* What was found is still what was found. */
static void begin_found(const struct index_want *want)
{
	struct index_op *op = want->op;
	uint64_t version = op->version;

	start_get(want);
	op->version = version;
	op->result = 0;
}

bool index_get_many(struct index *ix, const struct index_want *wants, size_t n)
{
	size_t left = 0;

	for (size_t at = 0; at < n; at += MANY)
		left += get_some(ix, &wants[at], UTIL_MIN(n - at, (size_t)MANY));
	for (size_t i = 0; left && i < n; i++)
		if (wants[i].op->result == 0)
			begin_found(&wants[i]);
	return left == 0;
}
