/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/run.h - drive operations: index_run() to their ends, or an op queue step by step between
 * calls. The chains of many operations are posted with one doorbell.
 */
#ifndef COMMON_INDEX_RUN_H
#define COMMON_INDEX_RUN_H

#include "op.h"

/**
 * An op queue: operations driven together. Each is in one list: `ready` to be posted, `in_flight`
 * in posting order, or `ended`: final or waiting. All fields are private to index/run.c. Several op
 * queues can use one index; polling the lane for one completes chains of all.
 */
struct index_list {
	struct index_op *first, **end;
};

struct op_queue {
	struct index_list ready, in_flight, ended;
	struct index_op *last;  /* the last of `in_flight` */
	unsigned idle;   /* consecutive polls that completed nothing */
	unsigned stages; /* posts since the last clock reading */
};

void op_queue_init(struct op_queue *s);

/**
 * True if no operation is ready or in flight: the op queue then holds no reference to the region.
 */
static inline bool op_queue_is_idle(const struct op_queue *s)
{
	return !s->ready.first && !s->in_flight.first;
}

/** True if the next index_reap() or index_take() has work even without a new completion. */
static inline bool op_queue_due(const struct op_queue *s)
{
	return s->ready.first || s->ended.first ||
	       (s->in_flight.first && s->in_flight.first->chain.done);
}

/** The earliest deadline in flight; UINT64_MAX if there is none. Walks the list. */
uint64_t op_queue_deadline(const struct op_queue *s);

/**
 * Begin an operation that index_op_start() or index_op_resume() has set up, or that waited, and
 * step it until it needs a completion. Then it is ready, to be posted by the next index_post() or
 * index_reap(), or it has ended. Until index_take() returns it, it belongs to the op queue, and key
 * and value must stay in place. `deadline_ns` (clock_now_ns()): see index_reap(). Waits for the
 * lane only to read the directory.
 */
void index_submit(struct index *ix, struct op_queue *s, struct index_op *op,
		  uint64_t deadline_ns);

/** Post the chains of all ready operations with one doorbell. */
void index_post(struct index *ix, struct op_queue *s);

/**
 * Poll the lane once, step the operations whose chains are done, and post what is ready. True if
 * any was stepped. Never waits.
 *
 * An operation past its deadline ends with FARKV_ETIMEDOUT if no chain of it is in flight. If its
 * chain stays in flight over many polls, it ends the same way, or with FARKV_EMAYBE if the chain
 * has a CAS; this breaks the lane.
 */
bool index_reap(struct index *ix, struct op_queue *s);

/** Take out the next operation that is final or waits; NULL if there is none. */
struct index_op *index_take(struct op_queue *s);

/**
 * Drive ops[0..n-1] until each is final or waits. Operations that waited start again and take a
 * block again. An operation that index_try() has left waiting waits at once, because it has just
 * searched. Spins on the lane until `deadline_ns` at most, as index_reap() says. `began_ns`: the
 * caller's clock reading of just now, from which I4 counts, or 0.
 *
 * Results by kind: GET 0, ENOTFOUND, ECORRUPT. PUT 0. ADD 0, EEXISTS. REPLACE 0, ENOTFOUND. CAS 0,
 * EVERSION, ENOTFOUND. DELETE 0, ENOTFOUND. DELETE_CAS as CAS. All: ETOOLARGE, EPERM,
 * EDISCONNECTED, EMAYBE, ETIMEDOUT, ENOMEM, ECORRUPT, EFORMAT.
 *
 * Linearizable per key; operations that are driven together are concurrent, also two on one key.
 * Round trips: see doc/protocol.md, "Budgets".
 */
void index_run(struct index *ix, struct index_op *const *ops, size_t n,
	       uint64_t began_ns, uint64_t deadline_ns);
#define INDEX_RUN_MAX 128

#endif
