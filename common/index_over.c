/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PUT over a value that is there, and a GET of one, straight on: what a store is asked
 * for all the time, and what takes two thirds of the instructions if it is not asked at
 * each step what else could be. Who waits for memory here does it twice: for the window,
 * which farkv_put() and farkv_get() ask for before all else, and for the block that the
 * slot names. While the window is on its way a PUT writes the new block; while the head is,
 * it does all else that can be done. What is left to do behind it is little, and so is what
 * the next call does before it asks for its window: a CPU looks some 300 to 450 instructions
 * ahead, and so the two overlap.
 */
#include "config.h"

#include <string.h>

#include "fetch.h"
#include "index_direct.h"
#include "util.h"
#include "window_scan.h"

/* A larger block takes longer to write than another's head to come. */
#define OVER_MAX 640u
static_assert(OVER_MAX < INDEX_PART_MIN, "a GET straight on brings no part elsewhere");

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

static inline bool take_and_write(struct index *ix, struct index_op *op)
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
static inline __attribute__((always_inline)) bool
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
static inline __attribute__((always_inline)) bool
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

/* The next operation begins by writing its block. */
static inline void fetch_next(const struct index *ix, const struct index_op *op)
{
	uint64_t next = stock_peek(ix->alloc, op->cls, 0);

	if (next)
		fetch_block(ix, next, class_bytes(op->cls));
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
	count_search(ix, t, op_head_bytes(op, t->bytes));
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

/* It was another key's. */
static void not_mine(struct index *ix, struct index_op *op,
		     const struct target *t, bool rests)
{
	keep_old(ix, op, rests);
	op->plenty = false;
	uncount_search(ix, t);
	ix->lane->counters.cas--;
	ix->lane->counters.doorbells--;
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
		op_retire(ix, t->ref);
		op->plenty = op->plenty && !ix->alloc->n_worn;
	}
	contend_note(&ix->contend, op->key.hash, op->foreign, false);
	op->has_block = false;
	op->result = 0;
	return OVER_DONE;
}

/*
 * The block is written first, while the window is on its way: so what lies between a
 * block's head, which takes longest, and the next operation's window is short, and the CPU
 * waits for both at once. Who watches hopes to write nothing.
 */
enum over index_put_over(struct index *ix, struct index_op *op,
			 const uint64_t *slots, uint64_t *found_out)
{
	bool watches = contend_hot(&ix->contend, op->key.hash);
	struct target t = {.alone = !op->has_block};
	struct line_masks m;

	if (!is_usual(ix, op) || (!watches && !take_and_write(ix, op)))
		return OVER_NOT;
	m = window_scan(slots, hash_fp(op->key.hash));
	/* What is in front of the slot may be a migration, which others look at. */
	if (!m.match || (m.stop & (m.match ^ (m.match - 1))) ||
	    !find_slot(ix, op, slots, m.match, &t))
		return OVER_NOT;
	if (watches) {
		if (stand_before(ix, op, slots, &t) == OVER_DONE)
			return OVER_DONE;
		if (contend_hot(&ix->contend, op->key.hash) ||
		    !take_and_write(ix, op))
			return OVER_NOT;
	}
	return swap_slot(ix, op, slots, &t, watches, found_out);
}

/* ---- GET ------------------------------------------------------------------------- */

/* Where the value may be: the slot, the word that it held, and the block that this names. */
struct source {
	const uint64_t *slot;
	uint64_t word;
	const uint8_t *block;
	uint64_t bytes; /* of its class */
};

/* The bytes of the classes of up to OVER_MAX. */
static const uint16_t over_bytes[] = {
	CLASS_BYTES(0), CLASS_BYTES(1), CLASS_BYTES(2), CLASS_BYTES(3),
	CLASS_BYTES(4), CLASS_BYTES(5), CLASS_BYTES(6), CLASS_BYTES(7),
	CLASS_BYTES(8), CLASS_BYTES(9), CLASS_BYTES(10), CLASS_BYTES(11),
};
#define OVER_CLASSES (sizeof(over_bytes) / sizeof(over_bytes[0]))
static_assert(CLASS_BYTES(OVER_CLASSES - 1) <= OVER_MAX &&
	      CLASS_BYTES(OVER_CLASSES) > OVER_MAX, "the classes of up to OVER_MAX");

/* The first slot of those in `match`, if a block may be copied from where it leads. */
static inline __attribute__((always_inline)) bool
find_source(const struct index *ix, const struct index_op *op, const uint64_t *slots,
	    uint32_t match, struct source *src)
{
	uint64_t w, off;

	src->slot = &slots[__builtin_ctz(match)];
	w = atom_load_follow(src->slot);
	off = slot_off(w);
	if ((w & (SLOT_FROZEN | SLOT_DEAD)) || slot_class(w) >= OVER_CLASSES)
		return false;
	src->bytes = over_bytes[slot_class(w)];
	if (off < ix->sb.meta_bytes || off + src->bytes > ix->sb.region_bytes ||
	    src->bytes > op->buf_bytes)
		return false;
	src->word = w;
	src->block = ix->lane->base + off;
	/* All of most blocks; a loop would take longer than the rest of a large one. */
	fetch_line(src->block);
	fetch_line(src->block + LINE_BYTES);
	fetch_line(src->block + 2 * LINE_BYTES);
	return true;
}

static inline uint64_t block_lengths(const uint8_t *block)
{
	uint64_t found;

	ATOM_UNWATCHED_BEGIN();
	found = atom_word_at(block + offsetof(struct block_header, value_len));
	ATOM_UNWATCHED_END();
	__asm__("" : "+r"(found)); /* what is checked of it is not loaded again */
	return found;
}

/* The header's second word in the block that this word names, if it is of these lengths. */
static inline uint64_t lengths_by(uint64_t word, uint16_t key_len, uint32_t value_len)
{
	struct block_header h = {.value_len = value_len,
				 .key_len = key_len,
				 .inc_flags = slot_inc(word)};

	return block_head_lengths(&h);
}

static inline bool holds(const struct source *src, uint16_t key_len, uint32_t len)
{
	return block_room(key_len, len) <= src->bytes;
}

/*
 * Copy the block, if its head is what the word names and this key's, and verify the copy.
 * The value has mostly the length that the last one had. Taken for granted until the head
 * has come, it makes nothing wait for it but the data: of that a CPU has room for little
 * more than there is. If somebody breaks the rules, the length stays what it was here.
 */
static inline __attribute__((always_inline)) bool
copy_block(const struct index *ix, uint8_t *to, const struct index_key *key,
	   const struct source *src)
{
	uint64_t binding = word_binding(src->word);
	uint32_t len = ix->usual_len;
	uint64_t usual = lengths_by(src->word, key->len, len);

	__asm__("" : "+r"(binding), "+r"(usual)); /* now, not where it is needed */
	if (!holds(src, key->len, len) ||
	    __builtin_expect(block_lengths(src->block) != usual, 0))
		return false;
	return block_copy_holds(to, src->block, binding, key->len, len) &&
	       atom_same_block(key->data, to + sizeof(struct block_header), key->len);
}

/* Is the value but longer or shorter than the last one? The next may be like this one. */
static bool other_length(struct index *ix, const struct index_key *key,
			 const struct source *src)
{
	uint64_t found = block_lengths(src->block);
	uint32_t len = (uint32_t)found;

	if (len == ix->usual_len || found != lengths_by(src->word, key->len, len) ||
	    !holds(src, key->len, len))
		return false;
	ix->usual_len = len;
	return true;
}

/*
 * Is the block not this key's, but intact? Then whoever has it keeps its slot (I1). Any
 * length, and so it is copied anew.
 */
static bool is_others(const struct index_op *op, const struct index_key *key,
		      const struct source *src)
{
	uint64_t found = block_lengths(src->block);
	uint32_t len = (uint32_t)found;
	uint16_t key_len = (uint16_t)(found >> 32);

	return key_len > 0 && found == lengths_by(src->word, key_len, len) &&
	       holds(src, key_len, len) &&
	       block_copy_holds(op->buf, src->block, word_binding(src->word), key_len,
				len) &&
	       (key_len != key->len ||
		!atom_same_block(key->data, op->buf + sizeof(struct block_header),
				 key_len)) &&
	       still_holds(src->slot, src->word);
}

/*
 * Not at first sight: a value of another length than the last one, or one of the next slots
 * of this fingerprint in the line, as one in 130 is where lines are half full.
 */
static __attribute__((noinline)) bool copy_otherwise(struct index *ix, struct index_op *op,
						     const struct index_key *key,
						     uint32_t match, struct source *src)
{
	const uint64_t *slots = src->slot - __builtin_ctz(match);
	struct xport_counters *count = &ix->lane->counters;
	uint64_t passed = 0;
	unsigned n = 0;

	do {
		if ((n && copy_block(ix, op->buf, key, src)) ||
		    (other_length(ix, key, src) && copy_block(ix, op->buf, key, src))) {
			count->reads += n;
			count->read_bytes += passed;
			return true;
		}
		if (!is_others(op, key, src)) {
			if (!still_holds(src->slot, src->word))
				ix->retries++;
			return false;
		}
		passed += src->bytes;
		match &= match - 1;
	} while (match && ++n < OP_PROBE_MAX && find_source(ix, op, slots, match, src));
	return false;
}

/* What a card would have read to come here; `alone`: for this operation only. */
static inline void count_get(struct index *ix, const struct source *src, bool alone)
{
	struct xport_counters *count = &ix->lane->counters;

	if (alone) {
		count->doorbells += 2;
		count->round_trips += 2;
	} else {
		count_stages(ix, 1);
	}
	count->reads += 2;
	count->read_bytes += WINDOW_BYTES + src->bytes;
}

/*
 * What comes in front of one operation's data and behind the last one's keeps the CPU from
 * seeing both at once. So the operation is not even begun: `op` lends its buffer, and says
 * what was found. Nor does anybody ask where a walk would stop in front of the slot: a key
 * has one slot (I1), and while its word stands and is not FROZEN, no other subtable has
 * it. Who does not find it asks (index_get_search()).
 */
static inline __attribute__((always_inline)) bool
get_straight_on(struct index *ix, struct index_op *op, const struct index_key *key,
		const uint64_t *slots, bool alone)
{
	uint32_t match = window_scan(slots, hash_fp(key->hash)).match;
	uint8_t *to = op->buf;
	struct source src;

	if (!match || !find_source(ix, op, slots, match, &src))
		return false;
	if (!copy_block(ix, to, key, &src) &&
	    !copy_otherwise(ix, op, key, match, &src))
		return false;
	if (!still_holds(src.slot, src.word)) {
		ix->retries++;
		return false;
	}
	count_get(ix, &src, alone);
	memcpy(&op->version, to, sizeof(op->version));
	op->view.value = to + sizeof(struct block_header) + key->len;
	op->view.value_len = ix->usual_len;
	op->result = 0;
	return true;
}

bool index_get_over(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	if (!get_straight_on(ix, op, &op->key, slots, false))
		return index_get_search(ix, op, slots);
	op->view.key = op->view.value - op->key.len;
	op->view.key_len = op->key.len;
	op->view.version = op->version;
	op->view.tombstone = false;
	return true;
}

static __attribute__((noinline)) bool get_otherwise(struct index *ix,
						    struct index_op *op,
						    const struct index_key *key,
						    const uint64_t *slots)
{
	void *into = op->into;
	size_t into_cap = op->into_cap;

	index_op_start(op, INDEX_GET, key, NULL, 0, 0);
	op->into = into;
	op->into_cap = into_cap;
	ix->direct_stages = 0;
	ix->direct_posts = 0;
	return slots && index_get_search(ix, op, slots);
}

bool index_get(struct index *ix, struct index_op *op, const struct index_key *key,
	       const void *expected)
{
	const uint64_t *slots = (const uint64_t *)expected;

	return (slots && get_straight_on(ix, op, key, slots, true)) ||
	       get_otherwise(ix, op, key, slots);
}
