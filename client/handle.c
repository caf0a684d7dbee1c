/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/hash.h"

#include "atfork.h"
#include "queue.h"
#include "relink.h"
#include "wait.h"
#include "notifier.h"

#define FAREWELL_NS NS_PER_SEC
/* After an empty GRANT no blocks are requested in advance for this long. */
#define PREFETCH_PAUSE_NS (100 * NS_PER_MS)
/* Least time between two reports of the same nearly full subtable, ... */
#define HINT_PAUSE_NS (100 * NS_PER_MS)
/* ... and how long its table entry is not reused for another. */
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
	struct location_counters seen = index_remembered(l->index);

	/* Loads and stores are not counted as requests, and chains over mapped memory are few. */
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

/* ---- open and close ---------------------------------------------------------------- */

static int text_set(char *to, size_t cap, const char *from, const char *what)
{
	if (!from || !*from)
		return 0;
	if (strlen(from) >= cap)
		return err_set(FARKV_EINVAL, "%s is too long", what);
	strcpy(to, from);
	return 0;
}

/* Precedence: the program's options, the address, the environment. */
static int credentials_set(struct uri *u, const struct farkv_options *opts)
{
	int err = 0;

	if (!u->keys[0])
		err = text_set(u->keys, sizeof(u->keys), getenv("FARKV_KEYS"),
			       "$FARKV_KEYS");
	if (!err)
		err = text_set(u->keys, sizeof(u->keys), opts->keys, "keys");
	if (!err)
		err = text_set(u->key, sizeof(u->key), opts->key, "key");
	if (!err && u->key[0] && !u->keys[0])
		err = err_set(FARKV_EINVAL,
			      "the key '%s' is named, but no file that holds it; "
			      "give one by keys=FILE or $FARKV_KEYS",
			      u->key);
	return err;
}

int handle_open(const struct uri *uri, const struct farkv_options *opts,
		struct farkv **kv_out)
{
	struct farkv *kv;
	int err;

	err = atfork_init();
	if (err)
		return err;
	kv = calloc(1, sizeof(*kv));
	if (!kv)
		return err_set(FARKV_ENOMEM, "no memory for a handle");
	kv->uri = *uri;
	err = credentials_set(&kv->uri, opts);
	if (err) {
		free(kv);
		return err;
	}
	kv->op_timeout_ns = opts->op_timeout_ms * NS_PER_MS;
	kv->farewell_ns = FAREWELL_NS;
	kv->cache_entries = opts->cache_entries;
	kv->cache_bytes = opts->cache_bytes;
	kv->queue_depth = opts->queue_depth;
	kv->readonly = (opts->flags & FARKV_OPEN_READONLY) != 0;
	snprintf(kv->name, sizeof(kv->name), "%s",
		 opts->name ? opts->name : program_invocation_short_name);
	kv->prefix_low = UINT32_MAX / 2;
	kv->fork_gen = atfork_generation();
	kv->closed.pending = PENDING_BROKEN;
	kv->qsbr = &kv->closed;
	index_op_init(&kv->op);
	err = relink_up(kv, clock_now_ns() +
				    opts->connect_timeout_ms * NS_PER_MS);
	if (err) {
		free(kv);
		return err;
	}
	opened_add(&kv->opened);
	*kv_out = kv;
	return 0;
}

bool handle_inherited(const struct farkv *kv)
{
	return kv->fork_gen != atfork_generation();
}

static int inherited(void)
{
	return err_set(FARKV_EDISCONNECTED,
		       "handle was opened before fork(): a child must open handles "
		       "of its own");
}

int handle_busy(const struct farkv *kv)
{
	if (handle_inherited(kv))
		return inherited();
	return err_set(FARKV_EINVAL,
		       "the handle is in use by another call: a handle belongs to one "
		       "thread at a time, give each its own");
}

/* True if the handle may be closed; otherwise logs the reason. */
static bool may_close(struct farkv *kv)
{
	if (!opened_remove(&kv->opened)) {
		err_set(FARKV_EINVAL,
			"farkv_close: the handle is not open; was it closed before?");
		return false;
	}
	if (!handle_is_busy(kv))
		return true;
	/* In a child another thread of the parent may have been using the handle: its state
	 * is unknown. */
	if (handle_busy(kv) == FARKV_EINVAL)
		opened_add(&kv->opened);
	return false;
}

static void close_handle(struct farkv *kv)
{
	bool inherited = handle_inherited(kv);
	uint64_t until = clock_now_ns() + kv->farewell_ns;

	if (!inherited)
		queue_finish(kv);
	(void)relink_stop(kv, until);
	handle_look_at_lane(kv);
	if (!inherited && kv->conn.session &&
	    !(qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		(void)conn_farewell(&kv->conn, until);
	arena_fini(&kv->arena);
	if (inherited && kv->conn.session && !(kv->conn.lane->caps & XPORT_DIRECT))
		index_abandon_spare(kv->conn.index);
	relink_down(kv);
	if (inherited)
		buffers_abandon(&kv->buffers);
	else
		buffers_fini(&kv->buffers);
	queue_free(kv->queue);
	notifier_free(kv->notifier);
	free(kv->ops);
	free(kv->hints);
	free(kv);
}

void handle_close(struct farkv *kv)
{
	if (may_close(kv))
		close_handle(kv);
}

/* ---- begin ----------------------------------------------------------------------- */

void handle_pending(struct farkv *kv)
{
	uint32_t pending = qsbr_pending(kv->qsbr);

	if (!kv->conn.session)
		return;

	if (pending & PENDING_DROP) {
		qsbr_clear_pending(kv->qsbr, PENDING_DROP);
		index_drop_cache(kv->conn.index);
	}
	if (pending & (PENDING_GRANTS | PENDING_SWEEP | PENDING_RECLAIM))
		conn_handle_pending(&kv->conn);
}

void handle_tidy(struct farkv *kv)
{
	if (!(qsbr_pending(kv->qsbr) & PENDING_TIDY))
		return;
	qsbr_clear_pending(kv->qsbr, PENDING_TIDY);
	arena_reset(&kv->arena);
	for (size_t i = 0; kv->ops && i < INDEX_RUN_MAX; i++)
		if (index_op_has_more(kv->conn.index, &kv->ops[i]) &&
		    (i >= kv->n_next || !index_op_used_it(&kv->ops[i])))
			index_op_shrink(kv->conn.index, &kv->ops[i]);
}

int handle_let_in(struct farkv *kv)
{
	if (handle_inherited(kv))
		return inherited();
	if (!kv->conn.session || (qsbr_pending(kv->qsbr) & PENDING_BROKEN)) {
		arena_reset(&kv->arena);
		return relink(kv);
	}
	handle_tidy(kv);
	handle_pending(kv);
	return 0;
}

uint64_t handle_start_clock(struct farkv *kv)
{
	uint64_t now = clock_now_ns();

	kv->deadline_ns = now + kv->op_timeout_ns;
	return now;
}

void handle_need_clock(struct farkv *kv)
{
	if (!kv->deadline_ns)
		(void)handle_start_clock(kv);
}

int handle_begin(struct farkv *kv)
{
	int err = handle_enter(kv);

	if (err)
		return err;
	err_clear();
	handle_need_clock(kv);
	return 0;
}

/* The fast path did not enter: handle what is pending until it can, or the call must fail. */
static int enter_anyhow(struct farkv *kv)
{
	err_clear();
	do {
		int err;

		qsbr_leave(kv->qsbr);
		handle_need_clock(kv);
		err = handle_let_in(kv);
		if (err) {
			atom_store_relaxed(&kv->busy, false);
			return err;
		}
	} while (!qsbr_enter(kv->qsbr));
	return 0;
}

int handle_enter_otherwise(struct farkv *kv)
{
	if (handle_is_busy(kv))
		return handle_busy(kv);
	atom_store_relaxed(&kv->busy, true);
	kv->deadline_ns = 0;
	if (kv->queued) {
		err_clear();
		queue_settle(kv);
		kv->deadline_ns = 0;
	}
	return qsbr_enter(kv->qsbr) ? 0 : enter_anyhow(kv);
}

/* Enter again, and handle what has become pending: no other code would here. */
static void enter_slow(struct farkv *kv)
{
	if (!qsbr_enter(kv->qsbr))
		handle_pending(kv);
}

void handle_pause(struct farkv *kv)
{
	qsbr_leave(kv->qsbr);
	enter_slow(kv);
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

/* No write has begun: continue on the next connection, if it leads to the same store. */
static int connect_anew(struct farkv *kv)
{
	int err;

	qsbr_leave(kv->qsbr);
	err = handle_let_in(kv);
	enter_slow(kv);
	return err;
}

static int not_allowed(const struct farkv *kv)
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

static int await_grants(struct farkv *kv)
{
	if (clock_now_ns() >= kv->deadline_ns)
		return handle_no_versions();
	qsbr_leave(kv->qsbr);
	session_wait(kv->conn.session, kv->deadline_ns);
	enter_slow(kv);
	return 0;
}

/* A writer waits for a version prefix: all but the reserve is used up. */
int handle_not_writable(struct farkv *kv)
{
	int err = 0;

	handle_need_clock(kv);
	while (!err && !handle_writable_at_once(kv)) {
		if (kv->conn.readonly)
			return not_allowed(kv);
		conn_ask_prefix(&kv->conn, UINT32_MAX);
		handle_pause(kv);
		if (qsbr_pending(kv->qsbr) & PENDING_BROKEN)
			err = connect_anew(kv);
		else if (!handle_writable_at_once(kv))
			err = await_grants(kv);
	}
	return err;
}

/* ---- run -------------------------------------------------------------------------- */

static bool any_pending(struct index_op *const *ops, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ops[i]->result == INDEX_PENDING)
			return true;
	return false;
}

void handle_run(struct farkv *kv, struct index_op *const *ops, size_t n,
		uint64_t began_ns)
{
	struct wait_state w = {0};

	for (;; began_ns = 0) {
		index_run(kv->conn.index, ops, n, began_ns, kv->deadline_ns);
		/* Inside the critical section: what a lost write remembers is valid only
		 * while its session has answered no barrier. */
		if (relink_needed(kv, ops, n)) {
			if (!relink_ops(kv, ops, n))
				return;
			continue;
		}
		if (!any_pending(ops, n))
			return;
		qsbr_leave(kv->qsbr);
		handle_wait(kv, ops, n, &w);
		if (qsbr_enter(kv->qsbr))
			continue;
		handle_pending(kv);
		/* The results do not depend on the connection's end: the next call
		 * reports that. */
		if ((qsbr_pending(kv->qsbr) & PENDING_BROKEN) &&
		    any_pending(ops, n) && !relink_ops(kv, ops, n))
			return;
	}
}

void handle_look_at_lane(struct farkv *kv)
{
	if (kv->conn.session && xport_broken(kv->conn.lane))
		qsbr_set_pending(kv->qsbr, PENDING_BROKEN);
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
			/* there may be a new connection; this was the last one's end */
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
}

int handle_result(struct farkv *kv, int err)
{
	handle_look_at_lane(kv);
	handle_line(kv, err);
	/* A timeout or FARKV_EMAYBE does not tell the caller that the store may be gone. */
	if (err == FARKV_EDISCONNECTED && (qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		kv->notified = true;
	return err;
}

/* ---- after a mutation ---------------------------------------------------------------- */

/* Tell the server early that a subtable fills up; a lost hint is repeated later. */
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
	if (session_send(kv->conn.session, &m, NULL, 0) == 0)
		*h = (struct handle_hint){.where = where, .at_ns = now};
}

/*
 * Ask for blocks before they run out. Not after a handle's first write: a program that stores
 * one value should hold one block, and one more to overwrite it.
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

/* As far as known at the last reading of the clock. */
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
	if (op->kind != INDEX_DELETE && kv->mutations > 1 &&
	    may_lack_blocks(kv, op->cls))
		prefetch(kv, op->cls);
	if (alloc_exhausted(kv->conn.alloc) > 0 || alloc_surplus_due(kv->conn.alloc))
		conn_return_surplus(&kv->conn);
	if (kv->mutations % HANDLE_HOUSEKEEPING == 0) {
		conn_return_surplus(&kv->conn);
		conn_ask_prefix(&kv->conn, kv->prefix_low);
	}
}
