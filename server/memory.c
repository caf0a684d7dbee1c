/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sessions ask of the allocator. A request that finds no block waits for
 * those that become free by themselves: returned ones in limbo (T) and worn ones
 * (a barrier). What others hold and do not use is asked back (RECLAIM), but not
 * waited for.
 *
 * The barrier (I5): every live session answers when all operations begun before
 * are over, and processes whose session ended without goodbye are waited for
 * until they are gone; who comes by RDMA and stays silent is cut off. After it
 * nobody holds a word of a worn block, so that the block's incarnations can start
 * again.
 */
#include "config.h"

#include "control_priv.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"

/* RECLAIM goes out this often at most. */
#define RECLAIM_PAUSE_NS (100 * NS_PER_MS)
/* Worn blocks come in swarms: a barrier starts this long after the first. */
#define BARRIER_PAUSE_MS 10
/* So long may the answer of a client take that can be cut off. */
#define BARRIER_MAX_NS (10 * NS_PER_SEC)
/* Between two looks at requests that wait. */
#define DEFERRED_PAUSE_MS 5
/* They wait for T and this long at most: a barrier may never pass. */
#define DEFERRED_MAX_NS NS_PER_SEC
/* Requests of one session that may wait; a client has one for each class. */
#define DEFERRED_PER_SESSION CLASS_COUNT

static void timer_start(struct event *e, int ms)
{
	struct timeval tv = {.tv_usec = ms * 1000};

	if (!event_pending(e, EV_TIMEOUT, NULL))
		event_add(e, &tv);
}

/* ---- barrier ------------------------------------------------------------- */

static void barrier_soon(struct control *c)
{
	if (!c->barrier_on)
		timer_start(c->barrier_due, BARRIER_PAUSE_MS);
}

/* Has everybody who could hold an old word let go of it? */
static void barrier_check(struct control *c)
{
	if (!c->barrier_on || c->barrier_waits > 0 ||
	    !departed_gone(&c->departed))
		return;
	c->barrier_on = false;
	slab_barrier_passed(c->slab);
	if (slab_count(c->slab).worn)
		barrier_soon(c);
}

static void barrier_start(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	struct msg m = {.type = MSG_BARRIER};
	struct session *s, *next;

	(void)fd;
	(void)what;
	if (c->barrier_on || !slab_barrier_begin(c->slab))
		return;
	c->barrier_on = true;
	control_tick_soon(c);
	c->barrier_ns = clock_now_ns();
	m.epoch.number = ++c->barrier;
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->welcomed) {
			s->barrier_owed = c->barrier;
			c->barrier_waits++;
		}
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->barrier_owed && !session_send(s, &m, NULL, NULL, 0))
			control_end_session(s);
	}
	barrier_check(c);
}

/*
 * Who comes by RDMA and does not answer is fenced: afterwards nothing of its can
 * reach the region. A process of this host cannot be; it is waited for.
 */
static void barrier_fence(struct control *c)
{
	struct session *s, *next;
	char peer[80];

	if (!c->barrier_on || clock_now_ns() - c->barrier_ns < BARRIER_MAX_NS)
		return;
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!s->barrier_owed || !s->port->remote)
			continue;
		log_warn("session %u (%s) does not answer: cut off", s->id,
			 session_peer(s, peer));
		control_end_session(s);
	}
}

bool memory_on_barrier_ack(struct session *s, const struct msg *m)
{
	if (!s->barrier_owed || s->barrier_owed != m->epoch.number) {
		control_refuse(s, MSG_REASON_PROTOCOL,
			       "a barrier was acknowledged that is not due");
		return false;
	}
	s->barrier_owed = 0;
	s->control->barrier_waits--;
	barrier_check(s->control);
	return true;
}

/* ---- grants -------------------------------------------------------------- */

/* Memory is out: ask the other sessions for what they hold and do not use. */
static void reclaim(struct session *asker)
{
	struct control *c = asker->control;
	uint64_t now = clock_now_ns();
	struct session *s, *next;
	struct msg m = {.type = MSG_RECLAIM};

	if (now - c->last_reclaim_ns < RECLAIM_PAUSE_NS)
		return;
	c->last_reclaim_ns = now;
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s != asker && s->welcomed && !s->readonly &&
		    !session_send(s, &m, NULL, NULL, 0))
			control_end_session(s);
	}
}

/* Blocks, or none if `give_up`; false if the request should wait. */
static bool try_grant(struct control *c, const struct deferred *d, bool give_up,
		      struct msg *g, struct block_ref *refs)
{
	*g = (struct msg){.type = MSG_GRANT};
	g->blocks.cls = d->cls;
	g->blocks.n = (uint32_t)slab_grant(c->slab, d->cls, d->count,
					   clock_now_ns(), refs);
	return g->blocks.n > 0 || give_up || !slab_pending(c->slab, d->cls);
}

static bool defer(struct control *c, const struct deferred *d)
{
	struct deferred *copy = malloc(sizeof(*copy));

	if (!copy)
		return false;
	*copy = *d;
	TAILQ_INSERT_TAIL(&c->deferred, copy, link);
	d->session->n_deferred++;
	timer_start(c->deferred_due, DEFERRED_PAUSE_MS);
	return true;
}

static void deferred_drop(struct control *c, struct deferred *d)
{
	TAILQ_REMOVE(&c->deferred, d, link);
	d->session->n_deferred--;
	free(d);
}

bool memory_on_grant(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	struct deferred d = {
		.session = s,
		.req = m->req,
		.cls = m->grant_req.cls,
		.count = m->grant_req.count,
		.until_ns = clock_now_ns() + c->region->sb.grace_ns +
			    DEFERRED_MAX_NS,
	};
	struct block_ref refs[MSG_REFS_MAX];
	struct msg g;

	if (s->readonly) {
		control_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for memory");
		return false;
	}
	c->stats.grants++;
	if (!try_grant(c, &d, s->n_deferred >= DEFERRED_PER_SESSION, &g,
		       refs) &&
	    defer(c, &d))
		return true;
	if (g.blocks.n == 0)
		reclaim(s);
	return control_reply(s, &g, d.req, refs);
}

static void deferred_serve(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	uint64_t now = clock_now_ns();
	struct block_ref refs[MSG_REFS_MAX];
	struct deferred *d, *last = TAILQ_LAST(&c->deferred, deferred_list);
	bool more = last != NULL;

	(void)fd;
	(void)what;
	while (more && (d = TAILQ_FIRST(&c->deferred))) {
		struct session *s = d->session;
		uint32_t req = d->req;
		struct msg g;

		more = d != last;
		if (!try_grant(c, d, now >= d->until_ns, &g, refs)) {
			TAILQ_REMOVE(&c->deferred, d, link);
			TAILQ_INSERT_TAIL(&c->deferred, d, link);
			continue;
		}
		deferred_drop(c, d);
		/* May end the session and with it requests, `last` too. */
		if (!control_reply(s, &g, req, refs))
			break;
	}
	if (!TAILQ_EMPTY(&c->deferred))
		timer_start(c->deferred_due, DEFERRED_PAUSE_MS);
}

bool memory_on_return(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	uint64_t now = clock_now_ns();

	/* It was given none: these would be somebody else's. */
	if (s->readonly) {
		control_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session returned memory");
		return false;
	}
	for (uint32_t i = 0; i < m->blocks.n; i++)
		if (!slab_return(c->slab, msg_ref(m, i),
				 (enum alloc_state)m->blocks.state, now)) {
			control_refuse(s, MSG_REASON_PROTOCOL,
				       "a block was returned that is not out");
			return false;
		}
	if (m->blocks.state == ALLOC_WORN)
		barrier_soon(c);
	return true;
}

/* ---- life ---------------------------------------------------------------- */

void memory_session_ended(struct session *s)
{
	struct control *c = s->control;
	struct deferred *d, *next;

	for (d = TAILQ_FIRST(&c->deferred); d; d = next) {
		next = TAILQ_NEXT(d, link);
		if (d->session == s)
			deferred_drop(c, d);
	}
	/* From afar it is fenced: its connection is gone (I6). */
	if (s->welcomed && !s->left && !s->port->remote)
		departed_add(&c->departed, s->id, s->pid);
	if (s->barrier_owed) {
		s->barrier_owed = 0;
		c->barrier_waits--;
		barrier_check(c);
	}
}

bool memory_tick(struct control *c)
{
	barrier_check(c);
	barrier_fence(c);
	return c->barrier_on;
}

bool memory_init(struct control *c)
{
	TAILQ_INIT(&c->deferred);
	c->barrier_due = evtimer_new(c->base, barrier_start, c);
	c->deferred_due = evtimer_new(c->base, deferred_serve, c);
	return c->barrier_due && c->deferred_due;
}

void memory_fini(struct control *c)
{
	if (c->barrier_due)
		event_free(c->barrier_due);
	if (c->deferred_due)
		event_free(c->deferred_due);
	departed_fini(&c->departed);
}
