/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's control loop without sockets: when the notices of a session are free again. */
#include "config.h"

#include <unistd.h>

#include "control_rig.h"

static struct notice_line *notice(unsigned i)
{
	uint64_t page = *(uint64_t *)(void *)(region.meta + REGION_BOARD_OFF);
	uint64_t *hints = region_at(&region, page * PAGE_BYTES);

	ck_assert(region_page_ok(&region.sb, page));
	return (struct notice_line *)(void *)(hints + BOARD_HINTS) + i;
}

static void leaves(struct peer *p, bool goodbye)
{
	p->session->begun = true;
	p->session->left = goodbye;
	control_end_session(p->session);
	ck_assert_ptr_null(p->session);
}

START_TEST(board_is_empty_at_first)
{
	for (unsigned i = 0; i < BOARD_NOTICES; i++) {
		ck_assert_uint_eq(notice(i)->owner, 0);
		ck_assert_uint_eq(notice(i)->count, 0);
	}
}
END_TEST

START_TEST(who_says_goodbye_gives_its_notice_back)
{
	join(&bob, &rig_local, getpid());
	notice(0)->owner = bob.session->id;
	notice(7)->owner = alice.session->id;
	notice(BOARD_NOTICES - 1)->owner = bob.session->id;
	notice(0)->count = 5;
	leaves(&bob, true);
	ck_assert_uint_eq(notice(0)->owner, 0);
	ck_assert_uint_eq(notice(0)->count, 5);
	ck_assert_uint_eq(notice(7)->owner, alice.session->id);
	ck_assert_uint_eq(notice(BOARD_NOTICES - 1)->owner, 0);
}
END_TEST

/* It may store there yet. */
START_TEST(notice_of_who_left_without_goodbye_is_kept_while_its_process_lives)
{
	uint32_t id;
	void *tether;

	join(&bob, &rig_local, getpid());
	tether = bob.tether;
	id = bob.session->id;
	notice(3)->owner = id;
	leaves(&bob, false);
	ck_assert_uint_eq(notice(3)->owner, id);
	/* Others that say goodbye do not wait for it. */
	join(&bob, &rig_local, getpid());
	notice(4)->owner = bob.session->id;
	leaves(&bob, true);
	ck_assert_uint_eq(notice(3)->owner, id);
	ck_assert_uint_eq(notice(4)->owner, 0);
	join(&bob, &rig_local, getpid());
	untie(tether);
	leaves(&bob, true);
	ck_assert_uint_eq(notice(3)->owner, 0);
}
END_TEST

/* It can claim one when the server has ended it already. */
START_TEST(notice_that_was_claimed_behind_the_end_is_free_again)
{
	uint32_t id;
	void *tether;

	join(&bob, &rig_local, getpid());
	tether = bob.tether;
	id = bob.session->id;
	leaves(&bob, false);
	notice(3)->owner = id;
	notice(5)->owner = alice.session->id;
	join(&bob, &rig_local, getpid());
	notice(6)->owner = bob.session->id;
	untie(tether);
	leaves(&bob, true);
	ck_assert_uint_eq(notice(3)->owner, 0);
	ck_assert_uint_eq(notice(5)->owner, alice.session->id);
	ck_assert_uint_eq(notice(6)->owner, 0);
}
END_TEST

/* A connection that never was a session has no number, as free notices have none. */
START_TEST(who_never_was_welcomed_has_none)
{
	void *tether;

	join(&bob, &rig_local, getpid());
	tether = bob.tether;
	leaves(&bob, false);
	join(&bob, &rig_local, getpid());
	notice(2)->owner = alice.session->id;
	bob.session->welcomed = false;
	bob.session->id = 0;
	c->stats.sessions--;
	leaves(&bob, false);
	ck_assert_uint_eq(notice(2)->owner, alice.session->id);
	untie(tether);
}
END_TEST

static void begin(void)
{
	rig_begin(0);
}

static Suite *suite(void)
{
	Suite *s = suite_create("board");
	TCase *t = tcase_create("board");

	tcase_add_checked_fixture(t, begin, rig_end);
	tcase_add_test(t, board_is_empty_at_first);
	tcase_add_test(t, who_says_goodbye_gives_its_notice_back);
	tcase_add_test(t, notice_of_who_left_without_goodbye_is_kept_while_its_process_lives);
	tcase_add_test(t, notice_that_was_claimed_behind_the_end_is_free_again);
	tcase_add_test(t, who_never_was_welcomed_has_none);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
