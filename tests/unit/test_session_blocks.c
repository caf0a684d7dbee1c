/* SPDX-License-Identifier: BSD-3-Clause */
/* How a handle gets blocks, waits for them, and returns them. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client/channel.h"
#include "client/control.h"
#include "client/session_state.h"
#include "common/index/alloc.h"
#include "common/base/clock.h"
#include "common/index/index.h"
#include "tests/rig/handle_rig.h"
#include "tests/rig/cases.h"

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(grant_that_comes_late_is_used)
{
	fake_server_set(&srv, hold_grants, true);
	set_timeout_ms(40);
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("no block of 64 bytes");
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	ck_assert_int_eq(put_as_request("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("no block of 64 bytes");
	ck_assert_int_eq(put_as_batch("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("item 1 of 1: no block of 64 bytes");
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_release(&srv);
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "v"), 0);
	/* The late block was used: no further request was sent. */
	ck_assert_uint_eq(fake_server_count(&srv, MSG_GRANT_REQ), 1);
	assert_value("k", "v");
}

/*
 * A call without time left still requests the block that it lacks; otherwise, with short
 * deadlines on a busy machine, no call would ever succeed.
 */
TEST(call_out_of_time_asks_for_blocks)
{
	fake_server_set(&srv, hold_grants, true);
	kv->op_timeout_ns = 0;
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("no block of 64 bytes");
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_release(&srv);
	for (int i = 0; i < 10000 && put("k", "v") != 0; i++)
		clock_sleep_ns(NS_PER_MS);
	assert_value("k", "v");
	ck_assert_uint_eq(fake_server_count(&srv, MSG_GRANT_REQ), 1);
}

/*
 * Also a call that enters slowly, and one after requests: otherwise the control thread
 * would take an idle handle for busy, or a busy one for idle.
 */
TEST(put_leaves_the_qsbr_counter_once)
{
	struct farkv_request r = {.kind = FARKV_REQUEST_GET, .key = "k", .key_len = 1};
	struct farkv_completion c = {0};

	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(put("k", "v"), 0);
		ck_assert(!qsbr_active(kv->qsbr));
	}
	qsbr_set_pending(kv->qsbr, PENDING_DROP);
	ck_assert_int_eq(put("k", "w"), 0);
	ck_assert(!qsbr_active(kv->qsbr));
	ck_assert(!(qsbr_pending(kv->qsbr) & PENDING_DROP));
	assert_value("k", "w");
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	ck_assert_int_eq(put("k", "x"), 0);
	ck_assert(!qsbr_active(kv->qsbr));
	ck_assert_int_eq(farkv_wait(kv, &c, 1, LONG_MS), 1);
	ck_assert_int_eq(c.result, 0);
	ck_assert(!qsbr_active(kv->qsbr));
}

/* Other calls leave it once as well. */
TEST(calls_leave_the_qsbr_counter_once)
{
	struct farkv_get_item item = {.key = "k", .key_len = 1};
	struct farkv_value v;
	uint8_t buf[8];
	size_t len;

	ck_assert_int_eq(put("k", "v"), 0);
	for (unsigned i = 0; i < 7; i++) {
		qsbr_set_pending(kv->qsbr, PENDING_DROP);
		switch (i) {
		case 0:
			ck_assert_int_eq(farkv_get(kv, "k", 1, &v), 0);
			break;
		case 1:
			ck_assert_int_eq(farkv_get_into(kv, "k", 1, buf, 8, &len,
							NULL), 0);
			break;
		case 2:
			ck_assert_int_eq(farkv_mget(kv, &item, 1), 0);
			break;
		case 3:
			ck_assert_int_eq(put_as_batch("k", "w"), 0);
			break;
		case 4:
			ck_assert_int_eq(farkv_replace(kv, "k", 1, "x", 1), 0);
			break;
		case 5:
			ck_assert_int_eq(farkv_add(kv, "l", 1, "x", 1), 0);
			break;
		default:
			ck_assert_int_eq(del("k"), 0);
			break;
		}
		ck_assert_msg(!qsbr_active(kv->qsbr), "call %u", i);
	}
}

TEST(first_put_asks_for_two_blocks_and_gives_one_back)
{
	ck_assert_int_eq(put("k", "v"), 0);
	close_at_leisure();
	ck_assert_uint_eq(srv.granted, 2);
	ck_assert_uint_eq(srv.returned, 1);
	kv = open_handle();
}

TEST(close_returns_everything)
{
	char key[16];

	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "%d", i);
		ck_assert_int_eq(put(key, "v"), 0);
		if (i % 3 == 0)
			ck_assert_int_eq(put(key, "w"), 0);
	}
	close_at_leisure();
	ck_assert_uint_eq(srv.granted - srv.returned, 300);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BYE), 1);
	kv = open_handle();
}

static void *release_later(void *arg)
{
	(void)arg;
	/* The RETURN of held blocks shows that close has begun. */
	ck_assert(fake_server_wait(&srv, MSG_RETURN, 1));
	fake_server_release(&srv);
	return NULL;
}

TEST(close_returns_late_grants)
{
	pthread_t t;

	ck_assert_int_eq(put("a", "v"), 0);
	ck_assert_int_eq(put("a", "w"), 0); /* a deferred block to return */
	fake_server_set(&srv, hold_grants, true);
	set_timeout_ms(10);
	ck_assert_int_eq(farkv_put(kv, "big", 3, srv.meta, 5000),
			 FARKV_ETIMEDOUT);
	pthread_create(&t, NULL, release_later, NULL);
	close_at_leisure();
	pthread_join(t, NULL);
	ck_assert_uint_eq(srv.granted - srv.returned, 1);
	kv = open_handle();
}

TEST(close_of_a_stopped_server_ends_in_a_second)
{
	uint64_t t;

	ck_assert_int_eq(put("a", "v"), 0);
	fake_server_set(&srv, deaf, true);
	t = clock_now_ns();
	farkv_close(kv);
	t = clock_now_ns() - t;
	/* One second, independent of the deadline of operations. */
	ck_assert_uint_ge(t, 900 * NS_PER_MS);
	ck_assert_uint_lt(t, LONG_MS / 2 * NS_PER_MS);
	fake_server_set(&srv, deaf, false);
	kv = open_handle();
}

TEST(put_without_space_waits_for_deferred_blocks_or_is_refused)
{
	char out[64];

	fake_server_set(&srv, grant_blocks, 1);
	ck_assert_int_eq(put("a", "one"), 0);
	ck_assert_int_eq(put("b", "no"), FARKV_ENOSPC);
	assert_detail("block of 64 bytes");
	ck_assert_int_eq(put_as_request("b", "no"), FARKV_ENOSPC);
	assert_detail("block of 64 bytes");
	ck_assert_int_eq(put_as_batch("b", "no"), FARKV_ENOSPC);
	assert_detail("item 1 of 1: the region has no memory left for a block of 64 bytes");
	ck_assert_int_eq(get("b", out), FARKV_ENOTFOUND);
	assert_value("a", "one");

	/* A deferred block is waited for, if the deadline allows. */
	fake_server_set(&srv, grant_blocks, 1);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(put("a", i % 2 ? "odd" : "even"), 0);
	assert_value("a", "odd");
	ck_assert_int_eq(del("a"), 0);
	ck_assert_int_eq(del("a"), FARKV_ENOTFOUND);
}

static const struct channel_ops *real_ops;
static unsigned returns; /* that should have been sent */

/* The socket has no room for the first attempt to send the second RETURN. */
static int send_full_once(struct channel *ch, const void *buf, size_t len)
{
	struct msg m;

	if (msg_decode(buf, len, &m) == 0 && m.type == MSG_RETURN &&
	    ++returns == 2)
		return EAGAIN;
	return real_ops->send(ch, buf, len);
}

/* The control thread reads them too, so it is halted meanwhile, as for a fork. */
static void ops_set(struct channel *ch, const struct channel_ops *ops)
{
	control_fork_prepare();
	ch->ops = ops;
	control_fork_parent();
}

TEST_GROUP(.setup = setup_long_grace, .teardown = teardown);

/*
 * The missing memory may be in the handle's own blocks, so a handle that is refused
 * returns everything and asks again; if the socket has no room for all of it, it returns
 * the rest at the next refusal.
 */
TEST(no_space_with_a_full_socket_returns_all_blocks)
{
	struct channel *ch = kv->conn.session->ch;
	static struct channel_ops ops;

	/* More blocks wait than fit into three messages. */
	for (unsigned i = 0; i < 4 * INVENTORY_RETURN_MAX; i++)
		ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	real_ops = ch->ops;
	ops = *real_ops;
	ops.send = send_full_once;
	ops_set(ch, &ops);
	fake_server_set(&srv, grant_blocks, 0);
	ck_assert_int_eq(farkv_put(kv, "big", 3, srv.meta, 5000), FARKV_ENOSPC);
	heard_by_server();
	ck_assert_uint_ge(returns, 5);
	ck_assert_uint_eq(srv.granted - srv.returned, 1);
	ops_set(ch, real_ops);
}

static unsigned attempts; /* to send a RETURN */
static bool refuses;
#define KEYS 2000u

static int send_counted(struct channel *ch, const void *buf, size_t len)
{
	struct msg m;

	if (msg_decode(buf, len, &m) || m.type != MSG_RETURN)
		return real_ops->send(ch, buf, len);
	attempts++;
	return refuses ? EAGAIN : real_ops->send(ch, buf, len);
}

static void put_until_housekeeping(void)
{
	do
		ck_assert_int_eq(put("k", "v"), 0);
	while (kv->mutations % HANDLE_HOUSEKEEPING);
	heard_by_server();
}

/* These calls need no blocks. */
static void delete_keys(unsigned from, unsigned to)
{
	char key[16];

	for (unsigned i = from; i < to; i++) {
		snprintf(key, sizeof(key), "%u", i);
		ck_assert_int_eq(del(key), 0);
	}
}

TEST_GROUP(.setup = setup, .teardown = teardown);

/*
 * The surplus goes back one message at a time, and is not retried continually while the
 * socket is full: a put does not wait for all of it.
 */
TEST(surplus_goes_back_a_message_at_a_time)
{
	struct channel *ch = kv->conn.session->ch;
	static struct channel_ops ops;
	uint64_t before;
	char key[16];

	for (unsigned i = 0; i < 2 * KEYS; i++) {
		snprintf(key, sizeof(key), "%u", i % KEYS);
		ck_assert_int_eq(farkv_put(kv, key, strlen(key), srv.meta,
					   i < KEYS ? 1900 : 9), 0);
		/*
		 * If that takes longer than the grace period, most blocks would go back
		 * meanwhile.
		 */
		kv->conn.alloc->gained = 0;
	}
	no_grant_out();
	real_ops = ch->ops;
	ops = *real_ops;
	ops.send = send_counted;
	ops_set(ch, &ops);
	/* The large blocks have waited long enough: more than a sixteenth of the region. */
	clock_sleep_ns(2 * srv.sb.grace_ns);
	before = srv.returned;
	put_until_housekeeping();
	refuses = true;
	attempts = 0;
	delete_keys(0, HANDLE_HOUSEKEEPING);
	ck_assert_uint_eq(attempts, 1);
	refuses = false;
	delete_keys(HANDLE_HOUSEKEEPING, KEYS);
	ck_assert_uint_eq(attempts, 1);
	/* The one that blocks a request for blocks, and the next. */
	put_until_housekeeping();
	ck_assert_uint_le(attempts, 3);
	for (unsigned i = 4; i <= 8; i++) {
		put_until_housekeeping();
		ck_assert_uint_le(attempts, i);
	}
	ck_assert_uint_ge(srv.returned - before, 4 * INVENTORY_RETURN_MAX);
	ops_set(ch, real_ops);
}

TEST_GROUP(.setup = setup_long_grace, .teardown = teardown);

/*
 * With a deferred block whose wait exceeds the deadline the server's answer decides: a
 * refusal is ENOSPC at once, silence is ETIMEDOUT.
 */
TEST(deferred_block_beyond_the_deadline_is_not_waited_for)
{
	fake_server_set(&srv, keep_deferred, true);
	uint64_t t = clock_now_ns();

	fake_server_set(&srv, grant_blocks, 2);
	ck_assert_int_eq(put("a", "one"), 0);
	ck_assert_int_eq(put("a", "two"), 0);
	ck_assert_int_eq(put("a", "three"), FARKV_ENOSPC);
	assert_detail("--memory");
	ck_assert_uint_lt(clock_now_ns() - t, LONG_MS / 2 * NS_PER_MS);
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(20);
	ck_assert_int_eq(put("a", "three"), FARKV_ETIMEDOUT);
	assert_detail("no block of 64 bytes");
	assert_value("a", "two");
}

/* The second request gets "wait", and after the resulting RETURN "none". */
static void *say_no_late(void *arg)
{
	struct msg full = {.type = MSG_STATS, .stats = {.n = 1}};
	struct msg none = {.type = MSG_GRANT};

	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 2));
	none.req = srv.held[0].req;
	full.stats.stat[0].id = MSG_STAT_FULL_CLASS;
	fake_server_send(&srv, &full, NULL);
	ck_assert(fake_server_wait(&srv, MSG_RETURN, 1));
	fake_server_set(&srv, n_held, 0);
	fake_server_set(&srv, hold_grants, false);
	fake_server_send(&srv, &none, NULL);
	return NULL;
}

/* After the RETURN the server may grant what it denied before. */
TEST(denial_before_a_return_does_not_count)
{
	pthread_t t;

	ck_assert_int_eq(put("a", "one"), 0);
	no_grant_out();
	kv->prefetch_ns = UINT64_MAX;
	ck_assert_int_eq(put("a", "two"), 0);
	fake_server_set(&srv, grant_blocks, 0);
	fake_server_set(&srv, hold_grants, true);
	pthread_create(&t, NULL, say_no_late, NULL);
	ck_assert_int_eq(put("a", "three"), 0);
	pthread_join(t, NULL);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_GRANT_REQ), 3);
	assert_value("a", "three");
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(bad_grant_ends_the_session)
{
	struct msg m = {.type = MSG_GRANT};
	struct block_ref inside = {.off = META_ALIGN + (8 << 20), .cls = 0};
	struct block_ref outside = {.off = META_ALIGN - 64, .cls = 0};

	/* Not requested. */
	m.blocks.n = 1;
	fake_server_send(&srv, &m, &inside);
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("protocol error");
	ck_assert_int_eq(put("k", "v"), 0);

	/* Requested, but it would overwrite the superblock. */
	fake_server_set(&srv, hold_grants, true);
	set_timeout_ms(20);
	ck_assert_int_eq(farkv_put(kv, "l", 1, srv.meta, 5000),
			 FARKV_ETIMEDOUT);
	set_timeout_ms(LONG_MS);
	fake_server_send(&srv, &m, &outside);
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("outside its region");
}

/* The handle is idle, so only the control thread can return blocks. */
TEST(reclaim_of_an_idle_handle_returns_blocks)
{
	struct msg m = {.type = MSG_RECLAIM, .epoch.number = 1 << 20};
	struct msg barrier = {.type = MSG_BARRIER};

	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	ck_assert_uint_gt(srv.granted, 1);
	fake_server_send(&srv, &m, NULL);
	fake_server_send(&srv, &barrier, NULL);
	/* The RETURNs came before that answer. */
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(srv.granted - srv.returned, 1);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr) & PENDING_RECLAIM, 0);
	assert_value("k", "v");
	ck_assert_int_eq(put("k", "w"), 0);
}

TEST_SUITE("session, blocks")
