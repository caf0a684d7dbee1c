/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index_put.h - a PUT over a value that is there, straight on, in line with who asks for
 * it: what a store is asked for all the time, and what takes two thirds of the
 * instructions if it is not asked at each step what else could be.
 *
 * It waits for memory twice: for the window, which farkv_put() asks for before all else,
 * and for the head of the block that the slot names. While the window is on its way it
 * writes the new block; while the head is, it does all else that can be done. What is left
 * to do behind that is little, and so is what the next call does before it asks for its
 * window: so the two overlap. A CPU looks some 250 to 450 instructions ahead, and at a part
 * of them that are loads (AMD's Zen 3 at 256 and 72, as far as we know). One load too many,
 * and it asks for the next window only when the head has come, a third of the whole later.
 * That is why all of this is one function with its caller, and its state is in registers:
 * each call and each field in memory is a load more (doc/performance.md).
 */
#ifndef COMMON_INDEX_PUT_H
#define COMMON_INDEX_PUT_H

#include "fetch.h"
#include "index_direct.h"
#include "window_scan.h"

/** What became of a PUT that was tried straight on. */
enum over {
	OVER_NOT,  /* nothing has been swapped; it may have a block, written or not */
	OVER_LOST, /* its CAS, which a rival came before */
	OVER_DONE
};

/** A PUT while it goes straight on; nothing of it is anywhere else. */
struct put {
	struct index_key key;
	const void *value;
	uint32_t value_len;
	bool has_block;    /* `block`, of class `cls`, is its own, */
	uint8_t written;   /* ... and holds its content: enum block_written */
	uint8_t cls;
	struct block_ref block;
	uint64_t version, new_word;
	bool plenty;       /* as index_op's */
	bool fetch_next;   /* no batch has fetched the next operation's block */
	/* The slot that may be the key's, its word, and the block that this names: */
	uint16_t slot_at;
	uint64_t expect_word;
	struct block_ref ref;
	uint64_t bytes;    /* of its class */
	const uint8_t *head;
	uint64_t lengths;  /* what its header has to say if it is this key's */
};

/** A PUT that has nothing yet. Field by field: to clear all of it takes longer. */
IN_LINE void put_start(struct put *p, const struct index_key *key, const void *value,
		       uint32_t value_len)
{
	p->key = *key;
	p->value = value;
	p->value_len = value_len;
	p->has_block = false;
	p->written = NOT_WRITTEN;
}

/** It did not end: what it has is the operation's now, which index_op_start() has set up. */
static inline void put_hand_over(struct index_op *op, const struct put *p, enum over over)
{
	if (p->has_block) {
		op->cls = p->cls;
		op->own = OWN_BLANK;
		op->block = p->block;
	}
	if (p->written) {
		op->own = OWN_WRITTEN;
		op->version = p->version;
	}
	if (over == OVER_LOST) {
		op->slot_at = p->slot_at;
		op->swap.expect = p->expect_word;
	}
}

/** Can a key and a value of these lengths, which the store takes, go straight on? */
static inline bool put_is_usual(const struct index *ix, size_t key_len, size_t value_len)
{
	const unsigned caps = XPORT_AT_ONCE | XPORT_DIRECT_STORE;

	return ((ix->lane->caps & caps) == caps) & (ix->alloc != NULL) &
	       (key_len <= PUT_KEY_MAX) &
	       (block_room(key_len, value_len) <= PUT_ROOM_MAX);
}

/** The block's content, where that is longer than OVER_MAX. `p` has block and version. */
void index_put_image(const struct put *p, uint8_t *block);

/* A block that is at hand without a look at the clock. */
IN_LINE bool put_take_block(const struct index *ix, struct put *p)
{
	p->cls = (uint8_t)class_for(block_room(p->key.len, p->value_len));
	return p->has_block =
		       stock_take(ix->alloc, p->cls, ix->recent_ns, &p->block);
}

/* False if the lane broke: the session may have ended, and its blocks be others'. */
IN_LINE bool put_write_block(struct index *ix, struct put *p)
{
	size_t room = block_room(p->key.len, p->value_len);
	uint8_t image[OVER_MAX]; /* of which a part is always in the nearest cache */
	uint8_t *block = ix->lane->base + p->block.off;

	p->version = (uint64_t)ix->versions.prefix << 32 | ++ix->versions.counter;
	if (__builtin_expect(room > OVER_MAX, 0)) {
		struct put apart = *p; /* so that `*p` itself need not be in memory */

		index_put_image(&apart, block);
	} else {
		block_encode(image, p->block, p->version, p->key.data, p->key.len,
			     p->key.hash, p->value, p->value_len, 0);
		atom_copy_block(block, image, room);
	}
	p->written = WRITTEN;
	p->new_word = slot_pack(p->block, hash_fp(p->key.hash), SLOT_BLIND);
	return !xport_broken(ix->lane);
}

IN_LINE bool put_take_and_write(struct index *ix, struct put *p)
{
	return (p->has_block || put_take_block(ix, p)) && put_write_block(ix, p);
}

/*
 * The next operation begins by writing its block, as long as this one most likely. The CPU
 * walks the page tables for it while it waits for the head in any case.
 */
IN_LINE void put_fetch_next(const struct index *ix, const struct put *p)
{
	uint64_t next = stock_peek(ix->alloc, p->cls, 0);

	if (next)
		fetch_block(ix, next,
			    fetch_ahead(block_room(p->key.len, p->value_len)));
}

/*
 * The key's slot in its home line, if it is the first of those in `match`, of which there
 * is one. False if it cannot be, or the block there has no room for the key. A word that
 * has become another one since the scan shows by its block, or by the swap.
 */
IN_LINE bool put_find_slot(const struct index *ix, struct put *p, const uint64_t *slots,
			   uint32_t match)
{
	unsigned i = (unsigned)__builtin_ctz(match);
	uint64_t w = atom_load_follow(&slots[i]);

	/* The address may be anything: prefetching does no harm, and all checks follow. */
	p->head = ix->lane->base + slot_off(w);
	fetch_line(p->head);
	p->ref = slot_block(w);
	if ((w & SLOT_FROZEN) || !region_block_ok(&ix->sb, p->ref.off, p->ref.cls))
		return false;
	p->bytes = class_bytes(p->ref.cls);
	p->slot_at = (uint16_t)i;
	p->expect_word = w;
	return sizeof(struct block_header) + p->key.len <= p->bytes;
}

/* The slot by a scan of the home line. */
IN_LINE bool put_find_target(const struct index *ix, struct put *p, const uint64_t *slots)
{
	struct line_masks m = window_scan(slots, hash_fp(p->key.hash));

	/* What is in front of the slot may be a migration, which others look at. */
	return m.match && !(m.stop & (m.match ^ (m.match - 1))) &&
	       put_find_slot(ix, p, slots, m.match);
}

/* What of a header's second word a PUT does not ask for. */
#define PUT_ANY_LENGTHS ((uint64_t)BLOCK_TOMBSTONE << 48 | UINT32_MAX)

/* The rest of it in a block of this key's that the slot's word names. */
static inline uint64_t put_lengths(const struct put *p)
{
	struct block_header h = {.key_len = p->key.len, .inc_flags = p->ref.inc};

	return block_head_lengths(&h);
}

/*
 * Is the slot this key's? The incarnation and the key are what its block has to show: if
 * the swap finds the word as it was, nobody has written there since the word was set. So
 * the header's checksum would say nothing more, but for memory that is damaged, which
 * this PUT replaces. If the swap finds another word the two may be of different times:
 * index_put_search() looks again.
 */
IN_LINE bool put_is_mine(const struct put *p)
{
	uint64_t lengths;

	ATOM_UNWATCHED_BEGIN();
	lengths = atom_word_at(p->head + 8);
	ATOM_UNWATCHED_END();
	atom_compiler_barrier();
	return (((lengths & ~PUT_ANY_LENGTHS) ^ p->lengths) |
		atom_block_differs(p->key.data, p->head + sizeof(struct block_header),
				   p->key.len)) == 0;
}

/* ---- the swap ------------------------------------------------------------------------ */

/*
 * All that can be done before the block's head has come, which takes longest. So the block
 * that the swap will unlink rests already, undated, if that needs no look at the clock:
 * true. Nobody else looks there meanwhile.
 */
IN_LINE bool put_get_ready(struct index *ix, struct put *p)
{
	p->lengths = put_lengths(p);
	p->plenty = stock_plenty(ix->alloc, p->cls, ix->recent_ns);
	if (!may_stay_undated(ix, p->ref, p->bytes) || !stock_retire(ix->alloc, p->ref))
		return false;
	ix->undated++;
	return true;
}

/* It has not been unlinked. */
static inline void put_keep_old(struct index *ix, const struct put *p, bool rests)
{
	if (!rests)
		return;
	stock_unretire(ix->alloc, p->ref.cls);
	ix->undated--;
}

/** Swap the slot that was found for the block that was written. */
IN_LINE enum over put_swap(struct index *ix, struct put *p, const uint64_t *slots,
			   uint64_t *found_out)
{
	bool rests = put_get_ready(ix, p), plain = rests & (p->ref.cls == p->cls);
	uint64_t found;

	if (p->fetch_next)
		put_fetch_next(ix, p);
	if (__builtin_expect(!put_is_mine(p), 0)) {
		put_keep_old(ix, p, rests);
		return OVER_NOT;
	}
	found = atom_cas_u64((uint64_t *)(uintptr_t)&slots[p->slot_at], p->expect_word,
			     p->new_word);
	if (__builtin_expect(found != p->expect_word, 0)) {
		put_keep_old(ix, p, rests);
		*found_out = found;
		return OVER_LOST;
	}
	if (__builtin_expect(!plain, 0)) {
		if (rests)
			op_trade(ix, p->ref, p->cls);
		else
			op_retire(ix, p->ref, p->cls);
		p->plenty = p->plenty & !ix->alloc->n_worn & !stock_gained(ix->alloc);
	}
	return OVER_DONE;
}

/**
 * The PUT in one piece, which put_is_usual(). `slots` is the key's window, on its way to
 * the cache. Not OVER_DONE: put_hand_over(), and index_put_search() goes on, which is to be
 * told *found_out if the swap was lost.
 *
 * The block is written first, while the window is on its way: so what lies between a
 * block's head, which takes longest, and the next operation's window is short, and the CPU
 * waits for both at once.
 */
IN_LINE enum over put_over(struct index *ix, struct put *p, const uint64_t *slots,
			   uint64_t *found_out)
{
	p->fetch_next = !p->has_block;
	if (!put_take_and_write(ix, p) || !put_find_target(ix, p, slots))
		return OVER_NOT;
	return put_swap(ix, p, slots, found_out);
}

#endif
