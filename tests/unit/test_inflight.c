/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench's open loop with requests in flight, with a store that completes them in the
 * time and order that the case chooses: arrivals go on during a stall, a full queue is
 * counted, every operation is measured once from its due time.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "bench/core/inflight.h"
#include "bench/core/worker.h"
#include "bench/base/ticks.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

#define GAP_NS UINT64_C(50000)
#define DEPTH_MAX 256
#define KEYS_MAX 1024

/* ---- a store ------------------------------------------------------------------------ */

struct asked {
	struct db_request r;
	char key[KEY_CAP];
};

/* A record with the value that was written last. */
struct stored {
	char key[KEY_CAP];
	size_t key_len;
	struct value_buf first; /* what a load wrote */
	struct db_value value;
};

struct fake {
	struct db base;
	const struct value_spec *values;
	char *found; /* the values of a poll's reads */
	size_t stride;
	struct stored stored[KEYS_MAX];
	unsigned n_stored;
	struct asked queue[DEPTH_MAX];
	unsigned n, most, submitted;
	/* Chosen by the case. */
	unsigned hold;        /* nothing completes before this many are in flight */
	uint64_t patience;    /* ... or this stamp */
	uint64_t hold_until;  /* ... nor before the second poll after this stamp */
	unsigned refuse_each; /* every n-th request is refused */
	unsigned lose_at;     /* the session is lost with this many in flight */
	_Atomic bool *stop;   /* set when `hold` is reached */
	unsigned stuck_at;    /* this submission and the next return at these stamps */
	uint64_t stuck[2];
	enum db_status reads; /* result of every read */
	bool keeps_first;     /* writes are acknowledged and lost */
	const char *const *whys; /* of a poll's completions, as many as it gives */
};

static enum db_status fake_submit(struct db *db, const struct db_request *r)
{
	struct fake *f = (struct fake *)db;
	struct asked *a = &f->queue[f->n];

	f->submitted++;
	if (f->stuck_at && f->submitted - f->stuck_at < 2)
		while ((int64_t)(f->stuck[f->submitted - f->stuck_at] - ticks_now()) > 0)
			;
	if (f->refuse_each && f->submitted % f->refuse_each == 0)
		return DB_BAD_REQUEST;
	ck_assert_uint_lt(f->n, DEPTH_MAX);
	a->r = *r;
	memcpy(a->key, r->key, r->key_len);
	f->n++;
	f->most = UTIL_MAX(f->most, f->n);
	return DB_OK;
}

static bool holds(struct fake *f)
{
	/* A worker that waited for completions would never submit this many. */
	if (f->hold && f->n < f->hold &&
	    (int64_t)(f->patience - ticks_now()) > 0)
		return true;
	if (f->hold && f->stop)
		*f->stop = true;
	f->hold = 0;
	if (!f->hold_until || (int64_t)(f->hold_until - ticks_now()) > 0)
		return f->hold_until != 0;
	f->hold_until = 0;
	return true;
}

/* Every key has a value: at first that of a load. */
static struct stored *find(struct fake *f, const struct asked *a)
{
	struct stored *s = f->stored;

	for (; s < f->stored + f->n_stored; s++)
		if (s->key_len == a->r.key_len &&
		    !memcmp(s->key, a->key, s->key_len))
			return s;
	ck_assert_uint_lt(f->n_stored++, KEYS_MAX);
	memcpy(s->key, a->key, a->r.key_len);
	s->key_len = a->r.key_len;
	s->first.at = malloc(f->stride);
	s->value = value_stamp(f->values, &s->first,
			       value_hash(s->key, s->key_len), 0,
			       value_max_len(f->values));
	return s;
}

/* A write is checked when it ends, and later reads return it. */
static void finish(struct fake *f, struct asked *a, char *found,
		   struct db_completion *c)
{
	struct stored *s = find(f, a);

	*c = (struct db_completion){.tag = a->r.tag, .status = DB_OK};
	ck_assert_mem_eq(a->key, a->r.key, a->r.key_len);
	if (!a->r.write) {
		c->status = f->reads;
		memcpy(found, s->value.data, s->value.len);
		c->value = (struct db_value){found, s->value.len};
		return;
	}
	ck_assert_int_eq(value_check(f->values, value_hash(s->key, s->key_len),
				     0, &a->r.value),
			 VALUE_GOOD);
	if (f->keeps_first)
		return;
	memcpy(s->first.at, a->r.value.data, a->r.value.len);
	s->value = (struct db_value){s->first.at, a->r.value.len};
}

/* In reverse order. */
static enum db_status fake_poll(struct db *db, struct db_completion *out,
				size_t *n_out)
{
	struct fake *f = (struct fake *)db;

	*n_out = 0;
	if (f->lose_at && f->n >= f->lose_at)
		return DB_SERVICE_UNAVAILABLE;
	if (holds(f))
		return DB_OK;
	for (size_t i = 0; i < DB_POLL_MAX && f->n; i++) {
		f->n--;
		finish(f, &f->queue[f->n], f->found + i * f->stride, &out[i]);
		if (f->whys)
			out[i].why = f->whys[i];
		*n_out = i + 1;
	}
	return DB_OK;
}

static const char *fake_error(struct db *db)
{
	(void)db;
	return "no reason";
}

static const struct db_ops fake_ops = {
	.name = "fake",
	.submit = fake_submit,
	.poll = fake_poll,
	.error = fake_error,
};

/* ---- a worker ----------------------------------------------------------------------- */

struct rig {
	struct props props;
	struct params params;
	struct workload workload;
	struct worker_shared shared;
	struct worker *worker;
	struct measure m;
	struct fake fake;
	uint64_t start;
};

static struct rig g;

static void up(const char *const *args, size_t n, bool load)
{
	static const char *const all[] = {
		"recordcount=100", "operationcount=1000", "openloop=true",
		"target=20000", "dataintegrity=true", "fieldcount=2",
	};

	memset(&g, 0, sizeof(g));
	ticks_init();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		ck_assert_int_eq(props_set_arg(&g.props, all[i]), 0);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(props_set_arg(&g.props, args[i]), 0);
	ck_assert_msg(params_read(&g.props, load, &g.params) == 0, "%s",
		      err_detail());
	ck_assert_int_eq(workload_init(&g.workload, &g.params, load), 0);
	g.shared.params = &g.params;
	g.shared.workload = &g.workload;
	g.worker = aligned_alloc(64, util_align_up(sizeof(*g.worker), 64));
	ck_assert_ptr_nonnull(g.worker);
	memset(g.worker, 0, sizeof(*g.worker));
	g.worker->shared = &g.shared;
	workload_thread_init(&g.worker->draw, &g.workload, 1, 0);
	ck_assert_int_eq(worker_init(g.worker), 0);
	g.fake.base.ops = &fake_ops;
	g.fake.patience = ticks_now() + ticks_from_ns(3 * NS_PER_SEC);
	g.fake.values = &g.workload.values;
	g.fake.stride = g.worker->value_stride;
	g.fake.found = malloc(DB_POLL_MAX * g.fake.stride);
	g.worker->db = &g.fake.base;
	ck_assert_int_eq(inflight_init(g.worker), 0);
	ck_assert_ptr_nonnull(g.worker->inflight);
	ck_assert_int_eq(measure_init(&g.m, &g.params, load), 0);
	arrivals_init(&g.shared.arrivals, (double)ticks_from_ns(GAP_NS), false);
}

static void run(uint64_t arrivals)
{
	g.start = ticks_now();
	arrivals_begin(&g.shared.arrivals, g.start, arrivals);
	worker_run(g.worker, &g.m, 0, 0);
	ck_assert_uint_eq(g.fake.n, 0);
}

static void down(void)
{
	measure_fini(&g.m);
	worker_fini(g.worker);
	free(g.worker);
	free(g.fake.found);
	for (unsigned i = 0; i < g.fake.n_stored; i++)
		free(g.fake.stored[i].first.at);
	workload_fini(&g.workload);
	props_free(&g.props);
}

static uint64_t count_of(enum series s, enum clock_kind c)
{
	struct hist_summary h;

	hist_summarize(g.m.hist[c][s][DB_OK], &h);
	return h.count;
}

static uint64_t percentile_ns(enum series s, enum clock_kind c, double p)
{
	return hist_percentile(g.m.hist[c][s][DB_OK], count_of(s, c), p);
}

/* ---- cases -------------------------------------------------------------------------- */

TEST(arrivals_are_submitted_while_none_is_complete)
{
	up(NULL, 0, false);
	g.fake.hold = 50;
	run(1000);
	ck_assert_uint_ge(g.fake.most, 50);
	ck_assert_uint_eq(g.m.in_flight_most, g.fake.most);
	ck_assert_uint_eq(g.m.late_full, 0);
	ck_assert_uint_eq(g.worker->done, 1000);
	ck_assert_uint_eq(count_of(SERIES_QUEUE, CLOCK_OP), 1000);
	ck_assert_uint_eq(measure_failures(&g.m), 0);
	/* The schedule is kept: the last is due 999 gaps after the first. */
	ck_assert_uint_ge(ticks_span_ns(g.start, ticks_now()),
			  999 * GAP_NS * 99 / 100);
	/* The first completes after the 50th arrival; plain latency shows it too. */
	ck_assert_uint_ge(percentile_ns(SERIES_READ, CLOCK_OP, 100),
			  49 * GAP_NS * 99 / 100);
	down();
}

TEST(arrivals_at_a_full_queue_wait_and_are_counted)
{
	static const char *const args[] = {"queuedepth=8"};

	up(args, 1, false);
	/* Nothing ends before the 600th is due. */
	g.fake.hold_until = ticks_now() + ticks_from_ns(600 * GAP_NS);
	run(1000);
	ck_assert_uint_eq(g.fake.most, 8);
	ck_assert_uint_eq(g.m.in_flight_most, 8);
	ck_assert_uint_eq(g.worker->done, 1000);
	/* 8 were sent in time; a little time passes between two clock readings. */
	ck_assert_uint_ge(g.m.late_full, 580);
	ck_assert_uint_le(g.m.late_full, 992);
	ck_assert_uint_ge(percentile_ns(SERIES_QUEUE, CLOCK_OP, 100),
			  580 * GAP_NS);
	/* 500 of them end more than 100 gaps late. */
	ck_assert_uint_ge(percentile_ns(SERIES_READ, CLOCK_INTENDED, 60),
			  90 * GAP_NS);
	ck_assert_uint_eq(measure_failures(&g.m), 0);
	down();
}

static const char *const updates[] = {"update=replace", "update=field"};

TEST_EACH(operations_of_all_kinds_are_measured_once, updates)
{
	const char *const args[] = {
		"readproportion=0.3", "updateproportion=0.2",
		"insertproportion=0.2", "readmodifywriteproportion=0.3",
		"requestdistribution=latest", updates[_i],
	};
	uint64_t reads, writes, inserts, both;

	up(args, ARRAY_SIZE(args), false);
	g.fake.hold = 40;
	run(2000);
	reads = measure_returns(&g.m, SERIES_READ, DB_OK);
	writes = measure_returns(&g.m, SERIES_UPDATE, DB_OK);
	inserts = measure_returns(&g.m, SERIES_INSERT, DB_OK);
	both = measure_returns(&g.m, SERIES_RMW, DB_OK);
	ck_assert_uint_gt(both, 400);
	ck_assert_uint_gt(writes, both + 200);
	ck_assert_uint_gt(inserts, 200);
	ck_assert_uint_eq(reads + (writes - both) + inserts, 2000);
	ck_assert_uint_eq(g.worker->done, 2000);
	ck_assert_uint_eq(measure_returns(&g.m, SERIES_VERIFY, DB_OK), reads);
	ck_assert_uint_eq(g.fake.submitted,
			  reads + inserts + (_i ? 2 : 1) * writes);
	ck_assert_uint_eq(workload_last(&g.workload), 99 + inserts);
	ck_assert_uint_eq(measure_failures(&g.m), 0);
	/* Its parts lie within a read-modify-write, both by both clocks. */
	for (int c = 0; c < CLOCK_KINDS; c++) {
		ck_assert_uint_eq(count_of(SERIES_RMW, c), both);
		ck_assert_uint_ge(percentile_ns(SERIES_RMW, c, 100),
				  percentile_ns(SERIES_UPDATE, c, 1));
	}
	down();
}

TEST(store_that_loses_acknowledged_writes_is_told)
{
	static const char *const args[] = {
		"readproportion=0.5", "updateproportion=0.5", "queuedepth=2",
		"recordcount=10",
	};

	up(args, ARRAY_SIZE(args), false);
	g.fake.keeps_first = true;
	run(1000);
	ck_assert_uint_gt(measure_returns(&g.m, SERIES_VERIFY,
					  DB_UNEXPECTED_STATE), 100);
	ck_assert_ptr_nonnull(strstr(g.shared.failure, "older than an"));
	down();
}

TEST(load_takes_its_numbers_in_order)
{
	up(NULL, 0, true);
	g.fake.hold = 30;
	run(100);
	ck_assert_uint_eq(measure_returns(&g.m, SERIES_INSERT, DB_OK), 100);
	ck_assert_uint_eq(g.workload.load_next, 100);
	down();
}

TEST(failures_are_counted_by_status)
{
	static const char *const args[] = {
		"readproportion=0.5", "updateproportion=0",
		"readmodifywriteproportion=0.5",
	};
	uint64_t refused;

	up(args, ARRAY_SIZE(args), false);
	g.fake.reads = DB_NOT_FOUND;
	g.fake.refuse_each = 3;
	run(900);
	refused = measure_returns(&g.m, SERIES_READ, DB_BAD_REQUEST);
	ck_assert_uint_eq(refused, 300);
	ck_assert_uint_eq(measure_returns(&g.m, SERIES_READ, DB_NOT_FOUND),
			  600);
	/* No write follows a read that failed. */
	ck_assert_uint_eq(g.fake.submitted, 900);
	ck_assert_uint_eq(g.worker->done, 900);
	ck_assert_uint_gt(measure_returns(&g.m, SERIES_RMW, DB_NOT_FOUND), 200);
	ck_assert_ptr_nonnull(strstr(g.shared.failure, "READ user"));
	down();
}

/* A store's last error is that of the last completion of a poll. */
TEST(first_failure_has_its_own_reason)
{
	static const char *const args[] = {"readproportion=1",
					   "updateproportion=0"};
	static const char *const whys[DB_POLL_MAX] = {"that of the first",
						      "that of the second"};

	up(args, ARRAY_SIZE(args), false);
	g.fake.hold = 2;
	g.fake.reads = DB_ERROR;
	g.fake.whys = whys;
	run(100);
	ck_assert_msg(strstr(g.shared.failure, ": that of the first"), "%s",
		      g.shared.failure);
	down();
}

TEST(lost_session_ends_all_requests)
{
	static const char *const args[] = {"readproportion=1",
					   "updateproportion=0"};

	up(args, ARRAY_SIZE(args), false);
	g.fake.hold = 50;
	g.fake.lose_at = 10;
	g.start = ticks_now();
	arrivals_begin(&g.shared.arrivals, g.start, 1000);
	worker_run(g.worker, &g.m, 0, 0);
	ck_assert(g.shared.stop);
	ck_assert_uint_ge(g.fake.n, 10);
	/* Each is one failure, though its value could not be checked either. */
	ck_assert_uint_eq(measure_failures(&g.m), g.worker->done);
	ck_assert_uint_eq(measure_returns(&g.m, SERIES_READ,
					  DB_SERVICE_UNAVAILABLE),
			  g.fake.n);
	down();
}

TEST(stop_waits_for_requests_in_flight)
{
	up(NULL, 0, false);
	g.fake.hold = 20;
	g.fake.stop = &g.shared.stop;
	g.fake.hold_until = ticks_now() + ticks_from_ns(20 * NS_PER_MS);
	run(100000);
	ck_assert_uint_ge(g.worker->done, 20);
	ck_assert_uint_lt(g.worker->done, 100000);
	ck_assert_uint_eq(g.worker->done, g.fake.submitted);
	down();
}

/* Several are due when the time limit passes, in the middle of those begun together. */
TEST(arrivals_after_the_time_limit_are_not_begun)
{
	uint64_t until;

	up(NULL, 0, false);
	g.start = ticks_now();
	until = g.start + ticks_from_ns(100 * GAP_NS);
	g.fake.stuck_at = 95;
	g.fake.stuck[0] = until - ticks_from_ns(GAP_NS);
	g.fake.stuck[1] = until + ticks_from_ns(30 * GAP_NS);
	arrivals_begin(&g.shared.arrivals, g.start, 1000);
	worker_run(g.worker, &g.m, 0, until);
	ck_assert_uint_ge(g.fake.submitted, 1);
	ck_assert_uint_le(g.fake.submitted, 101);
	ck_assert_uint_eq(g.worker->done, g.fake.submitted);
	down();
}

TEST(queue_is_used_with_depth_open_loop_and_support_only)
{
	struct params p = {.open_loop = true, .queue_depth = 8};
	struct db_ops calls = {.name = "calls"};

	ck_assert(inflight_used(&p, &fake_ops));
	ck_assert(!inflight_used(&p, &calls));
	p.queue_depth = 0;
	ck_assert(!inflight_used(&p, &fake_ops));
	p.queue_depth = 8;
	p.open_loop = false;
	ck_assert(!inflight_used(&p, &fake_ops));
}

TEST_SUITE("inflight")
