/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * measure.h - what one thread measured, or several together: a histogram of
 * latencies in ns per kind of operation and outcome, and counts by status.
 *
 * One thread writes; the status line may read at the same time. Histograms of
 * what happens all the time exist from the start; those of failures appear
 * with the first one.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "db.h"
#include "hist.h"
#include "params.h"

enum series {
	SERIES_READ,
	SERIES_UPDATE,
	SERIES_INSERT,
	SERIES_RMW,
	SERIES_VERIFY,
	SERIES_QUEUE, /* of an open loop: from arrival to a free session */
	SERIES_CLEANUP,
	SERIES_COUNT,
};

/** "READ", "READ-MODIFY-WRITE", ... */
const char *series_name(enum series s);

enum clock_kind {
	CLOCK_OP,       /* latency from the call */
	CLOCK_INTENDED, /* from when the call was due */
	CLOCK_KINDS,
};

/** Histograms of a series: one per status, and one for the failures whose
 * status has none of its own. */
#define SLOT_FAILED DB_STATUS_COUNT
#define SLOT_COUNT (DB_STATUS_COUNT + 1)

struct measure {
	struct hist *_Atomic hist[CLOCK_KINDS][SERIES_COUNT][SLOT_COUNT];
	_Atomic uint64_t returns[SERIES_COUNT][DB_STATUS_COUNT];
	/* By failure status: has a histogram of its own. */
	bool own_series[DB_STATUS_COUNT];
	bool clock[CLOCK_KINDS]; /* which latencies are kept */
	bool out_of_memory;      /* a histogram is missing */
	/* The counter of the last latency, which is not counted yet; else &none.
	 * Own thread only. */
	_Atomic uint64_t *pending;
	_Atomic uint64_t none;
	/* Of an open loop with requests in flight: */
	_Atomic uint64_t in_flight_most; /* of one session at once */
	_Atomic uint64_t late_full; /* arrivals that were late for lack of room */
};

/**
 * Start empty, with histograms for the operations of the mix. FARKV_ENOMEM
 * with a detail. End with measure_fini().
 */
int measure_init(struct measure *m, const struct params *p, bool load);
void measure_fini(struct measure *m);

/** Failures: their histogram appears here. Own thread only. */
void measure_failed(struct measure *m, enum series s, enum db_status status,
		    const uint64_t ns[CLOCK_KINDS]);

/** Whether a success has one latency: that from the call. */
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

/** Count the latency that measure_ok_plain() left: before the thread waits, and at its
 * end. */
static inline void measure_settle(struct measure *m)
{
	hist_count(m->pending);
	m->pending = &m->none;
}

/**
 * A success where measure_is_plain(); the histograms exist. Own thread only, no system
 * call. Its latency is counted with the next one: a counter whose place follows from the
 * stamp just taken is one that loads behind it may or may not be of, and a processor that
 * guesses wrong starts again (6 ns of 15 on Zen 4).
 */
static inline void measure_ok_plain(struct measure *m, enum series s,
				    uint64_t ns)
{
	hist_count(&m->returns[s][DB_OK]);
	hist_count(m->pending);
	m->pending = &measure_hist_ok(m, CLOCK_OP, s)->count[hist_index(ns)];
}

/** A success by all clocks. */
static inline void measure_ok(struct measure *m, enum series s,
			      const uint64_t ns[CLOCK_KINDS])
{
	hist_count(&m->returns[s][DB_OK]);
	for (int c = 0; c < CLOCK_KINDS; c++)
		if (m->clock[c])
			hist_record(measure_hist_ok(m, c, s), ns[c]);
}

/** An arrival was submitted; it is one of `n` under way. Own thread only. */
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

/** Add all of `src`, which may still be written. Marks lack of memory. */
void measure_merge(struct measure *dst, const struct measure *src);

/** Take away what an earlier state `src` of the same measurement holds. */
void measure_subtract(struct measure *dst, const struct measure *src);

/** Whose latencies are shown where there is room for one kind: from their beginning,
 * unless only those from when they were due are kept. */
static inline int measure_clock(const struct measure *m)
{
	return m->clock[CLOCK_OP] ? CLOCK_OP : CLOCK_INTENDED;
}

/** Operations that did not return OK: a read-modify-write by its read or its update, a
 * read whose value was wrong once. */
uint64_t measure_failures(const struct measure *m);

/** The count of one status. */
uint64_t measure_returns(const struct measure *m, enum series s,
			 enum db_status status);

#endif
