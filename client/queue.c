/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "queue.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "dial.h"
#include "latency.h"
#include "notifier.h"
#include "queue_turn.h"

/* Consecutive polls that could only wait for the server before the thread yields. */
#define IDLE_POLLS 16u

/* ---- values that earlier calls returned --------------------------------------------- */

/* The next get, from `r` on, that is about to begin and has a smaller buffer. */
static struct request *next_smaller(struct request *r, const struct index_op *op)
{
	while (r && (r->op.kind != INDEX_GET || r->op.buf_bytes >= op->buf_bytes))
		r = r->next;
	return r;
}

static void swap_buffers(struct index_op *a, struct index_op *b)
{
	uint8_t *buf = a->buf;
	size_t bytes = a->buf_bytes;

	a->buf = b->buf;
	a->buf_bytes = b->buf_bytes;
	b->buf = buf;
	b->buf_bytes = bytes;
}

/*
 * The requests that the last poll handed out become idle. Their large buffers go to gets that are
 * about to begin, whose values may be as large, or back to the lane.
 */
static void reclaim(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct request *r, *next = q ? q->fresh.first : NULL;

	while (q && (r = list_take(&q->taken))) {
		bool more = index_op_is_oversized(kv->conn.index, &r->op);

		if (more && r->op.kind == INDEX_GET && index_op_used_quarter(&r->op) &&
		    (next = next_smaller(next, &r->op)))
			swap_buffers(&r->op, &next->op);
		if (more && index_op_is_oversized(kv->conn.index, &r->op))
			index_op_shrink(kv->conn.index, &r->op);
		index_op_release(kv->conn.index, &r->op);
		if (r->line) {
			free(r->line);
			r->line = NULL;
		}
		list_push(&q->idle, r);
	}
}

void queue_release(struct farkv *kv)
{
	if (kv->polled)
		reclaim(kv);
	if (kv->batched)
		handle_release_batch(kv);
	kv->polled = kv->batched = false;
}

/* ---- the descriptor ------------------------------------------------------------------ */

/*
 * The descriptor of farkv_event_fd() is readable while the next farkv_poll() would find something
 * to do. Each call that may have changed that ends in queue_rest(), which first clears the
 * notification, then sets who is to notify the caller (device, clock, control thread), and then
 * checks everything once more: the check sees what came before it, and what comes later notifies.
 */

/* True if the next turn has something to do by itself. */
static bool is_due(const struct farkv *kv)
{
	const struct queue *q = kv->queue;

	if (q->done.first)
		return true;
	if (q->dialling)
		return dial_is_over(kv->dial);
	if (q->inside) {
		if (op_queue_is_idle(&q->opq) ||
		    op_queue_due(&q->opq) ||
		    xport_broken(kv->conn.lane) || !notifier_watches(kv->notifier))
			return true;
		/* Requests begin only after everything in flight has ended. */
		if (qsbr_pending(kv->qsbr))
			return false;
	}
	return queue_can_begin(q) || queue_is_called(kv) ||
	       (q->waiting.first && queue_must_ask(kv));
}

/* The time from which on a turn has something to do. */
static uint64_t due_at(const struct farkv *kv)
{
	const struct queue *q = kv->queue;
	uint64_t at = NOTIFIER_NEVER;
	/* flags are pending: waiting requests rest until nothing is in flight */
	bool held = q->inside && qsbr_pending(kv->qsbr);

	if (q->dialling)
		return queue_conn_deadline(q) + 1;
	if (q->waiting.first && !held)
		at = UTIL_MIN(at, q->wait_until_ns);
	if (q->parked && !held)
		at = UTIL_MIN(at, q->park_until_ns + 1);
	/* Later requests have later deadlines: the earliest one, once found, is valid until
	 * the timer expires. */
	if (q->inside && !notifier_is_set(kv->notifier, q->now_ns))
		at = UTIL_MIN(at, op_queue_deadline(&q->opq) + 1);
	return at;
}

static void ask_lane(struct farkv *kv)
{
	struct xport_lane *lane = kv->conn.lane;
	bool in_flight = kv->queue && kv->queue->inside;
	char line[ERR_LINE_MAX];

	if (!kv->conn.session)
		return;
	/*
	 * A broken lane may stay readable forever, because nothing clears its events. is_due()
	 * covers the requests that wait for it.
	 */
	if (xport_broken(lane)) {
		(void)notifier_watch(kv->notifier, -1);
		return;
	}
	if (!in_flight) {
		xport_arm(lane, false);
		return;
	}
	snprintf(line, sizeof(line), "%s", err_detail());
	xport_arm(lane, true);
	xport_poll(lane);
	/* The requests' results report an error, not this line. */
	if (xport_broken(lane))
		err_set(0, "%s", line);
}

static void ask_session(struct farkv *kv)
{
	const struct queue *q = kv->queue;

	if (kv->conn.session)
		session_wakes(kv->conn.session, kv->notifier,
			      q && (q->fresh.first || q->waiting.first));
	else if (q && q->dialling)
		dial_wakes(kv->dial, kv->notifier);
}

static void rest_waking(struct farkv *kv)
{
	struct queue *q = kv->queue;
	uint64_t at;

	if (q && is_due(kv)) {
		notifier_raise(kv->notifier);
		return;
	}
	notifier_clear(kv->notifier);
	ask_session(kv);
	ask_lane(kv);
	if (!q)
		return;
	at = due_at(kv);
	if (is_due(kv) || at <= q->now_ns)
		notifier_raise(kv->notifier);
	else
		notifier_at(kv->notifier, q->now_ns, at);
}

/** End of the call that queue_turn_begin() began: update the descriptor, if there is one. */
static void queue_rest(struct farkv *kv)
{
	if (__builtin_expect(kv->notifier != NULL, 0))
		rest_waking(kv);
}

int queue_event_fd(struct farkv *kv)
{
	int err;

	if (kv->notifier)
		return notifier_fd(kv->notifier);
	if (kv->router)
		return HANDLE_CLUSTER;
	err = notifier_new(&kv->notifier);
	if (err)
		return err;
	if (kv->conn.session)
		queue_event_attach(kv);
	rest_waking(kv);
	/* No notification follows, and notifier_clear() may have removed an earlier one. */
	if (qsbr_pending(kv->qsbr) & PENDING_BROKEN)
		notifier_raise(kv->notifier);
	return notifier_fd(kv->notifier);
}

/* ---- submit ------------------------------------------------------------------------ */

int queue_check_request(const struct farkv_request *req)
{
	if (req->kind > FARKV_REQUEST_DELETE_CAS)
		return err_set(FARKV_EINVAL, "request: unknown kind %u",
			       req->kind);
	if (req->flags || req->reserved)
		return err_set(FARKV_EINVAL,
			       "request: flags and reserved must be 0");
	if (req->options && (req->kind < FARKV_REQUEST_PUT || req->kind > FARKV_REQUEST_CAS))
		return err_set(FARKV_EINVAL, "request: only writes of a value have options");
	if (!req->buf && req->buf_len > 0)
		return err_set(FARKV_EINVAL, "request: buf is NULL");
	return handle_write_options(req->options);
}

static void add(struct queue *q, struct request *r, const struct farkv_request *req,
		uint64_t deadline_ns)
{
	r->tag = req->tag;
	r->deadline_ns = deadline_ns;
	r->key_len = req->key_len;
	r->value_len = req->value_len;
	r->buf = req->buf;
	r->cap = req->buf_len;
	r->ttl_ms = req->options ? req->options->ttl_ms : 0;
	r->user = req->options ? req->options->user : 0;
	r->begun = r->parked = r->kept = false;
	/* The fields that prepare() reads; index_op_start() sets the rest. */
	r->op.kind = (uint8_t)req->kind;
	r->op.key.data = req->key;
	r->op.value = req->value;
	r->op.expected = req->expected;
	r->op.version = 0;
	r->op.doubt = DOUBT_NONE;
	list_add(&q->fresh, r);
	q->parked = false; /* the new request may need less than the parked ones */
	q->in_flight++;
}

int queue_full(size_t depth)
{
	return err_set(FARKV_EAGAIN,
		       "%zu requests are in flight, the queue holds no more; take "
		       "completions first, or open with a larger queue_depth",
		       depth);
}

int queue_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n)
{
	struct request *idle;
	struct queue *q;
	size_t i;
	int err = 0;

	if (!kv->queue)
		err = kv->router ? HANDLE_CLUSTER : queue_new(kv);
	if (err)
		return err;
	q = kv->queue;
	queue_turn_begin(kv);
	for (i = 0; i < n && q->in_flight < q->depth; i++) {
		err = queue_check_request(&reqs[i]);
		idle = err ? NULL : list_take(&q->idle);
		if (!idle)
			break;
		add(q, idle, &reqs[i], kv->deadline_ns);
	}
	if (i > 0) {
		kv->queued = true;
		if (q->dialling) /* the attempts to connect last this long */
			(void)dial_extend(kv->dial, kv->deadline_ns);
		queue_kick(kv);
		queue_rest(kv);
		return (int)i;
	}
	if (err || n == 0)
		return err;
	return queue_full(q->depth);
}

/* ---- completions ------------------------------------------------------------------- */

/* Over mapped memory a value stays where it was found, until the connection is closed. */
static int give_value(struct farkv *kv, struct request *r, struct farkv_completion *c)
{
	const struct block_view *view = &r->op.view;

	if (r->buf && view->value_len > r->cap) {
		c->value.len = view->value_len;
		return err_set(FARKV_ETOOSMALL,
			       "the value has %u bytes, the buffer %zu",
			       view->value_len, r->cap);
	}
	if (!r->kept && (r->buf || !(kv->conn.lane->caps & XPORT_DIRECT)) &&
	    queue_keep_value(kv, r))
		return err_set(FARKV_ENOMEM, "no memory to keep a value of %u bytes",
			       view->value_len);
	c->version = r->op.version;
	c->value = handle_value_of(&r->op, view->value);
	return 0;
}

static void deliver(struct farkv *kv, struct request *r,
		    struct farkv_completion *c)
{
	struct queue *q = kv->queue;

	*c = (struct farkv_completion){.tag = r->tag,
				       .kind = r->op.kind,
				       .result = r->op.result};
	if (c->result) {
		(void)handle_result(kv, c->result);
		if (r->line)
			err_set(c->result, "%s", r->line);
	} else if (r->op.kind == INDEX_GET) {
		c->result = give_value(kv, r, c);
		if (c->result)
			queue_keep_line(r);
	} else if (!kind_deletes(r->op.kind)) { /* 0 of an exists */
		c->version = r->op.version;
	}
	if (c->result)
		c->detail = r->line ? r->line : err_str(c->result);
	list_add(&q->taken, r);
	kv->polled = kv->queued = true;
	q->in_flight--;
}

/* A request began op_timeout_ms before its deadline. */
static void record(const struct farkv *kv, const struct request *r, int result, uint64_t now_ns)
{
	latency_record(kv->latency, FARKV_LATENCY_REQUEST, result,
		       now_ns - (r->deadline_ns - kv->op_timeout_ns));
}

static int take(struct farkv *kv, struct farkv_completion *out, size_t max)
{
	struct queue *q = kv->queue;
	struct request *r;
	size_t n = 0;
	uint64_t now = kv->latency && q->done.first ? clock_now_ns() : 0;

	while (n < max && (r = list_take(&q->done))) {
		deliver(kv, r, &out[n]);
		if (now)
			record(kv, r, out[n].result, now);
		n++;
	}
	return (int)n;
}

/*
 * Yield if a thread polls in a loop while all its requests wait for the server: with more such
 * threads than CPUs the server would not run for milliseconds.
 */
static void let_others_run(struct queue *q)
{
	if (q->inside || q->done.first ||
	    (!q->waiting.first && !q->parked && !q->dialling)) {
		q->idle_polls = 0;
	} else if (++q->idle_polls >= IDLE_POLLS) {
		q->idle_polls = 0;
		(void)sched_yield();
	}
}

int queue_poll(struct farkv *kv, struct farkv_completion *out, size_t max)
{
	int n = 0;

	queue_release(kv);
	if (kv->queue) {
		queue_turn_begin(kv);
		queue_turn(kv);
		let_others_run(kv->queue);
		n = take(kv, out, max);
	} else if (kv->router) {
		return HANDLE_CLUSTER;
	}
	queue_rest(kv);
	return n;
}

/* Sleep until a turn may have something to do. */
static void sleep_until_due(struct farkv *kv, uint64_t end_ns)
{
	struct queue *q = kv->queue;
	uint64_t until = end_ns;

	if (q->dialling) {
		dial_wait(kv->dial, UTIL_MIN(until, queue_conn_deadline(q) + 1));
		return;
	}
	if (q->inside || queue_can_begin(q) || !kv->conn.session) {
		atom_spin_hint();
		return;
	}
	if (q->waiting.first)
		until = UTIL_MIN(until, q->wait_until_ns);
	if (q->parked)
		until = UTIL_MIN(until, q->park_until_ns + 1);
	session_wait(kv->conn.session, until);
}

int queue_wait(struct farkv *kv, struct farkv_completion *out, size_t max,
	       uint32_t timeout_ms)
{
	struct queue *q = kv->queue;
	uint64_t end;
	int n;

	if (!q)
		return queue_poll(kv, out, max);
	queue_release(kv);
	queue_turn_begin(kv);
	end = q->now_ns + timeout_ms * NS_PER_MS;
	for (;;) {
		queue_turn(kv);
		if (q->done.first || !q->in_flight || q->now_ns >= end)
			break;
		sleep_until_due(kv, end);
		queue_turn_begin(kv);
	}
	n = take(kv, out, max);
	queue_rest(kv);
	return n;
}

/* ---- the rest of the handle -------------------------------------------------------- */

size_t queue_in_flight(const struct farkv *kv)
{
	return kv->queue ? kv->queue->in_flight : 0;
}

static bool under_way(const struct queue *q)
{
	return q->fresh.first || q->waiting.first || q->interrupted.first || q->inside;
}

void queue_settle(struct farkv *kv)
{
	if (handle_inherited(kv))
		return;
	while (under_way(kv->queue)) {
		queue_turn_begin(kv);
		queue_turn(kv);
		if (under_way(kv->queue))
			sleep_until_due(kv, HANDLE_NEVER);
		else
			queue_rest(kv);
	}
	kv->queued = false;
}

void queue_finish(struct farkv *kv)
{
	struct queue *q = kv->queue;

	if (!q || !q->inside)
		return;
	while (!op_queue_is_idle(&q->opq)) {
		if (!index_reap(kv->conn.index, &q->opq))
			atom_spin_hint();
		while (index_take(&q->opq))
			;
	}
	queue_leave(kv);
}
