/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broken connections: a handle makes a new one.
 *
 * A new connection to the same region goes unnoticed: reads are repeated, and a write with unknown
 * outcome is resolved (index_op_resume()). A different region means a restarted server: what the
 * caller knows of the store is lost, which is reported once.
 *
 * If one side ended the session for a reason of its own, the caller gets that reason once before
 * another connection is made.
 *
 * A thread makes the new connection (dial.h): calls wait for it, submitted requests do not block
 * their caller. Temporary errors are retried until the deadline of the call, or of the last
 * request; others (nobody listens, the server refuses) end it at once.
 */
#include "config.h"

#include "relink.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/probes.h"

#include "dial.h"
#include "queue_state.h"

/* After an attempt that found no server, calls fail without an attempt for this long. */
#define ABSENT_PAUSE_NS (100 * NS_PER_MS)

/* ---- up and down ---------------------------------------------------------------- */

static struct conn_order order(const struct farkv *kv)
{
	return (struct conn_order){
		.uri = &kv->uri,
		.name = kv->name,
		.readonly = kv->readonly,
		.last_id = kv->last_id,
		.last_region = {kv->last_region[0], kv->last_region[1]},
		.outlives = kv->outlives,
		.cache_entries = kv->cache_entries,
		.cache_bytes = kv->cache_bytes,
		.map = kv->map_id,
		.map_epoch = kv->map_epoch,
		.server = kv->server};
}

/* Make `l` the handle's connection. */
static void adopt(struct farkv *kv, const struct conn *l)
{
	kv->conn = *l;
	kv->epoch++;
	if (memcmp(kv->last_region, l->sb->region_id, sizeof(kv->last_region)) != 0)
		handle_drop_borrowed(kv);
	kv->qsbr = session_qsbr(kv->conn.session);
	buffers_attach(&kv->buffers, kv->conn.lane);
	kv->last_id = kv->conn.id;
	kv->outlives = kv->conn.outlives;
	memcpy(kv->last_region, kv->conn.sb->region_id,
	       sizeof(kv->last_region));
	if (kv->notifier)
		queue_event_attach(kv);
	kv->mutations = 0;
	kv->announced = kv->conn.map_epoch;
	if (kv->lease_ms)
		session_keep_lease(kv->conn.session, kv->lease_ms, &kv->routed);
}

/* Take the connection from the handle; the caller closes it. */
static struct conn take_conn(struct farkv *kv)
{
	struct conn old = kv->conn;

	if (!old.session)
		return old;
	handle_counters_keep(kv);
	index_op_fini(kv->conn.index, &kv->op);
	for (size_t i = 0; kv->ops && i < INDEX_RUN_MAX; i++)
		index_op_fini(kv->conn.index, &kv->ops[i]);
	if (kv->queue)
		queue_detach(kv);
	if (kv->notifier)
		queue_event_detach(kv);
	buffers_detach(&kv->buffers);
	memset(&kv->conn, 0, sizeof(kv->conn));
	kv->qsbr = &kv->closed;
	return old;
}

int relink_up(struct farkv *kv, uint64_t deadline_ns, struct clustermap **map_out)
{
	struct conn_order o = order(kv);
	struct conn l;
	int err;

	o.map_out = map_out;
	err = conn_make(&o, deadline_ns, &l);
	if (!err)
		adopt(kv, &l);
	return err;
}

void relink_down(struct farkv *kv)
{
	struct conn old = take_conn(kv);

	if (old.session)
		conn_close(&old);
}

bool relink_stop(struct farkv *kv, uint64_t until_ns)
{
	bool inherited = handle_inherited(kv), linked;
	struct conn l;

	linked = inherited ? dial_abandon(kv->dial, &l) :
			     dial_free(kv->dial, until_ns, &l);
	kv->dial = NULL;
	if (linked && inherited) {
		kv->conn = l; /* only to be closed */
		kv->qsbr = session_qsbr(l.session);
	} else if (linked) {
		adopt(kv, &l);
	}
	return linked;
}

/* Have a thread close the connection, if there is one, and make another until `until_ns`. */
static int dial(struct farkv *kv, uint64_t until_ns)
{
	struct conn old = take_conn(kv);
	struct conn_order o = order(kv);

	return dial_start(&kv->dial, &o, &old, until_ns);
}

static void note_reason(struct farkv *kv, const char *prefix)
{
	char text[sizeof(kv->reason)];

	snprintf(text, sizeof(text), "%s%s", prefix, err_detail());
	memcpy(kv->reason, text, sizeof(kv->reason));
}

/* ---- at the beginning of a call ---------------------------------------------------------- */

static bool same_region(const struct farkv *kv, const uint64_t before[2])
{
	return memcmp(kv->last_region, before, sizeof(kv->last_region)) == 0;
}

static int restarted(struct farkv *kv)
{
	err_set(FARKV_EDISCONNECTED,
		"the server at %s was started again: what was stored before is "
		"gone",
		kv->uri.shown);
	note_reason(kv, "");
	return FARKV_EDISCONNECTED;
}

static int absent(struct farkv *kv, uint64_t now)
{
	return err_set(FARKV_EDISCONNECTED,
		       "not connected to %s; the next attempt is due in %llu "
		       "ms",
		       kv->uri.shown,
		       (unsigned long long)((kv->next_attempt_ns - now) /
						    NS_PER_MS + 1));
}

/* The connection broke. 0 if another is being made; otherwise the error to report first. */
static int replace(struct farkv *kv, uint64_t until_ns)
{
	bool tells = !session_was_cut(kv->conn.session) && !kv->notified;
	int err;

	session_reason(kv->conn.session);
	note_reason(kv, "");
	kv->broke = true;
	err = dial(kv, tells ? 0 : until_ns);
	if (!tells)
		return err;
	kv->notified = true;
	return err_set(FARKV_EDISCONNECTED, "%s", kv->reason);
}

int relink_begin(struct farkv *kv, uint64_t until_ns)
{
	uint64_t now = clock_now_ns();

	if (kv->conn.session)
		return replace(kv, until_ns);
	kv->broke = false;
	if (dial_extend(kv->dial, until_ns))
		return 0;
	if (now < kv->next_attempt_ns)
		return absent(kv, now);
	return dial(kv, until_ns);
}

int relink_end(struct farkv *kv)
{
	uint64_t before[2] = {kv->last_region[0], kv->last_region[1]};
	struct conn l;
	int err = dial_take(kv->dial, &l);

	if (!err) {
		bool tell;

		adopt(kv, &l);
		PROBE1(reconnect, same_region(kv, before));
		tell = !kv->notified && !same_region(kv, before);
		kv->notified = false;
		kv->next_attempt_ns = 0;
		return tell ? restarted(kv) : 0;
	}
	if (!kv->broke)
		kv->next_attempt_ns = clock_now_ns() + ABSENT_PAUSE_NS;
	if (err == FARKV_ETIMEDOUT || err == FARKV_ENOMEM ||
	    err == FARKV_ELINKDOWN)
		return err;
	/* The reason of the break is more useful than "no server listens". */
	if (!kv->broke || kv->notified)
		note_reason(kv, "cannot reconnect: ");
	kv->notified = true;
	return err_set(FARKV_EDISCONNECTED, "%s", kv->reason);
}

/* An attempt that began earlier may have ended at a server without the current map. */
int relink(struct farkv *kv)
{
	for (;;) {
		int err = relink_begin(kv, kv->deadline_ns);

		if (err)
			return err;
		dial_wait(kv->dial, kv->deadline_ns);
		err = relink_end(kv);
		if (err || kv->conn.map_epoch >= kv->map_epoch)
			return err;
		relink_down(kv);
	}
}

/* ---- in the middle of a call ------------------------------------------------------------ */

/* True if the break left this operation without its result, or its value. */
static bool is_affected(const struct index_op *op)
{
	return op->result == INDEX_PENDING ||
	       op->result == FARKV_EDISCONNECTED ||
	       (op->result == FARKV_EMAYBE && op->doubt == DOUBT_OPEN) ||
	       (op->result == 0 && op->kind == INDEX_GET);
}

bool relink_needed(const struct farkv *kv, struct index_op *const *ops, size_t n)
{
	if (!xport_broken(kv->conn.lane) &&
	    !(qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		return false;
	for (size_t i = 0; i < n; i++)
		if (ops[i]->result == FARKV_EDISCONNECTED ||
		    (ops[i]->result == FARKV_EMAYBE && ops[i]->doubt == DOUBT_OPEN))
			return true;
	return false;
}

/* Abandon the operations with the old connection, and save the reason of its end. */
static void abandon_all(struct farkv *kv, struct index_op *const *ops, size_t n)
{
	if (qsbr_pending(kv->qsbr) & PENDING_BROKEN)
		session_reason(kv->conn.session);
	else
		err_set(FARKV_EDISCONNECTED, "%s",
			err_detail()[0] ? err_detail() :
					  "the connection to the server broke");
	note_reason(kv, "");
	for (size_t i = 0; i < n; i++)
		if (ops[i]->result == INDEX_PENDING)
			index_abandon(kv->conn.index, ops[i],
				      FARKV_EDISCONNECTED);
}

/*
 * There is no connection to the store of these operations: end those that the break affected, and
 * drop what handle_after() would send to its server.
 */
static void give_up(struct farkv *kv, struct index_op *const *ops, size_t n,
		    int err)
{
	if (err != FARKV_ETIMEDOUT && err != FARKV_ELINKDOWN)
		err = FARKV_EDISCONNECTED;
	else
		note_reason(kv, "");
	kv->notified = false;
	for (size_t i = 0; i < n; i++) {
		ops[i]->near_full = false;
		ops[i]->cls = 0;
		if (!is_affected(ops[i]) || ops[i]->result == FARKV_EMAYBE)
			continue;
		ops[i]->result = err;
		ops[i]->wait = INDEX_WAIT_NONE;
		/* A new connection ends this break, and the next one will be reported. */
		kv->notified = err == FARKV_EDISCONNECTED && !kv->conn.session;
	}
}

/*
 * Enter the new session's critical section. True if it has answered a barrier already: words that
 * operations remember from the lost connection may have recurred.
 */
static bool enter_again(struct farkv *kv)
{
	bool dropped;

	if (qsbr_enter(kv->qsbr))
		return false;
	dropped = qsbr_pending(kv->qsbr) & PENDING_DROP;
	handle_pending(kv);
	return dropped;
}

bool relink_ops_begin(struct farkv *kv, struct index_op *const *ops, size_t n,
		      uint64_t until_ns)
{
	bool cut = session_was_cut(kv->conn.session);

	/* Still inside the old critical section: the lost session acknowledges no barrier now. */
	abandon_all(kv, ops, n);
	kv->broke = true;
	return dial(kv, cut ? until_ns : 0) == 0 && cut;
}

bool relink_ops_end(struct farkv *kv, struct index_op *const *ops, size_t n, bool dialled)
{
	uint64_t before[2] = {kv->last_region[0], kv->last_region[1]};
	int err = FARKV_EDISCONNECTED;
	struct conn l;
	bool same, stale;

	if (dialled)
		err = dial_take(kv->dial, &l);
	if (!err)
		adopt(kv, &l);
	same = !err && same_region(kv, before);
	stale = enter_again(kv) || kv->conn.swept;
	if (!same) {
		if (!err)
			(void)restarted(kv);
		give_up(kv, ops, n, err);
		return false;
	}
	kv->notified = false;
	for (size_t i = 0; i < n; i++) {
		if (stale && ops[i]->doubt == DOUBT_OPEN)
			ops[i]->doubt = DOUBT_NONE;
		if (is_affected(ops[i]))
			index_op_resume(ops[i]);
	}
	return true;
}

bool relink_ops(struct farkv *kv, struct index_op *const *ops, size_t n)
{
	bool dialled = relink_ops_begin(kv, ops, n, kv->deadline_ns);

	if (dialled)
		dial_wait(kv->dial, kv->deadline_ns);
	return relink_ops_end(kv, ops, n, dialled);
}
