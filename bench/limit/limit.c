/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "limit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "bench/base/hist.h"
#include "bench/base/ticks.h"
#include "bench/core/phase.h"
#include "bench/gen/workload.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "limit_table.h"

/* One operation in this many is timed alone, for the percentiles. */
#define TIMED_PART 4
/*
 * Sides alternate after this many operations, some 15 ms of single GETs: a host that slows
 * down for a second affects all, and the previous side's cache contents are soon replaced.
 */
#define SLICE (200 * LIMIT_CHUNK)
/* Keys drawn at once, so few that they stay in the cache. */
#define DRAW 32

struct limit {
	struct params params;
	struct workload run, load;
	struct workload_thread draw, draw_load;
	struct limit_plan plan;
	struct limit_keys keys;
	bool rdma;
	struct limit_side *side[LIMIT_SIDES_MAX];
	struct limit_table table; /* names the sides */
	struct op ops[DRAW];
};

/* In the order of the table; the ratios refer to the first. */
static const struct limit_side_ops *const sides_shm[] = {
	&limit_mem_ops,
	&limit_farkv_ops,
#ifdef HAVE_LIBCUCKOO
	&limit_cuckoo_ops,
#endif
};
static const struct limit_side_ops *const sides_rdma[] = {
	&limit_raw_ops,       &limit_raw_write_ops, &limit_raw_cas_ops,
	&limit_raw_chase_ops, &limit_farkv_ops,     &limit_searching_ops,
};

int limit_props(struct props *p)
{
	static const char *const deflt[][2] = {
		{"recordcount", "1000000"}, {"operationcount", "1000000"},
		{"fieldcount", "1"},        {"fieldlength", "100"},
		{"insertorder", "ordered"}, {"zeropadding", "12"},
		{"rounds", "5"},            {"requestdistribution", "uniform"},
		{"readproportion", "1"},    {"updateproportion", "0"},
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(deflt) && !err; i++)
		err = props_set(p, deflt[i][0], deflt[i][1], "limit");
	return err;
}

/* ---- set-up ------------------------------------------------------------------ */

static int check_no_meaning(const struct props *p, const struct params *v)
{
	const struct {
		const char *name;
		bool given;
	} all[] = {
		{"processes", v->processes > 1},
		{"batch", v->batch > 1},
		{"openloop", v->open_loop},
		{"warmup", v->warmup > 0.0},
		{"maxexecutiontime", v->max_time > 0},
		{"update", v->update_mode != UPDATE_REPLACE},
		{"dataintegrity", v->data_integrity},
		{"loadfirst", v->load_first != 0},
		{"exporter", v->exporter != EXPORTER_TEXT},
		{"measurementtype", v->measurement_type != TYPE_HDR},
		{"measurement.interval", v->interval != INTERVAL_OP},
		{"hdrhistogram.fileoutput", v->hdr_files},
		{"csv", v->csv_file[0] != '\0'},
		{"plot", v->plot_file[0] != '\0'},
		{"html", v->html_file[0] != '\0'},
		{"status", v->status},
		{"replay.file", v->trace_file[0] != '\0'},
		{"kvcache.blocks", v->blocks != 0},
		{"db", props_find(p, "db") != NULL},
		{"farkv.op_timeout_ms", props_find(p, "farkv.op_timeout_ms") != NULL},
		{"farkv.connect_timeout_ms",
		 props_find(p, "farkv.connect_timeout_ms") != NULL},
		{"farkv.cache_entries", props_find(p, "farkv.cache_entries") != NULL},
		{"farkv.cache_bytes", props_find(p, "farkv.cache_bytes") != NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].given)
			return props_error(p, all[i].name,
					   "has no meaning for limit");
	return 0;
}

/* Refuse properties that have no meaning here. */
static int check_params(const struct props *p, const struct params *v)
{
	if (v->proportion[OP_INSERT] > 0.0)
		return props_error(p, "insertproportion",
				   "limit works on records that are there");
	if (v->field_len_dist != FIELD_LENGTH_CONSTANT)
		return props_error(p, "fieldlengthdistribution",
				   "limit has values of one length only");
	if (!v->operation_count)
		return props_error(p, "operationcount", "limit needs one");
	if (v->value_max < 1)
		return props_error(p, "fieldlength", "limit needs values");
	if (v->threads > 1)
		return props_error(p, "threadcount", "limit has one client");
	if (v->target)
		return props_error(p, "target", "limit has no schedule");
	if (v->export_file[0])
		return props_error(p, "exportfile",
				   "limit prints a table, on stdout");
	return check_no_meaning(p, v);
}

/*
 * The store's address from the command line, the properties, or the environment. It decides
 * which limit applies.
 */
static int find_uri(struct limit *l, struct props *p, const char *uri)
{
	static const struct prop_spec spec[] = {
		{"farkv.uri", PROP_STR, 0, NULL, 0, 0, NULL},
	};
	const char *of_props = NULL, *used;
	int err = props_read(p, spec, 1, &of_props);

	l->plan.uri = uri ? uri : of_props;
	used = l->plan.uri ? l->plan.uri : getenv("FARKV_URI");
	l->rdma = used && !strncmp(used, "kv://", 5);
	return err;
}

static void choose_sides(struct limit *l)
{
	size_t n = l->rdma ? ARRAY_SIZE(sides_rdma) : ARRAY_SIZE(sides_shm);

	_Static_assert(ARRAY_SIZE(sides_rdma) <= LIMIT_SIDES_MAX &&
			       ARRAY_SIZE(sides_shm) <= LIMIT_SIDES_MAX,
		       "the table has room for all sides");
	memcpy(l->table.side, l->rdma ? sides_rdma : sides_shm,
	       n * sizeof(l->table.side[0]));
	l->table.n_sides = n;
}

static int plan_buffers(struct limit *l)
{
	struct limit_plan *plan = &l->plan;

	plan->into_stride = util_align_up(plan->value_len, 64);
	plan->value = l->run.values.pattern;
	plan->into = calloc(LIMIT_BATCH, plan->into_stride);
	l->keys.stride = util_align_up(plan->key_len, 8);
	l->keys.at = calloc(LIMIT_CHUNK, l->keys.stride);
	if (!plan->into || !l->keys.at)
		return err_set(FARKV_ENOMEM, "no memory for the buffers");
	return 0;
}

static int limit_init(struct limit *l, struct props *p, const char *uri)
{
	struct params *v = &l->params;
	int err = params_read(p, false, v);

	if (!err)
		err = find_uri(l, p, uri);
	if (!err)
		err = params_read_files(p, v);
	if (!err)
		err = check_params(p, v);
	if (err)
		return err;
	params_warn(p, v);
	err = workload_init(&l->run, v, false);
	if (!err)
		err = workload_init(&l->load, v, true);
	if (err)
		return err;
	workload_thread_init(&l->draw, &l->run, v->seed, 0);
	workload_thread_init(&l->draw_load, &l->load, v->seed, 0);
	workload_prepare_ops(&l->run, l->ops, DRAW);
	l->plan.records = v->insert_count;
	l->plan.seed = v->seed;
	l->plan.key_len = key_max_len(&l->run.keys);
	if (v->insert_order) /* ordered: the last key is the longest */
		l->plan.key_len = key_build(&l->run.keys,
					    v->insert_start + v->insert_count - 1,
					    l->ops[0].key);
	l->plan.value_len = (size_t)v->value_max;
	err = plan_buffers(l);
	if (!err)
		err = limit_table_init(&l->table, (size_t)v->rounds);
	if (!err)
		choose_sides(l);
	return err;
}

static void limit_fini(struct limit *l)
{
	for (size_t i = 0; i < LIMIT_SIDES_MAX; i++)
		if (l->side[i])
			l->side[i]->ops->close(l->side[i]);
	limit_table_fini(&l->table);
	free(l->keys.at);
	free(l->plan.into);
	workload_fini(&l->run);
	workload_fini(&l->load);
	params_free_files(&l->params);
}

/* ---- operations -------------------------------------------------------------- */

/* Draw the next `n` keys, at most LIMIT_CHUNK. */
static void draw(struct limit *l, struct workload_thread *from, size_t n)
{
	for (size_t i = 0; i < n; i += DRAW) {
		size_t k = UTIL_MIN(n - i, (size_t)DRAW);

		workload_next(from, l->ops, k);
		for (size_t j = 0; j < k; j++) {
			l->keys.len[i + j] = l->ops[j].key_len;
			memcpy(l->keys.at + (i + j) * l->keys.stride,
			       l->ops[j].key, l->ops[j].key_len);
		}
	}
}

/* ... with this side's first byte. */
static void draw_for(struct limit *l, const struct limit_side *s,
		     struct workload_thread *from, size_t n)
{
	draw(l, from, n);
	for (size_t i = 0; i < n && s->ops->other_keys; i++)
		l->keys.at[i * l->keys.stride] ^= s->ops->other_keys;
}

static int failed(struct limit_side *s, const char *what)
{
	const char *why = s->ops->error ? s->ops->error(s) : NULL;

	return err_set(FARKV_ESYS, "%s: %s failed%s%s", s->ops->name, what,
		       why && *why ? ": " : "", why ? why : "");
}

static size_t step_of(enum limit_test t)
{
	return t == LIMIT_GET || t == LIMIT_PUT ? 1 : LIMIT_BATCH;
}

/*
 * Do `n` operations on the drawn keys, in batches if the test has them. Stops at a failure,
 * because the side's error line is about the last one.
 */
static size_t carry_out(struct limit_side *s, enum limit_test t,
			const struct limit_keys *k, size_t n)
{
	size_t good = 0, step = step_of(t);

	if (step == 1)
		return s->ops->test[t](s, k, 0, n);
	for (size_t i = 0; i < n && good == i; i += step)
		good += s->ops->test[t](s, k, i, UTIL_MIN(step, n - i));
	return good;
}

/* Called between two chunks, as a whole cell can take minutes. */
static int check_signal(const char *while_what)
{
	return phase_was_interrupted()
		       ? err_set(FARKV_EABORTED, "interrupted while %s",
				 while_what)
		       : 0;
}

/* All records once. */
static int each_record(struct limit *l, struct limit_side *s, enum limit_test t,
		       const char *what)
{
	workload_restart(&l->load);
	for (uint64_t left = l->plan.records; left > 0;) {
		size_t n = (size_t)UTIL_MIN(left, (uint64_t)LIMIT_CHUNK);

		draw_for(l, s, &l->draw_load, n);
		if (carry_out(s, t, &l->keys, n) != n)
			return failed(s, what);
		if (check_signal(what))
			return FARKV_EABORTED;
		left -= n;
	}
	return 0;
}

static int load(struct limit *l, struct limit_side *s)
{
	return each_record(l, s,
			   s->ops->test[LIMIT_MPUT] ? LIMIT_MPUT : LIMIT_PUT,
			   "loading");
}

/* Check that the side returns what was stored. A side that does not gets no figures. */
static int check(struct limit *l, struct limit_side *s)
{
	const struct limit_plan *plan = &l->plan;

	draw_for(l, s, &l->draw, LIMIT_CHUNK);
	for (size_t i = 0; i < LIMIT_CHUNK; i++) {
		memset(plan->into, 0, plan->value_len);
		if (s->ops->test[LIMIT_GET](s, &l->keys, i, 1) != 1 ||
		    memcmp(plan->into, plan->value, plan->value_len) != 0)
			return failed(s, "the check of what was loaded");
	}
	return 0;
}

/* One side's figures of a test so far. */
struct gauge {
	uint64_t ticks; /* of the operations timed together */
	struct hist *h; /* of those timed alone */
};

/* `n` operations, timed together. */
static int measure_rate(struct limit *l, struct limit_side *s,
			enum limit_test t, uint64_t n, struct gauge *g)
{
	for (uint64_t left = n; left > 0;) {
		size_t k = (size_t)UTIL_MIN(left, (uint64_t)LIMIT_CHUNK);
		uint64_t start;
		size_t good;

		draw_for(l, s, &l->draw, k);
		start = ticks_now();
		good = carry_out(s, t, &l->keys, k);
		g->ticks += ticks_now() - start;
		if (good != k)
			return failed(s, "an operation");
		if (check_signal("measuring"))
			return FARKV_EABORTED;
		left -= k;
	}
	return 0;
}

/*
 * Time a part of the operations alone, each from its first instruction until its last load
 * has completed. Stamps that do not wait would omit what the CPU still has in flight at the
 * end, over a third of a GET.
 */
static int measure_times(struct limit *l, struct limit_side *s,
			 enum limit_test t, uint64_t n, struct gauge *g)
{
	size_t step = step_of(t);
	uint64_t part = (n + TIMED_PART - 1) / TIMED_PART;

	for (uint64_t done = 0; done < part; done += LIMIT_CHUNK) {
		size_t k = util_align_up(UTIL_MIN(part - done, (uint64_t)LIMIT_CHUNK),
					 step);

		draw_for(l, s, &l->draw, k);
		for (size_t i = 0; i < k; i += step) {
			uint64_t start = ticks_settled();
			size_t good = s->ops->test[t](s, &l->keys, i, step);

			hist_record(g->h, ticks_span_ns(start, ticks_settled()));
			if (good != step)
				return failed(s, "an operation");
		}
		if (check_signal("measuring"))
			return FARKV_EABORTED;
	}
	return 0;
}

static struct limit_cell cell_of(const struct gauge *g, uint64_t n)
{
	struct hist_summary sum;

	hist_summarize(g->h, &sum);
	return (struct limit_cell){
		.rate = (double)n * 1e9 / (double)ticks_to_ns(g->ticks),
		.p50 = (double)hist_percentile(g->h, sum.count, 50.0),
		.p99 = (double)hist_percentile(g->h, sum.count, 99.0),
	};
}

/* Slices of each side in turn until all have done a round's operations. */
static int take_turns(struct limit *l, size_t round, enum limit_test t,
		      struct gauge *gauges)
{
	uint64_t count = l->params.operation_count, n;
	size_t sides = l->table.n_sides, turn = round;
	int err = 0;

	for (uint64_t done = 0; done < count && !err; done += n, turn++) {
		n = UTIL_MIN(count - done, (uint64_t)SLICE);
		for (size_t i = 0; i < sides && !err; i++) {
			/* Vary the order, so that no side always follows the same other. */
			size_t which = (i + turn) % sides;
			struct limit_side *s = l->side[which];

			if (!s->ops->test[t])
				continue;
			err = measure_rate(l, s, t, n, &gauges[which]);
			if (!err)
				err = measure_times(l, s, t, n, &gauges[which]);
		}
	}
	return err;
}

static int run_test(struct limit *l, size_t round, enum limit_test t)
{
	struct gauge gauges[LIMIT_SIDES_MAX] = {0};
	size_t n = l->table.n_sides;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		gauges[i].h = hist_new();
		if (!gauges[i].h)
			err = err_set(FARKV_ENOMEM, "no memory for a histogram");
	}
	if (!err)
		err = take_turns(l, round, t, gauges);
	for (size_t i = 0; i < n && !err; i++)
		if (l->side[i]->ops->test[t])
			*limit_cell(&l->table, round, t, i) =
				cell_of(&gauges[i], l->params.operation_count);
	for (size_t i = 0; i < n; i++)
		hist_free(gauges[i].h);
	return err;
}

static int run_round(struct limit *l, size_t round)
{
	int err = 0;

	for (int t = 0; t < LIMIT_TESTS && !err; t++)
		err = run_test(l, round, t);
	return err;
}

/* ---- the whole run ------------------------------------------------------------ */

/*
 * True if the store's mapping here consists of huge pages. The limit uses the same kind: a
 * TLB miss costs as much as a cache miss.
 */
static bool store_is_huge(void)
{
	FILE *in = fopen("/proc/self/smaps", "re");
	bool here = false, huge = false;
	char line[512];
	uint64_t low, high, kib;

	while (in && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &low, &high) == 2)
			here = strstr(line, "memfd:farkv-data") ||
			       strstr(line, " /#");
		else if (here &&
			 (sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
			  sscanf(line, "FilePmdMapped: %" SCNu64, &kib) == 1 ||
			  sscanf(line, "Shared_Hugetlb: %" SCNu64, &kib) == 1))
			huge = huge || kib > 0;
	}
	if (in)
		fclose(in);
	return huge;
}

static int open_side(struct limit *l, size_t i)
{
	const struct limit_side_ops *ops = l->table.side[i];
	int err = ops->open(&l->plan, &l->side[i]);

	if (!err && !ops->no_records)
		err = load(l, l->side[i]);
	if (!err && !ops->no_records)
		err = check(l, l->side[i]);
	return err;
}

/* A side forgets keys whose part of the index has grown since. */
static int remind(struct limit *l, struct limit_side *s)
{
	if (!l->rdma || s->ops->no_records)
		return 0;
	return each_record(l, s, LIMIT_MGET, "looking at what was loaded");
}

/* If the limit has its own memory, open the store first, to copy its page size. */
static int open_sides(struct limit *l)
{
	int err = 0;

	if (!l->rdma) {
		err = open_side(l, 1);
		l->plan.huge_pages = store_is_huge();
	}
	for (size_t i = 0; i < l->table.n_sides && !err; i++)
		if (!l->side[i])
			err = open_side(l, i);
	for (size_t i = 0; i < l->table.n_sides && !err; i++)
		err = remind(l, l->side[i]);
	return err;
}

static void print_head(const struct limit *l, FILE *out)
{
	const struct params *v = &l->params;

	fprintf(out,
		"%" PRIu64 " records, keys of %zu bytes, values of %zu, %s; "
		"one client, medians of %" PRIu64 " %s of %" PRIu64
		" operations; %s\n",
		l->plan.records, l->plan.key_len, l->plan.value_len,
		params_dist_name(v), v->rounds,
		v->rounds == 1 ? "round" : "rounds", v->operation_count,
		l->rdma		   ? "by RDMA"
		: l->plan.huge_pages ? "pages of 2 MiB"
				     : "pages of 4 KiB");
}

int limit_run(struct props *p, const char *uri, FILE *out)
{
	struct limit *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return err_set(FARKV_ENOMEM, "no memory for the limit");
	err = limit_init(l, p, uri);
	if (!err)
		err = open_sides(l);
	for (size_t r = 0; r < l->params.rounds && !err; r++)
		err = run_round(l, r);
	if (!err) {
		print_head(l, out);
		limit_table_print(&l->table, out);
	}
	limit_fini(l);
	free(l);
	return err;
}
