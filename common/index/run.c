/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "run.h"

#include <farkv.h>

#include "common/base/atomic.h"
#include "index_state.h"
#include "step.h"
#include "common/base/util.h"

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

void op_queue_init(struct op_queue *s)
{
	list_init(&s->ready);
	list_init(&s->in_flight);
	list_init(&s->ended);
	s->last = NULL;
	s->idle = 0;
	s->stages = 0;
}

struct index_op *index_take(struct op_queue *s)
{
	return list_take(&s->ended);
}

uint64_t op_queue_deadline(const struct op_queue *s)
{
	uint64_t first = UINT64_MAX;

	for (const struct index_op *op = s->in_flight.first; op; op = op->next)
		first = UTIL_MIN(first, op->deadline_ns);
	return first;
}

/* ---- stages ---------------------------------------------------------------------- */

/* After a step: the operation has a chain to post, or it has ended. */
static void op_queue_add(struct op_queue *s, struct index_op *op)
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

void index_submit(struct index *ix, struct op_queue *s, struct index_op *op,
		  uint64_t deadline_ns)
{
	op_begin(ix, op, deadline_ns);
	op_queue_add(s, op);
}

/* End all ready operations: they have changed nothing. */
static void ready_end(struct index *ix, struct op_queue *s, int err)
{
	struct index_op *op;

	while ((op = list_take(&s->ready))) {
		index_op_end(ix, op, err);
		list_add(&s->ended, op);
	}
}

void index_post(struct index *ix, struct op_queue *s)
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
		list_add(&s->in_flight, op);
		s->last = op;
	}
}

/* Give up the chain in flight: its effect is unknown. */
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
 * The lane has completed nothing for many polls. If an operation is past its deadline, break the
 * lane; then all other chains in flight are done, too.
 */
static void in_flight_expire(struct index *ix, struct op_queue *s, uint64_t now)
{
	struct index_list all = s->in_flight;
	struct index_op *op;
	bool late = false;

	for (op = all.first; op && !late; op = op->next)
		late = now > op->deadline_ns;
	if (!late)
		return;
	xport_break(ix->lane, FARKV_ETIMEDOUT);
	list_init(&s->in_flight);
	s->last = NULL;
	while ((op = list_take(&all))) {
		if (now > op->deadline_ns && !op->chain.done) {
			op_give_up(ix, op);
			list_add(&s->ended, op);
		} else {
			list_add(&s->in_flight, op);
			s->last = op;
		}
	}
	/* Make the lane forget the chains of ended operations. */
	xport_poll(ix->lane);
	s->stages = STAGES_BETWEEN_CLOCKS; /* the next step reads the clock */
}

static void ready_expire(struct index *ix, struct op_queue *s, uint64_t now)
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

/* Step the operations whose chains are done; chains complete in posting order. */
static bool op_queue_advance(struct index *ix, struct op_queue *s)
{
	bool any = false;

	while (s->in_flight.first && s->in_flight.first->chain.done) {
		struct index_op *op = list_take(&s->in_flight);

		if (!s->in_flight.first)
			s->last = NULL;
		any = true;
		index_op_step(ix, op, op->deadline_ns);
		op_queue_add(s, op);
	}
	return any;
}

/* Only an operation that keeps losing its CAS needs that many stages. */
static void stages_check(struct index *ix, struct op_queue *s)
{
	if (s->stages < STAGES_BETWEEN_CLOCKS)
		return;
	s->stages = 0;
	ready_expire(ix, s, index_now(ix));
}

static void poll_idle(struct index *ix, struct op_queue *s)
{
	if (++s->idle % POLLS_BETWEEN_CLOCKS == 0)
		in_flight_expire(ix, s, index_now(ix));
}

bool index_reap(struct index *ix, struct op_queue *s)
{
	bool any;

	index_post(ix, s);
	if (!s->in_flight.first)
		return false;
	if (!s->in_flight.first->chain.done)
		xport_poll(ix->lane);
	any = op_queue_advance(ix, s);
	if (any) {
		s->idle = 0;
		stages_check(ix, s);
		index_post(ix, s);
	} else {
		poll_idle(ix, s);
	}
	return any;
}

/* index_reap() for a whole stage, which lasts until its last chain is done. */
static void op_queue_stage(struct index *ix, struct op_queue *s)
{
	index_post(ix, s);
	while (s->last && !s->last->chain.done) {
		xport_poll(ix->lane);
		if (s->last->chain.done)
			break;
		atom_spin_hint();
		poll_idle(ix, s);
	}
	(void)op_queue_advance(ix, s);
	stages_check(ix, s);
}

/*
 * Drive one operation without lists: usually a few stages, each done after a few polls. False: it
 * took longer and is now in the op queue `s`, which checks deadlines.
 */
static bool run_alone(struct index *ix, struct index_op *op, struct op_queue *s)
{
	for (unsigned stage = 0; op_in_flight(op); stage++) {
		unsigned polls = 0;
		int err;

		if (stage == STAGES_BETWEEN_CLOCKS) {
			op_queue_init(s);
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
			op_queue_init(s);
			list_add(&s->in_flight, op);
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
	struct op_queue s;

	ix->run_began_ns = began_ns;
	if (n == 1 && ops[0]->result == INDEX_PENDING) {
		op_begin(ix, ops[0], deadline_ns);
		ix->run_began_ns = 0;
		if (run_alone(ix, ops[0], &s))
			return;
	} else {
		op_queue_init(&s);
		for (size_t i = 0; i < n; i++) {
			if (ops[i]->result != INDEX_PENDING)
				continue;
			/* One clock reading for all operations, before their READs. */
			if (!ix->run_began_ns)
				ix->run_began_ns = index_now(ix);
			index_submit(ix, &s, ops[i], deadline_ns);
		}
		ix->run_began_ns = 0;
	}
	while (!op_queue_is_idle(&s))
		op_queue_stage(ix, &s);
}
