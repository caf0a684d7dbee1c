/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PUT over a value that is there, and a GET of one, straight on: what a store is asked
 * for all the time, and what takes two thirds of the instructions if it is not asked at
 * each step what else could be. Who waits for memory here does it twice: for the window,
 * which farkv_put() and farkv_get() ask for before all else, and for the block that the
 * slot names. While its head is on its way a PUT writes the new block, and does all that
 * can be done. What is left to do behind it is little, and so is what the next call does
 * before it asks for its window: a CPU looks some 300 to 450 instructions ahead, and so the
 * two overlap.
 */
#include "config.h"

#include <string.h>

#include "index_direct.h"
#include "util.h"
#include "window_scan.h"

/* A larger block takes longer to write than another's head to come. */
#define OVER_MAX 640u

/* A PUT to which nothing has happened yet, and for which nothing speaks against this. */
static inline bool is_usual(const struct index *ix, const struct index_op *op)
{
	return (ix->lane->caps & XPORT_AT_ONCE) && op->kind == INDEX_PUT &&
	       !op->written && ix->counter < UINT32_MAX &&
	       block_room(op->key.len, op->value_len) <= OVER_MAX &&
	       may_write(ix, op);
}

/* A block that is at hand without a look at the clock. */
static inline bool take_block(const struct index *ix, struct index_op *op)
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

/* ... and the one of the operation after the next on its way. */
static inline bool take_block_now(const struct index *ix, struct index_op *op)
{
	uint64_t next;

	if (!take_block(ix, op))
		return false;
	next = stock_peek(ix->alloc, op->cls, 1);
	if (next)
		fetch_block(ix, next, class_bytes(op->cls));
	return true;
}

/* False if the lane broke: the session may have ended, and its blocks be others'. */
static inline bool write_block(struct index *ix, struct index_op *op)
{
	uint64_t room = block_room(op->key.len, op->value_len);
	uint8_t image[OVER_MAX]; /* of which a part is always in the nearest cache */

	op->version = (uint64_t)ix->prefix << 32 | ++ix->counter;
	block_encode(image, op->block, op->version, op->key.data, op->key.len,
		     op->key.hash, op->value, op->value_len, 0);
	atom_copy_block(ix->lane->base + op->block.off, image, room);
	op->written = true;
	ix->lane->counters.writes++;
	ix->lane->counters.write_bytes += room;
	return !xport_broken(ix->lane);
}

/* The slot that may be the key's, and the block in it. */
struct target {
	struct block_ref ref;
	uint64_t bytes; /* of its class */
	uint64_t version; /* ... that it has */
	unsigned stages;  /* counted before this operation */
	/* What the block's head says if it is this key's. */
	const uint8_t *head;
	uint32_t lengths; /* key_len and inc_flags */
	struct hash_seed seed;
};

/*
 * The key's slot in its home line, where all before it are others' at first sight. False
 * also if the block there has no room for the key.
 */
static inline __attribute__((always_inline)) bool
find_slot(const struct index *ix, struct index_op *op, const uint64_t *slots,
	  struct target *t)
{
	struct line_masks m = window_scan(slots, hash_fp(op->key.hash));
	uint64_t w;
	unsigned i;

	if (!m.match || (m.stop & (m.match ^ (m.match - 1))))
		return false;
	i = (unsigned)__builtin_ctz(m.match);
	w = atom_load_follow(&slots[i]);
	t->ref = slot_block(w);
	if ((w & SLOT_FROZEN) || slot_fp(w) != hash_fp(op->key.hash) ||
	    !region_block_ok(&ix->sb, t->ref.off, t->ref.cls))
		return false;
	t->head = ix->lane->base + t->ref.off;
	__builtin_prefetch(t->head);
	t->bytes = class_bytes(t->ref.cls);
	op->slot_at = (uint16_t)i;
	op->expect_word = w;
	return sizeof(struct block_header) + op->key.len <= t->bytes;
}

/*
 * Is the slot this key's? Whether its word still stands the swap will tell. What the head
 * has to be is known before it has come, which takes longest of all.
 */
static inline __attribute__((always_inline)) bool
is_mine(const struct index_op *op, struct target *t)
{
	struct block_header h;
	uint32_t lengths;

	atom_copy_block(&h, t->head, sizeof(h));
	atom_compiler_barrier();
	t->version = h.version;
	lengths = (uint32_t)(h.inc_flags & ~BLOCK_TOMBSTONE) << 16 | h.key_len;
	return lengths == t->lengths &&
	       atom_same_block(op->key.data, t->head + sizeof(h), op->key.len) &&
	       h.head_sum == block_head_sum(&h, &t->seed);
}

static inline void prepare_head(const struct index_op *op, struct target *t)
{
	t->lengths = (uint32_t)t->ref.inc << 16 | op->key.len;
	t->seed = block_head_seed(t->ref, op->key.hash);
}

static inline uint64_t searched_bytes(const struct index_op *op,
				      const struct target *t)
{
	return WINDOW_BYTES + op_head_bytes(op, t->bytes);
}

static inline void count_search(struct index *ix, const struct index_op *op,
				const struct target *t)
{
	struct xport_counters *count = &ix->lane->counters;

	count_stages(ix, 1);
	count->reads += 2;
	count->read_bytes += searched_bytes(op, t);
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
	count_search(ix, op, t);
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
static inline bool get_ready(struct index *ix, struct index_op *op,
			     struct target *t)
{
	prepare_head(op, t);
	t->stages = ix->direct_stages;
	count_search(ix, op, t);
	ix->lane->counters.cas++;
	ix->lane->counters.doorbells++;
	op->new_word = slot_pack(op->block, hash_fp(op->key.hash), SLOT_BLIND);
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

/* It was another key's: who searches now counts for itself. */
static void not_mine(struct index *ix, struct index_op *op,
		     const struct target *t, bool rests)
{
	struct xport_counters *count = &ix->lane->counters;
	unsigned stages = ix->direct_stages - t->stages;

	keep_old(ix, op, rests);
	op->plenty = false;
	ix->direct_stages = t->stages;
	count->round_trips -= stages;
	count->doorbells -= stages;
	count->reads -= 2;
	count->read_bytes -= searched_bytes(op, t);
	count->cas--;
	count->doorbells--;
}

/*
 * Swap the slot that was found for the block that was written. `known`: it is this key's
 * for sure.
 */
static inline enum over swap_slot(struct index *ix, struct index_op *op,
				  const uint64_t *slots, struct target *t,
				  bool known, uint64_t *found_out)
{
	bool rests = get_ready(ix, op, t);
	uint64_t found;

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
		op_retire(ix, t->ref);
		op->plenty = op->plenty && !ix->alloc->n_worn;
	}
	contend_note(&ix->contend, op->key.hash, op->foreign, false);
	op->has_block = false;
	op->result = 0;
	return OVER_DONE;
}

enum over index_put_over(struct index *ix, struct index_op *op,
			 const uint64_t *slots, uint64_t *found_out)
{
	bool watches = contend_hot(&ix->contend, op->key.hash);
	struct target t;

	if (!is_usual(ix, op) || !find_slot(ix, op, slots, &t))
		return OVER_NOT;
	if (watches) {
		if (stand_before(ix, op, slots, &t) == OVER_DONE)
			return OVER_DONE;
		if (contend_hot(&ix->contend, op->key.hash))
			return OVER_NOT;
	}
	if (!(op->has_block || take_block_now(ix, op)) || !write_block(ix, op))
		return OVER_NOT;
	return swap_slot(ix, op, slots, &t, watches, found_out);
}

/* ---- GET ------------------------------------------------------------------------- */

/* What the block's head says; false if it is not what its word names, or this key's. */
static inline bool head_fits(const struct index_op *op, const struct target *t,
			     const struct block_header *h)
{
	return h->inc_flags == t->ref.inc && h->key_len == op->key.len &&
	       block_room(h->key_len, h->value_len) <= t->bytes &&
	       !(op->into && h->value_len >= INDEX_PART_MIN);
}

/*
 * Copy the block, and verify the copy. What is taken from the head was looked at once and
 * is not loaded again: if somebody breaks the rules meanwhile, lengths stay what they are.
 */
static inline bool copy_block(const struct index_op *op, const struct target *t,
			      const struct block_header *h)
{
	atom_copy_small(op->buf, t->head, block_room(h->key_len, h->value_len));
	return block_sum_holds(op->buf, t->ref, h->key_len, h->value_len) &&
	       atom_same_block(op->key.data, op->buf + sizeof(*h), h->key_len);
}

bool index_get_over(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	struct xport_counters *count = &ix->lane->counters;
	struct block_header h;
	struct target t;

	if (!find_slot(ix, op, slots, &t) || (op->expect_word & SLOT_DEAD) ||
	    t.bytes > OVER_MAX)
		return false;
	for (uint64_t at = LINE_BYTES; at < t.bytes; at += LINE_BYTES)
		__builtin_prefetch(t.head + at);
	atom_copy_block(&h, t.head, sizeof(h));
	atom_compiler_barrier();
	if (!head_fits(op, &t, &h) || index_op_reserve(ix, op, t.bytes) ||
	    !copy_block(op, &t, &h) ||
	    !still_holds(&slots[op->slot_at], op->expect_word))
		return false;
	count_stages(ix, 1);
	count->reads += 2;
	count->read_bytes += WINDOW_BYTES + t.bytes;
	op->view = (struct block_view){
		.key = op->buf + sizeof(h),
		.value = op->buf + sizeof(h) + h.key_len,
		.version = h.version,
		.value_len = h.value_len,
		.key_len = h.key_len};
	op->version = h.version;
	op->result = 0;
	return true;
}
