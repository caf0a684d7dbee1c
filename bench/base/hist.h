/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hist.h - a histogram of 64-bit values with three significant digits: Gil Tene's
 * HdrHistogram with its bucket boundaries and arithmetic, in a table for every value up to
 * 2^63-1. Nothing is clamped.
 *
 * Values below 2048 have a counter each. Above, every power of two is divided into 1024
 * equal steps, so a counter spans at most a thousandth of its value: 10000 falls into
 * 10000..10007, which counts as 10004 in a mean.
 *
 * One thread records; others may read meanwhile. Counters are loaded and stored atomically.
 */
#ifndef BENCH_BASE_HIST_H
#define BENCH_BASE_HIST_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HIST_SUB_BITS 11
#define HIST_HALF (1u << (HIST_SUB_BITS - 1))
#define HIST_COUNTERS ((64 - HIST_SUB_BITS + 1) * HIST_HALF)

/** 432 KiB of address space; only pages with recorded values take memory. */
struct hist {
	_Atomic uint64_t count[HIST_COUNTERS];
};

/** An empty histogram, or NULL. End with hist_free(); NULL is allowed. */
struct hist *hist_new(void);
void hist_free(struct hist *h);

/** The counter of a value. */
static inline unsigned hist_index(uint64_t value)
{
	unsigned bucket;

	/*
	 * The common case of a store in memory; the code below is microcode on some
	 * processors.
	 */
	if (__builtin_expect(value < 2 * HIST_HALF, 1))
		return (unsigned)value;
	if (__builtin_expect((int64_t)value < 0, 0))
		value = INT64_MAX;
	bucket = 64 - HIST_SUB_BITS -
		 (unsigned)__builtin_clzll(value | (2 * HIST_HALF - 1));
	return bucket * HIST_HALF + (unsigned)(value >> bucket);
}

/** Increment; only the histogram's own thread. */
static inline void hist_count(_Atomic uint64_t *c)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + 1,
		memory_order_relaxed);
}

/** Record one value. Only the histogram's own thread. */
static inline void hist_record(struct hist *h, uint64_t value)
{
	hist_count(&h->count[hist_index(value)]);
}

/** The lowest value of a counter: inverse of hist_index(). */
uint64_t hist_value(unsigned index);

/** The highest value in the same counter as `value`. */
uint64_t hist_highest(uint64_t value);

/** Add all of `src` to `dst`. */
void hist_merge(struct hist *dst, const struct hist *src);

/** Subtract `src` from `dst`, which must contain it. */
void hist_subtract(struct hist *dst, const struct hist *src);

struct hist_summary {
	uint64_t count;
	uint64_t min; /* as HdrHistogram: the ends of counters */
	uint64_t max;
	double mean;
};

/** All zero for an empty histogram. */
void hist_summarize(const struct hist *h, struct hist_summary *out);

/** Mean square distance from `mean`, by the counters' middle values. */
double hist_variance(const struct hist *h, double mean);

/**
 * The highest value in the counter that holds `percentile` of `total` values; 0 if there
 * are none.
 */
uint64_t hist_percentile(const struct hist *h, uint64_t total,
			 double percentile);

#endif
