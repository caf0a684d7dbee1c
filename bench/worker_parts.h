/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * worker_parts.h - what the two loops of a benchmark thread share: worker.c, whose
 * calls end one by one, and inflight.c, whose requests are under way together. All
 * belong to the worker's thread; what ends now ends at w->now.
 */
#ifndef BENCH_WORKER_PARTS_H
#define BENCH_WORKER_PARTS_H

#include "ticks.h"
#include "worker.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* A wait shorter than this is spun: a sleep would overshoot by as much. */
#define SPIN_NS UINT64_C(80000)
/* A sleep looks for shared->stop so often. */
#define NAP_NS (50 * NS_PER_MS)

static inline bool worker_stopped(const struct worker *w)
{
	return atomic_load_explicit(&w->shared->stop, memory_order_relaxed);
}

static inline bool worker_time_is_up(const struct worker *w)
{
	return w->until && (int64_t)(w->until - w->now) <= 0;
}

/** All threads of the phase are to end. */
static inline void worker_stop_all(struct worker *w)
{
	atomic_store_explicit(&w->shared->stop, true, memory_order_relaxed);
}

/** Off the hot path: keep the text of the phase's first failure. */
__attribute__((cold)) void worker_failed(struct worker *w, enum series s,
					 enum db_status status,
					 const struct op *op);

/** What worker_note() leaves to a call: failures, and two clocks. */
void worker_note_rest(struct worker *w, enum series s, enum db_status status,
		      uint64_t start, uint64_t end);

/** One outcome from its start to its end. */
static inline void worker_note(struct worker *w, enum series s,
			       enum db_status status, uint64_t start,
			       uint64_t end)
{
	if (LIKELY(status == DB_OK && measure_is_plain(w->m)))
		measure_ok_plain(w->m, s, ticks_span_ns(start, end));
	else
		worker_note_rest(w, s, status, start, end);
}

/** The same of an operation that ends now, with the failure's text. */
static inline void worker_note_op(struct worker *w, enum series s,
				  enum db_status status, uint64_t start,
				  const struct op *op)
{
	worker_note(w, s, status, start, w->now);
	if (!LIKELY(status == DB_OK))
		worker_failed(w, s, status, op);
}

/** Whether a value is as long as this workload makes them. */
static inline enum db_status worker_check_len(const struct worker *w,
					      size_t len)
{
	return LIKELY(len >= w->value_min && len <= w->value_max)
		       ? DB_OK
		       : DB_UNEXPECTED_STATE;
}

/** dataintegrity: the contents, as a series of their own. Moves w->now. */
void worker_verify(struct worker *w, const struct op *op, enum db_status read,
		   const struct db_value *v);

/** The value that `op` writes to `buf` of value_stride bytes; its length. */
size_t worker_fill(struct worker *w, const struct op *op, char *buf);

/** A load with a hole is no load: it ends, as YCSB's does, unless it is told to keep
 * going. */
static inline void worker_load_failed(struct worker *w)
{
	if (w->shared->workload->load && !w->shared->params->keep_going)
		worker_stop_all(w);
}

/** The insert is over. A number is acknowledged whether or not its insert
 * succeeded, as in YCSB: otherwise one failure would hide all later records. */
void worker_ack(struct worker *w, const struct op *op);

/** How many operations lie at w->ops[w->next], up to `most`; draws where there
 * are none. */
size_t worker_ops_at_hand(struct worker *w, uint64_t most);

static inline void worker_count_done(struct worker *w, uint64_t n)
{
	atomic_store_explicit(
		&w->done,
		atomic_load_explicit(&w->done, memory_order_relaxed) + n,
		memory_order_relaxed);
}

/** The wait of an arrival for the moment that it is sent, which is now. */
static inline void worker_note_queue(struct worker *w, uint64_t due)
{
	struct measure *m = w->m;
	int clock = m->clock[CLOCK_OP] ? CLOCK_OP : CLOCK_INTENDED;

	hist_record(m->hist[clock][SERIES_QUEUE][DB_OK],
		    ticks_span_ns(due, w->now));
}

#endif
