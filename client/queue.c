/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/util.h"

#include "handle.h"

/* Stages in one poll: more than an operation without rivals takes. */
#define STAGES_PER_POLL 8
/* A poll that meets alerts leaves the gate and comes back, but not for ever. */
#define ROUNDS_PER_POLL 4
/* So long does the server's "no" to some requests count for new ones. */
#define DENIALS_NS (10 * NS_PER_MS)

struct request {
	struct index_op op; /* first: the strand returns its address */
	struct request *next;
	uint64_t tag;
	uint64_t deadline_ns;
	size_t key_len, value_len; /* as the caller gave them */
	void *buf;
	size_t cap;
	bool begun;         /* `op` is set up: only index_submit() is needed */
	uint64_t region[2]; /* ... for this one, and no other */
};

struct list {
	struct request *first, **end;
};

struct queue {
	uint32_t depth;
	uint32_t in_flight;
	bool inside; /* the gate is entered */
	bool mail;   /* what the waiting wait for may have come */
	bool unasked; /* some of the waiting have not asked for what they need */
	struct request *slots; /* twice `depth`: so many can be in flight, and lent */
	struct list idle, fresh, torn, waiting, done, lent;
	struct index_strand strand;
	struct index_op **ops; /* `depth`, for calls that take many */
	struct wait_state wait;
	uint64_t begun_ns;      /* when `wait` began */
	uint64_t wait_until_ns; /* when to try the waiting again */
	uint64_t park_until_ns; /* first deadline of those that lack a version */
	bool parked;            /* some of `fresh` do */
	uint64_t now_ns;        /* when this call began */
};

/* ---- lists ------------------------------------------------------------------------- */

static void list_init(struct list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct list *l, struct request *r)
{
	r->next = NULL;
	*l->end = r;
	l->end = &r->next;
}

static struct request *list_take(struct list *l)
{
	struct request *r = l->first;

	if (!r)
		return NULL;
	l->first = r->next;
	if (!l->first)
		l->end = &l->first;
	return r;
}

/* All of `from`, behind those of `to`. */
static void list_move(struct list *to, struct list *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	list_init(from);
}

/* The one used last is used first: its buffers are in the cache. */
static void list_push(struct list *l, struct request *r)
{
	r->next = l->first;
	l->first = r;
	if (!r->next)
		l->end = &r->next;
}

/* ---- life -------------------------------------------------------------------------- */

static int queue_new(struct farkv *kv)
{
	uint32_t depth = kv->queue_depth ? kv->queue_depth : QUEUE_DEPTH_DEFAULT;
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return err_set(FARKV_ENOMEM, "no memory for a queue");
	q->slots = calloc(2 * (size_t)depth, sizeof(*q->slots));
	q->ops = calloc(depth, sizeof(struct index_op *));
	if (!q->slots || !q->ops) {
		queue_free(q);
		return err_set(FARKV_ENOMEM,
			       "no memory for a queue of %u requests", depth);
	}
	q->depth = depth;
	list_init(&q->idle);
	list_init(&q->fresh);
	list_init(&q->torn);
	list_init(&q->waiting);
	list_init(&q->done);
	list_init(&q->lent);
	index_strand_init(&q->strand);
	q->wait.never_blocks = true;
	for (uint32_t i = 0; i < 2 * depth; i++) {
		index_op_init(&q->slots[i].op);
		list_add(&q->idle, &q->slots[i]);
	}
	kv->queue = q;
	return 0;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	free(q->slots);
	free(q->ops);
	free(q);
}

size_t queue_in_flight(const struct farkv *kv)
{
	return kv->queue ? kv->queue->in_flight : 0;
}

/* The values of the last poll have ended. */
static void reclaim_lent(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct request *r;

	while ((r = list_take(&q->lent))) {
		if (r->op.buf_bytes > HANDLE_BUF_KEEP)
			index_op_fini(kv->link.index, &r->op);
		list_push(&q->idle, r);
	}
}

/* ---- ends -------------------------------------------------------------------------- */

static void finish(struct farkv *kv, struct request *r)
{
	if (r->op.result == 0 && r->op.kind != INDEX_GET)
		handle_after(kv, &r->op);
	list_add(&kv->queue->done, r);
}

/* One that was begun may have a compare-and-swap behind it that was lost. */
static void finish_as(struct farkv *kv, struct request *r, int err)
{
	if (r->begun)
		index_abandon(kv->link.index, &r->op, err);
	else
		r->op.result = err;
	finish(kv, r);
}

static bool is_broken(const struct farkv *kv)
{
	return xport_broken(kv->link.lane) ||
	       (gate_alerts(kv->gate) & GATE_BROKEN);
}

/* Could a new link tell more? As relink_needed(). */
static bool is_torn(const struct farkv *kv, const struct index_op *op)
{
	return (op->result == FARKV_EDISCONNECTED ||
		(op->result == FARKV_EMAYBE && op->unresolved)) &&
	       is_broken(kv);
}

/* What has left the strand. */
static void harvest(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct index_op *op;

	while ((op = index_take(&q->strand))) {
		struct request *r = (struct request *)(void *)op;

		if (op->result == INDEX_PENDING) {
			list_add(&q->waiting, r);
			q->unasked = true;
		} else if (is_torn(kv, op)) {
			list_add(&q->torn, r);
		} else {
			finish(kv, r);
		}
	}
}

static void advance(struct farkv *kv)
{
	struct queue *q = kv->queue;

	for (unsigned i = 0; i < STAGES_PER_POLL; i++) {
		bool any = index_reap(kv->link.index, &q->strand);

		harvest(kv);
		if (!any)
			return;
	}
}

/* ---- the gate ---------------------------------------------------------------------- */

static void leave(struct farkv *kv)
{
	gate_leave(kv->gate);
	kv->queue->inside = false;
}

/*
 * The link broke under requests, and the strand rests: as relink_ops(), for all that
 * were begun, and have no result. Inside the gate, the new one afterwards.
 */
static void mend(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct list begun;
	struct request *r;
	size_t n = 0;

	list_init(&begun);
	list_move(&begun, &q->torn);
	list_move(&begun, &q->waiting);
	for (r = begun.first; r; r = r->next) {
		q->ops[n++] = &r->op;
		kv->deadline_ns = UTIL_MAX(kv->deadline_ns, r->deadline_ns);
	}
	(void)relink_ops(kv, q->ops, n);
	while ((r = list_take(&begun))) {
		if (r->op.result == INDEX_PENDING)
			list_add(&q->fresh, r);
		else
			finish(kv, r);
	}
	q->parked = false;
}

/* There is no link, and will be none soon. */
static void fail_all(struct farkv *kv, int err)
{
	struct queue *q = kv->queue;
	struct request *r;

	list_move(&q->fresh, &q->waiting);
	while ((r = list_take(&q->fresh)))
		finish_as(kv, r, err);
	q->parked = false;
}

/* False if that cannot be; then nothing is left to begin. */
static bool enter(struct farkv *kv)
{
	struct queue *q = kv->queue;

	while (!gate_enter(kv->gate)) {
		int err;

		if (kv->link.session && q->waiting.first &&
		    (gate_alerts(kv->gate) & GATE_BROKEN)) {
			q->inside = true;
			mend(kv);
			leave(kv);
			continue;
		}
		gate_leave(kv->gate);
		err = handle_let_in(kv);
		if (err) {
			fail_all(kv, err);
			return false;
		}
		q->mail = true;
		q->parked = false;
	}
	q->inside = true;
	return true;
}

/* ---- begins ------------------------------------------------------------------------ */

/* The key must stay as it is until the value has come. */
static bool is_apart(const struct request *r)
{
	uintptr_t key = (uintptr_t)r->op.key.data, buf = (uintptr_t)r->buf;

	return r->buf && (key + r->key_len <= buf || buf + r->cap <= key);
}

/*
 * Check and set up. Here and not at the submission: it is the store that the request
 * meets whose limits and rights count.
 */
static int prepare(struct farkv *kv, struct request *r)
{
	struct index_op *op = &r->op;
	struct index_key key;
	int err = 0;

	if (op->kind != INDEX_GET && kv->link.readonly)
		err = handle_writable(kv);
	if (!err)
		err = handle_key(kv, op->key.data, r->key_len, &key);
	if (!err && op->kind != INDEX_GET)
		err = handle_value(kv, op->value, r->value_len);
	if (err)
		return err;
	index_op_start(op, op->kind, &key, op->value, (uint32_t)r->value_len,
		       op->expected);
	if (is_apart(r)) {
		op->into = r->buf;
		op->into_cap = r->cap;
	}
	r->begun = true;
	memcpy(r->region, kv->last_region, sizeof(r->region));
	return 0;
}

/* All but the reserve of version numbers is used up, and more are asked for. */
static bool lacks_versions(struct farkv *kv, const struct request *r)
{
	return r->op.kind != INDEX_GET && !kv->link.readonly &&
	       !handle_has_versions(kv);
}

static void begin(struct farkv *kv, struct request *r)
{
	struct queue *q = kv->queue;
	int err = 0;

	if (r->begun &&
	    memcmp(r->region, kv->last_region, sizeof(r->region)) != 0)
		err = FARKV_EDISCONNECTED; /* the server was started again */
	else if (q->now_ns > r->deadline_ns)
		err = FARKV_ETIMEDOUT;
	else if (!r->begun)
		err = prepare(kv, r);
	if (err)
		finish_as(kv, r, err);
	else if (index_try(kv->link.index, &r->op))
		finish(kv, r);
	else
		index_submit(kv->link.index, &q->strand, &r->op,
			     r->deadline_ns);
}

/*
 * Where the region is mapped, what all of them are going to look at is fetched side by
 * side. Who cannot be set up is told by begin().
 */
static void fetch_ahead(struct farkv *kv, const struct list *todo)
{
	struct queue *q = kv->queue;
	size_t n = 0;

	if (!(kv->link.lane->caps & XPORT_DIRECT))
		return;
	for (struct request *r = todo->first; r; r = r->next)
		if (r->begun || !prepare(kv, r))
			q->ops[n++] = &r->op;
	index_fetch_many(kv->link.index, q->ops, n);
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
		if (q->now_ns <= r->deadline_ns && lacks_versions(kv, r)) {
			list_add(&q->fresh, r);
			q->parked = true;
			q->park_until_ns =
				UTIL_MIN(q->park_until_ns, r->deadline_ns);
			continue;
		}
		begin(kv, r);
	}
	index_post(kv->link.index, &q->strand);
	harvest(kv);
}

/* ---- waiting ----------------------------------------------------------------------- */

/* A new one needs something, or the server has answered. */
static bool must_ask(const struct farkv *kv)
{
	const struct queue *q = kv->queue;

	return q->unasked || (q->wait.hint_out &&
			      session_call_ready(kv->link.session));
}

/* Ask for what the waiting need. */
static void need(struct farkv *kv)
{
	struct queue *q = kv->queue;
	uint64_t before = q->wait_until_ns;
	struct list all = q->waiting;
	struct request *r;
	size_t n = 0;

	if (!all.first) {
		q->wait = (struct wait_state){.never_blocks = true};
		q->unasked = false;
		return;
	}
	if (!must_ask(kv))
		return;
	/* What was said to those of long ago says nothing about now. */
	if (q->unasked && q->now_ns - q->begun_ns > DENIALS_NS) {
		q->wait.begun = false;
		q->begun_ns = q->now_ns;
	}
	for (r = all.first; r; r = r->next)
		q->ops[n++] = &r->op;
	q->wait_until_ns = handle_need(kv, q->ops, n, &q->wait);
	if (before > q->now_ns) /* nobody's turn is put off by others */
		q->wait_until_ns = UTIL_MIN(q->wait_until_ns, before);
	q->unasked = false;
	list_init(&q->waiting);
	while ((r = list_take(&all))) {
		if (r->op.result == INDEX_PENDING)
			list_add(&q->waiting, r);
		else
			finish(kv, r);
	}
}

static bool waiting_due(const struct queue *q)
{
	return q->waiting.first && !q->unasked && q->now_ns >= q->wait_until_ns;
}

static void retry_waiting(struct queue *q)
{
	if (q->mail || waiting_due(q))
		list_move(&q->fresh, &q->waiting);
	if (!q->waiting.first)
		q->wait_until_ns = 0;
	q->mail = false;
}

/* ---- a turn ------------------------------------------------------------------------ */

static bool can_begin(const struct queue *q)
{
	if (q->fresh.first && (!q->parked || q->now_ns > q->park_until_ns))
		return true;
	return waiting_due(q);
}

/* Has the session something to say? Only while the gate is left is it heard. */
static bool called(const struct farkv *kv)
{
	const struct queue *q = kv->queue;

	return (q->fresh.first || q->waiting.first) && gate_alerts(kv->gate);
}

/* Take everything as far as it goes without waiting for anybody. */
static void turn(struct farkv *kv)
{
	struct queue *q = kv->queue;

	for (unsigned i = 0; i < ROUNDS_PER_POLL; i++) {
		if (q->inside)
			advance(kv);
		if (q->inside && index_strand_rests(&q->strand)) {
			if (q->torn.first)
				mend(kv);
			leave(kv);
		}
		if (!can_begin(q) && !called(kv))
			break;
		if (!q->inside && !enter(kv))
			break;
		if (gate_alerts(kv->gate))
			break; /* when what is in flight is over */
		retry_waiting(q);
		begin_all(kv);
		need(kv);
	}
	if (q->inside && index_strand_rests(&q->strand) && !q->torn.first)
		leave(kv);
	need(kv);
}

static void turn_begin(struct farkv *kv)
{
	kv->queue->now_ns = clock_now_ns();
	kv->deadline_ns = kv->queue->now_ns + kv->op_timeout_ns;
}

/* ---- submit ------------------------------------------------------------------------ */

static int check(const struct farkv_request *req)
{
	if (req->kind > FARKV_REQUEST_DELETE)
		return err_set(FARKV_EINVAL, "request: unknown kind %u",
			       req->kind);
	if (req->flags || req->reserved[0] || req->reserved[1])
		return err_set(FARKV_EINVAL,
			       "request: flags and reserved must be 0");
	if (!req->buf && req->buf_len > 0)
		return err_set(FARKV_EINVAL, "request: buf is NULL");
	return 0;
}

static void add(struct queue *q, const struct farkv_request *req,
		uint64_t deadline_ns)
{
	struct request *r = list_take(&q->idle);

	r->tag = req->tag;
	r->deadline_ns = deadline_ns;
	r->key_len = req->key_len;
	r->value_len = req->value_len;
	r->buf = req->buf;
	r->cap = req->buf_len;
	r->begun = false;
	/* What prepare() looks at; the rest is index_op_start()'s. */
	r->op.kind = (uint8_t)req->kind;
	r->op.key.data = req->key;
	r->op.value = req->value;
	r->op.expected = req->expected;
	r->op.version = 0;
	r->op.unresolved = false;
	list_add(&q->fresh, r);
	q->in_flight++;
}

/* Post what was submitted, if that takes no more than a doorbell. */
static void kick(struct farkv *kv)
{
	struct queue *q = kv->queue;

	if (!kv->link.session || (kv->link.lane->caps & XPORT_DIRECT) ||
	    (!q->inside && is_broken(kv)))
		return;
	if (!q->inside && !gate_enter(kv->gate)) {
		/* Once more, unless it is a matter for a poll. */
		gate_leave(kv->gate);
		handle_attend(kv);
		q->mail = true;
		if (!gate_enter(kv->gate)) {
			gate_leave(kv->gate);
			return;
		}
	}
	q->inside = true;
	if (!gate_alerts(kv->gate))
		begin_all(kv);
	if (index_strand_rests(&q->strand) && !q->torn.first)
		leave(kv);
}

int queue_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n)
{
	struct queue *q;
	size_t i;
	int err = 0;

	if (!kv->queue)
		err = queue_new(kv);
	if (err)
		return err;
	q = kv->queue;
	turn_begin(kv);
	for (i = 0; i < n && q->in_flight < q->depth; i++) {
		err = check(&reqs[i]);
		if (err)
			break;
		add(q, &reqs[i], kv->deadline_ns);
	}
	if (i > 0) {
		kick(kv);
		return (int)i;
	}
	if (err || n == 0)
		return err;
	return err_set(FARKV_EAGAIN,
		       "%u requests are in flight, the queue holds no more; take "
		       "completions first, or open with a larger queue_depth",
		       q->depth);
}

/* ---- completions ------------------------------------------------------------------- */

static void value_give(const struct request *r, struct farkv_completion *c)
{
	const struct block_view *view = &r->op.view;

	c->value.len = view->value_len;
	c->value.version = r->op.version;
	c->value.data = r->buf ? r->buf : view->value;
	if (!r->buf)
		return;
	if (view->value_len > r->cap)
		c->result = err_set(FARKV_ETOOSMALL,
				    "the value has %u bytes, the buffer %zu",
				    view->value_len, r->cap);
	else if (view->value_len > 0 && view->value != r->buf)
		memcpy(r->buf, view->value, view->value_len);
}

static void deliver(struct farkv *kv, struct request *r,
		    struct farkv_completion *c)
{
	struct queue *q = kv->queue;

	*c = (struct farkv_completion){.tag = r->tag,
				       .kind = r->op.kind,
				       .result = r->op.result};
	if (c->result) {
		err_clear(); /* the line may be another request's */
		c->result = handle_result(kv, c->result);
	} else {
		c->version = r->op.version;
		if (r->op.kind == INDEX_GET)
			value_give(r, c);
	}
	list_add(&q->lent, r);
	q->in_flight--;
}

static int take(struct farkv *kv, struct farkv_completion *out, size_t max)
{
	struct queue *q = kv->queue;
	struct request *r;
	size_t n = 0;

	while (n < max && (r = list_take(&q->done)))
		deliver(kv, r, &out[n++]);
	return (int)n;
}

int queue_poll(struct farkv *kv, struct farkv_completion *out, size_t max)
{
	if (!kv->queue)
		return 0;
	reclaim_lent(kv);
	turn_begin(kv);
	turn(kv);
	return take(kv, out, max);
}

/* Until there may be something to do for a turn. */
static void doze(struct farkv *kv, uint64_t end_ns)
{
	struct queue *q = kv->queue;
	uint64_t until = end_ns;

	if (q->inside || can_begin(q) || !kv->link.session) {
		atom_spin_hint();
		return;
	}
	if (q->waiting.first)
		until = UTIL_MIN(until, q->wait_until_ns);
	if (q->parked)
		until = UTIL_MIN(until, q->park_until_ns + 1);
	session_wait(kv->link.session, until);
}

int queue_wait(struct farkv *kv, struct farkv_completion *out, size_t max,
	       uint32_t timeout_ms)
{
	struct queue *q = kv->queue;
	uint64_t end;

	if (!q)
		return 0;
	reclaim_lent(kv);
	turn_begin(kv);
	end = q->now_ns + timeout_ms * NS_PER_MS;
	for (;;) {
		turn(kv);
		if (q->done.first || !q->in_flight || q->now_ns >= end)
			return take(kv, out, max);
		doze(kv, end);
		turn_begin(kv);
	}
}

/* ---- the rest of the handle -------------------------------------------------------- */

static bool under_way(const struct queue *q)
{
	return q->fresh.first || q->waiting.first || q->inside;
}

void queue_settle(struct farkv *kv)
{
	if (handle_inherited(kv))
		return;
	reclaim_lent(kv);
	while (under_way(kv->queue)) {
		turn_begin(kv);
		turn(kv);
		if (under_way(kv->queue))
			doze(kv, HANDLE_NEVER);
	}
}

void queue_detach(struct farkv *kv)
{
	struct queue *q = kv->queue;
	struct list done = q->done;
	struct request *r;

	for (uint32_t i = 0; i < 2 * q->depth; i++)
		index_op_fini(kv->link.index, &q->slots[i].op);
	q->wait = (struct wait_state){.never_blocks = true};
	if (!done.first)
		return;
	list_init(&q->done);
	while ((r = list_take(&done))) {
		if (r->op.kind != INDEX_GET || r->op.result) {
			list_add(&q->done, r);
			continue;
		}
		index_op_resume(&r->op);
		list_add(&q->fresh, r);
	}
}

void queue_finish(struct farkv *kv)
{
	struct queue *q = kv->queue;

	if (!q || !q->inside)
		return;
	while (!index_strand_rests(&q->strand)) {
		if (!index_reap(kv->link.index, &q->strand))
			atom_spin_hint();
		while (index_take(&q->strand))
			;
	}
	leave(kv);
}
