/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handle's view of a region: the cached directory, versions, and the life of an
 * operation. index_run.c drives them.
 */
#include "config.h"

#include "index_priv.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "err.h"

/* Post one chain and wait for it; for the directory only. */
static int chain_run(struct index *ix, struct xport_chain *c, uint64_t deadline)
{
	int err = xport_post(ix->lane, c);

	if (err)
		return err;
	ix->lane->counters.round_trips++;
	while (!c->done) {
		xport_poll(ix->lane);
		if (!c->done && index_now(ix) > deadline) {
			xport_break(ix->lane, FARKV_ETIMEDOUT);
			/* The lane must not know `c` any more: callers' stack. */
			xport_poll(ix->lane);
			return err_set(FARKV_ETIMEDOUT,
				       "the directory could not be read in time");
		}
	}
	return c->status;
}

static struct xport_wr read_wr(uint64_t off, void *laddr, uint64_t len)
{
	return (struct xport_wr){.opcode = XPORT_READ,
				 .off = off,
				 .laddr = laddr,
				 .len = (uint32_t)len};
}

static int dirword_check(const struct index *ix, uint64_t d)
{
	uint32_t depth = dirword_depth(d);
	uint64_t off = dirword_off(d);

	if (!(d & DIR_VALID) || depth > DIR_DEPTH_MAX || off % 8 ||
	    off < REGION_DIR_OFF || off > ix->sb.meta_bytes ||
	    (UINT64_C(8) << depth) > ix->sb.meta_bytes - off)
		return err_set(FARKV_EFORMAT,
			       "region: directory word 0x%016llx is impossible",
			       (unsigned long long)d);
	return 0;
}

static int entries_reserve(struct index *ix, size_t bytes)
{
	void *p;

	if (bytes <= ix->entries_bytes)
		return 0;
	p = xport_mem_alloc(ix->lane, bytes);
	if (!p)
		return err_set(FARKV_ENOMEM,
			       "no memory for a directory of %zu bytes", bytes);
	xport_mem_free(ix->lane, ix->entries, ix->entries_bytes);
	ix->entries = p;
	ix->entries_bytes = bytes;
	return 0;
}

int index_refill(struct index *ix, uint64_t deadline_ns)
{
	uint64_t *d = ix->dir_scratch;

	ix->dirword = 0;
	for (;;) {
		struct xport_chain c = {.n = 1};
		size_t bytes;
		int err;

		c.wr[0] = read_wr(REGION_D_OFF, &d[0], 8);
		err = chain_run(ix, &c, deadline_ns);
		if (!err)
			err = dirword_check(ix, d[0]);
		if (err)
			return err;
		bytes = (size_t)8 << dirword_depth(d[0]);
		err = entries_reserve(ix, bytes);
		if (err)
			return err;
		c = (struct xport_chain){.n = 2};
		c.wr[0] = read_wr(dirword_off(d[0]), ix->entries, bytes);
		c.wr[1] = read_wr(REGION_D_OFF, &d[1], 8);
		err = chain_run(ix, &c, deadline_ns);
		if (err)
			return err;
		if (d[0] == d[1])
			break;
		if (index_now(ix) > deadline_ns)
			return FARKV_ETIMEDOUT;
		ix->retries++;
	}
	ix->dirword = d[0];
	return 0;
}

int index_open(const struct superblock *sb, struct xport_lane *lane,
	       struct alloc *alloc, uint64_t deadline_ns,
	       struct index **ix_out)
{
	struct index *ix = calloc(1, sizeof(*ix));
	int err = FARKV_ENOMEM;

	if (!ix)
		return err_set(err, "no memory for an index");
	ix->sb = *sb;
	ix->lane = lane;
	ix->alloc = alloc;
	ix->dir_scratch = xport_mem_alloc(lane, 64);
	if (!ix->dir_scratch) {
		err_set(err, "no memory for an index");
		goto err_free;
	}
	err = index_refill(ix, deadline_ns);
	if (err)
		goto err_free;
	*ix_out = ix;
	return 0;

err_free:
	index_close(ix);
	return err;
}

void index_close(struct index *ix)
{
	if (!ix)
		return;
	spare_drop(&ix->spare, ix->lane);
	xport_mem_free(ix->lane, ix->entries, ix->entries_bytes);
	xport_mem_free(ix->lane, ix->dir_scratch, 64);
	warm_free(ix->warm);
	free(ix);
}

void index_set_prefix(struct index *ix, uint32_t prefix)
{
	ix->versions.prefix = prefix;
	ix->versions.counter = 0;
}

void index_drop_cache(struct index *ix)
{
	ix->dirword = 0;
	if (ix->warm)
		warm_drop(ix->warm);
}

int index_remember(struct index *ix, size_t entries)
{
	if (entries == 0)
		return 0;
	ix->warm = warm_new(entries);
	if (!ix->warm)
		return err_set(FARKV_ENOMEM,
			       "no memory for a cache of %zu locations", entries);
	return 0;
}

int index_keep(struct index *ix, size_t bytes)
{
	if (!warm_keep(ix->warm, bytes))
		return err_set(FARKV_ENOMEM,
			       "no memory for a cache of %zu bytes of values", bytes);
	return 0;
}

struct location_counters index_remembered(const struct index *ix)
{
	return ix->warm ? *warm_counters(ix->warm) :
			  (struct location_counters){0};
}

uint64_t index_recent(const struct index *ix)
{
	return ix->recent_ns;
}

uint64_t index_retries(const struct index *ix)
{
	return ix->retries;
}

void index_set_clock(struct index *ix, uint64_t (*now)(void *arg), void *arg)
{
	ix->now = now;
	ix->now_arg = arg;
}

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

void index_abandon_spare(struct index *ix)
{
	ix->spare = (struct spare){.bytes = 0};
}

bool index_op_has_more(const struct index *ix, const struct index_op *op)
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
	/* It was too small; but where many take turns, others want such. */
	if (ix->buf_bytes > INDEX_BUFS_KEEP)
		give_back(ix, op->buf, op->buf_bytes);
	else
		xport_mem_free(ix->lane, op->buf, op->buf_bytes);
	ix->buf_bytes += want - op->buf_bytes;
	op->buf = p;
	op->buf_bytes = want;
	return 0;
}

void index_op_resume(struct index_op *op)
{
	op->resolving = op->unresolved || op->resolving;
	op->unresolved = false;
	op->result = INDEX_PENDING;
	op->wait = INDEX_WAIT_NONE;
	op->state = 0;
	op->tries = 0;
	op->posting = false;
	op->has_block = false; /* the old session's */
	op->written = NOT_WRITTEN;
	op->tomb_asked = false;
	op->bad_word = 0;
}

void index_abandon(struct index *ix, struct index_op *op, int err)
{
	uint8_t wait = op->wait;

	if (op->result != INDEX_PENDING)
		return;
	index_op_end(ix, op, err);
	op->wait = wait;
}
