/* SPDX-License-Identifier: BSD-3-Clause */
/* kvbench: the loop of a thread, with the store that does nothing, or one that refuses. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "bench/base/props.h"
#include "bench/base/ticks.h"
#include "bench/gen/values.h"
#include "bench/core/worker.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

/* A run of inserts and reads against the store that does nothing. */
struct rig {
	struct props props;
	struct params params;
	struct workload workload;
	struct worker_shared shared;
	struct db_store *store;
	struct worker *worker;
	struct measure m;
};

static void rig_up(struct rig *g, const char *const *args, size_t n, bool load)
{
	struct db_setup setup = {.props = &g->props, .threads = 1};

	memset(g, 0, sizeof(*g));
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(props_set_arg(&g->props, args[i]), 0);
	ck_assert_msg(params_read(&g->props, load, &g->params) == 0, "%s",
		      err_detail());
	ck_assert_int_eq(workload_init(&g->workload, &g->params, load), 0);
	setup.value_len = value_max_len(&g->workload.values);
	ck_assert_int_eq(db_null_ops.init(&setup, &g->store), 0);
	g->shared.params = &g->params;
	g->shared.workload = &g->workload;
	g->worker = aligned_alloc(64, util_align_up(sizeof(*g->worker), 64));
	ck_assert_ptr_nonnull(g->worker);
	memset(g->worker, 0, sizeof(*g->worker));
	g->worker->shared = &g->shared;
	workload_thread_init(&g->worker->draw, &g->workload, 1, 0);
	ck_assert_int_eq(worker_init(g->worker), 0);
	ck_assert_int_eq(db_null_ops.open(g->store, &g->worker->db), 0);
	ck_assert_int_eq(measure_init(&g->m, &g->params, load), 0);
}

static void rig_down(struct rig *g)
{
	measure_fini(&g->m);
	db_null_ops.close(g->worker->db);
	worker_fini(g->worker);
	free(g->worker);
	db_null_ops.fini(g->store);
	workload_fini(&g->workload);
	props_free(&g->props);
}

static const char *const batches[] = {"batch=1", "batch=16"};

TEST_EACH(worker_run_ended_by_time_leaves_no_gap_in_the_inserts, batches)
{
	const char *const args[] = {
		"recordcount=100", "operationcount=1000", "readproportion=0.5",
		"updateproportion=0", "insertproportion=0.5", batches[_i],
	};
	struct rig g;
	uint64_t inserts;

	ticks_init();
	rig_up(&g, args, ARRAY_SIZE(args), false);
	/* Time is up after a part of the operations that were drawn ahead. */
	g.worker->tick = (double)ticks_from_ns(NS_PER_MS);
	worker_run(g.worker, &g.m, 0,
		   ticks_now() + ticks_from_ns(5 * NS_PER_MS));
	ck_assert_uint_le(g.worker->done, 16);
	g.worker->tick = 0.0;
	worker_run(g.worker, &g.m, 1000, 0);
	inserts = measure_returns(&g.m, SERIES_INSERT, DB_OK);
	ck_assert_uint_gt(inserts, 300);
	ck_assert_uint_eq(workload_last(&g.workload), 99 + inserts);
	ck_assert_uint_eq(measure_failures(&g.m), 0);
	rig_down(&g);
}

TEST_EACH(worker_run_ends_when_time_is_up_before_an_operation_is_due, batches)
{
	const char *const args[] = {"recordcount=100", "operationcount=1000",
				    batches[_i]};
	uint64_t start;
	struct rig g;

	ticks_init();
	rig_up(&g, args, ARRAY_SIZE(args), false);
	g.worker->tick = (double)ticks_from_ns(3600 * NS_PER_SEC);
	g.worker->offset = ticks_from_ns(3600 * NS_PER_SEC);
	start = ticks_clock_ns();
	worker_run(g.worker, &g.m, 0,
		   ticks_now() + ticks_from_ns(20 * NS_PER_MS));
	ck_assert_uint_ge(ticks_clock_ns() - start, 19 * NS_PER_MS);
	ck_assert_uint_eq(g.worker->done, 0);
	rig_down(&g);
}

TEST_EACH(worker_run_leaves_no_latency_uncounted, batches)
{
	const char *const args[] = {"recordcount=100", "operationcount=1000",
				    "readmodifywriteproportion=0.3",
				    batches[_i]};
	static const enum series all[] = {SERIES_READ, SERIES_UPDATE, SERIES_RMW};
	struct rig g;

	ticks_init();
	rig_up(&g, args, ARRAY_SIZE(args), false);
	for (uint64_t n = 1; n < 40; n++) {
		worker_run(g.worker, &g.m, n, 0);
		for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
			struct hist_summary s;

			hist_summarize(g.m.hist[CLOCK_OP][all[i]][DB_OK], &s);
			ck_assert_uint_eq(s.count, measure_returns(&g.m, all[i],
								   DB_OK));
		}
	}
	rig_down(&g);
}

TEST_LOOP(ticks_become_ns_at_any_rate, 0, 5)
{
	static const double rates[] = {0.1, 1.0, 2.596, 4.0, 100.0};
	struct ticks_state was = ticks_state;
	double rate = rates[_i];

	ticks_state.ns_mul = (uint64_t)(0x1p60 / rate + 0.5);
	for (int bit = 0; bit < 60; bit++) {
		uint64_t ticks = (UINT64_C(1) << bit) + (UINT64_C(1) << bit) / 3;
		double ns = (double)ticks / rate;

		if (ticks >> 60)
			break;
		ck_assert(fabs((double)ticks_to_ns(ticks) - ns) <=
			  1.0 + ns * 1e-9);
		if (rate == 1.0) /* the clock itself: exact */
			ck_assert_uint_eq(ticks_to_ns(ticks), ticks);
	}
	ticks_state = was;
}

static enum db_status refuse(struct db *db, const char *key, size_t key_len,
			     const void *value, size_t value_len)
{
	(void)db, (void)key, (void)key_len, (void)value, (void)value_len;
	return DB_ERROR;
}

TEST(worker_run_ends_when_time_is_up_between_two_tries_of_an_insert)
{
	const char *const args[] = {
		"recordcount=100", "core_workload_insertion_retry_limit=1000",
		"core_workload_insertion_retry_interval=3600",
	};
	struct db_ops ops = db_null_ops;
	uint64_t start;
	struct rig g;

	ticks_init();
	rig_up(&g, args, ARRAY_SIZE(args), true);
	ops.insert = refuse;
	g.worker->db->ops = &ops;
	start = ticks_clock_ns();
	worker_run(g.worker, &g.m, 100,
		   ticks_now() + ticks_from_ns(20 * NS_PER_MS));
	ck_assert_uint_ge(ticks_clock_ns() - start, 19 * NS_PER_MS);
	ck_assert_uint_eq(measure_failures(&g.m), 1);
	rig_down(&g);
}

/* Every third item of a batch; all others are stored. */
static void refuse_some(struct db *db, struct db_item *items, size_t n)
{
	(void)db;
	for (size_t i = 0; i < n; i++)
		items[i].status = i % 3 ? DB_OK : DB_ERROR;
}

TEST(worker_load_in_batches_retries_failed_items)
{
	const char *const args[] = {
		"recordcount=160", "core_workload_insertion_retry_limit=2",
		"core_workload_insertion_retry_interval=0", "batch=16",
	};
	struct db_ops ops = db_null_ops;
	struct rig g;

	ticks_init();
	rig_up(&g, args, ARRAY_SIZE(args), true);
	ops.write_many = refuse_some;
	g.worker->db->ops = &ops;
	worker_run(g.worker, &g.m, 160, 0);
	ck_assert_uint_eq(measure_failures(&g.m), 60);
	ck_assert_uint_eq(measure_returns(&g.m, SERIES_INSERT, DB_OK), 160);
	ck_assert(!g.shared.stop);
	/* An item that cannot be stored ends the load, after its retries. */
	ops.insert = refuse;
	worker_run(g.worker, &g.m, 16, 0);
	ck_assert_uint_eq(measure_failures(&g.m), 60 + 6 + 2);
	ck_assert(g.shared.stop);
	rig_down(&g);
}

TEST_EACH(worker_load_keeps_going_if_told, batches)
{
	const char *const args[] = {
		"recordcount=160", batches[_i],
		"core_workload_insertion_keep_going_on_error=true",
	};
	struct db_ops ops = db_null_ops;
	struct rig g;

	ticks_init();
	rig_up(&g, args, ARRAY_SIZE(args), true);
	ops.write_many = refuse_some;
	ops.insert = refuse;
	g.worker->db->ops = &ops;
	worker_run(g.worker, &g.m, 160, 0);
	ck_assert_uint_eq(measure_failures(&g.m), _i ? 60 : 160);
	ck_assert_uint_eq(g.worker->done, 160);
	rig_down(&g);
}

TEST_SUITE("worker")
