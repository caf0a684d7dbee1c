/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch requests all windows before it looks at the first, and all blocks before it copies the
 * first.
 */
#include "config.h"

#include "try.h"

#include <string.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/fetch.h"
#include "expiry.h"
#include "heat.h"
#include "search.h"
#include "shm.h"
#include "window_scan.h"

const void *index_prefetch_window(const struct index *ix, uint64_t hash)
{
	const uint64_t *window;

	return window_prefetch(ix, hash, &window) ? window : NULL;
}

/* ---- GET --------------------------------------------------------------------------- */

/*
 * The value is found, in `block`: set the result. The other fields of the operation are not set up.
 */
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

/* Continue after get_fast(), if that found a candidate. */
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
				 .room = UTIL_MIN(req->op->buf_bytes, SHM_SMALL_MAX)};

	if (src.room < sizeof(struct block_header))
		return false; /* a buffer is allocated by the search */
	if (get_fast(ix, &req->key, &src)) {
		get_found(ix, req, &src);
		return true;
	}
	return get_after_miss(ix, req, &src);
}

/* A GET of an operation that index_op_start() has set up; `slots` has been requested. */
static bool get_op(struct index *ix, struct index_op *op, const uint64_t *slots)
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

/* Set up the operation; keeps the fields that the caller has set. */
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
	err_clear(); /* it may yet fail */
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

void index_put_to_op(struct index_op *op, const struct put *p, bool lost)
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
	if (lost) {
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

/* Before a batch: take the block of a PUT that put_fast() can do, and prefetch its memory. */
static void put_prepare(const struct index *ix, struct index_op *op)
{
	struct put p;

	if (!may_put_fast(ix, op))
		return;
	put_from_op(ix, &p, op);
	if (p.block || !put_take(ix, &p))
		return;
	index_put_to_op(op, &p, false);
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

/*
 * A PUT of an operation: put_fast() if it applies; the search if it does not or its CAS was lost.
 */
static bool put_op(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	enum put_outcome outcome;
	struct put p;

	if (!may_put_fast(ix, op))
		return index_write_search(ix, op, slots, NULL);
	put_from_op(ix, &p, op);
	p.slots = slots;
	outcome = put_fast(ix, &p);
	if (outcome == PUT_DONE) {
		put_end(op, &p);
		return true;
	}
	index_put_to_op(op, &p, outcome == PUT_LOST);
	return index_write_search(ix, op, slots, outcome == PUT_LOST ? &p.lost_to : NULL);
}

bool index_put(struct index *ix, struct index_op *op, const void *window)
{
	return window && put_op(ix, op, window);
}

/* ---- EXISTS ------------------------------------------------------------------------ */

/* True unless the value of a verified block has expired. */
static bool head_lives(const struct index *ix, const uint8_t *block)
{
	uint16_t flags = (uint16_t)(shm_lengths(block) >> 48);
	uint32_t expiry = shm_expiry(block);

	return !expiry || block_ttl_left(expiry, flags, expiry_clock(ix)) != 0;
}

/*
 * True if the first slot of the home line with the key's fingerprint is the key's, and alive. The
 * slots before it need no look, as in get_fast(). Incarnation and key suffice, as in put_verify():
 * the word is unchanged, so the block did not change in the meantime, and its header is whole.
 */
static bool exists_fast(const struct index *ix, const struct index_op *op, const uint64_t *slots)
{
	struct put p;

	put_start(&p, &op->key, NULL, 0);
	p.slots = slots;
	return put_find(ix, &p) && !(p.old_word & SLOT_DEAD) && put_verify(&p) &&
	       head_lives(ix, p.old) && still_holds(&slots[p.slot_at], p.old_word);
}

static bool exists_op(struct index *ix, struct index_op *op, const uint64_t *slots)
{
	if (!exists_fast(ix, op, slots))
		return index_exists_search(ix, op, slots);
	op->result = 0;
	return true;
}

/* ---- any operation -------------------------------------------------------------------- */

/* Prefetch the block of a key's first candidate in the home line. */
static void prefetch_candidate(const struct index *ix, const struct index_op *op,
			       const uint64_t *slots)
{
	struct line_masks m = window_scan(slots, hash_fp(op->key.hash));
	struct block_ref ref;
	uint64_t bytes;

	if (!m.match)
		return;
	ref = slot_block(atom_load_relaxed(
		&slots[(unsigned)__builtin_ctz(m.match)]));
	if (!region_block_ok(&ix->sb, ref.off, ref.cls))
		return;
	/* All but a GET need only the header and the key. */
	bytes = op->kind == INDEX_GET ? fetch_ahead(class_bytes(ref.cls)) : LINE_BYTES;
	fetch_lines(ix->lane->base + ref.off, bytes);
}

/* Prefetch windows, then what their slots name. */
static void fetch_windows(const struct index *ix, struct index_op *const *ops,
			  size_t n, const uint64_t *slots[STAGE_OPS])
{
	for (size_t i = 0; i < n; i++) {
		slots[i] = direct_window(ix, ops[i]);
		if (slots[i])
			fetch_line(slots[i]);
	}
}

static void fetch_candidates(const struct index *ix, struct index_op *const *ops,
			     size_t n, const uint64_t *const slots[STAGE_OPS])
{
	for (size_t i = 0; i < n; i++)
		if (slots[i])
			prefetch_candidate(ix, ops[i], slots[i]);
}

void index_fetch_many(const struct index *ix, struct index_op *const *ops,
		      size_t n)
{
	const uint64_t *slots[STAGE_OPS];

	if (!loads_usable(ix))
		return;
	for (size_t at = 0; at < n; at += STAGE_OPS) {
		size_t some = UTIL_MIN(n - at, (size_t)STAGE_OPS);

		fetch_windows(ix, ops + at, some, slots);
		fetch_candidates(ix, ops + at, some, slots);
	}
}

static bool try_one(struct index *ix, struct index_op *op)
{
	const uint64_t *slots = direct_window(ix, op);

	if (!slots)
		return false;
	switch (op->kind) {
	case INDEX_GET:
		return get_op(ix, op, slots);
	case INDEX_PUT:
		return put_op(ix, op, slots);
	case INDEX_EXISTS:
		return exists_op(ix, op, slots);
	default:
		return index_write_search(ix, op, slots, NULL);
	}
}

bool index_try(struct index *ix, struct index_op *op)
{
	if (!loads_usable(ix))
		return false;
	return try_one(ix, op);
}

void index_try_many(struct index *ix, struct index_op *const *ops, size_t n)
{
	const uint64_t *slots[STAGE_OPS];

	if (!loads_usable(ix))
		return;
	for (size_t at = 0; at < n; at += STAGE_OPS) {
		size_t some = UTIL_MIN(n - at, (size_t)STAGE_OPS);

		fetch_windows(ix, ops + at, some, slots);
		for (size_t i = at; i < at + some; i++)
			put_prepare(ix, ops[i]);
		fetch_candidates(ix, ops + at, some, slots);
		for (size_t i = at; i < at + some; i++)
			(void)try_one(ix, ops[i]);
	}
}

void index_pause(struct index *ix, const struct index_op *op)
{
	if ((ix->lane->caps & XPORT_DIRECT) && (op->written_by_other || op->rivals))
		index_backoff(ix);
}
