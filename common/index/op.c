/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "op.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/region/fetch.h"
#include "index_state.h"

/* Restarts for a temporary reason, before that reason counts as damage. */
#define OP_TRIES_MAX 100
/* How many blocks ahead the allocator's memory is prefetched. */
#define PREFETCH_AHEAD 2u

/* ---- ending, waiting, restarting ------------------------------------------------ */

/*
 * Put back the unpublished block, which is free at once. If that fails it leaks, and the sweep
 * finds it.
 *
 * Where words tear, halves of two words can name this block with the content written there. A
 * writer that READ such a mixture must not find exactly that word in the slot at its CAS, published
 * in the meantime for another key. So a written block gets its next incarnation.
 */
static void op_drop_block(struct index *ix, struct index_op *op)
{
	if (op->own == OWN_WRITTEN && !(ix->lane->caps & XPORT_READ8_ATOMIC))
		(void)alloc_put_written(ix->alloc, op->block);
	else if (op->own != OWN_NONE)
		(void)alloc_put(ix->alloc, op->block);
	op->own = OWN_NONE;
}

void index_op_end(struct index *ix, struct index_op *op, int err)
{
	if (op->doubt == DOUBT_RESOLVING) {
		/* The outcome is still unknown. */
		op->doubt = err == FARKV_EDISCONNECTED ? DOUBT_OPEN : DOUBT_NONE;
		err = err ? FARKV_EMAYBE : 0;
	}
	op->result = err;
	op->wait = INDEX_WAIT_NONE;
	op->phase = OP_ENDED;
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
	op->aged.word = 0; /* there may be a barrier until it resumes */
	op->phase = OP_START;
	return NEXT_WAIT;
}

enum next op_again(struct index *ix, struct index_op *op)
{
	ix->retries++;
	op->phase = OP_START;
	return NEXT_AGAIN;
}

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

void index_op_resume(struct index_op *op)
{
	if (op->doubt != DOUBT_NONE)
		op->doubt = DOUBT_RESOLVING;
	op->result = INDEX_PENDING;
	op->wait = INDEX_WAIT_NONE;
	op->phase = OP_START;
	op->own = OWN_NONE; /* the block belonged to the old session */
	op->tries = 0;
	op->tomb_asked = false;
	op->bad_word = 0;
	op->aged.word = 0;
}

void index_abandon(struct index *ix, struct index_op *op, int err)
{
	uint8_t wait = op->wait;

	if (op->result != INDEX_PENDING)
		return;
	index_op_end(ix, op, err);
	op->wait = wait;
}

/* ---- its own block, and the blocks that it READs ------------------------------ */

bool op_take_ready(struct index *ix, struct index_op *op)
{
	bool taken = alloc_take(ix->alloc, op->cls, ix->recent_ns, &op->block);

	/* Read the clock only if no block was ready at its last reading. */
	if (!taken) {
		ix->recent_ns = index_now(ix);
		alloc_date(ix->alloc, ix->recent_ns);
		taken = alloc_take(ix->alloc, op->cls, ix->recent_ns, &op->block);
	}
	if (taken)
		op->own = OWN_BLANK;
	return taken;
}

/* Prefetch this block and the next one: most programs write several values. */
static void prefetch_block(const struct index *ix, const struct index_op *op)
{
	uint64_t next, bytes = fetch_ahead(class_bytes(op->block.cls));

	if (!(ix->lane->caps & XPORT_DIRECT_STORE))
		return;
	fetch_lines_to_write(ix->lane->base + op->block.off, bytes);
	next = alloc_peek(ix->alloc, op->block.cls, PREFETCH_AHEAD - 1);
	if (next)
		fetch_lines_to_write(ix->lane->base + next, bytes);
}

bool op_take_block(struct index *ix, struct index_op *op)
{
	if (!kind_stores(op->kind) ||
	    op->own != OWN_NONE || op->doubt == DOUBT_RESOLVING)
		return true;
	op->cls = (uint8_t)class_for(op_room(op));
	if (!op_take_ready(ix, op))
		return false;
	prefetch_block(ix, op);
	return true;
}

bool op_span_ok(const struct index *ix, const struct index_op *op)
{
	atom_fence_copy_done();
	return index_now(ix) - op->search.begun_ns <= ix->sb.grace_ns / 2;
}

/* Bytes of header and key, in whole lines, of a block of `bytes`. */
static uint64_t head_bytes(uint64_t key_len, uint64_t bytes)
{
	uint64_t head = (BLOCK_HEADER_BYTES + key_len + LINE_BYTES - 1) &
			~(uint64_t)(LINE_BYTES - 1);

	return UTIL_MIN(head, bytes);
}

struct block_key op_block_key(const struct index *ix, const struct index_op *op)
{
	return (struct block_key){.data = op->key.data,
				  .hash = op->key.hash,
				  .seed = ix->sb.hash_seed,
				  .len = op->key.len};
}

uint64_t op_probe_bytes(const struct index_op *op, uint64_t word)
{
	uint64_t all = class_bytes(slot_class(word));

	if (op->kind == INDEX_GET)
		return all;
	return head_bytes(op->search.probe_full ? UINT16_MAX : op->key.len, all);
}

enum block_check op_probe_verify(const struct index *ix, const struct index_op *op,
				 const uint8_t *image, uint64_t word,
				 struct block_view *view_out)
{
	struct block_ref ref = slot_block(word);
	struct block_key asked;

	if (op->kind == INDEX_GET)
		return block_verify(image, ref, op->key.data, op->key.len,
				    view_out);
	asked = op_block_key(ix, op);
	return block_verify_head(image, op_probe_bytes(op, word), ref, &asked, view_out);
}

uint32_t op_segment_len(const struct index *ix, const struct index_op *op,
		     uint64_t word)
{
	uint64_t around = BLOCK_HEADER_BYTES + op->key.len + BLOCK_SUM_BYTES;
	uint64_t all = class_bytes(slot_class(word)), part;

	if (op->kind != INDEX_GET || !op->into ||
	    all < around + INDEX_SEGMENT_MIN)
		return 0;
	part = UTIL_MIN(op->into_cap, all - around);
	if (part < INDEX_SEGMENT_MIN ||
	    !xport_mem_known(ix->lane, op->into, op->into_cap, XPORT_READ))
		return 0;
	return (uint32_t)part;
}

void op_segment_set(const struct index_op *op, struct xport_wr *wr, uint32_t seg_len)
{
	if (!seg_len)
		return;
	wr->seg = op->into;
	wr->seg_at = BLOCK_HEADER_BYTES + op->key.len;
	wr->seg_len = seg_len;
}

enum block_check op_segment_verify(const struct index_op *op, uint64_t word,
				uint32_t seg_len, struct block_view *view_out)
{
	struct block_split parts = {.image = op->buf,
				    .seg = op->into,
				    .seg_at = BLOCK_HEADER_BYTES + op->key.len,
				    .seg_len = seg_len};

	return block_verify_split(&parts, slot_block(word), op->key.data,
				  op->key.len, view_out);
}

/* ---- buffers ------------------------------------------------------------------- */

/* The smallest buffer of an operation. */
#define BUF_BYTES_MIN SPARE_MIN

void index_op_init(struct index_op *op)
{
	memset(op, 0, sizeof(*op));
}

void index_op_fini(struct index *ix, struct index_op *op)
{
	xport_mem_free(ix->lane, op->window, SPARE_WINDOW);
	xport_mem_free(ix->lane, op->buf, op->buf_bytes);
	ix->buf_bytes -= op->buf_bytes;
	op->window = NULL;
	op->buf = NULL;
	op->buf_bytes = 0;
}

static void *take(struct index *ix, size_t bytes)
{
	void *mem = spare_take(&ix->spare, bytes);

	return mem ? mem : xport_mem_alloc(ix->lane, bytes);
}

static void give_back(struct index *ix, void *mem, size_t bytes)
{
	if (mem && !spare_put(&ix->spare, mem, bytes))
		xport_mem_free(ix->lane, mem, bytes);
}

void index_op_shrink(struct index *ix, struct index_op *op)
{
	give_back(ix, op->window, SPARE_WINDOW);
	give_back(ix, op->buf, op->buf_bytes);
	op->window = NULL;
	op->buf = NULL;
	index_op_fini(ix, op);
}

/* Copy the value to op->held, enlarged if needed. */
static int copy_held(struct index_op *op)
{
	size_t want = BUF_BYTES_MIN;
	void *p;

	while (want < op->view.value_len)
		want *= 2;
	if (op->held_bytes < want) {
		p = aligned_alloc(LINE_BYTES, want);
		if (!p)
			return FARKV_ENOMEM;
		free(op->held);
		op->held = p;
		op->held_bytes = want;
	}
	if (op->view.value_len > 0)
		memcpy(op->held, op->view.value, op->view.value_len);
	op->view.value = op->held;
	return 0;
}

int index_op_hold(struct index *ix, struct index_op *op)
{
	uint8_t *held = op->held;
	size_t held_bytes = op->held_bytes;

	if (!(ix->lane->caps & XPORT_DIRECT))
		return copy_held(op);
	op->held = op->buf;
	op->held_bytes = op->buf_bytes;
	op->buf = held;
	op->buf_bytes = held_bytes;
	ix->buf_bytes += held_bytes - op->held_bytes;
	return 0;
}

void index_op_release(struct index *ix, struct index_op *op)
{
	if (op->held_bytes <= BUF_BYTES_MIN)
		return;
	if (ix && (ix->lane->caps & XPORT_DIRECT))
		give_back(ix, op->held, op->held_bytes);
	else
		free(op->held);
	op->held = NULL;
	op->held_bytes = 0;
}

void index_op_free_held(struct index_op *op)
{
	free(op->held);
	op->held = NULL;
	op->held_bytes = 0;
}

bool index_op_is_oversized(const struct index *ix, const struct index_op *op)
{
	return op->buf_bytes > INDEX_BUF_KEEP ||
	       (op->buf_bytes > BUF_BYTES_MIN && ix->buf_bytes > INDEX_BUFS_KEEP);
}

int index_op_grow(struct index *ix, struct index_op *op, size_t bytes)
{
	size_t want = op->buf_bytes ? op->buf_bytes : BUF_BYTES_MIN;
	void *p;

	if (!op->window) {
		op->window = take(ix, SPARE_WINDOW);
		if (!op->window)
			return FARKV_ENOMEM;
	}
	if (bytes <= op->buf_bytes)
		return 0;
	while (want < bytes)
		want *= 2;
	p = take(ix, want);
	if (!p)
		return FARKV_ENOMEM;
	give_back(ix, op->buf, op->buf_bytes); /* too small for this operation */
	ix->buf_bytes += want - op->buf_bytes;
	op->buf = p;
	op->buf_bytes = want;
	return 0;
}
