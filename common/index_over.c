/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PUT over a value that is there, straight on: what a store is asked for all the time, and
 * what takes two thirds of the instructions if it is not asked at each step what else could
 * be. It waits for memory twice: for the window, which farkv_put() asks for before all else,
 * and for the head of the block that the slot names. While the window is on its way it
 * writes the new block; while the head is, it does all else that can be done. What is left
 * to do behind that is little, and so is what the next call does before it asks for its
 * window: a CPU looks some 300 to 450 instructions ahead, and so the two overlap.
 */
#include "config.h"

#include <string.h>

#include "fetch.h"
#include "index_direct.h"
#include "util.h"
#include "window_scan.h"

/* What became of a PUT that was tried straight on. */
enum over {
	OVER_NOT,  /* nothing has been swapped; it may have a block, written or not */
	OVER_LOST, /* its CAS, which a rival came before */
	OVER_DONE
};

/* A PUT to which nothing has happened yet, and for which nothing speaks against this. */
static inline bool is_usual(const struct index *ix, const struct index_op *op)
{
	return (ix->lane->caps & XPORT_AT_ONCE) && op->kind == INDEX_PUT &&
	       !op->written && ix->counter < UINT32_MAX &&
	       block_room(op->key.len, op->value_len) <= OVER_MAX &&
	       may_write(ix, op);
}

/* A block that is at hand without a look at the clock. */
IN_LINE bool take_block(const struct index *ix, struct index_op *op)
{
	uint64_t room = block_room(op->key.len, op->value_len);

	op->cls = (uint8_t)class_for(room);
	if (!stock_take(ix->alloc, op->cls, ix->recent_ns, &op->block))
		return false;
	op->has_block = true;
	return true;
}

void index_put_prepare(const struct index *ix, struct index_op *op)
{
	if (is_usual(ix, op) && !op->has_block &&
	    !contend_hot(&ix->contend, op->key.hash) && take_block(ix, op))
		fetch_block(ix, op->block.off, class_bytes(op->cls));
}

/* False if the lane broke: the session may have ended, and its blocks be others'. */
IN_LINE bool write_block(struct index *ix, struct index_op *op)
{
	uint64_t room = block_room(op->key.len, op->value_len);
	uint8_t image[OVER_MAX]; /* of which a part is always in the nearest cache */

	op->version = (uint64_t)ix->prefix << 32 | ++ix->counter;
	block_encode(image, op->block, op->version, op->key.data, op->key.len,
		     op->key.hash, op->value, op->value_len, 0);
	atom_copy_block(ix->lane->base + op->block.off, image, room);
	op->written = WRITTEN_AHEAD;
	op->new_word = slot_pack(op->block, hash_fp(op->key.hash), SLOT_BLIND);
	return !xport_broken(ix->lane);
}

/*
 * The next operation begins by writing its block, as long as this one most likely. The CPU
 * walks the page tables for it while it waits for the head in any case.
 */
IN_LINE void fetch_next(const struct index *ix, const struct index_op *op)
{
	uint64_t next = stock_peek(ix->alloc, op->cls, 0);

	if (next)
		fetch_block(ix, next, block_room(op->key.len, op->value_len));
}

IN_LINE bool take_and_write(struct index *ix, struct index_op *op)
{
	return (op->has_block || take_block(ix, op)) && write_block(ix, op);
}

/* The slot that may be the key's, and the block in it. */
struct target {
	struct block_ref ref;
	uint64_t bytes; /* of its class */
	uint64_t version; /* ... that it has */
	bool alone;       /* no batch has fetched the next operation's block */
	unsigned stages;  /* counted before this operation, */
	uint64_t read;    /* ... and the bytes that it was counted for */
	/* What the block's head says if it is this key's. */
	const uint8_t *head;
	uint64_t lengths; /* its second word, but for the value's */
	struct hash_seed seed;
};

/*
 * The key's slot in its home line, if it is the first of those in `match`, of which there
 * is one. False if it cannot be, or the block there has no room for the key. A word that
 * has become another one since the scan shows by its block, or by the swap.
 */
IN_LINE bool
find_slot(const struct index *ix, struct index_op *op, const uint64_t *slots,
	  uint32_t match, struct target *t)
{
	uint64_t w;
	unsigned i;

	i = (unsigned)__builtin_ctz(match);
	w = atom_load_follow(&slots[i]);
	t->ref = slot_block(w);
	if ((w & SLOT_FROZEN) || !region_block_ok(&ix->sb, t->ref.off, t->ref.cls))
		return false;
	t->head = ix->lane->base + t->ref.off;
	fetch_line(t->head);
	t->bytes = class_bytes(t->ref.cls);
	op->slot_at = (uint16_t)i;
	op->expect_word = w;
	return sizeof(struct block_header) + op->key.len <= t->bytes;
}

/* The slot by a scan of the home line. */
IN_LINE bool find_target(const struct index *ix, struct index_op *op,
			 const uint64_t *slots, struct target *t)
{
	struct line_masks m = window_scan(slots, hash_fp(op->key.hash));

	/* What is in front of the slot may be a migration, which others look at. */
	return m.match && !(m.stop & (m.match ^ (m.match - 1))) &&
	       find_slot(ix, op, slots, m.match, t);
}

/* The header's second word in such a block, if it is this key's and its value `len` long. */
static inline uint64_t lengths_of(const struct index_op *op, const struct target *t,
				  uint32_t len)
{
	struct block_header h = {.value_len = len,
				 .key_len = op->key.len,
				 .inc_flags = t->ref.inc};

	return block_head_lengths(&h);
}

/* What of that word a PUT does not ask for. */
#define ANY_LENGTHS ((uint64_t)BLOCK_TOMBSTONE << 48 | UINT32_MAX)

/*
 * Is the slot this key's? Whether its word still stands the swap will tell. What the head
 * has to be is known before it has come, which takes longest of all.
 */
IN_LINE bool
is_mine(const struct index_op *op, struct target *t)
{
	uint64_t lengths, last;
	uint32_t sum;

	ATOM_UNWATCHED_BEGIN();
	t->version = atom_word_at(t->head);
	lengths = atom_word_at(t->head + 8);
	last = atom_word_at(t->head + 16);
	ATOM_UNWATCHED_END();
	atom_compiler_barrier();
	sum = hash_header(t->version, lengths, (uint32_t)last, &t->seed);
	return (lengths & ~ANY_LENGTHS) == t->lengths &&
	       atom_same_block(op->key.data, t->head + sizeof(struct block_header),
			       op->key.len) &&
	       (uint32_t)(last >> 32) == sum;
}

static inline void prepare_head(const struct index_op *op, struct target *t)
{
	t->lengths = lengths_of(op, t, 0);
	t->seed = block_head_seed(t->ref, op->key.hash);
	/* Now, not where they are needed. */
	__asm__("" : "+r"(t->seed.mix[0]), "+r"(t->seed.mix[1]),
		     "+r"(t->seed.mix[2]), "+r"(t->seed.mix[3]));
}

/* What a card would have read to come to the block and these bytes of it. */
static inline void count_search(struct index *ix, struct target *t,
				uint64_t block_bytes)
{
	struct xport_counters *count = &ix->lane->counters;

	t->stages = ix->direct_stages;
	t->read = WINDOW_BYTES + block_bytes;
	count_stages(ix, 1);
	count->reads += 2;
	count->read_bytes += t->read;
}

/* Who searches now counts for itself. */
static inline void uncount_search(struct index *ix, const struct target *t)
{
	struct xport_counters *count = &ix->lane->counters;
	unsigned stages = ix->direct_stages - t->stages;

	ix->direct_stages = t->stages;
	count->round_trips -= stages;
	count->doorbells -= stages;
	count->reads -= 2;
	count->read_bytes -= t->read;
}

/* Is this the word of a write that a PUT may stand before, in its own key's slot? */
static inline bool absorbs(const struct index *ix, const struct index_op *op,
			   uint64_t word)
{
	return (word & SLOT_BLIND) && !(word & SLOT_FROZEN) &&
	       slot_fp(word) == hash_fp(op->key.hash) &&
	       region_block_ok(&ix->sb, slot_off(word), slot_class(word));
}

/*
 * Others put the key just now: watch its slot, and stand before the next of them. If none
 * comes it is this session that puts: OVER_NOT and no hot key any more. OVER_NOT and
 * still a hot key: somebody else has to look.
 */
static enum over stand_before(struct index *ix, struct index_op *op,
			      const uint64_t *slots, struct target *t)
{
	uint64_t word;

	prepare_head(op, t);
	if (!is_mine(op, t))
		return OVER_NOT;
	/* Nothing was taken, but this is what it would have been. */
	op->cls = (uint8_t)class_for(block_room(op->key.len, op->value_len));
	word = contend_watch(&ix->contend, &slots[op->slot_at], op->expect_word,
			     ix->prefix);
	op->foreign = false;
	if (word == op->expect_word || !absorbs(ix, op, word))
		return OVER_NOT;
	count_search(ix, t, op_head_bytes(op, t->bytes));
	op->version = (uint64_t)ix->prefix << 32 | ++ix->counter;
	op->rivals = true;
	ix->retries++;
	contend_note(&ix->contend, op->key.hash, false, true);
	index_op_end(ix, op, 0);
	return OVER_DONE;
}

/*
 * All that can be done before the block's head has come, which takes longest. So the block
 * that the swap will unlink rests already, undated, if that needs no look at the clock:
 * true. Nobody else looks there meanwhile.
 */
IN_LINE bool get_ready(struct index *ix, struct index_op *op, struct target *t)
{
	prepare_head(op, t);
	count_search(ix, t, op_head_bytes(op, t->bytes));
	op_count_write(ix, op);
	ix->lane->counters.cas++;
	ix->lane->counters.doorbells++;
	op->plenty = stock_plenty(ix->alloc, op->cls, ix->recent_ns);
	if (!may_stay_undated(ix, t->ref, t->bytes) ||
	    !stock_retire(ix->alloc, t->ref))
		return false;
	ix->undated++;
	return true;
}

/* It has not been unlinked. */
static void keep_old(struct index *ix, const struct index_op *op, bool rests)
{
	if (!rests)
		return;
	stock_unretire(ix->alloc, slot_class(op->expect_word));
	ix->undated--;
}

/* It was another key's. */
static void not_mine(struct index *ix, struct index_op *op,
		     const struct target *t, bool rests)
{
	keep_old(ix, op, rests);
	op->plenty = false;
	uncount_search(ix, t);
	op_uncount_write(ix, op);
	ix->lane->counters.cas--;
	ix->lane->counters.doorbells--;
}

/*
 * Swap the slot that was found for the block that was written. `known`: it is this key's
 * for sure.
 */
IN_LINE enum over swap_slot(struct index *ix, struct index_op *op, const uint64_t *slots,
			    struct target *t, bool known, uint64_t *found_out)
{
	bool rests = get_ready(ix, op, t);
	uint64_t found;

	if (t->alone)
		fetch_next(ix, op);
	if (!known && !is_mine(op, t)) {
		not_mine(ix, op, t, rests);
		return OVER_NOT;
	}
	op->foreign = !known && t->version >> 32 != ix->prefix;
	found = atom_cas_u64((uint64_t *)(uintptr_t)&slots[op->slot_at],
			     op->expect_word, op->new_word);
	count_post(ix, 1);
	if (found != op->expect_word) {
		keep_old(ix, op, rests);
		op->plenty = false;
		*found_out = found;
		return OVER_LOST;
	}
	if (!rests) {
		op_retire(ix, t->ref, op->cls);
		op->plenty = op->plenty && !ix->alloc->n_worn;
	} else {
		op_trade(ix, t->ref, op->cls);
	}
	if (t->ref.cls != op->cls)
		op->plenty = op->plenty && !stock_gained(ix->alloc);
	contend_note(&ix->contend, op->key.hash, op->foreign, false);
	op->has_block = false;
	op->result = 0;
	return OVER_DONE;
}

/*
 * The block is written first, while the window is on its way: so what lies between a
 * block's head, which takes longest, and the next operation's window is short, and the CPU
 * waits for both at once.
 */
IN_LINE enum over put_over(struct index *ix, struct index_op *op,
			   const uint64_t *slots, uint64_t *found_out)
{
	struct target t;

	t.alone = !op->has_block;
	if (!is_usual(ix, op) || !take_and_write(ix, op) ||
	    !find_target(ix, op, slots, &t))
		return OVER_NOT;
	return swap_slot(ix, op, slots, &t, false, found_out);
}

/* The same for who watches, and hopes to write nothing. */
static __attribute__((noinline)) enum over
put_watching(struct index *ix, struct index_op *op, const uint64_t *slots,
	     uint64_t *found_out)
{
	struct target t;

	t.alone = !op->has_block;
	if (!is_usual(ix, op) || !find_target(ix, op, slots, &t))
		return OVER_NOT;
	if (stand_before(ix, op, slots, &t) == OVER_DONE)
		return OVER_DONE;
	if (contend_hot(&ix->contend, op->key.hash) || !take_and_write(ix, op))
		return OVER_NOT;
	return swap_slot(ix, op, slots, &t, true, found_out);
}

bool index_put_over(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	uint64_t found;
	enum over over;

	over = __builtin_expect(contend_hot(&ix->contend, op->key.hash), 0) ?
		       put_watching(ix, op, slots, &found) :
		       put_over(ix, op, slots, &found);
	return over == OVER_DONE ||
	       index_put_search(ix, op, slots, over == OVER_LOST ? &found : NULL);
}

bool index_put(struct index *ix, struct index_op *op, const void *expected)
{
	if (!expected)
		return false;
	ix->direct_stages = 0;
	ix->direct_posts = 0;
	return index_put_over(ix, op, expected);
}
