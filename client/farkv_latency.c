/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions for histograms of latency, and the text of farkv_metrics(). */
#include "config.h"

#include "public.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#include "handle.h"
#include "latency.h"
#include "sized.h"

/* ---- histograms ------------------------------------------------------------------------ */

int farkv_latency(const struct farkv *kv, uint32_t kind, struct farkv_latency *l)
{
	struct farkv_latency found;
	int err;

	if (!l)
		return err_set(FARKV_EINVAL, "farkv_latency: l is NULL");
	err = size_check("farkv_latency", l->size);
	if (err)
		return err;
	if (kind >= LATENCY_KINDS)
		return err_set(FARKV_EINVAL, "farkv_latency: unknown kind %u", kind);
	if (kv && (!kv->latency || kv->server_name))
		return err_set(FARKV_EINVAL,
			       "farkv_latency: the handle records none; open it with "
			       "FARKV_OPEN_LATENCY");
	latency_read(kv ? kv->latency : NULL, (enum farkv_latency_kind)kind, &found);
	sized_copy(l, l->size, &found, sizeof(found));
	return 0;
}

uint64_t farkv_latency_bound(size_t i)
{
	return latency_bound(i);
}

/*
 * Number of calls that the percentile covers, at least 1. Slightly reduced, because 99.9 is not
 * exact.
 */
static uint64_t share(uint64_t count, double percent)
{
	double share = (double)count * percent / 100 * (1 - 1e-12);
	uint64_t n = (uint64_t)share;

	if ((double)n < share)
		n++;
	return UTIL_MIN(UTIL_MAX(n, UINT64_C(1)), count);
}

uint64_t farkv_latency_percentile(const struct farkv_latency *l, double percent)
{
	uint64_t want, seen = 0;

	if (!l || !l->count)
		return 0;
	want = share(l->count, percent > 0 ? UTIL_MIN(percent, 100.0) : 0);
	for (size_t i = 0; i < FARKV_LATENCY_COUNTERS; i++) {
		seen += l->counters[i];
		if (seen >= want)
			return UTIL_MIN(latency_bound(i), l->max_ns);
	}
	return l->max_ns;
}

/* ---- text ------------------------------------------------------------------------------ */

/* Buckets: two for each power of two, from 64 ns to 8.6 s. */
#define BUCKET_FIRST 47u
#define BUCKET_LAST 479u
#define BUCKET_STEP 8u

static const char *const names[LATENCY_KINDS] = {
	[FARKV_LATENCY_GET] = "get",	   [FARKV_LATENCY_PUT] = "put",
	[FARKV_LATENCY_DELETE] = "delete", [FARKV_LATENCY_EXISTS] = "exists",
	[FARKV_LATENCY_UPDATE] = "update", [FARKV_LATENCY_MGET] = "mget",
	[FARKV_LATENCY_MPUT] = "mput",	   [FARKV_LATENCY_MEXISTS] = "mexists",
	[FARKV_LATENCY_REQUEST] = "request",
};

/* The fields of struct farkv_counters, in their order. */
static const struct {
	const char *name, *help;
} figures[] = {
	{"reads", "READ requests of the network card"},
	{"writes", "WRITE requests of the network card"},
	{"cas", "Compare-and-swap requests of the network card"},
	{"read_bytes", "Bytes READ"},
	{"write_bytes", "Bytes WRITTEN"},
	{"doorbells", "Posts to the network card"},
	{"round_trips", "Times that an operation waited for the far side"},
	{"retries", "Steps of operations that were repeated"},
	{"control_messages", "Requests to the server"},
	{"registrations", "Registrations of memory with the RDMA device"},
	{"cache_hits", "Operations whose cached location was right"},
	{"cache_stale", "Operations whose cached location was outdated"},
	{"cache_misses", "Operations without a cached location"},
	{"cache_values", "Gets with a cached value"},
};

static_assert(ARRAY_SIZE(figures) == LATENCY_FIGURES, "one for each counter");

struct text {
	char *buf;
	size_t cap, len;
};

static __attribute__((format(printf, 2, 3))) void add(struct text *t, const char *format, ...)
{
	char line[256];
	va_list args;
	size_t n;

	va_start(args, format);
	n = (size_t)vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (t->len < t->cap)
		memcpy(t->buf + t->len, line, UTIL_MIN(n, t->cap - t->len));
	t->len += n;
}

static void add_head(struct text *t, const char *name, const char *type, const char *help)
{
	add(t, "# HELP farkv_client_%s %s.\n# TYPE farkv_client_%s %s\n", name, help, name, type);
}

static void add_bucket(struct text *t, const char *name, const char *le, uint64_t n)
{
	add(t, "farkv_client_latency_seconds_bucket{call=\"%s\",le=\"%s\"} %" PRIu64 "\n", name, le,
	    n);
}

static void add_histogram(struct text *t, const char *name, const struct farkv_latency *l)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= BUCKET_LAST; i++) {
		char le[32];

		n += l->counters[i];
		if (i < BUCKET_FIRST || (i - BUCKET_FIRST) % BUCKET_STEP)
			continue;
		snprintf(le, sizeof(le), "%" PRIu64 ".%09" PRIu64, latency_bound(i) / NS_PER_SEC,
			 latency_bound(i) % NS_PER_SEC);
		add_bucket(t, name, le, n);
	}
	add_bucket(t, name, "+Inf", l->count);
	add(t, "farkv_client_latency_seconds_sum{call=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n", name,
	    l->sum_ns / NS_PER_SEC, l->sum_ns % NS_PER_SEC);
	add(t, "farkv_client_latency_seconds_count{call=\"%s\"} %" PRIu64 "\n", name, l->count);
}

static void add_kinds(struct text *t)
{
	struct farkv_latency l;
	uint64_t errors[LATENCY_KINDS];
	bool used[LATENCY_KINDS];

	add_head(t, "latency_seconds", "histogram", "Time of calls");
	for (unsigned i = 0; i < LATENCY_KINDS; i++) {
		latency_read(NULL, (enum farkv_latency_kind)i, &l);
		errors[i] = l.errors;
		used[i] = l.count > 0;
		if (used[i])
			add_histogram(t, names[i], &l);
	}
	add_head(t, "errors_total", "counter",
		 "Calls that failed, other than for what is stored under the key");
	for (unsigned i = 0; i < LATENCY_KINDS; i++)
		if (used[i])
			add(t, "farkv_client_errors_total{call=\"%s\"} %" PRIu64 "\n", names[i],
			    errors[i]);
}

static void add_figure(struct text *t, const char *name, const char *help, uint64_t value)
{
	char total[40];

	snprintf(total, sizeof(total), "%s_total", name);
	add_head(t, total, "counter", help);
	add(t, "farkv_client_%s %" PRIu64 "\n", total, value);
}

size_t farkv_metrics(char *buf, size_t cap)
{
	struct text t = {.buf = buf, .cap = buf ? cap : 0};
	uint64_t sum[LATENCY_FIGURES], n;

	add_kinds(&t);
	n = latency_figures(sum);
	for (size_t i = 0; i < LATENCY_FIGURES; i++)
		add_figure(&t, figures[i].name, figures[i].help, sum[i]);
	add_head(&t, "handles", "gauge", "Open handles that record latency");
	add(&t, "farkv_client_handles %" PRIu64 "\n", n);
	return t.len;
}
