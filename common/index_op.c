/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of an operation.
 *
 *   START -> READ window -> WINDOW; or as index_warm.c, index_try.c know better
 *   WINDOW: scan; candidates -> READ blocks -> PROBE; EMPTY -> swap
 *   PROBE:  key found -> decide -> swap; else scan on;
 *           slower than T/2 -> READ the window again -> CONFIRM -> PROBE
 *   absent, but for another key's block, and words may tear
 *           -> READ the window again -> SETTLE -> swap, or START anew
 *   swap:   [WRITE block] CAS -> SWAP
 *   SWAP:   done, absorbed, or decide again on the word that was found
 *   any FROZEN word -> READ D, entry, D -> MOVED -> as before or START anew
 *
 * doc/protocol.md argues why each step is right; the invariants' names (I1 ...)
 * are explained there.
 */
#include "config.h"

#include "index_direct.h"

#include <string.h>

#include "err.h"
#include "fetch.h"
#include "hash.h"
#include "util.h"

/* The block that so many operations later will be written is fetched ahead. */
#define PREFETCH_AHEAD 2u
/* How often a thing that should pass is tried before it counts as damage. */
#define OP_TRIES_MAX 100

static bool op_has_value(const struct index_op *op)
{
	return op->kind != INDEX_GET && op->kind != INDEX_DELETE;
}

/*
 * An unpublished block: free at once. On failure it is leaked; the sweep finds it.
 *
 * Where words tear, half of one and half of the next can name it with what was written
 * there. Who READ that must not find, by its CAS, that very word in the slot, published
 * since, with another key's content.
 */
static void op_drop_block(struct index *ix, struct index_op *op)
{
	if (op->has_block && op->written &&
	    !(ix->lane->caps & XPORT_READ8_ATOMIC))
		(void)alloc_put_written(ix->alloc, op->block);
	else if (op->has_block)
		(void)alloc_put(ix->alloc, op->block);
	op->has_block = false;
	op->written = NOT_WRITTEN;
}

void index_op_end(struct index *ix, struct index_op *op, int err)
{
	/* Whatever kept it from finding out: the outcome is still unknown. */
	if (op->resolving && err) {
		op->unresolved = err == FARKV_EDISCONNECTED;
		err = FARKV_EMAYBE;
	}
	op->resolving = false;
	op->result = err;
	op->wait = INDEX_WAIT_NONE;
	op->posting = false;
	op_drop_block(ix, op);
}

enum next op_done(struct index *ix, struct index_op *op, int err)
{
	index_op_end(ix, op, err);
	return NEXT_DONE;
}

enum next op_wait(struct index *ix, struct index_op *op, enum index_wait why)
{
	op_drop_block(ix, op);
	op->wait = (uint8_t)why;
	op->state = OP_START;
	return NEXT_WAIT;
}

enum next op_again(struct index *ix, struct index_op *op)
{
	ix->retries++;
	op->state = OP_START;
	return NEXT_AGAIN;
}

/* Again, for a reason that damage could make permanent. */
enum next op_again_bounded(struct index *ix, struct index_op *op,
			   const char *what)
{
	if (++op->tries > OP_TRIES_MAX) {
		op->damage = what;
		return op_done(ix, op,
			       err_set(FARKV_ECORRUPT,
				       "stored data is damaged: %s", what));
	}
	return op_again(ix, op);
}

uint64_t op_slot_off(const struct index_op *op)
{
	if (op->warm)
		return op->warm_slot;
	return window_off(op) + (uint64_t)op->slot_at * SLOT_BYTES;
}

/*
 * On lanes whose words tear, who draws conclusions from a word that it does not
 * know reads the window twice. A writer needs not: it ends with a CAS, what that shows
 * is whole, and where it ends without one there is op_settle().
 */
static bool op_reads_twice(const struct index *ix, const struct index_op *op)
{
	return (op->kind == INDEX_GET || op->resolving) &&
	       !(ix->lane->caps & XPORT_READ8_ATOMIC);
}

/* ---- START ----------------------------------------------------------------- */

static enum next op_directory(struct index *ix, struct index_op *op,
			      uint64_t deadline_ns)
{
	if (!ix->dirword) {
		int err = index_refill(ix, deadline_ns);

		if (err)
			return op_done(ix, op, err);
	}
	op->dirword = ix->dirword;
	op->dir_index = hash_dir_index(op->key.hash,
				       dirword_depth(op->dirword));
	op->entry = ix->entries[op->dir_index];
	if (!(op->entry & ENTRY_VALID) ||
	    !region_page_ok(&ix->sb, entry_page(op->entry))) {
		ix->dirword = 0;
		return op_again_bounded(ix, op, "a directory entry leads nowhere");
	}
	return NEXT_POST;
}

/*
 * Where the region is mapped, an operation waits for memory: for its window, the
 * block that it is going to fill, and the one that it finds. The first two are asked
 * for at once.
 */
static void prefetch_window(const struct index *ix, const struct index_op *op)
{
	if (ix->lane->caps & XPORT_DIRECT)
		fetch_line(ix->lane->base + window_off(op));
}

/* Who writes one value writes more: their blocks are on their way before they begin. */
static void prefetch_block(const struct index *ix, const struct index_op *op)
{
	uint64_t next, bytes = fetch_ahead(class_bytes(op->block.cls));

	if (!(ix->lane->caps & XPORT_DIRECT_STORE))
		return;
	fetch_block(ix, op->block.off, bytes);
	next = alloc_peek(ix->alloc, op->block.cls, PREFETCH_AHEAD - 1);
	if (next)
		fetch_block(ix, next, bytes);
}

/* Is the way to the slot by loads? What is unusual there comes here again. */
static bool writes_by_loads(const struct index *ix, const struct index_op *op)
{
	return op->kind != INDEX_GET && !op->resolving && op->tries == 0 &&
	       (ix->lane->caps & XPORT_DIRECT_STORE);
}

bool op_take_rested(struct index *ix, struct index_op *op)
{
	/* What had rested enough at the last look at the clock needs no other. */
	if (alloc_take(ix->alloc, op->cls, ix->recent_ns, &op->block))
		return true;
	ix->recent_ns = index_now(ix);
	alloc_date(ix->alloc, ix->recent_ns);
	return alloc_take(ix->alloc, op->cls, ix->recent_ns, &op->block);
}

bool op_take_block(struct index *ix, struct index_op *op)
{
	if (!op_has_value(op) || op->has_block || op->resolving)
		return true;
	op->cls = (uint8_t)class_for(block_room(op->key.len, op->value_len));
	if (!op_take_rested(ix, op))
		return false;
	op->has_block = true;
	op->written = NOT_WRITTEN;
	prefetch_block(ix, op);
	return true;
}

void op_forget(struct index_op *op)
{
	op->accept_frozen = false;
	op->inserting = false;
	op->odd = false;
	op->probe_full = false;
	op->skipped = false;
	op->settled = false;
	op->absorbs = false;
	op->direct = false;
	op->warm = false;
	op->imaged = false;
	op->remembered = false;
	op->confirmed = false;
	op->refusal = 0;
	op->scan_from = 0;
}

static enum next op_start(struct index *ix, struct index_op *op,
			  uint64_t deadline_ns)
{
	enum next next;

	if (xport_broken(ix->lane))
		return op_done(ix, op, FARKV_EDISCONNECTED);
	if (op->kind != INDEX_GET && !ix->alloc)
		return op_done(ix, op, FARKV_EPERM);
	if (op->key.len == 0 || op->key.len > ix->sb.max_key ||
	    op->value_len > ix->sb.max_value)
		return op_done(ix, op, FARKV_ETOOLARGE);
	op_forget(op);
	/* Where it was seen, it is without a directory. */
	if (op->kind == INDEX_GET && warm_get(ix, op, &next))
		return next;
	next = op_directory(ix, op, deadline_ns);
	if (next != NEXT_POST)
		return next;
	prefetch_window(ix, op);
	if (!op_take_block(ix, op))
		return op_wait(ix, op, INDEX_WAIT_BLOCK);
	if (index_op_reserve(ix, op, 0))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM, "no memory for a window"));
	if (writes_by_loads(ix, op) && index_try_write(ix, op, &next))
		return next;
	if (op->kind != INDEX_GET && warm_start(ix, op, &next))
		return next;
	op_chain_begin(op, OP_WINDOW);
	op->t_start = index_begin_ns(ix);
	op_chain_add(op, XPORT_READ, window_off(op), op->window, WINDOW_BYTES);
	if (op_reads_twice(ix, op))
		op_chain_add(op, XPORT_READ, window_off(op),
			  op->window + WINDOW_SLOTS, WINDOW_BYTES);
	return NEXT_POST;
}

/* ---- FROZEN: has the key's subtable been replaced? -------------------------- */

/*
 * The words come first, the entry second: an entry that still leads here after
 * the words were read makes them current at the moment it was read.
 */
enum next op_check_moved(struct index *ix, struct index_op *op)
{
	uint64_t *s = op_scratch(op);
	uint64_t entry_off = dirword_off(op->dirword) + op->dir_index * 8;

	op_chain_begin(op, OP_MOVED);
	op_chain_add(op, XPORT_READ, REGION_D_OFF, &s[0], 8);
	op_chain_add(op, XPORT_READ, entry_off, &s[1], 8);
	if (ix->lane->caps & XPORT_READ8_ATOMIC)
		s[2] = 0;
	else
		op_chain_add(op, XPORT_READ, entry_off, &s[2], 8);
	op_chain_add(op, XPORT_READ, REGION_D_OFF, &s[3], 8);
	return NEXT_POST;
}

static enum next op_moved(struct index *ix, struct index_op *op)
{
	const uint64_t *s = op_scratch(op);
	bool twice = op->chain.n == 4;

	if (s[0] != s[3] || s[0] != op->dirword) {
		if (ix->dirword == op->dirword)
			ix->dirword = 0; /* the directory doubled: refill */
		return op_again_bounded(ix, op, "the directory never rests");
	}
	if (twice && s[1] != s[2])
		return op_again_bounded(ix, op, "a directory entry never rests");
	if (entry_page(s[1]) != entry_page(op->entry) ||
	    entry_gen(s[1]) != entry_gen(op->entry)) {
		if (ix->dirword == op->dirword)
			ix->entries[op->dir_index] = s[1];
		return op_again(ix, op);
	}
	if (op->odd)
		return op_again_bounded(ix, op, "a slot of another subtable");
	/* A look-up must not leave the gate: barriers do not know its words. */
	if (op->kind != INDEX_GET && !op->resolving)
		return op_wait(ix, op, INDEX_WAIT_FROZEN);
	op->accept_frozen = true;
	return op_scan(ix, op);
}

/* ---- PROBE: which key is a slot bound to? ----------------------------------- */

uint64_t op_probe_bytes(const struct index_op *op, uint64_t word)
{
	uint64_t all = class_bytes(slot_class(word));

	if (op->kind == INDEX_GET || op->probe_full)
		return all;
	return head_bytes(op->key.len, all);
}

uint32_t op_part_len(const struct index *ix, const struct index_op *op,
		     uint64_t word)
{
	uint64_t around = BLOCK_HEADER_BYTES + op->key.len + BLOCK_SUM_BYTES;
	uint64_t all = class_bytes(slot_class(word)), part;

	if (op->kind != INDEX_GET || !op->into ||
	    all < around + INDEX_PART_MIN)
		return 0;
	part = UTIL_MIN(op->into_cap, all - around);
	if (part < INDEX_PART_MIN ||
	    !xport_mem_known(ix->lane, op->into, op->into_cap))
		return 0;
	return (uint32_t)part;
}

void op_part_set(const struct index_op *op, struct xport_wr *wr)
{
	if (!op->part_len)
		return;
	wr->part = op->into;
	wr->part_at = BLOCK_HEADER_BYTES + op->key.len;
	wr->part_len = op->part_len;
}

static enum next op_probe(struct index *ix, struct index_op *op)
{
	uint64_t total = 0, at = 0;

	op->part_len = op_part_len(ix, op, op->window[op->cand[0]]);
	for (unsigned i = 0; i < op->n_cand; i++)
		total += op_probe_bytes(op, op->window[op->cand[i]]);
	if (index_op_reserve(ix, op, total - op->part_len))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM,
				       "no memory to read a block of %llu bytes",
				       (unsigned long long)total));
	op->confirmed = false;
	op_chain_begin(op, OP_PROBE);
	for (unsigned i = 0; i < op->n_cand; i++) {
		uint64_t word = op->window[op->cand[i]];
		uint64_t len = op_probe_bytes(op, word);

		op_chain_add(op, XPORT_READ, slot_off(word), op->buf + at, len);
		at += len;
		if (i == 0 && op->part_len) {
			op_part_set(op, &op->chain.wr[0]);
			at -= op->part_len;
		}
	}
	return NEXT_POST;
}

/* A candidate that must be looked at: same fingerprint, for GET also alive. */
static bool scan_wants(const struct index_op *op, uint64_t w)
{
	if (slot_fp(w) != hash_fp(op->key.hash))
		return false;
	return !(op->kind == INDEX_GET && (w & SLOT_DEAD));
}

/*
 * Is the window the same in both images, as far as it says where the key is? A
 * fingerprint stays with its slot; one of 0 is EMPTY, where a walk ends, or a mixture.
 */
static bool window_rests(const struct index_op *op)
{
	const uint64_t *first = op->window, *second = op->window + WINDOW_SLOTS;

	for (unsigned s = 0; s < WINDOW_SLOTS; s++) {
		unsigned fp = slot_fp(first[s]);

		if (fp != 0 && fp != hash_fp(op->key.hash))
			continue;
		if ((first[s] ^ second[s]) & ~SLOT_FROZEN)
			return false;
		if (fp == 0)
			return true;
	}
	return true;
}

/*
 * Half of one word and half of the next may name a block of another key: only a word
 * that is READ again says whose the slot is. So if the key seems absent, and a slot of
 * its fingerprint was skipped as another key's; and before it is refused because of what
 * its own slot seems to hold.
 */
enum next op_settle(struct index_op *op)
{
	op_chain_begin(op, OP_SETTLE);
	op_chain_add(op, XPORT_READ, window_off(op), op->window + WINDOW_SLOTS,
		  WINDOW_BYTES);
	return NEXT_POST;
}

static enum next op_settled(struct index *ix, struct index_op *op)
{
	if (!window_rests(op))
		return op_again(ix, op);
	op->settled = true;
	return op->refusal ? op_done(ix, op, op->refusal) : op_scan(ix, op);
}

/*
 * Walk the window image from scan_from: up to OP_PROBE_MAX candidates are
 * fetched together, the first EMPTY ends the walk. Nothing is concluded from a
 * FROZEN word before the entry was read again.
 */
enum next op_scan(struct index *ix, struct index_op *op)
{
	uint64_t empty = slot_empty(entry_gen(op->entry));
	unsigned s = op->scan_from;

	op->n_cand = 0;
	for (; s < WINDOW_SLOTS && op->n_cand < OP_PROBE_MAX; s++) {
		uint64_t w = op->window[s];

		if ((w & SLOT_FROZEN) && !op->accept_frozen)
			return op_check_moved(ix, op);
		w &= ~SLOT_FROZEN;
		if (w == empty)
			break;
		if (slot_is_null(w)) { /* another generation's */
			op->odd = true;
			return op_check_moved(ix, op);
		}
		/*
		 * No key has fingerprint 0, which is one byte of the word: half
		 * EMPTY and half a key's. It must not pass for another key's, or
		 * an insert would claim a slot behind its own.
		 */
		if (slot_fp(w) == 0)
			return op_again_bounded(ix, op, "a slot never rests");
		if (!scan_wants(op, w))
			continue;
		if (!region_block_ok(&ix->sb, slot_off(w), slot_class(w)))
			return op_again_bounded(ix, op,
						"a slot leads out of the region");
		op->cand[op->n_cand++] = (uint8_t)s;
		/* Own block images would be overwritten one by one. */
		if (op_probe_bytes(op, w) > (1u << 20)) {
			s++;
			break;
		}
	}
	op->scan_from = (uint16_t)s;
	if (op->n_cand)
		return op_probe(ix, op);
	if (op->skipped && !op->settled &&
	    !(ix->lane->caps & XPORT_READ8_ATOMIC))
		return op_settle(op);
	return op->resolving ? op_resolve_absent(ix, op) : op_absent(ix, op);
}

/* ---- completions of READs ------------------------------------------------------ */

static enum next op_window(struct index *ix, struct index_op *op)
{
	warm_image(ix, op);
	if (!op_reads_twice(ix, op))
		return op_scan(ix, op);
	if (!window_rests(op))
		return op_again(ix, op);
	op->settled = true;
	return op_scan(ix, op);
}

/*
 * Too slow: were the candidates' blocks still published after they had been
 * copied? A word that stands unchanged says so at least as well as the clock; a
 * FROZEN one does not, its block may be unlinked in another subtable.
 */
static enum next op_confirm(struct index *ix, struct index_op *op)
{
	ix->retries++;
	op_chain_begin(op, OP_CONFIRM);
	op_chain_add(op, XPORT_READ, window_off(op), op->window + WINDOW_SLOTS,
		  WINDOW_BYTES);
	return NEXT_POST;
}

static enum next op_probed(struct index *ix, struct index_op *op);

static enum next op_confirmed(struct index *ix, struct index_op *op)
{
	for (unsigned i = 0; i < op->n_cand; i++) {
		uint64_t word = op->window[op->cand[i]];

		if ((word & SLOT_FROZEN) ||
		    op->window[WINDOW_SLOTS + op->cand[i]] != word)
			return op_again(ix, op);
	}
	op->confirmed = true;
	return op_probed(ix, op);
}

static enum block_check probe_verify(const struct index *ix,
				     const struct index_op *op,
				     const uint8_t *image, uint64_t word,
				     struct block_view *view_out)
{
	struct block_ref ref = slot_block(word);

	if (op->kind == INDEX_GET)
		return block_verify(image, ref, op->key.data, op->key.len,
				    view_out);
	return block_verify_head(image, op_probe_bytes(op, word), ref,
				 ix->sb.hash_seed, op->key.data, op->key.len,
				 op->key.hash, view_out);
}

enum block_check op_part_verify(const struct index_op *op, uint64_t word,
				struct block_view *view_out)
{
	struct block_parts parts = {.image = op->buf,
				    .part = op->into,
				    .part_at = BLOCK_HEADER_BYTES + op->key.len,
				    .part_len = op->part_len};

	return block_verify_parts(&parts, slot_block(word), op->key.data,
				  op->key.len, view_out);
}

/* A block that is not what its word says: the word changed, or it is damaged. */
static enum next op_bad_block(struct index *ix, struct index_op *op,
			      uint64_t word)
{
	if (word != op->bad_word) {
		op->bad_word = word;
		op->tries = 0;
	}
	return op_again_bounded(ix, op, "a block fails its checksum");
}

static enum next op_found(struct index *ix, struct index_op *op, uint64_t word,
			  const struct block_view *view)
{
	if (op->resolving)
		return op_resolve(ix, op, word);
	if (op->absorbs) {
		warm_store(ix, op, word, view->version);
		return op_done(ix, op, 0);
	}
	if (op->kind != INDEX_GET)
		return op_decide(ix, op, word, view->version);
	op->view = *view;
	op->version = view->version;
	warm_store(ix, op, word, view->version);
	return op_done(ix, op, 0);
}

static enum next op_probed(struct index *ix, struct index_op *op)
{
	const uint8_t *image = op->buf;

	if (!op->confirmed && !op_span_ok(ix, op))
		return op_confirm(ix, op);
	for (unsigned i = 0; i < op->n_cand; i++) {
		uint64_t word = op->window[op->cand[i]] & ~SLOT_FROZEN;
		struct block_view view;
		enum block_check check;

		if (i == 0 && op->part_len) {
			check = op_part_verify(op, word, &view);
			image -= op->part_len;
		} else {
			check = probe_verify(ix, op, image, word, &view);
		}
		image += op_probe_bytes(op, word);
		if (check == BLOCK_BAD)
			return op_bad_block(ix, op, word);
		if (check == BLOCK_PARTIAL) {
			op->probe_full = true;
			op->scan_from = op->cand[i];
			return op_scan(ix, op);
		}
		if (check == BLOCK_MINE) {
			op->slot_at = op->cand[i];
			return op_found(ix, op, word, &view);
		}
		op->skipped = true;
		op->absorbs = false;
	}
	return op_scan(ix, op);
}

/* ---- the driver -------------------------------------------------------------- */

static enum next op_continue(struct index *ix, struct index_op *op,
			     uint64_t deadline_ns)
{
	if (op->state == OP_START)
		return op_start(ix, op, deadline_ns);
	if (op->chain.status)
		return op_broken(ix, op);
	/* I4 counts from when the slot could be READ. */
	if (op->state == OP_WINDOW || op->state == OP_LOOK)
		op->t_start = UTIL_MAX(op->t_start, op->chain.begun_ns);
	switch (op->state) {
	case OP_WINDOW:
		return op_window(ix, op);
	case OP_PROBE:
		return op_probed(ix, op);
	case OP_CONFIRM:
		return op_confirmed(ix, op);
	case OP_SETTLE:
		return op_settled(ix, op);
	case OP_SWAP:
		return op_swap_done(ix, op);
	case OP_LOOK:
		return warm_looked(ix, op);
	default:
		return op_moved(ix, op);
	}
}

void index_op_step(struct index *ix, struct index_op *op, uint64_t deadline_ns)
{
	enum next next;

	do {
		next = op_continue(ix, op, deadline_ns);
		if (next == NEXT_AGAIN && index_now(ix) > deadline_ns)
			next = op_done(ix, op, FARKV_ETIMEDOUT);
	} while (next == NEXT_AGAIN);
	op->posting = next == NEXT_POST;
}
