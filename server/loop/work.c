/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "work.h"

#include <event2/event.h>

#include "common/base/clock.h"

static void due(struct work_queue *q)
{
	static const struct timeval now = {0};

	if (!TAILQ_EMPTY(&q->list))
		event_add(q->due, &now);
}

/* One slice of one piece per round, in turn: the loop serves clients in between. */
static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct work_queue *q = arg;
	struct work *w = TAILQ_FIRST(&q->list);
	uint64_t now = clock_now_ns();

	(void)fd;
	(void)what;
	if (!w)
		return;
	TAILQ_REMOVE(&q->list, w, link);
	TAILQ_INSERT_TAIL(&q->list, w, link);
	if (!w->step(w->arg, now + WORK_SLICE_NS)) {
		w->on = false;
		TAILQ_REMOVE(&q->list, w, link);
	}
	pauses_add(q->pauses, w->kind, now);
	due(q);
}

bool work_queue_init(struct work_queue *q, struct event_base *base, struct pauses *pauses)
{
	TAILQ_INIT(&q->list);
	q->pauses = pauses;
	q->due = evtimer_new(base, on_due, q);
	return q->due != NULL;
}

void work_queue_fini(struct work_queue *q)
{
	if (q->due)
		event_free(q->due);
}

void work_start(struct work_queue *q, struct work *w)
{
	if (w->on)
		return;
	w->on = true;
	TAILQ_INSERT_TAIL(&q->list, w, link);
	due(q);
}
