/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "html.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

#include "plot.h"
#include "report.h"

/*
 * Colours of curves, cN by store or kind of operation, are apart for the colour-blind, too. Paper
 * is white in the dark as well.
 */
static const char style[] =
	":root{color-scheme:light dark}\n"
	"body{--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d1d9e0;--plot:#f6f8fa;--bad:#c0182b;\n"
	"--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc5fa0;--c4:#b87900;--c5:#3fa7dc;\n"
	"--c6:#7a45c0;--c7:#6b6b6b;--c8:#8c3b2f;--c9:#5c8a00;\n"
	"max-width:62rem;margin:0 auto;padding:1.5rem;background:var(--bg);color:var(--fg);\n"
	"font:16px/1.45 system-ui,sans-serif}\n"
	"@media screen and (prefers-color-scheme:dark){body{--bg:#12161b;--fg:#e4e8ec;--dim:#9aa5b1;\n"
	"--line:#39424c;--plot:#1a2027;--bad:#ff7b86;--c0:#4fb3ef;--c1:#ff8a3d;--c2:#2fd3a3;\n"
	"--c3:#f08fc6;--c4:#f0b429;--c5:#8fd3ff;--c6:#b692f6;--c7:#b0b0b0;--c8:#e0897b;--c9:#a6d64a}}\n"
	"h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}\n"
	"h3{font-size:1rem;margin:.8rem 0 .2rem}p,figcaption{color:var(--dim);margin:.2rem 0 .6rem}\n"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
	"th,td{padding:.15rem .7rem .15rem 0;text-align:right;border-bottom:1px solid var(--line);\n"
	"vertical-align:top}thead th{color:var(--dim);font-weight:normal}\n"
	"th.t,td.t{text-align:left;overflow-wrap:anywhere}tbody th{font-weight:normal;text-align:left}\n"
	".bad{color:var(--bad)}.wide{overflow-x:auto}pre{white-space:pre-wrap;color:var(--dim)}\n"
	"figure{margin:0}svg{display:block}svg.chart{width:100%;height:auto}\n"
	"svg text{fill:var(--dim);font-size:12px}.plot{fill:var(--plot)}.grid{stroke:var(--line)}\n"
	".curve{fill:none;stroke-width:2;stroke-linejoin:round}\n"
	".key{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;margin:.3rem 0;padding:0}\n"
	".key li{display:flex;align-items:center;gap:.4rem}\n"
	".cards{columns:26rem;column-gap:2rem;font-size:.85rem}.cards table{width:100%}\n"
	".cards h3,.cards h4{margin:.6rem 0 .1rem;break-after:avoid}figure,tr{break-inside:avoid}\n"
	"@media print{body{max-width:none;padding:0;font-size:11px;print-color-adjust:exact;\n"
	"-webkit-print-color-adjust:exact}h2{break-after:avoid}}\n";

/* ---- text ------------------------------------------------------------------------ */

/* For elements and attributes. Bytes that are no UTF-8 and control characters become '?'. */
static void put_text(FILE *out, const char *s)
{
	while (*s) {
		size_t n = util_utf8_len(s);

		if (!n || ((unsigned char)*s < ' ' && *s != '\n'))
			fputc('?', out);
		else if (*s == '&')
			fputs("&amp;", out);
		else if (*s == '<')
			fputs("&lt;", out);
		else if (*s == '>')
			fputs("&gt;", out);
		else if (*s == '"')
			fputs("&quot;", out);
		else
			fwrite(s, 1, n, out);
		s += n ? n : 1;
	}
}

/* An element with text. */
static void put(FILE *out, const char *tag, const char *class, const char *text)
{
	fprintf(out, *class ? "<%s class=\"%s\">" : "<%s>", tag, class);
	put_text(out, text);
	fprintf(out, "</%s>", tag);
}

static void put_u64(FILE *out, uint64_t n)
{
	fprintf(out, "<td>%" PRIu64 "</td>", n);
}

/* A table's head, of names that end with NULL; columns up to `n_text` have words. */
static void open_table(FILE *out, unsigned n_text, const char *const *names)
{
	fputs("<div class=\"wide\"><table><thead><tr>", out);
	for (unsigned i = 0; names[i]; i++)
		put(out, "th", i < n_text ? "t" : "", names[i]);
	fputs("</tr></thead><tbody>\n", out);
}

static void close_table(FILE *out)
{
	fputs("</tbody></table></div>\n", out);
}

static void open_section(FILE *out, const char *id, const char *title)
{
	fprintf(out, "<section id=\"%s\"><h2>%s</h2>\n", id, title);
}

static const char *name_of(const struct bench *b, size_t i)
{
	return b->store[i]->ops->name;
}

/* ---- charts ---------------------------------------------------------------------- */

/* In units of the drawing. */
enum { WIDE = 900, HIGH = 340, LEFT = 70, RIGHT = 12, TOP = 8, BOTTOM = 44 };

struct range {
	double from, to;
};

struct chart {
	FILE *out;
	struct range x, y;
	bool log; /* both axes */
};

static double share_of(const struct chart *c, const struct range *r, double v)
{
	if (c->log)
		return log10(v / r->from) / log10(r->to / r->from);
	return (v - r->from) / (r->to - r->from);
}

static double x_of(const struct chart *c, double x)
{
	return LEFT + share_of(c, &c->x, x) * (WIDE - LEFT - RIGHT);
}

static double y_of(const struct chart *c, double y)
{
	return HIGH - BOTTOM - share_of(c, &c->y, y) * (HIGH - TOP - BOTTOM);
}

/* Widen the ranges for a point. */
static void take_in(void *arg, double x, double y)
{
	struct chart *c = arg;

	c->x.to = fmax(c->x.to, x);
	c->y.from = c->log && y > 0.0 ? fmin(c->y.from, y) : c->y.from;
	c->y.to = fmax(c->y.to, y);
}

static void put_point(void *arg, double x, double y)
{
	const struct chart *c = arg;

	fprintf(c->out, "%.1f,%.1f ", x_of(c, x), y_of(c, fmax(y, c->y.from)));
}

/* A curve of one point is a dot as well. */
static void put_dot(void *arg, double x, double y)
{
	const struct chart *c = arg;

	fprintf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>",
		x_of(c, x), y_of(c, fmax(y, c->y.from)));
}

/* 1, 2 or 5 times a power of ten, so that there are 4 to 10 steps up to `most`. */
static double step_for(double most)
{
	double step = pow(10.0, floor(log10(most / 4.0)));

	return most / step >= 20.0 ? 5 * step : most / step >= 8.0 ? 2 * step : step;
}

static void put_x_tick(const struct chart *c, double x, const char *text)
{
	fprintf(c->out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>"
		"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		x_of(c, x), TOP, x_of(c, x), HIGH - BOTTOM, x_of(c, x), HIGH - BOTTOM + 18, text);
}

static void put_y_tick(const struct chart *c, double y)
{
	static const char units[] = " kMG";
	double v = y;
	unsigned u = 0;

	for (; !c->log && v >= 1000.0 && u < 3; u++)
		v /= 1000.0;
	fprintf(c->out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
		"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g%s%c</text>\n",
		LEFT, y_of(c, y), WIDE - RIGHT, y_of(c, y), LEFT - 8, y_of(c, y) + 4, v,
		u ? " " : "", units[u]);
}

/* The i-th tick of an axis. */
static double tick(const struct chart *c, const struct range *r, int i)
{
	return c->log ? r->from * pow(10.0, i) : i * step_for(r->to);
}

static void put_axes(const struct chart *c)
{
	static const char *const percents[] = {"0", "90", "99", "99.9", "99.99", "99.999",
					       "99.9999", "99.99999", "99.999999"};
	char text[32];

	for (int i = 0; tick(c, &c->x, i) <= c->x.to * 1.0001; i++) {
		snprintf(text, sizeof(text), "%.6g", tick(c, &c->x, i));
		if (!c->log || i < (int)ARRAY_SIZE(percents))
			put_x_tick(c, tick(c, &c->x, i), c->log ? percents[i] : text);
	}
	if (c->log)
		put_x_tick(c, 2.0, "50");
	for (int i = 0; tick(c, &c->y, i) <= c->y.to * 1.0001; i++)
		put_y_tick(c, tick(c, &c->y, i));
}

/* After take_in() of all points: round the ranges, and draw what is below the curves. */
static void open_chart(struct chart *c, const char *title, const char *x_label)
{
	if (c->log) {
		c->x.to = fmax(c->x.to, 2.0);
		c->y.from = pow(10.0, floor(log10(c->y.to > 0.0 ? c->y.from : 1e-3)));
		c->y.to = pow(10.0, ceil(log10(fmax(c->y.to, c->y.from * 10.0))));
	} else {
		c->x.to = c->x.to > 0.0 ? c->x.to : 1.0;
		c->y.to = c->y.to > 0.0 ? c->y.to * 1.05 : 1.0;
	}
	fprintf(c->out, "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\"><title>%s</title>"
		"<rect class=\"plot\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
		WIDE, HIGH, title, LEFT, TOP, WIDE - LEFT - RIGHT, HIGH - TOP - BOTTOM);
	put_axes(c);
	fprintf(c->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		(LEFT + WIDE - RIGHT) / 2, HIGH - 6, x_label);
}

/* ---- parts of the page ----------------------------------------------------------- */

struct curve {
	size_t store;
	int series;      /* -1: throughput */
	unsigned colour; /* by store; with one store by kind of operation */
	unsigned dash;
};

static const char *const dashes[] = {"none", "7 4", "2 3", "9 3 2 3", "12 4", "5 2", "1 2"};

static void put_curve_style(FILE *out, const struct curve *v)
{
	fprintf(out, "style=\"stroke:var(--c%u);stroke-dasharray:%s\"",
		v->colour % 10, dashes[v->dash % ARRAY_SIZE(dashes)]);
}

static void put_curve_name(FILE *out, const struct bench *b, const struct curve *v)
{
	put_text(out, name_of(b, v->store));
	if (v->series >= 0)
		fprintf(out, " %s", series_name(v->series));
}

static void pass_points(const struct bench *b, const struct curve *v, plot_point_fn fn, void *arg)
{
	const struct phase_result *r = bench_median(b, v->store);

	if (v->series < 0)
		plot_rates(r, fn, arg);
	else
		plot_latencies(r, v->series, fn, arg);
}

static void put_curve(const struct bench *b, const struct curve *v, struct chart *c)
{
	const struct phase_result *r = bench_median(b, v->store);

	fputs("<polyline class=\"curve\" ", c->out);
	put_curve_style(c->out, v);
	fputs(" points=\"", c->out);
	pass_points(b, v, put_point, c);
	fputs("\"><title>", c->out);
	put_curve_name(c->out, b, v);
	fputs("</title></polyline>\n", c->out);
	if (v->series < 0 ? r->timeline.n > 200 : plot_count(r, v->series) > 1)
		return;
	fprintf(c->out, "<g style=\"fill:var(--c%u)\">", v->colour % 10);
	pass_points(b, v, put_dot, c);
	fputs("</g>\n", c->out);
}

static void put_key(FILE *out, const struct bench *b, const struct curve *v, size_t n)
{
	fputs("<ul class=\"key\">", out);
	for (size_t i = 0; i < n; i++) {
		fputs("<li><svg width=\"32\" height=\"8\"><line class=\"curve\" x1=\"0\" y1=\"4\" "
		      "x2=\"32\" y2=\"4\" ", out);
		put_curve_style(out, &v[i]);
		fputs("/></svg>", out);
		put_curve_name(out, b, &v[i]);
		fputs("</li>", out);
	}
	fputs("</ul>\n", out);
}

static void put_chart(FILE *out, const struct bench *b, const struct curve *v, size_t n,
		      const char *const words[4])
{
	struct chart c = {.out = out, .log = n && v[0].series >= 0};

	if (c.log)
		c.x.from = 1.0, c.y.from = HUGE_VAL;
	for (size_t i = 0; i < n; i++)
		pass_points(b, &v[i], take_in, &c);
	open_section(out, words[0], words[1]);
	fprintf(out, "<figure><figcaption>%s</figcaption>\n", words[2]);
	open_chart(&c, words[1], words[3]);
	for (size_t i = 0; i < n; i++)
		put_curve(b, &v[i], &c);
	fputs("</svg>\n", out);
	put_key(out, b, v, n);
	fputs("</figure></section>\n", out);
}

static void put_charts(FILE *out, const struct bench *b)
{
	static const char *const rates[] = {"throughput", "Throughput over time",
					    "operations per second", "seconds"};
	static const char *const times[] = {"percentiles", "Latency by percentile",
					    "microseconds", "percentile"};
	struct curve v[BENCH_DBS_MAX * SERIES_COUNT];
	size_t n = 0;

	for (size_t i = 0; i < b->n_dbs; i++)
		v[n++] = (struct curve){i, -1, (unsigned)i, 0};
	put_chart(out, b, v, n, rates);
	n = 0;
	for (size_t i = 0; i < b->n_dbs; i++)
		for (int s = 0; s < SERIES_COUNT; s++)
			if (plot_count(bench_median(b, i), s))
				v[n++] = b->n_dbs > 1 ? (struct curve){i, s, (unsigned)i, (unsigned)s}
						      : (struct curve){i, s, (unsigned)s, 0};
	if (n)
		put_chart(out, b, v, n, times);
}

/* A line for each store: its rate, and how it compares with the first. */
static void put_stores(FILE *out, const struct bench *b)
{
	const char *const names[] = {"store", b->placement[0] ? "placement" : "", "",
				     "operations/s", "ratio", "operations", "seconds", "failed",
				     NULL};
	double most = 0.0;

	for (size_t i = 0; i < b->n_dbs; i++)
		most = fmax(most, bench_median_rate(b, i));
	open_section(out, "stores", b->n_dbs > 1 ? "Stores side by side" : "Result");
	open_table(out, 3, names);
	for (size_t i = 0; i < b->n_dbs; i++) {
		const struct phase_result *r = bench_median(b, i);
		double rate = bench_median_rate(b, i);
		uint64_t failed = measure_failures(&r->m);

		fputs("<tr>", out);
		put(out, "th", "", name_of(b, i));
		put(out, "td", "t", b->placement[i] ? b->placement[i] : "");
		fprintf(out, "<td class=\"t\"><svg width=\"200\" height=\"20\"><rect y=\"3\" height=\"14\" "
			"width=\"%.1f\" style=\"fill:var(--c%zu)\"/></svg></td>",
			most > 0.0 ? fmax(200.0 * rate / most, 1.0) : 1.0, i);
		fprintf(out, "<td>%.0f</td><td>%.3f</td>", rate, bench_median_ratio(b, i));
		put_u64(out, r->ops);
		fprintf(out, "<td>%.3f</td><td%s>%" PRIu64 "</td></tr>\n", (double)r->ns / 1e9,
			failed ? " class=\"bad\"" : "", failed);
	}
	close_table(out);
	if (b->left_out && *b->left_out)
		put(out, "pre", "", b->left_out);
	fputs("</section>\n", out);
}

static void put_times(FILE *out, const char *store, const char *name, const struct hist *h)
{
	static const double percentiles[] = {50, 90, 95, 99, 99.9, 99.99};
	struct hist_summary s;

	hist_summarize(h, &s);
	if (!s.count)
		return;
	fputs("<tr>", out);
	put(out, "th", "", store);
	put(out, "td", "t", name);
	put_u64(out, s.count);
	fprintf(out, "<td>%.3f</td>", s.mean / 1e3);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		fprintf(out, "<td>%.3f</td>",
			(double)hist_percentile(h, s.count, percentiles[i]) / 1e3);
	fprintf(out, "<td>%.3f</td></tr>\n", (double)s.max / 1e3);
}

/* All that was timed, under the report's names. */
static void put_latencies(FILE *out, const struct bench *b)
{
	static const char *const names[] = {"store", "operation", "count", "mean", "p50", "p90", "p95",
					    "p99", "p99.9", "p99.99", "max", NULL};
	char name[80];

	open_section(out, "latency", "Latency in microseconds");
	open_table(out, 2, names);
	for (size_t i = 0; i < b->n_dbs; i++) {
		const struct measure *m = &bench_median(b, i)->m;

		for (int k = 0; k < SERIES_COUNT * CLOCK_KINDS * SLOT_COUNT; k++) {
			int slot = k % SLOT_COUNT, clock = k / SLOT_COUNT % CLOCK_KINDS;
			enum series s = k / SLOT_COUNT / CLOCK_KINDS;

			if (!m->clock[clock] || !m->hist[clock][s][slot])
				continue;
			measure_name(name, sizeof(name), s, slot, clock != measure_clock(m));
			put_times(out, name_of(b, i), name, m->hist[clock][s][slot]);
		}
	}
	close_table(out);
	fputs("</section>\n", out);
}

static void put_counts(FILE *out, const struct bench *b)
{
	static const char *const names[] = {"store", "operation", "outcome", "count", NULL};

	open_section(out, "counts", "Outcomes");
	open_table(out, 3, names);
	for (size_t i = 0; i < b->n_dbs; i++) {
		const struct measure *m = &bench_median(b, i)->m;

		for (int k = 0; k < SERIES_CLEANUP * DB_STATUS_COUNT; k++) {
			enum series s = k / DB_STATUS_COUNT;
			enum db_status status = k % DB_STATUS_COUNT;
			uint64_t n = measure_returns(m, s, status);

			if (!n)
				continue;
			fputs("<tr>", out);
			put(out, "th", "", name_of(b, i));
			put(out, "td", "t", series_name(s));
			put(out, "td", measure_is_result(m, s, status) ? "t" : "t bad",
			    db_status_name(status));
			put_u64(out, n);
			fputs("</tr>\n", out);
		}
	}
	close_table(out);
	if (bench_failure(b)) {
		fputs("<p class=\"bad\">The first failure: ", out);
		put_text(out, bench_failure(b));
		fputs("</p>", out);
	}
	fputs("</section>\n", out);
}

/* The report's lines as tables, one per section of the report. */
struct cards {
	FILE *out;
	bool settings; /* these, or the figures */
	bool open;
	char metric[112]; /* of the table that is open */
};

static void close_card(struct cards *c)
{
	if (c->open)
		fputs("</tbody></table>\n", c->out);
	c->open = false;
	c->metric[0] = '\0';
}

static void put_line(void *arg, const char *metric, const char *measurement, const char *value,
		     bool is_text)
{
	struct cards *c = arg;

	/* A store begins; the rounds of all of them are at the end. */
	if (!strcmp(measurement, "Binding")) {
		close_card(c);
		put(c->out, "h3", "", value);
	} else if (!c->settings && !strcmp(metric, "ROUNDS") && strcmp(c->metric, metric) != 0) {
		close_card(c);
		put(c->out, "h3", "", "all rounds");
	}
	if (c->settings != (is_text || !strcmp(metric, "WORKLOAD")))
		return;
	if (strcmp(c->metric, metric) != 0) {
		close_card(c);
		put(c->out, "h4", "", metric);
		fputs("<table><tbody>\n", c->out);
		c->open = true;
		snprintf(c->metric, sizeof(c->metric), "%s", metric);
	}
	fputs("<tr>", c->out);
	put(c->out, "th", "", measurement);
	put(c->out, "td", is_text ? "t" : "", value);
	fputs("</tr>\n", c->out);
}

static void put_cards(FILE *out, const struct bench *b, bool settings)
{
	struct cards c = {.out = out, .settings = settings};
	struct report r = {.fn = put_line, .arg = &c};

	open_section(out, settings ? "settings" : "figures", settings ? "Settings" : "All figures");
	fputs("<div class=\"cards\">\n", out);
	bench_lines(b, &r);
	close_card(&c);
	fputs("</div></section>\n", out);
}

static void put_head(FILE *out, const struct bench *b)
{
	char *words = NULL;
	size_t len;
	FILE *f = open_memstream(&words, &len);

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
	      "<meta http-equiv=\"Content-Security-Policy\" "
	      "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
	      "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>kvbench: ",
	      out);
	put_text(out, b->params.db);
	fprintf(out, "</title>\n<style>\n%s</style></head>\n<body>\n<h1>kvbench %s: ", style,
		b->load ? "load" : "run");
	put_text(out, b->params.db);
	fputs("</h1>\n<p>", out);
	if (f) {
		bench_describe(b, f);
		fclose(f);
		put_text(out, words);
	}
	fputs("</p>\n", out);
	free(words);
	if (b->n_rounds > 1)
		fputs("<p>Rates and ratios are medians of all rounds; the rest is of the round with "
		      "the median rate.</p>\n", out);
}

void html_write(const struct bench *b, FILE *out)
{
	bool whole = true;

	put_head(out, b);
	for (size_t i = 0; i < b->n_dbs; i++)
		whole = whole && !bench_median(b, i)->interrupted;
	if (!whole)
		fputs("<p class=\"bad\">Interrupted: the figures are those until then.</p>\n", out);
	put_stores(out, b);
	put_charts(out, b);
	put_latencies(out, b);
	put_counts(out, b);
	put_cards(out, b, true);
	put_cards(out, b, false);
	fputs("</body></html>\n", out);
}
