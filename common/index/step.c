/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From OP_START to the decision, by READs; then index/publish.c continues. doc/protocol.md proves
 * each step and explains the invariants' names (I1 ...).
 */
#include "config.h"

#include "step.h"

#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/region/hash.h"
#include "dir.h"
#include "direct.h"
#include "expiry.h"
#include "heat.h"
#include "publish.h"
#include "search.h"
#include "cached.h"

/*
 * Where words tear, an operation that concludes something from a word it does not know READs the
 * window twice. A writer need not: its CAS shows a whole word, and without a CAS it settles before
 * it ends.
 */
static bool reads_twice(const struct index *ix, const struct index_op *op)
{
	return (kind_reads(op->kind) || op->doubt == DOUBT_RESOLVING) &&
	       !(ix->lane->caps & XPORT_READ8_ATOMIC);
}

/* ---- START ----------------------------------------------------------------- */

/* The error if the request cannot be carried out, else 0. */
static int check_request(const struct index *ix, const struct index_op *op)
{
	if (xport_broken(ix->lane))
		return FARKV_EDISCONNECTED;
	if (!kind_reads(op->kind) && !ix->alloc)
		return FARKV_EPERM;
	if (op->key.len == 0 || op->key.len > ix->sb.max_key ||
	    op->value_len > ix->sb.max_value)
		return FARKV_ETOOLARGE;
	return 0;
}

/* True for a write by loads. If it meets something unusual, it restarts with op->tries set. */
static bool writes_by_loads(const struct index *ix, const struct index_op *op)
{
	return !kind_reads(op->kind) && op->doubt != DOUBT_RESOLVING &&
	       op->tries == 0 && (ix->lane->caps & XPORT_DIRECT_STORE);
}

static enum next read_window(struct index *ix, struct index_op *op)
{
	op_chain_begin(op, OP_WINDOW);
	op->search.clock_ms = ix->clock_ms;
	op->search.begun_ns = index_begin_ns(ix);
	op_chain_add(op, XPORT_READ, window_off(op), op->window, WINDOW_BYTES);
	if (reads_twice(ix, op))
		op_chain_add(op, XPORT_READ, window_off(op),
			     op->window + WINDOW_SLOTS, WINDOW_BYTES);
	return NEXT_POST;
}

static enum next start(struct index *ix, struct index_op *op, uint64_t deadline_ns)
{
	int err = check_request(ix, op);
	enum next next;

	if (err)
		return op_done(ix, op, err);
	op->search = (struct op_search){.way = WAY_WINDOW};
	op->left_ms = BLOCK_NEVER;
	if (!expiry_date(ix, op, &next))
		return next;
	/* A cached location leads to the key without a directory. */
	if (kind_reads(op->kind) && cached_read(ix, op, &next))
		return next;
	if (!dir_find(ix, op, deadline_ns, &next))
		return next;
	/* A mapped region's window is needed next. */
	if (ix->lane->caps & XPORT_DIRECT)
		fetch_line(ix->lane->base + window_off(op));
	if (!op_take_block(ix, op))
		return op_wait(ix, op, INDEX_WAIT_BLOCK);
	if (index_op_reserve(ix, op, 0))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM, "no memory for a window"));
	if (writes_by_loads(ix, op) && index_write_decide(ix, op, &next))
		return next;
	if (!kind_reads(op->kind) && cached_start(ix, op, &next))
		return next;
	return read_window(ix, op);
}

/* ---- the walk over the window's image -------------------------------------------- */

/* READ the candidates' blocks, which words in op->window name. */
static enum next probe(struct index *ix, struct index_op *op)
{
	uint64_t total = 0, at = 0;

	op->probe.seg_len = op_segment_len(ix, op, op->window[op->probe.slot[0]]);
	for (unsigned i = 0; i < op->probe.n; i++)
		total += op_probe_bytes(op, op->window[op->probe.slot[i]]);
	if (index_op_reserve(ix, op, total - op->probe.seg_len))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM,
				       "no memory to read a block of %llu bytes",
				       (unsigned long long)total));
	op_chain_begin(op, OP_PROBE);
	/* One candidate is almost always the key's slot. */
	if (op->probe.n == 1)
		heat_write(ix, op, window_off(op) + op->probe.slot[0] * SLOT_BYTES);
	for (unsigned i = 0; i < op->probe.n; i++) {
		uint64_t word = op->window[op->probe.slot[i]];
		uint64_t len = op_probe_bytes(op, word);
		struct xport_wr *wr;

		wr = op_chain_add(op, XPORT_READ, slot_off(word), op->buf + at, len);
		at += len;
		if (i == 0 && op->probe.seg_len) {
			op_segment_set(op, wr, op->probe.seg_len);
			at -= op->probe.seg_len;
		}
	}
	return NEXT_POST;
}

/* A candidate has the key's fingerprint and, for a read, is alive. */
static bool is_candidate(const struct index_op *op, uint64_t w)
{
	if (slot_fp(w) != hash_fp(op->key.hash))
		return false;
	return !(kind_reads(op->kind) && (w & SLOT_DEAD));
}

/* How the walk continues after a word. */
enum stop { STOP_NOT, STOP_END, STOP_CANDIDATE, STOP_NEXT };

/*
 * Evaluate a slot's word. STOP_NEXT: the operation continues as *next_out says. A FROZEN word
 * proves nothing before the directory entry was READ again.
 */
static enum stop walk_word(struct index *ix, struct index_op *op, uint64_t w,
		      enum next *next_out)
{
	if ((w & SLOT_FROZEN) && !op->search.accept_frozen) {
		*next_out = next_moved(op, false);
		return STOP_NEXT;
	}
	w &= ~SLOT_FROZEN;
	if (w == slot_empty(entry_gen(op->entry)))
		return STOP_END;
	if (slot_is_null(w)) { /* another generation's */
		*next_out = next_moved(op, true);
		return STOP_NEXT;
	}
	/*
	 * No key has fingerprint 0: the word is torn, half of it EMPTY. Taking it for another key's
	 * would let an insert claim a slot after its own.
	 */
	if (slot_fp(w) == 0) {
		*next_out = op_again_bounded(ix, op, "a slot keeps changing");
		return STOP_NEXT;
	}
	if (!is_candidate(op, w))
		return STOP_NOT;
	if (region_block_ok(&ix->sb, slot_off(w), slot_class(w)))
		return STOP_CANDIDATE;
	*next_out = op_again_bounded(ix, op, "a slot leads out of the region");
	return STOP_NEXT;
}

/*
 * NEXT_WALK: walk from op->search.from. Up to OP_PROBE_MAX candidates are READ together; the first
 * EMPTY word ends the walk.
 */
static enum next walk(struct index *ix, struct index_op *op)
{
	unsigned s = op->search.from, n = 0;
	uint8_t cand[OP_PROBE_MAX];
	enum next next;

	for (; s < WINDOW_SLOTS && n < OP_PROBE_MAX; s++) {
		enum stop stop = walk_word(ix, op, op->window[s], &next);

		if (stop == STOP_NEXT)
			return next;
		if (stop == STOP_END)
			break;
		if (stop == STOP_NOT)
			continue;
		cand[n++] = (uint8_t)s;
		/* A large block is READ alone, because the buffer must hold all of a probe. */
		if (op_probe_bytes(op, op->window[s]) > (1u << 20)) {
			s++;
			break;
		}
	}
	op->search.from = (uint16_t)s;
	if (n) {
		memcpy(op->probe.slot, cand, n);
		op->probe.n = (uint8_t)n;
		return probe(ix, op);
	}
	if (op->search.skipped && !op->search.settled &&
	    !(ix->lane->caps & XPORT_READ8_ATOMIC))
		return next_settle(op, 0);
	return NEXT_ABSENT;
}

/* ---- completions of READs of the window ------------------------------------------ */

/* READ the window into the second image. */
static enum next read_again(struct index_op *op, enum op_phase phase)
{
	op_chain_begin(op, phase);
	op_chain_add(op, XPORT_READ, window_off(op), op->window + WINDOW_SLOTS,
		     WINDOW_BYTES);
	return NEXT_POST;
}

/*
 * True if both images agree on where the key is. A slot keeps its fingerprint; fingerprint 0 is
 * EMPTY, where the walk ends, or a torn word.
 */
static bool images_agree(const struct index_op *op)
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

static enum next window_done(struct index *ix, struct index_op *op)
{
	cached_image(ix, op);
	if (!reads_twice(ix, op))
		return NEXT_WALK;
	if (!images_agree(op))
		return op_again(ix, op);
	op->search.settled = true;
	return NEXT_WALK;
}

/*
 * A torn word may name a block of another key; only a second READ of the word shows whose slot it
 * is. That READ is made if the key seems absent and a slot with its fingerprint was skipped as
 * another key's, and before an operation is refused because of its slot's content.
 */
static enum next settle_done(struct index *ix, struct index_op *op)
{
	if (!images_agree(op))
		return op_again(ix, op);
	op->search.settled = true;
	return op->settle.refusal ? op_done(ix, op, op->settle.refusal) : NEXT_WALK;
}

/* ---- PROBE: which key is a slot bound to? ----------------------------------- */

/* The block is not what its word says: the word changed, or the block is damaged. */
static enum next bad_block(struct index *ix, struct index_op *op, uint64_t word)
{
	if (word != op->bad_word) {
		op->bad_word = word;
		op->tries = 0;
	}
	return op_again_bounded(ix, op, "a block fails its checksum");
}

/* The slot is the key's, and op->left_ms shows whether its value is alive. */
static enum next conclude(struct index *ix, struct index_op *op, uint64_t word,
			  const struct block_view *view)
{
	if (!kind_reads(op->kind) && !op->search.absorbs)
		return next_decide(op, word, view->version);
	if (op->kind == INDEX_GET) {
		op->view = *view;
		op->version = view->version;
	}
	cached_store(ix, op, word, view->version);
	return op_done(ix, op, op->left_ms ? 0 : FARKV_ENOTFOUND);
}

static enum next found(struct index *ix, struct index_op *op, uint64_t word,
		       const struct block_view *view)
{
	if (op->doubt == DOUBT_RESOLVING)
		return swap_resolve(ix, op, word);
	op->search.dated = view->expiry != 0;
	/* A PUT does not depend on what it replaces, and a DEAD word has no expiry. */
	if (op->kind != INDEX_PUT && !(word & SLOT_DEAD) &&
	    !expiry_known(ix, op, word, view))
		return NEXT_POST;
	return conclude(ix, op, word, view);
}

static enum next clock_done(struct index *ix, struct index_op *op)
{
	struct block_view view = op->view;

	if (!expiry_looked(ix, op))
		return op_again(ix, op);
	return conclude(ix, op, op->aged.word, &view);
}

/* Verify the blocks and compare their keys. */
static enum next compare(struct index *ix, struct index_op *op)
{
	const uint8_t *image = op->buf;

	for (unsigned i = 0; i < op->probe.n; i++) {
		uint64_t word = op->window[op->probe.slot[i]] & ~SLOT_FROZEN;
		uint32_t seg_len = i == 0 ? op->probe.seg_len : 0;
		struct block_view view;
		enum block_check check;

		if (seg_len)
			check = op_segment_verify(op, word, seg_len, &view);
		else
			check = op_probe_verify(ix, op, image, word, &view);
		image += op_probe_bytes(op, word) - seg_len;
		if (check == BLOCK_BAD)
			return bad_block(ix, op, word);
		if (check == BLOCK_PARTIAL) {
			op->search.probe_full = true;
			op->search.from = op->probe.slot[i];
			return NEXT_WALK;
		}
		if (check == BLOCK_MINE) {
			op->slot_at = op->probe.slot[i];
			return found(ix, op, word, &view);
		}
		op->search.skipped = true;
		op->search.absorbs = false;
	}
	return NEXT_WALK;
}

static enum next probe_done(struct index *ix, struct index_op *op)
{
	if (op_span_ok(ix, op))
		return compare(ix, op);
	/*
	 * Too slow: READ the words again, to see whether the blocks were still published when the
	 * copies were complete.
	 */
	ix->retries++;
	return read_again(op, OP_CONFIRM);
}

/*
 * A word that is unchanged proves as much as the clock. A FROZEN one does not, because its block
 * may be unlinked in another subtable.
 */
static enum next confirm_done(struct index *ix, struct index_op *op)
{
	for (unsigned i = 0; i < op->probe.n; i++) {
		unsigned s = op->probe.slot[i];
		uint64_t word = op->window[s];

		if ((word & SLOT_FROZEN) || op->window[WINDOW_SLOTS + s] != word)
			return op_again(ix, op);
	}
	return compare(ix, op);
}

/* ---- from phase to phase ------------------------------------------------------ */

/* The chain of the phase is done. */
static enum next chain_done(struct index *ix, struct index_op *op)
{
	if (op->chain.status)
		return swap_broken(ix, op);
	/* I4 counts from when the lane began the slot's READ. */
	if (op->phase == OP_WINDOW || op->phase == OP_LOOK)
		op->search.begun_ns = UTIL_MAX(op->search.begun_ns, op->chain.begun_ns);
	switch (op->phase) {
	case OP_WINDOW:
		return window_done(ix, op);
	case OP_PROBE:
		return probe_done(ix, op);
	case OP_CONFIRM:
		return confirm_done(ix, op);
	case OP_SETTLE:
		return settle_done(ix, op);
	case OP_MOVED:
		return dir_looked(ix, op);
	case OP_CLOCK:
		return clock_done(ix, op);
	case OP_DATE:
		return expiry_dated(ix, op);
	case OP_SWAP:
		return swap_done(ix, op);
	default:
		return cached_looked(ix, op);
	}
}

static enum next again(struct index *ix, struct index_op *op, uint64_t deadline_ns)
{
	if (index_now(ix) > deadline_ns)
		return op_done(ix, op, FARKV_ETIMEDOUT);
	return start(ix, op, deadline_ns);
}

static enum next absent(struct index *ix, struct index_op *op)
{
	return op->doubt == DOUBT_RESOLVING ? swap_resolve_absent(ix, op) :
					      swap_absent(ix, op);
}

void index_op_step(struct index *ix, struct index_op *op, uint64_t deadline_ns)
{
	enum next next = op->phase == OP_START ? start(ix, op, deadline_ns) :
						 chain_done(ix, op);

	for (;;) {
		switch (next) {
		case NEXT_POST:
		case NEXT_WAIT:
		case NEXT_DONE:
			return;
		case NEXT_AGAIN:
			next = again(ix, op, deadline_ns);
			break;
		case NEXT_WALK:
			next = walk(ix, op);
			break;
		case NEXT_SETTLE:
			next = read_again(op, OP_SETTLE);
			break;
		case NEXT_MOVED:
			next = dir_look(ix, op);
			break;
		case NEXT_DECIDE:
			next = swap_decide(ix, op);
			break;
		case NEXT_ABSENT:
			next = absent(ix, op);
			break;
		case NEXT_SWAP:
			next = swap_chain(ix, op);
			break;
		}
	}
}
