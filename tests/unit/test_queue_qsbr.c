/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests in flight during barriers, sweeps, grants, deadlines, broken lanes, and a
 * server that is slow or has nothing left.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "client/queue.h"
#include "client/queue_turn.h"
#include "client/session_state.h"
#include "common/index/index.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/queue_rig.h"
#include "tests/rig/sweep_peer.h"

static struct block_ref refs[1u << 16];

static void wait_alert(uint32_t alert)
{
	uint64_t end = clock_now_ns() + LONG_MS * NS_PER_MS;

	while (!(qsbr_pending(kv->qsbr) & alert)) {
		ck_assert_uint_lt(clock_now_ns(), end);
		clock_sleep_ns(NS_PER_MS / 10);
	}
	clock_sleep_ns(5 * NS_PER_MS); /* for a control thread that cannot wait */
}

/*
 * ---- questions of the server
 * -----------------------------------------------------------
 */

TEST_GROUP(.setup = setup_stepping, .teardown = teardown, .timeout_s = LONG_MS / 1000.0 * 3);

/*
 * Answered when all requests in flight are over, though new ones keep coming; these start
 * after the answer.
 */
TEST(barrier_waits_for_what_is_in_flight)
{
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_PUT, 1, "k", "w");
	send_epoch(MSG_BARRIER, 1);
	wait_alert(PENDING_DROP);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 0);
	submit(FARKV_REQUEST_GET, 2, "k", NULL);
	ck_assert_uint_eq(lane->waiting, 2);
	lane->still = true;
	(void)take();
	ck_assert_uint_eq(lane->waiting, 2);
	clock_sleep_ns(5 * NS_PER_MS);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 0);
	lane->still = false;
	reap();
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	assert_value("k", "w");
}

TEST(barrier_drops_the_directory_between_requests)
{
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	send_epoch(MSG_BARRIER, 1);
	wait_alert(PENDING_DROP);
	ck_assert_uint_ne(kv->conn.index->dirword, 0);
	/* During a request it must stay as it is. */
	(void)take();
	ck_assert_uint_ne(qsbr_pending(kv->qsbr) & PENDING_DROP, 0);
	reap();
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr), 0);
	reap();
	assert_got(1, "v");
}

TEST_GROUP(.timeout_s = LONG_MS / 1000.0 * 3);

/* A request that nobody polls delays the answer; one that is over does not. */
TEST(barrier_does_not_wait_for_completions_that_nobody_takes)
{
	setup();
	submit(FARKV_REQUEST_PUT, 0, "k", "v");
	ck_assert_int_eq(farkv_poll(kv, NULL, 0), 0);
	ck_assert_int_eq(farkv_wait(kv, NULL, 0, LONG_MS), 0);
	ck_assert_uint_eq(farkv_in_flight(kv), 1);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(take(), 1);
	teardown();
}

TEST_GROUP(.setup = setup_stepping, .teardown = teardown, .timeout_s = LONG_MS / 1000.0 * 3);

/* Blocks of requests are in no list: BEGIN is answered after they end. */
TEST(sweep_begins_after_requests_in_flight)
{
	uint32_t n;

	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	submit(FARKV_REQUEST_PUT, 0, "k", "w");
	send_epoch(MSG_SWEEP_BEGIN, 1);
	wait_alert(PENDING_SWEEP);
	submit(FARKV_REQUEST_PUT, 1, "l", "x");
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
	reap();
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 1));
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_eq(claims(1, refs, n), n);
}

TEST(reclaim_waits_for_what_is_in_flight)
{
	/* So many blocks are left that none are asked for in advance. */
	put_n(0, 8);
	no_grant_out();
	submit(FARKV_REQUEST_PUT, 0, "k", "w");
	send_epoch(MSG_RECLAIM, 1 << 20);
	wait_alert(PENDING_RECLAIM);
	ck_assert_uint_eq(srv.returned, 0);
	reap();
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_uint_eq(srv.granted - srv.returned, 9);
}

/*
 * ---- waiting requests
 * ------------------------------------------------------------------
 */

static unsigned yields;
int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	yields++;
	return __real_sched_yield();
}

TEST(late_blocks_serve_waiting_requests)
{
	yields = 0;
	submit(FARKV_REQUEST_GET, 3, "d", NULL);
	for (int i = 0; i < 100; i++)
		(void)take();
	ck_assert_uint_eq(yields, 0);
	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	submit(FARKV_REQUEST_PUT, 1, "b", "2");
	submit(FARKV_REQUEST_GET, 2, "c", NULL);
	for (int i = 0; i < 100; i++)
		(void)take();
	ENDED(2, FARKV_ENOTFOUND); /* though others wait */
	ck_assert_uint_eq(farkv_in_flight(kv), 2);
	/* With pauses; otherwise the server might not get the CPU. */
	ck_assert_uint_ge(yields, 2);
	ck_assert_uint_lt(yields, 20);
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	/* It holds nothing, so barriers are answered. */
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	fake_server_release(&srv);
	fake_server_set(&srv, hold_grants, false);
	wait_all();
	ENDED(0, 0);
	ENDED(1, 0);
	assert_value("a", "1");
	assert_value("b", "2");
}

/* A submission takes the grants, and the request that waits for them goes on. */
TEST(blocks_found_by_a_submission_serve_waiting_requests)
{
	uint64_t start = clock_now_ns();

	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	for (int i = 0; i < 100; i++)
		(void)take();
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	wait_alert(PENDING_GRANTS);
	submit(FARKV_REQUEST_GET, 1, "c", NULL);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr) & PENDING_GRANTS, 0);
	wait_all();
	ENDED(0, 0);
	ENDED(1, FARKV_ENOTFOUND);
	ck_assert_uint_lt(clock_now_ns() - start, LONG_MS / 2 * NS_PER_MS);
}

TEST(server_without_memory_ends_waiting_requests)
{
	fake_server_set(&srv, grant_blocks, 0);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	submit(FARKV_REQUEST_DELETE, 1, "a", NULL);
	wait_all();
	ENDED(0, FARKV_ENOSPC);
	ENDED(1, FARKV_ENOTFOUND);
	/* A refusal is not final. */
	fake_server_set(&srv, grant_blocks, 1000);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	wait_all();
	ENDED(0, 0);
}

TEST_LOOP(full_window_is_reported_without_waiting, 0, 2)
{
	char key[WINDOW_SLOTS + 2][16];
	unsigned hints;

	for (unsigned i = 0; i < WINDOW_SLOTS + 2; i++)
		crowded_key(key[i]);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		ck_assert_int_eq(put(key[i], "v"), 0);
	hints = fake_server_count(&srv, MSG_HINT);
	fake_server_set(&srv, hint_status, _i ? MSG_HINT_FULL : MSG_HINT_NOSPC);
	submit(FARKV_REQUEST_PUT, 0, key[WINDOW_SLOTS], "v");
	submit(FARKV_REQUEST_PUT, 1, key[WINDOW_SLOTS + 1], "v");
	wait_all();
	ENDED(0, _i ? FARKV_EINDEXFULL : FARKV_ENOSPC);
	ENDED(1, _i ? FARKV_EINDEXFULL : FARKV_ENOSPC);
	ck_assert_uint_gt(fake_server_count(&srv, MSG_HINT), hints);
	/* While the server works on it, and when it does not answer. */
	fake_server_set(&srv, hint_status, MSG_HINT_WORKING);
	set_timeout_ms(30);
	submit(FARKV_REQUEST_PUT, 2, key[WINDOW_SLOTS], "v");
	wait_all();
	ENDED(2, FARKV_ETIMEDOUT);
	fake_server_set(&srv, ignore_requests, true);
	submit(FARKV_REQUEST_PUT, 3, key[WINDOW_SLOTS], "v");
	submit(FARKV_REQUEST_PUT, 4, key[0], "w");
	wait_all();
	ENDED(3, FARKV_ETIMEDOUT);
	ENDED(4, 0);
	fake_server_set(&srv, ignore_requests, false);
	set_timeout_ms(LONG_MS);
	assert_value(key[0], "w");
}

/* ---- broken lanes ---------------------------------------------------------------------- */

/* In any state: each is done once, on a connection of its own. */
TEST_LOOP(broken_lane_is_replaced_and_each_request_done_once, 0, 12)
{
	static char text[16][8];

	ck_assert_int_eq(put("k", "v"), 0);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(text[i], sizeof(text[i]), "key%u", i);
		submit(FARKV_REQUEST_ADD, i, text[i], text[i]);
		submit(FARKV_REQUEST_GET, 8 + i, "k", NULL);
	}
	for (int i = 0; i < _i; i++)
		(void)take();
	xport_break(&lane->lane, FARKV_EDISCONNECTED);
	submit(FARKV_REQUEST_GET, 16, "k", NULL);
	wait_all();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	for (unsigned i = 0; i < 8; i++) {
		ENDED(i, 0);
		assert_value(text[i], text[i]);
	}
	ENDED(16, 0);
}

/* Of the first completion with a value. */
static const void *held_value(void)
{
	struct request *q = kv->queue->done.first;

	while (q && !q->op.held)
		q = q->next;
	ck_assert_ptr_nonnull(q);
	return q->op.held;
}

/* Untaken values survive the connection, and later calls do not change them. */
TEST_LOOP(untaken_values_outlive_their_connection, 0, 2)
{
	char into[8] = "", small[8] = "";
	const void *held;
	struct farkv_request r[] = {{.tag = 2, .key = "k", .key_len = 1, .buf = into,
				     .buf_len = sizeof(into)},
				    {.tag = 3, .key = "k", .key_len = 1, .buf = small}};

	ck_assert_int_eq(put("k", "v"), 0);
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_GET, 1, "l", NULL);
	done[2].result = done[3].result = 1;
	ck_assert_int_eq(farkv_submit(kv, r, 2), 2);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(farkv_poll(kv, NULL, 0), 0);
	if (_i) {
		fake_server_hangup(&srv);
		wait_broken();
	} else {
		xport_break(&lane->lane, FARKV_EDISCONNECTED);
	}
	/* A synchronous call makes the new connection; the next one completes them. */
	ck_assert_int_eq(put("m", "w"), 0);
	ck_assert_int_eq(put("l", "w"), 0);
	ck_assert_int_eq(put("k", "other"), 0);
	ck_assert(!kv->queued && !kv->queue->fresh.first && kv->queue->done.first);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	/* Memory of the lane is freed, and may look right after that. */
	for (struct request *q = kv->queue->done.first; q; q = q->next)
		if (!q->op.result)
			ck_assert_ptr_eq(q->op.view.value, q->buf ? q->buf : q->op.held);
	/* The loss of another connection leaves them in place. */
	held = held_value();
	fake_server_hangup(&srv);
	wait_broken();
	ck_assert_int_eq(put("m", "x"), 0);
	ck_assert_ptr_eq(held_value(), held);
	reap();
	assert_got(0, "v");
	ENDED(1, FARKV_ENOTFOUND);
	ENDED(2, 0);
	ck_assert_str_eq(into, "v");
	ck_assert_uint_eq(done[2].value.len, 1);
	ENDED(3, FARKV_ETOOSMALL);
	ck_assert_uint_eq(done[3].value.len, 1);
	ck_assert_ptr_null(done[3].value.data);
	ck_assert_uint_eq(done[3].version, 0);
	ck_assert_int_eq(small[0], 0);
	assert_value("k", "other");
}

/*
 * Requests begun for another region are not continued: neither its content nor its hash
 * is valid.
 */
TEST_LOOP(restarted_server_ends_requests_in_flight, 0, 2)
{
	char out[64];

	ck_assert_int_eq(put("k", "v"), 0);
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_PUT, 1, "l", "w");
	for (int i = 0; i < 10 && _i == 0; i++)
		ck_assert_int_eq(farkv_poll(kv, NULL, 0), 0);
	srv.sb.region_id[0]++;
	fake_server_superblock(&srv, true);
	fake_server_hangup(&srv);
	wait_broken();
	if (_i == 0) {
		ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
		assert_detail("started again");
		submit(FARKV_REQUEST_GET, 2, "k", NULL);
	}
	reap();
	/* Completed requests stay complete. */
	ENDED(0, _i ? FARKV_EDISCONNECTED : 0);
	ENDED(1, _i ? FARKV_EDISCONNECTED : 0);
	if (_i == 0) {
		assert_got(0, "v");
		assert_got(2, "v");
	}
	submit(FARKV_REQUEST_GET, 3, "k", NULL);
	reap();
	assert_got(3, "v");
}

/*
 * ... nor requests submitted for it and not begun, also beside one that was begun;
 * whether the server was killed, or stopped with a BYE.
 */
TEST_LOOP(restarted_server_ends_requests_not_begun, 0, 2)
{
	const struct msg end = {.type = MSG_SHUTDOWN,
				.refuse = {.reason = MSG_REASON_SHUTDOWN,
					   .text = (const uint8_t *)"bye", .text_len = 3}};

	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	(void)take();
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_set(&srv, hold_grants, false);
	srv.sb.region_id[0]++;
	fake_server_superblock(&srv, true);
	if (_i)
		fake_server_send(&srv, &end, NULL);
	fake_server_hangup(&srv);
	wait_broken();
	submit(FARKV_REQUEST_PUT, 1, "b", "2");
	reap();
	ENDED(0, FARKV_EDISCONNECTED);
	ENDED(1, FARKV_EDISCONNECTED);
	submit(FARKV_REQUEST_GET, 2, "b", NULL);
	reap();
	ENDED(2, FARKV_ENOTFOUND);
}

/* No new connection came in time, but one comes before the completion is taken. */
TEST_LOOP(request_ended_by_a_lost_connection_reports_no_lack_of_blocks, 0, 2)
{
	static char large[5000];
	struct farkv_value v;

	memset(large, 'x', sizeof(large) - 1);
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	fake_server_set(&srv, ignore_requests, true);
	if (_i)
		kv->conn.index->versions.counter = UINT32_MAX - 10;
	set_timeout_ms(200);
	submit(FARKV_REQUEST_PUT, 0, "a", _i ? "1" : large);
	(void)take();
	fake_server_set(&srv, hello, FAKE_SILENT);
	fake_server_hangup(&srv);
	wait_broken();
	ck_assert_int_ne(farkv_get(kv, "k", 1, &v), 0);
	fake_server_set(&srv, hello, FAKE_WELCOME);
	fake_server_set(&srv, ignore_requests, false);
	set_timeout_ms(LONG_MS);
	while (farkv_get(kv, "k", 1, &v))
		clock_sleep_ns(10 * NS_PER_MS);
	wait_all();
	ENDED(0, FARKV_ETIMEDOUT);
	assert_detail("the deadline passed");
}

/* The request for blocks discovers that it broke. */
TEST_LOOP(session_that_breaks_during_a_block_request_is_replaced, 0, 5)
{
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	fake_server_hangup(&srv);
	wait_all();
	ENDED(0, 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	assert_value("a", "1");
}

/* The server is gone: each request reports it, and no poll hangs. */
TEST(server_that_is_gone_ends_requests)
{
	struct farkv_completion c;

	ck_assert_int_eq(put("k", "v"), 0);
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_PUT, 1, "k", "w");
	fake_server_fini(&srv);
	wait_broken();
	wait_all();
	ENDED(0, FARKV_EDISCONNECTED);
	/* Its compare-and-swap may have been in flight. */
	ck_assert(done[1].result == FARKV_EDISCONNECTED ||
		  done[1].result == FARKV_EMAYBE);
	submit(FARKV_REQUEST_GET, 2, "k", NULL);
	wait_all();
	ENDED(2, FARKV_EDISCONNECTED);
	ck_assert_int_eq(farkv_poll(kv, &c, 1), 0);
	/* For teardown() */
	farkv_close(kv);
	kv = NULL;
	fake_server_init(&srv, 0);
	fake_server_start(&srv);
}

/* A silent card: the first deadline breaks the lane for all. */
TEST(silent_lane_is_broken_at_the_first_deadline)
{
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	set_timeout_ms(20);
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_PUT, 1, "k", "w");
	set_timeout_ms(LONG_MS);
	submit(FARKV_REQUEST_GET, 2, "k", NULL);
	lane->still = true;
	wait_all();
	ENDED(0, FARKV_ETIMEDOUT);
	ck_assert(done[1].result == FARKV_ETIMEDOUT ||
		  done[1].result == FARKV_EMAYBE);
	ck_assert_int_eq(done[2].result, 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
}

TEST_SUITE("queue_qsbr")
