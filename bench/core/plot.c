/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "plot.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/util.h"

/* The highest percentile of a curve: 1 - 1/2^N of the operations. */
#define DEPTH_MAX 27
/* Points of a curve per halving of the rest. */
#define POINTS 4

int plot_check(void)
{
	const char *at = getenv("PATH");
	char path[4096];

	while (at && *at) {
		size_t len = strcspn(at, ":");

		snprintf(path, sizeof(path), "%.*s/gnuplot", (int)len, at);
		if (access(path, X_OK) == 0)
			return 0;
		at += len + (at[len] == ':');
	}
	return err_set(FARKV_ESYS, "plot: there is no gnuplot in $PATH; "
				   "install it, as by apt install gnuplot-nox");
}

/* Print text inside a double-quoted gnuplot string. */
static void put_quoted(FILE *out, const char *s)
{
	fputc('"', out);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', out);
		fputc((unsigned char)*s < ' ' ? ' ' : *s, out);
	}
	fputc('"', out);
}

static const struct hist *hist_of(const struct phase_result *r,
				  enum series s)
{
	return r->m.hist[measure_clock(&r->m)][s][DB_OK];
}

uint64_t plot_count(const struct phase_result *r, enum series s)
{
	const struct hist *h = hist_of(r, s);
	struct hist_summary sum;

	if (!h || s == SERIES_VERIFY || s == SERIES_QUEUE ||
	    s == SERIES_CLEANUP)
		return 0;
	hist_summarize(h, &sum);
	return sum.count;
}

void plot_rates(const struct phase_result *r, plot_point_fn fn, void *arg)
{
	for (size_t i = 0; i < r->timeline.n; i++) {
		const struct timeline_row *t = &r->timeline.v[i];

		if (t->series == TIMELINE_ALL && t->len_s > 0.0)
			fn(arg, t->from_s + t->len_s / 2,
			   (double)t->count / t->len_s);
	}
}

void plot_latencies(const struct phase_result *r, enum series s,
		    plot_point_fn fn, void *arg)
{
	uint64_t count = plot_count(r, s);

	for (int i = 0; i <= DEPTH_MAX * POINTS; i++) {
		double rest = 1.0;
		double p;

		for (int k = 0; k < i / POINTS; k++)
			rest /= 2.0;
		rest *= 1.0 - 0.5 * (i % POINTS) / POINTS;
		p = 100.0 * (1.0 - rest);
		if (rest * (double)count < 1.0)
			break;
		fn(arg, 1.0 / rest,
		   (double)hist_percentile(hist_of(r, s), count, p) / 1000.0);
	}
}

static void put_rate(void *out, double s, double rate)
{
	fprintf(out, "%.4f %.1f\n", s, rate);
}

static void put_latency(void *out, double rest, double us)
{
	fprintf(out, "%.9g %.6g\n", rest, us);
}

/* $rN, $lN_S: the curves of store N. */
static void put_data(const struct bench *b, FILE *out)
{
	for (size_t i = 0; i < b->n_dbs; i++) {
		const struct phase_result *r = bench_median(b, i);

		fprintf(out, "$r%zu << EOD\n", i);
		plot_rates(r, put_rate, out);
		fputs("EOD\n", out);
		for (int k = 0; k < SERIES_COUNT; k++) {
			if (!plot_count(r, k))
				continue;
			fprintf(out, "$l%zu_%d << EOD\n", i, k);
			plot_latencies(r, k, put_latency, out);
			fputs("EOD\n", out);
		}
	}
}

static void put_rate_plot(const struct bench *b, FILE *out)
{
	fputs("set title \"Throughput over time\"\n"
	      "set xlabel \"time (s)\"\nset ylabel \"operations/s\"\n"
	      "set format y \"%.1s %c\"\nset yrange [0:*]\nset xrange [0:*]\n"
	      "set key outside right\nplot",
	      out);
	for (size_t i = 0; i < b->n_dbs; i++) {
		fprintf(out, "%s $r%zu using 1:2 with linespoints pt 7 ps 0.3 "
			     "lc %zu title ",
			i ? "," : "", i, i + 1);
		put_quoted(out, b->store[i]->ops->name);
	}
	fputs("\n", out);
}

static void put_latency_plot(const struct bench *b, FILE *out)
{
	unsigned curves = 0;
	char title[96];

	fputs("set title \"Latency by percentile\"\n"
	      "set xlabel \"percentile\"\nset ylabel \"latency (us)\"\n"
	      "set logscale xy\nset format y \"%g\"\nset yrange [*:*]\n"
	      "set xrange [1:*]\n"
	      "set xtics (\"0\" 1, \"50\" 2, \"90\" 10, \"99\" 100, "
	      "\"99.9\" 1e3, \"99.99\" 1e4, \"99.999\" 1e5, "
	      "\"99.9999\" 1e6, \"99.99999\" 1e7)\nplot",
	      out);
	for (size_t i = 0; i < b->n_dbs; i++)
		for (int k = 0; k < SERIES_COUNT; k++) {
			if (!plot_count(bench_median(b, i), k))
				continue;
			snprintf(title, sizeof(title), "%s %s",
				 b->store[i]->ops->name, series_name(k));
			fprintf(out, "%s $l%zu_%d using 1:2 with lines lw 1.5 "
				     "lc %zu dt %d title ",
				curves++ ? "," : "", i, k, i + 1, k + 1);
			put_quoted(out, title);
		}
	fputs(curves ? "\n" : " 1 notitle\n", out);
}

void plot_script(const struct bench *b, const char *path, FILE *out)
{
	fputs("set terminal svg size 900,800 background \"white\"\n"
	      "set output ",
	      out);
	put_quoted(out, path);
	fputs("\nset encoding utf8\nset termoption noenhanced\n"
	      "set grid lc \"#dddddd\"\nset tics nomirror\n",
	      out);
	put_data(b, out);
	fputs("set multiplot layout 2,1\n", out);
	put_rate_plot(b, out);
	put_latency_plot(b, out);
	fputs("unset multiplot\n", out);
}

/*
 * gnuplot ignores write errors: a picture that ends early did not fit. Only regular files
 * can be checked.
 */
static bool is_whole(const char *path)
{
	static const char want[] = "</svg>";
	struct stat st;
	char end[32] = "";
	FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode)
			  ? fopen(path, "re")
			  : NULL;
	size_t n;

	if (!f)
		return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
	if (fseek(f, -(long)(sizeof(end) - 1), SEEK_END))
		rewind(f);
	n = fread(end, 1, sizeof(end) - 1, f);
	end[n] = '\0';
	fclose(f);
	return strstr(end, want) != NULL;
}

int plot_write(const struct bench *b, const char *path)
{
	void (*old)(int);
	FILE *out;
	int status;

	if (!b->n_rounds)
		return 0;
	/* A gnuplot that ends early must not end kvbench. */
	old = signal(SIGPIPE, SIG_IGN);
	out = popen("gnuplot", "we"); /* NOLINT(cert-env33-c): the user's own $PATH */
	if (!out) {
		signal(SIGPIPE, old);
		return err_set_errno(FARKV_ESYS, errno,
				     "plot: cannot start gnuplot");
	}
	plot_script(b, path, out);
	status = pclose(out);
	signal(SIGPIPE, old);
	if (status != 0)
		return err_set(FARKV_ESYS,
			       "plot: gnuplot failed and left no %s; see its "
			       "message above", path);
	if (!is_whole(path))
		return err_set(FARKV_ESYS,
			       "plot: %s is not whole; is there no room left?",
			       path);
	return 0;
}
