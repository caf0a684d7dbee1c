/* SPDX-License-Identifier: BSD-3-Clause */
/* Submitted requests: their results and when they complete. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/index/index.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/queue_rig.h"
#include "tests/rig/sweep_peer.h"

/* Both ways: posted by the poll, and by the submission. */
static void (*const setups[])(void) = {setup, setup_stepping};

/* ---- results ------------------------------------------------------------------------- */

static const char *large_text(void)
{
	static char text[3000];

	memset(text, 'x', sizeof(text) - 1);
	return text;
}

static void delete_cas_ends(const char *key, uint64_t expected, int want)
{
	struct farkv_request req = request(FARKV_REQUEST_DELETE_CAS, 15, key, NULL);

	req.expected = expected;
	done[15].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &req, 1), 1);
	wait_all();
	ENDED(15, want);
	ck_assert_uint_eq(done[15].version, 0);
}

TEST_GROUP(.timeout_s = LONG_MS / 1000.0 * 3);

TEST_LOOP(each_kind_returns_what_its_function_returns, 0, 2)
{
	struct farkv_request cas;

	setups[_i]();
	submit(FARKV_REQUEST_PUT, 0, "a", "one");
	submit(FARKV_REQUEST_ADD, 1, "b", "two");
	submit(FARKV_REQUEST_REPLACE, 2, "c", "three");
	submit(FARKV_REQUEST_DELETE, 3, "d", NULL);
	submit(FARKV_REQUEST_GET, 4, "e", NULL);
	submit(FARKV_REQUEST_EXISTS, 13, "e", NULL);
	ck_assert_uint_eq(farkv_in_flight(kv), 6);
	wait_all();
	ENDED(13, FARKV_ENOTFOUND);
	ENDED(0, 0);
	ENDED(1, 0);
	ENDED(2, FARKV_ENOTFOUND);
	ENDED(3, FARKV_ENOTFOUND);
	ENDED(4, FARKV_ENOTFOUND);
	submit(FARKV_REQUEST_GET, 5, "a", NULL);
	submit(FARKV_REQUEST_ADD, 6, "b", "again");
	submit(FARKV_REQUEST_EXISTS, 14, "a", NULL);
	wait_all();
	ENDED(14, 0);
	ck_assert_uint_eq(done[14].kind, FARKV_REQUEST_EXISTS);
	ck_assert_uint_eq(done[14].version, 0);
	ck_assert_ptr_null(done[14].value.data);
	assert_got(5, "one");
	ck_assert_uint_eq(done[5].version, done[0].version);
	ck_assert_uint_eq(done[5].value.version, done[0].version);
	ck_assert_uint_eq(done[5].kind, FARKV_REQUEST_GET);
	ck_assert_uint_eq(done[6].kind, FARKV_REQUEST_ADD);
	ENDED(6, FARKV_EEXISTS);
	cas = request(FARKV_REQUEST_CAS, 7, "a", "four");
	cas.expected = done[0].version + 1;
	done[7].result = done[8].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &cas, 1), 1);
	wait_all();
	ENDED(7, FARKV_EVERSION);
	cas.tag = 8;
	cas.expected = done[0].version;
	ck_assert_int_eq(farkv_submit(kv, &cas, 1), 1);
	submit(FARKV_REQUEST_REPLACE, 9, "b", "");
	submit(FARKV_REQUEST_DELETE, 10, "b", NULL);
	wait_all();
	ENDED(8, 0);
	ENDED(10, 0);
	assert_value("a", "four");
	delete_cas_ends("a", done[0].version, FARKV_EVERSION);
	delete_cas_ends("a", done[8].version, 0);
	delete_cas_ends("a", done[8].version, FARKV_ENOTFOUND);
	/* Deleting a large value leaves a tombstone with a version of its own. */
	submit(FARKV_REQUEST_PUT, 11, "c", large_text());
	wait_all();
	submit(FARKV_REQUEST_DELETE, 12, "c", NULL);
	wait_all();
	ENDED(12, 0);
	ck_assert_uint_eq(done[12].version, 0);
	teardown();
}

/* Values stay valid until the next poll, whatever is submitted meanwhile. */
TEST_LOOP(values_stay_valid_over_submissions, 0, 2)
{
	char key[8][8];

	setups[_i]();
	kv->queue_depth = 8;
	for (unsigned i = 0; i < 8; i++) {
		snprintf(key[i], sizeof(key[i]), "key%u", i);
		ck_assert_int_eq(put(key[i], key[i]), 0);
		submit(FARKV_REQUEST_GET, i, key[i], NULL);
	}
	while (farkv_in_flight(kv)) {
		unsigned n = take();

		ck_assert_uint_le(n, 8);
		/* As many as fit, at once. */
		for (unsigned i = 0; i < n; i++)
			submit(FARKV_REQUEST_PUT, 10 + i, key[i], "other");
		for (unsigned i = 0; n == 8 && i < 8; i++)
			assert_got(i, key[i]);
		if (n)
			break;
	}
	wait_all();
	assert_value("key0", "other");
	teardown();
}

TEST_LOOP(values_are_written_to_the_callers_buffer, 0, 2)
{
	struct farkv_request r;
	char buf[8] = "........";

	setups[_i]();
	ck_assert_int_eq(put("k", "value"), 0);
	r = request(FARKV_REQUEST_GET, 0, "k", NULL);
	r.buf = buf;
	r.buf_len = 5;
	done[0].result = done[1].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	wait_all();
	assert_got(0, "value");
	ck_assert_ptr_eq(done[0].value.data, buf);
	ck_assert_mem_eq(buf, "value...", 8);
	memset(buf, '-', sizeof(buf));
	r.tag = 1;
	r.buf_len = 4;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	wait_all();
	ENDED(1, FARKV_ETOOSMALL);
	ck_assert_uint_eq(done[1].value.len, 5);
	ck_assert_mem_eq(buf, "--------", 8);
	teardown();
}

/*
 * ---- refusals -------------------------------------------------------------------------
 */

TEST_LOOP(full_queue_refuses_requests, 0, 2)
{
	struct farkv_request r[6];

	setups[_i]();
	kv->queue_depth = 4;
	for (unsigned i = 0; i < 6; i++) {
		r[i] = request(FARKV_REQUEST_GET, i, "k", NULL);
		done[i].result = 1;
	}
	ck_assert_int_eq(farkv_submit(kv, r, 6), 4);
	ck_assert_int_eq(farkv_submit(kv, r + 4, 2), FARKV_EAGAIN);
	assert_detail("queue_depth");
	ck_assert_int_eq(farkv_submit(kv, r + 4, 0), 0);
	ck_assert_uint_eq(farkv_in_flight(kv), 4);
	wait_all();
	ck_assert_int_eq(farkv_submit(kv, r + 4, 2), 2);
	wait_all();
	for (unsigned i = 0; i < 6; i++)
		ENDED(i, FARKV_ENOTFOUND);
	teardown();
}

TEST(malformed_requests_are_refused)
{
	struct farkv_request good = request(FARKV_REQUEST_GET, 0, "k", NULL);
	struct farkv_request r[2] = {good, good};

	setup();
	done[0].result = 1;
	r[0].kind = FARKV_REQUEST_DELETE_CAS + 1;
	ck_assert_int_eq(farkv_submit(kv, r, 1), FARKV_EINVAL);
	assert_detail("kind");
	r[0] = good;
	r[0].flags = 1;
	ck_assert_int_eq(farkv_submit(kv, r, 1), FARKV_EINVAL);
	r[0] = good;
	r[0].reserved = 1;
	ck_assert_int_eq(farkv_submit(kv, r, 1), FARKV_EINVAL);
	r[0] = good;
	r[0].buf_len = 1;
	ck_assert_int_eq(farkv_submit(kv, r, 1), FARKV_EINVAL);
	ck_assert_int_eq(farkv_submit(kv, NULL, 1), FARKV_EINVAL);
	ck_assert_int_eq(farkv_submit(NULL, &good, 1), FARKV_EINVAL);
	ck_assert_int_eq(farkv_poll(NULL, NULL, 0), FARKV_EINVAL);
	ck_assert_int_eq(farkv_wait(kv, NULL, 1, 0), FARKV_EINVAL);
	/* As much as there is. */
	ck_assert_int_eq(farkv_poll(kv, done, SIZE_MAX), 0);
	ck_assert_int_eq(farkv_wait(kv, done, SIZE_MAX, 0), 0);
	ck_assert_uint_eq(farkv_in_flight(NULL), 0);
	ck_assert_uint_eq(farkv_in_flight(kv), 0);
	/* Those before it are. */
	r[0] = good;
	r[1].flags = 1;
	ck_assert_int_eq(farkv_submit(kv, r, 2), 1);
	wait_all();
	ENDED(0, FARKV_ENOTFOUND);
	teardown();
}

/* A refusal of the store is the request's result. */
TEST_LOOP(limits_and_rights_are_reported_by_completions, 0, 2)
{
	static char big[70000];
	struct farkv_request r = request(FARKV_REQUEST_PUT, 0, "k", NULL);

	setups[_i]();
	submit(FARKV_REQUEST_GET, 1, "", NULL);
	r.key = big;
	r.key_len = sizeof(big);
	done[0].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	r = request(FARKV_REQUEST_PUT, 2, "k", NULL);
	r.value_len = 3;
	done[2].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	r.tag = 3;
	r.key = NULL;
	done[3].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	submit(FARKV_REQUEST_PUT, 4, "k", "good");
	wait_all();
	ENDED(0, FARKV_ETOOLARGE);
	ENDED(1, FARKV_EINVAL);
	ENDED(2, FARKV_EINVAL);
	ENDED(3, FARKV_EINVAL);
	ENDED(4, 0);
	kv->conn.readonly = true;
	submit(FARKV_REQUEST_PUT, 5, "k", "bad");
	submit(FARKV_REQUEST_GET, 6, "k", NULL);
	wait_all();
	ENDED(5, FARKV_EPERM);
	assert_got(6, "good");
	/* The error line belongs to the call. */
	submit(FARKV_REQUEST_PUT, 5, "k", "bad");
	wait_all();
	assert_detail("read-only");
	kv->conn.readonly = false;
	r = request(FARKV_REQUEST_PUT, 0, "k", big);
	r.value_len = kv->conn.sb->max_value + 1;
	done[0].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	wait_all();
	ENDED(0, FARKV_ETOOLARGE);
	assert_detail("max-item-size");
	teardown();
}

TEST(depth_is_an_option_with_bounds)
{
	struct farkv_options o;
	struct farkv *h = NULL;

	setup();
	farkv_close(kv);
	kv = NULL;
	farkv_options_init(&o);
	o.queue_depth = 4097;
	ck_assert_int_eq(farkv_open(srv.path, &o, &h), FARKV_EINVAL);
	assert_detail("queue_depth");
	o.queue_depth = 1;
	ck_assert_int_eq(farkv_open(srv.path, &o, &kv), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct farkv_request r[2] = {
			request(FARKV_REQUEST_GET, i, "k", NULL),
			request(FARKV_REQUEST_GET, i, "k", NULL)};

		done[i].result = 1;
		ck_assert_int_eq(farkv_submit(kv, r, 2), 1);
		wait_all();
	}
	/* Programs built before the option existed. */
	o.size = offsetof(struct farkv_options, cache_entries);
	ck_assert_int_eq(farkv_open(srv.path, &o, &h), 0);
	farkv_close(h);
	teardown();
}

/*
 * ---- progress
 * ---------------------------------------------------------------------------
 */

/* A poll returns what has completed, and does not wait for the rest. */
TEST(polls_do_not_wait)
{
	setup_stepping();
	ck_assert_int_eq(put("k", "v"), 0);
	lane->still = true;
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	ck_assert_uint_eq(lane->waiting, 2); /* by the submissions */
	ck_assert_uint_eq(take(), 0);
	ck_assert_uint_eq(take(), 0);
	ck_assert_int_eq(farkv_wait(kv, done, 1, 1), 0);
	lane->still = false;
	lane->at_once = true;
	ck_assert_uint_eq(take(), 2);
	assert_got(0, "v");
	assert_got(1, "v");
	ck_assert_uint_eq(take(), 0);
	ck_assert_int_eq(farkv_wait(kv, done, 1, 1000), 0);
	teardown();
}

/* Requests that are submitted together share a doorbell. */
TEST_LOOP(requests_submitted_together_share_a_doorbell, 0, 2)
{
	struct farkv_get_item batch = {.key = "k", .key_len = 1};
	struct farkv_request r[20];
	unsigned posts;

	setup_stepping();
	ck_assert_int_eq(put("k", "v"), 0);
	if (_i) /* also after a batch, which leaves memory to free */
		ck_assert_int_eq(farkv_mget(kv, &batch, 1), 0);
	for (unsigned i = 0; i < 20; i++)
		r[i] = request(FARKV_REQUEST_GET, i, "k", NULL);
	posts = lane->posts;
	for (unsigned i = 0; i < 20; i++)
		done[i].result = 1;
	ck_assert_int_eq(farkv_submit(kv, r, 20), 20);
	ck_assert_uint_eq(lane->posts, posts + 1);
	ck_assert_uint_eq(lane->waiting, 20);
	lane->at_once = true;
	reap();
	ck_assert_uint_le(lane->posts, posts + 2);
	teardown();
}

/* Completions are taken in parts. */
TEST(completions_can_be_taken_in_parts)
{
	struct farkv_completion c[3];
	unsigned seen = 0;

	setup();
	ck_assert_int_eq(put("k", "v"), 0);
	for (unsigned i = 0; i < 7; i++)
		submit(FARKV_REQUEST_GET, i, "k", NULL);
	ck_assert_int_eq(farkv_poll(kv, c, 0), 0);
	for (unsigned left = 7; left;) {
		int n = farkv_poll(kv, c, 3);

		ck_assert_int_eq(n, (int)UTIL_MIN(left, 3u));
		for (int i = 0; i < n; i++) {
			seen |= 1u << c[i].tag;
			ck_assert_mem_eq(c[i].value.data, "v", 1);
		}
		left -= (unsigned)n;
		ck_assert_uint_eq(farkv_in_flight(kv), left);
	}
	ck_assert_uint_eq(seen, 127);
	teardown();
}

TEST_LOOP(many_requests_for_one_key_complete_in_turn, 0, 2)
{
	static char text[DONE_MAX][8];
	unsigned wins = 0;
	char out[64];

	setups[_i]();
	for (unsigned i = 0; i < 40; i++) {
		snprintf(text[i], sizeof(text[i]), "%u", i);
		submit(i % 4 == 3 ? FARKV_REQUEST_ADD : FARKV_REQUEST_PUT, i,
		       "k", text[i]);
	}
	wait_all();
	for (unsigned i = 0; i < 40; i++) {
		if (i % 4 == 3) {
			ck_assert(done[i].result == 0 ||
				  done[i].result == FARKV_EEXISTS);
			wins += done[i].result == 0;
		} else {
			ENDED(i, 0);
		}
	}
	ck_assert_uint_le(wins, 1);
	ck_assert_int_eq(get("k", out), 0);
	for (unsigned i = 0; i < 10; i++)
		submit(FARKV_REQUEST_DELETE, i, "k", NULL);
	wait_all();
	wins = 0;
	for (unsigned i = 0; i < 10; i++)
		wins += done[i].result == 0;
	ck_assert_uint_eq(wins, 1);
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	teardown();
}

/* Another call first completes the requests; their completions stay to be taken. */
TEST_LOOP(call_completes_requests_in_flight, 0, 2)
{
	setups[_i]();
	submit(FARKV_REQUEST_PUT, 0, "k", "v");
	assert_value("k", "v");
	ck_assert_uint_eq(farkv_in_flight(kv), 1);
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	ck_assert_int_eq(put("k", "w"), 0);
	submit(FARKV_REQUEST_GET, 2, "k", NULL);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_int_eq(put("k", "x"), 0);
	ck_assert_uint_eq(take(), 3);
	ENDED(0, 0);
	assert_got(1, "v");
	assert_got(2, "w");
	teardown();
}

/* ---- ends ----------------------------------------------------------------------------- */

/* Requests that have reached the store are completed. */
TEST_LOOP(close_completes_requests_in_flight, 0, 2)
{
	struct farkv *other;

	setup_stepping();
	ck_assert_int_eq(put("k", "before"), 0);
	submit(FARKV_REQUEST_PUT, 0, "k", "after");
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	if (_i == 1)
		xport_break(&lane->lane, FARKV_EDISCONNECTED);
	farkv_close(kv);
	conn_wrap_lane = NULL;
	kv = other = open_handle();
	assert_value("k", _i ? "before" : "after");
	teardown();
}

static int child_main(void)
{
	struct farkv_request r = request(FARKV_REQUEST_GET, 0, "k", NULL);
	struct farkv_completion c;

	if (farkv_submit(kv, &r, 1) != FARKV_EDISCONNECTED ||
	    !strstr(farkv_errdetail(), "fork()"))
		return 1;
	if (farkv_poll(kv, &c, 1) != FARKV_EDISCONNECTED)
		return 2;
	if (farkv_wait(kv, &c, 1, 1000) != FARKV_EDISCONNECTED)
		return 3;
	if (farkv_put(kv, "k", 1, "c", 1) != FARKV_EDISCONNECTED)
		return 4;
	if (farkv_in_flight(kv) != 0)
		return 5;
	farkv_close(kv);
	return 0;
}

TEST_LOOP(child_has_no_queue, 0, 2)
{
	pid_t pid;
	int status;

	if (test_tsan_skips("fork"))
		return;
	setups[_i]();
	submit(FARKV_REQUEST_PUT, 0, "k", "v");
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(child_main());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	wait_all();
	ENDED(0, 0);
	assert_value("k", "v");
	teardown();
}

/*
 * A write may be in flight while the lane is open, so the server must not be told that
 * the blocks are free. It sees the end by the tether, which is unmapped after the lane
 * was closed.
 */
TEST(close_after_a_broken_lane_keeps_written_blocks)
{
	setup_stepping();
	ck_assert_int_eq(put("k", "v"), 0);
	lane->still = true;
	submit(FARKV_REQUEST_PUT, 0, "k", "w");
	ck_assert_uint_gt(lane->waiting, 0);
	xport_break(&lane->lane, FARKV_EDISCONNECTED);
	kv->farewell_ns = LONG_MS * NS_PER_MS;
	ck_assert_int_ne(fcntl(srv.tether_fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	farkv_close(kv);
	kv = NULL;
	ck_assert_uint_eq(fake_server_count(&srv, MSG_RETURN), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BYE), 0);
	ck_assert_int_eq(fcntl(srv.tether_fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	teardown();
}

/* A request that needs no version does not wait with those that do. */
TEST_LOOP(lack_of_versions_delays_writers_only, 0, 2)
{
	setups[_i]();
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	submit(FARKV_REQUEST_PUT, 0, "k", "w");
	(void)take();
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	for (unsigned i = 0, n = 0; n == 0; i++) {
		ck_assert_uint_lt(i, 100);
		n = take();
	}
	ENDED(1, 0);
	fake_server_set(&srv, ignore_requests, false);
	teardown();
}

TEST_SUITE("queue")
