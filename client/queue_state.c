/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "queue_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

#include "notifier.h"

/* Requests in flight at once, unless the program says another number. */
#define DEPTH_DEFAULT 128u

/* ---- memory ------------------------------------------------------------------------ */

int queue_new(struct farkv *kv)
{
	uint32_t depth = kv->queue_depth ? kv->queue_depth : DEPTH_DEFAULT;
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
	list_init(&q->interrupted);
	list_init(&q->waiting);
	list_init(&q->done);
	list_init(&q->taken);
	op_queue_init(&q->opq);
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
	for (uint32_t i = 0; q->slots && i < 2 * q->depth; i++) {
		index_op_free_held(&q->slots[i].op);
		free(q->slots[i].line);
	}
	free(q->slots);
	free(q->ops);
	free(q);
}

/* ---- attach and detach --------------------------------------------------- */

int queue_keep_value(struct farkv *kv, struct request *r)
{
	struct block_view *view = &r->op.view;
	int err = 0;

	if (r->kept || r->op.kind != INDEX_GET || r->op.result || view->value == r->buf)
		return 0;
	if (r->buf && view->value_len <= r->cap)
		memcpy(r->buf, view->value, view->value_len);
	if (r->buf) /* If the buffer is too short only the length counts. */
		view->value = r->buf;
	else
		err = index_op_hold(kv->conn.index, &r->op);
	r->kept = !err;
	return err;
}

void queue_detach(struct farkv *kv)
{
	struct queue *q = kv->queue;

	for (struct request *r = q->done.first; r && !handle_inherited(kv); r = r->next)
		if (queue_keep_value(kv, r))
			r->op.result = FARKV_ENOMEM;
	/* These cannot fail: where holding a value copies it, deliver() has done so already. */
	for (struct request *r = q->taken.first; r && !handle_inherited(kv); r = r->next)
		(void)queue_keep_value(kv, r);
	for (uint32_t i = 0; i < 2 * q->depth; i++)
		index_op_fini(kv->conn.index, &q->slots[i].op);
	q->wait = (struct wait_state){.never_blocks = true};
	if (q->done.first && kv->notifier)
		notifier_raise(kv->notifier);
}

void queue_event_attach(struct farkv *kv)
{
	/* If this fails requests in flight are polled continuously. */
	(void)notifier_watch(kv->notifier, xport_wait_fd(kv->conn.lane));
	session_wakes(kv->conn.session, kv->notifier, false);
	/* If the session was over before, session_wakes() does not notify. */
	if (qsbr_pending(kv->qsbr) & PENDING_BROKEN)
		notifier_raise(kv->notifier);
}

void queue_event_detach(struct farkv *kv)
{
	(void)notifier_watch(kv->notifier, -1);
}
