/* SPDX-License-Identifier: BSD-3-Clause */
/* What a writer does about rivals: who watches, for how long, and who waits. */
#include "config.h"

#include <check.h>

#include "common/atomic.h"

static unsigned spins;
static unsigned writes_at; /* the rival swaps the word at this spin; 0: never */
static uint64_t place;

static void spin(void)
{
	if (++spins == writes_at)
		place++;
}

#define atom_spin_hint spin
#include "common/contend.h"
#include "test_main.h"

static struct contend c;

static void setup(void)
{
	c = (struct contend){0};
	spins = writes_at = 0;
	place = 1000;
}

START_TEST(a_key_is_hot_when_others_wrote_it_between_two_writes_in_a_row)
{
	ck_assert(!contend_hot(&c, 5));
	contend_note(&c, 5, true, false); /* others may have written it long ago */
	ck_assert(!contend_hot(&c, 5));
	contend_note(&c, 5, false, false);
	ck_assert(!contend_hot(&c, 5));
	contend_note(&c, 5, true, false);
	ck_assert(contend_hot(&c, 5));
	ck_assert(!contend_hot(&c, 6));
	contend_note(&c, 5, false, false); /* who is to watch goes on to */
	ck_assert(contend_hot(&c, 5));
	contend_note(&c, 6, true, false); /* another key */
	ck_assert(!contend_hot(&c, 6));
	ck_assert(!contend_hot(&c, 5));
	contend_note(&c, 5, false, true); /* a lost swap is proof enough */
	ck_assert(contend_hot(&c, 5));
}
END_TEST

static void make_hot(void)
{
	contend_note(&c, 5, false, true);
	ck_assert(contend_hot(&c, 5));
}

START_TEST(who_watches_sees_the_write_soon_after_it)
{
	for (unsigned at = 1; at < CONTEND_WATCH / 2; at++) {
		setup();
		make_hot();
		writes_at = at;
		ck_assert_uint_eq(contend_watch(&c, &place, 1000, 1), 1001);
		ck_assert_uint_le(spins, at + CONTEND_LOOK);
		ck_assert(contend_hot(&c, 5));
	}
}
END_TEST

START_TEST(who_watches_in_vain_writes_and_goes_on_to)
{
	unsigned least = UINT32_MAX, most = 0;

	for (unsigned i = 0; i < 1000; i++) {
		make_hot();
		spins = 0;
		ck_assert_uint_eq(contend_watch(&c, &place, 1000, 1), 1000);
		least = spins < least ? spins : least;
		most = spins > most ? spins : most;
		ck_assert(!contend_hot(&c, 5));
		contend_note(&c, 5, false, false); /* its own write met nobody */
		ck_assert(!contend_hot(&c, 5));
	}
	ck_assert_uint_ge(least, CONTEND_WATCH / 2);
	ck_assert_uint_le(most, CONTEND_WATCH);
	ck_assert_uint_gt(most - least, CONTEND_WATCH / 4);
}
END_TEST

/* Two sessions that write a key in turns, once a second: nobody gains by watching. */
START_TEST(who_sees_others_slow_writes_hardly_ever_watches)
{
	unsigned watched = 0;

	for (unsigned i = 0; i < 10000; i++) {
		bool hot = contend_hot(&c, 5);

		watched += hot;
		if (hot)
			(void)contend_watch(&c, &place, 1000, 1);
		contend_note(&c, 5, !hot, false);
	}
	ck_assert_uint_ge(watched, 2);
	ck_assert_uint_le(watched, CONTEND_VAIN_MAX + (10000 >> CONTEND_VAIN_MAX));
	/* A watch that was worth it: others' writes count again. */
	make_hot();
	spins = 0;
	writes_at = 3;
	ck_assert_uint_eq(contend_watch(&c, &place, 1000, 1), 1001);
	contend_note(&c, 6, false, false);
	contend_note(&c, 5, false, false);
	contend_note(&c, 5, true, false);
	ck_assert(contend_hot(&c, 5));
}
END_TEST

START_TEST(who_loses_again_and_again_waits_longer_up_to_a_bound)
{
	unsigned sum[12] = {0};

	for (unsigned i = 0; i < 1000; i++) {
		unsigned bound = CONTEND_PAUSE_MIN;

		contend_note(&c, 6, false, false); /* another key: from anew */
		contend_note(&c, 5, false, false);
		for (unsigned k = 0; k < 12; k++) {
			spins = 0;
			contend_pause(&c, 7);
			ck_assert_uint_lt(spins, bound);
			sum[k] += spins;
			bound = bound * 2 > CONTEND_PAUSE_MAX ?
					CONTEND_PAUSE_MAX : bound * 2;
			contend_note(&c, 5, false, true);
		}
	}
	/* Half of the bound on average. */
	ck_assert_uint_gt(sum[0], 1000 * CONTEND_PAUSE_MIN / 4);
	ck_assert_uint_gt(sum[11], 1000 * CONTEND_PAUSE_MAX / 3);
	ck_assert_uint_lt(sum[11], 1000 * CONTEND_PAUSE_MAX * 2 / 3);
}
END_TEST

/*
 * Who loses one write in four waits longer and longer; who then meets nobody any more has forgotten it some writes later.
 */
START_TEST(what_it_has_learned_is_not_forgotten_at_once)
{
	unsigned longest;

	for (unsigned i = 0; i <= 1000; i++) {
		contend_note(&c, 5, true, i % 4 == 0);
		if (i % 4 == 0)
			contend_pause(&c, 7);
	}
	ck_assert_uint_eq(c.pause, CONTEND_PAUSE_MAX);
	contend_note(&c, 5, false, false);
	longest = c.pause;
	ck_assert_uint_lt(longest, CONTEND_PAUSE_MAX);
	ck_assert_uint_ge(longest, CONTEND_PAUSE_MAX / 2);
	for (unsigned i = 0; i < 5 * CONTEND_EASE; i++)
		contend_note(&c, 5, false, false);
	ck_assert_uint_le(c.pause, CONTEND_PAUSE_MIN);
}
END_TEST

START_TEST(one_keys_slot_is_known_until_a_barrier)
{
	char longest[CONTEND_KEY_MAX + 1];

	memset(longest, 'x', sizeof(longest));
	ck_assert_uint_eq(contend_slot(&c, "k", 1), 0);
	contend_learn(&c, "key", 3, 4096);
	ck_assert_uint_eq(contend_slot(&c, "key", 3), 4096);
	ck_assert_uint_eq(contend_slot(&c, "kez", 3), 0);
	ck_assert_uint_eq(contend_slot(&c, "ke", 2), 0);
	ck_assert_uint_eq(contend_slot(&c, "key\0", 4), 0);
	contend_note(&c, 6, true, true); /* another key's write is no news of the slot */
	ck_assert_uint_eq(contend_slot(&c, "key", 3), 4096);
	contend_learn(&c, longest, CONTEND_KEY_MAX + 1, 64);
	ck_assert_uint_eq(contend_slot(&c, longest, CONTEND_KEY_MAX + 1), 0);
	contend_learn(&c, longest, CONTEND_KEY_MAX, 64);
	ck_assert_uint_eq(contend_slot(&c, longest, CONTEND_KEY_MAX), 64);
	ck_assert_uint_eq(contend_slot(&c, "key", 3), 0);
	contend_forget(&c);
	ck_assert_uint_eq(contend_slot(&c, longest, CONTEND_KEY_MAX), 0);
}
END_TEST

START_TEST(sessions_do_not_wait_alike)
{
	struct contend other = {0};
	unsigned same = 0;

	for (unsigned i = 0; i < 100; i++)
		same += contend_random(&c, 1000, 1) ==
			contend_random(&other, 1000, 2);
	ck_assert_uint_lt(same, 5);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("contend");
	TCase *t = tcase_create("contend");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t,
		a_key_is_hot_when_others_wrote_it_between_two_writes_in_a_row);
	tcase_add_test(t, who_watches_sees_the_write_soon_after_it);
	tcase_add_test(t, who_watches_in_vain_writes_and_goes_on_to);
	tcase_add_test(t, who_sees_others_slow_writes_hardly_ever_watches);
	tcase_add_test(t, who_loses_again_and_again_waits_longer_up_to_a_bound);
	tcase_add_test(t, what_it_has_learned_is_not_forgotten_at_once);
	tcase_add_test(t, one_keys_slot_is_known_until_a_barrier);
	tcase_add_test(t, sessions_do_not_wait_alike);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
