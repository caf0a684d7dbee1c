/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop handles what the receive thread has taken. Each round it takes one message of
 * each client in turn, for a short time.
 */
#include "config.h"

#include "arrivals.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "common/base/clock.h"
#include "inbox.h"
#include "peer.h"

/* Longest time that one round spends on messages. */
#define DISPATCH_NS UINT64_C(500000)

/* Deliver one message; after the last one of a peer that hung up, end the peer. */
static void deliver(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;
	bool last;
	struct arrival *a = verbs_inbox_take(p, &last);
	const char *hung_up = last ? p->hung_up : NULL;

	if (a) {
		vs->n.received++;
		p->heard_ns = clock_now_ns();
		/* A message may arrive before rdma_cm's ESTABLISHED event. */
		verbs_peer_established(p);
		if (!p->ending)
			vs->cfg.ops->on_message(vs->cfg.arg, p, a->bytes,
						a->len);
		free(a);
	}
	if (hung_up)
		verbs_peer_gone(p, hung_up);
}

enum turn { NOBODY, BUSY, SERVED };

/* Serve the next peer. */
static enum turn serve_one(struct verbs_server *vs)
{
	enum verbs_overrun why;
	struct verbs_peer *p = verbs_inbox_next(vs, &why);
	bool busy;

	if (!p)
		return NOBODY;
	if (why) {
		verbs_peer_overrun(p, why);
		return SERVED;
	}
	busy = p->up && !vs->cfg.ops->may_take(vs->cfg.arg, p);
	if (!busy)
		deliver(p);
	if (!p->ending)
		verbs_inbox_return(p);
	return busy ? BUSY : SERVED;
}

/* Hand messages to the loop until the time is over or all remaining peers are busy. */
static void messages_dispatch(struct verbs_server *vs)
{
	uint64_t until = clock_now_ns() + DISPATCH_NS;
	uint32_t busy = 0, waiting;
	enum turn t;

	do {
		t = serve_one(vs);
		busy = t == BUSY ? busy + 1 : 0;
		waiting = verbs_inbox_waiting(vs);
	} while (t != NOBODY && busy < waiting && clock_now_ns() < until);
	if (waiting)
		(void)eventfd_write(vs->arrived_fd, 1);
}

void verbs_arrivals_dispatch(struct verbs_server *vs)
{
	struct arrival_list list = STAILQ_HEAD_INITIALIZER(list);
	struct arrival *a;
	eventfd_t n;

	(void)eventfd_read(vs->arrived_fd, &n);
	pthread_mutex_lock(&vs->lock);
	STAILQ_CONCAT(&list, &vs->arrivals);
	pthread_mutex_unlock(&vs->lock);
	while ((a = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, link);
		verbs_peer_sent(vs, a);
		free(a);
	}
	messages_dispatch(vs);
}
