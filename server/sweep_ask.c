/* SPDX-License-Identifier: BSD-3-Clause */
/* A running sweep: the walk over the index, questions, answers, marks. */
#include "config.h"

#include "sweep_priv.h"

#include <time.h>

#include "common/atomic.h"
#include "common/clock.h"

/* Least room that slab_unmarked() needs. */
#define QUESTION_ROOM 64
/* Segments visited between two readings of the clock. */
#define SEGMENTS_STEP 16

/* ---- questions ----------------------------------------------------------------------- */

static struct sweep_question *question(struct sweep *w, uint32_t number)
{
	return &w->questions[number % QUESTIONS];
}

/*
 * Condemn what no session claimed in the questions that all have answered. Not if the sweep was
 * stopped: marks of claimed blocks are being removed then.
 */
void sweep_settle(struct control *c)
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

void sweep_answered(struct session *s, uint32_t last)
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
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (sweep_takes_part(s) && !s->readonly &&
		    !session_send(s, &m, q->refs, NULL, 0))
			control_end_session(s);
	}
	sweep_settle(c);
}

/* Collect candidates and ask. False: nothing to do until answers arrive. */
static bool ask_step(struct control *c)
{
	struct sweep *w = c->sweep;
	struct sweep_question *q = w->filling;
	size_t n;

	if (w->listed || w->asked - w->settled == QUESTIONS) {
		if (w->listed && w->asked == w->settled)
			sweep_finish(c);
		return w->phase == SWEEP_CLEAR;
	}
	if (!q) {
		q = w->filling = question(w, w->asked + 1);
		q->n = 0;
	}
	w->listed = !slab_unmarked(c->slab, &w->cursor, SEGMENTS_STEP,
				   q->refs + q->n, QUESTION_BLOCKS - q->n, &n);
	q->n += n;
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

static uint64_t cpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
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

bool sweep_step(void *control, uint64_t until_ns)
{
	struct control *c = control;
	uint64_t before = cpu_now_ns();
	bool more = slice(c, until_ns);

	c->sweep->cpu_ns += cpu_now_ns() - before;
	return more;
}

/* ---- what sessions say ---------------------------------------------------------------- */

static bool refuse(struct session *s, const char *text)
{
	control_refuse(s, MSG_REASON_PROTOCOL, text);
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
		control_refuse(s, MSG_REASON_PERMISSION,
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
