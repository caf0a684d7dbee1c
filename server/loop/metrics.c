/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "metrics.h"

#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>

#include "common/base/clock.h"
#include "common/base/util.h"

#include "core.h"
#include "http.h"
#include "session.h"
#include "stats.h"

#define COUNTER "counter"
#define GAUGE "gauge"

/*
 * The figures of STATS by name; those of one name follow each other. The value is divided by
 * `divisor`, a power of ten. `stat` is the field of struct farkv_stats.
 */
static const struct figure {
	uint16_t id;
	const char *name, *labels, *type;
	uint64_t divisor;
	const char *help, *stat;
} figures[] = {
#define FIGURE(id, stat, name, type, divisor, help) \
	{MSG_STAT_##id, name, "", type, divisor, help, stat}
#define LABELLED(id, stat, name, labels, help) \
	{MSG_STAT_##id, name, labels, COUNTER, 1, help, stat}
	FIGURE(UPTIME_MS, "uptime_ms", "memcached_uptime_seconds", GAUGE, 1000,
	       "Time for which the server has been running"),
	FIGURE(CPU_NS, "cpu_ns", "farkv_cpu_seconds_total", COUNTER, NS_PER_SEC,
	       "Processor time of the server"),
	FIGURE(HEAP_BYTES, "heap_bytes", "memcached_limit_bytes", GAUGE, 1,
	       "Memory for values and index"),
	FIGURE(REGION_BYTES, "region_bytes", "farkv_region_bytes", GAUGE, 1,
	       "Size of the region"),
	FIGURE(USED_BYTES, "used_bytes", "farkv_used_bytes", GAUGE, 1,
	       "Memory in use by values, blocks and index"),
	FIGURE(INDEX_BYTES, "index_bytes", "farkv_index_bytes", GAUGE, 1,
	       "Memory in use by the index"),
	FIGURE(RETIRED_BYTES, "retired_bytes", "farkv_retired_bytes", GAUGE, 1,
	       "Memory that waits for a barrier"),
	FIGURE(PAGES_REFUSED, "pages_refused", "farkv_pages_refused_total", COUNTER, 1,
	       "Times that the machine had no memory for the server"),
	FIGURE(ITEMS, "items", "memcached_current_items", GAUGE, 1, "Keys that have a value"),
	FIGURE(ITEM_BYTES, "item_bytes", "memcached_current_bytes", GAUGE, 1,
	       "Bytes of the items' blocks"),
	FIGURE(EXPIRED, "expired", "farkv_expired_items_total", COUNTER, 1,
	       "Expired values that were freed"),
	FIGURE(SAVES, "saves", "farkv_snapshots_total", COUNTER, 1, "Snapshots saved"),
	FIGURE(SAVES_FAILED, "saves_failed", "farkv_snapshots_failed_total", COUNTER, 1,
	       "Snapshots that could not be saved"),
	FIGURE(SAVED_AT_MS, "saved_at_ms", "farkv_snapshot_timestamp_seconds", GAUGE, 1000,
	       "When the last good snapshot was begun; 0: never"),
	FIGURE(FOLLOWERS, "followers", "farkv_followers", GAUGE, 1,
	       "Servers that have a whole copy and go on copying"),
	FIGURE(FOLLOWER_LAG_MS, "follower_lag_ms", "farkv_follower_lag_seconds", GAUGE, 1000,
	       "How old that copy is at most"),
	FIGURE(INDEX_SLOTS, "index_slots", "farkv_index_slots", GAUGE, 1, "Slots of the index"),
	FIGURE(INDEX_LOAD, "index_load_permille", "farkv_index_load_ratio", GAUGE, 1000,
	       "Slots in use"),
	FIGURE(DEAD_SLOTS, "dead_slots", "farkv_index_dead_slots", GAUGE, 1,
	       "Slots of deleted keys"),
	FIGURE(SUBTABLES, "subtables", "farkv_index_subtables", GAUGE, 1, "Parts of the index"),
	FIGURE(DIR_DEPTH, "dir_depth", "farkv_directory_depth", GAUGE, 1,
	       "The directory has two to this power entries"),
	FIGURE(DIR_DOUBLINGS, "dir_doublings", "farkv_directory_doublings_total", COUNTER, 1,
	       "Times that the directory doubled"),
	FIGURE(SPLITS, "splits", "farkv_splits_total", COUNTER, 1,
	       "Subtables that became two"),
	FIGURE(COMPACTIONS, "compactions", "farkv_compactions_total", COUNTER, 1,
	       "Subtables rebuilt without deleted keys"),
	FIGURE(MIGRATION_NS, "migration_ns", "farkv_migration_seconds_total", COUNTER, NS_PER_SEC,
	       "Time of all migrations of subtables"),
	FIGURE(MIGRATION_NS_MAX, "migration_ns_max", "farkv_migration_longest_seconds", GAUGE,
	       NS_PER_SEC, "The longest of them"),
	FIGURE(BLOCKS_GRANTED, "blocks_granted", "farkv_blocks_granted", GAUGE, 1,
	       "Blocks that clients have or that are published"),
	FIGURE(BLOCKS_LIVE, "blocks_live", "farkv_blocks_live", GAUGE, 1,
	       "Blocks with an item"),
	FIGURE(BLOCKS_DEAD, "blocks_dead", "farkv_blocks_dead", GAUGE, 1,
	       "Blocks of deleted keys"),
	FIGURE(BLOCKS_HELD, "blocks_held", "farkv_blocks_held", GAUGE, 1,
	       "Blocks in clients' hands"),
	FIGURE(BLOCKS_FREE, "blocks_free", "farkv_blocks_free", GAUGE, 1,
	       "Blocks free at the server"),
	FIGURE(FREE_BYTES, "free_bytes", "farkv_free_bytes", GAUGE, 1,
	       "Bytes of the free blocks, of all sizes"),
	FIGURE(BLOCKS_DEFERRED, "blocks_deferred", "farkv_blocks_deferred", GAUGE, 1,
	       "Blocks in their grace period"),
	FIGURE(BLOCKS_EXHAUSTED, "blocks_exhausted", "farkv_blocks_exhausted", GAUGE, 1,
	       "Blocks that wait for a barrier"),
	FIGURE(BLOCKS_DAMAGED, "blocks_damaged", "farkv_blocks_damaged_total", COUNTER, 1,
	       "Blocks dropped as damaged"),
	FIGURE(BLOCKS_SWEPT, "blocks_swept", "farkv_blocks_swept_total", COUNTER, 1,
	       "Blocks of dead clients that were freed"),
	FIGURE(SWEEPS, "sweeps", "farkv_sweeps_total", COUNTER, 1,
	       "Searches for blocks of dead clients"),
	FIGURE(SWEEP_NS, "sweep_ns", "farkv_sweep_last_seconds", GAUGE, NS_PER_SEC,
	       "Duration of the last sweep"),
	FIGURE(SWEEP_DEATHS, "sweep_deaths", "farkv_sweep_deaths", GAUGE, 1,
	       "Dead sessions to be swept"),
	FIGURE(BARRIERS, "barriers", "farkv_barriers_total", COUNTER, 1, "Barriers done"),
	FIGURE(BARRIER_WAITS, "barrier_waits", "farkv_barrier_waits", GAUGE, 1,
	       "Sessions that a barrier waits for"),
	FIGURE(GETS, "gets", "farkv_gets_total", COUNTER, 1, "Gets, hits and misses"),
	LABELLED(HITS, "hits", "memcached_commands_total",
		 "{command=\"get\",status=\"hit\"}", "Calls of clients, by their own account"),
	LABELLED(MISSES, "misses", "memcached_commands_total",
		 "{command=\"get\",status=\"miss\"}", ""),
	LABELLED(SETS, "sets", "memcached_commands_total",
		 "{command=\"set\",status=\"hit\"}", ""),
	FIGURE(CACHE, "cache", "farkv_evicts", GAUGE, 1,
	       "1: a full store evicts; 0: it refuses"),
	FIGURE(EVICTIONS, "evictions", "memcached_items_evicted_total", COUNTER, 1,
	       "Values evicted"),
	FIGURE(EVICTED_BYTES, "evicted_bytes", "farkv_evicted_bytes_total", COUNTER, 1,
	       "Bytes of their blocks"),
	FIGURE(VICTIM_AGE_MS, "victim_age_ms", "farkv_victim_age_seconds", GAUGE, 1000,
	       "The last evicted value was unused for at least this long"),
	FIGURE(MOVES, "moves", "farkv_moves_total", COUNTER, 1,
	       "Values moved to make room for other sizes"),
	FIGURE(SESSIONS, "sessions", "memcached_current_connections", GAUGE, 1,
	       "Sessions open"),
	FIGURE(SESSIONS_TOTAL, "sessions_total", "memcached_connections_total", COUNTER, 1,
	       "Sessions since the start"),
	FIGURE(GRANTS, "grants", "farkv_grants_total", COUNTER, 1, "Requests for blocks"),
	FIGURE(HINTS, "hints", "farkv_hints_total", COUNTER, 1,
	       "Hints that the index fills up"),
	FIGURE(PROTOCOL_ERRORS, "protocol_errors", "farkv_protocol_errors_total", COUNTER, 1,
	       "Messages against the rules"),
	FIGURE(MAX_KEY, "max_key", "farkv_max_key_bytes", GAUGE, 1, "Longest key"),
	FIGURE(MAX_VALUE, "max_value", "memcached_max_item_size_bytes", GAUGE, 1,
	       "Longest value"),
	FIGURE(GRACE_NS, "grace_ns", "farkv_grace_seconds", GAUGE, NS_PER_SEC,
	       "The grace period"),
#undef FIGURE
#undef LABELLED
};

/* Per size; rows of enum msg_stat's MSG_STAT_SIZES. */
static const struct {
	const char *name, *type, *help;
	uint64_t divisor;
} by_size[3] = {
	{"farkv_size_evictions_total", COUNTER,
	 "Values evicted, by the least block of their size", 1},
	{"farkv_size_expired_total", COUNTER,
	 "Expired values freed, by the least block of their size", 1},
	{"farkv_size_victim_age_seconds", GAUGE, "The last victim of a size was unused for", 1000},
};

/* ---- text ------------------------------------------------------------------------------ */

static void add_head(struct evbuffer *out, const char *name, const char *type, const char *help)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A line's value, as a decimal fraction. */
static void add_value(struct evbuffer *out, uint64_t value, uint64_t divisor)
{
	int digits = 0;

	for (uint64_t d = divisor; d > 1; d /= 10)
		digits++;
	if (digits)
		evbuffer_add_printf(out, " %" PRIu64 ".%0*" PRIu64 "\n", value / divisor, digits,
				    value % divisor);
	else
		evbuffer_add_printf(out, " %" PRIu64 "\n", value);
}

static void add_one(struct evbuffer *out, const char *name, const char *type, const char *help,
		    uint64_t value)
{
	add_head(out, name, type, help);
	evbuffer_add_printf(out, "%s", name);
	add_value(out, value, 1);
}

/* Of a figure; 0: not in the message. */
static uint64_t value_of(const struct msg *m, unsigned id)
{
	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return m->stats.stat[i].value;
	return 0;
}

static void add_figures(struct evbuffer *out, const struct msg *m)
{
	const char *last = "";
	char help[160];

	for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
		const struct figure *f = &figures[i];

		snprintf(help, sizeof(help), "%s (kvcli stats --json: %s).", f->help, f->stat);
		if (strcmp(f->name, last) != 0)
			add_head(out, f->name, f->type, help);
		last = f->name;
		evbuffer_add_printf(out, "%s%s", f->name, f->labels);
		add_value(out, value_of(m, f->id), f->divisor);
	}
}

/* Sizes without any are left out. */
static void add_sizes(struct evbuffer *out, const struct msg *m)
{
	for (unsigned k = 0; k < ARRAY_SIZE(by_size); k++) {
		add_head(out, by_size[k].name, by_size[k].type, by_size[k].help);
		for (unsigned row = 0; row < FARKV_SIZES; row++) {
			uint64_t value = value_of(m, MSG_STAT_SIZES + 3 * row + k);

			if (!value)
				continue;
			evbuffer_add_printf(out, "%s{block_bytes=\"%" PRIu64 "\"}",
					    by_size[k].name, UINT64_C(64) << row);
			add_value(out, value, by_size[k].divisor);
		}
	}
}

static void add_classes(struct evbuffer *out, const struct control *c)
{
	static const char name[] = "farkv_class_bytes";

	add_head(out, name, GAUGE, "Memory of the blocks of one size, by their state");
	for (unsigned cls = 0; cls < CLASS_COUNT; cls++) {
		struct slab_counts n = slab_count_class(c->slab, (uint8_t)cls);
		uint64_t bytes = class_bytes(cls);
		const struct {
			const char *state;
			uint64_t n;
		} states[] = {{"out", n.out}, {"free", n.free}, {"deferred", n.deferred},
			      {"exhausted", n.exhausted}};

		for (size_t i = 0; i < ARRAY_SIZE(states); i++)
			if (n.out || n.free || n.deferred || n.exhausted)
				evbuffer_add_printf(out,
						    "%s{block_bytes=\"%" PRIu64
						    "\",state=\"%s\"} %" PRIu64 "\n",
						    name, bytes, states[i].state,
						    states[i].n * bytes);
	}
}

static void add_sessions(struct evbuffer *out, const struct control *c)
{
	static const char *const kinds[] = {"shm", "rdma"}, *const roles[] = {"rw", "ro"};
	uint64_t n[2][2] = {{0}};
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->welcomed)
			n[s->port->remote][s->readonly]++;
	add_head(out, "farkv_sessions", GAUGE, "Sessions by transport and role");
	for (unsigned i = 0; i < 4; i++)
		evbuffer_add_printf(out,
				    "farkv_sessions{transport=\"%s\",role=\"%s\"} %" PRIu64 "\n",
				    kinds[i / 2], roles[i % 2], n[i / 2][i % 2]);
	add_one(out, "memcached_max_connections", GAUGE, "Sessions that may be open at once",
		c->cfg.max_sessions);
	add_one(out, "farkv_grants_refused_total", COUNTER,
		"Requests for blocks that got none, because memory is used up",
		c->counts.refused);
}

static void add_pause(struct evbuffer *out, const struct pause_sum *sum, const char *kind)
{
	uint64_t most = PAUSES_BUCKET_NS, n = 0;

	for (unsigned i = 0; i < PAUSES_BUCKETS; i++, most *= 10) {
		n += sum->n[i];
		evbuffer_add_printf(out,
				    "farkv_pause_seconds_bucket{kind=\"%s\",le=\"%g\"} %" PRIu64
				    "\n", kind, (double)most / NS_PER_SEC, n);
	}
	n += sum->n[PAUSES_BUCKETS];
	evbuffer_add_printf(out, "farkv_pause_seconds_bucket{kind=\"%s\",le=\"+Inf\"} %" PRIu64
				 "\nfarkv_pause_seconds_sum{kind=\"%s\"}", kind, n, kind);
	add_value(out, sum->ns, NS_PER_SEC);
	evbuffer_add_printf(out, "farkv_pause_seconds_count{kind=\"%s\"} %" PRIu64 "\n", kind, n);
}

static void add_pauses(struct evbuffer *out, const struct pauses *p)
{
	add_head(out, "farkv_pause_seconds", "histogram",
		 "Times for which the event loop did one thing and answered nobody");
	for (unsigned kind = 1; kind < MSG_PAUSE_KIND_END; kind++)
		add_pause(out, &p->sum[kind], msg_pause_name(kind));
	add_head(out, "farkv_pause_longest_seconds", GAUGE, "The longest of them");
	evbuffer_add_printf(out, "farkv_pause_longest_seconds");
	add_value(out, p->n ? p->longest[0].ns : 0, NS_PER_SEC);
}

static void add_build(struct evbuffer *out)
{
	add_head(out, "memcached_version", GAUGE, "The version of kvserver");
	evbuffer_add_printf(out, "memcached_version{version=\"" PACKAGE_VERSION "\"} 1\n");
	add_head(out, "farkv_build_info", GAUGE, "The version of kvserver and of its region");
	evbuffer_add_printf(out,
			    "farkv_build_info{version=\"" PACKAGE_VERSION
			    "\",region_format=\"%u\"} 1\n", REGION_VERSION);
}

/* ---- requests ---------------------------------------------------------------------------- */

static unsigned answer_metrics(struct control *c, struct evbuffer *body)
{
	uint64_t now = clock_now_ns();
	struct msg m;

	if (!stats_count(c)) {
		core_tick_soon(c);
		return 0;
	}
	stats_figures(c, &m);
	add_build(body);
	add_figures(body, &m);
	add_sizes(body, &m);
	add_classes(body, c);
	add_sessions(body, c);
	add_pauses(body, &c->pauses);
	pauses_add(&c->pauses, MSG_PAUSE_MESSAGE, now);
	return 200;
}

static unsigned answer_ready(const struct control *c, struct evbuffer *body)
{
	const char *text = c->drain_until ? "shutting down\n" :
			   c->restoring   ? "restoring\n" :
			   c->joining	  ? "joining the cluster\n" :
					    "ready\n";

	evbuffer_add_printf(body, "%s", text);
	return c->drain_until || c->restoring || c->joining ? 503 : 200;
}

static unsigned answer(void *arg, const char *path, struct evbuffer *body)
{
	struct control *c = arg;

	if (strcmp(path, "/metrics") == 0)
		return answer_metrics(c, body);
	if (strcmp(path, "/readyz") == 0)
		return answer_ready(c, body);
	if (strcmp(path, "/healthz") != 0)
		return 404;
	evbuffer_add_printf(body, "ok\n");
	return 200;
}

static bool tick(struct control *c)
{
	return c->http && http_retry(c->http);
}

static bool init(struct control *c)
{
	if (!c->cfg.metrics)
		return true;
	c->http = http_new(c->base, c->cfg.metrics, answer, c);
	return c->http != NULL;
}

static void fini(struct control *c)
{
	http_free(c->http);
}

const struct loop_module metrics_module = {
	.init = init,
	.fini = fini,
	.tick = tick,
};
