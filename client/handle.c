/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/hash.h"

#include "atfork.h"

/* After an empty GRANT no blocks are requested in advance for this long. */
#define PREFETCH_PAUSE_NS (100 * NS_PER_MS)
/* Least time between two reports of the same nearly full subtable, ... */
#define HINT_PAUSE_NS (100 * NS_PER_MS)
/* ... and the time before its table entry is reused. */
#define HINT_KEEP_NS (10 * NS_PER_MS)

/* ---- counters ---------------------------------------------------------------------- */

static void requests_add(struct farkv_counters *sum, const struct xport_counters *c)
{
	sum->reads += c->reads;
	sum->writes += c->writes;
	sum->cas += c->cas;
	sum->read_bytes += c->read_bytes;
	sum->write_bytes += c->write_bytes;
	sum->doorbells += c->doorbells;
	sum->round_trips += c->round_trips;
	sum->registrations += c->registrations;
}

static void counters_add(struct farkv_counters *sum, const struct conn *l)
{
	struct location_counters seen = index_cache_counters(l->index);

	/* Loads and stores are not counted, and chains over mapped memory are few. */
	if (!(l->lane->caps & XPORT_DIRECT))
		requests_add(sum, &l->lane->counters);
	sum->retries += index_retries(l->index);
	sum->control_msgs += session_sent(l->session);
	sum->cache_hits += seen.hits;
	sum->cache_stale += seen.stale;
	sum->cache_misses += seen.misses;
	sum->cache_values += seen.values;
}

void handle_counters(const struct farkv *kv, struct farkv_counters *out)
{
	*out = kv->before;
	if (kv->conn.session)
		counters_add(out, &kv->conn);
}

void handle_counters_keep(struct farkv *kv)
{
	counters_add(&kv->before, &kv->conn);
}

/* ---- is the handle free? ------------------------------------------------------------------- */

bool handle_inherited(const struct farkv *kv)
{
	return kv->fork_gen != atfork_generation();
}

int handle_busy(const struct farkv *kv)
{
	if (handle_inherited(kv))
		return err_set(FARKV_EDISCONNECTED,
			       "handle was opened before fork(): a child must open handles "
			       "of its own");
	return err_set(FARKV_EINVAL,
		       "the handle is in use by another call: a handle belongs to one "
		       "thread at a time, give each its own");
}

/* ---- pending flags ----------------------------------------------------------------- */

void handle_pending(struct farkv *kv)
{
	uint32_t pending = qsbr_pending(kv->qsbr);

	if (!kv->conn.session)
		return;

	if (pending & PENDING_DROP) {
		qsbr_clear_pending(kv->qsbr, PENDING_DROP);
		kv->epoch++;
		index_drop_cache(kv->conn.index);
	}
	if (pending & (PENDING_GRANTS | PENDING_SWEEP | PENDING_RECLAIM))
		conn_handle_pending(&kv->conn);
}

/* ---- values that calls returned ---------------------------------------------------- */

void handle_drop_borrowed(struct farkv *kv)
{
	for (unsigned i = 0; i < 2; i++) {
		mapping_put(kv->borrowed[i]);
		kv->borrowed[i] = NULL;
	}
}

void handle_shrink_ops(struct farkv *kv, size_t n)
{
	for (size_t i = 0; kv->conn.index && i < kv->ops_used; i++)
		if (!index_op_is_minimal(&kv->ops[i]) &&
		    index_op_is_oversized(kv->conn.index, &kv->ops[i]) &&
		    (i >= n || !index_op_used_quarter(&kv->ops[i])))
			index_op_shrink(kv->conn.index, &kv->ops[i]);
}

void handle_release_batch(struct farkv *kv)
{
	arena_reset(&kv->arena);
	for (size_t i = 0; i < kv->ops_used; i++)
		index_op_release(kv->conn.index, &kv->ops[i]);
	handle_shrink_ops(kv, 0);
}

/* ---- arguments -------------------------------------------------------------------- */

int handle_key_refuse(const struct farkv *kv, const void *key, size_t len)
{
	const struct superblock *sb = kv->conn.sb;

	if (len == 0 || !key)
		return err_set(FARKV_EINVAL, len == 0 ?
			       "the key is empty; keys have 1 to %u bytes" :
			       "the key is NULL; keys have 1 to %u bytes",
			       sb->max_key);
	return err_set(FARKV_ETOOLARGE,
		       "the key has %zu bytes, this store takes at most %u", len,
		       sb->max_key);
}

int handle_value_refuse(const struct farkv *kv, const void *value, size_t len)
{
	if (len > 0 && !value)
		return err_set(FARKV_EINVAL,
			       "the value is NULL but has %zu bytes", len);
	return err_set(FARKV_ETOOLARGE,
		       "the value has %zu bytes, this store takes at most %llu "
		       "(kvserver --max-item-size)",
		       len, (unsigned long long)kv->conn.sb->max_value);
}

int handle_write_options(const struct farkv_write_options *o)
{
	if (!o)
		return 0;
	if (o->size != sizeof(*o))
		return err_set(FARKV_EINVAL,
			       "write options: size is %zu; set it to sizeof the struct",
			       o->size);
	if (o->flags)
		return err_set(FARKV_EINVAL, "write options: unknown flags 0x%x", o->flags);
	if (o->ttl_ms > FARKV_TTL_MAX_MS)
		return err_set(FARKV_EINVAL,
			       "write options: ttl_ms is %llu; at most %llu, and 0 is never",
			       (unsigned long long)o->ttl_ms,
			       (unsigned long long)FARKV_TTL_MAX_MS);
	return 0;
}

int handle_no_versions(void)
{
	return err_set(FARKV_ETIMEDOUT,
		       "the server gave no fresh version numbers in time; does it "
		       "run?");
}

bool handle_has_versions(struct farkv *kv)
{
	if (index_versions_left(kv->conn.index) >= HANDLE_VERSIONS)
		return true;
	conn_ask_prefix(&kv->conn, UINT32_MAX);
	return false;
}

int handle_not_allowed(const struct farkv *kv)
{
	return err_set(FARKV_EPERM,
		       "the handle is read-only%s%s",
		       kv->readonly ? "" :
		       kv->conn.writers[0] ?
				      ": the server's writers come by "
				      "RDMA, open " :
				      ": the server gave it no right "
				      "to write",
		       kv->readonly ? "" : kv->conn.writers);
}

/* ---- results ---------------------------------------------------------------------- */

void handle_look_at_lane(struct farkv *kv)
{
	if (kv->conn.session && xport_broken(kv->conn.lane))
		qsbr_set_pending(kv->qsbr, PENDING_BROKEN);
}

/* True for errors of the call itself, the same at every server. */
static bool is_call_error(int err)
{
	switch (err) {
	case FARKV_ENOTFOUND:
	case FARKV_EEXISTS:
	case FARKV_EVERSION:
	case FARKV_ETOOSMALL:
	case FARKV_EINVAL:
	case FARKV_ENOMEM:
		return true;
	default:
		return err >= 0;
	}
}

bool handle_is_away(int err)
{
	return err == FARKV_EUNREACHABLE || err == FARKV_ENOROUTE || err == FARKV_EDISCONNECTED ||
	       err == FARKV_ETIMEDOUT || err == FARKV_ELINKDOWN || err == FARKV_EREFUSED;
}

void handle_name_server(const struct farkv *kv, int err)
{
	char prefix[64];

	if (!kv->server_name || is_call_error(err))
		return;
	snprintf(prefix, sizeof(prefix), "server %s: ", kv->server_name);
	if (strncmp(err_detail(), prefix, strlen(prefix)) != 0)
		err_set(err, "%s%s", prefix, err_detail());
}

void handle_line(struct farkv *kv, int err)
{
	switch (err) {
	case FARKV_ENOTFOUND:
		err_set_plain(err);
		break;
	case FARKV_EEXISTS:
		err_set(err, "the key has a value already");
		break;
	case FARKV_EVERSION:
		err_set(err, "the value was written since it was read");
		break;
	case FARKV_EMAYBE:
		err_set(err, "the connection was lost in the middle of the "
			     "operation: it may have happened; read the key "
			     "again");
		break;
	case FARKV_EDISCONNECTED:
		if (kv->conn.session && (qsbr_pending(kv->qsbr) & PENDING_BROKEN))
			session_reason(kv->conn.session);
		else if (!kv->conn.session || !err_detail()[0])
			/* There may be a new connection; the error is about the last one. */
			err_set(err, "%s", kv->reason[0] ? kv->reason : err_str(err));
		break;
	case FARKV_ETIMEDOUT:
	case FARKV_ELINKDOWN:
		if (!kv->conn.session)
			err_set(err, "%s", kv->reason);
		else if (!err_detail()[0])
			err_set(err, "%s", err_str(err));
		break;
	default:
		if (!err_detail()[0])
			err_set(err, "%s", err_str(err));
	}
	handle_name_server(kv, err);
}

int handle_result(struct farkv *kv, int err)
{
	handle_look_at_lane(kv);
	handle_line(kv, err);
	/* A timeout or FARKV_EMAYBE does not show the caller that the store may be lost. */
	if (err == FARKV_EDISCONNECTED && (qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		kv->notified = true;
	return err;
}

/* ---- after a mutation ---------------------------------------------------------------- */

/* Tell the server early that a subtable is nearly full; a lost hint is repeated later. */
static void hint_near_full(struct farkv *kv, const struct index_op *op)
{
	struct msg m = {.type = MSG_HINT};
	uint64_t where = entry_pack(op->wait_page, op->wait_gen, 0);
	uint64_t now = clock_now_ns();
	struct handle_hint *h;

	if (!kv->hints)
		kv->hints = calloc(HANDLE_HINTS, sizeof(*kv->hints));
	if (!kv->hints)
		return;
	h = &kv->hints[op->wait_page % HANDLE_HINTS];
	if (now < h->at_ns +
			  (h->where == where ? HINT_PAUSE_NS : HINT_KEEP_NS))
		return;
	m.hint.page = op->wait_page;
	m.hint.gen = op->wait_gen;
	if (session_post(kv->conn.session, &m, NULL, 0) == 0)
		*h = (struct handle_hint){.where = where, .at_ns = now};
}

/*
 * Ask for blocks before they run out. Not after a handle's first write: a program that stores one
 * value should hold one block, and one more to overwrite it.
 */
static void prefetch(struct farkv *kv, uint8_t cls)
{
	if (kv->conn.denied[cls]) {
		kv->conn.denied[cls] = false;
		kv->prefetch_ns = clock_now_ns() + PREFETCH_PAUSE_NS;
	}
	if (kv->prefetch_ns) {
		if (clock_now_ns() < kv->prefetch_ns)
			return;
		kv->prefetch_ns = 0;
	}
	/* After a pause blocks have finished their grace period. */
	(void)conn_ask_blocks(&kv->conn, cls, clock_now_ns(), 0);
}

/* True if blocks may be lacking, as of the last clock reading. */
static bool may_lack_blocks(const struct farkv *kv, uint8_t cls)
{
	return kv->conn.denied[cls] || kv->conn.unsent[cls] ||
	       alloc_low(kv->conn.alloc, cls, index_recent(kv->conn.index), 0);
}

void handle_after_in_full(struct farkv *kv, const struct index_op *op)
{
	/* A new connection may have no right to write, and no blocks. */
	if (!kv->conn.session || kv->conn.readonly)
		return;
	if (op->near_full)
		hint_near_full(kv, op);
	if (!kind_deletes(op->kind) && kv->mutations > 1 &&
	    may_lack_blocks(kv, op->cls))
		prefetch(kv, op->cls);
	if (alloc_exhausted(kv->conn.alloc) > 0 || alloc_surplus_due(kv->conn.alloc))
		conn_return_surplus(&kv->conn);
	if (kv->mutations % HANDLE_HOUSEKEEPING == 0) {
		conn_return_surplus(&kv->conn);
		conn_ask_prefix(&kv->conn, kv->prefix_low);
	}
}
