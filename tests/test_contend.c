/* SPDX-License-Identifier: BSD-3-Clause */
/* What a writer does about rivals: who watches, for how long, and who waits. */
#include "config.h"

#include <stdlib.h>

#include <check.h>

#include "common/atomic.h"
#include "common/cpu.h"

static unsigned spins;
static unsigned writes_at; /* the rival swaps the word at this spin; 0: never */
static uint64_t place;

#define SPIN_TICKS 64u
static uint64_t clock_at, spin_takes;

static void spin(void)
{
	clock_at += spin_takes;
	if (++spins == writes_at)
		place++;
	if (spins > 1000000)
		abort(); /* a watch without an end */
}

/* A look at what nobody has written since the last one is at what this CPU's cache has. */
static uint64_t look_takes, near_takes, seen;

static uint64_t load(const uint64_t *at)
{
	clock_at += *at == seen ? near_takes : look_takes;
	return seen = *at;
}

static uint64_t clock_takes, asked;

static uint64_t clock_now(void)
{
	asked++;
	clock_at += clock_takes;
	return clock_at;
}

#define atom_spin_hint spin
#undef atom_load_follow
#define atom_load_follow load
#define cpu_ticks clock_now
#include "common/contend.h"
#include "test_main.h"

static struct contend c;

static void setup(void)
{
	c = (struct contend){0};
	spins = writes_at = 0;
	place = seen = 1000;
	clock_at = asked = 0;
	clock_takes = 10;
	spin_takes = SPIN_TICKS;
	look_takes = near_takes = 60;
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

/* As a put watches: true if it stands before another one's. */
static bool watch(void)
{
	uint64_t was;
	bool stands;

	contend_wait(&c);
	was = place;
	spins = 0;
	stands = contend_watch(&c, &place, was, 1, 1) != was;
	if (stands)
		contend_stand(&c);
	else
		contend_vain(&c);
	contend_note(&c, 5, false, stands);
	return stands;
}

/* The next write comes at this spin; at which is it seen? */
static unsigned watch_one(unsigned at)
{
	writes_at = at;
	ck_assert(watch());
	ck_assert_uint_ge(spins, at);
	return spins;
}

START_TEST(who_watches_sees_the_write_soon_after_it)
{
	for (unsigned at = 1; at < CONTEND_WATCH / 2; at++) {
		setup();
		make_hot();
		ck_assert_uint_eq(watch_one(at), at);
		ck_assert(contend_hot(&c, 5));
	}
}
END_TEST

/* Watches until those that are timed were `n`. */
static void watch_timed(unsigned n)
{
	for (unsigned i = 0; i < n * CONTEND_TIMED; i++)
		(void)watch_one(1);
}

/* Until what is known of the cost of a look is what one takes that finds a write. */
static void learn_cost(uint64_t takes)
{
	look_takes = near_takes + takes;
	watch_timed(8 * CONTEND_COST_EASE);
	c.stood = 0;
}

/* A count that grows once has not grown enough. */
START_TEST(who_listens_waits_for_the_step_and_not_for_long)
{
	for (unsigned i = 0; i < 300; i++) {
		uint64_t was = place;

		spins = 0;
		writes_at = 3;
		ck_assert_uint_eq(contend_watch(&c, &place, was, 2, 1), was + 1);
		ck_assert_uint_ge(spins, CONTEND_LISTEN / 2);
		ck_assert_uint_lt(spins, CONTEND_LISTEN);
		spins = 0;
		writes_at = 3;
		ck_assert_uint_eq(contend_watch(&c, &place, place - 1, 2, 1), was + 2);
		ck_assert_uint_eq(spins, 3);
		ck_assert_uint_ge(contend_watch(&c, &place, place - 2, 2, 1), was + 2);
		ck_assert_uint_eq(spins, 4); /* it looks behind a spin */
	}
}
END_TEST

START_TEST(who_is_far_from_the_writer_looks_seldom)
{
	make_hot();
	watch_timed(3);
	ck_assert_uint_eq(watch_one(1), 1);
	/* Two looks that were interrupted say nothing. */
	look_takes = 1000000;
	watch_timed(2);
	ck_assert_uint_eq(watch_one(1), 1);
	learn_cost(0);
	/* What the clock itself takes is no part of it. */
	clock_takes = 5000;
	learn_cost(0);
	ck_assert_uint_eq(watch_one(1), 1);
	/* Nor is it less than nothing. */
	near_takes = 100;
	learn_cost((uint64_t)-10);
	ck_assert_uint_eq(watch_one(1), 1);
	/* Far by little; looks at what is as it was do not tell how far that is. */
	look_takes = near_takes + CONTEND_FAR + 1;
	for (unsigned i = 0; i < 8 * CONTEND_COST_EASE * CONTEND_TIMED; i++)
		(void)watch_one(2);
	ck_assert_uint_eq(watch_one(1), CONTEND_LOOK_FAR);
	ck_assert_uint_eq(watch_one(CONTEND_LOOK_FAR), CONTEND_LOOK_FAR);
	ck_assert_uint_eq(watch_one(CONTEND_LOOK_FAR + 1), 2 * CONTEND_LOOK_FAR);
	/* The last look comes behind the last spin. */
	for (unsigned i = 0; i < 300; i++) {
		bool stands;

		c.stood = c.push = 0;
		writes_at = CONTEND_WATCH / 2 + 1;
		stands = watch();
		ck_assert(stands == (spins >= writes_at));
		ck_assert_uint_ge(spins, CONTEND_WATCH / 2);
		ck_assert_uint_le(spins, CONTEND_WATCH);
		make_hot();
	}
	/* The system was moved to CPUs that are near each other: that is seen soon. */
	learn_cost(4 * CONTEND_FAR);
	look_takes = near_takes;
	for (unsigned i = 0; i < 5 * CONTEND_COST_EASE; i++)
		(void)watch_one(1);
	ck_assert_uint_eq(watch_one(1), 1);
}
END_TEST

/* The clock goes on by so much while it lets the writer be. */
static uint64_t lets_be(void)
{
	uint64_t begin = clock_at;

	contend_wait(&c);
	return clock_at - begin;
}

START_TEST(who_is_far_and_steady_lets_the_writer_be)
{
	uint64_t least, away;

	make_hot();
	learn_cost(CONTEND_FAR - 1); /* near */
	c.steady = CONTEND_STEADY;
	(void)watch_one(1);
	ck_assert_uint_eq(lets_be(), 0);
	for (uint64_t far = CONTEND_FAR; far <= CONTEND_COST_MAX; far *= 2) {
		least = far * CONTEND_LET_BE;
		learn_cost(far);
		/* Only whose first look was enough, often: others may put it now and then. */
		contend_note(&c, 6, false, false);
		make_hot();
		for (unsigned i = 0; i < CONTEND_STEADY; i++) {
			ck_assert_uint_eq(lets_be(), 0);
			(void)watch_one(1);
		}
		ck_assert_uint_gt(lets_be(), 0);
		(void)watch_one(CONTEND_LOOK_FAR + 1);
		ck_assert_uint_eq(lets_be(), 0);
		c.steady = CONTEND_STEADY;
		writes_at = 0;
		ck_assert(!watch());
		make_hot();
		ck_assert_uint_eq(lets_be(), 0);
		(void)watch_one(1);
		c.steady = CONTEND_STEADY;
		ck_assert_uint_ge(lets_be() + clock_takes, least);
		(void)watch_one(1);
		c.steady = CONTEND_STEADY;
		ck_assert_uint_le(lets_be(), least + SPIN_TICKS + 2 * clock_takes);
		/* It has been away: */
		(void)watch_one(1);
		c.steady = CONTEND_STEADY;
		clock_at += least / 2;
		away = lets_be();
		ck_assert_uint_ge(away + 2 * clock_takes, least / 2);
		ck_assert_uint_le(away, least / 2 + SPIN_TICKS + 2 * clock_takes);
		(void)watch_one(1);
		c.steady = CONTEND_STEADY;
		clock_at += least;
		ck_assert_uint_le(lets_be(), clock_takes);
		/* the clock was set back. */
		clock_at = 1000;
		ck_assert_uint_le(lets_be(), clock_takes);
	}
	/* Who may not wait looks later. */
	(void)watch_one(1);
	c.steady = CONTEND_STEADY;
	spins = 0;
	writes_at = 1;
	(void)contend_watch(&c, &place, place, 1, 1);
	ck_assert_uint_eq(spins, CONTEND_LOOK_SOON);
	/* The clock stands still: it does not wait for ever. */
	clock_takes = 0;
	spin_takes = 0;
	c.steady = CONTEND_STEADY;
	c.watched = clock_at;
	ck_assert_uint_eq(lets_be(), 0);
	clock_takes = 10;
	spin_takes = SPIN_TICKS;
	/* No look takes longer than the longest. */
	learn_cost(1000000);
	(void)watch_one(1);
	c.steady = CONTEND_STEADY;
	ck_assert_uint_le(lets_be(), (uint64_t)CONTEND_COST_MAX * CONTEND_LET_BE +
					     SPIN_TICKS + 2 * clock_takes);
}
END_TEST

/* Stands before so many writes, and has the turn. */
static void get_turn(void)
{
	make_hot();
	for (unsigned i = 0; i < CONTEND_STAND; i++) {
		ck_assert(contend_hot(&c, 5));
		(void)watch_one(1);
	}
	ck_assert(!contend_hot(&c, 5));
}

START_TEST(who_has_watched_for_long_writes_whatever_it_meets)
{
	unsigned writes = 0;

	for (unsigned i = 0; i < 4; i++) {
		get_turn();
		for (writes = 0; !contend_hot(&c, 5) && writes < 1000; writes++)
			contend_note(&c, 5, i & 1, i & 2);
		if (i) /* it meets others still */
			ck_assert_uint_eq(writes, CONTEND_PUSH);
		else
			ck_assert_uint_eq(writes, 1000);
	}
	/* The turn is of one key, */
	get_turn();
	contend_note(&c, 6, false, false);
	contend_note(&c, 5, false, true);
	ck_assert(contend_hot(&c, 5));
	/* and so is what leads to it. */
	for (unsigned i = 0; i + 1 < CONTEND_STAND; i++)
		(void)watch_one(1);
	contend_note(&c, 6, false, false);
	make_hot();
	(void)watch_one(1);
	ck_assert(contend_hot(&c, 5));
	/* Watches in vain delay it. */
	for (unsigned i = 0; i + 2 < CONTEND_STAND; i++) {
		(void)watch_one(1);
		writes_at = 0;
		ck_assert(i % 100 || !watch());
		make_hot();
	}
	(void)watch_one(1);
	ck_assert(!contend_hot(&c, 5));
}
END_TEST

/* Each of them takes longer. */
START_TEST(who_watches_from_far_has_its_turn_after_fewer)
{
	unsigned stands = 0, each = CONTEND_COST_MAX / 2 * CONTEND_LET_BE;

	make_hot();
	learn_cost(CONTEND_COST_MAX / 2);
	contend_note(&c, 6, false, false);
	for (make_hot(); contend_hot(&c, 5) && stands < CONTEND_STAND; stands++)
		(void)watch_one(1);
	ck_assert_uint_eq(c.push, CONTEND_PUSH - 1);
	ck_assert_uint_le(stands, CONTEND_STEADY +
				  CONTEND_STAND * CONTEND_STAND_TICKS / each);
	ck_assert_uint_gt(stands, CONTEND_STEADY);
}
END_TEST

START_TEST(few_watches_ask_the_clock)
{
	uint64_t most = 3 * CONTEND_TIMED_LOOKS * (1000 / CONTEND_TIMED + 1);

	make_hot();
	for (unsigned i = 0; i < 1000; i++) {
		(void)watch(); /* in vain */
		make_hot();
	}
	ck_assert_uint_gt(asked, 0);
	ck_assert_uint_le(asked, most);
	asked = 0;
	for (unsigned i = 0; i < 1000; i++)
		(void)watch_one(CONTEND_WATCH / 4);
	ck_assert_uint_gt(asked, 0);
	ck_assert_uint_le(asked, most);
}
END_TEST

/* ... so that of two the one that writes is each one half of the time. */
START_TEST(two_that_write_one_key_are_the_writer_in_turns)
{
	struct contend two[2] = {0};
	unsigned wrote[2] = {0}, writer = 0;

	contend_note(&two[0], 5, false, false);
	contend_note(&two[1], 5, false, true);
	for (unsigned i = 0; i < 20 * CONTEND_STAND; i++) {
		unsigned other = !writer;

		wrote[writer]++;
		spins = 0;
		if (contend_hot(&two[other], 5)) {
			uint64_t now = ++place;

			ck_assert_uint_eq(contend_watch(&two[other], &place, now - 1, 1, 1),
					  now);
			contend_stand(&two[other]);
			contend_note(&two[other], 5, false, true);
			contend_note(&two[writer], 5, false, false);
		} else {
			/* Both swap: it was the writer that lost, and found that so. */
			contend_note(&two[other], 5, true, false);
			contend_note(&two[writer], 5, false, true);
			ck_assert(contend_hot(&two[writer], 5));
			ck_assert(!contend_hot(&two[other], 5));
			writer = other;
		}
	}
	ck_assert_uint_ge(wrote[0], 8 * CONTEND_STAND);
	ck_assert_uint_ge(wrote[1], 8 * CONTEND_STAND);
}
END_TEST

START_TEST(who_watches_in_vain_writes_and_goes_on_to)
{
	unsigned least = UINT32_MAX, most = 0;

	for (unsigned i = 0; i < 1000; i++) {
		make_hot();
		ck_assert(!watch());
		least = spins < least ? spins : least;
		most = spins > most ? spins : most;
		ck_assert(!contend_hot(&c, 5));
		contend_note(&c, 5, false, false); /* its own write met nobody */
		ck_assert(!contend_hot(&c, 5));
	}
	ck_assert_uint_ge(least, CONTEND_WATCH / 2);
	ck_assert_uint_le(most, CONTEND_WATCH);
	ck_assert_uint_gt(most - least, CONTEND_WATCH / 4);
	ck_assert_uint_eq(c.overlook, 1u << CONTEND_VAIN_MAX);
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
			(void)watch();
		else
			contend_note(&c, 5, true, false);
	}
	ck_assert_uint_ge(watched, 2);
	ck_assert_uint_le(watched, CONTEND_VAIN_MAX + (10000 >> CONTEND_VAIN_MAX));
	/* A watch that was worth it: others' writes count again. */
	make_hot();
	(void)watch_one(3);
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
	tcase_add_test(t, who_listens_waits_for_the_step_and_not_for_long);
	tcase_add_test(t, who_is_far_from_the_writer_looks_seldom);
	tcase_add_test(t, who_is_far_and_steady_lets_the_writer_be);
	tcase_add_test(t, who_has_watched_for_long_writes_whatever_it_meets);
	tcase_add_test(t, who_watches_from_far_has_its_turn_after_fewer);
	tcase_add_test(t, few_watches_ask_the_clock);
	tcase_add_test(t, two_that_write_one_key_are_the_writer_in_turns);
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
