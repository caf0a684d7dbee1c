/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that lie, send garbage and leave in the middle, with a real kvserver: whatever
 * they send, other clients are served, and nothing of them is left.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/index/alloc.h"
#include "common/region/hash.h"
#include "common/proto/msg.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"

static struct real_server srv;

/* Except the tethers of sessions that this process has mapped. */
static unsigned server_fds(void)
{
	return real_server_fds(&srv);
}

static unsigned idle_fds; /* of the server without clients */

static void setup(void)
{
	static const char *const args[] = {"-m", "64", NULL};

	real_server_init(&srv, args);
	idle_fds = server_fds();
}

/* A good client, and the server's figures about the others. */
static struct farkv_stats good_client(void)
{
	struct farkv *kv = e2e_open(srv.path, 30000);
	struct farkv_stats s = {.size = sizeof(s)};

	OK(e2e_put(kv, "good", "value"));
	e2e_expect_str(kv, "good", "value");
	OK(farkv_stats(kv, &s));
	farkv_close(kv);
	return s;
}

/* Waits until the server has noticed the ends of connections. */
static void wait_for_sessions(uint64_t want)
{
	for (int i = 0; i < 3000; i++) {
		if (good_client().sessions == want + 1)
			return;
		usleep(10000);
	}
	ck_abort_msg("%llu sessions stay",
		     (unsigned long long)good_client().sessions - 1);
}

/* A good client's own connection may still be closing. */
static void check_server_fds(unsigned want)
{
	for (int i = 0; i < 3000 && server_fds() != want; i++)
		usleep(10000);
	ck_assert_uint_eq(server_fds(), want);
}

/* ---- the wire -------------------------------------------------------------------- */

static int dial(void)
{
	return raw_dial(srv.path);
}

static size_t encode(const struct msg *m, const struct block_ref *refs,
		     uint8_t *buf)
{
	size_t len;

	ck_assert_int_eq(msg_encode(m, refs, buf, MSG_MAX_BYTES, &len), 0);
	return len;
}

static void reseal(uint8_t *buf, size_t len)
{
	uint32_t sum = (uint32_t)XXH3_64bits_withSeed(
		buf + MSG_HEADER_BYTES, len - MSG_HEADER_BYTES,
		hash_image(buf, MSG_HEADER_BYTES - 4));

	memcpy(buf + MSG_HEADER_BYTES - 4, &sum, sizeof(sum));
}

static const struct msg hello = {.type = MSG_HELLO, .req = 1,
				 .hello = {.name = (const uint8_t *)"bad",
					   .name_len = 3}};

static int session(void)
{
	return raw_session(srv.path, MSG_ROLE_RW, NULL);
}

/* The session ends, with a reason if the server can still send it. */
static void check_thrown_out(int fd, unsigned reason)
{
	struct msg m = raw_hear(fd);

	if (m.type == MSG_REFUSE) {
		ck_assert_uint_eq(m.refuse.reason, reason);
		ck_assert_uint_gt(m.refuse.text_len, 0);
		m = raw_hear(fd);
	}
	ck_assert_uint_eq(m.type, 0);
	close(fd);
}

/* ---- tests ------------------------------------------------------------------------ */

/* One of each message that a client may send. */
static size_t client_message(int i, uint8_t *buf)
{
	static const struct block_ref ref = {.off = 0x200000, .cls = 0};
	const struct msg all[] = {
		hello,
		{.type = MSG_GRANT_REQ, .req = 2, .grant_req = {0, 1}},
		{.type = MSG_RETURN, .blocks = {.n = 1}},
		{.type = MSG_HINT, .req = 3, .hint = {RAW_INDEX_PAGE(64), 1, 1}},
		{.type = MSG_PREFIX_REQ, .req = 4},
		{.type = MSG_STATS_REQ, .req = 5},
		{.type = MSG_PING, .req = 6, .epoch = {7}},
		{.type = MSG_BARRIER_ACK, .epoch = {1}},
		{.type = MSG_SWEEP_ACK, .epoch = {1}},
		{.type = MSG_SWEEP_CLAIM, .blocks = {.number = 1, .n = 1}},
		{.type = MSG_BYE, .req = 8},
		{.type = MSG_AUTH, .req = 9,
		 .auth = {.name = (const uint8_t *)"bad", .name_len = 3}},
		{.type = MSG_FSCK_REQ, .req = 10},
		{.type = MSG_CLIENT_REQ, .req = 11},
		{.type = MSG_KILL, .req = 12, .epoch = {1u << 31}},
		{.type = MSG_CLASS_REQ, .req = 13},
		{.type = MSG_PAUSE_REQ, .req = 14},
		{.type = MSG_MAP_ACK, .epoch = {1}},
		{.type = MSG_PASS, .req = 15, .epoch = {MSG_PASS_FOLLOW}},
		{.type = MSG_WAIT_REQ, .req = 16},
	};

	return encode(&all[i], &ref, buf);
}
#define CLIENT_MESSAGES 19

static void teardown(void)
{
	good_client();
	real_server_fini(&srv);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST_LOOP(damaged_message_ends_the_session_alone, 0, CLIENT_MESSAGES)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len = client_message(_i, buf);
	uint64_t before = good_client().protocol_errors, sent = 0;

	for (size_t at = 0; at < len; at++) {
		int fd = session();

		buf[at] ^= 1u << at % 8;
		ck_assert_int_eq(send(fd, buf, len, MSG_NOSIGNAL),
				 (ssize_t)len);
		buf[at] ^= 1u << at % 8;
		check_thrown_out(fd, MSG_REASON_PROTOCOL);
		fd = session();
		ck_assert_int_eq(send(fd, buf, at ? at : 1, MSG_NOSIGNAL),
				 (ssize_t)(at ? at : 1));
		check_thrown_out(fd, MSG_REASON_PROTOCOL);
		sent += 2;
	}
	wait_for_sessions(0);
	ck_assert_uint_eq(good_client().protocol_errors, before + sent);
	check_server_fds(idle_fds);
}

/* With fitting length and checksum: it may be understood, no more. */
TEST_LOOP(resealed_message_is_answered_or_refused, 0, CLIENT_MESSAGES)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len = client_message(_i, buf);

	for (size_t at = 0; at < len; at++) {
		struct pollfd p = {.fd = session(), .events = POLLIN};

		buf[at] ^= 1u << at % 8;
		reseal(buf, len);
		ck_assert_int_eq(send(p.fd, buf, len, MSG_NOSIGNAL),
				 (ssize_t)len);
		buf[at] ^= 1u << at % 8;
		if (poll(&p, 1, 0) > 0)
			(void)raw_hear(p.fd);
		close(p.fd);
	}
	wait_for_sessions(0);
}

/* BYE ends a session: a client that continued would hold memory that no barrier covers. */
static void check_after_bye(void)
{
	static const struct msg bye = {.type = MSG_BYE};
	static const struct msg grant = {.type = MSG_GRANT_REQ,
					 .grant_req = {.cls = 1, .count = 1}};
	int fd = session();

	raw_say(fd, &bye, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_BYE_ACK);
	/* A client's thread for messages may send this after its handle said BYE. */
	raw_say(fd, &(struct msg){.type = MSG_LEASE_REQ, .req = 1}, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_LEASE);
	raw_say(fd, &grant, NULL);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
}

TEST(messages_out_of_order_are_refused)
{
	static const uint8_t server_types[] = {
		MSG_WELCOME, MSG_REFUSE, MSG_GRANT, MSG_HINT_REPLY, MSG_PREFIX,
		MSG_STATS, MSG_PONG, MSG_BARRIER, MSG_SWEEP_BEGIN,
		MSG_SWEEP_QUERY, MSG_SWEEP_END, MSG_BYE_ACK, MSG_SHUTDOWN,
		MSG_RECLAIM, MSG_CHALLENGE, MSG_FSCK, MSG_MAP,
		MSG_CLIENT, MSG_KILLED, MSG_CLASS, MSG_PAUSE};
	uint8_t buf[MSG_MAX_BYTES];
	int fd;

	for (int i = 1; i < CLIENT_MESSAGES; i++) {
		size_t len = client_message(i, buf);

		fd = dial();
		ck_assert_int_gt(send(fd, buf, len, MSG_NOSIGNAL), 0);
		check_thrown_out(fd, MSG_REASON_PROTOCOL);
	}
	fd = session();
	raw_say(fd, &hello, NULL);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
	fd = session();
	raw_say(fd, &(struct msg){.type = MSG_BARRIER_ACK, .epoch = {1}}, NULL);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
	check_after_bye();
	for (size_t i = 0; i < sizeof(server_types); i++) {
		struct msg m = {.type = server_types[i]};

		if (m.type == MSG_WELCOME)
			m.welcome.n_areas = 1;
		if (m.type == MSG_REFUSE || m.type == MSG_SHUTDOWN)
			m.refuse.reason = MSG_REASON_FULL;
		fd = session();
		raw_say(fd, &m, NULL);
		check_thrown_out(fd, MSG_REASON_PROTOCOL);
	}
	wait_for_sessions(0);
}

TEST(hello_of_another_version_is_refused_with_the_reason)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len = client_message(0, buf);
	struct msg m;
	int fd = dial();

	buf[3] = MSG_PROTOCOL + 1;
	reseal(buf, len);
	ck_assert_int_gt(send(fd, buf, len, MSG_NOSIGNAL), 0);
	m = raw_hear(fd);
	ck_assert_uint_eq(m.type, MSG_REFUSE);
	ck_assert_ptr_nonnull(memmem(m.refuse.text, m.refuse.text_len,
				     "version 4", 9));
	close(fd);
}

static struct block_ref grant_one(int fd, uint8_t cls)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 2, .grant_req = {cls, 1}};

	raw_say(fd, &m, NULL);
	m = raw_hear(fd);
	ck_assert_uint_eq(m.type, MSG_GRANT);
	ck_assert_uint_eq(m.blocks.n, 1);
	return msg_ref(&m, 0);
}

/* Blocks that are not the sender's to return. */
TEST(return_of_a_block_not_granted_ends_the_session)
{
	struct msg ret = {.type = MSG_RETURN, .blocks = {.n = 1}};
	struct block_ref mine, bad[6];
	int fd = session();

	mine = grant_one(fd, 3);
	for (int i = 0; i < 6; i++)
		bad[i] = mine;
	bad[0].off += 32;              /* inside of the block */
	bad[1].off = 64;               /* the superblock */
	bad[2].off = UINT64_C(1) << 38;  /* beyond the region */
	bad[3].cls = 4;                /* another class */
	bad[4].off += 128 * 3;         /* never granted, or granted to others */
	bad[5].off = RAW_INDEX_PAGE(64) * PAGE_BYTES;
	close(fd);
	for (int i = 0; i < 6; i++) {
		fd = session();
		raw_say(fd, &ret, &bad[i]);
		check_thrown_out(fd, MSG_REASON_PROTOCOL);
	}
	/* Twice. */
	fd = session();
	mine = grant_one(fd, 3);
	raw_say(fd, &ret, &mine);
	raw_say(fd, &ret, &mine);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
	wait_for_sessions(0);
}

TEST(return_of_an_older_incarnation_ends_the_session)
{
	struct msg ret = {.type = MSG_RETURN, .blocks = {.n = 1}};
	int fd = session();
	struct block_ref b = grant_one(fd, 5);

	b.inc = 9;
	raw_say(fd, &ret, &b);
	b = grant_one(fd, 5);
	ck_assert_uint_eq(b.inc, 9);
	b.inc = 3;
	raw_say(fd, &ret, &b);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
}

/* How many blocks that are in use one session may return in a minute. */
#define IN_USE_MAX 256u

/* Close a session once the server has read all of its messages. */
static void close_heard(int fd)
{
	raw_say(fd, &(struct msg){.type = MSG_PING, .req = 3}, NULL);
	ck_assert_uint_eq(raw_next(fd).type, MSG_PONG);
	close(fd);
}

/*
 * Blocks that others have published, with every state and incarnation, by sessions that
 * are not ended for it.
 */
static void return_all(const struct raw_region *r)
{
	struct msg ret = {.type = MSG_RETURN, .blocks = {.n = 1}};
	int fd = session();
	unsigned n = 0;

	for (unsigned i = 0; i < 3 * SUBTABLE_SLOTS; i++) {
		uint64_t w = r->slots[i / 3];
		struct block_ref ref = slot_block(w);

		if (slot_is_null(w))
			continue;
		ref.inc = (uint16_t)(ref.inc + i % 7);
		ret.blocks.state = (uint8_t)(i % 3);
		raw_say(fd, &ret, &ref);
		if (++n % IN_USE_MAX)
			continue;
		close_heard(fd);
		fd = session();
	}
	ck_assert_uint_gt(n, 3 * IN_USE_MAX);
	close_heard(fd);
}

TEST(return_of_a_block_that_others_published_is_ignored)
{
	struct farkv *kv = e2e_open(srv.path, 30000);
	struct block_ref refs[1000];
	char key[16], value[200];
	struct raw_region r;
	struct farkv_stats s = {.size = sizeof(s)};
	int fd;

	memset(value, 'v', sizeof(value));
	for (int i = 0; i < 400; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		OK(farkv_put(kv, key, strlen(key), value, (size_t)i % 200));
	}
	OK(farkv_delete(kv, "key0", 4));
	fd = raw_session_map(srv.path, &r);
	return_all(&r);
	for (uint8_t cls = 0; cls < 8; cls++) {
		raw_grant(fd, cls, 1000, refs);
		for (int i = 0; i < 1000; i++)
			memset(r.data + refs[i].off - r.sb.meta_bytes, 0,
			       class_bytes(cls));
	}
	raw_unmap(&r);
	close(fd);
	for (int i = 1; i < 400; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		e2e_expect(kv, key, strlen(key), value, (size_t)i % 200);
	}
	OK(farkv_stats(kv, &s));
	ck_assert_uint_ge(s.protocol_errors, 1);
	farkv_close(kv);
}

TEST(readonly_session_gets_no_memory)
{
	struct msg h = hello, g = {.type = MSG_GRANT_REQ, .grant_req = {0, 1}};
	int fd = dial();

	h.hello.role = MSG_ROLE_RO;
	raw_say(fd, &h, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_WELCOME);
	raw_say(fd, &g, NULL);
	check_thrown_out(fd, MSG_REASON_PERMISSION);
}

/* Sessions and versions share these numbers: without them nobody could connect. */
TEST(readonly_session_gets_no_versions)
{
	struct msg h = hello, p = {.type = MSG_PREFIX_REQ, .req = 2};
	int fd = dial();

	h.hello.role = MSG_ROLE_RO;
	raw_say(fd, &h, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_WELCOME);
	raw_say(fd, &p, NULL);
	check_thrown_out(fd, MSG_REASON_PERMISSION);
}

TEST(readonly_session_does_not_make_the_index_grow)
{
	struct msg h = hello, hint = {.type = MSG_HINT, .hint = {64, 1, 1}};
	int fd = dial();

	h.hello.role = MSG_ROLE_RO;
	raw_say(fd, &h, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_WELCOME);
	raw_say(fd, &hint, NULL);
	check_thrown_out(fd, MSG_REASON_PERMISSION);
}

/* Subtables are never merged, so a lie would cost memory permanently. */
TEST(hint_about_a_subtable_with_room_is_ignored)
{
	struct msg w, r, hint = {.type = MSG_HINT, .req = 2};
	uint64_t pages;
	int fd = dial();

	raw_say(fd, &hello, NULL);
	w = raw_hear(fd);
	ck_assert_uint_eq(w.type, MSG_WELCOME);
	pages = w.welcome.region_bytes / PAGE_BYTES;
	hint.hint.page = w.welcome.meta_bytes / PAGE_BYTES;
	for (; hint.hint.page <= pages; hint.hint.page++)
		for (hint.hint.gen = 1; hint.hint.gen < 4; hint.hint.gen++) {
			hint.hint.full = hint.hint.gen != 3;
			raw_say(fd, &hint, NULL);
			r = raw_hear(fd);
			ck_assert_uint_eq(r.type, MSG_HINT_REPLY);
			ck_assert_uint_eq(r.hint_reply.status, MSG_HINT_DONE);
		}
	close(fd);
	ck_assert_uint_eq(good_client().subtables, 1);
}

/* Endless requests whose answers nobody reads. */
TEST(flood_without_reading_is_cut_off)
{
	struct msg m = {.type = MSG_STATS_REQ};
	uint8_t buf[MSG_MAX_BYTES];
	size_t len = encode(&m, NULL, buf);
	int fd = session();
	bool cut = false;

	for (int i = 0; i < 200000 && !cut; i++) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};

		ck_assert_int_ge(poll(&p, 1, 20000), 0);
		if (send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			cut = errno != EAGAIN;
		if (i % 20000 == 0)
			good_client();
	}
	ck_assert(cut);
	close(fd);
	wait_for_sessions(0);
}

TEST(hundred_sessions_leave_nothing_in_use)
{
	int fd[100];

	for (int i = 0; i < 100; i++)
		fd[i] = i % 3 ? session() : dial(); /* some never say HELLO */
	ck_assert_uint_eq(good_client().sessions, 66 + 1);
	for (int i = 0; i < 100; i++)
		close(fd[i]);
	wait_for_sessions(0);
	check_server_fds(idle_fds);
}

/* A process that is stopped with unread answers delays nobody. */
TEST(stopped_client_delays_nobody)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct msg m = {.type = MSG_STATS_REQ};
		int fd = session();

		for (int i = 0; i < 50; i++)
			raw_say(fd, &m, NULL);
		raise(SIGSTOP);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
	for (int i = 0; i < 20; i++)
		ck_assert_uint_eq(good_client().sessions, 2);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	wait_for_sessions(0);
}

TEST(too_many_sessions_are_refused)
{
	static const char *const args[] = {"-m", "16", "--max-sessions", "3",
					   NULL};
	int fd[3];
	struct farkv *kv;

	real_server_fini(&srv);
	real_server_init(&srv, args);
	for (int i = 0; i < 3; i++)
		fd[i] = session();
	FAILS(FARKV_EREFUSED, farkv_open(srv.path, NULL, &kv));
	e2e_detail("too many sessions");
	close(fd[0]);
	for (int i = 0; i < 500 && farkv_open(srv.path, NULL, &kv); i++)
		usleep(10000);
	OK(e2e_put(kv, "k", "v"));
	farkv_close(kv);
}

/* The oldest silent connection is closed for the new one, with the advice to come again. */
TEST(mute_connection_is_closed_for_a_new_one)
{
	static const char *const args[] = {"-m", "16", "--max-sessions", "3",
					   NULL};
	struct msg m;
	int fd[3];

	real_server_fini(&srv);
	real_server_init(&srv, args);
	for (int i = 0; i < 3; i++)
		fd[i] = i < 2 ? dial() : session();
	good_client();
	m = raw_hear(fd[0]);
	ck_assert_uint_eq(m.type, MSG_REFUSE);
	ck_assert_uint_eq(m.refuse.reason, MSG_REASON_DISPLACED);
	close(fd[0]);
	raw_say(fd[1], &(struct msg){.type = MSG_HELLO, .req = 1}, NULL);
	ck_assert_uint_eq(raw_hear(fd[1]).type, MSG_WELCOME);
	close(fd[1]);
	close(fd[2]);
}

TEST_SUITE("hostile", real_server_require())
