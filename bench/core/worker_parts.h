/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * worker_parts.h - shared by the two loops of a benchmark thread: worker.c, whose calls end
 * one by one, and inflight.c with requests in flight. For the worker's thread only;
 * operations end at w->now.
 */
#ifndef BENCH_CORE_WORKER_PARTS_H
#define BENCH_CORE_WORKER_PARTS_H

#include "bench/base/ticks.h"

#include "worker.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* Spin instead of shorter sleeps, which would overshoot by as much. */
#define SPIN_NS UINT64_C(80000)
/* A sleep checks shared->stop this often. */
#define NAP_NS (50 * NS_PER_MS)

static inline bool worker_stopped(const struct worker *w)
{
	return atomic_load_explicit(&w->shared->stop, memory_order_relaxed);
}

static inline bool worker_time_is_up(const struct worker *w)
{
	return w->until && (int64_t)(w->until - w->now) <= 0;
}

/** End all threads of the phase. */
static inline void worker_stop_all(struct worker *w)
{
	atomic_store_explicit(&w->shared->stop, true, memory_order_relaxed);
}

/** Off the hot path: keep the text of the phase's first failure. */
__attribute__((cold)) void worker_failed(struct worker *w, enum series s,
					 enum db_status status,
					 const struct op *op);

/** Out-of-line part of worker_note(): failures, and two clocks. */
void worker_note_rest(struct worker *w, enum series s, enum db_status status,
		      uint64_t start, uint64_t end);

/** Record one outcome from its start to its end. */
static inline void worker_note(struct worker *w, enum series s,
			       enum db_status status, uint64_t start,
			       uint64_t end)
{
	if (LIKELY(status == DB_OK && measure_is_plain(w->m)))
		measure_ok_plain(w->m, s, ticks_span_ns(start, end));
	else
		worker_note_rest(w, s, status, start, end);
}

/** worker_note() of an operation that ends now, with the failure's text. */
static inline void worker_note_op(struct worker *w, enum series s,
				  enum db_status status, uint64_t start,
				  const struct op *op)
{
	worker_note(w, s, status, start, w->now);
	if (!LIKELY(status == DB_OK))
		worker_failed(w, s, status, op);
}

/** Check the length of a value against the workload. */
static inline enum db_status worker_check_len(const struct worker *w,
					      size_t len)
{
	return LIKELY(len >= w->value_min && len <= w->value_max)
		       ? DB_OK
		       : DB_UNEXPECTED_STATE;
}

/** dataintegrity: check the contents, as a separate series. Advances w->now. */
void worker_verify(struct worker *w, const struct op *op, enum db_status read,
		   const struct db_value *v);

/** The value that `op` writes to `buf` of value_stride bytes; its length. */
size_t worker_fill(struct worker *w, const struct op *op, char *buf);

/** A load with a gap is useless: stop it, as YCSB does, unless told to keep going. */
static inline void worker_load_failed(struct worker *w)
{
	if (w->shared->workload->load && !w->shared->params->keep_going)
		worker_stop_all(w);
}

/**
 * The insert is over. Its number is acknowledged even if it failed, as in YCSB: otherwise
 * one failure would hide all later records.
 */
void worker_ack(struct worker *w, const struct op *op);

/**
 * How many operations are at w->ops[w->next], up to `most`; draws new ones if there are
 * none.
 */
size_t worker_ops_at_hand(struct worker *w, uint64_t most);

static inline void worker_count_done(struct worker *w, uint64_t n)
{
	atomic_store_explicit(
		&w->done,
		atomic_load_explicit(&w->done, memory_order_relaxed) + n,
		memory_order_relaxed);
}

/** Record the time that an arrival waited until now, when it is sent. */
static inline void worker_note_queue(struct worker *w, uint64_t due)
{
	struct measure *m = w->m;
	int clock = m->clock[CLOCK_OP] ? CLOCK_OP : CLOCK_INTENDED;

	hist_record(m->hist[clock][SERIES_QUEUE][DB_OK],
		    ticks_span_ns(due, w->now));
}

#endif
