/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "recorder.h"

#include <string.h>
#include <time.h>

#include "bench/base/hdr_log.h"
#include "bench/base/ticks.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

static void keep_error(struct recorder *r, int err)
{
	if (!err || r->err)
		return;
	r->err = err;
	snprintf(r->why, sizeof(r->why), "%s", err_detail());
}

/*
 * <prefix>[tag]Intended-READ.hdr, or HdrIntended-READ.hdr if the report has both kinds of
 * histogram, as YCSB names them; the tag tells stores and rounds apart.
 */
static void path_of(const struct recorder *r, const char *name, char *buf,
		    size_t cap)
{
	snprintf(buf, cap, "%s%s%s.hdr", r->params->hdr_path, r->tag, name);
}

/* The log of one histogram, opened when the histogram exists. */
static FILE *log_of(struct recorder *r, int c, int s, int t)
{
	FILE **f = &r->file[(c * SERIES_COUNT + s) * SLOT_COUNT + t], *open = *f;
	const char *kind = r->params->measurement_type == TYPE_BOTH ? "Hdr" : "";
	size_t len = strlen(kind);
	char name[96], path[4096];
	int err;

	if (open)
		return open;
	memcpy(name, kind, len);
	measure_name(name + len, sizeof(name) - len, s, t,
		     c == CLOCK_INTENDED &&
			     r->params->interval == INTERVAL_BOTH);
	path_of(r, name, path, sizeof(path));
	err = hdr_log_open(path, name, r->epoch_s, f);
	keep_error(r, err);
	return err ? NULL : *f;
}

/* The difference to the last time; freed by measure_fini(). */
static void take(struct recorder *r, struct recorder_tap *tap,
		 struct measure *now)
{
	memset(now, 0, sizeof(*now));
	r->source.snapshot(r->source.arg, now);
	measure_subtract(now, &tap->before);
	measure_merge(&tap->before, now);
}

static double seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e9 : 0.0;
}

static void add_logs(struct recorder *r, const struct measure *m,
		     uint64_t now_ns)
{
	for (int c = 0; c < CLOCK_KINDS; c++)
		for (int s = 0; s < SERIES_COUNT; s++)
			for (int t = 0; t < SLOT_COUNT; t++) {
				const struct hist *h = m->hist[c][s][t];
				FILE *f = h ? log_of(r, c, s, t) : NULL;

				if (f)
					keep_error(r, hdr_log_add(
						f, h,
						seconds(r->open_ns,
							r->log.last_ns),
						seconds(r->log.last_ns,
							now_ns)));
			}
}

static void tick_log(struct recorder *r, uint64_t now_ns)
{
	struct measure m;

	take(r, &r->log, &m);
	add_logs(r, &m, now_ns);
	measure_fini(&m);
}

static void tick_line(struct recorder *r, uint64_t now_ns)
{
	uint64_t done = r->source.done(r->source.arg);
	struct measure m;

	take(r, &r->line, &m);
	keep_error(r, timeline_add(r->timeline,
				   seconds(r->start_ns, r->line.last_ns),
				   seconds(r->line.last_ns, now_ns),
				   done - r->line.last_done, &m));
	r->line.last_done = done;
	measure_fini(&m);
}

static void tap_moved(struct recorder_tap *tap, uint64_t now_ns)
{
	tap->last_ns = now_ns;
	/* Skip intervals that this thread slept through. */
	while (tap->next_ns <= now_ns)
		tap->next_ns += tap->interval_ns;
}

static void find_next(struct recorder *r)
{
	r->next_ns = UINT64_MAX;
	if (r->log.interval_ns)
		r->next_ns = r->log.next_ns;
	if (r->line.interval_ns)
		r->next_ns = UTIL_MIN(r->next_ns, r->line.next_ns);
}

int recorder_open(struct recorder *r)
{
	struct timespec ts;
	struct measure m;

	r->next_ns = UINT64_MAX;
	if (r->tag && r->params->hdr_files)
		r->log.interval_ns = r->params->status_interval * NS_PER_SEC;
	if (r->timeline)
		r->line.interval_ns = r->params->timeline_ms * NS_PER_MS;
	if (!r->log.interval_ns)
		return 0;
	r->open_ns = ticks_clock_ns();
	clock_gettime(CLOCK_REALTIME, &ts);
	r->epoch_s = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
	take(r, &r->log, &m);
	for (int c = 0; c < CLOCK_KINDS && !r->err; c++)
		for (int s = 0; s < SERIES_COUNT && !r->err; s++)
			if (m.hist[c][s][DB_OK])
				log_of(r, c, s, DB_OK);
	measure_fini(&m);
	return r->err ? recorder_end(r, 0) : 0;
}

void recorder_start(struct recorder *r, uint64_t now_ns)
{
	struct recorder_tap *taps[] = {&r->log, &r->line};

	r->start_ns = now_ns;
	for (size_t i = 0; i < ARRAY_SIZE(taps); i++) {
		taps[i]->last_ns = now_ns;
		taps[i]->next_ns = now_ns + taps[i]->interval_ns;
	}
	find_next(r);
}

void recorder_tick(struct recorder *r, uint64_t now_ns)
{
	if (now_ns < r->next_ns)
		return;
	if (r->log.interval_ns && now_ns >= r->log.next_ns) {
		tick_log(r, now_ns);
		tap_moved(&r->log, now_ns);
	}
	if (r->line.interval_ns && now_ns >= r->line.next_ns) {
		tick_line(r, now_ns);
		tap_moved(&r->line, now_ns);
	}
	find_next(r);
}

int recorder_end(struct recorder *r, uint64_t now_ns)
{
	if (r->start_ns && r->log.interval_ns)
		tick_log(r, now_ns);
	if (r->start_ns && r->line.interval_ns)
		tick_line(r, now_ns);
	for (int i = 0; i < RECORDER_LOGS; i++) {
		if (r->file[i])
			keep_error(r, hdr_log_close(r->file[i],
						    r->params->hdr_path));
		r->file[i] = NULL;
	}
	measure_fini(&r->log.before);
	measure_fini(&r->line.before);
	return r->err ? err_set(r->err, "%s", r->why) : 0;
}
