/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "bench.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/stat.h"
#include "bench/gen/keys.h"
#include "bench/gen/values.h"
#include "bench/gen/workload.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"

#include "inflight.h"
#include "report.h"

/* ---- stores ------------------------------------------------------------------ */

/* Bindings that a build may lack, and the Debian package they need. */
static const struct {
	const char *name, *package;
} optional[] = {
	{"libcuckoo", "libcuckoo-dev and a C++ compiler"},
	{"lmdb", "liblmdb-dev"},
	{"redis", "libhiredis-dev"},
};

static int unknown_db(const char *name, size_t len)
{
	char all[128] = "";
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(optional); i++)
		if (strlen(optional[i].name) == len &&
		    !memcmp(name, optional[i].name, len))
			return err_set(FARKV_EINVAL,
				       "db: this kvbench was built without %s; "
				       "install %s and configure again",
				       optional[i].name, optional[i].package);
	for (size_t i = 0; db_bindings[i]; i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s",
				      i ? ", " : "", db_bindings[i]->name);
	return err_set(FARKV_EINVAL, "db: '%.*s' is unknown; there are: %s",
		       (int)UTIL_MIN(len, (size_t)64), name, all);
}

static int setup_fill(const struct bench *b, const char *uri,
		      struct db_setup *s)
{
	const struct params *p = &b->params;
	struct key_format keys = {0};
	size_t key_len;

	if (!key_format_init(&keys, p->key_prefix, p->zero_padding,
			     p->insert_order == 0))
		return err_set(FARKV_EINVAL, "keyprefix: too long");
	if (p->trace)
		key_len = p->trace->key_len_max;
	else
		key_len = key_max_len(&keys) + (p->blocks ? BLOCK_SUFFIX_MAX : 0);
	*s = (struct db_setup){
		.props = b->props,
		.uri = uri,
		.threads = (unsigned)(p->threads * p->processes),
		.records = params_is_cache(p) ? params_keys(p)
					      : workload_records(p),
		.key_prefix = p->key_prefix,
		.key_len = key_len,
		.queue_depth = p->open_loop ? (unsigned)p->queue_depth : 0,
		.value_len = (size_t)p->value_max,
		.loads = b->load || p->load_first == 1 ||
			 params_is_cache(p) ||
			 (strchr(p->db, ',') && p->load_first != 2),
	};
	return 0;
}

/* "farkv,lmdb": open each of the stores, in that order. */
static int stores_open(struct bench *b, const char *uri)
{
	const char *at = b->params.db;
	struct db_setup setup;
	int err = setup_fill(b, uri, &setup);

	while (!err) {
		size_t len = strcspn(at, ",");
		const struct db_ops *ops = db_find(at, len);

		if (!ops)
			return unknown_db(at, len);
		if (b->params.processes > 1 && !ops->forks)
			return err_set(FARKV_EINVAL,
				       "processes: the %s store is opened by "
				       "one process, and its children may not "
				       "use it; give threadcount instead",
				       ops->name);
		if (b->params.trace && b->params.trace->ttl_line &&
		    !b->params.replay_no_ttl && !ops->update_ttl)
			return err_set(FARKV_EINVAL,
				       "%s:%zu: kvbench's %s has no values that "
				       "expire; -p replay.nottl=true replays "
				       "without them", b->params.trace_file,
				       b->params.trace->ttl_line, ops->name);
		/* A run that loads first inserts by calls, which can be tried again. */
		if (b->load && inflight_used(&b->params, ops) &&
		    b->params.insert_retries)
			return err_set(FARKV_EINVAL,
				       "core_workload_insertion_retry_limit: "
				       "openloop=true tries nothing again; give "
				       "queuedepth=0 for calls that can");
		if (b->n_dbs == BENCH_DBS_MAX)
			return err_set(FARKV_EINVAL,
				       "db: more than %d stores at once",
				       BENCH_DBS_MAX);
		err = ops->init(&setup, &b->store[b->n_dbs]);
		if (!err)
			b->n_dbs++;
		if (!at[len])
			break;
		at += len + 1;
	}
	return err;
}

/* Warn if latencies of calls are compared with latencies of requests in flight. */
static void warn_of_calls(const struct bench *b)
{
	const struct params *p = &b->params;

	for (size_t i = 0; i < b->n_dbs && p->open_loop && p->queue_depth; i++)
		if (!inflight_used(p, b->store[i]->ops))
			log_warn("openloop: %s has calls only: each client "
				 "makes one at a time, as with queuedepth=0",
				 b->store[i]->ops->name);
}

int bench_init(struct bench *b, struct props *props, const char *uri, bool load)
{
	int err;

	memset(b, 0, sizeof(*b));
	b->props = props;
	b->load = load;
	err = params_read(props, load, &b->params);
	if (!err)
		err = params_check_command(props, &b->params, load);
	if (!err && !params_is_cache(&b->params))
		err = params_read(props, true, &b->load_params);
	if (err)
		return err;
	err = params_read_files(props, &b->params);
	b->bad_file = err != 0;
	if (err)
		return err;
	b->load_params.value_max = b->params.value_max;
	b->load_params.seed = b->params.seed;
	/* Rate and time limits apply to the measurement only. */
	b->load_params.target = b->load_params.max_time = 0;
	b->load_params.open_loop = false;
	err = stores_open(b, uri);
	if (err)
		return err;
	params_warn(props, &b->params);
	warn_of_calls(b);
	b->timeline = b->params.csv_file[0] || b->params.plot_file[0] ||
		      b->params.html_file[0] ||
		      b->params.measurement_type == TYPE_TIMESERIES;
	b->status = status_mode_for(b->params.status, stderr);
	b->results = calloc(b->params.rounds * b->n_dbs, sizeof(*b->results));
	return b->results ? 0 : err_set(FARKV_ENOMEM, "no memory for results");
}

void bench_fini(struct bench *b)
{
	for (size_t i = 0; b->results && i < b->n_rounds * b->n_dbs; i++)
		phase_result_fini(&b->results[i]);
	free(b->results);
	for (size_t i = 0; i < b->n_dbs; i++)
		b->store[i]->ops->fini(b->store[i]);
	params_free_files(&b->params);
}

/* ---- phases --------------------------------------------------------------------- */

static int run_phase(struct bench *b, size_t i, bool load,
		     struct phase_result *out)
{
	char title[32], tag[64] = "";
	bool measured = load == b->load;
	struct phase ph = {
		.params = load && !b->load ? &b->load_params : &b->params,
		.store = b->store[i],
		.load = load,
		.status = b->status,
		.title = title,
		.tag = measured ? tag : NULL,
		.timeline = measured && b->timeline,
	};
	size_t n = 0;

	snprintf(title, sizeof(title), "%s %s", load ? "load" : "run",
		 b->store[i]->ops->name);
	/* YCSB's own file names for one store and one round. */
	if (b->n_dbs > 1)
		n = (size_t)snprintf(tag, sizeof(tag), "%s-",
				     b->store[i]->ops->name);
	if (b->params.rounds > 1)
		snprintf(tag + n, sizeof(tag) - n, "%zu-", b->n_rounds + 1);
	return phase_run(&ph, out);
}

int bench_load_first(struct bench *b, size_t i, struct phase_result *out)
{
	struct phase_result r;
	int err = run_phase(b, i, true, &r);

	if (err)
		return err;
	if (r.interrupted)
		err = err_set(FARKV_EABORTED, "interrupted while loading");
	else if (measure_failures(&r.m))
		err = err_set(FARKV_ESYS, "loading failed: %s", r.failure);
	if (!err && out)
		*out = r;
	else
		phase_result_fini(&r);
	return err;
}

/* Slow stores give a rate within this time. */
#define PROBE_MAX_S 1

int bench_probe(struct bench *b, size_t i, uint64_t ops, double *rate_out)
{
	struct params p = b->params;
	struct phase ph = {.params = &p, .store = b->store[i]};
	struct phase_result r;
	int err;

	p.operation_count = ops;
	p.max_time = PROBE_MAX_S;
	p.target = 0;
	p.open_loop = false;
	p.warmup = 0.0;
	err = phase_run(&ph, &r);
	if (err)
		return err;
	if (measure_failures(&r.m))
		err = err_set(FARKV_ESYS, "%s: %s", b->store[i]->ops->name,
			      r.failure);
	*rate_out = report_throughput(&r);
	measure_fini(&r.m);
	return err;
}

static bool wants_load(const struct bench *b, size_t i)
{
	const struct db_ops *ops = b->store[i]->ops;

	if (b->load || b->params.load_first == 2 || params_is_cache(&b->params))
		return false;
	/* Stores that are compared must hold the same records. */
	return b->params.load_first == 1 || b->n_dbs > 1 ||
	       (ops->starts_empty && ops->starts_empty(b->store[i]));
}

/* A single store reports what it did until a signal came; comparisons need whole rounds. */
static bool counts(const struct bench *b, const struct phase_result *last)
{
	return !last->interrupted || (b->n_dbs == 1 && b->n_rounds == 0);
}

static int run_round(struct bench *b)
{
	struct phase_result *r = &b->results[b->n_rounds * b->n_dbs];
	size_t i = 0;
	int err = 0;

	for (; i < b->n_dbs && !err; i++) {
		if (b->before)
			b->before(b->before_arg, i);
		err = run_phase(b, i, b->load, &r[i]);
	}
	if (!err && counts(b, &r[i - 1])) {
		if (r[i - 1].interrupted)
			log_warn("interrupted: the results are those until then");
		b->n_rounds++;
		return 0;
	}
	if (!err)
		log_warn("interrupted: round %zu is left out", b->n_rounds + 1);
	for (i -= err != 0; i > 0; i--)
		phase_result_fini(&r[i - 1]);
	return err;
}

int bench_run(struct bench *b)
{
	int err = 0;

	for (size_t i = 0; i < b->n_dbs && !err; i++)
		if (wants_load(b, i))
			err = bench_load_first(b, i, NULL);
	while (!err && b->n_rounds < b->params.rounds &&
	       !phase_was_interrupted())
		err = run_round(b);
	if (!err && !b->n_rounds)
		err = err_set(FARKV_EABORTED, "interrupted before a round was over");
	return err;
}

/* ---- results -------------------------------------------------------------------- */

static const struct phase_result *result_at(const struct bench *b, size_t i,
					    size_t round)
{
	return &b->results[round * b->n_dbs + i];
}

static double rate_at(const struct bench *b, size_t i, size_t round)
{
	return report_throughput(result_at(b, i, round));
}

double bench_median_rate(const struct bench *b, size_t i)
{
	double *v = calloc(b->n_rounds, sizeof(*v)), m = 0.0;

	for (size_t k = 0; v && k < b->n_rounds; k++)
		v[k] = rate_at(b, i, k);
	if (v)
		m = stat_median(v, b->n_rounds);
	free(v);
	return m;
}

/* The median of the rounds' ratios. */
static double median_ratio(const struct bench *b, size_t of, size_t to)
{
	double *v = calloc(b->n_rounds, sizeof(*v)), m = 0.0;

	for (size_t k = 0; v && k < b->n_rounds; k++)
		v[k] = rate_at(b, to, k) > 0.0
			       ? rate_at(b, of, k) / rate_at(b, to, k)
			       : 0.0;
	if (v)
		m = stat_median(v, b->n_rounds);
	free(v);
	return m;
}

double bench_median_ratio(const struct bench *b, size_t i)
{
	return median_ratio(b, i, 0);
}

const struct phase_result *bench_median(const struct bench *b, size_t i)
{
	/* The median round: as many are faster as are slower. */
	for (size_t k = 0; k < b->n_rounds; k++) {
		size_t faster = 0, slower = 0;

		for (size_t j = 0; j < b->n_rounds; j++) {
			faster += rate_at(b, i, j) > rate_at(b, i, k);
			slower += rate_at(b, i, j) < rate_at(b, i, k);
		}
		if (faster <= b->n_rounds / 2 && slower <= (b->n_rounds - 1) / 2)
			return result_at(b, i, k);
	}
	return b->n_rounds ? result_at(b, i, 0) : NULL;
}

uint64_t bench_failures(const struct bench *b)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < b->n_rounds * b->n_dbs; k++)
		sum += measure_failures(&b->results[k].m);
	return sum;
}

const char *bench_failure(const struct bench *b)
{
	for (size_t k = 0; k < b->n_rounds * b->n_dbs; k++)
		if (b->results[k].failure[0])
			return b->results[k].failure;
	return NULL;
}

/* The store's own counters, under its name: [FARKV], READs, ... */
static void put_figures(struct report *r, struct db_store *s,
			const struct phase_result *res)
{
	double ops = (double)(res->ops + res->warm_ops);
	char metric[16], name[64];

	snprintf(metric, sizeof(metric), "%s", s->ops->name);
	for (char *c = metric; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	report_facts(r, metric, s);
	for (unsigned i = 0; i < res->n_figures; i++)
		report_u64(r, metric, res->figures[i].name,
			   res->figures[i].value);
	for (unsigned i = 0; i < res->n_served; i++) {
		const struct db_served *one = &res->served[i];

		snprintf(name, sizeof(name), "ServerOperations(%s)", one->name);
		if (one->known)
			report_u64(r, metric, name, one->ops);
		snprintf(name, sizeof(name), "ServerErrors(%s)", one->name);
		report_u64(r, metric, name, one->errors);
	}
	for (unsigned i = 0; i < res->n_figures && ops > 0.0; i++) {
		snprintf(name, sizeof(name), "%sPerOperation",
			 res->figures[i].name);
		report_double(r, metric, name,
			      (double)res->figures[i].value / ops);
	}
}

/* All rounds of each store, and their median. */
static void put_rounds(const struct bench *b, struct report *r)
{
	for (size_t i = 0; i < b->n_dbs; i++) {
		const char *name = b->store[i]->ops->name;
		char label[64];

		for (size_t k = 0; k < b->n_rounds; k++) {
			snprintf(label, sizeof(label),
				 "%s round %zu Throughput(ops/sec)", name,
				 k + 1);
			report_double(r, "ROUNDS", label, rate_at(b, i, k));
		}
		snprintf(label, sizeof(label), "%s Throughput(ops/sec)", name);
		report_double(r, "MEDIAN", label, bench_median_rate(b, i));
	}
}

/* The first store against each other one. */
static void put_ratios(const struct bench *b, struct report *r)
{
	for (size_t i = 1; i < b->n_dbs; i++) {
		char label[64];

		snprintf(label, sizeof(label), "%s/%s Throughput",
			 b->store[0]->ops->name, b->store[i]->ops->name);
		report_double(r, "RATIO", label, median_ratio(b, 0, i));
	}
}

bool bench_unrecorded(const struct bench *b)
{
	for (size_t k = 0; k < b->n_rounds * b->n_dbs; k++)
		if (b->results[k].unrecorded)
			return true;
	return false;
}

void bench_csv(const struct bench *b, FILE *out)
{
	timeline_csv_head(out);
	for (size_t k = 0; k < b->n_rounds * b->n_dbs; k++)
		timeline_csv(&b->results[k].timeline,
			     b->store[k % b->n_dbs]->ops->name,
			     k / b->n_dbs + 1, out);
}

static void put_mix(const struct params *p, FILE *out)
{
	static const char *const names[OP_KINDS] = {
		[OP_READ] = "read",
		[OP_UPDATE] = "update",
		[OP_INSERT] = "insert",
		[OP_SCAN] = "scan",
		[OP_RMW] = "read-modify-write",
	};

	fprintf(out, " %s;", params_dist_name(p));
	for (int k = 0; k < OP_KINDS; k++)
		if (p->proportion[k] > 0.0)
			fprintf(out, " %g %% %s,", p->proportion[k] * 100.0,
				names[k]);
}

void bench_describe(const struct bench *b, FILE *out)
{
	const struct params *p = &b->params;
	uint64_t clients = p->threads * p->processes;

	fprintf(out, "%" PRIu64 " records of %" PRIu64 " bytes,",
		p->record_count, p->value_max);
	if (b->load)
		fputs(" loaded,", out);
	else if (!params_is_cache(p))
		put_mix(p, out);
	if (p->batch > 1)
		fprintf(out, " batches of %" PRIu64 ",", p->batch);
	fprintf(out, " %" PRIu64 " %s, medians of %zu %s", clients,
		clients == 1 ? "client" : "clients", b->n_rounds,
		b->n_rounds == 1 ? "round" : "rounds");
}

void bench_lines(const struct bench *b, struct report *r)
{
	report_environment(r);
	for (size_t i = 0; i < b->n_dbs && b->n_rounds; i++) {
		const struct phase_result *res = bench_median(b, i);

		if (!res)
			break;
		report_workload(r, &b->params, b->load,
				b->store[i]->ops->name);
		if (inflight_used(&b->params, b->store[i]->ops))
			report_u64(r, "WORKLOAD", "QueueDepth",
				   b->params.queue_depth);
		report_phase(r, &b->params, res);
		put_figures(r, b->store[i], res);
	}
	if (b->n_rounds > 1 || b->n_dbs > 1)
		put_rounds(b, r);
	if (b->n_dbs > 1)
		put_ratios(b, r);
}

void bench_report(const struct bench *b, FILE *out)
{
	struct report r;

	report_begin(&r, out, b->params.exporter);
	bench_lines(b, &r);
	report_end(&r);
}
