/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the receive thread has copied and the server's loop has not handled yet.
 * The shared receive buffers are posted again at once, so a client can send at the speed of
 * the network; this inbox is bounded per client and in total. Each round the loop takes one
 * message of each client in turn, for a short time.
 */
#include "config.h"

#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/base/clock.h"

/*
 * An honest client sends most when it closes: 64 MiB of unused 64-byte blocks, the most it
 * holds, give 9 MiB of RETURNs, which it sends without waiting.
 */
#define HELD_PEER (16u << 20)
#define HELD_ALL (64u << 20)
/* Longest time of the loop here in one round. */
#define DISPATCH_NS UINT64_C(500000)

/* ---- the receive thread's side, under the lock ------------------------------------ */

static size_t held_bytes(const struct arrival *a)
{
	return sizeof(*a) + a->len;
}

static void ready_put(struct verbs_peer *p)
{
	if (p->ready || (STAILQ_EMPTY(&p->inbox) && !p->overrun))
		return;
	p->ready = true;
	p->server->n_ready++;
	TAILQ_INSERT_TAIL(&p->server->ready, p, ready_entry);
}

static void ready_drop(struct verbs_peer *p)
{
	if (!p->ready)
		return;
	p->ready = false;
	p->server->n_ready--;
	TAILQ_REMOVE(&p->server->ready, p, ready_entry);
}

static struct arrival *inbox_take(struct verbs_peer *p)
{
	struct arrival *a = STAILQ_FIRST(&p->inbox);

	if (!a)
		return NULL;
	STAILQ_REMOVE_HEAD(&p->inbox, link);
	p->held -= held_bytes(a);
	p->server->held -= held_bytes(a);
	return a;
}

static void inbox_empty(struct verbs_peer *p)
{
	struct arrival *a;

	while ((a = inbox_take(p)))
		free(a);
}

/* The peer's messages have a gap from here on, so the loop ends it. */
static void overrun(struct verbs_peer *p, enum verbs_overrun why)
{
	inbox_empty(p);
	p->overrun = why;
	ready_put(p);
}

static struct verbs_peer *heaviest(struct verbs_server *vs)
{
	struct verbs_peer *p, *most = NULL;

	for (unsigned i = 0; i < PEER_BUCKETS; i++)
		LIST_FOREACH(p, &vs->peers[i], link)
			if (!most || p->held > most->held)
				most = p;
	return most;
}

void verbs_inbox_add(struct verbs_server *vs, const struct ibv_wc *wc)
{
	struct verbs_peer *p = verbs_peer_by_qp(vs, wc->qp_num);
	struct arrival *a;

	if (!p || p->overrun)
		return;
	if (p->held + sizeof(*a) + wc->byte_len > HELD_PEER) {
		overrun(p, VERBS_OVERRUN_BOUND);
		return;
	}
	a = verbs_arrival_new(vs, wc);
	if (!a) {
		overrun(p, VERBS_OVERRUN_MEMORY);
		return;
	}
	STAILQ_INSERT_TAIL(&p->inbox, a, link);
	p->held += held_bytes(a);
	vs->held += held_bytes(a);
	ready_put(p);
	if (vs->held > HELD_ALL)
		overrun(heaviest(vs), VERBS_OVERRUN_BOUND);
}

/* ---- the loop's side -------------------------------------------------------------- */

void verbs_inbox_join(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;

	STAILQ_INIT(&p->inbox);
	pthread_mutex_lock(&vs->lock);
	LIST_INSERT_HEAD(verbs_peer_bucket(vs, p->control.qp->qp_num), p, link);
	pthread_mutex_unlock(&vs->lock);
}

void verbs_inbox_remove(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;

	pthread_mutex_lock(&vs->lock);
	LIST_REMOVE(p, link);
	inbox_empty(p);
	ready_drop(p);
	pthread_mutex_unlock(&vs->lock);
}

void verbs_inbox_hang_up(struct verbs_peer *p, const char *why)
{
	struct verbs_server *vs = p->server;
	bool waits;

	pthread_mutex_lock(&vs->lock);
	waits = !p->ending && !STAILQ_EMPTY(&p->inbox);
	pthread_mutex_unlock(&vs->lock);
	if (waits)
		p->hung_up = why;
	else
		verbs_peer_gone(p, why);
}

static struct verbs_peer *next_ready(struct verbs_server *vs)
{
	struct verbs_peer *p;

	pthread_mutex_lock(&vs->lock);
	p = TAILQ_FIRST(&vs->ready);
	if (p)
		ready_drop(p);
	pthread_mutex_unlock(&vs->lock);
	return p;
}

/* Deliver one message; after the last one of a peer that hung up, end the peer. */
static void deliver(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;
	struct arrival *a;
	bool last;

	pthread_mutex_lock(&vs->lock);
	a = inbox_take(p);
	last = STAILQ_EMPTY(&p->inbox) && p->hung_up;
	pthread_mutex_unlock(&vs->lock);
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
	if (last)
		verbs_peer_gone(p, p->hung_up);
}

enum turn { NOBODY, BUSY, SERVED };

/* Serve the next ready peer. */
static enum turn serve_one(struct verbs_server *vs)
{
	struct verbs_peer *p = next_ready(vs);
	enum verbs_overrun why;
	bool busy;

	if (!p)
		return NOBODY;
	pthread_mutex_lock(&vs->lock);
	why = p->overrun;
	pthread_mutex_unlock(&vs->lock);
	if (why) {
		verbs_peer_overrun(p, why);
		return SERVED;
	}
	busy = p->up && !vs->cfg.ops->may_take(vs->cfg.arg, p);
	if (!busy)
		deliver(p);
	pthread_mutex_lock(&vs->lock);
	if (!p->ending)
		ready_put(p);
	pthread_mutex_unlock(&vs->lock);
	return busy ? BUSY : SERVED;
}

void verbs_inbox_dispatch(struct verbs_server *vs)
{
	uint64_t until = clock_now_ns() + DISPATCH_NS;
	uint32_t busy = 0, waiting;
	enum turn t;

	do {
		t = serve_one(vs);
		busy = t == BUSY ? busy + 1 : 0;
		pthread_mutex_lock(&vs->lock);
		waiting = vs->n_ready;
		pthread_mutex_unlock(&vs->lock);
	} while (t != NOBODY && busy < waiting && clock_now_ns() < until);
	if (waiting)
		(void)eventfd_write(vs->arrived_fd, 1);
}
