/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "timeline.h"

#include <stdlib.h>

#include "common/base/err.h"

static struct timeline_row *new_row(struct timeline *t)
{
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		void *v = realloc(t->v, room * sizeof(*t->v));

		if (!v)
			return NULL;
		t->v = v;
		t->room = room;
	}
	return &t->v[t->n++];
}

static int no_memory(void)
{
	return err_set(FARKV_ENOMEM, "no memory for the timeline");
}

static int add_series(struct timeline *t, const struct timeline_row *base,
		      int series, const struct hist *h)
{
	struct hist_summary s;
	struct timeline_row *r;

	hist_summarize(h, &s);
	if (!s.count)
		return 0;
	r = new_row(t);
	if (!r)
		return no_memory();
	*r = *base;
	r->series = series;
	r->count = s.count;
	r->mean = s.mean;
	r->max = s.max;
	r->p50 = hist_percentile(h, s.count, 50);
	r->p95 = hist_percentile(h, s.count, 95);
	r->p99 = hist_percentile(h, s.count, 99);
	r->p999 = hist_percentile(h, s.count, 99.9);
	return 0;
}

int timeline_add(struct timeline *t, double from_s, double len_s,
		 uint64_t done, const struct measure *m)
{
	int clock = m->clock[CLOCK_OP] ? CLOCK_OP : CLOCK_INTENDED;
	struct timeline_row base = {.from_s = from_s,
				    .len_s = len_s,
				    .series = TIMELINE_ALL,
				    .count = done};
	struct timeline_row *all = new_row(t);
	int err = 0;

	if (!all)
		return no_memory();
	*all = base;
	for (int s = 0; s < SERIES_CLEANUP && !err; s++)
		if (m->hist[clock][s][DB_OK])
			err = add_series(t, &base, s, m->hist[clock][s][DB_OK]);
	return err;
}

void timeline_free(struct timeline *t)
{
	free(t->v);
	*t = (struct timeline){.v = NULL};
}

void timeline_csv_head(FILE *out)
{
	fputs("store,round,from_s,length_s,series,operations,ops_per_s,"
	      "mean_ns,p50_ns,p95_ns,p99_ns,p99.9_ns,max_ns\n",
	      out);
}

void timeline_csv(const struct timeline *t, const char *store, size_t round,
		  FILE *out)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct timeline_row *r = &t->v[i];

		fprintf(out, "%s,%zu,%.3f,%.3f,%s,%llu,%.1f", store, round,
			r->from_s, r->len_s,
			r->series == TIMELINE_ALL ? "ALL"
						  : series_name(r->series),
			(unsigned long long)r->count,
			r->len_s > 0.0 ? (double)r->count / r->len_s : 0.0);
		if (r->series == TIMELINE_ALL)
			fputs(",,,,,,\n", out);
		else
			fprintf(out, ",%.1f,%llu,%llu,%llu,%llu,%llu\n",
				r->mean, (unsigned long long)r->p50,
				(unsigned long long)r->p95,
				(unsigned long long)r->p99,
				(unsigned long long)r->p999,
				(unsigned long long)r->max);
	}
}
