/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions that join, leave or stay silent during a sweep, and processes that linger
 * without a session.
 */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/sweep_rig.h"

TEST_GROUP(.setup = setup, .teardown = teardown);

/* The blocks that it names on leaving are no answer, and come in several messages. */
TEST(session_that_leaves_during_a_sweep_names_its_blocks_first)
{
	struct block_ref own[5], odd;
	int fd = writer(), leaver = writer();
	struct victim v = victim_new(true);
	uint64_t n;

	raw_grant(leaver, 0, 5, own);
	for (int i = 0; i < 5; i++)
		own[i].inc = 3;
	give_back(leaver, own, 5);
	raw_grant(leaver, 0, 5, own);
	ck_assert_uint_eq(own[3].inc, 3);
	victim_kill(&v);
	n = hear_begin(fd);
	ack(fd, n);
	ack(leaver, hear_begin(leaver));
	claim(fd, n, hear_question(fd, n).req, NULL, 0);
	(void)hear_question(leaver, n);
	claim(leaver, n, 0, own, 3);
	check_alive(leaver);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	/* The block counts, not its incarnation. */
	odd = own[3];
	odd.inc = 0;
	claim(leaver, n, 0, &odd, 1);
	claim(leaver, n, 0, own + 4, 1);
	say_bye(leaver);
	hear_end(fd, n);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	ck_assert_uint_eq(stats().blocks_granted, 5);
	say_bye(fd);
}

TEST(session_that_joins_during_a_sweep_takes_part)
{
	struct block_ref granted[4];
	int fd = writer(), comer;
	struct victim v = victim_new(true);
	struct asked a;
	uint64_t n;

	victim_kill(&v);
	n = hear_begin(fd);
	comer = writer();
	ck_assert_uint_eq(hear_begin(comer), n);
	raw_grant(comer, 0, 4, granted);
	ack(fd, n);
	ck_assert_int_eq(raw_pending(fd, 50), 0); /* the new session has not acknowledged */
	ack(comer, n);
	a = hear_question(fd, n);
	ck_assert_uint_eq(among(&a, granted, 4), 0);
	ck_assert_uint_eq(a.n, BLOCKS);
	claim(fd, n, a.req, NULL, 0);
	claim(comer, n, hear_question(comer, n).req, NULL, 0);
	hear_end(fd, n);
	hear_end(comer, n);
	ck_assert_uint_eq(stats().blocks_granted, 4);
	give_back(comer, granted, 4);
	check_alive(comer);
	say_bye(comer);
	say_bye(fd);
}

/* In shared memory a closed socket proves nothing while the process lives. */
TEST(lingering_process_is_waited_for)
{
	struct msg w, hello = {.type = MSG_HELLO, .req = 1};
	struct block_ref refs[BLOCKS];
	int fd = raw_session(srv.path, MSG_ROLE_RW, &w);
	struct farkv_fsck f;

	hello.hello.replaces = w.welcome.session;
	hello.hello.replaces_region[0] = w.welcome.region_id[0];
	hello.hello.replaces_region[1] = w.welcome.region_id[1];
	raw_grant(fd, 0, BLOCKS, refs);
	close(fd);
	wait_for(s.sweep_deaths == 1);
	f = check();
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_GHOST);
	ck_assert_uint_eq(f.silent_pid, (uint64_t)getpid());
	ck_assert_uint_eq(f.silent_session, hello.hello.replaces);
	ck_assert_uint_eq(stats().sweeps, 0);
	raw_untie();
	fd = raw_dial(srv.path);
	raw_say(fd, &hello, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_WELCOME);
	ack(fd, hear_begin(fd));
	claim(fd, 1, hear_question(fd, 1).req, NULL, 0);
	hear_end(fd, 1);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	say_bye(fd);
}

/* It never had the region: only a busy server delays. */
TEST(client_that_left_before_its_welcome_is_not_waited_for)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	int fd;

	real_server_pause(&srv);
	fd = raw_dial(srv.path);
	raw_say(fd, &hello, NULL);
	close(fd);
	real_server_resume(&srv);
	wait_for(s.sessions_total == 2);
	ck_assert_uint_eq(check().undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(stats().sweep_deaths, 0);
}

TEST(fsck_names_the_session_that_does_not_answer)
{
	struct msg w;
	int fd = raw_session(srv.path, MSG_ROLE_RW, &w);
	uint32_t id = w.welcome.session;
	struct farkv_fsck f = check();

	ck_assert_uint_eq(f.undecided, FARKV_FSCK_SILENT);
	ck_assert_uint_eq(f.silent_session, id);
	ck_assert_uint_eq(f.silent_pid, (uint64_t)getpid());
	hear_end(fd, hear_begin(fd));
	say_bye(fd);
	f = check();
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(f.silent_session + f.silent_pid, 0);
}

TEST_SUITE("sweep, sessions", real_server_require())
