/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "hist.h"

#include <math.h>
#include <stdlib.h>

#include "shared.h"

struct hist *hist_new(void)
{
	/* calloc() touches no pages. */
	return shared_is_on() ? shared_new(sizeof(struct hist))
			      : calloc(1, sizeof(struct hist));
}

void hist_free(struct hist *h)
{
	shared_free(h);
}

/* The counter's step is 2^shift wide. */
static unsigned shift_of(unsigned index)
{
	return index < 2 * HIST_HALF ? 0 : index / HIST_HALF - 1;
}

static uint64_t lowest_of(unsigned index)
{
	unsigned shift = shift_of(index);

	return (uint64_t)(index - shift * HIST_HALF) << shift;
}

static uint64_t highest_of(unsigned index)
{
	return lowest_of(index) + (UINT64_C(1) << shift_of(index)) - 1;
}

static uint64_t median_of(unsigned index)
{
	return lowest_of(index) + (UINT64_C(1) << shift_of(index)) / 2;
}

uint64_t hist_value(unsigned index)
{
	return lowest_of(index);
}

uint64_t hist_highest(uint64_t value)
{
	return highest_of(hist_index(value));
}

static uint64_t count_of(const struct hist *h, unsigned index)
{
	return atomic_load_explicit(&h->count[index], memory_order_relaxed);
}

static void set_count(struct hist *h, unsigned index, uint64_t count)
{
	atomic_store_explicit(&h->count[index], count, memory_order_relaxed);
}

void hist_merge(struct hist *dst, const struct hist *src)
{
	for (unsigned i = 0; i < HIST_COUNTERS; i++) {
		uint64_t n = count_of(src, i);

		if (n) /* do not touch unused pages */
			set_count(dst, i, count_of(dst, i) + n);
	}
}

void hist_subtract(struct hist *dst, const struct hist *src)
{
	for (unsigned i = 0; i < HIST_COUNTERS; i++) {
		uint64_t n = count_of(src, i);

		if (n)
			set_count(dst, i, count_of(dst, i) - n);
	}
}

void hist_summarize(const struct hist *h, struct hist_summary *out)
{
	struct hist_summary s = {0};
	double sum = 0.0;

	for (unsigned i = 0; i < HIST_COUNTERS; i++) {
		uint64_t n = count_of(h, i);

		if (!n)
			continue;
		if (!s.count)
			s.min = lowest_of(i);
		s.max = highest_of(i);
		s.count += n;
		sum += (double)median_of(i) * (double)n;
	}
	if (s.count)
		s.mean = sum / (double)s.count;
	*out = s;
}

double hist_variance(const struct hist *h, double mean)
{
	double sum = 0.0, count = 0.0;

	for (unsigned i = 0; i < HIST_COUNTERS; i++) {
		double n = (double)count_of(h, i);
		double off = (double)median_of(i) - mean;

		sum += n * off * off;
		count += n;
	}
	return count > 0.0 ? sum / count : 0.0;
}

uint64_t hist_percentile(const struct hist *h, uint64_t total,
			 double percentile)
{
	/*
	 * Slightly less, so that rounding does not move an exact decimal percentile to the
	 * next counter.
	 */
	double p = nextafter(percentile, -INFINITY);
	uint64_t want, seen = 0;

	if (!total)
		return 0;
	p = p < 0.0 ? 0.0 : p > 100.0 ? 100.0 : p;
	want = (uint64_t)ceil(p * (double)total / 100.0);
	if (!want)
		want = 1;
	for (unsigned i = 0; i < HIST_COUNTERS; i++) {
		seen += count_of(h, i);
		if (seen >= want)
			return percentile > 0.0 ? highest_of(i) : lowest_of(i);
	}
	return 0;
}
