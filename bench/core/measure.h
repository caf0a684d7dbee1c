/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * measure.h - measurements of one thread, or a sum: histograms of latencies in ns per kind
 * of operation and outcome, and counts by status.
 *
 * One thread writes; the status line may read meanwhile. Histograms of frequent outcomes
 * exist from the start; those of failures appear with the first one.
 */
#ifndef BENCH_CORE_MEASURE_H
#define BENCH_CORE_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "bench/base/hist.h"
#include "bench/gen/params.h"
#include "bench/store/db.h"

enum series {
	SERIES_READ,
	SERIES_UPDATE,
	SERIES_INSERT,
	SERIES_RMW,
	SERIES_DELETE,
	SERIES_EXISTS,  /* which blocks of a request are there */
	SERIES_REQUEST, /* all of a request for blocks */
	SERIES_VERIFY,
	SERIES_QUEUE, /* open loop: from arrival to a free session */
	SERIES_CLEANUP,
	SERIES_COUNT,
};

/** "READ", "READ-MODIFY-WRITE", ... */
const char *series_name(enum series s);

enum clock_kind {
	CLOCK_OP,       /* latency from the call */
	CLOCK_INTENDED, /* latency from the due time */
	CLOCK_KINDS,
};

/** What a store that is used as a cache is asked for. */
enum measure_count {
	COUNT_BYTES_HIT,    /* of values that were found, by the trace or workload */
	COUNT_BYTES_MISSED,
	COUNT_BYTES_PUT,
	COUNT_BLOCKS,       /* asked for */
	COUNT_BLOCKS_HIT,   /* of a prefix that was there */
	COUNT_WHOLE,        /* requests of which all blocks were there */
	MEASURE_COUNTS,
};

/** Histograms of a series: one per status, and one for failures without their own. */
#define SLOT_FAILED DB_STATUS_COUNT
#define SLOT_COUNT (DB_STATUS_COUNT + 1)

struct measure {
	struct hist *_Atomic hist[CLOCK_KINDS][SERIES_COUNT][SLOT_COUNT];
	_Atomic uint64_t returns[SERIES_COUNT][DB_STATUS_COUNT];
	/* By failure status: has its own histogram. */
	bool own_series[DB_STATUS_COUNT];
	bool clock[CLOCK_KINDS]; /* which latencies are kept */
	bool out_of_memory;      /* a histogram is missing */
	bool cache; /* missing values and refused ones are results, not failures */
	_Atomic uint64_t count[MEASURE_COUNTS];
	/*
	 * The counter of the last latency, not yet incremented; otherwise &none. Own thread
	 * only.
	 */
	_Atomic uint64_t *pending;
	_Atomic uint64_t none;
	/* For an open loop with requests in flight: */
	_Atomic uint64_t in_flight_most; /* of one session at once */
	_Atomic uint64_t late_full; /* arrivals submitted late for lack of space */
};

/**
 * Start empty, with histograms for the mix's operations. FARKV_ENOMEM with a detail. End
 * with measure_fini().
 */
int measure_init(struct measure *m, const struct params *p, bool load);
void measure_fini(struct measure *m);

/** Count a failure; creates its histogram. Own thread only. */
void measure_failed(struct measure *m, enum series s, enum db_status status,
		    const uint64_t ns[CLOCK_KINDS]);

/** True if a success has a single latency, from the call. */
static inline bool measure_is_plain(const struct measure *m)
{
	return !m->clock[CLOCK_INTENDED];
}

static inline struct hist *measure_hist_ok(struct measure *m, int clock,
					   enum series s)
{
	return atomic_load_explicit(&m->hist[clock][s][DB_OK],
				    memory_order_relaxed);
}

/**
 * Count the latency that measure_ok_plain() deferred: before the thread waits, and at the
 * end.
 */
static inline void measure_settle(struct measure *m)
{
	hist_count(m->pending);
	m->pending = &m->none;
}

/**
 * Count a success if measure_is_plain(). Own thread only, no system call. The latency is
 * counted with the next one: the counter's address depends on the stamp just taken, so a
 * later load may or may not alias it, and a wrong prediction restarts the pipeline.
 */
static inline void measure_ok_plain(struct measure *m, enum series s,
				    uint64_t ns)
{
	hist_count(&m->returns[s][DB_OK]);
	hist_count(m->pending);
	m->pending = &measure_hist_ok(m, CLOCK_OP, s)->count[hist_index(ns)];
}

/** Count a success by all clocks. */
static inline void measure_ok(struct measure *m, enum series s,
			      const uint64_t ns[CLOCK_KINDS])
{
	hist_count(&m->returns[s][DB_OK]);
	for (int c = 0; c < CLOCK_KINDS; c++)
		if (m->clock[c])
			hist_record(measure_hist_ok(m, c, s), ns[c]);
}

/** Own thread only. */
static inline void measure_add(struct measure *m, enum measure_count c,
			       uint64_t n)
{
	atomic_store_explicit(&m->count[c],
			      atomic_load_explicit(&m->count[c],
						   memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/**
 * True if this outcome is no failure: success, and in a cache a key that is missing, or a
 * value for which the store has no space or which is too long for it.
 */
bool measure_is_result(const struct measure *m, enum series s,
		       enum db_status status);

/** An arrival was submitted as one of `n` in flight. Own thread only. */
static inline void measure_in_flight(struct measure *m, uint64_t n, bool late)
{
	if (n > atomic_load_explicit(&m->in_flight_most, memory_order_relaxed))
		atomic_store_explicit(&m->in_flight_most, n,
				      memory_order_relaxed);
	if (late)
		atomic_fetch_add_explicit(&m->late_full, 1,
					  memory_order_relaxed);
}

/**
 * The name of one histogram in reports: "READ", "Intended-READ",
 * "UPDATE-FAILED", "READ-NOT_FOUND". `intended`: not the plain clock.
 */
void measure_name(char *buf, size_t cap, enum series s, int slot,
		  bool intended);

/** Add `src`, which may still be written. Sets out_of_memory if it cannot. */
void measure_merge(struct measure *dst, const struct measure *src);

/** Subtract `src`, an earlier state of the same measurement. */
void measure_subtract(struct measure *dst, const struct measure *src);

/**
 * The clock to show where there is space for one: from the call, unless only intended
 * latencies are kept.
 */
static inline int measure_clock(const struct measure *m)
{
	return m->clock[CLOCK_OP] ? CLOCK_OP : CLOCK_INTENDED;
}

/**
 * Operations that did not return OK. A read-modify-write counts by its read or its update;
 * a read with a wrong value counts once.
 */
uint64_t measure_failures(const struct measure *m);

/** The count of one status. */
uint64_t measure_returns(const struct measure *m, enum series s,
			 enum db_status status);

#endif
