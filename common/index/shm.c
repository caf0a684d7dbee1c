/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GETs and PUTs over mapped memory where the inline part of index/shm.h does not end them, those of
 * operations, and those of batches. A batch requests all windows before it looks at the first, and
 * all blocks before it copies the first.
 */
#include "config.h"

#include "shm.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"

/* ---- GET --------------------------------------------------------------------------- */

uint64_t get_left(const struct index *ix, uint32_t expiry)
{
	return block_ttl_left(expiry, 0, expiry_clock(ix));
}

/*
 * True if an intact header only shows another value length than the last GET's. The next GET may
 * have that length, too.
 */
static bool value_length_differs(struct index *ix, const struct index_key *key,
				 const struct get_source *src)
{
	uint64_t found = shm_lengths(src->block);
	uint32_t len = (uint32_t)found;

	if (len == ix->usual_len || found != shm_lengths_by(src->word, key->len, len) ||
	    !get_fits(src, key->len, len))
		return false;
	ix->usual_len = len;
	return true;
}

/*
 * True if the block is intact and another key's: then its slot belongs to that key for good (I1).
 * Its value can have any length, so the block is copied again.
 */
static bool holds_other_key(const struct index_key *key, const struct get_source *src)
{
	uint64_t found = shm_lengths(src->block);
	uint32_t len = (uint32_t)found;
	uint16_t key_len = (uint16_t)(found >> 32);

	return key_len > 0 && found == shm_lengths_by(src->word, key_len, len) &&
	       get_fits(src, key_len, len) &&
	       block_copy_holds(src->to, src->block, word_binding(src->word), key_len,
				len) &&
	       (key_len != key->len ||
		!atom_same_block(key->data, src->to + sizeof(struct block_header),
				 key_len)) &&
	       still_holds(src->slot, src->word);
}

/*
 * A value of another length than the last one, or another slot of the line with this fingerprint: 1
 * GET in 130 needs this if lines are half full.
 */
static __attribute__((noinline)) bool get_next_candidates(struct index *ix,
							  const struct index_key *key,
							  struct get_source *src)
{
	unsigned n = 0;

	for (;;) {
		if ((n && get_copy(ix, key, src)) ||
		    (value_length_differs(ix, key, src) && get_copy(ix, key, src))) {
			/* What has expired is left to the search. */
			if (!get_lives(ix, src))
				return false;
			if (!still_holds(src->slot, src->word))
				break;
			heat_mark_slot(ix, src->slot);
			return true;
		}
		if (!holds_other_key(key, src)) {
			if (!still_holds(src->slot, src->word))
				break;
			return false;
		}
		src->match &= src->match - 1;
		if (!src->match || ++n == OP_PROBE_MAX || !get_find(ix, src))
			return false;
		get_request(src);
	}
	ix->retries++; /* another writer changed the slot */
	return false;
}

/* The value is found, in `block`: set the result. The rest of the operation is not set up. */
static inline void get_found(struct index *ix, const struct index_get_req *req,
			     const struct get_source *src)
{
	const uint8_t *block = src->to;
	struct index_op *op = req->op;

	op->view.user = 0;
	op->left_ms = src->ttl_ms ? src->ttl_ms : BLOCK_NEVER;

	op->view.value = block + sizeof(struct block_header) + req->key.len;
	op->view.value_len = ix->usual_len;
	op->result = 0;
	memcpy(&op->version, block, sizeof(op->version));
}

/* Go on after get_fast(), if that found a candidate. */
static bool get_after_miss(struct index *ix, const struct index_get_req *req,
			   struct get_source *src)
{
	if (!src->slot)
		return false;
	if (!still_holds(src->slot, src->word)) {
		ix->retries++; /* another writer changed the slot */
		return false;
	}
	if (!get_next_candidates(ix, &req->key, src))
		return false;
	get_found(ix, req, src);
	return true;
}

/* One GET of a batch or of an operation; its block may have been requested already. */
static bool get_one(struct index *ix, const struct index_get_req *req, const uint64_t *slots,
		    uint32_t match)
{
	struct get_source src = {.slots = slots, .match = match, .to = req->op->buf,
				 .room = req->op->buf_bytes};

	if (get_fast(ix, &req->key, &src)) {
		get_found(ix, req, &src);
		return true;
	}
	return get_after_miss(ix, req, &src);
}

bool index_get_fast(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	struct index_get_req req = {op->key, op};

	if (!get_one(ix, &req, slots, get_matches(&op->key, slots)))
		return index_get_search(ix, op, slots);
	op->view.key = op->view.value - op->key.len;
	op->view.key_len = op->key.len;
	op->view.version = op->version;
	op->view.expiry = get_expiry(op->view.key - sizeof(struct block_header));
	op->view.flags = 0;
	return true;
}

/* Keeps what the caller has set. */
static void start_get(const struct index_get_req *req)
{
	struct index_op *op = req->op;
	void *into = op->into;
	size_t into_cap = op->into_cap;

	index_op_start(op, INDEX_GET, &req->key, NULL, 0);
	op->into = into;
	op->into_cap = into_cap;
}

/* Search the whole window. False: it is pending. */
static __attribute__((noinline)) bool get_by_search(struct index *ix,
						    const struct index_get_req *req,
						    const uint64_t *slots)
{
	err_clear(); /* what follows may fail */
	start_get(req);
	return slots && index_get_search(ix, req->op, slots);
}

bool index_get_slow(struct index *ix, const struct index_get_req *req, struct get_source *src)
{
	return get_after_miss(ix, req, src) || get_by_search(ix, req, src->slots);
}

bool index_get(struct index *ix, const struct index_get_req *req, const void *window)
{
	const uint64_t *slots = window;

	if (!slots) {
		start_get(req);
		return false;
	}
	return get_one(ix, req, slots, get_matches(&req->key, slots)) ||
	       get_by_search(ix, req, slots);
}

/* ---- many of them ------------------------------------------------------------------ */

static inline void request_windows(const struct index *ix, const struct index_get_req *reqs,
				 size_t n, const uint64_t **slots)
{
	bool lead = loads_usable(ix);

	for (size_t i = 0; i < n; i++) {
		slots[i] = lead ? window_of(ix, reqs[i].key.hash) : NULL;
		fetch_line(slots[i]);
	}
}

/* Request the first candidate's block. Any address may be prefetched. */
static inline void request_first_block(const struct index *ix, const uint64_t *slots,
				       uint32_t match)
{
	uint64_t w = atom_load_relaxed(&slots[__builtin_ctz(match)]);

	fetch_lines(ix->lane->base + slot_off(w),
		    fetch_ahead(slot_class(w) < SHM_CLASSES ?
					shm_bytes[slot_class(w)] :
					class_bytes(slot_class(w))));
}

/* Returns how many are pending. */
static size_t get_batch(struct index *ix, const struct index_get_req *reqs, size_t n)
{
	const uint64_t *slots[STAGE_OPS];
	uint32_t match[STAGE_OPS];
	size_t left = 0;

	request_windows(ix, reqs, n, slots);
	for (size_t i = 0; i < n; i++) {
		match[i] = slots[i] ? get_matches(&reqs[i].key, slots[i]) : 0;
		if (match[i])
			request_first_block(ix, slots[i], match[i]);
	}
	for (size_t i = 0; i < n; i++)
		left += !get_one(ix, &reqs[i], slots[i], match[i]) &&
			!get_by_search(ix, &reqs[i], slots[i]);
	return left;
}

/* Set up the rest of an operation that has its result; keeps the result. */
static void restart_found(const struct index_get_req *req)
{
	struct index_op *op = req->op;
	uint64_t version = op->version, left_ms = op->left_ms;

	start_get(req);
	op->version = version;
	op->left_ms = left_ms;
	op->result = 0;
}

bool index_get_many(struct index *ix, const struct index_get_req *reqs, size_t n)
{
	size_t left = 0;

	for (size_t at = 0; at < n; at += STAGE_OPS)
		left += get_batch(ix, &reqs[at], UTIL_MIN(n - at, (size_t)STAGE_OPS));
	for (size_t i = 0; left && i < n; i++)
		if (reqs[i].op->result == 0)
			restart_found(&reqs[i]);
	return left == 0;
}

/* ---- PUT --------------------------------------------------------------------------- */

/*
 * The image is made on the stack and copied: the checksum then reads from the nearest cache, and
 * the copy's stores overlap its waits for the block's lines. Faster than building in place for
 * blocks of 2,000 to 12,000 bytes; slower for larger ones, which fill half of that cache. From
 * BLOCK_PAST_CACHE on a value is written past the caches.
 */
#define IMAGE_MAX 12288u
void index_put_build_large(const struct put *p, uint8_t *block)
{
	struct block_pair pair = {.key = p->key.data,
				  .key_hash = p->key.hash,
				  .key_len = p->key.len,
				  .value = p->value,
				  .value_len = p->value_len};
	struct block_ref ref = slot_block(p->block);
	size_t room = block_room(p->key.len, p->value_len);
	uint8_t image[IMAGE_MAX];

	if (p->value_len >= BLOCK_PAST_CACHE) {
		block_encode_past_cache(block, ref, p->version, &pair);
		return;
	}
	block_encode(room <= IMAGE_MAX ? image : block, ref, p->version, &pair);
	if (room <= IMAGE_MAX)
		atom_copy_block(block, image, room);
}

uint64_t index_put_old_bytes(const struct index *ix, uint64_t word)
{
	struct block_ref ref = slot_block(word);

	return region_block_ok(&ix->sb, ref.off, ref.cls) ? class_bytes(ref.cls) : 0;
}

bool index_put_retire(struct index *ix, uint64_t word, uint8_t cls)
{
	op_retire(ix, slot_block(word), cls);
	return alloc_class_has_spare(ix->alloc, &ix->alloc->cls[cls], ix->recent_ns) &&
	       !alloc_gained_many(ix->alloc);
}

void index_put_to_op(struct index_op *op, const struct put *p, enum put_outcome outcome)
{
	if (p->block) {
		op->cls = p->cls;
		op->own = OWN_BLANK;
		op->block = slot_block(p->block);
	}
	if (p->written) {
		op->own = OWN_WRITTEN;
		op->version = p->version;
	}
	if (outcome == PUT_LOST) {
		op->slot_at = p->slot_at;
		op->swap.expect = p->old_word;
	}
}

/* True if a PUT has not begun and meets the conditions of put_fast(). */
static inline bool may_put_fast(const struct index *ix, const struct index_op *op)
{
	return op->kind == INDEX_PUT && op->own != OWN_WRITTEN && op->doubt == DOUBT_NONE &&
	       op->phase == OP_START && ix->versions.counter < UINT32_MAX &&
	       op->key.len - 1u < ix->sb.max_key && op->value_len <= ix->sb.max_value &&
	       (ix->lane->caps & XPORT_AT_ONCE) && (ix->lane->caps & XPORT_DIRECT_STORE) &&
	       ix->alloc && op->key.len <= PUT_KEY_MAX && !(op->ttl_ms | op->user) &&
	       block_room(op->key.len, op->value_len) <= PUT_ROOM_MAX;
}

/* Start from an operation that may_put_fast(), and may have its block. */
static inline void put_from_op(const struct index *ix, struct put *p,
			       const struct index_op *op)
{
	put_start(p, &op->key, op->value, op->value_len);
	p->fetch_next = op->own == OWN_NONE;
	p->cls = op->cls;
	p->blocks = &ix->alloc->cls[p->cls];
	if (op->own != OWN_NONE)
		p->block = slot_pack(op->block, 0, 0);
}

void index_put_prepare(const struct index *ix, struct index_op *op)
{
	struct put p;

	if (!may_put_fast(ix, op))
		return;
	put_from_op(ix, &p, op);
	if (p.block || !put_take(ix, &p))
		return;
	index_put_to_op(op, &p, PUT_NOT_DONE);
	fetch_block(ix, op->block.off, fetch_ahead(class_bytes(p.cls)));
}

/* End the operation after PUT_DONE. */
static inline void put_end(struct index_op *op, const struct put *p)
{
	op->cls = p->cls;
	op->own = OWN_NONE;
	op->version = p->version;
	op->has_spare = p->has_spare;
	op->result = 0;
}

bool index_put_fast(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	enum put_outcome outcome;
	struct put p;

	if (!may_put_fast(ix, op))
		return index_put_search(ix, op, slots, NULL);
	put_from_op(ix, &p, op);
	p.slots = slots;
	outcome = put_fast(ix, &p);
	if (outcome == PUT_DONE) {
		put_end(op, &p);
		return true;
	}
	index_put_to_op(op, &p, outcome);
	return index_put_search(ix, op, slots, outcome == PUT_LOST ? &p.lost_to : NULL);
}

bool index_put(struct index *ix, struct index_op *op, const void *window)
{
	return window && index_put_fast(ix, op, window);
}
