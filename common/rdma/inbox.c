/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the receive thread has copied and the server's loop has not handled yet.
 * The shared receive buffers are posted again at once, so a client can send at the speed of
 * the network; this inbox is bounded per client and in total.
 */
#include "config.h"

#include "inbox.h"

#include <stdlib.h>
#include <string.h>

/*
 * A well-behaved client sends most when it closes: 64 MiB of unused 64-byte blocks, the most it
 * holds, make 9 MiB of RETURNs, which it sends without waiting.
 */
#define HELD_PEER (16u << 20)
#define HELD_ALL (64u << 20)

/* ---- under the lock ---------------------------------------------------------------------- */

struct arrival *verbs_arrival_new(struct verbs_server *vs,
				  const struct ibv_wc *wc)
{
	bool is_send = (wc->wr_id & WR_SEND) != 0;
	uint32_t len = !is_send && wc->status == IBV_WC_SUCCESS ? wc->byte_len
								 : 0;
	struct arrival *a = malloc(sizeof(*a) + len);

	if (!a)
		return NULL;
	*a = (struct arrival){.is_send = is_send,
			      .status = wc->status,
			      .qp_num = wc->qp_num,
			      .slot = (uint32_t)wc->wr_id,
			      .len = len};
	memcpy(a->bytes, vs->recv_bufs + (uint32_t)wc->wr_id *
						 (size_t)vs->cfg.msg_max, len);
	return a;
}

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

static struct arrival *take(struct verbs_peer *p)
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

	while ((a = take(p)))
		free(a);
}

/* The peer's later messages would follow a gap, so the loop ends the peer. */
static void overrun(struct verbs_peer *p, enum verbs_overrun why)
{
	inbox_empty(p);
	p->overrun = why;
	ready_put(p);
}

static struct peer_list *bucket(struct verbs_server *vs, uint32_t qp_num)
{
	return &vs->peers[qp_num % PEER_BUCKETS];
}

static struct verbs_peer *peer_by_qp(struct verbs_server *vs, uint32_t qp_num)
{
	struct verbs_peer *p;

	LIST_FOREACH(p, bucket(vs, qp_num), link)
		if (p->control.qp->qp_num == qp_num)
			return p;
	return NULL;
}

/* The peer with most bytes in its inbox; `most` if none has more than it. */
static struct verbs_peer *heaviest(struct verbs_server *vs, struct verbs_peer *most)
{
	struct verbs_peer *p;

	for (unsigned i = 0; i < PEER_BUCKETS; i++)
		LIST_FOREACH(p, &vs->peers[i], link)
			if (p->held > most->held)
				most = p;
	return most;
}

void verbs_inbox_add(struct verbs_server *vs, const struct ibv_wc *wc)
{
	struct verbs_peer *p = peer_by_qp(vs, wc->qp_num);
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
		overrun(heaviest(vs, p), VERBS_OVERRUN_BOUND);
}

/* ---- the loop's side -------------------------------------------------------------- */

void verbs_inbox_join(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;

	STAILQ_INIT(&p->inbox);
	pthread_mutex_lock(&vs->lock);
	LIST_INSERT_HEAD(bucket(vs, p->control.qp->qp_num), p, link);
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

bool verbs_inbox_is_empty(struct verbs_peer *p)
{
	bool empty;

	pthread_mutex_lock(&p->server->lock);
	empty = STAILQ_EMPTY(&p->inbox);
	pthread_mutex_unlock(&p->server->lock);
	return empty;
}

struct verbs_peer *verbs_inbox_next(struct verbs_server *vs,
				    enum verbs_overrun *overrun_out)
{
	struct verbs_peer *p;

	pthread_mutex_lock(&vs->lock);
	p = TAILQ_FIRST(&vs->ready);
	if (p) {
		ready_drop(p);
		*overrun_out = p->overrun;
	}
	pthread_mutex_unlock(&vs->lock);
	return p;
}

struct arrival *verbs_inbox_take(struct verbs_peer *p, bool *last_out)
{
	struct arrival *a;

	pthread_mutex_lock(&p->server->lock);
	a = take(p);
	*last_out = STAILQ_EMPTY(&p->inbox);
	pthread_mutex_unlock(&p->server->lock);
	return a;
}

void verbs_inbox_return(struct verbs_peer *p)
{
	pthread_mutex_lock(&p->server->lock);
	ready_put(p);
	pthread_mutex_unlock(&p->server->lock);
}

uint32_t verbs_inbox_waiting(struct verbs_server *vs)
{
	uint32_t n;

	pthread_mutex_lock(&vs->lock);
	n = vs->n_ready;
	pthread_mutex_unlock(&vs->lock);
	return n;
}
