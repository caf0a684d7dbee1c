/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_counter.h - the numbers of the records that a run inserts
 * (AcknowledgedCounterGenerator): handed out in order, and known as "there"
 * only once every number up to it was acknowledged, so that no reader looks
 * for a record whose insert is still under way.
 */
#ifndef BENCH_GEN_COUNTER_H
#define BENCH_GEN_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** Numbers that may be handed out beyond the oldest unacknowledged one. */
#define COUNTER_WINDOW (UINT64_C(1) << 20)

struct gen_counter {
	_Atomic uint64_t next;
	_Atomic uint64_t limit;  /* first number not acknowledged yet */
	atomic_flag sliding;     /* held by the thread that moves `limit` */
	_Atomic uint8_t *window; /* acknowledged, by number modulo the window */
};

/** The first number is `start`. False: no memory. End with _fini(). */
bool gen_counter_init(struct gen_counter *g, uint64_t start);
void gen_counter_fini(struct gen_counter *g);

/** A new number. Safe from any thread. */
static inline uint64_t gen_counter_next(struct gen_counter *g)
{
	return atomic_fetch_add_explicit(&g->next, 1, memory_order_relaxed);
}

/**
 * One past the highest number up to which all are acknowledged. Pairs with
 * gen_counter_ack(): who sees a number here sees what happened before its
 * acknowledgement.
 */
static inline uint64_t gen_counter_limit(struct gen_counter *g)
{
	return atomic_load_explicit(&g->limit, memory_order_acquire);
}

/**
 * The insert of `number` is over. Safe from any thread, never blocks. False if
 * more than COUNTER_WINDOW numbers are open: an insert hangs somewhere.
 */
bool gen_counter_ack(struct gen_counter *g, uint64_t number);

#endif
