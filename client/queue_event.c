/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the descriptor of farkv_event_fd() is readable: while the next farkv_poll() would find
 * something to do. Each call that may have changed that ends in queue_rest(), which clears the
 * notifier, sets who is to wake the caller (device, timer, control thread), and then checks
 * everything once more: the check sees what came in between, and what comes later wakes.
 */
#include "config.h"

#include "queue_priv.h"

#include <stdio.h>

#include "common/err.h"
#include "common/util.h"

#include "dial.h"
#include "waker.h"

/* True if the next turn has something to do by itself. */
static bool is_due(const struct farkv *kv)
{
	const struct queue *q = kv->queue;

	if (q->done.first)
		return true;
	if (q->dialling)
		return dial_is_over(kv->dial);
	if (q->inside) {
		if (index_strand_rests(&q->strand) ||
		    index_strand_due(&q->strand) ||
		    xport_broken(kv->link.lane) || !waker_watches(kv->waker))
			return true;
		/* Nothing is begun until everything in flight is over. */
		if (gate_alerts(kv->gate))
			return false;
	}
	return queue_can_begin(q) || queue_is_called(kv) ||
	       (q->waiting.first && queue_must_ask(kv));
}

/* The time from which on a turn has something to do. */
static uint64_t due_at(const struct farkv *kv)
{
	const struct queue *q = kv->queue;
	uint64_t at = WAKER_NEVER;
	/* flags are pending: the waiting are not looked at until all in flight is over */
	bool held = q->inside && gate_alerts(kv->gate);

	if (q->dialling)
		return queue_link_deadline(q) + 1;
	if (q->waiting.first && !held)
		at = UTIL_MIN(at, q->wait_until_ns);
	if (q->parked && !held)
		at = UTIL_MIN(at, q->park_until_ns + 1);
	/* Later requests have later deadlines: the earliest one, once found, is valid until
	 * the timer expires. */
	if (q->inside && !waker_is_set(kv->waker, q->now_ns))
		at = UTIL_MIN(at, index_strand_deadline(&q->strand) + 1);
	return at;
}

static void ask_lane(struct farkv *kv)
{
	struct xport_lane *lane = kv->link.lane;
	bool flown = kv->queue && kv->queue->inside;
	char line[ERR_LINE_MAX];

	if (!kv->link.session)
		return;
	/* A broken lane may stay readable forever, for nothing clears its events. is_due()
	 * covers the requests that wait for it. */
	if (xport_broken(lane)) {
		(void)waker_watch(kv->waker, -1);
		return;
	}
	if (!flown) {
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

	if (kv->link.session)
		session_wakes(kv->link.session, kv->waker,
			      q && (q->fresh.first || q->waiting.first));
	else if (q && q->dialling)
		dial_wakes(kv->dial, kv->waker);
}

void queue_rest_waking(struct farkv *kv)
{
	struct queue *q = kv->queue;
	uint64_t at;

	if (q && is_due(kv)) {
		waker_raise(kv->waker);
		return;
	}
	waker_clear(kv->waker);
	ask_session(kv);
	ask_lane(kv);
	if (!q)
		return;
	at = due_at(kv);
	if (is_due(kv) || at <= q->now_ns)
		waker_raise(kv->waker);
	else
		waker_at(kv->waker, q->now_ns, at);
}

void queue_event_attach(struct farkv *kv)
{
	/* If this fails requests in flight are polled continuously. */
	(void)waker_watch(kv->waker, xport_wait_fd(kv->link.lane));
	session_wakes(kv->link.session, kv->waker, false);
	/* If the session was over before, session_wakes() does not notify. */
	if (gate_alerts(kv->gate) & GATE_BROKEN)
		waker_raise(kv->waker);
}

void queue_event_detach(struct farkv *kv)
{
	(void)waker_watch(kv->waker, -1);
}

int queue_event_fd(struct farkv *kv)
{
	int err;

	if (kv->waker)
		return waker_fd(kv->waker);
	err = waker_new(&kv->waker);
	if (err)
		return err;
	if (kv->link.session)
		queue_event_attach(kv);
	queue_rest_waking(kv);
	/* No notification follows, and waker_clear() may have removed an earlier one. */
	if (gate_alerts(kv->gate) & GATE_BROKEN)
		waker_raise(kv->waker);
	return waker_fd(kv->waker);
}
