/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gen_counter.h - record numbers for the inserts of a run (AcknowledgedCounterGenerator).
 * Handed out in order; a number counts as present only when all numbers up to it were
 * acknowledged, so that no reader looks for a record whose insert is in flight.
 */
#ifndef BENCH_GEN_GEN_COUNTER_H
#define BENCH_GEN_GEN_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** Most numbers handed out after the oldest unacknowledged one. */
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

/** A new number. Any thread. */
static inline uint64_t gen_counter_next(struct gen_counter *g)
{
	return atomic_fetch_add_explicit(&g->next, 1, memory_order_relaxed);
}

/**
 * One past the highest number up to which all are acknowledged. Acquire: pairs with
 * gen_counter_ack().
 */
static inline uint64_t gen_counter_limit(struct gen_counter *g)
{
	return atomic_load_explicit(&g->limit, memory_order_acquire);
}

/**
 * The insert of `number` is over. Any thread, never blocks. False if more than
 * COUNTER_WINDOW numbers are open, because an insert hangs.
 */
bool gen_counter_ack(struct gen_counter *g, uint64_t number);

#endif
