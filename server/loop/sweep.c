/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sweep.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/probes.h"
#include "common/base/util.h"
#include "server/memory/slab_marks.h"
#include "server/memory/step.h"

#include "barrier.h"
#include "core.h"
#include "session.h"

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
#define LINGERING_NS NS_PER_SEC
/* After this many restarts in a row new writers have to wait, ... */
#define RESTARTS_HOLD 3
/* ... but not longer than one attempt of a client to connect, which takes 2 s. */
#define HOLD_NS (1700 * NS_PER_MS)
/* After this many restarts the request for a sweep fails. */
#define RESTARTS_MAX 10

/* Least room that slab_unmarked() needs. */
#define QUESTION_ROOM 64
/* Segments visited between two readings of the clock. */
#define SEGMENTS_STEP 16

/* Open questions at once, and candidates per question. */
#define QUESTIONS 8
#define QUESTION_BLOCKS 1000

enum sweep_phase {
	SWEEP_IDLE,
	SWEEP_BEGUN, /* SWEEP_BEGIN was sent: acknowledgements are awaited */
	SWEEP_WALK,  /* blocks named by the index are marked */
	SWEEP_ASK,   /* sessions are asked */
	SWEEP_CLEAR, /* the end: marks are removed */
};

struct sweep_question {
	uint32_t waits; /* sessions that have not answered */
	size_t n;
	struct block_ref refs[QUESTION_BLOCKS];
};

struct sweep {
	enum sweep_phase phase;
	struct event *due;  /* checks whether one can begin, or must begin again */
	struct work work;
	uint64_t number;  /* of the latest one */
	uint64_t began_ns;
	uint64_t cpu_ns;  /* time spent in slices */
	uint32_t acks;    /* sessions that owe one */
	uint32_t asked;   /* number of the last question */
	uint32_t settled; /* number up to which all have answered */
	struct sweep_question *questions; /* QUESTIONS, by number */
	struct sweep_question *filling;   /* the next question, or NULL */
	struct region_walk walk;
	uint64_t cursor;  /* of slab_unmarked(), then of slab_unmark() */
	bool listed;      /* there are no more candidates */
	bool again;       /* a session died during the sweep */
	bool lingering_notified;
	bool lost;        /* blocks are out that no session has, though none died */

	uint64_t first_death_ns; /* of the deaths not swept yet */
	uint64_t not_before_ns;
	uint64_t retry_ns;       /* 0: the last one was not given up */
	uint32_t restarts;

	void (*done)(struct control *c, const struct sweep_outcome *o);
	uint64_t asked_ns; /* time of the request */
	struct sweep_outcome outcome;
	struct sweep_stats stats;
};

static bool sweep_is_on(const struct sweep *w)
{
	return w->phase == SWEEP_BEGUN || w->phase == SWEEP_WALK || w->phase == SWEEP_ASK;
}

/* Sessions that take part; those that come during SWEEP_ASK have nothing to claim. */
static bool sweep_takes_part(const struct session *s)
{
	return s->welcomed && !s->left &&
	       s->sweep.number == s->control->sweep->number;
}

/** True if there is anything to sweep. */
static bool sweep_is_due(const struct sweep *w)
{
	return w->stats.deaths > 0 || w->lost;
}

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

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next)
		if (sweep_takes_part(s) && !session_send(s, &m, NULL, NULL, 0))
			session_end(s);
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
			if (s->resume && now - s->connected_ns >= ns)
				break;
			others |= s->resume != NULL;
		}
		if (s)
			s->resume(s);
	} while (s);
	return others;
}

static void release_writers(struct control *c)
{
	c->sweep->restarts = 0;
	(void)release_some(c, clock_now_ns(), 0);
}

static void sweep_finish(struct control *c)
{
	struct sweep *w = c->sweep;
	uint64_t now = clock_now_ns();
	char size[24];

	w->stats.sweeps++;
	w->stats.swept += w->outcome.leaked;
	w->stats.last_ns = now - w->began_ns;
	PROBE3(sweep, w->outcome.leaked, w->outcome.leaked_bytes, w->stats.last_ns);
	w->not_before_ns =
		now + UTIL_MAX(PAUSE_FACTOR * w->cpu_ns, PAUSE_MIN_NS);
	w->retry_ns = 0;
	if (w->outcome.leaked)
		log_info("sweep: %" PRIu64 " blocks (%s) that nobody had are free again, after %" PRIu64
			 " ms",
			 w->outcome.leaked,
			 util_format_size(w->outcome.leaked_bytes, size,
					  sizeof(size)),
			 w->stats.last_ns / NS_PER_MS);
	w->stats.deaths = 0;
	w->lost = false;
	w->lingering_notified = false;
	step_reached(STEP_SWEPT);
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

/* ---- questions ----------------------------------------------------------------------- */

static struct sweep_question *question(struct sweep *w, uint32_t number)
{
	return &w->questions[number % QUESTIONS];
}

/*
 * Condemn what no session claimed in the questions that all have answered. Not if the sweep was
 * stopped: marks of claimed blocks are being removed then.
 */
static void sweep_settle(struct control *c)
{
	struct sweep *w = c->sweep;

	while (w->phase == SWEEP_ASK && w->settled < w->asked && !w->again) {
		struct sweep_question *q = question(w, w->settled + 1);

		if (q->waits)
			return;
		w->settled++;
		for (size_t i = 0; i < q->n; i++) {
			if (!slab_condemn(c->slab, q->refs[i])) {
				w->outcome.held++;
				continue;
			}
			w->outcome.leaked++;
			w->outcome.leaked_bytes += class_bytes(q->refs[i].cls);
		}
		work_start(&c->work, &w->work);
	}
}

static void sweep_answered(struct session *s, uint32_t last)
{
	struct sweep *w = s->control->sweep;

	for (; s->sweep.due <= last; s->sweep.due++)
		question(w, s->sweep.due)->waits--;
	s->sweep.since_ns = clock_now_ns();
}

static void ask(struct control *c)
{
	struct sweep *w = c->sweep;
	struct sweep_question *q = w->filling;
	struct msg m = {.type = MSG_SWEEP_QUERY, .req = ++w->asked};
	struct session *s, *next;

	w->filling = NULL;
	m.blocks.number = w->number;
	m.blocks.n = (uint32_t)q->n;
	q->waits = 0;
	TAILQ_FOREACH(s, &c->sessions, link)
		if (sweep_takes_part(s) && !s->readonly) {
			if (s->sweep.due > s->sweep.asked)
				s->sweep.since_ns = clock_now_ns();
			s->sweep.asked = w->asked;
			q->waits++;
		}
	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next)
		if (sweep_takes_part(s) && !s->readonly &&
		    !session_send(s, &m, q->refs, NULL, 0))
			session_end(s);
	step_reached(STEP_SWEEP_ASK);
	sweep_settle(c);
}

/* Collect candidates and ask. False: nothing to do until answers arrive. */
static bool ask_step(struct control *c)
{
	struct sweep *w = c->sweep;
	struct sweep_question *q = w->filling;
	struct slab_list found = {.cap = QUESTION_BLOCKS};

	if (w->listed || w->asked - w->settled == QUESTIONS) {
		if (w->listed && w->asked == w->settled)
			sweep_finish(c);
		return w->phase == SWEEP_CLEAR;
	}
	if (!q) {
		q = w->filling = question(w, w->asked + 1);
		q->n = 0;
	}
	found.refs = q->refs;
	found.n = q->n;
	w->listed = !slab_unmarked(c->slab, &w->cursor, SEGMENTS_STEP, &found);
	q->n = found.n;
	if (q->n > QUESTION_BLOCKS - QUESTION_ROOM || (w->listed && q->n))
		ask(c);
	return true;
}

/* ---- slices ---------------------------------------------------------------------------- */

/* Mark the blocks that a subtable names. The slab checks each word. */
static void mark_subtable(struct control *c, uint64_t entry)
{
	const uint64_t *slots = region_slots(c->region, entry);

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t word = atom_load_relaxed(&slots[i]);

		if (!slot_is_null(word))
			(void)slab_mark(c->slab, slot_block(word));
	}
}

/* False: nothing to do until acknowledgements arrive. */
static bool walk_step(struct control *c, uint64_t until_ns)
{
	struct sweep *w = c->sweep;
	uint64_t entry, hash;

	while (region_walk_next(c->region, &w->walk, &entry, &hash)) {
		mark_subtable(c, entry);
		if (clock_now_ns() >= until_ns)
			return true;
	}
	if (w->acks)
		return false;
	w->phase = SWEEP_ASK;
	return true;
}

static bool clear_step(struct control *c)
{
	struct sweep *w = c->sweep;

	if (slab_unmark(c->slab, &w->cursor, SEGMENTS_STEP))
		return true;
	w->phase = SWEEP_IDLE;
	sweep_schedule(c);
	return false;
}

static bool slice(struct control *c, uint64_t until_ns)
{
	struct sweep *w = c->sweep;
	bool more = true;

	do {
		if (sweep_is_on(w) && w->again)
			return false; /* on_due() handles it */
		if (w->phase == SWEEP_WALK)
			more = walk_step(c, until_ns);
		else if (w->phase == SWEEP_ASK)
			more = ask_step(c);
		else if (w->phase == SWEEP_CLEAR)
			more = clear_step(c);
		else
			more = false;
	} while (more && clock_now_ns() < until_ns);
	return more;
}

static bool sweep_step(void *control, uint64_t until_ns)
{
	struct control *c = control;
	uint64_t before = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	bool more = slice(c, until_ns);

	c->sweep->cpu_ns += clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	return more;
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
static void sweep_acks_check(struct control *c)
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
	core_tick_soon(c);
	step_reached(STEP_SWEEP);
	announce(c, MSG_SWEEP_BEGIN);
	sweep_acks_check(c);
}

/*
 * A lingering process may live as long as it likes: neither writers nor the request for the
 * sweep wait for it forever.
 */
static void await_lingering(struct control *c)
{
	struct sweep *w = c->sweep;
	uint64_t now = clock_now_ns(), until = w->asked_ns + SILENT_LOCAL_NS;
	const struct tether *t = lingering_first(&c->lingering);
	uint32_t id = t->id; /* release_writers() may free `t` */
	pid_t pid = t->pid;

	if (!w->lingering_notified && pid)
		log_info("a sweep waits for process %d, which left session %u "
			 "without goodbye, to unmap the region",
			 (int)pid, id);
	else if (!w->lingering_notified)
		log_info("a sweep waits for a process in another pid namespace, "
			 "which left session %u without goodbye, to unmap the region",
			 id);
	w->lingering_notified = true;
	release_writers(c);
	if (!w->done) {
		due_in(w, LINGERING_NS);
		return;
	}
	if (now < until) {
		due_in(w, UTIL_MIN(until - now, BATCH_NS));
		return;
	}
	w->outcome.session = id;
	w->outcome.pid = pid;
	tell_outcome(c, SWEEP_LINGERING);
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
	else if (lingering_gone(&c->lingering))
		begin(c);
	else
		await_lingering(c);
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

void sweep_moved(struct control *c, uint64_t entry)
{
	if (sweep_is_on(c->sweep))
		mark_subtable(c, entry);
}

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
	return session_reply(s, &m, 0, NULL);
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

static void session_ended(struct session *s)
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

bool sweep_holds_writers(const struct control *c)
{
	return c->sweep->restarts >= RESTARTS_HOLD && !c->drain_until;
}

/* ---- what sessions say ---------------------------------------------------------------- */

static bool refuse(struct session *s, const char *text)
{
	session_refuse(s, MSG_REASON_PROTOCOL, text);
	return false;
}

bool sweep_on_ack(struct session *s, const struct msg *m)
{
	struct sweep *w = s->control->sweep;

	if (m->epoch.number > w->number)
		return refuse(s, "a sweep was acknowledged that never began");
	if (s->left || m->epoch.number < w->number || !sweep_is_on(w))
		return true; /* late */
	if (!s->sweep.owed)
		return refuse(s, "a sweep was acknowledged that is not due");
	s->sweep.owed = 0;
	w->acks--;
	sweep_acks_check(s->control);
	return true;
}

bool sweep_on_claim(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	struct sweep *w = c->sweep;

	if (s->readonly && m->blocks.n) {
		session_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session claimed memory");
		return false;
	}
	if (m->blocks.number > w->number)
		return refuse(s, "blocks were claimed in a sweep that never "
				 "began");
	if (m->blocks.number < w->number || !sweep_is_on(w))
		return true; /* late */
	if (m->req && !s->left &&
	    (s->sweep.due > s->sweep.asked || s->sweep.due != m->req ||
	     s->sweep.number != w->number))
		return refuse(s, "a question of a sweep was answered that is "
				 "not open");
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		struct block_ref ref = msg_ref(m, i);

		/* Its incarnation may have grown since the grant. */
		ref.inc = SLOT_INC_MASK;
		(void)slab_mark(c->slab, ref);
	}
	if (m->req && !s->left) {
		sweep_answered(s, m->req);
		sweep_settle(c);
	}
	return true;
}

/* ---- silence ------------------------------------------------------------------------------- */

static bool is_silent(const struct session *s, uint64_t now)
{
	uint64_t limit = s->port->remote ? SILENT_REMOTE_NS : SILENT_LOCAL_NS;

	return sweep_takes_part(s) &&
	       (s->sweep.owed || s->sweep.due <= s->sweep.asked) &&
	       now - s->sweep.since_ns >= limit;
}

static bool tick(struct control *c)
{
	struct sweep *w = c->sweep;
	struct session *s, *next;
	char peer[80];
	uint64_t now;

	if (!c->drain_until && release_some(c, clock_now_ns(), HOLD_NS))
		core_tick_soon(c);
	now = clock_now_ns(); /* read again: the resumed writers owe an answer since a moment ago */
	if (!sweep_is_on(w) || w->again)
		return sweep_is_on(w);
	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (!is_silent(s, now))
			continue;
		if (session_end_dead(s))
			continue;
		if (!s->port->remote) {
			give_up(c, s);
			return false;
		}
		log_warn("session %u (%s) does not answer: cut off", s->id,
			 session_peer(s, peer));
		session_end(s);
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
	if (!sweep_is_due(w) || w->retry_ns)
		return false;
	if (!lingering_gone(&c->lingering))
		return core_expects_clients(c);
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
	struct sweep_stats s = c->sweep->stats;

	s.deaths += c->sweep->lost;
	return s;
}

static bool init(struct control *c)
{
	struct sweep *w = calloc(1, sizeof(*w));

	if (!w)
		return false;
	c->sweep = w;
	w->work = (struct work){.step = sweep_step, .arg = c, .kind = MSG_PAUSE_SWEEP};
	w->due = evtimer_new(c->base, on_due, c);
	w->questions = calloc(QUESTIONS, sizeof(*w->questions));
	return w->due && w->questions;
}

static void fini(struct control *c)
{
	struct sweep *w = c->sweep;

	if (!w)
		return;
	core_event_free(w->due);
	free(w->questions);
	free(w);
	c->sweep = NULL;
}

const struct loop_module sweep_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
	.tick = tick,
};
