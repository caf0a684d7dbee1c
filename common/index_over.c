/* SPDX-License-Identifier: BSD-3-Clause */
/* A PUT over a value that is there, straight on, for operations: see index_put.h. */
#include "config.h"

#include "index_put.h"

/*
 * It is made where the nearest cache is, and copied: its sum is taken of what has come
 * there, and the stores of the copy wait for the block's lines while the rest goes on. By
 * turns, on a busy host, values of 2,000 to 12,000 bytes: 1.1 to 1.25 times as fast as made
 * in place; of 16,300 bytes, which fill half of that cache, 0.8 times. A large one goes past
 * the caches.
 */
#define IMAGE_MAX 12288u
void index_put_image(const struct put *p, uint8_t *block)
{
	struct block_pair pair = {.key = p->key.data,
				  .value = p->value,
				  .value_len = p->value_len,
				  .key_len = p->key.len};
	size_t room = block_room(p->key.len, p->value_len);
	uint8_t image[IMAGE_MAX];

	if (p->value_len >= BLOCK_PAST_CACHE) {
		block_encode_past_cache(block, p->block, p->version, &pair, p->key.hash);
		return;
	}
	block_encode(room <= IMAGE_MAX ? image : block, p->block, p->version, pair.key,
		     pair.key_len, p->key.hash, pair.value, pair.value_len, 0);
	if (room <= IMAGE_MAX)
		atom_copy_block(block, image, room);
}

/* A PUT to which nothing has happened yet, and for which nothing speaks against this. */
static inline bool is_usual(const struct index *ix, const struct index_op *op,
			    const struct put *p)
{
	return op->kind == INDEX_PUT && !op->written && !op->resolving &&
	       op->state == 0 && ix->versions.counter < UINT32_MAX &&
	       p->key.len - 1u < ix->sb.max_key && p->value_len <= ix->sb.max_value &&
	       put_is_usual(ix, p->key.len, p->value_len);
}

/* That of an operation, which may have its block. */
static inline void take_over(struct put *p, const struct index_op *op)
{
	put_start(p, &op->key, op->value, op->value_len);
	p->may_say = true;
	p->has_block = op->has_block;
	p->cls = op->cls;
	p->block = op->block;
}

void index_put_prepare(const struct index *ix, struct index_op *op)
{
	struct put p;

	take_over(&p, op);
	if (!is_usual(ix, op, &p) || p.has_block ||
	    contend_hot(&ix->contend, p.key.hash) || !put_take_block(ix, &p))
		return;
	op->cls = p.cls;
	op->block = p.block;
	op->has_block = true;
	fetch_block(ix, p.block.off, fetch_ahead(class_bytes(p.cls)));
}

/* Is this the word of a write that a PUT may stand before, in its own key's slot? */
static inline bool absorbs(const struct index *ix, const struct put *p, uint64_t word)
{
	return (word & SLOT_BLIND) && !(word & SLOT_FROZEN) &&
	       slot_fp(word) == hash_fp(p->key.hash) &&
	       region_block_ok(&ix->sb, slot_off(word), slot_class(word));
}

/* head_bytes() of a key that goes straight on: whole lines. */
#define HEAD_MAX                                                               \
	((sizeof(struct block_header) + PUT_KEY_MAX + LINE_BYTES - 1) /       \
	 LINE_BYTES * LINE_BYTES)

/*
 * Is the slot this key's? By the checksum, too: who watches swaps nothing that would tell
 * whether the block was that word's all the while, and the next write may have come already.
 */
static bool shows_mine(const struct index *ix, const struct put *p)
{
	uint64_t bytes = head_bytes(p->key.len, p->bytes);
	uint8_t head[HEAD_MAX];
	struct block_view view;

	atom_copy_block(head, p->head, bytes);
	return block_verify_head(head, bytes, p->ref, ix->sb.hash_seed, p->key.data,
				 p->key.len, p->key.hash, &view) == BLOCK_MINE;
}

/* The slot in the home line that may be the key's; p->known if the block there says so. */
static bool find_slot(struct index *ix, struct put *p, const uint64_t *slots)
{
	if (!put_find_target(ix, p, slots))
		return false;
	p->known = shows_mine(ix, p);
	if (p->known)
		contend_learn(&ix->contend, p->key.data, p->key.len,
			      slot_off_of(ix, &slots[p->slot_at]));
	return true;
}

/* Where the key's slot is by what is remembered, or 0. It is in the home line. */
static uint64_t recalled(const struct index *ix, const struct put *p, const uint64_t *slots)
{
	uint64_t off = contend_slot(&ix->contend, p->key.data, p->key.len);

	return off - slot_off_of(ix, slots) < LINE_BYTES ? off : 0;
}

/* The key's slot by that. Its word may be anything by now. */
static bool recall_slot(const struct index *ix, struct put *p, const uint64_t *slots)
{
	uint64_t off = recalled(ix, p, slots), w;

	if (!off)
		return false;
	p->slot_at = (uint16_t)((off - slot_off_of(ix, slots)) / sizeof(*slots));
	w = p->expect_word = atom_load_follow(&slots[p->slot_at]);
	p->ref = slot_block(w);
	if ((w & SLOT_FROZEN) || slot_fp(w) != hash_fp(p->key.hash) ||
	    !region_block_ok(&ix->sb, p->ref.off, p->ref.cls))
		return false;
	p->head = ix->lane->base + p->ref.off;
	p->bytes = class_bytes(p->ref.cls);
	p->known = true;
	return true;
}

/* It stands before a write that came within it. */
static enum over end_before(struct index *ix, struct index_op *op, struct put *p)
{
	contend_stand(&ix->contend);
	put_count_search(ix, p);
	p->version = (uint64_t)ix->versions.prefix << 32 | ++ix->versions.counter;
	op->cls = p->cls;
	op->version = p->version;
	op->rivals = true;
	ix->retries++;
	contend_note(&ix->contend, p->key.hash, false, true);
	index_op_end(ix, op, 0);
	return OVER_BEFORE;
}

/*
 * Others put the key just now: watch its slot, and stand before the next of them. If none
 * comes it is this session that puts: OVER_NOT. OVER_LOST: to a word that nobody stands
 * before; the next one looks what it is.
 */
static enum over stand_before(struct index *ix, struct index_op *op, struct put *p,
			      const uint64_t *slots)
{
	uint64_t word;

	word = contend_watch(&ix->contend, &slots[p->slot_at], p->expect_word, 1,
			     ix->versions.prefix);
	if (word == p->expect_word || !absorbs(ix, p, word)) {
		contend_vain(&ix->contend);
		return word == p->expect_word ? OVER_NOT : OVER_LOST;
	}
	return end_before(ix, op, p);
}

/*
 * One of the others says that it puts the key: has it, within this put? If it says nothing
 * more, what it said last is not listened to again: another may be putting that says nothing,
 * and the slot shows that.
 */
static bool listen(struct index *ix, const struct put *p, const uint64_t *slots)
{
	uint64_t slot = recalled(ix, p, slots), first, now;
	const struct notice_line *line = slot ? notice_about(&ix->notice, slot) : NULL;

	if (!line)
		return false;
	first = atom_load_follow(&line->count);
	if (first == ix->notice.silent || atom_load_follow(&line->slot) != slot)
		return false;
	now = contend_watch(&ix->contend, &line->count, first, NOTICE_STEP,
			    ix->versions.prefix);
	/* Counts do not go backwards; memory that is damaged may. */
	if ((int64_t)(now - first) >= NOTICE_STEP && atom_load_follow(&line->slot) == slot)
		return true;
	ix->notice.silent = atom_load_relaxed(&line->count);
	return false;
}

/*
 * put_over() for who watches, and hopes to write nothing: OVER_BEFORE. Who is not sure whose
 * slot it is does not watch: there the swap tells.
 */
static __attribute__((noinline)) enum over
put_watching(struct index *ix, struct index_op *op, struct put *p,
	     const uint64_t *slots, uint64_t *found_out)
{
	p->fetch_next = !p->has_block;
	/* Nothing was taken, but this is what it would have been. */
	p->cls = (uint8_t)class_for(block_room(p->key.len, p->value_len));
	p->bytes = class_bytes(p->cls);
	p->foreign = false;
	if (listen(ix, p, slots))
		return end_before(ix, op, p);
	if (!recall_slot(ix, p, slots) && !find_slot(ix, p, slots))
		return OVER_NOT;
	if (p->known) {
		enum over over = stand_before(ix, op, p, slots);

		if (over != OVER_NOT)
			return over == OVER_BEFORE ? OVER_BEFORE : OVER_NOT;
	}
	if (!put_take_and_write(ix, p))
		return OVER_NOT;
	return put_swap(ix, p, slots, found_out);
}

/* It is over, with a value where one was. */
static inline void end_well(struct index_op *op, const struct put *p)
{
	op->cls = p->cls;
	op->has_block = false;
	op->version = p->version;
	op->foreign = p->foreign;
	op->plenty = p->plenty;
	op->result = 0;
}

bool index_put_over(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	enum over over;
	uint64_t found;
	struct put p;

	take_over(&p, op);
	if (!is_usual(ix, op, &p))
		return index_put_search(ix, op, slots, NULL);
	over = __builtin_expect(contend_hot(&ix->contend, p.key.hash), 0) ?
		       put_watching(ix, op, &p, slots, &found) :
		       put_over(ix, &p, slots, &found);
	if (over == OVER_DONE)
		end_well(op, &p);
	if (over == OVER_DONE || over == OVER_BEFORE)
		return true;
	put_hand_over(op, &p, over);
	return index_put_search(ix, op, slots, over == OVER_LOST ? &found : NULL);
}

bool index_put(struct index *ix, struct index_op *op, const void *expected)
{
	if (!expected)
		return false;
	put_alone(ix);
	if (contend_hot(&ix->contend, op->key.hash))
		contend_wait(&ix->contend);
	return index_put_over(ix, op, expected);
}
