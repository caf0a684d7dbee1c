/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's commands for the server. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "mc_cmds.h"

/* Clients compare it with what they need. */
#define AS_MEMCACHED_VERSION "1.6.18"

static void stat_u64(struct client *c, const char *name, uint64_t n)
{
	buf_printf(c->out, "STAT %s %" PRIu64 "\r\n", name, n);
}

static void stat_text(struct client *c, const char *name, const char *text)
{
	buf_printf(c->out, "STAT %s %s\r\n", name, text);
}

static void stat_time(struct client *c, const char *name, struct timeval t)
{
	buf_printf(c->out, "STAT %s %ld.%06ld\r\n", name, (long)t.tv_sec, (long)t.tv_usec);
}

static void stats_process(struct client *c)
{
	const struct gate *g = c->gate;
	struct rusage r = {0};

	getrusage(RUSAGE_SELF, &r);
	stat_u64(c, "pid", (uint64_t)getpid());
	stat_u64(c, "uptime", (clock_now_ns() - g->start_ns) / NS_PER_SEC);
	stat_u64(c, "time", (uint64_t)time(NULL));
	stat_text(c, "version", AS_MEMCACHED_VERSION);
	stat_text(c, "kvgate_version", PACKAGE_VERSION);
	stat_u64(c, "pointer_size", sizeof(void *) * 8);
	stat_time(c, "rusage_user", r.ru_utime);
	stat_time(c, "rusage_system", r.ru_stime);
	stat_u64(c, "max_connections", atom_load_relaxed(&g->max_clients));
	stat_u64(c, "curr_connections", atom_load_relaxed(&g->connected));
	stat_u64(c, "total_connections", atom_load_relaxed(&g->accepted));
	stat_u64(c, "rejected_connections", atom_load_relaxed(&g->rejected));
	stat_u64(c, "threads", g->n_workers);
}

static void stats_commands(struct client *c)
{
	struct gate_counts t = gate_totals(c->gate);

	stat_u64(c, "cmd_get", t.gets);
	stat_u64(c, "cmd_set", t.sets);
	stat_u64(c, "cmd_flush", t.flushes);
	stat_u64(c, "cmd_touch", t.touches);
	stat_u64(c, "get_hits", t.hits);
	stat_u64(c, "get_misses", t.gets - t.hits);
	stat_u64(c, "bytes_read", t.bytes_in);
	stat_u64(c, "bytes_written", t.bytes_out);
}

static bool stats_store(struct client *c)
{
	struct farkv_stats s;
	int err = store_stats(c, &s);

	if (err) {
		mc_store_error(c, err);
		return false;
	}
	stat_u64(c, "limit_maxbytes", s.heap_bytes);
	stat_u64(c, "bytes", s.item_bytes);
	stat_u64(c, "curr_items", s.items);
	stat_u64(c, "total_items", s.sets);
	stat_u64(c, "evictions", s.evictions);
	stat_u64(c, "expired_unfetched", s.expired);
	return true;
}

static bool stats_settings(struct client *c)
{
	const struct gate *g = c->gate;
	struct farkv_stats s;
	int err = store_stats(c, &s);

	if (err) {
		mc_store_error(c, err);
		return false;
	}
	stat_u64(c, "maxbytes", s.heap_bytes);
	stat_u64(c, "maxconns", atom_load_relaxed(&g->max_clients));
	stat_u64(c, "num_threads", g->n_workers);
	stat_u64(c, "item_size_max", s.max_value);
	stat_text(c, "evictions", s.cache ? "on" : "off");
	stat_text(c, "cas_enabled", "yes");
	stat_text(c, "flush_enabled", "yes");
	stat_text(c, "auth_enabled_ascii", g->clients ? "yes" : "no");
	stat_u64(c, "idle_timeout", atom_load_relaxed(&g->idle_s));
	return true;
}

/* Of memcached's slabs one row: all sizes of blocks. */
static bool stats_slabs(struct client *c)
{
	struct farkv_stats s;
	int err = store_stats(c, &s);

	if (err) {
		mc_store_error(c, err);
		return false;
	}
	stat_u64(c, "active_slabs", 0);
	stat_u64(c, "total_malloced", s.used_bytes);
	return true;
}

void mc_stats(struct client *c, const struct args *a)
{
	bool whole = true;

	if (a->n == 1) {
		stats_process(c);
		stats_commands(c);
		whole = stats_store(c);
	} else if (slice_same(a->v[1], "settings")) {
		whole = stats_settings(c);
	} else if (slice_same(a->v[1], "slabs")) {
		whole = stats_slabs(c);
	} else if (!slice_same(a->v[1], "items") && !slice_same(a->v[1], "sizes") &&
		   !slice_same(a->v[1], "conns")) {
		mc_error(c, "CLIENT_ERROR kvgate has stats, stats settings, items and slabs");
		return;
	}
	if (whole)
		mc_line(c, "END");
}

void mc_flush_late(int fd, short what, void *kv)
{
	int err = farkv_clear(kv, NULL);

	(void)fd;
	(void)what;
	if (err)
		log_warn("flush_all with a delay: %s", farkv_errdetail());
}

/* Later, by the thread's own loop, in place of one that is planned. False if it cannot be planned.
 */
static bool flush_in(struct client *c, uint64_t seconds)
{
	struct timeval tv = {.tv_sec = (time_t)seconds};

	return event_add(c->flush, &tv) == 0;
}

void mc_flush_all(struct client *c, const struct args *a)
{
	bool delayed = a->n > 1 + (size_t)c->noreply;
	struct mc_time t = {0};
	int err = 0;

	if (delayed && !mc_time_read(a->v[1], &t)) {
		mc_bad_format(c);
		return;
	}
	GATE_COUNT(c->counts, flushes, 1);
	if (t.ttl_ms && !flush_in(c, t.ttl_ms / 1000))
		err = FARKV_ENOMEM;
	else if (!t.ttl_ms)
		err = farkv_clear(c->kv, NULL);
	if (err)
		mc_store_error(c, err);
	else
		mc_line(c, "OK");
}

void mc_version(struct client *c, const struct args *a)
{
	(void)a;
	mc_line(c, "VERSION " AS_MEMCACHED_VERSION);
}

void mc_verbosity(struct client *c, const struct args *a)
{
	uint64_t level;

	if (a->n < 2 + (size_t)c->noreply)
		mc_line(c, "ERROR");
	else if (!slice_u64(a->v[1], &level))
		mc_bad_format(c);
	else
		mc_line(c, "OK");
}

void mc_quit(struct client *c, const struct args *a)
{
	(void)a;
	c->closing = true;
}
