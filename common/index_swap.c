/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps that change a slot: decide by the word that was found, write the block
 * and swap the word in one chain, and see what came of it, also when the lane broke
 * meanwhile. index_op.c is the way there.
 */
#include "config.h"

#include "index_direct.h"

#include "err.h"
#include "hash.h"

/*
 * An insert that takes its window's last slot asks for growth before somebody has
 * to wait for it. Simulated with random keys, 120 runs over a subtable of 505 home
 * lines: the first such insert comes at a mean load of 0.739, the first that finds
 * no slot at 0.745 (standard deviation 0.037). A slot or a line earlier would only
 * enlarge the index earlier: 0.7 % of load is time enough for a migration.
 */
#define NEAR_FULL_SLOT (WINDOW_SLOTS - 1)
/*
 * A small block is put together in memory that the CPU has at hand, and copied: its
 * sum is made of bytes just written, which would be waited for where they go.
 */
#define ENCODE_APART 1024u
/* Blocks from this size on are given up for a small tombstone on DELETE. */
#define TOMBSTONE_FROM 256u

/* ---- the operation's own block ------------------------------------------- */

/* The value is taken from where it lies; the image has what stands around it. */
static enum next block_write_around(struct index *ix, struct index_op *op)
{
	struct block_pair pair = {.key = op->key.data,
				  .key_len = op->key.len,
				  .value = op->value,
				  .value_len = op->value_len};
	uint64_t bytes = block_room(op->key.len, op->value_len);
	struct xport_wr *wr;

	if (index_op_reserve(ix, op, bytes - op->value_len))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM,
				       "no memory for a block image"));
	op->version = (uint64_t)ix->versions.prefix << 32 | ++ix->versions.counter;
	block_encode_around(op->buf, op->block, op->version, &pair,
			    op->key.hash);
	wr = op_chain_add(op, XPORT_WRITE, op->block.off, op->buf, bytes);
	wr->part = (void *)(uintptr_t)op->value;
	wr->part_at = BLOCK_HEADER_BYTES + op->key.len;
	wr->part_len = op->value_len;
	return NEXT_POST;
}

/* Right into the region, where nobody will read it soon. */
static void image_past_cache(const struct index_op *op, uint8_t *image)
{
	struct block_pair pair = {.key = op->key.data,
				  .key_len = op->key.len,
				  .value = op->value,
				  .value_len = op->value_len};

	block_encode_past_cache(image, op->block, op->version, &pair,
				op->key.hash);
}

enum next op_block_image(struct index *ix, struct index_op *op,
			 uint8_t **image_out)
{
	bool stores = (ix->lane->caps & XPORT_DIRECT_STORE) != 0;
	uint64_t bytes = block_room(op->key.len, op->value_len);
	bool past_cache = stores && op->value_len >= BLOCK_PAST_CACHE;
	bool buries = op->kind == INDEX_DELETE;

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
	if (past_cache)
		image_past_cache(op, *image_out);
	else
		block_encode(*image_out, op->block, op->version, op->key.data,
			     op->key.len, op->key.hash, op->value,
			     op->value_len, buries ? BLOCK_TOMBSTONE : 0);
	return NEXT_POST;
}

/* Write the block's image where WRITE takes it from, and add the WRITE. */
static enum next block_write(struct index *ix, struct index_op *op)
{
	uint8_t *image = NULL;
	enum next next;

	if (!(ix->lane->caps & XPORT_DIRECT_STORE) &&
	    op->value_len >= INDEX_PART_MIN && ix->versions.counter < UINT32_MAX &&
	    xport_mem_known(ix->lane, op->value, op->value_len))
		return block_write_around(ix, op);
	next = op_block_image(ix, op, &image);
	if (next == NEXT_POST)
		op_chain_add(op, XPORT_WRITE, op->block.off, image,
			     block_room(op->key.len, op->value_len));
	return next;
}

/* ---- decide and SWAP --------------------------------------------------------- */

static uint64_t new_word_flags(const struct index_op *op)
{
	return op->kind == INDEX_ADD || op->kind == INDEX_CAS ? 0 : SLOT_BLIND;
}

/* The chain is made at once, too, but for who swaps without any (index_try.c). */
static enum next op_swap(struct index *ix, struct index_op *op, uint64_t expect)
{
	struct xport_wr *wr;

	if (xport_broken(ix->lane))
		return op_done(ix, op, FARKV_EDISCONNECTED);
	op->expect_word = expect;
	if (op->kind == INDEX_DELETE && !op->has_block)
		op->new_word = expect | SLOT_DEAD | SLOT_BLIND;
	else
		op->new_word = slot_pack(op->block, hash_fp(op->key.hash),
					 new_word_flags(op));
	if (op->kind == INDEX_DELETE)
		op->new_word |= SLOT_DEAD;
	op->state = OP_SWAP;
	if (op->at_once)
		return NEXT_POST;
	/*
	 * One chain with the CAS: the WRITE costs no round trip of its own, and an
	 * operation that decides to change nothing has written nothing.
	 */
	if (op->has_block && !op->written) {
		enum next next = block_write(ix, op);

		if (next != NEXT_POST)
			return next;
	}
	wr = op_chain_add(op, XPORT_CAS, op_slot_off(op), NULL, 8);
	wr->expect = expect;
	wr->swap = op->new_word;
	return NEXT_POST;
}

/* A DELETE gives a large block up for a small one that holds the key alone. */
static enum next op_bury(struct index *ix, struct index_op *op, uint64_t word)
{
	uint64_t room = block_room(op->key.len, 0);
	uint64_t old = class_bytes(slot_class(word));

	op_chain_begin(op, OP_SWAP);
	if (op->has_block || old < TOMBSTONE_FROM || room * 2 > old)
		return op_swap(ix, op, word);
	op->cls = (uint8_t)class_for(room);
	if (op_take_rested(ix, op)) {
		op->has_block = true;
		op->written = NOT_WRITTEN;
		op->value_len = 0;
		return op_swap(ix, op, word);
	}
	if (!op->tomb_asked) {
		op->tomb_asked = true;
		return op_wait(ix, op, INDEX_WAIT_BLOCK);
	}
	return op_swap(ix, op, word);
}

/*
 * Was the word one that the slot has held? Half of one word of another key and half of
 * its next may name an old block of this key: then the slot is not this key's.
 */
static bool word_whole(const struct index *ix, const struct index_op *op)
{
	return op->settled || (ix->lane->caps & XPORT_READ8_ATOMIC);
}

/* Why the operation changes nothing where it found this, or 0. */
static int refusal(const struct index_op *op, uint64_t word, uint64_t version)
{
	bool alive = !(word & SLOT_DEAD);

	if (op->kind == INDEX_PUT)
		return 0;
	if (op->kind == INDEX_ADD)
		return alive ? FARKV_EEXISTS : 0;
	if (!alive)
		return FARKV_ENOTFOUND;
	if (op->kind == INDEX_CAS && version != op->expected)
		return FARKV_EVERSION;
	return 0;
}

/*
 * The slot is this key's and held `word` (not FROZEN). `version` is that of its
 * block; only a CAS looks at it.
 */
enum next op_decide(struct index *ix, struct index_op *op, uint64_t word,
		    uint64_t version)
{
	int err = refusal(op, word, version);

	op->inserting = false;
	if (err && !word_whole(ix, op)) {
		op->refusal = err;
		return op_settle(op);
	}
	if (err) {
		warm_store(ix, op, word, version);
		return op_done(ix, op, err);
	}
	if (op->kind == INDEX_DELETE)
		return op_bury(ix, op, word);
	op_chain_begin(op, OP_SWAP);
	return op_swap(ix, op, word);
}

/* The scan ended without the key: at the first EMPTY or at the window's end. */
enum next op_absent(struct index *ix, struct index_op *op)
{
	switch (op->kind) {
	case INDEX_PUT:
	case INDEX_ADD:
		break;
	default:
		return op_done(ix, op, FARKV_ENOTFOUND);
	}
	if (op->scan_from >= WINDOW_SLOTS) {
		op->wait_page = entry_page(op->entry);
		op->wait_gen = entry_gen(op->entry);
		return op_wait(ix, op, INDEX_WAIT_FULL);
	}
	op->slot_at = op->scan_from;
	op->inserting = true;
	op_chain_begin(op, OP_SWAP);
	return op_swap(ix, op, slot_empty(entry_gen(op->entry)));
}

static enum next op_swapped(struct index *ix, struct index_op *op)
{
	uint64_t old = op->expect_word;

	if (op->inserting && op->slot_at >= NEAR_FULL_SLOT) {
		op->near_full = true;
		op->wait_page = entry_page(op->entry);
		op->wait_gen = entry_gen(op->entry);
	}
	if (!op->inserting && slot_off(op->new_word) != slot_off(old))
		op_retire(ix, slot_block(old), slot_class(op->new_word));
	warm_swapped(ix, op);
	op->has_block = false;
	return op_done(ix, op, 0);
}

enum next op_lost(struct index *ix, struct index_op *op, uint64_t found)
{
	enum next next;

	ix->retries++;
	if (warm_lost(ix, op, found, &next))
		return next;
	if (found & SLOT_FROZEN)
		return op_check_moved(ix, op);
	if (slot_is_null(found))
		return op_again_bounded(ix, op, "a slot lost its key");
	/*
	 * Who replaces this word takes its block over, and writes there one day:
	 * it must be one, as the scan has seen to for the words that it found.
	 */
	if (!op->inserting &&
	    (slot_fp(found) != hash_fp(op->key.hash) ||
	     !region_block_ok(&ix->sb, slot_off(found), slot_class(found))))
		return op_again_bounded(ix, op, "a slot leads out of the region");
	/*
	 * If the slot is this key's, it is so for ever (I1). If the expected value
	 * was read inside this operation, and not remembered from before it, a PUT
	 * stands just before the blind write that replaced it. Its own block was
	 * never visible.
	 */
	op->rivals = op->rivals || !(op->inserting || op->remembered);
	op->absorbs = !op->inserting && !op->remembered &&
		      op->kind == INDEX_PUT && (found & SLOT_BLIND);
	op->remembered = false;
	if (op->inserting || !word_whole(ix, op)) {
		if (op->direct)
			return op_again(ix, op);
		/* Whose is it? The scan goes on at this very slot. */
		op->window[op->slot_at] = found;
		op->scan_from = op->slot_at;
		op->inserting = false;
		return op_scan(ix, op);
	}
	if (op->absorbs) {
		warm_store(ix, op, found, 0);
		return op_done(ix, op, 0);
	}
	/* Versions are unique: a changed word has another one than before. */
	if (op->kind == INDEX_CAS && !(found & SLOT_DEAD)) {
		warm_store(ix, op, found, 0);
		return op_done(ix, op, FARKV_EVERSION);
	}
	return op_decide(ix, op, found, 0);
}

enum next op_swap_result(struct index *ix, struct index_op *op, uint64_t found)
{
	return found == op->expect_word ? op_swapped(ix, op) :
					  op_lost(ix, op, found);
}

enum next op_swap_done(struct index *ix, struct index_op *op)
{
	if (op->chain.n > 1)
		op->written = WRITTEN;
	return op_swap_result(ix, op, op->chain.wr[op->chain.n - 1].found);
}

/* ---- what became of a CAS whose lane broke? ----------------------------------- */

static enum next op_unknown(struct index *ix, struct index_op *op)
{
	return op_done(ix, op,
		       err_set(FARKV_EMAYBE,
			       "the connection broke during the write, and "
			       "others wrote since: it may or may not have "
			       "happened"));
}

/* It never happened, and never will: the old lane is gone. */
static enum next op_repeat(struct index *ix, struct index_op *op)
{
	op->resolving = false;
	return op_again(ix, op);
}

/* The key's slot holds `word` now. */
enum next op_resolve(struct index *ix, struct index_op *op, uint64_t word)
{
	/* Two deletes in place write the same word: it proves nothing. */
	bool in_place = op->kind == INDEX_DELETE &&
			slot_off(op->lost_new) == slot_off(op->lost_expect);

	if (word == op->lost_new && !in_place)
		return op_done(ix, op, 0);
	if (word == op->lost_expect && !op->lost_insert)
		return op_repeat(ix, op);
	/*
	 * A blind write came after the word that this operation had read: a PUT
	 * stands just before it, whether it was ever visible or not. After a word
	 * that was only remembered it may have come before the operation began.
	 */
	if (op->kind == INDEX_PUT && (word & SLOT_BLIND) &&
	    !op->lost_remembered)
		return op_done(ix, op, 0);
	return op_unknown(ix, op);
}

/* No slot is bound to the key. */
enum next op_resolve_absent(struct index *ix, struct index_op *op)
{
	/* EMPTY counts in the same subtable only: another may have dropped it. */
	if (op->lost_insert && entry_gen(op->entry) == op->lost_gen)
		return op_repeat(ix, op);
	return op_unknown(ix, op);
}

/* The lane broke under the chain: did a CAS of it happen? */
enum next op_broken(struct index *ix, struct index_op *op)
{
	const struct xport_chain *c = &op->chain;

	if (op->state == OP_SWAP && c->n_done < c->n) {
		op->has_block = false; /* it may be published */
		op->unresolved = true;
		op->lost_insert = op->inserting;
		op->lost_remembered = op->remembered;
		op->lost_gen = entry_gen(op->entry);
		op->lost_expect = op->expect_word;
		op->lost_new = op->new_word;
		return op_done(ix, op,
			       err_set(FARKV_EMAYBE,
				       "the connection broke during the write: "
				       "it may or may not have happened"));
	}
	/* The lane knows best why. */
	if (!err_detail()[0])
		err_set(c->status, "the connection to the server broke");
	return op_done(ix, op, c->status);
}
