/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "bench/gen/keys.h"
#include "common/base/err.h"
#include "common/base/util.h"

/* Operations that measure one placement. */
#define PROBE_OPS UINT64_C(20000)

static const char everything[] = "farkv,memcached,redis,lmdb,libcuckoo";

int compare_props(struct props *p)
{
	static const char *const deflt[][2] = {
		{"db", everything},           {"recordcount", "1000000"},
		{"maxexecutiontime", "2"},    {"rounds", "5"},
		{"fieldcount", "1"},          {"fieldlength", "100"},
		{"insertorder", "ordered"},   {"zeropadding", "12"},
		{"readproportion", "0.95"},   {"updateproportion", "0.05"},
		{"requestdistribution", "zipfian"},
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(deflt) && !err; i++)
		err = props_set(p, deflt[i][0], deflt[i][1], "compare");
	return err;
}

/* ---- participants -------------------------------------------------------------- */

static void leave_out(struct compare *c, const char *name, const char *why)
{
	size_t n = strlen(c->left_out);

	snprintf(c->left_out + n, sizeof(c->left_out) - n,
		 "left out: %s: %s\n", name, why);
}

static void take_in(struct compare *c, const char *name)
{
	size_t n = strlen(c->db);

	snprintf(c->db + n, sizeof(c->db) - n, "%s%s", n ? "," : "", name);
}

static size_t n_taken(const struct compare *c)
{
	size_t n = c->db[0] != '\0';

	for (const char *at = c->db; *at; at++)
		n += *at == ',';
	return n;
}

/* True if the user names a server for this store. */
static bool has_server(const struct props *p, const char *name, const char *uri)
{
	char key[32];

	if (!strcmp(name, "farkv") && uri)
		return true;
	snprintf(key, sizeof(key), "%s.uri", name);
	return props_find(p, key) != NULL;
}

static int start_server(struct compare *c, struct props *p, const char *name,
			const struct rival_plan *plan)
{
	const struct rival *v;
	char key[32];
	int err = rival_start(&c->rivals, name, plan, &v);

	if (err)
		return err;
	c->server[n_taken(c)] = v;
	if (!strcmp(name, "farkv")) {
		snprintf(c->uri, sizeof(c->uri), "shm://%s", v->socket);
		return 0;
	}
	snprintf(key, sizeof(key), "%s.uri", name);
	return props_set(p, key, v->socket, "compare");
}

static bool is_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; n && at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* Add one store of the list; the first one must be available. */
static int add_store(struct compare *c, struct props *p, const char *name,
		     const char *uri, const struct rival_plan *plan)
{
	char why[320];
	int err = 0;

	if (is_listed(c->db, name))
		return err_set(FARKV_EINVAL, "db: %s is there twice", name);
	if (!db_find(name, strlen(name))) {
		if (!rival_known(name) && !is_listed(everything, name))
			return err_set(FARKV_EINVAL, "db: '%s' is unknown",
				       name);
		err = err_set(FARKV_ENOTSUP, "this kvbench was built without it");
	} else if (rival_known(name) && !has_server(p, name, uri)) {
		err = start_server(c, p, name, plan);
	}
	if (err == FARKV_EABORTED)
		return err;
	snprintf(why, sizeof(why), "%s", err ? err_detail() : "");
	if (err && !c->db[0])
		return err_set(err, "%s: %s", name, why);
	if (err)
		leave_out(c, name, why);
	else
		take_in(c, name);
	return 0;
}

static int add_stores(struct compare *c, struct props *p, const char *uri,
		      const char *list, const struct rival_plan *plan)
{
	int err = 0;

	while (!err) {
		size_t len = strcspn(list, ",");
		char name[16];

		if (n_taken(c) == BENCH_DBS_MAX)
			return err_set(FARKV_EINVAL,
				       "db: more than %d stores at once",
				       BENCH_DBS_MAX);
		snprintf(name, sizeof(name), "%.*s",
			 (int)UTIL_MIN(len, sizeof(name)), list);
		err = add_store(c, p, name, uri, plan);
		if (!list[len])
			break;
		list += len + 1;
	}
	return err;
}

/* Twice the size of the records, plus index and blocks in their grace period. */
static int memory_for(const struct props *p, const struct params *v, uint64_t *bytes_out)
{
	uint64_t item = 2 * (v->value_max + KEY_CAP + 64);

	if (v->record_count > (UINT64_MAX >> 8) / item)
		return props_error(p, "recordcount",
				   "needs more memory than any server has");
	*bytes_out = util_align_up(v->record_count * item + (UINT64_C(512) << 20),
				   UINT64_C(2) << 20);
	return 0;
}

/* The first two processors that this process may use. */
static void find_cpus(struct compare *c, uint64_t clients)
{
	int found = 0;

	if (sched_getaffinity(0, sizeof(c->all), &c->all))
		return;
	CPU_ZERO(&c->client);
	CPU_ZERO(&c->other);
	for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
		if (CPU_ISSET(i, &c->all))
			CPU_SET(i, found++ ? &c->other : &c->client);
	c->can_place = found == 2 && clients == 1;
}

/* Requests in flight and single calls cannot be compared. */
static int check_open(const struct props *p, const struct params *v)
{
	const struct db_ops *calls = NULL, *queue = NULL;
	char text[192];
	size_t len;

	if (!v->open_loop || !v->queue_depth)
		return 0;
	for (const char *at = v->db;; at += len + 1) {
		const struct db_ops *ops;

		len = strcspn(at, ",");
		ops = db_find(at, len);
		if (ops && ops->submit)
			queue = ops;
		else if (ops)
			calls = ops;
		if (!at[len])
			break;
	}
	if (!calls || !queue)
		return 0;
	snprintf(text, sizeof(text),
		 "%s would have many requests in flight, and %s has calls only, "
		 "one at a time; give queuedepth=0 for calls of all",
		 queue->name, calls->name);
	return props_error(p, "openloop", text);
}

int compare_begin(struct compare *c, struct props *p, const char *uri)
{
	static const struct prop_spec spec[] = {
		{"compare.kvserver", PROP_STR, 0, NULL, 0, 0, NULL},
	};
	const char *kvserver = NULL;
	struct rival_plan plan;
	struct params v = {0};
	uint64_t bytes = 0, clients;
	int err;

	memset(c, 0, sizeof(*c));
	err = props_read(p, spec, 1, &kvserver);
	if (!err)
		err = params_read(p, false, &v);
	if (!err && params_is_cache(&v))
		err = props_error(p, v.blocks ? "kvcache.blocks" : "replay.file",
				  "give it to run, with the stores' addresses");
	if (!err)
		err = params_read_files(p, &v);
	if (!err)
		err = check_open(p, &v);
	if (!err && v.load_first == 2)
		err = props_error(p, "loadfirst", "compare always loads");
	if (!err)
		err = memory_for(p, &v, &bytes);
	if (!err)
		err = rivals_begin(&c->rivals);
	if (err)
		return err;
	clients = v.threads * v.processes;
	plan = (struct rival_plan){
		.bytes = bytes,
		.value_len = v.value_max,
		.threads = clients,
		.kvserver = kvserver,
	};
	find_cpus(c, clients);
	err = add_stores(c, p, uri, v.db, &plan);
	if (!err)
		err = props_set(p, "loadfirst", "true", "compare");
	return err ? err : props_set(p, "db", c->db, "compare");
}

const char *compare_uri(const struct compare *c, const char *uri)
{
	return c->uri[0] ? c->uri : uri;
}

void compare_end(struct compare *c)
{
	if (CPU_COUNT(&c->all))
		sched_setaffinity(0, sizeof(c->all), &c->all);
	rivals_end(&c->rivals);
}

/* ---- placement ----------------------------------------------------------------- */

/* Threads started from now on inherit this thread's processors. */
static void place(struct compare *c, size_t i, enum placement where)
{
	const cpu_set_t *client = where == PLACE_FREE ? &c->all : &c->client;
	const cpu_set_t *server = where == PLACE_FREE	    ? &c->all
				  : where == PLACE_TOGETHER ? &c->client
							    : &c->other;

	sched_setaffinity(0, sizeof(*client), client);
	if (c->server[i])
		rival_place(c->server[i], server);
}

static void place_store(void *arg, size_t i)
{
	struct compare *c = arg;

	place(c, i, c->place[i]);
}

/* Measure a few operations in each placement and choose the fastest. */
static int choose_place(struct compare *c, struct bench *b, size_t i)
{
	static const enum placement ways[] = {PLACE_APART, PLACE_TOGETHER, PLACE_FREE};
	double best = -1.0, rate;
	int err = 0;

	c->place[i] = !c->can_place  ? PLACE_FREE
		      : c->server[i] ? PLACE_APART
				     : PLACE_ALONE;
	if (c->place[i] != PLACE_APART || !strcmp(c->server[i]->name, "farkv"))
		return 0;
	for (size_t k = 0; k < ARRAY_SIZE(ways) && !err; k++) {
		place(c, i, ways[k]);
		err = bench_probe(b, i, PROBE_OPS, &rate);
		if (!err && rate > best) {
			best = rate;
			c->place[i] = ways[k];
		}
	}
	return err;
}

static const char *placement_name(const struct compare *c, size_t i)
{
	static const char *const names[PLACEMENTS] = {
		[PLACE_FREE] = "not pinned",
		[PLACE_TOGETHER] = "client and server on one cpu",
		[PLACE_APART] = "client and server on a cpu each",
		[PLACE_ALONE] = "client on one cpu",
	};

	return names[c->place[i]];
}

int compare_run(struct compare *c, struct bench *b)
{
	int err = 0;

	for (size_t i = 0; i < b->n_dbs && !err; i++) {
		place(c, i, PLACE_FREE);
		err = bench_load_first(b, i, NULL);
		if (!err)
			err = choose_place(c, b, i);
		b->placement[i] = placement_name(c, i);
	}
	b->left_out = c->left_out;
	b->params.load_first = 2;
	b->before = place_store;
	b->before_arg = c;
	if (!err)
		err = bench_run(b);
	return err;
}

/* ---- the table ----------------------------------------------------------------- */

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
