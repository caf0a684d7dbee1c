/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "report.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/clock.h"

#include "environ.h"

struct fact_arg {
	struct report *report;
	const char *metric;
};

void report_begin(struct report *r, FILE *out, enum exporter kind)
{
	*r = (struct report){.out = out, .kind = kind};
	if (kind == EXPORTER_JSON_ARRAY)
		fputs("[", out);
	if (kind == EXPORTER_CSV)
		fputs("metric,measurement,value\n", out);
}

void report_end(struct report *r)
{
	if (r->kind == EXPORTER_JSON_ARRAY)
		fputs("\n]\n", r->out);
	fflush(r->out);
}

/* Quoted if necessary (RFC 4180, 2.5 to 2.7). */
static void csv_field(FILE *out, const char *text, char end)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fprintf(out, "%s%c", text, end);
		return;
	}
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', out);
		putc(*text, out);
	}
	fprintf(out, "\"%c", end);
}

static void csv_line(FILE *out, const char *metric, const char *measurement,
		     const char *value)
{
	csv_field(out, metric, ',');
	csv_field(out, measurement, ',');
	csv_field(out, value, '\n');
}

/* Names and numbers need no escaping; labels of bindings are plain words. */
static void line(struct report *r, const char *metric, const char *measurement,
		 const char *value, bool quote)
{
	const char *q = quote ? "\"" : "";

	if (r->fn)
		r->fn(r->arg, metric, measurement, value, quote);
	else if (r->kind == EXPORTER_TEXT)
		fprintf(r->out, "[%s], %s, %s\n", metric, measurement, value);
	else if (r->kind == EXPORTER_CSV)
		csv_line(r->out, metric, measurement, value);
	else
		fprintf(r->out,
			"%s{\n  \"metric\" : \"%s\",\n  \"measurement\" : "
			"\"%s\",\n  \"value\" : %s%s%s\n}%s",
			r->kind == EXPORTER_JSON ? ""
			: r->lines		 ? ",\n"
						 : "\n",
			metric, measurement, q, value, q,
			r->kind == EXPORTER_JSON ? "\n" : "");
	r->lines++;
}

void report_u64(struct report *r, const char *metric, const char *measurement,
		uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	line(r, metric, measurement, text, false);
}

void report_double(struct report *r, const char *metric,
		   const char *measurement, double value)
{
	char text[400]; /* the largest double has 309 digits */
	size_t n;

	snprintf(text, sizeof(text), "%.6f", isfinite(value) ? value : 0.0);
	for (n = strlen(text); n > 2 && text[n - 1] == '0' &&
			       text[n - 2] != '.';)
		text[--n] = '\0';
	line(r, metric, measurement, text, false);
}

void report_text(struct report *r, const char *metric, const char *measurement,
		 const char *value)
{
	line(r, metric, measurement, value, true);
}

/* A fact of any origin: replace commas, which end a field, and quotes. */
static void put_fact(void *arg, const char *name, const char *text)
{
	char clean[400];
	size_t n = 0;

	for (; *text && n < sizeof(clean) - 1; text++)
		clean[n++] = (unsigned char)*text < ' ' || *text == ',' ||
					     *text == '"' || *text == '\\'
				     ? ' '
				     : *text;
	clean[n] = '\0';
	report_text(((struct fact_arg *)arg)->report,
		    ((struct fact_arg *)arg)->metric, name, clean);
}

void report_workload(struct report *r, const struct params *p, bool load,
		     const char *db_name)
{
	report_text(r, "WORKLOAD", "Binding", db_name);
	report_text(r, "WORKLOAD", "Phase", load ? "load" : "run");
	report_u64(r, "WORKLOAD", "Records", p->record_count);
	report_u64(r, "WORKLOAD", "ValueBytes", p->value_max);
	if (p->trace)
		put_fact(&(struct fact_arg){r, "WORKLOAD"}, "Trace",
			 p->trace_file);
	else if (!load)
		report_text(r, "WORKLOAD", "RequestDistribution",
			    params_dist_name(p));
	if (p->blocks)
		report_u64(r, "WORKLOAD", "Blocks", p->blocks);
	report_u64(r, "WORKLOAD", "Threads", p->threads);
	if (p->processes > 1)
		report_u64(r, "WORKLOAD", "Processes", p->processes);
	if (p->open_loop)
		report_text(r, "WORKLOAD", "Arrivals",
			    p->arrivals == ARRIVALS_POISSON
				    ? "open loop; poisson"
				    : "open loop; constant");
	if (p->batch > 1)
		report_u64(r, "WORKLOAD", "Batch", p->batch);
	report_u64(r, "WORKLOAD", "Seed", p->seed);
}

void report_environment(struct report *r)
{
	struct fact_arg a = {r, "ENVIRONMENT"};

	environ_facts(put_fact, &a);
}

void report_facts(struct report *r, const char *metric, struct db_store *store)
{
	struct fact_arg a = {r, metric};

	if (store->ops->facts)
		store->ops->facts(store, put_fact, &a);
}

/* CPU time of both sides, in total and per operation. */
static void put_cpu(struct report *r, const struct phase_result *res)
{
	double ops = res->ops ? (double)res->ops : 1.0;

	report_double(r, "CPU", "Client(s)", (double)res->cpu_ns / 1e9);
	report_double(r, "CPU", "ClientPerOperation(ns)",
		      (double)res->cpu_ns / ops);
	if (!res->server_cpu_ns)
		return;
	report_double(r, "CPU", "Server(s)", (double)res->server_cpu_ns / 1e9);
	report_double(r, "CPU", "ServerPerOperation(ns)",
		      (double)res->server_cpu_ns / ops);
}

double report_throughput(const struct phase_result *res)
{
	return res->ns ? (double)res->ops * 1e9 / (double)res->ns : 0.0;
}

/* "50thPercentileLatency", "99.9PercentileLatency": YCSB's names. */
static void percentile_name(double p, char *buf, size_t cap)
{
	unsigned n = (unsigned)p;
	const char *end = "th";

	if (p != (double)n) {
		snprintf(buf, cap, "%.15gPercentileLatency", p);
		return;
	}
	if (n % 100 < 11 || n % 100 > 13)
		end = n % 10 == 1 ? "st" : n % 10 == 2 ? "nd"
				  : n % 10 == 3	       ? "rd"
						       : "th";
	snprintf(buf, cap, "%u%sPercentileLatency", n, end);
}

static void put_latency(struct report *r, const char *metric, const char *name,
			uint64_t ns, bool in_ns)
{
	char full[80];

	snprintf(full, sizeof(full), "%s(%s)", name, in_ns ? "ns" : "us");
	report_u64(r, metric, full, in_ns ? ns : ns / 1000);
}

/* The same figures in us and in ns. */
static void put_latencies(struct report *r, const char *metric,
			  const struct params *p, const struct hist *h,
			  bool in_ns)
{
	struct hist_summary s;
	char name[64];

	hist_summarize(h, &s);
	report_double(r, metric,
		      in_ns ? "AverageLatency(ns)" : "AverageLatency(us)",
		      in_ns ? s.mean : s.mean / 1000.0);
	put_latency(r, metric, "MinLatency", s.min, in_ns);
	put_latency(r, metric, "MaxLatency", s.max, in_ns);
	for (unsigned i = 0; i < p->n_percentiles; i++) {
		percentile_name(p->percentiles[i], name, sizeof(name));
		put_latency(r, metric, name,
			    hist_percentile(h, s.count, p->percentiles[i]),
			    in_ns);
	}
}

/*
 * measurement.histogram.verbose: operations per whole `unit` ns; those from `most` units on
 * together as ">MOST".
 */
static void put_buckets(struct report *r, const char *metric,
			const struct hist *h, uint64_t unit, uint64_t most)
{
	uint64_t value = 0, n = 0;
	char name[32];

	for (unsigned i = 0; i <= HIST_COUNTERS; i++) {
		bool end = i == HIST_COUNTERS;
		uint64_t next = end ? UINT64_MAX : hist_value(i) / unit;

		next = next > most && !end ? most : next;
		if (next != value && n) {
			snprintf(name, sizeof(name), "%s%llu",
				 value == most ? ">" : "",
				 (unsigned long long)value);
			report_u64(r, metric, name, n);
			n = 0;
		}
		value = next;
		if (!end)
			n += atomic_load_explicit(&h->count[i],
						  memory_order_relaxed);
	}
}

/* measurementtype=histogram: buckets of 1 ms; percentiles are their lower ends, as in YCSB. */
static void put_histogram(struct report *r, const char *metric,
			  const struct params *p, const struct hist *h)
{
	struct hist_summary s;
	double us;

	hist_summarize(h, &s);
	us = s.mean / 1000.0;
	report_u64(r, metric, "Operations", s.count);
	report_double(r, metric, "AverageLatency(us)", us);
	report_double(r, metric, "LatencyVariance(us)",
		      hist_variance(h, s.mean) / 1e6);
	report_u64(r, metric, "MinLatency(us)", s.min / 1000);
	report_u64(r, metric, "MaxLatency(us)", s.max / 1000);
	for (unsigned k = 95; k <= 99; k += 4) {
		char name[48];
		uint64_t ms = hist_percentile(h, s.count, k) / NS_PER_MS;

		snprintf(name, sizeof(name), "%uthPercentileLatency(us)", k);
		report_u64(r, metric, name, ms * 1000);
	}
	if (p->histogram_verbose)
		put_buckets(r, metric, h, NS_PER_MS, p->histogram_ms);
}

/* If both kinds are printed, YCSB names them "Hdr" and "Bucket". */
static void metric_name(char *buf, size_t cap, const struct params *p,
			const char *kind, const char *name)
{
	snprintf(buf, cap, "%s%s",
		 p->measurement_type == TYPE_BOTH ? kind : "", name);
}

static void put_hist(struct report *r, const char *name,
		     const struct params *p, const struct hist *h)
{
	struct hist_summary s;
	char metric[112];

	if (p->measurement_type == TYPE_HISTOGRAM) {
		put_histogram(r, name, p, h);
		return;
	}
	metric_name(metric, sizeof(metric), p, "Hdr", name);
	hist_summarize(h, &s);
	report_u64(r, metric, "Operations", s.count);
	if (!s.count)
		return;
	put_latencies(r, metric, p, h, false);
	put_latencies(r, metric, p, h, true);
	if (p->histogram_verbose && p->measurement_type != TYPE_TIMESERIES)
		put_buckets(r, metric, h, 1000, UINT64_MAX);
	metric_name(metric, sizeof(metric), p, "Bucket", name);
	if (p->measurement_type == TYPE_BOTH)
		put_histogram(r, metric, p, h);
}

/* measurementtype=timeseries: [READ], 1000, 0.231: start of the interval in ms, mean in us. */
static void put_timeseries(struct report *r, const struct timeline *t,
			   enum series s)
{
	for (size_t i = 0; i < t->n; i++) {
		char name[32];

		if (t->v[i].series != (int)s)
			continue;
		snprintf(name, sizeof(name), "%.0f", t->v[i].from_s * 1000.0);
		report_double(r, series_name(s), name, t->v[i].mean / 1000.0);
	}
}

static void put_returns(struct report *r, const char *metric,
			const struct measure *m, enum series s)
{
	for (int t = 0; t < DB_STATUS_COUNT; t++) {
		uint64_t n = measure_returns(m, s, t);
		char name[48];

		snprintf(name, sizeof(name), "Return=%s", db_status_name(t));
		if (n)
			report_u64(r, metric, name, n);
	}
}

/*
 * One series by one clock. With "intended" alone the plain name means latencies from the
 * due time.
 */
static void put_series(struct report *r, const struct params *p,
		       const struct measure *m, enum series s,
		       enum clock_kind clock)
{
	bool plain = clock == CLOCK_OP || !m->clock[CLOCK_OP];
	char metric[80], own[112];

	for (int t = 0; t < SLOT_COUNT; t++) {
		const struct hist *h = m->hist[clock][s][t];

		if (!h)
			continue;
		measure_name(metric, sizeof(metric), s, t, !plain);
		put_hist(r, metric, p, h);
		metric_name(own, sizeof(own), p, "Hdr", metric);
		if (t == DB_OK && plain && s != SERIES_CLEANUP)
			put_returns(r, own, m, s);
		if (s == SERIES_QUEUE && m->in_flight_most) {
			report_u64(r, own, "MostInFlight", m->in_flight_most);
			report_u64(r, own, "LateQueueFull", m->late_full);
		}
	}
}

static double share(uint64_t part, uint64_t rest)
{
	return part + rest ? (double)part / (double)(part + rest) : 0.0;
}

static void put_rate(struct report *r, const char *name, uint64_t bytes,
		     uint64_t ns)
{
	report_double(r, "CACHE", name, ns ? (double)bytes / (double)ns : 0.0);
}

/* What a cache is judged by. A block that is there after a missing one is no hit. */
static void put_cache(struct report *r, const struct params *p,
		      const struct phase_result *res)
{
	const struct measure *m = &res->m;
	uint64_t hits = measure_returns(m, SERIES_READ, DB_OK);
	uint64_t misses = measure_returns(m, SERIES_READ, DB_NOT_FOUND);
	uint64_t refused = 0;

	for (int s = SERIES_UPDATE; s <= SERIES_INSERT; s++)
		refused += measure_returns(m, s, DB_NO_SPACE) +
			   measure_returns(m, s, DB_BAD_REQUEST);
	report_u64(r, "CACHE", "Requests", res->ops);
	if (params_has_blocks(p)) {
		hits = m->count[COUNT_BLOCKS_HIT];
		misses = m->count[COUNT_BLOCKS] - hits;
		report_u64(r, "CACHE", "WholeRequests", m->count[COUNT_WHOLE]);
	}
	report_u64(r, "CACHE", "Hits", hits);
	report_u64(r, "CACHE", "Misses", misses);
	report_double(r, "CACHE", "MissRatio", share(misses, hits));
	report_double(r, "CACHE", "ByteMissRatio",
		      share(m->count[COUNT_BYTES_MISSED],
			    m->count[COUNT_BYTES_HIT]));
	report_u64(r, "CACHE", "RefusedPuts", refused);
	put_rate(r, "Got(GB/s)", m->count[COUNT_BYTES_HIT], res->ns);
	put_rate(r, "Put(GB/s)", m->count[COUNT_BYTES_PUT], res->ns);
}

void report_phase(struct report *r, const struct params *p,
		  const struct phase_result *res)
{
	report_u64(r, "OVERALL", "RunTime(ms)", res->ns / NS_PER_MS);
	report_double(r, "OVERALL", "Throughput(ops/sec)",
		      report_throughput(res));
	put_cpu(r, res);
	if (res->m.cache)
		put_cache(r, p, res);
	for (int s = 0; s < SERIES_COUNT; s++)
		for (int c = 0; c < CLOCK_KINDS; c++)
			if (res->m.clock[c])
				put_series(r, p, &res->m, s, c);
	for (int s = 0; p->measurement_type == TYPE_TIMESERIES &&
			s < SERIES_COUNT;
	     s++)
		put_timeseries(r, &res->timeline, s);
}
