/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * worker_parts.h - the state of a benchmark thread, and what its two loops share: worker.c,
 * whose calls end one by one, and inflight.c with requests in flight. For the worker's thread
 * only; operations end at w->now.
 */
#ifndef BENCH_CORE_WORKER_PARTS_H
#define BENCH_CORE_WORKER_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arrivals.h"
#include "bench/base/ticks.h"
#include "bench/gen/workload.h"
#include "bench/store/db.h"
#include "measure.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* Spin instead of shorter sleeps, which would overshoot by as much. */
#define SPIN_NS UINT64_C(80000)
/* A sleep checks shared->stop this often. */
#define NAP_NS (50 * NS_PER_MS)

/**
 * Operations drawn before the call: their hashes overlap in the processor, and one time
 * stamp ends an operation and starts the next.
 */
#define WORKER_AHEAD 32
#define WORKER_OPS (DB_BATCH_MAX > WORKER_AHEAD ? DB_BATCH_MAX : WORKER_AHEAD)

/** A thread gives up after this many consecutive "service unavailable". */
#define WORKER_PATIENCE 100

/** Shared by the threads of a phase. */
struct worker_shared {
	const struct params *params;
	struct workload *workload;
	struct arrivals arrivals; /* of an open loop */
	unsigned members;
	_Atomic uint64_t replayed; /* requests of a trace of blocks that were taken */
	_Atomic bool stop;
	atomic_flag have_failure; /* the thread that sets it writes `failure` */
	char failure[512];        /* read after the threads have ended */
};

struct inflight;
struct cache;

/** A checked value that is being written. */
struct worker_value {
	struct value_buf buf;
	struct value_write write;
};

struct worker {
	/* of the caller */
	struct worker_shared *shared;
	struct db *db;
	struct workload_thread draw;
	unsigned index; /* among the members */
	double tick; /* ticks between due times; 0: no target */
	uint64_t replay_first, replay_end; /* of a trace: requests of this part */
	uint64_t offset; /* ticks before the first due time */

	/* own */
	struct measure *m;     /* current results: warm-up or measured */
	uint64_t now;          /* the last stamp */
	uint64_t until;        /* when time is up; 0: never */
	uint64_t due;          /* due time of the operation; 0: when called */
	struct rng gaps;       /* between arrivals; seeded by the caller */
	bool over;             /* no more arrivals */
	unsigned unavailable;  /* consecutive failures */
	const char *why; /* a completion's failure in words; NULL: error() */
	char *values;          /* a value per operation of a batch */
	size_t value_stride;   /* of the longest value and VALUE_SLACK */
	size_t value_min, value_max;
	struct worker_value *drafts; /* one per operation of a batch */
	struct op *ops;      /* drawn ahead */
	size_t next, drawn;  /* in `ops`: the next one, and their number */
	struct db_item *reads, *writes;
	struct inflight *inflight; /* NULL: one call at a time */
	struct cache *cache;       /* NULL: the store is no cache */

	/* for the main thread, on a line of its own */
	_Alignas(64) _Atomic uint64_t done;
	char pad[56];
};

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
					 enum db_status status, const char *key,
					 size_t key_len);

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
		worker_failed(w, s, status, op->key, op->key_len);
}

/** Check the length of a value against the workload. */
static inline enum db_status worker_check_len(const struct worker *w,
					      size_t len)
{
	return LIKELY(len >= w->value_min && len <= w->value_max)
		       ? DB_OK
		       : DB_UNEXPECTED_STATE;
}

/** The lowest version that a read of `op` may return; call it before the read. */
static inline uint64_t worker_least(const struct worker *w, const struct op *op)
{
	return ages_least(&w->shared->workload->ages, op->number);
}

/**
 * dataintegrity: check the contents of an item that was read, as a separate series. `least`
 * of worker_least(). Advances w->now.
 */
void worker_verify(struct worker *w, const struct db_item *it, uint64_t least);

/** The same of an operation's read; `v` is not used if it failed. */
void worker_verify_op(struct worker *w, const struct op *op, enum db_status read,
		      uint64_t least, const struct db_value *v);

/** A checked value for the key of record `number` with this value_hash(). */
struct db_value worker_stamp(struct worker *w, struct worker_value *d,
			     uint64_t hash, uint64_t number, size_t len);

/** Sleep until `stamp`. False if the phase is stopped or its time is up. */
bool worker_sleep_until(struct worker *w, uint64_t stamp);

/** Sleep until `due`, which is the intended time from then on. False: the phase is over. */
bool worker_wait_until(struct worker *w, uint64_t due);

/** The value that `op` writes; valid until the next one with `d`. */
static inline struct db_value worker_value(struct worker *w, const struct op *op,
					   struct worker_value *d)
{
	const struct value_spec *v = &w->shared->workload->values;
	size_t len = value_draw_len(v, &w->draw.rng);

	if (!v->checked)
		return value_slice(v, &w->draw.rng, len);
	return worker_stamp(w, d, value_hash(op->key, op->key_len), op->number,
			    len);
}

/** The write of worker_value() has ended. */
static inline void worker_wrote(struct worker *w, struct worker_value *d,
				enum db_status status)
{
	if (w->shared->workload->values.checked &&
	    (status == DB_OK || db_status_is_definite(status)))
		ages_end(&d->write, status == DB_OK);
}

/**
 * update=field: the old value `v` with new content for one field, in `d`. Checked values stay
 * as they are: the new field equals the old one.
 */
struct db_value worker_new_field(struct worker *w, const struct db_value *v,
				 struct worker_value *d);

/** A load with a gap is useless: stop it, as YCSB does, unless told to keep going. */
static inline void worker_load_failed(struct worker *w)
{
	if (w->shared->workload->load && !w->shared->params->keep_going)
		worker_stop_all(w);
}

/** Out-of-line part of worker_ack(): too many inserts are open. */
__attribute__((cold)) void worker_ack_failed(struct worker *w,
					     const struct op *op);

/**
 * The insert is over. Its number is acknowledged even if it failed, as in YCSB: otherwise
 * one failure would hide all later records.
 */
static inline void worker_ack(struct worker *w, const struct op *op)
{
	if (!LIKELY(workload_ack(w->shared->workload, op)))
		worker_ack_failed(w, op);
}

/** In a load no thread may keep a drawn number if it gets no more arrivals. */
static inline bool worker_draws_late(const struct worker *w)
{
	return w->shared->params->open_loop && w->shared->workload->load;
}

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
