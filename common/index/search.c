/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "search.h"

#include <string.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/fetch.h"
#include "direct.h"
#include "expiry.h"
#include "heat.h"
#include "publish.h"
#include "window_scan.h"

/*
 * Copy the value to op->into, computing its sum in the same pass, and the rest of the block to
 * op->buf.
 */
static enum block_check direct_fetch_split(struct index_op *op,
					   const uint8_t *src,
					   const struct block_header *h,
					   struct block_ref ref,
					   struct block_view *view)
{
	struct block_split parts = {.image = op->buf,
				    .seg = op->into,
				    .seg_at = sizeof(*h) + op->key.len,
				    .seg_len = h->value_len,
				    .seg_from = src + sizeof(*h) + op->key.len};
	size_t end = parts.seg_at + parts.seg_len;

	atom_copy_block(op->buf, src, parts.seg_at);
	atom_copy_block(op->buf + parts.seg_at, src + end,
			block_room_of(h) - end);
	if (memcmp(op->buf, h, sizeof(*h)) != 0)
		return BLOCK_BAD;
	return block_verify_split(&parts, ref, op->key.data, op->key.len, view);
}

/* Copy the block that `word` names into op->buf and verify the copy. */
static bool direct_fetch(struct index *ix, struct index_op *op, uint64_t word,
			 enum block_check *check_out, struct block_view *view)
{
	struct block_ref ref = slot_block(word);
	const uint8_t *src = ix->lane->base + ref.off;
	struct block_header h;
	uint64_t bytes;

	if (!region_block_ok(&ix->sb, ref.off, ref.cls))
		return false;
	/* Request all lines of a small block at once. */
	bytes = fetch_ahead(class_bytes(ref.cls));
	fetch_lines(src + LINE_BYTES, bytes - UTIL_MIN(bytes, LINE_BYTES));
	atom_copy_block(&h, src, sizeof(h));
	atom_compiler_barrier();
	bytes = block_room_of(&h);
	if (bytes > class_bytes(ref.cls))
		return false;
	if (op->into && h.value_len >= INDEX_SEGMENT_MIN &&
	    h.value_len <= op->into_cap && h.key_len == op->key.len) {
		if (index_op_reserve(ix, op, bytes - h.value_len))
			return false;
		*check_out = direct_fetch_split(op, src, &h, ref, view);
		return true;
	}
	if (index_op_reserve(ix, op, bytes))
		return false;
	atom_copy_block(op->buf, src, bytes);
	/* The lengths may have changed: compare with the copied header. */
	if (memcmp(op->buf, &h, sizeof(h)) != 0)
		return false;
	*check_out = block_verify(op->buf, ref, op->key.data, op->key.len, view);
	return true;
}

/* Copy what a probe needs of the block that `word` names to op->buf, and check whose it is. */
static enum block_check direct_probe(struct index *ix, struct index_op *op, uint64_t word,
				     struct block_view *view)
{
	struct block_ref ref = slot_block(word);
	uint64_t bytes = op_probe_bytes(op, word);
	struct block_key asked = op_block_key(ix, op);

	if (index_op_reserve(ix, op, bytes))
		return BLOCK_BAD;
	atom_copy_block(op->buf, ix->lane->base + ref.off, bytes);
	return block_verify_head(op->buf, bytes, ref, &asked, view);
}

/* Check whose block `word` names, by its header and key. */
static enum block_check direct_head(struct index *ix, struct index_op *op,
				    uint64_t word, struct block_view *view)
{
	struct block_ref ref = slot_block(word);
	enum block_check check;

	if (!region_block_ok(&ix->sb, ref.off, ref.cls))
		return BLOCK_BAD;
	op->search.probe_full = false;
	check = direct_probe(ix, op, word, view);
	if (check == BLOCK_PARTIAL) { /* another key, longer than this one */
		op->search.probe_full = true;
		check = direct_probe(ix, op, word, view);
	}
	return check;
}

/* What a look at a slot led to. */
enum look { LOOK_ON, LOOK_END, LOOK_FOUND, LOOK_UNUSUAL };

/*
 * What is copied: for a GET the block if alive, for an EXISTS its head if alive, for a writer any
 * head.
 */
enum copied { COPY_BLOCK, COPY_LIVING_HEAD, COPY_HEAD };

/*
 * Look at a slot that window_scan() points out, by loading its word again. Sets *view and
 * op->search.word.
 */
IN_LINE enum look
look_at(struct index *ix, struct index_op *op, const uint64_t *slot, enum copied what,
	struct block_view *view)
{
	uint64_t w = atom_load_follow(slot);
	enum block_check check = BLOCK_BAD;

	if (w == slot_empty(entry_gen(op->entry)))
		return LOOK_END;
	if ((w & SLOT_FROZEN) || slot_is_null(w))
		return LOOK_UNUSUAL;
	if (slot_fp(w) != hash_fp(op->key.hash) || (what != COPY_HEAD && (w & SLOT_DEAD)))
		return LOOK_ON;
	if (what != COPY_BLOCK)
		check = direct_head(ix, op, w, view);
	else if (!direct_fetch(ix, op, w, &check, view))
		return LOOK_UNUSUAL;
	if (check != BLOCK_MINE && check != BLOCK_OTHER)
		return LOOK_UNUSUAL;
	/* Load CLOCK before the last look at the slot (protocol.md, "Expiry"). */
	op->left_ms = expiry_left(ix, view);
	if (!still_holds(slot, w))
		return LOOK_UNUSUAL;
	op->search.word = w;
	return check == BLOCK_MINE ? LOOK_FOUND : LOOK_ON;
}

/*
 * Walk the slots line by line; most are skipped by their fingerprint. Sets op->slot_at to where the
 * walk ended, WINDOW_SLOTS if no slot is the key's.
 */
IN_LINE enum look
walk(struct index *ix, struct index_op *op, const uint64_t *slots,
     enum copied what, struct block_view *view)
{
	for (unsigned s = 0; s < WINDOW_SLOTS; s += LINE_SLOTS) {
		struct line_masks m = window_scan(&slots[s], hash_fp(op->key.hash));

		for (uint32_t at = m.match | m.stop; at; at &= at - 1) {
			unsigned i = s + (unsigned)__builtin_ctz(at);
			enum look look =
				look_at(ix, op, &slots[i], what, view);

			if (look != LOOK_ON) {
				op->slot_at = (uint16_t)i;
				return look;
			}
		}
	}
	op->slot_at = WINDOW_SLOTS;
	return LOOK_END;
}

/* Walk the window; count anything unusual as a retry. */
IN_LINE enum look
search(struct index *ix, struct index_op *op, const uint64_t *slots,
       enum copied what, struct block_view *view)
{
	enum look look = walk(ix, op, slots, what, view);

	ix->retries += look == LOOK_UNUSUAL;
	return look;
}

bool index_get_search(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	enum look look;

	(void)direct_window(ix, op); /* a fast path may not have set it */
	look = search(ix, op, slots, COPY_BLOCK, &op->view);
	if (look == LOOK_UNUSUAL)
		return false;
	op->result = look == LOOK_FOUND && op->left_ms ? 0 : FARKV_ENOTFOUND;
	if (op->result == 0) {
		op->version = op->view.version;
		heat_mark(ix, op_slot_off(op));
	}
	return true;
}

bool index_exists_search(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	struct block_view view;
	enum look look = search(ix, op, slots, COPY_LIVING_HEAD, &view);

	if (look == LOOK_UNUSUAL)
		return false;
	op->result = look == LOOK_FOUND && op->left_ms ? 0 : FARKV_ENOTFOUND;
	return true;
}

/* ---- borrowing --------------------------------------------------------------------- */

/* Set the value's place and lengths, from a block whose head was verified. */
static void borrowed_set(const struct index *ix, const struct index_op *op,
			 const struct block_view *view, struct index_borrowed *out)
{
	struct block_ref ref = slot_block(op->search.word);

	out->value = ix->lane->base + ref.off + BLOCK_HEADER_BYTES + op->key.len;
	out->value_len = view->value_len;
	out->version = view->version;
	out->left_ms = op->left_ms;
	out->user = 0;
	if (view->flags & BLOCK_USER)
		atom_copy_block(&out->user, out->value + view->value_len, BLOCK_USER_BYTES);
	out->look.slot = window_off(op) + (uint64_t)op->slot_at * SLOT_BYTES;
	out->look.word = op->search.word;
}

int index_borrow(struct index *ix, struct index_op *op, const struct index_key *key,
		 struct index_borrowed *out)
{
	const uint64_t *slots;
	struct block_view view;
	enum look look;

	/* Like EXISTS, which reads header and key. */
	index_op_start(op, INDEX_EXISTS, key, NULL, 0);
	slots = loads_usable(ix) ? direct_window(ix, op) : NULL;
	if (!slots)
		return INDEX_PENDING;
	out->look.at_ns = index_now(ix);
	look = search(ix, op, slots, COPY_LIVING_HEAD, &view);
	if (look == LOOK_UNUSUAL)
		return INDEX_PENDING;
	if (look != LOOK_FOUND || !op->left_ms)
		return FARKV_ENOTFOUND;
	borrowed_set(ix, op, &view, out);
	return 0;
}

bool index_look_holds(const struct index *ix, const struct index_look *look, bool one_clock)
{
	const uint8_t *slot;

	if (look->slot % SLOT_BYTES || look->slot > ix->sb.region_bytes - SLOT_BYTES)
		return false;
	slot = ix->lane->base + look->slot;
	if (still_holds((const uint64_t *)(const void *)slot, look->word))
		return true;
	return one_clock && index_now(ix) - look->at_ns <= ix->sb.grace_ns / 2;
}

/* ---- writers ------------------------------------------------------------------- */

/*
 * The walk of index/step.c without an image of the window, so an insert whose CAS loses to another
 * key starts again. Each conclusion from a word is proved by the CAS, or by the second look at the
 * slot.
 */
static bool decide_by_loads(struct index *ix, struct index_op *op,
			    const uint64_t *slots, enum next *next_out)
{
	struct block_view view;
	enum look look = search(ix, op, slots, COPY_HEAD, &view);

	if (look == LOOK_UNUSUAL)
		return false;
	op->search.way = WAY_LOADS;
	if (look != LOOK_FOUND) {
		op->search.from = op->slot_at;
		*next_out = swap_absent(ix, op);
		return true;
	}
	op->written_by_other = view.version >> 32 != ix->versions.prefix;
	op->search.version = view.version;
	*next_out = swap_decide(ix, op);
	return true;
}

bool index_write_decide(struct index *ix, struct index_op *op, enum next *next_out)
{
	const uint64_t *slots = direct_window(ix, op);

	return slots && decide_by_loads(ix, op, slots, next_out);
}

/* Write the operation's block by stores. */
static enum next write_now(struct index *ix, struct index_op *op)
{
	uint64_t bytes = op_room(op);
	uint8_t *block = ix->lane->base + op->block.off, *image = NULL;
	enum next next = op_block_image(ix, op, &image);

	if (next != NEXT_POST)
		return next;
	if (image != block)
		atom_copy_block(block, image, bytes);
	op->own = OWN_WRITTEN;
	return NEXT_POST;
}

/* Swap by an instruction. The CAS is ordered after the block's bytes (atom_cas_u64()). */
static enum next swap_now(struct index *ix, struct index_op *op)
{
	uint64_t *slot = (uint64_t *)(void *)(ix->lane->base + op_slot_off(op));
	uint64_t found;

	if (op->own == OWN_BLANK) {
		enum next next = write_now(ix, op);

		if (next != NEXT_POST)
			return next;
		/* The lane may have broken while the block was written. */
		if (xport_broken(ix->lane))
			return op_done(ix, op, FARKV_EDISCONNECTED);
	}
	found = atom_cas_u64(slot, op->swap.expect, op->swap.desired);
	return swap_result(ix, op, found);
}

/* Swap by a chain. NEXT_POST if the lane broke during it. */
static enum next swap_posted(struct index *ix, struct index_op *op)
{
	enum next next = swap_chain(ix, op);
	int err;

	if (next != NEXT_POST)
		return next;
	op->chain.next = NULL;
	err = xport_post(ix->lane, &op->chain);
	if (err)
		return op_done(ix, op, err);
	if (op->chain.status)
		return NEXT_POST;
	return swap_done(ix, op);
}

/* Swaps tried in a row without reading the clock. */
#define SWAPS_MAX 4u

/*
 * Swap, and again after each loss; `lost` losses so far. If another READ is needed (has the
 * subtable moved?), the operation starts again.
 */
static enum next swap_by_loads(struct index *ix, struct index_op *op,
			       enum next next, unsigned lost)
{
	for (unsigned n = lost + 1; n <= SWAPS_MAX && next == NEXT_SWAP; n++) {
		if (n > 1)
			index_backoff(ix);
		next = ix->lane->caps & XPORT_AT_ONCE ? swap_now(ix, op) :
							swap_posted(ix, op);
	}
	switch (next) {
	case NEXT_POST: /* the lane broke during the chain */
	case NEXT_WAIT:
	case NEXT_DONE:
	case NEXT_AGAIN:
		return next;
	default:
		return op_again(ix, op);
	}
}

/*
 * The fast path compared incarnation and key of the block that its CAS expected, without a
 * checksum. The CAS has found another word, so the two may have been read at different times:
 * verify the head now. The old block is still in its grace period, unless this took as long as T;
 * then nothing is known of the slot.
 */
static bool expected_is_mine(struct index *ix, struct index_op *op)
{
	struct block_view view;

	return direct_head(ix, op, op->swap.expect, &view) == BLOCK_MINE;
}

bool index_write_search(struct index *ix, struct index_op *op, const uint64_t *slots,
			const uint64_t *lost_to)
{
	enum next next;

	(void)direct_window(ix, op); /* a fast path may not have set it */
	err_clear();
	if (!may_write(ix, op) || !expiry_date_now(ix, op))
		return false;
	if (!op_take_block(ix, op) || index_op_reserve(ix, op, 0))
		return false;
	op->search = (struct op_search){.way = WAY_LOADS};
	if (lost_to && expected_is_mine(ix, op))
		next = swap_result(ix, op, *lost_to);
	else if (!decide_by_loads(ix, op, slots, &next))
		return false;
	next = swap_by_loads(ix, op, next, lost_to != NULL);
	if (op->rivals)
		index_backoff(ix);
	/* index_run() reports the wait to its caller without searching again. */
	if (next == NEXT_WAIT)
		op->phase = OP_WAITS;
	/* The lane broke before anything was posted: index_run() may get another lane. */
	if (next == NEXT_DONE && op->result == FARKV_EDISCONNECTED &&
	    xport_broken(ix->lane)) {
		op->result = INDEX_PENDING;
		op->phase = OP_START;
		return false;
	}
	return next == NEXT_DONE;
}
