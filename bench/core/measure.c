/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "measure.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"

const char *series_name(enum series s)
{
	static const char *const names[SERIES_COUNT] = {
		[SERIES_READ] = "READ",
		[SERIES_UPDATE] = "UPDATE",
		[SERIES_INSERT] = "INSERT",
		[SERIES_RMW] = "READ-MODIFY-WRITE",
		[SERIES_DELETE] = "DELETE",
		[SERIES_EXISTS] = "EXISTS",
		[SERIES_REQUEST] = "REQUEST",
		[SERIES_VERIFY] = "VERIFY",
		[SERIES_QUEUE] = "QUEUE",
		[SERIES_CLEANUP] = "CLEANUP",
	};

	return names[s];
}

/* True if the list "NOT_FOUND,TIMEOUT" contains `name`. */
static bool in_list(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (*list) {
		size_t item;

		list += strspn(list, ", \t");
		item = strcspn(list, ", \t");
		if (item == len && !memcmp(list, name, len))
			return true;
		list += item;
	}
	return false;
}

/* The histogram, created if missing; NULL if out of memory. */
static struct hist *need(struct measure *m, int clock, enum series s, int slot)
{
	struct hist *h = m->hist[clock][s][slot];

	if (!h) {
		h = hist_new();
		if (!h)
			m->out_of_memory = true;
		/* Release: readers see it initialized. */
		atomic_store_explicit(&m->hist[clock][s][slot], h,
				      memory_order_release);
	}
	return h;
}

static bool occurs_in_cache(const struct params *p, enum series s)
{
	bool blocks = params_has_blocks(p);

	switch (s) {
	case SERIES_RMW:
	case SERIES_QUEUE:
		return false;
	case SERIES_EXISTS:
	case SERIES_REQUEST:
		return blocks;
	case SERIES_UPDATE:
	case SERIES_DELETE:
		return !blocks;
	case SERIES_VERIFY:
		return p->data_integrity;
	default:
		return true;
	}
}

static bool series_occurs(const struct params *p, bool load, enum series s)
{
	const double *mix = p->proportion;

	if (params_is_cache(p))
		return occurs_in_cache(p, s);
	if (s == SERIES_QUEUE)
		return p->open_loop;
	if (load)
		return s == SERIES_INSERT || s == SERIES_CLEANUP;
	switch (s) {
	case SERIES_READ:
		return mix[OP_READ] > 0.0 || mix[OP_RMW] > 0.0;
	case SERIES_UPDATE:
		return mix[OP_UPDATE] > 0.0 || mix[OP_RMW] > 0.0;
	case SERIES_INSERT:
		return mix[OP_INSERT] > 0.0;
	case SERIES_RMW:
		return mix[OP_RMW] > 0.0;
	case SERIES_VERIFY:
		return p->data_integrity;
	default:
		return s == SERIES_CLEANUP;
	}
}

int measure_init(struct measure *m, const struct params *p, bool load)
{
	memset(m, 0, sizeof(*m));
	m->pending = &m->none;
	m->cache = params_is_cache(p);
	m->clock[CLOCK_OP] = p->interval != INTERVAL_INTENDED;
	m->clock[CLOCK_INTENDED] = p->interval != INTERVAL_OP;
	for (int s = 0; s < DB_STATUS_COUNT; s++)
		m->own_series[s] =
			p->error_latencies ||
			(m->cache && s == DB_NOT_FOUND) ||
			in_list(p->tracked_errors, db_status_name(s));
	for (int s = 0; s < SERIES_COUNT; s++)
		for (int c = 0; c < CLOCK_KINDS; c++)
			if (m->clock[c] && series_occurs(p, load, s) &&
			    !(s == SERIES_QUEUE && c > 0 && m->clock[CLOCK_OP]))
				need(m, c, s, DB_OK);
	if (!m->out_of_memory)
		return 0;
	measure_fini(m);
	return err_set(FARKV_ENOMEM, "no memory for the histograms");
}

void measure_fini(struct measure *m)
{
	for (int c = 0; c < CLOCK_KINDS; c++)
		for (int s = 0; s < SERIES_COUNT; s++)
			for (int t = 0; t < SLOT_COUNT; t++)
				hist_free(m->hist[c][s][t]);
	memset(m, 0, sizeof(*m));
}

void measure_name(char *buf, size_t cap, enum series s, int slot, bool intended)
{
	snprintf(buf, cap, "%s%s%s%s", intended ? "Intended-" : "",
		 series_name(s), slot == DB_OK ? "" : "-",
		 slot == DB_OK		? ""
		 : slot == SLOT_FAILED ? "FAILED"
				       : db_status_name(slot));
}

void measure_failed(struct measure *m, enum series s, enum db_status status,
		    const uint64_t ns[CLOCK_KINDS])
{
	int slot = m->own_series[status] ? (int)status : SLOT_FAILED;

	atomic_fetch_add_explicit(&m->returns[s][status], 1,
				  memory_order_relaxed);
	for (int c = 0; c < CLOCK_KINDS; c++) {
		struct hist *h = m->clock[c] ? need(m, c, s, slot) : NULL;

		if (h)
			hist_record(h, ns[c]);
	}
}

static void merge_series(struct measure *dst, const struct measure *src,
			 enum series s)
{
	for (int t = 0; t < DB_STATUS_COUNT; t++)
		atomic_fetch_add_explicit(&dst->returns[s][t],
					  measure_returns(src, s, t),
					  memory_order_relaxed);
	for (int c = 0; c < CLOCK_KINDS; c++)
		for (int t = 0; t < SLOT_COUNT; t++) {
			struct hist *from = atomic_load_explicit(
				&src->hist[c][s][t], memory_order_acquire);
			struct hist *to = from ? need(dst, c, s, t) : NULL;

			if (to)
				hist_merge(to, from);
		}
}

void measure_merge(struct measure *dst, const struct measure *src)
{
	memcpy(dst->own_series, src->own_series, sizeof(dst->own_series));
	memcpy(dst->clock, src->clock, sizeof(dst->clock));
	dst->cache = src->cache;
	for (int c = 0; c < MEASURE_COUNTS; c++)
		dst->count[c] += src->count[c];
	for (int s = 0; s < SERIES_COUNT; s++)
		merge_series(dst, src, s);
	dst->in_flight_most =
		UTIL_MAX(dst->in_flight_most, src->in_flight_most);
	dst->late_full += src->late_full;
}

static void subtract_series(struct measure *dst, const struct measure *src,
			    enum series s)
{
	for (int t = 0; t < DB_STATUS_COUNT; t++)
		atomic_fetch_sub_explicit(&dst->returns[s][t],
					  measure_returns(src, s, t),
					  memory_order_relaxed);
	for (int c = 0; c < CLOCK_KINDS; c++)
		for (int t = 0; t < SLOT_COUNT; t++)
			if (dst->hist[c][s][t] && src->hist[c][s][t])
				hist_subtract(dst->hist[c][s][t],
					      src->hist[c][s][t]);
}

void measure_subtract(struct measure *dst, const struct measure *src)
{
	for (int s = 0; s < SERIES_COUNT; s++)
		subtract_series(dst, src, s);
	for (int c = 0; c < MEASURE_COUNTS; c++)
		dst->count[c] -= src->count[c];
	dst->late_full -= src->late_full;
}

uint64_t measure_returns(const struct measure *m, enum series s,
			 enum db_status status)
{
	return atomic_load_explicit(&m->returns[s][status],
				    memory_order_relaxed);
}

bool measure_is_result(const struct measure *m, enum series s,
		       enum db_status status)
{
	if (status == DB_OK || !m->cache)
		return status == DB_OK;
	if (s == SERIES_INSERT || s == SERIES_UPDATE)
		return status == DB_NO_SPACE || status == DB_BAD_REQUEST;
	return status == DB_NOT_FOUND;
}

static uint64_t series_failures(const struct measure *m, enum series s)
{
	uint64_t sum = 0;

	for (int t = DB_OK + 1; t < DB_STATUS_COUNT; t++)
		if (!measure_is_result(m, s, t))
			sum += measure_returns(m, s, t);
	return sum;
}

uint64_t measure_failures(const struct measure *m)
{
	uint64_t reads = series_failures(m, SERIES_READ), sum = 0;
	uint64_t verified = series_failures(m, SERIES_VERIFY);

	for (int s = 0; s < SERIES_COUNT; s++)
		if (s != SERIES_RMW && s != SERIES_REQUEST && s != SERIES_VERIFY)
			sum += series_failures(m, s);
	/* Values that failed to be read failed the check too. */
	return sum + (verified > reads ? verified - reads : 0);
}
