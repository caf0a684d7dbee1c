/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory is made huge pages of, and when: by a kernel that is played here. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/atomic.h"
#include "common/clock.h"
#include "common/util.h"
#include "test_main.h"

#define MIB (UINT64_C(1) << 20)
#define TOTAL (300 * MIB)

static bool collapse(void *at, uint64_t bytes);
#define hugepage_collapse collapse
#include "server/ahead.c"

static struct ahead *a;
static uint8_t *const data = (uint8_t *)(uintptr_t)(64 * MIB); /* nobody looks there */

/* What the thread has asked the kernel for; calls that fail, with this errno. */
static uint8_t made[TOTAL / HUGEPAGE_BYTES];
static uint32_t calls, to_fail, fail_errno, outside;

static bool collapse(void *at, uint64_t bytes)
{
	uint64_t off = (uint64_t)((uint8_t *)at - data);

	if (off % HUGEPAGE_BYTES || bytes % HUGEPAGE_BYTES || !bytes || off + bytes > TOTAL)
		atom_store_relaxed(&outside, 1);
	for (uint64_t i = off; i < off + bytes; i += HUGEPAGE_BYTES)
		made[i / HUGEPAGE_BYTES]++;
	atom_store_relaxed(&calls, calls + 1);
	if (!to_fail)
		return true;
	to_fail--;
	errno = (int)fail_errno;
	return false;
}

static void setup(uint64_t bytes)
{
	memset(made, 0, sizeof(made));
	calls = to_fail = outside = 0;
	a = ahead_new(data, bytes);
	ck_assert_ptr_nonnull(a);
	a->again_ns = NS_PER_MS;
}

/* It has nothing to do, and has not been told to stop. */
static bool is_idle(void)
{
	bool idle;

	pthread_mutex_lock(&a->lock);
	idle = !a->running || a->failures >= FAILURES_MAX ||
	       (!due(a, &a->low) && !due(a, &a->high) &&
		a->low.again.from == a->low.again.to &&
		a->high.again.from == a->high.again.to);
	pthread_mutex_unlock(&a->lock);
	return idle;
}

static void settle(void)
{
	for (unsigned i = 0; i < 5000 && !is_idle(); i++)
		usleep(1000);
	ck_assert(is_idle());
	ahead_free(a); /* what it is just doing is over then */
}

/* Each of the first `low` and of the last `high` MiB once, and nothing else. */
static void check_made(uint64_t low, uint64_t high, uint64_t of)
{
	for (uint64_t i = 0; i < TOTAL / HUGEPAGE_BYTES; i++) {
		bool is = i * 2 < low || (i * 2 >= of - high && i * 2 < of);

		ck_assert_msg(made[i] == is, "at %u MiB: %u times", (unsigned)i * 2,
			      made[i]);
	}
	ck_assert_uint_eq(outside, 0);
}

START_TEST(nothing_is_made_before_there_are_values)
{
	setup(TOTAL);
	ahead_used(a, 0, 32768);
	ck_assert(!a->running);
	settle();
	check_made(0, 0, 300);
}
END_TEST

START_TEST(as_much_is_made_ahead_as_is_in_use)
{
	static const struct {
		uint64_t low, high, made_low, made_high;
	} cases[] = {
		{1, 32768, 4, 4},
		{2 * MIB, 0, 4, 2},
		{20 * MIB + 5, 2 * MIB, 42, 4},
		{100 * MIB, 7 * MIB, 164, 14},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		setup(TOTAL);
		ahead_used(a, cases[i].low, cases[i].high);
		settle();
		check_made(cases[i].made_low, cases[i].made_high, 300);
	}
}
END_TEST

/* Use grows, in steps, and also while the thread is at work; less is no news. */
START_TEST(each_is_made_once)
{
	setup(TOTAL);
	for (uint64_t mib = 1; mib <= 40; mib++) {
		ahead_used(a, mib * MIB, mib * MIB / 10);
		ahead_used(a, MIB, 0);
		if (mib % 8 == 0)
			usleep(2000);
	}
	settle();
	check_made(80, 8, 300);
}
END_TEST

START_TEST(both_ends_meet)
{
	setup(101 * MIB);
	ahead_used(a, 40 * MIB, 30 * MIB);
	ahead_used(a, 101 * MIB, 101 * MIB);
	settle();
	check_made(100, 0, 100);
}
END_TEST

START_TEST(what_is_less_than_a_huge_page_is_left_alone)
{
	setup(2 * MIB - 4096);
	ahead_used(a, MIB, MIB);
	settle();
	ck_assert_uint_eq(calls, 0);
}
END_TEST

static void wait_for_calls(uint32_t n)
{
	for (unsigned i = 0; i < 5000 && atom_load_relaxed(&calls) < n; i++)
		usleep(1000);
	ck_assert_uint_eq(atom_load_relaxed(&calls), n);
}

/* Others had a page in hand: later, when all else is done, and no more often than that. */
START_TEST(what_others_have_in_hand_is_tried_again)
{
	setup(TOTAL);
	to_fail = 2;
	fail_errno = EAGAIN;
	ahead_used(a, 40 * MIB, 0); /* two steps and a third, and one from the end */
	wait_for_calls(6);
	settle();
	for (uint64_t i = 0; i < TOTAL / HUGEPAGE_BYTES; i++)
		ck_assert_uint_eq(made[i], i < 32 ? 2 : i < 40 || i == 149);
	ck_assert_uint_eq(outside, 0);
}
END_TEST

/* ... nor for ever; what comes into use later is tried as often. */
START_TEST(what_is_never_let_go_of_is_left)
{
	setup(TOTAL);
	to_fail = UINT32_MAX;
	fail_errno = EAGAIN;
	ahead_used(a, 1, 0);
	wait_for_calls(2 * (1 + AGAIN_MAX));
	usleep(3000 << AGAIN_MAX);
	ck_assert_uint_eq(atom_load_relaxed(&calls), 2 * (1 + AGAIN_MAX));
	ahead_used(a, 3 * MIB, 0);
	wait_for_calls(2 * (1 + AGAIN_MAX) + 1 + AGAIN_MAX);
	settle();
	ck_assert_uint_eq(made[0], 1 + AGAIN_MAX);
	ck_assert_uint_eq(made[2], 1 + AGAIN_MAX);
	ck_assert_uint_eq(made[TOTAL / HUGEPAGE_BYTES - 1], 1 + AGAIN_MAX);
}
END_TEST

/* There are none now: later ones are tried. */
START_TEST(who_fails_goes_on)
{
	setup(TOTAL);
	to_fail = 1;
	fail_errno = ENOMEM;
	ahead_used(a, 1, 0);
	settle();
	check_made(4, 2, 300);
}
END_TEST

START_TEST(who_always_fails_gives_up)
{
	setup(TOTAL);
	to_fail = UINT32_MAX;
	fail_errno = EINVAL;
	ahead_used(a, TOTAL, 0);
	settle();
	ck_assert_uint_eq(calls, FAILURES_MAX);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("huge pages, ahead");
	TCase *t = tcase_create("ahead");

	tcase_add_test(t, nothing_is_made_before_there_are_values);
	tcase_add_test(t, as_much_is_made_ahead_as_is_in_use);
	tcase_add_test(t, each_is_made_once);
	tcase_add_test(t, both_ends_meet);
	tcase_add_test(t, what_is_less_than_a_huge_page_is_left_alone);
	tcase_add_test(t, what_others_have_in_hand_is_tried_again);
	tcase_add_test(t, what_is_never_let_go_of_is_left);
	tcase_add_test(t, who_fails_goes_on);
	tcase_add_test(t, who_always_fails_gives_up);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
