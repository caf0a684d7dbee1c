/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "passes.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proto/clustermap.h"

#include "core.h"
#include "fence.h"
#include "session.h"
#include "waiters.h"

/* Of one PASSED: it has three other figures. */
#define RANGES_MAX (MSG_STATS_MAX - 8u)

struct passes {
	struct session *follower; /* NULL: none */
	uint64_t server;     /* whose it is: a number in the map */
	uint64_t began_ns;   /* its pass that runs, ... */
	uint64_t applied_ns; /* ... and the latest that is applied; 0: none */
	uint64_t asked_ns;   /* when the latest of `applied` came there */
	struct waiters applied; /* for a view of the map in which the follower would take over */
	struct waiters running; /* for the pass that runs */
	struct waiters next;    /* for the one that begins after it */
	struct waiters unfollowed; /* their follower is gone; answered at the next tick */
};

/* ---- waiting ------------------------------------------------------------------------------ */

static void answer_all(struct waiters *list, uint64_t result)
{
	struct msg r = {.type = MSG_WAITED, .epoch = {.number = result}};
	struct session *s;
	uint32_t req;

	while ((s = waiters_take(list, &req)))
		(void)session_reply(s, &r, req, NULL);
}

static void forget(struct passes *p, const struct session *s)
{
	waiters_drop(&p->running, s);
	waiters_drop(&p->next, s);
	waiters_drop(&p->applied, s);
}

bool passes_on_wait(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_WAITED};
	struct passes *p = s->control->passes;

	/* Its client no longer waits for the previous one. */
	forget(p, s);
	if (!p->follower)
		return session_reply(s, &r, m->req, NULL);
	if (waiters_add(&p->next, s, m->req))
		return true;
	session_refuse(s, MSG_REASON_INTERNAL, "the server is out of memory");
	return false;
}

/* Nobody follows, or another server does, from the beginning. */
static void follower_gone(struct control *c)
{
	struct passes *p = c->passes;

	p->follower = NULL;
	p->applied_ns = 0;
	TAILQ_CONCAT(&p->unfollowed, &p->applied, link);
	TAILQ_CONCAT(&p->unfollowed, &p->running, link);
	TAILQ_CONCAT(&p->unfollowed, &p->next, link);
	if (!TAILQ_EMPTY(&p->unfollowed))
		core_tick_soon(c);
}

/* A takeover would give this follower all that the server has: the map says that its copy is whole.
 */
static bool is_whole(const struct control *c)
{
	const struct clustermap *map = c->cfg.map;

	return map && map->server[c->cfg.server].follower == c->passes->server;
}

/* The follower has applied its pass, and begins the next. */
static void follow(struct session *s, uint64_t server)
{
	struct passes *p = s->control->passes;

	/* It does not wait itself, so no answer below ends this session. */
	forget(p, s);
	if (p->follower == s) {
		p->applied_ns = p->began_ns;
	} else {
		follower_gone(s->control);
		p->follower = s;
		p->server = server;
	}
	p->began_ns = clock_now_ns();
	if (p->applied_ns && !TAILQ_EMPTY(&p->running)) {
		TAILQ_CONCAT(&p->applied, &p->running, link);
		p->asked_ns = p->began_ns;
		if (s->control->membership)
			core_look_at_map(s->control);
		else
			answer_all(&p->applied, 1);
	}
	TAILQ_CONCAT(&p->running, &p->next, link);
}

void passes_confirm(struct control *c, uint64_t as_of_ns)
{
	struct passes *p = c->passes;

	if (as_of_ns >= p->asked_ns && is_whole(c))
		answer_all(&p->applied, 1);
}

bool passes_followed(const struct control *c, uint64_t *lag_ms_out)
{
	const struct passes *p = c->passes;
	bool followed = p->applied_ns && is_whole(c);

	*lag_ms_out = followed ? (clock_now_ns() - p->applied_ns) / NS_PER_MS : 0;
	return followed;
}

/* ---- PASS ----------------------------------------------------------------------------------- */

/* Add the pages since the session's last PASS, as many as there is room for. */
static void add_resets(struct session *s, struct msg *r)
{
	struct resets *resets = slab_resets(s->control->slab);

	if (!s->passes || !resets_reach(resets, s->reset)) {
		(void)resets_begin(resets); /* without memory for it the next answer is as this one */
		msg_add_stat(r, MSG_PASSED_ALL, 1);
		s->reset = resets->next;
	}
	for (unsigned n = 0; n < RANGES_MAX && s->reset < resets->next; n++) {
		struct reset at = resets_at(resets, s->reset++);

		msg_add_stat(r, MSG_PASSED_PAGES, (uint64_t)at.pages << 40 | at.page);
	}
	if (s->reset < resets->next)
		msg_add_stat(r, MSG_PASSED_MORE, 1);
	s->passes = true;
}

bool passes_on_pass(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_PASSED};
	uint64_t fenced = fence_complete(s->control);

	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION, "a read-only session wants to copy the store");
		return false;
	}
	if (s->control->cfg.map && s->map_epoch < s->control->cfg.grown_epoch) {
		log_debug("session %u copies too little by the map that it knows", s->id);
		session_end(s);
		return false;
	}
	if ((m->epoch.number & MSG_PASS_KIND_MASK) == MSG_PASS_FOLLOW)
		follow(s, m->epoch.number >> MSG_PASS_SERVER_SHIFT);
	if (fenced)
		msg_add_stat(&r, MSG_PASSED_FENCED, fenced);
	add_resets(s, &r);
	return session_reply(s, &r, m->req, NULL);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static bool tick(struct control *c)
{
	answer_all(&c->passes->unfollowed, 0);
	return false;
}

static void session_ended(struct session *s)
{
	struct passes *p = s->control->passes;

	forget(p, s);
	waiters_drop(&p->unfollowed, s);
	if (p->follower == s)
		follower_gone(s->control);
}

static bool init(struct control *c)
{
	struct passes *p = calloc(1, sizeof(*p));

	if (!p)
		return false;
	c->passes = p;
	TAILQ_INIT(&p->applied);
	TAILQ_INIT(&p->running);
	TAILQ_INIT(&p->next);
	TAILQ_INIT(&p->unfollowed);
	return true;
}

static void fini(struct control *c)
{
	struct passes *p = c->passes;

	if (!p)
		return;
	waiters_drop(&p->applied, NULL);
	waiters_drop(&p->running, NULL);
	waiters_drop(&p->next, NULL);
	waiters_drop(&p->unfollowed, NULL);
	free(p);
	c->passes = NULL;
}

const struct loop_module passes_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
	.tick = tick,
};
