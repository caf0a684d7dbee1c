/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "call.h"

#include "common/base/clock.h"
#include "common/base/err.h"

#include "queue.h"
#include "relink.h"
#include "wait.h"

/* ---- begin ------------------------------------------------------------------------- */

/*
 * qsbr_enter() failed and the critical section was left: handle all pending flags, and reconnect if
 * needed. Errors as handle_begin().
 */
static int handle_pending_flags(struct farkv *kv)
{
	if (handle_inherited(kv))
		return handle_busy(kv);
	if (!kv->conn.session || (qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		return relink(kv);
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

/*
 * The fast path did not enter: handle pending flags until the handle can enter, or the call must
 * fail.
 */
static int enter_retry(struct farkv *kv)
{
	err_clear();
	do {
		int err;

		qsbr_leave(kv->qsbr);
		handle_need_clock(kv);
		err = handle_pending_flags(kv);
		if (err) {
			handle_name_server(kv, err);
			atom_store_relaxed(&kv->busy, false);
			return err;
		}
	} while (!qsbr_enter(kv->qsbr));
	return 0;
}

int handle_enter_slow(struct farkv *kv)
{
	if (handle_is_busy(kv))
		return handle_busy(kv);
	if (kv->router)
		return HANDLE_CLUSTER;
	atom_store_relaxed(&kv->busy, true);
	kv->deadline_ns = 0;
	if (kv->queued) {
		err_clear();
		queue_settle(kv);
		kv->deadline_ns = 0;
	}
	return qsbr_enter(kv->qsbr) ? 0 : enter_retry(kv);
}

void handle_end_in_full(struct farkv *kv)
{
	bool timed = kv->timed;

	if (kv->polled || kv->batched)
		queue_release(kv);
	/* The requests had ended when the call began. */
	handle_end_at_once(kv);
	kv->timed = timed;
}

/* Enter again, and handle what has become pending: no other code here does. */
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

/* ---- before a write ------------------------------------------------------------------ */

/* No write has begun: continue on the next connection, if it leads to the same store. */
static int reconnect(struct farkv *kv)
{
	int err;

	qsbr_leave(kv->qsbr);
	err = handle_pending_flags(kv);
	enter_slow(kv);
	return err;
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

/* No version is left except the reserve: wait for a version prefix. */
int handle_not_writable(struct farkv *kv)
{
	int err = 0;

	handle_need_clock(kv);
	while (!err && !handle_writable_at_once(kv)) {
		if (kv->conn.readonly)
			return handle_not_allowed(kv);
		conn_ask_prefix(&kv->conn, UINT32_MAX);
		handle_pause(kv);
		if (qsbr_pending(kv->qsbr) & PENDING_BROKEN)
			err = reconnect(kv);
		else if (!handle_writable_at_once(kv))
			err = await_grants(kv);
	}
	return err;
}

/* ---- run ------------------------------------------------------------------------------ */

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
		/*
		 * Inside the critical section: what an interrupted write remembers is valid only
		 * while its session has answered no barrier.
		 */
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
		/*
		 * The results do not depend on the end of the connection, which the next call
		 * reports.
		 */
		if ((qsbr_pending(kv->qsbr) & PENDING_BROKEN) &&
		    any_pending(ops, n) && !relink_ops(kv, ops, n))
			return;
	}
}
