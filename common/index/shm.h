/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/shm.h - the fast GET and the fast PUT over mapped memory, inlined into the caller. Anything
 * unusual continues in index/try.c, then in index/search.c, then in the state machine.
 *
 *   get_fast(): find the slot, request the block, copy and verify, look at the slot again
 *   put_fast(): take a block, build it, find the slot, verify, swap, retire the old block
 *
 * The caller has hashed the key and requested its window (window_prefetch()). Both fast paths look
 * at the window's first line only. An operation waits for memory twice: for the window, and for the
 * block that the slot names. A CPU looks 250 to 450 instructions ahead, so the two waits of
 * consecutive operations overlap more if fewer instructions lie between them.
 */
#ifndef COMMON_INDEX_SHM_H
#define COMMON_INDEX_SHM_H

#include "common/region/fetch.h"
#include "direct.h"
#include "heat.h"
#include "expiry.h"
#include "publish.h"
#include "window_scan.h"

/** Largest block that is read or written inline, in bytes. */
#define SHM_SMALL_MAX 640u
/**
 * Largest block and key of a fast PUT of an operation; a block of more than SHM_SMALL_MAX is built
 * by a call. For larger ones copying dominates, and the slow path costs nothing extra.
 */
#define PUT_ROOM_MAX 131072u
#define PUT_KEY_MAX 512u

/** Whether the block of a struct put is written. */
enum block_written { NOT_WRITTEN, WRITTEN };

static_assert(SHM_SMALL_MAX < INDEX_SEGMENT_MIN, "a fast GET has no segment");

/* ---- size classes of small blocks, by tables -------------------------------------------- */

static const uint16_t shm_bytes[] = {
	CLASS_BYTES(0), CLASS_BYTES(1), CLASS_BYTES(2), CLASS_BYTES(3),
	CLASS_BYTES(4), CLASS_BYTES(5), CLASS_BYTES(6), CLASS_BYTES(7),
	CLASS_BYTES(8), CLASS_BYTES(9), CLASS_BYTES(10), CLASS_BYTES(11),
};
#define SHM_CLASSES (sizeof(shm_bytes) / sizeof(shm_bytes[0]))
static_assert(CLASS_BYTES(SHM_CLASSES - 1) <= SHM_SMALL_MAX &&
	      CLASS_BYTES(SHM_CLASSES) > SHM_SMALL_MAX, "the classes up to SHM_SMALL_MAX");

/** class_for() of a block of `room` bytes (block_room()). */
static inline uint8_t shm_class(size_t room)
{
	static const uint8_t by_units[] = {0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7,
					   8, 8, 9, 9, 10, 10, 11, 11, 11, 11};

	return __builtin_expect(room <= SHM_SMALL_MAX, 1) ?
		       by_units[(room + PTR_UNIT - 1) / PTR_UNIT] :
		       (uint8_t)class_for(room);
}

/* The class's bytes of the small block that `word` names. False: no small block can be there. */
static inline bool shm_block_bytes(const struct index *ix, uint64_t word, uint64_t *bytes_out)
{
	uint64_t off = slot_off(word);

	if (slot_class(word) >= SHM_CLASSES)
		return false;
	*bytes_out = shm_bytes[slot_class(word)];
	return off >= ix->sb.meta_bytes && off + *bytes_out <= ix->sb.region_bytes;
}

/* The header's second word of a block that others may overwrite (block_head_lengths()). */
static inline uint64_t shm_lengths(const uint8_t *block)
{
	uint64_t found;

	ATOM_UNWATCHED_BEGIN();
	found = atom_word_at(block + offsetof(struct block_header, value_len));
	ATOM_UNWATCHED_END();
	__asm__("" : "+r"(found)); /* load it once */
	return found;
}

/* header.expiry of such a block. */
static inline uint32_t shm_expiry(const uint8_t *block)
{
	uint64_t found;

	ATOM_UNWATCHED_BEGIN();
	found = atom_word_at(block + offsetof(struct block_header, expiry));
	ATOM_UNWATCHED_END();
	return (uint32_t)found;
}

/* What shm_lengths() returns for an intact block that `word` names, without a flag. */
static inline uint64_t shm_lengths_by(uint64_t word, uint16_t key_len, uint32_t value_len)
{
	return (uint64_t)slot_inc(word) << 48 | (uint64_t)key_len << 32 | value_len;
}

/** The slots of the home line that have the key's fingerprint, one bit for each. */
IN_LINE uint32_t get_matches(const struct index_key *key, const uint64_t *slots)
{
	return window_scan(slots, hash_fp(key->hash)).match;
}

/* ---- GET -------------------------------------------------------------------------------- */

/**
 * A fast GET. The caller sets the first four fields, get_find() slot, word and block, get_copy()
 * the length, get_lives() the time left.
 */
struct get_source {
	const uint64_t *slots; /* the window, already prefetched */
	uint32_t match;        /* get_matches() of it */
	uint8_t *to;           /* buffer for the block, ... */
	size_t room;           /* ... and its size: a block header to SHM_SMALL_MAX bytes */
	uint64_t ttl_ms;       /* time left of the value in `to`; 0: it never expires */
	const uint64_t *slot;
	uint64_t word;
	const uint8_t *block;
	uint32_t len; /* of the value: the last GET's (get_copy()) */
};

/*
 * Find: the first slot in `match`. True if it is alive and names a place where `room` bytes lie in
 * the region. Its class need not be checked: the sum that get_copy() verifies covers it.
 */
IN_LINE bool get_find(const struct index *ix, struct get_source *src)
{
	uint64_t off;

	src->slot = &src->slots[(unsigned)__builtin_ctz(src->match)];
	src->word = atom_load_follow(src->slot);
	off = slot_off(src->word);
	src->block = ix->lane->base + off;
	return !(src->word & (SLOT_FROZEN | SLOT_DEAD)) && off >= ix->sb.meta_bytes &&
	       off + src->room <= ix->sb.region_bytes;
}

/*
 * Request the first three lines, which is all of most blocks. A loop over the other lines would
 * cost more than it saves.
 */
IN_LINE void get_request(const struct get_source *src)
{
	fetch_line(src->block);
	fetch_line(src->block + LINE_BYTES);
	fetch_line(src->block + 2 * LINE_BYTES);
}

/* header.expiry of a copy. */
static inline uint32_t get_expiry(const uint8_t *copy)
{
	uint32_t expiry;

	memcpy(&expiry, copy + offsetof(struct block_header, expiry), sizeof(expiry));
	return expiry;
}

static inline bool get_fits(const struct get_source *src, uint16_t key_len, uint32_t len)
{
	return block_room(key_len, len) <= src->room;
}

/*
 * Copy and verify: the header must be the one that the word names, and the copy must match its
 * checksum and the key. A block with a user word, or an expiry in seconds, is left to the slow
 * path.
 *
 * The value's length is assumed to be the last GET's. So no address depends on the header, and a
 * header that changes meanwhile cannot change the length.
 */
IN_LINE bool get_copy(const struct index *ix, const struct index_key *key,
		      struct get_source *src)
{
	uint8_t *to = src->to;
	uint64_t binding = word_binding(src->word);
	uint32_t len = src->len = ix->usual_len;
	uint64_t usual = shm_lengths_by(src->word, key->len, len);

	return get_fits(src, key->len, len) &&
	       __builtin_expect(shm_lengths(src->block) == usual, 1) &&
	       block_copy_holds(to, src->block, binding, key->len, len) &&
	       atom_same_block(key->data, to + sizeof(struct block_header), key->len);
}

/*
 * Time left of a value that expires at `expiry`, by CLOCK. Out of line, because most values do not
 * expire.
 */
uint64_t get_left(const struct index *ix, uint32_t expiry);

/*
 * Set src->ttl_ms of a verified copy, by CLOCK if the value expires; the caller must look at the
 * slot again afterwards (protocol.md, "Expiry"). False: it has expired.
 */
IN_LINE bool get_lives(const struct index *ix, struct get_source *src)
{
	uint32_t expiry = get_expiry(src->to);

	src->ttl_ms = 0;
	if (__builtin_expect(expiry == 0, 1))
		return true;
	src->ttl_ms = get_left(ix, expiry);
	return src->ttl_ms != 0;
}

/**
 * Copy the key's block to src->to. True: the copy holds the key's value, src->len bytes, which was
 * current at some moment of the call, and src->ttl_ms its time left, or 0. False: call
 * index_get_slow() (index/try.h); src->slot is NULL if no candidate was found.
 *
 * The slots before this one need no look: a key has one slot (I1), and while its word is unchanged
 * and not FROZEN, no other subtable has the key.
 */
IN_LINE bool get_fast(const struct index *ix, const struct index_key *key,
		      struct get_source *src)
{
	if (!src->match || !get_find(ix, src)) {
		src->slot = NULL;
		return false;
	}
	get_request(src);
	if (!get_copy(ix, key, src) || !get_lives(ix, src) ||
	    !still_holds(src->slot, src->word))
		return false;
	heat_mark_slot(ix, src->slot);
	return true;
}

/**
 * Continue after get_fast() found a candidate whose word is unchanged: the value has another length
 * than the last one, or another slot of the line is the key's. True as get_fast(), with the value's
 * length in ix->usual_len. False: search the window. 1 GET in 130 needs this if lines are half
 * full.
 */
bool get_next_candidates(struct index *ix, const struct index_key *key, struct get_source *src);

/* ---- PUT -------------------------------------------------------------------------------- */

/** How put_fast() ended. */
enum put_outcome {
	PUT_NOT_DONE, /* nothing was swapped; it may hold a block, written or not */
	PUT_LOST,     /* another writer changed the slot before the CAS */
	PUT_DONE
};

/** A fast PUT: all its state. */
struct put {
	const uint64_t *slots; /* the window, already prefetched */
	struct index_key key;
	const void *value;
	uint32_t value_len;
	uint8_t cls;                /* size class of `block`, ... */
	struct alloc_class *blocks; /* ... and the session's blocks of that class */
	uint8_t written;            /* enum block_written */
	bool fetch_next;            /* request the next PUT's block, too: this is no batch */
	bool has_spare;             /* as index_op's */
	uint64_t block;             /* its own block, as the word that names it; 0: none yet */
	uint64_t version, new_word;
	uint16_t slot_at;   /* the candidate slot, */
	uint64_t old_word;  /* its word, */
	const uint8_t *old; /* and the block that the word names */
	uint64_t lost_to;   /* PUT_LOST: the word that the CAS found */
};

/** Start a PUT without a block. Sets single fields: clearing all takes longer. */
IN_LINE void put_start(struct put *p, const struct index_key *key, const void *value,
		       uint32_t value_len)
{
	p->key = *key;
	p->value = value;
	p->value_len = value_len;
	p->block = 0;
	p->fetch_next = true;
	p->written = NOT_WRITTEN;
}

/**
 * True if put_fast() can put a key and value of these lengths, which are within the store's limits.
 */
static inline bool put_fits(const struct index *ix, const struct index_key *key,
			    uint32_t value_len)
{
	const unsigned caps = XPORT_AT_ONCE | XPORT_DIRECT_STORE;

	return (ix->lane->caps & caps) == caps && ix->alloc &&
	       block_room(key->len, value_len) <= SHM_SMALL_MAX;
}

/** Write a PUT's block of more than SHM_SMALL_MAX bytes. */
void index_put_build_large(const struct put *p, uint8_t *block);
/** Bytes of the large block that `word` names; 0 if none can be there. */
uint64_t index_put_old_bytes(const struct index *ix, uint64_t word);
/**
 * Retire the block of `word` if put_retire() cannot. True if the next PUT of class `cls` finds a
 * block and no block has to be given back.
 */
bool index_put_retire(struct index *ix, uint64_t word, uint8_t cls);

/* Take a block, without reading the clock. */
IN_LINE bool put_take(const struct index *ix, struct put *p)
{
	p->cls = shm_class(block_room(p->key.len, p->value_len));
	p->blocks = &ix->alloc->cls[p->cls];
	__asm__("" : "+r"(p->blocks)); /* compute it once */
	p->block = alloc_class_take(ix->alloc, p->blocks, ix->recent_ns);
	return p->block != 0;
}

/*
 * Build: make the image on the stack, which is in the nearest cache, and copy it into the block.
 * False if the lane broke: the session may have ended, and its blocks may belong to others.
 */
IN_LINE bool put_build(struct index *ix, struct put *p)
{
	struct block_pair pair = {.key = p->key.data,
				  .key_hash = p->key.hash,
				  .key_len = p->key.len,
				  .value = p->value,
				  .value_len = p->value_len};
	size_t end = sizeof(struct block_header) + p->key.len + p->value_len;
	size_t room = block_room(p->key.len, p->value_len);
	uint8_t *block = ix->lane->base + slot_off(p->block);
	uint8_t image[SHM_SMALL_MAX];

	p->version = (uint64_t)ix->versions.prefix << 32 | ++ix->versions.counter;
	if (__builtin_expect(room > SHM_SMALL_MAX, 0)) {
		struct put apart = *p; /* keeps `*p` in registers */

		index_put_build_large(&apart, block);
	} else {
		block_fill(image, p->block, p->version, &pair);
		block_seal_copy(block, image, word_binding(p->block), end, room);
	}
	p->written = WRITTEN;
	p->new_word = p->block | (uint64_t)hash_fp(p->key.hash) << SLOT_FP_SHIFT |
		      SLOT_BLIND;
	return !xport_broken(ix->lane);
}

/*
 * Find: the first slot of the home line with the key's fingerprint; request the header of its
 * block. The slots before it need no look, as in get_fast(). put_verify() or the CAS detects a word
 * that changed after the scan.
 */
IN_LINE bool put_find(const struct index *ix, struct put *p)
{
	const uint64_t *slots = p->slots;
	uint32_t match = get_matches(&p->key, slots);
	uint64_t bytes;

	if (!match)
		return false;
	p->slot_at = (uint16_t)__builtin_ctz(match);
	p->old_word = atom_load_follow(&slots[p->slot_at]);
	/* Any address may be prefetched; the checks follow. */
	p->old = ix->lane->base + slot_off(p->old_word);
	fetch_line(p->old);
	if (__builtin_expect(!shm_block_bytes(ix, p->old_word, &bytes), 0))
		bytes = index_put_old_bytes(ix, p->old_word);
	return !(p->old_word & SLOT_FROZEN) &&
	       sizeof(struct block_header) + p->key.len <= bytes;
}

/* Request the block that the next PUT will write, assuming the same length. */
IN_LINE void put_request_next(const struct index *ix, const struct put *p)
{
	uint64_t next = slot_off(alloc_class_peek(p->blocks, 0));
	size_t room = block_room(p->key.len, p->value_len);

	if (next)
		fetch_block(ix, next, room <= SHM_SMALL_MAX ? room : fetch_ahead(room));
}

/* The bits of a header's second word that a PUT does not compare. */
#define PUT_ANY_LENGTHS ((uint64_t)BLOCK_FLAGS << 48 | UINT32_MAX)

/*
 * Verify that the slot is this key's: compare incarnation and key with its block. If the CAS then
 * finds the same word, nobody has written the block in between. The header's checksum would only
 * detect damaged memory, which this PUT replaces. If the CAS finds another word, incarnation and
 * key may have been read at different times: index_write_search() looks again.
 */
IN_LINE bool put_verify(const struct put *p)
{
	uint64_t lengths = shm_lengths(p->old) & ~PUT_ANY_LENGTHS;

	return (lengths ^ shm_lengths_by(p->old_word, p->key.len, 0)) == 0 &&
	       atom_block_differs(p->key.data, p->old + sizeof(struct block_header),
				  p->key.len) == 0;
}

/*
 * Retire: the unlinked block waits for its grace period. The clock is read once in UNDATED_MAX
 * times.
 */
IN_LINE void put_retire(struct index *ix, struct put *p)
{
	struct alloc *a = ix->alloc;
	struct alloc_class *s = p->blocks;
	uint64_t old = p->old_word & SLOT_BLOCK_MASK;

	p->has_spare = alloc_class_has_spare(a, s, ix->recent_ns);
	if (__builtin_expect(slot_class(old) == p->cls && may_stay_undated(ix, p->cls) &&
			     alloc_class_has_room(a, s, old), 1)) {
		ix->undated++;
		alloc_class_push(a, s, old, ALLOC_UNDATED);
	} else {
		p->has_spare = index_put_retire(ix, p->old_word, p->cls);
	}
}

/**
 * A PUT that put_fits(). If the outcome is not PUT_DONE, call index_put_to_op() (index/try.h)
 * and index_write_search(), the latter with p->lost_to after PUT_LOST.
 *
 * The block is written first, while the window is on its way from memory.
 */
IN_LINE enum put_outcome put_fast(struct index *ix, struct put *p)
{
	uint64_t found;

	if (!(p->block || put_take(ix, p)) || !put_build(ix, p) || !put_find(ix, p))
		return PUT_NOT_DONE;
	if (p->fetch_next)
		put_request_next(ix, p);
	if (__builtin_expect(!put_verify(p), 0))
		return PUT_NOT_DONE;
	found = atom_cas_u64((uint64_t *)(uintptr_t)&p->slots[p->slot_at], p->old_word,
			     p->new_word);
	if (__builtin_expect(found != p->old_word, 0)) {
		p->lost_to = found;
		return PUT_LOST;
	}
	heat_mark_slot(ix, &p->slots[p->slot_at]);
	put_retire(ix, p);
	return PUT_DONE;
}

#endif
