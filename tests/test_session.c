/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle's life with a server that hesitates, lies, stops or goes away. The
 * server is tests/fake_server.c, so every moment can be chosen.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "client/handle.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/index_priv.h"
#include "fake_server.h"
#include "test_main.h"

/*
 * Deadlines of two kinds: a call that must succeed has the time of a busy machine, and
 * one that must time out has little, but says what it lacks first.
 */
#define LONG_MS (FAKE_WAIT_S * 1000u)

static struct fake_server srv;
static struct farkv *kv;

static struct farkv *open_handle(void)
{
	struct farkv *h = NULL;
	struct farkv_options o;
	int err;

	farkv_options_init(&o);
	o.connect_timeout_ms = o.op_timeout_ms = LONG_MS;
	err = farkv_open(srv.path, &o, &h);
	ck_assert_msg(err == 0, "%s", farkv_errdetail());
	return h;
}

static void setup(void)
{
	fake_server_init(&srv, F_SEAL_SHRINK | F_SEAL_GROW);
	fake_server_start(&srv);
	kv = open_handle();
}

/* Blocks in limbo stay there; no READ is so slow that it must be done again. */
static void setup_long_grace(void)
{
	fake_server_init(&srv, F_SEAL_SHRINK | F_SEAL_GROW);
	srv.sb.grace_ns = 2 * LONG_MS * NS_PER_MS;
	fake_server_superblock(&srv, true);
	fake_server_start(&srv);
	kv = open_handle();
}

static void teardown(void)
{
	farkv_close(kv);
	fake_server_fini(&srv);
}

static void set_timeout_ms(unsigned ms)
{
	kv->op_timeout_ns = ms * NS_PER_MS;
}

static int put(const char *key, const char *value)
{
	return farkv_put(kv, key, strlen(key), value, strlen(value));
}

static int get(const char *key, char out[64])
{
	struct farkv_value v;
	int err = farkv_get(kv, key, strlen(key), &v);

	if (!err)
		snprintf(out, 64, "%.*s", (int)v.len, (const char *)v.data);
	return err;
}

static int del(const char *key)
{
	return farkv_delete(kv, key, strlen(key));
}

static void assert_value(const char *key, const char *value)
{
	char out[64];

	ck_assert_int_eq(get(key, out), 0);
	ck_assert_str_eq(out, value);
}

/* Close, and let it take its time to say goodbye. */
static void close_at_leisure(void)
{
	kv->farewell_ns = LONG_MS * NS_PER_MS;
	farkv_close(kv);
}

/* Until the session is over, which the next call is told, or sees to. */
static void wait_broken(void)
{
	uint64_t end = clock_now_ns() + LONG_MS * NS_PER_MS;

	while (!(gate_alerts(kv->gate) & GATE_BROKEN)) {
		ck_assert_uint_lt(clock_now_ns(), end);
		clock_sleep_ns(NS_PER_MS / 10);
	}
}

static void assert_detail(const char *says)
{
	ck_assert_msg(strstr(farkv_errdetail(), says) != NULL,
		      "'%s' lacks '%s'", farkv_errdetail(), says);
}

/* ---- blocks ------------------------------------------------------------------ */

START_TEST(test_basics)
{
	struct farkv_value v;
	uint64_t version;
	char out[64];

	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_str_eq(farkv_errdetail(), "no value is stored under the key");
	ck_assert_int_eq(put("k", "one"), 0);
	assert_value("k", "one");
	ck_assert_int_eq(farkv_add(kv, "k", 1, "x", 1), FARKV_EEXISTS);
	assert_detail("has a value");
	ck_assert_int_eq(farkv_replace(kv, "none", 4, "x", 1), FARKV_ENOTFOUND);
	ck_assert_int_eq(farkv_get(kv, "k", 1, &v), 0);
	ck_assert_int_eq(farkv_cas(kv, "k", 1, "two", 3, v.version, &version),
			 0);
	ck_assert_uint_ne(version, v.version);
	ck_assert_int_eq(farkv_cas(kv, "k", 1, "3", 1, v.version, NULL),
			 FARKV_EVERSION);
	assert_detail("written since");
	assert_value("k", "two");
	ck_assert_int_eq(del("k"), 0);
	ck_assert_int_eq(del("k"), FARKV_ENOTFOUND);
	/* One session's versions carry its prefix. */
	ck_assert_uint_eq(version >> 32, 100);
}
END_TEST

START_TEST(test_late_grant)
{
	fake_server_set(&srv, hold_grants, true);
	set_timeout_ms(40);
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("no block of 64 bytes");
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_release(&srv);
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "v"), 0);
	/* The late block was used: nothing was asked for again. */
	ck_assert_uint_eq(fake_server_count(&srv, MSG_GRANT_REQ), 1);
	assert_value("k", "v");
}
END_TEST

/* A call that has no time left when it lacks a block asks for it all the same: with
 * short deadlines, on a busy machine, no call would ever get further. */
START_TEST(test_late_call_asks)
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
END_TEST

START_TEST(test_first_put_asks_for_two_blocks_and_gives_one_back)
{
	ck_assert_int_eq(put("k", "v"), 0);
	close_at_leisure();
	ck_assert_uint_eq(srv.granted, 2);
	ck_assert_uint_eq(srv.returned, 1);
	kv = open_handle();
}
END_TEST

START_TEST(test_close_returns_everything)
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
END_TEST

static void *release_later(void *arg)
{
	(void)arg;
	/* The RETURN of what is held shows that close has begun. */
	ck_assert(fake_server_wait(&srv, MSG_RETURN, 1));
	fake_server_release(&srv);
	return NULL;
}

START_TEST(test_close_returns_late_grants)
{
	pthread_t t;

	ck_assert_int_eq(put("a", "v"), 0);
	ck_assert_int_eq(put("a", "w"), 0); /* a limbo block to return */
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
END_TEST

START_TEST(test_close_of_a_stopped_server)
{
	uint64_t t;

	ck_assert_int_eq(put("a", "v"), 0);
	fake_server_set(&srv, deaf, true);
	t = clock_now_ns();
	farkv_close(kv);
	t = clock_now_ns() - t;
	/* A second, which is not the deadline of operations. */
	ck_assert_uint_ge(t, 900 * NS_PER_MS);
	ck_assert_uint_lt(t, LONG_MS / 2 * NS_PER_MS);
	fake_server_set(&srv, deaf, false);
	kv = open_handle();
}
END_TEST

START_TEST(test_no_space)
{
	char out[64];

	fake_server_set(&srv, grant_blocks, 1);
	ck_assert_int_eq(put("a", "one"), 0);
	ck_assert_int_eq(put("b", "no"), FARKV_ENOSPC);
	assert_detail("--memory");
	ck_assert_int_eq(get("b", out), FARKV_ENOTFOUND);
	assert_value("a", "one");

	/* A block in limbo is waited for, if the deadline allows. */
	fake_server_set(&srv, grant_blocks, 1);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(put("a", i % 2 ? "odd" : "even"), 0);
	assert_value("a", "odd");
	ck_assert_int_eq(del("a"), 0);
	ck_assert_int_eq(del("a"), FARKV_ENOTFOUND);
}
END_TEST

/* With a block in limbo that the deadline does not allow to wait for, the
 * server's word decides: no is ENOSPC at once, silence is ETIMEDOUT. */
START_TEST(test_limbo_beyond_the_deadline)
{
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
END_TEST

START_TEST(test_bad_grants)
{
	struct msg m = {.type = MSG_GRANT};
	struct block_ref inside = {.off = META_ALIGN + (8 << 20), .cls = 0};
	struct block_ref outside = {.off = META_ALIGN - 64, .cls = 0};

	/* Nobody asked. */
	m.blocks.n = 1;
	fake_server_send(&srv, &m, &inside);
	wait_broken();
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	assert_detail("protocol error");
	ck_assert_int_eq(put("k", "v"), 0);

	/* Asked for, but it would overwrite the superblock. */
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
END_TEST

/* ---- the connection ------------------------------------------------------------ */

START_TEST(test_reconnect)
{
	ck_assert_int_eq(put("k", "v"), 0);
	fake_server_hangup(&srv);
	wait_broken();
	/* The region is the same: nobody needs to know. */
	assert_value("k", "v");
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	ck_assert_uint_eq(srv.hello_replaces, 100);
	ck_assert_uint_eq(srv.hello_replaces_region, srv.sb.region_id[0]);
	ck_assert_int_eq(put("k", "w"), 0);
	assert_value("k", "w");
}
END_TEST

START_TEST(test_server_gone)
{
	struct farkv_counters c = {.size = sizeof(c)};
	uint64_t reads;
	char out[64];

	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	reads = c.reads;
	fake_server_fini(&srv);
	wait_broken();
	ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	assert_detail("cannot reconnect: no server at");
	/* No storm of attempts: calls that follow soon enough are told so. */
	for (int i = 0; i < 1000 && !strstr(farkv_errdetail(), "next attempt");
	     i++)
		ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	assert_detail("next attempt");
	ck_assert_int_eq(farkv_ping(kv, NULL), FARKV_EDISCONNECTED);
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	ck_assert_uint_ge(c.reads, reads);

	/* Another server at the same place: another region, never old data. */
	farkv_close(kv);
	fake_server_init(&srv, F_SEAL_SHRINK | F_SEAL_GROW);
	fake_server_start(&srv);
	kv = open_handle();
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
}
END_TEST

static void *hangup_when_asked(void *arg)
{
	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_set(&srv, hold_grants, false);
	fake_server_hangup(&srv);
	return NULL;
}

START_TEST(test_hangup_while_waiting)
{
	uint64_t t = clock_now_ns();
	pthread_t thread;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&thread, NULL, hangup_when_asked, NULL);
	/* The call goes on by a new session, where it asks again. */
	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_uint_lt(clock_now_ns() - t, LONG_MS / 2 * NS_PER_MS);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	assert_value("k", "v");
}
END_TEST

static void *restart_when_asked(void *arg)
{
	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	srv.sb.region_id[0] ^= 1;
	superblock_seal(&srv.sb);
	memcpy(srv.meta, &srv.sb, sizeof(srv.sb));
	fake_server_set(&srv, hold_grants, false);
	fake_server_hangup(&srv);
	return NULL;
}

/* In another region a call must not go on as if nothing had happened. */
START_TEST(test_restart_while_waiting)
{
	pthread_t thread;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&thread, NULL, restart_when_asked, NULL);
	ck_assert_int_eq(put("k", "v"), FARKV_EDISCONNECTED);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	/* It was told: the next call is at home in the new one. */
	ck_assert_int_eq(put("k", "v"), 0);
	assert_value("k", "v");
}
END_TEST

START_TEST(test_bad_message)
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
END_TEST

START_TEST(test_stopped_server)
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
	/* A block request finds no room: it must not be forgotten. */
	set_timeout_ms(30);
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	fake_server_set(&srv, deaf, false);
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "v"), 0);
	/* Late PONGs are not taken for the answer to this one. */
	ck_assert_int_eq(farkv_ping(kv, &rtt), 0);
}
END_TEST

START_TEST(test_stats_size)
{
	struct {
		struct farkv_stats s;
		uint64_t future;
	} big;
	struct farkv_stats s;

	memset(&s, 0xA5, sizeof(s));
	s.size = sizeof(s);
	ck_assert_int_eq(farkv_stats(kv, &s), 0);
	ck_assert_uint_eq(s.grace_ns, 77);
	ck_assert_uint_eq(s.uptime_ms, 0);
	ck_assert_uint_eq(s.size, sizeof(s));

	/* An older program's struct ends earlier; nothing behind is touched. */
	memset(&s, 0xA5, sizeof(s));
	s.size = offsetof(struct farkv_stats, grace_ns);
	ck_assert_int_eq(farkv_stats(kv, &s), 0);
	ck_assert_uint_eq(s.max_key, 0);
	ck_assert_uint_eq(s.grace_ns, UINT64_C(0xA5A5A5A5A5A5A5A5));

	memset(&big, 0xA5, sizeof(big));
	big.s.size = sizeof(big);
	ck_assert_int_eq(farkv_stats(kv, &big.s), 0);
	ck_assert_uint_eq(big.s.grace_ns, 77);
	ck_assert_uint_eq(big.future, 0);

	s.size = 0;
	ck_assert_int_eq(farkv_stats(kv, &s), FARKV_EINVAL);
	ck_assert_int_eq(farkv_stats(kv, NULL), FARKV_EINVAL);
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(30);
	memset(&s, 0xA5, sizeof(s));
	s.size = sizeof(s);
	ck_assert_int_eq(farkv_stats(kv, &s), FARKV_ETIMEDOUT);
	ck_assert_uint_eq(s.uptime_ms, UINT64_C(0xA5A5A5A5A5A5A5A5));
	fake_server_set(&srv, ignore_requests, false);
}
END_TEST

START_TEST(test_readonly_grant)
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
END_TEST

/* ---- barrier and reclaim ----------------------------------------------------------- */

START_TEST(test_barrier)
{
	struct msg barrier = {.type = MSG_BARRIER};
	struct msg marker = {.type = MSG_PREFIX, .prefix.prefix = 5000};
	struct farkv_counters c = {.size = sizeof(c)};
	uint64_t reads;
	char out[64];

	/* Idle: at once. */
	barrier.epoch.number = 7;
	fake_server_send(&srv, &barrier, NULL);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(srv.ack_number, 7);

	/* The directory was dropped: D, the array and D again, then the key. */
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	reads = c.reads;
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	ck_assert_uint_eq(c.reads - reads, 4);
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	ck_assert_uint_eq(c.reads - reads, 5);

	/* An operation runs: not before it ends. Mail that is sent later and has
	 * come shows that the barrier was seen. */
	ck_assert(gate_enter(kv->gate));
	barrier.epoch.number = 8;
	fake_server_send(&srv, &barrier, NULL);
	fake_server_send(&srv, &marker, NULL);
	session_wait(kv->link.session,
		     clock_now_ns() + LONG_MS * NS_PER_MS);
	ck_assert_uint_ne(gate_alerts(kv->gate) & GATE_MAIL, 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 1);
	gate_leave(kv->gate);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 2));
	ck_assert_uint_eq(srv.ack_number, 8);
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_uint_eq(gate_alerts(kv->gate), 0);
}
END_TEST

static void *barrier_when_asked(void *arg)
{
	struct msg barrier = {.type = MSG_BARRIER, .epoch.number = 5};

	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_send(&srv, &barrier, NULL);
	/* Trap 16: the barrier must not wait for who waits for the server. */
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	fake_server_release(&srv);
	return NULL;
}

START_TEST(test_barrier_while_waiting)
{
	pthread_t t;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&t, NULL, barrier_when_asked, NULL);
	ck_assert_int_eq(put("k", "v"), 0);
	pthread_join(t, NULL);
	assert_value("k", "v");
}
END_TEST

/* The handle is idle: nobody but the control thread can give anything back. */
START_TEST(test_reclaim)
{
	struct msg m = {.type = MSG_RECLAIM, .epoch.number = 1 << 20};
	struct msg barrier = {.type = MSG_BARRIER};

	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(put("k", "v"), 0);
	/* What was asked for ahead of need has come. */
	while (session_grants_out(kv->link.session) > 0)
		ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0); /* takes it from the mail */
	ck_assert_uint_gt(srv.granted, 1);
	fake_server_send(&srv, &m, NULL);
	fake_server_send(&srv, &barrier, NULL);
	/* The RETURNs came before that answer. */
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(srv.granted - srv.returned, 1);
	ck_assert_uint_eq(gate_alerts(kv->gate) & GATE_RECLAIM, 0);
	assert_value("k", "v");
	ck_assert_int_eq(put("k", "w"), 0);
}
END_TEST

/* ---- versions ---------------------------------------------------------------------- */

START_TEST(test_prefix_ahead)
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
END_TEST

START_TEST(test_prefix_used_up)
{
	struct farkv_value v;

	ck_assert_int_eq(put("k", "v"), 0);
	kv->link.index->counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(30);
	ck_assert_int_eq(put("k", "w"), FARKV_ETIMEDOUT);
	assert_detail("version numbers");
	assert_value("k", "v");
	fake_server_set(&srv, ignore_requests, false);
	kv->link.prefix_asked = false; /* that one was ignored for good */
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "w"), 0);
	ck_assert_int_eq(farkv_get(kv, "k", 1, &v), 0);
	ck_assert_uint_eq(v.version >> 32, 1002);
}
END_TEST

/* ---- the index's server -------------------------------------------------------------- */

/* Key number `n` of those whose window starts at the first line. */
static void crowded_key(char key[16], unsigned n)
{
	static unsigned long i;

	for (;; i++) {
		snprintf(key, 16, "%lu", i);
		if (hash_home_line(hash_key(srv.sb.hash_seed, key,
					    strlen(key))) == 0) {
			i++;
			(void)n;
			return;
		}
	}
}

START_TEST(test_index_full)
{
	char key[16];
	unsigned n = 0;
	int err;

	do {
		crowded_key(key, n++);
		err = put(key, "v");
		ck_assert_int_lt(n, 100);
	} while (err == 0);
	ck_assert_int_eq(err, FARKV_ENOSPC);
	assert_detail("no memory left to enlarge the index");
	ck_assert_uint_eq(n, WINDOW_SLOTS + 1);
	/* One early hint came before, with the last slot. */
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HINT), 2);
	fake_server_set(&srv, hint_status, MSG_HINT_FULL);
	ck_assert_int_eq(put(key, "v"), FARKV_EINDEXFULL);
	assert_detail("largest size");
	fake_server_set(&srv, hint_status, MSG_HINT_WORKING);
	/* It goes on asking, as long as it has time. */
	n = fake_server_count(&srv, MSG_HINT);
	for (unsigned ms = 300; ms < LONG_MS; ms *= 2) {
		set_timeout_ms(ms);
		ck_assert_int_eq(put(key, "v"), FARKV_ETIMEDOUT);
		if (fake_server_count(&srv, MSG_HINT) > n + 2)
			break;
		n = fake_server_count(&srv, MSG_HINT);
	}
	assert_detail("not enlarged");
	ck_assert_uint_gt(fake_server_count(&srv, MSG_HINT), n + 2);
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(30);
	ck_assert_int_eq(put(key, "v"), FARKV_ETIMEDOUT);
	assert_detail("HINT");
	fake_server_set(&srv, ignore_requests, false);
}
END_TEST

static uint64_t *slots(unsigned page)
{
	return (uint64_t *)(void *)(srv.data + (size_t)page * PAGE_BYTES);
}

static void freeze(void)
{
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		__atomic_fetch_or(&slots(0)[i], SLOT_FROZEN, __ATOMIC_SEQ_CST);
}

/* What a migration publishes: the same subtable on another page. */
static void *migrate_soon(void *arg)
{
	uint64_t *entry = (uint64_t *)(void *)(srv.meta + REGION_DIR_OFF);

	(void)arg;
	clock_sleep_ns(20 * NS_PER_MS);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t w = slots(0)[i] & ~SLOT_FROZEN;

		slots(400)[i] = slot_is_null(w) ? slot_empty(2) : w;
	}
	__atomic_store_n(entry, entry_pack(META_ALIGN / PAGE_BYTES + 400, 2, 0),
			 __ATOMIC_RELEASE);
	return NULL;
}

START_TEST(test_frozen)
{
	pthread_t t;

	ck_assert_int_eq(put("k", "v"), 0);
	freeze();
	assert_value("k", "v");
	set_timeout_ms(20);
	ck_assert_int_eq(put("k", "w"), FARKV_ETIMEDOUT);
	assert_detail("rebuilding");
	ck_assert_int_eq(del("k"), FARKV_ETIMEDOUT);
	assert_value("k", "v");
	set_timeout_ms(LONG_MS);
	pthread_create(&t, NULL, migrate_soon, NULL);
	ck_assert_int_eq(put("k", "w"), 0);
	pthread_join(t, NULL);
	assert_value("k", "w");
	ck_assert_int_eq(put("new", "x"), 0);
	assert_value("new", "x");
}
END_TEST

/* ---- fork --------------------------------------------------------------------------- */

/* 0, or the number of the first step that failed. */
static int child_main(void)
{
	char out[64];
	struct farkv *own;

	if (get("k", out) != FARKV_EDISCONNECTED ||
	    !strstr(farkv_errdetail(), "before fork()"))
		return 1;
	if (put("k", "child") != FARKV_EDISCONNECTED)
		return 2;
	if (farkv_ping(kv, NULL) != FARKV_EDISCONNECTED)
		return 3;
	farkv_close(kv);
	own = open_handle();
	kv = own;
	if (get("k", out) != 0 || strcmp(out, "v") != 0)
		return 4;
	farkv_close(own);
	return 0;
}

START_TEST(test_fork)
{
	int said[2], step = -1;
	pid_t pid;

	if (test_tsan_skips("fork"))
		return;
	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(pipe(said), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	/* Not by its exit status: that is valgrind's, which finds in it what others
	 * would free at exit(). */
	if (pid == 0) {
		step = child_main();
		(void)!write(said[1], &step, sizeof(step));
		_exit(0);
	}
	close(said[1]);
	ck_assert_int_eq(read(said[0], &step, sizeof(step)), sizeof(step));
	ck_assert_int_eq(step, 0);
	close(said[0]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	/*
	 * The fake server has one connection: the child's took the parent's, as
	 * the parent notices soon, and connects anew.
	 */
	for (int i = 0; i < 10000 && fake_server_count(&srv, MSG_HELLO) < 3; i++) {
		ck_assert_int_eq(put("k", "w"), 0);
		usleep(1000);
	}
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 3);
	assert_value("k", "w");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("session");
	TCase *t = tcase_create("session");
	TCase *t_grace = tcase_create("session, long grace period");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 40);
	tcase_add_test(t, test_basics);
	tcase_add_test(t, test_late_grant);
	tcase_add_test(t, test_late_call_asks);
	tcase_add_test(t, test_first_put_asks_for_two_blocks_and_gives_one_back);
	tcase_add_test(t, test_close_returns_everything);
	tcase_add_test(t, test_close_returns_late_grants);
	tcase_add_test(t, test_close_of_a_stopped_server);
	tcase_add_test(t, test_no_space);
	tcase_add_test(t, test_bad_grants);
	tcase_add_test(t, test_reconnect);
	tcase_add_test(t, test_server_gone);
	tcase_add_test(t, test_hangup_while_waiting);
	tcase_add_test(t, test_restart_while_waiting);
	tcase_add_test(t, test_bad_message);
	tcase_add_test(t, test_stopped_server);
	tcase_add_test(t, test_stats_size);
	tcase_add_test(t, test_readonly_grant);
	tcase_add_test(t, test_barrier_while_waiting);
	tcase_add_test(t, test_reclaim);
	tcase_add_test(t, test_prefix_ahead);
	tcase_add_test(t, test_prefix_used_up);
	tcase_add_test(t, test_index_full);
	tcase_add_test(t, test_fork);
	suite_add_tcase(s, t);

	tcase_add_checked_fixture(t_grace, setup_long_grace, teardown);
	tcase_set_timeout(t_grace, 40);
	tcase_add_test(t_grace, test_limbo_beyond_the_deadline);
	tcase_add_test(t_grace, test_barrier);
	tcase_add_test(t_grace, test_frozen);
	suite_add_tcase(s, t_grace);
	return s;
}

TEST_MAIN(suite())
