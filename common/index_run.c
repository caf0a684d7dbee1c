/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "index_run.h"

#include <farkv.h>

#include "atomic.h"
#include "index_priv.h"
#include "index_step.h"
#include "util.h"

/* An operation that wins its CAS takes at most four stages. */
#define STAGES_BETWEEN_CLOCKS 8
/* Empty polls between two readings of the clock. */
#define POLLS_BETWEEN_CLOCKS 64

/* ---- lists ----------------------------------------------------------------------- */

static void list_init(struct index_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct index_list *l, struct index_op *op)
{
	op->next = NULL;
	*l->end = op;
	l->end = &op->next;
}

static struct index_op *list_take(struct index_list *l)
{
	struct index_op *op = l->first;

	if (!op)
		return NULL;
	l->first = op->next;
	if (!l->first)
		l->end = &l->first;
	return op;
}

void index_strand_init(struct index_strand *s)
{
	list_init(&s->ready);
	list_init(&s->flown);
	list_init(&s->ended);
	s->last = NULL;
	s->idle = 0;
	s->stages = 0;
}

struct index_op *index_take(struct index_strand *s)
{
	return list_take(&s->ended);
}

uint64_t index_strand_deadline(const struct index_strand *s)
{
	uint64_t first = UINT64_MAX;

	for (const struct index_op *op = s->flown.first; op; op = op->next)
		first = UTIL_MIN(first, op->deadline_ns);
	return first;
}

/* ---- stages ---------------------------------------------------------------------- */

/* After a step: it has a chain to post, or is final or waits. */
static void strand_add(struct index_strand *s, struct index_op *op)
{
	list_add(op_in_flight(op) ? &s->ready : &s->ended, op);
}

static void op_begin(struct index *ix, struct index_op *op, uint64_t deadline_ns)
{
	op->deadline_ns = deadline_ns;
	if (op->phase == OP_WAITS) {
		op->phase = OP_START;
		return;
	}
	op->wait = INDEX_WAIT_NONE;
	index_op_step(ix, op, deadline_ns);
}

void index_submit(struct index *ix, struct index_strand *s, struct index_op *op,
		  uint64_t deadline_ns)
{
	op_begin(ix, op, deadline_ns);
	strand_add(s, op);
}

/* End all that is ready: such an operation has changed nothing so far. */
static void ready_end(struct index *ix, struct index_strand *s, int err)
{
	struct index_op *op;

	while ((op = list_take(&s->ready))) {
		index_op_end(ix, op, err);
		list_add(&s->ended, op);
	}
}

void index_post(struct index *ix, struct index_strand *s)
{
	struct index_op *first = s->ready.first, *op;
	int err;

	if (!first)
		return;
	for (op = first; op; op = op->next)
		op->chain.next = op->next ? &op->next->chain : NULL;
	err = xport_post(ix->lane, &first->chain);
	ix->lane->counters.round_trips++;
	s->stages++;
	s->idle = 0;
	if (err) {
		ready_end(ix, s, err);
		return;
	}
	while ((op = list_take(&s->ready))) {
		list_add(&s->flown, op);
		s->last = op;
	}
}

/* Do not wait for the chain in flight any longer: nobody knows what it did. */
static void op_give_up(struct index *ix, struct index_op *op)
{
	int err = FARKV_ETIMEDOUT;

	if (op->phase == OP_SWAP) {
		op->own = OWN_NONE; /* it may be published */
		err = FARKV_EMAYBE;
	}
	index_op_end(ix, op, err);
}

/*
 * The lane is silent. If that was too long for an operation, break the lane; the other
 * chains in flight are then done, too.
 */
static void flown_expire(struct index *ix, struct index_strand *s, uint64_t now)
{
	struct index_list all = s->flown;
	struct index_op *op;
	bool late = false;

	for (op = all.first; op && !late; op = op->next)
		late = now > op->deadline_ns;
	if (!late)
		return;
	xport_break(ix->lane, FARKV_ETIMEDOUT);
	list_init(&s->flown);
	s->last = NULL;
	while ((op = list_take(&all))) {
		if (now > op->deadline_ns && !op->chain.done) {
			op_give_up(ix, op);
			list_add(&s->ended, op);
		} else {
			list_add(&s->flown, op);
			s->last = op;
		}
	}
	/* The lane must not know the chains of those any more. */
	xport_poll(ix->lane);
	s->stages = STAGES_BETWEEN_CLOCKS; /* the next step looks at the clock */
}

static void ready_expire(struct index *ix, struct index_strand *s, uint64_t now)
{
	struct index_list all = s->ready;
	struct index_op *op;

	if (!all.first)
		return;
	list_init(&s->ready);
	while ((op = list_take(&all))) {
		bool late = now > op->deadline_ns;

		if (late)
			index_op_end(ix, op, FARKV_ETIMEDOUT);
		list_add(late ? &s->ended : &s->ready, op);
	}
}

/* Step what is done. Chains complete in posting order. */
static bool strand_advance(struct index *ix, struct index_strand *s)
{
	bool any = false;

	while (s->flown.first && s->flown.first->chain.done) {
		struct index_op *op = list_take(&s->flown);

		if (!s->flown.first)
			s->last = NULL;
		any = true;
		index_op_step(ix, op, op->deadline_ns);
		strand_add(s, op);
	}
	return any;
}

/* Only an operation that loses to rivals needs that many stages. */
static void stages_check(struct index *ix, struct index_strand *s)
{
	if (s->stages < STAGES_BETWEEN_CLOCKS)
		return;
	s->stages = 0;
	ready_expire(ix, s, index_now(ix));
}

static void poll_idle(struct index *ix, struct index_strand *s)
{
	if (++s->idle % POLLS_BETWEEN_CLOCKS == 0)
		flown_expire(ix, s, index_now(ix));
}

bool index_reap(struct index *ix, struct index_strand *s)
{
	bool any;

	index_post(ix, s);
	if (!s->flown.first)
		return false;
	if (!s->flown.first->chain.done)
		xport_poll(ix->lane);
	any = strand_advance(ix, s);
	if (any) {
		s->idle = 0;
		stages_check(ix, s);
		index_post(ix, s);
	} else {
		poll_idle(ix, s);
	}
	return any;
}

/* As index_reap(), but all together: a stage ends when its last chain is done. */
static void strand_stage(struct index *ix, struct index_strand *s)
{
	index_post(ix, s);
	while (s->last && !s->last->chain.done) {
		xport_poll(ix->lane);
		if (s->last->chain.done)
			break;
		atom_spin_hint();
		poll_idle(ix, s);
	}
	(void)strand_advance(ix, s);
	stages_check(ix, s);
}

/*
 * One operation alone needs no lists, as long as all goes well: a few stages, each done
 * after a few polls. False if it has not ended by then: it is in the op queue `s` now,
 * which looks at the clock.
 */
static bool run_alone(struct index *ix, struct index_op *op, struct index_strand *s)
{
	for (unsigned stage = 0; op_in_flight(op); stage++) {
		unsigned polls = 0;
		int err;

		if (stage == STAGES_BETWEEN_CLOCKS) {
			index_strand_init(s);
			list_add(&s->ready, op);
			ready_expire(ix, s, index_now(ix));
			return false;
		}
		op->chain.next = NULL;
		err = xport_post(ix->lane, &op->chain);
		ix->lane->counters.round_trips++;
		if (err) {
			index_op_end(ix, op, err);
			return true;
		}
		while (!op->chain.done && polls++ < POLLS_BETWEEN_CLOCKS)
			xport_poll(ix->lane);
		if (!op->chain.done) {
			index_strand_init(s);
			list_add(&s->flown, op);
			s->last = op;
			return false;
		}
		index_op_step(ix, op, op->deadline_ns);
	}
	return true;
}

void index_run(struct index *ix, struct index_op *const *ops, size_t n,
	       uint64_t began_ns, uint64_t deadline_ns)
{
	struct index_strand s;

	ix->told_ns = began_ns;
	if (n == 1 && ops[0]->result == INDEX_PENDING) {
		op_begin(ix, ops[0], deadline_ns);
		ix->told_ns = 0;
		if (run_alone(ix, ops[0], &s))
			return;
	} else {
		index_strand_init(&s);
		for (size_t i = 0; i < n; i++) {
			if (ops[i]->result != INDEX_PENDING)
				continue;
			/* One moment for all: no later than their READs. */
			if (!ix->told_ns)
				ix->told_ns = index_now(ix);
			index_submit(ix, &s, ops[i], deadline_ns);
		}
		ix->told_ns = 0;
	}
	while (!index_strand_rests(&s))
		strand_stage(ix, &s);
}
