/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/run.h - drive operations: some to their ends by index_run(), or a queue of them a
 * step at a time between calls. Chains of many operations are posted with one doorbell.
 */
#ifndef COMMON_INDEX_RUN_H
#define COMMON_INDEX_RUN_H

#include "op.h"

/**
 * An op queue: operations under way together. Each is in one list: `ready` to be posted,
 * `flown`: in flight, in the order in which they were posted, or `ended`: final, or
 * waiting. All fields are private to index/run.c. Several op queues can use one index; a
 * poll of the lane for one of them completes chains of all.
 */
struct index_list {
	struct index_op *first, **end;
};

struct op_queue {
	struct index_list ready, in_flight, ended;
	struct index_op *last;  /* of `flown` */
	unsigned idle;   /* polls in a row that found nothing done */
	unsigned stages; /* posts since the last look at the clock */
};

void op_queue_init(struct op_queue *s);

/** No operation is ready or in flight: the op queue holds no reference to the region. */
static inline bool op_queue_rests(const struct op_queue *s)
{
	return !s->ready.first && !s->in_flight.first;
}

/** Has the next index_reap() or index_take() something to do, even if nothing completes
 * until then? */
static inline bool op_queue_due(const struct op_queue *s)
{
	return s->ready.first || s->ended.first ||
	       (s->in_flight.first && s->in_flight.first->chain.done);
}

/** The first deadline of those that are in flight; UINT64_MAX if none is. Looks at each. */
uint64_t op_queue_deadline(const struct op_queue *s);

/**
 * Begin an operation that index_op_start() or index_op_resume() has set up, or that
 * waited: take it as far as it goes without a completion. Then it is ready, and
 * posted by the next index_post() or index_reap(), or it has ended. It belongs to the
 * op queue, and key and value stay in place, until index_take() returns it.
 * `deadline_ns` (clock_now_ns()): see index_reap(). Waits for the lane only where the
 * directory must be read.
 */
void index_submit(struct index *ix, struct op_queue *s, struct index_op *op,
		  uint64_t deadline_ns);

/** Post what is ready, with one doorbell. */
void index_post(struct index *ix, struct op_queue *s);

/**
 * Poll the lane once, step the operations whose chains are done, and post what is
 * ready. True if any was stepped. Never waits.
 *
 * Operations past their deadline end with FARKV_ETIMEDOUT where nothing of theirs is
 * in flight. One whose chain is not done, though it was polled for again and again,
 * ends so too, or with FARKV_EMAYBE if a CAS is in the chain, and the lane is broken
 * with it.
 */
bool index_reap(struct index *ix, struct op_queue *s);

/** The next operation that is final or waits; NULL if there is none. */
struct index_op *index_take(struct op_queue *s);

/**
 * Drive ops[0..n-1] until each is final or waits, as an op queue of their own. Operations
 * that waited are tried again from the start, and take a block again. An operation that
 * index_try() has left waiting waits at once: it has just searched. Spins on the
 * lane, bounded by `deadline_ns` as index_reap() says. `began_ns`: when the caller has
 * just looked at the clock, or 0: I4 counts from there.
 *
 * Results by kind: GET 0, ENOTFOUND, ECORRUPT. PUT 0. ADD 0, EEXISTS.
 * REPLACE 0, ENOTFOUND. CAS 0, EVERSION, ENOTFOUND. DELETE 0, ENOTFOUND.
 * All: ETOOLARGE, EPERM, EDISCONNECTED, EMAYBE, ETIMEDOUT, ENOMEM, ECORRUPT, EFORMAT.
 * Linearizable per key; operations that are under way together are concurrent, and
 * so are two of them on one key.
 * Round trips: see doc/protocol.md, "Budgets".
 */
void index_run(struct index *ix, struct index_op *const *ops, size_t n,
	       uint64_t began_ns, uint64_t deadline_ns);
#define INDEX_RUN_MAX 128

#endif
