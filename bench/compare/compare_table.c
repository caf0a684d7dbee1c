/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "compare_table.h"

#include "common/base/util.h"

/* The write series of this workload, or NULL. */
static const struct hist *writes_of(const struct phase_result *r)
{
	static const enum series all[] = {SERIES_UPDATE, SERIES_INSERT};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct hist *h = r->m.hist[measure_clock(&r->m)]
						    [all[i]][DB_OK];
		struct hist_summary s;

		if (!h)
			continue;
		hist_summarize(h, &s);
		if (s.count)
			return h;
	}
	return NULL;
}

/* p50 and p99 in us. */
static void put_times(FILE *out, const struct hist *h)
{
	static const double percentiles[] = {50, 99};
	struct hist_summary s = {.count = 0};

	if (h)
		hist_summarize(h, &s);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		if (s.count)
			fprintf(out, " %9.2f",
				(double)hist_percentile(h, s.count,
							percentiles[i]) /
					1e3);
		else
			fprintf(out, " %9s", "-");
}

static void put_head(const struct bench *b, FILE *out)
{
	bench_describe(b, out);
	fprintf(out, "\n%-10s %12s %9s %9s %9s %9s %9s  %s\n", "", "per second",
		"ratio", "read p50", "p99 us", "write p50", "p99 us",
		"placement");
}

void compare_print(const struct bench *b, FILE *out)
{
	put_head(b, out);
	for (size_t i = 0; i < b->n_dbs; i++) {
		const struct phase_result *r = bench_median(b, i);

		fprintf(out, "%-10s %12.0f %9.3f", b->store[i]->ops->name,
			bench_median_rate(b, i), bench_median_ratio(b, i));
		put_times(out, r->m.hist[measure_clock(&r->m)][SERIES_READ]
				   [DB_OK]);
		put_times(out, writes_of(r));
		fprintf(out, "  %s\n", b->placement[i]);
	}
	fputs(b->left_out, out);
}
