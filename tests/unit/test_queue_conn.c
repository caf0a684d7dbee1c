/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_submit() and farkv_poll() while the server is gone, silent, reads nothing or was
 * restarted: neither ever waits, requests have their own deadlines, and every completion
 * has its own reason.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client/queue_turn.h"
#include "client/wait.h"
#include "common/base/clock.h"
#include "tests/rig/cases.h"
#include "tests/rig/event_rig.h"
#include "tests/rig/queue_rig.h"
#include "tests/rig/wait_rig.h"

/* So short that it passes while a case waits for it. */
#define SHORT_MS 30

static char said[DONE_MAX][256];

/* Like submit() and poll_out(), by a thread that must not wait. */
static void submit_now(enum farkv_request_kind kind, uint64_t tag, const char *key,
		       const char *value)
{
	said[tag][0] = '\0';
	must_not_wait = true;
	submit(kind, tag, key, value);
	must_not_wait = false;
}

static int poll_now(void)
{
	struct farkv_completion c[DONE_MAX];
	int n;

	must_not_wait = true;
	n = farkv_poll(kv, c, DONE_MAX);
	must_not_wait = false;
	ck_assert_int_ge(n, 0);
	for (int i = 0; i < n; i++) {
		done[c[i].tag] = c[i];
		ck_assert_int_eq(c[i].detail != NULL, c[i].result != 0);
		if (c[i].detail)
			snprintf(said[c[i].tag], sizeof(said[0]), "%s", c[i].detail);
	}
	return n;
}

/* Polls by the descriptor until nothing is in flight, or `tag` has ended. */
static void drive_until(uint64_t tag)
{
	while (farkv_in_flight(kv) && (tag == DONE_MAX || done[tag].result == 1)) {
		wait_readable();
		while (poll_now())
			;
	}
}

static void drive_all(void)
{
	drive_until(DONE_MAX);
}

static void nobody_waited(void)
{
	ck_assert_msg(!waits, "it waited %lu times, the last time in %s()", waits,
		      last_wait);
	ck_assert_uint_eq(slept_locked(), 0);
}

static void says(uint64_t tag, const char *what)
{
	ck_assert_msg(strstr(said[tag], what) != NULL, "'%s' lacks '%s'", said[tag],
		      what);
}

/* From now on it refuses clients, which come again, until it welcomes them. */
static void busy_server(void)
{
	fake_server_set(&srv, refuse_text, "others came first");
	fake_server_set(&srv, refuse_reason, MSG_REASON_DISPLACED);
	fake_server_set(&srv, hello, FAKE_REFUSE);
}

static void lose_server(void)
{
	fake_server_fini(&srv);
	wait_broken();
}

/* For teardown() */
static void new_server(void)
{
	farkv_close(kv);
	kv = NULL;
	fake_server_init(&srv, 0);
	fake_server_start(&srv);
}

/* ---- no call waits ---------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

/* Broken while idle or during requests; later requests find no server. */
TEST_LOOP(server_gone_ends_requests, 0, 2)
{
	open_fd();
	if (_i) {
		fake_server_set(&srv, hold_grants, true);
		submit_now(FARKV_REQUEST_PUT, 0, "a", "1");
		(void)poll_now();
	}
	lose_server();
	if (!_i)
		submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	drive_all();
	ENDED(0, FARKV_EDISCONNECTED);
	says(0, "closed the connection");
	for (unsigned i = 1; i < 4; i++) {
		submit_now(FARKV_REQUEST_GET, i, "k", NULL);
		drive_all();
		ENDED(i, FARKV_EDISCONNECTED);
	}
	says(1, "connect");
	nobody_waited();
	quiet();
	new_server();
}

/*
 * It accepts and stays silent: each request waits for its own deadline, and one with time
 * left goes on when a server answers.
 */
TEST_LOOP(silent_server_lets_requests_time_out, 0, 2)
{
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	open_fd();
	fake_server_set(&srv, hello, FAKE_SILENT);
	if (_i) {
		fake_server_set(&srv, hold_grants, true);
		submit_now(FARKV_REQUEST_PUT, 2, "a", "1");
		(void)poll_now();
	}
	fake_server_hangup(&srv);
	wait_broken();
	set_timeout_ms(LONG_MS);
	submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	(void)poll_now();
	set_timeout_ms(SHORT_MS);
	submit_now(FARKV_REQUEST_GET, 1, "k", NULL);
	drive_until(1);
	ENDED(1, FARKV_ETIMEDOUT);
	says(1, "closed the connection");
	ck_assert_int_eq(done[0].result, 1);
	fake_server_set(&srv, hello, FAKE_WELCOME);
	fake_server_set(&srv, hold_grants, false);
	drive_all();
	assert_got(0, "v");
	if (_i)
		ENDED(2, 0);
	nobody_waited();
}

/* The server is back at once: requests go on as before. */
TEST(server_back_at_once_lets_requests_go_on)
{
	ck_assert_int_eq(put("k", "v"), 0);
	open_fd();
	for (unsigned i = 0; i < 4; i++) {
		fake_server_hangup(&srv);
		wait_broken();
		submit_now(FARKV_REQUEST_GET, 2 * i, "k", NULL);
		submit_now(FARKV_REQUEST_PUT, 2 * i + 1, "l", "w");
		drive_all();
		ENDED(2 * i, 0);
		ENDED(2 * i + 1, 0);
		ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), i + 2);
	}
	nobody_waited();
}

/* It wants a small block for its tombstone, and does without one: so the store is not full. */
TEST(delete_that_is_late_does_not_say_that_memory_is_short)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_DELETE};
	static const int results[] = {FARKV_ENOSPC, FARKV_ETIMEDOUT};
	struct index_key k = {.data = "k", .len = 1};
	struct index_op *op = &kv->op;

	for (unsigned i = 0; i < 2; i++) {
		struct wait_state w = {.begun = true};

		index_op_start(op, kinds[i], &k, NULL, 0);
		op->wait = INDEX_WAIT_BLOCK;
		op->cls = 2;
		op->deadline_ns = clock_now_ns();
		kv->conn.denied[op->cls] = true;
		(void)handle_need(kv, &op, 1, &w);
		ck_assert_int_eq(op->result, results[i]);
	}
}

TEST(restarted_server_ends_requests)
{
	ck_assert_int_eq(put("k", "v"), 0);
	open_fd();
	srv.sb.region_id[0]++;
	fake_server_superblock(&srv, true);
	fake_server_hangup(&srv);
	wait_broken();
	submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	drive_all();
	ENDED(0, FARKV_EDISCONNECTED);
	says(0, "started again");
	/* ... and during a waiting request. */
	fake_server_set(&srv, hold_grants, true);
	submit_now(FARKV_REQUEST_PUT, 1, "a", "1");
	while (!fake_server_count(&srv, MSG_GRANT_REQ)) {
		wait_readable();
		ck_assert_int_eq(poll_now(), 0);
	}
	srv.sb.region_id[0]++;
	fake_server_superblock(&srv, true);
	fake_server_hangup(&srv);
	drive_all();
	ENDED(1, FARKV_EDISCONNECTED);
	says(1, "started again");
	nobody_waited();
}

TEST_GROUP(.setup = setup_stepping, .teardown = teardown, .timeout_s = 120);

/* The lane breaks with chains in flight. */
TEST(broken_lane_is_replaced)
{
	ck_assert_int_eq(put("k", "v"), 0);
	open_fd();
	submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	submit_now(FARKV_REQUEST_PUT, 1, "l", "w");
	(void)poll_now();
	xport_break(&lane->lane, FARKV_EDISCONNECTED);
	busy_server();
	submit_now(FARKV_REQUEST_GET, 2, "k", NULL);
	while (fake_server_count(&srv, MSG_HELLO) < 2)
		(void)poll_now();
	(void)poll_now();
	ck_assert_int_eq(done[2].result, 1);
	fake_server_set(&srv, hello, FAKE_WELCOME);
	drive_all();
	/* Its value was valid until the next call. */
	ENDED(0, 0);
	ck_assert_uint_eq(done[0].value.len, 1);
	ENDED(1, 0);
	ENDED(2, 0);
	nobody_waited();
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

/*
 * It reads nothing, and its socket fills: a request that needs it waits, and reports for
 * what.
 */
TEST(server_that_reads_nothing_lets_requests_time_out)
{
	static char large[5000];
	char key[8];

	memset(large, 'x', sizeof(large) - 1);
	open_fd();
	fake_server_set(&srv, deaf, true);
	set_timeout_ms(SHORT_MS);
	for (unsigned i = 0; i < DONE_MAX; i++) {
		snprintf(key, sizeof(key), "%u", i);
		submit_now(FARKV_REQUEST_PUT, i, key, i % 2 ? large : "1");
		(void)poll_now();
	}
	drive_all();
	for (unsigned i = 0; i < DONE_MAX; i++) {
		ENDED(i, FARKV_ETIMEDOUT);
		says(i, "no block of");
	}
	nobody_waited();
	fake_server_set(&srv, deaf, false);
}

/*
 * ---- with other calls
 * -------------------------------------------------------------------
 */

static void *welcome_soon(void *arg)
{
	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_HELLO, 2));
	fake_server_set(&srv, hello, FAKE_WELCOME);
	return NULL;
}

/* A synchronous call waits for the same connection as the requests. */
TEST(call_waits_for_the_connection_of_the_requests)
{
	pthread_t thread;

	ck_assert_int_eq(put("k", "v"), 0);
	busy_server();
	fake_server_hangup(&srv);
	wait_broken();
	submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	(void)poll_now();
	pthread_create(&thread, NULL, welcome_soon, NULL);
	assert_value("k", "v");
	pthread_join(thread, NULL);
	ck_assert_uint_eq(poll_now(), 1);
	assert_got(0, "v");
	nobody_waited();
}

/* A call that gave up leaves the attempt to the next, which need not start again. */
TEST(late_connection_serves_the_next_call)
{
	char out[64];
	unsigned hellos;

	ck_assert_int_eq(put("k", "v"), 0);
	busy_server();
	fake_server_hangup(&srv);
	wait_broken();
	submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	(void)poll_now();
	ck_assert(fake_server_wait(&srv, MSG_HELLO, 2));
	fake_server_set(&srv, hello, FAKE_WELCOME);
	while (!dial_is_over(kv->dial))
		clock_sleep_ns(NS_PER_MS);
	hellos = fake_server_count(&srv, MSG_HELLO);
	ck_assert_int_eq(get("k", out), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), hellos);
	nobody_waited();
}

/* Neither a thread nor a session is left. */
TEST_LOOP(close_while_connecting_ends_all_requests, 0, 2)
{
	ck_assert(fake_server_wait(&srv, MSG_READY, 1));
	fake_server_set(&srv, hello, _i ? FAKE_WELCOME : FAKE_SILENT);
	fake_server_hangup(&srv);
	wait_broken();
	submit_now(FARKV_REQUEST_GET, 0, "k", NULL);
	(void)poll_now();
	ck_assert(fake_server_wait(&srv, MSG_HELLO, 2));
	if (_i)
		ck_assert(fake_server_wait(&srv, MSG_READY, 2));
	nobody_waited();
	farkv_close(kv);
	if (_i)
		ck_assert(fake_server_wait(&srv, MSG_BYE, 1));
	fake_server_set(&srv, hello, FAKE_WELCOME);
	fake_server_hangup_all(&srv);
	kv = open_handle();
}

/* ---- each completion's line ---------------------------------------------------------------- */

TEST(each_completion_has_its_own_reason)
{
	static uint8_t buf[1];
	char key[20];
	struct farkv_request r[] = {
		{.tag = 0, .kind = FARKV_REQUEST_GET, .key = "k", .key_len = 0},
		{.tag = 1, .kind = FARKV_REQUEST_GET, .key = "long", .key_len = 4,
		 .buf = buf, .buf_len = 1},
		{.tag = 2, .kind = FARKV_REQUEST_ADD, .key = "long", .key_len = 4},
		{.tag = 3, .kind = FARKV_REQUEST_GET, .key = "none", .key_len = 4},
		{.tag = 4, .kind = FARKV_REQUEST_CAS, .key = "long", .key_len = 4,
		 .expected = 1},
		{.tag = 5, .kind = FARKV_REQUEST_PUT, .key = "k", .key_len = 1,
		 .value = NULL, .value_len = 7},
		{.tag = 6, .kind = FARKV_REQUEST_GET, .key = "long", .key_len = 4},
	};
	struct farkv_completion c[7];
	const char *line[7];

	snprintf(key, sizeof(key), "long");
	ck_assert_int_eq(put(key, "a long value"), 0);
	ck_assert_int_eq(farkv_submit(kv, r, 7), 7);
	ck_assert_int_eq(farkv_wait(kv, c, 7, LONG_MS), 7);
	for (unsigned i = 0; i < 7; i++)
		line[c[i].tag] = c[i].detail;
	ck_assert_ptr_nonnull(strstr(line[0], "the key is empty"));
	ck_assert_ptr_nonnull(strstr(line[1], "the value has 12 bytes, the buffer 1"));
	ck_assert_str_eq(line[2], farkv_strerror(FARKV_EEXISTS));
	ck_assert_str_eq(line[3], farkv_strerror(FARKV_ENOTFOUND));
	ck_assert_str_eq(line[4], farkv_strerror(FARKV_EVERSION));
	ck_assert_ptr_nonnull(strstr(line[5], "the value is NULL but has 7 bytes"));
	ck_assert_ptr_null(line[6]);
	/* A submission leaves them as they are. */
	submit(FARKV_REQUEST_GET, 8, "none", NULL);
	ck_assert_ptr_nonnull(strstr(line[5], "the value is NULL but has 7 bytes"));
	reap();
}

TEST_SUITE("queue_conn")
