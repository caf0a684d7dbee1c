/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests are driven: begun inside the critical section, advanced by the op queue, put aside
 * while they wait, and moved to a new connection when the lane breaks.
 */
#include "config.h"

#include "queue_turn.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/index/try.h"

#include "relink.h"

/* Stages per poll: more than an operation needs without contention. */
#define STAGES_PER_POLL 8
/* Times that a poll leaves the critical section to handle pending flags. */
#define ROUNDS_PER_POLL 4
/* How long the server's denial of earlier requests counts for new ones. */
#define DENIALS_NS (10 * NS_PER_MS)

/* ---- ends -------------------------------------------------------------------------- */

void queue_keep_line(struct request *r)
{
	/* Out of memory: the completion gets the error's general text. */
	free(r->line);
	r->line = strdup(err_detail());
}

/* Errors that are too frequent for a text of their own. */
static bool is_plain(int err)
{
	return err == FARKV_ENOTFOUND || err == FARKV_EEXISTS ||
	       err == FARKV_EVERSION;
}

/* The text that the synchronous function would give; the thread's line may be another request's. */
static void note_reason(struct farkv *kv, struct request *r)
{
	int err = r->op.result;
	bool alone = (kv->queue->dialling || !kv->conn.session) && err == FARKV_ETIMEDOUT;
	struct index_key key;

	if (is_plain(err))
		return;
	err_clear();
	if (alone)
		err_set(err, "the deadline passed without a connection to %s: %s",
			kv->uri.shown, kv->reason);
	else if (r->parked && err == FARKV_ETIMEDOUT)
		handle_no_versions();
	else if (r->begun && err == FARKV_ECORRUPT && r->op.damage)
		err_set(err, "stored data is damaged: %s", r->op.damage);
	else if (r->begun)
		(void)handle_waited(kv, &r->op, err);
	else if (kv->conn.session && queue_check(kv, r, &key) != err)
		err_clear();
	if (!alone)
		handle_line(kv, err);
	handle_name_server(kv, err);
	queue_keep_line(r);
}

static void finish(struct farkv *kv, struct request *r)
{
	if (kv->queue->inside)
		handle_count(kv, r->op.kind, r->op.result, 1);
	if (r->op.result)
		note_reason(kv, r);
	else if (!kind_reads(r->op.kind))
		handle_after(kv, &r->op);
	list_add(&kv->queue->done, r);
}

/* End a request; index.c ends the operation if it was begun. */
static void finish_as(struct farkv *kv, struct request *r, int err)
{
	if (r->begun)
		index_abandon(kv->conn.index, &r->op, err);
	else
		r->op.result = err;
	finish(kv, r);
}

static bool is_broken(const struct farkv *kv)
{
	return xport_broken(kv->conn.lane) ||
	       (qsbr_pending(kv->qsbr) & PENDING_BROKEN);
}

/* True if a new connection could complete it. As relink_needed(). */
static bool is_interrupted(const struct farkv *kv, const struct index_op *op)
{
	return (op->result == FARKV_EDISCONNECTED ||
		(op->result == FARKV_EMAYBE && op->doubt == DOUBT_OPEN)) &&
	       is_broken(kv);
}

/* Take operations that have left the op queue. */
static void harvest(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct index_op *op;

	while ((op = index_take(&q->opq))) {
		struct request *r = (struct request *)(void *)op;

		if (op->result == INDEX_PENDING) {
			list_add(&q->waiting, r);
			q->unasked = true;
		} else if (is_interrupted(kv, op)) {
			list_add(&q->interrupted, r);
		} else {
			finish(kv, r);
		}
	}
}

static void advance(struct farkv *kv)
{
	struct queue *q = kv->queue;

	for (unsigned i = 0; i < STAGES_PER_POLL; i++) {
		bool any = index_reap(kv->conn.index, &q->opq);

		harvest(kv);
		if (!any)
			return;
	}
}

/* ---- the critical section ---------------------------------------------------------- */

void queue_leave(struct farkv *kv)
{
	qsbr_leave(kv->qsbr);
	kv->queue->inside = false;
}

/* End all requests that have not begun or wait: there is no connection to their store. */
static void fail_all(struct farkv *kv, int err)
{
	struct queue *q = kv->queue;
	struct request *r;

	list_move(&q->fresh, &q->waiting);
	while ((r = list_take(&q->fresh))) {
		finish_as(kv, r, err);
		/* its wait is not the reason */
		r->op.wait = INDEX_WAIT_NONE;
		r->parked = false;
	}
	q->parked = false;
}

/* ---- a new connection -------------------------------------------------------------- */

static uint64_t last_deadline(const struct list *l)
{
	uint64_t last = 0;

	for (const struct request *r = l->first; r; r = r->next)
		last = UTIL_MAX(last, r->deadline_ns);
	return last;
}

static uint64_t first_deadline(const struct list *l)
{
	uint64_t first = HANDLE_NEVER;

	for (const struct request *r = l->first; r; r = r->next)
		first = UTIL_MIN(first, r->deadline_ns);
	return first;
}

uint64_t queue_conn_deadline(const struct queue *q)
{
	return UTIL_MIN(first_deadline(&q->fresh), first_deadline(&q->interrupted));
}

/* The last deadline of the requests that wait for a connection. */
static uint64_t dial_until(const struct queue *q)
{
	return UTIL_MAX(last_deadline(&q->fresh), last_deadline(&q->interrupted));
}

/* The interrupted operations, for relink_ops_begin() and _end(). */
static size_t interrupted_ops(struct queue *q)
{
	size_t n = 0;

	for (struct request *r = q->interrupted.first; r; r = r->next)
		q->ops[n++] = &r->op;
	return n;
}

/*
 * End of relink_ops() for all requests that were begun and have no result. Inside the critical
 * section afterwards. A write with a lost CAS must resolve it before the section is left: after
 * that the words that it remembers may recur.
 */
static void mend_end(struct farkv *kv, bool dialled)
{
	struct queue *q = kv->queue;
	struct list begun;
	struct request *r;
	size_t n = interrupted_ops(q);

	q->inside = true;
	/*
	 * Requests submitted before the loss was known were meant for the lost store. If the caller
	 * cannot know yet, enter() tries again and reports it.
	 */
	if (!relink_ops_end(kv, q->ops, n, dialled) && (kv->conn.session || kv->notified))
		fail_all(kv, FARKV_EDISCONNECTED);
	list_init(&begun);
	list_move(&begun, &q->interrupted);
	while ((r = list_take(&begun))) {
		if (r->op.result != INDEX_PENDING)
			finish(kv, r);
		else if (r->op.doubt == DOUBT_RESOLVING)
			index_submit(kv->conn.index, &q->opq, &r->op,
				     r->deadline_ns);
		else
			list_add(&q->fresh, r);
	}
	index_post(kv->conn.index, &q->opq);
	harvest(kv);
	q->parked = false;
}

/*
 * The connection broke under requests, and the op queue is empty: like relink_ops(), but they wait
 * in `interrupted` while a connection is made. Called inside the critical section, or when all
 * wait.
 */
static void mend(struct farkv *kv)
{
	struct queue *q = kv->queue;

	list_move(&q->interrupted, &q->waiting);
	q->mending = q->dialling =
		relink_ops_begin(kv, q->ops, interrupted_ops(q), dial_until(q));
	q->inside = false;
	if (!q->dialling)
		mend_end(kv, false);
}

/* End the requests whose deadline has passed without a connection. Those already begun are as
 * relink_ops_begin() left them. */
static void expire(struct farkv *kv, struct list *l)
{
	struct queue *q = kv->queue;
	struct list all = *l;
	struct request *r;

	list_init(l);
	while ((r = list_take(&all))) {
		if (q->now_ns <= r->deadline_ns) {
			list_add(l, r);
			continue;
		}
		r->parked = false;
		if (r->op.result == FARKV_EDISCONNECTED)
			r->op.result = FARKV_ETIMEDOUT;
		r->op.wait = INDEX_WAIT_NONE;
		finish_as(kv, r, FARKV_ETIMEDOUT);
	}
}

/* False: no connection yet. Otherwise requests continue, or have ended. */
static bool redial(struct farkv *kv)
{
	struct queue *q = kv->queue;
	int err;

	if (!dial_is_over(kv->dial)) {
		expire(kv, &q->fresh);
		expire(kv, &q->interrupted);
		/* No request waits any more: the next request continues from here. */
		if (!q->fresh.first && !q->interrupted.first)
			q->dialling = q->mending = false;
		return false;
	}
	q->dialling = false;
	if (q->mending) {
		q->mending = false;
		mend_end(kv, true);
		return true;
	}
	err = relink_end(kv);
	if (err)
		fail_all(kv, err);
	q->arrived = true;
	q->parked = false;
	return true;
}

/* False if impossible: no request is left to begin, or a connection is being made. */
static bool enter(struct farkv *kv)
{
	struct queue *q = kv->queue;

	while (!qsbr_enter(kv->qsbr)) {
		bool broken = !kv->conn.session ||
			      (qsbr_pending(kv->qsbr) & PENDING_BROKEN);

		if (kv->conn.session && q->waiting.first && broken) {
			q->inside = true;
			mend(kv);
			if (q->dialling || !op_queue_is_idle(&q->opq))
				return q->inside;
			queue_leave(kv);
			continue;
		}
		qsbr_leave(kv->qsbr);
		if (broken) {
			int err = relink_begin(kv, dial_until(q));

			q->dialling = !err;
			if (err)
				fail_all(kv, err);
			return false;
		}
		handle_pending(kv);
		q->arrived = true;
		q->parked = false;
	}
	q->inside = true;
	return true;
}

/* ---- begins ------------------------------------------------------------------------ */

/* True if the key does not overlap the buffer, which receives the value. */
static bool is_apart(const struct request *r)
{
	uintptr_t key = (uintptr_t)r->op.key.data, buf = (uintptr_t)r->buf;

	return r->buf && (key + r->key_len <= buf || buf + r->cap <= key);
}

int queue_check(struct farkv *kv, const struct request *r,
		struct index_key *key_out)
{
	const struct index_op *op = &r->op;
	int err = 0;

	if (!kind_reads(op->kind) && kv->conn.readonly)
		err = handle_not_allowed(kv);
	if (!err)
		err = handle_key(kv, op->key.data, r->key_len, key_out);
	if (!err && !kind_reads(op->kind))
		err = handle_value(kv, op->value, r->value_len);
	return err;
}

/*
 * Check and set up a request. Not at its submission, because the limits and rights of the store
 * that it reaches count.
 */
static int prepare(struct farkv *kv, struct request *r)
{
	struct index_op *op = &r->op;
	struct index_key key;
	int err = queue_check(kv, r, &key);

	if (err)
		return err;
	index_op_start(op, op->kind, &key, op->value, (uint32_t)r->value_len);
	op->ttl_ms = r->ttl_ms;
	op->user = r->user;
	if (is_apart(r)) {
		op->into = r->buf;
		op->into_cap = r->cap;
	}
	r->begun = true;
	memcpy(r->region, kv->last_region, sizeof(r->region));
	return 0;
}

/* True if only the reserve of version numbers is left; requests more. */
static bool lacks_versions(struct farkv *kv, const struct request *r)
{
	return !kind_reads(r->op.kind) && !kv->conn.readonly &&
	       !handle_has_versions(kv);
}

static void begin(struct farkv *kv, struct request *r)
{
	struct queue *q = kv->queue;
	int err = 0;

	if (r->begun &&
	    memcmp(r->region, kv->last_region, sizeof(r->region)) != 0)
		err = FARKV_EDISCONNECTED; /* the server was restarted */
	else if (q->now_ns > r->deadline_ns)
		err = FARKV_ETIMEDOUT;
	else if (!r->begun)
		err = prepare(kv, r);
	if (err) {
		finish_as(kv, r, err);
		return;
	}
	r->parked = false;
	if (index_try(kv->conn.index, &r->op))
		finish(kv, r);
	else
		index_submit(kv->conn.index, &q->opq, &r->op,
			     r->deadline_ns);
}

/*
 * On a mapped region, prefetch the windows of all requests together. begin() reports those that
 * cannot be set up.
 */
static void fetch_ahead(struct farkv *kv, const struct list *todo)
{
	struct queue *q = kv->queue;
	size_t n = 0;

	if (!(kv->conn.lane->caps & XPORT_DIRECT))
		return;
	for (struct request *r = todo->first; r; r = r->next)
		if (r->begun || !prepare(kv, r))
			q->ops[n++] = &r->op;
	index_fetch_many(kv->conn.index, q->ops, n);
}

static void begin_all(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct list todo = q->fresh;
	struct request *r;

	if (!todo.first)
		return;
	fetch_ahead(kv, &todo);
	list_init(&q->fresh);
	q->parked = false;
	q->park_until_ns = HANDLE_NEVER;
	while ((r = list_take(&todo))) {
		r->parked = lacks_versions(kv, r);
		if (r->parked && q->now_ns <= r->deadline_ns) {
			list_add(&q->fresh, r);
			q->parked = true;
			q->park_until_ns =
				UTIL_MIN(q->park_until_ns, r->deadline_ns);
			continue;
		}
		begin(kv, r);
	}
	index_post(kv->conn.index, &q->opq);
	harvest(kv);
}

/* ---- waiting ----------------------------------------------------------------------- */

bool queue_must_ask(const struct farkv *kv)
{
	const struct queue *q = kv->queue;

	return q->unasked || (q->wait.hint_out &&
			      session_call_ready(kv->conn.session));
}

/* The requests that waited for growth have ended: its answer must not wake others. */
static void forget_hint(struct farkv *kv)
{
	struct queue *q = kv->queue;

	if (!q->wait.hint_out)
		return;
	for (const struct request *r = q->waiting.first; r; r = r->next)
		if (r->op.wait == INDEX_WAIT_FULL)
			return;
	session_call_forget(kv->conn.session);
	q->wait.hint_out = false;
}

/* Ask the server for what waiting requests need. */
static void need(struct farkv *kv)
{
	struct queue *q = kv->queue;
	uint64_t before = q->wait_until_ns;
	struct list all = q->waiting;
	struct request *r;
	size_t n = 0;

	if (!all.first) {
		forget_hint(kv);
		q->wait = (struct wait_state){.never_blocks = true};
		q->unasked = false;
		return;
	}
	if (!queue_must_ask(kv))
		return;
	/* A denial of requests of long ago does not count. */
	if (q->unasked && q->now_ns - q->begun_ns > DENIALS_NS) {
		q->wait.begun = false;
		q->begun_ns = q->now_ns;
	}
	for (r = all.first; r; r = r->next)
		q->ops[n++] = &r->op;
	q->wait_until_ns = handle_need(kv, q->ops, n, &q->wait);
	if (before > q->now_ns) /* do not postpone the others */
		q->wait_until_ns = UTIL_MIN(q->wait_until_ns, before);
	q->unasked = false;
	list_init(&q->waiting);
	while ((r = list_take(&all))) {
		/* The connection is broken: they wait for enter(). */
		if (qsbr_pending(kv->qsbr) & PENDING_BROKEN && is_interrupted(kv, &r->op))
			index_op_resume(&r->op);
		if (r->op.result == INDEX_PENDING)
			list_add(&q->waiting, r);
		else
			finish(kv, r);
	}
	forget_hint(kv);
}

static bool waiting_due(const struct queue *q)
{
	return q->waiting.first && !q->unasked && q->now_ns >= q->wait_until_ns;
}

static void retry_waiting(struct queue *q)
{
	if (q->arrived || waiting_due(q))
		list_move(&q->fresh, &q->waiting);
	if (!q->waiting.first)
		q->wait_until_ns = 0;
	q->arrived = false;
}

/* ---- a turn ------------------------------------------------------------------------ */

bool queue_can_begin(const struct queue *q)
{
	if (q->fresh.first && (!q->parked || q->now_ns > q->park_until_ns))
		return true;
	/* A submission may have handled the grants, and cleared the flag. */
	return (q->waiting.first && q->arrived) || waiting_due(q);
}

bool queue_is_called(const struct farkv *kv)
{
	const struct queue *q = kv->queue;

	return (q->fresh.first || q->waiting.first) && qsbr_pending(kv->qsbr);
}

void queue_turn(struct farkv *kv)
{
	struct queue *q = kv->queue;

	for (unsigned i = 0; i < ROUNDS_PER_POLL; i++) {
		if (q->dialling && !redial(kv))
			return;
		if (q->inside)
			advance(kv);
		if (q->inside && op_queue_is_idle(&q->opq)) {
			if (q->interrupted.first)
				mend(kv);
			if (q->dialling)
				continue;
			if (op_queue_is_idle(&q->opq))
				queue_leave(kv);
		}
		if (!queue_can_begin(q) && !queue_is_called(kv))
			break;
		if (!q->inside && !enter(kv)) {
			if (q->dialling)
				continue;
			break;
		}
		if (qsbr_pending(kv->qsbr))
			break; /* until what is in flight is over */
		retry_waiting(q);
		begin_all(kv);
		need(kv);
	}
	if (q->inside && op_queue_is_idle(&q->opq) && !q->interrupted.first)
		queue_leave(kv);
	need(kv);
}

void queue_turn_begin(struct farkv *kv)
{
	kv->queue->now_ns = clock_now_ns();
	kv->deadline_ns = kv->queue->now_ns + kv->op_timeout_ns;
}

void queue_kick(struct farkv *kv)
{
	struct queue *q = kv->queue;

	if (!kv->conn.session || (kv->conn.lane->caps & XPORT_DIRECT) ||
	    (!q->inside && is_broken(kv)))
		return;
	if (!q->inside && !qsbr_enter(kv->qsbr)) {
		/* Try once more; the rest is left to the next poll. */
		qsbr_leave(kv->qsbr);
		handle_pending(kv);
		q->arrived = true;
		if (!qsbr_enter(kv->qsbr)) {
			qsbr_leave(kv->qsbr);
			return;
		}
	}
	q->inside = true;
	if (!qsbr_pending(kv->qsbr))
		begin_all(kv);
	if (op_queue_is_idle(&q->opq) && !q->interrupted.first)
		queue_leave(kv);
}
