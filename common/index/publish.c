/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "publish.h"

#include "common/base/err.h"
#include "common/region/hash.h"
#include "direct.h"
#include "expiry.h"
#include "heat.h"
#include "cached.h"

/*
 * An insert that takes its window's last slot asks for growth. Simulated with random keys, 120 runs
 * over a subtable of 505 home lines: the first such insert comes at a mean load of 0.739, the first
 * refused one at 0.745 (standard deviation 0.037). The difference is enough for a migration; asking
 * earlier would only make the index larger.
 */
#define NEAR_FULL_SLOT (WINDOW_SLOTS - 1)
/*
 * Smaller blocks are built in op->buf and copied: a checksum over bytes just written to uncached
 * memory would wait for that memory.
 */
#define ENCODE_APART 1024u
/* A DELETE exchanges a block of this size or more for a small tombstone. */
#define TOMBSTONE_FROM 256u

/* ---- the operation's own block ------------------------------------------- */

/* The content of the operation's block. A DELETE's block has the key alone. */
static struct block_pair op_pair(const struct index_op *op)
{
	struct block_pair pair = {.key = op->key.data,
				  .key_hash = op->key.hash,
				  .key_len = op->key.len,
				  .value = op->value,
				  .value_len = op_value_len(op),
				  .flags = BLOCK_TOMBSTONE};

	if (kind_deletes(op->kind))
		return pair;
	pair.user = op->user;
	pair.expiry = op->expires.at;
	pair.flags = (uint16_t)((op->user ? BLOCK_USER : 0) |
				(op->expires.at ? op->expires.flags : 0));
	return pair;
}

/* Add the WRITE of a value that lies in memory of the lane; op->buf gets the bytes around it. */
static enum next block_write_around(struct index *ix, struct index_op *op)
{
	struct block_pair pair = op_pair(op);
	uint64_t bytes = op_room(op);
	struct xport_wr *wr;

	if (index_op_reserve(ix, op, bytes - op->value_len))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM,
				       "no memory for a block image"));
	op->version = (uint64_t)ix->versions.prefix << 32 | ++ix->versions.counter;
	block_encode_around(op->buf, op->block, op->version, &pair);
	wr = op_chain_add(op, XPORT_WRITE, op->block.off, op->buf, bytes);
	wr->seg = (void *)(uintptr_t)op->value;
	wr->seg_at = BLOCK_HEADER_BYTES + op->key.len;
	wr->seg_len = op->value_len;
	return NEXT_POST;
}

enum next op_block_image(struct index *ix, struct index_op *op,
			 uint8_t **image_out)
{
	bool stores = (ix->lane->caps & XPORT_DIRECT_STORE) != 0;
	struct block_pair pair = op_pair(op);
	uint64_t bytes = op_room(op);

	if (ix->versions.counter == UINT32_MAX)
		return op_done(ix, op,
			       err_set(FARKV_EDISCONNECTED,
				       "the session has used up its versions"));
	if (stores && bytes > ENCODE_APART) {
		*image_out = ix->lane->base + op->block.off;
	} else {
		if (index_op_reserve(ix, op, bytes))
			return op_done(ix, op,
				       err_set(FARKV_ENOMEM,
					       "no memory for a block image"));
		*image_out = op->buf;
	}
	op->version = (uint64_t)ix->versions.prefix << 32 | ++ix->versions.counter;
	if (stores && pair.value_len >= BLOCK_PAST_CACHE)
		block_encode_past_cache(*image_out, op->block, op->version, &pair);
	else
		block_encode(*image_out, op->block, op->version, &pair);
	return NEXT_POST;
}

/* Write the block's image to where the WRITE takes it from, and add the WRITE. */
static enum next block_write(struct index *ix, struct index_op *op)
{
	uint8_t *image = NULL;
	enum next next;

	if (!(ix->lane->caps & XPORT_DIRECT_STORE) &&
	    op_value_len(op) >= INDEX_SEGMENT_MIN && ix->versions.counter < UINT32_MAX &&
	    xport_mem_known(ix->lane, op->value, op->value_len, XPORT_WRITE))
		return block_write_around(ix, op);
	next = op_block_image(ix, op, &image);
	if (next == NEXT_POST)
		op_chain_add(op, XPORT_WRITE, op->block.off, image, op_room(op));
	return next;
}

/* ---- decide ------------------------------------------------------------------ */

static uint64_t new_word_flags(const struct index_op *op)
{
	return op->kind == INDEX_ADD || kind_compares(op->kind) ? 0 : SLOT_BLIND;
}

/* Prepare the CAS. A broken lane gets no chain. */
static enum next swap_begin(struct index *ix, struct index_op *op, uint64_t expect)
{
	if (xport_broken(ix->lane))
		return op_done(ix, op, FARKV_EDISCONNECTED);
	op->swap.expect = expect;
	if (kind_deletes(op->kind) && op->own == OWN_NONE)
		op->swap.desired = (expect & ~SLOT_BLIND) | new_word_flags(op);
	else
		op->swap.desired = slot_pack(op->block, hash_fp(op->key.hash),
					     new_word_flags(op));
	if (kind_deletes(op->kind))
		op->swap.desired |= SLOT_DEAD;
	return NEXT_SWAP;
}

/* DELETE: exchange a large block for a small tombstone, or mark the word dead in place. */
static enum next begin_delete(struct index *ix, struct index_op *op, uint64_t word)
{
	uint64_t room = block_room(op->key.len, 0);
	uint64_t old = class_bytes(slot_class(word));

	if (op->own != OWN_NONE || old < TOMBSTONE_FROM || room * 2 > old)
		return swap_begin(ix, op, word);
	op->cls = (uint8_t)class_for(room);
	if (!op_take_ready(ix, op) && !op->tomb_asked) {
		op->tomb_asked = true;
		return op_wait(ix, op, INDEX_WAIT_BLOCK);
	}
	return swap_begin(ix, op, word);
}

/*
 * True if the slot did hold this word. A torn word, half from each of two words of another key, can
 * name an old block of this key; then the slot is not this key's.
 */
static bool word_whole(const struct index *ix, const struct index_op *op)
{
	return op->search.settled || (ix->lane->caps & XPORT_READ8_ATOMIC);
}

/* The error if the operation must not change what it found, else 0. */
static int refusal(const struct index_op *op, uint64_t word, uint64_t version)
{
	bool alive = !(word & SLOT_DEAD) && op->left_ms != 0;

	if (op->kind == INDEX_PUT)
		return 0;
	if (op->kind == INDEX_ADD)
		return alive ? FARKV_EEXISTS : 0;
	if (!alive)
		return FARKV_ENOTFOUND;
	if (kind_compares(op->kind) && version != op->expected)
		return FARKV_EVERSION;
	return 0;
}

/* The slot is this key's and held `word`, whose block has this version. */
static enum next decide(struct index *ix, struct index_op *op, uint64_t word,
			uint64_t version)
{
	int err = refusal(op, word, version);

	if (err && !word_whole(ix, op))
		return next_settle(op, err);
	if (err) {
		cached_store(ix, op, word, version);
		return op_done(ix, op, err);
	}
	if (kind_deletes(op->kind))
		return begin_delete(ix, op, word);
	return swap_begin(ix, op, word);
}

enum next swap_decide(struct index *ix, struct index_op *op)
{
	return decide(ix, op, op->search.word, op->search.version);
}

/* Note for the caller which subtable has to grow. */
static void note_subtable(struct index_op *op)
{
	op->wait_page = entry_page(op->entry);
	op->wait_gen = entry_gen(op->entry);
}

enum next swap_absent(struct index *ix, struct index_op *op)
{
	if (op->kind != INDEX_PUT && op->kind != INDEX_ADD)
		return op_done(ix, op, FARKV_ENOTFOUND);
	if (op->search.from >= WINDOW_SLOTS) {
		note_subtable(op);
		return op_wait(ix, op, INDEX_WAIT_FULL);
	}
	op->slot_at = op->search.from;
	return swap_begin(ix, op, slot_empty(entry_gen(op->entry)));
}

/* ---- SWAP -------------------------------------------------------------------- */

/*
 * WRITE and CAS form one chain: the WRITE costs no round trip of its own, and an operation that
 * ends without a CAS has written nothing.
 */
enum next swap_chain(struct index *ix, struct index_op *op)
{
	struct xport_wr *wr;

	op_chain_begin(op, OP_SWAP);
	if (op_inserts(op))
		op->search.marked = false;
	else
		heat_write(ix, op, op_slot_off(op));
	if (op->own == OWN_BLANK) {
		enum next next = block_write(ix, op);

		if (next != NEXT_POST)
			return next;
	}
	wr = op_chain_add(op, XPORT_CAS, op_slot_off(op), NULL, 8);
	wr->expect = op->swap.expect;
	wr->swap = op->swap.desired;
	return NEXT_POST;
}

static enum next swap_won(struct index *ix, struct index_op *op)
{
	uint64_t old = op->swap.expect;

	if (op_inserts(op) && op->slot_at >= NEAR_FULL_SLOT) {
		op->near_full = true;
		note_subtable(op);
	}
	if (!op_inserts(op) && slot_off(op->swap.desired) != slot_off(old))
		op_retire(ix, slot_block(old), slot_class(op->swap.desired));
	op->search.dated = op->expires.at != 0;
	if (!op_inserts(op) && op->kind != INDEX_DELETE)
		heat_mark(ix, op_slot_off(op));
	cached_swapped(ix, op);
	op->own = OWN_NONE;
	return op_done(ix, op, 0);
}

/*
 * The slot may now be another key's: the operation inserts, or a torn word led to it. Continue the
 * walk at this slot.
 */
static enum next find_owner(struct index *ix, struct index_op *op, uint64_t found)
{
	if (op->search.way == WAY_LOADS)
		return op_again(ix, op);
	op->window[op->slot_at] = found;
	op->search.from = op->slot_at;
	return NEXT_WALK;
}

/*
 * True if the operation must know whether the value of `found` has expired. That value refuses an
 * add, a cas or a conditional delete even if it has expired by now: it was alive right after the
 * other writer's CAS, which came after this operation's READ, unless the expected word was cached.
 * Other kinds change the value, so it must be alive.
 */
static bool must_check_expiry(const struct index *ix, const struct index_op *op, uint64_t found,
			   bool was_cached)
{
	return !(found & SLOT_DEAD) && op->kind != INDEX_PUT && expiry_used(ix) &&
	       (was_cached || op->kind == INDEX_REPLACE || op->kind == INDEX_DELETE);
}

/*
 * The slot now holds another word of this key, not FROZEN. If a PUT expected a word that it READ
 * itself and the new word is blind, the PUT is linearized just before that write, so its own block
 * need never be visible.
 */
static enum next lost_to_write(struct index *ix, struct index_op *op, uint64_t found,
			       bool was_cached)
{
	enum next next;

	op->left_ms = BLOCK_NEVER;
	op->search.dated = true; /* unknown */
	if (op->search.absorbs) {
		cached_store(ix, op, found, 0);
		return op_done(ix, op, 0);
	}
	if (must_check_expiry(ix, op, found, was_cached)) {
		if (cached_look_at(ix, op, found, &next))
			return next;
		return op_again(ix, op);
	}
	/* Versions are unique, so a changed word has another version. */
	if (kind_compares(op->kind) && !(found & SLOT_DEAD)) {
		cached_store(ix, op, found, 0);
		return op_done(ix, op, FARKV_EVERSION);
	}
	return decide(ix, op, found, 0);
}

/* The CAS found another word than expected. */
static enum next swap_lost(struct index *ix, struct index_op *op, uint64_t found)
{
	bool inserts = op_inserts(op), was_cached = op->search.word_cached;
	enum next next;

	ix->retries++;
	if (cached_lost(ix, op, found, &next))
		return next;
	if (found & SLOT_FROZEN)
		return next_moved(op, false);
	if (slot_is_null(found))
		return op_again_bounded(ix, op, "a slot lost its key");
	/*
	 * The writer that replaces this word takes its block over and will write there. So check
	 * that the word names a block, as the walk does.
	 */
	if (!inserts &&
	    (slot_fp(found) != hash_fp(op->key.hash) ||
	     !region_block_ok(&ix->sb, slot_off(found), slot_class(found))))
		return op_again_bounded(ix, op, "a slot leads out of the region");
	op->rivals = op->rivals || !(inserts || was_cached);
	op->search.absorbs = !inserts && !was_cached &&
			     op->kind == INDEX_PUT && (found & SLOT_BLIND);
	op->search.word_cached = false;
	/* A slot stays its key's for good (I1). */
	if (inserts || !word_whole(ix, op))
		return find_owner(ix, op, found);
	return lost_to_write(ix, op, found, was_cached);
}

enum next swap_result(struct index *ix, struct index_op *op, uint64_t found)
{
	return found == op->swap.expect ? swap_won(ix, op) :
					  swap_lost(ix, op, found);
}

enum next swap_done(struct index *ix, struct index_op *op)
{
	if (op->own == OWN_BLANK)
		op->own = OWN_WRITTEN;
	return swap_result(ix, op, op->chain.wr[op->chain.n - 1].found);
}

/* ---- the result of a CAS whose lane broke -------------------------------------- */

static enum next unknown(struct index *ix, struct index_op *op)
{
	return op_done(ix, op,
		       err_set(FARKV_EMAYBE,
			       "the connection broke during the write, and "
			       "others wrote since: it may or may not have "
			       "happened"));
}

/* The CAS was not executed and cannot be any more, because the old lane is gone: repeat it. */
static enum next repeat(struct index *ix, struct index_op *op)
{
	op->doubt = DOUBT_NONE;
	return op_again(ix, op);
}

enum next swap_resolve(struct index *ix, struct index_op *op, uint64_t word)
{
	const struct op_swap *lost = &op->lost.swap;
	/*
	 * Two deletes in place, or a conditional delete and the reaper, write the same word, so it
	 * does not show whose CAS succeeded.
	 */
	bool in_place = kind_deletes(op->kind) &&
			slot_off(lost->desired) == slot_off(lost->expect);

	if (word == lost->desired && !in_place)
		return op_done(ix, op, 0);
	if (word == lost->expect)
		return repeat(ix, op);
	/*
	 * A blind write followed the word that this operation READ: a PUT is linearized just before
	 * it, whether it was visible or not. If the word came from the cache, the blind write may
	 * be older than the operation.
	 */
	if (op->kind == INDEX_PUT && (word & SLOT_BLIND) &&
	    !op->lost.word_cached)
		return op_done(ix, op, 0);
	return unknown(ix, op);
}

enum next swap_resolve_absent(struct index *ix, struct index_op *op)
{
	/*
	 * EMPTY is a proof only in the same subtable, because a migration drops deleted keys. Each
	 * generation has its own EMPTY word.
	 */
	if (op->lost.swap.expect == slot_empty(entry_gen(op->entry)))
		return repeat(ix, op);
	return unknown(ix, op);
}

enum next swap_broken(struct index *ix, struct index_op *op)
{
	const struct xport_chain *c = &op->chain;

	if (op->phase == OP_SWAP && c->n_done < c->n) {
		op->own = OWN_NONE; /* the block may be published */
		op->doubt = DOUBT_OPEN;
		op->lost.swap = op->swap;
		op->lost.word_cached = op->search.word_cached;
		return op_done(ix, op,
			       err_set(FARKV_EMAYBE,
				       "the connection broke during the write: "
				       "it may or may not have happened"));
	}
	/* Keep the lane's own reason. */
	if (!err_detail()[0])
		err_set(c->status, "the connection to the server broke");
	return op_done(ix, op, c->status);
}
