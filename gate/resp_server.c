/* SPDX-License-Identifier: BSD-3-Clause */
/* INFO and CONFIG. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "glob.h"
#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

/* Of idle connections, in seconds. */
#define TIMEOUT_MAX 31536000

/* ---- INFO ---------------------------------------------------------------------------- */

struct info {
	struct client *c;
	struct buf *out;
	struct farkv_stats stats; /* zeros if the server does not answer */
	struct gate_counts totals;
};

static void info_server(struct info *i)
{
	const struct gate *g = i->c->gate;
	uint64_t up = (clock_now_ns() - g->start_ns) / NS_PER_SEC;

	buf_printf(i->out,
		   "redis_version:" AS_REDIS_VERSION "\r\nredis_mode:standalone\r\n"
		   "kvgate_version:" PACKAGE_VERSION "\r\nfarkv_version:%s\r\narch_bits:%zu\r\n"
		   "multiplexing_api:epoll\r\nprocess_id:%ld\r\nuptime_in_seconds:%" PRIu64
		   "\r\nuptime_in_days:%" PRIu64 "\r\nio_threads_active:%d\r\n",
		   farkv_version(), sizeof(void *) * 8, (long)getpid(), up, up / 86400,
		   g->n_workers > 1);
}

static void info_clients(struct info *i)
{
	struct gate *g = i->c->gate;

	buf_printf(i->out,
		   "connected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64
		   "\r\nblocked_clients:%" PRIu64 "\r\n",
		   atom_load_relaxed(&g->connected), atom_load_relaxed(&g->max_clients),
		   atom_load_relaxed(&g->blocked));
}

/* Redis' name for what the store does when it is full; none of them is S3-FIFO. */
static const char *policy(const struct farkv_stats *s)
{
	return s->cache ? "allkeys-lfu" : "noeviction";
}

static void info_memory(struct info *i)
{
	char used[24], most[24];

	util_format_size(i->stats.used_bytes, used, sizeof(used));
	util_format_size(i->stats.heap_bytes, most, sizeof(most));
	buf_printf(i->out,
		   "used_memory:%" PRIu64 "\r\nused_memory_human:%s\r\nused_memory_dataset:%" PRIu64
		   "\r\nmaxmemory:%" PRIu64 "\r\nmaxmemory_human:%s\r\n"
		   "maxmemory_policy:%s\r\nmem_fragmentation_ratio:1.00\r\n",
		   i->stats.used_bytes, used, i->stats.item_bytes, i->stats.heap_bytes, most,
		   policy(&i->stats));
}

static void info_persistence(struct info *i)
{
	buf_text(i->out, "loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n"
			 "aof_rewrite_in_progress:0\r\n");
}

static void info_stats(struct info *i)
{
	struct gate *g = i->c->gate;
	const struct gate_counts *t = &i->totals;

	buf_printf(i->out,
		   "total_connections_received:%" PRIu64 "\r\ntotal_commands_processed:%" PRIu64
		   "\r\nrejected_connections:%" PRIu64 "\r\nkeyspace_hits:%" PRIu64
		   "\r\nkeyspace_misses:%" PRIu64 "\r\nexpired_keys:%" PRIu64
		   "\r\nevicted_keys:%" PRIu64 "\r\ntotal_net_input_bytes:%" PRIu64
		   "\r\ntotal_net_output_bytes:%" PRIu64 "\r\ntotal_error_replies:%" PRIu64 "\r\n",
		   atom_load_relaxed(&g->accepted), t->commands, atom_load_relaxed(&g->rejected),
		   t->hits, t->gets - t->hits, i->stats.expired, i->stats.evictions, t->bytes_in,
		   t->bytes_out, t->errors);
}

static void info_replication(struct info *i)
{
	struct farkv_server s = {.size = sizeof(s)};
	uint64_t servers = 0;

	for (size_t k = 0; farkv_server(i->c->kv, k, &s) == 0; k++)
		servers += s.partitions != 0;
	buf_printf(i->out, "role:master\r\nconnected_slaves:%d\r\n",
		   i->stats.followers >= servers && i->stats.followers);
	if (i->c->gate->waits)
		buf_printf(i->out, "farkv_follower_lag_ms:%" PRIu64 "\r\n",
			   i->stats.follower_lag_ms);
}

static void info_cpu(struct info *i)
{
	struct rusage r = {0};

	getrusage(RUSAGE_SELF, &r);
	buf_printf(i->out, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n",
		   (long)r.ru_stime.tv_sec, (long)r.ru_stime.tv_usec, (long)r.ru_utime.tv_sec,
		   (long)r.ru_utime.tv_usec);
}

static void info_cluster(struct info *i)
{
	buf_text(i->out, "cluster_enabled:0\r\n");
}

static void info_keyspace(struct info *i)
{
	if (i->stats.items)
		buf_printf(i->out, "db0:keys=%" PRIu64 ",expires=0,avg_ttl=0\r\n", i->stats.items);
}

static const struct {
	const char *name;
	void (*write)(struct info *i);
} sections[] = {
	{"Server", info_server},	   {"Clients", info_clients}, {"Memory", info_memory},
	{"Persistence", info_persistence}, {"Stats", info_stats},
	{"Replication", info_replication}, {"CPU", info_cpu},	      {"Cluster", info_cluster},
	{"Keyspace", info_keyspace},
};

static bool section_wanted(const char *name, const struct args *a)
{
	static const char *const all[] = {"all", "default", "everything"};

	for (size_t k = 1; k < a->n; k++) {
		if (slice_is(a->v[k], name))
			return true;
		for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
			if (slice_is(a->v[k], all[i]))
				return true;
	}
	return a->n == 1;
}

void resp_info(struct client *c, const struct args *a)
{
	struct info i = {.c = c, .out = c->scratch, .totals = gate_totals(c->gate)};

	if (store_stats(c, &i.stats))
		i.stats = (struct farkv_stats){.size = sizeof(i.stats)};
	c->scratch->len = 0;
	for (unsigned k = 0; k < ARRAY_SIZE(sections); k++) {
		if (!section_wanted(sections[k].name, a))
			continue;
		buf_printf(c->scratch, "%s# %s\r\n", c->scratch->len ? "\r\n" : "",
			   sections[k].name);
		sections[k].write(&i);
	}
	reply_lines(c, c->scratch->p, c->scratch->len);
}

void resp_time(struct client *c, const struct args *a)
{
	char text[24];
	struct timespec ts;

	(void)a;
	clock_gettime(CLOCK_REALTIME, &ts);
	reply_array(c, 2);
	snprintf(text, sizeof(text), "%lld", (long long)ts.tv_sec);
	reply_text(c, text);
	snprintf(text, sizeof(text), "%ld", ts.tv_nsec / 1000);
	reply_text(c, text);
}

/* ---- CONFIG -------------------------------------------------------------------------- */

enum parameter {
	MAXCLIENTS,
	TIMEOUT,
	FIXED_TEXT,
	MAX_REQUEST,
	MAX_OUTPUT,
	MAX_MEMORY,
	MEMORY_POLICY,
	THREADS
};

static const struct {
	const char *name;
	enum parameter what;
	const char *text; /* FIXED_TEXT */
} parameters[] = {
	{"appendonly", FIXED_TEXT, "no"},
	{"client-query-buffer-limit", MAX_REQUEST, NULL},
	{"databases", FIXED_TEXT, "1"},
	{"io-threads", THREADS, NULL},
	{"maxclients", MAXCLIENTS, NULL},
	{"maxmemory", MAX_MEMORY, NULL},
	{"maxmemory-policy", MEMORY_POLICY, NULL},
	{"max-output", MAX_OUTPUT, NULL},
	{"proto-max-bulk-len", MAX_REQUEST, NULL},
	{"save", FIXED_TEXT, ""},
	{"timeout", TIMEOUT, NULL},
};

static void value_text(struct client *c, unsigned k, char *text, size_t cap)
{
	struct gate *g = c->gate;
	struct farkv_stats s;
	uint64_t n = 0;

	switch (parameters[k].what) {
	case FIXED_TEXT:
		snprintf(text, cap, "%s", parameters[k].text);
		return;
	case MAXCLIENTS:
		n = atom_load_relaxed(&g->max_clients);
		break;
	case TIMEOUT:
		n = atom_load_relaxed(&g->idle_s);
		break;
	case MAX_REQUEST:
		n = g->cfg.max_request;
		break;
	case MAX_OUTPUT:
		n = g->cfg.max_output;
		break;
	case MAX_MEMORY:
		n = store_stats(c, &s) ? 0 : s.heap_bytes;
		break;
	case MEMORY_POLICY:
		snprintf(text, cap, "%s", store_stats(c, &s) ? "noeviction" : policy(&s));
		return;
	case THREADS:
		n = g->n_workers;
		break;
	}
	snprintf(text, cap, "%" PRIu64, n);
}

static bool name_wanted(const char *name, const struct args *a)
{
	struct slice text = {name, strlen(name)};

	for (size_t i = 2; i < a->n; i++)
		if (glob_match(a->v[i], text))
			return true;
	return false;
}

static void config_get(struct client *c, const struct args *a)
{
	size_t n = 0;
	char text[32];

	for (unsigned k = 0; k < ARRAY_SIZE(parameters); k++)
		n += name_wanted(parameters[k].name, a);
	reply_map(c, n);
	for (unsigned k = 0; k < ARRAY_SIZE(parameters); k++) {
		if (!name_wanted(parameters[k].name, a))
			continue;
		value_text(c, k, text, sizeof(text));
		reply_text(c, parameters[k].name);
		reply_text(c, text);
	}
}

/* NULL, or what is wrong. Changes nothing if `check`. */
static const char *config_set_one(struct client *c, struct slice name, struct slice value,
				  bool check)
{
	struct gate *g = c->gate;
	char now[32];
	uint64_t n, most;
	unsigned k = 0;

	while (k < ARRAY_SIZE(parameters) && !slice_is(name, parameters[k].name))
		k++;
	if (k == ARRAY_SIZE(parameters))
		return "no such parameter";
	if (parameters[k].what == FIXED_TEXT || parameters[k].what == MEMORY_POLICY) {
		value_text(c, k, now, sizeof(now));
		if (slice_is(value, now))
			return NULL;
	}
	if (parameters[k].what != MAXCLIENTS && parameters[k].what != TIMEOUT)
		return "can't set immutable config";
	most = parameters[k].what == MAXCLIENTS ? g->cfg.max_clients : TIMEOUT_MAX;
	/* With 0 nobody could set it back. */
	if (!slice_u64(value, &n) || n > most || (parameters[k].what == MAXCLIENTS && !n))
		return parameters[k].what == MAXCLIENTS ?
			       "argument must be between 1 and the value at the start" :
			       "argument must be between 0 and 31536000";
	if (!check && parameters[k].what == MAXCLIENTS)
		atom_store_relaxed(&g->max_clients, n);
	else if (!check)
		atom_store_relaxed(&g->idle_s, n);
	return NULL;
}

static void config_set(struct client *c, const struct args *a)
{
	/* All or nothing. */
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 2; i < a->n; i += 2) {
			const char *wrong =
				config_set_one(c, a->v[i], a->v[i + 1], pass == 0);

			if (wrong) {
				reply_error(c,
					    "ERR CONFIG SET failed (possibly related to argument "
					    "'%.*s') - %s",
					    REPLY_WORD(a->v[i]),
					    wrong);
				return;
			}
		}
	reply_ok(c);
}

void resp_config(struct client *c, const struct args *a)
{
	if (slice_is(a->v[1], "get") && a->n > 2)
		config_get(c, a);
	else if (slice_is(a->v[1], "set") && a->n > 3 && a->n % 2 == 0)
		config_set(c, a);
	else if (slice_is(a->v[1], "resetstat") && a->n == 2)
		reply_error(c, "ERR CONFIG RESETSTAT is not part of kvgate");
	else
		reply_error(c, "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			       "Try CONFIG GET or SET.",
			    REPLY_WORD(a->v[1]));
}
