/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks never leave the allocator: it holds them as free ones, so that sweeps and RECLAIM
 * treat them like a handle's. Both happen only outside of the critical section, so each begin
 * checks whether the blocks are still there.
 */
#include "config.h"

#include "raw.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/block.h"

#include "open.h"

/* Requests use this many blocks in turn, so that no two of a batch use the same one. */
#define BLOCKS 512u
#define BLOCKS_BYTES (UINT64_C(4) << 20)
/* Empty polls between two readings of the clock. */
#define POLLS_BETWEEN_CLOCKS 4096u

struct target {
	uint64_t off;
	uint64_t word; /* its current first 8 bytes */
};

struct raw {
	struct farkv *kv;
	struct xport_lane *lane;
	uint64_t timeout_ns;
	uint8_t cls;
	uint32_t read_bytes, write_bytes;
	uint64_t window_last; /* offset of the region's last window */
	uint8_t *into;        /* lane memory: the bytes of RAW_BATCH READs, ... */
	size_t into_stride;   /* ... at this distance */
	uint8_t *image;       /* lane memory: the block to write */
	uint64_t image_word;  /* its first 8 bytes */
	struct target target[BLOCKS];
	size_t n_targets, next;
	uint32_t held; /* blocks of the class when `target` was set */
	bool fresh;    /* the targets have not been written yet */
	struct xport_chain chain[RAW_BATCH];
};

/* ---- requests -------------------------------------------------------------------- */

static struct target *next_target(struct raw *r)
{
	struct target *t = &r->target[r->next];

	if (++r->next == r->n_targets)
		r->next = 0;
	return t;
}

static void add_read(struct raw *r, size_t i, uint64_t off, uint32_t bytes)
{
	struct xport_chain *c = &r->chain[i];

	c->wr[c->n++] = (struct xport_wr){.opcode = XPORT_READ,
					  .off = off,
					  .len = bytes,
					  .laddr = r->into + i * r->into_stride};
}

static void add_write(struct raw *r, size_t i)
{
	struct xport_chain *c = &r->chain[i];
	struct target *t = next_target(r);

	t->word = r->image_word;
	c->wr[c->n++] = (struct xport_wr){.opcode = XPORT_WRITE,
					  .off = t->off,
					  .len = r->write_bytes,
					  .laddr = r->image};
}

/* A CAS in a block that was written long ago, like a PUT's CAS in a shared line. */
static void add_cas(struct raw *r, size_t i)
{
	struct xport_chain *c = &r->chain[i];
	struct target *t =
		&r->target[(r->next + r->n_targets / 2) % r->n_targets];

	c->wr[c->n++] = (struct xport_wr){.opcode = XPORT_CAS,
					  .off = t->off,
					  .len = 8,
					  .expect = t->word,
					  .swap = t->word + 1};
	t->word++;
}

static void fill(struct raw *r, enum raw_kind kind, size_t i)
{
	r->chain[i].n = 0;
	switch (kind) {
	case RAW_CHASE: /* its first half */
		add_read(r, i, UTIL_MIN(next_target(r)->off, r->window_last),
			 WINDOW_BYTES);
		break;
	case RAW_READ:
		add_read(r, i, next_target(r)->off, r->read_bytes);
		break;
	case RAW_WRITE:
		add_write(r, i);
		break;
	case RAW_CAS:
		add_cas(r, i);
		(void)next_target(r);
		break;
	case RAW_PUT:
		add_write(r, i);
		add_cas(r, i);
	}
}

/* Adds the lane's own error line, if there is one. */
static int failed(int err)
{
	const char *reason = err_detail();

	return err_set(err, "a raw request failed: %s%s%s", err_str(err),
		       reason[0] ? ": " : "", reason);
}

/* Post the first `n` chains with one doorbell and wait for them. */
static int carry_out(struct raw *r, size_t n)
{
	struct xport_chain *last = &r->chain[n - 1];
	uint64_t until = 0;
	unsigned idle = 0;
	bool late = false;
	int err;

	for (size_t i = 0; i < n; i++)
		r->chain[i].next = i + 1 < n ? &r->chain[i + 1] : NULL;
	err = xport_post(r->lane, r->chain);
	while (!err && !last->done) {
		xport_poll(r->lane);
		if (last->done || ++idle % POLLS_BETWEEN_CLOCKS != 0)
			continue;
		if (!until)
			until = clock_now_ns() + r->timeout_ns;
		else if ((late = clock_now_ns() > until))
			xport_break(r->lane, FARKV_ETIMEDOUT);
	}
	for (size_t i = 0; i < n && !err; i++)
		err = r->chain[i].status;
	return err ? failed(late ? FARKV_ETIMEDOUT : err) : 0;
}

static int swapped(const struct raw *r, size_t i)
{
	const struct xport_chain *c = &r->chain[i];
	const struct xport_wr *wr = &c->wr[c->n - 1];

	if (wr->opcode != XPORT_CAS || wr->found == wr->expect)
		return 0;
	return err_set(FARKV_ECORRUPT,
		       "a block of this session was written by another client");
}

/* ---- blocks ---------------------------------------------------------------------- */

/* Ask for blocks and wait until some arrive. Outside of the critical section. */
static int ask(struct raw *r, uint64_t until)
{
	struct conn *l = &r->kv->conn;
	uint32_t want = (uint32_t)UTIL_MIN(
		BLOCKS, UTIL_MAX(BLOCKS_BYTES / class_bytes(r->cls), 2u));
	int err = 0;

	l->denied[r->cls] = false;
	inventory_lock(l->inv);
	if (!alloc_asking(l->alloc, r->cls) && !session_grants_out(l->session)) {
		l->unsent[r->cls] = want;
		err = conn_ask_blocks(l, r->cls, clock_now_ns(), 0);
	}
	inventory_unlock(l->inv);
	if (err && err != FARKV_ETIMEDOUT)
		return err;
	/* If the socket is full nothing was requested. */
	if (err)
		session_wait_room(l->session, until);
	else
		session_wait(l->session, until);
	if (qsbr_pending(r->kv->qsbr) & PENDING_BROKEN)
		return session_reason(l->session);
	handle_pending(r->kv);
	if (l->denied[r->cls])
		return err_set(FARKV_ENOSPC,
			       "the region has no memory left for blocks of %llu "
			       "bytes that are to be written to; start kvserver "
			       "with a larger --memory",
			       (unsigned long long)class_bytes(r->cls));
	if (clock_now_ns() > until)
		return err_set(FARKV_ETIMEDOUT,
			       "the server granted no blocks in time");
	return 0;
}

static void look_where(struct raw *r)
{
	struct conn *l = &r->kv->conn;

	inventory_lock(l->inv);
	r->held = alloc_count(l->alloc, r->cls);
	r->n_targets = UTIL_MIN(r->held, BLOCKS);
	for (size_t i = 0; i < r->n_targets; i++)
		r->target[i].off =
			alloc_peek(l->alloc, r->cls, (uint32_t)i);
	inventory_unlock(l->inv);
	r->next = 0;
	r->fresh = true;
}

/* Handle pending flags and find at least two blocks. Outside of the critical section. */
static int settle(struct raw *r)
{
	uint64_t until = clock_now_ns() + r->timeout_ns;

	if (qsbr_pending(r->kv->qsbr) & PENDING_BROKEN)
		return session_reason(r->kv->conn.session);
	handle_pending(r->kv);
	look_where(r);
	while (r->n_targets < 2) {
		int err = ask(r, until);

		if (err)
			return err;
		look_where(r);
	}
	return 0;
}

/* Write the image to every block. */
static int write_all(struct raw *r)
{
	int err = 0;

	for (size_t i = 0; i < r->n_targets && !err; i++) {
		fill(r, RAW_WRITE, 0);
		err = carry_out(r, 1);
	}
	r->fresh = err != 0;
	return err;
}

/* True if the session still has its blocks. Inside the critical section. */
static bool still_there(const struct raw *r)
{
	return r->n_targets >= 2 &&
	       alloc_count(r->kv->conn.alloc, r->cls) == r->held;
}

static void leave(struct raw *r)
{
	handle_look_at_lane(r->kv);
	qsbr_leave(r->kv->qsbr);
}

/* Begin, as an operation does; after success leave() must follow. */
static int enter(struct raw *r)
{
	int err;

	err_clear();
	while (!qsbr_enter(r->kv->qsbr) || !still_there(r)) {
		qsbr_leave(r->kv->qsbr);
		err = settle(r);
		if (err)
			return err;
	}
	err = r->fresh ? write_all(r) : 0;
	if (err)
		leave(r);
	return err;
}

/* The second half of RAW_CHASE: READ the block. */
static int chase(struct raw *r)
{
	int err = carry_out(r, 1);

	if (err)
		return err;
	fill(r, RAW_READ, 0);
	return carry_out(r, 1);
}

int raw_together(struct raw *r, enum raw_kind kind, size_t n)
{
	int err = enter(r);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		fill(r, kind, i);
	err = carry_out(r, n);
	for (size_t i = 0; i < n && !err; i++)
		err = swapped(r, i);
	leave(r);
	return err;
}

/* At most a batch at a time, so that barriers and sweeps do not wait longer. */
static int run_some(struct raw *r, enum raw_kind kind, size_t n)
{
	int err = enter(r);

	if (err)
		return err;
	for (size_t i = 0; i < n && !err; i++) {
		fill(r, kind, 0);
		err = kind == RAW_CHASE ? chase(r) : carry_out(r, 1);
		if (!err)
			err = swapped(r, 0);
	}
	leave(r);
	return err;
}

int raw_run(struct raw *r, enum raw_kind kind, size_t n)
{
	int err = 0;

	for (size_t k; n > 0 && !err; n -= k) {
		k = UTIL_MIN(n, (size_t)RAW_BATCH);
		err = run_some(r, kind, k);
	}
	return err;
}

/* ---- open and close ---------------------------------------------------------------- */

static int buffers_open(struct raw *r)
{
	r->into = xport_mem_alloc(r->lane, RAW_BATCH * r->into_stride);
	r->image = xport_mem_alloc(r->lane, r->write_bytes);
	if (!r->into || !r->image)
		return err_set(FARKV_ENOMEM, "no memory for raw requests");
	memset(r->image, 0x5a, r->write_bytes);
	memcpy(&r->image_word, r->image, sizeof(r->image_word));
	return 0;
}

static int may_write(const struct raw *r)
{
	if (!r->kv->conn.readonly)
		return 0;
	return err_set(FARKV_EPERM,
		       "%s: this session may only read, and the limit of writing "
		       "is measured too: give a key of the role rw",
		       r->kv->uri.shown);
}

int raw_open(const struct raw_spec *spec, struct raw **r_out)
{
	struct farkv_options o = {
		.size = sizeof(o),
		.connect_timeout_ms = (uint32_t)(spec->timeout_ns / NS_PER_MS),
		.op_timeout_ms = (uint32_t)(spec->timeout_ns / NS_PER_MS),
		.name = spec->name};
	uint64_t room = block_room(spec->key_len, spec->value_len);
	struct raw *r = calloc(1, sizeof(*r));
	struct uri where;
	int err;

	if (!r)
		return err_set(FARKV_ENOMEM, "no memory for raw requests");
	err = uri_resolve(spec->uri, &where);
	if (!err)
		err = handle_open(&where, &o, &r->kv);
	if (err) {
		free(r);
		return err;
	}
	r->lane = r->kv->conn.lane;
	r->timeout_ns = spec->timeout_ns;
	r->cls = (uint8_t)class_for(room);
	r->read_bytes = (uint32_t)class_bytes(r->cls);
	r->write_bytes = (uint32_t)room;
	r->window_last = r->kv->conn.sb->region_bytes - WINDOW_BYTES;
	r->into_stride = UTIL_MAX(r->read_bytes, WINDOW_BYTES);
	err = may_write(r);
	if (!err)
		err = buffers_open(r);
	if (!err)
		err = enter(r);
	if (err) {
		raw_close(r);
		return err;
	}
	leave(r);
	*r_out = r;
	return 0;
}

void raw_close(struct raw *r)
{
	if (!r)
		return;
	xport_mem_free(r->lane, r->into, RAW_BATCH * r->into_stride);
	xport_mem_free(r->lane, r->image, r->write_bytes);
	handle_close(r->kv);
	free(r);
}
