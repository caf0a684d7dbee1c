/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/shm.h - the fast GET and the fast PUT over mapped memory. Each is a straight line of
 * named steps, in line with its caller; whatever is unusual goes on in index/shm.c, and from
 * there in index/try.c and the state machine.
 *
 *   get_fast(): find the slot, request the block, copy and verify, look at the slot again
 *   put_fast(): take a block, build, find the slot, verify, swap, retire
 *
 * The caller has hashed the key and requested its window (window_prefetch()). The slot
 * must be in the home line. Each operation waits for memory twice, for the window and for the
 * block that the slot names. A CPU looks 250 to 450 instructions ahead: the fewer instructions
 * lie between one operation's block and the next one's window, the more those two overlap.
 */
#ifndef COMMON_INDEX_SHM_H
#define COMMON_INDEX_SHM_H

#include "common/region/fetch.h"
#include "direct.h"
#include "publish.h"
#include "window_scan.h"

/** Bytes of a block that is written or read in line with the caller. */
#define SHM_SMALL_MAX 640u
/**
 * ... and of a fast PUT's block that is written by a call. What is left of a longer one's
 * time is the copying; and so is what is left of a longer key's.
 */
#define PUT_ROOM_MAX 131072u
#define PUT_KEY_MAX 512u

/** Is the block of a struct put written? */
enum block_written { NOT_WRITTEN, WRITTEN };

static_assert(SHM_SMALL_MAX < INDEX_SEGMENT_MIN, "a fast GET brings no part elsewhere");

/* ---- size classes of small blocks, by tables -------------------------------------------- */

static const uint16_t shm_bytes[] = {
	CLASS_BYTES(0), CLASS_BYTES(1), CLASS_BYTES(2), CLASS_BYTES(3),
	CLASS_BYTES(4), CLASS_BYTES(5), CLASS_BYTES(6), CLASS_BYTES(7),
	CLASS_BYTES(8), CLASS_BYTES(9), CLASS_BYTES(10), CLASS_BYTES(11),
};
#define SHM_CLASSES (sizeof(shm_bytes) / sizeof(shm_bytes[0]))
static_assert(CLASS_BYTES(SHM_CLASSES - 1) <= SHM_SMALL_MAX &&
	      CLASS_BYTES(SHM_CLASSES) > SHM_SMALL_MAX, "the classes up to SHM_SMALL_MAX");

/** class_for() of block_room(). */
static inline uint8_t shm_class(size_t room)
{
	static const uint8_t by_units[] = {0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7,
					   8, 8, 9, 9, 10, 10, 11, 11, 11, 11};

	return __builtin_expect(room <= SHM_SMALL_MAX, 1) ?
		       by_units[(room + PTR_UNIT - 1) / PTR_UNIT] :
		       (uint8_t)class_for(room);
}

/* The bytes of the small block that a word names. False if none can be there. */
static inline bool shm_block_bytes(const struct index *ix, uint64_t word, uint64_t *bytes_out)
{
	uint64_t off = slot_off(word);

	if (slot_class(word) >= SHM_CLASSES)
		return false;
	*bytes_out = shm_bytes[slot_class(word)];
	return off >= ix->sb.meta_bytes && off + *bytes_out <= ix->sb.region_bytes;
}

/* A block's header as one word: incarnation and flags, key's and value's length. */
static inline uint64_t shm_lengths(const uint8_t *block)
{
	uint64_t found;

	ATOM_UNWATCHED_BEGIN();
	found = atom_word_at(block + offsetof(struct block_header, value_len));
	ATOM_UNWATCHED_END();
	__asm__("" : "+r"(found)); /* what is checked of it is not loaded again */
	return found;
}

/* The same as it has to be in the block that `word` names. */
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

/** A GET while it is fast: what the caller gives, ... */
struct get_source {
	const uint64_t *slots; /* the window, requested */
	uint32_t match;        /* get_matches() of it */
	uint8_t *to;           /* the block is copied to here, */
	size_t room;           /* ... if it has at most so many bytes */
	/* ... and where the value may be. */
	const uint64_t *slot;
	uint64_t word;
	const uint8_t *block;
	uint64_t bytes; /* of its class */
	uint32_t len;   /* of the value, as it is guessed */
};

/* Find: the first slot of those in `match`, if it leads to a block of up to `room` bytes. */
IN_LINE bool get_find(const struct index *ix, struct get_source *src)
{
	src->slot = &src->slots[__builtin_ctz(src->match)];
	src->word = atom_load_follow(src->slot);
	src->block = ix->lane->base + slot_off(src->word);
	return !(src->word & (SLOT_FROZEN | SLOT_DEAD)) &&
	       shm_block_bytes(ix, src->word, &src->bytes) && src->bytes <= src->room;
}

/* Request all of most blocks; a loop would take longer than the rest of a large one. */
static inline void get_request(const struct get_source *src)
{
	fetch_line(src->block);
	fetch_line(src->block + LINE_BYTES);
	fetch_line(src->block + 2 * LINE_BYTES);
}

static inline bool get_fits(const struct get_source *src, uint16_t key_len, uint32_t len)
{
	return block_room(key_len, len) <= src->bytes;
}

/*
 * Copy and verify: the head must be what the word names, then the copy. The length is
 * guessed to be the last value's: so no address depends on the block's head, and a head that
 * lies cannot change the length any more.
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

/**
 * Copy the key's block to src->to. True: the copy is the key's value of src->len bytes, and
 * was at some moment during the call. False: index_get_slow() goes on, if src->slot is not
 * NULL from there.
 *
 * The slots in front of this one do not matter: a key has one slot (I1), and while its word
 * stands and is not FROZEN, no other subtable has the key.
 */
IN_LINE bool get_fast(const struct index *ix, const struct index_key *key,
		      struct get_source *src)
{
	if (!src->match || !get_find(ix, src)) {
		src->slot = NULL;
		return false;
	}
	get_request(src);
	return get_copy(ix, key, src) && still_holds(src->slot, src->word);
}

/**
 * get_fast() was not enough: look at the next candidates in the line, then at all that can
 * be. Sets up req->op. False: it is pending, and index_run() has to.
 */
bool index_get_slow(struct index *ix, const struct index_get_req *req, struct get_source *src);

/* ---- PUT -------------------------------------------------------------------------------- */

/** What became of a fast PUT. */
enum put_outcome {
	PUT_NOT_DONE,  /* nothing has been swapped; it may have a block, written or not */
	PUT_LOST, /* its CAS: a rival was faster */
	PUT_DONE
};

/** A PUT while it is fast; nothing of it is anywhere else. */
struct put {
	const uint64_t *slots; /* the window, requested */
	struct index_key key;
	const void *value;
	uint32_t value_len;
	uint8_t cls;       /* of `block`, */
	struct alloc_class *blocks; /* ... and what there is of that */
	uint8_t written;   /* enum block_written */
	bool fetch_next;   /* no batch has requested the next operation's block */
	bool has_spare;       /* as index_op's */
	uint64_t block;    /* its own, as the word that names it; 0: none yet */
	uint64_t version, new_word;
	uint16_t slot_at;  /* the slot that may be the key's, */
	uint64_t old_word; /* ... its word, */
	const uint8_t *old; /* ... and the block that this names */
	uint64_t lost_to;  /* PUT_LOST: the word that the swap found */
};

/** A PUT that has nothing yet. Field by field: to clear all of it takes longer. */
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

/** It did not end: what it has is the operation's now, which index_op_start() has set up. */
void index_put_to_op(struct index_op *op, const struct put *p, enum put_outcome outcome);

/** Can a key and a value of these lengths, which the store takes, be put fast, in line? */
static inline bool put_fits(const struct index *ix, const struct index_key *key,
				uint32_t value_len)
{
	const unsigned caps = XPORT_AT_ONCE | XPORT_DIRECT_STORE;

	return (ix->lane->caps & caps) == caps && ix->alloc &&
	       block_room(key->len, value_len) <= SHM_SMALL_MAX;
}

/* Steps that are unusual. A block of more than SHM_SMALL_MAX is written; */
void index_put_build_large(const struct put *p, uint8_t *block);
/** ... is looked for where a word leads: its bytes, or 0; */
uint64_t index_put_old_bytes(const struct index *ix, uint64_t word);
/** ... and the block of `word` is retired where put_retire() does not do: true if the next
 * PUT of the class finds a block, and none is to be given back. */
bool index_put_retire(struct index *ix, uint64_t word, uint8_t cls);

/* Take a block that is at hand without a look at the clock. */
IN_LINE bool put_take(const struct index *ix, struct put *p)
{
	p->cls = shm_class(block_room(p->key.len, p->value_len));
	p->blocks = &ix->alloc->cls[p->cls];
	__asm__("" : "+r"(p->blocks)); /* not to be computed again */
	p->block = alloc_class_take(ix->alloc, p->blocks, ix->recent_ns);
	return p->block != 0;
}

/*
 * Build the block, in memory that is always in the nearest cache, and copy it to its place.
 * False if the lane broke: the session may have ended, and its blocks be others'.
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
		struct put apart = *p; /* so that `*p` itself need not be in memory */

		index_put_build_large(&apart, block);
	} else {
		block_fill(image, p->block, p->version, &pair, 0);
		block_seal_copy(block, image, word_binding(p->block), end, room);
	}
	p->written = WRITTEN;
	p->new_word = p->block | (uint64_t)hash_fp(p->key.hash) << SLOT_FP_SHIFT |
		      SLOT_BLIND;
	return !xport_broken(ix->lane);
}

/*
 * Find the key's slot in its home line, if it is the first of those with its fingerprint,
 * and request the head of the block that it names. A word that has become another one since
 * the scan shows by its block, or by the swap. What stands in front of the slot does not
 * matter, as for get_fast(): the swap finds the word, and so nothing has been published since.
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
	/* The address may be anything: prefetching does no harm, and all checks follow. */
	p->old = ix->lane->base + slot_off(p->old_word);
	fetch_line(p->old);
	if (__builtin_expect(!shm_block_bytes(ix, p->old_word, &bytes), 0))
		bytes = index_put_old_bytes(ix, p->old_word);
	return !(p->old_word & SLOT_FROZEN) &&
	       sizeof(struct block_header) + p->key.len <= bytes;
}

/* The next PUT begins by writing its block, most likely one as long as this. */
IN_LINE void put_request_next(const struct index *ix, const struct put *p)
{
	uint64_t next = slot_off(alloc_class_peek(p->blocks, 0));
	size_t room = block_room(p->key.len, p->value_len);

	if (next)
		fetch_block(ix, next, room <= SHM_SMALL_MAX ? room : fetch_ahead(room));
}

/* What of a header's second word a PUT does not ask for. */
#define PUT_ANY_LENGTHS ((uint64_t)BLOCK_TOMBSTONE << 48 | UINT32_MAX)

/*
 * Verify: is the slot this key's? The incarnation and the key are what its block has to
 * show: if the swap finds the word as it was, nobody has written there since the word was
 * set. The header's checksum would tell of damaged memory only, which this PUT replaces. If
 * the swap finds another word the two may be of different times: index_put_search() looks
 * again.
 */
IN_LINE bool put_verify(const struct put *p)
{
	uint64_t lengths = shm_lengths(p->old) & ~PUT_ANY_LENGTHS;

	return (lengths ^ shm_lengths_by(p->old_word, p->key.len, 0)) == 0 &&
	       atom_block_differs(p->key.data, p->old + sizeof(struct block_header),
				  p->key.len) == 0;
}

/* Retire: the block that the swap has unlinked rests; the clock is read once in UNDATED_MAX. */
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
 * The PUT, which put_fits(). Not PUT_DONE: index_put_to_op(), and index_put_search()
 * goes on, with p->lost_to if the swap was lost.
 *
 * The block is written first, while the window is on its way.
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
	put_retire(ix, p);
	return PUT_DONE;
}

/* ---- operations that index_op_start() has set up -------------------------------------- */

/**
 * A PUT that is about to be carried out, behind others: it takes its block, if it will
 * go straight on with it, and the block is fetched ahead.
 */
void index_put_prepare(const struct index *ix, struct index_op *op);

/**
 * A PUT by loads: in one piece, from a block at hand to the CAS, for the commonest case;
 * index_put_search() for all others, and if that CAS is lost. The commonest: the key's slot
 * is in its home line, alive or dead, its value no larger than that. `slots` is the key's
 * window, on its way to the cache.
 */
bool index_put_fast(struct index *ix, struct index_op *op, const uint64_t *slots);

/**
 * A GET by loads: in one piece for the commonest case, index_get_search() for all others,
 * and if something moves. The commonest: the key's slot is in its home line, alive, its
 * value small. `slots` is the key's window.
 */
bool index_get_fast(struct index *ix, struct index_op *op, const uint64_t *slots);

#endif
