/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "quick.h"

#include "common/base/err.h"
#include "common/base/util.h"

#include "report.h"

int quick_props(struct props *p)
{
	static const char *const deflt[][2] = {
		{"recordcount", "200000"},      {"maxexecutiontime", "5"},
		{"fieldcount", "1"},            {"fieldlength", "100"},
		{"readproportion", "0.95"},     {"updateproportion", "0.05"},
		{"requestdistribution", "zipfian"}, {"status.interval", "1"},
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(deflt) && !err; i++)
		err = props_set(p, deflt[i][0], deflt[i][1], "quick");
	return err;
}

/* 1.81 M, 742 k, 95. */
static void put_rate(FILE *out, double v)
{
	if (v >= 1e6)
		fprintf(out, "%.2f M", v / 1e6);
	else if (v >= 1e3)
		fprintf(out, "%.0f k", v / 1e3);
	else
		fprintf(out, "%.0f", v);
}

static void put_span(FILE *out, double ns)
{
	const char *unit = ns < 1e3 ? "ns" : ns < 1e6 ? "us" : "ms";
	double v = ns < 1e3 ? ns : ns < 1e6 ? ns / 1e3 : ns / 1e6;

	fprintf(out, " %7.*f %s", v < 100.0 && ns >= 1e3 ? 1 : 0, v, unit);
}

static void put_series(FILE *out, const struct phase_result *r, enum series s,
		       const char *name)
{
	static const double percentiles[] = {50, 99, 99.9};
	const struct hist *h = r->m.hist[measure_clock(&r->m)][s][DB_OK];
	struct hist_summary sum;

	if (!h)
		return;
	hist_summarize(h, &sum);
	if (!sum.count)
		return;
	fprintf(out, "  %-8s", name);
	put_span(out, sum.mean);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		put_span(out, (double)hist_percentile(h, sum.count,
						      percentiles[i]));
	fprintf(out, "   of %llu\n", (unsigned long long)sum.count);
}

/* "farkv: " if there are several stores. */
static void put_name(FILE *out, const struct bench *b, size_t i)
{
	if (b->n_dbs > 1)
		fprintf(out, "%s: ", b->store[i]->ops->name);
}

static void put_loaded(FILE *out, const struct bench *b, size_t i,
		       const struct phase_result *r)
{
	put_name(out, b, i);
	fprintf(out, "loaded %llu records of %llu bytes in %.2f s: ",
		(unsigned long long)r->ops,
		(unsigned long long)b->params.value_max, (double)r->ns / 1e9);
	put_rate(out, report_throughput(r));
	fprintf(out, " inserts/s\n");
	fflush(out);
}

/* Of a cluster: a line for each server. */
static void put_servers(FILE *out, const struct phase_result *r)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < r->n_served; i++)
		all += r->served[i].ops;
	if (r->n_served)
		fprintf(out, "  %-16s %12s %8s %10s\n", "server", "operations", "share", "errors");
	for (unsigned i = 0; i < r->n_served; i++) {
		const struct db_served *s = &r->served[i];

		fprintf(out, "  %-16s", s->name);
		if (s->known)
			fprintf(out, " %12llu %6.1f %%", (unsigned long long)s->ops,
				all ? 100.0 * (double)s->ops / (double)all : 0.0);
		else
			fprintf(out, " %12s %8s", "-", "-");
		fprintf(out, " %10llu\n", (unsigned long long)s->errors);
	}
}

static void put_result(FILE *out, const struct bench *b, size_t i)
{
	const struct phase_result *r = bench_median(b, i);

	put_name(out, b, i);
	fprintf(out, "%.1f s, %llu %s: ", (double)r->ns / 1e9,
		(unsigned long long)b->params.threads,
		b->params.threads == 1 ? "client" : "clients");
	put_rate(out, report_throughput(r));
	fprintf(out, " operations/s\n  %-8s %10s %10s %10s %10s\n", "",
		"mean", "50 %", "99 %", "99.9 %");
	put_series(out, r, SERIES_READ, "read");
	put_series(out, r, SERIES_UPDATE, "update");
	put_series(out, r, SERIES_INSERT, "insert");
	put_series(out, r, SERIES_RMW, "rmw");
	put_servers(out, r);
}

int quick_run(struct bench *b, FILE *out)
{
	struct phase_result loaded;
	int err = 0;

	/* Show progress: as lines if there is no terminal. */
	if (b->status == STATUS_OFF)
		b->status = STATUS_STEPS;
	for (size_t i = 0; i < b->n_dbs && !err; i++) {
		err = bench_load_first(b, i, &loaded);
		if (err)
			break;
		put_loaded(out, b, i, &loaded);
		phase_result_fini(&loaded);
	}
	b->params.load_first = 2;
	if (!err)
		err = bench_run(b);
	for (size_t i = 0; i < b->n_dbs && !err && b->n_rounds; i++)
		put_result(out, b, i);
	return err;
}
