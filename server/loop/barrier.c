/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "barrier.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/memory/step.h"

#include "core.h"
#include "session.h"

/* Calls of barrier_want() come in bursts: the delay grows with the number of sessions that answer.
 */
#define PAUSE_MS 10u
#define PAUSE_SESSIONS_PER_MS 8u
/* A barrier that takes longer is stuck; see barrier_stuck(). */
#define STUCK_NS NS_PER_SEC
/* Sessions that are silent for longer are cut off (RDMA) or named in the log. */
#define SILENT_NS (10 * NS_PER_SEC)
#define REPORT_PAUSE_NS (60 * NS_PER_SEC)

static bool anything_waits(const struct control *c)
{
	return slab_count(c->slab).exhausted > 0 ||
	       heap_retired(c->region->heap) > 0;
}

void barrier_want(struct control *c)
{
	unsigned ms = PAUSE_MS + c->n_connections / PAUSE_SESSIONS_PER_MS;
	struct timeval tv = {.tv_usec = (suseconds_t)UTIL_MIN(ms, 999u) * 1000};

	if (!c->barrier->on && !event_pending(c->barrier->due, EV_TIMEOUT, NULL))
		event_add(c->barrier->due, &tv);
}

void barrier_now(struct control *c)
{
	static const struct timeval now = {0};

	if (c->barrier->on)
		c->barrier->hurry = true;
	else
		event_add(c->barrier->due, &now);
}

bool barrier_stuck(const struct control *c)
{
	return c->barrier->on && clock_now_ns() - c->barrier->began_ns > STUCK_NS;
}

/* Ends the barrier if every session has answered and no lingering process is left. */
static void check(struct control *c)
{
	struct barrier *b = c->barrier;

	if (!b->on || b->waits > 0 || !lingering_gone(&c->lingering))
		return;
	if (b->reported_ns)
		log_info("all have answered the barrier: the memory that waited for it is free");
	b->on = false;
	b->passed++;
	step_reached(STEP_BARRIER_OVER);
	slab_barrier_passed(c->slab);
	heap_barrier_passed(c->region->heap);
	core_memory_freed(c);
	if (anything_waits(c)) {
		if (b->hurry)
			barrier_now(c);
		else
			barrier_want(c);
	}
	b->hurry = false;
}

static void start(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	struct barrier *b = c->barrier;
	struct msg m = {.type = MSG_BARRIER};
	struct session *s, *next;
	bool blocks, pages;

	(void)fd;
	(void)what;
	if (b->on)
		return;
	blocks = slab_barrier_begin(c->slab);
	pages = heap_barrier_begin(c->region->heap);
	if (!blocks && !pages)
		return;
	b->on = true;
	b->began_ns = clock_now_ns();
	b->reported_ns = 0;
	m.epoch.number = ++b->number;
	core_tick_soon(c);
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->welcomed) {
			s->barrier_owed = b->number;
			b->waits++;
		}
	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (s->barrier_owed && !session_send(s, &m, NULL, NULL, 0))
			session_end(s);
		step_reached(STEP_BARRIER);
	}
	check(c);
}

static void session_ended(struct session *s)
{
	if (!s->barrier_owed)
		return;
	s->barrier_owed = 0;
	s->control->barrier->waits--;
	check(s->control);
}

bool barrier_on_ack(struct session *s, const struct msg *m)
{
	if (!s->barrier_owed || s->barrier_owed != m->epoch.number) {
		session_refuse(s, MSG_REASON_PROTOCOL,
			       "a barrier was acknowledged that is not due");
		return false;
	}
	session_ended(s);
	return true;
}

/* ---- the silent ---------------------------------------------------------- */

/* RDMA only: after the fence no operation of the session can reach the region. */
static void cut_off(struct control *c)
{
	struct session *s, *next;
	char peer[80];

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (!s->barrier_owed)
			continue;
		if (session_end_dead(s) || !s->port->remote)
			continue;
		log_warn("session %u (%s) does not answer: cut off", s->id,
			 session_peer(s, peer));
		session_end(s);
	}
}

static void report(struct control *c, uint64_t now)
{
	struct slab_counts n = slab_count(c->slab);
	uint64_t s_long = (now - c->barrier->began_ns) / NS_PER_SEC;
	char peer[80], size[16];
	const struct tether *t;
	struct session *s;

	util_format_size(n.bytes_exhausted +
				 heap_retired(c->region->heap) * PAGE_BYTES,
			 size, sizeof(size));
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->barrier_owed)
			log_warn("session %u (%s) has not answered for %llu s: "
				 "is it stopped? %s of memory wait for it",
				 s->id, session_peer(s, peer),
				 (unsigned long long)s_long, size);
	if (lingering_gone(&c->lingering))
		return;
	t = lingering_first(&c->lingering);
	if (t->pid)
		log_warn("pid %d left session %u without goodbye and still "
			 "runs: %s of memory wait for its end",
			 (int)t->pid, t->id, size);
	else
		log_warn("a process in another PID namespace left session %u "
			 "without goodbye and still runs: %s of memory wait "
			 "for its end", t->id, size);
}

static bool tick(struct control *c)
{
	struct barrier *b = c->barrier;
	uint64_t now = clock_now_ns();

	check(c);
	if (b->on && now - b->began_ns >= SILENT_NS)
		cut_off(c);
	if (b->on && now - b->began_ns >= SILENT_NS &&
	    (!b->reported_ns || now - b->reported_ns >= REPORT_PAUSE_NS)) {
		b->reported_ns = now;
		report(c, now);
	}
	return b->on;
}

/* ---- life ---------------------------------------------------------------- */

static bool init(struct control *c)
{
	c->barrier = calloc(1, sizeof(*c->barrier));
	if (c->barrier)
		c->barrier->due = evtimer_new(c->base, start, c);
	return c->barrier && c->barrier->due;
}

static void fini(struct control *c)
{
	if (c->barrier && c->barrier->due)
		event_free(c->barrier->due);
	free(c->barrier);
}

const struct loop_module barrier_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
	.tick = tick,
};
