/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sweep_priv.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

#include "barrier.h"

/* Sessions often die together: a sweep starts this long after the first death. */
#define BATCH_NS (200 * NS_PER_MS)
/* The pause after a sweep: this many times its cost, and at least PAUSE_MIN_NS. */
#define PAUSE_FACTOR 20
#define PAUSE_MIN_NS NS_PER_SEC
/* How long to wait for a silent process of this host, which may be stopped. */
#define SILENT_LOCAL_NS (2 * NS_PER_SEC)
/* As long as a barrier waits for a remote session. Then it is cut off. */
#define SILENT_REMOTE_NS (10 * NS_PER_SEC)
/* Until the next attempt after a sweep was given up: doubles up to the maximum. */
#define RETRY_MIN_NS (2 * NS_PER_SEC)
#define RETRY_MAX_NS (60 * NS_PER_SEC)
/* Between two looks whether a lingering process is gone. */
#define GHOST_NS NS_PER_SEC
/* After this many restarts in a row new writers have to wait, ... */
#define RESTARTS_HOLD 3
/* ... but not longer than one attempt of a client to connect, which takes 2 s. */
#define HOLD_NS (1700 * NS_PER_MS)
/* After this many restarts the request for a sweep fails. */
#define RESTARTS_MAX 10

/* ---- when ---------------------------------------------------------------------- */

static void due_in(struct sweep *w, uint64_t ns)
{
	struct timeval tv = {.tv_sec = (time_t)(ns / NS_PER_SEC),
			     .tv_usec = (suseconds_t)(ns % NS_PER_SEC / 1000)};

	event_add(w->due, &tv);
}

void sweep_schedule(struct control *c)
{
	struct sweep *w = c->sweep;
	uint64_t now = clock_now_ns(), at;

	if (c->drain_until || w->phase != SWEEP_IDLE)
		return;
	if (w->done) {
		due_in(w, 0);
		return;
	}
	if (!sweep_is_due(w))
		return;
	at = UTIL_MAX(w->first_death_ns + BATCH_NS, w->not_before_ns);
	due_in(w, at > now ? at - now : 0);
}

static void tell_outcome(struct control *c, enum sweep_result result)
{
	struct sweep *w = c->sweep;
	void (*done)(struct control *, const struct sweep_outcome *) = w->done;

	w->outcome.result = result;
	w->done = NULL;
	if (done)
		done(c, &w->outcome);
}

/* ---- end ------------------------------------------------------------------------ */

static void announce(struct control *c, uint8_t type)
{
	struct msg m = {.type = type, .epoch.number = c->sweep->number};
	struct session *s, *next;

	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (sweep_takes_part(s) && !session_send(s, &m, NULL, NULL, 0))
			control_end_session(s);
	}
}

/* End the sweep; the marks are removed in any case. */
static void stop(struct control *c)
{
	struct sweep *w = c->sweep;

	w->phase = SWEEP_CLEAR;
	w->cursor = 0;
	w->filling = NULL;
	w->again = false;
	announce(c, MSG_SWEEP_END);
	work_start(&c->work, &w->work);
}

/* Resume writers that have been held up for `ns`; true: there are others. */
static bool release_some(struct control *c, uint64_t now, uint64_t ns)
{
	struct session *s;
	bool others;

	do {
		others = false;
		TAILQ_FOREACH(s, &c->sessions, link) {
			if (s->parked && now - s->connected_ns >= ns)
				break;
			others |= s->parked;
		}
		if (s)
			welcome_resume(s);
	} while (s);
	return others;
}

static void release_writers(struct control *c)
{
	c->sweep->restarts = 0;
	(void)release_some(c, clock_now_ns(), 0);
}

void sweep_finish(struct control *c)
{
	struct sweep *w = c->sweep;
	uint64_t now = clock_now_ns();
	char size[24];

	w->stats.sweeps++;
	w->stats.swept += w->outcome.leaked;
	w->stats.last_ns = now - w->began_ns;
	w->not_before_ns =
		now + UTIL_MAX(PAUSE_FACTOR * w->cpu_ns, PAUSE_MIN_NS);
	w->retry_ns = 0;
	if (w->outcome.leaked)
		log_info("sweep: %" PRIu64 " blocks (%s) of %" PRIu64
			 " dead sessions given back, after %" PRIu64 " ms",
			 w->outcome.leaked,
			 util_format_size(w->outcome.leaked_bytes, size,
					  sizeof(size)),
			 w->stats.deaths, w->stats.last_ns / NS_PER_MS);
	w->stats.deaths = 0;
	w->lost = false;
	w->ghost_told = false;
	if (w->outcome.leaked)
		barrier_want(c);
	stop(c);
	tell_outcome(c, SWEEP_DONE);
	release_writers(c);
}

/* `s`, of this host, does not answer: try again later. */
static void give_up(struct control *c, const struct session *s)
{
	struct sweep *w = c->sweep;
	char peer[80];

	w->retry_ns = w->retry_ns ? UTIL_MIN(2 * w->retry_ns, RETRY_MAX_NS) :
				    RETRY_MIN_NS;
	w->not_before_ns = clock_now_ns() + w->retry_ns;
	log_info("sweep given up: session %u (%s) does not answer; again in "
		 "%u s",
		 s->id, session_peer(s, peer),
		 (unsigned)(w->retry_ns / NS_PER_SEC));
	w->outcome.session = s->id;
	w->outcome.pid = s->pid;
	stop(c);
	tell_outcome(c, SWEEP_SILENT);
	release_writers(c);
}

/* A session died during the sweep with blocks that it cannot claim any more. */
static void restart(struct control *c)
{
	struct sweep *w = c->sweep;

	w->restarts++;
	w->first_death_ns = clock_now_ns();
	w->not_before_ns = 0;
	stop(c);
	if (w->restarts <= RESTARTS_MAX)
		return;
	tell_outcome(c, SWEEP_BUSY);
	/* Deaths go on: do not hold up writers forever. */
	release_writers(c);
}

/* ---- begin --------------------------------------------------------------------------- */

static void owe(struct session *s, uint64_t now)
{
	s->sweep.number = s->sweep.owed = s->control->sweep->number;
	s->sweep.due = 1;
	s->sweep.asked = 0;
	s->sweep.since_ns = now;
	s->control->sweep->acks++;
}

/* The walk begins when every session has acknowledged SWEEP_BEGIN. */
void sweep_acks_check(struct control *c)
{
	struct sweep *w = c->sweep;

	if (w->acks || w->again)
		return;
	if (w->phase == SWEEP_BEGUN)
		w->phase = SWEEP_WALK;
	if (w->phase == SWEEP_WALK)
		work_start(&c->work, &w->work);
}

static void begin(struct control *c)
{
	struct sweep *w = c->sweep;
	struct session *s;

	w->phase = SWEEP_BEGUN;
	w->number++;
	w->began_ns = clock_now_ns();
	w->cpu_ns = 0;
	w->acks = w->asked = w->settled = 0;
	w->cursor = 0;
	w->listed = false;
	w->walk = (struct region_walk){0};
	w->outcome = (struct sweep_outcome){0};
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->welcomed && !s->left)
			owe(s, w->began_ns);
	control_tick_soon(c);
	announce(c, MSG_SWEEP_BEGIN);
	sweep_acks_check(c);
}

/*
 * A lingering process may live as long as it likes: neither writers nor the request for the
 * sweep wait for it forever.
 */
static void await_ghost(struct control *c)
{
	struct sweep *w = c->sweep;
	uint64_t now = clock_now_ns(), until = w->asked_ns + SILENT_LOCAL_NS;
	const struct tether *t = departed_first(&c->departed);
	uint32_t id = t->id; /* release_writers() may free `t` */
	pid_t pid = t->pid;

	if (!w->ghost_told && pid)
		log_info("a sweep waits for process %d, which left session %u "
			 "without goodbye, to unmap the region",
			 (int)pid, id);
	else if (!w->ghost_told)
		log_info("a sweep waits for a process in another pid namespace, "
			 "which left session %u without goodbye, to unmap the region",
			 id);
	w->ghost_told = true;
	release_writers(c);
	if (!w->done) {
		due_in(w, GHOST_NS);
		return;
	}
	if (now < until) {
		due_in(w, UTIL_MIN(until - now, BATCH_NS));
		return;
	}
	w->outcome.session = id;
	w->outcome.pid = pid;
	tell_outcome(c, SWEEP_GHOST);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	struct sweep *w = c->sweep;

	(void)fd;
	(void)what;
	if (c->drain_until)
		return;
	if (sweep_is_on(w) && w->again)
		restart(c);
	else if (w->phase != SWEEP_IDLE || (!w->done && !sweep_is_due(w)))
		return;
	else if (departed_gone(&c->departed))
		begin(c);
	else
		await_ghost(c);
}

void sweep_lost(struct control *c)
{
	struct sweep *w = c->sweep;

	if (!sweep_is_due(w))
		w->first_death_ns = clock_now_ns();
	w->lost = true;
	sweep_schedule(c);
}

/* ---- events of sessions ------------------------------------------------------------------ */

void sweep_granted(struct session *s, const struct block_ref *refs, size_t n)
{
	struct control *c = s->control;

	if (n)
		s->sweep.granted = true;
	for (size_t i = 0; sweep_is_on(c->sweep) && i < n; i++)
		(void)slab_mark(c->slab, refs[i]);
}

bool sweep_welcomed(struct session *s)
{
	struct sweep *w = s->control->sweep;
	struct msg m = {.type = MSG_SWEEP_BEGIN, .epoch.number = w->number};

	if (w->phase != SWEEP_BEGUN && w->phase != SWEEP_WALK)
		return true;
	owe(s, clock_now_ns());
	return control_reply(s, &m, 0, NULL);
}

static void no_more_of(struct session *s)
{
	struct control *c = s->control;

	if (!sweep_is_on(c->sweep) || s->sweep.number != c->sweep->number)
		return;
	if (s->sweep.owed) {
		s->sweep.owed = 0;
		c->sweep->acks--;
	}
	sweep_answered(s, s->sweep.asked);
}

void sweep_session_left(struct session *s)
{
	no_more_of(s);
	sweep_acks_check(s->control);
	sweep_settle(s->control);
}

void sweep_session_ended(struct session *s)
{
	struct control *c = s->control;
	struct sweep *w = c->sweep;

	if (!s->welcomed)
		return;
	no_more_of(s);
	if (!s->left && s->sweep.granted) {
		if (w->stats.deaths++ == 0)
			w->first_death_ns = clock_now_ns();
		w->again = sweep_is_on(w);
	}
	sweep_acks_check(c);
	sweep_settle(c);
	/* Only scheduled: the caller may be walking a list of sessions. */
	if (w->again && !c->drain_until)
		due_in(w, 0);
	else
		sweep_schedule(c);
}

void sweep_departed_changed(struct control *c)
{
	sweep_schedule(c);
}

bool sweep_holds_writers(const struct control *c)
{
	return c->sweep->restarts >= RESTARTS_HOLD && !c->drain_until;
}

/* ---- silence ------------------------------------------------------------------------------- */

static bool is_silent(const struct session *s, uint64_t now)
{
	uint64_t limit = s->port->remote ? SILENT_REMOTE_NS : SILENT_LOCAL_NS;

	return sweep_takes_part(s) &&
	       (s->sweep.owed || s->sweep.due <= s->sweep.asked) &&
	       now - s->sweep.since_ns >= limit;
}

bool sweep_tick(struct control *c)
{
	struct sweep *w = c->sweep;
	struct session *s, *next;
	char peer[80];
	uint64_t now;

	if (!c->drain_until && release_some(c, clock_now_ns(), HOLD_NS))
		control_tick_soon(c);
	now = clock_now_ns(); /* read again: the resumed writers owe an answer since a moment ago */
	if (!sweep_is_on(w) || w->again)
		return sweep_is_on(w);
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!is_silent(s, now))
			continue;
		if (control_end_dead(s))
			continue;
		if (!s->port->remote) {
			give_up(c, s);
			return false;
		}
		log_warn("session %u (%s) does not answer: cut off", s->id,
			 session_peer(s, peer));
		control_end_session(s);
	}
	return true;
}

/* ---- life ---------------------------------------------------------------------------------- */

void sweep_request(struct control *c,
		   void (*done)(struct control *c,
				const struct sweep_outcome *o))
{
	c->sweep->done = done;
	c->sweep->asked_ns = clock_now_ns();
	sweep_schedule(c);
}

bool sweep_hurry(struct control *c)
{
	struct sweep *w = c->sweep;

	if (sweep_is_on(w))
		return true;
	if (!sweep_is_due(w) || !departed_gone(&c->departed) || w->retry_ns)
		return false;
	w->not_before_ns = 0;
	w->first_death_ns = 0;
	sweep_schedule(c);
	return true;
}

bool sweep_running(const struct control *c)
{
	return sweep_is_on(c->sweep);
}

struct sweep_stats sweep_stats(const struct control *c)
{
	return c->sweep->stats;
}

bool sweep_init(struct control *c)
{
	struct sweep *w = calloc(1, sizeof(*w));

	if (!w)
		return false;
	c->sweep = w;
	w->work = (struct work){.step = sweep_step, .arg = c};
	w->due = evtimer_new(c->base, on_due, c);
	w->questions = calloc(QUESTIONS, sizeof(*w->questions));
	return w->due && w->questions;
}

void sweep_fini(struct control *c)
{
	struct sweep *w = c->sweep;

	if (!w)
		return;
	if (w->due)
		event_free(w->due);
	free(w->questions);
	free(w);
	c->sweep = NULL;
}
