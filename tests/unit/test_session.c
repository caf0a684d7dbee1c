/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle's connection, and requests over it, with a server that delays, lies, stops or
 * goes away.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/index/index.h"
#include "tests/rig/handle_rig.h"
#include "tests/rig/cases.h"

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(session_cut_is_replaced_unnoticed)
{
	ck_assert_int_eq(put("k", "v"), 0);
	fake_server_hangup(&srv);
	wait_broken();
	/* The region is the same, so the program is not told. */
	assert_value("k", "v");
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	ck_assert_uint_eq(srv.hello_replaces, 100);
	ck_assert_uint_eq(srv.hello_replaces_region, srv.sb.region_id[0]);
	ck_assert_int_eq(put("k", "w"), 0);
	assert_value("k", "w");
}

/* A server that ends a handshake is asked again, until the deadline. */
TEST(session_cut_in_the_handshake_is_replaced_unnoticed)
{
	static const enum fake_hello ends[] = {FAKE_CLOSE, FAKE_HANGUP};

	ck_assert_int_eq(put("k", "v"), 0);
	for (unsigned i = 0; i < 2; i++) {
		fake_server_set(&srv, refuse_times, 3);
		fake_server_set(&srv, hello, ends[i]);
		fake_server_hangup(&srv);
		wait_broken();
		assert_value("k", "v");
		ck_assert_int_eq(srv.hello, FAKE_WELCOME);
	}
}

TEST(session_without_a_server_reports_it_and_retries_seldom)
{
	struct farkv_counters c = {.size = sizeof(c)};
	uint64_t messages;
	char out[64];

	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	messages = c.control_msgs;
	fake_server_fini(&srv);
	wait_broken();
	ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	assert_detail("cannot reconnect: no server at");
	/* Attempts are rate-limited: calls shortly after get the same error. */
	for (int i = 0; i < 1000 && !strstr(farkv_errdetail(), "next attempt");
	     i++)
		ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	assert_detail("next attempt");
	ck_assert_int_eq(farkv_ping(kv, NULL), FARKV_EDISCONNECTED);
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	ck_assert_uint_ge(c.control_msgs, messages);

	/* Another server at the same address: another region, never old data. */
	farkv_close(kv);
	fake_server_init(&srv, F_SEAL_SHRINK | F_SEAL_GROW);
	fake_server_start(&srv);
	kv = open_handle();
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
}

static void *end_when_asked(void *n_requests)
{
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ,
				   *(unsigned *)n_requests));
	fake_server_fini(&srv);
	return NULL;
}

/* A finished PUT, over a value or not, has no connection for the next items. */
TEST_LOOP(batch_that_loses_its_connection_keeps_finished_items, 0, 2)
{
	static char large[5000];
	struct farkv_put_item items[] = {
		{.key = _i ? "n" : "k", .key_len = 1, .value = "w", .value_len = 1},
		{.key = "l", .key_len = 1, .value = large,
		 .value_len = sizeof(large)},
	};
	pthread_t thread;
	unsigned n;

	/* So many that the next call requests no more. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(put("k", "v"), 0);
	heard_by_server();
	fake_server_set(&srv, hold_grants, true);
	n = fake_server_count(&srv, MSG_GRANT_REQ) + 1;
	pthread_create(&thread, NULL, end_when_asked, &n);
	ck_assert_int_eq(farkv_mput(kv, items, 2), FARKV_EDISCONNECTED);
	pthread_join(thread, NULL);
	ck_assert_int_eq(items[0].result, 0);
	ck_assert_int_eq(items[1].result, FARKV_EDISCONNECTED);
	ck_assert_ptr_null(kv->conn.session);

	farkv_close(kv);
	fake_server_init(&srv, F_SEAL_SHRINK | F_SEAL_GROW);
	fake_server_start(&srv);
	kv = open_handle();
}

static void *hangup_when_asked(void *arg)
{
	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_set(&srv, hold_grants, false);
	fake_server_hangup(&srv);
	return NULL;
}

TEST(call_cut_while_it_waits_goes_on_by_a_new_session)
{
	uint64_t t = clock_now_ns();
	pthread_t thread;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&thread, NULL, hangup_when_asked, NULL);
	/* The call continues on a new session, where it asks again. */
	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_uint_lt(clock_now_ns() - t, LONG_MS / 2 * NS_PER_MS);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	assert_value("k", "v");
}

static void restart(void)
{
	srv.sb.region_id[0]++;
	superblock_seal(&srv.sb);
	memcpy(srv.meta, &srv.sb, sizeof(srv.sb));
	fake_server_hangup(&srv);
}

static void *restart_when_asked(void *arg)
{
	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_set(&srv, hold_grants, false);
	restart();
	return NULL;
}

/* In another region a call must not continue as if nothing had happened. */
TEST(call_that_waits_over_a_restart_ends)
{
	pthread_t thread;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&thread, NULL, restart_when_asked, NULL);
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	/* It was reported: the next call works in the new one. */
	ck_assert_int_eq(put("k", "v"), 0);
	assert_value("k", "v");
	/* The end of that one is reported as well. */
	restart();
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("started again");
	ck_assert_int_eq(put("k", "v"), 0);
}

TEST(bad_message_ends_the_session)
{
	static const uint8_t garbage[40] = {0x46, 0x4B, 67};
	struct msg hello = {.type = MSG_HELLO};
	struct msg bye = {.type = MSG_SHUTDOWN};

	fake_server_send_bytes(&srv, garbage, sizeof(garbage));
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("protocol error");
	ck_assert_int_eq(put("k", "v"), 0);

	fake_server_send(&srv, &hello, NULL);
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("HELLO");
	clock_sleep_ns(110 * NS_PER_MS); /* one attempt in 100 ms */
	ck_assert_int_eq(put("k", "v"), 0);

	bye.refuse.reason = MSG_REASON_SHUTDOWN;
	bye.refuse.text = (const uint8_t *)"for today";
	bye.refuse.text_len = 9;
	fake_server_send(&srv, &bye, NULL);
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("for today");
}

TEST(server_that_reads_nothing_lets_calls_time_out)
{
	uint64_t rtt = 0;

	ck_assert_int_eq(farkv_ping(kv, &rtt), 0);
	ck_assert_uint_gt(rtt, 0);
	fake_server_set(&srv, deaf, true);
	set_timeout_ms(5);
	/* Fill the socket: some calls are sent and not answered, then none. */
	for (int i = 0; i < 5000; i++) {
		ck_assert_int_eq(farkv_ping(kv, &rtt), FARKV_ETIMEDOUT);
		if (strstr(farkv_errdetail(), "reads no requests"))
			break;
		kv->op_timeout_ns = 1;
	}
	assert_detail("reads no requests");
	/* A block request finds no room in the socket: it must not be lost. */
	set_timeout_ms(30);
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	ck_assert_uint_eq(session_grants_out(kv->conn.session), 0);
	fake_server_set(&srv, deaf, false);
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "v"), 0);
	/* Late PONGs are not taken for the answer to this one. */
	ck_assert_int_eq(farkv_ping(kv, &rtt), 0);
}

/* The answer to another request, while this one's is awaited. */
static void *answer_another(void *arg)
{
	struct msg pong = {.type = MSG_PONG, .req = UINT32_MAX};

	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_PING, 1));
	fake_server_send(&srv, &pong, NULL);
	return NULL;
}

TEST(answer_to_another_request_is_not_taken)
{
	pthread_t thread;

	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(200);
	pthread_create(&thread, NULL, answer_another, NULL);
	ck_assert_int_eq(farkv_ping(kv, NULL), FARKV_ETIMEDOUT);
	pthread_join(thread, NULL);
	fake_server_set(&srv, ignore_requests, false);
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
}

static void *hangup_late(void *arg)
{
	(void)arg;
	usleep(3500 * 1000);
	fake_server_hangup(&srv);
	return NULL;
}

/* A lost connection does not extend a call's deadline. */
TEST(deadline_holds_over_a_new_connection)
{
	uint64_t start = clock_now_ns();
	pthread_t thread;

	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(5000);
	pthread_create(&thread, NULL, hangup_late, NULL);
	ck_assert_int_eq(farkv_ping(kv, NULL), FARKV_ETIMEDOUT);
	ck_assert_uint_lt(clock_now_ns() - start, 7000 * NS_PER_MS);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	pthread_join(thread, NULL);
}

TEST(session_read_only_may_not_write)
{
	char out[64];

	ck_assert_int_eq(put("k", "v"), 0);
	farkv_close(kv);
	srv.role = MSG_ROLE_RO;
	kv = open_handle();
	ck_assert_int_eq(put("k", "w"), FARKV_EPERM);
	assert_detail("no right to write");
	ck_assert_int_eq(del("k"), FARKV_EPERM);
	ck_assert_int_eq(get("k", out), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_GRANT_REQ), 1);
}

TEST(prefix_is_requested_before_the_last_is_used_up)
{
	struct farkv_value v;

	kv->prefix_low = UINT32_MAX;
	for (int i = 0; i < 1100; i++)
		ck_assert_int_eq(put("k", "v"), 0);
	ck_assert(fake_server_wait(&srv, MSG_PREFIX_REQ, 1));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_PREFIX_REQ), 1);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0); /* its answer came before */
	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(farkv_get(kv, "k", 1, &v), 0);
	ck_assert_uint_eq(v.version >> 32, 1001);
}

TEST(put_without_a_prefix_waits_for_the_next)
{
	struct farkv_value v;

	ck_assert_int_eq(put("k", "v"), 0);
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(30);
	ck_assert_int_eq(put("k", "w"), FARKV_ETIMEDOUT);
	assert_detail("version numbers");
	assert_value("k", "v");
	fake_server_set(&srv, ignore_requests, false);
	kv->conn.prefix_asked = false; /* that one was ignored permanently */
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "w"), 0);
	ck_assert_int_eq(farkv_get(kv, "k", 1, &v), 0);
	ck_assert_uint_eq(v.version >> 32, 1002);
}

TEST_SUITE("session")
