/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sessions that a real kvserver waits for: sessions of this process, which lives on,
 * that end without BYE. A session that never sent READY is not waited for, nor one whose
 * handle is closed.
 */
#include "config.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/handle.h"
#include "client/session_state.h"
#include "tests/rig/e2e.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"
#include "tests/rig/cases.h"

static const struct msg hello = {.type = MSG_HELLO, .req = 1};
static const struct msg ready = {.type = MSG_READY};
static const struct msg bye = {.type = MSG_BYE, .req = 2};

static struct real_server srv;
static struct farkv *watcher; /* a read-only handle */

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", NULL};

	real_server_init(&srv, args);
	watcher = e2e_open_readonly(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(watcher);
	real_server_fini(&srv);
}

/* Until the watcher is the only session, and `others` have been there. */
static void wait_for_the_end_of(uint64_t others)
{
	struct farkv_stats s = {.size = sizeof(s)};

	for (int tries = 0; s.sessions != 1 || s.sessions_total != others + 1;
	     tries++) {
		ck_assert_int_lt(tries, 2000);
		usleep(10000);
		OK(farkv_stats(watcher, &s));
	}
}

/* Whether the server waits for a session that has gone. It looks for two seconds. */
static uint64_t undecided(void)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	OK(farkv_fsck(watcher, &f));
	return f.undecided;
}

/* The session that it names. */
static uint64_t waits(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(watcher, &s));
	return s.barrier_waits;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(session_with_unread_welcome_is_not_waited_for)
{
	int fd = raw_dial(srv.path);

	raw_say(fd, &hello, NULL);
	ck_assert_int_eq(raw_pending(fd, 20000), 1);
	close(fd);
	wait_for_the_end_of(1);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_DECIDED);
}

TEST(session_without_ready_is_not_waited_for)
{
	close(raw_session(srv.path, MSG_ROLE_RW, NULL));
	wait_for_the_end_of(1);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_DECIDED);
}

/* The socket reports unread data before READY. */
TEST(ready_with_an_answer_unread_counts)
{
	struct msg w;
	static const struct msg ping = {.type = MSG_PING, .req = 3};
	int fd = raw_session(srv.path, MSG_ROLE_RW, &w);

	raw_say(fd, &ping, NULL);
	ck_assert_int_eq(raw_pending(fd, 20000), 1);
	real_server_pause(&srv);
	raw_say(fd, &ready, NULL);
	close(fd);
	real_server_resume(&srv);
	wait_for_the_end_of(1);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_GHOST);
	ck_assert_uint_eq(waits(), 1);

	/* Until this process unmaps the region. */
	raw_untie();
	ck_assert_uint_eq(waits(), 0);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_DECIDED);
}

/* It does not matter that an answer to an earlier message is undeliverable. */
TEST(bye_with_an_answer_unread_counts)
{
	static const struct msg ping = {.type = MSG_PING, .req = 2};
	int fd = raw_session(srv.path, MSG_ROLE_RW, NULL);

	raw_say(fd, &ready, NULL);
	raw_say(fd, &ping, NULL);
	ck_assert_int_eq(raw_pending(fd, 20000), 1);
	real_server_pause(&srv);
	raw_say(fd, &ping, NULL);
	raw_say(fd, &bye, NULL);
	close(fd);
	real_server_resume(&srv);
	wait_for_the_end_of(1);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_DECIDED);
}

/* The connection is cut, and the program makes no other call with its handle. */
TEST(closed_handle_that_was_cut_is_not_waited_for)
{
	struct farkv *kv = e2e_open(srv.path, 5000), *none = NULL;

	OK(e2e_put(kv, "key", "value"));
	ck_assert_int_eq(shutdown(kv->conn.session->ch->fd, SHUT_RDWR), 0);
	wait_for_the_end_of(1);
	FAILS(FARKV_EURI, farkv_open("bad://", NULL, &none));
	farkv_close(kv);
	/* No other session asked for its blocks. */
	ck_assert_ptr_nonnull(strstr(farkv_errdetail(), "bad://"));
	wait_for_the_end_of(1);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_DECIDED);
	e2e_expect_str(watcher, "key", "value");
}

/* Before the first read of the region: all Unix sockets but the watcher's are cut. */
static int cut_and_break(void *arg, const struct xport_chain *c, unsigned i,
			 bool after)
{
	int kept = watcher->conn.session->ch->fd;

	(void)arg;
	(void)c;
	(void)i;
	(void)after;
	for (int fd = 3; fd < 64; fd++)
		if (fd != kept)
			(void)shutdown(fd, SHUT_RDWR);
	return 1;
}

static struct xport_lane *wrap(struct xport_lane *lane)
{
	static const struct xport_fault_config cfg = {.hide_direct = true,
						      .hook = cut_and_break};

	return xport_fault_open(lane, &cfg);
}

/* READY was sent, the server has cut the session, and then the open fails. */
TEST(session_whose_open_failed_is_not_waited_for)
{
	struct farkv *none = NULL;

	conn_wrap_lane = wrap;
	FAILS(FARKV_EDISCONNECTED, farkv_open(srv.path, NULL, &none));
	conn_wrap_lane = NULL;
	ck_assert_ptr_null(none);
	/* The watcher, whose connection was cut as well, is back. */
	wait_for_the_end_of(2);
	ck_assert_uint_eq(undecided(), FARKV_FSCK_DECIDED);
}

TEST_SUITE("goodbye", real_server_require())
