/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "status.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/util.h"

#define LIVE_INTERVAL_NS (200 * NS_PER_MS)
#define BAR 24

enum status_mode status_mode_for(bool lines, FILE *out)
{
	if (lines)
		return STATUS_LINES;
	return util_takes_escapes(fileno(out)) ? STATUS_LIVE : STATUS_OFF;
}

/* Bounded text, written by one call. */
struct text {
	char s[2048];
	size_t n;
};

__attribute__((format(printf, 2, 3)))
static void put(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->n += (size_t)n;
	if (t->n >= sizeof(t->s))
		t->n = sizeof(t->s) - 1;
}

/* Java's DecimalFormat("#.##"): at most two decimals, no trailing zeros. */
static void put_decimal(struct text *t, double v)
{
	put(t, "%.2f", v);
	while (t->s[t->n - 1] == '0')
		t->n--;
	if (t->s[t->n - 1] == '.')
		t->n--;
	t->s[t->n] = '\0';
}

static void put_remaining(struct text *t, double seconds)
{
	uint64_t s = (uint64_t)ceil(seconds);
	uint64_t days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;

	if (days)
		put(t, "%llu %s ", (unsigned long long)days,
		    days == 1 ? "day" : "days");
	if (hours)
		put(t, "%llu %s ", (unsigned long long)hours,
		    hours == 1 ? "hour" : "hours");
	if (!days && minutes)
		put(t, "%llu %s ", (unsigned long long)minutes,
		    minutes == 1 ? "minute" : "minutes");
	if (s < 60)
		put(t, "%llu %s ", (unsigned long long)s,
		    s == 1 ? "second" : "seconds");
}

/* Remaining seconds; negative if unknown. */
static double remaining(const struct status *s, uint64_t now_ns, uint64_t done)
{
	double left = -1.0, passed = (double)(now_ns - s->start_ns) / 1e9;

	if (s->todo && done)
		left = (double)(s->todo - done) * passed / (double)done;
	if (s->max_ns) {
		double time = (double)s->max_ns / 1e9 - passed;

		if (time < 0.0)
			time = 0.0;
		if (left < 0.0 || time < left)
			left = time;
	}
	return left;
}

static void put_us(struct text *t, const char *name, double ns)
{
	put(t, "%s=", name);
	put_decimal(t, ns / 1000.0);
}

/* [READ: Count=2485, Max=1273, ...]: the series since the last line, in us. */
static void put_series(struct text *t, const struct hist *h, const char *name)
{
	static const double percentiles[] = {50, 90, 99, 99.9, 99.99};
	struct hist_summary sum;

	hist_summarize(h, &sum);
	if (!sum.count)
		return;
	put(t, "[%s: Count=%llu, ", name, (unsigned long long)sum.count);
	put_us(t, "Max", (double)sum.max);
	put_us(t, ", Min", (double)sum.min);
	put_us(t, ", Avg", sum.mean);
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(*percentiles);
	     i++) {
		put(t, ", %.15g", percentiles[i]);
		put_us(t, "", (double)hist_percentile(h, sum.count,
						      percentiles[i]));
	}
	put(t, "] ");
}

static void put_measured(struct status *s, struct text *t)
{
	struct measure now = {.out_of_memory = false};

	s->source.snapshot(s->source.arg, &now);
	/* The difference to the last line. */
	measure_subtract(&now, &s->before);
	for (int i = 0; i < SERIES_COUNT; i++) {
		int clock = now.clock[CLOCK_OP] ? CLOCK_OP : CLOCK_INTENDED;
		char name[64];

		if (now.hist[clock][i][DB_OK])
			put_series(t, now.hist[clock][i][DB_OK],
				   series_name(i));
		snprintf(name, sizeof(name), "%s-FAILED", series_name(i));
		if (now.hist[clock][i][SLOT_FAILED])
			put_series(t, now.hist[clock][i][SLOT_FAILED], name);
	}
	measure_merge(&s->before, &now);
	measure_fini(&now);
}

static void put_date(struct text *t)
{
	struct timespec ts;
	struct tm tm;
	char date[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
	put(t, "%s:%03ld", date, ts.tv_nsec / 1000000);
}

static void show_line(struct status *s, uint64_t now_ns, bool last)
{
	uint64_t done = s->source.done(s->source.arg);
	double span = (double)(now_ns - s->last_ns) / 1e9;
	double left = remaining(s, now_ns, done);
	struct text t = {.n = 0};

	put(&t, "%s", s->label);
	put_date(&t);
	put(&t, " %llu sec: %llu operations; ",
	    (unsigned long long)((now_ns - s->start_ns) / NS_PER_SEC),
	    (unsigned long long)done);
	if (done && span > 0.0) {
		put_decimal(&t, (double)(done - s->last_done) / span);
		put(&t, " current ops/sec; ");
	}
	if (left >= 0.0 && !last) {
		put(&t, "est completion in ");
		put_remaining(&t, left);
	}
	put_measured(s, &t);
	fprintf(s->out, "%s\n", t.s);
	fflush(s->out);
	s->last_ns = now_ns;
	s->last_done = done;
}

/* 1234567 -> "1.23 M". */
static void put_rate(struct text *t, double v)
{
	if (v >= 1e6)
		put(t, "%.2f M", v / 1e6);
	else if (v >= 1e3)
		put(t, "%.1f k", v / 1e3);
	else
		put(t, "%.0f ", v);
}

static double part_done(const struct status *s, uint64_t now_ns, uint64_t done)
{
	double part = 0.0, time;

	if (s->todo)
		part = (double)done / (double)s->todo;
	if (s->max_ns) {
		time = (double)(now_ns - s->start_ns) / (double)s->max_ns;
		part = part > time ? part : time;
	}
	return part < 1.0 ? part : 1.0;
}

static void show_live(struct status *s, uint64_t now_ns)
{
	uint64_t done = s->source.done(s->source.arg);
	double span = (double)(now_ns - s->last_ns) / 1e9;
	double part = part_done(s, now_ns, done);
	double left = remaining(s, now_ns, done);
	struct text t = {.n = 0};

	if (span > 0.0) {
		double rate = (double)(done - s->last_done) / span;

		s->rate = s->rate > 0.0 ? 0.6 * s->rate + 0.4 * rate : rate;
	}
	put(&t, "%s%s%-12s [", s->mode == STATUS_LIVE ? "\r\033[K" : "",
	    s->label, s->title);
	for (int i = 0; i < BAR; i++)
		put(&t, "%c", i < (int)(part * BAR) ? '#' : '.');
	put(&t, "] %3.0f%%  ", part * 100.0);
	put_rate(&t, s->rate);
	put(&t, "ops/s");
	if (left >= 0.0)
		put(&t, "  %.0f s left", ceil(left));
	fprintf(s->out, "%s%s", t.s, s->mode == STATUS_STEPS ? "\n" : "");
	fflush(s->out);
	s->last_ns = now_ns;
	s->last_done = done;
}

static uint64_t live_interval(const struct status *s)
{
	return s->mode == STATUS_LIVE ? LIVE_INTERVAL_NS : s->interval_ns;
}

void status_start(struct status *s, uint64_t now_ns)
{
	s->start_ns = s->last_ns = now_ns;
	s->last_done = 0;
	s->rate = 0.0;
	memset(&s->before, 0, sizeof(s->before));
	s->next_ns = UINT64_MAX;
	if (s->mode == STATUS_LINES) {
		show_line(s, now_ns, false);
		s->next_ns = now_ns + s->interval_ns;
	} else if (s->mode != STATUS_OFF) {
		s->next_ns = now_ns + live_interval(s);
	}
}

void status_tick(struct status *s, uint64_t now_ns)
{
	if (now_ns < s->next_ns)
		return;
	if (s->mode == STATUS_LINES) {
		show_line(s, now_ns, false);
		s->next_ns += s->interval_ns;
	} else {
		show_live(s, now_ns);
		s->next_ns = now_ns + live_interval(s);
	}
}

void status_end(struct status *s, uint64_t now_ns)
{
	if (s->mode == STATUS_LINES)
		show_line(s, now_ns, true);
	else if (s->mode == STATUS_LIVE)
		fprintf(s->out, "\r\033[K");
	fflush(s->out);
	measure_fini(&s->before);
}
