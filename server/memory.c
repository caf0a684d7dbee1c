/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sessions ask of the allocator. A request that finds no block waits for
 * those that become free by themselves: returned ones in limbo (T) and worn ones
 * (a barrier). What others hold and do not use is asked back (RECLAIM), but not
 * waited for.
 */
#include "config.h"

#include "control_priv.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"

/* RECLAIM goes out this often at most. */
#define RECLAIM_PAUSE_NS (100 * NS_PER_MS)
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

void memory_resume(struct control *c)
{
	static const struct timeval now = {0};

	if (!TAILQ_EMPTY(&c->deferred))
		event_add(c->deferred_due, &now);
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
		barrier_want(c);
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
}

bool memory_init(struct control *c)
{
	TAILQ_INIT(&c->deferred);
	c->deferred_due = evtimer_new(c->base, deferred_serve, c);
	return c->deferred_due != NULL;
}

void memory_fini(struct control *c)
{
	if (c->deferred_due)
		event_free(c->deferred_due);
}
